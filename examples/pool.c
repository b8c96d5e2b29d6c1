/* cc -o pool examples/pool.c && ./pool
   step 1: 5 allocations, 3 from malloc, 35651584 bytes reserved
   step 2: 10 allocations, 3 from malloc, 35651584 bytes reserved
   largest free block 20971520 bytes; after empty_cache 0 bytes reserved

   A caching allocator over malloc: buffers of a step are there again in the next one. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>

/* addresses of a backend are multiples of 512: what malloc gave stands before the segment */
static uint64_t host_alloc(void *user, uint64_t bytes, uint64_t stream) {
  char *raw = (char *)malloc((size_t)bytes + 512 + sizeof raw), *at;
  (void)user, (void)stream;
  if (!raw)
    return 0;
  at = raw + sizeof raw;
  at += 512 - (uintptr_t)at % 512;
  ((void **)(void *)at)[-1] = raw;
  return (uint64_t)(uintptr_t)at;
}

static void host_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)user, (void)bytes, (void)stream;
  free(((void **)(uintptr_t)address)[-1]);
}

int main(void) {
  static const uint64_t sizes[5] = {4000, 12000000, 600000, 3000000, 17000000};
  const uint64_t bytes = vram_pool_bytes(100, 1);
  vram_backend host = VRAM_ZERO_INIT;
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_pool pool;
  vram_error e;
  void *mem = malloc((size_t)bytes);
  uint64_t buffer[5];
  int step, i;
  host.alloc = host_alloc;
  host.free = host_free;
  o.streams = 1;
  if (!mem || vram_pool_init(&pool, &o, &host, mem, bytes, &e))
    return 1;
  for (step = 1; step <= 2; step++) {
    for (i = 0; i < 5; i++)
      if (vram_pool_alloc(&pool, sizes[i], 0, &buffer[i]))
        return 1;
    ((float *)(uintptr_t)buffer[1])[0] = 1; /* it is memory */
    for (i = 0; i < 5; i++)
      vram_pool_free(&pool, buffer[i]);
    printf("step %d: %d allocations, %d from malloc, %llu bytes reserved\n", step,
           (int)pool.stats.allocation[VRAM_POOL_ALL].allocated, (int)pool.stats.num_device_alloc,
           (unsigned long long)pool.stats.reserved_bytes[VRAM_POOL_ALL].current);
  }
  printf("largest free block %llu bytes; ",
         (unsigned long long)vram_pool_largest_free(&pool, NULL));
  vram_pool_empty_cache(&pool);
  printf("after empty_cache %llu bytes reserved\n",
         (unsigned long long)pool.stats.reserved_bytes[VRAM_POOL_ALL].current);
  free(mem);
  return 0;
}
