/* A pretended CUDA runtime: it loads the driver at its first call and asks it for its functions, as
   the real one does. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned long long dptr;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*find)(const char *, void **, int, dptr, int *);
static int (*mem_alloc)(dptr *, size_t), (*mem_free)(dptr);
static int (*pitch_alloc)(dptr *, size_t *, size_t, size_t, unsigned);
static int (*managed)(dptr *, size_t, unsigned);
static int (*host_alloc)(void **, size_t, unsigned), (*host_free)(void *);
static int (*host_register)(void *, size_t, unsigned), (*host_unregister)(void *);
static int (*array_create)(void **, const size_t *), (*array_destroy)(void *);
static int (*async_alloc)(dptr *, size_t, void *), (*async_free)(dptr, void *);
static int (*current)(void **), (*synchronize)(void *), (*reset)(int), (*info)(size_t *, size_t *);

static void load(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  void *f = driver ? dlsym(driver, "cuGetProcAddress_v2") : NULL;
  const struct {
    const char *name;
    void *to;
    int version;
  } want[] = {{"cuMemAlloc", &mem_alloc, 3020},
              {"cuMemFree", &mem_free, 3020},
              {"cuMemAllocPitch", &pitch_alloc, 3020},
              {"cuMemAllocManaged", &managed, 6000},
              {"cuMemHostAlloc", &host_alloc, 2020},
              {"cuMemFreeHost", &host_free, 2000},
              {"cuMemHostRegister", &host_register, 6050},
              {"cuMemHostUnregister", &host_unregister, 4000},
              {"cuArrayCreate", &array_create, 3020},
              {"cuArrayDestroy", &array_destroy, 2000},
              {"cuMemAllocAsync", &async_alloc, 11020},
              {"cuMemFreeAsync", &async_free, 11020},
              {"cuCtxGetCurrent", &current, 4000},
              {"cuCtxSynchronize", &synchronize, 13000},
              {"cuMemGetInfo", &info, 3020},
              {"cuDevicePrimaryCtxReset", &reset, 11000}};
  size_t i;
  if (!f) {
    fprintf(stderr, "pretended runtime: no driver\n");
    abort();
  }
  memcpy(&find, &f, sizeof f);
  for (i = 0; i < sizeof want / sizeof *want; i++)
    if (find(want[i].name, (void **)want[i].to, want[i].version, 0, NULL))
      abort();
}
#define LOAD pthread_once(&once, load)

/* how often this runtime was called: the tests load two of them */
static int calls;
int cudart_calls(void) { return calls; }

int cudaGetDevice(int *d) { return *d = 0, 0; }
int cudaSetDevice(int d) { return d ? 101 : 0; }
int cudaGetDeviceCount(int *n) { return *n = 1, 0; }
int cudaDriverGetVersion(int *v) { return *v = 13000, 0; }
int cudaRuntimeGetVersion(int *v) { return *v = 13000, 0; }
int cudaGetLastError(void) { return 0; }
int cudaPeekAtLastError(void) { return 0; }
int cudaMalloc(void **p, size_t n) { return LOAD, calls++, mem_alloc((dptr *)p, n); }
int cudaFree(void *p) { return LOAD, calls++, mem_free((dptr)p); }
int cudaMallocPitch(void **p, size_t *pitch, size_t w, size_t h) {
  return LOAD, pitch_alloc((dptr *)p, pitch, w, h, 4);
}
int cudaMallocManaged(void **p, size_t n, unsigned f) { return LOAD, managed((dptr *)p, n, f); }
int cudaMallocHost(void **p, size_t n) { return LOAD, host_alloc(p, n, 0); }
int cudaHostAlloc(void **p, size_t n, unsigned f) { return LOAD, host_alloc(p, n, f); }
int cudaFreeHost(void *p) { return LOAD, host_free(p); }
int cudaHostRegister(void *p, size_t n, unsigned f) { return LOAD, host_register(p, n, f); }
int cudaHostUnregister(void *p) { return LOAD, host_unregister(p); }
int cudaMallocArray(void **a, const int *channel, size_t w, size_t h, unsigned f) {
  const size_t shape[2] = {w, h ? h : 1};
  return LOAD, channel[0] != 32 || f ? 1 : array_create(a, shape);
}
int cudaFreeArray(void *a) { return LOAD, array_destroy(a); }
int cudaMallocAsync(void **p, size_t n, void *s) { return LOAD, async_alloc((dptr *)p, n, s); }
int cudaFreeAsync(void *p, void *s) { return LOAD, async_free((dptr)p, s); }
int cudaDeviceSynchronize(void) {
  void *context;
  return LOAD, current(&context) || synchronize(context);
}
int cudaDeviceReset(void) { return LOAD, reset(0); }
int cudaMemGetInfo(size_t *left, size_t *all) { return LOAD, info(left, all); }
int cudaGetDriverEntryPointByVersion(const char *name, void **f, unsigned v, dptr flags, int *r) {
  return LOAD, find(name, f, (int)v, flags, r);
}
int cudaGetDriverEntryPoint(const char *name, void **f, dptr flags, int *r) {
  return cudaGetDriverEntryPointByVersion(name, f, 13000, flags, r);
}
