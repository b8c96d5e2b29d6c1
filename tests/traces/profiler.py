"""Writes profiler.trace.json.gz and profiler.raw.json.gz of this folder: what torch.profiler says of the memory of one
training step; of the chrome trace only what allocates, operators, modules and functions of this file are kept. Prints what
PyTorch's counters say: peak and end of allocated bytes, peak of reserved ones.
usage: profiler.py FOLDER (PyTorch 2.15)"""

import gzip, json, sys
import torch
from torch.profiler import ProfilerActivity, profile

folder = sys.argv[1]


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()


model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
x, y = torch.randn(32, 64, device="cuda"), torch.randint(10, (32,), device="cuda")
with profile(activities=[ProfilerActivity.CPU], profile_memory=True, record_shapes=True, with_stack=True) as p:
    step(model, optimizer, x, y)
print(torch.cuda.max_memory_allocated(), torch.cuda.memory_allocated(), torch.cuda.max_memory_reserved())
p.export_memory_timeline(folder + "/profiler.raw.json.gz", device="cuda:0")
p.export_chrome_trace(folder + "/profiler.trace.json")
with open(folder + "/profiler.trace.json") as f:
    trace = json.load(f)
kept = []
for e in trace["traceEvents"]:
    own = e["name"].startswith(("profiler.py", "nn.Module"))
    if e["name"] == "[memory]" or e.get("cat") == "cpu_op" or (e.get("cat") == "python_function" and own):
        if e["ph"] == "X":
            e.pop("args", None)
        kept.append(e)
with gzip.GzipFile(folder + "/profiler.trace.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps({"schemaVersion": trace["schemaVersion"], "traceEvents": kept}).encode())
