/* >>ops/softmax    softmax, log_softmax, gumbel_softmax */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* cuda/SoftMax.cu, host_softmax: halves are read as they are where the result is in fp32. */
VRAM__FN vram__tensor vram__torch_softmax(vram__step *s, uint32_t op, vram__tensor x,
                                          vram_dtype dt) {
  const int half_to_float = x.dt == VRAM_F16 && dt == VRAM_F32;
  vram__tensor in = half_to_float ? vram__tensor_retain(s, x) : vram__torch_cast(s, x, dt), copy, y;
  const uint32_t keeps_input = (s->device.rules->does & VRAM__SOFTMAX_INPUT) != 0;
  vram__grad_fn *f = vram__tape_record(s, op, &in, 1, 1, 1 + keeps_input);
  y = vram__tensor_empty(s, vram__dims_contiguous(s, in.d), dt);
  copy = vram__norm_format_copy(s, in, 0);
  vram__tensor_release(s, copy);
  if (f) {
    vram__save_tensor(s, f, y);
    if (keeps_input)
      vram__save_tensor(s, f, in);
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, in);
  return y;
}

static void vram__forward_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram_dtype dt = vram__softmax_dtype(s, x[0]);
  if (n->nin > 1) /* dtype=other.dtype */
    dt = x[1].dt;
  else if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = vram__step_key_dtype(s, n, VRAM_F32);
  y[0] = vram__torch_softmax(s, n->op, x[0], dt);
}

/* host_softmax_backward; _softmax_backward_data gets grad * output. */
VRAM__FN void vram__backward_softmax(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, y = VRAM__SAVED(f)[0];
  vram__tensor product = vram__tensor_none(), copy;
  vram_dtype dt;
  vram__input_dims(s, f, 0, &dt);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, y.d), dt);
  if (f->kind != VRAM_OP_log_softmax)
    product = vram__pointwise_empty2(s, g, y);
  copy = vram__norm_format_copy(s, product.d ? product : g, 0);
  vram__tensor_release(s, copy);
  vram__tensor_release(s, product);
}

/* The largest value of each row as a one, minus `soft` without its gradient, plus `soft`. Takes
   `soft` and the logits that it is made of. */
static vram__tensor vram__gumbel_softmax_hard(vram__step *s, const vram_node *n, vram__tensor soft,
                                              vram__tensor logits, vram__tensor x) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, axis = 0;
  vram__tensor largest, index, one, detached, y;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x.d->ndim, &axis);
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i == axis ? 1 : x.d->v[i];
  if (i && !x.d->v[axis])
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n, "the largest of no values: PyTorch refuses");
  largest = vram__tensor_empty(s, vram__dims_in(s, i, size, NULL), soft.dt);
  index = vram__tensor_empty(s, largest.d, VRAM_I64);
  vram__tensor_release(s, largest);
  one = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  detached = vram__tensor_alias(s, soft, soft.d);
  y = vram__op_call_binary(s, VRAM_OP_sub, one, detached);
  vram__tensor_release(s, detached);
  vram__tensor_replace(s, &y, vram__op_call_binary(s, VRAM_OP_add, y, soft));
  vram__tensor_release(s, logits);
  vram__tensor_release(s, soft); /* Python's variables in their order */
  vram__tensor_release(s, index);
  vram__tensor_release(s, one);
  return y;
}

/* torch.nn.functional.gumbel_softmax: softmax((x - log(exponential)) / tau) */
static void vram__forward_gumbel_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  vram__tensor noise, logits, soft;
  noise = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), x[0].dt);
  vram__tensor_replace(s, &noise, vram__op_call_unary(s, VRAM_OP_log, noise));
  vram__tensor_replace(s, &noise, vram__op_call_unary(s, VRAM_OP_neg, noise));
  logits = vram__op_call_binary(s, VRAM_OP_add, x[0], noise);
  vram__tensor_replace(s, &logits, vram__op_call_unary(s, VRAM_OP_div, logits));
  vram__tensor_release(s, noise);
  soft = vram__torch_softmax(s, VRAM_OP_softmax, logits, vram__softmax_dtype(s, logits));
  if (VRAM__INT(n, hard, 0))
    y[0] = vram__gumbel_softmax_hard(s, n, soft, logits, x[0]);
  else {
    y[0] = soft;
    vram__tensor_release(s, logits);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(softmax, "softmax!: x dim dtype", 1, 2, same, SAME, none, softmax, softmax, each, SOFTMAX,
         0, VRAM__OP_FLOATS | VRAM__OP_REAL, "dim! dtype");
VRAM__OP(log_softmax, "log_softmax!: x dim dtype", 1, 2, same, SAME, none, softmax, softmax, each,
         SOFTMAX, 0, VRAM__OP_FLOATS | VRAM__OP_REAL, "dim! dtype");
VRAM__OP(gumbel_softmax, "", 1, 1, same, SAME, none, gumbel_softmax, none, each, NONE, 0,
         VRAM__OP_FLOATS | VRAM__OP_REAL, "tau hard dim eps");
VRAM__OP_LINES(softmin, "", 1, 1, same, none, NONE, 0, VRAM__OP_FLOATS | VRAM__OP_REAL,
               "dim! dtype", "neg a x0; softmax y a dim=@ dtype=@");
