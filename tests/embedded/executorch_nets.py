"""Programs of ExecuTorch (.pte) by two of its memory planners, into a folder, and what ExecuTorch says of them: plans with the
bytes of each memory, bytes of constants. Needs executorch (tried: 1.5.1 with PyTorch 2.15): executorch_nets.py FOLDER"""

import sys

import torch
from executorch.exir import ExecutorchBackendConfig, to_edge
from executorch.exir._serialize._program import deserialize_pte_binary
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite, greedy, naive
from executorch.exir.passes.memory_planning_pass import MemoryPlanningPass
from torch import nn

L, R = nn.Linear, nn.ReLU


class Residual(nn.Module):
    def __init__(self, channels, kernel):
        super().__init__()
        self.a = nn.Conv2d(3, channels, kernel, padding=kernel // 2)
        self.b = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
        self.l = L(channels, 7)

    def forward(self, x):
        y = self.a(x).relu()
        return self.l((self.b(y).relu() + y).mean((2, 3)))


class State(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("t", torch.zeros(1, 40))
        self.l = L(40, 40)

    def forward(self, x):
        self.t.add_(x)
        return self.l(self.t)


class Two(nn.Module):
    def forward(self, x, y):
        return torch.cat([x @ y, y @ x], 1), (x * y).sum()


class Attention(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.q, self.o, self.h = L(d, 3 * d), L(d, d), h

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.q(x).view(b, n, 3, self.h, d // self.h).permute(2, 0, 3, 1, 4)
        return self.o(((q @ k.transpose(-1, -2)).softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


def zeros(*size, dtype=None):
    return torch.zeros(*size, dtype=dtype)


CNN = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), R(), nn.MaxPool2d(2), nn.Conv2d(8, 5, 3), nn.Flatten(), L(245, 3))
DEPTH = nn.Sequential(
    nn.Conv2d(4, 4, 3, groups=4), nn.Hardswish(), nn.Conv2d(4, 9, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten()
)
CASES = {
    "mlp": (nn.Sequential(L(13, 21), R(), L(21, 5)), (zeros(1, 13),)),
    "wide": (nn.Sequential(L(3, 257), nn.Tanh(), L(257, 2)), (zeros(5, 3),)),
    "conv": (CNN, (zeros(1, 3, 18, 18),)),
    "res": (Residual(6, 3), (zeros(2, 3, 11, 9),)),
    "res5": (Residual(10, 5), (zeros(1, 3, 15, 15),)),
    "state": (State(), (zeros(1, 40),)),
    "two": (Two(), (zeros(6, 6), zeros(6, 6))),
    "att": (Attention(12, 3), (zeros(1, 7, 12),)),
    "norm": (nn.Sequential(L(17, 19), nn.LayerNorm(19), nn.GELU(), L(19, 1)), (zeros(3, 17),)),
    "half": (nn.Sequential(L(11, 30), R(), L(30, 4)).half(), (zeros(1, 11, dtype=torch.half),)),
    "depth": (DEPTH, (zeros(1, 4, 13, 10),)),
    "embed": (nn.Sequential(nn.Embedding(50, 8), L(8, 8), nn.Sigmoid()), (zeros(1, 6, dtype=torch.long),)),
    "none": (nn.Sequential(R(), nn.Sigmoid()), (zeros(2, 9),)),
}


class Pools(MemoryPlanningPass):
    """What is small lies in a second memory."""

    def run(self, module, signature=None):
        for node in module.graph.nodes:
            spec = node.meta.get("spec")
            for x in spec if isinstance(spec, (list, tuple)) else [spec]:
                if node.op == "call_function" and hasattr(x, "mem_id") and not x.const and x.allocated_memory < 600:
                    x.mem_id = 2
        return super().run(module, signature)


def planned_by(algorithm, kind=MemoryPlanningPass):
    return kind(MemoryPlanningAlgorithmSuite(algo_list=[algorithm]))


def write(folder, name, methods, **config):
    exported = {k: torch.export.export(CASES[c][0].eval(), CASES[c][1]) for k, c in methods.items()}
    program = to_edge(exported).to_executorch(ExecutorchBackendConfig(**config))
    with open(f"{folder}/{name}.pte", "wb") as f:
        f.write(program.buffer)
    read = deserialize_pte_binary(program.buffer)
    read = getattr(read, "program", read)
    plans = [
        f"{p.name}:{k}:{size}"
        for p in program.executorch_program.execution_plan
        for k, size in enumerate(p.non_const_buffer_sizes)
        if k
    ]
    print(f"{name}.pte", *plans, sum(len(b.storage) for b in read.constant_buffer), flush=True)


def main(folder):
    for case in CASES:
        for name, algorithm in (("greedy", greedy), ("naive", naive)):
            write(folder, f"{case}-{name}", {"forward": case}, memory_planning_pass=planned_by(algorithm))
    for case in ("res", "att", "conv"):
        write(folder, f"{case}-pools", {"forward": case}, memory_planning_pass=planned_by(greedy, Pools))
    write(folder, "methods", {"encode": "mlp", "decode": "norm"})
    apart = MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False)
    write(folder, "mlp-noio", {"forward": "mlp"}, memory_planning_pass=apart)
    write(folder, "mlp-external", {"forward": "mlp"}, external_constants=True)


if __name__ == "__main__":
    main(sys.argv[1])
