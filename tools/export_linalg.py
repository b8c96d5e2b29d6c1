"""Calls of torch.linalg and of what looks values up: those whose memory the text form knows. The others become `custom` lines."""

import torch

from export_rows import NoWord, list_text


def given(args, kwargs, *names):
    """the arguments by name"""
    return {**dict(zip(names, args)), **kwargs}


class Linalg:
    """of the recorder: writes calls of torch.linalg"""

    def op_linalg_cholesky(self, a, r, _):
        d = given(*a, "A", "upper")
        if d.get("upper"):
            raise NoWord("the upper factor")
        self.emit("cholesky", [d.get("A", d.get("input"))], r)

    def op_linalg_solve_triangular(self, a, r, _):
        d = given(*a, "A", "B")
        self.emit("solve_triangular", [d["A"], d["B"]], r, {"left": None if d.get("left", True) else 0})

    def op_linalg_solve(self, a, r, _):
        d = given(*a, "A", "B")
        x, y = d["A"], d["B"]
        if not d.get("left", True) or x.shape[:-1] not in (y.shape, y.shape[:-1]):
            raise NoWord("batches that are broadcast, or a matrix on the right")
        self.emit("solve", [x, y], r)

    def op_linalg_eigh(self, a, r, _):
        self.emit("eigh", [given(*a, "A")["A"]], r, outs=["", ".vectors"])

    def op_linalg_eigvalsh(self, a, r, _):
        self.emit("eigh", [given(*a, "A")["A"]], r)

    def op_linalg_slogdet(self, a, r, _):
        self.emit("slogdet", [next(iter(given(*a, "A").values()))], r, outs=["", ".log"])

    op_slogdet = op_linalg_slogdet

    def selected(self, op, a, r, keys):
        """of an axis, with the place of each value"""
        d = given(*a, "input", *keys)
        axis = d.get("dim", -1)
        line = {"dim": axis, "keepdim": 1 if d.get("keepdim") else None}
        if "k" in keys:
            line["k"] = int(d["k"])
        self.emit(op, [d["input"]], r, line, outs=["", ".i"])

    def op_kthvalue(self, a, r, _):
        self.selected("kthvalue", a, r, ("k", "dim", "keepdim"))

    def op_mode(self, a, r, _):
        self.selected("mode", a, r, ("dim", "keepdim"))

    def op_cummax(self, a, r, _):
        d = given(*a, "input", "dim")
        self.emit("cummax", [d["input"]], r, {"dim": d["dim"]}, outs=["", ".i"])

    def op_cummin(self, a, r, _):
        d = given(*a, "input", "dim")
        self.emit("cummin", [d["input"]], r, {"dim": d["dim"]}, outs=["", ".i"])

    def op_median(self, a, r, _):
        d = given(*a, "input", "dim", "keepdim")
        if isinstance(r, torch.Tensor):
            self.emit("median", [d["input"]], r)
        else:
            self.selected("median", a, r, ("dim", "keepdim"))

    def op_nanmedian(self, a, r, _):
        d = given(*a, "input", "dim", "keepdim")
        if isinstance(r, torch.Tensor):
            self.emit("nanmedian", [d["input"]], r)
        else:
            self.selected("nanmedian", a, r, ("dim", "keepdim"))

    def two(self, op, a, r):
        d = given(*a, "input", "dim", "unbiased", "keepdim")
        if isinstance(d.get("dim"), bool):
            d["unbiased"] = d.pop("dim")
        dim = d.get("dim")
        dim = [dim] if isinstance(dim, int) else dim
        keys = {"dim": list_text(dim) if dim else None, "keepdim": 1 if d.get("keepdim") else None}
        if d.get("correction") is not None:
            keys["correction"] = int(d["correction"])
        elif d.get("unbiased") is False:
            keys["correction"] = 0
        self.emit(op, [d["input"]], r, keys, outs=["", ".2"])

    def op_var_mean(self, a, r, _):
        self.two("var_mean", a, r)

    def op_std_mean(self, a, r, _):
        self.two("std_mean", a, r)

    def op_aminmax(self, a, r, _):
        d = given(*a, "input")
        keys = {"dim": d.get("dim"), "keepdim": 1 if d.get("keepdim") else None}
        self.emit("aminmax", [d["input"]], r, keys, outs=["", ".max"])

    def looked_up(self, op, xs, d, r):
        if not all(isinstance(x, torch.Tensor) for x in xs) or d.get("sorter") is not None:
            raise NoWord("of a number, or with a sorter")
        self.emit(op, xs, r, {"dtype": "i32" if r.dtype is torch.int32 else None})

    def op_searchsorted(self, a, r, _):
        d = given(*a, "sorted_sequence", "input")
        self.looked_up("searchsorted", [d["sorted_sequence"], d["input"]], d, r)

    def op_bucketize(self, a, r, _):
        d = given(*a, "input", "boundaries")
        self.looked_up("bucketize", [d["input"], d["boundaries"]], d, r)

    def op_isin(self, a, r, _):
        d = given(*a, "elements", "test_elements")
        x, y = d["elements"], d["test_elements"]
        if not isinstance(x, torch.Tensor) or not isinstance(y, torch.Tensor):
            raise NoWord("of a number")
        if y.numel() >= 10 * x.numel() ** 0.145:  # TensorCompare.cpp: sorted
            raise NoWord("so many that they are sorted")
        self.emit("isin", [x, y], r)

    def op_block_diag(self, a, r, _):
        xs = a[0][0] if len(a[0]) == 1 and isinstance(a[0][0], (list, tuple)) else a[0]
        if any(x.dim() != 2 or x.dtype != r.dtype for x in xs):
            raise NoWord("blocks that are no matrices of one dtype")
        self.emit("block_diag", list(xs), r)

    def decomposed(self, op, x, r, keys, outs):
        if x.requires_grad and torch.is_grad_enabled():
            raise NoWord("no gradient of it")
        self.emit(op, [x], r, keys, outs=outs)

    def op_linalg_qr(self, a, r, _):
        d = given(*a, "A", "mode")
        if d.get("mode", "reduced") != "reduced":
            raise NoWord("another mode than reduced")
        self.decomposed("qr", d["A"], r, {}, ["", ".r"])

    def op_linalg_svd(self, a, r, _):
        d = given(*a, "A", "full_matrices")
        if d.get("driver") is not None:
            raise NoWord("a driver of its own")
        full = None if d.get("full_matrices", True) else 0
        self.decomposed("svd", d["A"], r, {"full_matrices": full}, ["", ".s", ".v"])
