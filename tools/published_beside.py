#!/usr/bin/env python3
"""What llama.cpp's processes took beside its buffers, as people published it, beside the bounds of `vram estimate`

usage: published_beside.py [FILE.csv]

The files are made anew, headers alone (gguf_header.py). A figure in whole MiB may be one off: it is the difference of
rounded ones. The exit status is 1 if one lies outside that should not, or inside where a reason for it is given.
"""

import csv, json, os, subprocess, sys, tempfile

import gguf_header

HERE = os.path.dirname(os.path.abspath(__file__))
VRAM = os.environ.get("VRAM", os.path.join(HERE, "..", "vram"))
ANY = "llama-3.2-1b.Q4_0"  # a context alone is the same for all


def bounds(folder, row):
    """lower, expected and upper in MiB"""
    model = row["model"].lstrip("~") or ANY
    path = os.path.join(folder, model + ".gguf")
    if not os.path.exists(path):
        with open(path, "wb") as header:
            header.write(gguf_header.header(model))
    command = [VRAM, "estimate", path, "--json", "--gpu", row["gpu"], *row["options"].split()]
    # exit status 3 is "does not fit"
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)["beside_bytes"]["CUDA0"]
    if row["what"] == "context":
        found = found["context"]
    parts = [found[key] for key in ("lower", "expected", "upper")]
    if row["what"] == "rise":
        parts = [a - found["context"][key] for a, key in zip(parts, ("lower", "expected", "upper"))]
    return [bytes_ / 2**20 for bytes_ in parts]


def main(argv):
    path = argv[1] if len(argv) > 1 else os.path.join(HERE, "published_beside.csv")
    inside = failed = known = 0
    errors = []
    with open(path) as f, tempfile.TemporaryDirectory() as folder:
        for row in csv.DictReader((line for line in f if line[0] != "#"), delimiter=";"):
            lower, expected, upper = bounds(folder, row)
            mib = float(row["mib"])
            good = lower - 1 <= mib <= upper + 1
            failed += good == bool(row["outside"])
            inside += good and not row["outside"]
            known += bool(row["outside"]) and not good
            if good and not row["outside"]:
                errors.append(abs(mib - expected))
            words = "outside: " + row["outside"] if row["outside"] else "" if good else "OUTSIDE"
            print(
                f"{row['device'][:34]:34} {row['what']:7} {mib:7.0f}  {expected:6.0f} ({lower:4.0f} to {upper:5.0f}) {words}"
            )
    errors.sort()
    print(
        f"published_beside: {inside} passed, {failed} failed ({known} outside for a reason), {errors[len(errors) // 2]:.0f} MiB off in the median"
    )
    return failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
