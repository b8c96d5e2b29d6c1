/* >>convert/onnx_layer    ONNX operators with weights: convolutions, products, norms, pools, cells
 */
#include "convert/convert.h"

/* Keys for weights of another dtype than the model's. */
static void vram__onnx_weight_dtype(vram__onnx_job *m, const vram__onnx_cell *w) {
  if (vram__onnx_dtype(w) != m->dtype)
    vram__draft_word(m->d, "dtype", vram_dtype_name(vram__onnx_dtype(w)));
}

/* ---- windows: of convolutions and pools ---- */

typedef struct vram__onnx_window {
  int64_t kernel[3], stride[3], dilation[3], begin[3], end[3];
  uint32_t k; /* axes */
} vram__onnx_window;

static void vram__onnx_window_list(const vram__onnx_step *s, const char *name, uint32_t k,
                                   int64_t *to) {
  uint32_t n, i;
  const int64_t *const v = vram__onnx_attr_ints(s, name, &n);
  for (i = 0; v && n == k && i < k; i++)
    to[i] = v[i];
}

/* auto_pad: as many as a result of ceil(size / stride) needs, the odd one where it says. */
static void vram__onnx_window_same(const vram__onnx_step *s, const int64_t *size,
                                   vram__onnx_window *w) {
  uint32_t i;
  if (!vram__onnx_attr_is(s, "auto_pad", "SAME_UPPER") &&
      !vram__onnx_attr_is(s, "auto_pad", "SAME_LOWER"))
    return;
  for (i = 0; i < w->k; i++) {
    const int64_t out = w->stride[i] > 0 ? vram__div_up(size[i], w->stride[i]) : 0;
    int64_t pad = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size[i];
    pad = pad < 0 ? 0 : pad;
    w->begin[i] = w->end[i] = pad / 2;
    if (vram__onnx_attr_is(s, "auto_pad", "SAME_UPPER"))
      w->end[i] += pad % 2;
    else
      w->begin[i] += pad % 2;
  }
}

/* Of x, whose first two axes are samples and channels; kernel: of the weights, NULL: an attribute.
   0: of no 1 to 3 axes. */
static int vram__onnx_window_read(vram__onnx_job *m, const vram__onnx_step *s, const vram_value *x,
                                  const int64_t *kernel, vram__onnx_window *w) {
  uint32_t i, n;
  const int64_t *pads = vram__onnx_attr_ints(s, "pads", &n);
  w->k = x->d->ndim - 2u;
  if (x->d->ndim < 3 || x->d->ndim > 5)
    return vram__onnx_refuse(m, "not 1 to 3 axes behind samples and channels");
  for (i = 0; i < w->k; i++) {
    w->stride[i] = w->dilation[i] = 1;
    w->kernel[i] = kernel ? kernel[i] : 0;
    w->begin[i] = pads && n == 2 * w->k ? pads[i] : 0;
    w->end[i] = pads && n == 2 * w->k ? pads[w->k + i] : 0;
  }
  if (!kernel)
    vram__onnx_window_list(s, "kernel_shape", w->k, w->kernel);
  vram__onnx_window_list(s, "strides", w->k, w->stride);
  vram__onnx_window_list(s, "dilations", w->k, w->dilation);
  for (i = 0; i < w->k; i++)
    if (!vram__dims_fit(1, w->kernel + i) || w->kernel[i] > INT64_C(1) << 24 ||
        w->dilation[i] > INT64_C(1) << 24 || w->dilation[i] < 1 || w->stride[i] < 1 ||
        w->stride[i] > INT64_C(1) << 24)
      return vram__onnx_refuse(m, "a size of its window is out of range");
  vram__onnx_window_same(s, x->d->v + 2, w);
  return 1;
}

/* x, or what a `pad` line makes of it where the sides differ. */
static vram_value *vram__onnx_window_pad(vram__onnx_job *m, const vram__onnx_step *s, vram_value *x,
                                         vram__onnx_window *w) {
  int64_t pad[6];
  uint32_t i, differs = 0;
  for (i = 0; i < w->k; i++) {
    differs |= w->begin[i] != w->end[i];
    pad[2 * (size_t)(w->k - 1 - i)] = w->begin[i];
    pad[2 * (size_t)(w->k - 1 - i) + 1] = w->end[i];
  }
  if (!differs)
    return x;
  for (i = 0; i < w->k; i++)
    w->begin[i] = w->end[i] = 0;
  vram__draft_op(m->d, VRAM_OP_pad);
  vram__draft_in(m->d, x);
  vram__draft_ints(m->d, "pad", pad, 2 * w->k);
  return vram__onnx_between(m, s->out[0], "pad");
}

static int vram__onnx_any_above(const int64_t *v, uint32_t n, int64_t above) {
  uint32_t i = 0;
  while (i < n && v[i] <= above)
    i++;
  return i < n;
}

static void vram__onnx_window_keys(vram__onnx_job *m, const vram__onnx_window *w) {
  vram__draft_axes(m->d, "kernel_size", w->kernel, w->k);
  if (vram__onnx_any_above(w->stride, w->k, 1))
    vram__draft_axes(m->d, "stride", w->stride, w->k);
  if (vram__onnx_any_above(w->begin, w->k, 0))
    vram__draft_axes(m->d, "padding", w->begin, w->k);
  if (vram__onnx_any_above(w->dilation, w->k, 1))
    vram__draft_axes(m->d, "dilation", w->dilation, w->k);
}

VRAM__FN int vram__onnx_map_conv(vram__onnx_job *m, vram__onnx_step *s) {
  static const vram_op op[2][3] = {
      {VRAM_OP_conv1d, VRAM_OP_conv2d, VRAM_OP_conv3d},
      {VRAM_OP_conv_transpose1d, VRAM_OP_conv_transpose2d, VRAM_OP_conv_transpose3d}};
  const int transposed = s->row->op == VRAM_OP_conv_transpose2d;
  vram__onnx_cell *const w = vram__onnx_in(s, 1), *const b = vram__onnx_in(s, 2);
  const int owned = vram__onnx_is_owned(w) && (!b || vram__onnx_is_owned(b));
  const int64_t group = vram__onnx_attr_int(s, "group", 1);
  int64_t size[VRAM_MAX_AXES], more[3] = {0, 0, 0};
  vram_value *x = vram__onnx_take_in(m, s, 0),
             *weight = owned || !w ? NULL : vram__onnx_take_in(m, s, 1),
             *bias = owned || !b ? NULL : vram__onnx_take_in(m, s, 2);
  vram__onnx_window window;
  uint32_t ndim;
  if (!x || !w || !vram__onnx_shape(w, &ndim, size) || (!owned && !weight))
    return vram__onnx_refuse(m, "no input or weight");
  if (ndim != x->d->ndim || !vram__onnx_window_read(m, s, x, size + 2, &window))
    return vram__onnx_refuse(m, "a weight of another number of axes");
  if (transposed &&
      (vram__onnx_attr(s, "output_shape") || vram__onnx_attr_is(s, "auto_pad", "SAME_UPPER") ||
       vram__onnx_attr_is(s, "auto_pad", "SAME_LOWER")))
    return vram__onnx_refuse(m, "padding by the result's shape");
  vram__onnx_window_list(s, "output_padding", window.k, more);
  x = transposed ? x : vram__onnx_window_pad(m, s, x, &window);
  if (!x)
    return 0;
  vram__draft_op(m->d, op[transposed][window.k - 1]);
  vram__draft_in(m->d, x);
  if (weight)
    vram__draft_in(m->d, weight);
  if (bias)
    vram__draft_in(m->d, bias);
  if (group < 1 || group > INT64_C(1) << 24 || size[1] > VRAM_MAX_BYTES >> 26)
    return vram__onnx_refuse(m, "groups out of range");
  vram__draft_int(m->d, "out_channels", transposed ? size[1] * group : size[0]);
  vram__onnx_window_keys(m, &window);
  if (vram__onnx_any_above(more, window.k, 0))
    vram__draft_axes(m->d, "output_padding", more, window.k);
  if (group > 1)
    vram__draft_int(m->d, "groups", group);
  if (!b)
    vram__draft_int(m->d, "bias", 0);
  if (owned)
    vram__onnx_weight_dtype(m, w);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- products ---- */

/* The Add behind a product that adds a vector of so many, and nothing else uses the product: a
   layer's bias. NULL: there is none. */
static vram__onnx_step *vram__onnx_bias_of(const vram__onnx_step *s, int64_t features) {
  const vram__onnx_cell *const y = s->out[0];
  vram__onnx_step *const add = y->user;
  const vram__onnx_cell *b;
  if (y->uses != 1 || y->is_output || !add || add->nin != 2 || !add->nout || !add->out[0] ||
      !vram__text_is(add->node->op, add->node->op_len, "Add"))
    return NULL;
  b = add->in[0] == y ? add->in[1] : add->in[0];
  return b != y && vram__onnx_is_owned(b) && b->tensor->ndim == 1 && b->tensor->size[0] == features
             ? add
             : NULL;
}

/* linear, whose weight is this cell's and whose bias is `bias` or that of an Add behind it. */
static int vram__onnx_linear(vram__onnx_job *m, vram__onnx_step *s, vram_value *x, int64_t features,
                             int has_bias) {
  vram__onnx_step *const add = has_bias ? NULL : vram__onnx_bias_of(s, features);
  vram__draft_op(m->d, VRAM_OP_linear);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "out_features", features);
  if (!has_bias && !add)
    vram__draft_int(m->d, "bias", 0);
  vram__onnx_weight_dtype(m, s->in[1]);
  if (!add)
    return vram__onnx_put(m, s->out[0]);
  if (!vram__onnx_put(m, add->out[0]))
    return 0;
  add->done = m->d->run + 1;
  return 1;
}

VRAM__FN int vram__onnx_map_matmul(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const w = vram__onnx_in(s, 1);
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  vram_value *y;
  if (!x)
    return 0;
  if (vram__onnx_is_owned(w) && w->tensor->ndim == 2 && s->nout && s->out[0])
    return vram__onnx_linear(m, s, x, w->tensor->size[1], 0);
  y = vram__onnx_take_in(m, s, 1);
  if (!y)
    return 0;
  vram__draft_op(m->d, VRAM_OP_matmul);
  vram__draft_in(m->d, x);
  vram__draft_in(m->d, y);
  return vram__onnx_put(m, s->out[0]);
}

/* Input i, transposed if the attribute says so. */
static vram_value *vram__onnx_gemm_in(vram__onnx_job *m, vram__onnx_step *s, uint32_t i,
                                      const char *attribute) {
  vram_value *const v = vram__onnx_take_in(m, s, i);
  if (!v || !vram__onnx_attr_int(s, attribute, 0))
    return v;
  vram__draft_op(m->d, VRAM_OP_t);
  vram__draft_in(m->d, v);
  return vram__onnx_between(m, s->out[0], i ? "b" : "a");
}

VRAM__FN int vram__onnx_map_gemm(vram__onnx_job *m, vram__onnx_step *s) {
  const vram__onnx_cell *const w = vram__onnx_in(s, 1), *const c = vram__onnx_in(s, 2);
  const int transposed = vram__onnx_attr_int(s, "transB", 0) != 0;
  vram_value *a, *b, *more = NULL;
  if (!s->nout || !s->out[0])
    return vram__onnx_refuse(m, "no output");
  if (vram__onnx_is_owned(w) && w->tensor->ndim == 2 && !vram__onnx_attr_int(s, "transA", 0)) {
    const int64_t features = w->tensor->size[!transposed];
    if (!c || (vram__onnx_is_owned(c) && c->tensor->ndim == 1 && c->tensor->size[0] == features)) {
      a = vram__onnx_take_in(m, s, 0);
      return a && vram__onnx_linear(m, s, a, features, c != NULL);
    }
  }
  a = vram__onnx_gemm_in(m, s, 0, "transA");
  b = a ? vram__onnx_gemm_in(m, s, 1, "transB") : NULL;
  if (!b || (c && !(more = vram__onnx_take_in(m, s, 2))))
    return 0;
  vram__draft_op(m->d, c ? VRAM_OP_addmm : VRAM_OP_mm);
  if (c)
    vram__draft_in(m->d, more);
  vram__draft_in(m->d, a);
  vram__draft_in(m->d, b);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- pools ---- */

VRAM__FN int vram__onnx_map_pool(vram__onnx_job *m, vram__onnx_step *s) {
  static const vram_op op[2][3] = {{VRAM_OP_max_pool1d, VRAM_OP_max_pool2d, VRAM_OP_max_pool3d},
                                   {VRAM_OP_avg_pool1d, VRAM_OP_avg_pool2d, VRAM_OP_avg_pool3d}};
  const int average = s->row->op == VRAM_OP_avg_pool2d;
  vram_value *x = vram__onnx_take_in(m, s, 0);
  vram__onnx_window w;
  if (!x || !s->nout || !s->out[0] || !vram__onnx_window_read(m, s, x, NULL, &w))
    return 0;
  if (s->nout > 1 && s->out[1])
    return vram__onnx_refuse(m, "indices of the whole tensor");
  x = vram__onnx_window_pad(m, s, x, &w);
  if (!x)
    return 0;
  vram__draft_op(m->d, op[average][w.k - 1]);
  vram__draft_in(m->d, x);
  vram__draft_axes(m->d, "kernel_size", w.kernel, w.k);
  vram__draft_axes(m->d, "stride", w.stride, w.k);
  if (vram__onnx_any_above(w.begin, w.k, 0))
    vram__draft_axes(m->d, "padding", w.begin, w.k);
  if (vram__onnx_any_above(w.dilation, w.k, 1))
    vram__draft_axes(m->d, "dilation", w.dilation, w.k);
  if (vram__onnx_attr_int(s, "ceil_mode", 0))
    vram__draft_int(m->d, "ceil_mode", 1);
  if (average && !vram__onnx_attr_int(s, "count_include_pad", 0) &&
      vram__onnx_any_above(w.begin, w.k, 0))
    vram__draft_int(m->d, "count_include_pad", 0);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_global_pool(vram__onnx_job *m, vram__onnx_step *s) {
  static const vram_op op[2][3] = {
      {VRAM_OP_adaptive_max_pool1d, VRAM_OP_adaptive_max_pool2d, VRAM_OP_adaptive_max_pool3d},
      {VRAM_OP_adaptive_avg_pool1d, VRAM_OP_adaptive_avg_pool2d, VRAM_OP_adaptive_avg_pool3d}};
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  if (x->d->ndim < 3 || x->d->ndim > 5)
    return vram__onnx_refuse(m, "not 1 to 3 axes behind samples and channels");
  vram__draft_op(m->d, op[s->row->op == VRAM_OP_adaptive_avg_pool2d][x->d->ndim - 3]);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "output_size", 1);
  return vram__onnx_put(m, s->out[0]);
}

/* ---- norms ---- */

/* Weight and bias: 2 the line owns both, 1 they are its inputs, 0 an error. */
static int vram__onnx_affine(vram__onnx_job *m, vram__onnx_step *s, vram_value *in[2]) {
  uint32_t i;
  in[0] = in[1] = NULL;
  if (vram__onnx_is_owned(vram__onnx_in(s, 1)) &&
      (!vram__onnx_in(s, 2) || vram__onnx_is_owned(vram__onnx_in(s, 2))))
    return 2;
  for (i = 0; i < 2; i++)
    if (vram__onnx_in(s, i + 1) && !(in[i] = vram__onnx_take_in(m, s, i + 1)))
      return 0;
  return 1;
}

/* The line's inputs: x, and the weights that it does not own. */
static void vram__onnx_norm_in(vram__onnx_job *m, vram_op op, vram_value *x, vram_value *in[2]) {
  vram__draft_op(m->d, op);
  vram__draft_in(m->d, x);
  if (in[0])
    vram__draft_in(m->d, in[0]);
  if (in[0] && in[1])
    vram__draft_in(m->d, in[1]);
}

VRAM__FN int vram__onnx_map_batch_norm(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0), *in[2];
  const int owned = x ? vram__onnx_affine(m, s, in) : 0;
  if (!owned)
    return 0;
  vram__onnx_norm_in(m, VRAM_OP_batch_norm, x, in);
  if (owned == 2)
    vram__onnx_weight_dtype(m, s->in[1]);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_instance_norm(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0), *in[2];
  const int owned = x ? vram__onnx_affine(m, s, in) : 0;
  if (owned != 2)
    return owned ? vram__onnx_refuse(m, "weights that other nodes use, too") : 0;
  vram__onnx_norm_in(m, VRAM_OP_instance_norm, x, in);
  vram__draft_int(m->d, "affine", 1);
  vram__onnx_weight_dtype(m, s->in[1]);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_group_norm(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0), *in[2];
  const int owned = x ? vram__onnx_affine(m, s, in) : 0;
  if (!owned)
    return 0;
  if (m->opset < 21)
    return vram__onnx_refuse(m, "weights for groups instead of channels");
  vram__onnx_norm_in(m, VRAM_OP_group_norm, x, in);
  vram__draft_int(m->d, "num_groups", vram__onnx_attr_int(s, "num_groups", 0));
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_layer_norm(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0), *in[2];
  const int owned = x ? vram__onnx_affine(m, s, in) : 0;
  const int64_t axis = x ? vram__onnx_axis(vram__onnx_attr_int(s, "axis", -1), x->d->ndim) : -1;
  if (!owned)
    return 0;
  if (axis < 0)
    return vram__onnx_refuse(m, "an axis that the input has not");
  vram__onnx_norm_in(m, s->row->op, x, in);
  vram__draft_ints(m->d, "normalized_shape", x->d->v + axis, x->d->ndim - (uint32_t)axis);
  if (owned == 2 && s->row->op == VRAM_OP_layer_norm && !vram__onnx_in(s, 2))
    vram__draft_int(m->d, "bias", 0);
  if (owned == 2)
    vram__onnx_weight_dtype(m, s->in[1]);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_lrn(vram__onnx_job *m, vram__onnx_step *s) {
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  if (!x)
    return 0;
  vram__draft_op(m->d, VRAM_OP_local_response_norm);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "size", vram__onnx_attr_int(s, "size", 0));
  return vram__onnx_put(m, s->out[0]);
}

/* ---- recurrent ---- */

/* What ONNX calls Y, [time, directions, batch, hidden], of PyTorch's [time, batch, both]. */
static int vram__onnx_rnn_result(vram__onnx_job *m, vram__onnx_step *s, vram_value *y,
                                 int64_t directions) {
  int64_t size[4], order[4] = {0, 2, 1, 3};
  vram_value *apart;
  size[0] = y->d->v[0];
  size[1] = y->d->v[1];
  size[2] = directions;
  size[3] = y->d->v[2] / directions;
  vram__draft_op(m->d, VRAM_OP_reshape);
  vram__draft_in(m->d, y);
  vram__draft_shape(m->d, size, 4);
  apart = vram__onnx_between(m, s->out[0], "apart");
  if (!apart)
    return 0;
  vram__draft_op(m->d, VRAM_OP_permute);
  vram__draft_in(m->d, apart);
  vram__draft_ints(m->d, "dims", order, 4);
  return vram__onnx_put(m, s->out[0]);
}

VRAM__FN int vram__onnx_map_rnn(vram__onnx_job *m, vram__onnx_step *s) {
  static const char *const part[3] = {".rnn", ".hidden", ".cell"};
  const uint32_t count = s->row->op == VRAM_OP_lstm ? 3 : 2;
  const int64_t both = vram__onnx_attr_is(s, "direction", "bidirectional") ? 2 : 1;
  vram_value *const x = vram__onnx_take_in(m, s, 0);
  const vram__onnx_cell *const b = vram__onnx_in(s, 3);
  char names[3 * (VRAM_MAX_NAME + 2)], text[VRAM_MAX_NAME];
  vram_node *n;
  uint32_t i, len = 0;
  if (!x || !s->nout)
    return 0;
  if (x->d->ndim != 3 || vram__onnx_attr_int(s, "layout", 0) ||
      !vram__onnx_is_owned(vram__onnx_in(s, 1)) || !vram__onnx_is_owned(vram__onnx_in(s, 2)) ||
      (b && !vram__onnx_is_owned(b)))
    return vram__onnx_refuse(m, "weights or a layout that no line has");
  for (i = 0; i < count; i++) {
    const vram__onnx_cell *const out = i < s->nout && s->out[i] ? s->out[i] : s->out[0];
    const char *label;
    uint32_t k = 0;
    if (!out)
      return vram__onnx_refuse(m, "no output");
    vram__text_put(text, sizeof text, &k, out->name, out->len < 200 ? out->len : 200);
    vram__text_puts(text, sizeof text, &k, part[i]);
    label = vram__draft_label(m->d, text, k);
    if (!label)
      return 0;
    vram__text_puts(names, sizeof names, &len, i ? "," : "");
    vram__text_puts(names, sizeof names, &len, label);
  }
  vram__draft_op(m->d, s->row->op);
  vram__draft_in(m->d, x);
  vram__draft_int(m->d, "hidden_size", vram__onnx_attr_int(s, "hidden_size", 0));
  if (!b)
    vram__draft_int(m->d, "bias", 0);
  if (both == 2)
    vram__draft_int(m->d, "bidirectional", 1);
  n = vram__draft_node(m->d, names, NULL);
  for (i = 1; n && i < count && i < s->nout; i++)
    if (s->out[i])
      s->out[i]->value = vram_node_output(n, i);
  return n && (!s->out[0] || vram__onnx_rnn_result(m, s, vram_node_output(n, 0), both));
}
