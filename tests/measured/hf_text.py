#!/usr/bin/env python3
"""Writes tests/golden/hf_text.inc: digests of the texts that tools/export_torch.py writes of config.json files.

    hf_text.py FILE ... >OUT                  FILE: a config.json, or a file .inc whose configs are exported anew;
                                              needs transformers 5.23
    hf_text.py --compare FILE.json OUR.vram                      the first line that differs
    hf_text.py --random N TYPE ...            N drawn configs of each model_type (TYPE:CLASS: of that class), at drawn
                                              S and batch, compared with what $VRAM writes; --print: their rows, too

A text counts by its lines without comments, `model`, `rules`, `dim`, `unit`, `tp` and `return`; values by the order in which they are
defined, not by their names (tests/test_hf.c does the same with what vram_hf_write writes). Of a model of images and
text it is the text of its decoder alone.
"""

import json, logging, os, random, re, subprocess, sys, tempfile, warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools")]
TOKENS = 128
DECODERS = {"gemma3": "gemma3_text"}  # of a model of images and text


def without_return(text):
    """the lines of a text but `return`, which what vram_hf_write writes does not have: what goes before it and behind it goes at once"""
    found = text.split("\n")
    at = next((i for i, line in enumerate(found) if line.startswith("return ")), None)
    if at is None:
        return found
    del found[at]
    if found[at - 1].startswith("drop ") and found[at].startswith("drop "):
        place = {}
        for line in found:
            for n in "".join(line.split()[1:2]).split(","):
                place.setdefault(n, len(place))
        gone = found[at - 1].split()[1:] + found.pop(at).split()[1:]
        found[at - 1] = " ".join(["drop", *sorted(gone, key=place.get)])
    return found


def lines(text):
    names = {}
    for line in without_return(text):
        word = line.partition("#")[0].split()
        if not word or word[0] in ("model", "rules", "dim", "unit", "tp"):
            continue
        if word[0] not in ("drop", "output", "infer", "order", "autocast"):
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


def exported(config, tokens=TOKENS, batch=2):
    import export_torch  # takes seconds

    inner = DECODERS.get(config["model_type"])
    if inner:
        config = dict(config["text_config"], model_type=inner)
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        json.dump(config, f)
        f.flush()
        sys.argv = ["export_torch.py", "hf:" + f.name, "--seq", str(tokens), "--batch", str(batch)]
        return export_torch.loaded_text(export_torch.command_line().parse_args(), False)[0]


def digest(text):
    h, n = 0xCBF29CE484222325, 0
    for line in lines(text):
        n += 1
        for b in (line + "\n").encode():
            h = (h ^ b) * 0x100000001B3 % (1 << 64)
    return n, h


def row(config):
    text = json.dumps(json.dumps(config, separators=(",", ":")))
    return "{%s, %d, UINT64_C(0x%016x)}," % (text, *digest(exported(config)))


def configs(path):
    with open(path) as f:
        text = f.read()
    if path.endswith(".inc"):
        return [json.loads(json.loads(s)) for s in re.findall(r'^\{("(?:[^"\\]|\\.)*"),', text, re.M)]
    return [json.loads(text)]


def difference(theirs, ours):
    theirs, ours = list(lines(theirs)), list(lines(ours))
    for i, (a, b) in enumerate(zip(theirs, ours)):
        if a != b:
            return f"line {i + 1}\n  exporter {a}\n  vram     {b}"
    return len(theirs) != len(ours) and f"{len(theirs)} lines, not {len(ours)}"


def ours(config, tokens, batch):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "config.json")
        with open(path, "w") as f:
            json.dump(config, f)
        p = subprocess.run(
            [os.environ["VRAM"], "convert", path, "--dim", f"S={tokens}", "--batch", str(batch)],
            capture_output=True,
            text=True,
        )
        return p.stdout, p.stderr.strip().partition(": ")[2]


def drawn(kind, r):
    """a config of hf_config.py, and what decides lines but no parameters"""
    import hf_config

    kind, _, cls = kind.partition(":")
    d = hf_config.draw(kind, r)
    d["num_hidden_layers" if "num_hidden_layers" in d else "n_layer" if "n_layer" in d else "n_layers"] = r.choice(
        [1, 2, 2, 3]
    )
    for keys in DROPOUTS.get(kind, ["attention_dropout"]):
        if r.random() < 0.5:
            d[keys] = r.choice([0.0, 0.1, 0.25, 0])
    scaling = {"rope_type": r.choice(["linear", "llama3", "yarn"]), "factor": 4.0}
    if scaling["rope_type"] == "llama3":
        scaling |= {"low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
    if kind in ROTARY and r.random() < 0.3:
        d["rope_scaling"] = scaling
    if cls:
        d["architectures"] = [cls]
    return d


BERT = ["hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout"]
DROPOUTS = {
    "gpt2": ["attn_pdrop", "resid_pdrop", "embd_pdrop"],
    "gptj": ["attn_pdrop", "resid_pdrop", "embd_pdrop"],
    "gpt_bigcode": ["attn_pdrop", "resid_pdrop", "embd_pdrop"],
    "codegen": ["attn_pdrop", "resid_pdrop", "embd_pdrop"],
    "phi": ["attention_dropout", "resid_pdrop", "embd_pdrop"],
    "phi3": ["attention_dropout", "resid_pdrop", "embd_pdrop"],
    "gpt_neox": ["attention_dropout", "hidden_dropout"],
    "stablelm": ["attention_dropout", "hidden_dropout"],
    "falcon": ["attention_dropout", "hidden_dropout"],
    "bloom": ["attention_dropout", "hidden_dropout"],
    "starcoder2": ["attention_dropout", "residual_dropout", "embedding_dropout"],
    "opt": ["attention_dropout", "dropout"],
    "distilbert": ["attention_dropout", "dropout", "seq_classif_dropout"],
    "bert": BERT,
    "roberta": BERT,
    "electra": BERT,
    "camembert": BERT,
    "xlm-roberta": BERT,
}
ROTARY = """llama mistral mixtral qwen2 qwen3 qwen3_moe gemma gemma2 granite arcee phi phi3 olmo olmo2 cohere cohere2 gpt_neox
stablelm starcoder2 nemotron ernie4_5 glm glm4 seed_oss""".split()


def draws(count, kinds, is_printed):
    bad = 0
    for kind in kinds:
        r = random.Random("text " + kind)
        said = {}
        for _ in range(count):
            d, tokens, batch = drawn(kind, r), r.choice([7, 16, 31]), r.choice([2, 3])
            try:
                theirs = exported(d, tokens, batch)
            except Exception as e:
                verdict = f"no model: {type(e).__name__} {e}"[:150]
            else:
                text, error = ours(d, tokens, batch)
                verdict = difference(theirs, text) if text else "refused: " + error
                if is_printed and not verdict:
                    print(row(d), flush=True)
            what = "equal" if not verdict else verdict.split(":")[0] if ":" in verdict[:9] else "WRONG"
            said.setdefault(what, []).append((verdict, tokens, batch, d))
        bad += len(said.get("WRONG", []))
        print(kind, {k: len(v) for k, v in said.items()}, file=sys.stderr, flush=True)
        for k, v in said.items():
            if k != "equal":
                print("   ", *v[0][:3], "\n       ", json.dumps(v[0][3]), file=sys.stderr, flush=True)
    sys.exit(bad != 0)


def main():
    if os.environ.get("PYTHONHASHSEED") != "0":
        # sets of texts are walked in an order that the seed decides: full attention before sliding windows
        os.execvpe(sys.executable, [sys.executable, *sys.argv], dict(os.environ, PYTHONHASHSEED="0"))
    args = [a for a in sys.argv[1:] if a != "--print"]
    if args[0] == "--compare":
        with open(args[2]) as f:
            text = f.read()
        sys.exit(difference(exported(configs(args[1])[0]), text) or 0)
    if args[0] == "--random":
        draws(int(args[1]), args[2:], "--print" in sys.argv)
    print(f"/* Files config.json, and the lines of the text that the exporter writes of them at S={TOKENS}")
    print("   (tests/measured/hf_text.py): how many, and their digest. */")
    print("/* clang-format off */")
    for path in args:
        for config in configs(path):
            print(row(config), flush=True)
    print("/* clang-format on */")


if __name__ == "__main__":
    main()
