"""Models: names, paths and texts for the command; PyTorch's modules by the tools that are installed with this package."""

from __future__ import annotations

import functools
import io
import os
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ._errors import VramError
from ._library import OTHER, command
from ._options import words
from ._report import Fields

if TYPE_CHECKING:
    import torch

    Model = Union[str, "os.PathLike[str]", torch.nn.Module]
    Inputs = Union[torch.Tensor, Sequence[torch.Tensor], Mapping[str, torch.Tensor], None]
    Forward = Callable[..., Any]

TOOLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_tools")


class ModelText(str):
    """A model in the text form; notes: what it cannot say of the module."""

    notes: List[str]

    def __new__(cls, text: str, notes: Sequence[str] = ()) -> "ModelText":
        self = super().__new__(cls, text)
        self.notes = list(notes)
        return self


def is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def source_of(
    model: "Model", inputs: "Inputs", forward: "Optional[Forward]", train: bool
) -> Tuple[str, Optional[str], List[str]]:
    """the MODEL of a command, its standard input, notes"""
    if is_module(model):
        text = export(model, inputs, forward=forward, train=train)
        return "-", str(text), text.notes
    if not isinstance(model, (str, os.PathLike)):
        raise VramError(f"expected a name, a path, a text or a torch.nn.Module, found {type(model).__name__}")
    if inputs is not None or forward is not None:
        raise VramError("inputs and forward belong to a torch.nn.Module; a text or file has its own")
    source = os.fspath(model)
    if "\n" in source:
        return "-", source, list(getattr(model, "notes", ()))
    return source, None, []


def tools() -> None:
    """the exporter's files, which import each other by their names, are found"""
    if TOOLS not in sys.path:
        sys.path.append(TOOLS)
    try:
        import torch  # noqa: F401
    except ImportError as e:
        raise VramError(f"a torch.nn.Module needs PyTorch: pip install torch ({e})", OTHER) from e
    import export_command

    export_command.inside = lambda given, text=None: command(*given, input=text)


class Restored:
    """a module that is run without memory is afterwards as it was"""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __enter__(self) -> None:
        self.kept = [(m, dict(vars(m)), dict(m._parameters), dict(m._buffers)) for m in self.module.modules()]

    def __exit__(self, *why: Any) -> None:
        for m, own, parameters, buffers in self.kept:
            vars(m).clear()
            vars(m).update(own)
            for now, before in ((m._parameters, parameters), (m._buffers, buffers)):
                now.clear()
                now.update(before)
                for t in before.values():
                    if t is not None:
                        t.__dict__.pop("vram_moved", None)


def export(
    model: "Union[str, os.PathLike[str], torch.nn.Module]",
    inputs: "Inputs" = None,
    *,
    forward: "Optional[Forward]" = None,
    train: bool = True,
    name: Optional[str] = None,
    **options: Any,
) -> ModelText:
    """The text form of a PyTorch module, of one forward pass without memory; any command takes it, without PyTorch, too.

    model, inputs   a module and what it is called with (a tensor, a tuple, a dict by name), or a source of `vram-export`:
                    "torchvision:resnet50", "timm:NAME", "hf:CONFIG.json", "train.py:FUNCTION"
    forward         forward(model, **inputs) gives the loss (default: what the module returns)
    train           up to the loss; False: in evaluation mode
    options         of vram-export: batch, seq, size, keep, count, attn, checkpointing
    """
    tools()
    from export_torch import Problem, export as write, load, without_memory
    from export_rows import one_line, place

    if not is_module(model):
        if inputs is not None or forward is not None:
            raise VramError("inputs and forward belong to a torch.nn.Module; a source has its own")
        try:
            with without_memory():
                return ModelText(*write(load(os.fspath(model), train, **options)))  # type: ignore[arg-type]
        except Problem as e:
            raise VramError(str(e)) from e
    if inputs is None:
        raise VramError("a torch.nn.Module needs inputs: a tensor, a tuple, or a dict by name")
    label = name or type(model).__name__
    run = None if forward is None else functools.partial(forward, model)
    try:
        with Restored(model), without_memory():
            loaded = load(label, train, objects=(model, inputs, run), **options)
            return ModelText(*write(loaded))
    except Problem as e:
        raise VramError(str(e)) from e
    except Exception as e:
        inner = e.__traceback__ and e.__traceback__.tb_next  # without this line of ours
        raise VramError(f"{label}: {one_line(e)}{place(e.with_traceback(inner))}") from e


class Measured(Fields):
    """What was measured beside the estimate. figures: rows of figure, measured, estimated, difference; bounds: of what lies
    between lower and upper, held; events: allocations of each phase that are equal in order; text: the table."""

    def __init__(self, record: Mapping[str, Any], compared: Mapping[str, Any], text: str) -> None:
        super().__init__(compared)
        self.record = record
        self.text = text

    @property
    def held(self) -> bool:
        """No bound is broken."""
        return all(b["held"] for b in self._values["bounds"])

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<vram.Measured of {self._values['source']}, {'bounds hold' if self.held else 'a bound is broken'}>"


def measure(
    model: "Union[str, os.PathLike[str], torch.nn.Module]",
    inputs: "Inputs" = None,
    *,
    forward: "Optional[Forward]" = None,
    optimizer: Optional[str] = None,
    amp: Optional[str] = None,
    **options: Any,
) -> Measured:
    """Runs training steps (with `optimizer`; else inference) on the CUDA device that is there, and compares what PyTorch's counters
    and memory history say with the estimate, allocation by allocation: `vram-measure`. Other options are those of
    `vram-measure -h`: dtype="bf16", accumulate=4, step="first". A module goes to the device, and learns.
    """
    tools()
    import measure_torch as m

    given = words({"train": optimizer, "amp": amp, **options})
    label = type(model).__name__ if is_module(model) else os.fspath(model)  # type: ignore[arg-type]
    def refuse(message: str) -> None:
        raise VramError(f"vram.measure: {message}")

    parser = m.arguments()
    parser.error = refuse
    try:
        o = parser.parse_args([label, *given])
        m.check(o)
        m.on_device()
        if is_module(model):
            text = export(model, inputs, forward=forward, train=bool(o.train), keep=o.keep)
            run = None if forward is None else functools.partial(forward, model)
            from export_torch import load

            loaded = load(label, bool(o.train), o.batch, keep=o.keep, objects=(model, inputs, run))
            record = m.measured(o, loaded, dict(loaded.dims), str(text), text.notes)
        else:
            exported = export(label, **m.loading(o))
            record = m.measure(o, lambda o: (str(exported), exported.notes))
        compared = m.compare(record, *m.estimate(record))
    except m.Problem as e:
        raise VramError(str(e)) from e
    table = io.StringIO()
    m.print_table(compared, table)
    return Measured(record, compared, table.getvalue())


def script(module: str, name: str) -> None:
    """a tool as a console script beside the command"""
    tools()
    # a tool that runs another one as a program
    os.environ.setdefault("VRAM", os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])), "vram"))
    if sys.argv[1:] == ["--version"]:
        from ._version import __version__

        print(name, __version__)
        return
    __import__(module).main()


def export_main() -> None:
    script("export_torch", "vram-export")


def measure_main() -> None:
    script("measure_torch", "vram-measure")


def checkpoint_main() -> None:
    script("checkpoint_torch", "vram-checkpoint")
