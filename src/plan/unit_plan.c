/* >>plan/unit_plan    which units to checkpoint within a budget
   A wrapper gathers parameters for a unit as a whole, and so a unit is checkpointed as a whole or
   not at all; in a pipeline a unit lies in one stage, and those of the rank are chosen from. Units
   are taken by what they save for the operations that run again; of equal ones the first in the
   model, or the last, whichever is cheaper in the end. */
#include "plan/step_plan.h"

typedef struct vram__unit_choice {
  vram_range run;
  uint64_t cost, gain; /* operations that run again; bytes that are not saved */
  uint8_t taken, best;
} vram__unit_choice;

typedef struct vram__unit_search {
  vram__stepper *q;
  vram__unit_choice *unit;
  uint32_t *order; /* indices of units, the first to take in front */
  uint32_t n, grid;
  uint64_t budget, best_cost;
} vram__unit_search;

static vram_words vram__plan_units(const vram_step_options *o) { return o->parallel->units; }

VRAM__FN int vram__plan_is_by_unit(const vram_graph *g, const vram_step_options *o) {
  const vram_parallel *p = o->parallel;
  return p &&
         (p->wrapper == VRAM_WRAPPER_FSDP1 || p->wrapper == VRAM_WRAPPER_FSDP2 ||
          p->wrapper == VRAM_WRAPPER_DS3 || vram__pipe_is(o)) &&
         vram_graph_unit_ranges(g, vram__plan_units(o), NULL, 0);
}

/* ---- plays */

/* The ranges of the units that are taken. */
static void vram__units_collect(vram__unit_search *u) {
  uint32_t i, n = 0;
  for (i = 0; i < u->n; i++)
    if (u->unit[i].taken)
      u->q->range[n++] = u->unit[i].run;
  u->q->plan->nrange = n;
}

static vram_result vram__units_try(vram__unit_search *u, uint64_t budget, vram_report *r) {
  vram__units_collect(u);
  return vram__step_try(u->q, u->q->plan->nrange, budget, r);
}

static void vram__units_take(vram__unit_search *u, uint32_t count) {
  uint32_t i;
  for (i = 0; i < u->n; i++)
    u->unit[u->order[i]].taken = i < count;
}

static uint64_t vram__units_cost(const vram__unit_search *u) {
  uint64_t cost = 0;
  uint32_t i;
  for (i = 0; i < u->n; i++)
    if (u->unit[i].taken)
      cost = vram__sum_or_overflow(cost, u->unit[i].cost);
  return cost;
}

/* Plays what is taken; *fits, and the best so far becomes this if it is cheaper. */
static vram_result vram__units_judge(vram__unit_search *u, int *fits) {
  const uint64_t cost = vram__units_cost(u);
  vram_report r;
  uint32_t i;
  const vram_result result = vram__units_try(u, u->budget, &r);
  *fits = !result && r.fits;
  if (*fits && cost < u->best_cost) {
    u->best_cost = cost;
    for (i = 0; i < u->n; i++)
      u->unit[i].best = u->unit[i].taken;
  }
  return result;
}

/* ---- order */

/* A rank runs again what lies in its own stages: the step that was played knows which these are. */
static void vram__units_keep_own(vram__unit_search *u) {
  uint32_t i, n = 0;
  for (i = 0; i < u->n; i++)
    if (vram__pipe_runs(u->q->scratch, u->unit[i].run.first))
      u->unit[n++] = u->unit[i];
  u->n = n;
  u->grid = n < VRAM__GRID ? n : VRAM__GRID;
}

/* As many nodes and operations. */
static int vram__units_are_alike(const vram__unit_choice *a, const vram__unit_choice *b) {
  return a->cost == b->cost &&
         a->run.last->index - a->run.first->index == b->run.last->index - b->run.first->index;
}

/* What each unit saves: of units that are alike the same. */
static vram_result vram__units_weigh(vram__unit_search *u) {
  const vram_pool_options *replay = u->q->step.replay;
  vram_result result;
  uint64_t all;
  vram_report r;
  uint32_t i, k;
  u->q->step.replay = NULL;
  result = vram__units_try(u, VRAM_MAX_BYTES, &r);
  all = r.saved_bytes;
  for (i = 0; i < u->n && !result && !vram__step_stopped(u->q); i++) {
    vram__unit_choice *const c = u->unit + i;
    for (k = 0; k < i && !vram__units_are_alike(u->unit + k, c); k++)
      ;
    if (k < i) {
      c->gain = u->unit[k].gain;
      continue;
    }
    c->taken = 1;
    result = vram__units_try(u, VRAM_MAX_BYTES, &r);
    c->taken = 0;
    c->gain = r.saved_bytes < all ? all - r.saved_bytes : 0;
  }
  u->q->step.replay = replay;
  return result;
}

/* Saves a more for its operations than b does? Both sides as 32 bits. */
static int vram__unit_is_better(const vram__unit_choice *a, const vram__unit_choice *b) {
  uint64_t cost[2], gain[2];
  cost[0] = a->cost, cost[1] = b->cost, gain[0] = a->gain, gain[1] = b->gain;
  while ((cost[0] | cost[1]) >> 32)
    cost[0] >>= 1, cost[1] >>= 1;
  while ((gain[0] | gain[1]) >> 31)
    gain[0] >>= 1, gain[1] >>= 1;
  return gain[0] * cost[1] > gain[1] * cost[0];
}

static void vram__units_order(vram__unit_search *u, int last_first) {
  uint32_t i, k, at;
  for (i = 0; i < u->n; i++) {
    at = last_first ? u->n - 1 - i : i;
    for (k = i; k > 0 && vram__unit_is_better(u->unit + at, u->unit + u->order[k - 1]); k--)
      u->order[k] = u->order[k - 1];
    u->order[k] = at;
  }
}

/* ---- search */

static uint32_t vram__units_at(const vram__unit_search *u, uint32_t i) {
  return u->grid ? (uint32_t)((uint64_t)u->n * i / u->grid) : 0;
}

/* The fewest of this order that fit: of a grid, then halves between that and the one before. */
static vram_result vram__units_prefix(vram__unit_search *u) {
  uint32_t i, low = 0, high = 0;
  vram_result result = VRAM_OK;
  int fits = 0;
  for (i = 0; i <= u->grid && !fits && !result && !vram__step_stopped(u->q); i++) {
    low = high;
    high = vram__units_at(u, i);
    vram__units_take(u, high);
    result = vram__units_judge(u, &fits);
  }
  while (fits && high - low > 1 && !result && !vram__step_stopped(u->q)) {
    const uint32_t middle = low + (high - low) / 2;
    int here;
    vram__units_take(u, middle);
    result = vram__units_judge(u, &here);
    if (here)
      high = middle;
    else
      low = middle;
  }
  return result;
}

/* The dearest of the best ones that can be left out after all. */
static vram_result vram__units_leave(vram__unit_search *u) {
  vram_result result = VRAM_OK;
  uint64_t below = VRAM_OVERFLOW;
  uint32_t i, tries;
  int fits;
  for (tries = 0; tries < VRAM__GRID && !result && !vram__step_stopped(u->q); tries++) {
    vram__unit_choice *dear = NULL;
    for (i = 0; i < u->n; i++) {
      u->unit[i].taken = u->unit[i].best;
      if (u->unit[i].best && u->unit[i].cost < below && (!dear || u->unit[i].cost > dear->cost))
        dear = u->unit + i;
    }
    if (!dear)
      return VRAM_OK;
    below = dear->cost; /* of equal ones the first is tried */
    dear->taken = 0;
    result = vram__units_judge(u, &fits);
  }
  return result;
}

/* The smallest budget that one of the grid fits; the cheapest of those is the plan where none fits
   this one. */
static vram_result vram__units_smallest(vram__unit_search *u) {
  vram_planned_step *p = u->q->plan;
  vram_result result = VRAM_OK;
  uint64_t need, cost = VRAM_OVERFLOW;
  uint32_t i, k, last_first;
  p->smallest_budget_bytes = VRAM_OVERFLOW;
  for (last_first = 0; last_first < 2; last_first++) {
    vram__units_order(u, (int)last_first);
    for (i = 0; i <= u->grid && !result && !vram__step_stopped(u->q);
         i++) { /* what takes least is soon found from here */
      const uint32_t count = vram__units_at(u, u->grid - i);
      if (last_first && (count == 0 || count == u->n))
        continue;
      vram__units_take(u, count);
      vram__units_collect(u);
      result = vram__step_need(u->q, p->nrange, p->smallest_budget_bytes, &need);
      if (result || need > p->smallest_budget_bytes || need == VRAM_OVERFLOW ||
          (need == p->smallest_budget_bytes && vram__units_cost(u) >= cost))
        continue;
      p->smallest_budget_bytes = need;
      cost = vram__units_cost(u);
      for (k = 0; k < u->n && !p->feasible; k++)
        u->unit[k].best = u->unit[k].taken;
    }
  }
  return result;
}

/* Operations of a plain step, in forward and backward. */
static uint64_t vram__units_plain_cost(const vram_graph *g) {
  const vram_node *n;
  uint64_t all = 0;
  for (n = g->first; n; n = n->next)
    all = vram__sum_or_overflow(
        all, vram__product_or_overflow(vram_node_flops(n), UINT64_C(3) + vram_node_recomputed(n)));
  return all;
}

static vram_result vram__units_list(vram__unit_search *u, vram__stepper *q) {
  vram_planned_step *p = q->plan;
  const uint64_t n = vram_graph_unit_ranges(q->g, vram__plan_units(&q->step), NULL, 0);
  const uint64_t each = sizeof *u->unit + sizeof *q->range + sizeof *u->order;
  const vram_node *m;
  uint32_t i;
  const vram_result result =
      vram__step_memory(q->allocator, &p->memory, &p->memory_bytes, (n + 1) * each, q->err);
  if (result)
    return result;
  vram__memory_zero(p->memory, p->memory_bytes);
  u->unit = (vram__unit_choice *)p->memory;
  q->range = (vram_range *)(void *)(u->unit + n + 1);
  u->order = (uint32_t *)(void *)(q->range + n + 1);
  u->n = vram_graph_unit_ranges(q->g, vram__plan_units(&q->step), q->range, (uint32_t)n);
  u->grid = u->n < VRAM__GRID ? u->n : VRAM__GRID;
  for (i = 0; i < u->n; i++) {
    u->unit[i].run = q->range[i];
    for (m = q->range[i].first; m != q->range[i].last->next; m = m->next)
      u->unit[i].cost = vram__sum_or_overflow(u->unit[i].cost, vram_node_flops(m));
  }
  return VRAM_OK;
}

VRAM__FN vram_result vram__unit_plan(vram__stepper *q, uint64_t budget) {
  vram_planned_step *p = q->plan;
  vram__unit_search u;
  vram_result result;
  uint32_t i;
  int fits;
  vram__memory_zero(&u, sizeof u);
  u.q = q;
  u.budget = budget;
  u.best_cost = VRAM_OVERFLOW;
  result = vram__units_list(&u, q);
  if (!result)
    result = vram__step_try(q, 0, budget, &p->plain);
  if (!result && vram__pipe_is(&q->step))
    vram__units_keep_own(&u);
  if (!result && !vram__step_stopped(q))
    result = vram__units_weigh(&u);
  if (!result && p->plain.fits)
    u.best_cost = 0;
  else if (!result) { /* if stopped there is that */
    vram__units_order(&u, 0);
    vram__units_take(&u, u.n);
    result = vram__units_judge(&u, &fits);
  }
  for (i = 0; i < 2 && !result && u.best_cost; i++) {
    vram__units_order(&u, (int)i);
    result = vram__units_prefix(&u);
  }
  p->feasible = u.best_cost < VRAM_OVERFLOW;
  if (!result && p->feasible)
    result = vram__units_leave(&u);
  if (!result)
    result = vram__units_smallest(&u);
  if (!result && p->stopped && !p->feasible)
    result = vram__step_stopped_early(q);
  if (result)
    return result;
  if (p->stopped)
    p->smallest_budget_bytes = budget;
  for (i = 0; i < u.n; i++)
    u.unit[i].taken = u.unit[i].best;
  p->nunit = u.n;
  p->cost_plain = vram__units_plain_cost(q->g);
  p->cost = vram__sum_or_overflow(p->cost_plain, vram__units_cost(&u));
  return vram__units_try(&u, budget, &p->report);
}
