#!/usr/bin/env python3
"""One rank of many beside what real PyTorch allocated as that rank: make truth
usage: truth_parallel.py [-v] [--texts DIR] [TRUTH_DIR [CASE...]]
Each case of TRUTH_DIR/parallel (its README.md says what they are; CASE: its name, or what its name begins with) is run with the options
that say the same: the step's phases of the first, the second and the last step, requested bytes at the end and the most within.
Prints a line for each strategy: cases, those equal in all of these figures, the largest difference of a figure, that of what is reserved
at most (mean and largest over the cases); with -v a line for each figure that differs. Modules that are no text are exported to DIR
(default: build/parallel) by tools/export_torch.py, where PYTHON (default: python3) has PyTorch; texts that are in tests/golden/parallel
are taken from there.
Exit status 1: a case that could be run failed, or differs by more than 1 %."""

import glob, json, os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(HERE)
TOOL = os.environ.get("VRAM", os.path.join(TOP, "vram"))
TRUTH = os.path.join(TOP, "..", "shared", "data", "truth")
GOLDEN = os.path.join(TOP, "tests", "golden", "parallel")
PYTHON = os.environ.get("PYTHON", "python3")
MODELS = """
import os, sys
sys.path.insert(0, {folder!r})
import torch, parallel_models as pm

def example(batch=2, seq=0, **keys):
    c = pm.Config(**keys)
    c.seq = seq or c.seq
    class Model(pm.LM):
        def forward(self, x, labels):
            return pm.loss(super().forward(x), labels)
    ids = lambda: torch.zeros(batch, c.seq, dtype=torch.long)
    return Model(c), dict(x=ids(), labels=ids())
"""
# a pipeline's stages have cos and sin of their own, in the dtype of what they are given, and the loss is the schedule's
STAGES = """
import os, sys
sys.path.insert(0, {folder!r})
import torch, parallel_models as pm

def example(batch=2, seq=0, cuts="", **keys):
    c = pm.Config(**keys)
    c.seq = seq or c.seq
    table = lambda: torch.zeros(2, c.seq, c.dim // c.heads)

    class Block(pm.Block):
        def forward(self, x, cs):
            if hasattr(self, "cos_sin"):
                cs = self.cos_sin.type_as(x)
            return super().forward(x, cs), cs

    class LossFn(torch.nn.Module):
        def forward(self, logits, labels):
            return pm.loss(logits, labels)

    class Model(pm.LM):
        def forward(self, ids, labels):
            x = self.tok_embeddings(ids)
            if c.kind == "gpt":
                x = x + self.pos_embeddings(torch.arange(ids.shape[1], device=ids.device))
            cs = self.cos_sin.type_as(x) if c.kind != "gpt" else None
            for b in self.layers.values():
                x, cs = b(x, cs)
            return self.loss_fn(self.output(self.norm(x)), labels)

    m = Model(c)
    m.loss_fn = LossFn()
    for k in m.layers:
        m.layers[k] = Block(c)
        if k in str(cuts).split(".") and c.kind != "gpt":
            m.layers[k].register_buffer("cos_sin", table(), persistent=False)
    ids = lambda: torch.zeros(batch, c.seq, dtype=torch.long)
    return m, dict(ids=ids(), labels=ids())
"""
CONFIG = "import sys, transformers as T; T.AutoConfig.for_model(sys.argv[1], **eval(sys.argv[2])).save_pretrained(sys.argv[3])"


def number(text):
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


SINGLE = ("1F1B", "GPipe")


def stages(d):
    """stages in all of a case that is a pipeline of a module, or 0"""
    if d["strategy"].split("+")[0] != "pp" or d["source"].endswith(".vram"):
        return 0
    o = d["options"]
    ranks = d["mesh"][0] if "+" in d["strategy"] else d["world"]
    return ranks * int(o.get("stages", 1 if o.get("schedule", "1F1B") in SINGLE else 2))


def text_name(d):
    """the text of a case that is a module: the second word of its name, which names a model; shapes and tokens tell others apart"""
    name = d["case"].split(".")[1].removeprefix("module_")
    return name + (f".stages{stages(d)}" if stages(d) else "") + ".vram"


def export(d, to, truth):
    """the text of a module; says why not"""
    kind, _, name = d["source"].partition(":")
    words = dict(w.split("=") for w in name.split(",") if "=" in w)
    source, more = d["source"], []
    os.makedirs(os.path.dirname(to), exist_ok=True)
    if kind == "lm":
        source = to[:-5] + ".py"
        with open(source, "w") as f:
            f.write((STAGES if stages(d) else MODELS).format(folder=os.path.abspath(os.path.join(truth, "..", "..", "nullgpu"))))
        source += ":example"
        more = [w for k, v in words.items() for w in ("--set", f"{k}={v}")]
        more += ["--set", f"seq={d['seq']}"] if d["seq"] else []
        if stages(d):
            n, layers = stages(d), int(words.get("layers", 4))
            more += ["--set", "cuts=" + ".".join(str(round(layers * i / n)) for i in range(1, n))]
    elif kind == "hf":
        source = to[:-5]
        keys = {k: number(v) for k, v in words.items()}
        p = subprocess.run(
            [PYTHON, "-c", CONFIG, name.split(",")[0], repr(keys), source], capture_output=True, text=True
        )
        if p.returncode:
            return p.stderr.strip().split("\n")[-1]
        source = "hf:" + os.path.join(source, "config.json")
        more = ["--seq", str(d["seq"] or 128)]
    p = subprocess.run(
        [PYTHON, os.path.join(HERE, "export_torch.py"), source, "-o", to, *more], capture_output=True, text=True
    )
    return p.stderr.strip().split("\n")[-1] if p.returncode else ""


def text_of(d, truth, texts):
    """(path of the text of a case, "") or ("", why not)"""
    if d["source"].endswith(".vram"):
        return os.path.join(truth, "models", d["source"]), ""
    for folder in (GOLDEN, texts):
        path = os.path.join(folder, text_name(d))
        if os.path.exists(path):
            return path, ""
    why = export(d, path, truth)
    return ("", "not exported: " + why) if why else (path, "")


OURS = {"sgd": "sgd_momentum", "adamw": "adamw", "adam": "adam"}


def spec(d):
    """--parallel of a case"""
    s, mesh, o = d["strategy"], d["mesh"], dict(d["options"])
    parts = s.split("+")
    if s == "hsdp":
        sizes = [f"{mesh[0]}x{mesh[1]}"]
    elif len(parts) == 2:
        sizes = mesh
    else:
        sizes = [d["world"]]
    if s == "ep":
        parts, sizes = ["ddp", "ep"], [d["world"]] * 2
    if d.get("init") == "meta":
        o["init"] = "meta"
    if parts[0] == "pp" and d["source"].startswith("lm:"):
        o["loss_fn"] = "loss_fn.flatten"
        if d["amp"]:
            o["crossing"] = d["amp"]
    own = {k: v for k, v in o.items() if k in ("sp", "loss_parallel")} if "tp" in parts else {}
    rest = [f",{k}={v}" for k, v in o.items() if k not in own]
    words = []
    for part, size in zip(parts, sizes):
        mine = [f",{k}={v}" for k, v in own.items()] if part == "tp" else rest
        words.append(f"{part}={size}" + "".join(mine))
    return "+".join(words)


def command(d, text, step):
    o = [TOOL, "estimate", text, "--train", OURS[d["optimizer"]], "--cudnn", "none", "--json", "--step", step]
    o += ["--parallel", spec(d), "--rank", str(d["rank"])] if d["strategy"] != "none" else []
    o += ["--batch", str(d["batch"])] if d["batch"] else []
    o += ["--amp", d["amp"]] if d["amp"] else []
    o += ["--dtype", d["dtype"]] if d["dtype"] else []
    o += ["--optim-impl", d["impl"]] if d["impl"] else []
    o += ["--accumulate", str(d["accumulate"])] if d.get("accumulate", 1) > 1 else []
    o += ["--clip-grad-norm", "foreach"] if d.get("clip") else []
    return o + (["--checkpoint", "layers"] if d.get("checkpoint") else [])


def run(command):
    p = subprocess.run(command, capture_output=True, text=True)
    if p.returncode:
        return None, p.stderr.strip().split("\n")[-1] or f"exit status {p.returncode}"
    return json.loads(p.stdout), ""


def phases(step):
    """the measured phases as ours: what clips gradients is a part of the optimizer's"""
    p = dict(step)
    if "clip" in p:
        clip = p.pop("clip")
        p["optimizer"] = {
            k: max(v, clip[k]) if k.endswith("_peak") else v for k, v in p["optimizer"].items()
        }
    p.pop("gc", None), p.pop("gc_bytes", None)
    return p


class Result:
    def __init__(self):
        self.figures = self.equal = 0
        self.worst, self.reserved, self.lines, self.why = 0.0, [], [], ""

    def figure(self, where, ours, measured):
        self.figures += 1
        self.equal += ours == measured
        if ours != measured:
            off = abs(ours - measured) / max(measured, 1)
            self.worst = max(self.worst, off)
            self.lines.append(f"{where:44} {measured:14} {ours:14} {ours - measured:+12}")


def compare(d, text):
    r = Result()
    names = ["first", "second", "steady"]
    for name, step in zip(names, d["steps"]):
        if name == "steady" and d["options"].get("static_graph") == "1":
            name = "3"
        o, r.why = run(command(d, text, name))
        if o is None:
            return r
        for phase, m in phases(step).items():
            ours = o["phases"].get(phase)
            if ours is None:
                continue
            for k in ("requested", "requested_peak"):
                r.figure(f"{name} {phase} {k}", ours[k + "_bytes"], m[k])
        most = max(m["reserved_peak"] for m in phases(step).values())
        r.reserved.append(abs(o["peak_reserved_bytes"] - most) / most)
        if o["peak_reserved_bytes"] != most:
            r.lines.append(
                f"{name + ' reserved':44} {most:14} {o['peak_reserved_bytes']:14} {o['peak_reserved_bytes'] - most:+12}"
            )
    if "setup" in o:
        for k in ("requested", "requested_peak"):
            r.figure(f"wrap {k}", o["setup"]["wrap"][k + "_bytes"], d["setup"]["wrap"][k])
    for k in ("local_params_bytes", "gradients_bytes", "optimizer_state_bytes"):
        if k in d and k in o and d["strategy"] != "none":
            r.figure(k, o[k], d[k])
    return r


def main(argv):
    verbose, texts = False, os.path.join(TOP, "build", "parallel")
    if argv[:1] == ["-v"]:
        verbose, argv = True, argv[1:]
    if argv[:1] == ["--texts"]:
        texts, argv = argv[1], argv[2:]
    truth, wanted = argv[0] if argv else TRUTH, argv[1:]
    table, failed = {}, 0
    for path in sorted(glob.glob(os.path.join(truth, "parallel", "*.json"))):
        case = os.path.basename(path)[:-5]
        if wanted and not any(case.startswith(w) for w in wanted):
            continue
        with open(path) as f:
            d = dict(json.load(f), case=case)
        text, why = text_of(d, truth, texts)
        r = compare(d, text) if text else Result()
        r.why = r.why or why
        table.setdefault(d["strategy"], []).append(r)
        if verbose and (r.why or r.lines):
            print(f"{case}: {r.why or ''}")
            print("".join("  " + line + "\n" for line in r.lines), end="")
        failed += (bool(r.why) and bool(text)) or r.worst > 0.01
    print(f"{'strategy':10} {'cases':>5} {'run':>4} {'equal':>5} {'worst':>8} {'reserved, mean':>15} {'worst':>8}")
    passed = 0
    for strategy, rows in table.items():
        ran = [r for r in rows if not r.why]
        equal = sum(r.equal == r.figures for r in ran)
        reserved = [x for r in ran for x in r.reserved]
        passed += sum(r.worst <= 0.01 for r in ran)
        print(
            f"{strategy:10} {len(rows):5} {len(ran):4} {equal:5} {100 * max((r.worst for r in ran), default=0):7.3f}% "
            f"{100 * sum(reserved) / max(1, len(reserved)):14.3f}% {100 * max(reserved, default=0):7.2f}%"
        )
        for why in sorted({r.why for r in rows if r.why}):
            print(f"  not run: {sum(r.why == why for r in rows)}: {why}")
    print(f"parallel: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
