"""Small modules with quantised layers (bitsandbytes, transformers) and adapters (peft): each function gives a module and its inputs."""

import torch, torch.nn as nn, torch.nn.functional as F, bitsandbytes as bnb
from peft import LoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers.integrations import finegrained_fp8
from transformers.pytorch_utils import Conv1D

BF16 = torch.bfloat16


class Net(nn.Module):
    def __init__(self, first, layer):
        super().__init__()
        self.first, self.layers = first, nn.ModuleList([layer])

    def forward(self, x):
        x = self.first(x)
        for layer in self.layers:
            x = layer(x)
        return x.sum()


def quantised(i, o, bits, bias, double, compute, dtype, threshold, train_bias):
    plain = nn.Linear(i, o, bias=bias, dtype=dtype)
    kind = dict(compress_statistics=double, quant_type="nf4")
    if bits == 4:
        m = bnb.nn.Linear4bit(i, o, bias=bias, compute_dtype=compute, **kind)
        m.weight = bnb.nn.Params4bit(plain.weight.data, requires_grad=False, **kind)
    else:
        m = bnb.nn.Linear8bitLt(i, o, bias=bias, has_fp16_weights=False, threshold=threshold)
        m.weight = bnb.nn.Int8Params(plain.weight.data, requires_grad=False, has_fp16_weights=False)
    if bias:
        m.bias = nn.Parameter(plain.bias.data.float(), requires_grad=train_bias)
    return m


def net(
    i=128,
    o=256,
    shape=(2, 64),
    lora=None,
    bits=4,
    bias=False,
    double=True,
    compute=BF16,
    dtype=BF16,
    threshold=0.0,
    train_bias=False,
    conv1d=False,
):
    """bits 0: not quantised"""
    torch.manual_seed(0)
    layer = (
        quantised(i, o, bits, bias, double, compute, dtype, threshold, train_bias)
        if bits
        else Conv1D(o, i) if conv1d else nn.Linear(i, o, bias=bias)
    )
    m = Net(nn.Linear(i, i), layer)
    if lora is not None:
        m.is_loaded_in_4bit, m.is_loaded_in_8bit = bits == 4, bits == 8
        if lora.get("use_dora") and bits:
            m.cuda()  # DoRA asks for the weight at once
        m = get_peft_model(m, LoraConfig(**{"r": 4, "lora_alpha": 8, "target_modules": ["layers.0"], **lora}))
        for n, p in m.named_parameters():
            if "first" in n and not {"bias", "modules_to_save"} & set(lora):
                p.requires_grad = True
    return m.train(), dict(x=torch.randn(*shape, i))


class Triton:
    """the kernel of kernels-community/finegrained-fp8: it allocates its result and nothing else"""

    @staticmethod
    def matmul(x, weight, scales, block, dtype, activation_scale=None):
        assert x.is_contiguous()
        return x.new_empty(*x.shape[:-1], weight.shape[0], dtype=dtype)


def fp8_net(i=128, o=256, shape=(2, 64), lora=None, bias=False):
    torch.manual_seed(0)
    finegrained_fp8.load_finegrained_fp8_kernel = lambda: Triton
    layer = finegrained_fp8.FP8Linear(i, o, block_size=(128, 128), has_bias=bias)
    if bias:
        layer.bias.data = layer.bias.data.to(BF16)
    layer.requires_grad_(False)
    m = Net(nn.Linear(i, i, dtype=BF16), layer)
    if lora is not None:
        m = get_peft_model(m, LoraConfig(**{"r": 4, "lora_alpha": 8, "target_modules": ["layers.0"], **lora}))
        for n, p in m.named_parameters():
            if "first" in n:
                p.requires_grad = True
    return m.train(), dict(x=torch.randn(*shape, i, dtype=BF16))


class Gated(nn.Module):
    """two int8 layers of one input and one behind them, in a checkpoint if that is wanted"""

    def __init__(self, threshold, again):
        super().__init__()
        self.again, self.first = again, nn.Linear(704, 704)
        sizes = dict(gate=(704, 128), up=(704, 128), down=(128, 64))
        for name, (i, o) in sizes.items():
            setattr(self, name, quantised(i, o, 8, False, False, None, BF16, threshold, False))

    def part(self, x):
        return self.down(F.relu(self.gate(x)) * self.up(x)) * 2

    def forward(self, x):
        x = self.first(x)
        return (checkpoint(self.part, x, use_reentrant=False) if self.again else self.part(x)).sum()


def int8_gated():
    return Gated(6.0, False).train(), dict(x=torch.randn(2, 128, 704))


def int8_again():
    return Gated(0.0, True).train(), dict(x=torch.randn(2, 128, 704))


F32 = torch.float32
DORA, DROP = dict(use_dora=True), dict(lora_dropout=0.1)
CASES = dict(
    nf4=dict(),
    nf4_single=dict(double=False),
    nf4_bias=dict(bias=True),
    nf4_tbias=dict(bias=True, train_bias=True),
    nf4_f32=dict(compute=F32, dtype=F32),
    nf4_none=dict(compute=None, dtype=F32),
    nf4_mixed=dict(dtype=torch.float16),
    nf4_odd=dict(i=100, o=70),
    nf4_2d=dict(i=192, o=320, shape=(7,)),
    nf4_few=dict(i=512, shape=(1, 5)),
    nf4_many=dict(shape=(2, 1000)),
    nf4_4d=dict(shape=(2, 3, 64)),
    int8=dict(bits=8),
    int8_odd=dict(i=130, o=70, bits=8),
    int8_2d=dict(bits=8, shape=(7,)),
    int8_t=dict(bits=8, threshold=6.0),
    int8_bias=dict(bits=8, bias=True),
    int8_tbias=dict(bits=8, bias=True, train_bias=True),
    int8_one=dict(bits=8, threshold=6.0, shape=(1, 1)),
    lora=dict(bits=0, lora={}),
    lora_bias=dict(bits=0, bias=True, lora={}),
    lora_drop=dict(bits=0, lora=DROP),
    lora_b=dict(bits=0, bias=True, lora=dict(lora_bias=True)),
    dora=dict(bits=0, lora=DORA),
    dora_bias=dict(bits=0, bias=True, lora=DORA),
    dora_drop=dict(bits=0, lora={**DORA, **DROP}),
    conv1d=dict(bits=0, conv1d=True, lora=DROP),
    conv1d_dora=dict(bits=0, conv1d=True, lora=DORA),
    bias_all=dict(bits=0, bias=True, lora=dict(bias="all")),
    save=dict(bits=0, bias=True, lora=dict(modules_to_save=["first"])),
    bias_lora_only=dict(bits=0, bias=True, lora=dict(bias="lora_only")),
    qlora=dict(lora={}),
    qlora_drop=dict(lora=DROP),
    lora_int8=dict(bits=8, lora={}),
    qdora=dict(lora=DORA),
    dora_int8=dict(bits=8, lora=DORA),
)
FP8 = dict(
    fp8=dict(),
    fp8_odd=dict(i=192, o=200, shape=(3, 5)),
    fp8_bias=dict(bias=True),
    fp8_2d=dict(shape=(7,)),
    fp8_lora_drop=dict(lora=DROP),
)
for name, keys in CASES.items():
    globals()[name] = (lambda keys: lambda: net(**keys))(keys)
for name, keys in FP8.items():
    globals()[name] = (lambda keys: lambda: fp8_net(**keys))(keys)
