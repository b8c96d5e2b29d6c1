#!/usr/bin/env python3
"""Writes tests/golden/diffusers_text.inc: digests of the texts that tools/export_text.py writes of modules of diffusers, and
of text encoders, in eval mode.

    diffusers_text.py CONFIG.json:H,W,S ... >OUT     sizes of the latents, tokens; needs diffusers 0.42, transformers 5.23
    diffusers_text.py OLD.inc >OUT                   the configs of such a file anew

Texts are compared as tests/measured/hf_text.py says.
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


def sd3(c, N, H, W, S):
    return dict(
        hidden_states=image(c, N, H, W),
        **text_of(c, N, S),
        pooled_projections=torch.zeros(N, c["pooled_projection_dim"]),
        timestep=torch.zeros(N),
    )


def flux(c, N, H, W, S):
    x = dict(
        hidden_states=packed(c, N, H, W),
        **text_of(c, N, S),
        pooled_projections=torch.zeros(N, c["pooled_projection_dim"]),
        timestep=torch.zeros(N),
        img_ids=torch.zeros(H // 2 * (W // 2), 3),
        txt_ids=torch.zeros(S, 3),
    )
    return dict(x, guidance=torch.zeros(N)) if c["guidance_embeds"] else x


def pixart(c, N, H, W, S):
    x = dict(
        hidden_states=image(c, N, H, W),
        encoder_hidden_states=torch.zeros(N, S, c["caption_channels"]),
        timestep=torch.zeros(N, dtype=LONG),
        encoder_attention_mask=torch.zeros(N, S),
    )
    if c["sample_size"] == 128:
        x.update(resolution=torch.zeros(N, 2), aspect_ratio=torch.zeros(N, 1))
    return x


def dit(c, N, H, W, S):
    return dict(
        hidden_states=image(c, N, H, W),
        timestep=torch.zeros(N, dtype=LONG),
        class_labels=torch.zeros(N, dtype=LONG),
    )


def qwen(c, N, H, W, S):
    return dict(
        hidden_states=packed(c, N, H, W),
        **text_of(c, N, S),
        encoder_hidden_states_mask=torch.zeros(N, S, dtype=LONG),
        timestep=torch.zeros(N),
    )


def tokens(c, N, H, W, S):
    return dict(input_ids=torch.zeros(N, S, dtype=LONG))


def added(m, H, W, resolution=None, aspect_ratio=None, **x):
    return m(**x, added_cond_kwargs=dict(resolution=resolution, aspect_ratio=aspect_ratio), return_dict=False)[0]


def shaped(m, H, W, **x):
    shapes = [[(1, H // 2, W // 2)]] * x["hidden_states"].shape[0]
    return m(**x, img_shapes=shapes, return_dict=False)[0]


def plain(m, H, W, **x):
    return m(**x, return_dict=False)[0]


def first(m, H, W, **x):
    return m(**x)[0]


# class: its arguments of a config, batch and sizes; how it is called
CLASSES = {
    "SD3Transformer2DModel": (sd3, plain),
    "FluxTransformer2DModel": (flux, plain),
    "PixArtTransformer2DModel": (pixart, added),
    "DiTTransformer2DModel": (dit, plain),
    "QwenImageTransformer2DModel": (qwen, shaped),
    "T5EncoderModel": (tokens, first),
    "MT5EncoderModel": (tokens, first),
    "UMT5EncoderModel": (tokens, first),
}


def module(c):
    if "_class_name" in c:
        return getattr(diffusers, c["_class_name"]).from_config(dict(c))
    kind = getattr(transformers, c["architectures"][0])
    return kind(kind.config_class(**c))


def exported(c, H, W, S):
    arguments, call = CLASSES[c.get("_class_name") or c["architectures"][0]]
    with torch.no_grad(), without_memory():
        m = built(lambda: module(c)).eval()
        made = Loaded(m, lambda N=2: arguments(c, N, H, W, S), lambda **x: call(m, H, W, **x))
        return export(made)[0]


def configs(a):
    if a.endswith(".inc"):
        with open(a) as f:
            for s, sizes in re.findall(r'^\{("(?:[^"\\]|\\.)*"), (\d+, \d+, \d+),', f.read(), re.M):
                yield json.loads(json.loads(s)), tuple(int(n) for n in sizes.split(", "))
        return
    path, _, sizes = a.rpartition(":")
    with open(path) as f:
        c = json.load(f)
    unsaid = ("_diffusers_version", "transformers_version", "initializer_factor", "dtype")
    yield {k: v for k, v in c.items() if k not in unsaid}, tuple(int(n) for n in sizes.split(","))


def main():
    warnings.simplefilter("ignore")
    print("/* Files config.json, sizes H, W and S, and the lines of the text that the exporter writes of them")
    print("   (tests/measured/diffusers_text.py): how many, and their digest. */")
    print("/* clang-format off */")
    for a in sys.argv[1:]:
        for c, (H, W, S) in configs(a):
            n, h = digest(exported(c, H, W, S))
            print("{%s, %d, %d, %d, %d, UINT64_C(0x%016x)}," % (json.dumps(json.dumps(c, separators=(",", ":"))), H, W, S, n, h))
    print("/* clang-format on */")


main()
