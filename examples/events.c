/* cc -o events examples/events.c && ./events
   39 allocations, 23 frees; largest: 33554432 bytes in backward at y
   counted peak equals the report's: yes

   Every allocation and free of a step, in order, goes to a function of yours. Here it counts. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] = "input x f32 [1024,784]\n"
                            "linear h x out_features=4096\n"
                            "relu r h\n"
                            "linear y r out_features=10\n"
                            "cross_entropy loss y\n";

typedef struct counter {
  uint64_t allocations, frees, live, peak;
  vram_event largest;
} counter;

static void count(void *user, const vram_event *e) {
  counter *c = (counter *)user;
  if (e->action == VRAM_ACTION_FREE) {
    c->frees++;
    c->live -= e->bytes;
    return;
  }
  c->allocations++;
  c->live += e->bytes;
  if (c->live > c->peak)
    c->peak = c->live;
  if (e->bytes > c->largest.bytes)
    c->largest = *e;
}

int main(void) {
  static const char *const phase[] = {"zero_grad", "forward", "backward", "optimizer", "end"};
  vram_step_options o = VRAM_ZERO_INIT;
  counter c = VRAM_ZERO_INIT;
  char name[VRAM_MAX_NAME + 1];
  vram_graph g;
  vram_report r;
  vram_error e;
  uint64_t n = vram_graph_parse_bytes(model, strlen(model), NULL, 0);
  void *memory = malloc((size_t)n), *scratch;
  vram_graph_init(&g, memory, n);
  if (vram_graph_parse(&g, model, strlen(model), NULL, 0, &e))
    return fprintf(stderr, "%u:%u: %s\n", e.line, e.column, e.text), 1;
  o.train = 1;
  o.first_step = 1; /* begins with parameters and inputs alone */
  o.optimizer = VRAM_OPTIM_adamw;
  n = vram_step_bytes(&g, &o);
  scratch = malloc((size_t)n);
  if (vram_step(&g, &o, scratch, n, &r, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  c.live = r.params_bytes + r.inputs_bytes;
  o.event = count;
  o.user = &c;
  vram_step(&g, &o, scratch, n, &r, &e);
  vram_node_name(c.largest.node, name, sizeof name);
  printf("%llu allocations, %llu frees; largest: %llu bytes in %s at %s\n",
         (unsigned long long)c.allocations, (unsigned long long)c.frees,
         (unsigned long long)c.largest.bytes, phase[c.largest.phase], name);
  printf("counted peak equals the report's: %s\n", c.peak == r.peak_requested_bytes ? "yes" : "no");
  free(scratch);
  free(memory);
  return c.peak != r.peak_requested_bytes;
}
