/* >>alloc/pool    the caching allocator
   PyTorch 2.15, c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h. Its free
   blocks are a set ordered by stream, size and address; here each stream and class has bins by
   size, and in each bin a tree ordered by size and address. */
#include "alloc/alloc.h"

enum {
  VRAM__PENDING = 2, /* given back, and streams still use it: it counts as handed out */
  VRAM__MAPPED = 4,
  VRAM__SMALL_CLASS = 8,
  VRAM__EXPANDABLE = 16,
  VRAM__PIECE = 32, /* of a segment; else unused, or an entry of a queue */
  VRAM__AWAY = 64   /* a segment that is all free and went back to the device: policy BEST */
};
#define VRAM__CREDIT 16u /* requests for which one segment may go back */
#define VRAM__CREDIT_MOST 4096u
#define VRAM__POOL_SPARE 4u /* blocks that one call may need at a time */

/* of all and of the class */
static inline void vram__stat_up(vram_stat *s, int small_pool, uint64_t n) {
  vram__tally_up(s + VRAM_POOL_ALL, n);
  vram__tally_up(s + VRAM_POOL_LARGE - small_pool, n);
}

static inline void vram__stat_down(vram_stat *s, int small_pool, uint64_t n) {
  vram__tally_down(s + VRAM_POOL_ALL, n);
  vram__tally_down(s + VRAM_POOL_LARGE - small_pool, n);
}

/* the same of what a replay does not ask for */
static inline void vram__count_up(const vram_pool *p, vram_stat *s, int small_pool, uint64_t n) {
  if (!p->terse)
    vram__stat_up(s, small_pool, n);
}

static inline void vram__count_down(const vram_pool *p, vram_stat *s, int small_pool, uint64_t n) {
  if (!p->terse)
    vram__stat_down(s, small_pool, n);
}

static inline int vram__is_small(const vram__block *b) {
  return (b->flags & VRAM__SMALL_CLASS) != 0;
}

static inline vram__bins *vram__bins_of(const vram_pool *p, uint32_t stream, int small_pool) {
  return p->bins + ((size_t)stream * 2 + (uint32_t)small_pool);
}

/* ---- trees: heaps by a hash of the index. Free blocks by size and address, unmapped ones by
   address. A block knows its parent, so that none is searched for before it leaves. */

static inline uint32_t vram__rank(uint32_t i) {
  i *= UINT32_C(2654435761);
  return i ^ i >> 15;
}

/* Which child of b leads to a. */
static inline uint32_t vram__side(const vram__block *a, const vram__block *b) {
  const uint32_t later = a->serial == b->serial ? a->address > b->address : a->serial > b->serial;
  if (!(a->flags & VRAM__MAPPED))
    return later;
  return (a->size > b->size) | ((a->size == b->size) & later);
}

static inline void vram__tree_add(vram__block *b, uint32_t *root, uint32_t x) {
  const uint32_t rank = vram__rank(x);
  uint32_t *end[2], above[2], y, parent = 0;
  while (*root && vram__rank(*root) < rank) {
    parent = *root;
    root = &b[parent].child[vram__side(b + x, b + parent)];
  }
  y = *root;
  *root = x;
  b[x].use.parent = parent;
  above[0] = above[1] = x;
  end[0] = &b[x].child[0];
  end[1] = &b[x].child[1];
  while (y) { /* what was there goes to both sides */
    const uint32_t side = vram__side(b + x, b + y);
    *end[!side] = y;
    b[y].use.parent = above[!side];
    above[!side] = y;
    end[!side] = &b[y].child[side];
    y = *end[!side];
  }
  *end[0] = *end[1] = 0;
}

static inline void vram__tree_remove(vram__block *b, uint32_t *root, uint32_t x) {
  uint32_t l = b[x].child[0], r = b[x].child[1], parent = b[x].use.parent;
  if (parent)
    root = &b[parent].child[b[parent].child[1] == x];
  while (l && r) {
    const uint32_t side = vram__rank(l) < vram__rank(r);
    uint32_t *top = side ? &l : &r;
    *root = *top;
    b[*root].use.parent = parent;
    parent = *root;
    root = &b[parent].child[side];
    *top = *root;
  }
  *root = l | r;
  if (*root)
    b[*root].use.parent = parent;
}

static inline uint32_t vram__tree_end(const vram__block *b, uint32_t x, int side) {
  while (x && b[x].child[side])
    x = b[x].child[side];
  return x;
}

/* The one before (side 0) or behind (1) x; 0: x is the last. */
static uint32_t vram__tree_beside(const vram__block *b, uint32_t root, uint32_t x, uint32_t side) {
  uint32_t best = 0;
  while (root != x) {
    const uint32_t way = vram__side(b + x, b + root);
    if (way != side)
      best = root;
    root = b[root].child[way];
  }
  return b[x].child[side] ? vram__tree_end(b, b[x].child[side], !side) : best;
}

/* ---- bins: 256 to each doubling of the size, so that few blocks share one */

static inline uint32_t vram__bin_of(uint64_t size) {
  const uint64_t k = size / VRAM__MIN_BLOCK;
  const uint32_t shift = vram__log2(k | 256) - 8;
  const uint64_t bin = (uint64_t)shift * 256 + (k >> shift);
  return bin < VRAM__POOL_BINS ? (uint32_t)bin : VRAM__POOL_BINS - 1;
}

/* The first bin from this one on that is not empty; VRAM__POOL_BINS: there is none. */
static inline uint32_t vram__bins_filled(const vram__bins *n, uint32_t bin) {
  uint32_t word = bin / 64, top = (word + 1) / 64;
  uint64_t found = n->filled[word] & ~UINT64_C(0) << bin % 64;
  if (found)
    return word * 64 + vram__log2(found & (0u - found));
  if (top == VRAM__POOL_BINS / 4096)
    return VRAM__POOL_BINS;
  found = n->words[top] & ~UINT64_C(0) << (word + 1) % 64;
  while (!found) {
    if (++top == VRAM__POOL_BINS / 4096)
      return VRAM__POOL_BINS;
    found = n->words[top];
  }
  word = top * 64 + vram__log2(found & (0u - found));
  found = n->filled[word];
  return word * 64 + vram__log2(found & (0u - found));
}

/* The first free block of this bin or a later one; 0: none. */
static uint32_t vram__bins_from(const vram_pool *p, const vram__bins *n, uint32_t bin) {
  if (bin < VRAM__POOL_BINS)
    bin = vram__bins_filled(n, bin);
  return bin < VRAM__POOL_BINS ? vram__tree_end(p->block, n->root[bin], 0) : 0;
}

static void vram__bins_add(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t bin = vram__bin_of(b->size);
  b->bin = (uint16_t)bin;
  b->link = p->requests[vram__is_small(b)];
  n->filled[bin / 64] |= UINT64_C(1) << bin % 64;
  n->words[bin / 4096] |= UINT64_C(1) << bin / 64 % 64;
  vram__tree_add(p->block, n->root + bin, x);
}

static void vram__bins_remove(vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t bin = b->bin;
  vram__tree_remove(p->block, n->root + bin, x);
  if (n->root[bin])
    return;
  n->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
  if (!n->filled[bin / 64])
    n->words[bin / 4096] &= ~(UINT64_C(1) << bin / 64 % 64);
}

/* std::set::lower_bound on that stream; 0: end. */
static uint32_t vram__bins_at_least(const vram_pool *p, const vram__bins *n, uint64_t size) {
  const vram__block *b = p->block;
  const uint32_t bin = vram__bin_of(size);
  uint32_t x = n->root[bin], best = 0;
  while (x) {
    const uint32_t less = b[x].size < size;
    best = less ? best : x;
    x = b[x].child[less];
  }
  return best ? best : vram__bins_from(p, n, bin + 1);
}

static uint32_t vram__bins_next(const vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t y = vram__tree_beside(p->block, n->root[b->bin], x, 1);
  return y ? y : vram__bins_from(p, n, b->bin + 1u);
}

/* The last block of this bin or an earlier one; 0: none. */
static uint32_t vram__bins_back(const vram_pool *p, const vram__bins *n, uint32_t bin) {
  uint32_t x;
  for (;;) {
    x = n->root[bin];
    if (x || !bin)
      break;
    bin = n->filled[bin / 64] ? bin - 1 : bin / 64 * 64 - (bin > 63);
  }
  return vram__tree_end(p->block, x, 1);
}

static uint32_t vram__bins_last(const vram_pool *p, const vram__bins *n) {
  return vram__bins_back(p, n, VRAM__POOL_BINS - 1);
}

static uint32_t vram__bins_previous(const vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t y = vram__tree_beside(p->block, n->root[b->bin], x, 0);
  return y || !b->bin ? y : vram__bins_back(p, n, b->bin - 1u);
}

/* ---- blocks */

static inline uint32_t vram__block_room(const vram_pool *p) {
  return p->nunused + (p->cap - p->nblock);
}

/* The caller has asked vram__block_room. */
static uint32_t vram__block_new(vram_pool *p) {
  const uint32_t x = p->unused;
  if (!x)
    return p->nblock++;
  p->unused = p->block[x].next;
  p->nunused--;
  return x;
}

static void vram__block_gone(vram_pool *p, uint32_t x) {
  p->block[x].flags = 0;
  p->block[x].next = p->unused;
  p->unused = x;
  p->nunused++;
}

static inline uint32_t vram__hash_slot(const vram_pool *p, uint64_t address) {
  return (uint32_t)((address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & p->mask;
}

static void vram__hash_in(vram_pool *p, uint32_t x) {
  uint32_t *head = p->hash + vram__hash_slot(p, p->block[x].address);
  p->block[x].link = *head;
  *head = x;
}

/* The block that was handed out there; 0: none. */
static uint32_t vram__handed(const vram_pool *p, uint64_t address) {
  uint32_t x = p->hash[vram__hash_slot(p, address)];
  while (x && p->block[x].address != address)
    x = p->block[x].link;
  return x;
}

static void vram__unhash(vram_pool *p, uint32_t x) {
  uint32_t *link = p->hash + vram__hash_slot(p, p->block[x].address);
  while (*link != x)
    link = &p->block[*link].link;
  *link = p->block[x].link;
}

/* Known without a look at the block: most neighbours of a block that goes are handed out. */
static inline int vram__is_handed(const vram_pool *p, uint32_t x) {
  return (int)(p->handed[x / 64] >> x % 64 & 1);
}

static inline int vram__is_split(const vram__block *b) { return b->prev || b->next; }

/* x keeps its first bytes; y, fresh, becomes the rest behind it. */
static void vram__cut(vram_pool *p, uint32_t x, uint32_t y, uint64_t bytes) {
  vram__block *b = p->block + x, *rest = p->block + y;
  *rest = *b;
  rest->address += bytes;
  rest->size -= bytes;
  rest->prev = x;
  if (b->next)
    p->block[b->next].prev = y;
  b->next = y;
  b->size = bytes;
}

static uint32_t *vram__unmapped_of(vram_pool *p, const vram__block *b) {
  return &vram__bins_of(p, b->stream, vram__is_small(b))->unmapped;
}

/* A free neighbour of the same kind becomes part of x; its bytes, 0: there is none. */
static uint64_t vram__merge(vram_pool *p, uint32_t x, uint32_t neighbour) {
  vram__block *b = p->block + x, *n = p->block + neighbour;
  uint64_t bytes;
  if (!neighbour || vram__is_handed(p, neighbour) || ((n->flags ^ b->flags) & VRAM__MAPPED))
    return 0;
  if (n->flags & VRAM__MAPPED)
    vram__bins_remove(p, neighbour);
  else
    vram__tree_remove(p->block, vram__unmapped_of(p, n), neighbour);
  bytes = n->size;
  if (b->prev == neighbour) {
    b->address = n->address;
    b->prev = n->prev;
    if (b->prev)
      p->block[b->prev].next = x;
  } else {
    b->next = n->next;
    if (b->next)
      p->block[b->next].prev = x;
  }
  b->size += bytes;
  vram__block_gone(p, neighbour);
  return bytes;
}

/* An event that the pool emits: what p->as says, and this. */
static void vram__pool_event(const vram_pool *p, vram_action action, const vram__block *b,
                             uint64_t bytes, int64_t split_bytes, int32_t split) {
  vram_event e = p->as;
  e.action = action;
  e.was = e.category;
  e.id = -1;
  e.bytes = bytes;
  e.address = b->address;
  e.block_bytes = b->size;
  e.stream = p->stream[b->stream];
  e.device = p->options.device;
  e.small_pool = (uint8_t)vram__is_small(b);
  e.split_bytes = split_bytes;
  e.split = split;
  p->options.event(p->options.user, &e);
}

static inline void vram__pool_tell(const vram_pool *p, vram_action action, const vram__block *b,
                                   uint64_t bytes, int64_t split_bytes, int32_t split) {
  if (p->options.event)
    vram__pool_event(p, action, b, bytes, split_bytes, split);
}

/* ---- segments */

static void vram__reserve_more(vram_pool *p, int small_pool, uint64_t bytes) {
  vram__stat_up(p->stats.reserved_bytes, small_pool, bytes);
  p->stats.num_device_alloc++;
}

static void vram__reserve_less(vram_pool *p, int small_pool, uint64_t bytes) {
  vram__stat_down(p->stats.reserved_bytes, small_pool, bytes);
  p->stats.num_device_free++;
}

static void vram__piece_new(vram_pool *p, uint32_t x, uint64_t address, uint64_t bytes,
                            uint32_t stream, int small_pool, uint32_t flags) {
  vram__block *b = p->block + x;
  vram__memory_zero(b, sizeof *b);
  b->address = address;
  b->size = bytes;
  b->stream = (uint8_t)stream;
  b->flags = (uint8_t)(VRAM__PIECE | flags | (small_pool ? (uint32_t)VRAM__SMALL_CLASS : 0u));
}

/* A segment that is one free block goes back to the device. */
static void vram__segment_leave(vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  p->backend.free(p->backend.user, b->address, b->size, p->stream[b->stream]);
  vram__reserve_less(p, small_pool, b->size);
  vram__stat_down(p->stats.segment, small_pool, 1);
  if (b->size >= p->options.max_split_size)
    vram__tally_down(&p->stats.oversize_segments, 1);
  vram__pool_tell(p, VRAM_ACTION_SEGMENT_FREE, b, b->size, 0, 0);
}

/* The device's memory for a segment that is one block; 0: there is none. */
static int vram__segment_come(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t *reserved = &p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  const uint64_t address = p->backend.alloc(p->backend.user, b->size, p->stream[b->stream]);
  if (!address)
    return 0;
  b->address = address;
  b->flags &= (uint8_t)~VRAM__AWAY;
  vram__reserve_more(p, small_pool, b->size);
  p->highest = *reserved > p->highest ? *reserved : p->highest;
  vram__stat_up(p->stats.segment, small_pool, 1);
  if (b->size >= p->options.max_split_size)
    vram__tally_up(&p->stats.oversize_segments, 1);
  vram__pool_tell(p, VRAM_ACTION_SEGMENT_ALLOC, b, b->size, 0, 0);
  return 1;
}

/* release_block: it is forgotten, too. */
static void vram__segment_free(vram_pool *p, uint32_t x) {
  vram__bins_remove(p, x);
  if (!(p->block[x].flags & VRAM__AWAY))
    vram__segment_leave(p, x);
  vram__block_gone(p, x);
}

static inline uint64_t vram__granule(const vram_pool *p, int small_pool) {
  return small_pool ? VRAM__SMALL_SEGMENT : p->options.large_segment_size;
}

/* map_block: the first bytes of an unmapped block get memory, in whole granules; it is free then,
   merged with its neighbours. Returns the free block, 0: no memory. */
static uint32_t vram__map(vram_pool *p, uint32_t x, uint64_t bytes) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t mapped = (bytes + granule - 1) / granule * granule;
  uint32_t rest;
  if (!p->backend.map(p->backend.user, b->address, mapped, granule))
    return 0;
  vram__tree_remove(p->block, vram__unmapped_of(p, b), x);
  if (mapped < b->size) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, mapped);
    vram__tree_add(p->block, vram__unmapped_of(p, b), rest);
  }
  b->flags |= VRAM__MAPPED;
  vram__reserve_more(p, small_pool, mapped);
  vram__pool_tell(p, VRAM_ACTION_SEGMENT_MAP, b, mapped, 0, 0);
  vram__merge(p, x, b->prev);
  vram__merge(p, x, b->next);
  vram__bins_add(p, x);
  return x;
}

/* unmap_block: what a free block covers of whole granules goes back; the ends stay. */
static void vram__unmap(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t from = (b->address - b->skew + granule - 1) / granule * granule + b->skew;
  const uint64_t to = (b->address + b->size - b->skew) / granule * granule + b->skew;
  uint32_t rest;
  if (from >= to || vram__block_room(p) < VRAM__POOL_SPARE + 2)
    return;
  vram__bins_remove(p, x);
  if (from > b->address) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, from - b->address);
    vram__bins_add(p, x);
    x = rest;
    b = p->block + x;
  }
  if (to < b->address + b->size) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, to - from);
    vram__bins_add(p, rest);
  }
  p->backend.unmap(p->backend.user, b->address, b->size, granule);
  vram__reserve_less(p, small_pool, b->size);
  vram__pool_tell(p, VRAM_ACTION_SEGMENT_UNMAP, b, b->size, 0, 0);
  b->flags &= (uint8_t)~VRAM__MAPPED;
  vram__merge(p, x, b->prev);
  vram__merge(p, x, b->next);
  vram__tree_add(p->block, vram__unmapped_of(p, b), x);
}

/* ---- what waits for streams */

/* free_block: nobody uses it any more. */
static void vram__block_free(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t address = b->address, size = b->size;
  uint64_t merged, bytes = 0, count = 0;
  int64_t split_bytes = 0;
  int32_t split = 0;
  int side;
  vram__count_down(p, p->stats.active, small_pool, 1);
  vram__count_down(p, p->stats.active_bytes, small_pool, b->size);
  vram__count_down(p, p->stats.requested_bytes, small_pool, b->requested);
  b->flags &= (uint8_t)~VRAM__PENDING;
  p->handed[x / 64] &= ~(UINT64_C(1) << x % 64);
  for (side = 0; side < 2; side++) {
    merged = vram__merge(p, x, side ? b->next : b->prev);
    count += merged != 0;
    bytes += merged;
  }
  vram__bins_add(p, x);
  if (!(b->flags & VRAM__EXPANDABLE)) {
    if (count) {
      vram__count_down(p, p->stats.inactive_split, small_pool, count);
      vram__count_down(p, p->stats.inactive_split_bytes, small_pool, bytes);
    }
    split = -(int32_t)count;
    split_bytes = -(int64_t)bytes;
    if (vram__is_split(b)) {
      vram__count_up(p, p->stats.inactive_split, small_pool, 1);
      vram__count_up(p, p->stats.inactive_split_bytes, small_pool, b->size);
      split++;
      split_bytes += (int64_t)b->size;
    }
  }
  if (p->options.event) { /* as it was */
    vram__block was = *b;
    was.address = address;
    was.size = size;
    vram__pool_event(p, VRAM_ACTION_FREE, &was, b->requested, split_bytes, split);
  }
}

/* insert_events: an entry in the queue of each stream that uses the block. */
static void vram__block_wait(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  uint32_t i, entry;
  b->link = 0;
  for (i = 0; i < p->nstream; i++) {
    uint64_t event;
    if (!(b->use.streams >> i & 1))
      continue;
    event = p->backend.record(p->backend.user, p->stream[i]);
    if (!event)
      continue;                                    /* its bit stays */
    if (vram__block_room(p) <= VRAM__POOL_SPARE) { /* no place for an entry: it waits here */
      if (p->backend.done(p->backend.user, event, 1))
        b->use.streams &= ~(UINT64_C(1) << i);
      continue;
    }
    entry = vram__block_new(p);
    p->block[entry].flags = 0;
    p->block[entry].address = event;
    p->block[entry].link = x;
    p->block[entry].next = 0;
    if (p->last[i])
      p->block[p->last[i]].next = entry;
    else
      p->first[i] = entry;
    p->last[i] = entry;
    p->waiting++;
    b->use.streams &= ~(UINT64_C(1) << i);
    b->link++;
  }
  if (b->use.streams)
    p->stuck++;
  else if (!b->link)
    vram__block_free(p, x);
}

/* process_events: each queue up to the first event that is not done. With `wait`
   (synchronize_and_free_events) all of them, and what could not be recorded. */
static void vram__poll(vram_pool *p, int wait) {
  uint32_t i, x;
  for (i = 0; p->waiting && i < p->nstream; i++)
    while (p->first[i]) {
      const uint32_t entry = p->first[i];
      x = p->block[entry].link;
      if (!p->backend.done(p->backend.user, p->block[entry].address, wait))
        break;
      p->first[i] = p->block[entry].next;
      if (!p->first[i])
        p->last[i] = 0;
      vram__block_gone(p, entry);
      p->waiting--;
      if (!--p->block[x].link && !p->block[x].use.streams)
        vram__block_free(p, x);
    }
  for (x = 1; wait && p->stuck && x < p->nblock; x++) {
    vram__block *b = p->block + x;
    if (!(b->flags & VRAM__PENDING) || !b->use.streams)
      continue;
    for (i = 0; i < p->nstream; i++)
      if (b->use.streams >> i & 1) {
        const uint64_t event = p->backend.record(p->backend.user, p->stream[i]);
        if (event && p->backend.done(p->backend.user, event, 1))
          b->use.streams &= ~(UINT64_C(1) << i);
      }
    if (!b->use.streams) {
      p->stuck--;
      if (!b->link)
        vram__block_free(p, x);
    }
  }
}

/* ---- PyTorch's policy */

static uint64_t vram__round_request(const vram_pool *p, uint64_t bytes) {
  uint32_t i, divisions;
  uint64_t power, step;
  if (bytes < VRAM__MIN_BLOCK)
    return VRAM__MIN_BLOCK;
  i = vram__log2(bytes);
  i = i < 20 ? 0 : i > 35 ? 15 : i - 20; /* roundup_power2_divisions(size): from 1 MiB to 32 GiB */
  divisions = p->options.roundup_power2_divisions[i];
  if (divisions < 2 || bytes <= VRAM__MIN_BLOCK * divisions)
    return vram__block_bytes(bytes);
  if (!(bytes & (bytes - 1)))
    return bytes;
  power = UINT64_C(1) << vram__log2(bytes);
  step = power >> vram__log2(divisions);
  return (bytes + step - 1) / step * step;
}

static uint64_t vram__segment_size(const vram_pool *p, uint64_t size) { /* get_allocation_size */
  return size <= VRAM_SMALL_POOL_BYTES ? VRAM__SMALL_SEGMENT
         : size < VRAM__LARGE_REQUEST
             ? p->options.large_segment_size
             : (size + VRAM__SMALL_SEGMENT - 1) / VRAM__SMALL_SEGMENT * VRAM__SMALL_SEGMENT;
}

/* What a block of an expandable segment can grow to. */
static uint64_t vram__grown(const vram__block *b, uint32_t x) {
  const uint32_t next = b[x].next;
  return b[x].size + (next && !(b[next].flags & VRAM__MAPPED) ? b[next].size : 0);
}

/* get_free_block: the best fit of this stream and class, taken out; 0: none. */
static uint32_t vram__find_free(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const vram_pool_options *o = &p->options;
  const vram__block *b = p->block;
  uint32_t x, y;
  p->requests[small_pool]++;
  x = vram__bins_at_least(p, vram__bins_of(p, stream, small_pool), size);
  if (!x)
    return 0;
  if (o->expandable_segments)
    for (y = vram__bins_next(p, x); y && vram__grown(b, y) < vram__grown(b, x);
         y = vram__bins_next(p, y))
      x = y;
  if (size < o->max_split_size ? b[x].size >= o->max_split_size
                               : b[x].size >= size + o->max_non_split_rounding)
    return 0;
  vram__bins_remove(p, x);
  return x;
}

/* find_expandable_block: where `size` bytes of free and unmapped addresses lie in a row. */
static uint32_t vram__find_expandable(vram_pool *p, uint32_t stream, int small_pool,
                                      uint64_t size) {
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t total = p->options.total_bytes + p->options.total_bytes / 8;
  const uint64_t room = (total + granule - 1) / granule * granule;
  uint32_t *unmapped = &vram__bins_of(p, stream, small_pool)->unmapped;
  vram__block *b = p->block;
  uint64_t address;
  uint32_t x, y;
  for (x = vram__tree_end(b, *unmapped, 0); x; x = vram__tree_beside(b, *unmapped, x, 1)) {
    const uint32_t first = b[x].prev && !vram__is_handed(p, b[x].prev) ? b[x].prev : x;
    uint64_t free = 0;
    for (y = first; y && free < size && !vram__is_handed(p, y); y = b[y].next)
      free += b[y].size;
    if (free >= size)
      return first;
  }
  if (size > room)
    return 0;
  address = p->backend.reserve(p->backend.user, room);
  if (!address)
    return 0;
  x = vram__block_new(p);
  vram__piece_new(p, x, address, room, stream, small_pool, VRAM__EXPANDABLE);
  b[x].skew = (uint32_t)(address % granule);
  vram__tree_add(b, unmapped, x);
  return x;
}

static int vram__whole(const vram__block *b) {
  return !vram__is_split(b) && !(b->flags & VRAM__AWAY);
}

/* The smallest segment of at least so many bytes that is all free, else the largest; 0: none. */
static uint32_t vram__whole_segment(const vram_pool *p, uint64_t bytes) {
  const vram__block *b = p->block;
  uint32_t i, x, best = 0;
  for (i = 0; i < 2 * p->nstream; i++) {
    x = vram__bins_at_least(p, p->bins + i, bytes);
    while (x && !vram__whole(b + x))
      x = vram__bins_next(p, x);
    if (x && (!best || b[x].size < b[best].size))
      best = x;
  }
  if (best)
    return best;
  for (i = 0; i < 2 * p->nstream; i++) {
    x = vram__bins_last(p, p->bins + i);
    while (x && !vram__whole(b + x))
      x = b[x].size >= VRAM__SMALL_SEGMENT ? vram__bins_previous(p, x) : 0;
    if (x && (!best || b[x].size > b[best].size))
      best = x;
  }
  return best;
}

/* Before so many bytes come from the device. Policy BEST gives some back first, if more than ever
   would be reserved. */
static int vram__may_grow(vram_pool *p, uint64_t bytes) {
  const uint64_t *reserved = &p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  while (p->options.policy == VRAM_POOL_BEST && *reserved + bytes > p->highest &&
         p->credit >= VRAM__CREDIT) {
    const uint32_t x = vram__whole_segment(p, *reserved + bytes - p->highest);
    if (!x)
      break;
    vram__segment_leave(p, x);
    p->block[x].flags |= VRAM__AWAY;
    p->credit -= VRAM__CREDIT;
  }
  return !p->options.limit_bytes || *reserved + bytes <= p->options.limit_bytes;
}

/* Policy BEST: segments that are away are forgotten, to make room for blocks. */
static void vram__forget_away(vram_pool *p) {
  uint32_t i, x, next;
  for (i = 0; i < 2 * p->nstream; i++)
    for (x = vram__bins_from(p, p->bins + i, 0); x; x = next) {
      next = vram__bins_next(p, x);
      if (p->block[x].flags & VRAM__AWAY)
        vram__segment_free(p, x);
    }
}

/* alloc_block: more memory from the backend, in no bin; 0: there is none. */
static uint32_t vram__more_memory(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const uint64_t bytes = vram__segment_size(p, size);
  vram__block *b = p->block;
  uint32_t x;
  if (!vram__may_grow(p, bytes))
    return 0;
  if (p->options.expandable_segments) {
    x = vram__find_expandable(p, stream, small_pool, size);
    if (x && !(b[x].flags & VRAM__MAPPED))
      x = vram__map(p, x, b[x].size < size ? b[x].size : size);
    while (x && b[x].size < size) {
      const uint32_t next = b[x].next;
      const uint64_t rest = size - b[x].size;
      x = vram__map(p, next, b[next].size < rest ? b[next].size : rest);
    }
    if (x)
      vram__bins_remove(p, x);
    return x;
  }
  x = vram__block_new(p);
  vram__piece_new(p, x, 0, bytes, stream, small_pool, VRAM__MAPPED);
  if (p->options.policy == VRAM_POOL_BEST)
    b[x].serial = ++p->serial;
  if (vram__segment_come(p, x))
    return x;
  vram__block_gone(p, x);
  return 0;
}

/* garbage_collect_cached_blocks: whole large segments that are older than the average go until
   the threshold is met. */
static void vram__collect(vram_pool *p) {
  const uint64_t limit = p->options.limit_bytes, part = p->options.garbage_collection_threshold;
  const uint64_t threshold = limit / 1000000 * part + limit % 1000000 * part / 1000000;
  const uint64_t reserved = p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  const vram__block *b = p->block;
  uint64_t age = 0, count = 0, got = 0;
  uint32_t i, x, next;
  int any = 1;
  if (reserved <= threshold)
    return;
  for (i = 0; i < p->nstream; i++)
    for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], 0), 0); x; x = vram__bins_next(p, x))
      if (vram__whole(b + x)) {
        age += p->requests[0] - b[x].link;
        count++;
      }
  while (got < reserved - threshold && any && count) {
    const uint64_t total = age, of = count; /* older than total / of */
    any = 0;
    for (i = 0; i < p->nstream; i++)
      for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], 0), 0); x; x = next) {
        next = vram__bins_next(p, x);
        if (!vram__whole(b + x) || (b[x].flags & VRAM__EXPANDABLE) ||
            (p->requests[0] - b[x].link) * of < total)
          continue;
        any = 1;
        got += b[x].size;
        age -= p->requests[0] - b[x].link;
        count--;
        vram__segment_free(p, x);
      }
  }
}

/* release_available_cached_blocks: a block too large to split that is large enough, or the largest
   of them until they are. */
static int vram__release_some(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const uint64_t most = p->options.max_split_size, want = size < most ? most : size;
  const vram__bins *n = vram__bins_of(p, stream, small_pool);
  const vram__block *b = p->block;
  uint64_t got = 0;
  uint32_t x, next;
  if (most == UINT64_MAX || p->options.expandable_segments)
    return 0;
  x = vram__bins_at_least(p, n, want);
  while (x && !vram__whole(b + x)) /* PyTorch does not ask, and frees a piece of a segment */
    x = vram__bins_next(p, x);
  if (x) {
    vram__segment_free(p, x);
    return 1;
  }
  for (x = vram__bins_last(p, n); x && got < want && b[x].size >= most; x = next) {
    next = vram__bins_previous(p, x);
    if (!vram__whole(b + x))
      continue;
    got += b[x].size;
    vram__segment_free(p, x);
  }
  return got >= want;
}

/* release_cached_blocks: every segment that is one free block, every free granule. */
static void vram__release_all(vram_pool *p) {
  vram__block *b = p->block;
  int small_pool;
  uint32_t i, x, next, list;
  vram__poll(p, 1);
  for (small_pool = 0; small_pool < 2; small_pool++) { /* the large ones first */
    for (i = 0; i < p->nstream; i++)
      for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], small_pool), 0); x; x = next) {
        next = vram__bins_next(p, x);
        if (!(b[x].flags & VRAM__EXPANDABLE) && !vram__is_split(b + x))
          vram__segment_free(p, x);
      }
    for (i = 0; p->options.expandable_segments && i < p->nstream; i++) {
      vram__bins *n = vram__bins_of(p, p->order[i], small_pool);
      uint32_t *end = &list;
      list = 0; /* unmapping changes the bins */
      for (x = vram__bins_from(p, n, 0); x; x = vram__bins_next(p, x)) {
        *end = x;
        end = &b[x].link;
      }
      *end = 0;
      for (x = list; x; x = next) {
        next = b[x].link;
        vram__unmap(p, x);
      }
      for (x = vram__tree_end(b, n->unmapped, 0); x; x = next) {
        next = vram__tree_beside(b, n->unmapped, x, 1);
        if (vram__is_split(b + x))
          continue;
        vram__tree_remove(p->block, &n->unmapped, x);
        p->backend.unreserve(p->backend.user, b[x].address, b[x].size);
        vram__block_gone(p, x);
      }
    }
  }
}

/* Which of the pool's streams it is; a new one gets the next place. UINT32_MAX: too many. */
static uint32_t vram__stream_at(vram_pool *p, uint64_t stream) {
  uint32_t i, k;
  for (i = 0; i < p->nstream; i++)
    if (p->stream[i] == stream)
      return i;
  if (i == p->options.streams)
    return UINT32_MAX;
  p->stream[i] = stream;
  vram__memory_zero(p->bins + (size_t)2 * i, 2 * sizeof *p->bins);
  for (k = p->nstream++; k && p->stream[p->order[k - 1]] > stream; k--)
    p->order[k] = p->order[k - 1];
  p->order[k] = (uint8_t)i;
  return i;
}

/* A block of this size, in no bin; 0: there is no memory. */
static uint32_t vram__get_block(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  uint32_t x = vram__find_free(p, stream, small_pool, size);
  vram__block asked;
  if (x && (p->block[x].flags & VRAM__AWAY) &&
      !(vram__may_grow(p, p->block[x].size) && vram__segment_come(p, x))) {
    vram__bins_add(p, x);
    x = 0;
  }
  if (x)
    return x;
  if (p->options.limit_bytes && p->options.garbage_collection_threshold)
    vram__collect(p);
  x = vram__more_memory(p, stream, small_pool, size);
  if (!x && vram__release_some(p, stream, small_pool, size))
    x = vram__more_memory(p, stream, small_pool, size);
  if (x)
    return x;
  vram__release_all(p);
  p->stats.num_alloc_retries++;
  vram__memory_zero(&asked, sizeof asked);
  asked.size = vram__segment_size(p, size);
  asked.stream = (uint8_t)stream;
  asked.flags = small_pool ? VRAM__SMALL_CLASS : 0;
  vram__pool_tell(p, VRAM_ACTION_RETRY, &asked, asked.size, 0, 0);
  x = vram__more_memory(p, stream, small_pool, size);
  if (!x) {
    p->stats.num_ooms++;
    vram__pool_tell(p, VRAM_ACTION_OOM, &asked, asked.size, 0, 0);
  }
  return x;
}

/* A block was taken, and `rest` (0: nothing) cut from it: the change of free pieces of segments, in
   blocks; *bytes: in bytes. */
static inline int32_t vram__count_split(vram_pool *p, uint32_t x, uint32_t rest, int was_split,
                                        int64_t *bytes) {
  const vram__block *b = p->block;
  const int small_pool = vram__is_small(b + x);
  if (was_split) {
    vram__count_down(p, p->stats.inactive_split_bytes, small_pool, b[x].size);
    *bytes = -(int64_t)b[x].size;
    if (rest)
      return 0;
    vram__count_down(p, p->stats.inactive_split, small_pool, 1);
    return -1;
  }
  if (!rest)
    return 0;
  vram__count_up(p, p->stats.inactive_split_bytes, small_pool, b[rest].size);
  vram__count_up(p, p->stats.inactive_split, small_pool, 1);
  *bytes = (int64_t)b[rest].size;
  return 1;
}

/* vram_pool_alloc, known by its block. */
VRAM__FN vram_result vram__pool_get(vram_pool *p, uint64_t bytes, uint64_t stream,
                                    uint32_t *block) {
  vram__block *b = p->block;
  uint64_t size;
  int64_t split_bytes = 0;
  int32_t split = 0;
  uint32_t at, x, rest = 0;
  int small_pool, was_split;
  if (p->waiting)
    vram__poll(p, 0);
  if (bytes >= VRAM__LARGEST_REQUEST)
    return VRAM_ERR_MEMORY;
  at = vram__stream_at(p, stream);
  if (p->options.policy == VRAM_POOL_BEST) {
    p->credit += p->credit < VRAM__CREDIT_MOST;
    if (vram__block_room(p) < VRAM__POOL_SPARE)
      vram__forget_away(p);
  }
  if (at == UINT32_MAX || vram__block_room(p) < VRAM__POOL_SPARE)
    return VRAM_ERR_LIMIT;
  size = vram__round_request(p, bytes);
  small_pool = size <= VRAM_SMALL_POOL_BYTES;
  x = vram__get_block(p, at, small_pool, size);
  if (!x)
    return VRAM_ERR_MEMORY;
  was_split = vram__is_split(b + x);
  if (small_pool || p->options.expandable_segments
          ? b[x].size - size >= VRAM__MIN_BLOCK
          : size < p->options.max_split_size && b[x].size - size > VRAM_SMALL_POOL_BYTES) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, size);
    vram__bins_add(p, rest);
  }
  if (!(b[x].flags & VRAM__EXPANDABLE))
    split = vram__count_split(p, x, rest, was_split, &split_bytes);
  b[x].requested = bytes;
  b[x].use.streams = 0;
  p->handed[x / 64] |= UINT64_C(1) << x % 64;
  vram__count_up(p, p->stats.allocation, small_pool, 1);
  vram__stat_up(p->stats.allocated_bytes, small_pool, b[x].size);
  vram__count_up(p, p->stats.active, small_pool, 1);
  vram__count_up(p, p->stats.active_bytes, small_pool, b[x].size);
  vram__count_up(p, p->stats.requested_bytes, small_pool, bytes);
  if (b[x].size >= p->options.max_split_size)
    vram__tally_up(&p->stats.oversize_allocations, 1);
  vram__pool_tell(p, VRAM_ACTION_ALLOC, b + x, bytes, split_bytes, split);
  *block = x;
  return VRAM_OK;
}

/* vram_pool_free of what vram__pool_get gave. */
VRAM__FN void vram__pool_put(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  vram__count_down(p, p->stats.allocation, small_pool, 1);
  vram__stat_down(p->stats.allocated_bytes, small_pool, b->size);
  if (b->size >= p->options.max_split_size)
    vram__tally_down(&p->stats.oversize_allocations, 1);
  vram__pool_tell(p, VRAM_ACTION_FREE_REQUESTED, b, b->requested, 0, 0);
  if (b->use.streams) {
    b->flags |= VRAM__PENDING;
    vram__block_wait(p, x);
  } else
    vram__block_free(p, x);
}

VRAM_API vram_result vram_pool_alloc(vram_pool *p, uint64_t bytes, uint64_t stream,
                                     uint64_t *address) {
  uint32_t x;
  const vram_result r = vram__pool_get(p, bytes, stream, &x);
  *address = 0;
  if (r)
    return r;
  vram__hash_in(p, x);
  *address = p->block[x].address;
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_free(vram_pool *p, uint64_t address) {
  const uint32_t x = vram__handed(p, address);
  if (!x)
    return VRAM_ERR_VALUE;
  vram__unhash(p, x);
  vram__pool_put(p, x);
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_record_stream(vram_pool *p, uint64_t address, uint64_t stream) {
  const uint32_t x = vram__handed(p, address);
  uint32_t at;
  if (!x)
    return VRAM_ERR_VALUE;
  if (p->stream[p->block[x].stream] == stream)
    return VRAM_OK;
  if (!p->backend.record || !p->backend.done)
    return VRAM_ERR_UNSUPPORTED;
  at = vram__stream_at(p, stream);
  if (at == UINT32_MAX)
    return VRAM_ERR_LIMIT;
  p->block[x].use.streams |= UINT64_C(1) << at;
  return VRAM_OK;
}

VRAM_API void vram_pool_empty_cache(vram_pool *p) { vram__release_all(p); }

/* ---- what there is */

/* The mapped stretch of a segment that the block lies in; returns its first block. */
static uint32_t vram__stretch(const vram_pool *p, uint32_t x, uint64_t *bytes) {
  const vram__block *b = p->block;
  uint32_t first = x;
  while (b[first].prev && (b[b[first].prev].flags & VRAM__MAPPED))
    first = b[first].prev;
  *bytes = 0;
  for (x = first; x && (b[x].flags & VRAM__MAPPED); x = b[x].next)
    *bytes += b[x].size;
  return first;
}

static void vram__piece_of(const vram_pool *p, uint32_t x, vram_piece *piece) {
  const vram__block *b = p->block + x;
  piece->address = b->address;
  piece->bytes = b->size;
  piece->state = b->flags & VRAM__PENDING ? 2 : vram__is_handed(p, x);
  piece->requested = piece->state ? b->requested : 0;
  piece->stream = p->stream[b->stream];
  piece->small_pool = vram__is_small(b);
  piece->expandable = (b->flags & VRAM__EXPANDABLE) != 0;
}

VRAM_API int vram_pool_find(const vram_pool *p, uint64_t address, vram_piece *piece) {
  const uint32_t x = vram__handed(p, address);
  vram__memory_zero(piece, sizeof *piece);
  if (!x)
    return 0;
  piece->segment = p->block[vram__stretch(p, x, &piece->segment_bytes)].address;
  vram__piece_of(p, x, piece);
  return 1;
}

VRAM_API uint64_t vram_pool_largest_free(const vram_pool *p, const uint64_t *stream) {
  uint64_t most = 0;
  uint32_t i, x;
  int small_pool;
  for (i = 0; i < p->nstream; i++)
    for (small_pool = 0; small_pool < 2 && (!stream || *stream == p->stream[i]); small_pool++) {
      x = vram__bins_last(p, vram__bins_of(p, i, small_pool));
      while (x && (p->block[x].flags & VRAM__AWAY))
        x = vram__bins_previous(p, x);
      if (x && p->block[x].size > most)
        most = p->block[x].size;
    }
  return most;
}

VRAM_API int vram_pool_walk(const vram_pool *p, int (*visit)(void *user, const vram_piece *piece),
                            void *user) {
  const vram__block *b = p->block;
  vram_piece piece;
  uint32_t head, x;
  int end;
  for (head = 1; head < p->nblock; head++) {
    if (!(b[head].flags & VRAM__PIECE) || (b[head].flags & VRAM__AWAY) || b[head].prev)
      continue;
    for (x = head; x; x = b[x].next) {
      if (!(b[x].flags & VRAM__MAPPED))
        continue;
      if (x == head || !(b[b[x].prev].flags & VRAM__MAPPED)) {
        piece.segment = b[x].address;
        vram__stretch(p, x, &piece.segment_bytes);
      }
      vram__piece_of(p, x, &piece);
      end = visit(user, &piece);
      if (end)
        return end;
    }
  }
  return 0;
}

static uint32_t vram__pool_streams(uint32_t streams) { return streams ? streams : 16; }

static uint64_t vram__pool_slots(uint64_t blocks) {
  uint64_t slots = 16;
  while (slots < blocks)
    slots *= 2;
  return slots;
}

static uint64_t vram__handed_bytes(uint64_t blocks) { return (blocks + 63) / 64 * 8; }

VRAM_API uint64_t vram_pool_bytes(uint32_t blocks, uint32_t streams) {
  const uint64_t all = (uint64_t)blocks + VRAM__POOL_SPARE + 1;
  return 63 + all * sizeof(vram__block) + vram__handed_bytes(all) +
         vram__pool_slots(blocks) * sizeof(uint32_t) +
         (uint64_t)vram__pool_streams(streams) * 2 * sizeof(vram__bins);
}

static const char *vram__pool_options_bad(const vram_pool_options *o, const vram_backend *b) {
  uint32_t i;
  if (o->policy != VRAM_POOL_TORCH && o->policy != VRAM_POOL_BEST)
    return "no such policy";
  if (!b->alloc != !b->free || (!b->alloc && !o->expandable_segments))
    return "the backend needs alloc and free";
  if (o->expandable_segments && (!b->reserve || !b->unreserve || !b->map || !b->unmap))
    return "expandable_segments: the backend needs reserve, unreserve, map and unmap";
  if (o->expandable_segments && o->policy == VRAM_POOL_BEST)
    return "policy BEST has no expandable_segments";
  if (o->expandable_segments && !o->total_bytes)
    return "expandable_segments: total_bytes must be the device's memory";
  if (!b->record != !b->done)
    return "the backend needs both record and done, or neither";
  if (o->streams > VRAM_POOL_STREAMS)
    return "streams must be 64 at most";
  if (o->max_split_size && o->max_split_size < VRAM__LARGE_SEGMENT)
    return "max_split_size must be 20 MiB or more";
  if (o->large_segment_size &&
      (o->large_segment_size < VRAM__LARGE_SEGMENT || o->large_segment_size > UINT32_MAX ||
       o->large_segment_size % VRAM__SMALL_SEGMENT))
    return "large_segment_size must be a multiple of 2 MiB from 20 MiB to 4 GiB";
  if (o->garbage_collection_threshold >= 1000000)
    return "garbage_collection_threshold must be below 1000000 millionths";
  if (o->limit_bytes > (uint64_t)VRAM_MAX_BYTES || o->total_bytes > (uint64_t)VRAM_MAX_BYTES)
    return "limit_bytes and total_bytes must be below 2^63";
  for (i = 0; i < 16; i++)
    if (o->roundup_power2_divisions[i] & (o->roundup_power2_divisions[i] - 1))
      return "roundup_power2_divisions must be powers of 2";
  return NULL;
}

VRAM_API vram_result vram_pool_init(vram_pool *p, const vram_pool_options *o,
                                    const vram_backend *backend, void *mem, uint64_t bytes,
                                    vram_error *err) {
  const uint64_t skip = (64 - (uint64_t)(uintptr_t)mem % 64) % 64;
  const uint64_t max = UINT32_MAX - 2 * VRAM__POOL_SPARE;
  const char *bad;
  uint8_t *at = (uint8_t *)mem + skip;
  uint64_t blocks, slots;
  vram__error_clear(err);
  vram__memory_zero(p, sizeof *p);
  if (o)
    p->options = *o;
  o = &p->options;
  bad = vram__pool_options_bad(o, backend);
  if (bad)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, bad);
  p->backend = *backend;
  p->options.streams = vram__pool_streams(o->streams);
  if (!o->max_split_size)
    p->options.max_split_size = UINT64_MAX;
  if (!o->max_non_split_rounding)
    p->options.max_non_split_rounding = VRAM__LARGE_SEGMENT;
  if (!o->large_segment_size)
    p->options.large_segment_size = VRAM__LARGE_SEGMENT;
  if (!mem || bytes < vram_pool_bytes(1, o->streams))
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, "less memory than vram_pool_bytes says");
  /* as many blocks as fit: slots are a power of two */
  blocks = bytes / sizeof(vram__block);
  blocks = blocks < max ? blocks : max;
  while (vram_pool_bytes((uint32_t)blocks, o->streams) > bytes)
    blocks -= (vram_pool_bytes((uint32_t)blocks, o->streams) - bytes) / 128 + 1;
  slots = vram__pool_slots(blocks);
  p->block = (vram__block *)(void *)at;
  at += (blocks + VRAM__POOL_SPARE + 1) * sizeof(vram__block);
  p->bins = (vram__bins *)(void *)at;
  at += (uint64_t)o->streams * 2 * sizeof(vram__bins);
  p->handed = (uint64_t *)(void *)at;
  at += vram__handed_bytes(blocks + VRAM__POOL_SPARE + 1);
  p->hash = (uint32_t *)(void *)at;
  p->mask = (uint32_t)(slots - 1);
  vram__memory_zero(p->handed, vram__handed_bytes(blocks + VRAM__POOL_SPARE + 1));
  vram__memory_zero(p->hash, slots * sizeof *p->hash);
  vram__memory_zero(p->block, sizeof *p->block);
  p->cap = (uint32_t)blocks + VRAM__POOL_SPARE + 1;
  p->nblock = 1;
  p->credit = VRAM__CREDIT_MOST;
  return VRAM_OK;
}
