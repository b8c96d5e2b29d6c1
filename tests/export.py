#!/usr/bin/env python3
"""Exports the models of the truth set with tools/export_torch.py and compares with the texts there: parameters, buffers, saved bytes
and the whole stream of allocations and frees that `vram estimate` makes of both, in fp32, under bf16 autocast and in inference.
Where a text is known to tell less than its module did (REAL), the export is compared with what the module itself was measured with.
usage: export.py [--all] TRUTH_DIR [NAME ...]     (without --all and names: a few models)"""

import json, logging, os, subprocess, sys, tempfile, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tools"))
import export_sources, export_torch as X

TOOL = os.path.join(HERE, "..", "vram")
FEW = "nn_lenet5 nn_lstm2 tv_resnet18 tv_googlenet timm_mobilevit_s hf_llama_small hf_t5_small".split()
TOKENS = dict(vocab_size=32000, hidden_size=512, num_attention_heads=8)
LLAMA = dict(
    TOKENS, intermediate_size=1376, num_hidden_layers=6, num_key_value_heads=2, max_position_embeddings=1024
)
GEMMA2 = dict(
    TOKENS,
    intermediate_size=2048,
    num_hidden_layers=4,
    num_key_value_heads=4,
    head_dim=64,
    sliding_window=128,
)
QWEN3 = dict(TOKENS, intermediate_size=1408, num_hidden_layers=4, num_key_value_heads=2, head_dim=64)
MAMBA = dict(vocab_size=32000, hidden_size=256, num_hidden_layers=2, state_size=16)
HF = {  # class, fields of the configuration, options of load()
    "hf_bert_base": ("BertForMaskedLM", {}, {}),
    "hf_distilbert": ("DistilBertForMaskedLM", {}, {}),
    "hf_gemma2_small": ("Gemma2ForCausalLM", GEMMA2, dict(seq=256, attn="eager")),
    "hf_gpt2": ("GPT2LMHeadModel", {}, {}),
    "hf_gpt2_eager": ("GPT2LMHeadModel", {}, dict(attn="eager")),
    "hf_llama_small": ("LlamaForCausalLM", LLAMA, dict(seq=256)),
    "hf_llama_small_eager": ("LlamaForCausalLM", LLAMA, dict(seq=256, attn="eager")),
    "hf_mamba_small": ("MambaForCausalLM", MAMBA, dict(seq=64)),
    "hf_qwen3_small": ("Qwen3ForCausalLM", QWEN3, dict(seq=256)),
    "hf_t5_small": ("T5ForConditionalGeneration", {}, dict(target_seq=64)),
    "hf_whisper_tiny": ("WhisperForConditionalGeneration", {}, dict(target_seq=64)),
}


# what the texts of the truth set lack, all of it seen by measuring the modules
REAL = {
    "hf_gemma2_small": "the text keeps the embedding alive, as the tensor whose dtype it names",
    "hf_gpt2_eager": "a conversion that the text does not have under autocast",
    "hf_mamba_small": "conversions that the text does not have under autocast",
    "hf_t5_small": "a conversion that the module does under autocast alone",
    "nn_transformer_encoder": "the native kernel of inference, which the text does not have",
    "timm_ghostnet_100": "adds in place to a view, which the text does not have",
    "timm_levit_128": "keeps a cache of attention biases in inference, which the text does not have",
    "tv_vit_b_16": "the native kernel of inference, which the text does not have",
}


def source(name, folder):
    """what load() takes for a model of the truth set"""
    kind, _, rest = name.partition("_")
    if kind == "nn" or name == "hf_vit_base":
        return os.path.join(HERE, "export_models.py") + ":" + name, {}
    if kind != "hf":
        fcn = dict(size=256, options=dict(aux_loss=True, num_classes=21))
        return {"tv": "torchvision", "timm": "timm"}[kind] + ":" + rest, fcn if "fcn" in name else {}
    cls, fields, options = HF[name]
    config = getattr(__import__("transformers"), cls).config_class
    path = os.path.join(folder, name + ".json")
    with open(path, "w") as f:
        json.dump(dict(fields, model_type=config.model_type, architectures=[cls]), f)
    return "hf:" + path, options


def unpacked():
    """the texts were made without the search for packed sequences"""
    masks = __import__("transformers").masking_utils
    export_sources.without_values(masks, False)
    masks.find_packed_sequence_indices = lambda position_ids: None


def estimate(path, *options):
    p = subprocess.run([TOOL, "estimate", path, *options], capture_output=True, text=True)
    if p.returncode:
        raise X.Problem((p.stderr.strip() or "crash").split("\n")[-1])
    return p.stdout


def figures(path, options):
    r = json.loads(estimate(path, "--json", *options))
    events = estimate(path, "--events", "-", *options).split("\n")[1:-1]
    names = "params_bytes buffers_bytes inputs_bytes gradients_bytes saved_bytes peak_requested_bytes".split()
    stream, frees = [], []
    for e in [e.split(",", 5) for e in events] + [["end"] * 6]:
        if e[1] == "free":  # what goes between two allocations is a set
            frees.append(e)
            continue
        stream += sorted(frees) + [e]
        frees = []
    return {n: r[n] for n in names}, stream


def different(ours, theirs):
    """the first difference in words, or None"""
    for k in ours[0]:
        if ours[0][k] != theirs[0][k]:
            return f"{k} {ours[0][k]}, expected {theirs[0][k]}"
    for i, (a, b) in enumerate(zip(ours[1], theirs[1])):
        if a[:4] != b[:4]:
            return f"event {i}: {','.join(a)}, expected {','.join(b)}"


def unlike_measured(path, options, mode, batch):
    """where the estimate differs from the module's measured phases: the first difference, or None"""
    ours = json.loads(estimate(path, "--json", *options))
    steady = batch[mode].get("steady") or {"forward": batch[mode]["after_forward"]}
    for phase in [p for p in ("forward", "backward") if p in steady]:
        for a, b in (
            ("requested_bytes", "requested_bytes"),
            ("requested_peak_bytes", "requested_bytes_peak"),
        ):
            if ours["phases"][phase][a] != steady[phase][b]:
                return f"{phase} {a} {ours['phases'][phase][a]}, measured {steady[phase][b]}"
    saved = {"train_fp32_adamw": "saved_fp32", "train_amp_bf16_adamw": "saved_amp_bf16"}.get(mode)
    if saved and ours["saved_bytes"] != batch[saved]["saved_bytes"]:
        return f"saved_bytes {ours['saved_bytes']}, measured {batch[saved]['saved_bytes']}"


MODES = {  # whether the text is the training one, options of the estimate, the name in the measured record
    "fp32": (True, ["--train", "adamw"], "train_fp32_adamw"),
    "bf16": (True, ["--train", "adamw", "--amp", "bf16"], "train_amp_bf16_adamw"),
    "infer": (False, ["--infer"], "infer"),
}


def main():
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    args = [a for a in sys.argv[1:] if a != "--all"]
    truth = os.path.join(args[0], "models")
    names = args[1:] or sorted(f[:-5] for f in os.listdir(truth) if f.endswith(".json") and "more" not in f)
    if not args[1:] and "--all" not in sys.argv:
        names = FEW
    good = bad = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            row, why = [], []
            with open(os.path.join(truth, name + ".json")) as f:
                record = json.load(f)
            for train in (True, False):
                text = os.path.join(truth, name + (".vram" if train else ".eval.vram"))
                n = next(l for l in open(text) if l.startswith("dim N=")).split()[1].removeprefix("N=")
                try:
                    with X.without_memory():
                        what, options = source(name, folder)
                        if name.startswith("hf"):
                            unpacked()
                        loaded = X.load(what, train=train, batch=int(n), **options)
                        made, _ = X.export(loaded)
                    path = os.path.join(os.environ.get("KEEP", folder), os.path.basename(text))
                    with open(path, "w") as f:  # the texts there were made before lines of optimizers' order
                        f.writelines(l for l in made.splitlines(True) if not l.startswith("order "))
                    failed = None
                except Exception as e:
                    failed = X.one_line(e) + X.place(e)
                for mode, (of, options, measured) in MODES.items():
                    if of != train:
                        continue
                    word = "same"
                    try:
                        d = failed or different(figures(path, options), figures(text, options))
                        if d and not failed and name in REAL:
                            word = "module"
                            d = unlike_measured(path, options, measured, record["batches"][n])
                    except X.Problem as e:
                        d = str(e)
                    good, bad = good + (d is None), bad + (d is not None)
                    row.append(word if d is None else "DIFFERS")
                    why += [f"{mode}: {d}"] * (d is not None)
            print(
                f"{name:28}",
                *(f"{r:8}" for r in row),
                *(["|", REAL[name]] if "module" in row else []),
                *why,
                flush=True,
            )
    print(f"export: {good} passed, {bad} failed")
    return bad > 0


sys.exit(main())
