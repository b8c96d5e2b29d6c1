/* The command: options, exit status, one line for bad input, memory that runs out at every place.
   Run in the project's folder. */
#define TOOL_TEST
#include "tool.h"

#include "../tools/vram_command.h"
#include "models.h"
#include "test.h"

static long alloc_left = -1, alloc_live; /* calls until one fails, -1: none does */

static int alloc_ok(void) {
  if (alloc_left < 0)
    return 1;
  return alloc_left-- > 0;
}
void *tool_malloc(size_t n) {
  void *p = alloc_ok() ? malloc(n) : NULL;
  alloc_live += p != NULL;
  return p;
}
void *tool_calloc(size_t n, size_t each) {
  void *p = alloc_ok() ? calloc(n, each) : NULL;
  alloc_live += p != NULL;
  return p;
}
void *tool_realloc(void *old, size_t n) {
  void *p = alloc_ok() ? realloc(old, n) : NULL;
  alloc_live += p && !old;
  return p;
}
char *tool_strdup(const char *s) {
  const size_t n = strlen(s) + 1;
  char *to = (char *)tool_malloc(n);
  return to ? (char *)memcpy(to, s, n) : NULL;
}
char *tool_realpath(const char *path, char *to) {
  char *found = alloc_ok() ? realpath(path, to) : NULL;
  alloc_live += found && !to;
  return found;
}
static int fopen_error; /* what it fails with; 0: it does not */
FILE *tool_fopen(const char *path, const char *mode) {
  errno = fopen_error;
  return fopen_error ? NULL : fopen(path, mode);
}
void tool_free(void *p) {
  alloc_live -= p != NULL;
  free(p);
}

static char out[1 << 20], err[4096];
static size_t out_len;

static size_t slurp(FILE *f, char *to, size_t cap) {
  size_t n;
  rewind(f);
  n = fread(to, 1, cap - 1, f);
  to[n] = 0;
  fclose(f);
  return n;
}

static const char *out_path; /* where standard output goes, NULL: to `out` */

/* Runs the command with these words, split at spaces, and this standard input. */
static int command(const char *words, const char *input, size_t len) {
  char line[600], *argv[40];
  int argc = 0, status, keep[3], i;
  FILE *f[3];
  char *w;
  snprintf(line, sizeof line, "vram %s", words);
  for (w = strtok(line, " "); w && argc < 39; w = strtok(NULL, " "))
    argv[argc++] = w;
  argv[argc] = NULL;
  fflush(stdout);
  for (i = 0; i < 3; i++) {
    f[i] = i == 1 && out_path ? fopen(out_path, "w") : tmpfile();
    if (!f[i])
      exit(1);
    if (!i && len)
      fwrite(input, 1, len, f[i]);
    rewind(f[i]);
    keep[i] = dup(i);
    dup2(fileno(f[i]), i);
  }
  rewind(stdin);
  status = tool_main(argc, argv);
  fflush(stdout);
  fflush(stderr);
  clearerr(stdout);
  for (i = 0; i < 3; i++) {
    dup2(keep[i], i);
    close(keep[i]);
  }
  fclose(f[0]);
  if (out_path)
    fclose(f[1]);
  else
    out_len = slurp(f[1], out, sizeof out);
  slurp(f[2], err, sizeof err);
  return status;
}

static unsigned lines(const char *s) {
  unsigned n = 0;
  for (; *s; s++)
    n += *s == '\n';
  return n;
}

#define MODEL "examples/models/resnet50.vram "
static const char small[] = "model m\ndim N=2\ninput x f32 [N,8]\nlinear a x out_features=8\n"
                            "linear b a out_features=4\ncross_entropy loss b\n";

static void right(void) {
  static const struct {
    const char *words, *begins;
    int status;
  } rows[] = {
      {"-h", "vram - how many bytes", 0},
      {"--version", "vram 0.", 0},
      {"estimate -h", "vram estimate MODEL", 0},
      {"list -h", "vram list", 0},
      {"list ops", "op ", 0},
      {"list dtypes", "dtype ", 0},
      {"list optimizers", "optimizer ", 0},
      {"list gpus", "gpu ", 0},
      {"list ops -h", "vram list", 0},
      {"list models", "model ", 0},
      {"estimate tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf",
       "tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf  gguf v3  llama\n", 0},
      {"estimate tests/golden/gguf/split-00002-of-00002.gguf --json",
       "{\"model\":\"tests/golden/gguf/split-00001-of-00002.gguf\",\"format\":\"gguf\"", 0},
      {"estimate tests/golden/gguf/split-00002-of-00002.gguf --csv", "name,type,shape,", 0},
      {"estimate resnet50", "resnet50  infer f32  N=16  cc", 0},
      {"fit -h", "vram fit MODEL", 0},
      {"fit - --gpu t4", "-  infer f32  budget", 0},
      {"fit - --gpu h200 --gpu T4", "-  infer f32  budget 14.6 GiB, t4", 0},
      {"fit - --gpu 4090", "-  infer f32  budget 23.5 GiB, rtx4090", 0},
      {"fit - --gpu NVIDIA-GeForce-RTX-4060-Ti", "-  infer f32  budget 15.5 GiB, rtx4060ti", 0},
      {"fit - --gpu NVIDIA_A100-SXM4-80GB", "-  infer f32  budget 79.1 GiB, a100-80", 0},
      {"fit - --gpu Tesla-V100-SXM2-32GB", "-  infer f32  budget 31.7 GiB, v100-32", 0},
      {"fit - --gpu h100-80GB", "-  infer f32  budget 79.1 GiB, h100-80", 0},
      {"fit - --gpu H100-PCIe", "-  infer f32  budget 79.1 GiB, h100-pcie", 0},
      {"fit - --gpu p100", "-  infer f32  budget 15.9 GiB, p100-16", 0},
      {"fit - --gpu RTX-A6000", "-  infer f32  budget 47.4 GiB, a6000", 0},
      {"fit - --gpu titan-rtx", "-  infer f32  budget 23.6 GiB, titanrtx", 0},
      {"fit - --budget 1GiB --gpu t4", "-  infer f32  budget 1.00 GiB, t4", 0},
      {"fit - --gpu t4 --json --train adamw", "{\"model\":\"-\",\"mode\":\"train adamw f32\"", 0},
      {"fit - --budget 900MiB --solve dim:N --train sgd", "-  train sgd f32  budget", 0},
      {"fit - --budget 900MiB --solve segments --train sgd", "-  train sgd f32  budget", 0},
      {"fit - --budget 900MiB --solve segments --train sgd --json", "{\"model\":\"-\"", 0},
      {"fit - --budget 1KB", "-  infer f32  budget", TOO_LARGE},
      {"fit - --budget 1KB --json", "{\"model\":\"-\"", TOO_LARGE},
      {"estimate -", "m  infer f32  N=2", 0},
      {"estimate - --batch 7 --train adamw --amp bf16", "m  train adamw amp bf16  N=7", 0},
      {"estimate - --dim N=7 --train sgd --step first", "m  train sgd f32 first step  N=7", 0},
      {"estimate - --train adam --optim-impl fused --accumulate 3 --keep-grads", "m  train adam",
       0},
      {"estimate - --train adam --optim-impl loop --dtype bf16", "m  train adam bf16", 0},
      {"estimate - --train adam --optim-impl foreach --dtype f32", "m  train adam f32", 0},
      {"estimate - --train nadam --capturable", "m  train nadam capturable f32  N=2", 0},
      {"estimate - --train sgd --checkpoint 2", "m  train sgd f32 checkpoint 2", 0},
      {"estimate - --train sgd --checkpoint auto --budget 1GiB", "m  train sgd f32", 0},
      {"estimate - --train sgd --checkpoint-nodes a..b --reentrant", "m  train sgd", 0},
      {"estimate - --prefetch 2 --pinned 1 --cc 8.0 --context 1GiB", "m  infer", 0},
      {"estimate - --rules ideal --units si", "m  infer", 0},
      {"estimate - --rules torch-2.15 --units bytes", "m  infer", 0},
      {"estimate - --gpu t4", "m  infer", 0},
      {"estimate - --gpu RTX4090 --context 0", "m  infer", 0},
      {"estimate - --step steady --accumulate 1 --infer", "m  infer f32  N=2", 0},
      {"estimate - --train adamw --dtype bf16 --master-weights",
       "m  train adamw bf16 master-weights  N=2", 0},
      {"estimate - --amp bf16 --dtype bf16", "m  infer bf16 amp bf16  N=2", 0},
      {"estimate - --prefetch 100000", "m  infer", 0},
      {"estimate - --budget 1.5GiB --infer --units iec", "m  infer", 0},
      {"estimate - --budget 1KB", "m  infer", TOO_LARGE},
      {"estimate - --gpu a100-80 --budget 80MB --json", "{\"model\":\"m\"", TOO_LARGE},
      {"estimate - --json", "{\"model\":\"m\"", 0},
      {"estimate - --train adamw --csv", "name,type,output_shape", 0},
      {"estimate - --train adamw --events -", "phase,action,id,size", 0},
      {"estimate - --train adamw --table --live", "layer ", 0},
      {"estimate - --no-table", "m  infer", 0},
      {"estimate tests/golden/generate/llama_dynamic.vram --generate prompt=8,new=3",
       "llama  generate prompt 8 new 3", 0},
      {"estimate tests/golden/generate/llama_static.vram --generate new=2,prompt=8 --csv",
       "step,before,after,requested_peak,", 0},
      {"estimate tests/golden/generate/llama_static.vram --generate prompt=8,new=2 --json --budget "
       "1MiB",
       "{\"model\":\"llama\",\"mode\":\"generate\",", TOO_LARGE},
      {"estimate - --terms", "m  infer", 0},
      {"estimate - --train sgd --svg /dev/null --html /dev/null", "m  train sgd", 0},
      {"estimate - --svg -", "<svg ", 0},
      {"estimate - --gpu t4 --html -", "<!doctype html>", 0},
      {"estimate - --trace -", "{\"displayTimeUnit\":\"ms\"", 0},
      {"estimate - --train sgd --snapshot -", "\200\002}(X\b", 0},
      {"estimate - --train sgd --snapshot build/step.json", "m  train sgd", 0},
      {"estimate - --train sgd --alloc-conf expandable_segments:True --snapshot /dev/null",
       "m  train sgd", 0},
      {"estimate - --train adamw --budget 1MiB --html -", "<!doctype html>", TOO_LARGE},
      {"estimate " MODEL "--train adamw --live --table", "layer ", 0},
  };
  size_t i;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(test_where, sizeof test_where, "vram %s", rows[i].words);
    EQUAL(command(rows[i].words, small, sizeof small - 1), rows[i].status);
    TEXT(err, "");
    if (!CHECK(!strncmp(out, rows[i].begins, strlen(rows[i].begins))))
      printf("  %.60s\n", out);
  }
  *test_where = 0;
}

/* Status 2, one line on standard error, nothing on standard output. */
static void wrong(const char *words, const char *input, size_t len, const char *want) {
  const long live = alloc_live;
  char shown[400];
  snprintf(test_where, sizeof test_where, "vram %s", words);
  EQUAL(command(words, input, len), USAGE);
  EQUAL(alloc_live, live);
  EQUAL(out_len, 0);
  EQUAL(lines(err), 1);
  snprintf(shown, sizeof shown, "%.*s", (int)strcspn(err, "\n"), err);
  TEXT(shown, want);
  *test_where = 0;
}

/* Multiprocessors against NVIDIA's other figure, the CUDA cores of the data sheets; memory against
   what is sold; every row as `vram list gpus` prints it. */
static void gpus(void) {
  static const struct {
    const char *name;
    uint32_t cores;
  } rows[] = {{"p100-16", 3584},   {"v100-16", 5120},    {"v100-32", 5120},   {"t4", 2560},
              {"rtx2060", 1920},   {"rtx2080ti", 4352},  {"titanrtx", 4608},  {"a30", 3584},
              {"a100-40", 6912},   {"a100-80", 6912},    {"rtx3060", 3584},   {"rtx3070", 5888},
              {"rtx3080", 8704},   {"rtx3080ti", 10240}, {"rtx3090", 10496},  {"rtx3090ti", 10752},
              {"a4000", 6144},     {"a5000", 8192},      {"a6000", 10752},    {"a10", 9216},
              {"a40", 10752},      {"rtx4060", 3072},    {"rtx4060ti", 4352}, {"rtx4070", 5888},
              {"rtx4070ti", 7680}, {"rtx4080", 9728},    {"rtx4090", 16384},  {"rtx6000ada", 18176},
              {"l4", 7424},        {"l40", 18176},       {"l40s", 18176},     {"h100-80", 16896},
              {"h100-94", 16896},  {"h100-pcie", 14592}, {"h200", 16896},     {"gh200", 16896},
              {"rtx5060ti", 4608}, {"rtx5070", 6144},    {"rtx5070ti", 8960}, {"rtx5080", 10752},
              {"rtx5090", 21760},  {"rtxpro6000", 24064}};
  const vram_gpu *g;
  uint32_t i;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(test_where, sizeof test_where, "%s", rows[i].name);
    if (CHECK((g = cmd_find_gpu(rows[i].name)) != NULL))
      EQUAL(g->sm * (g->cc <= 80 ? 64 : 128), rows[i].cores);
  }
  EQUAL(command("list gpus", "", 0), 0);
  for (i = 0; (g = vram_gpu_at(i)) != NULL; i++) {
    uint64_t sold = g->sold_gb * UINT64_C(1073741824);
    char row[64];
    snprintf(test_where, sizeof test_where, "%s", g->name);
    CHECK(g->bytes < sold && g->bytes > sold / 100 * 90);
    snprintf(row, sizeof row, "\n%-12s %3u.%u %5u %4u GB ", g->name, g->cc / 10, g->cc % 10, g->sm,
             g->sold_gb);
    CHECK(strstr(out, row) != NULL && strstr(out, g->source) != NULL);
    CHECK(cmd_find_gpu(g->name) == g);
  }
  EQUAL(lines(out), i + 1);
  CHECK(!vram_gpu_at(i) && !vram_gpu_at(UINT32_MAX));
  /* the reports: CUDA says 23.52 GiB of an RTX 4090, 31.73 GiB of a V100 */
  EQUAL(command("estimate - --gpu rtx4090 --json", small, sizeof small - 1), 0);
  CHECK(strstr(out, "\"budget_bytes\":25248661504}") != NULL);
  EQUAL(command("estimate - --gpu v100-32 --json", small, sizeof small - 1), 0);
  CHECK(strstr(out, "\"budget_bytes\":34072428544}") != NULL);
  *test_where = 0;
}

static void options(void) {
  static const char *const rows[][2] = {
    {"what", "vram: unknown command 'what' (expected one of vram -h)"},
    {"list", "vram: what to list (expected models, ops, lines, dtypes, optimizers, gpus or rules)"},
    {"list all",
     "vram: nothing to list called 'all' (expected models, ops, lines, dtypes, optimizers, "
     "gpus or rules)"},
    {"estimate", "vram: no model (expected a file or one of vram list models: vram estimate "
                 "resnet50; vram estimate -h)"},
    {"estimate - -", "vram: a second model '-' (expected one)"},
    {"estimate no/such/file", "vram: cannot open 'no/such/file': No such file or directory"},
    {"estimate no/such/lenet5.vram",
     "vram: cannot open 'no/such/lenet5.vram': No such file or directory (built in: lenet5)"},
    {"estimate tests",
     "tests: a folder without a model (expected model.safetensors, its index or config.json in it; "
     "of a folder of GGUF files, one of them)"},
    {"list ops dtypes", "vram: one thing to list at a time (expected models, ops, lines, dtypes, "
                        "optimizers, gpus or rules)"},
    {"estimate resnet5O",
     "vram: no file and no built-in model 'resnet5O' (expected resnet50? vram list "
     "models)"},
    {"estimate what",
     "vram: no file and no built-in model 'what' (expected one of vram list models)"},
    {"estimate llama",
     "vram: no file and no built-in model 'llama' (expected llama3_8b? vram list models)"},
    {"estimate VGG",
     "vram: no file and no built-in model 'VGG' (expected vgg16? vram list models)"},
    {"estimate - --solve batch",
     "vram: not an option of this command '--solve' (expected vram estimate -h)"},
    {"fit",
     "vram: no model (expected a file or one of vram list models: vram fit resnet50; vram fit -h)"},
    {"fit -", "vram: no budget (expected --budget SIZE or --gpu NAME)"},
    {"fit - --what", "vram: unknown option '--what' (expected vram fit -h)"},
    {"fit - --explain", "vram: not an option of this command '--explain' (expected vram fit -h)"},
    {"fit - --csv", "vram: an option of --parallel auto: '--csv'"},
    {"fit - --top 3 --budget 1GiB", "vram: an option of --parallel auto: '--top'"},
    {"fit - --parallel auto,sp=1,microbatches=4",
     "vram: --parallel auto tries for itself: 'microbatches'"},
    {"fit - --parallel auto,mp=bf16,sp=1,mp=f16",
     "vram: an option of --parallel auto twice: 'mp=bf16,sp=1,mp=f16'"},
    {"fit - --train sgd --parallel auto --devices 11 --global-batch 3 --budget 1GiB",
     "vram: no way to divide the batch of all devices among them (expected another one of "
     "--devices and --global-batch)"},
    {"fit - --train sgd --parallel auto --devices 2 --batch 0 --budget 1GiB",
     "vram: a batch that is empty or too large, of '-' (expected --global-batch N)"},
    {"fit - --top 0", "vram: not a number of lines '0' (expected 1 or more, or all)"},
    {"fit - --top some", "vram: not a number of lines 'some' (expected 1 or more, or all)"},
    {"fit - --gpu h100-80,a100-80",
     "vram: several devices are for --parallel auto: 'h100-80,a100-80' (expected one)"},
    {"fit - --gpu h100-80,h100-81", "vram: unknown GPU 'h100-81' (expected h100-80? vram list "
                                    "gpus)"},
    {"fit - --gpu ,h100-80", "vram: unknown GPU '' (expected one of vram list gpus)"},
    {"fit - --solve depth",
     "vram: nothing to solve for 'depth' (expected batch, dim:NAME, lora or segments)"},
    {"fit - --solve S", "vram: nothing to solve for 'S' (expected dim:S? batch, dim:NAME, lora or "
                        "segments)"},
    {"fit - --solve dim:",
     "vram: nothing to solve for 'dim:' (expected batch, dim:NAME, lora or segments)"},
    {"fit - --budget 1GiB --solve dim:K", "-: the model has no dim K (expected N)"},
    {"fit - --budget 1GiB --batch 3", "-: the dim to solve for is set: batch"},
    {"fit - --budget 1GiB --solve lora", "vram: no adapters to solve for (expected --lora r=8)"},
    {"fit - --budget 1GiB --solve segments",
     "vram: segments are for training (expected --train OPT)"},
    {"fit - --budget 1GiB --solve segments --train sgd --checkpoint 2",
     "vram: segments are what is solved for, not '--checkpoint'"},
    {"estimate - --what", "vram: unknown option '--what' (expected vram estimate -h)"},
    {"estimate - -x", "vram: unknown option '-x' (expected vram estimate -h)"},
    {"estimate - --batch", "vram: no value behind '--batch'"},
    {"estimate - --batch x", "vram: not a size 'x' (expected an integer from 0 to 2^63-1)"},
    {"estimate - --batch -1", "vram: not a size '-1' (expected an integer from 0 to 2^63-1)"},
    {"estimate - --batch 9223372036854775808",
     "vram: not a size '9223372036854775808' (expected an integer from 0 to 2^63-1)"},
    {"estimate - --batch 9223372036854775807", "-:3:13: a tensor of more than 2^63-1 bytes"},
    {"estimate - --batch 2000000000000000000", "-:3:13: a tensor of more than 2^63-1 bytes"},
    {"estimate - --dim N", "vram: not a dim 'N' (expected NAME=N)"},
    {"estimate - --dim =3", "vram: not a dim '=3' (expected NAME=N)"},
    {"estimate - --dim K=3", "-: the model has no dim K (expected N)"},
    {"estimate - --train what",
     "vram: unknown optimizer 'what' (expected one of vram list optimizers)"},
    {"estimate - --optim-impl x",
     "vram: unknown optimizer implementation 'x' (expected foreach, fused or loop)"},
    {"estimate - --train rprop --optim-impl fused",
     "vram: this optimizer has no fused implementation"},
    {"estimate - --train sgd --capturable", "vram: this optimizer has no option capturable"},
    {"estimate - --capturable", "vram: an option of training without --train: '--capturable'"},
    {"estimate - --step last",
     "vram: unknown step 'last' (expected first, second, steady or a number)"},
    {"estimate - --generate prompt=3",
     "vram: not a generation 'prompt=3' (expected "
     "prompt=S,new=N[,cache=dynamic|static|offloaded][,padded=0|1]"
     "[,attn=sdpa|eager])"},
    {"estimate - --generate prompt=3,new=2 --train sgd",
     "vram: --generate excludes --train, --prefetch and --pinned"},
    {"estimate - --generate prompt=3,new=2 --terms",
     "vram: --generate takes sizes, device, --dtype, --amp, --json and --csv"},
    {"estimate - --generate prompt=3,new=2",
     "vram: a text without cache lines cannot generate: '-' "
     "(expected that of tools/export_torch.py --generate, or a config.json of transformers)"},
    {"estimate - --accumulate 0", "vram: not a number of micro-batches '0' (expected 1 or more)"},
    {"estimate - --accumulate 4294967297",
     "vram: not a number of micro-batches '4294967297' (expected 1 or more)"},
    {"estimate - --checkpoint 0",
     "vram: not a number of segments '0' (expected 1 or more, layers or auto)"},
    {"estimate - --train sgd --checkpoint-nodes a..q", "vram: no node has the name q"},
    {"estimate - --prefetch x", "vram: not a number of batches 'x' (expected 0 or more)"},
    {"estimate - --pinned -1", "vram: not a number of batches '-1' (expected 0 or more)"},
    {"estimate - --amp f32", "vram: not a dtype for this 'f32' (expected bf16 or fp16)"},
    {"estimate - --dtype i8", "vram: not a dtype for this 'i8' (expected bf16, f16 or f32)"},
    {"estimate - --budget 1XB",
     "vram: not a size '1XB' (expected a number with B KB MB GB TB KiB MiB GiB TiB)"},
    {"estimate - --budget 99999999999999TiB", "vram: not a size '99999999999999TiB' (expected a "
                                              "number with B KB MB GB TB KiB MiB GiB TiB)"},
    {"estimate - --budget 99999999999999999999",
     "vram: not a size '99999999999999999999' (expected a number with B KB MB GB TB KiB MiB GiB "
     "TiB)"},
    {"estimate - --context -1",
     "vram: not a size '-1' (expected a number with B KB MB GB TB KiB MiB GiB TiB)"},
    {"estimate - --gpu rtx060",
     "vram: unknown GPU 'rtx060' (expected rtx2060, rtx3060, rtx4060? vram list gpus)"},
    {"estimate - --o 1", "vram: unknown option '--o' (expected --optim-impl, "
                         "--optimizer-in-backward, --outputs, --override-tensor, ...? vram "
                         "estimate -h)"},
    {"estimate - --gpu rtx409", "vram: unknown GPU 'rtx409' (expected rtx4090? vram list gpus)"},
    {"estimate - --gpu H100", "vram: GPUs of several sizes have the name 'H100' (expected h100-80, "
                              "h100-94, h100-pcie)"},
    {"replay x --gpu NVIDIA-A100",
     "vram: GPUs of several sizes have the name 'NVIDIA-A100' (expected a100-40, a100-80)"},
    {"estimat -", "vram: unknown command 'estimat' (expected estimate? vram -h)"},
    {"estimate - --trian adamw",
     "vram: unknown option '--trian' (expected --train? vram estimate -h)"},
    {"estimate - --bacth=8", "vram: unknown option '--bacth' (expected --batch? vram estimate -h)"},
    {"fit - --bugdet 1GiB", "vram: unknown option '--bugdet' (expected --budget? vram fit -h)"},
    {"plan - --segmets 3", "vram: unknown option '--segmets' (expected --segments? vram plan -h)"},
    {"plan - --accumlate 3",
     "vram: unknown option '--accumlate' (expected --accumulate? vram plan -h)"},
    {"arena - --capcity 3",
     "vram: unknown option '--capcity' (expected --capacity? vram arena -h)"},
    {"arena - --checkpoin 3",
     "vram: unknown option '--checkpoin' (expected --checkpoint? vram arena -h)"},
    {"emit - --formt i8", "vram: unknown option '--formt' (expected --format? vram emit -h)"},
    {"replay - --polcy best", "vram: unknown option '--polcy' (expected --policy? vram replay -h)"},
    {"diff - x --tolerence 3",
     "vram: unknown option '--tolerence' (expected --tolerance? vram diff -h)"},
    {"diff - x --trian sgd", "vram: unknown option '--trian' (expected --train? vram diff -h)"},
    {"diff - x --snapshot y",
     "vram: not an option of this command '--snapshot' (expected vram diff -h)"},
#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu /* where `vram run` is */
    {"run --snapshott x -- y",
     "vram: unknown option '--snapshott' (expected --snapshot? vram run -h)"},
#endif
    {"watch --intervall 3",
     "vram: unknown option '--intervall' (expected --interval? vram watch -h)"},
    {"estimate - --train adm",
     "vram: unknown optimizer 'adm' (expected adam? vram list optimizers)"},
    {"estimate - --json --table",
     "vram: standard output is taken by --json, --csv or a FILE -: no place for '--table'"},
    {"estimate - --csv --terms",
     "vram: standard output is taken by --json, --csv or a FILE -: no place for '--terms'"},
    {"estimate - --svg - --live",
     "vram: standard output is taken by --json, --csv or a FILE -: no place for '--live'"},
    {"estimate - --gpu x", "vram: unknown GPU 'x' (expected one of vram list gpus)"},
    {"estimate - --cc 3.0", "vram: not a compute capability '3.0' (expected 7.5, 8.0, 9.0, ...)"},
    {"estimate - --cc 8", "vram: not a compute capability '8' (expected 7.5, 8.0, 9.0, ...)"},
    {"estimate - --rules x",
     "vram: unknown rules 'x' (expected torch, torch-1.10 to torch-2.15 or ideal)"},
    {"estimate - --units x", "vram: unknown units 'x' (expected iec, si or bytes)"},
    {"estimate - --cc 8.0x", "vram: not a compute capability '8.0x' (expected 7.5, 8.0, 9.0, ...)"},
    {"estimate - --cc 13.0", "vram: not a compute capability '13.0' (expected 7.5, 8.0, 9.0, ...)"},
    {"estimate - --events --json", "vram: no value behind '--events'"},
    {"estimate - --train sgd --checkpoint auto",
     "vram: no budget for '--checkpoint auto' (expected --budget or --gpu)"},
    {"estimate - --train sgd --budget 1GiB --checkpoint auto --reentrant",
     "vram: --checkpoint auto excludes '--reentrant'"},
    {"estimate - --train sgd --budget 1GiB --checkpoint auto --checkpoint-nodes a..b",
     "vram: --checkpoint auto excludes '--checkpoint-nodes'"},
    {"fit - --budget 1GiB --train sgd --checkpoint auto",
     "vram: not a number of segments 'auto' (expected 1 or more, or layers)"},
    {"estimate - --checkpoint 2", "vram: an option of training without --train: '--checkpoint'"},
    {"estimate - --checkpoint-nodes a..b --infer",
     "vram: an option of training without --train: '--checkpoint-nodes'"},
    {"estimate - --step first", "vram: an option of training without --train: '--step'"},
    {"estimate - --accumulate 2", "vram: an option of training without --train: '--accumulate'"},
    {"estimate - --keep-grads", "vram: an option of training without --train: '--keep-grads'"},
    {"estimate - --optim-impl loop", "vram: an option of training without --train: '--optim-impl'"},
    {"estimate - --train sgd --reentrant",
     "vram: no checkpoint for '--reentrant' (expected --checkpoint or --checkpoint-nodes)"},
    {"estimate - --train sgd --master-weights",
     "vram: no low-precision parameters for '--master-weights' (expected --dtype)"},
    {"estimate - --json --csv", "vram: standard output takes one of --json, --csv and one FILE -"},
    {"estimate - --json --events -",
     "vram: standard output takes one of --json, --csv and one FILE -"},
    {"fit - --budget 1GiB --snapshot x",
     "vram: not an option of this command '--snapshot' (expected vram fit -h)"},
    {"estimate - --snapshot - --trace -",
     "vram: standard output takes one of --json, --csv and one FILE -"},
    {"estimate - --svg - --html -",
     "vram: standard output takes one of --json, --csv and one FILE -"},
    {"convert - --parallel ddp=2",
     "vram: nothing is cut by 'ddp=2' (expected tp=N, ep=N, cp=N or pp=N)"},
    {"convert - --parallel tp=2 --rank 5", "vram: a rank out of range: '5' (expected 0 to 1)"},
    {"convert - --parallel tp=2,plan=rowwise:a",
     "-:4:1: a layer cut by rows whose input is not cut by columns (a, weight [8,8])"},
    {"help plan x", "vram: a second word 'x' (expected one)"},
    {"help --parallel", "vram: no help of '--parallel' (expected parallel?)"},
    {"help what", "vram: no help of 'what' (expected a command, or parallel)"},
    {"help fti", "vram: no help of 'fti' (expected fit?)"},
    {"--versoin", "vram: unknown command '--versoin' (expected --version? vram -h)"},
    {"list modles", "vram: nothing to list called 'modles' (expected models? vram list -h)"},
    {"list --json", "vram: nothing to list called '--json' (expected vram list -h)"},
    {"estimate - --batch-size 8",
     "vram: unknown option '--batch-size' (expected --batch N? vram estimate -h)"},
    {"fit - --optimizer adamw",
     "vram: unknown option '--optimizer' (expected --train OPT? vram fit -h)"},
    {"emit - --fp16", "vram: unknown option '--fp16' (expected vram emit -h)"},
    {"fit - --memory 8GiB",
     "vram: an option of vram estimate --engine: '--memory' (expected --budget SIZE)"},
    {"estimate --embedded - --kernals dsp",
     "vram: not an option with --embedded: '--kernals' (expected --kernels? vram estimate -h)"},
    {"estimate --engine vllm --utli 1",
     "vram: not an option beside --engine: '--utli' (expected --util? vram estimate -h)"},
    {"fit - --budget 12", "vram: --budget 12 is 12 bytes (expected 12GB? 12GiB)"},
    {"estimate - --budget 16384",
     "vram: --budget 16384 is 16384 bytes (expected 16384MB? 16384MiB)"},
    {"plan - --budget 7.5", "vram: --budget 7.5 is 7 bytes (expected 7.5GB? 7.5GiB)"},
    {"estimate --engine vllm --kv full:2x2x64 --memory 24",
     "vram: --memory 24 is 24 bytes (expected 24GB? 24GiB)"},
    {"estimate - --context 512", "vram: --context 512 is 512 bytes (expected 512MB? 512MiB)"},
    {"estimate - --budget 24g", "vram: not a size '24g' (expected 24GB? 24GiB)"},
    {"estimate - --budget 24Gi", "vram: not a size '24Gi' (expected 24GB? 24GiB)"},
    {"estimate torchvision:resnet50",
     "vram: 'torchvision:resnet50' is a module of PyTorch (expected its text: vram-export "
     "torchvision:resnet50 -o MODEL.vram; built in: resnet50)"},
    {"plan net.py:small", "vram: 'net.py:small' is a module of PyTorch (expected its text: "
                          "vram-export net.py:small -o MODEL.vram)"},
    {"fit meta-llama/Llama-3.1-8B --budget 24GiB",
     "vram: 'meta-llama/Llama-3.1-8B' is a name on the Hugging Face Hub, from where nothing is "
     "fetched (expected a folder: hf download meta-llama/Llama-3.1-8B config.json --local-dir "
     "Llama-3.1-8B; vram fit Llama-3.1-8B)"},
    {"estimate bert-base-uncased", "vram: no file and no built-in model 'bert-base-uncased' "
                                   "(expected bert_base? vram list models)"},
    {"estimate tests/errors.txt",
     "tests/errors.txt:1:1: an unknown op (found Texts, expected an op of `vram list ops`)"},
  };
  char many[300];
  size_t i, n = (size_t)snprintf(many, sizeof many, "estimate -");
  for (i = 0; i < sizeof rows / sizeof *rows; i++)
    wrong(rows[i][0], small, sizeof small - 1, rows[i][1]);
  for (i = 0; i < 36; i++)
    n += (size_t)snprintf(many + n, sizeof many - n, " --json");
  EQUAL(command(many, small, sizeof small - 1), 0);
}

/* Files of models: what they say of bad options, and what they take none of. */
static void model_files(void) {
#define GGUF "tests/golden/gguf/llama-3.1-8b.Q4_K_M.gguf"
  static const struct {
    const char *words, *want;
  } rows[] = {
      {"--ctx -1", "vram: not a count for --ctx: '-1' (expected 0 to 2147483647)"},
      {"--slots 257", "vram: not a count for --slots: '257' (expected 1 to 256)"},
      {"--ctx", "vram: no value behind '--ctx'"},
      {"--kv q4_k", "vram: no type of a cache: 'q4_k' (expected f16 bf16 f32 q8_0 q5_1 q5_0 q4_1 "
                    "q4_0 iq4_nl)"},
      {"--flash-attn o", "vram: unknown --flash-attn 'o' (expected auto on off)"},
      {"--unified 2", "vram: unknown --unified '2' (expected 0 1)"},
      {"--tensor-split 1,-1",
       "vram: not shares of devices: '1,-1' (expected numbers as in 3,1, at most 16)"},
      {"--tensor-split 0",
       "vram: not shares of devices: '0' (expected numbers as in 3,1, at most 16)"},
      {"--tensor-split 3,1",
       "vram: more shares in --tensor-split than devices (expected --devices)"},
      {"--override-tensor exps",
       "vram: not a pattern and where its tensors lie: 'exps' (expected PATTERN=CPU, "
       "PATTERN=CUDA0)"},
      {"--device cpu --gpu t4", "vram: --device cpu excludes '--gpu'"},
      {"--cc 4.0", "vram: not a compute capability '4.0' (expected 7.5, 8.0, 9.0, ...)"},
      {"--train sgd", "vram: an option of models in the text form: '--train' (expected its "
                      "config.json, or its text: vram-export -h)"},
      {"--ctxx 1", "vram: unknown option '--ctxx' (expected --ctx? vram estimate -h)"},
      {"--json --table",
       "vram: standard output is taken by --json, --csv or a FILE -: no place for '--table'"},
      {"--main-gpu 1", GGUF ": main_gpu is none of the devices"}};
  char words[300];
  size_t i;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(words, sizeof words, "estimate " GGUF " %s", rows[i].words);
    wrong(words, "", 0, rows[i].want);
  }
  wrong("estimate lenet5 --ctx 4", "", 0, "vram: an option of files of models: '--ctx'");
  wrong("fit " GGUF " --budget 12,24GiB", "", 0,
        "vram: --budget 12 is 12 bytes (expected 12GB? 12GiB)");
  wrong("replay " GGUF, "", 0,
        "vram: '" GGUF "' is a file of a model (gguf), expected a trace: "
        "vram estimate or vram fit of it");
  wrong("plan " GGUF " --budget 1GiB", "", 0,
        "vram: '" GGUF
        "' is a file of a model (gguf), expected one in the text form: vram estimate or "
        "vram fit of it");
  EQUAL(command("estimate " GGUF " --ctx 8192 --budget 1GiB", "", 0), TOO_LARGE);
  EQUAL(command("fit " GGUF " --budget 1GiB", "", 0), TOO_LARGE);
  EQUAL(command("estimate " GGUF " --ctx 8192 --tensor-split 3,1 --devices 2 --json", "", 0), FITS);
  CHECK(strstr(out, "\"CUDA1\":{\"model\":"));
  EQUAL(command("estimate tests/golden/hf/qwen3-8b.json --ctx 32768 --slots 4 --json", "", 0),
        FITS);
  CHECK(strstr(out, "\"params\":8190735360,") && strstr(out, "\"kv_cache_bytes\":19327352832,"));
  wrong("estimate tests/golden/hf/qwen3-8b.json --ngl 3", "", 0,
        "vram: an option of GGUF files: '--ngl'");
  /* as llama.cpp's llama_get_memory_breakdown has it */
  EQUAL(command("estimate " GGUF " --ctx 8192 --json", "", 0), FITS);
  CHECK(strstr(out, "\"CUDA0\":{\"model\":4617396480,\"context\":1073741824,"));
  CHECK(strstr(out, "\"CUDA_Host\":{\"model\":295501824,\"context\":0,"));
  EQUAL(command("estimate tests/fuzz/corpus/read/llama3 --ctx 8192 --slots 2 --json", "", 0), FITS);
  CHECK(strstr(out, "\"params\":8030261248,") && strstr(out, "\"params_bytes\":16060522496,"));
  CHECK(strstr(out, "\"n_ctx\":8192,\"slots\":2,\"kv_bytes_per_token\":131072,"
                    "\"kv_cache_bytes\":2147483648,"));
#undef GGUF
}

static void bad_input(void) {
  static const char binary[] = "\177ELF\2\1\1\0\0\0\n\0\0\1", bom[] = "\357\273\277model m\n";
  static const char near_op[] = "input x f32 [2,3]\nlineer y x out_features=3\n",
                    near_dtype[] = "input x bff16 [2]\nrelu y x\n";
  static const char late[] = "input x f32 [2]\nrelu y x\nnope z y\n";
  wrong("estimate -", "", 0, "-:1:1: a model without nodes (expected OP OUTPUTS INPUTS ... lines)");
  wrong("estimate - --json", late, sizeof late - 1,
        "-:3:1: an unknown op (found nope, expected an op of `vram list ops`)");
  wrong("estimate -", near_op, sizeof near_op - 1,
        "-:2:1: an unknown op (found lineer, expected linear? vram list ops)");
  wrong("diff - lenet5", near_dtype, sizeof near_dtype - 1,
        "-:1:9: an unknown dtype (found bff16, expected bf16? vram list dtypes)");
  wrong("estimate -", binary, sizeof binary - 1,
        "-:1:1: a byte that is not printable ASCII (expected text)");
  wrong("estimate -", bom, sizeof bom - 1, /* a mark of UTF-8 is none of the text's */
        "-:1:1: a model without nodes (expected OP OUTPUTS INPUTS ... lines)");
}

/* What was not replayed has no reserved bytes: null, not 0. */
static void reserved(void) {
  static const struct {
    const char *words, *replayed;
    int known;
  } rows[] = {{"estimate - --train adamw --json", "\"replayed\":true", 1},
              {"estimate - --train adamw --prefetch 100000 --json", "\"replayed\":false", 0}};
  size_t i;
  for (i = 0; i < 2; i++) {
    const char *at = out;
    unsigned n = 0;
    snprintf(test_where, sizeof test_where, "vram %s", rows[i].words);
    EQUAL(command(rows[i].words, small, sizeof small - 1), 0);
    CHECK(strstr(out, rows[i].replayed) != NULL);
    for (; (at = strstr(at, "\"reserved_")) != NULL; at++, n++)
      EQUAL(strncmp(strchr(at, ':'), ":null", 5) != 0, rows[i].known);
    EQUAL(n, 6);
  }
  *test_where = 0;
}

/* Each term of the report once, with its source. */
static void terms(void) {
  static const char *const want[] = {"\nparams_bytes ", " derived ",       "\nworkspace_bytes ",
                                     " rules ",         "\ndevice_bytes ", " bound "};
  vram_report r;
  vram_term t;
  size_t i;
  memset(&r, 0, sizeof r);
  EQUAL(command("estimate - --terms", small, sizeof small - 1), 0);
  for (i = 0; i < sizeof want / sizeof *want; i++)
    CHECK(strstr(out, want[i]) != NULL);
  EQUAL(command("estimate - --json", small, sizeof small - 1), 0);
  CHECK(strstr(out, "\"sources\":{\"params_bytes\":\"derived\"") != NULL);
  r.params_bytes = 7;
  r.device_bytes.lower = 1, r.device_bytes.upper = 3;
  CHECK(vram_report_term(&r, 0, &t) && t.bytes.lower == 7 && t.bytes.upper == 7);
  for (i = 0; vram_report_term(&r, (uint32_t)i, &t); i++)
    CHECK(*t.from && t.bytes.lower <= t.bytes.upper);
  CHECK(t.bytes.lower == 1 && t.bytes.upper == 3);
  TEXT(vram_source_name(VRAM_SOURCE_COUNT), "?");
}

/* The number behind a key of the JSON. */
static int64_t number(const char *key) {
  const char *at = strstr(out, key);
  return at ? strtoll(at + strlen(key), NULL, 10) : -1;
}

/* The figures of fit are those of estimate, which fits at `value` and does not at `next`. */
static void same_answer(void) {
  static const char *const budget[] = {"--budget 1GiB", "--gpu t4", "--budget 900MB"};
  size_t i;
  for (i = 0; i < sizeof budget / sizeof *budget; i++) {
    char words[200], want[200];
    int64_t value, next, peak, next_peak;
    snprintf(words, sizeof words, "fit - --train adamw --json %s", budget[i]);
    EQUAL(command(words, small, sizeof small - 1), FITS);
    value = number("\"value\":");
    next = number("\"next\":");
    peak = number("\"peak_allocated_bytes\":");
    next_peak = number("\"next_peak_allocated_bytes\":");
    EQUAL(next, value + 1);
    snprintf(words, sizeof words, "estimate - --train adamw --json %s --batch %" PRId64, budget[i],
             value);
    EQUAL(command(words, small, sizeof small - 1), FITS);
    snprintf(want, sizeof want, "\"expected\":%" PRId64 ",", peak);
    CHECK(strstr(out, want) != NULL);
    snprintf(words, sizeof words, "estimate - --train adamw --json %s --batch %" PRId64, budget[i],
             next);
    EQUAL(command(words, small, sizeof small - 1), TOO_LARGE);
    snprintf(want, sizeof want, "\"expected\":%" PRId64 ",", next_peak);
    CHECK(strstr(out, want) != NULL);
  }
}

/* Every built-in model trains, and fit agrees with estimate on it. */
static void built_ins(void) {
  size_t i;
  CHECK(sizeof model_table / sizeof *model_table > 20);
  for (i = 0; i < sizeof model_table / sizeof *model_table; i++) {
    const char *name = model_table[i].name;
    char words[200];
    int64_t value, next;
    CHECK(!strncmp(model_table[i].line[0], "# ", 2) && strlen(model_table[i].line[0]) < 80);
    snprintf(words, sizeof words, "fit %s --budget 200GiB --train adamw --amp bf16 --json", name);
    EQUAL(command(words, "", 0), FITS);
    TEXT(err, "");
    value = number("\"value\":");
    next = number("\"next\":");
    CHECK(value > 0 && next > value);
    snprintf(words, sizeof words,
             "estimate %s --budget 200GiB --train adamw --amp bf16 --json --batch %" PRId64, name,
             value);
    EQUAL(command(words, "", 0), FITS);
    snprintf(words, sizeof words,
             "estimate %s --budget 200GiB --train adamw --amp bf16 --json --batch %" PRId64, name,
             next);
    EQUAL(command(words, "", 0), TOO_LARGE);
    snprintf(words, sizeof words, "estimate %s --json", name);
    EQUAL(command(words, "", 0), FITS);
  }
}

/* Names in the JSON: characters beyond ASCII, and bytes that are none. */
static void json_texts(void) {
  char text[200];
  size_t n;
  FILE *f = tmpfile();
  if (!f) {
    FAIL("a temporary file");
    return;
  }
  cmd_json_text(f, "a\"\\\n<\xc3\xbc\xe2\x82\xac\xf0\x9f\x92\xa1\xff\xed\xa0\x80\xc3");
  rewind(f);
  n = fread(text, 1, sizeof text - 1, f);
  text[n] = 0;
  fclose(f);
  TEXT(
      text,
      "\"a\\\"\\\\\\u000a\\u003c\\u00fc\\u20ac\\ud83d\\udca1\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
}

/* What cannot be written: status 1, one line that says why. */
static void no_output(void) {
  static const char *const rows[] = {"estimate -",       "estimate - --json",
                                     "estimate - --csv", "estimate - --events -",
                                     "list ops",         "-h"};
  size_t i;
  FILE *full = fopen("/dev/full", "w");
  EQUAL(command("estimate - --events no/such/file", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write 'no/such/file': No such file or directory\n");
  if (!full)
    return;
  fclose(full);
  EQUAL(command("estimate - --events /dev/full", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write '/dev/full': No space left on device\n");
  EQUAL(command("estimate - --svg /dev/full", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write '/dev/full': No space left on device\n");
  EQUAL(command("estimate - --html /dev/full", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write '/dev/full': No space left on device\n");
  EQUAL(command("estimate - --snapshot /dev/full", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write '/dev/full': No space left on device\n");
  EQUAL(command("estimate - --trace no/such/file", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write 'no/such/file': No such file or directory\n");
  EQUAL(command("estimate - --html no/such/file", small, sizeof small - 1), OTHER);
  TEXT(err, "vram: cannot write 'no/such/file': No such file or directory\n");
  out_path = "/dev/full";
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(test_where, sizeof test_where, "vram %s >/dev/full", rows[i]);
    EQUAL(command(rows[i], small, sizeof small - 1), OTHER);
    TEXT(err, "vram: cannot write 'standard output': No space left on device\n");
  }
  *test_where = 0;
  out_path = NULL;
}

/* A file that the system has no room to open is no bad input. */
static void no_input(void) {
  static const char *const rows[] = {"estimate tests/cases/every_owner.vram",
                                     "estimate vgg17",
                                     "fit ./x --budget 1GiB",
                                     "plan x.csv",
                                     "arena x.csv",
                                     "emit x.vram",
                                     "estimate --embedded x.h",
                                     "replay x",
                                     "diff - x"};
  static const struct {
    int error, status;
  } why[] = {{ENOMEM, OTHER}, {EMFILE, OTHER}, {ENFILE, OTHER}, {EACCES, USAGE}, {ENOENT, USAGE}};
  size_t i, k;
  for (i = 0; i < sizeof rows / sizeof *rows; i++)
    for (k = 0; k < sizeof why / sizeof *why; k++) {
      snprintf(test_where, sizeof test_where, "vram %s, opened: %s", rows[i],
               strerror(why[k].error));
      fopen_error = why[k].error;
      EQUAL(command(rows[i], small, sizeof small - 1), why[k].status);
      fopen_error = 0;
      EQUAL(lines(err), 1);
      CHECK(strstr(err, strerror(why[k].error)) ||
            (why[k].error == ENOENT && strstr(err, "no built-in model")));
    }
  *test_where = 0;
}

/* Nothing is written of a step that fails half-way: an overwritten tensor that backward needs. */
static void no_half(void) {
  static const char stale[] = "input x f32 [2,8]\nlinear a x out_features=8\nsigmoid b a\n"
                              "mul c b scalar=1 inplace=1\nmean l c\n";
  EQUAL(command("estimate - --train sgd --events -", stale, sizeof stale - 1), USAGE);
  EQUAL(out_len, 0);
  EQUAL(lines(err), 1);
}

/* Memory that runs out at every place: status 1, one line, nothing leaked. */
static void no_memory(void) {
  static const char page[] = "estimate - --train sgd --parallel ddp=2 --rank all --html /dev/null";
  static const char *const rows[] = {"estimate - --train adamw",
                                     "estimate - --train sgd --table --live",
                                     "estimate - --train sgd --checkpoint-nodes a..b --csv",
                                     "estimate - --dim N=3",
                                     "estimate - --train sgd --svg /dev/null --html /dev/null",
                                     "fit - --train sgd --checkpoint-nodes a..b --budget 1GiB",
                                     "replay tests/fuzz/corpus/trace/csv --snapshot /dev/null",
                                     "replay tests/fuzz/corpus/trace/protocol4 --json",
                                     "replay tests/traces/jax_mlp.prof --json",
                                     "replay tests/traces/profiler.raw.json.gz --json",
                                     "replay tests/traces/bfc_oom.txt",
                                     "diff - tests/fuzz/corpus/trace/csv --train sgd",
                                     "diff - tests/fuzz/corpus/trace/protocol2 --train sgd --json",
                                     "arena - --emit-header build/memory.h --svg build/memory.svg",
                                     "arena tests/fuzz/corpus/lifetimes/example.csv --csv",
                                     "arena tests/golden/arena/stream_i8.tflite --csv",
                                     "estimate - --train sgd --snapshot build/memory.json",
                                     "estimate - --train sgd --trace build/memory.json",
                                     "estimate - --train sgd --checkpoint auto --budget 1GiB",
                                     "estimate tests/golden/gguf/split-00001-of-00002.gguf",
                                     page,
                                     "plan - --train sgd --parallel ddp=2 --budget 1GiB",
                                     "fit - --train sgd --parallel auto --devices 2 --gpu rtx4060",
                                     "estimate --embedded - --json",
                                     "estimate --embedded tests/embedded/kws.h",
                                     "emit - -o build/memory.h",
                                     "plan - --budget 1GiB --svg build/memory.svg",
                                     "plan tests/plan/nine.csv --budget 45KB",
                                     "plan tests/plan/nine.csv",
                                     "list models"};
  size_t i;
  long k;
  for (i = 0; i < sizeof rows / sizeof *rows; i++) {
    int status = OTHER, failed = 1, without = 0;
    for (k = 0; k < 4000 && failed; k++) {
      long live = alloc_live;
      alloc_left = k;
      snprintf(test_where, sizeof test_where, "vram %s, allocation %ld fails", rows[i], k);
      status = command(rows[i], small, sizeof small - 1);
      failed = alloc_left < 0;
      without += failed && status != OTHER && !strstr(out, "takes more memory than this machine");
      alloc_left = -1;
      EQUAL(alloc_live, live);
      CHECK(status == OTHER || status == FITS || status == TOO_LARGE);
      EQUAL(lines(err), status == OTHER);
      if (!CHECK(status != OTHER || strstr(err, "out of memory")))
        printf("  %s", err);
    }
    CHECK(status != OTHER);
    CHECK(without <= 1); /* there is one thing that a command does without */
  }
  *test_where = 0;
}

int main(void) {
  static char one[] = "VRAM_THREADS=1"; /* allocations are counted */
  putenv(one);
  EQUAL(command("", "", 0), USAGE);
  right();
  gpus();
  options();
  bad_input();
  model_files();
  reserved();
  terms();
  same_answer();
  built_ins();
  json_texts();
  no_output();
  no_input();
  no_half();
  no_memory();
  return test_done("test_tool");
}
