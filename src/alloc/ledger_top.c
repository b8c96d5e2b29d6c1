/* >>alloc/ledger_top    the largest live allocations, owners and changes, in the caller's list
   A heap whose first entry is the one that goes next; at the end it is taken apart. */
#include "alloc/alloc.h"

static void vram__top_swap(const vram__top *t, uint32_t i, uint32_t k) {
  uint8_t *a = t->list + (uint64_t)i * t->size, *b = t->list + (uint64_t)k * t->size;
  uint32_t j;
  for (j = 0; j < t->size; j++) {
    const uint8_t x = a[j];
    a[j] = b[j];
    b[j] = x;
  }
}

static int vram__top_before(const vram__top *t, uint32_t i, uint32_t k) {
  return t->before(t->list + (uint64_t)i * t->size, t->list + (uint64_t)k * t->size);
}

static void vram__top_sift(const vram__top *t, uint32_t n) {
  uint32_t i = 0, last;
  while (2 * i + 1 < n) {
    last = 2 * i + 1;
    if (last + 1 < n && vram__top_before(t, last, last + 1))
      last++;
    if (!vram__top_before(t, i, last))
      return;
    vram__top_swap(t, i, last);
    i = last;
  }
}

VRAM__FN void vram__top_add(vram__top *t, const void *item) {
  uint32_t i = t->n;
  if (t->n == t->cap) {
    if (!t->cap || !t->before(item, t->list))
      return;
    vram__memory_copy(t->list, item, t->size);
    vram__top_sift(t, t->n);
    return;
  }
  vram__memory_copy(t->list + (uint64_t)t->n++ * t->size, item, t->size);
  for (; i && vram__top_before(t, (i - 1) / 2, i); i = (i - 1) / 2)
    vram__top_swap(t, i, (i - 1) / 2);
}

VRAM__FN void vram__top_sort(const vram__top *t) {
  uint32_t n = t->n;
  while (n > 1) {
    vram__top_swap(t, 0, --n);
    vram__top_sift(t, n);
  }
}

VRAM__FN vram__top vram__top_of(void *list, uint32_t cap, uint32_t size,
                                vram__stands_before *before) {
  vram__top t;
  t.list = (uint8_t *)list;
  t.n = 0;
  t.cap = list ? cap : 0;
  t.size = size;
  t.before = before;
  return t;
}

static int vram__larger_allocation(const void *a, const void *b) {
  const vram_allocation *x = (const vram_allocation *)a, *y = (const vram_allocation *)b;
  return x->bytes != y->bytes ? x->bytes > y->bytes : x->serial < y->serial;
}

VRAM_API uint32_t vram_ledger_live(vram_ledger *l, vram_allocation *list, uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list, vram__larger_allocation);
  uint32_t i, n;
  vram__ledger_lock(l);
  n = l->nlive;
  for (i = 0; top.cap && i <= l->live_mask; i++)
    if (l->live[i].address)
      vram__top_add(&top, l->live + i);
  vram__ledger_unlock(l);
  vram__top_sort(&top);
  return n;
}

static uint64_t vram__owner_at_peak(const vram_ledger *l, const vram_owner *w) {
  return w->serial == l->peak_serial ? w->at_peak : w->bytes.current;
}

VRAM_API uint64_t vram_ledger_owner_at_peak(vram_ledger *l, uint32_t owner) {
  uint64_t bytes = 0;
  vram__ledger_lock(l);
  if (owner < l->nowner)
    bytes = vram__owner_at_peak(l, l->owner + owner);
  vram__ledger_unlock(l);
  return bytes;
}

VRAM_API uint64_t vram_ledger_category_at_peak(vram_ledger *l, vram_category category) {
  const uint32_t c = vram__category_of(category);
  uint64_t bytes;
  vram__ledger_lock(l);
  bytes = l->category_serial[c] == l->peak_serial ? l->category_peak[c] : l->category[c].current;
  vram__ledger_unlock(l);
  return bytes;
}

static int vram__larger_owner(const void *a, const void *b) {
  const vram_owner *x = (const vram_owner *)a, *y = (const vram_owner *)b;
  return x->bytes.current != y->bytes.current ? x->bytes.current > y->bytes.current
                                              : x->number < y->number;
}

static int vram__larger_owner_at_peak(const void *a, const void *b) {
  const vram_owner *x = (const vram_owner *)a, *y = (const vram_owner *)b;
  return x->at_peak != y->at_peak ? x->at_peak > y->at_peak : x->number < y->number;
}

VRAM__FN uint32_t vram__ledger_owners(const vram_ledger *l, int at_peak, vram_owner *list,
                                      uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list,
                               at_peak ? vram__larger_owner_at_peak : vram__larger_owner);
  uint32_t i, n = 0;
  for (i = 0; i < l->nowner; i++) {
    vram_owner w = l->owner[i];
    w.at_peak = vram__owner_at_peak(l, &w);
    if (at_peak ? w.at_peak : w.bytes.current)
      vram__top_add(&top, &w), n++;
  }
  vram__top_sort(&top);
  return n;
}

VRAM_API uint32_t vram_ledger_owners(vram_ledger *l, int at_peak, vram_owner *list, uint32_t cap) {
  uint32_t n;
  vram__ledger_lock(l);
  n = vram__ledger_owners(l, at_peak, list, cap);
  vram__ledger_unlock(l);
  return n;
}

VRAM_API void vram_ledger_stats(vram_ledger *l, uint32_t device, vram_memory_stats *stats) {
  const vram_memory_stats *m = vram__stats_of(l, device);
  vram__memory_zero(stats, sizeof *stats);
  vram__ledger_lock(l);
  if (m)
    *stats = *m;
  vram__ledger_unlock(l);
}

static void vram__reset_stat(vram_stat *s, int peak) {
  if (peak)
    s->peak = s->current;
  else
    s->allocated = s->freed = 0;
}

VRAM__FN void vram__ledger_reset(vram_ledger *l, int peak) {
  uint32_t i, k;
  for (i = 0; i <= l->options.devices; i++) {
    vram_memory_stats *m = l->device + i;
    for (k = 0; k < 3; k++) {
#define VRAM__X(name) vram__reset_stat(&m->name[k], peak);
      VRAM_STATS(VRAM__X)
#undef VRAM__X
    }
    vram__reset_stat(&m->oversize_allocations, peak);
    vram__reset_stat(&m->oversize_segments, peak);
    if (!peak)
      m->num_alloc_retries = m->num_ooms = 0; /* as PyTorch: not num_device_alloc and _free */
  }
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    vram__reset_stat(&l->category[i], peak);
  for (i = 0; i < VRAM_KINDS_MAX; i++)
    vram__reset_stat(&l->kind[i], peak);
  for (i = 0; i < l->nowner; i++) {
    vram__reset_stat(&l->owner[i].bytes, peak);
    vram__reset_stat(&l->owner[i].count, peak);
  }
  if (peak) {
    l->peak_bytes = l->bytes;
    l->peak_serial++;
  }
}
