/* The pool against PyTorch's allocator: recorded streams, call for call.
   usage: test_pool [--table] STREAM... (tests/golden/allocator, whose make.py says what the words
   mean; --table prints the rows of docs/replay.md) */
#include "pool.h"

static void *take(uint64_t bytes) {
  void *m = test_scratch(bytes);
  if (!m)
    abort();
  return m;
}

static char *file(const char *path) {
  const size_t cap = (size_t)1 << 20;
  char *text = (char *)take(cap);
  FILE *f = fopen(path, "rb");
  if (!f)
    abort();
  text[fread(text, 1, cap - 1, f)] = 0;
  fclose(f);
  return text;
}

static uint64_t number(const char *text, const char *key) {
  const char *at = strstr(text, key);
  return at ? strtoull(at + strlen(key), NULL, 10) : 0;
}

static uint64_t fnv(uint64_t h, uint64_t x) {
  int i;
  for (i = 0; i < 8; i++)
    h = (h ^ (x >> (8 * i) & 255)) * UINT64_C(0x100000001b3);
  return h;
}

/* A stream, played to a pool. */
typedef struct play {
  vram_pool pool;
  device d;
  heard h;
  void *mem;
  uint64_t *live, nlive;
  uint64_t hash;    /* of addresses */
  uint64_t emptied; /* segments that empty_cache gave back */
} play;

static int play_begin(play *g, const char *text, vram_pool_policy policy) {
  const uint64_t bytes = vram_pool_bytes(20000, 4);
  const char *conf = text + 4 + (text[4] == ' ');
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_error e;
  vram_backend b = device_backend(&g->d, number(text, "\ntotal "));
  char line[100];
  memset(&g->h, 0, sizeof g->h);
  g->mem = take(bytes);
  g->live = (uint64_t *)take(20000 * sizeof *g->live);
  g->nlive = 0;
  g->hash = UINT64_C(0xcbf29ce484222325);
  g->emptied = 0;
  g->d.done = UINT64_MAX;
  o.policy = policy;
  o.total_bytes = g->d.total;
  o.limit_bytes = number(text, "\nlimit ");
  o.streams = 4;
  o.event = hear;
  o.user = &g->h;
  snprintf(line, sizeof line, "%.*s", (int)strcspn(conf, "\n"), conf);
  return NEED(vram_pool_config(line, &o, &e) == VRAM_OK) &&
         NEED(vram_pool_init(&g->pool, &o, &b, g->mem, bytes, &e) == VRAM_OK);
}

/* The call that a word names. Returns what follows the call in the word, NULL after a failure;
 *block: what the allocation must count as, 0: no allocation, or it must fail. */
static const char *play_word(play *g, const char *at, uint64_t *block) {
  uint64_t size, on = 0, address;
  vram_result r;
  char *end;
  *block = 0;
  if (*at == 'e') {
    g->emptied -= g->pool.stats.num_device_free;
    vram_pool_empty_cache(&g->pool);
    g->emptied += g->pool.stats.num_device_free;
    return at + 1;
  }
  if (*at == '~') {
    const uint64_t k = strtoull(at + 1, &end, 10);
    on = strtoull(end + 1, &end, 10);
    if (!NEED(k < g->nlive))
      return NULL;
    return NEED(vram_pool_record_stream(&g->pool, g->live[g->nlive - 1 - k], on) == VRAM_OK) ? end
                                                                                             : NULL;
  }
  if (*at == '-') {
    const uint64_t k = strtoull(at + 1, &end, 10), i = g->nlive - 1 - k;
    if (!NEED(k < g->nlive) || !NEED(vram_pool_free(&g->pool, g->live[i]) == VRAM_OK))
      return NULL;
    memmove(g->live + i, g->live + i + 1, (size_t)k * sizeof *g->live);
    g->nlive--;
    return end;
  }
  size = strtoull(at, &end, 10);
  if (*end == '@')
    on = strtoull(end + 1, &end, 10);
  *block = size < 512 ? 512 : (size + 511) / 512 * 512;
  if (*end == '=')
    *block = strtoull(end + 1, &end, 10);
  r = vram_pool_alloc(&g->pool, size, on, &address);
  if (*end == '!') {
    *block = 0;
    return NEED(r == VRAM_ERR_MEMORY && address == 0) ? end + 1 : NULL;
  }
  if (!NEED(r == VRAM_OK) || !NEED(g->nlive < 20000))
    return NULL;
  g->live[g->nlive++] = address;
  g->hash = fnv(g->hash, address);
  return end;
}

static void play_end(play *g) {
  while (g->nlive)
    vram_pool_free(&g->pool, g->live[--g->nlive]);
  vram_pool_empty_cache(&g->pool);
  EQUAL(g->pool.stats.reserved_bytes[0].current, 0);
  EQUAL(g->d.ranges, 0);
  free(g->live);
  free(g->mem);
}

static void stream(const char *path, int table) {
  static play torch, best;
  char *text = file(path);
  const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path, *at;
  const char *addresses = strstr(text, "\naddresses "); /* recorded instead of blocks */
  /* what BEST promises is about PyTorch as it is, with memory enough */
  const int plain = !strncmp(text, "conf\n", 5) && !number(text, "\nlimit ") &&
                    !number(text, "\nretries ") && !number(text, "\nooms ");
  uint64_t reserved = 0, segments = 0, waiting = 0, row = 0;
  snprintf(test_where, sizeof test_where, "%s", name);
  if (!play_begin(&torch, text, VRAM_POOL_TORCH) ||
      (plain && !play_begin(&best, text, VRAM_POOL_BEST)))
    return;
  for (at = strstr(text, "\nstream\n") + 8; *at; row++) {
    const vram_memory_stats *s = &torch.pool.stats;
    const uint64_t before = s->allocated_bytes[0].current;
    uint64_t block, ignored;
    char *end;
    snprintf(test_where, sizeof test_where, "%s, call %" PRIu64, name, row);
    if (plain && !play_word(&best, at, &ignored))
      break;
    at = play_word(&torch, at, &block);
    if (!at || (block && !addresses && !EQUAL(s->allocated_bytes[0].current - before, block)))
      break;
    end = (char *)(uintptr_t)at;
    if (*end == 'r')
      reserved += (uint64_t)strtoll(end + 1, &end, 10);
    if (*end == 's')
      segments += (uint64_t)strtoll(end + 1, &end, 10);
    if (*end == 'a')
      waiting += (uint64_t)strtoll(end + 1, &end, 10);
    at = end + strspn(end, " \n");
    if (!EQUAL(s->active_bytes[0].current - s->allocated_bytes[0].current, waiting))
      break;
    if (!EQUAL(s->reserved_bytes[0].current, reserved) || !EQUAL(s->segment[0].current, segments))
      break;
    heard_all(&torch.h, s);
    if (row % 16 == 0)
      pool_holds(&torch.pool, &torch.d);
    if (!plain)
      continue;
    if (best.pool.stats.reserved_bytes[0].current > reserved)
      FAIL("policy BEST reserves more than PyTorch");
    heard_all(&best.h, &best.pool.stats);
    if (row % 16 == 0)
      pool_holds(&best.pool, &best.d);
  }
  EQUAL(torch.pool.stats.num_alloc_retries, number(text, "\nretries "));
  EQUAL(torch.pool.stats.num_ooms, number(text, "\nooms "));
  if (addresses) {
    EQUAL(torch.hash, strtoull(addresses + 11, NULL, 16));
    EQUAL(torch.pool.stats.allocated_bytes[0].current, number(text, "\nallocated "));
    EQUAL(torch.pool.stats.allocated_bytes[0].peak, number(text, "\npeak_allocated "));
  }
  if (plain) {
    const vram_memory_stats *t = &torch.pool.stats, *b = &best.pool.stats;
    const uint64_t freed = b->num_device_free - best.emptied;
    EQUAL(b->allocated_bytes[0].peak, t->allocated_bytes[0].peak);
    CHECK(freed <= 256 + b->allocation[0].allocated / 16);
    if (table)
      printf("| %.*s | %.0f | %.0f | %.0f | %.0f %% | %" PRIu64 " of %" PRIu64 " |\n",
             (int)(strrchr(name, '.') - name), name, (double)t->reserved_bytes[0].peak / 1048576,
             (double)b->reserved_bytes[0].peak / 1048576,
             (double)t->allocated_bytes[0].peak / 1048576,
             100.0 * (double)b->reserved_bytes[0].peak / (double)t->reserved_bytes[0].peak, freed,
             b->allocation[0].allocated);
  }
  play_end(&torch);
  if (plain)
    play_end(&best);
  free(text);
}

int main(int argc, char **argv) {
  const int table = argc > 1 && !strcmp(argv[1], "--table");
  int i;
  for (i = 1 + table; i < argc; i++)
    stream(argv[i], table);
  return test_done("test_pool");
}
