/* >>tflm/kernels    a row of each kernel of TensorFlow Lite Micro
   From tensorflow/lite/micro/kernels (Init, Prepare) and core/api/flatbuffer_conversions.cc
   (Parse), sizes by compilers for the targets. */
#include "tflm/tflm.h"

/* clang-format off */
static const vram__tflm_struct vram__tflm_params_on[] = {
#define VRAM__X(name, bytes, align, short_bytes, short_align, python_bytes, python_align)        \
  {{{bytes, align}, {short_bytes, short_align}, {bytes, align}, {python_bytes, python_align}}},
    VRAM__TFLM_PARAMS(VRAM__X)
#undef VRAM__X
};

#define VRAM__KERNEL(name, params, rule, data32, arm, data64, python, temps)                     \
  {#name, VRAM__TFLM_OF_##params, VRAM__TFLM_##rule, {data32, arm, data64, python}, temps}
static const vram__tflm_kernel vram__tflm_kernels[] = {
    VRAM__KERNEL(ABS, None, PLAIN, 28, 20, 28, 28, "0a"),
    VRAM__KERNEL(ADD, Add, PLAIN, 60, 60, 60, 60, "01a"),
    VRAM__KERNEL(ADD_N, None, ADD_N, 40, 40, 40, 40, "0a*!"),
    VRAM__KERNEL(ARG_MAX, ArgMax, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(ARG_MIN, ArgMax, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(AVERAGE_POOL_2D, Pool, PLAIN, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(BATCH_MATMUL, BatchMatMul, MATMUL, 16, 16, 32, 32, "01a!"),
    VRAM__KERNEL(BATCH_TO_SPACE_ND, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(BROADCAST_ARGS, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(BROADCAST_TO, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(CAST, Cast, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CEIL, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CONCATENATION, Concatenation, PLAIN, 24, 24, 40, 80, "0a*"),
    VRAM__KERNEL(CONV_2D, Conv, CONV, 56, 56, 72, 80, "a01!012a"),
    VRAM__KERNEL(COS, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(CUMSUM, Cumsum, LATE, 36, 36, 36, 36, "01a!"),
    VRAM__KERNEL(DEPTHWISE_CONV_2D, DepthwiseConv, CONV, 56, 56, 72, 80, "a01!012a"),
    VRAM__KERNEL(DEPTH_TO_SPACE, DepthToSpace, DIMS, 0, 0, 0, 0, "0a!"),
    VRAM__KERNEL(DEQUANTIZE, None, PLAIN, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(DIV, Div, PLAIN, 28, 28, 28, 28, "01a"),
    VRAM__KERNEL(DYNAMIC_UPDATE_SLICE, None, PLAIN, 0, 0, 0, 0, "012a"),
    VRAM__KERNEL(ELU, None, PLAIN, 256, 256, 256, 256, "0a"),
    VRAM__KERNEL(EMBEDDING_LOOKUP, None, LOOKUP, 8, 8, 16, 16, "01a!"),
    VRAM__KERNEL(EQUAL, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(EXP, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(EXPAND_DIMS, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FILL, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FLOOR, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(FLOOR_DIV, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FLOOR_MOD, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(FULLY_CONNECTED, FullyConnected, LINEAR, 48, 48, 64, 72, "012a!"),
    VRAM__KERNEL(GATHER, Gather, DIMS, 0, 0, 0, 0, "01a!"),
    VRAM__KERNEL(GATHER_ND, None, DIMS, 0, 0, 0, 0, "01a!"),
    VRAM__KERNEL(GREATER, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(GREATER_EQUAL, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(HARD_SWISH, None, PLAIN, 20, 20, 20, 20, "0a"),
    VRAM__KERNEL(L2_NORMALIZATION, L2Norm, PLAIN, 4, 4, 4, 4, "0a"),
    VRAM__KERNEL(L2_POOL_2D, Pool, DIMS, 0, 0, 0, 0, "a0!"),
    VRAM__KERNEL(LEAKY_RELU, LeakyRelu, PLAIN, 24, 24, 24, 24, "0a"),
    VRAM__KERNEL(LESS, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(LESS_EQUAL, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(LOG, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(LOGICAL_AND, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(LOGICAL_NOT, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(LOGICAL_OR, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(LOGISTIC, None, PLAIN, 16, 16, 16, 16, "0a"),
    VRAM__KERNEL(LOG_SOFTMAX, None, LATE, 28, 28, 40, 40, "0a!"),
    VRAM__KERNEL(MAXIMUM, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(MAX_POOL_2D, Pool, PLAIN, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(MEAN, Reducer, SUM, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(MINIMUM, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(MIRROR_PAD, MirrorPadding, MIRROR, 20, 20, 20, 20, "01a!"),
    VRAM__KERNEL(MUL, Mul, PLAIN, 36, 36, 36, 36, "01a"),
    VRAM__KERNEL(NEG, None, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(NOT_EQUAL, None, PLAIN, 32, 32, 32, 32, "01"),
    VRAM__KERNEL(PACK, Pack, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(PAD, None, PLAIN, 56, 56, 56, 56, "012a"),
    VRAM__KERNEL(PADV2, None, PLAIN, 56, 56, 56, 56, "012a"),
    VRAM__KERNEL(PRELU, None, PLAIN, 28, 28, 28, 28, "01a"),
    VRAM__KERNEL(QUANTIZE, None, PLAIN, 32, 32, 32, 32, "0a"),
    VRAM__KERNEL(REDUCE_ALL, Reducer, EXTREME, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(REDUCE_MAX, Reducer, EXTREME, 44, 44, 44, 44, "01A0a1!"),
    VRAM__KERNEL(REDUCE_MIN, Reducer, EXTREME, 44, 44, 44, 44, "01A0a1!"),
    VRAM__KERNEL(RELU, None, PLAIN, 28, 28, 28, 28, "0a"),
    VRAM__KERNEL(RELU6, None, PLAIN, 8, 8, 8, 8, "0"),
    VRAM__KERNEL(RESHAPE, Reshape, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(RESIZE_BILINEAR, Resize, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(RESIZE_NEAREST_NEIGHBOR, Resize, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(REVERSE_V2, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(ROUND, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(RSQRT, None, PLAIN, 28, 20, 28, 28, "0a"),
    VRAM__KERNEL(SELECT_V2, None, PLAIN, 1, 1, 1, 1, "012a"),
    VRAM__KERNEL(SHAPE, Shape, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(SIN, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SLICE, None, PLAIN, 0, 0, 0, 0, "012a"),
    VRAM__KERNEL(SOFTMAX, Softmax, SOFTMAX, 56, 56, 80, 80, "0a!"),
    VRAM__KERNEL(SPACE_TO_BATCH_ND, None, PLAIN, 4, 4, 4, 4, "0a"),
    VRAM__KERNEL(SPACE_TO_DEPTH, DepthToSpace, DIMS, 0, 0, 0, 0, "0a!"),
    VRAM__KERNEL(SPLIT, Split, PLAIN, 0, 0, 0, 0, "0"),
    VRAM__KERNEL(SPLIT_V, Split, PLAIN, 0, 0, 0, 0, "2"),
    VRAM__KERNEL(SQRT, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SQUARE, None, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(SQUARED_DIFFERENCE, None, PLAIN, 112, 112, 112, 112, "01a"),
    VRAM__KERNEL(SQUEEZE, Squeeze, PLAIN, 0, 0, 0, 0, "0a"),
    VRAM__KERNEL(STRIDED_SLICE, StridedSlice, PLAIN, 84, 84, 84, 84, "0123a"),
    VRAM__KERNEL(SUB, Sub, PLAIN, 52, 52, 52, 52, "01a"),
    VRAM__KERNEL(SUM, Reducer, SUM, 44, 44, 44, 44, "0a1!01A"),
    VRAM__KERNEL(SVDF, SVDF, SVDF, 36, 36, 36, 36, "01234a!"),
    VRAM__KERNEL(TANH, None, PLAIN, 16, 16, 16, 16, "00a"),
    VRAM__KERNEL(TRANSPOSE, None, PLAIN, 0, 0, 0, 0, "01a"),
    VRAM__KERNEL(TRANSPOSE_CONV, TransposeConv, DECONV, 72, 72, 80, 88, "a21!(213a"),
    VRAM__KERNEL(UNIDIRECTIONAL_SEQUENCE_LSTM, UnidirectionalSequenceLSTM,
                 LSTM, 688, 688, 688, 688, "*a!"),
    VRAM__KERNEL(UNPACK, Unpack, PLAIN, 0, 0, 0, 0, ""),
    VRAM__KERNEL(ZEROS_LIKE, None, PLAIN, 0, 0, 0, 0, "0a"),
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
