"""One training step of a torchvision model, with PyTorch's allocator or, if a library is named, with
vram's pool in its place; prints the bytes that are reserved, and their peak."""

import ctypes
import sys

import torch
import torchvision

if len(sys.argv) > 1:
    allocator = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], "vram_torch_malloc", "vram_torch_free")
    torch.cuda.memory.change_current_allocator(allocator)
    stat = ctypes.CDLL(sys.argv[1]).vram_torch_stat
    stat.restype = ctypes.c_longlong
    stats = lambda name: stat(0, name.encode())
else:
    stats = lambda name: torch.cuda.memory_stats()[name]

model = torchvision.models.resnet18().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for batch in 4, 16, 7:
    x = torch.zeros(batch, 3, 224, 224, device="cuda")
    loss = torch.nn.functional.cross_entropy(model(x), torch.zeros(batch, dtype=torch.long, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print(stats("reserved_bytes.all.current"), stats("reserved_bytes.all.peak"), stats("allocated_bytes.all.peak"))
