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
  const vram_node *n;
  const char *line;
  uint32_t i, k;
  for (i = 0; i < g->nvalue; i++)
    c->held[i] = 0, c->side[i] = 0;
  for (n = g->first; n; n = n->next) {
    int grad = 0;
    for (i = 0; i < n->nparam; i++)
      grad |= n->param[i] && n->param[i]->kind == VRAM__PARAM;
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      const vram_value *v = n->in[i];
      grad |= v->node ? !(c->side[v->index] & 1) : (v->flags & VRAM__GRAD) != 0;
    }
    if (n->op == VRAM_OP_detach)
      grad = 0;
    for (i = 0; i < n->nout; i++)
      c->side[n->out[i].index] = !grad || vram__kind_rank(n->out[i].dtype) < 2;
  }
  for (n = g->first, line = NULL; n; n = n->next) { /* held: readers, by lines */
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      for (k = 0; k < i && n->in[k] != n->in[i];)
        k++;
      c->held[n->in[i]->index] += k == i && n->name != line;
    }
    line = n->name;
  }
  for (i = 0; i < g->nvalue; i++)
    c->side[i] |= c->held[i] >= 4;
}

/* Every place between lines where one value crosses that is no side value. */
static void vram__cuts_find(const vram_graph *g, vram__cuts *c) {
  const vram_node *n, *from, *end;
  const vram_value *one = NULL;
  const char *loss = g->root->node ? g->root->node->name : NULL;
  uint32_t i, j, live = 0;
  uint64_t sum = 0; /* of the indices of those that live */
  c->ncut = 0;
  for (from = n = g->first; n; n = end->next) {
    end = vram__line_end_of(n);
    if (n->name == loss)
      break;
    if (n->op == VRAM__OP_drop)
      continue;
    for (; n != end->next; n = n->next) {
      for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
        const vram_value *v = n->in[i];
        for (j = 0; j < i && n->in[j] != v;)
          j++;
        if (j == i && v->node && !c->side[v->index] && !vram__step_is_captured(v) &&
            c->last[v->index] == n->index)
          live--, sum -= v->index;
      }
      for (i = 0; i < n->nout; i++)
        if (!vram__step_is_captured(&n->out[i]) && !c->side[n->out[i].index] &&
            c->last[n->out[i].index] > n->index) {
          live++, sum += n->out[i].index;
          one = &n->out[i];
        }
    }
    if (live != 1)
      continue;
    while (one->index != sum) { /* the one that is left was made before */
      const vram_node *m = one->node;
      for (i = 0; i < m->nout && m->out[i].index != sum;)
        i++;
      if (i < m->nout)
        one = &m->out[i];
      else if (m->prev) {
        while (m->prev && !m->prev->nout)
          m = m->prev;
        if (!m->prev)
          break;
        one = &m->prev->out[0];
      } else
        break;
    }
    if (one->index != sum || c->last[one->index] == UINT32_MAX)
      continue;
    while (end->next && end->next->op == VRAM__OP_drop) /* what goes here goes with the stage */
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

/* Plays a step, and counts what happens in its stages. */
static vram_result vram__cuts_play(const vram_graph *g, const vram_step_options *o, vram__cuts *c,
                                   void *scratch, uint64_t bytes, vram_report *r, vram__step *s) {
  const vram_node *n = g->first;
  vram_result result;
  uint32_t i;
  for (i = 0; i < c->ncut; i++) {
    for (; n && n->index <= c->cut[i].last->index; n = n->next)
      c->stage_of[n->index] = i;
    c->cut[i].gone = 0;
    c->cut[i].bad = 0;
    c->cut[i].id = UINT32_MAX;
  }
  c->plain = o->ncheckpoint != 0;
  c->at = c->nheld = 0;
  c->phase = 0;
  c->now = c->peak = c->workspace = 0;
  c->side_bytes = c->autocast = c->autocast_peak = c->workspace_left = c->carried = 0;
  s->count.live = NULL;
  s->count.live_cap = 0;
  s->count.stop_at = 0;
  s->replay = NULL;
  s->cuts = c;
  s->problem_node = NULL;
  s->problem = vram__step_misuse(g, o, &result);
  if (s->problem)
    return result;
  /* which leaves get a gradient is known beforehand: only the step itself is counted */
  result = vram__step_run(g, o, scratch, bytes, r, s, 0);
  if (c->phase)
    vram__cuts_close_stage(c);
  return result;
}

/* "first..last", at most 2 * VRAM_MAX_NAME bytes with the zero at the end. */
static uint32_t vram__stage_name(const vram_node *first, const vram_node *last, char *to) {
  const uint32_t most = VRAM_MAX_NAME - 1;
  uint32_t n = vram_node_name(first, to, most), more;
  n = n < most ? n : most - 1;
  while (last != first && last->op == VRAM__OP_drop)
    last = last->prev;
  if (first->name == last->name && first->round == last->round)
    return n + 1;
  to[n] = to[n + 1] = '.';
  more = vram_node_name(last, to + n + 2, most);
  return n + 2 + (more < most ? more : most - 1) + 1;
}

VRAM_API vram_result vram_chain_cut(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, void *scratch, uint64_t scratch_bytes,
                                    vram_chain *chain, vram_error *err) {
  vram_step_options step;
  vram__cuts c;
  vram__step s;
  vram_report r;
  vram_range *range;
  vram_stage *stage;
  vram_way *way;
  vram_result result;
  char *name;
  uint8_t *mem;
  uint64_t used = 0, cap, all = 0, fixed;
  uint32_t i, k, names;
  vram__memory_zero(chain, sizeof *chain);
  if (!o || !o->train || o->checkpoint_segments || o->ncheckpoint)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "a chain is cut from a training step without checkpoints");
  if (!g->root || !g->first)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "a model without a loss");
  if (!scratch || scratch_bytes < 64 + vram__cuts_bytes(g))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, vram_result_text(VRAM_ERR_MEMORY));
  mem = (uint8_t *)scratch + (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  cap = (scratch_bytes - 8) & ~(uint64_t)7;
  vram__memory_zero(&c, sizeof c);
  c.cut =
      (vram__segment *)vram__memory_take(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *c.cut);
  stage =
      (vram_stage *)vram__memory_take(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *stage);
  way = (vram_way *)vram__memory_take(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *way);
  range =
      (vram_range *)vram__memory_take(mem, &used, cap, (g->nnode + UINT64_C(1)) * sizeof *range);
  c.stage_of =
      (uint32_t *)vram__memory_take(mem, &used, cap, g->nnode * (uint64_t)sizeof *c.stage_of);
  c.last = (uint32_t *)vram__memory_take(mem, &used, cap, g->nvalue * (uint64_t)sizeof *c.last);
  c.held = (uint32_t *)vram__memory_take(mem, &used, cap, g->nvalue * (uint64_t)sizeof *c.held);
  c.side = (uint8_t *)vram__memory_take(mem, &used, cap, g->nvalue);
  names = g->nnode < VRAM_MAX_STAGES ? g->nnode + 1 : VRAM_MAX_STAGES;
  name = (char *)vram__memory_take(mem, &used, cap, names * (uint64_t)2 * VRAM_MAX_NAME);
  if (!name)
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, vram_result_text(VRAM_ERR_MEMORY));
  vram__memory_zero(c.cut, (g->nnode + UINT64_C(1)) * sizeof *c.cut);
  step = *o;
  step.event = NULL;
  step.nodes = NULL;
  step.replay = NULL;
  step.accumulate = 0;
  vram__ranges_last_uses(g, c.last);
  vram__cuts_sides(g, &c);
  vram__cuts_find(g, &c);
  if (!max_stages || max_stages > VRAM_MAX_STAGES)
    max_stages = max_stages ? VRAM_MAX_STAGES : VRAM__STAGES;
  for (;;) {
    const uint32_t before = c.ncut;
    result = vram__cuts_play(g, &step, &c, mem + used, cap - used, &r, &s);
    if (result)
      break;
    for (i = 0; i + 1 < c.ncut;) /* nor between a tensor and a view of it */
      if (c.cut[i].bad || c.cut[i].id == UINT32_MAX || (i && c.cut[i].id == c.cut[i - 1].id))
        vram__cuts_join(&c, i);
      else
        i++;
    if (c.ncut < before)
      continue;
    while (c.ncut > max_stages) {
      uint64_t least = UINT64_MAX;
      for (i = k = 0; i + 1 < c.ncut; i++)
        if (c.cut[i].saved + c.cut[i + 1].saved < least)
          least = c.cut[i].saved + c.cut[i + 1].saved, k = i;
      c.cut[k + 1].saved = least;
      vram__cuts_join(&c, k);
    }
    if (c.ncut == before)
      break;
  }
  fixed = c.side_bytes + c.autocast_peak + c.workspace_left;
  for (i = 0; !result && i < VRAM_CATEGORY_COUNT; i++) {
    uint64_t bytes = r.before_category_bytes[i];
    if (i == VRAM_CATEGORY_GRADIENTS && bytes < r.gradients_bytes)
      bytes = r.gradients_bytes;
    fixed = vram__sum_or_overflow(fixed, bytes);
  }
  if (!result && c.ncut > 1) {
    for (i = 0; i + 1 < c.ncut; i++)
      range[i].first = c.cut[i].first, range[i].last = c.cut[i].last;
    step.checkpoint = range;
    step.ncheckpoint = c.ncut - 1;
    step.reentrant = 0;
    result = vram__cuts_play(g, &step, &c, mem + used, cap - used, &r, &s);
  }
  if (result) {
    vram__error_begin(err, result, s.problem_node ? s.problem_node->line : 0,
                      s.problem ? s.problem : vram_result_text(result));
    return result;
  }
  for (i = 0; i < c.ncut; i++) {
    const vram__segment *q = c.cut + i;
    const vram_node *n;
    uint64_t flops = 0;
    for (n = q->first; n != q->last->next; n = n->next)
      flops = vram__sum_or_overflow(flops, vram_node_flops(n));
    all = vram__sum_or_overflow(all, flops);
    way[i].saved_bytes = q->saved;
    way[i].forward_temp_bytes = q->forward_temp;
    way[i].backward_temp_bytes = q->backward_temp;
    way[i].forward_cost = flops;
    way[i].backward_cost = vram__product_or_overflow(2, flops);
    vram__memory_zero(stage + i, sizeof *stage);
    stage[i].output_bytes = i + 1 < c.ncut ? q->output : 0;
    stage[i].forward_cost = flops;
    stage[i].forward_temp_bytes = i + 1 < c.ncut ? q->plain_temp : q->forward_temp;
    stage[i].way = way + i;
    stage[i].nway = 1;
    stage[i].first = q->first, stage[i].last = q->last;
    stage[i].name = name;
    name += vram__stage_name(q->first, q->last, name);
  }
  if (all > VRAM_MAX_BYTES / 4)
    return vram__error_begin(err, VRAM_ERR_OVERFLOW, 0, "operations beyond 63 bits");
  chain->stage = stage;
  chain->nstage = c.ncut;
  chain->static_bytes = fixed;
  chain->align = 512;
  vram__error_clear(err);
  return VRAM_OK;
}
