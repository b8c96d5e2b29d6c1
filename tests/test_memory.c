/* Memory that is too short at every possible place: a clean VRAM_ERR_MEMORY, nothing written beside
   it, and the same result as ever once it is enough.
   usage: test_memory TEXT... */
#include "play.h"

#define GUARD (size_t)64
#define FILL 0xA5

/* `bytes` bytes at an address that is `shift` beyond a multiple of 16, between guards. */
typedef struct block {
  uint8_t *base, *at;
  size_t bytes;
} block;

static block block_new(size_t bytes, size_t shift) {
  block b;
  b.base = (uint8_t *)malloc(bytes + 2 * GUARD + 16);
  if (!b.base)
    abort();
  memset(b.base, FILL, bytes + 2 * GUARD + 16);
  b.at = b.base + GUARD + shift;
  b.bytes = bytes;
  return b;
}

static int block_clean(const block *b, size_t shift) {
  size_t i;
  int ok = 1;
  for (i = 0; i < GUARD + shift; i++)
    ok &= b->base[i] == FILL;
  for (i = 0; i < GUARD + 16 - shift; i++)
    ok &= b->at[b->bytes + i] == FILL;
  return ok;
}

/* Sizes to try below `need`: all of them, or about 1500 that are spread evenly, and its end. */
static size_t next_size(size_t size, size_t need) {
  size_t step = need / 1500 + 1;
  return size + step >= need && size + 1 < need ? (size < need - 24 ? need - 24 : size + 1)
                                                : size + step;
}

/* A graph is read into so many bytes of a block: its result, and how many nodes it has. */
static vram_result graph_in(const char *text, size_t len, size_t bytes, uint32_t *nnode) {
  block b = block_new(bytes, 0);
  vram_graph g;
  vram_error e;
  vram_result r;
  vram_graph_init(&g, b.at, b.bytes);
  r = vram_graph_parse(&g, text, len, NULL, 0, &e);
  CHECK(block_clean(&b, 0));
  CHECK(g.used <= g.cap && g.cap <= bytes);
  *nnode = g.nnode;
  free(b.base);
  return r;
}

static void graphs(const char *text, size_t len) {
  vram_graph g;
  vram_error e;
  block b;
  size_t least = 0, need = (size_t)vram_graph_parse_bytes(text, len, NULL, 0), size, shift;
  uint32_t nnode, n;
  if (graph_in(text, len, need, &nnode)) /* test_step says so */
    return;
  while (need - least > 1) { /* the graph itself and the names, which it needs to be read */
    size = least + (need - least) / 2;
    if (graph_in(text, len, size, &n))
      least = size;
    else
      need = size;
  }
  for (shift = 0; shift < 16; shift += shift ? 7 : 1) {
    /* a buffer of an odd address may lose the bytes up to the next multiple of 8 */
    for (size = 0; size <= need + 8; size = next_size(size, need + 8)) {
      vram_result r;
      int clean;
      b = block_new(size, shift);
      memset(&g, FILL, sizeof g);
      vram_graph_init(&g, b.at, size);
      r = vram_graph_parse(&g, text, len, NULL, 0, &e);
      clean = block_clean(&b, shift);
      if (!clean)
        FAIL("nothing is written beside the graph's memory");
      if (r == VRAM_OK ? size < need || g.nnode != nnode
                       : r != VRAM_ERR_MEMORY || e.code != r || !e.text[0] || size >= need + 8) {
        printf("  %lu of %lu bytes, shift %lu: %s\n", (unsigned long)size, (unsigned long)need,
               (unsigned long)shift, e.text);
        FAIL("too small a graph is VRAM_ERR_MEMORY");
      } else
        test_passed++;
      free(b.base);
    }
  }
  /* no memory at all */
  vram_graph_init(&g, NULL, 0);
  EQUAL(vram_graph_parse(&g, text, len, NULL, 0, &e), VRAM_ERR_MEMORY);
}

static void steps(const char *text, size_t len, const char *mode, const vram_pool_options *replay) {
  play p;
  uint64_t want;
  size_t need, size, shift = 3;
  vram_step_options o;
  vram_range ranges[64];
  vram_report whole;
  memset(&p, 0, sizeof p);
  if (!NEED(play_mode(mode, &o)) || play_parse(&p, text, len, NULL, 0) ||
      !NEED(play_options(text, &p.graph, &o, ranges, 64)) || (o.replay = replay, 0) ||
      play_step(&p, &o) == VRAM_ERR_UNSUPPORTED || !NEED(p.error.code == VRAM_OK)) {
    play_end(&p);
    return;
  }
  want = play_hash(&p);
  whole = p.report;
  need = (size_t)whole.scratch_used;
  CHECK(need <= vram_step_bytes(&p.graph, &o));
  o.event = play_record;
  o.user = &p;
  for (size = 0; size <= need + 16; size = next_size(size, need + 16)) {
    block b = block_new(size, shift);
    vram_result r;
    p.count = 0;
    r = vram_step(&p.graph, &o, b.at, size, &p.report, &p.error);
    if (!block_clean(&b, shift))
      FAIL("nothing is written beside the scratch memory");
    if (r == VRAM_OK
            ? play_hash(&p) != want
            : r != VRAM_ERR_MEMORY || p.error.code != r || !p.error.text[0] || size >= need + 16) {
      printf("  %s: %lu of %lu bytes: %s\n", mode, (unsigned long)size, (unsigned long)need,
             p.error.text);
      FAIL("too small a scratch is VRAM_ERR_MEMORY");
    } else
      test_passed++;
    free(b.base);
  }
  /* the live set too, which needs no replay */
  if (!replay) {
    block b = block_new(need / 2, shift);
    uint32_t count = 7;
    vram_live live[4];
    EQUAL(vram_step_live(&p.graph, &o, b.at, b.bytes, &whole, live, 4, &count), VRAM_ERR_MEMORY);
    EQUAL(count, 0);
    CHECK(block_clean(&b, shift));
    free(b.base);
  }
  EQUAL(vram_step(&p.graph, &o, NULL, 0, &p.report, &p.error), VRAM_ERR_MEMORY);
  play_end(&p);
}

int main(int argc, char **argv) {
  static const char *const modes[] = {"infer",
                                      "train_fp32_sgd",
                                      "train_amp_fp16_adamw",
                                      "train_bf16_adamw",
                                      "train_fp32_adamw_accumulate2",
                                      "train_fp32_adamw_keepgrads.first"};
  vram_pool_options pool;
  int i;
  size_t k, len = 0;
  memset(&pool, 0, sizeof pool);
  for (i = 1; i < argc; i++) {
    char *text = play_file(argv[i], &len);
    if (!NEED(text != NULL))
      continue;
    snprintf(test_where, sizeof test_where, "%s", argv[i]);
    graphs(text, len);
    for (k = 0; k < sizeof modes / sizeof *modes; k++)
      steps(text, len, modes[k], NULL);
    steps(text, len, "infer", &pool);
    steps(text, len, "train_amp_bf16_adamw", &pool);
    free(text);
  }
  *test_where = 0;
  return test_done("test_memory");
}
