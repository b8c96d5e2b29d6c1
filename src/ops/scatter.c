/* >>ops/scatter    scatter_add, scatter_reduce, index_add, index_copy, index_fill, masked_scatter,
   put; copies with another value in one of their views: select_scatter and the like */
#include "ops/ops.h"

/* kind of a row: index_add, index_copy and index_fill, whose value is a number */
enum { VRAM__INDEX_ADD, VRAM__INDEX_COPY, VRAM__INDEX_FILL };
/* and which view of the copy has another value */
enum { VRAM__SCATTER_SELECT, VRAM__SCATTER_SLICE, VRAM__SCATTER_DIAGONAL };

/* The index and the source of scatter_add and scatter_reduce (ScatterGatherChecks.h). */
static int vram__shape_scatter_add(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *index = n->in[1]->d, *source = n->in[2]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->in[2]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "a source of another dtype");
  if (!index->numel)
    return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
  if (index->ndim != x->ndim || source->ndim != x->ndim)
    return vram__node_error(g, n, "an index or a source of another number of axes");
  for (i = 0; i < x->ndim; i++)
    if ((i != a && index->v[i] > x->v[i]) || index->v[i] > source->v[i])
      return vram__node_error(g, n, "an index that is larger than the tensor or the source");
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_scatter_reduce(vram_graph *g, vram_node *n) {
  const int64_t how = VRAM__INT(n, reduce, 0);
  if (how != VRAM__WORD(sum) && how != VRAM__WORD(prod) && how != VRAM__WORD(mean) &&
      how != VRAM__WORD(amax) && how != VRAM__WORD(amin))
    return vram__node_error(g, n, "reduce must be sum, prod, mean, amax or amin");
  return vram__shape_scatter_add(g, n);
}

/* One source row for each index (TensorAdvancedIndexing.cpp). */
static int vram__shape_index_add(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *index = n->in[1]->d;
  const int kind = vram__op_at(n->op)->kind;
  const vram_dims *source = n->in[n->nin - 1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype != VRAM_I64 && (kind != VRAM__INDEX_ADD || n->in[1]->dtype != VRAM_I32))
    return vram__node_error(g, n, "an index that is not i64");
  if (index->ndim > 1)
    return vram__node_error(g, n, "an index of more than one axis");
  if (kind == VRAM__INDEX_FILL)
    return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
  if (n->in[2]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "a source of another dtype");
  if ((source->ndim ? (uint64_t)source->v[a < source->ndim ? a : 0] : 1) != index->numel)
    return vram__node_error(g, n, "other indices than the source has rows");
  if (source->ndim != x->ndim && (source->ndim || kind == VRAM__INDEX_ADD) &&
      (x->ndim || source->ndim > 1))
    return vram__node_error(g, n, "a source of another number of axes");
  for (i = 0; i < source->ndim && i < x->ndim; i++)
    if (i != a && source->v[i] != x->v[i])
      return vram__node_error(g, n, "a source of other sizes");
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_masked_scatter(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *mask = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, ndim = 0;
  if (n->in[1]->dtype != VRAM_BOOL)
    return vram__node_error(g, n, "the mask is not bool");
  if (n->in[2]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "a source of another dtype");
  vram__dims_broadcast(&ndim, size, x);
  if (!vram__dims_broadcast(&ndim, size, mask))
    return vram__node_error(g, n, "a mask that does not broadcast");
  for (i = 0; (n->flags & VRAM__INPLACE) && i < ndim; i++)
    if (ndim != x->ndim || size[i] != x->v[i])
      return vram__node_error(g, n, "in place, but the result has another shape");
  return vram__node_out(g, n, 0, ndim, size, n->in[0]->dtype);
}

static int vram__shape_put(vram_graph *g, vram_node *n) {
  if (n->in[1]->dtype != VRAM_I64)
    return vram__node_error(g, n, "an index that is not i64");
  if (n->in[2]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "a source of another dtype");
  if (n->in[1]->d->numel != n->in[2]->d->numel)
    return vram__node_error(g, n, "other indices than the source has values");
  return vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* The axes and the first element of the view; 0: there is no such one. */
static int vram__scatter_view(vram_graph *g, const vram_node *n, const vram_dims *x,
                              int64_t *stride, int64_t *size) {
  const int kind = vram__op_at(n->op)->kind, diagonal = kind == VRAM__SCATTER_DIAGONAL;
  const int64_t offset = VRAM__INT(n, offset, 0);
  uint32_t a, b = 0, i, m = 0;
  if (!vram__axis(g, diagonal ? VRAM__INT(n, dim1, 0) : VRAM__INT(n, dim, 0), x->ndim, &a) ||
      (diagonal && !vram__axis(g, VRAM__INT(n, dim2, 1), x->ndim, &b)))
    return 0;
  for (i = 0; i < x->ndim; i++)
    if (!(i == a && kind != VRAM__SCATTER_SLICE) && !(i == b && diagonal)) {
      stride[m] = VRAM__STRIDE(x)[i] * (i == a ? VRAM__INT(n, step, 1) : 1);
      size[m++] = x->v[i];
    }
  if (diagonal && a != b) {
    const int64_t rows = x->v[a] + (offset < 0 ? offset : 0);
    const int64_t columns = x->v[b] - (offset > 0 ? offset : 0),
                  least = rows < columns ? rows : columns;
    stride[m] = VRAM__STRIDE(x)[a] + VRAM__STRIDE(x)[b];
    size[m] = least < 0 ? 0 : least;
  } else if (kind == VRAM__SCATTER_SLICE)
    size[a] = -1; /* what the source says */
  return 1;
}

static int vram__shape_scatter_view(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *source = n->in[1]->d;
  const int kind = vram__op_at(n->op)->kind;
  int64_t size[VRAM_MAX_AXES] = {0}, stride[VRAM_MAX_AXES];
  uint32_t i;
  if (VRAM__INT(n, step, 1) < 1)
    return vram__node_error(g, n, "step must be at least 1");
  if (!x->ndim || (kind == VRAM__SCATTER_DIAGONAL && x->ndim < 2))
    return vram__node_error(g, n, "a tensor of too few axes");
  if (!vram__scatter_view(g, n, x, stride, size))
    return 0;
  if (source->ndim + (kind != VRAM__SCATTER_SLICE) != x->ndim)
    return vram__node_error(g, n, "a source of another number of axes");
  for (i = 0; i < source->ndim; i++)
    if (size[i] < 0 ? source->v[i] > x->v[i] : source->v[i] != size[i])
      return vram__node_error(g, n, "a source of other sizes");
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* Tensors that live until the end of one backward. C++ destroys them from the last to the first. */
typedef struct vram__locals {
  vram__tensor t[12];
  uint32_t n;
} vram__locals;

static vram__tensor vram__local(vram__locals *l, vram__tensor t) {
  l->t[l->n++] = t;
  return t;
}

static void vram__locals_release(vram__step *s, vram__locals *l) {
  while (l->n)
    vram__tensor_release(s, l->t[--l->n]);
}

static vram__tensor vram__compared_number(vram__step *s, vram__tensor x) {
  return vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
}

static vram__tensor vram__compared(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram_dims *d[2];
  d[0] = a.d;
  d[1] = b.d;
  return vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), VRAM_BOOL);
}

/* ones_like, zeros_like */
static vram__tensor vram__tensor_like(vram__step *s, vram__tensor x) {
  return vram__tensor_empty(s, vram__dims_dense(s, x.d), x.dt);
}

static vram__tensor vram__gathered(vram__step *s, vram__tensor index, vram_dtype dt) {
  return vram__tensor_empty(s, vram__dims_contiguous(s, index.d), dt);
}

/* The output of a row that can be in place; under autocast its dtypes may differ there. */
static vram__tensor vram__scattered(vram__step *s, const vram_node *n, vram__tensor x,
                                    vram__tensor source) {
  if ((n->flags & VRAM__INPLACE) && n->nin > 2 && x.st == source.st && x.d == source.d)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "a tensor that is its own source: PyTorch stops with an error");
  if (x.dt != source.dt)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "autocast gave the tensor and its source different dtypes: PyTorch stops "
                      "with an error");
  if (n->flags & VRAM__INPLACE)
    return vram__tensor_retain(s, x);
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* scatter_add: of the source only the places are kept */
static void vram__forward_scatter_add(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  vram__tensor in[2];
  vram__grad_fn *f;
  uint32_t own = 0;
  in[0] = x[0];
  in[1] = x[2];
  if (!(n->flags & VRAM__INPLACE))
    own = vram__autocast_list(s, VRAM__AUTOCAST_widest, in, 2);
  f = vram__tape_record(s, n->op, in, 2, 1, 1);
  if (f && vram__input_wanted(f, 1))
    vram__save_tensor(s, f, x[1]);
  y[0] = vram__scattered(s, n, in[0], in[1]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__autocast_release(s, in, own);
}

/* The gradient of the source has the sizes of the index. */
static int vram__scatter_fits(vram__step *s, vram__grad_fn *f, const vram_dims *index,
                              const vram_dims *source) {
  uint32_t i;
  for (i = 0; i < index->ndim && i < source->ndim; i++)
    if (index->v[i] != source->v[i]) {
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                        "a source that is larger than the index: PyTorch gives its gradient a "
                        "wrong shape and stops with an error");
      return 0;
    }
  return 1;
}

static void vram__backward_scatter_add(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 1) &&
      !vram__scatter_fits(s, f, VRAM__SAVED(f)[0].d, vram__input_dims(s, f, 1, NULL)))
    return;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_retain(s, g);
  if (vram__input_wanted(f, 1))
    to[1] = vram__gathered(s, VRAM__SAVED(f)[0], g.dt);
}

/* aux of scatter_reduce */
enum { VRAM__SCATTER_SUM = 1, VRAM__SCATTER_MEAN, VRAM__SCATTER_PROD, VRAM__SCATTER_EXTREME };
#define VRAM__SCATTER_EXCLUDE 8u /* include_self=0 */

static uint32_t vram__scatter_how(const vram_node *n) {
  const int64_t how = VRAM__INT(n, reduce, 0);
  const uint32_t kind = how == VRAM__WORD(sum)    ? VRAM__SCATTER_SUM
                        : how == VRAM__WORD(mean) ? VRAM__SCATTER_MEAN
                        : how == VRAM__WORD(prod) ? VRAM__SCATTER_PROD
                                                  : VRAM__SCATTER_EXTREME;
  return VRAM__INT(n, include_self, 1) ? kind : kind | VRAM__SCATTER_EXCLUDE;
}

/* TensorAdvancedIndexing.cpp, scatter_reduce_two: the mean counts in tensors of ones */
static void vram__forward_scatter_reduce(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  const uint32_t how = vram__scatter_how(n);
  const int inplace = (n->flags & VRAM__INPLACE) != 0;
  vram__tensor in[2], old;
  vram__grad_fn *f;
  in[0] = x[0];
  in[1] = x[2];
  f = vram__tape_record(s, n->op, in, 2, 1, 4);
  old = f && inplace ? vram__tensor_like(s, x[0]) : vram__tensor_retain(s, x[0]);
  y[0] = vram__scattered(s, n, x[0], x[2]);
  if (f) {
    f->aux = how;
    vram__save_tensor(s, f, x[1]);
    vram__save_tensor(s, f, old);
    vram__save_tensor(s, f, x[2]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__tensor_release(s, old);
  if ((how & 7) == VRAM__SCATTER_MEAN && x[1].d->numel) {
    vram__locals l;
    vram__tensor count;
    l.n = 0;
    vram__local(&l, vram__tensor_like(s, x[2]));
    count = vram__local(&l, vram__tensor_like(s, y[0]));
    vram__tensor_release(s, vram__compared_number(s, count));
    vram__locals_release(s, &l);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* FunctionsManual.cpp, scatter_reduce_backward. What zeros in the source would need besides depends
   on the data: there are none. */
static void vram__scatter_reduce_prod(vram__step *s, const vram__tensor *saved, vram__tensor g,
                                      vram__tensor *of, vram__locals *l) {
  const vram__tensor x = saved[1], index = saved[0], source = saved[2];
  vram__tensor t, masked, result, zero, single, a, b, c, d;
  t = vram__compared_number(s, x);
  masked = vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt));
  vram__tensor_release(s, t);
  result = vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt));
  t = vram__pointwise_empty2(s, g, result);
  of[0] = vram__pointwise_empty2(s, t, masked);
  vram__tensor_release(s, t);
  zero = vram__local(l, vram__compared_number(s, source));
  a = vram__tensor_like(s, x);
  b = vram__tensor_to(s, zero, x.dt);
  c = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  d = vram__local(l, vram__gathered(s, index, x.dt));
  vram__tensor_release(s, c);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  t = vram__compared_number(s, d);
  single = vram__local(l, vram__compared(s, zero, t));
  vram__tensor_release(s, t);
  vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, source.d), source.dt));
  result = vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt));
  a = vram__tensor_empty(s, vram__dims_contiguous(s, source.d), source.dt);
  b = vram__pointwise_empty2(s, g, saved[3]);
  c = vram__gathered(s, index, g.dt);
  d = vram__pointwise_empty2(s, c, a);
  t = vram__pointwise_empty2(s, g, result);
  result = vram__gathered(s, index, g.dt);
  of[1] = vram__pointwise_empty2(s, single, d);
  vram__tensor_release(s, result);
  vram__tensor_release(s, t);
  vram__tensor_release(s, d);
  vram__tensor_release(s, c);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
}

static void vram__scatter_reduce_mean(vram__step *s, const vram__tensor *saved, vram__tensor g,
                                      vram__tensor *of, vram__locals *l) {
  const vram__tensor index = saved[0];
  const vram__tensor like = vram__tensor_like(s, g), ones = vram__tensor_like(s, saved[2]);
  vram__tensor n, t;
  n = vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt));
  vram__tensor_release(s, like);
  vram__tensor_release(s, ones);
  vram__tensor_release(s, vram__compared_number(s, n));
  of[0] = vram__pointwise_empty2(s, g, n);
  n = vram__local(l, vram__gathered(s, index, g.dt));
  t = vram__gathered(s, index, g.dt);
  of[1] = vram__pointwise_empty2(s, t, n);
  vram__tensor_release(s, t);
}

static void vram__scatter_reduce_extreme(vram__step *s, const vram__tensor *saved, vram__tensor g,
                                         vram__tensor *of, vram__locals *l) {
  const vram__tensor x = saved[1], index = saved[0], source = saved[2];
  vram__tensor value, is, source_is, share, none, t;
  value = vram__local(l, vram__gathered(s, index, saved[3].dt));
  t = vram__compared(s, x, saved[3]);
  is = vram__local(l, vram__tensor_to(s, t, x.dt));
  vram__tensor_release(s, t);
  t = vram__compared(s, source, value);
  source_is = vram__local(l, vram__tensor_to(s, t, source.dt));
  vram__tensor_release(s, t);
  t = vram__local(l, vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt));
  share = vram__local(l, vram__pointwise_empty2(s, g, t));
  none = vram__compared_number(s, is);
  of[0] = vram__tensor_empty(s, vram__dims_contiguous(s, share.d), share.dt);
  vram__tensor_release(s, none);
  t = vram__gathered(s, index, g.dt);
  none = vram__compared_number(s, source_is);
  of[1] = vram__tensor_empty(s, vram__dims_contiguous(s, t.d), t.dt);
  vram__tensor_release(s, none);
  vram__tensor_release(s, t);
}

static void vram__backward_scatter_reduce(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *saved = VRAM__SAVED(f);
  vram__tensor of[2];
  vram__locals l;
  uint32_t i;
  l.n = 0;
  if ((vram__input_wanted(f, 1) || (f->aux & 7) >= VRAM__SCATTER_PROD) &&
      !vram__scatter_fits(s, f, saved[0].d, saved[2].d))
    return;
  switch (f->aux & 7) {
  case VRAM__SCATTER_SUM:
    of[0] = vram__tensor_retain(s, g);
    of[1] = vram__gathered(s, saved[0], g.dt);
    break;
  case VRAM__SCATTER_MEAN:
    vram__scatter_reduce_mean(s, saved, g, of, &l);
    break;
  case VRAM__SCATTER_PROD:
    vram__scatter_reduce_prod(s, saved, g, of, &l);
    break;
  default:
    vram__scatter_reduce_extreme(s, saved, g, of, &l);
  }
  vram__locals_release(s, &l);
  if (f->aux & VRAM__SCATTER_EXCLUDE)
    vram__tensor_replace(s, &of[0], vram__tensor_empty(s, vram__dims_contiguous(s, of[0].d), g.dt));
  for (i = 0; i < 2; i++)
    if (vram__input_wanted(f, i))
      to[i] = of[i];
    else
      vram__tensor_release(s, of[i]);
}

/* index_add, index_copy and index_fill: the index is kept, the source for its sizes */
static void vram__forward_index_add_op(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  const int kind = vram__op_at(n->op)->kind;
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = x[0];
  if (n->nin > 2)
    in[1] = x[2];
  f = vram__tape_record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 2);
  if (f && (kind != VRAM__INDEX_ADD || vram__input_wanted(f, 1)))
    vram__save_tensor(s, f, x[1]);
  if (f && n->nin > 2 && vram__input_wanted(f, 1))
    vram__save_tensor(s, f, x[2]);
  if (f)
    f->aux = kind == VRAM__INDEX_ADD && VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE;
  y[0] = vram__scattered(s, n, x[0], x[n->nin > 2 ? 2 : 0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* grad.index_select of the source's rows */
static void vram__backward_index_add_op(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int kind = vram__op_at(f->kind)->kind;
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__tensor rows;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a = 0;
  if (vram__input_wanted(f, 0))
    to[0] = kind == VRAM__INDEX_ADD ? vram__tensor_retain(s, g)
                                    : vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  if (f->nin < 2 || !vram__input_wanted(f, 1))
    return;
  vram__axis((vram_graph *)0, VRAM__INT(f->node, dim, 0), g.d->ndim, &a);
  for (i = 0; i < g.d->ndim; i++)
    size[i] = i == a ? (int64_t)VRAM__SAVED(f)[0].d->numel : g.d->v[i];
  rows = vram__tensor_empty(s, vram__dims_in(s, g.d->ndim, size, NULL), g.dt);
  if (rows.st) /* expand_as of the rows */
    vram__slot_at(s, rows.st)->shown = 1;
  to[1] = vram__tensor_scaled(s, rows, f->aux != 0);
}

/* IndexKernel.cu, masked_scatter: the places before each one in the mask are counted */
static void vram__forward_masked_scatter(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  vram__tensor in[2], mask = vram__tensor_none(), count, source;
  vram__grad_fn *f;
  const vram_dims *d;
  in[0] = x[0];
  in[1] = x[2];
  f = vram__tape_record(s, n->op, in, 2, 1, 2);
  if (f)
    vram__save_tensor(s, f, x[1]);
  if (n->flags & VRAM__INPLACE)
    y[0] = vram__tensor_retain(s, x[0]);
  else
    y[0] =
        vram__tensor_empty(s, vram__dims_in(s, n->out[0].d->ndim, n->out[0].d->v, NULL), x[0].dt);
  d = vram__dims_contiguous(s, y[0].d);
  if (x[0].dt != x[2].dt)
    vram__scattered(s, n, x[0], x[2]);
  if (d->numel) {
    count = vram__tensor_empty(s, d, VRAM_I64);
    if (x[1].d->numel != d->numel || !(x[1].d->flags & VRAM__CONTIG))
      mask = vram__tensor_empty(s, d, VRAM_BOOL);
    vram__workspace_use(s, vram__cub_scan(s, d->numel, VRAM_I64));
    source = vram__tensor_contiguous(s, x[2]);
    vram__tensor_release(s, source);
    vram__tensor_release(s, mask);
    vram__tensor_release(s, count);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* masked_scatter_backward: the mask selects as many as the source has, or all that there are; what
   is missing then is filled up with zeros. A mask that selects fewer needs both, too. */
static void vram__backward_masked_scatter(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, mask = VRAM__SAVED(f)[0];
  const vram_dims *d;
  vram__tensor copy = vram__tensor_none(), selected, zeros;
  uint32_t places;
  int64_t count;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  if (!vram__input_wanted(f, 1))
    return;
  d = vram__dims_contiguous(s, vram__input_dims(s, f, 1, NULL));
  count = (int64_t)(d->numel < g.d->numel ? d->numel : g.d->numel);
  if (mask.d->numel != g.d->numel || !(mask.d->flags & VRAM__CONTIG))
    copy = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), VRAM_BOOL);
  places = vram__cub_nonzero_some(s, g.d->numel, (uint64_t)count, g.d->ndim ? g.d->ndim : 1);
  selected = vram__tensor_empty(s, vram__dims_in(s, 1, &count, NULL), g.dt);
  vram__cub_release(s, places);
  vram__tensor_release(s, copy);
  vram__upper_may_need(s, 2 * d->numel);
  if (d->numel == (uint64_t)count) { /* a view of it */
    to[1] = selected;
    to[1].d = d;
    return;
  }
  count = (int64_t)d->numel - count;
  zeros = vram__tensor_empty(s, vram__dims_in(s, 1, &count, NULL), g.dt);
  to[1] = vram__tensor_empty(s, d, g.dt);
  vram__tensor_release(s, zeros);
  vram__tensor_release(s, selected);
}

/* put: a copy, which is then written to */
static void vram__forward_put(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = x[0];
  in[1] = x[2];
  f = vram__tape_record(s, n->op, in, 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, x[1]);
    vram__save_tensor(s, f, x[2]);
  }
  y[0] = vram__tensor_like(s, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* self: grad with zeros put where the source is, grad itself if values were added; the source: what
   grad has there */
static void vram__backward_put(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, index = VRAM__SAVED(f)[0], source = VRAM__SAVED(f)[1];
  if (vram__input_wanted(f, 0) && VRAM__INT(f->node, accumulate, 0))
    to[0] = vram__tensor_retain(s, g);
  else if (vram__input_wanted(f, 0)) {
    const vram__tensor zeros = vram__tensor_like(s, source);
    to[0] = vram__tensor_like(s, g);
    vram__tensor_release(s, zeros);
  }
  if (vram__input_wanted(f, 1)) {
    const vram__tensor taken = vram__gathered(s, index, g.dt);
    to[1] = vram__tensor_reshape(s, taken, source.d->ndim, source.d->v);
    vram__tensor_release(s, taken);
  }
}

static void vram__forward_scatter_view(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 0);
  y[0] = vram__tensor_like(s, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* A copy of grad with zeros in that view; the view of grad */
static void vram__backward_scatter_view(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram_dtype dt;
  const vram_dims *source = vram__input_dims(s, f, 1, &dt);
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  if (vram__input_wanted(f, 0)) {
    const vram__tensor zeros = vram__tensor_empty(s, vram__dims_dense(s, source), dt);
    to[0] = vram__tensor_like(s, g);
    vram__tensor_release(s, zeros);
  }
  if (vram__input_wanted(f, 1)) {
    vram__scatter_view((vram_graph *)0, f->node, g.d, stride, size);
    to[1] = vram__tensor_view(s, g, vram__dims_in(s, source->ndim, source->v, stride));
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(scatter_add, "scatter_add: x dim index src", 3, 3, scatter_add, SAME, none, scatter_add,
         scatter_add, each, NONE, 0, 0, "dim! inplace");
VRAM__OP(scatter_reduce, "scatter_reduce: x dim index src reduce include_self", 3, 3,
         scatter_reduce, SAME, none, scatter_reduce, scatter_reduce, each, NONE, 0, VRAM__OP_REAL,
         "dim! reduce! include_self inplace");
VRAM__OP(index_add, "index_add: x dim index source alpha", 3, 3, index_add, SAME, none,
         index_add_op, index_add_op, each, NONE, VRAM__INDEX_ADD, 0, "dim! alpha inplace");
VRAM__OP(index_copy, "index_copy: x dim index source", 3, 3, index_add, SAME, none, index_add_op,
         index_add_op, each, NONE, VRAM__INDEX_COPY, 0, "dim! inplace");
VRAM__OP(index_fill, "", 2, 2, index_add, SAME, none, index_add_op, index_add_op, each, NONE,
         VRAM__INDEX_FILL, 0, "dim! inplace");
VRAM__OP(masked_scatter, "masked_scatter: x mask source", 3, 3, masked_scatter, SAME, none,
         masked_scatter, masked_scatter, each, NONE, 0, 0, "inplace");
VRAM__OP(put, "put: x index source accumulate?", 3, 3, put, SAME, none, put, put, each, NONE, 0, 0,
         "accumulate");
VRAM__OP(select_scatter, "select_scatter: x src dim index", 2, 2, scatter_view, SAME, none,
         scatter_view, scatter_view, each, NONE, VRAM__SCATTER_SELECT, 0, "dim! index");
VRAM__OP(slice_scatter, "", 2, 2, scatter_view, SAME, none, scatter_view, scatter_view, each, NONE,
         VRAM__SCATTER_SLICE, 0, "dim step");
VRAM__OP(diagonal_scatter, "diagonal_scatter: x src offset? dim1 dim2", 2, 2, scatter_view, SAME,
         none, scatter_view, scatter_view, each, NONE, VRAM__SCATTER_DIAGONAL, 0,
         "offset dim1 dim2");
