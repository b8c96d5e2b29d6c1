/* >>plan/planning    the planners' sizes, costs and least room */
#include "plan/plan.h"

/* The planners. Sizes are kept twice, in bytes and in slots: steps of `unit` bytes, rounded up. A
   plan is looked for in slots, and what it takes is counted in bytes. What is called room is left
   beside xs, the input of the stages s to t, which is the caller's; the gradient of x(t+1) is in
   the room. */

/* Stages s to t. STAGES needs no others than those to the last, and each alone. */
VRAM__FN uint64_t vram__table_row(const vram__planning *p, uint32_t s, uint32_t t) {
  if (p->stages)
    return t + 1 == p->n ? s : (uint64_t)p->n + s;
  return (uint64_t)s * (2 * (uint64_t)p->n + 1 - s) / 2 + (t - s);
}

static uint64_t vram__planning_up(uint64_t bytes, uint64_t unit) {
  return bytes / unit + (bytes % unit != 0);
}

VRAM__FN void *vram__planning_round_up(uint8_t *mem, uint64_t *used, uint64_t count,
                                       uint64_t each) {
  void *at = mem ? mem + *used : NULL;
  const uint64_t bytes = vram__product_or_overflow(count, each);
  *used =
      vram__sum_or_overflow(*used, bytes == VRAM_OVERFLOW ? bytes : (bytes + 15) & ~UINT64_C(15));
  return at;
}

VRAM__FN uint32_t vram__least_way(const vram_stage *s) {
  uint32_t w, best = 0;
  for (w = 1; w < s->nway; w++) {
    const vram_way *a = s->way + w, *b = s->way + best;
    const uint64_t x = a->forward_cost + a->backward_cost, y = b->forward_cost + b->backward_cost;
    if (x < y || (x == y && a->saved_bytes < b->saved_bytes))
      best = w;
  }
  return best;
}

/* Room that is enough to compute nothing twice, every stage by its cheapest way, in units. */
static uint64_t vram__full_room(const vram_chain *c, uint64_t unit) {
  uint64_t room = 0;
  uint32_t i;
  for (i = c->nstage; i-- > 0;) {
    const vram_stage *s = c->stage + i;
    const vram_way *y = s->way + vram__least_way(s);
    const uint64_t x = vram__x_bytes(c, i + 1);
    const uint64_t keep = x + vram__chain_align(c, y->saved_bytes - s->output_bytes);
    const uint64_t fore = keep + vram__chain_align(c, y->forward_temp_bytes);
    const uint64_t back =
        vram__gradient_bytes(c, i) + x + keep + vram__chain_align(c, y->backward_temp_bytes);
    room = vram__larger_u64(
        vram__planning_up(keep, unit) + room,
        vram__larger_u64(vram__planning_up(fore, unit), vram__planning_up(back, unit)));
  }
  return room;
}

/* What all sizes are multiples of. */
static uint64_t vram__common_bytes(const vram_chain *c) {
  uint64_t g = vram__gcd(vram__x_bytes(c, 0), vram__gradient_bytes(c, 0));
  uint32_t i, w;
  for (i = 0; i < c->nstage; i++) {
    const vram_stage *s = c->stage + i;
    g = vram__gcd(vram__gcd(g, vram__x_bytes(c, i + 1)),
                  vram__chain_align(c, s->forward_temp_bytes));
    for (w = 0; w < s->nway; w++) {
      g = vram__gcd(g, vram__saved_bytes(c, i, w));
      g = vram__gcd(g, vram__chain_align(c, s->way[w].forward_temp_bytes));
      g = vram__gcd(g, vram__chain_align(c, s->way[w].backward_temp_bytes));
    }
  }
  return g ? g : 1;
}

static uint64_t vram__most_moves(uint64_t n, const vram_schedule_options *o) {
  const int many = o->planner == VRAM_PLANNER_OPTIMAL || o->planner == VRAM_PLANNER_REVOLVE;
  /* each stage: saved and backward; a forward for each stage before; copies */
  return (many ? n * (n - 1) / 2 : n) + n * (o->offload ? 8 : 2);
}

/* Memory in one piece, laid out: what every planner needs, */
VRAM__FN uint64_t vram__layout_moves(vram__planning *p, uint8_t *mem) {
  const uint64_t n = p->n, most = vram__most_moves(n, p->o);
  uint64_t used = 0;
  p->move = (vram_move *)vram__planning_round_up(mem, &used, most, sizeof *p->move);
  p->best = (vram_move *)vram__planning_round_up(mem, &used, most, sizeof *p->best);
  p->replay = (uint8_t *)vram__planning_round_up(mem, &used, vram_schedule_verify_bytes(p->c), 1);
  p->todo = (vram__todo *)vram__planning_round_up(mem, &used, 6 * n + 8, sizeof *p->todo);
  return used;
}

/* and those with a table. mem NULL: how much. */
VRAM__FN uint64_t vram__layout_table(vram__planning *p, uint8_t *mem) {
  const uint64_t n = p->n, w = p->nway;
  uint64_t used = 0;
  vram__room_sizes *z;
  p->first = (uint32_t *)vram__planning_round_up(mem, &used, n + 1, 4);
  for (z = &p->bytes; z; z = z == &p->bytes ? &p->slot : NULL) {
    z->x = (uint64_t *)vram__planning_round_up(mem, &used, n + 1, 8);
    z->gives = (uint64_t *)vram__planning_round_up(mem, &used, n, 8);
    z->head = (uint64_t *)vram__planning_round_up(mem, &used, n, 8);
    z->hop = (uint64_t *)vram__planning_round_up(mem, &used, n, 8);
    z->keep = (uint64_t *)vram__planning_round_up(mem, &used, w, 8);
    z->fore = (uint64_t *)vram__planning_round_up(mem, &used, w, 8);
    z->back = (uint64_t *)vram__planning_round_up(mem, &used, w, 8);
  }
  p->extra = (uint64_t *)vram__planning_round_up(mem, &used, w, 8);
  p->x_trip = (uint64_t *)vram__planning_round_up(mem, &used, n, 8);
  p->saved_trip = (uint64_t *)vram__planning_round_up(mem, &used, w, 8);
  p->dear = (int32_t *)vram__planning_round_up(mem, &used, w, 4);
  p->x_dear = (int32_t *)vram__planning_round_up(mem, &used, n, 4);
  p->saved_dear = (int32_t *)vram__planning_round_up(mem, &used, w, 4);
  p->sum = (int32_t *)vram__planning_round_up(mem, &used, n + 1, 4);
  p->low = (uint64_t *)vram__planning_round_up(mem, &used, p->rows, 8);
  p->high = (uint32_t *)vram__planning_round_up(mem, &used, p->rows, 4);
  p->gate = (uint32_t *)vram__planning_round_up(mem, &used, p->rows, 4);
  p->least = (uint32_t *)vram__planning_round_up(mem, &used, p->rows, 4);
  p->panel = (int32_t *)vram__planning_round_up(mem, &used, n + 1, VRAM__BLOCK * sizeof *p->panel);
  p->cell = (int32_t *)vram__planning_round_up(
      mem, &used, vram__product_or_overflow(p->rows, p->blocks), VRAM__BLOCK * sizeof *p->cell);
  return used;
}

VRAM__FN void vram__planning_start(vram__planning *p, const vram_chain *c,
                                   const vram_schedule_options *o, int stages) {
  uint64_t full, slots;
  uint32_t i;
  vram__memory_zero(p, sizeof *p);
  p->c = c;
  p->o = o;
  p->n = c->nstage;
  p->stages = stages;
  p->offload = !stages && o->offload;
  for (i = 0; i < p->n; i++)
    p->nway += c->stage[i].nway;
  p->rows = stages ? 2 * (uint64_t)p->n : (uint64_t)p->n * (p->n + 1) / 2;
  full = vram__full_room(c, 1);
  slots = stages ? VRAM__STAGES_SLOTS : vram__larger_u64(500, 100000 / (p->n + (uint64_t)!p->n));
  if (o->slots && stages == (o->planner == VRAM_PLANNER_STAGES))
    slots = o->slots;
  p->unit = vram__common_bytes(c);
  p->exact = full / p->unit <= slots;
  if (!p->exact)
    p->unit = vram__planning_up(full, slots);
  p->full = full / p->unit + 1;
  p->full_up = vram__full_room(c, p->unit) + VRAM__BLOCK;
  p->blocks = p->full_up / VRAM__BLOCK + 1;
}

/* ---- sizes and costs */

VRAM__FN void vram__sizes_bytes(vram__planning *p) {
  const vram_chain *c = p->c;
  vram__room_sizes *z = &p->bytes;
  uint32_t i, w, k = 0;
  p->least_cost = 0;
  for (i = 0; i <= p->n; i++)
    z->x[i] = vram__x_bytes(c, i);
  for (i = 0; i < p->n; i++) {
    const vram_stage *s = c->stage + i;
    const vram_way *least = s->way + vram__least_way(s);
    const uint64_t cost = least->forward_cost + least->backward_cost;
    p->least_cost += cost;
    p->first[i] = k;
    z->gives[i] = z->x[i];
    z->head[i] = z->x[i + 1] + vram__chain_align(c, s->forward_temp_bytes);
    z->hop[i] = z->x[i] + z->head[i];
    p->x_trip[i] = 2 * vram__chain_transfer(c, z->x[i]);
    for (w = 0; w < s->nway; w++, k++) {
      const vram_way *y = s->way + w;
      const uint64_t saved = vram__saved_bytes(c, i, w);
      z->keep[k] = z->x[i + 1] + saved;
      z->fore[k] = z->keep[k] + vram__chain_align(c, y->forward_temp_bytes);
      z->back[k] = vram__gradient_bytes(c, i) + z->x[i + 1] + z->keep[k] +
                   vram__chain_align(c, y->backward_temp_bytes);
      p->extra[k] = y->forward_cost + y->backward_cost - cost;
      p->saved_trip[k] = 2 * vram__chain_transfer(c, saved);
    }
  }
  p->first[p->n] = k;
}

VRAM__FN void vram__sizes_slots(vram__planning *p) {
  const vram__room_sizes *b = &p->bytes;
  vram__room_sizes *z = &p->slot;
  const uint64_t unit = p->unit;
  uint32_t i, k;
  for (i = 0; i <= p->n; i++)
    z->x[i] = vram__planning_up(b->x[i], unit);
  for (i = 0; i < p->n; i++) {
    z->gives[i] = b->x[i] / unit;
    z->head[i] = vram__planning_up(b->head[i], unit);
    z->hop[i] = vram__planning_up(b->hop[i], unit);
  }
  for (k = 0; k < p->nway; k++) {
    z->keep[k] = vram__planning_up(b->keep[k], unit);
    z->fore[k] = vram__planning_up(b->fore[k], unit);
    z->back[k] = vram__planning_up(b->back[k], unit);
  }
}

static int32_t vram__plan_cost(const vram__planning *p, uint64_t cost) {
  const uint64_t v = cost / p->cost_unit;
  return v < (uint64_t)VRAM__DEAR ? (int32_t)v : VRAM__DEAR;
}

/* Costs as multiples of cost_unit, rounded down. No plan beyond `most` is of interest. */
VRAM__FN void vram__scale_costs(vram__planning *p, uint64_t most) {
  uint64_t g = 0, sum = 0;
  uint32_t i, k;
  for (i = 0; i < p->n; i++) {
    g = vram__gcd(vram__gcd(g, p->c->stage[i].forward_cost), p->offload ? p->x_trip[i] : 0);
    sum += p->c->stage[i].forward_cost;
  }
  for (k = 0; k < p->nway; k++)
    g = vram__gcd(vram__gcd(g, p->extra[k]), p->offload ? p->saved_trip[k] : 0);
  p->cost_unit = g ? g : 1;
  sum += most - p->least_cost;
  if (sum / p->cost_unit >= (uint64_t)VRAM__DEAR) {
    p->cost_unit = sum / (uint64_t)VRAM__DEAR + 1;
    p->exact = 0;
  }
  p->sum[0] = 0;
  for (i = 0; i < p->n; i++) {
    p->sum[i + 1] = p->sum[i] + vram__plan_cost(p, p->c->stage[i].forward_cost);
    p->x_dear[i] = vram__plan_cost(p, p->x_trip[i]);
  }
  for (k = 0; k < p->nway; k++) {
    p->dear[k] = vram__plan_cost(p, p->extra[k]);
    p->saved_dear[k] = vram__plan_cost(p, p->saved_trip[k]);
  }
}

/* ---- the least room */

VRAM__FN uint32_t vram__table_lowest_s(const vram__planning *p, uint32_t t) {
  return p->stages && t + 1 < p->n ? t : 0;
}
/* beyond the last stage that the stages from s can hand their output to */
VRAM__FN uint32_t vram__table_j_end(const vram__planning *p, uint32_t s, uint32_t t) {
  return s == t ? s + 1 : p->stages ? s + 2 : t + 1;
}

VRAM__FN void vram__least_rooms(vram__planning *p) {
  const vram__room_sizes *z = &p->bytes;
  uint32_t t, s, j, k;
  for (t = 0; t < p->n; t++)
    for (s = t + 1; s-- > vram__table_lowest_s(p, t);) {
      const uint32_t end = vram__table_j_end(p, s, t);
      uint64_t least = VRAM_OVERFLOW, hop = 0;
      const uint64_t rest = s < t ? p->low[vram__table_row(p, s + 1, t)] : 0, y = z->x[t + 1];
      for (k = p->first[s]; k < p->first[s + 1]; k++) {
        const uint64_t after =
            p->offload ? vram__less(z->x[s + 1] + rest, z->x[s]) : z->keep[k] + rest;
        const uint64_t need =
            vram__larger_u64(vram__larger_u64(y + z->fore[k], z->back[k]), s < t ? after : 0);
        least = vram__smaller_u64(least, need);
      }
      for (j = s + 1; j < end; j++) {
        const uint64_t back = p->offload ? z->x[s] : 0;
        const uint64_t after = vram__less(z->x[j] + p->low[vram__table_row(p, j, t)], back);
        const uint64_t need = vram__larger_u64(
            vram__larger_u64(vram__larger_u64(y + z->head[s], vram__less(y + hop, back)), after),
            p->low[vram__table_row(p, s, j - 1)]);
        least = vram__smaller_u64(least, need);
        hop = vram__larger_u64(hop, z->hop[j]);
      }
      p->low[vram__table_row(p, s, t)] = least;
    }
}

VRAM__FN void vram__rooms_in_slots(vram__planning *p) {
  const vram__room_sizes *z = &p->slot;
  uint32_t t, s, k;
  for (t = 0; t < p->n; t++)
    for (s = t + 1; s-- > vram__table_lowest_s(p, t);) {
      const uint64_t rest = s < t ? p->high[vram__table_row(p, s + 1, t)] : 0;
      const uint64_t row = vram__table_row(p, s, t);
      uint64_t high = UINT32_MAX, gate = z->head[s];
      for (k = p->first[s]; k < p->first[s + 1]; k++)
        if (!p->dear[k]) {
          const uint64_t need =
              vram__larger_u64(vram__larger_u64(z->x[t + 1] + z->fore[k], z->back[k]),
                               s < t ? z->keep[k] + rest : 0);
          high = vram__smaller_u64(high, need);
        }
      p->high[row] = (uint32_t)high;
      p->least[row] = (uint32_t)vram__smaller_u64(p->low[row] / p->unit, UINT32_MAX);
      if (!p->stages && s < t)
        gate = vram__larger_u64(p->gate[row - 1], z->hop[t]);
      p->gate[row] = (uint32_t)vram__smaller_u64(gate, UINT32_MAX);
    }
}
