/* >>ops/loss_margin    losses of margins, and poisson_nll_loss */
#include "ops/ops.h"

/* ---- shapes ---- */

/* The target broadcasts to the input, in whose place all is computed. */
static int vram__shape_soft_margin_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (!vram__loss_check(g, n) || !vram__loss_broadcast(g, n, 2, &ndim, size))
    return 0;
  if (!vram__loss_has_sizes(x, ndim, size))
    return vram__node_error(g, n, "a target that does not broadcast to the input");
  return vram__loss_out(g, n, ndim, size, 1);
}

/* The result has the input's dtype, whatever the target's is. */
static int vram__shape_hinge_loss(vram_graph *g, vram_node *n) {
  return vram__loss_shape(g, n, 2, 1);
}

/* torch.nn.functional.margin_ranking_loss: two inputs and a target of as many axes */
static int vram__shape_ranking_loss(vram_graph *g, vram_node *n) {
  uint32_t i;
  for (i = 1; i < n->nin; i++)
    if (n->in[i]->d->ndim != n->in[0]->d->ndim)
      return vram__node_error(g, n, "inputs and a target of different numbers of axes");
  return vram__loss_shape(g, n, 3, 3);
}

/* What margin losses of classes ask for: rows of classes, or one. Gives the classes, 0: an error.
 */
static int64_t vram__loss_classes(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  if (!vram__loss_check(g, n))
    return 0;
  if (x->ndim > 2) {
    vram__node_error(g, n, "an input of more than rows of classes");
    return 0;
  }
  if (x->ndim && !x->v[x->ndim - 1]) {
    vram__node_error(g, n, "a loss of no classes");
    return 0;
  }
  if (n->nin > 1 && n->in[1]->dtype != VRAM_I64) {
    vram__node_error(g, n, "a target of class numbers must be i64");
    return 0;
  }
  return x->ndim ? x->v[x->ndim - 1] : 1;
}

/* A class for each row, and weights of the classes. One row has one number as its loss, of a target
   without axes, too. */
static int vram__shape_multi_margin_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *target = n->nin > 1 ? n->in[1]->d : NULL;
  const int64_t classes = vram__loss_classes(g, n), p = VRAM__INT(n, p, VRAM__ONE);
  const int64_t rows = x->ndim > 1 ? x->v[0] : 1;
  if (!classes)
    return 0;
  if (p != VRAM__ONE && p != 2 * VRAM__ONE)
    return vram__node_error(g, n, "p must be 1 or 2");
  if (target && (target->ndim > 1 || target->numel != (uint64_t)rows))
    return vram__node_error(g, n, "a target of another shape");
  if (n->nin > 2 && (n->in[2]->d->ndim > 1 || n->in[2]->d->numel != (uint64_t)classes))
    return vram__node_error(g, n, "weights that are not one for each class");
  return vram__loss_out(g, n, target ? target->ndim : x->ndim > 1, &rows, 1);
}

/* Classes for each row. Of no rows PyTorch gives none, whatever the reduction. */
static int vram__shape_multilabel_margin_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *target = n->nin > 1 ? n->in[1]->d : x;
  const int64_t classes = vram__loss_classes(g, n);
  if (!classes)
    return 0;
  if (x->ndim > 1 ? !vram__loss_has_sizes(target, 2, x->v)
                  : target->ndim > 1 || target->numel != (uint64_t)classes)
    return vram__node_error(g, n, "a target of another shape");
  if (!x->numel)
    return vram__node_out(g, n, 0, 1, x->v, n->in[0]->dtype);
  return vram__loss_out(g, n, x->ndim > 1, x->v, 1);
}

#ifndef VRAM_NO_STEP

/* ---- losses made of other ops (Loss.cpp) ---- */

/* Temporaries of an expression, which go from the last one to the first. */
static void vram__loss_release_all(vram__step *s, const vram__tensor *t, uint32_t count) {
  while (count-- > 0)
    vram__tensor_release(s, t[count]);
}

/* number - x: a tensor of the number, from which x is subtracted in place */
static vram__tensor vram__loss_from_number(vram__step *s, vram__tensor x) {
  vram__tensor y = vram__pointwise_empty1(s, x);
  vram__op_call_in_place(s, VRAM_OP_sub, &y, x);
  return y;
}

/* where(target != 1, (margin - x).clamp_min_(0), zeros) + where(target != -1, x, zeros) */
static void vram__forward_hinge_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[4], t[4];
  vram__loss_args(s, n, x, 2, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  t[0] = vram__tensor_empty(s, vram__dims_contiguous(s, in[0].d), in[0].dt);
  t[1] = vram__loss_from_number(s, in[0]);
  vram__op_call_in_place(s, VRAM_OP_clamp, &t[1], vram__tensor_none());
  t[2] = vram__loss_where(s, in[1], t[1], t[0]);
  t[3] = vram__loss_where(s, in[1], in[0], t[0]);
  y[0] = vram__op_call_binary(s, VRAM_OP_add, t[2], t[3]);
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  vram__loss_release_all(s, t, 4);
  s->amp = amp;
  vram__loss_release(s, in, 4);
}

/* (-target * (x1 - x2) + margin).clamp_min_(0), the difference first */
static void vram__forward_ranking_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[6], t[3];
  vram__loss_args(s, n, x, 3, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  t[0] = vram__op_call_binary(s, VRAM_OP_sub, in[0], in[1]);
  t[1] = vram__op_call_unary(s, VRAM_OP_neg, in[2]);
  t[2] = vram__op_call_binary(s, VRAM_OP_mul, t[1], t[0]);
  y[0] = vram__op_call_unary(s, VRAM_OP_add, t[2]);
  vram__loss_release_all(s, t, 3);
  vram__op_call_in_place(s, VRAM_OP_clamp, &y[0], vram__tensor_none());
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  s->amp = amp;
  vram__loss_release(s, in, 6);
}

/* exp(x) - target * x, or x - target * log(x + eps): the product first */
static vram__tensor vram__poisson_terms(vram__step *s, const vram__tensor *in, int log_input) {
  vram__tensor t[3], y;
  if (log_input) {
    t[0] = vram__op_call_binary(s, VRAM_OP_mul, in[1], in[0]);
    t[1] = vram__op_call_unary(s, VRAM_OP_exp, in[0]);
    y = vram__op_call_binary(s, VRAM_OP_sub, t[1], t[0]);
    vram__loss_release_all(s, t, 2);
    return y;
  }
  t[0] = vram__op_call_unary(s, VRAM_OP_add, in[0]);
  t[1] = vram__op_call_unary(s, VRAM_OP_log, t[0]);
  t[2] = vram__op_call_binary(s, VRAM_OP_mul, in[1], t[1]);
  y = vram__op_call_binary(s, VRAM_OP_sub, in[0], t[2]);
  vram__loss_release_all(s, t, 3);
  return y;
}

/* target * log(target) - target + 0.5 * log(2 * pi * target), the last term first; 2 * pi makes
   whole numbers floating-point ones. */
static vram__tensor vram__poisson_stirling(vram__step *s, vram__tensor target) {
  vram__tensor t[6], y;
  if (vram__kind_rank(target.dt) < 2)
    t[0] = vram__tensor_empty(s, vram__dims_dense(s, target.d),
                              vram__step_dtype(s, vram__graph_default_dtype(s->g)));
  else
    t[0] = vram__op_call_unary(s, VRAM_OP_mul, target);
  t[1] = vram__op_call_unary(s, VRAM_OP_log, t[0]);
  t[2] = vram__op_call_unary(s, VRAM_OP_mul, t[1]);
  t[3] = vram__op_call_unary(s, VRAM_OP_log, target);
  t[4] = vram__op_call_binary(s, VRAM_OP_mul, target, t[3]);
  t[5] = vram__op_call_binary(s, VRAM_OP_sub, t[4], target);
  y = vram__op_call_binary(s, VRAM_OP_add, t[5], t[2]);
  vram__loss_release_all(s, t, 6);
  return y;
}

static void vram__forward_poisson_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[4], t[3];
  vram__loss_args(s, n, x, 2, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  y[0] = vram__poisson_terms(s, in, VRAM__INT(n, log_input, 1) != 0);
  if (VRAM__INT(n, full, 0)) {
    t[0] = vram__poisson_stirling(s, in[1]);
    t[1] = vram__tensor_empty(s, vram__dims_dense(s, in[1].d), VRAM_BOOL);
    t[2] = vram__op_call_binary(s, VRAM_OP_masked_fill, t[0], t[1]);
    vram__op_call_in_place(s, VRAM_OP_add, &y[0], t[2]);
    vram__loss_release_all(s, t, 3);
  }
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  s->amp = amp;
  vram__loss_release(s, in, 4);
}

/* ---- soft_margin_loss (Loss.cpp) ---- */

/* What is no argument of a derivative must not want one. */
static void vram__loss_refuse_target(vram__step *s, const vram_node *n, vram__tensor target) {
  if (s->grad && vram__tensor_wants_grad(s, target))
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "a target that wants a gradient: PyTorch refuses");
}

/* neg_out(output, x).mul_(target).exp_().log1p_(); the number stays in the storage of all. */
static void vram__forward_soft_margin_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                           vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[4], number;
  vram__grad_fn *f;
  uint32_t i;
  vram__loss_args(s, n, x, 2, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  vram__loss_refuse_target(s, n, in[1]);
  f = vram__tape_record(s, n->op, in, 1, 1, 2);
  y[0] = vram__pointwise_empty1(s, in[0]);
  if (vram__loss_reduction(n) != VRAM__REDUCTION_NONE) {
    number = vram__loss_sum_all(s, y[0], y[0].dt);
    if (!y[0].d->numel) /* the number has a storage of its own */
      vram__tensor_replace(s, &y[0], vram__tensor_empty(s, s->scalar, y[0].dt));
    vram__tensor_release(s, number);
    y[0].d = s->scalar;
  }
  for (i = 0; f && i < 2; i++)
    vram__save_tensor(s, f, in[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  s->amp = amp;
  vram__loss_release(s, in, 4);
}

/* z = exp(-target * x); mul_out(grad_input, target, z) */
static void vram__backward_soft_margin_loss(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0], target = VRAM__SAVED(f)[1];
  vram__tensor t[3], z;
  const vram_dims *d[2];
  t[0] = vram__pointwise_empty1(s, target);
  t[1] = vram__pointwise_empty2(s, t[0], x);
  z = vram__pointwise_empty1(s, t[1]);
  vram__loss_release_all(s, t, 2);
  d[0] = target.d;
  d[1] = z.d;
  to[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), x.dt);
  vram__tensor_release(s, z);
}

/* ---- margin losses of classes (cuda/MultiMarginLoss.cu, cuda/MultiLabelMarginCriterion.cu) ----
 */

/* Input, target, weights as autocast casts them, the last one first; class numbers of the op's own
   where the model gives none. */
static void vram__margin_args(vram__step *s, const vram_node *n, const vram__tensor *x,
                              const vram_dims *target, vram__tensor *in) {
  uint32_t i;
  in[1] = n->nin > 1 ? vram__tensor_retain(s, x[1]) : vram__tensor_empty(s, target, VRAM_I64);
  in[2] = n->nin > 2 ? vram__tensor_retain(s, x[2]) : vram__tensor_none();
  in[0] = vram__tensor_retain(s, x[0]);
  for (i = 3; s->amp && i-- > 0;)
    if (in[i].d)
      vram__tensor_replace(s, &in[i], vram__autocast_cast(s, in[i], VRAM_F32));
}

/* Contiguous copies of what the kernels read. */
static void vram__margin_copies(vram__step *s, const vram__tensor *in, uint32_t count,
                                vram__tensor *copy) {
  uint32_t i;
  for (i = 0; i < count; i++)
    copy[i] = in[i].d ? vram__norm_format_copy(s, in[i], 0) : vram__tensor_none();
}

/* A loss for each row, added up into y. */
static vram__tensor vram__margin_rows(vram__step *s, vram__tensor x) {
  const int64_t rows = x.d->v[0];
  return vram__tensor_empty(s, vram__dims_in(s, 1, &rows, NULL), x.dt);
}

static void vram__margin_add_up(vram__step *s, vram__tensor rows) {
  vram__reduce_scratch(s, rows, 1, rows.dt,
                       vram__dtype_size(rows.dt) < 4 ? 4 : vram__dtype_size(rows.dt), 4);
}

static void vram__forward_multi_margin_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                            vram__tensor *y) {
  const int none = vram__loss_reduction(n) == VRAM__REDUCTION_NONE;
  const int64_t rows = x[0].d->ndim > 1 ? x[0].d->v[0] : 1;
  const vram_dims *own = x[0].d->ndim > 1 ? vram__dims_in(s, 1, &rows, NULL) : s->scalar;
  vram__tensor in[3], copy[4];
  vram__grad_fn *f;
  uint32_t i, count = 3;
  vram__margin_args(s, n, x, own, in);
  if (in[2].d && in[2].dt != in[0].dt)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "weights of another dtype: PyTorch refuses (expected one dtype)");
  f = vram__tape_record(s, n->op, in, 1, 1, in[2].d ? 3 : 2);
  y[0] = vram__tensor_empty(s, none && in[1].d->ndim ? vram__dims_in(s, 1, &rows, NULL) : s->scalar,
                            in[0].dt);
  if (in[0].d->numel) {
    vram__margin_copies(s, in, count, copy);
    if (!none && in[0].d->ndim > 1) {
      copy[count++] = vram__margin_rows(s, in[0]);
      vram__margin_add_up(s, copy[3]);
    }
    vram__loss_release_all(s, copy, count);
  }
  for (i = 0; f && i < 3; i++)
    if (in[i].d)
      vram__save_tensor(s, f, in[i]);
  vram__loss_refuse_weight(s, n, in[2]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
}

static void vram__forward_multilabel_margin_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                                 vram__tensor *y) {
  const int none = vram__loss_reduction(n) == VRAM__REDUCTION_NONE;
  vram__tensor in[3], copy[2], labels, rows = vram__tensor_none();
  vram__grad_fn *f;
  vram__margin_args(s, n, x, vram__dims_contiguous(s, x[0].d), in);
  f = vram__tape_record(s, n->op, in, 1, 1, 3);
  vram__margin_copies(s, in, in[0].d->numel ? 2 : 0, copy);
  labels = vram__tensor_empty(s, vram__dims_contiguous(s, in[1].d), in[0].dt);
  if (!none && in[0].d->ndim > 1 && in[0].d->numel)
    rows = vram__margin_rows(s, in[0]);
  y[0] = vram__tensor_empty(s, n->out[0].d, in[0].dt);
  if (rows.d)
    vram__margin_add_up(s, rows);
  vram__tensor_release(s, rows);
  if (in[0].d->numel)
    vram__loss_release_all(s, copy, 2);
  if (f) {
    vram__save_tensor(s, f, in[0]);
    vram__save_tensor(s, f, in[1]);
    vram__save_tensor(s, f, labels);
  }
  vram__tensor_release(s, labels);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[1]);
}

/* Of both: the gradient, then contiguous copies. multi_margin_loss asks for the gradient's before
   the target's, the other one for its own last. */
static void vram__backward_class_margin_loss(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor *saved = VRAM__SAVED(f);
  const uint32_t multilabel = f->kind == VRAM_OP_multilabel_margin_loss;
  vram__tensor in[4], copy[4];
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, saved[0].d), saved[0].dt);
  if (!saved[0].d->numel)
    return;
  in[0] = saved[0];
  in[1 + multilabel] = VRAM__SLOTS(f)[0].g;
  in[2 - multilabel] = saved[1];
  in[3] = f->nsaved > 2 ? saved[2] : vram__tensor_none();
  vram__margin_copies(s, in, 4, copy);
  vram__loss_release_all(s, copy, 4);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(hinge_embedding_loss, "", 1, 2, hinge_loss, SAME, fp32, hinge_loss, none, each, NONE, 0,
         VRAM__OP_LOSS, "reduction margin");
VRAM__OP(margin_ranking_loss, "", 1, 3, ranking_loss, SAME, fp32, ranking_loss, none, each, NONE, 0,
         VRAM__OP_LOSS, "reduction margin");
VRAM__OP(poisson_nll_loss, "", 1, 2, loss, SAME, fp32, poisson_loss, none, each, NONE, 0,
         VRAM__OP_LOSS, "reduction log_input full eps");
VRAM__OP(soft_margin_loss, "", 1, 2, soft_margin_loss, SAME, fp32, soft_margin_loss,
         soft_margin_loss, each, NONE, 0, VRAM__OP_LOSS, "reduction");
VRAM__OP(multi_margin_loss, "", 1, 3, multi_margin_loss, SAME, fp32, multi_margin_loss,
         class_margin_loss, each, NONE, 0, VRAM__OP_LOSS, "reduction p margin");
VRAM__OP(multilabel_margin_loss, "", 1, 2, multilabel_margin_loss, SAME, fp32,
         multilabel_margin_loss, class_margin_loss, each, NONE, 0, VRAM__OP_LOSS, "reduction");
