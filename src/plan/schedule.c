/* >>plan/schedule    schedules of others, and the choice among all */
#include "plan/plan.h"

static void vram__schedule_plain(vram__planning *p, int cheapest) {
  uint32_t i;
  p->nmove = 0;
  for (i = 0; i < p->n; i++)
    vram__plan_move(p, VRAM_MOVE_SAVE, i, cheapest ? vram__least_way(p->c->stage + i) : 0);
  while (i-- > 0)
    vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
}

/* torch.utils.checkpoint.checkpoint_sequential: pieces of n / k functions, the last one, which has
   the rest, as it is. The loss is none of the functions. */
static void vram__schedule_sequential(vram__planning *p, uint32_t k) {
  const uint32_t each = (p->n - 1) / k, from = each * (k - 1);
  uint32_t i, piece;
  p->nmove = 0;
  for (i = 0; i < from; i++)
    vram__plan_move(p, i % each != 0 ? VRAM_MOVE_DROP : VRAM_MOVE_CHECKPOINT, i, 0);
  for (; i < p->n; i++)
    vram__plan_move(p, VRAM_MOVE_SAVE, i, 0);
  while (i-- > from)
    vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
  for (piece = k - 1; piece-- > 0;) {
    for (i = piece * each; i < (piece + 1) * each; i++)
      vram__plan_move(p, VRAM_MOVE_SAVE, i, 0);
    while (i-- > piece * each)
      vram__plan_move(p, VRAM_MOVE_BACKWARD, i, 0);
  }
}

/* The number of steps that so many snapshots can go back with so many forwards each at most:
   C(snapshots + times, snapshots), at most `most`. */
static uint64_t vram__schedule_steps(uint64_t snapshots, int64_t times, uint64_t most) {
  uint64_t v = 1, i;
  if (times < 0)
    return 0;
  for (i = 1; i <= (uint64_t)times && v < most; i++)
    v = v * (snapshots + i) / i; /* below 2^12 * 2^13 */
  return v < most ? v : most;
}

/* How moved to go to the next snapshot: Griewank and Walther 2000, Algorithm 799. */
static uint32_t vram__revolve_advance(uint32_t n, uint32_t s) {
  const uint64_t most = UINT64_C(1) << 32;
  int64_t t = 0;
  uint64_t b, c, d, e;
  if (s == 1)
    return n - 1;
  if (s + 1 >= n)
    return 1;
  while (vram__schedule_steps(s, t, most) < n)
    t++;
  b = vram__schedule_steps(s, t - 1, most);
  c = vram__schedule_steps(s - 1, t - 2, most);
  d = vram__schedule_steps(s - 2, t - 1, most);
  e = vram__schedule_steps(s, t - 2, most);
  if (n <= b + c)
    return (uint32_t)(n - b + e);
  if (n <= b + d + c)
    return (uint32_t)(e + c);
  if (n <= b + vram__schedule_steps(s - 1, t - 1, most) + d)
    return (uint32_t)(n - vram__schedule_steps(s - 1, t - 1, most) - d);
  return (uint32_t)b;
}

static void vram__schedule_revolve(vram__planning *p, uint32_t snapshots) {
  vram__todo *top = p->todo;
  p->nmove = 0;
  vram__todo_plan(&top, 0, p->n - 1, snapshots);
  while (top != p->todo) {
    const vram__todo d = *--top;
    const uint32_t s = d.move.stage, n = d.last - s + 1;
    if (n == 1) {
      vram__plan_move(p, VRAM_MOVE_SAVE, s, 0);
      vram__plan_move(p, VRAM_MOVE_BACKWARD, s, 0);
    } else
      vram__plan_leaf(p, &top, s, d.last, s + vram__revolve_advance(n, (uint32_t)d.room), 0,
                      d.room - 1, d.room);
  }
}

/* ---- choosing */

/* Counts p->move, which becomes p->best if it is within the budget and better. */
static vram_result vram__schedule_consider(vram__planning *p, uint64_t budget,
                                           vram_schedule_count *n, vram_error *err) {
  vram_schedule *f = &p->found;
  const vram_result bad = vram_schedule_verify(p->c, p->move, p->nmove, p->replay,
                                               vram_schedule_verify_bytes(p->c), n, err);
  if (bad)
    n->peak_bytes = n->cost = VRAM_OVERFLOW;
  if (bad == VRAM_ERR_OVERFLOW) /* too dear to count: never the best */
    return VRAM_OK;
  if (bad)
    return bad;
  if (n->peak_bytes <= budget &&
      (!f->feasible || n->cost < f->cost ||
       (n->cost == f->cost &&
        (p->nmove < f->nmove || (p->nmove == f->nmove && n->peak_bytes < f->peak_bytes))))) {
    vram_move *was = p->best;
    p->best = p->move;
    p->move = was;
    f->feasible = 1;
    f->move = p->best;
    f->nmove = p->nmove;
    f->peak_bytes = n->peak_bytes;
    f->cost = n->cost;
    f->host_bytes = n->host_bytes;
  }
  return VRAM_OK;
}

static vram_result vram__plan_table(vram__planning *p, uint64_t budget, uint64_t *smallest,
                                    vram_error *err) {
  const uint64_t fixed = p->c->static_bytes + vram__x_bytes(p->c, 0);
  const uint64_t top = vram__table_row(p, 0, p->n - 1);
  vram_schedule_count n;
  uint64_t room, m;
  vram_result bad;
  vram__sizes_bytes(p);
  vram__least_rooms(p);
  *smallest = fixed + p->low[top];
  budget = vram__larger_u64(budget, *smallest);
  vram__schedule_plain(p, 1);
  bad = vram__schedule_consider(p, budget, &n, err);
  if (bad || n.peak_bytes <= budget)
    return bad;
  if (!vram__moves_expand(p, p->low[top], 0))
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "no schedule of the least bytes");
  bad = vram__schedule_consider(p, budget, &n, err);
  if (bad)
    return bad;
  vram__scale_costs(p, vram__smaller_u64(n.cost, (uint64_t)VRAM_MAX_BYTES));
  vram__sizes_slots(p);
  vram__rooms_in_slots(p);
  room = (budget - fixed) / p->unit;
  if (!p->exact) /* more, as rounding up takes away */
    room = (room * p->full_up + p->full - 1) / p->full + p->n / 4;
  m = p->blocks * VRAM__BLOCK - 1;
  if (room > m)
    room = m;
  if (room > p->high[top])
    room = p->high[top];
  p->blocks = room / VRAM__BLOCK + 1; /* no more are needed */
  vram__table_solve(p);
  if (p->stopped) /* what was found without it */
    return VRAM_OK;
  p->filled = 1;
  /* Next to the smallest budget every byte counts. Which budgets are tried depends on the chain
     alone, here and below, so that more bytes never cost more. */
  for (m = p->low[top]; !p->exact && m < p->low[top] + VRAM__CLOSE * p->unit && fixed + m <= budget;
       m += p->unit) {
    if (!vram__moves_expand(p, m, 0))
      return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "no schedule of a room");
    bad = vram__schedule_consider(p, budget, &n, err);
    if (bad)
      return bad;
  }
  for (m = room + 1; m-- > 0;) {
    const int32_t v = vram__plan_cell(p, top, (int64_t)m);
    if (v == VRAM__NEVER ||
        (p->found.feasible && p->found.cost <= p->least_cost + (uint64_t)v * p->cost_unit &&
         !p->exact))
      break;
    if (m && vram__plan_cell(p, top, (int64_t)m - 1) == v)
      continue;
    if (!vram__moves_expand(p, m, 1))
      return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "no schedule of a cell");
    bad = vram__schedule_consider(p, budget, &n, err);
    if (bad || p->exact)
      return bad;
  }
  return VRAM_OK;
}

/* The schedules of a planner without a table, by number. */
static uint32_t vram__schedule_given_count(const vram__planning *p, vram_planner planner) {
  if (planner == VRAM_PLANNER_PLAIN || planner == VRAM_PLANNER_SQRT || p->o->segments ||
      p->o->snapshots || p->n < 2)
    return 1;
  return p->n - 1;
}

static void vram__schedule_given(vram__planning *p, vram_planner planner, uint32_t i) {
  uint32_t k = 1;
  switch (planner) {
  case VRAM_PLANNER_SEQUENTIAL:
    vram__schedule_sequential(p, p->o->segments ? p->o->segments : i + 1);
    break;
  case VRAM_PLANNER_SQRT:
    while ((k + 1) * (k + 1) < p->n)
      k++;
    vram__schedule_sequential(p, k);
    break;
  case VRAM_PLANNER_REVOLVE:
    k = p->o->snapshots ? p->o->snapshots : i + 1;
    vram__schedule_revolve(p, k < p->n ? k : p->n);
    break;
  default:
    vram__schedule_plain(p, 0);
  }
}

static vram_result vram__plan_given(vram__planning *p, vram_planner planner, uint64_t budget,
                                    uint64_t *smallest, vram_error *err) {
  const uint32_t number = vram__schedule_given_count(p, planner);
  uint32_t i, least = 0;
  vram_schedule_count n;
  *smallest = VRAM_OVERFLOW;
  for (i = 0; i < number; i++) {
    vram_result bad;
    vram__schedule_given(p, planner, i);
    bad = vram__schedule_consider(p, budget, &n, err);
    if (bad)
      return bad;
    if (n.peak_bytes < *smallest) {
      *smallest = n.peak_bytes;
      least = i;
    }
  }
  if (p->found.feasible)
    return VRAM_OK;
  vram__schedule_given(p, planner, least);
  return vram__schedule_consider(p, *smallest, &n, err);
}

static vram_result vram__plan_check(const vram_chain *c, const vram_schedule_options *o,
                                    vram_error *err) {
  static const struct {
    vram_planner planner;
    const char *option;
  } of[] = {{VRAM_PLANNER_SEQUENTIAL, "segments"},
            {VRAM_PLANNER_REVOLVE, "snapshots"},
            {VRAM_PLANNER_OPTIMAL, "slots"},
            {VRAM_PLANNER_OPTIMAL, "offload"}};
  const uint32_t most = c->nstage > 1 ? c->nstage - 1 : 1;
  const uint32_t given[] = {o->segments, o->snapshots, o->slots, o->offload != 0};
  uint32_t i;
  if ((uint32_t)o->planner >= VRAM_PLANNER_COUNT)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "no such planner");
  for (i = 0; i < 4; i++)
    if (given[i] && o->planner != of[i].planner && !(i == 2 && o->planner == VRAM_PLANNER_STAGES)) {
      vram__error_begin(err, VRAM_ERR_VALUE, 0, of[i].option);
      vram__error_text(err, " is for planner ");
      vram__error_text(err, vram_planner_name(of[i].planner));
      vram__error_text(err, " (found ");
      vram__error_text(err, vram_planner_name(o->planner));
      vram__error_text(err, ")");
      return VRAM_ERR_VALUE;
    }
  if (o->segments > most) {
    vram__error_begin(err, VRAM_ERR_VALUE, 0, "more segments than stages before the loss");
    vram__error_number(err, " (found ", o->segments);
    vram__error_number(err, ", expected at most ", most);
    vram__error_text(err, ")");
    return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}

VRAM_API uint64_t vram_schedule_bytes(const vram_chain *c, const vram_schedule_options *o) {
  vram_schedule_options zero;
  vram__planning p;
  uint64_t moves, table = 0, stages = 0;
  vram__memory_zero(&zero, sizeof zero);
  o = o ? o : &zero;
  if (vram__chain_check(c, NULL) || vram__plan_check(c, o, NULL))
    return VRAM_OVERFLOW;
  if (o->planner == VRAM_PLANNER_OPTIMAL) {
    vram__planning_start(&p, c, o, 0);
    table = vram__layout_table(&p, NULL);
  }
  vram__planning_start(&p, c, o, 1);
  moves = vram__layout_moves(&p, NULL);
  if (o->planner <= VRAM_PLANNER_STAGES)
    stages = vram__layout_table(&p, NULL);
  return vram__sum_or_overflow(vram__sum_or_overflow(moves, vram__larger_u64(table, stages)), 16);
}

/* For VRAM_ASSERT: the moves are a schedule, of that peak, of those costs. */
static int vram__schedule_is_right(const vram__planning *p, const vram_schedule *s) {
  vram_schedule_count n;
  if (vram_schedule_verify(p->c, s->move, s->nmove, p->replay, vram_schedule_verify_bytes(p->c), &n,
                           NULL))
    return 0;
  return n.peak_bytes == s->peak_bytes && n.cost == s->cost && n.host_bytes == s->host_bytes &&
         s->peak_bytes >= s->smallest_budget_bytes;
}

VRAM_API vram_result vram_schedule_plan(const vram_chain *c, const vram_schedule_options *o,
                                        void *scratch, uint64_t scratch_bytes,
                                        vram_schedule *schedule, vram_error *err) {
  vram_schedule_options zero;
  vram__planning p, s;
  uint64_t budget, smallest, other, used;
  uint8_t *mem;
  uint32_t k;
  vram_result bad = vram__chain_check(c, err);
  vram__memory_zero(&zero, sizeof zero);
  vram__memory_zero(schedule, sizeof *schedule);
  o = o ? o : &zero;
  if (bad || (bad = vram__plan_check(c, o, err)) != VRAM_OK)
    return bad;
  if (!scratch || scratch_bytes < vram_schedule_bytes(c, o))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0,
                             "the scratch is too small (expected vram_schedule_bytes)");
  mem = (uint8_t *)scratch + (16 - (uintptr_t)scratch % 16) % 16;
  budget = o->budget_bytes ? o->budget_bytes : VRAM_OVERFLOW;
  vram__planning_start(&p, c, o, o->planner == VRAM_PLANNER_STAGES);
  used = vram__layout_moves(&p, mem);
  if (o->planner > VRAM_PLANNER_STAGES)
    bad = vram__plan_given(&p, o->planner, budget, &smallest, err);
  else {
    if (o->planner == VRAM_PLANNER_OPTIMAL && !p.exact) {
      /* no worse than the schedules of others */
      vram__planning_start(&s, c, o, 1);
      vram__layout_moves(&s, mem);
      vram__layout_table(&s, mem + used);
      bad = vram__plan_table(&s, budget, &other, err);
      for (k = VRAM_PLANNER_SEQUENTIAL; !bad && k <= VRAM_PLANNER_COUNT; k++) {
        s.found.feasible = s.found.feasible && s.found.peak_bytes <= budget;
        if (k < VRAM_PLANNER_COUNT)
          bad = vram__plan_given(&s, (vram_planner)k, budget, &other, err);
      }
      p.move = s.move;
      p.best = s.best;
      p.found = s.found;
      p.stopped = s.stopped;
    }
    vram__layout_table(&p, mem + used);
    if (!bad)
      bad = vram__plan_table(&p, budget, &smallest, err);
    for (k = VRAM_PLANNER_SEQUENTIAL; !bad && p.stopped && k < VRAM_PLANNER_COUNT; k++)
      bad = vram__plan_given(&p, (vram_planner)k, budget, &other, err);
  }
  if (!bad && !p.found.feasible)
    bad = vram__error_begin(err, VRAM_ERR_OVERFLOW, 0,
                            "the costs of every schedule that fits add up to more than 2^63-1");
  if (bad)
    return bad;
  *schedule = p.found;
  schedule->smallest_budget_bytes = smallest;
  schedule->feasible = budget >= smallest;
  schedule->stopped = p.stopped;
  VRAM_ASSERT(vram__schedule_is_right(&p, schedule));
  VRAM_ASSERT(!schedule->feasible || schedule->peak_bytes <= budget);
  vram__error_clear(err);
  return VRAM_OK;
}
