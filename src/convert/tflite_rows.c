/* >>convert/tflite_rows    a row of each TFLite operator that has a word */
#include "convert/convert.h"

#define VRAM__TFLITE_ROW(name, map, op)                                                            \
  { name, vram__tflite_map_##map, VRAM_OP_##op }
static const vram__onnx_row vram__tflite_rows[] = {
    VRAM__TFLITE_ROW("ABS", unary, abs),
    VRAM__TFLITE_ROW("ADD", binary, add),
    VRAM__TFLITE_ROW("AVERAGE_POOL_2D", pool, avg_pool2d),
    VRAM__TFLITE_ROW("BATCH_MATMUL", matmul, matmul),
    VRAM__TFLITE_ROW("CAST", cast, to),
    VRAM__TFLITE_ROW("CONCATENATION", concat, cat),
    VRAM__TFLITE_ROW("CONV_2D", conv, conv2d),
    VRAM__TFLITE_ROW("COS", unary, cos),
    VRAM__TFLITE_ROW("DENSIFY", quantize, to),
    VRAM__TFLITE_ROW("DEPTHWISE_CONV_2D", conv, conv2d),
    VRAM__TFLITE_ROW("DEPTH_TO_SPACE", shuffle, pixel_shuffle),
    VRAM__TFLITE_ROW("DEQUANTIZE", quantize, to),
    VRAM__TFLITE_ROW("DIV", binary, div),
    VRAM__TFLITE_ROW("ELU", unary, elu),
    VRAM__TFLITE_ROW("EQUAL", binary, eq),
    VRAM__TFLITE_ROW("EXP", unary, exp),
    VRAM__TFLITE_ROW("EXPAND_DIMS", reshape, reshape),
    VRAM__TFLITE_ROW("FLOOR_DIV", binary, floor_divide),
    VRAM__TFLITE_ROW("FLOOR_MOD", binary, remainder),
    VRAM__TFLITE_ROW("FULLY_CONNECTED", linear, linear),
    VRAM__TFLITE_ROW("GATHER", gather, index_select),
    VRAM__TFLITE_ROW("GELU", unary, gelu),
    VRAM__TFLITE_ROW("GREATER", binary, gt),
    VRAM__TFLITE_ROW("GREATER_EQUAL", binary, ge),
    VRAM__TFLITE_ROW("HARD_SWISH", unary, hardswish),
    VRAM__TFLITE_ROW("LEAKY_RELU", unary, leaky_relu),
    VRAM__TFLITE_ROW("LESS", binary, lt),
    VRAM__TFLITE_ROW("LESS_EQUAL", binary, le),
    VRAM__TFLITE_ROW("LOG", unary, log),
    VRAM__TFLITE_ROW("LOGICAL_AND", binary, logical_and),
    VRAM__TFLITE_ROW("LOGICAL_NOT", unary, logical_not),
    VRAM__TFLITE_ROW("LOGICAL_OR", binary, logical_or),
    VRAM__TFLITE_ROW("LOGISTIC", unary, sigmoid),
    VRAM__TFLITE_ROW("LOG_SOFTMAX", softmax, log_softmax),
    VRAM__TFLITE_ROW("MAXIMUM", binary, maximum),
    VRAM__TFLITE_ROW("MAX_POOL_2D", pool, max_pool2d),
    VRAM__TFLITE_ROW("MEAN", reduce, mean),
    VRAM__TFLITE_ROW("MINIMUM", binary, minimum),
    VRAM__TFLITE_ROW("MIRROR_PAD", pad, pad),
    VRAM__TFLITE_ROW("MUL", binary, mul),
    VRAM__TFLITE_ROW("NEG", unary, neg),
    VRAM__TFLITE_ROW("NOT_EQUAL", binary, ne),
    VRAM__TFLITE_ROW("PACK", pack, stack),
    VRAM__TFLITE_ROW("PAD", pad, pad),
    VRAM__TFLITE_ROW("PADV2", pad, pad),
    VRAM__TFLITE_ROW("POW", binary, pow),
    VRAM__TFLITE_ROW("PRELU", prelu, prelu),
    VRAM__TFLITE_ROW("QUANTIZE", quantize, to),
    VRAM__TFLITE_ROW("REDUCE_MAX", reduce, amax),
    VRAM__TFLITE_ROW("REDUCE_MIN", reduce, amin),
    VRAM__TFLITE_ROW("REDUCE_PROD", reduce, prod),
    VRAM__TFLITE_ROW("RELU", unary, relu),
    VRAM__TFLITE_ROW("RELU6", unary, relu6),
    VRAM__TFLITE_ROW("RELU_N1_TO_1", unary, hardtanh),
    VRAM__TFLITE_ROW("RESHAPE", reshape, reshape),
    VRAM__TFLITE_ROW("RESIZE_BILINEAR", resize, interpolate),
    VRAM__TFLITE_ROW("RESIZE_NEAREST_NEIGHBOR", resize, interpolate),
    VRAM__TFLITE_ROW("ROUND", unary, round),
    VRAM__TFLITE_ROW("RSQRT", unary, rsqrt),
    VRAM__TFLITE_ROW("SELECT", where, where),
    VRAM__TFLITE_ROW("SELECT_V2", where, where),
    VRAM__TFLITE_ROW("SIGN", unary, sign),
    VRAM__TFLITE_ROW("SIN", unary, sin),
    VRAM__TFLITE_ROW("SLICE", slice, slice),
    VRAM__TFLITE_ROW("SOFTMAX", softmax, softmax),
    VRAM__TFLITE_ROW("SPACE_TO_DEPTH", shuffle, pixel_unshuffle),
    VRAM__TFLITE_ROW("SPLIT", split, split),
    VRAM__TFLITE_ROW("SPLIT_V", split, split),
    VRAM__TFLITE_ROW("SQRT", unary, sqrt),
    VRAM__TFLITE_ROW("SQUARE", unary, square),
    VRAM__TFLITE_ROW("SQUEEZE", reshape, reshape),
    VRAM__TFLITE_ROW("STRIDED_SLICE", slice, slice),
    VRAM__TFLITE_ROW("SUB", binary, sub),
    VRAM__TFLITE_ROW("SUM", reduce, sum),
    VRAM__TFLITE_ROW("TANH", unary, tanh),
    VRAM__TFLITE_ROW("TILE", tile, repeat),
    VRAM__TFLITE_ROW("TRANSPOSE", transpose, permute),
    VRAM__TFLITE_ROW("TRANSPOSE_CONV", transpose_conv, conv_transpose2d),
    VRAM__TFLITE_ROW("UNPACK", unpack, unbind),
};
#undef VRAM__TFLITE_ROW

/* NULL: no word. */
VRAM__FN const vram__onnx_row *vram__tflite_row_of(const vram_file_node *n) {
  const size_t count = sizeof vram__tflite_rows / sizeof *vram__tflite_rows;
  size_t i;
  if (!vram__text_is(n->domain, n->domain_len, "tflite"))
    return NULL;
  for (i = 0; i < count; i++)
    if (vram__text_is(n->op, n->op_len, vram__tflite_rows[i].name))
      return vram__tflite_rows + i;
  return NULL;
}

/* Is its first input better given channels first? What goes over elements asks those behind it. */
static int vram__tflite_likes_first(const vram__onnx_step *s) {
  const vram__onnx_map map = s->row ? s->row->map : NULL;
  const int follows = map == vram__tflite_map_unary || map == vram__tflite_map_binary ||
                      map == vram__tflite_map_concat || map == vram__tflite_map_pad ||
                      map == vram__tflite_map_quantize;
  return map == vram__tflite_map_conv || map == vram__tflite_map_pool ||
         map == vram__tflite_map_transpose_conv || map == vram__tflite_map_resize ||
         map == vram__tflite_map_shuffle || map == vram__tflite_map_prelu ||
         (follows && s->nout && s->out[0] && s->out[0]->is_image);
}

/* Which values are images, from the last operator to the first. */
VRAM__FN void vram__tflite_images(vram__onnx_job *m) {
  uint64_t k;
  uint32_t i;
  for (k = m->f->nnode; k-- && m->step;)
    for (i = 0; vram__tflite_likes_first(m->step + k) && i < m->step[k].nin; i++)
      if (m->step[k].in[i])
        m->step[k].in[i]->is_image = 1;
}
