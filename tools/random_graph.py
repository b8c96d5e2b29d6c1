#!/usr/bin/env python3
"""Writes random graphs in the text form, to be measured with real PyTorch and compared (tools/events_diff.py).
usage: random_graph.py [-o DIR] [--count N] [--seed S] [--style free|conv|transformer|wide] [--nodes N] [--ops NAME,NAME,...] [--inplace P]
Graph number i of a style depends only on the style, --nodes, --ops, --inplace and the seed S + i: DIR/STYLE_SEED.vram.
The style wide draws every op with every key; whether a line fits, and the shape of its result, is what ./vram says (VRAM: another tool).
Not every graph runs: an in-place operation may overwrite what backward needs, or write a leaf. Those that PyTorch rejects are to be discarded."""
import argparse, csv, io, math, os, random, subprocess

UNARY = "exp log sqrt rsqrt abs neg square sin cos erf sign round clamp sigmoid tanh relu silu gelu leaky_relu elu softplus hardswish mish".split()
UNARY_INPLACE = set("exp log sqrt rsqrt abs neg square sin cos erf sign round clamp sigmoid tanh relu silu leaky_relu elu hardswish mish".split())
SPECIAL = "log1p log2 expm1 exp2 reciprocal sinh cosh asin acos atan asinh atanh erfc erfinv lgamma logit frac deg2rad nan_to_num".split()
SPECIAL_BINARY = "atan2 hypot remainder fmax logaddexp".split()
INT_UNARY = "abs neg square sign clamp".split()
BINARY = "add sub mul div pow maximum minimum".split()
COMPARE = "eq ne lt le gt ge".split()
REDUCE = "sum mean amax amin max min prod var std norm logsumexp".split()
VIEWS = "transpose permute slice select narrow expand unsqueeze squeeze reshape view flatten unflatten t split chunk unbind detach".split()
COPIES = "cat stack roll flip repeat tile repeat_interleave contiguous clone to type_as".split()
OTHER = "addcmul lerp where masked_fill div_mode floor_divide zeros rand fill bernoulli parameter softmax log_softmax layer_norm linear matmul dropout logical".split()
FLOATS = ("f32", "bf16", "f16", "f64")
COMPLEX = ("c64", "c128")


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
        self.model, self.open = "", []  # what stands behind the model's name; what ends the blocks that are open, the outermost first

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
        if r.random() < 0.03:
            base[r.randrange(rank)] = 0
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
        while self.open:
            self.lines.append(self.open.pop())
        total = None
        for v in self.v:
            if v not in used:
                continue
            if v.shape or v.dtype != "f32":
                v = self.put(r.choice(["sum", "mean"]), [v], [], "f32")
            total = self.put("add", [total, v], [], "f32") if total else v
        if total.leaf or not (self.lines[-1].split() + [""])[1] == total.name:
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
            count, lines = len(self.v), len(self.lines)
            try:
                done = self.step()
            except (ValueError, IndexError):  # of an axis of size 0
                done = False
                del self.v[count:], self.lines[lines:]
            if done:
                k += 1
            elif self.r.random() < 0.02:
                k += 1
        return self.finish()


def conv(g):
    """a convolutional network: blocks with skips, pools, norms, squeeze-and-excitation, sometimes channels last"""
    r = g.r
    n, c, h = r.choice([1, 2, 4] * 8 + [0]), r.choice([1, 3, 4, 8]), r.choice([7, 8, 14, 16, 20])
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
    b, t, heads, hd = r.choice([1, 2, 3] * 8 + [0]), r.choice([4, 7, 16, 33]), r.choice([1, 2, 4]), r.choice([4, 8, 16])
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


TOOL = os.environ.get("VRAM", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vram"))
ACT = "relu relu6 hardtanh leaky_relu elu celu selu gelu silu mish sigmoid tanh hardsigmoid hardswish softplus softsign tanhshrink softshrink hardshrink threshold logsigmoid rrelu".split()
NO_INPLACE = "gelu softplus softsign tanhshrink softshrink hardshrink logsigmoid".split()
LOSS = "binary_cross_entropy mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits kl_div nll_loss cosine_embedding_loss triplet_margin_loss".split()


class Wide:
    """Proposes lines and lets the tool say what they give."""

    def __init__(self, g):
        self.g, self.r = g, g.r

    def tool(self, lines, *options):
        """what the tool says to these lines, blocks that are open closed behind them"""
        text = "\n".join([f"model x {self.g.model}", *lines, *reversed(self.g.open)]) + "\n"
        return subprocess.run([TOOL, "estimate", "-", *options], input=text, capture_output=True, text=True)

    def add(self, op, outs, ins, keys="", **kw):
        """the results of one more line; None: it does not fit"""
        g, names = self.g, [self.g.name() for _ in range(outs)]
        keys = " ".join(f"{k}={v}" for k, v in keys.items()) if isinstance(keys, dict) else keys
        line = " ".join([op, ",".join(names)] + [v.name for v in ins] + ([keys] if keys else []))
        p = self.tool(g.lines + [line], "--csv", "--cc", "9.0")
        rows = {row[0]: row for row in csv.reader(io.StringIO(p.stdout)) if len(row) > 3}
        if p.returncode or any(n not in rows for n in names):
            return None
        g.lines.append(line)
        made = []
        for n in names:
            shape, dtype = [int(z) for z in rows[n][2].strip("[]").split(",") if z], rows[n][3]
            grad = kw.get("grad", any(v.grad for v in ins) or int(rows[names[0]][4]) > 0 and "frozen=1" not in keys) and dtype in FLOATS + COMPLEX and "enable_grad" not in g.open
            made.append(Value(n, shape, dtype, leaf=kw.get("leaf", False), multi=outs > 1, grad=grad))
        if math.prod(made[0].shape) > 500_000:
            g.lines.pop()
            return None
        g.v += made
        return made

    def one(self, op, ins, keys="", **kw):
        y = self.add(op, 1, ins, keys, **kw)
        return y and y[0]

    def shaped(self, op, shape, keys="", **kw):
        return self.one(op, [], f"shape=[{','.join(map(str, shape))}] {keys}".strip(), **kw)

    def param(self, shape, like=None):
        """a tensor of this shape, mostly of that one's dtype"""
        kind = self.r.choice(["parameter", "parameter", "parameter frozen", "rand"])
        keys = ["frozen=1"] if "frozen" in kind else []
        if like and like.dtype != "f32" and like.dtype in FLOATS and self.r.random() < 0.9:
            keys.append(f"dtype={like.dtype}")
        if kind == "rand":
            return self.shaped("rand", shape, " ".join(keys), grad=False)
        return self.shaped("parameter", shape, " ".join(keys), leaf=True, grad="frozen" not in kind)

    def ints(self, shape):
        return self.shaped(self.r.choice(["zeros", "zeros", "full"]), shape, "dtype=i64", grad=False)

    def x(self, least=0, most=9, ok=lambda v: True, dtypes=None):
        dtypes = dtypes or self.r.choice([("f32",)] * 4 + [FLOATS])
        return self.g.pick(lambda v: v.dtype in dtypes and least <= len(v.shape) <= most and ok(v))

    def keys(self, **choices):
        """each key sometimes"""
        return {k: self.r.choice(v) for k, v in choices.items() if self.r.random() < 0.4}

    def axes(self, n, values):
        return self.r.choice(values) if self.r.random() < 0.7 else ",".join(str(self.r.choice(values)) for _ in range(n))

    def inplace(self, x):
        return {"inplace": 1} if x.float() and not x.leaf and not x.multi and self.r.random() < self.g.over else {}

    def conv(self):
        r, n = self.r, self.r.choice([1, 2, 2, 3])
        x = self.x(n + 1, n + 2)
        if not x:
            return
        c = x.shape[-n - 1]
        turned = r.random() < 0.3
        groups = r.choice([k for k in range(1, c + 1) if c % k == 0] or [1]) if r.random() < 0.4 else 1
        o = groups * r.choice([1, 2, 3, 8])
        k = {"out_channels": o, "kernel_size": self.axes(n, [1, 2, 3])}
        k.update(self.keys(stride=[1, 2, self.axes(n, [1, 2])], padding=[0, 1, self.axes(n, [0, 1])], dilation=[1, 2], bias=[0, 1], frozen=[0, 1]))
        if groups > 1:
            k["groups"] = groups
        if turned:
            k.update(self.keys(output_padding=[0, 1]))
        elif r.random() < 0.2:
            k["padding_mode"] = r.choice(["reflect", "replicate", "circular"])
        elif r.random() < 0.1:
            k["padding"], k["stride"] = "same", 1
        op = f"conv_transpose{n}d" if turned else f"conv{n}d"
        if r.random() < 0.15:
            w = [c, o // groups] if turned else [o, c // groups]
            size = k["kernel_size"] if isinstance(k["kernel_size"], str) else ",".join([str(k["kernel_size"])] * n)
            w = self.param(w + [int(z) for z in size.split(",")], x)
            b = self.param([o], x)
            k.pop("frozen", None)
            k.pop("bias", None)
            return w and b and self.one(op, r.choice([[x, w], [x, w, b]]), k)
        return self.one(op, [x], k)

    def linear(self):
        r, x = self.r, self.x(1)
        if not x:
            return
        o = r.choice([1, 2, 4, 5, 8, x.shape[-1] or 1])
        kind = r.random()
        if kind < 0.15:
            w, b = self.param([o, x.shape[-1]], x), self.param([o], x)
            return w and b and self.one("linear", r.choice([[x, w], [x, w, b]]), {"out_features": o})
        if kind < 0.25:
            y = self.g.pick(lambda v: v.float() and v.shape[:-1] == x.shape[:-1] and v.shape)
            return self.one("bilinear", [x, y or x], {"out_features": o, **self.keys(bias=[0, 1], frozen=[0, 1])})
        k = {"out_features": o, **self.keys(bias=[0, 1], frozen=[0, 1])}
        old = [line.split()[1] for line in self.g.lines if line.startswith("linear") and f"out_features={o} " in line + " "]
        if old and r.random() < 0.3:
            k["weights"] = r.choice(old)
        return self.one("linear", [x], k)

    def table(self):
        r = self.r
        i = self.g.pick(lambda v: v.dtype in ("i64", "i32")) if r.random() < 0.3 else self.ints([r.choice([1, 2, 5]) for _ in range(r.choice([1, 2, 2]))])
        if not i:
            return
        k = {"num_embeddings": r.choice([10, 300, 4000]), "embedding_dim": r.choice([1, 4, 7, 16]), **self.keys(frozen=[0, 1], padding_idx=[0])}
        if r.random() < 0.4:
            return self.one("embedding_bag", [i] if len(i.shape) == 2 else [i, self.ints([2])], {**k, "mode": r.choice(["sum", "mean", "max"])})
        return self.one("embedding", [i], k)

    def product(self):
        r, x = self.r, self.x(1, 4)
        if not x:
            return
        n, op = x.shape[-1], r.choice("matmul matmul matmul mm bmm addmm baddbmm einsum einsum".split())
        if op == "einsum":
            names = "abcdefgh"[:len(x.shape)]
            other = [c for c in names if r.random() < 0.6]
            sizes = dict(zip(names, x.shape))
            for c in "ij":
                if r.random() < 0.5:
                    other.append(c)
                    sizes[c] = r.choice([1, 2, 3, 5])
            r.shuffle(other)
            w = self.param([sizes[c] for c in other], x)
            out = [c for c in sizes if r.random() < 0.6]
            r.shuffle(out)
            ins = [(names, x), ("".join(other), w)]
            r.shuffle(ins)
            return w and self.one(op, [v for _, v in ins], {"equation": ",".join(c for c, _ in ins) + "->" + "".join(out)})
        o = r.choice([1, 2, 4, 5])
        if op == "matmul":
            lead = r.choice([[], x.shape[:-2], [3] + x.shape[:-2], x.shape[-3:-2]])
            w = r.choice([[n], lead + [n, o], [n, o]])
            if r.random() < 0.3 and len(x.shape) > 1:
                y = self.one("transpose", [x], "dim0=-1 dim1=-2")
                return y and self.one(op, r.choice([[x, y], [y, x]]))
            if r.random() < 0.3:
                w = self.param(r.choice([[o, x.shape[-2] if len(x.shape) > 1 else n], [3, o, x.shape[-2] if len(x.shape) > 1 else n]]))
                return w and self.one(op, [w, x])
            w = self.param(w, x)
            return w and self.one(op, [x, w])
        if op in ("mm", "addmm") and len(x.shape) == 2:
            w, c = self.param([n, o], x), self.param(r.choice([[o], [x.shape[0], o], [1, o], [x.shape[0], 1]]), x)
        elif op in ("bmm", "baddbmm") and len(x.shape) == 3:
            w, c = self.param([x.shape[0], n, o], x), self.param(r.choice([[o], [x.shape[0], x.shape[1], o], [1, 1, o], [x.shape[1], o]]), x)
        else:
            return
        if op in ("mm", "bmm"):
            return w and c and self.one(op, [x, w])
        return w and c and self.one(op, [c, x, w], self.keys(alpha=["2", "0.5"], beta=["0.5", "0"]) if r.random() < 0.4 else {})

    def norm(self):
        r, op = self.r, self.r.choice("batch_norm batch_norm instance_norm layer_norm layer_norm rms_norm group_norm local_response_norm".split())
        x = self.x(1 if op in ("layer_norm", "rms_norm") else 2)
        if not x:
            return
        c = x.shape[1] if len(x.shape) > 1 else 1
        if op in ("batch_norm", "instance_norm"):
            k = self.keys(affine=[0, 1], track_running_stats=[0, 1], frozen=[0, 1])
            if op == "batch_norm" and k.get("track_running_stats", 1) and r.random() < 0.1:
                k["training"] = 0
            return self.one(op, [x], k)
        if op in ("layer_norm", "rms_norm"):
            n = r.randint(1, min(2, len(x.shape)))
            size = ",".join(map(str, x.shape[-n:]))
            if r.random() < 0.2:
                w, b = self.param(x.shape[-n:], x), self.param(x.shape[-n:], x)
                return w and b and self.one(op, [x, w, b] if op == "layer_norm" and r.random() < 0.5 else [x, w], {"normalized_shape": size})
            return self.one(op, [x], {"normalized_shape": size, **self.keys(elementwise_affine=[0, 1], frozen=[0, 1], **({"bias": [0, 1]} if op == "layer_norm" else {}))})
        if op == "group_norm":
            return self.one(op, [x], {"num_groups": r.choice([k for k in range(1, c + 1) if c % k == 0] or [1]), **self.keys(affine=[0, 1], frozen=[0, 1])})
        return self.one(op, [x], {"size": r.choice([1, 2, 3, 5])})

    def activation(self):
        r, x = self.r, self.x(dtypes=FLOATS)
        if not x:
            return
        op = r.choice(ACT + ["prelu", "glu", "softmax", "log_softmax", "softmin", "gumbel_softmax"])
        n = len(x.shape)
        if op == "prelu":
            return self.one(op, [x], self.keys(num_parameters=[1, x.shape[1] if n > 1 else 1], frozen=[0, 1]))
        if op in ("glu", "softmax", "log_softmax", "softmin", "gumbel_softmax"):
            k = {"dim": r.randrange(-n, n) if n else 0}
            if op in ("softmax", "log_softmax") and r.random() < 0.15:
                return self.one(op, [x, self.x(dtypes=FLOATS)], k)
            if op.endswith(("softmax", "softmin")) and op != "gumbel_softmax":
                k.update(self.keys(dtype=["f32", "bf16", "f64"]) if r.random() < 0.3 else {})
            if op == "gumbel_softmax":
                k.update(self.keys(hard=[0, 1]))
            return self.one(op, [x], k)
        return self.one(op, [x], {} if op in NO_INPLACE else self.inplace(x))

    def dropout(self):
        r, x = self.r, self.x(dtypes=FLOATS)
        op = r.choice("dropout dropout dropout1d dropout2d dropout3d alpha_dropout feature_alpha_dropout".split())
        return x and self.one(op, [x], {"p": r.choice(["0.1", "0.5", "0"]), **self.inplace(x)})

    def pool(self):
        r, n = self.r, self.r.choice([1, 2, 2, 3])
        x = self.x(n + 1, n + 2, dtypes=FLOATS)
        if not x:
            return
        op = r.choice(["max_pool", "max_pool", "avg_pool", "lp_pool", "adaptive_avg_pool", "adaptive_max_pool", "fractional_max_pool"])
        if op.startswith("adaptive"):
            return self.add(f"{op}{n}d", r.choice([1, 2]) if "max" in op else 1, [x], {"output_size": self.axes(n, [1, 1, 2, 3])})
        if op == "fractional_max_pool":
            return n > 1 and self.add(f"{op}{n}d", r.choice([1, 2]), [x], {"kernel_size": self.axes(n, [1, 2]), "output_size": self.axes(n, [1, 2])})
        k = {"kernel_size": self.axes(n, [1, 2, 3]), **self.keys(stride=[1, 2, 3], ceil_mode=[0, 1])}
        if op != "lp_pool":
            k.update(self.keys(padding=[0, 1]))
        if op != "max_pool":
            return self.one(f"{op}{n}d", [x], k)
        y = self.add(f"{op}{n}d", r.choice([1, 1, 2]), [x], {**k, **self.keys(dilation=[1, 2])})
        if y and len(y) == 2 and r.random() < 0.7:
            self.one(f"max_unpool{n}d", y, {"kernel_size": k["kernel_size"], **{a: k[a] for a in ("stride", "padding") if a in k}, "output_size": ",".join(map(str, x.shape[-n:]))})
        return y

    def resample(self):
        r, x = self.r, self.x(2, 5)
        if not x:
            return
        op, n = r.choice("interpolate interpolate pixel_shuffle pixel_unshuffle grid_sample pad pad fold unfold".split()), len(x.shape)
        if op == "interpolate":
            mode = r.choice({3: ["nearest", "linear", "area"], 4: ["nearest", "bilinear", "bicubic", "area"], 5: ["nearest", "trilinear", "area"]}.get(n, ["nearest"]))
            k = {"mode": mode, **({"scale_factor": 2} if r.random() < 0.6 else {"size": self.axes(n - 2, [1, 2, 3, 5])})}
            return self.one(op, [x], {**k, **({"align_corners": 1} if "linear" in mode or mode == "bicubic" else {})} if r.random() < 0.3 else k)
        if op in ("pixel_shuffle", "pixel_unshuffle"):
            return self.one(op, [x], {"upscale_factor" if op == "pixel_shuffle" else "downscale_factor": 2})
        if op == "grid_sample":
            y = self.param([x.shape[0]] + [r.choice([1, 2, 3]) for _ in range(n - 2)] + [n - 2]) if n > 3 else None
            return y and self.one(op, [x, y], self.keys(mode=["nearest", "bilinear"]))
        if op == "pad":
            m, k = r.choice(["constant", "constant", "reflect", "replicate", "circular"]), r.randint(1, max(1, n - 2))
            p = [r.choice([0, 1, 1, 2] + ([-1] if m == "constant" else [])) for _ in range(2 * k)]
            return self.one(op, [x], {"pad": ",".join(map(str, p)), **({} if m == "constant" else {"mode": m})})
        if op == "unfold":
            return self.one(op, [x], {"kernel_size": self.axes(2, [1, 2]), **self.keys(padding=[0, 1], stride=[1, 2], dilation=[1, 2])})
        y = self.one("unfold", [x], "kernel_size=2") if n == 4 else None
        return y and self.one("fold", [y], {"output_size": f"{x.shape[2]},{x.shape[3]}", "kernel_size": 2})

    def attention(self):
        r, x = self.r, self.x(2, 4)
        if not x:
            return
        if r.random() < 0.5:
            same = [v for v in self.g.v if v.float() and v.shape == x.shape and v.dtype == x.dtype]
            q = [x] + [r.choice(same) for _ in range(2)]
            k = self.keys(dropout_p=["0.1"], is_causal=[0, 1])
            if r.random() < 0.15:
                k["backend"] = r.choice(["math", "efficient"])
            if r.random() < 0.2 and "is_causal" not in k:
                m = self.param([x.shape[-2], x.shape[-2]], x)
                q = q + [m] if m else q
            return self.one("scaled_dot_product_attention", q, k)
        h = r.choice([k for k in range(1, 9) if x.shape[-1] and x.shape[-1] % k == 0] or [1])
        k = {"num_heads": h, **self.keys(bias=[0, 1], need_weights=[0, 1], batch_first=[0, 1], add_zero_attn=[0, 1], add_bias_kv=[0, 1], dropout=["0.1"], frozen=[0, 1])}
        return self.add("multi_head_attention", 2 if r.random() < 0.3 and k.get("need_weights", 1) else 1, [x] * 3, k)

    def recurrent(self):
        r = self.r
        op = r.choice("lstm gru rnn lstm_cell gru_cell rnn_cell".split())
        x = self.x(1, 2) if op.endswith("cell") else self.x(2, 3)
        if not x:
            return
        k = {"hidden_size": r.choice([3, 4, 8]), **self.keys(bias=[0, 1], frozen=[0, 1])}
        if op.endswith("cell"):
            return self.add(op, 2 if op == "lstm_cell" else 1, [x], k)
        k.update(self.keys(num_layers=[1, 2], batch_first=[0, 1], bidirectional=[0, 1], dropout=["0.2"]))
        return self.add(op, 3 if op == "lstm" else 2, [x], k)

    def pointwise(self):
        r, x = self.r, self.g.pick(lambda v: v.dtype != "bool")
        op = r.choice(BINARY + SPECIAL_BINARY + ["special", "special", "addcdiv", "floor_divide", "triangle", "div_mode", "lerp", "addcmul", "where", "masked_fill", "unary", "unary", "compare", "logical"])
        if not x:
            return
        if op == "unary":
            return self.one(r.choice(UNARY if x.float() else INT_UNARY), [x], self.inplace(x))
        if op == "special":
            return self.one(r.choice(SPECIAL), [x], self.inplace(x))
        if op == "floor_divide" and x.grad:
            return
        if op == "triangle":
            return self.one(r.choice(["tril", "triu"]), [x], self.keys(diagonal=[-1, 1]))
        others = [v for v in self.g.v if self.g.bcast(x.shape, v.shape) is not None]
        w = r.choice(others)
        if op == "compare":
            return self.one(r.choice(COMPARE), [x], "scalar=1") if r.random() < 0.4 else self.one(r.choice(COMPARE), [x, w])
        bools = [v for v in others if v.dtype == "bool"]
        if op == "logical":
            return bools and self.one("logical_not", [r.choice(bools)])
        if op in ("where", "masked_fill"):
            m = r.choice(bools) if bools else None
            if op == "masked_fill":
                return m and self.one(op, [x, m], self.inplace(x))
            return m and self.one(op, r.choice([[m, x, w], [m, x]]))
        if op in ("lerp", "addcmul", "addcdiv"):
            c = r.choice(others)
            if op == "lerp" and r.random() < 0.5:
                return self.one(op, [x, w], {"scalar": 1, **self.inplace(x)})
            return self.one(op, [x, w, c], self.inplace(x))
        k = self.inplace(x)
        if op == "div_mode":
            op, k = "div", {**k, "rounding_mode": r.choice(["floor", "trunc"])}
        if op in ("add", "sub") and r.random() < 0.15:
            k["alpha"] = 2
            return self.one(op, [x, w], k)
        return self.one(op, [x], {"scalar": 1, **k}) if r.random() < 0.3 and op not in ("maximum", "minimum", "atan2", "hypot", "fmax", "logaddexp") else self.one(op, [x, w], {} if op in ("atan2", "fmax", "logaddexp") else k)

    def index(self):
        r, x = self.r, self.g.pick(lambda v: v.shape and v.dtype != "bool")
        if not x:
            return
        n, op = len(x.shape), r.choice("gather index_select index index scatter topk sort argmax one_hot cumsum histc index_put diff scatter_add scatter_reduce index_add index_copy index_fill masked_scatter cumprod".split())
        d = r.randrange(n)
        if op in ("scatter_add", "scatter_reduce"):
            i = self.ints(x.shape)
            same = [v for v in self.g.v if v.shape == x.shape and v.dtype == x.dtype]
            k = {"dim": d, **self.inplace(x)}
            if op == "scatter_reduce":
                k.update(reduce=r.choice(["sum", "mean", "amax", "amin"] + ["prod"] * x.float()), **self.keys(include_self=[0, 1]))
            return i and self.one(op, [x, i, r.choice(same)], k)
        if op in ("index_add", "index_copy", "index_fill"):
            i = self.ints([x.shape[d]])
            same = [v for v in self.g.v if v.shape == x.shape and v.dtype == x.dtype]
            k = {"dim": d, **self.inplace(x), **(self.keys(alpha=[2]) if op == "index_add" else {})}
            return i and self.one(op, [x, i] + ([] if op == "index_fill" else [r.choice(same)]), k)
        if op == "masked_scatter":  # what a mask selects of a source with a gradient depends on the data
            masks = [v for v in self.g.v if v.dtype == "bool" and self.g.bcast(x.shape, v.shape) is not None]
            sources = [v for v in self.g.v if v.dtype == x.dtype and not v.grad]
            return masks and sources and self.one(op, [x, r.choice(masks), r.choice(sources)], self.inplace(x))
        if op == "gather":
            i = self.ints([r.choice([1, 2, 5]) if a == d else z for a, z in enumerate(x.shape)])
            return i and self.one(op, [x, i], {"dim": d})
        if op == "index_select":
            i = self.ints([r.choice([1, 2, 5])])
            return i and self.one(op, [x, i], {"dim": d})
        if op == "index":
            i = [self.ints(r.choice([[3], [2, 2], [1], [4]])) for _ in range(1 if n - d < 2 or r.random() < 0.6 else 2)]
            return all(i) and self.one(op, [x] + i, {"dim": d} if d else {})
        if op == "index_put" and x.dtype == "f32":
            i = self.ints(r.choice([[3], [2, 2]]))
            k = self.inplace(x)
            if not k:
                d = 0
            v = i and self.param(r.choice([x.shape[:d] + i.shape + x.shape[d + 1 :], x.shape[d + 1 :], [1]]))
            k.update({"dim": d} if d else self.keys(accumulate=[0, 1]))
            return v and self.one(op, [x, i, v], k)
        if op == "scatter":
            full = r.random() < 0.5  # backward to a source wants an index of its shape
            i = self.ints(x.shape if full else [min(z, 2) for z in x.shape])
            return i and self.one(op, [x, i, x] if full else [x, i], {"dim": d, **self.inplace(x)})
        if op == "topk":
            return self.add(op, 2, [x], {"k": r.randint(1, max(1, x.shape[d])), "dim": d, **self.keys(largest=[0, 1], sorted=[0, 1])})
        if op == "sort":
            return self.add(op, 2, [x], {"dim": d, **self.keys(descending=[0, 1], stable=[0, 1])})
        if op == "argmax":
            return self.one(op, [x], {"dim": d, **self.keys(keepdim=[0, 1])})
        if op == "one_hot":
            i = self.ints([2, 3])
            return i and self.one(op, [i], {"num_classes": r.choice([2, 7])})
        if op in ("histc", "index_put"):
            return x.dtype == "f32" and op == "histc" and self.one(op, [x], {"bins": r.choice([4, 10])}, grad=False)
        return self.one(op, [x], {"dim": d})

    def distance(self):
        """products of vectors, distances, and views with strides of their own"""
        r = self.r
        op = r.choice("mv dot cosine_similarity pairwise_distance cdist diagonal tensor_unfold as_strided".split())
        ranks = {"mv": (2, 2), "dot": (1, 1), "cdist": (2, 5), "diagonal": (2, 5), "pairwise_distance": (1, 5), "cosine_similarity": (1, 5)}
        x = self.x(*ranks.get(op, (1, 4)))
        if not x:
            return
        n = len(x.shape)
        if op == "diagonal":
            a, b = r.sample(range(n), 2)
            return self.one(op, [x], {"dim1": a, "dim2": b - n if r.random() < 0.3 else b, **self.keys(offset=[-1, 1, 2])}, leaf=x.leaf)
        if op == "tensor_unfold":
            d = r.randrange(n)
            return self.one(op, [x], {"dimension": d, "size": r.randint(1, x.shape[d]), "step": r.choice([1, 1, 2, 3])}, leaf=x.leaf)
        if op == "as_strided":
            if not x.contiguous or x.leaf or x.multi:
                return
            size, stride = [r.choice([1, 2, 3]) for _ in range(r.choice([1, 2, 3]))], []
            stride = [r.choice([0, 1, 2, 3, 5]) for _ in size]
            return self.one(op, [x], {"size": ",".join(map(str, size)), "stride": ",".join(map(str, stride)), **self.keys(storage_offset=[0, 1, 2])})
        shape = {"mv": x.shape[1:], "dot": x.shape, "cdist": x.shape[:-2] + [r.choice([1, 7, 30]), x.shape[-1]]}.get(op, x.shape)
        same = [v for v in self.g.v if v.shape == shape and v.dtype == x.dtype]
        y = r.choice(same) if same and r.random() < 0.5 else self.param(shape, x)
        if not y:
            return
        k = {"cosine_similarity": {"dim": r.randrange(-n, n)}, "pairwise_distance": self.keys(keepdim=[0, 1])}.get(op, {})
        return self.one(op, [x, y], k)

    def spectral(self):
        """Fourier transforms and complex tensors"""
        r = self.r
        op = r.choice("fft rfft rfft irfft complex view_as_real view_as_complex unary binary view sum".split())
        z = self.g.pick(lambda v: v.dtype in COMPLEX)
        if op in ("irfft", "view_as_real", "unary", "binary", "view", "sum"):
            if not z:
                return
            n = len(z.shape)
            if op == "view":
                return self.g.view(r.choice(VIEWS)) and self.tool(self.g.lines, "--csv").returncode == 0
            if op == "unary":
                return self.one(r.choice(["abs", "neg", "clone", "detach", "exp", "square"]), [z])
            if op == "binary":
                same = [v for v in self.g.v if v.shape == z.shape and v.dtype != "bool"]
                return self.one(r.choice(["add", "sub", "mul", "mul"]), r.sample([z, r.choice(same)], 2))
            if op == "sum":
                return self.one("sum", [z], {"dim": r.randrange(n)} if n and r.random() < 0.6 else {})
            if op == "irfft" and n and z.shape[-1] < 2:
                return
            return self.one(op, [z], {} if op == "view_as_real" else self.keys(dim=[-1, r.randrange(n)] if n else [-1]))
        x = self.x(1, dtypes=("f32", "f32", "f64"))
        if not x:
            return
        n = len(x.shape)
        if op == "complex":
            same = [v for v in self.g.v if v.shape == x.shape and v.dtype == x.dtype]
            return self.one(op, [x, r.choice(same)])
        if op == "view_as_complex":
            return x.shape[-1] == 2 and self.one(op, [x], leaf=x.leaf)
        y = z if op == "fft" and z else x
        n = len(y.shape)
        d = r.sample(range(n), r.randint(1, min(3, n)))
        k = {"dim": ",".join(map(str, d))} if r.random() < 0.6 else {}
        return self.one("fft" if y is z else "rfft", [y], {**k, **({} if y is z else self.keys(onesided=[0, 1] if len(d) == 1 or not k else [1]))})

    def regions(self):
        """pooling of regions, deformable convolution, and what a program finds in data: nothing uses that, the pretended GPU has no data"""
        r = self.r
        op = r.choice("roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d nms nonzero unique masked_select grouped_mm".split())
        if op in ("nonzero", "unique", "masked_select"):
            x = self.g.pick(lambda v: v.dtype not in COMPLEX)
            masks = [v for v in self.g.v if v.dtype == "bool" and self.g.bcast(x.shape, v.shape) is not None]
            if op == "masked_select":
                y = masks and self.add(op, 1, [x, r.choice(masks)], "count=0")
            else:
                y = self.add(op, r.choice([1, 2]) if op == "unique" else 1, [x], "count=0")
            self.g.v = [v for v in self.g.v if v not in (y or [])]
            return y
        if op == "nms":
            x = self.x(2, 2, lambda v: v.shape[1] == 4)
            n = x.shape[0] if x else r.choice([1, 5, 64, 70])
            x = x or self.shaped("rand", [n, 4], grad=False)
            scores = x and self.shaped("rand", [n], f"dtype={x.dtype}", grad=False)
            y = scores and self.one(op, [x, scores], "count=0", grad=False)
            return y and (self.g.v.remove(y) or True)
        if op == "grouped_mm":
            x = self.x(2, 2, dtypes=("f32", "bf16"))
            w = x and self.param([r.choice([1, 2, 4]), x.shape[1], r.choice([8, 16])], x)
            ends = w and self.shaped("zeros", [w.shape[0]], "dtype=i32", grad=False)
            return ends and self.one(op, [x, w, ends])
        x = self.x(4, 4)
        if not x:
            return
        if op == "deform_conv2d":
            k, s, p, d = r.choice([1, 2, 3]), r.choice([1, 1, 2]), r.choice([0, 1]), r.choice([1, 1, 2])
            h, w = [(z + 2 * p - d * (k - 1) - 1) // s + 1 for z in x.shape[2:]]
            if h < 1 or w < 1:
                return
            groups = r.choice([a for a in (1, 1, 2) if x.shape[1] % a == 0])
            o, parts = groups * r.choice([1, 3]), r.choice([a for a in (1, 1, 2) if x.shape[1] % a == 0])
            ins = [x, self.param([x.shape[0], 2 * parts * k * k, h, w], x), self.param([o, x.shape[1] // groups, k, k], x)]
            ins += [self.param([x.shape[0], parts * k * k, h, w], x)] if r.random() < 0.5 else []
            ins += [self.param([o], x)] if r.random() < 0.5 else []
            window = {a: v for a, v, usual in (("stride", s, 1), ("padding", p, 0), ("dilation", d, 1)) if v != usual}
            return all(ins) and self.one(op, ins, window)
        boxes = self.shaped("rand", [r.choice([0, 1, 3, 7]), 5], f"dtype={x.dtype}", grad=False)
        return boxes and self.one(op, [x, boxes], {"output_size": self.axes(2, [1, 2, 3])})

    def further(self):
        """functions that came later: special ones, those of two results, searching, diagonals"""
        r = self.r
        op = r.choice("special special pair pair two two running search isin take square polar count cross encoder".split())
        x = self.x(dtypes=FLOATS)
        if not x:
            return
        n = len(x.shape)
        if op == "special":
            return self.one(r.choice(["sinc", "i0", "digamma", "entr"]), [x])
        if op in ("pair", "cross", "polar"):
            same = [v for v in self.g.v if v.shape == x.shape and v.dtype == x.dtype]
            op = {"pair": r.choice(["xlogy", "xlog1py", "copysign", "heaviside"])}.get(op, op)
            return self.one(op, [x, r.choice(same)], {"dim": x.shape.index(3)} if op == "cross" and 3 in x.shape else {})
        if op == "count":
            return n and self.one("count_nonzero", [x], {"dim": r.randrange(n)})
        if op == "two":
            k = {"dim": r.randrange(-n, n), **self.keys(keepdim=[0, 1])} if n else {}
            op = r.choice(["var_mean", "std_mean", "aminmax", "median", "kthvalue"])
            if op == "kthvalue":
                k["k"] = 1
            return n and self.add(op, 2, [x], k)
        if op == "running":
            op = r.choice(["logcumsumexp", "cummax", "cummin"])
            return n and self.add(op, 1 if op[0] == "l" else 2, [x], {"dim": r.randrange(n)})
        if op == "search":
            edges = self.shaped("rand", [r.choice([1, 5, 9])], f"dtype={x.dtype}", grad=False)
            op, ins = r.choice([("bucketize", [x, edges]), ("searchsorted", [edges, x])])
            return edges and self.one(op, ins, self.keys(dtype=["i32"]))
        if op in ("isin", "take"):
            ints = self.ints([r.choice([1, 4]), r.choice([1, 3])])
            return ints and (self.one("take", [x, ints]) if op == "take" else self.one("isin", [ints, ints]))
        if op == "square":
            flat = self.x(1, 2)
            op = r.choice(["diag", "trace", "block_diag"])
            return flat and self.one(op, [flat] * (r.choice([1, 2]) if op == "block_diag" else 1), self.keys(diagonal=[-1, 1]) if op == "diag" else {})
        y = self.x(3, 3, lambda v: v.shape[-1] in (4, 8, 12, 16, 32))
        k = {"dim_feedforward": r.choice([8, 20]), **self.keys(norm_first=[0, 1], batch_first=[0, 1], activation=["gelu"], bias=[0], dropout=[0, 0.5])}
        return y and self.one("transformer_encoder_layer", [y], {"num_heads": r.choice([1, 2, 4]), **k})

    def normed(self):
        """a weight in two parts, as torch.nn.utils.weight_norm has it"""
        r, x = self.r, self.x(1, dtypes=FLOATS)
        if not x:
            return
        o, d = r.choice([1, 3, 8]), r.choice([0, 0, 1])
        v = self.param([o, x.shape[-1]], x)
        g = v and self.param([1 if a != d else z for a, z in enumerate([o, x.shape[-1]])], x)
        w = g and self.one("weight_norm", [v, g], {"dim": d})
        return w and self.one("linear", [x, w], {"out_features": o})

    def close(self):
        """the innermost block ends; a checkpoint gives what it has computed, or some of it"""
        g, r = self.g, self.r
        end = g.open.pop()
        if end == "end":
            at = max(i for i, line in enumerate(g.lines) if line.startswith("checkpoint"))
            inside = [line.split() for line in g.lines[at + 1 :]]
            made = {n for w in inside if w[0] not in ("end", "checkpoint", "no_grad", "enable_grad", "autocast", "next", "loop") for n in w[1].split(",")}
            made |= {p.split("=")[0] for w in inside if w[0] == "loop" for p in w[2:]}
            made -= {v.name for v in g.v if v.leaf}
            here = [v for v in g.v if v.name in made]
            if here and ("reentrant=1" in g.lines[at] or r.random() < 0.5):
                out = r.sample(here, min(len(here), r.choice([1, 1, 2, 3])))
                end += " " + " ".join(v.name for v in out)
                g.v = [v for v in g.v if v.name not in made or v in out]
        g.lines.append(end)
        return True

    def block(self):
        """a line that opens or closes: autocast off, no_grad, a checkpoint; keep"""
        g, r = self.g, self.r
        kind = r.choice("close close close autocast no_grad checkpoint checkpoint keep".split())
        if kind == "keep":
            if any(c.startswith("end") for c in g.open):
                return
            g.lines.append("keep " + r.choice(g.v).name)
            return True
        if kind == "close":
            return g.open and self.close()
        end = {"autocast": "autocast on", "no_grad": "enable_grad", "checkpoint": "end"}[kind]
        if end in g.open or "enable_grad" in g.open or len(g.open) > 2:
            return
        if kind != "checkpoint":
            g.lines.append(f"autocast {r.choice(['off', 'off', 'bf16', 'fp16'])}" if kind == "autocast" else kind)
        else:
            args = r.sample(g.v, min(len(g.v), r.choice([0, 1, 1, 2])))
            keys = " reentrant=1" if r.random() < 0.4 else r.choice([""] * 6 + [" early_stop=0"])
            keys += r.choice([""] * 6 + [" preserve_rng_state=0"])
            g.lines.append(" ".join(["checkpoint", *(v.name for v in args)]) + keys)
        g.open.append(end)
        line = self.activation() or self.linear() or self.pointwise()  # a block is not empty
        if not line:
            g.open.pop()
        return line

    def reduction(self):
        r, x = self.r, self.g.pick(lambda v: True)
        op, n = r.choice(REDUCE + ["nansum", "argmin"]), len(x.shape)
        if op in ("max", "min") and n and r.random() < 0.7:
            return self.add(op, 2, [x], {"dim": r.randrange(-n, n), **self.keys(keepdim=[0, 1])})
        k = {}
        if n and r.random() < 0.8:
            k = {"dim": ",".join(map(str, r.sample(range(n), 1 if op in ("max", "min", "prod", "argmin") else r.randint(1, n)))), **self.keys(keepdim=[0, 1])}
        elif op == "logsumexp":
            return
        if op in ("sum", "mean", "prod") and r.random() < 0.15:
            k["dtype"] = r.choice(["f32", "f64", "bf16"])
        return self.one(op, [x], k)

    def create(self):
        r, x = self.r, self.x(dtypes=FLOATS)
        op = r.choice("zeros ones full arange empty rand randn fill bernoulli parameter buffer detach to type_as".split())
        if not x:
            return
        if op in ("fill", "bernoulli"):
            return not x.leaf and not x.multi and self.one(op, [x], "inplace=1")
        if op in ("parameter", "buffer"):
            return self.shaped(op, x.shape, leaf=True, grad=op == "parameter")
        if op == "detach":
            y = self.one(op, [x], grad=False)
            return y
        if op == "to":
            return self.one(op, [x], {"dtype": r.choice(FLOATS)} if r.random() < 0.8 else {"autocast": 1}, leaf=x.leaf)
        if op == "type_as":
            w = self.x(dtypes=FLOATS)
            return self.one(op, [x, w], leaf=x.leaf, grad=x.grad)
        if op == "arange":
            return self.shaped(op, [r.choice([1, 4, 7])], grad=False)
        return self.shaped(op, x.shape, grad=False)

    def loop(self):
        """a block that runs several times: layers that keep the shape"""
        r, g, x = self.r, self.g, self.x(2, 3, lambda v: v.shape[-1] in range(1, 65))
        if not x or x.dtype != "f32":
            return
        h, a, b, y, n = g.name(), g.name(), g.name(), g.name(), r.choice([0, 1, 2, 3])
        old, d = list(g.lines), x.shape[-1]
        g.lines += [f"loop {n} {h}={x.name}", r.choice([f"layer_norm {a} {h} normalized_shape={d}", f"linear {a} {h} out_features={d}"])]
        g.lines += [r.choice([f"linear {b} {a} out_features={d}", f"gelu {b} {a}", f"relu {b} {a} inplace=1"]), f"next {h}={b}"]
        if self.one(r.choice(["sin", "relu"]), [Value(h, x.shape, "f32", grad=True)], grad=x.grad or n > 0):
            return True
        g.lines = old

    def loss(self):
        r, x = self.r, self.x(1)
        if not x or not x.grad:
            return
        op, g, y = r.choice(LOSS + ["cross_entropy"]), self.g, self.g.name()
        k = f" reduction={r.choice(['mean', 'sum'] + ['batchmean'] * (op == 'kl_div'))}" if r.random() < 0.5 else ""
        others = [v for v in g.v if v.float() and v.shape == x.shape and not v.grad and v.dtype == x.dtype]
        ins = [x] + ([r.choice(others)] if others and op != "cross_entropy" and op != "nll_loss" and r.random() < 0.5 else [])
        g.lines.append(f"{op} {y} {' '.join(v.name for v in ins)}{k}")
        if self.tool(g.lines, "--train", "sgd", "--no-table").returncode:
            g.lines.pop()
            return
        g.v.append(Value(y, [], "f32" if x.dtype != "f64" else "f64", grad=True))
        return True

    def view(self):
        g, r = self.g, self.r
        if not (g.view(r.choice(VIEWS)) if r.random() < 0.65 else g.copy(r.choice(COPIES))):
            return
        return self.tool(g.lines, "--csv").returncode == 0


def wide(g):
    """every op with every key, drawn on what there is"""
    r, w = g.r, Wide(g)
    g.model = f"dtype={r.choice(['bf16', 'bf16', 'f16', 'f64'])}" if r.random() < 0.06 else ""
    for i in range(r.choice([1, 1, 2, 3])):
        rank = r.choice([0, 1, 2, 2, 3, 3, 4, 4, 4, 5])
        shape = [r.choice([1, 1, 2, 3, 4, 5, 6, 8, 9, 12, 16]) for _ in range(rank)]
        if rank and r.random() < 0.06:
            shape[r.randrange(rank)] = 0
        dtype = "f32" if i == 0 else r.choices(["f32", "bf16", "f16", "f64", "i64", "bool"], [60, 12, 6, 6, 10, 6])[0]
        grad = dtype in FLOATS and r.random() < 0.7
        named = "model" if g.model and dtype == "f32" else dtype
        g.lines.append(f"input x{i} {named} [{','.join(map(str, shape))}]" + (" grad=1" if grad else ""))
        g.v.append(Value(f"x{i}", shape, g.model[6:] if named == "model" else dtype, leaf=True, grad=grad))
    blocks = [w.block] * r.choice([0, 0, 1, 4])
    draw = blocks + [w.spectral, w.normed, w.further, w.further, w.regions, w.regions, w.conv, w.linear, w.table, w.product, w.norm, w.activation, w.activation, w.dropout, w.pool, w.resample, w.attention, w.recurrent, w.pointwise, w.pointwise, w.index, w.index, w.distance, w.reduction, w.create, w.loop, w.view, w.view]
    k = 0
    for _ in range(20 * g.budget):
        if k >= g.budget:
            break
        count, lines, closers = len(g.v), len(g.lines), list(g.open)
        try:
            ok = r.choice(draw)()
        except (ValueError, IndexError):  # nothing to choose from
            ok = None
        if ok:
            k += 1
        else:
            del g.v[count:], g.lines[lines:]
            g.open = closers
    while g.open:
        w.close()
    if r.random() < 0.3:
        w.loss()
    return g.finish()


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("-o", default=".")
    a.add_argument("--count", type=int, default=1)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--style", choices=["free", "conv", "transformer", "wide"], default="free")
    a.add_argument("--nodes", type=int, default=0)
    a.add_argument("--ops", default="")
    a.add_argument("--inplace", type=float, default=0.25)
    a = a.parse_args()
    os.makedirs(a.o, exist_ok=True)
    for i in range(a.count):
        seed = a.seed + i
        rng = random.Random(f"{a.style} {a.nodes} {a.ops} {a.inplace} {seed}")
        while True:
            nodes = a.nodes or rng.choice([2, 3, 4, 6, 8, 12, 16, 24, 40])
            g = Graph(rng, nodes, [x for x in a.ops.split(",") if x], a.inplace)
            if {"free": Graph.free, "conv": conv, "transformer": transformer, "wide": wide}[a.style](g):
                break
        name = f"{a.style}_{seed}"
        with open(os.path.join(a.o, name + ".vram"), "w") as f:
            f.write("\n".join([f"model {name} {g.model}".strip()] + g.lines) + "\n")


if __name__ == "__main__":
    main()
