"""Random damage to small sound files: vram.h's verdict beside ggml's and the package safetensors'.

usage: verdicts.py FORMATS.. [--ggml PROGRAM] [--count N] [--seed S]
FORMATS: folders with sound files, *.gguf and *.safetensors. PROGRAM: tests/measured/ggml_verdict.cpp.
Prints how many verdicts are the same, and those that differ by the reason that is known for each."""

import collections
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
# what one says and the other does not: pattern of vram's message, of the other's, and why
KNOWN = [
    (r"^ok", r"seek to beginning of data", "a header alone, without the padding behind it: enough for vram"),
    (r"another part of the model", r"^ok", "a second part is no file of its own for vram"),
    (r"twice", r"^ok", "doubled names or fields: the format forbids them, the package takes the last"),
    (r"no GGUF, safetensors", r"^ok", "blanks in front of the header: the format forbids them"),
    (r"^ok", r"file not fully covered", "the header without its data"),
]
NUMBERS = [0, 1, 2, 3, 4, 8, 31, 32, 63, 64, 127, 128, 255, 2**15, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1,
           2**63, 2**64 - 32, 2**64 - 1]  # fmt: skip


def damage(data, rng):
    data = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, kind = rng.randrange(len(data) or 1), rng.randrange(7)
        if kind == 0:
            data[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 1:
            data[at : at + 1] = bytes([data[at] ^ 1 << rng.randrange(8)] if data else b"")
        elif kind == 2:
            data[at : at + 8] = struct.pack("<Q", rng.choice(NUMBERS))
        elif kind == 3:
            data[at : at + 4] = struct.pack("<I", rng.choice(NUMBERS) & 0xFFFFFFFF)
        elif kind == 4:
            del data[at : at + rng.choice((1, 4, 8, 30))]
        elif kind == 5:
            data[at:at] = data[at : at + rng.choice((1, 4, 8, 24))]
        else:
            del data[at:]
    return bytes(data)


def swap_words(data, rng):
    """Of a JSON header: another number, word or bracket in the place of one; the length stays right."""
    header = data[8 : 8 + int.from_bytes(data[:8], "little")]
    words = re.findall(rb'"[^"]*"|[0-9]+|[^"0-9]', header)
    at = rng.randrange(len(words))
    words[at] = rng.choice(
        words + [b"0", b"-1", b"1.5", b"18446744073709551616", b'"F4"', b'"BF16"', b"null", b" ", b""]
    )
    header = b"".join(words)
    return struct.pack("<Q", len(header)) + header + data[8 + int.from_bytes(data[:8], "little") :]


class Reader:
    def __init__(self, program):
        self.p = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, errors="replace"
        )

    def __call__(self, path):
        print(path, file=self.p.stdin, flush=True)
        return self.p.stdout.readline().strip()


def by_safetensors(path):
    from safetensors import deserialize

    try:
        return f"ok {len(deserialize(Path(path).read_bytes()))}"
    except Exception as e:
        return f"bad {e}"


def compare(files, ours, other, count, rng, same):
    verdicts, reasons, odd = collections.Counter(), collections.Counter(), []
    with tempfile.TemporaryDirectory() as work:
        path = os.path.join(work, "file")
        for _ in range(count):
            source = rng.choice(files)
            data = (
                damage(source, rng) if rng.randrange(2) or source[:4] == b"GGUF" else swap_words(source, rng)
            )
            Path(path).write_bytes(data)
            a, b = ours(path), other(path)
            verdicts[(a[:2], b[:2])] += 1
            if same(a, b):
                continue
            why = next((w for p, q, w in KNOWN if re.search(p, a) and re.search(q, b)), None)
            reasons[why or "not known"] += 1
            if not why:
                odd.append((a, b, data))
    return verdicts, reasons, odd


def main():
    words, options = sys.argv[1:], {"--ggml": None, "--count": "2000", "--seed": "1"}
    while len(words) > 1 and words[-2] in options:
        options[words[-2]], words = words[-1], words[:-2]
    rng = random.Random(int(options["--seed"]))
    files = [
        p.read_bytes()
        for folder in words
        for p in sorted(Path(folder).iterdir())
        if not p.name.startswith("bad")
    ]
    with tempfile.TemporaryDirectory() as work:
        program = os.path.join(work, "verdict")
        subprocess.run(["cc", "-std=c99", "-O1", "-o", program, str(HERE / "verdict.c")], check=True)
        ours = Reader(program)
        rows = []
        if options["--ggml"]:
            gguf = [d for d in files if d[:4] == b"GGUF" and len(d) < 8192]
            rows.append(
                (
                    "GGUF, ggml",
                    gguf,
                    Reader(options["--ggml"]),
                    lambda a, b: a == b if a[:2] == b[:2] == "ok" else a[:2] == b[:2],
                )
            )
        else:
            print("SKIP ggml: no --ggml")
        sound = [d for d in files if d[8:9] == b"{" and len(d) < 8192]
        rows.append(("safetensors, the package", sound, by_safetensors, lambda a, b: a[:2] == b[:2]))
        for what, some, other, same in rows:
            verdicts, reasons, odd = compare(some, ours, other, int(options["--count"]), rng, same)
            print(f"{what}: {len(some)} files, {sum(verdicts.values())} damaged, {dict(verdicts)}")
            for why, n in reasons.most_common():
                print(f"  {n} differ: {why}")
            for a, b, data in odd[:8]:
                print(f"  vram: {a}\n  other: {b}\n  {data[:160]!r}")


main()
