"""Two training steps of a torchvision model; prints what PyTorch says that it holds: end and peak."""

import torch
import torchvision

model = torchvision.models.resnet18().cuda()
optimizer = torch.optim.AdamW(model.parameters())
for batch in 8, 16:
    x = torch.zeros(batch, 3, 224, 224, device="cuda")
    loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(batch, dtype=torch.long, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    del x, loss
    torch.cuda.empty_cache()
with torch.cuda.nvtx.range("kept"):
    y = [torch.empty(n << 19, device="cuda") for n in (1, 3, 40, 7)]
del y[2]
torch.cuda.synchronize()
print(torch.cuda.memory_reserved(), torch.cuda.max_memory_reserved())
