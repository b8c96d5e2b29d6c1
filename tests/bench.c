/* Speed and size, medians of many runs: make bench
   usage: bench MODEL.vram [ROUNDS] */
#define _POSIX_C_SOURCE 199309L
#define VRAM_IMPLEMENTATION
#define VRAM_STATIC
#include "../vram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
  size_t cap = (size_t)1 << 28, n;
  char *text = (char *)malloc(cap);
  int rounds = argc > 2 ? atoi(argv[2]) : 201, i;
  double *tp = (double *)malloc(sizeof(double) * (size_t)rounds),
         *ts = (double *)malloc(sizeof(double) * (size_t)rounds);
  uint64_t mb = (uint64_t)4 << 30, sb;
  void *mem = malloc(mb), *scratch;
  vram_graph g;
  vram_error e;
  vram_report r;
  vram_step_options o;
  if (!f)
    return 2;
  n = fread(text, 1, cap, f);
  memset(&o, 0, sizeof o);
  o.train = 1;
  if (argc > 3)
    o.amp = VRAM_BF16;
  for (i = 0; i < rounds; i++) {
    double t = now();
    vram_graph_init(&g, mem, mb);
    if (vram_parse(&g, text, n, NULL, 0, &e))
      return printf("%u: %s\n", e.line, e.text), 1;
    tp[i] = now() - t;
  }
  sb = vram_step_bytes(&g, &o);
  scratch = malloc(sb);
  for (i = 0; i < rounds; i++) {
    double t = now();
    if (vram_step(&g, &o, scratch, sb, &r, &e))
      return printf("%s\n", e.text), 1;
    ts[i] = now() - t;
  }
  qsort(tp, (size_t)rounds, sizeof *tp, by_value);
  qsort(ts, (size_t)rounds, sizeof *ts, by_value);
  printf("%s: %u nodes, parse %.1f us (%.0f ns a node, %.0f B a node), step %.1f us (%.0f ns a "
         "node), %llu events, %.0f B scratch a node of %.0f\n",
         argv[1], g.nnode, tp[rounds / 2], tp[rounds / 2] * 1e3 / g.nnode, (double)g.used / g.nnode,
         ts[rounds / 2], ts[rounds / 2] * 1e3 / g.nnode, (unsigned long long)r.events,
         (double)r.scratch_used / g.nnode, (double)sb / g.nnode);
  return 0;
}
