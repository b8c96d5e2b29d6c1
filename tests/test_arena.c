/* Offsets for known lifetimes: against every order of small sets; random sets with pins, alignments
   and banks; planted faults; bad input; one plan on every machine. */
#include "../vram.h"
#include "test.h"

static uint32_t seed = 1;
static uint32_t any(uint32_t n) { /* 0 to n - 1, the same everywhere */
  seed ^= seed << 13, seed ^= seed >> 17, seed ^= seed << 5;
  return seed % n;
}

static uint64_t up(uint64_t x, uint64_t align) { return (x + align - 1) / align * align; }

static int overlap(const vram_buffer *a, const vram_buffer *b) {
  return a->begin < b->end && b->begin < a->end;
}

/* Nothing of them has changed. */
static int same(const vram_buffer *a, const vram_buffer *b, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (a[i].bytes != b[i].bytes || a[i].begin != b[i].begin || a[i].end != b[i].end ||
        a[i].align != b[i].align || a[i].offset != b[i].offset || a[i].bank != b[i].bank ||
        a[i].banks != b[i].banks || a[i].pinned != b[i].pinned)
      return 0;
  return 1;
}

/* Scratch of exactly the bytes asked for. */
static vram_result plan(vram_buffer *b, uint32_t n, const vram_arena_options *o, vram_arena *a,
                        vram_error *e) {
  const uint64_t bytes = vram_arena_bytes(n, o);
  void *scratch = test_scratch(bytes);
  vram_result r = vram_arena_plan(b, n, o, scratch, bytes, a, e);
  free(scratch);
  return r;
}
static vram_result verify(const vram_buffer *b, uint32_t n, const vram_arena_options *o,
                          vram_arena *a, vram_error *e) {
  const uint64_t bytes = vram_arena_bytes(n, o);
  void *scratch = test_scratch(bytes);
  vram_result r = vram_arena_verify(b, n, o, scratch, bytes, a, e);
  free(scratch);
  return r;
}

/* ---- against all orders ---- */

enum { SMALL = 6 };

/* The lowest offset that leaves all of set[0..n) alone. */
static uint64_t lowest(const vram_buffer *b, const vram_buffer *const *set, uint32_t n) {
  const uint64_t align = b->align ? b->align : 1;
  uint64_t at = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    if (overlap(b, set[i]) && at < set[i]->offset + set[i]->bytes && set[i]->offset < at + b->bytes)
      at = up(set[i]->offset + set[i]->bytes, align), i = UINT32_MAX; /* from the first again */
  return at;
}

/* Any plan's buffers, taken from below, stay or sink when they are put at their lowest offset: so
   the least height of all orders is the least of all plans. */
static uint64_t least_height(vram_buffer *b, uint32_t n) {
  const vram_buffer *set[SMALL];
  uint32_t order[SMALL], pins = 0, m = 0, i, k;
  uint64_t least = UINT64_MAX;
  for (i = 0; i < n; i++)
    if (b[i].pinned)
      set[pins++] = b + i;
    else
      order[m++] = i;
  for (;;) {
    uint64_t height = 0;
    for (i = 0; i < m; i++) {
      b[order[i]].offset = lowest(b + order[i], set, pins + i);
      set[pins + i] = b + order[i];
    }
    for (i = 0; i < n; i++)
      if (b[i].offset + b[i].bytes > height)
        height = b[i].offset + b[i].bytes;
    least = least < height ? least : height;
    for (i = m; i > 1 && order[i - 2] > order[i - 1]; i--)
      ;
    if (i < 2)
      return least;
    for (k = m - 1; order[k] < order[i - 2]; k--)
      ;
    {
      const uint32_t t = order[k];
      order[k] = order[i - 2];
      order[i - 2] = t;
    }
    for (k = m - 1; i - 1 < k; i++, k--) {
      const uint32_t t = order[k];
      order[k] = order[i - 1];
      order[i - 1] = t;
    }
  }
}

static void against_all_orders(uint32_t cases) {
  uint32_t searched = 0, pinned = 0, aligned = 0, above = 0, c, i, k;
  for (c = 0; c < cases; c++) {
    const uint32_t n = 1 + any(SMALL), sizes = 1 + any(12), with_align = any(3), with_pins = any(4);
    vram_buffer b[SMALL], copy[SMALL];
    vram_arena a, g, v;
    vram_arena_options o;
    vram_error e;
    uint64_t least;
    memset(b, 0, sizeof b);
    memset(&o, 0, sizeof o);
    snprintf(test_where, sizeof test_where, "all orders, case %u", (unsigned)c);
    for (i = 0; i < n; i++) {
      b[i].bytes = 1 + any(sizes);
      b[i].begin = any(8);
      b[i].end = b[i].begin + 1 + any(6);
      if (!with_align)
        b[i].align = UINT64_C(1) << any(4);
      if (!with_pins && !any(3)) {
        const uint64_t align = b[i].align ? b[i].align : 1;
        b[i].offset = up(any(12), align);
        b[i].pinned = 1;
        for (k = 0; k < i; k++)
          if (b[k].pinned && overlap(b + k, b + i) && b[k].offset < b[i].offset + b[i].bytes &&
              b[i].offset < b[k].offset + b[k].bytes)
            b[i].pinned = 0;
        pinned += b[i].pinned;
        if (!b[i].pinned)
          b[i].offset = 0;
      }
    }
    memcpy(copy, b, sizeof b);
    least = least_height(copy, n);
    memcpy(copy, b, sizeof b);
    o.greedy = 1;
    EQUAL(plan(copy, n, &o, &g, &e), VRAM_OK);
    CHECK(g.height_bytes >= least && g.lower_bound_bytes <= least);
    CHECK(!g.proven || g.height_bytes == least);
    searched += g.height_bytes > least;
    above += g.lower_bound_bytes < least;
    aligned += !with_align;
    EQUAL(verify(copy, n, NULL, &v, &e), VRAM_OK);
    EQUAL(v.height_bytes, g.height_bytes);
    CHECK(v.lower_bound_bytes <= least);
    EQUAL(plan(b, n, NULL, &a, &e), VRAM_OK);
    EQUAL(a.height_bytes, least);
    EQUAL(a.lower_bound_bytes, least);
    EQUAL(a.proven, 1);
    EQUAL(verify(b, n, NULL, &v, &e), VRAM_OK);
    EQUAL(v.height_bytes, least);
    o.greedy = 0; /* a bank of that height holds it, one byte less does not */
    o.capacity[0] = least;
    EQUAL(plan(b, n, &o, &a, &e), VRAM_OK);
    o.capacity[0] = least - 1;
    if (least > 1) {
      memcpy(copy, b, sizeof b);
      EQUAL(plan(b, n, &o, &a, &e), VRAM_ERR_LIMIT);
      CHECK(same(copy, b, n));
    }
  }
  *test_where = 0;
  CHECK(searched > cases / 200 && above > cases / 200 && pinned && aligned); /* it is a test */
}

/* ---- random sets ---- */

enum { MANY = 400 };

static void random_set(vram_buffer *b, uint32_t n, uint32_t life, uint32_t aligns, uint32_t banks) {
  uint32_t i;
  memset(b, 0, n * sizeof *b);
  for (i = 0; i < n; i++) {
    b[i].bytes = any(20) ? 1 + any(5000) : 0;
    b[i].begin = any(2 * n);
    b[i].end = b[i].begin + 1 + any(any(8) ? life : 2 * n);
    b[i].align = aligns ? UINT64_C(1) << any(aligns) : 0;
    b[i].banks = banks && !any(3) ? 1 + any((1u << banks) - 1) : 0;
  }
}

static uint64_t hash_plan(const vram_buffer *b, uint32_t n) {
  uint64_t h = UINT64_C(14695981039346656037);
  uint32_t i, k;
  for (i = 0; i < n; i++)
    for (k = 0; k < 8; k++)
      h = (h ^ (b[i].offset >> 8 * k & 255) ^ (uint64_t)b[i].bank) * UINT64_C(1099511628211);
  return h;
}

static void random_sets(uint32_t cases) {
  static vram_buffer b[MANY], again[MANY];
  uint32_t c, i, spilled = 0, full = 0;
  for (c = 0; c < cases; c++) {
    const uint32_t n = 1 + any(c % 8 ? 60 : MANY), nbank = 1 + any(3);
    uint32_t life, aligns;
    vram_arena a, v;
    vram_arena_options o;
    vram_error e;
    vram_result r;
    memset(&o, 0, sizeof o);
    snprintf(test_where, sizeof test_where, "random set %u", (unsigned)c);
    life = 2 + any(30);
    aligns = any(2) ? any(9) : 0;
    random_set(b, n, life, aligns, nbank > 1 ? nbank : 0);
    o.nodes = 2000;
    o.align = any(2) ? UINT64_C(1) << any(9) : 0;
    o.nbank = nbank;
    for (i = 0; i < nbank; i++)
      o.capacity[i] = nbank == 1 ? 0 : any(3) ? 2000 + any(60000) : 0;
    /* pins: some of a plan stay where they were */
    memcpy(again, b, sizeof b);
    r = plan(b, n, &o, &a, &e);
    if (r) {
      EQUAL(r, VRAM_ERR_LIMIT);
      CHECK(*e.text != 0);
      CHECK(same(again, b, n));
      full++;
      continue;
    }
    EQUAL(verify(b, n, &o, &v, &e), VRAM_OK);
    for (i = 0; i < nbank; i++) {
      EQUAL(v.bank_bytes[i], a.bank_bytes[i]);
      CHECK(!o.capacity[i] || a.bank_bytes[i] <= o.capacity[i]);
      spilled += i && a.bank_bytes[i];
    }
    EQUAL(a.height_bytes, a.bank_bytes[0]);
    CHECK(a.height_bytes >= a.lower_bound_bytes);
    CHECK(nbank > 1 || a.lower_bound_bytes >= v.lower_bound_bytes);
    CHECK(nbank > 1 || !a.proven || a.height_bytes == a.lower_bound_bytes);
    memcpy(again, b, sizeof b);
    for (i = 0; i < n; i++) {
      if (!any(4)) {
        b[i].pinned = again[i].pinned = 1;
      } else
        b[i].offset = any(1000), b[i].bank = any(9); /* means nothing without a pin */
    }
    r = plan(b, n, &o, &a, &e);
    EQUAL(r == VRAM_OK || (r == VRAM_ERR_LIMIT && nbank > 1), 1);
    if (r)
      continue;
    EQUAL(verify(b, n, &o, &v, &e), VRAM_OK);
    for (i = 0; i < n; i++)
      if (b[i].pinned && (b[i].offset != again[i].offset || b[i].bank != again[i].bank))
        break;
    EQUAL(i, n);
  }
  *test_where = 0;
  CHECK(spilled && full);
}

/* ---- faults that are planted ---- */

static void planted(void) {
  static vram_buffer b[MANY], bad[MANY];
  vram_arena_options o;
  vram_arena a;
  vram_error e;
  uint32_t i, k, t, found = 0;
  memset(&o, 0, sizeof o);
  o.align = 64;
  o.nbank = 2;
  random_set(b, MANY, 30, 0, 0);
  o.nodes = 1000;
  o.capacity[0] = 100000;
  EQUAL(plan(b, MANY, &o, &a, &e), VRAM_OK);
  CHECK(a.bank_bytes[0] && a.bank_bytes[1]);
  EQUAL(verify(b, MANY, &o, &a, &e), VRAM_OK);
  for (t = 0; t < 60; t++) {
    snprintf(test_where, sizeof test_where, "planted overlap %u", (unsigned)t);
    memcpy(bad, b, sizeof b);
    i = any(MANY);
    for (k = any(MANY);
         k == i || !b[i].bytes || !b[k].bytes || b[i].bank != b[k].bank || !overlap(b + i, b + k);
         k = any(MANY))
      i = any(MANY);
    /* its last aligned offset inside the other one, or the other one's own */
    bad[i].offset = t & 1 ? b[k].offset : (b[k].offset + b[k].bytes - 1) & ~UINT64_C(63);
    if (b[i].bank == 0 && bad[i].offset + bad[i].bytes > o.capacity[0])
      continue;
    EQUAL(verify(bad, MANY, &o, &a, &e), VRAM_ERR_VALUE);
    CHECK(e.line && strstr(e.text, "overlaps buffer "));
    EQUAL(a.height_bytes, 0);
    found++;
  }
  CHECK(found > 30);
  snprintf(test_where, sizeof test_where, "planted");
  for (i = 0; b[i].bank || !b[i].bytes; i++)
    ;
#define PLANT(change, what)                                                                        \
  memcpy(bad, b, sizeof b);                                                                        \
  change;                                                                                          \
  EQUAL(verify(bad, MANY, &o, &a, &e), VRAM_ERR_VALUE);                                            \
  EQUAL(e.line, i + 1);                                                                            \
  if (!CHECK(strstr(e.text, what)))                                                                \
  printf("%s\n", e.text)
  PLANT(bad[i].offset += 32, "no multiple of its alignment 64");
  PLANT(bad[i].align = UINT64_C(1) << 40; bad[i].offset = 64, "no multiple of its alignment");
  PLANT(bad[i].offset = 128000, "its bank has 100000");
  PLANT(bad[i].bank = 2, "in a bank where it is not allowed: 2");
  PLANT(bad[i].banks = 2, "in a bank where it is not allowed: 0");
  PLANT(bad[i].end = bad[i].begin, "ends when it begins");
  memcpy(bad, b, sizeof b);
  bad[i].offset = UINT64_MAX - 63;
  EQUAL(verify(bad, MANY, &o, &a, &e), VRAM_ERR_OVERFLOW);
  /* a buffer that ends as another begins may take its place; of nothing, any place */
  memset(bad, 0, 3 * sizeof *bad);
  bad[0].bytes = bad[1].bytes = 10;
  bad[0].end = bad[1].begin = 5;
  bad[1].end = bad[2].end = 9;
  EQUAL(verify(bad, 3, NULL, &a, &e), VRAM_OK);
  bad[0].end = 6;
  EQUAL(verify(bad, 3, NULL, &a, &e), VRAM_ERR_VALUE);
  TEXT(e.text, "overlaps buffer 0 while both live: 0 to 10 and 0 to 10");
  *test_where = 0;
}

/* ---- bad input ---- */

static void refuse(const vram_buffer *b, uint32_t n, const vram_arena_options *o, vram_result r,
                   uint32_t line, const char *text) {
  vram_buffer copy[4];
  vram_arena a;
  vram_error e;
  memcpy(copy, b, n * sizeof *b);
  EQUAL(plan(copy, n, o, &a, &e), r);
  EQUAL(e.code, r);
  EQUAL(e.line, line);
  TEXT(e.text, text);
  CHECK(same(copy, b, n));
}

static void bad_input(void) {
  vram_buffer b[3];
  vram_arena_options o;
  vram_arena a;
  vram_error e;
  char scratch[16];
#define RESET                                                                                      \
  memset(b, 0, sizeof b);                                                                          \
  memset(&o, 0, sizeof o);                                                                         \
  b[0].bytes = b[1].bytes = b[2].bytes = 100;                                                      \
  b[0].end = b[1].end = b[2].end = 10
  RESET;
  b[1].begin = 11;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 2, "ends before it begins: 11 to 10");
  b[1].begin = 10;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 2, "ends when it begins: 10 to 10");
  RESET;
  b[2].align = 48;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 3, "an alignment that is no power of two: 48");
  RESET;
  o.align = 3;
  refuse(b, 3, &o, VRAM_ERR_VALUE, 0, "an alignment that is no power of two: 3");
  RESET;
  b[0].pinned = b[2].pinned = 1;
  b[2].offset = 99;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 3,
         "is pinned over buffer 0 while both live: 99 to 199 and 0 to 100");
  b[2].offset = 100;
  EQUAL(plan(b, 3, NULL, &a, &e), VRAM_OK);
  EQUAL(b[1].offset, 200);
  RESET;
  b[1].pinned = 1;
  b[1].offset = 8;
  b[1].align = 16;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 2, "is pinned at 8, no multiple of its alignment 16");
  RESET;
  b[1].pinned = 1;
  b[1].bank = 1;
  refuse(b, 3, NULL, VRAM_ERR_VALUE, 2, "is pinned in a bank where it is not allowed: 1");
  RESET;
  b[1].banks = 4;
  o.nbank = 2;
  refuse(b, 3, &o, VRAM_ERR_VALUE, 2, "is allowed in none of the banks");
  o.nbank = VRAM_ARENA_BANKS + 1;
  refuse(b, 3, &o, VRAM_ERR_VALUE, 0, "more banks than VRAM_ARENA_BANKS");
  RESET;
  o.order = VRAM_ARENA_ORDER_COUNT;
  refuse(b, 3, &o, VRAM_ERR_VALUE, 0, "no such order: 18");
  RESET;
  o.capacity[0] = 150;
  b[2].pinned = 1;
  b[2].offset = 51;
  refuse(b, 3, &o, VRAM_ERR_LIMIT, 3, "is pinned up to 151, its bank has 150");
  RESET;
  b[0].bytes = b[1].bytes = (uint64_t)VRAM_MAX_BYTES / 2;
  refuse(b, 3, NULL, VRAM_ERR_OVERFLOW, 3,
         "sizes and alignments up to here add up to more than VRAM_MAX_BYTES");
  b[2].bytes = 1;
  EQUAL(plan(b, 3, NULL, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, VRAM_MAX_BYTES);
  b[0].pinned = 1;
  b[0].offset = UINT64_MAX;
  refuse(b, 3, NULL, VRAM_ERR_OVERFLOW, 1,
         "sizes and alignments up to here add up to more than VRAM_MAX_BYTES");
  RESET;
  o.capacity[0] = 299;
  refuse(b, 3, &o, VRAM_ERR_LIMIT, 0, "needs 300 bytes at least, the bank has 299");
  EQUAL(plan(b, 3, &o, &a, &e), VRAM_ERR_LIMIT);
  EQUAL(a.height_bytes, 300); /* what it would take */
  RESET; /* two banks: what has no bytes has room, and is not the one that has none */
  b[1].bytes = 0;
  o.nbank = 2;
  o.capacity[0] = o.capacity[1] = 50;
  refuse(b, 2, &o, VRAM_ERR_LIMIT, 1, "has no room in any bank");
  RESET;
  EQUAL(vram_arena_plan(b, 3, NULL, scratch, sizeof scratch, &a, &e), VRAM_ERR_MEMORY);
  CHECK(!strncmp(e.text, "scratch needs ", 14));
  EQUAL(vram_arena_verify(b, 3, NULL, scratch, sizeof scratch, &a, &e), VRAM_ERR_MEMORY);
  EQUAL(vram_arena_bytes(UINT32_MAX, NULL), VRAM_OVERFLOW);
  CHECK(vram_arena_bytes(30, NULL) < 40000);
  /* nothing to do */
  EQUAL(plan(b, 0, NULL, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, 0);
  EQUAL(a.proven, 1);
  EQUAL(verify(b, 0, NULL, &a, &e), VRAM_OK);
  /* nothing at all, and the whole of time */
  RESET;
  b[1].bytes = 0;
  b[1].offset = 77;
  b[1].banks = 2;
  b[2].bytes = 0;
  b[2].pinned = 1;
  b[2].offset = 50;
  b[0].begin = 0;
  b[0].end = UINT64_MAX;
  o.nbank = 2;
  EQUAL(plan(b, 3, &o, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, 100);
  EQUAL(b[1].offset, 0);
  EQUAL(b[1].bank, 1);
  EQUAL(b[2].offset, 50);
  EQUAL(verify(b, 3, &o, &a, &e), VRAM_OK);
}

/* ---- sets whose plan is known ---- */

static void known(void) {
  /* MiniMalloc's example: 12 is enough */
  static const vram_buffer example[5] = {
      {4, 0, 3, 0, 0, 0, 0, 0},  {4, 3, 9, 0, 0, 0, 0, 0},  {4, 0, 9, 0, 0, 0, 0, 0},
      {4, 9, 21, 0, 0, 0, 0, 0}, {4, 0, 21, 0, 0, 0, 0, 0},
  };
  /* XNNPACK#10800: the gap before the first live buffer counts: 180, not 240 */
  static const vram_buffer leading[3] = {
      {100, 0, 2, 0, 0, 0, 0, 0}, {80, 1, 3, 0, 0, 0, 0, 0}, {60, 2, 4, 0, 0, 0, 0, 0}};
  vram_buffer b[5];
  vram_arena a;
  vram_arena_options o;
  vram_error e;
  memcpy(b, example, sizeof example);
  EQUAL(plan(b, 5, NULL, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, 12);
  EQUAL(a.proven, 1);
  memset(&o, 0, sizeof o);
  o.greedy = 1;
  memcpy(b, leading, sizeof leading);
  EQUAL(plan(b, 3, &o, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, 180);
  /* offsets are multiples of 256, the height is not: the last one need not be filled up */
  memcpy(b, leading, sizeof leading);
  o.align = 256;
  EQUAL(plan(b, 3, &o, &a, &e), VRAM_OK);
  EQUAL(a.height_bytes, 256 + 80);
  EQUAL(a.proven, 1);
}

/* A height that is good enough: any plan, but a plan, and the first one. */
static void enough(void) {
  static const uint64_t heights[] = {1, 150, UINT64_MAX - 1, UINT64_MAX};
  vram_buffer b[3];
  vram_arena a, v;
  vram_arena_options o;
  vram_error e;
  uint32_t i;
  memset(&o, 0, sizeof o);
  for (i = 0; i < 4; i++) {
    memset(b, 0, sizeof b);
    b[0].bytes = b[1].bytes = b[2].bytes = 100;
    b[0].end = b[1].end = b[2].end = 10;
    o.enough_bytes = heights[i];
    EQUAL(plan(b, 3, &o, &a, &e), VRAM_OK);
    EQUAL(a.height_bytes, 300);
    EQUAL(a.lower_bound_bytes, 300);
    EQUAL(verify(b, 3, &o, &v, &e), VRAM_OK);
    EQUAL(v.height_bytes, 300);
  }
}

/* One greedy order alone: a plan; all of them: the lowest of these plans. */
static void one_order(void) {
  static vram_buffer b[MANY], copy[MANY];
  vram_arena a, all, v;
  vram_arena_options o;
  vram_error e;
  uint32_t c, k, others = 0;
  for (c = 0; c < 20; c++) {
    const uint32_t n = 1 + any(80);
    uint64_t least = UINT64_MAX;
    snprintf(test_where, sizeof test_where, "one order, case %u", (unsigned)c);
    random_set(b, n, 30, c % 2 ? 6 : 0, 0);
    memset(&o, 0, sizeof o);
    o.greedy = 1;
    memcpy(copy, b, sizeof b);
    EQUAL(plan(copy, n, &o, &all, &e), VRAM_OK);
    o.greedy = 0;
    for (k = 1; k < VRAM_ARENA_ORDER_COUNT; k++) {
      o.order = (vram_arena_order)k;
      memcpy(copy, b, sizeof b);
      EQUAL(plan(copy, n, &o, &a, &e), VRAM_OK);
      EQUAL(a.nodes, 0);
      EQUAL(verify(copy, n, &o, &v, &e), VRAM_OK);
      EQUAL(v.height_bytes, a.height_bytes);
      EQUAL(a.lower_bound_bytes, all.lower_bound_bytes);
      others += a.height_bytes > all.height_bytes;
      least = least < a.height_bytes ? least : a.height_bytes;
    }
    EQUAL(all.height_bytes, least);
  }
  *test_where = 0;
  CHECK(others);
  TEXT(vram_arena_order_name(VRAM_ARENA_ORDER_all), "all");
  TEXT(vram_arena_order_name(VRAM_ARENA_ORDER_tflm), "tflm");
  TEXT(vram_arena_order_name(VRAM_ARENA_ORDER_COUNT), "?");
}

#define GOLDEN_PLAN UINT64_C(3295306629729510507)
static int calls;
static int stop_at_once(void *user) {
  CHECK(user == &calls);
  calls++;
  return 1;
}

static void one_plan(void) {
  static vram_buffer b[MANY], again[MANY];
  vram_arena a, v;
  vram_arena_options o;
  vram_error e;
  uint32_t i;
  memset(&o, 0, sizeof o);
  seed = 3;
  random_set(b, 60, 20, 0, 0);
  for (i = 0; i < 60; i++) {
    b[i].bytes = 1 + any(40);
    b[i].begin = any(40);
    b[i].end = b[i].begin + 1 + any(16);
  }
  memcpy(again, b, sizeof b);
  o.greedy = 1;
  EQUAL(plan(again, 60, &o, &v, &e), VRAM_OK);
  memcpy(again, b, sizeof b);
  o.greedy = 0;
  o.nodes = 20000;
  EQUAL(plan(b, 60, &o, &a, &e), VRAM_OK);
  CHECK(a.nodes > 0 && a.height_bytes < v.height_bytes);
  EQUAL(hash_plan(b, 60), GOLDEN_PLAN); /* the same on every machine */
  o.stop = stop_at_once;
  o.user = &calls;
  EQUAL(plan(again, 60, &o, &v, &e), VRAM_OK);
  CHECK(calls == 1 && v.height_bytes >= a.height_bytes);
  EQUAL(verify(again, 60, &o, &v, &e), VRAM_OK);
  /* an order of equal buffers changes nothing but who is who */
  for (i = 0; i < 60; i++) {
    memset(b + i, 0, sizeof *b);
    b[i].bytes = 1 + i % 3;
    b[i].begin = i % 7;
    b[i].end = i % 7 + 1 + i % 4;
    again[59 - i] = b[i];
  }
  EQUAL(plan(b, 60, NULL, &a, &e), VRAM_OK);
  EQUAL(plan(again, 60, NULL, &v, &e), VRAM_OK);
  EQUAL(a.height_bytes, v.height_bytes);
  EQUAL(a.nodes, v.nodes);
}

/* More buffers than one chunk of the planner's list, than the search takes, and time in both
   directions. */
static void large(void) {
  enum { LARGE = 3000 };
  vram_buffer *b = (vram_buffer *)malloc(LARGE * sizeof *b);
  vram_arena a, v;
  vram_error e;
  uint32_t i;
  if (!b)
    abort();
  random_set(b, LARGE, 60, 0, 0);
  EQUAL(plan(b, LARGE, NULL, &a, &e), VRAM_OK);
  EQUAL(verify(b, LARGE, NULL, &v, &e), VRAM_OK);
  EQUAL(a.height_bytes, v.height_bytes);
  EQUAL(a.lower_bound_bytes, v.lower_bound_bytes);
  for (i = 0; i < LARGE; i++) { /* parts of time that nothing connects */
    b[i].begin = i / 10 * 100 + i % 10;
    b[i].end = b[i].begin + 1 + any(10);
    b[i].bytes = 1 + any(9);
  }
  EQUAL(plan(b, LARGE, NULL, &a, &e), VRAM_OK);
  EQUAL(verify(b, LARGE, NULL, &v, &e), VRAM_OK);
  EQUAL(a.proven, 1);
  free(b);
}

/* ---- banks by accesses ---- */

/* The most accesses that a bank of this size can have: every set in every order. */
static uint64_t most_accesses(const vram_buffer *b, const uint64_t *accesses, uint32_t n,
                              uint64_t capacity) {
  uint64_t most = 0, sum;
  uint32_t set, i, count;
  for (set = 0; set < UINT32_C(1) << n; set++) {
    vram_buffer some[SMALL];
    for (i = count = 0, sum = 0; i < n; i++)
      if (set >> i & 1) {
        some[count++] = b[i];
        sum += accesses[i];
      }
    if (sum > most && least_height(some, count) <= capacity)
      most = sum;
  }
  return most;
}

static void spilled(uint32_t cases) {
  vram_buffer b[SMALL];
  uint64_t accesses[SMALL], sum, bytes;
  vram_arena_options o;
  vram_arena a, v;
  vram_error e;
  uint32_t i, k, n;
  void *scratch;
  for (k = 0; k < cases; k++) {
    n = 1 + any(SMALL - 1);
    memset(b, 0, sizeof b);
    memset(&o, 0, sizeof o);
    for (i = 0; i < n; i++) {
      b[i].bytes = 1 + any(9);
      b[i].begin = any(5);
      b[i].end = b[i].begin + 1 + any(4);
      accesses[i] = any(30);
    }
    o.nbank = 2 + k % 2;
    o.capacity[0] = 1 + any(16);
    o.capacity[1] = o.nbank > 2 ? 1 + any(10) : 0;
    bytes = vram_arena_spill_bytes(n, &o);
    scratch = test_scratch(bytes);
    snprintf(test_where, sizeof test_where, "spill %u", (unsigned)k);
    EQUAL(vram_arena_spill(b, accesses, n, &o, scratch, bytes, &a, &e), VRAM_OK);
    EQUAL(a.proven, 1);
    EQUAL(verify(b, n, &o, &v, &e), VRAM_OK);
    for (i = 0; i < o.nbank; i++)
      EQUAL(a.bank_bytes[i], v.bank_bytes[i]);
    for (i = 0, sum = 0; i < n; i++)
      sum += b[i].bank ? 0 : accesses[i];
    EQUAL(sum, most_accesses(b, accesses, n, o.capacity[0]));
    EQUAL(vram_arena_spill(b, accesses, n, &o, scratch, bytes - 1, &a, &e), VRAM_ERR_MEMORY);
    free(scratch);
  }
  o.nbank = 2;
  o.capacity[0] = o.capacity[1] = 0; /* the first is for all but one */
  bytes = vram_arena_spill_bytes(2, &o);
  scratch = test_scratch(bytes);
  b[0].bytes = b[1].bytes = 5;
  b[0].banks = 2;
  b[1].banks = 0;
  EQUAL(vram_arena_spill(b, accesses, 2, &o, scratch, bytes, &a, &e), VRAM_OK);
  EQUAL(b[0].bank, 1);
  EQUAL(b[1].bank, 0);
  EQUAL(verify(b, 2, &o, &v, &e), VRAM_OK);
  EQUAL(a.bank_bytes[0], 5);
  EQUAL(a.bank_bytes[1], 5);
  b[0].banks = 0;
  o.capacity[0] = 8; /* of these many accesses nobody knows to the last */
  o.capacity[1] = 0;
  b[0].end = b[1].end = (b[0].begin = b[1].begin = 0) + 1;
  accesses[0] = UINT64_C(1) << 60;
  accesses[1] = accesses[0] + 1;
  EQUAL(vram_arena_spill(b, accesses, 2, &o, scratch, bytes, &a, &e), VRAM_OK);
  EQUAL(b[0].bank + b[1].bank, 1);
  CHECK(!a.proven || !b[1].bank);
  free(scratch);
  o.capacity[0] = o.capacity[1] = 4;
  bytes = vram_arena_spill_bytes(1, &o);
  scratch = test_scratch(bytes);
  EQUAL(vram_arena_spill(b, accesses, 1, &o, scratch, bytes, &a, &e), VRAM_ERR_LIMIT);
  b[0].pinned = 1;
  EQUAL(vram_arena_spill(b, accesses, 1, &o, scratch, bytes, &a, &e), VRAM_ERR_VALUE);
  free(scratch);
}

/* ---- constants ---- */

enum { CONSTANTS = 8 };

typedef struct rom_way { /* all ways to place them */
  const uint64_t *bytes, *accesses;
  vram_rom_options o;
  uint32_t n, first; /* constants in memories before this one stay where they are */
  const uint32_t *memory;
} rom_way;

static int rom_fits(const rom_way *w, const uint32_t *memory) {
  uint64_t used[VRAM_ARENA_BANKS] = {0};
  uint32_t i;
  for (i = 0; i < w->n; i++) {
    used[memory[i]] += w->bytes[i];
    if (w->o.image[memory[i]])
      used[w->o.image[memory[i]] - 1] += w->bytes[i];
  }
  for (i = 0; i < w->o.nbank; i++)
    if (used[i] > w->o.capacity[i])
      return 0;
  return 1;
}

/* The most accesses in memory `first`, as all numbers of n digits to the base nbank; -1: nothing
   fits. */
static int64_t rom_most(const rom_way *w) {
  int64_t most = -1;
  uint32_t code, codes = 1, i, memory[CONSTANTS];
  for (i = 0; i < w->n; i++)
    codes *= w->o.nbank;
  for (code = 0; code < codes; code++) {
    uint32_t rest = code;
    int64_t sum = 0;
    int same = 1;
    for (i = 0; i < w->n; i++, rest /= w->o.nbank) {
      memory[i] = rest % w->o.nbank;
      if (w->first && (memory[i] < w->first || w->memory[i] < w->first))
        same &= memory[i] == w->memory[i];
      sum += memory[i] == w->first ? (int64_t)w->accesses[i] : 0;
    }
    if (same && sum > most && rom_fits(w, memory))
      most = sum;
  }
  return most;
}

static void constants(uint32_t cases) {
  static const uint32_t images[4][4] = {{0, 0, 0, 0}, {2, 0, 0, 0}, {0, 3, 0, 0}, {3, 3, 0, 0}};
  uint64_t bytes[CONSTANTS], accesses[CONSTANTS], total, need;
  uint32_t memory[CONSTANTS], i, k, fit = 0, refused = 0;
  vram_rom rom;
  vram_error e;
  rom_way w;
  void *scratch;
  for (k = 0; k < cases; k++) {
    memset(&w, 0, sizeof w);
    w.bytes = bytes;
    w.accesses = accesses;
    w.memory = memory;
    w.o.nbank = 2 + k % 2;
    w.n = 1 + any(w.o.nbank == 2 ? CONSTANTS : CONSTANTS - 2);
    for (i = 0, total = 0; i < w.n; i++) {
      total += bytes[i] = 4 * (uint64_t)(1 + any(9));
      accesses[i] = any(30);
    }
    for (i = 0; i < w.o.nbank; i++) { /* not much more than they need */
      w.o.capacity[i] = 1 + any((uint32_t)total);
      w.o.image[i] = images[w.o.nbank == 2 ? k / 2 % 2 : k / 2 % 4][i];
    }
    snprintf(test_where, sizeof test_where, "constants %u", (unsigned)k);
    need = vram_rom_bytes(bytes, w.n);
    scratch = test_scratch(need);
    if (vram_rom_place(bytes, accesses, w.n, &w.o, scratch, need, memory, &rom, &e)) {
      EQUAL(e.code, VRAM_ERR_LIMIT);
      EQUAL((uint64_t)(rom_most(&w) + 1), 0);
      refused++;
    } else {
      EQUAL(rom.proven, 1);
      CHECK(rom_fits(&w, memory));
      for (w.first = 0; w.first < w.o.nbank; w.first++)
        EQUAL((int64_t)rom.accesses[w.first], rom_most(&w));
      fit++;
    }
    EQUAL(vram_rom_place(bytes, accesses, w.n, &w.o, scratch, need - 1, memory, &rom, &e),
          VRAM_ERR_MEMORY);
    free(scratch);
  }
  CHECK(fit > cases / 4 && refused > cases / 8);
  w.o.nbank = 2;
  w.o.image[0] = 1; /* in itself */
  EQUAL(vram_rom_place(bytes, accesses, w.n, &w.o, NULL, 0, memory, &rom, &e), VRAM_ERR_VALUE);
  w.o.nbank = 0;
  EQUAL(vram_rom_place(bytes, accesses, w.n, &w.o, NULL, 0, memory, &rom, &e), VRAM_ERR_VALUE);
  bytes[0] = bytes[1] = VRAM_MAX_BYTES;
  EQUAL(vram_rom_bytes(bytes, 2), VRAM_OVERFLOW);
}

int main(void) {
  against_all_orders(400);
  spilled(200);
  random_sets(150);
  planted();
  bad_input();
  known();
  enough();
  one_order();
  one_plan();
  large();
  constants(400);
  return test_done("test_arena");
}
