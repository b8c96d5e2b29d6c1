// The page: settings to words of the command, its answers to tables. The command runs in workers.
"use strict";
(function () {
  const $ = (id) => document.getElementById(id);
  const models = JSON.parse($("models").textContent);
  const FIELDS = ["gpu", "budget", "train", "checkpoint", "accumulate", "parallel", "rank", "rules"];
  const GGUF_FIELDS = ["ctx", "slots", "kv", "ngl"];
  const KEPT = ["model", ...FIELDS, ...GGUF_FIELDS, "precision", "more"];
  const OWN = Object.create(null); // files that were chosen or dropped
  let kind = "graph";
  let dims = [];
  let asked = 0;

  // ---- workers: for the figures, for what is shown below them, for what may take its time ----

  // The module says how its code is packed; it is made ready once, for all of them.
  const wasm = (async () => {
    const packed = $("module").textContent.match(/const WASM = `([^`]*)`/)[1].replace(/\s/g, "");
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return WebAssembly.compile(await new Response(stream).arrayBuffer());
  })();

  const url = URL.createObjectURL(
    new Blob(
      [
        // a page of a file may have no worker that is a module
        $("module").textContent.replace(/^export /gm, "").replace(/`[^`]*`/, "``"),
        `let begin, files = {};
const ready = new Promise((done) => (begin = done)).then((wasm) => load({ wasm }));
onmessage = async (e) => {
  if (e.data.wasm) return begin(e.data.wasm);
  if (e.data.files) return (files = e.data.files);
  const v = await ready;
  const from = performance.now();
  const result = v.run(e.data.args, { files });
  postMessage({ id: e.data.id, ms: performance.now() - from, ...result });
};`,
      ],
      { type: "text/javascript" }
    )
  );

  class Runner {
    constructor() {
      this.waiting = new Map();
      this.next = null;
      this.id = 0;
    }
    async start() {
      const worker = (this.worker = new Worker(url));
      worker.onmessage = (e) => {
        const done = this.waiting.get(e.data.id);
        this.waiting.delete(e.data.id);
        if (done) done(e.data);
        const next = this.next;
        this.next = null;
        if (next) this.run(next.args).then(next.done);
      };
      worker.onerror = (e) => fail(e.message || "the worker cannot run");
      this.files();
      worker.postMessage({ wasm: await wasm });
    }
    files() {
      if (this.worker) this.worker.postMessage({ files: { ...OWN } });
    }
    run(args) {
      if (!this.worker) this.start();
      return new Promise((done) => {
        this.waiting.set(++this.id, done);
        this.worker.postMessage({ id: this.id, args });
      });
    }
    // Of what is asked for while a run is on its way only the newest follows; the others bring null.
    newest(args) {
      if (!this.waiting.size) return this.run(args);
      if (this.next) this.next.done(null);
      return new Promise((done) => (this.next = { args, done }));
    }
    // what it does is no longer of use; the promise stays open
    stop() {
      if (!this.waiting.size) return;
      this.worker.terminate();
      this.worker = this.next = null;
      this.waiting.clear();
    }
  }
  const now = new Runner();
  const below = new Runner();
  const slow = new Runner();

  // ---- words ----

  const shellWords = (text) =>
    (text.match(/'[^']*'|"[^"]*"|[^\s'"]+/g) || []).map((w) => w.replace(/^(['"])(.*)\1$/, "$2"));
  const quoted = (w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replace(/'/g, "'\\''")}'`);

  function words() {
    const list = [];
    const fields = { graph: FIELDS, gguf: ["gpu", "budget", ...GGUF_FIELDS], weights: [] };
    for (const f of fields[kind]) {
      const value = $(f).value.trim();
      if (value && (f !== "rank" || $("parallel").value.trim())) list.push("--" + f, value);
    }
    if (kind === "graph") {
      // else it is a file of weights that is asked about
      if (/\.json$/.test($("model").value) && !$("train").value) list.push("--infer");
      list.push(...shellWords($("precision").value));
      dims.forEach(([name, value], k) => {
        const got = $("dim-" + k).value.trim();
        if (got && got !== value) list.push(...(k ? ["--dim", `${name}=${got}`] : ["--batch", got]));
      });
    }
    return list.concat(shellWords($("more").value));
  }

  // ---- what is shown ----

  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  function human(bytes) {
    let n = bytes;
    let k = 0;
    for (; n >= 1024 && k < units.length - 1; k++) n /= 1024;
    return (k ? n.toPrecision(n < 1000 ? 3 : 4) : n) + " " + units[k];
  }
  const numbers = new Intl.NumberFormat("en");
  const exact = (n) => numbers.format(n);
  const one = (x) => (x && typeof x === "object" ? x.expected : x);

  function element(tag, text, cls) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  }

  // Of long tables what is seen first; the rest when nothing has changed for a moment, or to print.
  const FIRST = 40;
  let rest = [];
  function finish() {
    for (const one of rest) one();
    rest = [];
  }

  function table(id, caption, head, rows, texts, cellsOf = (row) => row) {
    const t = $(id);
    t.replaceChildren(element("caption", caption));
    const tr = t.createTHead().insertRow();
    head.forEach((h, k) => {
      const th = element("th", h, k < texts ? "t" : "");
      th.scope = "col";
      tr.append(th);
    });
    const body = t.createTBody();
    const append = (some) => {
      for (const row of some) {
        const r = body.insertRow();
        cellsOf(row).forEach((c, k) => r.append(element("td", c, k < texts ? "t" : "")));
      }
    };
    append(rows.slice(0, FIRST));
    if (rows.length > FIRST) rest.push(() => append(rows.slice(FIRST)));
  }

  function fail(text) {
    $("error").textContent = text;
    $("error").hidden = false;
    $("verdict").textContent = "No answer";
    $("verdict").className = "";
    $("bar").hidden = true;
    $("largest").textContent = "";
    document.body.dataset.state = "ready";
  }

  const SOURCES = {
    derived: "exact",
    rules: "by the rules of that version",
    bound: "expected, with bounds",
    given: "given",
  };

  // Of a GGUF file: what llama.cpp has on a device, and what is beside it there.
  function deviceOf(j) {
    const name = Object.keys(j.total_bytes || {}).find((n) => n !== "host");
    const beside = name && (j.beside_bytes || {})[name];
    if (!beside) return name ? j.total_bytes[name] : undefined;
    const sum = (k) => j.total_bytes[name] + beside[k];
    return { lower: sum("lower"), expected: sum("expected"), upper: sum("upper") };
  }

  function showFigures(j) {
    const device = j.device_bytes !== undefined ? j.device_bytes : deviceOf(j);
    const need = device !== undefined ? device : j.peak_allocated_bytes;
    const verdict = $("verdict");
    const size = one(need);
    const bar = $("bar");
    $("error").hidden = true;
    if (j.fits === undefined || j.budget_bytes === undefined) {
      verdict.textContent =
        size === undefined ? `${human(j.params_bytes)} of weights` : `It needs ${human(size)}`;
      verdict.className = "";
    } else {
      verdict.textContent =
        (j.fits ? "It fits" : "It does not fit") +
        (size === undefined ? "" : `: ${human(size)} of ${human(j.budget_bytes)}`);
      verdict.className = j.fits ? "yes" : "no";
    }
    bar.hidden = !(j.budget_bytes > 0 && size !== undefined);
    if (!bar.hidden) {
      const i = element("i");
      i.style.width = Math.min(100, (100 * size) / j.budget_bytes) + "%";
      bar.replaceChildren(i);
      bar.className = j.fits ? "" : "no";
    }
    const figures = $("figures");
    figures.replaceChildren();
    const named = [
      ["On the device", device],
      ["Reserved", j.peak_reserved_bytes],
      ["Allocated", j.peak_allocated_bytes],
      ["Requested", j.peak_requested_bytes],
    ];
    for (const [name, value] of named) {
      if (value === undefined) continue;
      const dd = element("dd", human(one(value)) + " ");
      const range =
        typeof value === "object" && value.lower !== value.upper
          ? `, ${human(value.lower)} to ${human(value.upper)}`
          : "";
      dd.append(element("small", `${exact(one(value))} bytes${range}`));
      figures.append(element("dt", name), dd);
    }
    if (j.peak_node)
      figures.append(element("dt", "The peak"), element("dd", `in ${j.peak_phase}, at ${j.peak_node}`));
    const rows = [];
    const put = (name, source, value) => {
      if (one(value) === undefined || one(value) === null) return;
      const ends = typeof value === "object" ? [value.lower, value.upper].map(exact) : ["", ""];
      rows.push([name, source, exact(one(value)), ...ends]);
    };
    for (const [name, parts] of Object.entries(j.buffers || {}))
      for (const part in parts)
        put(`${name}: ${part}`, part === "compute" && j.compute !== "exact" ? "" : "exact", parts[part]);
    for (const name in j.beside_bytes || {}) put(`${name}: beside`, SOURCES.bound, j.beside_bytes[name]);
    for (const [key, value] of Object.entries(j))
      if (key.endsWith("_bytes"))
        put(key.replace(/_bytes$/, "").replace(/_/g, " "), SOURCES[(j.sources || {})[key]] || "", value);
    table("parts", "Bytes", ["what", "how it is known", "expected", "at least", "at most"], rows, 2);
  }

  // The picture follows the page's switch, not the system's.
  function paint(svg) {
    const dark = document.documentElement.dataset.theme === "dark";
    $("picture").innerHTML = svg.replace(
      "@media screen and (prefers-color-scheme:dark)",
      dark ? "@media screen" : "@media not all"
    );
    const picture = $("picture").firstElementChild;
    if (picture) picture.setAttribute("aria-label", picture.querySelector("desc").textContent);
  }
  let picture = "";

  function cells(line) {
    const out = [];
    const pattern = /("(?:[^"]|"")*"|[^,]*)(,|$)/y;
    for (let m; (m = pattern.exec(line)); ) {
      out.push(m[1].replace(/^"(.*)"$/, "$1").replace(/""/g, '"'));
      if (!m[2]) break;
    }
    return out;
  }

  function showLayers(text) {
    const [first, ...rows] = text.trim().split("\n");
    const head = cells(first);
    const number = head.map((h) => /params|bytes/.test(h));
    const order = head.map((h, k) => k).sort((a, b) => number[a] - number[b] || a - b);
    table(
      "layers",
      `${rows.length} layers, bytes`,
      order.map((k) => head[k].replace(/_(bytes|params)$/, "").replace(/_/g, " ")),
      rows,
      number.filter((n) => !n).length,
      (line) => {
        const r = cells(line);
        return order.map((k) => (number[k] && r[k] ? exact(Number(r[k])) : r[k]));
      }
    );
  }

  function showWhy(text) {
    const at = text.search(/^live at the peak/m);
    const from = text.search(/^from the tensors/m);
    const rows = [];
    if (at >= 0)
      for (const line of text.slice(at).split("\n").slice(1)) {
        const m = line.match(/^\s+([\d.]+ \w+)\s+(\S+)\s*(.*)$/);
        if (!m) break;
        rows.push([m[2], m[3], m[1]]);
      }
    table("live", at >= 0 ? text.slice(at).split("\n")[0] : "", ["what", "of", "size"], rows, 2);
    $("s-live").hidden = !rows.length;
    $("why").textContent = from >= 0 ? text.slice(from, at >= 0 ? at : undefined).trim() : text.trim();
  }

  // ---- a change ----

  // When what was changed is seen: behind the next frame. Of a page that is hidden there is none.
  const seen = () =>
    new Promise((done) =>
      requestAnimationFrame(() => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = () => done(performance.now());
        port2.postMessage(0);
      })
    );

  // from: when it was asked for. The figures first; the picture and the tables follow, from beside.
  let state = {};
  async function update(from = performance.now()) {
    const id = ++asked;
    const model = $("model").value;
    const own = words();
    const args = ["estimate", model, ...own];
    document.body.dataset.state = "busy";
    $("command").textContent = ["vram", ...args].map(quoted).join(" ");
    keep();
    slow.stop();
    clearTimeout(timer);
    rest = [];
    const answer = await now.newest([...args, "--json"]);
    if (id !== asked || !answer) return null;
    const s = { args, status: answer.status, stdout: answer.stdout, stderr: answer.stderr, runMs: answer.ms };
    globalThis.vram.state = state = s;
    const good = (!s.status || s.status === 3) && s.stdout;
    if (good) {
      s.json = JSON.parse(s.stdout);
      showFigures(s.json);
    } else {
      fail(s.stderr.trim());
    }
    document.body.classList.toggle("failed", !good);
    if (!good) document.body.dataset.advice = "none";
    seen().then((at) => (s.ms = at - from));
    if (good && !(await showBelow(id, args))) return null;
    s.allMs = performance.now() - from;
    document.body.dataset.state = "ready";
    if (good) later(id, model, own);
    return s;
  }

  async function showBelow(id, args) {
    const more = ["--no-table", "--live", "--explain", "--svg", "picture.svg"];
    const layersRun = kind === "graph" && now.newest([...args, "--csv"]); // beside it
    const text = await below.newest([...args, ...(kind === "graph" ? more : [])]);
    if (id !== asked || !text) return false;
    const svg = text.files["picture.svg"];
    picture = svg ? new TextDecoder().decode(svg) : "";
    $("s-picture").hidden = !picture;
    paint(picture);
    showWhy(text.stdout);
    const layers = kind === "graph" ? await layersRun : { stdout: "" };
    if (id !== asked || !layers) return false;
    $("s-layers").hidden = !layers.stdout;
    if (layers.stdout) showLayers(layers.stdout);
    return true;
  }

  // ---- what is searched for follows a moment later ----

  const EFFECTS = {
    same: "the same numbers, but for the order in which they are added up",
    rounding: "the same computation with fewer bits",
    training: "another training, with settings of its own to be found",
    task: "smaller inputs",
  };

  function copies(button, from) {
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(from.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(from); // the user's own keys copy it
        button.textContent = "Selected";
      }
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }

  // of the whole step: backward has twice the operations of forward
  function operations(line, trains) {
    return (line.forward_flops - line.recomputed_flops) * (trains ? 3 : 1) + line.recomputed_flops;
  }

  function advised(line, now, budget, trains) {
    const item = element("li");
    const name = line.changes
      .map((c) => c.name + (line.effect === "task" && /--dim/.test(c.options) ? ` (${c.options})` : ""))
      .join(" + ");
    const head = element("h3", name + " ");
    if (budget) head.append(element("span", line.fits ? "fits" : "does not fit", line.fits ? "yes" : "no"));
    const saved = now.peak_allocated_bytes - line.peak_allocated_bytes;
    const facts = [
      `${human(Math.abs(saved))} ${saved < 0 ? "more" : "saved"}: ${human(line.peak_allocated_bytes)} allocated, ` +
        `${human(line.device_bytes)} on the device`,
      EFFECTS[line.effect] || line.effect,
    ];
    if (line.forward_flops && now.forward_flops) {
      const percent = 100 * (operations(line, trains) / operations(now, trains) - 1);
      if (Math.abs(percent) >= 0.05)
        facts.push(`${percent > 0 ? "+" : "-"}${Math.abs(percent).toFixed(1)} % operations of the step`);
    }
    if (line.sent_bytes > now.sent_bytes) facts.push(`${human(line.sent_bytes - now.sent_bytes)} sent a step`);
    if (line.pinned_bytes > now.pinned_bytes)
      facts.push(`${human(line.pinned_bytes - now.pinned_bytes)} of host memory`);
    for (const c of line.changes) if (c.cost !== "nothing") facts.push(c.cost);
    item.append(head, element("p", [...new Set(facts)].join("; ")));
    const torch = line.changes.map((c) => c.torch).filter((t) => t).join("\n");
    if (torch) item.append(element("pre", torch));
    const command = element("div", undefined, "command");
    const code = element("code", line.command);
    const copy = element("button", "Copy");
    const use = element("button", "Use");
    copy.type = use.type = "button";
    copy.setAttribute("aria-label", "Copy the command: " + name);
    use.setAttribute("aria-label", "Use: " + name);
    use.title = "put it into the settings";
    copies(copy, code);
    use.addEventListener("click", () => fill(shellWords(line.command).slice(3)));
    command.append(code, copy, use);
    item.append(command);
    return item;
  }

  // A way of its own: no line before it that fits needs but a part of its options.
  function isWay(lines, i) {
    const option = (change) => change.options.split(" ")[0];
    const has = (line, change) => line.changes.some((c) => option(c) === option(change));
    return !lines.slice(0, i).some((l) => l.fits && l.changes.every((c) => has(lines[i], c)));
  }

  // As the command shows it: what nothing beats; where something fits nothing that does not, and
  // other ways, too.
  function showAdvice(j, more) {
    const fits = j.budget_bytes && !j.now.fits && j.lines.some((l) => l.fits);
    const lines = j.lines
      .filter((l, i) => (fits ? l.fits && (l.pareto || isWay(j.lines, i)) : l.pareto))
      .slice(0, 8);
    const ways = j.lines.filter((l) => l.fits).length;
    $("h-advice").textContent = j.budget_bytes && !j.now.fits ? "What to change so that it fits" : "What saves";
    $("searched").textContent =
      (fits
        ? `${ways} way${ways === 1 ? "" : "s"} to fit, the cheapest first; `
        : j.budget_bytes && !j.now.fits
          ? "Nothing that was tried fits; the nearest: "
          : lines.length
            ? "The cheapest first; "
            : "Nothing saves anything; ") +
      `${exact(j.played)} steps played` +
      (more ? ", more on their way" : j.left ? `, ${exact(j.left)} combinations left` : "");
    $("advice").replaceChildren(...lines.map((l) => advised(l, j.now, j.budget_bytes, j.mode.startsWith("train"))));
    $("s-advice").hidden = false;
    $("s-advice").classList.remove("old");
  }

  // What was found before stays in its place until then, unless it is of another model.
  let timer = 0;
  let advisedOf = "";
  function later(id, model, own) {
    const device = $("gpu").value || $("budget").value;
    const searches = kind === "graph" || (kind === "gguf" && device);
    $("largest").textContent = "";
    if (!searches || advisedOf !== model) $("s-advice").hidden = true;
    $("s-advice").classList.add("old");
    $("searched").textContent = "Searching";
    document.body.dataset.advice = searches ? "busy" : "none";
    timer = setTimeout(async () => {
      finish();
      if (!searches) return;
      // some advice first, then all; the largest between, which may take longer than either
      const tries = kind === "graph" ? [15, 60, 0] : [];
      const fits = () => device && $("checkpoint").value !== "auto" && showLargest(id, model, own);
      if (!tries.length) await fits();
      for (const n of tries) {
        const advice = await slow.run(["advise", model, ...own, ...(n ? ["--tries", n] : []), "--json"]);
        if (id !== asked) return;
        const j = advice.stdout && JSON.parse(advice.stdout);
        const whole = !n || !j;
        if (j) {
          advisedOf = model;
          state.advice = { stdout: advice.stdout, status: advice.status };
          showAdvice(j, !whole);
        }
        $("s-advice").hidden = !j;
        if (n === tries[0]) await fits();
        if (id !== asked) return;
        if (whole) break;
      }
      document.body.dataset.advice = "ready";
    }, 250);
  }

  async function showLargest(id, model, own) {
    const solved = kind === "gguf" ? "--ctx" : "--batch";
    const rest = own.filter((w, k) => w !== solved && own[k - 1] !== solved);
    const fit = await slow.run(["fit", model, ...rest, "--json"]);
    if (id !== asked) return;
    const j = fit.stdout && JSON.parse(fit.stdout);
    if (j && j.value) $("largest").textContent = `The largest ${j.solve === "ctx" ? "context" : j.solve} that fits: ${exact(j.value)}`;
  }

  // Words of the command into the fields; what has none goes into the last one.
  function fill(list) {
    const more = [];
    const precision = [];
    for (const f of [...FIELDS, ...GGUF_FIELDS, "precision", "more"]) $(f).value = "";
    dims.forEach(([, value], k) => ($("dim-" + k).value = value));
    for (let i = 0; i < list.length; i++) {
      const name = list[i].slice(2);
      if (name === "infer") continue;
      const value = i + 1 < list.length && !list[i + 1].startsWith("--") ? list[++i] : undefined;
      const [dim, size] = name === "batch" ? [dims[0] && dims[0][0], value] : (value || "").split("=");
      const at = name === "batch" || name === "dim" ? dims.findIndex((d) => d[0] === dim) : -1;
      if (at >= 0) $("dim-" + at).value = size;
      else if (["amp", "dtype", "master-weights"].includes(name)) precision.push("--" + name, value);
      else {
        const field = FIELDS.includes(name) && $(name);
        if (field) field.value = value; // a list has not every one
        if (!field || field.value !== value) more.push("--" + name, value);
      }
    }
    const words = precision.filter((w) => w);
    $("precision").value = words.join(" ");
    if ($("precision").selectedIndex === -1) {
      $("precision").value = "";
      more.push(...words);
    }
    $("more").value = more.filter((w) => w !== undefined).map(quoted).join(" ");
    ranks();
    update();
    $("h-answer").scrollIntoView({ block: "nearest" });
  }

  // ---- the model ----

  // A file's kind, and its text where it is a graph: of a config.json the one that it stands for.
  async function look(name) {
    const file = OWN[name];
    const head = new Uint8Array(await file.slice(0, 4).arrayBuffer());
    if (String.fromCharCode(...head) === "GGUF") return { kind: "gguf" };
    if (/\.(safetensors|index\.json)$/.test(name)) return { kind: "weights" };
    if (/\.(json|onnx|tflite|pte|pb)$/.test(name)) {
      const r = await now.run(["convert", name]);
      return { kind: r.status && /\.json$/.test(name) ? "weights" : "graph", text: r.stdout };
    }
    return { kind: "graph", text: await file.slice(0, 1 << 20).text() };
  }

  const dimsOf = (text) =>
    [...text.matchAll(/^dim +(.*)/gm)].flatMap(([, line]) =>
      [...line.replace(/#.*/, "").matchAll(/([A-Za-z_]\w*)=(\d+)/g)].map((m) => [m[1], m[2]])
    );

  async function choose(values = {}) {
    const name = $("model").value;
    const known = models.find((m) => m.name === name);
    const found = OWN[name] ? await look(name) : { kind: "graph" };
    kind = found.kind;
    dims = OWN[name] || !known ? dimsOf(found.text || "") : known.dims;
    for (const e of document.querySelectorAll("form [data-of]"))
      e.classList.toggle("off", !e.dataset.of.split(" ").includes(kind));
    $("dims").replaceChildren(element("legend", "Sizes"));
    dims.forEach(([dim, value], k) => {
      const label = element("label", k ? (dim === "S" ? "Sequence (S) " : `Size ${dim} `) : `Batch (${dim}) `);
      const input = element("input");
      Object.assign(input, { id: "dim-" + k, type: "number", min: 1, value: values[dim] || value });
      label.append(input);
      $("dims").append(label);
    });
    $("dims").classList.toggle("off", !dims.length);
    $("more").placeholder = { graph: "as --ema foreach", gguf: "as --n-ubatch 1024", weights: "" }[kind];
    $("h-why").textContent = kind === "graph" ? "Why, and what bounds it" : "The file";
    ranks();
  }

  function options(select, rows) {
    for (const [value, text] of rows) $(select).append(new Option(text || value, value));
  }

  async function add(files) {
    const list = [...files];
    if (!list.length) return null;
    for (const f of list) OWN[f.name] = f;
    slow.stop();
    for (const runner of [now, below, slow]) runner.files();
    let group = $("model").querySelector("optgroup[label='Yours']");
    if (!group) {
      group = element("optgroup");
      group.label = "Yours";
      $("model").prepend(group);
    }
    group.replaceChildren(...Object.keys(OWN).map((n) => new Option(n, n)));
    const best = [/index\.json$/, /-00001-of-/, /^config\.json$/, /./];
    $("model").value = best.map((b) => list.find((f) => b.test(f.name))).find((f) => f).name;
    await choose();
    $("file").value = ""; // so that the same may be chosen again
    return update();
  }

  // ---- the link ----

  let kept = -Infinity;
  let keeping = 0;

  // Chromium takes 200 links in ten seconds
  function keep() {
    clearTimeout(keeping);
    const wait = kept + 100 - performance.now();
    if (wait > 0) {
      keeping = setTimeout(keep, wait);
      return;
    }
    kept = performance.now();
    const p = new URLSearchParams();
    for (const f of KEPT) if ($(f).value) p.set(f, $(f).value);
    dims.forEach(([name, value], k) => {
      const input = $("dim-" + k);
      if (input && input.value && input.value !== value) p.set("dim." + name, input.value);
    });
    history.replaceState(null, "", "#" + p);
  }

  async function restore() {
    const p = new URLSearchParams(location.hash.slice(1));
    const values = {};
    for (const f of KEPT) {
      $(f).value = p.get(f) || "";
      if ($(f).selectedIndex === -1) $(f).selectedIndex = 0; // it is not there
    }
    if (!$("model").value || !p.get("model")) $("model").value = OWN[p.get("model")] ? p.get("model") : "resnet50";
    if (p.get("model") && models.some((m) => m.name === p.get("model"))) $("model").value = p.get("model");
    if (!location.hash) {
      $("train").value = "adamw";
      $("gpu").value = "rtx4090";
    }
    for (const [k, v] of p) if (k.startsWith("dim.")) values[k.slice(4)] = v;
    await choose(values);
    return update();
  }

  // Which of many devices: asked where there are many.
  function ranks() {
    $("rank-of").classList.toggle("off", kind !== "graph" || !$("parallel").value.trim());
  }

  // ---- light and dark ----

  const system = matchMedia("(prefers-color-scheme: dark)");
  let theme = "";
  try {
    theme = localStorage.getItem("vram-theme") || "";
  } catch {
    theme = ""; // a page that may keep nothing
  }
  function applyTheme() {
    const dark = theme ? theme === "dark" : system.matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").textContent = dark ? "Light" : "Dark";
    if (picture) paint(picture);
  }
  $("theme").addEventListener("click", () => {
    theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("vram-theme", theme);
    } catch {
      // as above
    }
    applyTheme();
  });
  system.addEventListener("change", applyTheme);
  applyTheme();

  // ---- events ----

  $("form").addEventListener("submit", (e) => e.preventDefault());
  $("form").addEventListener("input", async (e) => {
    if (e.target.id === "file") return;
    if (e.target.id === "parallel") ranks();
    if (e.target.id === "model") await choose();
    update(e.timeStamp);
  });
  $("file").addEventListener("change", (e) => add(e.target.files));
  addEventListener("dragover", (e) => {
    e.preventDefault();
    $("drop").classList.add("over");
  });
  addEventListener("dragleave", (e) => e.relatedTarget || $("drop").classList.remove("over"));
  addEventListener("drop", (e) => {
    e.preventDefault();
    $("drop").classList.remove("over");
    if (e.dataTransfer) add(e.dataTransfer.files);
  });
  addEventListener("hashchange", () => restore());
  addEventListener("beforeprint", finish);
  copies($("copy"), $("command"));

  const rowsOf = (text, between) =>
    text.trim().split("\n").slice(1).map((line) => line.trim().split(between));
  const group = element("optgroup");
  group.label = "Built in";
  group.append(...models.map((m) => new Option(m.name, m.name)));
  $("model").append(group);

  async function begin() {
    const version = (await now.run(["--version"])).stdout.trim();
    $("version").textContent = `${version}: the command itself, as WebAssembly`;
    const gpus = rowsOf((await now.run(["list", "gpus"])).stdout, / +/);
    options("gpu", gpus.map(([name, , , sold, unit]) => [name, `${name}, ${sold} ${unit}`]));
    const optimizers = rowsOf((await now.run(["list", "optimizers"])).stdout, /  +/);
    options("train", optimizers.map(([name]) => [name.split(" ")[0], "train: " + name.split(" ")[0]]));
    const rules = (await now.run(["complete", "estimate", "--rules", ""])).stdout;
    options("rules", rules.trim().split("\n").map((line) => [line.split("\t")[0]]));
    const ways = (await now.run(["complete", "estimate", "--parallel", ""])).stdout;
    $("ways").append(...ways.trim().split("\n").map((line) => new Option("", line.split("\t")[0] + "8")));
    await restore();
  }

  // for a console, and for tests
  globalThis.vram = { run: (args) => now.run(args), add, state, update, restore, fill };
  begin();
})();
