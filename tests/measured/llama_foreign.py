#!/usr/bin/env python3
"""Random GGUF headers of each architecture whose graph is built here, what llama.cpp says of them, and what vram says.
usage: llama_foreign.py ARCH,ARCH|all FILES RUNS SEED [DEVICES]   compares; prints what differs
       llama_foreign.py --golden                                  writes tests/golden/llama_foreign.txt
       llama_foreign.py --golden more                             writes tests/golden/llama_more.txt: three runs of each
       llama_foreign.py --golden states                           writes tests/golden/llama_states.txt: six of each

WORK (a folder) has three programs, made from tests/measured/llama_foreign.cpp with the source of llama.cpp 0c1e570 (vendor/ of
the sdist llama-cpp-python 0.3.36): `say-cpu` with libllama, ggml-base and ggml-cpu (AVX2, no AVX-512); `say-cuda` with
GGML_USE_CUDA and a libggml-cuda.so of ggml-cuda.cu, fattn.cu and topk-moe.cu alone (nvcc, the default GGML_CUDA_FA_QUANTS), whose
other kernels and CUDA runtime are empty functions that are never called; and `make` (-DMAKE), for which llama_model_loader::create_tensor
prints, where it has no files, "T NAME FLAGS SIZE..." of each tensor, and returns nullptr for what is not required and matches
MAKE_ABSENT. Tensors are thus those that llama.cpp itself asks for. Files of no data are as long as they say (sparse).
"""

import json, os, random, re, struct, subprocess, sys

WORK = os.environ.get("WORK", "build/llama_foreign")


def value(v):
    if isinstance(v, bool):
        return struct.pack("<IB", 7, v)
    if isinstance(v, int):
        return struct.pack("<II", 4, v)
    if isinstance(v, float):
        return struct.pack("<If", 6, v)
    if isinstance(v, str):
        return struct.pack("<IQ", 8, len(v.encode())) + v.encode()
    if isinstance(v, list):
        t = value(v[0])
        return struct.pack("<I", 9) + t[:4] + struct.pack("<Q", len(v)) + b"".join(value(x)[4:] for x in v)


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


TYPES = {
    "f32": (0, 1, 4),
    "f16": (1, 1, 2),
    "q4_0": (2, 32, 18),
    "q8_0": (8, 32, 34),
    "q4_k": (12, 256, 144),
    "q5_k": (13, 256, 176),
    "q6_k": (14, 256, 210),
    "bf16": (30, 1, 2),
    "iq4_nl": (20, 32, 18),
    "q2_k": (10, 256, 84),
    "q3_k": (11, 256, 110),
    "mxfp4": (39, 32, 17),
}


def write(path, keys, tensors, sparse=True):
    kv = b"".join(text(k) + value(v) for k, v in keys.items())
    table = b""
    off = 0
    for n, t, ne in tensors:
        i, bl, by = TYPES[t]
        num = 1
        for d in ne:
            num *= d
        table += (
            text(n)
            + struct.pack("<I", len(ne))
            + b"".join(struct.pack("<Q", d) for d in ne)
            + struct.pack("<IQ", i, off)
        )
        off += (num // bl * by + 31) // 32 * 32
    h = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + kv + table
    h += b"\0" * (-len(h) % 32)
    with open(path, "wb") as f:
        f.write(h)
    if sparse:
        os.truncate(path, len(h) + off)


ABSENT = r"(scale$|\.scale|lora_|rope_factors|rope_freqs|^cls|in_s$|ffn_gate_up_exps)"


def tensors(keys, absent):
    write(WORK + "/kv.gguf", keys, [])
    p = subprocess.run(
        ["./make", "kv.gguf"],
        capture_output=True,
        text=True,
        env=dict(
            os.environ,
            MAKE_ABSENT=absent[1:] if absent[:1] == "!" else ABSENT + ("|" + absent if absent else ""),
        ),
        cwd=WORK,
    )
    if p.returncode:
        raise Exception(p.stderr.strip()[-300:])
    out = []
    seen = set()
    for l in p.stdout.splitlines():
        w = l.split(" ")
        if w[0] != "T" or w[1] in seen:
            continue
        if int(w[2]) & 2:
            continue  # duplicated
        seen.add(w[1])
        out.append((w[1], [int(x) for x in w[3:]]))
    return out


def types(r, ts):
    mix = r.choice(
        [
            ["q4_k", "q6_k"],
            ["q8_0"],
            ["f16"],
            ["q4_0", "q6_k"],
            ["q5_k", "q6_k"],
            ["bf16"],
            ["q4_k", "q5_k", "q6_k"],
            ["iq4_nl", "q6_k"],
            ["q2_k", "q3_k", "q6_k"],
        ]
    )
    chosen = {}
    out = []
    for n, ne in ts:
        base = re.sub(r"blk\.\d+\.", "", n)
        if "ssm_conv1d_" in n:
            ne = ne[:3]
        full = [d for d in ne]
        while len(full) > 1 and full[-1] == 1:
            full.pop()
        if (
            n.endswith(".bias")
            or len(full) < 2
            or "norm" in n
            or "gate_inp" in base
            or "ssm_conv1d" in n
            or "shortconv.conv" in n
            or base.startswith(("ssm_a", "ssm_d"))
            or "time_mix" in n
            and len(full) != 2
            or "attn_rel_b" in n
            or base.startswith(
                (
                    "laurel",
                    "altup",
                    "per_layer",
                    "time_mix_w",
                    "time_mix_lerp",
                    "time_mix_first",
                    "time_mix_decay",
                )
            )
        ):
            t = "f32"
        else:
            t = r.choice(mix) if r.random() < 0.3 else chosen.setdefault(base, r.choice(mix))
            if base in ("position_embd.weight", "token_types.weight"):
                t = "f32"
            if ne[0] % TYPES[t][1]:
                t = "f16" if ne[0] % 32 else "q8_0"
        out.append((n, t, ne))
    return out


def base(r, arch, mult=256, free_head=False, gqa=True, eps="rms", heads=None):
    head = heads or r.choice([64, 80, 96, 128, 128, 256] if free_head else [64, 128, 128, 96, 80])
    n = r.choice([2, 3, 4, 6, 8, 12, 16]) * r.choice([1, 1, 2])
    kvs = [k for k in range(1, n + 1) if n % k == 0]
    k = r.choice(kvs) if gqa else n
    embd = head * n
    if free_head and r.random() < 0.6:
        embd = r.choice([512, 768, 1024, 1280, 1536, 2048, 2560, 3072])
    while embd % 32:
        embd += head
    d = {
        "general.architecture": arch,
        "general.quantization_version": 2,
        "general.file_type": 15,
        f"{arch}.block_count": r.randint(2, 9),
        f"{arch}.context_length": r.choice([2048, 4096, 8192, 32768, 131072]),
        f"{arch}.embedding_length": embd,
        f"{arch}.feed_forward_length": r.choice([2, 3, 4, 5, 7, 11]) * 256,
        f"{arch}.attention.head_count": n,
        f"{arch}.attention.head_count_kv": k,
    }
    if free_head:
        d.update({f"{arch}.attention.key_length": head, f"{arch}.attention.value_length": head})
    d[f"{arch}.attention.layer_norm_" + ("rms_epsilon" if eps == "rms" else "epsilon")] = 1e-5
    d[f"{arch}.rope.dimension_count"] = head
    d[f"{arch}.rope.freq_base"] = 10000.0
    d[f"{arch}.vocab_size"] = r.choice(
        [1000, 32000, 32064, 49152, 65024, 100352, 128256, 151936, 256000]
    ) + r.choice([0, 0, 1, 3])
    d["tokenizer.ggml.model"] = "no_vocab"
    return d


def moe(r, d, shared=None, ff=True, used=None):
    a = d["general.architecture"]
    e = r.choice([4, 8, 16, 32, 60, 64])
    d[f"{a}.expert_count"] = e
    d[f"{a}.expert_used_count"] = used or r.choice([1, 2, 4, 6, 8][: 3 if e < 6 else 5] if e >= 4 else [2])
    if d[f"{a}.expert_used_count"] > e:
        d[f"{a}.expert_used_count"] = 2
    if ff:
        d[f"{a}.expert_feed_forward_length"] = r.choice([1, 2, 3, 5]) * 256
    if shared:
        d[f"{a}.expert_shared_feed_forward_length"] = r.choice([1, 2, 4]) * 256
    return d


QKV = "attn_qkv"
B = r"|attn_(q|k|v|output|qkv)\.bias|ffn_.*\.bias"


def tie(r):
    return "|^output.weight" if r.random() < 0.3 else ""


def sep(r, *more):
    return QKV + B + tie(r) + "".join("|" + m for m in more)


A = {}


def add(name):
    def g(f):
        A[name] = f
        return f

    return g


@add("llama")
def _(r):
    d = base(r, "llama", free_head=r.random() < 0.3)
    c = r.random()
    if c < 0.4:
        moe(r, d, ff=False)
    return d, sep(r, "rope_freqs") if r.random() < 0.6 else QKV + r"|ffn_.*\.bias|ffn_gate_inp\.bias" + tie(r)


@add("qwen2")
def _(r):
    return base(r, "qwen2"), QKV + r"|attn_output\.bias|ffn_.*bias|output.bias" + tie(r)


@add("qwen3")
def _(r):
    return base(r, "qwen3", free_head=True), sep(r)


@add("qwen3moe")
def _(r):
    return moe(r, base(r, "qwen3moe", free_head=True)), sep(r)


@add("qwen2moe")
def _(r):
    return moe(r, base(r, "qwen2moe"), shared=True), QKV + r"|attn_output\.bias|ffn_.*bias" + tie(r)


@add("phi3")
def _(r):
    d = base(r, "phi3")
    d["phi3.attention.sliding_window"] = r.choice([0, 2047, 262144])
    d["phi3.rope.scaling.original_context_length"] = 4096
    return d, r"attn_(q|k|v)\.|bias" + tie(r)


@add("gpt2")
def _(r):
    d = base(r, "gpt2", gqa=False, eps="n")
    del d["gpt2.rope.dimension_count"]
    return d, r"attn_(q|k|v)\." + tie(r)


@add("gemma")
def _(r):
    return base(r, "gemma", free_head=True), QKV + B + "|^output.weight"


@add("gemma2")
def _(r):
    d = base(r, "gemma2", free_head=True)
    d["gemma2.attention.sliding_window"] = r.choice([512, 1024, 4096])
    d["gemma2.attn_logit_softcapping"] = 50.0
    d["gemma2.final_logit_softcapping"] = 30.0
    return d, QKV + B + "|^output.weight"


@add("gemma3")
def _(r):
    d = base(r, "gemma3", free_head=True)
    d["gemma3.block_count"] = r.choice([6, 7, 12, 13, 14])
    d["gemma3.attention.sliding_window"] = r.choice([512, 1024])
    d["gemma3.rope.freq_base_swa"] = 10000.0
    return d, QKV + B + "|^output.weight|final"


@add("gpt-oss")
def _(r):
    d = moe(r, base(r, "gpt-oss", free_head=True))
    d["gpt-oss.attention.sliding_window"] = 128
    return d, QKV + "|attn_qkv"


@add("glm4moe")
def _(r):
    d = moe(r, base(r, "glm4moe", free_head=True))
    d["glm4moe.expert_shared_count"] = 1
    d["glm4moe.leading_dense_block_count"] = 1
    d["glm4moe.expert_gating_func"] = 2
    d["glm4moe.expert_weights_scale"] = 1.0
    d["glm4moe.expert_weights_norm"] = True
    return d, QKV + "|attn_output.bias" + (r"|attn_(q|k)_norm" if r.random() < 0.5 else "")


@add("command-r")
def _(r):
    d = base(r, "command-r", eps="n")
    d["command-r.logit_scale"] = 0.0625
    return d, sep(r) + "|^output.weight" + ("|attn_._norm")


@add("cohere2")
def _(r):
    d = base(r, "cohere2", eps="n")
    d["cohere2.logit_scale"] = 0.25
    d["cohere2.attention.sliding_window"] = r.choice([512, 4096])
    return d, sep(r) + "|^output.weight"


@add("deepseek2")
def _(r):
    d = base(r, "deepseek2", gqa=False)
    n = d["deepseek2.attention.head_count"]
    d["deepseek2.attention.head_count_kv"] = 1
    d = moe(r, d)
    d["deepseek2.expert_shared_count"] = r.choice([1, 2])
    d["deepseek2.leading_dense_block_count"] = 1
    d["deepseek2.expert_weights_scale"] = 1.0
    d["deepseek2.expert_weights_norm"] = r.random() < 0.5
    rank = 512
    d["deepseek2.attention.kv_lora_rank"] = rank
    rot = 64
    d["deepseek2.rope.dimension_count"] = rot
    d["deepseek2.attention.key_length"] = rank + rot
    d["deepseek2.attention.value_length"] = rank
    d["deepseek2.attention.key_length_mla"] = 192
    d["deepseek2.attention.value_length_mla"] = 128
    if r.random() < 0.5:
        d["deepseek2.attention.q_lora_rank"] = 768
        d["deepseek2.expert_gating_func"] = 2
        return d, "output_norm.bias|ffn_gate_up_exps|attn_kv_b" + "|attn_q\\.weight"
    d["deepseek2.expert_gating_func"] = 1
    d["deepseek2.attention.q_lora_rank"] = 0
    d["deepseek2.block_count"] = 27
    return d, "exp_probs_b|attn_q_a|attn_q_b|ffn_gate_up_exps|bias"


def ssm(r, d, two=False):
    a = d["general.architecture"]
    e = d[f"{a}.embedding_length"]
    d[f"{a}.ssm.conv_kernel"] = 4
    d[f"{a}.ssm.inner_size"] = 2 * e
    d[f"{a}.ssm.state_size"] = r.choice([64, 128]) if two else 16
    d[f"{a}.ssm.time_step_rank"] = 2 * e // 64 if two else (e + 15) // 16
    if two:
        d[f"{a}.ssm.group_count"] = r.choice([1, 2, 8]) if (2 * e // 64) % 8 == 0 else 1
    return d


@add("mamba")
def _(r):
    d = ssm(r, base(r, "mamba"))
    d["mamba.attention.head_count"] = 0
    d["mamba.feed_forward_length"] = 0
    del d["mamba.attention.head_count_kv"]
    del d["mamba.rope.dimension_count"]
    return d, tie(r)[1:]


@add("mamba2")
def _(r):
    d = ssm(r, base(r, "mamba2", heads=128), True)
    d["mamba2.attention.head_count"] = 0
    d["mamba2.feed_forward_length"] = 0
    del d["mamba2.attention.head_count_kv"]
    del d["mamba2.rope.dimension_count"]
    return d, tie(r)[1:]


@add("jamba")
def _(r):
    d = moe(r, ssm(r, base(r, "jamba")), ff=False, used=2)
    n = d["jamba.block_count"]
    k = max(1, d["jamba.attention.head_count_kv"])
    at = r.randrange(n)
    d["jamba.attention.head_count_kv"] = [k if i == at or i % 4 == 2 else 0 for i in range(n)]
    odd = r.random() < 0.5
    return d, QKV + B + tie(r) + (r"|blk\.\d*[02468]\.ffn_(gate_inp|.*_exps)" if odd else "")


@add("nemotron_h")
def _(r):
    d = ssm(r, base(r, "nemotron_h", free_head=True, heads=128), True)
    d["nemotron_h.attention.layer_norm_epsilon"] = 1e-5
    n = d["nemotron_h.block_count"]
    k = d["nemotron_h.attention.head_count_kv"]
    ff = d["nemotron_h.feed_forward_length"]
    kinds = [i % 3 for i in range(n)]
    r.shuffle(kinds)
    d["nemotron_h.attention.head_count_kv"] = [k if x == 1 else 0 for x in kinds]
    d["nemotron_h.feed_forward_length"] = [ff if x == 2 else 0 for x in kinds]
    return d, QKV + B + "|ssm_in.bias|ssm_out.bias" + tie(r)


@add("lfm2")
def _(r):
    d = base(r, "lfm2")
    n = d["lfm2.block_count"]
    k = d["lfm2.attention.head_count_kv"]
    d["lfm2.attention.head_count_kv"] = [
        k if i == n - 1 and r.random() < 0.5 or i % 3 == 2 else 0 for i in range(n)
    ]
    d["lfm2.shortconv.l_cache"] = 3
    return d, QKV + B + "|^output.weight|dense_2"


@add("glm4")
def _(r):
    return base(r, "glm4"), (QKV if r.random() < 0.5 else "nothing") + r"|attn_output\.bias" + tie(r)


def gran(r, d):
    a = d["general.architecture"]
    d[f"{a}.logit_scale"] = 8.0
    if r.random() < 0.8:
        d[f"{a}.residual_scale"] = 0.22
        d[f"{a}.embedding_scale"] = 12.0
        d[f"{a}.attention.scale"] = 0.0078
    return d


@add("granite")
def _(r):
    return gran(r, base(r, "granite")), sep(r)


@add("granitemoe")
def _(r):
    return gran(r, moe(r, base(r, "granitemoe"), ff=False, shared=r.random() < 0.5)), sep(r)


@add("mistral3")
def _(r):
    d = base(r, "mistral3", free_head=True)
    if r.random() < 0.3:
        moe(r, d, ff=False)
    return d, sep(r)


@add("olmo2")
def _(r):
    d = base(r, "olmo2")
    if r.random() < 0.5:
        d["olmo2.attention.sliding_window"] = 4096
    return d, QKV + B


@add("olmoe")
def _(r):
    return moe(r, base(r, "olmoe", gqa=False), ff=False), QKV + B


@add("ernie4_5-moe")
def _(r):
    a = "ernie4_5-moe"
    d = moe(r, base(r, a), shared=True)
    d[a + ".interleave_moe_layer_step"] = 1
    d[a + ".leading_dense_block_count"] = 1
    d[a + ".expert_shared_count"] = 2
    return d, sep(r)


@add("ernie4_5")
def _(r):
    return base(r, "ernie4_5"), sep(r)


@add("hunyuan-moe")
def _(r):
    return moe(r, base(r, "hunyuan-moe"), shared=True), sep(r)


@add("starcoder2")
def _(r):
    return base(r, "starcoder2", eps="n"), QKV + tie(r)


@add("stablelm")
def _(r):
    d = base(r, "stablelm", eps="n")
    d["stablelm.use_parallel_residual"] = False
    d["stablelm.rope.dimension_count"] //= 4
    d["stablelm.rope.dimension_count"] -= d["stablelm.rope.dimension_count"] % 2
    return d, QKV + "|_norm_[qk]|attn_[qk]_norm" + (r"|attn_(q|k|v)\.bias" if r.random() < 0.5 else "") + tie(
        r
    )


@add("falcon")
def _(r):
    return base(r, "falcon", eps="n"), r"attn_(q|k|v)\.|bias$(?<!norm\.bias)".replace(
        r"|bias$(?<!norm\.bias)", ""
    ) + ("|attn_norm_2" if r.random() < 0.5 else "")


@add("bert")
def _(r):
    d = base(r, "bert", gqa=False, eps="n")
    d["bert.attention.causal"] = False
    d["bert.pooling_type"] = r.choice([1, 2])
    d["bert.context_length"] = r.choice([512, 2048])
    d["tokenizer.ggml.token_type_count"] = 2
    return d, QKV + "|attn_._norm|ffn_gate|attn_norm_2|cls|attn_(q|k)_norm|layer_out_norm"


def simple(name, absent=None, **kw):
    @add(name)
    def _(r, name=name, absent=absent, kw=kw):
        k = dict(kw)
        ex = k.pop("extra", {})
        m = k.pop("moe", None)
        d = base(r, name, **k)
        if m is not None:
            moe(r, d, **m)
        for x, v in ex.items():
            d[f"{name}.{x}"] = v
        return d, (absent if absent is not None else QKV + B) + tie(r)


simple("internlm2")
simple("orion", eps="n", gqa=False)
simple("seed_oss", free_head=True, absent=QKV + r"|attn_output\.bias|ffn_.*bias")
simple("arcee")
simple("nemotron", eps="n")
simple("exaone")
simple("xverse")
simple("qwen", absent=r"attn_(q|k|v)\.|attn_output\.bias|ffn_.*bias", gqa=False)
simple("maincoder", free_head=True)
simple("pangu-embedded")
simple("olmo", eps="n")
simple("smollm3")
simple(
    "deepseek",
    moe={},
    extra={"leading_dense_block_count": 1, "expert_shared_count": 2, "expert_weights_scale": 2.5},
)
simple(
    "dots1",
    moe={},
    gqa=False,
    extra={
        "leading_dense_block_count": 1,
        "expert_shared_count": 2,
        "expert_weights_scale": 2.5,
        "expert_weights_norm": True,
        "expert_gating_func": 2,
    },
)
simple(
    "bailingmoe",
    moe={},
    extra={
        "leading_dense_block_count": 0,
        "expert_shared_count": 2,
        "expert_weights_scale": 2.5,
        "expert_weights_norm": True,
    },
)
simple("minimax-m2", moe={}, free_head=True, extra={"expert_gating_func": 2})
simple("hunyuan-dense", free_head=True)
simple("apertus")
A_ap = A["apertus"]


@add("apertus")
def _(r):
    d, x = A_ap(r)
    n = d["apertus.block_count"]
    for k in ("alpha_n", "alpha_p", "beta", "eps"):
        d[f"xielu.{k}"] = [0.5] * n
    return d, x


simple("chatglm", absent=r"attn_(q|k|v)\.|attn_output.bias|ffn_.*bias|ffn_gate")
simple("bloom", eps="n", gqa=False, absent=r"attn_(q|k|v)\.")
simple(
    "mpt",
    eps="n",
    gqa=False,
    absent=r"attn_(q|k|v)\.|bias|position_embd|attn_._norm|ffn_act",
    extra={"attention.max_alibi_bias": 8.0},
)
simple("starcoder", eps="n", gqa=True, absent=r"attn_(q|k|v)\.")
simple("codeshell", eps="n", absent=r"attn_(q|k|v)\.")
simple("gptneox", eps="n", gqa=False, absent=r"attn_(q|k|v)\.", extra={"use_parallel_residual": True})
simple("phi2", eps="n", gqa=False, absent=r"attn_qkv")
simple(
    "qwen2vl",
    absent=QKV + r"|attn_output\.bias|ffn_.*bias|^output.bias|cls",
    extra={"rope.dimension_sections": [16, 24, 24, 0]},
)
simple("qwen3vl", free_head=True, extra={"rope.dimension_sections": [24, 20, 20, 0], "n_deepstack_layers": 0})
simple(
    "qwen3vlmoe",
    free_head=True,
    moe={},
    extra={"rope.dimension_sections": [24, 20, 20, 0], "n_deepstack_layers": 0},
)
simple("minicpm")
simple("exaone4")
simple("phimoe", moe={"ff": False}, eps="rms", absent=QKV + "|rope_factors")
simple("dbrx", moe={"ff": False}, eps="n", absent=r"attn_(q|k|v)\.|bias", extra={"attention.clamp_kqv": 8.0})
simple("arctic", moe={"ff": False})
simple("baichuan", gqa=False)


@add("lfm2moe")
def _(r):
    a = "lfm2moe"
    d = moe(r, base(r, a))
    n = d[a + ".block_count"]
    k = d[a + ".attention.head_count_kv"]
    d[a + ".attention.head_count_kv"] = [k if i % 3 == 2 else 0 for i in range(n)]
    d[a + ".shortconv.l_cache"] = 3
    d[a + ".leading_dense_block_count"] = 1
    d[a + ".expert_gating_func"] = 2
    return d, QKV + B.replace("ffn_", "ffn_(gate|up|down)") + "|^output.weight|dense_2"


@add("granitehybrid")
def _(r):
    a = "granitehybrid"
    d = ssm(r, base(r, a, heads=128), True)
    gran(r, d)
    if r.random() < 0.6:
        moe(r, d, ff=False, shared=True)
    n = d[a + ".block_count"]
    k = d[a + ".attention.head_count_kv"]
    d[a + ".attention.head_count_kv"] = [k if i % 3 == 1 else 0 for i in range(n)]
    d[a + ".rope.scaling.finetuned"] = r.random() < 0.5
    return d, QKV + B + "|ssm_in.bias|ssm_out.bias|rope" + tie(r)


@add("falcon-h1")
def _(r):
    a = "falcon-h1"
    d = ssm(r, base(r, a, heads=128), True)
    return d, QKV + B + tie(r)


def delta(r, d):
    """A gated delta net: heads of Q and K, as many or fewer than those of V."""
    a = d["general.architecture"]
    k = r.choice([1, 2, 4, 8])
    v = k * r.choice([1, 1, 2, 4])
    d[f"{a}.ssm.conv_kernel"] = r.choice([4, 4, 3])
    d[f"{a}.ssm.state_size"] = r.choice([64, 128, 128])
    d[f"{a}.ssm.group_count"] = k
    d[f"{a}.ssm.time_step_rank"] = v
    d[f"{a}.ssm.inner_size"] = v * d[f"{a}.ssm.state_size"]
    d[f"{a}.full_attention_interval"] = r.choice([2, 3, 4, 4])
    return d


def attends(d):
    """Layers with attention: of a file of random tensors, Q, K and V are apart there."""
    a = d["general.architecture"]
    n = d[f"{a}.full_attention_interval"]
    last = d[f"{a}.block_count"]
    return r"blk\.(%s)\.attn_qkv" % "|".join(str(i) for i in range(last) if i % n == n - 1 or f"{a}.nextn_predict_layers" in d and i == last - 1)


@add("qwen3next")
def _(r):
    d = moe(r, delta(r, base(r, "qwen3next", free_head=True, heads=r.choice([128, 256]))), shared=True)
    return d, attends(d) + B + tie(r) + "|ssm_in"


def qwen35(r, a):
    d = delta(r, base(r, a, free_head=True, heads=r.choice([128, 256])))
    d[a + ".rope.dimension_sections"] = [11, 11, 10, 0]
    if r.random() < 0.3:
        d[a + ".nextn_predict_layers"] = 1
        d[a + ".block_count"] += 1
    return d


@add("qwen35")
def _(r):
    d = qwen35(r, "qwen35")
    return d, attends(d) + B + tie(r)


@add("qwen35moe")
def _(r):
    d = moe(r, qwen35(r, "qwen35moe"), shared=True)
    return d, attends(d) + B + tie(r)


@add("kimi-linear")
def _(r):
    a = "kimi-linear"
    d = moe(r, base(r, a, gqa=False, heads=128))
    n = d[a + ".block_count"]
    d[a + ".attention.head_count_kv"] = [1 if i % 4 == 3 or i == n - 1 else 0 for i in range(n)]
    d[a + ".attention.kv_lora_rank"] = 512
    d[a + ".rope.dimension_count"] = 64
    d[a + ".attention.key_length"] = 576
    d[a + ".attention.value_length"] = 512
    d[a + ".attention.key_length_mla"] = 192
    d[a + ".attention.value_length_mla"] = 128
    d[a + ".ssm.conv_kernel"] = 4
    d[a + ".kda.head_dim"] = r.choice([64, 128])
    d[a + ".expert_shared_count"] = r.choice([1, 2])
    d[a + ".leading_dense_block_count"] = 1
    d[a + ".expert_weights_scale"] = r.choice([1.0, 2.446])
    d[a + ".expert_gating_func"] = 2
    return d, QKV + "|attn_kv_b|attn_q_a"


def groups(r, d):
    """Groups of experts, of which some are taken."""
    a = d["general.architecture"]
    e = d[f"{a}.expert_count"] = r.choice([8, 16, 32, 64, 96, 256])
    d[f"{a}.expert_used_count"] = r.choice([2, 4, 6])
    g = r.choice([x for x in (2, 4, 8) if e // x > 2] or [2])
    d[f"{a}.expert_group_count"] = g
    d[f"{a}.expert_group_used_count"] = r.randint(1, g - 1)
    return d


A_ds = A["deepseek2"]


@add("deepseek2")
def _(r):
    d, x = A_ds(r)
    if r.random() < 0.5:
        groups(r, d)
    if r.random() < 0.2:
        d["deepseek2.attention.temperature_scale"] = 0.1
    if r.random() < 0.5:
        x = x.replace("|ffn_gate_up_exps", "").replace("ffn_gate_up_exps|", "")
    if r.random() < 0.3:  # K and V made before the cache
        for k in ("key_length_mla", "value_length_mla"):
            del d["deepseek2.attention." + k]
        d["deepseek2.attention.key_length"], d["deepseek2.attention.value_length"] = 192, 128
        d["deepseek2.attention.head_count_kv"] = d["deepseek2.attention.head_count"]
    return d, x


@add("mistral4")
def _(r):
    d, x = A_ds(r)
    d = {k.replace("deepseek2", "mistral4"): v for k, v in d.items()}
    d["general.architecture"] = "mistral4"
    if r.random() < 0.5:
        d["mistral4.attention.temperature_scale"] = 0.1
    return d, x


def encoder(name, absent, eps="n", gqa=False, **more):
    @add(name)
    def _(r, name=name):
        d = base(r, name, gqa=gqa, eps=eps, free_head=more.get("free_head", False))
        d[f"{name}.attention.causal"] = False
        if r.random() < 0.8:
            d[f"{name}.pooling_type"] = r.choice([0, 1, 2, 3])
        d[f"{name}.context_length"] = r.choice([512, 2048])
        d["tokenizer.ggml.token_type_count"] = r.choice([1, 2])
        for k, v in more.get("extra", {}).items():
            d[f"{name}.{k}"] = v(r) if callable(v) else v
        for k in [k for k, v in d.items() if v is None]:
            del d[k]
        return d, absent(r) if callable(absent) else absent


CLS = "|cls|dense_"
encoder("nomic-bert", QKV + B + CLS)
encoder("jina-bert-v3", lambda r: (QKV if r.random() < 0.5 else r"attn_(q|k|v)\.") + CLS)
encoder(
    "nomic-bert-moe",
    QKV + CLS,
    extra={"moe_every_n_layers": 2, "expert_count": 8, "expert_used_count": lambda r: r.choice([1, 2])},
)
encoder(
    "jina-bert-v2",
    lambda r: QKV + CLS + r.choice(["", "|attn_norm_2", "|ffn_gate", "|attn_[qk]_norm", "|attn_._norm|attn_norm_2"]),
    extra={"rope.dimension_count": None},
)
encoder("modern-bert", lambda r: CLS[1:] + r.choice(["", r"|blk\.0\.attn_norm"]), extra={"attention.sliding_window": lambda r: r.choice([0, 128])})
encoder("neo-bert", CLS[1:], eps="rms")
encoder("eurobert", QKV + B + CLS, eps="rms", gqa=True)
encoder("gemma-embedding", lambda r: QKV + B + "|^output.weight" + r.choice(["", CLS]), eps="rms", gqa=True, free_head=True, extra={"attention.sliding_window": lambda r: r.choice([128, 512]), "dense_2_feat_out": 3072, "dense_3_feat_in": 3072})
simple("dream", absent=QKV + r"|attn_output\.bias|ffn_.*bias|^output.bias")
simple("llada")
simple("llada-moe", moe={})
simple("rnd1", moe={}, free_head=True)
simple("refact", extra={"attention.max_alibi_bias": 8.0})
simple("jais", eps="n", gqa=False, absent=r"attn_(q|k|v)\.", extra={"attention.max_alibi_bias": 8.0})
simple("chameleon", extra={"swin_norm": False})
simple("cogvlm", gqa=False, absent="rope_freqs")
simple("bitnet", absent="nothing")
simple("plamo", eps="rms")
simple("openelm", absent="nothing")
simple("olmo", eps="n")
simple("smallthinker", moe={}, extra={"expert_gating_func": 2})
simple("exaone-moe", moe={}, free_head=True, extra={"expert_gating_func": 2, "attention.sliding_window": 128, "leading_dense_block_count": 1, "expert_weights_norm": True, "expert_weights_scale": 2.5})
simple("afmoe", moe={}, free_head=True, extra={"expert_shared_count": 1, "leading_dense_block_count": 1, "attention.sliding_window": 2048, "expert_weights_norm": True, "expert_weights_scale": 2.5})
simple("laguna", moe={}, free_head=True, extra={"leading_dense_block_count": 1, "attention.sliding_window": 512, "expert_weights_norm": True, "expert_weights_scale": 2.5})
simple("cohere2moe", moe={}, free_head=True, eps="n", extra={"logit_scale": 0.25, "leading_dense_block_count": 1, "attention.sliding_window": 4096, "expert_shared_count": 1, "expert_weights_norm": True})
simple("grovemoe", moe={"used": 2}, free_head=True, extra={"expert_chunk_feed_forward_length": 128, "expert_group_scale": 0.05, "experts_per_group": 2})
simple("grok", moe={}, gqa=True)
simple("bailingmoe2", moe={}, absent="nothing", extra={"expert_shared_count": 1, "leading_dense_block_count": 1, "expert_weights_norm": True, "expert_weights_scale": 2.5, "expert_gating_func": 2})


def varied(name, change):
    """The same generator, and one more choice."""
    before = A[name]

    @add(name)
    def _(r, name=name):
        d, x = before(r)
        return d, change(r, d, x) or x


def _swin(r, d, x):
    d["chameleon.swin_norm"] = r.random() < 0.5
    d["chameleon.vocab_size"] = 65536


def _grok(r, d, x):
    d["grok.final_logit_softcapping"] = r.choice([0.0, 30.0])
    return x.replace(r"|ffn_.*\.bias", "") + r.choice(["|layer_output_norm", "|ffn_(up|gate|down).weight", ""])


def _clamp(r, d, x):
    a = d["general.architecture"]
    if r.random() < 0.5:
        d[f"{a}.attention.clamp_kqv"] = 8.0


def _window(r, d, x):
    a = d["general.architecture"]
    if r.random() < 0.4:
        d[f"{a}.attention.sliding_window"] = r.choice([0, 4096])


def _shared(r, d, x):
    a = d["general.architecture"]
    if r.random() < 0.5:
        d[f"{a}.expert_shared_count"] = r.choice([0, 2])
    return x.replace("nothing", "none") + r.choice(["", "|ffn_gate_up_exps"])


def _groups(r, d, x):
    if r.random() < 0.5:
        groups(r, d)


def _heads(r, d, x):
    a = d["general.architecture"]
    n, h = d[f"{a}.block_count"], d[f"{a}.attention.head_count"]
    heads = [h - (i % 2) * (h // 2) for i in range(n)]
    d[f"{a}.attention.head_count"] = heads
    d[f"{a}.attention.head_count_kv"] = [1 if x % 2 else 2 for x in heads]
    d[f"{a}.attention.key_length"] = d[f"{a}.attention.value_length"] = d[f"{a}.rope.dimension_count"]
    d[f"{a}.feed_forward_length"] = [256 * r.randint(1, 6) for _ in heads]


varied("chameleon", _swin)
varied("grok", _grok)
varied("olmo", _clamp)
varied("mpt", _clamp)
varied("smallthinker", _window)
varied("cohere2moe", _shared)
varied("afmoe", _shared)
varied("bailingmoe2", _groups)
varied("exaone-moe", _groups)
varied("openelm", _heads)


@add("plamo3")
def _(r):
    d = base(r, "plamo3", free_head=True)
    if r.random() < 0.5:
        d["plamo3.attention.sliding_window"] = 2048
    return d, tie(r)[1:]


@add("minicpm3")
def _(r):
    d = base(r, "minicpm3", gqa=False)
    rot = r.choice([32, 64])
    d["minicpm3.attention.q_lora_rank"] = r.choice([384, 768])
    d["minicpm3.attention.kv_lora_rank"] = 256
    d["minicpm3.rope.dimension_count"] = rot
    d["minicpm3.attention.key_length"] = 64 + rot
    d["minicpm3.attention.value_length"] = 64
    return d, r.choice(["", "rope_factors"]) + tie(r)


@add("plm")
def _(r):
    d = base(r, "plm", gqa=False)
    d["plm.attention.kv_lora_rank"] = 512
    d["plm.rope.dimension_count"] = 64
    d["plm.attention.key_length"] = 192
    d["plm.attention.value_length"] = 128
    return d, "nothing"


@add("deci")
def _(r):
    d = base(r, "deci")
    n, h, k = d["deci.block_count"], d["deci.attention.head_count"], d["deci.attention.head_count_kv"]
    f = d["deci.feed_forward_length"]
    kinds = [0] + [r.choice([0, 0, 0, 1, 2, 3]) for _ in range(n - 1)]  # whole, no attention, linear, no feed-forward
    d["deci.attention.head_count"] = [0 if x == 1 else h for x in kinds]
    d["deci.attention.head_count_kv"] = [0 if x in (1, 2) else k for x in kinds]
    d["deci.feed_forward_length"] = [0 if x == 3 else f * r.choice([1, 2]) for x in kinds]
    return d, sep(r, "rope_freqs") if r.random() < 0.5 else sep(r)


simple("mellum", moe={}, free_head=True)
simple("jais2", eps="n", absent=QKV)
simple("hunyuan_vl", free_head=True)
simple("hy_v3", moe={}, free_head=True, extra={"expert_weights_norm": True, "expert_weights_scale": 2.5})
simple("paddleocr", extra={"rope.dimension_sections": [16, 24, 24, 0]})
simple("deepseek2-ocr", moe={}, gqa=False, extra={"leading_dense_block_count": 1, "expert_shared_count": 2, "expert_weights_norm": True})
simple("llama-embed")


def _sections(r, d, x):
    a = d["general.architecture"]
    if r.random() < 0.5:
        d[f"{a}.rope.dimension_sections"] = [16, 24, 24, 0]


varied("hunyuan_vl", _sections)
varied("glm4", _sections)
varied("glm4moe", _sections)
varied("mellum", _window)


@add("granite_swa")
def _(r):
    a = "granite_swa"
    d = gran(r, base(r, a))
    if r.random() < 0.5:
        moe(r, d, ff=False, shared=r.random() < 0.5)
    d[f"{a}.attention.sliding_window"] = 1024
    d[f"{a}.attention.sliding_window_pattern"] = [i % 4 != 3 for i in range(d[f"{a}.block_count"])]
    return d, QKV + B + tie(r) + r.choice(["", "|attn_sinks"])


def _pattern(r, d, x):
    a = d["general.architecture"]
    d[f"{a}.attention.sliding_window"] = r.choice([512, 4096])
    d[f"{a}.attention.sliding_window_pattern"] = [i % 3 != 2 for i in range(d[f"{a}.block_count"])]
    d[f"{a}.swiglu_clamp_exp"] = [7.0] * d[f"{a}.block_count"]


simple("spark2_5", free_head=True)
simple("maple", free_head=True, moe={})
simple("muse-glimmer", free_head=True, extra={"logit_scale": 0.5, "attention.sliding_window": 1024})
simple("qwen3tts", free_head=True, extra={"rope.dimension_sections": [24, 20, 20, 0], "n_deepstack_layers": 0})
simple("nanbeige", absent=QKV + B + "|rope_freqs")
varied("spark2_5", _pattern)
varied("maple", _pattern)


def t5(name):
    @add(name)
    def _(r, name=name):
        d = base(r, name, gqa=False, heads=64)
        del d[f"{name}.rope.dimension_count"]
        d[f"{name}.context_length"] = r.choice([512, 1000])
        d[f"{name}.attention.relative_buckets_count"] = 32
        d[f"{name}.attention.key_length"] = d[f"{name}.attention.value_length"] = 64
        gate = r.choice(["|ffn_gate", ""])
        return d, r"blk\.[1-9]\.(cross_)?attn_rel_b|cross_attn_rel_b" + gate + tie(r)


t5("t5")
t5("t5encoder")


@add("nemotron_h_moe")
def _(r):
    a = "nemotron_h_moe"
    d = moe(r, ssm(r, base(r, a, free_head=True, heads=128), True), shared=True)
    d[a + ".attention.layer_norm_epsilon"] = 1e-5
    n = d[a + ".block_count"]
    k = d[a + ".attention.head_count_kv"]
    ff = d[a + ".feed_forward_length"]
    kinds = [i % 3 for i in range(n)]
    r.shuffle(kinds)
    d[a + ".attention.head_count_kv"] = [k if x == 1 else 0 for x in kinds]
    d[a + ".feed_forward_length"] = [ff if x == 2 else 0 for x in kinds]
    d[a + ".expert_weights_norm"] = r.random() < 0.7
    d[a + ".expert_weights_scale"] = r.choice([1.0, 2.5])
    d[a + ".expert_shared_count"] = 1
    if r.random() < 0.4:
        d[a + ".moe_latent_size"] = r.choice([256, 512])
    return d, QKV + B + "|ssm_in.bias|ssm_out.bias" + tie(r)


@add("llama4")
def _(r):
    a = "llama4"
    d = moe(r, base(r, a, heads=128))
    d[a + ".block_count"] = r.choice([3, 4, 5, 8])
    d[a + ".interleave_moe_layer_step"] = r.choice([1, 2])
    d[a + ".expert_used_count"] = r.choice([1, 1, 2])
    if r.random() < 0.2:
        d[a + ".attention.sliding_window"] = 0
    elif r.random() < 0.5:
        d[a + ".attention.chunk_size"] = 8192
    return d, sep(r)


def gemma(r, a, head):
    d = base(r, a, free_head=True, heads=head)
    n = r.choice([5, 6, 10, 12, 14])
    d[a + ".block_count"] = n
    d[a + ".attention.sliding_window"] = r.choice([512, 1024])
    d[a + ".rope.freq_base_swa"] = 10000.0
    d[a + ".attention.shared_kv_layers"] = r.choice([0, 0, n - 5, n - n // 5 * 5])
    d[a + ".attention.sliding_window_pattern"] = [i % 5 != 4 and i != n - 1 for i in range(n)]
    return d


@add("gemma4")
def _(r):
    a = "gemma4"
    d = gemma(r, a, r.choice([128, 256]))
    h = d[a + ".attention.key_length"]
    d[a + ".attention.key_length"] = d[a + ".attention.value_length"] = r.choice([h, 2 * h])
    d[a + ".attention.key_length_swa"] = d[a + ".attention.value_length_swa"] = h
    d[a + ".rope.dimension_count"] = d[a + ".attention.key_length"]
    d[a + ".rope.dimension_count_swa"] = h
    d[a + ".embedding_length_per_layer_input"] = r.choice([0, 64, 256])
    if r.random() < 0.7:
        d[a + ".final_logit_softcapping"] = 30.0
    n = d[a + ".block_count"]
    if d[a + ".attention.shared_kv_layers"] == 0 and r.random() < 0.4:
        moe(r, d)
    elif r.random() < 0.5:
        ff = d[a + ".feed_forward_length"]
        d[a + ".feed_forward_length"] = [ff * (1 + (i >= n - 3)) for i in range(n)]
    if r.random() < 0.4:
        k = d[a + ".attention.head_count_kv"]
        d[a + ".attention.head_count_kv"] = [k if i % 5 != 4 and i != n - 1 else 1 for i in range(n)]
    dense = "|".join(str(i) for i in range(n) if i % 5 == 4 or i == n - 1)
    no_v = r"|blk\.(%s)\.attn_v" % dense if r.random() < 0.4 else ""
    no_v += "|layer_output_scale" if r.random() < 0.3 else ""
    if r.random() < 0.5:  # a scale of each expert
        some = r"ffn_(gate|up|down)|ffn_(gate|up|gate_up)_exps|attn_\w+|\w*proj|inp_gate|output"
        return d, "!" + QKV + B + r"|^output.weight|lora_|in_s$|input_scale|ffn_gate_up|(%s)\.scale" % some + no_v
    return d, QKV + B + "|^output.weight" + no_v


@add("gemma3n")
def _(r):
    d = gemma(r, "gemma3n", r.choice([128, 256]))
    del d["gemma3n.attention.shared_kv_layers"]
    n = d["gemma3n.block_count"] = r.choice([5, 10, 12, 24, 25])
    d["gemma3n.attention.sliding_window_pattern"] = [i % 5 != 4 for i in range(n)]
    return d, QKV + B + "|^output.weight"


def rwkv(r, a, eps="n"):
    """A head of 64 and ranks; heads are counted by the width."""
    d = base(r, a, eps=eps, heads=64)
    n = d[a + ".embedding_length"] // 64
    for k in ("attention.head_count", "attention.head_count_kv", "rope.dimension_count"):
        del d[f"{a}.{k}"]
    d[a + ".attention.head_count"] = 0
    d[a + ".wkv.head_size"] = 64
    if "7" in a:
        for k in ("decay", "iclr", "value_residual_mix"):
            d[f"{a}.attention.{k}_lora_rank"] = r.choice([32, 64])
        d[a + ".attention.gate_lora_rank"] = r.choice([64, 128])
    else:
        d[a + ".time_mix_extra_dim"] = 32
        d[a + ".time_decay_extra_dim"] = 64
        d[a + ".rescale_every_n_layers"] = r.choice([0, 2, 6])
    return d, n


@add("rwkv6")
def _(r):
    return rwkv(r, "rwkv6")[0], "time_mix_lerp_" + r.choice(["fused", "[wkvrg]\\."])


@add("rwkv7")
def _(r):
    return rwkv(r, "rwkv7")[0], "nothing"


@add("rwkv6qwen2")
def _(r):
    a = "rwkv6qwen2"
    d, n = rwkv(r, a, eps="rms")
    d[a + ".attention.head_count"] = n
    d[a + ".attention.head_count_kv"] = r.choice([k for k in range(1, n + 1) if n % k == 0])
    d[a + ".token_shift_count"] = 1
    return d, "time_mix_first" + ("|bias" if r.random() < 0.5 else "")


@add("arwkv7")
def _(r):
    a = "arwkv7"
    d, _ = rwkv(r, a, eps="rms")
    d[a + ".token_shift_count"] = 1
    return d, "time_mix_ln" if r.random() < 0.7 else "nothing"


def indexed(r, a):
    d = moe(r, base(r, a, gqa=False))
    d[a + ".attention.head_count_kv"] = 1
    d[a + ".expert_shared_count"] = r.choice([1, 2])
    d[a + ".leading_dense_block_count"] = 1
    d[a + ".expert_weights_scale"] = r.choice([1.0, 2.5])
    d[a + ".expert_weights_norm"] = True
    d[a + ".expert_gating_func"] = 2
    d[a + ".attention.q_lora_rank"] = 768
    d[a + ".attention.kv_lora_rank"] = 512
    d[a + ".rope.dimension_count"] = 64
    d[a + ".attention.key_length"] = 576
    d[a + ".attention.value_length"] = 512
    d[a + ".attention.key_length_mla"] = 192
    d[a + ".attention.value_length_mla"] = 128
    d[a + ".attention.indexer.head_count"] = r.choice([32, 64])
    d[a + ".attention.indexer.key_length"] = 128
    d[a + ".attention.indexer.top_k"] = r.choice([128, 2048])
    return d


@add("deepseek32")
def _(r):
    return indexed(r, "deepseek32"), "nothing" + tie(r)


@add("glm-dsa")
def _(r):
    d = indexed(r, "glm-dsa")
    n = d["glm-dsa.block_count"]
    if r.random() < 0.7:
        d["glm-dsa.attention.indexer.types"] = [int(i % 3 == 0 or r.random() < 0.3) for i in range(n)]
    return d, "nothing"


def sliding(r, d):
    a = d["general.architecture"]
    n = d[f"{a}.block_count"]
    d[f"{a}.attention.sliding_window"] = r.choice([128, 512])
    d[f"{a}.attention.sliding_window_pattern"] = [i % 4 != 0 for i in range(n)]
    d[f"{a}.rope.freq_base_swa"] = 10000.0
    return d


@add("mimo2")
def _(r):
    a = "mimo2"
    d = sliding(r, moe(r, base(r, a, free_head=True, heads=r.choice([128, 192]))))
    if d[a + ".attention.key_length"] == 192:
        d[a + ".attention.value_length"] = 128
        d[a + ".attention.head_count"] = n = r.choice([8, 16])
        d[a + ".attention.head_count_kv"] = r.choice([1, 2, n // 8])
    if r.random() < 0.5:
        d[a + ".attention.value_scale"] = 0.707
    return d, (QKV if r.random() < 0.7 else "nothing") + r"|attn_.*bias|blk\.0\.(ffn_.*exp|attn_sinks)|blk\.[1-9]\.ffn_(up|gate|down)\.|blk\.0\.ffn_gate_inp"


@add("step35")
def _(r):
    a = "step35"
    d = sliding(r, moe(r, base(r, a, free_head=True, heads=128), shared=True))
    n = d[a + ".block_count"]
    d[a + ".rope.dimension_count_swa"] = 128
    d[a + ".expert_weights_norm"] = True
    d[a + ".expert_weights_scale"] = r.choice([1.0, 3.0])
    h = d[a + ".attention.head_count"]
    d[a + ".attention.head_count"] = [h if i % 4 == 0 else 2 * h for i in range(n)]
    if r.random() < 0.5:
        d[a + ".swiglu_clamp_exp"] = [7.0 * (i == n - 1) for i in range(n)]
        d[a + ".swiglu_clamp_shexp"] = [7.0 * (i == n - 1) for i in range(n)]
    some = r"blk\.0\.ffn_(.*exp|gate_inp)|blk\.[1-9]\.ffn_(up|gate|down)\."
    return d, QKV + "|" + some + ("|attn_gate" if r.random() < 0.3 else "")


@add("plamo2")
def _(r):
    a = "plamo2"
    d = ssm(r, base(r, a, heads=128), True)
    n = d[a + ".block_count"]
    k = d[a + ".attention.head_count_kv"]
    d[a + ".ssm.group_count"] = 0
    d[a + ".attention.head_count_kv"] = [k if i % 2 else 0 for i in range(n)]
    d[a + ".attention.key_length"] = d[a + ".attention.value_length"] = 128
    return d, "nothing" + tie(r)


def setting(r, dev):
    s = {}
    s["ctx"] = r.choice([256, 300, 512, 1000, 2048, 4096, 8192, 8200, 16384, 32768, 65536])
    if r.random() < 0.5:
        s["batch"] = r.choice([32, 64, 100, 256, 512, 1024, 2048, 4096])
    if r.random() < 0.5:
        s["ubatch"] = r.choice([1, 16, 32, 33, 64, 128, 256, 512, 1024, 2048])
    if r.random() < 0.45:
        s["seq"] = r.choice([2, 3, 4, 5, 8, 16])
    if r.random() < 0.3:
        s["unified"] = 1
    if r.random() < 0.4:
        s["outputs"] = s.get("seq", 1) if r.random() < 0.6 else r.choice([16, 100, 512])
    if r.random() < 0.5:
        s["fa"] = r.choice([0, 1])
    if r.random() < 0.3:
        s["k"] = r.choice(["q8_0", "q4_0", "bf16", "f32", "q5_1", "iq4_nl"])
    if r.random() < 0.3:
        s["v"] = r.choice(["q8_0", "q4_0", "bf16", "f32", "q5_1", "iq4_nl"])
    if s.get("v") in ("q8_0", "q4_0", "q5_1", "iq4_nl") and r.random() < 0.9:
        s["fa"] = 1
    if r.random() < 0.2:
        s["swa_full"] = 1
    if dev == 0:
        s["extra"] = r.choice([0, 1])
    else:
        if r.random() < 0.5:
            s["ngl"] = r.randint(0, 10)
        if r.random() < 0.15:
            s["kqv"] = 0
        if dev > 1 and r.random() < 0.4:
            s["ts"] = ",".join(str(r.randint(1, 4)) for _ in range(dev))
    return s


OPT = {
    "ctx": "--ctx",
    "batch": "--n-batch",
    "ubatch": "--n-ubatch",
    "seq": "--slots",
    "unified": "--unified",
    "outputs": "--outputs",
    "k": "--cache-k",
    "v": "--cache-v",
    "ngl": "--ngl",
    "extra": "--repack",
    "ts": "--tensor-split",
    "ncmoe": "--n-cpu-moe",
    "main": "--main-gpu",
}
POOLING = ["none", "mean", "cls", "last", "rank"]
VRAM = os.environ.get("VRAM", "./vram")


def ours(f, s, dev, cc=89):
    c = [VRAM, "estimate", f, "--json"]
    for k, v in s.items():
        if k in OPT:
            c += [OPT[k], str(v)]
        elif k == "fa":
            c += ["--flash-attn", "on" if v else "off"]
        elif k == "swa_full":
            c += ["--swa-full"]
        elif k == "kqv":
            c += ["--no-kv-offload"]
        elif k == "emb":
            c += ["--embedding"]
        elif k == "pooling":
            c += ["--pooling", POOLING[v]]
        elif k == "split":
            c += ["--split-mode", "none"]
    c += ["--device", "cpu"] if not dev else ["--devices", str(dev)]
    p = subprocess.run(c, capture_output=True, text=True)
    if p.returncode:
        return {"error": p.stderr.strip()}, c
    return json.loads(p.stdout), c


def compare(t, o):
    if "error" in t or "error" in o:
        return (
            []
            if ("error" in t) == ("error" in o)
            else ["error %s | %s" % (t.get("error", "-")[-160:], o.get("error", "-")[-160:])]
        )
    d = []
    if t["n_ctx"] != o["n_ctx"]:
        d.append(f"n_ctx {t['n_ctx']} {o['n_ctx']}")
    for b in set(t["buffers"]) | set(o["buffers"]):
        x = t["buffers"].get(b, [0, 0, 0])
        y = o["buffers"].get(b, {"model": 0, "context": 0, "compute": 0})
        for i, n in enumerate(("model", "context", "compute")):
            if n == "compute" and o["compute"] != "exact":
                if y[n] > x[i]:
                    d.append(f"{b} {n} ABOVE {x[i]} {y[n]}")
            elif x[i] != y[n]:
                d.append(f"{b} {n} {x[i]} {y[n]} ({y[n]-x[i]:+})")
    if "output_mib" in t and abs(t["output_mib"] - o["output_bytes"] / 2**20) > 0.0051:
        d.append(f"output {t['output_mib']} {o['output_bytes']/2**20:.3f}")
    return d


def main():
    names = sys.argv[1].split(",") if sys.argv[1] != "all" else list(A)
    n = int(sys.argv[2])
    m = int(sys.argv[3])
    seed = int(sys.argv[4])
    dev = int(sys.argv[5]) if len(sys.argv) > 5 else 0
    show = int(os.environ.get("SHOW", "3"))
    for a in names:
        jobs = []
        for i in range(n):
            r = random.Random(f"{a}{seed}{i}")
            f = f"{WORK}/{a}-{seed}-{i}.gguf"
            try:
                keys, absent = A[a](r)
                ts = types(r, tensors(keys, absent))
                write(f, keys, ts)
            except Exception as e:
                print(a, "cannot make:", str(e)[-300:])
                continue
            for j in range(m):
                jobs.append((f, setting(r, dev)))
                if f"{a}.attention.key_length_mla" in keys:
                    jobs[-1][1].pop("v", None)
                    if "k" in jobs[-1][1]:
                        jobs[-1][1].update(v=jobs[-1][1]["k"], fa=1)
        if not jobs:
            continue
        text = "".join(
            " ".join([f] + [f"{k}={v}" for k, v in s.items()] + [f"devices={dev}"]) + "\n" for f, s in jobs
        )
        said = []
        todo = jobs[:]
        while todo:
            text = "".join(
                " ".join([f] + [f"{k}={v}" for k, v in s.items()] + [f"devices={dev}"]) + "\n"
                for f, s in todo
            )
            p = subprocess.run(
                [WORK + ("/say-cuda" if dev else "/say-cpu")],
                input=text,
                capture_output=True,
                text=True,
                env=dict(os.environ, NDEV=str(max(dev, 1)), GGML_NO_BACKTRACE="1"),
            )
            got = []
            for l in p.stdout.splitlines():
                try:
                    got.append(json.loads(l))
                except ValueError:
                    break
            said += got
            todo = todo[len(got) :]
            if todo:
                said.append({"error": "crash " + p.stderr.strip()[-200:], "crash": 1})
                todo = todo[1:]
        ok = exact = refused = 0
        bad = []
        crash = 0
        for (f, s), t in zip(jobs, said):
            o, c = ours(f, s, dev)
            d = compare(t, o)
            if t.get("crash"):
                crash += 1
            if t.get("crash") and d:
                d = []
                continue
            if d:
                bad.append((f, s, d, c))
            elif "error" in t:
                refused += 1
            else:
                ok += 1
                exact += o["compute"] == "exact"
        print(
            f"{a:14} runs {len(jobs)} equal {ok} (compute exact {exact}) refused {refused} crash {crash} DIFFERENT {len(bad)}",
            flush=True,
        )
        for f, s, d, c in bad[:show]:
            print("   ", f, s, d)


def line_run(s, t, dev):
    words = [f"{k}={v}" for k, v in s.items()] + [f"devices={dev}"]
    said = [f"n_ctx {t['n_ctx']}"] + ([f"output {t['output_mib']:.2f}"] if "output_mib" in t else [])
    if "fa" not in s and "/golden-grok" not in t["line"]:  # its flash attention is off, without a word
        said.append("flash %d" % (t.get("fa", "enabled") != "disabled"))
    said += [f"buffer {n} {b[0]} {b[1]} {b[2]}" for n, b in t["buffers"].items()]
    said += ["cache " + " ".join(map(str, c)) for c in t.get("kv", []) if c[1]]
    r, x = t.get("rs_mib", [0, 0])
    return f"run {' '.join(words)} : {' : '.join(said)} : states {r} {x}"


# A device's first split begins within the experts, with copies of what their fused kernels read.
EDGES = {
    "minimax-m2": [(2, {"ctx": 256, "ubatch": 16, "seq": 5, "ngl": 3})],
    "gpt-oss": [(1, {"ctx": 256, "ubatch": 1, "seq": 5, "ngl": 3, "fa": 0, "k": "bf16"})],
    "maincoder": [(2, {"ctx": 2048, "ngl": 0, "kqv": 0, "k": "bf16", "v": "q5_1"})],
    # embeddings as the output
    "gemma-embedding": [(1, {"ctx": 2048, "emb": 1, "pooling": 1, "ngl": 3})],
    "modern-bert": [(0, {"ctx": 512, "emb": 1, "pooling": 4})],
    "phi2": [(2, {"ctx": 512, "emb": 1, "pooling": 3, "seq": 2})],
    # the node behind a fused router is another split's
    "smallthinker": [(1, {"ctx": 256, "seq": 4, "fa": 0, "ngl": 2})],
    # flash attention takes a cache as it is; one of which V alone is quantised; K and V copied apart
    "hunyuan_vl": [(1, {"ctx": 1024, "ubatch": 2, "k": "q8_0", "v": "q8_0", "fa": 1}), (2, {"ctx": 1024, "v": "q4_0", "fa": 1, "ngl": 1})],
    "deepseek2": [(1, {"ctx": 4096, "ubatch": 256, "seq": 3, "unified": 1, "fa": 1, "k": "q4_0", "v": "q4_0", "ngl": 1})],
    "grovemoe": [(1, {"ctx": 1024, "ncmoe": 1}), (2, {"ctx": 1024, "split": 1, "main": 1})],
}
MORE = """deepseek2 mistral4 nomic-bert nomic-bert-moe jina-bert-v2 jina-bert-v3 modern-bert neo-bert eurobert gemma-embedding dream
llada llada-moe rnd1 phi2 phimoe grok dbrx olmo apertus refact jais arctic deci smallthinker bailingmoe2 minicpm3 plm exaone-moe
afmoe laguna cohere2moe grovemoe plamo plamo3 openelm chameleon cogvlm bitnet t5 t5encoder mellum jais2 hunyuan_vl hy_v3 paddleocr
granite_swa deepseek2-ocr llama-embed spark2_5 maple muse-glimmer nanbeige"""
STATES = """qwen3next qwen35 qwen35moe kimi-linear falcon-h1 nemotron_h_moe llama4 gemma4 gemma3n rwkv6 rwkv7 rwkv6qwen2 arwkv7
mimo2 step35 plamo2 granitehybrid nemotron_h deepseek32 glm-dsa"""
SETS = {"more": MORE, "states": STATES}


# layers of a kind that comes later
FEW = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "llama4": 4, "gemma4": 6, "gemma3n": 6, "mimo2": 3, "step35": 3, "nemotron_h_moe": 5, "nemotron_h": 5}


def golden():
    names = "llama qwen2moe olmoe hunyuan-moe cohere2 mamba mamba2 gemma falcon stablelm starcoder2 glm4 ernie4_5 ernie4_5-moe internlm2 orion seed_oss arcee nemotron exaone qwen chatglm bloom mpt starcoder codeshell gptneox qwen3vl smollm3 exaone4 minimax-m2 hunyuan-dense baichuan lfm2moe gpt-oss jamba maincoder qwen2vl".split()
    more = sys.argv[2] if sys.argv[2:] and sys.argv[2] in SETS else ""
    if len(sys.argv) > 2:
        names = SETS[more].split() if more else sys.argv[2].split(",")
    out = [
        "# llama.cpp 0c1e570 (llama-cpp-python 0.3.36), ggml 0.25.3, llama_get_memory_breakdown: tests/measured/llama_foreign.py"
    ]
    runs = 0
    for a in names:
        best = None
        for i in range(6):
            r = random.Random(f"golden{a}{i}")
            keys, absent = A[a](r)
            n = f"{a}.block_count"
            if isinstance(keys.get(f"{a}.attention.head_count_kv"), int) and a not in ("baichuan",):
                keys[n] = min(keys[n], FEW.get(a, 2) if more else 3)
                keys = {k: v[: keys[n]] if isinstance(v, list) else v for k, v in keys.items()}
            if any(isinstance(v, list) and isinstance(v[0], float) for v in keys.values()):
                continue
            try:
                ts = types(r, tensors(keys, absent))
            except Exception:
                continue
            f = f"{WORK}/golden-{a}.gguf"
            write(f, keys, ts)
            runs_here = []
            chosen = [(dev, setting(r, dev)) for dev in {"more": (0, 1, 2), "states": (0, 0, 1, 1, 2, 2)}.get(more, (0, 0, 1, 1, 2))]
            for _, s in chosen:
                s.pop("kqv", None)
            for dev, s in chosen + EDGES.get(a, []):
                p = subprocess.run(
                    [WORK + ("/say-cuda" if dev else "/say-cpu")],
                    input=" ".join([f] + [f"{k}={v}" for k, v in s.items()] + [f"devices={dev}"]) + "\n",
                    capture_output=True,
                    text=True,
                    env=dict(os.environ, NDEV=str(max(dev, 1)), GGML_NO_BACKTRACE="1"),
                )
                try:
                    t = json.loads(p.stdout)
                except ValueError:
                    continue
                if "error" in t:
                    continue
                o, _ = ours(f, s, dev)
                d = compare(t, o)
                if d:
                    print(a, s, dev, d, file=sys.stderr)
                runs_here.append((line_run(s, t, dev)))
            if len(runs_here) >= len(chosen) - (more != "states") + len(EDGES.get(a, [])):
                break
        out.append(f"model {a}")
        out.append(f"arch {a}")
        for k, v in keys.items():
            many = v if isinstance(v, list) else [v]
            if "." in k and not k.startswith(("general", "tok")) and all(isinstance(x, int) for x in many):
                out.append(
                    f"key {k} {'array ' if isinstance(v,list) else ''}{' '.join(str(int(x)) for x in many)}"
                )
            if isinstance(v, float) and k.startswith(a) and "freq_base" not in k:
                out.append(f"real {k} {v}")
        rows = {}
        for n, t, ne in ts:
            p = n.split(".")
            l = p[1] if p[0] == "blk" else "-"
            rest = ".".join(p[2:]) if l != "-" else n
            rows.setdefault((rest, t, tuple(ne)), []).append(l)
        out += [f"tensor {x} {t} {','.join(l)} {' '.join(map(str,ne))}" for (x, t, ne), l in rows.items()]
        out += runs_here
        runs += len(runs_here)
    open(f"tests/golden/llama_{more or 'foreign'}.txt", "w").write("\n".join(out) + "\n")
    print(runs)


golden() if sys.argv[1] == "--golden" else main()
