/* >>tflm/cmsis    kernels of CMSIS-NN in TensorFlow Lite Micro
   From tensorflow/lite/micro/kernels/cmsis_nn (Init, Prepare). All other operators have TFLM's own
   kernels. */
#include "tflm/tflm.h"

/* RequestScratchBufferInArena, where there is anything to request. */
static void vram__tflm_cmsis_scratch(vram__tflm_run *r, uint64_t bytes) {
  if (bytes)
    vram__tflm_scratch(r, bytes);
}

/* ComputePaddingWithOffset: what SAME has above or to the left. */
static uint64_t vram__tflm_before(const vram__tflm_run *r, uint64_t in, uint64_t kernel,
                                  uint64_t stride, uint64_t dilation) {
  const uint64_t span = kernel ? (kernel - 1) * dilation + 1 : 0;
  const uint64_t out = (in + stride - 1) / stride, need = out ? (out - 1) * stride + span : 0;
  if (vram__tflm_option(r->node, "padding")) /* VALID */
    return 0;
  return need > in ? (need - in) / 2 : 0;
}

/* A size, stride or dilation; 1: there is none. */
static uint64_t vram__tflm_step(const vram__tflm_run *r, const char *name) {
  const int64_t n = vram__tflm_option(r->node, name);
  return n > 0 ? (uint64_t)n : 1;
}

/* What the functions of CMSIS-NN are asked: input x, filter, output y. */
static vram__cmsis vram__tflm_window(const vram__tflm_run *r, const vram__tflm_value *x,
                                     const vram__tflm_value *filter, const vram__tflm_value *y) {
  vram__cmsis k;
  vram__memory_zero(&k, sizeof k);
  k.kernels = (uint64_t)r->kernels;
  k.act_bits = x->dtype == VRAM_I16 ? 16 : 8;
  k.weight_bits = 8;
  k.n = vram__tflm_axis(x, 0);
  k.h = vram__tflm_axis(x, 1);
  k.w = vram__tflm_axis(x, 2);
  k.c = vram__tflm_axis(x, 3);
  k.oc = vram__tflm_axis(y, 3);
  k.kh = vram__tflm_axis(filter, 1);
  k.kw = vram__tflm_axis(filter, 2);
  k.sh = vram__tflm_step(r, "stride_h");
  k.sw = vram__tflm_step(r, "stride_w");
  k.dh = vram__tflm_step(r, "dilation_h");
  k.dw = vram__tflm_step(r, "dilation_w");
  k.ph = vram__tflm_before(r, k.h, k.kh, k.sh, k.dh);
  k.pw = vram__tflm_before(r, k.w, k.kw, k.sw, k.dw);
  k.groups = 1;
  return k;
}

/* A filter of int4 has the buffers of int8 here. */
static VRAM__TFLM_RULE(cmsis_conv) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 4);
  vram__cmsis k;
  if (x->dtype == VRAM_F32)
    return;
  vram__tflm_channels(r, vram__tflm_axis(filter, 0));
  k = vram__tflm_window(r, x, filter, y);
  if (vram__tflm_axis(filter, 3))
    k.groups = k.c / vram__tflm_axis(filter, 3);
  vram__tflm_cmsis_scratch(r, vram__cmsis_conv2d(&k));
}

static VRAM__TFLM_RULE(cmsis_depthwise) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 4);
  vram__cmsis k;
  if (x->dtype == VRAM_F32)
    return;
  vram__tflm_channels(r, vram__tflm_axis(filter, 3));
  k = vram__tflm_window(r, x, filter, y);
  k.weight_bits = filter->dtype == VRAM_I4 ? 4 : 8;
  if (x->dtype == VRAM_I8)
    vram__tflm_cmsis_scratch(r, vram__cmsis_depthwise_conv2d(&k));
}

/* Both buffers are requested, of 0 bytes, too. */
static VRAM__TFLM_RULE(cmsis_deconv) {
  const vram__tflm_value *const in = vram__tflm_need(r, r->node->input, 2, 4),
                                *const filter = vram__tflm_need(r, r->node->input, 1, 4),
                                *const bias = vram__tflm_of(r, r->node->input, 3);
  vram__cmsis k = vram__tflm_window(r, in, filter, y);
  uint64_t reversed = 0;
  (void)x;
  vram__tflm_channels(r, vram__tflm_axis(filter, 0));
  if (in->dtype == VRAM_I8) {
    if (k.sh <= 2 && k.sw <= 2 && k.c > 16)
      reversed = filter->numel;
    vram__tflm_scratch(r, vram__cmsis_conv_transpose2d(&k) - reversed);
    vram__tflm_scratch(r, reversed);
  }
  if (in->dtype == VRAM_I16)
    vram__tflm_scratch(r, 8 * y->numel);
  if (in->dtype == VRAM_I16 && bias && bias->dtype == VRAM_I16)
    vram__tflm_scratch(r, 8 * bias->numel);
}

static int vram__tflm_mve(const vram__tflm_run *r) { return r->kernels == VRAM_KERNELS_MVE; }

/* Sums of the rows of constant kernels, which the kernels for MVE need. */
static void vram__tflm_cmsis_sums(vram__tflm_run *r, uint64_t rows) {
  if (vram__tflm_mve(r) && r->goal == VRAM_TFLM_FOR_SPEED)
    vram__tflm_kernel_keep(r, 4 * rows);
  else if (vram__tflm_mve(r))
    vram__tflm_scratch(r, 4 * rows);
}

/* More than two axes are a 1x1 convolution, whose multipliers for each channel are made up in
   scratch. */
static VRAM__TFLM_RULE(cmsis_linear) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 1),
                                *const bias = vram__tflm_of(r, r->node->input, 2);
  const uint64_t in = vram__tflm_axis(filter, filter->ndim ? filter->ndim - 1u : 0),
                 out = vram__tflm_axis(y, y->ndim ? y->ndim - 1u : 0);
  if (x->dtype != VRAM_F32 && filter->scales > 1)
    vram__tflm_channels(r, filter->scales);
  if (x->dtype != VRAM_I8 || filter->dtype == VRAM_I4)
    return;
  if (y->ndim > 2 && in % 4 == 0) {
    if (filter->scales <= 1)
      vram__tflm_scratch(r, 8 * out);
  } else if (filter->is_constant && (!bias || bias->is_constant))
    vram__tflm_cmsis_sums(r, out);
  else if (vram__tflm_mve(r))
    vram__tflm_scratch(r, 4 * out);
}

static VRAM__TFLM_RULE(cmsis_matmul) {
  const vram__tflm_value *const b = vram__tflm_need(r, r->node->input, 1, 2);
  if (vram__tflm_option(r->node, "adj_x"))
    vram__tflm_transposed(r, x);
  if (!vram__tflm_option(r->node, "adj_y"))
    vram__tflm_transposed(r, b);
  vram__tflm_dims(r, y);
  if (x->dtype == VRAM_F32)
    return;
  vram__tflm_kernel_keep(r, VRAM__TFLM_MATMUL_QUANTIZATION);
  if (x->dtype == VRAM_I8 && vram__tflm_mve(r))
    vram__tflm_scratch(r, 4 * vram__tflm_axis(y, y->ndim ? y->ndim - 1u : 0));
}

/* Sums of the kernels' rows, with the biases, of four gates' two kernels. */
static VRAM__TFLM_RULE(cmsis_lstm) {
  const vram__tflm_value *const state = vram__tflm_need(r, r->node->input, 19, 2);
  const int is_float = state->dtype == VRAM_F32;
  uint32_t i;
  (void)y;
  for (i = 0; i < 8 && !is_float; i++)
    vram__tflm_kernel_keep(r, vram__tflm_axis(state, 1) * (x->dtype == VRAM_I16 ? 8 : 4));
  for (i = 0; i < (is_float ? 4u : 3u); i++)
    vram__tflm_scratch(r, state->bytes);
}

static VRAM__TFLM_RULE(cmsis_svdf) {
  vram__tflm_rule_svdf(r, x, y);
  if (x->dtype == VRAM_I8)
    vram__tflm_cmsis_sums(r, vram__tflm_axis(vram__tflm_need(r, r->node->input, 1, 1), 0));
}

static VRAM__TFLM_RULE(cmsis_avg_pool) {
  const vram__cmsis k = vram__tflm_window(r, x, x, y);
  if (x->dtype == VRAM_I8 || x->dtype == VRAM_I16)
    vram__tflm_cmsis_scratch(r, vram__cmsis_avg_pool2d(&k));
}

/* ---- rows ---- */

/* clang-format off */
static const vram__tflm_kernel vram__tflm_cmsis_kernels[] = {
#define VRAM__CMSIS_KERNEL(name, params, rule, data32, data64, temps)                            \
  {#name, VRAM__TFLM_OF_##params, vram__tflm_rule_##rule, {data32, data32, data64, 0}, temps}
    VRAM__CMSIS_KERNEL(AVERAGE_POOL_2D, Pool, cmsis_avg_pool, 36, 36, "0a0a!"),
    VRAM__CMSIS_KERNEL(BATCH_MATMUL, BatchMatMul, cmsis_matmul, 36, 56, "01a!"),
    VRAM__CMSIS_KERNEL(CONV_2D, Conv, cmsis_conv, 60, 80, "01a!012a"),
    VRAM__CMSIS_KERNEL(DEPTHWISE_CONV_2D, DepthwiseConv, cmsis_depthwise, 60, 80, "01a!012a"),
    VRAM__CMSIS_KERNEL(FULLY_CONNECTED, FullyConnected, cmsis_linear, 72, 96, "012a!"),
    VRAM__CMSIS_KERNEL(MAX_POOL_2D, Pool, none, 36, 36, "0a"),
    VRAM__CMSIS_KERNEL(SOFTMAX, Softmax, softmax, 64, 88, "0a!"),
    VRAM__CMSIS_KERNEL(SVDF, SVDF, cmsis_svdf, 40, 48, "01234a!"),
    VRAM__CMSIS_KERNEL(TRANSPOSE_CONV, TransposeConv, cmsis_deconv, 76, 88, "a21!(213a"),
    VRAM__CMSIS_KERNEL(UNIDIRECTIONAL_SEQUENCE_LSTM, UnidirectionalSequenceLSTM, cmsis_lstm, 912, 1008, "*a!"),
};
/* for size: what differs */
static const vram__tflm_kernel vram__tflm_cmsis_small[] = {
    VRAM__CMSIS_KERNEL(SVDF, SVDF, cmsis_svdf, 44, 48, "01234a!"),
#undef VRAM__CMSIS_KERNEL
};
/* clang-format on */

VRAM__FN const vram__tflm_kernel *vram__tflm_cmsis_of(const char *name, uint32_t len,
                                                      vram_tflm_goal goal) {
  uint32_t i;
  if (goal == VRAM_TFLM_FOR_SIZE)
    for (i = 0; i < sizeof vram__tflm_cmsis_small / sizeof *vram__tflm_cmsis_small; i++)
      if (vram__text_is(name, len, vram__tflm_cmsis_small[i].name))
        return vram__tflm_cmsis_small + i;
  for (i = 0; i < sizeof vram__tflm_cmsis_kernels / sizeof *vram__tflm_cmsis_kernels; i++)
    if (vram__text_is(name, len, vram__tflm_cmsis_kernels[i].name))
      return vram__tflm_cmsis_kernels + i;
  return vram__tflm_kernel_of(name, len);
}
