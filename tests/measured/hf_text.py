#!/usr/bin/env python3
"""Writes tests/golden/hf_text.inc: digests of the texts that tools/export_torch.py writes of config.json files.

    hf_text.py FILE ... >OUT                  FILE: a config.json, or a file .inc whose configs are exported anew;
                                              needs transformers 5.23
    hf_text.py --compare FILE.json OUR.vram                      the first line that differs

A text counts by its lines without comments, `model`, `rules` and `dim`; values by the order in which they are
defined, not by their names (tests/test_hf.c does the same with what vram_hf_write writes).
"""

import json, os, re, subprocess, sys, tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
EXPORTER = os.path.join(HERE, "..", "..", "tools", "export_torch.py")
TOKENS = 128


def lines(text):
    names = {}
    for line in text.split("\n"):
        word = line.partition("#")[0].split()
        if not word or word[0] in ("model", "rules", "dim"):
            continue
        if word[0] not in ("drop", "output", "infer", "order"):
            for n in word[1].split(","):
                names[n] = f"v{len(names)}"
        out = [word[0]]
        for w in word[1:]:
            key, equal, value = w.partition("=")
            out.append(
                key + equal + names.get(value, value)
                if equal
                else ",".join(names.get(n, n) for n in w.split(","))
            )
        yield " ".join(out)


def exported(path):
    # sets of texts are walked in an order that the seed decides: full attention before sliding windows
    p = subprocess.run(
        [sys.executable, EXPORTER, "hf:" + path, "--seq", str(TOKENS)],
        capture_output=True,
        text=True,
        env=dict(os.environ, PYTHONHASHSEED="0"),
    )
    if p.returncode:
        sys.exit(f"{path}: {p.stderr.strip()}")
    return p.stdout


def digest(text):
    h, n = 0xCBF29CE484222325, 0
    for line in lines(text):
        n += 1
        for b in (line + "\n").encode():
            h = (h ^ b) * 0x100000001B3 % (1 << 64)
    return n, h


def configs(path):
    with open(path) as f:
        text = f.read()
    if path.endswith(".inc"):
        return [json.loads(s) for s in re.findall(r'^\{("(?:[^"\\]|\\.)*"),', text, re.M)]
    return [json.dumps(json.loads(text), separators=(",", ":"))]


def main():
    if sys.argv[1] == "--compare":
        theirs = list(lines(exported(sys.argv[2])))
        with open(sys.argv[3]) as f:
            ours = list(lines(f.read()))
        for i, (a, b) in enumerate(zip(theirs, ours)):
            if a != b:
                sys.exit(f"line {i + 1}\n  exporter {a}\n  vram     {b}")
        sys.exit(len(theirs) != len(ours))
    print(f"/* Files config.json, and the lines of the text that the exporter writes of them at S={TOKENS}")
    print("   (tests/measured/hf_text.py): how many, and their digest. */")
    print("/* clang-format off */")
    for config in (c for path in sys.argv[1:] for c in configs(path)):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            f.write(config)
            f.flush()
            n, h = digest(exported(f.name))
        print("{%s, %d, UINT64_C(0x%016x)}," % (json.dumps(config), n, h), flush=True)
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
