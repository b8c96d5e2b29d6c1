"""More programs for programs.py, written as popular repositories write theirs: in-place operations, hand-made losses, scans and routers."""

import copy, math

import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from programs_own import mlp, tokens


class CausalSelfAttention(nn.Module):
    def __init__(self, d, heads, longest):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.drop, self.heads = nn.Dropout(0.1), heads
        self.register_buffer("mask", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.heads, C // self.heads).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf"))
        att = self.drop(F.softmax(att, dim=-1))
        y = (att @ v).transpose(1, 2).contiguous().view(B, T, C)
        return self.c_proj(y)


class NanoGPT(nn.Module):
    """tied weights, dropout, manual attention, checkpointed second block"""

    def __init__(self, words=512, d=96, heads=4, layers=3, longest=64):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, d), nn.Embedding(longest, d)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList(
            nn.ModuleDict(
                dict(
                    ln_1=nn.LayerNorm(d, bias=False),
                    attn=CausalSelfAttention(d, heads, longest),
                    ln_2=nn.LayerNorm(d, bias=False),
                    mlp=nn.Sequential(
                        nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d), nn.Dropout(0.1)
                    ),
                )
            )
            for _ in range(layers)
        )
        self.ln_f, self.lm_head = nn.LayerNorm(d, bias=False), nn.Linear(d, words, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.drop(self.wte(idx) + self.wpe(pos))

        def block(h, x):
            x = x + h["attn"](h["ln_1"](x))
            return x + h["mlp"](h["ln_2"](x))

        for k, h in enumerate(self.h):
            x = checkpoint(block, h, x, use_reentrant=False) if k == 1 else block(h, x)
        logits = self.lm_head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def nano_gpt():
    return NanoGPT(), {"idx": tokens(3, 50), "targets": tokens(3, 50)}


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(d, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = mlp(d, 4 * d, d, act=lambda: nn.GELU(approximate="tanh"))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x, c):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.ada(c).chunk(6, dim=1)
        y = modulate(self.norm1(x), shift1, scale1)
        x = x + gate1.unsqueeze(1) * self.attn(y, y, y, need_weights=False)[0]
        return x + gate2.unsqueeze(1) * self.mlp(modulate(self.norm2(x), shift2, scale2))


class DiT(nn.Module):
    """a diffusion transformer with classifier-free dropout of labels and learned variance"""

    def __init__(self, side=16, patch=2, c=4, d=64, heads=4, layers=2, classes=10):
        super().__init__()
        self.patch, self.c, self.n, self.classes = patch, c, (side // patch) ** 2, classes
        self.x_embed = nn.Conv2d(c, d, patch, patch)
        self.t_embed, self.y_embed = mlp(256, d, d, act=nn.SiLU), nn.Embedding(classes + 1, d)
        self.pos = nn.Parameter(torch.zeros(1, self.n, d), requires_grad=False)
        self.blocks = nn.ModuleList(DiTBlock(d, heads) for _ in range(layers))
        self.final, self.norm = nn.Linear(d, patch * patch * 2 * c), nn.LayerNorm(d, elementwise_affine=False)
        self.register_buffer("alpha", torch.linspace(0.99, 0.01, 1000))

    def times(self, t):
        freqs = torch.exp(-math.log(10000) * torch.arange(0, 128, dtype=torch.float32) / 128).to(t.device)
        args = t[:, None].float() * freqs[None]
        return torch.cat([torch.cos(args), torch.sin(args)], dim=-1)

    def forward(self, x, t, y):
        noise = torch.randn_like(x)
        a = self.alpha[t].view(-1, 1, 1, 1)
        noisy = a.sqrt() * x + (1 - a).sqrt() * noise
        dropped = torch.rand(y.shape[0], device=y.device) < 0.1
        y = torch.where(dropped, self.classes, y)
        h = self.x_embed(noisy).flatten(2).transpose(1, 2) + self.pos
        c = self.t_embed(self.times(t).to(h.dtype)) + self.y_embed(y)
        for block in self.blocks:
            h = block(h, c)
        h = self.final(self.norm(h))
        s, p = int(self.n**0.5), self.patch
        h = torch.einsum("nhwpqc->nchpwq", h.reshape(-1, s, s, p, p, 2 * self.c)).reshape(
            -1, 2 * self.c, s * p, s * p
        )
        eps, var = torch.split(h, self.c, dim=1)
        frac = (var + 1) / 2
        kl = (frac * torch.log(a) + (1 - frac) * torch.log(1 - a)).pow(2).mean(dim=(1, 2, 3))
        return ((noise - eps) ** 2).mean(dim=list(range(1, 4))).mean() + 1e-3 * kl.mean()


def dit():
    return DiT(), {"x": torch.zeros(4, 4, 16, 16), "t": tokens(4), "y": tokens(4)}


class Mae(nn.Module):
    """a masked autoencoder: random shuffling by argsort, gather, mask tokens, a decoder, a loss on what was hidden"""

    def __init__(self, side=32, patch=4, d=64, dd=32, heads=4):
        super().__init__()
        self.patch, n = patch, (side // patch) ** 2
        self.embed = nn.Conv2d(3, d, patch, patch)
        self.cls, self.mask_token = nn.Parameter(torch.zeros(1, 1, d)), nn.Parameter(torch.zeros(1, 1, dd))
        self.pos = nn.Parameter(torch.zeros(1, n + 1, d), requires_grad=False)
        self.dpos = nn.Parameter(torch.zeros(1, n + 1, dd), requires_grad=False)
        layer = lambda d: nn.TransformerEncoderLayer(
            d, heads, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks, self.dblocks = (nn.ModuleList(layer(w) for _ in range(2)) for w in (d, dd))
        self.norm, self.dnorm = nn.LayerNorm(d), nn.LayerNorm(dd)
        self.narrow, self.pred = nn.Linear(d, dd), nn.Linear(dd, patch * patch * 3)

    def patchify(self, imgs):
        p, h = self.patch, imgs.shape[2] // self.patch
        x = imgs.reshape(imgs.shape[0], 3, h, p, h, p)
        return torch.einsum("nchpwq->nhwpqc", x).reshape(imgs.shape[0], h * h, p * p * 3)

    def forward(self, imgs):
        x = self.embed(imgs).flatten(2).transpose(1, 2) + self.pos[:, 1:]
        N, L, D = x.shape
        keep = int(L * 0.25)
        shuffle = torch.argsort(torch.rand(N, L, device=x.device), dim=1)
        restore = torch.argsort(shuffle, dim=1)
        x = torch.gather(x, 1, shuffle[:, :keep].unsqueeze(-1).repeat(1, 1, D))
        mask = torch.ones([N, L], device=x.device)
        mask[:, :keep] = 0
        mask = torch.gather(mask, 1, restore)
        x = torch.cat(((self.cls + self.pos[:, :1]).expand(N, -1, -1), x), dim=1)
        for block in self.blocks:
            x = block(x)
        x = self.narrow(self.norm(x))
        hidden = self.mask_token.repeat(N, L + 1 - x.shape[1], 1)
        y = torch.cat([x[:, 1:, :], hidden], dim=1)
        y = torch.gather(y, 1, restore.unsqueeze(-1).repeat(1, 1, x.shape[2]))
        x = torch.cat([x[:, :1, :], y], dim=1) + self.dpos
        for block in self.dblocks:
            x = block(x)
        pred = self.pred(self.dnorm(x))[:, 1:, :]
        target = self.patchify(imgs)
        mean, var = target.mean(dim=-1, keepdim=True), target.var(dim=-1, keepdim=True)
        loss = ((pred - (target - mean) / (var + 1e-6) ** 0.5) ** 2).mean(dim=-1)
        return (loss * mask).sum() / mask.sum()


def vit_mae():
    return Mae(), {"imgs": torch.zeros(4, 3, 32, 32)}


class DenoiserBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, i), nn.Conv2d(i, o, 3, padding=1)
        self.emb = nn.Linear(t, 2 * o)
        self.norm2, self.conv2 = nn.GroupNorm(8, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(F.silu(t))[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h).mul_(1 + scale).add_(shift)
        return (self.skip(x) + self.conv2(F.silu(h))) / math.sqrt(2)


class UnetEma(nn.Module):
    """a U-Net in EDM's preconditioning, and the moving average of its weights within the step"""

    class Net(nn.Module):
        def __init__(self, c=32, t=64):
            super().__init__()
            self.time = mlp(16, t, t, act=nn.SiLU)
            self.inc = nn.Conv2d(3, c, 3, padding=1)
            self.down = nn.ModuleList([DenoiserBlock(c, c, t), DenoiserBlock(c, 2 * c, t)])
            self.mid = DenoiserBlock(2 * c, 2 * c, t)
            self.up = nn.ModuleList([DenoiserBlock(4 * c, c, t), DenoiserBlock(2 * c, c, t)])
            self.out = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, 3, 3, padding=1))
            self.register_buffer("freqs", torch.randn(8))

        def forward(self, x, noise):
            f = noise.ger((2 * math.pi * self.freqs).to(noise.dtype))
            t = self.time(torch.cat([f.cos(), f.sin()], dim=1).to(x.dtype))
            h, skips = self.inc(x), []
            for block in self.down:
                h = block(h, t)
                skips.append(h)
                h = F.avg_pool2d(h, 2)
            h = self.mid(h, t)
            for block in self.up:
                h = F.interpolate(h, scale_factor=2.0, mode="nearest")
                h = block(torch.cat([h, skips.pop()], dim=1), t)
            return self.out(h)

    def __init__(self):
        super().__init__()
        self.net = self.Net()
        self.ema = copy.deepcopy(self.net).eval().requires_grad_(False)

    def forward(self, x):
        rnd = torch.randn([x.shape[0], 1, 1, 1], device=x.device)
        sigma = (rnd * 1.2 - 1.2).exp()
        weight = (sigma**2 + 0.25) / (sigma * 0.5) ** 2
        noisy = x + torch.randn_like(x) * sigma
        c_skip = 0.25 / (sigma**2 + 0.25)
        c_out = sigma * 0.5 / (sigma**2 + 0.25).sqrt()
        c_in = 1 / (0.25 + sigma**2).sqrt()
        F_x = self.net((c_in * noisy).to(self.net.inc.weight.dtype), (sigma.log() / 4).flatten())
        loss = weight * (c_skip * noisy + c_out * F_x.to(torch.float32) - x) ** 2
        with torch.no_grad():
            for e, p in zip(self.ema.parameters(), self.net.parameters()):
                e.copy_(p.detach().lerp(e, 0.999))
        return loss.sum().mul(1 / x.shape[0])


def unet_ema():
    return UnetEma(), {"x": torch.zeros(2, 3, 32, 32)}


class MambaMixer(nn.Module):
    """a selective scan written as a loop, as in the reference's slow path"""

    def __init__(self, d, state=8, conv=4, expand=2):
        super().__init__()
        self.inner, self.state, self.rank = expand * d, state, max(1, d // 16)
        self.in_proj = nn.Linear(d, 2 * self.inner, bias=False)
        self.conv1d = nn.Conv1d(self.inner, self.inner, conv, groups=self.inner, padding=conv - 1)
        self.x_proj = nn.Linear(self.inner, self.rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(self.rank, self.inner)
        A = torch.arange(1, state + 1, dtype=torch.float32).repeat(self.inner, 1)
        self.A_log, self.D = nn.Parameter(torch.log(A)), nn.Parameter(torch.ones(self.inner))
        self.out_proj = nn.Linear(self.inner, d, bias=False)

    def forward(self, x):
        B, L, _ = x.shape
        x, z = self.in_proj(x).chunk(2, dim=-1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :L]).transpose(1, 2)
        dt, Bm, C = self.x_proj(x).split([self.rank, self.state, self.state], dim=-1)
        dt = F.softplus(self.dt_proj(dt))
        A = -torch.exp(self.A_log.float())
        dA = torch.exp(torch.einsum("bld,dn->bldn", dt, A))
        dBx = torch.einsum("bld,bln,bld->bldn", dt, Bm, x)
        h, ys = x.new_zeros(B, self.inner, self.state), []
        for i in range(L):
            h = dA[:, i] * h + dBx[:, i]
            ys.append(torch.einsum("bdn,bn->bd", h, C[:, i].to(h.dtype)))
        y = torch.stack(ys, dim=1) + x * self.D
        return self.out_proj((y * F.silu(z)).to(x.dtype))


class Mamba(nn.Module):
    def __init__(self, words=256, d=32, layers=2):
        super().__init__()
        self.embed, self.norm = nn.Embedding(words, d), nn.RMSNorm(d)
        self.layers = nn.ModuleList(nn.Sequential(nn.RMSNorm(d), MambaMixer(d)) for _ in range(layers))

    def forward(self, x, y):
        h = self.embed(x)
        for layer in self.layers:
            h = h + layer(h)
        return F.cross_entropy((self.norm(h) @ self.embed.weight.t()).flatten(0, 1), y.flatten())


def mamba_scan():
    return Mamba(), {"x": tokens(2, 12), "y": tokens(2, 12)}


class Experts(nn.Module):
    """top-2 routing with capacity by one-hot and cumsum, dispatch by einsum, load-balancing and z losses"""

    def __init__(self, d, n=4, k=2, capacity=12):
        super().__init__()
        self.n, self.k, self.capacity = n, k, capacity
        self.router = nn.Linear(d, n, bias=False)
        self.w1, self.w2 = nn.Parameter(torch.zeros(n, d, 2 * d)), nn.Parameter(torch.zeros(n, 2 * d, d))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        logits = self.router(flat).float()
        probs = F.softmax(logits, dim=-1)
        top, index = probs.topk(self.k, dim=-1)
        top = top / top.sum(dim=-1, keepdim=True)
        hot = F.one_hot(index, self.n)
        place = (
            hot.permute(1, 0, 2)
            .reshape(-1, self.n)
            .cumsum(dim=0)
            .reshape(self.k, -1, self.n)
            .permute(1, 0, 2)
            - 1
        )
        hot = hot * torch.lt(place, self.capacity)
        balance = self.n * (hot[:, 0].float().mean(0) * probs.mean(0)).sum()
        z = torch.logsumexp(logits, dim=-1).square().mean()
        slot = F.one_hot((place * hot).sum(-1).clamp_(0, self.capacity - 1), self.capacity)
        combine = torch.einsum("tk,tke,tkc->tec", top, hot.to(top.dtype), slot.to(top.dtype)).to(x.dtype)
        dispatch = combine.bool().to(x.dtype)
        inside = torch.einsum("tec,td->ecd", dispatch, flat)
        out = torch.bmm(F.gelu(torch.bmm(inside, self.w1)), self.w2)
        return torch.einsum("tec,ecd->td", combine, out).view_as(x), 0.01 * balance + 1e-3 * z


class MoeRouter(nn.Module):
    def __init__(self, d=32, words=200):
        super().__init__()
        self.embed, self.moe, self.head = nn.Embedding(words, d), Experts(d), nn.Linear(d, words)

    def forward(self, x, y):
        h = self.embed(x)
        out, more = self.moe(h)
        return F.cross_entropy(self.head(h + out).transpose(1, 2), y, label_smoothing=0.1) + more


def moe_router():
    return MoeRouter(), {"x": tokens(2, 16), "y": tokens(2, 16)}


class Cross(nn.Module):
    def __init__(self, d, heads, cross):
        super().__init__()
        self.heads, self.cross = heads, cross
        self.ln, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.q, self.k, self.v, self.o = (
            nn.Linear(d, d),
            nn.Linear(d, d, bias=False),
            nn.Linear(d, d),
            nn.Linear(d, d),
        )
        self.mlp = mlp(d, 4 * d, d, act=nn.GELU)

    def forward(self, x, xa=None, mask=None):
        y = self.ln(x)
        s = y if xa is None else xa
        q, k, v = self.q(y), self.k(s), self.v(s)
        scale = (q.shape[-1] // self.heads) ** -0.25
        q, k, v = (t.view(*t.shape[:2], self.heads, -1).permute(0, 2, 1, 3) for t in (q, k, v))
        qk = (q * scale) @ (k * scale).transpose(-1, -2)
        if mask is not None:
            qk = qk + mask[: q.shape[2], : q.shape[2]]
        w = F.softmax(qk.float(), dim=-1).to(q.dtype)
        x = x + self.o((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))
        return x + self.mlp(self.ln2(x))


class WhisperLike(nn.Module):
    """a log-mel spectrogram by stft, two convolutions, an encoder, a decoder with tied weights"""

    def __init__(self, d=48, heads=4, mels=20, words=300, longest=32):
        super().__init__()
        self.register_buffer("window", torch.hann_window(100), persistent=False)
        self.register_buffer("filters", torch.zeros(mels, 51), persistent=False)
        self.conv1, self.conv2 = nn.Conv1d(mels, d, 3, padding=1), nn.Conv1d(d, d, 3, stride=2, padding=1)
        self.register_buffer("positions", torch.zeros(40, d))
        self.encoder = nn.ModuleList(Cross(d, heads, False) for _ in range(2))
        self.words, self.pos = nn.Embedding(words, d), nn.Parameter(torch.empty(longest, d))
        self.own, self.other = (nn.ModuleList(Cross(d, heads, c) for _ in range(2)) for c in (False, True))
        self.ln = nn.LayerNorm(d)
        self.register_buffer(
            "mask", torch.empty(longest, longest).fill_(-math.inf).triu_(1), persistent=False
        )

    def forward(self, audio, text, labels):
        with torch.no_grad():
            stft = torch.stft(audio.float(), 100, 40, window=self.window.float(), return_complex=True)
            mel = self.filters.float() @ (stft[..., :-1].abs() ** 2)
            log = torch.clamp(mel, min=1e-10).log10()
            log = (torch.maximum(log, log.amax(dim=(1, 2), keepdim=True) - 8.0) + 4.0) / 4.0
        x = F.gelu(self.conv2(F.gelu(self.conv1(log.to(self.conv1.weight.dtype))))).permute(0, 2, 1)
        x = (x + self.positions[: x.shape[1]]).to(x.dtype)
        for block in self.encoder:
            x = block(x)
        y = self.words(text) + self.pos[: text.shape[-1]]
        for own, other in zip(self.own, self.other):
            y = other(own(y, mask=self.mask), x)
        logits = (self.ln(y) @ torch.transpose(self.words.weight.to(y.dtype), 0, 1)).float()
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=-100)


def whisper_like():
    return WhisperLike(), {"audio": torch.zeros(2, 2000), "text": tokens(2, 20), "labels": tokens(2, 20)}


class ClipLosses(nn.Module):
    """two towers and the losses that people add: contrastive, sigmoid, captioning, distillation, a queue of negatives"""

    def __init__(self, d=32, words=100, queue=24):
        super().__init__()
        self.image = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1),
            nn.BatchNorm2d(16),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, d, 3, 2, 1),
            nn.AdaptiveAvgPool2d(1),
        )
        self.words, self.text = nn.Embedding(words, d, padding_idx=0), nn.GRU(
            d, d, batch_first=True, bidirectional=True
        )
        self.to_text, self.caption = nn.Linear(2 * d, d), nn.Linear(2 * d, words)
        self.scale, self.bias = nn.Parameter(torch.ones([]) * math.log(1 / 0.07)), nn.Parameter(
            torch.zeros([])
        )
        self.teacher = copy.deepcopy(self.image).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(d, queue), dim=0))

    def forward(self, image, text):
        i = F.normalize(self.image(image).flatten(1), dim=-1)
        states, last = self.text(self.words(text))
        t = self.to_text(last.transpose(0, 1).reshape(len(text), -1))
        t = t / t.norm(dim=-1, keepdim=True)
        scale = self.scale.exp().clamp(max=100)
        logits = scale * i @ t.t()
        labels = torch.arange(len(i), device=i.device, dtype=torch.long)
        contrast = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2
        signs = 2 * torch.eye(len(i), device=i.device) - 1
        sigmoid = -F.logsigmoid(signs * (logits + self.bias)).sum() / len(i)
        caption = F.cross_entropy(
            self.caption(states[:, :-1]).flatten(0, 1), text[:, 1:].flatten(), ignore_index=0
        )
        with torch.no_grad():
            for a, b in zip(self.teacher.parameters(), self.image.parameters()):
                a.data = a.data * 0.99 + b.data * 0.01
            soft = F.normalize(self.teacher(image).flatten(1), dim=-1)
            known = torch.cat([soft.t(), self.queue.clone().to(soft.dtype)], dim=1)
            target = F.softmax(soft @ known / 0.07, dim=1)
        distill = -(F.log_softmax(i @ known / 0.07, dim=1) * target).sum(dim=1).mean()
        self.queue[:, : len(soft)] = soft.t()
        return contrast + 0.1 * sigmoid + caption + 0.5 * distill


def clip_losses():
    return ClipLosses(), {"image": torch.zeros(4, 3, 20, 20), "text": tokens(4, 10)}


class TimeMix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.shift = nn.ZeroPad2d((0, 0, 1, -1))
        self.mix_k, self.mix_v, self.mix_r = (nn.Parameter(torch.ones(1, 1, d) * 0.5) for _ in range(3))
        self.decay, self.first = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
        self.key, self.value, self.receptance, self.output = (nn.Linear(d, d, bias=False) for _ in range(4))

    def forward(self, x):
        B, T, C = x.shape
        xx = self.shift(x)
        k = self.key(x * self.mix_k + xx * (1 - self.mix_k))
        v = self.value(x * self.mix_v + xx * (1 - self.mix_v))
        r = torch.sigmoid(self.receptance(x * self.mix_r + xx * (1 - self.mix_r)))
        w, u, k, v = -torch.exp(self.decay.float()), self.first.float(), k.float(), v.float()
        aa = bb = torch.zeros(B, C, device=x.device)
        pp, out = torch.full((B, C), -1e38, device=x.device), torch.empty_like(v)
        for t in range(T):
            ww = u + k[:, t]
            qq = torch.maximum(pp, ww)
            e1, e2 = torch.exp(pp - qq), torch.exp(ww - qq)
            out[:, t] = (e1 * aa + e2 * v[:, t]) / (e1 * bb + e2)
            ww = pp + w
            qq = torch.maximum(ww, k[:, t])
            e1, e2 = torch.exp(ww - qq), torch.exp(k[:, t] - qq)
            aa, bb, pp = e1 * aa + e2 * v[:, t], e1 * bb + e2, qq
        return self.output((r * out).to(x.dtype))


class Rwkv(nn.Module):
    def __init__(self, words=200, d=24, layers=2):
        super().__init__()
        self.emb, self.ln0, self.ln = nn.Embedding(words, d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.time = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), TimeMix(d)) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(layers))
        self.key, self.value = (
            nn.ModuleList(nn.Linear(*s, bias=False) for _ in range(layers)) for s in ((d, 4 * d), (4 * d, d))
        )
        self.head = nn.Linear(d, words, bias=False)

    def forward(self, idx, targets):
        x = self.ln0(self.emb(idx))
        for time, norm, key, value in zip(self.time, self.norms, self.key, self.value):
            x = x + time(x)
            x = x + value(torch.square(torch.relu(key(norm(x)))))
        return F.cross_entropy(self.head(self.ln(x)).view(-1, self.head.out_features), targets.view(-1))


def rwkv_like():
    return Rwkv(), {"idx": tokens(2, 6), "targets": tokens(2, 6)}


class PerceiverIO(nn.Module):
    """Fourier features, latents that read, output queries; dropout of tokens by randperm"""

    def __init__(self, d=48, latents=10, bands=6, classes=7):
        super().__init__()
        wide = 3 + 2 * (2 * bands + 1)
        self.bands, self.latents = bands, nn.Parameter(torch.randn(latents, d) * 0.02)
        self.read = nn.MultiheadAttention(d, 2, kdim=wide, vdim=wide, batch_first=True)
        self.think = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, dropout=0.1), 2
        )
        self.queries, self.write = nn.Parameter(torch.randn(1, d)), nn.MultiheadAttention(
            d, 2, batch_first=True
        )
        self.out = nn.Linear(d, classes)

    def forward(self, x, y):
        b, _, *axes = x.shape
        at = [torch.linspace(-1.0, 1.0, steps=s, device=x.device, dtype=x.dtype) for s in axes]
        pos = torch.stack(torch.meshgrid(*at, indexing="ij"), dim=-1).unsqueeze(-1)
        scales = torch.linspace(1.0, 10.0 / 2, self.bands, device=x.device, dtype=x.dtype)
        f = pos * scales * math.pi
        f = torch.cat((torch.cat([f.sin(), f.cos()], dim=-1), pos), dim=-1).flatten(-2)
        data = torch.cat((x.permute(0, 2, 3, 1), f.expand(b, *f.shape)), dim=-1).flatten(1, 2)
        data = data[:, torch.randperm(data.shape[1], device=x.device)[: data.shape[1] // 2]]
        z = self.latents.repeat(b, 1, 1)
        z = z + self.read(z, data, data)[0]
        z = self.think(z)
        return F.cross_entropy(self.out(self.write(self.queries.expand(b, -1, -1), z, z)[0].squeeze(1)), y)


def perceiver_io():
    return PerceiverIO(), {"x": torch.zeros(3, 3, 12, 12), "y": tokens(3)}


class Norm2d(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(c)), nn.Parameter(torch.zeros(c))

    def forward(self, x):
        u = x.mean(1, keepdim=True)
        s = (x - u).pow(2).mean(1, keepdim=True)
        x = (x - u) / torch.sqrt(s + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class MaskDecoder(nn.Module):
    """prompts of points and boxes, two-way attention, upscaling, hypernetworks, focal and dice loss, predicted quality"""

    def __init__(self, d=32, heads=2, masks=3, side=12):
        super().__init__()
        self.side, self.masks = side, masks
        self.neck = nn.Sequential(
            nn.Conv2d(3, d, 4, 4, bias=False), Norm2d(d), nn.Conv2d(d, d, 3, padding=1, bias=False), Norm2d(d)
        )
        self.register_buffer("gaussian", torch.randn((2, d // 2)))
        self.points = nn.ModuleList(nn.Embedding(1, d) for _ in range(4))
        self.not_a_point, self.no_mask = nn.Embedding(1, d), nn.Embedding(1, d)
        self.iou_token, self.mask_tokens = nn.Embedding(1, d), nn.Embedding(masks, d)
        attention = lambda: nn.MultiheadAttention(d, heads, batch_first=True)
        self.own, self.to_image, self.to_tokens = attention(), attention(), attention()
        self.norms, self.mlp = nn.ModuleList(nn.LayerNorm(d) for _ in range(4)), mlp(d, 2 * d, d)
        self.up = nn.Sequential(
            nn.ConvTranspose2d(d, d // 4, 2, 2),
            Norm2d(d // 4),
            nn.GELU(),
            nn.ConvTranspose2d(d // 4, d // 8, 2, 2),
            nn.GELU(),
        )
        self.hyper = nn.ModuleList(mlp(d, d, d // 8) for _ in range(masks))
        self.iou = mlp(d, d, masks)

    def encode(self, coords):
        coords = 2 * coords - 1
        coords = 2 * math.pi * (coords @ self.gaussian.to(coords.dtype))
        return torch.cat([torch.sin(coords), torch.cos(coords)], dim=-1)

    def forward(self, image, points, labels, target):
        src = self.neck(image)
        grid = torch.ones((self.side, self.side), device=image.device, dtype=src.dtype)
        y, x = (grid.cumsum(dim=0) - 0.5) / self.side, (grid.cumsum(dim=1) - 0.5) / self.side
        pos = self.encode(torch.stack([x, y], dim=-1)).flatten(0, 1)
        p = self.encode(points.to(src.dtype) / 48)
        p[labels == -1] = 0.0
        p[labels == -1] += self.not_a_point.weight.to(p.dtype)
        p[labels == 0] += self.points[0].weight.to(p.dtype)
        p[labels == 1] += self.points[1].weight.to(p.dtype)
        out = torch.cat([self.iou_token.weight, self.mask_tokens.weight], dim=0)
        t = torch.cat((out.unsqueeze(0).expand(p.size(0), -1, -1), p.to(out.dtype)), dim=1)
        keys = (src + self.no_mask.weight.reshape(1, -1, 1, 1)).flatten(2).permute(0, 2, 1)
        q = self.norms[0](t + self.own(t, t, t)[0])
        q = self.norms[1](q + self.to_image(q + t, keys + pos, keys)[0])
        q = self.norms[2](q + self.mlp(q))
        keys = self.norms[3](keys + self.to_tokens(keys + pos, q + t, q)[0])
        up = self.up(keys.transpose(1, 2).view_as(src))
        hyper = torch.stack([h(q[:, 1 + k]) for k, h in enumerate(self.hyper)], dim=1)
        b, c, h, w = up.shape
        low = (hyper @ up.view(b, c, h * w)).view(b, -1, h, w)
        masks = F.interpolate(low.float(), target.shape[-2:], mode="bilinear", align_corners=False)
        target = target[:, None].expand_as(masks).float()
        prob = masks.sigmoid()
        ce = F.binary_cross_entropy_with_logits(masks, target, reduction="none")
        pt = prob * target + (1 - prob) * (1 - target)
        focal = (ce * ((1 - pt) ** 2)).mean(dim=(2, 3))
        p, t2 = prob.flatten(2), target.flatten(2)
        dice = 1 - (2 * (p * t2).sum(-1) + 1) / (p.sum(-1) + t2.sum(-1) + 1)
        per_mask = 20 * focal + dice
        best = per_mask.argmin(dim=1, keepdim=True)
        with torch.no_grad():
            hit = (masks > 0).float() * target
            iou = hit.sum((2, 3)) / ((masks > 0).float() + target - hit).sum((2, 3)).clamp(min=1e-6)
        quality = F.mse_loss(self.iou(q[:, 0]).float(), iou, reduction="none")
        return (per_mask.gather(1, best) + quality.gather(1, best)).mean()


def sam_decoder():
    return MaskDecoder(), {
        "image": torch.zeros(2, 3, 48, 48),
        "points": torch.zeros(2, 3, 2),
        "labels": tokens(2, 3),
        "target": torch.zeros(2, 48, 48),
    }


class Gat(nn.Module):
    """graph attention with a softmax over edges by scatter, residuals, mean pooling by index_add"""

    def __init__(self, d=24, heads=3, classes=5, layers=2):
        super().__init__()
        self.heads, self.inc = heads, nn.Linear(7, d)
        self.lin = nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(layers))
        self.att = nn.ParameterList(
            nn.Parameter(torch.zeros(1, heads, 2 * d // heads)) for _ in range(layers)
        )
        self.norm = nn.ModuleList(nn.BatchNorm1d(d) for _ in range(layers))
        self.out = nn.Linear(d, classes)

    def forward(self, x, src, dst, batch, y):
        h, n = self.inc(x), x.size(0)
        for lin, att, norm in zip(self.lin, self.att, self.norm):
            z = lin(h).view(n, self.heads, -1)
            e = F.leaky_relu((torch.cat([z[src], z[dst]], dim=-1) * att).sum(dim=-1), 0.2)
            index = dst.unsqueeze(-1).expand_as(e)
            top = torch.full((n, self.heads), -1e9, device=x.device, dtype=e.dtype)
            top = top.scatter_reduce(0, index, e.detach(), reduce="amax")
            e = (e - top[dst]).exp()
            total = torch.zeros(n, self.heads, device=x.device, dtype=e.dtype).scatter_add_(0, index, e)
            a = F.dropout(e / (total[dst] + 1e-16), 0.1, self.training)
            m = torch.zeros_like(z).index_add_(0, dst, (z[src] * a.unsqueeze(-1)).to(z.dtype))
            h = h + F.elu(norm(m.flatten(1)))
        graphs = y.size(0)
        sums = h.new_zeros(graphs, h.size(1)).index_add_(0, batch, h)
        count = torch.bincount(batch, minlength=graphs).clamp(min=1).unsqueeze(-1)
        return F.cross_entropy(self.out(sums / count), y)


def gat():
    return Gat(), {
        "x": torch.zeros(20, 7),
        "src": tokens(60),
        "dst": tokens(60),
        "batch": tokens(20),
        "y": tokens(4),
    }


class WaveNetVocoder(nn.Module):
    """weight-normed dilated convolutions conditioned on upsampled features, a mixture of logistics as the loss"""

    def __init__(self, c=16, skip=24, layers=4, mels=10, mixtures=3):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.first = norm(nn.Conv1d(1, c, 1))
        self.up = nn.ModuleList(
            nn.ConvTranspose2d(1, 1, (3, 8), padding=(1, 2), stride=(1, 4)) for _ in range(2)
        )
        self.dilated = nn.ModuleList(norm(nn.Conv1d(c, 2 * c, 3, dilation=2**k)) for k in range(layers))
        self.cond = nn.ModuleList(norm(nn.Conv1d(mels, 2 * c, 1, bias=False)) for _ in range(layers))
        self.res, self.skip = (
            nn.ModuleList(norm(nn.Conv1d(c, o, 1)) for _ in range(layers)) for o in (c, skip)
        )
        self.last = nn.Sequential(
            nn.ReLU(inplace=True),
            norm(nn.Conv1d(skip, skip, 1)),
            nn.ReLU(inplace=True),
            norm(nn.Conv1d(skip, 3 * mixtures, 1)),
        )

    def forward(self, x, mel):
        c = mel.unsqueeze(1)
        for up in self.up:
            c = F.leaky_relu_(up(c), 0.4)
        c, h, skips = c.squeeze(1), self.first(x), 0
        for k, (dilated, cond, res, skip) in enumerate(zip(self.dilated, self.cond, self.res, self.skip)):
            y = dilated(F.pad(F.dropout(h, 0.05, self.training), (2 * 2**k, 0))) + cond(c)
            a, b = y.split(y.size(1) // 2, dim=1)
            y = torch.tanh(a) * torch.sigmoid(b)
            s = skip(y)
            skips = s if k == 0 else (skips + s) * math.sqrt(0.5)
            h = (res(y) + h) * math.sqrt(0.5)
        out = self.last(skips)[:, :, :-1].transpose(1, 2).float()
        n = out.size(2) // 3
        logit, mean, log_scale = out[..., :n], out[..., n : 2 * n], torch.clamp(out[..., 2 * n :], min=-7.0)
        y = x[:, :, 1:].transpose(1, 2).expand_as(mean)
        centered, inv = y - mean, torch.exp(-log_scale)
        plus, minus = inv * (centered + 1 / 255), inv * (centered - 1 / 255)
        delta = torch.sigmoid(plus) - torch.sigmoid(minus)
        low, high = plus - F.softplus(plus), -F.softplus(minus)
        mid = inv * centered
        pdf = mid - log_scale - 2.0 * F.softplus(mid)
        inside = (delta > 1e-5).float()
        inner = inside * torch.log(torch.clamp(delta, min=1e-12)) + (1.0 - inside) * (pdf - math.log(127.5))
        inner = torch.where(y > 0.999, high, inner)
        logs = torch.where(y < -0.999, low, inner) + F.log_softmax(logit, -1)
        return -torch.logsumexp(logs, dim=-1).mean()


def wavenet_vocoder():
    return WaveNetVocoder(), {"x": torch.zeros(2, 1, 128), "mel": torch.zeros(2, 10, 8)}


class Modulated(nn.Module):
    def __init__(self, i, o, w, up):
        super().__init__()
        self.weight, self.affine = nn.Parameter(torch.zeros(o, i, 3, 3)), nn.Linear(w, i)
        self.bias, self.strength, self.up = nn.Parameter(torch.zeros(o)), nn.Parameter(torch.zeros([])), up
        self.register_buffer("blur", torch.ones(3, 3) / 9)

    def forward(self, x, w):
        N, C, H, W = x.shape
        s = self.affine(w)
        weights = self.weight.unsqueeze(0) * s.reshape(N, 1, -1, 1, 1)
        weights = weights * (weights.square().sum(dim=[2, 3, 4]) + 1e-8).rsqrt().reshape(N, -1, 1, 1, 1)
        x = x.reshape(1, -1, H, W)
        if self.up:
            x = F.conv_transpose2d(
                x,
                weights.transpose(1, 2).reshape(N * C, -1, 3, 3),
                stride=2,
                padding=1,
                output_padding=1,
                groups=N,
            )
        else:
            x = F.conv2d(x, weights.reshape(-1, C, 3, 3), padding=1, groups=N)
        x = x.reshape(N, -1, *x.shape[2:])
        if self.up:
            x = F.conv2d(
                x, self.blur[None, None].repeat(x.shape[1], 1, 1, 1).to(x.dtype), padding=1, groups=x.shape[1]
            )
        x = x.add_((torch.randn([N, 1, *x.shape[2:]], device=x.device) * self.strength).to(x.dtype))
        return F.leaky_relu(x + self.bias.view(1, -1, 1, 1), 0.2) * math.sqrt(2)


class StyleGan(nn.Module):
    """modulated convolutions, noise, a discriminator with the deviation within the batch"""

    def __init__(self, z=16, c=16):
        super().__init__()
        self.mapping = nn.Sequential(nn.Linear(z, z), nn.LeakyReLU(0.2), nn.Linear(z, z), nn.LeakyReLU(0.2))
        self.const = nn.Parameter(torch.randn(c, 4, 4))
        self.convs = nn.ModuleList(
            [Modulated(c, c, z, False), Modulated(c, c, z, True), Modulated(c, c, z, True)]
        )
        self.rgb = nn.ModuleList(nn.Conv2d(c, 3, 1) for _ in range(3))
        self.from_rgb, self.d1, self.d2 = (
            nn.Conv2d(3, c, 1),
            nn.Conv2d(c, c, 3, 2, 1),
            nn.Conv2d(c + 1, c, 3, 2, 1),
        )
        self.judge = nn.Linear(c * 16, 1)

    def forward(self, z):
        z = z * (z.square().mean(dim=1, keepdim=True) + 1e-8).rsqrt()
        w = self.mapping(z)
        x, img = self.const.unsqueeze(0).repeat(len(z), 1, 1, 1), None
        for conv, rgb in zip(self.convs, self.rgb):
            x = conv(x, w)
            y = rgb(x)
            img = (
                y
                if img is None
                else F.interpolate(img, size=y.shape[2:], mode="bilinear", align_corners=False).to(y.dtype)
                + y
            )
        d = F.leaky_relu(self.d1(F.leaky_relu(self.from_rgb(img), 0.2)), 0.2)
        g = d.reshape(2, -1, 1, *d.shape[1:])
        std = ((g - g.mean(dim=0)).square().mean(dim=0) + 1e-8).sqrt().mean(dim=[2, 3, 4])
        std = std.reshape(-1, 1, 1, 1).repeat(2, 1, *d.shape[2:])
        d = F.leaky_relu(self.d2(torch.cat([d, std.to(d.dtype)], dim=1)), 0.2)
        return F.softplus(-self.judge(d.flatten(1))).mean()


def stylegan():
    return StyleGan(), {"z": torch.zeros(4, 16)}


class TabTransformer(nn.Module):
    """categories with offsets into one table, a shared part of each embedding, quantile loss beside the class loss"""

    def __init__(self, sizes=(5, 9, 3, 12), numbers=6, d=32, heads=4, layers=2):
        super().__init__()
        offsets = F.pad(torch.tensor(sizes), (1, 0), value=1).cumsum(dim=-1)[:-1]
        self.register_buffer("offsets", offsets)
        self.table, self.shared = nn.Embedding(sum(sizes) + 1, d - 4), nn.Parameter(
            torch.zeros(len(sizes), 4)
        )
        self.number_w, self.number_b = nn.Parameter(torch.randn(numbers, d)), nn.Parameter(
            torch.zeros(numbers, d)
        )
        self.cls, self.norm = nn.Parameter(torch.zeros(1, 1, d)), nn.LayerNorm(numbers)
        self.qkv, self.out = (nn.ModuleList(nn.Linear(d, o) for _ in range(layers)) for o in (3 * d, d))
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * layers))
        self.glu, self.back = (
            nn.ModuleList(nn.Linear(*s) for _ in range(layers)) for s in ((d, 4 * d), (2 * d, d))
        )
        self.heads, self.classes, self.quantiles = heads, nn.Linear(d, 2), nn.Linear(d, 3)
        self.register_buffer("levels", torch.tensor([0.1, 0.5, 0.9]))

    def forward(self, cats, nums, y, v):
        x = self.table(cats + self.offsets)
        x = torch.cat((x, self.shared.unsqueeze(0).expand(len(x), -1, -1)), dim=-1)
        n = self.norm(nums).unsqueeze(-1) * self.number_w + self.number_b
        x = torch.cat((self.cls.expand(len(x), -1, -1), x, n.to(x.dtype)), dim=1)
        for k in range(len(self.qkv)):
            q, key, val = self.qkv[k](self.norms[2 * k](x)).chunk(3, dim=-1)
            q, key, val = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, key, val))
            sim = torch.einsum("bhid,bhjd->bhij", q, key) * q.shape[-1] ** -0.5
            x = x + self.out[k](
                torch.einsum("bhij,bhjd->bhid", F.dropout(sim.softmax(dim=-1), 0.1, self.training), val)
                .transpose(1, 2)
                .flatten(2)
            )
            a, gate = self.glu[k](self.norms[2 * k + 1](x)).chunk(2, dim=-1)
            x = x + self.back[k](a * F.gelu(gate))
        first = x[:, 0]
        error = v.unsqueeze(-1) - self.quantiles(first).float()
        pinball = torch.max(self.levels * error, (self.levels - 1) * error).sum(dim=-1).mean()
        return (
            F.cross_entropy(
                self.classes(first), y, weight=torch.tensor([0.3, 0.7], device=x.device, dtype=first.dtype)
            )
            + pinball
        )


def tab_transformer():
    return TabTransformer(), {
        "cats": tokens(6, 4),
        "nums": torch.zeros(6, 6),
        "y": tokens(6),
        "v": torch.zeros(6),
    }
