/* >>ops/copy    ops that copy what they are given: cat, stack, roll, flip, repeat, clone, to */
#include "ops/ops.h"

/* roll and flip: the axes must be there */
VRAM__FN int vram__shape_roll(vram_graph *g, vram_node *n) {
  uint32_t c, k, i, a;
  const int64_t *v = vram__list(n, VRAM__KEY_dims, &c);
  if (n->op == VRAM_OP_roll) {
    vram__list(n, VRAM__KEY_shifts, &k);
    if (v ? k != c : k != 1)
      return vram__bad(g, n, "as many shifts as dims are needed");
  }
  for (i = 0; i < c; i++)
    if (!vram__axis(g, v[i], n->in[0]->d->ndim, &a))
      return 0;
  return vram__out_d(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* How often each axis of the result repeats x (axes that x lacks come first). */
static uint32_t vram__repeats(const vram_node *n, uint32_t ndim, int64_t *to) {
  uint32_t c, i, k;
  const int64_t *v = vram__list(n, n->op == VRAM_OP_tile ? VRAM__KEY_dims : VRAM__KEY_repeats, &c);
  k = c > ndim ? c : ndim;
  for (i = 0; i < k; i++)
    to[i] = i < k - c ? 1 : v[i - (k - c)];
  return k;
}

VRAM__FN int vram__shape_repeat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r[VRAM_MAX_AXES];
  uint32_t c, i, k = vram__repeats(n, x->ndim, r);
  vram__list(n, VRAM__KEY_repeats, &c);
  if (n->op == VRAM_OP_repeat && c < x->ndim)
    return vram__bad(g, n, "fewer repeats than axes");
  for (i = 0; i < k; i++) {
    uint64_t z = i < k - x->ndim ? 1 : (uint64_t)x->v[i - (k - x->ndim)];
    if (r[i] < 0 || (z = vram__mul(z, (uint64_t)r[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "repeats out of range");
    size[i] = (int64_t)z;
  }
  return vram__out(g, n, 0, k, size, n->in[0]->dtype);
}

VRAM__FN int vram__shape_repeat_interleave(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r = vram__int(n, VRAM__KEY_repeats, 1);
  uint32_t c, i, a = 0, ndim = x->ndim;
  uint64_t z;
  vram__list(n, VRAM__KEY_repeats, &c);
  if (c != 1 || r < 0)
    return vram__bad(g, n, "repeats must be one number");
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    if (!x->ndim || x->ndim >= VRAM_MAX_AXES)
      return vram__bad(g, n, "repeat_interleave of a tensor without axes or of 8");
    if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
      return 0;
    for (i = 0; i < ndim; i++)
      size[i] = x->v[i];
  } else
    ndim = 1, size[0] = (int64_t)x->numel;
  if ((z = vram__mul((uint64_t)size[a], (uint64_t)r)) == VRAM_OVERFLOW)
    return vram__bad(g, n, "repeats out of range");
  size[a] = (int64_t)z;
  return vram__out(g, n, 0, ndim, size, n->in[0]->dtype);
}

/* TensorShape.h, cat_should_skip_tensor: an empty list is left out whatever the others are */
static int vram__cat_skips(const vram_dims *d) { return d->ndim == 1 && !d->v[0]; }

VRAM__FN int vram__shape_cat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  for (k = 1; k < n->nin && vram__cat_skips(x); k++)
    x = n->in[k]->d;
  if (!x->ndim)
    return vram__bad(g, n, "cat of tensors without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[a] = 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
    if (vram__cat_skips(d))
      continue;
    if (d->ndim != x->ndim)
      return vram__bad(g, n, "cat of tensors of different axes");
    for (i = 0; i < x->ndim; i++)
      if (i == a) {
        if (d->v[i] > INT64_MAX / 2 - size[a])
          return vram__bad(g, n, "a size out of range");
        size[a] += d->v[i];
      } else if (d->v[i] != size[i])
        return vram__bad(g, n, "cat of tensors of different sizes");
  }
  return vram__out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

VRAM__FN int vram__shape_stack(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k, m = 0;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    for (i = 0; i < x->ndim; i++)
      if (d->ndim != x->ndim || d->v[i] != x->v[i])
        return vram__bad(g, n, "stack of tensors of different sizes");
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
  }
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? (int64_t)n->nin : x->v[m++];
  return vram__out(g, n, 0, x->ndim + 1u, size, vram__promote_get(&p));
}

#ifndef VRAM_NO_STEP

/* The result of at::cat: channels-last if all pieces are stored so. d: contiguous dims. */
VRAM__FN const vram_dims *vram__cat_dims(vram__s *s, const vram_dims *d, int cl) {
  return cl && (d->ndim == 4 || d->ndim == 5) ? vram__as_cl(s, d) : d;
}

VRAM__FN void vram__run_cat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t i, a;
  int cl = 1;
  vram__promote p;
  vram__fn *f;
  vram__zero(&p, sizeof p);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->out[0].d->ndim, &a);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, x[i].dt, x[i].d->ndim);
  for (i = 0; cl && i < n->nin; i++)
    cl = n->out[0].d->ndim > 3 &&
         vram__suggests_cl(n->op == VRAM_OP_stack ? vram__unsqueezed(s, x[i].d, a) : x[i].d);
  f = vram__record(s, n->op, x, n->nin, 1, 0);
  if (f) {
    f->aux = a;
    for (i = 0; i < n->nin; i++)
      if (!vram__wants(f, i)) /* where the next piece begins */
        VRAM__EDGES(f)
    [i].out = n->op == VRAM_OP_cat && !vram__cat_skips(x[i].d) ? (uint32_t)x[i].d->v[a] : 0;
  }
  y[0] = vram__empty(s, vram__cat_dims(s, n->out[0].d, cl), vram__promote_get(&p));
  vram__made(s, f, 0, &y[0]);
}

/* the gradients are views of g */
VRAM__FN void vram__bw_cat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i, j, a = (uint32_t)f->aux;
  int stack = f->kind == VRAM_OP_stack;
  int64_t at = 0;
  for (i = 0; i < f->nin; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    const vram_dims *d;
    if (!vram__wants(f, i)) {
      at += VRAM__EDGES(f)[i].out;
      continue;
    }
    d = vram__in_dims(s, f, i, NULL);
    if (!stack && vram__cat_skips(d)) {
      to[i] = vram__empty(s, d, g.dt);
      continue;
    }
    for (j = 0; j < g.d->ndim; j++) {
      if (stack && j == a)
        continue;
      size[m] = d->v[m];
      stride[m++] = VRAM__STRIDE(g.d)[j];
    }
    to[i] = vram__alias(s, g, vram__dims_in(s, m, size, stride));
    to[i].off = vram__at(g, a, stack ? (int64_t)i : at);
    at += stack ? 0 : d->v[a];
  }
}

/* roll_cuda: one axis after the other, each a contiguous tensor */
static vram__t vram__rolled(vram__s *s, vram__t x, uint32_t times) {
  vram__t t = vram__none(), c, y;
  vram__t mid[2 * VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < times; i++) {
    c = t.d ? t : x;
    c = c.d->flags & VRAM__CONTIG ? vram__none() : vram__contiguous(s, c);
    y = vram__empty(s, vram__dims_in(s, x.d->ndim, x.d->v, NULL), x.dt);
    vram__let(s, c);
    if (t.d)
      mid[i - 1] = t;
    t = y;
  }
  for (i = times - 1; i-- > 0;)
    vram__let(s, mid[i]);
  return t;
}

VRAM__FN void vram__run_roll(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t c;
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  vram__list(n, VRAM__KEY_dims, &c);
  if (!c)
    c = 1;
  if (f)
    f->aux = c;
  y[0] = vram__rolled(s, x[0], c);
  vram__made(s, f, 0, &y[0]);
}

VRAM__FN void vram__bw_roll(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__rolled(s, VRAM__SLOTS(f)[0].g, (uint32_t)f->aux);
}

VRAM__FN void vram__run_flip(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

VRAM__FN void vram__bw_flip(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__dense(s, g.d), g.dt);
}

VRAM__FN void vram__run_repeat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, VRAM_OP_repeat, x, 1, 1, 0);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

/* repeat_backward: new axes are summed one by one, the others in one go */
VRAM__FN void vram__bw_repeat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int64_t size[2 * VRAM_MAX_AXES];
  uint32_t i, m = 0, mask = 0, k = g.d->ndim - (uint32_t)d->ndim;
  g.fn = 0;
  t = vram__keep_t(s, g);
  for (i = 0; i < k; i++) {
    vram__t sum = vram__sum(s, t, 1, 0, t.dt);
    vram__let(s, t);
    t = sum;
  }
  for (i = 0; i < d->ndim; i++) {
    int64_t r = d->v[i] ? t.d->v[i] / d->v[i] : 1;
    if (r != 1)
      mask |= 1u << m, size[m++] = r;
    size[m++] = d->v[i];
  }
  if (m > VRAM_MAX_AXES) {
    vram__let(s, t);
    t = vram__empty(s, vram__contig(s, d), g.dt);
  } else if (mask) {
    vram__t u = vram__reshape(s, t, m, size), sum;
    sum = vram__sum(s, u, mask, 0, t.dt);
    vram__let(s, u);
    vram__let(s, t);
    t = sum;
  }
  to[0] = t;
}

/* TensorFactories: unsqueeze, expand, clone, flatten */
VRAM__FN void vram__run_repeat_interleave(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t a = 0, i, ndim;
  vram__t t, u;
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
    t = vram__keep_t(s, x[0]);
  } else {
    size[0] = (int64_t)x[0].d->numel;
    t = vram__t_reshape(s, x[0], 1, size);
  }
  ndim = t.d->ndim;
  u = vram__t_unsqueeze(s, t, a + 1);
  vram__let(s, t);
  for (i = 0; i <= ndim; i++)
    size[i] = i == a + 1 ? vram__int(n, VRAM__KEY_repeats, 1) : u.d->v[i];
  t = vram__t_expand(s, u, ndim + 1, size);
  vram__let(s, u);
  u = vram__t_clone(s, t, vram__dims_in(s, ndim + 1, size, NULL));
  vram__let(s, t);
  y[0] = vram__view(s, u, n->out[0].d, VRAM__K_view, 0);
  vram__let(s, u);
}

VRAM__FN void vram__run_contiguous(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_contiguous(s, x[0]);
}

VRAM__FN void vram__run_clone(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_clone(s, x[0], vram__dense(s, x[0].d));
}

VRAM__FN void vram__bw_clone(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  g.fn = 0;
  to[0] = vram__keep_t(s, g);
}

VRAM__FN void vram__run_to(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = n->op == VRAM_OP_to ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : x[1].dt;
  if (n->op == VRAM_OP_to && s->low && dt == VRAM_F32)
    dt = s->low;
  y[0] = vram__t_cast(s, x[0], dt);
}

VRAM__FN void vram__bw_cast(vram__s *s, vram__fn *f, vram__t *to) {
  uint8_t dt;
  vram__in_dims(s, f, 0, &dt);
  to[0] = vram__to(s, VRAM__SLOTS(f)[0].g, dt);
}

#endif /* VRAM_NO_STEP */
