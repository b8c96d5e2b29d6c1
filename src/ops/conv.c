/* >>ops/conv    convolutions (aten/src/ATen/native/Convolution.cpp and cudnn/ConvShared.cpp) */
#include "ops/ops.h"

/* A key with a value for each of k axes, small enough that sizes made of it cannot overflow. */
VRAM__FN int vram__shape_window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k,
                                int64_t def, int64_t least, int64_t *to) {
  uint32_t i;
  if (!vram__axes(g, n, key, k, def, least, to))
    return 0;
  for (i = 0; i < k; i++)
    if (to[i] > INT32_MAX)
      return vram__node_error(g, n, "a window beyond 31 bits");
  return 1;
}

static int vram__shape_conv(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__op_axes(n), i, same = 0, lead;
  int transposed = vram__op_is_transposed(n);
  int64_t c = VRAM__INT(n, out_channels, 0), groups = VRAM__INT(n, groups, 1), in;
  int64_t size[VRAM_MAX_AXES], w[5], kernel[3], stride[3], pad[3] = {0, 0, 0}, dil[3],
                                                           opad[3] = {0, 0, 0};
  int64_t word = VRAM__INT(n, padding_mode, VRAM__WORD("zeros"));
  if (x->ndim != k + 2 && x->ndim != k + 1)
    return vram__node_error(g, n, "a convolution of another number of axes");
  lead = x->ndim - k; /* 1: no batch axis */
  in = x->v[lead - 1];
  if (groups < 1 || c < 1 || c % groups || in % groups)
    return vram__node_error(g, n, "channels that groups does not divide");
  if (word != VRAM__WORD("zeros") && word != VRAM__WORD("reflect") &&
      word != VRAM__WORD("replicate") && word != VRAM__WORD("circular"))
    return vram__node_error(g, n, "padding_mode must be zeros, reflect, replicate or circular");
  if (!vram__shape_window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel) ||
      !vram__shape_window(g, n, VRAM__KEY_stride, k, 1, 1, stride) ||
      !vram__shape_window(g, n, VRAM__KEY_dilation, k, 1, 1, dil))
    return 0;
  if (VRAM__INT(n, padding, 0) == VRAM__SAME)
    same = 1;
  else if (!vram__shape_window(g, n, VRAM__KEY_padding, k, 0, 0, pad))
    return 0;
  if (transposed && !vram__shape_window(g, n, VRAM__KEY_output_padding, k, 0, 0, opad))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  size[lead - 1] = c;
  for (i = 0; i < k; i++) {
    int64_t reach = dil[i] * (kernel[i] - 1), z = x->v[lead + i], p = same ? reach : 2 * pad[i];
    if (!z && in && (lead == 1 || x->v[0])) /* Convolution.cpp, _select_conv_backend */
      return vram__node_error(g, n, "an empty input may only lack samples or channels");
    if (same && stride[i] != 1)
      return vram__node_error(g, n, "padding=same needs stride=1");
    if (word == VRAM__WORD("reflect") && (same ? reach - reach / 2 : pad[i]) >= z)
      return vram__node_error(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD("circular") && (same ? reach - reach / 2 : pad[i]) > z)
      return vram__node_error(g, n, "circular padding larger than the input");
    if (transposed) {
      uint64_t most = vram__product_or_overflow((uint64_t)(z ? z - 1 : 0), (uint64_t)stride[i]);
      if (opad[i] >= stride[i] && opad[i] >= dil[i])
        return vram__node_error(g, n, "output_padding must be smaller than stride or dilation");
      if (most > (uint64_t)INT64_MAX / 4)
        return vram__node_error(g, n, "a result beyond 63 bits");
      z = (int64_t)most - p + reach + opad[i] + 1;
    } else
      z = z + p - reach < 1 ? 0 : (z + p - reach - 1) / stride[i] + 1;
    if (z < 1)
      return vram__node_error(g, n, "a kernel larger than its padded input");
    size[lead + i] = z;
  }
  if (!transposed && !same && groups == 1 && word == VRAM__WORD("zeros") && n->nin == 1 && k > 1)
    n->flags |= VRAM__USUAL;
  w[0] = transposed ? in : c;
  w[1] = (transposed ? c : in) / groups;
  for (i = 0; i < k; i++)
    w[2 + i] = kernel[i];
  if (n->nin == 1) {
    if (!vram__node_own(g, n, 0, "weight", k + 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
    if (VRAM__INT(n, bias, 1) && !vram__node_own(g, n, 1, "bias", 1, &c, VRAM_F32, VRAM__PARAM))
      return 0;
  } else {
    for (i = 0; i < k + 2; i++)
      if (n->in[1]->d->ndim != k + 2 || n->in[1]->d->v[i] != w[i])
        return vram__node_error(g, n, "a weight of another shape");
    if (n->nin > 2 && (n->in[2]->d->ndim != 1 || n->in[2]->d->v[0] != c))
      return vram__node_error(g, n, "a bias of another shape");
  }
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
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

/* Any convolution. */
static void vram__forward_any_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__tensor a[3], c, cx, cw, cf, p;
  vram__grad_fn *f;
  int cl, batched = x[0].d->ndim == vram__op_axes(n) + 2;
  uint32_t i, done = 3; /* from there on cast */
  const vram_dims *d = n->out[0].d;
  vram__conv_slow slow;
  vram__node_weights(s, n, &a[1], &a[2]);
  if (!batched) { /* autocast comes before the batch axis, the module's padding before both */
    const int zeros = vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT;
    for (done = s->amp && zeros ? 1 : 3, i = 3; i-- > done;)
      if (a[i].d)
        a[i] = vram__autocast_cast(s, a[i], s->amp);
    p = done == 1 ? vram__autocast_cast(s, x[0], s->amp)
        : zeros   ? vram__tensor_retain(s, x[0])
                  : vram__conv_pad(s, n, x[0], a[1]);
    c = vram__torch_unsqueeze(s, p, 0);
    vram__tensor_release(s, p);
    p = zeros ? vram__conv_pad(s, n, c, a[1]) : vram__tensor_retain(s, c);
    vram__tensor_release(s, c);
    d = vram__dims_unsqueezed(s, d, 0);
  } else
    p = vram__conv_pad(s, n, x[0], a[1]);
  a[0] = p;
  for (i = done; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast_cast(s, a[i], s->amp) : vram__tensor_retain(s, a[i]);
  f = vram__tape_record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[1]);
  c = a[0].d->ndim == 3 ? vram__tensor_contiguous(s, a[0]) : vram__tensor_none();
  cx = vram__as_2d(s, c.d ? c : a[0]);
  cw = vram__as_2d(s, a[1]);
  if (vram__conv_slow_of(s, n, cx, cw, d->ndim == 3 ? vram__dims_unsqueezed(s, d, 2) : d, &slow)) {
    y[0] = vram__slow_run(s, &slow, cx, cw, a[2].d != NULL,
                          d->ndim == 3 ? vram__dims_unsqueezed(s, d, 2) : d);
    y[0].d = d->ndim == 3 ? vram__dims_without_axis(s, y[0].d, 2) : y[0].d;
  } else {
    cl = vram__conv_is_channels_last(cx, cw);
    cx = vram__tensor_in_format(s, cx, cl);
    if (d->ndim == 3)
      d = vram__dims_without_axis(s, vram__tensor_formatted(s, vram__dims_unsqueezed(s, d, 2), cl),
                                  2);
    else
      d = vram__tensor_formatted(s, d, cl);
    if (vram__conv_native(n, cx, cw, cl) == 2)
      cw = vram__tensor_in_format(s, cw, 0);
    else
      vram__tensor_retain(s, cw);
    y[0] = vram__tensor_empty(s, d, a[0].dt);
    cf = vram__tensor_in_format(s, cw, cl);
    vram__upper_may_need(s, cx.d->numel + cw.d->numel + d->numel);
    vram__tensor_release(s, cf);
    vram__tensor_release(s, cw);
    vram__tensor_release(s, cx);
  }
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, a[i]);
  vram__tensor_release(s, p);
  if (!batched) {
    c = vram__torch_squeeze1(s, y[0], 0);
    vram__tensor_release(s, y[0]);
    y[0] = c;
  }
}

/* cudnn_convolution_forward and _backward_input: the result, then copies of the operands */
static vram__tensor vram__conv_product(vram__step *s, vram__tensor a, vram__tensor w,
                                       const vram_dims *d) {
  int cl = vram__conv_is_channels_last(a, w);
  vram__tensor y = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), a.dt), cw, ca;
  cw = vram__tensor_in_format(s, w, cl);
  ca = vram__tensor_in_format(s, a, cl);
  vram__upper_may_need(s, ca.d->numel + cw.d->numel + d->numel);
  vram__tensor_release(s, ca);
  vram__tensor_release(s, cw);
  return y;
}

/* cudnn_convolution_backward_weight */
static vram__tensor vram__conv_weight(vram__step *s, vram__tensor x, vram__tensor g,
                                      const vram_dims *d) {
  int cl = vram__conv_is_channels_last(x, g);
  vram__tensor cg = vram__tensor_in_format(s, g, cl), cx = vram__tensor_in_format(s, x, cl), y;
  y = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), g.dt);
  vram__upper_may_need(s, cx.d->numel + cg.d->numel + d->numel);
  vram__tensor_release(s, cx);
  vram__tensor_release(s, cg);
  return y;
}

static void vram__backward_any_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g0 = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], w = VRAM__SAVED(f)[1], c, g, xi, gi,
               wi, held = vram__tensor_none();
  int cl, native, want0 = vram__input_wanted(f, 0), want1 = vram__input_wanted(f, 1),
                  flat = x.d->ndim == 3;
  int transposed = vram__op_is_transposed(f->node), want2 = f->nin > 2 && vram__input_wanted(f, 2);
  vram__conv_slow slow;
  c = flat ? vram__tensor_contiguous(s, x) : vram__tensor_none();
  x = vram__as_2d(s, flat ? c : x);
  w = vram__as_2d(s, w);
  g = vram__as_2d(s, g0);
  cl = vram__conv_is_channels_last(x, w);
  native = vram__conv_native(f->node, x, w, cl);
  if (vram__conv_slow_of(s, f->node, x, w, g.d, &slow)) {
    vram__slow_bw(s, &slow, g, x, w, (uint32_t)(want0 | want1 << 1 | want2 << 2), to);
    want2 = 0;
  } else if (native == 3) { /* DepthwiseConv3d.cu */
    if (want0)
      to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
    if (want1)
      to[1] = vram__tensor_empty(s, vram__dims_contiguous(s, w.d), w.dt);
    gi = vram__tensor_contiguous(s, g);
    xi = vram__tensor_contiguous(s, x);
    wi = vram__tensor_contiguous(s, w);
    vram__tensor_release(s, wi);
    vram__tensor_release(s, xi);
    held = gi;         /* the bias's gradient is made in there too */
  } else if (native) { /* DepthwiseConv2d.cu */
    gi = vram__tensor_contiguous(s, g);
    if (want1) {
      xi = vram__tensor_contiguous(s, x);
      to[1] = vram__tensor_empty(s, vram__dims_contiguous(s, w.d), w.dt);
      vram__tensor_release(s, xi);
    }
    if (want0) {
      wi = vram__tensor_contiguous(s, w);
      to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
      vram__tensor_release(s, wi);
    }
    vram__tensor_release(s, gi);
  } else { /* ConvShared.cpp; the gradient changes its format even if only the bias wants one */
    xi = vram__tensor_none();
    if (want1)
      x = xi = vram__tensor_in_format(s, x, cl);
    gi = vram__tensor_none();
    if (transposed)
      g = gi = vram__tensor_in_format(s, g, vram__suggests_cl(x.d));
    else if (vram__suggests_cl(g.d) != vram__suggests_cl(x.d))
      g = gi = vram__tensor_empty(s, vram__tensor_formatted(s, g.d, vram__suggests_cl(x.d)), g.dt);
    if (want0)
      to[0] = vram__conv_product(s, g, w, x.d);
    if (want1)
      to[1] = transposed ? vram__conv_weight(s, g, x, w.d) : vram__conv_weight(s, x, g, w.d);
    vram__tensor_release(s, gi);
    vram__tensor_release(s, xi);
  }
  if (flat && want0)
    to[0].d = vram__dims_without_axis(s, to[0].d, 2);
  if (flat && want1)
    to[1].d = vram__dims_without_axis(s, to[1].d, 2);
  if (want2)
    to[2] = vram__tensor_sum(s, g0, ((1u << g0.d->ndim) - 1) & ~2u, 0, g0.dt);
  vram__tensor_release(s, held);
  vram__tensor_release(s, c);
}

/* Contiguous, and not like channels last either: most convolutions take no copies. */
static int vram__conv_is_usual(const vram__step *s, const vram_node *n, const vram_dims *x) {
  return (n->flags & VRAM__USUAL) && x->ndim == n->param[0]->d->ndim && s->device.cc >= 80 &&
         (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN &&
         !vram__suggests_cl(n->param[0]->d);
}

static void vram__forward_conv(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
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
  f = vram__tape_record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[1]);
  y[0] = vram__tensor_empty(s, n->out[0].d, a[0].dt);
  vram__upper_may_need(s, a[0].d->numel + a[1].d->numel + y[0].d->numel);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 0; s->amp && i < 3; i++)
    vram__tensor_release(s, a[i]);
}

static void vram__backward_conv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  const uint64_t numel = x->numel + w->numel + g->d->numel;
  if (!vram__conv_is_usual(s, f->node, x) || vram__suggests_cl(w) ||
      (g->d->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) != VRAM__PLAIN) {
    vram__backward_any_conv(s, f, to);
    return;
  }
  if (vram__input_wanted(f, 0)) {
    to[0] = vram__tensor_empty(s, x, g->dt);
    vram__upper_may_need(s, numel);
  }
  if (vram__input_wanted(f, 1)) {
    to[1] = vram__tensor_empty(s, w, g->dt);
    vram__upper_may_need(s, numel);
  }
  if (f->nin > 2 && vram__input_wanted(f, 2))
    to[2] = vram__tensor_sum(s, *g, ((1u << g->d->ndim) - 1) & ~2u, 0, g->dt);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(conv1d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 1, VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv2d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 2, VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv3d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 3, VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen "
         "weights dtype");
VRAM__OP(conv_transpose1d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 1 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
VRAM__OP(conv_transpose2d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 2 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
VRAM__OP(conv_transpose3d, 1, 3, conv, SAME, low, conv, conv, conv, CONV, 3 | VRAM__TRANSPOSED,
         VRAM__OP_OWNS,
         "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen "
         "weights dtype");
