#!/usr/bin/env python3
"""Fine-tuning by options of the command beside what real PyTorch, peft and bitsandbytes did: make truth
usage: truth_finetune.py [TRUTH_DIR]
Each case of TRUTH_DIR/finetune is one small Llama, trained with adapters, quantised weights or whole; here it is the plain model of
tests/finetune/llama.vram with the options that say so. Prints requested bytes of the third step, at the end of each phase and the most
within it: measured, ours, difference; at last how many agree within 1 % (passed; exit status 1 if any does not)."""

import glob, json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = os.environ.get("VRAM", os.path.join(HERE, "..", "vram"))
TRUTH = os.path.join(HERE, "..", "..", "shared", "data", "truth")
TEXT = os.path.join(HERE, "..", "tests", "finetune", "llama.vram")
OPTIMIZERS = {
    "adamw": "adamw",
    "sgd": "sgd_momentum",
    "bnb:AdamW8bit": "adamw_8bit",
    "bnb:Lion8bit": "lion_8bit",
    "bnb:PagedAdamW8bit": "paged_adamw_8bit",
}


def adapters(name):
    """what nullgpu/finetune_models.py makes of the case of this name"""
    words = ["r=64" if "r64" in name else "r=16"]
    if "dropout" in name:
        words.append("dropout=0.1" if "nf4" in name else "dropout=0.05")
    if "qv" in name or "dora" in name:
        words.append("targets=q_proj|v_proj")
    return ["--lora", ",".join(words + ["dora=1"] * ("dora" in name))]


def quantised(name):
    for kind in ("nf4", "fp4", "int8"):
        if kind in name:
            more = ",double=0" * ("single" in name) + ",prepare=0" * ("unprepared" in name)
            return ["--quant", kind + more]
    return []


def options(name, d):
    o = ["--train", OPTIMIZERS[d["optimizer"]], "--cudnn", "none", "--json"]
    o += [] if "full" in name else adapters(name)
    o += quantised(name)
    o += ["--dtype", "bf16"] * (not name.endswith("f32"))
    o += ["--checkpoint", "layers"] * ("checkpoint" in name)
    o += ["--amp", d["amp"]] if d["amp"] else []
    o += ["--accumulate", str(d["accumulate"])] if d["accumulate"] > 1 else []
    return o + ["--clip-grad-norm", "foreach"] * d["clip"]


def main():
    truth = sys.argv[1] if len(sys.argv) > 1 else TRUTH
    count = dict.fromkeys(("equal", "within 1 %", "worse"), 0)
    print(f"{'fine-tuning':32} {'phase':10} {'bytes':5} {'measured':>14} {'ours':>14} {'difference':>12}")
    for path in sorted(glob.glob(os.path.join(truth, "finetune", "*.json"))):
        d, case = json.load(open(path)), os.path.basename(path)[:-5]
        p = subprocess.run(
            [TOOL, "estimate", TEXT, *options(case.split(".")[0], d)], capture_output=True, text=True
        )
        if p.returncode not in (0, 3):
            print(f"{case}: {p.stderr.strip()}")
            count["worse"] += 1
            continue
        ours, measured = json.loads(p.stdout)["phases"], d["steps"][2]
        for phase in ("forward", "backward", "optimizer"):
            for figure, key in (("end", "requested"), ("peak", "requested_peak")):
                m, o = measured[phase][key], ours[phase][key + "_bytes"]
                off = abs(o - m) / m
                count["equal" if o == m else "within 1 %" if off <= 0.01 else "worse"] += 1
                print(f"{case:32} {phase:10} {figure:5} {m:14} {o:14} {o - m:+12} {100 * (o - m) / m:+8.3f} %")
    print(", ".join(f"{n} {kind}" for kind, n in count.items()))
    print(f"{count['equal'] + count['within 1 %']} passed, {count['worse']} failed")
    return 1 if count["worse"] or not count["equal"] else 0


if __name__ == "__main__":
    sys.exit(main())
