/* >>ops/dropout    dropout (aten/src/ATen/native/Dropout.cpp) */
#include "ops/ops.h"

/* kind of a row: what the noise is made for, and how many axes stand behind the channels (0: any)
 */
enum {
  VRAM__DROPOUT_AXES = 7,
  VRAM__DROPOUT_FEATURES = 8, /* one number for each channel */
  VRAM__DROPOUT_ALPHA = 16    /* what is dropped becomes another number than 0 */
};

/* Dropout.cpp, make_feature_noise; torch.nn.functional.dropout1d */
static int vram__shape_dropout(vram_graph *g, vram_node *n) {
  const uint32_t ndim = n->in[0]->d->ndim, kind = vram__op_at(n->op)->kind;
  if (VRAM__INT(n, p, 0) < 0 || VRAM__INT(n, p, 0) > VRAM__ONE)
    return vram__node_error(g, n, "p must be 0 to 1");
  if (!(kind & VRAM__DROPOUT_FEATURES))
    return vram__shape_same(g, n);
  if ((kind & VRAM__DROPOUT_AXES) == 1 && ndim != 2 && ndim != 3)
    return vram__node_error(g, n, "dropout1d of a tensor that has not two or three axes");
  if (ndim + ((kind & VRAM__DROPOUT_AXES) == 3 && ndim != 5) < 2)
    return vram__node_error(g, n, "dropout of channels of a tensor without channels");
  return vram__shape_same(g, n);
}

#ifndef VRAM_NO_STEP

/* Dropout.cpp, multiply: x * noise, in place or not; what all dropouts but the fused one come to.
   Takes the noise. */
static vram__tensor vram__torch_noise(vram__step *s, vram__tensor x, vram__tensor noise,
                                      int inplace) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_noise, &x, 1, 1, 1);
  vram__tensor y = inplace ? vram__tensor_retain(s, x) : vram__pointwise_empty2(s, x, noise);
  if (f)
    vram__save_tensor(s, f, noise);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, noise);
  return y;
}

VRAM__FN void vram__backward_noise(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__pointwise_empty2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

/* Dropout.cpp, make_feature_noise: sizes [N, C, 1, ...], with 1 kept axis [C, 1, ...] */
static vram__tensor vram__feature_noise(vram__step *s, vram__tensor x, uint32_t kept) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i < kept ? x.d->v[i] : 1;
  return vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
}

/* cuda/Dropout.cu, native_dropout: one kernel that leaves a mask */
static vram__tensor vram__native_dropout(vram__step *s, const vram_node *n, vram__tensor x) {
  vram__grad_fn *f = vram__tape_record(s, n->op, &x, 1, 1, 1);
  vram__tensor mask = vram__tensor_none(), y;
  if (s->ideal) /* a counter-based generator makes the same mask again */
    y = vram__pointwise_empty1(s, x);
  else {
    mask = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_BOOL);
    y = vram__tensor_empty(s, vram__dims_dense(s, x.d), x.dt);
    if (f)
      vram__save_tensor(s, f, mask);
  }
  vram__tensor_release(s, mask);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* Dropout.cpp, _dropout_impl. axes: behind the channels of a batch, 0: any */
static vram__tensor vram__dropout_impl(vram__step *s, const vram_node *n, vram__tensor x) {
  const uint32_t kind = vram__op_at(n->op)->kind, axes = kind & VRAM__DROPOUT_AXES;
  const int inplace = (n->flags & VRAM__INPLACE) != 0, alpha = (kind & VRAM__DROPOUT_ALPHA) != 0;
  const uint32_t before = vram__tensor_fn(s, x);
  vram__tensor noise, b = vram__tensor_none(), y;
  if (VRAM__INT(n, p, VRAM__ONE / 2) >= VRAM__ONE)
    return vram__torch_noise(s, x, vram__tensor_empty(s, s->scalar, x.dt), inplace);
  /* in place unsqueeze_ and squeeze_ stand around it */
  noise = kind & VRAM__DROPOUT_FEATURES
              ? vram__feature_noise(s, x, inplace && axes && x.d->ndim != axes + 2 ? 1 : 2)
              : vram__pointwise_empty1(s, x);
  if (alpha)
    b = vram__pointwise_empty1(s, noise);
  y = vram__torch_noise(s, x, noise, inplace);
  if (alpha) { /* add_ of b */
    if (inplace && vram__tensor_fn(s, y) != before)
      vram__history_rebase(s, &y, before);
    vram__grad_fn_set_output(s, vram__tape_record(s, VRAM__K_clone, &y, 1, 1, 0), 0, &y);
  }
  vram__tensor_release(s, b);
  return y;
}

static void vram__forward_dropout(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const int64_t p = VRAM__INT(n, p, VRAM__ONE / 2);
  const int inplace = (n->flags & VRAM__INPLACE) != 0;
  const uint32_t kind = vram__op_at(n->op)->kind, axes = kind & VRAM__DROPOUT_AXES;
  /* torch.nn.functional.dropout1d and dropout3d make a batch of one where there is none */
  const int unbatched = axes && x[0].d->ndim != axes + 2 && !inplace;
  const int drops = s->train && p && x[0].d->numel;
  vram__tensor in;
  if (!kind && !inplace && drops && p < VRAM__ONE) {
    y[0] = vram__native_dropout(s, n, x[0]);
    return;
  }
  in = unbatched ? vram__torch_unsqueeze(s, x[0], 0) : vram__tensor_retain(s, x[0]);
  y[0] = drops ? vram__dropout_impl(s, n, in) : vram__tensor_retain(s, in);
  if (unbatched)
    vram__tensor_replace(s, &y[0], vram__torch_squeeze1(s, y[0], 0));
  vram__tensor_release(s, in);
}

static void vram__backward_dropout(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (s->ideal && !f->nsaved)
    to[0] = vram__recipe_cast_over(s, g, g.d, g.dt);
  else /* Dropout.cu: empty_like in the format that the gradient suggests */
    to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, g.d, vram__suggests_cl(g.d)), g.dt);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(dropout, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME, 0,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS, "p inplace");
VRAM__OP(dropout1d, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME,
         VRAM__DROPOUT_FEATURES | 1, VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS,
         "p inplace");
VRAM__OP(dropout2d, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME,
         VRAM__DROPOUT_FEATURES, VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS,
         "p inplace");
VRAM__OP(dropout3d, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME,
         VRAM__DROPOUT_FEATURES | 3, VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS,
         "p inplace");
VRAM__OP(alpha_dropout, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME,
         VRAM__DROPOUT_ALPHA, VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS,
         "p inplace");
VRAM__OP(feature_alpha_dropout, "", 1, 1, dropout, SAME, none, dropout, dropout, each, SAME,
         VRAM__DROPOUT_ALPHA | VRAM__DROPOUT_FEATURES,
         VRAM__OP_DROPOUT | VRAM__OP_ANY_LAYOUT | VRAM__OP_FLOATS, "p inplace");
