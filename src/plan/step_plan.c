/* >>plan/step_plan    the cheapest checkpointed step within a budget */
#include "plan/step_plan.h"

VRAM__FN vram_result vram__step_memory(const vram_allocator *a, void **memory, uint64_t *bytes,
                                       uint64_t want, vram_error *err) {
  if (*memory && *bytes >= want)
    return VRAM_OK;
  if (*memory)
    a->free(a->user, *memory, *bytes);
  *memory = NULL;
  *bytes = want;
  if (want < VRAM_OVERFLOW)
    *memory = a->alloc(a->user, want);
  return *memory ? VRAM_OK
                 : vram__error_begin(err, VRAM_ERR_MEMORY, 0, "the allocator gave no memory");
}

/* Plays the step with the ranges that q->range holds. */
VRAM__FN vram_result vram__step_try(vram__stepper *q, uint32_t nrange, uint64_t budget,
                                    vram_report *r) {
  vram_result result;
  q->step.checkpoint = q->range;
  q->step.ncheckpoint = nrange;
  q->step.budget_bytes = budget;
  result = vram__step_memory(q->allocator, &q->scratch, &q->scratch_bytes,
                             vram_step_bytes(q->g, &q->step), q->err);
  if (!result)
    result = vram_step(q->g, &q->step, q->scratch, q->scratch_bytes, r, q->err);
  q->plan->tried++;
  return result;
}

/* The ranges of the spans in q->span. */
static void vram__step_ranges(vram__stepper *q, uint32_t count) {
  const vram_stage *stage = q->plan->chain.stage;
  uint32_t i;
  for (i = 0; i < count; i++) {
    q->range[i].first = stage[q->span[i].first].first;
    q->range[i].last = stage[q->span[i].last].last;
  }
}

/* Plans the chain for a budget of its own and turns that into ranges. */
static vram_result vram__step_chain(vram__stepper *q, uint64_t budget, vram_schedule *s,
                                    uint32_t *nrange) {
  const vram_chain *c = &q->plan->chain;
  vram_schedule_options o;
  vram_result result;
  vram__memory_zero(&o, sizeof o);
  o.budget_bytes = budget;
  result = vram__step_memory(q->allocator, &q->table, &q->table_bytes, vram_schedule_bytes(c, &o),
                             q->err);
  if (!result)
    result = vram_schedule_plan(c, &o, q->table, q->table_bytes, s, q->err);
  if (!result)
    result = vram_schedule_spans(c, s->move, s->nmove, q->span, c->nstage, nrange, q->err);
  if (!result)
    vram__step_ranges(q, *nrange);
  return result;
}

/* It is to end, with what there is. */
VRAM__FN int vram__step_stopped(vram__stepper *q) {
  q->plan->stopped = q->plan->stopped || (q->step.stop && q->step.stop(q->step.user));
  q->step.stop = q->plan->stopped ? NULL : q->step.stop;
  return q->plan->stopped;
}

/* The smallest budget that the step with these ranges fits: found by halves. */
VRAM__FN vram_result vram__step_need(vram__stepper *q, uint32_t nrange, uint64_t most,
                                     uint64_t *need) {
  vram_report r;
  uint64_t low, high;
  vram_result result = vram__step_try(q, nrange, VRAM_MAX_BYTES, &r);
  if (result)
    return result;
  high = r.device_bytes.expected < most ? r.device_bytes.expected : most;
  low = r.peak_allocated_bytes.lower; /* without the context that is too little */
  low = low < high ? low - (low != 0) : 0;
  if (!q->step.replay) { /* fits says no more than that */
    *need = r.device_bytes.expected;
    return VRAM_OK;
  }
  *need = VRAM_OVERFLOW;
  result = vram__step_try(q, nrange, high, &r);
  if (result || !r.fits) /* more than another one needs */
    return result;
  while (high - low > 1 && !vram__step_stopped(q)) {
    const uint64_t middle = low + (high - low) / 2;
    result = vram__step_try(q, nrange, middle, &r);
    if (result)
      return result;
    if (r.fits)
      high = middle;
    else
      low = middle;
  }
  *need = high;
  return VRAM_OK;
}

VRAM__COLD VRAM__FN vram_result vram__step_stopped_early(const vram__stepper *q) {
  return vram__error_begin(q->err, VRAM_ERR_CALL, 0, "stopped before a plan that fits was found");
}

/* The grid, then halves between the cheapest that fits and the next one. */
static vram_result vram__step_search(vram__stepper *q, uint64_t budget) {
  vram_planned_step *p = q->plan;
  vram_schedule s;
  vram_report r;
  uint64_t low = 0, high, at, best = 0, best_cost = VRAM_OVERFLOW, above = 0, need, smallest_at = 0;
  uint64_t grid[VRAM__GRID];
  uint32_t i, n;
  vram_result result = vram__step_chain(q, 1, &s, &n); /* what it says of the smallest one */
  if (result)
    return result;
  low = s.smallest_budget_bytes;
  result = vram__step_chain(q, 0, &s, &n);
  if (result)
    return result;
  high = s.peak_bytes > low ? s.peak_bytes : low;
  p->cost_plain = s.cost;
  for (i = 0; i < VRAM__GRID; i++) {
    grid[i] = at = i < VRAM__GRID - 1 ? low + (high - low) / (VRAM__GRID - 1) * i : high;
    result = vram__step_chain(q, at, &s, &n);
    if (!result)
      result = vram__step_try(q, n, budget, &r);
    if (result)
      return result;
    q->ngrid[i] = n;
    vram__memory_copy(q->grid + i * (uint64_t)p->chain.nstage, q->span,
                      n * (uint64_t)sizeof *q->span);
    if (r.fits && s.cost <= best_cost)
      best = at, best_cost = s.cost, above = at + (high - low) / (VRAM__GRID - 1);
    if (vram__step_stopped(q))
      break;
  }
  p->feasible = best != 0;
  for (i = 0; best && i < 12 && above - best > p->chain.align && !vram__step_stopped(q); i++) {
    at = best + (above - best) / 2;
    result = vram__step_chain(q, at, &s, &n);
    if (!result)
      result = vram__step_try(q, n, budget, &r);
    if (result)
      return result;
    if (r.fits && s.cost <= best_cost)
      best = at, best_cost = s.cost;
    else
      above = at;
  }
  p->smallest_budget_bytes = p->stopped ? budget : VRAM_OVERFLOW;
  for (i = 0; i < VRAM__GRID && !vram__step_stopped(q); i++) {
    n = q->ngrid[i];
    vram__memory_copy(q->span, q->grid + i * (uint64_t)p->chain.nstage,
                      n * (uint64_t)sizeof *q->span);
    vram__step_ranges(q, n);
    result = vram__step_need(q, n, p->smallest_budget_bytes, &need);
    if (result)
      return result;
    if (need < p->smallest_budget_bytes)
      p->smallest_budget_bytes = need, smallest_at = grid[i];
  }
  if (p->stopped && !best)
    return vram__step_stopped_early(q);
  if (p->stopped)
    p->smallest_budget_bytes = budget;
  result = vram__step_chain(q, best ? best : smallest_at, &p->schedule, &p->nrange);
  if (!result)
    result = vram__step_try(q, p->nrange, budget, &p->report);
  p->cost = p->schedule.cost;
  p->schedule.stopped = p->stopped;
  return result;
}

/* Cuts a chain, and looks for a plan of it. */
static vram_result vram__step_chain_plan(vram__stepper *q, uint32_t max_stages, uint64_t budget) {
  const vram_graph *g = q->g;
  vram_planned_step *p = q->plan;
  const uint64_t cut = vram_chain_cut_bytes(g, &q->step);
  const uint64_t stages = g->nnode < VRAM_MAX_STAGES ? g->nnode + UINT64_C(1) : VRAM_MAX_STAGES;
  const uint64_t bytes = vram__sum_or_overflow(
      cut, stages * ((VRAM__GRID + 1) * sizeof *q->span + sizeof *q->range) + 64);
  void *moves = NULL;
  uint8_t *mem;
  vram_result result = vram__step_memory(q->allocator, &p->memory, &p->memory_bytes, bytes, q->err);
  if (result)
    return result;
  result = vram_chain_cut(g, &q->step, max_stages, p->memory, cut, &p->chain, q->err);
  mem = (uint8_t *)p->memory + (cut + 7) / 8 * 8;
  q->range = (vram_range *)(void *)mem;
  q->span = (vram_span *)(void *)(mem + stages * sizeof *q->range);
  q->grid = q->span + stages;
  if (!result)
    result = vram__step_try(q, 0, budget, &p->plain);
  if (!result)
    result = vram__step_search(q, budget);
  if (!result)
    result = vram__step_memory(q->allocator, &moves, &p->moves_bytes,
                               (p->schedule.nmove + UINT64_C(1)) * sizeof(vram_move), q->err);
  if (!result) {
    vram__memory_copy(moves, p->schedule.move, p->schedule.nmove * (uint64_t)sizeof(vram_move));
    p->schedule.move = (vram_move *)moves;
  }
  return result;
}

VRAM_API vram_result vram_step_plan(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, const vram_allocator *allocator,
                                    vram_planned_step *plan, vram_error *err) {
  vram__stepper q;
  vram_planned_step p;
  vram_result result;
  vram__memory_zero(plan, sizeof *plan);
  vram__memory_zero(&p, sizeof p);
  vram__memory_zero(&q, sizeof q);
  vram__error_clear(err);
  if (!o || !o->train || o->reentrant)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0,
                             "checkpoints are planned for a training step, not reentrant");
  if (!o->budget_bytes)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "a plan needs a budget");
  q.g = g, q.step = *o, q.allocator = allocator, q.plan = &p, q.err = err;
  q.step.event = NULL;
  q.step.nodes = NULL;
  result = vram__plan_is_by_unit(g, o) ? vram__unit_plan(&q, o->budget_bytes)
                                       : vram__step_chain_plan(&q, max_stages, o->budget_bytes);
  p.span = q.span, p.range = q.range;
  if (q.scratch)
    allocator->free(allocator->user, q.scratch, q.scratch_bytes);
  if (q.table)
    allocator->free(allocator->user, q.table, q.table_bytes);
  if (!result)
    *plan = p;
  else if (p.memory)
    allocator->free(allocator->user, p.memory, p.memory_bytes);
  return result;
}

VRAM_API void vram_step_plan_free(vram_planned_step *plan, const vram_allocator *allocator) {
  if (plan->schedule.move)
    allocator->free(allocator->user, plan->schedule.move, plan->moves_bytes);
  if (plan->memory)
    allocator->free(allocator->user, plan->memory, plan->memory_bytes);
  vram__memory_zero(plan, sizeof *plan);
}
