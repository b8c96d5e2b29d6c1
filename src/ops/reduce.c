/* >>ops/reduce    sums, means, extremes, products, variances, norms */
#include "ops/ops.h"

/* An extreme of no values is none: an axis of size 0 must not be reduced, nor all without dim=. */
static int vram__reduce_filled(vram_graph *g, const vram_node *n, uint32_t mask) {
  const vram_dims *x = n->in[0]->d;
  const int kind = vram__op_at(n->op)->kind;
  uint32_t i;
  if (x->numel ||
      (kind != VRAM__REDUCE_EXTREME && kind != VRAM__REDUCE_INDEX && kind != VRAM__REDUCE_SELECT))
    return 1;
  for (i = 0; i < x->ndim; i++)
    if ((mask >> i & 1) && !x->v[i])
      return vram__node_error(g, n, "an extreme of no values");
  return 1;
}

VRAM__FN int vram__shape_reduce(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c = 0, i, a, mask = 0, m = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &c);
  int keep = VRAM__INT(n, keepdim, 0) != 0;
  vram_dtype dt = n->in[0]->dtype;
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    if (mask >> a & 1)
      return vram__node_error(g, n, "an axis that is named twice");
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x->v[i];
    else if (keep)
      size[m++] = 1;
  if (!vram__reduce_filled(g, n, mask))
    return 0;
  switch (vram__op_at(n->op)->kind) {
  case VRAM__REDUCE_PROD:
    if (c > 1)
      return vram__node_error(g, n, "prod of more than one axis");
    /* fall through */
  case VRAM__REDUCE_SUM:
    dt = vram__kind_rank(dt) < 2 ? VRAM_I64 : dt;
    break;
  case VRAM__REDUCE_EXTREME:
    break;
  case VRAM__REDUCE_INDEX:
    if (c > 1)
      return vram__node_error(g, n, "argmax and argmin of more than one axis");
    if (dt == VRAM_BOOL)
      return vram__node_error(g, n, "argmax and argmin of bool");
    break;
  case VRAM__REDUCE_SELECT:
    if (c > 1)
      return vram__node_error(g, n, "max and min of more than one axis");
    if (n->nout > (v ? 2u : 1u))
      return vram__node_error(g, n, "two outputs need dim=");
    if (n->nout > 1 && !vram__node_out(g, n, 1, m, size, VRAM_I64))
      return 0;
    break;
  case VRAM__REDUCE_LOGSUMEXP:
    dt = vram__kind_rank(dt) < 2 ? VRAM_F32 : dt;
    break;
  default:
    if (n->op == VRAM_OP_nansum && vram__kind_rank(dt) < 2)
      dt = VRAM_I64;
    if (vram__kind_rank(dt) < 2 && n->op != VRAM_OP_nansum &&
        !vram__node_list(n, VRAM__KEY_dtype, NULL))
      return vram__node_error(g, n, "this reduction needs a floating-point tensor");
    if (vram__is_complex(dt) && n->op != VRAM_OP_mean && n->op != VRAM_OP_nansum)
      dt = vram__real_of(dt); /* a distance */
  }
  if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = vram__graph_key_dtype(g, n, dt);
  return vram__node_out(g, n, 0, m, size, dt);
}

/* var_mean, std_mean, aminmax: two results alike, but a mean of complex numbers is one */
static int vram__shape_two(vram_graph *g, vram_node *n) {
  return vram__shape_reduce(g, n) &&
         (n->nout < 2 || vram__node_out_dims(n, 1, n->out[0].d,
                                             vram__is_complex(n->in[0]->dtype) ? n->in[0]->dtype
                                                                               : n->out[0].dtype));
}

static int vram__shape_renorm(vram_graph *g, vram_node *n) {
  uint32_t a;
  if (n->in[0]->d->ndim < 2)
    return vram__node_error(g, n, "renorm needs at least two axes");
  if (VRAM__INT(n, p, 0) <= 0)
    return vram__node_error(g, n, "p must be above 0");
  return vram__axis(g, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a) &&
         vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

static int vram__shape_count_nonzero(vram_graph *g, vram_node *n) {
  if (!vram__shape_reduce(g, n))
    return 0;
  n->out[0].dtype = VRAM_I64;
  return 1;
}

#ifndef VRAM_NO_STEP

VRAM__FN uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim) {
  uint32_t c, i, a, mask = 0;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    vram__axis((vram_graph *)0, v[i], ndim, &a);
    mask |= 1u << a;
  }
  return v && c ? mask : ndim ? (1u << ndim) - 1 : 0;
}

/* The dtype argument of a reduction, given or set by autocast (fp32_set_opt_dtype); else 0. */
VRAM__FN vram_dtype vram__reduce_opt_dtype(const vram__step *s, const vram_node *n, vram_dtype dt) {
  if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    return vram__step_key_dtype(s, n, dt);
  if (s->amp && vram__op_at(n->op)->autocast == VRAM__AUTOCAST_opt32 && vram__dtype_is_float(dt) &&
      dt != VRAM_F64)
    return VRAM_F32;
  return VRAM_DTYPE_NONE;
}

static int vram__reduce_keepdim(const vram_node *n) { return VRAM__INT(n, keepdim, 0) != 0; }

/* Half precision is read as it is for a result in fp32; other dtypes are converted before. */
static vram__tensor vram__reduce_as(vram__step *s, vram__tensor x, vram_dtype dt) {
  return x.dt == dt || (dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16))
             ? vram__tensor_none()
             : vram__tensor_to(s, x, dt);
}

VRAM__FN void vram__mean_save(vram__step *s, vram__grad_fn *f, vram__tensor x) {
  if (f && s->device.rules->does & VRAM__MEAN_INPUT)
    vram__save_tensor(s, f, x);
}

static void vram__forward_reduce(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram_dtype dt = vram__reduce_opt_dtype(s, n, x[0].dt);
  vram__grad_fn *f =
      dt && !vram__dtype_is_float(dt) ? NULL : vram__tape_record(s, n->op, x, 1, 1, 1);
  if (f)
    f->aux = mask | (vram__node_list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
  if (n->op == VRAM_OP_mean)
    vram__mean_save(s, f, x[0]);
  if (!dt)
    dt = vram__op_at(n->op)->kind == VRAM__REDUCE_SUM && vram__kind_rank(x[0].dt) < 2 ? VRAM_I64
                                                                                      : x[0].dt;
  y[0] = vram__tensor_sum(s, x[0], mask, vram__reduce_keepdim(n), dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* the gradient of a sum is a view of g, that of a mean one more tensor */
VRAM__FN void vram__backward_reduce(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  t = f->aux & 256 ? vram__dims_kept(s, g, d, (uint32_t)f->aux) : g;
  t = vram__tensor_view(s, g, vram__dims_expanded(s, t.d, d->ndim, d->v));
  if (f->kind == VRAM_OP_sum) {
    to[0] = t;
    return;
  }
  to[0] = vram__pointwise_empty_number(s, t);
  vram__tensor_release(s, t);
}

/* Sum of what is no NaN. FunctionsManual.cpp, nansum_backward: the gradient as sum has it, times
   self.isnan().logical_not(). */
static void vram__forward_nansum(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  const uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  if (f) {
    f->aux = mask | (vram__node_list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
    vram__save_tensor(s, f, x[0]);
  }
  y[0] = vram__tensor_sum(s, x[0], mask, vram__reduce_keepdim(n),
                          vram__kind_rank(x[0].dt) < 2 ? VRAM_I64 : x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_nansum(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], nan, number;
  if (f->aux & 256)
    g.d = vram__dims_kept(s, g, x.d, (uint32_t)f->aux).d;
  g.d = vram__dims_expanded(s, g.d, x.d->ndim, x.d->v);
  nan = vram__tensor_empty(s, vram__dims_pointwise1(s, x.d), VRAM_BOOL);
  number = vram__pointwise_empty1(s, nan);
  to[0] = vram__pointwise_empty2(s, g, number);
  vram__tensor_release(s, number);
  vram__tensor_release(s, nan);
}

static vram__tensor vram__reduce_compared(vram__step *s, vram__tensor a, vram__tensor b) {
  const vram_dims *d[2];
  d[0] = a.d;
  d[1] = b.d;
  return vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), VRAM_BOOL);
}

/* What a selection keeps: the places in the axis, or (none: of all) operand and result. */
static void vram__select_end(vram__step *s, const vram_node *n, vram__grad_fn *f, vram__tensor x,
                             vram__tensor *y, vram__tensor places) {
  if (f && places.d)
    vram__save_tensor(s, f, places);
  else if (f) {
    vram__save_tensor(s, f, x);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1)
    y[1] = places;
  else
    vram__tensor_release(s, places);
}

/* amax, amin; max, min of an axis (with indices) or of all */
static void vram__forward_extreme(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  const int select = vram__op_at(n->op)->kind == VRAM__REDUCE_SELECT;
  const int pair = select && vram__node_list(n, VRAM__KEY_dim, NULL);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  vram__tensor i = vram__tensor_none();
  y[0] = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), x[0].dt);
  if (pair) {
    i = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), VRAM_I64);
    vram__reduce_scratch(s, x[0], mask, x[0].dt, 16, 4);
  } else if (select) { /* ReduceAllOps.cpp: contiguous */
    vram__tensor c = vram__tensor_contiguous(s, x[0]);
    vram__reduce_scratch(s, c, mask, x[0].dt, vram__dtype_size(x[0].dt), 4);
    vram__tensor_release(s, c);
  } else
    vram__reduce_scratch(s, x[0], mask, x[0].dt, vram__dtype_size(x[0].dt), 4);
  if (f)
    f->aux = mask;
  vram__select_end(s, n, f, x[0], y, i);
}

static void vram__backward_extreme(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, m, q, count, t;
  uint32_t mask = (uint32_t)f->aux, all = x.d->ndim ? (1u << x.d->ndim) - 1 : 0;
  if (f->nsaved == 1) { /* value_selecting_reduction_backward */
    const vram_dims *d = vram__input_dims(s, f, 0, NULL);
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
    return;
  }
  y = vram__dims_kept(s, VRAM__SAVED(f)[1], x.d, mask);
  g = vram__dims_kept(s, g, x.d, mask);
  if (vram__op_at(f->kind)->kind == VRAM__REDUCE_SELECT) { /* evenly_distribute_backward */
    vram__tensor nan = vram__reduce_compared(s, x, x),
                 one = vram__reduce_compared(s, VRAM__SAVED(f)[1], VRAM__SAVED(f)[1]);
    m = vram__reduce_compared(s, x, VRAM__SAVED(f)[1]);
    count = vram__tensor_sum(s, nan, all, 0, VRAM_I64);
    q = vram__pointwise_empty2(s, VRAM__SLOTS(f)[0].g, count);
    to[0] = vram__pointwise_empty2(s, nan, q);
    vram__tensor_release(s, q);
    vram__tensor_release(s, count);
    vram__tensor_release(s, m);
    vram__tensor_release(s, one);
    vram__tensor_release(s, nan);
    return;
  }
  m = vram__reduce_compared(s, y, x); /* scale_grad_by_count */
  count = vram__tensor_sum(s, m, mask, 1, VRAM_I64);
  q = vram__pointwise_empty2(s, g, count);
  t = vram__pointwise_empty2(s, q, m);
  vram__tensor_release(s, q);
  vram__tensor_release(s, count);
  vram__tensor_release(s, m);
  to[0] = t;
}

static void vram__forward_prod(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram_dtype dt = vram__reduce_opt_dtype(s, n, x[0].dt);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  vram__tensor c, a = x[0];
  if (!dt)
    dt = vram__kind_rank(x[0].dt) < 2 ? VRAM_I64 : x[0].dt;
  y[0] = vram__tensor_reduced(s, a, mask, vram__reduce_keepdim(n), dt);
  c = vram__reduce_as(s, a, dt);
  vram__reduce_scratch(s, c.d ? c : a, mask, dt,
                       vram__dtype_size(dt) < 4 ? 4 : vram__dtype_size(dt), 4);
  vram__tensor_release(s, c);
  if (f) {
    f->aux = mask | (vram__node_list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
    vram__save_tensor(s, f, a);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* prod_backward where no value is zero */
static void vram__backward_prod(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = vram__tensor_to(s, VRAM__SAVED(f)[0], g.dt),
               y = VRAM__SAVED(f)[1], m, count, q;
  uint32_t mask = (uint32_t)f->aux & 255;
  if (!x.d->ndim) {
    vram__tensor_release(s, x);
    to[0] = vram__tensor_retain(s, g);
    return;
  }
  m = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
  if (f->aux & 256) {
    g = vram__dims_kept(s, g, x.d, mask);
    y = vram__dims_kept(s, y, x.d, mask);
    count = vram__tensor_sum(s, m, mask, 1, VRAM_I64);
    vram__tensor_release(s, vram__tensor_sum(s, count, (1u << x.d->ndim) - 1, 0, VRAM_I64));
    q = vram__pointwise_empty2(s, y, x);
    to[0] = vram__pointwise_empty2(s, g, q);
    vram__tensor_release(s, q);
    vram__tensor_release(s, count);
    vram__tensor_release(s, m);
  } else {
    count = vram__tensor_contiguous(s, m);
    vram__cub_nonzero(s, x.d->numel, 0);
    vram__tensor_release(s, count);
    vram__tensor_release(s, m);
    q = vram__pointwise_empty2(s, y, x);
    to[0] = vram__pointwise_empty2(s, g, q);
    vram__tensor_release(s, q);
  }
  vram__tensor_release(s, x);
}

/* The variance of x, and its mean where `mean` is not NULL, in one pass (std_var_out,
   std_var_mean_out): of complex numbers each part has its own, and these are put together. */
static vram__tensor vram__reduce_variance(vram__step *s, const vram_node *n, vram__tensor x,
                                          uint32_t mask, vram__tensor *mean) {
  const int keep = vram__reduce_keepdim(n), whole = !vram__is_complex(x.dt);
  const vram_dtype dt = whole ? x.dt : vram__real_of(x.dt);
  vram__tensor part, var[2], of[2], y;
  uint32_t i;
  for (i = 0; i < (whole ? 1u : 2u); i++) {
    part = whole ? vram__tensor_retain(s, x) : vram__complex_real(s, vram__tensor_retain(s, x));
    var[i] = vram__tensor_reduced(s, part, mask, keep, dt);
    if (mean)
      of[i] = vram__tensor_reduced(s, part, mask, keep, dt);
    /* WelfordData: mean, m2, int32 n, nf */
    vram__reduce_scratch(s, part, mask, dt, dt == VRAM_F64 ? 32 : 16, 2);
    vram__tensor_release(s, part);
  }
  if (mean)
    *mean = of[0];
  if (whole)
    return var[0];
  y = vram__pointwise_empty2(s, var[0], var[1]);
  if (mean)
    *mean = vram__tensor_empty(s, of[0].d, x.dt);
  while (i--) {
    if (mean)
      vram__tensor_release(s, of[i]);
    vram__tensor_release(s, var[i]);
  }
  return y;
}

static void vram__forward_var(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  y[0] = vram__reduce_variance(s, n, x[0], mask, NULL);
  if (f) {
    f->aux = mask | vram__view_at(s, x[0], 0, 0) << 32;
    vram__save_tensor(s, f, x[0]);
    if (vram__op_at(n->op)->kind == VRAM__REDUCE_STD)
      vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_var(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, own = vram__tensor_none(), mean, d, c, a, b;
  const vram__tensor x = vram__tensor_alias(s, VRAM__SAVED(f)[0], VRAM__SAVED(f)[0].d);
  uint32_t mask = (uint32_t)f->aux;
  vram__tensor_begin_at(s, x, f->aux >> 32);            /* what is saved has only the storage */
  if (vram__op_at(f->kind)->kind == VRAM__REDUCE_STD) { /* std_backward */
    vram__tensor y = VRAM__SAVED(f)[1], m;
    a = vram__pointwise_empty_number(s, y);
    own = vram__pointwise_empty2(s, g, a);
    m = vram__tensor_empty(s, vram__dims_pointwise_number(s, y.d), VRAM_BOOL);
    vram__tensor_release(s, m);
    vram__tensor_release(s, a);
    g = own;
  }
  if ((!x.d->ndim || !vram__node_list(f->node, VRAM__KEY_dim, NULL)) &&
      (int64_t)x.d->numel <= VRAM__INT(f->node, correction, VRAM__INT(f->node, unbiased, 1))) {
    /* var_backward of too few values: g * where(x == mean, NaN, infinity) */
    mean = vram__tensor_sum(s, x, mask, 0, x.dt);
    c = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_BOOL);
    a = vram__tensor_empty(s, s->scalar, VRAM_F32);
    b = vram__tensor_empty(s, s->scalar, VRAM_F32);
    d = vram__tensor_empty(s, c.d, VRAM_F32);
    vram__tensor_release(s, b);
    vram__tensor_release(s, a);
    to[0] = vram__pointwise_empty2(s, g, d);
    vram__tensor_release(s, d);
    d = vram__tensor_none();
  } else {
    g = vram__dims_kept(s, g, x.d, mask);
    mean = vram__tensor_sum(s, x, mask, 1, x.dt);
    d = vram__pointwise_empty2(s, x, mean);
    c = vram__pointwise_empty_number(s, g);
    to[0] = vram__pointwise_empty2(s, c, d);
  }
  vram__tensor_release(s, c);
  vram__tensor_release(s, d);
  vram__tensor_release(s, mean);
  vram__tensor_release(s, own);
  vram__tensor_release(s, x);
}

static void vram__forward_var_mean(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 2, 2);
  vram__tensor mean;
  y[0] = vram__reduce_variance(s, n, x[0], mask, &mean);
  if (f) {
    f->aux = mask | vram__view_at(s, x[0], 0, 0) << 32;
    vram__save_tensor(s, f, x[0]);
    if (vram__op_at(n->op)->kind == VRAM__REDUCE_STD)
      vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1) {
    y[1] = mean;
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  } else
    vram__tensor_release(s, mean);
}

/* var_mean_backward, std_mean_backward: the gradient of the variance, and the mean's */
static void vram__backward_var_mean(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor of_var, of_mean;
  if (VRAM__SLOTS(f)[0].g.d)
    vram__backward_var(s, f, to);
  if (!VRAM__SLOTS(f)[1].g.d)
    return;
  of_mean =
      vram__tensor_empty(s, vram__dims_contiguous(s, VRAM__SAVED(f)[0].d), VRAM__SLOTS(f)[1].g.dt);
  if (!to[0].d) {
    to[0] = of_mean;
    return;
  }
  of_var = to[0];
  to[0] = vram__pointwise_empty2(s, of_var, of_mean);
  vram__tensor_release(s, of_var);
  vram__tensor_release(s, of_mean);
}

/* Sorting.cpp, median_impl of what is no NaN: which of the sorted values it is, a number. */
static vram__tensor vram__nanmedian_place(vram__step *s, vram__tensor sorted) {
  const vram__tensor nan = vram__tensor_empty(s, sorted.d, VRAM_BOOL);
  const vram__tensor count = vram__tensor_sum(s, nan, 1, 0, VRAM_I64);
  const vram__tensor rest = vram__pointwise_empty1(s, count);
  const vram__tensor half = vram__tensor_empty(s, s->scalar, VRAM_F32);
  const vram__tensor place = vram__tensor_empty(s, s->scalar, VRAM_I64);
  vram__tensor_release(s, half);
  vram__tensor_release(s, rest);
  vram__tensor_release(s, count);
  vram__tensor_release(s, nan);
  return place;
}

/* kthvalue, mode, median: of an axis with its place, or the median of all, which are sorted */
static void vram__forward_selected(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const uint32_t nd = x[0].d->ndim, mask = vram__dim_mask(n, nd);
  const int pair = vram__node_list(n, VRAM__KEY_dim, NULL) != NULL;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  vram__tensor i = vram__tensor_none();
  if (pair) {
    y[0] = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), x[0].dt);
    i = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), VRAM_I64);
    if (n->op == VRAM_OP_mode && nd && !(mask >> (nd - 1) == 1 && (x[0].d->flags & VRAM__CONTIG)))
      vram__workspace_use(s, vram__dims_bytes_of(x[0].d, x[0].dt));
  } else {
    const int64_t all = (int64_t)x[0].d->numel;
    const vram_dims *row = vram__dims_in(s, 1, &all, NULL);
    const vram__tensor c = vram__tensor_contiguous(s, x[0]);
    const vram__tensor sorted = vram__tensor_empty(s, row, x[0].dt);
    const vram__tensor places = vram__tensor_empty(s, row, VRAM_I64);
    vram__tensor place;
    vram__sort_rows(s, row, row, 0, vram__dtype_size(x[0].dt));
    vram__tensor_release(s, places);
    vram__tensor_release(s, c);
    place = n->op == VRAM_OP_nanmedian ? vram__nanmedian_place(s, sorted)
                                       : vram__tensor_empty(s, s->scalar, VRAM_BOOL);
    y[0] = vram__tensor_empty(s, s->scalar, x[0].dt);
    vram__tensor_release(s, place);
    vram__tensor_release(s, sorted);
  }
  if (f)
    f->aux = mask;
  vram__select_end(s, n, f, x[0], y, i);
}

static void vram__forward_aminmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 2, 3);
  const int all = !vram__node_list(n, VRAM__KEY_dim, NULL);
  vram__tensor most, c;
  y[0] = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), x[0].dt);
  most = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), x[0].dt);
  c = all ? vram__tensor_contiguous(s, x[0]) : vram__tensor_retain(s, x[0]);
  vram__reduce_scratch(s, c, mask, x[0].dt, 2 * vram__dtype_size(x[0].dt), 4);
  vram__tensor_release(s, c);
  if (f) {
    f->aux = mask;
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, most);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout > 1) {
    y[1] = most;
    vram__grad_fn_set_output(s, f, 1, &y[1]);
  } else
    vram__tensor_release(s, most);
}

/* aminmax_backward: scale_grad_by_count of both, the second added to the first */
static void vram__backward_aminmax(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const uint32_t mask = (uint32_t)f->aux;
  uint32_t i;
  for (i = 0; i < 2; i++) {
    vram__tensor y = VRAM__SAVED(f)[2 - i], g = VRAM__SLOTS(f)[i].g, m, count, q, t;
    if (!g.d)
      continue;
    y = vram__dims_kept(s, y, x.d, mask);
    g = vram__dims_kept(s, g, x.d, mask);
    m = vram__reduce_compared(s, x, y);
    count = vram__tensor_sum(s, m, mask, 1, VRAM_I64);
    q = vram__pointwise_empty2(s, g, count);
    t = vram__pointwise_empty2(s, q, m);
    vram__tensor_release(s, q);
    vram__tensor_release(s, count);
    if (to[0].d)
      vram__tensor_release(s, t);
    else
      to[0] = t;
    vram__tensor_release(s, m);
  }
}

/* torch.linalg.vector_norm */

static void vram__forward_vector_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram_dtype dt = vram__reduce_opt_dtype(s, n, x[0].dt);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  vram__tensor c;
  if (!dt)
    dt = vram__is_complex(x[0].dt) ? vram__real_of(x[0].dt) : x[0].dt;
  y[0] = vram__tensor_reduced(s, x[0], mask, vram__reduce_keepdim(n), dt);
  c = vram__is_complex(x[0].dt) ? vram__tensor_none() : vram__reduce_as(s, x[0], dt);
  if (y[0].d->numel == x[0].d->numel) { /* LinearAlgebra.cpp: abs, in the result's dtype */
    if (!c.d && x[0].dt != dt)
      c = vram__tensor_to(s, x[0], dt);
  } else
    vram__reduce_scratch(s, c.d ? c : x[0], mask, dt,
                         vram__dtype_size(dt) < 4 ? 4 : vram__dtype_size(dt), 4);
  vram__tensor_release(s, c);
  if (f) {
    f->aux = vram__node_list(n, VRAM__KEY_dim, NULL)
                 ? mask
                 : 0; /* no dim: a scalar, no axes to put back */
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* The 2-norm: x over the norm, 0 where that is 0. */
static vram__tensor vram__norm_two(vram__step *s, vram__tensor g, vram__tensor x, vram__tensor y) {
  const vram__tensor q = vram__pointwise_empty2(s, x, y);
  const vram__tensor m = vram__tensor_empty(s, vram__dims_pointwise_number(s, y.d), VRAM_BOOL);
  const vram__tensor to = vram__pointwise_empty2(s, g, q);
  vram__tensor_release(s, m);
  vram__tensor_release(s, q);
  return to;
}

/* Of others a power of x, signed, times grad over a power of the norm; the 1-norm has signs alone.
 */
static vram__tensor vram__norm_power(vram__step *s, int64_t p, vram__tensor g, vram__tensor x,
                                     vram__tensor y) {
  vram__tensor sign = vram__tensor_none(), power = vram__pointwise_empty1(s, x), scaled, t, to;
  if (p == VRAM__ONE) {
    to = vram__pointwise_empty2(s, power, g);
    vram__tensor_release(s, power);
    return to;
  }
  if (p < 2 * VRAM__ONE)
    sign = vram__pointwise_empty1(s, x);
  scaled = vram__pointwise_empty2(s, sign.d ? sign : x, power);
  vram__tensor_release(s, sign);
  vram__tensor_release(s, power);
  power = vram__pointwise_empty_number(s, y);
  t = vram__pointwise_empty2(s, g, power);
  vram__tensor_release(s, power);
  vram__tensor_release(s, vram__tensor_empty(s, vram__dims_pointwise_number(s, y.d), VRAM_BOOL));
  to = vram__pointwise_empty2(s, scaled, t);
  vram__tensor_release(s, t);
  vram__tensor_release(s, scaled);
  return to;
}

/* The infinite norms: grad over how many values have it, where they do, signed. */
static vram__tensor vram__norm_infinite(vram__step *s, vram__tensor g, vram__tensor x,
                                        vram__tensor y, uint32_t mask) {
  const vram__tensor size = vram__pointwise_empty1(s, x), is = vram__reduce_compared(s, size, y);
  const vram__tensor nan = vram__reduce_compared(s, size, size);
  const vram__tensor most = vram__reduce_compared(s, is, nan);
  vram__tensor t[4], to;
  uint32_t n = 4;
  vram__tensor_release(s, nan);
  vram__tensor_release(s, is);
  t[0] = vram__tensor_sum(s, most, mask, 1, VRAM_I64);
  t[1] = vram__pointwise_empty2(s, g, t[0]);
  t[2] = vram__pointwise_empty2(s, t[1], most);
  t[3] = vram__pointwise_empty1(s, x);
  to = vram__pointwise_empty2(s, t[3], t[2]);
  while (n--)
    vram__tensor_release(s, t[n]);
  vram__tensor_release(s, most);
  vram__tensor_release(s, size);
  return to;
}

/* Below 1 a power of |x|, 0 where x is 0, signed, times grad and a power of the norm. */
static vram__tensor vram__norm_root(vram__step *s, vram__tensor g, vram__tensor x, vram__tensor y) {
  const vram__tensor sign = vram__pointwise_empty1(s, x);
  const vram__tensor zero = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
  const vram__tensor power = vram__pointwise_empty1(s, x);
  const vram__tensor scaled = vram__pointwise_empty2(s, sign, power);
  vram__tensor t, scale, to;
  vram__tensor_release(s, power);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, sign);
  scale = vram__pointwise_empty_number(s, y);
  t = vram__pointwise_empty2(s, scaled, g);
  to = vram__pointwise_empty2(s, t, scale);
  vram__tensor_release(s, t);
  vram__tensor_release(s, scale);
  vram__tensor_release(s, scaled);
  return to;
}

/* norm_backward */
static vram__tensor vram__norm_gradient(vram__step *s, int64_t p, vram__tensor g, vram__tensor x,
                                        vram__tensor y, uint32_t mask) {
  if (p == INT64_MAX || p == -INT64_MAX)
    return vram__norm_infinite(s, g, x, y, mask);
  if (p < VRAM__ONE)
    return vram__norm_root(s, g, x, y);
  return p == 2 * VRAM__ONE ? vram__norm_two(s, g, x, y) : vram__norm_power(s, p, g, x, y);
}

/* How many values are not 0 has no gradient. */
static void vram__backward_vector_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const uint32_t mask = f->aux & 255;
  const int64_t p =
      f->node->op == VRAM_OP_norm ? VRAM__INT(f->node, p, 2 * VRAM__ONE) : 2 * VRAM__ONE;
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y;
  if (!p)
    return;
  x = f->aux & VRAM__NORM_CAST ? vram__tensor_to(s, x, g.dt) : vram__tensor_retain(s, x);
  y = vram__dims_kept(s, VRAM__SAVED(f)[1], x.d, mask);
  g = vram__dims_kept(s, g, x.d, mask);
  to[0] = vram__norm_gradient(s, p, g, x, y, vram__dim_mask(f->node, x.d->ndim));
  vram__tensor_release(s, x);
}

/* The norm of every slice along an axis, in the dtype that kernels add up in. */
static vram__tensor vram__renorm_norms(vram__step *s, const vram_node *n, vram__tensor x,
                                       uint32_t *mask) {
  const vram_dtype dt = vram__acc_dtype(x.dt);
  uint32_t a = 0;
  vram__tensor y;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x.d->ndim, &a);
  *mask = ((1u << x.d->ndim) - 1) & ~(1u << a);
  y = vram__tensor_reduced(s, x, *mask, 1, dt);
  if (y.d->numel != x.d->numel)
    vram__reduce_scratch(s, x, *mask, dt, vram__dtype_size(dt), 4);
  return y;
}

/* Normalization.cpp, renorm_out */
static void vram__forward_renorm(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__tensor in = s->amp ? vram__autocast_cast(s, x[0], VRAM_F32) : vram__tensor_retain(s, x[0]);
  vram__grad_fn *f = vram__tape_record(s, n->op, &in, 1, 1, 1);
  vram__tensor norm, factor = vram__tensor_none();
  uint32_t mask;
  y[0] = vram__tensor_empty(s, vram__dims_dense(s, in.d), in.dt);
  norm = vram__renorm_norms(s, n, in, &mask);
  if (norm.dt != in.dt)
    factor = vram__tensor_empty(s, norm.d, in.dt);
  vram__tensor_release(s, factor);
  vram__tensor_release(s, norm);
  if (f)
    vram__save_tensor(s, f, in);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, in);
}

/* FunctionsManual.cpp, renorm_backward: of the slices that were too long */
static void vram__backward_renorm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  uint32_t mask;
  const vram__tensor norm = vram__renorm_norms(s, f->node, x, &mask);
  vram__tensor t = vram__pointwise_empty2(s, x, g), sum, of_norm, inverse, part[4];
  sum = vram__tensor_sum(s, t, mask, 1, norm.dt);
  vram__tensor_release(s, t);
  of_norm = vram__norm_gradient(s, VRAM__INT(f->node, p, 2 * VRAM__ONE), sum, x, norm, mask);
  vram__tensor_release(s, sum);
  t = vram__pointwise_empty_number(s, norm);
  inverse = vram__pointwise_empty1(s, t);
  vram__tensor_release(s, t);
  part[0] = vram__pointwise_empty2(s, inverse, of_norm);
  part[1] = vram__pointwise_empty2(s, g, part[0]);
  part[2] = vram__pointwise_empty_number(s, inverse);
  part[3] = vram__pointwise_empty2(s, part[2], part[1]);
  vram__tensor_release(s, part[2]);
  vram__tensor_release(s, part[1]);
  vram__tensor_release(s, part[0]);
  part[0] = vram__tensor_to(s, part[3], g.dt);
  t = vram__tensor_empty(s, vram__dims_pointwise_number(s, norm.d), VRAM_BOOL);
  to[0] = vram__pointwise_empty2(s, part[0], g);
  vram__tensor_release(s, t);
  vram__tensor_release(s, part[0]);
  vram__tensor_release(s, part[3]);
  vram__tensor_release(s, inverse);
  vram__tensor_release(s, of_norm);
  vram__tensor_release(s, norm);
}

static vram__tensor vram__logsumexp_max(vram__step *s, vram__tensor a, uint32_t mask) {
  const vram__tensor max = vram__tensor_reduced(s, a, mask, 1, a.dt);
  vram__tensor e, m;
  vram__reduce_scratch(s, a, mask, a.dt, vram__dtype_size(a.dt), 4);
  e = vram__pointwise_empty1(s, max);
  m = vram__tensor_empty(s, max.d, VRAM_BOOL);
  vram__tensor_release(s, m);
  vram__tensor_release(s, e);
  return max;
}

/* ReduceOps.cpp, logsumexp_out_impl */
static void vram__forward_logsumexp(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__tensor a = s->amp ? vram__autocast_cast(s, x[0], VRAM_F32) : vram__tensor_retain(s, x[0]),
               max, e;
  vram__grad_fn *f;
  if (vram__kind_rank(a.dt) < 2) {
    e = a;
    a = vram__tensor_to(s, e, vram__step_dtype(s, vram__graph_default_dtype(s->g)));
    vram__tensor_release(s, e);
  }
  f = vram__tape_record(s, n->op, &a, 1, 1, 2);
  max = vram__tensor_none();
  if (a.d->numel) /* else there is no largest one */
    max = vram__logsumexp_max(s, a, mask);
  e = max.d ? vram__pointwise_empty2(s, a, max) : vram__pointwise_empty1(s, a);
  y[0] = vram__tensor_sum(s, e, mask, vram__reduce_keepdim(n), a.dt);
  vram__tensor_release(s, e);
  vram__tensor_release(s, max);
  if (f) {
    f->aux = mask;
    vram__save_tensor(s, f, a);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, a);
}

static void vram__backward_logsumexp(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, d, e;
  y = vram__dims_kept(s, VRAM__SAVED(f)[1], x.d, (uint32_t)f->aux);
  g = vram__dims_kept(s, g, x.d, (uint32_t)f->aux);
  d = vram__pointwise_empty2(s, x, y);
  e = vram__pointwise_empty1(s, d);
  to[0] = vram__pointwise_empty2(s, g, e);
  vram__tensor_release(s, e);
  vram__tensor_release(s, d);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(sum, "", 1, 1, reduce, SAME, opt32, reduce, reduce, each, REDUCE, VRAM__REDUCE_SUM,
         VRAM__OP_TOTAL, "dim keepdim dtype");
VRAM__OP(mean, "", 1, 1, reduce, SAME, none, reduce, reduce, each, REDUCE_MEAN, 0, VRAM__OP_TOTAL,
         "dim keepdim dtype");
VRAM__OP(nansum, "", 1, 1, reduce, SAME, none, nansum, nansum, each, REDUCE, 0, 0, "dim keepdim");
VRAM__OP(amax, "", 1, 1, reduce, SAME, none, extreme, extreme, each, REDUCE_MAX,
         VRAM__REDUCE_EXTREME, VRAM__OP_REAL, "dim keepdim");
VRAM__OP(amin, "", 1, 1, reduce, SAME, none, extreme, extreme, each, REDUCE, VRAM__REDUCE_EXTREME,
         VRAM__OP_REAL, "dim keepdim");
VRAM__OP(max, "", 1, 1, reduce, SAME, none, extreme, extreme, each, REDUCE_MAX, VRAM__REDUCE_SELECT,
         VRAM__OP_REAL, "dim keepdim");
VRAM__OP(min, "", 1, 1, reduce, SAME, none, extreme, extreme, each, REDUCE, VRAM__REDUCE_SELECT,
         VRAM__OP_REAL, "dim keepdim");
VRAM__OP(prod, "", 1, 1, reduce, SAME, opt32, prod, prod, each, REDUCE, VRAM__REDUCE_PROD, 0,
         "dim keepdim dtype");
VRAM__OP(var, "", 1, 1, reduce, SAME, none, var, var, each, REDUCE, 0, 0,
         "dim keepdim correction unbiased");
VRAM__OP(std, "", 1, 1, reduce, SAME, none, var, var, each, REDUCE, VRAM__REDUCE_STD, 0,
         "dim keepdim correction unbiased");
VRAM__OP(norm, "", 1, 1, reduce, SAME, opt32, vector_norm, vector_norm, each, REDUCE, 0, 0,
         "dim keepdim dtype p");
VRAM__OP(logsumexp, "", 1, 1, reduce, SAME, fp32, logsumexp, logsumexp, each, REDUCE,
         VRAM__REDUCE_LOGSUMEXP, 0, "dim! keepdim");
VRAM__OP(var_mean, "", 1, 1, two, SAME, none, var_mean, var_mean, each, NONE, 0, 0,
         "dim keepdim correction unbiased");
VRAM__OP(std_mean, "", 1, 1, two, SAME, none, var_mean, var_mean, each, NONE, VRAM__REDUCE_STD, 0,
         "dim keepdim correction unbiased");
VRAM__OP(aminmax, "", 1, 1, two, SAME, none, aminmax, aminmax, each, NONE, VRAM__REDUCE_EXTREME, 0,
         "dim keepdim");
VRAM__OP(kthvalue, "", 1, 1, reduce, SAME, none, selected, extreme, each, NONE, VRAM__REDUCE_SELECT,
         0, "k! dim! keepdim");
VRAM__OP(mode, "", 1, 1, reduce, SAME, none, selected, extreme, each, NONE, VRAM__REDUCE_SELECT, 0,
         "dim! keepdim");
VRAM__OP(median, "", 1, 1, reduce, SAME, none, selected, extreme, each, NONE, VRAM__REDUCE_SELECT,
         0, "dim keepdim");
VRAM__OP(nanmedian, "", 1, 1, reduce, SAME, none, selected, extreme, each, NONE,
         VRAM__REDUCE_SELECT, 0, "dim keepdim");
VRAM__OP(renorm, "renorm: x p dim", 1, 1, renorm, SAME, fp32, renorm, renorm, each, NONE, 0, 0,
         "p! dim!");
VRAM__OP_LINES(count_nonzero, "count_nonzero: x dim", 1, 1, count_nonzero, none, NONE,
               VRAM__REDUCE_SUM, 0, "dim", "ne t x0 scalar=1;sum y t dim=@");
