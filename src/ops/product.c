/* >>ops/product    matmul, mm, bmm, mv, dot, addmm, baddbmm, addbmm, addmv, addr, grouped_mm */
#include "ops/ops.h"

/* The first input is added to a result of that size. */
static int vram__shape_added(vram_graph *g, vram_node *n, uint32_t ndim, const int64_t *size) {
  int64_t dims[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < ndim; i++)
    dims[i] = size[i];
  if (!vram__dims_broadcast(&i, dims, n->in[0]->d) || i != ndim)
    return vram__node_error(g, n, "the added tensor does not broadcast");
  return 1;
}

static int vram__shape_matmul(vram_graph *g, vram_node *n) {
  uint32_t first = n->nin - 2, ndim = 0, i;
  const vram_dims *a = n->in[first]->d, *b = n->in[first + 1]->d;
  int64_t size[VRAM_MAX_AXES + 2] = {0}, ka, kb;
  static const struct {
    uint16_t op;
    uint8_t ndim;
  } fixed[] = {{VRAM_OP_mm, 2}, {VRAM_OP_addmm, 2}, {VRAM_OP_bmm, 3}, {VRAM_OP_baddbmm, 3}};
  for (i = 0; i < 4; i++)
    if (n->op == fixed[i].op && (a->ndim != fixed[i].ndim || b->ndim != fixed[i].ndim ||
                                 (a->ndim == 3 && a->v[0] != b->v[0])))
      return vram__node_error(g, n, "matrices of another number of axes");
  if (((n->op == VRAM_OP_mv || n->op == VRAM_OP_addmv) && (a->ndim != 2 || b->ndim != 1)) ||
      (n->op == VRAM_OP_dot && (a->ndim != 1 || b->ndim != 1)))
    return vram__node_error(g, n, "matrices of another number of axes");
  if (!a->ndim || !b->ndim)
    return vram__node_error(g, n, "a product of a tensor without axes");
  ka = a->v[a->ndim - 1];
  kb = b->v[b->ndim > 1 ? b->ndim - 2 : 0];
  if (ka != kb)
    return vram__node_error(g, n, "inner sizes differ");
  for (i = 0; i + 2 < a->ndim; i++)
    size[ndim++] = a->v[i];
  if (b->ndim > 2) {
    vram_dims t = *b;
    t.ndim = (uint8_t)(b->ndim - 2);
    if (!vram__dims_broadcast(&ndim, size, &t))
      return vram__node_error(g, n, "batches do not broadcast");
  }
  if (a->ndim > 1)
    size[ndim++] = a->v[a->ndim - 2];
  if (b->ndim > 1)
    size[ndim++] = b->v[b->ndim - 1];
  if (n->nin == 3 && !vram__shape_added(g, n, ndim, size))
    return 0;
  if (ndim > 2)
    g->extra += 2048;
  return vram__node_out(g, n, 0, ndim, size, n->in[first]->dtype);
}

/* A batch of products, summed up: [n,m,k] x [n,k,p] to [m,p]; and the outer product of two vectors.
 */
static int vram__shape_addbmm(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[1]->d, *b = n->in[2]->d;
  const uint32_t axes = n->op == VRAM_OP_addr ? 1 : 3;
  int64_t size[2];
  if (a->ndim != axes || b->ndim != axes)
    return vram__node_error(g, n, "matrices of another number of axes");
  if (axes == 3 && (a->v[0] != b->v[0] || a->v[2] != b->v[1]))
    return vram__node_error(g, n, "inner sizes differ");
  size[0] = a->v[axes / 2];
  size[1] = b->v[axes - 1];
  if (!vram__shape_added(g, n, 2, size))
    return 0;
  g->extra += 2048;
  return vram__node_out(g, n, 0, 2, size, n->in[1]->dtype);
}

/* Products of groups: [rows,k] x [groups,k,n] with the rows split by the offsets, or the other
   operand or the inner size split. */
static int vram__shape_grouped_mm(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d, *o = n->in[2]->d;
  int64_t size[3];
  uint32_t m = 0;
  if (a->ndim < 2 || a->ndim > 3 || b->ndim < 2 || b->ndim > 3)
    return vram__node_error(g, n, "operands of other than two or three axes");
  if (o->ndim != 1 || n->in[2]->dtype != VRAM_I32)
    return vram__node_error(g, n, "offsets that are no list of i32");
  if (a->v[a->ndim - 1] != b->v[b->ndim - 2])
    return vram__node_error(g, n, "inner sizes differ");
  if (a->ndim == 3 && b->ndim == 3)
    return vram__node_error(g, n, "offsets where nothing is split: two operands of three axes");
  if (a->ndim != b->ndim && o->v[0] != (a->ndim == 3 ? a : b)->v[0])
    return vram__node_error(g, n, "other offsets than groups");
  if (n->in[0]->dtype != n->in[1]->dtype)
    return vram__node_error(g, n, "operands of different dtypes");
  if (n->in[0]->dtype != VRAM_F32 && n->in[0]->dtype != VRAM_BF16 && n->in[0]->dtype != VRAM_F16)
    return vram__node_error(g, n, "operands that are not f32, bf16 or f16");
  if (a->ndim == b->ndim)
    size[m++] = o->v[0];
  size[m++] = a->v[a->ndim - 2];
  size[m++] = b->v[b->ndim - 1];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

/* A product: twice the output's elements by the axis that is summed over. */
static uint64_t vram__flops_of_product(const vram_node *n, const vram_dims *x) {
  const uint64_t k = x->ndim ? (uint64_t)x->v[x->ndim - 1] : 1;
  return vram__product_or_overflow(2, vram__product_or_overflow(n->out[0].d->numel, k));
}

VRAM__FN uint64_t vram__flops_product(const vram_node *n) {
  return vram__flops_of_product(n, n->in[0]->d);
}

static uint64_t vram__flops_addmm(const vram_node *n) {
  return vram__flops_of_product(n, n->in[1]->d);
}

static uint64_t vram__flops_addbmm(const vram_node *n) {
  return vram__product_or_overflow(vram__flops_addmm(n), (uint64_t)n->in[1]->d->v[0]);
}

#ifndef VRAM_NO_STEP

/* Saves what two factors, inputs `first` and the one behind it, keep: each only if the other wants
   a gradient. mm and bmm save mat2 before self; aux says where each of the two is. */
VRAM__FN void vram__save_factors(vram__step *s, vram__grad_fn *f, const vram__tensor *in,
                                 uint32_t first, int second_first) {
  uint32_t i;
  for (i = 0; f && i < 2; i++) {
    const uint32_t which = second_first ? 1 - i : i;
    if (!vram__input_wanted(f, first + 1 - which))
      continue;
    f->aux |= (uint64_t)f->nsaved << which;
    vram__save_tensor(s, f, in[first + which]);
  }
}

VRAM__FN vram__tensor vram__factor(vram__grad_fn *f, uint32_t which) {
  return VRAM__SAVED(f)[f->aux >> which & 1];
}

static void vram__product_refuse(vram__step *s, vram__tensor a) {
  if (vram__kind_rank(a.dt) < 2)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "a product of integers: PyTorch has no kernel on this device");
}

/* A product with autograd: of matrices, of batches of them, of a matrix and a vector. */
VRAM__FN vram__tensor vram__torch_product(vram__step *s, uint32_t kind, vram__tensor a,
                                          vram__tensor b) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
  in[0] = a;
  in[1] = b;
  vram__refuse_unlike(s, in, 2);
  vram__product_refuse(s, a);
  f = vram__tape_record(s, kind, in, 2, 1, 2);
  vram__save_factors(s, f, in, 0, kind != VRAM__K_mv);
  y = kind == VRAM__K_mm    ? vram__blas_mm(s, a, b)
      : kind == VRAM__K_bmm ? vram__blas_bmm(s, a, b)
                            : vram__blas_mv(s, a, b);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

VRAM__FN void vram__backward_mm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 1))
    to[1] = vram__blas_mm_grad2(s, g, vram__factor(f, 0), vram__input_dims(s, f, 1, NULL));
  if (vram__input_wanted(f, 0))
    to[0] = vram__blas_mm_grad1(s, g, vram__factor(f, 1), vram__input_dims(s, f, 0, NULL));
}

VRAM__FN void vram__backward_bmm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 1))
    to[1] = vram__blas_bmm(s, vram__tensor_turned(s, vram__factor(f, 0)), g);
  if (vram__input_wanted(f, 0))
    to[0] = vram__blas_bmm(s, g, vram__tensor_turned(s, vram__factor(f, 1)));
}

#define VRAM__ALPHA 4u /* aux of a product that adds: alpha is not 1 */
#define VRAM__BETA 8u
#define VRAM__NO_BETA 16u /* it is 0 */

/* Is the added tensor c of a [m,k] x [k,n] product one that cuBLASLt adds itself? One value a
   column, and in 16 bits also a matrix of the result's shape stored by rows (Blas.cpp; measured).
 */
static int vram__lt_bias(vram__tensor c, int64_t m, int64_t n, int64_t k, uint32_t factors) {
  const int64_t *st = VRAM__STRIDE(c.d), *z = c.d->v;
  if (n <= 1 || k <= 1)
    return 0;
  if (c.d->ndim == 2 && z[0] > 1 && z[0] == m && z[1] == n && vram__dtype_size(c.dt) == 2 &&
      st[1] == 1 && st[0] >= n)
    return !(factors & VRAM__NO_BETA);
  return (c.d->ndim == 1 || (c.d->ndim == 2 && z[0] == 1)) && c.d->numel == (uint64_t)n &&
         (c.d->flags & VRAM__CONTIG) && !(factors & VRAM__BETA);
}

/* beta c + alpha a b. What cuBLASLt does not add is first written into the result. */
VRAM__FN vram__tensor vram__torch_addmm(vram__step *s, vram__tensor c, vram__tensor a,
                                        vram__tensor b, uint32_t factors) {
  vram__tensor in[3], y;
  vram__grad_fn *f;
  int64_t size[2];
  size[0] = a.d->v[0];
  size[1] = b.d->v[1];
  in[0] = c;
  in[1] = a;
  in[2] = b;
  vram__refuse_unlike(s, in, 3);
  f = vram__tape_record(s, VRAM__K_addmm, in, 3, 1, 2);
  vram__save_factors(s, f, in, 1, 0);
  if (f)
    f->aux |= factors;
  y = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__blas_gemm(s, a, b,
                  vram__lt_bias(c, size[0], size[1], a.d->v[1], factors) ? VRAM__CUBLASLT
                                                                         : VRAM__CUBLAS);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static vram__tensor vram__added_grad(vram__step *s, vram__tensor g, uint64_t aux) {
  return aux & VRAM__BETA ? vram__pointwise_empty1(s, g) : vram__tensor_retain(s, g);
}

VRAM__FN void vram__backward_addmm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__input_wanted(f, 1))
    to[1] = vram__tensor_scaled(
        s, vram__blas_mm_grad1(s, g, vram__factor(f, 1), vram__input_dims(s, f, 1, NULL)), scale);
  if (vram__input_wanted(f, 2))
    to[2] = vram__tensor_scaled(
        s, vram__blas_mm_grad2(s, g, vram__factor(f, 0), vram__input_dims(s, f, 2, NULL)), scale);
  if (vram__input_wanted(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

static vram__tensor vram__torch_baddbmm(vram__step *s, vram__tensor c, vram__tensor a,
                                        vram__tensor b, uint32_t factors) {
  vram__tensor in[3], y;
  vram__grad_fn *f;
  in[0] = c;
  in[1] = a;
  in[2] = b;
  vram__refuse_unlike(s, in, 3);
  f = vram__tape_record(s, VRAM__K_baddbmm, in, 3, 1, 2);
  vram__save_factors(s, f, in, 1, 0);
  if (f)
    f->aux |= factors;
  y = vram__blas_bmm(s, a, b);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

VRAM__FN void vram__backward_baddbmm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__input_wanted(f, 1))
    to[1] = vram__tensor_scaled(s, vram__blas_bmm(s, g, vram__tensor_turned(s, vram__factor(f, 1))),
                                scale);
  if (vram__input_wanted(f, 2))
    to[2] = vram__tensor_scaled(s, vram__blas_bmm(s, vram__tensor_turned(s, vram__factor(f, 0)), g),
                                scale);
  if (vram__input_wanted(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

VRAM__FN void vram__backward_mv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 0)) /* the outer product is a pointwise one */
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)), g.dt);
  if (vram__input_wanted(f, 1))
    to[1] = vram__blas_mv(s, vram__tensor_turned(s, vram__factor(f, 0)), g);
}

static vram__tensor vram__torch_dot(vram__step *s, vram__tensor a, vram__tensor b) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
  in[0] = a;
  in[1] = b;
  vram__refuse_unlike(s, in, 2);
  f = vram__tape_record(s, VRAM__K_dot, in, 2, 1, 2);
  vram__save_factors(s, f, in, 0, 0);
  y = vram__tensor_empty(s, s->scalar, a.dt);
  vram__blas_workspace(s, VRAM__CUBLAS);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

VRAM__FN void vram__backward_dot(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2; i++)
    if (vram__input_wanted(f, i))
      to[i] = vram__pointwise_empty2(s, g, vram__factor(f, !i));
}

/* LinearAlgebra.cpp, should_fold */
static int vram__should_fold(const vram__step *s, vram__tensor a, vram__tensor b) {
  int larger = a.d->ndim >= b.d->ndim;
  const vram_dims *d = larger ? a.d : b.d;
  uint32_t other = larger ? b.d->ndim : a.d->ndim, i, n = d->ndim;
  int64_t st[VRAM_MAX_AXES], z[VRAM_MAX_AXES];
  if (n < 3 || other > 2)
    return 0;
  if (vram__tensor_wants_grad(s, larger ? b : a))
    return 1;
  if (a.d->ndim == 2)
    return 0;
  if (!d->numel)
    return 1;
  for (i = 0; i < n; i++) {
    st[i] = VRAM__STRIDE(d)[i];
    z[i] = d->v[i];
  }
  if (!larger) {
    int64_t t = st[n - 1];
    st[n - 1] = st[n - 2];
    st[n - 2] = t;
    t = z[n - 1];
    z[n - 1] = z[n - 2];
    z[n - 2] = t;
  }
  for (i = 0; i + 2 < n; i++)
    if (st[i] != st[i + 1] * z[i + 1])
      return 0;
  return 1;
}

/* A vector as one row. */
static vram__tensor vram__matmul_row(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram__tensor row = vram__torch_unsqueeze(s, a, 0);
  const vram__tensor y = vram__torch_product(s, VRAM__K_mm, row, b);
  vram__tensor t;
  vram__tensor_release(s, row);
  t = vram__torch_squeeze1(s, y, 0);
  vram__tensor_release(s, y);
  return t;
}

/* The batches of the larger operand are rows of one matrix (should_fold). */
static vram__tensor vram__matmul_folded(vram__step *s, vram__tensor a, vram__tensor b) {
  const uint32_t na = a.d->ndim, nb = b.d->ndim;
  const int turn = nb > na;
  const vram__tensor big =
      turn ? vram__torch_swap(s, b, nb - 2, nb - 1) : vram__tensor_retain(s, a);
  const vram__tensor second =
      turn && na == 2 ? vram__torch_swap(s, a, 0, 1) : vram__tensor_retain(s, turn ? a : b);
  const int matrix = second.d->ndim == 2;
  int64_t size[VRAM_MAX_AXES], fold[2];
  uint32_t i, n = big.d->ndim;
  vram__tensor rows, product, y, t;
  fold[0] = 1;
  fold[1] = big.d->v[n - 1];
  for (i = 0; i + 1 < n; i++) {
    size[i] = big.d->v[i];
    fold[0] *= size[i];
  }
  if (matrix)
    size[i] = second.d->v[1];
  else
    n--;
  rows = vram__torch_reshape(s, big, 2, fold);
  product = vram__torch_product(s, matrix ? VRAM__K_mm : VRAM__K_mv, rows, second);
  vram__tensor_release(s, rows);
  y = vram__torch_unsafe_view(s, product, vram__dims_in(s, n, size, NULL));
  vram__tensor_release(s, second);
  vram__tensor_release(s, big);
  if (turn && matrix) {
    t = vram__torch_swap(s, y, n - 2, n - 1);
    vram__tensor_release(s, y);
    y = vram__torch_contiguous(s, t);
    vram__tensor_release(s, t);
  }
  return y;
}

/* The axes before the last two of both, broadcast: how many. */
static uint32_t vram__matmul_batches(const vram_dims *a, const vram_dims *b, int64_t *size) {
  vram_dims of_a, of_b;
  uint32_t n = 0;
  vram__memory_copy(&of_a, a, vram__dims_bytes(a->ndim));
  vram__memory_copy(&of_b, b, vram__dims_bytes(b->ndim));
  of_a.ndim = (uint8_t)(a->ndim > 2 ? a->ndim - 2 : 0);
  of_b.ndim = (uint8_t)(b->ndim > 2 ? b->ndim - 2 : 0);
  vram__dims_broadcast(&n, size, &of_a);
  vram__dims_broadcast(&n, size, &of_b);
  return n;
}

/* x expanded to n batches and then taken as one batch; size: n batches, then x's own axes. */
static vram__tensor vram__matmul_operand(vram__step *s, vram__tensor x, uint32_t n, uint32_t ndim,
                                         int64_t *size) {
  const vram__tensor t = vram__torch_expand(s, x, ndim, size);
  vram__tensor y;
  int64_t batch = 1;
  uint32_t i;
  for (i = 0; i < n; i++)
    batch *= size[i];
  size[n - 1] = batch;
  y = vram__torch_reshape(s, t, ndim - n + 1, size + n - 1);
  vram__tensor_release(s, t);
  return y;
}

/* Both expanded to all batches; a vector counts as one row or one column. */
static vram__tensor vram__matmul_batched(vram__step *s, vram__tensor a, vram__tensor b) {
  const uint32_t na = a.d->ndim, nb = b.d->ndim;
  int64_t size[VRAM_MAX_AXES + 2], of_a[VRAM_MAX_AXES + 2], of_b[VRAM_MAX_AXES + 2];
  uint32_t i, n = vram__matmul_batches(a.d, b.d, size);
  vram__tensor p, q, t;
  for (i = 0; i < n; i++) {
    of_a[i] = size[i];
    of_b[i] = size[i];
  }
  of_a[n] = na > 1 ? a.d->v[na - 2] : 1;
  of_a[n + 1] = a.d->v[na - 1];
  of_b[n] = b.d->v[nb > 1 ? nb - 2 : 0];
  of_b[n + 1] = nb > 1 ? b.d->v[nb - 1] : 1;
  p = vram__matmul_operand(s, a, n, n + 2, of_a);
  q = vram__matmul_operand(s, b, n, nb > 1 ? n + 2 : n + 1, of_b);
  if (nb == 1) {
    t = vram__torch_unsqueeze(s, q, 2);
    vram__tensor_release(s, q);
    q = t;
  }
  t = vram__torch_product(s, VRAM__K_bmm, p, q);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
  if (na > 1)
    size[n++] = a.d->v[na - 2];
  if (nb > 1)
    size[n++] = b.d->v[nb - 1];
  return vram__torch_unsafe_view(s, t, vram__dims_in(s, n, size, NULL));
}

/* LinearAlgebra.cpp, _matmul_impl */
VRAM__FN vram__tensor vram__torch_matmul(vram__step *s, vram__tensor a, vram__tensor b) {
  const uint32_t na = a.d->ndim, nb = b.d->ndim;
  vram__tensor y, t;
  if (nb == 1 && na <= 2)
    return na == 1 ? vram__torch_dot(s, a, b) : vram__torch_product(s, VRAM__K_mv, a, b);
  if (na == 1 && nb == 2)
    return vram__matmul_row(s, a, b);
  if (na == 2 && nb == 2)
    return vram__torch_product(s, VRAM__K_mm, a, b);
  if (vram__should_fold(s, a, b))
    return vram__matmul_folded(s, a, b);
  if (na != 3 || nb != 3 || a.d->v[0] == b.d->v[0])
    return vram__matmul_batched(s, a, b);
  if (a.d->v[0] == 1 && vram__tensor_wants_grad(s, a)) {
    t = vram__torch_squeeze1(s, a, 0);
    y = vram__torch_matmul(s, t, b);
  } else if (b.d->v[0] == 1 && vram__tensor_wants_grad(s, b)) {
    t = vram__torch_squeeze1(s, b, 0);
    y = vram__torch_matmul(s, a, t);
  } else
    return vram__matmul_batched(s, a, b);
  vram__tensor_release(s, t);
  return y;
}

static uint32_t vram__product_factors(const vram_node *n) {
  const int64_t beta = VRAM__INT(n, beta, VRAM__ONE);
  return (VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE ? VRAM__ALPHA : 0) |
         (beta == VRAM__ONE ? 0
          : beta            ? VRAM__BETA
                            : VRAM__BETA | VRAM__NO_BETA);
}

/* One product of matrices a batch, into the same result (LinearAlgebra.cpp, addbmm_impl). */
static void vram__addbmm_products(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram_dims *const p = a.d, *const q = b.d;
  int64_t i;
  a.d = vram__dims_in(s, 2, p->v + 1, VRAM__STRIDE(p) + 1);
  b.d = vram__dims_in(s, 2, q->v + 1, VRAM__STRIDE(q) + 1);
  for (i = 0; i < p->v[0]; i++)
    vram__blas_gemm(s, a, b, VRAM__CUBLAS);
}

/* addbmm, addmv, addr: a product that is added to something. */
static void vram__forward_added(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__tensor in[3];
  vram__grad_fn *f;
  uint32_t i;
  for (i = 3; i-- > 0;)
    in[i] = s->amp ? vram__autocast_cast(s, x[i], s->amp) : vram__tensor_retain(s, x[i]);
  vram__refuse_unlike(s, in, 3);
  f = vram__tape_record(s, n->op, in, 3, 1, 2);
  vram__save_factors(s, f, in, 1, 0);
  if (f)
    f->aux |= vram__product_factors(n);
  if (n->op == VRAM_OP_addmv)
    y[0] = vram__blas_mv(s, in[1], in[2]);
  else
    y[0] = vram__tensor_empty(s, n->out[0].d, in[1].dt);
  if (n->op == VRAM_OP_addbmm)
    vram__addbmm_products(s, in[1], in[2]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
}

/* The gradient of the result, for each product of the batch. */
static vram__tensor vram__batch_grad(vram__step *s, vram__grad_fn *f) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  int64_t size[3], stride[3];
  size[0] = vram__input_dims(s, f, 1, NULL)->v[0];
  stride[0] = 0;
  size[1] = g.d->v[0];
  size[2] = g.d->v[1];
  stride[1] = VRAM__STRIDE(g.d)[0];
  stride[2] = VRAM__STRIDE(g.d)[1];
  g.d = vram__dims_in(s, 3, size, stride);
  return g;
}

static void vram__backward_addbmm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int scale = (f->aux & VRAM__ALPHA) != 0;
  const vram__tensor g = vram__batch_grad(s, f);
  if (vram__input_wanted(f, 1))
    to[1] = vram__tensor_scaled(s, vram__blas_bmm(s, g, vram__tensor_turned(s, vram__factor(f, 1))),
                                scale);
  if (vram__input_wanted(f, 2))
    to[2] = vram__tensor_scaled(s, vram__blas_bmm(s, vram__tensor_turned(s, vram__factor(f, 0)), g),
                                scale);
  if (vram__input_wanted(f, 0))
    to[0] = vram__added_grad(s, VRAM__SLOTS(f)[0].g, f->aux);
}

static void vram__backward_addmv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int scale = (f->aux & VRAM__ALPHA) != 0;
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 1)) /* the outer product is a pointwise one */
    to[1] = vram__tensor_scaled(
        s, vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 1, NULL)), g.dt),
        scale);
  if (vram__input_wanted(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
  if (vram__input_wanted(f, 2))
    to[2] = vram__tensor_scaled(s, vram__blas_mv(s, vram__tensor_turned(s, vram__factor(f, 0)), g),
                                scale);
}

static void vram__backward_addr(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int scale = (f->aux & VRAM__ALPHA) != 0;
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
  if (vram__input_wanted(f, 1))
    to[1] = vram__tensor_scaled(s, vram__blas_mv(s, g, vram__factor(f, 1)), scale);
  if (vram__input_wanted(f, 2))
    to[2] = vram__tensor_scaled(s, vram__blas_mv(s, vram__tensor_turned(s, g), vram__factor(f, 0)),
                                scale);
}

static void vram__forward_product(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__tensor a[3];
  uint32_t i, factors = vram__product_factors(n);
  for (i = n->nin; i-- > 0;)
    a[i] = s->amp ? vram__autocast_cast(s, x[i], s->amp) : vram__tensor_retain(s, x[i]);
  switch (n->op) {
  case VRAM_OP_bmm:
    y[0] = vram__torch_product(s, VRAM__K_bmm, a[0], a[1]);
    break;
  case VRAM_OP_mm:
    y[0] = vram__torch_product(s, VRAM__K_mm, a[0], a[1]);
    break;
  case VRAM_OP_addmm:
    y[0] = vram__torch_addmm(s, a[0], a[1], a[2], factors);
    break;
  case VRAM_OP_baddbmm:
    y[0] = vram__torch_baddbmm(s, a[0], a[1], a[2], factors);
    break;
  default:
    y[0] = vram__torch_matmul(s, a[0], a[1]);
    break;
  }
  for (i = 0; i < n->nin; i++)
    vram__tensor_release(s, a[i]);
}

/* A product of two vectors: autocast takes the wider dtype, where matmul takes the lower. */
static void vram__forward_dot(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__tensor in[2];
  uint32_t own;
  in[0] = x[0];
  in[1] = x[1];
  own = vram__autocast_list(s, VRAM__AUTOCAST_widest, in, 2);
  if (in[0].dt != in[1].dt)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "vectors of different dtypes: PyTorch stops with an error");
  vram__product_refuse(s, in[0]);
  y[0] = vram__torch_dot(s, in[0], in[1]);
  vram__autocast_release(s, in, own);
}

/* One grouped product into y: a CUTLASS kernel with its list of problems (GroupMM.cu: three lists
   of pointers, three of strides, the sizes), or one product a group where there is none. The
   offsets are data: whether a group has rows, and its product a workspace, only the upper bound
   can say. */
static void vram__grouped_products(vram__step *s, vram__tensor a, int64_t groups) {
  uint32_t list, work;
  if (a.dt == VRAM_BF16 && s->device.cc >= 90 && s->device.cc < 120) {
    uint64_t g = (uint64_t)groups;
    list = vram__cub_hold(s, 3 * ((8 * g + 15) & ~UINT64_C(15)) + 3 * (8 * g) + 3 * (4 * g));
    work = vram__cub_hold(s, (uint64_t)s->device.sm * (s->device.cc == 90
                                                           ? s->device.rules->grouped.sm90
                                                           : s->device.rules->grouped.sm100));
    vram__cub_release(s, work);
    vram__cub_release(s, list);
    return;
  }
  if (groups)
    vram__upper_may_need(s, s->device.workspace[VRAM__CUBLAS] / 4);
}

/* GroupedMMUtils.h, check_valid_strides_and_return_transposed: rows or columns of whole 16 bytes.
 */
static void vram__grouped_refuse(vram__step *s, vram__tensor t) {
  const uint32_t n = t.d->ndim;
  const int64_t *z = t.d->v + n - 2, *st = VRAM__STRIDE(t.d) + n - 2;
  const int64_t unit = 16 / (int64_t)vram__dtype_size(t.dt);
  const int columns = st[0] == 1 && st[1] >= (z[0] > 1 ? z[0] : 1);
  const int rows = !columns && st[1] == 1 && st[0] >= (z[1] > 1 ? z[1] : 1);
  if ((!columns && !rows) || st[columns ? 1 : 0] % unit)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "grouped_mm of a matrix whose rows or columns are not multiples of 16 bytes "
                      "apart: PyTorch refuses");
}

/* create_grouped_gemm_output_tensor: rows begin at multiples of 16 bytes. turned: columns do */
static vram__tensor vram__grouped_empty(vram__step *s, const vram_dims *d, vram_dtype dt,
                                        int turned) {
  const uint32_t last = d->ndim - 1u, row = turned ? last - 1 : last;
  const int64_t unit = 16 / (int64_t)vram__dtype_size(dt);
  int64_t stride[3];
  stride[row] = 1;
  stride[turned ? last : last - 1] = (d->v[row] + unit - 1) / unit * unit;
  if (last == 2)
    stride[0] = d->v[turned ? last : last - 1] * stride[turned ? last : last - 1];
  return vram__tensor_empty(s, vram__dims_in(s, d->ndim, d->v, stride), dt);
}

VRAM__FN vram__tensor vram__torch_grouped(vram__step *s, vram__tensor a, vram__tensor b,
                                          vram__tensor offsets, const vram_dims *d) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
  int64_t groups = a.d->ndim == 3 ? a.d->v[0] : b.d->ndim == 3 ? b.d->v[0] : offsets.d->v[0];
  in[0] = a;
  in[1] = b;
  vram__refuse_unlike(s, in, 2);
  f = vram__tape_record(s, VRAM_OP_grouped_mm, in, 2, 1, 3);
  if (f) { /* mat2, offs, self */
    if (vram__input_wanted(f, 0))
      vram__save_tensor(s, f, b);
    vram__save_tensor(s, f, offsets);
    if (vram__input_wanted(f, 1))
      vram__save_tensor(s, f, a);
    f->aux = (uint64_t)groups;
  }
  y = vram__grouped_empty(s, d, a.dt, 0);
  vram__grouped_products(s, a, groups);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static void vram__forward_grouped_mm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__grouped_refuse(s, x[0]);
  vram__grouped_refuse(s, x[1]);
  y[0] = vram__torch_grouped(s, x[0], x[1], x[2], n->out[0].d);
}

/* the gradient of an operand that is stored by columns is stored so, too */
static void vram__backward_grouped_mm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  if (f->node->op == VRAM_OP_grouped_mm)
    vram__grouped_refuse(s, g);
  for (i = 2; i-- > 0;) {
    const vram_dims *d;
    const int64_t *st;
    if (!vram__input_wanted(f, i))
      continue;
    d = vram__input_dims(s, f, i, NULL);
    st = VRAM__STRIDE(d) + d->ndim - 2;
    to[i] = vram__grouped_empty(s, d, g.dt, st[0] == 1 && st[1] == d->v[d->ndim - 2]);
    vram__grouped_products(s, g, (int64_t)f->aux);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(matmul, "", 2, 2, matmul, SAME, low, product, none, product, MATMUL, 0, VRAM__OP_FLOATS,
         "");
VRAM__OP(bmm, "", 2, 2, matmul, SAME, low, product, none, product, PRODUCT, 0, VRAM__OP_FLOATS, "");
VRAM__OP(mm, "", 2, 2, matmul, SAME, low, product, none, product, MATMUL, 0, VRAM__OP_FLOATS, "");
VRAM__OP(mv, "mv: x vec", 2, 2, matmul, SAME, low, product, none, product, NONE, 0, VRAM__OP_FLOATS,
         "");
VRAM__OP(dot, "dot vdot: x other", 2, 2, matmul, SAME, widest, dot, none, product, NONE, 0,
         VRAM__OP_FLOATS, "");
VRAM__OP(addmm, "addmm: c a b alpha beta", 3, 3, matmul, SAME, low, product, none, addmm, ADDMM, 0,
         VRAM__OP_FLOATS, "alpha beta");
VRAM__OP(baddbmm, "baddbmm: c a b alpha beta", 3, 3, matmul, SAME, low, product, none, addmm,
         PRODUCT, 0, VRAM__OP_FLOATS, "alpha beta");
VRAM__OP(addbmm, "addbmm: c a b alpha beta", 3, 3, addbmm, SAME, low, added, addbmm, addbmm, NONE,
         0, VRAM__OP_FLOATS, "alpha beta");
VRAM__OP(addmv, "addmv: c a b alpha beta", 3, 3, matmul, SAME, low, added, addmv, addmm, NONE, 0,
         VRAM__OP_FLOATS, "alpha beta");
VRAM__OP(addr, "addr: c a b alpha beta", 3, 3, addbmm, SAME, low, added, addr, each, NONE, 0,
         VRAM__OP_FLOATS, "alpha beta");
VRAM__OP(grouped_mm, "", 3, 3, grouped_mm, SAME, none, grouped_mm, grouped_mm, product, NONE, 0, 0,
         "");
