/* vram_solve against trying every value; values that a model does not allow; functions that are not
   monotone; an allocator that fails at every call.
   usage: test_solve TEXT... */
#include "heap.h"
#include "play.h"

#define MOST 96

/* ---- the same by hand ---- */

enum { FITS, LARGE, NOT };

/* What one value takes on the device: FITS: *bytes. */
static int by_hand(const char *text, size_t len, const char *dim, int64_t value,
                   const vram_step_options *o, uint64_t *bytes) {
  vram_dim set;
  vram_graph g;
  vram_report r;
  vram_error e;
  vram_result result;
  void *mem, *scratch;
  uint64_t need;
  int kind = NOT;
  set.name = dim;
  set.value = value;
  need = vram_graph_parse_bytes(text, len, &set, 1);
  mem = malloc((size_t)need);
  vram_graph_init(&g, mem, need);
  if (!vram_graph_parse(&g, text, len, &set, 1, &e)) {
    need = vram_step_bytes(&g, o);
    scratch = malloc((size_t)need);
    result = vram_step(&g, o, scratch, need, &r, &e);
    kind = result == VRAM_OK ? FITS : result == VRAM_ERR_OVERFLOW ? LARGE : NOT;
    if (kind == FITS && o->replay && !r.fits)
      kind = LARGE;
    *bytes = kind == FITS ? r.device_bytes.expected : UINT64_MAX;
    free(scratch);
  }
  free(mem);
  return kind;
}

/* Every budget between the smallest and the largest of the values 1 to MOST. */
static void every_budget(const char *name, const char *text, size_t len, const char *dim,
                         const vram_step_options *step) {
  uint64_t bytes[MOST + 1];
  int kind[MOST + 1], monotone = 1;
  int64_t n, last = 0;
  for (n = 1; n <= MOST; n++) {
    kind[n] = by_hand(text, len, dim, n, step, &bytes[n]);
    if (kind[n] == NOT)
      continue;
    monotone &= !last || bytes[last] <= bytes[n];
    last = n;
  }
  for (n = 1; n <= MOST; n++) {
    vram_solve_options o;
    vram_solution s;
    vram_error e;
    int64_t i, best = 0;
    if (kind[n] != FITS)
      continue;
    snprintf(test_where, sizeof test_where, "%s dim %s, the budget of %ld", name,
             dim ? dim : "(first)", (long)n);
    memset(&o, 0, sizeof o);
    o.budget_bytes = bytes[n] - (n % 3 == 1);
    o.dim = dim;
    o.most = MOST;
    o.step = *step;
    if (!EQUAL(vram_solve(text, len, &o, &heap, &s, &e), VRAM_OK))
      continue;
    EQUAL(heap_live, 0);
    CHECK(s.tried < (s.larger ? 1000 : 64));
    for (i = 1; i <= MOST; i++)
      if (kind[i] == FITS && bytes[i] <= o.budget_bytes)
        best = i;
    /* the answer fits, the next that is allowed does not */
    if (s.fits.value) {
      NEED(s.fits.value <= MOST && kind[s.fits.value] == FITS);
      EQUAL(s.fits.report.device_bytes.expected, bytes[s.fits.value]);
      CHECK(bytes[s.fits.value] <= o.budget_bytes);
    }
    for (i = s.fits.value + 1; i <= MOST && kind[i] == NOT;)
      i++;
    EQUAL(s.next.value, i <= MOST ? i : 0);
    if (i <= MOST)
      CHECK(bytes[i] > o.budget_bytes);
    EQUAL(s.fits.value, best);
    if (monotone)
      EQUAL(s.larger, 0);
    if (s.larger)
      CHECK(s.larger > s.smaller && bytes[s.larger] < bytes[s.smaller]);
    /* the round ones */
    for (i = s.fits.value; i > 0 && (i % 8 || kind[i] != FITS || bytes[i] > o.budget_bytes);)
      i--;
    EQUAL(s.eights.value, i);
    for (i = s.fits.value;
         i > 0 && ((i & (i - 1)) || kind[i] != FITS || bytes[i] > o.budget_bytes);)
      i--;
    EQUAL(s.power.value, i);
    if (s.power.value)
      EQUAL(s.power.report.device_bytes.expected, bytes[s.power.value]);
  }
  *test_where = 0;
}

/* With a replay a size fits if the whole run finds its memory within the budget, which depends on
   how blocks lie in segments: the largest of 1 to MOST, each tried. */
static void replayed_budgets(const char *name, const char *text, size_t len, const char *dim,
                             const vram_step_options *step) {
  uint64_t bytes[MOST + 1], any;
  vram_pool_options pool;
  vram_step_options plain = *step;
  int64_t n;
  memset(&pool, 0, sizeof pool);
  plain.context_bytes = VRAM_NO_CONTEXT;
  for (n = 1; n <= MOST; n++)
    if (by_hand(text, len, dim, n, &plain, &bytes[n]) != FITS)
      bytes[n] = 0;
  for (n = 1; n <= MOST; n += 7) {
    vram_solve_options o;
    vram_solution s;
    vram_error e;
    int64_t i, best = 0, next = 0;
    if (!bytes[n])
      continue;
    snprintf(test_where, sizeof test_where, "%s dim %s, replayed in the budget of %ld", name,
             dim ? dim : "(first)", (long)n);
    memset(&o, 0, sizeof o);
    o.budget_bytes = bytes[n] - bytes[n] / 64 * (uint64_t)(n % 5);
    o.dim = dim;
    o.most = MOST;
    o.step = plain;
    o.step.replay = &pool;
    plain.replay = &pool;
    plain.budget_bytes = o.budget_bytes;
    for (i = 1; i <= MOST; i++)
      if (by_hand(text, len, dim, i, &plain, &any) == FITS)
        best = i;
    plain.replay = NULL;
    if (!EQUAL(vram_solve(text, len, &o, &heap, &s, &e), VRAM_OK))
      continue;
    EQUAL(s.fits.value, best);
    for (i = best + 1; i <= MOST && !next; i++)
      next = bytes[i] ? i : 0;
    EQUAL(s.next.value, next);
    if (best)
      CHECK(s.fits.report.replayed && s.fits.report.fits);
    if (next)
      CHECK(s.next.report.replayed && !s.next.report.fits);
  }
  *test_where = 0;
}

static void every_number_of_segments(const char *name, const char *text, size_t len) {
  uint64_t bytes[MOST + 1], need, fewest = UINT64_MAX;
  vram_result result[MOST + 1];
  vram_graph g;
  vram_report r;
  vram_error e;
  void *mem, *scratch;
  int64_t k, count = 0, n;
  vram_step_options step;
  memset(&step, 0, sizeof step);
  step.train = 1;
  need = vram_graph_parse_bytes(text, len, NULL, 0);
  mem = malloc((size_t)need);
  vram_graph_init(&g, mem, need);
  if (!NEED(!vram_graph_parse(&g, text, len, NULL, 0, &e)))
    return;
  for (k = 1; k <= MOST; k++) {
    step.checkpoint_segments = (uint32_t)k;
    need = vram_step_bytes(&g, &step);
    scratch = malloc((size_t)need);
    result[k] = vram_step(&g, &step, scratch, need, &r, &e);
    bytes[k] = result[k] ? UINT64_MAX : r.device_bytes.expected;
    free(scratch);
    if (result[k] && result[k] != VRAM_ERR_UNSUPPORTED)
      break;
    count = k;
    if (bytes[k] < fewest)
      fewest = bytes[k];
  }
  free(mem);
  for (n = 1; n <= count; n++) {
    vram_solve_options o;
    vram_solution s;
    int64_t best = 0, before = 0;
    if (result[n])
      continue;
    snprintf(test_where, sizeof test_where, "%s, the budget of %ld segments", name, (long)n);
    memset(&o, 0, sizeof o);
    o.budget_bytes = bytes[n] - (n % 3 == 1);
    o.segments = 1;
    o.most = MOST;
    o.step = step;
    if (!EQUAL(vram_solve(text, len, &o, &heap, &s, &e), VRAM_OK))
      continue;
    for (k = 1; k <= count && !best; k++)
      if (bytes[k] <= o.budget_bytes)
        best = k;
      else if (!result[k])
        before = k;
    EQUAL(s.fits.value, best);
    if (best)
      EQUAL(s.next.value, before);
    EQUAL(s.least.report.device_bytes.expected, fewest);
  }
  *test_where = 0;
}

/* ---- texts ---- */

static const char mlp[] = "dim N=4 D=8 L=3\n"
                          "input x f32 [N,D]\n"
                          "loop L h=x\n"
                          "linear y h out_features=D*1000\n"
                          "relu r y inplace=1\n"
                          "linear z r out_features=D\n"
                          "next h=z\n"
                          "mean loss h\n";
/* only multiples of 12 are allowed for D, only those of 4 for S */
static const char heads[] = "dim N=2 S=16 D=24\n"
                            "input x f32 [N,S*64,D]\n"
                            "linear q x out_features=D*100\n"
                            "reshape a q shape=[N,S/4,256,D*100]\n"
                            "reshape b a shape=[N,S*64,12,D/12*100]\n"
                            "mean loss b\n";
/* powers of two from 8: the distance grows */
static const char powers[] = "dim N=16\n"
                             "input x f32 [N,100000]\n"
                             "reshape y x shape=[64/N,N*N/64*100000]\n"
                             "relu z y\n"
                             "mean loss z\n";
/* divisors of 720; fewest bytes in the middle */
static const char divisors[] = "dim N=24\n"
                               "input x f32 [N,300000]\n"
                               "input y f32 [720/N,100000]\n"
                               "relu z x\n"
                               "relu w y\n"
                               "mean loss z\n";
/* the mask is copied where its rows are no multiple of 16 bytes (cc 8.0) */
static const char mask[] = "dim S=16\n"
                           "input x f16 [512,1,S*6,16] grad=1\n"
                           "input m f16 [512,1,S*6,S*6]\n"
                           "scaled_dot_product_attention y x x x m\n"
                           "sum loss y\n";

static vram_result solve(const char *text, const vram_solve_options *o, vram_solution *s,
                         vram_error *e) {
  return vram_solve(text, strlen(text), o, &heap, s, e);
}

/* A number of steps that no table has room for. */
static void advice_errors(void) {
  static const uint32_t most[] = {100001, 0x7fffffff, 0xffffffcfu, 0xffffffffu};
  vram_advise_options o;
  vram_advice v;
  vram_error e;
  uint32_t i;
  memset(&o, 0, sizeof o);
  for (i = 0; i < sizeof most / sizeof *most; i++) {
    o.most = most[i];
    EQUAL(vram_advise(mlp, sizeof mlp - 1, &o, &heap, &v, &e), VRAM_ERR_VALUE);
    TEXT(e.text, "more steps to be played than 100000");
  }
}

static void errors(void) {
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  vram_dim set;
  memset(&o, 0, sizeof o);
  o.budget_bytes = 1 << 30;
  o.dim = "Q";
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_NAME);
  TEXT(e.text, "the model has no dim Q (expected N, D, L)");
  EQUAL(s.tried, 0);
  o.dim = NULL;
  EQUAL(solve("input x f32 [4]\nrelu y x\n", &o, &s, &e), VRAM_ERR_NAME);
  TEXT(e.text, "the model has no dims (expected dim N=8, and N in its shapes)");
  EQUAL(solve("dim N=4\ninput x f32 [N]\nrelu y z\n", &o, &s, &e), VRAM_ERR_NAME);
  EQUAL(e.line, 3);
  set.name = "N";
  set.value = 3;
  o.set = &set;
  o.nset = 1;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "the dim to solve for is set: batch");
  o.dim = "D";
  EQUAL(solve(mlp, &o, &s, &e), VRAM_OK);
  o.dim = NULL;
  o.nset = 65;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.nset = 0;
  o.most = -1;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.most = INT64_C(1) << 31;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.most = 3; /* the text says 4 */
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.most = 0;
  o.segments = 1;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "segments are for training");
  o.step.train = 1;
  o.dim = "N";
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.segments = 0;
  o.checkpoint_nodes = "a..b";
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_NAME);
  o.checkpoint_nodes = "y..z";
  EQUAL(solve(mlp, &o, &s, &e), VRAM_OK);
  CHECK(s.fits.value > 1);
  EQUAL(solve(mlp, &o, &s, NULL), VRAM_OK);
  o.checkpoint_nodes = NULL;
  o.step.optimizer = VRAM_OPTIM_COUNT;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "unknown optimizer");
}

static void ends(void) {
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  memset(&o, 0, sizeof o);
  /* nothing fits */
  o.budget_bytes = 1000;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_OK);
  EQUAL(s.fits.value, 0);
  EQUAL(s.next.value, 1);
  EQUAL(s.eights.value + s.power.value, 0);
  /* everything does: the dim costs nothing on a device whose budget has no end */
  o.budget_bytes = UINT64_MAX;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_OK);
  EQUAL(s.fits.value, INT32_MAX);
  EQUAL(s.next.value, 0);
  EQUAL(s.limit, 0);
  EQUAL(s.power.value, 1 << 30);
  /* a size that does not fit into 63 bits does not fit, whatever the budget */
  EQUAL(solve("dim N=1\ninput x f32 [N,1000000,1000000]\nrelu y x\n", &o, &s, &e), VRAM_OK);
  EQUAL(s.fits.value + 1, s.next.value);
  EQUAL(s.next.report.device_bytes.expected, 0);
}

/* A limit of this library is not the budget's. Millions of nodes: with LONG=1 only. */
static void limit(void) {
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  const char *text =
      "dim L=1\ninput x f32 [1]\nloop L a=x\nloop 1000000 b=a\nrelu y b\nnext b=y\nnext a=b\n";
  memset(&o, 0, sizeof o);
  o.budget_bytes = UINT64_MAX;
  EQUAL(solve(text, &o, &s, &e), VRAM_OK);
  EQUAL(s.limit, 1);
  EQUAL(s.next.value, 0);
  EQUAL(s.fits.value, VRAM_MAX_NODES / 1000000);
}

static void short_memory(void) {
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  long n;
  memset(&o, 0, sizeof o);
  o.budget_bytes = 900 << 20;
  o.dim = "L";
  o.step.train = 1;
  o.checkpoint_nodes = "y..z";
  for (n = 0;; n++) {
    vram_result r;
    heap_left = n;
    r = solve(mlp, &o, &s, &e);
    EQUAL(heap_live, 0);
    if (r == VRAM_OK)
      break;
    EQUAL(r, VRAM_ERR_MEMORY);
    EQUAL(e.code, VRAM_ERR_MEMORY);
    EQUAL(s.fits.value, 0);
  }
  heap_left = -1;
  CHECK(n > 3);
}

/* The largest rank of adapters, and batches beside others: estimates of the same text say that the
   answer fits, and the next one does not. */
static int fits_by_hand(const vram_solve_options *o, const char *lora, int64_t batch) {
  vram_dim dims[2];
  vram_graph g[3];
  vram_report r;
  vram_error e;
  vram_step_options step = o->step;
  void *mem[4] = {0};
  int64_t size[3];
  uint64_t need;
  int i;
  size[0] = batch;
  size[1] = o->last_batch < batch ? o->last_batch : batch;
  size[2] = o->eval_batch;
  dims[0].name = NULL;
  for (i = 0; i < 3; i++) {
    dims[0].value = size[i];
    need = vram_graph_adapted_bytes(mlp, sizeof mlp - 1, dims, 1);
    mem[i] = malloc((size_t)need);
    vram_graph_init(&g[i], mem[i], need);
    EQUAL(vram_graph_adapt(&g[i], lora, NULL), VRAM_OK);
    EQUAL(vram_graph_parse(&g[i], mlp, sizeof mlp - 1, size[i] ? dims : NULL, size[i] != 0, &e),
          VRAM_OK);
  }
  step.last_batch = o->last_batch ? &g[1] : NULL;
  step.evaluation = o->eval_batch ? &g[2] : NULL;
  step.budget_bytes = o->budget_bytes;
  need = vram_step_bytes(&g[0], &step);
  mem[3] = malloc((size_t)need);
  EQUAL(vram_step(&g[0], &step, mem[3], need, &r, &e), VRAM_OK);
  for (i = 0; i < 4; i++)
    free(mem[i]);
  return r.fits;
}

static void ranks_and_other_batches(const vram_step_options *step) {
  vram_solve_options o;
  vram_solution s;
  vram_error e;
  char lora[32];
  memset(&o, 0, sizeof o);
  o.step = *step;
  o.step.context_bytes = VRAM_NO_CONTEXT;
  o.budget_bytes = 80 << 20;
  o.lora = "r=3";
  o.rank = 1;
  NEED(solve(mlp, &o, &s, &e) == VRAM_OK);
  CHECK(s.fits.value > 8 && s.next.value == s.fits.value + 1);
  snprintf(lora, sizeof lora, "r=%ld", (long)s.fits.value);
  EQUAL(fits_by_hand(&o, lora, 4), 1);
  snprintf(lora, sizeof lora, "r=%ld", (long)s.next.value);
  EQUAL(fits_by_hand(&o, lora, 4), 0);
  o.segments = 1;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  o.segments = 0;
  o.lora = NULL;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "there are no adapters to solve for");
  /* an evaluation of more than any step decides; a last batch of more than the batch is none */
  o.rank = 0;
  for (o.eval_batch = 0; o.eval_batch <= 1000; o.eval_batch += 1000) {
    o.last_batch = 7;
    NEED(solve(mlp, &o, &s, &e) == VRAM_OK);
    CHECK(s.fits.value > 8);
    EQUAL(fits_by_hand(&o, NULL, s.fits.value), 1);
    EQUAL(fits_by_hand(&o, NULL, s.next.value), 0);
  }
  o.eval_batch = 100000000;
  NEED(solve(mlp, &o, &s, &e) == VRAM_OK);
  EQUAL(s.fits.value, 0);
  o.eval_batch = -1;
  EQUAL(solve(mlp, &o, &s, &e), VRAM_ERR_VALUE);
}

/* ---- stopped ---- */

static int asked, stops_at;

static int stops(void *user) { return user == &asked && asked++ >= stops_at; }

/* Stopped after any number of values: what is said to fit does, and what comes first gives no
   cached memory back; asked once more than it takes, nothing changes. */
static void stopped(const char *text, size_t len, const vram_step_options *step, int segments) {
  vram_pool_options pool;
  vram_solve_options o;
  vram_solution whole, s;
  vram_error e;
  uint64_t any;
  int end = 0;
  memset(&o, 0, sizeof o);
  memset(&pool, 0, sizeof pool);
  o.step = *step;
  o.step.context_bytes = VRAM_NO_CONTEXT;
  o.step.replay = segments ? NULL : &pool;
  o.segments = segments;
  o.calm = 1;
  o.budget_bytes = segments ? 1 << 20 : 3 << 20;
  EQUAL(vram_solve(text, len, &o, &heap, &whole, &e), VRAM_OK);
  EQUAL(whole.stopped, 0);
  o.stop = stops;
  o.user = &asked;
  for (stops_at = 0; !end && stops_at < 4096; stops_at++) {
    snprintf(test_where, sizeof test_where, "stopped after %d values", stops_at);
    asked = 0;
    if (!NEED(vram_solve(text, len, &o, &heap, &s, &e) == VRAM_OK))
      break;
    end = !s.stopped;
    CHECK(segments || s.fits.value <= whole.fits.value);
    CHECK(s.calm.value <= s.fits.value && !s.calm.report.num_alloc_retries);
    o.step.budget_bytes = o.budget_bytes;
    if (s.fits.value && !segments && stops_at % 3 == 0)
      EQUAL(by_hand(text, len, NULL, s.fits.value, &o.step, &any), FITS);
    if (s.fits.value && !segments)
      CHECK(s.fits.report.replayed && s.fits.report.fits);
    if (end) {
      EQUAL(s.fits.value, whole.fits.value);
      EQUAL(s.next.value, whole.next.value);
      EQUAL(s.calm.value, whole.calm.value);
      EQUAL(s.tried, whole.tried);
    }
  }
  CHECK(end && stops_at > 3);
  *test_where = 0;
}

int main(int argc, char **argv) {
  vram_step_options infer, train;
  int i;
  memset(&infer, 0, sizeof infer);
  memset(&train, 0, sizeof train);
  train.train = 1;
  train.optimizer = VRAM_OPTIM_adamw;
  errors();
  advice_errors();
  ends();
  ranks_and_other_batches(&train);
  short_memory();
  stopped(mlp, sizeof mlp - 1, &train, 0);
  stopped(mlp, sizeof mlp - 1, &train, 1);
  if (getenv("LONG") && *getenv("LONG"))
    limit();
  every_budget("mlp", mlp, sizeof mlp - 1, NULL, &infer);
  replayed_budgets("mlp", mlp, sizeof mlp - 1, NULL, &infer);
  every_budget("mlp", mlp, sizeof mlp - 1, "D", &train);
  replayed_budgets("mlp", mlp, sizeof mlp - 1, "D", &train);
  every_budget("mlp", mlp, sizeof mlp - 1, "L", &train);
  replayed_budgets("mlp", mlp, sizeof mlp - 1, "L", &train);
  every_budget("heads", heads, sizeof heads - 1, "D", &infer);
  replayed_budgets("heads", heads, sizeof heads - 1, "D", &infer);
  every_budget("heads", heads, sizeof heads - 1, "D", &train);
  replayed_budgets("heads", heads, sizeof heads - 1, "D", &train);
  every_budget("heads", heads, sizeof heads - 1, "S", &train);
  replayed_budgets("heads", heads, sizeof heads - 1, "S", &train);
  every_budget("powers", powers, sizeof powers - 1, NULL, &infer);
  replayed_budgets("powers", powers, sizeof powers - 1, NULL, &infer);
  every_budget("divisors", divisors, sizeof divisors - 1, NULL, &infer);
  replayed_budgets("divisors", divisors, sizeof divisors - 1, NULL, &infer);
  infer.cc = 80;
  every_budget("mask", mask, sizeof mask - 1, NULL, &infer);
  replayed_budgets("mask", mask, sizeof mask - 1, NULL, &infer);
  every_number_of_segments("mlp", mlp, sizeof mlp - 1);
  for (i = 1; i < argc; i++) {
    size_t len = 0;
    char *text = play_file(argv[i], &len);
    every_budget(argv[i], text, len, NULL, &train);
    replayed_budgets(argv[i], text, len, NULL, &train);
    every_number_of_segments(argv[i], text, len);
    free(text);
  }
  return test_done("test_solve");
}
