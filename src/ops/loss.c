/* >>ops/loss    losses */
#include "ops/ops.h"

/* Losses. cross_entropy and nll_loss: classes along axis 1; ctc_loss: [T,N,C]; the others element
   by element, cosine_embedding_loss and triplet_margin_loss along the last axis. */
static int vram__shape_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *t = n->nin > 1 ? n->in[1]->d : NULL;
  int64_t size[VRAM_MAX_AXES], red = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  uint32_t i, m = 0, k;
  const int none = red == VRAM__WORD("none"),
            last = n->op == VRAM_OP_cosine_embedding_loss || n->op == VRAM_OP_triplet_margin_loss;
  uint8_t dt = n->in[0]->dtype;
  if (!none && red != VRAM__WORD("mean") && red != VRAM__WORD("sum") &&
      !(red == VRAM__WORD("batchmean") && n->op == VRAM_OP_kl_div))
    return vram__node_error(g, n, "reduction must be none, mean or sum");
  if (vram__kind_rank(dt) != 2)
    return vram__node_error(g, n, "a loss of a tensor that is not floating point");
  for (i = 0; i < n->nin; i++)
    if (!n->in[i]->d->numel)
      return vram__node_error(g, n, "a loss of an empty tensor");
  switch (n->op) {
  case VRAM_OP_cross_entropy:
  case VRAM_OP_nll_loss:
    if (!x->ndim)
      return vram__node_error(g, n, "a loss of a tensor without axes");
    k = x->ndim > 1;
    for (i = 0; i < x->ndim; i++)
      if (i != k)
        size[m++] = x->v[i];
    if (t && vram__dtype_is_float(n->in[1]->dtype)) { /* probabilities */
      for (i = 0; i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
        i++;
      if (n->op == VRAM_OP_nll_loss || i < x->ndim)
        return vram__node_error(g, n, "a target of another shape");
    } else if (t) {
      for (i = 0; i < m && t->ndim == m && t->v[i] == size[i];)
        i++;
      if (t->ndim != m || i < m)
        return vram__node_error(g, n, "a target of another shape");
      if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_U8)
        return vram__node_error(g, n, "a target of class numbers must be i64");
    }
    break;
  case VRAM_OP_ctc_loss:
    if (x->ndim != 2 && x->ndim != 3)
      return vram__node_error(g, n, "log-probabilities must be [T,N,C] or [T,C]");
    if (x->ndim == 3)
      size[m++] = x->v[1];
    if (t && (t->ndim < 1 || t->ndim > 2 || (t->ndim == 2 && (!m || t->v[0] != size[0]))))
      return vram__node_error(g, n, "targets must be [N,S] or [S]");
    if (t && n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
      return vram__node_error(g, n, "targets must be i64");
    k = t ? (uint32_t)(t->ndim == 2) : 0;
    if (vram__product_or_overflow(
            vram__product_or_overflow((uint64_t)x->v[0], m ? (uint64_t)size[0] : 1),
            vram__product_or_overflow(16, 2 * (t ? (uint64_t)t->v[k] : (uint64_t)x->v[0]) + 1)) ==
        VRAM_OVERFLOW) {
      vram__graph_fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
      return 0;
    }
    break;
  case VRAM_OP_binary_cross_entropy:
  case VRAM_OP_binary_cross_entropy_with_logits:
    for (i = 0; t && i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
      i++;
    if (t && (t->ndim != x->ndim || i < x->ndim))
      return vram__node_error(g, n, "a target of another shape");
    for (; m < x->ndim; m++)
      size[m] = x->v[m];
    break;
  default:
    if (last && !x->ndim)
      return vram__node_error(g, n, "a loss of a tensor without axes");
    k = n->op == VRAM_OP_cosine_embedding_loss ? 2 : n->nin;
    for (i = 0; i < n->nin && i < k; i++)
      if (!vram__dims_broadcast(&m, size, n->in[i]->d))
        return vram__node_error(g, n, "shapes do not broadcast");
    if (last)
      m--;
    if (n->op == VRAM_OP_cosine_embedding_loss) {
      t = n->nin > 2 ? n->in[2]->d : NULL;
      if (m > 1 || (t && (t->ndim != m || (m && t->v[0] != size[0]))))
        return vram__node_error(g, n, "cosine_embedding_loss takes [N,D], [N,D] and [N]");
    }
    if (!vram__graph_dims(g, m + (uint32_t)last, size)) /* the broadcast shape must fit as well */
      return 0;
  }
  if (n->op != VRAM_OP_cross_entropy && n->op != VRAM_OP_nll_loss && n->op != VRAM_OP_ctc_loss)
    for (i = 1; i < n->nin && i < (n->op == VRAM_OP_cosine_embedding_loss ? 2 : 3); i++)
      dt = vram__promote2(dt, n->in[i]->dtype);
  return vram__node_out(g, n, 0, none ? m : 0, size, dt);
}

#ifndef VRAM_NO_STEP

/* ---- losses ---- */

enum { VRAM__RED_NONE, VRAM__RED_MEAN, VRAM__RED_SUM, VRAM__RED_BATCHMEAN };

static int vram__loss_reduction(const vram_node *n) {
  int64_t w = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  return w == VRAM__WORD("none")        ? VRAM__RED_NONE
         : w == VRAM__WORD("sum")       ? VRAM__RED_SUM
         : w == VRAM__WORD("batchmean") ? VRAM__RED_BATCHMEAN
                                        : VRAM__RED_MEAN;
}

/* nll_loss_nd: rows of two axes or images; others are viewed as images of one line */
static vram__tensor vram__torch_nll(vram__step *s, vram__tensor x, vram__tensor target, int red) {
  vram__tensor p = vram__tensor_retain(s, x), t, y, w;
  const vram_dims *d = x.d, *out = s->scalar;
  vram__grad_fn *f;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0, n = d->ndim, image = n > 2;
  if (image && n != 4) {
    size[0] = d->v[0], size[1] = d->v[1], size[2] = size[3] = 1;
    for (i = 2; i < n; i++)
      size[3] *= d->v[i];
    vram__tensor_release(s, p);
    t = vram__torch_contiguous(s, x);
    p = vram__torch_view_as(s, t, vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__tensor_release(s, t);
  }
  if (s->amp) {
    t = vram__autocast_cast(s, p, VRAM_F32);
    vram__tensor_release(s, p);
    p = t;
  }
  if (red == VRAM__RED_NONE) {
    for (i = 0; i < p.d->ndim; i++)
      if (i != 1 && n > 1)
        size[m++] = p.d->v[i];
    out = vram__dims_in(s, m, size, NULL);
  }
  f = vram__tape_record(s, VRAM__K_nll, &p, 1, 1, 3);
  if (image)
    w = vram__tensor_empty(s, s->scalar, p.dt), y = vram__tensor_empty(s, out, p.dt);
  else
    y = vram__tensor_empty(s, out, p.dt), w = vram__tensor_empty(s, s->scalar, p.dt);
  if (!image || red != VRAM__RED_NONE) {
    t = vram__norm_format_copy(s, p, 0);
    vram__tensor_release(s, t);
  }
  if (f)
    vram__save_tensor(s, f, p), vram__save_tensor(s, f, target), vram__save_tensor(s, f, w);
  vram__tensor_release(s, w);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, p);
  if (image && n != 4 && red == VRAM__RED_NONE) {
    for (i = 0, m = 0; i < n; i++)
      if (i != 1)
        size[m++] = d->v[i];
    t = vram__torch_view_as(s, y, vram__dims_in(s, m, size, NULL), VRAM__K_view, 0);
    vram__tensor_release(s, y);
    y = t;
  }
  return y;
}

VRAM__FN void vram__backward_nll(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor p = VRAM__SAVED(f)[0], c;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, p.d), p.dt);
  c = vram__norm_format_copy(s, p, 0);
  vram__tensor_release(s, c);
}

/* Loss.cpp, apply_loss_reduction; takes t */
static vram__tensor vram__torch_reduced(vram__step *s, vram__tensor t, int red) {
  vram__tensor y;
  if (red == VRAM__RED_NONE)
    return t;
  y = vram__op_call(s, red == VRAM__RED_MEAN ? VRAM_OP_mean : VRAM_OP_sum, t, vram__tensor_none(),
                    NULL);
  vram__tensor_release(s, t);
  if (red == VRAM__RED_BATCHMEAN) {
    t = y;
    y = vram__op_call(s, VRAM_OP_div, t, vram__tensor_none(), NULL);
    vram__tensor_release(s, t);
  }
  return y;
}

/* A target of the op's own: zeros like x. Inputs of a loss, expanded to each other as
   torch.broadcast_tensors does, on autocast's fp32 list: the last one cast first. Owned; behind
   them what the Python function's variables hold of the op's own targets. */
static void vram__loss_args(vram__step *s, const vram_node *n, vram__tensor *x, uint32_t count,
                            int expand, vram__tensor *a) {
  uint32_t i, k;
  for (i = 0; i < count; i++)
    a[i] = i < n->nin ? vram__tensor_retain(s, x[i])
                      : vram__tensor_empty(s, vram__dims_dense(s, x[0].d), x[0].dt);
  for (i = 0; i < count; i++)
    a[count + i] = i < n->nin ? vram__tensor_none() : vram__tensor_retain(s, a[i]);
  for (k = 0; expand && k < count; k++) {
    int64_t size[VRAM_MAX_AXES];
    uint32_t nd = 0, j;
    vram__tensor t;
    for (i = 0; i < count; i++)
      vram__dims_broadcast(&nd, size, a[i].d);
    for (j = 0; a[k].d->ndim == nd && j < nd && a[k].d->v[j] == size[j];)
      j++;
    if (j == nd)
      continue;
    t = vram__torch_expand(s, a[k], nd, size);
    vram__tensor_release(s, a[k]);
    a[k] = t;
  }
  for (i = count; s->amp && i-- > 0;) {
    vram__tensor t = vram__autocast_cast(s, a[i], VRAM_F32);
    vram__tensor_release(s, a[i]);
    a[i] = t;
  }
}

/* Distance.cpp, pairwise_distance */
static vram__tensor vram__torch_distance(vram__step *s, vram__tensor a, vram__tensor b) {
  static const int64_t last[] = {VRAM__KEY_dim | 1 << 8, -1, 0};
  vram__tensor t = vram__op_call(s, VRAM_OP_sub, a, b, NULL), u, y;
  u = vram__op_call(s, VRAM_OP_add, t, vram__tensor_none(), NULL);
  y = vram__op_call(s, VRAM_OP_norm, u, vram__tensor_none(), last);
  vram__tensor_release(s, t);
  vram__tensor_release(s, u);
  return y;
}

/* Loss.cpp, triplet_margin_loss */
static void vram__forward_triplet(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__tensor a[6], pos, neg, t, u;
  const uint8_t amp = s->amp;
  uint32_t i;
  vram__loss_args(s, n, x, 3, 0, a);
  s->amp = 0;
  pos = vram__torch_distance(s, a[0], a[1]);
  neg = vram__torch_distance(s, a[0], a[2]);
  if (VRAM__INT(n, swap, 0)) {
    t = vram__torch_distance(s, a[1], a[2]);
    u = vram__op_call(s, VRAM_OP_minimum, neg, t, NULL);
    vram__tensor_release(s, neg);
    vram__tensor_release(s, t);
    neg = u;
  }
  t = vram__op_call(s, VRAM_OP_add, pos, vram__tensor_none(), NULL);
  u = vram__op_call(s, VRAM_OP_sub, t, neg, NULL);
  y[0] = vram__op_call(s, VRAM_OP_clamp, u, vram__tensor_none(), NULL);
  vram__tensor_release(s, u);
  vram__tensor_release(s, t);
  y[0] = vram__torch_reduced(s, y[0], vram__loss_reduction(n));
  vram__tensor_release(s, neg);
  vram__tensor_release(s, pos);
  s->amp = amp;
  for (i = 6; i-- > 0;)
    vram__tensor_release(s, a[i]);
}

/* Loss.cpp, cosine_embedding_loss */
static void vram__forward_cosine(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__tensor a[3], held[3], m[3], cos, zeros, pos, neg, t, u, b[3], w[2];
  const uint8_t amp = s->amp;
  const uint32_t nd = x[0].d->ndim;
  int64_t attr[3];
  uint32_t i;
  for (i = 0; i < 3; i++) { /* inputs or targets of the op's own, which the caller holds */
    a[i] = i < n->nin ? vram__tensor_retain(s, x[i])
           : i == 1   ? vram__tensor_empty(s, vram__dims_dense(s, x[0].d), x[0].dt)
                      : vram__tensor_empty(s, vram__dims_in(s, nd - 1, x[0].d->v, NULL), x[0].dt);
    held[i] = vram__tensor_retain(s, a[i]);
  }
  if (s->amp)
    for (i = 3; i-- > 0;) {
      vram__tensor_release(s, a[i]);
      a[i] = vram__autocast_cast(s, held[i], VRAM_F32);
    }
  s->amp = 0;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = (int64_t)nd - 1, attr[2] = 0;
  for (i = 0; i < 3; i++) { /* a.b, a.a, b.b */
    t = vram__op_call(s, VRAM_OP_mul, a[i == 2], a[i != 1], NULL);
    m[i] = vram__op_call(s, VRAM_OP_sum, t, vram__tensor_none(), attr);
    if (i) {
      u = vram__op_call(s, VRAM_OP_add, m[i], vram__tensor_none(), NULL);
      vram__tensor_release(s, m[i]);
      m[i] = u;
    }
    vram__tensor_release(s, t);
  }
  t = vram__op_call(s, VRAM_OP_mul, m[1], m[2], NULL);
  vram__op_call_in_place(s, VRAM_OP_sqrt, &t, vram__tensor_none());
  cos = vram__op_call(s, VRAM_OP_div, m[0], t, NULL);
  zeros = vram__pointwise_empty1(s, cos);
  pos = vram__pointwise_empty1(s, cos); /* ones, cos subtracted in place */
  vram__op_call_in_place(s, VRAM_OP_sub, &pos, cos);
  neg = vram__op_call(s, VRAM_OP_sub, cos, vram__tensor_none(), NULL);
  vram__op_call_in_place(s, VRAM_OP_clamp, &neg, vram__tensor_none());
  for (i = 0; i < 2; i++) { /* where(target == 1 or -1, pos or neg, zeros) */
    b[0] = vram__tensor_empty(s, vram__dims_dense(s, a[2].d), VRAM_BOOL);
    b[1] = i ? neg : pos, b[2] = zeros;
    w[i] = vram__op_call_n(s, VRAM_OP_where, 0, b, 3, NULL, NULL);
    vram__tensor_release(s, b[0]);
  }
  y[0] = vram__op_call(s, VRAM_OP_add, w[0], w[1], NULL);
  y[0] = vram__torch_reduced(s, y[0], vram__loss_reduction(n));
  vram__tensor_release(s, w[1]), vram__tensor_release(s, w[0]);
  vram__tensor_release(s, neg);
  vram__tensor_release(s, pos);
  vram__tensor_release(s, zeros);
  vram__tensor_release(s, cos);
  vram__tensor_release(s, t);
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, m[i]);
  s->amp = amp;
  for (i = 3; i-- > 0;)
    vram__tensor_release(s, a[i]), vram__tensor_release(s, held[i]);
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

VRAM__FN void vram__backward_xlogx(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__tensor t = vram__pointwise_empty2(s, g, x), m[3];
  uint32_t i;
  to[1] = vram__pointwise_empty2(s, t, x);
  vram__tensor_release(s, t);
  t = vram__pointwise_empty2(s, g, x);
  for (i = 0; i < 3; i++) /* x == 0, x <= 0, both */
    m[i] = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_BOOL);
  to[0] = vram__pointwise_empty1(s, t);
  while (i-- > 0)
    vram__tensor_release(s, m[i]);
  vram__tensor_release(s, t);
}

static vram__tensor vram__loss_sum_all(vram__step *s, vram__tensor x) {
  return vram__tensor_sum(s, x, x.d->ndim ? (1u << x.d->ndim) - 1 : 0, 0, x.dt);
}

/* Loss.cpp, PointwiseOps: losses of two tensors */
static void vram__forward_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  const int red = vram__loss_reduction(n), none = red == VRAM__RED_NONE;
  const uint8_t amp = s->amp;
  const vram_dims *d[2];
  vram__tensor a[4], t, u, v;
  uint32_t i;
  vram__grad_fn *f;
  vram__loss_args(s, n, x, 2,
                  n->op != VRAM_OP_kl_div && n->op != VRAM_OP_binary_cross_entropy &&
                      n->op != VRAM_OP_binary_cross_entropy_with_logits,
                  a);
  s->amp = 0; /* inside, autocast is off */
  switch (n->op) {
  case VRAM_OP_l1_loss:
    t = vram__op_call(s, VRAM_OP_sub, a[0], a[1], NULL);
    u = vram__op_call(s, VRAM_OP_abs, t, vram__tensor_none(), NULL);
    y[0] = vram__torch_reduced(s, u, red); /* one C++ expression: temporaries go at its end */
    vram__tensor_release(s, t);
    break;
  case VRAM_OP_kl_div:
    if (VRAM__INT(n, log_target, 0)) {
      t = vram__op_call(s, VRAM_OP_sub, a[1], a[0], NULL);
      u = vram__op_call(s, VRAM_OP_exp, a[1], vram__tensor_none(), NULL);
      v = vram__op_call(s, VRAM_OP_mul, u, t, NULL);
    } else {
      t = vram__op_call(s, VRAM_OP_mul, a[1], a[0], NULL);
      u = vram__torch_xlogx(s, a[1]);
      v = vram__op_call(s, VRAM_OP_sub, u, t, NULL);
    }
    vram__tensor_release(s, u);
    vram__tensor_release(s, t);
    y[0] = vram__torch_reduced(s, v, red);
    break;
  default: /* one kernel for all elements; some reductions leave the scalar in its storage */
    if (amp && n->op == VRAM_OP_binary_cross_entropy) {
      s->problem = "binary_cross_entropy does not run under autocast (expected "
                   "binary_cross_entropy_with_logits)";
      s->failed = VRAM_ERR_UNSUPPORTED;
    }
    f = vram__tape_record(s, n->op, a, 2, 1, 2);
    d[0] = a[0].d, d[1] = a[1].d;
    t = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2),
                           n->op == VRAM_OP_binary_cross_entropy_with_logits ||
                                   n->op == VRAM_OP_huber_loss
                               ? a[0].dt
                               : vram__promote_pair(a[0], a[1]));
    switch (n->op) {
    case VRAM_OP_binary_cross_entropy_with_logits:
      u = vram__tensor_empty(s, t.d, vram__promote_pair(a[0], a[1]));
      v = none ? vram__tensor_retain(s, u) : vram__loss_sum_all(s, u);
      vram__tensor_release(s, u);
      vram__tensor_release(s, t);
      t = v;
      break;
    case VRAM_OP_huber_loss:
      if (none)
        break;
      u = vram__loss_sum_all(s, t);
      vram__tensor_release(s, t);
      t = u;
      break;
    case VRAM_OP_binary_cross_entropy:
      if (none)
        break;
      u = vram__loss_sum_all(s, t);
      vram__tensor_release(s, u);
      t.d = s->scalar;
      break;
    default:
      if (none)
        break;
      u = vram__tensor_empty(s, t.d, t.dt);
      vram__reduce_scratch(s, u, u.d->ndim ? (1u << u.d->ndim) - 1 : 0, u.dt,
                           vram__dtype_size(u.dt) < 4 ? 4 : vram__dtype_size(u.dt), 4);
      vram__tensor_release(s, u);
      t.d = s->scalar;
    }
    if (f)
      vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[1]);
    vram__grad_fn_set_output(s, f, 0, &t);
    y[0] = t;
  }
  s->amp = amp;
  for (i = 4; i-- > 0;)
    vram__tensor_release(s, a[i]);
}

static void vram__backward_loss(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram__tensor x = VRAM__SAVED(f)[i];
    vram__tensor t = vram__tensor_none();
    if (!vram__input_wanted(f, i))
      continue;
    if (f->kind == VRAM_OP_binary_cross_entropy_with_logits && i) {
      t = vram__pointwise_empty1(s, VRAM__SAVED(f)[0]); /* -input, times the gradient */
      to[i] = vram__pointwise_empty2(s, t, VRAM__SLOTS(f)[0].g);
    } else if (f->kind == VRAM_OP_binary_cross_entropy ||
               f->kind == VRAM_OP_binary_cross_entropy_with_logits)
      to[i] = vram__tensor_empty(s, vram__dims_dense(s, VRAM__SAVED(f)[0].d), x.dt);
    else
      to[i] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
    vram__tensor_release(s, t);
  }
}

/* LossNLL.cpp, cross_entropy_loss_label_smoothing: what is added to the loss y of log-softmax p */
static vram__tensor vram__torch_smoothed(vram__step *s, vram__tensor p, vram__tensor target,
                                         vram__tensor y, int red) {
  int64_t attr[3];
  vram__tensor smooth, mask, t, u, r, count, a;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  t = vram__op_call(s, VRAM_OP_sum, p, vram__tensor_none(), attr);
  smooth = vram__op_call(s, VRAM_OP_neg, t, vram__tensor_none(), NULL);
  vram__tensor_release(s, t);
  mask = vram__tensor_empty(s, vram__dims_dense(s, target.d), VRAM_BOOL);
  vram__op_call_in_place(s, VRAM_OP_masked_fill, &smooth, mask);
  if (red == VRAM__RED_MEAN) {
    t = vram__pointwise_empty1(s, mask);
    count = vram__tensor_sum(s, t, t.d->ndim ? (1u << t.d->ndim) - 1 : 0, 0, VRAM_I64);
    u = vram__op_call(s, VRAM_OP_sum, smooth, vram__tensor_none(), NULL);
    r = vram__op_call(s, VRAM_OP_div, u, count, NULL);
    vram__tensor_release(s, u);
    vram__tensor_release(s, count);
    vram__tensor_release(s, t);
  } else
    r = red == VRAM__RED_SUM ? vram__op_call(s, VRAM_OP_sum, smooth, vram__tensor_none(), NULL)
                             : vram__tensor_retain(s, smooth);
  t = vram__op_call(s, VRAM_OP_mul, r, vram__tensor_none(), NULL);
  u = vram__op_call(s, VRAM_OP_mul, y, vram__tensor_none(), NULL);
  a = vram__op_call(s, VRAM_OP_add, u, t, NULL);
  vram__tensor_release(s, u);
  vram__tensor_release(s, t);
  vram__tensor_release(s, r);
  vram__tensor_release(s, mask);
  vram__tensor_release(s, smooth);
  return a;
}

/* LossNLL.cpp, cross_entropy_loss_prob_target */
static vram__tensor vram__torch_prob_loss(vram__step *s, vram__tensor p, vram__tensor target,
                                          int smoothing, int red) {
  int64_t attr[3];
  vram__tensor t = vram__tensor_retain(s, target), u, sum, neg;
  if (smoothing) {
    vram__tensor_release(s, t);
    u = vram__op_call(s, VRAM_OP_mul, target, vram__tensor_none(), NULL);
    t = vram__op_call(s, VRAM_OP_add, u, vram__tensor_none(), NULL);
    vram__tensor_release(s, u);
  }
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  u = vram__op_call(s, VRAM_OP_mul, p, t, NULL);
  sum = vram__op_call(s, VRAM_OP_sum, u, vram__tensor_none(), red == VRAM__RED_NONE ? attr : NULL);
  neg = vram__op_call(s, VRAM_OP_neg, sum, vram__tensor_none(), NULL);
  if (red == VRAM__RED_MEAN) {
    vram__tensor d = vram__op_call(s, VRAM_OP_div, neg, vram__tensor_none(), NULL);
    vram__tensor_release(s, neg);
    neg = d;
  }
  vram__tensor_release(s, sum);
  vram__tensor_release(s, u);
  vram__tensor_release(s, t);
  return neg;
}

/* Class numbers for x, if the model does not give any. */
static vram__tensor vram__loss_classes(vram__step *s, const vram_dims *d) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != (d->ndim > 1))
      size[m++] = d->v[i];
  return vram__tensor_empty(s, vram__dims_in(s, m, size, NULL), VRAM_I64);
}

/* LossNLL.cpp, cross_entropy_loss and nll_loss */
static void vram__forward_cross_entropy(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  vram__tensor t = n->nin > 1 ? vram__tensor_retain(s, x[1]) : vram__loss_classes(s, x[0].d), p, u;
  const int red = vram__loss_reduction(n), smoothing = VRAM__INT(n, label_smoothing, 0) > 0;
  if (n->op == VRAM_OP_cross_entropy)
    p = vram__torch_softmax(s, VRAM_OP_log_softmax, x[0], x[0].dt);
  else
    p = vram__tensor_retain(s, x[0]);
  if (vram__dtype_is_float(t.dt))
    y[0] = vram__torch_prob_loss(s, p, t, smoothing, red);
  else {
    y[0] = vram__torch_nll(s, p, t, red);
    if (smoothing && n->op == VRAM_OP_cross_entropy) {
      u = vram__torch_smoothed(s, p, t, y[0], red);
      vram__tensor_release(s, y[0]);
      y[0] = u;
    }
  }
  vram__tensor_release(s, p);
  vram__tensor_release(s, t);
}

/* LossCTC.cu. Lengths are on the host, all as long as the tensors allow. */
static void vram__forward_ctc_loss(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const vram_dims *d = x[0].d;
  const int64_t batch = d->ndim > 2 ? d->v[1] : 1, steps = d->v[0];
  const int red = vram__loss_reduction(n);
  const uint64_t lengths = vram__product_or_overflow(8, (uint64_t)batch);
  int64_t size[2], most;
  vram__tensor target, h[3], alpha, t, u;
  vram__grad_fn *f;
  uint32_t i;
  size[0] = batch, size[1] = steps;
  target = n->nin > 1 ? vram__tensor_to(s, x[1], VRAM_I64) /* LossCTC.cpp, ctc_loss */
                      : vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), VRAM_I64);
  most = target.d->ndim > 1 ? target.d->v[1]
                            : vram__div_up((int64_t)target.d->numel, batch ? batch : 1);
  f = vram__tape_record(s, VRAM__K_ctc, x, 1, 1, 4);
  for (i = 0; i < 3; i++)
    h[i] = vram__tensor_raw(s, lengths);
  alpha = vram__tensor_raw(
      s, vram__product4_or_overflow(batch, steps, 2 * most + 1, vram__dtype_size(x[0].dt)));
  y[0] =
      vram__tensor_empty(s, d->ndim > 2 ? vram__dims_in(s, 1, &batch, NULL) : s->scalar, x[0].dt);
  vram__tensor_release(s, h[1]), vram__tensor_release(s, h[0]), vram__tensor_release(s, h[2]);
  if (f) {
    f->aux = alpha.st ? (s->top - alpha.st)->bytes : 0;
    vram__save_tensor(s, f, x[0]), vram__save_tensor(s, f, y[0]), vram__save_tensor(s, f, alpha);
    vram__save_tensor(s, f, target);
  }
  vram__tensor_release(s, alpha);
  vram__tensor_release(s, target);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (VRAM__INT(n, zero_infinity, 0)) {
    u = vram__tensor_empty(s, s->scalar, y[0].dt);
    h[0] = vram__tensor_empty(s, y[0].d, VRAM_BOOL);
    h[1] = u, h[2] = y[0];
    t = vram__op_call_n(s, VRAM_OP_where, 0, h, 3, NULL, NULL);
    vram__tensor_release(s, h[0]);
    vram__tensor_release(s, u);
    vram__tensor_release(s, y[0]);
    y[0] = t;
  }
  if (red == VRAM__RED_MEAN) {
    t = vram__tensor_empty(s, y[0].d, y[0].dt); /* the lengths of the targets, and at least 1 */
    u = vram__pointwise_empty1(s, t);
    vram__tensor_release(s, t);
    t = vram__op_call(s, VRAM_OP_div, y[0], u, NULL);
    vram__tensor_release(s, u);
    vram__tensor_release(s, y[0]);
    y[0] = t;
  }
  y[0] = vram__torch_reduced(s, y[0], red);
}

VRAM__FN void vram__backward_ctc(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const uint64_t lengths = vram__product_or_overflow(8, x.d->ndim > 2 ? (uint64_t)x.d->v[1] : 1);
  vram__tensor h[3], beta;
  uint32_t i;
  for (i = 0; i < 3; i++)
    h[i] = vram__tensor_raw(s, lengths);
  beta = vram__tensor_raw(s, f->aux);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  vram__tensor_release(s, beta);
  vram__tensor_release(s, h[1]), vram__tensor_release(s, h[0]), vram__tensor_release(s, h[2]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(cross_entropy, 1, 2, loss, SAME, fp32, cross_entropy, none, each, NONE, 0, VRAM__OP_LOSS,
         "reduction label_smoothing ignore_index");
VRAM__OP(nll_loss, 1, 2, loss, SAME, fp32, cross_entropy, none, each, NONE, 0, VRAM__OP_LOSS,
         "reduction ignore_index");
VRAM__OP(mse_loss, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0, VRAM__OP_LOSS, "reduction");
VRAM__OP(l1_loss, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0, VRAM__OP_LOSS, "reduction");
VRAM__OP(smooth_l1_loss, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0, VRAM__OP_LOSS,
         "reduction beta");
VRAM__OP(huber_loss, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0, VRAM__OP_LOSS,
         "reduction delta");
VRAM__OP(binary_cross_entropy, 1, 2, loss, SAME, none, loss, loss, each, NONE, 0, VRAM__OP_LOSS,
         "reduction");
VRAM__OP(binary_cross_entropy_with_logits, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0,
         VRAM__OP_LOSS, "reduction");
VRAM__OP(kl_div, 1, 2, loss, SAME, fp32, loss, loss, each, NONE, 0, VRAM__OP_LOSS,
         "reduction log_target");
VRAM__OP(ctc_loss, 1, 2, loss, SAME, none, ctc_loss, none, each, NONE, 0, VRAM__OP_LOSS,
         "reduction blank zero_infinity");
VRAM__OP(cosine_embedding_loss, 1, 3, loss, SAME, fp32, cosine, none, each, NONE, 0, VRAM__OP_LOSS,
         "reduction margin");
VRAM__OP(triplet_margin_loss, 1, 3, loss, SAME, fp32, triplet, none, each, NONE, 0, VRAM__OP_LOSS,
         "reduction margin p eps swap");
