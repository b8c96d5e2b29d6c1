/* The implementation of vram_cuda.h for the library of tools/preload.c, and what it hears of NVTX:
   tools/preload_core.h.

   Whatever has NVTX in it, a program or a library, loads what NVTX_INJECTION64_PATH names at its
   first call and calls InitializeInjectionNvtx2. `vram run` sets the variable if nobody has: under
   Nsight the ranges are Nsight's. */
#if __SIZEOF_POINTER__ < 8
typedef int preload_cuda_needs_64_bit;
#else
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "preload_core.h"

EXPORT int InitializeInjectionNvtx2(const void *(*exported)(uint32_t));
EXPORT int InitializeInjectionNvtx2(const void *(*exported)(uint32_t)) {
  return vram_cuda_nvtx(exported);
}

const char *range_now(uint32_t *number) {
  const char *const name = vram__nvtx_tag();
  /* each has a letter at least, and a 0 */
  *number = name ? (uint32_t)(name - vram__nvtx_names.text) / 2 : 0;
  return name;
}

void forget_range_lock(void) { (void)pthread_mutex_init(&vram__nvtx_lock, NULL); }

#endif
