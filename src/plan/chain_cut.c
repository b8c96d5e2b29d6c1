/* >>plan/chain_cut    a chain cut from a graph */
#include "plan/plan.h"
#include "step/step.h"

#define VRAM__STAGES 128 /* of a chain, if nothing else is asked for */

/* Bytes in front of a step's scratch. */
static uint64_t vram__cuts_bytes(const vram_graph *g) {
  const uint64_t node = sizeof(vram__segment) + sizeof(uint32_t) + sizeof(vram_range) +
                        sizeof(vram_stage) + sizeof(vram_way) + 16;
  const uint64_t names = g->nnode < VRAM_MAX_STAGES ? g->nnode + UINT64_C(1) : VRAM_MAX_STAGES;
  const uint64_t value = 2 * sizeof(uint32_t) + 1;
  return vram__sum_or_overflow(
      vram__sum_or_overflow(vram__product_or_overflow(g->nnode + UINT64_C(1), node),
                            vram__product_or_overflow(g->nvalue, value)),
      256 + names * 2 * VRAM_MAX_NAME);
}

VRAM_API uint64_t vram_chain_cut_bytes(const vram_graph *g, const vram_step_options *o) {
  vram_step_options with;
  uint64_t step = vram_step_bytes(g, o);
  if (o) { /* every stage is a checkpointed range in one of the steps */
    with = *o;
    with.replay = NULL;
    with.checkpoint = NULL;
    with.ncheckpoint = g->nnode;
    step = vram__sum_or_overflow(step, vram_step_bytes(g, &with));
  }
  return vram__sum_or_overflow(vram__cuts_bytes(g), step);
}

/* Which values no cut waits for: those without a gradient, and those with many readers. */
static void vram__cuts_sides(const vram_graph *g, vram__cuts *c) {
  const vram_node *n, *line;
  uint32_t i, k;
  for (i = 0; i < g->nvalue; i++)
    c->held[i] = c->side[i] = 0;
  for (n = g->first; n; n = n->next) {
    int grad = 0;
    for (i = 0; i < n->nparam; i++)
      grad |= n->param[i] && n->param[i]->kind == VRAM__PARAM;
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      const vram_value *v = n->in[i];
      grad |= v->node ? !(c->side[v->index] & 1) : (v->flags & VRAM__GRAD) != 0;
    }
    if (n->op == VRAM_OP_detach || (n->flags & VRAM__NO_GRAD))
      grad = 0;
    for (i = 0; i < n->nout; i++)
      c->side[n->out[i].index] = !grad || vram__kind_rank(n->out[i].dtype) < 2;
  }
  for (n = g->first, line = NULL; n; n = n->next) { /* held: readers, by lines */
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      for (k = 0; k < i && n->in[k] != n->in[i];)
        k++;
      c->held[n->in[i]->index] += k == i && !(line && vram__node_same_line(n, line));
    }
    line = n;
  }
  for (i = 0; i < g->nvalue; i++)
    c->side[i] |= c->held[i] >= 4;
}

/* Values that cross the place behind a node: how many, the sum of their indices, the last made. */
typedef struct vram__crossing {
  uint32_t live;
  uint64_t sum;
  const vram_value *one;
} vram__crossing;

/* A node takes the values that it uses last, and makes its own. */
static void vram__crossing_pass(vram__crossing *x, const vram_node *n, const vram__cuts *c) {
  uint32_t i, j;
  for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
    const vram_value *v = n->in[i];
    for (j = 0; j < i && n->in[j] != v;)
      j++;
    if (j == i && v->node && !c->side[v->index] && !vram__step_is_captured(v) &&
        c->last[v->index] == n->index) {
      x->live--;
      x->sum -= v->index;
    }
  }
  for (i = 0; i < n->nout; i++) {
    const vram_value *v = &n->out[i];
    if (!vram__step_is_captured(v) && !c->side[v->index] && c->last[v->index] > n->index) {
      x->live++;
      x->sum += v->index;
      x->one = v;
    }
  }
}

/* The only value that crosses, whose index is the sum: it may have been made before the last one.
   NULL: it is not found. */
static const vram_value *vram__crossing_value(const vram__crossing *x) {
  const vram_value *one = x->one;
  uint32_t i;
  while (one->index != x->sum) {
    const vram_node *m = one->node;
    for (i = 0; i < m->nout && m->out[i].index != x->sum;)
      i++;
    if (i < m->nout)
      return &m->out[i];
    do
      m = vram__node_before(m);
    while (m && !m->nout);
    if (!m)
      return NULL;
    one = &m->out[0];
  }
  return one;
}

/* Every place between lines where one value crosses that is no side value. */
static void vram__cuts_find(const vram_graph *g, vram__cuts *c) {
  const vram_node *n, *from, *end;
  const vram_node *loss = g->root->node;
  vram__crossing x;
  vram__memory_zero(&x, sizeof x);
  c->ncut = 0;
  for (from = n = g->first; n; n = end->next) {
    const vram_value *one;
    end = vram__line_end_of(n);
    if (loss && vram__node_same_line(n, loss))
      break;
    if (vram__node_is_lifetime(n))
      continue;
    for (; n != end->next; n = n->next)
      vram__crossing_pass(&x, n, c);
    if (x.live != 1 || vram__block_goes_on(end))
      continue;
    one = vram__crossing_value(&x);
    if (!one || c->last[one->index] == UINT32_MAX)
      continue;
    x.one = one;
    while (end->next && vram__node_is_lifetime(end->next)) /* what goes here goes with the stage */
      end = vram__line_end_of(end->next);
    c->cut[c->ncut].first = from;
    c->cut[c->ncut].last = end;
    c->cut[c->ncut++].value = one;
    from = end->next;
  }
  c->cut[c->ncut].first = from;
  c->cut[c->ncut].value = NULL;
  for (n = from; n->next;)
    n = n->next;
  c->cut[c->ncut++].last = n;
}

/* Stage i goes to the next one. */
static void vram__cuts_join(vram__cuts *c, uint32_t i) {
  c->cut[i + 1].first = c->cut[i].first;
  for (; i + 1 < c->ncut; i++)
    c->cut[i] = c->cut[i + 1];
  c->ncut--;
}

/* A chain that is being cut, and the steps that are played for it. */
typedef struct vram__cutting {
  const vram_graph *g;
  vram_step_options o; /* of those steps */
  vram__cuts c;
  vram__step s;
  vram_report r;
  vram_range *range;
  vram_stage *stage;
  vram_way *way;
  char *name;
  uint8_t *scratch; /* of the steps */
  uint64_t scratch_bytes;
} vram__cutting;

/* Everything in the caller's scratch. */
static vram_result vram__cuts_layout(vram__cutting *t, void *scratch, uint64_t scratch_bytes) {
  const uint64_t nodes = t->g->nnode, values = t->g->nvalue;
  const uint64_t names = nodes < VRAM_MAX_STAGES ? nodes + 1 : VRAM_MAX_STAGES;
  vram__cuts *c = &t->c;
  uint8_t *mem;
  uint64_t used = 0, cap;
  if (!scratch || scratch_bytes < 64 + vram__cuts_bytes(t->g))
    return VRAM_ERR_MEMORY;
  mem = (uint8_t *)scratch + (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  cap = (scratch_bytes - 8) & ~(uint64_t)7;
#define VRAM__TAKE(to, type, count)                                                                \
  to = (type *)vram__memory_take(mem, &used, cap, (count) * (uint64_t)sizeof(type))
  VRAM__TAKE(c->cut, vram__segment, nodes + 1);
  VRAM__TAKE(t->stage, vram_stage, nodes + 1);
  VRAM__TAKE(t->way, vram_way, nodes + 1);
  VRAM__TAKE(t->range, vram_range, nodes + 1);
  VRAM__TAKE(c->stage_of, uint32_t, nodes);
  VRAM__TAKE(c->last, uint32_t, values);
  VRAM__TAKE(c->held, uint32_t, values);
  VRAM__TAKE(c->side, uint8_t, values);
  VRAM__TAKE(t->name, char, names * 2 * VRAM_MAX_NAME);
#undef VRAM__TAKE
  if (!t->name)
    return VRAM_ERR_MEMORY;
  vram__memory_zero(c->cut, (nodes + 1) * sizeof *c->cut);
  t->scratch = mem + used;
  t->scratch_bytes = cap - used;
  return VRAM_OK;
}

/* Plays a step, and counts what happens in its stages. */
static vram_result vram__cuts_play(vram__cutting *t) {
  const vram_node *n = t->g->first;
  vram__cuts *c = &t->c;
  vram__step *s = &t->s;
  vram_result result;
  uint32_t i;
  for (i = 0; i < c->ncut; i++) {
    for (; n && n->index <= c->cut[i].last->index; n = n->next)
      c->stage_of[n->index] = i;
    c->cut[i].gone = 0;
    c->cut[i].bad = 0;
    c->cut[i].id = UINT32_MAX;
  }
  c->plain = t->o.ncheckpoint != 0;
  c->at = c->nheld = 0;
  c->phase = 0;
  c->now = c->peak = c->workspace = 0;
  c->side_bytes = c->autocast = c->autocast_peak = c->workspace_left = c->carried = 0;
  s->count.live = NULL;
  s->count.live_cap = 0;
  s->count.stop_at = 0;
  s->replay = NULL;
  s->cuts = c;
  s->caches = NULL;
  s->problem_node = NULL;
  s->problem_words.len = 0;
  s->problem = vram__step_misuse(s, t->g, &t->o, &result);
  if (s->problem)
    return result;
  /* which leaves get a gradient is known beforehand: only the step itself is counted */
  result = vram__step_run(t->g, &t->o, t->scratch, t->scratch_bytes, &t->r, s, 0);
  if (c->phase)
    vram__cuts_close_stage(c);
  return result;
}

/* Joins the two neighbours that save the fewest bytes together until so many stages are left. */
static void vram__cuts_thin(vram__cuts *c, uint32_t max_stages) {
  while (c->ncut > max_stages) {
    uint64_t least = UINT64_MAX;
    uint32_t i, at = 0;
    for (i = 0; i + 1 < c->ncut; i++)
      if (c->cut[i].saved + c->cut[i + 1].saved < least) {
        least = c->cut[i].saved + c->cut[i + 1].saved;
        at = i;
      }
    c->cut[at + 1].saved = least;
    vram__cuts_join(c, at);
  }
}

/* Plays steps and joins stages until each cut is one that a checkpointed range may have. */
static vram_result vram__cuts_settle(vram__cutting *t, uint32_t max_stages) {
  vram__cuts *c = &t->c;
  uint32_t i, before = 0;
  while (c->ncut != before) {
    const vram_result result = vram__cuts_play(t);
    if (result)
      return result;
    before = c->ncut;
    for (i = 0; i + 1 < c->ncut;) /* nor between a tensor and a view of it */
      if (c->cut[i].bad || c->cut[i].id == UINT32_MAX || (i && c->cut[i].id == c->cut[i - 1].id))
        vram__cuts_join(c, i);
      else
        i++;
    if (c->ncut == before)
      vram__cuts_thin(c, max_stages);
  }
  return VRAM_OK;
}

/* What lives beside the stages all the time. */
static uint64_t vram__cuts_static(const vram__cutting *t) {
  uint64_t fixed = t->c.side_bytes + t->c.autocast_peak + t->c.workspace_left;
  uint32_t i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++) {
    uint64_t bytes = t->r.before_category_bytes[i];
    if (i == VRAM_CATEGORY_GRADIENTS && bytes < t->r.gradients_bytes)
      bytes = t->r.gradients_bytes;
    fixed = vram__sum_or_overflow(fixed, bytes);
  }
  return fixed;
}

/* All stages but the last as checkpointed ranges: what their forwards take that save nothing. */
static vram_result vram__cuts_play_ranges(vram__cutting *t) {
  uint32_t i;
  if (t->c.ncut < 2)
    return VRAM_OK;
  for (i = 0; i + 1 < t->c.ncut; i++) {
    t->range[i].first = t->c.cut[i].first;
    t->range[i].last = t->c.cut[i].last;
  }
  t->o.checkpoint = t->range;
  t->o.ncheckpoint = t->c.ncut - 1;
  t->o.reentrant = 0;
  return vram__cuts_play(t);
}

/* "first..last", at most 2 * VRAM_MAX_NAME bytes with the zero at the end. */
static uint32_t vram__stage_name(const vram_node *first, const vram_node *last, char *to) {
  const uint32_t most = VRAM_MAX_NAME - 1;
  uint32_t n = vram_node_name(first, to, most), more;
  n = n < most ? n : most - 1;
  while (last != first && vram__node_is_lifetime(last))
    last = vram__node_before(last);
  if (vram__node_same_line(first, last))
    return n + 1;
  to[n] = to[n + 1] = '.';
  more = vram_node_name(last, to + n + 2, most);
  return n + 2 + (more < most ? more : most - 1) + 1;
}

/* The stages from what was counted; returns the operations of all. */
static uint64_t vram__cuts_stages(vram__cutting *t) {
  uint64_t all = 0;
  uint32_t i;
  for (i = 0; i < t->c.ncut; i++) {
    const vram__segment *q = t->c.cut + i;
    const int is_last = i + 1 == t->c.ncut;
    vram_stage *stage = t->stage + i;
    vram_way *way = t->way + i;
    const vram_node *n;
    uint64_t flops = 0, again = 0; /* again: of the blocks of the text, in backward */
    for (n = q->first; n != q->last->next; n = n->next) {
      const uint64_t one = vram_node_flops(n);
      flops = vram__sum_or_overflow(flops, one);
      if (n->block)
        again =
            vram__sum_or_overflow(again, vram__product_or_overflow(one, vram_node_recomputed(n)));
    }
    all = vram__sum_or_overflow(all, flops);
    way->saved_bytes = q->saved;
    way->forward_temp_bytes = q->forward_temp;
    way->backward_temp_bytes = q->backward_temp;
    way->forward_cost = flops;
    way->backward_cost = vram__sum_or_overflow(vram__product_or_overflow(2, flops), again);
    vram__memory_zero(stage, sizeof *stage);
    stage->output_bytes = is_last ? 0 : q->output;
    stage->forward_cost = flops;
    stage->forward_temp_bytes = is_last ? q->forward_temp : q->plain_temp;
    stage->way = way;
    stage->nway = 1;
    stage->first = q->first;
    stage->last = q->last;
    stage->name = t->name;
    t->name += vram__stage_name(q->first, q->last, t->name);
  }
  return all;
}

VRAM_API vram_result vram_chain_cut(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, void *scratch, uint64_t scratch_bytes,
                                    vram_chain *chain, vram_error *err) {
  vram__cutting t;
  vram_result result;
  uint64_t fixed = 0;
  vram__memory_zero(chain, sizeof *chain);
  if (!o || !o->train || o->checkpoint_segments || o->ncheckpoint)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "a chain is cut from a training step without checkpoints");
  if (!g->root || !g->first)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "a model without a loss");
  t.g = g;
  vram__memory_zero(&t.c, sizeof t.c);
  vram__memory_zero(&t.s, sizeof t.s);
  result = vram__cuts_layout(&t, scratch, scratch_bytes);
  if (result)
    return vram__error_begin(err, result, 0, vram_result_text(result));
  t.o = *o;
  t.o.event = NULL;
  t.o.nodes = NULL;
  t.o.replay = NULL;
  t.o.accumulate = 0;
  t.o.parallel = NULL; /* what wraps the step is no part of a stage */
  t.o.last_batch = t.o.evaluation = t.o.dry_run = NULL;
  vram__ranges_last_uses(g, t.c.last);
  vram__cuts_sides(g, &t.c);
  vram__cuts_find(g, &t.c);
  if (!max_stages || max_stages > VRAM_MAX_STAGES)
    max_stages = max_stages ? VRAM_MAX_STAGES : VRAM__STAGES;
  result = vram__cuts_settle(&t, max_stages);
  if (!result) {
    fixed = vram__cuts_static(&t);
    result = vram__cuts_play_ranges(&t);
  }
  if (result)
    return vram__error_begin(err, result, t.s.problem_node ? t.s.problem_node->line : 0,
                             t.s.problem ? t.s.problem : vram_result_text(result));
  if (vram__cuts_stages(&t) > VRAM_MAX_BYTES / 4)
    return vram__error_begin(err, VRAM_ERR_OVERFLOW, 0, "operations beyond 63 bits");
  chain->stage = t.stage;
  chain->nstage = t.c.ncut;
  chain->static_bytes = fixed;
  chain->align = 512;
  vram__error_clear(err);
  return VRAM_OK;
}
