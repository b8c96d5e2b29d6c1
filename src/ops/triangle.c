/* >>ops/triangle    matrices with one triangle set to zero (ATen/native/cuda/TriangularOps.cu) */
#include "ops/ops.h"

static int vram__shape_triangle(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  if (x->ndim < 2)
    return vram__node_error(g, n, "fewer than two axes: no matrix");
  return vram__node_out(g, n, 0, x->ndim, x->v, n->in[0]->dtype);
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

#endif /* VRAM_NO_STEP */

VRAM__OP(tril, "tril: x diagonal?", 1, 1, triangle, SAME, none, triangle, triangle, each, ANY, 0, 0,
         "diagonal");
VRAM__OP(triu, "triu: x diagonal?", 1, 1, triangle, SAME, none, triangle, triangle, each, ANY, 0, 0,
         "diagonal");
