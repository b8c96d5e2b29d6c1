#!/usr/bin/env python3
"""Programs drawn at random from the lists of transformers, timm and torchvision, and those of programs_own.py: exported, measured, compared.

    programs.py draw [--seed N] [--count N] FOLDER          writes FOLDER/programs.txt and small configurations
    programs.py measure FOLDER [PATTERN]                    on a GPU, or on a pretended one: FOLDER/programs.csv
    programs.py table FOLDER/programs.csv ...               the table of tests/golden/programs.md

Each program takes a step of AdamW in fp32, with the whole model in bf16, and under bf16 autocast. It is exact if its figures (parameters,
buffers, saved bytes, requested bytes at the end and at the peak of every phase) and every allocation in order are PyTorch's; bounded if
not, but PyTorch's peaks are within the bounds of the estimate."""

import argparse, contextlib, csv, io, json, logging, os, random, re, sys, time, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
OWN = os.path.join(HERE, "programs_own.py")
MODES = {"fp32": [], "bf16": ["--dtype", "bf16"], "autocast": ["--amp", "bf16"]}
HEAD = ["program", "class", "mode", "verdict", "note", "peak", "saved", "seconds"]
# integers of configurations, by how their name ends: what makes a model small (its structure stays)
SMALL = {
    r"(num_|n_|^)(\w+_)?layers?$|num_blocks$|_depth$|^depth$": 2,
    r"(hidden|embedding)_size$|d_model$|n_embd$|embed_dim$|^dim$|_hidden_dim$": 64,
    r"intermediate_size$|ffn_dim$|d_ff$|d_inner$|mlp_dim$|n_inner$": 128,
    r"(num_|n_)?(\w+_)?(attention_)?heads$|n_head$|^heads$": 4,
    r"num_key_value_heads$|num_kv_heads$": 2,
    r"head_dim$|d_kv$|d_head$": 16,
    r"num_(local_|routed_)?experts$|n_routed_experts$": 4,
    r"num_experts_per_tok$|num_experts_per_token$": 2,
    r"vocab_size$": 1000,
    r"image_size$": 224,
    r"rotary_dim$": 8,
}
# fields of kinds whose defaults are no model, or of which the numbers above make none
ODD = {
    "aria": {"projector_patch_to_query_dict": {"256": 8}},
    "blip-2": {"image_token_index": 1},
    "chameleon": {"vocabulary_map": {"<image>": 1}},
    "idefics3": {"vision_config": {"image_size": 256, "patch_size": 32}, "scale_factor": 2},
    "modernvbert": {"vision_config": {"image_size": 256}, "pixel_shuffle_factor": 4},
    "smolvlm": {"vision_config": {"image_size": 256, "patch_size": 32}, "scale_factor": 2},
    "axk1": {"n_group": 1, "topk_group": 1},
    "deepseek_v2": {"num_experts_per_tok": 2, "topk_group": 1, "n_group": 1},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl": {"text_config": {"head_dim": 16}},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "qwen2_vl_text": {
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}
    },
}


# ---- drawing


def shrunk(config, seen=0):
    """the fields of a configuration of transformers that differ from its defaults: a small model of the same structure"""
    fields = {}
    for k, v in config.to_dict().items():
        inner = getattr(config, k, None)
        if seen < 3 and hasattr(inner, "to_dict"):
            fields[k] = {"model_type": inner.model_type, **shrunk(inner, seen + 1)}
        elif isinstance(v, int) and not isinstance(v, bool):
            small = next((n for pattern, n in SMALL.items() if re.search(pattern, k)), None)
            if small is not None and v > small:
                fields[k] = small
            elif k.endswith(("token_id", "token_index")) and v >= SMALL[r"vocab_size$"]:
                fields[k] = 1
    return fields


def runs(path):
    """whether PyTorch runs the program, as the exporter loads it"""
    import export_torch as X

    with X.without_memory():
        loaded = X.load("hf:" + path, batch=2, seq=32)
        if sum(p.numel() for p in loaded.module.parameters()) > 3e8:
            return False
        loaded.forward(**loaded.make_inputs(**dict(loaded.dims)))
    return True


def quietly(call):
    """what the call returns, None where it fails: in a process of its own, with nothing printed"""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException), contextlib.redirect_stderr(io.StringIO()):
            os.write(w, json.dumps(call()).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        made = f.read()
    os.waitpid(pid, 0)
    return json.loads(made) if made else None


def of_transformers(kind, folder):
    """a configuration of this kind that runs: small, else with few layers; None: what it needs is not known here"""
    import transformers

    path = os.path.join(folder, kind.replace("/", "_") + ".json")

    def write(keep):
        fields = {k: v for k, v in shrunk(transformers.AutoConfig.for_model(kind)).items() if keep(k)}
        with open(path, "w") as f:
            json.dump({"model_type": kind, **fields}, f)
        return runs(path)

    few = re.compile(next(iter(SMALL)))
    if quietly(lambda: write(lambda k: True)) or quietly(lambda: write(few.search)):
        return "hf:" + path
    os.path.exists(path) and os.remove(path)
    return None


def draw(o):
    import timm, torchvision, transformers
    from transformers.models.auto import configuration_auto, modeling_auto

    os.makedirs(o.folder, exist_ok=True)
    chosen, skipped = random.Random(o.seed), []
    families = {}
    for n in timm.list_models():
        families.setdefault(timm.models._registry._model_to_module[n], []).append(n)
    made = []
    names = [n for n in torchvision.models.list_models() if "raft" not in n]
    made += [["torchvision:" + n, "torchvision"] for n in chosen.sample(names, o.count * 15 // 100)]
    for family in chosen.sample(sorted(families), o.count * 25 // 100):
        made.append(["timm:" + chosen.choice(families[family]), "timm"])
    kinds = sorted(
        {k for k in modeling_auto.MODEL_MAPPING_NAMES if k in configuration_auto.CONFIG_MAPPING_NAMES}
    )
    chosen.shuffle(kinds)
    count = 0
    for kind in kinds:
        if count >= o.count * 60 // 100:
            break
        source = of_transformers(kind, o.folder)
        print(kind, source, file=sys.stderr, flush=True)
        made += [[source, "transformers"]] if source else []
        skipped += [] if source else [kind]
        count += source is not None
    with open(os.path.join(o.folder, "programs.txt"), "w") as f:
        f.writelines(" ".join(row) + "\n" for row in made)
        f.write(f"# not drawn, no inputs or no small configuration known: {' '.join(skipped)}\n")


# ---- measuring


def sources(o):
    """(source, class) of those drawn and of programs_own.py"""
    with open(os.path.join(o.folder, "programs.txt")) as f:
        rows = [l.split() for l in f if l.strip() and l[0] != "#"]
    with open(OWN) as f:
        rows += [
            [f"{OWN}:{n}", "written by hand"] for n in re.findall(r"^def (\w+)\(\)", f.read(), re.MULTILINE)
        ]
    return [r for r in rows if re.search(o.pattern, r[0])]


def exported(source, path):
    """the text at path, or the words of the refusal"""
    import export_torch as X

    notes = io.StringIO()
    sys.argv = ["export_torch.py", source, "-o", path, "--batch", "2", "--seq", "32"]
    try:
        with contextlib.redirect_stderr(notes):
            X.main()
    except SystemExit as e:
        if e.code:
            return (notes.getvalue().strip().split("\n") or ["nothing"])[-1].removeprefix("export_torch: ")
    except Exception as e:
        return "defect: " + X.one_line(e) + X.place(e)
    with open(path + ".notes", "w") as f:
        f.write(notes.getvalue())
    return None


def verdict(comparison, M):
    """exact, bounded or broken, and where it first differs"""
    wrong = [
        f
        for f in comparison["figures"]
        if f["difference"] and not re.search("reserved| allocated ", f["figure"])
    ]
    events = [p for p, e in comparison["events"].items() if not M.agrees(p, e)]
    words = [f"{f['figure']} {f['difference']:+}" for f in wrong[:1]]
    for p in events[:1]:
        first = comparison["events"][p]["first_difference"]
        words.append(f"{p}: {M.place_text(first['measured'])}, estimated {M.place_text(first['estimated'])}")
    if any(not b["held"] for b in comparison["bounds"]):
        return "broken", words
    return "bounded" if wrong or events else "exact", words


def measured(source, mode, text):
    """a row's verdict, note, peak and saved difference"""
    import measure_torch as M

    summed, first = [], M.Measurement.__init__

    def init(self, *a):
        first(self, *a)
        summed.append(self)

    M.Measurement.__init__ = init
    argv = [source, "--train", "adamw", *MODES[mode], "--text", text, "--batch", "2", "--seq", "32"]
    try:
        o = M.arguments().parse_args(argv)
        M.check(o)
        with contextlib.redirect_stderr(io.StringIO()):
            record = M.measure(o)
        if summed[0].summed:
            record["text"] = M.with_loss(record["text"])
        comparison = M.compare(
            record, *M.estimate(record, os.environ.get("VRAM", os.path.join(M.HERE, "..", "vram")))
        )
        if os.environ.get("KEEP"):
            with open(f"{text}.{mode}.json", "w") as f:
                json.dump(record, f)
    except M.Problem as e:
        return "refused" if "vram" in str(e) else "not run", str(e), "", ""
    except Exception as e:
        import export_torch as X

        return "not run", X.one_line(e) + X.place(e), "", ""
    word, why = verdict(comparison, M)
    figures = {f["figure"]: f for f in comparison["figures"]}
    peak = max((f for n, f in figures.items() if "requested peak" in n), key=lambda f: f["measured"])
    part = lambda f: f"{100 * f['difference'] / max(1, f['measured']):+.3f}"
    return word, "; ".join(why), part(peak), part(figures["saved"])


def measure(o):
    import measure_torch as M

    if (
        M.PRETENDED and "NULLGPU_BOOL" not in os.environ
    ):  # as M.on_device(), which would touch the device before the forks
        os.environ["NULLGPU_BOOL"] = "1"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    for package in ("torchvision", "timm", "transformers", "transformers.masking_utils"):
        __import__(package)
    path = os.path.join(o.folder, "programs.csv")
    with open(path, "a", newline="") as f:
        out = csv.writer(f)
        for source, kind in sources(o):
            name = os.path.basename(source).removesuffix(".json").replace(":", "_")
            text = os.path.join(o.folder, name + ".vram")
            begun = time.time()
            refusal = quietly(lambda: [exported(source, text)])
            if refusal is None or refusal[0]:
                rows = [
                    [m, "refused", refusal[0] if refusal else "defect: it crashed", "", ""] for m in MODES
                ]
            else:
                rows = [
                    [m, *(quietly(lambda: measured(source, m, text)) or ["not run", "crashed", "", ""])]
                    for m in MODES
                ]
            for row in rows:
                out.writerow(
                    [
                        os.path.relpath(source, HERE) if source.startswith(OWN) else source,
                        kind,
                        *row,
                        round(time.time() - begun),
                    ]
                )
                print(name, *row, flush=True)
            f.flush()


# ---- the table


def table(o):
    """programs and steps of each class; of a step that was measured twice the last row counts"""
    last = {}
    for path in o.csv:
        with open(path, newline="") as f:
            last |= {(os.path.basename(r[0]), r[2]): dict(zip(HEAD, r)) for r in csv.reader(f)}
    for r in last.values():
        r["program"], r["note"] = os.path.basename(r["program"]), r["note"].split(" (at ")[0]
    rows = [r for r in last.values() if r["verdict"] != "not run"]
    print("| programs | number | steps | exact | bounded | bound broken | refused |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for kind in [*sorted({r["class"] for r in rows}), None]:
        of = [r for r in rows if kind in (None, r["class"])]
        counts = [sum(r["verdict"] == v for r in of) for v in ("exact", "bounded", "broken", "refused")]
        cells = [kind or "all", len({r["program"] for r in of}), len(of), *counts]
        print("|", " | ".join(str(c) for c in cells), "|")
    print()
    for r in rows:
        if r["verdict"] != "exact":
            print(f"- `{r['program']}`, {r['mode']}: {r['verdict']}; {r['note']}")
    skipped = sorted(
        {(r["program"], r["mode"], r["note"]) for r in last.values() if r["verdict"] == "not run"}
    )
    for program, mode, note in skipped:
        print(f"- `{program}`, {mode}: PyTorch does not run it; {note}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    sub = p.add_subparsers(required=True)
    d = sub.add_parser("draw")
    d.add_argument("--seed", type=int, default=1)
    d.add_argument("--count", type=int, default=100)
    d.add_argument("folder")
    d.set_defaults(run=draw)
    m = sub.add_parser("measure")
    m.add_argument("folder")
    m.add_argument("pattern", nargs="?", default="")
    m.set_defaults(run=measure)
    t = sub.add_parser("table")
    t.add_argument("csv", nargs="+")
    t.set_defaults(run=table)
    o = p.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    return o.run(o)


if __name__ == "__main__":
    sys.exit(main())
