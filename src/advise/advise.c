/* >>advise/advise    what to change so that a step takes less
   Changes are played one by one, then two and three at a time of those that save something and do
   not fit alone: what fits has no need of one more. */
#include "advise/advise.h"
#include "model/model.h"

#define VRAM__ADVISE_MOST UINT32_C(100000) /* more than an enumerator of 16 bits */

enum {
  VRAM__ADVISE_PLAYS = 200,
  VRAM__ADVISE_PLANS = 2, /* of checkpoints, in combinations: each is as many steps as a hundred */
  VRAM__ADVISE_THREADS = 16,
  VRAM__ADVISE_CLASSES = 64,
  VRAM__ADVISE_FLOORS = 512
};

/* Memory of a thread, in pieces that grow. */
typedef struct vram__advise_piece {
  void *mem;
  uint64_t bytes;
} vram__advise_piece;

enum {
  VRAM__PIECE_TEXT,
  VRAM__PIECE_GRAPH,
  VRAM__PIECE_CUT,
  VRAM__PIECE_RANGES,
  VRAM__PIECE_STEP,
  VRAM__PIECES
};

typedef struct vram__advise_thread {
  vram__advise_piece piece[VRAM__PIECES];
  uint32_t played;   /* of the lines that are played now */
  int stopped, lost; /* lost: there was no memory */
} vram__advise_thread;

/* What a step of these lines alone holds at least: of changes of parameters, or their state. */
typedef struct vram__advise_floor {
  uint32_t key;         /* their numbers and 1, a byte each */
  uint64_t bytes, kept; /* kept: without gradients */
} vram__advise_floor;

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
  uint32_t plans;                  /* played in combinations */
  int all_reached;                 /* by backward */
  vram_error error[VRAM__CHANGES]; /* of changes alone */
  uint8_t is_unplayed[VRAM__CHANGES];
  vram__advise_floor floor[VRAM__ADVISE_FLOORS];
  uint32_t nfloor;
} vram__advise;

/* A combination that may be played, and what its parts say about it. */
typedef struct vram__advise_choice {
  uint8_t n, of[VRAM_ADVICE_CHANGES];
  uint8_t far_off; /* 0: it may fit, 1: hardly, 2: it does not by far, as they look */
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

/* The text, which is another one where its logits come in chunks. */
static vram_result vram__advise_text(const vram__advise *a, const vram__advised *x,
                                     vram__advise_piece *p, const char **text, uint64_t *len,
                                     vram_error *err) {
  vram_result r;
  *text = a->text;
  *len = a->len;
  if (!x->chunks)
    return VRAM_OK;
  r = vram_text_chunk_logits(a->text, a->len, x->chunks, NULL, 0, len, err);
  if (r != VRAM_ERR_MEMORY)
    return r;
  if (!vram__advise_room(a, p, *len))
    return vram__advise_no_memory(err);
  *text = (const char *)p->mem;
  return vram_text_chunk_logits(a->text, a->len, x->chunks, (char *)p->mem, *len, len, err);
}

/* own: memory for a text of its own */
static vram_result vram__advise_parse(const vram__advise *a, const vram__advised *x,
                                      vram__advise_piece *own, vram__advise_piece *p, vram_graph *g,
                                      vram_error *err) {
  const char *text;
  uint64_t len, need;
  vram_result r = vram__advise_text(a, x, own, &text, &len, err);
  if (r)
    return r;
  need = x->lora || x->quant ? vram_graph_adapted_bytes(text, len, x->set, x->nset)
                             : vram_graph_parse_bytes(text, len, x->set, x->nset);
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
  r = vram_graph_parse(g, text, len, x->set, x->nset, err);
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

/* Operations of a rank's forward passes, and how many of them run again. What a pipeline's parts
   run again is all of their ranges; a rank has its share of the model. */
static void vram__advise_flops(const vram_graph *g, const vram__advised *x,
                               vram_advice_line *line) {
  const uint64_t times = x->parts ? x->parts : x->step.accumulate > 1 ? x->step.accumulate : 1;
  const uint32_t stages = x->step.parallel && x->step.parallel->pp > 1 ? x->step.parallel->pp : 1;
  const vram_node *n;
  uint32_t i;
  uint64_t forward = 0, again = 0;
  for (n = g->first; n; n = n->next) {
    const uint64_t flops = n->op < VRAM_OP_COUNT ? vram_node_flops(n) : 0;
    uint64_t more = vram_node_recomputed(n);
    for (i = 0; i < x->step.ncheckpoint && stages > 1; i++)
      more += n->index >= x->step.checkpoint[i].first->index &&
              n->index <= x->step.checkpoint[i].last->index;
    forward = vram__sum_or_overflow(forward, flops);
    again = vram__sum_or_overflow(again, vram__product_or_overflow(flops, more));
  }
  if (!x->step.train)
    again = 0;
  line->again =
      stages > 1 ? vram__product_or_overflow(again, times) / stages : line->report.recomputed_flops;
  line->flops =
      vram__sum_or_overflow(vram__product_or_overflow(forward, times) / stages, line->again);
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
  if (p && !a->o->step.step.parallel) {
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
  vram_result r =
      vram__advise_parse(a, x, t->piece + VRAM__PIECE_TEXT, t->piece + VRAM__PIECE_GRAPH, &g, err);
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
    line->parts = x->parts ? x->parts : x->step.accumulate > 1 ? x->step.accumulate : 1;
    line->batch = a->now.g ? vram__advised_batch(&a->now, x) : 0;
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

/* Are parameters of another size? 1: only those of embeddings and positions, 2: others. */
static int vram__advise_resized(const vram_graph *g, const vram_graph *than) {
  const vram_param *p = g->param_first, *q = than->param_first;
  int found = 0;
  for (; p && q && found < 2; p = p->next, q = q->next)
    if (p->d->numel != q->d->numel)
      found = p->is_value || p->node->op == VRAM_OP_embedding ? 1 : 2;
  return p || q ? 2 : found;
}

/* Is it a dim of inputs, and no depth or width? */
static const char *vram__change_look(vram__advise *a, const vram__change_row *row, vram__advised *x,
                                     vram_alternative *c) {
  vram_graph g;
  vram_error err;
  int resized;
  if (row->effect != VRAM_EFFECT_TASK)
    return NULL;
  if (vram__advise_parse(a, x, a->thread[0].piece + VRAM__PIECE_TEXT,
                         a->thread[0].piece + VRAM__PIECE_GRAPH, &g, &err))
    return "the model does not allow it";
  if (vram__advise_inputs(&g) >= a->now.inputs)
    return "no input has this dim";
  resized = vram__advise_resized(&g, &a->g);
  if (resized > 1)
    return "parameters have this dim: it would be another model";
  if (resized)
    c->cost = "smaller inputs, and fewer positions that learn";
  return NULL;
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
    why = vram__change_look(a, row, &x, c);
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
  if (a->thread[k].stopped || (a->o->step.stop && a->o->step.stop(a->o->step.user))) {
    a->thread[k].stopped = 1;
    return 1;
  }
  a->thread[k].played++;
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
      a->thread[k].lost = 1;
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
  for (i = 0; i < VRAM__ADVISE_THREADS; i++) {
    a->to->stopped |= a->thread[i].stopped;
    a->to->played += a->thread[i].played;
    a->thread[i].played = 0;
  }
}

/* ---- what a line costs and takes ---- */

/* What decides about a line. */
typedef struct vram__advise_sum {
  uint64_t price, allocated, device, retries;
} vram__advise_sum;

/* Operations of a step, whose backward pass has twice those of its forward pass. */
static uint64_t vram__advise_whole(const vram_advice_line *x, int train) {
  const uint64_t plain = x->flops - x->again;
  return vram__sum_or_overflow(vram__product_or_overflow(plain, train ? 3 : 1), x->again);
}

/* Operations and bytes in one number: as in vram fit --parallel auto, a byte sent is 2000, and so
   is one of what lies in the host's memory instead, which crosses the bus. A thousandth of the step
   is nothing. */
static vram__advise_sum vram__advise_sum_of(const vram__advise *a, const vram_advice_line *x) {
  const vram_advice_line *now = &a->to->now;
  const int train = a->o->step.step.train;
  const uint64_t then = vram__advise_whole(x, train), all = vram__advise_whole(now, train);
  const uint64_t sent = x->sent > now->sent ? x->sent - now->sent : 0;
  const uint64_t host = x->report.pinned_bytes, host_now = now->report.pinned_bytes;
  vram__advise_sum sum;
  sum.price = vram__sum_or_overflow(
      then > all ? then - all : 0,
      vram__product_or_overflow(vram__sum_or_overflow(sent, host > host_now ? host - host_now : 0),
                                2000));
  if (sum.price < all / 1000)
    sum.price = 0;
  sum.allocated = x->report.peak_allocated_bytes.expected;
  sum.device = x->report.device_bytes.expected;
  sum.retries = x->fits ? x->report.num_alloc_retries : 0;
  return sum;
}

static int vram__is_a_part(uint64_t bytes, uint64_t of, uint32_t parts) {
  return bytes && bytes >= of / parts;
}

/* What it takes: where it fits only because cached memory goes back, what is allocated says more
   than the device's bytes. 2: a hundredth of either at least, or it fits; 1: less; 0: nothing, or
   less than it takes of the other. */
static int vram__advise_saves(const vram__advise *a, const vram_advice_line *x) {
  const vram_advice_line *now = &a->to->now;
  const vram__advise_sum y = vram__advise_sum_of(a, x), z = vram__advise_sum_of(a, now);
  const uint64_t allocated = z.allocated > y.allocated ? z.allocated - y.allocated : 0;
  const uint64_t device = z.device > y.device ? z.device - y.device : 0;
  if (x->fits > now->fits || vram__is_a_part(allocated, z.allocated, 100) ||
      (vram__is_a_part(device, z.device, 100) && y.allocated <= z.allocated + device))
    return 2;
  return y.allocated <= z.allocated && y.device <= z.device && (allocated || device);
}

/* ---- what a step holds at least ---- */

/* Tensors of a parameter's size in an optimizer's state, which have its dtype or fp32. */
static uint32_t vram__advise_states(vram_optimizer optimizer) {
  static const char *const full[] = {"exp_avg",         "exp_avg_sq", "max_exp_avg_sq",
                                     "momentum_buffer", "square_avg", "sum"};
  vram_optimizer_info info;
  const char *at;
  uint32_t i, len, n = 0;
  if (!vram_optimizer_get_info((uint32_t)optimizer, &info) ||
      vram__text_equal(info.state, "projector", 9)) /* GaLore: of a smaller one */
    return 0;
  for (at = info.state; *at; at += len + (at[len] == ' ')) {
    for (len = 0; at[len] && at[len] != ' ';)
      len++;
    for (i = 0; i < sizeof full / sizeof *full; i++)
      n += (uint32_t)vram__text_is(at, len, full[i]);
  }
  return n;
}

/* Of what is there when the optimizer runs: parameters, gradients, state, of the fullest of many
   ranks at least their share. */
static vram__advise_floor vram__advise_held(const vram__advise *a, const vram_graph *g,
                                            const vram__advised *x) {
  const vram_parallel *of = x->step.parallel;
  const uint32_t states = vram__advise_states(x->step.optimizer);
  const int has_gradients =
      !x->step.optimizer_in_backward && x->step.optimizer != VRAM_OPTIM_lomo && a->all_reached;
  const vram_param *p;
  uint64_t whole = 0, learns = 0, state, gradients, ranks;
  vram__advise_floor held = {0, 0, 0};
  for (p = g->param_first; p; p = p->next) {
    uint64_t bytes = vram__param_bytes(p, p->dtype);
    if (p->is_model && x->step.dtype) {
      const uint64_t other = vram__param_bytes(p, x->step.dtype);
      bytes = p->is_model == 1 || other < bytes ? other : bytes;
    }
    whole = vram__sum_or_overflow(whole, bytes);
    if (!p->kind && x->step.train)
      learns = vram__sum_or_overflow(learns, bytes);
  }
  gradients = has_gradients ? learns : 0;
  state = vram__product_or_overflow(learns, states);
  if (of && (of->cpu_offload || of->offload_param))
    return held;
  if (of && of->offload_optimizer)
    gradients = state = 0;
  ranks = of ? vram_parallel_world(of) : 1;
  if (!of || (of->wrapper != VRAM_WRAPPER_DDP && of->wrapper != VRAM_WRAPPER_ZERO1))
    whole /= ranks;
  held.kept = vram__sum_or_overflow(whole, state / ranks);
  held.bytes = vram__sum_or_overflow(held.kept, gradients / ranks);
  return held;
}

/* Of a step with these lines' changes; 0 bytes: it cannot be. */
static vram__advise_floor vram__advise_floor_of(vram__advise *a, const uint8_t *of, uint32_t n) {
  const vram_advice *to = a->to;
  const vram__change_row *row[VRAM_ADVICE_CHANGES];
  int64_t arg[VRAM_ADVICE_CHANGES];
  vram__advise_floor held = {0, 0, 0};
  vram__advised x;
  vram_graph g;
  vram_error err;
  uint32_t i, m, key = 0;
  for (i = m = 0; i < n; i++) {
    row[m] = vram__change_at(&a->g, to->line[of[i]].change[0], arg + m);
    if (vram__change_has_floor(row[m])) {
      key = key << 8 | (of[i] + 1u);
      m++;
    }
  }
  for (i = 0; i < a->nfloor; i++)
    if (a->floor[i].key == key)
      return a->floor[i];
  vram__advised_begin(a, &x);
  for (i = 0; i < m; i++)
    if (row[i]->apply(&a->now, &x, arg[i], NULL))
      return held;
  if (vram__advise_parse(a, &x, a->thread[0].piece + VRAM__PIECE_TEXT,
                         a->thread[0].piece + VRAM__PIECE_GRAPH, &g, &err))
    return held;
  held = vram__advise_held(a, &g, &x);
  held.key = key;
  if (a->nfloor < VRAM__ADVISE_FLOORS)
    a->floor[a->nfloor++] = held;
  return held;
}

static int vram__advise_too_much(vram__advise *a, const uint8_t *of, uint32_t n) {
  const uint64_t floor = vram__advise_floor_of(a, of, n).bytes;
  return a->o->step.budget_bytes &&
         vram__sum_or_overflow(floor, a->to->now.report.context_bytes.lower) >
             a->o->step.budget_bytes;
}

/* ---- changes alone, played ---- */

/* Keeps the lines that were played and save something. */
static void vram__advise_keep(vram__advise *a, uint32_t from) {
  vram_advice *to = a->to;
  uint32_t i, n = from;
  for (i = from; i < to->nline; i++) {
    vram_advice_line *x = to->line + i;
    int saves;
    if (x->nchange == 1 && !x->played && !to->stopped)
      vram__change_refuse(to->alternative + x->change[0], a->error[x->change[0]].text);
    if (!x->played)
      continue;
    saves = vram__advise_saves(a, x);
    x->is_trifle = saves == 1;
    if (saves)
      to->line[n++] = *x;
  }
  to->nline = n;
}

static int vram__change_is_plan(const vram_alternative *c) {
  return vram__text_equal(c->options, " --checkpoint auto", 18);
}

/* A plan that was not played, as alone it cannot fit, goes into combinations as if it took what
   checkpointed layers take. */
static void vram__advise_keep_plan(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i, k;
  for (i = 0; i < to->nalternative; i++)
    if (vram__change_is_plan(to->alternative + i) && a->is_unplayed[i])
      for (k = 0; k < to->nline; k++)
        if (vram__text_is(to->alternative[to->line[k].change[0]].options, 20,
                          " --checkpoint layers")) {
          vram_advice_line *x = to->line + to->nline++;
          *x = to->line[k];
          x->change[0] = i;
          x->played = 0;
          return;
        }
}

/* Its checkpoints are planned last: parameters, their gradients and state may be too much. */
static void vram__advise_alone(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i, plans;
  for (i = 0; i < to->nalternative; i++)
    vram__change_make(a, i);
  for (plans = 0; plans < 2; plans++)
    for (i = 0; i < to->nalternative; i++) {
      vram_alternative *c = to->alternative + i;
      vram_advice_line *x = to->line + to->nline;
      if (*c->why_not || vram__change_is_plan(c) != (plans != 0))
        continue;
      if (plans && vram__advise_too_much(a, NULL, 0)) {
        vram__change_refuse(c, "parameters, gradients and the optimizer's state alone are more "
                               "than the budget");
        a->is_unplayed[i] = 1;
        continue;
      }
      if (to->played + to->nline >= a->most) {
        vram__change_refuse(c, "not tried: --tries");
        to->left++;
        continue;
      }
      vram__memory_zero(x, sizeof *x);
      x->nchange = 1;
      x->change[0] = i;
      x->effect = c->effect;
      to->nline++;
    }
  a->from = 0;
  vram__advise_run(a, to->nline);
  vram__advise_keep(a, 0);
  vram__advise_keep_plan(a);
}

/* ---- combinations ---- */

/* A plan of checkpoints is many steps by itself: it is not one of three. */
static int vram__advise_is_plan(const vram_advice *to, const vram_advice_line *x) {
  return vram__change_is_plan(to->alternative + x->change[0]);
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
  if (x->far_off != y->far_off)
    return x->far_off < y->far_off;
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

/* What a step takes beyond what it holds, when the model runs and when the optimizer does. */
static void vram__advise_rest(const vram_advice_line *x, const vram__advise_floor *held,
                              double rest[2]) {
  const vram_phase_report *phase = x->report.phase;
  const uint64_t optimizer = phase[VRAM_PHASE_OPTIMIZER].requested_peak_bytes;
  uint64_t model = phase[VRAM_PHASE_FORWARD].requested_peak_bytes;
  if (phase[VRAM_PHASE_BACKWARD].requested_peak_bytes > model)
    model = phase[VRAM_PHASE_BACKWARD].requested_peak_bytes;
  rest[0] = model > held->kept ? (double)(model - held->kept) : 1;
  rest[1] = optimizer > held->bytes ? (double)(optimizer - held->bytes) : 1;
}

/* Where it may end: what it holds, and of the rest of now as much as the changes leave one by one.
   It says what is played first, and no more than that. */
static uint8_t vram__choice_far_off(vram__advise *a, const vram__advise_choice *c,
                                    const vram__advise_floor *held) {
  const vram_advice *to = a->to;
  const uint64_t budget = a->o->step.budget_bytes;
  const uint64_t context = to->now.report.context_bytes.expected;
  const double room = budget > context ? (double)(budget - context) : 0;
  const vram__advise_floor of_now = vram__advise_floor_of(a, NULL, 0);
  double now[2], guess[2];
  uint32_t i, k;
  vram__advise_rest(&to->now, &of_now, now);
  vram__advise_rest(&to->now, &of_now, guess);
  for (i = 0; i < c->n; i++) {
    const vram__advise_floor of_it = vram__advise_floor_of(a, c->of + i, 1);
    double one[2];
    vram__advise_rest(to->line + c->of[i], &of_it, one);
    for (k = 0; k < 2; k++)
      guess[k] *= one[k] / now[k];
  }
  guess[0] += (double)held->kept;
  guess[1] += (double)held->bytes;
  if (guess[0] < guess[1])
    guess[0] = guess[1];
  return guess[0] <= room * 1.1 ? 0 : guess[0] <= room * 2 ? 1 : 2;
}

/* A combination of lines of single changes; 0: they do not go together, or need no one more. */
static int vram__choice_make(vram__advise *a, vram__advise_choice *c) {
  const vram_advice *to = a->to;
  const uint64_t now = to->now.report.peak_allocated_bytes.expected;
  uint32_t i, k, group[VRAM_ADVICE_CHANGES];
  c->price = c->saves = 0;
  c->effect = VRAM_EFFECT_SAME;
  for (i = 0; i < c->n; i++) {
    const vram_advice_line *x = to->line + c->of[i];
    const vram__advise_sum sum = vram__advise_sum_of(a, x);
    group[i] = vram__advise_group(a, x);
    for (k = 0; k < i; k++)
      if (group[k] == group[i])
        return 0;
    if (x->fits || (c->n == 3 && vram__advise_is_plan(to, x)))
      return 0;
    c->effect = x->effect > c->effect ? x->effect : c->effect;
    c->price = vram__sum_or_overflow(c->price, sum.price);
    c->saves = vram__sum_or_overflow(c->saves, now > sum.allocated ? now - sum.allocated : 0);
  }
  return c->n < 3 || !vram__advise_has_fitting(a, c->of);
}

/* All of n changes that do not fit alone and save something, and that may reach the budget. list
   NULL: how many there are at most. */
static uint32_t vram__choices_make(vram__advise *a, uint32_t n, vram__advise_choice *list) {
  uint32_t i, k, l, count = 0;
  for (i = 0; i < a->first; i++)
    for (k = i + 1; k < a->first; k++)
      for (l = n == 2 ? i : k + 1; l < (n == 2 ? i + 1 : a->first); l++) {
        vram__advise_choice c;
        vram__memory_zero(&c, sizeof c);
        c.n = (uint8_t)n;
        c.of[0] = (uint8_t)i;
        c.of[1] = (uint8_t)k;
        c.of[2] = (uint8_t)l;
        if (!vram__choice_make(a, &c))
          continue;
        if (list) {
          const vram__advise_floor held = vram__advise_floor_of(a, c.of, n);
          if (vram__advise_too_much(a, c.of, n))
            continue;
          c.far_off = vram__choice_far_off(a, &c, &held);
          list[count] = c;
        }
        count++;
      }
  return count;
}

static void vram__choice_line(const vram_advice *to, const vram__advise_choice *c,
                              vram_advice_line *x) {
  uint32_t k;
  vram__memory_zero(x, sizeof *x);
  x->nchange = c->n;
  x->effect = c->effect;
  for (k = 0; k < c->n; k++)
    x->change[k] = to->line[c->of[k]].change[0];
  for (k = 1; k < c->n; k++) /* of the lines of single changes plans are the last */
    if (x->change[k] < x->change[k - 1]) {
      const uint32_t swap = x->change[k];
      x->change[k] = x->change[k - 1];
      x->change[k - 1] = swap;
      k = 0;
    }
}

/* Is there one that fits? */
static int vram__advise_found(const vram_advice *to) {
  uint32_t i;
  for (i = 0; i < to->nline; i++)
    if (to->line[i].fits)
      return 1;
  return 0;
}

/* Those that are as far off as that at most, and at least; the cheapest first, as many as may be
   played. */
static void vram__choices_play(vram__advise *a, const vram__advise_choice *list, uint32_t count,
                               int is_far, uint32_t room) {
  vram_advice *to = a->to;
  const uint32_t from = to->nline;
  const int skips = to->stopped || (is_far && vram__advise_found(to));
  uint32_t i, k;
  for (i = 0; i < count; i++) {
    const vram__advise_choice *c = list + i;
    int plan = 0;
    if ((c->far_off > 1) != is_far)
      continue;
    for (k = 0; k < c->n; k++)
      plan |= vram__advise_is_plan(to, to->line + c->of[k]);
    if (skips || (plan && a->plans >= VRAM__ADVISE_PLANS)) {
      to->skipped++;
      continue;
    }
    if (to->nline >= room || to->played + (to->nline - from) >= a->most) {
      to->left++;
      continue;
    }
    a->plans += (uint32_t)plan;
    vram__choice_line(to, c, to->line + to->nline++);
  }
  a->from = from;
  vram__advise_run(a, to->nline - from);
  vram__advise_keep(a, from);
}

/* Two and three at a time; those that do not fit by far, as they look, only where nothing else
   does. */
static vram_result vram__advise_together(vram__advise *a, uint32_t room) {
  vram__advise_piece p[2] = {{NULL, 0}, {NULL, 0}};
  uint32_t n, count[2] = {0, 0};
  vram_result r = VRAM_OK;
  for (n = 0; n < 2 && !r; n++) {
    const uint64_t most = vram__choices_make(a, n + 2, NULL);
    if (!most)
      continue;
    if (!vram__advise_room(a, p + n, most * sizeof(vram__advise_choice)))
      r = VRAM_ERR_MEMORY;
    else {
      vram__advise_choice *list = (vram__advise_choice *)p[n].mem;
      count[n] = vram__choices_make(a, n + 2, list);
      vram__choices_sort(list, count[n]);
      vram__choices_play(a, list, count[n], 0, room);
    }
  }
  for (n = 0; n < 2; n++) {
    if (!r && count[n])
      vram__choices_play(a, (const vram__advise_choice *)p[n].mem, count[n], 1, room);
    vram__advise_drop(a, p + n);
  }
  return r;
}

/* ---- the order ---- */

/* Is y the same as x in fewer parts of the batch? */
static int vram__advise_is_coarser(const vram__advise *a, const vram_advice_line *y,
                                   const vram_advice_line *x) {
  uint32_t i;
  int64_t arg;
  for (i = 0; i < x->nchange && y->nchange == x->nchange; i++)
    if (vram__change_at(&a->g, x->change[i], &arg)->group !=
            vram__change_at(&a->g, y->change[i], &arg)->group ||
        (x->change[i] != y->change[i] &&
         !vram__change_is_parts(vram__change_at(&a->g, x->change[i], &arg))))
      return 0;
  return y->nchange == x->nchange && y->parts < x->parts;
}

/* One training is no worse than another one: only with what x has, too, y may beat it. */
static int vram__advise_trains_alike(const vram__advise *a, const vram_advice_line *y,
                                     const vram_advice_line *x) {
  uint32_t i, k;
  for (i = 0; i < y->nchange; i++) {
    for (k = 0; k < x->nchange && x->change[k] != y->change[i]; k++)
      ;
    if (k == x->nchange && a->to->alternative[y->change[i]].effect >= VRAM_EFFECT_TRAINING)
      return 0;
  }
  return 1;
}

/* Does y take as little as x at as little cost, and less of something? Of those that fit, fewer
   parts of the batch are enough. */
static int vram__advise_beats(const vram__advise *a, const vram_advice_line *y,
                              const vram_advice_line *x) {
  const vram__advise_sum p = vram__advise_sum_of(a, y), q = vram__advise_sum_of(a, x);
  if (y->fits && x->fits && !a->to->now.fits) {
    if (vram__advise_is_coarser(a, y, x))
      return 1;
    if (vram__advise_is_coarser(a, x, y))
      return 0;
  }
  if (y->fits < x->fits || y->effect > x->effect || p.price > q.price || p.retries > q.retries ||
      p.allocated > q.allocated || (p.device > q.device && !(y->fits && x->fits)) ||
      y->nchange > x->nchange || !vram__advise_trains_alike(a, y, x))
    return 0;
  return y->fits > x->fits || y->effect < x->effect || p.price < q.price ||
         p.allocated < q.allocated || p.retries < q.retries || y->nchange < x->nchange;
}

/* What is saved for a unit of its price; without one it is everything. */
static int vram__advise_pays_more(const vram__advise_sum *p, const vram__advise_sum *q,
                                  uint64_t now) {
  const double ps = now > p->allocated ? (double)(now - p->allocated) : 0;
  const double qs = now > q->allocated ? (double)(now - q->allocated) : 0;
  if (!p->price || !q->price)
    return !p->price && (q->price || ps > qs);
  return ps * (double)q->price > qs * (double)p->price;
}

static int vram__advise_before(const vram__advise *a, const vram_advice_line *x,
                               const vram_advice_line *y) {
  const vram_advice_line *now = &a->to->now;
  const vram__advise_sum p = vram__advise_sum_of(a, x), q = vram__advise_sum_of(a, y);
  const uint64_t all = now->report.peak_allocated_bytes.expected;
  const int searching = a->o->step.budget_bytes && !now->fits;
  if (searching && x->fits != y->fits)
    return x->fits > y->fits;
  if (searching && !x->fits)
    return p.device < q.device;
  if (x->is_trifle != y->is_trifle)
    return x->is_trifle < y->is_trifle;
  if (x->effect != y->effect)
    return x->effect < y->effect;
  if (x->largest && y->largest && x->largest != y->largest) {
    const double xg = (double)(x->largest - a->to->now.largest) / (p.price ? (double)p.price : 1.0);
    const double yg = (double)(y->largest - a->to->now.largest) / (q.price ? (double)q.price : 1.0);
    if (xg > yg || xg < yg)
      return xg > yg;
  }
  if (!x->largest != !y->largest)
    return x->largest != 0;
  if (!searching)
    return vram__advise_pays_more(&p, &q, all);
  if (p.price != q.price)
    return p.price < q.price;
  if (p.retries != q.retries)
    return p.retries < q.retries;
  if (x->nchange != y->nchange)
    return x->nchange < y->nchange;
  return x->parts != y->parts ? x->parts < y->parts : p.allocated < q.allocated;
}

static void vram__advise_mark(vram__advise *a) {
  vram_advice *to = a->to;
  uint32_t i, k, n = 0;
  for (i = 0; i < to->nline; i++)
    if (to->line[i].played)
      to->line[n++] = to->line[i];
  to->nline = n;
  for (i = 0; i < to->nline; i++) {
    vram_advice_line *x = to->line + i;
    x->is_pareto = !x->is_trifle;
    for (k = 0; k < to->nline && x->is_pareto; k++)
      x->is_pareto = k == i || !vram__advise_beats(a, to->line + k, x);
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
  if (a->thread[k].stopped || (a->o->step.stop && a->o->step.stop(a->o->step.user))) {
    a->thread[k].stopped = 1;
    return 1;
  }
  vram__advised_begin(a, &x);
  for (n = 0; n < line->nchange; n++) {
    int64_t arg;
    vram__change_at(&a->g, line->change[n], &arg)->apply(&a->now, &x, arg, NULL);
  }
  if ((line->is_pareto && !x.step.parallel) || !line->nchange) /* ranks may share the batch */
    line->largest = vram__advise_batch(a, &x);
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
  const vram_node *n;
  const vram_param *p;
  uint64_t learns = 0;
  vram__advised x;
  vram_result r;
  vram__advise_base(a);
  vram__advised_begin(a, &x);
  r = vram__advise_parse(a, &x, a->thread[0].piece + VRAM__PIECE_TEXT, &a->kept, &a->g, err);
  if (!r)
    r = vram__advise_play(a, 0, &x, &a->to->now, err);
  a->to->played = 1;
  a->now.o = a->o;
  a->now.g = &a->g;
  a->now.dtype = r ? VRAM_DTYPE_NONE : a->to->now.report.dtype;
  a->now.inputs = r ? 0 : vram__advise_inputs(&a->g);
  for (n = a->g.first; !r && n; n = n->next)
    a->now.has_batch_norm |= n->op == VRAM_OP_batch_norm && VRAM__INT(n, training, 1);
  for (p = a->g.param_first; !r && p; p = p->next)
    if (!p->kind)
      learns = vram__sum_or_overflow(learns, vram__param_bytes(p, p->dtype));
  a->all_reached = !r && !x.step.dtype && a->to->now.report.gradients_bytes >= learns;
  return r;
}

static vram_result vram__advise_all(vram__advise *a, vram_error *err) {
  vram_advice *to = a->to;
  const uint32_t room = a->most + VRAM__CHANGES;
  vram__advise_piece p = {NULL, 0};
  vram_result r = vram__advise_now(a, err);
  uint32_t i;
  int lost = 0;
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
  if (a->o->step.budget_bytes && !to->now.fits)
    r = vram__advise_together(a, room);
  for (i = 0; i < VRAM__ADVISE_THREADS; i++)
    lost |= a->thread[i].lost;
  if (r || lost)
    return vram__advise_no_memory(err);
  vram__advise_mark(a);
  vram__advise_batches(a);
  for (i = 0; i < VRAM__ADVISE_THREADS; i++)
    to->stopped |= a->thread[i].stopped;
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
  if (o->most > VRAM__ADVISE_MOST)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "more steps to be played than 100000");
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
