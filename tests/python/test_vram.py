"""The package beside the command: VRAM names that, vram is what `pip install .` installed."""

import json
import os
import pathlib
import pickle
import re
import subprocess
import sys
import threading

import pytest

import vram

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = os.environ.get("VRAM", str(ROOT / "vram"))
MODELS = sorted(p.stem for p in (ROOT / "examples" / "models").glob("*.vram"))
TRACE = ROOT / "tests" / "traces" / "lenet5.pickle"
TEXT = "dim N=64\ninput x f32 [N,784]\nlinear h x out_features=512\nrelu r h\nlinear y r out_features=10\ncross_entropy loss y\n"


def told(*words, text=None):
    p = subprocess.run([COMMAND, *map(str, words)], input=text, capture_output=True, text=True, cwd=ROOT)
    return p.returncode, p.stdout, p.stderr


@pytest.mark.parametrize("model", MODELS)
def test_estimate_is_the_commands(model):
    status, out, _ = told("estimate", model, "--train", "adamw", "--amp", "bf16", "--gpu", "rtx4090", "--json")
    r = vram.estimate(model, optimizer="adamw", amp="bf16", gpu="rtx4090")
    assert r.json == out and dict(r._values) == json.loads(out)
    assert r.fits is (status == 0)


def test_texts_and_pictures():
    r = vram.estimate("resnet50", optimizer="adamw", batch=3)
    words = ("estimate", "resnet50", "--train", "adamw", "--batch", "3")
    assert str(r) == r.text == told(*words)[1]
    assert r.svg == told(*words, "--svg", "-")[1] and r.svg.startswith("<svg")
    assert "data:image/svg+xml;base64," in r._repr_html_() and "peak 1" not in r._repr_html_()[:200]
    assert [row["name"] for row in r.layers] == [
        line.split(",")[0] for line in told(*words, "--csv")[1].splitlines()[1:]
    ]
    assert all(isinstance(row["params"], int) for row in r.layers)


def test_fields():
    r = vram.estimate("resnet50", optimizer="adamw")
    assert r.phases.backward.requested_peak_bytes == r["phases"]["backward"]["requested_peak_bytes"]
    assert r.peak_allocated_bytes.lower <= r.peak_allocated_bytes.expected <= r.peak_allocated_bytes.upper
    assert r.fits is None and "device_bytes" in dir(r) and len(r) == len(list(r))
    with pytest.raises(AttributeError, match="peak_requested_bytes"):
        r.peak_requested_byte
    assert "estimate resnet50 --train adamw" in repr(r)


def test_a_text_and_a_path(tmp_path):
    file = tmp_path / "mlp.vram"
    file.write_text(TEXT)
    by_text, by_path = (vram.estimate(m, optimizer="sgd", amp="fp16", batch=7) for m in (TEXT, file))
    assert by_text.model_text == TEXT and by_path.model_text is None
    assert by_text.peak_requested_bytes == by_path.peak_requested_bytes
    assert by_text.json == told(*by_text.words, "--json", text=TEXT)[1]


def test_fit_plan_replay():
    f = vram.fit("resnet50", optimizer="adamw", gpu="rtx4090")
    assert f.json == told("fit", "resnet50", "--train", "adamw", "--gpu", "rtx4090", "--json")[1]
    assert f.fits and f.next == f.value + 1
    assert vram.fit("resnet50", optimizer="adamw", budget="1MiB").fits is False
    p = vram.plan("lenet5", batch=256, budget="40MiB")
    assert p.json == told("plan", "lenet5", "--batch", "256", "--budget", "40MiB", "--json")[1] and p.feasible
    assert p.svg.startswith("<svg")
    by_path, by_dict = vram.replay(TRACE), vram.replay(pickle.loads(TRACE.read_bytes()))
    assert by_path.json == told("replay", TRACE, "--json")[1]
    same = lambda r: {k: v for k, v in r._values.items() if k != "trace"}
    assert same(by_path) == same(by_dict)
    assert vram.replay(TRACE, total_bytes="50MiB").fits is False


MESSAGE = (
    "CUDA out of memory. Tried to allocate 226.00 MiB. GPU 0 has a total capacity of 15.70 GiB of which 210.38 MiB is free. "
    "Including non-PyTorch memory, this process has 15.48 GiB memory in use. Of the allocated memory 14.81 GiB is allocated by "
    "PyTorch, and 336.73 MiB is reserved by PyTorch but unallocated."
)


def test_advise():
    a = vram.advise(TEXT, optimizer="adamw", budget="1GiB", batch=65536, tries=30)
    words = ("advise", "-", "--budget", "1GiB", "--batch", "65536", "--tries", "30", "--train", "adamw")
    assert sorted(a.words) == sorted(words) and a.json == told(*a.words, "--json", text=TEXT)[1]
    assert a.fits and len(a.rows) == len(a.lines) and any(row["pareto"] for row in a.rows)
    for i, row in enumerate(a.rows[:4]):
        r = a.estimate(i)
        assert (r.peak_allocated_bytes.expected, r.device_bytes.expected) == (row["allocated_bytes"], row["device_bytes"])
        assert r.fits is row["fits"] and (not row["pareto"] or row["changes"] in a._repr_html_())
    assert vram.advise("lenet5", optimizer="adamw", budget="1MiB", tries=20).fits is False
    assert vram.advise("lenet5", optimizer="adamw", tries=9).fits is None
    with pytest.raises(vram.VramError, match="message="):
        vram.advise()


def test_advise_from_a_message(tmp_path):
    class OutOfMemoryError(RuntimeError):
        pass

    file = tmp_path / "run.log"
    file.write_text(f"torch.OutOfMemoryError: {MESSAGE}\n")
    by_path, by_text, caught = (vram.advise(message=m) for m in (file, file.read_text(), OutOfMemoryError(MESSAGE)))
    assert by_path.text == told("advise", "--message", file)[1] == by_text.text == caught.text
    assert caught.cause == "full" and caught.asked_bytes == 226 << 20 and caught.fits is None and caught.rows == []
    a = vram.advise(TEXT, optimizer="sgd", message=MESSAGE, tries=9)
    assert a.budget_bytes == caught.total_bytes and a.cause == caught.cause and a.rows and "cause: full" in a._repr_html_()
    with pytest.raises(vram.VramError, match="no message"):
        vram.advise(message="all is well here")


@pytest.mark.parametrize(
    "words",
    [
        ("estimate", "resnet5"),
        ("estimate", "nowhere.vram"),
        ("estimate", "resnet50", "--nope"),
        ("estimate", "resnet50", "--train", "adamm"),
        ("fit", "resnet50"),
        ("replay", "Makefile"),
    ],
)
def test_refusals_are_the_commands(words, monkeypatch):
    monkeypatch.chdir(ROOT)
    status, _, err = told(*words)
    options = {w[2:]: True for w in words[2:] if w.startswith("--") and w == words[-1]}
    options.update({a[2:]: b for a, b in zip(words[2:], words[3:]) if a.startswith("--")})
    with pytest.raises(vram.VramError) as e:
        getattr(vram, words[0])(words[1], **options)
    assert (e.value.status, e.value.line) == (status, err.strip().splitlines()[-1])
    assert pickle.loads(pickle.dumps(e.value)).line == e.value.line


def test_what_is_no_model():
    for model, inputs in ((3, None), (None, None), ("resnet50", [1])):
        with pytest.raises(vram.VramError):
            vram.estimate(model, inputs)
    for command in "run", "watch":
        with pytest.raises(vram.VramError, match="terminal"):
            vram.command(command)
    with pytest.raises(vram.VramError, match="character 0"):
        vram.command("estimate", "a\0b")


def test_options():
    from vram._options import words

    assert words({"amp": None, "keep_grads": True, "capturable": False, "batch": 4}) == ["--keep-grads", "--batch", "4"]
    assert words({"dim": {"S": 8, "T": 9}}) == ["--dim", "S=8", "--dim", "T=9"]
    assert words({"gpu": ["h100", "a100"], "lora": {"r": 16, "alpha": 8}}) == ["--gpu", "h100,a100", "--lora", "r=16,alpha=8"]
    assert words({"events": pathlib.Path("a b")}) == ["--events", "a b"]


def test_the_command_as_a_function():
    assert vram.command("--version") == told("--version")
    assert vram.command("estimate", "-", "--infer", input=TEXT) == told("estimate", "-", "--infer", text=TEXT)
    assert vram.command() == told()
    assert vram.command("estimate", "-", input=b"") == told("estimate", "-", text="")
    assert vram.__version__ == told("--version")[1].split()[1]


def test_threads():
    wanted = {n: vram.estimate("lenet5", batch=n).json for n in range(1, 9)}
    wrong = []

    def ask(n):
        for _ in range(20):
            if vram.estimate("lenet5", batch=n).json != wanted[n]:
                wrong.append(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in wanted]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_interrupt():
    program = (
        "import os, signal, threading, vram\n"
        "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try:\n"
        "    vram.fit('resnet50', optimizer='adamw', parallel='auto', devices=4096, gpu='h100-80', global_batch=1 << 20, top='all')\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
        "print(vram.estimate('lenet5').params_bytes)\n"
    )
    p = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert p.stdout.split() == ["interrupted", str(vram.estimate("lenet5").params_bytes)], p.stderr


def test_the_console_script():
    for words in (["estimate", "lenet5", "--json"], ["estimate", "nope"], ["run", "--", "true"]):
        p = subprocess.run([sys.executable, "-m", "vram", *words], capture_output=True, text=True, cwd=ROOT)
        status, out, err = told(*words)
        shown = lambda s: re.sub(r"[0-9.]+ m?s\b|pid [0-9]+", "", s)
        assert (p.returncode, shown(p.stdout), shown(p.stderr)) == (status, shown(out), shown(err))


def test_pandas():
    pytest.importorskip("pandas")
    frame = vram.estimate("resnet50").to_pandas()
    assert frame["params"].sum() == sum(row["params"] for row in vram.estimate("resnet50").layers)


def test_the_documents_programs():
    """each ```python block of docs/python.md that needs no PyTorch runs, one behind the other, and prints the ```text below it"""
    text = (ROOT / "docs" / "python.md").read_text()
    blocks = re.findall(r"^```(\S*)(.*)\n((?:.*\n)*?)```$", text, re.MULTILINE)
    ran, names = 0, {}
    for (kind, how, body), below in zip(blocks, [*blocks[1:], ("", "", "")]):
        if kind != "python" or "tests/python runs it" not in how:
            continue
        shown = []
        names["print"] = lambda *a: shown.append(" ".join(map(str, a)))
        here = os.getcwd()
        os.chdir(ROOT)
        try:
            exec(compile(body, "docs/python.md", "exec"), names)
        finally:
            os.chdir(here)
        if below[0] == "text":
            assert "\n".join(shown).split() == below[2].split()
        ran += 1
    assert ran >= 3


def test_the_notebook():
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    for needed in ("ipykernel", "pandas"):
        pytest.importorskip(needed)
    book = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=100, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    outputs = [o for c in book.cells if c.cell_type == "code" for o in c.outputs]
    pictures = [o.data["text/html"] for o in outputs if "data" in o and "text/html" in o.data]
    assert len(pictures) == 4 and "data:image/svg+xml;base64," in pictures[0] and "expandable segments" in pictures[3]
    texts = [o.text for o in outputs if o.output_type == "stream"]
    f = vram.fit("resnet50", optimizer="adamw", gpu="rtx4090")
    assert texts[1].split() == [str(f.value), str(f.without_retries.value)] and texts[2].strip()
