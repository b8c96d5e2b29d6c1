/* >>ops/dropout    dropout (aten/src/ATen/native/Dropout.cpp) */
#include "ops/ops.h"

/* Dropout.cpp, make_feature_noise; torch.nn.functional.dropout1d */
static int vram__shape_dropout(vram_graph *g, vram_node *n) {
  uint32_t k = n->in[0]->d->ndim;
  if (VRAM__INT(n, p, 0) < 0 || VRAM__INT(n, p, 0) > VRAM__ONE)
    return vram__node_error(g, n, "p must be 0 to 1");
  if (n->op == VRAM_OP_dropout || n->op == VRAM_OP_alpha_dropout)
    return vram__shape_same(g, n);
  if (n->op == VRAM_OP_dropout1d && k != 2 && k != 3)
    return vram__node_error(g, n, "dropout1d of a tensor that has not two or three axes");
  if (k + (n->op == VRAM_OP_dropout3d && k != 5) < 2)
    return vram__node_error(g, n, "dropout of channels of a tensor without channels");
  return vram__shape_same(g, n);
}

#ifndef VRAM_NO_STEP

/* x * noise, in place or not: what all dropouts but the fused one come to; takes noise */
static vram__tensor vram__torch_noise(vram__step *s, vram__tensor x, vram__tensor noise,
                                      int inplace) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_noise, &x, 1, 1, 1);
  vram__tensor y = x;
  if (inplace) {
    y.fn = 0;
    vram__tensor_retain(s, y);
  } else
    y = vram__pointwise_empty2(s, x, noise);
  if (f)
    vram__save_tensor(s, f, noise);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, noise);
  return y;
}

VRAM__FN void vram__backward_noise(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__pointwise_empty2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

/* one number for each channel: sizes [N, C, 1, ...], with 1 kept axis [C, 1, ...] */
static vram__tensor vram__channel_noise(vram__step *s, vram__tensor x, uint32_t kept) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i < kept ? x.d->v[i] : 1;
  return vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
}

static void vram__forward_dropout(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  int64_t p = VRAM__INT(n, p, VRAM__ONE / 2);
  int inplace = (n->flags & VRAM__INPLACE) != 0, alpha = 0, feature = 0;
  uint32_t axes = 0;
  vram__grad_fn *f;
  vram__tensor m, b, c;
  if (n->op == VRAM_OP_dropout1d || n->op == VRAM_OP_dropout3d)
    axes = n->op == VRAM_OP_dropout1d ? 1 : 3;
  if (!s->train || p == 0 || !x[0].d->numel) {
    if (!axes || inplace || x[0].d->ndim == axes + 2) {
      y[0] = vram__tensor_retain(s, x[0]);
      return;
    }
    c = vram__torch_unsqueeze(s, x[0], 0);
    y[0] = vram__torch_squeeze1(s, c, 0);
    vram__tensor_release(s, c);
    return;
  }
  switch (n->op) {
  case VRAM_OP_alpha_dropout:
    alpha = 1;
    break;
  case VRAM_OP_feature_alpha_dropout:
    alpha = feature = 1;
    break;
  case VRAM_OP_dropout:
    break;
  default:
    feature = 1;
  }
  if (n->op == VRAM_OP_dropout && !inplace && p < VRAM__ONE) { /* native_dropout */
    f = vram__tape_record(s, n->op, x, 1, 1, 1);
    if (s->ideal) { /* a counter-based generator makes the same mask again */
      y[0] = vram__pointwise_empty1(s, x[0]);
      vram__grad_fn_set_output(s, f, 0, &y[0]);
      return;
    }
    m = vram__tensor_empty(s, vram__dims_dense(s, x[0].d), VRAM_BOOL);
    y[0] = vram__tensor_empty(s, vram__dims_dense(s, x[0].d), x[0].dt);
    if (f)
      vram__save_tensor(s, f, m);
    vram__tensor_release(s, m);
    vram__grad_fn_set_output(s, f, 0, &y[0]);
    return;
  }
  c = axes && x[0].d->ndim != axes + 2 && !inplace ? vram__torch_unsqueeze(s, x[0], 0)
                                                   : vram__tensor_retain(s, x[0]);
  if (p >= VRAM__ONE) {
    y[0] = vram__torch_noise(s, c, vram__tensor_empty(s, s->scalar, c.dt), inplace);
  } else {
    /* in place unsqueeze_ and squeeze_ stand around it */
    m = feature ? vram__channel_noise(s, c, inplace && axes && c.d->ndim != axes + 2 ? 1 : 2)
                : vram__pointwise_empty1(s, c);
    b = alpha ? vram__pointwise_empty1(s, m) : vram__tensor_none();
    y[0] = vram__torch_noise(s, c, m, inplace);
    if (alpha && inplace && y[0].fn) /* add_ of b */
      vram__history_rebase(s, c, &y[0]);
    if (alpha) {
      vram__grad_fn *add = vram__tape_record(s, VRAM__K_clone, &y[0], 1, 1, 0);
      uint32_t old = y[0].fn;
      vram__grad_fn_set_output(s, add, 0, &y[0]);
      if (add)
        vram__grad_fn_release(s, old);
    }
    vram__tensor_release(s, b);
  }
  if (c.d->ndim != x[0].d->ndim) {
    m = vram__torch_squeeze1(s, y[0], 0);
    vram__tensor_release(s, y[0]);
    y[0] = m;
  }
  vram__tensor_release(s, c);
}

static void vram__backward_dropout(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  if (s->ideal && !f->nsaved) {
    vram__tensor g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__recipe_cast_over(s, g, g.d, g.dt);
    return;
  }
  { /* Dropout.cu: empty_like in the format that the gradient suggests */
    vram__tensor g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, g.d, vram__suggests_cl(g.d)), g.dt);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(dropout, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 0,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
VRAM__OP(dropout1d, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 1,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
VRAM__OP(dropout2d, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 2,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
VRAM__OP(dropout3d, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 3,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
VRAM__OP(alpha_dropout, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 0,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
VRAM__OP(feature_alpha_dropout, 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 0,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT, "p inplace");
