/* vram fit --engine: the longest request, the most of them, or the fewest ranks. */
#include "vram_serve.h"

/* What is looked for. `least` is the smallest value that is tried, and values go up in ones or are
   doubled. */
typedef struct goal {
  const char *name;
  int grows; /* a larger value needs more */
  const char *text;
} goal;

static const goal goals[] = {{"max-model-len", 1, "tokens of a request"},
                             {"max-num-seqs", 1, "requests at once"},
                             {"tp", 0, "ranks"}};

enum { MAX_MODEL_LEN, MAX_NUM_SEQS, TP, GOALS };

/* Does it fit with this value, surely (the lower bound) or perhaps? -1: message printed. */
static int holds(serve *v, int what, uint64_t value, int surely) {
  const vram_serve_result *r = surely ? &v->r.low : &v->r.high;
  if (what == MAX_MODEL_LEN)
    v->o.max_model_len = value;
  else if (what == MAX_NUM_SEQS)
    v->o.sequences = value;
  else
    v->o.tp = (uint32_t)value;
  if (serve_run(v))
    return -1;
  return what == MAX_NUM_SEQS ? r->concurrency >= (double)value : r->serves_one;
}

/* The largest value from 1 to `most` that fits; 0: none. Messages: *failed. */
static uint64_t largest(serve *v, int what, uint64_t most, int surely, int *failed) {
  uint64_t fits = 0, not_yet = most + 1;
  while (not_yet - fits > 1 && !*failed && !cmd_stopped()) {
    const uint64_t middle = fits + (not_yet - fits) / 2;
    const int found = holds(v, what, middle, surely);
    if (found > 0)
      fits = middle;
    else
      not_yet = middle;
    *failed = found < 0;
  }
  return fits;
}

/* The fewest ranks, a power of two that divides the heads of attention; 0: none. */
static uint64_t fewest_ranks(serve *v, int surely, int *failed) {
  const uint64_t heads = v->model.config ? v->model.config->heads : 0;
  uint64_t tp;
  for (tp = 1; tp <= 64 && !*failed && !cmd_stopped(); tp *= 2) {
    const int found = heads && heads % tp ? 0 : holds(v, TP, tp, surely);
    if (found > 0)
      return tp;
    *failed = found < 0;
  }
  return 0;
}

static uint64_t solve(serve *v, int what, int surely, int *failed) {
  const uint64_t most = what == MAX_MODEL_LEN && v->model.max_model_len ? v->model.max_model_len
                        : what == MAX_MODEL_LEN                         ? UINT64_C(1) << 20
                                                                        : 65536;
  return what == TP ? fewest_ranks(v, surely, failed) : largest(v, what, most, surely, failed);
}

static void print_solution(const serve *v, const goal *g, uint64_t fits, uint64_t may) {
  char number[32];
  printf("%s%s %s%s%s%s: %g of %s\n\n", cmd_bold, vram_engine_name(v->o.engine), v->r.rules,
         cmd_plain, v->gpu ? ", " : "", v->gpu ? v->gpu : "", v->r.utilization,
         cmd_human(v->o.device_bytes));
  if (fits)
    printf("fits           %s %s  %s, KV cache %s at least\n", g->name, cmd_grouped(fits, number),
           g->text, cmd_human(v->r.low.kv_bytes));
  else
    printf("fits           no %s%s, KV cache %s at least\n", g->name,
           cmd_stopped() ? " of what was tried" : "", cmd_human(v->r.low.kv_bytes));
  if (may && may != fits)
    printf("may fit        %s %s\n", g->name, cmd_grouped(may, number));
  if (cmd_stopped())
    printf("stopped: others were not tried\n");
}

int serve_fit(serve *v) {
  const char *const name = v->solve ? v->solve : goals[MAX_MODEL_LEN].name;
  int what = 0, failed = 0;
  uint64_t fits, may;
  while (what < GOALS && strcmp(name, goals[what].name))
    what++;
  if (what == GOALS)
    return cmd_bad("nothing to look for is", name, "max-model-len, max-num-seqs or tp");
  if (what != MAX_MODEL_LEN && !v->o.max_model_len)
    return cmd_bad("how long is a request?", NULL, "--max-model-len N");
  if (what == TP && v->o.kv_bytes)
    return cmd_bad("ranks are looked for with a device, not with", "--kv-cache-memory", NULL);
  cmd_progress("vram fit: trying sizes", 0);
  cmd_stoppable();
  may = solve(v, what, 0, &failed);
  fits = failed ? 0 : solve(v, what, 1, &failed);
  if (!failed) /* the report is that of the answer */
    failed = holds(v, what, fits ? fits : may ? may : 1, 1) < 0;
  cmd_progress_end();
  if (failed)
    return USAGE;
  if (v->json) {
    serve_json_rules(v);
    printf(",\"solve\":\"%s\",\"fits\":%" PRIu64 ",\"may_fit\":%" PRIu64
           ",\"kv_cache_bytes\":{\"low\":%" PRIu64 ",\"high\":%" PRIu64 "},\"stopped\":%s}\n",
           name, fits, may, v->r.low.kv_bytes, v->r.high.kv_bytes,
           cmd_stopped() ? "true" : "false");
  } else
    print_solution(v, &goals[what], fits, may);
  return fits ? FITS : cmd_stopped() ? OTHER : TOO_LARGE;
}
