"""random calls of checkpoint inside one another: gradients bit by bit those of the plain run, with dropout; each function runs as often
as the calls around it say"""

import copy, os, random, sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools"))
import torch, torch.nn as nn
from checkpoint_torch import Problem, apply_plan

runs = []


class Counted(nn.Module):
    def __init__(self, k, inner):
        super().__init__()
        self.k, self.inner = k, inner

    def forward(self, x):
        runs.append(self.k)
        return self.inner(x)


def spans(rng, first, last, depth=0):
    at = first
    while at <= last:
        end = rng.randint(at, last)
        if rng.random() < 0.6 and depth < 3:
            yield [at, end]
            yield from spans(rng, at, end if end > at else at - 1, depth + 1)
        at = end + 1


def plan(n, pairs):
    return {"chain": [{} for _ in range(n + 1)], "spans": pairs}


def step(model, x, seed):
    x = x.clone().requires_grad_()
    runs.clear()
    torch.manual_seed(seed)
    model(x).square().sum().backward()
    return [x.grad] + [p.grad for p in model.parameters()], list(runs)


def refuses(text, model, p):
    try:
        apply_plan(model, p)
    except Problem as e:
        return text in str(e)
    return False


passed = failed = 0


def check(what, is_so):
    global passed, failed
    passed, failed = passed + is_so, failed + (not is_so)
    if not is_so:
        print("FAIL", what)


rng = random.Random(5)
for case in range(150):
    n = rng.randint(1, 9)
    make = lambda: rng.choice(
        [lambda: nn.Linear(6, 6), nn.Tanh, lambda: nn.Dropout(0.5), lambda: nn.LayerNorm(6)]
    )()
    model = nn.Sequential(*[Counted(k, make()) for k in range(n)])
    x, pairs, reentrant = torch.randn(4, 6), list(spans(rng, 0, n - 1)), case % 3 == 0
    plain, _ = step(copy.deepcopy(model), x, case)
    planned, found = step(apply_plan(copy.deepcopy(model), plan(n, pairs), reentrant), x, case)
    check(f"{pairs}: gradients", all(torch.equal(a, b) for a, b in zip(plain, planned)))
    if (
        not reentrant
    ):  # a call stops when all is there that backward needs: the last function may not run again
        most = [1 + sum(a <= k <= b for a, b in pairs) for k in range(n)]
        counts = [found.count(k) for k in range(n)]
        check(f"{pairs}: {counts} runs, at most {most}", all(1 <= c <= m for c, m in zip(counts, most)))
        again = [k for k in range(n) if most[k] > 1 and any(True for _ in model[k].parameters())]
        check(f"{pairs}: {again} run again", all(counts[k] > 1 for k in again if k < n - 1))

three = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6))
named = {"chain": [{"last": n} for n in ("_0", "_1.half", "_1", "_2", "loss")], "spans": [[0, 1]]}
check("a span into a function", refuses("begin or end inside a function", three, named))
check("a span of a named chain", not refuses("", three, {**named, "spans": [[0, 2]]}))
check("another chain", refuses("5 stages with the loss, the Sequential 3 functions", three, plan(4, [])))
check("other names", refuses("which is in no function", three, {**named, "chain": [{"last": "fc"}] * 2}))
check(
    "a shorter chain",
    refuses("ends with function 1, the Sequential with 2", three, {**named, "chain": named["chain"][:3]}),
)
check("offload", refuses("--offload", three, plan(3, None)))
check("the loss within", refuses("runs the loss twice", three, plan(3, [[1, 3]])))
check("no Sequential", refuses("found Linear", nn.Linear(6, 6), plan(3, [])))
try:
    apply_plan(three, plan(3, [[0, 1]]), use_reentrant=True)(torch.randn(4, 6))
    check("reentrant without a gradient", False)
except Problem as e:
    check("reentrant without a gradient", "must require a gradient" in str(e))
print(f"spans: {passed} passed, {failed} failed")
