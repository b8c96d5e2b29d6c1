"""Callbacks: what they say before a run and behind it; where there is a CUDA device, that it is what PyTorch counts. The loops are
those of transformers, lightning and accelerate, where these are installed."""

import io
import os
import random
import warnings

import pytest

import vram
import vram.callbacks as callbacks

# on the pretended device what is read back is 0, False: here all of a mask is set
os.environ.setdefault("NULLGPU_BOOL", "1")
FEW = 64


def test_they_import_nothing_before_they_are_asked_for():
    assert callbacks.Comparison and callable(callbacks.accelerate)
    with pytest.raises(AttributeError, match="KerasCallback"):
        callbacks.KerasCallback


def test_precisions():
    assert [callbacks.precision_of(p) for p in ("no", "32-true", "bf16-mixed", "16-mixed", "fp16")] == [None, None, "bf16", "fp16", "fp16"]
    with pytest.raises(vram.VramError):
        callbacks.precision_of("transformer-engine")


def test_the_table():
    row = callbacks.Row("first step", "requested", 10, 14)
    assert row.difference == 4
    c = callbacks.Comparison([row], ["why"], 1, "a device", None, None)
    assert str(c).splitlines()[0] == "vram: a device, 1 step, bytes" and "+4" in str(c) and str(c).endswith("- why")


torch_only = pytest.mark.skipif(not __import__("importlib").util.find_spec("torch"), reason="no torch")


@torch_only
def test_optimizers():
    import torch
    from vram._beside import optimizer_words
    from vram._model import tools

    tools()
    p = [torch.nn.Parameter(torch.zeros(3))]
    o = torch.optim
    for optimizer, wanted in (
        (o.SGD(p, lr=1), {"train": "sgd"}),
        (o.SGD(p, lr=1, momentum=0.5), {"train": "sgd_momentum"}),
        (o.SGD(p, lr=1, momentum=0.5, nesterov=True), {"train": "sgd_nesterov"}),
        (o.AdamW(p, amsgrad=True, foreach=False), {"train": "adamw_amsgrad", "optim_impl": "loop"}),
        (o.RMSprop(p, momentum=0.1, centered=True), {"train": "rmsprop_centered_momentum"}),
        (o.NAdam(p), {"train": "nadam"}),
    ):
        given, notes = optimizer_words(optimizer)
        assert {k: v for k, v in given.items() if v} == wanted and not notes
    assert optimizer_words(o.AdamW([{"params": p}, {"params": [torch.nn.Parameter(torch.zeros(1))]}]))[1]

    class Own(o.SGD):
        pass

    with pytest.raises(vram.VramError, match="Own"):
        optimizer_words(Own(p, lr=1))


class Numbers:
    """a dataset of images"""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        import torch

        return torch.randn(3, 8, 8) + random.random(), i % 10


@torch_only
def test_a_batch_moves_nothing():
    import torch
    from vram._beside import batch_of, flat, same_random_numbers

    loader = torch.utils.data.DataLoader(Numbers(), batch_size=16, shuffle=True)
    kept = torch.get_rng_state(), random.getstate()
    with same_random_numbers():
        batch = batch_of(loader)
    assert torch.equal(kept[0], torch.get_rng_state()) and kept[1] == random.getstate()
    tensors, rebuilt = flat(batch)
    assert [tuple(t.shape) for t in tensors.values()] == [(16, 3, 8, 8), (16,)]
    assert rebuilt(tensors)[1] is tensors["input1"]
    assert list(flat({"input_ids": torch.zeros(2, 3), "k": 4})[0]) == ["input_ids"]
    with pytest.raises(vram.VramError):
        flat(["text"])


def compared(result, said, device):
    """what a run has to say: to the byte but for single numbers of the loop; without a device that it is not compared"""
    if not device:
        assert "is predicted to take" in said and said.rstrip().endswith("not compared: no CUDA device") and result is None
        return
    assert all(abs(r.difference) < FEW for r in result.rows if r.figure == "requested"), said
    assert len(result.rows) == 7 and result.steps == 3 and str(result) in said


def net():
    import torch.nn as nn

    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(288, 10))


@torch_only
@pytest.mark.parametrize("kind", ["seen", "without a number", "own optimizer", "looks at values"])
def test_lightning(kind):
    lightning = pytest.importorskip("lightning")
    import torch

    class Own(torch.optim.SGD):
        pass

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net, self.ran = net(), 0

        def training_step(self, batch, batch_idx):
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            if kind == "looks at values" and loss > 1e9:
                loss = loss * 2
            self.log("loss", loss)
            return loss

        def on_train_batch_end(self, *_):
            self.ran += 1

        def configure_optimizers(self):
            return (Own if kind == "own optimizer" else torch.optim.SGD)(self.parameters(), lr=0.1)

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return (Numbers()[i] for i in range(40))

    device, said, module = torch.cuda.is_available(), io.StringIO(), Module()
    callback = callbacks.LightningCallback(file=said)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = lightning.Trainer(
            max_steps=3,
            accelerator="cuda" if device else "cpu",
            devices=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[callback],
        )
        data = Stream() if kind == "without a number" else Numbers()
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=8))
    assert module.ran == 3  # whatever was predicted
    if kind in ("seen", "without a number"):  # the second by its first batch
        compared(callback.result, said.getvalue(), device)
    else:
        assert said.getvalue().startswith("vram: no prediction: ") and said.getvalue().count("\n") == 1


class Tokens:
    def __len__(self):
        return 40

    def __getitem__(self, i):
        import torch

        x = torch.arange(i, i + 32)
        return {"input_ids": x, "attention_mask": torch.ones_like(x), "labels": x}


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(
        LlamaConfig(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2)
    )


@torch_only
def test_transformers(tmp_path):
    pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    import torch
    from transformers import Trainer, TrainingArguments

    device, said = torch.cuda.is_available(), io.StringIO()
    callback = callbacks.TransformersCallback(file=said)
    arguments = TrainingArguments(
        str(tmp_path),
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        max_steps=3,
        bf16=device,
        report_to=[],
        save_strategy="no",
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(llama(), arguments, train_dataset=Tokens(), callbacks=[callback])
        trainer.train()
    assert trainer.state.global_step == 3
    compared(callback.result, said.getvalue(), device)


@torch_only
def test_accelerate():
    accelerate = pytest.importorskip("accelerate")
    import torch

    device, said = torch.cuda.is_available(), io.StringIO()
    accelerator, model = accelerate.Accelerator(), net()
    optimizer = torch.optim.AdamW(model.parameters())
    model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(Numbers(), batch_size=8))
    loss = lambda model, batch: torch.nn.functional.cross_entropy(model(batch[0]), batch[1])
    with callbacks.accelerate(accelerator, model, optimizer, loader, loss=loss, file=said) as beside:
        for _, batch in zip(range(3), loader):
            accelerator.backward(loss(model, batch))
            optimizer.step()
            optimizer.zero_grad()
    compared(beside.result, said.getvalue(), device)
    with pytest.raises(KeyError):  # of the loop
        with callbacks.accelerate(accelerator, model, optimizer, None, loss=loss, file=said):
            raise KeyError
    assert said.getvalue().splitlines()[-1].startswith("vram: no prediction: ")
