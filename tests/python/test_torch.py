"""Modules: what the exporter of the package writes is what tools/export_torch.py writes; the module stays as it was."""

import os
import pathlib
import subprocess
import sys

import pytest

import vram

torch = pytest.importorskip("torch")
ROOT = pathlib.Path(__file__).resolve().parents[2]
F, nn = torch.nn.functional, torch.nn


def net():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(4096, 10)
    )


def loss(model, x, target):
    return F.cross_entropy(model(x), target)


def example():  # for the command
    model = net()
    inputs = {"x": torch.zeros(8, 3, 16, 16), "target": torch.zeros(8, dtype=torch.long)}
    return model, inputs, lambda x, target: loss(model, x, target)


def test_a_module_and_a_file_are_one_text(tmp_path):
    model, inputs, _ = example()
    text = vram.export(model, inputs, forward=loss, name="example")
    env = {**os.environ, "VRAM": os.environ.get("VRAM", str(ROOT / "vram"))}
    p = subprocess.run(
        [sys.executable, ROOT / "tools" / "export_torch.py", f"{__file__}:example"], capture_output=True, text=True, env=env
    )
    lines = lambda t: [line for line in t.splitlines() if not line.startswith("#")]
    assert lines(text) == lines(p.stdout) and len(lines(text)) > 8, p.stderr


def test_the_module_stays_as_it_was():
    model, inputs, _ = example()
    kept = {k: v.clone() for k, v in model.state_dict().items()}
    own = [id(p) for p in model.parameters()]
    model.train()
    model[1].own = "kept"
    r = vram.estimate(model, inputs, forward=loss, optimizer="adamw", amp="bf16")
    e = vram.estimate(model, inputs["x"])
    assert [id(p) for p in model.parameters()] == own and model.training and model[1].own == "kept"
    assert all(torch.equal(v, kept[k]) for k, v in model.state_dict().items())
    assert not any("vram_moved" in vars(p) for p in model.parameters())
    assert model(torch.zeros(2, 3, 16, 16)).shape == (2, 10)
    params = sum(p.numel() * p.element_size() for p in model.parameters())
    assert r.params_bytes == e.params_bytes == params and r.gradients_bytes == params and r.optimizer_bytes >= 2 * params
    assert r.saved_bytes > 0 and e.saved_bytes == 0


def test_refusals():
    for model, inputs in ((net(), None), (net(), "x"), (net(), torch.zeros(2, 4, 16, 16)), (net(), torch.zeros(0, 3, 16, 16))):
        with pytest.raises(vram.VramError) as e:
            vram.export(model, inputs)
        assert "\n" not in e.value.line
    with pytest.raises(vram.VramError, match="names no model"):
        vram.export("nowhere")
    model = net()
    with pytest.raises(vram.VramError):
        vram.export(model, torch.zeros(2, 4, 16, 16))
    assert model(torch.zeros(1, 3, 16, 16)).isfinite().all()


def test_fit_and_plan_of_a_module():
    model, inputs, _ = example()
    f = vram.fit(model, inputs, forward=loss, optimizer="sgd", budget="4GiB")
    assert f.value > 8
    assert vram.plan(model, inputs, forward=loss, budget="1GiB").feasible


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_measured_beside_estimated():
    model, inputs, _ = example()
    m = vram.measure(model, inputs, forward=loss, optimizer="adamw", amp="bf16")
    assert m.held and all(b["held"] for b in m.bounds)
    assert {r["figure"]: r["difference"] for r in m.figures}["params"] == 0


def test_measure_needs_a_device():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(vram.VramError, match="no CUDA device"):
        vram.measure(net(), torch.zeros(2, 3, 16, 16))
    with pytest.raises(vram.VramError, match="--nope"):
        vram.measure(net(), torch.zeros(2, 3, 16, 16), nope=1)
