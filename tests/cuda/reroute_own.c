/* A rerouted file with a tracker of its own, in C and C++: what it allocates and frees by calls is
   counted there, and lines are told of calls through structures, too. */
#define VRAM_CUDA_TRACKER (&mine)
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#include <stdio.h>
#include <stdlib.h>

static vram_cuda_tracker mine;
static vram_owner list[16];

struct table {
  cudaError_t (*cudaMalloc)(void **p, size_t n);
  cudaError_t (*cudaFree)(void *p);
};

static uint64_t held(void) {
  return vram_cuda_memory_allocated(&mine, 0) + vram_cuda_memory_allocated(&mine, VRAM_DEVICE_HOST);
}

/* no warning that p has no value before */
int fresh(void); /* not only inlined, where it would not be seen */
int fresh(void) {
  void *p;
  return cudaMalloc(&p, 10) || cudaFree(p);
}

int main(int argc, char **argv) {
  struct table t = {cudaMalloc, cudaFree};
  vram_cuda_api api;
  void *p[2], *q, *memory;
  uint32_t n, line;
  int good;
  vram_result r = vram_cuda_api_linked(&api, NULL);
  (void)argv;
  memory = malloc((size_t)vram_cuda_tracker_bytes(NULL));
  if (r || vram_cuda_tracker_init(&mine, &api, NULL, memory, vram_cuda_tracker_bytes(NULL), NULL))
    return 1;
  good = !fresh() && !cudaMalloc(p, 1000) && !cudaHostAlloc(&p[1], 100, 0);
  good = good && held() == 1100 && !cudaFree(*p) && !cudaFreeHost(p[1]) && held() == 0;
  line = __LINE__ + 1;
  good = good && !t.cudaMalloc(&q, 500);
  n = vram_ledger_owners(&mine.ledger, 0, list, 16);
  good = good && held() == 500 && n == 1 && list[0].line == line && !t.cudaFree(q) && held() == 0;
  good = good && !cudaMallocAsync(&q, 500, NULL) && held() == 500 && !cudaFreeAsync(q, NULL);
  good = good && held() == 0 && mine.ledger.unknown_frees == 0;
  good = good && vram_cuda_memory_allocated(NULL, 0) == 0 && vram_cuda_default() != &mine;
  good = good && !cudaMalloc(p, 10) && !cudaMalloc(&p[1], 20) && !cudaFree(0) && !cudaFree(NULL);
  good = good && !cudaFree(argc > 1 ? p[1] : p[0]) && held() == 20;
  good = good && !cudaMalloc(argc > 1 ? &q : p, 30) && held() == 50;
  good = good && !cudaFreeAsync(argc > 1 ? q : p[0], NULL) && held() == 20;
  good = good && !cudaMalloc(p + (argc > 1), 40) && held() == 60 && !cudaFree(argc > 1 ? q : *p);
  good = good && cudaFreeAsync(0, NULL) && !cudaFree((char *)p[1] + (argc - 1)) && held() == 0;
  good = good && mine.ledger.unknown_frees == 0 && vram_cuda_default()->ledger.unknown_frees == 0;
  printf("%s\n", good ? "counted" : "failed");
  return !good;
}
