/* cc -o cuda_leak examples/cuda_leak.c -ldl -lpthread && ./cuda_leak
   At examples/cuda_leak.c line 50: main             total 24.0 MiB (+24.0 MiB), peak 24.0 MiB
   + |      1 *   24.0 MiB |   24.0 MiB | examples/cuda_leak.c:26 load, weights
   At examples/cuda_leak.c line 54: main             total 24.0 MiB (+0 B), peak 28.0 MiB
   At examples/cuda_leak.c line 54: main             total 27.0 MiB (+3.00 MiB), peak 28.0 MiB
   + |      1 *   3.00 MiB |   3.00 MiB | examples/cuda_leak.c:31 answer
   At examples/cuda_leak.c line 54: main             total 27.0 MiB (+0 B), peak 31.0 MiB
   At examples/cuda_leak.c line 54: main             total 30.0 MiB (+3.00 MiB), peak 31.0 MiB
   + |      1 *   3.00 MiB |   3.00 MiB | examples/cuda_leak.c:31 answer
   load line 26, weights holds 25165824 bytes in 1 blocks
   answer line 31 holds 6291456 bytes in 2 blocks

   A server that loses memory with some requests, and the line that does it. Marks write what came
   and went since the mark before; the owners tell who holds what at the end. Builds with nvcc, too.
   In a program of your own nothing but `#define VRAM_CUDA_REROUTE` before the include is needed:
   then cudaMalloc and cudaFree are counted as they stand. */
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "../vram_cuda.h"
#include "cuda_device.h"

static void *weights;

static int load(void) {
  VRAM_CUDA_TAG("weights");
  return vram_cudaMalloc(&weights, 24 << 20);
}

static int answer(int request) {
  void *input = NULL, *scratch = NULL;
  int failed = vram_cudaMalloc(&input, 1 << 20) || vram_cudaMalloc(&scratch, 3 << 20);
  if (request % 2 == 0) {
    (void)vram_cudaFree(input);
    return failed; /* the early return forgets the scratch memory */
  }
  (void)vram_cudaFree(input);
  (void)vram_cudaFree(scratch);
  return failed;
}

int main(void) {
  vram_cuda_api api;
  vram_owner top[4];
  uint32_t i, n;
  int request;
  (void)pretend(&api, NULL);
  (void)vram_cuda_use(&api);
  if (load())
    return 1;
  VRAM_CUDA_MARK();
  for (request = 1; request <= 4; request++) {
    if (answer(request))
      return 1;
    VRAM_CUDA_MARK();
  }
  n = vram_ledger_owners(&vram_cuda_default()->ledger, 0, top, 4);
  for (i = 0; i < n && i < 4; i++)
    printf("%s line %u%s%s holds %llu bytes in %llu blocks\n", top[i].function, top[i].line,
           top[i].tag ? ", " : "", top[i].tag ? top[i].tag : "",
           (unsigned long long)top[i].bytes.current, (unsigned long long)top[i].count.current);
  (void)vram_cudaFree(weights);
  return 0;
}
