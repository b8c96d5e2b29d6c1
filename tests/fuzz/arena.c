/* Bytes -> buffers with alignments, banks and pins, and options -> a plan, in scratch that is just
   enough and full of something -> that plan, checked here and by the library.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/arena.c \
     build/fuzz/tool.a -ldl -o build/fuzz-arena
   build/fuzz-arena -max_len=512 build/corpus tests/fuzz/corpus/arena */
#include "../../vram.h"

#include "fuzz.h"

enum { MANY = 48 };

typedef struct input {
  const uint8_t *at;
  size_t left;
} input;

static unsigned pick(input *in, unsigned below) {
  if (!in->left)
    return 0;
  in->left--;
  return *in->at++ % below;
}

/* Small, or around a power of two, or huge. */
static uint64_t pick_size(input *in) {
  const unsigned how = pick(in, 16);
  if (how < 12)
    return pick(in, 200);
  return (UINT64_C(1) << pick(in, how == 15 ? 64 : 20)) + pick(in, 3) - 1;
}

static void *filled(uint64_t bytes) {
  void *p = malloc((size_t)bytes);
  MUST(p);
  memset(p, 0xbe, (size_t)bytes);
  return p;
}

static int never_yet(void *user) {
  unsigned *left = (unsigned *)user;
  return *left ? !--*left : 0;
}

/* What the input asks for. */
static void pick_options(input *in, vram_arena_options *o) {
  uint32_t i;
  memset(o, 0, sizeof *o);
  o->nodes = 1 + pick(in, 250) * UINT64_C(4);
  o->nbank = pick(in, 4);
  o->align = pick(in, 4) ? 0 : UINT64_C(1) << pick(in, 8);
  o->greedy = pick(in, 3) == 0;
  o->order = (vram_arena_order)(pick(in, 4) ? 0 : pick(in, VRAM_ARENA_ORDER_COUNT + 1));
  o->enough_bytes = pick(in, 3) ? 0 : pick(in, 4) ? pick_size(in) : UINT64_MAX - pick(in, 2);
  for (i = 0; i < VRAM_ARENA_BANKS; i++)
    o->capacity[i] = i < (o->nbank ? o->nbank : 1) && pick(in, 2) ? pick_size(in) : 0;
}

static uint32_t pick_buffers(input *in, vram_buffer *b) {
  uint32_t n = 0;
  while (in->left && n < MANY) {
    vram_buffer *k = b + n++;
    const unsigned odd = pick(in, 32);
    memset(k, 0, sizeof *k);
    k->bytes = pick_size(in);
    k->begin = pick(in, 24);
    k->end = k->begin + 1 + pick(in, 8);
    if (odd == 31) /* ends before it begins, perhaps */
      k->end = pick(in, 30);
    if (odd == 30)
      k->end = UINT64_MAX - pick(in, 3);
    if (odd & 1)
      k->align = UINT64_C(1) << pick(in, 8);
    if (odd == 29)
      k->align = pick(in, 100);
    if (odd & 2 && !pick(in, 3))
      k->banks = 1 + pick(in, 15);
    if (odd & 4 && !pick(in, 3)) {
      k->pinned = 1;
      k->offset = pick_size(in);
      k->bank = pick(in, 8) ? 0 : pick(in, 4);
    }
  }
  return n;
}

static int meet(const vram_buffer *a, const vram_buffer *b) {
  return a->bytes && b->bytes && a->bank == b->bank && a->begin < b->end && b->begin < a->end &&
         a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

static uint64_t align_of(const vram_buffer *b, const vram_arena_options *o) {
  return b->align ? b->align : o->align ? o->align : 1;
}

/* 0: it cannot be planned, whatever the planner does. */
static int can_be(const vram_buffer *b, uint32_t n, const vram_arena_options *o) {
  const uint32_t nbank = o->nbank ? o->nbank : 1;
  uint64_t room = VRAM_MAX_BYTES, most = 0; /* most: end of a pin */
  uint32_t i, k;
  if ((uint32_t)o->order >= VRAM_ARENA_ORDER_COUNT)
    return 0;
  for (i = 0; i < n; i++) {
    const uint64_t align = align_of(b + i, o);
    if (b[i].begin >= b[i].end || (align & (align - 1)) ||
        (b[i].banks && !(b[i].banks & ((1u << nbank) - 1))))
      return 0;
    if (b[i].bytes > room || align - 1 > room - b[i].bytes)
      return 0;
    room -= b[i].bytes + (align - 1);
    if (!b[i].pinned)
      continue;
    if (b[i].bank >= nbank || (b[i].banks && !(b[i].banks >> b[i].bank & 1)) ||
        b[i].offset % align || b[i].offset > (uint64_t)VRAM_MAX_BYTES - b[i].bytes)
      return 0;
    if (o->capacity[b[i].bank] && b[i].offset + b[i].bytes > o->capacity[b[i].bank])
      return 0;
    most = most > b[i].offset + b[i].bytes ? most : b[i].offset + b[i].bytes;
    for (k = 0; k < i; k++)
      if (b[k].pinned && meet(b + k, b + i))
        return 0;
  }
  return most <= room;
}

/* The plan against what was asked for. */
static void check_plan(const vram_buffer *b, const vram_buffer *asked, uint32_t n,
                       const vram_arena_options *o, const vram_arena *a) {
  uint64_t height[VRAM_ARENA_BANKS] = {0};
  uint32_t i, k;
  for (i = 0; i < n; i++) {
    const vram_buffer *x = b + i;
    MUST(x->bank < (o->nbank ? o->nbank : 1) && (!x->banks || (x->banks >> x->bank & 1)));
    MUST(x->offset % align_of(x, o) == 0);
    MUST(!x->pinned || (x->offset == asked[i].offset && x->bank == asked[i].bank));
    MUST(!o->capacity[x->bank] || x->offset + x->bytes <= o->capacity[x->bank]);
    for (k = 0; k < i; k++)
      MUST(!meet(b + k, x));
    if (x->bytes && x->offset + x->bytes > height[x->bank])
      height[x->bank] = x->offset + x->bytes;
  }
  MUST(!memcmp(height, a->bank_bytes, sizeof height) && a->height_bytes == height[0]);
  MUST(a->lower_bound_bytes <= a->height_bytes);
  MUST(o->nbank > 1 || !a->proven || a->lower_bound_bytes == a->height_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in;
  vram_buffer b[MANY], asked[MANY], again[MANY];
  vram_arena_options o;
  vram_arena a, v;
  vram_error e;
  vram_result r;
  unsigned stop;
  uint32_t n;
  uint64_t bytes;
  void *scratch;
  in.at = data;
  in.left = size;
  pick_options(&in, &o);
  stop = pick(&in, 3) ? 0 : 1 + pick(&in, 60);
  n = pick_buffers(&in, b);
  memcpy(asked, b, sizeof b);
  memcpy(again, b, sizeof b);
  bytes = vram_arena_bytes(n, &o);
  MUST(bytes < UINT64_C(1) << 24);
  scratch = filled(bytes);
  r = vram_arena_plan(b, n, &o, scratch, bytes, &a, &e);
  MUST(r == e.code && !e.text[0] == !r && e.line <= n);
  if (r) {
    MUST(!memcmp(b, asked, n * sizeof *b));
    MUST(!can_be(b, n, &o) || r == VRAM_ERR_LIMIT);
    MUST(r != VRAM_ERR_LIMIT || o.capacity[0] || o.capacity[1] || o.capacity[2]);
  } else {
    MUST(can_be(asked, n, &o));
    check_plan(b, asked, n, &o, &a);
    MUST(!vram_arena_verify(b, n, &o, scratch, bytes, &v, &e));
    MUST(v.height_bytes == a.height_bytes);
    MUST(o.nbank > 1 || v.lower_bound_bytes <= a.lower_bound_bytes);
  }
  free(scratch);
  /* the same once more, and stopped early: a plan all the same, of no less than the bound */
  scratch = filled(bytes);
  if (stop) {
    o.stop = never_yet;
    o.user = &stop;
  }
  MUST(stop || vram_arena_plan(again, n, &o, scratch, bytes, &v, NULL) == r);
  MUST(stop || !memcmp(again, b, n * sizeof *b));
  if (stop && !vram_arena_plan(again, n, &o, scratch, bytes, &v, NULL))
    check_plan(again, asked, n, &o, &v);
  free(scratch);
  return 0;
}
