#!/usr/bin/env python3
"""Compares the predicted allocation streams with measured ones: forward and backward, allocations in order.
usage: events_diff.py [-v N] TRUTH_DIR [PATTERN]      all streams of TRUTH_DIR (events/, ops/, random/) whose name holds PATTERN
       events_diff.py [-v N] FILE.vram FILE.MODE.csv ...   one text and its measured streams
-v N prints N lines around the first difference. VRAM names the tool (default: ./vram beside the Makefile)."""
import collections, glob, os, subprocess, sys

TOOL = os.environ.get("VRAM", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vram"))


def load(lines, node_column):
    phases = {}
    for line in lines:
        w = line.rstrip("\n").split(",")
        if len(w) > 3 and w[1] == "alloc":
            phases.setdefault(w[0], []).append((int(w[3]), ",".join(w[node_column:])))
    return phases


def mode_options(mode):
    o = ["--train", mode.split("_")[-1]]
    for amp in ("bf16", "fp16"):
        if "amp_" + amp in mode:
            o += ["--amp", amp]
    return o


def own_options(vram):
    """what stands in a comment `# options: ...` of the text"""
    return next((line.split(":", 1)[1].split() for line in open(vram) if line.startswith("# options:")), [])


def compare(vram, csv, mode, around):
    p = subprocess.run([TOOL, "estimate", vram, "--events", "-"] + mode_options(mode) + own_options(vram), capture_output=True, text=True)
    if p.returncode:
        return "err", [(p.stderr.strip().split("\n") or ["crash"])[-1] or f"exit {p.returncode}"]
    ours, truth = load(p.stdout.split("\n"), 5), load(open(csv), 4)
    worst, notes = "same", []
    for phase in ("forward", "backward"):
        a, b = truth.get(phase, []), ours.get(phase, [])
        sa, sb = [x[0] for x in a], [x[0] for x in b]
        if sa == sb:
            continue
        kind = "multiset" if collections.Counter(sa) == collections.Counter(sb) else "differs"
        worst = "differs" if "differs" in (kind, worst) else kind
        i = next((i for i, (x, y) in enumerate(zip(sa, sb)) if x != y), min(len(sa), len(sb)))
        at = lambda v: v[i] if i < len(v) else None
        notes.append(f"{phase} {kind} #{i}: measured {at(a)} ours {at(b)} ({len(a)} / {len(b)} allocations)")
        for k in range(max(0, i - around), i + around if around else 0):
            notes.append(f"    {k:5} {a[k] if k < len(a) else None} | {b[k] if k < len(b) else None}{'   <<<' if k == i else ''}")
    return worst, notes


def main():
    args, around = sys.argv[1:], 0
    if args and args[0] == "-v":
        around, args = int(args[1]), args[2:]
    if not args or args[0] in ("-h", "--help"):
        sys.exit(__doc__)
    cases = []
    if os.path.isdir(args[0]):
        for d in ("events", "ops", "random"):
            for csv in sorted(glob.glob(os.path.join(args[0], d, "*.csv"))):
                name, mode = os.path.basename(csv).split(".")[:2]
                if len(args) < 2 or args[1] in os.path.basename(csv):
                    cases.append((os.path.join(args[0], "models" if d == "events" else d, name + ".vram"), csv, mode))
    else:
        cases = [(args[0], c, os.path.basename(c).split(".")[-2]) for c in args[1:]]
    count = collections.Counter()
    for vram, csv, mode in cases:
        kind, notes = compare(vram, csv, mode, around)
        count[kind] += 1
        if kind != "same":
            print(os.path.basename(csv)[:-4], *notes, sep="\n  " if around else " | ")
    print(dict(count))
    print(f"events: {count['same']} passed, {sum(count.values()) - count['same']} failed")
    return int(count["same"] != sum(count.values()))


sys.exit(main())
