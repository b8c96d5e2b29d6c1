"""The page and the module of `make web` in Chromium: web.py VRAM DIR [PICTURES]. What they say is
compared with the command's own answers."""

import base64
import importlib.util
import json
import os
import pathlib
import re
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from browser import Browser

VRAM = os.path.abspath(sys.argv[1])
PAGE = pathlib.Path(sys.argv[2], "vram.html").resolve().as_uri()
PICTURES = sys.argv[3] if len(sys.argv) > 3 else None
GOLDEN = pathlib.Path("tests/golden")
passed = failed = 0


def check(name, good, more=""):
    global passed, failed
    if good:
        passed += 1
    else:
        failed += 1
        print(f"FAIL {name} {str(more)[:600]}")


def command(args, cwd=None):
    r = subprocess.run([VRAM, *args], cwd=cwd, capture_output=True, text=True)
    return r.returncode, r.stdout, r.stderr


READY = "document.body && document.body.dataset.state === 'ready'"


def at(browser, link):
    """The page with the settings of a link; its state."""
    browser.value(f"history.replaceState(null, '', '#{link}'); vram.restore().then(() => 1)")
    browser.wait(READY)
    return browser.value("vram.state")


def built_in(browser):
    models = sorted(p.stem for p in pathlib.Path("examples/models").glob("*.vram"))
    for k, model in enumerate(models):
        turn = k % 4
        for more in [("", "&precision=--amp+bf16", "&parallel=fsdp2=4", "&gpu=h100-80")[turn]]:
            s = at(browser, f"model={model}&train=adamw{more}")
            status, out, err = command([*s["args"], "--json"])
            check(f"{model}{more}", (s["status"], s["stdout"], s["stderr"]) == (status, out, err), s)
        figures = browser.value("document.getElementById('figures').textContent")
        expected = json.loads(out)["device_bytes"]["expected"] if out else 0
        check(f"{model}: what is shown", not out or f"{expected:,} bytes" in figures, figures)
        shown = browser.value("document.getElementById('command').textContent")
        check(f"{model}: its command", shlex.split(shown)[1:] == s["args"], shown)


def changes(browser, times):
    """A size is changed by its field: until the figures are painted, for each model."""
    models = sorted(p.stem for p in pathlib.Path("examples/models").glob("*.vram"))
    rows = []
    for model in models:
        at(browser, f"model={model}&train=adamw&gpu=rtx4090")
        rows.append(
            browser.value(
                f"""(async () => {{
                  const rest = (ms) => new Promise((done) => setTimeout(done, ms));
                  const field = document.getElementById("dim-0"), all = [];
                  const until = async (good) => {{
                    while (!good()) await rest(1);
                  }};
                  for (let i = 0; i < {times}; i++) {{
                    const before = vram.state;
                    field.value = Number(field.value) + (i % 2 ? -1 : 1);
                    field.dispatchEvent(new Event("input", {{ bubbles: true }}));
                    await until(() => vram.state !== before && vram.state.allMs);
                    await until(() => vram.state.ms);
                    all.push([vram.state.ms, vram.state.runMs, vram.state.allMs]);
                  }}
                  return all;
                }})()""",
                300,
            )
        )
    middle = [[statistics.median(column) for column in zip(*r)] for r in rows]
    least = [[min(column) for column in zip(*r)] for r in rows]
    for what, k in (("figures painted", 0), ("the command alone", 1), ("all of it", 2)):
        worst = max(range(len(models)), key=lambda i: middle[i][k])
        print(
            f"{what}, {len(models)} models, {times} changes each: the median of a model is "
            f"{statistics.median(m[k] for m in middle):.0f} ms, {middle[worst][k]:.0f} at most "
            f"({models[worst]}); the least {statistics.median(m[k] for m in least):.0f}, "
            f"{max(m[k] for m in least):.0f} at most"
        )
    check("changes follow", max(m[0] for m in least) < 5000, least)


def other_commands(browser):
    """Any command, not only those that the page asks."""
    for line in (
        "--version",
        "list models",
        "list gpus",
        "help parallel",
        "estimate resnet50 --train adamw --table --live --terms --explain --amp bf16 --gpu rtx4090",
        "estimate gpt2 --csv",
        "estimate lenet5 --embedded",
        "fit lenet5 --train sgd --gpu rtx2060",
        "plan lenet5 --train sgd --budget 30MiB",
        "emit lenet5 -o -",
        "estimate nothing_of_that_name",
        "estimate lenet5 --batch x",
        "run -- true",
    ):
        r = browser.value(f"vram.run({json.dumps(line.split())})")
        status, out, err = command(line.split())
        if line.startswith("run"):  # there are no programs here
            check(line, r["status"] != 0 and r["stderr"], r)
        else:
            check(line, (r["status"], r["stdout"], r["stderr"]) == (status, out, err), r["stderr"])


def dropped(browser, work):
    """Files, dropped; and one of 6 GiB, chosen: of it the header is read."""
    at(browser, "model=lenet5&train=sgd")
    files = [
        "gguf/llama-3.1-8b.Q4_K_M.gguf",
        "onnx/swin.onnx",
        "tflite/ic_i8io.tflite",
        "models/tv_resnet18.vram",
    ]
    for file in files:
        path = GOLDEN / file
        data = base64.b64encode(path.read_bytes()).decode()
        browser.value(
            f"""(() => {{
              const bytes = Uint8Array.from(atob("{data}"), (c) => c.charCodeAt(0));
              const transfer = new DataTransfer();
              transfer.items.add(new File([bytes], "{path.name}"));
              document.body.dataset.state = "dropped";
              document.getElementById("drop").dispatchEvent(
                new DragEvent("drop", {{ dataTransfer: transfer, bubbles: true }}));
            }})()"""
        )
        browser.wait(READY)
        s = browser.value("vram.state")
        status, out, err = command([*s["args"], "--json"], path.parent)
        check(f"{file} dropped", (s["status"], s["stdout"]) == (status, out) and out, (s, err))
    large = pathlib.Path(work, "large.gguf")
    shutil.copy(GOLDEN / files[0], large)
    os.truncate(large, 6 << 30)  # a hole behind the header
    node = browser.call("Runtime.evaluate", {"expression": "document.getElementById('file')"})
    browser.value("document.body.dataset.state = 'chosen'")
    browser.call(
        "DOM.setFileInputFiles",
        {"files": [str(large)], "objectId": node["result"]["objectId"]},
    )
    browser.wait(READY)
    s = browser.value("vram.state")
    status, out, err = command([*s["args"], "--json"], work)
    check("6 GiB chosen", (s["status"], s["stdout"]) == (status, out) and out, (s, err))
    large.unlink()


def link_and_errors(browser):
    s = at(browser, "model=gpt2&train=adamw&gpu=a100-40&checkpoint=layers&dim.S=512")
    check("all sizes are in it", {"--dim", "S=512"} <= set(s["args"]), s["args"])
    link = browser.value("location.hash")
    check("the link is kept", all(w in link for w in ("gpt2", "a100-40", "layers")), link)
    check("its settings", "--checkpoint" in s["args"] and "a100-40" in s["args"], s["args"])
    s = at(browser, "model=lenet5&more=--nonsense")
    shown = browser.value("document.getElementById('error').textContent")
    check("an error is the command's", shown == command(s["args"])[2].strip() and shown, shown)
    at(browser, "model=lenet5&train=sgd&gpu=rtx2060")
    browser.wait("document.getElementById('largest').textContent")
    largest = browser.value("document.getElementById('largest').textContent")
    value = json.loads(command("fit lenet5 --train sgd --gpu rtx2060 --json".split())[1])["value"]
    check("the largest batch", f"{value:,}" in largest, largest)


def advice(browser):
    """What to change follows, as the command says it; a button puts it into the settings."""
    link = "model=lenet5&train=sgd&gpu=rtx2060"
    s = at(browser, link)
    browser.wait("document.body.dataset.advice === 'ready'", 120)
    line = ["advise", *s["args"][1:]]
    said = json.loads(browser.value("vram.state.advice.stdout"))
    status, out, err = command([*line, "--json"])
    check("advice", said == json.loads(out), (line, err))
    shown = browser.value("[...document.querySelectorAll('#advice code')].map((e) => e.textContent)")
    check("advice is shown", shown and set(shown) <= {x["command"] for x in said["lines"]}, shown)
    text = command(line)[1]
    wanted = [x.split("\n")[0] for x in text.split("\n    $ ")[1:]]
    check("advice as the command shows it", shown == wanted, (shown, wanted))
    cost = "[+-][0-9.]+ % operations of the step"
    found = re.findall(cost, browser.value("document.getElementById('advice').textContent"))
    check("operations as the command has them", found and found == re.findall(cost, text), found)
    browser.value("(vram.seen = vram.state, document.querySelector('#advice button:last-child').click())")
    browser.wait("vram.state !== vram.seen && document.body.dataset.state === 'ready'")
    words = shlex.split(shown[0])[1:]
    s = browser.value("vram.state")
    there = json.loads(s["stdout"])
    status, out, err = command([*words, "--json"])
    check("Use", there == json.loads(out), (words, s["args"]))
    # a change stops what is searched for
    at(browser, "model=gpt2&train=adamw&gpu=rtx2060")
    browser.value("new Promise((done) => setTimeout(done, 400))")
    s = at(browser, "model=lenet5&train=sgd&gpu=rtx2060")
    check("a change stops the search", "lenet5" in s["args"], s["args"])


def keyboard(browser):
    """Tab comes to all that can be seen, and out again."""
    wanted = browser.value(
        """[...document.querySelectorAll("input, select, button, [tabindex]")]
           .filter((e) => e.checkVisibility()).map((e) => e.id || e.getAttribute("aria-labelledby"))"""
    )
    browser.value("document.activeElement.blur()")
    seen = []
    for _ in range(len(wanted) + 12):
        for kind in ("rawKeyDown", "keyUp"):
            browser.call(
                "Input.dispatchKeyEvent",
                {"type": kind, "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9},
            )
        seen.append(
            browser.value(
                "document.activeElement.id || document.activeElement.getAttribute('aria-labelledby')"
            )
        )
    check("Tab", set(wanted) <= set(seen), set(wanted) - set(seen))


def accessible(browser, theme):
    spec = importlib.util.find_spec("axe_playwright_python")
    if not spec:
        return False
    axe = pathlib.Path(spec.submodule_search_locations[0], "axe.min.js").read_text()
    browser.call("Runtime.evaluate", {"expression": axe})
    violations = browser.value(
        """axe.run(document).then((r) => r.violations.map((v) =>
             [v.id, v.impact, v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120) + " " + n.failureSummary)]))"""
    )
    check(f"axe-core, {theme}", violations == [], violations)
    return True


def looks(browser):
    model = "resnet50&train=adamw&gpu=rtx4090" if PICTURES else "lenet5&train=sgd&gpu=rtx2060"
    at(browser, f"model={model}")
    browser.wait("document.body.dataset.advice === 'ready'", 300)
    # what is below the window is not drawn else
    browser.value(
        """{ const style = document.createElement("style");
        style.textContent = "#results > section { content-visibility: visible }";
        document.head.append(style); }"""
    )
    axe = True
    for width, height in ((1400, 900), (800, 1000), (390, 844)):
        for dark in (False, True):
            browser.size(width, height, dark)
            wide = browser.value("document.documentElement.scrollWidth")
            check(f"{width} px", wide <= width, wide)
            name = f"{width}-{'dark' if dark else 'light'}"
            if (width, dark) in ((1400, False), (390, True)):
                axe = accessible(browser, name) and axe
            if PICTURES:
                browser.picture(f"{PICTURES}/{name}.png")
    if not axe:
        print("SKIP web: no axe-core (the package axe-playwright-python)")
    browser.size(1400, 900)
    browser.wait("document.documentElement.dataset.theme === 'light'")
    browser.value("document.getElementById('theme').click()")
    check("the switch", browser.value("document.documentElement.dataset.theme") == "dark")
    browser.value("document.getElementById('theme').click()")


def main():
    browser = Browser()
    try:
        browser.size(1400, 900)
        browser.open(PAGE, READY, 120)
        built_in(browser)
        if PICTURES:
            changes(browser, 15)
        other_commands(browser)
        with tempfile.TemporaryDirectory() as work:
            dropped(browser, work)
        link_and_errors(browser)
        advice(browser)
        looks(browser)
        keyboard(browser)
        check("no error in the console, no request", not browser.errors, browser.errors)
    finally:
        browser.close()
    print(f"web: {passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
