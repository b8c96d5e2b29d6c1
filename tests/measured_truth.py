#!/usr/bin/env python3
"""Compares what tools/measure_torch.py measured with what was measured before, independently, in the truth set.
usage: measured_truth.py RECORD.json TRUTH.json MODE       MODE as in the truth set, e.g. train_fp32_adamw
Prints a line for every figure that differs; the last line counts."""

import json, sys


def main():
    record, truth = (json.load(open(f)) for f in sys.argv[1:3])
    mode, o = sys.argv[3], record["options"]
    batch = truth["batches"][o[o.index("--batch") + 1]]
    if record["torch"] != truth["torch"]:
        print(f"SKIP measure: torch {record['torch']}, and {truth['torch']} measured the truth set")
        return 0
    theirs, pairs = batch[mode], []
    if mode.startswith("infer"):
        after = theirs.get("after") or theirs["after_forward"]
        pairs += [("forward " + k, record["phases"]["forward"][k], v) for k, v in after.items()]
    else:
        step = theirs[o[o.index("--step") + 1]]
        for phase in record["phases"]:
            pairs += [(f"{phase} {k}", record["phases"][phase][k], v) for k, v in step[phase].items()]
        pairs += [
            ("inputs", record["inputs_bytes"], batch["inputs_bytes"]),
            ("optimizer state", record["optimizer_bytes"], theirs["optimizer_state_bytes"]),
            ("gradients", record["gradients_bytes"], theirs["gradients_bytes"]),
        ]
        saved = "saved_" + "_".join(mode.split("_")[1:-1])
        if saved in batch:
            pairs.append((saved, record["saved_bytes"], batch[saved]["saved_bytes"]))
    for k in ("params_bytes", "buffers_bytes"):
        pairs.append((k, record[k], truth[k]))
    wrong = [p for p in pairs if p[1] != p[2]]
    for figure, ours, measured in wrong:
        print(f"{sys.argv[1]}: {mode} {figure}: {ours} now, {measured} in the truth set")
    print(f"measured: {len(pairs) - len(wrong)} passed, {len(wrong)} failed")
    return bool(wrong)


sys.exit(main())
