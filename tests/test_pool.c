/* The pool against PyTorch's allocator: recorded streams, call for call.
   usage: test_pool STREAM... (tests/golden/allocator, whose make.py says what the words mean) */
#include "pool.h"

typedef struct stream_text {
  const char *at; /* the next word */
  char *text;
} stream_text;

static stream_text stream_open(const char *path) {
  stream_text s;
  size_t n = 0, cap = (size_t)1 << 20;
  FILE *f = fopen(path, "rb");
  s.text = (char *)malloc(cap);
  if (!f || !s.text)
    abort();
  n = fread(s.text, 1, cap - 1, f);
  s.text[n] = 0;
  s.at = s.text;
  fclose(f);
  return s;
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

static void *take(uint64_t bytes) {
  void *m = malloc((size_t)bytes);
  if (!m)
    abort();
  return m;
}

/* What a listener makes of the events: the pool's own counters again. */
typedef struct heard {
  uint64_t reserved, allocated, segments, active, requested, split;
  uint64_t retries, ooms;
  int64_t split_bytes;
} heard;

static void hear(void *user, const vram_event *e) {
  heard *h = (heard *)user;
  switch (e->action) {
  case VRAM_ALLOC:
    h->allocated += e->block_bytes, h->active += e->block_bytes, h->requested += e->bytes;
    break;
  case VRAM_FREE_REQUESTED:
    h->allocated -= e->block_bytes;
    break;
  case VRAM_FREE:
    h->active -= e->block_bytes, h->requested -= e->bytes;
    break;
  case VRAM_SEGMENT_ALLOC:
    h->segments++, h->reserved += e->bytes;
    break;
  case VRAM_SEGMENT_FREE:
    h->segments--, h->reserved -= e->bytes;
    break;
  case VRAM_SEGMENT_MAP:
    h->reserved += e->bytes;
    break;
  case VRAM_SEGMENT_UNMAP:
    h->reserved -= e->bytes;
    break;
  case VRAM_RETRY:
    h->retries++;
    break;
  case VRAM_OOM:
    h->ooms++;
    break;
  case VRAM_BECOMES:
  case VRAM_MARK:
  case VRAM_ACTION_COUNT:
    FAIL("an event that a pool does not emit");
  }
  h->split = (uint64_t)((int64_t)h->split + e->split);
  h->split_bytes += e->split_bytes;
}

static void heard_all(const heard *h, const vram_memory_stats *s) {
  if (h->reserved != s->reserved_bytes[0].current ||
      h->allocated != s->allocated_bytes[0].current || h->segments != s->segment[0].current ||
      h->active != s->active_bytes[0].current || h->requested != s->requested_bytes[0].current ||
      h->split != s->inactive_split[0].current ||
      (uint64_t)h->split_bytes != s->inactive_split_bytes[0].current ||
      h->retries != s->num_alloc_retries || h->ooms != s->num_ooms)
    FAIL("the events do not sum up to the counters");
}

static void stream(const char *path) {
  static device d;
  stream_text s = stream_open(path);
  const char *conf = strstr(s.text, "conf"), *name = strrchr(path, '/');
  const char *addresses = strstr(s.text, "\naddresses "); /* recorded instead of blocks */
  uint64_t total = number(s.text, "\ntotal "), hash = UINT64_C(0xcbf29ce484222325), *live;
  uint64_t reserved = 0, segments = 0, row = 0, nlive = 0, bytes = vram_pool_bytes(20000, 4);
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_backend b = device_backend(&d, total);
  vram_pool p;
  vram_error e;
  heard h;
  char *end, text[100];
  void *mem = take(bytes);
  memset(&h, 0, sizeof h);
  snprintf(test_where, sizeof test_where, "%s", name ? name + 1 : path);
  o.total_bytes = total;
  o.limit_bytes = number(s.text, "\nlimit ");
  o.streams = 4;
  o.event = hear;
  o.user = &h;
  conf += conf[4] == ' ' ? 5 : 4;
  snprintf(text, sizeof text, "%.*s", (int)strcspn(conf, "\n"), conf);
  if (!NEED(vram_pool_config(text, &o, &e) == VRAM_OK) ||
      !NEED(vram_pool_init(&p, &o, &b, mem, bytes, &e) == VRAM_OK))
    return;
  live = (uint64_t *)take(20000 * sizeof *live);
  for (s.at = strstr(s.text, "\nstream\n") + 8; *s.at; s.at = end, row++) {
    uint64_t block = p.stats.allocated_bytes[0].current, address;
    snprintf(test_where, sizeof test_where, "%s, call %" PRIu64, name ? name + 1 : path, row);
    if (*s.at == 'e') {
      vram_pool_empty_cache(&p);
      end = (char *)(uintptr_t)s.at + 1;
    } else if (*s.at == '-') {
      uint64_t k = strtoull(s.at + 1, &end, 10);
      if (!NEED(k < nlive) || !NEED(vram_pool_free(&p, live[nlive - 1 - k]) == VRAM_OK))
        break;
      memmove(live + nlive - 1 - k, live + nlive - k, (size_t)k * sizeof *live);
      nlive--;
    } else {
      uint64_t size = strtoull(s.at, &end, 10), on = 0,
               want = size < 512 ? 512 : (size + 511) / 512 * 512;
      vram_result r;
      if (*end == '@')
        on = strtoull(end + 1, &end, 10);
      if (*end == '=')
        want = strtoull(end + 1, &end, 10);
      r = vram_pool_alloc(&p, size, on, &address);
      if (*end == '!') {
        end++;
        if (!NEED(r == VRAM_ERR_MEMORY && address == 0))
          break;
      } else {
        if (!NEED(r == VRAM_OK) ||
            (!addresses && !EQUAL(p.stats.allocated_bytes[0].current - block, want)))
          break;
        live[nlive++] = address;
        hash = fnv(hash, address);
      }
    }
    if (*end == 'r')
      reserved += (uint64_t)strtoll(end + 1, &end, 10);
    if (*end == 's')
      segments += (uint64_t)strtoll(end + 1, &end, 10);
    if (!EQUAL(p.stats.reserved_bytes[0].current, reserved) ||
        !EQUAL(p.stats.segment[0].current, segments))
      break;
    if (row % 16 == 0)
      pool_holds(&p, &d);
    heard_all(&h, &p.stats);
    end += strspn(end, " \n");
  }
  EQUAL(p.stats.num_alloc_retries, number(s.text, "\nretries "));
  EQUAL(p.stats.num_ooms, number(s.text, "\nooms "));
  if (addresses) {
    EQUAL(hash, strtoull(addresses + 11, NULL, 16));
    EQUAL(p.stats.allocated_bytes[0].current, number(s.text, "\nallocated "));
    EQUAL(p.stats.allocated_bytes[0].peak, number(s.text, "\npeak_allocated "));
  }
  while (nlive)
    vram_pool_free(&p, live[--nlive]);
  vram_pool_empty_cache(&p);
  EQUAL(p.stats.reserved_bytes[0].current, 0);
  EQUAL(d.ranges, 0);
  free(live);
  free(mem);
  free(s.text);
}

int main(int argc, char **argv) {
  int i;
  for (i = 1; i < argc; i++)
    stream(argv[i]);
  return test_done("test_pool");
}
