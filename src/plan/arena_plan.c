/* >>plan/arena_plan    an arena from the caller's buffers to its plan; banks; verification */
#include "plan/plan.h"

static uint64_t vram__arena_align(const vram_buffer *b, const vram_arena_options *o) {
  return b->align ? b->align : o->align ? o->align : 1;
}

static uint32_t vram__arena_bank_count(const vram_arena_options *o) {
  return o->nbank ? o->nbank : 1;
}

static void vram__arena_check_options(const vram_arena_options *o, vram_error *e) {
  if (vram__arena_bank_count(o) > VRAM_ARENA_BANKS)
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "more banks than VRAM_ARENA_BANKS");
  else if ((uint32_t)o->order >= VRAM_ARENA_ORDER_COUNT) {
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "");
    vram__error_number(e, "no such order: ", (uint32_t)o->order);
  } else if (o->align & (o->align - 1)) {
    vram__error_begin(e, VRAM_ERR_VALUE, 0, "");
    vram__error_number(e, "an alignment that is no power of two: ", o->align);
  }
}

/* Lifetime, alignment and banks of one buffer. */
static void vram__arena_check_buffer(const vram_buffer *b, uint64_t line,
                                     const vram_arena_options *o, vram_error *e) {
  const uint64_t align = vram__arena_align(b, o);
  const uint32_t all = (UINT32_C(1) << vram__arena_bank_count(o)) - 1;
  if (b->begin >= b->end) {
    vram__error_begin(e, VRAM_ERR_VALUE, line,
                      b->begin > b->end ? "ends before it begins: " : "ends when it begins: ");
    vram__error_number(e, "", b->begin);
    vram__error_number(e, " to ", b->end);
  } else if (align & (align - 1)) {
    vram__error_begin(e, VRAM_ERR_VALUE, line, "");
    vram__error_number(e, "an alignment that is no power of two: ", align);
  } else if (b->banks && !(b->banks & all))
    vram__error_begin(e, VRAM_ERR_VALUE, line, "is allowed in none of the banks");
}

/* The place of a pinned buffer, whose alignment and banks are checked. */
static void vram__arena_check_pin(const vram_buffer *b, uint64_t line, const vram_arena_options *o,
                                  vram_error *e) {
  const uint64_t align = vram__arena_align(b, o);
  const uint64_t end = vram__sum_or_overflow(b->offset, b->bytes);
  if (b->bank >= vram__arena_bank_count(o) || (b->banks && !(b->banks >> b->bank & 1))) {
    vram__error_begin(e, VRAM_ERR_VALUE, line, "is pinned in a bank where it is not allowed: ");
    vram__error_number(e, "", b->bank);
  } else if (b->offset & (align - 1)) {
    vram__error_begin(e, VRAM_ERR_VALUE, line, "");
    vram__error_number(e, "is pinned at ", b->offset);
    vram__error_number(e, ", no multiple of its alignment ", align);
  } else if (o->capacity[b->bank] && end > o->capacity[b->bank] && end <= VRAM_MAX_BYTES) {
    vram__error_begin(e, VRAM_ERR_LIMIT, line, "");
    vram__error_number(e, "is pinned up to ", end);
    vram__error_number(e, ", its bank has ", o->capacity[b->bank]);
  }
}

/* What the caller asked for, and whether it can be meant: else *e says why not. */
static void vram__arena_check(const vram_buffer *b, uint32_t n, const vram_arena_options *o,
                              vram_error *e) {
  uint64_t sum = 0, most = 0;
  uint32_t i;
  vram__arena_check_options(o, e);
  for (i = 0; i < n && !e->code; i++) {
    vram__arena_check_buffer(b + i, i + 1, o, e);
    if (!e->code && b[i].pinned) {
      const uint64_t end = vram__sum_or_overflow(b[i].offset, b[i].bytes);
      vram__arena_check_pin(b + i, i + 1, o, e);
      most = most > end ? most : end;
    }
    if (e->code)
      return;
    sum = vram__sum_or_overflow(sum,
                                vram__sum_or_overflow(b[i].bytes, vram__arena_align(b + i, o) - 1));
    if (vram__sum_or_overflow(sum, most) > (uint64_t)VRAM_MAX_BYTES)
      vram__error_begin(e, VRAM_ERR_OVERFLOW, i + 1,
                        "sizes and alignments up to here add up to more than VRAM_MAX_BYTES");
  }
}

static int vram__arena_is_in(const vram_buffer *b, uint32_t bank, int pinned) {
  return b->bytes && b->bank == bank && (!pinned || b->pinned);
}

/* Ranks the times at which buffers of a bank begin and end: a->next becomes those of buffer i at
   2 i and 2 i + 1. Returns how many times there are. */
static uint32_t vram__arena_times(vram__arena *a, const vram_buffer *b, uint32_t n, uint32_t bank,
                                  int pinned) {
  uint32_t i, m = 0, times = 0;
  for (i = 0; i < n; i++)
    if (vram__arena_is_in(b + i, bank, pinned)) {
      a->key[m].key = b[i].begin;
      a->key[m++].at = 2 * i;
      a->key[m].key = b[i].end;
      a->key[m++].at = 2 * i + 1;
    }
  vram__sort(a->key, a->spare, m);
  for (i = 0; i < m; i++) {
    times += i && a->key[i].key != a->key[i - 1].key;
    a->next[a->key[i].at] = times;
  }
  return m ? times + 1 : 0;
}

/* Checks placed buffers in the order of their offsets: none may begin below what a skyline over
   time says is taken. Not 0: *one overlaps *other. */
static int vram__arena_overlap(vram__arena *a, const vram_buffer *b, uint32_t n, uint32_t bank,
                               int pinned, uint32_t *one, uint32_t *other) {
  vram__skyline taken;
  uint32_t i, k, m = 0;
  vram__skyline_clear(&taken, a->tree, vram__arena_times(a, b, n, bank, pinned));
  for (i = 0; i < n; i++)
    if (vram__arena_is_in(b + i, bank, pinned)) {
      a->key[m].key = b[i].offset;
      a->key[m++].at = i;
    }
  vram__sort(a->key, a->spare, m);
  for (i = 0; i < m; i++) {
    const uint32_t at = a->key[i].at, *rank = a->next + 2 * (uint64_t)at;
    *one = at;
    if (vram__skyline_top(&taken, rank[0], rank[1]) > b[at].offset)
      for (k = 0; k < i; k++) {
        const vram_buffer *c = b + a->key[k].at;
        *other = a->key[k].at;
        if (c->begin < b[at].end && b[at].begin < c->end && c->offset + c->bytes > b[at].offset)
          return 1;
      }
    vram__skyline_raise(&taken, rank[0], rank[1], b[at].offset + b[at].bytes);
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
  vram__memory_zero(&zero, sizeof zero);
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

/* a->brick becomes the buffers that take bytes; returns how many. */
static uint32_t vram__arena_bricks(vram__arena *a, const vram_buffer *b, uint32_t n) {
  uint32_t i, count = 0;
  for (i = 0; i < n; i++) {
    vram__brick *to = a->brick + count;
    if (!b[i].bytes)
      continue;
    vram__memory_zero(to, sizeof *to);
    to->bytes = b[i].bytes;
    to->align = vram__arena_align(b + i, a->o);
    to->begin = b[i].begin;
    to->end = b[i].end;
    to->pinned = b[i].pinned != 0;
    to->at = to->pinned ? b[i].offset : 0;
    to->buffer = i;
    count++;
  }
  return count;
}

/* The only bank is too small for the plan that was found. */
static void vram__arena_too_high(const vram__arena *a, uint64_t capacity, vram_arena *result,
                                 vram_error *e) {
  result->height_bytes = a->height;
  result->lower_bound_bytes = a->bound;
  vram__error_begin(e, VRAM_ERR_LIMIT, 0, "");
  vram__error_number(e, "needs ", a->bound);
  vram__error_number(e,
                     a->bound > capacity
                         ? " bytes at least, the bank has "
                         : " bytes at least, no plan was found that fits the bank's ",
                     capacity);
}

/* Plans a->brick into bank k, as many as can be if others follow; those that are in it come first
   then, and a->n says how many. */
static void vram__arena_bank(vram__arena *a, const vram_buffer *b, uint32_t k, vram_arena *result,
                             vram_error *e) {
  const uint32_t nbank = vram__arena_bank_count(a->o);
  const uint64_t capacity = a->o->capacity[k] ? a->o->capacity[k] : UINT64_MAX;
  uint32_t i;
  vram__arena_one(a, capacity, a->o->enough_bytes);
  if (a->height == UINT64_MAX) {
    vram__error_begin(e, VRAM_ERR_LIMIT, 0, "");
    vram__error_number(e, "one order alone takes too long for ", a->n);
    vram__error_text(e, " buffers that live so long: all orders together have a faster way");
    return;
  }
  if (a->height > capacity && nbank == 1) {
    vram__arena_too_high(a, capacity, result, e);
    return;
  }
  if (a->height > capacity) {
    if (!vram__arena_spill(a, b, k, nbank, capacity)) {
      vram__error_begin(e, VRAM_ERR_LIMIT, 0, "");
      vram__error_number(e, "no plan was found for what must be in bank ", k);
      vram__error_number(e, ", which has ", capacity);
      return;
    }
    result->proven = 0;
    a->n = vram__arena_front(a, b, k, 1);
    a->height = vram__arena_height(a);
  }
  result->proven &= a->height == a->bound;
  result->bank_bytes[k] = a->height;
  if (!k)
    result->lower_bound_bytes = a->height < a->bound ? a->height : a->bound;
  for (i = 0; i < a->n; i++)
    a->brick[i].bank = (uint8_t)k;
}

/* All banks, the fastest first. */
static int vram__arena_banks(vram__arena *a, const vram_buffer *b, uint32_t n, vram_arena *result,
                             vram_error *e) {
  uint32_t k, left = vram__arena_bricks(a, b, n);
  result->proven = 1;
  for (k = 0; k < vram__arena_bank_count(a->o) && left; k++) {
    a->n = left;
    a->n = vram__arena_front(a, b, k, 0);
    if (!a->n)
      continue;
    vram__arena_bank(a, b, k, result, e);
    if (e->code)
      return 0;
    a->brick += a->n;
    left -= a->n;
  }
  result->height_bytes = result->bank_bytes[0];
  result->nodes = a->nodes;
  if (left)
    vram__error_begin(e, VRAM_ERR_LIMIT, a->brick[left - 1].buffer + 1, "has no room in any bank");
  return !left;
}

static vram_result vram__arena_begin(vram__arena *a, const vram_buffer *b, uint32_t n,
                                     const vram_arena_options *o, void *scratch,
                                     uint64_t scratch_bytes, vram_error *e) {
  vram__error_clear(e);
  vram__memory_zero(a, sizeof *a);
  a->o = o;
  if (scratch_bytes < vram_arena_bytes(n, o)) {
    vram__error_begin(e, VRAM_ERR_MEMORY, 0, "");
    vram__error_number(e, "scratch needs ", vram_arena_bytes(n, o));
    vram__error_number(e, " bytes, got ", scratch_bytes);
    return e->code;
  }
  vram__arena_layout(a, (uint8_t *)scratch, n, o);
  vram__arena_check(b, n, o, e);
  return e->code;
}

/* "overlaps buffer 3: 0 to 100 and 64 to 128" */
static void vram__arena_clash(const vram_buffer *b, uint32_t one, uint32_t other, const char *what,
                              vram_error *e) {
  vram__error_begin(e, VRAM_ERR_VALUE, one + 1, what);
  vram__error_number(e, " buffer ", other);
  vram__error_number(e, " while both live: ", b[one].offset);
  vram__error_number(e, " to ", b[one].offset + b[one].bytes);
  vram__error_number(e, " and ", b[other].offset);
  vram__error_number(e, " to ", b[other].offset + b[other].bytes);
}

/* For VRAM_ASSERT: the plan is one, and as high as the result says. The scratch is free again. */
static int vram__arena_is_right(const vram_buffer *b, uint32_t n, const vram_arena_options *o,
                                void *scratch, uint64_t scratch_bytes, const vram_arena *result) {
  vram_arena verified;
  uint32_t k;
  if (vram_arena_verify(b, n, o, scratch, scratch_bytes, &verified, NULL))
    return 0;
  for (k = 0; k < VRAM_ARENA_BANKS; k++)
    if (verified.bank_bytes[k] != result->bank_bytes[k])
      return 0;
  return verified.height_bytes == result->height_bytes;
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
  vram__memory_zero(&zero, sizeof zero);
  vram__memory_zero(&result, sizeof result);
  o = o ? o : &zero;
  vram__arena_begin(&a, b, n, o, scratch, scratch_bytes, &e);
  brick = a.brick;
  for (k = 0; !e.code && k < vram__arena_bank_count(o); k++)
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
        b[brick[placed].buffer].bank = brick[placed].bank;
        placed++;
      }
    }
  VRAM_ASSERT(e.code || vram__arena_is_right(b, n, o, scratch, scratch_bytes, &result));
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
  vram__memory_zero(&zero, sizeof zero);
  vram__memory_zero(&result, sizeof result);
  o = o ? o : &zero;
  nbank = o->nbank ? o->nbank : 1;
  vram__arena_begin(&a, b, n, o, scratch, scratch_bytes, &e);
  for (i = 0; i < n && !e.code; i++) {
    const uint64_t align = b[i].align ? b[i].align : o->align ? o->align : 1;
    const uint64_t end = vram__sum_or_overflow(b[i].offset, b[i].bytes);
    if (b[i].bank >= nbank || (b[i].banks && !(b[i].banks >> b[i].bank & 1))) {
      vram__error_begin(&e, VRAM_ERR_VALUE, i + 1, "");
      vram__error_number(&e, "is in a bank where it is not allowed: ", b[i].bank);
    } else if (b[i].offset & (align - 1)) {
      vram__error_begin(&e, VRAM_ERR_VALUE, i + 1, "");
      vram__error_number(&e, "is at ", b[i].offset);
      vram__error_number(&e, ", no multiple of its alignment ", align);
    } else if (end > (uint64_t)VRAM_MAX_BYTES) {
      vram__error_begin(&e, VRAM_ERR_OVERFLOW, i + 1, "ends beyond VRAM_MAX_BYTES");
    } else if (o->capacity[b[i].bank] && end > o->capacity[b[i].bank]) {
      vram__error_begin(&e, VRAM_ERR_VALUE, i + 1, "");
      vram__error_number(&e, "ends at ", end);
      vram__error_number(&e, ", its bank has ", o->capacity[b[i].bank]);
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
    vram__memory_zero(&result, sizeof result);
  if (arena)
    *arena = result;
  if (err)
    *err = e;
  return e.code;
}
