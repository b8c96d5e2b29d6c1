/* VRAM_CUDA_REROUTE beside CUDA's headers, by C, C++ and nvcc: each call that allocates is counted
   where it stands. HEADERS 1: CUDA's first, 2: afterwards, 0: not asked for; IMPLEMENTATION: this
   file has it. With a CUDA runtime and no driver every call answers, and nothing is counted. */
#if HEADERS == 1
#include <cuda_runtime.h>
#endif
#define VRAM_CUDA_REROUTE
#ifdef IMPLEMENTATION
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#endif
#include "../../vram_cuda.h"
#if HEADERS == 2
#include <cuda.h>
#include <cuda_runtime.h>
#endif
#include <stdio.h>
#include <string.h>

static int failed;
static void is(int result, const char *what) {
  if (result != 35 && result != 100 && result != 3 && result != 0) {
    printf("%s is %d\n", what, result);
    failed = 1;
  }
}
#define IS(call) is((int)(call), #call)

int main(void) {
  float *p = NULL;
  void *v = NULL;
  size_t pitch;
  cudaArray_t array = NULL;
  cudaMipmappedArray_t levels = NULL;
  struct cudaPitchedPtr pitched;
  struct cudaExtent extent;
  struct cudaChannelFormatDesc c;
  cudaMemPool_t pool = NULL;
  struct cudaMemPoolProps prop;
  CUdeviceptr d = 0;
  CUmemGenericAllocationHandle h = 0;
  CUmemAllocationProp physical;
  cudaIpcMemHandle_t ipc;
  cudaError_t error;
  memset(&prop, 0, sizeof prop);
  memset(&physical, 0, sizeof physical);
  memset(&ipc, 0, sizeof ipc);
  extent.width = extent.height = extent.depth = 4;
  c.x = 32;
  c.y = c.z = c.w = 0;
  c.f = cudaChannelFormatKindFloat;
  error = cudaMalloc((void **)&p, 100);
  IS(error);
  IS(cudaFree(p));
  IS(cudaMallocPitch(&v, &pitch, 10, 10));
  IS(cudaMalloc3D(&pitched, extent));
  IS(cudaMallocArray(&array, &c, 4, 4, 0));
  IS(cudaMalloc3DArray(&array, &c, extent, 0));
  IS(cudaMallocMipmappedArray(&levels, &c, extent, 2, 0));
  IS(cudaFreeArray(array));
  IS(cudaFreeMipmappedArray(levels));
  IS(cudaMallocManaged(&v, 100, cudaMemAttachGlobal));
  IS(cudaMallocHost(&v, 100));
  IS(cudaHostAlloc(&v, 100, cudaHostAllocMapped));
  IS(cudaFreeHost(v));
  IS(cudaHostRegister(&c, sizeof c, 0));
  IS(cudaHostUnregister(&c));
  IS(cudaMallocAsync(&v, 100, 0));
  IS(cudaMallocFromPoolAsync(&v, 100, pool, 0));
  IS(cudaFreeAsync(v, 0));
  IS(cudaMemPoolCreate(&pool, &prop));
  IS(cudaMemPoolTrimTo(pool, 0));
  IS(cudaMemPoolDestroy(pool));
  IS(cudaIpcOpenMemHandle(&v, ipc, 1));
  IS(cudaIpcCloseMemHandle(v));
  IS(cuMemAlloc(&d, 100));
  IS(cuMemFree(d));
  IS(cuMemCreate(&h, 2 << 20, &physical, 0));
  IS(cuMemMap(d, 2 << 20, 0, h, 0));
  IS(cuMemUnmap(d, 2 << 20));
  IS(cuMemRetainAllocationHandle(&h, NULL));
  IS(cuMemRelease(h));
#ifdef __cplusplus
  IS(cudaMalloc(&p, 100));
  IS(cudaMallocPitch(&p, &pitch, 10, 10));
  IS(cudaMallocManaged(&p, 100));
  IS(cudaMallocHost(&p, 100));
  IS(cudaHostAlloc(&p, 100, 0));
  IS(cudaMallocArray(&array, &c, 4));
  IS(cudaMallocAsync(&p, 100, 0));
  IS(cudaMallocAsync(&p, 100, pool, 0));
  IS(cudaMallocFromPoolAsync(&p, 100, pool, 0));
#endif
  IS(cudaDeviceReset());
  printf("%s\n", failed ? "failed" : "rerouted");
  return failed;
}
