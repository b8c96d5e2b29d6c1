/** The command `vram` as a module: the same C code, as WebAssembly. */

/** A file: its bytes or text, or a Blob (in workers), or any source of ranges. */
export type Content =
  | string
  | Uint8Array
  | ArrayBuffer
  | Blob
  | { size: number; read(at: number, n: number): Uint8Array };

export interface How {
  /** Files that the command may open, by name; "FOLDER/NAME" for a folder. */
  files?: Record<string, Content>;
  /** What it reads for the model "-". */
  stdin?: Content;
}

export interface Result {
  /** 0 fits or done, 3 does not fit, 2 usage or bad input, 1 other. */
  status: number;
  stdout: string;
  stderr: string;
  /** Files that it wrote. */
  files: Record<string, Uint8Array>;
}

/** The command's options: {train: "adamw", batch: 64, dim: {seq: 128}, table: true}. */
export interface Options {
  train?: string;
  amp?: "bf16" | "fp16";
  dtype?: "bf16" | "f16" | "f32";
  batch?: number;
  dim?: Record<string, number>;
  gpu?: string;
  budget?: string | number;
  checkpoint?: string | number;
  parallel?: string;
  rules?: string;
  [option: string]:
    | string
    | number
    | boolean
    | null
    | undefined
    | (string | number)[]
    | Record<string, string | number>;
}

export interface Bound {
  lower: number;
  expected: number;
  upper: number;
}

/** What `vram estimate --json` prints of a graph. */
export interface Estimate {
  model: string;
  mode: string;
  rules: string;
  params_bytes: number;
  buffers_bytes: number;
  gradients_bytes: number;
  optimizer_bytes: number;
  saved_bytes: number;
  peak_requested_bytes: number;
  peak_allocated_bytes: Bound;
  peak_reserved_bytes: number;
  device_bytes: Bound;
  fits?: boolean;
  budget_bytes?: number;
  peak_phase: string;
  peak_node: string;
  peak_categories: Record<string, number>;
  phases: Record<string, Record<string, number>>;
  sources: Record<string, "derived" | "rules" | "bound">;
  [field: string]: any;
}

/** A step that `vram advise --json` played. */
export interface Played {
  /** null: there is no budget. */
  fits: boolean | null;
  peak_requested_bytes: number;
  peak_allocated_bytes: number;
  device_bytes: number;
  num_alloc_retries: number;
  pinned_bytes: number;
  forward_flops: number | null;
  recomputed_flops: number | null;
  sent_bytes: number;
}

/** A step with something changed. */
export interface AdviceLine extends Played {
  effect: "same" | "rounding" | "training" | "task";
  /** Nothing beats it in all of it. */
  pareto: boolean;
  changes: { name: string; cost: string; options: string; without?: string; torch: string }[];
  /** The command with the same figures. */
  command: string;
}

export interface Advice {
  model: string;
  mode: string;
  budget_bytes: number | null;
  now: Played;
  lines: AdviceLine[];
  others: { name: string; why: string }[];
  played: number;
  left: number;
  stopped: boolean;
}

export class VramError extends Error {
  status: number;
}

export interface Vram {
  readonly version: string;
  /** Any command: run(["estimate", "resnet50", "--train", "adamw"]). */
  run(args: (string | number)[], how?: How): Result;
  /** COMMAND MODEL --json; throws VramError with the command's line. */
  json(command: string, model: string, options?: Options, how?: How): any;
  estimate(model: string, options?: Options, how?: How): Estimate;
  fit(model: string, options?: Options, how?: How): any;
  plan(model: string, options?: Options, how?: How): any;
  /** May take long: options.tries has an end. */
  advise(model: string, options?: Options, how?: How): Advice;
}

/** The command, ready to run; wasm: its bytes or module from elsewhere. */
export function load(options?: { wasm?: BufferSource | WebAssembly.Module }): Promise<Vram>;

/** The words of options, as the command takes them. */
export function words(options?: Options): string[];

/** A file on the disk (node), of which nothing is read but what is asked for. */
export function disk(
  path: string
): Promise<{ size: number; read(at: number, n: number): Uint8Array; close(): void }>;
