#!/usr/bin/env python3
"""Writes tests/golden/hf_config.inc: what transformers makes of config.json files on the meta device.

    hf_config.py FILE ... >OUT            FILE: a config.json, or a file .inc whose configs are measured anew
    hf_config.py --random N TYPE ...      N drawn configs of each model_type, compared with what $VRAM says;
                                          --print writes their rows, too. Needs transformers 5.23

Parameters and tensors are those of the class of `architectures` (or of the auto class of the model_type); the
layers of the cache and the bytes of a token are those of the cache which a forward pass on the meta device
fills.
"""

import copy, json, os, random, re, subprocess, sys, tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import torch, transformers

HEADER = """/* Files config.json, and what transformers 5.23.0 makes of them on the meta device (the class of
   `architectures`, or AutoModelForCausalLM), as tests/measured/hf_config.py measures it: well-known
   models first, then small and odd ones. {file, params, text_params, tensors, full layers, layers
   that slide, bytes of a token of all layers (of an encoder with a decoder: of one of each);
   -1: not measured} */
/* clang-format off */"""


def build(d):
    d = copy.deepcopy(d)
    kind = d.pop("model_type")
    names = d.pop("architectures", None)
    d.pop("quantization_config", None)
    dtype = d.get("dtype") or d.get("torch_dtype") or "float32"
    config = transformers.AutoConfig.for_model(kind, **d)
    if names:
        make = lambda: getattr(transformers, names[0])._from_config(config)
    elif kind == "siglip_text_model":  # has no auto class
        make = lambda: transformers.SiglipTextModel._from_config(config)
    elif kind == "whisper":
        make = lambda: transformers.AutoModelForSpeechSeq2Seq.from_config(config)
    elif kind in PAIRS:
        make = lambda: transformers.AutoModelForSeq2SeqLM.from_config(config)
    elif type(config) in transformers.AutoModelForCausalLM._model_mapping and kind not in ENCODERS:
        make = lambda: transformers.AutoModelForCausalLM.from_config(config)
    else:
        make = lambda: transformers.AutoModel.from_config(config)
    with torch.device("meta"):
        model = make()
    return model, config, getattr(torch, dtype)


ENCODERS = ("bert", "roberta", "distilbert", "electra", "xlm-roberta", "camembert")
PAIRS = ("t5", "mt5", "umt5", "bart", "mbart", "marian", "whisper")
TOWERS = (
    "vit",
    "clip",
    "clip_text_model",
    "clip_vision_model",
    "siglip",
    "siglip_text_model",
    "siglip_vision_model",
)


def kinds(layers):
    """Full layers and layers that slide; states alone are neither."""
    names = [type(layer).__name__ for layer in layers]
    full = sum("Linear" not in n or "And" in n for n in names)
    slides = sum(bool(getattr(layer, "is_sliding", False)) for layer in layers)
    return full - slides, slides


def cache_of(model, config, dtype):
    """Full layers, layers that slide, bytes of a token; -1: no forward pass says it."""
    text = config.get_text_config()
    decoder = model if text is config else model.model.language_model
    try:
        with torch.no_grad():
            out = decoder.to(dtype)(
                input_ids=torch.zeros((1, 5), dtype=torch.long, device="meta"), use_cache=True
            )
        cache = out.get("past_key_values")
    except Exception as e:  # heads that do not fit, values that a pass looks at
        print(f"{text.model_type}: no pass: {type(e).__name__} {e}"[:200], file=sys.stderr)
        try:
            return kinds(transformers.DynamicCache(config=text).layers) + (-1,)
        except Exception:
            return -1, -1, -1
    if cache is None:  # states alone
        return 0, 0, 0
    count = 0
    for layer in cache.layers:
        keys = getattr(layer, "keys", None)
        if keys is not None and keys.numel():
            values = getattr(layer, "values", None)
            count += (keys.numel() + (values.numel() if values is not None else 0)) // keys.shape[-2]
    return kinds(cache.layers) + (count * dtype.itemsize,)


def pair_cache_of(model, config, dtype):
    """Of an encoder with a decoder: the same, where a token is one of both; of Whisper one of the decoder, and
    behind it the bytes of the encoder's tokens."""
    if type(model).__name__.endswith("EncoderModel"):
        return 0, 0, 0
    model.set_attn_implementation("eager")  # whose masks look at no values
    ran = torch.bfloat16 if dtype == torch.float16 else dtype  # in float16 layers look for infinities
    inner = getattr(model, "model", model).to(ran)
    ids = torch.zeros((1, 5), dtype=torch.long, device="meta")
    given = {"input_ids": ids}
    if config.model_type == "whisper":
        sound = (1, config.num_mel_bins, 2 * config.max_source_positions)
        given = {"input_features": torch.zeros(sound, device="meta", dtype=ran)}
    with torch.no_grad():
        cache = inner(decoder_input_ids=ids, use_cache=True, **given).past_key_values
    own, cross = (
        sum(l.keys.numel() + l.values.numel() for l in c.layers) * dtype.itemsize
        for c in (cache.self_attention_cache, cache.cross_attention_cache)
    )
    layers = len(cache.self_attention_cache.layers)
    if config.model_type == "whisper":
        return layers, 0, own // 5, cross
    return layers, 0, (own + cross) // 5


def measure(d):
    model, config, dtype = build(d)
    params = sum(p.numel() for p in model.parameters())
    text = params
    if d["model_type"] in PAIRS + TOWERS:
        sights = ("vision_model.", "visual_projection.")
        if d["model_type"] in ("clip", "siglip"):
            text = sum(p.numel() for n, p in model.named_parameters() if not n.startswith(sights))
        cache = pair_cache_of(model, config, dtype) if d["model_type"] in PAIRS else (0, 0, 0)
        return (params, text, len(model.state_dict())) + cache
    if config.get_text_config() is not config:
        text = sum(p.numel() for n, p in model.named_parameters() if "language_model" in n or "lm_head" in n)
    tensors = len(model.state_dict())
    is_decoder = hasattr(config.get_text_config(), "use_cache") and d["model_type"] not in ENCODERS
    return (params, text, tensors) + (cache_of(model, config, dtype) if is_decoder else (-1, -1, -1))


def row(d, numbers):
    text = json.dumps(json.dumps(d, separators=(",", ":")))
    return "{%s, %s}," % (text, ", ".join(map(str, numbers[:6])))


# ---- drawn configs ----


def draw(kind, r):
    heads = r.choice([2, 3, 4, 6, 8])
    head = r.choice([8, 12, 16, 20, 32])
    layers = r.randint(1, 6)
    d = {
        "model_type": kind,
        "hidden_size": heads * head,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "vocab_size": r.randint(50, 400),
        "intermediate_size": r.randint(20, 300),
        "max_position_embeddings": r.choice([64, 100, 512]),
        "pad_token_id": 0,
    }
    maybe = {
        "num_key_value_heads": r.choice([k for k in range(1, heads + 1) if heads % k == 0]),
        "tie_word_embeddings": r.random() < 0.5,
        "dtype": r.choice(["bfloat16", "float16", "float32"]),
    }
    maybe.update(MORE.get(kind, lambda r, d: {})(r, dict(d, **maybe)))
    d.update({k: v for k, v in maybe.items() if r.random() < 0.75})
    return FIX.get(kind, lambda d: d)(d)


def coin(r):
    return r.random() < 0.5


def biases(r, d):
    return {"attention_bias": coin(r), "mlp_bias": coin(r), "head_dim": r.choice([8, 16, 24])}


def head(r, d):
    return {"head_dim": r.choice([8, 16, 24])}


def windows(r, d):
    return dict(
        biases(r, d),
        sliding_window=r.choice([None, 16, 50]),
        use_sliding_window=coin(r),
        max_window_layers=r.randint(0, 4),
    )


def slides(r, d):
    return dict(biases(r, d), sliding_window=r.choice([16, 50]))


def experts(key, used="num_experts_per_tok", **more):
    def make(r, d):
        return dict(
            {
                key: r.randint(2, 7),
                used: r.randint(1, 2),
                "moe_intermediate_size": 8 * r.randint(1, 7),
                "attention_bias": coin(r),
            },
            **{k: v(r) for k, v in more.items()},
        )

    return make


def latent(r, d):
    return dict(
        experts("n_routed_experts")(r, d),
        n_routed_experts=8,
        n_group=2,
        topk_group=1,
        q_lora_rank=r.choice([None, 20, 33]),
        kv_lora_rank=r.choice([16, 24]),
        qk_rope_head_dim=r.choice([4, 8]),
        qk_nope_head_dim=r.choice([8, 12]),
        v_head_dim=r.choice([8, 10]),
        first_k_dense_replace=r.randint(0, 3),
        n_shared_experts=r.randint(1, 2),
        num_key_value_heads=d["num_attention_heads"],
    )


def moved(**names):
    """Keys under other names; None: a family has none."""

    def fix(d):
        return {names.get(k, k): v for k, v in d.items() if names.get(k, k)}

    return fix


GPT = dict(
    hidden_size="n_embd",
    num_hidden_layers="n_layer",
    num_attention_heads="n_head",
    intermediate_size="n_inner",
    max_position_embeddings="n_positions",
    num_key_value_heads=None,
)
NO_GROUPS = dict(num_key_value_heads=None)


def t5(name):
    def make(r, d):
        return {
            "architectures": [name + r.choice(["ForConditionalGeneration", "EncoderModel", "Model"])],
            "d_kv": r.choice([8, 12, 64]),
            "num_decoder_layers": r.choice([None, 1, 3, 5]),
            "feed_forward_proj": r.choice(["relu", "gated-gelu", "gated-silu", "gelu"]),
            "relative_attention_num_buckets": r.choice([8, 32, 33]),
        }

    return make


def pair(*names):
    def make(r, d):
        return {
            "architectures": [r.choice(names)],
            "decoder_layers": r.randint(1, 5),
            "decoder_ffn_dim": r.randint(20, 300),
            "num_hidden_layers": d["num_hidden_layers"],
            "num_labels": r.randint(1, 5),
            "share_encoder_decoder_embeddings": coin(r),
            "max_source_positions": r.choice([10, 30]),
            "max_target_positions": r.choice([20, 33]),
            "num_mel_bins": r.choice([16, 128]),
        }

    return make


def tower(r):
    heads = r.choice([2, 3, 4])
    return {
        "hidden_size": heads * r.choice([8, 12, 20]),
        "num_attention_heads": heads,
        "num_hidden_layers": r.randint(1, 5),
        "intermediate_size": r.randint(20, 200),
    }


def pieces(r):
    return {
        "image_size": r.choice([32, 50, 224]),
        "patch_size": r.choice([8, 14, 16]),
        "num_channels": r.choice([1, 3]),
        "vision_use_head": coin(r),
        "qkv_bias": coin(r),
    }


def words(r):
    return {"vocab_size": r.randint(50, 400), "max_position_embeddings": r.choice([20, 64])}


def some(r, d):
    return {k: v for k, v in d.items() if r.random() < 0.75}


def two_towers(r, d):
    return {
        "text_config": dict(tower(r), **some(r, dict(words(r), projection_size=24))),
        "vision_config": dict(tower(r), **some(r, pieces(r))),
        "projection_dim": r.choice([16, 40]),
    }


def dict_towers(r, d):
    return dict(two_towers(r, d), text_config_dict=some(r, tower(r)) if coin(r) else None)


def one_tower(*names):
    def make(r, d):
        return dict(
            pieces(r),
            architectures=[r.choice(names)],
            projection_dim=r.choice([16, 40]),
            projection_size=24,
            num_labels=r.randint(1, 9),
            pooler_output_size=r.choice([None, 20]),
        )

    return make


def kept_tower(d):
    """A tower alone: heads of keys are no key of it; two towers have all keys in their own configs."""
    outer = ("model_type", "dtype", "projection_dim", "tie_word_embeddings")
    if "text_config" in d or "vision_config" in d or d["model_type"] in ("clip", "siglip"):
        return {k: v for k, v in d.items() if k in outer or "_config" in k}
    if d["model_type"] == "vit" or "vision" in d["model_type"]:
        d = {k: v for k, v in d.items() if k not in ("vocab_size", "max_position_embeddings", "pad_token_id")}
    return {k: v for k, v in d.items() if k not in ("num_key_value_heads", "tie_word_embeddings")}


def hybrid(r, d):
    return {
        "mamba_d_state": r.choice([16, 24]),
        "mamba_d_conv": r.choice([3, 4]),
        "mamba_n_groups": r.choice([1, 2]),
        "mamba_proj_bias": coin(r),
        "mamba_conv_bias": coin(r),
        "attention_bias": coin(r),
        "mlp_bias": coin(r),
        "attn_layer_indices": [i for i in range(d["num_hidden_layers"]) if coin(r)],
    }


# what a family has beside the keys of all: drawn, too
MORE = {
    "llama": biases,
    "mistral": slides,
    "ministral3": slides,
    "mixtral": experts("num_local_experts", sliding_window=lambda r: r.choice([None, 16])),
    "qwen2": windows,
    "qwen3": windows,
    "gemma": biases,
    "gemma2": slides,
    "gemma3_text": slides,
    "phi": lambda r, d: {"qk_layernorm": coin(r)},
    "phimoe": experts("num_local_experts", lm_head_bias=coin),
    "qwen3_moe": lambda r, d: dict(
        windows(r, d),
        **experts("num_experts", decoder_sparse_step=lambda r: r.randint(1, 3))(r, d),
        mlp_only_layers=r.choice([[], [0], [1, 2]]),
    ),
    "olmo": biases,
    "olmo2": biases,
    "olmoe": experts("num_experts"),
    "granite": biases,
    "granitemoe": experts("num_local_experts"),
    "cohere": lambda r, d: {"attention_bias": coin(r), "use_qk_norm": coin(r)},
    "cohere2": slides,
    "gpt_neox": lambda r, d: {"attention_bias": coin(r)},
    "stablelm": lambda r, d: {
        "use_qkv_bias": coin(r),
        "qk_layernorm": coin(r),
        "use_parallel_residual": coin(r),
    },
    "starcoder2": lambda r, d: {"use_bias": coin(r), "sliding_window": r.choice([None, 20])},
    "nemotron": biases,
    "arcee": biases,
    "ernie4_5": lambda r, d: {"use_bias": coin(r), "head_dim": r.choice([8, 16])},
    "smollm3": lambda r, d: {"attention_bias": coin(r), "mlp_bias": coin(r)},
    "exaone4": lambda r, d: {"sliding_window": 20},
    "glm": biases,
    "glm4": biases,
    "glm4_moe": experts(
        "n_routed_experts",
        n_group=lambda r: 1,
        first_k_dense_replace=lambda r: r.randint(0, 3),
        use_qk_norm=coin,
        head_dim=lambda r: r.choice([8, 16]),
    ),
    "deepseek_v2": latent,
    "deepseek_v3": latent,
    "gpt_oss": lambda r, d: dict(
        experts("num_local_experts")(r, d), sliding_window=20, head_dim=r.choice([8, 16])
    ),
    "qwen2_moe": lambda r, d: dict(
        windows(r, d),
        **experts("num_experts", decoder_sparse_step=lambda r: r.randint(1, 3))(r, d),
        mlp_only_layers=r.choice([[], [0], [1, 2]]),
        shared_expert_intermediate_size=r.randint(8, 60),
        qkv_bias=coin(r),
    ),
    "falcon": lambda r, d: {
        "num_kv_heads": d["num_key_value_heads"],
        "new_decoder_architecture": coin(r),
        "multi_query": coin(r),
        "parallel_attn": coin(r),
        "bias": coin(r),
        "num_ln_in_parallel_attn": r.choice([None, 1, 2]),
        "alibi": coin(r),
    },
    "opt": lambda r, d: {
        "enable_bias": coin(r),
        "layer_norm_elementwise_affine": coin(r),
        "do_layer_norm_before": coin(r),
        "_remove_final_layer_norm": coin(r),
        "word_embed_proj_dim": r.choice([8, d["hidden_size"]]),
    },
    "mpt": lambda r, d: {"expansion_ratio": r.choice([2, 3])},
    "gpt_bigcode": lambda r, d: {"multi_query": coin(r)},
    "olmo3": slides,
    "seed_oss": lambda r, d: dict(biases(r, d), attention_out_bias=coin(r)),
    "apertus": lambda r, d: dict(biases(r, d), head_dim=r.choice([8, 16])),
    "hunyuan_v1_dense": biases,
    "hunyuan_v1_moe": lambda r, d: {"num_experts": 3, "moe_topk": 2, **head(r, d)},
    "granitemoeshared": lambda r, d: dict(
        experts("num_local_experts")(r, d), shared_intermediate_size=r.choice([0, 40])
    ),
    "ernie4_5_moe": lambda r, d: {
        "moe_num_experts": r.randint(2, 5),
        "moe_k": 2,
        "moe_intermediate_size": 8 * r.randint(1, 7),
        "moe_num_shared_experts": r.randint(0, 2),
        "moe_layer_start_index": r.randint(0, 2),
        "moe_layer_end_index": r.choice([-1, 3]),
        "moe_layer_interval": r.randint(1, 2),
        "use_bias": coin(r),
    },
    "dots1": lambda r, d: dict(
        experts("n_routed_experts", first_k_dense_replace=lambda r: r.randint(0, 3))(r, d),
        n_shared_experts=r.randint(1, 2),
        **head(r, d),
    ),
    "qwen3_next": lambda r, d: dict(
        experts("num_experts", decoder_sparse_step=lambda r: r.randint(1, 3))(r, d),
        mlp_only_layers=r.choice([[], [0], [1, 2]]),
        shared_expert_intermediate_size=r.randint(8, 60),
        head_dim=r.choice([8, 16]),
        linear_key_head_dim=r.choice([8, 12]),
        linear_value_head_dim=r.choice([8, 12]),
        linear_num_key_heads=2,
        linear_num_value_heads=r.choice([2, 4]),
        linear_conv_kernel_dim=r.choice([3, 4]),
    ),
    "qwen3_5_text": lambda r, d: dict(
        attention_bias=coin(r),
        head_dim=r.choice([8, 16]),
        linear_key_head_dim=r.choice([8, 12]),
        linear_value_head_dim=r.choice([8, 12]),
        linear_num_key_heads=2,
        linear_num_value_heads=r.choice([2, 4]),
        linear_conv_kernel_dim=r.choice([3, 4]),
    ),
    "bert": lambda r, d: {"type_vocab_size": r.randint(1, 3)},
    "roberta": lambda r, d: {"type_vocab_size": r.randint(1, 3)},
    "electra": lambda r, d: {"embedding_size": r.choice([16, d["hidden_size"]])},
    "llama4_text": lambda r, d: {
        "head_dim": r.choice([8, 16]),
        "num_local_experts": r.randint(2, 4),
        "intermediate_size_mlp": r.randint(20, 90),
        "interleave_moe_layer_step": r.randint(1, 3),
        "attention_chunk_size": 32,
        "attention_bias": coin(r),
    },
    "bamba": hybrid,
    "granitemoehybrid": lambda r, d: dict(
        hybrid(r, d),
        attn_layer_indices=None,
        num_local_experts=r.choice([0, 3]),
        shared_intermediate_size=r.randint(8, 90),
        layer_types=[r.choice(["mamba", "attention"]) for _ in range(d["num_hidden_layers"])],
    ),
    "lfm2_moe": lambda r, d: {
        "num_experts": r.randint(2, 6),
        "num_experts_per_tok": 2,
        "moe_intermediate_size": r.randint(8, 90),
        "num_dense_layers": r.randint(0, 3),
        "use_expert_bias": coin(r),
        "conv_bias": coin(r),
        "conv_L_cache": r.choice([3, 4]),
        "tie_embedding": coin(r),
    },
    "t5": t5("T5"),
    "mt5": t5("MT5"),
    "umt5": t5("UMT5"),
    "bart": pair("BartForConditionalGeneration", "BartModel", "BartForSequenceClassification"),
    "mbart": pair("MBartForConditionalGeneration", "MBartModel"),
    "marian": lambda r, d: dict(pair("MarianMTModel", "MarianModel")(r, d), decoder_vocab_size=77),
    "whisper": pair("WhisperForConditionalGeneration", "WhisperModel"),
    "vit": one_tower("ViTModel", "ViTForImageClassification"),
    "clip": dict_towers,
    "clip_text_model": one_tower("CLIPTextModel", "CLIPTextModelWithProjection"),
    "clip_vision_model": one_tower("CLIPVisionModel", "CLIPVisionModelWithProjection"),
    "siglip": two_towers,
    "siglip_text_model": one_tower("SiglipTextModel"),
    "siglip_vision_model": one_tower("SiglipVisionModel"),
    "falcon_mamba": lambda r, d: {"state_size": 8, "use_bias": coin(r), "use_conv_bias": coin(r)},
    "mamba": lambda r, d: {"state_size": 8, "use_bias": coin(r), "use_conv_bias": coin(r)},
}

T5 = moved(
    hidden_size="d_model",
    num_hidden_layers="num_layers",
    num_attention_heads="num_heads",
    intermediate_size="d_ff",
    max_position_embeddings=None,
    num_key_value_heads=None,
)
BART = moved(
    hidden_size="d_model",
    num_attention_heads="encoder_attention_heads",
    intermediate_size="encoder_ffn_dim",
    num_key_value_heads=None,
)


def bart(d):
    layers = {"encoder_layers": 3 if "num_hidden_layers" in d else 4}
    return dict(BART(d), decoder_attention_heads=d["num_attention_heads"], **layers)


FIX = {
    **{
        k: lambda d: dict(d, mamba_n_heads=d["num_attention_heads"], mamba_expand=2)
        for k in ("bamba", "granitemoehybrid")
    },
    "lfm2_moe": lambda d: dict(
        d, layer_types=["conv" if i % 3 else "full_attention" for i in range(d["num_hidden_layers"])]
    ),
    **{k: T5 for k in ("t5", "mt5", "umt5")},
    **{k: bart for k in ("bart", "mbart", "marian", "whisper")},
    **{k: kept_tower for k in TOWERS},
    "gpt2": moved(**GPT),
    "gptj": moved(**GPT),
    "codegen": moved(**GPT),
    "gpt_bigcode": moved(**GPT),
    "gpt_neox": moved(**NO_GROUPS),
    "bloom": lambda d: moved(
        **dict(GPT, n_inner=None, max_position_embeddings=None, hidden_size="hidden_size")
    )({k: v for k, v in d.items() if k != "intermediate_size"}),
    "gpt_neo": lambda d: moved(
        hidden_size="hidden_size",
        num_hidden_layers="num_layers",
        num_attention_heads="num_heads",
        num_key_value_heads=None,
    )(dict(d, attention_types=[[["global"], d["num_hidden_layers"]]])),
    "mamba": moved(**NO_GROUPS),
    "falcon_mamba": moved(**NO_GROUPS),
    "xlm-roberta": moved(**NO_GROUPS),
    "camembert": moved(**NO_GROUPS),
    "electra": moved(**NO_GROUPS),
    "bert": moved(**NO_GROUPS),
    "roberta": moved(**NO_GROUPS),
    "falcon": moved(num_key_value_heads=None, intermediate_size="ffn_hidden_size"),
    "opt": moved(num_key_value_heads=None, intermediate_size="ffn_dim"),
    "mpt": moved(
        hidden_size="d_model",
        num_hidden_layers="n_layers",
        num_attention_heads="n_heads",
        intermediate_size=None,
        max_position_embeddings="max_seq_len",
        num_key_value_heads=None,
    ),
    "distilbert": moved(
        hidden_size="dim",
        num_hidden_layers="n_layers",
        num_attention_heads="n_heads",
        intermediate_size="hidden_dim",
        num_key_value_heads=None,
    ),
}


def ours(d):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as f:
            json.dump(d, f)
        p = subprocess.run([os.environ["VRAM"], "estimate", path, "--json"], capture_output=True, text=True)
        if p.returncode:
            return p.stderr.strip()
        return json.loads(p.stdout)


SAID = ("params", "text_params", "tensors", "full_layers", "sliding_layers", "kv_bytes_per_token", "state_bytes")


def compare(d, numbers):
    o = ours(d)
    if isinstance(o, str):
        return "refused: " + o.partition(": ")[2]
    got = [o[k] for k in SAID]
    wrong = [f"{g} for {n}" for g, n in zip(got, numbers) if n >= 0 and g != n]
    return ", ".join(wrong) and "WRONG " + ", ".join(wrong)


def draws(count, kinds, is_printed):
    bad = 0
    for kind in kinds:
        r = random.Random(kind)
        said = {}
        for _ in range(count):
            d = draw(kind, r)
            try:
                numbers = measure(d)
            except Exception as e:
                verdict = f"no model: {type(e).__name__} {e}"[:150]
            else:
                verdict = compare(d, numbers)
                if is_printed and not verdict:
                    print(row(d, numbers), flush=True)
            said.setdefault(verdict.split(":")[0][:40] if verdict[:5] != "WRONG" else "WRONG", []).append(
                (verdict, d)
            )
        bad += len(said.get("WRONG", []))
        print(kind, {k or "equal": len(v) for k, v in said.items()}, file=sys.stderr, flush=True)
        for k, v in said.items():
            if k:
                print("   ", v[0][0], "\n       ", json.dumps(v[0][1]), file=sys.stderr, flush=True)
    sys.exit(bad != 0)


def configs(path):
    with open(path) as f:
        text = f.read()
    if not path.endswith(".inc"):
        return [json.loads(text)]
    return [json.loads(json.loads(s)) for s in re.findall(r'^\{("(?:[^"\\]|\\.)*"),', text, re.M)]


def main():
    transformers.logging.set_verbosity_error()
    args = sys.argv[1:]
    is_printed = "--print" in args
    args = [a for a in args if a != "--print"]
    if args[0] == "--random":
        draws(int(args[1]), args[2:], is_printed)
    print(HEADER)
    for path in args:
        for d in configs(path):
            print(row(d, measure(d)), flush=True)
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
