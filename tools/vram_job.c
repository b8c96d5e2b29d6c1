/* A model on the command line: its options, its text, one step of it. */
#include "vram_job.h"
#include "vram_model.h"
#include "vram_serve.h"

#include <stddef.h>

static const char *const help_step[] = {HELP_STEP, HELP_DEVICES, NULL};

static int is_command(const job *j, const char *name) { return !strcmp(j->command, name); }

/* Options of a model's step that the command does not have. */
static const char *not_of(const job *j) {
  static const char *const without[][2] = {
      {"estimate", "--solve --global-batch --flop-per-byte --top"},
      {"fit", "--table --no-table --live --terms --explain --events --svg --html "
              "--snapshot "
              "--trace"},
      {"plan", "--generate --infer --inplace --checkpoint --checkpoint-nodes --reentrant --live "
               "--terms --explain "
               "--events --html --snapshot --trace --solve --global-batch --flop-per-byte --top"},
      {"advise",
       "--generate --table --no-table --live --terms --explain --events --svg --html --snapshot "
       "--trace --csv --solve --global-batch --flop-per-byte"},
      {"diff",
       "--generate --table --no-table --live --terms --explain --events --svg --html --snapshot "
       "--trace --solve --budget --context --cudnn --modules"},
      {"arena", "--generate --last-batch --eval-batch --dry-run-batch --prefetch --pinned --gpu "
                "--alloc-conf --context "
                "--cudnn --modules"}};
  size_t i;
  for (i = 0; i < sizeof without / sizeof *without; i++)
    if (is_command(j, without[i][0]))
      return without[i][1];
  return "";
}

int job_unknown(const job *j, const char *a) {
  return cmd_unknown_option(a, j->command, help_step, not_of(j));
}

/* ---- options with a value: the value behind option a; 0: error printed ---- */

static int set_train(job *j, const char *a, const char *v) {
  (void)a;
  j->o.train = 1;
  j->optimizer = v;
  j->o.optimizer = vram_optimizer_from_name(v, &j->o.weight_decay);
  return j->o.optimizer != VRAM_OPTIM_COUNT ||
         (cmd_bad("unknown optimizer", v, cmd_nearest("optimizers", v)), 0);
}

static int set_optim_impl(job *j, const char *a, const char *v) {
  if (!strcmp(v, "foreach"))
    j->o.optim_impl = VRAM_OPTIM_IMPL_FOREACH;
  else if (!strcmp(v, "fused"))
    j->o.optim_impl = VRAM_OPTIM_IMPL_FUSED;
  else if (!strcmp(v, "loop"))
    j->o.optim_impl = VRAM_OPTIM_IMPL_LOOP;
  else
    return cmd_bad("unknown optimizer implementation", v, "foreach, fused or loop"), 0;
  j->training = a;
  return 1;
}

static int set_clip_grad_norm(job *j, const char *a, const char *v) {
  if (strcmp(v, "foreach") && strcmp(v, "loop"))
    return cmd_bad("unknown implementation of clip_grad_norm_", v, "foreach or loop"), 0;
  j->o.clip_grad_norm = v[0] == 'f' ? VRAM_OPTIM_IMPL_FOREACH : VRAM_OPTIM_IMPL_LOOP;
  j->training = a;
  return 1;
}

static int set_galore_rank(job *j, const char *a, const char *v) {
  int64_t n;
  if (!cmd_parse_count(v, 1, 1 << 30, &n))
    return cmd_bad("not a rank", v, "1 or more"), 0;
  j->o.galore_rank = (uint32_t)n;
  j->training = a;
  return 1;
}

static int set_ema(job *j, const char *a, const char *v) {
  if (strcmp(v, "foreach") && strcmp(v, "loop") && strcmp(v, "timm"))
    return cmd_bad("unknown averaged weights", v, "foreach, loop or timm"), 0;
  j->o.ema = v[0] == 'f' ? VRAM_EMA_FOREACH : v[0] == 'l' ? VRAM_EMA_LOOP : VRAM_EMA_TIMM;
  j->training = a;
  return 1;
}

static int set_step(job *j, const char *a, const char *v) {
  int64_t n = 0;
  if (!strcmp(v, "first") || !strcmp(v, "second"))
    n = v[0] == 'f' ? 1 : 2;
  else if (strcmp(v, "steady") && !cmd_parse_count(v, 1, INT32_MAX, &n))
    return cmd_bad("unknown step", v, "first, second, steady or a number"), 0;
  j->o.first_step = n == 1;
  j->nth_step = n > 1 ? (uint32_t)n : 0;
  if (n)
    j->training = a;
  return 1;
}

/* --top */
static int set_top(job *j, const char *a, const char *v) {
  (void)a;
  if (!strcmp(v, "all"))
    j->top = 0;
  else if (!cmd_parse_count(v, 1, 1000000, &j->top))
    return cmd_bad("not a number of lines", v, "1 or more, or all"), 0;
  j->top_given = v;
  return 1;
}

/* --devices, --global-batch, --flop-per-byte */
static int set_number(job *j, const char *a, const char *v) {
  int64_t n;
  if (!cmd_parse_count(v, 1, a[2] == 'd' ? 1048576 : INT64_C(1) << 40, &n))
    return cmd_bad(a[2] == 'd'   ? "not a number of devices"
                   : a[2] == 'g' ? "not a batch"
                                 : "not a number of operations",
                   v, "1 or more"),
           0;
  if (a[2] == 'd')
    j->devices = (uint32_t)n, j->devices_given = v;
  else
    *(a[2] == 'g' ? &j->global_batch : &j->flop_per_byte) = n;
  return 1;
}

/* Is an option given once more behind that one? */
static int option_again(const char *v) {
  const size_t name = strcspn(v, "=,") + 1;
  const char *next = v;
  while (*(next += strcspn(next, ","))) {
    next++;
    if (v[name - 1] == '=' && !strncmp(v, next, name))
      return 1;
  }
  return 0;
}

/* Options behind auto: each one of some strategy that is tried, and none that auto has itself. */
static int auto_options(const char *v) {
  static const char *const of[] = {"ddp=2", "zero1=2", "fsdp2=2", "tp=2", "pp=2", "cp=2"};
  while (*v == ',') {
    const size_t len = strcspn(v + 1, ",") + 1;
    vram_error err, first;
    vram_parallel p;
    char text[128];
    size_t i;
    if (!strncmp(v + 1, "microbatches=", 13))
      return cmd_bad("--parallel auto tries for itself:", "microbatches", NULL), 0;
    if (option_again(v + 1))
      return cmd_bad("an option of --parallel auto twice:", v + 1, NULL), 0;
    memset(&first, 0, sizeof first);
    for (i = 0; i < sizeof of / sizeof *of; i++) {
      snprintf(text, sizeof text, "%s%.*s", of[i], (int)len, v);
      if (!vram_parallel_parse(text, &p, &err))
        break;
      if (!i || err.code != VRAM_ERR_NAME)
        first = err;
    }
    if (i == sizeof of / sizeof *of)
      return cmd_say("vram: --parallel auto: %s", first.text), 0;
    v += len;
  }
  return *v ? (cmd_bad("behind auto come options:", v, ",NAME=VALUE"), 0) : 1;
}

static int set_parallel(job *j, const char *a, const char *v) {
  vram_error err;
  j->spec = v;
  j->training = a;
  j->every_way = !strncmp(v, "auto", 4) && (!v[4] || v[4] == ',');
  if (j->every_way && !is_command(j, "fit"))
    return cmd_bad("of vram fit alone:", "--parallel auto", NULL), 0;
  if (j->every_way)
    return auto_options(v + 4);
  if (is_command(j, "fit") && !strchr(v, '=') && cmd_nearest_of("auto", v))
    return cmd_bad("unknown strategy", v, "auto? or NAME=RANKS: vram help parallel"), 0;
  return !vram_parallel_parse(v, &j->parallel, &err) ||
         (cmd_say("vram: --parallel: column %u: %s", err.column, err.text), 0);
}

static int set_deepspeed(job *j, const char *a, const char *v) {
  (void)a;
  j->deepspeed = v;
  return 1;
}

static int set_rank(job *j, const char *a, const char *v) {
  int64_t n = 0;
  (void)a;
  j->rank_given = v;
  j->all_ranks = !strcmp(v, "all");
  if (!j->all_ranks && !cmd_parse_count(v, 0, INT32_MAX, &n))
    return cmd_bad("not a rank", v, "0 or more, or all"), 0;
  j->at_rank = (uint32_t)n;
  return 1;
}

static const char generation[] =
    "prompt=S,new=N[,cache=dynamic|static|offloaded][,padded=0|1][,attn=sdpa|eager]";

static vram_hf_cache which_cache(const char *word) {
  return !strcmp(word, "dynamic")     ? VRAM_HF_DYNAMIC
         : !strcmp(word, "static")    ? VRAM_HF_STATIC
         : !strcmp(word, "offloaded") ? VRAM_HF_OFFLOADED
                                      : VRAM_HF_NO_CACHE;
}

/* prompt=S,new=N,cache=dynamic,padded=0 */
static int set_generate(job *j, const char *a, const char *v) {
  static const char *const name[] = {"prompt=", "new=", "cache=", "padded=", "attn="};
  int64_t value[2] = {0, 0};
  char word[32];
  size_t i, n;
  int good = 1;
  (void)a;
  j->generate = v;
  j->is_padded = j->is_eager = 0;
  j->cache = VRAM_HF_DYNAMIC;
  for (; *v && good; v += *v == ',') {
    for (i = 0; i < 5 && strncmp(v, name[i], strlen(name[i])) != 0;)
      i++;
    v += i < 5 ? strlen(name[i]) : 0;
    n = strcspn(v, ",");
    snprintf(word, sizeof word, "%.*s", (int)(n < 31 ? n : 31), v);
    if (i < 2)
      good = cmd_parse_count(word, 1, INT32_MAX, &value[i]);
    else if (i == 2)
      good = (j->cache = (uint8_t)which_cache(word)) != VRAM_HF_NO_CACHE;
    else if (i == 3)
      good = (j->is_padded = !strcmp(word, "1")) || !strcmp(word, "0");
    else if (i == 4)
      good = (j->is_eager = !strcmp(word, "eager")) || !strcmp(word, "sdpa");
    else
      good = 0;
    v += n;
  }
  j->prompt = value[0];
  j->new_tokens = value[1];
  return (good && j->prompt && j->new_tokens) ||
         (cmd_bad("not a generation", j->generate, generation), 0);
}

static int set_accumulate(job *j, const char *a, const char *v) {
  int64_t n;
  if (!cmd_parse_count(v, 1, 1000000, &n))
    return cmd_bad("not a number of micro-batches", v, "1 or more"), 0;
  j->o.accumulate = (uint32_t)n;
  if (n > 1)
    j->training = a;
  return 1;
}

static int set_logits_chunks(job *j, const char *a, const char *v) {
  int64_t n;
  if (!cmd_parse_count(v, 1, 256, &n))
    return cmd_bad("not a number of chunks", v, "1 to 256"), 0;
  j->logits_chunks = (uint32_t)n;
  j->training = a;
  return 1;
}

/* --last-batch, --eval-batch, --dry-run-batch */
static int set_other_batch(job *j, const char *a, const char *v) {
  int64_t n;
  if (!cmd_parse_count(v, 1, INT64_MAX, &n))
    return cmd_bad("not a batch", v, "1 or more"), 0;
  *(a[2] == 'l' ? &j->last_batch : a[2] == 'e' ? &j->eval_batch : &j->dry_run_batch) = n;
  j->training = a;
  return 1;
}

static int set_checkpoint(job *j, const char *a, const char *v) {
  int64_t n = 0;
  const int fit = is_command(j, "fit");
  j->training = a;
  if (!strcmp(v, "layers")) {
    j->checkpoint = v;
    j->o.by_keyword = 1;
    return 1;
  }
  j->automatic = !strcmp(v, "auto") && !fit;
  if (!j->automatic && !cmd_parse_count(v, 1, 1000000, &n))
    return cmd_bad("not a number of segments", v,
                   fit ? "1 or more, or layers" : "1 or more, layers or auto"),
           0;
  j->o.checkpoint_segments = (uint32_t)n;
  return 1;
}

static int set_checkpoint_nodes(job *j, const char *a, const char *v) {
  j->checkpoint = v;
  j->o.by_keyword = 0;
  j->training = a;
  return 1;
}

static int set_batches(job *j, const char *a, const char *v) { /* --prefetch, --pinned */
  int64_t n;
  if (!cmd_parse_count(v, 0, 1000000, &n))
    return cmd_bad("not a number of batches", v, "0 or more"), 0;
  *(a[3] == 'r' ? &j->o.prefetch : &j->o.pinned) = (uint32_t)n;
  return 1;
}

static int set_dtype(job *j, const char *a, const char *v) { /* --amp, --dtype */
  const vram_dtype d = vram_dtype_from_name(v);
  const int amp = a[2] == 'a';
  if (d != VRAM_BF16 && d != VRAM_F16 && (amp || d != VRAM_F32))
    return cmd_bad("not a dtype for this", v, amp ? "bf16 or fp16" : "bf16, f16 or f32"), 0;
  *(amp ? &j->o.amp : &j->o.dtype) = d;
  return 1;
}

static int set_adapters(job *j, const char *a, const char *v) { /* --lora, --quant */
  const int lora = a[2] == 'l';
  *(lora ? &j->lora : &j->quant) = v;
  return !lora || j->o.train || set_train(j, a, "adamw");
}

static int set_freeze(job *j, const char *a, const char *v) {
  j->freeze = v;
  j->training = a;
  return 1;
}

static int set_dim(job *j, const char *a, const char *v) { /* --batch, --dim */
  const size_t len = strcspn(v, "=");
  int64_t n;
  if (j->ndims == VRAM_MAX_DIMS)
    return cmd_bad("too many dims", v, NULL), 0;
  if (a[2] == 'd') {
    char *name = j->dim_name[j->ndims];
    if (!v[len] || !len || len > VRAM_MAX_NAME)
      return cmd_bad("not a dim", v, "NAME=N"), 0;
    memcpy(name, v, len);
    name[len] = 0;
    j->dims[j->ndims].name = name;
    v += len + 1;
  }
  if (!cmd_parse_count(v, 0, INT64_MAX, &n))
    return cmd_bad("not a size", v, "an integer from 0 to 2^63-1"), 0;
  j->dims[j->ndims++].value = n;
  return 1;
}

static int set_bytes(job *j, const char *a, const char *v) { /* --budget, --context */
  const int of_plan = is_command(j, "plan") && a[2] == 'b';  /* a chain's bytes may be few */
  uint64_t size;
  if (!(of_plan && cmd_parse_size(v, &size)) && !cmd_take_size(a, v, &size))
    return 0;
  if (of_plan)
    j->budget_given = v;
  if (a[2] == 'b')
    j->budget = size, j->has_budget = 1;
  else
    j->o.context_bytes = size ? size : VRAM_NO_CONTEXT;
  return 1;
}

/* The first of names that commas are between; what is behind it. NULL: it is not known, and that
   was printed. */
static const char *next_gpu(job *j, const char *names) {
  const size_t n = strcspn(names, ",");
  const vram_gpu *g;
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1), names);
  g = cmd_find_gpu(names[n] ? name : names);
  if (!g)
    return NULL;
  j->gpu = g->name;
  j->gpu_bytes = g->bytes;
  j->o.cc = g->cc;
  j->o.sm = g->sm;
  return names + n + (names[n] == ',');
}

const char *job_next_gpu(job *j, const char *names) {
  const int own = j->budget != j->gpu_bytes; /* --budget */
  names = next_gpu(j, names);
  if (!own)
    j->o.budget_bytes = j->budget = j->gpu_bytes;
  return names;
}

/* Several: for --parallel auto, one after the other. */
static int set_gpu(job *j, const char *a, const char *v) {
  const char *at = v;
  (void)a;
  j->gpus = strchr(v, ',') ? v : NULL;
  do
    at = next_gpu(j, at);
  while (at && *at);
  return at != NULL;
}

static int set_cc(job *j, const char *a, const char *v) {
  (void)a;
  return (j->o.cc = cmd_parse_cc(v)) != 0;
}

static int set_cudnn(job *j, const char *a, const char *v) {
  (void)a;
  static const char *const words[] = {"expected", "none", "benchmark"};
  uint32_t i = 0;
  while (i < 3 && strcmp(v, words[i]))
    i++;
  j->o.cudnn = (vram_cudnn)i;
  return i < 3 || (cmd_bad("unknown workspaces of cuDNN", v, "expected, none or benchmark"), 0);
}

static const char *const attention_words[] = {
#define VRAM__X(id, text) text,
    VRAM_ATTENTIONS(VRAM__X)
#undef VRAM__X
};

static int set_attention(job *j, const char *a, const char *v) {
  uint32_t i = VRAM_ATTENTION_ANY + 1u;
  (void)a;
  while (i < VRAM_ATTENTION_COUNT && strcmp(v, attention_words[i]))
    i++;
  j->o.attention = (vram_attention)i;
  return i < VRAM_ATTENTION_COUNT ||
         (cmd_bad("unknown kernel of attention", v, "flash, efficient, cudnn or math"), 0);
}

static int set_modules(job *j, const char *a, const char *v) {
  (void)a;
  j->o.eager_modules = !strcmp(v, "eager-cuda10") ? VRAM_EAGER_CUDA10 : !strcmp(v, "eager");
  return j->o.eager_modules || !strcmp(v, "lazy") ||
         (cmd_bad("unknown loading of modules", v, "lazy, eager or eager-cuda10"), 0);
}

static int set_rules(job *j, const char *a, const char *v) {
  (void)a;
  j->o.rules = vram_rules_find(v, (uint32_t)strlen(v));
  if (j->o.rules == VRAM_RULES_COUNT) {
    const char *const best = cmd_nearest_name("rules", v);
    char expected[128];
    snprintf(expected, sizeof expected, "%s%storch, " VRAM_TORCH_RANGE " or ideal",
             best ? best : "", best ? "? " : "");
    return cmd_bad("unknown rules", v, expected), 0;
  }
  if (j->o.rules == VRAM_RULES_TORCH)
    j->o.rules = VRAM_RULES_NEWEST; /* whatever the text names */
  return 1;
}

/* A word that is nothing, or of other models. */
static void bad_solve(const char *v) {
  static const char own[] = "batch, dim:NAME, lora or segments";
  static const struct {
    const char *words, *of;
  } others[] = {{"ctx slots ngl n-cpu-moe", "a GGUF file"},
                {"side", "a folder of diffusers"},
                {"max-model-len max-num-seqs tp", "--engine"}};
  const char *const best = cmd_nearest_of(
      "batch lora segments prompt new ctx slots ngl n-cpu-moe side max-model-len max-num-seqs tp",
      v);
  char expected[128];
  size_t i;
  for (i = 0; i < sizeof others / sizeof *others; i++)
    if (cmd_in(v, others[i].words)) {
      snprintf(expected, sizeof expected, "%s, or for that %s", own, others[i].of);
      cmd_bad("nothing to solve for in a graph", v, expected);
      return;
    }
  if (!best && *v && strspn(v, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == strlen(v)) /* a dim's name */
    snprintf(expected, sizeof expected, "dim:%.40s? %s", v, own);
  else
    snprintf(expected, sizeof expected, "%s%s%s", best ? best : own, best ? "? " : "",
             best ? own : "");
  cmd_bad("nothing to solve for", v, expected);
}

static int set_solve(job *j, const char *a, const char *v) {
  (void)a;
  j->segments = !strcmp(v, "segments");
  j->rank = !strcmp(v, "lora");
  j->solve = strncmp(v, "dim:", 4) || !v[4] ? NULL : v + 4;
  j->of_generation = !strcmp(v, "prompt") ? SOLVE_PROMPT
                     : !strcmp(v, "new")  ? SOLVE_NEW
                                          : SOLVE_BATCH;
  if (j->solve || j->segments || j->rank || j->of_generation || !strcmp(v, "batch"))
    return 1;
  return bad_solve(v), 0;
}

static int set_alloc_conf(job *j, const char *a, const char *v) {
  vram_error err;
  (void)a;
  return !vram_pool_config(v, &j->pool, &err) || (cmd_say("vram: --alloc-conf: %s", err.text), 0);
}

static int set_file(job *j, const char *a, const char *v) {
  *(!strcmp(a, "--events")     ? &j->events
    : !strcmp(a, "--svg")      ? &j->svg
    : !strcmp(a, "--html")     ? &j->html
    : !strcmp(a, "--snapshot") ? &j->snapshot
                               : &j->trace) = v;
  return 1;
}

static int set_units(job *j, const char *a, const char *v) {
  (void)j, (void)a;
  return cmd_set_units(v);
}

/* One without a value; 0: it is none of them. */
static int job_flag(job *j, const char *a) {
  static const struct {
    const char *name;
    size_t at; /* of an int in job */
    int value, training;
  } flag[] = {{"--infer", offsetof(job, o.train), 0, 0},
              {"--keep-grads", offsetof(job, o.keep_grads), 1, 1},
              {"--zero-grad-late", offsetof(job, o.zero_grad_late), 1, 1},
              {"--zero-grad-end", offsetof(job, o.zero_grad_end), 1, 1},
              {"--optimizer-in-backward", offsetof(job, o.optimizer_in_backward), 1, 1},
              {"--master-weights", offsetof(job, o.master_weights), 1, 1},
              {"--capturable", offsetof(job, o.capturable), 1, 1},
              {"--reentrant", offsetof(job, o.reentrant), 1, 1},
              {"--inplace", offsetof(job, in_place), 1, 0},
              {"--json", offsetof(job, json), 1, 0},
              {"--csv", offsetof(job, csv), 1, 0},
              {"--table", offsetof(job, table), 1, 0},
              {"--no-table", offsetof(job, table), 0, 0},
              {"--live", offsetof(job, live), 1, 0},
              {"--terms", offsetof(job, terms), 1, 0},
              {"--explain", offsetof(job, explain), 1, 0}};
  size_t i;
  for (i = 0; i < sizeof flag / sizeof *flag; i++)
    if (!strcmp(a, flag[i].name)) {
      memcpy((char *)j + flag[i].at, &flag[i].value, sizeof flag[i].value);
      if (flag[i].training)
        j->training = a;
      return 1;
    }
  return 0;
}

int job_option(job *j, const char *a, const char *v) {
  static const struct {
    const char *names;
    int (*set)(job *j, const char *a, const char *v);
  } valued[] = {{"--train", set_train},
                {"--optim-impl", set_optim_impl},
                {"--clip-grad-norm", set_clip_grad_norm},
                {"--ema", set_ema},
                {"--galore-rank", set_galore_rank},
                {"--step", set_step},
                {"--parallel", set_parallel},
                {"--deepspeed", set_deepspeed},
                {"--rank", set_rank},
                {"--devices --global-batch --flop-per-byte", set_number},
                {"--top", set_top},
                {"--generate", set_generate},
                {"--accumulate", set_accumulate},
                {"--last-batch --eval-batch --dry-run-batch", set_other_batch},
                {"--checkpoint", set_checkpoint},
                {"--checkpoint-nodes", set_checkpoint_nodes},
                {"--prefetch --pinned", set_batches},
                {"--amp --dtype", set_dtype},
                {"--lora --quant", set_adapters},
                {"--freeze", set_freeze},
                {"--logits-chunks", set_logits_chunks},
                {"--batch --dim", set_dim},
                {"--budget --context", set_bytes},
                {"--gpu", set_gpu},
                {"--cc", set_cc},
                {"--cudnn", set_cudnn},
                {"--attention", set_attention},
                {"--modules", set_modules},
                {"--rules", set_rules},
                {"--solve", set_solve},
                {"--alloc-conf", set_alloc_conf},
                {"--events --svg --html --snapshot --trace", set_file},
                {"--units", set_units}};
  char help[32];
  size_t i;
  snprintf(help, sizeof help, "vram %s -h", j->command);
  if (cmd_in(a, not_of(j)))
    return cmd_bad("not an option of this command", a, help), 0;
  if (job_flag(j, a))
    return 1;
  if (cmd_in(a, "--net --flash --sram --format --kernels --align"))
    return cmd_bad("an option of vram estimate --embedded:", a, NULL), 0;
  if (cmd_in(a, SERVE_OPTIONS))
    return cmd_bad("an option of vram estimate --engine:", a,
                   !strcmp(a, "--memory") ? "--budget SIZE"
                   : !strcmp(a, "--tp")   ? "--parallel tp=N"
                                          : NULL),
           0;
  for (i = 0; i < sizeof valued / sizeof *valued && !cmd_in(a, valued[i].names); i++)
    ;
  if (i == sizeof valued / sizeof *valued) {
    if (is_command(j, "estimate") && model_is_option(a))
      return cmd_bad("an option of files of models:", a, NULL), 0;
    return job_unknown(j, a);
  }
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  return valued[i].set(j, a, v) ? 2 : 0;
}

void job_mode(const job *j, char *to, size_t cap) {
  const vram_step_options *o = &j->o;
  char count[16] = "", segments[16] = "", epoch[120] = "";
  const vram_dtype own = o->dtype ? o->dtype : j->own_dtype ? j->own_dtype : VRAM_F32;
  const int deepspeed = o->parallel && o->parallel->wrapper >= VRAM_WRAPPER_DS1;
  const vram_dtype d = !deepspeed          ? own /* its engine casts */
                       : o->parallel->fp16 ? VRAM_F16
                       : o->parallel->bf16 ? VRAM_BF16
                                           : own;
  const char *dtype = o->amp && d == VRAM_F32 ? "" : vram_dtype_name(d);
  if (o->accumulate > 1)
    snprintf(count, sizeof count, "%" PRIu32, o->accumulate);
  if (o->checkpoint_segments > 1 || o->ncheckpoint)
    snprintf(segments, sizeof segments, "%" PRIu32,
             o->ncheckpoint ? o->ncheckpoint : o->checkpoint_segments);
  if (j->last_batch)
    snprintf(epoch, sizeof epoch, " last-batch %" PRId64, j->last_batch);
  if (j->eval_batch)
    snprintf(epoch + strlen(epoch), sizeof epoch - strlen(epoch), " eval-batch %" PRId64,
             j->eval_batch);
  if (j->dry_run_batch)
    snprintf(epoch + strlen(epoch), sizeof epoch - strlen(epoch), " dry-run-batch %" PRId64,
             j->dry_run_batch);
  snprintf(to, cap, "%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s%s",
           o->train ? "train " : "infer", o->train ? j->optimizer : "",
           o->capturable ? " capturable" : "", *dtype ? " " : "", dtype, o->amp ? " amp " : "",
           o->amp ? vram_dtype_name((vram_dtype)o->amp) : "", j->lora ? " lora " : "",
           j->lora ? j->lora : "", j->quant ? " quant " : "", j->quant ? j->quant : "",
           j->freeze ? " freeze " : "", j->freeze ? j->freeze : "",
           o->master_weights ? " master-weights" : "", *count ? " accumulate " : "", count,
           o->keep_grads ? " keep-grads" : "", o->zero_grad_late ? " zero-grad-late" : "",
           o->zero_grad_end ? " zero-grad-end" : "", epoch,
           o->clip_grad_norm ? " clip-grad-norm" : "",
           o->optimizer_in_backward ? " in-backward" : "", o->ema ? " ema" : "",
           *segments ? " checkpoint " : "", segments, o->reentrant ? " reentrant" : "",
           o->first_step ? " first step" : "");
  if (j->in_place)
    snprintf(to + strlen(to), cap - strlen(to), " inplace");
  if (j->logits_chunks)
    snprintf(to + strlen(to), cap - strlen(to), " logits in %" PRIu32 " chunks", j->logits_chunks);
  if (o->attention)
    snprintf(to + strlen(to), cap - strlen(to), " attention %s", attention_words[o->attention]);
  if (j->nth_step)
    snprintf(to + strlen(to), cap - strlen(to), " step %" PRIu32, j->nth_step);
  if (j->spec) {
    const size_t n = strlen(to);
    if (j->deepspeed)
      snprintf(to + n, cap - n, " parallel %.*s deepspeed %s", (int)strcspn(j->spec, ","), j->spec,
               j->deepspeed);
    else
      snprintf(to + n, cap - n, " parallel %s", j->spec);
    if (!j->every_way)
      snprintf(to + strlen(to), cap - strlen(to), " rank %" PRIu32, j->at_rank);
  }
}

static int job_check_every_way(const job *j) {
  if (!j->devices)
    return cmd_bad("no devices for", "--parallel auto", "--devices N");
  if (j->rank_given)
    return cmd_bad("--parallel auto excludes", "--rank", NULL);
  if (j->checkpoint || j->o.checkpoint_segments || j->o.accumulate > 1)
    return cmd_bad("--parallel auto tries for itself:",
                   j->o.accumulate > 1 ? "--accumulate" : "--checkpoint", NULL);
  if (j->solve || j->segments || j->rank || j->last_batch || j->eval_batch || j->dry_run_batch)
    return cmd_bad("--parallel auto excludes --solve and batches of their own", NULL, NULL);
  return FITS;
}

/* --rank comes with --parallel. */
static int job_check_parallel(job *j) {
  const uint64_t world = j->spec && !j->every_way ? vram_parallel_world(&j->parallel) : 1;
  char expected[64];
  if ((j->global_batch || j->flop_per_byte) && !j->every_way)
    return cmd_bad("an option of --parallel auto:",
                   j->global_batch ? "--global-batch" : "--flop-per-byte", NULL);
  if ((j->top_given || j->gpus) && !j->every_way)
    return j->gpus ? cmd_bad("several devices are for --parallel auto:", j->gpus, "one")
                   : cmd_bad("an option of --parallel auto:", "--top", NULL);
  if (j->devices && !j->spec)
    return cmd_bad("an option of --parallel:", "--devices", NULL);
  if (j->every_way)
    return job_check_every_way(j);
  if (j->devices && j->devices != world) {
    snprintf(expected, sizeof expected, "%" PRIu64 ", as --parallel has it", world);
    return cmd_bad("devices that are not the world's:", j->devices_given, expected);
  }
  snprintf(expected, sizeof expected, "0 to %" PRIu64, world - 1);
  if (!j->spec && j->rank_given)
    return cmd_bad("an option of --parallel:", "--rank", NULL);
  if (j->at_rank >= world) {
    char rank[16];
    snprintf(rank, sizeof rank, "%" PRIu32, j->at_rank);
    return cmd_bad("a rank out of range:", rank, expected);
  }
  if (!j->spec)
    return FITS;
  j->parallel.rank = j->at_rank;
  j->parallel.step = j->nth_step;
  j->o.parallel = &j->parallel;
  return FITS;
}

int job_check(job *j) {
  if (j->gpu && !j->has_budget)
    j->budget = j->gpu_bytes, j->has_budget = 1;
  j->o.budget_bytes = j->budget;
  if (job_check_parallel(j) != FITS)
    return USAGE;
  if (j->training && !j->o.train)
    return cmd_bad("an option of training without --train:", j->training, NULL);
  if (j->generate && (j->o.train || j->o.prefetch || j->o.pinned))
    return cmd_bad("--generate excludes --train, --prefetch and --pinned", NULL, NULL);
  if (j->generate && (j->solve || j->segments || j->rank))
    return cmd_bad("--generate solves for batch, prompt or new", NULL, NULL);
  if (j->of_generation && !j->generate)
    return cmd_bad("no generation to solve for", NULL, "--generate prompt=S,new=N");
  if (j->automatic && !j->has_budget)
    return cmd_bad("no budget for", "--checkpoint auto", "--budget or --gpu");
  if (j->automatic && (j->checkpoint || j->o.reentrant))
    return cmd_bad("--checkpoint auto excludes",
                   j->checkpoint ? "--checkpoint-nodes" : "--reentrant", NULL);
  if (j->automatic && j->in_place)
    return cmd_bad("--checkpoint auto excludes", "--inplace", NULL);
  if (j->generate && j->in_place)
    return cmd_bad("--generate excludes", "--inplace", NULL);
  if (j->logits_chunks && (j->spec || j->every_way || j->eval_batch || j->dry_run_batch))
    return cmd_bad("--logits-chunks excludes",
                   j->eval_batch      ? "--eval-batch"
                   : j->dry_run_batch ? "--dry-run-batch"
                                      : "--parallel",
                   NULL);
  if (j->o.reentrant && !j->o.checkpoint_segments && !j->checkpoint && !j->segments)
    return cmd_bad("no checkpoint for", "--reentrant", "--checkpoint or --checkpoint-nodes");
  return FITS;
}

int job_model_dtype(job *j, vram_dtype own) {
  const vram_dtype d = j->o.dtype ? j->o.dtype : own;
  j->own_dtype = own;
  if (j->o.master_weights && d != VRAM_BF16 && d != VRAM_F16)
    return cmd_bad("no low-precision parameters for", "--master-weights", "--dtype");
  return FITS;
}

int job_arguments(job *j, int argc, char **argv) {
  int i;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      j->model = NULL;
      return cmd_help(is_command(j, "fit") ? help_fit : help_estimate, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      int n = job_option(j, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (j->model)
      return cmd_bad("a second model", argv[i], "one");
    else
      j->model = argv[i++];
  }
  if (!j->model)
    return cmd_bad(
        "no model", NULL,
        is_command(j, "fit")
            ? "a file or one of vram list models: vram fit resnet50; vram fit -h"
            : "a file or one of vram list models: vram estimate resnet50; vram estimate -h");
  if (j->deepspeed && job_deepspeed(j) != FITS)
    return USAGE;
  return job_check(j);
}

/* H, W, F and, beside images, S of a config.json stand in its text as numbers: they are no dims of
   it. */
static void images_leave(job *j, const char *text) {
  const char *const dims = strstr(text, "\ndim "),
                    *const end = dims ? strchr(dims + 1, '\n') : NULL,
                    *const tokens = dims ? strstr(dims, " S=") : NULL;
  const char *const numbers = tokens && tokens < end ? "H W F" : "H W F S";
  uint32_t i, n = 0;
  for (i = 0; i < j->ndims; i++)
    if (!j->dims[i].name || !cmd_in(j->dims[i].name, numbers))
      j->dims[n++] = j->dims[i];
  j->ndims = n;
}

static int model_read_as_is(const char *model, job *j, char **text, size_t *len) {
  const char *const *line = strpbrk(model, "./") ? NULL : cmd_built_in(model);
  size_t i, n = 0;
  const vram_file_format format = model_sniff(model);
  if (model_is_graph(format)) {
    const int status = model_text(model, j, text, len);
    if (j)
      j->ndims = 0;
    return status;
  }
  if (format && model_has_config(model)) {
    const int status = model_text(model, j, text, len);
    if (j && !status)
      images_leave(j, *text);
    return status;
  }
  if (format && format != VRAM_FILE_CONFIG) /* diff takes other JSON */
    return kind_refuse_model(model, format, "one in the text form");
  if (!line && kind_refuse(model, j ? j->command : "estimate"))
    return USAGE;
  if (!line && (strpbrk(model, "./") || !strcmp(model, "-")))
    return cmd_read(model, text, len);
  if (!line) {
    const int found = cmd_try_read(model, text, len);
    if (found != CMD_ABSENT)
      return found;
    return cmd_bad("no file and no built-in model", model, cmd_nearest("models", model));
  }
  for (i = 0; line[i]; i++)
    n += strlen(line[i]);
  *text = (char *)malloc(n + 1);
  if (!*text)
    return cmd_no_memory();
  for (*len = 0, i = 0; line[i]; *len += strlen(line[i++]))
    memcpy(*text + *len, line[i], strlen(line[i]));
  return FITS;
}

/* --logits-chunks: the text becomes another one. */
static int logits_chunk(const job *j, char **text, size_t *len) {
  vram_error err;
  uint64_t need;
  char *to;
  vram_result r = vram_text_chunk_logits(*text, *len, j->logits_chunks, NULL, 0, &need, &err);
  if (r != VRAM_ERR_MEMORY)
    return model_error(j, &err);
  to = need <= (uint64_t)(size_t)-1 ? (char *)malloc((size_t)need) : NULL;
  if (!to)
    return cmd_no_memory();
  vram_text_chunk_logits(*text, *len, j->logits_chunks, to, need, &need, &err);
  free(*text);
  *text = to;
  *len = (size_t)need;
  return FITS;
}

int model_read(const char *model, job *j, char **text, size_t *len) {
  int status = model_read_as_is(model, j, text, len);
  if (!status && j && j->logits_chunks) {
    status = logits_chunk(j, text, len);
    if (status)
      free(*text);
  }
  return status;
}
/* The word that the library found where it begins so; NULL: it says something else. */
static const char *unknown_word(const vram_error *e, const char *begins, char *to, size_t cap) {
  const char *found = e->text + strlen(begins), *end = strstr(e->text, ", expected ");
  size_t n = end ? (size_t)(end - found) : 0, i;
  if (strncmp(e->text, begins, strlen(begins)) != 0 || !n || n >= cap)
    return NULL;
  for (i = 0; i < n; i++)
    if (!cmd_is_word(found[i]) && found[i] != '_')
      return NULL;
  memcpy(to, found, n);
  to[n] = 0;
  return to;
}

/* An op or dtype that the library does not know: the command says what is near. 0: it is none. */
static int name_error(const job *j, const vram_error *e) {
  static const char *const known[][2] = {{"an unknown op (found ", "ops"},
                                         {"an unknown dtype (found ", "dtypes"}};
  char word[64];
  const char *nearest = NULL;
  size_t i;
  for (i = 0; i < 2 && !nearest; i++)
    if (unknown_word(e, known[i][0], word, sizeof word)) {
      nearest = cmd_nearest_name(known[i][1], word);
      if (nearest)
        cmd_say("%s:%" PRIu32 ":%" PRIu32 ": %s%s, expected %s? vram list %s)", j->model, e->line,
                e->column, known[i][0], word, nearest, known[i][1]);
    }
  return nearest != NULL;
}

int model_error(const job *j, const vram_error *e) {
  if (name_error(j, e))
    return USAGE;
  if (e->line)
    cmd_say("%s:%" PRIu32 ":%" PRIu32 ": %s", j->model, e->line, e->column, e->text);
  else
    cmd_say("%s: %s", j->model, e->text);
  return USAGE;
}

static void *model_alloc(void *user, uint64_t bytes) {
  (void)user;
  return bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
}

static void model_free(void *user, void *memory, uint64_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

const vram_allocator model_allocator = {model_alloc, model_free, NULL};

void model_unload(loaded *l) {
  free(l->ranges);
  free(l->scratch);
  free(l->other_mem[0]);
  free(l->other_mem[1]);
  free(l->other_mem[2]);
  free(l->cut_mem);
  free(l->mem);
  free(l->text);
}

/* The text as a graph with these dims, in memory that *mem is to free. */
static int graph_load(const job *j, const loaded *l, size_t len, const vram_dim *dims,
                      uint32_t ndims, vram_graph *g, void **mem) {
  vram_error err;
  const uint64_t need = j->lora || j->quant ? vram_graph_adapted_bytes(l->text, len, dims, ndims)
                                            : vram_graph_parse_bytes(l->text, len, dims, ndims);
  if (!need)
    return cmd_bad("a model that is too large:", j->model, NULL);
  *mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!*mem) {
    cmd_say("vram: out of memory (the model needs %s)", cmd_human(need));
    return OTHER;
  }
  vram_graph_init(g, *mem, need);
  if (vram_graph_adapt(g, j->lora, j->quant))
    return cmd_bad(g->error.text, NULL, NULL);
  if (vram_graph_parse(g, l->text, len, dims, ndims, &err) ||
      (j->freeze && vram_graph_freeze_weights(g, j->freeze, &err)))
    return model_error(j, &err);
  return FITS;
}

/* The model with the batches of --last-batch, --eval-batch and --dry-run-batch. */
static int other_batches_load(loaded *l, job *j, size_t len) {
  const int64_t batch[3] = {j->last_batch, j->eval_batch, j->dry_run_batch};
  const vram_graph **const to[3] = {&j->o.last_batch, &j->o.evaluation, &j->o.dry_run};
  vram_dim dims[VRAM_MAX_DIMS + 1];
  int i, status = FITS;
  for (i = 0; i < 3 && !status; i++) {
    if (!batch[i])
      continue;
    memcpy(dims, j->dims, j->ndims * sizeof *dims);
    dims[j->ndims].name = NULL;
    dims[j->ndims].value = batch[i];
    status = graph_load(j, l, len, dims, j->ndims + 1, &l->other[i], &l->other_mem[i]);
    *to[i] = &l->other[i];
  }
  return status;
}

/* The graph of one rank in the place of the whole one. */
static int job_cut(const job *j, loaded *l) {
  vram_error err;
  uint64_t need;
  if (!j->spec || (j->parallel.tp < 2 && j->parallel.ep < 2 && j->parallel.cp < 2) || l->g.is_cut ||
      l->g.context)
    return FITS;
  if (j->last_batch || j->eval_batch || j->dry_run_batch)
    return cmd_bad("what cuts a model excludes --last-batch, --eval-batch and --dry-run-batch",
                   NULL, NULL);
  l->whole = l->g;
  need = vram_parallel_cut_bytes(&l->whole);
  l->cut_mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!l->cut_mem)
    return cmd_no_memory();
  return vram_parallel_cut(&l->whole, &j->parallel, &l->g, l->cut_mem, need, &err)
             ? model_error(j, &err)
             : FITS;
}

/* --inplace, for steps as they are: checkpointed ranges are known. */
static int job_inplace(job *j, vram_graph *g, vram_inplace *to) {
  vram_error err;
  const uint64_t need = vram_graph_inplace_bytes(g, &j->o);
  void *mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  vram_result r;
  if (!mem)
    return cmd_no_memory();
  r = vram_graph_inplace(g, &j->o, mem, need, to, &err);
  free(mem);
  return r ? model_error(j, &err) : FITS;
}

static int job_inplaces(job *j, loaded *l) {
  vram_inplace other;
  int i, status = j->in_place ? job_inplace(j, &l->g, &j->in_places) : FITS;
  for (i = 0; i < 3 && j->in_place && !status; i++)
    if (l->other_mem[i])
      status = job_inplace(j, &l->other[i], &other);
  return status;
}

int model_load(loaded *l, job *j, char *text, size_t len) {
  vram_error err;
  int status;
  memset(l, 0, sizeof *l);
  l->text = text;
  status = graph_load(j, l, len, j->dims, j->ndims, &l->g, &l->mem);
  if (!status)
    status = other_batches_load(l, j, len);
  if (status)
    return status;
  status = job_cut(j, l);
  if (status)
    return status;
  j->o.rules = vram_step_rules(&l->g, &j->o);
  status = job_model_dtype(j, l->g.dtype);
  if (status)
    return status;
  if (j->checkpoint) {
    const int units = j->spec && j->parallel.wrapper == VRAM_WRAPPER_FSDP2 && j->o.by_keyword;
    uint32_t n = units ? vram_graph_unit_ranges(&l->g, j->parallel.units, NULL, 0) : 0;
    if (!units && vram_graph_ranges(&l->g, j->checkpoint, NULL, 0, &n, &err))
      return cmd_bad(err.text, NULL, NULL);
    l->ranges = (vram_range *)malloc(((size_t)n + 1) * sizeof *l->ranges);
    if (!l->ranges)
      return cmd_no_memory();
    if (units) /* --checkpoint layers: a wrapper inside each of them */
      j->o.ncheckpoint = vram_graph_unit_ranges(&l->g, j->parallel.units, l->ranges, n);
    else
      vram_graph_ranges(&l->g, j->checkpoint, l->ranges, n, &j->o.ncheckpoint, &err);
    j->o.checkpoint = l->ranges;
  }
  status = job_inplaces(j, l);
  if (status)
    return status;
  if (j->automatic) {
    vram_result r;
    cmd_progress("vram: planning what to compute again", 0);
    j->o.stop = cmd_stop;
    cmd_stoppable();
    r = vram_step_plan(&l->g, &j->o, 0, &model_allocator, &j->planned, &err);
    cmd_progress_end();
    if (r)
      return err.code == VRAM_ERR_MEMORY                      ? cmd_no_memory()
             : cmd_bad(err.text, NULL, NULL) && cmd_stopped() ? OTHER
                                                              : USAGE;
    j->o.checkpoint = j->planned.range;
    j->o.ncheckpoint = j->planned.nrange;
  }
  l->bytes = vram_step_bytes(&l->g, &j->o);
  l->scratch = l->bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)l->bytes) : NULL;
  if (!l->scratch) {
    cmd_say("vram: out of memory (the step needs %s)", cmd_human(l->bytes));
    return OTHER;
  }
  return FITS;
}

int model_step(loaded *l, const vram_step_options *o, vram_report *r) {
  vram_error err;
  if (!vram_step(&l->g, o, l->scratch, l->bytes, r, &err))
    return FITS;
  cmd_bad(err.text, NULL, NULL);
  return err.code == VRAM_ERR_MEMORY ? OTHER : USAGE;
}
