/* vram - bytes of neural networks from the command line; `vram -h` says how */
#define _POSIX_C_SOURCE 200809L /* isatty, fileno */
#define VRAM_IMPLEMENTATION
#define VRAM_STATIC
#include "../vram.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__unix__) || defined(__APPLE__)
#include <unistd.h>
#define IS_TERMINAL(f) isatty(fileno(f))
#else
#define IS_TERMINAL(f) 0
#endif

enum { MAX_NODE_NAME = VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1 };
enum { FITS = 0, OTHER = 1, USAGE = 2, TOO_LARGE = 3 };

static const char *const phase_name[] = {
#define X(id, text) text,
    VRAM_PHASES(X)
#undef X
};
static const char *const category_name[] = {
#define X(id, text) text,
    VRAM_CATEGORIES(X)
#undef X
};

static const char *const action_name[] = {
#define X(id, text) text,
    VRAM_ACTIONS(X)
#undef X
};

static const char help_main[] =
    "vram - how many bytes a neural network needs on a device\n"
    "\n"
    "  vram estimate MODEL   bytes of one inference or training step\n"
    "  vram fit MODEL        the largest batch, or any other dim, that fits a budget\n"
    "  vram plan MODEL|CHAIN what to compute again to train within a budget\n"
    "  vram arena CSV|MODEL  offsets for buffers with known lifetimes\n"
    "  vram emit MODEL       a C header: the network, checked by the compiler\n"
    "  vram replay TRACE     a stream of allocations through a caching allocator\n"
    "  vram diff A B         predicted and measured: what is unaccounted for\n"
    "  vram run -- PROGRAM   what an unmodified program allocates, and who\n"
    "  vram watch            devices and processes on them, live\n"
    "  vram list WHAT        models, ops, dtypes, optimizers, gpus\n"
    "  vram COMMAND -h       the options of a command\n"
    "  vram --version        the version\n"
    "\n"
    "MODEL is a file in the text form (.vram), - for standard input, or the name of\n"
    "a built-in model (vram list models).\n"
    "Exit status: 0 fits or done, 3 does not fit, 2 usage or bad input, 1 other.\n";

/* the options that every command on a model takes */
#define HELP_STEP                                                                                  \
  "what runs\n"                                                                                    \
  "  --infer               forward under no_grad (default)\n"                                      \
  "  --train OPT           one training step, optimizer OPT (vram list optimizers)\n"              \
  "  --optim-impl foreach|fused|loop\n"                                                            \
  "                        how the optimizer runs (default: what PyTorch picks)\n"                 \
  "  --step first|steady   first step, or one with optimizer state (default)\n"                    \
  "  --accumulate K        K micro-batches before the optimizer's step\n"                          \
  "  --keep-grads          zero_grad(set_to_none=False)\n"                                         \
  "  --amp bf16|fp16       autocast; fp16 with GradScaler\n"                                       \
  "  --dtype bf16|f16      the whole model in that dtype\n"                                        \
  "  --master-weights      with --dtype: the optimizer works on fp32 copies\n"                     \
  "  --checkpoint K        checkpoint_sequential with K segments\n"                                \
  "  --checkpoint auto     the cheapest calls of checkpoint() that fit --budget\n"                 \
  "  --checkpoint-nodes A..B,C..D\n"                                                               \
  "                        checkpoint() around the nodes from A to B, C to D; a\n"                 \
  "                        name inside loops is meant in every round (in one:\n"                   \
  "                        name[3])\n"                                                             \
  "  --reentrant           checkpoint(use_reentrant=True)\n"                                       \
  "  --prefetch N          N more batches of the inputs wait on the device\n"                      \
  "  --pinned N            N batches wait in pinned host memory\n"                                 \
  "sizes\n"                                                                                        \
  "  --batch N             the first dim of the model\n"                                           \
  "  --dim NAME=N          any dim; may be given more than once\n"                                 \
  "device\n"                                                                                       \
  "  --gpu NAME            its usable memory as the budget, its compute capability\n"              \
  "                        and number of multiprocessors (vram list gpus)\n"                       \
  "  --budget SIZE         does it fit? (exit status 3: no)\n"                                     \
  "  --cc 9.0              compute capability: decides workspaces and attention\n"                 \
  "  --alloc-conf K:V,...  options of the caching allocator, written as in\n"                      \
  "                        PYTORCH_CUDA_ALLOC_CONF\n"                                              \
  "  --context SIZE        what the CUDA context and libraries take (default:\n"                   \
  "                        105MiB to 1GiB, 512MiB expected)\n"                                     \
  "  --rules torch|torch-2.15|ideal\n"                                                             \
  "                        what PyTorch allocates (default: its newest version),\n"                \
  "                        or only what the formulas need\n"

static const char help_estimate[] =
    "vram estimate MODEL [options]     bytes of one step\n"
    "\n" HELP_STEP "output\n"
    "  --table, --no-table   a line for every layer (default: no)\n"
    "  --live                the largest tensors that live at the peak\n"
    "  --terms               every figure, and where it comes from\n"
    "  --explain             from the tensors to the device: each gap, its reason\n"
    "  --events FILE         every allocation and free in order, as CSV\n"
    "  --svg FILE            a picture: memory over the step, what lives at the peak\n"
    "  --html FILE           a page: both, the summary and the table; loads nothing\n"
    "  --snapshot FILE       the step as PyTorch's profiler would record it, for\n"
    "                        pytorch.org/memory_viz (a pickle; FILE.json: JSON)\n"
    "  --trace FILE          the same for ui.perfetto.dev\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --csv                 the layer table as CSV\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "microcontroller\n"
    "  --embedded            MODEL, or a header of VRAM_NET_ lines, line by line:\n"
    "                        weights, operations, buffers, arena; takes --batch,\n"
    "                        --dim, --json, --csv and these:\n"
    "  --net NAME            which of the networks in the header\n"
    "  --flash SIZE          do the weights fit? (exit status 3: no)\n"
    "  --sram SIZE           do the arena and what stays fit?\n"
    "  --format f32|f16|i8|i8_per_tensor|i8_per_channel|i8w4|i16|i4\n"
    "                        of values and weights (default: what the header says,\n"
    "                        F32 for a model)\n"
    "  --kernels none|plain|dsp|mve\n"
    "                        whose scratch counts: CMSIS-NN's for that extension\n"
    "  --align N             of every buffer (default: what the header says, 16)\n"
    "\n"
    "Sizes take B KB MB GB TB KiB MiB GiB TiB; a bare number is bytes.\n"
    "FILE - is standard output.\n";

static const char help_fit[] =
    "vram fit MODEL --budget SIZE | --gpu NAME [options]   the largest size that fits\n"
    "\n"
    "  --solve batch|dim:NAME|segments\n"
    "                        the first dim (default), any dim: sequence length,\n"
    "                        width, depth (the rounds of a loop); or the fewest\n"
    "                        segments of checkpoint_sequential\n"
    "\n"
    "A size fits if a whole run (model to the device, three steps), replayed through\n"
    "the caching allocator, finds its memory in the budget less the CUDA context.\n"
    "The answer and the next size, which does not fit, were both played.\n"
    "\n" HELP_STEP "output\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Exit status 3: not even the smallest size fits.\n";

static const char help_list[] = "vram list models|ops|dtypes|optimizers|gpus\n";

static int bad(const char *what, const char *found, const char *expected) {
  fprintf(stderr, "vram: %s", what);
  if (found)
    fprintf(stderr, " '%s'", found);
  if (expected)
    fprintf(stderr, " (expected %s)", expected);
  fprintf(stderr, "\n");
  return USAGE;
}

/* What the system says about a file: 'path': reason. */
static int cannot(const char *what, const char *path, int status) {
  fprintf(stderr, "vram: cannot %s '%s'%s%s\n", what, path, errno ? ": " : "",
          errno ? strerror(errno) : "");
  return status;
}

static int out_of_memory(void) {
  fprintf(stderr, "vram: out of memory\n");
  return OTHER;
}

/* A whole file, or standard input for "-"; not FITS: message printed. */
static int read_all(const char *path, char **to, size_t *len) {
  FILE *f = stdin, *opened = NULL;
  size_t cap = (size_t)1 << 16, n = 0;
  char *text = NULL;
  errno = 0;
  if (strcmp(path, "-")) {
    opened = fopen(path, "rb");
    if (!opened)
      return cannot("open", path, USAGE);
    f = opened;
  }
  for (;;) {
    char *t = (char *)realloc(text, cap);
    if (!t)
      break;
    text = t;
    n += fread(text + n, 1, cap - n, f);
    if (n < cap) {
      if (ferror(f)) {
        int status = cannot("read", path, USAGE);
        if (opened)
          fclose(opened);
        free(text);
        return status;
      }
      if (opened)
        fclose(opened);
      *to = text;
      *len = n;
      return FITS;
    }
    if (cap > ((size_t)-1) / 2)
      break;
    cap *= 2;
  }
  free(text);
  if (opened)
    fclose(opened);
  return out_of_memory();
}

/* ---- built-in models: examples/models, made into lines of text when this is built ---- */

#include "models.h"

/* The lines of a model; NULL: there is none of that name. */
static const char *const *built_in(const char *name) {
  size_t i;
  for (i = 0; i < sizeof model_table / sizeof *model_table; i++)
    if (!strcmp(model_table[i].name, name))
      return model_table[i].line;
  return NULL;
}

/* The names that `vram list WHAT` shows; NULL: there is no more. */
static const char *name_at(const char *what, uint32_t i) {
  static vram_optimizer_info o;
  const vram_gpu *gpu;
  switch (*what) {
  case 'm':
    return i < sizeof model_table / sizeof *model_table ? model_table[i].name : NULL;
  case 'g':
    gpu = vram_gpu_at(i);
    return gpu ? gpu->name : NULL;
  default:
    return vram_optimizer_get_info(i, &o) ? o.name : NULL;
  }
}

static char lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* Letters to change, add or remove to make one word of the other, which has 64 letters at most;
   none to add if the word begins it (resnet, a100), one if it is a part of it (4090). */
static size_t distance(const char *a, const char *b) {
  size_t row[65], i, j, n = strlen(b) < 64 ? strlen(b) : 64;
  for (i = 0; i < n && a[0]; i++) {
    for (j = 0; a[j] && lower(a[j]) == b[i + j];)
      j++;
    if (!a[j])
      return i > 0;
  }
  for (j = 0; j <= n; j++)
    row[j] = j;
  for (i = 0; a[i]; i++) {
    size_t corner = row[0]++;
    for (j = 0; j < n; j++) {
      const size_t change = corner + (lower(a[i]) != b[j]), add = row[j] + 1, drop = row[j + 1] + 1;
      corner = row[j + 1];
      row[j + 1] = change < add ? change : add;
      row[j + 1] = row[j + 1] < drop ? row[j + 1] : drop;
    }
  }
  return row[n];
}

/* What may have been meant. */
static const char *nearest(const char *what, const char *name) {
  static char text[128];
  size_t least = strlen(name) / 2 + 1;
  const char *known;
  uint32_t i;
  snprintf(text, sizeof text, "one of vram list %s", what);
  for (i = 0; (known = name_at(what, i)) != NULL; i++)
    if (distance(name, known) < least) {
      least = distance(name, known);
      snprintf(text, sizeof text, "%s? vram list %s", known, what);
    }
  return text;
}

/* ---- numbers and words ---- */

/* 1: a size like 24GiB, 80e9 is not one */
static int parse_size(const char *s, uint64_t *to) {
  static const struct {
    const char *name;
    uint64_t factor;
  } unit[] = {{"", 1},
              {"B", 1},
              {"KB", 1000},
              {"MB", 1000000},
              {"GB", 1000000000},
              {"TB", UINT64_C(1000000000000)},
              {"KiB", 1024},
              {"MiB", 1048576},
              {"GiB", 1073741824},
              {"TiB", UINT64_C(1099511627776)}};
  uint64_t v = 0, frac = 0, scale = 1;
  size_t i;
  if (*s < '0' || *s > '9')
    return 0;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (v > (UINT64_MAX - 9) / 10)
      return 0;
    v = v * 10 + (uint64_t)(*s - '0');
  }
  if (*s == '.')
    for (s++; *s >= '0' && *s <= '9'; s++)
      if (scale < 1000000)
        frac = frac * 10 + (uint64_t)(*s - '0'), scale *= 10;
  for (i = 0; i < sizeof unit / sizeof *unit; i++)
    if (!strcmp(s, unit[i].name)) {
      if (v && unit[i].factor > (uint64_t)INT64_MAX / v)
        return 0;
      *to = v * unit[i].factor + frac * unit[i].factor / scale;
      return *to <= (uint64_t)INT64_MAX;
    }
  return 0;
}

static int parse_count(const char *s, int64_t least, int64_t most, int64_t *to) {
  int64_t v = 0;
  if (!*s)
    return 0;
  for (; *s; s++) {
    if (*s < '0' || *s > '9' || v > (INT64_MAX - (*s - '0')) / 10)
      return 0;
    v = v * 10 + (*s - '0');
  }
  *to = v;
  return v >= least && v <= most;
}

static vram_units unit_kind = VRAM_UNITS_IEC;

/* bytes for people; four texts may live at once */
static const char *human(uint64_t b) {
  static char text[4][24];
  static int at;
  char *t = text[at++ & 3];
  vram_bytes_text(b, unit_kind, t, sizeof *text);
  return t;
}

/* --units; 0: error printed */
static int set_units(const char *v) {
  if (!strcmp(v, "iec"))
    unit_kind = VRAM_UNITS_IEC;
  else if (!strcmp(v, "si"))
    unit_kind = VRAM_UNITS_SI;
  else if (!strcmp(v, "bytes"))
    unit_kind = VRAM_UNITS_BYTES;
  else
    return bad("unknown units", v, "iec, si or bytes"), 0;
  return 1;
}

static const char *bold = "", *dim = "", *plain = "";

/* The character at *s, and behind it; 0xfffd for a byte that is none in UTF-8. */
static unsigned next_char(const char **s) {
  const unsigned char *at = (const unsigned char *)*s;
  const unsigned n = *at < 0x80   ? 1
                     : *at < 0xc2 ? 0
                     : *at < 0xe0 ? 2
                     : *at < 0xf0 ? 3
                     : *at < 0xf5 ? 4
                                  : 0;
  unsigned c = n > 1 ? *at & (0xffu >> (n + 1)) : *at, i;
  for (i = 1; i < n && (at[i] & 0xc0) == 0x80; i++)
    c = c << 6 | (at[i] & 0x3fu);
  if (!n || i < n || (n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
      (n == 4 && (c < 0x10000 || c > 0x10ffff)))
    return ++*s, 0xfffd;
  *s += n;
  return c;
}

/* Plain ASCII: what is beyond it is escaped, and so is '<', which could end a script. */
static void json_text(FILE *f, const char *s) {
  putc('"', f);
  while (*s) {
    const unsigned c = next_char(&s);
    if (c == '"' || c == '\\')
      fprintf(f, "\\%c", (int)c);
    else if (c >= 0x10000)
      fprintf(f, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
              0xdc00 + ((c - 0x10000) & 0x3ff));
    else if (c < 32 || c > 126 || c == '<')
      fprintf(f, "\\u%04x", c);
    else
      putc((int)c, f);
  }
  putc('"', f);
}

/* ---- estimate ---- */

typedef struct job {
  const char *model, *events, *svg, *html, *snapshot, *trace, *optimizer, *gpu, *checkpoint;
  const char *training; /* an option that means nothing without --train */
  vram_step_options o;
  vram_pool_options pool; /* of the replay */
  vram_dim dims[VRAM_MAX_DIMS];
  uint32_t ndims;
  uint64_t budget, gpu_bytes;
  int has_budget, json, csv, table, live, terms, explain;
  int automatic; /* --checkpoint auto, and what it found: */
  vram_planned_step planned;
  int plan; /* the command is plan */
  int fit;  /* the command is fit: */
  const char *solve;
  int segments;
} job;

static void event_line(void *user, const vram_event *e) {
  char name[MAX_NODE_NAME];
  if (e->action == VRAM_BECOMES)
    return;
  vram_node_name(e->node, name, sizeof name);
  fprintf((FILE *)user, "%s,%s,%" PRId64 ",%" PRIu64 ",%s,%s\n", phase_name[e->phase],
          e->action == VRAM_ALLOC ? "alloc" : "free", e->id, e->bytes, category_name[e->category],
          name);
}

/* Case does not matter: RTX4090. */
static const vram_gpu *find_gpu(const char *name) {
  const vram_gpu *gpu;
  uint32_t i;
  size_t k;
  for (i = 0; (gpu = vram_gpu_at(i)) != NULL; i++) {
    for (k = 0; gpu->name[k] && (name[k] | 32) == (gpu->name[k] | 32); k++)
      ;
    if (!gpu->name[k] && !name[k])
      break;
  }
  return gpu;
}

/* word is one of the words in list, which blanks divide */
static int in(const char *word, const char *list) {
  size_t n = strlen(word);
  const char *at;
  for (at = n ? strstr(list, word) : NULL; at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
      return 1;
  return 0;
}

static const char *help_of(const job *j) {
  return j->plan ? "vram plan -h" : j->fit ? "vram fit -h" : "vram estimate -h";
}

/* Options that the command does not have. */
static const char *not_of(const job *j) {
  return j->plan  ? "--infer --checkpoint --checkpoint-nodes --reentrant --live --terms --explain "
                    "--events --html "
                    "--snapshot --trace --solve"
         : j->fit ? "--csv --table --no-table --live --terms --explain --events --svg --html "
                    "--snapshot --trace"
                  : "--solve";
}

/* One option; returns how many arguments it took, 0: error printed. */
static int option(job *j, const char *a, char *v) {
  int64_t n;
  uint64_t size;
  if (in(a, not_of(j)))
    return bad("not an option of this command", a, help_of(j)), 0;
  if (!strcmp(a, "--infer"))
    return j->o.train = 0, 1;
  if (!strcmp(a, "--keep-grads"))
    return j->training = a, j->o.keep_grads = 1;
  if (!strcmp(a, "--master-weights"))
    return j->training = a, j->o.master_weights = 1;
  if (!strcmp(a, "--reentrant"))
    return j->training = a, j->o.reentrant = 1;
  if (!strcmp(a, "--json"))
    return j->json = 1;
  if (!strcmp(a, "--csv"))
    return j->csv = 1;
  if (!strcmp(a, "--table"))
    return j->table = 1;
  if (!strcmp(a, "--no-table"))
    return j->table = 0, 1;
  if (!strcmp(a, "--live"))
    return j->live = 1;
  if (!strcmp(a, "--terms"))
    return j->terms = 1;
  if (!strcmp(a, "--explain"))
    return j->explain = 1;
  if (in(a, "--net --flash --sram --format --kernels --align"))
    return bad("an option of vram estimate --embedded:", a, NULL), 0;
  if (!in(a, "--train --optim-impl --step --accumulate --amp --dtype --checkpoint "
             "--checkpoint-nodes --prefetch --pinned --batch --dim --gpu --budget --cc --context "
             "--rules --events --svg --html --snapshot --trace --units --solve --alloc-conf"))
    return bad("unknown option", a, help_of(j)), 0;
  if (!v || !strncmp(v, "--", 2))
    return bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "--train")) {
    j->o.train = 1;
    j->optimizer = v;
    j->o.optimizer = vram_optimizer_from_name(v, &j->o.weight_decay);
    if (j->o.optimizer == VRAM_OPTIM_COUNT)
      return bad("unknown optimizer", v, nearest("optimizers", v)), 0;
  } else if (!strcmp(a, "--optim-impl")) {
    if (!strcmp(v, "foreach"))
      j->o.optim_impl = VRAM_OPTIM_IMPL_FOREACH;
    else if (!strcmp(v, "fused"))
      j->o.optim_impl = VRAM_OPTIM_IMPL_FUSED;
    else if (!strcmp(v, "loop"))
      j->o.optim_impl = VRAM_OPTIM_IMPL_LOOP;
    else
      return bad("unknown optimizer implementation", v, "foreach, fused or loop"), 0;
    j->training = a;
  } else if (!strcmp(a, "--step")) {
    if (strcmp(v, "first") && strcmp(v, "steady"))
      return bad("unknown step", v, "first or steady"), 0;
    j->o.first_step = v[0] == 'f';
    if (j->o.first_step)
      j->training = a;
  } else if (!strcmp(a, "--accumulate")) {
    if (!parse_count(v, 1, 1000000, &n))
      return bad("not a number of micro-batches", v, "1 or more"), 0;
    j->o.accumulate = (uint32_t)n;
    if (n > 1)
      j->training = a;
  } else if (!strcmp(a, "--checkpoint")) {
    j->automatic = !strcmp(v, "auto") && !j->fit;
    if (!j->automatic && !parse_count(v, 1, 1000000, &n))
      return bad("not a number of segments", v, j->fit ? "1 or more" : "1 or more, or auto"), 0;
    j->o.checkpoint_segments = j->automatic ? 0 : (uint32_t)n;
    j->training = a;
  } else if (!strcmp(a, "--checkpoint-nodes")) {
    j->checkpoint = v;
    j->training = a;
  } else if (!strcmp(a, "--prefetch") || !strcmp(a, "--pinned")) {
    if (!parse_count(v, 0, 1000000, &n))
      return bad("not a number of batches", v, "0 or more"), 0;
    *(a[3] == 'r' ? &j->o.prefetch : &j->o.pinned) = (uint32_t)n;
  } else if (!strcmp(a, "--amp") || !strcmp(a, "--dtype")) {
    vram_dtype d = vram_dtype_from_name(v);
    if (d != VRAM_BF16 && d != VRAM_F16 && (a[2] == 'a' || d != VRAM_F32))
      return bad("not a dtype for this", v, a[2] == 'a' ? "bf16 or fp16" : "bf16, f16 or f32"), 0;
    *(a[2] == 'a' ? &j->o.amp : &j->o.dtype) = d == VRAM_F32 ? 0 : (int)d;
  } else if (!strcmp(a, "--batch") || !strcmp(a, "--dim")) {
    char *e = strchr(v, '=');
    if (j->ndims == VRAM_MAX_DIMS)
      return bad("too many dims", v, NULL), 0;
    if (a[2] == 'd') {
      if (!e || e == v)
        return bad("not a dim", v, "NAME=N"), 0;
      *e = 0; /* the name ends here */
      j->dims[j->ndims].name = v;
      v = e + 1;
    }
    if (!parse_count(v, 0, INT64_MAX, &n))
      return bad("not a size", v, "an integer from 0 to 2^63-1"), 0;
    j->dims[j->ndims++].value = n;
  } else if (!strcmp(a, "--budget") || !strcmp(a, "--context")) {
    if (!parse_size(v, &size))
      return bad("not a size", v, "a number with B KB MB GB TB KiB MiB GiB TiB"), 0;
    if (a[2] == 'b')
      j->budget = size, j->has_budget = 1;
    else
      j->o.context_bytes = size ? size : VRAM_NO_CONTEXT;
  } else if (!strcmp(a, "--gpu")) {
    const vram_gpu *g = find_gpu(v);
    if (!g)
      return bad("unknown GPU", v, nearest("gpus", v)), 0;
    j->gpu = g->name;
    j->gpu_bytes = g->bytes;
    j->o.cc = g->cc;
    j->o.sm = g->sm;
  } else if (!strcmp(a, "--cc")) {
    const size_t end = strlen(v);
    int64_t major;
    if (end < 3 || v[end - 2] != '.' || v[end - 1] < '0' || v[end - 1] > '9')
      return bad("not a compute capability", v, "7.5, 8.0, 9.0, ..."), 0;
    v[end - 2] = 0;
    if (!parse_count(v, 5, 12, &major)) {
      v[end - 2] = '.';
      return bad("not a compute capability", v, "7.5, 8.0, 9.0, ..."), 0;
    }
    j->o.cc = (uint32_t)major * 10 + (uint32_t)(v[end - 1] - '0');
  } else if (!strcmp(a, "--rules")) {
    if (!strcmp(v, "ideal"))
      j->o.rules = VRAM_RULES_IDEAL;
    else if (!strcmp(v, "torch") || !strcmp(v, "torch-2.15"))
      j->o.rules = VRAM_RULES_TORCH;
    else
      return bad("unknown rules", v, "torch, torch-2.15 or ideal"), 0;
  } else if (!strcmp(a, "--solve")) {
    j->segments = !strcmp(v, "segments");
    j->solve = strncmp(v, "dim:", 4) || !v[4] ? NULL : v + 4;
    if (!j->solve && !j->segments && strcmp(v, "batch"))
      return bad("nothing to solve for", v, "batch, dim:NAME or segments"), 0;
  } else if (!strcmp(a, "--alloc-conf")) {
    vram_error err;
    if (vram_pool_config(v, &j->pool, &err))
      return fprintf(stderr, "vram: --alloc-conf: %s\n", err.text), 0;
  } else if (!strcmp(a, "--events"))
    j->events = v;
  else if (!strcmp(a, "--svg"))
    j->svg = v;
  else if (!strcmp(a, "--html"))
    j->html = v;
  else if (!strcmp(a, "--snapshot"))
    j->snapshot = v;
  else if (!strcmp(a, "--trace"))
    j->trace = v;
  else if (!strcmp(a, "--units") && !set_units(v))
    return 0;
  return 2;
}

/* What runs, in a few words: "train adamw amp bf16 checkpoint 2". */
static void mode_text(const job *j, char *to, size_t cap) {
  const vram_step_options *o = &j->o;
  char count[16] = "", segments[16] = "";
  const char *dtype = o->dtype ? vram_dtype_name((vram_dtype)o->dtype) : o->amp ? "" : "f32";
  if (o->accumulate > 1)
    snprintf(count, sizeof count, "%" PRIu32, o->accumulate);
  if (o->checkpoint_segments > 1 || o->ncheckpoint)
    snprintf(segments, sizeof segments, "%" PRIu32,
             o->ncheckpoint ? o->ncheckpoint : o->checkpoint_segments);
  snprintf(to, cap, "%s%s%s%s%s%s%s%s%s%s%s%s%s%s", o->train ? "train " : "infer",
           o->train ? j->optimizer : "", *dtype ? " " : "", dtype, o->amp ? " amp " : "",
           o->amp ? vram_dtype_name((vram_dtype)o->amp) : "",
           o->master_weights ? " master-weights" : "", *count ? " accumulate " : "", count,
           o->keep_grads ? " keep-grads" : "", *segments ? " checkpoint " : "", segments,
           o->reentrant ? " reentrant" : "", o->first_step ? " first step" : "");
}

/* "A..B" as --checkpoint-nodes takes it. */
static void nodes_text(const vram_range *r, char *to, size_t cap) {
  char first[MAX_NODE_NAME], last[MAX_NODE_NAME];
  const vram_node *n = r->last;
  while (n != r->first && n->op >= VRAM_OP_COUNT)
    n = n->prev;
  vram_node_name(r->first, first, sizeof first);
  vram_node_name(n, last, sizeof last);
  snprintf(to, cap, "%s..%s", first, last);
}

static void json_planned(const vram_planned_step *p) {
  char name[2 * MAX_NODE_NAME + 2];
  uint32_t i;
  printf(",\"checkpoint\":{\"feasible\":%s,\"smallest_budget_bytes\":%" PRIu64 ",\"cost\":%" PRIu64
         ",\"cost_plain\":%" PRIu64 ",\"plain_peak_allocated_bytes\":%" PRIu64
         ",\"stages\":%" PRIu32 ",\"ranges\":[",
         p->feasible ? "true" : "false", p->smallest_budget_bytes, p->cost, p->cost_plain,
         p->plain.peak_allocated_bytes.expected, p->chain.nstage);
  for (i = 0; i < p->nrange; i++) {
    nodes_text(p->range + i, name, sizeof name);
    printf("%s", i ? "," : "");
    json_text(stdout, name);
  }
  printf("]}");
}

static void print_planned(const vram_planned_step *p) {
  const double more =
      p->cost_plain ? 100.0 * (double)(p->cost - p->cost_plain) / (double)p->cost_plain : 0;
  char name[2 * MAX_NODE_NAME + 2];
  uint32_t i;
  printf("\n%s%" PRIu32 " call%s of checkpoint()%s on %" PRIu32 " stages, %.1f %% more operations; "
         "without %s allocated\n",
         bold, p->nrange, p->nrange == 1 ? "" : "s", plain, p->chain.nstage, more,
         human(p->plain.peak_allocated_bytes.expected));
  if (!p->feasible)
    printf("no plan fits; the smallest budget that one fits is %s (%" PRIu64 " bytes): that one\n",
           human(p->smallest_budget_bytes), p->smallest_budget_bytes);
  for (i = 0; i < p->nrange; i++) {
    nodes_text(p->range + i, name, sizeof name);
    printf("%s%s", i ? "," : "--checkpoint-nodes '", name);
  }
  if (p->nrange)
    printf("'\n");
}

static void print_json(const job *j, const vram_graph *g, const vram_report *r, int fits) {
  char name[MAX_NODE_NAME], mode[128];
  vram_term term;
  int i, n = j->o.train ? VRAM_PHASE_OPTIMIZER : VRAM_PHASE_FORWARD;
  snprintf(name, sizeof name, "%.*s", (int)g->name_len, g->name ? g->name : "");
  mode_text(j, mode, sizeof mode);
  printf("{\"model\":");
  json_text(stdout, name);
  printf(",\"mode\":");
  json_text(stdout, mode);
  printf(",\"rules\":\"%s\"", j->o.rules == VRAM_RULES_IDEAL ? "ideal" : "torch-2.15");
#define NUMBER(key) printf(",\"" #key "\":%" PRIu64, r->key)
  NUMBER(params_bytes);
  NUMBER(buffers_bytes);
  NUMBER(gradients_bytes);
  NUMBER(optimizer_bytes);
  NUMBER(saved_bytes);
  NUMBER(inputs_bytes);
  NUMBER(workspace_bytes);
  NUMBER(autocast_cache_bytes);
  NUMBER(kv_cache_bytes);
  NUMBER(pinned_bytes);
  NUMBER(peak_requested_bytes);
#undef NUMBER
#define BOUNDS(key)                                                                                \
  printf(",\"" #key "\":{\"lower\":%" PRIu64 ",\"expected\":%" PRIu64 ",\"upper\":%" PRIu64 "}",   \
         r->key.lower, r->key.expected, r->key.upper)
  BOUNDS(peak_allocated_bytes);
  printf(",\"peak_reserved_bytes\":%" PRIu64 ",\"replayed\":%s,\"num_alloc_retries\":%" PRIu64,
         r->peak_reserved_bytes, r->replayed ? "true" : "false", r->num_alloc_retries);
  BOUNDS(context_bytes);
  BOUNDS(device_bytes);
#undef BOUNDS
  printf(",\"phases\":{");
  for (i = VRAM_PHASE_FORWARD; i <= n; i++)
    printf("%s\"%s\":{\"requested_bytes\":%" PRIu64 ",\"requested_peak_bytes\":%" PRIu64
           ",\"allocated_bytes\":%" PRIu64 ",\"allocated_peak_bytes\":%" PRIu64
           ",\"reserved_bytes\":%" PRIu64 ",\"reserved_peak_bytes\":%" PRIu64 "}",
           i > VRAM_PHASE_FORWARD ? "," : "", phase_name[i], r->phase[i].requested_bytes,
           r->phase[i].requested_peak_bytes, r->phase[i].allocated_bytes,
           r->phase[i].allocated_peak_bytes, r->phase[i].reserved_bytes,
           r->phase[i].reserved_peak_bytes);
  printf("},\"peak_phase\":\"%s\",\"peak_node\":", phase_name[r->peak_phase]);
  vram_node_name(r->peak_node, name, sizeof name);
  json_text(stdout, name);
  printf(",\"peak_categories\":{");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    printf("%s\"%s\":%" PRIu64, i ? "," : "", category_name[i], r->peak_category_bytes[i]);
  printf("},\"sources\":{");
  for (i = 0; vram_report_term(r, (uint32_t)i, &term); i++)
    printf("%s\"%s\":\"%s\"", i ? "," : "", term.name, vram_source_name(term.source));
  putchar('}');
  if (j->automatic)
    json_planned(&j->planned);
  printf(",\"fits\":%s,\"budget_bytes\":", j->has_budget ? fits ? "true" : "false" : "null");
  if (j->has_budget)
    printf("%" PRIu64 "}\n", j->budget);
  else
    printf("null}\n");
}

static void shape_text(const vram_dims *d, char *to, size_t cap) {
  uint32_t i;
  size_t n = 1;
  snprintf(to, cap, "[");
  for (i = 0; i < d->ndim && n < cap; i++, n = strlen(to))
    snprintf(to + n, cap - n, "%s%" PRId64, i ? "," : "", d->v[i]);
  snprintf(to + n, cap - n, "]");
}

typedef struct layer { /* a node; the lines that an op was written out to count as one */
  const vram_node *node, *last, *next;
  vram_node_report sum;
} layer;

/* The layer that begins at l->next or behind it; 0: there is none. */
static int next_layer(layer *l, const vram_node_report *rep) {
  const vram_node *m = l->next;
  while (m && (m->op >= VRAM_OP_COUNT || m->op == VRAM_OP_buffer))
    m = m->next;
  if (!m)
    return 0;
  l->node = l->last = m;
  l->sum = rep[m->index];
  while (m->next && (m->flags & VRAM_NODE_INNER)) {
    m = m->next;
    if (m->op < VRAM_OP_COUNT)
      l->last = m;
    l->sum.params += rep[m->index].params;
    l->sum.saved_bytes += rep[m->index].saved_bytes;
    l->sum.output_bytes = rep[l->last->index].output_bytes;
    l->sum.live_bytes = rep[m->index].live_bytes;
    l->sum.dtype = rep[l->last->index].dtype;
  }
  l->next = m->next;
  return 1;
}

static void print_table(const job *j, const vram_graph *g, const vram_node_report *rep) {
  layer l;
  char name[MAX_NODE_NAME], shape[160];
  uint64_t params = 0, saved = 0;
  if (j->csv)
    printf("name,type,output_shape,dtype,params,output_bytes,saved_bytes,live_bytes\n");
  else
    printf("%s%-38s %-18s %-22s %12s %11s %11s %11s%s\n", bold, "layer", "type", "output", "params",
           "output", "saved", "live", plain);
  l.next = g->first;
  while (next_layer(&l, rep)) {
    const vram_node_report t = l.sum;
    vram_node_name(l.node, name, sizeof name);
    shape_text(l.last->out[0].d, shape, sizeof shape);
    params += t.params;
    saved += t.saved_bytes;
    if (j->csv)
      printf("%s,%s,\"%s\",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", name,
             vram_op_name(l.node->op), shape, vram_dtype_name((vram_dtype)t.dtype), t.params,
             t.output_bytes, t.saved_bytes, t.live_bytes);
    else
      printf("%-38.38s %-18.18s %-22s %12" PRIu64 " %11s %11s %11s\n", name,
             vram_op_name(l.node->op), shape, t.params, human(t.output_bytes), human(t.saved_bytes),
             human(t.live_bytes));
  }
  if (!j->csv)
    printf("%s%-38s %-18s %-22s %12" PRIu64 " %11s %11s%s\n\n", bold, "total", "", "", params, "",
           human(saved), plain);
}

static void print_summary(const job *j, const vram_graph *g, const vram_report *r, int fits) {
  char name[MAX_NODE_NAME], mode[128];
  int i, k, n = j->o.train ? VRAM_PHASE_OPTIMIZER : VRAM_PHASE_FORWARD;
  uint32_t d;
  mode_text(j, mode, sizeof mode);
  printf("%s%.*s%s  %s", bold, g->name ? (int)g->name_len : 7, g->name ? g->name : "(model)", plain,
         mode);
  for (d = 0; d < g->ndim && d < 6; d++)
    printf("  %.*s=%" PRId64, (int)g->dim[d].len, g->dim[d].name, g->dim[d].value);
  printf("  %scc %" PRIu32 ".%" PRIu32 ", %s%s\n\n", dim, (j->o.cc ? j->o.cc : 90) / 10,
         (j->o.cc ? j->o.cc : 90) % 10,
         j->o.rules == VRAM_RULES_IDEAL ? "rules ideal" : "rules torch-2.15", plain);
  vram_node_name(r->peak_node, name, sizeof name);
  printf("%speak %s%s requested, in %s%s%s\n", bold, human(r->peak_requested_bytes), plain,
         phase_name[r->peak_phase], *name ? " at " : "", name);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++) {
    uint64_t b = r->peak_category_bytes[i];
    if (!b)
      continue;
    printf("  %-12s %11s  %s", category_name[i], human(b), dim);
    for (k = 0; k < 40; k++)
      if ((uint64_t)k * (r->peak_requested_bytes / 40 + 1) < b)
        putchar('#');
    printf("%s\n", plain);
  }
  printf("\nallocated    %11s  in blocks of the caching allocator (at most %s)\n",
         human(r->peak_allocated_bytes.expected), human(r->peak_allocated_bytes.upper));
  printf("reserved     %11s  in its segments%s\n", human(r->peak_reserved_bytes),
         r->replayed ? "" : ", at least");
  printf("device       %11s  with the CUDA context (%s to %s)\n\n", human(r->device_bytes.expected),
         human(r->device_bytes.lower), human(r->device_bytes.upper));
  printf("%s%-12s %11s %11s%s\n", bold, "phase", "end", "peak", plain);
  for (i = VRAM_PHASE_FORWARD; i <= n; i++)
    printf("%-12s %11s %11s\n", phase_name[i], human(r->phase[i].requested_bytes),
           human(r->phase[i].requested_peak_bytes));
  printf("\nparams %s, buffers %s, inputs %s", human(r->params_bytes), human(r->buffers_bytes),
         human(r->inputs_bytes));
  if (j->o.train) {
    printf("\ngradients %s, optimizer %s, saved for backward %s", human(r->gradients_bytes),
           human(r->optimizer_bytes), human(r->saved_bytes));
    if (r->autocast_cache_bytes)
      printf(" (of it autocast's weights %s)", human(r->autocast_cache_bytes));
  }
  if (r->pinned_bytes)
    printf("\npinned host memory %s", human(r->pinned_bytes));
  printf("\n");
  if (j->has_budget)
    printf("\n%s%s%s a budget of %s%s%s\n", bold, fits ? "fits" : "DOES NOT FIT", plain,
           human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  if (j->has_budget && fits && r->device_bytes.expected > j->budget)
    printf("only just: in the run's first steps all that is cached goes back to the device %" PRIu64
           " time%s\n(slow; `expected` above is what it takes with more room)\n",
           r->num_alloc_retries, r->num_alloc_retries == 1 ? "" : "s");
  if (j->automatic)
    print_planned(&j->planned);
}

static void print_terms(const vram_report *r) {
  vram_term t;
  uint32_t i;
  printf("\n%s%-21s %11s  %-8s %s%s\n", bold, "term", "bytes", "source", "made of", plain);
  for (i = 0; vram_report_term(r, i, &t); i++) {
    printf("%-21s %11s  %-8s %s\n", t.name, human(t.bytes.expected), vram_source_name(t.source),
           t.from);
    if (t.bytes.lower != t.bytes.upper)
      printf("%-21s %11s  to %s\n", "", human(t.bytes.lower), human(t.bytes.upper));
  }
}

/* ---- explain: from the tensors to the device ---- */

static vram_bounds all_three(uint64_t bytes) {
  vram_bounds b;
  b.lower = b.expected = b.upper = bytes;
  return b;
}

static vram_bounds minus(vram_bounds a, vram_bounds b) {
  a.lower -= b.lower;
  a.expected -= b.expected;
  a.upper -= b.upper;
  return a;
}

/* A line of the chain. `bytes` is what has been reached by then or, with a `+`, what is added. */
static void explain_row(const char *sign, const char *name, vram_bounds bytes, const char *why) {
  const int sum = *sign == '=';
  printf("%s%s %-24s %15" PRIu64 " %15" PRIu64 " %15" PRIu64 "%s\n", sum ? bold : "", sign, name,
         bytes.lower, bytes.expected, bytes.upper, sum ? plain : "");
  if (why)
    printf("%s    %s%s\n", dim, why, plain);
}

/* A sum of the chain: a term of the report, and what shows it in a run. */
static void explain_sum(const vram_report *r, const char *name, vram_bounds bytes, const char *term,
                        const char *shown_by) {
  vram_term t;
  uint32_t i;
  char why[200];
  for (i = 0; vram_report_term(r, i, &t) && strcmp(t.name, term) != 0; i++)
    ;
  snprintf(why, sizeof why, "%s\n    %s: %s", shown_by, vram_source_name(t.source), t.from);
  explain_row("=", name, bytes, why);
}

static void print_explain(const vram_report *r) {
  const vram_bounds requested = all_three(r->peak_requested_bytes),
                    blocks = all_three(r->peak_blocks_bytes),
                    reserved = minus(r->device_bytes, r->context_bytes);
  vram_bounds allocated = r->peak_allocated_bytes;
  int i;
  printf("\n%sfrom the tensors to the device %10s %15s %15s%s  (bytes)\n", bold, "at least",
         "expected", "at most", plain);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (r->peak_category_bytes[i])
      explain_row("+", category_name[i], all_three(r->peak_category_bytes[i]), NULL);
  explain_sum(r, "requested", requested, "peak_requested_bytes",
              "memory_stats()[\"requested_bytes.all.peak\"]");
  explain_row("+", "rounding", minus(blocks, requested),
              "blocks are multiples of 512 bytes (kMinBlockSize)");
  if (allocated.lower < blocks.lower) {
    const vram_bounds less = {blocks.lower - allocated.lower, 0, 0};
    explain_row("-", "custom", less,
                "bytes of custom lines are those of fp32, in 16 bits they may be half");
    allocated.lower = blocks.lower;
  }
  explain_row(
      "+", "rests, workspaces", minus(allocated, blocks),
      "a block above 1 MiB keeps a rest of up to 1 MiB (should_split); what cuDNN asks for");
  explain_sum(r, "allocated", r->peak_allocated_bytes, "peak_allocated_bytes",
              "max_memory_allocated()");
  explain_row("+", "free in segments", minus(reserved, r->peak_allocated_bytes),
              "segments: 2 MiB for blocks up to 1 MiB, 20 MiB for those below 10 MiB,\n"
              "    else their size; they stay when blocks go, in pieces that fit or do not");
  explain_sum(r, "reserved", reserved, "peak_reserved_bytes", "max_memory_reserved()");
  explain_row(
      "+", "CUDA context", r->context_bytes,
      "the driver's state and all loaded kernels: PyTorch's, cuBLAS's, cuDNN's (--context)");
  explain_sum(r, "device", r->device_bytes, "device_bytes", "nvidia-smi, for this process");
  printf("not in it: other processes; what libraries take without PyTorch's allocator\n"
         "(NCCL, own kernels); private pools of CUDA graphs; segments that earlier steps\n"
         "of other sizes left\n");
}

static int by_bytes(const void *a, const void *b) {
  uint64_t x = ((const vram_live *)a)->bytes, y = ((const vram_live *)b)->bytes;
  return (x < y) - (x > y);
}

static int print_live(const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                      const vram_report *r) {
  uint32_t n = 0, i;
  vram_live *list;
  char name[MAX_NODE_NAME];
  vram_step_live(g, &j->o, scratch, bytes, r, NULL, 0, &n);
  list = (vram_live *)malloc(((size_t)n + 1) * sizeof *list);
  if (!list)
    return out_of_memory();
  vram_step_live(g, &j->o, scratch, bytes, r, list, n, &n);
  qsort(list, n, sizeof *list, by_bytes);
  printf("\n%slive at the peak: %" PRIu32 " tensors, the largest%s\n", bold, n, plain);
  for (i = 0; i < n && i < 20; i++) {
    vram_node_name(list[i].node, name, sizeof name);
    printf("  %11s  %-12s %s\n", human(list[i].bytes), category_name[list[i].category], name);
  }
  free(list);
  return FITS;
}

/* ---- pictures ---- */

enum { COLUMNS = 1024 };

/* FILE is - */
static int is_output(const char *path) { return path && !strcmp(path, "-"); }

typedef struct scene { /* what a picture shows */
  vram_timeline timeline;
  void *columns;
  vram_live *live;
  uint32_t nlive;
  void *scratch;
  char title[VRAM_MAX_NAME + 1], subtitle[400];
  vram_svg_options options;
} scene;

static void scene_end(scene *s) {
  free(s->columns);
  free(s->live);
  free(s->scratch);
}

/* Plays the step once more for its events, and for what lives at its peak. */
static int scene_begin(scene *s, const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                       const vram_report *r) {
  const uint64_t columns = vram_timeline_bytes(COLUMNS);
  vram_step_options o = j->o;
  vram_report again;
  uint32_t d;
  size_t n;
  memset(s, 0, sizeof *s);
  vram_step_live(g, &o, scratch, bytes, r, NULL, 0, &s->nlive);
  s->columns = malloc((size_t)columns);
  s->live = (vram_live *)malloc(((size_t)s->nlive + 1) * sizeof *s->live);
  s->scratch = malloc((size_t)vram_svg_bytes(s->nlive));
  if (!s->columns || !s->live || !s->scratch)
    return out_of_memory();
  vram_step_live(g, &o, scratch, bytes, r, s->live, s->nlive, &s->nlive);
  vram_timeline_init(&s->timeline, s->columns, columns, r->before_category_bytes);
  o.replay = NULL;
  o.event = vram_timeline_add;
  o.user = &s->timeline;
  vram_step(g, &o, scratch, bytes, &again, NULL);
  snprintf(s->title, sizeof s->title, "%.*s", g->name ? (int)g->name_len : 7,
           g->name ? g->name : "(model)");
  mode_text(j, s->subtitle, sizeof s->subtitle);
  for (d = 0; d < g->ndim && d < 6; d++) {
    n = strlen(s->subtitle);
    snprintf(s->subtitle + n, sizeof s->subtitle - n, ", %.*s=%" PRId64, (int)g->dim[d].len,
             g->dim[d].name, g->dim[d].value);
  }
  n = strlen(s->subtitle);
  snprintf(s->subtitle + n, sizeof s->subtitle - n, ", cc %" PRIu32 ".%" PRIu32 ", rules %s",
           (j->o.cc ? j->o.cc : 90) / 10, (j->o.cc ? j->o.cc : 90) % 10,
           j->o.rules == VRAM_RULES_IDEAL ? "ideal" : "torch-2.15");
  s->options.title = s->title;
  s->options.subtitle = s->subtitle;
  s->options.has_budget = j->has_budget;
  s->options.budget_bytes = j->budget;
  s->options.budget_name = j->gpu;
  s->options.units = unit_kind;
  return FITS;
}

static int to_file(void *user, const char *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)user) != n;
}

static int write_svg(FILE *f, const scene *s, const vram_report *r) {
  vram_sink sink;
  sink.write = to_file;
  sink.user = f;
  return vram_write_svg(&s->timeline, r, s->live, s->nlive, &s->options, s->scratch,
                        vram_svg_bytes(s->nlive), &sink) != VRAM_OK;
}

#include "vram_html.h"
#include "vram_snapshot.h"

/* --svg and --html */
static int write_pictures(const job *j, const vram_graph *g, void *scratch, uint64_t bytes,
                          const vram_report *r, int fits) {
  scene s;
  int k, status = scene_begin(&s, j, g, scratch, bytes, r);
  for (k = 0; k < 2 && !status; k++) {
    const char *path = k ? j->html : j->svg;
    FILE *f;
    int failed;
    if (!path)
      continue;
    errno = 0;
    f = strcmp(path, "-") ? fopen(path, "w") : stdout;
    failed = !f || (k ? write_html(f, j, g, &s, r, fits) : write_svg(f, &s, r));
    if ((f && f != stdout && fclose(f)) || failed)
      status = cannot("write", path, OTHER);
  }
  scene_end(&s);
  return status;
}

/* What options need of each other. */
static int check_options(job *j) {
  if (j->gpu && !j->has_budget)
    j->budget = j->gpu_bytes, j->has_budget = 1;
  j->o.budget_bytes = j->budget;
  if (j->training && !j->o.train)
    return bad("an option of training without --train:", j->training, NULL);
  if (j->automatic && !j->has_budget)
    return bad("no budget for", "--checkpoint auto", "--budget or --gpu");
  if (j->automatic && (j->checkpoint || j->o.reentrant))
    return bad("--checkpoint auto excludes", j->checkpoint ? "--checkpoint-nodes" : "--reentrant",
               NULL);
  if (j->o.reentrant && !j->o.checkpoint_segments && !j->checkpoint && !j->segments)
    return bad("no checkpoint for", "--reentrant", "--checkpoint or --checkpoint-nodes");
  if (j->o.master_weights && !j->o.dtype)
    return bad("no low-precision parameters for", "--master-weights", "--dtype");
  return FITS;
}

/* All arguments of estimate or fit; FITS: go on, or help was printed (j->model is NULL then). */
static int arguments(job *j, int argc, char **argv) {
  int i;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      j->model = NULL;
      return fputs(j->fit ? help_fit : help_estimate, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      int n = option(j, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (j->model)
      return bad("a second model", argv[i], "one");
    else
      j->model = argv[i++];
  }
  if (!j->model)
    return bad("no model", NULL,
               j->fit ? "vram fit MODEL; vram fit -h" : "vram estimate MODEL; vram estimate -h");
  return check_options(j);
}

/* The text of a file, of standard input, or of a built-in model. */
static int read_model(const char *model, char **text, size_t *len) {
  const char *const *line = strpbrk(model, "./") ? NULL : built_in(model);
  size_t i, n = 0;
  if (!line) {
    FILE *f = strcmp(model, "-") ? fopen(model, "rb") : NULL;
    if (!f && strcmp(model, "-") && !strpbrk(model, "./"))
      return bad("no file and no built-in model", model, nearest("models", model));
    if (f)
      fclose(f);
    return read_all(model, text, len);
  }
  for (i = 0; line[i]; i++)
    n += strlen(line[i]);
  *text = (char *)malloc(n + 1);
  if (!*text)
    return out_of_memory();
  for (*len = 0, i = 0; line[i]; *len += strlen(line[i++]))
    memcpy(*text + *len, line[i], strlen(line[i]));
  return FITS;
}

static int model_error(const job *j, const vram_error *e) {
  if (e->line)
    fprintf(stderr, "%s:%" PRIu32 ":%" PRIu32 ": %s\n", j->model, e->line, e->column, e->text);
  else
    fprintf(stderr, "%s: %s\n", j->model, e->text);
  return USAGE;
}

static void *solve_alloc(void *user, uint64_t bytes) {
  (void)user;
  return bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
}

static void solve_free(void *user, void *memory, uint64_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

typedef struct loaded { /* a model, ready for steps */
  char *text;
  void *mem, *scratch;
  uint64_t bytes; /* of scratch */
  vram_range *ranges;
  vram_graph g;
} loaded;

static void unload(loaded *l) {
  free(l->ranges);
  free(l->scratch);
  free(l->mem);
  free(l->text);
}

/* The text becomes l's. Not FITS: message printed; unload() in any case. */
static int load(loaded *l, job *j, char *text, size_t len) {
  vram_error err;
  uint64_t need = vram_parse_bytes(text, len, j->dims, j->ndims);
  memset(l, 0, sizeof *l);
  l->text = text;
  if (!need)
    return bad("a model that is too large:", j->model, NULL);
  l->mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  if (!l->mem) {
    fprintf(stderr, "vram: out of memory (the model needs %s)\n", human(need));
    return OTHER;
  }
  vram_graph_init(&l->g, l->mem, need);
  if (vram_parse(&l->g, text, len, j->dims, j->ndims, &err))
    return model_error(j, &err);
  if (j->checkpoint) {
    uint32_t n;
    if (vram_ranges(&l->g, j->checkpoint, NULL, 0, &n, &err))
      return bad(err.text, NULL, NULL);
    l->ranges = (vram_range *)malloc(((size_t)n + 1) * sizeof *l->ranges);
    if (!l->ranges)
      return out_of_memory();
    vram_ranges(&l->g, j->checkpoint, l->ranges, n, &j->o.ncheckpoint, &err);
    j->o.checkpoint = l->ranges;
  }
  if (j->automatic) {
    const vram_allocator a = {solve_alloc, solve_free, NULL};
    if (vram_step_plan(&l->g, &j->o, 0, &a, &j->planned, &err))
      return err.code == VRAM_ERR_MEMORY ? out_of_memory() : bad(err.text, NULL, NULL);
    j->o.checkpoint = j->planned.range;
    j->o.ncheckpoint = j->planned.nrange;
  }
  l->bytes = vram_step_bytes(&l->g, &j->o);
  l->scratch = l->bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)l->bytes) : NULL;
  if (!l->scratch) {
    fprintf(stderr, "vram: out of memory (the step needs %s)\n", human(l->bytes));
    return OTHER;
  }
  return FITS;
}

/* vram_step; not FITS: message printed. */
static int step_once(loaded *l, const vram_step_options *o, vram_report *r) {
  vram_error err;
  if (!vram_step(&l->g, o, l->scratch, l->bytes, r, &err))
    return FITS;
  bad(err.text, NULL, NULL);
  return err.code == VRAM_ERR_MEMORY ? OTHER : USAGE;
}

static int net_command(int argc, char **argv); /* vram_net.h */

static int estimate(int argc, char **argv) {
  job j;
  const char *text_only;
  vram_report r;
  loaded l;
  int i, taken, fits = 1, status;
  size_t len = 0;
  char *text = NULL;
  FILE *ev = NULL;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "--embedded"))
      return net_command(argc, argv);
  memset(&j, 0, sizeof j);
  j.o.replay = &j.pool;
  status = arguments(&j, argc, argv);
  if (status || !j.model)
    return status;
  taken = j.json + j.csv + is_output(j.events) + is_output(j.svg) + is_output(j.html) +
          is_output(j.snapshot) + is_output(j.trace);
  if (taken > 1)
    return bad("standard output takes one of --json, --csv and one FILE -", NULL, NULL);
  text_only = j.explain ? "--explain" : j.terms ? "--terms" : j.live ? "--live" : NULL;
  if (!text_only && j.table && !j.csv)
    text_only = "--table";
  if (taken && text_only)
    return bad("standard output is taken by --json, --csv or a FILE -: no place for", text_only,
               NULL);
  status = read_model(j.model, &text, &len);
  if (status)
    return status;
  status = load(&l, &j, text, len);
  if (status)
    goto done;
  if (j.table || j.csv || j.html) {
    j.o.nodes = (vram_node_report *)calloc(l.g.nnode + 1u, sizeof *j.o.nodes);
    if (!j.o.nodes) {
      status = out_of_memory();
      goto done;
    }
  }
  /* first without a listener, so that nothing is written of a step that fails */
  status = step_once(&l, &j.o, &r);
  if (status)
    goto done;
  if (j.events) {
    errno = 0;
    ev = strcmp(j.events, "-") ? fopen(j.events, "w") : stdout;
    if (!ev) {
      status = cannot("write", j.events, OTHER);
      goto done;
    }
    fprintf(ev, "phase,action,id,size,category,node\n");
    vram_step_options o = j.o;
    vram_report again;
    o.event = event_line;
    o.user = ev;
    o.replay = NULL;
    o.nodes = NULL;
    vram_step(&l.g, &o, l.scratch, l.bytes, &again, NULL);
    if (ev != stdout && ((i = ferror(ev)), fclose(ev) || i)) {
      status = cannot("write", j.events, OTHER);
      goto done;
    }
  }
  fits = !j.has_budget || r.fits;
  if (j.svg || j.html) {
    status = write_pictures(&j, &l.g, l.scratch, l.bytes, &r, fits);
    if (status)
      goto done;
  }
  if (j.snapshot || j.trace) {
    status = write_films(&j, &l.g, l.scratch, l.bytes);
    if (status)
      goto done;
  }
  status = fits ? FITS : TOO_LARGE;
  if (j.json)
    print_json(&j, &l.g, &r, fits);
  else if (j.csv)
    print_table(&j, &l.g, j.o.nodes);
  else if (!taken) {
    if (j.table)
      print_table(&j, &l.g, j.o.nodes);
    print_summary(&j, &l.g, &r, fits);
    if (j.terms)
      print_terms(&r);
    if (j.explain)
      print_explain(&r);
    if (j.live && print_live(&j, &l.g, l.scratch, l.bytes, &r))
      status = OTHER;
  }
done:
  if (j.automatic) {
    const vram_allocator a = {solve_alloc, solve_free, NULL};
    vram_step_plan_free(&j.planned, &a);
  }
  free(j.o.nodes);
  unload(&l);
  return status;
}

/* ---- fit ---- */

/* "batch 96", "8 segments" */
static const char *solved(const job *j, int64_t value, char *to, size_t cap) {
  if (j->segments)
    snprintf(to, cap, "%" PRId64 " segment%s", value, value == 1 ? "" : "s");
  else
    snprintf(to, cap, "%s %" PRId64, j->solve ? j->solve : "batch", value);
  return to;
}

static void print_trial(const job *j, const char *text, const vram_trial *t) {
  char value[MAX_NODE_NAME + 32];
  if (!t->value)
    return;
  printf("%-15s %-14s", text, solved(j, t->value, value, sizeof value));
  if (!t->report.device_bytes.expected) {
    printf(" more than 2^63-1 bytes\n");
    return;
  }
  printf(" device %9s", human(t->report.device_bytes.expected));
  printf(" %s(%s to %s)%s", dim, human(t->report.device_bytes.lower),
         human(t->report.device_bytes.upper), plain);
  printf(", allocated %s", human(t->report.peak_allocated_bytes.expected));
  if (t->report.fits && t->report.device_bytes.expected > j->budget)
    printf("; cached memory goes back %" PRIu64 " times", t->report.num_alloc_retries);
  printf("\n");
}

static void print_solution(const job *j, const vram_solution *s) {
  char mode[128], value[MAX_NODE_NAME + 32];
  mode_text(j, mode, sizeof mode);
  printf("%s%s%s  %s  budget %s%s%s\n\n%s", bold, j->model, plain, mode, human(j->budget),
         j->gpu ? ", " : "", j->gpu ? j->gpu : "", bold);
  if (s->fits.value)
    print_trial(j, "fits", &s->fits);
  else
    printf("nothing fits\n");
  printf("%s", plain);
  if (s->next.value)
    print_trial(j, "does not fit", &s->next);
  else if (s->fits.value && !j->segments)
    printf("%s\n", s->limit
                       ? "a larger one is beyond a limit of this program (vram.h: VRAM_MAX_...)"
                       : "no larger one was found that the model allows");
  print_trial(j, "multiple of 8", &s->eights);
  print_trial(j, "power of two", &s->power);
  if (s->fits.value)
    print_trial(j, "fewest bytes", &s->least);
  printf("\n%" PRIu32 " values tried; ", s->tried);
  if (j->segments)
    printf("every number of segments,\n"
           "because more of them keep more inputs and fewer recompute more at once\n");
  else if (s->larger)
    printf("not monotone: %s takes less than %" PRId64 " (kernels and copies that depend on the "
           "size)\n",
           solved(j, s->larger, value, sizeof value), s->smaller);
  else
    printf("monotone in them\n");
}

static void json_trial(const char *key, const vram_trial *t) {
  const vram_report *r = &t->report;
  printf(",\"%s\":", key);
  if (!t->value)
    printf("null");
  else
    printf("{\"value\":%" PRId64 ",\"peak_allocated_bytes\":%" PRIu64 ",\"device_bytes\":%" PRIu64
           "}",
           t->value, r->peak_allocated_bytes.expected, r->device_bytes.expected);
}

/* null: there is no such value */
static void json_value(const char *key, const vram_trial *t, uint64_t number) {
  printf(",\"%s\":", key);
  if (t->value)
    printf("%" PRIu64, number);
  else
    printf("null");
}

static void print_solution_json(const job *j, const vram_solution *s) {
  char mode[128];
  mode_text(j, mode, sizeof mode);
  printf("{\"model\":");
  json_text(stdout, j->model);
  printf(",\"mode\":");
  json_text(stdout, mode);
  printf(",\"rules\":\"%s\",\"solve\":", j->o.rules == VRAM_RULES_IDEAL ? "ideal" : "torch-2.15");
  if (j->solve)
    printf("\"dim:%s\"", j->solve);
  else
    json_text(stdout, j->segments ? "segments" : "batch");
  printf(",\"budget_bytes\":%" PRIu64, j->budget);
  json_value("value", &s->fits, (uint64_t)s->fits.value);
  json_value("next", &s->next, (uint64_t)s->next.value);
  json_value("peak_allocated_bytes", &s->fits, s->fits.report.peak_allocated_bytes.expected);
  json_value("next_peak_allocated_bytes", &s->next, s->next.report.peak_allocated_bytes.expected);
  json_value("device_bytes", &s->fits, s->fits.report.device_bytes.expected);
  json_value("next_device_bytes", &s->next, s->next.report.device_bytes.expected);
  json_trial("multiple_of_8", &s->eights);
  json_trial("power_of_two", &s->power);
  json_trial("fewest_bytes", &s->least);
  printf(",\"monotone\":%s,\"tried\":%" PRIu32 "}\n", s->larger || j->segments ? "false" : "true",
         s->tried);
}

static int fit(int argc, char **argv) {
  job j;
  vram_solve_options o;
  vram_allocator heap;
  vram_solution s;
  vram_error err;
  char *text = NULL;
  size_t len = 0;
  int status;
  memset(&j, 0, sizeof j);
  j.o.replay = &j.pool;
  memset(&o, 0, sizeof o);
  j.fit = 1;
  status = arguments(&j, argc, argv);
  if (status || !j.model)
    return status;
  if (!j.has_budget)
    return bad("no budget", NULL, "--budget SIZE or --gpu NAME");
  if (j.segments && !j.o.train)
    return bad("segments are for training", NULL, "--train OPT");
  if (j.segments && (j.o.checkpoint_segments || j.checkpoint))
    return bad("segments are what is solved for, not",
               j.checkpoint ? "--checkpoint-nodes" : "--checkpoint", NULL);
  status = read_model(j.model, &text, &len);
  if (status)
    return status;
  heap.alloc = solve_alloc;
  heap.free = solve_free;
  heap.user = NULL;
  o.budget_bytes = j.budget;
  o.dim = j.solve;
  o.segments = j.segments;
  o.set = j.dims;
  o.nset = j.ndims;
  o.checkpoint_nodes = j.checkpoint;
  o.step = j.o;
  if (vram_solve(text, len, &o, &heap, &s, &err))
    status = err.code == VRAM_ERR_MEMORY ? out_of_memory() : model_error(&j, &err);
  else {
    if (j.json)
      print_solution_json(&j, &s);
    else
      print_solution(&j, &s);
    status = s.fits.value ? FITS : TOO_LARGE;
  }
  free(text);
  return status;
}

#include "vram_trace.h"

#include "vram_replay.h"

#include "vram_diff.h"

#include "vram_arena.h"

#include "vram_net.h"

#include "vram_emit.h"

/* ---- list ---- */

static void print_id(int id, int width) {
  if (id < 0)
    printf(" %*s", width, "-");
  else
    printf(" %*d", width, id);
}

/* 25.6 M */
static const char *count_text(uint64_t n, char *to, size_t cap) {
  static const char unit[] = " KMBT";
  int u = 0;
  double v = (double)n;
  while (v >= 999.5 && u < 4)
    v /= 1000, u++;
  snprintf(to, cap,
           u == 0    ? "%.0f"
           : v < 10  ? "%.2f %c"
           : v < 100 ? "%.1f %c"
                     : "%.0f %c",
           v, unit[u]);
  return to;
}

/* name, parameters, what it is: the comment on the text's first line */
static int list_models(void) {
  size_t i, n = 0;
  printf("%s%-24s %10s  %s%s\n", bold, "model", "parameters", "what it is", plain);
  for (i = 0; i < sizeof model_table / sizeof *model_table; i++) {
    const char *const *line = model_table[i].line;
    char *text = NULL;
    size_t len = 0;
    uint64_t need, elements = 0;
    void *mem;
    const vram_param *p;
    vram_graph g;
    char count[32];
    int status = read_model(model_table[i].name, &text, &len);
    if (status)
      return status;
    need = vram_parse_bytes(text, len, NULL, 0);
    mem = need ? malloc((size_t)need) : NULL;
    if (mem) {
      vram_graph_init(&g, mem, need);
      if (!vram_parse(&g, text, len, NULL, 0, NULL))
        for (p = g.param_first; p; p = p->next)
          elements += p->kind < 2 ? p->d->numel : 0;
    }
    free(text);
    if (!mem)
      return out_of_memory();
    free(mem);
    n = strlen(*line);
    printf("%-24s %10s  %.*s\n", model_table[i].name, count_text(elements, count, sizeof count),
           (int)(n - 3), *line + 2);
  }
  return FITS;
}

static int list(int argc, char **argv) {
  int i;
  const char *what = argc == 1 ? argv[0] : NULL;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return fputs(help_list, stdout), FITS;
  if (what && !strcmp(what, "ops")) {
    printf("%s%-30s %-8s %-10s %s%s\n", bold, "op", "inputs", "autocast", "keys (! required)",
           plain);
    for (i = 0; i < VRAM_OP_COUNT; i++) {
      vram_op_info info;
      char count[24];
      vram_op_get_info((vram_op)i, &info);
      if (info.least == info.most)
        snprintf(count, sizeof count, "%u", info.least);
      else if (info.most == 65535)
        snprintf(count, sizeof count, "%u or more", info.least);
      else
        snprintf(count, sizeof count, "%u to %u", info.least, info.most);
      printf("%-30s %-8s %-10s %s\n", info.name, count, info.autocast, info.keys);
      if (*info.recipe)
        printf("%s    %s%s\n", dim, info.recipe, plain);
    }
  } else if (what && !strcmp(what, "dtypes")) {
    printf("%s%-12s %10s %10s  %-22s %-14s %5s %6s %5s%s\n", bold, "dtype", "elements", "bytes",
           "torch", "safetensors", "onnx", "tflite", "ggml", plain);
    const vram_dtype_info *d;
    for (i = 1; (d = vram_dtype_get_info((vram_dtype)i)) != NULL; i++) {
      printf("%-12s %10u %10u  %-22s %-14s", d->name, d->block_elements, d->block_bytes,
             d->torch_name ? d->torch_name : "-", d->safetensors_name ? d->safetensors_name : "-");
      print_id(d->onnx_id, 5);
      print_id(d->tflite_id, 6);
      print_id(d->ggml_id, 5);
      printf("\n");
    }
  } else if (what && !strcmp(what, "optimizers")) {
    printf("%s%-26s %-36s %s%s\n", bold, "optimizer", "state", "runs as (the first: default)",
           plain);
    vram_optimizer_info o;
    for (i = 0; vram_optimizer_get_info((uint32_t)i, &o); i++)
      printf("%-26s %-36s %s\n", o.name, o.state, o.implementations);
  } else if (what && !strcmp(what, "gpus")) {
    printf("%s%-12s %5s %5s %7s %9s  %s%s\n", bold, "gpu", "cc", "SMs", "sold", "usable",
           "source of the usable memory", plain);
    const vram_gpu *g;
    for (i = 0; (g = vram_gpu_at((uint32_t)i)) != NULL; i++)
      printf("%-12s %3u.%u %5u %4u GB %9s  %s\n", g->name, g->cc / 10, g->cc % 10, g->sm,
             g->sold_gb, human(g->bytes), g->source);
  } else if (what && !strcmp(what, "models"))
    return list_models();
  else
    return bad(what   ? "nothing to list called"
               : argc ? "one thing to list at a time"
                      : "what to list",
               what, "models, ops, dtypes, optimizers or gpus");
  return FITS;
}

#include "vram_plan.h"
#include "vram_run.h"
#include "vram_watch.h"

/* ---- complete WORD...: what may stand for the last word, for the shells (tools/install/). A line
   each: the word, a tab, what it is; <file>: any file ---- */

/* An option in a help text: "  --amp bf16|fp16       what it is". */
typedef struct option_help {
  const char *name, *value, *text; /* value_len 0: it takes none; text: the first line of it */
  size_t name_len, value_len, text_len;
} option_help;

/* The next option from *at on, *at goes behind it; 0: there is no more. */
static int next_option(const char **at, option_help *o) {
  const char *s = *at;
  while (*s && strncmp(s, "  --", 4) && strncmp(s, ", --", 4))
    s += strcspn(s, "\n"), s += *s == '\n';
  if (!*s)
    return 0;
  o->name = s + 2;
  o->name_len = strcspn(o->name, ", \n");
  s = o->name + o->name_len;
  *at = *s == ',' ? s : s + strcspn(s, "\n");
  o->value = s + (*s == ' ');
  o->value_len = strcspn(o->value, " \n");
  while (*s != '\n' && strncmp(s, "  ", 2))
    s++;
  o->text = s + strspn(s, " \n"); /* of a long option on the next line */
  o->text_len = strcspn(o->text, "\n");
  return 1;
}

static void offer(const char *start, const char *word, size_t len, const char *text,
                  size_t text_len) {
  const size_t n = strlen(start);
  if (n <= len && !memcmp(word, start, n))
    printf("%.*s\t%.*s\n", (int)len, word, (int)text_len, text);
}

/* a|b|c; 0: it is no such list */
static int offer_words(const char *start, const char *words, size_t len) {
  size_t n;
  if (!len || !memchr(words, '|', len))
    return 0;
  for (; (n = strcspn(words, "| \n")) != 0; words += n + (words[n] == '|'))
    if (strcspn(words, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= n) /* NAME is not a word to put there */
      offer(start, words, n, "", 0);
  return 1;
}

/* The names that `vram list WHAT` shows. */
static void offer_list(const char *start, const char *what) {
  size_t m;
  vram_optimizer_info o;
  const vram_gpu *g;
  uint32_t i;
  if (!strncmp(what, "optimizers", 10))
    for (i = 0; vram_optimizer_get_info(i, &o); i++)
      offer(start, o.name, strlen(o.name), o.state, strlen(o.state));
  if (!strncmp(what, "models", 6))
    for (m = 0; m < sizeof model_table / sizeof *model_table; m++) {
      const char *text = *model_table[m].line + 2; /* a comment */
      offer(start, model_table[m].name, strlen(model_table[m].name), text, strcspn(text, "\n"));
    }
  if (!strncmp(what, "gpus", 4))
    for (i = 0; (g = vram_gpu_at(i)) != NULL; i++) {
      const char *memory = human(g->bytes);
      offer(start, g->name, strlen(g->name), memory, strlen(memory));
    }
}

static void offer_commands(const char *start) {
  const char *s = help_main;
  for (; *s; s += strcspn(s, "\n"), s += *s == '\n')
    if (!strncmp(s, "  vram ", 7) && s[7] >= 'a' && s[7] <= 'z') {
      const char *text = strstr(s + 7, "  ");
      text += strspn(text, " ");
      offer(start, s + 7, strcspn(s + 7, " "), text, strcspn(text, "\n"));
    }
}

static int complete(int argc, char **argv) {
  static const struct {
    const char *name, *help;
  } command[] = {{"estimate", help_estimate}, {"fit", help_fit},       {"plan", help_plan},
                 {"arena", help_arena},       {"replay", help_replay}, {"diff", help_diff},
                 {"emit", help_emit},         {"run", help_run},       {"watch", help_watch}};
  const char *start = argc ? argv[argc - 1] : "", *help, *at, *what, *end;
  option_help o;
  size_t i;
  if (argc < 2)
    return offer_commands(start), FITS;
  if (!strcmp(argv[0], "list")) {
    what = help_list + sizeof "vram list";
    offer_words(start, what, strlen(what));
    return FITS;
  }
  for (i = 0; i < sizeof command / sizeof *command && strcmp(argv[0], command[i].name); i++)
    ;
  help = i < sizeof command / sizeof *command ? command[i].help : "";
  for (at = help; next_option(&at, &o);)
    if (o.value_len && strlen(argv[argc - 2]) == o.name_len &&
        !memcmp(argv[argc - 2], o.name, o.name_len)) {
      end = strstr(o.text, "\n  --");
      what = strstr(o.text, "vram list ");
      if (!strncmp(o.value, "FILE", o.value_len))
        printf("<file>\n");
      else if (!offer_words(start, o.value, o.value_len) && what && (!end || what < end))
        offer_list(start, what + 10);
      return FITS;
    }
  for (at = help; *start == '-' && next_option(&at, &o);)
    offer(start, o.name, o.name_len, o.text, o.text_len);
  if ((strstr(help, " MODEL") || strstr(help, " TRACE")) && *start != '-') {
    if (strstr(help, " MODEL"))
      offer_list(start, "models");
    printf("<file>\n");
  }
  return FITS;
}

static int run(int argc, char **argv) {
  if (argc < 2)
    return fputs(help_main, stderr), USAGE;
  if (!strcmp(argv[1], "-h") || !strcmp(argv[1], "--help") || !strcmp(argv[1], "help"))
    return fputs(help_main, stdout), FITS;
  if (!strcmp(argv[1], "--version"))
    return printf("vram %s\n", VRAM_VERSION), FITS;
  if (!strcmp(argv[1], "estimate"))
    return estimate(argc - 2, argv + 2);
  if (!strcmp(argv[1], "fit"))
    return fit(argc - 2, argv + 2);
  if (!strcmp(argv[1], "plan"))
    return plan_command(argc - 2, argv + 2);
  if (!strcmp(argv[1], "arena"))
    return arena_command(argc - 2, argv + 2);
  if (!strcmp(argv[1], "emit"))
    return emit_command(argc - 2, argv + 2);
  if (!strcmp(argv[1], "replay"))
    return replay_command(argc - 2, argv + 2);
  if (!strcmp(argv[1], "diff"))
    return diff_command(argc - 2, argv + 2);
  if (!strcmp(argv[1], "list"))
    return list(argc - 2, argv + 2);
  if (!strcmp(argv[1], "run"))
    return run_program(argc - 2, argv + 2);
  if (!strcmp(argv[1], "watch"))
    return watch(argc - 2, argv + 2);
  if (!strcmp(argv[1], "complete"))
    return complete(argc - 2, argv + 2);
  return bad("unknown command", argv[1], "one of vram -h");
}

int main(int argc, char **argv) {
  int status;
  if (IS_TERMINAL(stdout) && !getenv("NO_COLOR"))
    bold = "\033[1m", dim = "\033[2m", plain = "\033[0m";
  status = run(argc, argv);
  errno = 0;
  if (fflush(stdout) || ferror(stdout))
    return cannot("write", "standard output", OTHER);
  return status;
}
