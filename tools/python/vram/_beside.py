"""A training run beside its prediction: what the callbacks share. They say a line and step aside where something goes wrong, and
never stop the run."""

from __future__ import annotations

import contextlib
import functools
import html
import os
import sys
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, TextIO, Tuple

from ._errors import VramError
from ._model import ModelText, export, tools
from ._options import words
from ._report import Report

FEW = 64  # bytes: what a loop has of single numbers
NUMBERS = " (losses, norms, counts; each has a block of 512)"
FIGURES = ("requested", "allocated", "reserved")


class Row(NamedTuple):
    """A figure of the run, in bytes: `when` is "start", "first step" or "all steps", `figure` requested, allocated or reserved."""

    when: str
    figure: str
    predicted: int
    measured: int

    @property
    def difference(self) -> int:
        return self.measured - self.predicted


class Comparison:
    """What was predicted before the run, what PyTorch's counters said of it, and why they differ where they do.

    rows     a Row for each figure
    reasons  of differences, a line each
    steps    how many the optimizer made
    first, steady   the reports of the first step, and of those behind it
    """

    def __init__(self, rows: List[Row], reasons: List[str], steps: int, device: str, first: Report, steady: Report) -> None:
        self.rows, self.reasons, self.steps, self.device = rows, reasons, steps, device
        self.first, self.steady = first, steady

    def __str__(self) -> str:
        lines = [f"vram: {self.device}, {self.steps} step{'s' * (self.steps != 1)}, bytes"]
        lines.append(f"{'':10} {'':10}{'predicted':>16}{'measured':>16}{'difference':>14}")
        when = ""
        for r in self.rows:
            lines.append(f"{r.when * (r.when != when):10} {r.figure:10}{r.predicted:16,}{r.measured:16,}{r.difference:+14,}")
            when = r.when
        return "\n".join(lines + [f"- {reason}" for reason in self.reasons])

    def _repr_html_(self) -> str:
        return f"<pre style='font-family:monospace'>{html.escape(str(self))}</pre>"


def is_pretended() -> bool:
    """the device computes nothing (tests): it gives cuDNN no workspaces"""
    return "libnullgpu" in os.environ.get("LD_PRELOAD", "")


def unwrapped(optimizer: Any) -> Any:
    """the optimizer of PyTorch in those of accelerate and lightning"""
    inner = getattr(optimizer, "optimizer", None)
    return optimizer if inner is None else unwrapped(inner)


def optimizer_words(optimizer: Any) -> Tuple[Dict[str, Any], List[str]]:
    """options of the command for an optimizer of PyTorch, and what they do not say of it"""
    import torch
    from measure_torch import OPTIMIZERS

    optimizer = unwrapped(optimizer)
    groups, kind = optimizer.param_groups, type(optimizer)
    alike = {name: set(given) for name, (of, given) in OPTIMIZERS.items() if kind is getattr(torch.optim, of, None)}
    flags = {k for k in set().union(*alike.values()) if groups[0].get(k)}
    names = [name for name, wanted in alike.items() if wanted == flags]
    if not names:
        raise VramError(f"no optimizer of `vram list optimizers` is {kind.__module__}.{kind.__name__} {' '.join(sorted(flags))}".strip())
    given: Dict[str, Any] = {"train": names[0]}
    if groups[0].get("fused"):
        given["optim_impl"] = "fused"
    elif groups[0].get("foreach") is False:
        given["optim_impl"] = "loop"
    given["capturable"] = bool(groups[0].get("capturable"))
    several = [g for g in groups if g["params"]]
    notes = []
    if len(several) > 1 and given.get("optim_impl") is None:
        notes.append(f"the optimizer steps through {len(several)} groups, the prediction through all at once: its temporaries are at most")
    return given, notes


def flat(batch: Any) -> Tuple[Dict[str, Any], Callable[[Mapping[str, Any]], Any]]:
    """the tensors of a batch by name, and the batch of such"""
    import torch
    from torch.utils import _pytree

    if isinstance(batch, Mapping) and not isinstance(batch, dict):
        batch = dict(batch)
    leaves, spec = _pytree.tree_flatten(batch)
    keys = list(batch) if isinstance(batch, dict) and len(batch) == len(leaves) else [f"input{i}" for i in range(len(leaves))]
    keys = [str(k) if str(k).isidentifier() else f"input{i}" for i, k in enumerate(keys)]
    tensors = {k: t for k, t in zip(keys, leaves) if isinstance(t, torch.Tensor)}
    if not tensors:
        raise VramError("the batch has no tensor")

    def rebuilt(given: Mapping[str, Any]) -> Any:
        return _pytree.tree_unflatten([given.get(k, t) for k, t in zip(keys, leaves)], spec)

    return tensors, rebuilt


def bytes_of(tensors: Mapping[str, Any]) -> int:
    return sum(t.numel() * t.element_size() for t in tensors.values())


@contextlib.contextmanager
def same_random_numbers() -> Iterator[None]:
    """what is random behind it is as without it"""
    import random

    import torch

    kept = random.getstate()
    numpy = sys.modules.get("numpy")
    of_numpy = numpy.random.get_state() if numpy else None
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(kept)
        if numpy:
            numpy.random.set_state(of_numpy)


def has_numbers(loader: Any) -> bool:
    """whether the loader's dataset has elements by number"""
    import torch

    return not isinstance(getattr(loader, "dataset", None), (type(None), torch.utils.data.IterableDataset))


def batch_of(loader: Any) -> Any:
    """a batch as the loader makes it, of the first elements of its dataset: no iterator of it moves"""
    dataset = getattr(loader, "dataset", None)
    sampler: Any = getattr(loader, "batch_sampler", None)
    while getattr(sampler, "batch_sampler", None) is not None:  # accelerate's
        sampler = sampler.batch_sampler
    size = getattr(sampler, "batch_size", None) or getattr(loader, "batch_size", None)
    if dataset is None or not has_numbers(loader) or not size:
        raise VramError("the data has no elements by number: give batch=, a batch as the loader makes it")
    indices = range(min(size, len(dataset)))
    if hasattr(dataset, "__getitems__"):
        return loader.collate_fn(dataset.__getitems__(list(indices)))
    return loader.collate_fn([dataset[i] for i in indices])


@contextlib.contextmanager
def plain(model: Any) -> Iterator[None]:
    """accelerate's wrappers around forward, which cast, are taken off for a time: the prediction casts itself"""
    wrapped = [m for m in model.modules() if "_original_forward" in vars(m)]
    kept = [vars(m).get("forward") for m in wrapped]
    try:
        for m in wrapped:
            vars(m)["forward"] = vars(m)["_original_forward"]
        yield
    finally:
        for m, forward in zip(wrapped, kept):
            vars(m)["forward"] = forward


def careful(method: Callable[..., None]) -> Callable[..., None]:
    """what goes wrong in it is a line, and the run goes on"""

    @functools.wraps(method)
    def tried(self: "Beside", *args: Any, **kwargs: Any) -> None:
        if self.is_off:
            return
        try:
            method(self, *args, **kwargs)
        except Exception as e:
            self.off(str(e).strip().splitlines()[0] if str(e).strip() else type(e).__name__)

    return tried


class Beside:
    """One run. predict() before it, then it watches by hooks, end() compares."""

    def __init__(self, batch: Any = None, file: Optional[TextIO] = None, **options: Any) -> None:
        self.batch, self.file, self.options = batch, file, options
        self.is_off = False
        self.result: Optional[Comparison] = None
        self.reasons: List[str] = []
        self.hooks: List[Any] = []
        self.steps = 0
        self.after_first: Optional[Dict[str, int]] = None
        self.between: Optional[int] = None
        self.largest: Tuple[int, Any] = (0, None)  # bytes of the largest batch, and such a batch without memory
        self.first_batch = 0
        self.again: Optional[Callable[[Any], ModelText]] = None
        self.inputs = 0
        self.sees_batches = True  # what the model is called with is a batch
        self.waiting = 0  # batches that wait on the device

    def say(self, text: str) -> None:
        print(text, file=self.file or sys.stderr, flush=True)

    def off(self, why: str) -> None:
        self.is_off = True
        for h in self.hooks:
            h.remove()
        self.hooks = []
        self.say(f"vram: no prediction: {why}" if self.result is None else f"vram: {why}")

    def stats(self) -> Dict[str, int]:
        import torch

        found = torch.cuda.memory_stats()
        peaks = {f: int(found[f"{f}_bytes.all.peak"]) for f in FIGURES}
        return {**peaks, "now": int(found["requested_bytes.all.current"])}

    def exported(self, model: Any, batch: Any, forward: Callable[[Any, Any], Any]) -> Tuple[ModelText, Dict[str, Any]]:
        """the text of forward(model, batch), and the batch's tensors by name"""
        tensors, rebuilt = flat(batch)
        with plain(model):
            return export(model, tensors, forward=lambda model, **inputs: forward(model, rebuilt(inputs))), tensors

    @careful
    def begin(self, predict: Callable[[], None]) -> None:
        predict()

    def predict(
        self,
        model: Any,
        optimizer: Any,
        batch: Callable[[Any], Any],
        forward: Callable[[Any, Any], Any],
        **given: Any,
    ) -> None:
        """batch(what was given as batch=) gives a batch, forward(model, batch) the loss"""
        import torch

        tools()
        import measure_torch as m

        if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
            if "parallel" not in self.options and "deepspeed" not in self.options:
                raise VramError("several ranks: say how the model is divided with parallel=")
        with same_random_numbers():
            text, tensors = self.exported(model, batch(self.batch), forward)
            self.again = lambda largest: self.exported(model, largest, forward)[0]
        by_optimizer, self.reasons = optimizer_words(optimizer)
        options = {**by_optimizer, **given, **self.options}
        self.device = "no CUDA device"
        if torch.cuda.is_available():
            properties = torch.cuda.get_device_properties(torch.cuda.current_device())
            self.device = properties.name
            if not {"gpu", "budget"} & set(options):
                options = {"budget": properties.total_memory, "cc": f"{properties.major}.{properties.minor}", **options}
            if is_pretended():
                options = {"cudnn": "none", **options}
        self.told = ["estimate", "-", *words(options), *m.rules_options()]
        self.steady = Report(self.told, str(text), text.notes)
        self.first = Report([*self.told, "--step", "first"], str(text), text.notes)
        self.reasons += text.notes
        self.inputs = bytes_of(tensors)
        self.there = bytes_of({k: t for k, t in tensors.items() if t.is_cuda})
        self.at_zero_grad_late = bool(options.get("zero_grad_late"))
        fits = "" if self.steady.fits is not False else ": does not fit; vram.advise says what to change"
        self.say(
            f"vram: a step is predicted to take {self.steady.peak_allocated_bytes.expected:,} bytes allocated, "
            f"{self.steady.device_bytes.expected:,} of {self.device}{fits}"
        )
        if not torch.cuda.is_available():
            self.off("not compared: no CUDA device")
            return
        self.watch(model, unwrapped(optimizer))

    def watch(self, model: Any, optimizer: Any) -> None:
        import torch

        self.hooks = [
            optimizer.register_step_post_hook(lambda *_: self.stepped()),
            model.register_forward_pre_hook(lambda _, args, kwargs: self.called((args, kwargs)), with_kwargs=True),
        ]
        torch.cuda.reset_peak_memory_stats()
        self.start = self.stats()["now"] - self.there

    @careful
    def stepped(self) -> None:
        self.steps += 1
        if self.steps == 1:
            self.after_first = self.stats()

    @careful
    def called(self, inputs: Any) -> None:
        if self.steps == 1 and self.between is None:
            self.between = self.stats()["now"]
        if self.sees_batches and not inputs[0]:
            self.saw(inputs[1])

    @careful
    def saw(self, batch: Any) -> None:
        """a batch that runs: the largest is kept, without memory"""
        import torch

        tensors, rebuilt = flat(batch)
        size = bytes_of(tensors)
        self.first_batch = self.first_batch or size
        if size > max(self.largest[0], self.inputs + FEW):
            self.largest = size, rebuilt({k: torch.empty_like(t, device="meta") for k, t in tensors.items()})

    @careful
    def end(self) -> None:
        last = self.stats()
        for h in self.hooks:
            h.remove()
        self.hooks = []
        if self.after_first is None:
            self.off("the run made no step")
            return
        self.result = self.compared(last, self.of_the_largest())
        self.say(str(self.result))

    def of_the_largest(self) -> Optional[Report]:
        """the report of the largest batch, where that was not the predicted one"""
        again, self.again = self.again, None
        if again is None or self.largest[1] is None or self.steps < 2:
            return None
        try:
            with same_random_numbers():
                return Report(self.told, str(again(self.largest[1])))
        except VramError:
            return None

    def compared(self, last: Mapping[str, int], largest: Optional[Report]) -> Comparison:
        first, steady, after = self.first, self.steady, self.after_first or last
        own = first.params_bytes + first.buffers_bytes
        rows = [Row("start", "requested", own, self.start)]

        def peaks(report: Report) -> Tuple[int, int, int]:
            return report.peak_requested_bytes, report.peak_allocated_bytes.expected, report.peak_reserved_bytes

        of_all = tuple(map(max, peaks(first), peaks(steady), peaks(largest or steady))) if self.steps > 1 else peaks(first)
        rows += [Row("first step", f, p, after[f]) for f, p in zip(FIGURES, peaks(first))]
        if self.steps > 1:
            rows += [Row("all steps", f, p, last[f]) for f, p in zip(FIGURES, of_all)]
        return Comparison(rows, self.why(rows, largest), self.steps, self.device, first, steady)

    def why(self, rows: List[Row], largest: Optional[Report]) -> List[str]:
        """the reasons of differences"""
        by = {(r.when, r.figure): r for r in rows}
        last = by.get(("all steps", "requested"), by["first step", "requested"])
        if not any(r.difference for r in rows):
            return []
        reasons = []
        before, kept = rows[0].difference, 0
        if before:
            reasons.append(f"{before:+,} bytes were there at the start beside parameters and buffers of the model")
        if self.between is not None and self.largest[1] is None:  # else it has a batch of another size
            held = self.first.params_bytes + self.first.buffers_bytes + self.steady.optimizer_bytes + self.inputs_held()
            held += self.steady.gradients_bytes if self.at_zero_grad_late else 0
            kept = self.between - held - before
            if kept:
                reasons.append(f"{kept:+,} bytes between two steps: what the loop keeps{NUMBERS}")
        rest = last.difference - before - kept
        if rest and self.steps > 1:
            numbers = f": what the loop makes itself{NUMBERS}" if abs(rest) < FEW else " of the difference, and not explained"
            reasons.append(f"{rest:+,} bytes are left at the peak{numbers}")
        bounds = self.steady.peak_allocated_bytes
        if self.steady.cudnn_bytes.upper and self.steady.cudnn_bytes.upper != self.steady.cudnn_bytes.expected:
            reasons.append(f"workspaces of cuDNN are not known before: allocated {bounds.lower:,} to {bounds.upper:,}")
        if self.largest[1] is not None:
            then = "all steps: predicted for that one" if largest else "it cannot be predicted behind the run"
            reasons.append(f"the largest batch had {self.largest[0]:,} bytes, the predicted one {self.inputs:,}; {then}")
        if self.first_batch and abs(self.first_batch - self.inputs) > FEW:
            reasons.append(f"the batch of the first step had {self.first_batch:,} bytes, the predicted one {self.inputs:,}")
        return reasons + self.reasons

    def inputs_held(self) -> int:
        return int(self.inputs) * (1 + int(self.options.get("prefetch") or self.waiting))

