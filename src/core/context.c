/* >>core/context    what a CUDA context takes of a device before any kernel is loaded */
#include "core/core.h"

/* CUDA programming guide, compute capabilities: resident threads of a multiprocessor. */
VRAM__FN uint32_t vram__device_threads(uint32_t cc) {
  return cc == 75 ? 1024 : (cc > 80 && cc < 90) || cc >= 110 ? 1536 : 2048;
}

/* Multiprocessors of T4, V100, A100, RTX 3090, RTX 4090, H100, B200 and RTX 5090. */
VRAM__FN uint32_t vram__device_usual_sm(uint32_t cc) {
  return cc == 75   ? 40
         : cc < 80  ? 80
         : cc == 80 ? 108
         : cc < 89  ? 82
         : cc == 89 ? 128
         : cc == 90 ? 132
         : cc < 120 ? 148
                    : 170;
}

/* The driver sets local memory aside for each thread that the multiprocessors can have: a stack of
   1 KiB (CUDA programming guide, cudaLimitStackSize) and what its own calls need, 1.5 KiB at least,
   at most the next power of two. Beside it there is room for what a multiprocessor holds when its
   work is put aside, registers and shared memory, at most 512 KiB, and from a module's first printf
   and malloc on their 1 and 8 MiB (cudaLimitPrintfFifoSize, cudaLimitMallocHeapSize).
   Expected is a straight line through processes that only have a context, 1,900 bytes a thread and
   29.75 MiB: T4 (torch 2.11) 105 MiB, RTX 3090 (2.7) 256, RTX 6000 Ada (2.10) 426.
   tools/published_beside.csv has 25 more. */
VRAM__FN vram_bounds vram__context_bare(uint32_t cc, uint64_t sm) {
  const uint64_t threads = sm * vram__device_threads(cc), driver = 31195136;
  vram_bounds c;
  c.lower = threads * 1536;
  c.expected = threads * 1900 + driver;
  c.upper = threads * 2048 + sm * (UINT64_C(512) << 10) + driver + (UINT64_C(9) << 20);
  return c;
}
