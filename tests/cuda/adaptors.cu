/* The adaptors for C++ with the libraries that they are for: std::pmr (C++17), CCCL and thrust
   where nvcc brings them, RMM's interface. */
#include "../../vram_cuda.h"
#include <stdio.h>
#include <vector>
#if __cplusplus >= 201703L
#include <memory_resource>
#include <string>
#endif
#ifdef __CUDACC__
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE
#include <cuda/memory_resource>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/sort.h>
#endif

static int failed;
static void is(int ok, const char *what, int line) {
  if (!ok) {
    printf("line %d: %s\n", line, what);
    failed = 1;
  }
}
#define IS(x) is(x, #x, __LINE__)

static uint64_t now(void) {
  return vram_cuda_memory_allocated(nullptr, 0) +
         vram_cuda_memory_allocated(nullptr, VRAM_DEVICE_HOST);
}

/* as RMM's, in its words */
struct stream_view {
  void *stream;
  void *value() const { return stream; }
};
struct device_memory_resource {
  virtual ~device_memory_resource() {}
  void *allocate(size_t n, stream_view s) { return do_allocate(n, s); }
  void deallocate(void *p, size_t n, stream_view s) { do_deallocate(p, n, s); }

private:
  virtual void *do_allocate(size_t n, stream_view s) = 0;
  virtual void do_deallocate(void *p, size_t n, stream_view s) = 0;
  virtual bool do_is_equal(const device_memory_resource &o) const noexcept { return this == &o; }
};

static void rmm_like(void) {
  vram_cuda_stream_resource<device_memory_resource, stream_view> r(VRAM_CUDA_HERE);
  device_memory_resource &base = r;
  void *p = base.allocate(1000, stream_view{nullptr});
  IS(now() == 1000);
  base.deallocate(p, 1000, stream_view{nullptr});
  IS(now() == 0);
  bool thrown = false;
  try {
    (void)base.allocate(size_t(1) << 40, stream_view{nullptr});
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  IS(thrown);
}

static void allocators(void) {
  typedef vram_cuda_allocator<int> A;
  const A pinned(VRAM_CUDA_HERE, VRAM_CUDA_PINNED), managed(VRAM_CUDA_HERE);
  A other(managed);
  int *const p = other.allocate(50);
  std::vector<int, A> v(100, 7, pinned);
  IS(now() == 600 && v[99] == 7);
  other.deallocate(p, 50);
  IS(now() == 400);
  A async(VRAM_CUDA_HERE, VRAM_CUDA_ASYNC); /* on no stream */
  int *const q = async.allocate(25);
  IS(now() == 500);
  async.deallocate(q, 25);
  IS(now() == 400);
  IS(pinned != managed && pinned == vram_cuda_allocator<char>(pinned));
  bool thrown = false;
  try {
    (void)A(managed).allocate(SIZE_MAX / 2);
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  IS(thrown);
}

#if __cplusplus >= 201703L
static void pmr(void) {
  vram_cuda_memory_resource<std::pmr::memory_resource> r(VRAM_CUDA_HERE, VRAM_CUDA_PINNED);
  std::pmr::vector<double> v(&r);
  v.resize(100);
  IS(now() == 800);
  std::pmr::monotonic_buffer_resource some(4096, &r);
  std::pmr::string s("a text that is longer than what fits in the object", &some);
  IS(now() > 800 && r.is_equal(r));
}
#endif

#ifdef __CUDACC__
static void cccl(void) {
  typedef vram_cuda_resource<cuda::mr::device_accessible> device;
  typedef vram_cuda_resource<cuda::mr::device_accessible, cuda::mr::host_accessible> both;
  static_assert(cuda::mr::resource_with<device, cuda::mr::device_accessible>, "");
  static_assert(!cuda::mr::resource_with<device, cuda::mr::host_accessible>, "");
  static_assert(
      cuda::mr::async_resource_with<both, cuda::mr::device_accessible, cuda::mr::host_accessible>,
      "");
  device d(VRAM_CUDA_HERE);
  both b(VRAM_CUDA_HERE, VRAM_CUDA_MANAGED);
  cuda::mr::resource_ref<cuda::mr::device_accessible> r = d;
  cuda::mr::async_resource_ref<cuda::mr::host_accessible> a = b;
  void *p = r.allocate(1000), *q = a.allocate_async(500, 16, cuda::stream_ref());
  IS(now() == 1500);
  r.deallocate(p, 1000);
  a.deallocate_async(q, 500, 16, cuda::stream_ref());
  IS(now() == 0);
}

typedef thrust::cuda::pointer<void> device_pointer;
typedef vram_cuda_thrust_resource<thrust::mr::memory_resource<device_pointer>> thrust_resource;
float use(size_t n);
float use(size_t n) { /* needs a device */
  thrust_resource r(VRAM_CUDA_HERE, VRAM_CUDA_DEVICE);
  thrust::device_vector<float, thrust::mr::allocator<float, thrust_resource>> v(
      n, 1.0f, thrust::mr::allocator<float, thrust_resource>(&r));
  vram_cuda_allocator<char> scratch(VRAM_CUDA_HERE, VRAM_CUDA_DEVICE);
  thrust::sort(thrust::cuda::par(scratch), v.begin(), v.end());
  return v[0];
}
static void thrust_like(void) {
  thrust_resource r(VRAM_CUDA_HERE, VRAM_CUDA_DEVICE);
  thrust::mr::allocator<float, thrust_resource> a(&r);
  const auto p = a.allocate(100);
  IS(now() == 400);
  a.deallocate(p, 100);
  IS(now() == 0);
}
#endif

int main(int n, char **) {
  rmm_like();
  allocators();
#if __cplusplus >= 201703L
  pmr();
#endif
#ifdef __CUDACC__
  if (n > 1)
    printf("%g\n", double(use(100)));
  cccl();
  thrust_like();
#else
  (void)n;
#endif
  IS(now() == 0);
  printf("%s\n", failed ? "failed" : "counted");
  return failed;
}
