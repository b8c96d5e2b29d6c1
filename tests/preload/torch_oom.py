"""Out of memory under vram's allocator: in the thread of the program and in that of backward; then it
goes on."""

import sys

import torch

allocator = torch.cuda.memory.CUDAPluggableAllocator(sys.argv[1], "vram_torch_malloc", "vram_torch_free")
torch.cuda.memory.change_current_allocator(allocator)
said = []
try:
    torch.empty(1 << 44, dtype=torch.uint8, device="cuda")
except RuntimeError as error:
    said.append(type(error).__name__)
x = torch.zeros(1 << 15, 1 << 15, device="cuda", requires_grad=True)
y = (x * x).sum()
rest = torch.empty((70 << 30), dtype=torch.uint8, device="cuda")
try:
    y.backward()
except RuntimeError as error:
    said.append(type(error).__name__)
del rest
y = (x * x).sum().backward()
print(*said, "goes on")
