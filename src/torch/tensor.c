/* >>torch/tensor    fresh tensors, views, memory formats, TensorIterator's outputs */
#include "torch/torch.h"

VRAM__FN const vram_dims *vram__dims_in(vram__step *s, uint32_t n, const int64_t *size,
                                        const int64_t *stride) {
  const vram_dims *d = vram__dims_get(s->mem, &s->used, s->cap, s->dims_cache, n, size, stride);
  if (!d) { /* what is left of this operation works with spare ones */
    uint64_t own = 0;
    int64_t one[VRAM_MAX_AXES];
    uint32_t i;
    int fits = vram__dims_fit(n, size);
    for (i = 0; i < n; i++)
      one[i] = size[i] != 0;
    s->failed = fits ? VRAM_ERR_MEMORY : VRAM_ERR_OVERFLOW;
    d = vram__dims_get((uint8_t *)(s->spare + s->nspare++ % VRAM__SPARE), &own, sizeof *s->spare,
                       s->dims_cache, n, fits ? size : one, fits ? stride : NULL);
  }
  return d;
}

/* A dtype of the graph in this run. */
VRAM__FN vram_dtype vram__step_dtype(const vram__step *s, vram_dtype dt) {
  return dt == VRAM_DTYPE_MODEL ? s->dtype : dt;
}

/* What the node's key dtype= says for this run, or `def`. */
VRAM__FN vram_dtype vram__step_key_dtype(const vram__step *s, const vram_node *n, vram_dtype def) {
  return vram__step_dtype(s, (vram_dtype)VRAM__INT(n, dtype, def));
}

VRAM__FN uint32_t vram__dtype_size(vram_dtype dt) { return vram__dtype_rows[dt].block_bytes; }

/* a * b * c * e, VRAM_OVERFLOW if it does not fit */
VRAM__FN uint64_t vram__product4_or_overflow(int64_t a, int64_t b, int64_t c, int64_t e) {
  return vram__product_or_overflow(vram__product_or_overflow((uint64_t)a, (uint64_t)b),
                                   vram__product_or_overflow((uint64_t)c, (uint64_t)e));
}

/* A storage of so many bytes whose shape nobody asks for. */
VRAM__FN vram__tensor vram__tensor_raw(vram__step *s, uint64_t bytes) {
  vram__tensor t = vram__tensor_none();
  t.d = s->scalar;
  t.dt = VRAM_U8;
  t.st = vram__storage_new(s, bytes);
  return t;
}

/* The dims of a fresh contiguous tensor of d's sizes. */
VRAM__FN const vram_dims *vram__dims_contiguous(vram__step *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__dims_in(s, d->ndim, d->v, NULL);
}

/* One more tensor on x's storage that autograd does not know as a view (detach, _unsafe_view). */
VRAM__FN vram__tensor vram__tensor_alias(vram__step *s, vram__tensor x, const vram_dims *d) {
  const vram__storage *const from = vram__slot_at(s, vram__tensor_slot(x));
  vram__tensor t = x;
  vram__storage *st;
  t.d = d;
  if (x.st)
    t.st = vram__slot_new(s);
  if (!t.st)
    return t;
  st = vram__slot_at(s, t.st);
  st->base = from->base;
  st->bytes = 0;
  st->refs = 1;
  st->saved = st->shown = st->req = st->filler = 0;
  st->off = from->off;
  st->out = 0;
  st->stream = 0;
  st->fn = st->of = st->ver = 0;
  st->d = d;
  vram__slot_at(s, st->base)->srefs++;
  return t;
}

/* A view of x. It keeps the tensor that it is a view of, also in backward (ViewInfo::base_). */
VRAM__FN vram__tensor vram__tensor_view(vram__step *s, vram__tensor x, const vram_dims *d) {
  vram__tensor t = vram__tensor_alias(s, x, d);
  if (t.st) {
    uint32_t of = vram__slot_at(s, vram__tensor_slot(x))->of;
    if (!of)
      of = vram__tensor_slot(x);
    vram__slot_at(s, t.st)->of = of;
    vram__slot_at(s, t.st)->ver = vram__owner_at(s, of)->ver;
    vram__slot_retain(s, of);
  }
  return t;
}

/* TensorIterator.cpp, reorder_dimensions and compute_shape: the axes in the order of the operands'
   strides, in that order dense. */
static const vram_dims *vram__dims_reorder(vram__step *s, const vram_dims *const *op, uint32_t nop,
                                           uint32_t ndim, const int64_t *size) {
  uint8_t perm[VRAM_MAX_AXES];
  int64_t stride[3][VRAM_MAX_AXES], out[VRAM_MAX_AXES], z = 1;
  const int n = (int)ndim;
  uint32_t k;
  int i, j;
  for (k = 0; k < nop && k < 3; k++) {
    int shift = n - op[k]->ndim;
    for (i = 0; i < n; i++)
      stride[k][i] = i < shift || (op[k]->v[i - shift] == 1 && size[i] != 1)
                         ? 0
                         : VRAM__STRIDE(op[k])[i - shift];
  }
  for (i = 0; i < VRAM_MAX_AXES; i++)
    perm[i] = (uint8_t)(n - 1 - i);
  for (i = 1; i < n; i++) {
    int m = i;
    for (j = i - 1; j >= 0; j--) {
      int x = perm[j], y = perm[m], c = 0;
      for (k = 0; k < nop && k < 3 && !c; k++) {
        int64_t p = stride[k][x], q = stride[k][y];
        if (!p || !q)
          continue;
        c = p < q ? -1 : p > q ? 1 : size[x] > size[y] ? 1 : 0;
      }
      if (c > 0) {
        uint8_t t = perm[j];
        perm[j] = perm[m];
        perm[m] = t;
        m = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++) {
    out[perm[i]] = z;
    z *= size[perm[i]] > 1 ? size[perm[i]] : 1;
  }
  return vram__dims_in(s, ndim, size, out);
}

/* A dense tensor of d's sizes with its axes in the order of d's strides: at::infer_dense_strides
   sorts as TensorIterator does with one operand. */
static const vram_dims *vram__dims_sorted(vram__step *s, const vram_dims *d) {
  return vram__dims_reorder(s, &d, 1, d->ndim, d->v);
}

/* empty_like: d's own strides if it is dense. */
VRAM__FN const vram_dims *vram__dims_dense(vram__step *s, const vram_dims *d) {
  return d->flags & VRAM__DENSE ? d : vram__dims_sorted(s, d);
}

/* Channels-last strides for d's sizes (4 or 5 axes). */
VRAM__FN const vram_dims *vram__dims_channels_last(vram__step *s, const vram_dims *d) {
  int64_t st[5], z;
  uint32_t i, n = d->ndim;
  for (st[1] = 1, z = d->v[1] > 1 ? d->v[1] : 1, i = n - 1; i >= 2; i--) {
    st[i] = z;
    z *= d->v[i] > 1 ? d->v[i] : 1;
  }
  st[0] = z;
  return vram__dims_in(s, n, d->v, st);
}

/* The result of a pointwise kernel of one tensor (TensorIteratorBase::fast_set_up). */
VRAM__FN const vram_dims *vram__dims_pointwise1(vram__step *s, const vram_dims *d) {
  if (d->flags & VRAM__PLAIN)
    return d;
  if (d->flags & VRAM__CONTIG)
    return vram__dims_in(s, d->ndim, d->v, NULL);
  if (d->ndim == 4 && (d->flags & VRAM__CL))
    return vram__dims_channels_last(s, d);
  return vram__dims_dense(s, d);
}

/* The same of a tensor and a number, which is a tensor without axes: there is no fast set-up. */
VRAM__FN const vram_dims *vram__dims_pointwise_number(vram__step *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__dims_sorted(s, d);
}

/* TensorIterator's output for these operands: broadcast sizes, strides in the operands' order. */
VRAM__FN const vram_dims *vram__dims_pointwise(vram__step *s, const vram_dims *const *op,
                                               uint32_t nop) {
  const vram_dims *a = op[0];
  int64_t size[VRAM_MAX_AXES];
  uint32_t k, ndim = a->ndim, all = a->flags;
  int i, n, same = 1;
  for (k = 1; k < nop; k++) {
    if (op[k] != a)
      same = 0;
    all &= op[k]->flags;
  }
  if (same)
    return vram__dims_pointwise1(s, a);
  if (all & VRAM__PLAIN) { /* the widest operand often is the answer */
    for (k = 0; k < nop; k++)
      if (op[k]->numel > a->numel || (op[k]->numel == a->numel && op[k]->ndim > a->ndim))
        a = op[k];
    for (k = 0; k < nop; k++)
      if (op[k] != a && (op[k]->numel != 1 || op[k]->ndim > a->ndim))
        break;
    if (k == nop)
      return a;
  }
  for (i = 0; i < (int)ndim; i++)
    size[i] = op[0]->v[i];
  for (k = 1; k < nop; k++)
    vram__dims_broadcast(&ndim, size, op[k]);
  n = (int)ndim;
  if (all & VRAM__PLAIN)
    return vram__dims_in(s, ndim, size, NULL);
  for (same = 1, k = 0; k < nop; k++) { /* fast set-up: all of one shape */
    if (op[k]->ndim != ndim)
      same = 0;
    for (i = 0; same && i < n; i++)
      same = op[k]->v[i] == size[i];
  }
  if (same && (all & VRAM__CONTIG))
    return vram__dims_in(s, ndim, size, NULL);
  if (same && n == 4 && (all & VRAM__CL))
    return vram__dims_channels_last(s, op[0]);
  if (same && (all & VRAM__DENSE)) {
    for (k = 1; k < nop; k++)
      for (i = 0; same && i < n; i++)
        same = VRAM__STRIDE(op[k])[i] == VRAM__STRIDE(op[0])[i];
    if (same)
      return op[0];
  }
  return vram__dims_reorder(s, op, nop, ndim, size);
}

VRAM__FN vram__tensor vram__pointwise_empty1(vram__step *s, vram__tensor a) {
  return vram__tensor_empty(s, vram__dims_pointwise1(s, a.d), a.dt);
}

VRAM__FN vram__tensor vram__pointwise_empty_number(vram__step *s, vram__tensor a) {
  return vram__tensor_empty(s, vram__dims_pointwise_number(s, a.d), a.dt);
}

VRAM__FN vram_dtype vram__promote_pair(vram__tensor a, vram__tensor b) {
  vram__promote p;
  if (a.dt == b.dt)
    return a.dt;
  vram__memory_zero(&p, sizeof p);
  vram__promote_add(&p, a.dt, a.d->ndim);
  vram__promote_add(&p, b.dt, b.d->ndim);
  return vram__promote_get(&p);
}

VRAM__FN vram__tensor vram__pointwise_empty2(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram_dims *op[2];
  if (a.d == b.d && a.dt == b.dt && (a.d->flags & VRAM__PLAIN))
    return vram__tensor_empty(s, a.d, a.dt);
  op[0] = a.d;
  op[1] = b.d;
  return vram__tensor_empty(s, vram__dims_pointwise(s, op, 2), vram__promote_pair(a, b));
}

/* A contiguous copy, or the tensor itself; either way one handle more. */
VRAM__FN vram__tensor vram__tensor_contiguous(vram__step *s, vram__tensor x) {
  if ((x.d->flags & VRAM__CONTIG) || s->ideal) {
    x.d = vram__dims_contiguous(s, x.d);
    return vram__tensor_retain(s, x);
  }
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* x.to(dtype): one handle more. */
VRAM__FN vram__tensor vram__tensor_to(vram__step *s, vram__tensor x, vram_dtype dt) {
  if (x.dt == dt)
    return vram__tensor_retain(s, x);
  return vram__tensor_empty(s, vram__dims_dense(s, x.d), dt);
}

/* at::detail::computeStride: the strides of a view of x with these sizes, if there is one. */
VRAM__FN int vram__dims_view_strides(const vram_dims *x, uint32_t n, const int64_t *size,
                                     int64_t *stride) {
  int i, v = (int)n - 1, last = x->ndim - 1;
  int64_t chunk, tensor_numel = 1, view_numel = 1;
  const int64_t *xs = VRAM__STRIDE(x);
  if (x->flags & VRAM__PLAIN) {
    int64_t z = 1;
    for (i = (int)n - 1; i >= 0; i--) {
      stride[i] = z;
      z *= size[i] > 1 ? size[i] : 1;
    }
    return 1;
  }
  if (x->ndim == 0) {
    for (i = 0; i < (int)n; i++)
      stride[i] = 1;
    return 1;
  }
  chunk = xs[last];
  for (i = last; i >= 0; i--) {
    tensor_numel *= x->v[i];
    if (i == 0 || (x->v[i - 1] != 1 && xs[i - 1] != tensor_numel * chunk)) {
      while (v >= 0 && (view_numel < tensor_numel || size[v] == 1)) {
        stride[v] = (int64_t)((uint64_t)view_numel * (uint64_t)chunk);
        view_numel *= size[v--];
      }
      if (view_numel != tensor_numel)
        return 0;
      if (i > 0) {
        chunk = xs[i - 1];
        tensor_numel = view_numel = 1;
      }
    }
  }
  return v == -1;
}

/* x.reshape without autograd: a view, or a contiguous copy; one handle more. */
VRAM__FN vram__tensor vram__tensor_reshape(vram__step *s, vram__tensor x, uint32_t n,
                                           const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__dims_view_strides(x.d, n, size, stride))
    return vram__tensor_view(s, x, vram__dims_in(s, n, size, stride));
  if (s->ideal)
    return vram__tensor_view(s, x, vram__dims_in(s, n, size, NULL));
  return vram__tensor_empty(s, vram__dims_in(s, n, size, NULL), x.dt);
}

/* The dims of x with its axes in this order. */
VRAM__FN const vram_dims *vram__dims_permuted(vram__step *s, const vram_dims *d,
                                              const uint8_t *order) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++) {
    size[i] = d->v[order[i]];
    stride[i] = VRAM__STRIDE(d)[order[i]];
  }
  return vram__dims_in(s, d->ndim, size, stride);
}

VRAM__FN const vram_dims *vram__dims_swapped(vram__step *s, const vram_dims *d, uint32_t a,
                                             uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b;
  order[b] = (uint8_t)a;
  return vram__dims_permuted(s, d, order);
}

/* ---- memory formats ---- */

/* The sizes of d, channels last or contiguous. */
VRAM__FN const vram_dims *vram__tensor_formatted(vram__step *s, const vram_dims *d, int cl) {
  int64_t st[5], z;
  uint32_t i;
  if (!cl || d->ndim < 4 || d->ndim > 5)
    return vram__dims_contiguous(s, d);
  for (st[1] = 1, z = d->v[1], i = d->ndim - 1u; i >= 2; i--) {
    st[i] = z;
    z *= d->v[i];
  }
  st[0] = z;
  return vram__dims_in(s, d->ndim, d->v, st);
}

/* x.contiguous(format): a copy, or x itself; a handle more either way */
VRAM__FN vram__tensor vram__tensor_in_format(vram__step *s, vram__tensor x, int cl) {
  if ((x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG)) || s->ideal) {
    x.d = vram__tensor_formatted(s, x.d, cl);
    return vram__tensor_retain(s, x);
  }
  return vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), x.dt);
}

/* y.add_(b) */
VRAM__FN void vram__torch_add_(vram__step *s, vram__tensor *y, vram__tensor b) {
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = *y;
  in[1] = b;
  f = vram__tape_record(s, VRAM_OP_add, in, 2, 1, 0);
  vram__grad_fn_set_output(s, f, 0, y);
}
