"""Calls of torch.utils.checkpoint as blocks of the text form: lines `checkpoint NAMES KEYS` and `end NAMES` around what they run.

Every way to such a call (checkpoint itself under any name, checkpoint_sequential, transformers' and timm's own functions, wrappers)
ends in one of two places of torch.utils.checkpoint: CheckpointFunction.apply with reentrance, and without it a generator that is
asked before and behind the function. What they do beside running the function is left out here: the block says it.
"""

import contextlib, inspect

import torch, torch.utils.checkpoint as source

from export_rows import Node, Ref

GENERATORS = ("_checkpoint_without_reentrant_generator_impl", "_checkpoint_without_reentrant_generator")


def begin(rec, args, keys):
    """the line that opens a block; its names are tensors among the arguments that the program made, each once"""
    names = dict.fromkeys(rec.names.get(id(t)) for t in args if isinstance(t, torch.Tensor) and rec.on_device(t))
    rec.nodes.append(Node("checkpoint", [], [Ref(n) for n in names if n], {k: v for k, v in keys.items() if v is not None}))


def end(rec, start, outputs=()):
    """The line that closes the block whose first line is node `start`. outputs: what the call gives; those that it makes are named. A
    block without lines is none."""
    inside = rec.nodes[start + 1 :]
    if not inside:
        del rec.nodes[start]
        return
    made = {name for n in inside for name in n.outs}
    names = dict.fromkeys(rec.names.get(id(t)) for t in outputs if isinstance(t, torch.Tensor))
    if any(isinstance(t, torch.Tensor) and t.requires_grad and rec.names.get(id(t)) not in made for t in outputs):
        rec.note("a reentrant checkpoint hands on its argument: its gradient is written as that of the argument")
    rec.nodes.append(Node("end", [], [Ref(n) for n in names if n in made], {}))


def reentrant(rec, function, preserve, *args):
    """CheckpointFunction.apply"""
    start = len(rec.nodes)
    begin(rec, args, {"reentrant": 1, "preserve_rng_state": None if preserve else 0})
    r = function(*args)
    outputs = r if isinstance(r, tuple) else (r,)
    if any(not isinstance(t, torch.Tensor) and not_alone(t) for t in outputs):
        rec.note("a reentrant checkpoint gives tensors in a structure: PyTorch keeps no gradient of them, the text does")
    end(rec, start, outputs)
    return r


def not_alone(o):
    """whether there are tensors in a structure"""
    return any(isinstance(t, torch.Tensor) for t in torch.utils._pytree.tree_leaves(o))


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
            rec.note("a checkpoint with a context_fn (selective checkpointing): what that keeps is written as computed again")
        start = len(rec.nodes)
        begin(rec, a["args"], {"preserve_rng_state": None if a["preserve_rng_state"] else 0, "early_stop": None if early else 0})
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
