/* >>plan/arena_improve    a plan made better part by part */
#include "plan/plan.h"

/* Puts a->brick into the order of a->key. */
static void vram__arena_permute(vram__arena *a) {
  uint32_t i, k;
  for (i = 0; i < a->n; i++) {
    const vram__brick first = a->brick[i];
    for (k = i; a->key[k].at != i && a->key[k].at != VRAM__NONE;) {
      const uint32_t from = a->key[k].at;
      a->brick[k] = a->brick[from];
      a->key[k].at = VRAM__NONE;
      k = from;
    }
    if (a->key[k].at == i) {
      a->brick[k] = first;
      a->key[k].at = VRAM__NONE;
    }
  }
}

/* Buffers that may take each other's place get the same group; all are told how many neighbours
   they have: those that begin before they end, without those that end before they begin. */
static void vram__arena_groups(vram__arena *a) {
  uint32_t i, s;
  for (s = 0; s <= a->sections; s++)
    a->next[s] = a->cross[s] = 0; /* how many begin, end in a section or before */
  for (i = 0; i < a->n; i++) {
    a->next[a->brick[i].first - a->section]++;
    a->cross[a->brick[i].last - a->section]++;
  }
  for (s = 1; s <= a->sections; s++) {
    a->next[s] += a->next[s - 1];
    a->cross[s] += a->cross[s - 1];
  }
  for (i = 0; i < a->n; i++) {
    const vram__brick *b = a->brick + i;
    a->brick[i].meets = a->next[b->last - 1 - a->section] - a->cross[b->first - a->section];
  }
  vram__arena_order(a, "BESL");
  for (i = 0; i < a->n; i++) {
    vram__brick *b = a->brick + a->key[i].at;
    const vram__brick *c = a->brick + a->key[i ? i - 1 : 0].at;
    b->group = !i ? 0
                  : c->group + (c->bytes != b->bytes || c->first != b->first ||
                                c->last != b->last || c->align != b->align);
  }
}

typedef struct vram__part { /* of time, that nothing connects with the rest */
  uint64_t low, height;     /* no plan is lower; of the best plan */
  uint64_t nodes;           /* where the search ends */
} vram__part;

/* Looks for a plan of that height in every order, so many nodes each. */
static int vram__improve_to(vram__arena *a, vram__part *p, uint64_t target, uint64_t limit) {
  static const char way[][4] = {"Twa", "AWT", "TBS", "EB", "OA", "twa", "BO", "TO", "TAW", "WAT"};
  uint32_t i, w;
  for (w = 0; w < sizeof way / sizeof *way && !a->stopped && a->nodes < p->nodes; w++) {
    const uint64_t left = p->nodes - a->nodes;
    const int found = vram__search(a, way[w], target, left < limit ? left : limit);
    if (found == VRAM__REFUTED)
      p->low = a->above < p->height ? a->above : p->height;
    if (found == VRAM__SOLVED) {
      for (i = 0; i < a->n; i++)
        a->brick[a->item[i].brick].best = a->item[i].at;
      p->height = vram__arena_height(a);
    }
    if (found != VRAM__UNKNOWN)
      return found;
  }
  return VRAM__UNKNOWN;
}

/* Many short searches before long ones: a search that takes a wrong turn early does not come back.
   First for what must be reached, then for the bound, then for what is between. */
static void vram__improve_part(vram__arena *a, vram__part *p, uint64_t capacity, uint64_t enough) {
  const uint64_t unit = vram__arena_unit(a);
  uint64_t limit = 512;
  uint32_t i;
  a->slack = 0;
  for (i = 0; i < a->n; i++) {
    const vram__brick *b = a->brick + i;
    const uint64_t slack = vram__align_up(b->bytes, unit) - b->bytes;
    a->slack = a->slack > slack ? a->slack : slack;
  }
  vram__arena_groups(a);
  for (; p->height > p->low && p->height > enough && !a->stopped && a->nodes < p->nodes;
       limit *= 4) {
    int found = VRAM__REFUTED, high = 0;
    if (p->height > capacity && capacity > p->low &&
        vram__improve_to(a, p, capacity, limit) != VRAM__SOLVED)
      continue;
    while (p->height > p->low && p->height > enough && found == VRAM__REFUTED)
      found = vram__improve_to(a, p, p->low > enough ? p->low : enough, limit);
    while (p->height > p->low && p->height > enough && high < 2) {
      const uint64_t gap = p->height - p->low;
      found = vram__improve_to(a, p, high ? p->height - 1 - gap / 8 : p->low + gap / 2, limit);
      high = found == VRAM__UNKNOWN ? high + 1 : 0;
    }
  }
}

/* Searches for lower plans. Parts of time that nothing connects are searched one by one. */
VRAM__FN void vram__improve(vram__arena *a, uint64_t capacity, uint64_t enough) {
  vram__brick *all = a->brick;
  const uint32_t n = a->n, sections = a->sections;
  uint32_t i, k;
  vram__arena_order(a, "B");
  vram__arena_permute(a);
  for (i = 0; i < n; i = k) {
    vram__part p;
    uint32_t last = all[i].last;
    for (k = i + 1; k < n && all[k].first < last; k++)
      last = last > all[k].last ? last : all[k].last;
    a->brick = all + i;
    a->n = k - i;
    a->section = all[i].first;
    a->sections = last - all[i].first;
    p.low = a->bound;
    p.height = vram__arena_height(a);
    p.nodes = a->o->nodes ? a->o->nodes : VRAM__ARENA_NODES;
    if (p.height > p.low && a->n <= VRAM__ARENA_EXACT)
      vram__improve_part(a, &p, capacity, enough);
    a->bound = a->bound > p.low ? a->bound : p.low;
  }
  a->brick = all;
  a->n = n;
  a->sections = sections;
  a->height = vram__arena_height(a);
}
