/* >>arena (Implementation) ---------------------------------------------------------------------
   Time is cut into sections: maximal sets of buffers that live at once. Greedy orders give a plan,
   a search of plans in which every buffer rests on another one or on the floor improves it. */

enum { VRAM__ARENA_CHUNK = 128 };
#define VRAM__ARENA_EXACT UINT32_C(1536) /* as many buffers the search takes */
#define VRAM__ARENA_NODES UINT64_C(1000000)
/* of placed buffers, by all greedy orders together */
#define VRAM__ARENA_SCANS UINT64_C(400000000)
#define VRAM__NONE UINT32_MAX

typedef struct vram__key_at { /* what is sorted: by key, then as it was */
  uint64_t key;
  uint32_t at;
} vram__key_at;

typedef struct vram__brick { /* a buffer as the planner sees it */
  uint64_t bytes, align;
  uint64_t at, best; /* offset in the plan that is being made, in the best one */
  uint64_t begin, end;
  uint64_t load;        /* the most that lives at once while it does */
  uint32_t first, last; /* lives in sections first to last - 1 */
  uint32_t buffer, group;
  uint32_t meets; /* neighbours in time */
  uint8_t pinned;
} vram__brick;

typedef struct vram__placed {
  uint64_t at, end;
  uint32_t first, last;
} vram__placed;

typedef struct vram__chunk { /* of the list of what is placed, by offset */
  uint32_t n, next;
  uint32_t first, last, soonest; /* sections of all of it, the earliest end */
  vram__placed placed[VRAM__ARENA_CHUNK];
} vram__chunk;

typedef struct vram__item { /* a brick */
  uint64_t bytes, span;     /* span: rounded up to the smallest alignment */
  uint64_t align, at;
  uint32_t first, last;
  uint32_t brick;
  uint32_t twin; /* the one before of same size and time, VRAM__NONE: none */
  uint8_t pinned, placed;
} vram__item;

typedef struct vram__loose { /* an unplaced item in a list: by lowest offset */
  uint64_t low;
  uint16_t item, rank; /* rank: the least is preferred */
} vram__loose;

typedef struct vram__choice { /* what to place next of a list of unplaced items */
  uint64_t at;                /* where the last one tried is, or the one placed before the list */
  uint64_t top;               /* an item placed from here on leaves room for another below it */
  uint64_t least;             /* the smallest item */
  uint32_t tried, rank;       /* the item; rank: what is tried at `at` from now on */
  uint32_t list, n;
  uint32_t room;   /* where the lists of the next choices go */
  uint32_t end;    /* of those lists */
  uint32_t parent; /* the choice that this list is a part of what is left of */
  int alone;       /* the item tried has no unplaced neighbours */
} vram__choice;

typedef struct vram__arena {
  const vram_arena_options *o;
  vram__brick *brick; /* of the bank that is planned */
  uint32_t n, sections;
  vram__key_at *key, *spare;
  uint64_t *sum;  /* that lives in every section */
  uint64_t *tree; /* maxima of ranges of sections */
  uint32_t *next;
  vram__chunk *chunk;
  uint32_t chunks, chunk_first;
  uint64_t scans, nodes;
  int stopped;
  uint64_t height, bound; /* of the bank that is planned */
  /* the search: */
  vram__item *item;
  vram__choice *choice;
  vram__loose *loose, *moved;
  uint64_t *level;
  uint16_t *skipped;
  uint32_t *cross;       /* how many unplaced items live at the end of a section and behind it */
  uint32_t section;      /* the first one of the part that is searched */
  uint64_t slack, above; /* above: the least height that was too much */
  int by_load;           /* ranks follow what still lives at once */
} vram__arena;

/* Stable: equal keys stay as they were. */
static void vram__sort(vram__key_at *a, vram__key_at *spare, uint32_t n) {
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

static uint64_t vram__align_up(uint64_t x, uint64_t align) {
  return (x + align - 1) & ~(align - 1);
}

static int vram__arena_error(vram_error *e, vram_result code, uint32_t line, const char *what) {
  uint32_t n = 0;
  e->code = code;
  e->line = line;
  vram__puts(e->text, sizeof e->text, &n, what);
  return 0;
}

static void vram__arena_more(vram_error *e, const char *what, uint64_t number) {
  uint32_t n = vram__len(e->text);
  vram__puts(e->text, sizeof e->text, &n, what);
  vram__putu(e->text, sizeof e->text, &n, number);
}

/* Cuts time into sections. */
static void vram__sections(vram__arena *a) {
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

static uint64_t vram__arena_unit(const vram__arena *a) {
  uint64_t unit = a->brick[0].align;
  uint32_t i;
  for (i = 1; i < a->n; i++)
    unit = unit < a->brick[i].align ? unit : a->brick[i].align;
  return unit;
}

/* What lives in every section, and the bound: all offsets are multiples of the smallest alignment,
   so all that lives at once is rounded up to it, but the uppermost: that may be the one that gains
   most by rounding. */
static void vram__arena_bound(vram__arena *a) {
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

/* ---- greedy ---- */

static void vram__placed_clear(vram__arena *a) {
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
static void vram__placed_add(vram__arena *a, const vram__brick *b, uint32_t from) {
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

enum { VRAM__FIT_FIRST, VRAM__FIT_BEST };

/* Places one block into the first gap or the smallest one that holds it, below `limit`; 0: there
   is none. in_order: blocks come in the order in which they begin. */
static int vram__place(vram__arena *a, vram__brick *b, int fit, int in_order, uint64_t limit) {
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

/* Keys of orders: each letter one, the first decides. */
static uint64_t vram__order_key(const vram__brick *b, char letter) {
  const uint64_t width = b->last - b->first;
  switch (letter) {
  case 'S': /* size */
    return ~b->bytes;
  case 'W': /* width in time */
    return ~width;
  case 'A': /* area */
    return ~vram__mul(b->bytes, width);
  case 'T': /* the most that lives at once */
  case 't':
    return ~b->load;
  case 'B': /* begin */
    return b->first;
  case 'L': /* alignment, what is pinned apart */
    return b->align << 1 | b->pinned;
  case 'w': /* the same in the caller's time */
    return ~(b->end - b->begin);
  case 'a':
    return ~vram__mul(b->bytes, b->end - b->begin);
  case 'R': /* size, rounded up */
    return ~vram__align_up(b->bytes, b->align);
  case 'I': /* the later ones of the caller first */
    return ~(uint64_t)b->buffer;
  case 'O': /* neighbours */
    return ~(uint64_t)b->meets;
  default: /* end */
    return ~(uint64_t)b->last;
  }
}

/* Makes a->key the blocks in an order. */
static void vram__arena_order(vram__arena *a, const char *letters) {
  uint32_t i, k = vram__len(letters);
  for (i = 0; i < a->n; i++)
    a->key[i].at = i;
  while (k--) {
    for (i = 0; i < a->n; i++)
      a->key[i].key = vram__order_key(a->brick + a->key[i].at, letters[k]);
    vram__sort(a->key, a->spare, a->n);
  }
}

static int vram__arena_stop(vram__arena *a) {
  if (!a->stopped && a->o->stop && a->o->stop(a->o->user))
    a->stopped = 1;
  return a->stopped;
}

/* One plan in the order of a->key, if it is lower than the best; 0: given up. */
static int vram__greedy(vram__arena *a, int fit, int in_order, uint64_t scans) {
  uint64_t height = 0;
  uint32_t i;
  scans = scans > UINT64_MAX - a->scans ? UINT64_MAX : a->scans + scans;
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
      return 0;
    if (b->at + b->bytes > height)
      height = b->at + b->bytes;
  }
  if (height >= a->height)
    return 0;
  a->height = height;
  for (i = 0; i < a->n; i++)
    a->brick[i].best = a->brick[i].at;
  return 1;
}

/* The best plan of all orders, or of the one that is asked for. */
static void vram__portfolio(vram__arena *a, uint64_t enough) {
  static const struct {
    char letters[4];
    uint8_t fit, in_order;
  } way[] = {
#define VRAM__X(id, letters, fit, in_order) {letters, VRAM__FIT_##fit, in_order},
      VRAM_ARENA_ORDERS(VRAM__X)
#undef VRAM__X
  };
  const uint32_t only = (uint32_t)a->o->order;
  uint32_t i = only ? only - 1 : 0;
  const uint32_t end = only ? only : (uint32_t)(sizeof way / sizeof *way);
  a->height = UINT64_MAX;
  a->scans = 0;
  for (; i < end && a->height > enough; i++) {
    const int has_plan = a->height != UINT64_MAX;
    if (has_plan && (a->scans > VRAM__ARENA_SCANS || vram__arena_stop(a)))
      break;
    vram__arena_order(a, way[i].letters);
    vram__greedy(a, way[i].fit, way[i].in_order,
                 has_plan ? VRAM__ARENA_SCANS - a->scans : UINT64_MAX);
  }
}

/* ---- search ----
   Buffers are placed upwards: every next one at the lowest offset that what is placed below leaves
   it, never lower than the one before. Moffitt, "MiniMalloc: A Lightweight Memory Allocator for
   Hardware-Accelerated Machine Learning" (ASPLOS 2023) shows that this loses no plan, when a choice
   is dominated, and that parts of time that nothing connects any more are solved apart. Here each
   section is a machine and its unplaced buffers are jobs with release times (their lowest offsets):
   doing them in the order of release gives the least height of that section. */

enum { VRAM__SOLVED, VRAM__REFUTED, VRAM__UNKNOWN };

/* Ranks the items of a list: those first that live where most is left. */
static void vram__search_rank(vram__arena *a, uint32_t list, uint32_t n) {
  vram__loose *l = a->loose + list;
  uint32_t i, s, first = UINT32_MAX, last = 0;
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[i].item;
    first = first < t->first ? first : t->first;
    last = last > t->last ? last : t->last;
    a->key[i].key = l[i].item;
    a->key[i].at = i;
  }
  for (s = first; s < last; s++)
    a->level[s] = 0;
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[i].item;
    for (s = t->first; s < t->last; s++)
      a->level[s] += t->span;
  }
  vram__sort(a->key, a->spare, n);
  for (i = 0; i < n; i++) {
    const vram__item *t = a->item + l[a->key[i].at].item;
    uint64_t most = 0;
    for (s = t->first; s < t->last; s++)
      most = most > a->level[s] ? most : a->level[s];
    a->key[i].key = ~most;
  }
  vram__sort(a->key, a->spare, n);
  for (i = 0; i < n; i++)
    l[a->key[i].at].rank = (uint16_t)i;
}

/* The items of a->brick in an order. T (not t) first: ranked anew by load in every part. */
static void vram__search_begin(vram__arena *a, const char *letters) {
  const uint64_t unit = vram__arena_unit(a);
  uint32_t i;
  a->by_load = *letters == 'T';
  vram__arena_order(a, letters + a->by_load);
  for (i = 0; i < a->n; i++)
    a->next[i] = VRAM__NONE;
  for (i = 0; i < a->sections; i++)
    a->cross[i] = 0;
  for (i = 0; i < a->n; i++) {
    const vram__brick *b = a->brick + a->key[i].at;
    vram__item *t = a->item + i;
    uint32_t s;
    t->bytes = b->bytes;
    t->span = vram__align_up(b->bytes, unit);
    t->align = b->align;
    t->at = b->pinned ? b->at : 0;
    t->first = b->first - a->section;
    t->last = b->last - a->section;
    t->brick = a->key[i].at;
    t->pinned = b->pinned;
    t->placed = 0;
    t->twin = a->next[b->group];
    a->next[b->group] = b->pinned ? VRAM__NONE : i;
    for (s = t->first; s + 1 < t->last; s++)
      a->cross[s]++;
  }
  for (i = 0; i < a->n; i++) {
    a->key[i].key = a->item[i].at;
    a->key[i].at = i;
  }
  vram__sort(a->key, a->spare, a->n);
  for (i = 0; i < a->n; i++) {
    a->loose[i].low = a->key[i].key;
    a->loose[i].item = a->loose[i].rank = (uint16_t)a->key[i].at;
  }
}

/* A choice from a list; anew: it is ranked for itself. */
static void vram__choice_begin(vram__arena *a, vram__choice *c, uint32_t list, uint32_t n,
                               uint32_t room, uint32_t parent, int anew) {
  const vram__choice *p = a->choice + parent;
  uint32_t i;
  anew &= a->by_load;
  c->list = list;
  c->n = n;
  c->room = room;
  c->parent = parent;
  c->at = parent == VRAM__NONE ? 0 : p->at;
  c->rank = anew || parent == VRAM__NONE ? 0 : p->rank;
  c->top = c->least = UINT64_MAX;
  c->alone = 0;
  if (anew)
    vram__search_rank(a, list, n);
  for (i = list; i < list + n; i++) {
    const vram__loose *l = a->loose + i;
    const uint64_t span = a->item[l->item].span;
    c->top = c->top < l->low + span ? c->top : l->low + span;
    c->least = c->least < span ? c->least : span;
  }
}

/* The next item to try; 0: there is none. */
static int vram__choice_next(vram__arena *a, vram__choice *c) {
  uint64_t at = UINT64_MAX;
  uint32_t i, item = 0, rank = 0;
  if (c->alone)
    return 0;
  for (i = c->list; i < c->list + c->n; i++) {
    const vram__loose *l = a->loose + i;
    const uint32_t twin = a->item[l->item].twin;
    if (l->low >= c->top || l->low > at)
      break;
    if (l->low < c->at || (l->low == c->at && l->rank < c->rank) ||
        (l->low == at && l->rank > rank) || (twin != VRAM__NONE && !a->item[twin].placed))
      continue;
    at = l->low;
    item = l->item;
    rank = l->rank;
  }
  if (at == UINT64_MAX)
    return 0;
  c->tried = item;
  c->at = at;
  c->rank = rank + 1;
  return 1;
}

static void vram__level_add(uint64_t *level, const vram__item *t, uint64_t low) {
  uint64_t *s, *end = level + t->last;
  const uint64_t bytes = t->span;
  for (s = level + t->first; s < end; s++)
    *s = (*s > low ? *s : low) + bytes;
}

/* The least height of what is left of a list, once its last tried item is placed. */
static uint64_t vram__search_least(vram__arena *a, const vram__choice *c, uint32_t first,
                                   uint32_t last) {
  const uint64_t above = c->at + c->least; /* what was passed over rests on another one */
  uint64_t most = 0;
  uint32_t i, k, skipped = 0;
  int done = 0;
  for (i = first; i < last; i++)
    a->level[i] = 0;
  for (i = c->room; i < c->end; i++) {
    const vram__loose *l = a->loose + i;
    if (l->low < c->at || (l->low == c->at && l->rank < c->rank)) {
      a->skipped[skipped++] = l->item;
      continue;
    }
    if (!done && l->low >= above) {
      for (k = 0; k < skipped; k++)
        vram__level_add(a->level, a->item + a->skipped[k], above);
      done = 1;
    }
    vram__level_add(a->level, a->item + l->item, l->low);
  }
  if (!done)
    for (k = 0; k < skipped; k++)
      vram__level_add(a->level, a->item + a->skipped[k], above);
  for (i = first; i < last; i++)
    most = most > a->level[i] ? most : a->level[i];
  return most > a->slack ? most - a->slack : 0;
}

/* Places what c tries, makes the list of what is left. 0: that cannot be. */
static int vram__search_place(vram__arena *a, vram__choice *c, uint64_t capacity) {
  vram__item *b = a->item + c->tried;
  const uint64_t at = c->at, end = at + b->bytes;
  uint32_t i, n = c->room, moved = 0, to, first = UINT32_MAX, last = 0;
  int alone = 1;
  if (end > capacity) {
    a->above = a->above < end ? a->above : end;
    return 0;
  }
  for (i = c->list; i < c->list + c->n; i++) {
    vram__loose l = a->loose[i];
    const vram__item *t = a->item + l.item;
    if (l.item == c->tried)
      continue;
    first = first < t->first ? first : t->first;
    last = last > t->last ? last : t->last;
    if (t->first < b->last && t->last > b->first) {
      alone = 0;
      if (l.low < end) {
        if (t->pinned)
          return 0;
        l.low = vram__align_up(end, t->align);
        for (to = moved++; to && a->moved[to - 1].low > l.low; to--)
          a->moved[to] = a->moved[to - 1];
        a->moved[to] = l;
        continue;
      }
    }
    if (t->pinned && (l.low < at || (l.low == at && l.rank < c->rank)))
      return 0;
    a->loose[n++] = l;
  }
  c->end = n + moved;
  for (to = c->end; moved; to--)
    if (n > c->room && a->loose[n - 1].low > a->moved[moved - 1].low)
      a->loose[to - 1] = a->loose[--n];
    else
      a->loose[to - 1] = a->moved[--moved];
  if (c->end > c->room) {
    const uint64_t least = vram__search_least(a, c, first, last);
    if (least > capacity) {
      a->above = a->above < least ? a->above : least;
      return 0;
    }
  }
  c->alone = alone;
  b->at = at;
  b->placed = 1;
  for (i = b->first; i + 1 < b->last; i++)
    a->cross[i]--;
  return 1;
}

static void vram__search_undo(vram__arena *a, const vram__choice *c) {
  vram__item *b = a->item + c->tried;
  uint32_t i;
  b->placed = 0;
  for (i = b->first; i + 1 < b->last; i++)
    a->cross[i]++;
}

/* The first part of a list that what is left of the rest does not touch, moved to its front. */
static uint32_t vram__search_part(vram__arena *a, uint32_t list, uint32_t end) {
  uint32_t first = a->item[a->loose[list].item].first, last = first, i, n = list, moved = 0;
  while (first && a->cross[first - 1])
    first--;
  while (a->cross[last])
    last++;
  for (i = list; i < end; i++) {
    const vram__item *t = a->item + a->loose[i].item;
    if (t->first >= first && t->first <= last)
      a->loose[n++] = a->loose[i];
    else
      a->moved[moved++] = a->loose[i];
  }
  for (i = 0; i < moved; i++)
    a->loose[n + i] = a->moved[i];
  return n - list;
}

/* Looks for a plan of a->brick, which hang together in time, of that height at most. */
static int vram__search(vram__arena *a, const char *letters, uint64_t capacity, uint64_t nodes) {
  uint32_t d = 0; /* the choice on top */
  vram__search_begin(a, letters);
  a->above = UINT64_MAX;
  vram__choice_begin(a, a->choice, 0, a->n, a->n, VRAM__NONE, 1);
  nodes += a->nodes;
  for (;;) {
    vram__choice *c = a->choice + d;
    uint32_t list, n;
    if (!vram__choice_next(a, c)) { /* back to the choice that this was a part of */
      const uint32_t parent = c->parent;
      if (parent == VRAM__NONE)
        return VRAM__REFUTED;
      while (d > parent)
        vram__search_undo(a, a->choice + --d);
      continue;
    }
    if (a->nodes >= nodes)
      return VRAM__UNKNOWN;
    a->nodes++;
    if ((a->nodes & 1023) == 0 && vram__arena_stop(a))
      return VRAM__UNKNOWN;
    if (!vram__search_place(a, c, capacity))
      continue;
    if (c->end > c->room) {
      n = vram__search_part(a, c->room, c->end);
      vram__choice_begin(a, c + 1, c->room, n, c->end, d, n < c->end - c->room);
      d++;
      continue;
    }
    for (;;) { /* a part is done: the next one */
      const uint32_t parent = c->parent;
      if (parent == VRAM__NONE)
        return VRAM__SOLVED;
      list = c->list + c->n;
      c = a->choice + parent;
      if (list < c->end) {
        n = vram__search_part(a, list, c->end);
        vram__choice_begin(a, a->choice + ++d, list, n, c->end, parent, 1);
        break;
      }
    }
  }
}

/* The height of the best plan of a->brick. */
static uint64_t vram__arena_height(const vram__arena *a) {
  uint64_t height = 0;
  uint32_t i;
  for (i = 0; i < a->n; i++)
    if (a->brick[i].best + a->brick[i].bytes > height)
      height = a->brick[i].best + a->brick[i].bytes;
  return height;
}

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
static void vram__improve(vram__arena *a, uint64_t capacity, uint64_t enough) {
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

/* ---- the whole of it ---- */

/* What the caller asked for, and whether it can be meant. */
static int vram__arena_check(const vram_buffer *b, uint32_t n, const vram_arena_options *o,
                             vram_error *e) {
  const uint32_t nbank = o->nbank ? o->nbank : 1;
  uint64_t sum = 0, most = 0;
  uint32_t i;
  if (nbank > VRAM_ARENA_BANKS) {
    vram__arena_error(e, VRAM_ERR_VALUE, 0, "more banks than VRAM_ARENA_BANKS");
    return 0;
  }
  if ((uint32_t)o->order >= VRAM_ARENA_ORDER_COUNT) {
    vram__arena_error(e, VRAM_ERR_VALUE, 0, "no such order: ");
    vram__arena_more(e, "", (uint32_t)o->order);
    return 0;
  }
  if (o->align & (o->align - 1)) {
    vram__arena_error(e, VRAM_ERR_VALUE, 0, "an alignment that is no power of two: ");
    vram__arena_more(e, "", o->align);
    return 0;
  }
  for (i = 0; i < n; i++) {
    const uint64_t align = b[i].align ? b[i].align : o->align ? o->align : 1;
    const uint32_t all = (UINT32_C(1) << nbank) - 1;
    if (b[i].begin >= b[i].end) {
      vram__arena_error(e, VRAM_ERR_VALUE, i + 1,
                        b[i].begin > b[i].end ? "ends before it begins: "
                                              : "ends when it begins: ");
      vram__arena_more(e, "", b[i].begin);
      vram__arena_more(e, " to ", b[i].end);
      return 0;
    }
    if (align & (align - 1)) {
      vram__arena_error(e, VRAM_ERR_VALUE, i + 1, "an alignment that is no power of two: ");
      vram__arena_more(e, "", align);
      return 0;
    }
    if (b[i].banks && !(b[i].banks & all)) {
      vram__arena_error(e, VRAM_ERR_VALUE, i + 1, "is allowed in none of the banks");
      return 0;
    }
    sum = vram__plus(sum, vram__plus(b[i].bytes, align - 1));
    if (b[i].pinned) {
      const uint64_t end = vram__plus(b[i].offset, b[i].bytes);
      if (b[i].bank >= nbank || (b[i].banks && !(b[i].banks >> b[i].bank & 1))) {
        vram__arena_error(e, VRAM_ERR_VALUE, i + 1,
                          "is pinned in a bank where it is not allowed: ");
        vram__arena_more(e, "", b[i].bank);
        return 0;
      }
      if (b[i].offset & (align - 1)) {
        vram__arena_error(e, VRAM_ERR_VALUE, i + 1, "is pinned at ");
        vram__arena_more(e, "", b[i].offset);
        vram__arena_more(e, ", no multiple of its alignment ", align);
        return 0;
      }
      if (o->capacity[b[i].bank] && end > o->capacity[b[i].bank] && end <= VRAM_MAX_BYTES) {
        vram__arena_error(e, VRAM_ERR_LIMIT, i + 1, "is pinned up to ");
        vram__arena_more(e, "", end);
        vram__arena_more(e, ", its bank has ", o->capacity[b[i].bank]);
        return 0;
      }
      most = most > end ? most : end;
    }
    if (vram__plus(sum, most) > (uint64_t)VRAM_MAX_BYTES) {
      vram__arena_error(e, VRAM_ERR_OVERFLOW, i + 1,
                        "sizes and alignments up to here add up to more than VRAM_MAX_BYTES");
      return 0;
    }
  }
  return 1;
}

/* Checks placed buffers: a->key is what is looked at; in the order of offsets, a tree over time
   tells up to where it is taken. Not 0: *other is what it overlaps. */
static int vram__arena_overlap(vram__arena *a, const vram_buffer *b, uint32_t n, uint32_t bank,
                               int pinned, uint32_t *one, uint32_t *other) {
  uint64_t *most, *full;
  uint32_t i, k, m = 0, times = 0;
  for (i = 0; i < n; i++)
    if (b[i].bytes && b[i].bank == bank && (!pinned || b[i].pinned)) {
      vram__key_at *two = a->key + 2 * (uint64_t)m++;
      two[0].key = b[i].begin;
      two[0].at = 2 * i;
      two[1].key = b[i].end;
      two[1].at = 2 * i + 1;
    }
  if (m < 2)
    return 0;
  vram__sort(a->key, a->spare, 2 * m);
  for (i = 0; i < 2 * m; i++) { /* next: the rank of each time */
    times += i && a->key[i].key != a->key[i - 1].key;
    a->next[a->key[i].at] = times;
  }
  most = a->tree;
  full = a->tree + 2 * ((uint64_t)times + 1);
  for (i = 0; i < 2 * (times + 1); i++)
    most[i] = full[i] = 0;
  times++;
  for (i = 0, m = 0; i < n; i++)
    if (b[i].bytes && b[i].bank == bank && (!pinned || b[i].pinned)) {
      a->key[m].key = b[i].offset;
      a->key[m++].at = i;
    }
  vram__sort(a->key, a->spare, m);
  for (i = 0; i < m; i++) {
    const uint32_t at = a->key[i].at, *rank = a->next + 2 * (uint64_t)at;
    const uint32_t first = rank[0] + times, last = rank[1] + times;
    const uint64_t end = b[at].offset + b[at].bytes;
    uint64_t taken = vram__tree_most(most, times, first - times, last - times);
    uint32_t l, r;
    for (l = first, r = last - 1; l; l /= 2, r /= 2) {
      taken = taken > full[l] ? taken : full[l];
      taken = taken > full[r] ? taken : full[r];
    }
    if (taken > b[at].offset) {
      *one = at;
      for (k = 0; k < i; k++) {
        const vram_buffer *c = b + a->key[k].at;
        *other = a->key[k].at;
        if (c->begin < b[at].end && b[at].begin < c->end && c->offset + c->bytes > b[at].offset)
          return 1;
      }
    }
    for (l = first, r = last; l < r; l /= 2, r /= 2) {
      if (l & 1) {
        full[l] = full[l] > end ? full[l] : end;
        most[l] = most[l] > end ? most[l] : end;
        l++;
      }
      if (r & 1) {
        r--;
        full[r] = full[r] > end ? full[r] : end;
        most[r] = most[r] > end ? most[r] : end;
      }
    }
    for (l = first / 2, r = (last - 1) / 2; l; l /= 2, r /= 2) {
      most[l] = most[l] > end ? most[l] : end;
      most[r] = most[r] > end ? most[r] : end;
    }
  }
  return 0;
}

/* Everything in the scratch; returns its bytes. */
static uint64_t vram__arena_layout(vram__arena *a, uint8_t *mem, uint32_t n,
                                   const vram_arena_options *o) {
  const uint64_t many = (uint64_t)n + 1;
  uint64_t at = mem ? (8 - ((uintptr_t)mem & 7)) & 7 : 8;
#define VRAM__TAKE(field, type, count)                                                             \
  do {                                                                                             \
    a->field = mem ? (type *)(void *)(mem + at) : NULL;                                            \
    at += ((count) * sizeof(type) + 7) & ~(uint64_t)7;                                             \
  } while (0)
  VRAM__TAKE(brick, vram__brick, many);
  VRAM__TAKE(key, vram__key_at, 2 * many);
  VRAM__TAKE(spare, vram__key_at, 2 * many);
  VRAM__TAKE(sum, uint64_t, many);
  VRAM__TAKE(tree, uint64_t, 8 * many);
  VRAM__TAKE(next, uint32_t, 2 * many);
  VRAM__TAKE(chunk, vram__chunk, many / (VRAM__ARENA_CHUNK / 2) + 2);
  if (!o->greedy && !o->order) {
    const uint64_t most = many < VRAM__ARENA_EXACT ? many : VRAM__ARENA_EXACT;
    VRAM__TAKE(item, vram__item, most);
    VRAM__TAKE(choice, vram__choice, most + 1);
    VRAM__TAKE(loose, vram__loose, most * (most + 1) / 2);
    VRAM__TAKE(moved, vram__loose, most);
    VRAM__TAKE(skipped, uint16_t, most);
    VRAM__TAKE(level, uint64_t, most);
    VRAM__TAKE(cross, uint32_t, most + 1);
  }
#undef VRAM__TAKE
  return at;
}

VRAM_API const char *vram_arena_order_name(uint32_t order) {
#define VRAM__X(id, letters, fit, in_order) #id,
  static const char *const name[] = {"all", VRAM_ARENA_ORDERS(VRAM__X) "?"};
#undef VRAM__X
  return name[order < VRAM_ARENA_ORDER_COUNT ? order : (uint32_t)VRAM_ARENA_ORDER_COUNT];
}

VRAM_API uint64_t vram_arena_bytes(uint32_t n, const vram_arena_options *o) {
  vram_arena_options zero;
  vram__arena a;
  uint64_t bytes;
  vram__zero(&zero, sizeof zero);
  if (n > UINT32_MAX / 8)
    return VRAM_OVERFLOW;
  bytes = vram__arena_layout(&a, NULL, n, o ? o : &zero);
  return bytes > (uint64_t)SIZE_MAX ? VRAM_OVERFLOW : bytes;
}

/* Plans all of a->brick into one bank; `enough` is a height that ends the search. */
static void vram__arena_one(vram__arena *a, uint64_t capacity, uint64_t enough) {
  vram__sections(a);
  vram__arena_bound(a);
  vram__portfolio(a, enough > a->bound ? enough : a->bound);
  if (!a->o->greedy && !a->o->order && a->height > a->bound && a->height > enough)
    vram__improve(a, capacity, enough);
}

/* Moves the blocks that may be in a bank (0), or that were placed (1), to the front. */
static uint32_t vram__arena_front(vram__arena *a, const vram_buffer *b, uint32_t bank, int placed) {
  uint32_t i, n = 0;
  for (i = 0; i < a->n; i++) {
    const vram_buffer *from = b + a->brick[i].buffer;
    if (placed         ? a->brick[i].best != UINT64_MAX
        : from->pinned ? from->bank == bank
                       : !from->banks || (from->banks >> bank & 1)) {
      const vram__brick t = a->brick[n];
      a->brick[n++] = a->brick[i];
      a->brick[i] = t;
    }
  }
  return n;
}

/* Puts as many bytes as can be into a bank that does not hold all: first what may be nowhere else,
   then the rest in several orders. What is left has best UINT64_MAX. 0: some must be here and does
   not fit. */
static int vram__arena_spill(vram__arena *a, const vram_buffer *b, uint32_t bank, uint32_t nbank,
                             uint64_t capacity) {
  static const char way[][4] = {"SW", "TS", "W", "A", "BS"};
  const uint32_t later = ((UINT32_C(1) << nbank) - 1) & ~((UINT32_C(2) << bank) - 1);
  uint64_t most = 0;
  uint32_t w, i;
  int round, any = 0;
  for (w = 0; w < sizeof way / sizeof *way; w++) {
    uint64_t bytes = 0;
    int ok = 1;
    if (any && vram__arena_stop(a))
      break;
    vram__arena_order(a, way[w]);
    vram__placed_clear(a);
    for (round = 0; round < 3 && ok; round++)
      for (i = 0; i < a->n; i++) {
        vram__brick *k = a->brick + a->key[i].at;
        const vram_buffer *from = b + k->buffer;
        const int kind = k->pinned ? 0 : !from->banks || (from->banks & later) ? 2 : 1;
        if (kind != round)
          continue;
        if (k->pinned)
          vram__placed_add(a, k, a->chunk_first);
        else if (!vram__place(a, k, VRAM__FIT_FIRST, 0, capacity)) {
          k->at = UINT64_MAX;
          ok &= kind == 2;
          continue;
        }
        bytes += k->bytes;
      }
    if (!ok || (any && bytes <= most))
      continue;
    any = 1;
    most = bytes;
    for (i = 0; i < a->n; i++)
      a->brick[i].best = a->brick[i].at;
  }
  return any;
}

/* All banks, the fastest first. */
static int vram__arena_banks(vram__arena *a, const vram_buffer *b, uint32_t n, vram_arena *result,
                             vram_error *e) {
  const vram_arena_options *o = a->o;
  const uint32_t nbank = o->nbank ? o->nbank : 1;
  vram__brick *all = a->brick;
  uint32_t i, k, left = 0;
  for (i = 0; i < n; i++) {
    vram__brick *to = all + left;
    if (!b[i].bytes)
      continue;
    vram__zero(to, sizeof *to);
    to->bytes = b[i].bytes;
    to->align = b[i].align ? b[i].align : o->align ? o->align : 1;
    to->begin = b[i].begin;
    to->end = b[i].end;
    to->pinned = b[i].pinned != 0;
    to->at = to->pinned ? b[i].offset : 0;
    to->buffer = i;
    left++;
  }
  result->proven = 1;
  for (k = 0; k < nbank; k++) {
    const uint64_t capacity = o->capacity[k] ? o->capacity[k] : UINT64_MAX;
    uint32_t here = 0;
    a->n = left;
    if (left)
      a->n = here = vram__arena_front(a, b, k, 0);
    if (!here)
      continue;
    vram__arena_one(a, capacity, o->enough_bytes);
    if (a->height > capacity) {
      if (nbank == 1) {
        result->height_bytes = a->height;
        result->lower_bound_bytes = a->bound;
        vram__arena_error(e, VRAM_ERR_LIMIT, 0, "");
        vram__arena_more(e, "needs ", a->bound);
        vram__arena_more(e,
                         a->bound > capacity ? " bytes at least, the bank has "
                                             : " bytes at least, no plan was found that fits "
                                               "the bank's ",
                         capacity);
        return 0;
      }
      if (!vram__arena_spill(a, b, k, nbank, capacity)) {
        vram__arena_error(e, VRAM_ERR_LIMIT, 0, "no plan was found for what must be in bank ");
        vram__arena_more(e, "", k);
        vram__arena_more(e, ", which has ", capacity);
        return 0;
      }
      result->proven = 0;
      a->n = here = vram__arena_front(a, b, k, 1);
      for (a->height = 0, i = 0; i < here; i++)
        if (a->brick[i].best + a->brick[i].bytes > a->height)
          a->height = a->brick[i].best + a->brick[i].bytes;
    }
    result->proven &= a->height == a->bound;
    result->bank_bytes[k] = a->height;
    if (!k)
      result->lower_bound_bytes = a->height < a->bound ? a->height : a->bound;
    for (i = 0; i < here; i++)
      a->brick[i].load = k; /* the bank */
    a->brick += here;
    left -= here;
  }
  result->height_bytes = result->bank_bytes[0];
  result->nodes = a->nodes;
  if (left) {
    vram__arena_error(e, VRAM_ERR_LIMIT, all[n - 1].buffer + 1, "has no room in any bank");
    return 0;
  }
  return 1;
}

static vram_result vram__arena_begin(vram__arena *a, const vram_buffer *b, uint32_t n,
                                     const vram_arena_options *o, void *scratch,
                                     uint64_t scratch_bytes, vram_error *e) {
  vram__zero(e, sizeof *e);
  vram__zero(a, sizeof *a);
  a->o = o;
  if (scratch_bytes < vram_arena_bytes(n, o)) {
    vram__arena_error(e, VRAM_ERR_MEMORY, 0, "scratch needs ");
    vram__arena_more(e, "", vram_arena_bytes(n, o));
    vram__arena_more(e, " bytes, got ", scratch_bytes);
    return e->code;
  }
  vram__arena_layout(a, (uint8_t *)scratch, n, o);
  vram__arena_check(b, n, o, e);
  return e->code;
}

/* "overlaps buffer 3: 0 to 100 and 64 to 128" */
static void vram__arena_clash(const vram_buffer *b, uint32_t one, uint32_t other, const char *what,
                              vram_error *e) {
  vram__arena_error(e, VRAM_ERR_VALUE, one + 1, what);
  vram__arena_more(e, " buffer ", other);
  vram__arena_more(e, " while both live: ", b[one].offset);
  vram__arena_more(e, " to ", b[one].offset + b[one].bytes);
  vram__arena_more(e, " and ", b[other].offset);
  vram__arena_more(e, " to ", b[other].offset + b[other].bytes);
}

VRAM_API vram_result vram_arena_plan(vram_buffer *b, uint32_t n, const vram_arena_options *o,
                                     void *scratch, uint64_t scratch_bytes, vram_arena *arena,
                                     vram_error *err) {
  vram_arena_options zero;
  vram_arena result;
  vram_error e;
  vram__arena a;
  vram__brick *brick;
  uint32_t i, k, one = 0, other = 0, placed = 0;
  vram__zero(&zero, sizeof zero);
  vram__zero(&result, sizeof result);
  o = o ? o : &zero;
  vram__arena_begin(&a, b, n, o, scratch, scratch_bytes, &e);
  brick = a.brick;
  for (k = 0; !e.code && k < (o->nbank ? o->nbank : 1); k++)
    if (vram__arena_overlap(&a, b, n, k, 1, &one, &other))
      vram__arena_clash(b, one, other, "is pinned over", &e);
  if (!e.code && vram__arena_banks(&a, b, n, &result, &e))
    for (i = 0; i < n; i++) {
      if (!b[i].bytes) {
        for (k = 0; !b[i].pinned && b[i].banks && !(b[i].banks >> k & 1); k++)
          ;
        if (!b[i].pinned)
          b[i].offset = 0, b[i].bank = k;
      } else {
        b[brick[placed].buffer].offset = brick[placed].best;
        b[brick[placed].buffer].bank = (uint32_t)brick[placed].load;
        placed++;
      }
    }
  if (arena)
    *arena = result;
  if (err)
    *err = e;
  return e.code;
}

VRAM_API vram_result vram_arena_verify(const vram_buffer *b, uint32_t n,
                                       const vram_arena_options *o, void *scratch,
                                       uint64_t scratch_bytes, vram_arena *arena, vram_error *err) {
  vram_arena_options zero;
  vram_arena result;
  vram_error e;
  vram__arena a;
  uint64_t live = 0;
  uint32_t i, k, m = 0, one = 0, other = 0, nbank;
  vram__zero(&zero, sizeof zero);
  vram__zero(&result, sizeof result);
  o = o ? o : &zero;
  nbank = o->nbank ? o->nbank : 1;
  vram__arena_begin(&a, b, n, o, scratch, scratch_bytes, &e);
  for (i = 0; i < n && !e.code; i++) {
    const uint64_t align = b[i].align ? b[i].align : o->align ? o->align : 1;
    const uint64_t end = vram__plus(b[i].offset, b[i].bytes);
    if (b[i].bank >= nbank || (b[i].banks && !(b[i].banks >> b[i].bank & 1))) {
      vram__arena_error(&e, VRAM_ERR_VALUE, i + 1, "is in a bank where it is not allowed: ");
      vram__arena_more(&e, "", b[i].bank);
    } else if (b[i].offset & (align - 1)) {
      vram__arena_error(&e, VRAM_ERR_VALUE, i + 1, "is at ");
      vram__arena_more(&e, "", b[i].offset);
      vram__arena_more(&e, ", no multiple of its alignment ", align);
    } else if (end > (uint64_t)VRAM_MAX_BYTES) {
      vram__arena_error(&e, VRAM_ERR_OVERFLOW, i + 1, "ends beyond VRAM_MAX_BYTES");
    } else if (o->capacity[b[i].bank] && end > o->capacity[b[i].bank]) {
      vram__arena_error(&e, VRAM_ERR_VALUE, i + 1, "ends at ");
      vram__arena_more(&e, "", end);
      vram__arena_more(&e, ", its bank has ", o->capacity[b[i].bank]);
    } else if (b[i].bytes && end > result.bank_bytes[b[i].bank])
      result.bank_bytes[b[i].bank] = end;
  }
  for (k = 0; k < nbank && !e.code; k++)
    if (vram__arena_overlap(&a, b, n, k, 0, &one, &other))
      vram__arena_clash(b, one, other, "overlaps", &e);
  if (!e.code) {
    result.height_bytes = result.bank_bytes[0];
    for (k = 0; k < 2; k++) /* at one time ends come before beginnings */
      for (i = 0; i < n; i++)
        if (!b[i].bank) {
          a.key[m].key = k ? b[i].begin : b[i].end;
          a.key[m++].at = k ? i : n + i;
        }
    vram__sort(a.key, a.spare, m);
    for (i = 0; i < m; i++) {
      live += a.key[i].at < n ? b[a.key[i].at].bytes : 0 - b[a.key[i].at - n].bytes;
      if (live > result.lower_bound_bytes)
        result.lower_bound_bytes = live;
    }
    result.proven = result.height_bytes == result.lower_bound_bytes;
  }
  if (e.code)
    vram__zero(&result, sizeof result);
  if (arena)
    *arena = result;
  if (err)
    *err = e;
  return e.code;
}

