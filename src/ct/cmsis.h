#pragma once
#include "ct/bytes.h"
/* ---- CMSIS-NN scratch: bytes ------------------------------------------------------------------
 * The working buffer that a kernel of CMSIS-NN asks for, int8 and int16 activations; the choice
 * between kernels is that of its wrappers. 0: none, or no such kernel (floats, int4 activations).
 *   kernels      0 none of CMSIS-NN   1 plain C   2 DSP (Cortex-M4, M7, M33)   3 MVE (M55, M85)
 *                built by GCC, Clang, IAR; 4, 5: DSP, MVE built by Arm Compiler 6
 *   act_bits, weight_bits   8 8, 8 4 or 16 8
 *   n h w c      the input; oc output channels; kh .. groups the convolution's, all at least 1
 *   ph, pw       padding above and to the left
 * Rules: CMSIS-NN's get_buffer_size functions as of June 2026 (Source/.../arm_*_get_buffer_sizes_*,
 * github.com/ARM-software/CMSIS-NN 9b2c2217); m = kh kw c:
 *              plain C                  DSP                      MVE
 *   conv s8    1x1: 0, else 2 columns   as plain; 1x1 stride 1   1x1: 0; one row: c (kw + pw),
 *              of int16, m rounded      by AC6: 4 c              else 4 columns of int8, m rounded
 *              up to 4: 4 m                                      up to 16: 4 m
 *   conv s4    1x1: 0, else 4 m         as plain                 as s8, one row: 0
 *   conv s16   4 m                      4 m                      8 m, m rounded up to 8
 *   depthwise  s8 0                     c = oc, n = d = 1: 2 m,  c = oc, n = d = 1: 496 kh kw;
 *                                       3x3 with p <= 1: 0       c = 1: conv s8 + oc kh kw
 *              s4 c = oc, n = d = 1:    as plain                 c = oc, n = d = 1: 496 kh kw
 *                 2 m
 *              s16 0                    c = oc, d = 1, kh kw <   there 8 m + 8
 *                                       512: 2 m
 *   transposed s8, stride <= 2 and c > 16: conv s8's + m oc (the weights reversed); else int32
 *              rows ((w-1) sw + max(kw, sh)) max(kh, sh) oc
 *   linear     s8 0                     0                        4 oc (sums of weights)
 *   avg pool   0                        4 c                      0
 * "One row" (h, kh, dw = 1, sw c divisible by 4) holds while no window reaches into the padding on
 * both sides; CMSIS-NN refuses it where padding on the right is left over.
 * TensorFlow Lite Micro asks its arena for these, with exceptions: depthwise s16 takes none;
 * transposed of int16 has no kernel here, its own takes 8 bytes for each output element; linear on
 * more than one position (in_features divisible by 4, one scale) takes 8 oc instead; and the sums
 * of a linear's weights stay for good where it is built for speed, its default. */
#define VRAM__CMSIS_MVE(kernels) ((kernels) % 2 * (kernels) > 1)
#define VRAM__CMSIS_TYPE(act_bits, weight_bits)                                                    \
  ((weight_bits) == 8 ? (act_bits) == 8 || (act_bits) == 16 : (weight_bits) == 4 && (act_bits) == 8)
#define VRAM__CMSIS_1X1(kh, kw, dh, dw, ph, pw, groups)                                            \
  (VRAM_U(1) * (kh) * (kw) * (dh) * (dw) * (groups) + (ph) + (pw) == 1)
#define VRAM__CMSIS_ROW(h, w, c, kh, kw, sw, dw, pw, groups)                                       \
  (VRAM_U(1) * (h) * (kh) * (dw) * (groups) == 1 && VRAM_U(1) * (sw) * (c) % 4 == 0 &&             \
   ((pw) == 0 || (VRAM_U(0) + (pw)-1) / (sw) * (sw) + (kw) <= VRAM_U(0) + (w) + (pw)))
#define VRAM_CMSIS_CONV2D_BYTES(kernels, act_bits, weight_bits, h, w, c, kh, kw, sh, sw, dh, dw,   \
                                ph, pw, groups)                                                    \
  ((kernels) == 0 || !VRAM__CMSIS_TYPE(act_bits, weight_bits) ? VRAM_U(0)                          \
   : (act_bits) == 8 && VRAM__CMSIS_1X1(kh, kw, dh, dw, ph, pw, groups)                            \
       ? ((kernels) == 4 && (weight_bits) == 8 && VRAM_U(1) * (sh) * (sw) == 1 ? VRAM_U(4) * (c)   \
                                                                               : VRAM_U(0))        \
   : !VRAM__CMSIS_MVE(kernels) ? (VRAM_U(0) + (act_bits) + (weight_bits) == 16                     \
                                      ? (VRAM_U(1) * (kh) * (kw) * (c) + 3) / 4 * 16               \
                                      : VRAM_U(4) * (kh) * (kw) * (c))                             \
   : (act_bits) == 8 && VRAM__CMSIS_ROW(h, w, c, kh, kw, sw, dw, pw, groups)                       \
       ? ((weight_bits) == 8 ? (VRAM_U(0) + (kw) + (pw)) * (c) : VRAM_U(0))                        \
       : (VRAM_U(1) * (act_bits) * (kh) * (kw) * (c) + 127) / 128 * 64)
#define VRAM_CMSIS_DEPTHWISE_CONV2D_BYTES(kernels, act_bits, weight_bits, n, h, w, c, oc, kh, kw,  \
                                          sw, dh, dw, ph, pw)                                      \
  ((kernels) < ((weight_bits) == 4 ? 1 : 2) || !VRAM__CMSIS_TYPE(act_bits, weight_bits)            \
       ? VRAM_U(0)                                                                                 \
   : (c) == 1 && VRAM_U(0) + (act_bits) + (weight_bits) == 16 && VRAM__CMSIS_MVE(kernels) &&       \
           (oc) > ((kernels) == 5 ? 8 : 1)                                                         \
       ? VRAM_U(1) * (oc) * (kh) * (kw) + (VRAM__CMSIS_1X1(kh, kw, dh, dw, ph, pw, 1) ? VRAM_U(0)  \
                                           : VRAM__CMSIS_ROW(h, w, 1, kh, kw, sw, dw, pw, 1)       \
                                               ? VRAM_U(0) + (kw) + (pw)                           \
                                               : (VRAM_U(1) * (kh) * (kw) + 15) / 16 * 64)         \
   : VRAM_U(0) + (c) != (oc) || VRAM_U(1) * (dh) * (dw) != 1 ||                                    \
           ((act_bits) == 16 ? VRAM_U(1) * (kh) * (kw) >= 512                                      \
                             : (n) != 1 || ((weight_bits) == 8 && (kernels) % 2 == 0 &&            \
                                            (kh) == 3 && (kw) == 3 && (ph) <= 1 && (pw) <= 1))     \
       ? VRAM_U(0)                                                                                 \
       : ((act_bits) == 16 && (kernels) % 2 ? VRAM_U(8) : VRAM_U(0)) +                             \
             VRAM_U(2) * (kh) * (kw) *                                                             \
                 (VRAM__CMSIS_MVE(kernels) ? ((act_bits) == 16 ? VRAM_U(4) * (c) : VRAM_U(248))    \
                                           : VRAM_U(0) + (c)))
#define VRAM_CMSIS_CONV_TRANSPOSE2D_BYTES(kernels, act_bits, weight_bits, w, c, oc, kh, kw, sh,    \
                                          sw)                                                      \
  ((kernels) == 0 || (act_bits) != 8 || (weight_bits) != 8 ? VRAM_U(0)                             \
   : (c) > 16 && (sh) <= 2 && (sw) <= 2                                                            \
       ? VRAM_U(1) * (kh) * (kw) * (c) * (oc) +                                                    \
             (VRAM__CMSIS_MVE(kernels) ? (VRAM_U(1) * (kh) * (kw) * (c) + 15) / 16 * 64            \
                                       : (VRAM_U(1) * (kh) * (kw) * (c) + 3) / 4 * 16)             \
       : ((VRAM_U(0) + (w)-1) * (sw) + VRAM_MAX(kw, sh)) * VRAM_MAX(kh, sh) * (oc)*4)
#define VRAM_CMSIS_LINEAR_BYTES(kernels, act_bits, weight_bits, out_features)                      \
  (VRAM__CMSIS_MVE(kernels) && (act_bits) == 8 && (weight_bits) == 8 ? VRAM_U(4) * (out_features)  \
                                                                     : VRAM_U(0))
#define VRAM_CMSIS_AVG_POOL2D_BYTES(kernels, act_bits, weight_bits, c)                             \
  ((kernels) != 0 && (kernels) % 2 == 0 &&                                                         \
           ((act_bits) == 8 || ((act_bits) == 16 && (weight_bits) == 8))                           \
       ? VRAM_U(4) * (c)                                                                           \
       : VRAM_U(0))
