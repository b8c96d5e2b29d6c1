/* >>ops/strided    views with strides of their own: diagonal, Tensor.unfold, as_strided */
#include "ops/ops.h"

static int vram__shape_diagonal(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t offset = VRAM__INT(n, offset, 0);
  int64_t size[VRAM_MAX_AXES], rows, columns;
  uint32_t a, b, i, m = 0;
  if (x->ndim < 2)
    return vram__node_error(g, n, "fewer than two axes: no matrix");
  if (!vram__axis(g, VRAM__INT(n, dim1, 0), x->ndim, &a) ||
      !vram__axis(g, VRAM__INT(n, dim2, 1), x->ndim, &b))
    return 0;
  if (a == b)
    return vram__node_error(g, n, "an axis that is named twice");
  for (i = 0; i < x->ndim; i++)
    if (i != a && i != b)
      size[m++] = x->v[i];
  rows = x->v[a];
  columns = x->v[b];
  if (offset >= 0)
    columns = columns > offset ? columns - offset : 0;
  else
    rows = offset > -rows ? rows + offset : 0;
  size[m++] = rows < columns ? rows : columns;
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_tensor_unfold(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t length = VRAM__INT(n, size, 0), step = VRAM__INT(n, step, 0);
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dimension, 0), x->ndim, &a))
    return 0;
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  if (length < 0 || length > (x->ndim ? x->v[a] : 1))
    return vram__node_error(g, n, "a window that is larger than the axis");
  if (step < 1)
    return vram__node_error(g, n, "step must be at least 1");
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? (x->v[i] - length) / step + 1 : x->v[i];
  size[i] = length;
  return vram__node_out(g, n, 0, x->ndim + 1u, size, n->in[0]->dtype);
}

/* Elements of a storage from the first to the last that these sizes and strides reach;
   VRAM_OVERFLOW: too many. */
static uint64_t vram__strided_span(uint32_t ndim, const int64_t *size, const int64_t *stride) {
  uint64_t span = 1;
  uint32_t i;
  for (i = 0; i < ndim; i++)
    if (!size[i])
      return 0;
  for (i = 0; i < ndim; i++)
    span = vram__sum_or_overflow(
        span, vram__product_or_overflow((uint64_t)size[i] - 1, (uint64_t)stride[i]));
  return span;
}

static int vram__shape_as_strided(vram_graph *g, vram_node *n) {
  const int64_t offset = VRAM__INT(n, storage_offset, 0);
  uint32_t ndim = 0, count = 0, i;
  const int64_t *size = vram__node_list(n, VRAM__KEY_size, &ndim);
  const int64_t *stride = vram__node_list(n, VRAM__KEY_stride, &count);
  uint64_t span;
  if (ndim != count || offset < 0)
    return vram__node_error(g, n, "as many sizes as strides, and an offset that is not negative");
  for (i = 0; i < ndim; i++)
    if (size[i] < 0 || stride[i] < 0)
      return vram__node_error(g, n, "a negative size or stride");
  span = vram__strided_span(ndim, size, stride);
  if (span == VRAM_OVERFLOW || (span && span + (uint64_t)offset > n->in[0]->d->numel))
    return vram__node_error(g, n, "more than the tensor has");
  return vram__node_out(g, n, 0, ndim, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

static void vram__forward_diagonal(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const int64_t offset = VRAM__INT(n, offset, 0), *st = VRAM__STRIDE(x[0].d);
  const vram_dims *d = n->out[0].d;
  int64_t stride[VRAM_MAX_AXES];
  uint32_t a = 0, b = 0, i, m = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim1, 0), x[0].d->ndim, &a);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim2, 1), x[0].d->ndim, &b);
  for (i = 0; i < x[0].d->ndim; i++)
    if (i != a && i != b)
      stride[m++] = st[i];
  stride[m++] = st[a] + st[b];
  y[0] = vram__torch_view_as(s, x[0], vram__dims_in(s, m, d->v, stride), VRAM__K_slice, 0);
  vram__tensor_begin_at(
      s, y[0],
      d->v[m - 1] ? vram__view_at(s, x[0], offset < 0 ? a : b, offset < 0 ? -offset : offset) : 0);
}

static void vram__forward_tensor_unfold(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  int64_t stride[VRAM_MAX_AXES];
  uint32_t a = 0, i;
  vram__axis((vram_graph *)0, VRAM__INT(n, dimension, 0), x[0].d->ndim, &a);
  for (i = 0; i + 1 < d->ndim; i++)
    stride[i] = VRAM__STRIDE(x[0].d)[i] * (i == a ? VRAM__INT(n, step, 1) : 1);
  stride[i] = x[0].d->ndim ? VRAM__STRIDE(x[0].d)[a] : 1;
  y[0] = vram__torch_view_as(s, x[0], vram__dims_in(s, d->ndim, d->v, stride), n->op, a);
}

/* UnfoldBackward.cpp: windows that overlap are added up by their places along the axis */
static void vram__backward_tensor_unfold(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const int64_t length = VRAM__INT(f->node, size, 0), step = VRAM__INT(f->node, step, 1);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
  if (step < length && g.d->numel) {
    const int64_t along =
        ((d->ndim ? g.d->v[f->aux] : 1) - 1) * step + length; /* what is covered */
    vram__tensor_release(s, vram__tensor_empty(s, vram__dims_in(s, 1, &along, NULL), VRAM_I64));
  }
}

static void vram__forward_as_strided(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  const int64_t offset = VRAM__INT(n, storage_offset, 0);
  const vram__storage *st = vram__slot_at(s, vram__tensor_slot(x[0]));
  if (st->base != vram__tensor_slot(x[0]) && st->off)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "as_strided of a view that begins inside its storage");
  y[0] = vram__torch_view_as(
      s, x[0], vram__dims_in(s, d->ndim, d->v, vram__node_list(n, VRAM__KEY_stride, NULL)), n->op,
      (uint64_t)offset);
  vram__tensor_begin_at(s, y[0], (uint64_t)offset);
}

/* at::native::_maybe_overlapping_memory */
static int vram__strided_overlaps(uint32_t ndim, const int64_t *size, const int64_t *stride) {
  uint32_t done = 0, i, k, least;
  int64_t reach = 0;
  for (k = 0; k < ndim; k++) {
    for (least = ndim, i = 0; i < ndim; i++)
      if (!(done >> i & 1) && (least == ndim || stride[i] < stride[least]))
        least = i;
    done |= 1u << least;
    if (stride[least] <= reach)
      return 1;
    reach += stride[least] * (size[least] - 1);
  }
  return 0;
}

/* FunctionsManual.cpp, as_strided_backward: what is expanded is summed, places that several
   elements share are added up by their index, others are copied. */
VRAM__FN void vram__backward_as_strided(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = vram__input_dims(s, f, 0, NULL), *out = VRAM__SLOTS(f)[0].d;
  const int64_t *st = VRAM__STRIDE(out);
  vram__tensor g = VRAM__SLOTS(f)[0].g, t = vram__tensor_none(), whole, all, copy, flat;
  int64_t size[VRAM_MAX_AXES] = {0}, stride[VRAM_MAX_AXES] = {0}, count;
  uint64_t base = vram__strided_span(d->ndim, d->v, VRAM__STRIDE(d)), reach;
  uint32_t i, m = 0;
  for (i = out->ndim; i-- > 0;)
    if (out->v[i] != 1 && !st[i]) {
      vram__tensor sum = vram__tensor_sum(s, t.d ? t : g, 1u << i, 1, g.dt);
      vram__tensor_release(s, t);
      t = sum;
    }
  for (i = 0; i < out->ndim; i++)
    if (out->v[i] != 1 && st[i]) {
      size[m] = out->v[i];
      stride[m++] = st[i];
    }
  reach = vram__strided_span(m, size, stride) + f->aux;
  if (base < reach)
    base = reach;
  count = (int64_t)base;
  whole = vram__tensor_empty(s, vram__dims_in(s, 1, &count, NULL), g.dt);
  if (vram__strided_overlaps(m, size, stride)) {
    all = vram__tensor_empty(s, whole.d, VRAM_I64);
    flat = t.d ? t : g;
    count = (int64_t)flat.d->numel;
    flat = vram__tensor_reshape(s, flat, 1, &count);
    copy = vram__tensor_empty(s, vram__dims_in(s, 1, &count, NULL), VRAM_I64);
    vram__tensor_release(s, copy);
    vram__tensor_release(s, flat);
    vram__tensor_release(s, all);
  }
  to[0] = vram__tensor_view(s, whole, d);
  vram__tensor_release(s, whole);
  vram__tensor_release(s, t);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(diagonal, "diagonal linalg_diagonal: x offset? dim1 dim2", 1, 1, diagonal, SAME, none,
         diagonal, none, none, NONE, 0, 0, "offset dim1 dim2");
VRAM__OP(tensor_unfold, "unfold: x dimension size step", 1, 1, tensor_unfold, SAME, none,
         tensor_unfold, tensor_unfold, none, NONE, 0, 0, "dimension! size! step!");
VRAM__OP(as_strided, "as_strided: x size stride storage_offset?", 1, 1, as_strided, SAME, none,
         as_strided, as_strided, none, NONE, 0, 0, "size! stride! storage_offset");
