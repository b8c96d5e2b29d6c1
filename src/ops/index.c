/* >>ops/index    gather, scatter, indexing, masks, one_hot */
#include "ops/ops.h"

enum { VRAM__INDEX_GATHER = 1 }; /* kind of a row: backward gets the tensor itself */

/* Is input i of the node a list of integers? Else an error. */
VRAM__FN int vram__index_dtype(vram_graph *g, const vram_node *n, uint32_t i) {
  vram_dtype dt = n->in[i]->dtype;
  if (dt == VRAM_I64 || dt == VRAM_I32)
    return 1;
  return vram__node_error(g, n, "an index that is not i64 or i32");
}

static int vram__shape_gather(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
    return vram__node_error(g, n, "an index that is not i64 or i32");
  if (d->ndim != x->ndim)
    return vram__node_error(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__node_error(g, n, "an index that is larger than the tensor");
  return vram__node_out_dims(n, 0, d, n->in[0]->dtype);
}

static int vram__shape_scatter(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->nin > 2 && VRAM__INT(n, scalar, 0))
    return vram__node_error(g, n, "a source beside a number");
  if (d->ndim != x->ndim)
    return vram__node_error(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__node_error(g, n, "an index that is larger than the tensor");
  if (n->nin > 2) {
    if (n->in[2]->dtype != n->in[0]->dtype || n->in[2]->d->ndim != d->ndim)
      return vram__node_error(g, n, "a source of another dtype or number of axes");
    for (i = 0; i < d->ndim; i++)
      if (n->in[2]->d->v[i] < d->v[i])
        return vram__node_error(g, n, "an index that is larger than the source");
  }
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_index_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->in[1]->d->ndim > 1)
    return vram__node_error(g, n, "an index of more than one axis");
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? (int64_t)n->in[1]->d->numel : x->v[i];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* The sizes of x[.., i, j, ..]: `count` index tensors from input 1 on stand for the axes from `dim`
   on; a mask of several axes stands for as many. A mask counts as all its elements: what it selects
   depends on the data, this is the upper bound. */
static int vram__index_sizes(vram_graph *g, const vram_node *n, uint32_t count, uint32_t *ndim,
                             int64_t *size) {
  const vram_dims *x = n->in[0]->d;
  int64_t idx[VRAM_MAX_AXES];
  uint32_t i, a = 0, m = 0, k = 0, used = count;
  const vram_dims *d = n->in[1]->d;
  if (!x->ndim)
    return vram__node_error(g, n, "an index into a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype == VRAM_BOOL || n->in[1]->dtype == VRAM_U8) {
    if (count != 1)
      return vram__node_error(g, n, "a mask beside another index");
    used = d->ndim;
    for (i = 0; i < d->ndim; i++)
      if (a + i >= x->ndim || d->v[i] != x->v[a + i])
        return vram__node_error(g, n, "a mask of another shape");
    idx[m++] = (int64_t)d->numel;
  } else
    for (i = 1; i <= count; i++) {
      if (!vram__index_dtype(g, n, i))
        return 0;
      if (!vram__dims_broadcast(&m, idx, n->in[i]->d))
        return vram__node_error(g, n, "index tensors that do not broadcast");
    }
  if (a + used > x->ndim)
    return vram__node_error(g, n, "more index tensors than axes");
  for (i = 0; i < m && idx[i];)
    i++;
  for (k = 0; i == m && k < used; k++)
    if (!x->v[a + k] && n->in[1]->dtype != VRAM_BOOL && n->in[1]->dtype != VRAM_U8)
      return vram__node_error(g, n, "an index into an axis of size 0");
  k = 0;
  if (x->ndim - used + m > VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[k++] = x->v[i];
  for (i = 0; i < m; i++)
    size[k++] = idx[i];
  for (i = a + used; i < x->ndim; i++)
    size[k++] = x->v[i];
  *ndim = k;
  return 1;
}

static int vram__shape_index(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t k;
  if (!vram__index_sizes(g, n, n->nin - 1u, &k, size))
    return 0;
  g->extra += (uint64_t)n->nin * 256;
  return vram__node_out(g, n, 0, k, size, n->in[0]->dtype);
}

static int vram__shape_index_put(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES], whole[VRAM_MAX_AXES];
  uint32_t k, m, i;
  int fits;
  if (!vram__index_sizes(g, n, n->nin - 2, &k, size))
    return 0;
  m = k;
  for (i = 0; i < k; i++)
    whole[i] = size[i];
  fits = vram__dims_broadcast(&k, size, n->in[n->nin - 1]->d) && k == m;
  for (i = 0; fits && i < k; i++)
    fits = size[i] == whole[i];
  if (!fits)
    return vram__node_error(g, n, "values that do not broadcast to what is written");
  if (n->in[n->nin - 1]->dtype != n->in[0]->dtype)
    return vram__node_error(g, n, "values of another dtype");
  g->extra += (uint64_t)n->nin * 512;
  return vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* What a mask selects depends on the data: `count`, or all elements, the upper bound. */
static int vram__shape_masked_select(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES], z = 1;
  uint32_t k, i;
  if (n->in[1]->dtype != VRAM_BOOL)
    return vram__node_error(g, n, "a mask that is not bool");
  if (!vram__dims_broadcast_all(g, n, 0, &k, size))
    return 0;
  for (i = 0; i < k; i++)
    if ((uint64_t)(z = (int64_t)vram__product_or_overflow((uint64_t)z, (uint64_t)size[i])) ==
        VRAM_OVERFLOW)
      return vram__node_error(g, n, "a size out of range");
  if (VRAM__INT(n, count, z) < 0)
    return vram__node_error(g, n, "a count below 0");
  if (VRAM__INT(n, count, z) < z)
    z = VRAM__INT(n, count, z);
  return vram__node_out(g, n, 0, 1, &z, n->in[0]->dtype);
}

static int vram__shape_one_hot(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES + 1];
  uint32_t i;
  if (n->in[0]->dtype != VRAM_I64)
    return vram__node_error(g, n, "one_hot of another dtype than i64");
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[i] = VRAM__INT(n, num_classes, 0);
  if (size[i] < 1)
    return vram__node_error(g, n, "num_classes must be at least 1");
  return vram__node_out(g, n, 0, x->ndim + 1u, size, VRAM_I64);
}

static int vram__shape_take(vram_graph *g, vram_node *n) {
  if (!n->in[0]->d->numel && n->in[1]->d->numel)
    return vram__node_error(g, n, "an element of an empty tensor");
  return vram__index_dtype(g, n, 1) && vram__node_out_dims(n, 0, n->in[1]->d, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* gather, take and index_select, which keeps no input: backward adds into zeros */
static void vram__forward_gather(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  const int gather = vram__op_at(n->op)->kind == VRAM__INDEX_GATHER || n->op == VRAM_OP_take;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  if (f)
    vram__save_tensor(s, f, x[1]);
  if (f && gather)
    vram__save_tensor(s, f, x[0]);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_gather(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)),
                             VRAM__SLOTS(f)[0].g.dt);
}

static void vram__forward_scatter(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = x[0];
  in[1] = n->nin > 2 ? x[2] : vram__tensor_none();
  if ((n->flags & VRAM__INPLACE) && n->nin > 2 && x[0].st == x[2].st && x[0].d == x[2].d)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "a tensor that is its own source: PyTorch stops with an error");
  vram__refuse_unlike(s, in, n->nin > 2 ? 2 : 1);
  f = vram__tape_record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x[1]);
  if (n->flags & VRAM__INPLACE)
    y[0] = vram__tensor_retain(s, x[0]);
  else
    y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* g with what was written set to zero, and what of g was written */
static void vram__backward_scatter(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *index = VRAM__SAVED(f)[0].d;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  if (f->nin > 1 && vram__input_wanted(f, 1)) {
    const vram_dims *source = vram__input_dims(s, f, 1, NULL);
    uint32_t i;
    for (i = 0; i < index->ndim; i++)
      if (index->v[i] != source->v[i]) {
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                          "scatter of a source that is larger than the index: PyTorch gives its "
                          "gradient a wrong shape and stops with an error");
        return;
      }
    to[1] = vram__tensor_empty(s, vram__dims_contiguous(s, index), g.dt);
  }
}

/* Index tensors of x[.., i, j, ..]: i64 and broadcast to dims d. The tensors that the op makes of
   them go in vram__index_gone. */
typedef struct vram__index {
  vram__tensor t[VRAM_MAX_AXES];
  uint32_t n, own; /* bits: t[i] is a tensor of the op's own */
  uint32_t mask;   /* storage of the positions that a mask selects */
  const vram_dims *d;
} vram__index;

static void vram__index_begin(vram__step *s, const vram__tensor *idx, uint32_t count,
                              vram__index *x, int late) {
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, k = 0;
  x->n = count;
  x->own = x->mask = 0;
  if (idx[0].dt == VRAM_BOOL || idx[0].dt == VRAM_U8) {
    int64_t all = (int64_t)idx[0].d->numel;
    vram__tensor c = vram__tensor_contiguous(s, idx[0]);
    x->n = idx[0].d->ndim;
    x->d = vram__dims_in(s, 1, &all, NULL);
    x->mask = vram__cub_nonzero(s, idx[0].d->numel, x->n);
    vram__tensor_release(s, c);
    for (i = 0; i < x->n; i++) {
      x->t[i] = vram__tensor_none();
      x->t[i].d = x->d;
      x->t[i].dt = VRAM_I64;
    }
    return;
  }
  for (i = 0; i < count; i++)
    vram__dims_broadcast(&k, size, idx[i].d);
  x->d = vram__dims_in(s, k, size, NULL);
  for (i = 0; i < count; i++) {
    x->t[i] = idx[i];
    if (!late && idx[i].dt != VRAM_I64) {
      x->t[i] = vram__tensor_to(s, idx[i], VRAM_I64);
      x->own |= 1u << i;
    }
    if (x->t[i].d->ndim != k || x->t[i].d->numel != x->d->numel)
      x->t[i].d = vram__dims_expanded(s, x->t[i].d, k, size);
  }
  for (i = 0; late && i < count; i++)
    if (idx[i].dt != VRAM_I64) {
      x->t[i] = vram__tensor_to(s, x->t[i], VRAM_I64);
      x->own |= 1u << i;
    }
}

static void vram__index_gone(vram__step *s, vram__index *x, int last_first) {
  uint32_t i, k;
  for (k = 0; k < x->n; k++) {
    i = last_first ? x->n - 1 - k : k;
    if (x->own >> i & 1)
      vram__tensor_release(s, x->t[i]);
  }
  vram__cub_release(s, x->mask);
}

/* The kernel wants all index tensors in the same strides (TensorAdvancedIndexing.cpp,
   AdvancedIndex). */
static void vram__index_align(vram__step *s, vram__index *x) {
  uint32_t i, a;
  int same = 1;
  for (i = 1; i < x->n; i++)
    for (a = 0; a < x->d->ndim; a++)
      if (VRAM__STRIDE(x->t[i].d)[a] != VRAM__STRIDE(x->t[0].d)[a])
        same = 0;
  for (i = 0; !same && !s->ideal && i < x->n; i++)
    if (!(x->t[i].d->flags & VRAM__CONTIG)) {
      x->t[i] = vram__tensor_empty(s, x->d, VRAM_I64);
      x->own |= 1u << i;
    }
}

/* x[.., idx, ..] with the first index tensor at axis `dim` */
VRAM__FN vram__tensor vram__indexed(vram__step *s, vram__tensor x, const vram__tensor *idx,
                                    uint32_t count, uint32_t dim) {
  vram__index ix;
  int64_t size[VRAM_MAX_AXES], st[2][VRAM_MAX_AXES];
  const vram_dims *op[2], *d;
  uint32_t i, a, m = 0;
  vram__tensor y;
  vram__index_begin(s, idx, count, &ix, 1);
  vram__index_align(s, &ix);
  for (a = 0; a < x.d->ndim; a++) {
    if (a == dim)
      for (i = 0; i < ix.d->ndim; i++) {
        size[m] = ix.d->v[i];
        st[0][m] = 0;
        st[1][m++] = VRAM__STRIDE(ix.t[0].d)[i];
      }
    if (a < dim || a >= dim + ix.n) {
      size[m] = x.d->v[a];
      st[0][m] = VRAM__STRIDE(x.d)[a];
      st[1][m++] = 0;
    }
  }
  if ((x.d->flags & VRAM__CONTIG) && (ix.t[0].d->flags & VRAM__CONTIG))
    d = vram__dims_in(s, m, size, NULL);
  else {
    op[0] = vram__dims_in(s, m, size, st[0]);
    op[1] = vram__dims_in(s, m, size, st[1]);
    d = vram__dims_pointwise(s, op, 2);
  }
  y = vram__tensor_empty(s, d, x.dt);
  vram__index_gone(s, &ix, 1);
  return y;
}

/* The largest and the smallest index come to the host. */
static void vram__index_check_range(vram__step *s, vram__tensor index) {
  const uint32_t all = (1u << index.d->ndim) - 1;
  const vram__tensor largest = vram__tensor_empty(s, s->scalar, VRAM_I64);
  vram__tensor smallest;
  vram__reduce_scratch(s, index, all, VRAM_I64, 8, 4);
  smallest = vram__tensor_empty(s, s->scalar, VRAM_I64);
  vram__tensor_release(s, vram__tensor_contiguous(s, index));
  vram__reduce_scratch(s, index, all, VRAM_I64, 8, 4);
  vram__workspace_use(s, 1);
  vram__workspace_use(s, 1);
  vram__tensor_release(s, largest);
  vram__tensor_release(s, smallest);
}

/* Linear indices of all index tensors together (computeLinearIndex). */
static vram__tensor vram__index_linear(vram__step *s, const vram__index *ix, int check) {
  vram__tensor linear = vram__tensor_none(), wrapped, scaled;
  uint32_t i;
  for (i = 0; i < ix->n; i++) {
    if (check)
      vram__index_check_range(s, ix->t[i]);
    wrapped = vram__pointwise_empty1(s, ix->t[i]);
    scaled = vram__pointwise_empty1(s, wrapped);
    vram__tensor_release(s, wrapped);
    if (i)
      vram__tensor_release(s, scaled);
    else
      linear = scaled;
  }
  return linear;
}

/* Index tensors for the axes of a tensor from `dim` on. */
typedef struct vram__places {
  const vram__tensor *index;
  uint32_t count, dim;
  int check; /* that they are in range */
} vram__places;

/* Indexing.cu, index_put_with_sort_kernel: adds `value` into a tensor of the sizes of self
   (contiguous) at these places: linear indices, sorted. */
static void vram__index_add(vram__step *s, const vram_dims *self, vram__tensor value,
                            const vram__places *at) {
  vram__index ix;
  vram__tensor linear, t[3], copy = vram__tensor_none();
  uint32_t i, bits = 1;
  uint64_t slice = 1, key, n;
  if (s->ideal)
    return;
  vram__index_begin(s, at->index, at->count, &ix, 0);
  n = ix.d->numel;
  for (i = at->dim + ix.n; i < self->ndim; i++)
    slice *= (uint64_t)self->v[i];
  linear = vram__index_linear(s, &ix, at->check);
  vram__index_gone(s, &ix, 0);
  if (!(value.d->flags & VRAM__CONTIG))
    copy = vram__tensor_contiguous(s, value);
  if (n && slice) {
    if (!(linear.d->flags & VRAM__CONTIG))
      vram__tensor_replace(s, &linear, vram__tensor_contiguous(s, linear));
    key = self->numel ? (self->numel - 1) / slice : 0;
    while (key >> bits)
      bits++;
    for (i = 0; i < 3; i++)
      t[i] = vram__tensor_empty(s, ix.d, VRAM_I64);
    vram__workspace_use(s, vram__cub_sort(s, n, 8, 8, bits));
    for (i = 3; i-- > 0;)
      vram__tensor_release(s, t[i]);
  }
  vram__tensor_release(s, copy);
  vram__tensor_release(s, linear);
}

static uint32_t vram__index_dim(const vram_node *n) {
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a);
  return a;
}

static void vram__forward_index(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, n->nin - 1u);
  uint32_t i;
  for (i = 1; f && i < n->nin; i++)
    vram__save_tensor(s, f, x[i]);
  y[0] = vram__indexed(s, x[0], x + 1, n->nin - 1u, vram__index_dim(n));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_index(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__places at;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)), g.dt);
  at.index = VRAM__SAVED(f);
  at.count = f->nsaved;
  at.dim = vram__index_dim(f->node);
  at.check = 0;
  vram__index_add(s, to[0].d, g, &at);
}

static void vram__forward_index_put(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  vram__tensor in[2], v, c;
  vram__grad_fn *f;
  uint32_t i, count = n->nin - 2, own = 0;
  in[0] = x[0];
  in[1] = x[n->nin - 1];
  if (!(n->flags & VRAM__INPLACE))
    own = vram__autocast_list(s, VRAM__AUTOCAST_widest, in, 2);
  vram__refuse_unlike(s, in, 2);
  f = vram__tape_record(s, n->op, in, 2, 1, count);
  for (i = 0; f && i < count; i++)
    vram__save_tensor(s, f, x[1 + i]);
  if (n->flags & VRAM__INPLACE)
    y[0] = vram__tensor_retain(s, x[0]);
  else
    y[0] = vram__tensor_empty(s, vram__dims_dense(s, in[0].d), in[0].dt);
  if (VRAM__INT(n, accumulate, 0)) {
    int64_t size[VRAM_MAX_AXES] = {0}, stride[VRAM_MAX_AXES];
    vram__places at;
    uint32_t k = 0, lead;
    v = in[1];
    vram__index_sizes((vram_graph *)0, n, count, &k, size);
    lead = k - v.d->ndim;
    for (i = 0; i < k; i++)
      stride[i] =
          i < lead || (v.d->v[i - lead] == 1 && size[i] != 1) ? 0 : VRAM__STRIDE(v.d)[i - lead];
    v.d = vram__dims_in(s, k, size, stride);
    c = vram__tensor_contiguous(s, y[0]);
    at.index = x + 1;
    at.count = count;
    at.dim = vram__index_dim(n);
    at.check = 1;
    vram__index_add(s, x[0].d, v, &at);
    vram__tensor_release(s, c);
  } else { /* the indices as the kernel wants them; the values broadcast in it */
    vram__index ix;
    vram__index_begin(s, x + 1, count, &ix, 1);
    vram__index_align(s, &ix);
    vram__index_gone(s, &ix, 0);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__autocast_release(s, in, own);
}

/* What was overwritten gets no gradient; the values get g at their places. */
static void vram__backward_index_put(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, zero;
  const vram_node *n = f->node;
  vram__index ix;
  if (vram__input_wanted(f, 0) && VRAM__INT(n, accumulate, 0))
    to[0] = vram__tensor_retain(s, g);
  else if (vram__input_wanted(f, 0)) {
    zero = vram__tensor_empty(s, n->in[n->nin - 1]->d, g.dt);
    to[0] = vram__tensor_empty(s, vram__dims_dense(s, g.d), g.dt);
    vram__index_begin(s, VRAM__SAVED(f), f->nsaved, &ix, 1);
    vram__index_align(s, &ix);
    vram__index_gone(s, &ix, 0);
    vram__tensor_release(s, zero);
  }
  if (vram__input_wanted(f, 1))
    to[1] = vram__indexed(s, g, VRAM__SAVED(f), f->nsaved, vram__index_dim(n));
}

/* masked_select is nonzero and index. */
/* d: of as many elements as x and the mask have when they are broadcast; out: what is selected */
VRAM__FN vram__tensor vram__torch_masked_select(vram__step *s, vram__tensor x, vram__tensor mask,
                                                const vram_dims *d, const vram_dims *out) {
  vram__tensor copy = vram__tensor_none(), y;
  uint32_t nz, k = x.d->ndim > mask.d->ndim ? x.d->ndim : mask.d->ndim;
  if (mask.d->numel != d->numel || !(mask.d->flags & VRAM__CONTIG))
    copy = vram__tensor_empty(s, d, VRAM_BOOL);
  nz = vram__cub_nonzero_some(s, d->numel, out->numel, k ? k : 1);
  y = vram__tensor_empty(s, out, x.dt);
  vram__cub_release(s, nz);
  vram__tensor_release(s, copy);
  return y;
}

static void vram__forward_masked_select(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t k = 0;
  if (f) {
    vram__save_tensor(s, f, x[1]);
    vram__save_tensor(s, f, x[0]);
  }
  vram__dims_broadcast(&k, size, x[0].d);
  vram__dims_broadcast(&k, size, x[1].d);
  y[0] = vram__torch_masked_select(s, x[0], x[1], vram__dims_in(s, k, size, NULL), n->out[0].d);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* masked_scatter into zeros */
static void vram__backward_masked_select(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[1], m = VRAM__SAVED(f)[0], sum, copy, c;
  int64_t size[VRAM_MAX_AXES];
  uint32_t k = 0;
  const vram_dims *d;
  copy = c = vram__tensor_none();
  vram__dims_broadcast(&k, size, x.d);
  vram__dims_broadcast(&k, size, m.d);
  d = vram__dims_in(s, k, size, NULL);
  to[0] = vram__tensor_empty(s, d, g.dt);
  sum = vram__tensor_empty(s, d, VRAM_I64);
  if (m.d->numel != d->numel || !(m.d->flags & VRAM__CONTIG))
    copy = vram__tensor_empty(s, d, VRAM_BOOL);
  vram__workspace_use(s, vram__cub_scan(s, d->numel, VRAM_I64));
  if (!(g.d->flags & VRAM__CONTIG))
    c = vram__tensor_contiguous(s, g);
  vram__tensor_release(s, c);
  vram__tensor_release(s, copy);
  vram__tensor_release(s, sum);
}

static void vram__forward_one_hot(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  (void)x;
  y[0] = vram__tensor_empty(s, n->out[0].d, VRAM_I64);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(gather, "gather: x dim index", 2, 2, gather, SAME, none, gather, gather, each, ANY,
         VRAM__INDEX_GATHER, 0, "dim!");
VRAM__OP(index_select, "index_select: x dim index", 2, 2, index_select, SAME, none, gather, gather,
         each, ANY, 0, 0, "dim!");
VRAM__OP(index, "", 2, 9, index, SAME, none, index, index, each, ANY, 0, 0, "dim");
VRAM__OP(index_put, "", 3, 10, index_put, SAME, none, index_put, index_put, each, NONE, 0, 0,
         "dim inplace accumulate");
VRAM__OP(scatter, "", 2, 3, scatter, SAME, none, scatter, scatter, each, NONE, 0, 0,
         "dim! scalar inplace");
VRAM__OP(masked_select, "", 2, 2, masked_select, SAME, none, masked_select, masked_select, each,
         NONE, 0, 0, "count");
VRAM__OP(one_hot, "", 1, 1, one_hot, SAME, none, one_hot, none, each, NONE, 0, 0, "num_classes!");
VRAM__OP(take, "take: x index", 2, 2, take, SAME, none, gather, gather, each, ANY, 0, 0, "");
