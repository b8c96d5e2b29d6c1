"""Writes golden.txt: macro expressions of vram.h and the values that PyTorch gives for them.

    python golden_from_torch.py [MEASURED.json] > golden.txt

Parameter counts and output shapes come from torch.nn modules on the meta device. MEASURED.json
holds what autograd kept on a CUDA device (written by saved_on_cuda.py); without it those rows are
left out. Rows marked "document" are published figures, "definition" arithmetic by hand.
"""
import json, sys
import torch
import torch.nn as nn

rows = []


def row(expr, value, source):
    rows.append((expr, int(value), source))


def params(m):
    return sum(p.numel() for p in m.parameters())


def meta(m, *shapes):
    with torch.device("meta"):
        return m()(*[torch.empty(s) for s in shapes])


def net(f):
    with torch.device("meta"):
        return f()


T = "torch.nn, meta device"
D = "definition"

# sizes
for e, v in [
    ("VRAM_KIB(3)", 3072), ("VRAM_MIB(64)", 67108864), ("VRAM_GIB(80)", 85899345920),
    ("VRAM_KB(3)", 3000), ("VRAM_MB(40)", 40000000), ("VRAM_GB(80)", 80000000000),
    ("VRAM_CEIL_DIV(0, 7)", 0), ("VRAM_CEIL_DIV(1, 7)", 1), ("VRAM_CEIL_DIV(7, 7)", 1),
    ("VRAM_CEIL_DIV(8, 7)", 2), ("VRAM_CEIL_DIV(40000, 30000)", 2),
    ("VRAM_ALIGN_UP(0, 512)", 0), ("VRAM_ALIGN_UP(1, 512)", 512), ("VRAM_ALIGN_UP(512, 512)", 512),
    ("VRAM_ALIGN_UP(13, 5)", 15), ("VRAM_ALIGN_DOWN(13, 5)", 10), ("VRAM_ALIGN_DOWN(1023, 512)", 512),
    ("VRAM_MAX(3, 5)", 5), ("VRAM_MAX(5, 3)", 5), ("VRAM_MIN(3, 5)", 3), ("VRAM_MIN(5, 3)", 3),
    ("VRAM_DIM_OK(0)", 0), ("VRAM_DIM_OK(1)", 1), ("VRAM_DIM_OK(4294967295)", 1),
    ("VRAM_DIM_OK(4294967296)", 0),
    ("VRAM_MUL_OK(4294967296, 4294967295)", 1), ("VRAM_MUL_OK(4294967296, 4294967296)", 0),
    ("VRAM_MUL_OK(4294967296, 0)", 1),
    ("VRAM_SHAPE1(7)", 7), ("VRAM_SHAPE2(256, 256)", 65536), ("VRAM_SHAPE3(300, 300, 300)", 27000000),
    ("VRAM_SHAPE4(64, 256, 56, 56)", 51380224), ("VRAM_SHAPE5(8, 64, 100, 100, 100)", 512000000),
]:
    row(e, v, D)

# dtypes: bytes of whole tensors; the full table is compared at run time and by check_dtypes.py
for e, v, s in [
    ("VRAM_BYTES(F32, 1000)", 4000, "torch"), ("VRAM_BYTES(BF16, 3)", 6, "torch"),
    ("VRAM_BYTES(BOOL, 3)", 3, "torch"), ("VRAM_BYTES(C128, 3)", 48, "torch"),
    ("VRAM_BYTES(I4, 3)", 2, "onnx"), ("VRAM_BYTES(I2, 5)", 2, "onnx"), ("VRAM_BYTES(U1, 9)", 2, D),
    ("VRAM_BYTES(F6E2M3, 5)", 4, "onnx: ceil(6 n / 8)"), ("VRAM_BYTES(F6E3M2, 8)", 6, "safetensors"),
    ("VRAM_BYTES(F4E2M1, 8)", 4, "safetensors"), ("VRAM_BYTES(Q4_K, 4096)", 2304, "gguf"),
    ("VRAM_BYTES(Q8_0, 4096)", 4352, "gguf"), ("VRAM_BYTES(MXFP4, 64)", 34, "gguf"),
    ("VRAM_BYTES(NVFP4, 64)", 36, "gguf"), ("VRAM_BYTES(Q1_0, 256)", 36, "gguf"),
    ("VRAM_BYTES(F32, 0)", 0, D), ("VRAM_BYTES(Q4_K, 0)", 0, D),
    ("VRAM_BYTES(F32, 20000000000)", 80000000000, D),
    ("VRAM_ROWS_BYTES(QUINT4X2, 7, 3)", 14, "torch, 7 x 3 tensor"),
    ("VRAM_ROWS_BYTES(QUINT2X4, 7, 3)", 7, "torch, 7 x 3 tensor"),
    ("VRAM_ROWS_BYTES(U4, 7, 3)", 11, "onnx"), ("VRAM_ROWS_BYTES(F16, 7, 3)", 42, "torch"),
    ("VRAM_ROWS_BYTES(Q6_K, 4096, 512)", 1720320, "gguf"),
    ("VRAM_ROW_OK(Q4_K, 512)", 1, D), ("VRAM_ROW_OK(Q4_K, 100)", 0, D), ("VRAM_ROW_OK(F4E2M1, 3)", 0, D),
]:
    row(e, v, s)

# one axis
for i, k, s, p, d in [(224, 7, 2, 3, 1), (56, 3, 1, 1, 1), (20, 3, 2, 2, 2), (50, 5, 2, 0, 1), (5, 5, 1, 0, 1)]:
    o = meta(lambda: nn.Conv1d(1, 1, k, s, p, d), (1, 1, i)).shape[-1]
    row(f"VRAM_CONV_OUT({i}, {k}, {s}, {p}, {d})", o, T)
    row(f"VRAM_CONV_OK({i}, {k}, {p}, {d})", 1, D)
row("VRAM_CONV_OK(4, 5, 0, 1)", 0, D)
row("VRAM_CONV_OK(4, 6, 1, 1)", 1, D)
row("VRAM_CONV_OK(4, 7, 1, 1)", 0, D)
row("VRAM_CONV_OK(2, 6, 1, 1)", 0, D)
row("VRAM_CONV_OUT_SAME(224, 2)", 112, D)
row("VRAM_CONV_OUT_SAME(225, 2)", 113, D)
for i, k, s, p, op, d in [(20, 4, 2, 1, 0, 1), (10, 2, 2, 0, 0, 1), (7, 3, 2, 1, 1, 1), (9, 5, 3, 2, 2, 2)]:
    o = meta(lambda: nn.ConvTranspose1d(1, 1, k, s, p, op, dilation=d), (1, 1, i)).shape[-1]
    row(f"VRAM_CONV_TRANSPOSE_OUT({i}, {k}, {s}, {p}, {op}, {d})", o, T)
for i, k, s, p, d in [(112, 3, 2, 1, 1), (20, 2, 2, 0, 1), (20, 3, 2, 0, 1), (24, 3, 2, 0, 1), (9, 2, 3, 1, 1),
                      (7, 2, 3, 1, 1), (5, 1, 4, 0, 1), (13, 3, 3, 1, 2), (11, 2, 5, 1, 3)]:
    for c in (0, 1):
        o = meta(lambda: nn.MaxPool1d(k, s, p, d, ceil_mode=bool(c)), (1, 1, i)).shape[-1]
        row(f"VRAM_POOL_OUT{'_CEIL' if c else ''}({i}, {k}, {s}, {p}, {d})", o, T)

# outputs
row("VRAM_CONV1D_OUT(4, 24, 50, 5, 2, 0, 1)", meta(lambda: nn.Conv1d(16, 24, 5, 2), (4, 16, 50)).numel(), T)
row("VRAM_CONV2D_OUT(64, 64, 224, 224, 7, 2, 3, 1)", meta(lambda: nn.Conv2d(3, 64, 7, 2, 3), (64, 3, 224, 224)).numel(), T)
row("VRAM_CONV3D_OUT(2, 6, 10, 12, 14, 3, 1, 1, 1)", meta(lambda: nn.Conv3d(8, 6, 3, 1, 1), (2, 8, 10, 12, 14)).numel(), T)
row("VRAM_CONV_TRANSPOSE1D_OUT(4, 6, 10, 2, 2, 0, 0, 1)", meta(lambda: nn.ConvTranspose1d(8, 6, 2, 2), (4, 8, 10)).numel(), T)
row("VRAM_CONV_TRANSPOSE2D_OUT(4, 12, 20, 24, 4, 2, 1, 0, 1)", meta(lambda: nn.ConvTranspose2d(16, 12, 4, 2, 1), (4, 16, 20, 24)).numel(), T)
row("VRAM_CONV_TRANSPOSE3D_OUT(4, 6, 10, 12, 14, 2, 2, 0, 0, 1)", meta(lambda: nn.ConvTranspose3d(8, 6, 2, 2), (4, 8, 10, 12, 14)).numel(), T)
row("VRAM_POOL1D_OUT(4, 16, 50, 2, 2, 0, 1)", meta(lambda: nn.MaxPool1d(2), (4, 16, 50)).numel(), T)
row("VRAM_POOL2D_OUT(64, 64, 112, 112, 3, 2, 1, 1)", meta(lambda: nn.MaxPool2d(3, 2, 1), (64, 64, 112, 112)).numel(), T)
row("VRAM_POOL3D_OUT(2, 8, 10, 12, 14, 2, 2, 0, 1)", meta(lambda: nn.MaxPool3d(2), (2, 8, 10, 12, 14)).numel(), T)
row("VRAM_LINEAR_OUT(148, 1000)", meta(lambda: nn.Linear(96, 1000), (4, 37, 96)).numel(), T)
row("VRAM_BILINEAR_OUT(4, 7)", meta(lambda: nn.Bilinear(12, 13, 7), (4, 12), (4, 13)).numel(), T)
row("VRAM_EMBEDDING_OUT(148, 64)", 148 * 64, D)
row("VRAM_GLU_OUT(15360)", meta(lambda: nn.GLU(1), (4, 8, 20, 24)).numel(), T)
y, (h, c) = meta(lambda: nn.LSTM(96, 32, 2, batch_first=True, bidirectional=True), (4, 37, 96))
row("VRAM_RNN_OUT(4, 37, 32, 2)", y.numel(), T)
row("VRAM_RNN_STATE(4, 32, 2, 2)", h.numel(), T)
row("VRAM_ATTENTION_OUT(4, 4, 64, 32)", 4 * 4 * 64 * 32, D)
row("VRAM_ATTENTION_SCORES(4, 4, 37, 37)", 4 * 4 * 37 * 37, D)

# parameters
for b in (0, 1):
    B = bool(b)
    row(f"VRAM_CONV1D_PARAMS(16, 24, 5, 1, {b})", params(net(lambda: nn.Conv1d(16, 24, 5, bias=B))), T)
    row(f"VRAM_CONV2D_PARAMS(16, 32, 3, 5, 4, {b})", params(net(lambda: nn.Conv2d(16, 32, (3, 5), groups=4, bias=B))), T)
    row(f"VRAM_CONV3D_PARAMS(8, 6, 2, 3, 4, 2, {b})", params(net(lambda: nn.Conv3d(8, 6, (2, 3, 4), groups=2, bias=B))), T)
    row(f"VRAM_CONV_TRANSPOSE1D_PARAMS(16, 24, 5, 4, {b})", params(net(lambda: nn.ConvTranspose1d(16, 24, 5, groups=4, bias=B))), T)
    row(f"VRAM_CONV_TRANSPOSE2D_PARAMS(16, 12, 4, 4, 2, {b})", params(net(lambda: nn.ConvTranspose2d(16, 12, 4, groups=2, bias=B))), T)
    row(f"VRAM_CONV_TRANSPOSE3D_PARAMS(8, 6, 2, 2, 2, 1, {b})", params(net(lambda: nn.ConvTranspose3d(8, 6, 2, bias=B))), T)
    row(f"VRAM_LINEAR_PARAMS(4096, 11008, {b})", params(net(lambda: nn.Linear(4096, 11008, bias=B))), T)
    row(f"VRAM_BILINEAR_PARAMS(12, 13, 7, {b})", params(net(lambda: nn.Bilinear(12, 13, 7, bias=B))), T)
    row(f"VRAM_BATCH_NORM_PARAMS(64, {b})", params(net(lambda: nn.BatchNorm2d(64, affine=B))), T)
    row(f"VRAM_INSTANCE_NORM_PARAMS(64, {b})", params(net(lambda: nn.InstanceNorm2d(64, affine=B))), T)
    row(f"VRAM_GROUP_NORM_PARAMS(64, {b})", params(net(lambda: nn.GroupNorm(4, 64, affine=B))), T)
    row(f"VRAM_LAYER_NORM_PARAMS(3552, 1, {b})", params(net(lambda: nn.LayerNorm((37, 96), bias=B))), T)
    row(f"VRAM_RMS_NORM_PARAMS(96, {b})", params(net(lambda: nn.RMSNorm(96, elementwise_affine=B))), T)
    row(f"VRAM_MHA_PARAMS(768, {b})", params(net(lambda: nn.MultiheadAttention(768, 12, bias=B))), T)
    row(f"VRAM_MHA_KV_PARAMS(96, 40, 50, {b})", params(net(lambda: nn.MultiheadAttention(96, 4, bias=B, kdim=40, vdim=50))), T)
    row(f"VRAM_LSTM_CELL_PARAMS(96, 48, {b})", params(net(lambda: nn.LSTMCell(96, 48, bias=B))), T)
    row(f"VRAM_GRU_CELL_PARAMS(96, 48, {b})", params(net(lambda: nn.GRUCell(96, 48, bias=B))), T)
    row(f"VRAM_RNN_CELL_PARAMS(96, 48, {b})", params(net(lambda: nn.RNNCell(96, 48, bias=B))), T)
    for L in (1, 3):
        for dirs in (1, 2):
            k = dict(bias=B, bidirectional=dirs == 2)
            row(f"VRAM_LSTM_PARAMS(96, 48, {L}, {b}, {dirs})", params(net(lambda: nn.LSTM(96, 48, L, **k))), T)
            row(f"VRAM_GRU_PARAMS(96, 48, {L}, {b}, {dirs})", params(net(lambda: nn.GRU(96, 48, L, **k))), T)
            row(f"VRAM_RNN_PARAMS(96, 48, {L}, {b}, {dirs})", params(net(lambda: nn.RNN(96, 48, L, **k))), T)
            row(f"VRAM_LSTM_PROJ_PARAMS(96, 48, 20, {L}, {b}, {dirs})", params(net(lambda: nn.LSTM(96, 48, L, proj_size=20, **k))), T)
row("VRAM_LAYER_NORM_PARAMS(96, 0, 0)", params(net(lambda: nn.LayerNorm(96, elementwise_affine=False))), T)
row("VRAM_EMBEDDING_PARAMS(50257, 768)", params(net(lambda: nn.Embedding(50257, 768))), T)
row("VRAM_PRELU_PARAMS(25)", params(net(lambda: nn.PReLU(25))), T)
bn = net(lambda: nn.BatchNorm2d(64))
row("VRAM_BATCH_NORM_BUFFER_BYTES(F32, 64)", sum(b.numel() * b.element_size() for b in bn.buffers()), T)

# whole models: published parameter counts
P = "published parameter count"
row("VRAM_GPT2_PARAMS(50257, 1024, 768, 12)", 124439808, P + ", GPT-2")
row("VRAM_GPT2_PARAMS(50257, 1024, 1600, 48)", 1557611200, P + ", GPT-2 XL")
row("VRAM_LLAMA_PARAMS(32000, 4096, 32, 11008, 32, 32, 128, 0)", 6738415616, P + ", Llama 2 7B")
row("VRAM_LLAMA_PARAMS(128256, 4096, 32, 14336, 32, 8, 128, 0)", 8030261248, P + ", Llama 3 8B")
row("VRAM_LLAMA_PARAMS(128256, 8192, 80, 28672, 64, 8, 128, 0)", 70553706496, P + ", Llama 3 70B")
row("VRAM_LLAMA_PARAMS(128256, 2048, 16, 8192, 32, 8, 64, 1)", 1235814400, P + ", Llama 3.2 1B")
row("VRAM_EMBEDDING_PARAMS(32000, 4096) * 2 + 32 * (VRAM_GQA_PARAMS(4096, 32, 8, 128, 0) + "
    "VRAM_MOE_PARAMS(4096, 8, 14336, 1, 0) + 2 * VRAM_RMS_NORM_PARAMS(4096, 1)) + VRAM_RMS_NORM_PARAMS(4096, 1)",
    46702792704, P + ", Mixtral 8x7B")
row("VRAM_EMBEDDING_PARAMS(32000, 4096) * 2 + 32 * (VRAM_GQA_PARAMS(4096, 32, 8, 128, 0) + "
    "VRAM_MOE_ACTIVE_PARAMS(4096, 8, 2, 14336, 1, 0) + 2 * VRAM_RMS_NORM_PARAMS(4096, 1)) + VRAM_RMS_NORM_PARAMS(4096, 1)",
    12879925248, P + ", Mixtral 8x7B, active")
row("VRAM_EMBEDDING_PARAMS(151936, 896) + 24 * (VRAM_GQA_PARAMS(896, 14, 2, 64, 1) + VRAM_MLP_PARAMS(896, 4864, 1) + "
    "2 * VRAM_RMS_NORM_PARAMS(896, 1)) + VRAM_RMS_NORM_PARAMS(896, 1)", 494032768, P + ", Qwen2 0.5B")
row("VRAM_GQA_PARAMS(3584, 28, 4, 128, 1)", 3584 * 3584 * 2 + 2 * 3584 * 512 + 3584 + 2 * 512, D + ", Qwen2 7B layer")
row("VRAM_MOE_PARAMS(2048, 60, 1408, 1, 5632)", 2048 * 60 + 3 * 2048 * (60 * 1408 + 5632), D + ", Qwen1.5 MoE layer")
row("VRAM_MOE_ACTIVE_PARAMS(2048, 60, 4, 1408, 1, 5632)", 2048 * 60 + 3 * 2048 * (4 * 1408 + 5632), D + ", Qwen1.5 MoE layer")
row("VRAM_MLP_PARAMS(768, 3072, 0)", params(net(lambda: nn.Sequential(nn.Linear(768, 3072, False), nn.Linear(3072, 768, False)))), T)
row("VRAM_MLA_Q_PARAMS(2048, 16, 128, 64)", 2048 * 16 * 192, D)
row("VRAM_MLA_Q_LORA_PARAMS(7168, 128, 1536, 128, 64) + VRAM_MLA_KV_PARAMS(7168, 128, 512, 128, 64, 128)",
    7168 * 1536 + 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 + 512 * 128 * 256 + 128 * 128 * 7168, D + ", DeepSeek-V3 layer")
vgg, c = [], 3
for v in [64, 64, 128, 128, 256, 256, 256, 512, 512, 512, 512, 512, 512]:
    vgg.append(f"VRAM_CONV2D_PARAMS({c}, {v}, 3, 3, 1, 1)")
    c = v
row(" + ".join(vgg) + " + VRAM_LINEAR_PARAMS(25088, 4096, 1) + VRAM_LINEAR_PARAMS(4096, 4096, 1) + VRAM_LINEAR_PARAMS(4096, 1000, 1)",
    138357544, P + ", VGG-16")
r50 = ["VRAM_CONV2D_PARAMS(3, 64, 7, 7, 1, 0) + VRAM_BATCH_NORM_PARAMS(64, 1)"]
c = 64
for w, n in [(64, 3), (128, 4), (256, 6), (512, 3)]:
    for i in range(n):
        r50.append(f"VRAM_CONV2D_PARAMS({c}, {w}, 1, 1, 1, 0) + VRAM_CONV2D_PARAMS({w}, {w}, 3, 3, 1, 0) + "
                   f"VRAM_CONV2D_PARAMS({w}, {4*w}, 1, 1, 1, 0) + VRAM_BATCH_NORM_PARAMS({6*w}, 1)")
        if i == 0:
            r50.append(f"VRAM_CONV2D_PARAMS({c}, {4*w}, 1, 1, 1, 0) + VRAM_BATCH_NORM_PARAMS({4*w}, 1)")
        c = 4 * w
row(" + ".join(r50) + " + VRAM_LINEAR_PARAMS(2048, 1000, 1)", 25557032, P + ", ResNet-50")

# optimizers: the 8 parameter tensors of the measurement in torch.optim (PyTorch 2.15, CUDA)
shapes = [[1000, 700], [700], [512, 256, 3, 3], [512], [64, 64], [1], [3000, 1000], [33, 7]]
O = "measured state of torch.optim, 8 tensors of 4885188 elements"
for o, v in [("SGD", 0), ("SGD_MOMENTUM", 19540752), ("ADAM", 39081504), ("ADAM_FUSED", 39081536),
             ("ADAMW", 39081504), ("ADAMW_FUSED", 39081536), ("ADAMW_AMSGRAD", 58622256),
             ("ADAMW_AMSGRAD_FUSED", 58622288), ("ADAGRAD", 19540752), ("ADAGRAD_FUSED", 19540784),
             ("RMSPROP", 19540752), ("RMSPROP_CENTERED_MOMENTUM", 58622256), ("ADADELTA", 39081504),
             ("ADAMAX", 39081504), ("NADAM", 39081504), ("RADAM", 39081504), ("ASGD", 19540848),
             ("RPROP", 39081504)]:
    row(f"VRAM_OPTIMIZER_BYTES({o}, F32, 4885188, 8)", v, O)
row("VRAM_OPTIMIZER_BYTES(MUON, F32, VRAM_SHAPE2(1000, 700) + VRAM_SHAPE2(64, 64) + VRAM_SHAPE2(3000, 1000) + 33 * 7, 4)", 14817308, "measured state of torch.optim.Muon, the 4 matrices")
for o, k in [("ADAM_AMSGRAD", 3), ("ADAM_AMSGRAD_FUSED", 3), ("RMSPROP_MOMENTUM", 2), ("RMSPROP_CENTERED", 2), ("LION", 1), ("LAMB", 2)]:
    row(f"VRAM_OPTIMIZER_BYTES({o}, F32, 1000, 2)", 4000 * k + (8 if "FUSED" in o else 0), D)
row("VRAM_BYTES(F32, VRAM_ADAFACTOR_MATRIX_ELEMS(1000, 700) + VRAM_ADAFACTOR_VECTOR_ELEMS(700) + "
    "VRAM_ADAFACTOR_ELEMS(1179648, 3, 3) + VRAM_ADAFACTOR_VECTOR_ELEMS(512) + VRAM_ADAFACTOR_MATRIX_ELEMS(64, 64) + "
    "VRAM_ADAFACTOR_VECTOR_ELEMS(1) + VRAM_ADAFACTOR_MATRIX_ELEMS(3000, 1000) + VRAM_ADAFACTOR_ELEMS(231, 33, 7))",
    3174052, "measured state of torch.optim.Adafactor")
row("VRAM_ADAM8BIT_BYTES(1048576, 256)", 2 * (1048576 + 4 * 4096), D)
row("VRAM_ADAM8BIT_BYTES(4095, 256)", 8 * 4095, D)
row("VRAM_ADAM8BIT_BYTES(4096, 256)", 2 * (4096 + 64), D)
row("VRAM_LION8BIT_BYTES(4097, 2048)", 4097 + 12, D)
row("VRAM_8BIT_TABLE_BYTES(2)", 2048, D)

# KV caches
row("VRAM_KV_CACHE_BYTES(BF16, 32, 8, 128, 8192, 16)", 16 * 2**30, "document: Llama 3 8B, 16 sequences of 8192")
row("VRAM_KV_CACHE_BYTES(F16, 32, 32, 128, 4096, 32)", 64 * 2**30, "document: Llama 2 7B, 32 sequences of 4096")
row("VRAM_MLA_CACHE_BYTES(Q8_0, 61, 512, 64, 32768, 1)", 1166625 * 1048576 // 1000, "document: DeepSeek, 1166.625 MiB")
row("VRAM_KV_CACHE2_BYTES(Q8_0, Q4_0, 32, 8, 128, 128, 8192, 1)", 32 * 8192 * 8 * 128 // 32 * (34 + 18), D)
row("VRAM_KV_PAGED_TOKENS(1000, 16)", 1008, D)
row("VRAM_SSM_STATE_ELEMS(4, 5120, 16, 0)", 3 * 5120 + 16 * 5120, D + ", Mamba 2.8B layer")

row("VRAM_SSM_STATE_ELEMS(4, 8192, 128, 8)", 3 * (8192 + 2 * 8 * 128) + 128 * 8192, D + ", Mamba 2 layer")

# transformers
row("VRAM_TRANSFORMER_SAVED_BYTES(2048, 1, 12288, 96)", 2048 * 12288 * 34 + 5 * 96 * 2048**2, "arXiv 2205.05198")
row("VRAM_TRANSFORMER_FLASH_SAVED_BYTES(2048, 1, 12288)", 2048 * 12288 * 34, "arXiv 2205.05198")
row("VRAM_CROSS_ENTROPY_AMP_SAVED_BYTES(148, 500)", 6 * 148 * 500 + 4, "measured 6 B/logit")
row("VRAM_RNN_RESERVE_FLOOR(F16, 4, 37, 32, 2, 2, 5)", 4 * 37 * 32 * 4 * 5 * 2, D)

# saved for backward, measured
if len(sys.argv) > 1:
    M = json.load(open(sys.argv[1]))
    S = "measured, autograd on CUDA"
    for k, v in M.items():
        if k.startswith("#"):
            continue
        row(f"VRAM_SAVED_BYTES({k}, F32, {v['nx']}, {v['ny']})", v["total"], S)
        if not k.endswith("_INPLACE"):
            row(f"VRAM_SAVES_INPUT({k})", v["kx"], S)
        row(f"VRAM_SAVES_OUTPUT({k})", v["ky"], S)
        row(f"VRAM_SAVES_EXTRA_BYTES({k}, F32, {v['ny']})",
            v["total"] - 4 * ((0 if k.endswith("_INPLACE") else v["kx"] * v["nx"]) + v["ky"] * v["ny"]), S)
    g = lambda k: M["#" + k]["total"]
    n = 15360
    row(f"VRAM_BATCH_NORM_SAVED_BYTES(F32, {n}, 8)", g("BATCH_NORM"), S)
    row(f"VRAM_LAYER_NORM_SAVED_BYTES(F32, {n}, 640)", g("LAYER_NORM"), S)
    row(f"VRAM_GROUP_NORM_SAVED_BYTES(F32, {n}, 4, 4)", g("GROUP_NORM"), S)
    row(f"VRAM_INSTANCE_NORM_SAVED_BYTES(F32, {n}, 4, 8, 0, 0)", g("INSTANCE_NORM0"), S)
    row(f"VRAM_INSTANCE_NORM_SAVED_BYTES(F32, {n}, 4, 8, 1, 0)", g("INSTANCE_NORM1"), S)
    row(f"VRAM_INSTANCE_NORM_SAVED_BYTES(F32, {n}, 4, 8, 1, 1)", g("INSTANCE_NORM_TRS"), S)
    row(f"VRAM_RMS_NORM_SAVED_BYTES(F32, {n}, 640)", g("RMS_NORM"), S)
    row("VRAM_BILINEAR_SAVED_BYTES(F32, 48, 52)", g("BILINEAR"), S)
    row("VRAM_MATMUL_SAVED_BYTES(F32, 5760, 8640)", g("MATMUL"), S)
    row("VRAM_EMBEDDING_SAVED_BYTES(36)", g("EMBEDDING"), S)
    row("VRAM_CROSS_ENTROPY_SAVED_BYTES(37, 50)", g("CROSS_ENTROPY") - 296, S + ", targets (296) taken off")
    row("VRAM_SDPA_FLASH_SAVED_BYTES(F16, 2, 4, 4, 50, 37, 32)", g("SDPA_FLASH"), S)
    row("VRAM_SDPA_FLASH_SAVED_BYTES(F16, 2, 4, 2, 50, 37, 32)", g("SDPA_FLASH_GQA"), S)
    row("VRAM_SDPA_EFFICIENT_SAVED_BYTES(F32, 2, 4, 4, 50, 37, 32)", g("SDPA_EFFICIENT"), S)
    row("VRAM_SDPA_CUDNN_SAVED_BYTES(F16, 2, 4, 4, 50, 37, 32)", g("SDPA_CUDNN"), S)
    row("VRAM_ATTENTION_SAVED_BYTES(F32, 2, 4, 50, 37, 32, 0)", g("SDPA_MATH"), S)
    row("VRAM_ATTENTION_SAVED_BYTES(F32, 2, 4, 50, 37, 32, 1)", g("ATTENTION1"), S)
    row("VRAM_MHA_SAVED_BYTES(F32, 4, 37, 96, 4)", g("MHA_need0"), S)
    row("VRAM_MHA_WEIGHTS_SAVED_BYTES(F32, 4, 37, 96, 4)", g("MHA_need1"), S)
    row("VRAM_RNN_SAVED_BYTES(F32, 864, 576, 64, 2, 13824)", g("LSTM"), S + ", reserve given")
    row("VRAM_RNN_SAVED_BYTES(F32, 864, 576, 64, 1, 11520)", g("GRU"), S + ", reserve given")
    row("VRAM_RNN_SAVED_BYTES(F32, 864, 576, 64, 1, 4608)", g("RNN"), S + ", reserve given")

print("# expression = value # source        (written by golden_from_torch.py; PyTorch %s)" % torch.__version__)
for e, v, s in rows:
    print(f"{e} = {v} # {s}")
