/* A program that uses a pool and nothing else: what else vram.h has may not be in it. */
#define VRAM_IMPLEMENTATION
#define VRAM_STATIC
#include "../../vram.h"
int main(int argc, char **argv) {
  static uint64_t memory[1 << 16];
  vram_pool pool;
  vram_backend backend = VRAM_ZERO_INIT;
  uint64_t address;
  (void)argv;
  if (vram_pool_init(&pool, NULL, &backend, memory, sizeof memory, NULL) ||
      vram_pool_alloc(&pool, (uint64_t)argc, 0, &address))
    return 1;
  return (int)vram_pool_free(&pool, address);
}
