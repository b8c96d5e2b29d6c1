"""Ops of the text form with all their keys as calls of PyTorch: what measure_op.py runs in place of what measure_text.py knows.

CALLS has a function for each op; it gets a Line, which holds the tensors and the keys of one line of a text.
"""

import torch, torch.nn as nn, torch.nn.functional as F

DTYPES = {
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "bool": torch.bool,
}
CALLS = {}


class Line:
    """program: measure_text.Prog, which keeps parameters (P) and buffers (B) from run to run"""

    def __init__(self, program, op, outs, inputs, keys, train):
        self.program, self.op, self.outs, self.inputs, self.keys, self.train = (
            program,
            op,
            outs,
            inputs,
            keys,
            train,
        )
        self.x, self.name = inputs[0] if inputs else None, outs[0]
        self.weights, self.trainable = keys.get("weights", outs[0]), self.flag("frozen", 0) == 0

    def size(self, key, default=None):
        return self.program.I(self.keys, key, default)

    def sizes(self, key, default=None):
        return self.program.L(self.keys, key, default)

    def flag(self, key, default):
        return bool(self.size(key, default))

    def number(self, key, default):
        return float(self.keys.get(key, default))

    def dtype(self, default=None):
        return DTYPES[self.keys["dtype"]] if "dtype" in self.keys else default

    def axes(self, key, count, default):
        """a value for each of `count` axes, of which the text may say one"""
        v = self.sizes(key, [default])
        return list(v) * count if len(v) == 1 else list(v)

    def one_or_more(self, key, default=None):
        v = self.sizes(key, default)
        return v[0] if v is not None and len(v) == 1 else v

    def param(self, role, shape):
        return self.program.par(f"{self.weights}.{role}", list(shape), self.trainable)

    def buffer(self, role, shape, dtype=torch.float32):
        return self.program.buf(f"{self.weights}.{role}", list(shape), dtype)

    def module(self, make):
        """the module of this line, or of the line whose weights it has"""
        if self.weights not in self.program.P:
            self.program.P[self.weights] = make().cuda().requires_grad_(self.trainable)
        return self.program.P[self.weights]


def call(*names):
    def keep(f):
        CALLS.update((n, f) for n in names)
        return f

    return keep


@call("conv1d", "conv2d", "conv3d")
def conv(l):
    x, n, g = l.x, int(l.op[4]), l.size("groups", 1)
    kernel = l.axes("kernel_size", n, 1)
    if len(l.inputs) == 1:
        w = l.param("w", [l.size("out_channels"), x.shape[-n - 1] // g] + kernel)
        b = l.param("b", [l.size("out_channels")]) if l.flag("bias", 1) else None
    else:
        w, b = l.inputs[1], l.inputs[2] if len(l.inputs) > 2 else None
    stride, dilation, padding = l.axes("stride", n, 1), l.axes("dilation", n, 1), l.keys.get("padding", "0")
    mode = l.keys.get("padding_mode", "zeros")
    if padding not in ("same", "valid"):
        padding = l.axes("padding", n, 0)
    if mode != "zeros":  # as torch.nn's modules do
        if padding == "same":
            total = [d * (k - 1) for d, k in zip(dilation, kernel)]
            pad = [z for t in reversed(total) for z in (t // 2, t - t // 2)]
        else:
            pad = [] if padding == "valid" else [z for p in reversed(padding) for z in (p, p)]
        x, padding = F.pad(x, pad or [0] * 2 * n, mode=mode), [0] * n
    return getattr(F, l.op)(x, w, b, stride, padding, dilation, g)


@call("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def conv_transpose(l):
    x, n, g = l.x, int(l.op[14]), l.size("groups", 1)
    if len(l.inputs) == 1:
        w = l.param("w", [x.shape[-n - 1], l.size("out_channels") // g] + l.axes("kernel_size", n, 1))
        b = l.param("b", [l.size("out_channels")]) if l.flag("bias", 1) else None
    else:
        w, b = l.inputs[1], l.inputs[2] if len(l.inputs) > 2 else None
    padding, more = l.axes("padding", n, 0), l.axes("output_padding", n, 0)
    return getattr(F, l.op)(x, w, b, l.axes("stride", n, 1), padding, more, g, l.axes("dilation", n, 1))


@call("autocast")
def autocast(l):
    """`autocast off`, `bf16` or `fp16` and `autocast on` around what a module runs otherwise than it is run"""
    word = l.name.split("[")[0]  # of a loop's round: off[0]
    if word != "on":
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(word)
        l.program.plain = torch.autocast("cuda", dtype=dtype, enabled=word != "off")
        l.program.plain.__enter__()
    else:
        l.program.plain.__exit__(None, None, None)
        if not torch.is_autocast_enabled(
            "cuda"
        ):  # a context of the script's that is off is not the program's
            torch.clear_autocast_cache()


@call("embedding")
def embedding(l):
    w = (
        l.inputs[1]
        if len(l.inputs) > 1
        else l.param("w", [l.size("num_embeddings"), l.size("embedding_dim")])
    )
    return F.embedding(l.x, w, l.size("padding_idx"), scale_grad_by_freq=l.flag("scale_grad_by_freq", 0))


@call("embedding_bag")
def embedding_bag(l):
    w = next((v for v in l.inputs[1:] if v.dim() == 2), None)
    offsets = next((v for v in l.inputs[1:] if v.dim() == 1), None)
    if w is None:
        w = l.param("w", [l.size("num_embeddings"), l.size("embedding_dim")])
    return F.embedding_bag(
        l.x, w, offsets, mode=l.keys.get("mode", "mean"), padding_idx=l.size("padding_idx")
    )


@call("batch_norm")
def batch_norm(l):
    c = l.x.shape[1] if l.x.dim() > 1 else 1
    w = b = mean = var = None
    if len(l.inputs) > 1:
        w, b = l.inputs[1], l.inputs[2] if len(l.inputs) > 2 else None
    elif l.flag("affine", 1):
        w, b = l.param("w", [c]), l.param("b", [c])
    if l.flag("track_running_stats", 1):
        mean, var = l.buffer("rm", [c]), l.buffer("rv", [c])
        l.buffer("n", [], torch.int64)
    training = (l.train and l.flag("training", 1)) or mean is None
    return F.batch_norm(l.x, mean, var, w, b, training=training)


@call("instance_norm")
def instance_norm(l):
    c = l.x.shape[1] if l.x.dim() > 1 else 1
    w = b = mean = var = None
    if l.flag("affine", 0):
        w, b = l.param("w", [c]), l.param("b", [c])
    if l.flag("track_running_stats", 0):
        mean, var = l.buffer("rm", [c]), l.buffer("rv", [c])
        l.buffer("n", [], torch.int64)
    return F.instance_norm(l.x, mean, var, w, b, l.train or mean is None)


@call("rms_norm")
def rms_norm(l):
    shape = l.sizes("normalized_shape")
    w = l.inputs[1] if len(l.inputs) > 1 else l.param("w", shape) if l.flag("elementwise_affine", 1) else None
    return F.rms_norm(l.x, shape, w)


@call("local_response_norm")
def local_response_norm(l):
    return F.local_response_norm(
        l.x, l.size("size"), l.number("alpha", 1e-4), l.number("beta", 0.75), l.number("k", 1)
    )


@call("lstm", "gru", "rnn")
def recurrent(l):
    keys = {}
    if l.op == "rnn":
        keys["nonlinearity"] = l.keys.get("nonlinearity", "tanh")
    if "proj_size" in l.keys:
        keys["proj_size"] = l.size("proj_size")
    make = lambda: getattr(nn, l.op.upper())(
        l.x.shape[-1],
        l.size("hidden_size"),
        l.size("num_layers", 1),
        bias=l.flag("bias", 1),
        batch_first=l.flag("batch_first", 0),
        dropout=l.number("dropout", 0),
        bidirectional=l.flag("bidirectional", 0),
        **keys,
    )
    state = l.inputs[1:]
    y, h = l.module(make).train(l.train)(l.x, *([tuple(state)] if l.op == "lstm" and state else state))
    return [y, *h] if l.op == "lstm" else [y, h]


@call("lstm_cell", "gru_cell", "rnn_cell")
def recurrent_cell(l):
    keys = {"nonlinearity": l.keys.get("nonlinearity", "tanh")} if l.op == "rnn_cell" else {}
    kind = {"lstm_cell": nn.LSTMCell, "gru_cell": nn.GRUCell, "rnn_cell": nn.RNNCell}[l.op]
    state = l.inputs[1:]
    if len(state) > 2:  # the function below the module, with weights that were computed
        states = 2 if l.op == "lstm_cell" else 1
        name = f"rnn_{keys['nonlinearity']}_cell" if keys else l.op
        y = getattr(torch, name)(l.x, tuple(state[:2]) if states == 2 else state[0], *state[states:])
        return list(y) if states == 2 else y
    cell = l.module(lambda: kind(l.x.shape[-1], l.size("hidden_size"), l.flag("bias", 1), **keys))
    y = cell(l.x, *([tuple(state)] if l.op == "lstm_cell" and state else state))
    return list(y) if l.op == "lstm_cell" else y


@call("multi_head_attention")
def multi_head_attention(l):
    make = lambda: nn.MultiheadAttention(
        l.x.shape[-1],
        l.size("num_heads"),
        l.number("dropout", 0),
        l.flag("bias", 1),
        l.flag("add_bias_kv", 0),
        l.flag("add_zero_attn", 0),
        l.size("kdim"),
        l.size("vdim"),
        l.flag("batch_first", 0),
    )
    mask = l.inputs[3] if len(l.inputs) > 3 else None
    y = l.module(make).train(l.train)(
        *l.inputs[:3],
        need_weights=l.flag("need_weights", 1),
        attn_mask=mask,
        is_causal=l.flag("is_causal", 0),
    )
    return list(y)


@call("transformer_encoder_layer")
def transformer_encoder_layer(l):
    make = lambda: nn.TransformerEncoderLayer(
        l.x.shape[-1],
        l.size("num_heads"),
        l.size("dim_feedforward", 2048),
        l.number("dropout", 0.1),
        l.keys.get("activation", "relu"),
        batch_first=l.flag("batch_first", 0),
        norm_first=l.flag("norm_first", 0),
        bias=l.flag("bias", 1),
    )
    return l.module(make).train(l.train)(*l.inputs, is_causal=l.flag("is_causal", 0))


@call("scaled_dot_product_attention")
def attention(l):
    keys = dict(dropout_p=l.number("dropout_p", 0) if l.train else 0.0, is_causal=l.flag("is_causal", 0))
    if l.flag("enable_gqa", 0):
        keys["enable_gqa"] = True
    backends = dict(
        math="MATH", efficient="EFFICIENT_ATTENTION", flash="FLASH_ATTENTION", cudnn="CUDNN_ATTENTION"
    )
    if "backend" not in l.keys:
        return F.scaled_dot_product_attention(*l.inputs, **keys)
    with nn.attention.sdpa_kernel(getattr(nn.attention.SDPBackend, backends[l.keys["backend"]])):
        return F.scaled_dot_product_attention(*l.inputs, **keys)


@call("bilinear")
def bilinear(l):
    a, b = l.inputs
    bias = l.param("b", [l.size("out_features")]) if l.flag("bias", 1) else None
    return F.bilinear(a, b, l.param("w", [l.size("out_features"), a.shape[-1], b.shape[-1]]), bias)


@call("prelu")
def prelu(l):
    return F.prelu(l.x, l.inputs[1] if len(l.inputs) > 1 else l.param("w", [l.size("num_parameters", 1)]))


@call("addmm", "baddbmm")
def addmm(l):
    return getattr(torch, l.op)(*l.inputs, alpha=l.number("alpha", 1), beta=l.number("beta", 1))


@call("max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d")
def pool(l):
    keys = dict(kernel_size=l.one_or_more("kernel_size"), stride=l.one_or_more("stride"))
    keys.update(padding=l.one_or_more("padding", [0]), ceil_mode=l.flag("ceil_mode", 0))
    if l.op.startswith("max"):
        keys.update(dilation=l.one_or_more("dilation", [1]))
        keys.update(return_indices=l.flag("return_indices", 0) or len(l.outs) > 1)
    else:
        keys.update(count_include_pad=l.flag("count_include_pad", 1))
        if "divisor_override" in l.keys:
            keys.update(divisor_override=l.size("divisor_override"))
    return getattr(F, l.op)(l.x, **keys)


@call("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")
def adaptive_avg_pool(l):
    return getattr(F, l.op)(l.x, l.axes("output_size", int(l.op[-2]), 1))


@call("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def adaptive_max_pool(l):
    both = l.flag("return_indices", 0) or len(l.outs) > 1
    return getattr(F, l.op)(l.x, l.axes("output_size", int(l.op[-2]), 1), return_indices=both)


@call("lp_pool1d", "lp_pool2d", "lp_pool3d")
def lp_pool(l):
    kernel, stride = l.one_or_more("kernel_size"), l.one_or_more("stride")
    return getattr(F, l.op)(l.x, l.number("norm_type", 2), kernel, stride, l.flag("ceil_mode", 0))


@call("fractional_max_pool2d", "fractional_max_pool3d")
def fractional_max_pool(l):
    n = int(l.op[-2])
    keys = dict(
        kernel_size=l.axes("kernel_size", n, 1), return_indices=l.flag("return_indices", 0) or len(l.outs) > 1
    )
    if "output_size" in l.keys:
        keys["output_size"] = l.axes("output_size", n, 1)
    else:
        ratio = [float(z) for z in l.keys["output_ratio"].split(",")]
        keys["output_ratio"] = ratio * n if len(ratio) == 1 else ratio
    return getattr(F, l.op)(l.x, **keys)


@call("max_unpool1d", "max_unpool2d", "max_unpool3d")
def max_unpool(l):
    n = int(l.op[-2])
    stride = l.axes("stride", n, 1) if "stride" in l.keys else None
    size = l.sizes("output_size") if "output_size" in l.keys else None
    return getattr(F, l.op)(*l.inputs, l.axes("kernel_size", n, 1), stride, l.axes("padding", n, 0), size)


@call("interpolate")
def interpolate(l):
    n, keys = l.x.dim() - 2, dict(mode=l.keys.get("mode", "nearest"))
    if "size" in l.keys:
        keys["size"] = l.axes("size", n, 1)
    else:
        factor = [float(z) for z in l.keys["scale_factor"].split(",")]
        keys["scale_factor"] = factor[0] if len(factor) == 1 else factor
    if "align_corners" in l.keys:
        keys["align_corners"] = l.flag("align_corners", 0)
    if "antialias" in l.keys:
        keys["antialias"] = l.flag("antialias", 0)
    return F.interpolate(l.x, **keys)


@call("pixel_unshuffle")
def pixel_unshuffle(l):
    return F.pixel_unshuffle(l.x, l.size("downscale_factor"))


@call("grid_sample")
def grid_sample(l):
    mode, padding = l.keys.get("mode", "bilinear"), l.keys.get("padding_mode", "zeros")
    return F.grid_sample(*l.inputs, mode=mode, padding_mode=padding, align_corners=l.flag("align_corners", 0))


@call("unfold")
def unfold(l):
    keys = [l.axes(k, 2, d) for k, d in (("kernel_size", 1), ("dilation", 1), ("padding", 0), ("stride", 1))]
    return F.unfold(l.x, *keys)


@call("pad")
def pad(l):
    keys = {"value": l.number("value", 0)} if "value" in l.keys else {}
    return F.pad(l.x, l.sizes("pad"), mode=l.keys.get("mode", "constant"), **keys)


@call("rrelu")
def rrelu(l):
    return F.rrelu(l.x, l.number("lower", 1 / 8), l.number("upper", 1 / 3), l.train, l.flag("inplace", 0))


@call("hardtanh")
def hardtanh(l):
    return F.hardtanh(l.x, l.number("min_val", -1), l.number("max_val", 1), l.flag("inplace", 0))


@call("leaky_relu")
def leaky_relu(l):
    return F.leaky_relu(l.x, l.number("negative_slope", 0.01), l.flag("inplace", 0))


@call("elu", "celu")
def elu(l):
    return getattr(F, l.op)(l.x, l.number("alpha", 1), l.flag("inplace", 0))


@call("gelu")
def gelu(l):
    return F.gelu(l.x, approximate=l.keys.get("approximate", "none"))


@call("threshold")
def threshold(l):
    return F.threshold(l.x, l.number("threshold", 0), l.number("value", 0), l.flag("inplace", 0))


@call("softshrink", "hardshrink")
def shrink(l):
    return getattr(F, l.op)(l.x, l.number("lambd", 0.5))


@call("softplus")
def softplus(l):
    return F.softplus(l.x, l.number("beta", 1), l.number("threshold", 20))


@call("softmin")
def softmin(l):
    return F.softmin(l.x, dim=l.size("dim"), dtype=l.dtype())


@call("gumbel_softmax")
def gumbel_softmax(l):
    return F.gumbel_softmax(l.x, l.number("tau", 1), l.flag("hard", 0), dim=l.size("dim", -1))


@call("clamp")
def clamp(l):
    kind = float if l.x.is_floating_point() else lambda text: int(float(text))
    keys = {k: kind(l.keys[k]) for k in ("min", "max") if k in l.keys} or dict(max=3)
    return getattr(torch, "clamp_" if l.flag("inplace", 0) else "clamp")(l.x, **keys)


@call("rpow")
def rpow(l):
    return 2.5**l.x


@call("clamp_tensor")
def clamp_tensor(l):
    return torch.clamp(*l.inputs)


@call("add", "sub", "mul", "div", "pow", "floor_divide", "maximum", "minimum", "remainder")
def arithmetic(l):
    number = 3.0 if l.x.is_floating_point() or l.op == "pow" else 3
    other, keys = l.inputs[1] if len(l.inputs) > 1 else number, {}
    if "alpha" in l.keys:
        keys["alpha"] = l.number("alpha", 1) if l.x.is_floating_point() else int(l.number("alpha", 1))
    if "rounding_mode" in l.keys:
        keys["rounding_mode"] = l.keys["rounding_mode"]
    if l.flag("inplace", 0):
        return getattr(l.x, l.op + "_")(other, **keys)
    return getattr(torch, l.op)(l.x, other, **keys)


@call("eq", "ne", "lt", "le", "gt", "ge")
def compare(l):
    return getattr(torch, l.op)(l.x, l.inputs[1] if len(l.inputs) > 1 else 3)


@call("logical_and", "logical_or", "logical_not")
def logical(l):
    return getattr(torch, l.op)(*l.inputs)


@call("lerp")
def lerp(l):
    third = l.inputs[2] if len(l.inputs) > 2 else 0.5
    return l.x.lerp_(l.inputs[1], third) if l.flag("inplace", 0) else torch.lerp(l.x, l.inputs[1], third)


@call("addcmul")
def addcmul(l):
    return l.x.addcmul_(*l.inputs[1:]) if l.flag("inplace", 0) else torch.addcmul(*l.inputs)


@call("softmax", "log_softmax")
def softmax(l):
    dtype = l.inputs[1].dtype if len(l.inputs) > 1 else l.dtype() if "dtype" in l.keys else None
    return getattr(F, l.op)(l.x, dim=l.size("dim"), dtype=dtype)


@call("to")
def to(l):
    if not l.flag("autocast", 0):
        return l.x.to(l.dtype())
    return l.x.to(torch.get_autocast_dtype("cuda")) if torch.is_autocast_enabled("cuda") else l.x


@call("var", "std")
def var(l):
    keys = dict(correction=l.size("correction", 1 if l.flag("unbiased", 1) else 0))
    return getattr(torch, l.op)(l.x, dim=l.sizes("dim"), keepdim=l.flag("keepdim", 0), **keys)


@call("sum", "mean", "nansum", "prod")
def total(l):
    keys = dict(dtype=l.dtype()) if "dtype" in l.keys else {}
    if "dim" in l.keys:
        keys.update(
            dim=l.one_or_more("dim") if l.op == "prod" else l.sizes("dim"), keepdim=l.flag("keepdim", 0)
        )
    return getattr(torch, l.op)(l.x, **keys)


@call("amax", "amin", "logsumexp")
def along(l):
    keys = dict(dim=l.sizes("dim"), keepdim=l.flag("keepdim", 0)) if "dim" in l.keys else {}
    return getattr(torch, l.op)(l.x, **keys)


@call("norm")
def norm(l):
    return torch.linalg.vector_norm(
        l.x, l.number("p", 2), dim=l.sizes("dim"), keepdim=l.flag("keepdim", 0), dtype=l.dtype()
    )


@call("renorm")
def renorm(l):
    return torch.renorm(l.x, l.number("p", 2), l.size("dim"), 1.0)


@call("max", "min")
def most(l):
    if "dim" not in l.keys:
        return getattr(torch, l.op)(l.x)
    return list(getattr(torch, l.op)(l.x, l.size("dim"), l.flag("keepdim", 0)))


@call("argmax", "argmin")
def argmost(l):
    return getattr(torch, l.op)(l.x, l.size("dim"), l.flag("keepdim", 0))


@call("cumsum")
def cumsum(l):
    return torch.cumsum(l.x, l.size("dim"), dtype=l.dtype())


@call("histc")
def histc(l):
    bins = l.size("bins", 100)
    return torch.histc(l.x, bins, l.number("min", 0), l.number("max", bins - 1))


@call("topk")
def topk(l):
    return list(torch.topk(l.x, l.size("k"), l.size("dim", -1), l.flag("largest", 1), l.flag("sorted", 1)))


@call("sort")
def sort(l):
    keys = dict(stable=True) if l.flag("stable", 0) else {}
    return list(torch.sort(l.x, dim=l.size("dim", -1), descending=l.flag("descending", 0), **keys))


@call("index_put")
def index_put(l):
    at = (slice(None),) * l.size("dim", 0) + tuple(l.inputs[1:-1])
    if l.flag("inplace", 0) and not l.flag("accumulate", 0):
        l.x[at] = l.inputs[-1]
        return l.x
    put = l.x.index_put_ if l.flag("inplace", 0) else l.x.index_put
    return put(tuple(l.inputs[1:-1]), l.inputs[-1], l.flag("accumulate", 0))


@call("index_fill")
def index_fill(l):
    fill = l.x.index_fill_ if l.flag("inplace", 0) else l.x.index_fill
    return fill(l.size("dim"), l.inputs[1], 1)


@call("weight_norm")
def weight_norm(l):
    return torch._weight_norm(*l.inputs, l.size("dim", 0))


@call("tensor_unfold")
def tensor_unfold(l):
    return l.x.unfold(l.size("dimension"), l.size("size"), l.size("step"))


@call("scatter")
def scatter(l):
    put = l.x.scatter_ if l.flag("inplace", 0) else l.x.scatter
    if len(l.inputs) > 2:
        return put(l.size("dim"), l.inputs[1], l.inputs[2])
    return put(l.size("dim"), l.inputs[1], 1.0 if l.x.is_floating_point() else 1)


@call("one_hot")
def one_hot(l):
    return F.one_hot(l.x, l.size("num_classes"))


@call("masked_select")
def masked_select(l):
    return torch.masked_select(*l.inputs)


@call("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool")
def regions(l):
    import torchvision

    return getattr(torchvision.ops, l.op)(*l.inputs, l.axes("output_size", 2, 1))


@call("deform_conv2d")
def deform_conv2d(l):
    import torchvision

    x, offset, weight, *more = l.inputs
    bias = next((t for t in more if t.dim() == 1), None)
    mask = next((t for t in more if t.dim() == 4), None)
    window = [l.axes(k, 2, d) for k, d in (("stride", 1), ("padding", 0), ("dilation", 1))]
    return torchvision.ops.deform_conv2d(x, offset, weight, bias, *window, mask)


@call("nms")
def nms(l):
    import torchvision

    return torchvision.ops.nms(*l.inputs, 0.5)


@call("nonzero")
def nonzero(l):
    return torch.nonzero(l.x)


@call("randperm")
def randperm(l):
    return torch.randperm(l.sizes("shape")[0], dtype=l.dtype(torch.int64), device="cuda")


@call("bincount")
def bincount(l):
    return torch.bincount(*l.inputs, minlength=l.size("bins"))


@call("unique")
def unique(l):
    return torch.unique(l.x, return_inverse=len(l.outs) > 1)


@call("diff")
def diff(l):
    return torch.diff(l.x, dim=l.size("dim", -1), prepend=l.inputs[1] if len(l.inputs) > 1 else None)


@call("roll")
def roll(l):
    return torch.roll(l.x, l.one_or_more("shifts"), l.one_or_more("dims") if "dims" in l.keys else None)


@call("repeat_interleave")
def repeat_interleave(l):
    return torch.repeat_interleave(l.x, l.size("repeats"), l.size("dim"))


@call("tile")
def tile(l):
    return torch.tile(l.x, l.sizes("dims"))


@call("tril", "triu")
def triangle(l):
    return getattr(torch, l.op)(l.x, l.size("diagonal", 0))


@call("squeeze")
def squeeze(l):
    return l.x.squeeze(tuple(l.sizes("dim"))) if "dim" in l.keys else l.x.squeeze()


@call("zeros", "ones", "full", "rand", "randn", "empty", "arange")
def create(l):
    shape = l.sizes("shape")
    dtype = l.dtype(l.x.dtype if l.inputs else torch.float32)
    if shape is None:
        return torch.full_like(l.x, 0) if l.op == "full" else getattr(torch, l.op + "_like")(l.x)
    if l.op == "full":
        return torch.full(shape, 0, dtype=dtype, device="cuda")
    return getattr(torch, l.op)(shape[0] if l.op == "arange" else shape, dtype=dtype, device="cuda")


@call("fft", "rfft", "irfft")
def transform(l):
    """a real tensor's whole spectrum is what torch.fft.fft gives of it"""
    name = "fft" if l.op == "rfft" and not l.flag("onesided", 1) else l.op
    dim, size = l.sizes("dim"), l.sizes("size")
    if len(dim or size or [0]) > 1:
        return getattr(torch.fft, name + "n")(l.x, size, dim)
    return getattr(torch.fft, name)(l.x, size and size[0], dim[0] if dim else -1)


@call("as_strided")
def as_strided(l):
    return l.x.as_strided(l.sizes("size"), l.sizes("stride"), l.size("storage_offset"))


@call("sign")
def sign(l):
    return l.x.sign_() if l.flag("inplace", 0) else torch.sign(l.x)


@call("parameter")
def parameter(l):
    if l.name not in l.program.P:
        w = torch.empty(l.sizes("shape"), dtype=l.dtype(torch.float32), device="cuda")
        l.program.P[l.name] = nn.Parameter(w, requires_grad=l.trainable)
    return l.program.P[l.name]


def class_target(x):
    return torch.zeros(x.shape[:1] * (x.dim() > 1) + x.shape[2:], dtype=torch.int64, device="cuda")


@call("cross_entropy", "nll_loss")
def class_loss(l):
    target = l.inputs[1] if len(l.inputs) > 1 else class_target(l.x)
    keys = {k: l.size(k) for k in ("ignore_index",) if k in l.keys}
    if "label_smoothing" in l.keys:
        keys["label_smoothing"] = l.number("label_smoothing", 0)
    if len(l.inputs) > 2:
        keys["weight"] = l.inputs[2]
    return getattr(F, l.op)(l.x, target, reduction=l.keys.get("reduction", "mean"), **keys)


@call("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div")
@call("binary_cross_entropy_with_logits")
def loss(l):
    target = l.inputs[1] if len(l.inputs) > 1 else torch.zeros_like(l.x)
    keys = {k: l.number(k, 1) for k in ("beta", "delta") if k in l.keys}
    if "log_target" in l.keys:
        keys["log_target"] = l.flag("log_target", 0)
    weights = l.inputs[2:]
    if l.flag("pos_weight", 0):
        keys["pos_weight"] = weights.pop()
    if weights:
        keys["weight"] = weights[0]
    return getattr(F, l.op)(l.x, target, reduction=l.keys.get("reduction", "mean"), **keys)


@call("cosine_embedding_loss")
def cosine_embedding_loss(l):
    other = l.inputs[1] if len(l.inputs) > 1 else torch.zeros_like(l.x)
    target = l.inputs[2] if len(l.inputs) > 2 else torch.ones(l.x.shape[:-1], dtype=l.x.dtype, device="cuda")
    return F.cosine_embedding_loss(
        l.x, other, target, l.number("margin", 0), reduction=l.keys.get("reduction", "mean")
    )


@call("hinge_embedding_loss", "soft_margin_loss", "poisson_nll_loss")
def element_loss(l):
    target = l.inputs[1] if len(l.inputs) > 1 else torch.zeros_like(l.x)
    keys = {k: l.number(k, 1) for k in ("margin",) if k in l.keys}
    keys.update((k, l.flag(k, 0)) for k in ("log_input", "full") if k in l.keys)
    return getattr(F, l.op)(l.x, target, reduction=l.keys.get("reduction", "mean"), **keys)


@call("margin_ranking_loss")
def margin_ranking_loss(l):
    others = [l.inputs[i] if len(l.inputs) > i else torch.zeros_like(l.x) for i in (1, 2)]
    return F.margin_ranking_loss(
        l.x, *others, l.number("margin", 0), reduction=l.keys.get("reduction", "mean")
    )


@call("multi_margin_loss", "multilabel_margin_loss")
def margin_loss_of_classes(l):
    shape = l.x.shape if l.op[5] == "l" else l.x.shape[:-1]
    target = l.inputs[1] if len(l.inputs) > 1 else torch.zeros(shape, dtype=torch.int64, device="cuda")
    keys = {"weight": l.inputs[2]} if len(l.inputs) > 2 else {}
    if "p" in l.keys:
        keys["p"] = int(l.number("p", 1))
    return getattr(F, l.op)(l.x, target, reduction=l.keys.get("reduction", "mean"), **keys)


@call("triplet_margin_loss")
def triplet_margin_loss(l):
    others = [l.inputs[i] if len(l.inputs) > i else torch.zeros_like(l.x) for i in (1, 2)]
    keys = dict(margin=l.number("margin", 1), p=l.number("p", 2), swap=l.flag("swap", 0))
    return F.triplet_margin_loss(l.x, *others, reduction=l.keys.get("reduction", "mean"), **keys)


@call("cholesky", "inv", "solve", "eigh", "qr", "slogdet")
def linalg(l):
    return getattr(torch.linalg, l.op)(*l.inputs)


@call("solve_triangular")
def solve_triangular(l):
    return torch.linalg.solve_triangular(*l.inputs, upper=True, left=l.flag("left", 1))


@call("svd")
def svd(l):
    return torch.linalg.svd(l.x, l.flag("full_matrices", 1))


@call("var_mean", "std_mean", "aminmax", "kthvalue", "mode", "median", "count_nonzero")
def selected(l):
    keys = {"correction": l.size("correction", 1)} if l.op.endswith("_mean") else {}
    if "dim" in l.keys:
        keys.update(dim=l.size("dim"))
    if "keepdim" in l.keys:
        keys.update(keepdim=l.flag("keepdim", 0))
    if l.op == "kthvalue":
        keys.update(k=l.size("k"))
    return getattr(torch, l.op)(l.x, **keys)


@call("bucketize", "searchsorted")
def search(l):
    return getattr(torch, l.op)(*l.inputs, out_int32=l.keys.get("dtype") == "i32")


@call("cross")
def cross(l):
    return torch.linalg.cross(*torch.broadcast_tensors(*l.inputs), dim=l.size("dim", -1))


@call("diag")
def diag(l):
    return torch.diag(l.x, l.size("diagonal", 0))


@call("block_diag")
def block_diag(l):
    return torch.block_diag(*l.inputs)


@call("xlog1py", "entr")
def special(l):
    return getattr(torch.special, l.op)(*l.inputs)
