"""Seconds of other tools for one ResNet-50 training step with AdamW, medians of a few runs:
PyTorch's FakeTensorMode with MemTracker, torchinfo's table. bench.sh runs it where torch is there.
Prints lines `TOOL SECONDS`, or `SKIP TOOL: why`."""
import statistics
import sys
import time


def median(run, rounds):
    run()
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


try:
    import torch
    import torchvision
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker
except ImportError as e:
    print(f"SKIP FakeTensorMode + MemTracker: {e}")
    sys.exit()


def fake_step():
    with FakeTensorMode():
        model = torchvision.models.resnet50()
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
        tracker = MemTracker()
        tracker.track_external(model, optimizer)
        x = torch.zeros(1, 3, 224, 224)
        with tracker:
            model(x).mean().backward()
            optimizer.step()
            optimizer.zero_grad()


print(f"FakeTensorMode+MemTracker {median(fake_step, 3):.6f}")
try:
    import torchinfo
except ImportError as e:
    print(f"SKIP torchinfo: {e}")
else:
    model = torchvision.models.resnet50()
    table = lambda: torchinfo.summary(model, (1, 3, 224, 224), verbose=0, device="cpu")
    print(f"torchinfo {median(table, 3):.6f}")
