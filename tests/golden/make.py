#!/usr/bin/env python3
"""Writes streams.txt, reserved.txt and the texts from measured files, never from vram's own output.
usage: make.py TRUTH_DIR [VERSIONS_DIR]       (a folder with models/, ops/, random/, events/; see the head of streams.txt)
VERSIONS_DIR has torch-2.9/NAME.MODE.csv and so on, of older versions: then versions.txt alone is written.

A row of streams.txt: name, mode, phase, allocations, hash, end, peak, saved
  allocations, hash   of the phase's allocation sizes in order: FNV-1a 64 over 8 little-endian bytes each; - where the order was not measured
  end, peak           requested bytes at the end of the phase and the highest within it; - where not measured
  saved               bytes kept for backward at the end of forward (rows of phase forward); else -
A row of reserved.txt: model, batch, mode, and the highest requested, allocated and reserved bytes of that step.
Mode: infer, or train_WHAT_OPTIMIZER of the steady step, .first of the first step; in versions.txt @torch-2.9 and so on."""
import glob, json, os, re, sys

HERE = os.path.dirname(os.path.abspath(__file__))
EVAL = "tv_resnet18 tv_mobilenet_v2 tv_efficientnet_b0 nn_unet nn_lenet5 nn_dcgan_g nn_lstm2 hf_llama_small timm_mixer_b16_224".split()
MODELS = """tv_resnet18 tv_resnet50 tv_mobilenet_v2 tv_densenet121 tv_efficientnet_b0 tv_swin_t tv_vit_b_16 tv_convnext_tiny nn_unet
nn_lstm2 nn_lenet5 nn_mlp_dropout nn_linear5000x10 nn_dcgan_g hf_gpt2 hf_bert_base hf_llama_small hf_t5_small timm_mixer_b16_224""".split()
SAVED = {"train_fp32": "saved_fp32", "train_amp_bf16": "saved_amp_bf16", "train_amp_fp16": "saved_amp_fp16"}
HEAD = """# Measured allocation streams. Written by make.py from the measured files; do not edit.
# Source: PyTorch 2.15.0+cu132 (host code; kernels and cuDNN workspaces empty), device of compute capability 9.0 with 132 multiprocessors;
# torchvision 0.29.2, timm 1.0.31, transformers 5.23.0. Texts: ops/ and random/ as they were run, models/ exported through torch.export.
# name mode phase allocations hash end peak saved
"""

VERSIONS_HEAD = """# Measured allocation streams of older versions of PyTorch. Written by make.py from the measured files; do not edit.
# Source: the wheels on PyPI, the device of streams.txt: 2.1.2+cu121, 2.2.2+cu121, 2.3.1+cu121, 2.4.1+cu121, 2.5.1+cu124, 2.6.0+cu124, 2.7.1+cu126, 2.8.0+cu128, 2.9.1+cu128, 2.10.0+cu128,
# 2.11.0+cu130, 2.12.1+cu130, 2.13.0+cu130, 2.14.1+cu130. Streams that are those of streams.txt have no row. The texts of versions/ are here alone.
# name mode phase allocations hash end peak saved
"""


def fnv(sizes):
    h = 0xCBF29CE484222325
    for s in sizes:
        for b in s.to_bytes(8, "little"):
            h = (h ^ b) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{h:016x}"


def streams(path):
    phases = {}
    for line in open(path).read().splitlines()[1:]:
        w = line.split(",")
        if w[1] == "alloc":
            phases.setdefault(w[0], []).append(int(w[3]))
    return phases


def short(text):
    """The same model with short names and no comments: nothing of it goes into a byte count."""
    names, out = {}, []
    new = lambda n: names.setdefault(n, f"v{len(names)}")
    for line in text.splitlines():
        w = line.split("#")[0].split()
        if not w or w[0] in ("model", "dim", "rules"):
            out += [" ".join(w)] if w else []
            continue
        done = [w[0]]
        for t in w[1:]:
            key, eq, value = t.partition("=")
            if w[0] in ("loop", "next") and eq:
                t = new(key) + "=" + new(value)
            elif eq:
                t = key + "=" + new(value) if key == "weights" else t
            elif w[0] == "input" and len(done) > 1 or w[0] == "loop":
                pass
            else:
                t = ",".join(new(n) for n in t.split(","))
            done.append(t)
        out.append(" ".join(done))
    return "\n".join(out) + "\n"


def rows(name, data, events, infer):
    out = []
    if infer:
        after = data["infer"].get("after_forward") or data["infer"]["after"]
        out.append([name, "infer", "forward", "-", "-", after["requested_bytes"], after["requested_bytes_peak"], "-"])
    for mode in sorted(data):
        if not mode.startswith("train_") or "steady" not in data[mode] or "nocudnn" in mode:
            continue
        path = events + "." + mode + ".csv"
        order = streams(path) if os.path.exists(path) else None
        saved = data.get(SAVED.get(re.sub("_(sgd|adamw)$", "", mode)), {}).get("saved_bytes", "-")
        for step, phases in (("", ("forward", "backward", "optimizer")), (".first", ("optimizer",))):
            for phase in phases:
                p = data[mode]["steady" if not step else "first"].get(phase)
                if not p:
                    continue
                sizes = order.get(phase, []) if order is not None and not step else None
                out.append([name, mode + step, phase, "-" if sizes is None else len(sizes), "-" if sizes is None else fnv(sizes),
                            p["requested_bytes"], p["requested_bytes_peak"], saved if phase == "forward" else "-"])
    return out


def reserved(truth):
    out = []
    for path in sorted(glob.glob(os.path.join(truth, "models", "*.json"))):
        if path.endswith(".more.json"):
            continue
        for batch, modes in sorted(json.load(open(path))["batches"].items(), key=lambda b: int(b[0])):
            for mode in sorted(m for m in modes if m.startswith("train_")):
                for step, mark in (("steady", ""), ("first", ".first")):
                    phases = modes[mode].get(step, {}).values()
                    peaks = [max(p[k + "_bytes_peak"] for p in phases) for k in ("requested", "allocated", "reserved")] if phases else []
                    out += [[os.path.basename(path)[:-5], batch, mode + mark] + peaks] if peaks else []
    return out


def versions(truth, measured):
    """Rows of older versions: streams that are not those of streams.txt, the figures of models."""
    newest = {tuple(w[:3]): w for w in (line.split() for line in open(os.path.join(HERE, "streams.txt")))}
    table = []
    for folder in sorted(glob.glob(os.path.join(measured, "torch-*")), key=lambda f: int(f.split(".")[-1])):
        rules = "@" + os.path.basename(folder)
        for path in sorted(glob.glob(os.path.join(folder, "*.csv"))):
            name, mode = os.path.basename(path)[:-4].rsplit(".", 1)
            places = [k + "/" + name for k in ("ops", "random", "models", "versions") if os.path.exists(os.path.join(HERE, k, name + ".vram"))]
            for place in places[:1]:
                for phase, sizes in streams(path).items():
                    same = newest.get((place, mode, phase), [""] * 5)[4]
                    if phase != "optimizer" and same != fnv(sizes):
                        table.append([place, mode + rules, phase, len(sizes), fnv(sizes), "-", "-", "-"])
        for path in sorted(glob.glob(os.path.join(truth, os.path.basename(folder), "*.json"))):
            name = "models/" + os.path.basename(path)[:-5]
            if os.path.exists(os.path.join(HERE, name + ".vram")):
                for row in rows(name, json.load(open(path)), "", False):
                    table.append([name, row[1] + rules] + row[2:])
    return table


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    truth, table = sys.argv[1], []
    if len(sys.argv) == 3:
        table = versions(truth, sys.argv[2])
        with open(os.path.join(HERE, "versions.txt"), "w") as f:
            f.write(VERSIONS_HEAD)
            for row in table:
                f.write(" ".join(map(str, row)) + "\n")
        return
    for folder in ("ops", "random"):
        os.makedirs(os.path.join(HERE, folder), exist_ok=True)
        for path in sorted(glob.glob(os.path.join(truth, folder, "*.vram"))):
            name = folder + "/" + os.path.basename(path)[:-5]
            text = "\n".join(line.rstrip() for line in open(path).read().strip().splitlines()) + "\n"
            open(os.path.join(HERE, name + ".vram"), "w").write(text)
            table += rows(name, json.load(open(path[:-5] + ".json")), path[:-5], True)
    os.makedirs(os.path.join(HERE, "models"), exist_ok=True)
    for model in MODELS:
        path = os.path.join(truth, "models", model)
        text, data = open(path + ".vram").read(), json.load(open(path + ".json"))
        batch = re.search(r"^dim \w+=(\d+)", text, re.M).group(1)
        open(os.path.join(HERE, "models", model + ".vram"), "w").write(short(text))
        data = data["batches"][batch]
        if os.path.exists(path + ".more.json"):
            data.update(json.load(open(path + ".more.json")))
        table += rows("models/" + model, data, os.path.join(truth, "events", model), False)
        if model in EVAL:
            open(os.path.join(HERE, "models", model + ".eval.vram"), "w").write(short(open(path + ".eval.vram").read()))
            table += rows("models/" + model + ".eval", {"infer": data["infer"]}, "", True)
    with open(os.path.join(HERE, "streams.txt"), "w") as f:
        f.write(HEAD)
        for row in table:
            f.write(" ".join(map(str, row)) + "\n")
    with open(os.path.join(HERE, "reserved.txt"), "w") as f:
        f.write(HEAD.split("; Texts")[0].split(" Texts:")[0].rstrip("\n;") + "\n# model batch mode requested allocated reserved\n")
        for row in reserved(truth):
            f.write(" ".join(map(str, row)) + "\n")


main()
