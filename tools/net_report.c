/* The table of a network of VRAM_NET_ lines, from the constants that the compiler has: what
   `vram estimate --embedded NET.h` counts at run time, this prints from the header itself.
   make net-report NET=FILE NAME=NET compiles and runs it. The preprocessor comes first, with
   NET_LINES: what it makes of the lines, rows of the table, are the file NET_ROWS. */
#ifdef NET_LINES
#define VRAM_MACROS_ONLY
#include "../vram.h"
#undef VRAM_NET_LINE
#undef VRAM_NET_FIRST
#undef VRAM_NET_LAST
#define VRAM_NET_LINE(line, before, name, op, arguments, checks, constants) ROW(line, name, op)
#define VRAM_NET_FIRST(line, constants) ROW_FIRST(line)
#define VRAM_NET_LAST(before, constants) ROW_LAST(before)
#include NET_FILE
#else
#define VRAM_IMPLEMENTATION
#define VRAM_NO_KV
#define VRAM_NO_MODEL
#define VRAM_NO_READ
#define VRAM_NO_STEP
#define VRAM_NO_WRITE
#include "../vram.h"

#include NET_FILE

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* for names that macros paste */
#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define OF_NET(what, net) OF_NET_(what, net)
#define OF_NET_(what, net) VRAM_NET_##what(net)

typedef struct report {
  int on;              /* between BEGIN and END of the net */
  int measures, width; /* first: the longest name */
  const char *begin;
  uint64_t most; /* bytes live at one time */
  char peak[VRAM_MAX_NAME + 32];
} report;

static void row(report *r, const char *name, const char *op, uint64_t h, uint64_t w, uint64_t c,
                uint64_t params, uint64_t macs, uint64_t weights, uint64_t flash, uint64_t out,
                uint64_t scratch, uint64_t live) {
  if (!r->on)
    return;
  if (r->measures) {
    r->width = (int)strlen(name) > r->width ? (int)strlen(name) : r->width;
    return;
  }
  printf("%-*s %-21s %5" PRIu64 " %5" PRIu64 " %5" PRIu64 " %9" PRIu64 " %12" PRIu64 " %9" PRIu64
         " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
         r->width, name, op, h, w, c, params, macs, weights, flash, out, scratch, live);
  if (live > r->most) {
    r->most = live;
    snprintf(r->peak, sizeof r->peak, "%s (%s)", name, op);
  }
}

#define ROW(line, name, op)                                                                        \
  row(r, name, op, VRAM_NET_OF(line, height), VRAM_NET_OF(line, width),                            \
      VRAM_NET_OF(line, channels), VRAM_NET_OF(line, params), VRAM_NET_OF(line, macs),             \
      VRAM_NET_OF(line, weight_bytes), VRAM_NET_OF(line, flash_bytes),                             \
      VRAM_NET_OF(line, out_bytes), VRAM_NET_OF(line, scratch_bytes),                              \
      VRAM_NET_OF(line, live_bytes))
#define ROW_FIRST(line)                                                                            \
  r->on = !strcmp(#line, TEXT(NET_NAME) "_input");                                                 \
  ROW(line, "input", r->begin)
#define ROW_LAST(before) r->on = 0

static void rows(report *r) {
#include NET_ROWS
}

/* What the constants do not say: the words of BEGIN, and plans of the arena. 0: the lines have
   expressions that only a compiler can read. */
static int plan(vram_net *net, uint64_t *tflm_bytes) {
  FILE *f = fopen(NET_FILE, "rb");
  size_t cap = 1 << 20, n = 0, got;
  char *text = (char *)malloc(cap);
  vram_error e;
  void *lines, *scratch = NULL;
  vram_arena_options tflm;
  uint64_t bytes;
  if (!f || !text)
    return 0;
  while ((got = fread(text + n, 1, cap - n, f)) != 0)
    if ((n += got) == cap && (text = (char *)realloc(text, cap *= 2)) == NULL)
      return 0;
  fclose(f);
  bytes = vram_net_read_bytes(text, n);
  lines = malloc((size_t)bytes);
  if (!lines || vram_net_read(text, n, TEXT(NET_NAME), lines, bytes, net, &e) ||
      vram_net_count(net, &e))
    return 0;
  bytes = vram_net_plan_bytes(net, NULL);
  scratch = malloc((size_t)bytes);
  memset(&tflm, 0, sizeof tflm);
  tflm.order = VRAM_ARENA_ORDER_tflm;
  if (!scratch || vram_net_plan(net, &tflm, scratch, bytes, &e))
    return 0;
  *tflm_bytes = net->arena.height_bytes;
  return !vram_net_plan(net, NULL, scratch, bytes, &e);
}

int main(void) {
  vram_net net;
  report r;
  uint64_t tflm_bytes, arena;
  int planned;
  memset(&r, 0, sizeof r);
  planned = plan(&net, &tflm_bytes);
  r.begin = planned ? vram_line_name(net.line->kind) : "BEGIN";
  if (planned)
    printf("%s  %s  batch %" PRIu64 "  buffers aligned to %" PRIu64 "  kernels %s\n\n",
           TEXT(NET_NAME), vram_format_name(net.line->format), net.line->n, net.align,
           vram_kernels_name(net.kernels));
  else
    printf("%s\n\n", TEXT(NET_NAME));
  r.width = 16;
  r.measures = 1;
  rows(&r);
  r.measures = 0;
  printf("%-*s %-21s %5s %5s %5s %9s %12s %9s %9s %9s %9s %9s\n", r.width, "line", "op", "h", "w",
         "c", "params", "MACs", "weights", "flash", "output", "scratch", "live");
  rows(&r);
#define SUM(what) ((uint64_t)OF_NET(what, NET_NAME))
  printf("\n%-16s %12" PRIu64 "\n", "parameters", SUM(PARAMS));
  printf("%-16s %12" PRIu64 "\n", "MACs", SUM(MACS));
  printf("%-16s %12" PRIu64 " bytes\n", "weights", SUM(WEIGHT_BYTES));
  printf("%-16s %12" PRIu64 " bytes, each array aligned\n", "flash", SUM(FLASH_BYTES));
  printf("%-16s %12" PRIu64 " bytes, from one inference to the next\n", "state", SUM(STATE_BYTES));
  printf("%-16s %12" PRIu64 " bytes alive in %s: no arena is smaller\n", "lower bound",
         SUM(LIVE_BYTES), r.peak);
  arena = planned ? net.arena.height_bytes : SUM(ARENA_BYTES);
  printf("%-16s %12" PRIu64 " bytes, %s%s\n", "arena", arena,
         planned ? "planned" : "by the lines themselves",
         arena == SUM(LIVE_BYTES) || (planned && net.arena.proven) ? ", no plan is smaller" : "");
  if (planned)
    printf("%-16s %12" PRIu64 " bytes, the same buffers placed as TensorFlow Lite Micro does\n",
           "TFLM's arena", tflm_bytes);
  printf("%-16s %12" PRIu64 " bytes in two buffers and a third for kept values\n", "ping-pong",
         SUM(PINGPONG_BYTES));
  printf("%-16s %12" PRIu64 " bytes, arena and state\n", "SRAM", arena + SUM(STATE_BYTES));
  return 0;
}
#endif
