/* >>ops/distance    cosine_similarity, pairwise_distance, cdist (ATen/native/Distance.cpp) */
#include "ops/ops.h"

static int vram__shape_cosine(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES], kept[VRAM_MAX_AXES];
  uint32_t ndim, i, a, m = 0;
  const vram_dtype dt = vram__promote_all(n, 0, 2);
  if (!vram__dims_broadcast_all(g, n, 0, &ndim, size) ||
      !vram__axis(g, VRAM__INT(n, dim, 1), ndim, &a))
    return 0;
  if (!vram__dtype_is_float(dt))
    return vram__node_error(g, n, "needs a floating-point tensor");
  for (i = 0; i < ndim; i++)
    if (i != a)
      kept[m++] = size[i];
  g->extra += 4096;
  return vram__node_out(g, n, 0, m, kept, dt);
}

static int vram__shape_pairwise(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  const vram_dtype dt = vram__promote_all(n, 0, 2);
  if (!vram__dims_broadcast_all(g, n, 0, &ndim, size))
    return 0;
  if (!ndim)
    return vram__node_error(g, n, "a distance of tensors without axes");
  if (vram__kind_rank(dt) < 2 && (n->in[0]->dtype == VRAM_BOOL || n->in[1]->dtype == VRAM_BOOL))
    return vram__node_error(g, n, "sub of a bool tensor");
  if (VRAM__INT(n, keepdim, 0))
    size[ndim - 1] = 1;
  else
    ndim--;
  return vram__node_out(g, n, 0, ndim, size, vram__kind_rank(dt) < 2 ? VRAM_F32 : dt);
}

static int vram__shape_cdist(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim = 0;
  vram_dims of_a, of_b;
  if (a->ndim < 2 || b->ndim < 2)
    return vram__node_error(g, n, "fewer than two axes: no points");
  if (a->v[a->ndim - 1] != b->v[b->ndim - 1])
    return vram__node_error(g, n, "points of other sizes");
  if (!vram__dtype_is_float(n->in[0]->dtype) || n->in[0]->dtype != n->in[1]->dtype)
    return vram__node_error(g, n, "points of different dtypes, or not of floating point");
  of_a = *a;
  of_b = *b;
  of_a.ndim = (uint8_t)(a->ndim - 2);
  of_b.ndim = (uint8_t)(b->ndim - 2);
  vram__dims_broadcast(&ndim, size, &of_a);
  if (!vram__dims_broadcast(&ndim, size, &of_b))
    return vram__node_error(g, n, "batches do not broadcast");
  size[ndim++] = a->v[a->ndim - 2];
  size[ndim++] = b->v[b->ndim - 2];
  g->extra += 8192;
  return vram__node_out(g, n, 0, ndim, size, n->in[0]->dtype);
}

static int vram__shape_pdist(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t pairs;
  if (x->ndim != 2)
    return vram__node_error(g, n, "pdist of a tensor that is not [N,M]");
  if (VRAM__INT(n, p, 0) < 0)
    return vram__node_error(g, n, "p must be at least 0");
  pairs = x->v[0] > INT32_MAX ? -1 : x->v[0] * (x->v[0] - 1) / 2;
  return vram__node_out(g, n, 0, 1, &pairs, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* Inputs as an op on autocast's fp32 list gets them; what it calls runs without autocast. */
typedef struct vram__fp32_call {
  vram__tensor in[2];
  uint32_t own;
  vram_dtype amp;
} vram__fp32_call;

static void vram__fp32_begin(vram__step *s, const vram__tensor *x, vram__fp32_call *c) {
  c->in[0] = x[0];
  c->in[1] = x[1];
  c->own = vram__autocast_list(s, VRAM__AUTOCAST_fp32, c->in, 2);
  c->amp = s->amp;
  s->amp = VRAM_DTYPE_NONE;
}

static void vram__fp32_end(vram__step *s, vram__fp32_call *c) {
  s->amp = c->amp;
  vram__autocast_release(s, c->in, c->own);
}

/* linalg_vector_norm(x, 2, dim, keepdim=True).clone(); what bounds it by eps, a tensor of at least
   fp32, is in place. */
static vram__tensor vram__cosine_norm(vram__step *s, vram__tensor x, uint32_t a) {
  int64_t attr[5];
  vram__tensor norm, y;
  attr[0] = (int64_t)(VRAM__KEY_dim | 1u << 8);
  attr[1] = (int64_t)a;
  attr[2] = (int64_t)(VRAM__KEY_keepdim | 1u << 8);
  attr[3] = 1;
  attr[4] = 0;
  norm = vram__op_call_n(s, VRAM_OP_norm, &x, 1, attr, NULL);
  y = vram__torch_clone(s, norm, norm.d);
  vram__tensor_release(s, norm);
  return y;
}

static void vram__forward_cosine(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__fp32_call c;
  vram__tensor in[2], norm[2], unit[2], eps, t;
  vram_dtype dt;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a = 0, ndim = 0;
  vram__fp32_begin(s, x, &c);
  dt = vram__promote_pair(c.in[0], c.in[1]);
  vram__dims_broadcast(&ndim, size, c.in[0].d);
  vram__dims_broadcast(&ndim, size, c.in[1].d);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 1), ndim, &a);
  for (i = 0; i < 2; i++) {
    t = vram__kind_rank(c.in[i].dt) < 2 ? vram__torch_cast(s, c.in[i], dt)
                                        : vram__tensor_retain(s, c.in[i]);
    in[i] = t.d->ndim == ndim && t.d->numel == vram__dims_in(s, ndim, size, NULL)->numel
                ? vram__tensor_retain(s, t)
                : vram__torch_expand(s, t, ndim, size);
    vram__tensor_release(s, t);
  }
  for (i = 0; i < 2; i++)
    norm[i] = vram__cosine_norm(s, in[i], a);
  eps = s->device.rules->does & VRAM__COSINE_EPS
            ? vram__tensor_empty(s, s->scalar, vram__acc_dtype(dt))
            : vram__tensor_none();
  for (i = 2; i-- > 0;)
    unit[i] = vram__op_call_binary(s, VRAM_OP_div, in[i], norm[i]);
  t = vram__torch_pointwise(s, VRAM_OP_mul, unit, 2);
  y[0] = vram__op_call_key(s, VRAM_OP_sum, t, VRAM__KEY_dim, (int64_t)a);
  vram__tensor_release(s, t);
  vram__tensor_release(s, unit[0]);
  vram__tensor_release(s, unit[1]);
  vram__tensor_release(s, eps);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, norm[i]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, in[i]);
  vram__fp32_end(s, &c);
}

/* norm(x1 - x2 + eps, 2, -1, keepdim); at::norm's gradient takes its operand in the result's dtype
   (derivatives.yaml, norm.ScalarOpt_dim_dtype) */
static void vram__forward_pairwise(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const vram__tensor apart = vram__torch_pointwise(s, VRAM_OP_sub, x, 2);
  const vram__tensor moved = vram__torch_pointwise(s, VRAM_OP_add, &apart, 1);
  int64_t attr[5];
  uint32_t fn;
  attr[0] = (int64_t)(VRAM__KEY_dim | 1u << 8);
  attr[1] = -1;
  attr[2] = (int64_t)(VRAM__KEY_keepdim | 1u << 8);
  attr[3] = VRAM__INT(n, keepdim, 0) != 0;
  attr[4] = 0;
  y[0] = vram__op_call_n(s, VRAM_OP_norm, &moved, 1, attr, NULL);
  fn = y[0].st ? vram__slot_at(s, y[0].st)->fn : 0;
  if (fn)
    vram__grad_fn_at(s, fn)->aux |= VRAM__NORM_CAST;
  vram__tensor_release(s, moved);
  vram__tensor_release(s, apart);
}

/* ---- cdist ---- */

/* x expanded to all batches and taken as one batch, contiguous; without autograd it costs a copy.
 */
static vram__tensor vram__cdist_points(vram__step *s, vram__tensor x, uint32_t n, int64_t *size) {
  vram__tensor t, y;
  uint32_t k = n - 2;
  int64_t one[3];
  size[k] = x.d->v[x.d->ndim - 2];
  size[k + 1] = x.d->v[x.d->ndim - 1];
  one[0] = 1;
  for (k = 0; k + 2 < n; k++)
    one[0] *= size[k];
  one[1] = size[n - 2];
  one[2] = size[n - 1];
  t = vram__torch_expand(s, x, n, size);
  y = vram__torch_contiguous(s, t);
  vram__tensor_release(s, t);
  t = vram__torch_view_as(s, y, vram__dims_3d(s, one[0], one[1], one[2]), VRAM__K_view, 0);
  vram__tensor_release(s, y);
  return t;
}

/* (x ** 2).sum(-1, True), and ones like it; takes no gradient */
static vram__tensor vram__cdist_norm(vram__step *s, vram__tensor x) {
  const vram__tensor square = vram__pointwise_empty1(s, x);
  const vram__tensor y = vram__tensor_sum(s, square, 1u << (x.d->ndim - 1), 1, x.dt);
  vram__tensor_release(s, square);
  return y;
}

/* _euclidean_dist: the squares by one matrix product of points with two more coordinates */
static vram__tensor vram__cdist_product(vram__step *s, vram__tensor a, vram__tensor b) {
  vram__tensor in[2], norm[2], one[2], twice, wide[2], y;
  const int grad = s->grad;
  int64_t size[3];
  vram__grad_fn *f;
  uint32_t i, k, nd = a.d->ndim;
  in[0] = a;
  in[1] = b;
  f = vram__tape_record(s, VRAM_OP_cdist, in, 2, 1, 3);
  s->grad = 0;
  for (i = 0; i < 2; i++) {
    norm[i] = vram__cdist_norm(s, in[i]);
    one[i] = vram__tensor_empty(s, vram__dims_contiguous(s, norm[i].d), a.dt);
  }
  twice = vram__pointwise_empty1(s, a);
  for (i = 0; i < 2; i++) {
    for (k = 0; k < nd; k++)
      size[k] = in[i].d->v[k];
    size[nd - 1] += 2;
    wide[i] = vram__tensor_empty(s, vram__dims_in(s, nd, size, NULL), a.dt);
    vram__tensor_release(s, i ? norm[1] : one[0]);
    vram__tensor_release(s, i ? one[1] : norm[0]);
    if (!i)
      vram__tensor_release(s, twice);
  }
  y = nd == 2 ? vram__blas_mm(s, wide[0], vram__tensor_turned(s, wide[1]))
              : vram__blas_bmm(s, wide[0], vram__tensor_turned(s, wide[1]));
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, wide[i]);
  s->grad = (uint8_t)grad;
  if (f) {
    f->aux = 1;
    vram__save_tensor(s, f, a);
    vram__save_tensor(s, f, b);
    vram__save_tensor(s, f, y);
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static void vram__forward_cdist(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  const int64_t r1 = d->v[d->ndim - 2], r2 = d->v[d->ndim - 1];
  const int mode = VRAM__INT(n, p, 2 * VRAM__ONE) == 2 * VRAM__ONE && (r1 > 25 || r2 > 25);
  vram__fp32_call c;
  vram__tensor p[2], t;
  vram__grad_fn *f;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  uint64_t batch = 1;
  for (i = 0; i + 2 < d->ndim; i++) {
    size[i] = d->v[i];
    batch *= (uint64_t)size[i];
  }
  if (!mode && !s->amp && vram__dtype_size(x[0].dt) == 2)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n, "cdist in 16 bits: PyTorch has no kernel");
  vram__fp32_begin(s, x, &c);
  if (mode && x[0].d->numel && x[1].d->numel) {
    p[0] = vram__cdist_points(s, c.in[0], d->ndim, size);
    p[1] = vram__cdist_points(s, c.in[1], d->ndim, size);
    t = batch == 1 ? vram__cdist_product(s, c.in[0], c.in[1]) : vram__cdist_product(s, p[0], p[1]);
    y[0] = vram__torch_view_as(s, t, vram__dims_contiguous(s, d), VRAM__K_view, 0);
    vram__tensor_release(s, t);
  } else {
    const int grad = s->grad;
    f = vram__tape_record(s, n->op, c.in, 2, 1, 3);
    s->grad = 0;
    p[0] = vram__cdist_points(s, c.in[0], d->ndim, size);
    p[1] = vram__cdist_points(s, c.in[1], d->ndim, size);
    y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), c.in[0].dt);
    s->grad = (uint8_t)grad;
    if (f) {
      vram__save_tensor(s, f, c.in[0]);
      vram__save_tensor(s, f, c.in[1]);
      vram__save_tensor(s, f, y[0]);
    }
    vram__grad_fn_set_output(s, f, 0, &y[0]);
  }
  vram__tensor_release(s, p[1]);
  vram__tensor_release(s, p[0]);
  vram__fp32_end(s, &c);
}

/* _euclidean_dist_backward */
static void vram__cdist_product_backward(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *saved = VRAM__SAVED(f);
  const uint32_t nd = g.d->ndim;
  const vram__tensor ratio = vram__pointwise_empty2(s, g, saved[2]);
  vram__tensor of[2], made[6];
  uint32_t i, k = 0;
  vram__tensor_release(s, vram__tensor_empty(s, saved[2].d, VRAM_BOOL));
  for (i = 0; i < 2; i++) {
    const vram__tensor r = i ? vram__tensor_turned(s, ratio) : ratio;
    made[k++] = nd == 2 ? vram__blas_mm(s, r, saved[!i]) : vram__blas_bmm(s, r, saved[!i]);
    made[k++] = vram__tensor_sum(s, ratio, 1u << (i ? nd - 2 : nd - 1), !i, g.dt);
    made[k] = vram__tensor_empty(s, vram__dims_pointwise1(s, saved[i].d), g.dt);
    of[i] = vram__pointwise_empty2(s, made[k], made[k - 2]);
    k++;
  }
  while (k)
    vram__tensor_release(s, made[--k]);
  vram__tensor_release(s, ratio);
  for (i = 0; i < 2; i++)
    if (vram__input_wanted(f, i))
      to[i] = of[i];
    else
      vram__tensor_release(s, of[i]);
}

/* _cdist_backward: a tensor of every pair's difference, summed over the other points */
static vram__tensor vram__cdist_pairs(vram__step *s, vram__tensor a, vram__tensor b,
                                      vram__tensor g) {
  int64_t size[VRAM_MAX_AXES], batch = 1;
  const uint32_t n = g.d->ndim;
  vram__tensor p, q, y, pairs;
  uint32_t i;
  for (i = 0; i + 2 < n; i++) {
    size[i] = g.d->v[i];
    batch *= size[i];
  }
  p = vram__cdist_points(s, a, n, size);
  q = vram__cdist_points(s, b, n, size);
  size[n - 2] = a.d->v[a.d->ndim - 2];
  size[n - 1] = a.d->v[a.d->ndim - 1];
  y = vram__tensor_empty(s, vram__dims_in(s, n, size, NULL), g.dt);
  pairs = vram__tensor_empty(s, vram__dims_4d(s, batch, q.d->v[1], p.d->v[1], p.d->v[2]), g.dt);
  vram__reduce_scratch(s, pairs, 2, g.dt, vram__dtype_size(g.dt), 4);
  vram__tensor_release(s, pairs);
  vram__tensor_release(s, q);
  vram__tensor_release(s, p);
  return y;
}

static void vram__backward_cdist(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *saved = VRAM__SAVED(f);
  vram__tensor c, d;
  if (f->aux) {
    vram__cdist_product_backward(s, f, to);
    return;
  }
  if (vram__input_wanted(f, 0)) {
    c = vram__tensor_contiguous(s, g);
    to[0] = vram__cdist_pairs(s, saved[0], saved[1], c);
    vram__tensor_release(s, c);
  }
  if (vram__input_wanted(f, 1)) {
    d = vram__tensor_contiguous(s, vram__tensor_turned(s, saved[2]));
    c = vram__tensor_contiguous(s, vram__tensor_turned(s, g));
    to[1] = vram__cdist_pairs(s, saved[1], saved[0], c);
    vram__tensor_release(s, c);
    vram__tensor_release(s, d);
  }
}

/* Distance.cpp, _pdist_forward: of every pair of rows */
static void vram__forward_pdist(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  const vram__tensor in =
      s->amp ? vram__autocast_cast(s, x[0], VRAM_F32) : vram__tensor_retain(s, x[0]);
  const vram__tensor c = vram__torch_contiguous(s, in);
  vram__grad_fn *f = vram__tape_record(s, n->op, &c, 1, 1, 2);
  y[0] = vram__tensor_empty(s, n->out[0].d, c.dt);
  if (f) {
    vram__save_tensor(s, f, c);
    vram__save_tensor(s, f, y[0]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, c);
  vram__tensor_release(s, in);
}

/* DistanceKernel.cu, pdist_backward_kernel_impl: each row's part for each other row, then summed */
static void vram__backward_pdist(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const int64_t rows = x.d->v[0];
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  if (VRAM__INT(f->node, p, 2 * VRAM__ONE) && VRAM__SLOTS(f)[0].g.d->numel && x.d->numel)
    vram__tensor_release(s,
                         vram__tensor_empty(s, vram__dims_3d(s, rows - 1, rows, x.d->v[1]), x.dt));
}

#endif /* VRAM_NO_STEP */

VRAM__OP(cosine_similarity, "cosine_similarity: x1 x2 dim", 2, 2, cosine, SAME, fp32, cosine, none,
         each, NONE, 0, 0, "dim");
VRAM__OP(pairwise_distance, "", 2, 2, pairwise, SAME, none, pairwise, none, each, NONE, 0,
         VRAM__OP_NUMBERS, "keepdim");
VRAM__OP(cdist, "cdist: x1 x2 p", 2, 2, cdist, SAME, fp32, cdist, cdist, each, NONE, 0,
         VRAM__OP_FLOATS, "p");
VRAM__OP(pdist, "pdist: x p", 1, 1, pdist, SAME, fp32, pdist, pdist, each, NONE, 0, VRAM__OP_FLOATS,
         "p");
