/* >>convert/tflite_layer    TFLite operators with weights or windows; images are N, C, H, W here
   A value of four axes that a convolution gave is written channels first (cell->first): the same
   elements as the file's N, H, W, C. Who needs the file's order gets a `permute` of it, a view. */
#include "convert/convert.h"

enum { VRAM__TFLITE_VALID = 1 };

/* Where axis 0, 1, 2, 3 of the file is, channels first; and the other way. */
static const uint8_t vram__tflite_to[] = {0, 2, 3, 1}, vram__tflite_from[] = {0, 3, 1, 2};

VRAM__FN int64_t vram__tflite_axis(int is_first, int64_t axis) {
  return is_first && axis >= 0 ? vram__tflite_to[axis & 3] : axis;
}

VRAM__FN int vram__tflite_is_first(const vram__onnx_cell *c) {
  for (; c; c = c->same)
    if (c->first)
      return 1;
  return 0;
}

/* A constant in the order of `order`, behind as many axes of 1 as it takes to have four. */
static vram_value *vram__tflite_weight(vram__onnx_job *m, const vram__onnx_cell *c,
                                       const uint8_t *order) {
  int64_t size[4], four[4];
  uint32_t i;
  if (c->tensor->ndim > 4)
    return vram__onnx_refuse(m, "a constant of more than four axes"), (vram_value *)NULL;
  for (i = 0; i < 4; i++)
    four[i] = i + c->tensor->ndim < 4 ? 1 : c->tensor->size[i + c->tensor->ndim - 4];
  for (i = 0; i < 4; i++)
    size[i] = four[order[i]];
  vram__draft_op(m->d, VRAM_OP_parameter);
  vram__draft_shape(m->d, size, 4);
  return vram__onnx_between(m, c, "first");
}

/* The value channels first; NULL: it is none of four axes, or an error. */
VRAM__FN vram_value *vram__tflite_first(vram__onnx_job *m, vram__onnx_cell *c) {
  static const int64_t order[] = {0, 3, 1, 2};
  if (!c)
    return vram__onnx_refuse(m, "an input that nothing gives"), (vram_value *)NULL;
  if (!c->first && c->same)
    c->first = vram__tflite_first(m, c->same);
  else if (!c->first && c->tensor && !c->value)
    c->first = vram__tflite_weight(m, c, vram__tflite_from);
  if (c->first)
    return c->first;
  if (!vram__onnx_value_of(m, c) || c->value->d->ndim != 4)
    return vram__onnx_refuse(m, "an image of other than four axes"), (vram_value *)NULL;
  vram__draft_op(m->d, VRAM_OP_permute);
  vram__draft_in(m->d, c->value);
  vram__draft_ints(m->d, "dims", order, 4);
  c->first = vram__onnx_between(m, c, "first");
  return c->first;
}

/* What is there, channels first or as in the file. */
VRAM__FN vram_value *vram__tflite_any(vram__onnx_job *m, vram__onnx_cell *c, int *is_first) {
  *is_first = vram__tflite_is_first(c);
  return *is_first ? vram__tflite_first(m, c) : vram__onnx_value_of(m, c);
}

/* ---- results ---- */

/* Has it the shape and the type that the file says? What is open there is not compared. */
static int vram__tflite_is_said(vram__onnx_job *m, const vram__onnx_cell *out, const vram_value *v,
                                int is_first) {
  const vram_file_operand *const o = out->said;
  uint32_t i;
  if (!o)
    return 1;
  if (v->d->ndim != o->ndim)
    return vram__onnx_refuse(m, "a result of another number of axes than the file's");
  for (i = 0; i < o->ndim; i++)
    if (o->size[i] >= 0 && v->d->v[vram__tflite_axis(is_first, i)] != o->size[i])
      return vram__onnx_refuse(m, "a result of another shape than the file's");
  if (o->dtype && v->dtype != vram__onnx_text_dtype(m, o->dtype, o->scales))
    return vram__onnx_refuse(m, "a result of another type than the file's");
  return 1;
}

/* The line gives output i, after it the fused activation. */
VRAM__FN int vram__tflite_put(vram__onnx_job *m, vram__onnx_step *s, int is_first) {
  static const vram_op op[] = {VRAM_OP_custom, VRAM_OP_relu, VRAM_OP_hardtanh, VRAM_OP_relu6,
                               VRAM_OP_tanh};
  const int64_t act = vram__onnx_attr_int(s, "activation", 0);
  vram__onnx_cell *const out = s->nout ? s->out[0] : NULL;
  vram_value *v;
  if (!out || act < 0 || act > 4)
    return vram__onnx_refuse(m, "no output, or an activation without a word");
  if (act) {
    v = vram__onnx_between(m, out, "linear");
    if (!v)
      return 0;
    vram__draft_op(m->d, op[act]);
    vram__draft_in(m->d, v);
    vram__draft_int(m->d, "inplace", 1);
  }
  if (!vram__onnx_put(m, out))
    return 0;
  v = out->value;
  if (is_first) {
    out->first = v;
    out->value = NULL;
  }
  return vram__tflite_is_said(m, out, v, is_first);
}

/* ---- windows ---- */

typedef struct vram__tflite_window { /* of height and width */
  int64_t kernel[2], stride[2], dilation[2], pad[2];
} vram__tflite_window;

static int vram__tflite_window_read(vram__onnx_job *m, const vram__onnx_step *s, int64_t h,
                                    int64_t w, vram__tflite_window *to) {
  uint32_t i;
  to->kernel[0] = h;
  to->kernel[1] = w;
  to->stride[0] = vram__onnx_attr_int(s, "stride_h", 0);
  to->stride[1] = vram__onnx_attr_int(s, "stride_w", 0);
  to->dilation[0] = vram__onnx_attr_int(s, "dilation_h", 1);
  to->dilation[1] = vram__onnx_attr_int(s, "dilation_w", 1);
  to->pad[0] = to->pad[1] = 0;
  for (i = 0; i < 2; i++)
    if (to->kernel[i] < 1 || to->kernel[i] > INT64_C(1) << 24 || to->stride[i] < 1 ||
        to->stride[i] > INT64_C(1) << 24 || to->dilation[i] < 1 ||
        to->dilation[i] > INT64_C(1) << 24)
      return vram__onnx_refuse(m, "a size of its window is out of range");
  return 1;
}

/* SAME: the result has ceil(size / stride). Where one side gets one more than the other, both get
   as many: at a stride above 1 the result is the same, and nothing is copied to pad it. At stride 1
   there is a `pad` line. */
static vram_value *vram__tflite_same(vram__onnx_job *m, const vram__onnx_step *s, vram_value *x,
                                     vram__tflite_window *w) {
  int64_t side[4] = {0, 0, 0, 0}, more = 0;
  uint32_t i;
  if (vram__onnx_attr_int(s, "padding", 0) == VRAM__TFLITE_VALID)
    return x;
  for (i = 0; i < 2; i++) {
    const int64_t size = x->d->v[2 + i], out = vram__div_up(size, w->stride[i]);
    int64_t all = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size;
    all = all < 0 ? 0 : all;
    w->pad[i] = (all + 1) / 2;
    side[2 - 2 * i] = all / 2;
    side[3 - 2 * i] = all - all / 2;
    more |= all % 2 && w->stride[i] == 1;
  }
  if (!more)
    return x;
  w->pad[0] = w->pad[1] = 0;
  vram__draft_op(m->d, VRAM_OP_pad);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "pad", side, 4);
  return vram__onnx_between(m, s->out[0], "pad");
}

static int vram__tflite_not(const int64_t *v, int64_t usual) {
  return v[0] != usual || v[1] != usual;
}

static void vram__tflite_window_keys(vram__onnx_job *m, const vram__tflite_window *w) {
  vram__draft_axes(m->d, "kernel_size", w->kernel, 2);
  if (vram__tflite_not(w->stride, 1))
    vram__draft_axes(m->d, "stride", w->stride, 2);
  if (vram__tflite_not(w->pad, 0))
    vram__draft_axes(m->d, "padding", w->pad, 2);
  if (vram__tflite_not(w->dilation, 1))
    vram__draft_axes(m->d, "dilation", w->dilation, 2);
}

/* ---- convolutions ---- */

/* Weights are O, H, W, I; of a depthwise one 1, H, W, O. The line owns them, or takes them. */
VRAM__FN int vram__tflite_map_conv(vram__onnx_job *m, vram__onnx_step *s) {
  static const uint8_t depthwise_order[] = {3, 0, 1, 2};
  const int depthwise = vram__text_is(s->node->op, s->node->op_len, "DEPTHWISE_CONV_2D");
  vram__onnx_cell *const w = vram__onnx_in(s, 1), *const b = vram__onnx_in(s, 2);
  const int owned = vram__onnx_is_owned(w) && (!b || vram__onnx_is_owned(b));
  vram_value *x = vram__tflite_first(m, vram__onnx_in(s, 0)), *weight = NULL, *bias = NULL;
  vram__tflite_window window;
  int64_t size[VRAM_MAX_AXES], groups;
  uint32_t ndim;
  if (!x || !w || !vram__onnx_shape(w, &ndim, size) || ndim != 4 || size[3] < 1 ||
      !vram__tflite_window_read(m, s, size[1], size[2], &window))
    return vram__onnx_refuse(m, "no input, or no weight of four axes");
  if (!owned) {
    weight = !depthwise  ? vram__tflite_first(m, w)
             : w->tensor ? vram__tflite_weight(m, w, depthwise_order)
                         : NULL;
    bias = b ? vram__onnx_value_of(m, b) : NULL;
    if (!weight || (b && !bias))
      return vram__onnx_refuse(m, "a weight that is computed");
  }
  groups = depthwise ? x->d->v[1] : x->d->v[1] / size[3];
  x = vram__tflite_same(m, s, x, &window);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_conv2d);
  vram__draft_in(m->d, x);
  if (weight)
    vram__draft_in(m->d, weight);
  if (bias)
    vram__draft_in(m->d, bias);
  vram__draft_int(m->d, "out_channels", size[depthwise ? 3 : 0]);
  vram__tflite_window_keys(m, &window);
  if (groups > 1)
    vram__draft_int(m->d, "groups", groups);
  if (!b)
    vram__draft_int(m->d, "bias", 0);
  return vram__tflite_put(m, s, 1);
}

/* Inputs: the result's shape, weights O, H, W, I, x, bias. */
VRAM__FN int vram__tflite_map_transpose_conv(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 1), *const b = vram__onnx_in(s, 3);
  vram_value *const x = vram__tflite_first(m, vram__onnx_in(s, 2));
  const vram_file_operand *const said = s->nout && s->out[0] ? s->out[0]->said : NULL;
  vram__tflite_window window;
  int64_t more[2];
  uint32_t i;
  if (!x || !said || said->ndim != 4 || !vram__onnx_is_owned(w) || w->tensor->ndim != 4 ||
      (b && !vram__onnx_is_owned(b)) ||
      !vram__tflite_window_read(m, s, w->tensor->size[1], w->tensor->size[2], &window))
    return vram__onnx_refuse(m, "no input, or weights of another line");
  for (i = 0; i < 2; i++) {
    const int64_t all =
        (x->d->v[2 + i] - 1) * window.stride[i] + window.kernel[i] - said->size[1 + i];
    window.pad[i] = all > 0 ? (all + 1) / 2 : 0;
    more[i] = 2 * window.pad[i] - all;
  }
  vram__draft_op(m->d, VRAM_OP_conv_transpose2d);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "out_channels", w->tensor->size[0]);
  vram__tflite_window_keys(m, &window);
  if (vram__tflite_not(more, 0))
    vram__draft_axes(m->d, "output_padding", more, 2);
  if (!b)
    vram__draft_int(m->d, "bias", 0);
  return vram__tflite_put(m, s, 1);
}

VRAM__FN int vram__tflite_map_pool(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *x = vram__tflite_first(m, vram__onnx_in(s, 0));
  vram__tflite_window w;
  if (!x || !vram__tflite_window_read(m, s, vram__onnx_attr_int(s, "filter_height", 0),
                                      vram__onnx_attr_int(s, "filter_width", 0), &w))
    return 0;
  x = vram__tflite_same(m, s, x, &w);
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_axes(m->d, "kernel_size", w.kernel, 2);
  vram__draft_axes(m->d, "stride", w.stride, 2);
  if (vram__tflite_not(w.pad, 0))
    vram__draft_axes(m->d, "padding", w.pad, 2);
  if (vram__tflite_not(w.pad, 0) && s->row->op == VRAM_OP_avg_pool2d)
    vram__draft_int(m->d, "count_include_pad", 0);
  return vram__tflite_put(m, s, 1);
}

VRAM__FN int vram__tflite_map_resize(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__tflite_first(m, vram__onnx_in(s, 0));
  uint32_t n = 0;
  const int64_t *const size = vram__onnx_list(m, s, "", 1, &n);
  if (!x || !size || n != 2)
    return vram__onnx_refuse(m, "a size that is not known");
  vram__draft_op(m->d, VRAM_OP_interpolate);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "size", size, 2);
  if (vram__text_is(s->node->op, s->node->op_len, "RESIZE_BILINEAR"))
    vram__draft_word(m->d, "mode", "bilinear");
  return vram__tflite_put(m, s, 1);
}

VRAM__FN int vram__tflite_map_shuffle(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__tflite_first(m, vram__onnx_in(s, 0));
  if (!x)
    return 0;
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, s->row->op == VRAM_OP_pixel_shuffle ? "upscale_factor" : "downscale_factor",
                  vram__onnx_attr_int(s, "block_size", 0));
  return vram__tflite_put(m, s, 1);
}

/* A slope for each channel. */
VRAM__FN int vram__tflite_map_prelu(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 1);
  vram_value *const x = vram__tflite_first(m, vram__onnx_in(s, 0));
  if (!x || !vram__onnx_is_owned(w) ||
      (w->tensor->numel != 1 && w->tensor->numel != (uint64_t)x->d->v[1]))
    return vram__onnx_refuse(m, "slopes of other than channels");
  vram__draft_op(m->d, VRAM_OP_prelu);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "num_parameters", (int64_t)w->tensor->numel);
  return vram__tflite_put(m, s, 1);
}

/* ---- products ---- */

/* x as rows of so many; its channels-first form where that has the same order. */
static vram_value *vram__tflite_as_rows(vram__onnx_job *m, vram__onnx_step *s, int64_t features) {
  vram__onnx_cell *const c = vram__onnx_in(s, 0);
  vram_value *x = c && vram__tflite_is_first(c) ? vram__tflite_first(m, c) : NULL;
  int64_t size[2];
  if (!x || x->d->v[2] != 1 || x->d->v[3] != 1)
    x = vram__onnx_value_of(m, c);
  if (!x || features < 1)
    return vram__onnx_refuse(m, "an input that nothing gives"), (vram_value *)NULL;
  if (vram__onnx_attr_int(s, "keep_num_dims", 0) && x == c->value)
    return x;
  if (x->d->ndim == 2 && x->d->v[1] == features)
    return x;
  size[0] = (int64_t)(x->d->numel / (uint64_t)features);
  size[1] = features;
  vram__draft_op(m->d, VRAM_OP_reshape);
  vram__draft_in(m->d, x);
  vram__draft_shape(m->d, size, 2);
  return vram__onnx_between(m, s->out[0], "rows");
}

VRAM__FN int vram__tflite_map_linear(vram__onnx_job *m, vram__onnx_step *s) {
  vram__onnx_cell *const w = vram__onnx_in(s, 1), *const b = vram__onnx_in(s, 2);
  const int owned = vram__onnx_is_owned(w) && (!b || vram__onnx_is_owned(b));
  vram_value *x, *weight = NULL, *bias = NULL;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (!w || !s->nout || !s->out[0] || !vram__onnx_shape(w, &ndim, size) || ndim != 2)
    return vram__onnx_refuse(m, "no weight of two axes");
  x = vram__tflite_as_rows(m, s, size[1]);
  if (x && !owned) {
    weight = vram__onnx_value_of(m, w);
    bias = b ? vram__onnx_value_of(m, b) : NULL;
  }
  if (!x || (!owned && (!weight || (b && !bias))))
    return 0;
  vram__draft_op(m->d, VRAM_OP_linear);
  vram__draft_in(m->d, x);
  if (weight)
    vram__draft_in(m->d, weight);
  if (bias)
    vram__draft_in(m->d, bias);
  vram__draft_int(m->d, "out_features", size[0]);
  if (!b)
    vram__draft_int(m->d, "bias", 0);
  return vram__tflite_put(m, s, 0);
}

VRAM__FN int vram__tflite_map_matmul(vram__onnx_job *m, vram__onnx_step *s) {
  static const char *const adjoint[] = {"adj_x", "adj_y"};
  vram_value *in[2];
  uint32_t i;
  for (i = 0; i < 2; i++) {
    in[i] = vram__onnx_take_in(m, s, i);
    if (!in[i])
      return 0;
    if (!vram__onnx_attr_int(s, adjoint[i], 0))
      continue;
    vram__draft_op(m->d, VRAM_OP_transpose);
    vram__draft_in(m->d, in[i]);
    vram__draft_int(m->d, "dim0", -2);
    vram__draft_int(m->d, "dim1", -1);
    in[i] = vram__onnx_between(m, s->out[0], i ? "b" : "a");
    if (!in[i])
      return 0;
  }
  vram__draft_op(m->d, VRAM_OP_matmul);
  vram__draft_in(m->d, in[0]);
  vram__draft_in(m->d, in[1]);
  return vram__tflite_put(m, s, 0);
}
