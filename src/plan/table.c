/* >>plan/table    the table of the dynamic program, and the moves that it stands for */
#include "plan/plan.h"

VRAM__FN int32_t vram__plan_cell(const vram__planning *p, uint64_t row, int64_t m) {
  const int64_t last = (int64_t)p->blocks * VRAM__BLOCK - 1;
  if (m < 0)
    return VRAM__NEVER;
  if (m > last)
    m = last;
  return p
      ->cell[((uint64_t)m / VRAM__BLOCK * p->rows + row) * VRAM__BLOCK + (uint64_t)m % VRAM__BLOCK];
}

static void vram__table_fill(int32_t *cell, int32_t v) {
  uint32_t i;
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = v;
}

static void vram__move_block(int32_t *to, const int32_t *from) {
  int32_t v[VRAM__BLOCK]; /* so that compilers need not know that they are apart */
  uint32_t i;
  for (i = 0; i < VRAM__BLOCK; i++)
    v[i] = from[i];
  for (i = 0; i < VRAM__BLOCK; i++)
    to[i] = v[i];
}

/* VRAM__BLOCK cells of a row that begin anywhere: where they are, or copied to `two`. */
static const int32_t *vram__table_row_cells(const vram__planning *p, uint64_t row, int64_t from,
                                            int32_t *two) {
  const uint64_t next = p->rows * VRAM__BLOCK;
  const int32_t *cell = p->cell + row * VRAM__BLOCK;
  const int64_t last = (int64_t)p->blocks * VRAM__BLOCK;
  uint32_t i, at;
  if (from >= 0 && from % VRAM__BLOCK == 0 && from < last)
    return cell + (uint64_t)from / VRAM__BLOCK * next;
  if (from > -VRAM__BLOCK && from + VRAM__BLOCK <= last) {
    at = (uint32_t)((uint64_t)from % VRAM__BLOCK);
    if (from >= 0)
      cell += (uint64_t)from / VRAM__BLOCK * next;
    if (from < 0)
      vram__table_fill(two, VRAM__NEVER);
    else {
      vram__move_block(two, cell);
      cell += next;
    }
    vram__move_block(two + VRAM__BLOCK, cell);
    return two + at;
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    two[i] = vram__plan_cell(p, row, from + (int64_t)i);
  return two;
}

/* cell = min(cell, v + more) from the room `least` on. */
static void vram__table_lower(int32_t *cell, const int32_t *v, int32_t more, int64_t least) {
  int32_t sum[VRAM__BLOCK];
  uint32_t i;
  if (least >= VRAM__BLOCK)
    return;
  for (i = 0; i < VRAM__BLOCK; i++)
    sum[i] = v[i] + more;
  for (i = 0; (int64_t)i < least; i++)
    sum[i] = VRAM__NEVER;
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = sum[i] < cell[i] ? sum[i] : cell[i];
}

/* best = min(best, a + b) for `count` blocks: nearly all of the time goes here. Four at a time:
   that compilers keep in a register. */
static void vram__least_sums(int32_t *best, const int32_t *a, const int32_t *b, uint32_t count) {
  uint32_t four, k, i;
  for (four = 0; four < VRAM__BLOCK; four += 4) {
    const int32_t *x = a + four, *y = b + four;
    int32_t v[4];
    for (i = 0; i < 4; i++)
      v[i] = best[four + i];
    for (k = 0; k < count; k++, x += VRAM__BLOCK, y += VRAM__BLOCK)
      for (i = 0; i < 4; i++) {
        const int32_t sum = x[i] + y[i];
        v[i] = sum < v[i] ? sum : v[i];
      }
    for (i = 0; i < 4; i++)
      best[four + i] = v[i];
  }
}

/* Handing the output on to stage j: all of j at once, from the panel. */
static void vram__table_leaves(vram__planning *p, uint32_t s, uint32_t t, uint64_t block,
                               int32_t *cell) {
  const uint64_t row = vram__table_row(p, s, s);
  const int32_t *left = p->cell + (block * p->rows + row) * VRAM__BLOCK;
  const uint32_t *gate = p->gate + row;
  const int64_t from = (int64_t)(block * VRAM__BLOCK) - (int64_t)p->slot.x[t + 1];
  const int32_t base = p->sum[s];
  int32_t best[VRAM__BLOCK];
  uint32_t j, high = t - s, open = 0, i;
  while (open < high) { /* forwards that this much room is enough for */
    const uint32_t middle = open + (high - open) / 2;
    if ((int64_t)gate[middle] <= from)
      open = middle + 1;
    else
      high = middle;
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    best[i] = cell[i] + base;
  for (j = 0; j < open; j += 8) {
    /* to hand on to a later stage costs at least the forwards up to there; less room costs more */
    if (best[0] <= p->sum[s + 1 + j] + base)
      break;
    vram__least_sums(best, p->panel + (uint64_t)(s + 1 + j) * VRAM__BLOCK,
                     left + (uint64_t)j * VRAM__BLOCK, open - j < 8 ? open - j : 8);
  }
  for (j = open; j < t - s && (int64_t)gate[j] < from + VRAM__BLOCK; j++) {
    const int32_t *a = p->panel + (uint64_t)(s + 1 + j) * VRAM__BLOCK;
    const int32_t *b = left + (uint64_t)j * VRAM__BLOCK;
    for (i = (uint32_t)((int64_t)gate[j] - from); i < VRAM__BLOCK; i++)
      best[i] = a[i] + b[i] < best[i] ? a[i] + b[i] : best[i];
  }
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = best[i] - base;
}

/* What a way and stage s leave on the device while the stages after run: `away` has bit 0 if what
   is saved beyond the output goes to the host, bit 1 if the input does. */
static int64_t vram__table_stays(const vram__planning *p, uint32_t s, uint32_t k, int away) {
  const vram__room_sizes *z = &p->slot;
  return (int64_t)(away & 1 ? z->x[s + 1] : z->keep[k]) - (away & 2 ? (int64_t)z->gives[s] : 0);
}

static int32_t vram__away_dear(const vram__planning *p, uint32_t s, uint32_t k, int away) {
  return (away & 1 ? p->saved_dear[k] : 0) + (away & 2 ? p->x_dear[s] : 0);
}

static int vram__most_away(const vram__planning *p, uint32_t s, uint32_t t) {
  return p->offload && s < t ? 3 : 0;
}

static void vram__table_block(vram__planning *p, uint32_t s, uint32_t t, uint64_t block) {
  const vram__room_sizes *z = &p->slot;
  const uint64_t row = vram__table_row(p, s, t);
  const int64_t from = (int64_t)(block * VRAM__BLOCK), y = (int64_t)z->x[t + 1];
  int32_t *cell = p->cell + (block * p->rows + row) * VRAM__BLOCK;
  const int32_t base = p->sum[s];
  int32_t two[2 * VRAM__BLOCK], sums[VRAM__BLOCK];
  const uint32_t end = vram__table_j_end(p, s, t);
  uint32_t i, j, k;
  int away;
  if (from >= p->high[row]) {
    vram__table_fill(cell, base);
    return;
  }
  vram__table_fill(cell, VRAM__NEVER);
  if ((block + 1) * VRAM__BLOCK <= p->least[row])
    return;
  for (k = p->first[s]; k < p->first[s + 1]; k++) {
    const int64_t least = (int64_t)vram__larger_u64((uint64_t)y + z->fore[k], z->back[k]) - from;
    for (away = 0; away <= vram__most_away(p, s, t); away++) {
      const int32_t dear = p->dear[k] + vram__away_dear(p, s, k, away) + base;
      const int64_t rest = from - vram__table_stays(p, s, k, away);
      if (s < t && least < VRAM__BLOCK && rest > -VRAM__BLOCK)
        vram__table_lower(cell, vram__table_row_cells(p, vram__table_row(p, s + 1, t), rest, two),
                          dear - p->sum[s + 1], least);
      else if (s == t) {
        vram__table_fill(two, 0);
        vram__table_lower(cell, two, dear, least);
      }
    }
  }
  if (!p->stages && !p->offload && s < t)
    vram__table_leaves(p, s, t, block, cell);
  else
    for (j = s + 1; j < end; j++)
      for (away = 0; away <= p->offload; away++) {
        const uint64_t left = vram__table_row(p, s, j - 1);
        const uint64_t back = away ? z->gives[s] : 0;
        const uint64_t gate =
            away ? vram__larger_u64(z->head[s], vram__less(p->gate[left], back)) : p->gate[left];
        const int32_t *v = vram__table_row_cells(p, vram__table_row(p, j, t),
                                                 from - (int64_t)z->x[j] + (int64_t)back, two);
        const int32_t *mine = p->cell + (block * p->rows + left) * VRAM__BLOCK;
        for (i = 0; i < VRAM__BLOCK; i++)
          sums[i] = v[i] + mine[i];
        vram__table_lower(cell, sums, (away ? p->x_dear[s] : 0) - base, y + (int64_t)gate - from);
      }
  for (i = 0; i < VRAM__BLOCK; i++)
    cell[i] = cell[i] < VRAM__DEAR ? cell[i] : VRAM__NEVER;
}

/* It is to end. */
static int vram__table_stopped(vram__planning *p) {
  p->stopped = p->stopped || (p->o->stop && p->o->stop(p->o->user));
  return p->stopped;
}

VRAM__FN void vram__table_solve(vram__planning *p) {
  uint64_t b;
  uint32_t s, t;
  if (p->offload) { /* what is on the host leaves more room to the stages after */
    for (t = 0; t < p->n && !vram__table_stopped(p); t++)
      for (s = t + 1; s-- > 0;)
        for (b = 0; b < p->blocks; b++)
          vram__table_block(p, s, t, b);
    return;
  }
  for (b = 0; b < p->blocks; b++)
    for (t = 0; t < p->n && !vram__table_stopped(p); t++)
      for (s = t + 1; s-- > vram__table_lowest_s(p, t);) {
        int32_t two[2 * VRAM__BLOCK];
        const int32_t *v;
        vram__table_block(p, s, t, b);
        if (p->stages)
          continue;
        v = vram__table_row_cells(p, vram__table_row(p, s, t),
                                  (int64_t)(b * VRAM__BLOCK) - (int64_t)p->slot.x[s], two);
        vram__move_block(p->panel + (uint64_t)s * VRAM__BLOCK, v);
      }
}

/* ---- from the table to moves */

VRAM__FN void vram__plan_move(vram__planning *p, uint32_t kind, uint32_t stage, uint32_t way) {
  vram_move *m = p->move + p->nmove++;
  m->stage = stage;
  m->kind = (uint8_t)kind;
  m->way = (uint8_t)way;
}

VRAM__FN void vram__todo_plan(vram__todo **top, uint32_t s, uint32_t t, uint64_t room) {
  vram__todo *d = (*top)++;
  d->move.kind = VRAM_MOVE_COUNT;
  d->move.way = 0;
  d->move.stage = s;
  d->last = t;
  d->room = room;
}

static void vram__todo_move(vram__todo **top, uint32_t kind, uint32_t stage) {
  vram__todo *d = (*top)++;
  d->move.kind = (uint8_t)kind;
  d->move.way = 0;
  d->move.stage = stage;
}

/* Saves s by way k, the rest, and its backward. */
static void vram__plan_chain(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                             uint32_t k, int away, uint64_t room) {
  vram__plan_move(p, VRAM_MOVE_SAVE, s, k - p->first[s]);
  vram__todo_move(top, VRAM_MOVE_BACKWARD, s);
  if (away & 1) {
    vram__plan_move(p, VRAM_MOVE_OFFLOAD_SAVED, s, 0);
    vram__todo_move(top, VRAM_MOVE_FETCH_SAVED, s);
  }
  if (away & 2) {
    vram__plan_move(p, VRAM_MOVE_OFFLOAD, s, 0);
    vram__todo_move(top, VRAM_MOVE_FETCH, s);
  }
  if (s < t)
    vram__todo_plan(top, s + 1, t, room);
}

/* Forward from s to j without saving, the stages from j on, then s to j - 1. */
VRAM__FN void vram__plan_leaf(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                              uint32_t j, int away, uint64_t before, uint64_t after) {
  uint32_t i;
  vram__plan_move(p, VRAM_MOVE_CHECKPOINT, s, 0);
  if (away)
    vram__plan_move(p, VRAM_MOVE_OFFLOAD, s, 0);
  for (i = s + 1; i < j; i++)
    vram__plan_move(p, VRAM_MOVE_DROP, i, 0);
  vram__todo_plan(top, s, j - 1, after);
  if (away)
    vram__todo_move(top, VRAM_MOVE_FETCH, s);
  vram__todo_plan(top, j, t, before);
}

/* The choice that the table was made with: saving before not saving, fewer forwards before more. */
static int vram__moves_expand_cell(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                                   int64_t m) {
  const vram__room_sizes *z = &p->slot;
  const int64_t y = (int64_t)z->x[t + 1];
  const int32_t want = vram__plan_cell(p, vram__table_row(p, s, t), m);
  const uint32_t end = vram__table_j_end(p, s, t);
  uint32_t j, k, best = p->nway;
  int away;
  for (away = 0; away <= vram__most_away(p, s, t); away++) {
    for (k = p->first[s]; k < p->first[s + 1]; k++) {
      const int64_t after = m - vram__table_stays(p, s, k, away);
      const int32_t rest =
          s < t ? vram__plan_cell(p, vram__table_row(p, s + 1, t), after) - p->sum[s + 1] : 0;
      if (m >= (int64_t)vram__larger_u64((uint64_t)y + z->fore[k], z->back[k]) &&
          rest + p->dear[k] + vram__away_dear(p, s, k, away) + p->sum[s] == want &&
          (best == p->nway || z->keep[k] < z->keep[best]))
        best = k;
    }
    if (best < p->nway) {
      vram__plan_chain(p, top, s, t, best, away,
                       s < t ? (uint64_t)(m - vram__table_stays(p, s, best, away)) : 0);
      return 1;
    }
  }
  for (away = 0; away <= p->offload; away++)
    for (j = s + 1; j < end; j++) {
      const uint64_t left = vram__table_row(p, s, j - 1), right = vram__table_row(p, j, t);
      const int64_t back = away ? (int64_t)z->gives[s] : 0;
      const int64_t least =
          y +
          (away ? (int64_t)vram__larger_u64(z->head[s], vram__less(p->gate[left], (uint64_t)back))
                : (int64_t)p->gate[left]);
      const int64_t before = m - (int64_t)z->x[j] + back;
      if (m >= least && vram__plan_cell(p, left, m) + vram__plan_cell(p, right, before) -
                                p->sum[s] + (away ? p->x_dear[s] : 0) ==
                            want) {
        vram__plan_leaf(p, top, s, t, j, away, (uint64_t)before, (uint64_t)m);
        return 1;
      }
    }
  return 0;
}

/* A cell for the room that stages s to t have, in bytes; NEVER before there is a table. */
static int32_t vram__room_cell(const vram__planning *p, uint32_t s, uint32_t t, uint64_t room) {
  return p->filled
             ? vram__plan_cell(p, vram__table_row(p, s, t), (int64_t)(room / p->unit)) - p->sum[s]
             : VRAM__NEVER;
}

/* The best choice that `room` bytes are enough for: `low` says what is enough, the table what it
   costs. What the table knows nothing of is halved. */
static int vram__moves_expand_room(vram__planning *p, vram__todo **top, uint32_t s, uint32_t t,
                                   uint64_t room) {
  const vram__room_sizes *z = &p->bytes;
  const uint64_t y = z->x[t + 1];
  uint64_t rest = 0;
  const uint32_t end = vram__table_j_end(p, s, t);
  uint32_t j, k, way = p->nway, to = 0;
  int away, moved = 0;
  int32_t best = INT32_MAX;
  for (away = 0; away <= vram__most_away(p, s, t); away++)
    for (k = p->first[s]; k < p->first[s + 1]; k++) {
      const uint64_t stays = s == t ? 0 : away & 1 ? z->x[s + 1] : z->keep[k];
      const uint64_t more = room + (away & 2 ? z->x[s] : 0);
      int32_t cost = p->filled ? p->dear[k] + vram__away_dear(p, s, k, away) : 0;
      if (room < vram__larger_u64(y + z->fore[k], z->back[k]) ||
          (s < t && more < stays + p->low[vram__table_row(p, s + 1, t)]))
        continue;
      cost += s < t ? vram__room_cell(p, s + 1, t, more - stays) : 0;
      if (cost < best ||
          (cost == best && way < p->nway && moved == away && p->extra[k] < p->extra[way])) {
        best = cost;
        way = k;
        moved = away;
        rest = more - stays;
      }
    }
  for (away = 0; away <= p->offload; away++) {
    const uint64_t back = away ? z->x[s] : 0;
    uint64_t hop = 0;
    for (j = s + 1; j < end; j++) {
      if (room >= y + z->head[s] && room + back >= y + hop &&
          room + back >= z->x[j] + p->low[vram__table_row(p, j, t)] &&
          room >= p->low[vram__table_row(p, s, j - 1)]) {
        const int32_t cost = vram__room_cell(p, j, t, room + back - z->x[j]) +
                             vram__room_cell(p, s, j - 1, room) +
                             (p->filled ? p->sum[j] - p->sum[s] + (away ? p->x_dear[s] : 0) : 0);
        if (cost < best || (cost == best && !p->filled && way == p->nway && moved == away &&
                            j <= s + (t - s) / 2 + 1)) {
          best = cost;
          way = p->nway;
          to = j;
          moved = away;
        }
      }
      hop = vram__larger_u64(hop, z->hop[j]);
    }
  }
  if (way < p->nway)
    vram__plan_chain(p, top, s, t, way, moved, rest);
  else if (to)
    vram__plan_leaf(p, top, s, t, to, moved, room + (moved ? z->x[s] : 0) - z->x[to], room);
  return way < p->nway || to;
}

/* Moves for so many slots, or so many bytes. */
VRAM__FN int vram__moves_expand(vram__planning *p, uint64_t room, int in_slots) {
  vram__todo *top = p->todo;
  p->nmove = 0;
  vram__todo_plan(&top, 0, p->n - 1, room);
  while (top != p->todo) {
    const vram__todo d = *--top;
    const uint32_t s = d.move.stage, t = d.last;
    if (d.move.kind != VRAM_MOVE_COUNT)
      vram__plan_move(p, d.move.kind, s, 0);
    else if (in_slots ? !vram__moves_expand_cell(p, &top, s, t, (int64_t)d.room)
                      : !vram__moves_expand_room(p, &top, s, t, d.room))
      return 0;
  }
  return 1;
}
