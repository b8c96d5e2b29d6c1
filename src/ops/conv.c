/* >>ops/conv    convolutions (aten/src/ATen/native/Convolution.cpp and cudnn/ConvShared.cpp) */
#include "ops/ops.h"

/* A key with a value for each of k axes, `least` if it is not there, small enough that sizes made
 * of it cannot overflow. */
VRAM__FN int vram__shape_window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k,
                                int64_t least, int64_t *to) {
  uint32_t i;
  if (!vram__axes(g, n, key, k, least, least, to))
    return 0;
  for (i = 0; i < k; i++)
    if (to[i] > INT32_MAX)
      return vram__node_error(g, n, "a window beyond 31 bits");
  return 1;
}

/* A convolution's keys, an element for each axis. */
typedef struct vram__conv_shape {
  uint32_t k; /* axes */
  int transposed;
  int same;     /* padding=same */
  int64_t word; /* padding_mode */
  int64_t c, groups;
  int64_t kernel[3], stride[3], dilation[3], padding[3], output_padding[3];
} vram__conv_shape;

/* in: channels of the input */
static int vram__conv_shape_read(vram_graph *g, const vram_node *n, int64_t in,
                                 vram__conv_shape *v) {
  vram__memory_zero(v, sizeof *v);
  v->k = vram__op_axes(n);
  v->transposed = vram__op_is_transposed(n);
  v->c = VRAM__INT(n, out_channels, 0);
  v->groups = VRAM__INT(n, groups, 1);
  if (v->groups < 1 || v->c < 1 || v->c % v->groups || in % v->groups)
    return vram__node_error(g, n, "channels that groups does not divide");
  v->word = VRAM__INT(n, padding_mode, VRAM__WORD(zeros));
  if (v->word != VRAM__WORD(zeros) && v->word != VRAM__WORD(reflect) &&
      v->word != VRAM__WORD(replicate) && v->word != VRAM__WORD(circular))
    return vram__node_error(g, n, "padding_mode must be zeros, reflect, replicate or circular");
  if (!vram__shape_window(g, n, VRAM__KEY_kernel_size, v->k, 1, v->kernel) ||
      !vram__shape_window(g, n, VRAM__KEY_stride, v->k, 1, v->stride) ||
      !vram__shape_window(g, n, VRAM__KEY_dilation, v->k, 1, v->dilation))
    return 0;
  v->same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  if (!v->same && !vram__shape_window(g, n, VRAM__KEY_padding, v->k, 0, v->padding))
    return 0;
  return !v->transposed ||
         vram__shape_window(g, n, VRAM__KEY_output_padding, v->k, 0, v->output_padding);
}

/* The size of the result along axis i, of which the input has z; 0: there was an error. */
static int64_t vram__conv_shape_axis(vram_graph *g, const vram_node *n, const vram__conv_shape *v,
                                     uint32_t i, int64_t z) {
  const int64_t reach = v->dilation[i] * (v->kernel[i] - 1);
  const int64_t before = v->same ? reach - reach / 2 : v->padding[i];
  const int64_t padding = v->same ? reach : 2 * v->padding[i];
  if (v->same && v->stride[i] != 1)
    return vram__node_error(g, n, "padding=same needs stride=1");
  if (v->word == VRAM__WORD(reflect) && before >= z)
    return vram__node_error(g, n, "reflected padding as large as the input");
  if (v->word == VRAM__WORD(circular) && before > z)
    return vram__node_error(g, n, "circular padding larger than the input");
  if (v->transposed) {
    const uint64_t most =
        vram__product_or_overflow((uint64_t)(z ? z - 1 : 0), (uint64_t)v->stride[i]);
    if (v->output_padding[i] >= v->stride[i] && v->output_padding[i] >= v->dilation[i])
      return vram__node_error(g, n, "output_padding must be smaller than stride or dilation");
    if (most > (uint64_t)INT64_MAX / 4)
      return vram__node_error(g, n, "a result beyond 63 bits");
    z = (int64_t)most - padding + reach + v->output_padding[i] + 1;
  } else
    z = z + padding - reach < 1 ? 0 : (z + padding - reach - 1) / v->stride[i] + 1;
  return z < 1 ? vram__node_error(g, n, "a kernel larger than its padded input") : z;
}

/* What the step asks of the keys most often. */
static void vram__conv_shape_flag(vram_node *n, const vram__conv_shape *v) {
  uint32_t i;
  n->flags |= VRAM__UNIT_STEPS;
  for (i = 0; i < v->k; i++)
    if (v->stride[i] != 1 || v->dilation[i] != 1)
      n->flags &= (uint8_t)~VRAM__UNIT_STEPS;
  if (!v->transposed && !v->same && v->groups == 1 && v->word == VRAM__WORD(zeros) && n->nin == 1 &&
      v->k > 1)
    n->flags |= VRAM__USUAL;
}

/* The weight has dims w: the module's own, or an input. */
static int vram__conv_shape_weight(vram_graph *g, vram_node *n, const vram__conv_shape *v,
                                   const int64_t *w) {
  uint32_t i;
  if (n->nin == 1)
    return vram__node_own(g, n, 0, "weight", v->k + 2, w, VRAM_DTYPE_MODEL, VRAM__PARAM) &&
           (!VRAM__INT(n, bias, 1) ||
            vram__node_own(g, n, 1, "bias", 1, &v->c, VRAM_DTYPE_MODEL, VRAM__PARAM));
  for (i = 0; i < v->k + 2; i++)
    if (n->in[1]->d->ndim != v->k + 2 || n->in[1]->d->v[i] != w[i])
      return vram__node_error(g, n, "a weight of another shape");
  if (n->nin > 2 && (n->in[2]->d->ndim != 1 || n->in[2]->d->v[0] != v->c))
    return vram__node_error(g, n, "a bias of another shape");
  return 1;
}

static int vram__shape_conv(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const uint32_t k = vram__op_axes(n);
  int64_t size[VRAM_MAX_AXES], w[5], in;
  vram__conv_shape v;
  uint32_t i, lead;
  if (x->ndim != k + 2 && x->ndim != k + 1)
    return vram__node_error(g, n, "a convolution of another number of axes");
  lead = x->ndim - k; /* 1: no batch axis */
  in = x->v[lead - 1];
  if (!vram__conv_shape_read(g, n, in, &v))
    return 0;
  if (v.transposed && !in)
    return vram__node_error(g, n, "a transposed convolution of no channels");
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  size[lead - 1] = in ? v.c : 0; /* ConvBackend::Empty gives a result of no channels, too */
  for (i = 0; i < k; i++) {
    if (!x->v[lead + i] && in && (lead == 1 || x->v[0])) /* _select_conv_backend */
      return vram__node_error(g, n, "an empty input may only lack samples or channels");
    size[lead + i] = vram__conv_shape_axis(g, n, &v, i, x->v[lead + i]);
    if (!size[lead + i])
      return 0;
    w[2 + i] = v.kernel[i];
  }
  vram__conv_shape_flag(n, &v);
  w[0] = v.transposed ? in : v.c;
  w[1] = (v.transposed ? v.c : in) / v.groups;
  return vram__conv_shape_weight(g, n, &v, w) &&
         vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* torch/utils/flop_counter.py, conv_flop_count: every weight meets every place of the output, or of
   the input of a transposed one. */
static uint64_t vram__flops_conv(const vram_node *n) {
  const vram_dims *over = vram__op_is_transposed(n) ? n->in[0]->d : n->out[0].d;
  const vram_dims *w = n->nin > 1 ? n->in[1]->d : n->param[0]->d;
  const uint32_t channels = over->ndim + 1u - w->ndim; /* an axis; the first without a batch */
  uint64_t flops = vram__product_or_overflow(2, w->numel);
  uint32_t i;
  for (i = 0; i < over->ndim; i++)
    if (i != channels)
      flops = vram__product_or_overflow(flops, (uint64_t)over->v[i]);
  return flops;
}

#ifndef VRAM_NO_STEP

/* ---- convolutions: aten/src/ATen/native/Convolution.cpp and cudnn/ConvShared.cpp ---- */

/* ConvUtils.h, cudnn_conv_suggest_memory_format: 1 = channels last */
static int vram__conv_is_channels_last(vram__tensor a, vram__tensor b) {
  return a.dt != VRAM_F64 && b.dt != VRAM_F64 && (vram__suggests_cl(a.d) || vram__suggests_cl(b.d));
}

/* Is it a depthwise convolution that PyTorch runs with kernels of its own, not with cuDNN? 2 or 3:
   its axes (ConvParams::use_cudnn_depthwise, check_cudnn_depthwise_workload_with_filter). */
static int vram__conv_native(const vram_node *n, vram__tensor x, vram__tensor w, int cl) {
  int64_t stride[3], dil[3], width, k, c;
  uint32_t axes = x.d->ndim - 2u;
  c = x.d->v[1];
  if (VRAM__INT(n, groups, 1) != c || c < 2 || cl || vram__op_is_transposed(n))
    return 0;
  if (x.dt != VRAM_F16 || c < 32 || axes == 3)
    return (int)axes;
  axes = vram__op_axes(n); /* a 1-D convolution runs with a height of 1 */
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  if (axes == 1) {
    stride[1] = stride[0];
    dil[1] = dil[0];
    stride[0] = dil[0] = 1;
  }
  if ((stride[0] != stride[1] && x.d->v[2] != 1) || dil[0] != 1 || dil[1] != 1)
    return 2;
  if (x.d->v[2] == 1 && stride[1] == 1)
    return 0;
  width = x.d->v[3];
  k = w.d->v[3];
  if (w.d->v[2] != k || (k != 1 && k != 3 && k != 5) || width < 7)
    return 2;
  if (stride[1] != 2)
    return stride[1] == 1 ? 0 : 2;
  if (x.d->v[0] == 1)
    return k == 1 && width > 28 ? 2 : 0;
  if (k == 1)
    return x.d->v[0] > 16 || c < 128 || width > 7 ? 2 : 0;
  return c < 512 && (c < 256 || width < 28) ? 2 : 0;
}

/* torch.backends.cudnn.benchmark, once for each convolution (Conv_v8.cpp, BenchmarkCache). Those
   that differ in stride and dilation alone, but not in their result, count as one. */
static VRAM__APART void vram__conv_search(vram__step *s, const vram__cudnn_conv *c,
                                          const vram_bounds *w) {
  const vram_bounds b = vram__cudnn_search(&s->device, c, w);
  uint64_t key[11];
  uint32_t i;
  key[0] = (uint64_t)c->dt << 32 | (uint32_t)c->makes;
  key[1] = (uint64_t)c->channels_last << 32 | c->dense;
  key[2] = c->samples;
  for (i = 0; i < 2; i++) {
    key[3 + i] = c->channels[i];
    key[5 + i] = c->places[i];
  }
  key[7] = c->in;
  key[8] = c->window;
  key[9] = (uint64_t)c->kernel[0];
  key[10] = (uint64_t)c->made[0];
  vram__device_search(s, &b, vram__hash((const char *)key, sizeof key));
}

/* cuDNN runs a convolution of s->node: x, y and w as in vram__cudnn_conv, of dtype dt. */
static void vram__conv_workspace(vram__step *s, const vram_dims *const xyw[3],
                                 vram__conv_makes makes, vram_dtype dt, int cl) {
  const vram_dims *x = xyw[0], *y = xyw[1], *w = xyw[2], *made = xyw[makes != VRAM__CONV_INPUT];
  vram__cudnn_conv c;
  vram_bounds bytes;
  uint32_t i;
  c.dt = dt;
  c.makes = makes;
  c.samples = (uint64_t)x->v[0];
  c.channels[0] = (uint64_t)x->v[1];
  c.channels[1] = (uint64_t)y->v[1];
  c.axes = (uint8_t)(w->ndim - 2);
  c.channels_last = cl != 0;
  c.in = (uint64_t)w->v[1];
  c.grouped = w->v[1] != x->v[1];
  c.places[0] = c.samples;
  c.places[1] = c.samples;
  c.window = 1;
  for (i = 2; i < w->ndim; i++) {
    c.places[0] *= (uint64_t)x->v[i];
    c.places[1] *= (uint64_t)y->v[i];
    c.window *= (uint64_t)w->v[i];
  }
  for (i = 0; i < 2; i++) {
    c.kernel[i] = c.axes == 2 ? w->v[2 + i] : 1;
    c.made[i] = c.axes == 2 ? made->v[2 + i] : 1;
  }
  /* only filters of more than one value are transformed */
  c.dense = !c.grouped && c.axes == 2 && c.kernel[0] > 1 && c.kernel[1] > 1 &&
            (s->node->flags & VRAM__UNIT_STEPS) != 0;
  bytes = vram__cudnn_workspace(&s->device, &c);
  if (s->o->cudnn == VRAM_CUDNN_BENCHMARK)
    vram__conv_search(s, &c, &bytes);
  vram__device_workspace(s, &bytes);
}

/* the dims of t with an axis of height 1: how 1-D convolutions run */
static vram__tensor vram__as_2d(vram__step *s, vram__tensor t) {
  if (t.d->ndim == 3)
    t.d = vram__dims_unsqueezed(s, t.d, 2);
  return t;
}

/* What F.conv does with padding before it convolves: padding_mode of the module, and the odd part
   of padding=same, which goes to the right. One handle more. */
static vram__tensor vram__conv_pad(vram__step *s, const vram_node *n, vram__tensor x,
                                   vram__tensor w) {
  int64_t pad[6], p[3], dil[3];
  uint32_t i, k = vram__op_axes(n), any = 0;
  uint32_t mode = vram__pad_mode(VRAM__INT(n, padding_mode, 0));
  int same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  if (!same && mode == VRAM__PAD_CONSTANT)
    return vram__tensor_retain(s, x);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, k, 1, 1, dil);
  if (!same)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, k, 0, 0, p);
  for (i = 0; i < k; i++) {
    int64_t total = dil[i] * (w.d->v[w.d->ndim - k + i] - 1), *to = pad + 2 * (size_t)(k - 1 - i);
    if (mode != VRAM__PAD_CONSTANT) {
      to[0] = same ? total / 2 : p[i];
      to[1] = same ? total - total / 2 : p[i];
    } else {
      to[0] = 0;
      to[1] = total % 2;
    }
    if (to[1])
      any = 1;
  }
  if (!any && mode == VRAM__PAD_CONSTANT)
    return vram__tensor_retain(s, x);
  return vram__torch_pad(s, x, pad, k, mode);
}

/* The padded input with a batch axis. a: weight and bias at 1 and 2. Autocast comes before the
   batch axis (behind it with padding=same: _convolution_mode is on no list), the module's padding
   before both: *cast is the first of a that is cast already. */
static vram__tensor vram__conv_batched(vram__step *s, const vram_node *n, vram__tensor x,
                                       vram__tensor *a, uint32_t *cast) {
  const int zeros = vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT;
  vram__tensor p, t;
  uint32_t i;
  *cast = s->amp && zeros && VRAM__INT(n, padding, 0) != VRAM__SAME ? 1 : 3;
  for (i = 3; i-- > *cast;)
    if (a[i].d)
      a[i] = vram__autocast_cast(s, a[i], s->amp);
  p = *cast == 1 ? vram__autocast_cast(s, x, s->amp)
      : zeros    ? vram__tensor_retain(s, x)
                 : vram__conv_pad(s, n, x, a[1]);
  t = vram__torch_unsqueeze(s, p, 0);
  vram__tensor_release(s, p);
  if (!zeros)
    return t;
  p = vram__conv_pad(s, n, t, a[1]);
  vram__tensor_release(s, t);
  return p;
}

/* cuDNN's and the depthwise kernels: the result of dims d, and copies of the operands. */
static vram__tensor vram__conv_fast_run(vram__step *s, const vram_node *n, vram__tensor x,
                                        vram__tensor w, const vram_dims *d) {
  const int cl = vram__conv_is_channels_last(x, w);
  vram__tensor y, copy;
  x = vram__tensor_in_format(s, x, cl);
  if (d->ndim == 3)
    d = vram__dims_without_axis(s, vram__tensor_formatted(s, vram__dims_unsqueezed(s, d, 2), cl),
                                2);
  else
    d = vram__tensor_formatted(s, d, cl);
  if (vram__conv_native(n, x, w, cl) == 2)
    w = vram__tensor_in_format(s, w, 0);
  else
    vram__tensor_retain(s, w);
  y = vram__tensor_empty(s, d, x.dt);
  copy = vram__tensor_in_format(s, w, cl);
  if (!vram__conv_native(n, x, w, cl)) {
    const vram_dims *xyw[3];
    xyw[0] = x.d;
    xyw[1] = d->ndim == 3 ? vram__dims_unsqueezed(s, d, 2) : d;
    xyw[2] = w.d;
    vram__conv_workspace(s, xyw, VRAM__CONV_RESULT, x.dt, cl);
  }
  vram__tensor_release(s, copy);
  vram__tensor_release(s, w);
  vram__tensor_release(s, x);
  return y;
}

/* The kernels' part: x and w of one axis get a second one. */
static vram__tensor vram__conv_run(vram__step *s, const vram_node *n, const vram__tensor *a,
                                   const vram_dims *d) {
  const vram_dims *wide = d->ndim == 3 ? vram__dims_unsqueezed(s, d, 2) : d;
  const vram__tensor c = a[0].d->ndim == 3 ? vram__tensor_contiguous(s, a[0]) : vram__tensor_none();
  const vram__tensor x = vram__as_2d(s, c.d ? c : a[0]), w = vram__as_2d(s, a[1]);
  vram__conv_slow slow;
  vram__tensor y;
  if (vram__conv_slow_of(s, n, x, w, wide, &slow)) {
    y = vram__slow_run(s, &slow, x, w, a[2].d != NULL, wide);
    y.d = d->ndim == 3 ? vram__dims_without_axis(s, y.d, 2) : y.d;
  } else
    y = vram__conv_fast_run(s, n, x, w, d);
  vram__tensor_release(s, c);
  return y;
}

/* Any convolution. */
static void vram__forward_any_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const int batched = x[0].d->ndim == vram__op_axes(n) + 2;
  const vram_dims *d = n->out[0].d;
  vram__tensor a[3], p;
  vram__grad_fn *f;
  uint32_t i, cast = 3; /* from there on */
  vram__node_weights(s, n, &a[1], &a[2]);
  if (batched)
    p = vram__conv_pad(s, n, x[0], a[1]);
  else {
    p = vram__conv_batched(s, n, x[0], a, &cast);
    d = vram__dims_unsqueezed(s, d, 0);
  }
  a[0] = p;
  for (i = cast; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast_cast(s, a[i], s->amp) : vram__tensor_retain(s, a[i]);
  vram__refuse_unlike(s, a, 3);
  f = vram__tape_record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, a[0]);
    vram__save_tensor(s, f, a[1]);
  }
  y[0] = vram__conv_run(s, n, a, d);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (!batched && cast == 1) /* a[0] is the same */
    vram__tensor_replace(s, &p, vram__tensor_none());
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, a[i]);
  vram__tensor_release(s, p);
  if (!batched)
    vram__tensor_replace(s, &y[0], vram__torch_squeeze1(s, y[0], 0));
}

/* cudnn_convolution_forward and _backward_input: the result, then copies of the operands */
static vram__tensor vram__conv_product(vram__step *s, vram__tensor a, vram__tensor w,
                                       const vram_dims *d) {
  int cl = vram__conv_is_channels_last(a, w);
  vram__tensor y = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), a.dt), cw, ca;
  const vram_dims *xyw[3];
  cw = vram__tensor_in_format(s, w, cl);
  ca = vram__tensor_in_format(s, a, cl);
  xyw[0] = d;
  xyw[1] = ca.d;
  xyw[2] = cw.d;
  vram__conv_workspace(s, xyw, VRAM__CONV_INPUT, a.dt, cl);
  vram__tensor_release(s, ca);
  vram__tensor_release(s, cw);
  return y;
}

/* cudnn_convolution_backward_weight */
static vram__tensor vram__conv_weight(vram__step *s, vram__tensor x, vram__tensor g,
                                      const vram_dims *d) {
  int cl = vram__conv_is_channels_last(x, g);
  vram__tensor cg = vram__tensor_in_format(s, g, cl), cx = vram__tensor_in_format(s, x, cl), y;
  const vram_dims *xyw[3];
  y = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), g.dt);
  xyw[0] = cx.d;
  xyw[1] = cg.d;
  xyw[2] = d;
  vram__conv_workspace(s, xyw, VRAM__CONV_WEIGHT, g.dt, cl);
  vram__tensor_release(s, cx);
  vram__tensor_release(s, cg);
  return y;
}

/* DepthwiseConv3d.cu; gives what the gradient of the bias is made in, too */
static vram__tensor vram__conv_depthwise3d_bw(vram__step *s, const vram__conv_gradients *c,
                                              vram__tensor *to) {
  vram__tensor g, x, w;
  if (c->want & 1)
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, c->x.d), c->x.dt);
  if (c->want & 2)
    to[1] = vram__tensor_empty(s, vram__dims_contiguous(s, c->w.d), c->w.dt);
  g = vram__tensor_contiguous(s, c->g);
  x = vram__tensor_contiguous(s, c->x);
  w = vram__tensor_contiguous(s, c->w);
  vram__tensor_release(s, w);
  vram__tensor_release(s, x);
  return g;
}

/* DepthwiseConv2d.cu */
static void vram__conv_depthwise2d_bw(vram__step *s, const vram__conv_gradients *c,
                                      vram__tensor *to) {
  const vram__tensor g = vram__tensor_contiguous(s, c->g);
  vram__tensor t;
  if (c->want & 2) {
    t = vram__tensor_contiguous(s, c->x);
    to[1] = vram__tensor_empty(s, vram__dims_contiguous(s, c->w.d), c->w.dt);
    vram__tensor_release(s, t);
  }
  if (c->want & 1) {
    t = vram__tensor_contiguous(s, c->w);
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, c->x.d), c->x.dt);
    vram__tensor_release(s, t);
  }
  vram__tensor_release(s, g);
}

/* ConvShared.cpp; the gradient changes its format even if only the bias wants one */
static void vram__conv_cudnn_bw(vram__step *s, const vram__conv_gradients *c, int transposed,
                                vram__tensor *to) {
  vram__tensor g = c->g, x = c->x, x_copy = vram__tensor_none(), g_copy = x_copy;
  if (c->want & 2)
    x = x_copy = vram__tensor_in_format(s, x, vram__conv_is_channels_last(x, c->w));
  if (transposed)
    g = g_copy = vram__tensor_in_format(s, g, vram__suggests_cl(x.d));
  else if (vram__suggests_cl(g.d) != vram__suggests_cl(x.d))
    g = g_copy =
        vram__tensor_empty(s, vram__tensor_formatted(s, g.d, vram__suggests_cl(x.d)), g.dt);
  if (c->want & 1)
    to[0] = vram__conv_product(s, g, c->w, x.d);
  if (c->want & 2)
    to[1] = transposed ? vram__conv_weight(s, g, x, c->w.d) : vram__conv_weight(s, x, g, c->w.d);
  vram__tensor_release(s, g_copy);
  vram__tensor_release(s, x_copy);
}

static void vram__backward_any_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  const int flat = x.d->ndim == 3; /* of one axis: gets a second one */
  const vram__tensor copy = flat ? vram__tensor_contiguous(s, x) : vram__tensor_none();
  vram__tensor held = vram__tensor_none();
  vram__conv_gradients c;
  vram__conv_slow slow;
  uint32_t i, bias;
  int native;
  c.want = 0;
  for (i = 0; i < f->nin; i++)
    c.want |= (uint32_t)vram__input_wanted(f, i) << i;
  bias = c.want & 4;
  c.x = vram__as_2d(s, flat ? copy : x);
  c.w = vram__as_2d(s, VRAM__SAVED(f)[1]);
  c.g = vram__as_2d(s, g);
  native = vram__conv_native(f->node, c.x, c.w, vram__conv_is_channels_last(c.x, c.w));
  if (vram__conv_slow_of(s, f->node, c.x, c.w, c.g.d, &slow)) {
    vram__slow_bw(s, &slow, &c, to);
    bias = 0;
  } else if (native == 3)
    held = vram__conv_depthwise3d_bw(s, &c, to);
  else if (native)
    vram__conv_depthwise2d_bw(s, &c, to);
  else
    vram__conv_cudnn_bw(s, &c, vram__op_is_transposed(f->node), to);
  for (i = 0; i < 2; i++)
    if (flat && (c.want >> i & 1))
      to[i].d = vram__dims_without_axis(s, to[i].d, 2);
  if (bias && !g.d->v[g.d->ndim + 1u - VRAM__SAVED(f)[1].d->ndim])
    to[2] = vram__tensor_empty(s, vram__input_dims(s, f, 2, NULL), g.dt);
  else if (bias)
    to[2] = vram__tensor_sum(s, g, ((1u << g.d->ndim) - 1) & ~2u, 0, g.dt);
  vram__tensor_release(s, held);
  vram__tensor_release(s, copy);
}

/* Contiguous, and not like channels last either: most convolutions take no copies. */
static int vram__conv_is_usual(const vram__step *s, const vram_node *n, const vram_dims *x) {
  return (n->flags & VRAM__USUAL) && x->ndim == n->param[0]->d->ndim && s->device.cc >= 80 &&
         !((s->device.rules->does & VRAM__CONV3D_HALF_SLOW) && x->ndim == 5) &&
         (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN &&
         !vram__suggests_cl(n->param[0]->d);
}

static void vram__forward_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  const vram_dims *xyw[3];
  vram__tensor a[3];
  vram__grad_fn *f;
  uint32_t i;
  if (!vram__conv_is_usual(s, n, x->d)) {
    vram__forward_any_conv(s, n, x, y);
    return;
  }
  a[0] = *x;
  vram__node_weights(s, n, &a[1], &a[2]);
  for (i = s->amp ? 3 : 0; i-- > 0;)
    if (a[i].d)
      a[i] = vram__autocast_cast(s, a[i], s->amp);
  vram__refuse_unlike(s, a, 3);
  f = vram__tape_record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, a[0]);
    vram__save_tensor(s, f, a[1]);
  }
  y[0] = vram__tensor_empty(s, n->out[0].d, a[0].dt);
  xyw[0] = a[0].d;
  xyw[1] = y[0].d;
  xyw[2] = a[1].d;
  vram__conv_workspace(s, xyw, VRAM__CONV_RESULT, a[0].dt, 0);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 0; s->amp && i < 3; i++)
    vram__tensor_release(s, a[i]);
}

static void vram__backward_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  const vram_dims *xyw[3];
  if (!vram__conv_is_usual(s, f->node, x) || vram__suggests_cl(w) ||
      (g->d->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) != VRAM__PLAIN) {
    vram__backward_any_conv(s, f, to);
    return;
  }
  xyw[0] = x;
  xyw[1] = g->d;
  xyw[2] = w;
  if (vram__input_wanted(f, 0)) {
    to[0] = vram__tensor_empty(s, x, g->dt);
    vram__conv_workspace(s, xyw, VRAM__CONV_INPUT, g->dt, 0);
  }
  if (vram__input_wanted(f, 1)) {
    to[1] = vram__tensor_empty(s, w, g->dt);
    vram__conv_workspace(s, xyw, VRAM__CONV_WEIGHT, g->dt, 0);
  }
  if (f->nin > 2 && vram__input_wanted(f, 2) && !x->v[1])
    to[2] = vram__tensor_empty(s, vram__input_dims(s, f, 2, NULL), g->dt);
  else if (f->nin > 2 && vram__input_wanted(f, 2))
    to[2] = vram__tensor_sum(s, *g, ((1u << g->d->ndim) - 1) & ~2u, 0, g->dt);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(conv1d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 1,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv2d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 2,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv3d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 3,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv_transpose1d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 1 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
VRAM__OP(conv_transpose2d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 2 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
VRAM__OP(conv_transpose3d, "", 1, 3, conv, SAME, low, conv, conv, conv, CONV, 3 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
