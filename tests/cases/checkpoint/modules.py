"""The modules of the cases block_*: their texts are what tools/export_torch.py writes of modules.py:NAME, their streams what
tools/measure_torch.py --events measured of it, with --train sgd_momentum or with --train adamw --amp bf16 or fp16.
"""

import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, set_checkpoint_early_stop

N, R = {"use_reentrant": False}, {"use_reentrant": True}
L = nn.Linear


class Module(nn.Module):
    """a module of these parts whose forward is a function"""

    def __init__(self, function, **parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, **inputs):
        return self.function(self, **inputs)


def x():
    return {"x": torch.zeros(6, 40)}


def rng_off():
    def f(s, x):
        part = lambda t: F.dropout(torch.tanh(s.a(t)), 0.2, s.training)
        return s.o(checkpoint(part, s.i(x), preserve_rng_state=False, **N)).mean()

    return Module(f, i=L(40, 64), a=L(64, 64), o=L(64, 8)), x()


def multi(form):
    """two inputs, three outputs, one of them unused"""

    def body(s, a, b):
        u = torch.sigmoid(s.a(a))
        v = s.b(b) * u
        w = torch.exp(v)
        return w, u, v

    def f(s, x):
        p, q = s.i(x), s.j(x)
        w, u, _ = checkpoint(lambda a, b: body(s, a, b), p, q, **form)
        del p
        return (s.o(w) + u.sum(1, keepdim=True) + q.mean()).mean()

    return Module(f, i=L(40, 64), j=L(40, 64), a=L(64, 64), b=L(64, 64), o=L(64, 8)), x()


def multi_n():
    return multi(N)


def multi_r():
    return multi(R)


def emb_r():
    """no input needs a gradient: the embedding gets none"""

    def f(s, ids, y):
        h = checkpoint(lambda i: s.n(s.e(i)), ids, **R)
        h = checkpoint(s.l, h, **R) if h.requires_grad else s.l(h)
        return F.cross_entropy(s.o(h).flatten(0, 1), y.flatten())

    tokens = lambda: torch.zeros(3, 17, dtype=torch.long)
    parts = {"e": nn.Embedding(100, 48), "n": nn.LayerNorm(48), "l": L(48, 48), "o": L(48, 20)}
    return Module(f, **parts), {"ids": tokens(), "y": tokens()}


class Lora(nn.Module):
    def __init__(self, d, r=4):
        super().__init__()
        self.w, self.A, self.B = L(d, d), L(d, r, bias=False), L(r, d, bias=False)
        self.w.requires_grad_(False)

    def forward(self, x):
        return self.w(x) + self.B(self.A(x)) * 2.0


def lora(form):
    def block(s, i, h):
        return h + s.get_submodule(f"l{i}2")(F.silu(s.get_submodule(f"l{i}1")(h)))

    def f(s, x):
        h = s.i(x)
        for i in range(3):
            h = checkpoint(block, s, i, h, **form)
        return s.o(h).mean()

    m = Module(f, i=L(40, 64), o=L(64, 8), **{f"l{i}{j}": Lora(64) for i in range(3) for j in (1, 2)})
    m.o.requires_grad_(False)
    return m, x()


def lora_n():
    return lora(N)


def lora_r():
    return lora(R)


def inpl_n():
    def body(s, t):
        h = s.a(t)
        h.relu_()
        h = s.b(h)
        h += t
        return h.mul_(0.5)

    def f(s, x):
        h = torch.tanh(s.i(x))
        h = checkpoint(body, s, h, **N)
        h = checkpoint(body, s, h, **N)
        return s.o(h).square().mean()

    return Module(f, i=L(40, 64), a=L(64, 128), b=L(128, 64), o=L(64, 8)), x()


def kwargs_n():
    """what goes in beside the arguments"""

    def body(s, t, *, m, pair):
        return torch.tanh(s.a(t)) * m + pair[0] - pair[1]

    def f(s, x):
        h = s.i(x)
        m = torch.sigmoid(s.j(x))
        p = (s.k(x), h * 2)
        h = checkpoint(body, s, h, m=m, pair=p, **N)
        return s.o(h).mean()

    return Module(f, i=L(40, 64), j=L(40, 64), k=L(40, 64), a=L(64, 64), o=L(64, 8)), x()


def conv_r():
    def f(s, x):
        h = s.stem(x)
        h = checkpoint(s.a, h, **R)
        h = checkpoint(s.b, h, **R)
        return s.o(h.mean((2, 3))).mean()

    conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1, bias=False)
    block = lambda c: nn.Sequential(
        *(conv(c, c * 2), nn.BatchNorm2d(c * 2), nn.ReLU(inplace=True)),
        *(conv(c * 2, c), nn.BatchNorm2d(c), nn.MaxPool2d(2)),
    )
    parts = {"stem": nn.Conv2d(3, 8, 3), "a": block(8), "b": block(8), "o": L(8, 5)}
    return Module(f, **parts), {"x": torch.zeros(2, 3, 30, 30)}


def lstm_r():
    def f(s, x):
        return s.o(checkpoint(lambda t: s.r(t)[0], s.i(x), **R)).mean()

    return Module(f, i=L(12, 24), r=nn.LSTM(24, 32, 2, batch_first=True), o=L(32, 4)), {
        "x": torch.zeros(3, 9, 12)
    }


def early():
    def f(s, x):
        h = s.i(x)
        h = checkpoint(lambda t: torch.tanh(s.b(F.gelu(s.a(t)))).softmax(-1) + t, h, early_stop=False, **N)
        with set_checkpoint_early_stop(False):
            h = checkpoint(lambda t: s.b(F.gelu(s.a(t))), h, **N)
        return s.o(h).mean()

    return Module(f, i=L(40, 64), a=L(64, 128), b=L(128, 64), o=L(64, 8)), x()


def view_r():
    """a view of the input comes out"""

    def body(s, t):
        return t.view(-1, 8), F.relu(s.a(t)).transpose(0, 1)

    def f(s, x):
        h = torch.tanh(s.i(x))
        u, v = checkpoint(body, s, h, **R)
        return u.sum() + s.o(v.t().contiguous()).mean()

    return Module(f, i=L(40, 64), a=L(64, 64), o=L(64, 8)), x()


def unet_r():
    def f(s, x):
        a = checkpoint(s.d1, x, **R)
        b = checkpoint(s.d2, F.max_pool2d(a, 2), **R)
        c = F.interpolate(checkpoint(s.m, b, **R), scale_factor=2)
        return checkpoint(lambda p, q: s.u(torch.cat([p, q], 1)), a, c, **R).abs().mean()

    conv = lambda i, o: nn.Conv2d(i, o, 3, padding=1)
    part = lambda i, o: nn.Sequential(conv(i, o), nn.GroupNorm(2, o), nn.SiLU(), conv(o, o), nn.SiLU())
    parts = {"d1": part(3, 8), "d2": part(8, 16), "m": part(16, 16), "u": part(24, 6)}
    return Module(f, **parts), {"x": torch.zeros(2, 3, 16, 16).requires_grad_()}


def deep():
    """three inside one another, in both forms"""

    def inner(s, t, g):
        return torch.tanh(s.c(t)) * g

    def middle(s, t):
        g = torch.sigmoid(s.g(t))
        t = s.b(t)
        t = checkpoint(inner, s, t, g=g, **N)
        return F.gelu(t)

    def outer(s, t):
        t = s.a(t).relu()
        t = checkpoint(middle, s, t, **N)
        u = checkpoint(middle, s, t, **R)
        return t + u

    def f(s, x):
        h = s.i(x)
        h = checkpoint(outer, s, h, **N)
        h = checkpoint(outer, s, h, **R)
        return s.o(h).mean()

    return Module(f, i=L(40, 64), a=L(64, 64), b=L(64, 64), c=L(64, 64), g=L(64, 64), o=L(64, 8)), x()


def shared():
    def f(s, x):
        h = s.i(x)
        for k in range(4):
            h = checkpoint(s.a, h, **(N if k % 2 else R))
        return (h @ s.i.weight).mean()

    return Module(f, i=L(40, 64), a=nn.Sequential(L(64, 64), nn.Tanh())), x()


class MLP(nn.Module):
    def __init__(self, d, h, p=0.0):
        super().__init__()
        self.a, self.b, self.n, self.p = L(d, h), L(h, d), nn.LayerNorm(d), p

    def forward(self, x):
        return x + F.dropout(self.b(F.gelu(self.a(self.n(x)))), self.p, self.training)


def small():
    return {"x": torch.zeros(8, 32)}


def nr_drop():
    def f(s, x):
        x = s.i(x)
        for l in s.l:
            x = checkpoint(l, x, **N)
        return s.o(x).mean()

    return Module(f, i=L(32, 64), l=nn.ModuleList(MLP(64, 256, 0.1) for _ in range(3)), o=L(64, 10)), small()


def seq_re():
    m = nn.Sequential(*[nn.Sequential(L(32, 64), nn.ReLU(), L(64, 32)) for _ in range(7)])
    return m, small(), lambda x: checkpoint_sequential(m, 3, x, **R).sum()


def nested(outside, inside):
    def inner(s, x):
        x = s.a(x)
        x = checkpoint(s.b, x, **inside)
        return s.c(x)

    def f(s, x):
        x = s.i(x)
        x = checkpoint(inner, s, x, **outside)
        x = checkpoint(inner, s, torch.tanh(x), **outside)
        return x.square().mean()

    return Module(f, i=L(32, 64), a=MLP(64, 128), b=MLP(64, 256), c=MLP(64, 96)), small()


def nest_nr():
    return nested(N, R)


def nest_rr():
    return nested(R, R)


def buffer_n():
    """a buffer of the module that the function reads through views of all of it"""

    def part(s, a):
        b = s.b(a).masked_fill(s.mask[:, :][:40, :50] == 0, -1.0)
        return s.c(F.dropout(b.softmax(-1), 0.1, s.training))

    f = lambda s, x: s.o(checkpoint(part, s, s.i(x[:, :24].repeat(7, 1)[:40]), **N)).mean()
    module = Module(f, i=L(24, 24), b=L(24, 50), c=L(50, 24), o=L(24, 8))
    module.register_buffer("mask", torch.ones(64, 64))
    return module, x()


class Scaled(nn.Module):
    """gemma's norms: 1 + weight.float(), which is the weight itself"""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width), requires_grad=False)

    def forward(self, x):
        return x * (1.0 + self.weight.float())


def alias_n():
    def f(s, x):
        x = s.i(x)
        for part in s.a, s.b:
            x = checkpoint(part, x, **N)
        return s.o(x).sum()

    parts = [nn.Sequential(Scaled(64), L(64, 64)) for _ in range(2)]
    return Module(f, i=L(40, 64), a=parts[0], b=parts[1], o=L(64, 8)), x()
