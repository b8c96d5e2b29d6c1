/* What is written about a ledger: texts word for word, sinks that fail at every byte, the same
   bytes on every machine; with a folder, files for tests/snapshot_check.py. usage: test_report
   [FOLDER] */
#include "scene.h"

static const char *const names[] = {"train.c",
                                    "layer",
                                    "a \"b\" \\c\\ 'd'",
                                    "\001\033[0m\177",
                                    "\377\376 \300\200 \355\240\200",
                                    "\303\251 \345\233\276",
                                    "a,b;c\nd\te"};

static uint32_t random_byte(uint64_t *seed) {
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*seed >> 56);
}

static void play_scene(scene *s, int kind, uint64_t seed, int steps) {
  uint8_t b[4];
  scene_begin(s, kind, names, sizeof names / sizeof *names);
  while (steps--) {
    int i;
    for (i = 0; i < 4; i++)
      b[i] = (uint8_t)random_byte(&seed);
    scene_step(s, b);
  }
}

static uint64_t hash_of(const page *p) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  size_t i;
  for (i = 0; i < p->n; i++)
    h = (h ^ (uint8_t)p->text[i]) * UINT64_C(0x100000001b3);
  return h;
}

/* A sink that takes k bytes: what it took is the beginning, and the writer says so. */
static void sinks(void) {
  static scene s;
  page all, part;
  int what;
  size_t k;
  memset(&all, 0, sizeof all);
  memset(&part, 0, sizeof part);
  play_scene(&s, 4, 1, 60);
  for (what = 0; what < PAGES; what++) {
    snprintf(test_where, sizeof test_where, "page %d", what);
    all.most = (size_t)-1;
    EQUAL(scene_write(&s, what, &all), VRAM_OK);
    CHECK(all.n > 500);
    for (k = 0; k < all.n; k += k < 1100 ? 1 : 97) {
      int ok;
      part.most = k;
      ok = scene_write(&s, what, &part) == VRAM_ERR_WRITE && part.refused && part.n <= k &&
           (!part.n || !memcmp(part.text, all.text, part.n));
      if (!ok)
        FAIL("a sink that takes no more");
    }
    part.most = all.n;
    EQUAL(scene_write(&s, what, &part), VRAM_OK);
  }
  *test_where = 0;
  free(all.text);
  free(part.text);
  scene_end(&s);
}

/* Nothing depends on the machine. */
static void same_bytes(void) {
  static const uint64_t wanted[] = {
#include "golden/report.inc"
  };
  static scene s;
  page p;
  int kind, what;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  for (kind = 0; kind < 7; kind++) {
    play_scene(&s, kind, (uint64_t)kind, 400);
    for (what = 0; what < PAGES; what++) {
      snprintf(test_where, sizeof test_where, "scene %d, page %d", kind, what);
      EQUAL(scene_write(&s, what, &p), VRAM_OK);
      if (what == PAGE_PICKLE || what == PAGE_JSON || what == PAGE_TRACE || what == PAGE_CSV)
        if (hash_of(&p) != wanted[kind * 4 + what])
          printf("%s: 0x%016llx\n", test_where, (unsigned long long)hash_of(&p)), FAIL("the bytes");
    }
    scene_end(&s);
  }
  *test_where = 0;
  free(p.text);
}

/* ---- texts ---- */

static vram_ledger small_ledger(void) {
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_ledger l;
  uint64_t n;
  void *mem;
  o.groups = 16;
  n = vram_ledger_bytes(&o);
  mem = malloc((size_t)n);
  if (!mem || vram_ledger_init(&l, &o, mem, n, NULL))
    abort();
  return l;
}

static void alloc(vram_ledger *l, uint64_t address, uint64_t bytes, uint32_t owner,
                  vram_category category, uint8_t where) {
  vram_event e;
  memset(&e, 0, sizeof e);
  e.address = address;
  e.bytes = bytes;
  e.owner = owner;
  e.category = category;
  e.device = where;
  e.whole = 1;
  vram_ledger_event(l, &e);
}

static void log_text(void) {
  vram_ledger l = small_ledger();
  const uint32_t a = vram_ledger_owner(&l, "model.c", 12, "layer", "weights"),
                 b = vram_ledger_owner(&l, "model.c", 40, NULL, NULL),
                 c = vram_ledger_owner(&l, NULL, 0, NULL, "cache");
  vram_change list[4];
  vram_sink sink;
  page p;
  uint64_t i;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  sink.write = page_take;
  sink.user = &p;
  for (i = 1; i <= 7; i++)
    alloc(&l, i << 20, 9 << 20, a, VRAM_CATEGORY_PARAMS, 0);
  alloc(&l, 100 << 20, 120 << 20, b, VRAM_CATEGORY_OTHER, 0);
  alloc(&l, 300 << 20, 4096, c, VRAM_CATEGORY_OTHER, VRAM_DEVICE_HOST);
  EQUAL(vram_write_log(&l, "train.c", 88, "step", list, 4, &sink), VRAM_OK);
  vram_ledger_take(&l, 100 << 20, NULL);
  vram_ledger_take(&l, 1 << 20, NULL);
  alloc(&l, 500 << 20, 0, 0, VRAM_CATEGORY_OTHER, 0);
  EQUAL(vram_write_log(&l, NULL, 0, NULL, list, 2, &sink), VRAM_OK);
  EQUAL(vram_write_log(&l, "a_file_whose_name_is_longer_than_the_column.c", 1, "main", NULL, 0,
                       &sink),
        VRAM_OK);
  TEXT(p.text, "At train.c line 88: step                          total 183 MiB (+183 MiB), peak "
               "183 MiB\n"
               "+ |      1 *    120 MiB |    120 MiB | model.c:40\n"
               "+ |      7 *   9.00 MiB |   63.0 MiB | model.c:12 layer, weights\n"
               "+ |      1 *   4.00 KiB |   4.00 KiB | cache (host)\n"
               "At ? line 0: ?                                    total 54.0 MiB (-129 MiB), peak "
               "183 MiB\n"
               "- |      1 *    120 MiB |    120 MiB | model.c:40\n"
               "- |      1 *   9.00 MiB |   9.00 MiB | model.c:12 layer, weights\n"
               "  |      1 smaller changes more\n"
               "At a_file_whose_name_is_longer_than_the_column.c line 1: main total 54.0 MiB (+0 "
               "B), peak 183 MiB\n");
  p.n = 0;
  for (i = 1; i <= 20; i++)
    alloc(&l, (i + 700) << 20, i << 10, a, VRAM_CATEGORY_PARAMS, 0);
  EQUAL(vram_write_log(&l, "t.c", 1, "f", list, 1, &sink), VRAM_OK);
  CHECK(strstr(p.text, "various | ") && strstr(p.text, "  |     ") &&
        strstr(p.text, "changes more"));
  free(p.text);
  free(l.device);
}

/* The out-of-memory report, as the page that p is; returns whether it has a text. */
static int has(const page *p, const char *text) { return p->text && strstr(p->text, text) != NULL; }

static void oom_text(void) {
  vram_ledger l = small_ledger();
  const uint32_t a = vram_ledger_owner(&l, "model.c", 12, "layer", "weights");
  vram_process other[10];
  vram_oom o = VRAM_ZERO_INIT;
  vram_sink sink;
  page p;
  uint64_t i;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  sink.write = page_take;
  sink.user = &p;
  for (i = 1; i <= 3; i++)
    alloc(&l, i << 30, 100 << 20, i == 3 ? 0 : a, VRAM_CATEGORY_ACTIVATIONS, 0);
  o.bytes = 150 << 20;
  o.owner = a;
  o.call = "cudaMalloc";
  o.has_view = 1;
  o.total_bytes = 512 << 20;
  o.free_bytes = (12 << 20) + 345678;
  o.process_bytes = 420 << 20;
  o.process = other;
  o.nprocess = 2;
  other[0].pid = 3881;
  other[0].bytes = 79 << 20;
  other[0].name = "py\nthon";
  other[1].pid = 42;
  other[1].bytes = VRAM_UNKNOWN;
  other[1].name = NULL;
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  TEXT(p.text,
       "CUDA out of memory. Tried to allocate 150.00 MiB. GPU 0 has a total capacity of 512.00 MiB "
       "of which 12.33 MiB is free.\n"
       "  asked: 150.00 MiB, by model.c:12 layer, weights (cudaMalloc)\n"
       "  ours: 300.00 MiB reserved in 3 segments, 300.00 MiB of it allocated in 3 blocks (peak "
       "300.00 MiB)\n"
       "  this process in all: 420.00 MiB, so 120.00 MiB is CUDA's context, libraries, other "
       "allocators\n"
       "  process 3881 (py?thon): 79.00 MiB\n"
       "  process 42: the driver does not say how much\n"
       "  largest owners:\n"
       "       200 MiB in 2  model.c:12 layer, weights\n"
       "       100 MiB in 1  place not known\n"
       "  what would help:\n"
       "  - a smaller batch, or recomputation: activations hold 300.00 MiB\n"
       "  - less, or an earlier free, at model.c:12 layer, weights: it holds 200.00 MiB\n");
  /* nothing is known, nothing is printed of it */
  p.n = 0;
  o.total_bytes = o.free_bytes = o.process_bytes = VRAM_UNKNOWN;
  o.nprocess = 0;
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  CHECK(!has(&p, "17179869184") && !has(&p, "18446744073709551615") && !has(&p, "GPU 0"));
  p.n = 0;
  memset(&o, 0, sizeof o);
  o.bytes = 1000;
  o.device = 7;
  o.owner = 12345;
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  CHECK(has(&p,
            "CUDA out of memory. Tried to allocate 1000 bytes.\n  asked: 1000 bytes, by place not "
            "known\n  ours: 0 bytes reserved in 0 segments"));
  /* advice that applies, and only that */
  p.n = 0;
  o.device = 0;
  o.bytes = UINT64_C(600) << 20;
  o.device_bytes = UINT64_C(602) << 20;
  o.limit_bytes = 400 << 20;
  o.has_view = 1;
  o.total_bytes = 512 << 20;
  o.free_bytes = 0;
  o.process = other;
  o.nprocess = 10;
  for (i = 0; i < 10; i++) {
    other[i].pid = i;
    other[i].bytes = 100 << 20;
    other[i].name = NULL;
  }
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  CHECK(has(&p, "(the device was asked for 602.00 MiB)"));
  CHECK(has(&p, "  process 7: 100.00 MiB\n  and 2 more processes\n"));
  CHECK(has(&p, "- ask for less at once: the whole device has 512.00 MiB\n"));
  CHECK(has(&p, "- raise the limit: 400.00 MiB allowed\n"));
  CHECK(has(&p, "- another device, or the end of other processes: they hold 1000.00 MiB\n"));
  CHECK(!has(&p, "activations hold") && !has(&p, "expandable_segments"));
  p.n = 0;
  o.limit_bytes = 0;
  o.nprocess = 0;
  o.bytes = o.device_bytes = 450 << 20;
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  CHECK(has(&p, "  what would help: 450.00 MiB less\n"));
  p.n = 0;
  o.free_bytes = 500 << 20;
  EQUAL(vram_write_oom(&l, &o, &sink), VRAM_OK);
  CHECK(has(&p, "- smaller requests: the device has enough, but not in one piece"));
  free(p.text);
  free(l.device);
}

/* Why no free block could be used. */
static void oom_pool(void) {
  enum { N = 8 };
  static scene s;
  page p;
  int kind;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  for (kind = 0; kind < 6; kind++) {
    uint64_t at[N];
    vram_oom o = VRAM_ZERO_INIT;
    vram_sink sink;
    int i;
    scene_begin(&s, 2, names, 2);
    snprintf(test_where, sizeof test_where, "pool %d", kind);
    for (i = 0; i < N; i++)
      NEED(vram_pool_alloc(&s.pool[0], 5 << 20, kind == 1 ? 9 : 0, &at[i]) == VRAM_OK);
    for (i = 0; i < N; i += 2) {
      if (kind == 5)
        NEED(vram_pool_record_stream(&s.pool[0], at[i], 3) == VRAM_OK);
      if (kind)
        vram_pool_free(&s.pool[0], at[i]);
    }
    if (kind == 4)
      s.pool[0].options.expandable_segments = 1; /* what only changes the advice */
    o.bytes = kind == 1 || kind == 5 ? 5 << 20 : kind == 2 ? 100 << 20 : 15 << 20;
    if (kind == 3)
      o.bytes = 1 << 20;
    o.device_bytes = 20 << 20;
    o.pool = &s.pool[0];
    sink.write = page_take;
    sink.user = &p;
    p.n = 0;
    EQUAL(vram_write_oom(&s.ledger, &o, &sink), VRAM_OK);
    switch (kind) {
    case 0:
      CHECK(has(&p, "largest free block: none, all segments are full\n"));
      break;
    case 1:
      CHECK(has(&p,
                "5.00 MiB of 20.00 MiB that is free in segments: 5.00 MiB would do, but belongs "
                "to stream 0x9\n"));
      CHECK(has(&p, "- allocate on stream 0x9, or use fewer streams\n"));
      break;
    case 2:
      CHECK(has(&p, "5.00 MiB of 20.00 MiB that is free in segments: too small\n"));
      CHECK(!has(&p, "expandable"));
      break;
    case 3:
      CHECK(has(&p, "5.00 MiB would do, but is for requests above 1 MiB\n"));
      break;
    case 4:
      CHECK(has(&p, "fragmented, 4 pieces of this stream have 20.00 MiB, the largest 5.00 MiB\n"));
      CHECK(!has(&p, "expandable_segments:True") && !has(&p, "max_split_size_mb,"));
      s.pool[0].options.expandable_segments = 0;
      p.n = 0;
      EQUAL(vram_write_oom(&s.ledger, &o, &sink), VRAM_OK);
      CHECK(has(&p, "- expandable_segments:True, which joins free pieces\n"));
      CHECK(has(&p, "- max_split_size_mb, which"));
      s.pool[0].options.max_split_size = 64 << 20;
      p.n = 0;
      EQUAL(vram_write_oom(&s.ledger, &o, &sink), VRAM_OK);
      CHECK(!has(&p, "- max_split_size_mb, which"));
      break;
    default:
      CHECK(has(&p, "- wait for the streams: 20.00 MiB is given back and still in use by them\n"));
    }
    scene_end(&s);
  }
  *test_where = 0;
  free(p.text);
}

/* The observed memory as a picture: its peak is the ledger's. */
static void timeline(void) {
  static scene s;
  int kind;
  for (kind = 0; kind < 7; kind++) {
    static unsigned char memory[1 << 20];
    vram_timeline t;
    uint64_t sum = 0;
    int c;
    play_scene(&s, kind, 5, 300);
    snprintf(test_where, sizeof test_where, "scene %d", kind);
    EQUAL(vram_timeline_ledger(&t, memory, sizeof memory, &s.ledger), VRAM_OK);
    for (c = 0; c < VRAM_CATEGORY_COUNT; c++) {
      EQUAL(t.now.bytes[c], s.ledger.category[c].current);
      sum += t.now.bytes[c];
    }
    EQUAL(t.now.total, sum);
    if (s.ledger.trace_count <= s.ledger.options.trace && !s.ledger.lost) {
      EQUAL(t.peak.total, s.ledger.peak_bytes);
      EQUAL(t.column[0].total, 0);
    }
    EQUAL(t.nspan, 1);
    EQUAL(t.span[0].phase, VRAM_PHASE_COUNT);
    EQUAL(vram_timeline_ledger(&t, memory, 3, &s.ledger), VRAM_ERR_MEMORY);
    scene_end(&s);
  }
  *test_where = 0;
}

/* The options of a pool come back from the snapshot's settings. */
static void settings(void) {
  static const char conf[] =
      "max_split_size_mb:64,max_non_split_rounding_mb:32,large_segment_size_mb:40,"
      "garbage_collection_threshold:0.625,roundup_power2_divisions:[2:4,64:8,>:2]";
  static scene s;
  vram_pool_options o = VRAM_ZERO_INIT, back = VRAM_ZERO_INIT;
  page p;
  char *from;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  play_scene(&s, 2, 1, 10);
  NEED(vram_pool_config(conf, &o, NULL) == VRAM_OK);
  s.pool[0].options.max_split_size = o.max_split_size;
  s.pool[0].options.max_non_split_rounding = o.max_non_split_rounding;
  s.pool[0].options.large_segment_size = o.large_segment_size;
  s.pool[0].options.garbage_collection_threshold = o.garbage_collection_threshold;
  s.pool[0].options.expandable_segments = o.expandable_segments = 1;
  memcpy(s.pool[0].options.roundup_power2_divisions, o.roundup_power2_divisions,
         sizeof o.roundup_power2_divisions);
  EQUAL(scene_write(&s, PAGE_JSON, &p), VRAM_OK);
  from = strstr(p.text, "\"PYTORCH_CUDA_ALLOC_CONF\":\"");
  if (NEED(from != NULL)) {
    from += strlen("\"PYTORCH_CUDA_ALLOC_CONF\":\"");
    *strchr(from, '"') = 0;
    EQUAL(vram_pool_config(from, &back, NULL), VRAM_OK);
    EQUAL(back.max_split_size, o.max_split_size);
    EQUAL(back.max_non_split_rounding, o.max_non_split_rounding);
    EQUAL(back.large_segment_size, o.large_segment_size);
    EQUAL(back.garbage_collection_threshold, o.garbage_collection_threshold);
    EQUAL(back.expandable_segments, o.expandable_segments);
    CHECK(!memcmp(back.roundup_power2_divisions, o.roundup_power2_divisions,
                  sizeof o.roundup_power2_divisions));
  }
  scene_end(&s);
  free(p.text);
}

/* ---- files ---- */

static void save(const char *folder, int kind, const char *name, const page *p) {
  char path[400];
  FILE *f;
  snprintf(path, sizeof path, "%s/%d.%s", folder, kind, name);
  f = fopen(path, "wb");
  if (!f || fwrite(p->text, 1, p->n, f) != p->n || fclose(f)) {
    printf("cannot write %s\n", path);
    exit(1);
  }
}

static void files(const char *folder) {
  static const char *const name[] = {"pickle", "json", "trace", "csv", "summary", "oom", "svg"};
  static scene s;
  page p;
  int kind, what;
  memset(&p, 0, sizeof p);
  p.most = (size_t)-1;
  for (kind = 0; kind < 7; kind++) {
    char path[400];
    FILE *f;
    uint32_t d, c;
    play_scene(&s, kind, (uint64_t)kind + 100, kind % 2 ? 900 : 3000);
    for (what = 0; what < PAGES; what++) {
      EQUAL(scene_write(&s, what, &p), VRAM_OK);
      save(folder, kind, name[what], &p);
    }
    snprintf(path, sizeof path, "%s/%d.stats", folder, kind);
    f = fopen(path, "w");
    if (!f)
      exit(1);
    fprintf(f, "whole %d\nlost %llu\n", s.ledger.trace_count <= s.ledger.options.trace,
            (unsigned long long)s.ledger.lost);
    for (d = 0; d <= s.devices; d++) {
      vram_memory_stats m;
      int host = d == s.devices;
      vram_ledger_stats(&s.ledger, host ? VRAM_DEVICE_HOST : d, &m);
#define VRAM__X(stat)                                                                              \
  for (c = 0; c < 3; c++)                                                                          \
    fprintf(f, "%s%u %s %u %llu %llu %llu %llu\n", host ? "host" : "device", host ? 0 : d, #stat,  \
            c, (unsigned long long)m.stat[c].current, (unsigned long long)m.stat[c].peak,          \
            (unsigned long long)m.stat[c].allocated, (unsigned long long)m.stat[c].freed);
      VRAM_STATS(VRAM__X)
#undef VRAM__X
    }
    fclose(f);
    scene_end(&s);
  }
  free(p.text);
}

int main(int argc, char **argv) {
  if (argc > 1)
    files(argv[1]);
  else {
    sinks();
    same_bytes();
    log_text();
    oom_text();
    oom_pool();
    timeline();
    settings();
  }
  return test_done("test_report");
}
