#!/usr/bin/env python3
"""Drawn configs of families and drawn settings of generate(): `vram estimate config.json --generate` beside what transformers' takes.

    NULLGPU_PYTHON=python VRAM=./vram py generate_random.py [--eager] [--offloaded] [--seed WORD] [--rows FOLDER] N TYPE ...

Configs are those of hf_text.py. What differs is printed, and how many runs of each family are equal in every step: in requested bytes
before the forward pass (but the first), in its requested, allocated and reserved peak. --rows: configs that are equal go to
FOLDER/NAME.json, and their steps are printed as rows of tests/golden/generate_config.txt.
"""

import json, os, random, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "..", "tools")]
import hf_text

EAGER, OFFLOADED = "--eager" in sys.argv, "--offloaded" in sys.argv
NAMES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32"}


def settings(r, d):
    o = {"dtype": r.choice(list(NAMES)), "batch": r.choice([1, 2, 3]), "prompt": r.choice([7, 23, 61, 130])}
    o |= {"new": r.choice([2, 4, 9]), "cache": "offloaded" if OFFLOADED else r.choice(["dynamic", "static"]), "padded": r.choice([0, 1])}
    o["attn"] = "eager" if EAGER else "sdpa"
    window = d.get("sliding_window")
    if window and window > 12 and r.random() < 0.3:  # it fills while tokens come
        o |= {"prompt": window - 3, "new": 7}
    return o


EXPERTS = {
    "mixtral": ("num_local_experts", "intermediate_size"),
    "gpt_oss": ("num_local_experts", "intermediate_size"),
    "deepseek_v3": ("n_routed_experts", "moe_intermediate_size"),
    "dots1": ("n_routed_experts", "moe_intermediate_size"),
    "glm4_moe": ("n_routed_experts", "moe_intermediate_size"),
    "olmoe": ("num_experts", "intermediate_size"),
    "qwen2_moe": ("num_experts", "moe_intermediate_size"),
    "qwen3_moe": ("num_experts", "moe_intermediate_size"),
}


def runnable(d):
    """what grouped_mm asks of sizes, and numbers that have no default"""
    kind = d["model_type"]
    if kind in EXPERTS:
        experts, width = EXPERTS[kind]
        d[experts] = 2 * max(2, d.get(experts, 8) // 2)
        d[width] = 16 * max(1, d.get(width, 48) // 16)
        d["hidden_size"] = d["num_attention_heads"] * 16 * max(1, d["hidden_size"] // d["num_attention_heads"] // 16)
        d["num_experts_per_tok"] = d.get("num_experts_per_tok") or 2
    if kind == "dots1":
        d |= {"n_shared_experts": d.get("n_shared_experts") or 1, "n_group": 1, "topk_group": 1}
    if kind == "deepseek_v3":
        d |= {"num_key_value_heads": d["num_attention_heads"], "n_group": 2, "topk_group": 1}
        d["n_routed_experts"] *= 2
    return d


def real(path, o):
    """generate.py's run in a process of its own"""
    import generate

    out, into = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = {"steps": generate.run(path, o)["steps"]}
        except BaseException as e:
            said = {"error": f"{type(e).__name__} {e}"[:200]}
        with os.fdopen(into, "w") as f:
            json.dump(said, f)
        os._exit(0)
    os.close(into)
    with os.fdopen(out) as f:
        said = f.read()
    os.waitpid(child, 0)
    return json.loads(said or '{"error": "the process died"}')


OWN = "dtype", "batch"


def ours(path, o):
    words = ",".join(f"{k}={v}" for k, v in o.items() if k not in OWN and (k, v) != ("attn", "sdpa"))
    p = subprocess.run(
        [os.environ["VRAM"], "estimate", path, "--generate", words, "--batch", str(o["batch"])]
        + ["--dtype", NAMES[o["dtype"]], "--csv"],
        capture_output=True,
        text=True,
    )
    lines = p.stdout.split("\n")[1:-1]
    return [[int(v) for v in line.split(",")][1:6] for line in lines], p.stderr.strip().partition(": ")[2]


def difference(theirs, found):
    """what differs first; figures of a step are before, after, and the three peaks"""
    for k, (a, b) in enumerate(zip(theirs, found)):
        for i, name in ((0, "before"), (2, "requested"), (3, "allocated"), (4, "reserved")):
            if a[i] != b[i] and (i or k):
                return f"{name} of step {k}: {b[i]}, measured {a[i]} ({b[i] - a[i]:+d})"
    return len(theirs) != len(found) and f"{len(found)} steps, not {len(theirs)}"


def main():
    args, seed, folder = [a for a in sys.argv[1:] if a not in ("--eager", "--offloaded")], "", None
    while args[0] in ("--seed", "--rows"):
        seed, folder = (args[1], folder) if args[0] == "--seed" else (seed, args[1])
        args = args[2:]
    for kind in args[1:]:
        r, said = random.Random("generate " + kind + seed), {}
        for i in range(int(args[0])):
            d = runnable(hf_text.drawn(kind, r))
            o = settings(r, d)
            path = os.path.join(folder or "/tmp", f"{kind}_{i}.json")
            with open(path, "w") as f:
                json.dump(d, f)
            measured = real(path, o)
            found, error = ours(path, o)
            if "error" in measured:
                what, verdict = "no run", measured["error"]
            elif error and not found:
                what, verdict = "refused", error
            else:
                verdict = difference(measured["steps"], found)
                what = "WRONG" if verdict else "equal"
            if what == "equal" and folder:
                key = [f"{kind}_{i}", NAMES[o["dtype"]]] + [o[k] for k in ("batch", "prompt", "new", "cache", "padded")]
                for k, s in enumerate(measured["steps"]):
                    print(*key, o["prompt"] + o["new"] - 1, k, s[0], *s[2:])
            elif what != "equal" or not folder:
                os.unlink(path)
            said.setdefault(what, []).append((verdict, o, d))
        print(kind, {k: len(v) for k, v in said.items()}, file=sys.stderr, flush=True)
        for what, runs in said.items():
            for verdict, o, d in runs[: 3 * (what != "equal")]:
                print("   ", verdict, json.dumps(o), "\n       ", json.dumps(d), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
