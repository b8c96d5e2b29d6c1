#include "fake.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { BLOCKS = 8192, OBJECTS = 4096, POOLS = 16, EVENTS = 1024, STREAMS = 64, IPC = 16 };
enum { OPS = 8192, WITH = 160 };

/* a range of addresses; its memory belongs to a device, a pool, or a physical object */
typedef struct block {
  uint64_t address, bytes;  /* bytes: as asked */
  uint64_t block, physical; /* with pitch; as the device rounds */
  uint32_t device, pool, object;
  int kind; /* VRAM_CUDA_..., RESERVED, MAPPED, NODE, OPENED */
} block;
enum { RESERVED = 100, MAPPED, NODE, OPENED };

typedef struct object { /* of cuMemCreate */
  uint64_t bytes;
  uint32_t device, refs, maps;
  uint64_t handle;
} object;

typedef struct pool {
  int exists, gone;
  uint32_t device;
  uint64_t reserved, used, threshold;
} pool;

typedef struct event {
  int exists, pending;
  void *stream;
  uint32_t at; /* 1 + the op that records it last */
} event;

/* what a stream has been given to do; records and waits do nothing but stand in order */
typedef struct op {
  void *stream;
  uint32_t before, after; /* 1 + the op before it in its stream; that an event makes it wait for */
  void *to;
  const void *from;
  size_t bytes;
  void (*call)(void *with);
  uint64_t with[WITH / 8];
  int captured, done;
} op;

static struct state {
  pthread_mutex_t mutex;
  uint64_t calls, allocations;
  block block[BLOCKS];
  uint32_t nblock;
  object object[OBJECTS];
  pool pool[POOLS];
  event event[EVENTS];
  op op[OPS];
  uint32_t nop;
  uint32_t stream; /* bits: streams that exist */
  uint64_t capture_faults;
  void *capturing[STREAMS];
  uint32_t ncapturing;
  struct {
    uint32_t pid, device;
    uint64_t bytes;
  } peer[FAKE_PEERS];
  uint32_t npeer;
  uint64_t exported[IPC], opened[IPC], open_refs[IPC];
  uint32_t nexported;
  int nvml;
  int pool_reads;
  int last_error;
} s = {.mutex = PTHREAD_MUTEX_INITIALIZER};

fake_settings fake;
static __thread int current; /* device */

static void lock(void) { pthread_mutex_lock(&s.mutex); }
static void unlock(void) { pthread_mutex_unlock(&s.mutex); }

void fake_reset(void) {
  uint32_t i;
  lock();
  for (i = 0; i < s.nblock; i++)
    if (s.block[i].kind == VRAM_CUDA_PINNED)
      free((void *)(uintptr_t)s.block[i].address);
  s.calls = s.allocations = 0;
  s.nblock = s.ncapturing = s.npeer = s.nexported = 0;
  memset(s.object, 0, sizeof s.object);
  memset(s.pool, 0, sizeof s.pool);
  memset(s.event, 0, sizeof s.event);
  memset(s.opened, 0, sizeof s.opened);
  memset(s.open_refs, 0, sizeof s.open_refs);
  s.nvml = s.last_error = 0;
  s.nop = s.stream = 0;
  s.capture_faults = 0;
  for (i = 0; i < FAKE_DEVICES; i++) { /* the default pools */
    s.pool[i].exists = 1;
    s.pool[i].device = i;
  }
  memset(&fake, 0, sizeof fake);
  fake.total[0] = 1024 * MIB;
  fake.total[1] = 256 * MIB;
  fake.total[2] = 64 * MIB;
  for (i = 0; i < FAKE_DEVICES; i++)
    fake.context[i] = 8 * MIB;
  fake.fail_with = 46;
  fake.nvml_version = 3;
  current = 0;
  unlock();
}

uint64_t fake_calls(void) { return s.calls; }
uint64_t fake_allocations(void) { return s.allocations; }

/* what may be called while a stream is captured */
static int capturable(const char *name) {
  static const char *const may[] = {"cudaEventRecord", "cudaStreamWaitEvent", "cudaMemcpyAsync",
                                    "cudaStreamIsCapturing"};
  uint32_t i;
  for (i = 0; i < sizeof may / sizeof *may; i++)
    if (!strcmp(name, may[i]))
      return 1;
  return 0;
}

/* Every call begins here: 0, or the error it has to give. Holds the lock then. */
static int enter(const char *name, int allocates) {
  if (fake.hook)
    fake.hook(fake.user, name);
  lock();
  s.calls++;
  s.capture_faults += fake.queues && s.ncapturing && !capturable(name);
  if (allocates)
    s.allocations++;
  if (fake.fail_at && s.calls == fake.fail_at) {
    s.last_error = fake.fail_with;
    unlock();
    return fake.fail_with;
  }
  if (allocates && fake.oom_at && s.allocations == fake.oom_at) {
    s.last_error = 2;
    unlock();
    return 2;
  }
  return 0;
}

static int leave(int result) {
  if (result && result != 600)
    s.last_error = result;
  unlock();
  return result;
}

#define ENTER(name, allocates)                                                                     \
  do {                                                                                             \
    const int refused = enter(name, allocates);                                                    \
    if (refused)                                                                                   \
      return refused;                                                                              \
  } while (0)

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static uint64_t used(uint32_t device) {
  uint64_t n = fake.context[device];
  uint32_t i;
  for (i = 0; i < s.nblock; i++)
    if (s.block[i].device == device)
      n += s.block[i].physical;
  for (i = 0; i < OBJECTS; i++)
    if ((s.object[i].refs || s.object[i].maps) && s.object[i].device == device)
      n += s.object[i].bytes;
  for (i = 0; i < POOLS; i++)
    if (s.pool[i].exists && s.pool[i].device == device)
      n += s.pool[i].reserved;
  return n;
}

static uint64_t left(uint32_t device) {
  uint64_t n = used(device);
  uint32_t i;
  for (i = 0; i < s.npeer; i++)
    if (s.peer[i].device == device)
      n += s.peer[i].bytes;
  return n < fake.total[device] ? fake.total[device] - n : 0;
}

uint64_t fake_free_bytes(uint32_t device) {
  uint64_t n;
  lock();
  n = left(device);
  unlock();
  return n;
}

/* the first gap between the blocks, which are in the order of their addresses */
static block *place(uint64_t bytes, uint64_t alignment, int kind) {
  uint64_t at = UINT64_C(0x7f0000000000);
  uint32_t i, k;
  block *b;
  if (s.nblock == BLOCKS)
    return NULL;
  bytes = bytes ? bytes : 1;
  for (i = 0; i < s.nblock; i++) {
    if (s.block[i].kind == VRAM_CUDA_PINNED || s.block[i].kind == VRAM_CUDA_REGISTERED ||
        s.block[i].kind == MAPPED)
      continue;
    if (s.block[i].address >= at + bytes)
      break;
    if (round_up(s.block[i].address + (s.block[i].block ? s.block[i].block : 1), alignment) > at)
      at = round_up(s.block[i].address + (s.block[i].block ? s.block[i].block : 1), alignment);
  }
  for (i = 0; i < s.nblock && s.block[i].address < at; i++)
    ;
  for (k = s.nblock++; k > i; k--)
    s.block[k] = s.block[k - 1];
  b = &s.block[i];
  memset(b, 0, sizeof *b);
  b->address = at;
  b->bytes = b->block = bytes;
  b->kind = kind;
  return b;
}

static block *place_at(uint64_t address, uint64_t bytes, int kind) {
  uint32_t i, k;
  if (s.nblock == BLOCKS)
    return NULL;
  for (i = 0; i < s.nblock && s.block[i].address < address; i++)
    ;
  for (k = s.nblock++; k > i; k--)
    s.block[k] = s.block[k - 1];
  memset(&s.block[i], 0, sizeof s.block[i]);
  s.block[i].address = address;
  s.block[i].bytes = s.block[i].block = bytes;
  s.block[i].kind = kind;
  return &s.block[i];
}

static block *find(uint64_t address, int kind) {
  uint32_t i;
  for (i = 0; i < s.nblock; i++)
    if (s.block[i].address == address && s.block[i].kind == kind)
      return &s.block[i];
  return NULL;
}

static void forget(const block *b) {
  uint32_t i = (uint32_t)(b - s.block);
  memmove(&s.block[i], &s.block[i + 1], (s.nblock - i - 1) * sizeof *b);
  s.nblock--;
}

/* ---- cudaMalloc and its kin */

static int take(int kind, uint64_t bytes, uint64_t with_pitch, uint64_t *address) {
  const uint64_t physical = round_up(with_pitch, 512);
  block *b;
  if (kind != VRAM_CUDA_MANAGED && physical > left((uint32_t)current))
    return 2;
  b = place(with_pitch, 512, kind);
  if (!b)
    return 2;
  b->bytes = bytes;
  b->device = (uint32_t)current;
  b->physical = kind == VRAM_CUDA_MANAGED ? 0 : physical;
  *address = b->address;
  return 0;
}

static int take_to(int kind, uint64_t bytes, uint64_t with_pitch, void **p) {
  uint64_t address = 0;
  int r = bytes ? take(kind, bytes, with_pitch, &address) : 0;
  if (!r)
    *p = (void *)(uintptr_t)address;
  return r;
}

static int Malloc(void **p, size_t n) {
  ENTER("cudaMalloc", 1);
  return leave(take_to(VRAM_CUDA_DEVICE, n, n, p));
}

static int MallocPitch(void **p, size_t *pitch, size_t width, size_t height) {
  ENTER("cudaMallocPitch", 1);
  *pitch = round_up(width, 512);
  return leave(take_to(VRAM_CUDA_PITCH, width * height, *pitch * height, p));
}

static int Malloc3D(vram_cuda_pitched *p, vram_cuda_extent e) {
  ENTER("cudaMalloc3D", 1);
  p->pitch = round_up(e.width, 512);
  p->xsize = e.width;
  p->ysize = e.height;
  return leave(take_to(VRAM_CUDA_PITCH, e.width * e.height * e.depth, p->pitch * e.height * e.depth,
                       &p->ptr));
}

static uint64_t texels(const vram_cuda_channel *c, uint64_t w, uint64_t h, uint64_t d) {
  return w * (h ? h : 1) * (d ? d : 1) * (uint64_t)(c->x + c->y + c->z + c->w) / 8;
}

static int MallocArray(void **array, const vram_cuda_channel *c, size_t w, size_t h,
                       unsigned flags) {
  (void)flags;
  ENTER("cudaMallocArray", 1);
  return leave(take_to(VRAM_CUDA_ARRAY, texels(c, w, h, 0), texels(c, w, h, 0), array));
}

static int Malloc3DArray(void **array, const vram_cuda_channel *c, vram_cuda_extent e,
                         unsigned flags) {
  uint64_t n = texels(c, e.width, e.height, e.depth);
  (void)flags;
  ENTER("cudaMalloc3DArray", 1);
  return leave(take_to(VRAM_CUDA_ARRAY, n, n, array));
}

static int MallocMipmappedArray(void **array, const vram_cuda_channel *c, vram_cuda_extent e,
                                unsigned levels, unsigned flags) {
  uint64_t n = 0;
  unsigned i;
  (void)flags;
  for (i = 0; i < levels; i++)
    n += texels(c, (e.width >> i) ? e.width >> i : 1, (e.height >> i) ? e.height >> i : 1,
                (e.depth >> i) ? e.depth >> i : 1);
  ENTER("cudaMallocMipmappedArray", 1);
  return leave(take_to(VRAM_CUDA_ARRAY, n, n, array));
}

static int MallocManaged(void **p, size_t n, unsigned flags) {
  (void)flags;
  ENTER("cudaMallocManaged", 1);
  return leave(take_to(VRAM_CUDA_MANAGED, n, n, p));
}

static int host(void **p, size_t n) {
  block *b;
  void *m = malloc(n);
  if (!m)
    return 2;
  b = place_at((uint64_t)(uintptr_t)m, n, VRAM_CUDA_PINNED);
  if (!b) {
    free(m);
    return 2;
  }
  b->device = 100 + (uint32_t)current;
  *p = m;
  return 0;
}

static int MallocHost(void **p, size_t n) {
  ENTER("cudaMallocHost", 1);
  return leave(host(p, n));
}

static int HostAlloc(void **p, size_t n, unsigned flags) {
  (void)flags;
  ENTER("cudaHostAlloc", 1);
  return leave(host(p, n));
}

static int HostRegister(void *p, size_t n, unsigned flags) {
  block *b;
  (void)flags;
  ENTER("cudaHostRegister", 1);
  if (!p || !n)
    return leave(1);
  if (find((uint64_t)(uintptr_t)p, VRAM_CUDA_REGISTERED))
    return leave(712);
  b = place_at((uint64_t)(uintptr_t)p, n, VRAM_CUDA_REGISTERED);
  b->device = 100 + (uint32_t)current;
  return leave(0);
}

static int HostUnregister(void *p) {
  block *b;
  ENTER("cudaHostUnregister", 0);
  b = find((uint64_t)(uintptr_t)p, VRAM_CUDA_REGISTERED);
  if (b)
    forget(b);
  return leave(b ? 0 : 713);
}

static int FreeHost(void *p) {
  block *b;
  ENTER("cudaFreeHost", 0);
  if (!p)
    return leave(0);
  b = find((uint64_t)(uintptr_t)p, VRAM_CUDA_PINNED);
  if (!b)
    return leave(1);
  forget(b);
  free(p);
  return leave(0);
}

static uint64_t pool_needs(const pool *p) { return round_up(p->used, 2 * MIB); }

/* what a pool that nobody works with keeps */
static void pool_trim(pool *p, uint64_t keep) {
  uint64_t to = pool_needs(p) > keep ? pool_needs(p) : round_up(keep, 2 * MIB);
  if (p->reserved > to)
    p->reserved = to;
}

static int give_async(uint64_t address) {
  block *b = find(address, VRAM_CUDA_ASYNC);
  pool *p;
  if (!b)
    return 1;
  p = &s.pool[b->pool];
  p->used -= b->bytes;
  forget(b);
  if (p->gone) {
    pool_trim(p, 0);
    if (!p->used)
      p->exists = 0;
  }
  return 0;
}

static int Free(void *p) {
  const uint64_t a = (uint64_t)(uintptr_t)p;
  block *b;
  ENTER("cudaFree", 0);
  if (!p || (b = find(a, NODE)) != NULL) {
    if (p)
      forget(b);
    return leave(0);
  }
  if (!give_async(a))
    return leave(0);
  b = find(a, VRAM_CUDA_DEVICE);
  b = b ? b : find(a, VRAM_CUDA_PITCH);
  b = b ? b : find(a, VRAM_CUDA_MANAGED);
  if (b)
    forget(b);
  return leave(b ? 0 : 1);
}

static int FreeArray(void *array) {
  block *b;
  ENTER("cudaFreeArray", 0);
  b = find((uint64_t)(uintptr_t)array, VRAM_CUDA_ARRAY);
  if (b)
    forget(b);
  return leave(b || !array ? 0 : 1);
}

/* ---- pools and streams */

static int captured(const void *stream) {
  uint32_t i;
  for (i = 0; i < s.ncapturing; i++)
    if (s.capturing[i] == stream)
      return 1;
  return 0;
}

/* 1 + the last op of a stream */
static uint32_t last_op(const void *stream) {
  uint32_t i = s.nop;
  while (i && s.op[i - 1].stream != stream)
    i--;
  return i;
}

static op *give(void *stream, uint32_t after) {
  op *o = &s.op[s.nop];
  if (s.nop == OPS)
    fprintf(stderr, "the streams are full\n"), abort();
  memset(o, 0, sizeof *o);
  o->before = last_op(stream);
  o->after = after;
  o->stream = stream;
  if (after && s.op[after - 1].captured && !captured(stream))
    s.capturing[s.ncapturing++] = stream; /* drawn into the capture */
  o->captured = captured(stream);
  s.capture_faults += s.ncapturing && !o->captured;
  s.nop++;
  return o;
}

/* The capture ends: what is in it and what its stream does not wait for. */
static void joined(const void *stream) {
  uint32_t i;
  for (i = 0; i < s.nop; i++)
    s.op[i].done = 0;
  i = last_op(stream);
  if (i)
    s.op[i - 1].done = 1;
  for (i = s.nop; i--;)
    if (s.op[i].done) {
      if (s.op[i].before)
        s.op[s.op[i].before - 1].done = 1;
      if (s.op[i].after)
        s.op[s.op[i].after - 1].done = 1;
    }
  for (i = 0; i < s.nop; i++)
    s.capture_faults += s.op[i].captured && !s.op[i].done && (s.op[i].call || s.op[i].bytes);
}

void fake_capture(void *stream, int on) {
  uint32_t i;
  lock();
  if (on)
    s.capturing[s.ncapturing++] = stream;
  else if (fake.queues) {
    joined(stream);
    s.ncapturing = 0;
  } else
    for (i = 0; i < s.ncapturing; i++)
      if (s.capturing[i] == stream)
        s.capturing[i] = s.capturing[--s.ncapturing];
  unlock();
}

uint64_t fake_capture_faults(void) { return s.capture_faults; }

static int may_run(const op *o) {
  return !o->done && (!o->before || s.op[o->before - 1].done) &&
         (!o->after || s.op[o->after - 1].done);
}

void fake_run(uint64_t order) {
  uint64_t random = order;
  uint32_t i, left, chosen;
  for (i = 0; i < s.nop; i++)
    s.op[i].done = 0;
  for (left = s.nop; left; left--) {
    op *o;
    uint32_t found = 0;
    for (i = chosen = 0; i < s.nop; i++) {
      int better;
      if (!may_run(&s.op[i]))
        continue;
      random = random * UINT64_C(6364136223846793005) + 1;
      better = order == 0   ? 0
               : order == 1 ? s.op[chosen].bytes && !s.op[i].bytes
               : order == 2 ? !s.op[chosen].bytes && s.op[i].bytes
                            : (random >> 33) % (found + 1) == 0;
      if (!found++ || better)
        chosen = i;
      if (found && !order)
        break;
    }
    o = &s.op[chosen];
    if (!found)
      fprintf(stderr, "streams wait for each other\n"), abort();
    if (o->bytes)
      memcpy(o->to, o->from, o->bytes);
    if (o->call)
      o->call(o->with);
    o->done = 1;
  }
}

void fake_forget(void) { s.nop = 0; }

int fake_launch(void *stream, void (*call)(void *with), const void *with, size_t n) {
  op *o;
  lock();
  o = give(stream, 0);
  o->call = call;
  memcpy(o->with, with, n);
  return leave(0);
}

static int take_async(uint32_t which, uint64_t n, void *stream, void **to) {
  pool *p = &s.pool[which];
  block *b;
  uint64_t more;
  if (captured(stream)) {
    b = place(n, 512, NODE);
    if (b)
      *to = (void *)(uintptr_t)b->address;
    return b ? 0 : 2;
  }
  if (!p->exists || p->gone)
    return 1;
  more = p->used + n > p->reserved ? round_up(p->used + n - p->reserved, 2 * MIB) : 0;
  if (more > left(p->device))
    return 2;
  b = place(n, 512, VRAM_CUDA_ASYNC);
  if (!b)
    return 2;
  b->device = 200; /* the pool has the memory */
  b->pool = which;
  p->reserved += more;
  p->used += n;
  *to = (void *)(uintptr_t)b->address;
  return 0;
}

static uint32_t pool_of(const void *p) { return (uint32_t)((uintptr_t)p >> 8) - 1; }

static int MallocAsync(void **p, size_t n, void *stream) {
  ENTER("cudaMallocAsync", 1);
  return leave(take_async((uint32_t)current, n, stream, p));
}

static int MallocFromPoolAsync(void **p, size_t n, void *of, void *stream) {
  ENTER("cudaMallocFromPoolAsync", 1);
  return leave(take_async(pool_of(of), n, stream, p));
}

static int FreeAsync(void *p, void *stream) {
  block *b;
  ENTER("cudaFreeAsync", 0);
  b = find((uint64_t)(uintptr_t)p, NODE);
  if (b)
    forget(b);
  else if (captured(stream))
    return leave(900);
  else if (give_async((uint64_t)(uintptr_t)p)) {
    b = find((uint64_t)(uintptr_t)p, VRAM_CUDA_DEVICE);
    if (!b)
      return leave(1);
    forget(b);
  }
  return leave(0);
}

static int MemPoolCreate(void **p, const void *prop) {
  const vram_cuda_pool_prop *of = (const vram_cuda_pool_prop *)prop;
  uint32_t i;
  ENTER("cudaMemPoolCreate", 0);
  for (i = FAKE_DEVICES; i < POOLS && s.pool[i].exists; i++)
    ;
  if (i == POOLS)
    return leave(2);
  memset(&s.pool[i], 0, sizeof s.pool[i]);
  s.pool[i].exists = 1;
  s.pool[i].device = (uint32_t)of->location_id;
  *p = (void *)((uintptr_t)(i + 1) << 8);
  return leave(0);
}

static int MemPoolDestroy(void *p) {
  pool *of = &s.pool[pool_of(p)];
  ENTER("cudaMemPoolDestroy", 0);
  if (pool_of(p) < FAKE_DEVICES || !of->exists || of->gone)
    return leave(1);
  if (s.pool_reads)
    fprintf(stderr, "a pool is destroyed while it is read\n"), abort();
  of->gone = 1;
  pool_trim(of, 0);
  if (!of->used)
    of->exists = 0;
  return leave(0);
}

static int MemPoolTrimTo(void *p, size_t keep) {
  ENTER("cudaMemPoolTrimTo", 0);
  if (!s.pool[pool_of(p)].exists)
    return leave(1);
  pool_trim(&s.pool[pool_of(p)], keep);
  return leave(0);
}

static int MemPoolGetAttribute(void *p, int what, void *value) {
  const pool *of = &s.pool[pool_of(p)];
  ENTER("cudaMemPoolGetAttribute", 0);
  if (pool_of(p) >= POOLS || !of->exists || of->gone) {
    fprintf(stderr, "a pool that is gone is read\n");
    abort();
  }
  if (what != 5)
    return leave(1);
  memcpy(value, &of->reserved, sizeof of->reserved);
  return leave(0);
}

static int MemPoolSetAttribute(void *p, int what, void *value) {
  ENTER("cudaMemPoolSetAttribute", 0);
  if (what != 4)
    return leave(1);
  memcpy(&s.pool[pool_of(p)].threshold, value, sizeof s.pool[0].threshold);
  return leave(0);
}

static int DeviceGetMemPool(void **p, int device) {
  ENTER("cudaDeviceGetMemPool", 0);
  if (device < 0 || device >= FAKE_DEVICES)
    return leave(101);
  *p = (void *)((uintptr_t)(device + 1) << 8);
  return leave(0);
}

static int StreamIsCapturing(void *stream, int *status) {
  ENTER("cudaStreamIsCapturing", 0);
  *status = captured(stream);
  return leave(0);
}

/* ---- events */

static int EventCreateWithFlags(void **e, unsigned flags) {
  uint32_t i;
  (void)flags;
  ENTER("cudaEventCreateWithFlags", 0);
  for (i = 1; i < EVENTS && s.event[i].exists; i++)
    ;
  if (i == EVENTS)
    return leave(2);
  s.event[i].exists = 1;
  s.event[i].pending = 0;
  s.event[i].at = 0;
  *e = (void *)(uintptr_t)i;
  return leave(0);
}

static event *event_of(const void *e) {
  return (uintptr_t)e && (uintptr_t)e < EVENTS && s.event[(uintptr_t)e].exists
             ? &s.event[(uintptr_t)e]
             : NULL;
}

static int EventRecord(void *e, void *stream) {
  event *of;
  ENTER("cudaEventRecord", 0);
  of = event_of(e);
  if (!of)
    return leave(400);
  of->pending = fake.events_wait;
  of->stream = stream;
  if (fake.queues) {
    (void)give(stream, 0);
    of->at = s.nop;
  }
  return leave(0);
}

static int EventQuery(void *e) {
  const event *of;
  ENTER("cudaEventQuery", 0);
  of = event_of(e);
  return leave(!of ? 400 : of->pending ? 600 : 0);
}

static int EventSynchronize(void *e) {
  event *of;
  ENTER("cudaEventSynchronize", 0);
  of = event_of(e);
  if (of)
    of->pending = 0;
  return leave(of ? 0 : 400);
}

static int EventDestroy(void *e) {
  event *of;
  ENTER("cudaEventDestroy", 0);
  of = event_of(e);
  if (of)
    of->exists = 0;
  return leave(of ? 0 : 400);
}

/* ---- streams */

static int stream_exists(const void *stream) {
  const uintptr_t i = (uintptr_t)stream - 0x5000;
  return i >= 32 || (s.stream & UINT32_C(1) << i); /* others are the test's */
}

static int StreamCreateWithFlags(void **stream, unsigned flags) {
  uint32_t i;
  ENTER("cudaStreamCreateWithFlags", 0);
  for (i = 0; i < 32 && s.stream >> i & 1; i++)
    ;
  if (i == 32 || flags != 1)
    return leave(1);
  s.stream |= UINT32_C(1) << i;
  *stream = (void *)(uintptr_t)(0x5000 + i);
  return leave(0);
}

static int StreamDestroy(void *stream) {
  const uintptr_t i = (uintptr_t)stream - 0x5000;
  ENTER("cudaStreamDestroy", 0);
  if (i >= 32 || !stream_exists(stream))
    return leave(400);
  s.stream &= ~(UINT32_C(1) << i);
  return leave(0);
}

static int StreamSynchronize(void *stream) {
  ENTER("cudaStreamSynchronize", 0);
  return leave(stream_exists(stream) ? 0 : 400);
}

static int StreamWaitEvent(void *stream, void *e, unsigned flags) {
  const event *of;
  (void)flags;
  ENTER("cudaStreamWaitEvent", 0);
  of = event_of(e);
  if (!of || !stream_exists(stream))
    return leave(400);
  if (fake.queues && of->at) /* an event that was never recorded: no wait */
    (void)give(stream, of->at);
  return leave(0);
}

static int MemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
  op *o;
  ENTER("cudaMemcpyAsync", 0);
  if (kind < 1 || kind > 2 || !stream_exists(stream))
    return leave(1);
  if (fake.queues) {
    o = give(stream, 0);
    o->to = to;
    o->from = from;
    o->bytes = n;
  }
  return leave(0);
}

void fake_complete(void *stream) {
  uint32_t i;
  lock();
  for (i = 0; i < EVENTS; i++)
    if (s.event[i].stream == stream)
      s.event[i].pending = 0;
  for (i = 0; i < POOLS; i++) /* a synchronisation: pools give back what is above the threshold */
    pool_trim(&s.pool[i], s.pool[i].threshold);
  unlock();
}

/* ---- memory of other processes */

vram_cuda_ipc fake_export(uint32_t device, uint64_t bytes) {
  vram_cuda_ipc h;
  uint32_t i;
  memset(&h, 0, sizeof h);
  lock();
  i = s.nexported++;
  s.exported[i] = bytes;
  memcpy(h.reserved, &i, sizeof i);
  unlock();
  fake_peer(device, 9000 + i, bytes);
  return h;
}

static int IpcOpenMemHandle(void **p, vram_cuda_ipc handle, unsigned flags) {
  uint32_t i;
  block *b;
  (void)flags;
  ENTER("cudaIpcOpenMemHandle", 0);
  memcpy(&i, handle.reserved, sizeof i);
  if (i >= s.nexported)
    return leave(400);
  if (!s.open_refs[i]) {
    b = place(s.exported[i], 512, OPENED);
    if (!b)
      return leave(2);
    b->device = 200;
    s.opened[i] = b->address;
  }
  s.open_refs[i]++;
  *p = (void *)(uintptr_t)s.opened[i];
  return leave(0);
}

static int IpcCloseMemHandle(void *p) {
  uint32_t i;
  ENTER("cudaIpcCloseMemHandle", 0);
  for (i = 0; i < s.nexported; i++)
    if (s.open_refs[i] && s.opened[i] == (uint64_t)(uintptr_t)p) {
      if (!--s.open_refs[i])
        forget(find(s.opened[i], OPENED));
      return leave(0);
    }
  return leave(1);
}

uint64_t fake_ipc_bytes(void) {
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < s.nexported; i++)
    n += s.open_refs[i] ? s.exported[i] : 0;
  return n;
}

static int MemGetAddressRange(unsigned long long *base, size_t *n, unsigned long long p) {
  uint32_t i;
  ENTER("cuMemGetAddressRange", 0);
  for (i = 0; i < s.nblock; i++)
    if (p - s.block[i].address < s.block[i].block && s.block[i].kind != RESERVED) {
      *base = s.block[i].address;
      *n = (size_t)s.block[i].bytes;
      return leave(0);
    }
  return leave(1);
}

/* ---- devices */

static int GetDevice(int *d) {
  ENTER("cudaGetDevice", 0);
  *d = current;
  return leave(0);
}

static int SetDevice(int d) {
  ENTER("cudaSetDevice", 0);
  if (d < 0 || d >= FAKE_DEVICES)
    return leave(101);
  current = d;
  return leave(0);
}

static int GetDeviceCount(int *n) {
  ENTER("cudaGetDeviceCount", 0);
  *n = FAKE_DEVICES;
  return leave(0);
}

static int GetLastError(void) {
  int r;
  lock();
  r = s.last_error;
  s.last_error = 0;
  unlock();
  return r;
}

static int MemGetInfo(size_t *available, size_t *total) {
  ENTER("cudaMemGetInfo", 0);
  *available = (size_t)left((uint32_t)current);
  *total = (size_t)fake.total[current];
  return leave(0);
}

static int DeviceGetPCIBusId(char *id, int n, int device) {
  ENTER("cudaDeviceGetPCIBusId", 0);
  snprintf(id, (size_t)n, "0000:%02X:00.0", 0x20 + device);
  return leave(0);
}

static int DeviceReset(void) {
  uint32_t i;
  ENTER("cudaDeviceReset", 0);
  for (i = s.nblock; i--;) {
    const block b = s.block[i];
    const uint32_t of = b.kind == VRAM_CUDA_ASYNC ? s.pool[b.pool].device
                        : b.kind == MAPPED        ? s.object[b.object].device
                                                  : b.device;
    if (of != (uint32_t)current && of != 100 + (uint32_t)current)
      continue;
    if (b.kind == MAPPED)
      s.object[b.object].maps--;
    if (b.kind == VRAM_CUDA_PINNED)
      free((void *)(uintptr_t)b.address);
    forget(&s.block[i]);
  }
  for (i = 0; i < OBJECTS; i++)
    if (s.object[i].device == (uint32_t)current)
      s.object[i].refs = s.object[i].maps = 0;
  for (i = 0; i < POOLS; i++)
    if (s.pool[i].exists && s.pool[i].device == (uint32_t)current) {
      s.pool[i].used = s.pool[i].reserved = 0;
      s.pool[i].exists = i < FAKE_DEVICES;
    }
  return leave(0);
}

static int version_now = 13000;
static int RuntimeGetVersion(int *v) {
  *v = version_now ? version_now : 13000;
  return 0;
}
static int DriverGetVersion(int *v) {
  *v = version_now;
  return 0;
}
static int no_device(int *n) {
  *n = 0;
  return 35;
}

/* ---- physical memory */

static int MemAlloc(unsigned long long *p, size_t n) {
  uint64_t address = 0;
  int r;
  ENTER("cuMemAlloc", 1);
  if (!n)
    return leave(1);
  r = take(VRAM_CUDA_DEVICE, n, n, &address);
  if (!r)
    *p = address;
  return leave(r);
}

static int MemFree(unsigned long long p) { return Free((void *)(uintptr_t)p); }

static int MemGetAllocationGranularity(size_t *n, const vram_cuda_prop *prop, int which) {
  (void)prop, (void)which;
  ENTER("cuMemGetAllocationGranularity", 0);
  *n = 2 * MIB;
  return leave(0);
}

static int MemCreate(unsigned long long *handle, size_t n, const vram_cuda_prop *prop,
                     unsigned long long flags) {
  uint32_t i, k;
  uint64_t value = 0;
  (void)flags;
  ENTER("cuMemCreate", 1);
  if (!n || n % (2 * MIB) || prop->location_id >= FAKE_DEVICES)
    return leave(1);
  if (n > left((uint32_t)prop->location_id))
    return leave(2);
  for (i = 0; i < OBJECTS && (s.object[i].refs || s.object[i].maps); i++)
    ;
  if (i == OBJECTS)
    return leave(2);
  do { /* the lowest that nobody holds: values are used again while mappings still live */
    value++;
    for (k = 0; k < OBJECTS && !(s.object[k].refs && s.object[k].handle == value); k++)
      ;
  } while (k < OBJECTS);
  s.object[i].bytes = n;
  s.object[i].device = (uint32_t)prop->location_id;
  s.object[i].refs = 1;
  s.object[i].maps = 0;
  s.object[i].handle = value;
  *handle = value;
  return leave(0);
}

static object *object_of(uint64_t handle) {
  uint32_t k;
  for (k = 0; k < OBJECTS; k++)
    if (s.object[k].refs && s.object[k].handle == handle)
      return &s.object[k];
  return NULL;
}

static int MemRelease(unsigned long long handle) {
  object *o;
  ENTER("cuMemRelease", 0);
  o = object_of(handle);
  if (o)
    o->refs--;
  return leave(o ? 0 : 400);
}

static int MemRetainAllocationHandle(unsigned long long *handle, void *p) {
  uint32_t i;
  ENTER("cuMemRetainAllocationHandle", 0);
  for (i = 0; i < s.nblock; i++) {
    const block *b = &s.block[i];
    if (b->kind == MAPPED && (uint64_t)(uintptr_t)p - b->address < b->bytes) {
      object *o = &s.object[b->object];
      if (!o->refs) /* its value may be another's by now */
        o->handle = 100000 + b->object;
      o->refs++;
      *handle = o->handle;
      return leave(0);
    }
  }
  return leave(1);
}

static int MemAddressReserve(unsigned long long *p, size_t n, size_t alignment,
                             unsigned long long at, unsigned long long flags) {
  block *b;
  (void)alignment, (void)at, (void)flags;
  ENTER("cuMemAddressReserve", 0);
  b = place(n, 2 * MIB, RESERVED);
  if (!b)
    return leave(2);
  b->device = 200;
  *p = b->address;
  return leave(0);
}

static int MemAddressFree(unsigned long long p, size_t n) {
  block *b;
  ENTER("cuMemAddressFree", 0);
  b = find(p, RESERVED);
  if (!b || b->bytes != n)
    return leave(1);
  forget(b);
  return leave(0);
}

static int MemMap(unsigned long long p, size_t n, size_t offset, unsigned long long handle,
                  unsigned long long flags) {
  object *o;
  block *b;
  uint32_t i;
  (void)flags;
  ENTER("cuMemMap", 0);
  o = object_of(handle);
  if (!o || n % (2 * MIB) || offset + n > o->bytes)
    return leave(1);
  for (i = 0; i < s.nblock; i++)
    if (s.block[i].kind == MAPPED && s.block[i].address < p + n &&
        p < s.block[i].address + s.block[i].bytes)
      return leave(1);
  b = place_at(p, n, MAPPED);
  b->device = 200;
  b->object = (uint32_t)(o - s.object);
  o->maps++;
  return leave(0);
}

static int MemUnmap(unsigned long long p, size_t n) {
  uint32_t i, found = 0;
  ENTER("cuMemUnmap", 0);
  for (i = 0; i < s.nblock; i++) { /* whole mappings only */
    const block *b = &s.block[i];
    if (b->kind == MAPPED && b->address < p + n && p < b->address + b->bytes) {
      if (b->address < p || b->address + b->bytes > p + n)
        return leave(1);
      found++;
    }
  }
  if (!found)
    return leave(1);
  for (i = s.nblock; i--;) {
    const block b = s.block[i];
    if (b.kind == MAPPED && b.address < p + n && p < b.address + b.bytes) {
      s.object[b.object].maps--;
      forget(&s.block[i]);
    }
  }
  return leave(0);
}

static int MemSetAccess(unsigned long long p, size_t n, const vram_cuda_access *access,
                        size_t count) {
  (void)p, (void)n, (void)access, (void)count;
  ENTER("cuMemSetAccess", 0);
  return leave(0);
}

/* ---- NVML: numbers its devices the other way round */

static int nvml_Init(void) {
  ENTER("nvmlInit", 0);
  s.nvml++;
  return leave(0);
}
static int nvml_Shutdown(void) {
  lock();
  s.nvml--;
  unlock();
  return 0;
}
static int nvml_HandleByPciBusId(const char *id, void **device) {
  uint32_t i;
  char name[32];
  ENTER("nvmlDeviceGetHandleByPciBusId", 0);
  for (i = 0; i < FAKE_DEVICES; i++) {
    snprintf(name, sizeof name, "0000:%02X:00.0", 0x20 + i);
    if (!strcmp(name, id)) {
      *device = (void *)(uintptr_t)(FAKE_DEVICES - i);
      return leave(s.nvml ? 0 : 1);
    }
  }
  return leave(2);
}

static int processes(void *device, unsigned *n, vram_nvml_process *p, vram_nvml_process1 *old) {
  const uint32_t d = FAKE_DEVICES - (uint32_t)(uintptr_t)device;
  unsigned room = *n, count = 0;
  uint32_t i;
  ENTER("nvmlDeviceGetComputeRunningProcesses", 0);
  for (i = 0; i <= s.npeer; i++) {
    uint32_t pid = i < s.npeer ? FAKE_PID + s.peer[i].pid : (uint32_t)getpid();
    uint64_t bytes = i < s.npeer ? s.peer[i].bytes : used(d);
    if (i < s.npeer ? s.peer[i].device != d : fake.own_pid_unknown)
      continue;
    if (i < s.npeer ? fake.peers_unknown : fake.own_bytes_unknown)
      bytes = UINT64_MAX;
    if (count < room && p) {
      memset(&p[count], 0, sizeof p[count]);
      p[count].pid = pid;
      p[count].bytes = bytes;
    }
    if (count < room && old) {
      old[count].pid = pid;
      old[count].bytes = bytes;
    }
    count++;
  }
  *n = count;
  return leave(count > room ? 7 : 0);
}
static int processes_new(void *device, unsigned *n, vram_nvml_process *p) {
  return processes(device, n, p, NULL);
}
static int processes_old(void *device, unsigned *n, vram_nvml_process1 *p) {
  return processes(device, n, NULL, p);
}
static int no_graphics(void *device, unsigned *n, vram_nvml_process *p) {
  (void)device, (void)p;
  *n = 0;
  return 3;
}

void fake_peer(uint32_t device, uint32_t pid, uint64_t bytes) {
  uint32_t i;
  lock();
  for (i = 0; i < s.npeer && (s.peer[i].pid != pid || s.peer[i].device != device); i++)
    ;
  if (bytes && i < FAKE_PEERS) {
    s.peer[i].pid = pid;
    s.peer[i].device = device;
    s.peer[i].bytes = bytes;
    s.npeer += i == s.npeer;
  } else if (!bytes && i < s.npeer)
    s.peer[i] = s.peer[--s.npeer];
  unlock();
}

/* ---- the table, the truth */

void fake_api(vram_cuda_api *api, int version) {
  memset(api, 0, sizeof *api);
  version_now = version;
  api->runtime_version = version ? version : 13000;
  api->driver_version = version;
  api->devices = version ? FAKE_DEVICES : 0;
#define RT(name) api->cuda_##name = name
  RT(Malloc);
  RT(MallocPitch);
  RT(Malloc3D);
  RT(MallocArray);
  RT(Malloc3DArray);
  RT(MallocMipmappedArray);
  RT(MallocManaged);
  RT(MallocHost);
  RT(HostAlloc);
  RT(HostRegister);
  RT(HostUnregister);
  RT(Free);
  RT(FreeArray);
  RT(FreeHost);
  RT(IpcOpenMemHandle);
  RT(IpcCloseMemHandle);
  RT(DeviceReset);
  RT(DeviceGetPCIBusId);
  RT(GetDevice);
  RT(SetDevice);
  RT(GetDeviceCount);
  RT(GetLastError);
  RT(MemGetInfo);
  RT(RuntimeGetVersion);
  RT(DriverGetVersion);
  RT(StreamIsCapturing);
  RT(EventCreateWithFlags);
  RT(EventRecord);
  RT(EventQuery);
  RT(EventSynchronize);
  RT(EventDestroy);
  RT(StreamCreateWithFlags);
  RT(StreamDestroy);
  RT(StreamSynchronize);
  RT(StreamWaitEvent);
  RT(MemcpyAsync);
  api->cuda_FreeMipmappedArray = FreeArray;
  if (!version) { /* a runtime without a driver: all that it says is 35 */
    memset(api, 0, sizeof *api);
    RT(RuntimeGetVersion);
    RT(DriverGetVersion);
    api->cuda_GetDeviceCount = no_device;
    return;
  }
  api->cu_MemAlloc = MemAlloc;
  api->cu_MemFree = MemFree;
  api->cu_MemGetInfo = MemGetInfo;
  api->cu_MemGetAddressRange = MemGetAddressRange;
  if (version >= 10020) {
    api->cu_MemGetAllocationGranularity = MemGetAllocationGranularity;
    api->cu_MemCreate = MemCreate;
    api->cu_MemRelease = MemRelease;
    api->cu_MemAddressReserve = MemAddressReserve;
    api->cu_MemAddressFree = MemAddressFree;
    api->cu_MemMap = MemMap;
    api->cu_MemUnmap = MemUnmap;
    api->cu_MemSetAccess = MemSetAccess;
  }
  if (version >= 11000)
    api->cu_MemRetainAllocationHandle = MemRetainAllocationHandle;
  if (version >= 11020) {
    RT(MallocAsync);
    RT(MallocFromPoolAsync);
    RT(FreeAsync);
    RT(MemPoolCreate);
    RT(MemPoolDestroy);
    RT(MemPoolTrimTo);
    RT(MemPoolGetAttribute);
    RT(MemPoolSetAttribute);
    RT(DeviceGetMemPool);
    api->cu_MemPoolGetAttribute = MemPoolGetAttribute;
  }
  if (fake.no_nvml)
    return;
  api->nvml_Init = nvml_Init;
  api->nvml_Shutdown = nvml_Shutdown;
  api->nvml_DeviceGetHandleByPciBusId = nvml_HandleByPciBusId;
  if (fake.nvml_version >= 3)
    api->nvml_DeviceGetComputeRunningProcesses3 = processes_new;
  if (fake.nvml_version == 2)
    api->nvml_DeviceGetComputeRunningProcesses2 = processes_new;
  api->nvml_DeviceGetComputeRunningProcesses1 = processes_old;
  api->nvml_DeviceGetGraphicsRunningProcesses3 = no_graphics;
}

void fake_truth_of(uint32_t device, fake_truth *to) {
  uint32_t i;
  memset(to, 0, sizeof *to);
  lock();
  for (i = 0; i < s.nblock; i++) {
    const block *b = &s.block[i];
    const int on_host = b->kind == VRAM_CUDA_PINNED || b->kind == VRAM_CUDA_REGISTERED;
    if (b->kind >= VRAM_CUDA_KIND_COUNT)
      continue;
    if (device == VRAM_DEVICE_HOST
            ? !on_host
            : (b->kind == VRAM_CUDA_ASYNC ? s.pool[b->pool].device : b->device) != device)
      continue;
    to->allocated += b->block;
    to->count++;
    to->kind[b->kind] += b->bytes;
    if (b->kind != VRAM_CUDA_ASYNC && b->kind != VRAM_CUDA_MANAGED &&
        b->kind != VRAM_CUDA_REGISTERED)
      to->reserved += b->block;
    to->physical += b->physical;
  }
  for (i = 0; i < OBJECTS && device < FAKE_DEVICES; i++)
    if ((s.object[i].refs || s.object[i].maps) && s.object[i].device == device) {
      to->allocated += s.object[i].bytes;
      to->reserved += s.object[i].bytes;
      to->physical += s.object[i].bytes;
      to->kind[VRAM_CUDA_VMM] += s.object[i].bytes;
      to->count++;
    }
  for (i = 0; i < POOLS && device < FAKE_DEVICES; i++)
    if (s.pool[i].exists && s.pool[i].device == device) {
      /* what is left in a pool that is gone: as a tracker can know it */
      to->reserved += s.pool[i].gone ? s.pool[i].used : s.pool[i].reserved;
      to->physical += s.pool[i].reserved;
    }
  unlock();
}

uint64_t fake_leaks(int print) {
  uint64_t n = 0;
  uint32_t i;
  lock();
#define LEFT(condition, ...)                                                                       \
  if (condition) {                                                                                 \
    n++;                                                                                           \
    if (print)                                                                                     \
      printf(__VA_ARGS__);                                                                         \
  }
  for (i = 0; i < s.nblock; i++)
    LEFT(1, "left: %llu bytes of kind %d\n", (unsigned long long)s.block[i].bytes, s.block[i].kind)
  for (i = 0; i < OBJECTS; i++)
    LEFT(s.object[i].refs || s.object[i].maps, "left: a handle\n")
  for (i = FAKE_DEVICES; i < POOLS; i++)
    LEFT(s.pool[i].exists, "left: a pool\n")
  for (i = 0; i < EVENTS; i++)
    LEFT(s.event[i].exists, "left: an event\n")
  for (i = 0; i < 32; i++)
    LEFT(s.stream >> i & 1, "left: a stream\n")
  LEFT(s.nvml, "left: NVML, %d times\n", s.nvml)
  unlock();
  return n;
}
