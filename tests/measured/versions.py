#!/usr/bin/env python3
"""Measures models with the installed PyTorch, whichever version that is, and compares each with the estimate under that version's
rules: parameters, saved bytes, the peaks of every phase, every allocation in order.
usage: versions.py [-o DIR] [PATTERN]      prints the rows of a table as tools/measure_torch.py --markdown does; PATTERN: of the rows wanted
The texts are exported by the same PyTorch. DIR keeps them and the measurements (default: nothing is kept); what is there is not
measured again. VRAM names the command. On a machine without a GPU it runs on a pretended one (tests/further/run.sh).
"""

import contextlib, io, json, os, re, sys, tempfile, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "tools"))
NETS = os.path.join(HERE, "..", "further", "nets.py:")
OWN = os.path.join(HERE, "version_nets.py:")
WIDTHS = dict(vocab_size=2000, hidden_size=128, num_hidden_layers=2, num_attention_heads=4)
SIZES = dict(WIDTHS, intermediate_size=384)
CONFIGS = {
    "albert": dict(SIZES, architecture="AlbertForMaskedLM", embedding_size=64),
    "bart": dict(
        architecture="BartForConditionalGeneration",
        vocab_size=2000,
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
    ),
    "bert": dict(SIZES, architecture="BertForMaskedLM"),
    "dinov2": dict(SIZES, architecture="Dinov2ForImageClassification"),
    "gemma2": dict(
        SIZES, architecture="Gemma2ForCausalLM", num_key_value_heads=2, head_dim=32, sliding_window=32
    ),
    "gpt2": dict(architecture="GPT2LMHeadModel", vocab_size=2000, n_embd=128, n_layer=2, n_head=4),
    "llama": dict(SIZES, architecture="LlamaForCausalLM", num_key_value_heads=2),
    "mixtral": dict(SIZES, architecture="MixtralForCausalLM", num_key_value_heads=2, num_local_experts=4),
    "opt": dict(WIDTHS, architecture="OPTForCausalLM", ffn_dim=256, word_embed_proj_dim=128),
    "t5": dict(
        architecture="T5ForConditionalGeneration",
        vocab_size=2000,
        d_model=128,
        d_kv=32,
        d_ff=256,
        num_layers=2,
        num_heads=4,
    ),
}
# models, and the step of each beside that of AdamW under autocast
MODELS = [
    ("torchvision:resnet18 --batch 4", "--train sgd_momentum --amp fp16"),
    ("torchvision:mobilenet_v3_small --batch 4", "--train rmsprop --optim-impl loop"),
    ("timm:vit_tiny_patch16_224 --batch 2", "--train adamw --dtype bf16"),
    ("timm:mambaout_femto --batch 2", "--train adamw --optim-impl fused --amp fp16"),
    ("timm:edgenext_xx_small --batch 2", "--train adagrad"),
    ("hf:gpt2 --batch 4", "--train adamw --dtype bf16 --optim-impl fused"),
    ("hf:llama --batch 4", "--train adamw --checkpointing default"),
    ("hf:bert --batch 4", "--train adam --amp fp16"),
    ("hf:t5 --batch 4", "--train adafactor"),
    ("hf:bart --batch 4", "--infer"),
    ("hf:mixtral --batch 2", "--train adamw --dtype bf16"),
    ("hf:gemma2 --batch 2 --attn eager", "--train sgd --keep"),
    ("hf:opt --batch 2", "--train adamw --accumulate 2"),
    ("hf:dinov2 --batch 2", "--infer --dtype bf16"),
    ("hf:albert --batch 2", "--train adamw --optim-impl loop"),
    (NETS + "speech", "--train nadam"),
    (NETS + "tied_lstm", "--train adadelta"),
    (NETS + "denoiser", "--infer --amp fp16"),
    (NETS + "clip", "--train adamw --amp fp16"),
    (OWN + "critic", "--train rmsprop"),
    (OWN + "generator", "--train adam --optim-impl fused"),
    (OWN + "vae", "--train adamw --amp fp16"),
    (OWN + "encoder", "--infer"),
    (OWN + "attention", "--train adamw --dtype bf16"),
    (OWN + "norms", "--train adamw --amp fp16"),
    (OWN + "losses", "--train adamw --amp fp16"),
    (OWN + "segmenter", "--train sgd_nesterov --accumulate 2"),
    (OWN + "video", "--train adamw --dtype bf16"),
]


def in_child(what, *arguments):
    """runs it in a fork of this process, which has imported everything; gives its exit status"""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            what(*arguments)
            status = 0
        except SystemExit as e:
            status = e.code if isinstance(e.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def call(tool, words, out, err):
    """main() of a tool in a child, its output in files; it asks for the device, so that it is imported there"""

    def run():
        sys.argv = [tool, *words]
        with open(out, "w") as o, open(err, "w") as e:
            with contextlib.redirect_stdout(o), contextlib.redirect_stderr(e):
                __import__(tool).main()

    return in_child(run)


def last_line(path):
    with open(path) as f:
        return (f.read().strip().splitlines() or ["?"])[-1]


def measure(kept, source, options):
    words = source.split()
    short = re.sub(r"\W+", "_", re.sub(r"\S*/", "", source))
    if words[0].startswith("hf:"):
        config = dict(CONFIGS[words[0][3:]])
        config["architectures"] = [config.pop("architecture")]
        config["model_type"] = words[0][3:]
        words[0] = "hf:" + os.path.join(kept, config["model_type"] + ".json")
        with open(words[0][3:], "w") as f:
            json.dump(config, f)
    step = options.split()
    model = [
        w
        for k, w in enumerate(step)
        if w in ("--checkpointing", "--keep") or k and step[k - 1] == "--checkpointing"
    ]
    evaluated = ["--eval"] if "--infer" in step else []
    text = os.path.join(kept, short + "".join(model + evaluated) + ".vram")
    name = os.path.join(kept, short + options.replace(" ", ""))
    if not os.path.exists(text):
        call("export_torch", [*words, *model, *evaluated, "-o", text], os.devnull, name + ".err")
    if not os.path.exists(text):
        return f"| {short} | {options} | not exported: {last_line(name + '.err')} |"
    record = (
        ["--measured", name + ".json"]
        if os.path.exists(name + ".json")
        else [*words, *step, "--record", name + ".json"]
    )
    call("measure_torch", [*record, "--text", text, "--markdown"], name + ".out", name + ".err")
    with open(name + ".out") as f:
        row = f.read().strip()
    return row.replace(words[0], short, 1) if row else f"| {short} | {options} | {last_line(name + '.err')} |"


def main():
    words = sys.argv[1:]
    if "-h" in words or "--help" in words:
        sys.exit(__doc__)
    kept = words[1] if words[:1] == ["-o"] else None
    pattern = (words[2:] if kept else words)[:1] or ["."]
    warnings.simplefilter("ignore")
    import torch

    for name in "torchvision", "timm", "transformers":
        with contextlib.suppress(ImportError), contextlib.redirect_stderr(io.StringIO()):
            __import__(name)
    with contextlib.ExitStack() as stack:
        folder = kept or stack.enter_context(tempfile.TemporaryDirectory())
        os.makedirs(folder, exist_ok=True)
        print(f"PyTorch {torch.__version__}", flush=True)
        for source, more in MODELS:
            for options in "--train adamw --amp bf16", more:
                if re.search(pattern[0], source + " " + options):
                    print(measure(folder, source, options), flush=True)


if __name__ == "__main__":
    main()
