/* >>ops/loss    losses */
#include "ops/ops.h"

/* kind of a loss's row */
enum {
  VRAM__LOSS_CROSS_ENTROPY,
  VRAM__LOSS_NLL,
  VRAM__LOSS_MSE, /* and smooth_l1_loss */
  VRAM__LOSS_L1,
  VRAM__LOSS_HUBER,
  VRAM__LOSS_BCE,
  VRAM__LOSS_BCE_LOGITS,
  VRAM__LOSS_KL_DIV,
  VRAM__LOSS_CTC,
  VRAM__LOSS_COSINE,
  VRAM__LOSS_TRIPLET
};

/* ---- shapes ---- */

/* What every loss asks for. */
VRAM__FN int vram__loss_check(vram_graph *g, vram_node *n) {
  const int64_t reduction = VRAM__INT(n, reduction, VRAM__WORD(mean));
  if (reduction != VRAM__WORD(none) && reduction != VRAM__WORD(mean) &&
      reduction != VRAM__WORD(sum) &&
      !(reduction == VRAM__WORD(batchmean) && vram__op_at(n->op)->kind == VRAM__LOSS_KL_DIV))
    return vram__node_error(g, n, "reduction must be none, mean or sum");
  if (vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "a loss of a tensor that is not floating point");
  return 1;
}

/* One number, or with reduction=none these sizes. count: the inputs that the dtype comes from */
VRAM__FN int vram__loss_out(vram_graph *g, vram_node *n, uint32_t ndim, const int64_t *size,
                            uint32_t count) {
  const int none = VRAM__INT(n, reduction, 0) == VRAM__WORD(none);
  vram_dtype dt = n->in[0]->dtype;
  uint32_t i;
  for (i = 1; i < n->nin && i < count; i++)
    dt = vram__promote2(dt, n->in[i]->dtype);
  return vram__node_out(g, n, 0, none ? ndim : 0, size, dt);
}

VRAM__FN int vram__loss_has_sizes(const vram_dims *d, uint32_t ndim, const int64_t *size) {
  uint32_t i;
  for (i = 0; i < ndim && d->ndim == ndim && d->v[i] == size[i];)
    i++;
  return d->ndim == ndim && i == ndim;
}

/* The sizes without those of the classes, which are axis 1, or the only axis. */
static uint32_t vram__loss_class_sizes(const vram_dims *d, int64_t *size) {
  uint32_t i, ndim = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != (d->ndim > 1))
      size[ndim++] = d->v[i];
  return ndim;
}

/* cross_entropy and nll_loss: a target of class numbers or, for the former, of probabilities, and
   weights of the classes */
static int vram__shape_class_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *target = n->nin > 1 ? n->in[1]->d : NULL;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (!vram__loss_check(g, n))
    return 0;
  if (!x->ndim)
    return vram__node_error(g, n, "a loss of a tensor without axes");
  if (x->ndim > 1 && !x->v[1])
    return vram__node_error(g, n, "a loss of no classes");
  ndim = vram__loss_class_sizes(x, size);
  if (target && vram__dtype_is_float(n->in[1]->dtype)) {
    if (vram__op_at(n->op)->kind == VRAM__LOSS_NLL || !vram__loss_has_sizes(target, x->ndim, x->v))
      return vram__node_error(g, n, "a target of another shape");
  } else if (target) {
    if (!vram__loss_has_sizes(target, ndim, size))
      return vram__node_error(g, n, "a target of another shape");
    if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_U8)
      return vram__node_error(g, n, "a target of class numbers must be i64");
  }
  if (n->nin > 2 && !vram__loss_has_sizes(n->in[2]->d, 1, x->v + (x->ndim > 1)))
    return vram__node_error(g, n, "weights that are not one for each class");
  return vram__loss_out(g, n, ndim, size, 1);
}

/* Log-probabilities [T,N,C] or [T,C], targets [N,S] or one after the other. */
static int vram__shape_ctc_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *target = n->nin > 1 ? n->in[1]->d : NULL;
  int64_t size[1], longest;
  uint32_t ndim = 0;
  if (!vram__loss_check(g, n))
    return 0;
  if (x->ndim != 2 && x->ndim != 3)
    return vram__node_error(g, n, "log-probabilities must be [T,N,C] or [T,C]");
  if (x->ndim == 3)
    size[ndim++] = x->v[1];
  if (target && (target->ndim < 1 || target->ndim > 2 ||
                 (target->ndim == 2 && (!ndim || target->v[0] != size[0]))))
    return vram__node_error(g, n, "targets must be [N,S] or [S]");
  if (target && n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
    return vram__node_error(g, n, "targets must be i64");
  longest = target ? target->v[target->ndim - 1u] : x->v[0];
  if (vram__product_or_overflow(
          vram__product_or_overflow((uint64_t)x->v[0], ndim ? (uint64_t)size[0] : 1),
          vram__product_or_overflow(16, 2 * (uint64_t)longest + 1)) == VRAM_OVERFLOW) {
    vram__graph_fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
    return 0;
  }
  return vram__loss_out(g, n, ndim, size, 1);
}

/* binary_cross_entropy, with_logits: a target of the input's shape, and weights that broadcast */
static int vram__shape_binary_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i;
  if (!vram__loss_check(g, n))
    return 0;
  if (n->nin > 1 && !vram__loss_has_sizes(n->in[1]->d, x->ndim, x->v))
    return vram__node_error(g, n, "a target of another shape");
  for (i = 2; i < n->nin; i++) {
    int64_t size[VRAM_MAX_AXES];
    uint32_t ndim = 0;
    if (!vram__dims_broadcast(&ndim, size, x) || !vram__dims_broadcast(&ndim, size, n->in[i]->d) ||
        !vram__loss_has_sizes(x, ndim, size))
      return vram__node_error(g, n, "weights that do not broadcast to the input");
  }
  if (n->nin < 3 && VRAM__INT(n, pos_weight, 0))
    return vram__node_error(g, n, "no input that pos_weight=1 stands for");
  return vram__loss_out(g, n, x->ndim, x->v, 2);
}

/* The first `count` inputs broadcast. */
VRAM__FN int vram__loss_broadcast(vram_graph *g, vram_node *n, uint32_t count, uint32_t *ndim,
                                  int64_t *size) {
  uint32_t i;
  *ndim = 0;
  for (i = 0; i < n->nin && i < count; i++)
    if (!vram__dims_broadcast(ndim, size, n->in[i]->d))
      return vram__node_error(g, n, "shapes do not broadcast");
  return 1;
}

/* The first `count` inputs broadcast, element by element; the result has the dtype of the first
   `floating` ones. */
VRAM__FN int vram__loss_shape(vram_graph *g, vram_node *n, uint32_t count, uint32_t floating) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (!vram__loss_check(g, n) || !vram__loss_broadcast(g, n, count, &ndim, size) ||
      !vram__graph_dims(g, ndim, size)) /* the broadcast shape must fit as well */
    return 0;
  return vram__loss_out(g, n, ndim, size, floating);
}

VRAM__FN int vram__shape_loss(vram_graph *g, vram_node *n) { return vram__loss_shape(g, n, 2, 2); }

/* cosine_embedding_loss (two inputs and a target) and triplet_margin_loss: along the last axis */
static int vram__shape_distance_loss(vram_graph *g, vram_node *n) {
  const int cosine = vram__op_at(n->op)->kind == VRAM__LOSS_COSINE;
  const uint32_t count = cosine ? 2 : 3;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (!vram__loss_check(g, n))
    return 0;
  if (!n->in[0]->d->ndim)
    return vram__node_error(g, n, "a loss of a tensor without axes");
  if (!vram__loss_broadcast(g, n, count, &ndim, size))
    return 0;
  ndim--;
  if (cosine && (ndim > 1 || (n->nin > 2 && !vram__loss_has_sizes(n->in[2]->d, ndim, size))))
    return vram__node_error(g, n, "cosine_embedding_loss takes [N,D], [N,D] and [N]");
  if (!vram__graph_dims(g, ndim + 1, size)) /* the broadcast shape must fit as well */
    return 0;
  return vram__loss_out(g, n, ndim, size, count);
}

#ifndef VRAM_NO_STEP

/* ---- what losses share ---- */

/* torch.nn.functional.kl_div divides by the batch where there is one. */
VRAM__FN int vram__loss_reduction(const vram_node *n) {
  const int64_t word = VRAM__INT(n, reduction, VRAM__WORD(mean));
  if (word == VRAM__WORD(batchmean))
    return n->in[0]->d->ndim ? VRAM__REDUCTION_BATCHMEAN : VRAM__REDUCTION_SUM;
  return word == VRAM__WORD(none)  ? VRAM__REDUCTION_NONE
         : word == VRAM__WORD(sum) ? VRAM__REDUCTION_SUM
                                   : VRAM__REDUCTION_MEAN;
}

/* Loss.cpp, apply_loss_reduction. Takes x. */
VRAM__FN vram__tensor vram__loss_reduce(vram__step *s, vram__tensor x, int reduction) {
  if (reduction == VRAM__REDUCTION_NONE)
    return x;
  vram__tensor_replace(
      s, &x,
      vram__op_call_unary(s, reduction == VRAM__REDUCTION_MEAN ? VRAM_OP_mean : VRAM_OP_sum, x));
  return x;
}

/* x.sum() without autograd */
VRAM__FN vram__tensor vram__loss_sum_all(vram__step *s, vram__tensor x, vram_dtype dt) {
  return vram__tensor_sum(s, x, (1u << x.d->ndim) - 1, 0, dt);
}

/* Input k as torch.broadcast_tensors expands it to the first `count`. */
static void vram__loss_expand(vram__step *s, vram__tensor *in, uint32_t count, uint32_t k) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, ndim = 0;
  for (i = 0; i < count; i++)
    vram__dims_broadcast(&ndim, size, in[i].d);
  if (!vram__loss_has_sizes(in[k].d, ndim, size))
    vram__tensor_replace(s, &in[k], vram__torch_expand(s, in[k], ndim, size));
}

/* The inputs of a loss; targets that the model does not give are zeros like x. Expanded to each
   other, if they are to be, and on autocast's fp32 list: the last one is cast first. Behind these
   `count` stands what the Python function's variables hold of the targets of its own. Owned. */
VRAM__FN void vram__loss_args(vram__step *s, const vram_node *n, const vram__tensor *x,
                              uint32_t count, int expand, vram__tensor *in) {
  uint32_t i;
  for (i = 0; i < count; i++)
    in[i] = i < n->nin ? vram__tensor_retain(s, x[i])
                       : vram__tensor_empty(s, vram__dims_dense(s, x[0].d), x[0].dt);
  for (i = 0; i < count; i++)
    in[count + i] = i < n->nin ? vram__tensor_none() : vram__tensor_retain(s, in[i]);
  for (i = 0; expand && i < count; i++)
    vram__loss_expand(s, in, count, i);
  for (i = count; s->amp && i-- > 0;)
    vram__tensor_replace(s, &in[i], vram__autocast_cast(s, in[i], VRAM_F32));
}

VRAM__FN void vram__loss_release(vram__step *s, const vram__tensor *in, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count / 2; i++)
    vram__tensor_release(s, in[i]);
  for (i = count; i-- > count / 2;) /* what the caller made: a list goes from its end */
    vram__tensor_release(s, in[i]);
}

/* Weights have no derivative. */
VRAM__FN void vram__loss_refuse_weight(vram__step *s, const vram_node *n, vram__tensor weight) {
  if (weight.d && s->grad && vram__tensor_wants_grad(s, weight))
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "weights of a loss that want a gradient: PyTorch refuses");
}

/* ---- one kernel for all elements (Loss.cpp, cuda/Loss.cu) ---- */

/* The result of a kernel that has left its values in t, reduced; takes t. Some reductions leave
   the number in the storage of all values. */
static vram__tensor vram__loss_kernel_reduce(vram__step *s, int kind, vram__tensor t, int none) {
  vram__tensor other;
  if (none)
    return t;
  if (!t.d->numel) { /* the number has a storage of its own */
    other = kind == VRAM__LOSS_BCE ? vram__loss_sum_all(s, t, t.dt) : vram__tensor_none();
    vram__tensor_replace(s, &t, vram__tensor_empty(s, s->scalar, t.dt));
    vram__tensor_release(s, other);
    return t;
  }
  if (kind == VRAM__LOSS_HUBER) {
    vram__tensor_replace(s, &t, vram__loss_sum_all(s, t, t.dt));
    return t;
  }
  if (kind == VRAM__LOSS_BCE)
    other = vram__loss_sum_all(s, t, t.dt);
  else { /* mse_loss, smooth_l1_loss: t is the result, which was made before the values were */
    other = vram__tensor_empty(s, t.d, t.dt);
    vram__reduce_scratch(s, other, (1u << t.d->ndim) - 1, t.dt,
                         vram__dtype_size(t.dt) < 4 ? 4 : vram__dtype_size(t.dt), 4);
  }
  vram__tensor_release(s, other);
  t.d = s->scalar;
  return t;
}

/* Inputs of a binary loss behind its target. */
static uint32_t vram__loss_weights(const vram_node *n) { return n->nin > 2 ? n->nin - 2u : 0; }

/* binary_cross_entropy_with_logits: kernels one after the other, the first result is in the input's
   dtype. */
static vram__tensor vram__loss_logits(vram__step *s, const vram_dims *d, const vram__tensor *in,
                                      int none) {
  vram__tensor first = vram__tensor_empty(s, d, in[0].dt), y;
  if (VRAM__INT(s->node, pos_weight, 0)) { /* (pos_weight - 1).mul(target).add_(1) */
    const vram__tensor less = vram__pointwise_empty1(s, in[1 + vram__loss_weights(s->node)]);
    y = vram__pointwise_empty2(s, less, in[1]);
    vram__tensor_release(s, less);
    vram__tensor_release(s, y);
  }
  y = vram__tensor_empty(s, d, vram__promote_pair(in[0], in[1]));
  if (!none)
    vram__tensor_replace(s, &y, vram__loss_sum_all(s, y, y.dt));
  vram__tensor_release(s, first);
  return y;
}

static void vram__forward_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  const int kind = vram__op_at(n->op)->kind;
  const int none = vram__loss_reduction(n) == VRAM__REDUCTION_NONE;
  const int binary = kind == VRAM__LOSS_BCE || kind == VRAM__LOSS_BCE_LOGITS;
  const uint32_t count = 2 + (binary ? vram__loss_weights(n) : 0);
  const vram_dtype amp = s->amp;
  const vram_dims *d[2];
  vram__tensor in[8];
  vram__grad_fn *f;
  uint32_t i;
  vram__loss_args(s, n, x, count, !binary, in);
  s->amp = VRAM_DTYPE_NONE; /* inside, autocast is off */
  if (amp && kind == VRAM__LOSS_BCE) {
    s->problem = "binary_cross_entropy does not run under autocast (expected "
                 "binary_cross_entropy_with_logits)";
    s->failed = VRAM_ERR_UNSUPPORTED;
  }
  if (kind == VRAM__LOSS_BCE && in[1].dt != in[0].dt)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "a target of another dtype: PyTorch refuses (expected one dtype)");
  f = vram__tape_record(s, n->op, in, 2, 1, count);
  d[0] = in[0].d;
  d[1] = in[1].d;
  d[0] = vram__dims_pointwise(s, d, 2);
  if (kind == VRAM__LOSS_BCE_LOGITS)
    y[0] = vram__loss_logits(s, d[0], in, none);
  else {
    y[0] = vram__tensor_empty(
        s, d[0], kind == VRAM__LOSS_HUBER ? in[0].dt : vram__promote_pair(in[0], in[1]));
    y[0] = vram__loss_kernel_reduce(s, kind, y[0], none);
  }
  for (i = 0; f && i < count; i++)
    vram__save_tensor(s, f, in[i]);
  for (i = 2; i < count; i++)
    vram__loss_refuse_weight(s, n, in[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  s->amp = amp;
  vram__loss_release(s, in, 2 * count);
}

/* binary_cross_entropy_with_logits_backward: t = pos_weight.mul(target);
   t.add(1).sub_(target).mul_(input.sigmoid()).sub_(t) */
static vram__tensor vram__loss_logits_gradient(vram__step *s, const vram__tensor *in,
                                               vram__tensor pos_weight) {
  const vram__tensor t = vram__pointwise_empty2(s, pos_weight, in[1]);
  const vram__tensor y = vram__pointwise_empty1(s, t);
  const vram__tensor sigmoid = vram__pointwise_empty1(s, in[0]);
  vram__tensor_release(s, sigmoid);
  vram__tensor_release(s, t);
  return y;
}

static void vram__backward_loss(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int kind = vram__op_at(f->kind)->kind;
  const vram__tensor *in = VRAM__SAVED(f);
  uint32_t i;
  for (i = 0; i < 2; i++) {
    if (!vram__input_wanted(f, i))
      continue;
    if (kind == VRAM__LOSS_BCE_LOGITS && i) { /* the target's: -input, times the gradient */
      const vram__tensor negative = vram__pointwise_empty1(s, in[0]);
      to[i] = vram__pointwise_empty2(s, negative, VRAM__SLOTS(f)[0].g);
      vram__tensor_release(s, negative);
      if (f->nsaved > 2)
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                          "a target that wants a gradient beside weights (expected one of them)");
    } else if (kind == VRAM__LOSS_BCE_LOGITS && VRAM__INT(f->node, pos_weight, 0))
      to[i] = vram__loss_logits_gradient(s, in, in[f->nsaved - 1]);
    else if (kind == VRAM__LOSS_BCE || kind == VRAM__LOSS_BCE_LOGITS)
      to[i] = vram__tensor_empty(s, vram__dims_dense(s, in[0].d), in[i].dt);
    else
      to[i] = vram__tensor_empty(s, vram__dims_contiguous(s, in[i].d), in[i].dt);
  }
}

/* ---- losses made of other ops ---- */

/* Loss.cpp, l1_loss: one C++ expression, the temporaries of which go at its end */
static void vram__forward_l1_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[4], difference;
  vram__loss_args(s, n, x, 2, 1, in);
  s->amp = VRAM_DTYPE_NONE;
  difference = vram__op_call_binary(s, VRAM_OP_sub, in[0], in[1]);
  y[0] = vram__op_call_unary(s, VRAM_OP_abs, difference);
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  vram__tensor_release(s, difference);
  s->amp = amp;
  vram__loss_release(s, in, 4);
}

/* xlogy(x, x) */
static vram__tensor vram__torch_xlogx(vram__step *s, vram__tensor x) {
  vram__tensor in[2], y;
  vram__grad_fn *f;
  in[0] = in[1] = x;
  f = vram__tape_record(s, VRAM__K_xlogx, in, 2, 1, 1);
  y = vram__pointwise_empty1(s, x);
  if (f)
    vram__save_tensor(s, f, x);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* derivatives.yaml, xlogy: grad * self / other, and grad.masked_fill of its logarithm */
VRAM__FN void vram__backward_xlogx(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__tensor product = vram__pointwise_empty2(s, g, x), mask[3];
  uint32_t i;
  to[1] = vram__pointwise_empty2(s, product, x);
  vram__tensor_release(s, product);
  product = vram__pointwise_empty2(s, g, x);
  for (i = 0; i < 3; i++) /* x == 0, x <= 0, both */
    mask[i] = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_BOOL);
  to[0] = vram__pointwise_empty1(s, product);
  while (i-- > 0)
    vram__tensor_release(s, mask[i]);
  vram__tensor_release(s, product);
}

/* Loss.cpp, _kl_div_log_target and _kl_div_non_log_target; torch.nn.functional.kl_div divides their
   sum by the batch. */
static void vram__forward_kl_div(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  const vram_dtype amp = s->amp;
  const int reduction = vram__loss_reduction(n);
  vram__tensor in[4], first, second;
  uint32_t i;
  vram__loss_args(s, n, x, 2, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  if (vram__kind_rank(in[1].dt) < 2)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n, "kl_div of integers: PyTorch refuses");
  if (VRAM__INT(n, log_target, 0)) {
    first = vram__op_call_binary(s, VRAM_OP_sub, in[1], in[0]);
    second = vram__op_call_unary(s, VRAM_OP_exp, in[1]);
    y[0] = vram__op_call_binary(s, VRAM_OP_mul, second, first);
  } else {
    first = vram__op_call_binary(s, VRAM_OP_mul, in[1], in[0]);
    second = vram__torch_xlogx(s, in[1]);
    y[0] = vram__op_call_binary(s, VRAM_OP_sub, second, first);
  }
  vram__tensor_release(s, second);
  vram__tensor_release(s, first);
  y[0] = vram__loss_reduce(s, y[0], reduction);
  s->amp = amp;
  for (i = 0; i < 2; i++)
    vram__tensor_replace(s, &in[i], vram__tensor_none());
  if (reduction == VRAM__REDUCTION_BATCHMEAN)
    vram__tensor_replace(s, &y[0], vram__op_call_unary(s, VRAM_OP_div, y[0]));
  vram__loss_release(s, in, 4);
}

/* Distance.cpp, pairwise_distance */
static vram__tensor vram__torch_pairwise_distance(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram__tensor difference = vram__op_call_binary(s, VRAM_OP_sub, a, b);
  const vram__tensor shifted = vram__op_call_unary(s, VRAM_OP_add, difference);
  const vram__tensor y = vram__op_call_key(s, VRAM_OP_norm, shifted, VRAM__KEY_dim, -1);
  vram__tensor_release(s, difference);
  vram__tensor_release(s, shifted);
  return y;
}

/* Loss.cpp, triplet_margin_loss */
static void vram__forward_triplet_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  const vram_dtype amp = s->amp;
  vram__tensor in[6], positive, negative, swapped, sum, difference;
  vram__loss_args(s, n, x, 3, 0, in);
  s->amp = VRAM_DTYPE_NONE;
  positive = vram__torch_pairwise_distance(s, in[0], in[1]);
  negative = vram__torch_pairwise_distance(s, in[0], in[2]);
  if (VRAM__INT(n, swap, 0)) {
    swapped = vram__torch_pairwise_distance(s, in[1], in[2]);
    vram__tensor_replace(s, &negative, vram__op_call_binary(s, VRAM_OP_minimum, negative, swapped));
    vram__tensor_release(s, swapped);
  }
  sum = vram__op_call_unary(s, VRAM_OP_add, positive);
  difference = vram__op_call_binary(s, VRAM_OP_sub, sum, negative);
  y[0] = vram__op_call_unary(s, VRAM_OP_clamp, difference);
  vram__tensor_release(s, difference);
  vram__tensor_release(s, sum);
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  vram__tensor_release(s, negative);
  vram__tensor_release(s, positive);
  s->amp = amp;
  vram__loss_release(s, in, 6);
}

/* ---- cosine_embedding_loss (Loss.cpp) ---- */

/* Inputs and a target, which may be of the op's own; `held` by the caller, cast by autocast. */
static void vram__cosine_args(vram__step *s, const vram_node *n, const vram__tensor *x,
                              vram__tensor *in, vram__tensor *held) {
  const vram_dims *d = x[0].d;
  uint32_t i;
  for (i = 0; i < 3; i++) {
    held[i] = i < n->nin ? vram__tensor_retain(s, x[i])
              : i == 1   ? vram__tensor_empty(s, vram__dims_dense(s, d), x[0].dt)
                       : vram__tensor_empty(s, vram__dims_in(s, d->ndim - 1u, d->v, NULL), x[0].dt);
  }
  for (i = 3; i-- > 0;)
    in[i] = s->amp ? vram__autocast_cast(s, held[i], VRAM_F32) : vram__tensor_retain(s, held[i]);
}

/* (a * b).sum(axis), and + EPSILON */
static vram__tensor vram__cosine_sum(vram__step *s, vram__tensor a, vram__tensor b, int64_t axis,
                                     int epsilon) {
  const vram__tensor product = vram__op_call_binary(s, VRAM_OP_mul, a, b);
  vram__tensor y = vram__op_call_key(s, VRAM_OP_sum, product, VRAM__KEY_dim, axis);
  if (epsilon)
    vram__tensor_replace(s, &y, vram__op_call_unary(s, VRAM_OP_add, y));
  vram__tensor_release(s, product);
  return y;
}

/* at::where(target == 1, value, zeros), and of -1 */
VRAM__FN vram__tensor vram__loss_where(vram__step *s, vram__tensor target, vram__tensor value,
                                       vram__tensor zeros) {
  vram__tensor in[3], y;
  in[0] = vram__tensor_empty(s, vram__dims_dense(s, target.d), VRAM_BOOL);
  in[1] = value;
  in[2] = zeros;
  y = vram__op_call_n(s, VRAM_OP_where, in, 3, NULL, NULL);
  vram__tensor_release(s, in[0]);
  return y;
}

/* The C++ function's variables, which go in reverse order. */
enum {
  VRAM__COSINE_PROD_SUM,
  VRAM__COSINE_SQUARE1,
  VRAM__COSINE_SQUARE2,
  VRAM__COSINE_DENOM,
  VRAM__COSINE_COS,
  VRAM__COSINE_ZEROS,
  VRAM__COSINE_POS,
  VRAM__COSINE_NEG,
  VRAM__COSINE_OUT_POS,
  VRAM__COSINE_OUT_NEG,
  VRAM__COSINE_LOCALS
};

static void vram__forward_cosine_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  const int64_t axis = (int64_t)x[0].d->ndim - 1;
  const vram_dtype amp = s->amp;
  vram__tensor in[3], held[3], v[VRAM__COSINE_LOCALS];
  uint32_t i;
  vram__cosine_args(s, n, x, in, held);
  s->amp = VRAM_DTYPE_NONE;
  v[VRAM__COSINE_PROD_SUM] = vram__cosine_sum(s, in[0], in[1], axis, 0);
  v[VRAM__COSINE_SQUARE1] = vram__cosine_sum(s, in[0], in[0], axis, 1);
  v[VRAM__COSINE_SQUARE2] = vram__cosine_sum(s, in[1], in[1], axis, 1);
  v[VRAM__COSINE_DENOM] =
      vram__op_call_binary(s, VRAM_OP_mul, v[VRAM__COSINE_SQUARE1], v[VRAM__COSINE_SQUARE2]);
  vram__op_call_in_place(s, VRAM_OP_sqrt, &v[VRAM__COSINE_DENOM], vram__tensor_none());
  v[VRAM__COSINE_COS] =
      vram__op_call_binary(s, VRAM_OP_div, v[VRAM__COSINE_PROD_SUM], v[VRAM__COSINE_DENOM]);
  v[VRAM__COSINE_ZEROS] = vram__pointwise_empty1(s, v[VRAM__COSINE_COS]);
  v[VRAM__COSINE_POS] = vram__pointwise_empty1(
      s, v[VRAM__COSINE_COS]); /* ones, from which cos is subtracted in place */
  vram__op_call_in_place(s, VRAM_OP_sub, &v[VRAM__COSINE_POS], v[VRAM__COSINE_COS]);
  v[VRAM__COSINE_NEG] = vram__op_call_unary(s, VRAM_OP_sub, v[VRAM__COSINE_COS]);
  vram__op_call_in_place(s, VRAM_OP_clamp, &v[VRAM__COSINE_NEG], vram__tensor_none());
  v[VRAM__COSINE_OUT_POS] = vram__loss_where(s, in[2], v[VRAM__COSINE_POS], v[VRAM__COSINE_ZEROS]);
  v[VRAM__COSINE_OUT_NEG] = vram__loss_where(s, in[2], v[VRAM__COSINE_NEG], v[VRAM__COSINE_ZEROS]);
  y[0] = vram__op_call_binary(s, VRAM_OP_add, v[VRAM__COSINE_OUT_POS], v[VRAM__COSINE_OUT_NEG]);
  y[0] = vram__loss_reduce(s, y[0], vram__loss_reduction(n));
  for (i = VRAM__COSINE_LOCALS; i-- > 0;)
    vram__tensor_release(s, v[i]);
  s->amp = amp;
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, in[i]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, held[i]);
}

/* ---- cross_entropy and nll_loss (LossNLL.cpp) ---- */

/* nll_loss_nd: other than rows of two axes and images are viewed as images of one line. */
static vram__tensor vram__nll_image(vram__step *s, vram__tensor x) {
  const vram_dims *d = x.d;
  const vram__tensor dense = vram__torch_contiguous(s, x);
  int64_t rest = 1;
  uint32_t i;
  vram__tensor y;
  for (i = 2; i < d->ndim; i++)
    rest *= d->v[i];
  y = vram__torch_view_as(s, dense, vram__dims_4d(s, d->v[0], d->v[1], 1, rest), VRAM__K_view, 0);
  vram__tensor_release(s, dense);
  return y;
}

/* A loss for each row or place: x without its classes. */
static const vram_dims *vram__dims_rows(vram__step *s, const vram_dims *x) {
  int64_t size[VRAM_MAX_AXES] = {0};
  return vram__dims_in(s, vram__loss_class_sizes(x, size), size, NULL);
}

/* cuda/NLLLoss2d.cu makes total_weight first, cuda/Loss.cu the output. */
static vram__tensor vram__nll_kernel(vram__step *s, vram__tensor x, vram__tensor target,
                                     vram__tensor weight, int reduction) {
  const int image = x.d->ndim > 2, none = reduction == VRAM__REDUCTION_NONE;
  const vram_dims *d = s->scalar;
  vram__tensor y, total_weight, copy[2];
  vram__grad_fn *f;
  if (none)
    d = vram__dims_rows(s, x.d);
  f = vram__tape_record(s, VRAM__K_nll, &x, 1, 1, weight.d ? 4 : 3);
  if (image) {
    total_weight = vram__tensor_empty(s, s->scalar, x.dt);
    y = vram__tensor_empty(s, d, x.dt);
  } else {
    y = vram__tensor_empty(s, d, x.dt);
    total_weight = vram__tensor_empty(s, s->scalar, x.dt);
  }
  if (!image || !none) {
    copy[0] = vram__norm_format_copy(s, x, 0);
    copy[1] = vram__norm_format_copy(s, target, 0);
    vram__tensor_release(s, copy[1]);
    vram__tensor_release(s, copy[0]);
  }
  if (f) {
    vram__save_tensor(s, f, x);
    vram__save_tensor(s, f, target);
    vram__save_tensor(s, f, total_weight);
    if (weight.d)
      vram__save_tensor(s, f, weight);
  }
  vram__loss_refuse_weight(s, s->node, weight);
  vram__tensor_release(s, total_weight);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* weight: of the classes; none */
static vram__tensor vram__torch_nll(vram__step *s, vram__tensor x, vram__tensor target,
                                    vram__tensor weight, int reduction) {
  const int folded = x.d->ndim == 3 || x.d->ndim > 4;
  vram__tensor in = folded ? vram__nll_image(s, x) : vram__tensor_retain(s, x), y;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  if (folded) /* its view is as good as itself */
    target = vram__torch_contiguous(s, target);
  weight = s->amp && weight.d ? vram__autocast_cast(s, weight, VRAM_F32)
                              : vram__tensor_retain(s, weight);
  if (s->amp)
    vram__tensor_replace(s, &in, vram__autocast_cast(s, in, VRAM_F32));
  y = vram__nll_kernel(s, in, target, weight, reduction);
  vram__tensor_release(s, weight);
  if (folded)
    vram__tensor_release(s, target);
  vram__tensor_release(s, in);
  if (folded && reduction == VRAM__REDUCTION_NONE) {
    ndim = vram__loss_class_sizes(x.d, size);
    vram__tensor_replace(
        s, &y, vram__torch_view_as(s, y, vram__dims_in(s, ndim, size, NULL), VRAM__K_view, 0));
  }
  return y;
}

VRAM__FN void vram__backward_nll(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0], target = VRAM__SAVED(f)[1];
  const int is_map = x.d->ndim > 2 && VRAM__SLOTS(f)[0].g.d->numel > 1; /* a loss of each place */
  vram__tensor copy;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  copy = vram__norm_format_copy(s, x, 0);
  vram__tensor_release(s, copy);
  if (!is_map) {
    copy = vram__norm_format_copy(s, target, 0);
    vram__tensor_release(s, copy);
    if (VRAM__SLOTS(f)[0].g.d->ndim) /* of each row */
      vram__tensor_release(s, vram__tensor_contiguous(s, VRAM__SLOTS(f)[0].g));
  }
}

/* The weights of the classes as they broadcast to x. */
static vram__tensor vram__class_weight_view(vram__step *s, vram__tensor x, vram__tensor weight) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i == (x.d->ndim > 1) ? weight.d->v[0] : 1;
  return vram__torch_view_as(s, weight, vram__dims_in(s, x.d->ndim, size, NULL), VRAM__K_view, 0);
}

/* cross_entropy_loss_label_smoothing: smooth.sum() / weight.gather(0,
   target.masked_select(~ignored) .flatten()).sum(), of targets none of which is ignored */
static vram__tensor vram__smooth_weighted_mean(vram__step *s, vram__tensor smooth,
                                               vram__tensor ignored, vram__tensor target,
                                               vram__tensor weight) {
  const int64_t numel = (int64_t)target.d->numel;
  const vram_dims *d = vram__dims_in(s, 1, &numel, NULL);
  vram__tensor in[2], selected, gathered, total, sum, y;
  in[0] = target;
  in[1] = vram__pointwise_empty1(s, ignored);
  selected = vram__op_call_n(s, VRAM_OP_masked_select, in, 2, NULL, d);
  gathered = vram__tensor_empty(s, d, weight.dt);
  total = vram__loss_sum_all(s, gathered, gathered.dt);
  sum = vram__op_call_unary(s, VRAM_OP_sum, smooth);
  y = vram__op_call_binary(s, VRAM_OP_div, sum, total);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, total);
  vram__tensor_release(s, gathered);
  vram__tensor_release(s, selected);
  vram__tensor_release(s, in[1]);
  return y;
}

/* -(x * weight).sum(classes) */
static vram__tensor vram__smooth_sum(vram__step *s, vram__tensor x, vram__tensor weight) {
  vram__tensor view = vram__tensor_none(), product = vram__tensor_retain(s, x), sum, y;
  if (weight.d) {
    view = vram__class_weight_view(s, x, weight);
    vram__tensor_replace(s, &product, vram__op_call_binary(s, VRAM_OP_mul, x, view));
  }
  sum = vram__op_call_key(s, VRAM_OP_sum, product, VRAM__KEY_dim, x.d->ndim > 1);
  y = vram__op_call_unary(s, VRAM_OP_neg, sum);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, product);
  vram__tensor_release(s, view);
  return y;
}

/* cross_entropy_loss_label_smoothing: the mean of `smooth` counts the targets that are not
   ignored. */
static vram__tensor vram__smooth_mean(vram__step *s, vram__tensor smooth, vram__tensor ignored) {
  const vram__tensor counted = vram__pointwise_empty1(s, ignored);
  const vram__tensor count = vram__loss_sum_all(s, counted, VRAM_I64);
  const vram__tensor sum = vram__op_call_unary(s, VRAM_OP_sum, smooth);
  const vram__tensor y = vram__op_call_binary(s, VRAM_OP_div, sum, count);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, count);
  vram__tensor_release(s, counted);
  return y;
}

/* cross_entropy_loss_label_smoothing: what comes of the loss y of log-probabilities x; takes y. */
static vram__tensor vram__torch_smoothed(vram__step *s, vram__tensor x, vram__tensor target,
                                         vram__tensor weight, vram__tensor y, int reduction) {
  vram__tensor smooth, ignored, reduced, smoothed, weighted, sum;
  smooth = vram__smooth_sum(s, x, weight);
  ignored = vram__tensor_empty(s, vram__dims_dense(s, target.d), VRAM_BOOL);
  vram__op_call_in_place(s, VRAM_OP_masked_fill, &smooth, ignored);
  reduced = reduction == VRAM__REDUCTION_MEAN && weight.d
                ? vram__smooth_weighted_mean(s, smooth, ignored, target, weight)
            : reduction == VRAM__REDUCTION_MEAN ? vram__smooth_mean(s, smooth, ignored)
            : reduction == VRAM__REDUCTION_SUM  ? vram__op_call_unary(s, VRAM_OP_sum, smooth)
                                                : vram__tensor_retain(s, smooth);
  smoothed = vram__op_call_unary(s, VRAM_OP_mul, reduced);
  weighted = vram__op_call_unary(s, VRAM_OP_mul, y);
  sum = vram__op_call_binary(s, VRAM_OP_add, weighted, smoothed);
  vram__tensor_release(s, weighted);
  vram__tensor_release(s, smoothed);
  vram__tensor_release(s, reduced);
  vram__tensor_release(s, ignored);
  vram__tensor_release(s, smooth);
  vram__tensor_release(s, y);
  return sum;
}

/* cross_entropy_loss_prob_target */
static vram__tensor vram__torch_prob_loss(vram__step *s, vram__tensor x, vram__tensor target,
                                          vram__tensor weight, int reduction) {
  const int smoothing = VRAM__INT(s->node, label_smoothing, 0) > 0;
  vram__tensor unweighted = vram__tensor_none(), view = unweighted, product, sum, y;
  if (smoothing) {
    target = vram__op_call_unary(s, VRAM_OP_mul, target);
    vram__tensor_replace(s, &target, vram__op_call_unary(s, VRAM_OP_add, target));
  } else
    vram__tensor_retain(s, target);
  if (weight.d)
    view = vram__class_weight_view(s, x, weight);
  product = vram__op_call_binary(s, VRAM_OP_mul, x, target);
  if (weight.d) {
    unweighted = product;
    product = vram__op_call_binary(s, VRAM_OP_mul, unweighted, view);
  }
  sum = reduction == VRAM__REDUCTION_NONE
            ? vram__op_call_key(s, VRAM_OP_sum, product, VRAM__KEY_dim, x.d->ndim > 1)
            : vram__op_call_unary(s, VRAM_OP_sum, product);
  y = vram__op_call_unary(s, VRAM_OP_neg, sum);
  if (reduction == VRAM__REDUCTION_MEAN)
    vram__tensor_replace(s, &y, vram__op_call_unary(s, VRAM_OP_div, y));
  vram__tensor_release(s, sum);
  vram__tensor_release(s, product);
  vram__tensor_release(s, unweighted);
  vram__tensor_release(s, view);
  vram__tensor_release(s, target);
  return y;
}

/* cross_entropy_loss and nll_loss; class numbers of its own where the model does not give any */
static void vram__forward_class_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  const int entropy = vram__op_at(n->op)->kind == VRAM__LOSS_CROSS_ENTROPY;
  const int reduction = vram__loss_reduction(n), smoothing = VRAM__INT(n, label_smoothing, 0) > 0;
  const vram__tensor weight = n->nin > 2 ? x[2] : vram__tensor_none();
  vram__tensor target, log_prob;
  int64_t size[VRAM_MAX_AXES];
  if (n->nin > 1)
    target = vram__tensor_retain(s, x[1]);
  else
    target = vram__tensor_empty(
        s, vram__dims_in(s, vram__loss_class_sizes(x[0].d, size), size, NULL), VRAM_I64);
  log_prob = entropy ? vram__torch_softmax(s, VRAM_OP_log_softmax, x[0], x[0].dt)
                     : vram__tensor_retain(s, x[0]);
  if (vram__dtype_is_float(target.dt))
    y[0] = vram__torch_prob_loss(s, log_prob, target, weight, reduction);
  else {
    y[0] = vram__torch_nll(s, log_prob, target, weight, reduction);
    if (smoothing && entropy)
      y[0] = vram__torch_smoothed(s, log_prob, target, weight, y[0], reduction);
  }
  vram__tensor_release(s, log_prob);
  vram__tensor_release(s, target);
}

/* ---- ctc_loss (LossCTC.cpp, cuda/LossCTC.cu) ---- */

/* Lengths of inputs and targets and offsets of these, which the kernel gets from the host. */
static void vram__ctc_lengths(vram__step *s, const vram_dims *x, vram__tensor *lengths) {
  const uint64_t bytes = vram__product_or_overflow(8, x->ndim > 2 ? (uint64_t)x->v[1] : 1);
  uint32_t i;
  for (i = 0; i < 3; i++)
    lengths[i] = vram__tensor_raw(s, bytes);
}

static void vram__ctc_release_lengths(vram__step *s, const vram__tensor *lengths) {
  vram__tensor_release(s, lengths[1]);
  vram__tensor_release(s, lengths[0]);
  vram__tensor_release(s, lengths[2]);
}

/* ctc_loss_gpu_template. Lengths are on the host, all as long as the tensors allow. */
static vram__tensor vram__ctc_kernel(vram__step *s, const vram_node *n, const vram__tensor *x) {
  const vram_dims *d = x[0].d;
  const int64_t batch = d->ndim > 2 ? d->v[1] : 1, steps = d->v[0];
  vram__tensor target, lengths[3], log_alpha, y;
  vram__grad_fn *f;
  int64_t longest;
  target = n->nin > 1 ? vram__tensor_to(s, x[1], VRAM_I64)
                      : vram__tensor_empty(s, vram__dims_2d(s, batch, steps), VRAM_I64);
  longest = target.d->ndim > 1 ? target.d->v[1]
                               : vram__div_up((int64_t)target.d->numel, batch ? batch : 1);
  f = vram__tape_record(s, VRAM__K_ctc, x, 1, 1, 4);
  vram__ctc_lengths(s, d, lengths);
  log_alpha = vram__tensor_raw(
      s, vram__product4_or_overflow(batch, steps, 2 * longest + 1, vram__dtype_size(x[0].dt)));
  y = vram__tensor_empty(s, d->ndim > 2 ? vram__dims_in(s, 1, &batch, NULL) : s->scalar, x[0].dt);
  vram__ctc_release_lengths(s, lengths);
  if (f) {
    f->aux = log_alpha.st ? vram__slot_at(s, log_alpha.st)->bytes : 0;
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, target);
    vram__save_tensor(s, f, y);
    vram__save_tensor(s, f, log_alpha);
  }
  vram__tensor_release(s, log_alpha);
  vram__tensor_release(s, target);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* at::where(res == inf, zero, res); takes y. */
static vram__tensor vram__ctc_zero_infinity(vram__step *s, vram__tensor y) {
  vram__tensor in[3];
  in[1] = vram__tensor_empty(s, s->scalar, y.dt);
  in[0] = vram__tensor_empty(s, y.d, VRAM_BOOL);
  in[2] = y;
  y = vram__op_call_n(s, VRAM_OP_where, in, 3, NULL, NULL);
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, in[2]);
  return y;
}

/* res / target_lengths.clamp_min(1); takes y. */
static vram__tensor vram__ctc_mean(vram__step *s, vram__tensor y) {
  vram__tensor lengths = vram__tensor_empty(s, y.d, y.dt), quotient;
  vram__tensor_replace(s, &lengths, vram__pointwise_empty1(s, lengths));
  quotient = vram__op_call_binary(s, VRAM_OP_div, y, lengths);
  vram__tensor_release(s, lengths);
  vram__tensor_release(s, y);
  return quotient;
}

static void vram__forward_ctc_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const int reduction = vram__loss_reduction(n);
  y[0] = vram__ctc_kernel(s, n, x);
  if (VRAM__INT(n, zero_infinity, 0))
    y[0] = vram__ctc_zero_infinity(s, y[0]);
  if (reduction == VRAM__REDUCTION_MEAN)
    y[0] = vram__ctc_mean(s, y[0]);
  y[0] = vram__loss_reduce(s, y[0], reduction);
}

/* ctc_loss_backward_gpu_template: log_beta is as large as log_alpha. */
VRAM__FN void vram__backward_ctc(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  vram__tensor lengths[3], log_beta;
  vram__ctc_lengths(s, x.d, lengths);
  log_beta = vram__tensor_raw(s, f->aux);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  vram__tensor_release(s, log_beta);
  vram__ctc_release_lengths(s, lengths);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(cross_entropy, "", 1, 3, class_loss, SAME, fp32, class_loss, none, each, NONE,
         VRAM__LOSS_CROSS_ENTROPY, VRAM__OP_LOSS, "reduction label_smoothing ignore_index");
VRAM__OP(nll_loss, "", 1, 3, class_loss, SAME, fp32, class_loss, none, each, NONE, VRAM__LOSS_NLL,
         VRAM__OP_LOSS, "reduction ignore_index");
VRAM__OP(mse_loss, "", 1, 2, loss, SAME, fp32, loss, loss, each, NONE, VRAM__LOSS_MSE,
         VRAM__OP_LOSS, "reduction");
VRAM__OP(l1_loss, "", 1, 2, loss, SAME, fp32, l1_loss, none, each, NONE, VRAM__LOSS_L1,
         VRAM__OP_LOSS, "reduction");
VRAM__OP(smooth_l1_loss, "", 1, 2, loss, SAME, fp32, loss, loss, each, NONE, VRAM__LOSS_MSE,
         VRAM__OP_LOSS, "reduction beta");
VRAM__OP(huber_loss, "", 1, 2, loss, SAME, fp32, loss, loss, each, NONE, VRAM__LOSS_HUBER,
         VRAM__OP_LOSS, "reduction delta");
VRAM__OP(binary_cross_entropy, "", 1, 3, binary_loss, SAME, none, loss, loss, each, NONE,
         VRAM__LOSS_BCE, VRAM__OP_LOSS, "reduction");
VRAM__OP(binary_cross_entropy_with_logits, "", 1, 4, binary_loss, SAME, fp32, loss, loss, each,
         NONE, VRAM__LOSS_BCE_LOGITS, VRAM__OP_LOSS, "reduction pos_weight");
VRAM__OP(kl_div, "", 1, 2, loss, SAME, fp32, kl_div, none, each, NONE, VRAM__LOSS_KL_DIV,
         VRAM__OP_LOSS, "reduction log_target");
VRAM__OP(ctc_loss, "", 1, 2, ctc_loss, SAME, none, ctc_loss, none, each, NONE, VRAM__LOSS_CTC,
         VRAM__OP_LOSS, "reduction blank zero_infinity");
VRAM__OP(cosine_embedding_loss, "", 1, 3, distance_loss, SAME, fp32, cosine_loss, none, each, NONE,
         VRAM__LOSS_COSINE, VRAM__OP_LOSS, "reduction margin");
VRAM__OP(triplet_margin_loss, "", 1, 3, distance_loss, SAME, fp32, triplet_loss, none, each, NONE,
         VRAM__LOSS_TRIPLET, VRAM__OP_LOSS, "reduction margin p eps swap");
