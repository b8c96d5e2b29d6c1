"""What a call takes that has no word: measured by calling it once more."""

import contextlib, dataclasses, re, weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from export_rows import Problem

# aten operations (and torchvision's) that are products of cuBLAS
CUBLAS = set(
    "mm bmm addmm baddbmm addbmm _addmm_activation mv addmv dot vdot linalg_solve_triangular triangular_solve deform_conv2d trilinear".split()
)


# those of LAPACK's kind: which of cuSOLVER, cuBLAS and kernels of its own PyTorch takes depends on sizes and version
LAPACK = re.compile("_?(linalg|cholesky|lu_|lstsq|ormqr|geqrf|triangular_solve|svd)")
CUBLAS_MOST = 32 << 20  # its workspace where it is largest (CUDABlas.cpp: compute capability 9.0)
# kernels that take nothing beside what they give, with those that are pointwise, reductions or views
PLAIN = set("clone _to_copy copy copy_ cat fill_ zero_ index_select gather scatter constant_pad_nd".split())
COMPOSITE = "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"


def storage_order(t):
    """the axes of a dense tensor in the order of its storage; None: they are, or it is not dense"""
    order = sorted(range(t.dim()), key=lambda i: -t.stride(i))
    return None if t.is_contiguous() or not t.permute(order).is_contiguous() else order


def bytes_of(t):
    return t.numel() * t.element_size()


def composed(func):
    """the key of a kernel that calls other operations, where a GPU has none of its own"""
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    if func.namespace != "aten" or func._schema.is_mutable or has(func.name(), "CUDA"):
        return None
    return next((getattr(torch._C.DispatchKey, k) for k in COMPOSITE if has(func.name(), k)), None)


def tensors_of(*values):
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


class Storages(TorchDispatchMode):
    """The bytes of the storages that aten operations make, how many of them live at once, whether cuBLAS takes part, and what kernels
    may take that nobody sees: products copy what they read, a sort has its keys and the places of 64 bits twice, and no other kernel
    of PyTorch that is known takes more than that of all that it reads and writes."""

    def __init__(self, known):
        super().__init__()
        self.now = self.peak = self.unseen = 0
        self.cublas = False
        self.inside = []  # operations whose parts are being seen
        self.seen = {id(s): s for s in known}

    def hidden(self, func, given, results):
        name = func.overloadpacket.__name__
        plain = name in PLAIN or func.is_view or not given
        if plain or torch.Tag.pointwise in func.tags or torch.Tag.reduction in func.tags:
            return 0
        if name.strip("_") in CUBLAS:
            return sum(bytes_of(t) for t in given)
        return (CUBLAS_MOST if LAPACK.match(name) else 0) + sum(2 * 8 * t.numel() for t in given + results)

    def gone(self, key, size):
        self.now -= size
        del self.seen[key]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        key = composed(func)
        if key and func not in self.inside:
            self.inside.append(func)
            try:
                with contextlib.suppress(Exception), self:
                    return func._op_dk(key, *args, **kwargs)
            finally:
                self.inside.pop()
        r = func(*args, **kwargs)
        self.cublas |= func.overloadpacket.__name__.strip("_") in CUBLAS
        self.unseen = max(self.unseen, self.hidden(func, tensors_of(args, kwargs), tensors_of(r)))
        for t in tensors_of(r):
            if id(t.untyped_storage()) not in self.seen:
                s = t.untyped_storage()
                self.seen[id(s)] = None
                self.now += s.nbytes()
                weakref.finalize(s, self.gone, id(s), s.nbytes())
        self.peak = max(self.peak, self.now)
        return r


@dataclasses.dataclass
class Measured:
    """what one call takes: bytes of its own that it keeps for backward, arguments and results that it keeps (by position), bytes on the way"""

    saved: int
    saved_args: list
    saved_results: list
    temporaries: int
    cublas: bool = False  # it has a product of cuBLAS, which takes its workspace
    unseen: int = 0  # bytes that its kernels may take beside
    backward: int = None  # bytes on the way in backward, if that could be run
    backward_cublas: bool = None


def measure(func, args, kwargs):
    """A call's memory, from calling it once more with copies of its arguments. What it keeps is what saved_tensors_hooks see; the
    bytes on the way are those of the storages that the aten operations below it make and let go (a kernel's own are not seen).
    """
    kept, given = [], []

    def copy(t):
        c = t.detach().requires_grad_(t.requires_grad).clone()
        given.append(c)
        return c

    args, kwargs = tree_map_only(torch.Tensor, copy, (args, kwargs))
    storages = [t.untyped_storage() for t in given]
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.detach()) or t, lambda t: t)
    with Storages(storages) as live, hooks:
        result = func(*args, **kwargs)
    of = lambda ts: [id(t.untyped_storage()) for t in ts]
    results = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    saved, ins, outs = dict.fromkeys(of(kept)), of(given), of(results)
    size = {id(t.untyped_storage()): t.untyped_storage().nbytes() for t in kept + results}
    fresh = sum(size[s] for s in saved if s not in ins + outs)
    stays = fresh + sum(size[s] for s in set(outs) - set(ins))
    backward, unseen, cublas = in_backward(result, given, storages + [t.untyped_storage() for t in kept])
    return Measured(
        fresh,
        [k for k, s in enumerate(ins) if s in saved],
        [k for k, s in enumerate(outs) if s in saved and s not in ins],
        max(0, live.peak - stays),
        live.cublas,
        max(live.unseen, unseen),
        backward,
        cublas,
    )


def gradients(outs, grads, stop):
    """what the nodes behind outs give the nodes in stop, called one by one: autograd's engine asks for a device that may not be here"""
    arrived, order, seen = {}, [], set(stop)

    def visit(node):
        if node is not None and node not in seen:
            seen.add(node)
            for following, _ in node.next_functions:
                visit(following)
            order.append(node)

    def arrive(node, k, g):
        if node is not None and g is not None:
            of = arrived.setdefault(node, {})
            of[k] = g if of.get(k) is None else of[k] + g

    for t, g in zip(outs, grads):
        visit(t.grad_fn)
        arrive(t.grad_fn, t.output_nr, g)
    for node in reversed(order):
        given = arrived.pop(node, {})
        run = node.apply if isinstance(node, torch.autograd.function.BackwardCFunction) else node
        results = run(*[given.get(k) for k in range(len(node._input_metadata))])
        results = results if isinstance(results, tuple) else (results,)
        for (following, k), g in zip(node.next_functions, results):
            arrive(following, k, g)
        del given, results
    return arrived


def in_backward(result, inputs, known):
    """what the backward of a call takes on the way, the more of a dense gradient and of one number for all of it, what its kernels may
    take beside, and whether cuBLAS takes part; None: it does not run here"""
    stop = {t.grad_fn for t in inputs}
    results = tensors_of(result)
    outs = [t for t in results if t.grad_fn is not None and t.grad_fn not in stop]
    most, unseen, cublas = None, 0, None
    for dense in (True, False) if outs else ():
        grads = [torch.empty_like(t) if dense else t.detach().new_empty(()).expand(t.shape) for t in outs]
        storages = known + [t.untyped_storage() for t in [*grads, *results]]
        try:
            with torch.no_grad(), Storages(storages) as live:
                given = gradients(outs, grads, stop)
        except Problem:
            raise Problem(
                f"{outs[0].grad_fn.name()}: the program's own backward runs backward itself, which the text form has no line for"
            )
        except Exception:
            break
        before = {id(s) for s in storages}
        arrived = [g.untyped_storage() for of in given.values() for g in of.values()]
        fresh = {id(s): s.nbytes() for s in arrived if id(s) not in before}
        most = max(most or 0, live.peak - sum(fresh.values()))
        unseen, cublas = max(unseen, live.unseen), bool(cublas or live.cublas)
    return most, unseen, cublas
