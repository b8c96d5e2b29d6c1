/* >>alloc/ledger_region    regions and marks: what happened between two points
   Each holds what happened while it was the innermost, until it takes over what ended inside it. */
#include "alloc/alloc.h"

static void vram__region_fold(vram_region *to, const vram_region *inner) {
  const int64_t peak = (int64_t)((uint64_t)to->bytes + (uint64_t)inner->peak);
  if (peak > to->peak)
    to->peak = peak;
  to->bytes = (int64_t)((uint64_t)to->bytes + (uint64_t)inner->bytes);
  to->allocated += inner->allocated;
  to->freed += inner->freed;
  to->allocations += inner->allocations;
  to->frees += inner->frees;
}

VRAM_API void vram_region_begin(vram_ledger *l, vram_region *r, const char *name) {
  vram__memory_zero(r, sizeof *r);
  r->name = name;
  vram__ledger_lock(l);
  r->outer = l->region;
  l->region = r;
  vram__ledger_unlock(l);
}

/* What is still open inside r began after all that r holds: it is added from the outermost to the
   innermost. The list has one direction, so the next one is searched again from its beginning. */
static void vram__region_add_open(vram_ledger *l, vram_region *r, const vram_region *last) {
  const vram_region *c;
  while (l->region != last) {
    for (c = l->region; c->outer != last; c = c->outer)
      ;
    vram__region_fold(r, c);
    last = c;
  }
}

VRAM_API int vram_region_end(vram_ledger *l, vram_region *r) {
  vram_region **at;
  int found;
  vram__ledger_lock(l);
  for (at = &l->region; *at && *at != r; at = &(*at)->outer)
    ;
  found = *at != NULL;
  if (found) {
    if (r->outer)
      vram__region_fold(r->outer, r);
    vram__region_add_open(l, r, r);
    *at = r->outer;
    r->outer = NULL;
  }
  vram__ledger_unlock(l);
  return found;
}

/* ---- marks ---- */

static int vram__larger_change(const void *a, const void *b) {
  const vram_change *x = (const vram_change *)a, *y = (const vram_change *)b;
  const uint64_t p = x->sum < 0 ? 0 - (uint64_t)x->sum : (uint64_t)x->sum;
  const uint64_t q = y->sum < 0 ? 0 - (uint64_t)y->sum : (uint64_t)y->sum;
  return p != q                   ? p > q
         : x->owner != y->owner   ? x->owner < y->owner
         : x->bytes != y->bytes   ? x->bytes > y->bytes
         : x->device != y->device ? x->device < y->device
                                  : x->various < y->various;
}

VRAM__FN uint32_t vram__ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list, vram__larger_change);
  vram_change c;
  uint32_t i, n = 0;
  l->mark_bytes = l->bytes;
  if (!l->options.groups)
    return 0;
  vram__memory_zero(&c, sizeof c);
  for (i = 0; i <= l->group_mask; i++) {
    vram__group *g = l->group + i;
    if (!g->device || g->now == g->then)
      continue;
    c.owner = g->owner;
    c.device = (uint8_t)(g->device - 1);
    c.count = g->now - g->then;
    c.bytes = g->bytes;
    c.sum = (int64_t)((uint64_t)c.count * c.bytes);
    vram__top_add(&top, &c);
    n++;
    g->then = g->now;
  }
  for (i = 0; i <= l->group_mask; i++)
    while (l->group[i].device && !l->group[i].now)
      vram__group_remove(l, i);
  if (l->various[0] != l->various[2] || l->various[1] != l->various[3]) {
    vram__memory_zero(&c, sizeof c);
    c.various = 1;
    c.count = l->various[0] - l->various[2];
    c.sum = (int64_t)((uint64_t)l->various[1] - (uint64_t)l->various[3]);
    vram__top_add(&top, &c);
    n++;
    l->various[2] = l->various[0];
    l->various[3] = l->various[1];
  }
  vram__top_sort(&top);
  return n;
}

VRAM_API uint32_t vram_ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap) {
  uint32_t n;
  vram__ledger_lock(l);
  n = vram__ledger_mark(l, list, cap);
  vram__ledger_unlock(l);
  return n;
}
