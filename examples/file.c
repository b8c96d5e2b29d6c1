/* cc -o file examples/file.c && ./file examples/models/resnet50.vram
   forward    1681725968 bytes at its end, 1682774536 at most
   backward    418759340 bytes at its end, 1723603472 at most
   optimizer   418759340 bytes at its end,  520987468 at most

   A model in the text form from a file: the phases of a training step. A bad file is reported with
   line and column. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>

static char text[1 << 20];

int main(int argc, char **argv) {
  static const char *const name[] = {"forward", "backward", "optimizer"};
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  vram_step_options o = VRAM_ZERO_INIT;
  vram_graph g;
  vram_report r;
  vram_error e;
  uint64_t length, n;
  void *memory, *scratch;
  int i;
  if (!file)
    return fprintf(stderr, "usage: file MODEL.vram\n"), 2;
  length = fread(text, 1, sizeof text, file);
  fclose(file);

  n = vram_graph_parse_bytes(text, length, NULL, 0);
  memory = malloc((size_t)n);
  vram_graph_init(&g, memory, n);
  if (vram_graph_parse(&g, text, length, NULL, 0, &e))
    return fprintf(stderr, "%s:%u:%u: %s\n", argv[1], e.line, e.column, e.text), 2;

  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  n = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)n);
  if (vram_step(&g, &o, scratch, n, &r, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  for (i = 0; i < 3; i++) {
    const vram_phase_report *p = &r.phase[VRAM_PHASE_FORWARD + i];
    printf("%-9s %11llu bytes at its end, %10llu at most\n", name[i],
           (unsigned long long)p->requested_bytes, (unsigned long long)p->requested_peak_bytes);
  }
  free(scratch);
  free(memory);
  return 0;
}
