/* Keyword spotting: 49 x 10 MFCC features in, 12 scores out; a convolution and three depthwise
   separable blocks, one of them with a residual add. int8 as TFLite stores it. */
#ifndef KWS_H
#define KWS_H
#include "../../vram.h"

/* what the smallest board, an nRF51 with 256 KiB of flash and 16 KiB of SRAM, has for the network:
 * 32 KiB are code, 2 KiB the stack and other variables */
#ifndef FLASH
#define FLASH VRAM_KIB(224)
#endif
#ifndef SRAM
#define SRAM VRAM_KIB(14)
#endif

VRAM_NET_BEGIN(kws, I8, 1, 49, 10, 1);
VRAM_NET_CONV2D(kws, c1, input, 32, 10, 4, 2, 2, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r1, c1);
VRAM_NET_DEPTHWISE_CONV2D(kws, d1, r1, 1, 3, 3, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r2, d1);
VRAM_NET_CONV2D(kws, p1, r2, 32, 1, 1, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r3, p1);
VRAM_NET_KEEP(kws, k1, r3);
VRAM_NET_DEPTHWISE_CONV2D(kws, d2, k1, 1, 3, 3, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r4, d2);
VRAM_NET_CONV2D(kws, p2, r4, 32, 1, 1, 1, 1, SAME, 1);
VRAM_NET_ADD_INPLACE(kws, a1, p2, k1);
VRAM_NET_ACTIVATION_FUSED(kws, r5, a1);
VRAM_NET_DEPTHWISE_CONV2D(kws, d3, r5, 1, 3, 3, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r6, d3);
VRAM_NET_CONV2D(kws, p3, r6, 32, 1, 1, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION_FUSED(kws, r7, p3);
VRAM_NET_GLOBAL_AVG_POOL2D(kws, g1, r7);
VRAM_NET_LINEAR(kws, l1, g1, 12, 1);
VRAM_NET_SOFTMAX(kws, s1, l1);
VRAM_NET_END(kws, s1);

VRAM_ASSERT_FITS(kws, FLASH, SRAM);
#endif
