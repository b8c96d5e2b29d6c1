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

import argparse, ast, contextlib, logging, os, signal, sys, time, warnings

PROGRAM = os.path.basename(sys.argv[0])  # export_torch.py, or vram-export where it is installed
SAYS = PROGRAM.removesuffix(".py") + ":"

try:
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
except ImportError as e:
    sys.exit(print(SAYS, f"needs PyTorch: pip install torch ({e})", file=sys.stderr) or 2)

import export_generate
from export_answers import Answers
from export_device import without_memory
from export_rows import Problem, one_line, place, progress
from export_sources import load
from export_text import export

EXAMPLES = f"""  {PROGRAM} torchvision:resnet50 | vram estimate - --train adamw --batch 64
  {PROGRAM} timm:vit_small_patch16_224 -o vit.vram
  {PROGRAM} hf:config.json --seq 2048 -o llama.vram
    (config.json as in every repository of transformers models)
  {PROGRAM} train.py:example -o mine.vram
    (def example(): return MyModule(), {{"x": torch.zeros(2, 3, 64, 64)}})"""


def setting(text):
    """NAME=VALUE of --set, the value as Python writes it, or a string"""
    name, equal, value = text.partition("=")
    if not equal or not name.isidentifier():
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def count(text):
    if not text.isdigit() or not 0 < int(text) < 1 << 31:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1, found {text!r}")
    return int(text)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise Problem(f"{message} (-h lists the options)")


def command_line():
    a = Parser(
        description=__doc__.split("\n\n")[0],
        epilog="examples:\n" + EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    a.add_argument("source", help="torchvision:NAME, timm:NAME, hf:CONFIG.json or FILE.py:FUNCTION")
    a.add_argument("-o", metavar="FILE", help="where the text goes (default: standard output)")
    a.add_argument(
        "--eval", action="store_true", help="the module in evaluation mode, without loss and gradients"
    )
    a.add_argument(
        "--set",
        type=setting,
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an argument of the constructor or of FUNCTION, a field of the configuration; may be given more than once",
    )
    a.add_argument(
        "--batch",
        type=count,
        metavar="N",
        help="the default of dim N (default: 2, or what FUNCTION's inputs have)",
    )
    a.add_argument(
        "--seq", type=count, default=128, metavar="S", help="hf: tokens, the default of dim S (default: 128)"
    )
    a.add_argument(
        "--target-seq",
        type=count,
        metavar="T",
        help="hf: tokens of the decoder, the default of dim T (default: as --seq)",
    )
    a.add_argument(
        "--generate",
        type=export_generate.Generation,
        metavar="prompt=S,new=N",
        help="the steps of a generation, with what lives from one to the next; also cache=static and arguments of transformers' generate(), "
        "as num_beams=4 or do_sample=1,top_k=50",
    )
    a.add_argument("--size", type=count, help="images: pixels a side (default: the model's own)")
    a.add_argument("--frames", type=count, default=16, help="torchvision's videos: frames (default: 16)")
    a.add_argument("--samples", type=count, default=16000, help="hf, audio: samples (default: 16000)")
    a.add_argument(
        "--attn",
        default="sdpa",
        choices=["sdpa", "eager"],
        help="hf: how attention is written (default: sdpa)",
    )
    a.add_argument(
        "--checkpointing",
        choices=["default", "reentrant", "non-reentrant"],
        help="hf and timm: the library's own gradient checkpointing switched on, in its default form or in this one",
    )
    a.add_argument(
        "--keep",
        action="store_true",
        help="the loop keeps all that the module returns until the next step (out = model(...))",
    )
    a.add_argument(
        "--packed",
        action="store_true",
        help="transformers: several sequences lie in a row, or some are padded, so masks are written out (default: neither)",
    )
    a.add_argument(
        "--without",
        metavar="NAME",
        action="append",
        default=[],
        help="hf: an input that is not given, as decoder_input_ids, which a model then makes of its labels; may be given more than once",
    )
    a.add_argument(
        "--count",
        type=count,
        metavar="K",
        help="how many are found where a shape depends on data, as in detectors: nonzero, nms, unique (default: torchvision's "
        "detectors 512, else it is refused)",
    )
    a.add_argument(
        "--real",
        action="store_true",
        help="run with real tensors on the CPU (default: tensors without memory)",
    )
    a.add_argument("--debug", action="store_true", help="a traceback where it fails")
    return a


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
