"""Models that no name of a package gives: what a function for export_torch.py and measure_torch.py looks like."""

import torch, torch.nn as nn, torch.nn.functional as F


class Speech(nn.Module):
    """spectrogram to letters: convolutions, bidirectional GRUs, connectionist temporal classification"""

    def __init__(self, bins=80, width=256, letters=29):
        super().__init__()
        self.front = nn.Sequential(
            nn.Conv2d(1, 32, (11, 11), (2, 2), (5, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
            nn.Conv2d(32, 32, (11, 11), (2, 1), (5, 5), bias=False),
            nn.BatchNorm2d(32),
            nn.Hardtanh(0, 20, inplace=True),
        )
        self.rnn = nn.GRU(32 * (bins // 4), width, 3, bidirectional=True, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(2 * width)
        self.head = nn.Linear(2 * width, letters)

    def forward(self, sound, letters):
        y = self.front(sound.unsqueeze(1))
        y = y.flatten(1, 2).transpose(1, 2)
        y, _ = self.rnn(y)
        y = self.head(self.norm(y))
        return F.cross_entropy(y.flatten(0, 1), letters.flatten())


def speech():
    return Speech(), {"sound": torch.zeros(4, 80, 200), "letters": torch.zeros(4, 100, dtype=torch.long)}


class Tied(nn.Module):
    """language model of LSTMs whose output layer is the embedding's matrix"""

    def __init__(self, words=10000, width=400):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.rnn = nn.LSTM(width, width, 2, batch_first=True, dropout=0.2)
        self.drop = nn.Dropout(0.4)
        self.head = nn.Linear(width, words)
        self.head.weight = self.embed.weight

    def forward(self, words, following):
        y, _ = self.rnn(self.drop(self.embed(words)))
        return F.cross_entropy(self.head(self.drop(y)).flatten(0, 1), following.flatten())


def tied_lstm():
    words = torch.zeros(8, 64, dtype=torch.long)
    return Tied(), {"words": words, "following": words.clone()}


class ResBlock(nn.Module):
    def __init__(self, i, o, time):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.time = nn.Linear(time, o)
        self.norm2, self.conv2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(t))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, c)
        self.qkv, self.out = nn.Conv2d(c, 3 * c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        q, k, v = (
            self.qkv(self.norm(x)).reshape(n, 3, self.heads, c // self.heads, h * w).transpose(3, 4).unbind(1)
        )
        y = F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(n, c, h, w)
        return x + self.out(y)


class Denoiser(nn.Module):
    """UNet of a diffusion model: predicts the noise in an image at a time"""

    def __init__(self, base=64, levels=(1, 2, 4)):
        super().__init__()
        time = 4 * base
        self.base = base
        self.time = nn.Sequential(nn.Linear(base, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, base, 3, padding=1)
        self.down, self.up, widths, c = nn.ModuleList(), nn.ModuleList(), [base], base
        for k, m in enumerate(levels):
            block = nn.ModuleDict(
                {"res": ResBlock(c, m * base, time), "attention": Attention(m * base) if k else nn.Identity()}
            )
            c = m * base
            widths.append(c)
            block["pool"] = nn.Conv2d(c, c, 3, 2, 1)
            self.down.append(block)
        self.middle = ResBlock(c, c, time)
        for k, m in reversed(list(enumerate(levels))):
            self.up.append(
                nn.ModuleDict(
                    {
                        "res": ResBlock(c + widths[k + 1], m * base, time),
                        "attention": Attention(m * base) if k else nn.Identity(),
                    }
                )
            )
            c = m * base
        self.last = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))

    def forward(self, image, noise, step):
        frequency = torch.exp(torch.arange(self.base // 2, device=step.device) * -0.1)
        angle = step[:, None] * frequency[None]
        t = self.time(torch.cat([angle.sin(), angle.cos()], 1))
        x, kept = self.first(image), []
        for block in self.down:
            x = block["attention"](block["res"](x, t))
            kept.append(x)
            x = block["pool"](x)
        x = self.middle(x, t)
        for block in self.up:
            x = F.interpolate(x, scale_factor=2, mode="nearest")
            x = block["attention"](block["res"](torch.cat([x, kept.pop()], 1), t))
        return F.mse_loss(self.last(x), noise)


def denoiser():
    return Denoiser(), {
        "image": torch.zeros(4, 3, 32, 32),
        "noise": torch.zeros(4, 3, 32, 32),
        "step": torch.zeros(4),
    }


class Pairs(nn.Module):
    """two towers and a contrastive loss, with CLIPModel of transformers"""

    def __init__(self):
        super().__init__()
        import transformers

        tower = dict(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4)
        self.clip = transformers.CLIPModel(
            transformers.CLIPConfig(
                text_config=dict(max_position_embeddings=77, **tower),
                vision_config=dict(image_size=224, patch_size=32, **tower),
            )
        )

    def forward(self, input_ids, pixel_values):
        return self.clip(input_ids=input_ids, pixel_values=pixel_values, return_loss=True).loss


def clip():
    return Pairs(), {
        "input_ids": torch.zeros(4, 32, dtype=torch.long),
        "pixel_values": torch.zeros(4, 3, 224, 224),
    }


class Loss(nn.Module):
    """a model of transformers whose output has a loss"""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, **inputs):
        return self.model(**inputs).loss


def video():
    import transformers

    config = transformers.TimesformerConfig(
        image_size=112,
        num_frames=4,
        hidden_size=192,
        intermediate_size=768,
        num_hidden_layers=4,
        num_attention_heads=3,
    )
    return Loss(transformers.TimesformerForVideoClassification(config)), {
        "pixel_values": torch.zeros(2, 4, 3, 112, 112),
        "labels": torch.zeros(2, dtype=torch.long),
    }


def spectrogram():
    import transformers

    config = transformers.ASTConfig(
        hidden_size=192, intermediate_size=768, num_hidden_layers=4, num_attention_heads=3, max_length=256
    )
    return Loss(transformers.ASTForAudioClassification(config)), {
        "input_values": torch.zeros(4, 256, 128),
        "labels": torch.zeros(4, dtype=torch.long),
    }
