"""A module whose forward is a whole training step: backward, zero_grad and step become lines, and do nothing else; weights that
are frozen for a part of it become `freeze` and `unfreeze` lines.

What they leave is not there while the step is recorded: `.grad` stays None."""

import contextlib, re

import torch, torch.cuda.amp.common, torch.nn as nn

from export_rows import Node, Problem, Ref

if not torch.cuda.is_available():  # where there is no GPU autocast("cuda") and GradScaler would do nothing
    torch.cuda.amp.common.amp_definitely_not_available = lambda: False
    torch.cuda.is_bf16_supported = lambda *args, **options: True


def subclasses(cls):
    for c in cls.__subclasses__():
        yield c
        yield from subclasses(c)


def moved(p):
    """the parameter that stands for the one that an optimizer was given"""
    while hasattr(p, "vram_moved"):
        p = p.vram_moved
    return p


def names_of(rec, params):
    """the shortest names of modules that have these parameters and no others that are trained; none: all"""
    label = lambda name: ("_" if re.match("[^A-Za-z_]", name) else "") + re.sub(r"[^A-Za-z0-9_./]", "_", name)
    trained = {i: label(n) for i, n in rec.params.items() if rec.tensors[i].requires_grad}
    own = {trained[id(p)] for p in map(moved, params) if id(p) in trained}
    others = set(trained.values()) - own
    found = []
    for name in sorted(own) if others else ():
        parts = name.split(".")
        ways = [".".join(parts[: k + 1]) for k in range(len(parts))]
        inside = lambda n, way: n == way or n.startswith(way + ".")
        way = next(w for w in ways if not any(inside(o, w) for o in others))
        if way == name and len(parts) > 1:  # a line owns several
            rec.note(f"{name} and not all parameters of its module are meant by a line; the text says all")
            way = ".".join(parts[:-1])
        found.append(way)
    return [Ref(n) for n in dict.fromkeys(found)]


def toggled(rec, p):
    """p.requires_grad has another value now"""
    op = "unfreeze" if p.requires_grad else "freeze"
    if not (rec.nodes and rec.nodes[-1] is rec.frozen[-1][0] and rec.nodes[-1].op == op):
        rec.nodes.append(Node(op, [], [], {}))
        rec.frozen.append((rec.nodes[-1], []))
    rec.frozen[-1][1].append(p)


def begin_frozen(rec):
    """weights that are frozen at the begin, and perhaps not to the end"""
    frozen = [rec.tensors[i] for i in rec.params if not rec.tensors[i].requires_grad]
    rec.nodes.append(Node("freeze", [], [], {}))
    rec.frozen = [(rec.nodes[-1], frozen)]


def end_frozen(rec):
    """what is frozen for a part of the step is a trainable weight, what is frozen all the time has no lines"""
    free = {id(p) for node, params in rec.frozen for p in params if node.op == "unfreeze"}
    free |= {id(p) for _, params in rec.frozen[1:] for p in params}
    for _, params in rec.frozen:
        params[:] = [p for p in params if id(p) in free]
        for p in params:
            p.requires_grad_(True)
    for node, params in rec.frozen:
        node.ins = names_of(rec, params) if params else []
        node.op = node.op if params else ""


@contextlib.contextmanager
def recorded(rec):
    """rec None: nothing becomes a line"""
    trained = []  # lines and their parameters, some of which may want no gradient at the moment
    scaled = []  # what GradScaler gave, which is what it was given

    def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
        if create_graph:
            raise Problem(
                "backward(create_graph=True): a gradient of a gradient, which the text form has no line for"
            )
        if inputs is not None or grad_tensors is not None and any(g is not None for g in grad_tensors):
            raise Problem("backward(inputs= or gradient=): the text form has backward of a loss alone")
        for t in ([tensors] if isinstance(tensors, torch.Tensor) else tensors) if rec else ():
            keys = {"retain": 1} if retain_graph else {}
            if any(t is s for s in scaled):
                keys["scale"] = 1
            rec.nodes.append(Node("backward", [], [rec.ref(t)], keys))
        scaled.clear()

    def scale(self, outputs):
        if self.is_enabled() and rec:
            scaled.extend(t for t in torch.utils._pytree.tree_leaves(outputs) if isinstance(t, torch.Tensor))
        return outputs

    def update(self, new_scale=None):
        if self.is_enabled() and rec:
            rec.nodes.append(Node("update", [], [], {}))

    def line(op, params):
        if rec:
            rec.nodes.append(Node(op, [], [], {}))
            trained.append((rec.nodes[-1], params))

    def optimizer(op):
        def call(self, *args, **options):
            line(op, [p for g in self.param_groups for p in g["params"]])

        return call

    def module_zero_grad(self, set_to_none=True):
        line("zero_grad", list(self.parameters()))

    clip_grad_norm = nn.utils.clip_grad_norm_

    def clip(*args, **options):
        if rec:
            rec.note(
                "clip_grad_norm_ is no line: --clip-grad-norm of vram estimate has it for every step line"
            )
        return clip_grad_norm(*args, **options)

    changes = [(torch.autograd, "backward", backward), (nn.Module, "zero_grad", module_zero_grad)]
    changes += [(torch.amp.GradScaler, "scale", scale), (torch.amp.GradScaler, "update", update)]
    changes.append((torch.amp.GradScaler, "unscale_", lambda self, optimizer: None))
    changes.append((torch.amp.GradScaler, "step", lambda self, optimizer, *a, **k: optimizer.step(*a, **k)))
    changes.append((nn.utils, "clip_grad_norm_", clip))
    changes.append((torch.optim.Optimizer, "zero_grad", optimizer("zero_grad")))
    changes += [
        (c, "step", optimizer("step")) for c in set(subclasses(torch.optim.Optimizer)) if "step" in vars(c)
    ]
    kept = [(of, name, vars(of)[name]) for of, name, _ in changes]
    for of, name, to in changes:
        setattr(of, name, to)
    if rec:
        begin_frozen(rec)
    try:
        yield
    finally:
        for of, name, was in kept:
            setattr(of, name, was)
    if rec:
        end_frozen(rec)
    for node, params in trained:
        node.ins = names_of(rec, params)
