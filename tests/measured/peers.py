"""Other tools beside vram and what llama.cpp said, in one run: the table of docs/model-files.md.

usage: peers.py [--gguf-parser PROGRAM] [TRUTH]
Wants the packages gguf, hf-mem and accelerate; PROGRAM is tests/measured/gguf_parser.go, built with the module
github.com/gpustack/gguf-parser-go (`go build` in a folder with both). What is not there is skipped by name. VRAM names the command,
default ./vram. TRUTH: data/truth of the facts.

For each of TRUTH/gguf/llama_cpp.jsonl: all bytes that llama.cpp takes (weights, caches, compute
buffers, on devices and host), and those of its devices. A tool is asked with the record's
settings, as far as it has options for them; a file is a header with a hole for its data.
For each of TRUTH/hf_config: weights and the cache of one sequence of 8,192 tokens."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VRAM = os.environ.get("VRAM", "./vram")
TOKENS = 8192


class Tally:
    """Errors of a tool in percent, and the processor's seconds that it took."""

    def __init__(self):
        self.errors, self.failed, self.equal, self.seconds = [], 0, 0, 0.0

    def add(self, found, wanted):
        if found is None:
            self.failed += 1
        elif wanted:
            self.errors.append(100 * (found - wanted) / wanted)
            self.equal += found == wanted

    def row(self, tool, what):
        if not self.errors:
            return f"| {tool} | {what} | 0 | {self.failed} | | | | | |"
        n, sizes = len(self.errors), [abs(e) for e in self.errors]
        worst = max(self.errors, key=abs)
        low = sum(e < 0 for e in self.errors)
        each = 1e3 * self.seconds / (n + self.failed)
        return (
            f"| {tool} | {what} | {n} | {self.failed} | {self.equal} | {sum(sizes) / n:.2f} % | {worst:+.1f} % | {low} |"
            f" {each:.2f} |"
        )


def processor():
    t = os.times()
    return t.user + t.system + t.children_user + t.children_system


def timed(tally, run, *arguments):
    begin = processor()
    try:
        return run(*arguments)
    except Exception:  # whatever it does not know: a failure of the tool
        return None
    finally:
        tally.seconds += processor() - begin


# ---- files: what llama.cpp said


def wanted(record):
    buffers = record["buffers"].items()
    everything = sum(sum(b) for _, b in buffers)
    devices = sum(sum(b) for name, b in buffers if name.startswith("CUDA") and name != "CUDA_Host")
    return everything, devices


OPTIONS = {"ctx": "--ctx", "batch": "--n-batch", "ubatch": "--n-ubatch", "seq": "--slots", "unified": "--unified",
           "outputs": "--outputs", "k": "--cache-k", "v": "--cache-v", "ngl": "--ngl", "ts": "--tensor-split",
           "extra": "--repack"}  # fmt: skip


def ask_vram(record, path):
    words = [VRAM, "estimate", str(path), "--json"]
    for key, value in record["set"].items():
        if key in OPTIONS:
            words += [OPTIONS[key], str(value)]
        elif key == "fa":
            words += ["--flash-attn", "on" if value else "off"]
        elif key == "kqv" and not value:
            words += ["--no-kv-offload"]
        elif key == "swa_full" and value:
            words += ["--swa-full"]
    words += ["--devices", str(record["devices"])] if record["devices"] else ["--device", "cpu"]
    said = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    flat = {"buffers": {n: [b["model"], b["context"], b["compute"]] for n, b in said["buffers"].items()}}
    return wanted(flat)


class Parser:
    """gguf-parser-go, a process for all records."""

    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, record, path):
        question = {
            "File": str(path),
            "Devices": record["devices"],
            "Ctx": record["set"]["ctx"],
            "Set": record["set"],
        }
        print(json.dumps(question), file=self.p.stdin, flush=True)
        word, *numbers = self.p.stdout.readline().split()
        return (int(numbers[0]), int(numbers[1])) if word == "ok" else None

    def seconds(self):
        """Of its process up to now."""
        fields = Path(f"/proc/{self.p.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask_hf_mem(record, path):
    from hf_mem.gguf.metadata import parse_gguf_metadata

    settings, header = record["set"], HEADERS / record["file"]
    kind = settings.get("k", "f16").upper()
    found = parse_gguf_metadata(header.read_bytes(), True, settings["ctx"], kind, 1)
    return found.bytes_count + found.kv_cache.cache_size, None


def ask_gguf_py(record, path):
    import gguf

    return sum(int(t.n_bytes) for t in gguf.GGUFReader(path).tensors), None


def has(name):
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        print(f"SKIP {name}: not installed", file=sys.stderr)
        return None


def gguf_rows(folder, program):
    records = [json.loads(line) for line in (folder / "llama_cpp.jsonl").open()]
    records = [r for r in records if "error" not in r]
    sizes = {
        name: entry["file_bytes"] for name, entry in json.loads((folder / "index.json").read_text()).items()
    }
    tools = {"vram": ask_vram}
    parser = Parser(program) if program else None
    if parser:
        tools["gguf-parser-go"] = parser.ask
    else:
        print("SKIP gguf-parser-go: no --gguf-parser", file=sys.stderr)
    for name, ask in (("hf-mem", ask_hf_mem), ("gguf", ask_gguf_py)):
        if title := has(name):
            tools[title + (" (weights alone)" if name == "gguf" else " (weights, cache)")] = ask
    tallies = {tool: (Tally(), Tally()) for tool in tools}
    with tempfile.TemporaryDirectory() as work:
        for name in sorted({r["file"] for r in records}):
            path = Path(work) / name
            shutil.copy(folder / name, path)
            os.truncate(path, sizes[name])
            for record in (r for r in records if r["file"] == name):
                everything, devices = wanted(record)
                for tool, ask in tools.items():
                    whole, part = tallies[tool]
                    before = parser.seconds() if parser and ask == parser.ask else 0
                    found = timed(whole, ask, record, path)
                    whole.seconds += parser.seconds() - before if parser and ask == parser.ask else 0
                    whole.add(found and found[0], everything)
                    if found and found[1] is not None and devices:
                        part.add(found[1], devices)
            path.unlink()
    for tool, (whole, part) in tallies.items():
        yield whole.row(tool, "all buffers")
        if part.errors:
            part.seconds = whole.seconds * len(part.errors) / (len(whole.errors) + whole.failed)
            yield part.row(tool, "of devices")


# ---- config.json: elements that transformers has, bytes of its caches


def hf_wanted(entry):
    cache = entry["cache"]
    if not cache:  # an encoder
        return entry["parameters"] * 4, 0
    layer = cache["kv_bytes_per_token_full_layer"]
    window = min(cache["window"] or TOKENS, TOKENS)
    kept = layer * (cache["full_layers"] * TOKENS + cache["sliding_layers"] * window)
    return entry["parameters"] * cache["element_bytes"], kept


def hf_vram(path, entry):
    words = [VRAM, "estimate", str(path / "config.json"), "--ctx", str(TOKENS), "--json"]
    said = json.loads(subprocess.run(words, capture_output=True, check=True).stdout)
    return said["params_bytes"], said["kv_cache_bytes"]


def hf_hf_mem(path, entry):
    from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size, resolve_kv_cache_dtype

    config = json.loads((path / "config.json").read_text())
    config = config.get("text_config", config)
    kind = resolve_kv_cache_dtype(config, None, None, path.name)
    return None, compute_safetensors_kv_cache_size(config, kind, TOKENS)


def hf_accelerate(path, entry):
    """What estimate-memory prints, of a model in float32; it takes names of the hub only."""
    import torch
    import transformers
    from accelerate import init_empty_weights
    from accelerate.utils import calculate_maximum_sizes

    config = transformers.AutoConfig.from_pretrained(path)
    kind = getattr(transformers, config.architectures[0])
    with init_empty_weights():
        model = kind._from_config(config, dtype=torch.float32)
    return (
        calculate_maximum_sizes(model)[0] * (entry["cache"] or {"element_bytes": 4})["element_bytes"] // 4,
        None,
    )


def hf_rows(folder):
    expected = json.loads((folder / "expected.json").read_text())
    tools = {"vram": hf_vram}
    for name, ask in (("hf-mem", hf_hf_mem), ("accelerate", hf_accelerate)):
        if title := has(name):
            tools[title] = ask
    for tool, ask in tools.items():
        weights, cache = Tally(), Tally()
        for name, entry in expected.items():
            found = timed(weights, ask, folder / name, entry)
            for tally, value, truth in zip((weights, cache), found or (None, None), hf_wanted(entry)):
                if found is None or value is not None:
                    tally.add(value, truth)
        cache.seconds = weights.seconds
        for tally, what in ((weights, "weights"), (cache, "cache")):
            if tally.errors:
                yield tally.row(tool, what)


def main():
    words = sys.argv[1:]
    program = None
    if words[:1] == ["--gguf-parser"]:
        program, words = words[1], words[2:]
    truth = Path(words[0] if words else "../shared/data/truth")
    global HEADERS
    HEADERS = truth / "gguf"
    head = "| tool | figure | answers | no answer | equal | mean error | worst | too low | ms each |\n|---|---|---|---|---|---|---|---|---|"
    for title, rows in (
        ("llama.cpp's buffers", gguf_rows(HEADERS, program)),
        ("config.json", hf_rows(truth / "hf_config")),
    ):
        print(f"{title}\n{head}", flush=True)
        for row in rows:
            print(row, flush=True)


main()
