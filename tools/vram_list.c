/* vram list: what the library knows. */
#include "vram_job.h"

cmd_text help_list = {
    "vram list models|ops|lines|dtypes|optimizers|gpus|rules\n"
    "\n"
    "  --json                ops: one JSON array on standard output, nothing else\n"
    "\n"
    "lines: of a network for a microcontroller, VRAM_NET_CONV2D and the like, with\n"
    "their arguments and the words for formats and paddings\n",
    NULL};

static void print_id(int id, int width) {
  if (id < 0)
    printf(" %*s", width, "-");
  else
    printf(" %*d", width, id);
}

/* How many parameters a text has; not FITS: message printed. */
static int parameters(const char *text, size_t len, uint64_t *to) {
  const uint64_t need = vram_graph_parse_bytes(text, len, NULL, 0);
  void *mem = need ? malloc((size_t)need) : NULL;
  const vram_param *p;
  vram_graph g;
  *to = 0;
  if (!mem)
    return cmd_no_memory();
  vram_graph_init(&g, mem, need);
  if (!vram_graph_parse(&g, text, len, NULL, 0, NULL))
    for (p = g.param_first; p; p = p->next)
      *to += p->kind < 2 ? p->d->numel : 0;
  free(mem);
  return FITS;
}

/* name, parameters, what it is: the comment on the text's first line */
static int list_models(void) {
  const char *name;
  uint32_t i;
  printf("%s%-24s %10s  %s%s\n", cmd_bold, "model", "parameters", "what it is", cmd_plain);
  for (i = 0; (name = cmd_name_at("models", i)) != NULL; i++) {
    const char *comment = *cmd_built_in(name) + 2;
    char *text = NULL, count[32];
    uint64_t n = 0;
    size_t len = 0;
    int status = model_read(name, NULL, &text, &len);
    if (!status)
      status = parameters(text, len, &n);
    free(text);
    if (status)
      return status;
    printf("%-24s %10s  %.*s\n", name, cmd_count_text(n, count, sizeof count),
           (int)strcspn(comment, "\n"), comment);
  }
  return FITS;
}

static int list_ops(void) {
  int i;
  printf("%s%-30s %-8s %-10s %s%s\n", cmd_bold, "op", "inputs", "autocast", "keys (! required)",
         cmd_plain);
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
      printf("%s    %s%s\n", cmd_dim, info.recipe, cmd_plain);
  }
  return FITS;
}

/* The keys of an op, as the row has them: name, kind, and whether it must be there. */
static void print_keys(const char *keys) {
  static const struct {
    const char *name, *kind;
  } table[] = {
#define X(name, kind) {#name, #kind},
      VRAM_KEYS(X)
#undef X
  };
  size_t n, i;
  printf("[");
  for (; *keys; keys += n + strspn(keys + n, "! ")) {
    n = strcspn(keys, "! ");
    for (i = 0; strlen(table[i].name) != n || memcmp(table[i].name, keys, n) != 0;)
      i++;
    printf("{\"name\":\"%s\",\"kind\":\"%s\",\"required\":%s}%s", table[i].name, table[i].kind,
           keys[n] == '!' ? "true" : "false", keys[n + strspn(keys + n, "! ")] ? "," : "");
  }
  printf("]");
}

static int list_ops_json(void) {
  int i;
  for (i = 0; i < VRAM_OP_COUNT; i++) {
    vram_op_info info;
    vram_op_get_info((vram_op)i, &info);
    printf("%s{\"name\":\"%s\",\"least\":%u,\"most\":%u,\"autocast\":\"%s\",\"keys\":",
           i ? ",\n" : "[", info.name, info.least, info.most, info.autocast);
    print_keys(info.keys);
    printf(",\"torch\":");
    cmd_json_text(stdout, info.torch);
    printf(",\"recipe\":");
    cmd_json_text(stdout, info.recipe);
    printf("}");
  }
  printf("]\n");
  return FITS;
}

static int list_dtypes(void) {
  const vram_dtype_info *d;
  int i;
  printf("%s%-12s %10s %10s  %-22s %-14s %5s %6s %5s%s\n", cmd_bold, "dtype", "elements", "bytes",
         "torch", "safetensors", "onnx", "tflite", "ggml", cmd_plain);
  for (i = 1; (d = vram_dtype_get_info((vram_dtype)i)) != NULL; i++) {
    printf("%-12s %10u %10u  %-22s %-14s", d->name, d->block_elements, d->block_bytes,
           d->torch_name ? d->torch_name : "-", d->safetensors_name ? d->safetensors_name : "-");
    print_id(d->onnx_id, 5);
    print_id(d->tflite_id, 6);
    print_id(d->ggml_id, 5);
    printf("\n");
  }
  return FITS;
}

static int list_optimizers(void) {
  vram_optimizer_info o;
  uint32_t i;
  printf("%s%-26s %-36s %s%s\n", cmd_bold, "optimizer", "state", "runs as (the first: default)",
         cmd_plain);
  for (i = 0; vram_optimizer_get_info(i, &o); i++)
    printf("%-26s %-36s %s\n", o.name, o.state, o.implementations);
  return FITS;
}

static int list_gpus(void) {
  const vram_gpu *g;
  uint32_t i;
  printf("%s%-12s %5s %5s %7s %9s %9s %-9s %s%s\n", cmd_bold, "gpu", "cc", "SMs", "sold", "usable",
         "context", "copies", "source of the usable memory", cmd_plain);
  for (i = 0; (g = vram_gpu_at(i)) != NULL; i++) {
    vram_step_options o;
    memset(&o, 0, sizeof o);
    o.cc = g->cc;
    o.sm = g->sm;
    printf("%-12s %3u.%u %5u %4u GB %9s ", g->name, g->cc / 10, g->cc % 10, g->sm, g->sold_gb,
           cmd_human(g->bytes));
    printf("%9s %-9s %s\n", cmd_human(vram_context_bytes(&o, 0).expected),
           g->cc < 70   ? "-"
           : g->cc < 80 ? "f16"
                        : "f16 tf32",
           g->source);
  }
  return FITS;
}

static int list_rules(void) {
  uint32_t i;
  printf("%s%-12s %s%s\n", cmd_bold, "rules", "whose memory", cmd_plain);
  for (i = 0; i < VRAM_RULES_COUNT; i++) {
    const char *name = vram_rules_name((vram_rules)i);
    if (i == VRAM_RULES_TORCH)
      printf("%-12s the newest: %s\n", name, vram_rules_name(VRAM_RULES_NEWEST));
    else if (i == VRAM_RULES_IDEAL)
      printf("%-12s only what the formulas need\n", name);
    else
      printf("%-12s PyTorch %s\n", name, strchr(name, '-') + 1);
  }
  printf("%-12s llama.cpp %s, of GGUF files\n", "llama.cpp", VRAM_LLAMA_RULES);
  return FITS;
}

static void print_words(const char *what, const char *(*name)(uint32_t), uint32_t count) {
  uint32_t i;
  printf("%-9s", what);
  for (i = 0; i < count; i++)
    printf(" %s%s", name(i), strncmp(name(i), "PAD", 3) ? "" : "(h, w)");
  printf("\n");
}

/* Every VRAM_NET_ line as it is written, and where its value is. */
static int list_lines(void) {
  static const char *const where[] = {
#define NEW "new"
#define OVER "over x"
#define VIEW "x"
#define X(id, place, args) place,
      VRAM_NET_LINES(X)
#undef X
#undef VIEW
#undef OVER
#undef NEW
  };
  uint32_t i;
  printf("%s%-9s line%s\n", cmd_bold, "value", cmd_plain);
  for (i = 0; i < VRAM_LINE_COUNT; i++) {
    const char *c = vram_line_args(i);
    printf("%-9s VRAM_NET_%s(net, ", i == VRAM_LINE_FROM ? "kept" : where[i], vram_line_name(i));
    for (; *c; c++)
      printf(*c == ' ' ? ",%c" : "%c", *c);
    printf(");\n");
  }
  printf("\n");
  print_words("format", vram_format_name, VRAM_FORMAT_COUNT);
  print_words("padding", vram_padding_name, VRAM_PADDING_COUNT);
  print_words("kernels", vram_kernels_name, VRAM_KERNELS_COUNT);
  return FITS;
}

int list_command(int argc, char **argv) {
  static const struct {
    const char *name;
    int (*list)(void);
  } known[] = {{"models", list_models},
               {"ops", list_ops},
               {"lines", list_lines},
               {"dtypes", list_dtypes},
               {"optimizers", list_optimizers},
               {"gpus", list_gpus},
               {"rules", list_rules}};
  const int json = argc == 2 && !strcmp(argv[0], "ops") && !strcmp(argv[1], "--json");
  const char *what = argc == 1 ? argv[0] : NULL, *best;
  char expected[96];
  size_t k;
  int i;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_list, stdout), FITS;
  if (json)
    return list_ops_json();
  for (k = 0; what && k < sizeof known / sizeof *known; k++)
    if (!strcmp(what, known[k].name))
      return known[k].list();
  for (i = 0; argc == 2 && i < 2; i++)
    if (*argv[i] == '-' && strcmp(argv[i], "--json") != 0)
      return cmd_unknown_option(argv[i], "list", NULL, ""), USAGE;
  best = !what          ? NULL
         : *what == '-' ? "vram list -h"
                        : cmd_nearest_of("models ops lines dtypes optimizers gpus rules", what);
  snprintf(expected, sizeof expected, "%s%s",
           best ? best : "models, ops, lines, dtypes, optimizers, gpus or rules",
           best && *what != '-' ? "? vram list -h" : "");
  return cmd_bad(what   ? "nothing to list called"
                 : argc ? "one thing to list at a time"
                        : "what to list",
                 what, expected);
}
