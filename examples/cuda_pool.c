/* cc -o cuda_pool examples/cuda_pool.c -ldl -lpthread && ./cuda_pool
   CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 64.00
         MiB of which 4.00 MiB is free.
     asked: 8.00 MiB, by examples/cuda_pool.c:75 main (cudaMalloc was asked for 20.00
         MiB)
     ours: 60.00 MiB reserved in 3 segments, 28.00 MiB of it allocated in 7 blocks (peak
         60.00 MiB)
     largest free block: 4.00 MiB of 32.00 MiB that is free in segments: fragmented,
         8 pieces of this stream have 32.00 MiB, the largest 4.00 MiB
     largest owners:
         28.0 MiB in 7  examples/cuda_pool.c:70 main, layers
     what would help:
     - raise the limit: 60.00 MiB allowed
     - max_split_size_mb, which keeps large segments in one piece
     - less, or an earlier free, at examples/cuda_pool.c:70 main, layers: it holds 28.00
         MiB
   29360128 bytes allocated, 62914560 reserved, 1 times out of memory

   A caching allocator over cudaMalloc, PyTorch's, and its report when memory runs out: at 60 MiB,
   which is what this program allows it. The report goes to a function of the program, which folds
   its lines. Builds with nvcc, too. */
#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "../vram_cuda.h"
#include "cuda_device.h"

static int folded(void *user, const char *bytes, size_t n) {
  int *column = (int *)user;
  for (; n; n--, bytes++) {
    const int end = *bytes == '\n' || (*bytes == ' ' && *column > 80);
    putchar(end ? '\n' : *bytes);
    *column = end ? 0 : *column + 1;
    if (end && *bytes == ' ')
      *column = printf("      ");
  }
  return 0;
}

int main(void) {
  static vram_cuda_tracker tracker;
  static vram_cuda_pool pool;
  int column = 0, i;
  vram_sink sink;
  vram_cuda_options options = VRAM_ZERO_INIT;
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  vram_memory_stats s;
  vram_cuda_api api;
  vram_error e;
  void *layer[15] = {NULL}, *large = NULL;
  uint64_t n;
  (void)pretend(&api, NULL);
  sink.write = folded;
  sink.user = &column;
  options.log = &sink;
  n = vram_cuda_tracker_bytes(&options);
  if (vram_cuda_tracker_init(&tracker, &api, &options, malloc((size_t)n), n, &e)) {
    printf("%s\n", e.text);
    return 1;
  }
  o.tracker = &tracker;
  o.blocks = 1000;
  o.pool.limit_bytes = UINT64_C(60) << 20;
  n = vram_cuda_pool_bytes(&o);
  if (vram_cuda_pool_init(&pool, &api, &o, malloc((size_t)n), n, &e)) {
    printf("%s\n", e.text);
    return 1;
  }
  for (i = 0; i < 15; i++) {
    VRAM_CUDA_TAG("layers");
    if (vram_cuda_pool_alloc(&pool, &layer[i], 4 << 20, NULL))
      return 1;
  }
  for (i = 0; i < 15; i += 2) /* every other one: what is free is in pieces */
    (void)vram_cuda_pool_free(&pool, layer[i]);
  if (!vram_cuda_pool_alloc(&pool, &large, 8 << 20, NULL))
    return 1;
  vram_cuda_pool_stats(&pool, &s);
  printf("%llu bytes allocated, %llu reserved, %llu times out of memory\n",
         (unsigned long long)s.allocated_bytes[0].current,
         (unsigned long long)s.reserved_bytes[0].current, (unsigned long long)s.num_ooms);
  for (i = 1; i < 15; i += 2)
    (void)vram_cuda_pool_free(&pool, layer[i]);
  return vram_cuda_pool_end(&pool) != 0;
}
