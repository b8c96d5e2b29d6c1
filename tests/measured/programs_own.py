"""Small programs in the styles that people write, for programs.py: each function returns (module, inputs[, what runs a step up to the loss])."""

import copy, math

import torch, torch.nn as nn, torch.nn.functional as F


def tokens(*shape):
    return torch.zeros(*shape, dtype=torch.long)


def mlp(*widths, act=nn.ReLU):
    layers = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), act())]
    return nn.Sequential(*layers[:-1])


# ---- language


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        y = x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)
        return y.type_as(x) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class LlamaBlock(nn.Module):
    def __init__(self, d, heads, kv):
        super().__init__()
        self.h, self.kv, self.hd = heads, kv, d // heads
        self.n1, self.n2 = RMSNorm(d), RMSNorm(d)
        self.q, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.k, self.v = (nn.Linear(d, kv * self.hd, bias=False) for _ in range(2))
        self.w1, self.w3 = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, 3 * d, bias=False)
        self.w2 = nn.Linear(3 * d, d, bias=False)

    def forward(self, x, cos, sin):
        B, T, _ = x.shape
        y = self.n1(x)
        q, k, v = (
            p(y).view(B, T, n, self.hd).transpose(1, 2)
            for p, n in ((self.q, self.h), (self.k, self.kv), (self.v, self.kv))
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.h // self.kv, 1) for t in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(B, T, -1))
        y = self.n2(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class Llama(nn.Module):
    def __init__(self, words=1000, d=128, heads=4, kv=2, layers=2, longest=64):
        super().__init__()
        self.embed, self.norm = nn.Embedding(words, d), RMSNorm(d)
        self.blocks = nn.ModuleList(LlamaBlock(d, heads, kv) for _ in range(layers))
        self.head = nn.Linear(d, words, bias=False)
        half = torch.arange(0, d // heads, 2) / (d // heads)
        angles = torch.outer(torch.arange(longest).float(), 1e4**-half).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x, y):
        T = x.shape[1]
        h = self.embed(x)
        for block in self.blocks:
            h = block(h, self.cos[:T].to(h.dtype), self.sin[:T].to(h.dtype))
        return F.cross_entropy(self.head(self.norm(h)).flatten(0, 1).float(), y.flatten())


def llama():
    return Llama(), {"x": tokens(4, 48), "y": tokens(4, 48)}


class Tagger(nn.Module):
    """words and their letters, a BiLSTM, a linear-chain CRF"""

    def __init__(self, words=500, letters=60, tags=9, d=48):
        super().__init__()
        self.words, self.letters = nn.Embedding(words, d, padding_idx=0), nn.Embedding(letters, 16)
        self.conv = nn.Conv1d(16, 32, 3, padding=1)
        self.lstm = nn.LSTM(d + 32, 64, 2, batch_first=True, bidirectional=True, dropout=0.2)
        self.out = nn.Linear(128, tags)
        self.begin, self.step = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags, tags))

    def forward(self, x, chars, y):
        B, T, C = chars.shape
        c = self.conv(self.letters(chars.view(B * T, C)).transpose(1, 2)).amax(-1).view(B, T, -1)
        h, _ = self.lstm(torch.cat((self.words(x), c), -1))
        e = self.out(F.dropout(h, 0.3, self.training))
        score = self.begin[y[:, 0]] + e[:, 0].gather(1, y[:, :1]).squeeze(1)
        alpha = self.begin + e[:, 0]
        for t in range(1, T):
            score = score + self.step[y[:, t - 1], y[:, t]] + e[:, t].gather(1, y[:, t : t + 1]).squeeze(1)
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.step + e[:, t].unsqueeze(1), 1)
        return (torch.logsumexp(alpha, 1) - score).mean()


def lstm_crf_tagger():
    return Tagger(), {"x": tokens(4, 10), "chars": tokens(4, 10, 8), "y": tokens(4, 10)}


class Bahdanau(nn.Module):
    def __init__(self, words=400, d=64):
        super().__init__()
        self.src, self.trg = nn.Embedding(words, d), nn.Embedding(words, d)
        self.enc, self.dec = nn.GRU(d, d, batch_first=True, bidirectional=True), nn.GRU(
            3 * d, d, batch_first=True
        )
        self.init, self.wh, self.we = nn.Linear(2 * d, d), nn.Linear(d, d), nn.Linear(2 * d, d)
        self.v, self.out = nn.Linear(d, 1, bias=False), nn.Linear(3 * d, words)

    def forward(self, src, trg):
        memory, h = self.enc(self.src(src))
        h = torch.tanh(self.init(torch.cat((h[-2], h[-1]), 1))).unsqueeze(0)
        keys, mask, losses = self.we(memory), src.eq(1), []
        for t in range(trg.size(1) - 1):
            energy = self.v(torch.tanh(self.wh(h[-1]).unsqueeze(1) + keys)).squeeze(-1)
            weights = energy.masked_fill(mask, -1e4).softmax(-1)
            context = torch.bmm(weights.unsqueeze(1), memory)
            y, h = self.dec(torch.cat((self.trg(trg[:, t : t + 1]), context), -1), h)
            logits = self.out(torch.cat((y, context), -1)).squeeze(1)
            losses.append(F.cross_entropy(logits, trg[:, t + 1], ignore_index=-100, label_smoothing=0.1))
        return torch.stack(losses).mean()


def seq2seq_attention():
    return Bahdanau(), {"src": tokens(4, 12), "trg": tokens(4, 6)}


class Relative(nn.Module):
    """attention with Transformer-XL's shifted positions"""

    def __init__(self, d=64, heads=4):
        super().__init__()
        self.h, self.qkv, self.r = heads, nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.u, self.v = (nn.Parameter(torch.zeros(heads, d // heads)) for _ in range(2))
        self.o, self.n = nn.Linear(d, d, bias=False), nn.LayerNorm(d)

    def forward(self, x, memory):
        B, T, D = x.shape
        y = torch.cat((memory, x), 1)
        L = y.size(1)
        q, k, v = self.qkv(y).view(B, L, 3, self.h, -1).unbind(2)
        q = q[:, -T:]
        at = torch.arange(L - 1, -1, -1.0, device=x.device)
        at = at[:, None] / 1e4 ** (torch.arange(0, D, 2.0, device=x.device) / D)
        r = self.r(torch.cat((at.sin(), at.cos()), -1).type_as(x)).view(L, self.h, -1)
        ac = torch.einsum("bihd,bjhd->bhij", q + self.u, k)
        bd = torch.einsum("bihd,jhd->bhij", q + self.v, r)
        bd = F.pad(bd, (1, 0)).view(B, self.h, L + 1, T)[:, :, 1:].reshape(B, self.h, T, L)
        hidden = torch.ones(T, L, dtype=torch.bool, device=x.device).triu(1 + L - T)
        a = ((ac + bd) * (D // self.h) ** -0.5).masked_fill(hidden, float("-inf")).softmax(-1)
        return self.n(x + self.o(torch.einsum("bhij,bjhd->bihd", a, v).flatten(2)))


def transformer_xl():
    m = nn.ModuleList([Relative(), Relative()])
    return (
        m,
        {"x": torch.zeros(4, 16, 64), "memory": torch.zeros(4, 16, 64)},
        lambda x, memory: m[1](m[0](x, memory), memory.detach()).pow(2).mean(),
    )


class Switch(nn.Module):
    """mixture of experts by dense dispatch: one expert a token, a capacity, a loss of balance"""

    def __init__(self, d=64, experts=4, factor=1.25):
        super().__init__()
        self.gate, self.n, self.factor = nn.Linear(d, experts, bias=False), experts, factor
        self.w1, self.w2 = nn.Parameter(torch.zeros(experts, d, 4 * d)), nn.Parameter(
            torch.zeros(experts, 4 * d, d)
        )

    def forward(self, x):
        x = x.flatten(0, 1)
        capacity = int(self.factor * x.size(0) / self.n)
        p = F.softmax(self.gate(x), -1, dtype=torch.float32)
        top, expert = p.max(-1)
        hot = F.one_hot(expert, self.n).float()
        place = (hot.cumsum(0) - 1) * hot
        hot = hot * (place < capacity)
        slot = F.one_hot(place.sum(-1).long(), capacity).float()
        send = hot.unsqueeze(-1) * slot.unsqueeze(1)
        y = torch.einsum("tec,td->ecd", send.to(x.dtype), x)
        y = torch.bmm(F.gelu(torch.bmm(y, self.w1.to(y.dtype))), self.w2.to(y.dtype))
        y = torch.einsum("tec,ecd->td", (send * top[:, None, None]).to(y.dtype), y)
        balance = self.n * (hot.mean(0) * p.mean(0)).sum()
        return y.pow(2).mean() + 0.01 * balance


def switch_moe():
    return Switch(), {"x": torch.zeros(4, 32, 64)}


class Slots(nn.Module):
    """a sequence model: a long convolution by FFT, and a selective scan as a loop"""

    def __init__(self, d=32, n=8, longest=64):
        super().__init__()
        self.kernel, self.D = nn.Parameter(torch.zeros(d, longest)), nn.Parameter(torch.zeros(d))
        self.inp, self.out, self.n = nn.Linear(d, 2 * d), nn.Linear(d, d), n
        self.A, self.bcd = nn.Parameter(torch.zeros(d, n)), nn.Linear(d, 2 * n + d)

    def forward(self, x):
        L = x.size(1)
        u, gate = self.inp(x).chunk(2, -1)
        f = torch.fft.rfft(u.float().transpose(1, 2), n=2 * L) * torch.fft.rfft(
            self.kernel[:, :L].float(), n=2 * L
        )
        u = torch.fft.irfft(f, n=2 * L)[..., :L].transpose(1, 2).to(x.dtype) + u * self.D
        b, c, dt = self.bcd(F.silu(u)).split([self.n, self.n, u.size(-1)], -1)
        dt = F.softplus(dt)
        keep = torch.exp(dt.unsqueeze(-1) * -torch.exp(self.A.float()))
        push = (dt * u).unsqueeze(-1) * b.unsqueeze(2)
        h, ys = torch.zeros_like(push[:, 0]), []
        for t in range(L):
            h = keep[:, t] * h + push[:, t]
            ys.append((h * c[:, t].unsqueeze(1)).sum(-1))
        y = torch.stack(ys, 1).to(x.dtype)
        return (self.out(y * F.silu(gate)) + x).mean()


def state_space():
    return Slots(), {"x": torch.zeros(2, 12, 32)}


# ---- images


class Res(nn.Module):
    def __init__(self, a, b, t):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.t, self.skip = nn.Linear(t, b), nn.Conv2d(a, b, 1) if a != b else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(F.silu(t))[:, :, None, None]
        return self.c2(F.dropout(F.silu(self.n2(h)), 0.1, self.training)) + self.skip(x)


class Attend(nn.Module):
    def __init__(self, d, heads=4):
        super().__init__()
        self.n, self.qkv, self.o, self.h = (
            nn.GroupNorm(8, d),
            nn.Conv1d(d, 3 * d, 1),
            nn.Conv1d(d, d, 1),
            heads,
        )

    def forward(self, x):
        B, C, H, W = x.shape
        q, k, v = self.qkv(self.n(x).view(B, C, -1)).reshape(B * self.h, 3 * C // self.h, -1).chunk(3, 1)
        scale = (C // self.h) ** -0.25
        w = torch.einsum("bct,bcs->bts", q * scale, k * scale).float().softmax(-1).type(q.dtype)
        y = torch.einsum("bts,bcs->bct", w, v).reshape(B, C, -1)
        return x + self.o(y).view(B, C, H, W)


class Unet(nn.Module):
    def __init__(self, d=32, classes=10):
        super().__init__()
        t = 4 * d
        self.d, self.time, self.label = d, mlp(d, t, t, act=nn.SiLU), nn.Embedding(classes + 1, t)
        self.inp, self.none = nn.Conv2d(3, d, 3, padding=1), classes
        self.d1, self.s1, self.d2 = Res(d, d, t), nn.Conv2d(d, d, 3, 2, 1), Res(d, 2 * d, t)
        self.m1, self.ma, self.m2 = Res(2 * d, 2 * d, t), Attend(2 * d), Res(2 * d, 2 * d, t)
        self.u2, self.up, self.u1 = Res(4 * d, d, t), nn.Conv2d(d, d, 3, padding=1), Res(2 * d, d, t)
        self.out = nn.Sequential(nn.GroupNorm(8, d), nn.SiLU(), nn.Conv2d(d, 3, 3, padding=1))
        beta = torch.linspace(1e-4, 0.02, 1000)
        self.register_buffer("bar", (1 - beta).cumprod(0))

    def forward(self, x, y):
        t = torch.randint(0, 1000, (x.size(0),), device=x.device)
        noise, a = torch.randn_like(x), self.bar[t].view(-1, 1, 1, 1)
        z = a.sqrt() * x + (1 - a).sqrt() * noise
        y = torch.where(torch.rand(y.shape, device=y.device) < 0.1, self.none, y)
        f = torch.exp(-math.log(1e4) * torch.arange(self.d // 2, device=x.device) / (self.d // 2))
        e = t[:, None].float() * f
        e = self.time(torch.cat((e.cos(), e.sin()), -1).to(x.dtype)) + self.label(y)
        h1 = self.d1(self.inp(z.to(x.dtype)), e)
        h2 = self.d2(self.s1(h1), e)
        h = self.m2(self.ma(self.m1(h2, e)), e)
        h = self.u2(torch.cat((h, h2), 1), e)
        h = self.up(F.interpolate(h, scale_factor=2, mode="nearest"))
        return F.mse_loss(self.out(self.u1(torch.cat((h, h1), 1), e)).float(), noise.float())


def ddpm_unet():
    return Unet(), {"x": torch.zeros(4, 3, 32, 32), "y": tokens(4)}


class ConvVAE(nn.Module):
    def __init__(self, z=32, c=32):
        super().__init__()
        down = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
        up = lambda a, b: nn.Sequential(
            nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.ELU(inplace=True)
        )
        self.enc, self.mu, self.lv = nn.Sequential(down(3, c), down(c, 2 * c)), *(
            nn.Linear(128 * c, z) for _ in "ab"
        )
        self.dec, self.c = (
            nn.Sequential(nn.Linear(z, 128 * c), nn.Unflatten(1, (2 * c, 8, 8)), up(2 * c, c)),
            c,
        )
        self.out = nn.ConvTranspose2d(c, 3, 4, 2, 1)

    def forward(self, x):
        h = self.enc(x).flatten(1)
        mu, lv = self.mu(h), self.lv(h).clamp(-10, 10)
        z = torch.distributions.Normal(mu, (0.5 * lv).exp()).rsample()
        rec = (
            F.binary_cross_entropy_with_logits(self.out(self.dec(z)), x, reduction="none")
            .sum((1, 2, 3))
            .mean()
        )
        return rec + 0.5 * (mu.pow(2) + lv.exp() - 1 - lv).sum(-1).mean()


def conv_vae():
    return ConvVAE(), {"x": torch.zeros(8, 3, 32, 32)}


class Fcos(nn.Module):
    """an anchor-free head over a small pyramid: focal loss, GIoU, centerness"""

    def __init__(self, c=64, classes=20):
        super().__init__()
        self.c1, self.c2, self.c3 = (
            nn.Conv2d(3, c, 7, 4, 3),
            nn.Conv2d(c, c, 3, 2, 1),
            nn.Conv2d(c, c, 3, 2, 1),
        )
        self.lateral = nn.ModuleList(nn.Conv2d(c, c, 1) for _ in range(3))
        tower = lambda: nn.Sequential(
            *(m for _ in range(2) for m in (nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(8, c), nn.ReLU()))
        )
        self.cls_tower, self.box_tower = tower(), tower()
        self.cls, self.box, self.ctr = (nn.Conv2d(c, k, 3, padding=1) for k in (classes, 4, 1))
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(())) for _ in range(3))

    def forward(self, x, labels, boxes):
        f = [F.relu(self.c1(x))]
        f += [F.relu(self.c2(f[-1]))]
        f += [F.relu(self.c3(f[-1]))]
        p = [l(t) for l, t in zip(self.lateral, f)]
        for i in (1, 0):
            p[i] = p[i] + F.interpolate(p[i + 1], size=p[i].shape[-2:], mode="nearest")
        flat = lambda t: t.permute(0, 2, 3, 1).flatten(1, 2)
        towers = [(self.cls_tower(t), self.box_tower(t)) for t in p]
        cls = torch.cat([flat(self.cls(a)) for a, _ in towers], 1)
        box = torch.cat([flat(F.relu(self.box(b) * s)) for (_, b), s in zip(towers, self.scales)], 1).float()
        ctr = torch.cat([flat(self.ctr(b)) for _, b in towers], 1)
        hot = F.one_hot(labels, cls.size(-1)).to(cls.dtype)
        ce, prob = F.binary_cross_entropy_with_logits(cls, hot, reduction="none"), cls.sigmoid()
        pt = prob * hot + (1 - prob) * (1 - hot)
        focal = ((0.25 * hot + 0.75 * (1 - hot)) * (1 - pt) ** 2 * ce).sum()
        low, high = torch.min(box, boxes), torch.max(box, boxes)
        area = lambda b: (b[..., 0] + b[..., 2]) * (b[..., 1] + b[..., 3])
        inter, hull = area(low), area(high)
        union = area(box) + area(boxes) - inter
        giou = inter / union.clamp(min=1e-7) - (hull - union) / hull.clamp(min=1e-7)
        lr, tb = boxes[..., [0, 2]], boxes[..., [1, 3]]
        centre = torch.sqrt(
            lr.amin(-1) / lr.amax(-1).clamp(min=1e-6) * tb.amin(-1) / tb.amax(-1).clamp(min=1e-6)
        )
        return (
            focal
            + (1 - giou).mean()
            + F.binary_cross_entropy_with_logits(ctr.squeeze(-1), centre.to(ctr.dtype))
        )


def fcos_head():
    return Fcos(), {"x": torch.zeros(2, 3, 64, 64), "labels": tokens(2, 336), "boxes": torch.zeros(2, 336, 4)}


class Byol(nn.Module):
    """two views; a target net that follows the online one"""

    def __init__(self, d=32):
        super().__init__()
        conv = lambda a, b: nn.Sequential(
            nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(inplace=True)
        )
        head = nn.Sequential(
            nn.Linear(2 * d, 128), nn.BatchNorm1d(128), nn.ReLU(inplace=True), nn.Linear(128, d)
        )
        self.online = nn.Sequential(conv(3, d), conv(d, 2 * d), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
        self.target = copy.deepcopy(self.online)
        for p in self.target.parameters():
            p.requires_grad_(False)
        self.predict = mlp(d, 128, d)

    @torch.no_grad()
    def follow(self):
        for a, b in zip(self.online.parameters(), self.target.parameters()):
            b.mul_(0.99).add_(a, alpha=0.01)

    def forward(self, a, b):
        self.follow()
        p, q = self.predict(self.online(a)), self.predict(self.online(b))
        with torch.no_grad():
            s, t = self.target(a), self.target(b)
        near = lambda x, y: 2 - 2 * F.cosine_similarity(x, y.detach(), dim=-1)
        return (near(p, t) + near(q, s)).mean()


def byol():
    return Byol(), {"a": torch.zeros(8, 3, 32, 32), "b": torch.zeros(8, 3, 32, 32)}


class Twins(nn.Module):
    """VICReg: variance, covariance of both views' embeddings"""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), *mlp(3 * 256, 256, 128), nn.LayerNorm(128))

    def forward(self, a, b):
        x, y = self.net(a), self.net(b)
        loss = 25 * F.mse_loss(x, y)
        for z in (x, y):
            z = z - z.mean(0)
            loss = loss + 25 * F.relu(1 - torch.sqrt(z.var(0) + 1e-4)).mean()
            c = (z.T @ z) / (z.size(0) - 1)
            n = c.size(0)
            loss = loss + c.flatten()[:-1].view(n - 1, n + 1)[:, 1:].pow(2).sum() / n
        return loss


def vicreg():
    return Twins(), {"a": torch.zeros(16, 3, 16, 16), "b": torch.zeros(16, 3, 16, 16)}


class Pair(nn.Module):
    """contrastive: an image net, a text net, a learned temperature"""

    def __init__(self, d=64):
        super().__init__()
        self.patch, self.cls = nn.Conv2d(3, d, 8, 8), nn.Parameter(torch.zeros(1, 1, d))
        layer = lambda: nn.TransformerEncoderLayer(
            d, 4, 2 * d, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.image, self.text = (
            nn.TransformerEncoder(layer(), 2, enable_nested_tensor=False) for _ in range(2)
        )
        self.words, self.place = nn.Embedding(500, d), nn.Parameter(torch.zeros(16, d))
        self.scale = nn.Parameter(torch.tensor(2.6))

    def forward(self, x, t):
        p = self.patch(x).flatten(2).transpose(1, 2)
        i = self.image(torch.cat((self.cls.expand(p.size(0), -1, -1).to(p.dtype), p), 1))[:, 0]
        mask = nn.Transformer.generate_square_subsequent_mask(t.size(1), device=t.device)
        w = self.text(self.words(t) + self.place, mask=mask.to(self.place.dtype), is_causal=True)
        w = w[torch.arange(t.size(0), device=t.device), t.argmax(-1)]
        i, w = i / i.norm(dim=-1, keepdim=True), w / w.norm(dim=-1, keepdim=True)
        logits = self.scale.exp().clamp(max=100) * i @ w.t()
        right = torch.arange(x.size(0), device=x.device)
        return (F.cross_entropy(logits, right) + F.cross_entropy(logits.t(), right)) / 2


def clip_pair():
    return Pair(), {"x": torch.zeros(4, 3, 32, 32), "t": tokens(4, 16)}


class Perceptual(nn.Module):
    """an image to image net, judged by features of a frozen one and by total variation"""

    def __init__(self, c=32):
        super().__init__()
        norm = lambda a, b, s=1: [
            nn.ReflectionPad2d(1),
            nn.Conv2d(a, b, 3, s),
            nn.InstanceNorm2d(b, affine=True),
            nn.ReLU(),
        ]
        self.net = nn.Sequential(
            *norm(3, c), *norm(c, 2 * c, 2), nn.PixelShuffle(2), *norm(c // 2, c), nn.Conv2d(c, 3, 1)
        )
        self.eyes = nn.Sequential(
            nn.Conv2d(3, c, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(c, c, 3), nn.ReLU()
        )
        self.eyes.requires_grad_(False)

    def forward(self, x):
        y = self.net(x)
        a, b = self.eyes(y), self.eyes(x)
        gram = lambda f: torch.einsum("bchw,bdhw->bcd", f, f) / f[0].numel()
        smooth = (y[..., 1:] - y[..., :-1]).abs().mean() + (y[..., 1:, :] - y[..., :-1, :]).abs().mean()
        return F.l1_loss(a, b) + F.mse_loss(gram(a), gram(b)) + 1e-3 * smooth


def perceptual():
    return Perceptual(), {"x": torch.zeros(2, 3, 32, 32)}


class Dice3d(nn.Module):
    """a 3D U-Net with deep supervision and soft Dice"""

    def __init__(self, c=16, classes=3):
        super().__init__()
        conv = lambda a, b: nn.Sequential(
            nn.Conv3d(a, b, 3, padding=1), nn.InstanceNorm3d(b), nn.LeakyReLU(0.01, True)
        )
        self.a, self.b, self.c = conv(1, c), conv(c, 2 * c), conv(3 * c, c)
        self.up, self.head, self.deep = (
            nn.ConvTranspose3d(2 * c, 2 * c, 2, 2),
            nn.Conv3d(c, classes, 1),
            nn.Conv3d(2 * c, classes, 1),
        )

    def loss(self, logits, y):
        p = logits.softmax(1)
        hot = torch.zeros_like(p).scatter_(1, y.unsqueeze(1), 1)
        inter, total = (p * hot).sum((2, 3, 4)), (p + hot).sum((2, 3, 4))
        return F.cross_entropy(logits, y) + 1 - ((2 * inter + 1) / (total + 1)).mean()

    def forward(self, x, y):
        a = self.a(x)
        b = self.b(F.max_pool3d(a, 2))
        h = self.c(torch.cat((self.up(b), a), 1))
        return self.loss(self.head(h), y) + 0.5 * self.loss(self.deep(b), y[:, ::2, ::2, ::2])


def unet3d_dice():
    return Dice3d(), {"x": torch.zeros(2, 1, 16, 16, 16), "y": tokens(2, 16, 16, 16)}


# ---- graphs, scenes, control, series, sound


class Graph(nn.Module):
    """messages along edges, summed by scatter_add; a GRU updates nodes; graphs are read out by mean"""

    def __init__(self, d=32, edge=8):
        super().__init__()
        self.inp, self.message, self.update = (
            nn.Linear(16, d),
            mlp(2 * d + edge, d, d, act=nn.SiLU),
            nn.GRUCell(d, d),
        )
        self.out = mlp(d, d, 1)

    def forward(self, x, edges, attr, batch, y):
        h = self.inp(x)
        src, dst = edges
        for _ in range(3):
            m = self.message(torch.cat((h[src], h[dst], attr), -1))
            total = torch.zeros_like(h).scatter_add_(0, dst.unsqueeze(-1).expand_as(m), m.to(h.dtype))
            h = self.update(total, h).to(h.dtype)
        graphs = y.size(0)
        count = torch.zeros(graphs, device=x.device).scatter_add(
            0, batch, torch.ones(batch.shape, device=x.device)
        )
        pooled = h.new_zeros(graphs, h.size(1)).index_add(0, batch, h) / count.clamp(min=1).unsqueeze(1)
        return F.l1_loss(self.out(pooled.to(h.dtype)).squeeze(-1).float(), y.float())


def message_passing():
    inputs = {"x": torch.zeros(100, 16), "edges": tokens(2, 300), "attr": torch.zeros(300, 8)}
    return Graph(), {**inputs, "batch": tokens(100), "y": torch.zeros(5)}


class HashNerf(nn.Module):
    """instant-ngp's tables of hashed corners, a small MLP, volume rendering"""

    def __init__(self, levels=4, size=2**12, f=2):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, f) for _ in range(levels))
        self.size, self.net = size, mlp(levels * f, 64, 16)
        self.colour = mlp(15 + 3, 64, 3)
        corners = torch.tensor([[i, j, k] for i in (0, 1) for j in (0, 1) for k in (0, 1)])
        self.register_buffer("corners", corners)

    def encode(self, p):
        found = []
        for level, table in enumerate(self.tables):
            q = p * 16 * 1.5**level
            low = q.floor()
            w = (q - low).unsqueeze(-2)
            c = low.long().unsqueeze(-2) + self.corners
            index = (c[..., 0] ^ (c[..., 1] * 2654435761) ^ (c[..., 2] * 805459861)) % self.size
            weight = torch.where(self.corners.bool(), w, 1 - w).prod(-1, keepdim=True)
            found.append((table(index) * weight).sum(-2))
        return torch.cat(found, -1)

    def forward(self, o, d, rgb):
        t = torch.linspace(0.1, 1, 16, device=o.device) + torch.rand(o.size(0), 16, device=o.device) / 16
        p = o.unsqueeze(1) + t.unsqueeze(-1) * d.unsqueeze(1)
        h = self.net(self.encode(p))
        density = F.softplus(h[..., 0] - 1)
        colour = torch.sigmoid(self.colour(torch.cat((h[..., 1:], d.unsqueeze(1).expand_as(p)), -1)))
        alpha = 1 - torch.exp(-density * F.pad(t.diff(dim=-1), (0, 1), value=1e3))
        clear = torch.cumprod(1 - alpha + 1e-10, -1)
        w = alpha * torch.cat((torch.ones_like(clear[:, :1]), clear[:, :-1]), -1)
        return F.huber_loss((w.unsqueeze(-1) * colour).sum(1), rgb)


def hash_nerf():
    return HashNerf(), {k: torch.zeros(64, 3) for k in ("o", "d", "rgb")}


class Recurrent(nn.Module):
    """PPO with an LSTM policy, GAE, a Gaussian action"""

    def __init__(self, obs=12, act=4, d=64):
        super().__init__()
        self.net, self.cell, self.mu, self.value = (
            mlp(obs, d, d, act=nn.Tanh),
            nn.LSTMCell(d, d),
            nn.Linear(d, act),
            nn.Linear(d, 1),
        )
        self.log_std, self.d = nn.Parameter(torch.zeros(act)), d

    def forward(self, obs, act, old, reward, done):
        T, B, _ = obs.shape
        z = self.net(obs)
        state, hs = (obs.new_zeros(B, self.d), obs.new_zeros(B, self.d)), []
        for t in range(T):
            keep = (1 - done[t]).unsqueeze(-1)
            state = self.cell(z[t], (state[0] * keep, state[1] * keep))
            hs.append(state[0])
        h = torch.stack(hs)
        dist = torch.distributions.Independent(torch.distributions.Normal(self.mu(h), self.log_std.exp()), 1)
        value = self.value(h).squeeze(-1)
        with torch.no_grad():
            adv, last = torch.zeros_like(reward), 0
            for t in reversed(range(T - 1)):
                delta = reward[t] + 0.99 * value[t + 1] * (1 - done[t]) - value[t]
                adv[t] = last = delta + 0.99 * 0.95 * (1 - done[t]) * last
            target = adv + value
            adv = (adv - adv.mean()) / (adv.std() + 1e-8)
        ratio = (dist.log_prob(act) - old).exp()
        policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
        return policy + 0.5 * F.mse_loss(value, target) - 0.01 * dist.entropy().mean()


def ppo_recurrent():
    z = lambda *s: torch.zeros(8, 4, *s)
    return Recurrent(), {"obs": z(12), "act": z(4), "old": z(), "reward": z(), "done": z()}


class Dqn(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        conv = [nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten()]
        self.body, self.v, self.a = (
            nn.Sequential(*conv, nn.LazyLinear(128), nn.ReLU()),
            nn.Linear(128, 1),
            nn.Linear(128, actions),
        )
        self.body(torch.zeros(1, 4, 84, 84))
        self.slow = copy.deepcopy(nn.ModuleList((self.body, self.v, self.a))).requires_grad_(False)

    @staticmethod
    def q(x, body, v, a):
        h = body(x / 255.0)
        adv = a(h)
        return v(h) + adv - adv.mean(1, keepdim=True)

    def forward(self, s, a, r, s2, over):
        q = self.q(s, self.body, self.v, self.a).gather(1, a.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.q(s2, self.body, self.v, self.a).argmax(1, keepdim=True)
            goal = r + 0.99 * (1 - over) * self.q(s2, *self.slow).gather(1, best).squeeze(1)
        return F.smooth_l1_loss(q, goal)


def double_dqn():
    frames = {k: torch.zeros(8, 4, 84, 84) for k in ("s", "s2")}
    return Dqn(), {**frames, "a": tokens(8), "r": torch.zeros(8), "over": torch.zeros(8)}


class WaveNet(nn.Module):
    def __init__(self, c=32, layers=6, levels=256):
        super().__init__()
        self.embed, self.dilations = nn.Embedding(levels, c), [2**i for i in range(layers)]
        self.causal = nn.ModuleList(nn.Conv1d(c, 2 * c, 2, dilation=d) for d in self.dilations)
        self.res, self.skip = (nn.ModuleList(nn.Conv1d(c, c, 1) for _ in range(layers)) for _ in range(2))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv1d(c, c, 1), nn.ReLU(), nn.Conv1d(c, levels, 1))

    def forward(self, x):
        h, skips = self.embed(x).transpose(1, 2), 0
        for d, conv, res, skip in zip(self.dilations, self.causal, self.res, self.skip):
            f, g = conv(F.pad(h, (d, 0))).chunk(2, 1)
            y = torch.tanh(f) * torch.sigmoid(g)
            skips, h = skips + skip(y), h + res(y)
        return F.cross_entropy(self.out(skips)[:, :, :-1], x[:, 1:])


def wavenet():
    return WaveNet(), {"x": tokens(2, 400)}


class Latents(nn.Module):
    """Perceiver: latents attend to bytes, then to themselves, with shared weights"""

    def __init__(self, d=64, n=16):
        super().__init__()
        self.latents, self.norm = nn.Parameter(torch.zeros(n, d)), nn.LayerNorm(d)
        self.cross = nn.MultiheadAttention(d, 1, batch_first=True, kdim=32, vdim=32)
        self.self = nn.TransformerEncoderLayer(d, 4, 2 * d, batch_first=True, dropout=0.0)
        self.out = nn.Linear(d, 10)

    def forward(self, x, y):
        h = self.latents.expand(x.size(0), -1, -1)
        for _ in range(2):
            h = h + self.cross(self.norm(h), x, x, need_weights=False)[0]
            h = self.self(h)
        return F.cross_entropy(self.out(h.mean(1)), y)


def perceiver():
    return Latents(), {"x": torch.zeros(4, 100, 32), "y": tokens(4)}


class Ode(nn.Module):
    """a neural ODE by four stages of Runge and Kutta, and a hypernetwork that makes its read-out"""

    def __init__(self, d=16):
        super().__init__()
        self.f, self.hyper, self.d = mlp(d + 1, 64, d, act=nn.Softplus), nn.Linear(4, d * d + d), d

    def slope(self, t, z):
        return self.f(torch.cat((z, torch.full_like(z[:, :1], t)), 1))

    def forward(self, z, task):
        h = 0.1
        for k in range(5):
            t = k * h
            a = self.slope(t, z)
            b = self.slope(t + h / 2, z + h / 2 * a)
            c = self.slope(t + h / 2, z + h / 2 * b)
            e = self.slope(t + h, z + h * c)
            z = z + h / 6 * (a + 2 * b + 2 * c + e)
        w, bias = self.hyper(task).split([self.d**2, self.d], -1)
        y = torch.baddbmm(bias.unsqueeze(1), z.unsqueeze(1), w.view(-1, self.d, self.d))
        return y.square().mean()


def neural_ode():
    return Ode(), {"z": torch.zeros(32, 16), "task": torch.zeros(32, 4)}


class Forecast(nn.Module):
    """N-BEATS' blocks with reversible normalisation, quantile loss"""

    def __init__(self, past=48, future=12, d=64):
        super().__init__()
        self.blocks = nn.ModuleList(mlp(past, d, d, past + 3 * future) for _ in range(3))
        self.past, self.register = past, nn.Parameter(torch.ones(2))
        self.register_buffer("q", torch.tensor([0.1, 0.5, 0.9]))

    def forward(self, x, y):
        mean, std = x.mean(1, keepdim=True), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5)
        rest = (x - mean) / std * self.register[0] + self.register[1]
        total = 0
        for b in self.blocks:
            back, ahead = b(rest).tensor_split([self.past], 1)
            rest, total = rest - back, total + ahead
        out = total.unflatten(1, (3, -1)) * std.unsqueeze(1) + mean.unsqueeze(1)
        e = y.unsqueeze(1) - out
        q = self.q.view(1, 3, 1)
        return torch.maximum(q * e, (q - 1) * e).mean()


def forecast():
    return Forecast(), {"x": torch.zeros(16, 48), "y": torch.zeros(16, 12)}


class DeepFM(nn.Module):
    def __init__(self, fields=8, rows=1000, d=16):
        super().__init__()
        self.register_buffer("offset", torch.arange(fields) * rows)
        self.embed, self.linear, self.bias = (
            nn.Embedding(fields * rows, d),
            nn.EmbeddingBag(fields * rows, 1, mode="sum"),
            nn.Parameter(torch.zeros(1)),
        )
        self.deep = nn.Sequential(
            nn.Linear(fields * d, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 1)
        )

    def forward(self, x, y):
        x = x + self.offset
        e = self.embed(x)
        cross = 0.5 * (e.sum(1).square() - e.square().sum(1)).sum(1, keepdim=True)
        logit = self.linear(x) + self.bias + cross + self.deep(e.flatten(1))
        return F.binary_cross_entropy_with_logits(logit.squeeze(1).float(), y.float())


def deep_fm():
    return DeepFM(), {"x": tokens(32, 8), "y": torch.zeros(32)}


class ConvLstm(nn.Module):
    """frames to the next ones"""

    def __init__(self, c=16):
        super().__init__()
        self.gates, self.out, self.c = nn.Conv2d(1 + c, 4 * c, 3, padding=1), nn.Conv2d(c, 1, 1), c

    def forward(self, x):
        B, T, _, H, W = x.shape
        h = s = x.new_zeros(B, self.c, H, W)
        loss = 0
        for t in range(T - 1):
            i, f, o, g = self.gates(torch.cat((x[:, t], h), 1)).chunk(4, 1)
            s = f.sigmoid() * s + i.sigmoid() * g.tanh()
            h = o.sigmoid() * s.tanh()
            loss = loss + F.mse_loss(self.out(h), x[:, t + 1])
        return loss / (T - 1)


def conv_lstm():
    return ConvLstm(), {"x": torch.zeros(2, 6, 1, 32, 32)}


class Glow(nn.Module):
    """invertible 1x1 convolutions by their triangular factors, affine couplings"""

    def __init__(self, c=12, steps=3):
        super().__init__()
        self.loc, self.log = (
            nn.ParameterList(nn.Parameter(torch.zeros(1, c, 1, 1)) for _ in range(steps)) for _ in "ab"
        )
        self.low, self.up = (
            nn.ParameterList(nn.Parameter(torch.zeros(c, c)) for _ in range(steps)) for _ in "ab"
        )
        self.diagonal = nn.ParameterList(nn.Parameter(torch.zeros(c)) for _ in range(steps))
        self.register_buffer("below", torch.ones(c, c).tril(-1))
        net = lambda: nn.Sequential(
            nn.Conv2d(c // 2, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, c, 3, padding=1)
        )
        self.nets = nn.ModuleList(net() for _ in range(steps))

    def forward(self, x):
        x = F.pixel_unshuffle(x, 2)
        B, C, H, W = x.shape
        logdet = x.new_zeros(B)
        for loc, log, low, up, s, net in zip(self.loc, self.log, self.low, self.up, self.diagonal, self.nets):
            x = (x + loc) * log.exp()
            w = (low * self.below + torch.eye(C, device=x.device)) @ (
                up * self.below.t() + torch.diag(s.exp())
            )
            x = F.conv2d(x, w.view(C, C, 1, 1))
            logdet = logdet + H * W * (log.sum() + s.sum())
            a, b = x.chunk(2, 1)
            s, t = net(a).chunk(2, 1)
            s = torch.sigmoid(s + 2)
            x = torch.cat((a, (b + t) * s), 1)
            logdet = logdet + s.log().flatten(1).sum(1)
        prior = -0.5 * (x.square() + math.log(2 * math.pi)).flatten(1).sum(1)
        return -(prior + logdet).mean() / (C * H * W)


def glow():
    return Glow(), {"x": torch.zeros(4, 3, 16, 16)}
