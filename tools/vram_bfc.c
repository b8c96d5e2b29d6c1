#include "vram_bfc.h"

enum { UNIT = 256 }; /* kMinAllocationSize */

void bfc_begin(bfc *b, uint64_t limit, int preallocate, int garbage_collection) {
  const uint64_t first = UINT64_C(2) << 20, bytes = preallocate || limit < first ? limit : first;
  memset(b, 0, sizeof *b);
  b->unused = BFC_NONE;
  b->stats.bytes_limit = limit;
  b->region_bytes = (bytes + UNIT - 1) / UNIT * UNIT;
  b->next = UINT64_C(0x200000000000);
  b->garbage_collection = garbage_collection;
}

void bfc_end(bfc *b) {
  free(b->chunk);
  free(b->free);
  memset(b, 0, sizeof *b);
}

uint64_t bfc_largest_free(const bfc *b) {
  return b->nfree ? b->chunk[b->free[b->nfree - 1]].bytes : 0;
}

/* A chunk that is in no list; BFC_NONE: no memory. There is room for it among the free ones. */
static uint32_t new_chunk(bfc *b) {
  uint32_t c = b->unused;
  if (c != BFC_NONE) {
    b->unused = b->chunk[c].after;
    return c;
  }
  if (b->nchunk == b->chunk_cap) {
    uint32_t cap = b->chunk_cap;
    uint32_t *const list = (uint32_t *)cmd_room(b->free, cap, &cap, sizeof *list);
    bfc_chunk *chunk;
    if (list)
      b->free = list;
    chunk = list ? (bfc_chunk *)cmd_room(b->chunk, b->nchunk, &b->chunk_cap, sizeof *chunk) : NULL;
    if (!chunk) {
      b->no_memory = 1;
      return BFC_NONE;
    }
    b->chunk = chunk;
  }
  return b->nchunk++;
}

/* How many free chunks come before this size and address. */
static uint32_t free_index(const bfc *b, uint64_t bytes, uint64_t address) {
  uint32_t low = 0, high = b->nfree;
  while (low < high) {
    const uint32_t middle = low + (high - low) / 2;
    const bfc_chunk *const c = b->chunk + b->free[middle];
    if (c->bytes < bytes || (c->bytes == bytes && c->address < address))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static void free_add(bfc *b, uint32_t c) {
  const uint32_t i = free_index(b, b->chunk[c].bytes, b->chunk[c].address);
  memmove(b->free + i + 1, b->free + i, (b->nfree - i) * sizeof *b->free);
  b->free[i] = c;
  b->nfree++;
}

static void free_drop(bfc *b, uint32_t c) {
  const uint32_t i = free_index(b, b->chunk[c].bytes, b->chunk[c].address);
  b->nfree--;
  memmove(b->free + i, b->free + i + 1, (b->nfree - i) * sizeof *b->free);
}

/* One more region for that many bytes (Extend); 0: the limit is reached, or no memory. */
static int extend(bfc *b, uint64_t bytes) {
  const uint64_t left = (b->stats.bytes_limit - b->stats.pool_bytes) / UNIT * UNIT;
  int grew = 0;
  uint64_t region;
  bfc_chunk *c;
  uint32_t at;
  if (bytes > left)
    return 0;
  for (; bytes > b->region_bytes; grew = 1)
    b->region_bytes *= 2;
  region = b->region_bytes < left ? b->region_bytes : left;
  if (!grew && b->region_bytes <= UINT64_MAX / 4)
    b->region_bytes *= 2;
  at = new_chunk(b);
  if (at == BFC_NONE)
    return 0;
  c = b->chunk + at;
  memset(c, 0, sizeof *c);
  c->before = c->after = BFC_NONE;
  c->bytes = region;
  c->address = b->hint && b->hint_bytes == region ? b->hint : b->next;
  if (c->address == b->next)
    b->next += (region / ((uint64_t)2 << 20) + 2) * ((uint64_t)2 << 20); /* none touch */
  b->hint = 0;
  free_add(b, at);
  b->extended = region;
  b->stats.pool_bytes += region;
  b->stats.regions++;
  if (b->stats.pool_bytes > b->stats.peak_pool_bytes)
    b->stats.peak_pool_bytes = b->stats.pool_bytes;
  if (b->stats.regions > b->stats.peak_regions)
    b->stats.peak_regions = b->stats.regions;
  return 1;
}

/* The second part of a chunk that is in no list becomes free. */
static int split(bfc *b, uint32_t at, uint64_t bytes) {
  const uint32_t rest = new_chunk(b);
  bfc_chunk *c, *r;
  if (rest == BFC_NONE)
    return 0;
  c = b->chunk + at;
  r = b->chunk + rest;
  r->address = c->address + bytes;
  r->bytes = c->bytes - bytes;
  r->requested = 0;
  r->before = at;
  r->after = c->after;
  if (c->after != BFC_NONE)
    b->chunk[c->after].before = rest;
  c->after = rest;
  c->bytes = bytes;
  free_add(b, rest);
  return 1;
}

/* FindChunkPtr */
static uint32_t find(bfc *b, uint64_t rounded, uint64_t bytes) {
  const uint32_t i = free_index(b, rounded, 0);
  bfc_stats *const s = &b->stats;
  uint32_t at;
  uint64_t size;
  if (i == b->nfree)
    return BFC_NONE;
  at = b->free[i];
  size = b->chunk[at].bytes;
  free_drop(b, at);
  if ((size / 2 >= rounded || size - rounded >= (uint64_t)128 << 20) && !split(b, at, rounded)) {
    free_add(b, at);
    return BFC_NONE;
  }
  b->chunk[at].requested = bytes;
  size = b->chunk[at].bytes;
  s->num_allocs++;
  s->bytes_in_use += size;
  s->requested += bytes;
  if (s->bytes_in_use > s->peak_bytes_in_use)
    s->peak_bytes_in_use = s->bytes_in_use;
  if (s->requested > s->peak_requested)
    s->peak_requested = s->requested;
  if (size > s->largest_alloc_size)
    s->largest_alloc_size = size;
  return at;
}

static void forget(bfc *b, uint32_t at) {
  b->chunk[at].after = b->unused;
  b->unused = at;
}

/* DeallocateFreeRegions: all regions without a chunk in use, if that could help. A free chunk
   without neighbours is a region. */
static int give_back(bfc *b, uint64_t rounded) {
  uint64_t all = 0;
  uint32_t i, n = 0;
  for (i = 0; i < b->nfree; i++) {
    const bfc_chunk *const c = b->chunk + b->free[i];
    if (c->before == BFC_NONE && c->after == BFC_NONE)
      all += c->bytes;
  }
  if (!b->garbage_collection || !all || rounded > b->stats.bytes_limit - b->stats.pool_bytes + all)
    return 0;
  for (i = 0; i < b->nfree; i++) {
    const uint32_t at = b->free[i];
    if (b->chunk[at].before == BFC_NONE && b->chunk[at].after == BFC_NONE) {
      b->stats.regions--;
      forget(b, at);
    } else
      b->free[n++] = at;
  }
  b->nfree = n;
  b->stats.pool_bytes -= all;
  return 1;
}

uint32_t bfc_alloc(bfc *b, uint64_t bytes) {
  const uint64_t rounded = bytes / UNIT * UNIT + (bytes % UNIT ? UNIT : 0);
  uint32_t at = find(b, rounded, bytes);
  b->extended = 0;
  if (at == BFC_NONE && extend(b, rounded))
    at = find(b, rounded, bytes);
  if (at == BFC_NONE && !b->no_memory && give_back(b, rounded) && extend(b, rounded))
    at = find(b, rounded, bytes);
  b->stats.failed += at == BFC_NONE;
  return at;
}

/* The chunk behind `at` becomes part of it; neither is in the list. */
static void merge(bfc *b, uint32_t at, uint32_t behind) {
  bfc_chunk *const c = b->chunk + at, *const n = b->chunk + behind;
  c->bytes += n->bytes;
  c->after = n->after;
  if (c->after != BFC_NONE)
    b->chunk[c->after].before = at;
  forget(b, behind);
}

void bfc_free(bfc *b, uint32_t at) {
  bfc_chunk *c = b->chunk + at;
  b->stats.bytes_in_use -= c->bytes;
  b->stats.requested -= c->requested;
  c->requested = 0;
  if (c->after != BFC_NONE && !b->chunk[c->after].requested) {
    free_drop(b, c->after);
    merge(b, at, c->after);
  }
  if (c->before != BFC_NONE && !b->chunk[c->before].requested) {
    const uint32_t before = c->before;
    free_drop(b, before);
    merge(b, before, at);
    at = before;
  }
  free_add(b, at);
}
