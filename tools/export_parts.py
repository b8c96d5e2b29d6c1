"""A call that has no word, as the lines of the aten operations that it is composed of."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from export_rows import NoWord, list_text, shape_text

# views that have a copying form, NAME_copy
VIEWS = set(
    "alias as_strided detach diagonal expand narrow permute select slice split split_with_sizes squeeze t transpose unbind unfold unsqueeze view view_as_complex view_as_real".split()
)
# operations that ask and allocate nothing, and those that another name has the row of
ASKING = {"device", "sym_size", "sym_numel", "sym_stride", "sym_storage_offset", "is_same_size", "lift_fresh"}
NAMES = {
    "_unsafe_view": "view",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "bitwise_not": "logical_not",
}


class Parts(TorchDispatchMode):
    """writes the operations that autograd sees below a composite function, each under its own name"""

    def __init__(self, recorder):
        super().__init__()
        self.rec, self.count, self.own = recorder, 0, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func.overloadpacket.__name__
        r = func(*args, **kwargs)
        if name in ASKING or not any(isinstance(t, torch.Tensor) for t in tree_leaves(r)):
            return r
        self.count += 1
        self.own.add(name)
        if func.namespace != "aten":
            raise NoWord(f"{func.namespace}::{name}")
        own = getattr(self, "aten_" + name.strip("_"), None)
        if own:
            return own(args, kwargs, r)
        view = name.removesuffix("_copy")
        if view != name and view in VIEWS:
            return self.view_and_copy(getattr(torch.ops.aten, view), args, kwargs, r)
        try:
            self.rec.call(NAMES.get(name, name), args, kwargs, r)
        except NoWord as e:
            raise NoWord(f"{name}: {e}" if self.count > 1 else str(e))
        return r

    def view_and_copy(self, view, args, kwargs, r):
        """select_copy and its like: the view, and a contiguous copy of it"""
        self.own.clear()
        views = view(*args, **kwargs)
        own = getattr(self, "aten_" + view.__name__, None)
        if own:
            own(args, kwargs, views)
        elif view.__name__ == "alias":
            views = args[0]
        else:
            self.rec.call(view.__name__, args, kwargs, views)
        for v, t in zip(*([x] if isinstance(x, torch.Tensor) else x for x in (views, r))):
            self.rec.emit("clone" if v.is_contiguous() else "contiguous", [v], t)
        return r

    def aten_to_copy(self, args, kwargs, r):
        x, dtype = args[0], kwargs.get("dtype")
        if self.rec.amp and {x.dtype, r.dtype} == {torch.float32, self.rec.amp}:
            self.rec.names[id(r)] = self.rec.names.get(id(x), self.rec.ref(x).name)  # autocast's own copy
        elif not self.rec.on_device(x):
            self.rec.create("empty", (), {}, r)
        elif dtype is not None:
            self.rec.convert(x, r, dtype)
        else:
            self.rec.emit("clone", [x], r)
        return r

    def aten_scalar_tensor(self, args, kwargs, r):
        if self.rec.on_device(r):
            self.rec.create("full", (), {}, r)
        return r

    def aten_expand(self, args, kwargs, r):
        self.rec.emit("expand", [args[0]], r, {"shape": shape_text(r.shape)})
        return r

    def aten_slice(self, args, kwargs, r):
        x, dim, start, end, step = [*args, *(0, None, None, 1)[len(args) - 1 :]]
        start, end, step = slice(start, end, step).indices(x.shape[dim])
        keys = {"dim": dim, "start": start or None, "end": None if end >= x.shape[dim] else end}
        self.rec.emit("slice", [x], r, {**keys, "step": None if step == 1 else step})
        return r

    def aten_index(self, args, kwargs, r):
        x, index = args[:2]
        places = [k for k, i in enumerate(index) if i is not None]
        if places != list(range(places[0], places[-1] + 1)):
            raise NoWord("index tensors on axes that are not side by side")
        self.rec.emit("index", [x, *(index[k] for k in places)], r, {"dim": places[0] or None})
        return r

    def aten_constant_pad_nd(self, args, kwargs, r):
        self.rec.emit("pad", [args[0]], r, {"pad": list_text(args[1])})
        return r

    def padded(self, args, r, mode):
        self.rec.emit("pad", [args[0]], r, {"pad": list_text(args[1]), "mode": mode})
        return r

    def fft(self, op, args, r, keys=None):
        self.rec.emit(op, [args[0]], r, {"dim": list_text(args[1]), **(keys or {})})
        return r

    def aten_fft_c2c(self, args, kwargs, r):
        return self.fft("fft", args, r)

    def aten_fft_r2c(self, args, kwargs, r):
        return self.fft("rfft", args, r, {} if args[3] else {"onesided": 0})

    def aten_fft_c2r(self, args, kwargs, r):
        size = [-1] * (len(args[1]) - 1) + [args[3]]
        return self.fft("irfft", args, r, {"size": list_text(size)})

    def aten_copy(self, args, kwargs, r):
        if self.rec.on_device(args[1]):
            self.rec.copied(self.rec.ref(args[0]), args[1])
        return r


for n in "123":
    for aten, mode in (("reflection", "reflect"), ("replication", "replicate")):
        setattr(
            Parts,
            f"aten_{aten}_pad{n}d",
            lambda self, args, kwargs, r, mode=mode: self.padded(args, r, mode),
        )


def in_parts(rec, name, func, args, kwargs):
    """the result of a call, written as its parts; raises NoWord where one of them has none, and nothing is written then"""
    start = len(rec.nodes)
    mode = Parts(rec)
    rec.unit += 1
    try:
        with mode:
            r = func(*args, **kwargs)
        if mode.count == 1 and name.rstrip("_") in {n.rstrip("_") for n in mode.own}:
            raise NoWord("no word for it")
        return r
    except NoWord:
        rec.forget(start)
        raise
    finally:
        rec.unit -= 1
