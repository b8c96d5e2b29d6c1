/* What ordinary C++ does with CUDA's functions, rerouted: pointers to them, deleters, templates,
   functions and members of the same names. On the fake runtime each allocation is counted with its
   line where a call tells one, and all that is given back is counted, too. */
#ifdef BEFORE /* a header that was there first, and used the functions */
#include <cuda_runtime.h>
static inline cudaError_t twice(void *p, void *q) {
  const cudaError_t e = cudaFree(p);
  return e != cudaSuccess ? e : cudaFree(q);
}
struct wrapped {
  int calls;
  cudaError_t cudaMalloc(void **p, size_t n) {
    calls++;
    return ::cudaMalloc(p, n);
  }
  cudaError_t cudaFree(void *p) {
    calls++;
    return ::cudaFree(p);
  }
};
#endif
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#include <functional>
#include <memory>
#include <stdio.h>
#include <string.h>
#ifndef BEFORE
static inline cudaError_t twice(void *p, void *q) {
  const cudaError_t e = cudaFree(p);
  return e != cudaSuccess ? e : cudaFree(q);
}
struct wrapped {
  int calls;
  /* a declaration that looks like a call to a macro */
  cudaError_t(cudaMalloc)(void **p, size_t n) {
    calls++;
    return ::cudaMalloc(p, n);
  }
  cudaError_t cudaFree(void *p) {
    calls++;
    return ::cudaFree(p);
  }
};
#endif

static int failed;
static void is(int ok, const char *what, int line) {
  if (!ok) {
    printf("line %d: %s\n", line, what);
    failed = 1;
  }
}
#define IS(x) is(x, #x, __LINE__)
#define CHECK(call) check(call, #call, __FILE__, __LINE__)
static void check(cudaError_t e, const char *what, const char *, int line) {
  is(e == cudaSuccess, what, line);
}

static uint64_t now(void) {
  return vram_cuda_memory_allocated(nullptr, 0) +
         vram_cuda_memory_allocated(nullptr, VRAM_DEVICE_HOST);
}

/* the line of an allocation's owner */
static vram_owner list[64];
static uint32_t line_of(const char *function) {
  const uint32_t n = vram_ledger_owners(&vram_cuda_default()->ledger, 0, list, 64);
  for (uint32_t i = 0; i < n; i++)
    if (list[i].function && strcmp(list[i].function, function) == 0)
      return list[i].line;
  return 0;
}

struct device_free {
  void operator()(float *p) const { cudaFree(p); }
};

namespace mine {
static int freed;
static inline cudaError_t cudaFree(void *) {
  freed++;
  return cudaSuccess;
}
static inline void call(void) { CHECK(cudaFree(nullptr)); }
template <class T> struct buffer {
  T *p;
  explicit buffer(size_t n) : p(nullptr) { CHECK(cudaMalloc(&p, n * sizeof(T))); }
  ~buffer() { ::cudaFree(p); }

private:
  buffer(const buffer &);
  buffer &operator=(const buffer &);
};
} // namespace mine

struct table { /* of a library that finds its functions itself */
  cudaError_t (*cudaMalloc)(void **, size_t);
  cudaError_t (*cudaFree)(void *);
};

static void deleters(void) {
  float *p = nullptr;
  {
    CHECK(cudaMalloc(&p, 1000));
    std::unique_ptr<float, decltype(&cudaFree)> a(p, &cudaFree);
    CHECK(cudaMalloc((void **)&p, 2000));
    std::shared_ptr<float> b(p, cudaFree);
    CHECK(cudaMalloc(reinterpret_cast<void **>(&p), 3000));
    std::unique_ptr<float, device_free> c(p);
    const std::function<cudaError_t(void *)> d = cudaFree;
    CHECK(cudaMallocManaged(&p, 4000));
    IS(now() == 10000);
    CHECK(d(p));
    const std::unique_ptr<void, std::function<void(void *)>> e(c.release(), cudaFree);
  }
  IS(now() == 0);
}

static void pointers(void) {
  float *p = nullptr;
  void *q = nullptr;
#if defined(__clang__) && defined(__CUDA__) /* has a second one, for the device: ambiguous */
  cudaError_t (*one)(float **, size_t) = [](float **to, size_t n) {
    return (cudaMalloc)((void **)to, n);
  };
#else
  cudaError_t (*one)(float **, size_t) = &cudaMalloc<float>;
#endif
  cudaError_t (*other)(void **, size_t) = cudaMalloc;
  const std::function<cudaError_t(float **, size_t)> third = one;
  const table t = {cudaMalloc, cudaFree};
  CHECK(one(&p, 1000));
  CHECK(other(&q, 2000));
  IS(now() == 3000);
  IS(line_of("cudaMalloc without a line") == 0);
  CHECK(twice(p, q));
  CHECK(third(&p, 3000));
  CHECK(t.cudaMalloc(&q, 4000));
  IS(now() == 7000);
  CHECK(t.cudaFree(q));
  CHECK(t.cudaFree(p));
  CHECK(cudaMalloc<float>(&p, 5000));
  CHECK(cudaFree(p));
  IS(now() == 0);
}

static void names(void) {
  void *p = nullptr;
  wrapped w;
  w.calls = 0;
  CHECK(w.cudaMalloc(&p, 5000));
  IS(now() == 5000);
  CHECK(w.cudaFree(p));
  IS(w.calls == 2 && now() == 0);
  mine::call();
  CHECK(mine::cudaFree(p));
  IS(mine::freed == 2);
  {
    mine::buffer<double> a(100);
    mine::buffer<int> b(100);
    IS(now() == 1200);
    IS(line_of("buffer") != 0);
  }
  IS(now() == 0);
}

static void overloads(void) {
  float *p = nullptr;
  void *v = nullptr;
  void *two[2] = {nullptr, nullptr};
  size_t pitch;
  cudaMemPool_t pool = nullptr;
  cudaMemPoolProps prop = cudaMemPoolProps();
  uint32_t line = __LINE__ + 1;
  CHECK(cudaMalloc(&p, 1000));
  IS(line_of("overloads") == line);
  CHECK(cudaFree(p));
  line = __LINE__ + 1; /* all of the first argument */
  CHECK(cudaMalloc(pool ? two : two + 1, 1000));
  IS(line_of("overloads") == line);
  CHECK(cudaFree(pool ? two[0] : two[1]));
  CHECK(cudaMalloc(two, 1000)), CHECK(cudaMalloc(two + 1, 1000));
  IS(now() == 2000);
  CHECK(twice(two[0], two[1]));
  CHECK(cudaMallocPitch(&p, &pitch, 100, 10));
  CHECK(cudaFree(p));
  CHECK(cudaMallocManaged(&p, 1000, 1));
  CHECK(cudaFree(p));
  CHECK(cudaMallocHost(&p, 1000));
  CHECK(cudaFreeHost(p));
  CHECK(cudaMallocHost(&v, 1000, 1));
  CHECK(cudaFreeHost(v));
  CHECK(cudaHostAlloc(&p, 1000, 1));
  CHECK(cudaFreeHost(p));
  CHECK(cudaMallocAsync(&p, 1000, nullptr));
  CHECK(cudaFreeAsync(p, nullptr));
  memcpy(&prop, "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0", 16); /* pinned memory of device 0 */
  CHECK(cudaMemPoolCreate(&pool, &prop));
  CHECK(cudaMallocAsync(&p, 1000, pool, nullptr));
  CHECK(cudaFreeAsync(p, nullptr));
  CHECK(cudaMallocFromPoolAsync(&p, 1000, pool, nullptr));
  IS(now() == 1000);
  CHECK(cudaFreeAsync(p, nullptr));
  CHECK(cudaMallocFromPoolAsync(&v, 1000, pool, nullptr));
  CHECK(cudaFreeAsync(v, nullptr));
  CHECK(cudaMemPoolDestroy(pool));
  IS(now() == 0);
}

/* a first argument is any expression */
static void arguments(void) {
  float *p, *two[2], *three[3];
  const int i = 1;
  const uint32_t line = __LINE__ + 1;
  CHECK(cudaMalloc(two + i, 1000));
  IS(line_of("arguments") == line);
  CHECK(cudaFree(*(two + i)));
  CHECK(cudaMallocManaged(now() ? &p : three + 2, 1000));
  IS(line_of("arguments") == line + 3);
  CHECK(cudaFree(now() ? three[2] : p));
  IS(now() == 0);
}

/* no warning that p has no value before */
cudaError_t fresh(void); /* not only inlined, where it would not be seen */
cudaError_t fresh(void) {
  float *p;
  const cudaError_t e = cudaMalloc(&p, 10);
  return e == cudaSuccess ? cudaFree(p) : e;
}

int main() {
  deleters();
  arguments();
  CHECK(fresh());
  pointers();
  names();
  overloads();
  CHECK(cudaDeviceReset());
  IS(vram_cuda_default()->ledger.unknown_frees == 0);
  printf("%s\n", failed ? "failed" : "counted");
  return failed;
}
