/* A pretended device for pools: addresses only, every range remembered, any call may fail. */
#ifndef TESTS_POOL_H
#define TESTS_POOL_H
#include "test.h"

#include "../vram.h"

#include <inttypes.h>

#define DEVICE_RANGES 4096

typedef struct device {
  uint64_t total, used, next;
  uint64_t calls, fail; /* the fail-th call from now fails; 0: none */
  uint64_t events;      /* recorded so far */
  uint64_t done;        /* this and earlier events have happened */
  uint64_t waited;      /* how often somebody waited */

  struct {
    uint64_t address, bytes;
    int reserved;
  } range[DEVICE_RANGES];
  int ranges, bad;
} device;

static TEST_UNUSED int device_fails(device *d) {
  d->calls++;
  return d->fail && d->calls == d->fail;
}

static TEST_UNUSED uint64_t device_range(device *d, uint64_t bytes, int reserved) {
  const uint64_t at = d->next;
  if (d->ranges == DEVICE_RANGES) {
    d->bad++;
    return 0;
  }
  d->range[d->ranges].address = at;
  d->range[d->ranges].bytes = bytes;
  d->range[d->ranges++].reserved = reserved;
  d->next += bytes;
  return at;
}

static TEST_UNUSED void device_forget(device *d, uint64_t address, uint64_t bytes, int reserved) {
  int i;
  for (i = 0; i < d->ranges; i++)
    if (d->range[i].address == address && d->range[i].bytes == bytes &&
        d->range[i].reserved == reserved) {
      d->range[i] = d->range[--d->ranges];
      return;
    }
  d->bad++;
}

static TEST_UNUSED uint64_t device_alloc(void *user, uint64_t bytes, uint64_t stream) {
  device *d = (device *)user;
  (void)stream;
  if (device_fails(d) || bytes > d->total - d->used)
    return 0;
  d->used += bytes;
  return device_range(d, bytes, 0);
}

static TEST_UNUSED void device_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  device *d = (device *)user;
  (void)stream;
  d->used -= bytes;
  device_forget(d, address, bytes, 0);
}

static TEST_UNUSED uint64_t device_reserve(void *user, uint64_t bytes) {
  device *d = (device *)user;
  return device_fails(d) ? 0 : device_range(d, bytes, 1);
}

static TEST_UNUSED void device_unreserve(void *user, uint64_t address, uint64_t bytes) {
  device_forget((device *)user, address, bytes, 1);
}

static TEST_UNUSED int device_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  device *d = (device *)user;
  int i, inside = 0;
  for (i = 0; i < d->ranges; i++)
    inside |= d->range[i].reserved && d->range[i].address <= address &&
              address + bytes <= d->range[i].address + d->range[i].bytes &&
              (address - d->range[i].address) % granule == 0;
  if (!inside || bytes % granule)
    d->bad++;
  if (device_fails(d) || bytes > d->total - d->used)
    return 0;
  d->used += bytes;
  return 1;
}

static TEST_UNUSED void device_unmap(void *user, uint64_t address, uint64_t bytes,
                                     uint64_t granule) {
  device *d = (device *)user;
  (void)address;
  if (bytes % granule)
    d->bad++;
  d->used -= bytes;
}

static TEST_UNUSED uint64_t device_record(void *user, uint64_t stream) {
  device *d = (device *)user;
  (void)stream;
  return device_fails(d) ? 0 : ++d->events;
}

static TEST_UNUSED int device_done(void *user, uint64_t event, int wait) {
  device *d = (device *)user;
  if (!event || event > d->events)
    d->bad++;
  d->waited += wait != 0;
  return wait || event <= d->done;
}

static TEST_UNUSED vram_backend device_backend(device *d, uint64_t total) {
  vram_backend b;
  memset(d, 0, sizeof *d);
  d->total = total;
  d->next = UINT64_C(0x200000000000); /* where the recorded streams begin */
  b.alloc = device_alloc;
  b.free = device_free;
  b.reserve = device_reserve;
  b.unreserve = device_unreserve;
  b.map = device_map;
  b.unmap = device_unmap;
  b.record = device_record;
  b.done = device_done;
  b.user = d;
  return b;
}

/* ---- what must hold for every pool at any time */

typedef struct walk {
  vram_memory_stats now;
  uint64_t segment, end, left; /* address, where the next piece must begin, bytes to come */
  uint64_t free_pieces, free_bytes, in_use; /* of this segment */
  int free_before;
} walk;

static TEST_UNUSED void walk_end(walk *w, int expandable) {
  if (w->segment && w->left)
    FAIL("pieces do not fill the segment");
  if (w->segment && w->in_use && !expandable) {
    w->now.inactive_split[0].current += w->free_pieces;
    w->now.inactive_split_bytes[0].current += w->free_bytes;
  }
}

static TEST_UNUSED int walk_piece(void *user, const vram_piece *piece) {
  walk *w = (walk *)user;
  int k;
  if (piece->segment != w->segment) {
    walk_end(w, piece->expandable);
    w->segment = w->end = piece->segment;
    w->left = piece->segment_bytes;
    w->free_pieces = w->free_bytes = w->in_use = 0;
    w->free_before = 0;
    for (k = 0; k < 3; k++)
      if (k == VRAM_POOL_ALL || (k == VRAM_POOL_SMALL) == piece->small_pool) {
        w->now.segment[k].current += !piece->expandable;
        w->now.reserved_bytes[k].current += piece->segment_bytes;
      }
  }
  if (piece->address != w->end || piece->bytes > w->left || !piece->bytes || piece->bytes % 512)
    FAIL("a piece that is not where the one before it ends");
  if (!piece->state && w->free_before)
    FAIL("two free pieces side by side");
  w->free_before = !piece->state;
  w->end += piece->bytes;
  w->left -= piece->bytes;
  if (!piece->state) {
    w->free_pieces++;
    w->free_bytes += piece->bytes;
    return 0;
  }
  w->in_use = 1;
  if (piece->requested > piece->bytes)
    FAIL("a piece smaller than what was asked for");
  for (k = 0; k < 3; k++)
    if (k == VRAM_POOL_ALL || (k == VRAM_POOL_SMALL) == piece->small_pool) {
      w->now.allocation[k].current += piece->state == 1;
      w->now.allocated_bytes[k].current += piece->state == 1 ? piece->bytes : 0;
      w->now.active[k].current++;
      w->now.active_bytes[k].current += piece->bytes;
      w->now.requested_bytes[k].current += piece->requested;
    }
  return 0;
}

/* Segments are filled by pieces, counters are the sums of what is there, the device gave as much as
   is reserved. */
static TEST_UNUSED void pool_holds(const vram_pool *p, const device *d) {
  walk w;
  int k;
  memset(&w, 0, sizeof w);
  vram_pool_walk(p, walk_piece, &w);
  walk_end(&w, p->options.expandable_segments);
  for (k = 0; k < 3; k++) {
    const vram_memory_stats *s = &p->stats;
    if (s->segment[k].current != w.now.segment[k].current ||
        s->reserved_bytes[k].current != w.now.reserved_bytes[k].current ||
        s->allocation[k].current != w.now.allocation[k].current ||
        s->allocated_bytes[k].current != w.now.allocated_bytes[k].current ||
        s->active[k].current != w.now.active[k].current ||
        s->active_bytes[k].current != w.now.active_bytes[k].current ||
        s->requested_bytes[k].current != w.now.requested_bytes[k].current)
      FAIL("counters are not the sums of what is there");
  }
  if (p->stats.inactive_split[0].current != w.now.inactive_split[0].current ||
      p->stats.inactive_split_bytes[0].current != w.now.inactive_split_bytes[0].current)
    FAIL("inactive_split is not what is free beside what is in use");
  if (p->stats.reserved_bytes[0].current != d->used || d->bad)
    FAIL("the device gave something else");
  test_passed++;
}

/* What a listener makes of the events: the pool's own counters again. */
typedef struct heard {
  uint64_t reserved, allocated, segments, active, requested, split;
  uint64_t retries, ooms;
  int64_t split_bytes;
} heard;

static TEST_UNUSED void hear(void *user, const vram_event *e) {
  heard *h = (heard *)user;
  switch (e->action) {
  case VRAM_ACTION_ALLOC:
    h->allocated += e->block_bytes, h->active += e->block_bytes, h->requested += e->bytes;
    break;
  case VRAM_ACTION_FREE_REQUESTED:
    h->allocated -= e->block_bytes;
    break;
  case VRAM_ACTION_FREE:
    h->active -= e->block_bytes, h->requested -= e->bytes;
    break;
  case VRAM_ACTION_SEGMENT_ALLOC:
    h->segments++, h->reserved += e->bytes;
    break;
  case VRAM_ACTION_SEGMENT_FREE:
    h->segments--, h->reserved -= e->bytes;
    break;
  case VRAM_ACTION_SEGMENT_MAP:
    h->reserved += e->bytes;
    break;
  case VRAM_ACTION_SEGMENT_UNMAP:
    h->reserved -= e->bytes;
    break;
  case VRAM_ACTION_RETRY:
    h->retries++;
    break;
  case VRAM_ACTION_OOM:
    h->ooms++;
    break;
  case VRAM_ACTION_BECOMES:
  case VRAM_ACTION_MARK:
  case VRAM_ACTION_COUNT:
    FAIL("an event that a pool does not emit");
  }
  h->split = (uint64_t)((int64_t)h->split + e->split);
  h->split_bytes += e->split_bytes;
}

static TEST_UNUSED void heard_all(const heard *h, const vram_memory_stats *s) {
  if (h->reserved != s->reserved_bytes[0].current ||
      h->allocated != s->allocated_bytes[0].current || h->segments != s->segment[0].current ||
      h->active != s->active_bytes[0].current || h->requested != s->requested_bytes[0].current ||
      h->split != s->inactive_split[0].current ||
      (uint64_t)h->split_bytes != s->inactive_split_bytes[0].current ||
      h->retries != s->num_alloc_retries || h->ooms != s->num_ooms)
    FAIL("the events do not sum up to the counters");
}

#endif
