#!/usr/bin/env python3
"""Runs a small PyTorch program whose sizes change from step to step and writes its allocations here in the form of make.py.
It needs torch and torchvision on a device, or on one that is pretended.   usage: record.py NAME..."""
import os, random, subprocess, sys
import torch
from torch import nn
from torch.nn import functional as F
import torchvision
import make

GPU = "cuda"


class Language(nn.Module):
    def __init__(self, width=512, layers=3, words=16384):
        super().__init__()
        self.word, self.place = nn.Embedding(words, width), nn.Embedding(2048, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, x):
        h = self.word(x) + self.place(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


def language(lengths, amp=False):
    m = Language().to(GPU)
    o = torch.optim.AdamW(m.parameters())
    for n in lengths:
        o.zero_grad()
        x = torch.randint(0, 100, (4, n), device=GPU)
        with torch.autocast(GPU, torch.bfloat16, enabled=amp):
            loss = F.cross_entropy(m(x).flatten(0, 1), x.flatten())
        loss.backward()
        o.step()
        del x, loss


def picture_step(m, o, batch, size=224):
    o.zero_grad()
    x, y = torch.randn(batch, 3, size, size, device=GPU), torch.zeros(batch, dtype=torch.long, device=GPU)
    F.cross_entropy(m(x), y).backward()
    o.step()


def pictures(steps, make_model=torchvision.models.resnet18):
    m = make_model().to(GPU)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for batch, size in steps:
        picture_step(m, o, batch, size)


def growing_lengths():
    language(range(96, 1057, 96))


def random_lengths_amp():
    language([random.randrange(32, 1024) for _ in range(9)], amp=True)


def steady_steps():
    language([512] * 5)


def growing_batches():
    pictures([(b, 224) for b in range(6, 61, 6)])


def random_batches():
    pictures([(random.randrange(1, 64), 224) for _ in range(10)])


def random_resolutions():
    pictures([(16, 32 * random.randrange(4, 12)) for _ in range(7)], torchvision.models.mobilenet_v2)


def train_and_validate():
    m = torchvision.models.resnet18().to(GPU)
    o = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
    for _ in range(3):
        m.train()
        for _ in range(2):
            picture_step(m, o, 32)
        m.eval()
        with torch.no_grad():
            for batch in (128, 128, 37):
                m(torch.randn(batch, 3, 224, 224, device=GPU)).argmax(1)


def two_models_inference():
    a, b = torchvision.models.resnet50().to(GPU).eval(), Language(768, 4).to(GPU).eval()
    with torch.no_grad():
        for _ in range(30):
            if random.random() < 0.5:
                a(torch.randn(random.randrange(1, 33), 3, 224, 224, device=GPU))
            else:
                b(torch.randint(0, 9, (random.randrange(1, 9), random.randrange(16, 1500)), device=GPU))


def growing_caches():
    """Keys and values of requests that grow by one token and end at different times."""
    live = []
    for _ in range(24):
        n, left = random.randrange(20, 400), random.randrange(5, 60)
        live.append([[torch.empty(2, 12, n, 64, device=GPU) for _ in range(4)], left])
        for _ in range(10):
            for q in live:
                q[0] = [torch.cat([kv, torch.empty(2, 12, 1, 64, device=GPU)], 2) for kv in q[0]]
                q[1] -= 1
            live = [q for q in live if q[1] > 0]


def used_by_streams():
    """Blocks that other streams use: counters after every call, as in make.synthetic."""
    w, live, before = make.Words(), [], 0
    streams = [torch.cuda.default_stream()] + [torch.cuda.Stream() for _ in range(3)]
    for _ in range(2500):
        what = random.random()
        if what < 0.45 or not live:
            size, s = int(2 ** random.uniform(8, 25)), random.randrange(3)
            with torch.cuda.stream(streams[s]):
                live.append(torch.empty(size, dtype=torch.uint8, device=GPU))
            now = torch.cuda.memory_allocated()
            w.alloc(live[-1].data_ptr(), size, s, now - before, True)
        else:
            i = random.randrange(len(live))
            if what < 0.65:
                s = random.randrange(4)
                live[i].record_stream(streams[s])
                w.words.append(f"~{len(live) - 1 - i}@{s}")
            else:
                w.free(live[i].data_ptr())
                del live[i]
        stats = torch.cuda.memory_stats()
        before = stats["allocated_bytes.all.current"]
        waiting = stats["active_bytes.all.current"] - before
        w.then(stats["reserved_bytes.all.current"], stats["segment.all.current"], waiting)
    w.write("used_by_streams", {"conf": "", "total": 80 << 30, "limit": 0, "retries": 0, "ooms": 0})
    sys.exit()


def record(name):
    torch.manual_seed(0)
    random.seed(1)
    torch.cuda.memory._record_memory_history(context=None, stacks="python", max_entries=10**7)
    globals()[name]()
    torch.cuda.synchronize()
    stats, rows, streams = torch.cuda.memory_stats(), [], {}
    for e in torch.cuda.memory._snapshot()["device_traces"][0]:
        stream = streams.setdefault(e["stream"], len(streams))
        rows.append({"action": e["action"], "addr": hex(e["addr"]), "id": e["addr"], "size": e["size"], "stream": stream})
    final = {"final_allocated": stats["allocated_bytes.all.current"], "peak_allocated": stats["allocated_bytes.all.peak"]}
    make.model(rows, final, name)


if len(sys.argv) == 2:
    record(sys.argv[1])
else:
    for each in sys.argv[1:]:  # a process each: an empty allocator
        subprocess.run([sys.executable, os.path.abspath(__file__), each], check=True)
