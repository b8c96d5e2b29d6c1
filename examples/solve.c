/* cc -o solve examples/solve.c && ./solve
   hidden layers in 16 GiB: 32 (16885710848 bytes), 33 do not fit (17391124480 bytes)

   The largest model that fits: the depth of a network is a dim of its text, and vram_solve() looks
   for the largest value. What it says is tried, and so is the next value, which does not fit. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] = "dim N=64 DEPTH=10\n"
                            "input x f32 [N,5000]\n"
                            "loop DEPTH h=x\n"
                            "  linear fc h out_features=5000\n"
                            "  relu r fc\n"
                            "next h=r\n"
                            "linear y h out_features=10\n"
                            "cross_entropy loss y\n";

static void *give(void *user, uint64_t bytes) {
  (void)user;
  return malloc((size_t)bytes);
}

static void take(void *user, void *memory, uint64_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

int main(void) {
  vram_allocator heap = {give, take, NULL};
  vram_solve_options o = VRAM_ZERO_INIT;
  vram_solution s;
  vram_error e;
  o.budget_bytes = VRAM_GIB(16);
  o.dim = "DEPTH";
  o.step.train = 1;
  o.step.optimizer = VRAM_OPTIM_adamw;
  if (vram_solve(model, strlen(model), &o, &heap, &s, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  printf("hidden layers in 16 GiB: %lld (%llu bytes), %lld do not fit (%llu bytes)\n",
         (long long)s.fits.value, (unsigned long long)s.fits.report.device_bytes.expected,
         (long long)s.next.value, (unsigned long long)s.next.report.device_bytes.expected);
  return 0;
}
