/* Bytes -> options of a pool and calls on it -> what must hold after every call. The bytes come
   from a fuzzer or from random numbers. */
#ifndef TESTS_POOL_CALLS_H
#define TESTS_POOL_CALLS_H
#include "pool.h"

#define CALLS_LIVE 400

typedef struct held {
  uint64_t address, twin, size, stream;
  int used; /* by other streams */
} held;

typedef struct calls {
  const uint8_t *data;
  size_t left;
  int print; /* every call and what it did, for tests/pool_model.py */
  vram_pool_options o;
  uint32_t blocks;
  device d, td;
  vram_pool p, t; /* t: policy TORCH beside BEST */
  heard h;
  held live[CALLS_LIVE];
  uint32_t nlive;
} calls;

static uint32_t calls_pick(calls *c, uint32_t n) {
  uint32_t v = 0, i;
  for (i = 1; i < n && i <= 0x10000; i *= 256)
    if (c->left) {
      v = v * 256 + *c->data++;
      c->left--;
    }
  return v % n;
}

static uint64_t calls_mib(calls *c, const uint64_t *mib, uint32_t n) {
  return mib[calls_pick(c, n)] << 20;
}

static void calls_options(calls *c) {
  static const uint64_t split[8] = {0, 0, 0, 20, 21, 32, 64, 200}, round[4] = {0, 0, 20, 30};
  static const uint64_t large[6] = {0, 0, 0, 20, 30, 64}, total[4] = {65536, 2000, 600, 150};
  static const uint16_t divisions[6] = {0, 0, 1, 2, 4, 16};
  static const uint32_t blocks[4] = {3000, 3000, 60, 9};
  uint32_t i;
  memset(&c->o, 0, sizeof c->o);
  c->o.policy = calls_pick(c, 3) ? VRAM_POOL_TORCH : VRAM_POOL_BEST;
  c->o.max_split_size = calls_mib(c, split, 8);
  c->o.max_non_split_rounding = calls_mib(c, round, 4);
  c->o.large_segment_size = calls_mib(c, large, 6);
  c->o.total_bytes = calls_mib(c, total, 4);
  if (calls_pick(c, 3) == 0)
    c->o.limit_bytes = c->o.total_bytes / 8 * (4 + calls_pick(c, 4));
  if (calls_pick(c, 3) == 0)
    c->o.garbage_collection_threshold = 100000 * (1 + calls_pick(c, 9));
  c->o.expandable_segments = c->o.policy == VRAM_POOL_TORCH && calls_pick(c, 3) == 0;
  for (i = 0; i < 16; i++)
    c->o.roundup_power2_divisions[i] =
        i % 4 ? c->o.roundup_power2_divisions[i - 1] : divisions[calls_pick(c, 6)];
  c->o.streams = 1 + calls_pick(c, 4);
  c->blocks = blocks[calls_pick(c, 4)];
  if (c->print) {
    c->blocks = 3000;
    c->o.policy = VRAM_POOL_TORCH;
    c->o.streams = 8;
  }
}

/* PyTorch without its limits: what policy BEST is held against. */
static int calls_plain(const calls *c) {
  return c->o.policy == VRAM_POOL_BEST && !c->o.max_split_size && !c->o.limit_bytes &&
         c->blocks == 3000 && !c->d.fail;
}

static uint64_t calls_size(calls *c) { /* each doubling from 1 byte to 256 MiB as often */
  const uint32_t most = c->o.total_bytes > (UINT64_C(1) << 32) ? 28 : 25;
  const uint64_t at = UINT64_C(1) << calls_pick(c, most);
  return at - 1 + calls_pick(c, at < 60000 ? (uint32_t)at : 60000) * (at / 60000 + 1);
}

static void calls_hold(calls *c) {
  uint32_t i;
  vram_piece piece;
  pool_holds(&c->p, &c->d);
  heard_all(&c->h, &c->p.stats);
  if (c->p.stats.allocation[0].current != c->nlive)
    FAIL("as many blocks are handed out as were asked for");
  for (i = 0; i < c->nlive; i++)
    if (!vram_pool_find(&c->p, c->live[i].address, &piece) || piece.state != 1 ||
        piece.address != c->live[i].address || piece.requested != c->live[i].size ||
        piece.stream != c->live[i].stream || piece.bytes < c->live[i].size)
      FAIL("a block is not what was asked for");
}

static void calls_say(const calls *c, const char *what) {
  const vram_memory_stats *s = &c->p.stats;
  if (c->print)
    printf("%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
           " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n",
           what, s->allocated_bytes[0].current, s->reserved_bytes[0].current,
           s->requested_bytes[0].current, s->active_bytes[0].current, s->segment[0].current,
           s->inactive_split[0].current, s->inactive_split_bytes[0].current, s->num_alloc_retries,
           s->num_ooms, s->num_device_alloc, s->num_device_free);
}

static void calls_alloc(calls *c) {
  const uint64_t size = calls_size(c), stream = calls_pick(c, 3) * UINT64_C(7);
  const uint64_t room = c->p.stats.num_ooms;
  held *now = c->live + c->nlive;
  char what[80];
  vram_result r;
  if (c->nlive == CALLS_LIVE)
    return;
  now->size = size;
  now->stream = stream;
  now->used = 0;
  r = vram_pool_alloc(&c->p, size, stream, &now->address);
  if (r ? now->address != 0 || (r != VRAM_ERR_MEMORY && r != VRAM_ERR_LIMIT) ||
              (r == VRAM_ERR_MEMORY) != (c->p.stats.num_ooms == room + 1)
        : !now->address || now->address % 512)
    FAIL("an allocation's result and its address");
  if (calls_plain(c)) {
    if (vram_pool_alloc(&c->t, size, stream, &now->twin) != r && c->t.stats.num_alloc_retries == 0)
      FAIL("policy BEST has less room than PyTorch");
    if (r && now->twin)
      vram_pool_free(&c->t, now->twin);
    if (!r && !now->twin) { /* PyTorch has less room: the two went apart */
      c->o.limit_bytes = 1;
    }
  }
  c->nlive += !r;
  snprintf(what, sizeof what, "alloc %" PRIu64 " %" PRIu64 " %s", size, stream,
           r ? "failed" : "ok");
  calls_say(c, what);
}

static void calls_free(calls *c, uint32_t i) {
  const held was = c->live[i];
  char what[40];
  if (vram_pool_free(&c->p, was.address) != VRAM_OK)
    FAIL("what is handed out can be freed");
  if (vram_pool_free(&c->p, was.address) != VRAM_ERR_VALUE)
    FAIL("a block that was freed is not freed again");
  if (calls_plain(c))
    vram_pool_free(&c->t, was.twin);
  c->live[i] = c->live[--c->nlive];
  snprintf(what, sizeof what, "free %" PRIu32, i);
  calls_say(c, what);
}

static void calls_record(calls *c) {
  held *b;
  uint32_t i;
  uint64_t stream;
  vram_result r;
  char what[60];
  if (!c->nlive)
    return;
  i = calls_pick(c, c->nlive);
  b = c->live + i;
  stream = calls_pick(c, 5) * UINT64_C(7);
  r = vram_pool_record_stream(&c->p, b->address, stream);
  if (r != VRAM_OK && r != VRAM_ERR_LIMIT)
    FAIL("a stream may be recorded");
  if (calls_plain(c))
    vram_pool_record_stream(&c->t, b->twin, stream);
  snprintf(what, sizeof what, "record %" PRIu32 " %" PRIu64, i, stream);
  calls_say(c, what);
}

static int calls_begin(calls *c, void *mem, void *twin, uint64_t bytes) {
  vram_backend b = device_backend(&c->d, c->o.total_bytes), tb;
  vram_pool_options o = c->o;
  vram_error e;
  memset(&c->h, 0, sizeof c->h);
  c->nlive = 0;
  if (calls_pick(c, 3) == 0)
    c->d.fail = 1 + calls_pick(c, 30);
  o.event = hear;
  o.user = &c->h;
  if (!NEED(vram_pool_init(&c->p, &o, &b, mem, bytes, &e) == VRAM_OK))
    return 0;
  tb = device_backend(&c->td, c->o.total_bytes);
  o.policy = VRAM_POOL_TORCH;
  o.event = NULL;
  if (!NEED(vram_pool_init(&c->t, &o, &tb, twin, bytes, &e) == VRAM_OK))
    return 0;
  if (c->print) {
    uint32_t i;
    printf("options %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
           " %d %" PRIu64,
           c->o.max_split_size, c->o.max_non_split_rounding, c->o.large_segment_size,
           c->o.total_bytes, c->o.limit_bytes, c->o.garbage_collection_threshold,
           c->o.expandable_segments, c->d.fail);
    for (i = 0; i < 16; i++)
      printf(" %u", c->o.roundup_power2_divisions[i]);
    printf("\n");
  }
  return 1;
}

static TEST_UNUSED void calls_run(const uint8_t *data, size_t size, int print) {
  static calls c;
  void *mem, *twin;
  uint64_t bytes;
  memset(&c, 0, sizeof c);
  c.data = data;
  c.left = size;
  c.print = print;
  calls_options(&c);
  bytes = vram_pool_bytes(c.blocks, c.o.streams);
  mem = test_scratch(bytes);
  twin = test_scratch(bytes);
  if (!mem || !twin)
    abort();
  if (!calls_begin(&c, mem, twin, bytes))
    c.left = 0;
  while (c.left) {
    const uint32_t what = calls_pick(&c, 32);
    if (what < 16)
      calls_alloc(&c);
    else if (what < 27) {
      if (c.nlive)
        calls_free(&c, calls_pick(&c, c.nlive));
    } else if (what < 29)
      calls_record(&c);
    else if (what < 31) { /* time passes */
      char text[40];
      c.d.done += 1 + calls_pick(&c, 4);
      c.d.done = c.d.done < c.d.events ? c.d.done : c.d.events;
      c.td.done = c.d.done;
      snprintf(text, sizeof text, "done %" PRIu64, c.d.done);
      calls_say(&c, text);
    } else if (calls_pick(&c, 8) == 0) {
      vram_pool_empty_cache(&c.p);
      if (calls_plain(&c))
        vram_pool_empty_cache(&c.t);
      calls_say(&c, "empty_cache");
    } else if (vram_pool_free(&c.p, 512) != VRAM_ERR_VALUE ||
               vram_pool_record_stream(&c.p, 512, 0) != VRAM_ERR_VALUE)
      FAIL("nothing is handed out there");
    calls_hold(&c);
    if (calls_plain(&c) && c.t.stats.num_alloc_retries == 0 &&
        c.p.stats.reserved_bytes[0].current > c.t.stats.reserved_bytes[0].current)
      FAIL("policy BEST reserves more than PyTorch");
  }
  c.d.fail = 0;
  while (c.nlive)
    calls_free(&c, c.nlive - 1);
  vram_pool_empty_cache(&c.p);
  calls_say(&c, "empty_cache");
  calls_hold(&c);
  /* without room for two more blocks the ends of growing segments stay */
  if (c.p.stats.active[0].current || (c.blocks == 3000 && c.d.ranges))
    FAIL("all is given back");
  free(mem);
  free(twin);
}

#endif
