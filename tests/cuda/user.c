/* A file that uses vram_cuda.h by name; C99 and C++11, every warning. */
#include "../../vram_cuda.h"

#ifdef __cplusplus
#define NONE nullptr
#else
#define NONE NULL
#endif

int use(void);
int use(void) {
  void *p = NONE, *q = NONE;
  vram_cuda_view v;
  VRAM_CUDA_TAG("user");
  VRAM_CUDA_MARK();
  if (!vram_cudaMalloc(&p, 100))
    (void)vram_cudaFree(p);
  if (!vram_cudaMallocAsync(&q, 100, NONE))
    (void)vram_cudaFreeAsync(q, NONE);
  return vram_cuda_view_of(NONE, 0, &v) == VRAM_OK && vram_cuda_memory_allocated(NONE, 0) != 0;
}
