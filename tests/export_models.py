"""Small networks of torch.nn as a user would hand them to tools/export_torch.py: FILE.py:FUNCTION"""

import torch
from torch import nn
import torch.nn.functional as F


def tokens(n, length):
    return torch.zeros(n, length, dtype=torch.long)


class Lenet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.fc3(x)


class MlpDropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 1024), nn.Linear(1024, 1024), nn.Linear(1024, 10)
        self.d1, self.d2 = nn.Dropout(0.5), nn.Dropout(0.5)

    def forward(self, x):
        return self.fc3(self.d2(F.relu(self.fc2(self.d1(F.relu(self.fc1(x.flatten(1))))))))


class DcganGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        up = lambda a, b, *s: [nn.ConvTranspose2d(a, b, 4, *s, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        last = [nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh()]
        self.main = nn.Sequential(
            *up(100, 512, 1, 0), *up(512, 256, 2, 1), *up(256, 128, 2, 1), *up(128, 64, 2, 1), *last
        )

    def forward(self, z):
        return self.main(z)


class Linear5000x10(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.ModuleList(nn.Linear(5000, 5000) for _ in range(10))

    def forward(self, x):
        for layer in self.fc:
            x = layer(x)
        return x


class Lstm2(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10000, 400)
        self.rnn = nn.LSTM(400, 1150, 2, dropout=0.2, batch_first=True)
        self.out = nn.Linear(1150, 10000)

    def forward(self, input_ids):
        y, _ = self.rnn(self.emb(input_ids))
        return self.out(y)


class TransformerEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10000, 512)
        self.pos = nn.Parameter(torch.zeros(1, 128, 512))
        self.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(512, 8, 2048, 0.1, batch_first=True), 6)
        self.out = nn.Linear(512, 10000)

    def forward(self, input_ids):
        return self.out(self.enc(self.emb(input_ids) + self.pos))


class Unet(nn.Module):
    def __init__(self):
        super().__init__()
        conv = lambda a, b: [nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(True)]
        twice = lambda a, b: nn.Sequential(*conv(a, b), *conv(b, b))
        up = lambda a, b: nn.ConvTranspose2d(a, b, 2, 2)
        self.d1, self.d2, self.d3, self.d4 = twice(3, 64), twice(64, 128), twice(128, 256), twice(256, 512)
        self.mid, self.pool = twice(512, 1024), nn.MaxPool2d(2)
        self.u4, self.u3, self.u2, self.u1 = up(1024, 512), up(512, 256), up(256, 128), up(128, 64)
        self.c4, self.c3, self.c2, self.c1 = (
            twice(1024, 512),
            twice(512, 256),
            twice(256, 128),
            twice(128, 64),
        )
        self.out = nn.Conv2d(64, 2, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        c = self.d3(self.pool(b))
        d = self.d4(self.pool(c))
        m = self.mid(self.pool(d))
        y = self.c4(torch.cat([self.u4(m), d], 1))
        y = self.c3(torch.cat([self.u3(y), c], 1))
        y = self.c2(torch.cat([self.u2(y), b], 1))
        y = self.c1(torch.cat([self.u1(y), a], 1))
        return self.out(y)


def classifier(module, x, target):
    return module, {"x": x, "target": target}, lambda x, target: F.cross_entropy(module(x), target)


def language(module, length):
    def loss(input_ids, labels):
        out = module(input_ids)
        return F.cross_entropy(out.flatten(0, 1), labels.flatten())

    return module, {"input_ids": tokens(2, length), "labels": tokens(2, length)}, loss


def nn_lenet5():
    return classifier(Lenet5(), torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.long))


def nn_mlp_dropout():
    return classifier(MlpDropout(), torch.zeros(2, 1, 28, 28), torch.zeros(2, dtype=torch.long))


def nn_unet():
    return classifier(Unet(), torch.zeros(2, 3, 256, 256), torch.zeros(2, 256, 256, dtype=torch.long))


def nn_dcgan_g():
    m = DcganGenerator()
    inputs = {"z": torch.zeros(2, 100, 1, 1), "target": torch.zeros(2, 3, 64, 64)}
    return m, inputs, lambda z, target: F.mse_loss(m(z), target)


def nn_linear5000x10():
    m = Linear5000x10()
    return m, {"x": torch.zeros(2, 5000)}, lambda x: m(x).sum()


def nn_lstm2():
    m = Lstm2()

    def loss(input_ids, labels):
        y, _ = m.rnn(m.emb(input_ids))
        out = m.out(y)
        return F.cross_entropy(out.flatten(0, 1), labels.flatten())

    return m, {"input_ids": tokens(2, 70), "labels": tokens(2, 70)}, loss


def hf_vit_base():
    import transformers

    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.vit = transformers.ViTForImageClassification(transformers.ViTConfig(num_labels=1000))

        def forward(self, x):
            return self.vit(x).logits

    return classifier(Logits(), torch.zeros(2, 3, 224, 224), torch.zeros(2, dtype=torch.long))


def nn_transformer_encoder():
    return language(TransformerEncoder(), 128)
