// The command `vram` as a module, for node and browsers: the same C code, as WebAssembly, inside.
//
//   import { load } from "./vram.mjs";
//   const v = await load();
//   v.estimate("resnet50", { train: "adamw", batch: 64, gpu: "rtx4090" }).device_bytes.expected
//   v.run(["estimate", "net.vram", "--table"], { files: { "net.vram": text } }).stdout

const WASM = `
@WASM@
`;

const ENOENT = 2;
const EIO = 5;
const EISDIR = 21;
const BLOCK = 1 << 18; // what is read at once of a file that lies elsewhere
const BLOCKS = 256; // as many are kept

export class VramError extends Error {
  constructor(result) {
    super(result.stderr.trim() || `vram: exit status ${result.status}`);
    this.name = "VramError";
    this.status = result.status;
  }
}

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.replace(/\s/g, "")), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Files of any size: {size, read(at, n)}, with what was read last.
const kept = new WeakMap();
function blocks(source) {
  let reader = kept.get(source);
  if (reader) return reader;
  const have = new Map();
  const fetchBlock =
    typeof source.read === "function"
      ? (at, n) => source.read(at, n)
      : (at, n) => new Uint8Array(new FileReaderSync().readAsArrayBuffer(source.slice(at, at + n)));
  reader = {
    size: source.size,
    read(at, n) {
      const k = Math.floor(at / BLOCK);
      let block = have.get(k);
      if (!block) {
        block = fetchBlock(k * BLOCK, Math.min(BLOCK, source.size - k * BLOCK));
        if (have.size >= BLOCKS) have.delete(have.keys().next().value);
        have.set(k, block);
      }
      const from = at - k * BLOCK;
      return block.subarray(from, from + n);
    },
  };
  kept.set(source, reader);
  return reader;
}

function reader(content) {
  if (typeof content === "string") content = new TextEncoder().encode(content);
  if (content instanceof ArrayBuffer) content = new Uint8Array(content);
  if (content instanceof Uint8Array)
    return { size: content.length, read: (at, n) => content.subarray(at, at + n) };
  return blocks(content);
}

function joined(chunks) {
  const all = new Uint8Array(chunks.reduce((n, c) => n + c.length, 0));
  let at = 0;
  for (const c of chunks) {
    all.set(c, at);
    at += c.length;
  }
  return all;
}

/** The words of options: {train: "adamw", dim: {seq: 128}, table: true, amp: null}. */
export function words(options = {}) {
  const list = [];
  for (const [key, value] of Object.entries(options)) {
    const name = "--" + key.replace(/_/g, "-").replace(/[A-Z]/g, (c) => "-" + c.toLowerCase());
    if (value === undefined || value === null || value === false) continue;
    if (value === true) list.push(name);
    else if (Array.isArray(value)) for (const v of value) list.push(name, String(v));
    else if (typeof value === "object")
      for (const [k, v] of Object.entries(value)) list.push(name, `${k}=${v}`);
    else list.push(name, String(value));
  }
  return list;
}

/** A file on the disk (node): nothing of it is read but what is asked for. */
export async function disk(path) {
  const fs = await import("node:fs");
  const file = fs.openSync(path, "r");
  return {
    size: fs.fstatSync(file).size,
    read(at, n) {
      const to = new Uint8Array(n);
      return to.subarray(0, fs.readSync(file, to, 0, n, at));
    },
    close: () => fs.closeSync(file),
  };
}

class Exit {
  constructor(status) {
    this.status = status;
  }
}

class Vram {
  constructor(module) {
    this.module = module;
    this.begin();
  }

  // An instance as it is loaded, and its memory before anything ran.
  begin() {
    const vram = {
      open: (path, n, writes) => this.open(this.text(path, n), writes),
      size: (file) => this.handles[file].size,
      read: (file, at, to, n) => this.read(this.handles[file], at, to, n),
      write: (file, from, n) => {
        this.handles[file].chunks.push(this.bytes().slice(from, from + n));
        return 0;
      },
      close: (file) => {
        this.handles[file] = null;
      },
      number: (s, n) => Number(this.text(s, n)),
      now: () => Date.now(),
      exit: (status) => {
        throw new Exit(status);
      },
    };
    this.wasm = new WebAssembly.Instance(this.module, { vram }).exports;
    this.from = this.wasm.__global_base.value;
    this.fresh = this.bytes().slice(this.from, this.wasm.__heap_base.value);
  }

  bytes() {
    const { buffer } = this.wasm.memory;
    if (!this.view || this.view.buffer !== buffer) this.view = new Uint8Array(buffer);
    return this.view;
  }

  text(at, n) {
    at >>>= 0;
    return new TextDecoder().decode(this.bytes().subarray(at, at + n));
  }

  open(path, writes) {
    const name = path.replace(/^(\.\/+)+/, "");
    let handle;
    if (writes) {
      handle = { chunks: (this.written[name] = []) };
    } else {
      const content = this.written[name] ? joined(this.written[name]) : this.files[name];
      if (content === undefined) {
        const folder = name.replace(/\/*$/, "/");
        return -(Object.keys(this.files).some((f) => f.startsWith(folder)) ? EISDIR : ENOENT);
      }
      handle = reader(content);
    }
    return this.handles.push(handle) - 1;
  }

  read(handle, at, to, n) {
    to >>>= 0;
    n = Math.max(0, Math.min(n, handle.size - at));
    if (!n) return 0;
    try {
      const got = handle.read(at, n);
      this.bytes().set(got, to);
      return got.length;
    } catch {
      return -EIO;
    }
  }

  /** Runs the command: its exit status, what it printed, and the files that it wrote. */
  run(args, { files = {}, stdin = "" } = {}) {
    const out = { chunks: [] };
    const err = { chunks: [] };
    const all = args.map((a) => String(a).replace(/\0/g, ""));
    const line = new TextEncoder().encode(["vram", ...all].join("\0") + "\0");
    let status;
    this.files = Object.assign(Object.create(null), files);
    this.written = Object.create(null);
    this.handles = [reader(stdin), out, err];
    try {
      this.bytes().set(this.fresh, this.from);
      const room = this.wasm.room(line.length);
      this.bytes().set(line, room >>> 0);
      status = this.wasm.run(all.length + 1, room);
    } catch (e) {
      if (e instanceof Exit) status = e.status;
      else {
        status = 1;
        err.chunks.push(new TextEncoder().encode(`vram: ${e.message}\n`));
      }
      this.begin(); // its stack is not as it was
    }
    const decode = (x) => new TextDecoder().decode(joined(x.chunks));
    const written = {};
    for (const [name, chunks] of Object.entries(this.written)) written[name] = joined(chunks);
    return { status, stdout: decode(out), stderr: decode(err), files: written };
  }

  /** COMMAND MODEL --json with options: the object that it prints. */
  json(command, model, options = {}, how = {}) {
    const result = this.run([command, model, ...words(options), "--json"], how);
    if ((result.status && result.status !== 3) || !result.stdout) throw new VramError(result);
    return JSON.parse(result.stdout);
  }

  estimate(model, options, how) {
    return this.json("estimate", model, options, how);
  }

  fit(model, options, how) {
    return this.json("fit", model, options, how);
  }

  plan(model, options, how) {
    return this.json("plan", model, options, how);
  }

  advise(model, options, how) {
    return this.json("advise", model, options, how);
  }

  get version() {
    return this.run(["--version"]).stdout.replace(/^vram |\n/g, "");
  }
}

/** The command, ready to run. {wasm}: its bytes or module from elsewhere. */
export async function load({ wasm } = {}) {
  if (!(wasm instanceof WebAssembly.Module))
    wasm = await WebAssembly.compile(wasm || (await unpack(WASM)));
  return new Vram(wasm);
}
