/* A pretended CUDA driver that keeps its own account: with FAKE_CUDA_LOG=FILE it writes into
   FILE.PID, after every change,
     device NOW PEAK host NOW PEAK calls ALLOCATIONS FREES
   FAKE_CUDA_BYTES: the device's memory (default 1 GiB). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long long dptr;
enum { MAX = 65536, MEMORY_OUT = 2, VALUE = 1, NOT_FOUND = 500 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long device_now, device_peak, host_now, host_peak, allocs, frees;
static struct block {
  dptr at;
  long bytes, device, host; /* what it takes of which */
  void *context;
  int pool; /* 1: of the pool */
} block[MAX];
static int nblock;
static dptr next = 0x300000000000;
static long pool_used, pool_held;
static char primary[64];
static __thread void *current;

static long total(void) {
  const char *s = getenv("FAKE_CUDA_BYTES");
  return s ? atol(s) : 1L << 30;
}

static void account(long device, long host) { /* under the mutex */
  const char *log = getenv("FAKE_CUDA_LOG");
  char path[600], text[200];
  static int fd = -1, pid;
  device_now += device, host_now += host;
  device_peak = device_now > device_peak ? device_now : device_peak;
  host_peak = host_now > host_peak ? host_now : host_peak;
  if (!log)
    return;
  if (pid != getpid()) {
    snprintf(path, sizeof path, "%s.%d", log, pid = getpid());
    fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  }
  if (fd >= 0) {
    memset(text, ' ', sizeof text);
    text[snprintf(text, sizeof text, "device %ld %ld host %ld %ld calls %ld %ld", device_now,
                  device_peak, host_now, host_peak, allocs, frees)] = ' ';
    text[sizeof text - 1] = '\n';
    if (pwrite(fd, text, sizeof text, 0) < 0)
      abort();
  }
}

/* A freed address is given again at once: whoever is late with its record is found out. */
static int take(dptr *p, long bytes, long device, long host, int pool) {
  int i, status = 0;
  pthread_mutex_lock(&mutex);
  if (device_now + device > total())
    status = MEMORY_OUT;
  else {
    for (i = 0; i < nblock && (block[i].bytes || !block[i].at); i++)
      ;
    if (i == nblock)
      block[nblock++].at = next, next += 1 << 30;
    block[i].bytes = bytes ? bytes : 1;
    block[i].device = device, block[i].host = host, block[i].pool = pool;
    block[i].context = current ? current : primary;
    *p = block[i].at;
    allocs++;
    account(device, host);
  }
  pthread_mutex_unlock(&mutex);
  return status;
}

static int give(dptr p) {
  int i, status = VALUE;
  if (!p)
    return 0;
  pthread_mutex_lock(&mutex);
  for (i = 0; i < nblock; i++)
    if (block[i].at == p && block[i].bytes) {
      if (block[i].pool)
        pool_used -= block[i].bytes;
      frees++;
      block[i].bytes = 0;
      account(-block[i].device, -block[i].host);
      status = 0;
      break;
    }
  pthread_mutex_unlock(&mutex);
  return status;
}

int cuInit(unsigned flags) { return flags != 0; }
int cuDriverGetVersion(int *v) { return *v = 13000, 0; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
int cuDeviceGet(int *d, int i) { return *d = i, 0; }
int cuCtxGetCurrent(void **c) { return *c = current, 0; }
int cuCtxSetCurrent(void *c) { return current = c, 0; }
int cuCtxGetDevice(int *d) { return *d = 0, 0; }
int cuDevicePrimaryCtxRetain(void **c, int d) { return *c = primary, d; }
int cuCtxCreate_v2(void **c, unsigned flags, int device) {
  current = *c = malloc(64);
  return flags || device;
}
int cuCtxDestroy_v2(void *c) {
  int i;
  for (i = 0; i < nblock; i++)
    if (block[i].bytes && block[i].context == c)
      give(block[i].at);
  current = NULL;
  return 0;
}
int cuDevicePrimaryCtxReset_v2(int device) { return cuCtxDestroy_v2(primary), device; }
int cuPointerGetAttribute(void *to, int what, dptr p) {
  int i;
  for (i = 0; i < nblock; i++)
    if (block[i].bytes && block[i].at == p && what == 1)
      return memcpy(to, &block[i].context, sizeof(void *)), 0;
  return VALUE;
}
int cuMemGetInfo_v2(size_t *left, size_t *all) {
  *all = (size_t)total();
  *left = *all - (size_t)device_now;
  return 0;
}
int cuMemAlloc_v2(dptr *p, size_t n) { return n ? take(p, (long)n, (long)n, 0, 0) : VALUE; }
int cuMemFree_v2(dptr p) { return give(p); }
int cuMemAllocPitch_v2(dptr *p, size_t *pitch, size_t width, size_t height, unsigned each) {
  *pitch = (width + 511) / 512 * 512;
  return each > 16 ? VALUE : take(p, (long)(*pitch * height), (long)(*pitch * height), 0, 0);
}
int cuMemAllocManaged(dptr *p, size_t n, unsigned flags) {
  return flags != 1 ? VALUE : take(p, (long)n, 0, 0, 0);
}
int cuMemHostAlloc(void **p, size_t n, unsigned flags) {
  (void)flags;
  return take((dptr *)p, (long)n, 0, (long)n, 0);
}
int cuMemAllocHost_v2(void **p, size_t n) { return take((dptr *)p, (long)n, 0, (long)n, 0); }
int cuMemFreeHost(void *p) { return give((dptr)p); }
int cuMemHostRegister_v2(void *p, size_t n, unsigned flags) {
  (void)flags;
  pthread_mutex_lock(&mutex);
  block[nblock].at = (dptr)p;
  block[nblock].bytes = block[nblock].host = (long)n;
  nblock++;
  account(0, (long)n);
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemHostUnregister(void *p) { return give((dptr)p); }
int cuArrayCreate_v2(void **a, const size_t *shape) { /* float, one channel */
  return take((dptr *)a, (long)(shape[0] * shape[1] * 4), (long)(shape[0] * shape[1] * 4), 0, 0);
}
int cuArrayDestroy(void *a) { return give((dptr)a); }

/* one pool; it takes 32 MiB at a time and keeps what is free until somebody waits */
#define CHUNK (32L << 20)
int cuDeviceGetMemPool(void **pool, int device) { return *pool = &pool_used, device; }
int cuMemAllocAsync(dptr *p, size_t n, void *stream) {
  long more = 0;
  int status;
  (void)stream;
  pthread_mutex_lock(&mutex);
  if (pool_used + (long)n > pool_held)
    more = (pool_used + (long)n - pool_held + CHUNK - 1) / CHUNK * CHUNK;
  status = device_now + more > total() ? MEMORY_OUT : 0;
  if (!status) {
    pool_held += more;
    pool_used += (long)n;
    account(more, 0);
  }
  pthread_mutex_unlock(&mutex);
  return status ? status : take(p, (long)n, 0, 0, 1);
}
int cuMemAllocFromPoolAsync(dptr *p, size_t n, void *pool, void *stream) {
  return pool == &pool_used ? cuMemAllocAsync(p, n, stream) : VALUE;
}
int cuMemFreeAsync(dptr p, void *stream) { return (void)stream, give(p); }
int cuMemPoolTrimTo(void *pool, size_t keep) {
  long held;
  (void)pool;
  pthread_mutex_lock(&mutex);
  held = (pool_used + CHUNK - 1) / CHUNK * CHUNK;
  held = held < (long)keep ? (long)keep : held;
  if (held < pool_held) {
    account(held - pool_held, 0);
    pool_held = held;
  }
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemPoolGetAttribute(void *pool, int what, dptr *value) {
  (void)pool;
  *value = (dptr)(what == 5 ? pool_held : what == 7 ? pool_used : 0);
  return what != 5 && what != 7;
}
int cuStreamIsCapturing(void *stream, int *status) { return *status = stream == (void *)77, 0; }
int cuStreamSynchronize(void *stream) { return (void)stream, cuMemPoolTrimTo(&pool_used, 0); }
int cuCtxSynchronize(void) { return cuMemPoolTrimTo(&pool_used, 0); }
int cuCtxSynchronize_v2(void *c) {
  return c && c != current && c != primary ? 709 : cuCtxSynchronize();
}
/* streams of each thread: functions of their own, as in the real driver */
int cuMemAllocAsync_ptsz(dptr *p, size_t n, void *s) { return cuMemAllocAsync(p, n, s); }
int cuMemFreeAsync_ptsz(dptr p, void *s) { return cuMemFreeAsync(p, s); }

/* physical memory: until it is neither held nor mapped */
static struct physical {
  long bytes;
  int refs;
} physical[4096];
static struct mapping {
  dptr at;
  size_t n;
  struct physical *of;
} mapping[4096];
static void drop(struct physical *h) {
  if (!--h->refs)
    frees++, account(-h->bytes, 0), h->bytes = 0;
}
int cuMemGetAllocationGranularity(size_t *n, const void *prop, int which) {
  (void)prop, (void)which;
  return *n = 2 << 20, 0;
}
int cuMemAddressReserve(dptr *p, size_t n, size_t a, dptr at, dptr flags) {
  (void)a, (void)at, (void)flags;
  pthread_mutex_lock(&mutex);
  *p = next;
  next += n;
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemAddressFree(dptr p, size_t n) { return (void)p, (void)n, 0; }
int cuMemCreate(dptr *h, size_t n, const int *prop, dptr flags) {
  int i, status = MEMORY_OUT;
  (void)flags;
  pthread_mutex_lock(&mutex);
  for (i = 0; i < 4096 && physical[i].bytes; i++)
    ;
  if (prop[2] == 1 && i < 4096 && device_now + (long)n <= total()) {
    physical[i].bytes = (long)n;
    physical[i].refs = 1;
    *h = (dptr)&physical[i];
    allocs++;
    account((long)n, 0);
    status = 0;
  }
  pthread_mutex_unlock(&mutex);
  return status;
}
int cuMemRelease(dptr h) {
  pthread_mutex_lock(&mutex);
  drop((struct physical *)h);
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemMap(dptr p, size_t n, size_t offset, dptr h, dptr flags) {
  int i;
  (void)flags;
  pthread_mutex_lock(&mutex);
  for (i = 0; mapping[i].of; i++)
    ;
  mapping[i].at = p, mapping[i].n = n + offset, mapping[i].of = (struct physical *)h;
  mapping[i].of->refs++;
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemUnmap(dptr p, size_t n) {
  int i;
  pthread_mutex_lock(&mutex);
  for (i = 0; i < 4096; i++)
    if (mapping[i].of && mapping[i].at >= p && mapping[i].at < p + n) {
      drop(mapping[i].of);
      mapping[i].of = NULL;
    }
  pthread_mutex_unlock(&mutex);
  return 0;
}
int cuMemSetAccess(dptr p, size_t n, const void *a, size_t count) {
  return (void)p, (void)n, (void)a, count != 1;
}

/* A static runtime asks for some tables that nobody describes before it says that this is not the
   real driver; what it calls until then. FAKE_CUDA_ALL=1: every function that it asks for is
   there. */
static int nothing(void) { return 0; }
static int primary_context(void **c, int device) { return *c = primary, device; }
static int flags_of_callbacks(void **at, size_t *n) {
  static char flags[4096];
  *at = flags;
  *n = 1024;
  return 0;
}
int cuGetExportTable(void **table, const unsigned char *id) {
  static void *interface[32], *hooks[32], *other[32];
  void **t = id[0] == 0x6b ? interface : id[0] == 0xa0 ? hooks : other;
  int i;
  for (i = 1; i < 32; i++)
    t[i] = (void *)nothing;
  t[0] = (void *)sizeof other;
  if (t == interface)
    t[2] = (void *)primary_context;
  if (t == hooks)
    t[2] = t[6] = (void *)flags_of_callbacks;
  *table = t;
  return 0;
}
int cuDeviceGetAttribute(int *v, int what, int d) {
  return *v = what == 75 ? 9 : what == 76 ? 0 : what == 10 ? 32 : 1, d;
}

int cuGetProcAddress_v2(const char *name, void **found, int version, dptr flags, int *result);
int cuGetProcAddress(const char *name, void **found, int version, dptr flags);
static const struct {
  const char *name;
  int (*function)();
} table[] = {
#define F(name)                                                                                    \
  { #name, (int (*)())name }
#define F2(name)                                                                                   \
  { #name, (int (*)())name##_v2 }
    F(cuInit),
    F(cuDriverGetVersion),
    F(cuDeviceGetCount),
    F(cuDeviceGet),
    F(cuCtxGetCurrent),
    F(cuCtxSetCurrent),
    F(cuCtxGetDevice),
    F(cuDevicePrimaryCtxRetain),
    F2(cuCtxCreate),
    F2(cuCtxDestroy),
    F2(cuDevicePrimaryCtxReset),
    F(cuPointerGetAttribute),
    F2(cuMemGetInfo),
    F2(cuMemAlloc),
    F2(cuMemFree),
    F2(cuMemAllocPitch),
    F(cuMemAllocManaged),
    F(cuMemHostAlloc),
    F2(cuMemAllocHost),
    F(cuMemFreeHost),
    F2(cuMemHostRegister),
    F(cuMemHostUnregister),
    F2(cuArrayCreate),
    F(cuArrayDestroy),
    F(cuDeviceGetMemPool),
    F(cuMemAllocAsync),
    F(cuMemAllocFromPoolAsync),
    F(cuMemFreeAsync),
    F(cuMemPoolTrimTo),
    F(cuMemPoolGetAttribute),
    F(cuStreamIsCapturing),
    F(cuStreamSynchronize),
    F(cuCtxSynchronize),
    F(cuMemGetAllocationGranularity),
    F(cuMemAddressReserve),
    F(cuMemAddressFree),
    F(cuMemCreate),
    F(cuMemRelease),
    F(cuMemMap),
    F(cuMemUnmap),
    F(cuMemSetAccess),
    F(cuGetExportTable),
    F(cuDeviceGetAttribute)};
#undef F
#undef F2
int cuGetProcAddress_v2(const char *name, void **found, int version, dptr flags, int *result) {
  size_t i;
  *found = NULL;
  if (!strcmp(name, "cuGetProcAddress"))
    *found = version < 12000 ? (void *)cuGetProcAddress : (void *)cuGetProcAddress_v2;
  if (version >= 13000 && !strcmp(name, "cuCtxSynchronize"))
    *found = (void *)cuCtxSynchronize_v2;
  if (flags & 2 && !strcmp(name, "cuMemAllocAsync"))
    *found = (void *)cuMemAllocAsync_ptsz;
  if (flags & 2 && !strcmp(name, "cuMemFreeAsync"))
    *found = (void *)cuMemFreeAsync_ptsz;
  for (i = 0; i < sizeof table / sizeof *table && !*found; i++)
    if (!strcmp(name, table[i].name))
      *found = (void *)table[i].function;
  if (!*found && getenv("FAKE_CUDA_ALL"))
    *found = (void *)nothing;
  if (result)
    *result = *found ? 0 : 1;
  return *found ? 0 : NOT_FOUND;
}
int cuGetProcAddress(const char *name, void **found, int version, dptr flags) {
  return cuGetProcAddress_v2(name, found, version, flags, NULL);
}
