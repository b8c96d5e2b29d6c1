#!/usr/bin/env python3
"""Logs of llama.cpp on real hardware beside what `vram estimate` says of the same file and options

usage: published_llama.py [FILE.csv]

The files are made anew, headers alone (gguf_header.py). Figures are compared as printed, in MiB with two decimals, or whole.
The exit status is 1 if one differs that should not, or agrees where a difference is known.
"""

import csv, json, os, subprocess, sys, tempfile

import gguf_header

HERE = os.path.dirname(os.path.abspath(__file__))
VRAM = os.environ.get("VRAM", os.path.join(HERE, "..", "vram"))
SUMS = ("model", "kv", "host.inputs")  # of figures that are rounded each
WHY = {
    "inputs": "other inputs: masks were f32, cells had no numbers (ggml_set_rows)",
    "layers": "the output was the last of --ngl, now it is the first",
    "window": "before sliding windows had caches of their own",
    "kobold": "KoboldCpp adds to the context",
    "newer": "a later build, not explained",
    "older": "an earlier build, not explained",
    "slots": "the log does not say how many sequences: two",
}


def old_inputs(model, report):
    """What the host's buffer held until 2026: a mask in f32, the embeddings of the batch, its tokens, positions and
    rows of the output. Later there are the cells' numbers and a second place for embeddings as well."""
    cells = report["kv"][0]["cells"]
    return min(report["n_ubatch"], report["n_ctx"]) * 4 * (cells + model.embd + 3)


def estimate(path, model, options):
    command = [VRAM, "estimate", path, "--json", *options.split()]
    r = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    found = {"output": r["output_bytes"], "host.inputs": old_inputs(model, r), "model": 0, "kv": 0}
    # embeddings of each sequence beside its logits
    found["output+embd"] = r["output_bytes"] // model.vocab * (model.vocab + model.embd)
    for name, b in r["buffers"].items():
        where = "gpu" + name[4:] if name[4:].isdigit() else "host"
        for key, column in (("model", "model"), ("kv", "context"), ("compute", "compute")):
            found[f"{where}.{key}"] = found.get(f"{where}.{key}", 0) + b[column]
            found[key] = found.get(key, 0) + b[column]
    return found


def main(argv):
    path = argv[1] if len(argv) > 1 else os.path.join(HERE, "published_llama.csv")
    passed = failed = known = logs = 0
    with open(path) as f, tempfile.TemporaryDirectory() as folder:
        table = csv.DictReader((line for line in f if line[0] != "#"), delimiter=";")
        for row in table:
            file = os.path.join(folder, row["model"] + ".gguf")
            with open(file, "wb") as header:
                header.write(gguf_header.header(row["model"]))
            ours = estimate(file, gguf_header.Model(row["model"]), row["options"])
            logs += 1
            for column in ("printed", "drift"):
                for item in row[column].split():
                    key, text = item.split("=")
                    mib = ours[key] / 2**20
                    good = abs(mib - float(text)) <= (0.0101 if key in SUMS else 0.00501)
                    good |= text.isdigit() and int(mib) == int(text)
                    drifts = column == "drift"
                    passed += good and not drifts
                    failed += good == drifts
                    known += drifts
                    words = "known: " + WHY[row["why"]] if drifts else "" if good else "DIFFERS"
                    name = f"{row['model']} {row['options']}"
                    print(
                        f"{row['device'][:22]:22} {row['build'][:16]:16} {name:70.70} {key:12} {text:>9} {mib:9.2f} {words}"
                    )
    print(f"published_llama: {logs} logs, {passed} passed, {failed} failed ({known} known)")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
