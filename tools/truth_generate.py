#!/usr/bin/env python3
"""Compares generations of config.json files with what transformers' generate() took: make truth
usage: truth_generate.py [TRUTH_DIR]

TRUTH_DIR has generate.jsonl: for each run the requested bytes before and behind every forward pass, and its peaks of requested, allocated
and reserved bytes. The configs are tests/golden/generate/MODEL.json; the file does not have them: that of deepseek_v3 follows from
the figures (parameters, bytes of buffers, of the cache of a token, of the logits, and what one sequence more adds to the peak of a step).
"""

import json, os, re, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
VRAM = os.path.join(HERE, "..", "vram")
TRUTH = os.path.join(HERE, "..", "..", "shared", "data", "truth")
CONFIGS = os.path.join(HERE, "..", "tests", "golden", "generate")
DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}
MORE = 4  # tokens that were asked for beyond those that were measured: a static cache has room for them
FIGURES = "before", "after", "requested", "allocated", "reserved"


def output(*args, text=None):
    p = subprocess.run([VRAM, *args], input=text, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"{' '.join(args)}: {p.stderr.strip()}")
    return p.stdout


def ours(row):
    config = os.path.join(CONFIGS, row["model"] + ".json")
    generate = f"prompt={row['prompt']},new={row['new'] + MORE}"
    # the pretended GPU answers every look at values with no, so masks are made as for padded prompts
    options = f"{generate},cache={row['cache']},attn={row['attn']},padded=1"
    text = output("convert", config, "--generate", options, "--batch", str(row["batch"]))
    # from_config() makes all in the dtype of the model, from_pretrained() keeps the bias of a router in f32
    text = re.sub(r"(e_score_correction_bias shape=\S+) dtype=f32", r"\1 dtype=model", text)
    csv = output(
        *("estimate", "-", "--generate", generate, "--batch", str(row["batch"])),
        *("--dtype", DTYPES[row["dtype"]], "--csv"),
        text=text,
    )
    return [[int(v) for v in line.split(",")[1:6]] for line in csv.split("\n")[1 : 1 + row["new"]]]


def compared(row):
    """the figures that are equal in every step, and by how much the others are off at most"""
    off = {}
    for k, (a, b) in enumerate(zip(row["steps"], ours(row))):
        for name, measured, found in zip(FIGURES, a, b):
            if name == "after" or (name == "before" and not k):
                continue  # what generate() has made before the first pass is made in the first step here
            off[name] = max(off.get(name, 0), found - measured, measured - found)
    return off


def main():
    path = os.path.join(sys.argv[1] if len(sys.argv) > 1 else TRUTH, "generate.jsonl")
    if not os.path.exists(path):
        print(f"SKIP generations: no {path}")
        return
    with open(path) as f:
        rows = [json.loads(line) for line in f]
    table, worst = {}, {}
    for i, row in enumerate(rows):
        off = compared(row)
        kind = row["model"], row["dtype"], row["cache"], row["attn"]
        all_equal, requested = not any(off.values()), not (off["before"] or off["requested"])
        t = table.setdefault(kind, [0, 0, 0])
        table[kind] = [t[0] + 1, t[1] + all_equal, t[2] + requested]
        if not all_equal:
            share = max(v / row["steps"][0][4] for v in off.values())
            worst[i + 1] = kind, {k: v for k, v in off.items() if v}, share
    print(f"{'generate()':34} runs  equal in all  in requested")
    for kind, (n, equal, requested) in table.items():
        print(f"{' '.join(kind):34} {n:4} {equal:13} {requested:13}")
    total = [sum(t[i] for t in table.values()) for i in range(3)]
    print(f"{'all':34} {total[0]:4} {total[1]:13} {total[2]:13}")
    for i, (kind, off, share) in worst.items():
        said = ", ".join(f"{k} {v:,}" for k, v in off.items())
        print(f"row {i} ({' '.join(kind)}): at most {said} bytes off ({100 * share:.1f} % of what was reserved)")


if __name__ == "__main__":
    main()
