/* Bytes -> lines of a network -> figures -> a plan, in memory that is just enough.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/lines.c \
     build/fuzz/tool.a -ldl -o build/fuzz-lines
   build/fuzz-lines -dict=build/lines.dict build/corpus tests/fuzz/corpus/lines tests/embedded */
#include "../../vram.h"

#include "fuzz.h"

/* A text of one line, and a place inside the text. */
static void check_error(vram_result code, const vram_error *e, const char *text, size_t size) {
  const char *at = text;
  uint32_t line;
  MUST(code == e->code && e->text[0]);
  MUST(memchr(e->text, 0, sizeof e->text) && !strchr(e->text, '\n'));
  for (line = 1; line < e->line; line++) {
    at = (const char *)memchr(at, '\n', (size_t)(text + size - at));
    MUST(at);
    at++;
  }
  MUST(e->line && e->column && (size_t)(text + size - at) + 1 >= e->column);
}

/* What the figures must be to each other. */
static void check_net(vram_net *net, const char *text, size_t size) {
  vram_arena_options o;
  vram_arena again;
  vram_error e;
  uint64_t bytes, sum = 0;
  vram_result r = vram_net_count(net, &e);
  void *scratch;
  uint32_t i;
  if (r) {
    check_error(r, &e, text, size);
    return;
  }
  memset(&o, 0, sizeof o);
  o.nodes = 200;
  bytes = vram_net_plan_bytes(net, &o);
  scratch = malloc((size_t)bytes);
  MUST(scratch);
  for (i = 0; i < net->nline; i++) {
    const vram_net_line *l = net->line + i;
    sum += l->flash_bytes;
    MUST(l->weight_bytes <= l->flash_bytes && sum == l->total_flash_bytes);
    MUST(l->live_bytes <= net->peak_live_bytes && l->scratch_bytes <= l->live_bytes);
    MUST(l->out_bytes <= net->pingpong_bytes && l->buffer < net->nbuffer);
  }
  MUST(net->line[net->peak_line].live_bytes == net->peak_live_bytes);
  r = vram_net_plan(net, &o, scratch, bytes, &e);
  if (r)
    MUST(r == VRAM_ERR_OVERFLOW); /* all buffers one after the other */
  else {
    vram_buffer *b = (vram_buffer *)malloc(net->nbuffer * sizeof *b);
    MUST(b);
    memcpy(b, net->buffer, net->nbuffer * sizeof *b);
    MUST(net->arena.height_bytes >= net->peak_live_bytes);
    o.align = net->align;
    MUST(!vram_arena_verify(b, net->nbuffer, &o, scratch, bytes, &again, &e));
    MUST(again.height_bytes == net->arena.height_bytes);
    MUST(again.lower_bound_bytes == net->peak_live_bytes);
    free(b);
  }
  free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *text = (char *)malloc(size + 1);
  const uint64_t bytes = vram_net_read_bytes((const char *)data, size);
  void *lines = malloc((size_t)bytes);
  vram_net net;
  vram_error e;
  vram_result r;
  MUST(text && lines && size < 1 << 20);
  memcpy(text, data, size);
  r = vram_net_read(text, size, NULL, lines, bytes, &net, &e);
  if (r)
    check_error(r, &e, text, size);
  else
    check_net(&net, text, size);
  free(lines);
  free(text);
  return 0;
}
