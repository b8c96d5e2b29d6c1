/* Bytes -> parser -> steps in several modes, in memory that may be too small.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/parse.c \
     build/fuzz/tool.a -ldl -o build/fuzz-parse
   build/fuzz-parse -dict=build/vram.dict build/corpus tests/fuzz/corpus/parse */
#include "../../vram.h"

#include "fuzz.h"

/* Requested bytes that are allocated now; a free of what is not there is seen as a wrap. */
static void event(void *user, const vram_event *e) {
  int64_t *live = (int64_t *)user;
  if (e->action != VRAM_ACTION_BECOMES)
    *live += e->action == VRAM_ACTION_ALLOC ? (int64_t)e->bytes : -(int64_t)e->bytes;
}

/* A code, a text of one line and a place inside the text, or none of them. */
static void check_error(vram_result code, const vram_error *e, const char *text, size_t size) {
  MUST(code == e->code && (code == VRAM_OK) == (e->text[0] == 0));
  MUST(memchr(e->text, 0, sizeof e->text) && !strchr(e->text, '\n'));
  if (e->line) {
    const char *at = text;
    uint32_t line = 1;
    for (; line < e->line; line++) {
      at = (const char *)memchr(at, '\n', (size_t)(text + size - at));
      MUST(at);
      at++;
    }
    MUST(e->column >= 1 && (size_t)(text + size - at) + 1 >= e->column);
    MUST(e->column == 1 || !memchr(at, '\n', e->column - 1));
  }
}

/* One step; `choice` decides about its options. */
static void step(const vram_graph *g, int i, const uint8_t *choice) {
  vram_error e;
  vram_report r;
  vram_step_options o;
  vram_result code;
  uint64_t want;
  int64_t live = 0;
  void *scratch;
  memset(&o, 0, sizeof o);
  o.train = i > 0;
  o.optimizer = (vram_optimizer)(choice[3] % VRAM_OPTIM_COUNT);
  o.amp = i == 2 ? choice[3] & 1 ? VRAM_BF16 : VRAM_F16 : 0;
  o.dtype = i == 1 && choice[0] & 8 ? VRAM_BF16 : 0;
  o.first_step = choice[0] >> 4 & 1;
  o.accumulate = choice[0] >> 5 & 1 ? 3 : 0;
  o.keep_grads = choice[0] >> 6 & 1;
  o.cc = choice[0] >> 7 ? 75 : 0;
  o.checkpoint_segments = i == 1 && choice[0] & 4 ? 1 + choice[3] % 4u : 0;
  o.reentrant = choice[3] & 2;
  o.rules = (vram_rules)(choice[1] % VRAM_RULES_COUNT);
  o.event = event;
  o.user = &live;
  want = vram_step_bytes(g, &o);
  if (choice[0] & 2)
    want = want / 256 * choice[2];
  if (want > (uint64_t)1 << 26)
    return;
  scratch = malloc((size_t)want);
  MUST(scratch || !want);
  code = vram_step(g, &o, scratch, want, &r, &e);
  MUST(code == e.code && (code == VRAM_OK) == (e.text[0] == 0));
  MUST(code != VRAM_ERR_MEMORY || choice[0] & 2);
  if (code == VRAM_OK) {
    MUST(r.peak_allocated_bytes.expected >= r.peak_requested_bytes &&
         r.peak_allocated_bytes.lower <= r.peak_allocated_bytes.expected &&
         r.peak_allocated_bytes.upper >= r.peak_allocated_bytes.expected);
    MUST(live <= (int64_t)r.peak_requested_bytes);
  }
  free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  uint8_t choice[4];
  uint32_t hash = 2166136261u;
  uint64_t bytes, need;
  size_t i;
  void *mem[2];
  char *text;
  vram_graph g[2];
  vram_error e[2];
  vram_result code = VRAM_OK;
  if (size > 20000)
    return 0;
  for (i = 0; i < size; i++) /* so that a file of the tests is an input as it is */
    hash = (hash ^ data[i]) * 16777619u;
  for (i = 0; i < 4; i++)
    choice[i] = (uint8_t)(hash >> (8 * i));
  text = (char *)malloc(size ? size : 1); /* of exactly its size */
  MUST(text);
  if (size)
    memcpy(text, data, size);
  need = vram_graph_parse_bytes(text, size, NULL, 0);
  bytes = choice[0] & 1 ? (uint64_t)(choice[1] * 256u + choice[2]) * 16 : need;
  if (bytes > (uint64_t)1 << 22)
    bytes = (uint64_t)1 << 22;
  for (i = 0; i < 2; i++) {
    mem[i] = malloc((size_t)bytes);
    MUST(mem[i] || !bytes);
    vram_graph_init(&g[i], mem[i], bytes);
    code = vram_graph_parse(&g[i], text, size, NULL, 0, &e[i]);
    check_error(code, &e[i], text, size);
    MUST(code != VRAM_ERR_MEMORY || bytes < need || !need);
  }
  /* the same when it is read twice */
  MUST(e[0].code == e[1].code && e[0].line == e[1].line && e[0].column == e[1].column);
  MUST(!strcmp(e[0].text, e[1].text) && g[0].nnode == g[1].nnode && g[0].used == g[1].used);
  free(mem[1]);
  if (code == VRAM_OK)
    for (i = 0; i < 3; i++)
      step(&g[0], (int)i, choice);
  free(text);
  free(mem[0]);
  return 0;
}
