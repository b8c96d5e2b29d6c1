/* >>plan/arena    offsets for buffers with known lifetimes: sections, bounds, greedy orders
   Time is cut into sections: maximal sets of buffers that live at once. Greedy orders give a
   plan, a search of plans in which every buffer rests on another one or on the floor improves
   it. */
#include "plan/plan.h"

/* Stable: equal keys stay as they were. */
VRAM__FN void vram__sort(vram__key_at *a, vram__key_at *spare, uint32_t n) {
  uint32_t width, i;
  int sorted = 1;
  for (i = 1; i < n && sorted; i++)
    sorted = a[i - 1].key <= a[i].key;
  for (width = 1; width < n && !sorted; width = width > n / 2 ? n : 2 * width) {
    for (i = 0; i < n;) {
      const uint32_t mid = n - i > width ? i + width : n, end = n - mid > width ? mid + width : n;
      uint32_t p = i, q = mid, k;
      for (k = i; k < end; k++)
        spare[k] = q >= end || (p < mid && a[p].key <= a[q].key) ? a[p++] : a[q++];
      i = end;
    }
    for (i = 0; i < n; i++)
      a[i] = spare[i];
  }
}

VRAM__FN uint64_t vram__align_up(uint64_t x, uint64_t align) {
  return (x + align - 1) & ~(align - 1);
}

/* Cuts time into sections. */
VRAM__FN void vram__sections(vram__arena *a) {
  uint32_t i, k = 0;
  int ended = 0;
  for (i = 0; i < a->n; i++) { /* at one time ends come before beginnings */
    a->key[i].key = a->brick[i].end;
    a->key[i].at = i;
    a->key[a->n + i].key = a->brick[i].begin;
    a->key[a->n + i].at = a->n + i;
  }
  vram__sort(a->key, a->spare, 2 * a->n);
  for (i = 0; i < 2 * a->n; i++) {
    const uint32_t at = a->key[i].at;
    if (at < a->n) {
      a->brick[at].last = k + 1;
      ended = 1;
    } else {
      k += (uint32_t)ended;
      ended = 0;
      a->brick[at - a->n].first = k;
    }
  }
  a->sections = k + 1;
}

/* The largest value of sections first to last - 1. */
static uint64_t vram__tree_most(const uint64_t *tree, uint32_t n, uint32_t first, uint32_t last) {
  uint64_t most = 0;
  for (first += n, last += n; first < last; first /= 2, last /= 2) {
    if (first & 1) {
      most = most > tree[first] ? most : tree[first];
      first++;
    }
    if (last & 1) {
      last--;
      most = most > tree[last] ? most : tree[last];
    }
  }
  return most;
}

/* The height of the best plan of a->brick. */
VRAM__FN uint64_t vram__arena_height(const vram__arena *a) {
  uint64_t height = 0;
  uint32_t i;
  for (i = 0; i < a->n; i++)
    if (a->brick[i].best + a->brick[i].bytes > height)
      height = a->brick[i].best + a->brick[i].bytes;
  return height;
}

VRAM__FN uint64_t vram__arena_unit(const vram__arena *a) {
  uint64_t unit = a->brick[0].align;
  uint32_t i;
  for (i = 1; i < a->n; i++)
    unit = unit < a->brick[i].align ? unit : a->brick[i].align;
  return unit;
}

/* What lives in every section, and the bound: all offsets are multiples of the smallest alignment,
   so all that lives at once is rounded up to it, but the uppermost: that may be the one that gains
   most by rounding. */
VRAM__FN void vram__arena_bound(vram__arena *a) {
  const uint64_t unit = vram__arena_unit(a);
  const uint32_t n = a->sections;
  uint32_t i, k;
  int slack = 0;
  for (i = 0; i <= n; i++)
    a->sum[i] = 0;
  for (i = 0; i < a->n; i++) {
    const vram__brick *b = a->brick + i;
    const uint64_t bytes = vram__align_up(b->bytes, unit);
    a->sum[b->first] += bytes;
    a->sum[b->last] -= bytes;
    slack |= bytes != b->bytes;
    a->key[i].key = ~(bytes - b->bytes);
    a->key[i].at = i;
  }
  for (i = 1; i <= n; i++)
    a->sum[i] += a->sum[i - 1];
  for (i = 0; i < n; i++)
    a->tree[n + i] = a->sum[i];
  for (i = n - 1; i; i--) {
    const uint64_t *two = a->tree + 2 * (uint64_t)i;
    a->tree[i] = two[0] > two[1] ? two[0] : two[1];
  }
  for (i = 0; i < a->n; i++)
    a->brick[i].load = vram__tree_most(a->tree, n, a->brick[i].first, a->brick[i].last);
  if (slack) { /* the largest of every section first; next: the next section without one */
    vram__sort(a->key, a->spare, a->n);
    for (i = 0; i <= n; i++)
      a->next[i] = i;
    for (i = 0; i < a->n; i++) {
      const vram__brick *b = a->brick + a->key[i].at;
      for (k = b->first;;) {
        while (a->next[k] != k)
          k = a->next[k] = a->next[a->next[k]];
        if (k >= b->last)
          break;
        a->sum[k] -= ~a->key[i].key;
        a->next[k] = k + 1;
      }
    }
  }
  for (a->bound = 0, i = 0; i < n; i++)
    a->bound = a->bound > a->sum[i] ? a->bound : a->sum[i];
  for (i = 0; i < a->n; i++)
    if (a->brick[i].pinned && a->brick[i].at + a->brick[i].bytes > a->bound)
      a->bound = a->brick[i].at + a->brick[i].bytes;
}

/* ---- skyline: a height for each of n sections, in a tree ---- */

/* mem: for 4 n numbers. All heights are 0. */
VRAM__FN void vram__skyline_clear(vram__skyline *s, uint64_t *mem, uint32_t n) {
  uint64_t i;
  s->n = n;
  s->most = mem;
  s->full = mem + 2 * (uint64_t)n;
  for (i = 0; i < 4 * (uint64_t)n; i++)
    mem[i] = 0;
}

/* The largest height of sections first to last - 1. */
VRAM__FN uint64_t vram__skyline_top(const vram__skyline *s, uint32_t first, uint32_t last) {
  uint64_t top = vram__tree_most(s->most, s->n, first, last);
  uint32_t l, r;
  for (l = first + s->n, r = last + s->n - 1; l; l /= 2, r /= 2) {
    top = top > s->full[l] ? top : s->full[l];
    top = top > s->full[r] ? top : s->full[r];
  }
  return top;
}

static void vram__skyline_node(vram__skyline *s, uint32_t node, uint64_t height) {
  s->full[node] = s->full[node] > height ? s->full[node] : height;
  s->most[node] = s->most[node] > height ? s->most[node] : height;
}

/* Sections first to last - 1 become at least so high. */
VRAM__FN void vram__skyline_raise(vram__skyline *s, uint32_t first, uint32_t last,
                                  uint64_t height) {
  uint32_t l, r;
  for (l = first + s->n, r = last + s->n; l < r; l /= 2, r /= 2) {
    if (l & 1)
      vram__skyline_node(s, l++, height);
    if (r & 1)
      vram__skyline_node(s, --r, height);
  }
  for (l = (first + s->n) / 2, r = (last + s->n - 1) / 2; l; l /= 2, r /= 2) {
    s->most[l] = s->most[l] > height ? s->most[l] : height;
    s->most[r] = s->most[r] > height ? s->most[r] : height;
  }
}

/* ---- greedy ---- */

VRAM__FN void vram__placed_clear(vram__arena *a) {
  a->chunks = 1;
  a->chunk_first = 0;
  a->chunk->n = 0;
  a->chunk->next = VRAM__NONE;
  a->chunk->first = a->chunk->soonest = UINT32_MAX;
  a->chunk->last = 0;
}

/* What a chunk has in common. */
static void vram__chunk_hull(vram__chunk *c) {
  uint32_t i;
  c->first = c->soonest = UINT32_MAX;
  c->last = 0;
  for (i = 0; i < c->n; i++) {
    const vram__placed *p = c->placed + i;
    c->first = c->first < p->first ? c->first : p->first;
    c->last = c->last > p->last ? c->last : p->last;
    c->soonest = c->soonest < p->last ? c->soonest : p->last;
  }
}

/* Puts a block, placed, into the list, in chunk `from` or behind it. */
VRAM__FN void vram__placed_add(vram__arena *a, const vram__brick *b, uint32_t from) {
  vram__chunk *c = a->chunk + from;
  uint32_t i, k;
  for (k = c->next; k != VRAM__NONE; k = a->chunk[k].next) {
    if (!a->chunk[k].n)
      continue;
    if (a->chunk[k].placed[0].at > b->at)
      break;
    c = a->chunk + k;
  }
  if (c->n == VRAM__ARENA_CHUNK) {
    vram__chunk *d = a->chunk + a->chunks;
    d->n = VRAM__ARENA_CHUNK / 2;
    c->n = VRAM__ARENA_CHUNK - d->n;
    for (i = 0; i < d->n; i++)
      d->placed[i] = c->placed[c->n + i];
    d->next = c->next;
    c->next = a->chunks++;
    vram__chunk_hull(c);
    vram__chunk_hull(d);
    if (d->placed[0].at <= b->at)
      c = d;
  }
  for (i = c->n++; i && c->placed[i - 1].at > b->at; i--)
    c->placed[i] = c->placed[i - 1];
  c->placed[i].at = b->at;
  c->placed[i].end = b->at + b->bytes;
  c->placed[i].first = b->first;
  c->placed[i].last = b->last;
  c->first = c->first < b->first ? c->first : b->first;
  c->last = c->last > b->last ? c->last : b->last;
  c->soonest = c->soonest < b->last ? c->soonest : b->last;
}

/* Drops what has ended by then. */
static void vram__chunk_forget(vram__chunk *c, uint32_t now) {
  uint32_t i, n = 0;
  for (i = 0; i < c->n; i++)
    if (c->placed[i].last > now)
      c->placed[n++] = c->placed[i];
  c->n = n;
  vram__chunk_hull(c);
}

/* Places one block into the first gap or the smallest one that holds it, below `limit`; 0: there
   is none. in_order: blocks come in the order in which they begin. */
VRAM__FN int vram__place(vram__arena *a, vram__brick *b, int fit, int in_order, uint64_t limit) {
  const uint32_t first = b->first, last = b->last;
  const uint64_t align = b->align, bytes = b->bytes;
  uint64_t low = 0, least = UINT64_MAX;
  uint32_t i, k = a->chunk_first, from = k, low_from = k;
  for (; k != VRAM__NONE; k = a->chunk[k].next) {
    vram__chunk *c = a->chunk + k;
    if (in_order && c->soonest <= first)
      vram__chunk_forget(c, first);
    if (c->first >= last || c->last <= first) {
      a->scans++;
      continue;
    }
    a->scans += c->n;
    for (i = 0; i < c->n; i++) {
      const vram__placed *p = c->placed + i;
      if (p->first >= last || p->last <= first)
        continue;
      if (p->at >= low && p->at - low >= bytes && p->at - low < least) {
        b->at = low;
        from = low_from;
        least = p->at - low;
        if (fit == VRAM__FIT_FIRST || least == bytes)
          goto found;
      }
      if (p->end > low) {
        low = vram__align_up(p->end, align);
        low_from = k;
        if (low >= limit) /* nothing above is of use */
          goto end;
      }
    }
  }
end:
  if (least == UINT64_MAX) {
    if (low > limit || bytes > limit - low)
      return 0;
    b->at = low;
    from = low_from;
  }
found:
  vram__placed_add(a, b, from);
  return 1;
}

static uint64_t vram__order_key(const vram__brick *b, char letter) {
  const uint64_t width = b->last - b->first;
  switch (letter) {
  case VRAM__BY_SIZE:
    return ~b->bytes;
  case VRAM__BY_WIDTH:
    return ~width;
  case VRAM__BY_AREA:
    return ~vram__product_or_overflow(b->bytes, width);
  case VRAM__BY_LOAD:
  case VRAM__BY_LOAD_ONCE:
    return ~b->load;
  case VRAM__BY_BEGIN:
    return b->first;
  case VRAM__BY_ALIGN:
    return b->align << 1 | b->pinned;
  case VRAM__BY_DURATION:
    return ~(b->end - b->begin);
  case VRAM__BY_VOLUME:
    return ~vram__product_or_overflow(b->bytes, b->end - b->begin);
  case VRAM__BY_ROUNDED:
    return ~vram__align_up(b->bytes, b->align);
  case VRAM__BY_INDEX:
    return ~(uint64_t)b->buffer;
  case VRAM__BY_NEIGHBOURS:
    return ~(uint64_t)b->meets;
  default: /* VRAM__BY_END */
    return ~(uint64_t)b->last;
  }
}

/* Makes a->key the blocks in an order. */
VRAM__FN void vram__arena_order(vram__arena *a, const char *letters) {
  uint32_t i, k = vram__text_len(letters);
  for (i = 0; i < a->n; i++)
    a->key[i].at = i;
  while (k--) {
    for (i = 0; i < a->n; i++)
      a->key[i].key = vram__order_key(a->brick + a->key[i].at, letters[k]);
    vram__sort(a->key, a->spare, a->n);
  }
}

VRAM__FN int vram__arena_stop(vram__arena *a) {
  if (!a->stopped && a->o->stop && a->o->stop(a->o->user))
    a->stopped = 1;
  return a->stopped;
}

/* The plan of a->at is the best one if it is lower. */
static int vram__greedy_keep(vram__arena *a, uint64_t height) {
  uint32_t i;
  if (height >= a->height)
    return 0;
  a->height = height;
  for (i = 0; i < a->n; i++)
    a->brick[i].best = a->brick[i].at;
  return 1;
}

/* One plan in the order of a->key, kept if it is lower than the best. It is given up when so many
   placed buffers were looked at. */
static void vram__greedy(vram__arena *a, int fit, int in_order, uint64_t scans) {
  uint64_t height = 0;
  uint32_t i;
  scans += a->scans;
  vram__placed_clear(a);
  for (i = 0; i < a->n; i++)
    if (a->brick[i].pinned) {
      vram__placed_add(a, a->brick + i, a->chunk_first);
      if (a->brick[i].at + a->brick[i].bytes > height)
        height = a->brick[i].at + a->brick[i].bytes;
    }
  for (i = 0; i < a->n; i++) {
    vram__brick *b = a->brick + a->key[i].at;
    if (b->pinned)
      continue;
    if (!vram__place(a, b, fit, in_order, a->height - 1) || a->scans > scans ||
        ((i & 1023) == 1023 && a->height != UINT64_MAX && vram__arena_stop(a)))
      return;
    if (b->at + b->bytes > height)
      height = b->at + b->bytes;
  }
  vram__greedy_keep(a, height);
}

/* A plan in the order of a->key without a search for gaps: each buffer comes to lie on the highest
   one of its time. The time is that of a sort. */
static void vram__stack(vram__arena *a) {
  vram__skyline taken;
  uint64_t height = 0;
  uint32_t i;
  int pinned;
  vram__skyline_clear(&taken, a->tree, a->sections);
  for (pinned = 1; pinned >= 0; pinned--)
    for (i = 0; i < a->n; i++) {
      vram__brick *b = a->brick + a->key[i].at;
      if (b->pinned != pinned)
        continue;
      if (!pinned)
        b->at = vram__align_up(vram__skyline_top(&taken, b->first, b->last), b->align);
      vram__skyline_raise(&taken, b->first, b->last, b->at + b->bytes);
      height = height > b->at + b->bytes ? height : b->at + b->bytes;
    }
  vram__greedy_keep(a, height);
}

/* The best plan of all orders, or of the one that is asked for. Where the first one takes too long
   there are those of stacks; without a plan of the one that is asked for, a->height stays
   UINT64_MAX. */
VRAM__FN void vram__portfolio(vram__arena *a, uint64_t enough) {
  static const struct {
    char letters[4];
    uint8_t fit, in_order;
  } way[] = {
#define VRAM__X(id, letters, fit, in_order) {letters, VRAM__FIT_##fit, in_order},
      VRAM_ARENA_ORDERS(VRAM__X)
#undef VRAM__X
  };
  static const char stack[][4] = {"TWS", "WS", "AS", "TSB"};
  const uint32_t only = (uint32_t)a->o->order;
  const uint32_t end = only ? only : (uint32_t)(sizeof way / sizeof *way);
  uint32_t i;
  a->height = UINT64_MAX;
  a->scans = 0;
  for (i = only ? only - 1 : 0; i < end; i++) { /* there is a plan, whatever is enough */
    const int has_plan = a->height != UINT64_MAX;
    if (i && !only && (a->height <= enough || a->scans > VRAM__ARENA_SCANS || vram__arena_stop(a)))
      break;
    vram__arena_order(a, way[i].letters);
    vram__greedy(a, way[i].fit, way[i].in_order,
                 has_plan ? VRAM__ARENA_SCANS - a->scans : VRAM__ARENA_FIRST_SCANS);
  }
  if (a->height == UINT64_MAX && !only)
    for (i = 0; i < sizeof stack / sizeof *stack && a->height > enough; i++) {
      vram__arena_order(a, stack[i]);
      vram__stack(a);
    }
}
