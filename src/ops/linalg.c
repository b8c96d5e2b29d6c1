/* >>ops/linalg    matrices solved, inverted, decomposed: what ATen asks cuSOLVER and cuBLAS for.
   How much memory cuSOLVER wants of its own only its library knows, at run time */
#include "ops/ops.h"

/* PyTorch has these for matrices of f32 and f64. */
static int vram__linalg_fits(vram_graph *g, const vram_node *n, int square) {
  const vram_dims *d = n->in[0]->d;
  const vram_dtype dt = n->in[0]->dtype;
  uint32_t i;
  if (d->ndim < 2)
    return vram__node_error(g, n, "no matrix: fewer than two axes");
  if (square && d->v[d->ndim - 1] != d->v[d->ndim - 2])
    return vram__node_error(g, n, "a matrix that is not square");
  for (i = 0; i < n->nin; i++)
    if (n->in[i]->dtype != dt)
      return vram__node_error(g, n, "operands of different dtypes");
  if (dt != VRAM_F32 && dt != VRAM_F64 && dt != VRAM_DTYPE_MODEL)
    return vram__node_error(g, n, "matrices that are not f32 or f64");
  g->extra += 8192;
  return 1;
}

static int vram__shape_square(vram_graph *g, vram_node *n) {
  return vram__linalg_fits(g, n, 1) && vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* a b: the matrix, and what stands on the other side; `left` 0: x a = b */
static int vram__shape_solve_triangular(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES];
  vram_dims of_a, of_b;
  uint32_t m = 0;
  if (!vram__linalg_fits(g, n, 1))
    return 0;
  if (b->ndim < 2 || b->v[b->ndim - (VRAM__INT(n, left, 1) ? 2u : 1u)] != a->v[a->ndim - 1])
    return vram__node_error(g, n, "another side of other sizes");
  vram__memory_copy(&of_a, a, vram__dims_bytes(a->ndim));
  vram__memory_copy(&of_b, b, vram__dims_bytes(b->ndim));
  of_a.ndim = (uint8_t)(a->ndim - 2);
  of_b.ndim = (uint8_t)(b->ndim - 2);
  if (!vram__dims_broadcast(&m, size, &of_a) || !vram__dims_broadcast(&m, size, &of_b))
    return vram__node_error(g, n, "batches that do not broadcast");
  size[m++] = b->v[b->ndim - 2];
  size[m++] = b->v[b->ndim - 1];
  return vram__node_out(g, n, 0, m, size, n->in[0]->dtype);
}

/* a b: as many matrices b as a, or vectors */
static int vram__shape_solve(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d;
  uint32_t i;
  if (!vram__linalg_fits(g, n, 1))
    return 0;
  for (i = 0; i + 1 < a->ndim; i++)
    if (i >= b->ndim || b->v[i] != a->v[i])
      break;
  if (i + 1 < a->ndim || (b->ndim != a->ndim && b->ndim + 1u != a->ndim))
    return vram__node_error(g, n, "another side of other sizes");
  return vram__node_out_dims(n, 0, b, n->in[0]->dtype);
}

/* One value for each matrix; slogdet: the sign and the logarithm */
static int vram__shape_det(vram_graph *g, vram_node *n) {
  const vram_dims *d = n->in[0]->d;
  uint32_t i;
  if (!vram__linalg_fits(g, n, 1))
    return 0;
  for (i = 0; i < 2 && i < n->nout; i++)
    if ((i == 0 || n->op == VRAM_OP_slogdet) &&
        !vram__node_out(g, n, i, d->ndim - 2u, d->v, n->in[0]->dtype))
      return 0;
  return 1;
}

/* eigenvalues and eigenvectors */
static int vram__shape_eigh(vram_graph *g, vram_node *n) {
  const vram_dims *d = n->in[0]->d;
  if (!vram__linalg_fits(g, n, 1) || !vram__node_out(g, n, 0, d->ndim - 1u, d->v, n->in[0]->dtype))
    return 0;
  return n->nout < 2 || vram__node_out_dims(n, 1, d, n->in[0]->dtype);
}

/* qr: Q and R, reduced; svd: U, S and Vh, of which full_matrices are square */
static int vram__shape_decomposed(vram_graph *g, vram_node *n) {
  const vram_dims *d = n->in[0]->d;
  const uint32_t e = d->ndim, svd = n->op == VRAM_OP_svd;
  int64_t size[VRAM_MAX_AXES], rows, columns, k;
  uint32_t i;
  if (!vram__linalg_fits(g, n, 0))
    return 0;
  rows = d->v[e - 2];
  columns = d->v[e - 1];
  k = rows < columns ? rows : columns;
  for (i = 0; i < e; i++)
    size[i] = d->v[i];
  size[e - 1] = svd && VRAM__INT(n, full_matrices, 1) ? rows : k;
  if (!vram__node_out(g, n, 0, e, size, n->in[0]->dtype))
    return 0;
  size[e - 2] = k;
  if (svd && n->nout > 1 && !vram__node_out(g, n, 1, e - 1, size, n->in[0]->dtype))
    return 0;
  size[e - 2] = svd && VRAM__INT(n, full_matrices, 1) ? columns : k;
  size[e - 1] = columns;
  return n->nout < 2 + svd || vram__node_out(g, n, 1 + svd, e, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* So many matrices of so many rows and columns. */
typedef struct vram__matrices {
  uint64_t batch, e; /* e: bytes a value */
  int64_t rows, columns;
} vram__matrices;

static vram__matrices vram__matrices_of(vram__step *s, const vram_node *n, vram__tensor x) {
  vram__matrices m;
  m.rows = x.d->v[x.d->ndim - 2];
  m.columns = x.d->v[x.d->ndim - 1];
  m.batch = x.d->numel ? x.d->numel / ((uint64_t)m.rows * (uint64_t)m.columns) : 0;
  m.e = vram__dtype_size(x.dt);
  if (m.e < 4)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "matrices in 16 bits: PyTorch has no kernel for them");
  return m;
}

/* The batch axes of d and one or two more; matrices are stored by columns, as LAPACK has them. */
static const vram_dims *vram__dims_of_batch(vram__step *s, const vram_dims *d, uint32_t more,
                                            int64_t rows, int64_t columns) {
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, n = d->ndim - 2u;
  for (i = 0; i < n; i++)
    size[i] = d->v[i];
  if (more > 1)
    size[n++] = columns;
  if (more)
    size[n++] = rows;
  d = vram__dims_in(s, n, size, NULL);
  return more > 1 ? vram__dims_swapped(s, d, n - 2, n - 1) : d;
}

static vram__tensor vram__matrix_empty(vram__step *s, vram__tensor like, int64_t rows,
                                       int64_t columns) {
  return vram__tensor_empty(s, vram__dims_of_batch(s, like.d, 2, rows, columns), like.dt);
}

/* What a function of cuSOLVER wants of its own, which nothing here can ask it. LAPACK's functions
   of these names want at most `elements` and some rows of blocks, here of 256. */
static void vram__solver_workspace(vram__step *s, const vram__matrices *m, uint64_t elements) {
  const uint64_t longer = (uint64_t)(m->rows > m->columns ? m->rows : m->columns);
  const uint64_t n = vram__sum_or_overflow(elements, vram__product_or_overflow(longer, 256));
  if (n < (uint64_t)VRAM_MAX_BYTES / 16)
    vram__upper_may_need(s, n * (m->e / 4) + (UINT64_C(1) << 18));
  else
    s->failed = VRAM_ERR_OVERFLOW;
}

/* Two lists of pointers, one a matrix, and cuBLAS's workspace. */
static void vram__pointers_and_blas(vram__step *s, uint64_t batch) {
  const uint32_t a = vram__cub_hold(s, 8 * batch), b = vram__cub_hold(s, 8 * batch);
  vram__blas_workspace(s, VRAM__CUBLAS);
  vram__cub_release(s, b);
  vram__cub_release(s, a);
}

/* BatchLinearAlgebra.cpp, triangular_solve_kernel */
static void vram__triangular(vram__step *s, uint64_t batch, int64_t n) {
  if (!batch)
    return;
  if (batch <= 8 && n >= 64)
    vram__blas_workspace(s, VRAM__CUBLAS);
  else
    vram__pointers_and_blas(s, batch);
}

/* get_lu_factor_solver_backend: cuBLAS takes many small matrices at once, cuSOLVER one after the
   other. */
static void vram__lu_factor(vram__step *s, const vram__matrices *m) {
  const uint64_t n = (uint64_t)m->rows;
  uint64_t root = 1, most = (m->e > 4 ? 2200u : 8400u) * m->batch;
  uint32_t list;
  if (!m->batch)
    return;
  while (m->e > 4 && (root + 1) * (root + 1) <= m->batch)
    root++;
  if (m->batch > 2)
    most = (m->e > 4 ? 16600u : 18600u) * m->batch * root;
  if (m->batch == 1 || n > most / (n ? n : 1)) {
    vram__solver_workspace(s, m, n * n);
    return;
  }
  list = vram__cub_hold(s, 8 * m->batch);
  vram__blas_workspace(s, VRAM__CUBLAS);
  vram__cub_release(s, list);
}

/* lu_solve_kernel where it permutes the rows and solves twice */
static void vram__lu_solve_triangular(vram__step *s, const vram__matrices *m, uint64_t bytes,
                                      int turned, int flat) {
  const uint64_t n = 8 * (uint64_t)m->rows;
  uint32_t t[4] = {0, 0, 0, 0};
  t[0] = vram__cub_hold(s, n);
  if (!flat) {
    t[1] = vram__cub_hold(s, n * m->batch);
    vram__cub_release(s, t[0]);
    t[0] = t[1];
    t[1] = 0;
  }
  if (!turned) {
    t[1] = vram__cub_hold(s, n);
    t[2] = vram__cub_hold(s, n * m->batch);
    t[3] = vram__cub_hold(s, bytes);
  }
  vram__triangular(s, m->batch, m->rows);
  vram__triangular(s, m->batch, m->rows);
  if (turned)
    vram__workspace_use(s, bytes);
  vram__cub_release(s, t[3]);
  vram__cub_release(s, t[2]);
  vram__cub_release(s, t[1]);
  vram__cub_release(s, t[0]);
}

/* lu_solve_kernel: b, which is overwritten, has k columns. turned: with the matrix transposed */
static void vram__lu_solve(vram__step *s, const vram__matrices *m, vram__tensor b, int64_t k,
                           int turned) {
  const int64_t n = m->rows;
  const int few = m->batch <= 2;
  int looped = 0, batched;
  if (!b.d->numel)
    return;
  if (n == k)
    batched = n <= 16;
  else if (n <= 8)
    batched = 1;
  else if (n <= 64) {
    looped = few && (k <= 64 || turned || n <= 32);
    batched = k <= 8;
  } else {
    looped = n <= 128 && few && k <= 2;
    batched = n <= 128 && k <= 2;
  }
  if (looped)
    vram__workspace_use(s, 4);
  else if (batched)
    vram__pointers_and_blas(s, m->batch);
  else
    vram__lu_solve_triangular(s, m, vram__dims_bytes_of(b.d, b.dt), turned, m->batch == 1);
}

/* _linalg_check_errors: has any matrix failed? */
static void vram__infos_check(vram__step *s, vram__tensor infos) {
  uint32_t any = vram__cub_hold(s, 1);
  if (!infos.d->ndim)
    vram__workspace_use(s, 1);
  else
    vram__reduce_scratch(s, infos, (1u << infos.d->ndim) - 1, VRAM_BOOL, 1, 4);
  vram__cub_release(s, any);
}

static vram__tensor vram__infos_empty(vram__step *s, vram__tensor x) {
  return vram__tensor_empty(s, vram__dims_of_batch(s, x.d, 0, 0, 0), VRAM_I32);
}

/* at::matmul in a formula of autograd */
static vram__tensor vram__plain_matmul(vram__step *s, vram__tensor a, vram__tensor b) {
  const uint8_t grad = s->grad;
  vram__tensor y;
  s->grad = 0;
  y = vram__torch_matmul(s, a, b);
  s->grad = grad;
  return y;
}

static vram__tensor vram__like_contiguous(vram__step *s, vram__tensor x) {
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* The matrix broadcast to all batches, copied unless its rows or columns lie as they are. */
static uint32_t vram__triangular_operand(vram__step *s, vram__tensor a, uint64_t batch) {
  const uint64_t matrix =
      (uint64_t)a.d->v[a.d->ndim - 1] * (uint64_t)a.d->v[a.d->ndim - 1] * vram__dtype_size(a.dt);
  const int lies =
      (a.d->flags & VRAM__CONTIG) || (vram__tensor_turned(s, a).d->flags & VRAM__CONTIG);
  return lies && a.d->numel * vram__dtype_size(a.dt) == matrix * batch
             ? 0
             : vram__cub_hold(s, vram__product_or_overflow(matrix, batch));
}

static vram__tensor vram__triangular_call(vram__step *s, vram__tensor a, const vram_dims *d,
                                          vram_dtype dt) {
  const int64_t n = a.d->v[a.d->ndim - 1], *z = d->v + d->ndim - 2;
  const uint64_t batch = d->numel ? d->numel / ((uint64_t)z[0] * (uint64_t)z[1]) : 0;
  const vram__tensor y = vram__tensor_empty(s, vram__dims_of_batch(s, d, 2, z[0], z[1]), dt);
  const uint32_t copy = batch ? vram__triangular_operand(s, a, batch) : 0;
  vram__triangular(s, batch, n);
  vram__cub_release(s, copy);
  return y;
}

/* ---- cholesky ---- */

static void vram__forward_cholesky(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  vram__tensor infos;
  y[0] = vram__matrix_empty(s, x[0], m.rows, m.columns);
  infos = vram__infos_empty(s, x[0]);
  if (m.batch == 1)
    vram__solver_workspace(s, &m, x[0].d->numel);
  else
    vram__workspace_use(s, 8 * m.batch);
  vram__infos_check(s, infos);
  vram__tensor_release(s, infos);
  if (f)
    vram__save_tensor(s, f, y[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* FunctionsManual.cpp, cholesky_backward */
static void vram__backward_cholesky(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, l = VRAM__SAVED(f)[0];
  const vram__tensor p = vram__plain_matmul(s, vram__tensor_turned(s, l), g);
  const vram__tensor t = vram__like_contiguous(s, p);
  vram__tensor lower, sum, half, a;
  vram__tensor_release(s, p);
  lower = vram__like_contiguous(s, t);
  sum = vram__pointwise_empty2(s, t, vram__tensor_turned(s, lower));
  half = vram__pointwise_empty_number(s, sum);
  vram__tensor_release(s, t);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, lower);
  a = vram__triangular_call(s, l, half.d, half.dt);
  vram__tensor_release(s, half);
  to[0] = vram__triangular_call(s, l, a.d, a.dt);
  vram__tensor_release(s, a);
}

/* ---- solve_triangular ---- */

static void vram__forward_solve_triangular(vram__step *s, const vram_node *n, vram__tensor *x,
                                           vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 2);
  vram__matrices_of(s, n, x[0]);
  y[0] = vram__triangular_call(s, x[0], n->out[0].d, x[0].dt);
  if (f) {
    f->aux = VRAM__INT(n, left, 1) != 0;
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* linalg_solve_triangular_backward */
static void vram__backward_solve_triangular(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, a = VRAM__SAVED(f)[0], x = VRAM__SAVED(f)[1];
  const vram__tensor b = vram__triangular_call(s, vram__tensor_turned(s, a), g.d, g.dt);
  vram__tensor p, q;
  if (vram__input_wanted(f, 0)) {
    const vram__tensor turned = vram__tensor_turned(s, x);
    p = f->aux ? vram__plain_matmul(s, b, turned) : vram__plain_matmul(s, turned, b);
    q = vram__pointwise_empty1(s, p);
    vram__tensor_release(s, p);
    to[0] = vram__like_contiguous(s, q);
    vram__tensor_release(s, q);
  }
  if (vram__input_wanted(f, 1))
    to[1] = b;
  else
    vram__tensor_release(s, b);
}

/* ---- inv, solve, det, slogdet: by LU ---- */

/* LU and pivots of x. */
typedef struct vram__lu {
  vram__tensor lu, pivots, infos;
} vram__lu;

static vram__lu vram__lu_empty(vram__step *s, vram__tensor x, const vram__matrices *m) {
  vram__lu t;
  t.lu = vram__matrix_empty(s, x, m->rows, m->columns);
  t.pivots = vram__tensor_empty(s, vram__dims_of_batch(s, x.d, 1, m->rows, 0), VRAM_I32);
  t.infos = vram__tensor_none();
  return t;
}

static void vram__forward_inv(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  vram__tensor infos;
  vram__lu t;
  y[0] = vram__matrix_empty(s, x[0], m.rows, m.columns);
  infos = vram__infos_empty(s, x[0]);
  t = vram__lu_empty(s, x[0], &m);
  vram__lu_factor(s, &m);
  vram__lu_solve(s, &m, y[0], m.columns, 0);
  vram__tensor_release(s, t.pivots);
  vram__tensor_release(s, t.lu);
  vram__infos_check(s, infos);
  vram__tensor_release(s, infos);
  if (f)
    vram__save_tensor(s, f, y[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* -inverse^T (grad inverse^T) */
static void vram__backward_inv(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor turned = vram__tensor_turned(s, VRAM__SAVED(f)[0]);
  const vram__tensor p = vram__plain_matmul(s, VRAM__SLOTS(f)[0].g, turned);
  const vram__tensor q = vram__plain_matmul(s, turned, p);
  to[0] = vram__pointwise_empty1(s, q);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
}

static int64_t vram__solve_columns(const vram_dims *a, const vram_dims *b) {
  return b->ndim < a->ndim ? 1 : b->v[b->ndim - 1];
}

/* b by columns; vectors are as they are */
static vram__tensor vram__solve_empty(vram__step *s, vram__tensor a, const vram_dims *b) {
  return b->ndim < a.d->ndim ? vram__tensor_empty(s, vram__dims_contiguous(s, b), a.dt)
                             : vram__matrix_empty(s, a, a.d->v[a.d->ndim - 1], b->v[b->ndim - 1]);
}

static void vram__forward_solve(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 4);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  const int64_t k = vram__solve_columns(x[0].d, x[1].d);
  uint32_t vector = 0;
  vram__tensor infos;
  vram__lu t;
  y[0] = vram__solve_empty(s, x[0], x[1].d);
  t = vram__lu_empty(s, x[0], &m);
  infos = vram__infos_empty(s, x[0]);
  vram__lu_factor(s, &m);
  if (x[1].d->ndim < x[0].d->ndim)
    vector = vram__cub_hold(s, vram__dims_bytes_of(y[0].d, y[0].dt));
  vram__lu_solve(s, &m, y[0], k, 0);
  vram__cub_release(s, vector);
  if (f)
    vram__save_tensor(s, f, x[0]);
  vram__save_and_release(s, f, t.lu);
  vram__save_and_release(s, f, t.pivots);
  vram__infos_check(s, infos);
  vram__tensor_release(s, infos);
  if (f)
    vram__save_tensor(s, f, y[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* linalg_solve_backward */
static void vram__backward_solve(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, a = VRAM__SAVED(f)[0];
  const vram__matrices m = vram__matrices_of(s, f->node, a);
  const vram__tensor b = vram__solve_empty(s, a, g.d);
  vram__tensor x = VRAM__SAVED(f)[3], left = b, p;
  vram__lu_solve(s, &m, b, vram__solve_columns(a.d, g.d), 1);
  if (vram__input_wanted(f, 0)) {
    if (g.d->ndim < a.d->ndim) {
      left.d = vram__dims_unsqueezed(s, b.d, b.d->ndim);
      x.d = vram__dims_unsqueezed(s, x.d, x.d->ndim);
    }
    p = vram__plain_matmul(s, left, vram__tensor_turned(s, x));
    to[0] = vram__pointwise_empty1(s, p);
    vram__tensor_release(s, p);
  }
  if (vram__input_wanted(f, 1))
    to[1] = b;
  else
    vram__tensor_release(s, b);
}

/* How often rows were exchanged, in t[0] (8 bytes a matrix), of int32 pivots. */
static uint32_t vram__exchanges(vram__step *s, const vram__matrices *m) {
  const uint64_t n = (uint64_t)m->rows;
  const uint32_t row = vram__cub_hold(s, 4 * n), differ = vram__cub_hold(s, n * m->batch);
  const uint32_t count = vram__cub_hold(s, 8 * m->batch);
  vram__workspace_use(s, 8 * n * m->batch);
  vram__cub_release(s, differ);
  vram__cub_release(s, row);
  return count;
}

static void vram__forward_det(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int log = n->op == VRAM_OP_slogdet;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, log ? 2 : 1, 4);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  const vram_dims *d = vram__dims_of_batch(s, x[0].d, 0, 0, 0);
  vram__tensor sign = vram__tensor_none();
  uint32_t product, exchanges, i;
  vram__lu t;
  for (i = 0; i < (log ? 2u : 1u); i++) {
    vram__tensor r = vram__tensor_empty(s, d, x[0].dt);
    if (i == 0 && log)
      sign = r;
    if (i < n->nout)
      y[i] = r;
    else
      sign = r;
  }
  t = vram__lu_empty(s, x[0], &m);
  t.infos = vram__infos_empty(s, x[0]);
  vram__lu_factor(s, &m);
  if (!log) {
    product = vram__cub_hold(s, m.e * m.batch);
    exchanges = vram__exchanges(s, &m);
    vram__cub_release(s, exchanges);
    vram__cub_release(s, product);
  } else {
    exchanges = vram__exchanges(s, &m);
    product = vram__cub_hold(s, m.e * m.batch * (uint64_t)m.rows);
    vram__workspace_use(s, m.e * m.batch);
    vram__cub_release(s, product);
    vram__cub_release(s, exchanges);
    vram__workspace_use(s, m.e * m.batch * (uint64_t)m.rows);
  }
  vram__tensor_release(s, t.infos);
  if (f)
    vram__save_tensor(s, f, x[0]);
  vram__save_and_release(s, f, t.lu);
  vram__save_and_release(s, f, t.pivots);
  if (f)
    vram__save_tensor(s, f, log ? sign : y[0]);
  for (i = 0; i < n->nout; i++)
    vram__grad_fn_set_output(s, f, i, &y[i]);
  if (log && n->nout < 2) /* of which only the sign is wanted */
    vram__tensor_release(s, sign);
}

/* linalg_det_backward, slogdet_backward: what is solved for is a diagonal matrix */
static void vram__backward_det(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const vram__matrices m = vram__matrices_of(s, f->node, x);
  const uint64_t one = m.e * m.batch, n = (uint64_t)m.rows;
  const int turned = !(x.d->flags & VRAM__CONTIG);
  uint32_t t[6] = {0, 0, 0, 0, 0, 0}, i;
  vram__tensor whole;
  if (f->kind == VRAM_OP_slogdet) {
    whole = vram__like_contiguous(s, x);
  } else {
    t[0] = vram__cub_hold(s, one);
    whole = vram__like_contiguous(s, x);
    t[1] = vram__cub_hold(s, n * m.batch); /* where is the diagonal 0? */
    t[2] = vram__cub_hold(s, m.e);
    t[3] = vram__cub_hold(s, m.e);
    t[4] = vram__cub_hold(s, one * n);
    vram__cub_release(s, t[3]);
    vram__cub_release(s, t[2]);
    t[5] = vram__cub_hold(s, one * n * n);
    t[2] = vram__cub_hold(s, one * n * n); /* LU without zeros on the diagonal */
    vram__cub_release(s, t[5]);
    vram__cub_release(s, t[4]);
    vram__cub_release(s, t[1]);
    t[1] = t[2];
  }
  to[0] = vram__matrix_empty(s, x, m.rows, m.columns);
  vram__lu_solve(s, &m, to[0], m.columns, turned);
  for (i = 2; i-- > 1;)
    vram__cub_release(s, t[i]);
  vram__tensor_release(s, whole);
  vram__cub_release(s, t[0]);
}

/* ---- eigh, qr, svd ---- */

static void vram__forward_eigh(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 2, 2);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  vram__tensor vectors = vram__matrix_empty(s, x[0], m.rows, m.columns), infos;
  y[0] = vram__tensor_empty(s, vram__dims_of_batch(s, x[0].d, 1, m.rows, 0), x[0].dt);
  infos = vram__infos_empty(s, x[0]);
  vram__solver_workspace(s, &m, vram__product_or_overflow(x[0].d->numel, 4));
  vram__infos_check(s, infos);
  vram__tensor_release(s, infos);
  if (f) {
    vram__save_tensor(s, f, y[0]);
    vram__save_tensor(s, f, vectors);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1) {
    y[1] = vectors;
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  } else
    vram__tensor_release(s, vectors);
}

/* linalg_eig_backward of a symmetric matrix */
static void vram__backward_eigh(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor v = VRAM__SAVED(f)[1], turned = vram__tensor_turned(s, v);
  vram__tensor p, apart, q;
  if (!VRAM__SLOTS(f)[1].g.d) { /* of the values alone */
    p = vram__pointwise_empty1(s, v);
    to[0] = vram__plain_matmul(s, p, turned);
    vram__tensor_release(s, p);
    return;
  }
  p = vram__plain_matmul(s, turned, VRAM__SLOTS(f)[1].g);
  apart = vram__like_contiguous(s, v);
  q = vram__pointwise_empty2(s, p, apart);
  vram__tensor_release(s, apart);
  vram__tensor_release(s, vram__like_contiguous(s, v));
  apart = vram__plain_matmul(s, q, turned);
  to[0] = vram__plain_matmul(s, v, apart);
  vram__tensor_release(s, apart);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
}

/* geqrf_kernel and orgqr */
static void vram__forward_qr(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 2, 0);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  const int64_t k = m.rows < m.columns ? m.rows : m.columns;
  const uint64_t sixteenth = (uint64_t)m.rows / 16;
  vram__tensor r, tau;
  y[0] = vram__matrix_empty(s, x[0], m.rows, k);
  r = vram__matrix_empty(s, x[0], k, m.columns);
  tau = vram__tensor_empty(s, vram__dims_of_batch(s, x[0].d, 1, k, 0), x[0].dt);
  if (m.rows <= 256 && m.batch >= (sixteenth > 2 ? sixteenth : 2))
    vram__pointers_and_blas(s, m.batch);
  else
    vram__workspace_use(s, 4);
  vram__solver_workspace(s, &m, (uint64_t)m.rows * (uint64_t)m.columns);
  vram__workspace_use(s, 4);
  vram__tensor_release(s, tau);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1) {
    y[1] = r;
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  } else
    vram__tensor_release(s, r);
}

/* svd_cusolver: small matrices are decomposed whole, and their first columns taken. */
static void vram__forward_svd(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 3, 0);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  const int full = VRAM__INT(n, full_matrices, 1) != 0;
  const int64_t k = m.rows < m.columns ? m.rows : m.columns;
  const int64_t longer = m.rows < m.columns ? m.columns : m.rows;
  vram__tensor v, values, infos, copy;
  uint32_t whole = 0;
  y[0] = vram__matrix_empty(s, x[0], m.rows, full ? m.rows : k);
  v = vram__tensor_turned(s, vram__matrix_empty(s, x[0], m.columns, full ? m.columns : k));
  values = vram__tensor_empty(s, vram__dims_of_batch(s, x[0].d, 1, k, 0), x[0].dt);
  infos = vram__infos_empty(s, x[0]);
  copy = vram__matrix_empty(s, x[0], m.rows, m.columns);
  if (longer <= 32 && !full && m.rows != m.columns)
    whole = vram__cub_hold(s, m.e * m.batch * (uint64_t)longer * (uint64_t)longer);
  vram__solver_workspace(s, &m,
                         vram__product_or_overflow(5 * (longer <= 32 ? m.batch : 1),
                                                   (uint64_t)longer * (uint64_t)longer));
  vram__cub_release(s, whole);
  vram__tensor_release(s, copy);
  vram__infos_check(s, infos);
  vram__tensor_release(s, infos);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1) {
    y[1] = values;
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  } else
    vram__tensor_release(s, values);
  if (n->nout > 2) {
    y[2] = v;
    vram__grad_fn_set_output(s, f, 2, &y[2]);
  } else
    vram__tensor_release(s, v);
}

static void vram__backward_decomposed(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  (void)to;
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "the gradient of this decomposition is not known here: use a `custom` line");
}

/* ---- matrix_exp ---- */

/* The largest column sum of each matrix: 1-norm. */
static vram__tensor vram__norm1(vram__step *s, vram__tensor a) {
  const vram__tensor positive = vram__pointwise_empty1(s, a);
  const vram__tensor sum = vram__tensor_sum(s, positive, 1u << (a.d->ndim - 2), 0, a.dt);
  const vram__tensor y = vram__tensor_empty(s, vram__dims_of_batch(s, a.d, 0, 0, 0), a.dt);
  vram__workspace_use(s, 8 * y.d->numel);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, positive);
  return y;
}

/* LinearAlgebra.cpp, mexp: the matrices whose norm asks for the same polynomial are taken out and
   put back together. How many terms it takes the values decide; this is the shortest one, and the
   upper bound knows the longest (T18, with its powers and combinations). */
static vram__tensor vram__mexp(vram__step *s, vram__tensor a, vram__tensor *norm) {
  const uint64_t n = (uint64_t)a.d->v[a.d->ndim - 1], e = vram__dtype_size(a.dt);
  const uint64_t batch = a.d->numel / (n * n), bytes = a.d->numel * e;
  vram__tensor y;
  uint32_t t[4], one;
  *norm = vram__norm1(s, a);
  y = vram__tensor_empty(s, vram__dims_dense(s, a.d), a.dt);
  vram__upper_may_need(s, vram__product_or_overflow(a.d->numel * (e / 4), 24));
  t[0] = vram__cub_hold(s, 8 * batch);
  t[1] = vram__cub_hold(s, bytes);
  t[2] = vram__cub_hold(s, 2 * bytes);
  one = vram__cub_hold(s, e);
  vram__workspace_use(s, n * n * e);
  vram__cub_release(s, one);
  t[3] = vram__cub_hold(s, bytes);
  vram__cub_release(s, t[2]);
  vram__cub_release(s, t[3]);
  vram__cub_release(s, t[1]);
  vram__cub_release(s, t[0]);
  return y;
}

static void vram__forward_matrix_exp(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram__matrices m = vram__matrices_of(s, n, x[0]);
  vram__tensor norm = vram__tensor_none();
  if (f)
    vram__save_tensor(s, f, x[0]);
  if (m.rows == 1 || !m.batch)
    y[0] = vram__pointwise_empty1(s, x[0]);
  else
    y[0] = vram__mexp(s, x[0], &norm);
  vram__tensor_release(s, norm);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* differential_analytic_matrix_function: the exponential of [x grad; 0 x], whose corner it is */
static void vram__backward_matrix_exp(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const uint32_t nd = x.d->ndim;
  vram__tensor whole, y, norm;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < nd; i++)
    size[i] = i + 2 < nd ? x.d->v[i] : 2 * x.d->v[i];
  whole = vram__tensor_empty(s, vram__dims_in(s, nd, size, NULL), x.dt);
  y = vram__mexp(s, whole, &norm);
  vram__tensor_release(s, norm);
  vram__tensor_release(s, whole);
  for (i = nd - 2; i < nd; i++)
    size[i] = x.d->v[i];
  to[0] = vram__tensor_view(s, y, vram__dims_in(s, nd, size, VRAM__STRIDE(y.d)));
  vram__tensor_release(s, y);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(matrix_exp, "matrix_exp linalg_matrix_exp: x", 1, 1, square, SAME, none, matrix_exp,
         matrix_exp, each, NONE, 0, 0, "");
VRAM__OP(cholesky, "", 1, 1, square, SAME, none, cholesky, cholesky, each, NONE, 0, 0, "");
VRAM__OP(solve_triangular, "", 2, 2, solve_triangular, SAME, none, solve_triangular,
         solve_triangular, each, NONE, 0, 0, "left");
VRAM__OP(inv, "linalg_inv inverse: x", 1, 1, square, SAME, none, inv, inv, each, NONE, 0, 0, "");
VRAM__OP(solve, "", 2, 2, solve, SAME, none, solve, solve, each, NONE, 0, 0, "");
VRAM__OP(det, "det linalg_det: x", 1, 1, det, SAME, none, det, det, each, NONE, 0, 0, "");
VRAM__OP(slogdet, "", 1, 1, det, SAME, none, det, det, each, NONE, 0, 0, "");
VRAM__OP(eigh, "", 1, 1, eigh, SAME, none, eigh, eigh, each, NONE, 0, 0, "");
VRAM__OP(qr, "", 1, 1, decomposed, SAME, none, qr, decomposed, each, NONE, 0, 0, "");
VRAM__OP(svd, "", 1, 1, decomposed, SAME, none, svd, decomposed, each, NONE, 0, 0, "full_matrices");
