#!/usr/bin/env python3
"""Which batches PyTorch trains before it runs out of memory, found by trying.
usage: fit.py NAME [NAME+bf16] [NAME=BATCH] ...      (models of torchvision; +bf16: under autocast)
Three AdamW steps in a process of its own for every batch: doubling, bisection, and the twelve batches above the largest that
trained, since how blocks lie in segments changes with every size. Prints rows of fit.txt: model, mode, batch, trains or oom,
and how many times cached memory went back. On a device whose memory is NULLGPU_TOTAL_BYTES, of which
NULLGPU_CONTEXT_BYTES are not PyTorch's, or on any other. NAME=BATCH prints a row of alloc_conf.txt: model, mode, batch,
PYTORCH_CUDA_ALLOC_CONF, and the highest allocated and reserved bytes of the third step."""

import json, os, sys
import torch, torchvision


def steps(name, amp, batch):
    model = getattr(torchvision.models, name)().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    x = torch.zeros(batch, 3, 224, 224, device="cuda")
    target = torch.zeros(batch, dtype=torch.long, device="cuda")
    for _ in range(3):
        torch.cuda.reset_peak_memory_stats()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=amp):
            loss = torch.nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        del loss
    s = torch.cuda.memory_stats()
    return [s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"], s["num_alloc_retries"]]


def trains(name, amp, batch):
    """What three steps took; None: out of memory."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            out = steps(name, amp, batch)
        except torch.OutOfMemoryError:
            out = None
        os.write(w, json.dumps(out).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        out = json.load(f)
    os.waitpid(pid, 0)
    return out


def search(name, amp, show):
    tried = {}

    def try_one(batch):
        if batch not in tried:
            tried[batch] = trains(name, amp, batch)
            show(batch, "trains" if tried[batch] else "oom", tried[batch][2] if tried[batch] else "-")
        return tried[batch] is not None

    good, bad = 0, 1
    while try_one(bad):
        good, bad = bad, bad * 2
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if try_one(middle) else (good, middle)
    for batch in range(bad, bad + 12):
        try_one(batch)


for word in sys.argv[1:]:
    word, _, batch = word.partition("=")
    name, _, amp = word.partition("+")
    if batch:
        conf = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "-")
        print(name, amp or "fp32", batch, conf, *trains(name, bool(amp), int(batch))[:2], flush=True)
        continue
    search(name, bool(amp), lambda *row: print(name, amp or "fp32", *row, flush=True))
