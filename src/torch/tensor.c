/* ---- tensors ---- */

static vram__fn *vram__fn_at(const vram__s *s, uint32_t f) {
  return (vram__fn *)(void *)(s->mem + (uint64_t)f * 8);
}

static void vram__fn_gone(vram__s *s, uint32_t f);

/* Is it a record, neither nothing nor a leaf? */
static inline int vram__is_fn(uint32_t fn) { return fn - 1 < VRAM__LEAF - 1; }

static inline void vram__fn_unref(vram__s *s, uint32_t fn) {
  if (vram__is_fn(fn) && --vram__fn_at(s, fn)->refs == 0)
    vram__fn_gone(s, fn);
}

static void vram__keep_store(vram__s *s, uint32_t i) {
  vram__store *st = s->top - i;
  if (st->refs++ == 0) /* so far it was only saved */
    (s->top - st->base)->srefs++;
}

static vram__t vram__keep_t(vram__s *s, vram__t t) {
  if (t.st)
    vram__keep_store(s, t.st);
  if (vram__is_fn(t.fn))
    vram__fn_at(s, t.fn)->refs++;
  return t;
}

static void vram__let(vram__s *s, vram__t t) {
  if (vram__is_fn(t.fn) && --vram__fn_at(s, t.fn)->refs == 0)
    vram__fn_gone(s, t.fn);
  vram__drop_store(s, t.st);
}

static const vram_dims *vram__dims_in(vram__s *s, uint32_t n, const int64_t *size,
                                      const int64_t *stride) {
  const vram_dims *d = vram__dims_get(s->mem, &s->used, s->cap, s->cache, n, size, stride);
  if (!d) { /* what is left of this operation works with spare ones */
    uint64_t own = 0;
    int64_t one[VRAM_MAX_AXES];
    uint32_t i;
    int fits = vram__dims_fit(n, size);
    for (i = 0; i < n; i++)
      one[i] = size[i] != 0;
    s->failed = fits ? VRAM_ERR_MEMORY : VRAM_ERR_OVERFLOW;
    d = vram__dims_get((uint8_t *)(s->spare + s->nspare++ % VRAM__SPARE), &own, sizeof *s->spare,
                       s->cache, n, fits ? size : one, fits ? stride : NULL);
  }
  return d;
}

/* fp32 of the text in a run of another dtype */
static uint8_t vram__run_dtype(const vram__s *s, uint8_t dt) {
  return s->low && dt == VRAM_F32 ? s->low : dt;
}

static uint32_t vram__size_of(uint8_t dt) { return vram__dtype_rows[dt].block_bytes; }

static vram__t vram__none(void) {
  vram__t t;
  t.d = NULL;
  t.st = t.fn = 0;
  t.out = 0;
  t.dt = t.req = t.off = 0;
  return t;
}

/* A fresh tensor of dims d, which are dense. */
static vram__t vram__empty(vram__s *s, const vram_dims *d, uint8_t dt) {
  vram__t t;
  t.d = d;
  t.st = s->registers ? 0 : vram__new_of(s, vram__bytes_of(d, dt), d);
  t.fn = 0;
  t.out = 0;
  t.dt = dt;
  t.req = t.off = 0;
  return t;
}

/* a * b * c * e, VRAM_OVERFLOW if it does not fit */
static uint64_t vram__mul4(int64_t a, int64_t b, int64_t c, int64_t e) {
  return vram__mul(vram__mul((uint64_t)a, (uint64_t)b), vram__mul((uint64_t)c, (uint64_t)e));
}

/* A storage of so many bytes whose shape nobody asks for. */
static vram__t vram__raw(vram__s *s, uint64_t bytes) {
  vram__t t = vram__none();
  t.d = s->scalar;
  t.dt = VRAM_U8;
  t.st = vram__new(s, bytes);
  return t;
}

/* The dims of a fresh contiguous tensor of d's sizes. */
static const vram_dims *vram__contig(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__dims_in(s, d->ndim, d->v, NULL);
}

/* One more tensor on x's storage that autograd does not know as a view (detach, _unsafe_view). */
static vram__t vram__alias_only(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t t = x;
  vram__store *st, *b;
  t.d = d;
  t.fn = 0;
  t.out = 0;
  t.req = 0;
  if (x.st)
    t.st = vram__slot_new(s);
  if (!t.st)
    return t;
  st = s->top - t.st;
  st->base = (s->top - x.st)->base;
  st->bytes = 0;
  st->refs = 1;
  st->held = 0;
  st->fn = st->of = st->ver = 0;
  st->d = d;
  b = s->top - st->base;
  b->srefs++;
  return t;
}

/* A view of x. It keeps the tensor that it is a view of, also in backward (ViewInfo::base_). */
static vram__t vram__alias(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t t = vram__alias_only(s, x, d);
  if (t.st) {
    uint32_t of = (s->top - x.st)->of;
    if (!of)
      of = x.st;
    (s->top - t.st)->of = of;
    (s->top - t.st)->ver = (s->top - (s->top - of)->base)->ver;
    vram__keep_store(s, of);
  }
  return t;
}

/* A dense tensor of d's sizes with its axes in the order of d's strides (at::infer_dense_strides).
 */
static const vram_dims *vram__sorted(vram__s *s, const vram_dims *d) {
  uint8_t perm[VRAM_MAX_AXES];
  int64_t stride[VRAM_MAX_AXES], z = 1;
  const int64_t *st = VRAM__STRIDE(d);
  int i, j, n = d->ndim;
  for (i = 0; i < VRAM_MAX_AXES; i++)
    perm[i] = (uint8_t)(n - 1 - i);
  for (i = 1; i < n; i++) {
    int k = i;
    for (j = i - 1; j >= 0; j--) {
      int a = perm[j], b = perm[k], c = 0;
      if (st[a] && st[b])
        c = st[a] < st[b] ? -1 : st[a] > st[b] ? 1 : d->v[a] > d->v[b] ? 1 : 0;
      if (c > 0) {
        uint8_t t = perm[j];
        perm[j] = perm[k], perm[k] = t;
        k = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++)
    stride[perm[i]] = z, z *= d->v[perm[i]] > 1 ? d->v[perm[i]] : 1;
  return vram__dims_in(s, (uint32_t)n, d->v, stride);
}

/* empty_like: d's own strides if it is dense. */
static const vram_dims *vram__dense(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__DENSE ? d : vram__sorted(s, d);
}

/* Channels-last strides for d's sizes (4 or 5 axes). */
static const vram_dims *vram__as_cl(vram__s *s, const vram_dims *d) {
  int64_t st[5], z;
  uint32_t i, n = d->ndim;
  for (st[1] = 1, z = d->v[1] > 1 ? d->v[1] : 1, i = n - 1; i >= 2; i--)
    st[i] = z, z *= d->v[i] > 1 ? d->v[i] : 1;
  st[0] = z;
  return vram__dims_in(s, n, d->v, st);
}

/* The result of a pointwise kernel of one tensor (TensorIteratorBase::fast_set_up). */
static const vram_dims *vram__unary(vram__s *s, const vram_dims *d) {
  if (d->flags & VRAM__PLAIN)
    return d;
  if (d->flags & VRAM__CONTIG)
    return vram__dims_in(s, d->ndim, d->v, NULL);
  if (d->ndim == 4 && (d->flags & VRAM__CL))
    return vram__as_cl(s, d);
  return vram__dense(s, d);
}

/* The same of a tensor and a number, which is a tensor without axes: there is no fast set-up. */
static const vram_dims *vram__with_number(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__sorted(s, d);
}

/* TensorIterator's output for these operands: broadcast sizes, strides in the operands' order. */
static const vram_dims *vram__ti(vram__s *s, const vram_dims *const *op, uint32_t nop) {
  const vram_dims *a = op[0];
  uint8_t perm[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES], stride[3][VRAM_MAX_AXES], out[VRAM_MAX_AXES], z = 1;
  uint32_t k, ndim = a->ndim, all = a->flags;
  int i, j, n, same = 1;
  for (k = 1; k < nop; k++) {
    if (op[k] != a)
      same = 0;
    all &= op[k]->flags;
  }
  if (same)
    return vram__unary(s, a);
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
    vram__bcast(&ndim, size, op[k]);
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
    return vram__as_cl(s, op[0]);
  if (same && (all & VRAM__DENSE)) {
    for (k = 1; k < nop; k++)
      for (i = 0; same && i < n; i++)
        same = VRAM__STRIDE(op[k])[i] == VRAM__STRIDE(op[0])[i];
    if (same)
      return op[0];
  }
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
        perm[j] = perm[m], perm[m] = t;
        m = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++)
    out[perm[i]] = z, z *= size[perm[i]] > 1 ? size[perm[i]] : 1;
  return vram__dims_in(s, ndim, size, out);
}

static vram__t vram__ti1(vram__s *s, vram__t a) {
  return vram__empty(s, vram__unary(s, a.d), a.dt);
}

static vram__t vram__ti_number(vram__s *s, vram__t a) {
  return vram__empty(s, vram__with_number(s, a.d), a.dt);
}

static uint8_t vram__result2(vram__t a, vram__t b) {
  vram__promote p;
  if (a.dt == b.dt)
    return a.dt;
  vram__zero(&p, sizeof p);
  vram__promote_add(&p, a.dt, a.d->ndim);
  vram__promote_add(&p, b.dt, b.d->ndim);
  return vram__promote_get(&p);
}

static vram__t vram__ti2(vram__s *s, vram__t a, vram__t b) {
  const vram_dims *op[2];
  if (a.d == b.d && a.dt == b.dt && (a.d->flags & VRAM__PLAIN))
    return vram__empty(s, a.d, a.dt);
  op[0] = a.d, op[1] = b.d;
  return vram__empty(s, vram__ti(s, op, 2), vram__result2(a, b));
}

/* A contiguous copy, or the tensor itself; either way one handle more. */
static vram__t vram__contiguous(vram__s *s, vram__t x) {
  if ((x.d->flags & VRAM__CONTIG) || s->ideal) {
    x.d = vram__contig(s, x.d);
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* x.to(dtype): one handle more. */
static vram__t vram__to(vram__s *s, vram__t x, uint8_t dt) {
  if (x.dt == dt) {
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__dense(s, x.d), dt);
}

/* at::detail::computeStride: the strides of a view of x with these sizes, if there is one. */
static int vram__view_strides(const vram_dims *x, uint32_t n, const int64_t *size,
                              int64_t *stride) {
  int i, v = (int)n - 1, last = x->ndim - 1;
  int64_t chunk, tensor_numel = 1, view_numel = 1;
  const int64_t *xs = VRAM__STRIDE(x);
  if (x->flags & VRAM__PLAIN) {
    int64_t z = 1;
    for (i = (int)n - 1; i >= 0; i--)
      stride[i] = z, z *= size[i] > 1 ? size[i] : 1;
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
      if (i > 0)
        chunk = xs[i - 1], tensor_numel = view_numel = 1;
    }
  }
  return v == -1;
}

/* x.reshape without autograd: a view, or a contiguous copy; one handle more. */
static vram__t vram__reshape(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__view_strides(x.d, n, size, stride))
    return vram__alias(s, x, vram__dims_in(s, n, size, stride));
  if (s->ideal)
    return vram__alias(s, x, vram__dims_in(s, n, size, NULL));
  return vram__empty(s, vram__dims_in(s, n, size, NULL), x.dt);
}

/* The dims of x with its axes in this order. */
static const vram_dims *vram__permuted(vram__s *s, const vram_dims *d, const uint8_t *order) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[order[i]], stride[i] = VRAM__STRIDE(d)[order[i]];
  return vram__dims_in(s, d->ndim, size, stride);
}

static const vram_dims *vram__swapped(vram__s *s, const vram_dims *d, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b, order[b] = (uint8_t)a;
  return vram__permuted(s, d, order);
}

VRAM__SELDOM_BEGIN

/* ---- reductions ---- */

static int64_t vram__pow2(int64_t v, int64_t most) {
  int64_t p = 1;
  if (v > most)
    return most;
  while (p * 2 <= v)
    p *= 2;
  return p;
}

/* A reduction as TensorIterator sees it: axes in the order of the kernel, the reduced ones first.
 */
typedef struct vram__iter {
  int64_t size[VRAM_MAX_AXES], in[VRAM_MAX_AXES], out[VRAM_MAX_AXES]; /* sizes, strides */
  uint32_t n, off;
} vram__iter;

/* What a reduction of x over the axes of mask iterates (TensorIterator.cpp, reorder_dimensions and
   coalesce_dimensions with a contiguous result). */
static void vram__reduce_iter(vram__t x, uint32_t mask, vram__iter *it) {
  int64_t out[VRAM_MAX_AXES], z = 1;
  uint8_t perm[VRAM_MAX_AXES];
  const int64_t *in = VRAM__STRIDE(x.d), *size = x.d->v;
  int i, j, n = x.d->ndim;
  uint32_t m = 0;
  for (i = n - 1; i >= 0; i--) {
    perm[n - 1 - i] = (uint8_t)i;
    out[i] = mask >> i & 1 ? 0 : z;
    if (!(mask >> i & 1))
      z *= size[i];
  }
  for (i = 1; i < n; i++) {
    int k = i;
    for (j = i - 1; j >= 0; j--) {
      int a = perm[j], b = perm[k], c = 0;
      if (!out[a] != !out[b])
        c = out[b] ? -1 : 1;
      else if (out[a])
        c = out[a] < out[b] ? -1 : out[a] > out[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (!c && in[a] && in[b])
        c = in[a] < in[b] ? -1 : in[a] > in[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (c > 0) {
        perm[j] = (uint8_t)b, perm[k] = (uint8_t)a;
        k = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++) {
    int a = perm[i];
    if (m && (it->size[m - 1] == 1 || size[a] == 1 ||
              (it->size[m - 1] * it->in[m - 1] == in[a] &&
               it->size[m - 1] * it->out[m - 1] == out[a]))) {
      if (it->size[m - 1] == 1)
        it->in[m - 1] = in[a], it->out[m - 1] = out[a];
      it->size[m - 1] *= size[a];
      continue;
    }
    it->size[m] = size[a], it->in[m] = in[a], it->out[m++] = out[a];
  }
  it->n = m;
  it->off = x.off;
}

/* ATen/native/cuda/Reduce.cuh, setReduceConfig: what is needed for a moment where the reduction is
   split over thread blocks. acc: bytes that a thread accumulates in; vt: values that it reads at
   once. */
static void vram__reduce_split(vram__s *s, const vram__iter *it, uint32_t acc, uint32_t vt) {
  int64_t out = 1, in = 1, d0 = 1, d1 = 1, fast = 1, v = 1, M, p0, p1, w, h, step_in = 1,
          step_out = 1, n, grid, c, lo, hi, target;
  uint32_t nr = 0, i, buf, sem;
  int along = 1, split = 0;
  for (i = 0; i < it->n; i++)
    if (it->out[i])
      out *= it->size[i];
    else
      in *= it->size[i], nr++;
  if (in < 256)
    return; /* too few values for one thread to split */
  if (it->n) {
    along = nr == it->n || it->in[0] < it->in[nr];
    d0 = along ? in : out, d1 = along ? out : in;
    fast = it->in[along ? 0 : nr];
  }
  if (fast == 1) {
    if (along && d0 >= 128 && nr == 1)
      d0 /= vt;
    else if (!along) {
      for (v = 4; it->off % v || it->size[nr] % v;)
        v /= 2;
      for (i = 0; i < it->n; i++)
        if (i != nr)
          while (it->in[i] % v)
            v /= 2;
      d0 /= v;
    }
  }
  M = 512 / v;
  p0 = vram__pow2(d0, M), p1 = vram__pow2(d1, M);
  w = p0 < 32 ? p0 : 32;
  h = p1 < M / w ? p1 : M / w;
  w = p0 < M / h ? p0 : M / h;
  *(along ? &step_in : &step_out) *= w;
  n = (in + step_in - 1) / step_in;
  if (n >= (16 * h < 256 ? 16 * h : 256))
    step_in *= h, split = 1;
  else
    step_out *= h;
  grid = (out / v + step_out - 1) / step_out;
  n = (in + step_in - 1) / step_in;
  target = (int64_t)s->sm * ((int64_t)s->threads / (w * h));
  if (!split || n < 256 || grid > target)
    return;
  c = (target + grid - 1) / grid;
  lo = (n + 255) / 256, hi = (n + 15) / 16;
  if (c < lo)
    c = lo;
  else if (c > hi)
    c = hi;
  if (c <= 1)
    return;
  buf = vram__new(s, (uint64_t)(acc * out * c) * (along ? 1u : (uint64_t)(w * v)));
  sem = vram__new(s, (uint64_t)(4 * grid));
  vram__drop_store(s, sem);
  vram__drop_store(s, buf);
}

/* TensorIteratorBase::can_use_32bit_indexing; else the axis to split. */
static int vram__iter_small(const vram__iter *it, uint32_t ein, uint32_t eout, uint32_t *axis) {
  int64_t in = 1, out = 1, numel = 1, most = -1;
  uint32_t i;
  for (i = it->n; i-- > 0;) {
    int64_t a = (it->size[i] - 1) * it->in[i] * ein, b = (it->size[i] - 1) * it->out[i] * eout;
    numel *= it->size[i];
    in += a, out += b;
    if (a > most)
      most = a, *axis = i;
    if (b > most)
      most = b, *axis = i;
  }
  return numel <= INT32_MAX && in <= INT32_MAX && out <= INT32_MAX;
}

/* A reduction beyond 32-bit offsets runs in halves of halves (TensorIteratorBase::split). */
static void vram__reduce_large(vram__s *s, const vram__iter *it, uint32_t ein, uint32_t eout,
                               uint32_t acc, uint32_t vt) {
  vram__iter stack[48];
  uint32_t n = 1, axis = 0;
  stack[0] = *it;
  while (n) {
    vram__iter *top = &stack[n - 1];
    if (n < 48 && !vram__iter_small(top, ein, eout, &axis)) {
      stack[n] = *top;
      stack[n].size[axis] = top->size[axis] / 2;
      top->size[axis] -= stack[n].size[axis];
      top->off =
          (uint32_t)(top->off + (uint64_t)stack[n].size[axis] * (uint64_t)top->in[axis]) % 16;
      n++;
    } else {
      vram__reduce_split(s, top, acc, vt);
      n--;
    }
  }
}

/* gpu_reduce_kernel: what a reduction of x over the axes of mask into dtype dt needs for a moment.
   Other accumulators than a number (Welford's, a value with its index) have 16 bytes or more. */
static void vram__reduce(vram__s *s, vram__t x, uint32_t mask, uint8_t dt, uint32_t acc,
                         uint32_t vt) {
  vram__iter it;
  uint32_t ein = vram__size_of(x.dt), eout = vram__size_of(dt), axis = 0, i, buf = 0;
  if (s->ideal)
    return;
  if (x.d->numel < 256)
    return;
  vram__reduce_iter(x, mask, &it);
  if (x.d->numel < INT32_MAX / 16 && (x.d->flags & VRAM__DENSE)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (vram__iter_small(&it, ein, eout, &axis)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (acc > eout && (acc >= 16 || (x.dt == dt && (dt == VRAM_F16 || dt == VRAM_BF16)))) {
    int64_t n = 1; /* AccumulationBuffer: halves cannot be added up in the result */
    for (i = 0; i < it.n; i++)
      if (it.size[i] * it.out[i] > n)
        n = it.size[i] * it.out[i];
    buf = vram__new(s, (uint64_t)n * acc);
  }
  if (x.d->numel < UINT64_C(1) << 40) /* no device holds more */
    vram__reduce_large(s, &it, ein, eout, acc, vt);
  if (buf)
    vram__drop_store(s, buf);
}

/* The empty result of a reduction of x over the axes of mask. */
static vram__t vram__reduced(vram__s *s, vram__t x, uint32_t mask, int keepdim, uint8_t dt) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x.d->v[i];
    else if (keepdim)
      size[m++] = 1;
  return vram__empty(s, vram__dims_in(s, m, size, NULL), dt);
}

/* x.sum over the axes of mask into dtype dt, and what the kernel needs for a moment. Half
   precision is read as it is, other dtypes are converted first (ReduceOpsUtils.h). */
static vram__t vram__sum(vram__s *s, vram__t x, uint32_t mask, int keepdim, uint8_t dt) {
  vram__t y = vram__reduced(s, x, mask, keepdim, dt), c = vram__none();
  if (x.dt != dt && !(dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16)))
    x = c = vram__to(s, x, dt);
  vram__reduce(s, x, mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  return y;
}

/* at::sum_to: x reduced to sizes it was broadcast from; one handle more. */
static vram__t vram__sum_to(vram__s *s, vram__t x, const vram_dims *to) {
  uint32_t i, k = (uint32_t)x.d->ndim - to->ndim, mask = (1u << k) - 1;
  vram__t y, z;
  if (!to->ndim) /* summed also if it has no axes itself */
    return vram__sum(s, x, mask, 0, x.dt);
  for (i = k; i < x.d->ndim; i++)
    if (to->v[i - k] == 1 && x.d->v[i] != 1)
      mask |= 1u << i;
  if (!mask) {
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  y = vram__sum(s, x, mask, 1, x.dt);
  if (!k)
    return y;
  z = vram__alias(s, y, vram__dims_in(s, to->ndim, to->v, NULL));
  vram__let(s, y);
  return z;
}

/* ---- checkpoint() without reentrance: what its records save (torch/utils/checkpoint.py) ---- */

static inline uint32_t vram__fn_index(const vram__s *s, vram__fn *f) {
  return (uint32_t)((uint64_t)((const uint8_t *)f - s->mem) / 8);
}

static vram__frame *vram__frame_at(const vram__s *s, uint32_t f) {
  return (vram__frame *)(void *)(s->mem + (uint64_t)f * 8);
}

/* One thing less that holds the call; the last one lets its inputs go. */
VRAM__RARE void vram__frame_less(vram__s *s, vram__frame *c) {
  uint32_t i;
  if (--c->alive)
    return;
  if (c->inputs)
    vram__fn_unref(s, c->inputs);
  else
    for (i = 0; i < c->range->narg; i++)
      vram__let(s, c->arg[i]);
}

/* f saves a tensor on st. In forward nothing is kept (pack_hook); in the recomputation it goes to
   the record that f repeats, if that still waits for it. Returns the storage that f itself keeps.
 */
VRAM__RARE uint32_t vram__pack(vram__s *s, vram__fn *f, const vram_dims *d, uint32_t st) {
  vram__frame *c = s->frame;
  uint32_t me = vram__fn_index(s, f);
  if (!s->again) {
    const vram__store *b = s->top - st;
    if (!f->frame) {
      f->frame = (uint32_t)((uint64_t)((const uint8_t *)c - s->mem) / 8);
      c->alive++;
      if (c->tail)
        vram__fn_at(s, c->tail)->next = me;
      else
        c->first = me;
      c->tail = me;
    }
    if (c->final != me) {
      c->final = me;
      c->before = c->saves;
      c->late = 0;
    }
    if (st ? b->id != UINT32_MAX && b->id >= f->deps : d && !d->numel)
      c->late = 1; /* an output of the operation */
    c->saves++;
    return 0;
  }
  if (!f->next) {
    f->next = s->cursor;
    s->cursor = vram__fn_at(s, s->cursor)->next;
  }
  if (st) {
    vram__fn *o = vram__fn_at(s, f->next);
    if (f->nsaved < o->nsaved) {
      VRAM__SAVED(o)[f->nsaved].st = st;
      (s->top - st)->srefs++;
    }
  }
  if (++s->count == c->saves) {
    s->full = me;
    if (!c->late || VRAM__SLOTS(f)[0].d)
      s->mute = 1;
  }
  return st;
}

/* Recomputation ends with the last tensor saved (_StopRecomputationError). Autograd saves inputs
   before the operation runs: if the last record saves only those, it allocates nothing. */
VRAM__RARE void vram__early_stop(vram__s *s, const vram__fn *f) {
  const vram__frame *c = s->frame;
  const vram__fn *o = vram__fn_at(s, c->final);
  if (s->count == c->before && !c->late && f->node == o->node && f->kind == o->kind)
    s->mute = 1;
}

VRAM__SELDOM_END

/* ---- autograd's records ---- */

VRAM__PART vram__fn *vram__record_raw(vram__s *s, uint32_t kind, uint32_t nin, uint32_t nout,
                                      uint32_t room) {
  vram__slot *slot, *end;
  vram__fn *f = (vram__fn *)vram__bump(s->mem, &s->used, s->cap,
                                       sizeof *f + nin * sizeof(vram__edge) +
                                           nout * sizeof(vram__slot) + room * sizeof(vram__t));
  if (!f) {
    s->failed = VRAM_ERR_MEMORY;
    return NULL;
  }
  if (nin > s->max_fn_in)
    s->max_fn_in = nin;
  f->node = s->node;
  f->prev = s->last_fn;
  f->refs = f->next = f->frame = 0;
  f->deps = (uint32_t)s->next_id;
  f->kind = (uint16_t)kind;
  f->nin = (uint16_t)nin;
  f->nout = (uint16_t)nout;
  f->nsaved = 0;
  f->done = f->flag = f->inner = 0;
  f->aux = 0;
  s->last_fn = vram__fn_index(s, f);
  for (slot = VRAM__SLOTS(f), end = slot + nout; slot != end; slot++)
    slot->g.d = slot->d = NULL;
  return f;
}

static inline void vram__edge_to(vram__s *s, vram__fn *f, uint32_t i, uint32_t fn, uint32_t out) {
  vram__edge *e = VRAM__EDGES(f) + i;
  e->fn = fn;
  e->out = out;
  if (vram__is_fn(fn))
    vram__fn_at(s, fn)->refs++;
}

/* A record of an operation on these inputs with room for saved tensors; NULL: none is needed. */
static vram__fn *vram__record(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin,
                              uint32_t nout, uint32_t room) {
  uint32_t i;
  vram__fn *f;
  if (!s->grad)
    return NULL;
  for (i = 0; i < nin; i++)
    if (in[i].req)
      break;
  if (i == nin)
    return NULL;
  f = vram__record_raw(s, kind, nin, nout, room);
  for (i = 0; f && i < nin; i++)
    vram__edge_to(s, f, i, in[i].req ? in[i].fn : 0, in[i].out);
  if (f && s->again)
    vram__early_stop(s, f);
  return f;
}

/* A storage is kept for backward, perhaps for the first time. */
static inline void vram__count_saved(vram__s *s, vram__store *b) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  if (b->saved || (own >> b->cat & 1) || s->phase != VRAM_PHASE_FORWARD)
    return;
  b->saved = 1;
  s->r->saved_bytes += b->bytes;
  if (s->o->nodes && s->node)
    s->o->nodes[s->node->index].saved_bytes += b->bytes;
}

VRAM__PART void vram__save_on(vram__s *s, vram__fn *f, const vram__t *t, uint32_t st) {
  vram__t *to = VRAM__SAVED(f) + f->nsaved++;
  *to = *t;
  to->st = st, to->fn = 0, to->out = 0;
  if (st) {
    vram__store *b = s->top - st;
    b->srefs++;
    if (!b->saved)
      vram__count_saved(s, b);
  }
}

VRAM__RARE void vram__save_packed(vram__s *s, vram__fn *f, const vram__t *t) {
  vram__save_on(s, f, t, vram__pack(s, f, t->d, t->st ? (s->top - t->st)->base : 0));
}

/* f keeps t for backward. What a module owns lives to the end anyway. */
static void vram__save(vram__s *s, vram__fn *f, vram__t t) {
  if (s->frame)
    vram__save_packed(s, f, &t);
  else
    vram__save_on(s, f, &t, t.st > VRAM__OWN ? (s->top - t.st)->base : 0);
}

/* f keeps t, which is fresh; the caller's handle goes. */
static void vram__save_last(vram__s *s, vram__fn *f, const vram__t *t) {
  if (f && !s->frame && t->st) {
    vram__store *st = s->top - t->st;
    st->refs = 0, st->srefs = 0;
    vram__save_on(s, f, t, t->st);
    return;
  }
  if (f)
    vram__save(s, f, *t);
  vram__let(s, *t);
}

/* y is output i of record f. */
static void vram__made(vram__s *s, vram__fn *f, uint32_t i, vram__t *y) {
  if (!f)
    return;
  y->fn = vram__fn_index(s, f);
  y->out = (uint16_t)i;
  y->req = 1;
  f->refs++;
  if (y->st) {
    vram__store *st = s->top - y->st;
    if (st->held) {
      st->held = 0;
      vram__fn_unref(s, st->fn);
    }
    st->fn = y->fn, st->out = y->out;
  }
  VRAM__SLOTS(f)[i].d = y->d;
  VRAM__SLOTS(f)[i].dt = y->dt;
  if (s->again && s->full == y->fn)
    s->mute = 1;
}

static void vram__release_saved(vram__s *s, vram__fn *f) {
  for (;; f = vram__fn_at(s, (uint32_t)f->aux)) {
    const vram__t *t = VRAM__SAVED(f);
    const uint32_t n = f->nsaved;
    for (; f->nsaved; f->nsaved--, t++)
      if (t->st)
        vram__drop_storage(s, t->st);
    if (n && f->frame)
      vram__frame_less(s, vram__frame_at(s, f->frame));
    if (!f->inner)
      return;
  }
}

/* Nothing leads to f any more: what it saved goes, and records that only it led to. */
static void vram__fn_gone(vram__s *s, uint32_t first) {
  vram__fn_at(s, first)->deps = s->gone;
  s->gone = first;
  if (s->going)
    return; /* what a record holds leads here again: no recursion */
  s->going = 1;
  while (s->gone) {
    vram__fn *f = vram__fn_at(s, s->gone);
    uint32_t i;
    s->gone = f->deps;
    if (f->done)
      continue;
    vram__release_saved(s, f);
    for (i = 0; i <= f->nin; i++) {
      uint32_t e = i < f->nin ? VRAM__EDGES(f)[i].fn : f->inner ? (uint32_t)f->aux : 0;
      if (!e || (e & VRAM__LEAF))
        continue;
      if (--vram__fn_at(s, e)->refs == 0) {
        vram__fn_at(s, e)->deps = s->gone;
        s->gone = e;
      }
    }
  }
  s->going = 0;
}

/* View of x with record k. */
static vram__t vram__view(vram__s *s, vram__t x, const vram_dims *d, uint32_t k, uint64_t aux) {
  vram__fn *f = vram__record(s, k, &x, 1, 1, 0);
  vram__t y = vram__alias(s, x, d);
  if (f)
    f->aux = aux;
  y.req = x.req; /* under no_grad too: matmul asks for it */
  vram__made(s, f, 0, &y);
  return y;
}

/* at::_unsafe_view of x, which goes: for autograd the result is no view. */
static vram__t vram__unsafe_view(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_view, &x, 1, 1, 0);
  vram__t y = vram__alias_only(s, x, d);
  vram__made(s, f, 0, &y);
  vram__let(s, x);
  return y;
}

VRAM__SELDOM_BEGIN

/* ---- in-place operations and views: torch/csrc/autograd/variable.cpp ---- */

static void vram__no_step(vram__s *s, vram_result code, const vram_node *n, const char *what) {
  s->failed = (uint8_t)code;
  s->problem = what;
  s->problem_node = n;
}

/* A view that a reentrant checkpoint() gave must stay as it is (CreationMeta::IN_CUSTOM_FUNCTION).
 */
static int vram__view_of_checkpoint(vram__s *s, uint32_t fn) {
  if (!fn || (fn & VRAM__LEAF) || vram__fn_at(s, fn)->kind != VRAM__K_checkpoint)
    return 0;
  vram__no_step(
      s, VRAM_ERR_UNSUPPORTED, s->node,
      "an output of a reentrant checkpoint is a view that is overwritten in place: PyTorch "
      "stops with an error");
  return 1;
}

/* A view whose base was written to: its history is as_strided of the base. */
static void vram__look_again(vram__s *s, vram__t *t) {
  vram__store *st = s->top - t->st;
  const vram__store *b = s->top - st->of;
  vram__t base = *t;
  if (vram__view_of_checkpoint(s, t->fn))
    return;
  base.d = b->d, base.fn = b->fn, base.out = b->out, base.req = b->fn != 0;
  t->fn = t->out = t->req = 0;
  vram__made(s, vram__record(s, VRAM__K_as_strided, &base, 1, 1, 0), 0, t);
  st->ver = (s->top - st->base)->ver;
}

/* t's storage was written to through another tensor: t gets its history. */
VRAM__RARE void vram__new_history(vram__s *s, vram__t *t) {
  vram__store *st = s->top - t->st;
  vram__fn_unref(s, t->fn);
  if (st->of)
    vram__look_again(s, t);
  else {
    t->fn = st->fn, t->out = st->out, t->req = 1;
    vram__fn_at(s, t->fn)->refs++;
  }
}

/* t's storage may have been written to through another tensor since t got its history. */
static inline void vram__refresh(vram__s *s, vram__t *t) {
  const vram__store *st = s->top - t->st;
  if (t->st &&
      (st->of ? st->ver != (s->top - st->base)->ver : st->fn != t->fn && !(t->fn & VRAM__LEAF)))
    vram__new_history(s, t);
}

/* x was overwritten by an operation whose record made y. If x is a view, its base gets that
   history: a copy_slices around the record (rebase_history). */
static void vram__rebase(vram__s *s, vram__t x, vram__t *y) {
  vram__store *st = s->top - x.st, *b = st->of ? s->top - st->of : st;
  uint32_t old = b->held ? b->fn : 0, i;
  if (x.fn &
      VRAM__LEAF) { /* "a leaf Variable that requires grad is used in an in-place operation" */
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node,
                  "a parameter or input that needs a gradient is overwritten in place: PyTorch "
                  "refuses");
    return;
  }
  if (st->of) {
    vram__fn *f = vram__fn_at(s, y->fn), *c;
    if (vram__view_of_checkpoint(s, x.fn))
      return;
    c = vram__record_raw(s, VRAM__K_copy_slices, f->nin, 1, 0);
    if (!c)
      return;
    vram__edge_to(s, c, 0, b->fn, b->out);
    for (i = 1; i < f->nin; i++)
      vram__edge_to(s, c, i, VRAM__EDGES(f)[i].fn, VRAM__EDGES(f)[i].out);
    c->inner = 1;
    c->aux = y->fn; /* and with it y's hold on that record */
    VRAM__SLOTS(c)[0].d = b->d;
    VRAM__SLOTS(c)[0].dt = x.dt;
    b->fn = vram__fn_index(s, c);
    b->out = 0;
  } else if (st->refs == 2)
    return; /* x and y: no view to tell */
  b->held = 1;
  vram__fn_at(s, b->fn)->refs++;
  vram__fn_unref(s, old);
  if (st->of)
    vram__look_again(s, y);
}

static vram__t vram__t_clone(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_clone, &x, 1, 1, 0);
  vram__t y = vram__empty(s, d, x.dt);
  vram__made(s, f, 0, &y);
  return y;
}

static uint64_t vram__pack_order(uint32_t n, const uint8_t *order) {
  uint64_t v = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    v |= (uint64_t)order[i] << (8 * i);
  return v;
}

static vram__t vram__t_permute(vram__s *s, vram__t x, const uint8_t *order) {
  return vram__view(s, x, vram__permuted(s, x.d, order), VRAM__K_permute,
                    vram__pack_order(x.d->ndim, order));
}

static vram__t vram__t_swap(vram__s *s, vram__t x, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b, order[b] = (uint8_t)a;
  return vram__t_permute(s, x, order);
}

/* Tensor.reshape with autograd. */
static vram__t vram__t_reshape(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__view_strides(x.d, n, size, stride))
    return vram__view(s, x, vram__dims_in(s, n, size, stride), VRAM__K_view, 0);
  if (s->ideal)
    return vram__view(s, x, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  return vram__unsafe_view(s, vram__t_clone(s, x, vram__contig(s, x.d)),
                           vram__dims_in(s, n, size, NULL));
}

/* at::inferExpandGeometry: x's dims expanded to n sizes. */
static const vram_dims *vram__expanded(vram__s *s, const vram_dims *x, uint32_t n,
                                       const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  uint32_t i, k = n - x->ndim;
  for (i = n; i-- > 0;) {
    int64_t z = i < k ? 1 : x->v[i - k];
    stride[i] = i >= k                 ? VRAM__STRIDE(x)[i - k]
                : i + 1 < n && x->ndim ? size[i + 1] * stride[i + 1]
                                       : 0;
    if (z != size[i])
      stride[i] = 0;
  }
  return vram__dims_in(s, n, size, stride);
}

/* Tensor.expand with autograd. */
static vram__t vram__t_expand(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  return vram__view(s, x, vram__expanded(s, x.d, n, size), VRAM__K_expand, 0);
}

/* x.to(dt) with autograd; x itself where it has that dtype. One handle more. */
static vram__t vram__t_cast(vram__s *s, vram__t x, uint8_t dt) {
  vram__fn *f;
  vram__t y;
  if (x.dt == dt)
    return vram__keep_t(s, x);
  f = vram__record(s, VRAM__K_cast, &x, 1, 1, 0);
  y = vram__empty(s, vram__dense(s, x.d), dt);
  vram__made(s, f, 0, &y);
  return y;
}

/* at::autocast::cached_cast */
static vram__t vram__autocast(vram__s *s, vram__t x, uint8_t dt) {
  if (!vram__is_float(x.dt) || x.dt == VRAM_F64 || x.dt == dt)
    return vram__keep_t(s, x);
  if (dt == s->amp && x.dt == VRAM_F32 && (x.fn & VRAM__LEAF)) {
    vram__leaf *l = s->leaf + (x.fn & ~VRAM__LEAF);
    vram__t *c = s->cast + (l - s->leaf);
    if (!c->d) {
      uint8_t cat = s->cat, grad = s->grad;
      s->cat = VRAM_CATEGORY_AUTOCAST;
      s->grad = s->train;
      *c = vram__t_cast(s, x, dt);
      c->req = 1; /* the cached copy is made with grad mode on, under no_grad too */
      s->grad = grad;
      l->next_cast = s->casts;
      s->casts = (uint32_t)(l - s->leaf) + 1;
      s->cat = cat;
    }
    return vram__keep_t(s, *c);
  }
  return vram__t_cast(s, x, dt);
}

/* Autocast's context ends, and with it the cache. Gives the bytes that were in it. */
static uint64_t vram__leave_autocast(vram__s *s) {
  uint64_t n = 0;
  while (s->casts) {
    vram__t *c = s->cast + s->casts - 1;
    s->casts = s->leaf[s->casts - 1].next_cast;
    n += vram__bytes_of(c->d, c->dt);
    vram__let(s, *c);
    *c = vram__none();
  }
  return n;
}

/* ---- products ---- */

/* Can BLAS read this matrix as it is, or must it be copied? (Blas.cpp, prepare_matrix_for_cublas)
 */
static int vram__blas_able(const vram_dims *d) {
  uint32_t r = d->ndim - 2u;
  const int64_t *st = VRAM__STRIDE(d) + r, *z = d->v + r;
  return (st[1] == 1 && st[0] >= (z[1] > 1 ? z[1] : 1)) ||
         (st[0] == 1 && st[1] >= (z[0] > 1 ? z[0] : 1));
}

/* a copy for BLAS, or nothing */
static vram__t vram__blas_copy(vram__s *s, vram__t x) {
  const int64_t *st = VRAM__STRIDE(x.d) + x.d->ndim - 2;
  if (vram__blas_able(x.d) ||
      (s->ideal || x.d->ndim == 2 ? x.d->flags & VRAM__DENSE
                                  : (x.d->flags & VRAM__CONTIG) && st[0] && st[1]))
    return vram__none();
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* The copies that BLAS needs, its workspace, and all gone. cuBLAS computes the transposed product,
   so that the second operand goes first; a batched product of one column stays as it is (Blas.cpp).
 */
static void vram__gemm(vram__s *s, vram__t a, vram__t b, uint64_t workspace) {
  int plain = b.d->ndim == 3 && b.d->v[2] == 1;
  vram__t p, q;
  if (!a.d->numel || !b.d->numel) /* cuBLAS is not called */
    return;
  p = vram__blas_copy(s, plain ? a : b);
  q = vram__blas_copy(s, plain ? b : a);
  vram__workspace(s, workspace);
  vram__let(s, p);
  vram__let(s, q);
}

/* a [m,k] x b [k,n] into a fresh [m,n] */
static vram__t vram__mm(vram__s *s, vram__t a, vram__t b) {
  int64_t size[2];
  vram__t y;
  size[0] = a.d->v[0], size[1] = b.d->v[1];
  y = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__gemm(s, a, b, s->ws);
  return y;
}

static vram__t vram__bmm(vram__s *s, vram__t a, vram__t b) {
  int64_t size[3];
  vram__t y;
  size[0] = a.d->v[0], size[1] = a.d->v[1], size[2] = b.d->v[2];
  y = vram__empty(s, vram__dims_in(s, 3, size, NULL), a.dt);
  vram__gemm(s, a, b, s->ws);
  return y;
}

/* matrix x vector: a vector of stride 0 is copied, then the matrix if BLAS cannot read it */
static vram__t vram__mv(vram__s *s, vram__t a, vram__t v) {
  vram__t y = vram__empty(s, vram__dims_in(s, 1, a.d->v, NULL), a.dt), p = vram__none(), q = p;
  if (!a.d->numel)
    return y;
  if (VRAM__STRIDE(v.d)[0] == 0 && !s->ideal)
    p = vram__empty(s, vram__contig(s, v.d), v.dt);
  if (!vram__blas_able(a.d) && !s->ideal)
    q = vram__empty(s, vram__contig(s, a.d), a.dt);
  vram__workspace(s, s->ws);
  vram__let(s, q);
  vram__let(s, p);
  return y;
}

/* x with its last two axes swapped, borrowed */
static vram__t vram__turned(vram__s *s, vram__t x) {
  x.d = vram__swapped(s, x.d, x.d->ndim - 2u, x.d->ndim - 1u);
  return x;
}

/* Is the matrix stored by columns? Then autograd gives its gradient that way. */
static int vram__by_columns(const vram_dims *d) {
  return VRAM__STRIDE(d)[0] == 1 && VRAM__STRIDE(d)[1] == d->v[0];
}

/* The transposed view of a product that nobody else holds. */
static vram__t vram__turn(vram__s *s, vram__t y) {
  vram__t t = vram__alias(s, y, vram__swapped(s, y.d, 0, 1));
  vram__let(s, y);
  return t;
}

/* FunctionsManual.cpp, mm_mat1_grad and mm_mat2_grad: `d` the operand's dims */
static vram__t vram__mm_grad1(vram__s *s, vram__t g, vram__t b, const vram_dims *d) {
  if (!vram__by_columns(d))
    return vram__mm(s, g, vram__turned(s, b));
  return vram__turn(s, vram__mm(s, b, vram__turned(s, g)));
}

static vram__t vram__mm_grad2(vram__s *s, vram__t g, vram__t a, const vram_dims *d) {
  if (!vram__by_columns(d))
    return vram__mm(s, vram__turned(s, a), g);
  return vram__turn(s, vram__mm(s, vram__turned(s, g), a));
}

/* maybe_multiply: a factor that is not 1 costs one more tensor */
static vram__t vram__scaled(vram__s *s, vram__t t, int is) {
  vram__t y;
  if (!is)
    return t;
  y = vram__ti1(s, t);
  vram__let(s, t);
  return y;
}

/* The sizes that autograd remembers of input i of f, and its dtype. */
static const vram_dims *vram__in_dims(const vram__s *s, vram__fn *f, uint32_t i, uint8_t *dt) {
  const vram__edge *e = VRAM__EDGES(f) + i;
  if (e->fn & VRAM__LEAF) {
    if (dt)
      *dt = s->leaf[e->fn & ~VRAM__LEAF].dt;
    return s->leaf[e->fn & ~VRAM__LEAF].d;
  }
  if (dt)
    *dt = VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].dt;
  return VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].d;
}

static inline int vram__wants(const vram__fn *f, uint32_t i) {
  return ((const vram__edge *)(const void *)(f + 1))[i].fn != 0;
}

/* Bytes from the first to the last element. */
static uint64_t vram__span(const vram_dims *d, uint8_t dt) {
  uint64_t n = 1;
  uint32_t i;
  if (d->flags & VRAM__DENSE)
    return vram__bytes_of(d, dt);
  for (i = 0; i < d->ndim; i++)
    n += (uint64_t)(d->v[i] - 1) * (uint64_t)VRAM__STRIDE(d)[i];
  return n * vram__size_of(dt);
}

/* A fresh tensor of dims d in a storage of so many bytes (empty_strided, or resized). */
static vram__t vram__empty_in(vram__s *s, const vram_dims *d, uint8_t dt, uint64_t bytes) {
  vram__t t = vram__none();
  t.d = d;
  t.st = vram__new(s, bytes);
  if (t.st)
    (s->top - t.st)->d = d;
  t.dt = dt;
  return t;
}

/* FunctionsManual.cpp, as_strided_backward, where the input does not overlap itself: expanded axes
   are summed, then the gradient is written into a storage of zeros; the result is a view of it */
static void vram__bw_as_strided(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t = vram__none(), whole;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL), *out = VRAM__SLOTS(f)[0].d;
  uint32_t i;
  for (i = out->ndim; i-- > 0;)
    if (out->v[i] != 1 && !VRAM__STRIDE(out)[i]) {
      vram__t sum = vram__sum(s, t.d ? t : g, 1u << i, 1, g.dt);
      vram__let(s, t);
      t = sum;
    }
  whole = vram__empty_in(s, d, g.dt, vram__span(d, g.dt));
  to[0] = vram__alias(s, whole, d);
  vram__let(s, whole);
  vram__let(s, t);
}

static void vram__bw_any(vram__s *s, vram__fn *f, vram__t *to);

/* torch/csrc/autograd/functions/tensor.cpp, CopySlices and CopyBackwards */
static void vram__bw_copy_slices(vram__s *s, vram__fn *f, vram__t *to) {
  vram__fn *in = vram__fn_at(s, (uint32_t)f->aux);
  vram__slot *o = VRAM__SLOTS(in);
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  uint8_t dt = VRAM__SLOTS(f)[0].g.dt;
  vram__t all = vram__empty_in(s, d, dt, vram__span(d, dt));
  o->g = vram__empty(s, vram__contig(s, o->d), dt); /* a contiguous clone of the part overwritten */
  vram__bw_any(s, in, to);
  vram__let(s, o->g);
  o->g = vram__none();
  if (vram__wants(f, 0) && to[0].d) {
    vram__let(s, to[0]);
    to[0] = all;
  } else
    vram__let(s, all);
}

static void vram__bw_copy(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  g.fn = 0;
  if (vram__wants(f, 0)) /* zeros */
    to[0] = vram__ti1(s, g);
  if (vram__wants(f, 1)) {
    uint8_t dt;
    vram__in_dims(s, f, 1, &dt);
    to[1] = vram__to(s, g, dt);
  }
}

/* Saves what two factors keep: each only if the other wants a gradient; aux says which. */
static void vram__save_factors(vram__s *s, vram__fn *f, uint32_t ia, vram__t a, uint32_t ib,
                               vram__t b) {
  if (!f)
    return;
  if (vram__wants(f, ib))
    vram__save(s, f, a), f->aux |= 1;
  if (vram__wants(f, ia))
    vram__save(s, f, b), f->aux |= 2;
}

static vram__t vram__factor(vram__fn *f, uint32_t which) {
  return VRAM__SAVED(f)[which && (f->aux & 1) ? 1 : 0];
}

/* A product with autograd: of matrices, of batches of them, of a matrix and a vector. */
static vram__t vram__t_product(vram__s *s, uint32_t kind, vram__t a, vram__t b) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, kind, in, 2, 1, 2);
  vram__save_factors(s, f, 0, a, 1, b);
  y = kind == VRAM__K_mm    ? vram__mm(s, a, b)
      : kind == VRAM__K_bmm ? vram__bmm(s, a, b)
                            : vram__mv(s, a, b);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_mm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 1))
    to[1] = vram__mm_grad2(s, g, vram__factor(f, 0), vram__in_dims(s, f, 1, NULL));
  if (vram__wants(f, 0))
    to[0] = vram__mm_grad1(s, g, vram__factor(f, 1), vram__in_dims(s, f, 0, NULL));
}

static void vram__bw_bmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 1))
    to[1] = vram__bmm(s, vram__turned(s, vram__factor(f, 0)), g);
  if (vram__wants(f, 0))
    to[0] = vram__bmm(s, g, vram__turned(s, vram__factor(f, 1)));
}

#define VRAM__ALPHA 4u /* aux of a product that adds: alpha is not 1 */
#define VRAM__BETA 8u

/* Is the added tensor c of a [m,k] x [k,n] product one that cuBLASLt adds itself? One value a
   column, and in 16 bits also a matrix of the result's shape stored by rows (Blas.cpp; measured).
 */
static int vram__lt_bias(vram__t c, int64_t m, int64_t n, int64_t k, uint32_t factors) {
  const int64_t *st = VRAM__STRIDE(c.d), *z = c.d->v;
  if (n <= 1 || k <= 1)
    return 0;
  if (c.d->ndim == 2 && z[0] == m && z[1] == n && vram__size_of(c.dt) == 2 && st[1] == 1 &&
      st[0] >= n)
    return 1;
  return (c.d->ndim == 1 || (c.d->ndim == 2 && z[0] == 1)) && c.d->numel == (uint64_t)n &&
         (c.d->flags & VRAM__CONTIG) && !(factors & VRAM__BETA);
}

/* beta c + alpha a b. What cuBLASLt does not add is first written into the result. */
static vram__t vram__t_addmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors) {
  vram__t in[3], y;
  vram__fn *f;
  int64_t size[2];
  size[0] = a.d->v[0], size[1] = b.d->v[1];
  in[0] = c, in[1] = a, in[2] = b;
  f = vram__record(s, VRAM__K_addmm, in, 3, 1, 2);
  vram__save_factors(s, f, 1, a, 2, b);
  if (f)
    f->aux |= factors;
  y = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__gemm(s, a, b,
             vram__lt_bias(c, size[0], size[1], a.d->v[1], factors) ? VRAM__RULE_CUBLASLT_WORKSPACE
                                                                    : s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

static vram__t vram__added_grad(vram__s *s, vram__t g, uint64_t aux) {
  g.fn = 0;
  return aux & VRAM__BETA ? vram__ti1(s, g) : vram__keep_t(s, g);
}

static void vram__bw_addmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__wants(f, 1))
    to[1] = vram__scaled(s, vram__mm_grad1(s, g, vram__factor(f, 1), vram__in_dims(s, f, 1, NULL)),
                         scale);
  if (vram__wants(f, 2))
    to[2] = vram__scaled(s, vram__mm_grad2(s, g, vram__factor(f, 0), vram__in_dims(s, f, 2, NULL)),
                         scale);
  if (vram__wants(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

static vram__t vram__t_baddbmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors) {
  vram__t in[3], y;
  vram__fn *f;
  in[0] = c, in[1] = a, in[2] = b;
  f = vram__record(s, VRAM__K_baddbmm, in, 3, 1, 2);
  vram__save_factors(s, f, 1, a, 2, b);
  if (f)
    f->aux |= factors;
  y = vram__bmm(s, a, b);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_baddbmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__wants(f, 1))
    to[1] = vram__scaled(s, vram__bmm(s, g, vram__turned(s, vram__factor(f, 1))), scale);
  if (vram__wants(f, 2))
    to[2] = vram__scaled(s, vram__bmm(s, vram__turned(s, vram__factor(f, 0)), g), scale);
  if (vram__wants(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

static void vram__bw_mv(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 0)) /* the outer product is a pointwise one */
    to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
  if (vram__wants(f, 1))
    to[1] = vram__mv(s, vram__turned(s, vram__factor(f, 0)), g);
}

static vram__t vram__t_dot(vram__s *s, vram__t a, vram__t b) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM__K_dot, in, 2, 1, 2);
  vram__save_factors(s, f, 0, a, 1, b);
  y = vram__empty(s, s->scalar, a.dt);
  vram__workspace(s, s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_dot(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2; i++)
    if (vram__wants(f, i))
      to[i] = vram__ti2(s, g, vram__factor(f, !i));
}

/* LinearAlgebra.cpp, should_fold */
static int vram__should_fold(vram__t a, vram__t b) {
  int larger = a.d->ndim >= b.d->ndim;
  const vram_dims *d = larger ? a.d : b.d;
  uint32_t other = larger ? b.d->ndim : a.d->ndim, i, n = d->ndim;
  int64_t st[VRAM_MAX_AXES], z[VRAM_MAX_AXES];
  if (n < 3 || other > 2)
    return 0;
  if (larger ? b.req : a.req)
    return 1;
  if (a.d->ndim == 2)
    return 0;
  if (!d->numel)
    return 1;
  for (i = 0; i < n; i++)
    st[i] = VRAM__STRIDE(d)[i], z[i] = d->v[i];
  if (!larger) {
    int64_t t = st[n - 1];
    st[n - 1] = st[n - 2], st[n - 2] = t;
    t = z[n - 1], z[n - 1] = z[n - 2], z[n - 2] = t;
  }
  for (i = 0; i + 2 < n; i++)
    if (st[i] != st[i + 1] * z[i + 1])
      return 0;
  return 1;
}

/* The axes of mask that are 1 go. */
static vram__t vram__t_squeeze(vram__s *s, vram__t x, uint32_t mask) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] != 1 || !(mask >> i & 1)) {
      mask &= ~(1u << i);
      size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
    }
  return vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM_OP_squeeze,
                    mask & ((1u << x.d->ndim) - 1));
}

static vram__t vram__t_squeeze1(vram__s *s, vram__t x, uint32_t axis) {
  return vram__t_squeeze(s, x, 1u << axis);
}

static const vram_dims *vram__unsqueezed(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES + 1], stride[VRAM_MAX_AXES + 1];
  uint32_t i, m = 0, n = d->ndim;
  for (i = 0; i <= n; i++)
    if (i == axis)
      size[i] = 1, stride[i] = m < n ? d->v[m] * VRAM__STRIDE(d)[m] : 1;
    else
      size[i] = d->v[m], stride[i] = VRAM__STRIDE(d)[m++];
  return vram__dims_in(s, n + 1, size, stride);
}

static vram__t vram__t_unsqueeze(vram__s *s, vram__t x, uint32_t axis) {
  return vram__view(s, x, vram__unsqueezed(s, x.d, axis), VRAM_OP_unsqueeze, axis);
}

/* The dims of d without an axis (squeeze). */
static const vram_dims *vram__without_axis(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != axis)
      size[m] = d->v[i], stride[m++] = VRAM__STRIDE(d)[i];
  return vram__dims_in(s, m, size, stride);
}

/* unsqueeze_multiple: the reduced axes of mask are back in t, which is borrowed */
static vram__t vram__kept(vram__s *s, vram__t t, const vram_dims *x, uint32_t mask) {
  uint32_t i;
  if (t.d->ndim != x->ndim)
    for (i = 0; i < x->ndim; i++)
      if (mask >> i & 1)
        t.d = vram__unsqueezed(s, t.d, i);
  return t;
}

static vram__t vram__t_contiguous(vram__s *s, vram__t x) {
  if (x.d->flags & VRAM__CONTIG)
    return vram__keep_t(s, x);
  if (s->ideal)
    return vram__view(s, x, vram__contig(s, x.d), VRAM__K_view, 0);
  return vram__t_clone(s, x, vram__contig(s, x.d));
}

/* LinearAlgebra.cpp, _matmul_impl */
static vram__t vram__t_matmul(vram__s *s, vram__t a, vram__t b) {
  uint32_t na = a.d->ndim, nb = b.d->ndim, i, n = 0;
  int64_t size[VRAM_MAX_AXES + 2], ea[VRAM_MAX_AXES + 2], eb[VRAM_MAX_AXES + 2], batch = 1;
  vram__t y, p, q, t;
  if (nb == 1 && na <= 2)
    return na == 1 ? vram__t_dot(s, a, b) : vram__t_product(s, VRAM__K_mv, a, b);
  if (na == 1 && nb == 2) { /* as a row */
    t = vram__t_unsqueeze(s, a, 0);
    y = vram__t_product(s, VRAM__K_mm, t, b);
    vram__let(s, t);
    t = vram__t_squeeze1(s, y, 0);
    vram__let(s, y);
    return t;
  }
  if (na == 2 && nb == 2)
    return vram__t_product(s, VRAM__K_mm, a, b);
  if (vram__should_fold(a, b)) {
    int turn = nb > na, matrix;
    vram__t big = turn ? vram__t_swap(s, b, nb - 2, nb - 1) : vram__keep_t(s, a);
    vram__t second = turn && na == 2 ? vram__t_swap(s, a, 0, 1) : vram__keep_t(s, turn ? a : b);
    int64_t fold[2];
    matrix = second.d->ndim == 2;
    n = big.d->ndim;
    fold[0] = 1, fold[1] = big.d->v[n - 1];
    for (i = 0; i + 1 < n; i++)
      fold[0] *= size[i] = big.d->v[i];
    if (matrix)
      size[i] = second.d->v[1];
    else
      n--;
    p = vram__t_reshape(s, big, 2, fold);
    q = matrix ? vram__t_product(s, VRAM__K_mm, p, second)
               : vram__t_product(s, VRAM__K_mv, p, second);
    vram__let(s, p);
    y = vram__unsafe_view(s, q, vram__dims_in(s, n, size, NULL));
    vram__let(s, second);
    vram__let(s, big);
    if (turn && matrix) {
      t = vram__t_swap(s, y, n - 2, n - 1);
      vram__let(s, y);
      y = vram__t_contiguous(s, t);
      vram__let(s, t);
    }
    return y;
  }
  if (na == 3 && nb == 3 && a.d->v[0] != b.d->v[0]) {
    if (a.d->v[0] == 1 && a.req) {
      t = vram__t_squeeze1(s, a, 0);
      y = vram__t_matmul(s, t, b);
      vram__let(s, t);
      return y;
    }
    if (b.d->v[0] == 1 && b.req) {
      t = vram__t_squeeze1(s, b, 0);
      y = vram__t_matmul(s, a, t);
      vram__let(s, t);
      return y;
    }
  }
  { /* both expanded to all batches; a vector counts as one row or one column */
    vram_dims da, db;
    vram__copy(&da, a.d, vram__dims_bytes(na));
    vram__copy(&db, b.d, vram__dims_bytes(nb));
    da.ndim = (uint8_t)(na > 2 ? na - 2 : 0), db.ndim = (uint8_t)(nb > 2 ? nb - 2 : 0);
    vram__bcast(&n, size, &da);
    vram__bcast(&n, size, &db);
  }
  for (i = 0; i < n; i++)
    ea[i] = eb[i] = size[i], batch *= size[i];
  ea[n] = na > 1 ? a.d->v[na - 2] : 1, ea[n + 1] = a.d->v[na - 1];
  eb[n] = b.d->v[nb > 1 ? nb - 2 : 0], eb[n + 1] = nb > 1 ? b.d->v[nb - 1] : 1;
  t = vram__t_expand(s, a, n + 2, ea);
  ea[n - 1] = batch;
  p = vram__t_reshape(s, t, 3, ea + n - 1);
  vram__let(s, t);
  t = vram__t_expand(s, b, nb > 1 ? n + 2 : n + 1, eb);
  eb[n - 1] = batch;
  q = vram__t_reshape(s, t, nb > 1 ? 3 : 2, eb + n - 1);
  vram__let(s, t);
  if (nb == 1) {
    t = vram__t_unsqueeze(s, q, 2);
    vram__let(s, q);
    q = t;
  }
  t = vram__t_product(s, VRAM__K_bmm, p, q);
  vram__let(s, p);
  vram__let(s, q);
  if (na > 1)
    size[n++] = a.d->v[na - 2];
  if (nb > 1)
    size[n++] = b.d->v[nb - 1];
  return vram__unsafe_view(s, t, vram__dims_in(s, n, size, NULL));
}

VRAM__SELDOM_END

