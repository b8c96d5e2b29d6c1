"""A generation as text: the prompt's step and further ones, and what lives from one to the next as `cache` and `store` lines.

The program runs its own loop, transformers' generate() or another one; each call of the module begins a step. A tensor that is
alive where a step begins, and was made before, is what a cache line gives; what takes its place is known by its use: in the next
step the same lines read it. Steps of the same lines are one part of the text. Sizes that follow the prompt, the step or the batch
are found by comparing steps, and a second run of other sizes.
"""

import contextlib, copy, fractions, itertools, re

import torch

import export_device
from export_answers import Answers
from export_device import side_streams, to_fake_device
from export_dtypes import dtypes_in, forget, in_dtype, inputs_in, joined, as_it_was, model_dtype
from export_run import run
from export_rows import DTYPES, Node, Problem, Ref, one_line, place, progress, shape_text
from export_text import condensed, write

STEPS = 5  # that are run: the prompt's, the first with one token, and those that must be alike
DIMS = "N", "S", "P", "T", "M", "Q", "G", "K", "L"  # in the order in which a size takes them


# ---- a recording as steps


class Group:
    """a tensor that has one or more names; shape, dtype and order of axes are those of the last name before a step"""

    def __init__(self, names):
        self.names = names


class Steps:
    """a recording, cut where steps begin"""

    def __init__(self, runs, rec, dtypes):
        self.rec, self.dtypes = rec, dtypes
        self.marks = [k for k, n in enumerate(rec.nodes) if n.op == "decode"] + [len(rec.nodes)]
        self.made = {o: k for k, n in enumerate(rec.nodes) for o in n.outs}
        self.kinds, self.storage, members = {}, {}, {}
        for p in runs.passages:
            for own, name in p.text.items():
                if own not in p.rec.kinds:
                    continue
                self.kinds.setdefault(name, {})[id(p)] = p.rec.kinds[own][:3]
                if p is runs.passages[0]:
                    self.storage[name] = p.rec.kinds[own][4]
                    members.setdefault(id(p.rec.kinds[own][3]), []).append(name)
        self.passages = [id(p) for p in runs.passages]
        self.groups = [
            Group(sorted(names, key=self.made.get)) for names in members.values() if names[0] in self.made
        ]
        self.groups.sort(key=lambda g: self.made[g.names[0]])

    def nodes(self, k):
        """of step k; the first has what was made before it, too"""
        begin, end = self.marks[k], self.marks[k + 1]
        return self.rec.nodes[begin + 1 : end] if k else self.rec.nodes[:begin] + self.rec.nodes[begin + 1 : end]

    def dies(self, g):
        return self.rec.dead.get(g.names[-1], len(self.rec.nodes) + 1)

    def alive(self, k):
        """what is there when step k begins, without those that no line uses from there on and whose storage another one has"""
        at = self.marks[k]
        there = [g for g in self.groups if self.made[g.names[0]] < at < self.dies(g)]
        read = {i.name for n in self.rec.nodes[at:] for i in n.ins}
        used = lambda g: not read.isdisjoint(g.names)
        storages = {}
        for g in there:
            storages.setdefault(self.storage[g.names[0]], []).append(g)
        idle = {id(g) for s in storages.values() if any(map(used, s)) for g in s if not used(g)}
        idle |= {id(g) for s in storages.values() if not any(map(used, s)) for g in s[:-1]}
        return [g for g in there if id(g) not in idle]

    def last_name(self, g, k):
        """what it is called when step k begins"""
        return [n for n in g.names if self.made[n] < self.marks[k]][-1]

    def kind(self, name):
        """shape, dtype as the text has it, and order of axes"""
        kinds = [self.kinds[name].get(p) for p in self.passages]
        shape, dtype, order = next(k for k in kinds if k)
        found = [k and DTYPES[k[1]] for k in kinds]
        if all(f in (None, own) for f, own in zip(found, self.dtypes)) and len(found) > 1:
            return shape, "model", order
        return shape, DTYPES[dtype], order

    def shape_of_steps(self, k):
        """what tells steps apart: their lines without sizes"""
        return [(n.op, len(n.outs), len(n.ins), sorted(n.keys)) for n in self.nodes(k)]

    def uses(self, g, k):
        """how step k uses a tensor that was there: which lines, counted from the step's begin, and where it goes"""
        names = {n for n in g.names if self.made[n] < self.marks[k]}
        found = [
            (at, j) for at, n in enumerate(self.nodes(k)) for j, i in enumerate(n.ins) if i.name in names
        ]
        end = self.dies(g) - self.marks[k]
        return tuple(found), end if end < self.marks[k + 1] - self.marks[k] else None

    def role(self, g, k):
        """the same, by the names of lines, where steps differ"""
        names, count = {n for n in g.names if self.made[n] < self.marks[k]}, {}
        for n in self.nodes(k):
            base = (n.op, base_of(n.outs[0])) if n.outs else (n.op, "")
            count[base] = count.get(base, 0) + 1
            for j, i in enumerate(n.ins):
                if i.name in names:
                    return (*base, count[base], j)
        return (base_of(g.names[0]),)


def base_of(name):
    return re.sub(r"(_\d+)?_*(?=$|\.(i|inverse|\d+)$)", "", name)


# ---- slots: what takes whose place


class Slot:
    def __init__(self, name):
        self.name, self.of = name, {}  # by step: the group that it is when the step begins


def slots_of(steps, count):
    """the slots that the steps up to `count` have, with what is in each when a step begins"""
    slots, taken = [], set()

    def opened(g, k):
        base = base_of(g.names[0]) + ".kept"
        name = next(n for n in itertools.chain([base], (f"{base}_{i}" for i in itertools.count(1))) if n not in taken)
        taken.add(name)
        slots.append(Slot(name))
        slots[-1].of[k] = g

    for g in steps.alive(1):
        opened(g, 1)
    for k in range(1, count):
        there = {id(s.of[k]): s for s in slots if k in s.of}
        now = steps.alive(k + 1)
        free = [s for s in slots if k in s.of and s.of[k] not in now]
        fresh = []
        for g in now:
            if id(g) in there:
                there[id(g)].of[k + 1] = g
            else:
                fresh.append(g)
        alike = steps.shape_of_steps(k) == steps.shape_of_steps(k + 1)
        for key in (steps.uses, steps.role) if alike else (steps.role,):
            waiting = {}
            for s in free:
                waiting.setdefault(key(s.of[k], k), []).append(s)
            for g in list(fresh):
                same = waiting.get(key(g, k + 1))
                if same:
                    s = same.pop(0)
                    s.of[k + 1] = g
                    free.remove(s)
                    fresh.remove(g)
        for g in fresh:
            opened(g, k + 1)
    return slots


# ---- a part of the text


def part(steps, slots, k):
    """the recording of step k alone, with its caches"""
    rec = copy.copy(steps.rec)
    begin, end = steps.marks[k], steps.marks[k + 1]
    names, nodes, dead, forced = {}, [], {}, set()
    taken = {s.name for s in slots} | set(rec.inputs)
    gone = len(steps.rec.nodes) + len(slots) * 4 + 9

    def fresh(name):
        m = re.match(r"(.*?)(?:_\d+)?_*((?:\.(?:i|inverse|\d+))?)$", name)
        for i in itertools.count():
            n = m[1] + (f"_{i}" if i else "") + m[2]
            if n not in taken:
                taken.add(n)
                return n

    for s in slots:
        g = s.of.get(k) if k else None
        if g is None:
            nodes.append(Node("cache", [s.name], [], {"shape": "[0]", "dtype": "i64"}))
            continue
        last = steps.last_name(g, k)
        shape, dtype, order = steps.kind(last)
        nodes.append(Node("cache", [s.name], [], {"shape": shape_text(shape), "dtype": dtype}))
        value = s.name
        if order:
            nodes[-1].keys["shape"] = shape_text([shape[i] for i in order])
            value = fresh(s.name + ".permute")
            dims = ",".join(str(order.index(i)) for i in range(len(shape)))
            nodes.append(Node("permute", [value], [Ref(s.name)], {"dims": dims}))
        for n in g.names:
            if steps.made[n] < begin:
                names[n] = value
        forced |= {s.name, value}
    head = len(nodes)
    mine = steps.nodes(k)
    for n in mine:
        m = copy.copy(n)
        m.outs = [names.setdefault(o, fresh(o)) for o in n.outs]
        m.ins = [Ref(names.get(i.name, i.name), i.own) for i in n.ins]
        if "weights" in m.keys:
            m.keys = {**m.keys, "weights": names.get(m.keys["weights"], m.keys["weights"])}
        nodes.append(m)
    shift = head - (begin + 1 if k else 0)
    stays = {n for g in steps.alive(k + 1) for n in g.names}
    for n, name in names.items():
        d = steps.rec.dead.get(n)
        if d is None or n in stays:
            dead[name] = gone
        else:
            d = d - (not k and d > begin)  # the mark itself is no line
            dead[name] = max(dead.get(name, 0), max(head, d + shift))
    for s in slots:
        if s.of.get(k) is not None and k:
            last = steps.last_name(s.of[k], k)
            dead[s.name] = dead[names[last]]
    stored = None
    for s in slots:
        g = s.of.get(k + 1)
        if g is None:
            continue
        value = names[steps.last_name(g, k + 1)]
        same = k and s.of.get(k) is g and value in forced
        nodes.append(Node("store", [], [Ref(s.name)] + ([] if same else [Ref(value)]), {}))
        stored = stored if same else value
    rec.nodes, rec.dead, rec.taken, rec.cached = nodes, dead, set(taken), forced
    rec.kept, rec.assigned, rec.instead = set(), {}, {}
    rec.outputs = [stored] if stored else [next(o for n in reversed(mine) for o in n.outs)]
    return rec


def parts_of(runs, rec, dtypes, sizes, full):
    """[(the step that it begins with, [(dims, recording) of each step of the part])]; full: tokens before steps that may be others"""
    steps = Steps(runs, rec, dtypes)
    count = len(steps.marks) - 2  # steps behind which there is another one
    if count < 2:
        raise Problem("the program calls the module less often than it should: no generation")
    slots = slots_of(steps, count)
    kinds = [steps.shape_of_steps(k) for k in range(count)]
    parts = []
    for k in range(count):
        dims = dims_of(sizes, k)
        if k < 2 or kinds[k] != kinds[k - 1] or dims["P"] in full:
            parts.append((k, []))
        parts[-1][1].append((dims, part(steps, slots, k)))
    late = [s.name for s in slots if min(s.of) == count]
    if len(parts[-1][1]) > 1 and late:
        raise Problem(f"what it keeps grows by a tensor each step ({', '.join(late)})")
    return parts


def dims_of(sizes, k):
    s, new = sizes["S"], sizes["new"]
    past = s + k - 1 if k else 0
    tokens = 1 if k else s
    dims = {"N": sizes["N"], "S": tokens, "P": past, "T": past + tokens, "M": s + new - 1, "Q": s, "G": k}
    return dims | {"K": new, "L": s + new}


# ---- several steps of a kind as one text

NUMBER = re.compile(r"(?<![A-Za-z0-9_.])-?\d+(?![A-Za-z0-9_.])")


class NoSize(Exception):
    """a number that is no product of dims"""


class Different(Problem):
    """with other sizes the program does something else"""


def products(names, most):
    for degree in range(1, most + 1):
        yield from itertools.combinations_with_replacement(names, degree)


def product(dims, chosen):
    of = 1
    for n in chosen:
        of *= dims[n]
    return of


def size(values, dims, names):
    """a number as a product of dims, or as one and a number: of fewest dims that are right in every step"""
    if len(set(values)) == 1:
        return str(values[0])
    for parts in 1, 8:
        for chosen in products(names, 4):
            of = [product(d, chosen) for d in dims]
            factors = {fractions.Fraction(v, o) for v, o in zip(values, of)}
            if len(factors) == 1 and values[0] and (factor := factors.pop()).denominator <= parts:
                return said(factor, chosen)
        for chosen in products(names, 2 if parts == 1 else 0):
            of = [product(d, chosen) for d in dims]
            k = next((k for k, o in enumerate(of) if o != of[0]), 0)
            slope = fractions.Fraction(values[k] - values[0], of[k] - of[0])
            more = values[0] - slope * of[0]
            if len(set(of)) < 3 and (slope != 1 or abs(more) > 4):
                continue  # any two numbers lie on a line
            if slope > 0 and more.denominator == 1 and all(v == slope * o + more for v, o in zip(values, of)):
                return said(slope, chosen) + f"{int(more):+d}"
    raise NoSize


def said(factor, chosen):
    sign, factor = ("-", -factor) if factor < 0 else ("", factor)
    text = "*".join(chosen) + (f"*{factor.numerator}" if factor.numerator != 1 else "")
    return sign + text + (f"/{factor.denominator}" if factor.denominator != 1 else "")


def one_part(samples, note, fixed):
    """the lines of a part. samples: (dims, text) of each of its steps"""
    dims = [d for d, _ in samples]
    names = [n for n in DIMS if all(d[n] for d in dims) and len({d[n] for d in dims}) > 1]
    lines = [t.split("\n") for _, t in samples]
    if len({len(l) for l in lines}) > 1:
        raise Different("steps have other numbers of lines")
    out, loose = [], []
    for row in zip(*lines):
        parts = [NUMBER.split(r) for r in row]
        if row[0].startswith("#") or len(set(row)) == 1:
            out.append(row[0])
            continue
        if any(p != parts[0] for p in parts[1:]):
            at = next(p for p in row if p != row[0])
            raise Different(f"{row[0]!r} becomes {at!r}")
        words = []
        for values in zip(*[[int(v) for v in NUMBER.findall(r)] for r in row]):
            try:
                words.append(size(values, dims, names))
            except NoSize:
                loose.append((row[0].split()[:2], values))
                words.append(str(values[0]))
        out.append("".join(a + b for a, b in zip(parts[0], words + [""])))
    for (op, *name), values in loose[:1]:
        if not fixed:
            raise Different(f"a size of {op} {' '.join(name)} is {', '.join(map(str, dict.fromkeys(values)))}")
        note(
            f"{op} {' '.join(name)}{f' and {len(loose) - 1} more' if len(loose) > 1 else ''}: a size that follows the prompt otherwise "
            f"than as a product stays a number ({', '.join(map(str, dict.fromkeys(values)))})"
        )
    used = [n for n in DIMS if dims[0][n]]
    at = 1 + max(i for i, l in enumerate(out) if l.startswith(("model ", "rules ")))
    return out, at, used


def begin_of(which, dims):
    """the line in front of a part. dims: of its first step in each run"""
    if which == 1:
        return "decode"
    for name in "P", "G":
        if len({d[name] for d in dims}) == 1:
            return f"decode {name}={dims[0][name]}"
    raise Problem("with another prompt other steps are alike")


def text_of(parts, default, note, fixed):
    """parts: for each its samples in each run; default: the sizes that dims have in the text"""
    text = []
    for which, runs in enumerate(parts):
        out, at, used = one_part([s for samples in runs for s in samples], note, fixed)
        d = dims_of(default, 1 if which else 0)
        out.insert(at, "dim " + " ".join(f"{n}={d.get(n, 0)}" for n in DIMS if n in used or n in ("S", "P")))
        if which:
            out = [l for l in out if not l.startswith(("#", "rules "))]
            out.insert(0, begin_of(which, [samples[0][0] for samples in runs]))
        text += [l for l in out if l]
    return "\n".join(text) + "\n"


# ---- the program


def recorded(loaded, sizes, steps):
    """the runs of the program with these sizes as one, in its own dtype and in another"""
    module, inputs = loaded.module, loaded.make_inputs(N=sizes["N"], S=sizes["S"])
    forward = loaded.forward(sizes["new"])
    if export_device.fake_device:
        inputs = to_fake_device(module, inputs)
    own = model_dtype(module, inputs)
    other = torch.bfloat16 if own == torch.float32 else torch.float32
    changed, second = dtypes_in(loaded, other), None
    answers = Answers(every=not loaded.packed, rest=False)
    with torch.no_grad(), answers, side_streams(), torch.backends.cudnn.flags(enabled=not export_device.fake_device):
        forget(module)
        with as_it_was(module):
            rec = run(module, forward, inputs, steps=steps)
        rec.dtype = own
        forget(module)
        try:
            with as_it_was(module), in_dtype(module, changed):
                second = run(module, forward, inputs_in(inputs, own, other), steps=steps)
        except Exception as e:
            rec.note(f"in {DTYPES[other]} the program fails: {one_line(e)}{place(e)}; dtypes are as they are in {DTYPES[own]}")
        runs, dtypes = joined([rec, second, None], changed, own, other)
    return parts_of(runs, runs.written(), dtypes or [DTYPES[own]], sizes, loaded.generation.full), rec


def written(loaded, sizes, steps, notes):
    """for each part (dims, text) of its steps"""
    progress(f"{loaded.name}: running it with N={sizes['N']}, prompt={sizes['S']}, new={sizes['new']}")
    parts, rec = recorded(loaded, sizes, steps)
    texts = []
    for _, samples in parts:
        found = []
        for dims, r in samples:
            r.notes = list(r.notes)
            found.append((dims, write(r, loaded.name, loaded.comment)))
            notes.extend(r.notes)
        texts.append(found)
    return texts


def prompts(g):
    """two prompts that run what g's does, and how many steps; where a window is filled by steps, they fill it"""
    window = min((w for w in g.full if w > g.prompt), default=0)
    if window > 6:
        return (window - 2, window - 4), STEPS + 6
    return (g.prompt, min(2 * g.prompt + 3, max(g.longest, g.prompt + 3))), STEPS


def both(loaded, lengths, steps, notes):
    """the text, from runs with these prompts"""
    g, N = loaded.generation, dict(loaded.dims)["N"]
    texts = [
        written(loaded, {"N": N + k * (N > 1), "S": s, "new": max(g.new, steps + 1) + 7 * k}, steps, notes)
        for k, s in enumerate(lengths)
    ]
    if len(texts[0]) != len(texts[1]):
        raise Different("other steps are alike")
    return text_of(list(zip(*texts)), {"N": N, "S": g.prompt, "new": g.new}, notes.append, len(set(lengths)) == 1)


def export(loaded):
    """the text of a generation, and notes"""
    g, notes = loaded.generation, []
    try:
        text = both(loaded, *prompts(g), notes)
    except Different as e:
        notes = [f"the text is that of prompts of {g.prompt} tokens: with others the program does something else ({e})"]
        text = both(loaded, (g.prompt, g.prompt), STEPS, notes)
        first = next(l for l in text.split("\n") if l.startswith("input "))
        _, name, _, shape = first.split()
        check = f"view of_{g.prompt}_tokens {name} shape={shape}"
        text = text.replace(first, first.replace(f",{g.prompt}]", ",S]") + "\n" + check, 1)
    if dict(loaded.dims)["N"] == 1:
        notes.append("N=1 stays a number: with one sequence generate() runs other operations; --batch 2 gives a text for any number above")
    return text, [*loaded.notes, *condensed(dict.fromkeys(notes))]
