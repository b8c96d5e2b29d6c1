/* The peak of a training step, with the library that FetchContent brought. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vram.h>

int main(void) {
  static const char text[] =
      "input x f32 [64,784]\nlinear y x out_features=10\ncross_entropy l y\n";
  vram_step_options o = VRAM_ZERO_INIT;
  vram_graph g;
  vram_report r;
  uint64_t n = vram_graph_parse_bytes(text, strlen(text), NULL, 0);
  void *memory = malloc((size_t)n), *scratch;
  vram_graph_init(&g, memory, n);
  if (vram_graph_parse(&g, text, strlen(text), NULL, 0, NULL))
    return 1;
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  n = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)n);
  if (vram_step(&g, &o, scratch, n, &r, NULL))
    return 1;
  printf("parameters %lu, gradients %lu, optimizer %lu\n", (unsigned long)r.params_bytes,
         (unsigned long)r.gradients_bytes, (unsigned long)r.optimizer_bytes);
  free(scratch);
  free(memory);
  return 0;
}
