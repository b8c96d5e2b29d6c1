/* The ledger against a slow model that keeps a list and counts it anew after every event; bad use;
   tables that are full; the events of steps against their reports.
   usage: test_ledger TEXT... */
#include "play.h"

/* ---- the model ---- */

#define MOST 96    /* alive */
#define DEVICES 2  /* and the host */
#define OWNERS 6   /* and "not known" */
#define OPEN 8     /* regions */
#define HISTORY 64 /* of the trace that is compared */

typedef struct model_live {
  uint64_t key, bytes, block, stream, time, serial;
  uint32_t owner;
  int category, device, kind, small_pool, whole, waits, lost;
} model_live;

typedef struct model_region {
  vram_region region;
  int64_t start, peak;
  uint64_t allocated, freed, allocations, frees;
  int open;
} model_region;

typedef struct model_group {
  uint64_t bytes;
  uint32_t owner;
  int device;
  int64_t count;
} model_group;

typedef struct model {
  model_live live[MOST];
  int n;
  uint64_t before[VRAM_CATEGORY_COUNT]; /* without an id */
  uint64_t segments[DEVICES + 1][2], reserved[DEVICES + 1][2], grown[DEVICES + 1][2];
  uint64_t oversize_segments[DEVICES + 1];
  int64_t split[DEVICES + 1][2], split_bytes[DEVICES + 1][2];
  vram_memory_stats stats[DEVICES + 1];
  vram_stat category[VRAM_CATEGORY_COUNT], kind[VRAM_KINDS_MAX], owner[OWNERS + 1],
      count[OWNERS + 1];
  uint64_t owner_at_peak[OWNERS + 1], category_at_peak[VRAM_CATEGORY_COUNT];
  uint64_t serial, unknown_frees, missed_frees, unknown_devices, sum, peak;
  model_region region[OPEN];
  model_group group[MOST]; /* at the mark */
  int groups;
  vram_event *trace;
  size_t traced, cap;
  uint64_t oversize;
  uint32_t room;
} model;

static uint64_t seed = 1;
static uint32_t random_below(uint32_t n) {
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(seed >> 33) % n;
}

static void stat_is(vram_stat *s, uint64_t now) {
  if (now > s->current)
    s->allocated += now - s->current;
  else
    s->freed += s->current - now;
  s->current = now;
  if (now > s->peak)
    s->peak = now;
}

/* Counts everything that is alive. */
static void recount(model *m) {
  uint64_t now[9], category[VRAM_CATEGORY_COUNT], kind[VRAM_KINDS_MAX] = {0};
  uint64_t owner[OWNERS + 1] = {0}, count[OWNERS + 1] = {0}, sum = 0, oversize;
  int d, p, i, c;
  memcpy(category, m->before, sizeof category);
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
    sum += m->before[c];
  for (d = 0; d <= DEVICES; d++) {
    vram_memory_stats *s = &m->stats[d];
    for (p = 0; p < 3; p++) { /* all, small, large */
      memset(now, 0, sizeof now);
      if (d == 0 && p != 1)
        now[4] = now[6] = now[8] = sum;
      for (i = 0; i < 2; i++)
        if (p == 0 || (p == 1) == i) {
          now[1] += m->segments[d][i];
          now[5] += m->reserved[d][i] + m->grown[d][i];
          now[3] += (uint64_t)m->split[d][i];
          now[7] += (uint64_t)m->split_bytes[d][i];
        }
      oversize = 0;
      for (i = 0; i < m->n; i++) {
        const model_live *a = &m->live[i];
        if (a->device != d || (p && (p == 1) != a->small_pool))
          continue;
        now[0] += !a->waits;
        now[4] += a->waits ? 0 : a->block;
        now[2]++;
        now[6] += a->block;
        now[8] += a->bytes;
        if (a->whole)
          now[1]++, now[5] += a->block;
        oversize += !a->waits && a->block >= m->oversize;
      }
      stat_is(&s->allocation[p], now[0]);
      stat_is(&s->segment[p], now[1]);
      stat_is(&s->active[p], now[2]);
      stat_is(&s->inactive_split[p], now[3]);
      stat_is(&s->allocated_bytes[p], now[4]);
      stat_is(&s->reserved_bytes[p], now[5]);
      stat_is(&s->active_bytes[p], now[6]);
      stat_is(&s->inactive_split_bytes[p], now[7]);
      stat_is(&s->requested_bytes[p], now[8]);
      if (!p) {
        stat_is(&s->oversize_allocations, oversize);
        oversize = m->oversize_segments[d];
        for (i = 0; i < m->n; i++)
          oversize += m->live[i].device == d && m->live[i].whole && m->live[i].block >= m->oversize;
        stat_is(&s->oversize_segments, oversize);
      }
    }
  }
  for (i = 0; i < m->n; i++) {
    const model_live *a = &m->live[i];
    if (a->device < DEVICES)
      sum += a->bytes;
    if (a->lost)
      continue;
    kind[a->kind] += a->bytes;
    if (a->device < DEVICES) {
      category[a->category] += a->bytes;
      owner[a->owner] += a->bytes;
      count[a->owner]++;
    }
  }
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
    stat_is(&m->category[c], category[c]);
  for (c = 0; c < VRAM_KINDS_MAX; c++)
    stat_is(&m->kind[c], kind[c]);
  for (c = 0; c <= OWNERS; c++) {
    stat_is(&m->owner[c], owner[c]);
    stat_is(&m->count[c], count[c]);
  }
  for (i = 0; i < OPEN; i++) {
    model_region *r = &m->region[i];
    if (!r->open)
      continue;
    if (sum > m->sum)
      r->allocated += sum - m->sum;
    else
      r->freed += m->sum - sum;
    if ((int64_t)sum - r->start > r->peak)
      r->peak = (int64_t)sum - r->start;
  }
  m->sum = sum;
  if (sum > m->peak) {
    m->peak = sum;
    memcpy(m->owner_at_peak, owner, sizeof owner);
    memcpy(m->category_at_peak, category, sizeof category);
  }
}

static void regions_count(model *m, int device, int alloc) {
  int i;
  for (i = 0; i < OPEN && device < DEVICES; i++)
    if (m->region[i].open) {
      m->region[i].allocations += alloc != 0;
      m->region[i].frees += alloc == 0;
    }
}

static int model_find(const model *m, uint64_t key) {
  int i;
  for (i = 0; i < m->n; i++)
    if (m->live[i].key == key && !m->live[i].lost)
      return i;
  return -1;
}

static void model_trace(model *m, const vram_event *e, const model_live *a, int action) {
  vram_event *t;
  if (m->traced == m->cap) {
    m->cap = m->cap ? 2 * m->cap : 256;
    m->trace = (vram_event *)realloc(m->trace, m->cap * sizeof *m->trace);
    if (!m->trace)
      abort();
  }
  t = &m->trace[m->traced++];
  *t = *e;
  t->id = a ? (int64_t)a->serial : -1;
  t->owner = e->owner <= OWNERS ? e->owner : 0;
  if (!a)
    return;
  t->address = a->key < 1000 ? 0 : a->key;
  t->action = (vram_action)action;
  t->bytes = a->bytes;
  t->block_bytes = a->block;
  t->category = (vram_category)a->category;
  t->owner = a->owner;
  t->device = (uint8_t)(a->device == DEVICES ? VRAM_DEVICE_HOST : (uint32_t)a->device);
  t->waited = action == VRAM_ACTION_FREE && a->waits;
}

static void model_remove(model *m, int i, const vram_event *e) {
  const model_live a = m->live[i];
  model_trace(m, e, &a, VRAM_ACTION_FREE);
  if (a.whole)
    m->stats[a.device].num_device_free++;
  m->live[i] = m->live[--m->n];
  regions_count(m, a.device, 0);
  recount(m);
}

/* As lost as the event: device, pool, bytes. */
static int model_remove_lost(model *m, const vram_event *e, int device) {
  int i;
  for (i = 0; i < m->n; i++) {
    const model_live a = m->live[i];
    if (a.lost && a.key == (e->address ? e->address : (uint64_t)e->id + 1)) {
      if (a.device != device || a.bytes != e->bytes)
        abort();
      if (a.whole)
        m->stats[a.device].num_device_free++;
      m->live[i] = m->live[--m->n];
      regions_count(m, a.device, 0);
      recount(m);
      return 1;
    }
  }
  return 0;
}

static uint32_t alive(const model *m) {
  uint32_t n = 0;
  int i;
  for (i = 0; i < m->n; i++)
    n += !m->live[i].lost;
  return n;
}

static void model_event(model *m, const vram_event *e) {
  const uint64_t key = e->address ? e->address : (uint64_t)e->id + 1;
  const int d = e->device == VRAM_DEVICE_HOST ? DEVICES : e->device,
            small_pool = e->small_pool != 0;
  int i = key ? model_find(m, key) : -1;
  m->serial++;
  if (d > DEVICES &&
      (i < 0 || e->action == VRAM_ACTION_ALLOC || e->action > VRAM_ACTION_FREE_REQUESTED)) {
    if (e->action == VRAM_ACTION_FREE || e->action == VRAM_ACTION_FREE_REQUESTED)
      m->unknown_frees++;
    else if (e->action != VRAM_ACTION_BECOMES)
      m->unknown_devices++;
    return;
  }
  switch (e->action) {
  case VRAM_ACTION_ALLOC:
    if (!key) {
      m->before[e->category] += e->bytes;
      regions_count(m, d, 1);
      recount(m);
      return;
    }
    if (i >= 0) {
      m->missed_frees++;
      model_remove(m, i, e);
    }
    {
      model_live *a = &m->live[m->n];
      a->lost = alive(m) == m->room;
      if (++m->n == MOST)
        abort();
      a->key = key;
      a->bytes = e->bytes;
      a->block = e->block_bytes ? e->block_bytes : e->bytes;
      a->stream = e->stream;
      a->time = e->time;
      a->serial = m->serial;
      a->owner = e->owner <= OWNERS ? e->owner : 0;
      a->category = (int)e->category < VRAM_CATEGORY_COUNT ? (int)e->category : VRAM_CATEGORY_OTHER;
      a->kind = e->kind < VRAM_KINDS_MAX ? e->kind : VRAM_KINDS_MAX - 1;
      a->device = d;
      a->small_pool = small_pool;
      a->whole = e->whole;
      a->waits = 0;
      if (a->whole)
        m->stats[d].num_device_alloc++;
      if (!a->lost)
        model_trace(m, e, a, VRAM_ACTION_ALLOC);
    }
    regions_count(m, d, 1);
    recount(m);
    return;
  case VRAM_ACTION_FREE:
    if (!key) {
      if (m->before[e->category] < e->bytes)
        m->unknown_frees++;
      else {
        m->before[e->category] -= e->bytes;
        regions_count(m, d, 0);
        recount(m);
      }
    } else if (i >= 0)
      model_remove(m, i, e);
    else if (!model_remove_lost(m, e, d))
      m->unknown_frees++;
    break;
  case VRAM_ACTION_FREE_REQUESTED:
    if (i >= 0 && !m->live[i].waits) {
      m->live[i].waits = 1;
      model_trace(m, e, &m->live[i], VRAM_ACTION_FREE_REQUESTED);
      recount(m);
    } else
      m->unknown_frees++;
    break;
  case VRAM_ACTION_BECOMES:
    if (i >= 0) {
      const int same = m->live[i].category == (int)e->category;
      m->live[i].category = (int)e->category;
      if (!same && m->live[i].device < DEVICES)
        model_trace(m, e, &m->live[i], VRAM_ACTION_BECOMES);
      recount(m);
    }
    break;
  case VRAM_ACTION_SEGMENT_ALLOC:
  case VRAM_ACTION_SEGMENT_MAP:
    if (e->action == VRAM_ACTION_SEGMENT_MAP)
      m->grown[d][small_pool] += e->bytes;
    else {
      m->segments[d][small_pool]++;
      m->reserved[d][small_pool] += e->bytes;
      m->oversize_segments[d] += e->bytes >= m->oversize;
    }
    m->stats[d].num_device_alloc++;
    recount(m);
    model_trace(m, e, NULL, 0);
    break;
  case VRAM_ACTION_SEGMENT_FREE:
  case VRAM_ACTION_SEGMENT_UNMAP:
    if (e->action == VRAM_ACTION_SEGMENT_UNMAP)
      m->grown[d][small_pool] -= e->bytes;
    else {
      m->segments[d][small_pool]--;
      m->reserved[d][small_pool] -= e->bytes;
      m->oversize_segments[d] -= e->bytes >= m->oversize;
    }
    m->stats[d].num_device_free++;
    recount(m);
    model_trace(m, e, NULL, 0);
    break;
  case VRAM_ACTION_RETRY:
    m->stats[d].num_alloc_retries++;
    model_trace(m, e, NULL, 0);
    break;
  case VRAM_ACTION_OOM:
    m->stats[d].num_ooms++;
    model_trace(m, e, NULL, 0);
    break;
  default:
    model_trace(m, e, NULL, 0);
  }
  if (e->split || e->split_bytes) {
    m->split[d][small_pool] += e->split;
    m->split_bytes[d][small_pool] += e->split_bytes;
    recount(m);
  }
}

/* ---- ledger and model side by side ---- */

static vram_ledger ledger_new(const vram_ledger_options *o) {
  vram_ledger l;
  vram_error e;
  const uint64_t n = vram_ledger_bytes(o);
  void *mem = test_scratch(n);
  if (!mem)
    abort();
  if (vram_ledger_init(&l, o, mem, n, &e) != VRAM_OK || (void *)l.device != mem)
    abort(); /* it is free()d by that */
  return l;
}

static int same_stat(const vram_stat *a, const vram_stat *b) {
  return a->current == b->current && a->peak == b->peak && a->allocated == b->allocated &&
         a->freed == b->freed;
}

static int same_stats(const vram_memory_stats *a, const vram_memory_stats *b) {
  int ok = same_stat(&a->oversize_allocations, &b->oversize_allocations) &&
           same_stat(&a->oversize_segments, &b->oversize_segments) &&
           a->num_alloc_retries == b->num_alloc_retries && a->num_ooms == b->num_ooms &&
           a->num_device_alloc == b->num_device_alloc && a->num_device_free == b->num_device_free;
  int p;
  for (p = 0; p < 3; p++) {
#define VRAM__X(name) ok = ok && same_stat(&a->name[p], &b->name[p]);
    VRAM_STATS(VRAM__X)
#undef VRAM__X
  }
  return ok;
}

static void same_sums(vram_ledger *l, const model *m) {
  int i, ok = 1;
  for (i = 0; i <= DEVICES; i++) {
    vram_memory_stats s;
    vram_ledger_stats(l, i == DEVICES ? VRAM_DEVICE_HOST : (uint32_t)i, &s);
    ok = ok && same_stats(&s, &m->stats[i]);
  }
  if (!ok)
    FAIL("the counters of the devices");
  for (i = 0, ok = 1; i < VRAM_CATEGORY_COUNT; i++)
    ok = ok && same_stat(&l->category[i], &m->category[i]);
  for (i = 0; i < VRAM_KINDS_MAX; i++)
    ok = ok && same_stat(&l->kind[i], &m->kind[i]);
  if (!ok)
    FAIL("the counters of categories and kinds");
  for (i = 0, ok = 1; i <= OWNERS; i++)
    ok = ok && same_stat(&l->owner[i].bytes, &m->owner[i]) &&
         same_stat(&l->owner[i].count, &m->count[i]);
  if (!ok)
    FAIL("the counters of owners");
  if (l->bytes != m->sum || l->peak_bytes != m->peak || l->serial != m->serial ||
      l->unknown_frees != m->unknown_frees || l->missed_frees != m->missed_frees ||
      l->unknown_devices != m->unknown_devices || l->nlive != alive(m) ||
      l->lost != (uint64_t)m->n - alive(m))
    FAIL("the sums");
}

static int by_bytes(const void *a, const void *b) {
  const model_live *x = (const model_live *)a, *y = (const model_live *)b;
  return x->lost != y->lost     ? x->lost - y->lost
         : x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : (x->serial > y->serial) - (x->serial < y->serial);
}

/* The list of what is alive, whole and in part, and each by its address. */
static void same_live(vram_ledger *l, const model *m) {
  model_live sorted[MOST];
  vram_allocation list[MOST], one;
  uint32_t n = alive(m), cap, i;
  memcpy(sorted, m->live, sizeof sorted);
  qsort(sorted, (size_t)m->n, sizeof *sorted, by_bytes);
  for (cap = n; cap <= n; cap = cap > 7 ? cap / 2 : cap - 1) {
    int ok = vram_ledger_live(l, list, cap) == n;
    for (i = 0; i < cap; i++) {
      const model_live *a = &sorted[i];
      const vram_allocation *b = &list[i];
      ok = ok && a->key == b->address && a->bytes == b->bytes && a->block == b->block_bytes &&
           a->serial == b->serial && a->owner == b->owner && a->category == b->category &&
           a->stream == b->stream && a->time == b->time && a->kind == b->kind &&
           (a->device == DEVICES ? VRAM_DEVICE_HOST : (uint32_t)a->device) == b->device &&
           (uint32_t)(a->small_pool + 2 * a->whole + 4 * a->waits) == (b->flags & 7u) &&
           vram_ledger_find(l, a->key, &one) && !memcmp(&one, b, sizeof one);
    }
    if (!ok)
      FAIL("what is alive, largest first");
  }
}

static void same_peaks(vram_ledger *l, const model *m) {
  vram_owner list[OWNERS + 1];
  uint32_t i, k, n = 0;
  int ok = 1;
  for (i = 0; i <= OWNERS; i++)
    ok = ok && vram_ledger_owner_at_peak(l, i) == m->owner_at_peak[i];
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    ok = ok && vram_ledger_category_at_peak(l, (vram_category)i) == m->category_at_peak[i];
  for (k = 0; k < 2; k++) {
    n = vram_ledger_owners(l, (int)k, list, OWNERS + 1);
    for (i = 0; i <= OWNERS; i++)
      n -= (k ? m->owner_at_peak[i] : m->owner[i].current) != 0;
    ok = ok && n == 0;
    n = vram_ledger_owners(l, (int)k, list, OWNERS + 1);
    for (i = 0; i < n; i++) {
      ok = ok && list[i].at_peak == m->owner_at_peak[list[i].number] &&
           list[i].bytes.current == m->owner[list[i].number].current;
      if (i && k)
        ok = ok && list[i].at_peak <= list[i - 1].at_peak;
      if (i && !k)
        ok = ok && list[i].bytes.current <= list[i - 1].bytes.current;
    }
  }
  if (!ok)
    FAIL("who had what at the peak");
}

static void same_trace(const vram_ledger *l, const model *m) {
  const size_t most = l->options.trace;
  size_t n = m->traced < most ? m->traced : most, i;
  int ok = l->trace_count == m->traced;
  for (i = 0; ok && i < n; i++) {
    const vram_event *a = &m->trace[m->traced - 1 - i],
                     *b = &l->trace[(l->trace_count - 1 - i) % most];
    ok = a->action == b->action && a->bytes == b->bytes && a->address == b->address &&
         a->id == b->id && a->device == b->device && a->owner == b->owner && a->waited == b->waited;
  }
  if (!ok)
    FAIL("the trace");
}

static int model_groups(const model *m, model_group *g) {
  int n = 0, i, k;
  for (i = 0; i < m->n; i++) {
    const model_live *a = &m->live[i];
    if (a->lost)
      continue;
    for (k = 0; k < n; k++)
      if (g[k].owner == a->owner && g[k].bytes == a->bytes && g[k].device == a->device)
        break;
    if (k == n) {
      g[n].owner = a->owner;
      g[n].bytes = a->bytes;
      g[n].device = a->device;
      g[n++].count = 0;
    }
    g[k].count++;
  }
  return n;
}

/* What the log says, against lists of then and now. With a small table only sums are compared. */
static void same_mark(vram_ledger *l, model *m) {
  model_group now[MOST], was[MOST];
  vram_change change[2 * MOST];
  int n = model_groups(m, now), nwas = m->groups, i, k, wanted = 0, small_pool = 0;
  uint32_t got, c;
  int64_t sum = 0, count = 0;
  memcpy(was, m->group, sizeof was);
  memcpy(m->group, now, (size_t)n * sizeof *now);
  m->groups = n;
  for (i = 0; i < n; i++) {
    sum += now[i].count * (int64_t)now[i].bytes;
    count += now[i].count;
  }
  for (i = 0; i < nwas; i++) {
    sum -= was[i].count * (int64_t)was[i].bytes;
    count -= was[i].count;
    for (k = 0; k < n; k++)
      if (now[k].owner == was[i].owner && now[k].bytes == was[i].bytes &&
          now[k].device == was[i].device)
        break;
    if (k == n) {
      now[n] = was[i];
      now[n++].count = 0;
    }
    now[k].count -= was[i].count;
  }
  for (i = 0; i < n; i++)
    wanted += now[i].count != 0;
  got = vram_ledger_mark(l, change, 2 * MOST);
  for (c = 0; c < got; c++) {
    const uint64_t size = (uint64_t)(change[c].sum < 0 ? -change[c].sum : change[c].sum);
    if (c && size > (uint64_t)(change[c - 1].sum < 0 ? -change[c - 1].sum : change[c - 1].sum))
      FAIL("the largest change comes first");
    sum -= change[c].sum;
    count -= change[c].count;
    if (change[c].various) {
      small_pool = 1;
      continue;
    }
    if (change[c].sum != change[c].count * (int64_t)change[c].bytes)
      FAIL("a change is its count times its size");
    for (i = 0; i < n; i++)
      if (now[i].owner == change[c].owner && now[i].bytes == change[c].bytes &&
          now[i].device == (change[c].device == VRAM_DEVICE_HOST ? DEVICES : change[c].device) &&
          now[i].count == change[c].count)
        break;
    if (l->options.groups >= 2 * MOST && i == n)
      FAIL("a change that the lists do not have");
  }
  if (sum || count)
    FAIL("changes sum up");
  if (l->options.groups >= 2 * MOST && ((int)got != wanted || small_pool))
    FAIL("as many changes as the lists say");
  if (vram_ledger_mark(l, change, 1))
    FAIL("nothing changes between two marks");
}

static void region_events(vram_ledger *l, model *m) {
  model_region *r = &m->region[random_below(OPEN)];
  int ended;
  if (!r->open) {
    memset(r, 0, sizeof *r);
    r->open = 1;
    r->start = (int64_t)m->sum;
    vram_region_begin(l, &r->region, "r");
    return;
  }
  ended = vram_region_end(l, &r->region);
  ended -= vram_region_end(l, &r->region);
  if (ended != 1)
    FAIL("a region ends once");
  r->open = 0;
  if (r->region.bytes != (int64_t)m->sum - r->start || r->region.peak != r->peak ||
      r->region.allocations != r->allocations || r->region.frees != r->frees ||
      r->region.allocated - r->region.freed != (uint64_t)r->region.bytes)
    FAIL("a region has what happened in it");
}

static void resets(vram_ledger *l, model *m) {
  int i, p, peak = random_below(2) == 0;
  vram_stat *s;
#define RESET(stat)                                                                                \
  (s = &(stat), peak ? (void)(s->peak = s->current) : (void)(s->allocated = s->freed = 0))
  for (i = 0; i <= DEVICES; i++) {
    for (p = 0; p < 3; p++) {
#define VRAM__X(name) RESET(m->stats[i].name[p]);
      VRAM_STATS(VRAM__X)
#undef VRAM__X
    }
    RESET(m->stats[i].oversize_allocations);
    RESET(m->stats[i].oversize_segments);
    if (!peak)
      m->stats[i].num_alloc_retries = m->stats[i].num_ooms = 0;
  }
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    RESET(m->category[i]);
  for (i = 0; i < VRAM_KINDS_MAX; i++)
    RESET(m->kind[i]);
  for (i = 0; i <= OWNERS; i++) {
    RESET(m->owner[i]);
    RESET(m->count[i]);
  }
#undef RESET
  if (peak) {
    m->peak = m->sum;
    for (i = 0; i <= OWNERS; i++)
      m->owner_at_peak[i] = m->owner[i].current;
    for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
      m->category_at_peak[i] = m->category[i].current;
    vram_ledger_reset_peak(l);
  } else
    vram_ledger_reset_accumulated(l);
}

/* An event that may happen; half of the addresses share their place in the table. */
static vram_event random_event(const model *m, uint32_t addresses) {
  vram_event e;
  const uint32_t what = random_below(100);
  const model_live *a = m->n ? &m->live[random_below((uint32_t)m->n)] : NULL;
  memset(&e, 0, sizeof e);
  e.id = -1;
  e.address = UINT64_C(0x7f0000000000) + (uint64_t)random_below(addresses) * 512;
  if (random_below(8) == 0)
    e.id = (int64_t)random_below(8), e.address = 0;
  e.device = (uint8_t)random_below(DEVICES);
  if (random_below(10) == 0)
    e.device = VRAM_DEVICE_HOST;
  if (random_below(200) == 0)
    e.device = DEVICES + 3;
  e.small_pool = random_below(3) == 0;
  e.kind = (uint8_t)random_below(random_below(20) ? 3 : 40);
  e.owner = random_below(random_below(20) ? OWNERS + 1 : 100);
  e.category = (vram_category)random_below(VRAM_CATEGORY_COUNT);
  e.bytes = (uint64_t)random_below(8) << random_below(12);
  if (m->room < MOST / 2) /* a free of 0 bytes does not know how many there were */
    e.bytes++;
  e.time = m->serial;
  e.stream = random_below(3);
  if (what < 45 && m->n < MOST - 2) {
    e.action = VRAM_ACTION_ALLOC;
    e.block_bytes = random_below(4) ? (e.bytes + 511) / 512 * 512 : 0;
    e.whole = random_below(3) == 0;
    return e;
  }
  if (what < 85 && a) {
    e.action = what < 70   ? VRAM_ACTION_FREE
               : what < 78 ? VRAM_ACTION_FREE_REQUESTED
                           : VRAM_ACTION_BECOMES;
    if (a->lost)
      e.action = VRAM_ACTION_FREE;
    e.address = a->key;
    e.id = -1;
    e.device = (uint8_t)(a->device == DEVICES ? VRAM_DEVICE_HOST : (uint32_t)a->device);
    e.small_pool = a->small_pool != 0;
    e.whole = a->whole != 0;
    e.bytes = a->bytes;
    e.block_bytes = a->block;
    if (a->key < 1000) {
      e.address = 0;
      e.id = (int64_t)a->key - 1;
    }
    return e;
  }
  if (what < 88 && alive(m) == (uint32_t)m->n) { /* unknown, or by chance not */
    e.action = random_below(2) ? VRAM_ACTION_FREE : VRAM_ACTION_FREE_REQUESTED;
    return e;
  }
  e.small_pool = random_below(2) == 0;
  e.bytes = (uint64_t)(random_below(4) + 1) << 11;
  if (what < 96 && e.device < DEVICES) {
    const int grows = random_below(2) == 0;
    const uint64_t has =
        grows ? m->grown[e.device][e.small_pool] : m->reserved[e.device][e.small_pool];
    e.action = grows ? VRAM_ACTION_SEGMENT_MAP : VRAM_ACTION_SEGMENT_ALLOC;
    if (random_below(2) && has >= e.bytes && (grows || m->segments[e.device][e.small_pool])) {
      e.action = grows ? VRAM_ACTION_SEGMENT_UNMAP : VRAM_ACTION_SEGMENT_FREE;
      e.bytes = grows ? e.bytes : has / m->segments[e.device][e.small_pool];
      if (!grows && (m->oversize_segments[e.device] || e.bytes >= m->oversize))
        e.action = VRAM_ACTION_MARK;
    }
    e.split = (int32_t)random_below(3) - (m->split[e.device][e.small_pool] > 0);
    e.split_bytes = e.split * 512 - (m->split_bytes[e.device][e.small_pool] >= 512 ? 512 : 0);
    if (m->split_bytes[e.device][e.small_pool] + e.split_bytes < 0)
      e.split = 0, e.split_bytes = 0;
    return e;
  }
  e.action = what < 98 ? VRAM_ACTION_OOM : what < 99 ? VRAM_ACTION_RETRY : VRAM_ACTION_MARK;
  return e;
}

static const char *const file_names[2] = {"a.c", "b.c"};

static void random_stream(uint32_t round, uint32_t room, uint32_t groups, uint32_t trace) {
  vram_ledger_options o;
  vram_ledger l;
  static model m;
  uint32_t i;
  memset(&m, 0, sizeof m);
  memset(&o, 0, sizeof o);
  o.live = m.room = room;
  o.owners = OWNERS;
  o.devices = DEVICES;
  o.groups = groups;
  o.trace = trace;
  o.oversize_bytes = m.oversize = 4096;
  l = ledger_new(&o);
  for (i = 1; i <= OWNERS; i++) {
    EQUAL(vram_ledger_owner(&l, file_names[i & 1], i, "f", NULL), i);
  }
  EQUAL(vram_ledger_owner(&l, file_names[1], 1, "f", NULL), 1);
  EQUAL(vram_ledger_owner(&l, file_names[1], 1, "f", "one more"), 0);
  EQUAL(l.lost_owners, 1);
  snprintf(test_where, sizeof test_where, "stream %u", round);
  for (i = 0; i < 1500; i++) {
    vram_event e = random_event(&m, room < MOST / 2 ? room * 3 : MOST);
    const uint32_t turn = random_below(40);
    int found = e.action == VRAM_ACTION_FREE && e.address ? model_find(&m, e.address) : -1;
    /* an address that is lost is not given out again */
    if (e.action == VRAM_ACTION_ALLOC) {
      int k;
      for (k = 0; k < m.n; k++)
        if (m.live[k].lost && m.live[k].key == (e.address ? e.address : (uint64_t)e.id + 1))
          break;
      if (k < m.n)
        continue;
    }
    if (found >= 0 && random_below(4) == 0) {
      vram_allocation was;
      if (!vram_ledger_take(&l, e.address, &was) || was.bytes != m.live[found].bytes)
        FAIL("what is taken");
      model_event(&m, &e);
    } else {
      vram_ledger_event(&l, &e);
      model_event(&m, &e);
    }
    same_sums(&l, &m);
    if (turn < 6)
      region_events(&l, &m);
    else if (turn == 6)
      same_live(&l, &m);
    else if (turn == 7)
      same_peaks(&l, &m);
    else if (turn == 8 && groups)
      same_mark(&l, &m);
    else if (turn == 9 && random_below(10) == 0)
      resets(&l, &m);
    if (trace)
      same_trace(&l, &m);
    if (test_failed)
      break;
  }
  same_peaks(&l, &m);
  same_live(&l, &m);
  CHECK(i == 1500);
  if (!groups) {
    EQUAL(vram_ledger_mark(&l, NULL, 0), 0);
  }
  free(l.device);
  free(m.trace);
}

/* ---- steps ---- */

/* The ledger's sums are the report's; the peak is reached with what the report has at the peak. */
static void step_counts(const char *path) {
  size_t len = 0;
  char *text = play_file(path, &len);
  play p;
  vram_step_options o = VRAM_ZERO_INIT;
  vram_ledger_options lo = VRAM_ZERO_INIT;
  vram_ledger l;
  int train, c;
  if (!NEED(text != NULL))
    return;
  memset(&p, 0, sizeof p);
  snprintf(test_where, sizeof test_where, "%s", path);
  NEED(play_parse(&p, text, len, NULL, 0) == VRAM_OK);
  lo.live = 10000;
  for (train = 0; train < 2; train++) {
    vram_report r;
    vram_event e;
    vram_region region;
    o.train = train;
    o.optimizer = VRAM_OPTIM_adamw;
    o.event = NULL;
    NEED(play_step(&p, &o) == VRAM_OK);
    l = ledger_new(&lo);
    memset(&e, 0, sizeof e);
    e.id = -1;
    for (c = 0; c < VRAM_CATEGORY_COUNT; c++) {
      e.category = (vram_category)c;
      e.bytes = p.report.before_category_bytes[c];
      vram_ledger_event(&l, &e);
    }
    vram_region_begin(&l, &region, "step");
    o.event = vram_ledger_event;
    o.user = &l;
    NEED(vram_step(&p.graph, &o, p.scratch, p.scratch_bytes, &r, &p.error) == VRAM_OK);
    CHECK(vram_region_end(&l, &region));
    EQUAL(l.peak_bytes, r.peak_requested_bytes);
    EQUAL(l.unknown_frees + l.missed_frees + l.lost, 0);
    for (c = 0; c < VRAM_CATEGORY_COUNT; c++) {
      EQUAL(vram_ledger_category_at_peak(&l, (vram_category)c), r.peak_category_bytes[c]);
    }
    EQUAL(region.allocations + region.frees, r.events);
    if (train) {
      EQUAL(l.bytes, r.phase[VRAM_PHASE_END].requested_bytes);
    }
    free(l.device);
  }
  play_end(&p);
  free(text);
}

/* ---- bad use ---- */

static void options(void) {
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_ledger l;
  vram_error e;
  unsigned char *mem;
  uint64_t n = vram_ledger_bytes(NULL), k;
  *test_where = 0;
  EQUAL(n, vram_ledger_bytes(&o));
  mem = (unsigned char *)test_scratch(n + 8);
  if (!mem)
    abort();
  for (k = 0; k < 8; k++) { /* the memory may begin anywhere */
    vram_event a;
    memset(&a, 0, sizeof a);
    EQUAL(vram_ledger_init(&l, NULL, mem + k, n, &e), VRAM_OK);
    CHECK((uintptr_t)l.device % 8 == 0);
    a.bytes = 5;
    vram_ledger_event(&l, &a);
    EQUAL(l.bytes, 5);
  }
  EQUAL(vram_ledger_init(&l, NULL, mem, n - 1, &e), VRAM_ERR_MEMORY);
  TEXT(e.text, "the ledger needs more memory: see vram_ledger_bytes");
  EQUAL(vram_ledger_init(&l, NULL, NULL, n, NULL), VRAM_ERR_MEMORY);
  o.devices = 255;
  EQUAL(vram_ledger_init(&l, &o, mem, n, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "a ledger has up to 268435456 of anything and 254 devices");
  EQUAL(vram_ledger_bytes(&o), VRAM_OVERFLOW);
  o.devices = 254;
  CHECK(vram_ledger_bytes(&o) != VRAM_OVERFLOW);
  o.live = (1u << 28) + 1;
  EQUAL(vram_ledger_bytes(&o), VRAM_OVERFLOW);
  o.live = 1u << 28;
  CHECK(vram_ledger_bytes(&o) > UINT64_C(1) << 34);
  o.live = 0;
  o.lock = free;
  EQUAL(vram_ledger_init(&l, &o, mem, n, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "a ledger has both lock and unlock, or none");
  free(mem);
  TEXT(vram_action_name(VRAM_ACTION_FREE_REQUESTED), "free_requested");
  TEXT(vram_action_name(VRAM_ACTION_COUNT), "?");
  TEXT(vram_category_name(VRAM_CATEGORY_OTHER), "other");
  TEXT(vram_category_name(VRAM_CATEGORY_COUNT), "?");
  TEXT(vram_phase_name(VRAM_PHASE_ZERO_GRAD), "zero_grad");
  TEXT(vram_phase_name(VRAM_PHASE_COUNT), "?");
}

/* What is lost goes by what its free says, or by the average; nothing falls below zero. */
static void lost(void) {
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_ledger l;
  vram_event e;
  vram_memory_stats s;
  uint64_t i;
  o.live = 2;
  o.devices = 2;
  l = ledger_new(&o);
  memset(&e, 0, sizeof e);
  e.id = -1;
  e.action = VRAM_ACTION_ALLOC;
  for (i = 1; i <= 8; i++) {
    e.address = i << 20;
    e.bytes = i * 100;
    e.device = (uint8_t)(i == 8 ? VRAM_DEVICE_HOST : i == 7);
    e.whole = i % 2;
    vram_ledger_event(&l, &e);
  }
  EQUAL(l.nlive, 2);
  EQUAL(l.lost, 6);
  EQUAL(l.lost_bytes, 3300);
  EQUAL(l.bytes, 2800);
  CHECK(!vram_ledger_take(&l, 3 << 20, NULL)); /* of 300 and 500, as a segment of its own */
  EQUAL(l.lost_bytes, 2900);
  CHECK(!vram_ledger_take(&l, 5 << 20, NULL)); /* the last one takes the rest */
  EQUAL(l.lost_bytes, 2500);
  e.action = VRAM_ACTION_FREE_REQUESTED; /* goes with its FREE */
  e.address = 4 << 20;
  e.device = 0;
  vram_ledger_event(&l, &e);
  e.action = VRAM_ACTION_FREE;
  e.bytes = 400;
  e.whole = 0;
  vram_ledger_event(&l, &e);
  EQUAL(l.lost_bytes, 2100);
  e.address = 7 << 20;
  e.device = 9; /* of which there is none: any */
  e.bytes = 10000;
  for (i = 0; i < 3; i++)
    vram_ledger_event(&l, &e);
  EQUAL(l.lost, 0);
  EQUAL(l.lost_bytes, 0);
  EQUAL(l.unknown_frees, 0);
  EQUAL(l.bytes, 300);
  vram_ledger_event(&l, &e);
  EQUAL(l.unknown_frees, 1);
  for (i = 0; i < 3; i++) {
    vram_ledger_stats(&l, i == 2 ? VRAM_DEVICE_HOST : (uint32_t)i, &s);
    EQUAL(s.requested_bytes[0].current, i ? 0 : 300);
    EQUAL(s.allocated_bytes[0].current, i ? 0 : 300);
    EQUAL(s.reserved_bytes[0].current, i ? 0 : 100);
    EQUAL(s.active[0].current, i ? 0 : 2);
  }
  vram_ledger_stats(&l, 2, &s);
  EQUAL(s.allocation[0].allocated, 0);
  free(l.device);
}

/* Memory from before: sums only, and never below zero; the host is in no category. */
static void before(void) {
  vram_ledger l = ledger_new(NULL);
  vram_event e;
  vram_memory_stats s;
  memset(&e, 0, sizeof e);
  e.id = -1;
  e.bytes = 100;
  e.category = VRAM_CATEGORY_PARAMS;
  vram_ledger_event(&l, &e);
  e.device = VRAM_DEVICE_HOST;
  e.bytes = 50;
  vram_ledger_event(&l, &e);
  EQUAL(l.bytes, 100);
  EQUAL(l.category[VRAM_CATEGORY_PARAMS].current, 100);
  e.action = VRAM_ACTION_FREE;
  vram_ledger_event(&l, &e);
  vram_ledger_event(&l, &e);
  EQUAL(l.unknown_frees, 1);
  e.device = 0;
  e.action = VRAM_ACTION_BECOMES;
  e.was = VRAM_CATEGORY_PARAMS;
  e.category = VRAM_CATEGORY_GRADIENTS;
  e.bytes = 30;
  vram_ledger_event(&l, &e);
  EQUAL(l.category[VRAM_CATEGORY_PARAMS].current, 70);
  EQUAL(l.category[VRAM_CATEGORY_GRADIENTS].current, 30);
  e.bytes = 1000;
  vram_ledger_event(&l, &e);
  EQUAL(l.category[VRAM_CATEGORY_GRADIENTS].current, 100);
  e.action = VRAM_ACTION_FREE;
  vram_ledger_event(&l, &e);
  e.bytes = 70;
  e.category = VRAM_CATEGORY_PARAMS; /* has nothing left */
  vram_ledger_event(&l, &e);
  EQUAL(l.unknown_frees, 3);
  e.category = VRAM_CATEGORY_GRADIENTS;
  vram_ledger_event(&l, &e);
  EQUAL(l.bytes, 30);
  e.action = VRAM_ACTION_SEGMENT_FREE; /* of an observer that began late */
  vram_ledger_event(&l, &e);
  vram_ledger_stats(&l, 0, &s);
  EQUAL(s.reserved_bytes[0].current, 0);
  EQUAL(s.num_device_free, 1);
  EQUAL(s.allocation[0].allocated, 0);
  EQUAL(s.requested_bytes[0].current, 30);
  e.action = VRAM_ACTION_ALLOC;
  e.device = 1;
  vram_ledger_event(&l, &e);
  EQUAL(l.unknown_devices, 1);
  free(l.device);
}

/* The lock is held in every call and never twice; times come from the clock. */
static int locked;
static uint64_t locks;
static void lock(void *user) {
  CHECK(!locked++ && user == &locks);
  locks++;
}
static void unlock(void *user) { CHECK(--locked == 0 && user == &locks); }
static uint64_t ticks(void *user) {
  CHECK(locked == 1 && user == &locks);
  return 77;
}

static void locking(void) {
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_ledger l;
  vram_event e;
  vram_region r;
  vram_memory_stats s;
  vram_allocation a;
  vram_owner w;
  uint64_t calls = 0;
  o.lock = lock;
  o.unlock = unlock;
  o.clock = ticks;
  o.user = &locks;
  o.trace = 4;
  o.groups = 4;
  l = ledger_new(&o);
  memset(&e, 0, sizeof e);
  e.address = 512;
  EQUAL(locks, calls);
  vram_ledger_event(&l, &e);
  EQUAL(locks, ++calls);
  EQUAL(l.trace[0].time, 77);
  CHECK(vram_ledger_find(&l, 512, &a));
  EQUAL(locks, ++calls);
  EQUAL(a.time, 77);
  vram_ledger_live(&l, &a, 1);
  EQUAL(locks, ++calls);
  CHECK(vram_ledger_take(&l, 512, NULL));
  EQUAL(locks, ++calls);
  EQUAL(l.trace[1].time, 77);
  CHECK(!vram_ledger_take(&l, 512, &a));
  EQUAL(locks, ++calls);
  CHECK(!vram_ledger_find(&l, 0, NULL));
  EQUAL(locks, ++calls);
  vram_ledger_owner(&l, NULL, 0, NULL, NULL);
  EQUAL(locks, ++calls);
  vram_ledger_owner_at_peak(&l, 5);
  EQUAL(locks, ++calls);
  vram_ledger_category_at_peak(&l, VRAM_CATEGORY_OTHER);
  EQUAL(locks, ++calls);
  vram_ledger_owners(&l, 0, &w, 1);
  EQUAL(locks, ++calls);
  vram_ledger_stats(&l, 0, &s);
  EQUAL(locks, ++calls);
  vram_ledger_reset_peak(&l);
  EQUAL(locks, ++calls);
  vram_ledger_reset_accumulated(&l);
  EQUAL(locks, ++calls);
  vram_region_begin(&l, &r, NULL);
  EQUAL(locks, ++calls);
  vram_region_end(&l, &r);
  EQUAL(locks, ++calls);
  vram_ledger_mark(&l, NULL, 0);
  EQUAL(locks, ++calls);
  free(l.device);
}

int main(int argc, char **argv) {
  uint32_t i;
  options();
  before();
  lost();
  locking();
  for (i = 0; i < 24; i++)
    random_stream(i, i % 3 == 2 ? 5 + i : MOST, i % 2 ? i % 4 == 1 ? 2 * MOST : 5 : 0,
                  i % 4 == 3 ? 7 : HISTORY * (i % 2));
  for (i = 1; i < (uint32_t)argc; i++)
    step_counts(argv[i]);
  return test_done("test_ledger");
}
