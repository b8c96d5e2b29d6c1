/* >>net/cmsis    CMSIS-NN's working buffers */
#include "net/net.h"

typedef enum { VRAM__CMSIS_NONE, VRAM__CMSIS_S4, VRAM__CMSIS_S8, VRAM__CMSIS_S16 } vram__cmsis_type;

static vram__cmsis_type vram__cmsis_type_of(const vram__cmsis *k) {
  if (k->kernels == VRAM_KERNELS_NONE)
    return VRAM__CMSIS_NONE;
  if (k->weight_bits == 8 && (k->act_bits == 8 || k->act_bits == 16))
    return k->act_bits == 8 ? VRAM__CMSIS_S8 : VRAM__CMSIS_S16;
  return k->weight_bits == 4 && k->act_bits == 8 ? VRAM__CMSIS_S4 : VRAM__CMSIS_NONE;
}

static int vram__cmsis_mve(const vram__cmsis *k) { return k->kernels == VRAM_KERNELS_MVE; }

static int vram__cmsis_dsp(const vram__cmsis *k) { return k->kernels == VRAM_KERNELS_DSP; }

/* columns of so many values of bytes each, the values rounded up to lanes */
static uint64_t vram__cmsis_columns(uint64_t columns, uint64_t values, uint64_t lanes,
                                    uint64_t bytes) {
  const uint64_t rest = values % lanes;
  return vram__product_or_overflow(columns * bytes,
                                   vram__sum_or_overflow(values, rest ? lanes - rest : 0));
}

/* the values under the kernel at one place: what im2col writes as a column */
static uint64_t vram__cmsis_window(const vram__cmsis *k) {
  return vram__product_or_overflow(vram__product_or_overflow(k->kh, k->kw), k->c);
}

/* The convolution whose input is one row: no window may reach both ends of it. */
static int vram__cmsis_one_row(const vram__cmsis *k) {
  uint64_t
      last; /* begin of the last window that is partly in the left padding, which begins at 0 */
  if (k->h != 1 || k->kh != 1 || k->dw != 1 || k->groups != 1 || k->sw * k->c % 4)
    return 0;
  if (k->pw == 0)
    return 1;
  last = k->pw - 1 - (k->pw - 1) % k->sw;
  return last + k->kw <= k->pw + k->w;
}

VRAM__FN uint64_t vram__cmsis_conv2d(const vram__cmsis *k) {
  const vram__cmsis_type type = vram__cmsis_type_of(k);
  const uint64_t window = vram__cmsis_window(k);
  const int one_to_one = k->kh == 1 && k->kw == 1 && k->dh == 1 && k->dw == 1 && k->ph == 0 &&
                         k->pw == 0 && k->groups == 1;
  if (type == VRAM__CMSIS_NONE)
    return 0;
  if (type == VRAM__CMSIS_S16)
    return vram__cmsis_mve(k) ? vram__cmsis_columns(4, window, 8, 2)
                              : vram__cmsis_columns(2, window, 1, 2);
  if (one_to_one)
    return 0;
  if (!vram__cmsis_mve(k))
    return vram__cmsis_columns(2, window, type == VRAM__CMSIS_S8 ? 4 : 1, 2);
  if (vram__cmsis_one_row(k))
    return type == VRAM__CMSIS_S8
               ? vram__product_or_overflow(vram__sum_or_overflow(k->kw, k->pw), k->c)
               : 0;
  return vram__cmsis_columns(4, window, 16, 1);
}

VRAM__FN uint64_t vram__cmsis_depthwise_conv2d(const vram__cmsis *k) {
  const vram__cmsis_type type = vram__cmsis_type_of(k);
  const uint64_t kernel = vram__product_or_overflow(k->kh, k->kw);
  vram__cmsis conv = *k;
  if (type == VRAM__CMSIS_NONE)
    return 0;
  /* one channel becomes many: a convolution, for which the kernel is transposed */
  if (type == VRAM__CMSIS_S8 && vram__cmsis_mve(k) && k->c == 1 && k->oc > 1) {
    conv.groups = 1;
    return vram__sum_or_overflow(vram__cmsis_conv2d(&conv),
                                 vram__product_or_overflow(kernel, k->oc));
  }
  if (k->c != k->oc || k->dh != 1 || k->dw != 1)
    return 0;
  if (type == VRAM__CMSIS_S16) {
    if (kernel >= 512 || k->kernels == VRAM_KERNELS_PLAIN)
      return 0;
    return vram__cmsis_mve(k)
               ? vram__sum_or_overflow(vram__cmsis_columns(4, vram__cmsis_window(k), 1, 2), 8)
               : vram__cmsis_columns(1, vram__cmsis_window(k), 1, 2);
  }
  if (k->n != 1)
    return 0;
  if (vram__cmsis_mve(k)) /* four blocks of 124 channels */
    return vram__cmsis_columns(496, kernel, 1, 1);
  if (type == VRAM__CMSIS_S8 &&
      (!vram__cmsis_dsp(k) || (k->kh == 3 && k->kw == 3 && k->ph <= 1 && k->pw <= 1)))
    return 0;
  return vram__cmsis_columns(1, vram__cmsis_window(k), 1, 2);
}

VRAM__FN uint64_t vram__cmsis_conv_transpose2d(const vram__cmsis *k) {
  const uint64_t window = vram__cmsis_window(k);
  uint64_t row, rows;
  if (vram__cmsis_type_of(k) != VRAM__CMSIS_S8)
    return 0;
  if (k->sh <= 2 && k->sw <= 2 && k->c > 16) /* a convolution with the kernel reversed */
    return vram__sum_or_overflow(vram__cmsis_mve(k) ? vram__cmsis_columns(4, window, 16, 1)
                                                    : vram__cmsis_columns(2, window, 4, 2),
                                 vram__product_or_overflow(window, k->oc));
  /* sums of rows that overlap, 32 bits each; sh, not sw, stands in both places */
  row = vram__sum_or_overflow(vram__product_or_overflow(k->w - 1, k->sw),
                              k->kw > k->sh ? k->kw : k->sh);
  rows = k->kh > k->sh ? k->kh : k->sh;
  return vram__product_or_overflow(
      vram__product_or_overflow(vram__product_or_overflow(row, k->oc), rows), 4);
}

VRAM__FN uint64_t vram__cmsis_linear(const vram__cmsis *k) {
  return vram__cmsis_mve(k) && vram__cmsis_type_of(k) == VRAM__CMSIS_S8
             ? vram__product_or_overflow(k->oc, 4)
             : 0;
}

VRAM__FN uint64_t vram__cmsis_avg_pool2d(const vram__cmsis *k) {
  return vram__cmsis_dsp(k) && vram__cmsis_type_of(k) != VRAM__CMSIS_NONE
             ? vram__product_or_overflow(k->c, 4)
             : 0;
}
