#!/usr/bin/env python3
"""Headers of GGUF files of well-known models, without data: what an estimate reads
usage: gguf_header.py MODEL.TYPE FILE    write one; MODEL and TYPE as below
       gguf_header.py --check FOLDER     compare with headers of these names that lie there
Tensors are those that convert_hf_to_gguf.py writes for the sizes in MODELS, which are the models' config.json; types are
those that llama-quantize chooses without an importance matrix (llama.cpp 0c1e57098, src/llama-quant.cpp,
llama_tensor_get_type_impl)."""

import os, struct, sys

# arch, layers, embedding, feed-forward, heads, heads of KV, size of a head, vocabulary, context, more
MODELS = {
    "llama-2-7b": ("llama", 32, 4096, 11008, 32, 32, 128, 32000, 4096, ""),
    "llama-3-8b": ("llama", 32, 4096, 14336, 32, 8, 128, 128256, 8192, ""),
    "llama-3.1-8b": ("llama", 32, 4096, 14336, 32, 8, 128, 128256, 131072, "rope"),
    "llama-3.2-1b": ("llama", 16, 2048, 8192, 32, 8, 64, 128256, 131072, "rope tied"),
    "llama-3.2-3b": ("llama", 28, 3072, 8192, 24, 8, 128, 128256, 131072, "rope tied"),
    "llama-3.3-70b": ("llama", 80, 8192, 28672, 64, 8, 128, 128256, 131072, "rope"),
    "mistral-7b": ("llama", 32, 4096, 14336, 32, 8, 128, 32000, 32768, ""),
    "mistral-7b-v0.3": ("llama", 32, 4096, 14336, 32, 8, 128, 32768, 32768, ""),
    "tinyllama-1.1b": ("llama", 22, 2048, 5632, 32, 4, 64, 32000, 2048, ""),
    "qwen2.5-0.5b": ("qwen2", 24, 896, 4864, 14, 2, 64, 151936, 32768, "tied"),
    "qwen2.5-1.5b": ("qwen2", 28, 1536, 8960, 12, 2, 128, 151936, 32768, "tied"),
    "qwen2.5-3b": ("qwen2", 36, 2048, 11008, 16, 2, 128, 151936, 32768, "tied"),
    "qwen2.5-7b": ("qwen2", 28, 3584, 18944, 28, 4, 128, 152064, 32768, ""),
    "qwen2.5-14b": ("qwen2", 48, 5120, 13824, 40, 8, 128, 152064, 32768, ""),
    "qwen2.5-32b": ("qwen2", 64, 5120, 27648, 40, 8, 128, 152064, 32768, ""),
    "qwen3-0.6b": ("qwen3", 28, 1024, 3072, 16, 8, 128, 151936, 40960, "tied"),
    "qwen3-1.7b": ("qwen3", 28, 2048, 6144, 16, 8, 128, 151936, 40960, "tied"),
    "qwen3-4b": ("qwen3", 36, 2560, 9728, 32, 8, 128, 151936, 40960, "tied"),
    "qwen3-8b": ("qwen3", 36, 4096, 12288, 32, 8, 128, 151936, 40960, ""),
    "qwen3-14b": ("qwen3", 40, 5120, 17408, 40, 8, 128, 151936, 40960, ""),
    "qwen3-32b": ("qwen3", 64, 5120, 25600, 64, 8, 128, 151936, 40960, ""),
    "qwen3-30b-a3b": ("qwen3moe", 48, 2048, 6144, 32, 4, 128, 151936, 40960, "experts=128,8,768"),
    "gemma-3-1b": ("gemma3", 26, 1152, 6912, 4, 1, 256, 262144, 32768, "tied window=512"),
    "gemma-3-4b": ("gemma3", 34, 2560, 10240, 8, 4, 256, 262208, 131072, "tied window=1024"),
    "gemma-3-12b": ("gemma3", 48, 3840, 15360, 16, 8, 256, 262208, 131072, "tied window=1024"),
    "phi-3-mini-4k": ("phi3", 32, 3072, 8192, 32, 32, 96, 32064, 4096, "window=2047"),
    "gpt-oss-20b": ("gpt-oss", 24, 2880, 2880, 64, 8, 64, 201088, 131072, "window=128 experts=32,4,2880"),
    "command-r-35b": ("command-r", 40, 8192, 22528, 64, 64, 128, 256000, 131072, "tied"),
}
# ggml's types: number, elements of a block, bytes of it
TYPES = {
    "f32": (0, 1, 4), "f16": (1, 1, 2), "q4_0": (2, 32, 18), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24), "q8_0": (8, 32, 34),
    "q4_K": (12, 256, 144), "q5_K": (13, 256, 176), "q6_K": (14, 256, 210), "mxfp4": (39, 32, 17),
}  # fmt: skip
# of a file: the type of most tensors, general.file_type
FILES = {
    "F16": ("f16", 1), "Q4_0": ("q4_0", 2), "Q8_0": ("q8_0", 7), "Q4_K_M": ("q4_K", 15), "Q5_K_M": ("q5_K", 17),
    "Q6_K": ("q6_K", 18), "MXFP4_MOE": ("mxfp4", 38),
}  # fmt: skip
FALLBACK = {"q4_K": "q5_0", "q5_K": "q5_1", "q6_K": "q8_0"}  # rows that are no multiple of 256


class Model:
    def __init__(self, name):
        model, self.file = name.rsplit(".", 1)
        self.name, self.base, self.file_type = model, *FILES[self.file]
        (
            self.arch,
            self.layers,
            self.embd,
            self.ff,
            self.heads,
            self.kv,
            self.head,
            self.vocab,
            self.ctx,
            more,
        ) = MODELS[model]
        self.more = dict(word.partition("=")[::2] for word in more.split())
        self.experts = [int(x) for x in self.more.get("experts", "0,0,0").split(",")]

    def more_bits(self, layer):
        n = self.layers
        return layer < n // 8 or layer >= 7 * n // 8 or (layer - n // 8) % 3 == 2

    def role_type(self, role, layer):
        """what llama-quantize makes of one matrix"""
        medium = self.file in ("Q4_K_M", "Q5_K_M")
        if role == "output" or (role == "token_embd" and "tied" in self.more):
            if self.file == "MXFP4_MOE" or self.embd % TYPES[self.base][1]:
                return "q8_0"
            return self.base if self.base in ("f16", "q8_0") else "q6_K"
        if self.file == "MXFP4_MOE":
            return "mxfp4" if role.endswith("_exps") else "q8_0"
        if role in ("attn_v", "ffn_down", "ffn_down_exps") and medium and self.more_bits(layer):
            return "q6_K"
        if role == "attn_v" and self.layers == 80 and self.arch == "llama" and self.base == "q4_K":
            return "q5_K"
        if role == "attn_qkv" and medium:
            return {"Q4_K_M": "q5_K", "Q5_K_M": "q6_K"}[self.file]
        return self.base

    def matrix(self, name, role, layer, *shape):
        kind = self.role_type(role, layer)
        if shape[0] % TYPES[kind][1]:
            kind = FALLBACK[kind]
        return name + ".weight", shape, kind

    def layer(self, i):
        e, q, kv = self.embd, self.heads * self.head, self.kv * self.head
        plain = lambda name, *shape: (f"blk.{i}.{name}", shape, "f32")
        matrix = lambda role, *shape: self.matrix(f"blk.{i}.{role}", role, i, *shape)
        yield plain("attn_norm.weight", e)
        if self.arch == "phi3":
            yield matrix("attn_qkv", e, q + 2 * kv)
        else:
            for role, width in (("attn_q", q), ("attn_k", kv), ("attn_v", kv)):
                yield matrix(role, e, width)
                if self.arch in ("qwen2", "gpt-oss"):
                    yield plain(role + ".bias", width)
        yield matrix("attn_output", q, e)
        if self.arch in ("qwen3", "qwen3moe", "gemma3"):
            yield plain("attn_k_norm.weight", self.head)
            yield plain("attn_q_norm.weight", self.head)
        if self.arch in ("gemma3", "gpt-oss"):
            yield plain("post_attention_norm.weight", e)
        if self.arch == "gemma3":
            yield plain("post_ffw_norm.weight", e)
        if self.arch not in ("gpt-oss", "command-r"):
            yield plain("ffn_norm.weight", e)
        if self.experts[0]:
            yield from self.expert_layer(plain, matrix)
            return
        if self.arch != "phi3":
            yield matrix("ffn_gate", e, self.ff)
        yield matrix("ffn_down", self.ff, e)
        yield matrix("ffn_up", e, self.ff * (2 if self.arch == "phi3" else 1))

    def expert_layer(self, plain, matrix):
        e, (count, _, width) = self.embd, self.experts
        yield plain("ffn_gate_inp.weight", e, count)
        yield matrix("ffn_gate_exps", e, width, count)
        yield matrix("ffn_down_exps", width, e, count)
        yield matrix("ffn_up_exps", e, width, count)
        if self.arch == "gpt-oss":
            yield plain("attn_output.bias", e)
            yield plain("attn_sinks.weight", self.heads)
            yield plain("ffn_gate_inp.bias", count)
            yield plain("ffn_gate_exps.bias", width, count)
            yield plain("ffn_down_exps.bias", e, count)
            yield plain("ffn_up_exps.bias", width, count)

    def tensors(self):
        yield self.matrix("token_embd", "token_embd", 0, self.embd, self.vocab)
        yield "output_norm.weight", (self.embd,), "f32"
        if "tied" not in self.more:
            yield self.matrix("output", "output", 0, self.embd, self.vocab)
        if "rope" in self.more:
            yield "rope_freqs.weight", (self.head // 2,), "f32"
        for i in range(self.layers):
            yield from self.layer(i)

    def keys(self):
        a = self.arch + "."
        yield "general.architecture", self.arch
        yield "general.name", self.name
        yield "general.file_type", self.file_type
        yield "general.quantization_version", 2
        yield a + "block_count", self.layers
        yield a + "embedding_length", self.embd
        yield a + "feed_forward_length", self.ff
        yield a + "vocab_size", self.vocab
        yield a + "context_length", self.ctx
        yield a + "attention.head_count", self.heads
        yield a + "attention.head_count_kv", self.kv
        yield a + "attention.key_length", self.head
        yield a + "attention.value_length", self.head
        yield a + "attention.layer_norm_rms_epsilon", 1e-5
        yield a + "rope.dimension_count", self.head
        if "window" in self.more:
            yield a + "attention.sliding_window", int(self.more["window"])
        if self.experts[0]:
            for key, n in zip(
                ("expert_count", "expert_used_count", "expert_feed_forward_length"), self.experts
            ):
                yield a + key, n
        yield "tokenizer.ggml.model", "no_vocab"


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, str):
        return struct.pack("<I", 8) + text(v)
    return struct.pack("<I", 6) + struct.pack("<f", v) if isinstance(v, float) else struct.pack("<II", 4, v)


def header(name):
    model = Model(name)
    tensors, keys = list(model.tensors()), list(model.keys())
    out, offset = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys)), 0
    for key, v in keys:
        out += text(key) + value(v)
    for tensor, shape, kind in tensors:
        number, block, size = TYPES[kind]
        out += text(tensor) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, number, offset)
        bytes_ = size * (shape[0] // block)
        for n in shape[1:]:
            bytes_ *= n
        offset += (bytes_ + 31) // 32 * 32
    return out + bytes(-len(out) % 32)


def tensors_of(data):
    """name: (shape, type) of a header"""
    scalar = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    at = 24

    def take(form):
        nonlocal at
        at += struct.calcsize("<" + form)
        return struct.unpack_from("<" + form, data, at - struct.calcsize("<" + form))

    def name():
        nonlocal at
        (n,) = take("Q")
        at += n
        return data[at - n : at].decode()

    def skip(kind):
        nonlocal at
        if kind == 8:
            name()
        elif kind == 9:
            inner, n = take("IQ")
            for _ in range(n):
                skip(inner)
        else:
            at += scalar[kind]

    count, keys = struct.unpack_from("<QQ", data, 8)
    for _ in range(keys):
        name()
        skip(*take("I"))
    found = {}
    for _ in range(count):
        key = name()
        shape = take("%dQ" % take("I"))
        found[key] = shape, take("IQ")[0]
    return found


def check(folder):
    """0: each header there whose name this file knows has these tensors"""
    wrong = same = 0
    for file in sorted(os.listdir(folder)):
        model, _, kind = file[: -len(".gguf")].rpartition(".")
        if not file.endswith(".gguf") or model not in MODELS or kind not in FILES:
            continue
        with open(os.path.join(folder, file), "rb") as f:
            theirs = tensors_of(f.read())
        ours = tensors_of(header(f"{model}.{kind}"))
        # a converter before 2026 wrote no such tensor for Qwen3, nor does any published log have its bytes
        theirs.pop("cls.output.weight", None)
        differ = sorted(k for k in set(ours) | set(theirs) if ours.get(k) != theirs.get(k))
        same += not differ
        wrong += bool(differ)
        if differ:
            print(
                f"{file}: {differ[0]}: {ours.get(differ[0])}, the file has {theirs.get(differ[0])} ({len(differ)} differ)"
            )
    print(f"gguf_header: {same} passed, {wrong} failed")
    return wrong > 0


def main(argv):
    if len(argv) != 3:
        print(__doc__)
        return 2
    if argv[1] == "--check":
        return check(argv[2])
    with open(argv[2], "wb") as f:
        f.write(header(argv[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
