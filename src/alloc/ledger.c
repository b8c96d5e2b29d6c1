/* >>alloc/ledger    counters of events, by category and owner
   Tables are open: the next free place from where the hash points. What is taken out is filled
   from behind, so that a search ends at the first empty place. */
#include "alloc/alloc.h"

#define VRAM__LEDGER_MOST (UINT32_C(1) << 28) /* of anything that options count */

VRAM__FN void vram__ledger_lock(vram_ledger *l) {
  if (l->options.lock)
    l->options.lock(l->options.user);
}

VRAM__FN void vram__ledger_unlock(vram_ledger *l) {
  if (l->options.unlock)
    l->options.unlock(l->options.user);
}

/* Places of a table for n: a power of two, a quarter empty. */
static uint32_t vram__table_size(uint32_t n) {
  uint32_t places = 4;
  while (places - places / 4 < n)
    places *= 2;
  return places;
}

static vram_result vram__ledger_resolve(const vram_ledger_options *o, vram_ledger_options *to) {
  vram__memory_zero(to, sizeof *to);
  if (o)
    *to = *o;
  to->live = to->live ? to->live : 1024;
  to->owners = to->owners ? to->owners : 255;
  to->devices = to->devices ? to->devices : 1;
  if (to->live > VRAM__LEDGER_MOST || to->owners > VRAM__LEDGER_MOST ||
      to->groups > VRAM__LEDGER_MOST || to->trace > VRAM__LEDGER_MOST ||
      to->devices >= VRAM_DEVICE_HOST || !to->lock != !to->unlock)
    return VRAM_ERR_VALUE;
  return VRAM_OK;
}

/* Places the tables from `at` on (0: only counts); returns the bytes. */
static uint64_t vram__ledger_layout(vram_ledger *l, const vram_ledger_options *o, uint8_t *at) {
  const uint64_t devices = (uint64_t)o->devices + 1, live = vram__table_size(o->live),
                 owners = vram__table_size(o->owners),
                 groups = o->groups ? vram__table_size(o->groups) : 0;
  uint64_t n = 0;
#define VRAM__TABLE(field, type, count)                                                            \
  if (at)                                                                                          \
    l->field = (type *)(void *)(at + n);                                                           \
  n += ((uint64_t)(count) * sizeof(type) + 7) / 8 * 8
  VRAM__TABLE(device, vram_memory_stats, devices);
  VRAM__TABLE(lost_of, vram__lost, devices * 4);
  VRAM__TABLE(owner, vram_owner, (uint64_t)o->owners + 1);
  VRAM__TABLE(owner_hash, uint32_t, owners);
  VRAM__TABLE(live, vram_allocation, live);
  VRAM__TABLE(group, vram__group, groups);
  VRAM__TABLE(trace, vram_event, o->trace);
#undef VRAM__TABLE
  if (at) {
    l->live_mask = (uint32_t)live - 1;
    l->owner_mask = (uint32_t)owners - 1;
    l->group_mask = groups ? (uint32_t)groups - 1 : 0;
  }
  return n;
}

VRAM_API uint64_t vram_ledger_bytes(const vram_ledger_options *o) {
  vram_ledger_options r;
  if (vram__ledger_resolve(o, &r))
    return VRAM_OVERFLOW;
  return vram__ledger_layout(NULL, &r, NULL) + 7; /* 7: the memory may begin anywhere */
}

VRAM_API vram_result vram_ledger_init(vram_ledger *l, const vram_ledger_options *o, void *mem,
                                      uint64_t bytes, vram_error *err) {
  vram_result result;
  vram__memory_zero(l, sizeof *l);
  vram__error_clear(err);
  result = vram__ledger_resolve(o, &l->options);
  if (!result && (!mem || bytes < vram_ledger_bytes(o)))
    result = VRAM_ERR_MEMORY;
  if (!result) {
    uint8_t *at = (uint8_t *)mem + (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
    vram__memory_zero(at, vram__ledger_layout(l, &l->options, at));
    l->nowner = 1;
  } else
    vram__error_begin(err, result, 0,
                      result == VRAM_ERR_MEMORY
                          ? "the ledger needs more memory: see vram_ledger_bytes"
                      : !l->options.lock != !l->options.unlock
                          ? "a ledger has both lock and unlock, or none"
                          : "a ledger has up to 268435456 of anything and 254 devices");
  return result;
}

/* ---- sums ---- */

static inline void vram__tally_by(vram_stat *s, int64_t n) {
  if (n > 0)
    vram__tally_up(s, (uint64_t)n);
  else if (n < 0)
    vram__tally_down(s, 0 - (uint64_t)n);
}

/* Of all pools, and of the small or the large one. */
#define VRAM__BOTH(stat, how, n)                                                                   \
  (vram__tally_##how(&m->stat[VRAM_POOL_ALL], n), vram__tally_##how(&m->stat[pool], n))

static uint32_t vram__pool_class(uint32_t small_pool) {
  return small_pool ? VRAM_POOL_SMALL : VRAM_POOL_LARGE;
}

static void vram__count_segment(vram_memory_stats *m, uint32_t pool, uint64_t bytes, int grows,
                                uint64_t oversize) {
  VRAM__BOTH(reserved_bytes, up, bytes);
  m->num_device_alloc++;
  if (grows)
    return;
  VRAM__BOTH(segment, up, 1);
  if (oversize && bytes >= oversize)
    vram__tally_up(&m->oversize_segments, 1);
}

static void vram__uncount_segment(vram_memory_stats *m, uint32_t pool, uint64_t bytes, int grows,
                                  uint64_t oversize) {
  VRAM__BOTH(reserved_bytes, down, bytes);
  m->num_device_free++;
  if (grows)
    return;
  VRAM__BOTH(segment, down, 1);
  if (oversize && bytes >= oversize)
    vram__tally_down(&m->oversize_segments, 1);
}

/* The highest sum yet: whoever changes from now on saves what he has. */
static inline void vram__sum_up(vram_ledger *l, uint64_t bytes) {
  vram_region *r = l->region;
  l->bytes += bytes;
  if (l->bytes > l->peak_bytes) {
    l->peak_bytes = l->bytes;
    l->peak_serial++;
  }
  if (!r)
    return;
  r->bytes = (int64_t)((uint64_t)r->bytes + bytes);
  r->allocated += bytes;
  r->allocations++;
  if (r->bytes > r->peak)
    r->peak = r->bytes;
}

static inline void vram__sum_down(vram_ledger *l, uint64_t bytes) {
  vram_region *r = l->region;
  l->bytes -= bytes;
  if (!r)
    return;
  r->bytes = (int64_t)((uint64_t)r->bytes - bytes);
  r->freed += bytes;
  r->frees++;
}

static inline void vram__save_category(vram_ledger *l, uint32_t c) {
  if (l->category_serial[c] != l->peak_serial) {
    l->category_serial[c] = l->peak_serial;
    l->category_peak[c] = l->category[c].current;
  }
}

static inline void vram__save_owner(const vram_ledger *l, vram_owner *w) {
  if (w->serial != l->peak_serial) {
    w->serial = l->peak_serial;
    w->at_peak = w->bytes.current;
  }
}

/* An allocation goes into the counters of its device. */
static void vram__count(vram_memory_stats *m, uint32_t pool, int whole, uint64_t bytes,
                        uint64_t block, uint64_t oversize) {
  VRAM__BOTH(allocation, up, 1);
  VRAM__BOTH(active, up, 1);
  VRAM__BOTH(allocated_bytes, up, block);
  VRAM__BOTH(active_bytes, up, block);
  VRAM__BOTH(requested_bytes, up, bytes);
  if (oversize && block >= oversize)
    vram__tally_up(&m->oversize_allocations, 1);
  if (whole)
    vram__count_segment(m, pool, block, 0, oversize);
}

static void vram__uncount_requested(vram_memory_stats *m, uint32_t pool, uint64_t block,
                                    uint64_t oversize) {
  VRAM__BOTH(allocation, down, 1);
  VRAM__BOTH(allocated_bytes, down, block);
  if (oversize && block >= oversize)
    vram__tally_down(&m->oversize_allocations, 1);
}

static void vram__uncount(vram_memory_stats *m, uint32_t pool, int whole, uint64_t bytes,
                          uint64_t block, uint64_t oversize) {
  VRAM__BOTH(active, down, 1);
  VRAM__BOTH(active_bytes, down, block);
  VRAM__BOTH(requested_bytes, down, bytes);
  if (whole)
    vram__uncount_segment(m, pool, block, 0, oversize);
}

/* Counters of a device; NULL: it has none. */
VRAM__FN vram_memory_stats *vram__stats_of(const vram_ledger *l, uint32_t device) {
  if (device == VRAM_DEVICE_HOST)
    return l->device + l->options.devices;
  return device < l->options.devices ? l->device + device : NULL;
}

/* ---- tables ---- */

static void vram__live_remove(vram_ledger *l, uint32_t hole) {
  const uint32_t mask = l->live_mask;
  uint32_t i = hole;
  for (;;) {
    i = (i + 1) & mask;
    if (!l->live[i].address)
      break;
    /* it may move when the hole is not before where its search begins */
    if (((i - (uint32_t)vram__mix(l->live[i].address)) & mask) >= ((i - hole) & mask)) {
      l->live[hole] = l->live[i];
      hole = i;
    }
  }
  l->live[hole].address = 0;
  l->nlive--;
}

static uint32_t vram__group_hash(const vram__group *g) {
  return (uint32_t)vram__mix(g->bytes ^ (uint64_t)g->owner << 40 ^ (uint64_t)g->device << 32);
}

static vram__group *vram__group_at(const vram_ledger *l, uint32_t owner, uint32_t device,
                                   uint64_t bytes) {
  vram__group g;
  uint32_t i;
  g.bytes = bytes;
  g.owner = owner;
  g.device = device + 1;
  i = vram__group_hash(&g) & l->group_mask;
  while (l->group[i].device && (l->group[i].bytes != bytes || l->group[i].owner != owner ||
                                l->group[i].device != g.device))
    i = (i + 1) & l->group_mask;
  return l->group + i;
}

VRAM__FN void vram__group_remove(vram_ledger *l, uint32_t hole) {
  const uint32_t mask = l->group_mask;
  uint32_t i = hole;
  for (;;) {
    i = (i + 1) & mask;
    if (!l->group[i].device)
      break;
    if (((i - vram__group_hash(l->group + i)) & mask) >= ((i - hole) & mask)) {
      l->group[hole] = l->group[i];
      hole = i;
    }
  }
  l->group[hole].device = 0;
  l->ngroup--;
}

static void vram__group_count(vram_ledger *l, vram_allocation *a, int way) {
  vram__group *g;
  if (!l->options.groups)
    return;
  if (!(a->flags & VRAM__LIVE_VARIOUS)) {
    g = vram__group_at(l, a->owner, a->device, a->bytes);
    if (g->device || l->ngroup < l->options.groups) {
      if (!g->device) {
        l->ngroup++;
        g->device = a->device + 1u;
        g->owner = a->owner;
        g->bytes = a->bytes;
        g->now = g->then = 0;
      }
      g->now += way;
      if (!g->now && !g->then) /* came and went between two marks */
        vram__group_remove(l, (uint32_t)(g - l->group));
      return;
    }
    a->flags |= VRAM__LIVE_VARIOUS;
  }
  l->various[0] += way;
  l->various[1] = (int64_t)((uint64_t)l->various[1] + (way > 0 ? a->bytes : 0 - a->bytes));
}

/* What is kept of an event: its id is the allocation's serial; -1: memory from before the step, or
   no allocation. */
static vram_event *vram__trace(vram_ledger *l, const vram_event *e, uint64_t time) {
  vram_event *to = l->trace + l->trace_count++ % l->options.trace;
  *to = *e;
  to->time = time;
  to->category = (vram_category)vram__category_of(e->category);
  to->owner = e->owner < l->nowner ? e->owner : 0;
  to->id = -1;
  return to;
}

static void vram__trace_as(vram_event *e, const vram_allocation *a) {
  e->address = a->flags & VRAM__LIVE_BY_ID ? 0 : a->address;
  e->id = (int64_t)a->serial;
  e->bytes = a->bytes;
  e->block_bytes = a->block_bytes;
  e->stream = a->stream;
  e->owner = a->owner;
  e->device = a->device;
  e->kind = a->kind;
  e->small_pool = (a->flags & VRAM_LIVE_SMALL) != 0;
  e->whole = (a->flags & VRAM_LIVE_WHOLE) != 0;
}

/* ---- events ---- */

/* A free in the trace; the event, if there is one, knows less than the table. */
static void vram__trace_free(vram_ledger *l, const vram_allocation *a, const vram_event *of,
                             uint64_t time, vram_action action) {
  vram_event e, *to;
  vram__memory_zero(&e, sizeof e);
  if (of)
    e = *of;
  e.action = action;
  e.node = a->node;
  to = vram__trace(l, &e, time);
  vram__trace_as(to, a);
  to->category = to->was = (vram_category)a->category;
  to->waited = action == VRAM_ACTION_FREE && (a->flags & VRAM_LIVE_WAITS);
}

static void vram__ledger_remove(vram_ledger *l, uint32_t i, const vram_event *e, uint64_t time) {
  vram_allocation *a = l->live + i;
  vram_owner *w = l->owner + a->owner;
  vram_memory_stats *m = vram__stats_of(l, a->device);
  const uint32_t pool = vram__pool_class(a->flags & VRAM_LIVE_SMALL);
  if (l->options.trace)
    vram__trace_free(l, a, e, time, VRAM_ACTION_FREE);
  if (!(a->flags & VRAM_LIVE_WAITS))
    vram__uncount_requested(m, pool, a->block_bytes, l->options.oversize_bytes);
  vram__uncount(m, pool, (a->flags & VRAM_LIVE_WHOLE) != 0, a->bytes, a->block_bytes,
                l->options.oversize_bytes);
  vram__tally_down(&l->kind[a->kind], a->bytes);
  if (a->device == VRAM_DEVICE_HOST)
    w->host_bytes -= a->bytes;
  else {
    vram__save_category(l, a->category);
    vram__tally_down(&l->category[a->category], a->bytes);
    vram__save_owner(l, w);
    vram__tally_down(&w->bytes, a->bytes);
    vram__tally_down(&w->count, 1);
    vram__sum_down(l, a->bytes);
  }
  vram__group_count(l, a, -1);
  vram__live_remove(l, i);
}

/* A free of what is in no table: 1 if something lost may be it. */
static int vram__ledger_free_lost(vram_ledger *l, const vram_event *e) {
  uint32_t d, k;
  uint64_t bytes, block;
  vram__lost *of;
  vram_memory_stats *m;
  if (!l->lost)
    return 0;
  d = !e ? 0 : e->device == VRAM_DEVICE_HOST ? l->options.devices : e->device;
  k = !e ? 2 : (e->small_pool ? 1u : 0u) + (e->whole ? 2u : 0u);
  if (d > l->options.devices)
    d = 0;
  /* as it says; else any of the device; else any */
  of = l->lost_of + (uint64_t)d * 4 + k;
  for (k = 0; k < 4 && !of->count; k++)
    of = l->lost_of + (uint64_t)d * 4 + k;
  for (k = 0; !of->count; k++)
    of = l->lost_of + k;
  k = (uint32_t)(of - l->lost_of) % 4;
  d = (uint32_t)(of - l->lost_of) / 4;
  bytes = of->bytes / of->count;
  block = of->block_bytes / of->count;
  if (e && e->bytes) {
    bytes = e->bytes;
    block = e->block_bytes ? e->block_bytes : e->bytes;
  }
  if (of->count == 1 || bytes > of->bytes)
    bytes = of->bytes;
  if (of->count == 1 || block > of->block_bytes)
    block = of->block_bytes;
  m = l->device + d;
  vram__uncount_requested(m, vram__pool_class(k & 1), block, l->options.oversize_bytes);
  vram__uncount(m, vram__pool_class(k & 1), k > 1, bytes, block, l->options.oversize_bytes);
  of->count--;
  of->bytes -= bytes;
  of->block_bytes -= block;
  l->lost--;
  l->lost_bytes -= bytes;
  if (d < l->options.devices)
    vram__sum_down(l, bytes);
  return 1;
}

static void vram__ledger_alloc(vram_ledger *l, const vram_event *e, uint64_t key, uint64_t time) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint64_t bytes = e->bytes, block = e->block_bytes ? e->block_bytes : e->bytes;
  vram_allocation *a;
  vram_owner *w;
  uint32_t i;
  if (!m) {
    l->unknown_devices++;
    return;
  }
  i = vram__live_at(l, key);
  if (l->live[i].address) {
    l->missed_frees++;
    vram__ledger_remove(l, i, NULL, time);
    i = vram__live_at(l, key);
  }
  vram__count(m, vram__pool_class(e->small_pool), e->whole, bytes, block,
              l->options.oversize_bytes);
  if (l->nlive == l->options.live) {
    vram__lost *of =
        l->lost_of + (uint64_t)(m - l->device) * 4 + (e->small_pool ? 1 : 0) + (e->whole ? 2 : 0);
    of->count++;
    of->bytes += bytes;
    of->block_bytes += block;
    l->lost++;
    l->lost_bytes += bytes;
    if (e->device != VRAM_DEVICE_HOST)
      vram__sum_up(l, bytes);
    return;
  }
  a = l->live + i;
  l->nlive++;
  a->address = key;
  a->bytes = bytes;
  a->block_bytes = block;
  a->stream = e->stream;
  a->time = time;
  a->serial = l->serial;
  a->node = e->node;
  a->owner = e->owner < l->nowner ? e->owner : 0;
  a->category = (uint8_t)vram__category_of(e->category);
  a->device = e->device;
  a->kind = e->kind < VRAM_KINDS_MAX ? e->kind : VRAM_KINDS_MAX - 1;
  a->flags = (uint8_t)((e->small_pool ? VRAM_LIVE_SMALL : 0) | (e->whole ? VRAM_LIVE_WHOLE : 0) |
                       (e->address ? 0 : VRAM__LIVE_BY_ID));
  w = l->owner + a->owner;
  vram__tally_up(&l->kind[a->kind], bytes);
  if (e->device == VRAM_DEVICE_HOST)
    w->host_bytes += bytes;
  else {
    vram__save_category(l, a->category);
    vram__tally_up(&l->category[a->category], bytes);
    vram__save_owner(l, w);
    vram__tally_up(&w->bytes, bytes);
    vram__tally_up(&w->count, 1);
    vram__sum_up(l, bytes);
  }
  vram__group_count(l, a, 1);
  if (l->options.trace)
    vram__trace_as(vram__trace(l, e, time), a);
}

static void vram__ledger_becomes(vram_ledger *l, const vram_event *e, uint32_t i, uint64_t time) {
  const uint32_t to = vram__category_of(e->category);
  uint32_t from = vram__category_of(e->was);
  uint64_t bytes = e->bytes;
  if (l->live[i].address) {
    from = l->live[i].category;
    bytes = l->live[i].bytes;
    l->live[i].category = (uint8_t)to;
    if (l->live[i].device == VRAM_DEVICE_HOST)
      return;
  }
  if (from == to)
    return;
  if (bytes > l->category[from].current)
    bytes = l->category[from].current;
  if (l->options.trace) {
    vram_event *kept = vram__trace(l, e, time);
    kept->was = (vram_category)from;
    kept->bytes = bytes;
    if (l->live[i].address)
      vram__trace_as(kept, l->live + i);
  }
  vram__save_category(l, from);
  vram__tally_down(&l->category[from], bytes);
  vram__save_category(l, to);
  vram__tally_up(&l->category[to], bytes);
}

/* What was there before the step: its bytes, no counts, no owner. */
static void vram__ledger_before(vram_ledger *l, const vram_event *e, uint64_t time) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint32_t c = vram__category_of(e->category), pool = vram__pool_class(e->small_pool);
  const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
  if (!m) {
    l->unknown_devices++;
  } else if (e->action == VRAM_ACTION_ALLOC) {
    VRAM__BOTH(allocated_bytes, up, block);
    VRAM__BOTH(active_bytes, up, block);
    VRAM__BOTH(requested_bytes, up, e->bytes);
    if (e->device == VRAM_DEVICE_HOST)
      return;
    vram__save_category(l, c);
    vram__tally_up(&l->category[c], e->bytes);
    vram__sum_up(l, e->bytes);
    if (l->options.trace)
      vram__trace(l, e, time);
  } else if (e->action == VRAM_ACTION_FREE) {
    if (m->requested_bytes[0].current < e->bytes ||
        (e->device != VRAM_DEVICE_HOST && l->category[c].current < e->bytes)) {
      l->unknown_frees++;
      return;
    }
    VRAM__BOTH(allocated_bytes, down, block);
    VRAM__BOTH(active_bytes, down, block);
    VRAM__BOTH(requested_bytes, down, e->bytes);
    if (e->device == VRAM_DEVICE_HOST)
      return;
    vram__save_category(l, c);
    vram__tally_down(&l->category[c], e->bytes);
    vram__sum_down(l, e->bytes);
    if (l->options.trace)
      vram__trace(l, e, time);
  }
}

static void vram__ledger_other(vram_ledger *l, const vram_event *e) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint32_t pool = vram__pool_class(e->small_pool);
  const uint64_t oversize = l->options.oversize_bytes;
  if (!m) {
    l->unknown_devices++;
    return;
  }
  switch (e->action) {
  case VRAM_ACTION_SEGMENT_ALLOC:
  case VRAM_ACTION_SEGMENT_MAP:
    vram__count_segment(m, pool, e->bytes, e->action == VRAM_ACTION_SEGMENT_MAP, oversize);
    break;
  case VRAM_ACTION_SEGMENT_FREE:
  case VRAM_ACTION_SEGMENT_UNMAP:
    vram__uncount_segment(m, pool, e->bytes, e->action == VRAM_ACTION_SEGMENT_UNMAP, oversize);
    break;
  case VRAM_ACTION_RETRY:
    m->num_alloc_retries++;
    break;
  case VRAM_ACTION_OOM:
    m->num_ooms++;
    break;
  default:
    break;
  }
}

static void vram__ledger_add(vram_ledger *l, const vram_event *e) {
  const uint64_t key = e->address ? e->address : (uint64_t)e->id + 1;
  const uint64_t time = e->time || !l->options.clock ? e->time : l->options.clock(l->options.user);
  vram_memory_stats *m;
  uint32_t i;
  l->serial++;
  switch (e->action) {
  case VRAM_ACTION_ALLOC:
    if (key)
      vram__ledger_alloc(l, e, key, time);
    else
      vram__ledger_before(l, e, time);
    break;
  case VRAM_ACTION_FREE:
    i = vram__live_at(l, key);
    if (!key)
      vram__ledger_before(l, e, time);
    else if (l->live[i].address)
      vram__ledger_remove(l, i, e, time);
    else if (!vram__ledger_free_lost(l, e))
      l->unknown_frees++;
    break;
  case VRAM_ACTION_FREE_REQUESTED:
    i = vram__live_at(l, key);
    if (key && l->live[i].address && !(l->live[i].flags & VRAM_LIVE_WAITS)) {
      vram__uncount_requested(vram__stats_of(l, l->live[i].device),
                              vram__pool_class(l->live[i].flags & VRAM_LIVE_SMALL),
                              l->live[i].block_bytes, l->options.oversize_bytes);
      l->live[i].flags |= VRAM_LIVE_WAITS;
      if (l->options.trace)
        vram__trace_free(l, l->live + i, e, time, VRAM_ACTION_FREE_REQUESTED);
    } else if (!key || l->live[i].address || !l->lost) /* what is lost goes with its FREE */
      l->unknown_frees++;
    break;
  case VRAM_ACTION_BECOMES:
    i = vram__live_at(l, key);
    if (key && !l->live[i].address)
      break; /* lost: in no category */
    if (key || e->device != VRAM_DEVICE_HOST)
      vram__ledger_becomes(l, e, key ? i : vram__live_at(l, 0), time);
    break;
  default:
    vram__ledger_other(l, e);
    if (l->options.trace && vram__stats_of(l, e->device))
      vram__trace(l, e, time);
    break;
  }
  m = vram__stats_of(l, e->device);
  if (m && (e->split || e->split_bytes)) {
    const uint32_t pool = vram__pool_class(e->small_pool);
    VRAM__BOTH(inactive_split, by, e->split);
    VRAM__BOTH(inactive_split_bytes, by, e->split_bytes);
  }
}
#undef VRAM__BOTH

VRAM_API void vram_ledger_event(void *ledger, const vram_event *e) {
  vram_ledger *l = (vram_ledger *)ledger;
  vram__ledger_lock(l);
  vram__ledger_add(l, e);
  vram__ledger_unlock(l);
}

VRAM_API uint32_t vram_ledger_owner(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, const char *tag) {
  uint64_t h = vram__mix((uint64_t)(uintptr_t)file + line);
  uint32_t i, n;
  h = vram__mix(h ^ (uint64_t)(uintptr_t)function);
  h = vram__mix(h ^ (uint64_t)(uintptr_t)tag);
  vram__ledger_lock(l);
  for (i = (uint32_t)h & l->owner_mask; (n = l->owner_hash[i]) != 0; i = (i + 1) & l->owner_mask) {
    const vram_owner *w = l->owner + n;
    if (w->file == file && w->line == line && w->function == function && w->tag == tag)
      break;
  }
  if (!n && l->nowner <= l->options.owners) {
    vram_owner *w = l->owner + l->nowner;
    w->file = file;
    w->line = line;
    w->function = function;
    w->tag = tag;
    w->serial = l->peak_serial; /* at the peak it had nothing */
    n = w->number = l->owner_hash[i] = l->nowner++;
  } else if (!n)
    l->lost_owners++;
  vram__ledger_unlock(l);
  return n;
}

VRAM_API int vram_ledger_take(vram_ledger *l, uint64_t address, vram_allocation *was) {
  uint32_t i;
  int found;
  vram__ledger_lock(l);
  l->serial++;
  i = vram__live_at(l, address);
  found = address && l->live[i].address;
  if (found) {
    if (was)
      *was = l->live[i];
    vram__ledger_remove(l, i, NULL, l->options.clock ? l->options.clock(l->options.user) : 0);
  } else if (!vram__ledger_free_lost(l, NULL))
    l->unknown_frees++;
  vram__ledger_unlock(l);
  return found;
}

VRAM_API int vram_ledger_find(vram_ledger *l, uint64_t address, vram_allocation *a) {
  uint32_t i;
  int found;
  vram__ledger_lock(l);
  i = vram__live_at(l, address);
  found = address && l->live[i].address;
  if (found && a)
    *a = l->live[i];
  vram__ledger_unlock(l);
  return found;
}

VRAM_API void vram_ledger_reset_peak(vram_ledger *l) {
  vram__ledger_lock(l);
  vram__ledger_reset(l, 1);
  vram__ledger_unlock(l);
}

VRAM_API void vram_ledger_reset_accumulated(vram_ledger *l) {
  vram__ledger_lock(l);
  vram__ledger_reset(l, 0);
  vram__ledger_unlock(l);
}
