/* >>ops/activation    activations with more than a pointwise kernel: glu, prelu, rrelu */
#include "ops/ops.h"

static int vram__shape_glu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t axis, i;
  if (!x->ndim)
    return vram__node_error(g, n, "glu of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &axis))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (size[axis] % 2)
    return vram__node_error(g, n, "an axis that cannot be halved");
  size[axis] /= 2;
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_prelu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t weights = VRAM__INT(n, num_parameters, 1);
  if (n->nin > 1)
    weights = (int64_t)n->in[1]->d->numel;
  if (weights < 1 || (weights != 1 && (x->ndim < 2 || x->v[1] != weights)))
    return vram__node_error(g, n, "num_parameters must be 1 or the number of channels");
  if (n->nin == 1 &&
      (!vram__node_params(g, n, 2) ||
       !vram__node_own(g, n, 0, "weight", 1, &weights, VRAM_DTYPE_MODEL, VRAM__PARAM)))
    return 0;
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* cuda/ActivationGluKernel.cu: one kernel of both halves */
static void vram__forward_glu(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram_dims *half[2];
  half[0] = half[1] = vram__dims_in(s, x[0].d->ndim, n->out[0].d->v, VRAM__STRIDE(x[0].d));
  if (f)
    vram__save_tensor(s, f, x[0]);
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, half, 2), x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_glu(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] =
      vram__tensor_empty(s, vram__dims_contiguous(s, VRAM__SAVED(f)[0].d), VRAM__SLOTS(f)[0].g.dt);
}

/* Activation.cpp, prelu: the weight becomes [1, C, 1, ...], then _prelu_kernel runs. */
static void vram__forward_prelu(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const uint32_t ndim = x[0].d->ndim;
  vram__tensor in[2], bias; /* input and weight; there is no bias */
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  vram__grad_fn *f;
  vram__node_weights(s, n, &in[1], &bias);
  in[1] = vram__autocast_low(s, in[1]);
  in[0] = vram__autocast_low(s, x[0]);
  if (in[1].d->ndim != ndim) {
    for (i = 0; i < ndim; i++)
      size[i] = i == 1 ? (int64_t)in[1].d->numel : 1;
    vram__tensor_replace(s, &in[1], vram__torch_reshape(s, in[1], ndim, size));
  }
  vram__refuse_unlike(s, in, 2);
  f = vram__tape_record(s, n->op, in, 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, in[0]);
    vram__save_tensor(s, f, in[1]);
  }
  y[0] = vram__pointwise_empty2(s, in[0], in[1]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[1]);
}

/* Activation.cpp, _prelu_kernel_backward: one kernel makes both gradients, the weight's in the
   broadcast shape, too. */
static void vram__backward_prelu(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const vram_dims *d[3];
  d[0] = x.d;
  d[1] = VRAM__SAVED(f)[1].d;
  d[2] = VRAM__SLOTS(f)[0].g.d;
  to[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 3), x.dt);
  to[1] = vram__tensor_empty(s, to[0].d, x.dt);
  vram__gradients_drop_unwanted(s, f, to);
}

/* cuda/RreluWithNoise.cu: contiguous noise (in evaluation, too) and result, the input as a
   contiguous copy; in place on a tensor that is not contiguous the result, too. */
static void vram__forward_rrelu(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const int inplace = (n->flags & VRAM__INPLACE) != 0;
  vram__tensor noise = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), x[0].dt);
  vram__tensor x_copy, y_copy = vram__tensor_none();
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  if (inplace)
    y[0] = vram__tensor_retain(s, x[0]);
  else
    y[0] = vram__tensor_empty(s, noise.d, x[0].dt);
  x_copy = vram__tensor_contiguous(s, x[0]);
  if (inplace)
    y_copy = vram__tensor_contiguous(s, y[0]);
  vram__tensor_release(s, y_copy);
  vram__tensor_release(s, x_copy);
  if (f) {
    vram__save_tensor(s, f, noise);
    vram__save_tensor(s, f, inplace ? y[0] : x[0]);
  }
  vram__tensor_release(s, noise);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_rrelu(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__pointwise_empty2(s, VRAM__SAVED(f)[0], VRAM__SLOTS(f)[0].g);
}

#endif /* VRAM_NO_STEP */

VRAM__OP_POINTWISE(relu, "relu", 1, 1, same, SAME, none, CLAMP,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS | VRAM__OP_REAL, "inplace",
                   "x0: threshold_backward(y, grad)");
VRAM__OP_POINTWISE(relu6, "relu6", 1, 1, same, SAME, none, CLAMP,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS | VRAM__OP_REAL, "inplace",
                   "x0: hardtanh_backward(grad, x0)");
VRAM__OP_POINTWISE(hardtanh, "hardtanh", 1, 1, same, SAME, none, CLAMP,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS | VRAM__OP_REAL,
                   "inplace min_val max_val", "x0: hardtanh_backward(grad, x0)");
VRAM__OP_POINTWISE(leaky_relu, "leaky_relu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace negative_slope",
                   "x0: leaky_relu_backward(x0, grad); inplace x0: leaky_relu_backward(y, grad)");
VRAM__OP_POINTWISE(elu, "elu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace alpha",
                   "x0: elu_backward(grad, x0); inplace x0: elu_backward(grad, y)");
VRAM__OP_POINTWISE(celu, "celu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace alpha",
                   "x0: elu_backward(grad, x0); inplace x0: elu_backward(grad, y)");
VRAM__OP_POINTWISE(selu, "selu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace",
                   "x0: elu_backward(grad, x0); inplace x0: elu_backward(grad, y)");
VRAM__OP_POINTWISE(gelu, "gelu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "approximate",
                   "x0: gelu_backward(grad, x0)");
VRAM__OP_POINTWISE(silu, "silu", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace",
                   "x0: silu_backward(grad, x0)");
VRAM__OP_POINTWISE(mish, "mish", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace",
                   "x0: mish_backward(grad, x0)");
VRAM__OP_POINTWISE(sigmoid, "sigmoid", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: sigmoid_backward(grad, y)");
VRAM__OP_POINTWISE(tanh, "tanh", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: tanh_backward(grad, y)");
VRAM__OP_POINTWISE(hardsigmoid, "hardsigmoid", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace",
                   "x0: hardsigmoid_backward(grad, x0)");
VRAM__OP_POINTWISE(hardswish, "hardswish", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "inplace",
                   "x0: hardswish_backward(grad, x0)");
VRAM__OP_POINTWISE(softplus, "softplus", 1, 1, same, SAME, fp32, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "beta threshold",
                   "x0: softplus_backward(grad, x0)");
VRAM__OP_LINES(softsign, "", 1, 1, same, none, ACTIVATION, 0, VRAM__OP_ANY_LAYOUT, "",
               "abs a x0; add b a scalar=1; drop a; div y x0 b");
VRAM__OP_LINES(tanhshrink, "tanhshrink", 1, 1, same, none, ACTIVATION, 0, VRAM__OP_ANY_LAYOUT, "",
               "tanh a x0; sub y x0 a");
VRAM__OP_POINTWISE(softshrink, "softshrink", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "lambd",
                   "x0: softshrink_backward(grad, x0)");
VRAM__OP_POINTWISE(hardshrink, "hardshrink", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "lambd",
                   "x0: hardshrink_backward(grad, x0)");
VRAM__OP_POINTWISE(threshold, "threshold", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS | VRAM__OP_REAL,
                   "inplace threshold value", "x0: threshold_backward(x0, grad)");
VRAM__OP_POINTWISE(logsigmoid, "logsigmoid log_sigmoid", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS | VRAM__OP_REAL, "",
                   "x0: with(buffer, log_sigmoid_backward(grad, x0))");
VRAM__OP(glu, "glu!: x dim", 1, 1, glu, SAME, none, glu, glu, each, ANY, 0,
         VRAM__OP_FLOATS | VRAM__OP_REAL, "dim");
VRAM__OP(prelu, "", 1, 2, prelu, SAME, low, prelu, prelu, each, PRELU, 0, VRAM__OP_FLOATS,
         "num_parameters frozen weights dtype");
VRAM__OP(rrelu, "rrelu", 1, 1, same, SAME, none, rrelu, rrelu, each, NONE, 0,
         VRAM__OP_FLOATS | VRAM__OP_REAL, "lower upper inplace");
