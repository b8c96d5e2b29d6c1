/* >>net    networks for microcontrollers */
#pragma once
#include "model/model.h"
#include "plan/plan.h"

/* What an argument is: its first letters tell. */
enum {
  VRAM__ARG_Y,
  VRAM__ARG_X,
  VRAM__ARG_KEPT,
  VRAM__ARG_FORMAT,
  VRAM__ARG_PADDING,
  VRAM__ARG_KERNELS,
  VRAM__ARG_INTEGER
};

typedef struct vram__cmsis {
  uint64_t kernels;               /* vram_net_kernels */
  uint64_t act_bits, weight_bits; /* of integers; floats have no kernels */
  uint64_t n, h, w, c, oc;
  uint64_t kh, kw, sh, sw, dh, dw, ph, pw, groups; /* ph, pw: above and to the left */
} vram__cmsis;

/* words.c */
VRAM__FN int vram__net_word(const char **at, const char **word, uint32_t *len);
VRAM__FN int vram__net_arg(const char *word, uint32_t len);

/* cmsis.c */
VRAM__FN uint64_t vram__cmsis_conv2d(const vram__cmsis *k);
VRAM__FN uint64_t vram__cmsis_depthwise_conv2d(const vram__cmsis *k);
VRAM__FN uint64_t vram__cmsis_conv_transpose2d(const vram__cmsis *k);
VRAM__FN uint64_t vram__cmsis_linear(const vram__cmsis *k);
VRAM__FN uint64_t vram__cmsis_avg_pool2d(const vram__cmsis *k);
