/* cc -o calls examples/calls.c && ./calls
   largest batch in 16 GiB: 4130 (17177214976 bytes)

   A model built by calls: how large may the batch be on a device? The answer is tried, not guessed.
 */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>

/* device_bytes of a training step with this batch; VRAM_OVERFLOW: not possible */
static uint64_t need(int64_t batch, vram_error *error) {
  static uint64_t memory[8192], scratch[16384];
  const int64_t size[4] = {batch, 3, 64, 64};
  vram_step_options o = VRAM_ZERO_INIT;
  vram_graph g;
  vram_report r;
  vram_value *x;
  vram_graph_init(&g, memory, sizeof memory);
  x = vram_graph_input(&g, "x", VRAM_F32, 4, size, 0);
  /* the first error stays in the graph: no call needs a check of its own */
  x = vram_node_output(
      vram_graph_apply(&g, VRAM_OP_conv2d, "c", &x, 1, "out_channels=64 kernel_size=3"), 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_batch_norm, "b", &x, 1, NULL), 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_relu, "r", &x, 1, "inplace=1"), 0);
  x = vram_node_output(
      vram_graph_apply(&g, VRAM_OP_adaptive_avg_pool2d, "p", &x, 1, "output_size=1"), 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_flatten, "f", &x, 1, "start_dim=1"), 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_linear, "y", &x, 1, "out_features=10"), 0);
  vram_graph_apply(&g, VRAM_OP_cross_entropy, "loss", &x, 1, NULL);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  if (vram_step(&g, &o, scratch, sizeof scratch, &r, error))
    return VRAM_OVERFLOW;
  return r.device_bytes.expected;
}

int main(void) {
  const uint64_t budget = VRAM_GIB(16);
  int64_t fits = 0, too_many = 1;
  vram_error e;
  if (need(1, &e) == VRAM_OVERFLOW)
    return fprintf(stderr, "%s\n", e.text), 1;
  while (need(too_many, &e) <= budget)
    too_many *= 2;
  while (too_many - fits > 1) {
    int64_t middle = fits + (too_many - fits) / 2;
    if (need(middle, &e) <= budget)
      fits = middle;
    else
      too_many = middle;
  }
  printf("largest batch in 16 GiB: %lld (%llu bytes)\n", (long long)fits,
         (unsigned long long)need(fits, &e));
  return 0;
}
