/* >>alloc    events, ledger, pool */
#pragma once
#include "core/core.h"

/* Allocations of one owner and size on one device. */
typedef struct vram__group {
  uint64_t bytes;
  int64_t now, then; /* how many, now and at the mark */
  uint32_t owner;
  uint32_t device; /* and 1; 0: an empty place */
} vram__group;

/* What is alive and in no table. */
typedef struct vram__lost {
  uint64_t count, bytes, block_bytes;
} vram__lost;

#define VRAM__LIVE_VARIOUS 8u /* counted in vram_ledger.various */
#define VRAM__LIVE_BY_ID 16u  /* it has no address */

typedef int vram__stands_before(const void *a, const void *b); /* a stands before b in the list */

typedef struct vram__top {
  uint8_t *list;
  uint32_t n, cap, size;
  vram__stands_before *before;
} vram__top;

#define VRAM__SMALL_SEGMENT UINT64_C(2097152)     /* kSmallBuffer, kRoundLarge */
#define VRAM__LARGE_REQUEST UINT64_C(10485760)    /* kMinLargeAlloc */
#define VRAM__LARGE_SEGMENT UINT64_C(20971520)    /* kLargeBuffer */
#define VRAM__LARGEST_REQUEST (UINT64_C(1) << 60) /* one_exa_bytes */

#define VRAM__POOL_BINS 8192

/* A piece of a segment: handed out, or free. One line of the cache. */
typedef struct vram__block {
  uint64_t address, size, requested;
  union {
    uint64_t streams; /* handed out: others that use it, one bit each */
    uint32_t parent;  /* free: in its tree; 0: it is the root */
  } use;
  uint32_t prev, next; /* in the segment; 0: none */
  uint32_t child[2];   /* in the tree of its bin, or of unmapped ones */
  uint32_t serial;     /* policy BEST: of its segment */
  uint32_t link;       /* handed out: the next of the same hash; given back: entries of queues
                          that it waits for; free: requests of the class when it was freed */
  uint32_t skew;       /* of an expandable segment: its address modulo the granule */
  uint16_t bin;
  uint8_t stream, flags;
} vram__block;

/* The free blocks of one stream and class by size. */
typedef struct vram__bins {
  uint64_t filled[VRAM__POOL_BINS / 64];
  uint32_t root[VRAM__POOL_BINS];
  uint64_t words[VRAM__POOL_BINS / 4096]; /* which of filled are not 0 */
  uint32_t unmapped;
} vram__bins;

/* event.c */
VRAM__FN uint32_t vram__category_of(vram_category category);

/* ledger.c */
VRAM__FN void vram__ledger_lock(vram_ledger *l);
VRAM__FN void vram__ledger_unlock(vram_ledger *l);
VRAM__FN vram_memory_stats *vram__stats_of(const vram_ledger *l, uint32_t device);
VRAM__FN void vram__group_remove(vram_ledger *l, uint32_t hole);

/* ledger_top.c */
VRAM__FN void vram__top_add(vram__top *t, const void *item);
VRAM__FN void vram__top_sort(const vram__top *t);
VRAM__FN vram__top vram__top_of(void *list, uint32_t cap, uint32_t size,
                                vram__stands_before *before);
VRAM__FN uint32_t vram__ledger_owners(const vram_ledger *l, int at_peak, vram_owner *list,
                                      uint32_t cap);
VRAM__FN void vram__ledger_reset(vram_ledger *l, int peak);

/* ledger_region.c */
VRAM__FN uint32_t vram__ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap);

/* pool.c */
VRAM__FN vram_result vram__pool_get(vram_pool *p, uint64_t bytes, uint64_t stream, uint32_t *block);
VRAM__FN void vram__pool_put(vram_pool *p, uint32_t x);

static inline void vram__tally_up(vram_stat *s, uint64_t n) {
  s->current += n;
  s->allocated += n;
  if (s->current > s->peak)
    s->peak = s->current;
}

static inline void vram__tally_down(vram_stat *s, uint64_t n) {
  if (n > s->current) /* more than ever came: an observer that began late */
    n = s->current;
  s->current -= n;
  s->freed += n;
}

static inline uint32_t vram__live_at(const vram_ledger *l, uint64_t key) {
  uint32_t i = (uint32_t)vram__mix(key) & l->live_mask;
  while (l->live[i].address && l->live[i].address != key)
    i = (i + 1) & l->live_mask;
  return i;
}

/* x > 0 */
static inline uint32_t vram__log2(uint64_t x) {
#if defined(__GNUC__)
  return 63u - (uint32_t)__builtin_clzll(x);
#else
  uint32_t n = 0;
  while (x >>= 1)
    n++;
  return n;
#endif
}
