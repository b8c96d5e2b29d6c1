#!/usr/bin/env python3
"""Writes the exported models of examples/models; needs torch, torchvision, transformers and diffusers.
usage: export_zoo.py [NAME ...]     (default: all)
The other files there are written by hand."""

import json, os, sys, tempfile

import torch, torch.nn as nn, torch.nn.functional as F

from export_device import without_memory
from export_rows import Problem
from export_sources import Loaded, built, load, package, version
from export_text import export
from loops import roll

HERE = os.path.dirname(os.path.abspath(__file__))
TO = os.path.join(HERE, "..", "examples", "models")

# ---- modules of our own


class DoubleConv(nn.Sequential):
    def __init__(self, a, b):
        layers = [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        layers += [nn.Conv2d(b, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)]
        super().__init__(*layers)


class UNet(nn.Module):
    """Ronneberger et al. 2015, with padding and batch norm; 256 x 256, 2 classes"""

    def __init__(self, widths=(64, 128, 256, 512, 1024)):
        super().__init__()
        self.down = nn.ModuleList(DoubleConv(a, b) for a, b in zip((3,) + widths, widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(DoubleConv(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(x)
            if i + 1 < len(self.down):
                kept.append(x)
                x = F.max_pool2d(x, 2)
        for up, join in zip(reversed(self.up), reversed(self.join)):
            x = join(torch.cat([kept.pop(), up(x)], 1))
        return self.head(x)


class WordModel(nn.Module):
    """a language model of the size of PyTorch's word_language_model example for WikiText-2"""

    def __init__(self, words=33278, width=650, layers=2):
        super().__init__()
        self.encoder = nn.Embedding(words, width)
        self.drop = nn.Dropout(0.5)
        self.lstm = nn.LSTM(width, width, layers, dropout=0.5, batch_first=True)
        self.decoder = nn.Linear(width, words)

    def forward(self, x):
        y, _ = self.lstm(self.drop(self.encoder(x)))
        return self.decoder(self.drop(y))


class SpeechModel(nn.Module):
    """spectrogram -> two convolutions -> five bidirectional GRU layers -> letters, as Deep Speech 2"""

    def __init__(self, features=160, width=800, letters=29):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 32, (41, 11), (2, 2), (20, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.gru = nn.GRU(32 * features // 4, width, 5, bidirectional=True, batch_first=True)
        self.letters = nn.Linear(2 * width, letters)

    def forward(self, x):
        x = self.conv(x)
        x = x.flatten(1, 2).transpose(1, 2)
        y, _ = self.gru(x)
        return self.letters(y)


def classify(module, inputs):
    """inputs, and the module's output against a class for each of its places: the axis behind the batch, or the last"""

    def forward(x, target):
        y = module(x)
        return (
            F.cross_entropy(y, target) if y.dim() == 4 else F.cross_entropy(y.flatten(0, 1), target.flatten())
        )

    return inputs, forward


def unet():
    module = UNet()
    make = lambda N=16: dict(x=torch.zeros(N, 3, 256, 256), target=torch.zeros(N, 256, 256, dtype=torch.long))
    return Loaded(module, *classify(module, make), dims=(("N", 16),))


def lstm():
    module = WordModel()
    make = lambda N=20, S=35: dict(
        x=torch.zeros(N, S, dtype=torch.long), target=torch.zeros(N, S, dtype=torch.long)
    )
    return Loaded(module, *classify(module, make), dims=(("N", 20), ("S", 35)))


def gru():
    module = SpeechModel()
    make = lambda N=16, S=200: dict(
        x=torch.zeros(N, 1, 160, 2 * S), target=torch.zeros(N, S, dtype=torch.long)
    )
    return Loaded(module, *classify(module, make), dims=(("N", 16), ("S", 200)))


def diffusion():
    """Stable Diffusion 1.5's UNet on 64 x 64 latents, with the loss of its training (predicted noise)"""
    diffusers = package("diffusers", "sd15_unet")
    module = built(
        lambda: diffusers.UNet2DConditionModel(
            sample_size=64,
            cross_attention_dim=768,
            attention_head_dim=8,
            block_out_channels=(320, 640, 1280, 1280),
        )
    )

    def inputs(N=4):
        return dict(
            sample=torch.zeros(N, 4, 64, 64),
            timestep=torch.zeros(N, dtype=torch.long),
            text=torch.zeros(N, 77, 768),
            noise=torch.zeros(N, 4, 64, 64),
        )

    def forward(sample, timestep, text, noise):
        return F.mse_loss(module(sample, timestep, text, return_dict=False)[0], noise)

    return Loaded(module, inputs, forward, dims=(("N", 4),), comment=f"diffusers {version(diffusers)}")


# ---- transformers' configurations, as their repositories have them

GPT2 = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"])
LLAMA = dict(
    model_type="llama", architectures=["LlamaForCausalLM"], tie_word_embeddings=False, rms_norm_eps=1e-5
)
HF = {
    "bert_base": dict(model_type="bert", architectures=["BertForMaskedLM"]),
    "gpt2": GPT2,
    "gpt2_xl": dict(GPT2, n_embd=1600, n_head=25, n_layer=48),
    "llama3_8b": dict(
        LLAMA,
        vocab_size=128256,
        hidden_size=4096,
        intermediate_size=14336,
        num_hidden_layers=32,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=8192,
        rope_theta=500000.0,
    ),
    "qwen3_0_6b": dict(
        model_type="qwen3",
        architectures=["Qwen3ForCausalLM"],
        vocab_size=151936,
        hidden_size=1024,
        intermediate_size=3072,
        num_hidden_layers=28,
        num_attention_heads=16,
        num_key_value_heads=8,
        head_dim=128,
        max_position_embeddings=40960,
        tie_word_embeddings=True,
    ),
    "t5_base": dict(
        model_type="t5",
        architectures=["T5ForConditionalGeneration"],
        d_model=768,
        d_ff=3072,
        d_kv=64,
        decoder_start_token_id=0,
        num_layers=12,
        num_heads=12,
    ),
    "whisper_small": dict(
        model_type="whisper",
        architectures=["WhisperForConditionalGeneration"],
        d_model=768,
        encoder_layers=12,
        decoder_layers=12,
        encoder_attention_heads=12,
        decoder_attention_heads=12,
        encoder_ffn_dim=3072,
        decoder_ffn_dim=3072,
    ),
}


def hf(name, **options):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, f"{name}.json")
        with open(path, "w") as f:
            json.dump(HF[name], f)
        return load(f"hf:{path}", **options)


def tv(name, batch=16):
    return lambda: load(f"torchvision:{name}", batch=batch)


# name: what it is, how it is made
ZOO = {
    "alexnet": ("AlexNet: 5 convolutions, 3 linear layers; 224 x 224 images", tv("alexnet", 128)),
    "vgg16": ("VGG-16: 13 convolutions, 3 linear layers; 224 x 224 images", tv("vgg16")),
    "resnet18": ("ResNet-18; 224 x 224 images", tv("resnet18", 64)),
    "resnet50": ("ResNet-50; 224 x 224 images", tv("resnet50")),
    "densenet121": ("DenseNet-121; 224 x 224 images", tv("densenet121")),
    "googlenet": ("GoogLeNet with its two auxiliary heads; 224 x 224 images", tv("googlenet", 32)),
    "mobilenet_v2": ("MobileNetV2: depthwise convolutions; 224 x 224 images", tv("mobilenet_v2", 64)),
    "mobilenet_v3_large": ("MobileNetV3-Large; 224 x 224 images", tv("mobilenet_v3_large", 64)),
    "efficientnet_b0": ("EfficientNet-B0; 224 x 224 images", tv("efficientnet_b0", 32)),
    "regnet_y_1_6gf": ("RegNetY-1.6GF; 224 x 224 images", tv("regnet_y_1_6gf", 32)),
    "convnext_tiny": ("ConvNeXt-Tiny; 224 x 224 images", tv("convnext_tiny", 32)),
    "vit_b_16": ("ViT-B/16: vision transformer; 224 x 224 images", tv("vit_b_16", 32)),
    "swin_t": ("Swin-T: hierarchical vision transformer; 224 x 224 images", tv("swin_t", 32)),
    "deeplabv3_resnet50": (
        "DeepLabV3 with ResNet-50: segmentation; 520 x 520 images",
        tv("deeplabv3_resnet50", 8),
    ),
    "unet": ("U-Net: segmentation; 256 x 256 images", unet),
    "r3d_18": ("3D ResNet-18: video; 16 frames of 112 x 112", tv("r3d_18", 8)),
    "sd15_unet": ("Stable Diffusion 1.5's UNet; 64 x 64 latents", diffusion),
    "bert_base": ("BERT base: encoder with masked-word loss", lambda: hf("bert_base", batch=32)),
    "gpt2": ("GPT-2 (124 M): decoder", lambda: hf("gpt2", batch=8, seq=1024)),
    "gpt2_xl": ("GPT-2 XL (1.5 B): decoder", lambda: hf("gpt2_xl", batch=2, seq=1024)),
    "llama3_8b": (
        "Llama 3 8B: decoder with grouped-query attention",
        lambda: hf("llama3_8b", batch=2, seq=4096),
    ),
    "qwen3_0_6b": (
        "Qwen3 0.6B: decoder with grouped-query attention, tied embedding",
        lambda: hf("qwen3_0_6b", batch=2, seq=4096),
    ),
    "t5_base": ("T5 base: encoder and decoder", lambda: hf("t5_base", batch=16, seq=512)),
    "whisper_small": (
        "Whisper small: speech encoder and text decoder",
        lambda: hf("whisper_small", batch=8, seq=128),
    ),
    "lstm_lm": ("two LSTM layers of 650: language model of 33,278 words", lstm),
    "gru_speech": ("convolutions and five bidirectional GRU layers: speech", gru),
}


def main():
    if sys.argv[1:2] in (["-h"], ["--help"]):
        print(__doc__)
        return 0
    unknown = [n for n in sys.argv[1:] if n not in ZOO]
    if unknown:
        print(f"export_zoo: no model {unknown[0]!r} (known: {' '.join(ZOO)})", file=sys.stderr)
        return 2
    for name in sys.argv[1:] or ZOO:
        what, make = ZOO[name]
        with without_memory():
            loaded = make()
            loaded.name = name
            loaded.comment, made = what, loaded.comment
            text, notes = export(loaded)
        text = "".join(l for l in text.splitlines(True) if not l.startswith("rules "))  # of no version
        first, rest = text.split("\n", 1)
        text = roll(
            f"{first}\n# {made or 'torch ' + version(torch)}; exported by tools/export_zoo.py\n{rest}",
            least=8,
        )
        with open(os.path.join(TO, name + ".vram"), "w") as f:
            f.write(text)
        for n in notes:
            print(f"{name}: {n}", file=sys.stderr)
        print(f"{name}: {text.count(chr(10))} lines")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as e:
        sys.exit(print("export_zoo:", e, file=sys.stderr) or 2)
