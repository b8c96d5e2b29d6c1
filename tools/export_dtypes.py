"""Which dtypes of a program are fixed, and which follow the model's: the program runs in two dtypes and under autocast."""

import contextlib, copy, functools, gc

import torch, torch.nn as nn
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from export_device import autocast
from export_rows import DTYPES, Problem, Ref, one_line, place
from export_run import run


def model_dtype(module, inputs={}):
    """what most of the module's floating point numbers are in, without parameters its inputs'"""
    count = {}
    for ts in (module.parameters(), module.buffers(), inputs.values()):
        for t in ts:
            if t.dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
                count[t.dtype] = count.get(t.dtype, 0) + t.numel()
        if count:
            return max(count, key=count.get)
    return torch.float32


def dtypes_in(loaded, dtype):
    """{name: dtype} of what the module has in another dtype once it is loaded in this one"""
    own = model_dtype(loaded.module)
    named = [
        *loaded.module.named_parameters(remove_duplicate=False),
        *loaded.module.named_buffers(remove_duplicate=False),
    ]
    known = loaded.dtypes(dtype) if loaded.dtypes else {}
    return {n: d for n, t in named if t.dtype == own and (d := known.get(n, dtype)) != t.dtype}


@contextlib.contextmanager
def in_dtype(module, dtypes):
    """the module with tensors in these dtypes; afterwards it is what it was"""
    new, before = {}, []

    def converted(t, dtype):
        if id(t) not in new:
            made = t.detach().to(dtype)
            made = nn.Parameter(made, t.requires_grad) if isinstance(t, nn.Parameter) else made
            new[id(t)] = t.vram_moved = made
        return new[id(t)]

    for prefix, m in module.named_modules():
        for owned in (m._parameters, m._buffers):
            before.append((owned, dict(owned)))
            for k, t in owned.items():
                dtype = dtypes.get(f"{prefix}.{k}" if prefix else k)
                if t is not None and (dtype or id(t) in new):
                    owned[k] = converted(t, dtype)
    flat = [m for m in module.modules() if isinstance(m, nn.RNNBase)]
    try:
        for m in flat:
            m._flat_weights = [getattr(m, n) for n in m._flat_weights_names]
        yield
    finally:
        for owned, kept in before:
            owned.update(kept)
            for t in kept.values():
                vars(t).pop("vram_moved", None) if t is not None else None
        for m in flat:
            m._flat_weights = [getattr(m, n) for n in m._flat_weights_names]


def inputs_in(inputs, own, dtype):
    """the inputs of the model's own dtype in another one"""
    return {
        k: t.detach().to(dtype).requires_grad_(t.requires_grad) if t.dtype == own else t
        for k, t in inputs.items()
    }


# ---- several runs of a program as one


class Passage:
    """one of the runs, on the way through its nodes"""

    def __init__(self, rec):
        self.rec, self.left, self.at = (
            rec,
            list(reversed(rec.nodes)),
            [],
        )  # at: for each node its place in the text
        self.same = {
            n: n for n in rec.inputs
        }  # its names as all runs have them: a conversion that not all do is its input
        self.text = dict(self.same)  # its names in the text
        self.dtype = {n: DTYPES[t.dtype] for n, t in rec.inputs.items()}  # by the names of all runs
        self.ids = {n: i for names in (rec.params, rec.buffers) for i, n in names.items()}

    def word(self, i):
        """an input as all runs have it"""
        return (
            ("own", self.rec.params.get(i.own) or self.rec.buffers[i.own])
            if i.own
            else self.same.get(i.name, i.name)
        )

    def head(self, k=1):
        """what the next node is (the k-th), as all runs have it"""
        n = self.left[-k] if len(self.left) >= k else None
        return n and (n.op, len(n.outs), *map(self.word, n.ins))

    def dtype_of(self, word):
        """a value's dtype in this run, as far as it is known"""
        if isinstance(word, tuple):
            i = self.ids.get(word[1])
            return DTYPES[self.rec.tensors[i].dtype] if i else None
        return self.dtype.get(word)


class Different(Exception):
    """where runs of a program do not what the others do"""


class Runs:
    """Runs of a program that differ in conversions alone, as one. nodes: those of the text, with what each is in every run
    (None: not there). The first run is the one that is written."""

    def __init__(self, recs):
        self.passages, self.nodes, self.order = [Passage(r) for r in recs], [], {}
        self.lives_in = (
            {}
        )  # of what some runs convert: these; in the others it stands for what is made of it, too
        self.taken = set(recs[0].taken)
        while any(p.left for p in self.passages):
            heads = [p.head() for p in self.passages]
            wanted = heads[0] if heads.count(heads[0]) == len(heads) else self.conversion(heads)
            self.take([p if h == wanted else None for p, h in zip(self.passages, heads)])

    def conversion(self, heads):
        """where runs differ: a conversion that the others have not, or have not soon"""
        candidates = [h for h in heads if h and h[0] == "to"]
        if not candidates:
            n = next(p.left[-1] for p in self.passages if p.left)
            raise Different(f"from {' '.join([n.op, *n.outs[:1]])} on")
        soon = lambda p, h: any(p.head(k) == h for k in range(2, 10))
        others = lambda h: [p for p, g in zip(self.passages, heads) if g != h]
        return next((h for h in candidates if not any(soon(p, h) for p in others(h))), candidates[0])

    def input(self, found):
        """an input by what runs call it: where they differ it is the one that a conversion gave last"""
        p, i = found[0]
        if all(j.own for _, j in found):
            return Ref(own=self.passages[0].ids.get(p.word(i)[1], i.own))
        names = (p.text.get(i.name, i.name) for p, i in found if i.name)
        return Ref(max(names, key=lambda n: self.order.get(n, -1)))

    def take(self, having):
        """the next node of these runs"""
        nodes = [p and p.left.pop() for p in having]
        found = [(p, n) for p, n in zip(having, nodes) if n]
        p, first = found[0]
        words = [p.word(i) for i in first.ins]
        ins = [self.input([(p, n.ins[k]) for p, n in found]) for k in range(len(words))]
        node = copy.copy(first)
        node.outs = first.outs if nodes[0] else [self.free(o) for o in first.outs]
        node.ins, node.keys = ins, dict(first.keys)
        node.absent = [n is None for n in nodes]
        node.dtypes = [dtype_written(n) if n else q.dtype_of(words[0]) for q, n in zip(self.passages, nodes)]
        node.sources = (
            sources([p for p, _ in found], [n for _, n in found]) if len(found) == len(nodes) else ()
        )
        node.runs = {q.rec.of: n for q, n in found}
        amp = node.runs.get("amp")
        if first.autocast in (None, "off") and amp:  # some switch off only what is on
            node.autocast = amp.autocast if amp.autocast in (None, "off") else None
        elif len(found) < len(nodes) and self.nodes and first.autocast in (None, "off"):
            node.autocast = self.nodes[-1].autocast
        for o in node.outs:
            self.order[o] = len(self.nodes)
        if len(found) < len(nodes) and ins[0].name:
            self.lives_in[ins[0].name] = [p for p, _ in found]
        for p, n in found:
            p.at.append(len(self.nodes))
            for o, own in zip(node.outs, n.outs):
                p.text[own] = o
                p.same[own] = o if len(found) == len(nodes) else words[0]
            if n.outs:
                p.dtype[p.same[n.outs[0]]] = n.result
        self.nodes.append(node)

    def free(self, name):
        while name in self.taken:
            name += "_"
        self.taken.add(name)
        return name

    def written(self):
        """the first run's recording with the nodes of all"""
        first, dead = self.passages[0], {}
        rec = first.rec
        rec.assigned = {
            first.text.get(n, n): first.at[k - 1] + 1 if k else 0 for n, k in rec.assigned.items()
        }
        rec.returned = first.at[rec.returned - 1] + 1 if rec.returned else 0
        rec.given = [first.text.get(n, n) for n in rec.given]
        rec.scalars = {first.text.get(n, n) for n in rec.scalars}
        rec.instead = {first.text.get(b, b): first.text.get(a, a) for b, a in rec.instead.items()}
        for p in self.passages:
            for own, d in p.rec.dead.items():
                name = p.text.get(own)
                if p in self.lives_in.get(name, self.passages):
                    dead.setdefault(name, p.at[d - 1] + 1 if d else 0)
        dead.pop(None, None)
        rec.nodes, rec.dead, rec.taken = self.nodes, dead, self.taken
        return rec


def dtype_written(n):
    """what a node's dtype= stands for in its run; None: it says nothing"""
    if n.op == "custom":
        return n.result
    return n.keys.get("dtype")


def sources(passages, nodes):
    """tensors whose dtype the program read before, the last first, by their names in the text: (name, its dtype in each run)"""
    reads = [{p.text[a]: DTYPES[t] for a, t in n.reads if a in p.text} for p, n in zip(passages, nodes)]
    return [(a, [r.get(a) for r in reads]) for a in reversed(reads[-1])]


def follow(runs, own, note):
    """Writes dtypes: `model` where it is the model's in every run, and where it changes otherwise (under autocast) what the
    program read it from. own: the model's dtype in each run, None: there is no run in another one."""
    for n in runs.nodes:
        said = "dtype" in n.keys
        known = [d for d in n.dtypes if d]
        if not said or not known:
            continue
        if len(set(known)) == 1:
            n.keys["dtype"] = known[0]
        elif own and all(d in (None, o) for d, o in zip(n.dtypes, own)):
            n.keys["dtype"] = "model"
        elif n.op == "to" and runs.amp and n.absent == [k == runs.amp for k in range(len(n.dtypes))]:
            rest = {(d, o) for d, o, absent in zip(n.dtypes, own or n.dtypes, n.absent) if not absent}
            models = own and all(d == o for d, o in rest)
            n.keys["dtype"] = "model" if models and len(rest) > 1 else known[0]
            n.keys["autocast"] = 0  # a branch of the program
        else:
            source = next((a for a, read in n.sources if read == n.dtypes), None)
            if source and n.op not in ONE_INPUT:
                del n.keys["dtype"]
                n.op = "type_as" if n.op == "to" else n.op
                n.ins.append(Ref(source))
            elif n.op == "to" and set(n.runs) == {"amp"} and n.dtypes[-1] == "bf16":
                n.keys = {"autocast": 1}  # the program asks whether autocast is on
            else:
                n.keys["dtype"] = known[0]
                note(
                    f"{n.outs[0]}: a dtype that changes from run to run ({', '.join(known)}), from an unknown tensor; written as {known[0]}"
                )
        if n.keys.get("dtype") == "f32" and not n.ins:
            del n.keys["dtype"]  # what is created is in f32


ONE_INPUT = ("custom", "sum", "mean", "prod", "norm", "cumsum")


def custom_dtypes(runs):
    """a custom line's result that is not in every run in its first input's dtype"""
    for n in runs.nodes:
        if n.op == "custom" and "dtype" not in n.keys and n.dtypes.count(n.dtypes[0]) == len(n.dtypes) > 1:
            inputs = [p.dtype_of(p.same.get(n.ins[0].name)) for p in runs.passages] if n.ins else []
            if len(set(inputs)) > 1:
                n.keys["dtype"] = n.dtypes[0]


def custom_bytes(runs):
    """what custom lines take in the model's dtype of at least 32 bits, in 16 bits and under autocast"""
    own = runs.passages[0].rec.of
    for n in runs.nodes:
        of = n.runs
        if n.op != "custom" or len(of) == 1:
            continue
        half = next((of[k] for k in ("bf16", "f16") if k in of), None)
        full = of.get("f32", of[own]) if own in ("bf16", "f16") else of[own]
        n.bytes = [r.keys for r in (full, half or full, of.get("amp", full))]


def together(recs, own, note):
    """What is in all of these runs, and the model's dtype in each; a run that does something else than the first is left out.
    recs: the program as it is, in another dtype, under autocast."""
    left_out = "in another dtype the program does something else, {}; dtypes are as they are", (
        "under autocast the program does something else, {}; the text is the plain program"
    )
    for k in (1, 2):
        try:
            if recs[k]:
                Runs([recs[0], recs[k]])
        except Different as e:
            note(left_out[k - 1].format(e))
            recs[k] = None
    have = [k for k in range(3) if recs[k]]
    runs = Runs([recs[k] for k in have])
    runs.amp = len(have) - 1 if recs[2] else None
    return runs, [own[k] for k in have] if recs[1] else None


def forget(module):
    """What functions beside the module's classes cache by their arguments goes, as it may be another under autocast. Gives whether
    there was anything."""
    files = {type(m).__module__ for m in module.modules()}
    caches = [
        o for o in gc.get_objects() if isinstance(o, functools._lru_cache_wrapper) and o.__module__ in files
    ]
    filled = [c for c in caches if c.cache_info().currsize]
    for c in filled:
        c.cache_clear()
    return bool(filled)


def under_autocast(module, forward, inputs, plain, cached):
    """a pass under autocast; None where the program does not run so"""
    try:
        if cached:
            with autocast(plain.device, torch.bfloat16):
                forward(**inputs)
        return run(module, forward, inputs, torch.bfloat16)
    except (Problem, DataDependentOutputException, DynamicOutputShapeException):
        raise
    except Exception as e:
        plain.note(f"under autocast the program fails: {one_line(e)}; the text is the plain program")
        return None


@contextlib.contextmanager
def as_it_was(module):
    """afterwards the module has again what its attributes and buffers are now: a pass may put others in their place"""
    owners = [owned for m in module.modules() for owned in (m._buffers, vars(m))]
    kept = [(o, {k: v for k, v in o.items() if v is None or isinstance(v, torch.Tensor)}) for o in owners]
    try:
        yield
    finally:
        for owner, values in kept:
            owner.update(values)


def joined(recs, changed, own, other):
    """the recordings of a program as it is, in another dtype and under autocast (None: it has not run so), and the model's dtype in each"""
    rec, second, amp = recs
    name = lambda r, i: r.params.get(i) or r.buffers.get(i)
    then = {name(second, i): t.dtype for i, t in second.tensors.items()} if second else {}
    rec.follow = {  # a program may convert its buffers itself, once
        i
        for i, t in rec.tensors.items()
        if t.dtype == own
        and (n := name(rec, i)) in changed.keys() | then.keys()
        and then.get(n, other) == other
    }
    for r in (second, amp):
        for n in r.notes if r else ():
            rec.note(n)
    for r, of in (rec, DTYPES[own]), (second, DTYPES[other]), (amp, "amp"):
        if r:
            r.of = of
    runs, dtypes = together([rec, second, amp], [DTYPES[own], DTYPES[other], "f32"], rec.note)
    follow(runs, dtypes, rec.note)
    custom_dtypes(runs)
    custom_bytes(runs)
    return runs, dtypes


def one_program(loaded, inputs):
    """The recording to write: of the program as it is, with what runs in another dtype and under autocast say of its dtypes."""
    module, forward, own = loaded.module, loaded.forward, model_dtype(loaded.module, inputs)
    other = torch.bfloat16 if own == torch.float32 else torch.float32
    changed = dtypes_in(loaded, other)
    forget(module)
    with as_it_was(module):
        forward(**inputs)  # what a module keeps from its first pass is there before the step
        rec, second, amp = run(module, forward, inputs), None, None
        rec.dtype = own
        cached = forget(module)
        if own == torch.float32:
            amp = under_autocast(module, forward, inputs, rec, cached)
            forget(module)
    try:
        with in_dtype(module, changed):
            converted = inputs_in(inputs, own, other)
            forward(**converted)
            second = run(module, forward, converted)
            if own != torch.float32:
                forget(module)
                amp = under_autocast(module, forward, converted, rec, cached)
    except Exception as e:
        rec.note(
            f"in {DTYPES[other]} the program fails: {one_line(e)}{place(e)}; dtypes are as they are in {DTYPES[own]}"
        )
    return joined([rec, second, amp], changed, own, other)[0].written()
