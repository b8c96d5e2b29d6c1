/* cc -o arena examples/arena.c && ./arena
   image    at    98304, 27648 bytes, layers 0 to 0
   conv1    at        0, 98304 bytes, layers 0 to 1
   columns  at   147456, 16384 bytes, layers 1 to 1
   conv2    at    98304, 49152 bytes, layers 1 to 3
   conv3    at        0, 49152 bytes, layers 2 to 3
   sum      at    49152, 49152 bytes, layers 3 to 4
   scores   at        0,    40 bytes, layers 4 to 4
   163840 bytes instead of 289832, the least there is: yes

   Buffers of a small network in one array: sizes and lifetimes are known, so the offsets are, too.
   No malloc: the planner's scratch is an array as well. `vram arena` does the same from a file and
   writes the offsets as a C header. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>

#define N 7

int main(void) {
  static const char *const name[N] = {"image", "conv1", "columns", "conv2",
                                      "conv3", "sum",   "scores"};
  static const uint64_t bytes[N] = {27648, 98304, 16384, 49152, 49152, 49152, 40};
  static const uint64_t first[N] = {0, 0, 1, 1, 2, 3, 4}, last[N] = {0, 1, 1, 3, 3, 4, 4};
  static uint64_t scratch[4096];
  vram_buffer b[N] = VRAM_ZERO_INIT;
  vram_arena_options o = VRAM_ZERO_INIT;
  vram_arena a;
  vram_error e;
  uint64_t sum = 0;
  int i;
  for (i = 0; i < N; i++) {
    b[i].bytes = bytes[i];
    b[i].begin = first[i];
    b[i].end = last[i] + 1; /* lifetimes are half open */
    sum += bytes[i];
  }
  o.align = 64;
  if (vram_arena_plan(b, N, &o, scratch, sizeof scratch, &a, &e) ||
      vram_arena_verify(b, N, &o, scratch, sizeof scratch, NULL, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  for (i = 0; i < N; i++)
    printf("%-8s at %8llu, %5llu bytes, layers %llu to %llu\n", name[i],
           (unsigned long long)b[i].offset, (unsigned long long)bytes[i],
           (unsigned long long)first[i], (unsigned long long)last[i]);
  printf("%llu bytes instead of %llu, the least there is: %s\n", (unsigned long long)a.height_bytes,
         (unsigned long long)sum, a.proven ? "yes" : "not proven");
  return 0;
}
