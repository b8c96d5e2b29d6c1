#!/usr/bin/env python3
"""One rank of many beside what real PyTorch allocated as that rank: make truth
usage: truth_parallel.py [-v] [--texts DIR] [TRUTH_DIR [CASE...]]
Each case of TRUTH_DIR/parallel (its README.md says what they are; CASE: its name, or what its name begins with) is run with the options
that say the same: the step's phases of the first, the second and the last step, requested bytes at the end and the most within.
Prints a line for each strategy: cases, those equal in all of these figures, the largest difference of a figure, that of what is reserved
at most (mean and largest over the cases), how many of those with a CSV beside them go event by event as measured (allocations, frees,
sizes, streams, in order; under autocast frees that follow one another in any order), how many have a peak of allocated bytes outside
of the bounds, and behind them what other programs say (tests/golden/parallel/peers.csv: run or evaluated 2026-11 for the model of these
cases, P = 159,925,248 parameters; some model other systems, such as bf16 weights beside fp32 masters); with -v a line for each figure
that differs. Modules that are no text are exported to DIR (default: build/parallel) by tools/export_torch.py, where PYTHON (default:
python3) has PyTorch; texts that are in tests/golden/parallel are taken from there. Cases with a `device` were run by W processes
on it (tests/measured/ranks.py).
Exit status 1: a case that could be run failed, lies outside of the bounds, or differs by more than 1 % (on a device only the bounds count:
how long a collective has its tensors, time tells)."""

import csv, glob, json, os, re, subprocess, sys, tempfile

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
    model = pm.LM(c)
    ids = lambda: torch.zeros(batch, c.seq, dtype=torch.long)
    return model, dict(x=ids(), labels=ids()), lambda x, labels: pm.loss(model(x), labels)
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
        # what was measured: positions are zeros there, as all values, which transformers takes for packed sequences
        # (masking_utils.py: find_packed_sequence_indices); it was given input_ids and labels alone, and of an encoder with a
        # decoder the latter has a configuration of its own, whose use_cache nobody switched off
        more = ["--seq", str(d["seq"] or 128), "--packed"]
        with open(source[3:]) as f:
            if json.load(f).get("is_encoder_decoder"):
                more += ["--without", "decoder_input_ids", "--set", "use_cache=True"]
    p = subprocess.run(
        [PYTHON, os.path.join(HERE, "export_torch.py"), source, "-o", to, *more], capture_output=True, text=True
    )
    if kind == "hf" and not p.returncode:
        with open(to) as f:
            text = f.read()
        # what was measured had layers as units, not what transformers keeps whole
        units = " ".join(dict.fromkeys(re.findall(r"(?m)^\w+ (\S*?\.\d+)\.", re.sub(r"(?m)^(?:drop|unit) .*\n", "", text))))
        with open(to, "w") as f:
            f.write(re.sub(r"(?m)^unit .*\n(?:unit .*\n)*", f"unit {units}\n", text, count=1))
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


# options of what cuts the model; the others are the wrapper's
CUTS = {
    "tp": ("sp", "loss_parallel", "plan"),
    "pp": ("schedule", "microbatches", "stages", "return_outputs", "units", "loss_fn", "crossing"),
    "cp": ("rotate_method", "enable_load_balance"),
    "ep": (),
}


def spec(d):
    """--parallel of a case"""
    s, mesh, o = d["strategy"], d["mesh"], dict(d["options"])
    parts = s.split("+")
    if "hsdp" in parts:
        at = parts.index("hsdp")
        sizes = mesh[:at] + [f"{mesh[at]}x{mesh[at + 1]}"] + mesh[at + 2 :]
    elif s == "fsdp1" and len(mesh) == 2:
        sizes = [f"{mesh[0]}x{mesh[1]}"]
    elif len(parts) > 1:
        sizes = mesh
    else:
        sizes = [d["world"]]
    if d.get("init") == "meta":
        o["init"] = "meta"
    if parts[0] == "pp" and d["source"].startswith("lm:"):
        o["loss_fn"] = "loss_fn.flatten"
        if d["amp"] or o.get("mp"):
            o["crossing"] = d["amp"] or o["mp"]
    words = []
    for part, size in zip(parts, sizes):
        cuts = {k for p in parts for k in CUTS.get(p, ())}
        mine = [k for k in o if (k in CUTS[part] if CUTS.get(part) else k not in cuts)]
        words.append(f"{part}={size}" + "".join(f",{k}={o[k]}" for k in mine))
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
    version = ".".join(d.get("torch", "2.15").split(".")[:2])
    o += ["--rules", "torch-" + version] if version != "2.15" else []
    if isinstance(d.get("checkpoint"), str):  # a part of the layers
        return o + ["--checkpoint-nodes", d["checkpoint"]]
    return o + (["--checkpoint", "layers"] if d.get("checkpoint") and d["units"] else [])


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
    """figures of one case, the requested peak of its last step: measured, ours, and the first event that differs"""

    peak = event = None
    outside = 0

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


def there_before(d, text):
    """What was on the device before the program that was measured: a text is run once to find its sizes, which leaves cuDNN's dropout
    state (aten/src/ATen/native/cudnn/RNN.cpp: dropout_state_cache). The module itself has it from its first forward pass on, as here."""
    with open(text) as f:
        drops = re.search(r"(?m)^(lstm|gru|rnn) .* dropout=0?\.", f.read())
    return 4 << 20 if drops and d["source"].endswith(".vram") else 0


def compare(d, text):
    r = Result()
    names = ["first", "second", "steady"]
    before = there_before(d, text)
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
            more = before if (name, phase) == ("first", "zero_grad") else 0
            for k in ("requested", "requested_peak"):
                r.figure(f"{name} {phase} {k}", ours[k + "_bytes"] + more, m[k])
        r.peak = (max(m["requested_peak"] for m in phases(step).values()), o["peak_requested_bytes"])
        if before:
            continue  # and so all segments are others
        bounds = o["peak_allocated_bytes"]
        allocated = max(m.get("allocated_peak", m["requested_peak"]) for m in phases(step).values())
        if "allocated_peak" in m and allocated < bounds["lower"] or allocated > bounds["upper"]:
            r.outside += 1
            r.lines.append(f"{name + ' allocated, outside':44} {allocated:14} {bounds['lower']} to {bounds['upper']}")
        most = max(m["reserved_peak"] for m in phases(step).values())
        r.reserved.append(abs(o["peak_reserved_bytes"] - most) / most)
        if o["peak_reserved_bytes"] != most:
            r.lines.append(
                f"{name + ' reserved':44} {most:14} {o['peak_reserved_bytes']:14} {o['peak_reserved_bytes'] - most:+12}"
            )
    if "setup" in o:
        for k in ("requested", "requested_peak"):
            r.figure(f"wrap {k}", o["setup"]["wrap"][k + "_bytes"] + before, d["setup"]["wrap"][k])
    for k in ("local_params_bytes", "gradients_bytes", "optimizer_state_bytes"):
        views = d["options"].get("use_orig_params") == "1" or d.get(k, 0) > 4 * d.get("params_elements", 1 << 60)
        if k == "local_params_bytes" and views:
            continue  # a storage that several parameters are views of was added for each of them
        # all parameters of DeepSpeed lie in one storage, which the data count for each of them; gradients are gone
        if k in d and k in o and d["strategy"] != "none" and d["strategy"][:2] != "ds":
            r.figure(k, o[k], d[k])
    return r


def linked(rows):
    """events whose frees name how many events ago their block was allocated; 0: before the first"""
    born, out, streams = {}, [], {}
    for i, (phase, action, block, size, stream) in enumerate(rows):
        stream = streams.setdefault(stream, len(streams))  # a file of some steps numbers them as it sees them
        if action == "alloc":
            born[block] = i
        out.append((phase, action, size, stream, i - born[block] if action == "free" and block in born else 0))
    return out


def sorted_frees(events):
    """frees that follow one another in an order of their own: what autocast keeps goes in that of addresses"""
    out, i = [], 0
    while i < len(events):
        k = i + 1
        while events[i][1] == "free" and k < len(events) and events[k][1] == "free":
            k += 1
        ends = [(*e[:4], i + n - e[4] if e[4] else -1) for n, e in enumerate(events[i:k])]
        out += sorted(ends) if events[i][1] == "free" else events[i:k]
        i = k
    return out


def compare_events(d, path, text):
    """the first event that is another one than those of the file, or "": allocations and frees, sizes, streams"""
    measured, out = {}, os.path.join(tempfile.gettempdir(), f"parallel_events_{os.getpid()}.csv")
    with open(path) as f:
        for r in csv.DictReader(f):
            step, _, phase = r["phase"].rpartition(".")
            phase = "optimizer" if phase == "clip" else phase
            if r["action"] in ("alloc", "free"):
                row = (phase, r["action"], int(r["id"]), int(r["size"]), int(r["stream"]))
                measured.setdefault(step, []).append(row)
    setup = [row for row in measured.pop("", []) if row[0] == "wrap"]
    for step, rows in measured.items():
        rows = setup + rows if step == "1" else rows
        run(command(d, text, step) + ["--events", out])
        with open(out) as f:
            ours = [
                (r["phase"], r["action"], int(r["id"]), int(r["size"]), int(r["stream"])) for r in csv.DictReader(f)
            ]
        os.remove(out)
        a, b = linked(rows), linked(ours)
        if d["amp"]:
            a, b = sorted_frees(a), sorted_frees(b)
        for i in range(max(len(a), len(b))):
            if a[i : i + 1] != b[i : i + 1]:
                return f"step {step}, event {i + 1}: measured {a[i : i + 1]}, ours {b[i : i + 1]}"
    return ""


def print_peers(results):
    """what others say of the requested peak of a steady step; how far off they are, and we"""
    with open(os.path.join(GOLDEN, "peers.csv")) as f:
        rows = [row for row in csv.DictReader(f) if row["case"] in results and results[row["case"]].peak]
    if rows:
        print(f"\n{'a steady step':20} {'measured':>14} {'ours':>9}  others")
    for case in dict.fromkeys(row["case"] for row in rows):
        measured, ours = results[case].peak
        off = lambda n: f"{100 * (n / measured - 1):+.1f} %"
        others = [f"{off(int(row['bytes']))} {row['peer']}" for row in rows if row["case"] == case]
        print(f"{case:20} {measured:14} {off(ours):>9}  {'; '.join(others)}")
    for peer, source in dict.fromkeys((row["peer"], row["source"]) for row in rows):
        print(f"  {peer + ':':24} {source}")
    print()


def main(argv):
    verbose, texts = False, os.path.join(TOP, "build", "parallel")
    if argv[:1] == ["-v"]:
        verbose, argv = True, argv[1:]
    if argv[:1] == ["--texts"]:
        texts, argv = argv[1], argv[2:]
    truth, wanted = argv[0] if argv else TRUTH, argv[1:]
    table, results, failed = {}, {}, 0
    for path in sorted(glob.glob(os.path.join(truth, "parallel", "*.json"))):
        case = os.path.basename(path)[:-5]
        if wanted and not any(case.startswith(w) for w in wanted):
            continue
        with open(path) as f:
            d = dict(json.load(f), case=case)
        text, why = text_of(d, truth, texts)
        r = compare(d, text) if text else Result()
        if text and not r.why and os.path.exists(path[:-4] + "csv") and d["strategy"] != "none":
            r.event = compare_events(d, path[:-4] + "csv", text)
            r.lines += [r.event] * bool(r.event)
        r.why = r.why or why
        table.setdefault(d["strategy"], []).append(r)
        results[case] = r
        if verbose and (r.why or r.lines):
            print(f"{case}: {r.why or ''}")
            print("".join("  " + line + "\n" for line in r.lines), end="")
        apart = r.worst > 0.01 and "device" not in d
        failed += ((bool(r.why) and bool(text)) or apart or r.outside > 0) + bool(r.event)
    print(f"{'strategy':10} {'cases':>5} {'run':>4} {'equal':>5} {'worst':>8} {'reserved, mean':>15} {'worst':>8} {'events':>9} {'outside':>8}")
    passed = 0
    for strategy, rows in table.items():
        ran = [r for r in rows if not r.why]
        equal = sum(r.equal == r.figures for r in ran)
        reserved = [x for r in ran for x in r.reserved]
        events = [r.event for r in ran if r.event is not None]
        told = f"{events.count('')} of {len(events)}" if events else ""
        passed += sum(r.worst <= 0.01 for r in ran) + events.count("")
        print(
            f"{strategy:10} {len(rows):5} {len(ran):4} {equal:5} {100 * max((r.worst for r in ran), default=0):7.3f}% "
            f"{100 * sum(reserved) / max(1, len(reserved)):14.3f}% {100 * max(reserved, default=0):7.2f}% {told:>9} {sum(r.outside > 0 for r in ran):8}"
        )
        for why in sorted({r.why for r in rows if r.why}):
            print(f"  not run: {sum(r.why == why for r in rows)}: {why}")
    print_peers(results)
    print(f"parallel: {passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
