/* cc -o net examples/net.c && ./net
   10360 bytes of flash, 24000 of SRAM; d2 is at 0 of the arena */

/* A network, one line for each layer, whose bytes the compiler counts: with a budget that is too
   small (-DSRAM=20480) this file does not compile. */
#define VRAM_MACROS_ONLY /* the compile-time part of the header: no include, no symbol */
#include "../vram.h"
#include <stdio.h>

#ifndef SRAM
#define SRAM VRAM_KIB(24)
#endif

/*             net, this line, the line before */
VRAM_NET_BEGIN(kws, I8, 1, 49, 10, 1); /* int8; n, h, w, c */
VRAM_NET_CONV2D(kws, c1, input, 64, 10, 4, 2, 2, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r1, c1);
VRAM_NET_KEEP(kws, k1, r1); /* for the residual add */
VRAM_NET_DEPTHWISE_CONV2D(kws, d2, k1, 1, 3, 3, 1, 1, SAME, 1);
VRAM_NET_CONV2D(kws, c2, d2, 64, 1, 1, 1, 1, VALID, 1);
VRAM_NET_ADD_INPLACE(kws, a2, c2, k1);
VRAM_NET_GLOBAL_AVG_POOL2D(kws, p3, a2);
VRAM_NET_LINEAR(kws, y, p3, 12, 1);
VRAM_NET_END(kws, y);

VRAM_ASSERT_FITS(kws, VRAM_KIB(12), SRAM);

/* the same lines give the buffers */
static unsigned char arena[VRAM_NET_ARENA_BYTES(kws)];
static const signed char d2_weights[VRAM_NET_GET(kws, d2, channels) * 3 * 3] = {1};

int main(void) {
  unsigned char *d2 = arena + VRAM_NET_OFFSET(kws, d2);
  printf("%llu bytes of flash, %llu of SRAM; d2 is at %d of the arena\n", VRAM_NET_FLASH_BYTES(kws),
         VRAM_NET_SRAM_BYTES(kws), (int)(d2 - arena));
  return d2_weights[0] != 1;
}
