/* >>ops/view    ops whose output is a view */
#include "ops/ops.h"

/* kind of a view's row, where a function has several ops */
enum {
  VRAM__VIEW_STRICT = 1, /* no copy where the strides do not allow the view */
  VRAM__VIEW_FLATTEN,
  VRAM__VIEW_T,
  VRAM__VIEW_TRANSPOSE,
  VRAM__VIEW_NARROW,
  VRAM__VIEW_SELECT,
  VRAM__VIEW_UNSQUEEZE,
  VRAM__VIEW_UNBIND
};

static int vram__shape_reshape(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, free = VRAM_MAX_AXES;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  uint64_t z = 1;
  for (i = 0; i < c; i++) {
    size[i] = v[i];
    if (v[i] == -1) {
      if (free != VRAM_MAX_AXES)
        return vram__node_error(g, n, "more than one -1");
      free = i;
    } else if (v[i] < 0 || (z = vram__product_or_overflow(z, (uint64_t)v[i])) == VRAM_OVERFLOW)
      return vram__node_error(g, n, "a size out of range");
  }
  if (free != VRAM_MAX_AXES) {
    if (!z || x->numel % z)
      return vram__node_error(g, n, "-1 does not divide");
    size[free] = (int64_t)(x->numel / z);
    z *= x->numel / z;
  }
  if (z != x->numel)
    return vram__node_error(g, n, "a shape of another number of elements");
  return vram__node_out(g, n, 0, c, size, n->in[0]->dtype);
}

static int vram__shape_flatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, b, i, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!vram__axis(g, VRAM__INT(n, start_dim, 0), x->ndim, &a))
    return 0;
  if (!vram__axis(g, VRAM__INT(n, end_dim, -1), x->ndim, &b))
    return 0;
  if (a > b)
    return vram__node_error(g, n, "start_dim is behind end_dim");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  size[m] = 1;
  for (i = a; i <= b && i < x->ndim; i++)
    size[m] *= x->v[i];
  m++;
  for (i = b + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unflatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, c, i, m = 0, free = 99;
  int64_t size[2 * VRAM_MAX_AXES], z = 1;
  const int64_t *v = vram__node_list(n, VRAM__KEY_sizes, &c);
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (!x->ndim)
    return vram__node_error(g, n, "unflatten of a tensor without axes");
  if (x->ndim - 1 + c > VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  for (i = 0; i < c; i++) {
    if (v[i] == -1 && free == 99)
      free = m;
    else if (v[i] < 1 || v[i] > x->v[a] || z > x->v[a])
      return vram__node_error(g, n, "sizes that do not divide the axis");
    else
      z *= v[i];
    size[m++] = v[i];
  }
  if (free != 99) {
    if (x->v[a] % z)
      return vram__node_error(g, n, "sizes that do not divide the axis");
    size[free] = x->v[a] / z;
    z *= size[free];
  }
  if (z != x->v[a])
    return vram__node_error(g, n, "sizes that do not make up the axis");
  for (i = a + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

/* The order of axes that a transposing node asks for. */
static int vram__shape_order(vram_graph *g, const vram_node *n, uint32_t ndim, uint8_t *to) {
  uint32_t i, a, b, c, seen = 0;
  const int64_t *v;
  for (i = 0; i < ndim; i++)
    to[i] = (uint8_t)i;
  if (vram__op_at(n->op)->kind == VRAM__VIEW_T) {
    if (ndim == 2) {
      to[0] = 1;
      to[1] = 0;
    }
  } else if (vram__op_at(n->op)->kind == VRAM__VIEW_TRANSPOSE) {
    if (!vram__axis(g, VRAM__INT(n, dim0, 0), ndim, &a) ||
        !vram__axis(g, VRAM__INT(n, dim1, 0), ndim, &b))
      return 0;
    if (ndim) {
      to[a] = (uint8_t)b;
      to[b] = (uint8_t)a;
    }
  } else {
    v = vram__node_list(n, VRAM__KEY_dims, &c);
    if (c != ndim)
      return vram__node_error(g, n, "dims must name every axis once");
    for (i = 0; i < c; i++) {
      if (!vram__axis(g, v[i], ndim, &a))
        return 0;
      if (seen >> a & 1)
        return vram__node_error(g, n, "dims must name every axis once");
      seen |= 1u << a;
      to[i] = (uint8_t)a;
    }
  }
  return 1;
}

static int vram__shape_permute(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (vram__op_at(n->op)->kind == VRAM__VIEW_T && x->ndim > 2)
    return vram__node_error(g, n, "t of more than two axes");
  if (!vram__shape_order(g, n, x->ndim, order))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[order[i]];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_squeeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c, m = 0, mask = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (x->v[i] != 1 || !(mask >> i & 1))
      size[m++] = x->v[i];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unsqueeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? 1 : x->v[m++];
  return vram__node_out(g, n, 0, x->ndim + 1u, size, n->in[0]->dtype);
}

static int vram__shape_expand(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, k;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  if (c < x->ndim)
    return vram__node_error(g, n, "expand to fewer axes");
  k = c - x->ndim;
  for (i = 0; i < c; i++) {
    int64_t have = i < k ? 1 : x->v[i - k];
    size[i] = v[i] == -1 && i >= k ? have : v[i];
    if (size[i] < 0 || (have != 1 && have != size[i]))
      return vram__node_error(g, n, "expand of an axis that is not 1");
  }
  return vram__node_out(g, n, 0, c, size, n->in[0]->dtype);
}

/* start, step and length of a slice of an axis of size z */
static void vram__slice_of(const vram_node *n, int64_t z, int64_t *start, int64_t *step,
                           int64_t *len) {
  int64_t a = VRAM__INT(n, start, 0), b = VRAM__INT(n, end, INT64_MAX);
  *step = VRAM__INT(n, step, 1);
  if (vram__op_at(n->op)->kind == VRAM__VIEW_NARROW)
    b = (a < 0 ? a + z : a) + VRAM__INT(n, length, 0);
  if (a < 0)
    a += z;
  if (b < 0)
    b += z;
  if (a < 0)
    a = 0;
  if (a > z)
    a = z;
  if (b < a)
    b = a;
  if (b > z)
    b = z;
  *start = a;
  *len = (b - a) / *step + ((b - a) % *step != 0);
}

static int vram__shape_slice(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a;
  int64_t size[VRAM_MAX_AXES], start, step, len;
  if (!x->ndim)
    return vram__node_error(g, n, "a slice of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (VRAM__INT(n, step, 1) < 1)
    return vram__node_error(g, n, "step must be at least 1");
  if (VRAM__INT(n, colon, 0) &&
      (vram__node_list(n, VRAM__KEY_start, NULL) || vram__node_list(n, VRAM__KEY_end, NULL) ||
       vram__node_list(n, VRAM__KEY_step, NULL)))
    return vram__node_error(g, n, "colon=1 is all of an axis: expected no start, end or step");
  if (vram__op_at(n->op)->kind == VRAM__VIEW_NARROW) {
    start = VRAM__INT(n, start, 0);
    len = VRAM__INT(n, length, 0);
    if (start < -x->v[a] || start > x->v[a] || len < 0 ||
        len > x->v[a] - (start < 0 ? start + x->v[a] : start))
      return vram__node_error(g, n, "start and length beyond the axis");
  }
  vram__slice_of(n, x->v[a], &start, &step, &len);
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? len : x->v[i];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES], at = VRAM__INT(n, index, 0);
  if (!x->ndim)
    return vram__node_error(g, n, "select of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (at < -x->v[a] || at >= x->v[a])
    return vram__node_error(g, n, "index out of range");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_split(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c = 0, k, pieces;
  int64_t size[VRAM_MAX_AXES], left, per;
  const int64_t *v = vram__node_list(n, VRAM__KEY_split_size_or_sections, &c);
  if (!x->ndim)
    return vram__node_error(g, n, "a split of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  left = x->v[a];
  if (!v) {
    int64_t chunks = VRAM__INT(n, chunks, 1);
    if (chunks < 1)
      return vram__node_error(g, n, "chunks must be at least 1");
    per = left / chunks + (left % chunks != 0);
    c = 1;
  } else
    per = v[0];
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (pieces = 0; c > 1 ? pieces < c : left > 0 || !pieces; pieces++) {
    int64_t z = c > 1 ? v[pieces] : per < left ? per : left;
    if (z < 0 || z > left || (c == 1 && !z && left))
      return vram__node_error(g, n, "sections that do not make up the axis");
    size[a] = z;
    left -= z;
    if (pieces < n->nout && !vram__node_out(g, n, pieces, x->ndim, size, n->in[0]->dtype))
      return 0;
    if (pieces >= 65535)
      return vram__node_error(g, n, "too many pieces");
  }
  if (left)
    return vram__node_error(g, n, "sections that do not make up the axis");
  k = n->nout;
  if (pieces != k) {
    vram__graph_fail(g, VRAM_ERR_SHAPE, "other outputs than pieces (found ");
    vram__error_more_i(g, k);
    vram__error_more(g, " names, expected ");
    vram__error_more_i(g, pieces);
    vram__error_more(g, ")");
    return 0;
  }
  return 1;
}

static int vram__shape_unbind(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!x->ndim)
    return vram__node_error(g, n, "unbind of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (x->v[a] != (int64_t)n->nout)
    return vram__node_error(g, n, "other outputs than the axis has");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  for (i = 0; i < n->nout; i++)
    if (!vram__node_out(g, n, i, m, size, n->in[0]->dtype))
      return 0;
  return 1;
}

#ifndef VRAM_NO_STEP

/* torch/csrc/autograd/functions/tensor.cpp, CopySlices and CopyBackwards */
VRAM__FN void vram__backward_copy_slices(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__grad_fn *in = vram__grad_fn_at(s, (uint32_t)f->aux);
  vram__slot *o = VRAM__SLOTS(in);
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  vram_dtype dt = VRAM__SLOTS(f)[0].g.dt;
  vram__tensor all = vram__tensor_empty_strided(s, d, dt, vram__dims_span_bytes(d, dt));
  o->g = vram__tensor_empty(s, vram__dims_contiguous(s, o->d),
                            dt); /* a contiguous clone of the part overwritten */
  vram__backward_any(s, in, to);
  vram__tensor_release(s, o->g);
  o->g = vram__tensor_none();
  if (vram__input_wanted(f, 0) && to[0].d) {
    vram__tensor_release(s, to[0]);
    to[0] = all;
  } else
    vram__tensor_release(s, all);
}

VRAM__FN void vram__backward_copy(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 0)) /* zeros */
    to[0] = vram__pointwise_empty1(s, g);
  if (vram__input_wanted(f, 1)) {
    vram_dtype dt;
    vram__input_dims(s, f, 1, &dt);
    to[1] = vram__tensor_to(s, g, dt);
  }
}

static void vram__forward_view(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  int64_t stride[VRAM_MAX_AXES];
  if (vram__op_at(n->op)->kind == VRAM__VIEW_FLATTEN &&
      d->ndim == x[0].d->ndim) /* of one axis: x itself */
    y[0] = vram__tensor_retain(s, x[0]);
  else if (x[0].d->flags & VRAM__PLAIN)
    y[0] = vram__torch_view_as(s, x[0], d, VRAM__K_view, 0);
  else {
    if (vram__op_at(n->op)->kind == VRAM__VIEW_STRICT && d->numel &&
        !vram__dims_view_strides(x[0].d, d->ndim, d->v, stride))
      vram__step_refuse(
          s, VRAM_ERR_UNSUPPORTED, n,
          "a view that the strides do not allow: PyTorch stops with an error (reshape "
          "copies)");
    y[0] = vram__torch_reshape(s, x[0], d->ndim, d->v);
  }
}

VRAM__FN void vram__backward_view(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  int64_t stride[VRAM_MAX_AXES];
  if (f->aux && vram__dims_view_strides(g.d, d->ndim, d->v, stride)) {
    stride[d->ndim - 1u] = 1;
    to[0] = vram__tensor_view(s, g, vram__dims_in(s, d->ndim, d->v, stride));
  } else
    to[0] = vram__tensor_reshape(s, g, d->ndim, d->v);
}

static void vram__forward_permute(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  uint8_t order[VRAM_MAX_AXES];
  vram__shape_order((vram_graph *)0, n, x[0].d->ndim, order);
  y[0] = vram__torch_permute(s, x[0], order);
}

VRAM__FN void vram__backward_permute(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < g.d->ndim; i++)
    order[(f->aux >> (8 * i)) & 7] = (uint8_t)i;
  to[0] = vram__tensor_view(s, g, vram__dims_permuted(s, g.d, order));
}

static void vram__forward_squeeze(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  uint32_t a;
  if (vram__op_at(n->op)->kind == VRAM__VIEW_UNSQUEEZE) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim + 1u, &a);
    y[0] = vram__torch_unsqueeze(s, x[0], a);
    return;
  }
  y[0] = vram__torch_squeeze(
      s, x[0], vram__node_list(n, VRAM__KEY_dim, NULL) ? vram__dim_mask(n, x[0].d->ndim) : 0xff);
}

/* squeeze: unsqueeze_to, g itself where nothing was squeezed; unsqueeze: squeeze */
static void vram__backward_squeeze(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = g.d;
  uint32_t i;
  if (vram__op_at(f->kind)->kind == VRAM__VIEW_UNSQUEEZE)
    d = vram__dims_without_axis(s, d, (uint32_t)f->aux);
  else if (!f->aux) {
    to[0] = vram__tensor_retain(s, g);
    return;
  } else
    for (i = 0; i < VRAM_MAX_AXES; i++)
      if (f->aux >> i & 1)
        d = vram__dims_unsqueezed(s, d, i);
  to[0] = vram__tensor_view(s, g, d);
}

static void vram__forward_expand(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  y[0] = vram__torch_expand(s, x[0], n->out[0].d->ndim, n->out[0].d->v);
}

VRAM__FN void vram__backward_expand(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_sum_to(s, VRAM__SLOTS(f)[0].g, vram__input_dims(s, f, 0, NULL));
}

/* Where a view begins that leaves out the first `start` along an axis. */
VRAM__FN uint64_t vram__view_at(const vram__step *s, vram__tensor x, uint32_t axis, int64_t start) {
  const uint64_t off = vram__slot_at(s, vram__tensor_slot(x))->off;
  return start ? off + (uint64_t)start * (uint64_t)VRAM__STRIDE(x.d)[axis] : off;
}

/* slice, narrow and select: the gradient is written into zeros of the input's size */
static void vram__forward_slice(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const int select = vram__op_at(n->op)->kind == VRAM__VIEW_SELECT;
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES], start, step, len;
  uint32_t a, i, m = 0;
  if (VRAM__INT(n, colon, 0) && !(s->device.rules->does & VRAM__COLON_VIEW)) {
    y[0] = vram__tensor_retain(s, x[0]);
    return;
  }
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (!select)
    vram__slice_of(n, x[0].d->v[a], &start, &step, &len);
  for (i = 0; i < x[0].d->ndim; i++) {
    if (i == a && select)
      continue;
    size[m] = x[0].d->v[i];
    stride[m] = VRAM__STRIDE(x[0].d)[i];
    if (i == a) {
      size[m] = len;
      stride[m] *= step;
    }
    m++;
  }
  if (select) {
    start = VRAM__INT(n, index, 0);
    if (start < 0)
      start += x[0].d->v[a];
  }
  y[0] = vram__torch_view_as(s, x[0], vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
  vram__tensor_begin_at(s, y[0], vram__view_at(s, x[0], a, start));
}

VRAM__FN void vram__backward_slice(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)),
                             VRAM__SLOTS(f)[0].g.dt);
}

static void vram__forward_split(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const int unbind = vram__op_at(n->op)->kind == VRAM__VIEW_UNBIND;
  uint32_t a, i, j;
  int64_t at = 0;
  vram__grad_fn *f;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  f = vram__tape_record(s, n->op, x, 1, n->nout, 0);
  if (f)
    f->aux = a;
  for (i = 0; i < n->nout; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    for (j = 0; j < x[0].d->ndim; j++) {
      if (j == a && unbind)
        continue;
      size[m] = j == a ? n->out[i].d->v[a] : x[0].d->v[j];
      stride[m++] = VRAM__STRIDE(x[0].d)[j];
    }
    y[i] = vram__tensor_view(s, x[0], vram__dims_in(s, m, size, stride));
    vram__tensor_begin_at(s, y[i], vram__view_at(s, x[0], a, at));
    at += unbind ? 1 : n->out[i].d->v[a];
    vram__view_wants_grad(s, y[i], x[0]);
    vram__grad_fn_set_output(s, f, i, &y[i]);
  }
}

/* split: cat of the pieces, zeros stand in for those without a gradient; unbind: stack of them,
   one zero expanded for each */
static void vram__backward_split(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int unbind = vram__op_at(f->kind)->kind == VRAM__VIEW_UNBIND;
  uint32_t i;
  vram_dtype dt = VRAM_DTYPE_NONE;
  int cl = 1;
  vram__slot *slot = VRAM__SLOTS(f);
  const vram_dims *d = vram__dims_contiguous(s, vram__input_dims(s, f, 0, &dt)), *p;
  for (i = 0; i < f->nout; i++)
    if (!slot[i].g.d) {
      p = unbind ? s->scalar : vram__dims_contiguous(s, slot[i].d);
      slot[i].g = vram__tensor_empty(s, p, dt);
      if (slot[i].g.st)
        vram__slot_at(s, slot[i].g.st)->filler = 1;
      if (unbind)
        slot[i].g.d = vram__dims_expanded(s, p, slot[i].d->ndim, slot[i].d->v);
    }
  for (i = 0; cl && i < f->nout; i++) {
    p = slot[i].g.d;
    if (unbind)
      p = vram__dims_unsqueezed(s, p, (uint32_t)f->aux);
    cl = vram__suggests_cl(p);
  }
  to[0] = vram__tensor_empty(s, vram__cat_dims(s, vram__dims_in(s, d->ndim, d->v, NULL), cl), dt);
  for (i = 0; i < f->nout; i++)
    if (slot[i].g.st && vram__slot_at(s, slot[i].g.st)->filler) {
      vram__tensor_release(s, slot[i].g);
      slot[i].g = vram__tensor_none();
    }
}

static void vram__forward_detach(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  (void)n;
  y[0] = vram__tensor_alias(s, x[0], x[0].d);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(reshape, "reshape_as: x shape", 1, 1, reshape, SAME, none, view, view, none, VIEW, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "shape!");
VRAM__OP(view, "view_as: x shape", 1, 1, reshape, SAME, none, view, view, none, VIEW,
         VRAM__VIEW_STRICT, VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "shape!");
VRAM__OP(flatten, "", 1, 1, flatten, SAME, none, view, view, none, VIEW, VRAM__VIEW_FLATTEN,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "start_dim end_dim");
VRAM__OP(unflatten, "", 1, 1, unflatten, SAME, none, view, view, none, VIEW, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "dim! sizes!");
VRAM__OP(transpose, "transpose swapaxes swapdims: x dim0 dim1", 1, 1, permute, SAME, none, permute,
         permute, none, PERMUTE, VRAM__VIEW_TRANSPOSE, VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE,
         "dim0! dim1!");
VRAM__OP(permute, "", 1, 1, permute, SAME, none, permute, permute, none, PERMUTE, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "dims!");
VRAM__OP(t, "", 1, 1, permute, SAME, none, permute, permute, none, PERMUTE, VRAM__VIEW_T,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "");
VRAM__OP(squeeze, "squeeze: x *dim", 1, 1, squeeze, SAME, none, squeeze, squeeze, none, VIEW, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "dim");
VRAM__OP(unsqueeze, "unsqueeze: x dim", 1, 1, unsqueeze, SAME, none, squeeze, squeeze, none, VIEW,
         VRAM__VIEW_UNSQUEEZE, VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE, "dim!");
VRAM__OP(expand, "expand expand_as: x *shape", 1, 1, expand, SAME, none, expand, expand, none,
         EXPAND, 0, VRAM__OP_ALIAS, "shape!");
VRAM__OP(slice, "", 1, 1, slice, SAME, none, slice, slice, none, SLICE, 0, 0,
         "dim! start end step colon");
VRAM__OP(narrow, "narrow: x dim start length", 1, 1, slice, SAME, none, slice, slice, none, SLICE,
         VRAM__VIEW_NARROW, 0, "dim! start! length!");
VRAM__OP(select, "select: x dim index", 1, 1, select, SAME, none, slice, slice, none, SLICE,
         VRAM__VIEW_SELECT, 0, "dim! index!");
VRAM__OP(
    split,
    "split split_with_sizes unsafe_split unsafe_split_with_sizes: x split_size_or_sections dim?", 1,
    1, split, SAME, none, split, split, none, SLICE, 0, 0, "split_size_or_sections! dim");
VRAM__OP(chunk, "chunk unsafe_chunk: x chunks dim?", 1, 1, split, SAME, none, split, split, none,
         SLICE, 0, 0, "chunks! dim");
VRAM__OP(unbind, "unbind: x dim?", 1, 1, unbind, SAME, none, split, split, none, SLICE,
         VRAM__VIEW_UNBIND, 0, "dim");
VRAM__OP(detach, "", 1, 1, same, SAME, none, detach, none, none, SAME, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE | VRAM__OP_ANY_LAYOUT, "");
