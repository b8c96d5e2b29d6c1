/* >>ops/product    matmul, mm, bmm, addmm, baddbmm, grouped_mm */
#include "ops/ops.h"

VRAM__FN int vram__shape_matmul(vram_graph *g, vram_node *n) {
  uint32_t first = n->nin - 2, ndim = 0, i;
  const vram_dims *a = n->in[first]->d, *b = n->in[first + 1]->d;
  int64_t size[VRAM_MAX_AXES + 2], ka, kb, dims[VRAM_MAX_AXES];
  static const struct {
    uint16_t op;
    uint8_t ndim;
  } fixed[] = {{VRAM_OP_mm, 2}, {VRAM_OP_addmm, 2}, {VRAM_OP_bmm, 3}, {VRAM_OP_baddbmm, 3}};
  for (i = 0; i < 4; i++)
    if (n->op == fixed[i].op && (a->ndim != fixed[i].ndim || b->ndim != fixed[i].ndim ||
                                 (a->ndim == 3 && a->v[0] != b->v[0])))
      return vram__bad(g, n, "matrices of another number of axes");
  if (!a->ndim || !b->ndim)
    return vram__bad(g, n, "a product of a tensor without axes");
  ka = a->v[a->ndim - 1];
  kb = b->v[b->ndim > 1 ? b->ndim - 2 : 0];
  if (ka != kb)
    return vram__bad(g, n, "inner sizes differ");
  for (i = 0; i + 2 < a->ndim; i++)
    size[ndim++] = a->v[i];
  if (b->ndim > 2) {
    vram_dims t = *b;
    t.ndim = (uint8_t)(b->ndim - 2);
    if (!vram__bcast(&ndim, size, &t))
      return vram__bad(g, n, "batches do not broadcast");
  }
  if (a->ndim > 1)
    size[ndim++] = a->v[a->ndim - 2];
  if (b->ndim > 1)
    size[ndim++] = b->v[b->ndim - 1];
  if (n->nin == 3) {
    for (i = 0; i < ndim; i++)
      dims[i] = size[i];
    i = ndim;
    if (!vram__bcast(&i, dims, n->in[0]->d) || i != ndim)
      return vram__bad(g, n, "the added tensor does not broadcast");
  }
  if (ndim > 2)
    g->extra += 2048;
  return vram__out(g, n, 0, ndim, size, n->in[first]->dtype);
}

/* Products of groups: [rows,k] x [groups,k,n] with the rows split by the offsets, or the other
   operand or the inner size split. */
VRAM__FN int vram__shape_grouped_mm(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d, *o = n->in[2]->d;
  int64_t size[3];
  uint32_t m = 0;
  if (a->ndim < 2 || a->ndim > 3 || b->ndim < 2 || b->ndim > 3)
    return vram__bad(g, n, "operands of other than two or three axes");
  if (o->ndim != 1 || n->in[2]->dtype != VRAM_I32)
    return vram__bad(g, n, "offsets that are no list of i32");
  if (a->v[a->ndim - 1] != b->v[b->ndim - 2])
    return vram__bad(g, n, "inner sizes differ");
  if (a->ndim == 3 && b->ndim == 3)
    return vram__bad(g, n, "offsets where nothing is split: two operands of three axes");
  if (a->ndim != b->ndim && o->v[0] != (a->ndim == 3 ? a : b)->v[0])
    return vram__bad(g, n, "other offsets than groups");
  if (n->in[0]->dtype != n->in[1]->dtype || !vram__is_float(n->in[0]->dtype))
    return vram__bad(g, n, "operands of different dtypes");
  if (a->ndim == b->ndim)
    size[m++] = o->v[0];
  size[m++] = a->v[a->ndim - 2];
  size[m++] = b->v[b->ndim - 1];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* Saves what two factors keep: each only if the other wants a gradient; aux says which. */
VRAM__FN void vram__save_factors(vram__s *s, vram__fn *f, uint32_t ia, vram__t a, uint32_t ib,
                                 vram__t b) {
  if (!f)
    return;
  if (vram__wants(f, ib))
    vram__save(s, f, a), f->aux |= 1;
  if (vram__wants(f, ia))
    vram__save(s, f, b), f->aux |= 2;
}

VRAM__FN vram__t vram__factor(vram__fn *f, uint32_t which) {
  return VRAM__SAVED(f)[which && (f->aux & 1) ? 1 : 0];
}

/* A product with autograd: of matrices, of batches of them, of a matrix and a vector. */
VRAM__FN vram__t vram__t_product(vram__s *s, uint32_t kind, vram__t a, vram__t b) {
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

VRAM__FN void vram__bw_mm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 1))
    to[1] = vram__mm_grad2(s, g, vram__factor(f, 0), vram__in_dims(s, f, 1, NULL));
  if (vram__wants(f, 0))
    to[0] = vram__mm_grad1(s, g, vram__factor(f, 1), vram__in_dims(s, f, 0, NULL));
}

VRAM__FN void vram__bw_bmm(vram__s *s, vram__fn *f, vram__t *to) {
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
VRAM__FN vram__t vram__t_addmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors) {
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

VRAM__FN void vram__bw_addmm(vram__s *s, vram__fn *f, vram__t *to) {
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

VRAM__FN void vram__bw_baddbmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__wants(f, 1))
    to[1] = vram__scaled(s, vram__bmm(s, g, vram__turned(s, vram__factor(f, 1))), scale);
  if (vram__wants(f, 2))
    to[2] = vram__scaled(s, vram__bmm(s, vram__turned(s, vram__factor(f, 0)), g), scale);
  if (vram__wants(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

VRAM__FN void vram__bw_mv(vram__s *s, vram__fn *f, vram__t *to) {
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

VRAM__FN void vram__bw_dot(vram__s *s, vram__fn *f, vram__t *to) {
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

/* LinearAlgebra.cpp, _matmul_impl */
VRAM__FN vram__t vram__t_matmul(vram__s *s, vram__t a, vram__t b) {
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

VRAM__FN void vram__run_product(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3];
  uint32_t i, factors = 0;
  if (VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__ALPHA;
  if (VRAM__INT(n, beta, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__BETA;
  for (i = n->nin; i-- > 0;)
    a[i] = s->amp ? vram__autocast(s, x[i], s->amp) : vram__keep_t(s, x[i]);
  switch (n->op) {
  case VRAM_OP_bmm:
    y[0] = vram__t_product(s, VRAM__K_bmm, a[0], a[1]);
    break;
  case VRAM_OP_mm:
    y[0] = vram__t_product(s, VRAM__K_mm, a[0], a[1]);
    break;
  case VRAM_OP_addmm:
    y[0] = vram__t_addmm(s, a[0], a[1], a[2], factors);
    break;
  case VRAM_OP_baddbmm:
    y[0] = vram__t_baddbmm(s, a[0], a[1], a[2], factors);
    break;
  default:
    y[0] = vram__t_matmul(s, a[0], a[1]);
    break;
  }
  for (i = 0; i < n->nin; i++)
    vram__let(s, a[i]);
}

/* One grouped product into y: a CUTLASS kernel with its list of problems (GroupMM.cu: three lists
   of pointers, three of strides, the sizes), or one product a group where there is none. The
   offsets are data: whether a group has rows, and its product a workspace, only the upper bound
   can say. */
static void vram__group_products(vram__s *s, vram__t a, int64_t groups) {
  uint32_t list, work;
  if (a.dt == VRAM_BF16 && s->cc >= 90 && s->cc < 120) {
    uint64_t g = (uint64_t)groups;
    list = vram__held(s, 3 * ((8 * g + 15) & ~UINT64_C(15)) + 3 * (8 * g) + 3 * (4 * g));
    work = vram__held(s, (uint64_t)s->sm *
                             (s->cc == 90 ? VRAM__RULE_GROUPED_SM90 : VRAM__RULE_GROUPED_SM100));
    vram__held_gone(s, work);
    vram__held_gone(s, list);
    return;
  }
  if (groups)
    vram__may_need(s, s->ws / 4);
}

VRAM__FN vram__t vram__t_grouped(vram__s *s, vram__t a, vram__t b, vram__t offsets,
                                 const vram_dims *d) {
  vram__t in[2], y;
  vram__fn *f;
  int64_t groups = a.d->ndim == 3 ? a.d->v[0] : b.d->ndim == 3 ? b.d->v[0] : offsets.d->v[0];
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM_OP_grouped_mm, in, 2, 1, 3);
  vram__save_factors(s, f, 0, a, 1, b);
  if (f) {
    vram__save(s, f, offsets);
    f->aux |= (uint64_t)groups << 2;
  }
  y = vram__empty(s, d, a.dt);
  vram__group_products(s, a, groups);
  vram__made(s, f, 0, &y);
  return y;
}

VRAM__FN void vram__run_grouped_mm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__t_grouped(s, x[0], x[1], x[2], n->out[0].d);
}

/* the gradient of an operand that is stored by columns is stored so, too */
VRAM__FN void vram__bw_grouped_mm(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 2; i-- > 0;) {
    const vram_dims *d;
    const int64_t *st;
    if (!vram__wants(f, i))
      continue;
    d = vram__in_dims(s, f, i, NULL);
    st = VRAM__STRIDE(d) + d->ndim - 2;
    if (st[0] == 1 && st[1] == d->v[d->ndim - 2])
      to[i] = vram__empty(s, vram__dense(s, d), g.dt);
    else
      to[i] = vram__empty(s, vram__contig(s, d), g.dt);
    vram__group_products(s, g, (int64_t)(f->aux >> 2));
  }
}

#endif /* VRAM_NO_STEP */
