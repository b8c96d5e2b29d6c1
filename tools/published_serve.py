"""Published logs of serving engines beside what `vram estimate --engine` says.

usage: published_serve.py [FILE.csv]

Every log is predicted from its model and the bytes for the cache that it prints, which are rounded:
what it prints else must lie between the predictions for the smallest and the largest of such bytes.
"activations" is the trial run's peak in GiB, which must lie between the bounds of its term.
"""

import csv
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
VRAM = os.path.join(HERE, "..", "vram")


def predict(row, kv_bytes):
    command = [VRAM, "estimate", "--engine", "vllm", "--rules", row["rules"]]
    command += ["--kv", row["rows"], "--json", "--kv-cache-memory", str(kv_bytes)]
    command += row["options"].split()
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)


def values(report):
    found = report["high"]
    blocks = report["blocks_per_request"]
    # what one request needs: every group's blocks at that group's own bytes
    need = sum(g["blocks_per_request"] * g["bytes"] for g in report["groups"]) if blocks else 0
    return dict(found, need=need / 2**30, peak=report["terms"].get("activations"))


def bounds(row):
    """Predictions for the smallest and the largest bytes that are printed so."""
    kv = row["kv"]
    if kv.endswith("blocks"):
        block = predict(row, 1 << 30)["block_bytes"]
        bytes_low = bytes_high = int(kv.split()[0]) * block
    else:
        # K and V of SGLang are printed on their own: twice the rounding
        half = 0.01 if "sglang" in row["options"] else 0.005
        bytes_low = int((float(kv) - half) * 2**30)
        bytes_high = int((float(kv) + half) * 2**30)
    return values(predict(row, bytes_low)), values(predict(row, bytes_high))


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(HERE, "published_serve.csv")
    passed = failed = known = 0
    with open(path) as f:
        table = csv.DictReader((line for line in f if line[0] != "#"), delimiter=";", quoting=csv.QUOTE_NONE)
        for row in table:
            low, high = bounds(row)
            for item in row["printed"].split():
                key, text = item.split("=")
                decimals = len(text.partition(".")[2])
                if key == "activations":
                    least, most = low["peak"]["low"] / 2**30, low["peak"]["high"] / 2**30
                else:
                    least, most = low[key], high[key]
                least, most = round(least, decimals), round(most, decimals)
                good = least <= float(text) <= most
                known += bool(row["differs"])
                passed += good and not row["differs"]
                failed += good == bool(row["differs"])
                words = "known: " + row["differs"] if row["differs"] else "" if good else "DIFFERS"
                ours = f"{most}" if least == most else f"{least} to {most}"
                print(f"{row['source'][:34]:34} {row['model']:33} {key:11} {text:>9}  {ours:22} {words}")
    print(f"published_serve: {passed} passed, {failed} failed ({known} known)")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
