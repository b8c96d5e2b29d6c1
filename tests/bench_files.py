"""Seconds of other readers for the files that build/bench writes, medians of a few runs: the packages
gguf and safetensors, json for an index. bench.sh runs it.
usage: bench_files.py FOLDER
Prints lines `WHAT: SECONDS`, or `SKIP WHAT: why`."""

import importlib.metadata
import json
import os
import statistics
import sys
import time


def median(run, rounds=5):
    seconds = []
    for _ in range(rounds):
        begin = time.process_time()
        run()
        seconds.append(time.process_time() - begin)
    return statistics.median(seconds)


def version(name):
    return f"{name} {importlib.metadata.version(name)}"


def whole_gguf(header, whole):
    """The data that the header promises, as a hole: gguf maps it."""
    with open(header, "rb") as f, open(whole, "wb") as to:
        to.write(f.read())
        to.truncate(os.path.getsize(header) + 5 * 2**30)


def whole_shards(folder):
    names = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    for name in names:
        with open(os.path.join(folder, name), "r+b") as f:
            begin = int.from_bytes(f.read(8), "little")
            f.truncate(8 + begin + 12 * 512)
    return [os.path.join(folder, n) for n in names]


folder = sys.argv[1]
index = os.path.join(folder, "model.safetensors.index.json")
print(f"index of 1,000 shards, Python's json: {median(lambda: json.load(open(index))):.6f}")
try:
    import gguf
except ImportError as e:
    print(f"SKIP gguf: {e}")
else:
    whole = os.path.join(folder, "whole.gguf")
    whole_gguf(os.path.join(folder, "large.gguf"), whole)
    print(f"header of 10 MB, {version('gguf')}: {median(lambda: gguf.GGUFReader(whole), 1):.6f}")
    os.remove(whole)
try:
    from safetensors import safe_open
except ImportError as e:
    print(f"SKIP safetensors: {e}")
else:
    shards = whole_shards(folder)

    def all_shards():
        for name in shards:
            with safe_open(name, "np") as f:
                f.keys()

    print(f"1,000 shards, {version('safetensors')}: {median(all_shards):.6f}")
