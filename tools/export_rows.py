"""What the exporter knows of ops: how torch's functions are called, and what the rows of `vram list ops --json` say."""

import dataclasses, functools, json, os, sys, traceback

import torch

import export_command
from export_options import Problem


class Dtypes(dict):
    def __missing__(self, dtype):
        raise Problem(f"{dtype}: the text form has no such dtype")


DTYPES = Dtypes(
    {
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
)
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
BYTES = "saved", "workspace", "backward_workspace", "unseen"  # measured, of a custom line
OWNED = {"weight": 1, "bias": 2}  # position of an op's parameters among its inputs


def progress(text=""):
    """what is being done, on a terminal, in the place of what was said before; nothing: that line is gone"""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:100]}", end="", file=sys.stderr, flush=True)


class NoWord(Exception):
    """what a line of the text form cannot say: the call becomes the lines of its parts, or a `custom` line"""


def one_line(e):
    """an exception in one line"""
    text = " ".join(str(e).split())
    return f"{type(e).__name__}: {text[:300]}" if text else type(e).__name__


def place(e):
    """where it was raised, in the last line that is neither PyTorch's nor ours"""
    ours = os.path.join(os.path.dirname(os.path.realpath(__file__)), "export_")
    inside = os.path.dirname(os.path.realpath(torch.__file__)) + os.sep, ours
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
    return ",".join(str(int(a)) for a in (v if isinstance(v, (tuple, list, range, torch.Size)) else [v]))


def own_autocast():
    """what the program has done about autocast by itself: "off", a dtype, None: nothing"""
    nesting = torch.autocast_increment_nesting() - 1
    torch.autocast_decrement_nesting()
    if nesting < 2:  # that of the run itself
        return None
    on = next((d for d in ("cuda", "cpu") if torch.is_autocast_enabled(d)), None)
    return {torch.float16: "fp16"}.get(t := torch.get_autocast_dtype(on), DTYPES[t]) if on else "off"


class Ref:
    """an input of a node: a value by name, or a parameter or buffer of the module"""

    def __init__(self, name=None, own=None):
        self.name, self.own = name, own


class Node:
    def __init__(self, op, outs, ins, keys, params=None):
        self.op, self.outs, self.ins, self.keys, self.params = op, outs, ins, keys, params
        self.custom = None  # of a custom op: what to note
        self.bytes = ()  # of one with known bytes: what they are in 32 bits or more, in 16 bits, under autocast
        self.held = 0  # of a checkpoint: the last ones of `ins` that its function only refers to
        self.no_grad = not torch.is_grad_enabled()
        self.autocast = own_autocast()
        self.reads = ()  # names whose dtype the program read before (for `to`)
        self.stats = ()  # ids of tensors of the module that it has beside its inputs
        self.result = None  # the dtype of what it gives


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
flip x *dims
permute x *dims
unflatten x dim sizes
tensor_split x sections dim
repeat_interleave x repeats dim output_size
scatter x dim index src
index_add index_add_ | x dim index source
index_put index_put_ | x indices values accumulate
sum mean prod nansum nanmean | x dim keepdim dtype
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
upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_nearest_exact1d upsample_nearest_exact2d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d | x size scales
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
hinge_embedding_loss x target margin reduction
margin_ranking_loss x1 x2 target margin reduction
poisson_nll_loss x target log_input full eps reduction
soft_margin_loss multilabel_margin_loss | x target reduction
multi_margin_loss x target p margin weight reduction
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
    try:
        status, out, err = export_command.run(["list", "ops", "--json"])
    except OSError as e:
        raise Problem(
            f"{export_command.tool()}: {e.strerror}; it has the table of ops: make vram, or set VRAM to the command"
        )
    try:
        ops = json.loads(out) if status == 0 else None
    except ValueError:
        ops = None
    if not ops:
        raise Problem(
            f"{export_command.tool()} list ops --json: {' '.join(err.split()) or 'no table'}; is it of another version?"
        )
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
    """size dim numel stride is_contiguous data_ptr storage_offset item tolist is_floating_point is_complex ndimension nelement element_size get_device __len__ __bool__ __int__ __float__ __index__ __repr__ __format__ __hash__
__contains__ untyped_storage is_same_size allclose equal is_nonzero type is_pinned retain_grad register_hook is_inference _is_view is_set_to __deepcopy__ has_names is_tensor is_cuda result_type promote_types can_cast
_assert _assert_async _is_zerotensor is_neg is_conj dim_order is_autocast_enabled __reduce_ex__ __setstate__ sym_size __array__ share_memory_ is_shared numpy cpu cudnn_is_acceptable broadcast_shapes _has_compatible_shallow_copy_type is_signed""".split()
)
SAME_OR_COPY = {"to", "type", "type_as", "contiguous", *CONVERT}
LOSS_REDUCTION = {0: "none", 1: "mean", 2: "sum"}
