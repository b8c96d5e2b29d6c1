/* thrust and the rerouting, in either order: its headers compile, and what they allocate for this
   file is counted. */
#ifdef BEFORE
#include <thrust/device_vector.h>
#include <thrust/universal_vector.h>
#endif
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#include <stdio.h>
#include <thrust/device_free.h>
#include <thrust/device_malloc.h>
#include <thrust/device_vector.h>
#include <thrust/sort.h>
#include <thrust/universal_vector.h>

float use(size_t n);
float use(size_t n) { /* needs a device */
  thrust::device_vector<float> a(n, 1.0f);
  thrust::universal_vector<float> b(n, 2.0f);
  thrust::sort(a.begin(), a.end());
  return a[0] + b[0];
}

int main(int n, char **) {
  uint64_t inside;
  if (n > 1)
    printf("%g\n", double(use(100)));
  {
    const thrust::device_ptr<float> p = thrust::device_malloc<float>(250);
    thrust::device_vector<float>::allocator_type some;
    thrust::universal_vector<float>::allocator_type other;
    const auto q = some.allocate(500);
    const auto r = other.allocate(250);
    inside = vram_cuda_memory_allocated(nullptr, 0);
    thrust::device_free(p);
    some.deallocate(q, 500);
    other.deallocate(r, 250);
  }
  const int good = inside == 4000 && vram_cuda_memory_allocated(nullptr, 0) == 0;
  printf("%s\n", good ? "counted" : "failed");
  return !good;
}
