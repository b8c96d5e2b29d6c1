import re


def parts(line):
    """a line as [kind, names that it defines, names that it uses, the rest]"""
    w = line.split()
    if not w or w[0] in ("model", "dim", "loop", "next") or line.startswith("#"):
        return [line, [], [], []]
    if w[0] in ("drop", "output"):
        return [w[0], [], w[1:], []]
    if w[0] == "input":
        return ["input", [w[1]], [], w[2:]]
    uses = [a for a in w[2:] if "=" not in a]
    rest = [a for a in w[2:] if "=" in a]
    tied = [a[8:] for a in rest if a.startswith("weights=")]
    return [w[0], w[1].split(","), uses + tied, [a for a in rest if not a.startswith("weights=")] + ["weights"] * len(tied)]


def write(p, rename):
    op, outs, uses, rest = p
    if op in ("drop", "output"):
        return " ".join([op] + list(dict.fromkeys(rename(u) for u in uses)))
    tied = rest.count("weights")
    ins = uses[: len(uses) - tied]
    keys = [k for k in rest if k != "weights"]
    keys += ["weights=" + rename(u) for u in uses[len(uses) - tied :]]
    return " ".join([op, ",".join(rename(o) for o in outs)] + [rename(u) for u in ins] + keys)


def roll(text, least=3):
    """Layers of one list that are alike become a loop with a dim, so that the depth is a size like any other."""
    lines = text.rstrip("\n").split("\n")
    found, count = True, 0
    while found:
        found = False
        for start, period, rounds, prefix in repeats(lines):
            if rounds < least:
                continue
            new = rolled(lines, start, period, rounds, prefix, count)
            if new:
                lines, found = new, True
                count += 1
                break
    return "\n".join(lines) + "\n"


def repeats(lines):
    """places where the layers prefix.0, prefix.1, ... begin at equal distances, the most lines first"""
    first, open_loops = {}, 0
    for i, line in enumerate(lines):
        p = parts(line)
        for name in p[1]:
            for m in re.finditer(r"(?<=[._])(\d+)(?=\.)", name):
                first.setdefault((name[: m.start()], int(m.group(1))), i)
    out = []
    for prefix in {p for p, _ in first}:
        at = sorted((k, i) for (p, k), i in first.items() if p == prefix)
        for a in range(len(at) - 2):
            period = at[a + 1][1] - at[a][1]
            b = a + 1
            while b + 1 < len(at) and at[b + 1][1] - at[b][1] == period and at[b + 1][0] == at[b][0] + 1:
                b += 1
            if period > 0 and b - a >= 2 and at[a + 1][0] == at[a][0] + 1:
                # the last layer may be longer (what follows drops in it): the loop takes one less if need be
                for rounds in (b - a + 1, b - a):
                    for shift in (0, *range(1, min(4, period))):
                        out.append((at[a][1] + shift, period, rounds, f"{prefix}{at[a][0]}."))
    return sorted(out, key=lambda r: (-r[1] * r[2], r[0]))


def rolled(lines, start, period, rounds, prefix, count):
    P = [parts(l) for l in lines]
    end = start + period * rounds
    if rounds < 3 or end > len(lines) or any(l.split()[:1] in (["loop"], ["next"]) for l in lines[start:end]):
        return None
    inputs = [p[1][0] for p in P if p[0] == "input"]
    where = {}  # name -> (line, place among its outputs)
    for i, p in enumerate(P):
        if lines[i].startswith("loop "):  # carried names
            where.update((w.split("=")[0], (i, 0)) for w in lines[i].split()[2:])
        for k, n in enumerate(p[1]):
            where[n] = (i, k)
    block = lambda i: (i - start) // period if start <= i < end else -1

    def slot(n, b):
        """how block b sees n: its own line, the line of the block before, or a value from before the loop"""
        i, k = where[n]
        if block(i) == b:
            return ("own", (i - start) % period, k)
        if b and block(i) == b - 1:
            return ("before", (i - start) % period, k)
        return ("out", n) if i < start else None

    carried = {}  # slot before -> its value before the first round
    model = [[slot(u, 1) for u in P[start + period + j][2]] for j in range(period)]
    for j in range(period):
        for b in range(rounds):
            p, q = P[start + b * period + j], P[start + period + j]
            if p[0] != q[0] or len(p[1]) != len(q[1]) or (p[0] != "drop" and p[3] != q[3]):
                return None
            mine = [slot(u, b) for u in p[2]]
            if None in mine or None in model[j]:
                return None
            if b:
                if p[0] == "drop" and set(mine) == set(model[j]) or mine == model[j]:
                    continue
                return None
            if p[0] == "drop":
                own, wanted = {s for s in mine if s[0] == "own"}, {s for s in model[j] if s[0] == "own"}
                if own != wanted or {s for s in model[j] if s[0] == "out"} - set(mine):
                    return None
                continue  # what came from before the loop: below, when the uses are known
            if len(mine) != len(model[j]):
                return None
            for s, t in zip(mine, model[j]):
                if t[0] == "before":
                    if s[0] != "out" or carried.setdefault(t, s[1]) != s[1]:
                        return None
                elif s != t:
                    return None
    # drops of the first round: what they name is a carried value; one that has no counterpart is an input, which lives anyway
    for j in range(period):
        if P[start + j][0] != "drop":
            continue
        fixed = {s[1] for s in model[j] if s[0] == "out"}
        names = {s[1] for s in (slot(u, 0) for u in P[start + j][2]) if s[0] == "out"} - fixed
        slots = [t for t in model[j] if t[0] == "before"]
        for t in slots:
            if t in carried:
                if carried[t] not in names and carried[t] not in inputs:
                    return None
                names.discard(carried[t])
        for t in slots:
            if t not in carried:
                carried[t] = names.pop() if names else inputs[0]
        if names:
            return None
    # a carried value that is dropped later in the first round must not be dropped earlier
    # what follows the loop may use the last round's values if they are carried
    last = rounds - 1
    for i in range(end, len(lines)):
        for u in P[i][2]:
            b = block(where[u][0])
            if b >= 0:
                if b != last:
                    return None
                t = ("before",) + ((where[u][0] - start) % period, where[u][1])
                carried.setdefault(t, inputs[0])
    if not carried:
        return None
    base = re.sub(r"[._]\d+\.$", ".", prefix)
    taken = {n for i, p in enumerate(P) if not start <= i < end for n in p[1]}
    taken |= {w.split("=")[0] for l in lines if l.startswith("loop ") for w in l.split()[2:]}
    first_of = lambda rel, k: P[start + rel][1][k]

    def local(n):
        return base + n[len(prefix) :] if n.startswith(prefix) else n

    names = {}
    for j in range(period):
        for k, n in enumerate(P[start + j][1]):
            new = local(n)
            while new in taken or new in names.values():
                new += "_"
            names[("own", j, k)] = new
    carry = {}
    for n, t in enumerate(sorted(carried, key=lambda t: (t[1], t[2]))):
        c = names[("own",) + t[1:]] + ".before"
        while c in taken or c in names.values() or c in carry.values():
            c += "_"
        carry[t] = c
    dim = "L" + (str(count + 1) if count else "")
    dims = [l for l in lines if l.startswith("dim ")]
    while any(re.search(rf"\b{dim}=", d) for d in dims):
        dim += "x"
    out = []
    for i in range(start):
        l = lines[i]
        out.append(l + f" {dim}={rounds}" if l.startswith("dim ") and l == dims[-1] else l)
    out.append(f"loop {dim} " + " ".join(f"{carry[t]}={v}" for t, v in sorted(carried.items(), key=lambda c: c[0][1:])))
    for j in range(period):
        see = dict(zip(P[start + period + j][2], model[j]))
        own = {n: ("own", j, k) for k, n in enumerate(P[start + period + j][1])}

        def rename(n):
            s = own.get(n) or see[n]
            return names[s] if s[0] == "own" else carry[s] if s[0] == "before" else s[1]

        out.append(write(P[start + period + j], rename))
    out.append("next " + " ".join(f"{carry[t]}={names[('own',) + t[1:]]}" for t in sorted(carried, key=lambda t: t[1:])))

    def after(n):
        i, k = where.get(n, (-1, 0))
        return carry[("before", (i - start) % period, k)] if block(i) >= 0 else n

    for i in range(end, len(lines)):
        p = P[i]
        out.append(write(p, after) if any(block(where[u][0]) >= 0 for u in p[2]) else lines[i])
    return out


if __name__ == "__main__":
    import sys

    sys.stdout.write(roll(open(sys.argv[1]).read()))
