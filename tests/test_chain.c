/* Chains cut from models, and steps planned within a budget: the cuts against the step that they
   come from, the plans against steps, ledgers and budgets that are tried one by one; operations
   against PyTorch's count; memory that ends at every place.
   usage: test_chain TEXT... */
#include "heap.h"
#include "play.h"

static void *need(uint64_t bytes) {
  void *p = test_scratch(bytes);
  if (!p)
    abort();
  return p;
}

static void train(vram_step_options *o) {
  memset(o, 0, sizeof *o);
  o->train = 1;
  o->optimizer = VRAM_OPTIM_sgd_momentum;
}

/* ---- operations ---- */

static int counted(uint32_t op) { /* by torch.utils.flop_counter */
  static const char *const name[] = {"linear",
                                     "matmul",
                                     "bmm",
                                     "mm",
                                     "addmm",
                                     "baddbmm",
                                     "einsum",
                                     "scaled_dot_product_attention",
                                     "multi_head_attention"};
  size_t i;
  if (!strncmp(vram_op_name(op), "conv", 4))
    return 1;
  for (i = 0; i < sizeof name / sizeof *name; i++)
    if (!strcmp(vram_op_name(op), name[i]))
      return 1;
  return 0;
}

static void operations(void) {
  char line[256], name[128], path[200];
  FILE *f = fopen("tests/golden/flops.txt", "r");
  if (!f) {
    FAIL("tests/golden/flops.txt");
    return;
  }
  while (fgets(line, sizeof line, f)) {
    unsigned long long want;
    uint64_t got = 0;
    const vram_node *n;
    char *text;
    size_t len;
    play p;
    if (*line == '#' || sscanf(line, "%127s %llu", name, &want) != 2)
      continue;
    snprintf(path, sizeof path, "tests/golden/%s.vram", name);
    snprintf(test_where, sizeof test_where, "%s", path);
    memset(&p, 0, sizeof p);
    text = play_file(path, &len);
    if (NEED(text) && NEED(!play_parse(&p, text, len, NULL, 0))) {
      for (n = p.graph.first; n; n = n->next)
        if (counted(n->op))
          got += vram_node_flops(n);
      EQUAL(got, want);
    }
    play_end(&p);
    free(text);
  }
  fclose(f);
}

/* Others: by hand. */
static void other_operations(void) {
  static const struct {
    const char *line;
    uint64_t flops; /* 12 rows: 2 * 12 * (20 * 4 + 20 * 5), ... */
  } row[] = {
      {"relu y x", 48},
      {"reshape y x shape=[12,4]", 0},
      {"transpose y x dim0=0 dim1=1", 0},
      {"lstm y x hidden_size=5", 4320},
      {"gru y x hidden_size=5 bidirectional=1", 6480},
      {"sum y x", 1},
      {"linear y x out_features=7", 672},
  };
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    char text[200];
    play p;
    memset(&p, 0, sizeof p);
    snprintf(text, sizeof text, "input x f32 [2,6,4]\n%s\nmean loss y\n", row[i].line);
    snprintf(test_where, sizeof test_where, "%s", row[i].line);
    if (NEED(!play_parse(&p, text, strlen(text), NULL, 0)))
      EQUAL(vram_node_flops(p.graph.first), row[i].flops);
    play_end(&p);
  }
}

/* ---- cuts ---- */

/* The parts of a chain follow each other, and what they count is what the step allocates. */
static void parts(const vram_graph *g, const vram_chain *c, const vram_report *r) {
  const vram_node *n = g->first;
  uint64_t live = 0, peak = 0, flops = 0, all = 0;
  uint32_t i;
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *s = c->stage + i;
    CHECK(s->first == n && s->last->index >= s->first->index);
    CHECK(s->nway == 1 && s->way->saved_bytes >= s->output_bytes);
    CHECK(s->output_bytes > 0 || i + 1 == c->nstage);
    CHECK(s->output_bytes % c->align == 0 && s->way->saved_bytes % c->align == 0);
    CHECK(s->name && strlen(s->name) > 0);
    n = s->last->next;
    live += s->way->saved_bytes;
    if (live + s->way->forward_temp_bytes > peak)
      peak = live + s->way->forward_temp_bytes;
    flops += s->forward_cost;
    CHECK(s->way->backward_cost == 2 * s->forward_cost);
  }
  CHECK(n == NULL);
  EQUAL(c->stage[c->nstage - 1].output_bytes, 0);
  for (n = g->first; n; n = n->next)
    all += vram_node_flops(n);
  EQUAL(flops, all);
  /* forward: the chain holds what the step holds, and no gradient before its time */
  CHECK(c->static_bytes + live >= r->phase[VRAM_PHASE_FORWARD].allocated_bytes);
  CHECK(c->static_bytes + peak >= r->phase[VRAM_PHASE_FORWARD].allocated_peak_bytes);
}

/* A ledger that hears of a bound plan has its peak. */
static void bound(const vram_chain *c, const vram_schedule *s) {
  vram_arena_options o;
  vram_binding b;
  vram_ledger l;
  vram_ledger_options lo;
  vram_memory_stats stats;
  vram_error e;
  uint64_t bytes, n;
  void *mem, *lmem;
  memset(&o, 0, sizeof o);
  o.greedy = 1;
  bytes = vram_schedule_bind_bytes(c, s->nmove, &o);
  mem = need(bytes);
  if (NEED(!vram_schedule_bind(c, s->move, s->nmove, &o, mem, bytes, &b, &e))) {
    EQUAL(b.arena.lower_bound_bytes, s->peak_bytes - c->static_bytes);
    CHECK(b.arena_bytes >= b.arena.lower_bound_bytes);
    memset(&lo, 0, sizeof lo);
    lo.live = b.nbuffer + 1;
    n = vram_ledger_bytes(&lo);
    lmem = need(n);
    if (NEED(!vram_ledger_init(&l, &lo, lmem, n, &e))) {
      vram_binding_events(c, &b, 512, 0, vram_ledger_event, &l);
      vram_ledger_stats(&l, 0, &stats);
      EQUAL(stats.allocated_bytes[0].peak, s->peak_bytes - c->static_bytes);
    }
    free(lmem);
  }
  free(mem);
}

typedef struct counts { /* what the events of a step add up to */
  uint64_t now, peak;
} counts;

static void count(void *user, const vram_event *e) {
  counts *c = (counts *)user;
  if (e->action == VRAM_ACTION_ALLOC)
    c->now += e->bytes;
  else if (e->action == VRAM_ACTION_FREE)
    c->now -= e->bytes;
  if (c->now > c->peak)
    c->peak = c->now;
}

/* The step with a plan's ranges, played once more. */
static void again(const play *p, const vram_step_options *with, const vram_planned_step *plan) {
  vram_step_options o = *with;
  vram_report r;
  vram_error e;
  counts c;
  uint64_t bytes, i;
  void *scratch;
  o.checkpoint = plan->range;
  o.ncheckpoint = plan->nrange;
  bytes = vram_step_bytes(&p->graph, &o);
  scratch = need(bytes);
  if (NEED(!vram_step(&p->graph, &o, scratch, bytes, &r, &e))) {
    EQUAL(r.fits, plan->report.fits);
    EQUAL(r.peak_requested_bytes, plan->report.peak_requested_bytes);
    EQUAL(r.device_bytes.expected, plan->report.device_bytes.expected);
    o.replay = NULL;
    o.event = count;
    o.user = &c;
    c.now = 0;
    for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
      c.now += r.before_category_bytes[i];
    c.peak = c.now;
    CHECK(!vram_step(&p->graph, &o, scratch, bytes, &r, &e));
    EQUAL(c.peak, plan->report.peak_requested_bytes);
  }
  free(scratch);
}

static vram_result plan(const play *p, vram_step_options *o, uint64_t budget,
                        vram_planned_step *to) {
  vram_error e;
  vram_result r;
  o->budget_bytes = budget;
  r = vram_step_plan(&p->graph, o, 0, &heap, to, &e);
  EQUAL(e.code, r);
  return r;
}

/* Plans for budgets from all that the step takes down to less than can be. */
static void budgets(const play *p, vram_step_options *o, const vram_report *r) {
  vram_planned_step q;
  uint64_t last = 0, smallest = 0;
  uint32_t i;
  for (i = 0; i < 5; i++) {
    const uint64_t all = r->device_bytes.expected, budget = all - all / 100 * 15 * i;
    if (!NEED(!plan(p, o, budget, &q)))
      return;
    EQUAL(q.feasible, budget >= q.smallest_budget_bytes);
    EQUAL(q.feasible, q.report.fits);
    CHECK(q.cost >= q.cost_plain);
    if (!i)
      CHECK(q.nrange == 0 && q.cost == q.cost_plain && q.feasible);
    if (q.feasible)
      CHECK(q.cost >= last); /* less room never costs less */
    last = q.cost;
    smallest = q.smallest_budget_bytes;
    CHECK(q.schedule.cost == q.cost);
    again(p, o, &q);
    bound(&q.chain, &q.schedule);
    vram_step_plan_free(&q, &heap);
  }
  if (NEED(!plan(p, o, smallest, &q))) {
    CHECK(q.feasible && q.report.fits);
    EQUAL(q.smallest_budget_bytes, smallest);
    vram_step_plan_free(&q, &heap);
  }
  if (NEED(!plan(p, o, smallest - 1, &q))) {
    CHECK(!q.feasible && !q.report.fits);
    EQUAL(q.smallest_budget_bytes, smallest);
    vram_step_plan_free(&q, &heap);
  }
  EQUAL(heap_live, 0);
}

static void one_model(const char *path) {
  vram_step_options o;
  vram_pool_options pool;
  vram_chain c, few;
  vram_error e;
  uint64_t bytes;
  void *mem;
  char *text;
  size_t len;
  play p;
  int amp;
  snprintf(test_where, sizeof test_where, "%s", path);
  memset(&p, 0, sizeof p);
  memset(&pool, 0, sizeof pool);
  text = play_file(path, &len);
  if (!NEED(text) || !NEED(!play_parse(&p, text, len, NULL, 0)))
    goto end;
  for (amp = 0; amp < 2; amp++) {
    train(&o);
    o.amp = amp ? VRAM_BF16 : VRAM_DTYPE_NONE;
    if (!NEED(!play_step(&p, &o)))
      goto end;
    bytes = vram_chain_cut_bytes(&p.graph, &o);
    mem = need(bytes);
    if (NEED(!vram_chain_cut(&p.graph, &o, 0, mem, bytes, &c, &e))) {
      parts(&p.graph, &c, &p.report);
      bytes = vram_chain_cut_bytes(&p.graph, &o);
      if (NEED(!vram_chain_cut(&p.graph, &o, 3, mem, bytes, &few, &e))) {
        EQUAL(few.nstage, c.nstage < 3 ? c.nstage : 3);
        parts(&p.graph, &few, &p.report);
      }
    }
    free(mem);
    o.context_bytes = VRAM_NO_CONTEXT;
    if (amp)
      o.replay = &pool;
    if (NEED(!play_step(&p, &o)))
      budgets(&p, &o, &p.report);
  }
end:
  play_end(&p);
  free(text);
}

/* ---- where a model is cut ---- */

/* Names of the stages of a text, with a blank between them. */
static void stages_of(const char *text, char *to, size_t cap) {
  vram_step_options o;
  vram_chain c;
  vram_error e;
  play p;
  uint64_t bytes;
  void *mem;
  uint32_t i;
  memset(&p, 0, sizeof p);
  *to = 0;
  train(&o);
  if (!NEED(!play_parse(&p, text, strlen(text), NULL, 0)))
    return;
  bytes = vram_chain_cut_bytes(&p.graph, &o);
  mem = need(bytes);
  if (NEED(!vram_chain_cut(&p.graph, &o, 0, mem, bytes, &c, &e)))
    for (i = 0; i < c.nstage; i++)
      snprintf(to + strlen(to), cap - strlen(to), "%s%s", i ? " " : "", c.stage[i].name);
  free(mem);
  play_end(&p);
}

static void places(void) {
  static const struct {
    const char *text, *stages;
  } row[] = {
      {"linear a x out_features=8\ntanh b a\nlinear c b out_features=8\ntanh d c\nmean loss d\n",
       "a..b c..d loss"}, /* nobody keeps a or c */
      {"linear a x out_features=8\nrelu b a inplace=1\nlinear c b out_features=8\nmean loss c\n",
       "a..b c..loss"}, /* nothing is written to in the next stage */
      {"linear a x out_features=8\ntanh b a\nreshape r b shape=[-1,4]\nlinear c r out_features=8\n"
       "mean loss c\n",
       "a..b r..loss"}, /* a view is not worth a stage */
      {"linear a x out_features=8\ntanh b a\nlinear c b out_features=8\nadd d c b\ntanh f d\n"
       "linear h f out_features=8\nmean loss h\n",
       "a..b c..f h..loss"}, /* two values alive from b to d */
  };
  char text[600], got[600];
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    snprintf(text, sizeof text, "input x f32 [4,8]\n%s", row[i].text);
    snprintf(test_where, sizeof test_where, "places %u", i);
    stages_of(text, got, sizeof got);
    TEXT(got, row[i].stages);
  }
}

/* ---- costs by the clock ---- */

typedef struct watch { /* a clock that only the functions move */
  uint64_t time, arena_bytes;
  uint8_t *arena;
  int calls, fail_at;
} watch;

static uint64_t now(void *user) { return ((watch *)user)->time; }

static int inside(const watch *w, const void *p, uint64_t bytes, int wanted) {
  const uint8_t *at = (const uint8_t *)p;
  if (!wanted)
    return !p;
  return at >= w->arena && at + bytes <= w->arena + w->arena_bytes;
}

#define STAGES 4
static const vram_way ways[STAGES][2] = {{{64, 8, 0, 10, 20}, {32, 0, 16, 5, 40}},
                                         {{100, 0, 4, 30, 7}, {40, 1, 1, 9, 9}},
                                         {{16, 0, 0, 1, 2}, {16, 0, 0, 3, 4}},
                                         {{12, 3, 5, 8, 11}, {0, 0, 0, 6, 1}}};
static const uint64_t outputs[STAGES] = {32, 40, 16, 0}, alone[STAGES] = {4, 22, 2, 3};

static int takes(void *user, const vram_call *c, int backward) {
  watch *w = (watch *)user;
  const vram_way *y = &ways[c->stage][c->way];
  const uint64_t in = c->stage ? outputs[c->stage - 1] : 24, out = outputs[c->stage];
  const uint64_t temp = backward ? y->backward_temp_bytes : c->save ? y->forward_temp_bytes : 0;
  CHECK(inside(w, c->in, in, 1) && inside(w, c->out, out, out != 0));
  CHECK(inside(w, c->saved, y->saved_bytes - out, (backward || c->save) && y->saved_bytes > out));
  CHECK(inside(w, c->temp, temp, temp != 0));
  CHECK(inside(w, c->grad_out, out, backward && out));
  CHECK(inside(w, c->grad_in, in, backward && c->stage));
  CHECK(c->in != c->out && (!c->saved || (c->saved != c->out && c->saved != c->grad_in)));
  w->time += backward ? y->backward_cost : c->save ? y->forward_cost : alone[c->stage];
  if (w->calls % 5 == 0) /* now and then slower */
    w->time += 100;
  return w->calls++ == w->fail_at ? -7 : 0;
}
static int takes_forward(void *user, const vram_call *c) { return takes(user, c, 0); }
static int takes_backward(void *user, const vram_call *c) { return takes(user, c, 1); }

static void clocks(void) {
  vram_stage stage[STAGES];
  vram_chain c, to;
  vram_runner r;
  vram_error e;
  vram_way blank[STAGES][2];
  watch w;
  uint64_t bytes, k;
  uint32_t i, j;
  char *mem;
  memset(&c, 0, sizeof c);
  memset(stage, 0, sizeof stage);
  memset(&r, 0, sizeof r);
  memset(&w, 0, sizeof w);
  for (i = 0; i < STAGES; i++) {
    for (j = 0; j < 2; j++) {
      blank[i][j] = ways[i][j];
      blank[i][j].forward_cost = blank[i][j].backward_cost = 0;
    }
    stage[i].output_bytes = outputs[i];
    stage[i].way = blank[i];
    stage[i].nway = 2;
  }
  c.stage = stage;
  c.nstage = STAGES;
  c.input_bytes = 24;
  c.align = 8;
  r.forward = takes_forward, r.backward = takes_backward, r.user = &w;
  w.fail_at = -1;
  w.arena_bytes = vram_chain_measure_arena(&c);
  w.arena = (uint8_t *)need(w.arena_bytes);
  bytes = vram_chain_measure_bytes(&c);
  for (k = 0; k < bytes; k++) {
    mem = (char *)need(k + 1);
    EQUAL(vram_chain_measure(&c, &r, now, 0, w.arena, mem, k, &to, &e), VRAM_ERR_MEMORY);
    free(mem);
  }
  mem = (char *)need(bytes);
  EQUAL(vram_chain_measure(&c, &r, now, 0, w.arena, mem, bytes, &to, &e), VRAM_OK);
  EQUAL(to.nstage, STAGES);
  for (i = 0; i < STAGES; i++) {
    EQUAL(to.stage[i].forward_cost, alone[i]);
    EQUAL(to.stage[i].output_bytes, outputs[i]);
    for (j = 0; j < 2; j++) {
      EQUAL(to.stage[i].way[j].forward_cost, ways[i][j].forward_cost);
      EQUAL(to.stage[i].way[j].backward_cost, ways[i][j].backward_cost);
      EQUAL(to.stage[i].way[j].saved_bytes, ways[i][j].saved_bytes);
    }
  }
  for (i = 0; i < STAGES * 5; i++) { /* a function that fails at every call */
    w.calls = 0, w.fail_at = (int)i;
    EQUAL(vram_chain_measure(&c, &r, now, 1, w.arena, mem, bytes, &to, &e), VRAM_ERR_CALL);
    EQUAL(w.calls, i + 1);
    EQUAL(e.line, i / 5 + 1);
    CHECK(strstr(e.text, "gave -7"));
  }
  EQUAL(vram_chain_measure(&c, &r, NULL, 1, w.arena, mem, bytes, &to, &e), VRAM_ERR_VALUE);
  EQUAL(vram_chain_measure(&c, &r, now, 1, NULL, mem, bytes, &to, &e), VRAM_ERR_VALUE);
  EQUAL(vram_chain_measure(&c, &r, now, 1, w.arena + 1, mem, bytes, &to, &e), VRAM_ERR_VALUE);
  c.nstage = 0;
  EQUAL(vram_chain_measure(&c, &r, now, 1, w.arena, mem, bytes, &to, &e), VRAM_ERR_VALUE);
  free(mem);
  free(w.arena);
}

/* ---- units of wrappers ---- */

enum { UNITS = 6 };

/* A model of units of these widths. */
static void units_text(char *to, size_t cap, const int *width) {
  size_t n = (size_t)snprintf(to, cap, "input x f32 [64,32]\n");
  char in[16] = "x";
  int i;
  for (i = 0; i < UNITS; i++) {
    n += (size_t)snprintf(to + n, cap - n, "linear u.%d.a %s out_features=%d\n", i, in, width[i]);
    n += (size_t)snprintf(to + n, cap - n, "gelu u.%d.b u.%d.a\ntanh u.%d.c u.%d.b\n", i, i, i, i);
    n += (size_t)snprintf(to + n, cap - n, "linear u.%d.d u.%d.c out_features=32\n", i, i);
    snprintf(in, sizeof in, "u.%d.d", i);
  }
  snprintf(to + n, cap - n, "mean loss u.%d.d\n", UNITS - 1);
}

/* The operations that run again of the cheapest units that are enough, tried one by one;
   VRAM_OVERFLOW: none are. */
static uint64_t cheapest(const play *p, vram_step_options o, const vram_range *unit) {
  uint64_t best = VRAM_OVERFLOW, cost;
  uint32_t set, i;
  vram_range list[UNITS];
  for (set = 0; set < 1u << UNITS; set++) {
    vram_report r;
    vram_error e;
    uint64_t bytes;
    void *scratch;
    const vram_node *n;
    o.ncheckpoint = 0;
    for (i = 0, cost = 0; i < UNITS; i++)
      if (set >> i & 1) {
        list[o.ncheckpoint++] = unit[i];
        for (n = unit[i].first; n != unit[i].last->next; n = n->next)
          cost += vram_node_flops(n);
      }
    o.checkpoint = list;
    bytes = vram_step_bytes(&p->graph, &o);
    scratch = need(bytes);
    if (!vram_step(&p->graph, &o, scratch, bytes, &r, &e) && r.fits && cost < best)
      best = cost;
    free(scratch);
  }
  return best;
}

static void units(void) {
  static const char *const spec[] = {"fsdp2=2", "fsdp2=2,reshard=0", "fsdp1=2", "ds3=2,bf16=0"};
  static const int width[][UNITS] = {{64, 64, 64, 64, 64, 64}, {512, 64, 8, 256, 32, 128}};
  vram_parallel w;
  vram_step_options o;
  vram_planned_step q;
  vram_range unit[UNITS];
  vram_report plain;
  vram_error e;
  char text[1024];
  size_t i, k, b;
  play p;
  for (i = 0; i < 2; i++)
    for (k = 0; k < sizeof spec / sizeof *spec; k++) {
      uint64_t floor = 0;
      units_text(text, sizeof text, width[i]);
      memset(&p, 0, sizeof p);
      snprintf(test_where, sizeof test_where, "units of %d and more, %s", width[i][0], spec[k]);
      if (!NEED(!play_parse(&p, text, strlen(text), NULL, 0)) ||
          !NEED(!vram_parallel_parse(spec[k], &w, &e)))
        return;
      train(&o);
      o.parallel = &w;
      o.context_bytes = VRAM_NO_CONTEXT;
      EQUAL(vram_graph_unit_ranges(&p.graph, w.units, unit, UNITS), UNITS);
      if (!NEED(!play_step(&p, &o)))
        return;
      plain = p.report;
      for (b = 0; b < 8; b++) {
        const uint64_t most = plain.device_bytes.expected;
        const uint64_t budget = b ? most - (most - floor) / 7 * b : most;
        if (!NEED(!plan(&p, &o, budget, &q)))
          return;
        EQUAL(q.nunit, UNITS);
        CHECK(!q.chain.nstage && !q.span);
        EQUAL(q.feasible, q.report.fits);
        EQUAL(q.plain.peak_requested_bytes, plain.peak_requested_bytes);
        floor = q.smallest_budget_bytes;
        again(&p, &o, &q);
        if (!q.feasible)
          CHECK(budget < floor);
        else if (!i) /* of equal ones as few as there can be */
          EQUAL(q.cost - q.cost_plain, cheapest(&p, o, unit));
        else
          CHECK(q.cost - q.cost_plain >= cheapest(&p, o, unit));
        CHECK(b || (!q.nrange && q.cost == q.cost_plain));
        vram_step_plan_free(&q, &heap);
      }
      EQUAL(heap_live, 0);
      play_end(&p);
    }
}

/* ---- what goes wrong ---- */

static void errors(void) {
  static const char text[] = "input x f32 [4,8]\nlinear a x out_features=8\ntanh b a\n"
                             "linear c b out_features=8\ntanh d c\nmean loss d\n";
  vram_step_options o;
  vram_planned_step q;
  vram_chain c;
  vram_error e;
  play p;
  vram_result r;
  uint64_t bytes, k;
  long calls;
  char *mem;
  memset(&p, 0, sizeof p);
  snprintf(test_where, sizeof test_where, "errors");
  if (!NEED(!play_parse(&p, text, sizeof text - 1, NULL, 0)))
    return;
  train(&o);
  bytes = vram_chain_cut_bytes(&p.graph, &o);
  for (k = 0; k <= bytes; k += k < 600 ? 1 : 61) { /* memory of exactly k bytes */
    mem = (char *)need(k + 1);
    r = vram_chain_cut(&p.graph, &o, 0, mem, k, &c, &e);
    CHECK(r == VRAM_OK || r == VRAM_ERR_MEMORY);
    EQUAL(e.code, r);
    free(mem);
  }
  EQUAL(vram_chain_cut(&p.graph, &o, 0, NULL, 0, &c, &e), VRAM_ERR_MEMORY);
  o.checkpoint_segments = 2;
  EQUAL(vram_chain_cut(&p.graph, &o, 0, NULL, 0, &c, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "a chain is cut from a training step without checkpoints");
  o.checkpoint_segments = 0;
  o.train = 0;
  EQUAL(vram_chain_cut(&p.graph, &o, 0, NULL, 0, &c, NULL), VRAM_ERR_VALUE);
  o.train = 1;
  EQUAL(plan(&p, &o, 0, &q), VRAM_ERR_VALUE);
  o.reentrant = 1;
  EQUAL(plan(&p, &o, 1 << 20, &q), VRAM_ERR_VALUE);
  o.reentrant = 0;
  o.amp = 99;
  EQUAL(plan(&p, &o, 1 << 20, &q), VRAM_ERR_VALUE);
  o.amp = 0;
  for (calls = 0, r = VRAM_ERR_MEMORY; r == VRAM_ERR_MEMORY && calls < 1000; calls++) {
    heap_left = calls;
    r = plan(&p, &o, 1 << 20, &q);
    if (!r)
      vram_step_plan_free(&q, &heap);
    EQUAL(heap_live, 0);
  }
  heap_left = -1;
  EQUAL(r, VRAM_OK);
  CHECK(calls > 3);
  vram_step_plan_free(&q, &heap); /* twice is nothing */
  play_end(&p);
}

int main(int argc, char **argv) {
  int i;
  operations();
  other_operations();
  places();
  clocks();
  errors();
  units();
  for (i = 1; i < argc; i++)
    one_model(argv[i]);
  return test_done("test_chain");
}
