"""A forward pass as nodes of the text form: a TorchFunctionMode that sees every call of a torch function."""

import re, weakref

import torch, torch.nn as nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

import export_found, export_linalg, export_recurrent, export_training, export_units
from export_custom import Measured, bytes_of, measure, storage_order
from export_rows import (
    CONVERT,
    DTYPES,
    LOSS_REDUCTION,
    NoWord,
    Node,
    Problem,
    Ref,
    SAME_OR_COPY,
    SIGNATURES,
    SILENT,
    axes_text,
    list_text,
    one_line,
    rows,
    shape_text,
    written,
)


def from_end(at, size):
    """a place in an axis that the program counts from its end, as it does so"""
    return at if isinstance(at, int) and -size <= at < 0 else None


class Same(torch.autograd.Function):
    """the same storage as another tensor, which it does not hold"""

    @staticmethod
    def forward(ctx, x):
        return x.data

    @staticmethod
    def backward(ctx, g):
        return g


def result_values(r):
    """a result as lists: transformers' are dicts that no tree is made of"""
    return list(r.values()) if isinstance(r, dict) else r


class Recorder(export_found.Found, export_linalg.Linalg, export_recurrent.Recurrent, TorchFunctionMode):
    same = staticmethod(Same.apply)

    def __init__(self, module, inputs, amp=None):
        super().__init__()
        self.amp, self.train = amp, module.training
        self.nodes, self.names, self.taken, self.death, self.refs, self.notes = [], {}, set(), {}, [], []
        self.paths = [""]
        self.path_of = {id(m): n for n, m in module.named_modules(remove_duplicate=True)}
        self.params = {id(p): n for n, p in module.named_parameters(remove_duplicate=True)}
        self.buffers = {id(b): n for n, b in module.named_buffers(remove_duplicate=True)}
        self.tensors = {id(t): t for t in list(module.parameters()) + list(module.buffers())}
        self.reads, self.unit = [], 0
        self.in_lines = set()  # ids of modules that are written as lines of what they call
        self.given = []  # names of what the module itself gave,
        self.scalars = set()  # those that are numbers, as a loss is,
        self.returned = 0  # and the number of nodes then
        self.units, self.plan = export_units.of(module), export_units.plan(module)
        self.leaves = set()  # names of values that became leaves
        self.assigned = {}  # names of values that modules keep, and the number of nodes when they took them
        self.attributes = {}  # by module and attribute those that it took, in order
        self.instead = {}  # the value that one took the place of
        self.dead = {}  # names of values, and the number of nodes when they died
        self.stats = set()  # ids of running statistics
        self.params_in_modules = set()  # ids of what lines of whole modules have
        self.rnn_name = {}  # ids of recurrent modules, and the name of the first line of each
        self.steps = 0  # of a generation: how many are run
        self.cached = set()  # of a step of a generation: names of its caches
        self.kinds = {}  # names, and of which shape, dtype, order of axes and tensor they were made
        self.leaf_flags = [False]  # of the modules that are running: is it one op of torch.nn?
        self.device = next(
            (t.device.type for t in list(inputs.values()) + list(self.tensors.values())), "cpu"
        )
        self.inputs, self.grad, self.rows = inputs, torch.is_grad_enabled(), rows()
        for n, t in inputs.items():
            self.taken.add(n)
            self.names[id(t)] = n

    # ---- names
    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)

    def fresh(self, op, leaf=False):
        path = self.paths[-1]
        base = path if leaf and path else (path + "." if path else "") + op
        base = re.sub(r"[^A-Za-z0-9_./]", "_", base)
        if not re.match(r"[A-Za-z_]", base):
            base = "_" + base
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name

    def ref(self, t):
        """what a tensor is called; one that nobody made here is a constant of the program"""
        if id(t) in self.names:
            return Ref(self.names[id(t)])
        if id(t) in self.params or id(t) in self.buffers:
            return Ref(own=id(t))
        if isinstance(t, nn.Parameter) or t.device.type == self.device:
            self.note(
                f"a tensor of shape {list(t.shape)} that the module holds outside its parameters and buffers is written as a buffer ({self.paths[-1]})"
            )
            self.tensors[id(t)] = t
            self.buffers[id(t)] = self.fresh("constant")
            return Ref(own=id(t))
        return None

    def custom(self, name, func, args, kwargs, r, why):
        """a line for a call that has no word: its results, and what it was measured to take"""
        why = f"{name}: {why}"
        xs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        results = [t for t in tree_leaves(r) if isinstance(t, torch.Tensor)] or xs[:1]
        m = Measured(0, [], [], 0)
        self.unit += 1
        try:
            m = measure(func, args, kwargs)
        except Problem:
            raise
        except Exception as e:
            why += f"; it cannot be called again to measure it ({one_line(e)}), so what it keeps is taken to be its results"
            m.saved_results = list(range(len(results)))
        finally:
            self.unit -= 1
        inputs = [x for x in xs if self.on_device(x)]
        beside = [k for k, t in enumerate(results) if k and not t.requires_grad]
        for k in beside:
            t = results[k]
            self.emit("empty", [], t, {"shape": shape_text(t.shape), "dtype": DTYPES[t.dtype]}, name=name)
        beside = [k for k in beside if k in m.saved_results]
        for k, t in enumerate(results):
            if k and not t.requires_grad:
                continue
            own = DTYPES[t.dtype] if not inputs or t.dtype != inputs[0].dtype else None
            keys = {"shape": shape_text(t.shape), "dtype": own}
            given = results[:1] if k else inputs + [results[i] for i in beside]
            for i, x in enumerate(inputs if not k else ()):
                if any(xs[j] is x for j in m.no_gradient) and self.ref(x):
                    given[i] = self.made("detach", [self.ref(x)], {})
            node = self.emit("custom", given, t, keys, name=name)
            if k:
                node.keys["saves"] = 1 if k in m.saved_results else None
            else:
                kept = [k for k, x in enumerate(inputs) if any(xs[i] is x for i in m.saved_args)]
                kept += [len(inputs) + i for i in range(len(beside))]
                kept += [len(given)] if 0 in m.saved_results else []
                self.measured(node, m, kept[:8], why)
                if (
                    inputs
                    and bytes_of(t)
                    and t.untyped_storage()._cdata == inputs[0].untyped_storage()._cdata
                ):
                    node.keys["alias"] = 1
            node.keys = {key: v for key, v in node.keys.items() if v is not None}
            self.laid_out(node, t)

    def measured(self, node, m, kept, why):
        """keys of a custom line, from what its call was measured to take; kept: the inputs and results, by position, that it saves"""
        node.keys |= {"saved": m.saved, "workspace": m.temporaries}
        node.keys["saves"] = list_text(kept) if kept else None
        node.keys["backward_workspace"] = m.backward
        node.keys["unseen"] = m.unseen or None
        node.keys["cublas"] = 1 if m.cublas else None
        if m.backward_cublas not in (None, m.cublas):
            node.keys["backward_cublas"] = int(m.backward_cublas)
        node.custom = why

    def laid_out(self, node, t):
        """what a line with a shape makes is contiguous: t is a view of that where its axes lie otherwise"""
        if order := storage_order(t):
            node.keys["shape"] = shape_text([t.shape[i] for i in order])
            dims = ",".join(str(order.index(i)) for i in range(t.dim()))
            self.emit("permute", [Ref(node.outs[0])], t, {"dims": dims})

    def value(self, t, name):
        known = id(t) in self.names
        if id(t) in self.params or id(t) in self.buffers or any(t is i for i in self.inputs.values()):
            return  # the op hands on what lives anyway
        self.names[id(t)] = name
        entry = self.death.setdefault(id(t), []) if known else []
        entry.append(name)
        if self.steps:
            self.kinds[name] = t.shape, t.dtype, storage_order(t), entry, t.untyped_storage()._cdata
        if known:
            return
        key = id(t)
        self.death[key] = entry

        def gone(_, key=key, entry=entry):
            for n in entry:
                self.dead.setdefault(n, len(self.nodes))
            if self.names.get(key) in entry:
                del self.names[key]
            if self.death.get(key) is entry:
                del self.death[key]

        self.refs.append(weakref.ref(t, gone))

    def gave(self, result):
        """what the module itself gives"""
        given = [t for t in tree_leaves(result_values(result)) if isinstance(t, torch.Tensor)]
        self.given = list(dict.fromkeys(self.names[id(t)] for t in given if id(t) in self.names))
        self.scalars = {self.names[id(t)] for t in given if id(t) in self.names and not t.dim()}
        self.returned = len(self.nodes)

    def emit(self, op, x, r, keys=None, leaf=False, name=None, params=None, outs=None):
        """x: tensors (or Refs) in, r: tensor or tensors out"""
        ins = [a if isinstance(a, Ref) else self.ref(a) for a in x]
        if any(i is None for i in ins):
            self.note(f"{op}: an input on another device ({self.paths[-1]})")
            ins = [i for i in ins if i]
        base = self.fresh(name or op, leaf)
        if isinstance(r, (tuple, list)):
            names = (
                [
                    self.fresh(f"{name or op}.{k}") if outs is None else base if not k else base + outs[k]
                    for k in range(len(r))
                ]
                if len(r) != 1 or outs is None
                else [base]
            )
            results = list(r)
        else:
            names, results = [base], [r]
        node = Node(op, names, ins, {k: v for k, v in (keys or {}).items() if v is not None}, params)
        node.result = DTYPES.get(results[0].dtype)
        if "dtype" in node.keys:
            node.reads = self.reads[-200:]
        self.nodes.append(node)
        for n, t in zip(names, results):
            self.value(t, n)
        return node

    # ---- the calls
    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", str(func))
        if self.unit:
            return func(*args, **kwargs)
        self.had_grad = bool(args) and getattr(args[0], "requires_grad", False)
        if name == "__get__":
            r = func(*args, **kwargs)
            attr = getattr(func.__self__, "__name__", "")
            if attr == "dtype" and id(args[0]) in self.names:
                self.reads.append((self.names[id(args[0])], r))
            elif attr in ("T", "mT", "H", "mH"):
                self.views_T(args[0], r, attr)
            elif attr == "data":
                self.emit("detach", [args[0]], r)
            elif attr in ("real", "imag") and args[0].is_complex() and self.on_device(r):
                parts = self.made("view_as_real", [self.ref(args[0])], {})
                self.emit("select", [parts], r, {"dim": -1, "index": int(attr == "imag")}, name=attr)
            return r
        if name in ("__set__", "__delete__"):
            r = func(*args, **kwargs)
            if getattr(func.__self__, "__name__", "") == "requires_grad" and name == "__set__":
                self.op_requires_grad((args, kwargs), args[0], None)
            return r
        if name == "__setitem__":
            return self.setitem(func, args, kwargs)
        if name == "__getitem__":
            return self.getitem(func, args, kwargs)
        r = self.result_of(func, args, kwargs)
        if name in SILENT and not (name == "type" and isinstance(r, torch.Tensor)):
            return r
        if not isinstance(r, torch.Tensor) and not (
            isinstance(r, (tuple, list)) and any(isinstance(t, torch.Tensor) for t in r)
        ):
            return r
        if name in SAME_OR_COPY and args and r is args[0] and self.on_device(r):
            r = self.same(r)  # a value of its own: under autocast, or in another layout, it would be one
        start = len(self.nodes)
        try:
            self.call(name, args, kwargs, r)
        except NoWord as e:
            return self.without_word(name, func, (args, kwargs), r, str(e), start)
        return r

    def result_of(self, func, args, kwargs):
        """what a call gives; what torch.ops has is one call, also where its gradient is an autograd function of Python"""
        ops = isinstance(func, (torch._ops.OpOverloadPacket, torch._ops.OpOverload))
        self.unit += ops
        try:
            return func(*args, **kwargs)
        finally:
            self.unit -= ops

    def on_device(self, t):
        return isinstance(t, torch.Tensor) and t.device.type == self.device

    def call(self, name, args, kwargs, r):
        first = r if isinstance(r, torch.Tensor) else next(t for t in r if isinstance(t, torch.Tensor))
        if not self.on_device(first) or (
            args and self.buffers.get(id(args[0]), "").endswith("num_batches_tracked")
        ):
            if first.requires_grad and any(self.on_device(a) for a in args):
                self.note(
                    f"{name}: a value leaves the device; its gradient, if it gets one, is not in the text ({self.paths[-1]})"
                )
            return  # not on the device, or batch norm's count of batches
        plain = name.strip("_") if name.startswith("__") else name
        handler = getattr(self, "op_" + plain, None) or getattr(self, "op_" + plain.rstrip("_"), None)
        inplace = None
        if name.startswith("__i") and name not in ("__invert__", "__index__"):
            plain, inplace = name[3:-2], 1
        elif not name.startswith("__") and name.endswith("_"):
            plain, inplace = name[:-1], 1
        if (
            handler is None
            and name.startswith("__r")
            and plain[1:] in ("sub", "add", "mul", "and", "or", "pow", "truediv", "matmul")
        ):
            plain = plain[1:]
            if plain == "sub" and not isinstance(args[1], torch.Tensor):
                self.op_rsub((args, kwargs), r, None)
                return
            args = (args[1], args[0]) + tuple(args[2:])
        handler = handler or getattr(self, "op_" + plain, None)
        if self.on_device(kwargs.get("out")):
            grad = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args)
            if plain not in self.rows[0] or self.rows[0][plain].most > 2 or grad or r is not kwargs["out"]:
                self.note(f"{name}(out=) ({self.paths[-1]})")
            else:  # a kernel that writes to what there is
                for a in args:
                    if self.on_device(a):
                        self.made("add", [self.ref(r), self.ref(a)], {"inplace": 1})
                return
        sig = SIGNATURES.get(name, SIGNATURES.get(plain))
        if handler:
            handler(self.bind(sig, args, kwargs) if sig else (args, kwargs), r, inplace)
            return
        exact, alike = self.rows
        row = exact.get(plain) or exact.get(plain.rstrip("_"))
        grad = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args) and torch.is_grad_enabled()
        if not row and not (grad and (first.is_floating_point() or first.is_complex())):
            row = alike.get(plain)
        if row and row.op == "logical_not" and inplace:
            self.made("fill", [self.ref(r)], {"inplace": 1})  # it writes to what there is
            return
        if row and row.op.startswith("logical_") and (inplace or r.dtype is not torch.bool):
            row = exact["mul"]  # of bits: allocates as a product of whole numbers
        if row:
            self.row(row, args, kwargs, r, inplace)
            return
        if plain in CONVERT:
            self.op_to((args[:1], {**kwargs, "dtype": CONVERT[plain]}), r, None)
            return
        raise NoWord("no word for it")

    def row(self, row, args, kwargs, r, inplace):
        """a call that the op's row describes"""
        if row.arguments is not None:
            self.bound(row, args, kwargs, r, inplace)
        elif inplace and "inplace" not in row.keys:
            raise NoWord("no word for it in place")
        elif row.least == 0:
            self.create(row.op, args, kwargs, r)
        elif row.most == 1:
            keys = {"inplace": inplace, **self.unary_keys(row.op, args, kwargs)}
            self.emit(row.op, [args[0] if args else kwargs["input"]], r, keys, self.leaf())
        elif row.most == 2:
            self.binary(row, args, kwargs, r, inplace)
        elif all(self.on_device(a) for a in args) and row.least <= len(args) <= row.most:
            self.emit(row.op, args, r, {"inplace": inplace})
        else:
            raise NoWord("no word for it with these arguments")

    def bound(self, row, args, kwargs, r, inplace):
        """the arguments are bound by name: keys, and tensors"""
        d = self.bind(["*" * a.rest + a.name for a in row.arguments], args, kwargs)
        xs, keys = [], {"inplace": inplace if "inplace" in row.keys else None}
        for a in row.arguments:
            v = d.get(a.name)
            if not a.key and v is None:
                raise NoWord("an argument is missing")
            if not a.key:
                xs += v if isinstance(v, (tuple, list)) else [v]
            elif row.keys[a.name] == "S":
                keys[a.name] = shape_text(r.shape)
            elif v is not None and (v or not a.optional):
                keys[a.name] = written(row.keys[a.name], a.axes, v)
        self.emit(row.op, xs, r, keys, row.leaf and self.leaf())

    def bind(self, sig, args, kwargs):
        d, args = {}, list(args)
        for k, n in enumerate(sig):
            if n.startswith("*"):
                rest = args[k:]
                if len(rest) == 1 and isinstance(rest[0], (tuple, list, torch.Size)):
                    rest = list(rest[0])
                if rest:
                    d[n[1:]] = list(rest)
                break
            if k < len(args):
                d[n] = args[k]
        aliases = {
            "input": "x",
            "self": "x",
            "size": "shape" if "*shape" in sig or "shape" in sig else "size",
            "tensors": "xs",
            "normalized_shape": "shape",
            "condition": "c",
            "other": "y" if sig and sig[0] == "c" else "other",
            "query": "q",
            "key": "k",
            "value": "v" if "q" in sig else "value",
            "split_size": "split_size_or_sections",
            "split_sizes": "split_size_or_sections",
            "axis": "dim",
            "delta": "beta",
            "unbiased": "correction",
            "anchor": "x",
            "batch1": "a",
            "batch2": "b",
            "mat1": "a",
            "mat2": "b",
            "mask": "mask",
        }
        for k, v in kwargs.items():
            d[aliases.get(k, k)] = v
        return d

    def leaf(self):
        """whether the module that calls is one op of torch.nn"""
        return self.leaf_flags[-1]

    def unary_keys(self, op, args, kwargs):
        k = {}
        if op == "gelu" and (
            kwargs.get("approximate", "none") != "none" or (len(args) > 1 and args[1] != "none")
        ):
            k["approximate"] = "tanh"
        return k

    # ---- pointwise
    def binary(self, row, args, kwargs, r, inplace):
        op = row.op
        a, b = args[0], args[1] if len(args) > 1 else kwargs.get("other", kwargs.get("exponent"))
        tensor = lambda t: isinstance(t, torch.Tensor) and (t.device.type == self.device or t.dim() > 0)
        keys = {"inplace": inplace}
        if kwargs.get("rounding_mode"):
            keys["rounding_mode"] = kwargs["rounding_mode"]
        if tensor(a) and tensor(b):
            if "alpha" in row.keys and kwargs.get("alpha", 1) != 1:
                keys["alpha"] = kwargs["alpha"]
            self.emit(op, [a, b], r, keys)
            return
        if op == "pow" and not tensor(a):
            if b.is_floating_point() and a not in (0, 1):
                self.emit("rpow", [b], r, name="pow")
                return
            if b.requires_grad:
                raise NoWord("a number to the power of a tensor")
            self.emit("mul", [b], r, {"scalar": 1}, name="pow")
            n = self.fresh("base")  # Pow.cpp: the base becomes a tensor of one element
            self.nodes.append(
                Node("full", [n], [], {"shape": "[]", "dtype": "i64" if isinstance(a, int) else "f64"})
            )
            return
        x = a if tensor(a) else b
        if op == "floor_divide" or keys.get("rounding_mode"):
            pass
        elif not x.is_floating_point() and r.is_floating_point() and op != "div":
            self.emit("div", [x], r, {**keys, "scalar": 1}, name=op)
            return  # integers and a fraction: true division allocates alike
        if op.startswith("logical_") and x.dtype is torch.bool:
            self.emit("logical_not", [x], r, name=op)  # of one tensor: allocates alike
            return
        if "scalar" not in row.keys:
            raise NoWord("no word for it with a number")
        self.emit(op, [x], r, {**keys, "scalar": 1})

    def op_rsub(self, a, r, _):
        x, y = a[0][:2]
        if isinstance(y, torch.Tensor) and self.on_device(y):
            self.emit("sub", [y, x], r)
        else:  # a number less x: the gradient is negated, which allocates as a product with a number
            self.emit("mul", [x], r, {"scalar": 1}, name="rsub")

    def op_clamp(self, a, r, inplace):
        bounds = [a.get(k) for k in ("min", "max") if isinstance(a.get(k), torch.Tensor)]
        if bounds and inplace:
            raise NoWord("bounds that are tensors, in place")
        if bounds:
            self.emit("clamp_tensor", [a["x"], *bounds], r, name="clamp")
            return
        num = lambda v: (
            None if v is None or isinstance(v, torch.Tensor) else max(-65504, min(65504, v))
        )  # which bounds there are counts, not where
        self.emit(
            "clamp", [a["x"]], r, {"min": num(a.get("min")), "max": num(a.get("max")), "inplace": inplace}
        )

    op_clamp_min = op_clamp_max = op_clip = op_clamp

    def op_where(self, a, r, _):
        if "x" not in a:  # the positions, one list for each axis
            rows = self.made("nonzero", [self.ref(a["c"])], {"count": len(r[0])})
            self.emit("unbind", [rows], list(r), {"dim": 1}, name="where")
            return
        c, x, y = a["c"], a["x"], a["y"]
        if c.dtype is not torch.bool:  # x.where(c, y)
            c, x = x, c
        t = [v for v in (x, y) if self.on_device(v)]
        if len(t) == 2:
            self.emit("where", [c, x, y], r)
        elif len(t) == 1 and not (r.is_floating_point() or r.is_complex()):
            number = self.made("full", [], {"shape": "[]", "dtype": DTYPES[r.dtype]})
            self.emit("where", [c, t[0], number], r)
        elif len(t) == 1:
            self.emit("where", [c, t[0]], r, {"scalar": 1})
        else:
            self.emit("full", [], r, {"shape": shape_text(r.shape), "dtype": DTYPES[r.dtype]}, name="where")
            self.note("where of two numbers")

    def op_masked_fill(self, a, r, inplace):
        v = a.get("value")
        self.emit(
            "masked_fill", [a["x"], a["mask"]] + ([v] if self.on_device(v) else []), r, {"inplace": inplace}
        )

    def op_lerp(self, a, r, inplace):
        w = a["weight"]
        self.emit(
            "lerp",
            [a["x"], a["end"]] + ([w] if self.on_device(w) else []),
            r,
            {"inplace": inplace, "scalar": None if self.on_device(w) else 1},
        )

    # ---- parameters
    def weighted(self, op, x, weights, r, keys, leaf=True):
        """an op with parameters: weights is the list of tensors or None in order"""
        self.emit(
            op,
            list(x) + [w for w in weights if w is not None],
            r,
            keys,
            leaf and self.leaf(),
            params=(len(x), [w is not None for w in weights]),
        )

    def op_linear(self, a, r, _):
        self.weighted(
            "linear", [a["x"]], [a["weight"], a.get("bias")], r, {"out_features": a["weight"].shape[0]}
        )

    def op_conv(self, a, r, n, op, transposed=False):
        w = a["weight"]
        one = lambda k, d: (
            None
            if k not in a or a[k] is None or (not isinstance(a[k], str) and axes_text(a[k]) == str(d))
            else a[k] if isinstance(a[k], str) else axes_text(a[k])
        )
        keys = {
            "out_channels": w.shape[1] * a.get("groups", 1) if transposed else w.shape[0],
            "kernel_size": axes_text(w.shape[2:]),
            "stride": one("stride", 1),
            "padding": one("padding", 0),
        }
        if transposed:
            keys["output_padding"] = one("output_padding", 0)
        keys.update({"dilation": one("dilation", 1), "groups": one("groups", 1)})
        if keys["padding"] == "valid":
            keys["padding"] = None
        self.weighted(op, [a["x"]], [w, a.get("bias")], r, keys)

    def normed(self, op, a, r, keys):
        """a norm that has perhaps running statistics"""
        self.weighted(op, [a["x"]], [a.get("weight"), a.get("bias")], r, keys)
        self.nodes[-1].stats = [id(a[k]) for k in ("running_mean", "running_var") if a.get(k) is not None]

    def op_batch_norm(self, a, r, _):
        keys = {"track_running_stats": None if a.get("running_mean") is not None else 0}
        if a.get("running_mean") is not None:
            mean = self.buffers.get(id(a["running_mean"]), "")
            if mean.removesuffix("running_mean") + "num_batches_tracked" not in self.buffers.values():
                keys["counted"] = 0
            self.stats.add(id(a["running_mean"]))
            self.stats.add(id(a["running_var"]))
            if not a.get("training") and self.train:
                keys["training"] = 0
        self.normed("batch_norm", a, r, keys)

    def op_instance_norm(self, a, r, _):
        tracked = a.get("running_mean") is not None
        weights = [a.get("weight"), a.get("bias")]
        if any(w is not None and self.ref(w).own is None for w in weights):
            self.instance_norm_parts(a["x"], weights, tracked, r)
            return
        if tracked:
            self.stats.add(id(a["running_mean"]))
            self.stats.add(id(a["running_var"]))
        self.normed("instance_norm", a, r, {"track_running_stats": 1 if tracked else None})

    def instance_norm_parts(self, x, weights, tracked, r):
        """of weights that are computed: a batch norm of all planes (Normalization.cpp, instance_norm)"""
        if tracked or any(w is None for w in weights):
            raise Problem(
                "instance_norm: computed weights beside running statistics, or one alone, have no line"
            )
        n, c = x.shape[:2]
        own = [self.made("repeat", [self.ref(w)], {"repeats": n}) for w in weights]
        planes = self.made("contiguous", [self.ref(x)], {})
        planes = self.made("view", [planes], {"shape": shape_text([1, n * c, *x.shape[2:]])})
        y = self.made("batch_norm", [planes, *own], {"track_running_stats": 0})
        self.emit("view", [y], r, {"shape": shape_text(r.shape)}, name="instance_norm")

    def op_layer_norm(self, a, r, _):
        self.weighted(
            "layer_norm",
            [a["x"]],
            [a.get("weight"), a.get("bias")],
            r,
            {"normalized_shape": list_text(a["shape"])},
        )

    def op_rms_norm(self, a, r, _):
        self.weighted("rms_norm", [a["x"]], [a.get("weight")], r, {"normalized_shape": list_text(a["shape"])})

    def op_group_norm(self, a, r, _):
        self.weighted(
            "group_norm", [a["x"]], [a.get("weight"), a.get("bias")], r, {"num_groups": a["num_groups"]}
        )

    def op_embedding(self, a, r, _):
        if a.get("sparse"):
            self.note("sparse embedding gradients")
        w = a["weight"]
        self.weighted(
            "embedding", [a["x"]], [w], r, {"num_embeddings": w.shape[0], "embedding_dim": w.shape[1]}
        )

    def op_bilinear(self, a, r, _):
        if any(a.get(k) is not None and self.ref(a[k]).own is None for k in ("weight", "bias")):
            raise NoWord("weights that are computed")
        self.weighted(
            "bilinear",
            [a["x1"], a["x2"]],
            [a["weight"], a.get("bias")],
            r,
            {"out_features": a["weight"].shape[0]},
        )

    def op_prelu(self, a, r, _):
        self.weighted(
            "prelu",
            [a["x"]],
            [a["weight"]],
            r,
            {"num_parameters": a["weight"].numel() if a["weight"].numel() > 1 else None},
        )

    # ---- dropout, pooling, resampling
    def dropout(self, a, r, inplace, op):
        if r is a["x"] and not a.get("train"):
            return
        self.emit(op, [a["x"]], r, {"p": a.get("p"), "inplace": inplace}, self.leaf())

    def op_dropout(self, a, r, inplace):
        self.dropout(a, r, inplace, "dropout")

    def op_feature_dropout(self, a, r, inplace):
        self.dropout(a, r, inplace, f"dropout{max(1, a['x'].dim() - 2)}d")

    def op_alpha_dropout(self, a, r, inplace):
        self.dropout(a, r, inplace, "alpha_dropout")

    def op_feature_alpha_dropout(self, a, r, inplace):
        self.dropout(a, r, inplace, "feature_alpha_dropout")

    def pool(self, op, a, r, indices=False):
        some = lambda k, d: (
            None
            if k not in a or a[k] is None or a[k] in ((), []) or axes_text(a[k]) == str(d)
            else axes_text(a[k])
        )
        keys = {
            "kernel_size": axes_text(a["kernel_size"]),
            "stride": some("stride", axes_text(a["kernel_size"])),
            "padding": some("padding", 0),
        }
        if op.startswith("max"):
            keys["dilation"] = some("dilation", 1)
        keys["ceil_mode"] = 1 if a.get("ceil_mode") else None
        self.emit(
            op, [a["x"]], r, {**keys, "return_indices": 1 if indices else None}, self.leaf(), outs=["", ".i"]
        )

    def fractional(self, op, a, r):
        """the line makes the random numbers that the call was given"""
        x, kernel, size, samples = a[0][:4]
        made = self.nodes[-1] if self.nodes else None
        if made is None or made.outs != [self.names.get(id(samples))] or made.op != "rand":
            raise NoWord("samples of the program's own")
        self.nodes.pop()
        size = {"kernel_size": axes_text(kernel), "output_size": axes_text(size)}
        self.emit(op, [x], r, {**size, "return_indices": 1}, outs=["", ".i"])

    def op_fractional_max_pool2d(self, a, r, _):
        self.fractional("fractional_max_pool2d", a, r)

    def op_fractional_max_pool3d(self, a, r, _):
        self.fractional("fractional_max_pool3d", a, r)

    def adaptive(self, op, a, r):
        size = a["output_size"]
        if isinstance(size, (tuple, list)) and any(s is None for s in size):
            size = [s or d for s, d in zip(size, a["x"].shape[-len(size) :])]
        if isinstance(r, (tuple, list)):
            self.emit(op, [a["x"]], r, {"output_size": axes_text(size)}, self.leaf(), outs=["", ".i"])
        else:
            self.emit(op, [a["x"]], r, {"output_size": axes_text(size)}, self.leaf())

    def upsample(self, a, r, mode, antialias=None):
        x = a["x"]
        self.emit(
            "interpolate",
            [x],
            r,
            {
                "size": axes_text(r.shape[2:]),
                "mode": None if mode == "nearest" else mode,
                "antialias": antialias,
            },
            self.leaf(),
            name="interpolate",
        )

    def op_pad(self, a, r, _):
        mode = a.get("mode", "constant")
        if self.steps and mode == "constant":  # as much as is missing: the size alone may follow the prompt
            self.create("empty", (), {}, r)
            return
        self.emit(
            "pad",
            [a["x"]],
            r,
            {"pad": list_text(a["pad"]), "mode": None if mode == "constant" else mode},
            self.leaf(),
        )

    def op_constant_pad_nd(self, a, r, _):
        self.emit("pad", [a[0][0]], r, {"pad": list_text(a[0][1])})

    # ---- products, softmax, attention
    def op_matmul(self, a, r, _):
        x = list(a[0]) + [v for k, v in a[1].items() if k in ("other", "mat2", "tensor2")]
        self.emit("matmul", x[:2], r)

    def op_bmm(self, a, r, _):
        self.emit("bmm", list(a[0]) + list(a[1].values()), r)

    def op_mm(self, a, r, _):
        self.emit("mm", list(a[0]) + list(a[1].values()), r)

    def op_einsum(self, a, r, _):
        self.emit("einsum", a["xs"], r, {"equation": a["equation"].replace(" ", "")})

    def op_scaled_dot_product_attention(self, a, r, _):
        m = a.get("attn_mask")
        self.emit(
            "scaled_dot_product_attention",
            [a["q"], a["k"], a["v"]] + ([m] if m is not None else []),
            r,
            {
                "dropout_p": a.get("dropout_p") or None,
                "is_causal": 1 if a.get("is_causal") else None,
                "enable_gqa": 1 if a.get("enable_gqa") else None,
            },
        )

    # ---- views and shapes
    def views_T(self, x, r, attr):
        if attr == "T" and x.dim() != 2:
            self.emit("permute", [x], r, {"dims": ",".join(str(i) for i in reversed(range(x.dim())))})
        else:
            self.emit("transpose", [x], r, {"dim0": -2, "dim1": -1})

    def op_t(self, a, r, _):
        self.emit("t", [a[0][0]], r)

    def op_view(self, a, r, _, op="view"):
        s = a.get("shape", a.get("dtype"))
        if s and isinstance(s[0], torch.dtype):
            raise NoWord("a view as another dtype")
        self.emit(op, [a["x"]], r, {"shape": shape_text(r.shape)})

    def op_reshape(self, a, r, _):
        self.op_view(a, r, _, "reshape")

    def op_broadcast_to(self, a, r, _):
        self.emit("expand", [a[0][0]], r, {"shape": shape_text(r.shape)})

    def op_broadcast_tensors(self, a, r, _):
        xs = a[0][0] if isinstance(a[0][0], (tuple, list)) else a[0]
        for x, y in zip(xs, r):
            if y is not x:
                self.emit("expand", [x], y, {"shape": shape_text(y.shape)})

    op_meshgrid_views = op_broadcast_tensors

    def op_meshgrid(self, a, r, _):
        xs = a[0][0] if isinstance(a[0][0], (tuple, list)) else a[0]
        for k, (x, y) in enumerate(zip(xs, r)):
            v = self.fresh("view")
            s = [1] * y.dim()
            axis = next((i for i in range(y.dim()) if y.stride(i) != 0 and y.shape[i] == x.numel()), k)
            s[axis] = x.numel()
            self.nodes.append(Node("view", [v], [self.ref(x)], {"shape": shape_text(s)}))
            self.emit("expand", [Ref(v)], y, {"shape": shape_text(y.shape)})

    def op_flip(self, a, r, _):
        """of no axis it is a copy, as of any"""
        if r.dim():
            self.emit("flip", [a["x"]], r, {"dims": list_text(a.get("dims") or 0)})
        else:
            self.emit("clone", [a["x"]], r)

    def op_movedim(self, a, r, _):
        x, s, d = a[0][0], a[0][1], a[0][2]
        s = [s] if isinstance(s, int) else list(s)
        d = [d] if isinstance(d, int) else list(d)
        n = x.dim()
        s = [v % n for v in s]
        d = [v % n for v in d]
        order = [-1] * n
        for i, j in zip(s, d):
            order[j] = i
        rest = iter(i for i in range(n) if i not in s)
        self.emit("permute", [x], r, {"dims": ",".join(str(o if o >= 0 else next(rest)) for o in order)})

    op_moveaxis = op_movedim

    def op_permute(self, a, r, _):
        """of no axes it is a view of another shape"""
        if not r.dim():
            self.emit("view", [a["x"]], r, {"shape": "[]"}, name="permute")
        else:
            self.emit("permute", [a["x"]], r, {"dims": list_text(a["dims"])})

    def op_rot90(self, a, r, _):
        args, kwargs = a
        k = args[1] if len(args) > 1 else kwargs.get("k", 1)
        dims = args[2] if len(args) > 2 else kwargs.get("dims", (0, 1))
        self.emit("rot90", [args[0] if args else kwargs["input"]], r, {"k": k % 4, "dims": list_text(dims)})

    def op_slice_scatter(self, a, r, _):
        d = {**dict(zip(("x", "src", "dim", "start", "end", "step"), a[0])), **a[1]}
        x = d["x"] if "x" in d else d["input"]
        self.emit("slice_scatter", [x, d["src"]], r, {"dim": d.get("dim") or None, "step": d.get("step")})

    def op_repeat(self, a, r, _, op="repeat", key="repeats"):
        args, kwargs = a
        x, n = (args[0], args[1:]) if args else (kwargs["input"], ())
        n = n or (kwargs.get(key, ()),)
        n = list(n[0]) if isinstance(n[0], (tuple, list)) else list(n)
        self.emit(op if n else "clone", [x], r, {key: list_text(n)} if n else {}, name=op)

    def op_tile(self, a, r, _):
        self.op_repeat(a, r, _, "tile", "dims")

    def op_polygamma(self, a, r, inplace):
        args, kwargs = a
        x = next(t for t in [*args, *kwargs.values()] if isinstance(t, torch.Tensor))
        self.emit("digamma", [x], r, {"inplace": inplace}, name="polygamma")  # whose gradient is one, too

    op_special_polygamma = op_polygamma

    def op_flatten(self, a, r, _):
        s, e = a.get("start_dim", 0), a.get("end_dim", -1)
        self.emit(
            "flatten", [a["x"]], r, {"start_dim": s or None, "end_dim": None if e == -1 else e}, self.leaf()
        )

    def op_ravel(self, a, r, _):
        self.emit("flatten", [a[0][0]], r)

    def op_unflatten(self, a, r, _):
        d = a["dim"] % a["x"].dim()
        n = r.dim() - a["x"].dim() + 1
        self.emit(
            "unflatten", [a["x"]], r, {"dim": a["dim"], "sizes": list_text(r.shape[d : d + n])}, self.leaf()
        )

    def op_tensor_split(self, a, r, _):
        d, at = a.get("dim", 0), 0
        for t in r:  # slices, each with a record of its own
            self.emit("slice", [a["x"]], t, {"dim": d, "start": at or None, "end": at + t.shape[d]})
            at += t.shape[d]

    def op_repeat_interleave(self, a, r, _):
        counts = a.get("repeats")
        if (
            counts is None
            or isinstance(counts, torch.Tensor)
            and (a.get("dim") is None or counts.numel() < 2)
        ):
            raise NoWord("counts that are a tensor")
        if isinstance(counts, torch.Tensor):  # Repeat.cu: which row each is, from where their copies end
            ends = self.made("cumsum", [self.ref(counts)], {"dim": 0})
            rows = {"shape": f"[{r.shape[a['dim']]}]", "dtype": DTYPES[counts.dtype]}
            row = self.made("empty", [], rows)
            self.nodes.append(Node("drop", [], [ends], {}))
            self.emit("index_select", [a["x"], row], r, {"dim": a["dim"]})
            self.nodes.append(Node("drop", [], [row], {}))
            return
        self.emit("repeat_interleave", [a["x"]], r, {"repeats": a["repeats"], "dim": a.get("dim")})

    def op_detach(self, a, r, _):
        self.emit("detach", [a[0][0]], r)

    def op_alias(self, a, r, _):
        self.emit("view", [a[0][0]], r, {"shape": shape_text(r.shape)})

    def op_contiguous(self, a, r, _):
        self.in_format(a[0][0], r, a[1].get("memory_format", *a[0][1:]) if a[1] or a[0][1:] else None)

    def in_format(self, x, r, memory_format):
        """x contiguous, or with its channels last: a view of what is contiguous with them last"""
        if memory_format in (torch.channels_last, torch.channels_last_3d) and not x.is_contiguous(
            memory_format=memory_format
        ):
            n = x.dim()
            last = self.made("permute", [self.ref(x)], {"dims": list_text([0, *range(2, n), 1])})
            dense = self.made("contiguous", [last], {})
            self.emit("permute", [dense], r, {"dims": list_text([0, n - 1, *range(1, n - 1)])})
        elif memory_format in (None, torch.contiguous_format):
            self.emit("contiguous", [x], r)
        else:
            self.emit("view", [x], r, {"shape": shape_text(r.shape)}, name="contiguous")  # it is so already

    def op_clone(self, a, r, _):
        again = a[1].get("memory_format") is torch.contiguous_format and not a[0][0].is_contiguous()
        self.emit("contiguous" if again else "clone", [a[0][0]], r)

    def op_requires_grad(self, a, r, _):
        """a value becomes a leaf; inputs say it themselves"""
        if id(r) in self.params and r.requires_grad != self.had_grad:
            export_training.toggled(self, r)
        known = id(r) in self.names and not any(r is t for t in self.inputs.values())
        if self.grad and known and r.requires_grad and not self.had_grad:
            self.nodes.append(Node("requires_grad", [], [self.ref(r)], {}))
            self.leaves.add(self.names[id(r)])

    # ---- conversions
    def convert(self, x, r, dtype):
        self.emit("to", [x], r, {"dtype": DTYPES[r.dtype]})

    def op_to(self, a, r, _):
        args, kwargs = a
        x = args[0]
        other = next(
            (v for v in list(args[1:2]) + [kwargs.get("other")] if isinstance(v, torch.Tensor)), None
        )
        if not self.on_device(x):
            self.create("empty", (other,), {}, r)
            return
        dtype = kwargs.get("dtype") or next((v for v in args[1:3] if isinstance(v, torch.dtype)), None)
        memory_format = kwargs.get("memory_format")
        if memory_format in (torch.channels_last, torch.channels_last_3d):
            if x.dtype == r.dtype and not kwargs.get("copy"):
                self.in_format(x, r, memory_format)
                return
            self.note("to(memory_format=)")
        elif memory_format is torch.contiguous_format and x.dtype != r.dtype and not x.is_contiguous():
            self.note("to(memory_format=)")
        if kwargs.get("copy") and dtype is not None and not torch.is_grad_enabled():  # also where it has that dtype
            keys = {"shape": shape_text(r.shape), "dtype": DTYPES[r.dtype]}
            self.laid_out(self.emit("empty", [], r, keys, name="to"), r)
        elif kwargs.get("copy") and x.dtype == r.dtype:
            self.emit("clone", [x], r)
        elif other is not None:
            self.emit("type_as", [x, other], r)
        elif dtype is not None:
            self.convert(x, r, dtype)
        else:
            self.emit("view", [x], r, {"shape": shape_text(r.shape)}, name="to")  # to the device where it is

    def op_type(self, a, r, _):
        self.convert(a[0][0], r, r.dtype)

    def op_type_as(self, a, r, _):
        if not self.on_device(a[0][0]):  # goes to the other's device, too
            self.create("empty", a[0][1:], {}, r)
            return
        self.emit("type_as", list(a[0]) + list(a[1].values()), r)

    def op_cuda(self, a, r, _):
        if r is not a[0][0]:
            self.create("empty", (), {}, r)

    # ---- indexing
    def index_steps(self, x, idx):
        """the views that an index expression takes, and its index tensors by axis (python_variable_indexing.cpp)"""
        idx = idx if isinstance(idx, tuple) else (idx,)
        masks = (torch.bool, torch.uint8)
        dim, tensors, steps, ndim, shape = 0, [], [], x.dim(), list(x.shape)
        given = sum(1 for i in idx if i is not None and i is not Ellipsis and not isinstance(i, bool)) + sum(
            i.dim() - 1 for i in idx if isinstance(i, torch.Tensor) and i.dtype in masks
        )
        for i in idx:
            if i is Ellipsis:
                dim += ndim - given
                tensors += [None] * (ndim - given)
            elif i is None:
                steps.append(("unsqueeze", {"dim": dim}))
                shape.insert(dim, 1)
                dim += 1
                ndim += 1
                given += 1
                tensors.append(None)
            elif isinstance(i, slice):
                s, e, st = i.indices(shape[dim])
                if s == 0 and e >= shape[dim] and st == 1:
                    if i.stop is None or i.stop > shape[dim]:
                        steps.append(("slice", {"dim": dim, "colon": 1}))
                else:
                    steps.append(
                        (
                            "slice",
                            {
                                "dim": dim,
                                "start": from_end(i.start, shape[dim]) or s or None,
                                "end": from_end(i.stop, shape[dim]) or (None if e >= shape[dim] else e),
                                "step": None if st == 1 else st,
                            },
                        )
                    )
                    shape[dim] = len(range(s, e, st))
                dim += 1
                tensors.append(None)
            elif isinstance(i, bool):
                self.note(f"indexing with a Python bool ({self.paths[-1]})")
            elif isinstance(i, torch.Tensor) and i.dtype not in masks and (i.dim() > 0 or self.on_device(i)):
                if i.device.type != self.device:  # moved to the device first
                    i = self.made("empty", [], {"shape": shape_text(i.shape), "dtype": DTYPES[i.dtype]})
                tensors.append(i)
                dim += 1
            elif isinstance(i, torch.Tensor) and i.dtype in masks:
                self.note(f"indexing with a mask ({self.paths[-1]})")
                tensors.append(i)
                dim += i.dim()
            elif isinstance(i, (list, tuple)) and all(
                isinstance(v, int) for v in i
            ):  # becomes an index tensor
                tensors.append(self.made("empty", [], {"shape": f"[{len(i)}]", "dtype": "i64"}))
                dim += 1
            elif hasattr(i, "__index__"):
                steps.append(("select", {"dim": dim, "index": int(i)}))
                shape.pop(dim)
                ndim -= 1
                given -= 1
            else:
                self.note(f"indexing with {type(i).__name__} ({self.paths[-1]})")
                tensors.append(None)
                dim += 1
        return steps, [(k, t) for k, t in enumerate(tensors) if t is not None]

    def made(self, op, ins, keys):
        """a line for a value that no Python object stands for"""
        n = self.fresh(op)
        self.nodes.append(Node(op, [n], ins, {a: b for a, b in keys.items() if b is not None}))
        return Ref(n)

    def getitem(self, func, args, kwargs):
        x, idx = args
        r = func(*args, **kwargs)
        if not self.on_device(x):
            return r
        state = self.ref(x)
        steps, used = self.index_steps(x, idx)
        if isinstance(idx, slice) and (not steps or "colon" in steps[0][1]):
            steps = [("slice", {"dim": 0})]  # x[:] alone is a slice in every version
        alias = all("colon" in keys for _, keys in steps)  # slices up to PyTorch 2.8 alone
        for k, (op, keys) in enumerate(steps):
            if k == len(steps) - 1 and not used and not alias:
                self.emit(op, [state], r, keys)
            else:
                state = self.made(op, [state], keys)
        if used:
            first = used[0][0]
            if [k for k, _ in used] != list(range(first, first + len(used))):
                self.note(f"indexing with tensors on axes that are not side by side ({self.paths[-1]})")
            self.emit("index", [state] + [t for _, t in used], r, {"dim": first or None})
        elif alias:
            self.emit(
                "expand", [state], r, {"shape": shape_text(r.shape)}, name="alias"
            )  # an alias; its gradient passes as expand's does
        return r

    def setitem(self, func, args, kwargs):
        x, idx, v = args
        r = func(*args, **kwargs)
        if not self.on_device(x):
            return r
        steps, used = self.index_steps(x, idx)
        tensor = self.on_device(v)
        places = [at for at, _ in used]
        apart = places != list(range(places[0], places[0] + len(used))) if used else False
        masked = any(getattr(i, "dtype", None) in (torch.bool, torch.uint8) for _, i in used)
        if apart or masked and len(used) > 1 and any(i.dim() != 1 for _, i in used):
            self.custom("setitem", func, args, kwargs, r, "an assignment that is not in the text form")
            return r
        state = self.ref(x)
        if len(used) > 1 and not tensor:  # valueToTensor, before any index is looked at
            number = self.made("full", [state], {"shape": "[]"})
        if masked and len(used) > 1:
            used = [(k, self.positions(i)) for k, i in used]  # what a mask selects, all of it
            masked = False
        for op, keys in steps:
            state = self.made(op, [state], keys)
        index = [t if isinstance(t, Ref) else self.ref(t) for _, t in used]
        if used and tensor:
            self.made("index_put", [state] + index + [self.ref(v)], {"dim": places[0] or None, "inplace": 1})
        elif used and masked:  # PyTorch fills where a mask selects, and rows that an index names
            for _ in range(x.dim() - places[0] - used[0][1].dim()):
                index = [self.made("unsqueeze", index, {"dim": -1})]
            self.made("masked_fill", [state] + index, {"inplace": 1})
        elif len(used) == 1:
            if used[0][1].dim() > 1 if isinstance(used[0][1], torch.Tensor) else False:
                index = [self.made("flatten", index, {})]
            self.made("index_fill", [state] + index, {"dim": places[0], "inplace": 1})
        elif used:
            self.made("index_put", [state] + index + [number], {"dim": places[0] or None, "inplace": 1})
        elif tensor:  # from another device nothing is allocated
            self.copied(state, v)
        else:
            self.made("fill", [state], {"inplace": 1})
        return r

    def copied(self, state, v):
        """copy_ into a value allocates as add_ does; its backward makes zeros where the value had a gradient, as many bytes as the
        negative that sub_ makes"""
        self.made("sub" if self.had_grad else "add", [state, self.ref(v)], {"inplace": 1})

    def op_index_put(self, a, r, inplace):
        places = [k for k, i in enumerate(a["indices"]) if i is not None]
        if not places or places != list(range(places[0], places[-1] + 1)):
            raise NoWord("index tensors on axes that are not side by side")
        keys = {
            "dim": places[0] or None,
            "inplace": inplace,
            "accumulate": 1 if a.get("accumulate") else None,
        }
        self.emit("index_put", [a["x"], *(a["indices"][k] for k in places), a["values"]], r, keys)

    def op_index_fill(self, a, r, inplace):
        args, kwargs = a
        if self.on_device(args[3] if len(args) > 3 else kwargs["value"]):
            raise NoWord("a value that is a tensor")
        index = args[2] if len(args) > 2 else kwargs["index"]
        dim = args[1] if len(args) > 1 else kwargs["dim"]
        self.emit("index_fill", [args[0], index], r, {"dim": dim, "inplace": inplace})

    def fft(self, op, a, r):
        """torch.fft: one axis, the last two, or several; a real tensor has both halves of a spectrum"""
        args, kwargs = a
        name, many = op.rstrip("2n"), op[-1] in "2n"
        x = args[0] if args else kwargs["input"]
        size = args[1] if len(args) > 1 else kwargs.get("s" if many else "n")
        dim = args[2] if len(args) > 2 else kwargs.get("dim", (-2, -1) if op[-1] == "2" else None)
        keys = {}
        if many and dim is None and size is None:
            dim = range(x.dim())
        if dim is not None and dim != -1:
            keys["dim"] = list_text(list(dim) if many else dim)
        if size is not None:
            keys["size"] = list_text(size)
        if name in ("fft", "ifft") and not x.is_complex():
            if many or name == "ifft" or x.dtype not in (torch.float32, torch.float64):
                raise NoWord("a real tensor")
            name, keys["onesided"] = "rfft", 0
        self.emit(name.replace("ifft", "fft") if name == "ifft" else name, [x], r, keys, name=op)

    def op_pairwise_distance(self, a, r, _):
        args, kwargs = a
        if (args[2] if len(args) > 2 else kwargs.get("p", 2)) != 2:
            raise NoWord("a norm that is not the 2-norm")
        keep = args[4] if len(args) > 4 else kwargs.get("keepdim")
        xs = list(args[:2]) + [kwargs[k] for k in ("x1", "x2") if k in kwargs]
        self.emit("pairwise_distance", xs, r, {"keepdim": 1 if keep else None})

    def op_histc(self, a, r, _):
        self.emit("histc", [a[0][0]], r, {"bins": a[0][1] if len(a[0]) > 1 else a[1].get("bins", 100)})

    def op_grouped_mm(self, a, r, _):
        args, kwargs = a
        self.emit("grouped_mm", list(args[:2]) + [args[2] if len(args) > 2 else kwargs["offs"]], r)

    op__grouped_mm = op_grouped_mm

    def op_scatter(self, a, r, inplace):
        s = a.get("src", a.get("value"))
        self.emit(
            "scatter",
            [a["x"], a["index"]] + ([s] if self.on_device(s) else []),
            r,
            {"dim": a["dim"], "scalar": None if self.on_device(s) else 1, "inplace": inplace},
        )

    def op_topk(self, a, r, _):
        self.emit("topk", [a["x"]], r, {"k": int(a["k"]), "dim": a.get("dim")}, outs=["", ".i"])

    def op_sort(self, a, r, _):
        self.emit("sort", [a["x"]], r, {"dim": a.get("dim")}, outs=["", ".i"])

    def op_argsort(self, a, r, _):
        n = self.emit("sort", [a["x"]], [r], {"dim": a.get("dim")}, name="argsort", outs=[""])
        n.outs = [self.fresh("sort"), n.outs[0]]

    def op_masked_select(self, a, r, _):
        args, kwargs = a
        self.note(f"masked_select: written as if the mask selected all ({self.paths[-1]})")
        self.emit("masked_select", [*args, *(kwargs[k] for k in ("input", "mask") if k in kwargs)], r)

    def op_one_hot(self, a, r, _):
        self.emit("one_hot", [a["x"]], r, {"num_classes": r.shape[-1]})

    def op_isfinite(self, a, r, _):
        x = self.ref(a[0][0])
        b = self.made("ne", [self.made("abs", [x], {})], {"scalar": 1})
        self.emit("mul", [self.made("eq", [x, x], {}), b], r, {}, name="isfinite")

    def op_isinf(self, a, r, _):
        self.emit("eq", [self.made("abs", [self.ref(a[0][0])], {})], r, {"scalar": 1}, name="isinf")

    # ---- reductions
    def op_any(self, a, r, _):
        x = a[0][0]
        d = a[0][1] if len(a[0]) > 1 else a[1].get("dim")
        if x.dtype is not torch.bool or x.requires_grad:
            self.note(f"any or all of {x.dtype}")
        self.emit(
            "amax",
            [x],
            r,
            {"dim": None if d is None else list_text(d), "keepdim": 1 if a[1].get("keepdim") else None},
            name="any",
        )

    op_all = op__is_all_true = op_any

    def reduce(self, op, a, r, extra=None):
        d = a.get("dim", None)
        t = a.get("dtype")
        if op == "logsumexp" and not isinstance(d, int):  # no axis: all of them
            d = d or range(a["x"].dim()) or [0]
        if d is not None and not isinstance(d, (tuple, list, range)):
            d = [d]
        outs = ["", ".i"] if isinstance(r, (tuple, list)) else None
        self.emit(
            op,
            [a["x"]],
            r,
            {
                "dim": list_text(d) if d else None,
                "keepdim": 1 if a.get("keepdim") else None,
                "dtype": DTYPES[t] if t else None,
                **(extra or {}),
            },
            outs=outs,
        )

    def op_max(self, a, r, _, op="max"):
        if self.on_device(a.get("dim", a.get("other"))):
            self.emit(op + "imum", [a["x"], a.get("dim", a.get("other"))], r)
            return
        self.reduce(op, a, r)

    def op_min(self, a, r, _):
        self.op_max(a, r, _, "min")

    def op_var(self, a, r, _, op="var"):
        if isinstance(a.get("dim"), bool):  # var(x, unbiased)
            a["correction"] = a.pop("dim")
        c = a.get("correction")
        self.reduce(op, a, r, {"correction": None if c in (None, True, 1) else int(c)})

    def op_std(self, a, r, _):
        self.op_var(a, r, _, "std")

    def op_nansum(self, a, r, _):
        if a.get("dtype"):
            raise NoWord("nansum to another dtype")
        self.reduce("nansum", a, r)

    def op_nanmean(self, a, r, _):
        """the nansum, divided by the count of what is no NaN"""
        if a.get("dtype"):
            raise NoWord("nanmean to another dtype")
        x, d = self.ref(a["x"]), a.get("dim")
        keys = {
            "dim": None if d is None or d == () else list_text(d),
            "keepdim": 1 if a.get("keepdim") else None,
        }
        count = self.made("sum", [self.made("logical_not", [x], {})], keys)  # isnan, negated in place
        self.emit("div", [self.made("nansum", [x], keys), count], r, name="nanmean")

    def op_linalg_vector_norm(self, a, r, _):
        p = a.get("ord", a.get("p"))
        p = 2 if p is None or p == "fro" else p
        if isinstance(p, str):
            raise NoWord("a norm of a matrix")
        self.reduce("norm", a, r, {"p": None if p == 2 else p})

    op_norm = op_linalg_vector_norm

    # ---- create
    def create(self, op, args, kwargs, r):
        lender = next((a for a in args if self.on_device(a)), None)
        keys = {"shape": shape_text(r.shape)}
        if (
            lender is not None
            and kwargs.get("dtype") is None
            and r.dtype == lender.dtype
            and lender.is_floating_point()
        ):
            if storage_order(r) and r.shape == lender.shape:  # its layout, too
                self.emit(op, [lender], r)
            else:
                self.laid_out(self.emit(op, [lender], r, keys), r)
        else:
            self.laid_out(self.emit(op, [], r, {**keys, "dtype": DTYPES[r.dtype]}), r)

    def op_fill(self, a, r, inplace):
        x = a[0][0]
        if not inplace:  # torch.fill: a copy, which is then filled
            x = self.made("clone", [self.ref(x)], {})
        self.emit("fill", [x], r, {"inplace": 1})

    op_zero = op_fill

    def op_bernoulli(self, a, r, inplace):
        if not inplace:
            raise NoWord("no word for it out of place")
        self.emit("bernoulli", [a[0][0]], r, {"inplace": inplace})

    op_uniform = op_normal = op_random = op_exponential = op_bernoulli

    def op_copy(self, a, r, _):
        if self.on_device(a[0][1]):
            self.copied(self.ref(a[0][0]), a[0][1])

    # ---- losses
    def loss(self, op, a, r, xs, extra=None):
        red = a.get("reduction", 1)
        red = LOSS_REDUCTION.get(red, red)
        weights = {k: a[k] for k in ("weight", "pos_weight") if a.get(k) is not None}
        keys = {"pos_weight": 1 if "pos_weight" in weights else None, **(extra or {})}
        self.emit(
            op,
            [*xs, *weights.values()],
            r,
            {"reduction": None if red == "mean" else red, **keys},
            name="loss",
        )

    def op_cross_entropy_loss(self, a, r, _):
        s = a.get("label_smoothing", 0)
        self.loss("cross_entropy", a, r, [a["x"], a["target"]], {"label_smoothing": s or None})

    def op_nll_loss_nd(self, a, r, _):
        self.loss("nll_loss", a, r, [a["x"], a["target"]])

    op_nll_loss = op_nll_loss2d = op_nll_loss_nd

    def op_ctc_loss(self, a, r, _):
        keys = {"zero_infinity": 1 if a.get("zero_infinity") else None}
        lengths, target = a["target_lengths"], a["target"]
        if isinstance(lengths, (tuple, list)) and target.dim() == 2 and self.on_device(target):
            longest = self.made("slice", [self.ref(target)], {"dim": 1, "end": max(lengths)})
            self.loss("ctc_loss", a, r, [a["x"], longest], keys)
            return
        self.note("ctc_loss: written as if every sequence had the full length")
        self.loss("ctc_loss", a, r, [a["x"], target] if self.on_device(target) else [a["x"]], keys)

    def op_cosine_embedding_loss(self, a, r, _):
        self.loss("cosine_embedding_loss", a, r, [a["x1"], a["x2"], a["target"]])

    def op_triplet_margin_loss(self, a, r, _):
        if a.get("p", 2) != 2:
            raise NoWord(f"triplet_margin_loss: p={a['p']}")
        swap = {"swap": 1 if a.get("swap") else None}
        self.loss("triplet_margin_loss", a, r, [a["x"], a["positive"], a["negative"]], swap)

    def op_kl_div(self, a, r, _):
        self.loss("kl_div", a, r, [a["x"], a["target"]], {"log_target": 1 if a.get("log_target") else None})

    def op_margin_ranking_loss(self, a, r, _):
        self.loss("margin_ranking_loss", a, r, [a["x1"], a["x2"], a["target"]])

    def op_poisson_nll_loss(self, a, r, _):
        keys = {"log_input": None if a.get("log_input", True) else 0, "full": 1 if a.get("full") else None}
        self.loss("poisson_nll_loss", a, r, [a["x"], a["target"]], keys)

    def op_multi_margin_loss(self, a, r, _):
        p = a.get("p", 1)
        self.loss("multi_margin_loss", a, r, [a["x"], a["target"]], {"p": None if p == 1 else p})


for d in "123":
    setattr(Recorder, f"op_conv{d}d", lambda self, a, r, _, d=d: self.op_conv(a, r, int(d), f"conv{d}d"))
    setattr(
        Recorder,
        f"op_conv_transpose{d}d",
        lambda self, a, r, _, d=d: self.op_conv(a, r, int(d), f"conv_transpose{d}d", True),
    )
    for k in ("max", "avg"):
        setattr(Recorder, f"op_{k}_pool{d}d", lambda self, a, r, _, op=f"{k}_pool{d}d": self.pool(op, a, r))
        setattr(
            Recorder,
            f"op_adaptive_{k}_pool{d}d",
            lambda self, a, r, _, op=f"adaptive_{k}_pool{d}d": self.adaptive(op, a, r),
        )
    setattr(
        Recorder,
        f"op_max_pool{d}d_with_indices",
        lambda self, a, r, _, op=f"max_pool{d}d": self.pool(op, a, r, True),
    )
for k, mode in {
    "upsample_nearest1d": "nearest",
    "upsample_nearest2d": "nearest",
    "upsample_nearest3d": "nearest",
    "upsample_linear1d": "linear",
    "upsample_bilinear2d": "bilinear",
    "upsample_bicubic2d": "bicubic",
    "upsample_trilinear3d": "trilinear",
    "_upsample_nearest_exact1d": "nearest-exact",
    "_upsample_nearest_exact2d": "nearest-exact",
    "_upsample_nearest_exact3d": "nearest-exact",
}.items():
    setattr(Recorder, "op_" + k, lambda self, a, r, _, mode=mode: self.upsample(a, r, mode))
for k in ("bilinear", "bicubic"):
    setattr(Recorder, f"op__upsample_{k}2d_aa", lambda self, a, r, _, mode=k: self.upsample(a, r, mode, 1))
for k in (
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "hinge_embedding_loss",
    "soft_margin_loss",
    "multilabel_margin_loss",
):
    setattr(Recorder, "op_" + k, lambda self, a, r, _, k=k: self.loss(k, a, r, [a["x"], a["target"]]))
for k in ("fft", "ifft", "rfft", "irfft"):
    for end in ("", "2", "n"):
        setattr(Recorder, f"op_fft_{k}{end}", lambda self, a, r, _, k=k + end: self.fft(k, a, r))
for k in ("sum", "mean", "prod", "amax", "amin", "logsumexp"):
    setattr(Recorder, "op_" + k, lambda self, a, r, _, k=k: self.reduce(k, a, r))
