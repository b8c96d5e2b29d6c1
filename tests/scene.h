/* A program that is watched: allocations of its own and in pools, on two devices and the host, and
   a ledger that hears of them. What happens follows from bytes, so that a fuzzer may choose it. */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H
#include "pool.h"

#include <stdlib.h>

#define SCENE_OWN 48    /* allocations of its own that may be alive */
#define SCENE_POOLED 64 /* in a pool */

typedef struct scene {
  vram_ledger ledger;
  vram_pool pool[2];
  const vram_pool *shown[2];
  device under[2];
  vram_memory_stats before; /* all zero */
  uint64_t own[SCENE_OWN], pooled[2][SCENE_POOLED], at, clock;
  uint32_t npool, devices, names;
  int own_too, streams, host;
  const char *const *name; /* of files, functions and tags */
  void *memory[3];
} scene;

static TEST_UNUSED uint64_t scene_clock(void *user) {
  scene *s = (scene *)user;
  return UINT64_C(1700000000000000) + s->clock;
}

/* kind: 0, 1 allocations of its own; 2 a pool alone, and nothing but requests and frees; 3 a pool
   with growing segments and streams as well; 4 and 5 two devices and the host. Odd ones keep few
   events; 6: tables that are too small. */
static TEST_UNUSED void scene_begin(scene *s, int kind, const char *const *name, uint32_t names) {
  vram_ledger_options o;
  uint64_t n;
  uint32_t i;
  memset(s, 0, sizeof *s);
  memset(&o, 0, sizeof o);
  s->name = name;
  s->names = names;
  s->devices = o.devices = kind == 4 || kind == 5 ? 2 : 1;
  s->npool = kind < 2 || kind == 6 ? 0 : 1;
  s->own_too = kind != 2;
  s->streams = kind == 3 || kind == 5;
  s->host = kind > 3;
  s->at = UINT64_C(0x7f0000000000);
  o.live = kind == 6 ? 20 : 1000;
  o.owners = kind == 6 ? 5 : 100;
  o.trace = kind % 2 ? 50 : kind == 6 ? 70 : 100000;
  o.groups = 50;
  o.clock = scene_clock;
  o.user = s;
  n = vram_ledger_bytes(&o);
  s->memory[2] = test_scratch(n);
  if (!s->memory[2] || vram_ledger_init(&s->ledger, &o, s->memory[2], n, NULL))
    abort();
  for (i = 0; i < s->npool; i++) {
    vram_pool_options p;
    vram_backend b = device_backend(&s->under[i], UINT64_C(1) << 30);
    memset(&p, 0, sizeof p);
    p.streams = 4;
    p.total_bytes = UINT64_C(1) << 30;
    p.expandable_segments = kind == 3;
    p.event = vram_ledger_event;
    p.user = &s->ledger;
    n = vram_pool_bytes(2000, 4);
    s->memory[i] = test_scratch(n);
    if (!s->memory[i] || vram_pool_init(&s->pool[i], &p, &b, s->memory[i], n, NULL))
      abort();
    s->shown[i] = &s->pool[i];
  }
}

static TEST_UNUSED void scene_end(scene *s) {
  int i;
  for (i = 0; i < 3; i++)
    free(s->memory[i]);
}

/* One step further; four bytes say what happens. */
static TEST_UNUSED void scene_step(scene *s, const uint8_t b[4]) {
  const char *const file = s->name[b[2] % s->names], *const tag = s->name[b[3] / 7 % s->names];
  const uint32_t owner = vram_ledger_owner(&s->ledger, file, b[2] % 5u, s->name[b[1] % s->names],
                                           b[3] & 1 ? tag : NULL);
  vram_event e;
  memset(&e, 0, sizeof e);
  s->clock += b[0] % 4;
  e.id = -1;
  e.owner = owner;
  /* caches are a step's alone */
  e.category = (vram_category)(b[3] % (VRAM_CATEGORY_COUNT - 1));
  if (e.category == VRAM_CATEGORY_CACHE)
    e.category = VRAM_CATEGORY_OTHER;
  if (b[0] < 12 && s->own_too) {
    e.action = b[0] < 4 ? VRAM_ACTION_MARK : b[0] < 8 ? VRAM_ACTION_OOM : VRAM_ACTION_RETRY;
    e.bytes = (uint64_t)b[1] << 20;
    e.device_free = b[2];
    vram_ledger_event(&s->ledger, &e);
  } else if (s->npool && (b[0] % 2 || !s->own_too)) {
    const uint32_t k = b[1] % s->npool;
    uint64_t *at = &s->pooled[k][b[1] / 2 % SCENE_POOLED];
    vram_pool *p = &s->pool[k];
    if (b[0] < 16 && s->own_too) {
      s->under[k].done = s->under[k].events;
      vram_pool_empty_cache(p);
    } else if (*at) {
      if (s->streams && b[2] < 80)
        vram_pool_record_stream(p, *at, 1 + b[2] % 3u);
      if (vram_pool_free(p, *at) != VRAM_OK)
        abort();
      *at = 0;
      if (b[3] < 60)
        s->under[k].done = s->under[k].events;
    } else {
      p->as.owner = owner;
      p->as.category = e.category;
      if (vram_pool_alloc(p, ((uint64_t)b[2] * b[2] * b[3] << (b[0] % 4)) + 1,
                          s->streams ? b[3] % 3u : 0, at))
        *at = 0;
    }
  } else {
    const uint32_t k = b[1] % SCENE_OWN;
    e.whole = 1;
    e.address = s->at + ((uint64_t)k << 24);
    e.bytes = ((uint64_t)b[2] << (b[3] % 13)) + b[1];
    e.block_bytes = (e.bytes + 511) / 512 * 512;
    e.stream = b[3] % 4;
    e.device = (uint8_t)(k % s->devices);
    if (s->host && k % 5 == 0)
      e.device = VRAM_DEVICE_HOST;
    e.action = s->own[k] ? VRAM_ACTION_FREE : VRAM_ACTION_ALLOC;
    if (s->own[k] == 1 && b[0] % 8 == 2 && !s->ledger.lost) {
      e.action = VRAM_ACTION_FREE_REQUESTED;
      s->own[k] = 2;
    } else
      s->own[k] = !s->own[k];
    if (s->own[k] == 2 && s->ledger.lost)
      abort();
    vram_ledger_event(&s->ledger, &e);
  }
}

/* A file or text as it comes. */
typedef struct page {
  char *text;
  size_t n, cap, most; /* bytes that it takes */
  int refused;
} page;

static TEST_UNUSED int page_take(void *user, const char *bytes, size_t n) {
  page *p = (page *)user;
  if (p->refused)
    abort(); /* nobody comes back after that */
  if (n > p->most - p->n) {
    p->refused = 1;
    return 1;
  }
  while (p->n + n + 1 > p->cap) {
    p->cap = 2 * p->cap + 4096;
    p->text = (char *)realloc(p->text, p->cap);
    if (!p->text)
      abort();
  }
  memcpy(p->text + p->n, bytes, n);
  p->text[p->n += n] = 0;
  return 0;
}

enum { PAGE_PICKLE, PAGE_JSON, PAGE_TRACE, PAGE_CSV, PAGE_SUMMARY, PAGE_OOM, PAGE_SVG, PAGES };

/* Everything that can be written again without a change of the ledger. */
static TEST_UNUSED vram_result scene_write(scene *s, int what, page *p) {
  vram_snapshot_options o;
  vram_memory_stats stats;
  vram_timeline t;
  vram_oom oom;
  vram_sink sink;
  vram_result r;
  unsigned char memory[8192];
  memset(&o, 0, sizeof o);
  memset(&oom, 0, sizeof oom);
  sink.write = page_take;
  sink.user = p;
  p->n = 0;
  p->refused = 0;
  if (p->text)
    *p->text = 0;
  o.json = what == PAGE_JSON;
  o.pool = s->shown;
  o.npool = s->npool;
  switch (what) {
  case PAGE_PICKLE:
  case PAGE_JSON:
    return vram_write_snapshot(&s->ledger, &o, &sink);
  case PAGE_TRACE:
    return vram_write_trace(&s->ledger, 1000, &sink);
  case PAGE_CSV:
    return vram_write_csv(&s->ledger, &sink);
  case PAGE_SUMMARY:
    vram_ledger_stats(&s->ledger, 0, &stats);
    return vram_write_summary(&stats, 0, 0, &sink);
  case PAGE_OOM:
    oom.bytes = 20 << 20;
    oom.owner = 1;
    oom.pool = s->npool ? &s->pool[0] : NULL;
    return vram_write_oom(&s->ledger, &oom, &sink);
  default:
    r = vram_timeline_ledger(&t, memory, sizeof memory, &s->ledger);
    return r ? r : vram_write_svg(&t, NULL, NULL, 0, NULL, NULL, 0, &sink);
  }
}

#endif
