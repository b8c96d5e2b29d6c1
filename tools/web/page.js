// The page: settings to words of the command, its answers to tables. The command runs in workers.
"use strict";
(function () {
  const $ = (id) => document.getElementById(id);
  const models = JSON.parse($("models").textContent);
  const FIELDS = ["gpu", "budget", "train", "checkpoint", "accumulate", "parallel", "rules"];
  const GGUF_FIELDS = ["ctx", "slots", "kv", "ngl"];
  const KEPT = ["model", ...FIELDS, ...GGUF_FIELDS, "precision", "more"];
  const OWN = Object.create(null); // files that were chosen or dropped
  let kind = "graph";
  let dims = [];
  let asked = 0;

  // ---- workers: one for what follows at once, one for what may take its time ----

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
      this.id = 0;
    }
    async start() {
      const worker = (this.worker = new Worker(url));
      worker.onmessage = (e) => {
        const done = this.waiting.get(e.data.id);
        this.waiting.delete(e.data.id);
        if (done) done(e.data);
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
    // what it does is no longer of use; the promise stays open
    stop() {
      if (!this.waiting.size) return;
      this.worker.terminate();
      this.worker = null;
      this.waiting.clear();
    }
  }
  const now = new Runner();
  const slow = new Runner();
  let advises = false;

  // ---- words ----

  const shellWords = (text) =>
    (text.match(/'[^']*'|"[^"]*"|[^\s'"]+/g) || []).map((w) => w.replace(/^(['"])(.*)\1$/, "$2"));
  const quoted = (w) => (/^[\w@%+=:,./-]+$/.test(w) ? w : `'${w.replace(/'/g, "'\\''")}'`);

  function words() {
    const list = [];
    const fields = kind === "graph" ? FIELDS : ["gpu", "budget", ...(kind === "gguf" ? GGUF_FIELDS : [])];
    for (const f of fields) {
      const value = $(f).value.trim();
      if (value) list.push("--" + f, value);
    }
    if (kind === "graph") {
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
  const exact = (n) => n.toLocaleString("en");
  const one = (x) => (x && typeof x === "object" ? x.expected : x);

  function element(tag, text, cls) {
    const e = document.createElement(tag);
    if (text !== undefined) e.textContent = text;
    if (cls) e.className = cls;
    return e;
  }

  function table(id, caption, head, rows, texts) {
    const t = $(id);
    t.replaceChildren(element("caption", caption));
    const tr = t.createTHead().insertRow();
    head.forEach((h, k) => {
      const th = element("th", h, k < texts ? "t" : "");
      th.scope = "col";
      tr.append(th);
    });
    const body = t.createTBody();
    for (const row of rows) {
      const r = body.insertRow();
      row.forEach((c, k) => r.append(element("td", c, k < texts ? "t" : "")));
    }
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

  function showFigures(j) {
    const need = j.device_bytes !== undefined ? j.device_bytes : j.peak_allocated_bytes;
    const verdict = $("verdict");
    const size = one(need);
    const bar = $("bar");
    $("error").hidden = true;
    if (j.fits === undefined || j.budget_bytes === undefined) {
      verdict.textContent = size === undefined ? "Read" : `It needs ${human(size)}`;
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
      ["On the device", j.device_bytes],
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
    for (const [key, value] of Object.entries(j)) {
      if (!key.endsWith("_bytes") || one(value) === undefined || one(value) === null) continue;
      const ranged = typeof value === "object" && value !== null;
      rows.push([
        key.replace(/_bytes$/, "").replace(/_/g, " "),
        SOURCES[(j.sources || {})[key]] || "",
        exact(one(value)),
        ranged ? exact(value.lower) : "",
        ranged ? exact(value.upper) : "",
      ]);
    }
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
    const [head, ...rows] = text.trim().split("\n").map(cells);
    const number = head.map((h) => /params|bytes/.test(h));
    const order = head.map((h, k) => k).sort((a, b) => number[a] - number[b] || a - b);
    table(
      "layers",
      `${rows.length} layers, bytes`,
      order.map((k) => head[k].replace(/_bytes$/, "").replace(/_/g, " ")),
      rows.map((r) => order.map((k) => (number[k] && r[k] ? exact(Number(r[k])) : r[k]))),
      number.filter((n) => !n).length
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

  let state = {};
  async function update() {
    const id = ++asked;
    const model = $("model").value;
    const own = words();
    const args = ["estimate", model, ...own];
    const graph = kind === "graph";
    document.body.dataset.state = "busy";
    $("command").textContent = ["vram", ...args].map(quoted).join(" ");
    keep();
    slow.stop();
    const from = performance.now();
    const answer = await now.run([...args, "--json", ...(graph ? ["--svg", "picture.svg"] : [])]);
    if (id !== asked) return null;
    state = { args, status: answer.status, stdout: answer.stdout, stderr: answer.stderr, ms: 0, runMs: answer.ms };
    globalThis.vram.state = state;
    if ((answer.status && answer.status !== 3) || !answer.stdout) {
      fail(answer.stderr.trim());
      return state;
    }
    state.json = JSON.parse(answer.stdout);
    showFigures(state.json);
    picture = answer.files["picture.svg"] ? new TextDecoder().decode(answer.files["picture.svg"]) : "";
    $("s-picture").hidden = !picture;
    paint(picture);
    state.ms = performance.now() - from;
    const text = await now.run([...args, ...(graph ? ["--no-table", "--live", "--explain"] : [])]);
    if (id !== asked) return null;
    showWhy(text.stdout);
    const layers = graph ? await now.run([...args, "--csv"]) : { stdout: "" };
    if (id !== asked) return null;
    $("s-layers").hidden = !layers.stdout;
    if (layers.stdout) showLayers(layers.stdout);
    state.allMs = performance.now() - from;
    document.body.dataset.state = "ready";
    later(id, model, own);
    return state;
  }

  // What is searched for follows a moment later.
  let timer = 0;
  function later(id, model, own) {
    clearTimeout(timer);
    $("largest").textContent = "";
    $("s-advice").hidden = true;
    if (kind !== "graph" || !($("gpu").value || $("budget").value) || $("checkpoint").value === "auto") return;
    timer = setTimeout(async () => {
      const rest = own.filter((w, k) => w !== "--batch" && own[k - 1] !== "--batch");
      const fit = await slow.run(["fit", model, ...rest, "--json"]);
      if (id !== asked) return;
      const j = fit.stdout && JSON.parse(fit.stdout);
      if (j && j.value) $("largest").textContent = `The largest ${j.solve} that fits: ${exact(j.value)}`;
      state.fit = j;
      if (!advises) return;
      const advice = await slow.run(["advise", model, ...own]);
      if (id !== asked || !advice.stdout) return;
      $("advice").textContent = advice.stdout.trim();
      $("s-advice").hidden = false;
    }, 250);
  }

  // ---- the model ----

  async function kindOf(name) {
    if (!OWN[name]) return "graph";
    const head = new Uint8Array(await OWN[name].slice(0, 4).arrayBuffer());
    if (String.fromCharCode(...head) === "GGUF") return "gguf";
    if (/\.(safetensors|json)$/.test(name)) return "weights";
    return "graph";
  }

  async function dimsOf(name) {
    const known = models.find((m) => m.name === name);
    let text = "";
    if (!OWN[name]) return known ? known.dims : [];
    if (/\.(onnx|tflite|pte|pb)$/.test(name)) text = (await now.run(["convert", name])).stdout;
    else text = await OWN[name].slice(0, 1 << 20).text();
    return [...text.matchAll(/^dim +([A-Za-z_]\w*)=(\d+)/gm)].map((m) => [m[1], m[2]]);
  }

  async function choose(values = {}) {
    const name = $("model").value;
    kind = await kindOf(name);
    dims = kind === "graph" ? await dimsOf(name) : [];
    for (const k of ["graph", "gguf"])
      document.querySelectorAll("." + k).forEach((e) => e.classList.toggle("off", k !== kind));
    $("dims").replaceChildren(element("legend", "Sizes"));
    dims.forEach(([dim, value], k) => {
      const label = element("label", k ? `${dim} ` : `Batch (${dim}) `);
      const input = element("input");
      Object.assign(input, { id: "dim-" + k, type: "number", min: 1, value: values[dim] || value });
      label.append(input);
      $("dims").append(label);
    });
    $("dims").classList.toggle("off", !dims.length);
  }

  function options(select, rows) {
    for (const [value, text] of rows) $(select).append(new Option(text || value, value));
  }

  async function add(files) {
    const list = [...files];
    if (!list.length) return null;
    for (const f of list) OWN[f.name] = f;
    now.files();
    slow.stop();
    slow.files();
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
    return update();
  }

  // ---- the link ----

  function keep() {
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
    if (e.target.id === "model") await choose();
    update();
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
  addEventListener("hashchange", restore);
  $("copy").addEventListener("click", async () => {
    const text = $("command").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      getSelection().selectAllChildren($("command")); // the user's own keys copy it
    }
    $("copy").textContent = "Copied";
    setTimeout(() => ($("copy").textContent = "Copy"), 1500);
  });

  const rowsOf = (text) => text.trim().split("\n").slice(1).map((line) => line.trim().split(/  +/));
  const group = element("optgroup");
  group.label = "Built in";
  group.append(...models.map((m) => new Option(m.name, m.name)));
  $("model").append(group);

  async function begin() {
    const version = (await now.run(["--version"])).stdout.trim();
    $("version").textContent = `${version}: the command itself, as WebAssembly`;
    const gpus = (await now.run(["list", "gpus"])).stdout.trim().split("\n").slice(1);
    options("gpu", gpus.map((line) => [line.split(/ /)[0], line.slice(0, 38).replace(/ +/g, " ")]));
    const optimizers = rowsOf((await now.run(["list", "optimizers"])).stdout);
    options("train", optimizers.map(([name]) => [name.split(" ")[0], "train: " + name.split(" ")[0]]));
    const rules = (await now.run(["complete", "estimate", "--rules", ""])).stdout;
    options("rules", rules.trim().split("\n").map((line) => [line.split("\t")[0]]));
    const ways = (await now.run(["complete", "estimate", "--parallel", ""])).stdout;
    $("ways").append(...ways.trim().split("\n").map((line) => new Option("", line.split("\t")[0] + "8")));
    advises = !(await now.run(["help", "advise"])).status;
    await restore();
  }

  // for a console, and for tests
  globalThis.vram = { run: (args) => now.run(args), add, state, update, restore };
  begin();
})();
