#!/usr/bin/env python3
"""Turns a PyTorch module into the text form of vram.h, by running one forward pass without memory.

As a module of Python:
    with without_memory():                          # or on a device, with real tensors
        loaded = load("timm:vit_small_patch16_224")  # or Loaded(module, make_inputs, forward, name, dims)
        text, notes = export(loaded)
load() and export() raise Problem, whose text is one line for the user. Loaded: module, make_inputs(N=2, ...) gives a dict of
tensors on the CPU, forward(**these) runs the module (in training up to the loss), name, dims: ((name, default), ...).

How it works. A TorchFunctionMode sees every call of a torch function below torch.nn.functional; each becomes a line, named after
the module that calls. This is the eager program itself and not a graph of torch.export, because only the program has in-place
operations where they happen, its own lifetimes and its conversions, and because models run here that torch.export rejects.
A value's `drop` line comes from the moment when Python lets go of the tensor (weak references). A second run under bf16 autocast
tells conversions to a fixed type (`to`) from conversions to another tensor's type (`type_as`). Running once more with each dim
doubled tells which numbers follow it. Parameters that one op alone uses belong to that op; shared ones are named with `weights=`,
others become `parameter` lines. Nothing is dropped silently: `notes` lists what the text form cannot say.
"""

import argparse, ast, contextlib, dataclasses, difflib, functools, gc, importlib, importlib.util, inspect, json, logging, math, os, re, signal, socket, subprocess, sys, traceback, typing, warnings, weakref

try:
    import torch, torch.nn as nn, torch.nn.functional as F
    import torch.functional, torch._tensor
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves, tree_map_only
except ImportError as e:
    sys.exit(print(f"export_torch: needs PyTorch: pip install torch ({e})", file=sys.stderr) or 2)

EXAMPLES = """  export_torch.py torchvision:resnet50 | vram estimate - --train adamw --batch 64
  export_torch.py timm:vit_small_patch16_224 -o vit.vram
  export_torch.py hf:config.json --seq 2048 -o llama.vram
    (config.json as in every repository of transformers models)
  export_torch.py train.py:example -o mine.vram
    (def example(): return MyModule(), {"x": torch.zeros(2, 3, 64, 64)})"""

DTYPES = {
    torch.float64: "f64",
    torch.float32: "f32",
    torch.float16: "f16",
    torch.bfloat16: "bf16",
    torch.int64: "i64",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
    torch.complex64: "c64",
    torch.complex128: "c128",
}
NAMED_LIKE_MODULE = (
    "torch.nn.modules.",
    "torchvision.ops.misc",
    "timm.layers.norm",
    "timm.layers.activations",
)
RNN = {
    "LSTM": "lstm",
    "GRU": "gru",
    "RNN": "rnn",
    "LSTMCell": "lstm_cell",
    "GRUCell": "gru_cell",
    "RNNCell": "rnn_cell",
    "EmbeddingBag": "embedding_bag",
}
OWNED = {"weight": 1, "bias": 2}  # position of an op's parameters among its inputs


class Problem(Exception):
    """what is wrong and what to do, in one line"""


def one_line(e):
    """an exception in one line"""
    text = " ".join(str(e).split())
    return f"{type(e).__name__}: {text[:300]}" if text else type(e).__name__


def place(e):
    """where it was raised, in the last line that is neither PyTorch's nor ours"""
    inside = (os.path.dirname(os.path.realpath(torch.__file__)) + os.sep, os.path.realpath(__file__))
    frames = traceback.extract_tb(e.__traceback__)
    frames = [
        f for f in frames if f.filename[0] != "<" and not os.path.realpath(f.filename).startswith(inside)
    ]
    return (
        f" (at {os.path.relpath(frames[-1].filename)}:{frames[-1].lineno}: {frames[-1].line})"
        if frames
        else ""
    )


def shape_text(s):
    return "[" + ",".join(str(int(a)) for a in s) + "]"


def axes_text(v):
    """one value for every axis where they are equal"""
    v = [int(a) for a in v] if isinstance(v, (tuple, list, torch.Size)) else [int(v)]
    return str(v[0]) if len(set(v)) == 1 else ",".join(map(str, v))


def list_text(v):
    return ",".join(str(int(a)) for a in (v if isinstance(v, (tuple, list, torch.Size)) else [v]))


class Ref:
    """an input of a node: a value by name, or a parameter or buffer of the module"""

    def __init__(self, name=None, own=None):
        self.name, self.own = name, own


class Node:
    def __init__(self, op, outs, ins, keys, params=None):
        self.op, self.outs, self.ins, self.keys, self.params = op, outs, ins, keys, params
        self.custom = None  # of a custom op: number of nodes before it, arguments and results that it keeps, what to note
        self.reads = ()  # names whose dtype the program read before (for `to`)


# ---- how the functions of torch are called: name -> argument names ("*": takes the rest)
SIGNATURES = {}
for line in """
linear x weight bias
conv1d conv2d conv3d | x weight bias stride padding dilation groups
conv_transpose1d conv_transpose2d conv_transpose3d | x weight bias stride padding output_padding groups dilation
batch_norm x weight bias running_mean running_var training momentum eps cudnn
instance_norm x weight bias running_mean running_var use_input_stats momentum eps cudnn
layer_norm x shape weight bias eps cudnn
rms_norm x shape weight eps
group_norm x num_groups weight bias eps cudnn
embedding weight x padding_idx scale_grad_by_freq sparse
bilinear x1 x2 weight bias
prelu x weight
dropout dropout_ feature_dropout feature_dropout_ alpha_dropout alpha_dropout_ feature_alpha_dropout feature_alpha_dropout_ native_dropout | x p train
max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices max_pool3d_with_indices | x kernel_size stride padding dilation ceil_mode
avg_pool1d avg_pool2d avg_pool3d | x kernel_size stride padding ceil_mode count_include_pad divisor_override
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d | x output_size
scaled_dot_product_attention q k v attn_mask dropout_p is_causal scale enable_gqa
pad x pad mode value
view reshape | x *shape
flatten x start_dim end_dim
unflatten x dim sizes
tensor_split x sections dim
diff x n dim prepend append
repeat_interleave x repeats dim output_size
scatter x dim index src
index_add index_add_ | x dim index source
index_put index_put_ | x indices values accumulate
sum mean prod | x dim keepdim dtype
amax amin logsumexp | x dim keepdim
max min | x dim keepdim
var std | x dim correction keepdim
linalg_vector_norm x ord dim keepdim dtype
norm x p dim keepdim
topk x k dim largest sorted
sort x dim descending stable
argsort x dim descending stable
clamp clamp_ clip | x min max
clamp_min clamp_min_ | x min
clamp_max clamp_max_ | x max
where c x y
masked_fill masked_fill_ | x mask value
lerp lerp_ | x end weight
einsum equation *xs
one_hot x num_classes
upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d upsample_nearest_exact2d _upsample_nearest_exact2d | x size scales
upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa _upsample_bicubic2d_aa | x size align_corners scales
cross_entropy_loss x target weight reduction ignore_index label_smoothing
nll_loss_nd nll_loss nll_loss2d | x target weight reduction ignore_index
mse_loss l1_loss | x target reduction
smooth_l1_loss huber_loss | x target reduction beta
binary_cross_entropy x target weight reduction
binary_cross_entropy_with_logits x target weight pos_weight reduction
kl_div x target reduction log_target
ctc_loss x target input_lengths target_lengths blank reduction zero_infinity
cosine_embedding_loss x1 x2 target margin reduction
triplet_margin_loss x positive negative margin p eps swap reduction
""".strip().split("\n"):
    names, args = (
        [p.split() for p in line.split("|")] if "|" in line else ([line.split()[0]], line.split()[1:])
    )
    SIGNATURES.update((n, args) for n in names)

# ---- calls that are a line as they are: what the rows of the ops say (`torch` at VRAM__OP in src/model/model.h)


@dataclasses.dataclass
class Argument:
    """of a call: a key of the op, or a tensor"""

    name: str
    key: bool
    rest: bool  # it takes all that follow
    optional: bool  # left out where it is 0
    axes: bool  # one number where all axes have the same


@dataclasses.dataclass
class Row:
    """a function of PyTorch that is an op"""

    op: str
    least: int
    most: int
    keys: dict  # name: kind
    arguments: list  # Argument, None: tensors, perhaps a number
    leaf: bool  # named after the module that calls


def row_of(op):
    """the functions of PyTorch that an op is, {name: Row}, then those that only allocate alike"""
    names, colon, rest = op["torch"].partition(":")
    keys = {k["name"]: k["kind"] for k in op["keys"]}
    arguments = [
        Argument(
            name := a.removesuffix(":axes").strip("*?"), name in keys, a[0] == "*", a[-1] == "?", ":axes" in a
        )
        for a in rest.split()
    ]
    rows = {}, {}
    for n in names.split():
        r = Row(op["name"], op["least"], op["most"], keys, arguments if colon else None, n[-1] == "!")
        rows[n[0] == "~"][n.strip("~!")] = r
    return rows


@functools.cache
def rows():
    """what `vram list ops --json` says: of all functions"""
    beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "vram")
    command = os.environ.get("VRAM") or (beside if os.path.exists(beside) else "vram")
    try:
        p = subprocess.run([command, "list", "ops", "--json"], capture_output=True, text=True)
    except OSError as e:
        raise Problem(f"{command}: {e.strerror}; it has the table of ops: make vram, or set VRAM to the command")
    try:
        ops = json.loads(p.stdout) if p.returncode == 0 else None
    except ValueError:
        ops = None
    if not ops:
        raise Problem(f"{command} list ops --json: {' '.join(p.stderr.split()) or 'no table'}; is it of another version?")
    exact, alike = {}, {}
    for op in ops:
        own, like = row_of(op)
        exact |= own
        alike |= like
    return exact, alike


def written(kind, axes, v):
    """the value of a key, as the text form has it"""
    if kind == "L":
        return axes_text(v) if axes else list_text(v)
    if kind == "D":
        return DTYPES[v]
    return int(v) if kind in "IB" else v


CONVERT = {
    "float": torch.float32,
    "half": torch.float16,
    "bfloat16": torch.bfloat16,
    "double": torch.float64,
    "long": torch.int64,
    "int": torch.int32,
    "short": torch.int16,
    "char": torch.int8,
    "byte": torch.uint8,
    "bool": torch.bool,
}
SILENT = set(
    """size dim numel stride is_contiguous data_ptr storage_offset item tolist is_floating_point is_complex requires_grad_ ndimension nelement element_size get_device __len__ __bool__ __int__ __float__ __index__ __repr__ __format__ __hash__
__contains__ untyped_storage is_same_size allclose equal is_nonzero type is_pinned retain_grad register_hook is_inference _is_view is_set_to __deepcopy__ has_names is_tensor is_cuda result_type promote_types can_cast
_assert _assert_async _is_zerotensor is_neg is_conj dim_order is_autocast_enabled __reduce_ex__ __setstate__ sym_size __array__ share_memory_ is_shared numpy cpu cudnn_is_acceptable broadcast_shapes _has_compatible_shallow_copy_type is_signed""".split()
)
SAME_OR_COPY = {"to", "type", "type_as", "contiguous", *CONVERT}
LOSS_REDUCTION = {0: "none", 1: "mean", 2: "sum"}


class Same(torch.autograd.Function):
    """the same storage as another tensor, which it does not hold"""

    @staticmethod
    def forward(ctx, x):
        return x.data

    @staticmethod
    def backward(ctx, g):
        return g


class NoWord(Exception):
    """what a line of the text form cannot say: the call becomes a `custom` line"""


class Storages(TorchDispatchMode):
    """the bytes of the storages that aten operations make, and how many of them live at once"""

    def __init__(self, known):
        super().__init__()
        self.now = self.peak = 0
        self.seen = {id(s): s for s in known}

    def gone(self, key, size):
        self.now -= size
        del self.seen[key]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        r = func(*args, **(kwargs or {}))
        for t in tree_leaves(r):
            if isinstance(t, torch.Tensor) and id(t.untyped_storage()) not in self.seen:
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
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.detach()), lambda t: t)
    with Storages(storages) as live, hooks:
        result = func(*args, **kwargs)
    of = lambda ts: [id(t.untyped_storage()) for t in ts]
    results = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    saved, ins, outs = dict.fromkeys(of(kept)), of(given), of(results)
    size = {id(t.untyped_storage()): t.untyped_storage().nbytes() for t in kept + results}
    fresh = sum(size[s] for s in saved if s not in ins + outs)
    stays = fresh + sum(size[s] for s in set(outs) - set(ins))
    return Measured(
        fresh,
        [k for k, s in enumerate(ins) if s in saved],
        [k for k, s in enumerate(outs) if s in saved and s not in ins],
        max(0, live.peak - stays),
    )


class Answers(TorchFunctionMode):
    """Answers what programs ask about masks, where there are no values: all of it is set, nothing of it is not. What else depends
    on values raises DataDependentOutputException."""

    def __init__(self):
        super().__init__()
        self.notes = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "")
        if (
            name in ("__bool__", "item")
            and isinstance(args[0], FakeTensor)
            and hasattr(args[0], "vram_answer")
        ):
            frame, torch_files = sys._getframe(1), os.path.dirname(torch.__file__)
            while frame.f_code.co_filename.startswith(torch_files) or frame.f_code.co_filename == __file__:
                frame = frame.f_back
            at = f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno}"
            note = f"{at} looks at values; taken to be {args[0].vram_answer}"
            if note not in self.notes:
                self.notes.append(note)
            return args[0].vram_answer
        r = func(*args, **(kwargs or {}))
        if name in ("all", "any") and isinstance(r, FakeTensor):
            r.vram_answer = name == "all"
        return r


class Recorder(TorchFunctionMode):
    same = staticmethod(Same.apply)

    def __init__(self, module, inputs, buffers_are_inputs=False):
        super().__init__()
        self.nodes, self.names, self.taken, self.death, self.refs, self.notes = [], {}, set(), {}, [], []
        self.paths = [""]
        self.path_of = {id(m): n for n, m in module.named_modules(remove_duplicate=True)}
        self.params = {id(p): n for n, p in module.named_parameters(remove_duplicate=True)}
        self.buffers = {id(b): n for n, b in module.named_buffers(remove_duplicate=True)}
        self.tensors = {id(t): t for t in list(module.parameters()) + list(module.buffers())}
        self.reads, self.unit = [], 0
        self.packed = []  # storages kept for backward, each with the number of nodes when it was
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

    def pack(self, t):
        self.packed.append((StorageWeakRef(t.untyped_storage()), len(self.nodes)))

    def custom(self, name, func, args, kwargs, r, why, start):
        """a line for a call that has no word: its results, and what it was measured to take"""
        why = f"{name}: {why}"
        xs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        results = [t for t in tree_leaves(r) if isinstance(t, torch.Tensor)] or xs[:1]
        m = Measured(0, [], [], 0)
        self.unit += 1
        try:
            if self.amp is None:
                m = measure(func, args, kwargs)
        except Exception as e:
            why += f"; it cannot be called again to measure it ({one_line(e)}), so what it keeps is taken to be its results"
            m.saved_results = list(range(len(results)))
        finally:
            self.unit -= 1
        inputs = [x for x in xs if self.on_device(x)]
        for k, t in enumerate(results):
            own = DTYPES[t.dtype] if not inputs or t.dtype != inputs[0].dtype else None
            if k and not t.requires_grad:
                self.emit("empty", [], t, {"shape": shape_text(t.shape), "dtype": DTYPES[t.dtype]}, name=name)
                continue
            keys = {"shape": shape_text(t.shape), "dtype": own}
            node = self.emit("custom", results[:1] if k else inputs, t, keys, name=name)
            if not k:
                kept = [xs[i] for i in m.saved_args if i < len(xs)] + [results[i] for i in m.saved_results]
                storages = [(StorageWeakRef(v.untyped_storage()), v.untyped_storage().nbytes()) for v in kept]
                node.keys |= {"saved": m.saved, "workspace": m.temporaries}
                node.custom = start, storages, why

    def value(self, t, name):
        known = id(t) in self.names
        if id(t) in self.params or id(t) in self.buffers or any(t is i for i in self.inputs.values()):
            return  # the op hands on what lives anyway
        self.names[id(t)] = name
        if known:
            self.death[id(t)].append(name)
            return
        entry = [name]
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

    dead = None

    def emit(self, op, x, r, keys=None, leaf=False, name=None, params=None, outs=None):
        """x: tensors (or Refs) in, r: tensor or tensors out"""
        ins = [a if isinstance(a, Ref) else self.ref(a) for a in x]
        if any(i is None for i in ins):
            self.note(f"{op}: an input on another device ({self.paths[-1]})")
            ins = [i for i in ins if i]
        if self.grad and not torch.is_grad_enabled():
            for k, (a, i) in enumerate(zip(x, ins)):
                if isinstance(a, torch.Tensor) and a.requires_grad:
                    n = self.fresh("detach")
                    self.nodes.append(Node("detach", [n], [i], {}))
                    ins[k] = Ref(n)
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
        start = len(self.nodes)
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
            elif attr in ("real", "imag") and args[0].is_complex():
                self.custom(attr, func, args, kwargs, r, "no word for it", start)
            return r
        if name in ("__set__", "__delete__"):
            return func(*args, **kwargs)
        if name == "__setitem__":
            return self.setitem(func, args, kwargs, start)
        if name == "__getitem__":
            return self.getitem(func, args, kwargs)
        r = func(*args, **kwargs)
        if name in SILENT and not (name == "type" and isinstance(r, torch.Tensor)):
            return r
        if not isinstance(r, torch.Tensor) and not (
            isinstance(r, (tuple, list)) and any(isinstance(t, torch.Tensor) for t in r)
        ):
            if r is not None or name not in ("manual_seed",):
                if isinstance(r, (torch.Tensor,)):
                    pass
            return r
        if name in SAME_OR_COPY and args and r is args[0] and self.on_device(r):
            r = self.same(r)  # a value of its own: under autocast, or in another layout, it would be one
        try:
            self.call(name, args, kwargs, r)
        except NoWord as e:
            self.custom(name, func, args, kwargs, r, str(e), start)
        return r

    def on_device(self, t):
        return isinstance(t, torch.Tensor) and t.device.type == self.device

    def call(self, name, args, kwargs, r):
        first = r if isinstance(r, torch.Tensor) else next(t for t in r if isinstance(t, torch.Tensor))
        if not self.on_device(first) or (
            args and self.buffers.get(id(args[0]), "").endswith("num_batches_tracked")
        ):
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
        if "out" in kwargs:
            self.note(f"{name}(out=) ({self.paths[-1]})")
        if self.amp and not torch.is_autocast_enabled(self.device):
            self.note(f"the program turns autocast off: {name} ({self.paths[-1]})")
        sig = SIGNATURES.get(name, SIGNATURES.get(plain))
        if handler:
            handler(self.bind(sig, args, kwargs) if sig else (args, kwargs), r, inplace)
            return
        exact, alike = self.rows
        row = exact.get(plain) or exact.get(plain.rstrip("_"))
        grad = any(isinstance(a, torch.Tensor) and a.requires_grad for a in args) and torch.is_grad_enabled()
        if not row and not grad:
            row = alike.get(plain)
        if row:
            self.row(row, args, kwargs, r, inplace)
            return
        if plain in CONVERT:
            self.convert(args[0], r, CONVERT[plain])
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

    leaf_flags = [False]

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
            self.emit(op, [a, b], r, keys)
            return
        if op == "pow" and not tensor(a):
            if b.requires_grad:
                raise NoWord("a number to the power of a tensor")
            self.emit("mul", [b], r, {"scalar": 1}, name="pow")
            n = self.fresh("base")  # Pow.cpp: the base becomes a tensor of one element
            self.nodes.append(
                Node("full", [n], [], {"shape": "[]", "dtype": "i64" if isinstance(a, int) else "f64"})
            )
            return
        x = a if tensor(a) else b
        s = b if tensor(a) else a
        if op == "floor_divide" or keys.get("rounding_mode"):
            pass
        elif not x.is_floating_point() and r.is_floating_point() and op != "div":
            self.emit("div", [x], r, {**keys, "scalar": 1}, name=op)
            return  # integers and a fraction: true division allocates alike
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
        tensors = [a.get(k) for k in ("min", "max") if isinstance(a.get(k), torch.Tensor)]
        if tensors:
            raise NoWord("bounds that are tensors")
        num = lambda v: (
            None if v is None or isinstance(v, torch.Tensor) else max(-65504, min(65504, v))
        )  # which bounds there are counts, not where
        self.emit(
            "clamp", [a["x"]], r, {"min": num(a.get("min")), "max": num(a.get("max")), "inplace": inplace}
        )

    op_clamp_min = op_clamp_max = op_clip = op_clamp

    def op_where(self, a, r, _):
        if "x" not in a:
            raise NoWord("a shape that depends on data")
        c, x, y = a["c"], a["x"], a["y"]
        if c.dtype is not torch.bool:  # x.where(c, y)
            c, x = x, c
        t = [v for v in (x, y) if self.on_device(v)]
        if len(t) == 2:
            self.emit("where", [c, x, y], r)
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

    def op_batch_norm(self, a, r, _):
        own = self.buffers.get(id(a.get("running_mean")))
        keys = {"track_running_stats": None if a.get("running_mean") is not None else 0}
        if a.get("running_mean") is not None:
            self.stats.add(id(a["running_mean"]))
            self.stats.add(id(a["running_var"]))
            if not a.get("training") and self.train:
                keys["training"] = 0
        self.weighted("batch_norm", [a["x"]], [a.get("weight"), a.get("bias")], r, keys)

    def op_instance_norm(self, a, r, _):
        tracked = a.get("running_mean") is not None
        if tracked:
            self.stats.add(id(a["running_mean"]))
            self.stats.add(id(a["running_var"]))
        self.weighted(
            "instance_norm",
            [a["x"]],
            [a.get("weight"), a.get("bias")],
            r,
            {"track_running_stats": 1 if tracked else None},
        )

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

    def adaptive(self, op, a, r):
        size = a["output_size"]
        if isinstance(size, (tuple, list)) and any(s is None for s in size):
            size = [s or d for s, d in zip(size, a["x"].shape[-len(size) :])]
        if isinstance(r, (tuple, list)):
            self.emit(op, [a["x"]], r, {"output_size": axes_text(size)}, self.leaf(), outs=["", ".i"])
        else:
            self.emit(op, [a["x"]], r, {"output_size": axes_text(size)}, self.leaf())

    def upsample(self, a, r, mode, antialias=None):
        size = a.get("size", a.get("output_size", a.get("shape")))
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
        d = a.get("dim", 0)
        self.emit(
            "split",
            [a["x"]],
            r,
            {"split_size_or_sections": ",".join(str(t.shape[d]) for t in r), "dim": d or None},
        )

    def op_diff(self, a, r, _):
        x, dim = a["x"], a.get("dim", -1)
        ends = [v for v in (a.get("prepend"), x, a.get("append")) if v is not None]
        x = self.made("cat", [self.ref(v) for v in ends], {"dim": dim}) if len(ends) > 1 else self.ref(x)
        high, low = (
            self.made("narrow", [x], {"dim": dim, "start": k, "length": r.shape[dim]}) for k in (1, 0)
        )
        self.emit("sub", [high, low], r, name="diff")

    def op_repeat_interleave(self, a, r, _):
        if self.on_device(a["repeats"]):
            raise NoWord("counts that are a tensor")
        self.emit("repeat_interleave", [a["x"]], r, {"repeats": a["repeats"], "dim": a.get("dim")})

    def op_detach(self, a, r, _):
        self.emit("detach", [a[0][0]], r)

    def op_alias(self, a, r, _):
        self.emit("view", [a[0][0]], r, {"shape": shape_text(r.shape)})

    def op_contiguous(self, a, r, _):
        if a[1].get("memory_format", torch.contiguous_format) is not torch.contiguous_format or len(a[0]) > 1:
            self.note("contiguous in another memory format")
        self.emit("contiguous", [a[0][0]], r)

    def op_clone(self, a, r, _):
        if a[1].get("memory_format", torch.preserve_format) is torch.contiguous_format:
            self.note("clone with memory_format=contiguous_format")
        self.emit("clone", [a[0][0]], r)

    def op_requires_grad(self, a, r, _):
        pass

    # ---- conversions
    def convert(self, x, r, dtype):
        n = self.emit("to", [x], r, {"dtype": DTYPES[r.dtype]})
        n.reads = list(self.reads[-200:])

    def op_to(self, a, r, _):
        args, kwargs = a
        x = args[0]
        if not self.on_device(x):
            self.create("empty", (), {}, r)
            return
        other = next(
            (v for v in list(args[1:2]) + [kwargs.get("other")] if isinstance(v, torch.Tensor)), None
        )
        dtype = kwargs.get("dtype") or next((v for v in args[1:3] if isinstance(v, torch.dtype)), None)
        if kwargs.get("memory_format") not in (None, torch.preserve_format):
            self.note("to(memory_format=)")
        if kwargs.get("copy"):
            self.note("to(copy=True)")
        if other is not None:
            self.emit("type_as", [x, other], r)
        elif dtype is not None:
            self.convert(x, r, dtype)
        else:
            self.emit("view", [x], r, {"shape": shape_text(r.shape)}, name="to")  # to the device where it is

    def op_type(self, a, r, _):
        self.convert(a[0][0], r, r.dtype)

    def op_type_as(self, a, r, _):
        if not self.on_device(a[0][0]):  # goes to the other's device, too
            self.create("empty", (), {}, r)
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
                if not (s == 0 and e >= shape[dim] and st == 1):
                    steps.append(
                        (
                            "slice",
                            {
                                "dim": dim,
                                "start": s or None,
                                "end": None if e >= shape[dim] else e,
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
        for k, (op, keys) in enumerate(steps):
            if k == len(steps) - 1 and not used:
                self.emit(op, [state], r, keys)
            else:
                state = self.made(op, [state], keys)
        if used:
            first = used[0][0]
            if [k for k, _ in used] != list(range(first, first + len(used))):
                self.note(f"indexing with tensors on axes that are not side by side ({self.paths[-1]})")
            self.emit("index", [state] + [t for _, t in used], r, {"dim": first or None})
        elif not steps:
            self.emit(
                "expand", [state], r, {"shape": shape_text(r.shape)}, name="alias"
            )  # an alias; its gradient passes as expand's does
        return r

    def setitem(self, func, args, kwargs, start):
        x, idx, v = args
        r = func(*args, **kwargs)
        if not self.on_device(x):
            return r
        steps, used = self.index_steps(x, idx)
        tensor, grad = self.on_device(v), self.had_grad or getattr(v, "requires_grad", False)
        if used and (grad or used[0][0] != 0 or not tensor) or grad and not tensor:
            self.custom("setitem", func, args, kwargs, r, "an assignment that is not in the text form", start)
            return r
        state = self.ref(x)
        for op, keys in steps:
            state = self.made(op, [state], keys)
        if used:
            index = [t if isinstance(t, Ref) else self.ref(t) for _, t in used]
            self.made("index_put", [state] + index + [self.ref(v)], {"inplace": 1})
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
        if a["x"].requires_grad or a["values"].requires_grad or not inplace:
            raise NoWord("a gradient")
        self.emit(
            "index_put",
            [a["x"]] + [i for i in a["indices"] if i is not None] + [a["values"]],
            r,
            {"inplace": 1, "accumulate": 1 if a.get("accumulate") else None},
        )

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

    op_all = op_any

    def reduce(self, op, a, r, extra=None):
        d = a.get("dim", None)
        t = a.get("dtype")
        if d is not None and not isinstance(d, (tuple, list)):
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
        c = a.get("correction")
        self.reduce(op, a, r, {"correction": None if c in (None, True, 1) else int(c)})

    def op_std(self, a, r, _):
        self.op_var(a, r, _, "std")

    def op_linalg_vector_norm(self, a, r, _):
        if a.get("ord", 2) not in (2, 2.0):
            raise NoWord("a norm that is not the 2-norm")
        self.reduce("norm", a, r)

    def op_norm(self, a, r, _):
        self.reduce("norm", a, r)

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
            self.emit(op, [lender], r, keys)
            return
        n = self.emit(op, [], r, {**keys, "dtype": None if r.dtype is torch.float32 else DTYPES[r.dtype]})
        if kwargs.get("dtype") is not None and r.is_floating_point():
            n.reads = list(self.reads[-200:])

    def op_fill(self, a, r, _):
        self.emit("fill", [a[0][0]], r, {"inplace": 1})

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
        if a.get("weight") is not None or a.get("pos_weight") is not None:
            self.note(f"{op} with weights")
        self.emit(op, xs, r, {"reduction": None if red == "mean" else red, **(extra or {})}, name="loss")

    def op_cross_entropy_loss(self, a, r, _):
        s = a.get("label_smoothing", 0)
        self.loss("cross_entropy", a, r, [a["x"], a["target"]], {"label_smoothing": s or None})

    def op_nll_loss_nd(self, a, r, _):
        self.loss("nll_loss", a, r, [a["x"], a["target"]])

    op_nll_loss = op_nll_loss2d = op_nll_loss_nd

    def op_ctc_loss(self, a, r, _):
        self.note("ctc_loss: the lengths are not told")
        self.loss("ctc_loss", a, r, [a["x"], a["target"]])

    def op_cosine_embedding_loss(self, a, r, _):
        self.loss("cosine_embedding_loss", a, r, [a["x1"], a["x2"], a["target"]])

    def op_triplet_margin_loss(self, a, r, _):
        self.loss("triplet_margin_loss", a, r, [a["x"], a["positive"], a["negative"]])

    # ---- recurrent modules: one op
    def recurrent(self, m, args, kwargs, r):
        op = RNN[type(m).__name__]
        if op == "embedding_bag":
            for p in m.parameters():
                self.params_in_modules.add(id(p))
            self.emit(
                op,
                list(args),
                r,
                {
                    "num_embeddings": m.num_embeddings,
                    "embedding_dim": m.embedding_dim,
                    "mode": None if m.mode == "mean" else m.mode,
                },
                True,
            )
            return
        x, h = args[0], (args[1] if len(args) > 1 else kwargs.get("hx"))
        keys = {"hidden_size": m.hidden_size, "bias": None if m.bias else 0}
        states = [] if h is None else list(h) if isinstance(h, (tuple, list)) else [h]
        if not op.endswith("_cell"):
            keys.update(
                {
                    "num_layers": m.num_layers if m.num_layers > 1 else None,
                    "batch_first": 1 if m.batch_first else None,
                    "dropout": m.dropout or None,
                    "bidirectional": 1 if m.bidirectional else None,
                    "proj_size": getattr(m, "proj_size", 0) or None,
                }
            )
        if getattr(m, "nonlinearity", "tanh") != "tanh":
            keys["nonlinearity"] = m.nonlinearity
        if not isinstance(x, torch.Tensor):
            self.custom(op, m.forward, args, kwargs, r, "a packed sequence", len(self.nodes))
            return
        if op.endswith("_cell"):
            flat = list(r) if isinstance(r, (tuple, list)) else [r]
        else:
            flat = [r[0]] + (list(r[1]) if isinstance(r[1], (tuple, list)) else [r[1]])
        for p in m.parameters():
            self.params_in_modules.add(id(p))
        if any(not p.requires_grad for p in m.parameters()):
            keys["frozen"] = 1
        first = self.rnn_name.get(id(m))
        if first:
            keys["weights"] = first
        suffix = ["", ".hn", ".cn"] if not op.endswith("_cell") else ["", ".c"]
        n = (
            self.emit(op, [x] + states, flat, keys, True, outs=suffix)
            if len(flat) > 1
            else self.emit(op, [x] + states, flat[0], keys, True)
        )
        self.rnn_name.setdefault(id(m), n.outs[0])


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
    "_upsample_nearest_exact2d": "nearest-exact",
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
    "kl_div",
):
    setattr(Recorder, "op_" + k, lambda self, a, r, _, k=k: self.loss(k, a, r, [a["x"], a["target"]]))
for k in ("sum", "mean", "prod", "amax", "amin", "logsumexp"):
    setattr(Recorder, "op_" + k, lambda self, a, r, _, k=k: self.reduce(k, a, r))


def run(module, forward, inputs, amp=None):
    """one forward pass under the recorder; gives the recorder and the names of what came out"""
    rec = Recorder(module, inputs)
    rec.amp, rec.dead, rec.stats, rec.params_in_modules, rec.rnn_name, rec.train, rec.leaf_flags = (
        amp,
        {},
        set(),
        set(),
        {},
        module.training,
        [False],
    )
    saved = [
        (m, n, getattr(m, n))
        for m in (F, torch.functional, torch._tensor)
        for n in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
        if hasattr(m, n)
    ]
    call = nn.Module.__call__

    def hooked(m, *args, **kwargs):
        rec.paths.append(rec.path_of.get(id(m), rec.paths[-1]))
        rec.leaf_flags.append(
            not any(True for _ in m.children()) and type(m).__module__.startswith(NAMED_LIKE_MODULE)
        )
        try:
            if type(m).__name__ in RNN and type(m).__module__.startswith("torch.nn.") and not rec.unit:
                rec.unit += 1
                try:
                    r = call(m, *args, **kwargs)
                finally:
                    rec.unit -= 1
                rec.recurrent(m, args, kwargs, r)
                return r
            return call(m, *args, **kwargs)
        finally:
            rec.paths.pop()
            rec.leaf_flags.pop()

    apply = torch.autograd.Function.__dict__.get("apply")

    def unseen(cls, *args, **kwargs):
        call, start = apply.__get__(None, cls), len(rec.nodes)
        if rec.unit or cls is Same:
            return call(*args, **kwargs)
        rec.unit += 1
        try:
            r = call(*args, **kwargs)
        finally:
            rec.unit -= 1
        rec.custom(cls.__name__, call, args, kwargs, r, "an autograd function of the program's own", start)
        return r

    gc.collect()
    gc.disable()  # lifetimes are those of the program alone
    try:
        for m, n, _ in saved:
            setattr(m, n, lambda *a, **k: False)
        nn.Module.__call__ = hooked
        torch.autograd.Function.apply = classmethod(unseen)
        hooks = torch.autograd.graph.saved_tensors_hooks(rec.pack, lambda t: t)
        with hooks, autocast(rec.device, amp), torch.backends.cudnn.flags(enabled=not fake_device), rec:
            out = forward(**inputs)
    finally:
        gc.enable()
        nn.Module.__call__ = call
        torch.autograd.Function.apply = apply
        for m, n, f in saved:
            setattr(m, n, f)
    flat = []

    def walk(o):
        if isinstance(o, torch.Tensor):
            flat.append(o)
        elif isinstance(o, dict):
            for v in o.values():
                walk(v)
        elif isinstance(o, (tuple, list)):
            for v in o:
                walk(v)

    walk(out)
    outputs = [rec.names[id(t)] for t in flat if id(t) in rec.names]
    results = {n: t.dtype for t in flat for n in [rec.names.get(id(t))] if n}
    rec.end = len(rec.nodes)
    alive = {n for e in rec.death.values() for n in e} - set(outputs)
    kept = {n for t in flat for n in rec.death.get(id(t), [])}
    for n in alive - kept:
        rec.note(f"{n} outlives the forward pass (kept by the module)")
    rec.kept = alive - kept
    rec.outputs = list(dict.fromkeys(outputs))
    return rec


def dtype_key(node):
    return node.keys.get("dtype", "f32")


def aligned(rec, amp):
    """Pairs of nodes of the plain run and of the one under autocast, and the names of this in that. Under autocast a program may
    convert more often; None where it does anything else differently."""
    same, pairs, left = {n: n for n in rec.inputs}, [], list(reversed(rec.nodes))
    for m in amp.nodes:
        ins = [same.get(i.name, i.own) for i in m.ins]
        if left and left[-1].op == m.op and [i.name or i.own for i in left[-1].ins] == ins:
            n = left.pop()
            pairs.append((n, m))
            same.update(zip(m.outs, n.outs))
        elif m.op == "to":
            same[m.outs[0]] = ins[0]
        else:
            return rec.nodes[len(pairs)] if left else m, None, None
    return (None, pairs, same) if not left else (left[-1], None, None)


def resolve_conversions(rec, amp):
    """The recording to write: `to` of the plain run that gives another type under autocast follows the tensor whose dtype the
    program read; conversions that the program does under autocast only are kept, as they take nothing without it.
    """
    other, pairs, same = aligned(rec, amp)
    if other:
        rec.note(
            f"under autocast the program does something else, from {other.op} {other.outs[0]} on; the text is the plain program"
        )
        return rec
    chosen = amp if len(amp.nodes) > len(rec.nodes) else rec
    name_in = {v: k for k, v in same.items()} if chosen is amp else {v: v for v in same.values()}
    for n, m in pairs:
        keys, plain, reads = dict(n.keys), dtype_key(n), {a: DTYPES[t] for a, t in n.reads}
        node = m if chosen is amp else n
        if plain != dtype_key(m):
            source = next(
                (
                    same[a]
                    for a, t in reversed(m.reads)
                    if DTYPES[t] == dtype_key(m) and reads.get(same.get(a)) == plain
                ),
                None,
            )
            if source:
                keys.pop("dtype", None)
                node.op = "type_as" if node.op == "to" else node.op
                node.ins.append(Ref(name_in[source]))
            else:
                rec.note(
                    f"{n.outs[0]}: converts to a type that changes under autocast, from an unknown tensor; written as in fp32"
                )
        node.keys, node.custom = keys, n.custom
    chosen.notes, chosen.packed = rec.notes, rec.packed
    return chosen


def write(rec, name, comment):
    tensors, params = rec.tensors, rec.params
    uses = {}
    for n in rec.nodes:
        for k, i in enumerate(n.ins):
            if i.own:
                uses.setdefault(i.own, []).append((n, k))
    owner, lines, made = {}, [], {}

    def ownable(n):
        """the node's own parameters as ids, if it could own them"""
        if not n.params:
            return None
        base, given = n.params
        own = [i.own for i in n.ins[base:]]
        if any(o is None or o not in params for o in own) or not own or len(set(own)) != len(own):
            return None
        if any(u is not n and (not u.params or k < u.params[0]) for o in own for u, k in uses[o]):
            return None
        if len({tensors[o].requires_grad for o in own}) > 1 or any(
            k < base for o in own for u, k in uses[o] if u is n
        ):
            return None
        return own

    plan = {}
    for n in rec.nodes:
        own = ownable(n)
        if own is None:
            continue
        sharing = {id(u): u for o in own for u, _ in uses[o] if u is not n}
        if all(
            ownable(u) is not None
            and tensors[ownable(u)[0]].shape == tensors[own[0]].shape
            and (ownable(u) == own or (own[0] == ownable(u)[0] and (len(own) == 1 or len(ownable(u)) == 1)))
            for u in sharing.values()
        ):
            plan[id(n)] = own
    text = []
    position = {}
    name_param = {}

    def declare(i):
        if i.own in name_param:
            return name_param[i.own]
        t = tensors[i.own]
        label = params.get(i.own) or rec.buffers[i.own]
        label = re.sub(r"[^A-Za-z0-9_./]", "_", label)
        while label in rec.taken:
            label += "_"
        rec.taken.add(label)
        name_param[i.own] = label
        kind = "parameter" if i.own in params else "buffer"
        extra = (f" dtype={DTYPES[t.dtype]}" if t.dtype is not torch.float32 else "") + (
            " frozen=1" if kind == "parameter" and not t.requires_grad else ""
        )
        text.append(f"{kind} {label} shape={shape_text(t.shape)}{extra}")
        return label

    kept = {t.untyped_storage()._cdata for t in list(tensors.values()) + list(rec.inputs.values())}
    places = {}
    for n in rec.nodes:  # what a custom op keeps and nothing else does
        if not n.custom:
            continue
        start, storages, why = n.custom
        others = {ref.cdata for ref, at in rec.packed if at != start} | kept
        for ref, size in storages:
            if ref.cdata not in others:
                n.keys["saved"] += size
                kept.add(ref.cdata)
        places.setdefault(why, []).append(n)
    for why, nodes in places.items():
        saved, workspace = (sum(n.keys[k] for n in nodes) for k in ("saved", "workspace"))
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        rec.note(
            f"custom {nodes[0].outs[0]}{more}: {why}; {saved} bytes kept for backward (by saved-tensor hooks), {workspace} taken on "
            f"the way and again in backward (storages of the aten operations below it); as in fp32, also with --amp and --dtype"
        )

    last = {}
    for k, n in enumerate(rec.nodes):
        for i in n.ins:
            if i.name:
                last[i.name] = k
        for o in n.outs:
            last[o] = k
    drops = {}
    for k, n in enumerate(rec.nodes):
        for o in n.outs:
            d = rec.dead.get(o)
            if d is not None and d - 1 > last[o]:
                drops.setdefault(d - 1, []).append(o)
    first_owner = {}
    for k, n in enumerate(rec.nodes):
        keys = dict(n.keys)
        ins = []
        own = plan.get(id(n))
        base = n.params[0] if n.params else 0
        for j, i in enumerate(n.ins):
            if own and j >= base:
                continue
            ins.append(i.name or declare(i))
        if n.params:
            given = n.params[1]
            if own:
                if own[0] in first_owner:
                    keys["weights"] = first_owner[own[0]]
                else:
                    first_owner[own[0]] = n.outs[0]
                if not tensors[own[0]].requires_grad:
                    keys["frozen"] = 1
            norm = n.op.endswith("_norm")
            if norm and not given[0]:
                if n.op == "instance_norm":
                    pass
                elif n.op in ("batch_norm", "group_norm"):
                    keys["affine"] = 0
                else:
                    keys["elementwise_affine"] = 0
            elif n.op == "instance_norm" and own:
                keys["affine"] = 1
            elif len(given) > 1 and not given[1] and own and not (n.op in ("batch_norm", "group_norm")):
                keys["bias"] = 0
            if n.op in ("batch_norm", "group_norm") and own and given[0] and not given[1]:
                rec.note(f"{n.op} with a weight and no bias")
        text.append(" ".join([n.op, ",".join(n.outs)] + ins + [f"{a}={b}" for a, b in keys.items()]))
        if k in drops:
            text.append("drop " + " ".join(drops[k]))
    used = set(name_param) | {o for v in plan.values() for o in v} | rec.params_in_modules
    head = [f"# {comment}" for comment in comment.split("\n")] + [
        f"model {re.sub(r'[^A-Za-z0-9_.]', '_', name)}"
    ]
    for n, t in rec.inputs.items():
        head.append(
            f"input {n} {DTYPES[t.dtype]} {shape_text(t.shape)}" + (" grad=1" if t.requires_grad else "")
        )
    unused = [n for o, n in params.items() if o not in used]
    if unused:
        rec.note(
            f"{len(unused)} parameters are not used: {', '.join(unused[:3])}{', ...' if len(unused) > 3 else ''}"
        )
    for o in params:
        if o not in used:
            declare(Ref(own=o))
    counted = {
        n.removesuffix("running_mean") + "num_batches_tracked"
        for o, n in rec.buffers.items()
        if o in rec.stats
    }
    for o, n in rec.buffers.items():
        if o not in name_param and o not in rec.stats and n not in counted:
            declare(Ref(own=o))
    return "\n".join(head + text + ["output " + " ".join(rec.outputs + sorted(rec.kept))]) + "\n"


def to_fake_device(module, inputs):
    """the inputs, moved; parameters and buffers of the module are replaced, shared ones once"""
    new = {}

    def moved(t):
        if t.device.type == fake_device and isinstance(t, FakeTensor):
            return t
        if id(t) not in new:
            made = torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=fake_device)
            made = nn.Parameter(made, t.requires_grad) if isinstance(t, nn.Parameter) else made
            new[id(t)] = made, t  # keeps t, so that its id stays its own
        return new[id(t)][0]

    for m in module.modules():
        for owned in (m._parameters, m._buffers):
            owned.update({k: moved(t) for k, t in owned.items() if t is not None})
        if isinstance(m, nn.RNNBase):
            m._flat_weights = [getattr(m, n) for n in m._flat_weights_names]
    return {k: t.detach().to(fake_device).requires_grad_(t.requires_grad) for k, t in inputs.items()}


@contextlib.contextmanager
def autocast(device, dtype):
    """torch.autocast, also on a device that is only pretended; dtype None: none"""
    before = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    torch.set_autocast_enabled(device, dtype is not None)
    torch.set_autocast_dtype(device, dtype or before[1])
    torch.autocast_increment_nesting()
    try:
        yield
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()
        torch.set_autocast_enabled(device, before[0])
        torch.set_autocast_dtype(device, before[1])


def one_text(loaded, sizes):
    """the text for these sizes, and notes"""
    module, forward, inputs = loaded.module, loaded.forward, loaded.make_inputs(**sizes)
    if fake_device:
        inputs = to_fake_device(module, inputs)
    answers = Answers()
    with torch.enable_grad() if module.training else torch.no_grad(), answers:
        with torch.backends.cudnn.flags(enabled=not fake_device):
            forward(**inputs)  # what a module keeps from its first pass is there before the step
        rec = run(module, forward, inputs)
        amp = run(module, forward, inputs, torch.bfloat16)
    for n in amp.notes + answers.notes:
        rec.note(n)
    rec = resolve_conversions(rec, amp)
    return write(rec, loaded.name, loaded.comment), rec.notes


NUMBER = re.compile(r"(?<![A-Za-z0-9_.])-?\d+(?![A-Za-z0-9_.])")


class NotProportional(Exception):
    pass


def monomial(values, dims):
    """a number that was values[0] in the first text and values[k] with dim k doubled or so: as a product"""
    text, rest = [], values[0]
    for v, (name, a, b) in zip(values[1:], dims):
        power = 0
        while v != values[0] * b**power // a**power:
            power += 1
            if power > 3:
                raise NotProportional(name)
        if values[0] * b**power % a**power:
            raise NotProportional(name)
        text += [(name, a)] * power
    for _, a in text:
        if rest % a:  # 64 tokens and N = 128: N/2
            return (
                "*".join(n for n, _ in text) + f"/{math.prod(a for _, a in text) // values[0]}"
                if (math.prod(a for _, a in text) % values[0] == 0)
                else fail_monomial(text[0][0])
            )
        rest //= a
    return "*".join(n for n, _ in text) + (f"*{rest}" if rest != 1 else "")


def bound(values, dims):
    """measured bytes as a product: the same at the defaults, and not less when a dim grows"""
    text, product = [], 1
    for v, (name, a, b) in zip(values[1:], dims):
        power = 0
        while values[0] * b**power < v * a**power:
            power += 1
        text += [name] * power
        product *= a**power
    return "*".join(text + [str(-(-values[0] // product))])


def fail_monomial(name):
    raise NotProportional(name)


def merge(texts, dims, defaults={}):
    """One text with dims for numbers that follow them. texts[0]: all dims at their default, texts[k]:
    dim k - 1 at another value. dims: name, default, other value."""
    lines = [t.split("\n") for t in texts]
    if len({len(t) for t in lines}) > 1:
        raise NotProportional("the number of operations")
    out = []
    for row in zip(*lines):
        if len(set(row)) == 1 or row[0].startswith("#"):
            out.append(row[0])
            continue
        parts = [NUMBER.split(r) for r in row]
        if any(p != parts[0] for p in parts[1:]):
            raise NotProportional("the operation " + row[0].split(" ")[0])
        numbers = list(zip(*[[int(v) for v in NUMBER.findall(r)] for r in row]))
        bounds = row[0].startswith("custom ")
        words = [
            (
                str(v[0])
                if len(set(v)) == 1
                else (
                    bound(v, dims)
                    if bounds and re.search("(saved|workspace)=$", before)
                    else monomial(v, dims)
                )
            )
            for v, before in zip(numbers, parts[0])
        ]
        out.append("".join(a + b for a, b in zip(parts[0], words + [""])))
    at = next(i for i, l in enumerate(out) if l.startswith("model ")) + 1
    out.insert(at, "dim " + " ".join(f"{n}={defaults.get(n, a)}" for n, a, _ in dims))
    return "\n".join(out)


def condensed(notes):
    """notes that differ in numbers alone (layers of a kind) as one"""
    kinds = {}
    for n in notes:
        kinds.setdefault(re.sub(r"\d+", "0", n), []).append(n)
    return [k[0] + (f" (and {len(k) - 1} more like this)" if len(k) > 1 else "") for k in kinds.values()]


def export(loaded):
    """The text form of a Loaded, and notes on what it cannot say. make_inputs is called with every dim at its
    default, and with each at twice that, to see which numbers follow it."""
    default = dict(loaded.dims)
    one = lambda **sizes: one_text(loaded, {**default, **sizes})
    dims = [(n, a, 2 * a) for n, a in loaded.dims]
    text, notes = one()
    while dims:
        try:
            return merge([text] + [one(**{n: b})[0] for n, _, b in dims], dims, dict(loaded.dims)), [
                *loaded.notes,
                *condensed(notes),
            ]
        except NotProportional as e:
            n, a, b = gone = next((d for d in dims if d[0] == str(e)), dims[-1])
            if a == 1:  # axes of one element are left out of some copies and sums
                default[n], dims[dims.index(gone)] = 2, (n, 2, 4)
                text, notes = one()
                notes.append(f"{n}=1 runs other operations; the text is that of {n}=2 and more")
                continue
            notes.append(f"{n} stays a number: {e} does not follow it as a product")
            dims.remove(gone)
    return text, [*loaded.notes, *condensed(notes)]


# ---- where models come from


@dataclasses.dataclass
class Loaded:
    """a module with what it takes to run it: forward(**make_inputs(N=2)) is one forward pass, in training up to the loss"""

    module: nn.Module
    make_inputs: typing.Callable  # a size for each dim -> dict name -> tensor on the CPU
    forward: typing.Callable  # takes these tensors by name
    name: str = "model"
    dims: tuple = (("N", 2),)  # name and default of each dim, the batch first
    comment: str = ""
    notes: tuple = ()  # what the user should know of how it was loaded


fake_device = None  # inside without_memory(): where modules and inputs are moved before they run


@contextlib.contextmanager
def without_memory(device="cuda"):
    """where tensors have shapes and no storage: modules of any size load and run, as on a GPU of compute capability 9.0"""
    global fake_device
    before, fake_device = fake_device, device
    capability, torch.cuda.get_device_capability = torch.cuda.get_device_capability, lambda device=None: (
        9,
        0,
    )
    try:
        with FakeTensorMode(allow_non_fake_inputs=True), without_initial_values():
            yield
    finally:
        fake_device, torch.cuda.get_device_capability = before, capability


@contextlib.contextmanager
def without_initial_values():
    """the functions of torch.nn.init leave tensors as they are: pages that nobody writes take no memory"""
    init = torch.nn.init
    names = [
        n for n in vars(init) if n.endswith("_") and not n.startswith("__") and callable(getattr(init, n))
    ]
    saved = {n: getattr(init, n) for n in names}
    try:
        for n in names:
            setattr(init, n, lambda tensor, *args, **kwargs: tensor)
        yield
    finally:
        for n, f in saved.items():
            setattr(init, n, f)


def built(make):
    """a module without memory; with real tensors where its constructor looks at values"""
    try:
        return make()
    except (DataDependentOutputException, DynamicOutputShapeException, RuntimeError, NotImplementedError):
        with unset_fake_temporarily():
            return make()


def package(name, source):
    try:
        return importlib.import_module(name)
    except ImportError as e:
        raise Problem(f"{source} needs the Python package {name}: pip install {name} ({e})")


def version(package):
    return package.__version__.split("+")[0]


def unknown(what, name, names):
    near = difflib.get_close_matches(name, names, 5, 0.5)
    return Problem(f"{what} {name!r}" + (f"; the closest: {', '.join(near)}" if near else ""))


def image_loss(out, target):
    """cross entropy as these models are trained: of every output with its own weight"""
    if isinstance(out, dict):  # torchvision's segmentation
        loss = F.cross_entropy(out["out"], target)
        return loss + 0.5 * F.cross_entropy(out["aux"], target) if "aux" in out else loss
    if isinstance(out, (tuple, list)):  # auxiliary heads
        loss = F.cross_entropy(out[0], target)
        for o in out[1:]:
            loss = loss + 0.3 * F.cross_entropy(o, target)
        return loss
    return F.cross_entropy(out, target)


def image_model(module, shape, o, dense=False):
    """a module that takes images; dense: a class for every pixel"""

    def inputs(N=2):
        made = {"x": torch.zeros(N, *shape)}
        if o.train:
            made["target"] = torch.zeros(N, *(shape[-2:] if dense else []), dtype=torch.long)
        return made

    def forward(x, target=None):
        out = module(x)
        if target is not None:
            return image_loss(out, target)
        return out["out"] if isinstance(out, dict) else out

    return module, inputs, forward, {"N": 2}


def from_torchvision(name, o):
    models = package("torchvision", f"torchvision:{name}").models
    if name not in models.list_models():
        raise unknown("torchvision has no model", name, models.list_models())
    takes = inspect.signature(models.get_model_builder(name)).parameters
    options = {k: None for k in ("weights", "weights_backbone") if k in takes} | o.options
    with named_arguments(f"torchvision:{name}"):
        module = built(lambda: models.get_model(name, **options))
    kind = type(module).__module__.split(".")[2]
    if kind in ("detection", "optical_flow"):
        raise Problem(
            f"torchvision:{name}: its shapes depend on what is in the images; write a function in a file for its backbone"
        )
    crop = getattr(models.get_model_weights(name).DEFAULT.transforms(), "crop_size", [224])
    crop = [getattr(module, "image_size", None) or crop[0]]
    side = [o.size or crop[0]] * 2
    shape = [3] + ([o.frames] if kind == "video" else []) + side
    return image_model(module, shape, o, kind == "segmentation"), f"torchvision.models.{name}", "torchvision"


def from_timm(name, o):
    timm = package("timm", f"timm:{name}")
    if not timm.is_model(name):
        raise unknown("timm has no model", name, timm.list_models())
    with named_arguments(f"timm:{name}"):
        module = built(lambda: timm.create_model(name, pretrained=False, **o.options))
    shape = list(module.pretrained_cfg["input_size"])
    if o.size:
        shape[1:] = [o.size] * 2
    return image_model(module, shape, o), f"timm.create_model({name!r})", "timm"


# transformers: tables of its auto classes, in the order in which a model without `architectures` gets its class
HF_CLASSES = """SEQ_TO_SEQ_CAUSAL_LM SPEECH_SEQ_2_SEQ MASKED_LM CAUSAL_LM IMAGE_CLASSIFICATION AUDIO_CLASSIFICATION VIDEO_CLASSIFICATION
SEMANTIC_SEGMENTATION CTC""".split()
# what is at the end of a class's name -> its labels: name -> shape
HF_LABELS = {
    "SemanticSegmentation": {"labels": "N H W"},
    "DepthEstimation": {},
    "Classification": {"labels": "N"},
    "TokenClassification": {"labels": "N S"},
    "QuestionAnswering": {"start_positions": "N", "end_positions": "N"},
    "MultipleChoice": {"labels": "N"},
    "NextSentencePrediction": {"labels": "N"},
    "ForCTC": {"labels": "N 16"},
    "": {"labels": "N T"},
}
# a training step keeps no keys and values; no layers are skipped at random
HF_SETTINGS = {
    "use_cache": False,
    "layerdrop": 0.0,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "use_pretrained_backbone": False,  # sizes do not depend on what was learned
}
HF_DETECTION = ("ObjectDetection", "InstanceSegmentation", "UniversalSegmentation")


NOT_LOOKED_UP = "not looked up in the network"


@contextlib.contextmanager
def offline():
    """nothing is looked up in the network: a configuration is a file of somebody else"""
    settings = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    before = {k: os.environ.get(k) for k in settings}
    kept = socket.getaddrinfo, socket.socket.connect

    def refused(*args, **options):
        raise OSError(NOT_LOOKED_UP)

    def connect(self, address):
        return kept[1](self, address) if isinstance(address, (str, bytes)) else refused()

    os.environ.update(settings)
    socket.getaddrinfo, socket.socket.connect = refused, connect
    try:
        yield
    finally:
        socket.getaddrinfo, socket.socket.connect = kept
        for k, v in before.items():
            os.environ.pop(k, None) if v is None else os.environ.update({k: v})


def elsewhere(path, e):
    """raises a Problem if that is why: the configuration names a model of the hub"""
    if isinstance(e, OSError) or NOT_LOOKED_UP in str(e):
        raise Problem(f"{path} names what is not in it, and nothing is looked up in the network: {one_line(e)}")


def hf_class(tf, config, path, names):
    """the class that the configuration names, or the one with a loss that fits its model_type best"""
    if not isinstance(names or [], list) or not all(isinstance(n, str) for n in names or []):
        raise Problem(f"{path}: architectures must be a list of names, found {names!r}")
    for n in names or []:
        found = getattr(tf, n, None)
        if isinstance(found, type) and issubclass(found, tf.PreTrainedModel):
            return found
        if found is not None:
            raise Problem(f"{path}: architectures has {n!r}, which is no model of transformers")
    tables = importlib.import_module("transformers.models.auto.modeling_auto")
    for kind in [f"MODEL_FOR_{k}_MAPPING_NAMES" for k in HF_CLASSES] + ["MODEL_MAPPING_NAMES"]:
        n = getattr(tables, kind, {}).get(config.model_type)
        if n:
            return getattr(tf, n if isinstance(n, str) else n[0])
    raise Problem(f"{path}: transformers {version(tf)} has no model for model_type {config.model_type!r}")


def hf_config(tf, path, options):
    path = os.path.join(path, "config.json") if os.path.isdir(path) else path
    try:
        with open(path) as f:
            fields = json.load(f)
    except OSError as e:
        raise Problem(f"{path}: {e.strerror}; expected the config.json of a transformers model")
    except ValueError as e:
        raise Problem(f"{path}: not JSON: {e}")
    if not isinstance(fields, dict) or not isinstance(fields.get("model_type"), str):
        raise Problem(
            f"{path}: no field model_type, which says what the other fields mean (a config.json of transformers has it)"
        )
    fields |= options
    kind = fields.pop("model_type")
    known = importlib.import_module("transformers.models.auto.configuration_auto").CONFIG_MAPPING_NAMES
    if kind not in known:
        raise unknown(f"{path}: transformers {version(tf)} has no model_type", kind, known)
    for k in ("torch_dtype", "dtype", "quantization_config", "auto_map"):
        fields.pop(k, None)  # the dtype is chosen when the model is estimated
    try:
        config = tf.AutoConfig.for_model(kind, **fields)
    except Exception as e:
        elsewhere(path, e)
        raise Problem(f"{path}: {one_line(e)}")
    for key, value in HF_SETTINGS.items():
        if hasattr(config, key):
            setattr(config, key, value)
    return config, fields


def hf_defaults(path, config, fields):
    """notes on sizes that the file leaves to transformers: its writer may have meant another model"""
    text = config.get_text_config()
    inner = [v for v in fields.values() if isinstance(v, dict)]
    absent = [
        f"{n}={getattr(text, n)}"
        for n in ("hidden_size", "num_hidden_layers", "vocab_size")
        if hasattr(text, n) and not any({n, text.attribute_map.get(n)} & d.keys() for d in [fields, *inner])
    ]
    return [f"{path} does not say {', '.join(absent)}: defaults of transformers"] if absent else []


def hf_inputs(module, config, o):
    """dims, and the function that makes the inputs, from what the module's forward takes"""
    takes, main, cls = (
        inspect.signature(module.forward).parameters,
        module.main_input_name,
        type(module).__name__,
    )
    text = config.get_text_config()
    vision = getattr(config, "vision_config", config)
    limits = [getattr(text, k, None) for k in ("max_position_embeddings", "n_positions")]
    longest = min([v for v in limits if isinstance(v, int) and v > 0], default=o.seq)
    if text.model_type in ("roberta", "camembert", "xlm-roberta"):
        longest -= 2
    decoder = "decoder_input_ids" in takes and main != "decoder_input_ids" and bool(config.is_encoder_decoder)
    dims = {"N": 2}
    if "input_ids" in takes:
        dims["S"] = min(o.seq, longest)
    if decoder:
        dims["T"] = min(o.target_seq or o.seq, getattr(config, "max_target_positions", None) or longest)
    side = o.size or getattr(vision, "image_size", None) or 224
    side = list(side) if isinstance(side, (tuple, list)) else [side] * 2
    tokens = lambda *shape: torch.zeros(*shape, dtype=torch.long)

    def pixels(N):
        frames = [vision.num_frames] if "Video" in cls or hasattr(vision, "num_frames") else []
        return torch.zeros(N, *frames, getattr(vision, "num_channels", 3), *side)

    def features(N):
        if hasattr(config, "num_mel_bins") and hasattr(config, "max_source_positions"):
            return torch.zeros(N, config.num_mel_bins, 2 * config.max_source_positions)
        return torch.zeros(
            N,
            o.seq,
            getattr(config, "input_feat_per_channel", getattr(config, "feature_projection_input_dim", 80)),
        )

    def values(N):
        if hasattr(config, "max_length") and hasattr(config, "num_mel_bins"):
            return torch.zeros(N, config.max_length, config.num_mel_bins)
        return torch.zeros(N, o.samples)

    makers = {"pixel_values": pixels, "input_features": features, "input_values": values}

    def inputs(N=2, S=dims.get("S"), T=dims.get("T")):
        size = dict(N=N, S=S, T=T or S, H=side[0], W=side[1])
        made = {}
        for k in takes:
            if k == "input_ids":
                made[k] = tokens(N, 4, S) if cls.endswith("MultipleChoice") else tokens(N, S)
            elif k == "decoder_input_ids" and decoder:
                made[k] = tokens(N, T)
            elif k in makers:
                made[k] = makers[k](N)
        if o.train:
            labels = next(
                v
                for k, v in HF_LABELS.items()
                if cls.endswith(k) and (k != "Classification" or "Token" not in cls)
            )
            made |= {
                k: tokens(*(size.get(d) or int(d) for d in s.split()))
                for k, s in labels.items()
                if k in takes
            }
        if not made:
            raise Problem(
                f"inputs of transformers.{cls} are not known here ({main}); write a function in a file that makes them"
            )
        return made

    return dims, inputs


def from_hf(path, o):
    with offline():
        return from_config(path, o)


def from_config(path, o):
    tf = package("transformers", f"hf:{path}")
    config, fields = hf_config(tf, path, o.options)
    names = fields.get("architectures")
    without_values(importlib.import_module("transformers.masking_utils"))
    cls = hf_class(tf, config, path, names)
    if o.train and cls.__name__.endswith(HF_DETECTION):
        raise Problem(
            f"{path}: the loss of {cls.__name__} depends on what is in the images; --eval, or write a function in a file"
        )
    for attention in dict.fromkeys((o.attn, "eager")):
        config._attn_implementation = attention
        try:
            module = built(lambda: cls(config))
            break
        except ValueError as e:
            if attention == "eager" or "attention" not in str(e):
                raise Problem(f"{path}: {cls.__name__}: {one_line(e)}")
        except ImportError as e:
            raise Problem(f"{path}: {one_line(e)}")
        except Exception as e:
            elsewhere(path, e)
            raise
    dims, inputs = hf_inputs(module, config, o)
    more = (
        {"return_loss": True}
        if o.train and "return_loss" in inspect.signature(module.forward).parameters
        else {}
    )

    def forward(**inputs):
        out = module(**inputs, **more)
        if o.train and out.get("loss") is not None:
            return out.loss
        first = (
            out.logits if "logits" in out else next(v for v in out.values() if isinstance(v, torch.Tensor))
        )
        return first.float().mean() if o.train else first  # a model without a loss of its own

    return (
        (module, inputs, forward, dims),
        f"transformers.{cls.__name__}, attention {attention}",
        "transformers",
        *hf_defaults(path, config, fields),
    )


def without_values(masks):
    """lets transformers make its masks without looking at values: as if no sequences were packed and no mask hid anything"""
    if hasattr(masks, "vram_original"):
        return
    masks.vram_original = masks.find_packed_sequence_indices, masks.is_tracing, masks.fast_all

    def find_packed_sequence_indices(position_ids):
        if not isinstance(position_ids, FakeTensor):
            return masks.vram_original[0](position_ids)
        steps = torch.diff(position_ids, prepend=position_ids[:, :1] - 1, dim=-1)
        packed = (steps != 1).cumsum(-1)
        (packed[:, -1] == 0).all()

    def fast_all(t):
        all_of_them = masks.vram_original[2](t)
        return True if isinstance(t, FakeTensor) else all_of_them

    masks.find_packed_sequence_indices, masks.fast_all = find_packed_sequence_indices, fast_all
    masks.is_tracing = lambda t=None: not isinstance(t, FakeTensor) and masks.vram_original[1](t)


@contextlib.contextmanager
def named_arguments(source):
    """a constructor that does not take what --set gives, or that fails with it"""
    try:
        yield
    except (TypeError, ValueError, AssertionError, ImportError) as e:
        raise Problem(f"{source}: {one_line(e)}")


def from_file(path, name, o):
    if not os.path.isfile(path):
        raise Problem(f"{path}: no such file")
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    file = importlib.util.module_from_spec(spec)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    sys.modules[spec.name] = file
    try:
        spec.loader.exec_module(file)
    except Exception as e:
        raise Problem(f"{path}: {one_line(e)}{place(e)}")
    function = getattr(file, name, None)
    if not callable(function):
        functions = [k for k, v in vars(file).items() if inspect.isfunction(v) and v.__module__ == spec.name]
        raise Problem(f"{path}: no function {name!r} (found {', '.join(functions) or 'none'})")
    try:
        result = built(lambda: function(**o.options))
    except Exception as e:
        raise Problem(f"{path}:{name}: {one_line(e)}{place(e)}")
    made = result if isinstance(result, tuple) else (result,)
    if len(made) not in (2, 3) or not isinstance(made[0], nn.Module):
        found = (
            "(" + ", ".join("Tensor" if isinstance(v, torch.Tensor) else type(v).__name__ for v in made) + ")"
            if isinstance(result, tuple)
            else type(result).__name__
        )
        raise Problem(
            f"{path}:{name} must return (module, inputs) or (module, inputs, forward), the first a torch.nn.Module; found {found}"
        )
    module, first, forward = made + ((made[0],) if len(made) == 2 else ())
    takes = inspect.signature(module.forward if forward is module else forward).parameters
    if not isinstance(first, dict):
        first = dict(zip(takes, first if isinstance(first, (tuple, list)) else (first,)))
    for k, v in first.items():
        if not isinstance(v, torch.Tensor):
            raise Problem(f"{path}:{name}: input {k} must be a tensor, found {type(v).__name__}")
    if (
        forward is not module and not o.train
    ):  # the loss is training's: the module alone, with what it takes itself
        forward, takes = module, inspect.signature(module.forward).parameters
        first = {k: v for k, v in first.items() if k in takes}
    try:
        inspect.signature(module.forward if forward is module else forward).bind(**first)
    except TypeError as e:
        raise Problem(
            f"{path}:{name}: the inputs ({', '.join(first)}) are not what forward takes ({', '.join(takes)}): {e}"
        )
    batch = next((t.shape[0] for t in first.values() if t.dim()), 1)

    def inputs(N=batch):
        grown = lambda t: (
            torch.cat([t] * -(-N // batch))[:N] if t.dim() and t.shape[0] == batch else t.clone()
        )
        return {k: grown(t.detach()).requires_grad_(t.requires_grad) for k, t in first.items()}

    return (module, inputs, forward, {"N": batch}), f"{os.path.basename(path)}:{name}", "torch"


SOURCES = {"torchvision": from_torchvision, "timm": from_timm, "hf": from_hf}


def load(
    source,
    train=True,
    batch=None,
    seq=128,
    size=None,
    frames=16,
    attn="sdpa",
    target_seq=None,
    samples=16000,
    options={},
):
    """What source names, as a Loaded; raises Problem where that fails. Inside without_memory() it takes none. The arguments are
    the options of the command; options: what --set gives."""
    o = argparse.Namespace(
        train=train,
        seq=seq,
        size=size,
        frames=frames,
        attn=attn,
        target_seq=target_seq,
        samples=samples,
        options=options,
    )
    kind, _, rest = source.partition(":")
    path, _, function = source.rpartition(":")
    if kind in SOURCES and rest:
        made, comment, made_by, *notes = SOURCES[kind](rest, o)
        name = os.path.basename(rest.rstrip("/")).removesuffix(".json")
    elif path.endswith(".py") and function:
        made, comment, made_by, *notes = from_file(path, function, o)
        name = function
    else:
        raise Problem(
            f"{source!r} names no model; expected torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION"
        )
    module, inputs, forward, dims = made
    module.train(train)
    if batch:
        dims["N"] = batch
    by = [f"{p} {version(sys.modules[p])}" for p in dict.fromkeys((made_by, "torch"))]
    mode = "train" if train else "eval"
    return Loaded(
        module,
        inputs,
        forward,
        name,
        tuple(dims.items()),
        f"{comment}; {', '.join(by)}, {mode} mode",
        tuple(notes),
    )


# ---- the command


def setting(text):
    """NAME=VALUE of --set, the value as Python writes it, or a string"""
    name, equal, value = text.partition("=")
    if not equal or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def count(text):
    if not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text!r}")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Problem(f"{message} (-h lists the options)")


def command_line():
    a = Parser(
        description=__doc__.split("\n\n")[0],
        epilog="examples:\n" + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    a.add_argument("source", help="torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION")
    a.add_argument("-o", metavar="FILE", help="where the text goes (default: standard output)")
    a.add_argument(
        "--eval", action="store_true", help="the module in evaluation mode, without loss and gradients"
    )
    a.add_argument(
        "--set",
        type=setting,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the constructor or of FUNCTION, a field of the configuration; may be given more than once",
    )
    a.add_argument(
        "--batch",
        type=count,
        metavar="N",
        help="the default of dim N (default: 2, or what FUNCTION's inputs have)",
    )
    a.add_argument(
        "--seq", type=count, default=128, metavar="S", help="hf: tokens, the default of dim S (default: 128)"
    )
    a.add_argument(
        "--target-seq",
        type=count,
        metavar="T",
        help="hf: tokens of the decoder, the default of dim T (default: as --seq)",
    )
    a.add_argument("--size", type=count, help="images: pixels a side (default: the model's own)")
    a.add_argument("--frames", type=count, default=16, help="torchvision's videos: frames (default: 16)")
    a.add_argument("--samples", type=count, default=16000, help="hf, audio: samples (default: 16000)")
    a.add_argument(
        "--attn",
        default="sdpa",
        choices=["sdpa", "eager"],
        help="hf: how attention is written (default: sdpa)",
    )
    a.add_argument(
        "--real",
        action="store_true",
        help="run with real tensors on the CPU (default: tensors without memory)",
    )
    a.add_argument("--debug", action="store_true", help="a traceback where it fails")
    return a


def loaded_text(o, real):
    with contextlib.nullcontext() if real else without_memory():
        return export(
            load(
                o.source,
                not o.eval,
                o.batch,
                o.seq,
                o.size,
                o.frames,
                o.attn,
                o.target_seq,
                o.samples,
                dict(o.set),
            )
        )


def command(o):
    folder = os.path.dirname(o.o or "") or "."
    if o.o and (os.path.isdir(o.o) or not os.access(o.o if os.path.exists(o.o) else folder, os.W_OK)):
        raise Problem(f"{o.o}: cannot be written")
    try:
        text, notes = loaded_text(o, o.real)
    except DynamicOutputShapeException as e:
        raise Problem(
            f"{o.source}: a shape depends on data{place(e)}; give the size there as a number, or write a function that returns the part "
            "of the module without it"
        )
    except DataDependentOutputException as e:
        text, notes = loaded_text(o, True)
        notes.insert(
            0,
            f"the program looks at values{place(e)}; run with real tensors, the text is what these values lead to",
        )
    for n in notes:
        print("note:", n, file=sys.stderr)
    if not o.o:
        sys.stdout.write(text)
        return
    try:
        with open(o.o, "w") as f:
            f.write(text)
    except OSError as e:
        raise Problem(f"{o.o}: {e.strerror}")


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # export_torch.py ... | head
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    source = None
    try:
        o = command_line().parse_args()
        source = o.source
        command(o)
    except Exception as e:
        if "--debug" in sys.argv:
            raise
        sys.exit(
            print(
                "export_torch:",
                e if isinstance(e, Problem) else f"{source}: {one_line(e)}{place(e)}",
                file=sys.stderr,
            )
            or 2
        )


if __name__ == "__main__":
    main()
