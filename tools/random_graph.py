#!/usr/bin/env python3
"""Writes random graphs in the text form, to be measured with real PyTorch and compared (tools/events_diff.py).
usage: random_graph.py [-o DIR] [--count N] [--seed S] [--style free|conv|transformer] [--nodes N] [--ops NAME,NAME,...] [--inplace P]
Graph number i of a style depends only on the style, --nodes, --ops, --inplace and the seed S + i: DIR/STYLE_SEED.vram.
Not every graph runs: an in-place operation may overwrite what backward needs, or write a leaf. Those that PyTorch rejects are to be discarded."""
import argparse, math, os, random

UNARY = "exp log sqrt rsqrt abs neg square sin cos erf sign round clamp sigmoid tanh relu silu gelu leaky_relu elu softplus hardswish mish".split()
UNARY_INPLACE = set("exp log sqrt rsqrt abs neg square sin cos erf sign round clamp sigmoid tanh relu silu leaky_relu elu hardswish mish".split())
INT_UNARY = "abs neg square sign clamp".split()
BINARY = "add sub mul div pow maximum minimum".split()
COMPARE = "eq ne lt le gt ge".split()
REDUCE = "sum mean amax amin max min prod var std norm logsumexp".split()
VIEWS = "transpose permute slice select narrow expand unsqueeze squeeze reshape view flatten unflatten t split chunk unbind detach".split()
COPIES = "cat stack roll flip repeat tile repeat_interleave contiguous clone to type_as".split()
OTHER = "addcmul lerp where masked_fill div_mode floor_divide zeros rand fill bernoulli parameter softmax log_softmax layer_norm linear matmul dropout logical".split()
FLOATS = ("f32", "bf16", "f16", "f64")


class Value:
    """leaf: its storage is an input's or a parameter's, not to be written in place (it would carry history into the next step, or be rejected); multi: a piece of split,
    or something else that PyTorch does not let be written"""

    def __init__(self, name, shape, dtype, leaf=False, contiguous=True, multi=False, grad=False):
        self.name, self.shape, self.dtype, self.leaf, self.contiguous, self.multi, self.grad = name, list(shape), dtype, leaf, contiguous, multi, grad

    def float(self):
        return self.dtype in FLOATS

    def numel(self):
        return math.prod(self.shape)


class Graph:
    def __init__(self, rng, nodes, ops, over):
        self.r, self.lines, self.v, self.n, self.budget, self.ops, self.over = rng, [], [], 0, nodes, ops, over

    def name(self):
        self.n += 1
        return f"v{self.n}"

    def put(self, op, ins, shape, dtype, keys="", **kw):
        name = self.name()
        self.lines.append(" ".join([op, name] + [x.name for x in ins] + ([keys] if keys else [])))
        grad = kw.pop("grad", None)
        if grad is None:
            grad = dtype in FLOATS and any(x.grad for x in ins)
        v = Value(name, shape, dtype, grad=grad, **kw)
        self.v.append(v)
        return v

    def pick(self, ok=lambda v: True):
        c = [v for v in self.v if ok(v)]
        if not c:
            return None
        return self.r.choice(c[-6:]) if self.r.random() < 0.7 else self.r.choice(c)

    def size(self):
        return self.r.choice([1, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 17, 32, 33, 64])

    def inputs(self):
        r = self.r
        rank = r.choice([1, 2, 2, 3, 3, 3, 4, 4, 4, 5])
        base = [self.size() for _ in range(rank)]
        if r.random() < 0.3:
            base[r.randrange(rank)] *= r.choice([10, 100, 128, 1000])
        while math.prod(base) > 2_000_000:
            base[base.index(max(base))] //= 10
        for i in range(r.choice([1, 2, 2, 3])):
            shape = list(base)
            if i and r.random() < 0.4:
                for a in range(rank):
                    if r.random() < 0.4:
                        shape[a] = 1
                if r.random() < 0.5:
                    shape = shape[r.randrange(rank):]
            dtype = "f32" if i == 0 else r.choices(["f32", "bf16", "f16", "f64", "i64", "bool", "i32"], [70, 12, 3, 3, 6, 3, 3])[0]
            grad = dtype in FLOATS and r.random() < 0.85
            name = f"x{i}"
            self.lines.append(f"input {name} {dtype} [{','.join(map(str, shape))}]" + (" grad=1" if grad else ""))
            self.v.append(Value(name, shape, dtype, leaf=True, grad=grad))

    # ---- one op; False: did not fit
    def unary(self, op):
        x = self.pick(lambda v: v.float() or (op in INT_UNARY and v.dtype != "bool") or op in ("exp", "sin", "sqrt"))
        if not x:
            return False
        if op == "softplus" and not x.float() or x.dtype == "bool" and op not in ("exp", "sin", "sqrt"):
            return False
        inplace = op in UNARY_INPLACE and x.float() and not x.leaf and not x.multi and self.r.random() < self.over
        dtype = x.dtype if x.float() or op in INT_UNARY else "f32"
        keys = "inplace=1" if inplace else ""
        if op == "clamp" and self.r.random() < 0.5:
            keys += self.r.choice([" min=0", " min=0 max=3"])
        y = self.put(op, [x], x.shape, dtype, keys.strip(), contiguous=x.contiguous)
        if inplace:
            y.multi = x.multi
        return True

    def bcast(self, *shapes):
        n = max(map(len, shapes))
        out = []
        for i in range(n):
            z = {s[i - n + len(s)] for s in shapes if i - n + len(s) >= 0} - {1}
            if len(z) > 1:
                return None
            out.append(z.pop() if z else 1)
        return out

    def promote(self, *xs):
        rank = lambda d: 2 if d in FLOATS else 0 if d == "bool" else 1
        dims = [x.dtype for x in xs if x.shape] or [x.dtype for x in xs]
        top = max(map(rank, dims))
        if any(rank(x.dtype) > top for x in xs):
            dims = [x.dtype for x in xs]
            top = max(map(rank, dims))
        dims = [d for d in dims if rank(d) == top]
        if top == 2:
            if "f64" in dims:
                return "f64"
            if len(set(dims)) > 1:
                return "f32"
            return dims[0]
        return "i64" if "i64" in dims else dims[0]

    def pair(self, ok=lambda v: True):
        x = self.pick(ok)
        if not x:
            return None, None, None
        c = [v for v in self.v if ok(v) and self.bcast(x.shape, v.shape) is not None]
        same = [v for v in c if v.shape == x.shape]
        w = self.r.choice(same if self.r.random() < 0.5 else c)
        shape = self.bcast(x.shape, w.shape)
        if math.prod(shape) > 4_000_000:
            return None, None, None
        return x, w, shape

    def binary(self, op):
        r = self.r
        if r.random() < 0.3 and op not in ("maximum", "minimum"):
            x = self.pick(lambda v: v.dtype != "bool")
            if not x:
                return False
            inplace = x.float() and not x.leaf and not x.multi and r.random() < self.over
            self.put(op, [x], x.shape, x.dtype if x.float() or op not in ("div", "pow") else "f32", "scalar=1" + (" inplace=1" if inplace else ""), contiguous=x.contiguous)
            return True
        x, w, shape = self.pair(lambda v: v.dtype != "bool")
        if not x:
            return False
        dtype = self.promote(x, w)
        if op == "div" and dtype not in FLOATS:
            dtype = "f32"
        keys = ""
        if op in ("add", "sub") and r.random() < 0.15 and x.float() and w.float():
            keys = "alpha=2"
        inplace = op not in ("maximum", "minimum") and x is not w and x.float() and not x.leaf and not x.multi and shape == x.shape and r.random() < self.over
        if inplace:
            keys += " inplace=1"
            dtype = x.dtype
        self.put(op, [x, w], shape, dtype, keys.strip(), contiguous=x.contiguous and w.contiguous)
        return True

    def compare(self, op):
        x, w, shape = self.pair()
        if not x:
            return False
        if self.r.random() < 0.4 and x.dtype != "bool":
            self.put(op, [x], x.shape, "bool", "scalar=1")
        else:
            self.put(op, [x, w], shape, "bool")
        return True

    def logical(self):
        x, w, shape = self.pair(lambda v: v.dtype == "bool")
        if not x:
            return False
        if self.r.random() < 0.3:
            self.put("logical_not", [x], x.shape, "bool")
        else:
            self.put(self.r.choice(["logical_and", "logical_or"]), [x, w], shape, "bool")
        return True

    def reduce(self, op):
        r = self.r
        x = self.pick(lambda v: v.float() or op in ("sum", "amax", "amin", "max", "min", "prod") and (v.dtype != "bool" or op in ("sum", "amax", "amin")))
        if not x or not x.numel():
            return False
        n = len(x.shape)
        keys, dims = "", list(range(n))
        one = op in ("max", "min", "prod")
        if n and (r.random() < 0.75 or op == "logsumexp"):
            dims = sorted(r.sample(range(n), 1 if one else r.randint(1, n)))
            keys = "dim=" + ",".join(str(a - n if r.random() < 0.3 else a) for a in dims)
            keep = r.random() < 0.4
            if keep:
                keys += " keepdim=1"
        else:
            if op == "logsumexp":
                return False
            keep = False
        shape = [1 if a in dims else z for a, z in enumerate(x.shape) if keep or a not in dims]
        dtype = x.dtype
        if op in ("sum", "prod") and not x.float():
            dtype = "i64"
        if op in ("var", "std") and math.prod(x.shape[a] for a in dims) < 2:
            return False
        if op in ("sum", "mean") and keys and x.float() and r.random() < 0.1:
            keys += " dtype=f32"
            dtype = "f32"
        if op in ("max", "min") and keys:
            a, b = self.name(), self.name()
            self.lines.append(f"{op} {a},{b} {x.name} {keys}")
            self.v += [Value(a, shape, dtype, grad=x.grad), Value(b, shape, "i64")]
            return True
        self.put(op, [x], shape, dtype, keys)
        return True

    def view(self, op):
        x = self.pick(lambda v: len(v.shape) > 0 or op in ("unsqueeze", "expand", "detach", "reshape"))
        if not x:
            return False
        count = len(self.v)
        done = self.view_of(x, op)
        for v in self.v[count:]:
            v.leaf |= x.leaf
            v.multi |= x.multi
        return done

    def view_of(self, x, op):
        r = self.r
        n, s = len(x.shape), list(x.shape)
        if op == "transpose":
            a, b = r.randrange(n), r.randrange(n)
            s[a], s[b] = s[b], s[a]
            self.put(op, [x], s, x.dtype, f"dim0={a} dim1={b - n if r.random() < 0.3 else b}", contiguous=False)
        elif op == "t":
            if n > 2:
                return False
            self.put(op, [x], s[::-1], x.dtype, contiguous=n < 2)
        elif op == "permute":
            p = r.sample(range(n), n)
            if n == 4 and r.random() < 0.5:
                p = r.choice([[0, 2, 3, 1], [0, 3, 1, 2]])
            self.put(op, [x], [s[a] for a in p], x.dtype, "dims=" + ",".join(map(str, p)), contiguous=False)
        elif op in ("slice", "narrow"):
            a = r.randrange(n)
            z = s[a]
            i = r.randrange(z) if z > 1 and r.random() < 0.8 else 0
            j = r.randint(i + 1, z) if r.random() < 0.8 else z
            step = r.choice([1, 1, 1, 2, 3]) if op == "slice" else 1
            s[a] = (j - i + step - 1) // step
            self.put(op, [x], s, x.dtype, f"dim={a} start={i} " + (f"end={j} step={step}" if op == "slice" else f"length={j - i}"), contiguous=False)
        elif op == "select":
            a = r.randrange(n)
            i = r.randrange(s[a])
            del s[a]
            self.put(op, [x], s, x.dtype, f"dim={a} index={i}", contiguous=False)
        elif op == "expand":
            new = [r.choice([2, 3, 5]) if z == 1 and r.random() < 0.7 else z for z in s]
            if r.random() < 0.4 and n < 6:
                new = [r.choice([1, 2, 4])] + new
            if math.prod(new) > 4_000_000:
                return False
            self.put(op, [x], new, x.dtype, f"shape=[{','.join(map(str, new))}]", contiguous=False, multi=True)
        elif op == "unsqueeze":
            if n > 6:
                return False
            a = r.randint(0, n)
            s.insert(a, 1)
            self.put(op, [x], s, x.dtype, f"dim={a}", contiguous=x.contiguous)
        elif op == "squeeze":
            if r.random() < 0.5:
                self.put(op, [x], [z for z in s if z != 1], x.dtype, contiguous=x.contiguous)
            else:
                a = r.randrange(n)
                if s[a] == 1:
                    del s[a]
                self.put(op, [x], s, x.dtype, f"dim={a}", contiguous=x.contiguous)
        elif op in ("reshape", "view"):
            if op == "view" and not x.contiguous:
                return False
            left, new = x.numel(), []
            while left > 1 and len(new) < 5 and r.random() < 0.8:
                d = r.choice([k for k in range(1, min(left, 200) + 1) if left % k == 0])
                new.append(d)
                left //= d
            new.append(left)
            r.shuffle(new)
            self.put(op, [x], new, x.dtype, f"shape=[{','.join(map(str, new))}]")
        elif op == "flatten":
            a = r.randrange(n)
            b = r.randint(a, n - 1)
            self.put(op, [x], s[:a] + [math.prod(s[a:b + 1])] + s[b + 1:], x.dtype, f"start_dim={a} end_dim={b}", contiguous=x.contiguous)
        elif op == "unflatten":
            a = r.randrange(n)
            k = r.choice([k for k in range(1, min(s[a], 100) + 1) if s[a] % k == 0])
            self.put(op, [x], s[:a] + [k, s[a] // k] + s[a + 1:], x.dtype, f"dim={a} sizes={k},{s[a] // k}", contiguous=x.contiguous)
        elif op in ("split", "chunk", "unbind"):
            a = r.randrange(n)
            z = s[a]
            if op == "unbind":
                if z > 6:
                    return False
                parts, keys = [None] * z, f"dim={a}"
            elif op == "chunk":
                k = r.randint(1, 4)
                per = -(-z // k)
                parts, keys = [min(per, z - i) for i in range(0, z, per)], f"chunks={k} dim={a}"
            elif r.random() < 0.5:
                per = r.randint(max(1, z // 5), z)
                parts, keys = [min(per, z - i) for i in range(0, z, per)], f"split_size_or_sections={per} dim={a}"
            else:
                parts, left = [], z
                while left:
                    k = r.randint(max(1, left // 4), left)
                    parts.append(k)
                    left -= k
                if len(parts) < 2:
                    return False
                keys = f"split_size_or_sections={','.join(map(str, parts))} dim={a}"
            names = [self.name() for _ in parts]
            self.lines.append(f"{op} {','.join(names)} {x.name} {keys}")
            for name, k in zip(names, parts):
                t = s[:a] + ([] if k is None else [k]) + s[a + 1:]
                self.v.append(Value(name, t, x.dtype, contiguous=False, multi=True, grad=x.grad))
        elif op == "detach":
            if r.random() < 0.5:
                return False
            self.put(op, [x], s, x.dtype, contiguous=x.contiguous, grad=False, multi=True)
        return True

    def copy(self, op):
        r = self.r
        x = self.pick(lambda v: len(v.shape) > 0 or op in ("contiguous", "clone", "to", "stack"))
        if not x or x.numel() > 2_000_000:
            return False
        n, s = len(x.shape), list(x.shape)
        if op == "cat":
            a = r.randrange(n)
            c = [v for v in self.v if len(v.shape) == n and all(v.shape[i] == s[i] for i in range(n) if i != a)]
            xs = [x] + [r.choice(c) for _ in range(r.randint(0, 3))]
            r.shuffle(xs)
            s[a] = sum(v.shape[a] for v in xs)
            self.put(op, xs, s, self.promote(*xs), f"dim={a}")
        elif op == "stack":
            if n > 6:
                return False
            a = r.randint(0, n)
            c = [v for v in self.v if v.shape == s]
            xs = [x] + [r.choice(c) for _ in range(r.randint(0, 3))]
            self.put(op, xs, s[:a] + [len(xs)] + s[a:], self.promote(*xs), f"dim={a}")
        elif op == "roll":
            if r.random() < 0.2:
                self.put(op, [x], s, x.dtype, "shifts=1")
            else:
                d = r.sample(range(n), r.randint(1, n))
                self.put(op, [x], s, x.dtype, "shifts=" + ",".join(str(r.randint(-2, 3)) for _ in d) + " dims=" + ",".join(map(str, d)))
        elif op == "flip":
            d = r.sample(range(n), r.randint(1, n))
            self.put(op, [x], s, x.dtype, "dims=" + ",".join(map(str, d)), contiguous=x.contiguous)
        elif op in ("repeat", "tile"):
            k = [r.choice([1, 1, 2, 3]) for _ in range(n + (r.random() < 0.3))]
            if len(k) > 6 or x.numel() * math.prod(k) > 2_000_000:
                return False
            self.put(op, [x], [a * b for a, b in zip(([1] if len(k) > n else []) + s, k)], x.dtype, ("repeats=" if op == "repeat" else "dims=") + ",".join(map(str, k)))
        elif op == "repeat_interleave":
            a = r.randrange(n)
            s[a] *= 2
            self.put(op, [x], s, x.dtype, f"repeats=2 dim={a}")
        elif op == "to":
            d = r.choice(["f32", "bf16", "f32", "bf16", "f16"] + ([] if x.grad else ["i64"]))
            self.put(op, [x], s, d, f"dtype={d}", contiguous=x.contiguous, leaf=x.leaf if d == x.dtype else False, multi=x.multi if d == x.dtype else False)
        elif op == "type_as":
            w = self.pick(lambda v: v.float())
            if not w:
                return False
            self.put(op, [x, w], s, w.dtype, contiguous=x.contiguous, leaf=x.leaf if w.dtype == x.dtype else False, multi=x.multi if w.dtype == x.dtype else False, grad=x.grad)
        elif op == "contiguous":
            self.put(op, [x], s, x.dtype, leaf=x.leaf, multi=x.multi)
        else:
            self.put(op, [x], s, x.dtype, contiguous=x.contiguous)
        return True

    def other(self, op):
        r = self.r
        if op in ("addcmul", "lerp"):
            x, w, shape = self.pair(lambda v: v.dtype == "f32")
            if not x:
                return False
            b = self.pick(lambda v: v.dtype == "f32" and self.bcast(shape, v.shape) is not None)
            if not b:
                return False
            full = self.bcast(shape, b.shape)
            if math.prod(full) > 4_000_000:
                return False
            if op == "lerp" and r.random() < 0.5:
                self.put(op, [x, w], shape, "f32", "scalar=1")
            else:
                self.put(op, [x, w, b], full, "f32")
        elif op in ("where", "masked_fill"):
            m = self.pick(lambda v: v.dtype == "bool")
            if not m:
                return self.compare(r.choice(COMPARE))
            x = self.pick(lambda v: v.float() and self.bcast(v.shape, m.shape) is not None)
            if not x:
                return False
            shape = self.bcast(x.shape, m.shape)
            if op == "masked_fill":
                inplace = shape == x.shape and not x.leaf and not x.multi and r.random() < self.over
                self.put(op, [x, m], shape, x.dtype, "inplace=1" if inplace else "")
                return True
            w = self.pick(lambda v: v.float() and self.bcast(v.shape, shape) is not None)
            if w and r.random() < 0.7:
                full = self.bcast(w.shape, shape)
                if math.prod(full) > 4_000_000:
                    return False
                self.put(op, [m, x, w], full, self.promote(x, w))
            else:
                self.put(op, [m, x], shape, x.dtype, "scalar=1")
        elif op == "div_mode":
            x, w, shape = self.pair(lambda v: v.float())
            if not x:
                return False
            self.put("div", [x, w], shape, self.promote(x, w), "rounding_mode=" + r.choice(["trunc", "floor"]))
        elif op == "floor_divide":
            x = self.pick(lambda v: v.dtype in ("i64", "i32"))
            if not x:
                return False
            self.put(op, [x], x.shape, x.dtype, "scalar=1")
        elif op in ("zeros", "rand"):
            x = self.pick(lambda v: v.float())
            shape = x.shape if x and r.random() < 0.7 else [self.size(), self.size()]
            if x and r.random() < 0.5:
                self.put(op, [x], shape, x.dtype, f"shape=[{','.join(map(str, shape))}]", grad=False)
            else:
                self.put(op, [], shape, "f32", f"shape=[{','.join(map(str, shape))}]", grad=False)
        elif op in ("fill", "bernoulli"):
            x = self.pick(lambda v: v.float() and not v.leaf and not v.multi)
            if not x:
                return False
            self.put(op, [x], x.shape, x.dtype, "inplace=1", contiguous=x.contiguous)
        elif op == "parameter":
            x = self.pick(lambda v: v.float())
            if not x:
                return False
            shape = [z if r.random() < 0.7 else 1 for z in x.shape][r.randint(0, len(x.shape)):] if r.random() < 0.7 else x.shape
            frozen = r.random() < 0.2
            self.put(op, [], shape, "f32", f"shape=[{','.join(map(str, shape))}]" + (" frozen=1" if frozen else ""), leaf=True, grad=not frozen)
        elif op in ("softmax", "log_softmax"):
            x = self.pick(lambda v: v.float() and len(v.shape) > 0)
            if not x:
                return False
            self.put(op, [x], x.shape, x.dtype, f"dim={r.randrange(len(x.shape))}")
        elif op == "layer_norm":
            x = self.pick(lambda v: v.dtype == "f32" and len(v.shape) > 0)
            if not x:
                return False
            k = r.randint(1, min(2, len(x.shape)))
            self.put(op, [x], x.shape, x.dtype, "normalized_shape=" + ",".join(map(str, x.shape[-k:])), grad=True)
        elif op == "linear":
            x = self.pick(lambda v: v.dtype == "f32" and len(v.shape) > 0 and v.numel() < 500_000)
            if not x:
                return False
            o = self.size()
            self.put(op, [x], x.shape[:-1] + [o], x.dtype, f"out_features={o} bias={r.choice([0, 1])}", grad=True)
        elif op == "matmul":
            x = self.pick(lambda v: v.dtype == "f32" and len(v.shape) > 1)
            w = x and self.pick(lambda v: v.dtype == "f32" and len(v.shape) == 2 and v.shape[0] == x.shape[-1])
            if not w:
                return False
            self.put(op, [x, w], x.shape[:-1] + [w.shape[1]], "f32")
        elif op == "dropout":
            x = self.pick(lambda v: v.float())
            if not x:
                return False
            self.put(op, [x], x.shape, x.dtype, "p=0.1", contiguous=x.contiguous)
        elif op == "logical":
            return self.logical()
        return True

    def step(self):
        r = self.r
        if self.ops:
            op = r.choice(self.ops)
        else:
            op = r.choice(r.choices([UNARY, BINARY, COMPARE, REDUCE, VIEWS, COPIES, OTHER], [20, 22, 4, 12, 22, 12, 12])[0])
        for group, f in ((UNARY, self.unary), (BINARY, self.binary), (COMPARE, self.compare), (REDUCE, self.reduce), (VIEWS, self.view), (COPIES, self.copy), (OTHER, self.other)):
            if op in group:
                return f(op)
        raise SystemExit(f"random_graph.py: an unknown op {op}")

    def finish(self):
        """the loss: some of the values, each reduced, added up"""
        r = self.r
        c = [v for v in self.v if v.grad and v.float() and v.numel()]
        if not c:
            return False
        used = {c[-1]} | {v for v in c if r.random() < 0.3}
        total = None
        for v in self.v:
            if v not in used:
                continue
            if v.shape or v.dtype != "f32":
                v = self.put(r.choice(["sum", "mean"]), [v], [], "f32")
            total = self.put("add", [total, v], [], "f32") if total else v
        if total.leaf or not self.lines[-1].split()[1] == total.name:
            total = self.put("mul", [total], [], "f32", "scalar=1")
        if r.random() < 0.3:
            d = r.sample([v.name for v in self.v[:-1]], min(len(self.v) - 1, r.randint(1, 3)))
            self.lines.append("drop " + " ".join(d))
        self.lines.append(f"output {total.name}")
        return True

    def free(self):
        self.inputs()
        k = 0
        while k < self.budget:
            if self.step():
                k += 1
            elif self.r.random() < 0.02:
                k += 1
        return self.finish()


def conv(g):
    """a convolutional network: blocks with skips, pools, norms, squeeze-and-excitation, sometimes channels last"""
    r = g.r
    n, c, h = r.choice([1, 2, 4]), r.choice([1, 3, 4, 8]), r.choice([7, 8, 14, 16, 20])
    grad = r.random() < 0.5
    g.lines.append(f"input x0 f32 [{n},{c},{h},{h}]" + (" grad=1" if grad else ""))
    x = Value("x0", [n, c, h, h], "f32", leaf=True, grad=grad)
    g.v.append(x)
    if r.random() < 0.3:
        g.lines[-1] = f"input x0 f32 [{n},{h},{h},{c}]" + (" grad=1" if grad else "")
        x = g.put("permute", [x], [n, c, h, h], "f32", "dims=0,3,1,2", leaf=True)
    keep = []
    for _ in range(g.budget):
        c, h, w = x.shape[1:]
        op = r.choice("conv conv conv norm norm act act pool skip se drop pad cat gate up shuffle".split())
        if op == "conv":
            k, s, groups = r.choice([1, 1, 3, 3, 5]), r.choice([1, 1, 2]), 1
            o = r.choice([4, 8, 12, 16, 32])
            if r.random() < 0.25:
                groups, o = c, c * r.choice([1, 2])
            p = k // 2 if r.random() < 0.8 else 0
            if h + 2 * p < k or w + 2 * p < k:
                continue
            y = [n, o] + [(z + 2 * p - k) // s + 1 for z in (h, w)]
            x = g.put("conv2d", [x], y, "f32", f"out_channels={o} kernel_size={k} stride={s} padding={p} groups={groups} bias={r.choice([0, 1])}" + (" frozen=1" if r.random() < 0.1 else ""), grad=True)
        elif op == "norm":
            kind = r.choice(["batch_norm", "batch_norm", "group_norm", "layer_norm", "instance_norm"])
            if kind == "group_norm":
                x = g.put(kind, [x], x.shape, "f32", f"num_groups={r.choice([k for k in (1, 2, 4, c) if c % k == 0])}", grad=True)
            elif kind == "layer_norm":
                t = g.put("permute", [x], [n, h, w, c], "f32", "dims=0,2,3,1")
                t = g.put(kind, [t], t.shape, "f32", f"normalized_shape={c}", grad=True)
                x = g.put("permute", [t], [n, c, h, w], "f32", "dims=0,3,1,2")
            elif h * w * n > 1 and h * w > 1:
                x = g.put(kind, [x], x.shape, "f32", "affine=1" if kind == "instance_norm" else "", grad=True)
        elif op == "act":
            a = r.choice("relu silu gelu hardswish sigmoid leaky_relu elu mish".split())
            x = g.put(a, [x], x.shape, "f32", "inplace=1" if a in UNARY_INPLACE and not x.leaf and r.random() < 0.5 else "")
        elif op == "pool" and h > 2 and w > 2:
            a = r.choice(["max_pool2d", "avg_pool2d"])
            k = r.choice([2, 3])
            p = k // 2 if r.random() < 0.5 else 0
            x = g.put(a, [x], [n, c] + [(z + 2 * p - k) // 2 + 1 for z in (h, w)], "f32", f"kernel_size={k} stride=2 padding={p}")
        elif op == "skip":
            keep.append(x)
            same = [v for v in keep if v.shape == x.shape and v is not x]
            if same:
                x = g.put("add", [x, r.choice(same)], x.shape, "f32", "inplace=1" if not x.leaf and r.random() < 0.4 else "")
        elif op == "cat":
            same = [v for v in keep if v.shape[2:] == x.shape[2:] and v.shape[0] == n]
            if same and c < 100:
                v = r.choice(same)
                x = g.put("cat", [x, v], [n, c + v.shape[1], h, w], "f32", "dim=1")
        elif op == "se":
            t = g.put("adaptive_avg_pool2d", [x], [n, c, 1, 1], "f32", "output_size=1") if r.random() < 0.6 else g.put("mean", [x], [n, c, 1, 1], "f32", "dim=2,3 keepdim=1")
            t = g.put("conv2d", [t], [n, 4, 1, 1], "f32", "out_channels=4 kernel_size=1", grad=True)
            t = g.put("relu", [t], t.shape, "f32", r.choice(["", "inplace=1"]))
            t = g.put("conv2d", [t], [n, c, 1, 1], "f32", f"out_channels={c} kernel_size=1", grad=True)
            t = g.put(r.choice(["sigmoid", "hardsigmoid"]), [t], t.shape, "f32")
            x = g.put("mul", r.choice([[x, t], [t, x]]), x.shape, "f32")
        elif op == "drop":
            x = g.put("dropout", [x], x.shape, "f32", "p=0.2")
        elif op == "pad":
            x = g.put("pad", [x], [n, c, h, w + 1], "f32", "pad=0,1")
        elif op == "gate" and c % 2 == 0:
            a, b = g.name(), g.name()
            g.lines.append(f"chunk {a},{b} {x.name} chunks=2 dim=1")
            a, b = (Value(v, [n, c // 2, h, w], "f32", multi=True, grad=x.grad) for v in (a, b))
            x = g.put("mul", [a, b], a.shape, "f32")
        elif op == "up" and h < 30 and w < 30:
            x = g.put("interpolate", [x], [n, c, 2 * h, 2 * w], "f32", "scale_factor=2 mode=" + r.choice(["nearest", "bilinear"]))
        elif op == "shuffle" and c % 2 == 0:
            t = g.put("reshape", [x], [n, 2, c // 2, h, w], "f32", f"shape=[{n},2,{c // 2},{h},{w}]")
            t = g.put("transpose", [t], [n, c // 2, 2, h, w], "f32", "dim0=1 dim1=2")
            x = g.put("reshape", [t], [n, c, h, w], "f32", f"shape=[{n},{c},{h},{w}]")
        if r.random() < 0.2:
            keep.append(x)
    if r.random() < 0.5:
        x = g.put("adaptive_avg_pool2d", [x], [n, x.shape[1], 1, 1], "f32", "output_size=1")
    x = g.put("flatten", [x], [n, math.prod(x.shape[1:])], "f32", "start_dim=1")
    x = g.put("linear", [x], [n, 10], "f32", "out_features=10", grad=True)
    x = g.put("mean", [x], [], "f32")
    g.lines.append(f"output {x.name}")
    return True


def transformer(g):
    """a transformer: attention by hand or fused, norms, gated and plain feed-forward, rotary positions, drops"""
    r = g.r
    b, t, heads, hd = r.choice([1, 2, 3]), r.choice([4, 7, 16, 33]), r.choice([1, 2, 4]), r.choice([4, 8, 16])
    d = heads * hd
    g.lines += [f"input x0 i64 [{b},{t}]", f"embedding e x0 num_embeddings=50 embedding_dim={d}", f"parameter pos shape=[{r.choice([1, b])},{t},{d}]" if r.random() < 0.5 else f"parameter pos shape=[{t},{d}]", "add h0 e pos"]
    x = Value("h0", [b, t, d], "f32", grad=True)
    norm = r.choice(["layer_norm", "rms_norm"])
    bias = r.choice([0, 1])
    inplace = lambda: "inplace=1" if r.random() < 0.3 else ""
    for _ in range(g.budget):
        kind = r.choice(["attention", "ffn"])
        h = g.put(norm, [x], x.shape, "f32", f"normalized_shape={d}", grad=True)
        if kind == "attention":
            if r.random() < 0.5:
                q = g.put("linear", [h], [b, t, 3 * d], "f32", f"out_features={3 * d} bias={bias}", grad=True)
                if r.random() < 0.5:
                    names = [g.name() for _ in range(3)]
                    g.lines.append(f"{r.choice(['chunk %s %s chunks=3 dim=-1', 'split %s %s split_size_or_sections=' + str(d) + ' dim=-1'])}" % (",".join(names), q.name))
                    parts = [Value(v, [b, t, d], "f32", grad=True) for v in names]
                else:
                    q = g.put("reshape", [q], [b, t, 3, heads, hd], "f32", f"shape=[{b},{t},3,{heads},{hd}]")
                    q = g.put("permute", [q], [3, b, heads, t, hd], "f32", "dims=2,0,3,1,4")
                    names = [g.name() for _ in range(3)]
                    g.lines.append(f"unbind {','.join(names)} {q.name} dim=0")
                    parts = [Value(v, [b, heads, t, hd], "f32", grad=True) for v in names]
            else:
                parts = [g.put("linear", [h], [b, t, d], "f32", f"out_features={d} bias={bias}", grad=True) for _ in range(3)]
            for i in range(3):
                if len(parts[i].shape) == 3:
                    v = g.put("reshape", [parts[i]], [b, t, heads, hd], "f32", f"shape=[{b},{t},{heads},{hd}]")
                    parts[i] = g.put("transpose", [v], [b, heads, t, hd], "f32", "dim0=1 dim1=2")
            if r.random() < 0.4 and hd % 2 == 0:  # rotary
                c = g.put("rand", [], [t, hd], "f32", f"shape=[{t},{hd}]", grad=False)
                for i in range(2):
                    v = parts[i]
                    a1 = g.put("slice", [v], [b, heads, t, hd // 2], "f32", f"dim=3 start=0 end={hd // 2}")
                    a2 = g.put("slice", [v], [b, heads, t, hd // 2], "f32", f"dim=3 start={hd // 2} end={hd}")
                    m = g.put("neg", [a2], a2.shape, "f32")
                    m = g.put("cat", [m, a1], v.shape, "f32", "dim=-1")
                    p = g.put("mul", [v, c], v.shape, "f32")
                    q = g.put("mul", [m, c], v.shape, "f32")
                    parts[i] = g.put("add", [p, q], v.shape, "f32")
            q, k, v = parts
            if r.random() < 0.4:
                o = g.put("scaled_dot_product_attention", [q, k, v], q.shape, "f32", f"is_causal={r.choice([0, 1])}")
            else:
                kt = g.put("transpose", [k], [b, heads, hd, t], "f32", "dim0=-2 dim1=-1")
                a = g.put("matmul", [q, kt], [b, heads, t, t], "f32")
                a = g.put(r.choice(["mul", "div"]), [a], a.shape, "f32", "scalar=1 " + inplace())
                if r.random() < 0.4:
                    m = g.put("rand", [], [t, t], "f32", f"shape=[{t},{t}]", grad=False)
                    m = g.put("gt", [m], [t, t], "bool", "scalar=1")
                    a = g.put("masked_fill", [a, m], a.shape, "f32", inplace())
                a = g.put("softmax", [a], a.shape, "f32", "dim=-1" + r.choice(["", " dtype=f32"]))
                if r.random() < 0.5:
                    a = g.put("dropout", [a], a.shape, "f32", "p=0.1")
                o = g.put("matmul", [a, v], q.shape, "f32")
            o = g.put("transpose", [o], [b, t, heads, hd], "f32", "dim0=1 dim1=2")
            if r.random() < 0.5:
                o = g.put("contiguous", [o], o.shape, "f32")
            o = g.put("reshape", [o], [b, t, d], "f32", f"shape=[{b},{t},{d}]")
            o = g.put("linear", [o], [b, t, d], "f32", f"out_features={d} bias={bias}", grad=True)
        else:
            f = r.choice([2, 4]) * d
            act = r.choice(["gelu", "relu", "silu"])
            if r.random() < 0.5:
                u = g.put("linear", [h], [b, t, f], "f32", f"out_features={f} bias={bias}", grad=True)
                over = inplace() if act != "gelu" else ""
                a = g.put(act, [u], u.shape, "f32", over)
                if r.random() < 0.5:
                    w = g.put("linear", [h], [b, t, f], "f32", f"out_features={f} bias={bias}", grad=True)
                    a = g.put("mul", [a, w], a.shape, "f32", "" if over or act == "relu" else inplace())
            else:
                u = g.put("linear", [h], [b, t, 2 * f], "f32", f"out_features={2 * f} bias={bias}", grad=True)
                p, q = g.name(), g.name()
                g.lines.append(f"chunk {p},{q} {u.name} chunks=2 dim=-1")
                p, q = (Value(v, [b, t, f], "f32", grad=True) for v in (p, q))
                a = g.put(act, [p], p.shape, "f32")
                a = g.put("mul", [a, q], a.shape, "f32")
            if r.random() < 0.4:
                a = g.put("dropout", [a], a.shape, "f32", "p=0.1")
            o = g.put("linear", [a], [b, t, d], "f32", f"out_features={d} bias={bias}", grad=True)
        if r.random() < 0.3:
            o = g.put("dropout", [o], o.shape, "f32", "p=0.1")
        if r.random() < 0.2:
            s = g.put("parameter", [], [d], "f32", f"shape=[{d}]", grad=True)
            o = g.put("mul", [o, s], o.shape, "f32")
        o, p = r.choice([(x, o), (o, x)])  # a norm saves x
        x = g.put("add", [o, p], x.shape, "f32", "" if o is x else inplace())
    x = g.put(norm, [x], x.shape, "f32", f"normalized_shape={d}", grad=True)
    if r.random() < 0.5:
        x = g.put("select", [x], [b, d], "f32", "dim=1 index=0")
    elif r.random() < 0.5:
        x = g.put("mean", [x], [b, d], "f32", "dim=1")
    x = g.put("linear", [x], x.shape[:-1] + [50], "f32", "out_features=50 bias=0" + r.choice(["", " weights=e"]), grad=True)
    x = g.put("mean", [x], [], "f32")
    g.lines.append(f"output {x.name}")
    return True


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-o", default=".")
    a.add_argument("--count", type=int, default=1)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--style", choices=["free", "conv", "transformer"], default="free")
    a.add_argument("--nodes", type=int, default=0)
    a.add_argument("--ops", default="")
    a.add_argument("--inplace", type=float, default=0.25)
    a = a.parse_args()
    os.makedirs(a.o, exist_ok=True)
    for i in range(a.count):
        seed = a.seed + i
        rng = random.Random(f"{a.style} {a.nodes} {a.ops} {a.inplace} {seed}")
        while True:
            nodes = a.nodes or rng.choice([2, 3, 4, 6, 8, 12, 16, 24])
            g = Graph(rng, nodes, [x for x in a.ops.split(",") if x], a.inplace)
            if {"free": Graph.free, "conv": conv, "transformer": transformer}[a.style](g):
                break
        name = f"{a.style}_{seed}"
        with open(os.path.join(a.o, name + ".vram"), "w") as f:
            f.write("\n".join([f"model {name}"] + g.lines) + "\n")


if __name__ == "__main__":
    main()
