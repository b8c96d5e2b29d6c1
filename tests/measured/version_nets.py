"""Networks that take what differs between versions of PyTorch: every way to attention, norms, losses in autocast."""

import torch, torch.nn as nn, torch.nn.functional as F


class Critic(nn.Module):
    """a discriminator: convolutions with spectral norm's stand-in, an instance norm, a hinge loss"""

    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, width, 4, 2, 1),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(width, 2 * width, 4, 2, 1, bias=False),
            nn.InstanceNorm2d(2 * width, affine=True),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * width, 4 * width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.SiLU(inplace=True),
            nn.Conv2d(4 * width, 1, 4, 1, 0),
        )

    def forward(self, real, fake):
        return F.relu(1 - self.body(real)).mean() + F.relu(1 + self.body(fake)).mean()


def critic():
    return Critic(), {"real": torch.zeros(4, 3, 32, 32), "fake": torch.zeros(4, 3, 32, 32)}


class Generator(nn.Module):
    """transposed convolutions; the loss is binary cross entropy with logits"""

    def __init__(self, noise=64, width=32):
        super().__init__()
        self.body = nn.Sequential(
            nn.ConvTranspose2d(noise, 4 * width, 4, 1, 0, bias=False),
            nn.BatchNorm2d(4 * width),
            nn.ReLU(True),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1, bias=False),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(True),
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
            nn.ReflectionPad2d(1),
            nn.Conv2d(2 * width, 3, 3),
        )
        self.judge = nn.Sequential(nn.Flatten(), nn.Linear(3 * 256, 1))

    def forward(self, noise):
        score = self.judge(torch.tanh(self.body(noise)))
        return F.binary_cross_entropy_with_logits(score, torch.ones_like(score))


def generator():
    return Generator(), {"noise": torch.zeros(4, 64, 1, 1)}


class Vae(nn.Module):
    def __init__(self, width=256, latent=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Flatten(), nn.Linear(784, width), nn.ELU(), nn.Linear(width, 2 * latent))
        self.decode = nn.Sequential(nn.Linear(latent, width), nn.Softplus(), nn.Linear(width, 784))

    def forward(self, image):
        mean, log_variance = self.encode(image).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        near = F.mse_loss(torch.sigmoid(self.decode(z)), image.flatten(1), reduction="sum")
        return near - 0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())


def vae():
    return Vae(), {"image": torch.zeros(8, 1, 28, 28)}


class Encoder(nn.Module):
    """nn.TransformerEncoder with a mask of what is padding"""

    def __init__(self, width=64, heads=4):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, 0.1, "gelu", batch_first=True, norm_first=True)
        self.embed = nn.Embedding(100, width)
        self.body = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 7)

    def forward(self, words, target):
        y = self.body(self.embed(words)).amax(dim=1)
        return F.cross_entropy(self.head(y), target, label_smoothing=0.1)


def encoder():
    return Encoder(), {"words": torch.zeros(4, 32, dtype=torch.long), "target": torch.zeros(4, dtype=torch.long)}


class Attention(nn.Module):
    """scaled_dot_product_attention plain, causal, with dropout, with a mask, with odd heads and across lengths"""

    def __init__(self, width=128):
        super().__init__()
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(5))
        self.odd = nn.Linear(width, 3 * 4 * 20)
        self.out = nn.Linear(width, 1)

    def heads(self, y, n):
        b, s, _ = y.shape
        return [t.view(b, s, n, -1).transpose(1, 2) for t in y.chunk(3, dim=-1)]

    def forward(self, x, mask):
        b, s, w = x.shape
        ways = (
            {},
            {"is_causal": True},
            {"dropout_p": 0.125},
            {"dropout_p": 0.1, "is_causal": True},
            {"attn_mask": mask},
        )
        for layer, way in zip(self.qkv, ways):
            q, k, v = self.heads(layer(x), 2 if way.get("is_causal") else 4)
            x = x + F.scaled_dot_product_attention(q, k, v, **way).transpose(1, 2).reshape(b, s, w)
        q, k, v = self.heads(self.odd(x), 4)
        y = F.scaled_dot_product_attention(q, k[:, :, : s // 2], v[:, :, : s // 2])
        return self.out(x).mean() + y.mean()


def attention():
    return Attention(), {"x": torch.zeros(2, 64, 128), "mask": torch.ones(2, 1, 64, 64, dtype=torch.bool)}


class Norms(nn.Module):
    """every norm, behind products that are 16 bits under autocast"""

    def __init__(self, width=64):
        super().__init__()
        self.linear = nn.ModuleList(nn.Linear(width, width, bias=k % 2 == 0) for k in range(4))
        self.conv = nn.Conv1d(width, width, 3, padding=1)
        self.layer, self.group = nn.LayerNorm(width), nn.GroupNorm(8, width)
        self.weight = nn.Parameter(torch.ones(width))
        self.batch, self.instance = nn.BatchNorm1d(width), nn.InstanceNorm1d(width)

    def forward(self, x):
        x = self.layer(self.linear[0](x))
        y = self.linear[1](x).float()
        x = x + y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight
        x = F.gelu(self.linear[2](x), approximate="tanh")
        x = self.group(self.conv(x.transpose(1, 2)))
        x = self.instance(self.batch(x)).transpose(1, 2)
        x = F.normalize(self.linear[3](x), dim=-1)
        return F.layer_norm(x, (x.shape[-1],)).softmax(dim=-1).logsumexp(dim=-1).sum()


def norms():
    return Norms(), {"x": torch.zeros(4, 48, 64)}


class Losses(nn.Module):
    """losses, of 16 bits under autocast, and gathers"""

    def __init__(self, width=64):
        super().__init__()
        self.table = nn.EmbeddingBag(200, width, mode="mean")
        self.linear = nn.ModuleList(nn.Linear(width, width) for _ in range(5))
        self.mix = nn.Bilinear(width, width, 16)

    def forward(self, bags, classes, aim):
        x = self.table(bags)
        a, b, c, d, e = (f(x) for f in self.linear)
        loss = F.cross_entropy(a, classes, ignore_index=3) + F.nll_loss(F.log_softmax(b, -1), classes)
        loss = loss + F.smooth_l1_loss(c, aim) + F.kl_div(F.log_softmax(d, -1), F.softmax(aim, -1), reduction="batchmean")
        loss = loss + F.cosine_embedding_loss(d, e, torch.ones(x.shape[0], device=x.device))
        loss = loss + F.huber_loss(e, aim) + F.soft_margin_loss(c, aim) + self.mix(a, b).abs().max(dim=-1).values.sum()
        return loss + F.cosine_similarity(a, e, dim=-1).sum() + torch.where(aim > 0, b, c).std()


def losses():
    bags, classes = torch.zeros(12, 5, dtype=torch.long), torch.zeros(12, dtype=torch.long)
    return Losses(), {"bags": bags, "classes": classes, "aim": torch.zeros(12, 64)}


class Segmenter(nn.Module):
    """down with max pools, up with transposed convolutions and what was kept, per pixel cross entropy"""

    def __init__(self, width=16):
        super().__init__()
        block = lambda i, o: nn.Sequential(
            nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True), nn.Dropout2d(0.1)
        )
        self.down = nn.ModuleList([block(3, width), block(width, 2 * width), block(2 * width, 4 * width)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(4 * width, 2 * width, 2, 2), nn.ConvTranspose2d(2 * width, width, 2, 2)])
        self.side = nn.ModuleList([block(4 * width, 2 * width), block(2 * width, width)])
        self.head = nn.Conv2d(width, 5, 1)

    def forward(self, image, classes):
        kept, x = [], image
        for layer in self.down:
            x = layer(x if not kept else F.max_pool2d(x, 2))
            kept.append(x)
        for up, side, other in zip(self.up, self.side, kept[-2::-1]):
            x = side(torch.cat((up(x), other), dim=1))
        return F.cross_entropy(self.head(x), classes)


def segmenter():
    return Segmenter(), {"image": torch.zeros(2, 3, 64, 64), "classes": torch.zeros(2, 64, 64, dtype=torch.long)}


class Video(nn.Module):
    """convolutions along three axes, with and without bias, a pool over time"""

    def __init__(self, width=8):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv3d(3, width, 3, padding=1, bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool3d(2),
            nn.Conv3d(width, 2 * width, (1, 3, 3), (1, 2, 2)),
            nn.GELU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(2 * width, 6),
        )

    def forward(self, frames, target):
        return F.cross_entropy(self.body(frames), target)


def video():
    return Video(), {"frames": torch.zeros(2, 3, 4, 32, 32), "target": torch.zeros(2, dtype=torch.long)}
