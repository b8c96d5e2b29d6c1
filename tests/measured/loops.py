#!/usr/bin/env python3
"""Training loops as people write them, on a device or a pretended one.
usage: loops.py [TEXT]     prints the rows of tests/golden/loops/loops.txt (those with TEXT): text, options of vram estimate, and
of the fourth step for each phase the requested bytes at its end and the most within it, of loops with several batches the
reserved bytes, too. The texts beside it say what each loop does.
"""

import contextlib, gc, sys
import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class Marks:
    """the counters of a step by phase; of micro-batches the last end and the highest peak"""

    def __init__(self):
        self.rows, self.reserved = {}, 0
        torch.cuda.reset_peak_memory_stats()

    def __call__(self, phase=None):
        s = torch.cuda.memory_stats()
        if phase:
            most = self.rows.get(phase, (0, 0))[1]
            self.rows[phase] = (
                s["requested_bytes.all.current"],
                max(most, s["requested_bytes.all.peak"]),
            )
        self.reserved = max(self.reserved, s["reserved_bytes.all.peak"])
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


def epochs(amp=None, accumulate=1, late=False, end=False, last=0, evaluation=0):
    """epochs whose last batch is a smaller one, a model that is evaluated behind each of them (or each step)"""
    net = Decoder().cuda()
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda", enabled=amp == torch.float16)
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    marks = Marks()
    logits = loss = None

    def step(size):
        nonlocal logits, loss
        if not late and not end:
            optimizer.zero_grad()
        marks()
        for k in range(accumulate):
            n = size if k == accumulate - 1 else 4
            with autocast(amp):
                logits = net(x[:n])[0]
                loss = F.cross_entropy(logits.view(-1, 5003), target[: n * 61])
            marks("forward")
            if late and not k:
                optimizer.zero_grad()
            scaler.scale(loss).backward()
            marks("backward")
        scaler.step(optimizer)
        scaler.update()
        marks("optimizer")
        if end:
            optimizer.zero_grad()
        marks()

    def evaluate():
        net.eval()
        with torch.no_grad(), autocast(amp):
            x = torch.zeros(evaluation, 61, dtype=torch.long, device="cuda")
            target = torch.zeros(evaluation * 61, dtype=torch.long, device="cuda")
            logits = net(x)[0]
            loss = F.cross_entropy(logits.view(-1, 5003), target)
        net.train()

    for k in range(3 if last else 4):
        if last:
            step(4)
        if k == (2 if last else 3):
            marks = Marks()
        for n in [4, last] if last else [4]:
            step(n)
        if evaluation:
            evaluate()
            marks("evaluation")
    if last:
        step(4)
    reserved = torch.cuda.memory_reserved()
    return {**marks.rows, "reserved": (reserved, marks.reserved)}


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


def generator(channels=20):
    return nn.Sequential(
        *(nn.ConvTranspose2d(channels, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True)),
        *(nn.ConvTranspose2d(16, 3, 4, 2, 1, bias=False), nn.Tanh()),
    )


def discriminator():
    return nn.Sequential(
        *(nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)),
        *(nn.Conv2d(16, 1, 4, 1, 0, bias=False), nn.Flatten(0)),
    )


class Adversarial(nn.Module):
    """a step of a GAN: two optimizers, gradients of the discriminator from the generator's backward; amp: with autocast of its own
    and, in f16, one GradScaler"""

    def __init__(self, amp=None):
        super().__init__()
        self.G, self.D, self.amp = generator(), discriminator(), amp
        self.scaler = torch.amp.GradScaler("cuda", enabled=amp == torch.float16)

    def optimizers(self):
        self.optG, self.optD = torch.optim.Adam(self.G.parameters()), torch.optim.Adam(self.D.parameters())

    def forward(self, real, noise, mark=lambda phase=None: None, first=True, last=True):
        loss = F.binary_cross_entropy_with_logits
        if first:
            self.D.zero_grad()
        mark()
        with autocast(self.amp):
            out = self.D(real)
            real_loss = loss(out, torch.ones_like(out))
        mark("forward")
        self.scaler.scale(real_loss).backward()
        mark("backward")
        with autocast(self.amp):
            fake = self.G(noise)
            out = self.D(fake.detach())
            fake_loss = loss(out, torch.zeros_like(out))
        mark("forward")
        self.scaler.scale(fake_loss).backward()
        mark("backward")
        if last:
            self.scaler.step(self.optD)
            mark("optimizer")
        if first:
            self.optG.zero_grad()
        mark()
        with autocast(self.amp):
            out = self.D(fake)
            fooled = loss(out, torch.ones_like(out))
        mark("forward")
        self.scaler.scale(fooled).backward()
        mark("backward")
        if last:
            self.scaler.step(self.optG)
            self.scaler.update()
            mark("optimizer")
        return fooled


class Tasks(nn.Module):
    """two losses of one body, one backward after the other; after: zero_grad comes behind the step"""

    def __init__(self, after=False):
        super().__init__()
        self.after = after
        self.body = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())
        self.first, self.second = nn.Linear(256, 10), nn.Linear(256, 5)

    def optimizers(self):
        self.opt = torch.optim.AdamW(self.parameters())

    def forward(self, x, target, mark=lambda phase=None: None, first=True, last=True):
        if first and not self.after:
            self.opt.zero_grad()
        mark()
        h = self.body(x)
        first, second = F.cross_entropy(self.first(h), target), F.cross_entropy(self.second(h), target)
        mark("forward")
        first.backward(retain_graph=True)
        second.backward()
        mark("backward")
        if last:
            self.opt.step()
            mark("optimizer")
        if last and self.after:
            self.opt.zero_grad()
        return second


def patches():
    return nn.Sequential(nn.Conv2d(3, 128, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(128, 64, 4, 2, 1))


class Cyclic(nn.Module):
    """a step of CycleGAN: discriminators want no gradients while the generators are trained through them"""

    def __init__(self):
        super().__init__()
        self.G, self.F = generator(3), generator(3)
        self.A, self.B = patches(), patches()

    def optimizers(self):
        self.opt = torch.optim.Adam([*self.G.parameters(), *self.F.parameters()])
        self.optD = torch.optim.Adam([*self.A.parameters(), *self.B.parameters()])

    def forward(self, a, b, mark=lambda phase=None: None):
        loss = lambda y, real: F.mse_loss(y, torch.ones_like(y) if real else torch.zeros_like(y))
        fake_b, fake_a = self.G(a), self.F(b)
        self.A.requires_grad_(False)
        self.B.requires_grad_(False)
        mark("forward")
        self.opt.zero_grad()
        mark()
        fooled = loss(self.B(fake_b), True) + loss(self.A(fake_a), True)
        mark("forward")
        fooled.backward()
        mark("backward")
        self.opt.step()
        mark("optimizer")
        self.A.requires_grad_(True)
        self.B.requires_grad_(True)
        self.optD.zero_grad()
        mark()
        for net, real, fake in ((self.A, a, fake_a), (self.B, b, fake_b)):
            seen = (loss(net(real), True) + loss(net(fake.detach()), False)) * 0.5
            mark("forward")
            seen.backward()
            mark("backward")
        self.optD.step()
        mark("optimizer")
        return seen


def training(kind, *shapes, accumulate=1, **options):
    """a module whose forward is a training step, or of many micro-batches a part of one; tests/golden/loops has what export_torch.py
    makes of it"""
    net = kind(**options).cuda()
    net.optimizers()
    inputs = [torch.zeros(*s, dtype=torch.long if len(s) == 1 else None, device="cuda") for s in shapes]
    for _ in range(4):
        marks = Marks()
        for k in range(accumulate):
            loss = net(*inputs, marks, *((k == 0, k == accumulate - 1) if accumulate > 1 else ()))
        del loss
    return marks.rows


def adversarial(amp=None):
    """for export_torch.py"""
    net = Adversarial(amp)
    net.optimizers()
    return net, {"real": torch.zeros(4, 3, 8, 8), "noise": torch.zeros(4, 20, 1, 1)}


def scaled():
    return adversarial(torch.float16)


def cyclic():
    net = Cyclic()
    net.optimizers()
    return net, {"a": torch.zeros(2, 3, 21, 21), "b": torch.zeros(2, 3, 21, 21)}


def tasks(after=False):
    net = Tasks(after)
    net.optimizers()
    return net, {"x": torch.zeros(8, 64), "target": torch.zeros(8, dtype=torch.long)}


def tasks_after():
    return tasks(True)


class Normed(nn.Module):
    """a discriminator called twice, whose layers hold the weights that they computed last until they compute others"""

    def __init__(self):
        super().__init__()
        norm = nn.utils.spectral_norm
        layers = norm(nn.Conv2d(3, 8, 3, padding=1)), nn.ReLU(), nn.Flatten(), norm(nn.Linear(2048, 7))
        self.net = nn.Sequential(*layers)

    def forward(self, x, y):
        return F.relu(1 - self.net(x)).mean() + F.relu(1 + self.net(y)).mean()


def normed():
    """for export_torch.py"""
    return Normed(), {"x": torch.zeros(2, 3, 16, 16), "y": torch.zeros(2, 3, 16, 16)}


def held_weights(amp=None):
    net, inputs = normed()
    net.cuda()
    inputs = {k: t.cuda() for k, t in inputs.items()}
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(4):
        marks = Marks()
        optimizer.zero_grad()
        marks()
        with autocast(amp):
            loss = net(**inputs)
        marks("forward")
        loss.backward()
        marks("backward")
        optimizer.step()
        marks("optimizer")
        del loss
    return marks.rows


def in_backward(amp=None, accumulate=1, **chosen):
    """an optimizer of its own for each parameter, which a hook behind its gradient calls"""
    net = Decoder().cuda()
    optimizers = {p: torch.optim.AdamW([p], **chosen) for p in net.parameters()}

    def step(p):
        optimizers[p].step()
        optimizers[p].zero_grad()

    hooks = [p.register_post_accumulate_grad_hook(step) for p in net.parameters()]
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    for _ in range(4):
        marks = Marks()
        for _ in range(accumulate):
            with autocast(amp):
                logits = net(x)[0]
                loss = F.cross_entropy(logits.view(-1, 5003), target)
            marks("forward")
            loss.backward()
            marks("backward")
        marks("optimizer")
    for hook in hooks:  # they keep the parameters
        hook.remove()
    return marks.rows


def galore(dtype=None):
    """GaLoreAdamW as its examples call it; cuSOLVER is not pretended, what it gives is"""
    import galore_torch

    def svd(a, full_matrices):
        k = min(a.shape)
        copy = a.clone()
        return a.new_empty(a.shape[0], k), a.new_empty(k), a.new_empty(k, a.shape[1])

    torch.linalg.svd = svd
    net = Decoder().cuda().to(dtype)
    inner = [linear.weight for linear in net.linear]
    rest = [p for p in net.parameters() if all(p is not q for q in inner)]
    projected = {"params": inner, "rank": 16, "update_proj_gap": 200, "scale": 0.25, "proj_type": "std"}
    optimizer = galore_torch.GaLoreAdamW([{"params": rest}, projected], no_deprecation_warning=True)
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    for _ in range(4):
        marks = Marks()
        optimizer.zero_grad()
        marks()
        logits = net(x)[0]
        loss = F.cross_entropy(logits.view(-1, 5003), target)
        marks("forward")
        loss.backward()
        marks("backward")
        optimizer.step()
        marks("optimizer")
    return marks.rows


def lomo(dtype=None):
    import lomo_optim

    net = Decoder().cuda().to(dtype)
    optimizer = lomo_optim.Lomo(net)
    x = torch.zeros(4, 61, dtype=torch.long, device="cuda")
    target = torch.zeros(4 * 61, dtype=torch.long, device="cuda")
    for _ in range(4):
        marks = Marks()
        logits = net(x)[0]
        loss = F.cross_entropy(logits.view(-1, 5003), target)
        marks("forward")
        optimizer.fused_backward(loss, 1e-3)
        marks("backward")
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
    (
        "leaf_again --train adamw --amp bf16 --accumulate 2",
        leaf,
        {"reentrant": False, "amp": torch.bfloat16, "accumulate": 2},
    ),
    ("leaf_reentrant --train adamw", leaf, {"reentrant": True}),
    ("adversarial --train adam", lambda: training(Adversarial, (4, 3, 8, 8), (4, 20, 1, 1)), {}),
    (
        "adversarial --train adam --amp fp16",
        lambda: training(Adversarial, (4, 3, 8, 8), (4, 20, 1, 1), amp=torch.float16),
        {},
    ),
    (
        "scaled --train adam",
        lambda: training(Adversarial, (4, 3, 8, 8), (4, 20, 1, 1), amp=torch.float16),
        {},
    ),
    ("cyclic --train adam", lambda: training(Cyclic, (2, 3, 21, 21), (2, 3, 21, 21)), {}),
    ("tasks --train adamw", lambda: training(Tasks, (8, 64), (8,)), {}),
    (
        "adversarial --train adam --accumulate 3",
        lambda: training(Adversarial, (4, 3, 8, 8), (4, 20, 1, 1), accumulate=3),
        {},
    ),
    (
        "scaled --train adam --accumulate 2",
        lambda: training(Adversarial, (4, 3, 8, 8), (4, 20, 1, 1), accumulate=2, amp=torch.float16),
        {},
    ),
    ("tasks --train adamw --accumulate 4", lambda: training(Tasks, (8, 64), (8,), accumulate=4), {}),
    ("tasks_after --train adamw", lambda: training(Tasks, (8, 64), (8,), after=True), {}),
    (
        "tasks_after --train adamw --accumulate 4",
        lambda: training(Tasks, (8, 64), (8,), accumulate=4, after=True),
        {},
    ),
    ("normed --train adamw", held_weights, {}),
    ("normed --train adamw --amp bf16", held_weights, {"amp": torch.bfloat16}),
    ("leaf_reentrant --train adamw --accumulate 2", leaf, {"reentrant": True, "accumulate": 2}),
    ("decoder --train adamw --optimizer-in-backward", in_backward, {}),
    (
        "decoder --train adamw --optim-impl loop --optimizer-in-backward --accumulate 2",
        in_backward,
        {"foreach": False, "accumulate": 2},
    ),
    (
        "decoder --train adamw --optimizer-in-backward --amp bf16",
        in_backward,
        {"amp": torch.bfloat16},
    ),
    ("decoder --train galore_adamw --galore-rank 16", galore, {}),
    ("decoder --train galore_adamw --galore-rank 16 --dtype bf16", galore, {"dtype": torch.bfloat16}),
    ("decoder --train adamw --last-batch 3", epochs, {"last": 3}),
    ("decoder --train adamw --eval-batch 9", epochs, {"evaluation": 9}),
    (
        "decoder --train adamw --zero-grad-end --eval-batch 9",
        epochs,
        {"evaluation": 9, "end": True},
    ),
    (
        "decoder --train adamw --zero-grad-late --last-batch 1 --eval-batch 4 --amp bf16",
        epochs,
        {"late": True, "last": 1, "evaluation": 4, "amp": torch.bfloat16},
    ),
    (
        "decoder --train adamw --accumulate 3 --last-batch 3 --eval-batch 9 --amp fp16",
        epochs,
        {"accumulate": 3, "last": 3, "evaluation": 9, "amp": torch.float16},
    ),
    ("decoder --train lomo", lomo, {}),
    ("decoder --train lomo --dtype bf16", lomo, {"dtype": torch.bfloat16}),
)

if __name__ == "__main__":
    print(
        "# The fourth step of training loops: requested bytes at the end of each phase and the most within it."
    )
    print(
        f"# Written by tests/measured/loops.py; do not edit. Source: PyTorch {torch.__version__} (host code)."
    )
    for name, loop, options in LOOPS:
        if not all(text in name for text in sys.argv[1:]):
            continue
        rows = loop(**options)
        gc.collect()
        print(name, "|", *(f"{p} {end} {most}" for p, (end, most) in rows.items()))
