#!/usr/bin/env python3
"""Writes layers of one list that are alike as a loop, so that the depth is a dim like any other; and loops as what they stand for.
usage: loops.py [--least N] FILE.vram     the text with its loops (of N rounds or more; default 3)
       loops.py --unroll FILE.vram        the text without loops
FILE - is standard input. Both texts take the same bytes in the same order; only the names of nodes differ."""

import argparse, re, sys

NAMELESS = (
    "drop",
    "keep",
    "store",
    "requires_grad",
    "output",
    "infer",
    "return",
    "unit",
    "order",
    "end",
    "no_grad",
    "enable_grad",
)
OF_WEIGHTS = ("zero_grad", "step", "update", "freeze", "unfreeze")

# ---- a line as op, names that it defines, names that it uses, the rest


class Line:
    def __init__(self, text):
        self.text, self.op, self.outs, self.uses, self.rest, self.tied, self.held = text, "", [], [], [], 0, 0
        w = text.split("#", 1)[0].split()
        if not w:
            return
        self.op = w[0]
        if self.op in NAMELESS:
            self.uses = w[1:]
        elif self.op == "backward":
            self.uses, self.rest = w[1:2], w[2:]
        elif self.op in ("autocast", "rules", "tp", *OF_WEIGHTS):
            self.rest = w[1:]
        elif self.op == "checkpoint":
            keys = [a for a in w[1:] if "=" in a]
            held = [n for a in keys if a.startswith("holds=") for n in a[6:].split(",")]
            self.uses, self.held = [a for a in w[1:] if "=" not in a] + held, len(held)
            self.rest = [a for a in keys if not a.startswith("holds=")]
        elif self.op == "input":
            self.outs, self.rest = [w[1]], w[2:]
        elif self.op in ("loop", "next"):
            self.rest = w[1 : 2 if self.op == "loop" else 1]
            self.pairs = [p.split("=") for p in w[2 if self.op == "loop" else 1 :]]
        elif self.op not in ("model", "dim"):
            self.outs = w[1].split(",")
            self.uses = [a for a in w[2:] if "=" not in a]
            keys = [a for a in w[2:] if "=" in a]
            tied = [a.split("=")[1] for a in keys if a.startswith("weights=")]
            self.uses, self.tied = self.uses + tied, len(tied)
            self.rest = [a for a in keys if not a.startswith("weights=")]

    def written(self, name):
        """the line with other names"""
        uses = [name(u) for u in self.uses]
        if self.op == "checkpoint":
            at = len(uses) - self.held
            holds = ["holds=" + ",".join(uses[at:])] if self.held else []
            return " ".join([self.op, *uses[:at], *holds, *self.rest])
        if self.op in (*NAMELESS, "autocast", "rules", "backward", *OF_WEIGHTS):
            return " ".join([self.op, *dict.fromkeys(uses), *self.rest])
        at = len(uses) - self.tied
        keys = self.rest + ["weights=" + u for u in uses[at:]]
        return " ".join([self.op, ",".join(map(name, self.outs)), *uses[:at], *keys])


# ---- loops -> lines


def unroll(text):
    lines = [Line(l) for l in text.rstrip("\n").split("\n")]
    dims = {
        k: int(v)
        for l in lines
        if l.op == "dim"
        for k, v in (p.split("=") for p in l.text.split("#")[0].split()[1:])
    }
    out = []
    unroll_block(lines, dims, {}, "", out)
    return "\n".join(out) + "\n"


def unroll_block(lines, dims, env, prefix, out):
    i = 0
    while i < len(lines):
        l = lines[i]
        i += 1
        if l.op == "loop":
            depth, end = 1, i
            while depth:
                depth += {"loop": 1, "next": -1}.get(lines[end].op, 0)
                end += 1
            carried = {name: env.get(value, value) for name, value in l.pairs}
            for r in range(size_of(l.rest[0], dims)):
                inner = {**env, **carried}
                unroll_block(lines[i : end - 1], dims, inner, f"{prefix}round.{r}.", out)
                carried.update({name: inner.get(value, value) for name, value in lines[end - 1].pairs})
            env.update(carried)
            i = end
        elif l.outs and prefix:
            env.update((o, prefix + o) for o in l.outs)
            out.append(l.written(lambda n: env.get(n, n)))
        else:
            out.append(l.written(lambda n: env.get(n, n)) if l.uses else l.text)


def size_of(text, dims):
    text, _, less = text.partition("-")  # of a loop's rounds
    return product_of(text, dims) - (product_of(less, dims) if less else 0)


def product_of(text, dims):
    product = 1
    for sign, term in re.findall(r"([*/]?)([^*/]+)", text):
        value = int(term) if term.isdigit() else dims[term]
        product = product // value if sign == "/" else product * value
    return product


# ---- lines -> loops


def roll(text, least=3):
    lines = text.rstrip("\n").split("\n")
    count, found = 0, True
    while found:
        found = False
        for start, period, rounds, prefix in repeats(lines):
            new = rounds >= least and rolled(lines, start, period, rounds, prefix, count)
            if new:
                lines, count, found = new, count + 1, True
                break
    return "\n".join(lines) + "\n"


def repeats(lines):
    """(first line, lines a layer, layers, prefix of the names) where layers begin at equal distances, the most lines first"""
    first, out = {}, []
    for i, l in enumerate(map(Line, lines)):
        for name in l.outs:
            for m in re.finditer(r"(?<=[._])(\d+)(?=\.)", name):
                first.setdefault((name[: m.start()], int(m.group(1))), i)
    for prefix in {p for p, _ in first}:
        at = sorted((k, i) for (p, k), i in first.items() if p == prefix)
        for a in range(len(at) - 2):
            period, b = at[a + 1][1] - at[a][1], a + 1
            while b + 1 < len(at) and at[b + 1][1] - at[b][1] == period and at[b + 1][0] == at[b][0] + 1:
                b += 1
            if period <= 0 or b - a < 2 or at[a + 1][0] != at[a][0] + 1:
                continue
            for rounds in (b - a + 1, b - a):  # what follows the last layer may drop what it made
                # a drop of the layer before may come first; a checkpoint begins in front of the first name
                for shift in range(-min(2, at[a][1]), min(4, period)):
                    out.append((at[a][1] + shift, period, rounds, f"{prefix}{at[a][0]}."))
    return sorted(out, key=lambda r: (-r[1] * r[2], r[0]))


def balanced(lines):
    """whether every checkpoint block that begins here ends here, and none else does"""
    open_blocks = 0
    for l in lines:
        open_blocks += {"checkpoint": 1, "end": -1}.get(l.op, 0)
        if open_blocks < 0:
            return False
    return not open_blocks


def rolled(lines, start, period, rounds, prefix, count):
    """the lines with that loop; None: the layers are not alike, or are used from outside"""
    P, end = [Line(l) for l in lines], start + period * rounds
    if end > len(lines) or any(l.op in ("loop", "next", "") for l in P[start:end]):
        return None
    if not balanced(P[start : start + period]):
        return None
    inputs = [l.outs[0] for l in P if l.op == "input"]
    where = {}  # name -> (line, place among its outputs)
    for i, l in enumerate(P):
        if l.op == "loop":
            where.update((name, (i, 0)) for name, _ in l.pairs)
        for k, n in enumerate(l.outs):
            where[n] = (i, k)
    block = lambda i: (i - start) // period if start <= i < end else -1

    def slot(n, b):
        """what n is for layer b: a line of its own, of the layer before, or a value from before the loop"""
        i, k = where[n]
        if block(i) == b:
            return ("own", (i - start) % period, k)
        if b and block(i) == b - 1:
            return ("before", (i - start) % period, k)
        return ("out", n) if i < start else None

    # layer 1 is the model of all others; in layer 0 what comes from the layer before is a value from outside
    carried = {}  # slot of the layer before -> its value in layer 0
    behind = []  # values from before the loop that the last layer lets go at its end
    model = [[slot(u, 1) for u in P[start + period + j].uses] for j in range(period)]
    for j in range(period):
        want = P[start + period + j]
        for b in range(rounds):
            l = P[start + b * period + j]
            mine = [slot(u, b) for u in l.uses]
            if (l.op, len(l.outs), l.tied, l.held) != (want.op, len(want.outs), want.tied, want.held):
                return None
            if None in mine + model[j] or (
                l.op != "drop" and (l.rest != want.rest or len(mine) != len(model[j]))
            ):
                return None
            if b == rounds - 1 and j == period - 1 and l.op == "drop":
                more = [s for s in mine if s not in model[j]]
                if all(s[0] == "out" for s in more) and mine[len(mine) - len(more) :] == more:
                    behind, mine = [s[1] for s in more], [s for s in mine if s in model[j]]
            if b:
                if mine != model[j] and (l.op != "drop" or set(mine) != set(model[j])):
                    return None
            elif l.op == "drop":
                kept = {s for s in model[j] if s[0] == "out"}
                if {s for s in mine if s[0] == "own"} != {s for s in model[j] if s[0] == "own"} or kept - set(
                    mine
                ):
                    return None
            else:
                for s, t in zip(mine, model[j]):
                    if t[0] == "before":
                        if s[0] != "out" or carried.setdefault(t, s[1]) != s[1]:
                            return None
                    elif s != t:
                        return None
    # what layer 0 drops of the values from outside; without a counterpart an input stands, which lives anyway
    kept = [set() for _ in range(period)]
    for j in range(period):
        if P[start + j].op != "drop":
            continue
        fixed = {s[1] for s in model[j] if s[0] == "out"}
        dropped = [slot(u, 0) for u in P[start + j].uses]
        names = [s[1] for s in dropped if s[0] == "out" and s[1] not in fixed]
        slots = [t for t in model[j] if t[0] == "before"]
        for t in slots:
            if t in carried and carried[t] not in names and carried[t] not in inputs:
                if not inputs:
                    return None
                kept[j].add(t)  # layer 0 does not drop what it was given, the others do
                carried[("dropped", *t[1:])] = inputs[0]
            names = [n for n in names if n != carried.get(t)]
        for t in slots:
            if t not in carried:
                if not names and not inputs:
                    return None
                carried[t] = names.pop(0) if names else inputs[0]
        if names:
            return None
    # what follows sees the last layer's carried values
    for l in P[end:]:
        for u in l.uses + [v for _, v in getattr(l, "pairs", [])]:
            i, k = where[u]
            if block(i) >= 0:
                if block(i) != rounds - 1 or not inputs:
                    return None
                carried.setdefault(("before", (i - start) % period, k), inputs[0])
    if not carried:
        return None

    taken = {n for i, l in enumerate(P) if not start <= i < end for n in l.outs} | set(where) - {
        n for n, (i, _) in where.items() if start <= i < end
    }

    def free(name):
        while name in taken:
            name += "_"
        taken.add(name)
        return name

    base = re.sub(r"[._]\d+\.$", ".", prefix)
    own = {
        (j, k): free(base + n[len(prefix) :] if n.startswith(prefix) else n)
        for j in range(period)
        for k, n in enumerate(P[start + j].outs)
    }
    slots = sorted(carried, key=lambda t: (t[1:], t[0]))
    carry = {t: free(own[t[1:]] + "." + t[0]) for t in slots}
    dims = [l for l in lines[:start] if l.startswith("dim ")]
    dim = "L" + str(count + 1) * (count > 0)
    while any(re.search(rf"\b{dim}=", d) for d in dims):
        dim += "_"

    def after(n):
        i, k = where[n]
        return carry[("before", (i - start) % period, k)] if block(i) >= 0 else n

    layers = re.compile(re.escape(re.sub(r"\d+\.$", "", prefix)) + r"(\d+)\.")
    depth = len({m.group(1) for l in P for n in l.outs if (m := layers.match(n))})
    size = dim + f"-{depth - rounds}" * (depth > rounds)

    out = [l + f" {dim}={depth}" if dims and l == dims[-1] else l for l in lines[:start]]
    if not dims:
        out.insert(
            next(i for i, l in enumerate(P) if l.op not in ("", "model", "rules")), f"dim {dim}={depth}"
        )
    out.append(" ".join([f"loop {size}", *(f"{carry[t]}={carried[t]}" for t in slots)]))
    for j in range(period):
        line = P[start + period + j]
        names = dict(zip(line.outs, (own[(j, k)] for k in range(len(line.outs)))))
        for u, s in zip(line.uses, model[j]):
            s = ("dropped", *s[1:]) if s in kept[j] else s
            names[u] = own[s[1:]] if s[0] == "own" else s[1] if s[0] == "out" else carry[s]
        out.append(line.written(names.__getitem__))
    out.append(" ".join(["next", *(f"{carry[t]}={own[t[1:]]}" for t in slots)]))
    if behind:
        out.append(" ".join(["drop", *behind]))
    for l in P[end:]:
        if l.op in ("loop", "next"):
            pairs = [f"{name}={after(value)}" for name, value in l.pairs]
            out.append(" ".join([l.op, *l.rest, *pairs]))
        else:
            out.append(l.written(after) if any(block(where[u][0]) >= 0 for u in l.uses) else l.text)
    return out


def main():
    a = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    a.add_argument("file", metavar="FILE.vram", help="- is standard input")
    a.add_argument("--least", type=int, default=3, help="rounds of a loop at least (default: 3)")
    a.add_argument("--unroll", action="store_true", help="write loops as what they stand for")
    o = a.parse_args()
    try:
        with open(0 if o.file == "-" else o.file) as f:
            text = f.read()
    except (OSError, UnicodeDecodeError) as e:
        print(f"loops: cannot read {o.file}: {getattr(e, 'strerror', None) or 'not text'}", file=sys.stderr)
        return 2
    try:
        text = unroll(text) if o.unroll else roll(text, max(2, o.least))
    except (IndexError, KeyError, ValueError):
        print(f"loops: {o.file}: not a model in the text form (vram estimate says where)", file=sys.stderr)
        return 2
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
