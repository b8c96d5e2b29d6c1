/* Random numbers, and random schedules of a chain: what is legal, not what is good. */
#ifndef MOVES_H
#define MOVES_H
#include "../vram.h"
#include <string.h>

enum { STAGES = 12, MOVES = 600 };

static uint64_t seed = 1;
static uint64_t splitmix(uint64_t *s) {
  uint64_t x = (*s += UINT64_C(0x9e3779b97f4a7c15));
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}
static uint32_t below(uint32_t n) { return n ? (uint32_t)(splitmix(&seed) >> 33) % n : 0; }

static int same_bits(const void *a, const void *b, size_t n) { return memcmp(a, b, n) == 0; }

static vram_move list[MOVES];
static uint32_t nlist;

static void put(uint32_t kind, uint32_t stage, const vram_chain *c) {
  list[nlist].stage = stage;
  list[nlist].kind = (uint8_t)kind;
  list[nlist++].way = (uint8_t)(kind == VRAM_MOVE_SAVE ? below(c->stage[stage].nway) : 0);
}

/* any persistent schedule of stages s to t: `again` of 8 times something is computed again. kept:
   the input is what the stage before has saved, which a DROP leaves alone */
static void make_moves(const vram_chain *c, uint32_t s, uint32_t t, uint32_t again, int kept) {
  if (s < t && below(8) < again && nlist < MOVES / 4) {
    const uint32_t j = s + 1 + below(t - s);
    uint32_t i;
    put(kept && below(2) ? VRAM_MOVE_DROP : VRAM_MOVE_CHECKPOINT, s, c);
    for (i = s + 1; i < j; i++)
      put(VRAM_MOVE_DROP, i, c);
    make_moves(c, j, t, again, 0);
    make_moves(c, s, j - 1, again, kept);
    return;
  }
  put(VRAM_MOVE_SAVE, s, c);
  if (s < t)
    make_moves(c, s + 1, t, again, 1);
  put(VRAM_MOVE_BACKWARD, s, c);
}

static int uses(const vram_move *m, uint32_t stage, int saved) {
  if (m->kind == VRAM_MOVE_BACKWARD)
    return m->stage == stage || (!saved && m->stage + 1 == stage);
  return saved ? m->stage == stage && m->kind == VRAM_MOVE_SAVE
               : m->stage == stage || m->stage + 1 == stage;
}

/* copies to the host and back, wherever something is not used for a while */
static void add_copies(const vram_chain *c, uint32_t often) {
  static vram_move to[MOVES];
  uint32_t stage, saved, i, k, gap, begin;
  for (stage = 0; stage < c->nstage; stage++)
    for (saved = 0; saved < 2; saved++) {
      uint32_t n = 0, out_at[MOVES], back_at[MOVES];
      int there = !saved && stage == 0; /* x0 */
      memset(out_at, 0, sizeof out_at);
      memset(back_at, 0, sizeof back_at);
      begin = 0;
      for (i = 0; i < nlist; i++) {
        const vram_move *m = &list[i];
        if (m->kind > VRAM_MOVE_BACKWARD || !uses(m, stage, (int)saved))
          continue;
        gap = i - begin;
        if (there && gap > 1 && below(8) < often && nlist + 2 * n + 2 < MOVES) {
          const uint32_t out = begin + below(gap), back = out + 1 + below(i - out);
          out_at[out]++; /* before these moves */
          back_at[back]++;
          n++;
        }
        begin = i + 1;
        if (saved)
          there = m->kind == VRAM_MOVE_SAVE;
        else if (m->stage + 1 == stage)
          there = m->kind != VRAM_MOVE_BACKWARD;
        else /* its own stage: BACKWARD and DROP end it, unless the stage before has it saved */
          there = m->kind == VRAM_MOVE_SAVE || m->kind == VRAM_MOVE_CHECKPOINT;
      }
      for (i = k = 0; i < nlist; i++) {
        if (back_at[i]) {
          to[k].stage = stage, to[k].way = 0;
          to[k++].kind = saved ? VRAM_MOVE_FETCH_SAVED : VRAM_MOVE_FETCH;
        }
        if (out_at[i]) {
          to[k].stage = stage, to[k].way = 0;
          to[k++].kind = saved ? VRAM_MOVE_OFFLOAD_SAVED : VRAM_MOVE_OFFLOAD;
        }
        to[k++] = list[i];
      }
      memcpy(list, to, k * sizeof *to);
      nlist = k;
    }
}

#endif
