"""Writes step.pickle and step.json of this folder: PyTorch's memory snapshot of two training steps, empty_cache() between
them, and a block that a second stream uses. Prints what PyTorch's counters say at the end.
usage: record.py FOLDER [late]      late: recording begins after a first step"""

import json, os, pickle, sys
import torch

folder, late = sys.argv[1], len(sys.argv) > 2


def record():
    torch.cuda.memory._record_memory_history(context=None)


def step(model, optimizer, batch):
    x = torch.zeros(batch, 300, device="cuda")
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


record()
model = torch.nn.Sequential(torch.nn.Linear(300, 4000), torch.nn.ReLU(), torch.nn.Linear(4000, 900)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
if late:
    step(model, optimizer, 64)
    torch.cuda.memory._record_memory_history(enabled=None)
    record()
step(model, optimizer, 64)
torch.cuda.empty_cache()
step(model, optimizer, 96)
with torch.cuda.stream(torch.cuda.Stream()):
    x = torch.zeros(3000000, device="cuda")
y = x * 2
x.record_stream(torch.cuda.current_stream())
del x
y = torch.zeros(10, device="cuda")
name = os.path.join(folder, "late" if late else "step")
torch.cuda.memory._dump_snapshot(name + ".pickle")
with open(name + ".pickle", "rb") as f:
    snapshot = pickle.load(f)
if not late:
    with open(name + ".json", "w") as f:
        json.dump(snapshot, f, separators=(",", ":"))
s = torch.cuda.memory_stats()
for key in "requested_bytes", "allocated_bytes", "reserved_bytes", "segment":
    print(key, s[key + ".all.peak"], s[key + ".all.current"])
