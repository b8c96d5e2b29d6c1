/* >>ops/triangle    triangles and diagonals of matrices (ATen/native/cuda/TriangularOps.cu) */
#include "ops/ops.h"

static int vram__shape_triangle(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  if (x->ndim < 2)
    return vram__node_error(g, n, "fewer than two axes: no matrix");
  return vram__node_out(g, n, 0, x->ndim, x->v, n->in[0]->dtype);
}

/* diag: of a matrix, or the matrix of a diagonal */
static int vram__shape_diag(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t k = VRAM__INT(n, diagonal, 0), away = k < 0 ? -k : k;
  int64_t size[2], rows, columns;
  if (!x->ndim || x->ndim > 2 || away < 0 || away > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "neither a matrix nor a vector, or a diagonal too far away");
  if (x->ndim == 1) {
    size[0] = size[1] = x->v[0] + away;
    return vram__node_out(g, n, 0, 2, size, n->in[0]->dtype);
  }
  rows = x->v[0] - (k < 0 ? away : 0);
  columns = x->v[1] - (k > 0 ? away : 0);
  size[0] = rows < columns ? rows : columns;
  if (size[0] < 0)
    size[0] = 0;
  return vram__node_out(g, n, 0, 1, size, n->in[0]->dtype);
}

static int vram__shape_trace(vram_graph *g, vram_node *n) {
  if (n->in[0]->d->ndim != 2)
    return vram__node_error(g, n, "the trace of what is no matrix");
  return vram__node_out(g, n, 0, 0, NULL,
                        vram__kind_rank(n->in[0]->dtype) < 2 ? VRAM_I64 : n->in[0]->dtype);
}

static int vram__shape_block_diag(vram_graph *g, vram_node *n) {
  int64_t size[2] = {0, 0};
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    const vram_dims *x = n->in[i]->d;
    if (x->ndim != 2 || n->in[i]->dtype != n->in[0]->dtype)
      return vram__node_error(g, n, "blocks that are no matrices of one dtype");
    size[0] += x->v[0]; /* below 2^59 each, and vram__graph_dims looks at the product */
    size[1] += x->v[1];
    if (size[0] > VRAM__MAX_UNITS || size[1] > VRAM__MAX_UNITS)
      return vram__node_error(g, n, "too many rows or columns");
  }
  return vram__node_out(g, n, 0, 2, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* The result is contiguous, whatever the input's strides are. */
static vram__tensor vram__triangle_of(vram__step *s, vram__tensor x) {
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

static void vram__forward_triangle(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__triangle_of(s, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_triangle(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__triangle_of(s, VRAM__SLOTS(f)[0].g);
}

static void vram__forward_diag(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, n->nin, 1, 0);
  vram_dtype dt = n->out[0].dtype;
  y[0] = vram__tensor_empty(s, n->out[0].d, vram__kind_rank(dt) < 2 ? dt : x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* diagonal_backward writes into zeros; the gradient of a vector is the diagonal itself. */
static void vram__backward_diag(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  int64_t stride;
  if (d->ndim > 1) {
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
    return;
  }
  stride = VRAM__STRIDE(g.d)[0] + VRAM__STRIDE(g.d)[1];
  to[0] = vram__tensor_view(s, g, vram__dims_in(s, 1, d->v, &stride));
}

/* trace_backward: zeros, and the numbers of the diagonal's places */
static void vram__backward_trace(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  const int64_t n = d->v[0] < d->v[1] ? d->v[0] : d->v[1];
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), VRAM__SLOTS(f)[0].g.dt);
  vram__workspace_use(s, 8 * (uint64_t)n);
}

/* each block's part of the gradient */
static void vram__backward_block_diag(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      to[i] = vram__tensor_view(
          s, g, vram__dims_in(s, 2, vram__input_dims(s, f, i, NULL)->v, VRAM__STRIDE(g.d)));
}

#endif /* VRAM_NO_STEP */

VRAM__OP(tril, "tril: x diagonal?", 1, 1, triangle, SAME, none, triangle, triangle, each, ANY, 0, 0,
         "diagonal");
VRAM__OP(triu, "triu: x diagonal?", 1, 1, triangle, SAME, none, triangle, triangle, each, ANY, 0, 0,
         "diagonal");
VRAM__OP(diag, "diag: x diagonal?", 1, 1, diag, SAME, none, diag, diag, each, NONE, 0, 0,
         "diagonal");
VRAM__OP(trace, "trace: x", 1, 1, trace, SAME, none, diag, trace, each, NONE, 0, 0, "");
VRAM__OP(block_diag, "", 1, 64, block_diag, SAME, none, diag, block_diag, each, NONE, 0, 0, "");
