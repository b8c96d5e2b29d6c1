/* cc -o two_units examples/two_units.c examples/two_units_vram.c && ./two_units
   a linear layer of 4096 to 4096: 67125248 bytes of parameters, 134250496 of AdamW state

   vram.h in a program of several files: this one uses it, two_units_vram.c holds the code. */
#include "../vram.h"
#include <stdio.h>

int main(void) {
  static uint64_t memory[1024], scratch[2048];
  const int64_t size[2] = {8, 4096};
  vram_step_options o = VRAM_ZERO_INIT;
  vram_graph g;
  vram_report r;
  vram_error e;
  vram_value *x;
  vram_graph_init(&g, memory, sizeof memory);
  x = vram_graph_input(&g, "x", VRAM_F32, 2, size, 0);
  x = vram_node_output(vram_graph_apply(&g, VRAM_OP_linear, "y", &x, 1, "out_features=4096"), 0);
  vram_graph_apply(&g, VRAM_OP_mse_loss, "loss", &x, 1, NULL);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  if (vram_step(&g, &o, scratch, sizeof scratch, &r, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  printf("a linear layer of 4096 to 4096: %llu bytes of parameters, %llu of AdamW state\n",
         (unsigned long long)r.params_bytes, (unsigned long long)r.optimizer_bytes);
  return 0;
}
