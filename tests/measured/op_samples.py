#!/usr/bin/env python3
"""A small module for each differentiable op of PyTorch's own tests (torch.testing: op_db), called with one of their samples.

    op_samples.py FOLDER [SAMPLE]                    writes FOLDER/programs.txt (samples 0, 2, 4 of each op; SAMPLE: only that)
    programs.py measure FOLDER; programs.py table FOLDER/programs.csv

What wants a gradient is a parameter of the module, times 1.5, other tensors are its buffers; the loss is the sum of what is differentiable.
"""

import os, random, re, sys

import torch, torch.nn as nn
from torch.utils._pytree import tree_flatten, tree_unflatten


def database():
    """the list of ops; making it asks for devices, which a process that forks may not have begun to use"""
    asked = torch.cuda.is_available, torch.cuda.device_count
    if not torch.cuda.is_initialized():
        torch.cuda.is_available, torch.cuda.device_count = lambda: False, lambda: 0
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    finally:
        torch.cuda.is_available, torch.cuda.device_count = asked
    return op_db


def name_of(op):
    return re.sub(r"\W", "_", "_".join(p for p in (op.name, op.variant_test_name) if p))


OPS = {name_of(o): o for o in database() if o.supports_autograd and torch.float32 in o.dtypes}


class Sampled(nn.Module):
    def __init__(self, op, which):
        super().__init__()
        torch.manual_seed(0)
        random.seed(0)
        samples = list(op.sample_inputs("cpu", torch.float32, requires_grad=True))
        samples = [s for s in samples if not torch.is_tensor(s.input) or s.input.numel()] or samples
        if not samples:  # some are made of tensors with memory alone
            raise RuntimeError("no samples")
        sample = samples[min(which, len(samples) - 1)]
        flat, self.spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        self.op, self.result = op.op, sample.output_process_fn_grad
        self.parameter, self.argument = nn.ParameterList(), []
        for i, v in enumerate(flat):
            if torch.is_tensor(v) and v.requires_grad and v.is_leaf:
                self.parameter.append(nn.Parameter(v.detach().clone()))
                v = "parameter", len(self.parameter) - 1
            elif torch.is_tensor(v):
                self.register_buffer(f"tensor{i}", v.detach().clone())
                v = "buffer", f"tensor{i}"
            else:
                v = "value", v
            self.argument.append(v)
        if not len(self.parameter):
            raise ValueError("nothing in this sample wants a gradient")

    def take(self, kind, what):
        if kind == "parameter":
            return self.parameter[what] * 1.5
        return getattr(self, what) if kind == "buffer" else what

    def forward(self, x):
        first, rest, named = tree_unflatten([self.take(*a) for a in self.argument], self.spec)
        flat, _ = tree_flatten(self.result(self.op(first, *rest, **named)))
        made = [
            torch.view_as_real(t.resolve_conj()) if torch.is_complex(t) else t
            for t in flat
            if torch.is_tensor(t)
        ]
        return sum(t.sum() for t in made if t.is_floating_point() and t.requires_grad) + x.sum()


def program(op, which):
    return lambda: (Sampled(op, which), {"x": torch.zeros(2, 3)})


for name, op in OPS.items():
    for which in (0, 2, 4):
        globals()[f"{name}_sample{which}"] = program(op, which)


def runs(name, which):
    """is there a loss that has a gradient, on the CPU?"""
    try:
        module, inputs = globals()[f"{name}_sample{which}"]()
        loss = module(**inputs)
        loss.backward()
        return True
    except Exception:
        return False


if __name__ == "__main__":
    folder, which = sys.argv[1], [int(w) for w in sys.argv[2:]] or (0, 2, 4)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "programs.txt"), "w") as f:
        for name in OPS:
            for w in which:
                if runs(name, w):
                    f.write(f"{os.path.abspath(__file__)}:{name}_sample{w} op\n")
