/* >>ops/weight_norm    a weight as its direction times its length (ATen/native/WeightNorm.cpp) */
#include "ops/ops.h"

/* dim=-1 is no axis: one length for all of the weight. */
static int vram__shape_weight_norm(vram_graph *g, vram_node *n) {
  const vram_dims *v = n->in[0]->d, *length = n->in[1]->d;
  const int64_t dim = VRAM__INT(n, dim, 0);
  uint32_t a, i;
  if (!v->ndim || (dim != -1 && !vram__axis(g, dim, v->ndim, &a)))
    return v->ndim ? 0 : vram__node_error(g, n, "a tensor without axes");
  if (!vram__dtype_is_float(n->in[0]->dtype) || n->in[0]->dtype != n->in[1]->dtype)
    return vram__node_error(g, n, "inputs of different dtypes, or not of floating point");
  for (i = 0; dim != -1 && i < length->ndim; i++)
    if (length->ndim != v->ndim || length->v[i] != (i == a ? v->v[i] : 1))
      return vram__node_error(g, n, "lengths of another shape");
  if (dim == -1 && length->numel != 1)
    return vram__node_error(g, n, "lengths of another shape");
  g->extra += 4096;
  return vram__node_out_dims(n, 0, v, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* norm_except_dim: the 2-norm of each slice along the axis, as views before and behind */
static vram__tensor vram__norm_except(vram__step *s, vram__tensor v, uint32_t a) {
  int64_t size[VRAM_MAX_AXES], two[2];
  const int last = a && a + 1u == v.d->ndim;
  vram__tensor c, t, y;
  uint32_t i;
  if (a && !last) {
    t = vram__torch_swap(s, v, 0, a);
    c = vram__norm_except(s, t, 0);
    vram__tensor_release(s, t);
    y = vram__torch_swap(s, c, 0, a);
    vram__tensor_release(s, c);
    return y;
  }
  for (i = 0; i < v.d->ndim; i++)
    size[i] = i == a ? v.d->v[i] : 1;
  two[0] = last ? (int64_t)(v.d->numel / (uint64_t)(v.d->v[a] ? v.d->v[a] : 1)) : v.d->v[0];
  two[1] = last ? v.d->v[a] : (int64_t)(v.d->numel / (uint64_t)(v.d->v[0] ? v.d->v[0] : 1));
  c = vram__torch_contiguous(s, v);
  t = vram__torch_view_as(s, c, vram__dims_2d(s, two[0], two[1]), VRAM__K_view, 0);
  y = vram__op_call_key(s, VRAM_OP_norm, t, VRAM__KEY_dim, !last);
  vram__tensor_release(s, t);
  vram__tensor_release(s, c);
  t = vram__torch_view_as(s, y, vram__dims_in(s, v.d->ndim, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, y);
  return t;
}

/* One kernel along the first or the last axis, which keeps the norms in fp32 at least. */
static void vram__forward_weight_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  const int64_t dim = VRAM__INT(n, dim, 0);
  vram__tensor in[2], norm, pair[2];
  vram__grad_fn *f;
  uint32_t a = 0;
  if (dim != -1)
    vram__axis((vram_graph *)0, dim, x[0].d->ndim, &a);
  in[0] = vram__torch_contiguous(s, x[0]);
  in[1] = vram__torch_contiguous(s, x[1]);
  if (dim != -1 && (!a || a + 1u == x[0].d->ndim)) {
    f = vram__tape_record(s, n->op, in, 2, 1, 3);
    y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, in[0].d), in[0].dt);
    norm = vram__tensor_empty(s, in[1].d, vram__is_half(in[1].dt) ? VRAM_F32 : in[1].dt);
    if (f) {
      vram__save_tensor(s, f, in[1]);
      vram__save_tensor(s, f, in[0]);
      vram__save_tensor(s, f, norm);
    }
    vram__grad_fn_set_output(s, f, 0, &y[0]);
  } else {
    norm = dim == -1 ? vram__op_call_n(s, VRAM_OP_norm, in, 1, NULL, NULL)
                     : vram__norm_except(s, in[0], a);
    pair[0] = in[0];
    pair[1] = vram__op_call_binary(s, VRAM_OP_div, in[1], norm);
    y[0] = vram__torch_pointwise(s, VRAM_OP_mul, pair, 2);
    vram__tensor_release(s, pair[1]);
  }
  vram__tensor_release(s, norm);
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, in[0]);
}

static void vram__backward_weight_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor c = vram__tensor_contiguous(s, VRAM__SLOTS(f)[0].g), *saved = VRAM__SAVED(f);
  vram__tensor of[2];
  uint32_t i;
  of[0] = vram__tensor_empty(s, vram__dims_contiguous(s, saved[1].d), c.dt);
  of[1] = vram__tensor_empty(s, vram__dims_contiguous(s, saved[0].d), c.dt);
  vram__tensor_release(s, c);
  for (i = 0; i < 2; i++)
    if (vram__input_wanted(f, i))
      to[i] = of[i];
    else
      vram__tensor_release(s, of[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(weight_norm, "_weight_norm: v g dim", 2, 2, weight_norm, SAME, none, weight_norm,
         weight_norm, each, NONE, 0, 0, "dim");
