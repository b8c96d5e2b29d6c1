/* One network of this folder, its file in HEADER and its name in NET, as the compiler sees it: rows
   as in tests/golden/embedded/count.txt. Built by tests/part_tiny.sh. */
#define VRAM_MACROS_ONLY
#include "../../vram.h"
#include <stdio.h>

#include HEADER

static void row(const char *net, const char *name, unsigned long h, unsigned long w,
                unsigned long c, unsigned long out, unsigned long params, unsigned long macs,
                unsigned long weights, unsigned long flash) {
  printf("layer %s %s %lu %lu %lu %lu %lu %lu %lu %lu\n", net, name, h, w, c, out, params, macs,
         weights, flash);
}

/* the lines once more: a row each */
#define VRAM_NET_AGAIN
#undef VRAM_NET_FIRST
#undef VRAM_NET_LINE
#undef VRAM_NET_LAST
#define VRAM_NET_FIRST(line, constants) (void)0
#define VRAM_NET_LINE(line, before, name, op, arguments, checks, constants)                        \
  row(net, name, VRAM_NET_OF(line, height), VRAM_NET_OF(line, width), VRAM_NET_OF(line, channels), \
      VRAM_NET_OF(line, out_bytes), VRAM_NET_OF(line, params), VRAM_NET_OF(line, macs),            \
      VRAM_NET_OF(line, weight_bytes), VRAM_NET_OF(line, flash_bytes))
#define VRAM_NET_LAST(line, constants) (void)0

static void rows(const char *net) {
#include HEADER
}

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define TOTAL(what, net) ((unsigned long)VRAM_NET_##what(net))
int main(void) {
  rows(TEXT(NET));
  printf("net %s %lu %lu %lu %lu %lu\n", TEXT(NET), TOTAL(PARAMS, NET), TOTAL(MACS, NET),
         TOTAL(WEIGHT_BYTES, NET), TOTAL(FLASH_BYTES, NET), TOTAL(LIVE_BYTES, NET));
  printf("arena %s %lu %lu\n", TEXT(NET), TOTAL(ARENA_BYTES, NET), TOTAL(PINGPONG_BYTES, NET));
  return 0;
}
