/* bench LIVE [locks]: nanoseconds that the tracker adds to a call, with call sites: of LIVE
   allocations a random one goes and another comes; what the calls themselves cost without a tracker
   is taken off. */
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "../../vram_cuda.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t next_address;

static int give(void **p, size_t n) {
  (void)n;
  *p = (void *)(uintptr_t)next_address;
  return 0;
}
static int take(void *p) {
  next_address = (uint64_t)(uintptr_t)p;
  return 0;
}
static int device(int *d) {
  *d = 0;
  return 0;
}

static double now(void) { return (double)clock() * (1e9 / CLOCKS_PER_SEC); }

enum { CALLS = 1 << 20 };

static double play(vram_cuda_tracker *t, void **block, const uint32_t *which) {
  const double from = now();
  uint32_t i;
  for (i = 0; i < CALLS; i++) {
    void **p = block + which[i];
    (void)vram_cudaFree_in(t, *p);
    if (i & 1)
      (void)vram_cudaMalloc_at(t, __FILE__, __LINE__, __func__, p, 1000 + i % 777);
    else
      (void)vram_cudaMalloc_at(t, __FILE__, __LINE__, __func__, p, 5000 + i % 333);
  }
  return (now() - from) / (2.0 * CALLS);
}

int main(int argc, char **argv) {
  const uint32_t live = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 10000;
  vram_cuda_options o = VRAM_ZERO_INIT;
  vram_cuda_api api;
  vram_cuda_tracker t, none;
  uint64_t n, r = 1;
  uint32_t i;
  double with = 1e9, without = 1e9;
  void *mem, **block;
  uint32_t *which;
  memset(&api, 0, sizeof api);
  memset(&none, 0, sizeof none);
  api.cuda_Malloc = give;
  api.cuda_Free = take;
  api.cuda_GetDevice = device;
  none.api = &api; /* not open: calls are passed on */
  o.ledger.live = live + live / 4;
  o.ledger.groups = 4096;
  n = vram_cuda_tracker_bytes(&o);
  mem = malloc(n);
  block = (void **)malloc(sizeof *block * live);
  which = (uint32_t *)malloc(sizeof *which * CALLS);
  if (!live || !mem || !block || !which ||
      vram_cuda_tracker_init(&t, &api, &o, mem, n, NULL) != VRAM_OK)
    exit(1);
  for (i = 0; i < live; i++) {
    next_address = UINT64_C(0x7f0000000000) + (uint64_t)i * 512 * 37;
    (void)vram_cudaMalloc_at(&t, __FILE__, __LINE__, __func__, block + i, 4096);
  }
  for (i = 0; i < CALLS; i++) {
    r = r * UINT64_C(6364136223846793005) + 1442695040888963407u;
    which[i] = (uint32_t)(r >> 33) % live;
  }
  for (i = 0; i < 5; i++) {
    double x = play(&none, block, which);
    without = x < without ? x : without;
    x = play(&t, block, which);
    with = x < with ? x : with;
  }
  printf("%.1f %.1f\n", with - without, without);
  free(mem);
  free(block);
  free(which);
  return 0;
}
