/* >>ops/vision    regions of interest, deformable convolution (torchvision/csrc/ops) */
#include "ops/ops.h"

enum {
  VRAM__ROI_ALIGN,
  VRAM__ROI_POOL,
  VRAM__ROI_PARTS
}; /* PARTS: one part of the channels a bin */

static int vram__shape_roi(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *r = n->in[1]->d;
  const int parts = vram__op_at(n->op)->kind == VRAM__ROI_PARTS;
  int64_t bins[2], size[4];
  uint64_t each;
  if (x->ndim != 4)
    return vram__node_error(g, n, "an input that is not [N,C,H,W]");
  if (r->ndim != 2 || r->v[1] != 5)
    return vram__node_error(g, n, "boxes that are not [K,5]");
  if (!vram__dtype_is_float(n->in[0]->dtype) || n->in[1]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "boxes of another dtype than the input's floating point");
  if (!vram__axes(g, n, VRAM__KEY_output_size, 2, 1, 1, bins))
    return 0;
  each = vram__product_or_overflow((uint64_t)bins[0], (uint64_t)bins[1]);
  if (parts && (each > (uint64_t)x->v[1] || (uint64_t)x->v[1] % each))
    return vram__node_error(g, n, "channels that the bins do not divide");
  size[0] = r->v[0];
  size[1] = parts ? x->v[1] / (int64_t)each : x->v[1];
  size[2] = bins[0];
  size[3] = bins[1];
  return vram__node_out(g, n, 0, 4, size, n->in[0]->dtype);
}

/* The sizes of a deformable convolution: inputs are x, offset, weight, then a mask (four axes) and
   a bias (one). */
typedef struct vram__deform {
  int64_t out[2];
  int64_t groups, parallel; /* groups of the weight; images of one product */
  uint32_t mask, bias;      /* their inputs; 0: none */
} vram__deform;

static int vram__deform_of(vram_graph *g, const vram_node *n, vram__deform *k) {
  const vram_dims *x = n->in[0]->d, *o = n->in[1]->d, *w = n->in[2]->d;
  int64_t stride[2], padding[2], dilation[2];
  uint32_t i;
  vram__memory_zero(k, sizeof *k);
  for (i = 3; i < n->nin; i++)
    *(n->in[i]->d->ndim == 1 ? &k->bias : &k->mask) = i;
  if (x->ndim != 4 || o->ndim != 4 || w->ndim != 4)
    return vram__node_error(g, n, "an input, offsets or a weight that have not four axes");
  if (!vram__shape_window(g, n, VRAM__KEY_stride, 2, 1, stride) ||
      !vram__shape_window(g, n, VRAM__KEY_padding, 2, 0, padding) ||
      !vram__shape_window(g, n, VRAM__KEY_dilation, 2, 1, dilation))
    return 0;
  for (i = 0; i < 2; i++) {
    const int64_t reach = x->v[2 + i] + 2 * padding[i] - dilation[i] * (w->v[2 + i] - 1) - 1;
    if (reach < 0 || w->v[2 + i] < 1)
      return vram__node_error(g, n, "a kernel that is larger than the input");
    k->out[i] = reach / stride[i] + 1;
  }
  if (w->v[1] < 1 || x->v[1] % w->v[1] || w->v[0] % (x->v[1] / w->v[1]))
    return vram__node_error(g, n, "channels that the weight's groups do not divide");
  if (o->v[0] != x->v[0] || o->v[2] != k->out[0] || o->v[3] != k->out[1] ||
      o->v[1] % (2 * w->v[2] * w->v[3]) || (k->bias && n->in[k->bias]->d->v[0] != w->v[0]) ||
      (k->mask && n->in[k->mask]->d->ndim != 2 &&
       (n->in[k->mask]->d->ndim != 4 || n->in[k->mask]->d->v[1] * 2 != o->v[1])))
    return vram__node_error(g, n,
                            "offsets, a mask or a bias of other sizes than the convolution's");
  k->groups = x->v[1] / w->v[1];
  for (k->parallel = x->v[0] < 32 ? x->v[0] : 32; k->parallel > 1 && x->v[0] % k->parallel;)
    k->parallel--;
  return 1;
}

static int vram__shape_deform(vram_graph *g, vram_node *n) {
  int64_t size[4];
  vram__deform k;
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    if (!vram__dtype_is_float(n->in[i]->dtype) || n->in[i]->dtype != n->in[0]->dtype)
      return vram__node_error(g, n, "inputs that are not of one floating point dtype");
  if (!vram__deform_of(g, n, &k))
    return 0;
  size[0] = n->in[0]->d->v[0];
  size[1] = n->in[2]->d->v[0];
  size[2] = k.out[0];
  size[3] = k.out[1];
  return vram__node_out(g, n, 0, 4, size, n->in[0]->dtype);
}

/* Columns, and the product of all axes of the weight. */
static uint64_t vram__flops_deform(const vram_node *n) {
  const vram_dims *w = n->in[2]->d;
  return vram__product_or_overflow(2 * n->out[0].d->numel,
                                   w->v[0] ? w->numel / (uint64_t)w->v[0] : 0);
}

#ifndef VRAM_NO_STEP

static void vram__vision_refuse(vram__step *s, vram__tensor x) {
  if (!s->amp && x.dt == VRAM_BF16 && x.d->numel)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "torchvision has no kernel for bf16 outside autocast");
}

/* An input as torchvision's autocast has it: in fp32. */
static vram__tensor vram__vision_cast(vram__step *s, vram__tensor x) {
  return s->amp ? vram__autocast_cast(s, x, VRAM_F32) : vram__tensor_retain(s, x);
}

static void vram__forward_roi(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int align = vram__op_at(n->op)->kind == VRAM__ROI_ALIGN;
  vram__tensor in[2], bins = vram__tensor_none(), a, b;
  vram__grad_fn *f;
  uint32_t i;
  vram__vision_refuse(s, x[0]);
  in[0] = vram__vision_cast(s, x[0]);
  in[1] = vram__vision_cast(s, x[1]);
  f = vram__tape_record(s, n->op, in, 1, 1, 2);
  y[0] = vram__tensor_empty(s, n->out[0].d, in[0].dt);
  if (!align) /* where the largest value was, or which channel is a bin's */
    bins = vram__tensor_empty(s, n->out[0].d, VRAM_I32);
  a = vram__tensor_contiguous(s, in[0]);
  b = vram__tensor_contiguous(s, in[1]);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  if (f)
    vram__save_tensor(s, f, in[1]);
  if (f && !align)
    vram__save_tensor(s, f, bins);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, in[i]);
  a = vram__torch_cast(s, y[0], x[0].dt); /* the result in the dtype that the input had */
  if (bins.d && s->amp) {                 /* this one too, and nobody has it */
    b = vram__tensor_empty(s, n->out[0].d, x[0].dt);
    vram__tensor_release(s, bins);
    bins = b;
  }
  vram__tensor_release(s, y[0]);
  vram__tensor_release(s, bins);
  y[0] = a;
}

static void vram__backward_roi(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__tensor zeros = vram__tensor_none();
  if (f->nsaved > 1) /* the gradient of the second result, which is none */
    zeros = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), VRAM_I32);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)), g.dt);
  if (vram__op_at(f->kind)->kind == VRAM__ROI_PARTS)
    vram__tensor_release(s, vram__tensor_contiguous(s, g));
  vram__tensor_release(s, zeros);
}

static void vram__forward_deform(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__tensor in[5], own[5], c[5], none[2], cast[2], out, buffer, columns;
  const vram_dims *d = n->out[0].d, *w = x[2].d;
  vram__grad_fn *f;
  vram__deform k;
  uint32_t i;
  int64_t b, each;
  vram__deform_of((vram_graph *)0, n, &k);
  none[0] = none[1] = vram__tensor_none();
  vram__vision_refuse(s, x[0]);
  if (!k.mask) /* the function makes what is not given */
    none[0] = vram__tensor_empty(s, vram__dims_2d(s, x[0].d->v[0], 1), x[0].dt);
  if (!k.bias)
    none[1] = vram__tensor_vector(s, w->v[0], x[0].dt);
  for (i = 0; i < n->nin; i++) /* the weight before the offsets */
    in[i == 1 || i == 2 ? 3 - i : i] = vram__vision_cast(s, x[i == 1 || i == 2 ? 3 - i : i]);
  cast[0] = k.mask ? vram__tensor_none() : vram__vision_cast(s, none[0]);
  cast[1] = k.bias ? vram__tensor_none() : vram__vision_cast(s, none[1]);
  own[0] = in[0]; /* the function's inputs */
  own[1] = in[2];
  own[2] = in[1];
  own[3] = k.mask ? in[k.mask] : cast[0];
  own[4] = k.bias ? in[k.bias] : cast[1];
  f = vram__tape_record(s, n->op, own, 5, 1, 5);
  for (i = 0; i < n->nin; i++)
    c[i] = vram__tensor_contiguous(s, in[i]);
  out = vram__tensor_empty(s, d, in[0].dt);
  buffer = vram__tensor_empty(s, d, in[0].dt);
  each = k.parallel * k.out[0] * k.out[1];
  columns =
      vram__tensor_empty(s, vram__dims_2d(s, x[0].d->v[1] * w->v[2] * w->v[3], each), in[0].dt);
  for (b = 0; k.parallel && b < x[0].d->v[0] / k.parallel * k.groups && !s->failed; b++)
    if (d->numel)
      vram__blas_workspace(s, VRAM__CUBLAS);
  y[0] = vram__tensor_empty(s, d, in[0].dt);
  vram__tensor_release(s, columns);
  vram__tensor_release(s, buffer);
  vram__tensor_release(s, out);
  for (i = n->nin; i-- > 0;)
    vram__tensor_release(s, c[i]);
  for (i = 0; f && i < 5; i++)
    vram__save_tensor(s, f, own[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = n->nin; i-- > 0;)
    vram__tensor_release(s, in[i]);
  vram__tensor_replace(s, &y[0], vram__torch_cast(s, y[0], x[0].dt));
  for (i = 2; i-- > 0;) {
    vram__tensor_release(s, cast[i]);
    vram__tensor_release(s, none[i]);
  }
}

/* Where input i of a deformable convolution is among the function's: the weight stands before the
   offsets, the mask before the bias. */
static uint32_t vram__deform_input(const vram__deform *k, uint32_t i) {
  return i == 1 || i == 2 ? 3 - i : i && i == k->mask ? 3 : i && i == k->bias ? 4 : i;
}

/* backward_gradient_inputs: of the input, the offsets and the mask, whoever wants them */
static void vram__deform_inputs(vram__step *s, const vram__deform *k, vram__grad_fn *f,
                                vram__tensor *made) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const int64_t each = k->parallel * k->out[0] * k->out[1];
  vram__tensor columns, part = vram__tensor_none();
  int64_t b;
  made[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x), g.dt);
  made[1] = vram__tensor_empty(s, vram__dims_contiguous(s, VRAM__SAVED(f)[2].d), g.dt);
  made[2] = vram__tensor_empty(
      s, k->mask ? vram__dims_contiguous(s, VRAM__SAVED(f)[3].d) : vram__dims_2d(s, x->v[0], 1),
      g.dt);
  columns = vram__tensor_empty(s, vram__dims_2d(s, x->v[1] * w->v[2] * w->v[3], each), g.dt);
  for (b = 0; k->parallel && b < x->v[0] / k->parallel * k->groups && !s->failed; b++) {
    if (k->parallel > 1 && w->v[0] > 1) /* the images of a part side by side */
      part = vram__tensor_empty(s, vram__dims_2d(s, w->v[0] / k->groups, each), g.dt);
    if (g.d->numel)
      vram__blas_workspace(s, VRAM__CUBLAS);
    vram__tensor_release(s, part);
  }
  vram__tensor_release(s, columns);
}

/* backward_gradient_parameters: of the weight */
static vram__tensor vram__deform_weight(vram__step *s, const vram__deform *k, vram__grad_fn *f) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const int64_t each = k->parallel * k->out[0] * k->out[1];
  const vram_dims *group = vram__dims_2d(s, w->v[0] / k->groups, w->v[1] * w->v[2] * w->v[3]);
  vram__tensor made = vram__tensor_empty(s, vram__dims_contiguous(s, w), g.dt), buffer, columns, t,
               u;
  int64_t b;
  buffer = vram__tensor_none();
  if (k->parallel > 1 && w->v[0] > 1)
    buffer = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  columns = vram__tensor_empty(s, vram__dims_2d(s, x->v[1] * w->v[2] * w->v[3], each), g.dt);
  for (b = 0; k->parallel && b < x->v[0] / k->parallel * k->groups && !s->failed; b++) {
    t = vram__tensor_empty(s, group, g.dt);
    if (g.d->numel)
      vram__blas_workspace(s, VRAM__CUBLAS);
    u = vram__tensor_empty(s, group, g.dt);
    vram__tensor_release(s, u);
    vram__tensor_release(s, t);
  }
  vram__tensor_release(s, columns);
  vram__tensor_release(s, buffer);
  return made;
}

static void vram__backward_deform(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__tensor made[5], c[5], grad = vram__tensor_contiguous(s, g), value, ones;
  vram__deform k;
  uint32_t i;
  vram__deform_of((vram_graph *)0, f->node, &k);
  for (i = 0; i < f->node->nin; i++)
    c[i] = vram__tensor_contiguous(s, VRAM__SAVED(f)[vram__deform_input(&k, i)]);
  vram__deform_inputs(s, &k, f, made);
  made[3] = vram__deform_weight(s, &k, f);
  value = vram__tensor_sum(s, grad, 1u | 4u | 8u, 0, g.dt);
  ones = vram__tensor_vector(s, g.d->v[1], g.dt);
  made[4] = vram__tensor_vector(s, g.d->v[1], g.dt);
  vram__tensor_release(s, ones);
  vram__tensor_release(s, value);
  for (i = f->node->nin; i-- > 0;)
    vram__tensor_release(s, c[i]);
  vram__tensor_release(s, grad);
  to[0] = made[0];
  to[1] = made[3];
  to[2] = made[1];
  to[3] = made[2];
  to[4] = made[4];
  for (i = 0; i < 5; i++) /* something more holds what these functions give */
    if (to[i].st)
      vram__slot_at(s, to[i].st)->shown = 1;
}

#endif /* VRAM_NO_STEP */

VRAM__OP(roi_align, "", 2, 2, roi, SAME, none, roi, roi, each, NONE, VRAM__ROI_ALIGN, 0,
         "output_size!");
VRAM__OP(roi_pool, "", 2, 2, roi, SAME, none, roi, roi, each, NONE, VRAM__ROI_POOL, 0,
         "output_size!");
VRAM__OP(ps_roi_align, "", 2, 2, roi, SAME, none, roi, roi, each, NONE, VRAM__ROI_PARTS, 0,
         "output_size!");
VRAM__OP(ps_roi_pool, "", 2, 2, roi, SAME, none, roi, roi, each, NONE, VRAM__ROI_PARTS, 0,
         "output_size!");
VRAM__OP(deform_conv2d, "", 3, 5, deform, SAME, none, deform, deform, deform, NONE, 0, 0,
         "stride padding dilation");
