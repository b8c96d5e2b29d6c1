"""The header of a small model with experts, as llama.cpp's converters write one and llama-quantize types
it: tests/golden/gguf/experts.gguf (gguf 0.19).

usage: experts.py FILE"""

import sys
import gguf
import numpy as np

LAYERS, EMBD, HEADS, KV, DIM, EXPERTS, USED, WIDTH, VOCAB = 8, 512, 8, 2, 64, 16, 4, 256, 32000
w = gguf.GGUFWriter(sys.argv[1], "qwen3moe")
w.add_name("experts")
w.add_block_count(LAYERS)
w.add_context_length(32768)
w.add_embedding_length(EMBD)
w.add_feed_forward_length(4 * EMBD)
w.add_head_count(HEADS)
w.add_head_count_kv(KV)
w.add_key_length(DIM)
w.add_value_length(DIM)
w.add_layer_norm_rms_eps(1e-6)
w.add_rope_freq_base(1e6)
w.add_expert_count(EXPERTS)
w.add_expert_used_count(USED)
w.add_expert_feed_forward_length(WIDTH)
w.add_tokenizer_model("no_vocab")
w.add_vocab_size(VOCAB)
Q = gguf.GGMLQuantizationType


def add(name, shape, kind):
    numel = int(np.prod(shape))
    block, size = gguf.GGML_QUANT_SIZES[kind]
    raw = (*shape[:-1], shape[-1] // block * size)
    w.add_tensor_info(
        name,
        raw if kind != Q.F32 else shape,
        np.dtype(np.float32 if kind == Q.F32 else np.uint8),
        numel // block * size,
        raw_dtype=None if kind == Q.F32 else kind,
    )


add("token_embd.weight", (VOCAB, EMBD), Q.Q4_K)
for i in range(LAYERS):
    b = f"blk.{i}."
    add(b + "attn_norm.weight", (EMBD,), Q.F32)
    add(b + "attn_q.weight", (HEADS * DIM, EMBD), Q.Q4_K)
    add(b + "attn_k.weight", (KV * DIM, EMBD), Q.Q4_K)
    add(b + "attn_v.weight", (KV * DIM, EMBD), Q.Q6_K)
    add(b + "attn_output.weight", (EMBD, HEADS * DIM), Q.Q4_K)
    add(b + "attn_q_norm.weight", (DIM,), Q.F32)
    add(b + "attn_k_norm.weight", (DIM,), Q.F32)
    add(b + "ffn_norm.weight", (EMBD,), Q.F32)
    add(b + "ffn_gate_inp.weight", (EXPERTS, EMBD), Q.F32)
    add(b + "ffn_gate_exps.weight", (EXPERTS, WIDTH, EMBD), Q.Q4_K)
    add(b + "ffn_up_exps.weight", (EXPERTS, WIDTH, EMBD), Q.Q4_K)
    add(b + "ffn_down_exps.weight", (EXPERTS, EMBD, WIDTH), Q.Q6_K if i % 2 else Q.Q4_K)
add("output_norm.weight", (EMBD,), Q.F32)
add("output.weight", (VOCAB, EMBD), Q.Q6_K)
w.write_header_to_file()
w.write_kv_data_to_file()
w.write_ti_data_to_file()
w.close()
with open(sys.argv[1], "ab") as f:  # the data section begins at a multiple of the alignment
    f.write(bytes(-f.tell() % 32))
