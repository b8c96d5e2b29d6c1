#!/usr/bin/env python3
"""Turns a PyTorch module into the text form of vram.h, by running one forward pass without memory.

As a module of Python:
    with without_memory():                          # or on a device, with real tensors
        loaded = load("timm:vit_small_patch16_224")  # or Loaded(module, make_inputs, forward, name, dims)
        text, notes = export(loaded)
load() and export() raise Problem, whose text is one line for the user. Loaded: module, make_inputs(N=2, ...) gives a dict of
tensors on the CPU, forward(**these) runs the module (in training up to the loss), name, dims: ((name, default), ...).

How it works. A TorchFunctionMode sees every call of a torch function below torch.nn.functional; each becomes a line, named after
the module that calls. This is the eager program itself and not a graph of torch.export, because only the program has in-place
operations where they happen, its own lifetimes and its conversions, and because models run here that torch.export rejects.
A value's `drop` line comes from the moment when Python lets go of the tensor (weak references). A second run under bf16 autocast
tells conversions to a fixed type (`to`) from conversions to another tensor's type (`type_as`). Running once more with each dim
doubled tells which numbers follow it. Parameters that one op alone uses belong to that op; shared ones are named with `weights=`,
others become `parameter` lines. Nothing is dropped silently: `notes` lists what the text form cannot say.
"""

import contextlib, logging, os, signal, sys, time, warnings

from export_options import SAYS, Problem, command_line, early

early()
try:
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
except ImportError as e:
    sys.exit(print(SAYS, f"needs PyTorch: pip install torch ({e})", file=sys.stderr) or 2)

import export_generate
from export_answers import Answers
from export_device import without_memory
from export_rows import one_line, place, progress
from export_sources import load
from export_text import export


def loaded_text(o, real):
    try:
        return exported_text(o, real)
    except SystemExit as e:  # of the user's file, or of what it calls
        raise Problem(f"{o.source}: the program ends itself, exit({e.code!r}){place(e)}")


def exported_text(o, real):
    with contextlib.nullcontext() if real else without_memory():
        return (export_generate.export if o.generate else export)(
            load(
                o.source,
                not o.eval and not o.generate,
                o.batch,
                o.seq,
                o.size,
                o.frames,
                o.attn,
                o.target_seq,
                o.samples,
                dict(o.set),
                o.checkpointing,
                o.keep,
                o.count,
                o.packed,
                o.generate,
                o.without,
            )
        )


def again(o, e):
    """with real tensors, where the answers that tensors without memory give led a program astray"""
    try:
        text, notes = loaded_text(o, True)
    except Exception:
        raise e
    return text, [f"without values the program fails ({one_line(e)}); run with real tensors", *notes]


def command(o):
    folder = os.path.dirname(o.o or "") or "."
    if o.o and (os.path.isdir(o.o) or not os.access(o.o if os.path.exists(o.o) else folder, os.W_OK)):
        raise Problem(f"{o.o}: cannot be written")
    started = time.monotonic()
    progress(f"{o.source}: loading it")
    try:
        text, notes = loaded_text(o, o.real)
    except DynamicOutputShapeException as e:
        if not o.source.startswith("hf:"):
            raise Problem(
                f"{o.source}: a shape depends on data{place(e)}; give the size there as a number, or write a function that returns the part "
                "of the module without it"
            )
        text, notes = loaded_text(o, True)
        notes.insert(0, f"a shape depends on data{place(e)}; run with real tensors, images all of one colour")
    except DataDependentOutputException as e:
        text, notes = loaded_text(o, True)
        notes.insert(
            0,
            f"the program looks at values{place(e)}; run with real tensors, the text is what these values lead to",
        )
    except Problem:
        raise
    except Exception as e:
        if o.real or not Answers.given:
            raise
        text, notes = again(o, e)
    progress()
    for n in notes:
        print("note:", n, file=sys.stderr)
    if o.o and sys.stderr.isatty():
        lines = text.count("\n")
        print(f"{o.o}: {lines} lines in {time.monotonic() - started:.1f} s", file=sys.stderr)
    if not o.o:
        sys.stdout.write(text)
        return
    try:
        with open(o.o, "w") as f:
            f.write(text)
    except OSError as e:
        raise Problem(f"{o.o}: {e.strerror}")


def main():
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # export_torch.py ... | head
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    source = None
    try:
        o = command_line().parse_args()
        source = o.source
        command(o)
    except KeyboardInterrupt:
        progress()
        sys.exit(print(SAYS, "interrupted", file=sys.stderr) or 130)
    except Exception as e:
        if "--debug" in sys.argv:
            raise
        progress()
        sys.exit(
            print(
                SAYS,
                e if isinstance(e, Problem) else f"{source}: {one_line(e)}{place(e)}",
                file=sys.stderr,
            )
            or 2
        )


if __name__ == "__main__":
    main()
