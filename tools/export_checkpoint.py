"""Calls of torch.utils.checkpoint as blocks of the text form: lines `checkpoint NAMES KEYS` and `end NAMES` around what they run.

Every way to such a call (checkpoint itself under any name, checkpoint_sequential, transformers' and timm's own functions, wrappers)
ends in one of two places of torch.utils.checkpoint: CheckpointFunction.apply with reentrance, and without it a generator that is
asked before and behind the function. What they do beside running the function is left out here: the block says it.
"""

import contextlib, functools, inspect, sys

import torch, torch.utils.checkpoint as source

from torch.utils._pytree import tree_leaves

from export_rows import Node, Problem, Ref, one_line, shape_text

GENERATORS = ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")


def names_of(rec, tensors):
    """what the program's own tensors among these are called, each once"""
    names = (rec.names.get(id(t)) for t in tensors if isinstance(t, torch.Tensor) and rec.on_device(t))
    return list(dict.fromkeys(n for n in names if n))


def held(function):
    """what a function refers to beside its arguments: arguments that are bound to it, variables around it"""
    found = []
    while isinstance(function, functools.partial):
        found += [function.args, function.keywords]
        function = function.func
    function = getattr(function, "__func__", function)
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # one that is empty
            found.append(cell.cell_contents)
    return tree_leaves(found)


def begin(rec, function, args, kwargs, keys):
    """the line that opens a block"""
    names = names_of(rec, args)
    beside = [n for n in names_of(rec, tree_leaves([args, kwargs]) + held(function)) if n not in names]
    node = Node(
        "checkpoint", [], [Ref(n) for n in names + beside], {k: v for k, v in keys.items() if v is not None}
    )
    node.held = len(beside)
    rec.nodes.append(node)


def end(rec, start, outputs=()):
    """The line that closes the block whose first line is node `start`; outputs are named as far as the block makes them. A block
    without lines is none."""
    made = {name for n in rec.nodes[start + 1 :] for name in n.outs}
    if made:
        rec.nodes.append(Node("end", [], [Ref(n) for n in names_of(rec, outputs) if n in made], {}))
    else:
        del rec.nodes[start]


def reentrant(rec, function, preserve, *args):
    """CheckpointFunction.apply"""
    start = len(rec.nodes)
    begin(rec, function, args, {}, {"reentrant": 1, "preserve_rng_state": None if preserve else 0})
    lost = torch.is_grad_enabled() and not any(isinstance(t, torch.Tensor) and t.requires_grad for t in args)
    grad, rec.grad = rec.grad, rec.grad and not lost
    with torch.no_grad() if lost else contextlib.nullcontext():  # what needs a gradient in there gets none
        r = function(*args)
    rec.grad = grad
    outputs = list(r) if isinstance(r, tuple) else [r]
    if any(
        t.requires_grad
        for t in tree_leaves([o for o in outputs if not isinstance(o, torch.Tensor)])
        if isinstance(t, torch.Tensor)
    ):
        rec.note(
            "a reentrant checkpoint gives tensors in a structure: PyTorch keeps no gradient of them, the text does"
        )
    for k, t in enumerate(outputs):  # an argument that is handed on becomes a tensor of its own
        if (
            any(t is a for a in args)
            and isinstance(t, torch.Tensor)
            and t.is_floating_point()
            and rec.on_device(t)
        ):
            rec.unit += 1
            outputs[k] = rec.same(t)
            rec.unit -= 1
            rec.emit("expand", [t], outputs[k], {"shape": shape_text(t.shape)}, name="alias")
    end(rec, start, outputs)
    return tuple(outputs) if isinstance(r, tuple) else outputs[0]


def generator(rec, original):
    """the generator in the place of `original`"""
    signature = inspect.signature(original)

    def without_reentrance(*given, **named):
        bound = signature.bind(*given, **named)
        bound.apply_defaults()
        a = bound.arguments
        early = getattr(source, "_enable_checkpoint_early_stop", None)
        early = a.get("early_stop", True) if early is None else early
        if a["context_fn"] is not source.noop_context_fn:
            raise Problem(
                "a checkpoint with a context_fn (selective checkpointing) keeps what the text form has no line for; "
                "without it the module can be exported"
            )
        start = len(rec.nodes)
        function = a.get("fn", a.get("function"))
        begin(
            rec,
            function,
            a["args"],
            a["kwargs"],
            {
                "preserve_rng_state": None if a["preserve_rng_state"] else 0,
                "early_stop": None if early else 0,
            },
        )
        yield
        end(rec, start)

    return without_reentrance


@contextlib.contextmanager
def recorded(rec):
    """calls without reentrance are recorded in here; those with it come by torch.autograd.Function.apply"""
    name = next(n for n in GENERATORS if hasattr(source, n))
    original = getattr(source, name)
    setattr(source, name, generator(rec, original))
    try:
        yield
    finally:
        setattr(source, name, original)


def is_call(cls):
    return cls is source.CheckpointFunction


def switch_on(module, origin, form):
    """what transformers and timm call gradient checkpointing; form: default, reentrant or non-reentrant"""
    wanted = {} if form == "default" else {"use_reentrant": form == "reentrant"}
    try:
        if hasattr(module, "activation_checkpointing_enable"):
            module.activation_checkpointing_enable(activation_checkpointing_kwargs=wanted or None)
        elif hasattr(module, "gradient_checkpointing_enable"):
            module.gradient_checkpointing_enable(gradient_checkpointing_kwargs=wanted or None)
        elif hasattr(module, "set_grad_checkpointing"):
            if wanted:
                sys.modules["timm.layers"].set_reentrant_ckpt(wanted["use_reentrant"])
            module.set_grad_checkpointing(True)
        else:
            raise Problem(f"{origin}: {type(module).__name__} has no gradient checkpointing to switch on")
    except (AssertionError, AttributeError, KeyError, ValueError) as e:
        raise Problem(f"{origin}: gradient checkpointing: {one_line(e)}")
