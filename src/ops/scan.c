/* >>ops/scan    cumsum, cumprod, histc, diff */
#include "ops/ops.h"

static int vram__shape_cumsum(vram_graph *g, vram_node *n) {
  uint32_t a;
  vram_dtype dt = n->in[0]->dtype;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a))
    return 0;
  if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = vram__graph_key_dtype(g, n, dt);
  else if (vram__kind_rank(dt) < 2)
    dt = VRAM_I64;
  return vram__node_out_dims(n, 0, n->in[0]->d, dt);
}

static int vram__shape_histc(vram_graph *g, vram_node *n) {
  int64_t bins = VRAM__INT(n, bins, 100);
  if (bins < 1)
    return vram__node_error(g, n, "bins must be at least 1");
  return vram__node_out(g, n, 0, 1, &bins, n->in[0]->dtype);
}

static int vram__shape_diff(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, a;
  vram__promote p;
  if (!x->ndim)
    return vram__node_error(g, n, "diff of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  vram__memory_zero(&p, sizeof p);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, n->in[i]->dtype, x->ndim);
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (d->ndim != x->ndim)
      return vram__node_error(g, n, "diff with a prefix of other axes");
    for (i = 0; i < x->ndim; i++)
      if (i != a && d->v[i] != x->v[i])
        return vram__node_error(g, n, "diff with a prefix of other sizes");
    size[a] += d->v[a]; /* both below 2^59: vram__graph_dims */
  }
  if (size[a])
    size[a]--;
  return vram__node_out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

#ifndef VRAM_NO_STEP

/* A running sum along an axis: cub's for one row alone. */
static vram__tensor vram__scan(vram__step *s, vram__tensor x, uint32_t axis, vram_dtype dt) {
  vram__tensor y = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), dt),
               a = vram__tensor_to(s, x, dt);
  const vram__tensor c = vram__tensor_contiguous(s, a);
  if (dt == VRAM_C32)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node, "a scan of c32: PyTorch refuses");
  if (x.d->ndim && x.d->numel && x.d->numel == (uint64_t)x.d->v[axis])
    vram__workspace_use(s, vram__cub_scan(s, x.d->numel, dt));
  vram__tensor_release(s, c);
  vram__tensor_release(s, a);
  return y;
}

/* The dtype of what is made: asked for, or that of x; of integers i64. */
static vram_dtype vram__scan_dtype(const vram__step *s, const vram_node *n, vram_dtype x) {
  const vram_dtype asked = vram__reduce_opt_dtype(s, n, x);
  if (asked)
    return asked;
  return vram__kind_rank(x) < 2 ? VRAM_I64 : x;
}

static void vram__forward_cumsum(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  uint32_t a = 0;
  const vram_dtype dt = vram__scan_dtype(s, n, x[0].dt);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (f)
    f->aux = a;
  y[0] = vram__scan(s, x[0], a, dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* cumsum_backward: flip, cumsum, flip */
static void vram__backward_cumsum(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram_dtype dt;
  const vram_dims *d = vram__input_dims(s, f, 0, &dt);
  vram__tensor g = vram__tensor_to(s, VRAM__SLOTS(f)[0].g, dt), a, b;
  if (d->numel <= 1 || d->v[f->aux] == 1) {
    to[0] = g;
    return;
  }
  a = vram__pointwise_empty1(s, g);
  b = vram__scan(s, a, (uint32_t)f->aux, dt);
  to[0] = vram__pointwise_empty1(s, b);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  vram__tensor_release(s, g);
}

static void vram__forward_cumprod(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  uint32_t a = 0;
  const vram_dtype dt = vram__scan_dtype(s, n, x[0].dt);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  y[0] = vram__scan(s, x[0], a, dt);
  if (f) {
    f->aux = a;
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* The conjugate of complex numbers, which a product with them has made; of others there is none. */
static vram__tensor vram__scan_conjugate(vram__step *s, vram__tensor x) {
  return vram__is_complex(x.dt) ? vram__pointwise_empty1(s, x) : vram__tensor_none();
}

/* cumprod_backward, where the input has no zero: the host asks. What zeros would need besides
   depends on where they are. */
static void vram__backward_cumprod(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram_dtype dt;
  const vram_dims *d = vram__input_dims(s, f, 0, &dt);
  const vram__tensor x = VRAM__SAVED(f)[0];
  vram__tensor g = vram__tensor_to(s, VRAM__SLOTS(f)[0].g, dt), w, zero, any, a, b, c;
  if (d->numel <= 1 || d->v[f->aux] == 1) {
    to[0] = g;
    return;
  }
  c = vram__scan_conjugate(s, VRAM__SAVED(f)[1]);
  w = vram__pointwise_empty2(s, VRAM__SAVED(f)[1], g);
  vram__tensor_release(s, c);
  zero = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
  any = vram__tensor_empty(s, s->scalar, VRAM_BOOL);
  vram__reduce_scratch(s, zero, (1u << d->ndim) - 1, VRAM_BOOL, 1, 4);
  vram__tensor_release(s, any);
  vram__upper_may_need(s, d->numel * (10 + 2 * (uint64_t)d->ndim));
  a = vram__pointwise_empty1(s, w);
  b = vram__scan(s, a, (uint32_t)f->aux, w.dt);
  c = vram__pointwise_empty1(s, b);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  a = vram__scan_conjugate(s, x);
  to[0] = vram__pointwise_empty2(s, c, x);
  vram__tensor_release(s, a);
  vram__tensor_release(s, c);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, w);
  vram__tensor_release(s, g);
}

static void vram__forward_logcumsumexp(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  y[0] = vram__scan(s, x[0], a, x[0].dt);
  if (f) {
    f->aux = a;
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* exp(reverse_logcumsumexp(t - result) + x) */
static vram__tensor vram__logcumsumexp_part(vram__step *s, vram__grad_fn *f, vram__tensor t) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const vram__tensor apart = vram__pointwise_empty2(s, t, VRAM__SAVED(f)[1]);
  const vram__tensor turned = vram__pointwise_empty1(s, apart);
  const vram__tensor sum = vram__scan(s, turned, (uint32_t)f->aux, turned.dt);
  const vram__tensor back = vram__pointwise_empty1(s, sum);
  vram__tensor all, y;
  vram__tensor_release(s, sum);
  vram__tensor_release(s, turned);
  all = vram__pointwise_empty2(s, back, x);
  y = vram__pointwise_empty1(s, all);
  vram__tensor_release(s, all);
  vram__tensor_release(s, back);
  vram__tensor_release(s, apart);
  return y;
}

/* logcumsumexp_backward: of what is positive in the logarithm of grad, and of what is negative */
static void vram__backward_logcumsumexp(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  vram__tensor least, positive, log, part[2], sum[2];
  uint32_t i;
  if (!g.d->ndim || !g.d->numel) {
    to[0] = vram__tensor_retain(s, g);
    return;
  }
  least = vram__tensor_empty(s, s->scalar, g.dt);
  positive = vram__pointwise_empty1(s, g);
  log = vram__pointwise_empty1(s, positive);
  vram__tensor_release(s, positive);
  for (i = 0; i < 2; i++) {
    const vram__tensor where =
        vram__tensor_empty(s, vram__dims_pointwise_number(s, g.d), VRAM_BOOL);
    part[i] = vram__pointwise_empty1(s, log);
    vram__tensor_release(s, where);
  }
  for (i = 0; i < 2; i++)
    sum[i] = vram__logcumsumexp_part(s, f, part[i]);
  to[0] = vram__pointwise_empty2(s, sum[0], sum[1]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, sum[i]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, part[i]);
  vram__tensor_release(s, log);
  vram__tensor_release(s, least);
}

/* The range of values is given: by default 0 to bins - 1. min = max: it is found first. */
static void vram__forward_histc(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const int64_t *lo = vram__node_list(n, VRAM__KEY_min, NULL),
                *hi = vram__node_list(n, VRAM__KEY_max, NULL);
  vram__tensor a, b;
  if (vram__is_half(x[0].dt))
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n, "histc of 16 bits: PyTorch refuses");
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  if (!lo || !hi || *lo != *hi)
    return;
  a = vram__tensor_empty(s, s->scalar, x[0].dt);
  b = vram__tensor_empty(s, s->scalar, x[0].dt);
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
}

static void vram__forward_diff(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__tensor in[2], all;
  vram__grad_fn *f;
  uint32_t a = 0;
  int64_t len;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  if (n->nin > 1) { /* the prefix in front of x */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i;
    in[0] = x[1];
    in[1] = x[0];
    f = vram__tape_record(s, VRAM_OP_cat, in, 2, 1, 0);
    if (f)
      f->aux = a;
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = x[0].d->v[i] + (i == a ? x[1].d->v[i] : 0);
    all = vram__tensor_empty(s, vram__dims_in(s, i, size, NULL), vram__promote_pair(x[0], x[1]));
    vram__grad_fn_set_output(s, f, 0, &all);
  } else
    all = vram__tensor_retain(s, x[0]);
  len = n->out[0].d->v[a];
  in[1] = vram__torch_narrow(s, all, a, len);
  in[0] = vram__torch_narrow(s, all, a, len);
  f = vram__tape_record(s, VRAM_OP_sub, in, 2, 1, 0);
  y[0] = vram__pointwise_empty2(s, in[0], in[1]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, all);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(cumsum, "cumsum: x dim dtype", 1, 1, cumsum, SAME, opt32, cumsum, cumsum, each, ANY, 0, 0,
         "dim! dtype");
VRAM__OP(cumprod, "cumprod: x dim dtype", 1, 1, cumsum, SAME, opt32, cumprod, cumprod, each, ANY, 0,
         0, "dim! dtype");
VRAM__OP(histc, "", 1, 1, histc, SAME, none, histc, none, each, NONE, 0,
         VRAM__OP_NUMBERS | VRAM__OP_REAL, "bins min max");
VRAM__OP(diff, "", 1, 2, diff, SAME, none, diff, none, each, NONE, 0, 0, "dim");
VRAM__OP(logcumsumexp, "logcumsumexp: x dim", 1, 1, cumsum, SAME, none, logcumsumexp, logcumsumexp,
         each, NONE, 0, VRAM__OP_FLOATS, "dim!");
