/* cc -o budget examples/budget.c && ./budget
   saved for backward 1084420 bytes, peak 40728744 bytes */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>

/* compile time: two layers of a small network fit into 64 KiB of flash, or this file does not
 * compile */
#define WEIGHTS (VRAM_CONV2D_PARAMS(1, 8, 3, 3, 1, 1) + VRAM_LINEAR_PARAMS(8 * 14 * 14, 10, 1))
VRAM_STATIC_ASSERT(VRAM_BYTES(F32, WEIGHTS) <= VRAM_KIB(64), weights_fit_flash);

/* run time: one training step of a model in the text form */
static const char model[] = "dim N=64\n"
                            "input x f32 [N,784]\n"
                            "linear h x out_features=512\n"
                            "relu r h inplace=1\n"
                            "dropout d r p=0.2\n"
                            "linear y d out_features=10\n"
                            "cross_entropy loss y\n";

int main(void) {
  vram_graph g;
  vram_report r;
  vram_error e;
  vram_dim batch = {NULL, 256}; /* NULL: the first dim */
  vram_step_options o = VRAM_ZERO_INIT;
  uint64_t n = vram_graph_parse_bytes(model, sizeof model - 1, &batch, 1);
  void *memory = malloc(n), *scratch;
  vram_graph_init(&g, memory, n);
  if (vram_graph_parse(&g, model, sizeof model - 1, &batch, 1, &e))
    return printf("%u:%u: %s\n", e.line, e.column, e.text), 1;
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  o.amp = VRAM_BF16;
  n = vram_step_bytes(&g, &o);
  scratch = malloc(n);
  if (vram_step(&g, &o, scratch, n, &r, &e))
    return printf("%s\n", e.text), 1;
  printf("saved for backward %llu bytes, peak %llu bytes\n", (unsigned long long)r.saved_bytes,
         (unsigned long long)r.peak_requested_bytes);
  free(scratch);
  free(memory);
  return 0;
}
