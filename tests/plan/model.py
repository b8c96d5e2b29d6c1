"""model.py MODEL BUDGET OPTIONS...: what vram plan says of a model, of PyTorch as vram estimate says it of the same calls, and of the
chain by arithmetic on its own figures. Prints what is wrong."""

import csv, io, json, subprocess, sys


def vram(*words, status=(0, 3)):
    p = subprocess.run(("./vram",) + words, capture_output=True, text=True)
    assert p.returncode in status, f"{words}: status {p.returncode} {p.stderr}"
    return p.stdout


def main(model, budget, *options):
    p = json.loads(vram("plan", model, "--budget", budget, "--json", *options))
    step = [w for i, w in enumerate(options) if "--planner" not in (w, options[i - 1] if i else "")]
    step += [] if "--train" in step else ["--train", "adamw"]
    calls = ",".join(p["chain"][a]["first"] + ".." + p["chain"][b]["last"] for a, b in p["spans"])
    for name, more in ("plain", []), ("planned", ["--checkpoint-nodes", calls] if calls else []):
        e = json.loads(vram("estimate", model, "--json", "--budget", budget, *step, *more))
        found = p["torch"][name]
        for key in found:
            said = e[key]["expected"] if isinstance(e[key], dict) else e[key]
            assert said == found[key], f"{name} {key}: {found[key]}, vram estimate: {said}"
    assert p["peak_bytes"] <= p["budget_bytes"] or not p["feasible"], "above the budget"
    assert p["peak_bytes"] <= p["peak_plain_bytes"] and p["cost"] >= p["cost_plain"], "worse than plain"
    assert p["arena_bytes"] + p["static_bytes"] >= p["peak_bytes"], "arena"
    assert len(p["chain"]) == p["stages"] and p["chain"][-1]["output_bytes"] == 0, "stages"
    moves = list(csv.DictReader(io.StringIO(vram("plan", model, "--budget", budget, "--csv", *options))))
    assert [(m["kind"], int(m["stage"])) for m in moves] == [
        (m["move"], m["stage"]) for m in p["schedule"]
    ], "moves"
    assert sum(m["move"] == "backward" for m in p["schedule"]) == p["stages"], "backwards"
    cost = [s["ways"][0] for s in p["chain"]]
    total = sum(
        cost[m["stage"]]["backward_cost" if m["move"] == "backward" else "forward_cost"]
        for m in p["schedule"]
    )
    assert total == p["cost"], f"cost {p['cost']}, the moves' sum {total}"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as e:
        print(e)
        sys.exit(1)
