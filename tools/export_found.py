"""What detectors do: regions of images, and shapes that depend on data, of which as much is taken to be there as is stated."""

import contextlib

import torch
from torch._subclasses.fake_tensor import FakeTensor

import export_parts
from export_rows import DTYPES, NoWord, axes_text, shape_text

count = None  # inside counting()


@contextlib.contextmanager
def counting(most):
    global count
    before, count = count, most
    try:
        yield
    finally:
        count = before


def some(of):
    return min(count, of)


def found(name, args, kwargs):
    """the result of a call whose shape depends on data; None: it is none, or nothing was stated"""
    given = list(args) + list(kwargs.values())
    counted = count is None and name == "bincount" and (len(given) > 2 or kwargs.get("minlength"))
    if (
        count is None
        and not counted
        or not given
        or not isinstance(given[0], FakeTensor)
        or given[0].device.type == "cpu"
    ):
        return None
    x, results = given[0], FOUND.get(name)
    return results(x, given[1:], kwargs) if results else None


def found_positions(x, given, kwargs):
    r = torch.empty(some(x.numel()), x.dim(), dtype=torch.int64, device=x.device)
    return r.unbind(1) if kwargs.get("as_tuple") else r


def found_where(x, given, kwargs):
    return None if given else found_positions(x, given, {"as_tuple": True})


def found_selected(x, given, kwargs):
    n = some(torch.broadcast_tensors(x, given[0])[0].numel())
    return x.reshape(-1)[torch.zeros(n, dtype=torch.int64, device=x.device)]


def found_boxes(x, given, kwargs):
    return torch.empty(some(x.shape[0]), dtype=torch.int64, device=x.device)


def found_unique(x, given, kwargs):
    r = torch.empty(some(x.numel()), dtype=x.dtype, device=x.device)
    return (
        r,
        torch.empty(x.shape, dtype=torch.int64, device=x.device),
        torch.empty(len(r), dtype=torch.int64, device=x.device),
    )


def found_masked(x, given, kwargs):
    """x[index] with one mask: all of it is taken to be set, as the text form counts it"""
    parts = given[0] if isinstance(given[0], tuple) else (given[0],)
    at = [
        k for k, i in enumerate(parts) if isinstance(i, FakeTensor) and i.dtype in (torch.bool, torch.uint8)
    ]
    if len(at) != 1 or any(i is None or i is Ellipsis for i in parts):
        return None
    k, mask = at[0], parts[at[0]]
    axis = sum(not isinstance(i, int) for i in parts[:k])
    rows = torch.zeros(mask.numel(), dtype=torch.int64, device=x.device)
    x = x[parts[:k]] if k else x
    if mask.dim() > 1:
        x = x.flatten(axis, axis + mask.dim() - 1)
    return x[(*[slice(None)] * axis, rows, *parts[k + 1 :])]


def found_counts(x, given, kwargs):
    """bincount: the bins that the program wants at least, else as many as are found"""
    named = {**dict(zip(("weights", "minlength"), given[: len(given) - len(kwargs)])), **kwargs}
    bins = max(named.get("minlength") or 0, 0 if named.get("minlength") else count)
    weights = named.get("weights")
    dtype = (
        torch.int64 if weights is None else torch.float32 if weights.dtype == torch.float32 else torch.float64
    )
    return torch.empty(bins, dtype=dtype, device=x.device)


FOUND = {
    "nonzero": found_positions,
    "argwhere": found_positions,
    "bincount": found_counts,
    "_return_output": lambda x, given, kwargs: found_unique(x, given, kwargs)[0],
    "where": found_where,
    "masked_select": found_selected,
    "nms": found_boxes,
    "_unique2": found_unique,
    "__getitem__": found_masked,
}


class Found:
    """of the recorder: their lines, and calls without a word"""

    def without_word(self, name, func, given, r, why, start):
        """a call that no line says: as its parts where all of these have words, else measured"""
        changes = name.endswith("_") or name.startswith("__i") or given[1].get("out") is not None
        del self.nodes[start:]
        try:
            if changes:
                raise NoWord(why)
            return export_parts.in_parts(self, name, func, *given)
        except NoWord as e:
            more = "" if changes or str(e) in (why, "no word for it") else f" (nor for its part: {e})"
            self.custom(name, func, *given, r, why + more)
            return r

    def positions(self, index):
        """an index beside others: where a mask is set"""
        if index.dtype not in (torch.bool, torch.uint8):
            return index
        rows = self.made("nonzero", [self.ref(index)], {"count": index.numel()})
        return self.made("select", [rows], {"dim": 1, "index": 0})

    def regions(self, op, a, r):
        """torchvision's regions of interest; the second result of some is nothing that a program takes"""
        args, first = a[0], r[0] if isinstance(r, (tuple, list)) else r
        self.emit(op, args[:2], first, {"output_size": axes_text(args[3:5])})

    def op_deform_conv2d(self, a, r, _):
        x, weight, offset, mask, bias = a[0][:5]
        window = {k: axes_text(a[0][i : i + 2]) for k, i in (("stride", 5), ("padding", 7), ("dilation", 9))}
        self.emit("deform_conv2d", [x, offset, weight, mask, bias], r, window)

    def op_nonzero(self, a, r, _):
        if isinstance(r, tuple):
            self.op_where({"c": a[0][0]}, r, None)
        else:
            self.emit("nonzero", [a[0][0]], r, {"count": r.shape[0]})

    op_argwhere = op_nonzero

    def op_bincount(self, a, r, _):
        xs = [*a[0][:2], a[1].get("weights")]
        self.emit("bincount", [x for x in xs if isinstance(x, torch.Tensor)], r, {"bins": r.shape[0]})

    def op_randperm(self, a, r, _):
        dtype = None if r.dtype is torch.int64 else DTYPES[r.dtype]
        self.emit("randperm", [], r, {"shape": shape_text(r.shape), "dtype": dtype})

    def op_masked_select(self, a, r, _):
        self.emit("masked_select", list(a[0]) + list(a[1].values()), r, {"count": r.shape[0]})

    def op_nms(self, a, r, _):
        self.emit("nms", a[0][:2], r, {"count": r.shape[0]})

    def op__unique2(self, a, r, _):
        inverse, counts = [
            a[1].get(k, v) for k, v in zip(("return_inverse", "return_counts"), (*a[0][2:4], 0, 0))
        ]
        if counts:
            raise NoWord("counts of unique values")
        self.emit(
            "unique", [a[0][0]], list(r[: 1 + bool(inverse)]), {"count": r[0].shape[0]}, outs=["", ".inverse"]
        )


for k in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"):
    setattr(Found, "op_" + k, lambda self, a, r, _, k=k: self.regions(k, a, r))
