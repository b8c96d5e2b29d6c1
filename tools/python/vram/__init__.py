"""How many bytes a neural network needs on a device, before it runs.

    import vram
    r = vram.estimate("resnet50", optimizer="adamw", batch=64, gpu="rtx4090")
    r.fits, r.peak_requested_bytes, r.phases.backward.requested_peak_bytes
    print(r)                                    # as the command prints it; in a notebook r is a picture

A model is the name of a built-in one, the path of a file (text form, GGUF, safetensors, ONNX, TFLite, config.json), a text in the
text form, or, where PyTorch is installed, a module with its inputs. Options have the names of the command's: `vram estimate -h`,
with _ for -. What the command refuses raises VramError, with its line and its exit status.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any, Mapping, Optional, Union

from ._advice import Advice
from ._errors import VramError
from ._library import Result, Word, command
from ._model import export, measure, source_of
from ._options import words
from ._report import Fields, Report
from ._version import __version__

if TYPE_CHECKING:
    from ._advice import Message
    from ._model import Inputs, Forward, Model

__all__ = [
    "Advice",
    "Fields",
    "Report",
    "Result",
    "VramError",
    "__version__",
    "advise",
    "command",
    "estimate",
    "export",
    "fit",
    "measure",
    "plan",
    "replay",
]


def _step(
    name: str,
    model: "Model",
    inputs: "Inputs",
    forward: "Optional[Forward]",
    optimizer: Optional[str],
    options: Mapping[str, Any],
) -> Report:
    train = optimizer if optimizer is not None else options.get("train")
    path, text, notes = source_of(model, inputs, forward, bool(train) or name == "plan")
    given = {"train": train, **{k: v for k, v in options.items() if k != "train"}}
    return Report([name, path, *words(given)], text, notes)


def estimate(
    model: "Model",
    inputs: "Inputs" = None,
    *,
    forward: "Optional[Forward]" = None,
    optimizer: Optional[str] = None,
    amp: Optional[str] = None,
    batch: Optional[int] = None,
    gpu: Union[str, "list[str]", None] = None,
    budget: Union[str, int, None] = None,
    parallel: Optional[str] = None,
    **options: Any,
) -> Report:
    """The bytes of one step: `vram estimate`.

    model, inputs   a name, path or text; or a torch.nn.Module and what it is called with: a tensor, a tuple, or a dict by name
    forward         of a module: forward(model, **inputs) gives the loss (default: what the module returns)
    optimizer       a training step with this one, `vram list optimizers` (default: inference)
    amp             autocast: "bf16" or "fp16"
    batch           the first dim of the model
    gpu, budget     what it has to fit: `vram list gpus`, "24GiB" or bytes
    parallel        many devices: "fsdp2=8"
    options         all others of `vram estimate -h`: checkpoint="auto", accumulate=4, dim={"S": 4096}, keep_grads=True
    """
    given = {"amp": amp, "batch": batch, "gpu": gpu, "budget": budget, "parallel": parallel, **options}
    return _step("estimate", model, inputs, forward, optimizer, given)


def fit(
    model: "Model",
    inputs: "Inputs" = None,
    *,
    forward: "Optional[Forward]" = None,
    optimizer: Optional[str] = None,
    amp: Optional[str] = None,
    gpu: Union[str, "list[str]", None] = None,
    budget: Union[str, int, None] = None,
    solve: Optional[str] = None,
    **options: Any,
) -> Report:
    """The largest batch, or other dim (`solve="dim:S"`), that fits: `vram fit`. `.value` is it, `.next` does not fit."""
    given = {"amp": amp, "gpu": gpu, "budget": budget, "solve": solve, **options}
    return _step("fit", model, inputs, forward, optimizer, given)


def plan(
    model: "Model",
    inputs: "Inputs" = None,
    *,
    forward: "Optional[Forward]" = None,
    optimizer: Optional[str] = None,
    amp: Optional[str] = None,
    batch: Optional[int] = None,
    gpu: Optional[str] = None,
    budget: Union[str, int, None] = None,
    **options: Any,
) -> Report:
    """What to compute again in backward, to train within a budget: `vram plan`. `.feasible`, `.cost`, `.peak_bytes`."""
    given = {"amp": amp, "batch": batch, "gpu": gpu, "budget": budget, **options}
    return _step("plan", model, inputs, forward, optimizer, given)


def advise(
    model: "Optional[Model]" = None,
    inputs: "Inputs" = None,
    *,
    message: "Optional[Message]" = None,
    forward: "Optional[Forward]" = None,
    optimizer: Optional[str] = None,
    amp: Optional[str] = None,
    batch: Optional[int] = None,
    gpu: Optional[str] = None,
    budget: Union[str, int, None] = None,
    **options: Any,
) -> Advice:
    """What to change so that a step fits, or what changes save: `vram advise`. `.rows`, `.to_pandas()`, `.estimate(line)`.

    message: what a program said that had no memory, an exception (`except torch.OutOfMemoryError as e`), a text or a log's path;
    it alone says the cause, with a model also what would fit the device that it speaks of.
    """
    given = {"amp": amp, "batch": batch, "gpu": gpu, "budget": budget, **options}
    if model is None:
        if message is None:
            raise VramError("vram.advise: expected a model, or message=")
        return Advice(["advise", *words(given)], message)
    train = optimizer if optimizer is not None else options.get("train")
    path, text, notes = source_of(model, inputs, forward, bool(train))
    return Advice(["advise", path, *words({**given, "train": train})], message, text, notes)


def replay(trace: Union[Word, Mapping[str, Any]], **options: Any) -> Report:
    """A recording through the caching allocator: `vram replay`.

    trace: a path, or the dict of torch.cuda.memory._snapshot(). Options as of `vram replay -h`:
    alloc_conf="expandable_segments:True", gpu="rtx4090", policy="both".
    """
    if isinstance(trace, Mapping):
        return Report(["replay", "-", *words(options)], data=pickle.dumps(dict(trace), protocol=4))
    return Report(["replay", trace, *words(options)])
