/* cc -o custom examples/custom.c && ./custom
   scan: 16384 parameters, 2097152 bytes saved for backward
   step: 1117184 bytes of parameters, 136314880 saved for backward, peak 307963916

   A layer of your own: `custom` says what your kernel's autograd function takes, here a scan over
   time that keeps 64 bytes for each row and needs 4 KiB of workspace for each sample. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] =
    "dim N=32 T=1024\n"
    "input x f32 [N,T,256]\n"
    "linear in x out_features=512\n"
    "custom scan in shape=[N,T,512] params=16384 saved=N*T*64 workspace=N*4096\n"
    "linear y scan out_features=256\n"
    "mse_loss loss y\n";

int main(void) {
  vram_step_options o = VRAM_ZERO_INIT;
  vram_node_report *layers;
  const vram_node *node;
  vram_graph g;
  vram_report r;
  vram_error e;
  uint64_t n = vram_graph_parse_bytes(model, strlen(model), NULL, 0);
  void *memory = malloc((size_t)n), *scratch;
  vram_graph_init(&g, memory, n);
  if (vram_graph_parse(&g, model, strlen(model), NULL, 0, &e))
    return fprintf(stderr, "%u:%u: %s\n", e.line, e.column, e.text), 1;
  layers = (vram_node_report *)calloc(g.nnode, sizeof *layers);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  o.nodes = layers;
  n = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)n);
  if (vram_step(&g, &o, scratch, n, &r, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  for (node = g.first; node; node = node->next)
    if (node->op == VRAM_OP_custom)
      printf("scan: %llu parameters, %llu bytes saved for backward\n",
             (unsigned long long)layers[node->index].params,
             (unsigned long long)layers[node->index].saved_bytes);
  printf("step: %llu bytes of parameters, %llu saved for backward, peak %llu\n",
         (unsigned long long)r.params_bytes, (unsigned long long)r.saved_bytes,
         (unsigned long long)r.peak_requested_bytes);
  free(scratch);
  free(layers);
  free(memory);
  return 0;
}
