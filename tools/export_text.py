"""Recorded passes as text: dtypes told apart by further runs, sizes that follow dims, notes."""

import bisect, contextlib, itertools, math, re

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

import export_device, export_found, export_quantised, export_training, export_units
from export_answers import Answers
from export_device import to_fake_device
from export_dtypes import one_program
from export_rows import BYTES, DTYPES, Problem, RNN, Ref, one_line, progress, shape_text

NO_NODES = ("drop ", "keep ", "checkpoint ", "end ", "return ")  # lines that only name values
NEWEST_RULES = (2, 15)  # of VRAM_TORCH_VERSIONS


def rules():
    """The line that names the PyTorch that this runs under; none for one that is newer than all rules."""
    version = tuple(int(n) for n in torch.__version__.split("+")[0].split(".")[:2])
    return [f"rules torch-{version[0]}.{version[1]}"] if version <= NEWEST_RULES else []


def without_grad(rec):
    """the nodes that the program runs under no_grad, where that makes a difference: something that they use wants a gradient"""
    wants = {n for n, t in rec.inputs.items() if t.requires_grad}
    found, part, matters = set(), [], False
    for n in [*rec.nodes, None] if rec.grad else []:
        asks = n is not None and (
            n.op in RNN.values()
            or any(
                i.name in wants or (i.own in rec.params and rec.tensors[i.own].requires_grad) for i in n.ins
            )
        )
        if n is not None and n.no_grad:
            part.append(id(n))
            matters |= asks
            continue
        if matters:
            found.update(part)
        part, matters = [], False
        if asks:
            wants.update(n.outs)
        if n is not None and n.op == "requires_grad":
            wants.update(i.name for i in n.ins)
    return found


def with_bytes(n):
    """a node's keys; a custom line's bytes as three numbers where it is known what they are in 16 bits and under autocast"""
    keys = dict(n.keys)
    for k in BYTES if n.bytes else ():
        if any(b.get(k) for b in n.bytes):
            keys[k] = ",".join(str(b.get(k, 0)) for b in n.bytes)
    return keys


def with_order(text, ranks):
    """The lines, with `order` lines where what optimizers go through has another order than the program. ranks: by names of nodes
    where in module.parameters() what they own begins."""
    owners = [(k, line.split()[1]) for k, line in enumerate(text) if len(line.split()) > 1]
    owners = [(k, name.split(",")[0]) for k, name in owners]
    owners = [
        (k, name, ranks[name]) for k, name in owners if name in ranks and not text[k].startswith(NO_NODES)
    ]
    least = list(itertools.accumulate((r for _, _, r in reversed(owners)), min))[::-1]
    behind = {}  # lines, and what comes behind them
    for at, (_, name, rank) in enumerate(owners):
        last = bisect.bisect_left(least, rank) - 1  # the last one that comes before it in the module
        if last > at:
            behind.setdefault(owners[last][0], []).append((rank, name))
    return [
        part
        for k, line in enumerate(text)
        for part in [line] + (["order " + " ".join(n for _, n in sorted(behind[k]))] if k in behind else [])
    ]


def write(rec, name, comment, keep=False):
    tensors, params = rec.tensors, rec.params
    uses = {}
    for n in rec.nodes:
        for k, i in enumerate(n.ins):
            if i.own:
                uses.setdefault(i.own, []).append((n, k))

    def dtype_of(i):
        """of a tensor of the module; None: the model's"""
        return None if i in rec.follow else DTYPES[tensors[i].dtype]

    def ownable(n):
        """the node's own parameters as ids, if it could own them"""
        if not n.params:
            return None
        base, given = n.params
        own = [i.own for i in n.ins[base:]]
        if any(o is None or o not in params for o in own) or not own or len(set(own)) != len(own):
            return None
        if any(u is not n and (not u.params or k < u.params[0]) for o in own for u, k in uses[o]):
            return None
        if len({dtype_of(o) for o in own}) > 1:
            return None
        if len({tensors[o].requires_grad for o in own}) > 1 or any(
            k < base for o in own for u, k in uses[o] if u is n
        ):
            return None
        return own

    plan = {}
    for n in rec.nodes:
        own = ownable(n)
        if own is None:
            continue
        sharing = {id(u): u for o in own for u, _ in uses[o] if u is not n}
        if all(
            ownable(u) is not None
            and tensors[ownable(u)[0]].shape == tensors[own[0]].shape
            and (ownable(u) == own or (own[0] == ownable(u)[0] and (len(own) == 1 or len(ownable(u)) == 1)))
            for u in sharing.values()
        ):
            plan[id(n)] = own
    rank = {o: k for k, o in enumerate(params) if tensors[o].requires_grad}
    ranks = {}  # of what nodes own, by their names
    text, blocks = [], []  # blocks: lines of those that are open
    name_param = {}

    def declare(i):
        if i.own in name_param:
            return name_param[i.own]
        t = tensors[i.own]
        label = params.get(i.own) or rec.buffers[i.own]
        label = re.sub(r"[^A-Za-z0-9_./]", "_", label)
        if not re.match(r"[A-Za-z_]", label):
            label = "_" + label
        while label in rec.taken:
            label += "_"
        rec.taken.add(label)
        name_param[i.own] = label
        if i.own in rank:
            ranks[label] = rank[i.own]
        kind = "parameter" if i.own in params else "buffer"
        extra = (f" dtype={DTYPES[t.dtype]}" if i.own not in rec.follow else "") + (
            " frozen=1" if kind == "parameter" and not t.requires_grad else ""
        )
        at = blocks[0] if blocks else len(text)  # in front of the checkpoint blocks around it
        text.insert(at, f"{kind} {label} shape={shape_text(t.shape)}{extra}")
        blocks[:] = [b + 1 for b in blocks]
        return label

    places = {}
    for n in rec.nodes:
        if n.custom:
            places.setdefault(n.custom, []).append(n)
    for why, nodes in places.items():
        saved, workspace = (sum(n.keys[k] for n in nodes) for k in ("saved", "workspace"))
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        rec.note(
            f"custom {nodes[0].outs[0]}{more}: {why}; {saved} bytes of its own kept for backward (by saved-tensor hooks), {workspace} taken on "
            f"the way, and such in backward (storages of the aten operations below it){'' if nodes[0].bytes else '; in 16 bits it may be less'}"
        )

    last = {}
    for k, n in enumerate(rec.nodes):
        for i in n.ins:
            if i.name and n.op != "store":
                last[i.name] = k
        for o in n.outs:
            last[o] = k
    former = set()  # what attributes held before they took what they keep
    for o in rec.kept:
        while o in rec.instead:
            o = rec.instead[o]
            former.add(o)
    drops = {}
    for k, n in enumerate(rec.nodes):
        for o in n.outs:
            d = rec.dead.get(o)
            lives_on = d is not None and d - 1 >= last[o] + (o not in rec.cached)
            if lives_on and o not in rec.kept | former:
                drops.setdefault(d - 1, []).append(o)
    taken = {}
    for o in sorted(rec.kept | former):
        names = " ".join([o, rec.instead[o]] if o in rec.instead else [o])
        taken.setdefault(rec.assigned.get(o, len(rec.nodes)), []).append(names)
    first_owner = {}
    returned = [n for n in rec.given if n not in rec.inputs] if rec.train else []
    if rec.returned == len(rec.nodes) and set(returned) == set(rec.outputs):
        returned = []  # as a module does without a line that says so
    quiet, is_quiet, autocast = without_grad(rec), False, None
    for k, n in enumerate(rec.nodes):
        if (id(n) in quiet) != is_quiet:
            is_quiet = not is_quiet
            text.append("no_grad" if is_quiet else "enable_grad")
        if n.autocast != autocast:
            autocast = n.autocast
            text.append(f"autocast {autocast or 'on'}")
        if n.op == "checkpoint":
            blocks.append(len(text))
        elif n.op == "end":
            blocks.pop()
        keys = with_bytes(n)
        ins = []
        own = plan.get(id(n))
        base, norm = n.params[0] if n.params else 0, n.op.endswith("_norm")
        for j, i in enumerate(n.ins):
            if own and j >= base:
                continue
            ins.append(i.name or declare(i))
        if n.params:
            given = n.params[1]
            if own:
                if own[0] in first_owner:
                    keys["weights"] = first_owner[own[0]]
                else:
                    first_owner[own[0]] = n.outs[0]
                    if own[0] in rank:
                        ranks[n.outs[0]] = rank[own[0]]
                if not tensors[own[0]].requires_grad:
                    keys["frozen"] = 1
            if norm and not given[0]:
                if n.op == "instance_norm":
                    pass
                elif n.op in ("batch_norm", "group_norm"):
                    keys["affine"] = 0
                else:
                    keys["elementwise_affine"] = 0
            elif n.op == "instance_norm" and own:
                keys["affine"] = 1
            elif len(given) > 1 and not given[1] and own and not (n.op in ("batch_norm", "group_norm")):
                keys["bias"] = 0
            if n.op in ("batch_norm", "group_norm") and own and given[0] and not given[1]:
                rec.note(f"{n.op} with a weight and no bias")
        if norm and n.stats and "weights" not in keys:  # statistics of a module that is called twice
            first = first_owner.setdefault(n.stats[0], n.outs[0])
            if first != n.outs[0] and not own:
                keys["weights"] = first
        held = {dtype_of(i) for i in [*(own or ()), *n.stats]}
        if held - {None}:
            keys["dtype"] = max(held - {None})
        if len(held) > 1:
            rec.note(
                f"{n.outs[0]}: weights of several dtypes ({', '.join(sorted(d or 'model' for d in held))}) are written as one"
            )
        if n.held:
            keys = {"holds": ",".join(ins[-n.held :]), **keys}
            del ins[-n.held :]
        if n.outs and "weights" not in keys and any(o in rank for o in n.stats):
            ranks[n.outs[0]] = min(rank[o] for o in n.stats if o in rank)
        outs = [",".join(n.outs)] if n.outs else []
        if n.op:  # weights that are frozen from begin to end need no line
            text.append(" ".join([n.op] + outs + ins + [f"{a}={b}" for a, b in keys.items()]))
        gone = drops.get(k, [])
        if k + 1 == rec.returned and returned:
            # a loss behind it is the caller's, who may let go at once of what else there is
            inner = [o for o in gone if o not in returned]
            text += ["drop " + " ".join(inner)] if inner else []
            text.append("return " + " ".join(returned))
            gone = [o for o in gone if o in returned]
        if gone:
            text.append("drop " + " ".join(gone))
        if k + 1 in taken and k + 1 < len(rec.nodes):
            text.append("keep " + " ".join(taken.pop(k + 1)))
    used = set(name_param) | {o for v in plan.values() for o in v} | rec.params_in_modules
    head = [f"# {comment}" for comment in comment.split("\n")] + [
        f"model {re.sub(r'[^A-Za-z0-9_.]', '_', name)} dtype={DTYPES[rec.dtype]}",
        *rules(),
    ]
    for n, t in rec.inputs.items():
        dtype = "model" if t.dtype == rec.dtype else DTYPES[t.dtype]
        head.append(f"input {n} {dtype} {shape_text(t.shape)}" + (" grad=1" if t.requires_grad else ""))
    named = [n.outs[0] for n in rec.nodes if n.outs]
    head += export_units.lines(rec.units, named) + export_units.plan_lines(rec.plan, named, rec.note)
    unused = [n for o, n in params.items() if o not in used]
    if unused:
        rec.note(
            f"{len(unused)} parameters are not used: {', '.join(unused[:3])}{', ...' if len(unused) > 3 else ''}"
        )
    for o in params:
        if o not in used:
            declare(Ref(own=o))
    counted = {
        n.removesuffix("running_mean") + "num_batches_tracked"
        for o, n in rec.buffers.items()
        if o in rec.stats
    }
    for o, n in rec.buffers.items():
        if o not in name_param and o not in rec.stats and n not in counted:
            declare(Ref(own=o))
    text = with_order(text, ranks)
    kept = (rec.outputs if keep else []) + [o for at in taken.values() for o in at]
    if not rec.outputs:
        raise Problem(f"{name}: forward returns no tensor that comes from what it does")
    text.append("output " + " ".join(rec.outputs[:1] if keep and rec.grad else rec.outputs))
    given = [n for n in rec.given if n not in rec.inputs and n not in rec.scalars]
    if rec.train and given and given != rec.outputs:
        text.append("infer " + " ".join(given))  # what there is without the loss
    if kept:
        text.append("keep " + " ".join(kept))
    return "\n".join(head + text) + "\n"


@contextlib.contextmanager
def one_backward(name):
    """gradients that the program goes on with are no forward pass that the text form can say"""

    def refused(*args, **options):
        raise Problem(
            f"{name}: the program takes gradients itself (torch.autograd.grad, a gradient of a gradient), "
            "which the text form has no line for"
        )

    kept, torch.autograd.grad = torch.autograd.grad, refused
    try:
        with export_training.recorded(None):
            yield
    finally:
        torch.autograd.grad = kept


def one_text(loaded, sizes):
    """the text for these sizes, and notes"""
    progress(f"{loaded.name}: running it with {', '.join(f'{n}={v}' for n, v in sizes.items())}")
    with export_quantised.replaced(loaded.module):
        return recorded_text(loaded, sizes)


def recorded_text(loaded, sizes):
    """Whether some of a mask is set: first no (what is asked so is often whether something is wrong), then yes, where the program
    fails without or leaves weights out."""
    answers = Answers()
    try:
        rec = recorded(loaded, sizes, answers)
        known = used(rec)
    except (Problem, DataDependentOutputException, DynamicOutputShapeException):
        raise
    except Exception:
        if not answers.asked:
            raise
        rec, known = None, set()
    if answers.asked and (rec is None or known < rec.params.keys()):
        other = Answers(True)
        try:
            second = recorded(loaded, sizes, other)
            if known < used(second):
                rec, answers = second, other
        except Exception:
            if rec is None:
                raise
    for n in answers.notes:
        rec.note(n)
    return write(rec, loaded.name, loaded.comment, loaded.keep), rec.notes


def used(rec):
    """the parameters that a program uses"""
    return {i.own for n in rec.nodes for i in n.ins if i.own in rec.params} | rec.params_in_modules


def recorded(loaded, sizes, answers):
    module, inputs = loaded.module, loaded.make_inputs(**sizes)
    if export_device.fake_device:
        inputs = to_fake_device(module, inputs)
    counted = export_found.counting(loaded.count)
    with torch.enable_grad() if module.training else torch.no_grad(), answers, one_backward(
        loaded.name
    ), counted:
        with torch.backends.cudnn.flags(enabled=not export_device.fake_device):
            return one_program(loaded, inputs)


NUMBER = re.compile(r"(?<![A-Za-z0-9_.])-?\d+(?![A-Za-z0-9_.])")


MEASURED = re.compile(r"(saved|workspace|unseen)=[\d,]*$")  # what is in front of bytes of a custom line


class NotProportional(Exception):
    """the name of a dim that numbers do not follow as a product, or what else differs; why: instead of that"""

    why = None


def monomial(values, dims):
    """a number that was values[0] in the first text and values[k] with dim k doubled or so: as a product"""
    text, rest = [], values[0]
    for v, (name, a, b) in zip(values[1:], dims):
        power = 0
        while v != values[0] * b**power // a**power:
            power += 1
            if power > 3:
                raise NotProportional(name)
        if values[0] * b**power % a**power:
            raise NotProportional(name)
        text += [(name, a)] * power
    for _, a in text:
        if rest % a:  # 64 tokens and N = 128: N/2
            return (
                "*".join(n for n, _ in text) + f"/{math.prod(a for _, a in text) // values[0]}"
                if (math.prod(a for _, a in text) % values[0] == 0)
                else fail_monomial(text[0][0])
            )
        rest //= a
    return "*".join(n for n, _ in text) + (f"*{rest}" if rest != 1 else "")


def bound(values, dims):
    """measured bytes as a product: the same at the defaults, and not less when a dim grows"""
    text, product = [], 1
    for v, (name, a, b) in zip(values[1:], dims):
        power = 0
        while values[0] * b**power < v * a**power:
            power += 1
        text += [name] * power
        product *= a**power
    return "*".join(text + [str(-(-values[0] // product))])


def fail_monomial(name):
    raise NotProportional(name)


def merge(texts, dims, defaults={}):
    """One text with dims for numbers that follow them. texts[0]: all dims at their default, texts[k]:
    dim k - 1 at another value. dims: name, default, other value."""
    lines = [t.split("\n") for t in texts]
    if len({len(t) for t in lines}) > 1:
        raise NotProportional("the number of operations")
    out = []
    for row in zip(*lines):
        if len(set(row)) == 1 or row[0].startswith("#"):
            out.append(row[0])
            continue
        parts = [NUMBER.split(r) for r in row]
        if any(p != parts[0] for p in parts[1:]):
            raise NotProportional("the operation " + row[0].split(" ")[0])
        numbers = list(zip(*[[int(v) for v in NUMBER.findall(r)] for r in row]))
        words, before = [], ""
        for v, part in zip(numbers, parts[0]):
            before += part
            measured = row[0].startswith("custom ") and MEASURED.search(before)
            product = bound if measured else monomial
            words.append(str(v[0]) if len(set(v)) == 1 else product(v, dims))
            before += str(v[0])
        out.append("".join(a + b for a, b in zip(parts[0], words + [""])))
    at = 1 + max(i for i, l in enumerate(out) if l.startswith(("model ", "rules ")))
    out.insert(at, "dim " + " ".join(f"{n}={defaults.get(n, a)}" for n, a, _ in dims))
    return "\n".join(out)


def condensed(notes):
    """notes that differ in numbers alone (layers of a kind) as one"""
    kinds = {}
    for n in notes:
        kinds.setdefault(re.sub(r"\d+", "0", n), []).append(n)
    return [k[0] + (f" (and {len(k) - 1} more like this)" if len(k) > 1 else "") for k in kinds.values()]


def grown_text(loaded, sizes, name):
    """the text with that dim at another value, if the module runs with it"""
    try:
        return one_text(loaded, sizes)[0]
    except (Problem, DataDependentOutputException, DynamicOutputShapeException):
        raise
    except Exception as e:
        refused = NotProportional(name)
        refused.why = f"the module does not run with {name}={sizes[name]} ({one_line(e)})"
        raise refused from e


def export(loaded):
    """The text form of a Loaded, and notes on what it cannot say. make_inputs is called with every dim at its
    default, and with each at twice that, to see which numbers follow it."""
    default = dict(loaded.dims)
    one = lambda **sizes: one_text(loaded, {**default, **sizes})
    dims = [(n, a, 2 * a) for n, a in loaded.dims]
    text, notes = one()
    while dims:
        try:
            grown = [grown_text(loaded, {**default, n: b}, n) for n, _, b in dims]
            return merge([text] + grown, dims, dict(loaded.dims)), [*loaded.notes, *condensed(notes)]
        except NotProportional as e:
            n, a, b = gone = next((d for d in dims if d[0] == str(e)), dims[-1])
            if (
                a == 1 and n not in loaded.ones and not e.why
            ):  # axes of one element are left out of some copies and sums
                default[n], dims[dims.index(gone)] = 2, (n, 2, 4)
                text, notes = one()
                notes.append(f"{n}=1 runs other operations; the text is that of {n}=2 and more")
                continue
            why = e.why or f"{e} does not follow it as a product"
            notes.append(f"{n} stays a number: {why}")
            dims.remove(gone)
    return text, [*loaded.notes, *condensed(notes)]
