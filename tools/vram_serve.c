/* vram estimate --engine: blocks, tokens and concurrency of a serving engine. */
#include "vram_serve.h"

/* ---- options -------------------------------------------------------------------------------- */

/* A number at *s, and behind it; 0: there is none. */
static int number_at(const char **s, uint64_t most, uint64_t *to) {
  const char *at = *s;
  uint64_t n = 0;
  for (; *at >= '0' && *at <= '9'; at++) {
    if (n > (most - (uint64_t)(*at - '0')) / 10)
      return 0;
    n = 10 * n + (uint64_t)(*at - '0');
  }
  if (at == *s)
    return 0;
  *s = at;
  *to = n;
  return 1;
}

/* 12288bf16+524288f32 */
static int states_at(const char **s, vram_kv_layer *l) {
  do {
    size_t n;
    if (l->nstate == VRAM_KV_MAX_STATES ||
        !number_at(s, UINT64_C(1) << 48, &l->state_elements[l->nstate]))
      return 0;
    n = strcspn(*s, "+,");
    l->state[l->nstate] = n ? vram_dtype_from_name_n(*s, n) : VRAM_F32;
    if (l->state[l->nstate++] == VRAM_DTYPE_NONE)
      return 0;
    *s += n;
  } while (*(*s)++ == '+');
  (*s)--;
  return 1;
}

/* One row: full:32x8x128 */
static int row_at(const char **s, vram_kv_layer *l) {
  static const struct {
    const char *name;
    vram_kv_kind kind;
    int least, most; /* numbers */
  } kinds[] = {{"full:", VRAM_KV_FULL, 3, 4},
               {"sliding:", VRAM_KV_SLIDING, 3, 4},
               {"chunked:", VRAM_KV_CHUNKED, 3, 4},
               {"latent:", VRAM_KV_LATENT, 2, 2},
               {"state:", VRAM_KV_STATE, 1, 1}};
  uint64_t v[4] = {0, 0, 0, 0};
  size_t k = 0;
  int n = 0;
  while (k < sizeof kinds / sizeof *kinds && strncmp(*s, kinds[k].name, strlen(kinds[k].name)))
    k++;
  if (k == sizeof kinds / sizeof *kinds)
    return 0;
  memset(l, 0, sizeof *l);
  l->kind = kinds[k].kind;
  *s += strlen(kinds[k].name);
  do {
    if (n == kinds[k].most || !number_at(s, 1u << 24, &v[n++]))
      return 0;
    if (l->kind == VRAM_KV_STATE && **s == 'x') {
      ++*s;
      l->count = (uint32_t)v[0];
      return states_at(s, l);
    }
  } while (**s == 'x' && ++*s);
  if (n < kinds[k].least || l->kind == VRAM_KV_STATE)
    return 0;
  l->count = (uint32_t)v[0];
  l->heads = l->kind == VRAM_KV_LATENT ? 1 : (uint32_t)v[1];
  l->k_dim = (uint32_t)v[l->kind == VRAM_KV_LATENT ? 1 : 2];
  l->v_dim = (uint32_t)(n == 4 ? v[3] : l->kind == VRAM_KV_LATENT ? 0 : v[2]);
  l->k = l->v = VRAM_BF16;
  if (l->kind == VRAM_KV_SLIDING || l->kind == VRAM_KV_CHUNKED)
    return *(*s)++ == '@' && number_at(s, UINT64_C(1) << 40, &l->window);
  return 1;
}

static int set_rows(serve *v, const char *text) {
  const char *s = text;
  v->model.kv.nlayer = 0;
  do {
    if (v->model.kv.nlayer == SERVE_ROWS || !row_at(&s, &v->model.layer[v->model.kv.nlayer++]))
      return cmd_bad("no rows of layers:", text, "full:32x8x128 or vram estimate -h"), 0;
  } while (*s == ',' && *++s);
  if (*s)
    return cmd_bad("no rows of layers:", s, "a comma or the end"), 0;
  v->rows = 1;
  return 1;
}

static int set_share(serve *v, const char *text) {
  char *end;
  const double x = strtod(text, &end);
  if (end == text || *end || !(x > 0 && x <= 1))
    return cmd_bad("no share of a device:", text, "above 0, at most 1"), 0;
  v->o.utilization = x;
  return 1;
}

static int set_number(const char *name, const char *text, int64_t most, int64_t *to) {
  if (cmd_parse_count(text, 1, most, to))
    return 1;
  return cmd_bad(name, text, "a whole number from 1 on"), 0;
}

/* Options with a number; 1: it was one, 0: it is none, -1: error printed. */
static int number_option(serve *v, const char *a, const char *text) {
  vram_serve_options *o = &v->o;
  static const char *const names[] = {
      "--max-model-len", "--max-num-batched-tokens", "--max-num-seqs", "--tp",
      "--block-size",    "--num-speculative-tokens", "--hidden",       "--intermediate",
      "--vocab"};
  int64_t n = 0;
  size_t i = 0;
  while (i < sizeof names / sizeof *names && strcmp(a, names[i]))
    i++;
  if (i == sizeof names / sizeof *names)
    return 0;
  if (!set_number(a, text, i < 3 ? INT64_C(1) << 31 : i < 6 ? 65536 : 1 << 28, &n))
    return -1;
  switch (i) {
  case 0:
    o->max_model_len = (uint64_t)n;
    break;
  case 1:
    o->batched_tokens = (uint64_t)n;
    break;
  case 2:
    o->sequences = (uint64_t)n;
    break;
  case 3:
    o->tp = (uint32_t)n;
    break;
  case 4:
    o->block = (uint32_t)n;
    break;
  case 5:
    o->draft = (uint32_t)n;
    break;
  case 6:
    o->hidden = (uint32_t)n;
    break;
  case 7:
    o->intermediate = (uint32_t)n;
    break;
  default:
    o->vocab = (uint32_t)n;
  }
  return 1;
}

static int set_gpu(serve *v, const char *text) {
  const vram_gpu *g = cmd_find_gpu(text);
  if (!g)
    return 0;
  v->gpu = g->name;
  v->o.device_bytes = g->bytes;
  v->o.cc = g->cc;
  /* arg_utils.py has smaller batches for the A100 than for other devices of its size */
  v->is_small = !strncmp(g->name, "a100", 4);
  return 1;
}

static int set_size(const char *name, const char *text, uint64_t *to) {
  return cmd_take_size(name, text, to) && (*to || (cmd_bad(name, text, "a size like 24GiB"), 0));
}

/* Options with a value. Returns 1; 0: error printed. */
static int valued_option(serve *v, const char *a, const char *text) {
  const int known = number_option(v, a, text);
  if (known)
    return known > 0;
  if (!strcmp(a, "--engine"))
    return !vram_engine_find(text, &v->o.engine) ||
           (cmd_bad("unknown engine", text, "vllm or sglang"), 0);
  if (!strcmp(a, "--kv"))
    return set_rows(v, text);
  if (!strcmp(a, "--util"))
    return set_share(v, text);
  if (!strcmp(a, "--gpu"))
    return set_gpu(v, text);
  if (!strcmp(a, "--memory"))
    return set_size(a, text, &v->o.device_bytes);
  if (!strcmp(a, "--weights"))
    return set_size(a, text, &v->weights);
  if (!strcmp(a, "--kv-cache-memory"))
    return set_size(a, text, &v->o.kv_bytes);
  if (!strcmp(a, "--kv-cache-dtype")) {
    v->o.cache = cmd_in(text, "fp8 fp8_e4m3 fp8_e5m2") ? VRAM_F8E4M3FN : vram_dtype_from_name(text);
    return v->o.cache != VRAM_DTYPE_NONE || (cmd_bad("unknown dtype", text, "bf16, fp8"), 0);
  }
  if (!strcmp(a, "--solve"))
    v->solve = text;
  else
    v->o.rules = text;
  return 1;
}

/* An option without a value. */
static int plain_option(serve *v, const char *a) {
  const struct {
    const char *name;
    uint8_t *flag;
  } flags[] = {{"--enforce-eager", &v->o.eager},
               {"--disable-hybrid-kv-cache-manager", &v->o.no_hybrid},
               {"--mamba-prefix-caching", &v->o.prefix_states},
               {"--no-enable-prefix-caching", &v->o.no_prefix},
               {"--offline", &v->o.offline}};
  size_t i;
  for (i = 0; i < sizeof flags / sizeof *flags; i++)
    if (!strcmp(a, flags[i].name))
      return *flags[i].flag = 1;
  return 0;
}

/* FITS: go on. */
static int arguments(serve *v, int argc, char **argv) {
  int i;
  for (i = 0; i < argc; i++) {
    const char *a = argv[i];
    if (cmd_in(a, "-h --help")) {
      cmd_help(v->is_fit ? help_fit : help_estimate, stdout);
      v->help = 1;
      return FITS;
    }
    if (!strcmp(a, "--json"))
      v->json = 1;
    else if (plain_option(v, a))
      continue;
    else if (cmd_in(a, "--engine --gpu --rules " SERVE_OPTIONS) ||
             (v->is_fit && !strcmp(a, "--solve"))) {
      if (i + 1 == argc || !strncmp(argv[i + 1], "--", 2))
        return cmd_bad("no value behind", a, NULL);
      if (!valued_option(v, a, argv[++i]))
        return USAGE;
    } else if (*a == '-' || !v->model.name || strcmp(a, v->model.name) != 0) {
      const char *const best = cmd_nearest_of("--engine --gpu --rules --json " SERVE_OPTIONS, a);
      char expected[64];
      snprintf(expected, sizeof expected, "%s%svram estimate -h", best ? best : "",
               best ? "? " : "");
      if (*a != '-')
        return cmd_bad("an engine takes a folder or config.json of a model, not", a,
                       "--kv full:32x8x128, or such a model");
      return cmd_bad("not an option beside --engine:", a, expected);
    }
  }
  if (!v->rows && !v->model.config)
    return cmd_bad("no layers for", "--engine", "--kv full:32x8x128");
  return FITS;
}

/* ---- output --------------------------------------------------------------------------------- */

static const char *const term_names[VRAM_SERVE_TERM_COUNT] = {"activations", "cuda_graphs",
                                                              "cuda_context"};

static const char *const kinds[VRAM_KV_KIND_COUNT] = {"none",    "full",   "sliding",
                                                      "chunked", "latent", "state"};

static void json_result(const char *name, const vram_serve_result *r) {
  printf("\"%s\":{\"kv_cache_bytes\":%" PRIu64 ",\"blocks\":%" PRIu64 ",\"tokens\":%" PRIu64
         ",\"states\":%" PRIu64 ",\"concurrency\":%.2f,\"serves_one\":%s}",
         name, r->kv_bytes, r->blocks, r->tokens, r->states, r->concurrency,
         r->serves_one ? "true" : "false");
}

void serve_json_rules(const serve *v) {
  const vram_serve_report *r = &v->r;
  printf("{\"engine\":\"%s\",\"rules\":\"%s\",\"utilization\":%g,\"device_bytes\":%" PRIu64
         ",\"requested_bytes\":%" PRIu64 ",\"weights_bytes\":%" PRIu64 ",\"tp\":%" PRIu32
         ",\"max_model_len\":%" PRIu64 ",\"max_num_batched_tokens\":%" PRIu64
         ",\"max_num_seqs\":%" PRIu64 ",\"kv_bytes_per_token\":%" PRIu64 ",\"state_bytes\":%" PRIu64
         ",\"block_bytes\":%" PRIu64 ",\"blocks_per_request\":%" PRIu64,
         vram_engine_name(v->o.engine), r->rules, r->utilization, v->o.device_bytes,
         r->requested_bytes, v->o.weights_bytes, v->o.tp ? v->o.tp : 1, v->o.max_model_len,
         r->batched_tokens, r->sequences, v->kv.token_bytes, v->kv.state_bytes, r->block_bytes,
         r->blocks_per_request);
}

static void print_json(const serve *v) {
  const vram_serve_report *r = &v->r;
  uint32_t i;
  serve_json_rules(v);
  printf(",\"groups\":[");
  for (i = 0; i < r->ngroup; i++)
    printf("%s{\"kind\":\"%s\",\"layers\":%" PRIu32 ",\"block_size\":%" PRIu64
           ",\"page_bytes\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"blocks_per_request\":%" PRIu64 "}",
           i ? "," : "", kinds[r->group[i].kind], r->group[i].layers, r->group[i].block,
           r->group[i].page_bytes, r->group[i].bytes, r->group[i].blocks_per_request);
  printf("],\"terms\":{");
  for (i = 0; i < VRAM_SERVE_TERM_COUNT; i++) {
    printf("%s\"%s\":{\"low\":%" PRIu64 ",\"high\":%" PRIu64 ",\"why\":", i ? "," : "",
           term_names[i], r->term[i].low, r->term[i].high);
    cmd_json_text(stdout, r->term[i].why);
    putchar('}');
  }
  printf("},");
  json_result("low", &r->low);
  putchar(',');
  json_result("high", &r->high);
  printf("}\n");
}

static void print_range(const char *name, uint64_t low, uint64_t high, const char *why) {
  if (low == high)
    printf("  %-22s %26s  %s\n", name, cmd_human(low), why);
  else {
    char range[80];
    snprintf(range, sizeof range, "%s to %s", cmd_human(low), cmd_human(high));
    printf("  %-22s %26s  %s%s%s\n", name, range, cmd_dim, why, cmd_plain);
  }
}

static void print_tokens(const vram_serve_result *r, uint64_t len) {
  char blocks[32], tokens[32], of[32];
  printf("  %-22s %s blocks, %s tokens, ", cmd_human(r->kv_bytes), cmd_grouped(r->blocks, blocks),
         cmd_grouped(r->tokens, tokens));
  if (r->states)
    printf("%" PRIu64 " states, ", r->states);
  printf("%.2f requests of %s tokens%s\n", r->concurrency, cmd_grouped(len, of),
         r->serves_one ? "" : ": too few for one");
}

static void print_text(const serve *v) {
  const vram_kv_report *const kv = &v->kv;
  const vram_serve_report *r = &v->r;
  uint32_t i;
  printf("%s%s %s%s%s%s: %g of %s\n", cmd_bold, vram_engine_name(v->o.engine), r->rules, cmd_plain,
         v->gpu ? ", " : "", v->gpu ? v->gpu : "", r->utilization, cmd_human(v->o.device_bytes));
  if (!v->o.kv_bytes) {
    print_range("share", r->requested_bytes, r->requested_bytes, "");
    print_range("weights of a rank", v->o.weights_bytes, v->o.weights_bytes, "");
    print_range("activations", r->term[0].low, r->term[0].high, r->term[0].why);
    print_range("CUDA graphs", r->term[1].low, r->term[1].high, r->term[1].why);
    print_range("CUDA context", r->term[2].low, r->term[2].high, r->term[2].why);
  }
  print_range("a token, all ranks", kv->token_bytes, kv->token_bytes, "");
  if (kv->state_bytes)
    print_range("states of a request", kv->state_bytes, kv->state_bytes, "");
  for (i = 0; i < r->ngroup && i < 8; i++)
    printf("  group %" PRIu32 ": %" PRIu32 " %s, page %s, %" PRIu64 " blocks a request\n", i + 1,
           r->group[i].layers, kinds[r->group[i].kind], cmd_human(r->group[i].page_bytes),
           r->group[i].blocks_per_request);
  if (r->groups > i)
    printf("  and %" PRIu64 " groups more\n", r->groups - i);
  print_range("a block", r->block_bytes, r->block_bytes, "");
  printf("KV cache\n");
  if (r->low.kv_bytes != r->high.kv_bytes)
    print_tokens(&r->low, v->o.max_model_len);
  print_tokens(&r->high, v->o.max_model_len);
}

/* The rows of a config.json, as this engine keeps them. */
static void config_rows(serve *v) {
  const vram_hf_config *const c = v->model.config;
  vram_hf_served s = VRAM_ZERO_INIT;
  s.engine = v->o.engine;
  s.dtype = v->model.served;
  s.tp = v->o.tp;
  s.draft = v->o.draft;
  v->model.kv.nlayer = vram_hf_serve_rows(c, &s, v->model.layer);
  v->o.delta_states = c->state.is_delta;
  v->o.buffered_states = c->state.is_buffered;
  if (v->o.cache == VRAM_DTYPE_NONE)
    v->o.cache = v->model.cache;
}

int serve_run(serve *v) {
  vram_error e;
  vram_kv kv;
  uint32_t i;
  v->o.weights_bytes = v->o.tp ? (v->weights + v->o.tp - 1) / v->o.tp : v->weights;
  if (v->model.config && !v->rows) {
    if (v->o.engine == VRAM_ENGINE_SGLANG && !strcmp(v->model.config->family, "jamba"))
      return cmd_bad("SGLang 0.5.23 has no model of the family", "jamba", NULL);
    config_rows(v);
  }
  for (i = 0; v->o.cache != VRAM_DTYPE_NONE && i < v->model.kv.nlayer; i++)
    v->model.layer[i].k = v->model.layer[i].v = v->o.cache;
  kv = v->model.kv;
  kv.layer = v->model.layer;
  if (vram_kv_bytes(&kv, 0, 1, &v->kv, &e) || vram_serve(&kv, &v->o, &v->r, &e))
    return cmd_bad(e.text, NULL, NULL);
  return FITS;
}

int serve_command(int argc, char **argv, const serve_model *m, int is_fit) {
  static serve v;
  int status;
  memset(&v, 0, sizeof v);
  v.is_fit = is_fit;
  if (m) {
    v.model = *m;
    v.weights = m->weights_bytes;
    v.o.max_model_len = m->max_model_len;
    v.o.hidden = m->hidden;
    v.o.intermediate = m->intermediate;
    v.o.vocab = m->vocab;
    v.o.experts_used = m->experts_used;
  }
  status = arguments(&v, argc, argv);
  if (status || v.help)
    return status;
  if (v.is_small && v.o.engine == VRAM_ENGINE_VLLM) {
    v.o.batched_tokens = v.o.batched_tokens ? v.o.batched_tokens : v.o.offline ? 8192 : 2048;
    v.o.sequences = v.o.sequences ? v.o.sequences : 256;
  }
  if (is_fit)
    return serve_fit(&v);
  status = serve_run(&v);
  if (status)
    return status;
  if (v.json)
    print_json(&v);
  else
    print_text(&v);
  return v.r.low.serves_one ? FITS : TOO_LARGE;
}
