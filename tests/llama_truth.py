"""Lines for tests/test_llama.c from what llama.cpp itself said (data/truth/gguf of the facts).

usage: llama_truth.py FOLDER           every record, with the files that it is about
       llama_truth.py FOLDER --golden  some of them, with tables of tensors written out
"""

import json
import struct
import sys
from pathlib import Path

TYPES = {
    0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1", 8: "q8_0", 10: "q2_k",
    11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k", 16: "iq2_xxs", 17: "iq2_xs", 18: "iq3_xxs",
    19: "iq1_s", 20: "iq4_nl", 21: "iq3_s", 22: "iq2_s", 23: "iq4_xs", 29: "iq1_m", 30: "bf16",
    34: "tq1_0", 35: "tq2_0", 39: "mxfp4",
}  # fmt: skip
FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# one of each kind of model
MODELS = [
    "llama-3.1-8b.Q4_K_M", "llama-3.1-8b.TQ1_0", "llama-2-7b.Q4_0", "gemma-3-1b.Q4_K_M",
    "gemma-2-9b.Q4_K_M", "gpt-oss-20b.MXFP4_MOE", "deepseek-v2-lite.Q4_K_M", "mamba2-2.7b.Q4_K_M",
    "jamba-1.5-mini.Q4_K_M", "nemotron-h-8b.Q4_K_M", "lfm2-1.2b.Q4_K_M", "glm-4.5-air.Q4_K_M",
    "bge-base.F16", "gpt2.F16", "phi-4.Q4_K_M", "command-r-35b.Q4_K_M",
]  # fmt: skip


class Header:
    """Keys and tensors of a GGUF file."""

    def __init__(self, path):
        self.data, self.at = path.read_bytes(), 8
        ntensor, nkey = self.number("Q"), self.number("Q")
        self.keys = [(self.text(), self.value(self.number("I"))) for _ in range(nkey)]
        self.tensors = [self.tensor() for _ in range(ntensor)]

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def text(self):
        count = self.number("Q")
        self.at += count
        return self.data[self.at - count : self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, count = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(FORMATS[kind])

    def tensor(self):
        name = self.text()
        sizes = [self.number("Q") for _ in range(self.number("I"))]
        kind = TYPES[self.number("I")]
        self.at += 8
        return name, kind, sizes


def describe(path):
    """Lines of a header: its keys, and its tensors with the layers that have the same."""
    header = Header(path)
    yield f"model {path.name}"
    for key, value in header.keys:
        many = value if isinstance(value, list) else [value]
        if key == "general.architecture":
            yield f"arch {value}"
        elif all(isinstance(v, int) for v in many) and "." in key and not key.startswith(("general", "tok")):
            yield f"key {key} {'array ' if isinstance(value, list) else ''}{' '.join(str(int(v)) for v in many)}"
    rows = {}
    for name, kind, sizes in header.tensors:
        parts = name.split(".")
        layer = parts[1] if parts[0] == "blk" else "-"
        rest = ".".join(parts[2:]) if layer != "-" else name
        rows.setdefault((rest, kind, tuple(sizes)), []).append(layer)
    for (rest, kind, sizes), layers in rows.items():
        yield f"tensor {rest} {kind} {','.join(layers)} {' '.join(map(str, sizes))}"


def run(record):
    """A record: its settings, and what llama.cpp said."""
    settings = dict(record["set"])
    settings["devices"] = record["devices"]
    words = [f"{k}={v}" for k, v in settings.items()]
    if "error" in record:
        return f"run {' '.join(words)} : refused"
    said = [f"n_ctx {record['n_ctx']}", f"output {record['output_mib']}"]
    if record.get("fa"):
        said.append(f"flash {int(record['fa'] == 'enabled')}")
    said += [f"buffer {name} {b[0]} {b[1]} {b[2]}" for name, b in record["buffers"].items()]
    said += [f"cache {' '.join(map(str, c))}" for c in record.get("kv", [])]
    r, s = record.get("rs_mib", [0, 0])
    return f"run {' '.join(words)} : {' : '.join(said)} : states {r} {s}"


def chosen(records):
    """Records of which each has something that those before it have not."""
    seen = set()
    for record in records:
        family = record["file"].split("-")[0] if "TQ" not in record["file"] else "tq"
        settings = record["set"]
        facts = {(family, record["device"]), (family, record["devices"], "ngl" in settings)}
        facts |= {(record["devices"], "ts" in settings)}
        facts |= {(k, str(v)) for k, v in settings.items() if k not in ("ctx", "ngl")}
        facts |= {(family, k) for k in settings if k in ("kqv", "swa_full", "seq", "ngl")}
        facts |= {(family, "extra", settings.get("extra"))}
        facts |= {(family, record.get("fa"), "error" in record)}
        if not facts <= seen:
            yield record
        seen |= facts


def main():
    folder, is_golden = Path(sys.argv[1]), "--golden" in sys.argv
    records = [json.loads(line) for line in (folder / "llama_cpp.jsonl").open()]
    if is_golden:
        print("# llama.cpp 0c1e57098 (2026-10-01), llama_get_memory_breakdown: tests/llama_truth.py --golden")
        records = list(chosen([r for m in MODELS for r in records if r["file"] == m + ".gguf"]))
    file = ""
    for record in sorted(records, key=lambda r: r["file"]):
        if record["file"] != file:
            file = record["file"]
            print("\n".join(describe(folder / file)) if is_golden else f"file {folder / file}")
        print(run(record))


main()
