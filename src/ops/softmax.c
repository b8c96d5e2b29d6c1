/* >>ops/softmax    softmax, log_softmax, gumbel_softmax */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* SoftMax.cu, host_softmax and host_softmax_backward */
VRAM__FN vram__tensor vram__torch_softmax(vram__step *s, uint32_t op, vram__tensor x, uint8_t dt) {
  vram__grad_fn *f;
  vram__tensor y, c, a;
  if (dt != x.dt && !(x.dt == VRAM_F16 && dt == VRAM_F32))
    a = vram__torch_cast(s, x, dt);
  else
    a = vram__tensor_retain(s, x);
  f = vram__tape_record(s, op, &a, 1, 1, 1);
  y = vram__tensor_empty(s, vram__dims_contiguous(s, a.d), dt);
  c = vram__norm_format_copy(s, a, 0);
  vram__tensor_release(s, c);
  if (f)
    vram__save_tensor(s, f, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, a);
  return y;
}

static void vram__forward_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  uint8_t dt =
      vram__node_list(n, VRAM__KEY_dtype, NULL) ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : 0;
  if (s->low && dt == VRAM_F32)
    dt = s->low;
  if (!dt)
    dt = s->amp && vram__is_half(x[0].dt) ? (uint8_t)VRAM_F32 : x[0].dt;
  y[0] = vram__torch_softmax(s, n->op, x[0], dt);
}

VRAM__FN void vram__backward_softmax(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, y = VRAM__SAVED(f)[0], c, t = vram__tensor_none();
  uint8_t dt;
  vram__input_dims(s, f, 0, &dt);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, y.d), dt);
  if (f->kind != VRAM_OP_log_softmax)
    t = vram__pointwise_empty2(s, g, y);
  c = vram__norm_format_copy(s, t.d ? t : g, 0);
  vram__tensor_release(s, c);
  vram__tensor_release(s, t);
}

/* torch.nn.functional.gumbel_softmax */
static void vram__forward_gumbel_softmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  vram__tensor t, u, g, soft;
  t = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), x[0].dt);
  u = vram__op_call(s, VRAM_OP_log, t, vram__tensor_none(), NULL);
  vram__tensor_release(s, t);
  g = vram__op_call(s, VRAM_OP_neg, u, vram__tensor_none(), NULL);
  vram__tensor_release(s, u);
  t = vram__op_call(s, VRAM_OP_add, x[0], g, NULL);
  u = vram__op_call(s, VRAM_OP_div, t, vram__tensor_none(), NULL);
  vram__tensor_release(s, t);
  vram__tensor_release(s, g);
  soft = vram__torch_softmax(s, VRAM_OP_softmax, u,
                             s->amp && vram__is_half(u.dt) ? (uint8_t)VRAM_F32 : u.dt);
  if (!VRAM__INT(n, hard, 0))
    y[0] = soft;
  else { /* the largest of each row, as a one, minus soft without its gradient, plus soft */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i, a = 0;
    vram__tensor max, index, one;
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = i == a ? 1 : x[0].d->v[i];
    max = vram__tensor_empty(s, vram__dims_in(s, i, size, NULL), soft.dt);
    index = vram__tensor_empty(s, max.d, VRAM_I64);
    vram__tensor_release(s, max);
    one = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), x[0].dt);
    t = soft;
    t.req = 0, t.fn = 0;
    t = vram__op_call(s, VRAM_OP_sub, one, t, NULL);
    y[0] = vram__op_call(s, VRAM_OP_add, t, soft, NULL);
    vram__tensor_release(s, t);
    vram__tensor_release(s, index);
    vram__tensor_release(s, one);
    vram__tensor_release(s, soft);
  }
  vram__tensor_release(s, u);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(softmax, 1, 1, same, SAME, none, softmax, softmax, each, SOFTMAX, 0, 0, "dim! dtype");
VRAM__OP(log_softmax, 1, 1, same, SAME, none, softmax, softmax, each, SOFTMAX, 0, 0, "dim! dtype");
VRAM__OP(gumbel_softmax, 1, 1, same, SAME, none, gumbel_softmax, none, each, NONE, 0, 0,
         "tau hard dim eps");
VRAM__OP_LINES(softmin, 1, 1, same, none, NONE, 0, 0, "dim! dtype",
               "neg a x0; softmax y a dim=@ dtype=@");
