/* >>torch/blas    matrix products: copies for BLAS, workspaces */
#include "torch/torch.h"

/* Can BLAS read this matrix as it is, or must it be copied? (Blas.cpp, prepare_matrix_for_cublas)
 */
static int vram__blas_reads(const vram_dims *d) {
  uint32_t r = d->ndim - 2u;
  const int64_t *st = VRAM__STRIDE(d) + r, *z = d->v + r;
  return (st[1] == 1 && st[0] >= (z[1] > 1 ? z[1] : 1)) ||
         (st[0] == 1 && st[1] >= (z[0] > 1 ? z[0] : 1));
}

/* a copy for BLAS, or nothing */
static vram__tensor vram__blas_copy(vram__step *s, vram__tensor x) {
  const int64_t *st = VRAM__STRIDE(x.d) + x.d->ndim - 2;
  if (vram__blas_reads(x.d) ||
      (s->ideal || x.d->ndim == 2 ? x.d->flags & VRAM__DENSE
                                  : (x.d->flags & VRAM__CONTIG) && st[0] && st[1]))
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* Workspace `which` of a thread and a library, if it is not there. */
VRAM__FN void vram__blas_workspace_stays(vram__step *s, uint32_t which) {
  if (s->blas_workspaces >> which & 1)
    return;
  s->blas_workspaces |= (uint8_t)(1u << which);
  vram__workspace_keep(s, s->device.workspace[which % VRAM__BLAS_COUNT]);
}

/* A workspace that stays: the first call of a thread allocates it. Backward runs in a thread of its
   own, with its own handles. */
static void vram__blas_workspace_keep(vram__step *s, uint32_t library) {
  const uint32_t thread = s->phase == VRAM_PHASE_BACKWARD,
                 which = thread * VRAM__BLAS_COUNT + library;
  if (s->ideal || s->call.mute)
    return;
  if (s->stays)
    s->stays(s, which);
  else
    vram__blas_workspace_stays(s, which);
}

/* The workspace of a call. Where workspaces stay, cuBLASLt's handle is cuBLAS's, which comes with
   its own. */
VRAM__FN void vram__blas_workspace(vram__step *s, uint32_t library) {
  const vram__rules *rules = s->device.rules;
  uint32_t own = 0;
  if (!rules->cublas.kept) {
    vram__workspace_use(s, s->device.workspace[library]);
    return;
  }
  if (library == VRAM__CUBLASLT && !rules->cublas.lt_kept)
    own = vram__cub_hold(s, s->device.workspace[library]);
  vram__blas_workspace_keep(s, VRAM__CUBLAS);
  if (library == VRAM__CUBLASLT && rules->cublas.lt_kept)
    vram__blas_workspace_keep(s, library);
  vram__cub_release(s, own);
}

/* The copies that BLAS needs, its workspace, and all gone. cuBLAS computes the transposed product,
   so that the second operand goes first; a batched product of one column stays as it is (Blas.cpp).
 */
VRAM__FN void vram__blas_gemm(vram__step *s, vram__tensor a, vram__tensor b, uint32_t library) {
  int plain = b.d->ndim == 3 && b.d->v[2] == 1;
  vram__tensor p, q;
  if (!a.d->numel || !b.d->numel) /* cuBLAS is not called */
    return;
  p = vram__blas_copy(s, plain ? a : b);
  q = vram__blas_copy(s, plain ? b : a);
  vram__blas_workspace(s, library);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
}

/* a [m,k] x b [k,n] into a fresh [m,n] */
VRAM__FN vram__tensor vram__blas_mm(vram__step *s, vram__tensor a, vram__tensor b) {
  int64_t size[2];
  vram__tensor y;
  size[0] = a.d->v[0];
  size[1] = b.d->v[1];
  y = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__blas_gemm(s, a, b, VRAM__CUBLAS);
  return y;
}

VRAM__FN vram__tensor vram__blas_bmm(vram__step *s, vram__tensor a, vram__tensor b) {
  int64_t size[3];
  vram__tensor y;
  size[0] = a.d->v[0];
  size[1] = a.d->v[1];
  size[2] = b.d->v[2];
  y = vram__tensor_empty(s, vram__dims_in(s, 3, size, NULL), a.dt);
  vram__blas_gemm(s, a, b, VRAM__CUBLAS);
  return y;
}

/* matrix x vector: a vector of stride 0 is copied, then the matrix if BLAS cannot read it */
VRAM__FN vram__tensor vram__blas_mv(vram__step *s, vram__tensor a, vram__tensor v) {
  vram__tensor y = vram__tensor_empty(s, vram__dims_in(s, 1, a.d->v, NULL), a.dt),
               p = vram__tensor_none(), q = p;
  if (!a.d->numel)
    return y;
  if (VRAM__STRIDE(v.d)[0] == 0 && !(v.d->flags & VRAM__CONTIG) && !s->ideal)
    p = vram__tensor_empty(s, vram__dims_contiguous(s, v.d), v.dt);
  if (!vram__blas_reads(a.d) && !s->ideal)
    q = vram__tensor_empty(s, vram__dims_contiguous(s, a.d), a.dt);
  vram__blas_workspace(s, VRAM__CUBLAS);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
  return y;
}

/* x with its last two axes swapped, borrowed */
VRAM__FN vram__tensor vram__tensor_turned(vram__step *s, vram__tensor x) {
  x.d = vram__dims_swapped(s, x.d, x.d->ndim - 2u, x.d->ndim - 1u);
  return x;
}

/* Is the matrix stored by columns? Then autograd gives its gradient that way. */
static int vram__dims_by_columns(const vram_dims *d) {
  return VRAM__STRIDE(d)[0] == 1 && VRAM__STRIDE(d)[1] == d->v[0];
}

/* The transposed view of a product that nobody else holds. */
static vram__tensor vram__tensor_turn(vram__step *s, vram__tensor y) {
  vram__tensor t = vram__tensor_view(s, y, vram__dims_swapped(s, y.d, 0, 1));
  vram__tensor_release(s, y);
  return t;
}

/* FunctionsManual.cpp, mm_mat1_grad and mm_mat2_grad: `d` the operand's dims */
VRAM__FN vram__tensor vram__blas_mm_grad1(vram__step *s, vram__tensor g, vram__tensor b,
                                          const vram_dims *d) {
  if (!vram__dims_by_columns(d))
    return vram__blas_mm(s, g, vram__tensor_turned(s, b));
  return vram__tensor_turn(s, vram__blas_mm(s, b, vram__tensor_turned(s, g)));
}

VRAM__FN vram__tensor vram__blas_mm_grad2(vram__step *s, vram__tensor g, vram__tensor a,
                                          const vram_dims *d) {
  if (!vram__dims_by_columns(d))
    return vram__blas_mm(s, vram__tensor_turned(s, a), g);
  return vram__tensor_turn(s, vram__blas_mm(s, vram__tensor_turned(s, g), a));
}
