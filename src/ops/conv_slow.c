/* >>ops/conv_slow    convolutions without cuDNN (ConvolutionMM2d.cu, NaiveDilatedConvolution.cu,
   NaiveConvolutionTranspose2d.cu and 3d.cu) */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* ConvParams::is_output_padding_big: not for cuDNN */
static int vram__pads_output_much(const vram_node *n) {
  int64_t stride[3], more[3];
  uint32_t i, axes = vram__spatial(n->op);
  if (!vram__is_transposed(n->op))
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
VRAM__FN int vram__slow_of(const vram__s *s, const vram_node *n, vram__t x, vram__t w,
                           const vram_dims *y, vram__slow *k) {
  int64_t stride[3], dil[3], pad[3];
  uint32_t i, axes = vram__spatial(n->op);
  const vram_dims *area;
  if (s->ideal || !x.d->numel || ((x.dt != VRAM_BF16 || s->cc >= 80) && !vram__pads_output_much(n)))
    return 0;
  k->groups = VRAM__INT(n, groups, 1);
  k->samples = x.d->v[0];
  k->transposed = vram__is_transposed(n->op);
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
    if (dil[i] != 1)
      k->dilated = 1, k->plain = 0;
    if (w.d->v[w.d->ndim - axes + i] != 1 || stride[i] != 1 || pad[i])
      k->plain = 0;
  }
  area = k->transposed ? x.d : y;
  k->columns = vram__mul4((int64_t)(w.d->numel / (uint64_t)w.d->v[0]), area->v[2],
                          area->ndim > 3 ? area->v[3] : 1, area->ndim > 4 ? area->v[4] : 1);
  k->columns = vram__mul(k->columns, vram__size_of(x.dt));
  return 1;
}

/* one product for each sample, `times` of them; more than 2^16 samples change no figure */
static void vram__slow_products(vram__s *s, const vram__slow *k, int times) {
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  for (i = 0; i < n * times && !s->failed; i++)
    vram__workspace(s, s->ws);
}

/* one group: x and w contiguous, d the contiguous dims of the result */
static vram__t vram__slow_forward(vram__s *s, const vram__slow *k, vram__t x, int bias,
                                  const vram_dims *d) {
  vram__t y, columns = vram__none(), ones = columns;
  if (k->transposed && d->ndim == 5) { /* empty_like(input), resized: storages only grow */
    vram__t old = vram__empty(s, x.d, x.dt);
    y = old;
    y.d = d;
    if (d->numel > x.d->numel) {
      y = vram__empty(s, d, x.dt);
      vram__let(s, old);
    } else if (y.st)
      (s->top - y.st)->d = d;
  } else
    y = vram__empty(s, d, x.dt);
  if (!k->plain || k->transposed || k->dilated)
    columns = vram__raw(s, k->columns);
  if (bias && k->transposed) { /* the bias is a product with ones */
    ones = vram__raw(s, vram__size_of(x.dt) * d->numel / (uint64_t)(d->v[0] * d->v[1]));
    vram__slow_products(s, k, 2);
  } else
    vram__slow_products(s, k, 1);
  vram__let(s, ones);
  vram__let(s, columns);
  return y;
}

/* one group; want: a bit for each of the gradients of input, weight and bias */
static void vram__slow_backward(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                                uint32_t want, vram__t *to) {
  vram__t c, columns = vram__none(), t;
  uint32_t mask = ((1u << g.d->ndim) - 1) & ~2u;
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  if (k->transposed) {
    if (want & 1) {
      c = vram__contiguous(s, g);
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = k->plain ? columns : vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
      vram__let(s, columns);
      vram__let(s, c);
    }
    if (!(want & 6))
      return;
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, mask, 0, g.dt);
    c = vram__contiguous(s, g);
    columns = k->plain ? vram__none() : vram__raw(s, k->columns);
    if (want & 2)
      vram__slow_products(s, k, 1);
    if (want & 4)
      vram__reduce(s, c, mask, c.dt, 4, 4);
  } else if (k->dilated) {
    c = vram__contiguous(s, g);
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, c, mask, 0, c.dt);
    if (want & 3)
      columns = vram__raw(s, k->columns);
    g = c;
    g.d = vram__without_axis(s, c.d, 0);
    for (i = 0; i < n && !s->failed; i++) {
      if (want & 1)
        vram__workspace(s, s->ws);
      if (want & 2)
        vram__workspace(s, s->ws);
      if (want & 4) {
        t = vram__sum(s, g, mask >> 1, 0, g.dt);
        vram__let(s, t);
      }
    }
  } else {
    c = vram__contiguous(s, g);
    if (want & 1) {
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
    if (want & 4)
      to[2] = vram__sum(s, c, mask, 0, c.dt);
    if (want & 2) {
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
      if (!(want & 1))
        columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
  }
  vram__let(s, columns);
  vram__let(s, c);
}

/* the part of t that belongs to one group */
static const vram_dims *vram__slow_part(vram__s *s, const vram_dims *d, uint32_t axis,
                                        int64_t groups) {
  int64_t size[5];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[i];
  size[axis] /= groups;
  return vram__dims_in(s, d->ndim, size, VRAM__STRIDE(d));
}

/* subtensor(t, 1, groups, g): a copy unless it is dense */
static vram__t vram__slow_sub(vram__s *s, vram__t t, const vram_dims *d) {
  t.d = d;
  return vram__in_format(s, t, vram__suggests_cl(d));
}

/* Tensors of the groups that wait for cat, linked by their slots: nothing else counts writes to
   them. */
typedef struct vram__queue {
  uint32_t first, last;
} vram__queue;

static void vram__queue_add(vram__s *s, vram__queue *q, vram__t t) {
  if (!t.st)
    return;
  (s->top - t.st)->ver = 0;
  if (q->last)
    (s->top - q->last)->ver = t.st;
  else
    q->first = t.st;
  q->last = t.st;
}

static void vram__queue_let(vram__s *s, const vram__queue *q) {
  uint32_t i, next;
  for (i = q->first; i; i = next) {
    next = (s->top - i)->ver;
    (s->top - i)->ver = 0;
    vram__drop_store(s, i);
  }
}

/* y: dims of the result */
VRAM__FN vram__t vram__slow_run(vram__s *s, const vram__slow *k, vram__t x, vram__t w, int bias,
                                const vram_dims *y) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), r, t;
  vram__queue q = {0, 0};
  int64_t i;
  y = vram__contig(s, y);
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dy = vram__contig(s, vram__slow_part(s, y, 1, k->groups));
    for (i = 0; i < k->groups && !s->failed; i++) {
      t = vram__slow_sub(s, cx, dx);
      vram__queue_add(s, &q, vram__slow_forward(s, k, t, bias, dy));
      vram__let(s, t);
    }
    r = vram__empty(s, y, x.dt);
    vram__queue_let(s, &q);
  } else
    r = vram__slow_forward(s, k, cx, bias, y);
  vram__let(s, cw);
  vram__let(s, cx);
  return r;
}

VRAM__FN void vram__slow_bw(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                            uint32_t want, vram__t *to) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), part[3], gi, xi, wi;
  vram__queue q[3] = {{0, 0}, {0, 0}, {0, 0}};
  int64_t i;
  uint32_t j;
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dg = vram__slow_part(s, g.d, 1, k->groups);
    wi = cw;
    wi.d = vram__slow_part(s, cw.d, 0, k->groups);
    for (i = 0; i < k->groups && !s->failed; i++) {
      for (j = 0; j < 3; j++)
        part[j] = vram__none();
      gi = vram__slow_sub(s, g, dg);
      xi = vram__slow_sub(s, cx, dx);
      vram__slow_backward(s, k, gi, xi, wi, want, part);
      vram__let(s, xi);
      vram__let(s, gi);
      for (j = 0; j < 3; j++)
        vram__queue_add(s, q + j, part[j]);
    }
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, ((1u << g.d->ndim) - 1) & ~2u, 0, g.dt);
    for (j = 3; j-- > 0;)
      vram__queue_let(s, q + j);
  } else
    vram__slow_backward(s, k, g, cx, cw, want, to);
  vram__let(s, cw);
  vram__let(s, cx);
}

#endif /* VRAM_NO_STEP */
