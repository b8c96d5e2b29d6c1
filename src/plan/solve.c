/* >>plan/solve    the largest value of a dim that fits
   Bytes grow with a dim nearly on a straight line, so the search interpolates; every answer is a
   step that was played. */
#include "plan/plan.h"
#include "step/step.h"

enum {
  VRAM__FITS,
  VRAM__TOO_LARGE,
  VRAM__BEYOND, /* a limit of the library */
  VRAM__NOT_ALLOWED,
  VRAM__FAILED /* the search ends: solver.error */
};

enum { VRAM__SEEN = 64, VRAM__NEAR = 4096, VRAM__REPLAYS = 128, VRAM__SHORT = 512 };

/* Which values that are tried are replayed. */
typedef enum vram__replays {
  VRAM__REPLAY_NEEDED,  /* those whose replay may say something else than the step */
  VRAM__REPLAY_HOPEFUL, /* of these, those whose step fits */
  VRAM__REPLAY_NONE
} vram__replays;

typedef struct vram__point {
  int64_t value;
  uint64_t bytes;  /* on the device; UINT64_MAX: more than VRAM_MAX_BYTES */
  uint64_t blocks; /* allocated, at most */
} vram__point;

typedef struct vram__solve_graph { /* the text as a graph, in memory of its own */
  vram_graph graph;
  void *mem;
  uint64_t bytes;
} vram__solve_graph;

typedef struct vram__solver {
  const vram_solve_options *o;
  const vram_allocator *allocator;
  vram_solution *s;
  const char *text;
  uint64_t len;
  void *scratch;
  uint64_t scratch_bytes;
  vram_range *range;
  uint64_t range_bytes;
  vram__solve_graph g, cut;   /* cut: what one rank has of g, with step.parallel */
  vram__solve_graph other[3]; /* with the last batch of an epoch, of an evaluation, a dry run */
  vram_step_options step;
  vram_dim set[VRAM_MAX_DIMS + 2]; /* behind those of the options the one that is solved for */
  uint32_t nset;
  int64_t rank;              /* of adapters, where that is solved for */
  int solves_batch;          /* the first dim is */
  vram_trial low, high, now; /* the largest that fits, the smallest above it that does not */
  const vram_trial *side;    /* the one of them that was last found */
  int beyond;                /* high is of that kind */
  int64_t first, stride;     /* allowed values are thought to be first + k * stride; 0: not known */
  int64_t most;
  uint32_t streak; /* trials in a row that ended on the same side as the last one */
  uint32_t slow;   /* trials since low and high came half as near */
  vram__replays replays;
  int64_t width;
  vram__point seen[VRAM__SEEN];
  uint32_t nseen;
  int64_t shorts[VRAM__SHORT]; /* values whose replay ran out of memory: none is replayed twice */
  uint32_t nshort;
  vram_error error;
} vram__solver;

static void vram__solve_error(vram__solver *v, vram_result code, const char *text,
                              const char *more) {
  vram__error_begin(&v->error, code, 0, text);
  vram__error_text(&v->error, more);
}

/* Makes *mem at least `need` bytes; what was in it is lost. */
static int vram__solve_room(vram__solver *v, void **mem, uint64_t *have, uint64_t need) {
  const vram_allocator *a = v->allocator;
  if (need <= *have)
    return 1;
  if (*mem)
    a->free(a->user, *mem, *have);
  *mem = a->alloc(a->user, need);
  *have = *mem ? need : 0;
  if (!*mem)
    vram__solve_error(v, VRAM_ERR_MEMORY, "the allocator gave no memory", "");
  return *mem != NULL;
}

/* What a result of one value says about that value. */
static int vram__solve_kind(const vram__solver *v) {
  switch (v->error.code) {
  case VRAM_OK:
    return VRAM__FITS;
  case VRAM_ERR_OVERFLOW:
    return VRAM__TOO_LARGE;
  case VRAM_ERR_LIMIT:
    return VRAM__BEYOND;
  case VRAM_ERR_MEMORY:
    return VRAM__FAILED;
  default:
    return VRAM__NOT_ALLOWED;
  }
}

/* What is played: the whole graph, or that of one rank. */
static const vram_graph *vram__solve_played(const vram__solver *v) {
  const vram_parallel *p = v->o->step.parallel;
  return p && (p->tp > 1 || p->ep > 1 || p->cp > 1) ? &v->cut.graph : &v->g.graph;
}

static int vram__solve_cut(vram__solver *v) {
  const uint64_t need = vram_parallel_cut_bytes(&v->g.graph);
  if (vram__solve_room(v, &v->cut.mem, &v->cut.bytes, need))
    vram_parallel_cut(&v->g.graph, v->o->step.parallel, &v->cut.graph, v->cut.mem, v->cut.bytes,
                      &v->error);
  return vram__solve_kind(v);
}

/* The text with the dims set. */
static int vram__solve_parse_one(vram__solver *v, vram__solve_graph *to, uint32_t nset) {
  const vram_solve_options *o = v->o;
  uint64_t need;
  int again = 0;
  for (;;) {
    if (to->mem) {
      vram_graph_init(&to->graph, to->mem, to->bytes);
      vram_graph_adapt(&to->graph, o->lora, o->quant);
      if (v->rank)
        vram__adapt_rank(&to->graph, v->rank);
      if (vram_graph_parse(&to->graph, v->text, v->len, v->set, nset, &v->error) !=
              VRAM_ERR_MEMORY ||
          again++)
        break;
    }
    again += !to->mem;
    need = o->lora || o->quant ? vram_graph_adapted_bytes(v->text, v->len, v->set, nset)
                               : vram_graph_parse_bytes(v->text, v->len, v->set, nset);
    if (!need) { /* loops of more rounds */
      vram__solve_error(v, VRAM_ERR_LIMIT, "a model that is too large", "");
      break;
    }
    if (!vram__solve_room(v, &to->mem, &to->bytes, need))
      break;
  }
  if (!v->error.code && o->freeze)
    vram_graph_freeze_weights(&to->graph, o->freeze, &v->error);
  return vram__solve_kind(v);
}

/* The same with the batch of an evaluation, of a dry run, or the last one of an epoch: none is
   larger than the one that is tried. */
static int vram__solve_parse(vram__solver *v) {
  const vram_solve_options *o = v->o;
  int64_t batch[3];
  int i, kind = vram__solve_parse_one(v, &v->g, v->nset);
  if (kind == VRAM__FITS && vram__solve_played(v) != &v->g.graph)
    kind = vram__solve_cut(v);
  batch[0] = o->last_batch;
  batch[1] = o->eval_batch;
  batch[2] = o->dry_run_batch;
  if (kind == VRAM__FITS && v->solves_batch && v->g.graph.dim[0].value < batch[0])
    batch[0] = v->g.graph.dim[0].value;
  for (i = 0; i < 3 && kind == VRAM__FITS; i++)
    if (batch[i]) {
      v->set[v->nset].name = NULL;
      v->set[v->nset].value = batch[i];
      kind = vram__solve_parse_one(v, v->other + i, v->nset + 1);
    }
  return kind;
}

static void vram__solve_set(vram__solver *v, int64_t value) {
  if (v->o->rank)
    v->rank = value;
  else
    v->set[v->nset - 1].value = value;
}

/* A step of the graph as it stands, replayed or not; *report becomes all zero if it is too large.
 */
static int vram__solve_play(vram__solver *v, const vram_pool_options *replay, vram_report *report) {
  const vram_graph *g = vram__solve_played(v);
  v->step.checkpoint = NULL;
  v->step.ncheckpoint = 0;
  v->step.replay = replay;
  if (v->o->checkpoint_nodes) {
    uint32_t n;
    void *mem = v->range;
    if (vram_graph_ranges(g, v->o->checkpoint_nodes, NULL, 0, &n, &v->error))
      return VRAM__NOT_ALLOWED;
    const int room =
        vram__solve_room(v, &mem, &v->range_bytes, (n + 1u) * (uint64_t)sizeof *v->range);
    v->range = (vram_range *)mem;
    if (!room)
      return VRAM__FAILED;
    vram_graph_ranges(g, v->o->checkpoint_nodes, v->range, n, &v->step.ncheckpoint, NULL);
    v->step.checkpoint = v->range;
  }
  if (!vram__solve_room(v, &v->scratch, &v->scratch_bytes,
                        v->o->inplace ? vram_graph_inplace_bytes(g, &v->step)
                                      : vram_step_bytes(g, &v->step)))
    return VRAM__FAILED;
  if (v->o->inplace) { /* the graph is this solver's own */
    vram_inplace counts;
    if (vram_graph_inplace((vram_graph *)(uintptr_t)g, &v->step, v->scratch, v->scratch_bytes,
                           &counts, &v->error))
      return vram__solve_kind(v);
  }
  vram_step(g, &v->step, v->scratch, v->scratch_bytes, report, &v->error);
  report->peak_node = NULL;
  if (v->error.code)
    vram__memory_zero(report, sizeof *report);
  return v->error.code ? vram__solve_kind(v) : report->fits ? VRAM__FITS : VRAM__TOO_LARGE;
}

static int vram__solve_is_short(const vram__solver *v, int64_t value) {
  uint32_t i;
  for (i = 0; i < v->nshort; i++)
    if (v->shorts[i] == value)
      return 1;
  return 0;
}

/* v->now, played without replay, as its replay decides. That takes several times as long, so it is
   asked only where it may say something else: neither is what is allocated more than the budget has
   room for, nor twice that and 64 MiB less. */
static int vram__solve_verdict(vram__solver *v, int kind) {
  const vram_report *r = &v->now.report;
  const uint64_t beside = vram__report_beside(r), most = r->peak_allocated_bytes.upper;
  const uint64_t room = v->o->budget_bytes > beside ? v->o->budget_bytes - beside : 0;
  vram_step_options o = v->step;
  vram_report tight;
  vram__step s;
  if (!v->o->step.replay || v->error.code || r->peak_allocated_bytes.lower > room ||
      most < room / 2 - (room < 67108864 ? room / 2 : 33554432) ||
      v->replays == VRAM__REPLAY_NONE || (v->replays == VRAM__REPLAY_HOPEFUL && kind != VRAM__FITS))
    return kind;
  if (vram__solve_is_short(v, v->now.value))
    return VRAM__TOO_LARGE;
  o.replay = v->o->step.replay;
  if (!vram__solve_room(v, &v->scratch, &v->scratch_bytes,
                        vram_step_bytes(vram__solve_played(v), &o)))
    return VRAM__FAILED;
  vram__memory_zero(&s, sizeof s);
  if (vram__replay_runs_within(vram__solve_played(v), &o, room, v->scratch,
                               v->scratch_bytes - vram__replay_bytes(vram__solve_played(v), &o), &s,
                               &tight))
    return VRAM__FITS;
  if (v->nshort < VRAM__SHORT)
    v->shorts[v->nshort++] = v->now.value;
  return VRAM__TOO_LARGE;
}

/* A step of the graph as it stands; v->now's report becomes its. */
static int vram__solve_step(vram__solver *v) {
  uint32_t i;
  uint64_t bytes;
  int kind = vram__solve_play(v, NULL, &v->now.report);
  if (v->error.code && v->error.code != VRAM_ERR_OVERFLOW)
    return kind;
  bytes = v->error.code ? UINT64_MAX : v->now.report.device_bytes.expected;
  for (i = 0; i < v->nseen && !v->s->larger; i++)
    if (v->seen[i].value < v->now.value
            ? v->seen[i].bytes > bytes
            : v->seen[i].value > v->now.value && v->seen[i].bytes < bytes) {
      const int64_t other = v->seen[i].value;
      v->s->larger = other > v->now.value ? other : v->now.value;
      v->s->smaller = other > v->now.value ? v->now.value : other;
    }
  if (v->nseen == VRAM__SEEN)
    v->nseen--;
  v->seen[v->nseen].value = v->now.value;
  v->seen[v->nseen].blocks = v->now.report.peak_allocated_bytes.upper;
  v->seen[v->nseen++].bytes = bytes;
  return vram__solve_verdict(v, kind);
}

/* It is to end. No error is left. */
static int vram__solve_stopped(vram__solver *v) {
  if (!v->s->stopped && v->o->stop && v->o->stop(v->o->user))
    v->s->stopped = 1;
  if (v->s->stopped)
    vram__error_clear(&v->error);
  return v->s->stopped;
}

/* The report of a trial that is part of the solution is that of its replay. */
static int vram__solve_report(vram__solver *v, vram_trial *t) {
  if (!v->o->step.replay || !t->value || !t->report.device_bytes.expected)
    return 1;
  if (v->o->segments)
    v->step.checkpoint_segments = (uint32_t)t->value;
  else {
    vram__solve_set(v, t->value);
    if (vram__solve_parse(v) != VRAM__FITS)
      return 0;
  }
  vram__solve_play(v, v->o->step.replay, &t->report);
  return !v->error.code;
}

/* All trials of the solution: what was replayed for one of them is not replayed for another. */
static int vram__solve_reports(vram__solver *v) {
  vram_solution *s = v->s;
  vram_trial *all[5];
  uint32_t i, k;
  if (s->stopped)
    vram__memory_zero(&s->eights, sizeof s->eights), vram__memory_zero(&s->power, sizeof s->power);
  all[0] = &s->fits;
  all[1] = &s->next;
  all[2] = &s->eights;
  all[3] = &s->power;
  all[4] = &s->least;
  for (i = 0; i < (s->stopped ? 1u : 5u); i++) {
    for (k = 0; k < i && all[k]->value != all[i]->value; k++)
      ;
    if (k < i)
      all[i]->report = all[k]->report;
    else if (!vram__solve_report(v, all[i]))
      return 0;
  }
  return 1;
}

/* Replays t's value, or the next one that is allowed, below high. */
static int vram__solve_calm_try(vram__solver *v, vram_trial *t, int64_t stride, int64_t high) {
  int kind = VRAM__NOT_ALLOWED;
  uint32_t i;
  for (i = 0; i < 64 && t->value < high && !vram__solve_stopped(v); i++, t->value += stride) {
    v->s->tried++;
    vram__solve_set(v, t->value);
    kind = vram__solve_parse(v);
    if (kind == VRAM__FITS)
      kind = vram__solve_play(v, v->o->step.replay, &t->report);
    if (kind != VRAM__NOT_ALLOWED)
      break;
  }
  return kind;
}

/* The largest value whose replay gives no cached memory back, by halving what is below fits: how
   many times it goes back grows with the value, but for how blocks happen to lie. 0: an error. */
static int vram__solve_calm(vram__solver *v) {
  vram_solution *s = v->s;
  const int64_t stride = v->stride ? v->stride : 1;
  const vram_trial *const known[3] = {&s->fits, &s->eights, &s->power};
  vram_trial t;
  int64_t high = s->fits.value, middle;
  uint32_t i;
  if (!v->o->calm || !v->o->step.replay || v->o->segments || !s->fits.value)
    return 1;
  for (i = 0; i < 3; i++)
    if (known[i]->value > s->calm.value && !known[i]->report.num_alloc_retries)
      s->calm = *known[i];
  while (high - s->calm.value > stride && !vram__solve_stopped(v)) {
    middle = s->calm.value + (high - s->calm.value) / 2;
    middle -= (middle - v->first) % stride;
    if (middle <= s->calm.value)
      middle += stride;
    t.value = middle;
    if (vram__solve_calm_try(v, &t, stride, high) == VRAM__FITS && !t.report.num_alloc_retries)
      s->calm = t;
    else if (v->error.code == VRAM_ERR_MEMORY)
      return 0;
    else
      high = middle;
  }
  return 1;
}

/* One value of the dim; v->now becomes it. */
static int vram__solve_try(vram__solver *v, int64_t value) {
  int kind;
  if (vram__solve_stopped(v))
    return VRAM__FAILED;
  v->s->tried++;
  v->now.value = value;
  vram__memory_zero(&v->now.report, sizeof v->now.report);
  vram__solve_set(v, value);
  kind = vram__solve_parse(v);
  return kind == VRAM__FITS ? vram__solve_step(v) : kind;
}

/* range * a / b, about: a guess. At most 64 times the range. */
static int64_t vram__solve_share(int64_t range, uint64_t a, uint64_t b) {
  if (a / b >= 64)
    return range * 64;
  while (b >> 24)
    a >>= 1, b >>= 1;
  return range * (int64_t)a / (int64_t)b;
}

/* The highest peak of the allocator's blocks that this budget has room for, as this step tells. */
static uint64_t vram__solve_room_for(const vram__solver *v, const vram_report *r) {
  const uint64_t blocks = r->peak_allocated_bytes.upper, segment = VRAM__SMALL_SEGMENT;
  const uint64_t beside = r->device_bytes.expected - (blocks + segment - 1) / segment * segment;
  return v->o->budget_bytes > beside ? (v->o->budget_bytes - beside) / segment * segment : 0;
}

/* 1: the blocks of high have room, and only how they lie speaks against it. So few values lie
   between low and the first one without room that each will be replayed, so the way to the answer
   does not change it. */
static int vram__solve_is_close(const vram__solver *v, uint64_t room) {
  const uint64_t fits = v->low.report.peak_allocated_bytes.upper;
  const uint64_t large = v->high.report.peak_allocated_bytes.upper;
  const int64_t range = v->high.value - v->low.value;
  return fits < large && large <= room &&
         range + vram__solve_share(range, room - large, large - fits) <
             VRAM__REPLAYS * (v->stride ? v->stride : 1);
}

/* The next value to try, between low and high: blocks are nearly a straight line. */
static int64_t vram__solve_guess(const vram__solver *v) {
  const int64_t low = v->low.value, high = v->high.value, stride = v->stride ? v->stride : 1;
  const vram__point *p = v->seen + (v->nseen > 1 ? v->nseen - 2 : 0), *q = v->seen + v->nseen - 1;
  const uint64_t fits = v->low.report.peak_allocated_bytes.upper;
  const uint64_t large = v->high.report.peak_allocated_bytes.upper;
  const uint64_t room = vram__solve_room_for(v, low ? &v->low.report : &v->high.report);
  const int64_t shift = v->streak ? stride << 2 * (v->streak < 10 ? v->streak - 1 : 9) : 0;
  int64_t g;
  if (p->value > q->value) {
    const vram__point *t = p;
    p = q;
    q = t;
  }
  if (low && high && vram__solve_is_close(v, room))
    g = v->side == &v->low ? low + (high - low) / 2 : high - (shift ? shift : stride);
  else if (low && high)
    g = v->slow > 3 || large <= fits || room < fits || room > large
            ? low + (high - low) / 2
            : low + vram__solve_share(high - low, room - fits, large - fits) +
                  (v->side == &v->low ? shift : -shift);
  else if (q->value == p->value || q->blocks <= p->blocks || !p->blocks)
    g = low ? low * 2 : high / 2; /* no slope to go by */
  else if (low)
    g = low + shift +
        (room > fits ? vram__solve_share(q->value - p->value, room - fits, q->blocks - p->blocks)
                     : 0);
  else
    g = high - shift -
        (large > room ? vram__solve_share(q->value - p->value, large - room, q->blocks - p->blocks)
                      : 0);
  if (g > v->most)
    g = v->most;
  g -= (g - v->first) % stride;
  if (high && g >= high)
    g = high - stride;
  if (g <= low)
    g = low ? low + stride : (v->first - 1) % stride + 1;
  return g;
}

/* v->now moves low or high. */
static void vram__solve_take(vram__solver *v, int kind) {
  vram_trial *side = kind == VRAM__FITS ? &v->low : &v->high;
  if (kind == VRAM__NOT_ALLOWED || kind == VRAM__FAILED)
    return;
  if (kind != VRAM__FITS)
    v->beyond = kind == VRAM__BEYOND;
  v->streak = side == v->side ? v->streak + 1 : 0;
  v->side = side;
  *side = v->now;
}

/* A value near the one that is not allowed. */
static int vram__solve_near(vram__solver *v, int64_t value) {
  const int64_t low = v->low.value, high = v->high.value ? v->high.value : v->most + 1;
  int64_t d;
  int kind = VRAM__NOT_ALLOWED;
  if (!v->stride) { /* what distance is allowed? */
    for (d = 1; kind == VRAM__NOT_ALLOWED && d <= VRAM__NEAR && v->first + d <= v->most; d++)
      kind = vram__solve_try(v, v->first + d);
    v->stride = kind == VRAM__NOT_ALLOWED ? 1 : d - 1;
    if (kind != VRAM__NOT_ALLOWED && (v->now.value <= low || v->now.value >= high))
      kind = vram__solve_try(v, vram__solve_guess(v));
    return kind;
  }
  for (d = v->stride; kind == VRAM__NOT_ALLOWED && d < 64 * v->stride; d += v->stride) {
    if (value + d < high)
      kind = vram__solve_try(v, value + d);
    if (kind == VRAM__NOT_ALLOWED && value - d > low)
      kind = vram__solve_try(v, value - d);
  }
  return kind;
}

/* Every value between low and high, from below; without high, as far as VRAM__NEAR. */
static int vram__solve_between(vram__solver *v) {
  int64_t c;
  int kind = VRAM__FITS;
  for (c = v->low.value + 1; kind == VRAM__FITS || kind == VRAM__NOT_ALLOWED; c++) {
    if (v->high.value ? c >= v->high.value : c > v->most)
      return VRAM__FITS;
    if (c > v->low.value + VRAM__NEAR) { /* a larger one may be allowed: it is not looked for */
      v->high.value = 0;
      return VRAM__FITS;
    }
    kind = vram__solve_try(v, c);
    vram__solve_take(v, kind);
  }
  return kind;
}

static int vram__solve_bracket(vram__solver *v) {
  int kind;
  for (;;) {
    const int64_t stride = v->stride ? v->stride : 1;
    if (v->high.value ? v->high.value - v->low.value <= stride : v->low.value > v->most - stride)
      break;
    v->slow++;
    if (!v->high.value || (v->high.value - v->low.value) * 2 <= v->width || !v->width) {
      v->width = v->high.value ? v->high.value - v->low.value : 0;
      v->slow = 0;
    }
    kind = vram__solve_try(v, vram__solve_guess(v));
    if (kind == VRAM__NOT_ALLOWED)
      kind = vram__solve_near(v, v->now.value);
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__NOT_ALLOWED)
      break;
    vram__solve_take(v, kind);
  }
  return vram__solve_between(v);
}

/* The largest multiple of eight, or power of two, up to low. */
static int vram__solve_round(vram__solver *v, int power, vram_trial *to) {
  int64_t c = v->low.value - v->low.value % 8;
  int kind = VRAM__NOT_ALLOWED;
  uint32_t i;
  if (power)
    for (c = 1; c <= v->low.value / 2;)
      c *= 2;
  for (i = 0; i < 64 && c > 0 && kind != VRAM__FITS; i++, c = power ? c / 2 : c - 8) {
    if (c == v->low.value) {
      *to = v->low;
      return VRAM__FITS;
    }
    kind = vram__solve_try(v, c);
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__FITS)
      *to = v->now;
  }
  return VRAM__FITS;
}

/* 1: no replay of v->now can find its memory. */
static int vram__solve_hopeless(const vram__solver *v) {
  const vram_report *r = &v->now.report;
  const uint64_t beside = vram__report_beside(r);
  return v->error.code || v->o->budget_bytes <= beside ||
         r->peak_allocated_bytes.lower > v->o->budget_bytes - beside;
}

/* Does a larger value than high fit in a replay? How blocks lie in segments changes with every
   size, so one that is too large may lie below one that is not. The values below the first hopeless
   one, from above: all of them, or VRAM__REPLAYS that are spread evenly. */
static int vram__solve_lucky(vram__solver *v) {
  const int64_t stride = v->stride ? v->stride : 1, high = v->high.value;
  int64_t below = high, above = 0, c, step;
  int kind;
  while (!above || above - below > stride) {
    const int64_t ahead = below - high > stride ? 2 * (below - high) : 2 * stride;
    c = above ? below + (above - below) / 2 / stride * stride : high + ahead;
    if (c > v->most) {
      above = v->most + 1 - (v->most + 1 - v->first) % stride;
      continue;
    }
    v->replays = VRAM__REPLAY_NONE;
    kind = vram__solve_try(v, c);
    v->replays = VRAM__REPLAY_NEEDED;
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__NOT_ALLOWED || kind == VRAM__BEYOND || vram__solve_hopeless(v))
      above = c;
    else
      below = c;
  }
  step = ((below - high) / stride / VRAM__REPLAYS + 1) * stride;
  for (c = below; c > high; c -= step) {
    if (vram__solve_is_short(v, c))
      continue;
    kind = vram__solve_try(v, c);
    if (kind == VRAM__FITS || kind == VRAM__FAILED)
      return kind;
  }
  return VRAM__TOO_LARGE;
}

/* Does a larger value than high fit? Kernels look at multiples of small powers of two; where one
   value is known to take less than a smaller one, the next ones are all tried. */
static int vram__solve_probe(vram__solver *v) {
  const int64_t high = v->high.value,
                last = v->most < high + VRAM__NEAR ? v->most : high + VRAM__NEAR;
  int64_t c = high + (v->stride ? v->stride : 1);
  uint32_t left = VRAM__SEEN;
  int kind = VRAM__TOO_LARGE;
  if (!high || v->beyond)
    return kind;
  for (; c <= last && left; c = v->s->larger ? c + 1 : c % 8 ? (c | 3) + 1 : last + 1) {
    kind = vram__solve_is_short(v, c) ? VRAM__TOO_LARGE : vram__solve_try(v, c);
    left -= kind != VRAM__NOT_ALLOWED;
    if (kind == VRAM__FITS || kind == VRAM__FAILED)
      return kind;
  }
  return VRAM__TOO_LARGE;
}

static vram_result vram__solve_found(vram__solver *v) {
  v->s->limit = v->high.value && v->beyond;
  v->s->fits = v->low;
  if (v->high.value && !v->beyond)
    v->s->next = v->high;
  return VRAM_OK;
}

/* The largest value of the dim; the graph in v->g has its first one. */
static vram_result vram__solve_dim(vram__solver *v) {
  int kind;
  v->now.value = v->first;
  v->s->tried++;
  kind = vram__solve_step(v);
  if (kind == VRAM__NOT_ALLOWED || kind == VRAM__FAILED || kind == VRAM__BEYOND)
    return v->error.code;
  vram__solve_take(v, kind);
  v->nset += !v->o->rank;
  do {
    if (vram__solve_bracket(v) == VRAM__FAILED)
      return v->error.code;
    v->replays = VRAM__REPLAY_HOPEFUL;
    kind = vram__solve_probe(v);
    v->replays = VRAM__REPLAY_NEEDED;
    if (kind == VRAM__TOO_LARGE && v->o->step.replay && v->high.value && !v->beyond)
      kind = vram__solve_lucky(v);
    if (kind == VRAM__FAILED)
      return v->error.code;
    if (kind == VRAM__FITS) {
      v->high.value = 0;
      vram__solve_take(v, kind);
    }
  } while (kind == VRAM__FITS);
  if (vram__solve_round(v, 0, &v->s->eights) == VRAM__FAILED ||
      vram__solve_round(v, 1, &v->s->power) == VRAM__FAILED)
    return v->error.code;
  return vram__solve_found(v);
}

/* The fewest segments: more of them keep more of their inputs, fewer recompute longer ranges, so
   the bytes have no order and every number is tried. */
static vram_result vram__solve_segments(vram__solver *v) {
  vram_trial before;
  uint64_t fewest = UINT64_MAX;
  int kind;
  vram__memory_zero(&before, sizeof before);
  for (v->now.value = 1; v->now.value <= v->most && !vram__solve_stopped(v); v->now.value++) {
    v->step.checkpoint_segments = (uint32_t)v->now.value;
    kind = vram__solve_step(v);
    if (kind == VRAM__FAILED || (v->now.value == 1 && kind == VRAM__NOT_ALLOWED))
      return v->error.code;
    if (kind == VRAM__NOT_ALLOWED && v->error.code != VRAM_ERR_UNSUPPORTED)
      break; /* more segments than functions */
    v->s->tried++;
    if (kind == VRAM__NOT_ALLOWED) /* an operation in place crosses an end */
      continue;
    if (v->seen[v->nseen - 1].bytes < fewest) {
      fewest = v->seen[v->nseen - 1].bytes;
      v->s->least = v->now;
    }
    if (kind == VRAM__FITS && !v->s->fits.value) {
      v->s->fits = v->now;
      v->s->next = before;
    }
    before = v->now;
  }
  if (!v->s->fits.value)
    v->s->next = v->s->least;
  return VRAM_OK;
}

/* Why these options do not go together, or NULL. */
static const char *vram__solve_misuse(const vram_solve_options *o) {
  if (o->nset > VRAM_MAX_DIMS)
    return "more than 64 dims";
  if (o->most < 0 || o->most > INT32_MAX)
    return "most is not within 0 and 2^31-1";
  if (o->last_batch < 0 || o->eval_batch < 0 || o->dry_run_batch < 0)
    return "a batch is less than 1";
  if (o->rank && (!o->lora || o->dim || o->segments))
    return o->lora ? "the rank of adapters excludes a dim and segments"
                   : "there are no adapters to solve for";
  if (o->segments && !o->step.train)
    return "segments are for training";
  if (o->segments && (o->dim || o->checkpoint_nodes))
    return "segments exclude a dim and checkpointed nodes";
  return NULL;
}

/* Where the dim to solve for is, and its own value. */
static vram_result vram__solve_find_dim(vram__solver *v) {
  const vram_solve_options *o = v->o;
  vram_graph *g = &v->g.graph;
  uint32_t i, k;
  if (!g->ndim) {
    vram__solve_error(v, VRAM_ERR_NAME, "the model has no dims",
                      " (expected dim N=8, and N in its shapes)");
    return v->error.code;
  }
  for (i = 0; o->dim && i < g->ndim; i++)
    if (vram__text_is(g->dim[i].name, g->dim[i].len, o->dim))
      break;
  if (i == g->ndim) {
    vram__error_no_dim(g, o->dim);
    v->error = g->error;
    return v->error.code;
  }
  for (k = 0; k < o->nset; k++)
    if (o->set[k].name ? vram__text_is(g->dim[i].name, g->dim[i].len, o->set[k].name) : !i) {
      vram__solve_error(v, VRAM_ERR_VALUE,
                        "the dim to solve for is set: ", o->dim ? o->dim : "batch");
      return v->error.code;
    }
  v->first = g->dim[i].value;
  v->solves_batch = !i;
  v->set[v->nset].name = o->dim;
  return VRAM_OK;
}

/* The options, the text as it stands, and what is solved for. */
static vram_result vram__solve_begin(vram__solver *v) {
  const vram_solve_options *o = v->o;
  const char *misuse = vram__solve_misuse(o);
  uint32_t i;
  if (misuse) {
    vram__solve_error(v, VRAM_ERR_VALUE, misuse, "");
    return v->error.code;
  }
  v->most = o->most ? o->most : INT32_MAX;
  v->step = o->step;
  v->step.event = NULL;
  v->step.nodes = NULL;
  v->step.budget_bytes = o->budget_bytes;
  v->step.last_batch = o->last_batch ? &v->other[0].graph : NULL;
  v->step.evaluation = o->eval_batch ? &v->other[1].graph : NULL;
  v->step.dry_run = o->dry_run_batch ? &v->other[2].graph : NULL;
  for (i = 0; i < o->nset; i++)
    v->set[i] = o->set[i];
  v->nset = o->nset;
  v->solves_batch = !o->dim && !o->rank && !o->segments;
  if (vram__solve_parse(v) != VRAM__FITS)
    return v->error.code;
  v->s->rules = vram_step_rules(&v->g.graph, &v->step);
  if (o->segments)
    return v->error.code;
  if (o->rank)
    v->first = vram__adapt_rank(&v->g.graph, 0);
  else if (vram__solve_find_dim(v))
    return v->error.code;
  if (v->first < 1 || v->first > v->most)
    vram__solve_error(v, VRAM_ERR_VALUE, "the model's own value is not within 1 and most", "");
  return v->error.code;
}

static void vram__solve_graph_free(const vram__solver *v, const vram__solve_graph *g) {
  if (g->mem)
    v->allocator->free(v->allocator->user, g->mem, g->bytes);
}

VRAM_API vram_result vram_solve(const char *text, uint64_t len, const vram_solve_options *o,
                                const vram_allocator *allocator, vram_solution *solution,
                                vram_error *err) {
  vram__solver v;
  vram_result r;
  vram__memory_zero(&v, sizeof v);
  vram__memory_zero(solution, sizeof *solution);
  v.o = o;
  v.allocator = allocator;
  v.s = solution;
  v.text = text;
  v.len = len;
  r = vram__solve_begin(&v);
  if (!r)
    r = o->segments ? vram__solve_segments(&v) : vram__solve_dim(&v);
  if (!r && solution->stopped && !o->segments)
    r = vram__solve_found(&v);
  if (!r && (!vram__solve_reports(&v) || !vram__solve_calm(&v)))
    r = v.error.code;
  if (v.range)
    allocator->free(allocator->user, v.range, v.range_bytes);
  if (v.scratch)
    allocator->free(allocator->user, v.scratch, v.scratch_bytes);
  vram__solve_graph_free(&v, &v.g);
  vram__solve_graph_free(&v, &v.cut);
  vram__solve_graph_free(&v, v.other);
  vram__solve_graph_free(&v, v.other + 1);
  vram__solve_graph_free(&v, v.other + 2);
  if (r)
    vram__memory_zero(solution, sizeof *solution);
  if (err) {
    vram__memory_zero(err, sizeof *err);
    if (r)
      *err = v.error;
  }
  return r;
}
