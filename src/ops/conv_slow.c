/* >>ops/conv_slow    convolutions without cuDNN (ConvolutionMM2d.cu, NaiveDilatedConvolution.cu,
   NaiveConvolutionTranspose2d.cu and 3d.cu) */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* ConvParams::is_output_padding_big: not for cuDNN */
static int vram__pads_output_much(const vram_node *n) {
  int64_t stride[3], more[3];
  uint32_t i, axes = vram__op_axes(n);
  if (!vram__op_is_transposed(n))
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_output_padding, axes, 0, 0, more);
  for (i = 0; i < axes; i++)
    if (more[i] >= stride[i])
      return 1;
  return 0;
}

/* cuDNN takes bf16 from compute capability 8.0 on. Below, all but depthwise convolutions multiply
   columns of one sample after the other (ConvParams::use_cudnn). y: dims of the result. */
VRAM__FN int vram__conv_slow_of(const vram__step *s, const vram_node *n, vram__tensor x,
                                vram__tensor w, const vram_dims *y, vram__conv_slow *k) {
  int64_t stride[3], dil[3], pad[3];
  uint32_t i, axes = vram__op_axes(n);
  const vram_dims *area;
  if (s->ideal || !x.d->numel)
    return 0;
  if ((x.dt != VRAM_BF16 || s->device.cc >= 80) && !vram__pads_output_much(n) &&
      !((s->device.rules->does & VRAM__CONV3D_HALF_SLOW) && axes == 3 && vram__is_half(x.dt)))
    return 0;
  k->groups = VRAM__INT(n, groups, 1);
  k->samples = x.d->v[0];
  k->transposed = vram__op_is_transposed(n);
  if (k->groups == x.d->v[1] && k->groups > 1 && !k->transposed)
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  pad[0] = pad[1] = pad[2] = 0; /* other modes pad before; same pads no kernel of 1 */
  if (VRAM__INT(n, padding, 0) != VRAM__SAME &&
      vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, axes, 0, 0, pad);
  k->plain = 1;
  k->dilated = axes == 3;
  for (i = 0; i < axes; i++) {
    if (dil[i] != 1) {
      k->dilated = 1;
      k->plain = 0;
    }
    if (w.d->v[w.d->ndim - axes + i] != 1 || stride[i] != 1 || pad[i])
      k->plain = 0;
  }
  area = k->transposed ? x.d : y;
  k->columns =
      vram__product4_or_overflow((int64_t)(w.d->numel / (uint64_t)w.d->v[0]), area->v[2],
                                 area->ndim > 3 ? area->v[3] : 1, area->ndim > 4 ? area->v[4] : 1);
  k->columns = vram__product_or_overflow(k->columns, vram__dtype_size(x.dt));
  return 1;
}

/* Samples that are played: more than 2^16 change no figure. */
static int64_t vram__slow_samples(const vram__conv_slow *k) {
  return vram__min_i64(k->samples, 65536);
}

/* One product for each sample, `times` of them. */
static void vram__slow_products(vram__step *s, const vram__conv_slow *k, int times) {
  const int64_t n = vram__slow_samples(k);
  int64_t i;
  for (i = 0; i < n * times && !s->failed; i++)
    vram__blas_workspace(s, VRAM__CUBLAS);
}

/* one group: x and w contiguous, d the contiguous dims of the result */
static vram__tensor vram__slow_forward(vram__step *s, const vram__conv_slow *k, vram__tensor x,
                                       int bias, const vram_dims *d) {
  vram__tensor y, columns = vram__tensor_none(), ones = columns;
  if (k->transposed && d->ndim == 5) { /* empty_like(input), resized: storages only grow */
    vram__tensor old = vram__tensor_empty(s, x.d, x.dt);
    y = old;
    y.d = d;
    if (d->numel > x.d->numel) {
      y = vram__tensor_empty(s, d, x.dt);
      vram__tensor_release(s, old);
    } else if (y.st)
      vram__slot_at(s, y.st)->d = d;
  } else
    y = vram__tensor_empty(s, d, x.dt);
  if (!k->plain || k->transposed || k->dilated)
    columns = vram__tensor_raw(s, k->columns);
  if (bias && k->transposed) { /* the bias is a product with ones */
    ones = vram__tensor_raw(s, vram__dtype_size(x.dt) * d->numel / (uint64_t)(d->v[0] * d->v[1]));
    vram__slow_products(s, k, 2);
  } else
    vram__slow_products(s, k, 1);
  vram__tensor_release(s, ones);
  vram__tensor_release(s, columns);
  return y;
}

static vram__tensor vram__slow_columns(vram__step *s, const vram__conv_slow *k, int wanted) {
  return wanted ? vram__tensor_raw(s, k->columns) : vram__tensor_none();
}

/* All axes but the channels. */
static uint32_t vram__slow_mask(const vram_dims *d) { return ((1u << d->ndim) - 1) & ~2u; }

/* The gradient of one operand, contiguous. */
static vram__tensor vram__slow_gradient(vram__step *s, vram__tensor of) {
  return vram__tensor_empty(s, vram__dims_contiguous(s, of.d), of.dt);
}

/* NaiveConvolutionTranspose2d.cu, NaiveConvolutionTranspose3d.cu */
static void vram__slow_backward_transposed(vram__step *s, const vram__conv_slow *k,
                                           const vram__conv_gradients *c, vram__tensor *to) {
  const uint32_t mask = vram__slow_mask(c->g.d);
  vram__tensor g, columns;
  if (c->want & 1) {
    g = vram__tensor_contiguous(s, c->g);
    to[0] = vram__slow_gradient(s, c->x);
    columns = vram__slow_columns(s, k, !k->plain);
    vram__slow_products(s, k, 1);
    vram__tensor_release(s, columns);
    vram__tensor_release(s, g);
  }
  if (!(c->want & 6))
    return;
  if (c->want & 2)
    to[1] = vram__slow_gradient(s, c->w);
  if (c->want & 4)
    to[2] = vram__tensor_reduced(s, c->g, mask, 0, c->g.dt);
  g = vram__tensor_contiguous(s, c->g);
  columns = vram__slow_columns(s, k, !k->plain);
  if (c->want & 2)
    vram__slow_products(s, k, 1);
  if (c->want & 4)
    vram__reduce_scratch(s, g, mask, g.dt, 4, 4);
  vram__tensor_release(s, columns);
  vram__tensor_release(s, g);
}

/* NaiveDilatedConvolution.cu: sample after sample, its bias as well */
static void vram__slow_backward_dilated(vram__step *s, const vram__conv_slow *k,
                                        const vram__conv_gradients *c, vram__tensor *to) {
  const uint32_t mask = vram__slow_mask(c->g.d);
  const int64_t samples = vram__slow_samples(k);
  const vram__tensor g = vram__tensor_contiguous(s, c->g);
  vram__tensor columns, sample = g;
  int64_t i;
  if (c->want & 1)
    to[0] = vram__slow_gradient(s, c->x);
  if (c->want & 2)
    to[1] = vram__slow_gradient(s, c->w);
  if (c->want & 4)
    to[2] = vram__tensor_reduced(s, g, mask, 0, g.dt);
  columns = vram__slow_columns(s, k, (c->want & 3) != 0);
  sample.d = vram__dims_without_axis(s, g.d, 0);
  for (i = 0; i < samples && !s->failed; i++) {
    if (c->want & 1)
      vram__blas_workspace(s, VRAM__CUBLAS);
    if (c->want & 2)
      vram__blas_workspace(s, VRAM__CUBLAS);
    if (c->want & 4)
      vram__tensor_release(s, vram__tensor_sum(s, sample, mask >> 1, 0, g.dt));
  }
  vram__tensor_release(s, columns);
  vram__tensor_release(s, g);
}

/* ConvolutionMM2d.cu */
static void vram__slow_backward_plain(vram__step *s, const vram__conv_slow *k,
                                      const vram__conv_gradients *c, vram__tensor *to) {
  const vram__tensor g = vram__tensor_contiguous(s, c->g);
  vram__tensor columns = vram__tensor_none();
  if (c->want & 1) {
    to[0] = vram__slow_gradient(s, c->x);
    columns = vram__slow_columns(s, k, 1);
    vram__slow_products(s, k, 1);
  }
  if (c->want & 4)
    to[2] = vram__tensor_sum(s, g, vram__slow_mask(g.d), 0, g.dt);
  if (c->want & 2) {
    to[1] = vram__slow_gradient(s, c->w);
    if (!(c->want & 1))
      columns = vram__slow_columns(s, k, 1);
    vram__slow_products(s, k, 1);
  }
  vram__tensor_release(s, columns);
  vram__tensor_release(s, g);
}

/* one group */
static void vram__slow_backward(vram__step *s, const vram__conv_slow *k,
                                const vram__conv_gradients *c, vram__tensor *to) {
  if (k->transposed)
    vram__slow_backward_transposed(s, k, c, to);
  else if (k->dilated)
    vram__slow_backward_dilated(s, k, c, to);
  else
    vram__slow_backward_plain(s, k, c, to);
}

/* the part of t that belongs to one group */
static const vram_dims *vram__slow_part(vram__step *s, const vram_dims *d, uint32_t axis,
                                        int64_t groups) {
  int64_t size[5];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[i];
  size[axis] /= groups;
  return vram__dims_in(s, d->ndim, size, VRAM__STRIDE(d));
}

/* subtensor(t, 1, groups, g): a copy unless it is dense */
static vram__tensor vram__slow_sub(vram__step *s, vram__tensor t, const vram_dims *d) {
  t.d = d;
  return vram__tensor_in_format(s, t, vram__suggests_cl(d));
}

/* Tensors of the groups that wait for cat, linked by their slots: nothing else counts writes to
   them. */
typedef struct vram__conv_queue {
  uint32_t first, last;
} vram__conv_queue;

static void vram__queue_add(vram__step *s, vram__conv_queue *q, vram__tensor t) {
  if (!t.st)
    return;
  vram__slot_at(s, t.st)->ver = 0;
  if (q->last)
    vram__slot_at(s, q->last)->ver = t.st;
  else
    q->first = t.st;
  q->last = t.st;
}

static void vram__queue_let(vram__step *s, const vram__conv_queue *q) {
  uint32_t i, next;
  for (i = q->first; i; i = next) {
    next = vram__slot_at(s, i)->ver;
    vram__slot_at(s, i)->ver = 0;
    vram__slot_release(s, i);
  }
}

/* y: dims of the result */
VRAM__FN vram__tensor vram__slow_run(vram__step *s, const vram__conv_slow *k, vram__tensor x,
                                     vram__tensor w, int bias, const vram_dims *y) {
  vram__tensor cx = vram__tensor_contiguous(s, x), cw = vram__tensor_contiguous(s, w), r, t;
  vram__conv_queue q = {0, 0};
  int64_t i;
  y = vram__dims_contiguous(s, y);
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dy = vram__dims_contiguous(s, vram__slow_part(s, y, 1, k->groups));
    for (i = 0; i < k->groups && !s->failed; i++) {
      t = vram__slow_sub(s, cx, dx);
      vram__queue_add(s, &q, vram__slow_forward(s, k, t, bias, dy));
      vram__tensor_release(s, t);
    }
    r = vram__tensor_empty(s, y, x.dt);
    vram__queue_let(s, &q);
  } else
    r = vram__slow_forward(s, k, cx, bias, y);
  vram__tensor_release(s, cw);
  vram__tensor_release(s, cx);
  return r;
}

/* Groups one after the other, each with operands of its own; then they are put together. */
static void vram__slow_backward_groups(vram__step *s, const vram__conv_slow *k,
                                       const vram__conv_gradients *c, vram__tensor *to) {
  const vram_dims *dx = vram__slow_part(s, c->x.d, 1, k->groups);
  const vram_dims *dg = vram__slow_part(s, c->g.d, 1, k->groups);
  vram__conv_queue q[3] = {{0, 0}, {0, 0}, {0, 0}};
  vram__conv_gradients group = *c;
  vram__tensor part[3];
  int64_t i;
  uint32_t j;
  group.w.d = vram__slow_part(s, c->w.d, 0, k->groups);
  for (i = 0; i < k->groups && !s->failed; i++) {
    for (j = 0; j < 3; j++)
      part[j] = vram__tensor_none();
    group.g = vram__slow_sub(s, c->g, dg);
    group.x = vram__slow_sub(s, c->x, dx);
    vram__slow_backward(s, k, &group, part);
    vram__tensor_release(s, group.x);
    vram__tensor_release(s, group.g);
    for (j = 0; j < 3; j++)
      vram__queue_add(s, q + j, part[j]);
  }
  if (c->want & 1)
    to[0] = vram__slow_gradient(s, c->x);
  if (c->want & 2)
    to[1] = vram__slow_gradient(s, c->w);
  if (c->want & 4)
    to[2] = vram__tensor_reduced(s, c->g, vram__slow_mask(c->g.d), 0, c->g.dt);
  for (j = 3; j-- > 0;)
    vram__queue_let(s, q + j);
}

VRAM__FN void vram__slow_bw(vram__step *s, const vram__conv_slow *k, const vram__conv_gradients *c,
                            vram__tensor *to) {
  vram__conv_gradients whole = *c;
  whole.x = vram__tensor_contiguous(s, c->x);
  whole.w = vram__tensor_contiguous(s, c->w);
  if (k->groups > 1)
    vram__slow_backward_groups(s, k, &whole, to);
  else
    vram__slow_backward(s, k, &whole, to);
  vram__tensor_release(s, whole.w);
  vram__tensor_release(s, whole.x);
}

#endif /* VRAM_NO_STEP */
