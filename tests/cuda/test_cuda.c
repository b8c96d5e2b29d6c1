/* test_cuda [device|threads]: what vram_cuda.h counts is what the driver knows. On the fake driver
   each scenario runs with every call failing once, and with every allocation finding no memory
   (`threads`: without that); with `device` once, on what libcudart.so finds. */
#define VRAM_CUDA_TRACKER test_tracker
#include "../moves.h"
#include "../test.h"
#include "fake.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static vram_cuda_api api;
static vram_cuda_tracker tracker, *test_tracker = &tracker;
static int on_device; /* 1: a real one */
static char *text_log;
static size_t text_n;
enum { TEXT_CAP = 1 << 16 };

static int keep_text(void *user, const char *bytes, size_t n) {
  (void)user;
  if (n > TEXT_CAP - 1 - text_n)
    n = TEXT_CAP - 1 - text_n;
  memcpy(text_log + text_n, bytes, n);
  text_n += n;
  text_log[text_n] = 0;
  return 0;
}
static const vram_sink text_sink = {keep_text, NULL};

static void *memory;
static vram_cuda_options options;

static void begin_with(const vram_cuda_options *o) {
  uint64_t n = vram_cuda_tracker_bytes(o);
  vram_error e;
  memory = malloc(n);
  text_n = 0;
  text_log[0] = 0;
  if (vram_cuda_tracker_init(&tracker, &api, o, memory, n, &e))
    FAIL(e.text);
}

static void begin(void) {
  memset(&options, 0, sizeof options);
  options.ledger.live = 4096;
  options.ledger.groups = 256;
  options.log = &text_sink;
  begin_with(&options);
}

static void end(void) {
  vram_cuda_tracker_end(&tracker);
  free(memory);
}

/* ---- what the tracker says and what the driver knows */

static void agree_at(int line) {
  const uint64_t fail_at = fake.fail_at;
  uint64_t kinds[VRAM_CUDA_KIND_COUNT] = {0};
  uint32_t d, k;
  if (on_device)
    return;
  fake.fail_at = 0;
  for (d = 0; d <= FAKE_DEVICES; d++) {
    const uint32_t device = d < FAKE_DEVICES ? d : (uint32_t)VRAM_DEVICE_HOST;
    vram_memory_stats s;
    fake_truth truth;
    vram_cuda_memory_stats(&tracker, device, &s);
    fake_truth_of(device, &truth);
    test_equal(s.allocated_bytes[0].current, truth.allocated, "allocated", __FILE__, line);
    test_equal(s.reserved_bytes[0].current, truth.reserved, "reserved", __FILE__, line);
    test_equal(s.allocation[0].current, truth.count, "allocations", __FILE__, line);
    for (k = 0; k < VRAM_CUDA_KIND_COUNT; k++)
      kinds[k] += truth.kind[k];
  }
  for (k = 1; k < VRAM_CUDA_KIND_COUNT; k++)
    test_equal(tracker.ledger.kind[k].current, kinds[k], vram_cuda_kind_name(k), __FILE__, line);
  test_equal(tracker.ipc_bytes, fake_ipc_bytes(), "opened", __FILE__, line);
  test_equal(tracker.ledger.unknown_frees + tracker.unknown + tracker.lost + tracker.ledger.lost, 0,
             "unknown and lost", __FILE__, line);
  fake.fail_at = fail_at;
}
#define AGREE() agree_at(__LINE__)

/* no CUDA call while the tracker holds a lock */
static void no_lock(void *user, const char *call) {
  (void)user;
  if (tracker.ledger_lock || tracker.table_lock)
    test_true(0, call, "a lock is held across", 0);
}

/* what gives back is tried again when it fails */
#define GIVE(call) ((void)((call) && (call)))

/* ---- scenarios */

static void runtime(void) {
  void *p[6] = {0}, *host[3] = {0}, *array[3] = {0}, *managed = NULL;
  static char own[8192];
  const vram_cuda_channel c = {32, 32, 0, 0, 2};
  const vram_cuda_extent e = {100, 20, 3};
  vram_cuda_pitched pitched = {0};
  size_t pitch = 0;
  int i, registered;
  for (i = 0; i < 6; i++)
    if (vram_cudaMalloc(&p[i], (size_t)1000 << i))
      p[i] = NULL;
  AGREE();
  GIVE(vram_cudaFree(p[2]));
  if (vram_cudaMallocPitch(&p[2], &pitch, 1000, 7))
    p[2] = NULL;
  if (vram_cudaMalloc3D(&pitched, e))
    pitched.ptr = NULL;
  if (vram_cudaMallocArray(&array[0], &c, 64, 64, 0))
    array[0] = NULL;
  if (vram_cudaMalloc3DArray(&array[1], &c, e, 0))
    array[1] = NULL;
  if (vram_cudaMallocMipmappedArray(&array[2], &c, e, 4, 0))
    array[2] = NULL;
  if (vram_cudaMallocManaged(&managed, 5 << 20, 1))
    managed = NULL;
  AGREE();
  if (vram_cudaMallocHost(&host[0], 4096))
    host[0] = NULL;
  if (vram_cudaHostAlloc(&host[1], 12345, 2))
    host[1] = NULL;
  registered = !vram_cudaHostRegister(own, sizeof own, 0);
  AGREE();
  GIVE(vram_cudaFree(NULL));
  for (i = 0; i < 6; i++)
    GIVE(vram_cudaFree(p[i]));
  GIVE(vram_cudaFree(pitched.ptr));
  GIVE(vram_cudaFree(managed));
  AGREE();
  GIVE(vram_cudaFreeArray(array[0]));
  GIVE(vram_cudaFreeArray(array[1]));
  GIVE(vram_cudaFreeMipmappedArray(array[2]));
  GIVE(vram_cudaFreeHost(host[0]));
  GIVE(vram_cudaFreeHost(host[1]));
  if (registered)
    GIVE(vram_cudaHostUnregister(own));
  AGREE();
}

static void pools(void) {
  const vram_cuda_pool_prop prop = {1, 0, 1, 0};
  struct {
    vram_cuda_pool_prop head;
    char rest[72]; /* cudaMemPoolProps is larger */
  } whole;
  void *pool = NULL, *p[6] = {0}, *stream = NULL;
  int i;
  memset(&whole, 0, sizeof whole);
  whole.head = prop;
  for (i = 0; i < 3; i++)
    if (vram_cudaMallocAsync(&p[i], (size_t)(700000 * (i + 1)), stream))
      p[i] = NULL;
  AGREE();
  if (vram_cudaMemPoolCreate(&pool, &whole))
    pool = NULL;
  for (i = 3; i < 6 && pool; i++)
    if (vram_cudaMallocFromPoolAsync(&p[i], (size_t)(900000 * i), pool, stream))
      p[i] = NULL;
  AGREE();
  GIVE(vram_cudaFreeAsync(p[1], stream));
  if (p[4])
    GIVE(vram_cudaFree(p[4]));
  AGREE();
  if (pool)
    GIVE(vram_cudaMemPoolTrimTo(pool, 0));
  AGREE();
  fake_complete(stream);
  AGREE();
  if (pool)
    GIVE(vram_cudaMemPoolDestroy(pool)); /* with blocks that are still used */
  AGREE();
  for (i = 0; i < 6; i++)
    if (i != 1 && i != 4 && p[i])
      GIVE(vram_cudaFreeAsync(p[i], stream));
  AGREE();
  fake_complete(stream);
  AGREE();
}

static void mappings(void) {
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  vram_cuda_access access = {1, 0, 3};
  unsigned long long base = 0, h[4] = {0}, again = 0;
  int i, mapped = 0;
  if (api.cu_MemAddressReserve(&base, 32 * MIB, 0, 0, 0))
    return;
  for (i = 0; i < 4; i++) { /* released as soon as they are mapped, as ggml does */
    if (vram_cuMemCreate(&h[i], 2 * MIB << (i & 1), &prop, 0))
      break;
    if (!vram_cuMemMap(base + (uint64_t)mapped * 2 * MIB, 2 * MIB << (i & 1), 0, h[i], 0))
      mapped += 1 << (i & 1);
    AGREE();
    if (i != 3)
      GIVE(vram_cuMemRelease(h[i]));
  }
  if (!on_device || mapped)
    (void)api.cu_MemSetAccess(base, (size_t)mapped * 2 * MIB, &access, 1);
  AGREE();
  if (mapped && !vram_cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)base))
    GIVE(vram_cuMemRelease(again));
  AGREE();
  if (i == 4) /* held by its handle and by a second mapping */
    if (!vram_cuMemMap(base + 24 * MIB, 2 * MIB, 0, h[3], 0)) {
      if (mapped)
        GIVE(vram_cuMemUnmap(base, (size_t)mapped * 2 * MIB));
      AGREE();
      GIVE(vram_cuMemRelease(h[3]));
      AGREE();
      GIVE(vram_cuMemUnmap(base + 24 * MIB, 2 * MIB));
      i = mapped = 0;
    }
  if (mapped)
    GIVE(vram_cuMemUnmap(base, (size_t)mapped * 2 * MIB)); /* all at once */
  AGREE();
  if (i == 4)
    GIVE(vram_cuMemRelease(h[3]));
  AGREE();
  GIVE(api.cu_MemAddressFree(base, 32 * MIB));
}

/* a handle's value is given out again while what it stood for is still mapped */
static void same_handle(void) {
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  unsigned long long base = 0, a = 0, b = 0, c = 0;
  int mapped;
  if (api.cu_MemAddressReserve(&base, 8 * MIB, 0, 0, 0))
    return;
  if (!vram_cuMemCreate(&a, 2 * MIB, &prop, 0)) {
    mapped = !vram_cuMemMap(base, 2 * MIB, 0, a, 0);
    GIVE(vram_cuMemRelease(a));
    AGREE();
    if (!vram_cuMemCreate(&b, 4 * MIB, &prop, 0)) {
      AGREE();
      if (mapped && !vram_cuMemRetainAllocationHandle(&c, (void *)(uintptr_t)base)) {
        GIVE(vram_cuMemUnmap(base, 2 * MIB));
        AGREE();
        GIVE(vram_cuMemRelease(c));
        mapped = 0;
        AGREE();
      }
      GIVE(vram_cuMemRelease(b));
      AGREE();
    }
    if (mapped)
      GIVE(vram_cuMemUnmap(base, 2 * MIB));
  }
  AGREE();
  GIVE(api.cu_MemAddressFree(base, 8 * MIB));
}

static void devices(void) {
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 2};
  unsigned long long h = 0, d = 0;
  void *p[3] = {0};
  int i, n = 0;
  if (api.cuda_GetDeviceCount(&n))
    return;
  for (i = 0; i < n && i < 3; i++) {
    if (!api.cuda_SetDevice(i) && vram_cudaMalloc(&p[i], 3000000))
      p[i] = NULL;
    AGREE();
  }
  if (n > 2 && !vram_cuMemCreate(&h, 2 * MIB, &prop, 0)) {
    AGREE();
    GIVE(vram_cuMemRelease(h));
  }
  if (!vram_cuMemAlloc(&d, 1000)) {
    AGREE();
    GIVE(vram_cuMemFree(d));
  }
  GIVE(api.cuda_SetDevice(0));
  for (i = 0; i < n && i < 3; i++)
    GIVE(vram_cudaFree(p[i]));
  AGREE();
}

static void opened(void) {
  vram_cuda_ipc h[2];
  void *p[3] = {0};
  if (on_device)
    return;
  h[0] = fake_export(0, 5 * MIB);
  h[1] = fake_export(1, 7000);
  if (vram_cudaIpcOpenMemHandle(&p[0], h[0], 1))
    p[0] = NULL;
  if (vram_cudaIpcOpenMemHandle(&p[1], h[1], 1))
    p[1] = NULL;
  AGREE();
  if (!vram_cudaIpcOpenMemHandle(&p[2], h[0], 1)) {
    CHECK(!p[0] || p[0] == p[2]);
    GIVE(vram_cudaIpcCloseMemHandle(p[2]));
  }
  AGREE();
  if (p[0])
    GIVE(vram_cudaIpcCloseMemHandle(p[0]));
  if (p[1])
    GIVE(vram_cudaIpcCloseMemHandle(p[1]));
  AGREE();
  fake_peer(0, 9000, 0);
  fake_peer(1, 9001, 0);
}

static void captured(void) {
  void *stream = (void *)&tracker, *p = NULL, *q = NULL;
  uint64_t nodes;
  if (on_device)
    return;
  fake_capture(stream, 1);
  nodes = tracker.graph_nodes;
  if (vram_cudaMallocAsync(&p, 12345, stream))
    p = NULL;
  EQUAL(tracker.graph_nodes - nodes, p != NULL);
  EQUAL(tracker.graph_bytes, p ? 12345 : 0);
  AGREE();
  if (vram_cudaMallocAsync(&q, 4000, NULL))
    q = NULL;
  AGREE();
  if (p)
    GIVE(vram_cudaFreeAsync(p, stream));
  fake_capture(stream, 0);
  if (q)
    GIVE(vram_cudaFreeAsync(q, stream)); /* on another stream than it came from */
  AGREE();
  fake_complete(NULL);
}

static void reset(void) {
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  unsigned long long base = 0, h = 0;
  void *p[150] = {0}, *host = NULL, *async = NULL, *other = NULL;
  int i;
  if (on_device)
    return;
  for (i = 0; i < 150; i++)
    (void)vram_cudaMalloc(&p[i], 512);
  (void)vram_cudaMallocHost(&host, 100);
  (void)vram_cudaMallocAsync(&async, 100, NULL);
  if (!api.cuda_SetDevice(1) && vram_cudaMalloc(&other, 100000))
    other = NULL;
  GIVE(api.cuda_SetDevice(0));
  if (api.cu_MemAddressReserve(&base, 2 * MIB, 0, 0, 0))
    base = 0;
  if (base && !vram_cuMemCreate(&h, 2 * MIB, &prop, 0))
    (void)vram_cuMemMap(base, 2 * MIB, 0, h, 0);
  AGREE();
  GIVE(vram_cudaDeviceReset());
  AGREE();
  if (base)
    GIVE(api.cu_MemAddressFree(base, 2 * MIB));
  GIVE(vram_cudaFree(other));
  AGREE();
}

static void view(void) {
  vram_cuda_view v;
  void *p = NULL;
  if (vram_cudaMalloc(&p, 3 << 20))
    p = NULL;
  if (!vram_cuda_view_of(&tracker, 0, &v)) {
    CHECK(v.free <= v.total);
    EQUAL(v.allocated, p ? 3 << 20 : 0);
    CHECK(v.process == VRAM_UNKNOWN || v.process >= v.reserved);
  }
  GIVE(vram_cudaFree(p));
  AGREE();
}

/* the pools: what they hold and hand out is what the driver and the ledger say */
static void pool_agrees(vram_cuda_pool *p, int line) {
  const uint64_t fail_at = fake.fail_at;
  vram_memory_stats s, ledger;
  fake_truth truth;
  fake.fail_at = 0;
  vram_cuda_pool_stats(p, &s);
  vram_ledger_stats(&tracker.ledger, 0, &ledger);
  test_equal(ledger.reserved_bytes[0].current, s.reserved_bytes[0].current, "reserved of the pool",
             __FILE__, line);
  test_equal(ledger.allocated_bytes[0].current, s.allocated_bytes[0].current,
             "allocated of the pool", __FILE__, line);
  if (!on_device && p->options.source == VRAM_CUDA_FROM_MALLOC) {
    fake_truth_of(0, &truth);
    test_equal(truth.physical, s.reserved_bytes[0].current, "held from the device", __FILE__, line);
  }
  fake.fail_at = fail_at;
}

static void pool_of(vram_cuda_source source, int expandable) {
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  static vram_cuda_pool pool;
  static const uint64_t size[] = {100, 3000000, 700000, 12 << 20, 5 << 20, 30 << 20, 1, 2 << 20};
  void *p[24] = {0}, *memory_of, *one = NULL, *two = (void *)(uintptr_t)(on_device ? 2 : 16);
  vram_error e;
  uint32_t i;
  uint64_t n;
  o.source = source;
  o.pool.expandable_segments = expandable;
  o.blocks = 500;
  o.tracker = &tracker;
  n = vram_cuda_pool_bytes(&o);
  memory_of = malloc(n);
  fake.events_wait = 1;
  if (vram_cuda_pool_init(&pool, &api, &o, memory_of, n, &e)) {
    if (!fake.fail_at)
      FAIL(e.text);
    free(memory_of);
    return;
  }
  for (i = 0; i < 24; i++) {
    if (vram_cuda_pool_alloc(&pool, &p[i], size[i % 8], one))
      p[i] = NULL;
    if (i % 3 == 0 && p[i])
      (void)vram_cuda_pool_record_stream(&pool, p[i], two);
    if (i % 5 == 4 && p[i - 2]) {
      EQUAL(vram_cuda_pool_free(&pool, p[i - 2]), 0);
      EQUAL(vram_cuda_pool_free(&pool, p[i - 2]), VRAM_ERR_VALUE);
      p[i - 2] = NULL;
    }
    pool_agrees(&pool, __LINE__);
    if (i == 12)
      fake_complete(two);
    if (i == 16)
      vram_cuda_pool_empty_cache(&pool);
  }
  for (i = 0; i < 24; i++)
    if (p[i])
      EQUAL(vram_cuda_pool_free(&pool, p[i]), 0);
  pool_agrees(&pool, __LINE__);
  EQUAL(vram_cuda_pool_end(&pool), 0);
  EQUAL(pool.failures, 0);
  if (source == VRAM_CUDA_FROM_MALLOC)
    EQUAL(vram_cuda_memory_reserved(&tracker, 0), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  fake_complete(one);
  free(memory_of);
}
static void pool_malloc(void) { pool_of(VRAM_CUDA_FROM_MALLOC, 0); }
static void pool_async(void) { pool_of(VRAM_CUDA_FROM_ASYNC, 0); }
static void pool_expandable(void) { pool_of(VRAM_CUDA_FROM_MALLOC, 1); }

/* other processes take the memory just before this one asks */
static void greedy(void *user, const char *call) {
  static uint32_t n;
  const uint64_t left = fake_free_bytes(0);
  (void)user;
  no_lock(NULL, call);
  if (strcmp(call, "cudaMalloc") && strcmp(call, "cuMemCreate"))
    return;
  if (++n % 3)
    fake_peer(0, 77, n % 2 && left > 4 * MIB ? left - 4 * MIB : 0);
}
static void peers(void) {
  if (on_device)
    return;
  fake.hook = greedy;
  pool_malloc();
  pool_expandable();
  runtime();
  fake.hook = no_lock;
  fake_peer(0, 77, 0);
}

/* ---- a schedule on a stream: a net whose layers are calls that the fake stream makes when it has
   come to them. Copies come early, late, in any order that the events allow */

enum { WIDTH = 9 };

typedef struct line { /* layers y[j] = w x[j % width] * mask + 1, at last the sum */
  vram_chain chain;
  vram_stage stage[STAGES];
  vram_way way[STAGES];
  uint32_t n, width[STAGES];
  float w[STAGES], gradient[STAGES], wanted[STAGES], x0[WIDTH];
} line;

typedef struct job {
  line *t;
  vram_call c;
} job;

static void layer_forward(const line *t, uint32_t i, uint64_t key, const float *x, float *y,
                          float *mask) {
  uint32_t j;
  for (j = 0; j < t->width[i + 1]; j++) {
    const float m = splitmix(&key) >> 62 ? 1.25f : 0;
    y[j] = t->w[i] * x[j % t->width[i]] * m + 1;
    if (mask)
      mask[j] = m;
  }
}

static float layer_backward(const line *t, uint32_t i, const float *x, const float *mask,
                            const float *gy, float *gx) {
  float sum = 0;
  uint32_t j;
  for (j = 0; j < t->width[i]; j++)
    gx[j] = 0;
  for (j = 0; j < t->width[i + 1]; j++) {
    gx[j % t->width[i]] += t->w[i] * mask[j] * gy[j];
    sum += x[j % t->width[i]] * mask[j] * gy[j];
  }
  return sum;
}

static void forward_job(void *with) {
  const job *q = (const job *)with;
  if (q->c.stage + 1 < q->t->n)
    layer_forward(q->t, q->c.stage, q->c.key, q->c.in, q->c.out, q->c.save ? q->c.saved : NULL);
}

static void backward_job(void *with) {
  const job *q = (const job *)with;
  uint32_t j;
  if (q->c.stage + 1 < q->t->n)
    q->t->gradient[q->c.stage] +=
        layer_backward(q->t, q->c.stage, q->c.in, q->c.saved, q->c.grad_out, q->c.grad_in);
  else
    for (j = 0; j < q->t->width[q->c.stage]; j++)
      ((float *)q->c.grad_in)[j] = 1 + ((const float *)q->c.in)[j];
}

static int give_forward(void *user, const vram_call *c) {
  job q;
  q.t = user;
  q.c = *c;
  return fake_launch(c->stream, forward_job, &q, sizeof q);
}
static int give_backward(void *user, const vram_call *c) {
  job q;
  q.t = user;
  q.c = *c;
  return fake_launch(c->stream, backward_job, &q, sizeof q);
}

static void make_line(line *t) {
  float x[STAGES + 1][WIDTH], g[STAGES + 1][WIDTH], mask[STAGES][WIDTH];
  uint32_t i, j;
  memset(t, 0, sizeof *t);
  t->n = 3 + below(STAGES - 2);
  for (i = 0; i < t->n; i++) {
    t->width[i] = 1 + below(WIDTH);
    t->w[i] = (float)below(100) / 50;
  }
  for (i = 0; i < t->n; i++) {
    t->stage[i].output_bytes = i + 1 < t->n ? t->width[i + 1] * sizeof(float) : 0;
    t->way[i].saved_bytes = 2 * t->stage[i].output_bytes;
    t->stage[i].way = &t->way[i];
    t->stage[i].nway = 1;
  }
  for (j = 0; j < WIDTH; j++)
    t->x0[j] = x[0][j] = (float)below(1000) / 300;
  for (i = 0; i + 1 < t->n; i++)
    layer_forward(t, i, vram_chain_key(9, i), x[i], x[i + 1], mask[i]);
  for (j = 0; j < t->width[i]; j++)
    g[i][j] = 1 + x[i][j];
  while (i--)
    t->wanted[i] = layer_backward(t, i, x[i], mask[i], g[i + 1], g[i]);
  t->chain.stage = t->stage;
  t->chain.nstage = t->n;
  t->chain.input_bytes = t->chain.input_gradient_bytes = t->width[0] * sizeof(float);
  t->chain.align = 16;
}

static uint32_t runs_with_copies;

/* One run, captured or not; then what it has given the streams, in several orders. */
static void run_line(line *t, const vram_binding *b, int capture) {
  void *const stream = (void *)(uintptr_t)0x9000;
  void *arena = malloc(b->arena_bytes), *host = malloc(b->host_bytes + 1);
  vram_cuda_runner_options o = VRAM_ZERO_INIT;
  vram_cuda_runner q;
  vram_runner r = VRAM_ZERO_INIT;
  vram_error e;
  const uint64_t n = vram_cuda_runner_bytes(b), m = vram_chain_run_bytes(b, &r);
  void *mem = malloc(n), *work = malloc(m);
  vram_result result;
  uint64_t order;
  uint32_t i;
  o.stream = stream;
  o.arena = arena;
  o.host = host;
  r.forward = give_forward;
  r.backward = give_backward;
  r.user = t;
  r.seed = 9;
  result = vram_cuda_runner_init(&q, &api, b, &o, mem, n, &r, &e);
  if (!result) {
    if (capture)
      fake_capture(stream, 1);
    result = vram_chain_run(&t->chain, b, &r, q.arena, q.host, work, m, &e);
    if (capture)
      fake_capture(stream, 0);
  }
  if (fake.fail_at) { /* the error comes back; what runs still runs into memory that is there */
    if (result) {
      CHECK(strstr(e.text, " gave 46 (expected 0)") != NULL);
      EQUAL(result, VRAM_ERR_CALL);
    }
    memcpy((char *)arena + b->input, t->x0, t->chain.input_bytes);
    fake_run(3);
  } else if (EQUAL(result, VRAM_OK)) {
    EQUAL(fake_capture_faults(), 0);
    runs_with_copies += b->noffload > 0;
    for (order = 0; order < 8; order++) {
      memset(arena, 0x55, b->arena_bytes);
      memcpy((char *)arena + b->input, t->x0, t->chain.input_bytes);
      memset(t->gradient, 0, sizeof t->gradient);
      fake_run(order);
      for (i = 0; i + 1 < t->n; i++)
        CHECK(same_bits(&t->gradient[i], &t->wanted[i], sizeof(float)));
    }
  }
  fake_forget();
  vram_cuda_runner_end(&q);
  EQUAL(q.failures, 0);
  free(arena);
  free(host);
  free(mem);
  free(work);
}

static void runner_of(uint64_t chain, int capture) {
  line t;
  vram_binding b;
  uint64_t n;
  void *scratch;
  seed = chain;
  make_line(&t);
  nlist = 0;
  make_moves(&t.chain, 0, t.n - 1, 3, 0);
  add_copies(&t.chain, 6);
  n = vram_schedule_bind_bytes(&t.chain, nlist, NULL);
  scratch = malloc(n);
  if (NEED(vram_schedule_bind(&t.chain, list, nlist, NULL, scratch, n, &b, NULL) == VRAM_OK))
    run_line(&t, &b, capture);
  free(scratch);
}

static void runner(void) {
  if (on_device)
    return;
  fake.queues = 1;
  runner_of(5, 1);
}

static void runner_orders(void) {
  uint32_t chain;
  fake_reset();
  fake_api(&api, 13000);
  fake.queues = 1;
  runs_with_copies = 0;
  for (chain = 0; chain < 200; chain++) {
    snprintf(test_where, sizeof test_where, "chain %u on a stream", chain);
    runner_of(chain, (int)(chain % 2));
  }
  EQUAL(fake_leaks(0), 0);
  CHECK(runs_with_copies > 150);
  *test_where = 0;
}

/* Memory that the runner takes itself; what is missing and too small. */
static void runner_memory(void) {
  vram_binding b;
  vram_cuda_runner q;
  vram_runner r = VRAM_ZERO_INIT;
  vram_error e;
  vram_cuda_api without = api;
  void *mem[9];
  vram_result result;
  memset(&b, 0, sizeof b);
  b.arena_bytes = 3 * MIB;
  b.host_bytes = MIB;
  b.noffload = b.nfetch = 4;
  result = vram_cuda_runner_init(&q, &api, &b, NULL, mem, sizeof mem, &r, &e);
  if (!result) {
    CHECK(q.arena && q.host && r.offload && r.fetch && r.wait && r.copy_user == &q);
    if (!on_device && !fake.fail_at)
      EQUAL(fake_free_bytes(0), 1024 * MIB - 8 * MIB - 3 * MIB);
  } else {
    CHECK(strstr(e.text, " gave ") != NULL);
    CHECK(result == (strstr(e.text, " bytes gave ") ? VRAM_ERR_MEMORY : VRAM_ERR_CALL));
  }
  vram_cuda_runner_end(&q);
  vram_cuda_runner_end(&q);
  EQUAL(q.failures, 0);
  if (on_device || fake.fail_at || fake.oom_at)
    return;
  EQUAL(vram_cuda_runner_bytes(&b), 8 * sizeof(void *) + sizeof(void *) - 1);
  EQUAL(vram_cuda_runner_init(&q, &api, &b, NULL, mem, 8 * sizeof(void *), &r, &e),
        VRAM_ERR_MEMORY);
  TEXT(e.text, "the runner's memory is smaller than vram_cuda_runner_bytes");
  b.arena_bytes = UINT64_C(1) << 40;
  EQUAL(vram_cuda_runner_init(&q, &api, &b, NULL, mem, sizeof mem, &r, &e), VRAM_ERR_MEMORY);
  TEXT(e.text, "cudaMalloc of 1099511627776 bytes gave 2 (expected 0)");
  without.cuda_StreamWaitEvent = NULL;
  EQUAL(vram_cuda_runner_init(&q, &without, &b, NULL, mem, sizeof mem, &r, &e),
        VRAM_ERR_UNSUPPORTED);
  memset(&without, 0, sizeof without);
  EQUAL(vram_cuda_runner_init(&q, &without, &b, NULL, mem, sizeof mem, &r, &e),
        VRAM_ERR_UNSUPPORTED);
  TEXT(e.text, "no CUDA runtime: libcudart.so cannot be loaded");
  vram_cuda_runner_end(&q);
  memset(&b, 0, sizeof b); /* nothing to copy: no streams, no events */
  b.arena_bytes = 512;
  EQUAL(vram_cuda_runner_init(&q, &api, &b, NULL, mem, sizeof mem, &r, &e), VRAM_OK);
  CHECK(!r.offload && !r.fetch && !r.wait && !q.host);
  EQUAL(fake_leaks(0), 1);
  vram_cuda_runner_end(&q);
  EQUAL(fake_leaks(0), 0);
}

static const struct scenario {
  const char *name;
  void (*play)(void);
} scenario[] = {{"runtime", runtime},
                {"pools", pools},
                {"mappings", mappings},
                {"same handle", same_handle},
                {"devices", devices},
                {"opened", opened},
                {"captured", captured},
                {"reset", reset},
                {"view", view},
                {"pool by cudaMalloc", pool_malloc},
                {"pool by cudaMallocAsync", pool_async},
                {"expandable pool", pool_expandable},
                {"peers", peers},
                {"runner", runner},
                {"runner's memory", runner_memory}};

static void play(const struct scenario *x, const char *how, uint64_t fail_at, uint64_t oom_at) {
  snprintf(test_where, sizeof test_where, "%s, %s %llu", x->name, how,
           (unsigned long long)(fail_at ? fail_at : oom_at));
  fake_reset();
  fake_api(&api, 13000);
  fake.fail_at = fail_at;
  fake.oom_at = oom_at;
  fake.hook = no_lock;
  begin();
  x->play();
  AGREE();
  end();
  fake.fail_at = 0;
  EQUAL(fake_leaks(0), 0);
  *test_where = 0;
}

static void every_fault(void) {
  uint32_t i;
  uint64_t k, calls, allocations;
  for (i = 0; i < sizeof scenario / sizeof *scenario; i++) {
    play(&scenario[i], "no fault", 0, 0);
    calls = fake_calls();
    allocations = fake_allocations();
    for (k = 1; k <= calls; k++)
      play(&scenario[i], "failing call", k, 0);
    for (k = 1; k <= allocations; k++)
      play(&scenario[i], "no memory for", 0, k);
    printf("%s: %llu calls, %llu allocations\n", scenario[i].name, (unsigned long long)calls,
           (unsigned long long)allocations);
  }
}

/* ---- threads */

enum { THREADS = 4, SLOTS = 64 };
static int rounds = 1500;
static pthread_mutex_t shared = PTHREAD_MUTEX_INITIALIZER;
static struct slot {
  void *p;
  int how;
} slot[SLOTS]; /* what one thread allocates another may free */

static void give(struct slot x) {
  if (x.how == 0)
    (void)NEED(!vram_cudaFree(x.p));
  else if (x.how == 1)
    (void)NEED(!vram_cudaFreeAsync(x.p, NULL));
  else if (x.how == 2)
    (void)NEED(!vram_cudaFreeHost(x.p));
  else if (x.how == 3)
    (void)NEED(!vram_cuMemRelease((unsigned long long)(uintptr_t)x.p));
}

static void *work(void *arg) {
  uint64_t r = (uint64_t)(uintptr_t)arg * 7919 + 1;
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  int i;
  for (i = 0; i < rounds; i++) {
    struct slot x = {NULL, 0}, old;
    unsigned long long h = 0;
    uint32_t k;
    r = r * UINT64_C(6364136223846793005) + 1442695040888963407u;
    x.how = (int)(r >> 40) % 4;
    k = (uint32_t)(r >> 33) % SLOTS;
    VRAM_CUDA_TAG("thread");
    if (x.how == 0   ? vram_cudaMalloc(&x.p, (size_t)(r >> 48) + 1)
        : x.how == 1 ? vram_cudaMallocAsync(&x.p, (size_t)(r >> 48) + 1, NULL)
        : x.how == 2 ? vram_cudaMallocHost(&x.p, 64)
                     : vram_cuMemCreate(&h, 2 * MIB, &prop, 0))
      x.p = NULL;
    if (x.how == 3)
      x.p = (void *)(uintptr_t)h;
    pthread_mutex_lock(&shared);
    old = slot[k];
    slot[k] = x;
    pthread_mutex_unlock(&shared);
    if (old.p)
      give(old);
    if (i % 100 == 0)
      (void)vram_cuda_memory_reserved(&tracker, 0);
  }
  return NULL;
}

static void threads(void) {
  pthread_t t[THREADS];
  uintptr_t i;
  snprintf(test_where, sizeof test_where, "threads");
  fake_reset();
  fake_api(&api, 13000);
  begin();
  for (i = 0; i < THREADS; i++)
    pthread_create(&t[i], NULL, work, (void *)i);
  for (i = 0; i < THREADS; i++)
    pthread_join(t[i], NULL);
  AGREE(); /* the threads have ended and own blocks */
  for (i = 0; i < SLOTS; i++) {
    if (slot[i].p)
      give(slot[i]);
    slot[i].p = NULL;
  }
  AGREE();
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  fake_complete(NULL);
  AGREE();
  end();
  EQUAL(fake_leaks(1), 0);
}

static vram_cuda_pool shared_pool;
static void *pool_work(void *arg) {
  uint64_t r = (uint64_t)(uintptr_t)arg * 104729 + 3;
  void *p[16] = {0};
  int i;
  for (i = 0; i < rounds; i++) {
    uint32_t k;
    r = r * UINT64_C(6364136223846793005) + 1442695040888963407u;
    k = (uint32_t)(r >> 33) % 16;
    if (p[k])
      (void)NEED(!vram_cuda_pool_free(&shared_pool, p[k]));
    if (vram_cuda_pool_alloc(&shared_pool, &p[k], (r >> 45) + 1, arg))
      p[k] = NULL;
  }
  for (i = 0; i < 16; i++)
    if (p[i])
      (void)NEED(!vram_cuda_pool_free(&shared_pool, p[i]));
  return NULL;
}

static void pool_threads(void) {
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  pthread_t t[THREADS];
  uintptr_t i;
  uint64_t n;
  void *m;
  snprintf(test_where, sizeof test_where, "pool and threads");
  fake_reset();
  fake_api(&api, 13000);
  begin();
  o.tracker = &tracker;
  n = vram_cuda_pool_bytes(&o);
  m = malloc(n);
  EQUAL(vram_cuda_pool_init(&shared_pool, &api, &o, m, n, NULL), 0);
  for (i = 0; i < THREADS; i++)
    pthread_create(&t[i], NULL, pool_work, (void *)i);
  for (i = 0; i < THREADS; i++)
    pthread_join(t[i], NULL);
  pool_agrees(&shared_pool, __LINE__);
  EQUAL(vram_cuda_pool_end(&shared_pool), 0);
  end();
  free(m);
  EQUAL(fake_leaks(1), 0);
}

/* ---- bad use */

static void start(const char *name, int version) {
  snprintf(test_where, sizeof test_where, "%s", name);
  fake_reset();
  fake_api(&api, version);
  begin();
}

static void finish(uint64_t leaks) {
  end();
  EQUAL(fake_leaks(leaks == 0), leaks);
  *test_where = 0;
}

static void double_free(void) {
  void *p = NULL, *q = NULL;
  start("double free", 13000);
  EQUAL(vram_cudaMalloc(&p, 100), 0);
  EQUAL(vram_cudaMalloc(&q, 200), 0);
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(tracker.ledger.unknown_frees, 0);
  EQUAL(vram_cudaFree(p), 1); /* CUDA's answer */
  EQUAL(tracker.ledger.unknown_frees, 1);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 200);
  EQUAL(vram_cudaFree(q), 0);
  finish(0);
}

static void foreign(void) {
  void *p = NULL;
  int local;
  start("foreign pointers", 13000);
  EQUAL(api.cuda_Malloc(&p, 100), 0); /* somebody else's: not seen */
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(vram_cudaFree(&local), 1);
  EQUAL(vram_cudaFreeHost(&local), 1);
  EQUAL(tracker.ledger.unknown_frees, 3);
  EQUAL(vram_cuMemRelease(99), 400);
  EQUAL(vram_cuMemUnmap(4096, 4096), 1);
  EQUAL(vram_cudaIpcCloseMemHandle(&local), 1);
  EQUAL(tracker.unknown, 3);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  finish(0);
}

static void wrong_call(void) { /* the wrong kind of free fails, and the record comes back */
  void *p = NULL, *host = NULL;
  start("wrong free", 13000);
  EQUAL(vram_cudaMalloc(&p, 100), 0);
  EQUAL(vram_cudaMallocHost(&host, 100), 0);
  EQUAL(vram_cudaFreeHost(p), 1);
  EQUAL(vram_cudaFree(host), 1);
  AGREE();
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(vram_cudaFreeHost(host), 0);
  AGREE();
  finish(0);
}

static void wrong_stream(void) {
  void *p = NULL;
  start("wrong stream", 13000);
  EQUAL(vram_cudaMallocAsync(&p, 100, (void *)8), 0);
  EQUAL(vram_cudaFreeAsync(p, (void *)16), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  AGREE();
  fake_complete(NULL);
  finish(0);
}

static void after_end(void) {
  vram_memory_stats s;
  vram_cuda_view v;
  void *p = NULL, *q = NULL, *m = NULL;
  start("after the end", 13000);
  EQUAL(vram_cudaMalloc(&p, 100), 0);
  vram_cuda_tracker_end(&tracker);
  EQUAL(vram_cudaMalloc(&q, 100), 0);
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(vram_cudaFree(q), 0);
  EQUAL(vram_cudaMallocAsync(&m, 100, NULL), 0);
  EQUAL(vram_cudaFreeAsync(m, NULL), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  vram_cuda_memory_stats(&tracker, 0, &s);
  EQUAL(s.allocation[0].allocated, 0);
  EQUAL(vram_cuda_view_of(&tracker, 0, &v), 0);
  EQUAL(v.allocated, 0);
  EQUAL(vram_cuda_site(&tracker, "f", 1, "g"), 0);
  vram_cuda_reset_peak_memory_stats(&tracker);
  VRAM_CUDA_MARK();
  fake_complete(NULL);
  finish(0);
}

static void *hammer(void *stop) {
  while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) {
    vram_cuda_on_alloc(&tracker, VRAM_CUDA_DEVICE, 0, 4096, 10, 0, 0);
    vram_cuda_on_create(&tracker, 5, 0, 10, 0);
    vram_cuda_on_released(&tracker, vram_cuda_on_release(&tracker, 5), 1);
  }
  return NULL;
}

static void forked(void) {
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  static vram_cuda_pool pool;
  pthread_t t;
  int stop = 0, status = 0, i;
  void *p = NULL, *m;
  uint64_t n;
  start("fork", 13000);
  o.tracker = &tracker;
  o.blocks = 100;
  n = vram_cuda_pool_bytes(&o);
  m = malloc(n);
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, n, NULL), 0);
  EQUAL(vram_cudaMalloc(&p, 1000), 0);
  pthread_create(&t, NULL, hammer, &stop);
  for (i = 0; i < 30; i++) {
    pid_t child;
    usleep(200);
    child = fork(); /* the other thread may hold any lock */
    if (!child) {
      vram_memory_stats s;
      int bad = vram_cuda_memory_allocated(&tracker, 0) != 0;
      bad |= tracker.ledger.nlive != 0;
      vram_cuda_on_alloc(&tracker, VRAM_CUDA_DEVICE, 1, 512, 300, 0, 0);
      vram_cuda_on_create(&tracker, 5, 1, 200, 0);
      vram_cuda_memory_stats(&tracker, 1, &s);
      bad |= s.allocated_bytes[0].current != 500;
      bad |= vram_cuda_pool_alloc(&pool, &p, 10, NULL) != VRAM_ERR_UNSUPPORTED;
      bad |= vram_cuda_pool_free(&pool, p) != VRAM_ERR_UNSUPPORTED;
      _exit(bad);
    }
    CHECK(child > 0);
    waitpid(child, &status, 0);
    EQUAL(status, 0);
  }
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  pthread_join(t, NULL);
  (void)vram_ledger_take(&tracker.ledger, 4096, NULL);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 1000);
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(vram_cuda_pool_end(&pool), 0);
  free(m);
  finish(0);
}

static void *owner_thread(void *p) {
  VRAM_CUDA_TAG("gone");
  EQUAL(vram_cudaMalloc((void **)p, 4321), 0);
  return NULL;
}

static void thread_ends(void) {
  vram_owner o;
  pthread_t t;
  void *p = NULL;
  start("a thread ends", 13000);
  pthread_create(&t, NULL, owner_thread, &p);
  pthread_join(t, NULL);
  AGREE();
  EQUAL(vram_ledger_owners(&tracker.ledger, 0, &o, 1), 1);
  TEXT(o.tag, "gone");
  TEXT(o.function, "owner_thread");
  EQUAL(o.bytes.current, 4321);
  EQUAL(vram_cudaFree(p), 0);
  AGREE();
  finish(0);
}

static void full(void) {
  vram_cuda_options o = VRAM_ZERO_INIT;
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  unsigned long long h[4] = {0};
  void *p[8] = {0}, *async[4] = {0};
  int i;
  snprintf(test_where, sizeof test_where, "full tables");
  fake_reset();
  fake_api(&api, 13000);
  o.ledger.live = 4;
  o.ledger.owners = 1;
  o.objects = 2;
  o.places = 2;
  o.log = &text_sink;
  begin_with(&o);
  for (i = 0; i < 8; i++)
    if (i % 2)
      EQUAL(vram_cudaMalloc(&p[i], 1000), 0);
    else
      EQUAL(vram_cudaMalloc(&p[i], 1000), 0);
  CHECK(tracker.ledger.lost_owners > 0);
  EQUAL(tracker.ledger.lost, 4);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 8000);
  for (i = 0; i < 8; i++)
    EQUAL(vram_cudaFree(p[i]), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  EQUAL(tracker.ledger.lost, 0);
  for (i = 0; i < 4; i++)
    EQUAL(vram_cuMemCreate(&h[i], 2 * MIB, &prop, 0), 0);
  EQUAL(tracker.lost, 2);
  EQUAL(tracker.lost_bytes, 4 * MIB);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 4 * MIB);
  for (i = 0; i < 4; i++)
    EQUAL(vram_cuMemRelease(h[i]), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  for (i = 0; i < 4; i++)
    EQUAL(vram_cudaMallocAsync(&async[i], 1000, NULL), 0);
  EQUAL(tracker.lost, 4);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 4000);
  for (i = 0; i < 4; i++)
    EQUAL(vram_cudaFreeAsync(async[i], NULL), 0);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  fake_complete(NULL);
  EQUAL(vram_cuda_memory_reserved(&tracker, 0), 0);
  finish(0);
}

static void *nothing(void *user, vram_cuda_library lib, const char *symbol) {
  (void)user, (void)lib, (void)symbol;
  return NULL;
}

static void versions(void) {
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  static vram_cuda_pool pool;
  static char m[8 << 20];
  void *p = NULL;
  unsigned long long h = 0;
  const vram_cuda_prop prop = {.type = 1, .location_type = 1, .location_id = 0};
  vram_cuda_ipc ipc = {{0}};
  vram_cuda_view v;
  vram_error e;
  start("CUDA of the future", 99010);
  EQUAL(vram_cuda_check(&tracker, &e), 0);
  EQUAL(vram_cudaMalloc(&p, 10), 0);
  AGREE();
  EQUAL(vram_cudaFree(p), 0);
  finish(0);
  start("CUDA 10.1", 10010);
  EQUAL(vram_cudaMallocAsync(&p, 10, NULL), 801);
  EQUAL(vram_cudaFreeAsync(NULL, NULL), 801);
  EQUAL(vram_cuMemCreate(&h, 2 * MIB, &prop, 0), 801);
  EQUAL(vram_cuMemUnmap(0, 0), 801);
  EQUAL(vram_cudaMalloc(&p, 10), 0);
  AGREE();
  EQUAL(vram_cudaFree(p), 0);
  o.source = VRAM_CUDA_FROM_ASYNC;
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, 1000, &e), VRAM_ERR_MEMORY);
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, sizeof m, &e), VRAM_ERR_UNSUPPORTED);
  TEXT(e.text, "this CUDA has no cudaMallocAsync (it came with 11.2)");
  o.source = VRAM_CUDA_FROM_MALLOC;
  o.pool.expandable_segments = 1;
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, sizeof m, &e), VRAM_ERR_UNSUPPORTED);
  o.pool.expandable_segments = 0;
  o.device = 3;
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, sizeof m, &e), VRAM_ERR_VALUE);
  finish(0);
  start("no library", 13000);
  vram_cuda_api_fill(&api, nothing, NULL, 0);
  EQUAL(vram_cuda_check(&tracker, &e), VRAM_ERR_UNSUPPORTED);
  TEXT(e.text, "no CUDA runtime: libcudart.so cannot be loaded");
  EQUAL(vram_cudaMalloc(&p, 10), 35);
  finish(0);
  start("an old driver", 11040);
  api.runtime_version = 13000;
  api.devices = 0;
  EQUAL(vram_cuda_check(&tracker, &e), VRAM_ERR_UNSUPPORTED);
  TEXT(e.text, "the NVIDIA driver knows CUDA 11.4, and the CUDA runtime is 13.0");
  finish(0);
  start("no driver", 0);
  EQUAL(vram_cuda_check(&tracker, &e), VRAM_ERR_UNSUPPORTED);
  CHECK(e.text[0]);
  p = m;
  EQUAL(vram_cudaMalloc(&p, 10), 35);
  CHECK(p == m);
  EQUAL(vram_cudaFree(p), 35);
  EQUAL(vram_cudaMallocHost(&p, 10), 35);
  EQUAL(vram_cudaMallocAsync(&p, 10, NULL), 35);
  EQUAL(vram_cudaFreeAsync(p, NULL), 35);
  EQUAL(vram_cudaIpcOpenMemHandle(&p, ipc, 0), 35);
  EQUAL(vram_cudaDeviceReset(), 35);
  EQUAL(vram_cuMemCreate(&h, 2 * MIB, &prop, 0), 100);
  EQUAL(vram_cuMemRelease(1), 100);
  EQUAL(vram_cuda_view_of(&tracker, 0, &v), VRAM_ERR_UNSUPPORTED);
  EQUAL(v.free, VRAM_UNKNOWN);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, sizeof m, &e), VRAM_ERR_UNSUPPORTED);
  finish(0);
}

/* ---- whose memory it is */

static void seen(const char *name, void (*set)(void), vram_cuda_view *v) {
  void *p = NULL;
  snprintf(test_where, sizeof test_where, "view, %s", name);
  fake_reset();
  set();
  fake_api(&api, 13000);
  begin();
  EQUAL(vram_cudaMalloc(&p, 3 * MIB), 0);
  fake_peer(0, 41, 10 * MIB);
  fake_peer(0, 42, 20 * MIB);
  fake_peer(1, 43, 30 * MIB);
  EQUAL(vram_cuda_view_of(&tracker, 0, v), 0);
  EQUAL(v->total, 1024 * MIB);
  EQUAL(v->free, (1024 - 3 - 30 - 8) * MIB);
  EQUAL(v->reserved, 3 * MIB);
  EQUAL(vram_cudaFree(p), 0);
  finish(0);
}
static void plain(void) {}
static void first_nvml(void) { fake.nvml_version = 1; }
static void second_nvml(void) { fake.nvml_version = 2; }
static void hidden(void) { fake.own_pid_unknown = 1; }
static void silent(void) { fake.own_bytes_unknown = 1; }
static void peers_silent(void) { fake.own_pid_unknown = fake.peers_unknown = 1; }
static void none(void) { fake.no_nvml = 1; }

static void views(void) {
  static void (*const known[])(void) = {plain, first_nvml, second_nvml, hidden, silent};
  vram_cuda_view v;
  uint32_t i;
  for (i = 0; i < 5; i++) {
    seen("known", known[i], &v);
    EQUAL(v.process, 11 * MIB);
    EQUAL(v.untracked, 8 * MIB);
    EQUAL(v.others, 30 * MIB);
    EQUAL(v.nother, 2);
    EQUAL(v.other[0].pid, FAKE_PID + 42);
    EQUAL(v.other[0].bytes, 20 * MIB);
    EQUAL(v.derived, i > 2);
  }
  seen("bytes of peers unknown", peers_silent, &v);
  EQUAL(v.process, VRAM_UNKNOWN);
  EQUAL(v.untracked, VRAM_UNKNOWN);
  EQUAL(v.others, VRAM_UNKNOWN);
  EQUAL(v.nother, 2);
  EQUAL(v.other[0].bytes, VRAM_UNKNOWN);
  seen("no NVML", none, &v);
  EQUAL(v.process, VRAM_UNKNOWN);
  EQUAL(v.nother, 0);
  start("many processes", 13000);
  for (i = 0; i < 200; i++)
    fake_peer(0, 1000 + i, 1000 + i);
  EQUAL(vram_cuda_view_of(&tracker, 0, &v), 0);
  EQUAL(v.nother, VRAM_CUDA_PROCESSES);
  EQUAL(v.other[0].pid, FAKE_PID + 1199);
  EQUAL(v.other[VRAM_CUDA_PROCESSES - 1].pid, FAKE_PID + 1199 - VRAM_CUDA_PROCESSES + 1);
  EQUAL(v.process, 8 * MIB);
  for (i = 200; i < 290; i++)
    fake_peer(0, 1000 + i, 1000 + i);
  EQUAL(vram_cuda_view_of(&tracker, 0, &v), 0); /* more than are asked for */
  EQUAL(v.process, VRAM_UNKNOWN);
  EQUAL(v.others, VRAM_UNKNOWN);
  EQUAL(vram_cuda_view_of(&tracker, 3, &v), VRAM_ERR_VALUE);
  EQUAL(vram_cuda_view_of(&tracker, VRAM_DEVICE_HOST, &v), VRAM_ERR_VALUE);
  finish(0);
}

/* ---- regions, categories, peaks */

static void said(void) {
  vram_region r;
  vram_owner o[4];
  void *p = NULL, *q = NULL;
  int i;
  start("tags and regions", 13000);
  vram_region_begin(&tracker.ledger, &r, "step");
  vram_cuda_category_push(VRAM_CATEGORY_PARAMS, "weights");
  EQUAL(vram_cudaMalloc(&p, 5000), 0);
  {
    VRAM_CUDA_TAG("inner");
    EQUAL(vram_cudaMalloc(&q, 70000), 0);
  }
  EQUAL(vram_cudaFree(q), 0);
  EQUAL(vram_region_end(&tracker.ledger, &r), 1);
  vram_cuda_tag_pop();
  vram_cuda_tag_pop(); /* one too many */
  EQUAL(r.bytes, 5000);
  EQUAL(r.peak, 75000);
  EQUAL(tracker.ledger.category[VRAM_CATEGORY_PARAMS].current, 5000);
  EQUAL(tracker.ledger.category[VRAM_CATEGORY_PARAMS].peak, 75000);
  EQUAL(vram_cuda_max_memory_allocated(&tracker, 0), 75000);
  EQUAL(vram_cuda_max_memory_reserved(&tracker, 0), 75000);
  vram_cuda_reset_peak_memory_stats(&tracker);
  EQUAL(vram_cuda_max_memory_allocated(&tracker, 0), 5000);
  EQUAL(vram_ledger_owners(&tracker.ledger, 0, o, 4), 1);
  TEXT(o[0].tag, "weights");
  TEXT(o[0].function, "said");
  CHECK(strstr(o[0].file, "test_cuda.c") != NULL);
  for (i = 0; i < 40; i++)
    vram_cuda_tag_push("deep");
  EQUAL(vram_cudaMalloc(&q, 10), 0);
  for (i = 0; i < 40; i++)
    vram_cuda_tag_pop();
  EQUAL(vram_cudaFree(q), 0);
  EQUAL(vram_cudaFree(p), 0);
  finish(0);
}

/* ---- what is written */

static void logged(void) {
  void *p[3] = {NULL}, *q = NULL;
  int i;
  start("marks", 13000);
  {
    VRAM_CUDA_TAG("cache");
    for (i = 0; i < 3; i++)
      EQUAL(vram_cudaMalloc(&p[i], 4 * MIB), 0);
  }
  EQUAL(vram_cudaMalloc(&q, 1000), 0);
  VRAM_CUDA_MARK();

  CHECK(strstr(text_log, "3 *") != NULL);
  CHECK(strstr(text_log, "12.0 MiB") != NULL);
  CHECK(strstr(text_log, "cache") != NULL);
  text_n = 0;
  EQUAL(vram_cudaFree(p[0]), 0);
  VRAM_CUDA_MARK();

  CHECK(strstr(text_log, "- |") != NULL);
  CHECK(!strstr(text_log, "+ |"));
  for (i = 1; i < 3; i++)
    EQUAL(vram_cudaFree(p[i]), 0);
  EQUAL(vram_cudaFree(q), 0);
  finish(0);
}

static void no_memory(void) {
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  static vram_cuda_pool pool;
  void *p = NULL, *q = NULL, *m;
  uint64_t n;
  start("no memory", 13000);
  {
    VRAM_CUDA_TAG("weights");
    EQUAL(vram_cudaMalloc(&p, 600 * MIB), 0);
  }
  fake_peer(0, 4711, 300 * MIB);
  EQUAL(vram_cudaMalloc(&q, 200 * MIB), 2);

  CHECK(!strncmp(text_log,
                 "CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total "
                 "capacity of 1024.00 MiB of which 116.00 MiB is free.",
                 100));
  CHECK(strstr(text_log, "4711") != NULL);
  CHECK(strstr(text_log, "weights") != NULL);
  CHECK(strstr(text_log, "no_memory") != NULL);
  CHECK(strstr(text_log, "cudaMalloc") != NULL);
  EQUAL(tracker.ledger.device[0].num_ooms, 1);
  text_n = 0;
  o.tracker = &tracker;
  n = vram_cuda_pool_bytes(&o);
  m = malloc(n);
  EQUAL(vram_cuda_pool_init(&pool, &api, &o, m, n, NULL), 0);
  EQUAL(vram_cuda_pool_alloc(&pool, &q, 50 * MIB, NULL), 0);
  EQUAL(vram_cuda_pool_alloc(&pool, &q, 101 * MIB, NULL), VRAM_ERR_MEMORY);

  CHECK(strstr(text_log, "was asked for 102.00 MiB") != NULL);
  EQUAL(vram_cuda_pool_free(&pool, q), 0);
  EQUAL(vram_cuda_pool_end(&pool), 0);
  text_n = 0; /* a peer takes what is left while the report is made: every call may fail */
  fake_peer(0, 4711, 400 * MIB);
  for (n = 1; n < 20; n++) {
    text_n = 0;
    fake.fail_at = fake_calls() + n;
    q = NULL;
    if (vram_cudaMalloc(&q, 200 * MIB) == 2)
      CHECK(!strncmp(text_log, "CUDA out of memory. Tried to allocate 200.00 MiB.", 49));
    fake.fail_at = 0;
  }
  EQUAL(vram_cudaFree(p), 0);
  free(m);
  finish(0);
}

static void unloading(void) { /* the process ends: CUDA is gone before its users */
  void *p = NULL;
  start("unloading", 13000);
  EQUAL(vram_cudaMalloc(&p, 100), 0);
  fake.fail_at = fake_calls() + 1;
  fake.fail_with = 4;
  EQUAL(vram_cudaFree(p), 4);
  EQUAL(vram_cuda_memory_allocated(&tracker, 0), 0);
  finish(1);
}

/* the tracker of programs that make none: with the calls' own defaults */
#undef VRAM_CUDA_TRACKER
#define VRAM_CUDA_TRACKER NULL
static void by_default(void) {
  void *p = NULL, *q = NULL;
  snprintf(test_where, sizeof test_where, "the default tracker");
  fake_reset();
  fake_api(&api, 13000);
  EQUAL(vram_cuda_use(&api), 1);
  EQUAL(vram_cuda_use(&api), 0);
  EQUAL(vram_cuda_check(NULL, NULL), 0);
  EQUAL(vram_cudaMalloc(&p, 1000), 0);
  EQUAL(vram_cudaMallocAsync(&q, 1000, NULL), 0);
  EQUAL(vram_cuda_memory_allocated(NULL, 0), 2000);
  EQUAL(vram_cuda_memory_reserved(NULL, 0), 1000 + 2 * MIB);
  EQUAL(vram_cuda_default()->ledger.options.live, 32768);
  EQUAL(vram_cudaFree(p), 0);
  EQUAL(vram_cudaFreeAsync(q, NULL), 0);
  fake_complete(NULL);
  EQUAL(vram_cuda_max_memory_allocated(NULL, 0), 2000);
  EQUAL(vram_cuda_memory_reserved(NULL, 0), 0);
  EQUAL(fake_leaks(1), 0);
}
#undef VRAM_CUDA_TRACKER
#define VRAM_CUDA_TRACKER test_tracker

static void begin_many(void) {
  vram_cuda_options o = VRAM_ZERO_INIT;
  char m[64];
  vram_error e;
  snprintf(test_where, sizeof test_where, "beginning");
  fake_reset();
  fake_api(&api, 13000);
  EQUAL(vram_cuda_tracker_init(&tracker, &api, NULL, m, sizeof m, &e), VRAM_ERR_MEMORY);
  CHECK(e.text[0]);
  o.objects = UINT32_C(1) << 31;
  EQUAL(vram_cuda_tracker_init(&tracker, &api, &o, m, sizeof m, &e), VRAM_ERR_VALUE);
  EQUAL(vram_cudaMalloc_at(&tracker, "f", 1, "g", (void **)(void *)m, 0),
        0); /* not open: passed on */
  *test_where = 0;
}

int main(int argc, char **argv) {
  uint32_t i;
  text_log = malloc(TEXT_CAP);
  if (argc > 1 && !strcmp(argv[1], "device")) {
    vram_error e;
    if (vram_cuda_api_dlopen(&api, &e)) {
      printf("SKIP: %s\n", e.text);
      return 0;
    }
    on_device = 1;
    for (i = 0; i < sizeof scenario / sizeof *scenario; i++) {
      vram_memory_stats s;
      snprintf(test_where, sizeof test_where, "%s on a device", scenario[i].name);
      begin();
      scenario[i].play();
      vram_cuda_memory_stats(&tracker, 0, &s);
      EQUAL(s.allocated_bytes[0].current, 0);
      EQUAL(tracker.ledger.unknown_frees + tracker.unknown + tracker.lost, 0);
      end();
    }
    free(text_log);
    return test_done("cuda on a device");
  }
  if (argc > 1 && !strcmp(argv[1], "threads"))
    rounds = 400;
  else
    every_fault();
  threads();
  pool_threads();
  runner_orders();
  double_free();
  foreign();
  wrong_call();
  wrong_stream();
  after_end();
  forked();
  thread_ends();
  full();
  versions();
  views();
  said();
  logged();
  no_memory();
  unloading();
  by_default();
  begin_many();
  free(text_log);
  fake_reset();
  return test_done("cuda");
}
