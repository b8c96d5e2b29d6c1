"""Callbacks that predict a training run's memory before its first step, and compare when it ends.

    trainer = transformers.Trainer(..., callbacks=[vram.callbacks.TransformersCallback()])
    trainer = lightning.Trainer(..., callbacks=[vram.callbacks.LightningCallback()])
    with vram.callbacks.accelerate(accelerator, model, optimizer, loader):
        ...                                                     # the loop

They never stop the run: where there is no prediction they say why, in one line. Options are those of the command
(parallel="ddp=8"); batch= is a batch as the loader makes it, where the dataset has no elements by number (Lightning's
callback takes the run's first one). `.result` is the
Comparison. PyTorch's peaks are set back when the run begins.
"""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
from typing import Any, Callable, Dict, Iterator, Optional, TextIO

from ._beside import Beside, Comparison, Row, batch_of, has_numbers
from ._errors import VramError

__all__ = ["Comparison", "LightningCallback", "Row", "TransformersCallback", "accelerate"]


def loss_of(out: Any) -> Any:
    """of what a model or a training step returns: {"loss": ...}, (loss, ...) or the loss"""
    if isinstance(out, dict):
        if "loss" not in out:
            raise VramError(f"the model returns no loss (it returns {', '.join(map(str, out))}): give labels, or loss=")
        return out["loss"]
    return out[0] if isinstance(out, (tuple, list)) else out


def precision_of(name: str) -> Optional[str]:
    """--amp of "bf16", "fp16", "bf16-mixed", "16-mixed"; None: there is no autocast"""
    if name in ("no", "32", "32-true", "64-true", "bf16-true", "16-true", "64", "None"):
        return None
    known = {"bf16": "bf16", "bf16-mixed": "bf16", "fp16": "fp16", "16-mixed": "fp16"}
    if name not in known:
        raise VramError(f"precision {name} is not known")
    return known[name]


def transformers_forward(args: Any, mixed: bool) -> Callable[[Any, Any], Any]:
    """compute_loss of transformers' Trainer; its outputs live until it returns, in 32 bits where accelerate wraps the model"""
    if args.label_smoothing_factor:
        raise VramError("label_smoothing_factor: the loss is the Trainer's own")

    def forward(model: Any, batch: Any) -> Any:
        out = model(**batch)
        if mixed:
            from accelerate.utils import convert_to_fp32

            out = convert_to_fp32(out)
        return loss_of(out)

    return forward


def with_count(batch: Any, model: Any) -> Any:
    """the batch as the Trainer gives it to a model that takes num_items_in_batch"""
    import torch

    takes = inspect.signature(model.forward).parameters.values()
    accepts = getattr(model, "accepts_loss_kwargs", any(p.kind is p.VAR_KEYWORD for p in takes))
    batch = dict(batch)
    if accepts and "labels" in batch:
        batch["num_items_in_batch"] = torch.tensor(float(batch["labels"].numel()))
    return batch


def _transformers() -> Any:
    base: Any = importlib.import_module("transformers").TrainerCallback

    class TransformersCallback(base):  # type: ignore[misc, unused-ignore]
        """For transformers.Trainer(callbacks=[...]): the step as it makes it, with compute_loss as it is there."""

        def __init__(self, batch: Any = None, file: Optional[TextIO] = None, **options: Any) -> None:
            self.beside = Beside(batch, file, **options)

        @property
        def result(self) -> Optional[Comparison]:
            return self.beside.result

        def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            if not state.is_world_process_zero:
                self.beside.is_off = True
            self.beside.begin(lambda: self.predict(args, **given))

        def predict(self, args: Any, **given: Any) -> None:
            model = given["model"]
            mixed = "bf16" if args.bf16 else "fp16" if args.fp16 else None
            parts = args.gradient_accumulation_steps
            self.beside.waiting = parts - 1
            self.beside.predict(
                model,
                given["optimizer"],
                lambda batch: with_count(batch_of(given["train_dataloader"]) if batch is None else batch, model),
                transformers_forward(args, mixed is not None),
                amp=mixed,
                accumulate=parts if parts > 1 else None,
                prefetch=parts - 1 or None,
                clip_grad_norm="foreach" if args.max_grad_norm and args.max_grad_norm > 0 else None,
                zero_grad_end=True,
            )

        def on_train_end(self, args: Any, state: Any, control: Any, **given: Any) -> None:
            self.beside.end()

    return TransformersCallback


def _lightning() -> Any:
    name = "lightning.pytorch" if importlib.util.find_spec("lightning") else "pytorch_lightning"
    base: Any = importlib.import_module(name).Callback

    class LightningCallback(base):  # type: ignore[misc, unused-ignore]
        """For lightning.Trainer(callbacks=[...]): the module's training_step, with the one optimizer that it configures."""

        def __init__(self, batch: Any = None, file: Optional[TextIO] = None, **options: Any) -> None:
            self.beside = Beside(batch, file, **options)

        @property
        def result(self) -> Optional[Comparison]:
            return self.beside.result

        def on_train_start(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.is_global_zero:
                self.beside.is_off = True
            self.beside.sees_batches = False
            self.begun = self.beside.batch is not None or has_numbers(trainer.train_dataloader)
            if self.begun:
                self.beside.begin(lambda: self.predict(trainer, pl_module))

        def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
            if not self.begun:  # the first of the run itself
                self.begun, self.beside.batch = True, batch
                self.beside.begin(lambda: self.predict(trainer, pl_module))
                self.beside.batch = None
            self.beside.saw(batch)

        def predict(self, trainer: Any, module: Any) -> None:
            if not module.automatic_optimization or len(trainer.optimizers) != 1:
                raise VramError("the step is the module's own (manual optimization, or several optimizers)")
            loader = trainer.train_dataloader
            parts = trainer.accumulate_grad_batches

            def forward(module: Any, batch: Any) -> Any:
                for name in ("log", "log_dict"):  # there is no step yet of which it could be
                    vars(module)[name] = lambda *_, **__: None
                takes = inspect.signature(module.training_step).parameters
                return loss_of(module.training_step(batch, *([0] if len(takes) > 1 else [])))

            if trainer.gradient_clip_val and trainer.gradient_clip_algorithm == "value":
                raise VramError("gradient_clip_algorithm='value' is not known")
            self.beside.predict(
                module,
                trainer.optimizers[0],
                lambda batch: batch_of(loader) if batch is None else batch,
                forward,
                amp=precision_of(str(trainer.precision)),
                accumulate=parts if parts > 1 else None,
                clip_grad_norm="foreach" if trainer.gradient_clip_val else None,
                zero_grad_late=True,
            )

        def on_train_end(self, trainer: Any, pl_module: Any) -> None:
            self.beside.end()

    return LightningCallback


@contextlib.contextmanager
def accelerate(
    accelerator: Any,
    model: Any,
    optimizer: Any,
    loader: Any = None,
    *,
    loss: Optional[Callable[[Any, Any], Any]] = None,
    batch: Any = None,
    file: Optional[TextIO] = None,
    **options: Any,
) -> Iterator[Beside]:
    """Around a loop with Accelerate; model, optimizer and loader as accelerator.prepare() gave them.

    loss     loss(model, batch) as the loop has it (default: model(**batch).loss)
    options  how else the loop is: zero_grad_late=True, clip_grad_norm="foreach"; the optimizer's zero_grad is taken to come at
             the end of a step
    """
    beside = Beside(batch, file, **options)
    beside.is_off = not accelerator.is_main_process
    beside.sees_batches = loss is None
    plain_model = accelerator.unwrap_model(model)
    mixed = accelerator.mixed_precision != "no"

    def forward(model: Any, batch: Any) -> Any:
        def called(*args: Any, **inputs: Any) -> Any:
            out = model(*args, **inputs)
            if mixed:
                from accelerate.utils import convert_to_fp32

                out = convert_to_fp32(out)
            return out

        return loss_of(called(**batch)) if loss is None else loss(called, batch)

    def predict() -> None:
        parts = accelerator.gradient_accumulation_steps
        given: Dict[str, Any] = {} if options.get("zero_grad_late") else {"zero_grad_end": True}
        beside.predict(
            plain_model,
            optimizer,
            lambda batch: batch_of(loader) if batch is None else batch,
            forward,
            amp=precision_of(str(accelerator.mixed_precision)),
            accumulate=parts if parts > 1 else None,
            **given,
        )

    beside.begin(predict)
    try:
        yield beside
    finally:
        beside.end()


def __getattr__(name: str) -> Any:
    """the classes of frameworks, which are only imported for them"""
    made = {"LightningCallback": _lightning, "TransformersCallback": _transformers}
    if name not in made:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = made[name]()
    return found
