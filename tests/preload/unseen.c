/* What a rerouted file does not see (docs/cuda.md), `vram run` counts: a file without the define
   (LIBRARY), and the driver's calls that have no route. Prints what the rerouting has counted. */
#ifndef LIBRARY
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#endif
#include <stddef.h>
#include <stdio.h>

typedef unsigned long long dptr;
#ifndef __cuda_cuda_h__
int cuMemAllocPitch_v2(dptr *p, size_t *pitch, size_t width, size_t height, unsigned each);
int cuMemAllocManaged(dptr *p, size_t n, unsigned flags);
int cuMemAllocHost_v2(void **p, size_t n);
int cuMemHostAlloc(void **p, size_t n, unsigned flags);
int cuMemAllocAsync(dptr *p, size_t n, void *stream);
int cuMemFree_v2(dptr p);
#endif

int elsewhere(void);
#ifdef LIBRARY
int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int elsewhere(void) {
  void *p, *q;
  return cudaMalloc(&p, 2 << 20) || cudaMalloc(&q, 3 << 20) || cudaFree(q);
}
#else
int main(void) {
  void *p, *h;
  dptr d;
  size_t pitch;
  if (cudaMalloc(&p, 1 << 20) || elsewhere() || cuMemAllocPitch_v2(&d, &pitch, 1000, 100, 4) ||
      cuMemAllocManaged(&d, 4 << 20, 1) || cuMemAllocHost_v2(&h, 8192) ||
      cuMemHostAlloc(&h, 4096, 0) || cuMemAllocAsync(&d, 5 << 20, NULL) ||
      cuMemAllocPitch_v2(&d, &pitch, 1 << 20, 7, 4) || cuMemFree_v2(d))
    return 1;
  printf("%lu %lu\n", (unsigned long)vram_cuda_memory_allocated(NULL, 0),
         (unsigned long)vram_cuda_memory_allocated(NULL, VRAM_DEVICE_HOST));
  return 0;
}
#endif
