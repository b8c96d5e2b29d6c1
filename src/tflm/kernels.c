/* >>tflm/kernels    a row of each kernel of TensorFlow Lite Micro
   From tensorflow/lite/micro/kernels (Init, Prepare) and core/api/flatbuffer_conversions.cc
   (Parse), sizes by compilers for the targets. */
#include "tflm/tflm.h"

/* A copy of a tensor's sizes: a TfLiteIntArray. */
VRAM__FN void vram__tflm_dims(vram__tflm_run *r, const vram__tflm_value *v) {
  vram__tflm_kernel_keep(r, 4 + 4 * (uint64_t)v->ndim);
}

VRAM__FN void vram__tflm_transposed(vram__tflm_run *r, const vram__tflm_value *v) {
  vram__tflm_kernel_keep(r, r->abi->eval_tensor);
  vram__tflm_dims(r, v);
  vram__tflm_kernel_keep(r, v->bytes);
}

/* ---- what a kernel asks for when it is prepared: its input x, its output y ---- */

/* Nothing: its row has no !. */
VRAM__FN VRAM__TFLM_RULE(none) { (void)r, (void)x, (void)y; }

/* Multipliers and shifts of each channel; a filter of int4 unpacked. */
static void vram__tflm_filtered(vram__tflm_run *r, uint32_t axis) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 4);
  vram__tflm_channels(r, vram__tflm_axis(filter, axis));
  if (filter->dtype == VRAM_I4)
    vram__tflm_scratch(r, filter->numel);
}

static VRAM__TFLM_RULE(conv) {
  (void)x, (void)y;
  vram__tflm_filtered(r, 0);
}

static VRAM__TFLM_RULE(depthwise) {
  (void)x, (void)y;
  vram__tflm_filtered(r, 3);
}

/* The input is the third one; an output of wider integers. */
static VRAM__TFLM_RULE(deconv) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 4),
                                *const in = vram__tflm_need(r, r->node->input, 2, 4),
                                *const bias = vram__tflm_of(r, r->node->input, 3);
  (void)x;
  vram__tflm_need(r, r->node->output, 0, 4);
  vram__tflm_channels(r, vram__tflm_axis(filter, 0));
  if (in->dtype == VRAM_I8)
    vram__tflm_scratch(r, 4 * y->numel);
  if (in->dtype == VRAM_I16)
    vram__tflm_scratch(r, 8 * y->numel);
  if (in->dtype == VRAM_I16 && bias && bias->dtype == VRAM_I16)
    vram__tflm_scratch(r, 8 * bias->numel);
}

/* Multipliers and shifts where there is more than one scale. */
static VRAM__TFLM_RULE(linear) {
  const vram__tflm_value *const filter = vram__tflm_need(r, r->node->input, 1, 0);
  (void)y;
  if (filter->dtype == VRAM_I4)
    vram__tflm_scratch(r, filter->numel);
  if (x->dtype != VRAM_F32 && filter->scales > 1)
    vram__tflm_channels(r, filter->scales);
}

static VRAM__TFLM_RULE(dims) {
  (void)x;
  vram__tflm_dims(r, y);
}

/* What it transposes. */
static VRAM__TFLM_RULE(matmul) {
  const vram__tflm_value *const a = vram__tflm_need(r, r->node->input, 0, 2),
                                *const b = vram__tflm_need(r, r->node->input, 1, 2);
  if (x->dtype == VRAM_I8 || x->dtype == VRAM_I16)
    vram__tflm_kernel_keep(r, VRAM__TFLM_MATMUL_QUANTIZATION);
  if (vram__tflm_option(r->node, "adj_x"))
    vram__tflm_transposed(r, a);
  if (!vram__tflm_option(r->node, "adj_y"))
    vram__tflm_transposed(r, b);
  vram__tflm_dims(r, y);
}

/* Sums of 32 bits. */
VRAM__FN VRAM__TFLM_RULE(sums) {
  if (x->dtype == VRAM_I8 || x->dtype == VRAM_I16)
    vram__tflm_scratch(r, 4 * y->numel);
}

/* Two small lists. */
VRAM__FN VRAM__TFLM_RULE(extreme) {
  (void)y;
  vram__tflm_scratch(r, 4 * (uint64_t)x->ndim);
  vram__tflm_scratch(r, 4 * vram__tflm_need(r, r->node->input, 1, 0)->numel);
}

static VRAM__TFLM_RULE(reduce) {
  vram__tflm_rule_sums(r, x, y);
  vram__tflm_rule_extreme(r, x, y);
}

/* Two lists of an int for each axis. */
static VRAM__TFLM_RULE(mirror) {
  (void)y;
  vram__tflm_scratch(r, 4 * (uint64_t)x->ndim);
  vram__tflm_scratch(r, 4 * (uint64_t)x->ndim);
}

/* Two tables for int16. */
VRAM__FN VRAM__TFLM_RULE(softmax) {
  (void)y;
  if (x->dtype != VRAM_I16)
    return;
  vram__tflm_kernel_keep(r, VRAM__TFLM_TABLE_INT16);
  vram__tflm_kernel_keep(r, VRAM__TFLM_TABLE_INT16);
}

/* Buffers of filters and units. */
VRAM__FN VRAM__TFLM_RULE(svdf) {
  const vram__tflm_value *const feature = vram__tflm_need(r, r->node->input, 1, 1);
  uint64_t batch;
  vram__tflm_need(r, r->node->input, 0, 1);
  vram__tflm_need(r, r->node->output, 0, 2);
  batch = vram__tflm_axis(x, 0);
  vram__tflm_scratch(r, vram__product_or_overflow(4 * batch, vram__tflm_axis(feature, 0)));
  if (x->dtype == VRAM_I8)
    vram__tflm_scratch(r, vram__product_or_overflow(4 * batch, vram__tflm_axis(y, 1)));
}

/* Four buffers as large as the state. */
static VRAM__TFLM_RULE(lstm) {
  uint32_t i;
  (void)x, (void)y;
  for (i = 0; i < 4; i++)
    vram__tflm_scratch(r, vram__tflm_need(r, r->node->input, 19, 2)->bytes);
}

/* A list of pointers. */
static VRAM__TFLM_RULE(add_n) {
  const vram_file_name *n;
  uint64_t count = 0;
  (void)x, (void)y;
  for (n = r->node->input; n; n = n->next)
    count++;
  vram__tflm_scratch(r, count * r->abi->pointer);
}

/* ---- rows ---- */

/* clang-format off */
static const vram__tflm_struct vram__tflm_params_on[] = {
#define VRAM__X(name, bytes, align, short_bytes, short_align, python_bytes, python_align)        \
  {{{bytes, align}, {short_bytes, short_align}, {bytes, align}, {python_bytes, python_align}}},
    VRAM__TFLM_PARAMS(VRAM__X)
#undef VRAM__X
};

#define VRAM__KERNEL(name, params, rule, data32, arm, data64, python, temps)                     \
  {#name, VRAM__TFLM_OF_##params, vram__tflm_rule_##rule, {data32, arm, data64, python}, temps}
static const vram__tflm_kernel vram__tflm_kernels[] = {
    VRAM__KERNEL(ABS, None, none, 28, 20, 28, 28, "0a"),
    VRAM__KERNEL(ADD, Add, none, 60, 60, 60, 60, "01a"),
    VRAM__KERNEL(ADD_N, None, add_n, 40, 40, 40, 40, "0a*D!"),
    VRAM__KERNEL(ARG_MAX, ArgMax, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(ARG_MIN, ArgMax, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(AVERAGE_POOL_2D, Pool, none, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(BATCH_MATMUL, BatchMatMul, matmul, 16, 16, 32, 32, "01a!"),
    VRAM__KERNEL(BATCH_TO_SPACE_ND, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(BROADCAST_ARGS, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(BROADCAST_TO, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(CAST, Cast, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CEIL, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CONCATENATION, Concatenation, none, 24, 24, 40, 80, "0a*"),
    VRAM__KERNEL(CONV_2D, Conv, conv, 56, 56, 72, 80, "a01!012a"),
    VRAM__KERNEL(COS, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CUMSUM, Cumsum, none, 36, 36, 36, 36, "01aD"),
    VRAM__KERNEL(DEPTHWISE_CONV_2D, DepthwiseConv, depthwise, 56, 56, 72, 80, "a01!012a"),
    VRAM__KERNEL(DEPTH_TO_SPACE, DepthToSpace, dims, 0, 0, 0, 0, "0a!"),
    VRAM__KERNEL(DEQUANTIZE, None, none, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(DIV, Div, none, 28, 28, 28, 28, "01a"),
    VRAM__KERNEL(DYNAMIC_UPDATE_SLICE, None, none, 0, 0, 0, 0, "012a"),
    VRAM__KERNEL(ELU, None, none, 256, 256, 256, 256, "0a"),
    VRAM__KERNEL(EMBEDDING_LOOKUP, None, dims, 8, 8, 16, 16, "01ad!"),
    VRAM__KERNEL(EQUAL, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(EXP, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(EXPAND_DIMS, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FILL, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FLOOR, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(FLOOR_DIV, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FLOOR_MOD, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FULLY_CONNECTED, FullyConnected, linear, 48, 48, 64, 72, "012a!"),
    VRAM__KERNEL(GATHER, Gather, dims, 0, 0, 0, 0, "01a!"),
    VRAM__KERNEL(GATHER_ND, None, dims, 0, 0, 0, 0, "01a!"),
    VRAM__KERNEL(GREATER, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(GREATER_EQUAL, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(HARD_SWISH, None, none, 20, 20, 20, 20, "0a"),
    VRAM__KERNEL(L2_NORMALIZATION, L2Norm, none, 4, 4, 4, 4, "0a"),
    VRAM__KERNEL(L2_POOL_2D, Pool, dims, 0, 0, 0, 0, "a0!"),
    VRAM__KERNEL(LEAKY_RELU, LeakyRelu, none, 24, 24, 24, 24, "0a"),
    VRAM__KERNEL(LESS, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(LESS_EQUAL, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(LOG, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(LOGICAL_AND, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(LOGICAL_NOT, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(LOGICAL_OR, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(LOGISTIC, None, none, 16, 16, 16, 16, "0a"),
    VRAM__KERNEL(LOG_SOFTMAX, None, none, 28, 28, 40, 40, "0aD"),
    VRAM__KERNEL(MAXIMUM, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(MAX_POOL_2D, Pool, none, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(MEAN, Reducer, reduce, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(MINIMUM, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(MIRROR_PAD, MirrorPadding, mirror, 20, 20, 20, 20, "01a!"),
    VRAM__KERNEL(MUL, Mul, none, 36, 36, 36, 36, "01a"),
    VRAM__KERNEL(NEG, None, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(NOT_EQUAL, None, none, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(PACK, Pack, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(PAD, None, none, 56, 56, 56, 56, "012a"),
    VRAM__KERNEL(PADV2, None, none, 56, 56, 56, 56, "012a"),
    VRAM__KERNEL(PRELU, None, none, 28, 28, 28, 28, "01a"),
    VRAM__KERNEL(QUANTIZE, None, none, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(REDUCE_ALL, Reducer, extreme, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(REDUCE_MAX, Reducer, extreme, 44, 44, 44, 44, "01A0a1!"),
    VRAM__KERNEL(REDUCE_MIN, Reducer, extreme, 44, 44, 44, 44, "01A0a1!"),
    VRAM__KERNEL(RELU, None, none, 28, 28, 28, 28, "0a"),
    VRAM__KERNEL(RELU6, None, none, 8, 8, 8, 8, "0"),
    VRAM__KERNEL(RESHAPE, Reshape, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(RESIZE_BILINEAR, Resize, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(RESIZE_NEAREST_NEIGHBOR, Resize, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(REVERSE_V2, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(ROUND, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(RSQRT, None, none, 28, 20, 28, 28, "0a"),
    VRAM__KERNEL(SELECT_V2, None, none, 1, 1, 1, 1, "012a"),
    VRAM__KERNEL(SHAPE, Shape, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(SIN, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SLICE, None, none, 0, 0, 0, 0, "012a"),
    VRAM__KERNEL(SOFTMAX, Softmax, softmax, 56, 56, 80, 80, "0a!"),
    VRAM__KERNEL(SPACE_TO_BATCH_ND, None, none, 4, 4, 4, 4, "0a"),
    VRAM__KERNEL(SPACE_TO_DEPTH, DepthToSpace, dims, 0, 0, 0, 0, "0a!"),
    VRAM__KERNEL(SPLIT, Split, none, 0, 0, 0, 0, "0"),
    VRAM__KERNEL(SPLIT_V, Split, none, 0, 0, 0, 0, "2"),
    VRAM__KERNEL(SQRT, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SQUARE, None, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SQUARED_DIFFERENCE, None, none, 112, 112, 112, 112, "01a"),
    VRAM__KERNEL(SQUEEZE, Squeeze, none, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(STRIDED_SLICE, StridedSlice, none, 84, 84, 84, 84, "0123a"),
    VRAM__KERNEL(SUB, Sub, none, 52, 52, 52, 52, "01a"),
    VRAM__KERNEL(SUM, Reducer, reduce, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(SVDF, SVDF, svdf, 36, 36, 36, 36, "01234a!"),
    VRAM__KERNEL(TANH, None, none, 16, 16, 16, 16, "00a"),
    VRAM__KERNEL(TRANSPOSE, None, none, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(TRANSPOSE_CONV, TransposeConv, deconv, 72, 72, 80, 88, "a21!(213a"),
    VRAM__KERNEL(UNIDIRECTIONAL_SEQUENCE_LSTM, UnidirectionalSequenceLSTM,
                 lstm, 688, 688, 688, 688, "*a!"),
    VRAM__KERNEL(UNPACK, Unpack, none, 0, 0, 0, 0, ""),
    VRAM__KERNEL(ZEROS_LIKE, None, none, 0, 0, 0, 0, "0a"),
};
/* clang-format on */

VRAM__FN const vram__tflm_kernel *vram__tflm_kernel_of(const char *name, uint32_t len) {
  uint32_t i;
  for (i = 0; i < sizeof vram__tflm_kernels / sizeof *vram__tflm_kernels; i++)
    if (vram__text_is(name, len, vram__tflm_kernels[i].name))
      return vram__tflm_kernels + i;
  return NULL;
}

VRAM__FN const vram__tflm_struct *vram__tflm_params_of(uint32_t params) {
  return vram__tflm_params_on + params;
}
