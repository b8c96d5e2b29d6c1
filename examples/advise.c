/* cc -o advise examples/advise.c && ./advise
   6.52 GiB,  0% more operations: as it is
   4.15 GiB,  0% more operations: batch in 2 parts (--batch 1 --accumulate 2)
   4.98 GiB, 12% more operations: planned checkpoints (--checkpoint auto)
   4.45 GiB, 22% more operations: checkpointed layers (--checkpoint layers)

   What to change so that a step fits: vram_advise() plays it with each change that applies, and
   with two and three at a time. Here the first three of those that fit 5 GiB, the cheapest first,
   with the words of the command for each. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char model[] = "dim N=2 T=4096\n"
                            "input ids i64 [N,T]\n"
                            "embedding x ids num_embeddings=32000 embedding_dim=512\n"
                            "loop 8 h=x\n"
                            "  layer_norm n1 h normalized_shape=512\n"
                            "  linear q n1 out_features=512\n"
                            "  linear k n1 out_features=512\n"
                            "  linear v n1 out_features=512\n"
                            "  scaled_dot_product_attention a q k v is_causal=1\n"
                            "  linear o a out_features=512\n"
                            "  add h1 o h\n"
                            "  layer_norm n2 h1 normalized_shape=512\n"
                            "  linear up n2 out_features=2048\n"
                            "  gelu g up\n"
                            "  linear down g out_features=512\n"
                            "  add h2 down h1\n"
                            "next h=h2\n"
                            "linear logits h out_features=32000\n"
                            "cross_entropy loss logits\n";

static void *give(void *user, uint64_t bytes) {
  (void)user;
  return malloc((size_t)bytes);
}

static void take(void *user, void *memory, uint64_t bytes) {
  (void)user, (void)bytes;
  free(memory);
}

static void print(const vram_advice *a, const vram_advice_line *l) {
  const double once = (double)(l->flops - l->again); /* forward; backward has twice as many */
  uint32_t i;
  printf("%.2f GiB, %2.0f%% more operations:", (double)l->report.device_bytes.expected / 1073741824,
         100 * (double)l->again / (3 * once));
  for (i = 0; i < l->nchange; i++)
    printf("%s %s (%s)", i ? "," : "", a->alternative[l->change[i]].name,
           a->alternative[l->change[i]].options + 1);
  printf("%s\n", l->nchange ? "" : " as it is");
}

int main(void) {
  vram_allocator heap = {give, take, NULL};
  vram_advise_options o = VRAM_ZERO_INIT;
  vram_advice a;
  vram_error e;
  uint32_t i;
  o.step.budget_bytes = VRAM_GIB(5);
  o.step.step.train = 1;
  o.step.step.optimizer = VRAM_OPTIM_adamw;
  if (vram_advise(model, strlen(model), &o, &heap, &a, &e))
    return fprintf(stderr, "%s\n", e.text), 1;
  print(&a, &a.now);
  for (i = 0; i < a.nline && i < 3 && a.line[i].fits; i++)
    print(&a, &a.line[i]);
  vram_advice_free(&a, &heap);
  return 0;
}
