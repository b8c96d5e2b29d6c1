/* Models as lines: every graph of the tests gives lines that count and plan, or an error that names
   the node; the same lines in memory of any content and alignment. The figures themselves: part
   emit. */
#include "test.h"

#include "../vram.h"

static void *need(uint64_t bytes) {
  void *p = malloc((size_t)bytes);
  if (!p)
    abort();
  return p;
}

static char *read_file(const char *path, uint64_t *len) {
  FILE *f = fopen(path, "rb");
  char *text = (char *)need(1 << 20);
  if (!f)
    abort();
  *len = fread(text, 1, 1 << 20, f);
  fclose(f);
  return text;
}

static int same_line(const vram_net_line *a, const vram_net_line *b) {
  uint32_t i;
  int same = a->kind == b->kind && a->format == b->format && a->padding == b->padding &&
             a->pad_h == b->pad_h && a->pad_w == b->pad_w && a->node == b->node;
  for (i = 0; i < VRAM_NET_ARGS; i++)
    same = same && a->arg[i] == b->arg[i];
  for (i = 0; i < VRAM_NET_KEPT; i++)
    same = same && !a->kept[i] == !b->kept[i] && (!a->kept[i] || !strcmp(a->kept[i], b->kept[i]));
  return same && !strcmp(a->y, b->y);
}

static void plan(vram_net *net) {
  vram_arena_options o = VRAM_ZERO_INIT;
  vram_arena a;
  vram_error e;
  uint64_t bytes;
  void *scratch;
  o.greedy = 1;
  o.align = net->align;
  bytes = vram_net_plan_bytes(net, &o);
  scratch = need(bytes);
  if (EQUAL(vram_net_plan(net, &o, scratch, bytes, &e), VRAM_OK)) {
    const uint64_t more = vram_arena_bytes(net->nbuffer, &o);
    void *again = need(more);
    CHECK(net->arena.height_bytes >= net->peak_live_bytes);
    EQUAL(net->arena.lower_bound_bytes, net->peak_live_bytes);
    EQUAL(vram_arena_verify(net->buffer, net->nbuffer, &o, again, more, &a, &e), VRAM_OK);
    free(again);
  }
  free(scratch);
}

static int lower(const vram_graph *g, const vram_net_lower_options *o) {
  const uint64_t bytes = vram_net_lower_bytes(g);
  uint8_t *first = (uint8_t *)need(bytes), *second = (uint8_t *)need(bytes + 1);
  vram_net a, b;
  vram_error e, f;
  uint32_t i;
  const vram_result r = vram_net_lower(g, o, first, bytes, &a, &e);
  memset(second, 0xa5, (size_t)bytes + 1);
  EQUAL(vram_net_lower(g, o, second + 1, bytes, &b, &f), r);
  EQUAL(vram_net_lower(g, o, second, bytes - 1, &b, &f), VRAM_ERR_MEMORY);
  vram_net_lower(g, o, second + 1, bytes, &b, &f);
  if (r) {
    CHECK(r == VRAM_ERR_UNSUPPORTED || r == VRAM_ERR_LIMIT);
    EQUAL(e.code, r);
    CHECK(e.text[0] != 0);
    TEXT(f.text, e.text);
  } else {
    EQUAL(a.nline, b.nline);
    for (i = 0; i < a.nline && i < b.nline; i++)
      CHECK(same_line(a.line + i, b.line + i));
    EQUAL(a.line[a.nline - 1].kind, VRAM_LINE_END);
    if (EQUAL(vram_net_count(&a, &e), VRAM_OK))
      plan(&a);
    else
      printf("    %s\n", e.text);
  }
  free(second);
  free(first);
  return !r;
}

int main(int argc, char **argv) {
  unsigned long lowered = 0;
  int i;
  for (i = 1; i < argc; i++) {
    uint64_t len, bytes;
    char *text = read_file(argv[i], &len);
    vram_graph g;
    vram_error e;
    void *mem;
    snprintf(test_where, sizeof test_where, "%s", argv[i]);
    bytes = vram_graph_parse_bytes(text, len, NULL, 0);
    mem = need(bytes);
    vram_graph_init(&g, mem, bytes);
    if (!vram_graph_parse(&g, text, len, NULL, 0, &e)) {
      vram_net_lower_options o = VRAM_ZERO_INIT;
      o.name = "n";
      lowered += (unsigned long)lower(&g, &o);
      o.format = VRAM_FORMAT_I8;
      o.align = 64;
      o.kernels = VRAM_KERNELS_MVE;
      o.no_fold = o.no_fuse = i % 2;
      lower(&g, &o);
    }
    free(mem);
    free(text);
  }
  snprintf(test_where, sizeof test_where, "all");
  CHECK(argc < 20 || lowered > (unsigned long)argc / 3);
  return test_done("test_lower");
}
