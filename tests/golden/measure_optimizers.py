#!/usr/bin/env python3
"""Measures what each optimizer of torch.optim allocates and frees in its first and in a later step and prints optimizer_steps.txt.
usage: measure_optimizers.py > optimizer_steps.txt        (a PyTorch with a CUDA device; kernels may do nothing, only their host code matters)
Needs bitsandbytes and timm, too."""
import contextlib, os, sys
import torch, bitsandbytes, timm.utils
from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import measure_torch

OPTIMIZERS = measure_torch.OPTIMIZERS | {
    "adam_8bit": ("Adam8bit", {}),
    "adamw_8bit": ("AdamW8bit", {}),
    "sgd_momentum_8bit": ("SGD8bit", {"momentum": 0.9}),
    "rmsprop_8bit": ("RMSprop8bit", {}),
    "adagrad_8bit": ("Adagrad8bit", {}),
    "lion_8bit": ("Lion8bit", {}),
    "paged_adam_8bit": ("PagedAdam8bit", {}),
    "paged_adamw_8bit": ("PagedAdamW8bit", {}),
    "paged_lion_8bit": ("PagedLion8bit", {}),
    "adamw_32bit": ("AdamW32bit", {}),
    "lion_32bit": ("Lion32bit", {}),
    "paged_adamw_32bit": ("PagedAdamW32bit", {}),
    "paged_lion_32bit": ("PagedLion32bit", {}),
}
IMPLEMENTATIONS = {"foreach": {"foreach": True}, "loop": {"foreach": False}, "fused": {"fused": True}}
OPTIONS = {"-": {}, "wd": {"weight_decay": 0.1}, "capturable": {"capturable": True}, "capturable,wd": {"capturable": True, "weight_decay": 0.1}}
# What a loop does around the step of sgd.
CLIPPED = {"clip": {"foreach": True}, "clip_loop": {"foreach": False}}
AVERAGED = {
    "ema": (lambda m: AveragedModel(m, multi_avg_fn=get_ema_multi_avg_fn()), "update_parameters"),
    "ema_loop": (lambda m: AveragedModel(m, avg_fn=get_ema_avg_fn()), "update_parameters"),
    "ema_timm": (timm.utils.ModelEmaV2, "update"),
}
NO_DECAY = ("Rprop",)  # has no weight decay
DECOUPLED = ("AdamW", "Adafactor", "Muon")  # theirs is another one
SETS = {
    "f32": "f32[1000,700] f32[700] f32[512,256,3,3] f32[512] f32[64,64] f32[1] f32[3000,1000] f32[] f32[33,7]",
    "mixed": "bf16[1000,700] f32[700] f32[] f16[512,256,3,3] bf16[512] bf16[] f32[64,64] f16[1] f32[3000,1000] f16[] bf16[33,7]",
}
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
LATER = 8
HEAD = """# What torch.optim allocated and freed in its first and in a later step, in order. Written by measure_optimizers.py; do not edit.
# Source: PyTorch {version} (host code), a device of compute capability 9.0 with 132 multiprocessors. Parameters, in their order:
{sets}
# muon has those of two axes. Bytes that tensors asked for; peak, after: more than before the step. hash: FNV-1a 64 over 8 little-endian bytes
# of each size in order, of a free also those of the number of the allocation, 1 for the first of the step.
# name implementation options parameters state, of the first step: peak after events hash, of a later one: peak after events hash
"""


def events(trace):
    """how many, and their hash"""
    h, count, allocations, number = 0xCBF29CE484222325, 0, 0, {}
    for t in trace:
        if t["action"] == "alloc":
            number[t["addr"]] = allocations = allocations + 1
            values = (t["size"],)
        elif t["action"] == "free_completed":
            values = (t["size"], number.pop(t["addr"]))
        else:
            continue
        count += 1
        for b in b"".join(v.to_bytes(8, "little") for v in values):
            h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return count, f"{h:016x}"


def parameters(text, matrices):
    for word in text.split():
        dtype, axes = word.rstrip("]").split("[")
        shape = [int(a) for a in axes.split(",") if a]
        if not matrices or len(shape) == 2:
            yield torch.nn.Parameter(torch.empty(shape, device="cuda", dtype=TYPES[dtype]))


def stat(what):
    return torch.cuda.memory_stats()[f"requested_bytes.all.{what}"]


def measured(cls, arguments, text, clip=None, average=None):
    params = list(parameters(text, cls == "Muon"))
    model = torch.nn.ParameterList(params)
    if average:
        copy = average[0](model)
    bare = stat("current")
    optimizer = getattr(torch.optim if hasattr(torch.optim, cls) else bitsandbytes.optim, cls)(params, lr=1e-3, **arguments)
    row = []
    for step in range(1, LATER + 1):
        for p in params:
            p.grad = torch.empty_like(p)
        before = stat("current")
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.memory._record_memory_history(enabled="all", context=None, stacks="python", max_entries=100_000)
        begin = len(torch.cuda.memory._snapshot()["device_traces"][0])
        if clip:
            torch.nn.utils.clip_grad_norm_(params, 1.0, **clip)
        optimizer.step()
        if average:
            getattr(copy, average[1])(model)
        trace = torch.cuda.memory._snapshot()["device_traces"][0][begin:]
        torch.cuda.memory._record_memory_history(enabled=None)
        if step in (1, LATER):
            row += [stat("peak") - before, stat("current") - before, *events(trace)]
        for p in params:
            p.grad = None
    return [stat("current") - bare] + row


def around(name):
    for kind, text in SETS.items():
        for options, clip in CLIPPED.items():
            print(name, "foreach", options, kind, *measured("SGD", {}, text, clip))
        for options, average in AVERAGED.items():
            print(name, "foreach", options, kind, *measured("SGD", {}, text, None, average))


def main():
    print(HEAD.format(version=torch.__version__, sets="\n".join(f"#   {k}: {v}" for k, v in SETS.items())), end="")
    for name, (cls, arguments) in OPTIMIZERS.items():
        if not hasattr(torch.optim, cls):
            for kind, text in SETS.items():
                with contextlib.suppress(ValueError):  # some have no kernel for bf16 with a state in f32
                    print(name, "loop", "-", kind, *measured(cls, arguments, text))
            continue
        for impl, chosen in IMPLEMENTATIONS.items():
            for options, more in OPTIONS.items():
                if "weight_decay" in more and cls in NO_DECAY + DECOUPLED:
                    continue
                if cls == "Muon":
                    chosen = {} if impl == "loop" else {"foreach": impl}
                for kind, text in SETS.items():
                    try:
                        row = measured(cls, {**arguments, **chosen, **more}, text)
                    except (TypeError, RuntimeError, ValueError) as e:
                        if "unexpected keyword argument" not in str(e) and "fused" not in str(e):
                            raise
                        continue  # there is no such implementation or option
                    print(name, impl, options, kind, *row)
    around("sgd")


main()
