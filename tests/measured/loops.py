#!/usr/bin/env python3
"""Training loops as people write them, on a device or a pretended one.
usage: loops.py     prints the rows of tests/golden/loops/loops.txt: text, options of vram estimate, and of the fourth step for
each phase the requested bytes at its end and the most within it. The texts beside it say what each loop does.
"""

import contextlib, gc
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Marks:
    """the counters of a step by phase; of micro-batches the last end and the highest peak"""

    def __init__(self):
        self.rows = {}
        torch.cuda.reset_peak_memory_stats()

    def __call__(self, phase=None):
        s = torch.cuda.memory_stats()
        if phase:
            most = self.rows.get(phase, (0, 0))[1]
            self.rows[phase] = (
                s["requested_bytes.all.current"],
                max(most, s["requested_bytes.all.peak"]),
            )
        torch.cuda.reset_peak_memory_stats()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(5003, 192)
        self.linear = nn.ModuleList(nn.Linear(192, 192) for _ in range(3))
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 5003, bias=False)

    def forward(self, x):
        h, hidden = self.embedding(x), []
        for linear in self.linear:
            h = h + F.gelu(linear(h))
            hidden.append(h)
        return self.head(self.norm(h)), hidden


def autocast(dtype):
    return torch.autocast("cuda", dtype=dtype) if dtype else contextlib.nullcontext()


def decoder(amp=None, late=False, accumulate=1, hidden=False, train=True):
    net = Decoder().cuda()
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    if train:
        optimizer = torch.optim.AdamW(net.parameters())
        target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    for _ in range(4):
        marks = Marks()
        if not train:
            with torch.no_grad():
                logits, states = net(x)
            marks("forward")
            continue
        if not late:
            optimizer.zero_grad()
        marks()
        for k in range(accumulate):
            with autocast(amp):
                if hidden:
                    logits, states = net(x)
                else:
                    logits = net(x)[0]
                loss = F.cross_entropy(logits.view(-1, 5003), target)
            marks("forward")
            if late and not k:
                optimizer.zero_grad()
            loss.backward()
            marks("backward")
        optimizer.step()
        marks("optimizer")
    return marks.rows


class Net(nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        sizes = [600] + [width] * layers + [1003]
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))

    def forward(self, x):
        for linear in self.linear[:-1]:
            x = F.gelu(linear(x))
        return self.linear[-1](x)


def distill(amp=None):
    """a teacher under no_grad, whose weights want gradients as all weights do"""
    teacher, student = Net(1501, 3).cuda(), Net(500, 2).cuda()
    optimizer = torch.optim.AdamW(student.parameters())
    x = torch.zeros(64, 600, device="cuda")
    for _ in range(4):
        marks = Marks()
        optimizer.zero_grad()
        marks()
        with autocast(amp):
            with torch.no_grad():
                t = teacher(x)
            s = student(x)
            loss = F.kl_div(F.log_softmax(s, -1), F.softmax(t, -1), reduction="batchmean")
        marks("forward")
        loss.backward()
        marks("backward")
        optimizer.step()
        marks("optimizer")
    return marks.rows


class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.aux, self.y = nn.Linear(300, 500), nn.Linear(500, 700), nn.Linear(500, 10)

    def forward(self, x):
        g = F.gelu(self.a(x))
        aux = torch.sigmoid(F.gelu(self.aux(g)))
        return aux, self.y(g), g


def branch():
    """a loop that keeps a result that the loss does not need, and a view of another"""
    net = Branch().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    x, target = torch.zeros(4, 300, device="cuda"), torch.zeros(4, dtype=torch.long, device="cuda")

    def run():
        aux, y, g = net(x)
        loss = F.cross_entropy(y, target)
        return (aux, g[:, :3]), (loss, y)

    for _ in range(4):
        marks = Marks()
        optimizer.zero_grad()
        marks()
        first, second = run()
        marks("forward")
        second[0].backward()
        marks("backward")
        optimizer.step()
        marks("optimizer")
    return marks.rows


class Frozen(nn.Module):
    """a frozen embedding whose result is made a leaf, as peft does for checkpointing; a gate that a block makes one"""

    def __init__(self, reentrant):
        super().__init__()
        self.embedding, self.reentrant = nn.Embedding(1003, 96).requires_grad_(False), reentrant
        self.first, self.second = nn.Linear(96, 96), nn.Linear(96, 96)
        self.head = nn.Linear(96, 1003, bias=False)

    def block(self, h):
        with torch.no_grad():
            gate = h.sigmoid()
        gate.requires_grad_()
        return self.second(F.gelu(self.first(h * gate)))

    def forward(self, x):
        h = self.embedding(x).requires_grad_()
        if self.reentrant is None:
            h = self.block(h)
        else:
            h = checkpoint(self.block, h, use_reentrant=self.reentrant)
        return self.head(h).flatten(0, 1)


def leaf(amp=None, late=False, accumulate=1, reentrant=None):
    """values that become leaves while the program runs"""
    net = Frozen(reentrant).cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    for _ in range(4):
        marks = Marks()
        if not late:
            optimizer.zero_grad()
        marks()
        for k in range(accumulate):
            with autocast(amp):
                loss = F.cross_entropy(net(x), target)
            marks("forward")
            if late and not k:
                optimizer.zero_grad()
            loss.backward()
            marks("backward")
        optimizer.step()
        marks("optimizer")
    return marks.rows


LOOPS = (
    ("decoder --train adamw", decoder, {}),
    ("decoder --train adamw --amp bf16", decoder, {"amp": torch.bfloat16}),
    ("decoder --train adamw --zero-grad-late", decoder, {"late": True}),
    ("decoder --train adamw --accumulate 3", decoder, {"accumulate": 3}),
    ("hidden --train adamw", decoder, {"hidden": True}),
    (
        "hidden --train adamw --zero-grad-late --accumulate 2",
        decoder,
        {"late": True, "accumulate": 2, "hidden": True},
    ),
    ("states --infer", decoder, {"hidden": True, "train": False}),
    ("distill --train adamw", distill, {}),
    ("distill --train adamw --amp bf16", distill, {"amp": torch.bfloat16}),
    ("branch --train adamw", branch, {}),
    ("leaf --train adamw", leaf, {}),
    ("leaf --train adamw --amp bf16", leaf, {"amp": torch.bfloat16}),
    ("leaf --train adamw --zero-grad-late --accumulate 3", leaf, {"late": True, "accumulate": 3}),
    ("leaf_again --train adamw", leaf, {"reentrant": False}),
    ("leaf_again --train adamw --amp bf16 --accumulate 2", leaf, {"reentrant": False, "amp": torch.bfloat16, "accumulate": 2}),
    ("leaf_reentrant --train adamw", leaf, {"reentrant": True}),
    ("leaf_reentrant --train adamw --accumulate 2", leaf, {"reentrant": True, "accumulate": 2}),
)

if __name__ == "__main__":
    print(
        "# The fourth step of training loops: requested bytes at the end of each phase and the most within it."
    )
    print(
        f"# Written by tests/measured/loops.py; do not edit. Source: PyTorch {torch.__version__} (host code)."
    )
    for name, loop, options in LOOPS:
        rows = loop(**options)
        gc.collect()
        print(name, "|", *(f"{p} {end} {most}" for p, (end, most) in rows.items()))
