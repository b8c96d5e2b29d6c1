"""check.py CHAIN.csv PLAN.json MOVES.csv PICTURE.svg: what vram plan printed of a chain, played again by the rules of the model (README:
Beaumont et al.), its arena as sets of byte ranges, and the picture's peak. Prints what is wrong."""

import csv, decimal, json, re, sys

UNITS = {"": 1, "B": 1, "KB": 1000, "KiB": 1024, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}


def size(text):
    digits, unit = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text).groups()
    return int(digits) * UNITS[unit]


def play(rows, schedule, held=0):
    """peak and cost; a move that lacks something raises"""
    n = len(rows)
    x = [size(r["x"]) for r in rows] + [0]
    xbar = [size(r["xbar"]) for r in rows] + [0]
    x_there, all_there, gradient = {0}, set(), n
    peak, cost, done = 0, decimal.Decimal(0), []
    for m in schedule:
        i, kind = m["stage"], m["move"]
        live = sum(x[k] for k in x_there) + sum(xbar[k] for k in all_there) + x[gradient]
        assert i in x_there or i in all_there, f"{m}: no input"
        if kind == "backward":
            assert gradient == i + 1 and i + 1 in all_there, f"{m}: lacks its gradient or what was saved"
            peak = max(peak, live + x[i] + size(rows[i]["btmp"]))
            cost += decimal.Decimal(rows[i]["bw"])
            all_there.discard(i + 1)
            x_there.discard(i)
            gradient = i
            done.append(i)
            continue
        new = xbar[i + 1] if kind == "save" else x[i + 1]
        peak = max(peak, live + new + size(rows[i]["ftmp"]))
        cost += decimal.Decimal(rows[i]["fw"])
        assert i + 1 not in (all_there if kind == "save" else x_there), f"{m}: there already"
        (all_there if kind == "save" else x_there).add(i + 1)
        if kind == "drop":
            x_there.discard(i)
    assert done == list(range(n))[::-1], "not every stage runs backward once, in order"
    assert not all_there and not x_there, "something is left over"
    return peak, cost


def arena(path, rows, height):
    """the buffers of every move are apart and inside the arena"""
    x = [size(r["x"]) for r in rows] + [0]
    xbar = [size(r["xbar"]) for r in rows] + [0]
    with open(path) as f:
        for m in csv.DictReader(f):
            i = int(m["stage"])
            temp = size(rows[i]["btmp" if m["kind"] == "backward" else "ftmp"])
            bytes_of = {
                "in": x[i],
                "out": x[i + 1],
                "saved": xbar[i + 1] - x[i + 1],
                "grad_out": x[i + 1],
                "grad_in": x[i],
                "temp": temp,
            }
            at = sorted((int(m[k]), int(m[k]) + b, k) for k, b in bytes_of.items() if m[k] and b)
            for (_, end, a), (begin, _, b) in zip(at, at[1:]):
                assert end <= begin, f"move {m['move']}: {a} and {b} overlap"
            assert not at or at[-1][1] <= height, f"move {m['move']}: beyond the arena"
            if m["kind"] in ("backward", "save"):
                needed = (
                    ["in", "out", "saved"] + ["temp"] + ["grad_out", "grad_in"] * (m["kind"] == "backward")
                )
                assert all(m[k] for k in needed if bytes_of[k]), f"move {m['move']}: a buffer has no place"


def main(chain, plan, moves, picture):
    with open(chain) as f:
        rows = list(csv.DictReader(f))
    with open(plan) as f:
        p = json.load(f, parse_float=decimal.Decimal)
    peak, cost = play(rows, p["schedule"])
    assert peak == p["peak_bytes"], f"peak {p['peak_bytes']}, played {peak}"
    assert cost == p["cost"], f"cost {p['cost']}, played {cost}"
    plain = sum(decimal.Decimal(r[k]) for r in rows for k in ("fw", "bw"))
    assert plain == p["cost_plain"], f"plain cost {p['cost_plain']}, the sum is {plain}"
    assert p["feasible"] == (p["smallest_budget_bytes"] <= p["budget_bytes"]), "feasible"
    assert not p["feasible"] or peak <= p["budget_bytes"], "above the budget"
    assert p["arena_bytes"] >= peak, "an arena below the peak"
    arena(moves, rows, p["arena_bytes"])
    with open(picture) as f:
        shown = re.search(
            r"at most (\d+) bytes, in move|at most (\d+) B?,? ?in move|at most ([\d,]+)[^,]*, in move",
            f.read(),
        )
    assert shown, "the picture says no peak"
    shown = int(next(g for g in shown.groups() if g).replace(",", ""))
    assert shown == peak, f"peak {peak}, in the picture {shown}"


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except AssertionError as e:
        print(f"{sys.argv[1]}: {e}")
        sys.exit(1)
