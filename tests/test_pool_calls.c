/* A pool under random calls: any options, backends that fail, too little memory, other streams.
   usage: test_pool_calls [--print SEED]   (prints the calls for tests/pool_model.py) */
#include "pool_calls.h"

static uint64_t state;
static uint8_t random_byte(void) {
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return (uint8_t)(state >> 24);
}

static void random_calls(uint64_t seed, size_t size, int print) {
  static uint8_t data[4000];
  size_t i;
  state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (i = 0; i < 64; i++)
    random_byte();
  for (i = 0; i < size; i++)
    data[i] = random_byte();
  snprintf(test_where, sizeof test_where, "seed %" PRIu64, seed);
  calls_run(data, size, print);
}

/* ---- options */

static int options_same(const vram_pool_options *a, const vram_pool_options *b) {
  return a->max_split_size == b->max_split_size &&
         a->max_non_split_rounding == b->max_non_split_rounding &&
         a->large_segment_size == b->large_segment_size && a->limit_bytes == b->limit_bytes &&
         a->garbage_collection_threshold == b->garbage_collection_threshold &&
         a->expandable_segments == b->expandable_segments &&
         !memcmp(a->roundup_power2_divisions, b->roundup_power2_divisions,
                 sizeof a->roundup_power2_divisions);
}

static void refused(const char *text, vram_result code, uint32_t column, const char *message) {
  vram_pool_options o = VRAM_ZERO_INIT, was = o;
  vram_error e;
  snprintf(test_where, sizeof test_where, "%s", text);
  EQUAL(vram_pool_config(text, &o, &e), code);
  EQUAL(e.code, code);
  EQUAL(e.line, 1);
  EQUAL(e.column, column);
  TEXT(e.text, message);
  CHECK(options_same(&o, &was));
  EQUAL(vram_pool_config(text, &o, NULL), code);
}

static void configs(void) {
  static const uint16_t first[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8};
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_error e;
  int i;
  o.total_bytes = UINT64_C(80) << 30;
  EQUAL(vram_pool_config(" max_split_size_mb : 64 , expandable_segments:True,"
                         "garbage_collection_threshold:0.825,per_process_memory_fraction:0.5,"
                         "large_segment_size_mb:64,max_non_split_rounding_mb:32,backend:native,"
                         "pinned_use_cuda_host_register:True,release_lock_on_cudamalloc:False,"
                         "roundup_power2_divisions:[256:1,512:2,1024:4,>:8],",
                         &o, &e),
        VRAM_OK);
  EQUAL(o.max_split_size, 64 << 20);
  EQUAL(o.max_non_split_rounding, 32 << 20);
  EQUAL(o.large_segment_size, 64 << 20);
  EQUAL(o.garbage_collection_threshold, 825000);
  EQUAL(o.limit_bytes, UINT64_C(40) << 30);
  EQUAL(o.expandable_segments, 1);
  for (i = 0; i < 16; i++)
    EQUAL(o.roundup_power2_divisions[i], first[i]);
  EQUAL(vram_pool_config("roundup_power2_divisions:16,expandable_segments:False", &o, &e), VRAM_OK);
  for (i = 0; i < 16; i++)
    EQUAL(o.roundup_power2_divisions[i], 16);
  EQUAL(o.expandable_segments, 0);
  EQUAL(o.max_split_size, 64 << 20);
  EQUAL(vram_pool_config("", &o, &e), VRAM_OK);
  EQUAL(vram_pool_config("  ", &o, NULL), VRAM_OK);
  refused("max_split_size_mb:19", VRAM_ERR_VALUE, 19,
          "max_split_size_mb must be a number from 20 on (found 19)");
  refused("max_split_size_mb:-64", VRAM_ERR_VALUE, 19,
          "max_split_size_mb must be a number from 20 on (found -64)");
  refused("max_split_size_mb:", VRAM_ERR_VALUE, 19,
          "max_split_size_mb must be a number from 20 on (found the end)");
  refused("max_split_size_mb:99999999999999999999", VRAM_ERR_VALUE, 19,
          "max_split_size_mb must be a number from 20 on (found 99999999999999999999)");
  refused("max_split_size_mb", VRAM_ERR_SYNTAX, 18, "a : must follow the key (found the end)");
  refused("max_split_size_mb=64", VRAM_ERR_NAME, 1,
          "no key of PYTORCH_CUDA_ALLOC_CONF that is known here (found max_split_size_mb=64)");
  refused("max_split_size:64", VRAM_ERR_NAME, 1,
          "no key of PYTORCH_CUDA_ALLOC_CONF that is known here (found max_split_size)");
  refused("max_split_size_mb:64 expandable_segments:True", VRAM_ERR_SYNTAX, 22,
          "a , must follow the value (found expandable_segments)");
  refused("max_split_size_mb:64,,", VRAM_ERR_NAME, 22,
          "no key of PYTORCH_CUDA_ALLOC_CONF that is known here (found ,)");
  refused("max_non_split_rounding_mb:x", VRAM_ERR_VALUE, 27,
          "max_non_split_rounding_mb must be a number from 20 on (found x)");
  refused("large_segment_size_mb:4096", VRAM_ERR_VALUE, 23,
          "large_segment_size_mb must be an even number from 20 to 2048 (found 4096)");
  refused("large_segment_size_mb:21", VRAM_ERR_VALUE, 23,
          "large_segment_size_mb must be an even number from 20 to 2048 (found 21)");
  refused("garbage_collection_threshold:1.0", VRAM_ERR_VALUE, 30,
          "garbage_collection_threshold must be above 0 and below 1 (found 1.0)");
  refused("garbage_collection_threshold:0.0", VRAM_ERR_VALUE, 30,
          "garbage_collection_threshold must be above 0 and below 1 (found 0.0)");
  refused("garbage_collection_threshold:1e-1", VRAM_ERR_VALUE, 30,
          "garbage_collection_threshold must be above 0 and below 1 (found 1e-1)");
  refused("per_process_memory_fraction:1.5", VRAM_ERR_VALUE, 29,
          "per_process_memory_fraction must be from 0 to 1 (found 1.5)");
  refused("expandable_segments:true", VRAM_ERR_VALUE, 21,
          "expandable_segments must be True or False (found true)");
  refused("backend:cudaMallocAsync", VRAM_ERR_VALUE, 9,
          "backend must be native (found cudaMallocAsync)");
  refused("roundup_power2_divisions:3", VRAM_ERR_VALUE, 26,
          "roundup_power2_divisions must be a power of 2 up to 32768 (found 3)");
  refused("roundup_power2_divisions:[3:4]", VRAM_ERR_VALUE, 27,
          "a size in roundup_power2_divisions must be a power of 2, in MiB, or > (found 3)");
  refused("roundup_power2_divisions:[64:3]", VRAM_ERR_VALUE, 30,
          "roundup_power2_divisions must be a power of 2 up to 32768 or 0 (found 3)");
  refused("roundup_power2_divisions:[64 8]", VRAM_ERR_SYNTAX, 30,
          "a : must follow the size (found 8)");
  refused("roundup_power2_divisions:[64:8", VRAM_ERR_SYNTAX, 31,
          "a , or ] must follow the divisions (found the end)");
  refused("pinned_num_register_threads:", VRAM_ERR_SYNTAX, 29,
          "a value must follow the : (found the end)");
}

static void bad_option(const vram_pool_options *o, const vram_backend *b, const char *message) {
  static uint64_t mem[200000];
  vram_pool p;
  vram_error e;
  snprintf(test_where, sizeof test_where, "%s", message);
  EQUAL(vram_pool_init(&p, o, b, mem, sizeof mem, &e), VRAM_ERR_VALUE);
  TEXT(e.text, message);
  EQUAL(vram_pool_init(&p, o, b, mem, sizeof mem, NULL), VRAM_ERR_VALUE);
}

static void options(void) {
  static device d;
  const vram_backend good = device_backend(&d, UINT64_C(1) << 30);
  const vram_pool_options zero = VRAM_ZERO_INIT;
  vram_pool_options o = zero;
  vram_backend b = good;
  o.policy = (vram_pool_policy)7;
  bad_option(&o, &good, "no such policy");
  o = zero;
  b.free = NULL;
  bad_option(&o, &b, "the backend needs alloc and free");
  b = good;
  b.map = NULL;
  o.expandable_segments = 1;
  o.total_bytes = 1 << 30;
  bad_option(&o, &b, "expandable_segments: the backend needs reserve, unreserve, map and unmap");
  o.total_bytes = 0;
  bad_option(&o, &good, "expandable_segments: total_bytes must be the device's memory");
  o.policy = VRAM_POOL_BEST;
  bad_option(&o, &good, "policy BEST has no expandable_segments");
  o = zero;
  b = good;
  b.done = NULL;
  bad_option(&o, &b, "the backend needs both record and done, or neither");
  o.streams = 65;
  bad_option(&o, &good, "streams must be 64 at most");
  o = zero;
  o.max_split_size = 1 << 20;
  bad_option(&o, &good, "max_split_size must be 20 MiB or more");
  o = zero;
  o.large_segment_size = (20 << 20) + 512;
  bad_option(&o, &good, "large_segment_size must be a multiple of 2 MiB from 20 MiB to 4 GiB");
  o = zero;
  o.garbage_collection_threshold = 1000000;
  bad_option(&o, &good, "garbage_collection_threshold must be below 1000000 millionths");
  o = zero;
  o.limit_bytes = UINT64_MAX;
  bad_option(&o, &good, "limit_bytes and total_bytes must be below 2^63");
  o = zero;
  o.roundup_power2_divisions[3] = 6;
  bad_option(&o, &good, "roundup_power2_divisions must be powers of 2");
}

/* ---- memory of the pool itself */

static void short_memory(void) {
  static device d;
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_pool p;
  vram_error e;
  uint32_t blocks, shift;
  for (blocks = 1; blocks <= 60; blocks += blocks < 5 ? 1 : 11)
    for (shift = 0; shift < 64; shift += 1 + shift * 3) {
      const uint64_t bytes = vram_pool_bytes(blocks, 1);
      uint8_t *mem = (uint8_t *)test_scratch(bytes + shift); /* sanitizers watch its end */
      vram_backend b = device_backend(&d, UINT64_C(1) << 40);
      uint64_t at[200], n = 0;
      vram_result r = VRAM_OK;
      if (!mem)
        abort();
      snprintf(test_where, sizeof test_where, "%u blocks", (unsigned)blocks);
      o.streams = 1;
      if (blocks == 1)
        EQUAL(vram_pool_init(&p, &o, &b, mem + shift, bytes - 1, &e), VRAM_ERR_MEMORY);
      EQUAL(vram_pool_init(&p, &o, &b, mem + shift, bytes, &e), VRAM_OK);
      while (n < 200 && !(r = vram_pool_alloc(&p, UINT64_C(12) << 20, 0, at + n)))
        n++; /* a segment each */
      EQUAL(r, VRAM_ERR_LIMIT);
      CHECK(n >= blocks && n <= blocks + 2);
      pool_holds(&p, &d);
      EQUAL(vram_pool_alloc(&p, 1, 1, at + n), VRAM_ERR_LIMIT); /* one stream only */
      EQUAL(vram_pool_free(&p, at[0]), VRAM_OK);
      EQUAL(vram_pool_record_stream(&p, at[n - 1], 1), VRAM_ERR_LIMIT);
      vram_pool_empty_cache(&p);
      EQUAL(vram_pool_alloc(&p, UINT64_C(12) << 20, 0, at), VRAM_OK);
      pool_holds(&p, &d);
      free(mem);
    }
}

/* ---- streams */

static int states[3];
static int count_state(void *user, const vram_piece *piece) {
  (void)user;
  states[piece->state]++;
  return 0;
}

static void streams(void) {
  static device d;
  static uint8_t mem[600000];
  vram_backend b = device_backend(&d, UINT64_C(1) << 30);
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_pool p;
  vram_piece piece;
  vram_error e;
  uint64_t x, y, z, free_bytes;
  snprintf(test_where, sizeof test_where, "streams");
  o.streams = 4;
  if (!NEED(vram_pool_init(&p, &o, &b, mem, sizeof mem, &e) == VRAM_OK))
    return;
  vram_pool_alloc(&p, 1000, 0, &x);
  EQUAL(vram_pool_record_stream(&p, x, 0), VRAM_OK); /* its own: nothing to wait for */
  vram_pool_free(&p, x);
  EQUAL(p.stats.active[0].current, 0);
  vram_pool_alloc(&p, 1000, 0, &y);
  EQUAL(y, x);
  vram_pool_record_stream(&p, x, 7);
  vram_pool_free(&p, x);
  EQUAL(p.stats.allocation[0].current, 0);
  EQUAL(p.stats.active_bytes[0].current, 1024);
  EQUAL(vram_pool_find(&p, x, &piece), 0);
  EQUAL(vram_pool_record_stream(&p, x, 7), VRAM_ERR_VALUE);
  memset(states, 0, sizeof states);
  vram_pool_walk(&p, count_state, NULL);
  EQUAL(states[2], 1);
  vram_pool_alloc(&p, 1000, 0, &y); /* stream 7 still uses x */
  EQUAL(y, x + 1024);
  d.done = 1;
  vram_pool_alloc(&p, 1000, 0, &z); /* now it does not */
  EQUAL(z, x);
  /* a queue for each stream, in order: the second entry of stream 7 is not looked at before the
     first has happened, and a block of two streams waits for both */
  vram_pool_record_stream(&p, y, 7);
  vram_pool_record_stream(&p, y, 14);
  vram_pool_free(&p, y);
  vram_pool_record_stream(&p, z, 7);
  vram_pool_free(&p, z);
  EQUAL(d.events, 4);
  d.done = 2; /* y on stream 7 */
  vram_pool_alloc(&p, 1 << 20, 0, &x);
  EQUAL(p.stats.active[0].current, 3);
  d.done = 3; /* and on 14 */
  vram_pool_free(&p, x);
  vram_pool_alloc(&p, 1 << 20, 0, &x);
  EQUAL(p.stats.active[0].current, 2);
  vram_pool_free(&p, x);
  EQUAL(d.waited, 0);
  vram_pool_empty_cache(&p); /* waits for z */
  EQUAL(d.waited, 1);
  EQUAL(p.stats.reserved_bytes[0].current, 0);
  /* a use that cannot be recorded */
  vram_pool_alloc(&p, 1000, 0, &x);
  vram_pool_record_stream(&p, x, 7);
  d.fail = d.calls + 1;
  vram_pool_free(&p, x);
  d.done = d.events;
  vram_pool_alloc(&p, 1000, 0, &y);
  EQUAL(p.stats.active[0].current, 2);
  vram_pool_free(&p, y);
  vram_pool_empty_cache(&p);
  EQUAL(p.stats.reserved_bytes[0].current, 0);
  /* blocks of one stream are not for another; the largest free block of each */
  vram_pool_alloc(&p, 4 << 20, 0, &x);
  vram_pool_alloc(&p, 4 << 20, 7, &y);
  EQUAL(p.stats.segment[0].current, 2);
  vram_pool_free(&p, y);
  free_bytes = vram_pool_largest_free(&p, NULL);
  EQUAL(free_bytes, 20 << 20);
  x = 7;
  EQUAL(vram_pool_largest_free(&p, &x), 20 << 20);
  x = 0;
  EQUAL(vram_pool_largest_free(&p, &x), 16 << 20);
  x = 3;
  EQUAL(vram_pool_largest_free(&p, &x), 0);
  EQUAL(vram_pool_alloc(&p, UINT64_MAX, 0, &x), VRAM_ERR_MEMORY);
  EQUAL(x, 0);
  pool_holds(&p, &d);
  b.record = NULL;
  b.done = NULL;
  vram_pool_init(&p, &o, &b, mem, sizeof mem, &e);
  vram_pool_alloc(&p, 1, 0, &x);
  EQUAL(vram_pool_record_stream(&p, x, 7), VRAM_ERR_UNSUPPORTED);
}

/* ---- policy BEST */

#define MIB UINT64_C(1048576)

static void best(void) {
  static device d;
  static uint8_t mem[600000];
  vram_backend b = device_backend(&d, UINT64_C(1) << 50);
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_pool p;
  vram_error e;
  uint64_t x, y, z, again, i;
  snprintf(test_where, sizeof test_where, "policy BEST");
  o.policy = VRAM_POOL_BEST;
  o.streams = 1;
  if (!NEED(vram_pool_init(&p, &o, &b, mem, sizeof mem, &e) == VRAM_OK))
    return;
  vram_pool_alloc(&p, 30 * MIB, 0, &x);
  vram_pool_alloc(&p, 30 * MIB, 0, &y);
  vram_pool_free(&p, x);
  vram_pool_alloc(&p, 40 * MIB, 0, &z); /* in place of x's segment */
  EQUAL(p.stats.reserved_bytes[0].current, 70 * MIB);
  EQUAL(vram_pool_largest_free(&p, NULL), 0);
  vram_pool_free(&p, z);
  vram_pool_alloc(&p, 30 * MIB, 0, &x); /* x's segment again, behind y's, in place of z's */
  EQUAL(p.stats.reserved_bytes[0].current, 60 * MIB);
  EQUAL(p.stats.segment[0].current, 2);
  CHECK(x > y);
  vram_pool_free(&p, x);
  vram_pool_free(&p, y);
  vram_pool_alloc(&p, 30 * MIB, 0, &again); /* it counts as the first: PyTorch has it in front */
  EQUAL(again, x);
  EQUAL(p.stats.reserved_bytes[0].peak, 70 * MIB);
  vram_pool_free(&p, again);
  vram_pool_empty_cache(&p);
  EQUAL(p.stats.reserved_bytes[0].current, 0);
  EQUAL(d.ranges, 0);
  /* every request is larger than all before: each time a segment may go, until that is too often */
  b = device_backend(&d, UINT64_C(1) << 50);
  if (!NEED(vram_pool_init(&p, &o, &b, mem, sizeof mem, &e) == VRAM_OK))
    return;
  for (i = 0; i < 800; i++) {
    if (!NEED(vram_pool_alloc(&p, (20 + 2 * i) * MIB, 0, &x) == VRAM_OK))
      return;
    if (i == 200) /* all but this one went */
      EQUAL(p.stats.reserved_bytes[0].current, 420 * MIB);
    vram_pool_free(&p, x);
  }
  CHECK(p.stats.num_device_free > 256 && p.stats.num_device_free <= 256 + 800 / 16);
  pool_holds(&p, &d);
  /* no room for more blocks: segments that are away are forgotten first */
  b = device_backend(&d, UINT64_C(1) << 50);
  if (!NEED(vram_pool_init(&p, &o, &b, mem, vram_pool_bytes(20, 1), &e) == VRAM_OK))
    return;
  for (i = 0; i < 100; i++) {
    if (!NEED(vram_pool_alloc(&p, (20 + 2 * i) * MIB, 0, &x) == VRAM_OK))
      return;
    vram_pool_free(&p, x);
  }
  pool_holds(&p, &d);
  vram_pool_empty_cache(&p);
  EQUAL(p.stats.reserved_bytes[0].current, 0);
}

int main(int argc, char **argv) {
  uint64_t seed;
  if (argc == 3 && !strcmp(argv[1], "--print")) {
    random_calls(strtoull(argv[2], NULL, 10), 4000, 1);
    return test_failed != 0;
  }
  for (seed = 1; seed <= 300; seed++)
    random_calls(seed, seed % 7 ? 600 : 3000, 0);
  configs();
  options();
  short_memory();
  streams();
  best();
  return test_done("test_pool_calls");
}
