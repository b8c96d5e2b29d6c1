#!/usr/bin/env python3
"""Writes tests/golden/diffusers_text.inc: digests of the texts that tools/export_text.py writes of modules of diffusers, and
of text encoders, in eval mode.

    diffusers_text.py CONFIG.json:H,W,S,F ... >OUT   sizes of the latents, tokens, frames; needs diffusers 0.42, transformers 5.23
    diffusers_text.py OLD.inc >OUT                   the configs of such a file anew

Texts are compared as tests/measured/hf_text.py says, without `keep`: what an output is a view of lives no longer than it.
"""

import json, os, re, sys, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools")]

import diffusers, torch, transformers
from export_device import without_memory
from export_sources import Loaded, built
from export_text import export
from hf_text import digest

LONG = torch.long


def text_of(c, N, S):
    return dict(encoder_hidden_states=torch.zeros(N, S, c["joint_attention_dim"]))


def packed(c, N, H, W):
    return torch.zeros(N, H // 2 * (W // 2), c["in_channels"])


def image(c, N, H, W):
    return torch.zeros(N, c["in_channels"], H, W)


def sd3(c, N, H, W, S, F):
    return dict(
        hidden_states=image(c, N, H, W),
        **text_of(c, N, S),
        pooled_projections=torch.zeros(N, c["pooled_projection_dim"]),
        timestep=torch.zeros(N),
    )


def flux(c, N, H, W, S, F):
    x = dict(
        hidden_states=packed(c, N, H, W),
        **text_of(c, N, S),
        pooled_projections=torch.zeros(N, c["pooled_projection_dim"]),
        timestep=torch.zeros(N),
        img_ids=torch.zeros(H // 2 * (W // 2), 3),
        txt_ids=torch.zeros(S, 3),
    )
    return dict(x, guidance=torch.zeros(N)) if c["guidance_embeds"] else x


def pixart(c, N, H, W, S, F):
    x = dict(
        hidden_states=image(c, N, H, W),
        encoder_hidden_states=torch.zeros(N, S, c["caption_channels"]),
        timestep=torch.zeros(N, dtype=LONG),
        encoder_attention_mask=torch.zeros(N, S),
    )
    if c["sample_size"] == 128:
        x.update(resolution=torch.zeros(N, 2), aspect_ratio=torch.zeros(N, 1))
    return x


def dit(c, N, H, W, S, F):
    return dict(
        hidden_states=image(c, N, H, W),
        timestep=torch.zeros(N, dtype=LONG),
        class_labels=torch.zeros(N, dtype=LONG),
    )


def qwen(c, N, H, W, S, F):
    return dict(
        hidden_states=packed(c, N, H, W),
        **text_of(c, N, S),
        encoder_hidden_states_mask=torch.zeros(N, S, dtype=LONG),
        timestep=torch.zeros(N),
    )


def wan(c, N, H, W, S, F):
    return dict(
        hidden_states=torch.zeros(N, c["in_channels"], F, H, W),
        timestep=torch.zeros(N, dtype=LONG),
        encoder_hidden_states=torch.zeros(N, S, c["text_dim"]),
    )


def ltx(c, N, H, W, S, F):
    return dict(
        hidden_states=torch.zeros(N, F * H * W, c["in_channels"]),
        encoder_hidden_states=torch.zeros(N, S, c["caption_channels"]),
        timestep=torch.zeros(N, dtype=LONG),
        encoder_attention_mask=torch.zeros(N, S),
    )


def cog(c, N, H, W, S, F):
    x = dict(
        hidden_states=torch.zeros(N, F, c["in_channels"], H, W),
        encoder_hidden_states=torch.zeros(N, S, c["text_embed_dim"]),
        timestep=torch.zeros(N, dtype=LONG),
    )
    if c["use_rotary_positional_embeddings"]:
        tokens = F * (H // 2) * (W // 2)
        x.update({k: torch.zeros(tokens, c["attention_head_dim"]) for k in ("cos", "sin")})
    return x


def tokens(c, N, H, W, S, F):
    return dict(input_ids=torch.zeros(N, S, dtype=LONG))


def added(m, H, W, F, resolution=None, aspect_ratio=None, **x):
    return m(**x, added_cond_kwargs=dict(resolution=resolution, aspect_ratio=aspect_ratio), return_dict=False)[0]


def shaped(m, H, W, F, **x):
    shapes = [[(1, H // 2, W // 2)]] * x["hidden_states"].shape[0]
    return m(**x, img_shapes=shapes, return_dict=False)[0]


def plain(m, H, W, F, **x):
    return m(**x, return_dict=False)[0]


def first(m, H, W, F, **x):
    return m(**x)[0]


def framed(m, H, W, F, **x):
    return m(**x, num_frames=F, height=H, width=W, rope_interpolation_scale=(1.0, 32, 32), return_dict=False)[0]


def turned(m, H, W, F, cos=None, sin=None, **x):
    return m(**x, image_rotary_emb=None if cos is None else (cos, sin), return_dict=False)[0]


# class: its arguments of a config, batch and sizes; how it is called
CLASSES = {
    "SD3Transformer2DModel": (sd3, plain),
    "FluxTransformer2DModel": (flux, plain),
    "PixArtTransformer2DModel": (pixart, added),
    "DiTTransformer2DModel": (dit, plain),
    "QwenImageTransformer2DModel": (qwen, shaped),
    "WanTransformer3DModel": (wan, plain),
    "LTXVideoTransformer3DModel": (ltx, framed),
    "CogVideoXTransformer3DModel": (cog, turned),
    "T5EncoderModel": (tokens, first),
    "MT5EncoderModel": (tokens, first),
    "UMT5EncoderModel": (tokens, first),
}


def module(c):
    if "_class_name" in c:
        return getattr(diffusers, c["_class_name"]).from_config(dict(c))
    kind = getattr(transformers, c["architectures"][0])
    return kind(kind.config_class(**c))


def exported(c, H, W, S, F):
    arguments, call = CLASSES[c.get("_class_name") or c["architectures"][0]]
    with torch.no_grad(), without_memory():
        m = built(lambda: module(c)).eval()
        made = Loaded(m, lambda N=2: arguments(c, N, H, W, S, F), lambda **x: call(m, H, W, F, **x))
        return re.sub(r"^keep .*\n", "", export(made)[0], flags=re.M)


def configs(a):
    if a.endswith(".inc"):
        with open(a) as f:
            for s, sizes in re.findall(r'^\{("(?:[^"\\]|\\.)*"), (\d+, \d+, \d+, \d+),', f.read(), re.M):
                yield json.loads(json.loads(s)), tuple(int(n) for n in sizes.split(", "))
        return
    path, _, sizes = a.rpartition(":")
    with open(path) as f:
        c = json.load(f)
    unsaid = ("_diffusers_version", "transformers_version", "initializer_factor", "dtype")
    yield {k: v for k, v in c.items() if k not in unsaid}, tuple(int(n) for n in sizes.split(","))


def main():
    warnings.simplefilter("ignore")
    print("/* Files config.json, sizes H, W, S and F, and the lines of the text that the exporter writes of")
    print("   them (tests/measured/diffusers_text.py): how many, and their digest. */")
    print("/* clang-format off */")
    for a in sys.argv[1:]:
        for c, sizes in configs(a):
            n, h = digest(exported(c, *sizes))
            row = json.dumps(json.dumps(c, separators=(",", ":"))), *sizes, n, h
            print("{%s, %d, %d, %d, %d, %d, UINT64_C(0x%016x)}," % row)
    print("/* clang-format on */")


main()
