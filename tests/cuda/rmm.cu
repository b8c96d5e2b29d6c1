/* The adaptors with RMM itself: its resources are those of cuda::mr, or were, up to 25, what is
   derived from device_memory_resource. */
#include "../../vram_cuda.h"
#include <cuda/memory_resource>
#include <rmm/device_buffer.hpp>
#include <rmm/device_uvector.hpp>
#include <rmm/resource_ref.hpp>
#include <stdio.h>
#if __has_include(<rmm/mr/device/device_memory_resource.hpp>)
#define DERIVED
#include <rmm/cuda_stream_view.hpp>
#include <rmm/mr/device/per_device_resource.hpp>
#include <rmm/mr/device/statistics_resource_adaptor.hpp>
#else
#include <rmm/mr/per_device_resource.hpp>
#include <rmm/mr/statistics_resource_adaptor.hpp>
#endif

static int failed;
static void is(int ok, const char *what, int line) {
  if (!ok) {
    printf("line %d: %s\n", line, what);
    failed = 1;
  }
}
#define IS(x) is(x, #x, __LINE__)

static uint64_t now(void) { return vram_cuda_memory_allocated(nullptr, 0); }

typedef vram_cuda_resource<cuda::mr::device_accessible> counted;

#ifdef DERIVED
static const rmm::cuda_stream_view stream;
static void current(void) {
  typedef vram_cuda_stream_resource<rmm::mr::device_memory_resource, rmm::cuda_stream_view> base;
  base mine(VRAM_CUDA_HERE, VRAM_CUDA_DEVICE);
  rmm::mr::set_current_device_resource(&mine);
  {
    rmm::device_uvector<int> v(1024, stream);
    IS(now() == 4096);
    rmm::mr::statistics_resource_adaptor<base> s(&mine);
    rmm::device_buffer b(512, stream, &s);
    IS(now() == 4608 && s.get_bytes_counter().value == 512);
  }
  IS(now() == 0);
  rmm::mr::set_current_device_resource(nullptr);
}
#else
static const cuda::stream_ref stream{cudaStream_t(nullptr)};
static void current(void) {
  rmm::mr::set_current_device_resource(counted(VRAM_CUDA_HERE));
  rmm::device_uvector<int> v(1024, stream);
  IS(now() == 4096);
  rmm::mr::statistics_resource_adaptor s(counted(VRAM_CUDA_HERE));
  rmm::device_buffer b(512, stream, s);
  IS(now() == 4608 && s.get_bytes_counter().value == 512);
}
#endif

int main() {
  current();
  IS(now() == 0);
  {
    counted mine(VRAM_CUDA_HERE);
    rmm::device_buffer b(768, stream, rmm::device_async_resource_ref(mine));
    IS(now() == 768);
  }
  IS(now() == 0);
  printf("%s\n", failed ? "failed" : "counted");
  return failed;
}
