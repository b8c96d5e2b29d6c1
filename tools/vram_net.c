/* vram estimate --embedded: a network for a microcontroller, line by line. */
#include "vram_net.h"
#include "vram_arena.h"
#include "vram_model.h"

typedef struct net_job {
  job j;
  const char *path, *name, *svg;
  char model_name[NET_NAME];
  loaded l; /* a model */
  vram_net net;
  void *memory, *scratch; /* of the lines, of the plan */
  vram_net_format format;
  vram_net_kernels kernels;
  uint64_t align, flash, sram;
  uint64_t one_bytes;  /* the arena in one memory */
  uint64_t tflm_bytes; /* the arena in TensorFlow Lite Micro's order */
  net_banks banks;
  net_roms roms;
  tflm_arenas tflm; /* of a .tflite file, what its interpreter needs */
  vram_tflm_options tflm_options;
  int wants_tflm, is_least, has_format, has_kernels, has_flash, has_sram;
} net_job;

/* ---- options ---- */

int net_choice(const char *what, const char *v, const char *(*name)(uint32_t), uint32_t count) {
  char list[160];
  uint32_t i;
  size_t k, n = 0;
  for (i = 0; i < count; i++) {
    for (k = 0; v[k] && name(i)[k] && cmd_lower(v[k]) == cmd_lower(name(i)[k]); k++)
      ;
    if (!v[k] && !name(i)[k])
      return (int)i;
    n += (size_t)snprintf(list + n, sizeof list - n, "%s%s",
                          !i               ? ""
                          : i + 1 == count ? " or "
                                           : ", ",
                          name(i));
  }
  return cmd_bad(what, v, list), -1;
}

int net_same_name(const char *a, const char *b) {
  for (; *a && cmd_lower(*a) == cmd_lower(*b); a++, b++)
    ;
  return !*a && !*b;
}

int net_bank(net_banks *b, const char *v) {
  static const char expected[] = "[NAME=]SIZE, as DTCM=64KiB; 0: without a limit; at most 8";
  const char *const is = strchr(v, '=');
  const uint32_t k = b->o.nbank;
  uint32_t i;
  size_t n = is ? (size_t)(is - v) : 0;
  if (k == VRAM_ARENA_BANKS || (is && (!n || n >= sizeof *b->name || (*v >= '0' && *v <= '9'))))
    return cmd_bad("not a bank", v, expected), 0;
  for (i = 0; i < n; i++)
    if (!cmd_is_word(v[i]))
      return cmd_bad("not a bank", v, expected), 0;
  if (is)
    snprintf(b->name[k], sizeof *b->name, "%.*s", (int)n, v);
  else
    snprintf(b->name[k], sizeof *b->name, "bank%" PRIu32, k);
  for (i = 0; i < k; i++)
    if (net_same_name(b->name[i], b->name[k]))
      return cmd_bad("a second bank of that name", v, NULL), 0;
  if (!cmd_parse_size(is ? is + 1 : v, &b->o.capacity[k]))
    return cmd_bad("not a bank", v, expected), 0;
  b->o.nbank++;
  return 1;
}

int net_banks_too_large(const net_banks *b, const vram_net *net, const char *path,
                        const vram_error *err) {
  const uint64_t *const bytes = net->arena.bank_bytes, *const capacity = b->o.capacity;
  const uint32_t k = (uint32_t)err->line - 1;
  const vram_net_line *l = net->line;
  uint32_t i;
  for (i = 0; i < b->o.nbank; i++)
    if (capacity[i] && bytes[i] > capacity[i]) {
      cmd_say("%s: its buffers do not fit the banks: %s has %" PRIu64 " bytes, what is left for it "
              "takes %" PRIu64 ": does not fit by %" PRIu64,
              path, b->name[i], capacity[i], bytes[i], bytes[i] - capacity[i]);
      return TOO_LARGE;
    }
  if (err->line && k < net->nbuffer) {
    while (l->buffer != k && l->scratch_buffer != k)
      l++;
    cmd_say("%s: its buffers do not fit the banks: %s of %s, %" PRIu64 " bytes, fits none", path,
            l->buffer == k ? "the value" : "scratch", l->y, net->buffer[k].bytes);
  } else
    cmd_say("%s: its buffers do not fit the banks", path);
  return TOO_LARGE;
}

/* One option; returns how many arguments it took, 0: error printed. */
static int net_option(net_job *n, const char *a, const char *v) {
  static const char own[] = "--net --flash --sram --format --align --kernels --svg --bank --rom "
                            "--tflm --tflm-version --kernels-for";
  const char *const best = cmd_nearest_of(own, a);
  char expected[64];
  int64_t count;
  int i;
  if (!strcmp(a, "--embedded"))
    return 1;
  if (!strcmp(a, "--tflm"))
    return n->wants_tflm = 1;
  if (cmd_in(a, "--json --csv --batch --dim"))
    return job_option(&n->j, a, v);
  if (!cmd_in(a, own)) {
    snprintf(expected, sizeof expected, "%s%svram estimate -h", best ? best : "", best ? "? " : "");
    return cmd_bad("not an option with --embedded:", a, expected), 0;
  }
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "--bank"))
    return net_bank(&n->banks, v) ? 2 : 0;
  if (!strcmp(a, "--rom"))
    return net_rom(&n->roms, v) ? 2 : 0;
  if (!strcmp(a, "--tflm-version")) {
    i = net_choice("unknown version", v, vram_tflm_version_name, VRAM_TFLM_VERSION_COUNT);
    if (i < 0)
      return 0;
    n->tflm_options.version = (vram_tflm_version)i;
    n->wants_tflm = 1;
  } else if (!strcmp(a, "--kernels-for")) {
    i = net_choice("unknown goal", v, vram_tflm_goal_name, VRAM_TFLM_GOAL_COUNT);
    if (i < 0)
      return 0;
    n->tflm_options.goal = (vram_tflm_goal)i;
    n->wants_tflm = 1;
  } else if (!strcmp(a, "--net"))
    n->name = v;
  else if (!strcmp(a, "--svg"))
    n->svg = v;
  else if (!strcmp(a, "--flash") || !strcmp(a, "--sram")) {
    if (!cmd_parse_size(v, a[2] == 'f' ? &n->flash : &n->sram))
      return cmd_bad_size(v), 0;
    *(a[2] == 'f' ? &n->has_flash : &n->has_sram) = 1;
  } else if (!strcmp(a, "--align")) {
    if (!cmd_parse_count(v, 1, INT64_C(1) << 30, &count) || (count & (count - 1)))
      return cmd_bad("not an alignment", v, "a power of two"), 0;
    n->align = (uint64_t)count;
  } else if (!strcmp(a, "--format")) {
    i = net_choice("unknown format", v, vram_format_name, VRAM_FORMAT_IDS8);
    if (i < 0)
      return 0;
    n->format = (vram_net_format)i;
    n->has_format = 1;
  } else {
    i = net_choice("unknown kernels", v, vram_kernels_name, VRAM_KERNELS_COUNT);
    if (i < 0)
      return 0;
    n->kernels = n->tflm_options.kernels = (vram_net_kernels)i;
    n->has_kernels = 1;
  }
  return 2;
}

/* FITS: go on, or help was printed (path is NULL then). */
static int net_arguments(net_job *n, int argc, char **argv) {
  int i, taken;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_estimate, stdout), FITS;
  for (i = 0; i < argc; i += taken) {
    taken = 1;
    if (argv[i][0] == '-' && argv[i][1]) {
      taken = net_option(n, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!taken)
        return USAGE;
    } else if (n->path)
      return cmd_bad("a second network", argv[i], "one");
    else
      n->path = argv[i];
  }
  if (!n->path)
    return cmd_bad("no network", NULL, "vram estimate --embedded NET.h or MODEL; vram estimate -h");
  if (n->j.json && n->j.csv)
    return cmd_bad("standard output takes one of --json and --csv", NULL, NULL);
  if (n->svg && cmd_is_output(n->svg))
    return cmd_bad("the table is on standard output: not", "--svg -", NULL);
  return net_roms_check(&n->roms, &n->banks);
}

/* ---- the network ---- */

static int net_error(const net_job *n, const vram_error *e) {
  if (e->code == VRAM_ERR_MEMORY)
    return cmd_no_memory();
  if (e->line && e->column)
    cmd_say("%s:%" PRIu32 ":%" PRIu32 ": %s", n->path, e->line, e->column, e->text);
  else
    cmd_say("%s: %s", n->path, e->text);
  return USAGE;
}

static void *net_memory(uint64_t bytes) {
  return bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
}

/* The lines of a C header; what the command line says goes before what its BEGIN says. */
static int net_lines(net_job *n, const char *text, size_t len) {
  vram_net_line *l;
  int status;
  if (n->j.ndims)
    return cmd_bad("sizes of a header are what it says: not with", n->path, NULL);
  status = net_of_lines(n->path, text, len, n->name, &n->memory, &n->net);
  if (status)
    return status;
  l = n->net.line;
  if (l->kind == VRAM_LINE_BEGIN && (n->align || n->has_kernels)) {
    l->kind = VRAM_LINE_BEGIN_WITH;
    l->arg[4] = 16;
    l->kernels = VRAM_KERNELS_NONE;
  }
  if (n->align)
    l->arg[4] = (int64_t)n->align;
  if (n->has_kernels)
    l->kernels = n->kernels;
  if (n->has_format)
    l->format = n->format;
  return FITS;
}

/* A name that converters give to any graph. */
static int net_name_is_any(const char *name) {
  static const char *const any[] = {"main",      "main_graph", "tflite", "onnx",
                                    "torch_jit", "tf2onnx",    NULL};
  uint32_t i;
  for (i = 0; any[i]; i++)
    if (!strcmp(name, any[i]))
      return 1;
  return 0;
}

void net_name(const char *model, const vram_graph *g, char *to) {
  const vram_file_format kind = model_sniff(model);
  char from[256];
  const char *base = strrchr(model, '/');
  char *c;
  if (*to)
    return;
  snprintf(from, sizeof from, "%.*s", (int)g->name_len, g->name_len ? g->name : "");
  if (!*from || ((kind == VRAM_FILE_TFLITE || kind == VRAM_FILE_ONNX) && net_name_is_any(from)))
    snprintf(from, sizeof from, "%s", base ? base + 1 : model);
  c = strrchr(from, '.');
  if (c && (!strcmp(c, ".vram") || !strcmp(c, ".tflite") || !strcmp(c, ".onnx")))
    *c = 0;
  cmd_identifier(from, to + 4, 41);
  if (to[4] >= 'A' && to[4] <= 'z')
    memmove(to, to + 4, strlen(to + 4) + 1);
  else {
    memcpy(to, "net_", 4);
    if (!to[4])
      to[3] = 0;
  }
}

int net_of_model(const job *j, const vram_graph *g, const vram_net_lower_options *o, void **mem,
                 vram_net *net) {
  const uint64_t need = vram_net_lower_bytes(g);
  vram_error err;
  *mem = net_memory(need);
  if (!*mem)
    return cmd_no_memory();
  if (vram_net_lower(g, o, *mem, need, net, &err))
    return model_error(j, &err);
  if (vram_net_count(net, &err)) {
    const vram_net_line *l = err.line && err.line <= net->nline ? net->line + err.line - 1 : NULL;
    if (l && l->node && l->node->line)
      cmd_say("%s:%" PRIu32 ": %s", j->model, l->node->line, err.text);
    else
      cmd_say("%s: %s", j->model, err.text);
    return USAGE;
  }
  return FITS;
}

static int net_model(net_job *n, char *text, size_t len) {
  vram_net_lower_options o;
  const int status = model_load(&n->l, &n->j, text, len);
  if (status)
    return status;
  if (n->name)
    return cmd_bad("a model has one network: not with", "--net", NULL);
  memset(&o, 0, sizeof o);
  net_name(n->path, &n->l.g, n->model_name);
  o.name = n->model_name;
  if (!n->has_format && tflite_format(n->path, &n->format))
    return USAGE;
  o.format = n->format;
  o.align = n->align;
  o.kernels = n->kernels;
  return net_of_model(&n->j, &n->l.g, &o, &n->memory, &n->net);
}

static int net_plan(net_job *n) {
  vram_arena_options tflm;
  uint64_t bytes;
  vram_error e;
  if (vram_net_count(&n->net, &e))
    return net_error(n, &e);
  bytes = vram_net_plan_bytes(&n->net, NULL);
  n->scratch = net_memory(bytes);
  if (!n->scratch)
    return cmd_no_memory();
  memset(&tflm, 0, sizeof tflm);
  tflm.order = VRAM_ARENA_ORDER_tflm;
  if (vram_net_plan(&n->net, &tflm, n->scratch, bytes, &e))
    return net_error(n, &e);
  n->tflm_bytes = n->net.arena.height_bytes;
  if (vram_net_plan(&n->net, NULL, n->scratch, bytes, &e))
    return net_error(n, &e);
  n->one_bytes = n->net.arena.height_bytes;
  n->is_least = n->net.arena.proven;
  if (n->banks.o.nbank > 1) {
    bytes = vram_net_plan_bytes(&n->net, &n->banks.o);
    free(n->scratch);
    n->scratch = net_memory(bytes);
    if (!n->scratch)
      return cmd_no_memory();
    if (vram_net_plan(&n->net, &n->banks.o, n->scratch, bytes, &e))
      return e.code == VRAM_ERR_LIMIT ? net_banks_too_large(&n->banks, &n->net, n->path, &e)
                                      : net_error(n, &e);
  }
  return FITS;
}

/* ---- output ---- */

/* A row of the table: width of names, name, op, then 10 numbers. */
#define NET_HEAD "%-*s %-21s %5s %5s %5s %9s %12s %9s %9s %9s %9s %9s\n"
#define NET_ROW                                                                                    \
  "%-*s %-21s %5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %9" PRIu64 " %12" PRIu64 " %9" PRIu64         \
  " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n"

/* Columns for the longest name of a line. */
static int net_name_width(const vram_net *net) {
  size_t most = 16;
  uint32_t i;
  for (i = 0; i + 1 < net->nline; i++) /* END has none */
    if (strlen(net->line[i].y) > most)
      most = strlen(net->line[i].y);
  return (int)most;
}

/* `name (OP)` */
static const char *net_line_name(const vram_net_line *l, char *to, size_t cap) {
  snprintf(to, cap, "%s (%s)", l->y, vram_line_name(l->kind));
  return to;
}

static uint64_t net_sram(const net_job *n) {
  uint64_t bytes = n->net.arena.height_bytes;
  uint32_t i;
  for (i = 1; i < n->banks.o.nbank; i++)
    bytes += n->net.arena.bank_bytes[i];
  return bytes + n->net.state_bytes;
}

/* Bytes that an inference reads and writes in bank k. */
static uint64_t net_accesses(const vram_net *net, uint32_t k) {
  uint64_t sum = 0;
  uint32_t i;
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *const l = net->line + i;
    if (l->owner == i && l->bank == k)
      sum += l->accesses;
    if (l->scratch_buffer != VRAM_NO_BUFFER && l->scratch_bank == k)
      sum += 2 * l->scratch_bytes;
  }
  return sum;
}

/* Where each buffer lies, and what is read and written in each memory. */
static void net_banks_text(const net_job *n) {
  const vram_net *const net = &n->net;
  const int width = net_name_width(net);
  uint32_t i;
  printf("\n%s%-*s %12s %9s %9s %12s%s\n", cmd_bold, width, "buffer", "bank", "offset", "bytes",
         "accesses", cmd_plain);
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *const l = net->line + i;
    if (l->owner == i && l->accesses)
      printf("%-*s %12s %9" PRIu64 " %9" PRIu64 " %12" PRIu64 "\n", width, l->y,
             n->banks.name[l->bank], l->offset, net->buffer[l->buffer].bytes, l->accesses);
    if (l->scratch_buffer != VRAM_NO_BUFFER)
      printf("%-*s %12s %9" PRIu64 " %9" PRIu64 " %12" PRIu64 "\n", width, "  its scratch",
             n->banks.name[l->scratch_bank], l->scratch_offset, l->scratch_bytes,
             2 * l->scratch_bytes);
  }
  printf("\n");
  for (i = 0; i < n->banks.o.nbank; i++) {
    printf("%-16s %12" PRIu64, n->banks.name[i], net->arena.bank_bytes[i]);
    if (n->banks.o.capacity[i])
      printf(" of %" PRIu64, n->banks.o.capacity[i]);
    printf(" bytes, %" PRIu64 " bytes read and written by an inference\n", net_accesses(net, i));
  }
  printf("%-16s %s\n", "",
         net->arena.proven ? "no other choice has more of them in the faster ones"
                           : "the search ended before it was done");
}

static int net_fits(const net_job *n) {
  return (!n->has_flash || n->net.flash_bytes <= n->flash) &&
         (!n->has_sram || net_sram(n) <= n->sram);
}

/* What of a budget is left, or where it ends. */
static void net_budget(const net_job *n, const char *what, uint64_t bytes, uint64_t budget) {
  const vram_net_line *l = n->net.line;
  char name[VRAM_MAX_NAME + 32];
  if (bytes <= budget) {
    printf("%-16s %12" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " left\n", what, bytes, budget,
           budget - bytes);
    return;
  }
  printf("%-16s %12" PRIu64 " of %" PRIu64 " bytes: does not fit by %" PRIu64 ", ", what, bytes,
         budget, bytes - budget);
  if (*what == 'f') {
    while (l->total_flash_bytes <= budget)
      l++;
    printf("the first too many is %s: %" PRIu64 " with it\n", net_line_name(l, name, sizeof name),
           l->total_flash_bytes);
  } else {
    l += n->net.peak_line;
    printf("the most is alive in %s: %" PRIu64 "\n", net_line_name(l, name, sizeof name),
           l->live_bytes);
  }
}

static void net_text(const net_job *n) {
  const vram_net *net = &n->net;
  const vram_net_line *l = net->line;
  const int width = net_name_width(net);
  char name[VRAM_MAX_NAME + 32];
  uint32_t i;
  printf("%s%s%s  %s  batch %" PRIu64 "  buffers aligned to %" PRIu64 "  kernels %s\n\n", cmd_bold,
         net->name, cmd_plain, vram_format_name(l->format), l->n, net->align,
         vram_kernels_name(net->kernels));
  printf("%s" NET_HEAD "%s", cmd_bold, width, "line", "op", "h", "w", "c", "params", "MACs",
         "weights", "flash", "output", "scratch", "live", cmd_plain);
  for (i = 0; i + 1 < net->nline; i++, l++)
    printf(NET_ROW, width, l->y, vram_line_name(l->kind), l->height, l->width, l->channels,
           l->params, l->macs, l->weight_bytes, l->flash_bytes, l->out_bytes, l->scratch_bytes,
           l->live_bytes);
  printf("\n%-16s %12" PRIu64 "\n", "parameters", net->params);
  printf("%-16s %12" PRIu64 "\n", "MACs", net->macs);
  printf("%-16s %12" PRIu64 " bytes\n", "weights", net->weight_bytes);
  printf("%-16s %12" PRIu64 " bytes, each array aligned\n", "flash", net->flash_bytes);
  printf("%-16s %12" PRIu64 " bytes, from one inference to the next\n", "state", net->state_bytes);
  printf("%-16s %12" PRIu64 " bytes alive in %s: no arena is smaller\n", "lower bound",
         net->peak_live_bytes, net_line_name(net->line + net->peak_line, name, sizeof name));
  printf("%-16s %12" PRIu64 " bytes, planned%s\n", "arena", n->one_bytes,
         n->is_least ? ", no plan is smaller" : "");
  if (n->tflm.count) {
    const uint64_t *const tail = n->tflm.tail_bytes, *const arena = n->tflm.arena_bytes;
    printf("%-16s %12" PRIu64 " bytes on 32 bits, of which %" PRIu64 " planned, %" PRIu64 " kept\n",
           "TFLM's arena", arena[0], n->tflm.head_bytes, tail[0]);
    printf("%-16s %12" PRIu64 " bytes on Arm with short enums, %" PRIu64 " on 64 bits\n", "",
           arena[VRAM_TFLM_32_ARM], arena[VRAM_TFLM_64]);
  } else
    printf("%-16s %12" PRIu64 " bytes, the same buffers placed as TensorFlow Lite Micro does\n",
           "TFLM's arena", n->tflm_bytes);
  printf("%-16s %12" PRIu64 " bytes in two buffers and a third for kept values\n", "ping-pong",
         net->pingpong_bytes);
  printf("%-16s %12" PRIu64 " bytes, arena and state\n", "SRAM", net_sram(n));
  if (n->banks.o.nbank > 1)
    net_banks_text(n);
  if (n->roms.o.nbank)
    net_roms_text(&n->roms);
  if (n->has_flash || n->has_sram)
    printf("\n");
  if (n->has_flash)
    net_budget(n, "flash", net->flash_bytes, n->flash);
  if (n->has_sram)
    net_budget(n, "SRAM", net_sram(n), n->sram);
}

/* What stands in JSON and CSV for every line. */
#define NET_FIELDS(X)                                                                              \
  X(height)                                                                                        \
  X(width)                                                                                         \
  X(channels)                                                                                      \
  X(out_bytes)                                                                                     \
  X(params)                                                                                        \
  X(macs)                                                                                          \
  X(weight_bytes)                                                                                  \
  X(flash_bytes)                                                                                   \
  X(state_bytes)                                                                                   \
  X(scratch_bytes)                                                                                 \
  X(live_bytes)                                                                                    \
  X(total_params)                                                                                  \
  X(total_macs)                                                                                    \
  X(total_weight_bytes)                                                                            \
  X(total_flash_bytes)                                                                             \
  X(total_state_bytes)                                                                             \
  X(peak_live_bytes)                                                                               \
  X(pingpong_bytes)                                                                                \
  X(offset)

static void net_csv(const vram_net *net) {
  uint32_t i;
#define X(field) "," #field
  printf("line,op" NET_FIELDS(X) "\n");
#undef X
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    printf("%s,%s", l->y, vram_line_name(l->kind));
#define X(field) printf(",%" PRIu64, l->field);
    NET_FIELDS(X)
#undef X
    printf("\n");
  }
}

static void net_json(const net_job *n) {
  const vram_net *net = &n->net;
  uint32_t i;
  printf("{\"net\":");
  cmd_json_text(stdout, net->name);
  printf(",\"format\":\"%s\",\"batch\":%" PRIu64 ",\"align\":%" PRIu64 ",\"kernels\":\"%s\"",
         vram_format_name(net->line->format), net->line->n, net->align,
         vram_kernels_name(net->kernels));
  printf(",\"lines\":[");
  for (i = 0; i + 1 < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    printf("%s{\"line\":\"%s\",\"op\":\"%s\"", i ? "," : "", l->y, vram_line_name(l->kind));
#define X(field) printf(",\"" #field "\":%" PRIu64, l->field);
    NET_FIELDS(X)
#undef X
    if (n->banks.o.nbank > 1)
      printf(",\"bank\":\"%s\"", n->banks.name[l->bank]);
    printf("}");
  }
  printf("],\"params\":%" PRIu64 ",\"macs\":%" PRIu64 ",\"weight_bytes\":%" PRIu64
         ",\"flash_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64 ",\"peak_live_bytes\":%" PRIu64
         ",\"peak_line\":\"%s\",\"pingpong_bytes\":%" PRIu64 ",\"arena_bytes\":%" PRIu64
         ",\"arena_proven\":%s,\"tflm_arena_bytes\":%" PRIu64 ",\"sram_bytes\":%" PRIu64,
         net->params, net->macs, net->weight_bytes, net->flash_bytes, net->state_bytes,
         net->peak_live_bytes, net->line[net->peak_line].y, net->pingpong_bytes, n->one_bytes,
         n->is_least ? "true" : "false", n->tflm_bytes, net_sram(n));
  if (n->banks.o.nbank > 1) {
    printf(",\"banks\":[");
    for (i = 0; i < n->banks.o.nbank; i++)
      printf("%s{\"name\":\"%s\",\"capacity_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64
             ",\"accesses\":%" PRIu64 "}",
             i ? "," : "", n->banks.name[i], n->banks.o.capacity[i], net->arena.bank_bytes[i],
             net_accesses(net, i));
    printf("],\"banks_proven\":%s", net->arena.proven ? "true" : "false");
  }
  if (n->roms.o.nbank)
    net_roms_json(&n->roms);
  if (n->tflm.count) {
    printf(",\"tflm\":{\"head_bytes\":%" PRIu64, n->tflm.head_bytes);
    for (i = 0; i < n->tflm.count; i++)
      printf(",\"%s\":{\"arena_bytes\":%" PRIu64 ",\"tail_bytes\":%" PRIu64 "}",
             vram_tflm_target_name(i), n->tflm.arena_bytes[i], n->tflm.tail_bytes[i]);
    printf("}");
  }
  if (n->has_flash)
    printf(",\"flash_budget_bytes\":%" PRIu64, n->flash);
  if (n->has_sram)
    printf(",\"sram_budget_bytes\":%" PRIu64, n->sram);
  if (n->has_flash || n->has_sram)
    printf(",\"fits\":%s", net_fits(n) ? "true" : "false");
  printf("}\n");
}

/* The arena as a picture: lines across, offsets up. */
static int net_svg(const net_job *n) {
  const vram_net *net = &n->net;
  arena_set s;
  cmd_output out;
  char name[VRAM_MAX_NAME + 16];
  uint32_t i, k;
  int status = cmd_output_open(&out, n->svg);
  if (status)
    return status;
  memset(&s, 0, sizeof s);
  s.path = net->name;
  for (k = 0; k < net->nbuffer && !status; k++) {
    const vram_net_line *l = net->line;
    vram_buffer *b;
    for (i = 0; l->buffer != k && l->scratch_buffer != k; i++)
      l = net->line + i;
    snprintf(name, sizeof name, "%s%s", l->y, l->buffer == k ? "" : " scratch");
    b = arena_set_add(&s, name, strlen(name));
    if (b)
      *b = net->buffer[k];
    else
      status = cmd_no_memory();
  }
  if (!status)
    arena_picture(out.file, &s, &net->arena, 1);
  arena_set_end(&s);
  return cmd_output_commit(&out, status);
}

/* Its planner has been at work already: what is for ours is refused. */
static int net_executorch(const net_job *n) {
  if (n->wants_tflm || n->has_format || n->has_kernels || n->align || n->name || n->svg ||
      n->banks.o.nbank || n->roms.o.nbank || n->j.ndims)
    return cmd_bad("a program of ExecuTorch takes --flash, --sram, --json and --csv alone", NULL,
                   NULL);
  return executorch_report(n->path, &n->j, n->has_flash ? &n->flash : NULL,
                           n->has_sram ? &n->sram : NULL);
}

/* Are the arrays of a .tflite file those that the lines count? */
static int net_is_own_format(const net_job *n) {
  vram_net_format own = n->net.line->format;
  return model_sniff(n->path) == VRAM_FILE_TFLITE &&
         (!n->has_format || (!tflite_format(n->path, &own) && own == n->format));
}

int net_command(int argc, char **argv) {
  net_job n;
  char *text = NULL;
  size_t len = 0;
  int status;
  memset(&n, 0, sizeof n);
  n.j.command = "estimate";
  status = net_arguments(&n, argc, argv);
  if (status || !n.path)
    return status;
  n.j.model = n.path;
  if (executorch_is(n.path))
    return net_executorch(&n);
  if (n.wants_tflm && (n.banks.o.nbank || n.roms.o.nbank))
    return cmd_bad("TensorFlow Lite Micro has one arena: not with --tflm",
                   n.banks.o.nbank ? "--bank" : "--rom", NULL);
  if (n.wants_tflm)
    return tflm_report(n.path, &n.j, &n.tflm_options);
  status = model_read(n.path, &n.j, &text, &len);
  if (!status && net_is_lines(n.path, text, len)) {
    status = net_lines(&n, text, len);
    free(text);
  } else if (!status)
    status = net_model(&n, text, len);
  if (!status)
    status = net_plan(&n);
  if (!status && n.roms.o.nbank)
    status = net_roms_place(&n.roms, &n.banks, &n.net, n.path, net_is_own_format(&n));
  if (!status)
    status = tflm_find(n.path, &n.tflm_options, &n.tflm);
  if (!status) {
    if (n.j.json)
      net_json(&n);
    else if (n.j.csv)
      net_csv(&n.net);
    else
      net_text(&n);
    if (n.svg)
      status = net_svg(&n);
    status = status ? status : net_fits(&n) ? FITS : TOO_LARGE;
  }
  net_roms_end(&n.roms);
  free(n.scratch);
  free(n.memory);
  model_unload(&n.l);
  return status;
}
