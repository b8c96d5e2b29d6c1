/* What libraries allocate, counted by the line that made their allocator:
     nvcc -std=c++17 -o cuda_allocators examples/cuda_allocators.cu vram.c
   where vram.c has the implementation (docs/cuda.md), or with libvram.a instead of it. */
#include "../vram_cuda.h"
#define LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE /* CCCL before 3.1 */
#include <cstdio>
#include <cuda/memory_resource>
#include <memory_resource>
#include <nvtx3/nvtx3.hpp>
#include <thrust/device_vector.h>
#include <thrust/mr/allocator.h>
#include <thrust/mr/memory_resource.h>
#include <vector>

typedef vram_cuda_thrust_resource<thrust::mr::memory_resource<thrust::cuda::pointer<void>>>
    for_thrust;

int main() {
  try {
    /* the standard library's: pinned memory for what is copied to the device */
    vram_cuda_memory_resource<std::pmr::memory_resource> pinned(VRAM_CUDA_HERE, VRAM_CUDA_PINNED);
    std::pmr::vector<float> batch(1 << 20, 1.0f, &pinned);

    /* CCCL's: whatever takes a cuda::mr::resource_ref, RMM's containers among them */
    vram_cuda_resource<cuda::mr::device_accessible> device(VRAM_CUDA_HERE);
    cuda::mr::resource_ref<cuda::mr::device_accessible> any = device;
    void *const weights = any.allocate(8 << 20);

    /* thrust's, and a range of NVTX that names what is allocated in it */
    for_thrust resource(VRAM_CUDA_HERE, VRAM_CUDA_DEVICE);
    thrust::mr::allocator<float, for_thrust> allocator(&resource);
    const nvtx3::scoped_range range{"sorting"};
    const auto keys = allocator.allocate(1 << 20);

    VRAM_CUDA_MARK();
    allocator.deallocate(keys, 1 << 20);
    any.deallocate(weights, 8 << 20);
  } catch (const std::bad_alloc &) {
    std::printf("no CUDA device\n");
    return 1;
  }
}
