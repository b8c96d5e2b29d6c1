// Callers behind the templates of CUDA's header, which are functions where nothing is optimised,
// and behind the functions of a runtime; -DLINKED: of one that is linked statically and calls the
// driver by pointers. Lines are found by the words behind them.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <functional>

#ifdef LINKED
#define OWN __attribute__((noinline, visibility("hidden")))
typedef unsigned long long dptr;
static int (*alloc)(dptr *, size_t);

OWN int libcudart_static_1(dptr *p, size_t n);
int libcudart_static_1(dptr *p, size_t n) { return alloc(p, n) ? 2 : 0; }
extern "C" OWN cudaError_t cudaMalloc(void **p, size_t n) {
  int (*find)(const char *, void **, int, dptr, int *);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW),
       *f = driver ? dlsym(driver, "cuGetProcAddress_v2") : 0;
  dptr at = 0;
  int status = 2, e;
  __builtin_memcpy(&find, &f, sizeof f);
  if (!alloc && f && !find("cuMemAlloc", &f, 12000, 0, &e))
    __builtin_memcpy(&alloc, &f, sizeof f);
  if (alloc)
    status = libcudart_static_1(&at, n);
  *p = reinterpret_cast<void *>(at);
  return cudaError_t(status);
}
#endif

static float *weights(size_t n) {
  float *p;
  return cudaMalloc(&p, n) ? nullptr : p; // weights
}
static float *cache(size_t n) {
  float *p;
  return cudaMalloc(&p, n) ? nullptr : p; // cache
}
static cudaError_t ours(float **p, size_t n) {
  return cudaMalloc(reinterpret_cast<void **>(p), n); // ours
}

static inline __attribute__((always_inline)) float *pooled(size_t n);
static float *keys(size_t n) {
  return pooled(n); // keys
}

int main() {
  float *p;
  const std::function<float *(size_t)> f = [](size_t n) {
    float *q = nullptr;
    cudaMalloc(&q, n); // a lambda
    return q;
  };
  weights(1 << 20);
  cache(2 << 20);
  cache(2 << 20);
  ours(&p, 3 << 20);
  keys(7 << 20);
  return !f(5 << 20);
}

#line 1 "/usr/include/thrust/pool.h"
static inline float *pooled(size_t n) {
  float *p;
  return cudaMalloc(&p, n) ? nullptr : p;
}
