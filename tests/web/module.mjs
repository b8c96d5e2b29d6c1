// The module in node: module.mjs MODULE VRAM, from the top of the tree.
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const [, , file, vram] = process.argv;
const { load, disk, words, VramError } = await import(pathToFileURL(path.resolve(file)).href);
const v = await load();
const says = (...args) => execFileSync(vram, args, { encoding: "utf8" });

assert.equal(`vram ${v.version}\n`, says("--version"));
const options = { train: "adamw", batch: 3, amp: "bf16", gpu: "rtx4090" };
assert.deepEqual(
  v.estimate("resnet18", options),
  JSON.parse(says("estimate", "resnet18", ...words(options), "--json"))
);
assert.deepEqual(words({ dim: { S: 8 }, table: true, keepGrads: true, gpu: null }), [
  "--dim", "S=8", "--table", "--keep-grads",
]);
const small = { train: "adamw", gpu: "rtx2060" };
assert.deepEqual(
  v.advise("lenet5", small),
  JSON.parse(spawnSync(vram, ["advise", "lenet5", ...words(small), "--json"], { encoding: "utf8" }).stdout)
);
assert.throws(() => v.estimate("resnet18", { nonsense: 1 }), (e) => e instanceof VramError && e.status === 2);
const text = fs.readFileSync("examples/models/lenet5.vram", "utf8");
assert.equal(
  v.run(["estimate", "a.vram"], { files: { "a.vram": text } }).stdout,
  says("estimate", "examples/models/lenet5.vram")
);
assert.equal(v.run(["estimate", "-"], { stdin: text }).stdout, says("estimate", "examples/models/lenet5.vram"));
const gguf = "tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf";
assert.equal(v.run(["estimate", gguf], { files: { [gguf]: await disk(gguf) } }).stdout, says("estimate", gguf));
const svg = v.run(["estimate", "lenet5", "--svg", "x.svg"]).files["x.svg"];
assert.equal(new TextDecoder().decode(svg), says("estimate", "lenet5", "--svg", "-"));
