#!/usr/bin/env python3
"""Trains a torch.nn.Sequential by a schedule of `vram plan`: its spans are nested calls of torch.utils.checkpoint.

    vram plan model.vram --budget 4GiB --train adamw --json >plan.json

    from checkpoint_torch import apply_plan
    model = apply_plan(sequential, json.load(open("plan.json")))

As a command it plans, trains some steps on a GPU with and without the plan, and prints what PyTorch allocated beside what was planned:

    checkpoint_torch.py FILE.py:FUNCTION --budget 4GiB --train adamw     FUNCTION gives an nn.Sequential and its inputs
    checkpoint_torch.py FILE.py:FUNCTION --plan plan.json
    checkpoint_torch.py FILE.py:FUNCTION --budget 4GiB --gradients       on the CPU: are all gradients those of the plain run?

What batch normalisation learns of its input's mean and variance is learned once more when it runs again: as with every use of
torch.utils.checkpoint these buffers, not the gradients, differ from a plain run. Exit status: 0 done, 2 bad input, 3 no plan fits the
budget, or gradients differ.
"""

import argparse, copy, json, os, signal, sys, tempfile

import export_command

HERE = os.path.dirname(os.path.abspath(__file__))
SAYS = os.path.basename(sys.argv[0]).removesuffix(".py") + ":"  # of checkpoint_torch.py, or vram-checkpoint


class Problem(ValueError):
    """what is wrong and what to do, in one line"""


# ---- applying a plan


def functions_of(plan, names):
    """for each stage how many functions of the Sequential have begun when it ends, and whether the last of them has ended; the last
    stage may be a loss, which is none of them"""
    stages, count = plan["chain"], len(names)
    if not all("last" in s for s in stages):  # a chain by hand: a stage is a function
        if len(stages) - count not in (0, 1):
            raise Problem(
                f"the plan has {len(stages)} stages with the loss, the Sequential {count} functions"
            )
        return [(min(i + 1, count), True) for i in range(len(stages))]
    begun = []
    for i, stage in enumerate(stages):
        of = [k for k, name in enumerate(names) if belongs(stage["last"], name)]
        if not of and i + 1 < len(stages):
            raise Problem(f"stage {i} ends with {stage['last']}, which is in no function of the Sequential")
        begun.append(of[0] + 1 if of else count)
    if begun[-1] < count:
        raise Problem(f"the plan ends with function {names[begun[-1] - 1]}, the Sequential with {names[-1]}")
    return [
        (b, i + 1 == len(begun) or begun[i + 1] > b or loss(plan, i + 1, names)) for i, b in enumerate(begun)
    ]


def loss(plan, stage, names):
    """the last stage, if it is none of the Sequential's functions"""
    s = plan["chain"][stage]
    if "last" not in s:
        return stage == len(names)
    return stage + 1 == len(plan["chain"]) and not any(belongs(s["last"], name) for name in names)


def belongs(node, name):
    """a node of the text is of this child: 4, _4, 4.conv, _4.conv"""
    return node.removeprefix("_").split(".")[: name.count(".") + 1] == name.split(".") or node == name


def call_tree(plan, names):
    """what runs: numbers of functions, and lists that run without saving and again in backward"""
    spans = plan.get("spans")
    if spans is None:
        raise Problem("the plan has moves that are no calls of torch.utils.checkpoint (--offload)")
    of = functions_of(plan, names)
    tree, open_spans = [], []  # (function behind the last, list)
    done = 0
    for first, last in spans:
        if loss(plan, last, names):
            raise Problem("the plan runs the loss twice, which is no function of the Sequential")
        begin, whole = of[first - 1] if first else (0, True)
        end, ends = of[last]
        if not (whole and ends):
            raise Problem(f"the stages {first} to {last} begin or end inside a function of the Sequential")
        while open_spans and open_spans[-1][0] <= begin:
            stop, items = open_spans.pop()
            items.extend(range(done, stop))
            done = stop
        items = open_spans[-1][1] if open_spans else tree
        items.extend(range(done, begin))
        done = begin
        items.append([])
        open_spans.append((end, items[-1]))
    while open_spans:
        stop, items = open_spans.pop()
        items.extend(range(done, stop))
        done = stop
    return tree + list(range(done, len(names)))


def apply_plan(sequential, plan, use_reentrant=False):
    """A module that runs the Sequential, whose parameters it shares, by a plan: the JSON object of `vram plan --json`. With
    use_reentrant the input of a span must require a gradient, or its parameters get none."""
    import torch
    from torch.utils.checkpoint import checkpoint

    if not isinstance(sequential, torch.nn.Sequential):
        raise Problem(f"expected a torch.nn.Sequential, found {type(sequential).__name__}")
    names = [name for name, _ in sequential.named_children()]
    tree = call_tree(plan, names)

    class Planned(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sequential = sequential

        def forward(self, x):
            return self.run(tree, x)

        def run(self, items, x):
            for item in items:
                if not isinstance(item, list):
                    x = self.sequential[item](x)
                    continue
                if use_reentrant and torch.is_grad_enabled() and not x.requires_grad:
                    raise Problem(
                        "use_reentrant=True: the input of a checkpointed stage must require a gradient"
                    )
                x = checkpoint(self.run, item, x, use_reentrant=use_reentrant)
            return x

        def extra_repr(self):
            return json.dumps(tree)

    return Planned()


# ---- the command


def vram_plan(o, text):
    """the plan of a text by ./vram; its exit status 3 is no error"""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "model.vram")
        with open(path, "w") as f:
            f.write(text)
        words = ["plan", path, "--json", "--train", o.train, "--budget", o.budget]
        for name in ("amp", "dtype", "optim_impl", "planner", "cc"):
            if getattr(o, name):
                words += ["--" + name.replace("_", "-"), getattr(o, name)]
        try:
            status, out, err = export_command.run(words)
        except OSError as e:
            raise Problem(
                f"{export_command.tool()}: {e.strerror}: build it with make, or name it with VRAM="
            )
    if status not in (0, 3):
        raise Problem(err.strip().replace(path, "the text of the model") or f"vram ends with {status}")
    return json.loads(out)


def load(o):
    """the Sequential with its inputs, and its text"""
    sys.path.insert(0, HERE)
    import export_torch, measure_torch, torch

    try:
        text = None if o.plan else measure_torch.with_loss(measure_torch.export(o)[0])
        loaded = export_torch.load(o.source, train=True, batch=o.batch)
    except (export_torch.Problem, measure_torch.Problem) as e:
        raise Problem(str(e))
    if not isinstance(loaded.module, torch.nn.Sequential):
        raise Problem(f"{o.source}: expected a torch.nn.Sequential, found {type(loaded.module).__name__}")
    return loaded, text


def gradients(loaded, plan, o):
    """names of parameters, and `input`, whose gradients differ between a plain run and one by the plan, on the CPU"""
    import torch

    found = []
    for planned in (False, True):
        module = copy.deepcopy(loaded.module).train()
        run = apply_plan(module, plan, o.reentrant) if planned else module
        (x,) = (t.clone().requires_grad_() for t in loaded.make_inputs(**dict(loaded.dims)).values())
        if planned:
            x.data.copy_(found[0]["input"][0])
        torch.manual_seed(7)
        run(x).sum().backward()
        found.append({"input": (x.detach(), x.grad)} | {n: (p, p.grad) for n, p in module.named_parameters()})
    same = lambda a, b: a is not None and b is not None and torch.equal(a, b)
    return [n for n, (_, g) in found[0].items() if not same(g, found[1][n][1])], len(found[0])


def measure(loaded, plan, o):
    """peaks of the third step, as PyTorch counts them"""
    import measure_torch

    try:
        measure_torch.on_device()
        m = measure_torch.Measurement(loaded, dict(loaded.dims), o)
    except measure_torch.Problem as e:
        raise Problem(str(e))
    if plan:
        run = apply_plan(loaded.module, plan, o.reentrant)
        m.forward = lambda **inputs: run(*inputs.values())
        if o.reentrant:
            m.inputs = {k: t.requires_grad_() for k, t in m.inputs.items()}
    steps = [m.phases() for _ in range(3)]
    return {
        k: max(p[k + "_peak"] for p in steps[-1].values()) for k in ("requested_bytes", "allocated_bytes")
    }


def number(n):
    return f"{n:,}" if n is not None else "-"


def print_table(o, plan, plain, planned):
    said = plan.get("torch") or {}
    percent = lambda a, b: 100 * a / b if b else 100
    budget = number(plan["budget_bytes"])
    print(f"{plan['stages']} stages, {len(plan['spans'])} spans: {plan['planner']}, budget {budget} bytes")
    print(f"{'peak of the third step':32}{'plain':>16}{'planned':>16}{'of plain':>10}")
    rows = []
    for kind in ("requested", "allocated"):
        rows.append((kind + ", measured", plain[kind + "_bytes"], planned[kind + "_bytes"]))
        if said.get("planned") and not o.reentrant:  # which is not what the plan counts
            rows.append(
                (kind + ", as vram plan says", *(said[k][f"peak_{kind}_bytes"] for k in ("plain", "planned")))
            )
    rows.append(("of the runner in C", plan["peak_plain_bytes"], plan["peak_bytes"]))
    for name, a, b in rows:
        print(f"{name:32}{number(a):>16}{number(b):>16}{percent(b, a):9.1f}%")
    print(f"{'cost':32}{'100.0%':>16}{percent(plan['cost'], plan['cost_plain']):15.1f}%")


def arguments():
    a = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    a.add_argument("source", metavar="SOURCE", help="FILE.py:FUNCTION, or another source of export_torch.py")
    a.add_argument(
        "--plan", metavar="FILE", help="the JSON of vram plan; without it the plan is made from --budget"
    )
    a.add_argument("--budget", metavar="SIZE", help="as in vram plan")
    a.add_argument("--planner", metavar="NAME", help="as in vram plan")
    a.add_argument("--train", metavar="OPT", default="adamw", help="the optimizer (default: adamw)")
    a.add_argument("--optim-impl", choices=["foreach", "fused", "loop"])
    a.add_argument("--amp", choices=["bf16", "fp16"])
    a.add_argument("--dtype", choices=["bf16", "f16"])
    a.add_argument("--batch", metavar="N", type=int)
    a.add_argument("--cc", metavar="9.0", help="compute capability of the plan (default: the device's)")
    a.add_argument("--reentrant", action="store_true", help="checkpoint(use_reentrant=True)")
    a.add_argument(
        "--gradients", action="store_true", help="compare gradients on the CPU, bit by bit; needs no GPU"
    )
    a.add_argument("--json", action="store_true", help="one JSON object")
    import measure_torch  # which runs it, and has options besides

    known = vars(a.parse_args(["SOURCE"]))
    rest = vars(measure_torch.arguments().parse_args([]))
    a.set_defaults(**{name: value for name, value in rest.items() if name not in known})
    return a


def run(o):
    if (o.plan is None) == (o.budget is None):
        raise Problem("expected --plan FILE or --budget SIZE")
    try:
        import torch
    except ImportError:
        raise Problem("this Python has no torch")
    if not (o.gradients or torch.cuda.is_available()):
        raise Problem("no GPU that PyTorch can use (--gradients needs none)")
    if o.plan:
        try:
            with open(o.plan) as f:
                plan = json.load(f)
            plan["spans"], plan["chain"], plan["peak_bytes"]
        except OSError as e:
            raise Problem(f"{o.plan}: {e.strerror}")
        except (ValueError, KeyError, TypeError):
            raise Problem(f"{o.plan}: not what vram plan --json prints")
    loaded, text = load(o)
    if not o.plan:
        if not o.cc and not o.gradients:
            o.cc = "%d.%d" % torch.cuda.get_device_capability()
        plan = vram_plan(o, text)
    if not plan["feasible"]:
        print(
            SAYS,
            f"nothing fits: the smallest budget is {plan['smallest_budget_bytes']} bytes",
            file=sys.stderr,
        )
        return 3
    if o.gradients:
        differ, count = gradients(loaded, plan, o)
        print(
            f"{count} gradients, {len(plan['spans'])} spans: "
            + (f"{', '.join(differ)} differ" if differ else "all equal, bit by bit")
        )
        return 3 if differ else 0
    found = [measure(copy.deepcopy(loaded), p, o) for p in (None, plan)]
    if o.json:
        print(json.dumps({"plain": found[0], "planned": found[1], "plan": plan}))
    else:
        print_table(o, plan, *found)
    return 0


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    o = arguments().parse_args()
    try:
        sys.exit(run(o))
    except Problem as e:
        print(SAYS, e, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
