#!/usr/bin/env python3
"""Prints tests/golden/hf_states.inc: what transformers keeps of two sequences in models with states.

usage: hf_states.py >OUT        needs transformers 5.23

Each model runs eight tokens and one more on the CPU; the states of its cache are counted, by sequence.
"""

import json, os

os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers

SMALL = dict(hidden_size=64, vocab_size=100, pad_token_id=0)
HEADS = dict(num_attention_heads=4, num_key_value_heads=2, intermediate_size=64)
DELTA = dict(linear_num_value_heads=4, linear_num_key_heads=2, linear_key_head_dim=16, linear_value_head_dim=24)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
MODELS = {
    "mamba": dict(SMALL, num_hidden_layers=2),
    "falcon_mamba": dict(SMALL, num_hidden_layers=3, state_size=8),
    "mamba2": dict(SMALL, num_hidden_layers=2, num_heads=8, head_dim=16, n_groups=2, state_size=24),
    "jamba": dict(SMALL, **HEADS, num_hidden_layers=4, num_experts=2, attn_layer_period=2, attn_layer_offset=1),
    "falcon_h1": dict(SMALL, **HEADS, num_hidden_layers=2, head_dim=16, mamba_d_ssm=96, mamba_n_heads=6, mamba_d_head=16, mamba_d_state=32, mamba_n_groups=2),
    "qwen3_next": dict(SMALL, **HEADS, **DELTA, **EXPERTS, num_hidden_layers=4, head_dim=16),
    "qwen3_5_text": dict(SMALL, **HEADS, **DELTA, num_hidden_layers=8, head_dim=16, linear_conv_kernel_dim=3),
    "lfm2": dict(SMALL, **HEADS, num_hidden_layers=5, full_attn_idxs=[1, 3], conv_L_cache=4),
    "bamba": dict(SMALL, **HEADS, num_hidden_layers=3, attn_layer_indices=[1], mamba_n_heads=8, mamba_d_state=24, mamba_n_groups=2),
    "granitemoehybrid": dict(SMALL, **HEADS, num_hidden_layers=3, layer_types=["mamba", "attention", "mamba"], mamba_n_heads=4, mamba_d_state=16, mamba_d_conv=3, num_local_experts=2),
    "lfm2_moe": dict(SMALL, **HEADS, num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "conv"], num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32),
}


def state_bytes(cache):
    count = 0
    for layer in cache.layers:
        for name in ("conv_states", "recurrent_states"):
            for state in getattr(layer, name, {}).values():
                count += state.numel() * state.element_size() if state is not None else 0
    return count


def main():
    print("/* Models with states and the bytes of a sequence's, as tests/measured/hf_states.py counts")
    print(f"   them in transformers {transformers.__version__}. */\n/* clang-format off */")
    for kind, sizes in MODELS.items():
        for dtype in ("bfloat16", "float32"):
            config = transformers.AutoConfig.for_model(kind, **sizes)
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, dtype)).eval()
            with torch.no_grad():
                out = model(torch.ones(2, 8, dtype=torch.long), use_cache=True)
                name = "past_key_values" if "past_key_values" in out else "cache_params"
                cache = out[name]
                model(torch.ones(2, 1, dtype=torch.long), use_cache=True, **{name: cache})
            text = json.dumps(dict(model_type=kind, **sizes, dtype=dtype), separators=(",", ":"))
            print("{" + json.dumps(text) + f", {state_bytes(cache) // 2}}},")
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
