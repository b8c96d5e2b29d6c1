"""One forward pass of a program under the recorder: what of PyTorch is watched while it runs, and what lives when it ends."""

import contextlib, gc, weakref

import torch, torch.nn as nn, torch.nn.functional as F
import torch.functional, torch._tensor

import export_checkpoint, export_device, export_native, export_quantised, export_training
from export_device import autocast
from export_recorder import Recorder, Same
from export_rows import NAMED_LIKE_MODULE, Node, Problem, RNN


@contextlib.contextmanager
def no_hooks_of_its_own(rec):
    """a program that has saved tensors packed its own way keeps what the text form has no line for"""
    hooks = torch.autograd.graph.saved_tensors_hooks
    kept = hooks.__enter__

    def refused(self):
        if rec.unit:
            return kept(self)
        raise Problem(
            f"the forward pass packs saved tensors its own way ({type(self).__name__}), which the text form has no line for"
        )

    hooks.__enter__ = refused
    try:
        yield
    finally:
        hooks.__enter__ = kept


class Past:
    """Tensors that an earlier pass left alive (a module or a hook keeps them from step to step), and when this pass lets go of
    them: that is where it keeps others instead."""

    def __init__(self, rec, inputs):
        self.died = {}  # shape and dtype: numbers of nodes
        known = {id(t) for t in [*rec.tensors.values(), *inputs.values()]}
        self.refs = [
            weakref.ref(t, self.gone(rec, (t.shape, t.dtype)))
            for t in gc.get_objects()
            if issubclass(type(t), torch.Tensor) and id(t) not in known and rec.on_device(t)
        ]

    def gone(self, rec, kind):
        return lambda _: self.died.setdefault(kind, []).append(len(rec.nodes))

    def places(self, kept):
        """{name: number of nodes} for (name, tensor) in the order in which they were made"""
        found = {}
        for name, t in kept:
            if self.died.get((t.shape, t.dtype)):
                found[name] = self.died[t.shape, t.dtype].pop(0)
        return found


@contextlib.contextmanager
def attributes(*changes):
    """(object, name, value): as they say, and afterwards as they were"""
    before = [(o, n, vars(o).get(n), n in vars(o)) for o, n, _ in changes]
    try:
        for o, n, value in changes:
            setattr(o, n, value)
        yield
    finally:
        for o, n, value, own in before:
            setattr(o, n, value) if own else delattr(o, n)


def calls_that_a_mode_sees():
    """functions of torch that would hand their call on whole make those that they consist of"""
    return [
        (m, n, lambda *args, **kwargs: False)
        for m in (F, torch.functional, torch._tensor)
        for n in ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
        if hasattr(m, n)
    ]


class Ended(Exception):
    """a generation has run as many steps as were asked for"""


def begin_step(rec):
    """a call of the module in a loop that generates: a step begins"""
    if sum(n.op == "decode" for n in rec.nodes) == rec.steps:
        raise Ended
    rec.nodes.append(Node("decode", [], [], {}))


def called(rec, module):
    """nn.Module.__call__ that knows the path of what runs; some modules are one line"""
    call = nn.Module.__call__

    def as_one(m, args, kwargs):
        rec.unit += 1
        try:
            return call(m, *args, **kwargs)
        finally:
            rec.unit -= 1

    def by_kind(m, args, kwargs):
        if isinstance(m, (nn.RNNBase, nn.RNNCellBase)) and rec.computes_weights(m):
            return call(m, *args, **kwargs)  # a cell: what it calls has the weights
        if type(m).__name__ in RNN and type(m).__module__.startswith("torch.nn.") and not rec.unit:
            r = as_one(m, args, kwargs)
            rec.recurrent(m, args, kwargs, r)
            return r
        words = export_native.line(rec, m, module, args, kwargs)
        if words:
            r = as_one(m, args, kwargs)
            export_native.recorded(rec, m, words, r)
            return r
        r = call(m, *args, **kwargs)
        if m is module:
            rec.gave(r)
        return r

    def hooked(m, *args, **kwargs):
        if m is module and rec.steps:
            begin_step(rec)
        rec.paths.append(rec.path_of.get(id(m), rec.paths[-1]))
        rec.leaf_flags.append(
            not any(True for _ in m.children()) and type(m).__module__.startswith(NAMED_LIKE_MODULE)
        )
        try:
            return by_kind(m, args, kwargs)
        finally:
            rec.paths.pop()
            rec.leaf_flags.pop()

    return (nn.Module, "__call__", hooked)


def kept_by_modules(rec):
    """nn.Module.__setattr__ that knows which values modules keep"""
    setattr_of = nn.Module.__setattr__

    def keeping(m, name, value):
        setattr_of(m, name, value)
        if isinstance(value, torch.Tensor) and id(value) in rec.names:
            of_value = rec.names[id(value)]
            rec.assigned[of_value] = len(rec.nodes)
            rec.attributes.setdefault((id(m), name), []).append(of_value)

    return (nn.Module, "__setattr__", keeping)


def functions_of_its_own(rec):
    """autograd.Function.apply: each call of a program's own is a line"""
    apply = vars(torch.autograd.Function)["apply"]

    def seen(cls, *args, **kwargs):
        call = apply.__get__(None, cls)
        if rec.unit or cls is Same:
            return call(*args, **kwargs)
        if export_checkpoint.is_call(cls):
            return export_checkpoint.reentrant(rec, *args)
        rec.unit += 1
        try:
            r = call(*args, **kwargs)
        finally:
            rec.unit -= 1
        rec.custom(cls.__name__, call, args, kwargs, r, "an autograd function of the program's own")
        return r

    return (torch.autograd.Function, "apply", classmethod(seen))


@contextlib.contextmanager
def recorded(rec, module):
    """what runs is written by the recorder; lifetimes are those of the program alone"""
    changes = [
        *calls_that_a_mode_sees(),
        called(rec, module),
        kept_by_modules(rec),
        functions_of_its_own(rec),
    ]
    with contextlib.ExitStack() as stack:
        stack.callback(gc.enable)
        gc.disable()
        for c in (
            attributes(*changes),
            torch.autograd.graph.saved_tensors_hooks(lambda t: None, lambda t: t),  # which keep nothing alive
            export_checkpoint.recorded(rec),
            export_quantised.recorded(rec),
            export_training.recorded(rec),
            autocast(rec.device, rec.amp),
            torch.backends.cudnn.flags(enabled=not export_device.fake_device),
            rec,
            no_hooks_of_its_own(rec),
        ):
            stack.enter_context(c)
        yield


def tensors_in(o, depth=0):
    """what a result consists of; also in objects, as a cache of keys and values is one"""
    if isinstance(o, torch.Tensor):
        yield o
    elif isinstance(o, (dict, tuple, list)):
        for v in o.values() if isinstance(o, dict) else o:
            yield from tensors_in(v, depth + 1)
    elif depth < 8 and hasattr(o, "__dict__") and not isinstance(o, (type, nn.Module)):
        yield from tensors_in(vars(o), depth + 1)


def ended(rec, out, past):
    """the recorder learns what the program gives, and what it keeps beside that"""
    results = list(tensors_in(out))
    rec.outputs = list(dict.fromkeys(rec.names[id(t)] for t in results if id(t) in rec.names))
    rec.end = len(rec.nodes)
    alive = {n for e in rec.death.values() for n in e} - set(rec.outputs)
    alive -= rec.leaves - set(rec.assigned)  # the graph holds them, too: nobody sees when the program lets go
    rec.kept = alive - {n for t in results for n in rec.death.get(id(t), [])}
    for n in sorted(rec.kept):
        rec.note(f"{n} outlives the forward pass (kept by the module)")
    made = {id(t): t for t in (r() for r in rec.refs) if t is not None}
    stays = [(n, made[i]) for i, names in rec.death.items() if i in made for n in names if n in rec.kept]
    order = {o: k for k, n in enumerate(rec.nodes) for o in n.outs}
    stays.sort(key=lambda s: order.get(s[0], 0))
    rec.assigned = past.places(stays) | rec.assigned
    for values in rec.attributes.values():
        if values[-1] in rec.kept:
            rec.instead |= {b: a for a, b in zip(values, values[1:]) if gave_way(rec, a, b)}


def gave_way(rec, a, b):
    """whether an attribute held a until it took b: what the step before left there went where a came"""
    return rec.dead.get(a) == rec.assigned[b] > rec.assigned[a] and a not in rec.leaves


def run(module, forward, inputs, amp=None, steps=0):
    """one forward pass, or so many steps of a loop around it; gives its recorder"""
    rec = Recorder(module, inputs, amp)
    rec.steps = steps
    gc.collect()
    past = Past(rec, inputs)
    with recorded(rec, module):
        out = None
        with contextlib.suppress(Ended):
            out = forward(**inputs)
    ended(rec, out, past)
    return rec
