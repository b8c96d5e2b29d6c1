/* >>advise/advise    what to change so that a step takes less
   Changes are played one by one, then two and three at a time of those that save something and do
   not fit alone: what fits has no need of one more. */
#include "advise/advise.h"

enum { VRAM__ADVISE_PLAYS = 200, VRAM__ADVISE_THREADS = 16, VRAM__ADVISE_CLASSES = 64 };

/* Memory of a thread, in pieces that grow. */
typedef struct vram__advise_piece {
  void *mem;
  uint64_t bytes;
} vram__advise_piece;

enum { VRAM__PIECE_GRAPH, VRAM__PIECE_CUT, VRAM__PIECE_RANGES, VRAM__PIECE_STEP, VRAM__PIECES };

typedef struct vram__advise_thread {
  vram__advise_piece piece[VRAM__PIECES];
} vram__advise_thread;

typedef struct vram__advise {
  const vram_advise_options *o;
  const vram_allocator *allocator;
  const char *text;
  uint64_t len;
  vram_advice *to;
  vram__advised_now now;
  vram__advised base;
  vram__advise_piece kept; /* the graph of the step as it is */
  vram_graph g;
  vram__advise_thread thread[VRAM__ADVISE_THREADS];
  uint32_t most, first, from;      /* line[from + i] is part i of a run */
  vram_error error[VRAM__CHANGES]; /* of changes alone */
  int stopped, lost;               /* lost: there was no memory */
} vram__advise;

/* A combination that may be played, and what its parts say about it. */
typedef struct vram__advise_choice {
  uint8_t n, of[VRAM_ADVICE_CHANGES];
  vram_effect effect;
  uint64_t price, saves;
} vram__advise_choice;

/* ---- memory ---- */

static int vram__advise_room(const vram__advise *a, vram__advise_piece *p, uint64_t need) {
  if (need <= p->bytes)
    return 1;
  if (p->mem)
    a->allocator->free(a->allocator->user, p->mem, p->bytes);
  p->mem = a->allocator->alloc(a->allocator->user, need);
  p->bytes = p->mem ? need : 0;
  return p->mem != NULL;
}

static void vram__advise_drop(const vram__advise *a, vram__advise_piece *p) {
  if (p->mem)
    a->allocator->free(a->allocator->user, p->mem, p->bytes);
  p->mem = NULL;
  p->bytes = 0;
}

static vram_result vram__advise_no_memory(vram_error *err) {
  return vram__error_begin(err, VRAM_ERR_MEMORY, 0, "the allocator gave no memory");
}

/* ---- one step ---- */

static vram_result vram__advise_parse(const vram__advise *a, const vram__advised *x,
                                      vram__advise_piece *p, vram_graph *g, vram_error *err) {
  const uint64_t need = x->lora || x->quant
                            ? vram_graph_adapted_bytes(a->text, a->len, x->set, x->nset)
                            : vram_graph_parse_bytes(a->text, a->len, x->set, x->nset);
  vram_result r;
  if (!need)
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "a model that is too large");
  if (!vram__advise_room(a, p, need))
    return vram__advise_no_memory(err);
  vram_graph_init(g, p->mem, p->bytes);
  if (vram_graph_adapt(g, x->lora, x->quant)) {
    if (err)
      *err = g->error;
    return g->error.code;
  }
  r = vram_graph_parse(g, a->text, a->len, x->set, x->nset, err);
  return r || !x->freeze ? r : vram_graph_freeze_weights(g, x->freeze, err);
}

/* The graph of one rank, where something cuts it. */
static vram_result vram__advise_cut(const vram__advise *a, const vram__advised *x,
                                    vram__advise_piece *p, vram_graph *g, vram_error *err) {
  const vram_parallel *of = x->step.parallel;
  const vram_graph whole = *g;
  uint64_t need;
  if (!of || (of->tp < 2 && of->ep < 2 && of->cp < 2))
    return VRAM_OK;
  need = vram_parallel_cut_bytes(&whole);
  if (!vram__advise_room(a, p, need))
    return vram__advise_no_memory(err);
  return vram_parallel_cut(&whole, of, g, p->mem, p->bytes, err);
}

static vram_result vram__advise_ranges(const vram__advise *a, vram__advised *x,
                                       vram__advise_piece *p, const vram_graph *g,
                                       vram_error *err) {
  const vram_parallel *of = x->step.parallel;
  const int units = of && of->wrapper == VRAM_WRAPPER_FSDP2 && x->step.by_keyword;
  vram_result r = VRAM_OK;
  uint32_t n = 0;
  if (units)
    n = vram_graph_unit_ranges(g, of->units, NULL, 0);
  else
    r = vram_graph_ranges(g, x->nodes, NULL, 0, &n, err);
  if (r)
    return r;
  if (!vram__advise_room(a, p, (n + (uint64_t)1) * sizeof(vram_range)))
    return vram__advise_no_memory(err);
  x->step.checkpoint = (vram_range *)p->mem;
  if (units)
    x->step.ncheckpoint = vram_graph_unit_ranges(g, of->units, (vram_range *)p->mem, n);
  else
    vram_graph_ranges(g, x->nodes, (vram_range *)p->mem, n, &x->step.ncheckpoint, NULL);
  return VRAM_OK;
}

/* Nothing to do is an error, too: the step is as it was. */
static vram_result vram__advise_inplace(const vram__advise *a, const vram__advised *x,
                                        vram__advise_piece *p, vram_graph *g, vram_error *err) {
  vram_inplace counts;
  vram_result r;
  if (!x->inplace)
    return VRAM_OK;
  if (!vram__advise_room(a, p, vram_graph_inplace_bytes(g, &x->step)))
    return vram__advise_no_memory(err);
  r = vram_graph_inplace(g, &x->step, p->mem, p->bytes, &counts, err);
  if (r || counts.count[VRAM_IN_PLACE_MADE] || a->o->step.inplace)
    return r;
  return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                           counts.count[VRAM_IN_PLACE_WAS]
                               ? "those that can be are in place already"
                               : "there are none that autograd lets overwrite their input");
}

/* Operations of forward passes, and how many of them run again. */
static void vram__advise_flops(const vram_graph *g, const vram__advised *x,
                               vram_advice_line *line) {
  const uint64_t times = x->parts ? x->parts : x->step.accumulate > 1 ? x->step.accumulate : 1;
  const vram_node *n;
  uint32_t i;
  uint64_t forward = 0, again = 0;
  for (n = g->first; n; n = n->next) {
    const uint64_t flops = n->op < VRAM_OP_COUNT ? vram_node_flops(n) : 0;
    uint64_t more = vram_node_recomputed(n);
    for (i = 0; i < x->step.ncheckpoint; i++)
      more += n->index >= x->step.checkpoint[i].first->index &&
              n->index <= x->step.checkpoint[i].last->index;
    forward = vram__sum_or_overflow(forward, flops);
    again =
        vram__sum_or_overflow(again, vram__product_or_overflow(flops, x->step.train ? more : 0));
  }
  line->has_flops = x->step.checkpoint_segments < 2;
  line->again = vram__product_or_overflow(again, times);
  line->flops = vram__sum_or_overflow(vram__product_or_overflow(forward, times), line->again);
}

static void vram__advise_sent(vram_advice_line *line) {
  uint32_t i;
  for (line->sent = 0, i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    line->sent = vram__sum_or_overflow(line->sent, line->report.communication[i].sent);
}

/* Ranks whose parts differ, each played; the fullest stays. */
static vram_result vram__advise_ranks(const vram__advise *a, vram__advised *x,
                                      vram__advise_thread *t, const vram_graph *g,
                                      vram_advice_line *line, vram_error *err) {
  vram_rank_class class_of[VRAM__ADVISE_CLASSES];
  const vram_parallel *p = x->step.parallel;
  uint32_t i, n = 1;
  vram_result r = VRAM_OK;
  class_of[0].rank = p ? p->rank : 0;
  if (p == &x->parallel && p != a->o->step.step.parallel) {
    const uint64_t need = vram_parallel_classes_bytes(g, p);
    if (!vram__advise_room(a, t->piece + VRAM__PIECE_STEP, need))
      return vram__advise_no_memory(err);
    r = vram_parallel_classes(g, p, t->piece[VRAM__PIECE_STEP].mem, need, class_of,
                              VRAM__ADVISE_CLASSES, &n);
    if (r || n > VRAM__ADVISE_CLASSES)
      return vram__error_begin(err, r ? r : VRAM_ERR_LIMIT, 0, "too many ranks that differ");
  }
  if (!vram__advise_room(a, t->piece + VRAM__PIECE_STEP, vram_step_bytes(g, &x->step)))
    return vram__advise_no_memory(err);
  for (i = 0; i < n && !r; i++) {
    vram_report report;
    if (p == &x->parallel)
      x->parallel.rank = class_of[i].rank;
    r = vram_step(g, &x->step, t->piece[VRAM__PIECE_STEP].mem, t->piece[VRAM__PIECE_STEP].bytes,
                  &report, err);
    if (r || (i && (report.fits > line->report.fits ||
                    (report.fits == line->report.fits &&
                     report.device_bytes.expected <= line->report.device_bytes.expected))))
      continue;
    line->report = report;
    line->report.peak_node = NULL;
    line->rank = class_of[i].rank;
  }
  return r;
}

/* Plays a step. Thread k; x is changed. */
static vram_result vram__advise_play(vram__advise *a, uint32_t k, vram__advised *x,
                                     vram_advice_line *line, vram_error *err) {
  vram__advise_thread *t = a->thread + k;
  vram_planned_step plan;
  vram_graph g;
  vram_result r = vram__advise_parse(a, x, t->piece + VRAM__PIECE_GRAPH, &g, err);
  int planned = 0;
  if (x->step.replay)
    x->step.replay = &x->pool;
  if (!r)
    r = vram__advise_cut(a, x, t->piece + VRAM__PIECE_CUT, &g, err);
  if (!r && x->nodes)
    r = vram__advise_ranges(a, x, t->piece + VRAM__PIECE_RANGES, &g, err);
  if (!r)
    r = vram__advise_inplace(a, x, t->piece + VRAM__PIECE_STEP, &g, err);
  if (!r && x->is_planned) {
    x->step.stop = a->o->step.stop;
    x->step.user = a->o->step.user;
    r = vram_step_plan(&g, &x->step, 0, a->allocator, &plan, err);
    planned = !r;
    if (planned) {
      x->step.checkpoint = plan.range;
      x->step.ncheckpoint = plan.nrange;
    }
  }
  if (!r)
    r = vram__advise_ranks(a, x, t, &g, line, err);
  if (!r) {
    vram__advise_flops(&g, x, line);
    vram__advise_sent(line);
    line->fits = a->o->step.budget_bytes && line->report.fits;
    line->played = 1;
  }
  if (planned)
    vram_step_plan_free(&plan, a->allocator);
  return r;
}

/* ---- the step as it is ---- */

static void vram__advise_base(vram__advise *a) {
  const vram_solve_options *s = &a->o->step;
  vram__advised *x = &a->base;
  uint32_t i;
  x->step = s->step;
  x->step.checkpoint = NULL;
  x->step.ncheckpoint = 0;
  x->step.budget_bytes = s->budget_bytes;
  x->step.event = NULL;
  x->step.nodes = NULL;
  x->step.last_batch = x->step.evaluation = x->step.dry_run = NULL;
  if (s->step.replay)
    x->pool = *s->step.replay;
  x->pool.event = NULL;
  if (s->step.parallel)
    x->parallel = *s->step.parallel;
  for (i = 0; i < s->nset && i < VRAM_MAX_DIMS; i++)
    x->set[x->nset++] = s->set[i];
  x->lora = s->lora;
  x->quant = s->quant;
  x->freeze = s->freeze;
  x->inplace = s->inplace;
  x->nodes = s->checkpoint_nodes;
  x->is_planned = a->o->is_planned;
}

/* A copy of how it is: what it points into is its own. */
static void vram__advised_begin(const vram__advise *a, vram__advised *x) {
  *x = a->base;
  if (x->step.replay)
    x->step.replay = &x->pool;
  if (x->step.parallel)
    x->step.parallel = &x->parallel;
}

static uint64_t vram__advise_inputs(const vram_graph *g) {
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < g->ninput; i++)
    n = vram__sum_or_overflow(n, g->input[i]->d->numel);
  return n;
}

/* ---- changes alone ---- */

static void vram__change_refuse(vram_alternative *c, const char *why) {
  uint32_t n = 0;
  c->why_not[0] = 0;
  vram__text_puts(c->why_not, sizeof c->why_not, &n, *why ? why : "it cannot be played");
}

/* Is it a dim of inputs, and no depth or width? */
static const char *vram__change_look(vram__advise *a, const vram__change_row *row, int64_t arg,
                                     vram__advised *x) {
  vram_graph g;
  vram_error err;
  if (row->effect != VRAM_EFFECT_TASK)
    return NULL;
  if (vram__advise_parse(a, x, a->thread[0].piece + VRAM__PIECE_GRAPH, &g, &err))
    return "the model does not allow it";
  (void)arg;
  return vram__advise_inputs(&g) < a->now.inputs ? NULL : "no input has this dim";
}

static void vram__change_make(vram__advise *a, uint32_t i) {
  vram_alternative *c = a->to->alternative + i;
  int64_t arg;
  const vram__change_row *row = vram__change_at(&a->g, i, &arg);
  const char *why;
  vram__advised x;
  uint32_t n = 0;
  vram__memory_zero(c, sizeof *c);
  c->name = row->name;
  c->cost = row->cost;
  c->effect = row->effect;
  if (row->torch)
    vram__text_puts(c->torch, sizeof c->torch, &n, row->torch);
  vram__advised_begin(a, &x);
  why = row->apply(&a->now, &x, arg, c);
  if (!why)
    why = vram__change_look(a, row, arg, &x);
  if (why)
    vram__change_refuse(c, why);
}

/* Line i of those that are played now. */
static int vram__advise_one(void *user, uint32_t k, uint32_t i) {
  vram__advise *a = (vram__advise *)user;
  vram_advice_line *line = a->to->line + a->from + i;
  vram__advised x;
  vram_error err;
  uint32_t n;
  if (a->stopped || (a->o->step.stop && a->o->step.stop(a->o->step.user))) {
    a->stopped = 1;
    return 1;
  }
  vram__advised_begin(a, &x);
  for (n = 0; n < line->nchange; n++) {
    int64_t arg;
    const vram__change_row *row = vram__change_at(&a->g, line->change[n], &arg);
    if (row->apply(&a->now, &x, arg, NULL))
      return 0; /* they exclude each other */
  }
  vram__error_clear(&err);
  if (vram__advise_play(a, k, &x, line, &err)) {
    line->played = 0;
    if (line->nchange == 1)
      a->error[line->change[0]] = err;
    if (err.code == VRAM_ERR_MEMORY)
      a->lost = 1;
  }
  return 0;
}

static void vram__advise_run(vram__advise *a, uint32_t parts) {
  uint32_t i;
  if (a->o->run && a->o->threads > 1)
    a->o->run(parts, vram__advise_one, a);
  else
    for (i = 0; i < parts && !vram__advise_one(a, 0, i); i++)
      ;
}

/* What it takes: where it fits only because cached memory goes back, what is allocated says more
   than the device's bytes. */
static int vram__advise_saves(const vram_advice_line *x, const vram_advice_line *than) {
  return x->report.peak_allocated_bytes.expected < than->report.peak_allocated_bytes.expected ||
         x->report.device_bytes.expected < than->report.device_bytes.expected ||
         x->fits > than->fits;
}

/* Operations and bytes in one number: as in vram fit --parallel auto, a byte sent is 2000. */
static uint64_t vram__advise_price(const vram_advice_line *x, const vram_advice_line *now) {
  const uint64_t more = x->flops > now->flops ? x->flops - now->flops : 0;
  const uint64_t sent = x->sent > now->sent ? x->sent - now->sent : 0;
  return vram__sum_or_overflow(more, vram__product_or_overflow(sent, 2000));
}

/* Keeps the lines that were played and save something. */
static void vram__advise_keep(vram__advise *a, uint32_t from) {
  vram_advice *to = a->to;
  uint32_t i, n = from;
  for (i = from; i < to->nline; i++) {
    const vram_advice_line *x = to->line + i;
    to->played += x->played != 0;
    if (x->nchange == 1 && !x->played && !a->stopped)
      vram__change_refuse(to->alternative + x->change[0], a->error[x->change[0]].text);
    if (x->played && vram__advise_saves(x, &to->now))
      to->line[n++] = *x;
  }
  to->nline = n;
}

static void vram__advise_alone(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i;
  for (i = 0; i < to->nalternative; i++)
    vram__change_make(a, i);
  for (i = 0; i < to->nalternative && to->nline < a->most; i++) {
    vram_advice_line *x = to->line + to->nline;
    if (*to->alternative[i].why_not)
      continue;
    vram__memory_zero(x, sizeof *x);
    x->nchange = 1;
    x->change[0] = i;
    x->effect = to->alternative[i].effect;
    to->nline++;
  }
  a->from = 0;
  vram__advise_run(a, to->nline);
  vram__advise_keep(a, 0);
}

/* ---- combinations ---- */

/* A plan of checkpoints is many steps by itself: it is not one of three. */
static int vram__advise_is_plan(const vram_advice *to, const vram_advice_line *x) {
  const char *options = to->alternative[x->change[0]].options;
  return vram__text_equal(options, " --checkpoint auto", 18);
}

static uint32_t vram__advise_group(const vram__advise *a, const vram_advice_line *x) {
  int64_t arg;
  const vram__change_row *row = vram__change_at(&a->g, x->change[0], &arg);
  return row->effect == VRAM_EFFECT_TASK ? row->group + 1 + (uint32_t)arg : row->group;
}

/* Does a line of two changes that fits lie in the one of these? */
static int vram__advise_has_fitting(const vram__advise *a, const uint8_t *of) {
  const vram_advice *to = a->to;
  uint32_t i, k, n;
  for (i = a->first; i < to->nline; i++) {
    const vram_advice_line *x = to->line + i;
    for (n = 0, k = 0; k < VRAM_ADVICE_CHANGES; k++)
      n += x->change[0] == to->line[of[k]].change[0] || x->change[1] == to->line[of[k]].change[0];
    if (x->fits && n == 2)
      return 1;
  }
  return 0;
}

static int vram__choice_before(const vram__advise_choice *x, const vram__advise_choice *y) {
  if (x->effect != y->effect)
    return x->effect < y->effect;
  if (x->price != y->price)
    return x->price < y->price;
  return x->saves > y->saves;
}

static void vram__choice_sink(vram__advise_choice *list, uint32_t i, uint32_t n) {
  for (;;) {
    uint32_t most = i, k;
    vram__advise_choice swap;
    for (k = 2 * i + 1; k < n && k < 2 * i + 3; k++)
      if (vram__choice_before(list + most, list + k))
        most = k;
    if (most == i)
      return;
    swap = list[i];
    list[i] = list[most];
    list[most] = swap;
    i = most;
  }
}

static void vram__choices_sort(vram__advise_choice *list, uint32_t n) {
  uint32_t i;
  for (i = n / 2; i--;)
    vram__choice_sink(list, i, n);
  for (i = n; i-- > 1;) {
    const vram__advise_choice swap = list[0];
    list[0] = list[i];
    list[i] = swap;
    vram__choice_sink(list, 0, i);
  }
}

/* n changes of those that do not fit alone and save something: all that go together. list NULL:
   how many there are. */
static uint32_t vram__choices_make(const vram__advise *a, uint32_t n, vram__advise_choice *list) {
  const vram_advice *to = a->to;
  uint32_t i, k, l, count = 0;
  for (i = 0; i < a->first; i++)
    for (k = i + 1; k < a->first; k++)
      for (l = n == 2 ? i : k + 1; l < (n == 2 ? i + 1 : a->first); l++) {
        vram__advise_choice c;
        uint32_t j, group[VRAM_ADVICE_CHANGES];
        vram__memory_zero(&c, sizeof c);
        c.n = (uint8_t)n;
        c.of[0] = (uint8_t)i;
        c.of[1] = (uint8_t)k;
        c.of[2] = (uint8_t)l;
        for (j = 0; j < n; j++) {
          const vram_advice_line *x = to->line + c.of[j];
          const uint64_t now = to->now.report.peak_allocated_bytes.expected,
                         then = x->report.peak_allocated_bytes.expected;
          group[j] = vram__advise_group(a, x);
          c.effect = x->effect > c.effect ? x->effect : c.effect;
          c.price = vram__sum_or_overflow(c.price, vram__advise_price(x, &to->now));
          c.saves = vram__sum_or_overflow(c.saves, now > then ? now - then : 0);
          if (x->fits || (n == 3 && vram__advise_is_plan(to, x)))
            break;
        }
        if (j < n || group[0] == group[1] ||
            (n == 3 &&
             (group[0] == group[2] || group[1] == group[2] || vram__advise_has_fitting(a, c.of))))
          continue;
        if (list)
          list[count] = c;
        count++;
      }
  return count;
}

/* The cheapest of them, as many as may be played. */
static vram_result vram__advise_together(vram__advise *a, uint32_t n, uint32_t room) {
  vram_advice *to = a->to;
  const uint32_t count = vram__choices_make(a, n, NULL), from = to->nline;
  const uint32_t left = a->most > to->played ? a->most - to->played : 0;
  const uint32_t most = left < room - from ? left : room - from;
  vram__advise_piece p = {NULL, 0};
  vram__advise_choice *list;
  uint32_t i, k;
  if (!count || a->stopped)
    return VRAM_OK;
  if (!vram__advise_room(a, &p, (uint64_t)count * sizeof *list))
    return VRAM_ERR_MEMORY;
  list = (vram__advise_choice *)p.mem;
  vram__choices_make(a, n, list);
  vram__choices_sort(list, count);
  for (i = 0; i < count && i < most; i++) {
    vram_advice_line *x = to->line + to->nline++;
    vram__memory_zero(x, sizeof *x);
    x->nchange = n;
    x->effect = list[i].effect;
    for (k = 0; k < n; k++)
      x->change[k] = to->line[list[i].of[k]].change[0];
    if (n == 2 && x->change[0] > x->change[1]) {
      const uint32_t swap = x->change[0];
      x->change[0] = x->change[1];
      x->change[1] = swap;
    }
  }
  to->left += count - i;
  vram__advise_drop(a, &p);
  a->from = from;
  vram__advise_run(a, to->nline - from);
  vram__advise_keep(a, from);
  return VRAM_OK;
}

/* ---- the order ---- */

/* Does y take as little as x at as little cost, and less of something? */
static int vram__advise_beats(const vram_advice_line *y, const vram_advice_line *x,
                              const vram_advice_line *now) {
  const uint64_t yp = vram__advise_price(y, now), xp = vram__advise_price(x, now);
  const uint64_t ya = y->report.peak_allocated_bytes.expected,
                 xa = x->report.peak_allocated_bytes.expected;
  const uint64_t yd = y->report.device_bytes.expected, xd = x->report.device_bytes.expected;
  if (y->fits < x->fits || y->effect > x->effect || yp > xp || ya > xa ||
      (yd > xd && !(y->fits && x->fits)) || y->nchange > x->nchange)
    return 0;
  return y->fits > x->fits || y->effect < x->effect || yp < xp || ya < xa ||
         y->nchange < x->nchange;
}

static int vram__advise_before(const vram__advise *a, const vram_advice_line *x,
                               const vram_advice_line *y) {
  const vram_advice_line *now = &a->to->now;
  const uint64_t xp = vram__advise_price(x, now), yp = vram__advise_price(y, now);
  const uint64_t xa = x->report.peak_allocated_bytes.expected,
                 ya = y->report.peak_allocated_bytes.expected;
  const int searching = a->o->step.budget_bytes && !now->fits;
  if (searching && x->fits != y->fits)
    return x->fits > y->fits;
  if (searching && !x->fits)
    return x->report.device_bytes.expected < y->report.device_bytes.expected;
  if (x->effect != y->effect)
    return x->effect < y->effect;
  if (x->batch && y->batch && x->batch != y->batch) {
    const uint64_t little = now->flops / 1000; /* as what the parts of a batch do one by one */
    const double xg = (double)(x->batch - now->batch) / (xp > little ? (double)xp : 1.0);
    const double yg = (double)(y->batch - now->batch) / (yp > little ? (double)yp : 1.0);
    if (xg > yg || xg < yg)
      return xg > yg;
  }
  if (!x->batch != !y->batch)
    return x->batch != 0;
  if (!searching && xp && yp && xa < now->report.peak_allocated_bytes.expected &&
      ya < now->report.peak_allocated_bytes.expected) {
    const double all = (double)now->report.peak_allocated_bytes.expected;
    const double xs = (all - (double)xa) / (double)xp, ys = (all - (double)ya) / (double)yp;
    if (xs > ys || xs < ys)
      return xs > ys;
  }
  if ((searching || !xp || !yp) && xp != yp)
    return xp < yp;
  return x->nchange != y->nchange ? x->nchange < y->nchange : xa < ya;
}

static void vram__advise_mark(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i, k;
  for (i = 0; i < to->nline; i++) {
    vram_advice_line *x = to->line + i;
    x->is_pareto = 1;
    for (k = 0; k < to->nline && x->is_pareto; k++)
      x->is_pareto = k == i || !vram__advise_beats(to->line + k, x, &to->now);
  }
}

static void vram__advise_sort(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i, k;
  for (i = 1; i < to->nline; i++) { /* some hundred */
    const vram_advice_line x = to->line[i];
    for (k = i; k && vram__advise_before(a, &x, to->line + k - 1); k--)
      to->line[k] = to->line[k - 1];
    to->line[k] = x;
  }
}

/* ---- how far the batch grows ---- */

/* The largest batch of the step x. 0: it is not known. */
static int64_t vram__advise_batch(const vram__advise *a, vram__advised *x) {
  const uint32_t parts = x->parts ? x->parts : x->step.accumulate > 1 ? x->step.accumulate : 1;
  vram_solve_options o;
  vram_solution found;
  uint32_t i;
  if (x->is_planned || !a->g.ndim)
    return 0;
  vram__memory_zero(&o, sizeof o);
  for (i = 0; i < x->nset; i++)
    if (x->set[i].name && !vram__text_is(a->g.dim[0].name, a->g.dim[0].len, x->set[i].name))
      x->set[o.nset++] = x->set[i];
  o.set = x->set;
  o.budget_bytes = a->o->step.budget_bytes;
  o.checkpoint_nodes = x->nodes;
  o.lora = x->lora;
  o.quant = x->quant;
  o.freeze = x->freeze;
  o.inplace = x->inplace;
  o.step = x->step;
  if (o.step.replay)
    o.step.replay = &x->pool;
  o.stop = a->o->step.stop;
  o.user = a->o->step.user;
  if (vram_solve(a->text, a->len, &o, a->allocator, &found, NULL) || found.stopped)
    return 0;
  return found.fits.value * parts;
}

/* Of the line i, behind the last one of the step as it is. */
static int vram__advise_batch_of(void *user, uint32_t k, uint32_t i) {
  vram__advise *a = (vram__advise *)user;
  vram_advice_line *line = i < a->to->nline ? a->to->line + i : &a->to->now;
  vram__advised x;
  uint32_t n;
  (void)k;
  if (a->stopped || (a->o->step.stop && a->o->step.stop(a->o->step.user))) {
    a->stopped = 1;
    return 1;
  }
  vram__advised_begin(a, &x);
  for (n = 0; n < line->nchange; n++) {
    int64_t arg;
    vram__change_at(&a->g, line->change[n], &arg)->apply(&a->now, &x, arg, NULL);
  }
  if (x.step.parallel && line->nchange)
    x.parallel.rank = line->rank;
  if (line->is_pareto || !line->nchange)
    line->batch = vram__advise_batch(a, &x);
  return 0;
}

static void vram__advise_batches(vram__advise *a) {
  uint32_t i;
  if (!a->o->batches || !a->to->now.fits)
    return;
  if (a->o->run && a->o->threads > 1)
    a->o->run(a->to->nline + 1, vram__advise_batch_of, a);
  else
    for (i = 0; i <= a->to->nline && !vram__advise_batch_of(a, 0, i); i++)
      ;
}

/* ---- all of it ---- */

static vram_result vram__advise_now(vram__advise *a, vram_error *err) {
  vram__advised x;
  vram_result r;
  vram__advise_base(a);
  vram__advised_begin(a, &x);
  r = vram__advise_parse(a, &x, &a->kept, &a->g, err);
  if (!r)
    r = vram__advise_play(a, 0, &x, &a->to->now, err);
  a->to->played = 1;
  a->now.o = a->o;
  a->now.g = &a->g;
  a->now.dtype = r ? VRAM_DTYPE_NONE : a->to->now.report.dtype;
  a->now.inputs = r ? 0 : vram__advise_inputs(&a->g);
  return r;
}

static vram_result vram__advise_all(vram__advise *a, vram_error *err) {
  vram_advice *to = a->to;
  const uint32_t room = a->most + VRAM__CHANGES;
  vram__advise_piece p = {NULL, 0};
  vram_result r = vram__advise_now(a, err);
  if (r)
    return r;
  to->nalternative = vram__change_count(&a->g);
  if (!vram__advise_room(a, &p,
                         (uint64_t)to->nalternative * sizeof *to->alternative +
                             (uint64_t)room * sizeof *to->line))
    return vram__advise_no_memory(err);
  to->memory = p.mem;
  to->memory_bytes = p.bytes;
  to->line = (vram_advice_line *)p.mem;
  to->alternative = (vram_alternative *)(void *)(to->line + room);
  vram__advise_alone(a);
  a->first = to->nline;
  if (a->o->step.budget_bytes && !to->now.fits) {
    r = vram__advise_together(a, 2, room);
    if (!r)
      r = vram__advise_together(a, 3, room);
  }
  if (r || a->lost)
    return vram__advise_no_memory(err);
  vram__advise_mark(a);
  vram__advise_batches(a);
  to->stopped = a->stopped;
  vram__advise_sort(a);
  return VRAM_OK;
}

VRAM_API vram_result vram_advise(const char *text, uint64_t len, const vram_advise_options *o,
                                 const vram_allocator *allocator, vram_advice *to,
                                 vram_error *err) {
  vram__advise *a;
  vram_result r;
  uint32_t i, k;
  vram__memory_zero(to, sizeof *to);
  vram__error_clear(err);
  if (o->step.nset > VRAM_MAX_DIMS || o->threads > VRAM__ADVISE_THREADS)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "too many dims or threads");
  a = (vram__advise *)allocator->alloc(allocator->user, sizeof *a);
  if (!a)
    return vram__advise_no_memory(err);
  vram__memory_zero(a, sizeof *a);
  a->o = o;
  a->allocator = allocator;
  a->text = text;
  a->len = len;
  a->to = to;
  a->most = o->most ? o->most : (uint32_t)VRAM__ADVISE_PLAYS;
  r = vram__advise_all(a, err);
  for (i = 0; i < VRAM__ADVISE_THREADS; i++)
    for (k = 0; k < VRAM__PIECES; k++)
      vram__advise_drop(a, a->thread[i].piece + k);
  vram__advise_drop(a, &a->kept);
  allocator->free(allocator->user, a, sizeof *a);
  if (r)
    vram_advice_free(to, allocator);
  return r;
}

VRAM_API void vram_advice_free(vram_advice *advice, const vram_allocator *allocator) {
  if (advice->memory)
    allocator->free(allocator->user, advice->memory, advice->memory_bytes);
  vram__memory_zero(advice, sizeof *advice);
}

VRAM_API const char *vram_effect_name(vram_effect effect) {
  static const char *const name[] = {
#define VRAM__X(id, word, text) word,
      VRAM_EFFECTS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)effect < VRAM_EFFECT_COUNT ? name[effect] : "?";
}

VRAM_API const char *vram_effect_text(vram_effect effect) {
  static const char *const means[] = {
#define VRAM__X(id, word, text) text,
      VRAM_EFFECTS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)effect < VRAM_EFFECT_COUNT ? means[effect] : "?";
}
