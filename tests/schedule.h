/* Chains for the tests of schedules, and what is true of them by search: a replay of its own, and
   Dijkstra's algorithm over all states that moves lead to. Nothing here is of vram.h but types. */
#ifndef SCHEDULE_H
#define SCHEDULE_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../vram.h"

#define CHAIN_CAP 400
#define WAY_CAP 2

typedef struct chain {
  vram_chain c;
  vram_stage stage[CHAIN_CAP];
  vram_way way[CHAIN_CAP][WAY_CAP];
} chain;

static void chain_begin(chain *h, uint32_t n, uint64_t input) {
  uint32_t i;
  memset(h, 0, sizeof *h);
  h->c.stage = h->stage;
  h->c.nstage = n;
  h->c.input_bytes = h->c.input_gradient_bytes = input;
  for (i = 0; i < n; i++) {
    h->stage[i].way = h->way[i];
    h->stage[i].nway = 1;
  }
}

/* A stage of one way. `more`: saved beyond the output. */
static void chain_stage(chain *h, uint32_t i, uint64_t out, uint64_t more, uint64_t forward_temp,
                        uint64_t backward_temp, uint64_t forward, uint64_t backward) {
  vram_stage *s = h->stage + i;
  vram_way *w = h->way[i];
  s->output_bytes = i + 1 < h->c.nstage ? out : 0;
  w->saved_bytes = s->output_bytes + (i + 1 < h->c.nstage ? more : 0);
  s->forward_temp_bytes = w->forward_temp_bytes = forward_temp;
  w->backward_temp_bytes = backward_temp;
  s->forward_cost = w->forward_cost = forward;
  w->backward_cost = backward;
}

static uint64_t chain_random_state = UINT64_C(88172645463325252);
static __attribute__((unused)) uint64_t chain_random(uint64_t below) {
  chain_random_state ^= chain_random_state << 13;
  chain_random_state ^= chain_random_state >> 7;
  chain_random_state ^= chain_random_state << 17;
  return (chain_random_state >> 20) % below;
}

/* ---- what a move does */

enum { GONE, HERE, KEPT, AWAY }; /* KEPT: a checkpoint; it stays until its backward */

typedef struct state {
  uint8_t x[9];     /* of x0.. */
  uint8_t saved[8]; /* 0, or 1 + way, or 1 + WAY_CAP + way: on the host */
  uint8_t back;     /* stages from here on have run backward */
} state;

static uint64_t up(const chain *h, uint64_t bytes) {
  const uint64_t a = h->c.align ? h->c.align : 1;
  return (bytes + a - 1) / a * a;
}
static uint64_t x_size(const chain *h, uint32_t i) {
  return up(h, i ? h->stage[i - 1].output_bytes : h->c.input_bytes);
}
static uint64_t more_size(const chain *h, uint32_t i, uint32_t way) {
  return up(h, h->way[i][way].saved_bytes - h->stage[i].output_bytes);
}
static uint64_t gradient_size(const chain *h, uint32_t i) {
  return i < h->c.nstage ? i ? x_size(h, i) : up(h, h->c.input_gradient_bytes) : 0;
}

/* All that lives on the device (host 0) or on the host. */
static uint64_t live(const chain *h, const state *s, int host) {
  uint64_t sum = host ? 0 : h->c.static_bytes + gradient_size(h, s->back);
  uint32_t i;
  for (i = 0; i <= h->c.nstage; i++) {
    if (s->x[i] && (s->x[i] == AWAY) == host)
      sum += x_size(h, i);
    if (i < h->c.nstage && s->saved[i] && (s->saved[i] > WAY_CAP) == host)
      sum += more_size(h, i, (s->saved[i] - 1u) % WAY_CAP);
  }
  return sum;
}

/* Does m: 0 if it cannot be done. `persistent`: no checkpoint may be dropped. */
static int play(const chain *h, state *s, const vram_move *m, int persistent, uint64_t *peak,
                uint64_t *cost) {
  const uint32_t i = m->stage;
  const uint64_t per = h->c.transfer_bytes ? h->c.transfer_bytes : 1;
  const vram_way *w;
  int held;
  if (i >= h->c.nstage)
    return 0;
  held = i && s->saved[i - 1];
  *peak = *cost = 0;
  switch (m->kind) {
  case VRAM_MOVE_DROP:
  case VRAM_MOVE_CHECKPOINT:
  case VRAM_MOVE_SAVE:
    if (i >= s->back || s->x[i] == GONE || s->x[i] == AWAY || s->x[i + 1] != GONE)
      return 0;
    if (m->kind == VRAM_MOVE_SAVE && m->way >= h->stage[i].nway)
      return 0;
    if (m->kind == VRAM_MOVE_DROP && persistent && s->x[i] == KEPT && !held)
      return 0;
    w = &h->way[i][m->kind == VRAM_MOVE_SAVE ? m->way : 0];
    s->x[i + 1] = HERE;
    if (m->kind == VRAM_MOVE_SAVE)
      s->saved[i] = (uint8_t)(m->way + 1);
    *peak = live(h, s, 0) + up(h, m->kind == VRAM_MOVE_SAVE ? w->forward_temp_bytes
                                                            : h->stage[i].forward_temp_bytes);
    *cost = m->kind == VRAM_MOVE_SAVE ? w->forward_cost : h->stage[i].forward_cost;
    if (m->kind == VRAM_MOVE_DROP && !held)
      s->x[i] = GONE;
    else
      s->x[i] = persistent ? KEPT : HERE;
    return 1;
  case VRAM_MOVE_BACKWARD:
    if (i + 1 != s->back || !s->saved[i] || s->saved[i] > WAY_CAP || s->x[i] == GONE ||
        s->x[i] == AWAY || s->x[i + 1] == GONE || s->x[i + 1] == AWAY)
      return 0;
    w = &h->way[i][s->saved[i] - 1];
    *peak = live(h, s, 0) + gradient_size(h, i) + up(h, w->backward_temp_bytes);
    *cost = w->backward_cost;
    s->saved[i] = 0;
    s->x[i + 1] = GONE;
    if (!held)
      s->x[i] = GONE;
    s->back = (uint8_t)i;
    return 1;
  case VRAM_MOVE_OFFLOAD:
  case VRAM_MOVE_FETCH:
    if (s->x[i] == GONE || (s->x[i] == AWAY) != (m->kind == VRAM_MOVE_FETCH))
      return 0;
    s->x[i] = m->kind == VRAM_MOVE_OFFLOAD ? AWAY : persistent ? KEPT : HERE;
    *cost = (x_size(h, i) * h->c.transfer_cost + per - 1) / per;
    break;
  case VRAM_MOVE_OFFLOAD_SAVED:
  case VRAM_MOVE_FETCH_SAVED:
    if (!s->saved[i] || (s->saved[i] > WAY_CAP) != (m->kind == VRAM_MOVE_FETCH_SAVED))
      return 0;
    *cost = (more_size(h, i, (s->saved[i] - 1u) % WAY_CAP) * h->c.transfer_cost + per - 1) / per;
    s->saved[i] = (uint8_t)(s->saved[i] > WAY_CAP ? s->saved[i] - WAY_CAP : s->saved[i] + WAY_CAP);
    break;
  default:
    return 0;
  }
  *peak = live(h, s, 0);
  return 1;
}

/* Plays moves: 0 if they are no schedule. Chains of up to 8 stages. */
static int play_all(const chain *h, const vram_move *move, uint32_t n, uint64_t *peak,
                    uint64_t *cost, uint64_t *host) {
  state s;
  uint64_t p, c;
  uint32_t k;
  memset(&s, 0, sizeof s);
  s.x[0] = HERE;
  s.back = (uint8_t)h->c.nstage;
  *peak = live(h, &s, 0);
  *cost = *host = 0;
  for (k = 0; k < n; k++) {
    if (!play(h, &s, move + k, 0, &p, &c))
      return 0;
    *peak = p > *peak ? p : *peak;
    *cost += c;
    p = live(h, &s, 1);
    *host = p > *host ? p : *host;
  }
  return s.back == 0;
}

/* ---- the cheapest way from the first state to the last */

#define NO_WAY UINT64_MAX
#define SEEN (1u << 16)

typedef struct entry {
  state s;
  uint32_t used; /* in this search */
  uint64_t cost;
} entry;

static entry seen[SEEN];
static struct {
  uint32_t at;
  uint64_t cost;
} heap[1u << 18];
static uint32_t nheap, nseen, searches;

static uint32_t find(const state *s) {
  const uint8_t *b = (const uint8_t *)s;
  uint32_t at = 2166136261u, i;
  for (i = 0; i < sizeof *s; i++)
    at = (at ^ b[i]) * 16777619u;
  at = (at ^ at >> 15) % SEEN;
  while (seen[at].used == searches && memcmp(&seen[at].s, s, sizeof *s) != 0)
    at = (at + 1) % SEEN;
  return at;
}

static void push(const state *s, uint64_t cost) {
  const uint32_t at = find(s);
  uint32_t i;
  if (seen[at].used == searches && seen[at].cost <= cost)
    return;
  if (seen[at].used != searches && ++nseen > SEEN / 2)
    abort();
  seen[at].used = searches;
  seen[at].s = *s;
  seen[at].cost = cost;
  if (nheap == sizeof heap / sizeof *heap)
    abort();
  for (i = nheap++; i && heap[(i - 1) / 2].cost > cost; i = (i - 1) / 2)
    heap[i] = heap[(i - 1) / 2];
  heap[i].at = at;
  heap[i].cost = cost;
}

/* Cost of the cheapest schedule within a budget, NO_WAY: none. */
static uint64_t search(const chain *h, uint64_t budget, int persistent, int offload) {
  state s;
  nheap = nseen = 0;
  searches++;
  memset(&s, 0, sizeof s);
  s.x[0] = HERE;
  s.back = (uint8_t)h->c.nstage;
  if (live(h, &s, 0) > budget)
    return NO_WAY;
  push(&s, 0);
  while (nheap) {
    const uint32_t at = heap[0].at;
    const uint64_t cost = heap[0].cost;
    uint32_t i = 0, child, kind, way, stage;
    nheap--;
    while ((child = 2 * i + 1) < nheap) {
      if (child + 1 < nheap && heap[child + 1].cost < heap[child].cost)
        child++;
      if (heap[child].cost >= heap[nheap].cost)
        break;
      heap[i] = heap[child];
      i = child;
    }
    heap[i] = heap[nheap];
    if (seen[at].cost < cost)
      continue;
    s = seen[at].s;
    if (!s.back)
      return cost;
    for (stage = 0; stage < h->c.nstage; stage++)
      for (kind = 0; kind < (offload ? VRAM_MOVE_COUNT : VRAM_MOVE_OFFLOAD); kind++)
        for (way = 0; way < (kind == VRAM_MOVE_SAVE ? h->stage[stage].nway : 1); way++) {
          state next = s;
          vram_move m;
          uint64_t peak, more;
          m.stage = stage;
          m.kind = (uint8_t)kind;
          m.way = (uint8_t)way;
          if (play(h, &next, &m, persistent, &peak, &more) && peak <= budget)
            push(&next, cost + more);
        }
  }
  return NO_WAY;
}

#endif
