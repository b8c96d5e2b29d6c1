/* >>ops/norm    layer, RMS, group and local response normalisation */
#include "ops/ops.h"

VRAM__FN int vram__shape_norm(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t c, size[VRAM_MAX_AXES];
  uint32_t i, k = 1, own = 1, bias = 1;
  int64_t zero = 0;
  if (vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "a norm of a tensor that is not floating point");
  if (n->op == VRAM_OP_layer_norm || n->op == VRAM_OP_rms_norm) {
    const int64_t *v = vram__node_list(n, VRAM__KEY_normalized_shape, &k);
    if (k > x->ndim)
      return vram__node_error(g, n, "normalized_shape has more axes than the input");
    for (i = 0; i < k; i++)
      if ((size[i] = v[i]) != x->v[x->ndim - k + i])
        return vram__node_error(g, n, "normalized_shape is not the end of the input's shape");
    own = (uint32_t)VRAM__INT(n, elementwise_affine, 1);
    bias = n->op == VRAM_OP_layer_norm && VRAM__INT(n, bias, 1);
  } else {
    if (x->ndim < (n->op == VRAM_OP_instance_norm ? 3u : 2u))
      return vram__node_error(g, n, "a tensor of too few axes");
    size[0] = c = x->v[1];
    own = (uint32_t)VRAM__INT(n, affine, n->op != VRAM_OP_instance_norm);
    if (n->op == VRAM_OP_group_norm &&
        (VRAM__INT(n, num_groups, 0) < 1 || c % VRAM__INT(n, num_groups, 1)))
      return vram__node_error(g, n, "channels that num_groups does not divide");
  }
  if (n->nin > 1)
    own = 0;
  for (i = 1; i < n->nin; i++) {
    const vram_dims *w = n->in[i]->d;
    uint32_t j = 0;
    while (j < k && w->ndim == k && w->v[j] == size[j])
      j++;
    if (w->ndim != k || j < k)
      return vram__node_error(g, n, "a weight of another shape");
  }
  if (own && !vram__node_own(g, n, 0, "weight", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (own && bias && !vram__node_own(g, n, 1, "bias", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if ((n->op == VRAM_OP_batch_norm && VRAM__INT(n, track_running_stats, 1)) ||
      (n->op == VRAM_OP_instance_norm && VRAM__INT(n, track_running_stats, 0))) {
    if (!vram__node_own(g, n, 2, "running_mean", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__node_own(g, n, 3, "running_var", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__node_own(g, n, 4, "num_batches_tracked", 0, &zero, VRAM_I64, VRAM__BUFFER))
      return 0;
  }
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_lrn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c;
  const int64_t *v = vram__node_list(n, VRAM__KEY_size, &c);
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (x->ndim < 3 || !x->numel || vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "local_response_norm takes [N,C,...] of floating point");
  if (c != 1 || *v < 1 || *v > INT32_MAX)
    return vram__node_error(g, n, "size must be one number of at least 1");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i] + (i == 1 ? *v - 1 : 0);
  if (!vram__graph_dims(g, i, size)) /* the padded squares must fit as well */
    return 0;
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* ---- normalisation ---- */

/* x in channels-last order or contiguous; a copy, or nothing */
VRAM__FN vram__tensor vram__norm_format_copy(vram__step *s, vram__tensor x, int cl) {
  if (x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG))
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), x.dt);
}

/* x's layout as these kernels keep it: channels-last or contiguous */
VRAM__FN const vram_dims *vram__norm_format(vram__step *s, const vram_dims *d, int cl) {
  return d->flags & (cl ? VRAM__CL : VRAM__CONTIG) ? d : vram__tensor_formatted(s, d, cl);
}

VRAM__FN vram__tensor vram__dims_vector(vram__step *s, int64_t n, uint8_t dt) {
  if (!s->vec || s->vec->v[0] != n)
    s->vec = vram__dims_in(s, 1, &n, NULL);
  return vram__tensor_empty(s, s->vec, dt);
}

/* Inputs of a norm on autocast's fp32 list, the last one cast first; owned. */
static void vram__norm_args(vram__step *s, const vram_node *n, vram__tensor *x, int fp32,
                            vram__tensor *a) {
  uint32_t i;
  a[0] = x[0];
  vram__node_weights(s, n, &a[1], &a[2]);
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp && fp32 ? vram__autocast_cast(s, a[i], VRAM_F32) : vram__tensor_retain(s, a[i]);
}

static void vram__tensors_release3(vram__step *s, vram__tensor *a) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, a[i]);
}

/* rms_norm as its composite form: channels-last inputs, a weight of another dtype */
static vram__tensor vram__rms_composite(vram__step *s, vram__tensor x, vram__tensor w,
                                        uint32_t naxes) {
  int64_t attr[16];
  uint32_t i, n = 0;
  uint8_t dt = vram__is_half(x.dt) ? (uint8_t)VRAM_F32 : x.dt;
  vram__tensor up = vram__torch_cast(s, x, dt), pow, t, u;
  attr[n++] = VRAM__KEY_dim | (int64_t)naxes << 8;
  for (i = 0; i < naxes; i++)
    attr[n++] = x.d->ndim - 1 - (int64_t)i;
  attr[n++] = VRAM__KEY_keepdim | 1 << 8;
  attr[n++] = 1;
  attr[n] = 0;
  pow = vram__op_call(s, VRAM_OP_pow, up, vram__tensor_none(), NULL);
  u = vram__op_call(s, VRAM_OP_mean, pow, vram__tensor_none(), attr);
  vram__op_call_in_place(s, VRAM_OP_add, &u, vram__tensor_none());
  t = vram__op_call(s, VRAM_OP_rsqrt, u, vram__tensor_none(), NULL);
  vram__tensor_release(s, u);
  vram__tensor_release(s, pow);
  u = vram__op_call(s, VRAM_OP_mul, up, t, NULL);
  if (w.d) {
    vram__tensor v = vram__op_call(s, VRAM_OP_mul, u, w, NULL);
    vram__tensor_release(s, u);
    u = v;
  }
  vram__tensor_release(s, up);
  up = vram__torch_cast(s, u, x.dt);
  vram__tensor_release(s, u);
  vram__tensor_release(s, t);
  return up;
}

/* layer_norm.cu, layer_norm_cuda and _fused_rms_norm_cuda */
static void vram__forward_layer_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__tensor a[3], c, st[2];
  vram__grad_fn *f;
  uint32_t i, k, na = 1, stats = n->op == VRAM_OP_layer_norm ? 2 : 1;
  int64_t rows[VRAM_MAX_AXES];
  uint8_t acc;
  vram__norm_args(s, n, x, 1, a);
  vram__node_list(n, VRAM__KEY_normalized_shape, &na);
  if (stats == 1 && ((a[1].d && a[1].dt != a[0].dt) || vram__suggests_cl(a[0].d))) {
    y[0] = vram__rms_composite(s, a[0], a[1], na);
    vram__tensors_release3(s, a);
    return;
  }
  k = a[2].d ? 3 : a[1].d ? 2 : 1;
  f = vram__tape_record(s, n->op, a, k, 1, 4);
  c = vram__norm_format_copy(s, a[0], 0);
  y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, a[0].d), a[0].dt);
  for (i = 0; i < a[0].d->ndim; i++)
    rows[i] = i < a[0].d->ndim - na ? a[0].d->v[i] : 1;
  acc = a[0].dt == VRAM_F64 ? (uint8_t)VRAM_F64 : (uint8_t)VRAM_F32;
  for (i = 0; i < stats; i++)
    st[i] = vram__tensor_empty(s, vram__dims_in(s, a[0].d->ndim, rows, NULL), acc);
  vram__tensor_release(s, c);
  if (f) {
    vram__save_tensor(s, f, a[0]);
    for (i = 0; i < stats; i++)
      vram__save_tensor(s, f, st[i]);
    if (a[1].d)
      vram__save_tensor(s, f, a[1]);
  }
  for (i = 0; i < stats; i++)
    vram__tensor_release(s, st[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensors_release3(s, a);
}

/* layer_norm_kernel.cu: the sums for weight and bias of very many rows go through partial ones */
static void vram__norm_partial_sums(vram__step *s, int64_t rows, const vram_dims *wd, uint8_t dt,
                                    vram__tensor *gw, vram__tensor *gb) {
  int64_t size[2], n = (int64_t)wd->numel, parts;
  vram__tensor p[2], *to[2], t;
  uint32_t i;
  if ((!gw->d && !gb->d) || rows <= 65536 || !n || n / 32 >= (int64_t)s->device.sm / 2)
    return;
  parts = vram__min_i64(vram__div_up(rows, 32), 32768 / vram__div_up(n, 32));
  size[0] = parts, size[1] = n;
  to[0] = gw, to[1] = gb;
  for (i = 0; i < 2; i++)
    p[i] =
        to[i]->d ? vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), dt) : vram__tensor_none();
  for (i = 0; i < 2; i++)
    if (p[i].d) {
      t = vram__tensor_empty(s, wd, dt);
      vram__reduce_scratch(s, p[i], 1, dt, vram__dtype_size(dt) < 4 ? 4 : vram__dtype_size(dt), 4);
      vram__tensor_release(s, *to[i]);
      *to[i] = t;
    }
  vram__tensor_release(s, p[1]);
  vram__tensor_release(s, p[0]);
}

static void vram__backward_layer_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], none = vram__tensor_none(), cg, cx;
  const vram_dims *wd = NULL;
  cx = vram__norm_format_copy(s, x, 0);
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  if (f->nin > 1 && vram__input_wanted(f, 1))
    to[1] =
        vram__tensor_empty(s, wd = vram__dims_contiguous(s, vram__input_dims(s, f, 1, NULL)), x.dt);
  if (f->nin > 2 && vram__input_wanted(f, 2))
    to[2] =
        vram__tensor_empty(s, wd = vram__dims_contiguous(s, vram__input_dims(s, f, 2, NULL)), x.dt);
  cg = vram__norm_format_copy(s, g, 0);
  if (wd)
    vram__norm_partial_sums(s, (int64_t)(x.d->numel / (wd->numel ? wd->numel : 1)), wd, x.dt,
                            &to[1], f->nin > 2 ? &to[2] : &none);
  vram__tensor_release(s, cg);
  vram__tensor_release(s, cx);
  vram__gradients_drop_unwanted(s, f, to);
}

/* torch.nn.functional, _verify_batch_size and _verify_spatial_size */
VRAM__COLD VRAM__FN void vram__norm_one_value(vram__step *s, const vram_node *n) {
  vram__step_refuse(
      s, VRAM_ERR_UNSUPPORTED, n,
      "a norm over one value: PyTorch stops with an error (expected more than 1 value)");
}

/* group_norm.cpp, native_group_norm. aux: groups */
static void vram__forward_group_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__tensor a[3], st[2], half[2], sc[2], c;
  vram__grad_fn *f;
  int64_t groups = VRAM__INT(n, num_groups, 1), size[2], nc[2], hw = 1;
  uint32_t i;
  int cl, one;
  vram__norm_args(s, n, x, 1, a);
  f = vram__tape_record(s, n->op, a, a[2].d ? 3 : a[1].d ? 2 : 1, 1, 4);
  cl = vram__suggests_cl(a[0].d);
  for (i = 2; i < a[0].d->ndim; i++)
    hw *= a[0].d->v[i];
  size[0] = nc[0] = a[0].d->v[0], size[1] = groups, nc[1] = a[0].d->v[1];
  if (nc[0] * nc[1] / groups * hw == 1)
    vram__norm_one_value(s, n);
  y[0] = vram__tensor_empty(s, vram__norm_format(s, a[0].d, cl), a[0].dt);
  for (i = 0; i < 2; i++)
    st[i] = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), a[0].dt);
  c = vram__norm_format_copy(s, a[0], cl);
  cl = ((c.d ? c : a[0]).d->flags & VRAM__CL) != 0; /* also if all axes behind C are 1 */
  one = hw == 1 && !cl && a[0].d->ndim < 4;
  for (i = 0; i < 2; i++)
    half[i] = vram__is_half(a[0].dt)
                  ? vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), VRAM_F32)
                  : vram__tensor_none();
  for (i = 0; i < 2; i++)
    sc[i] = !one && (a[1].d || a[2].d || cl)
                ? vram__tensor_empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32)
                : vram__tensor_none();
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, sc[i]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, half[i]);
  if (f) {
    f->aux = (uint64_t)groups << 1 | (a[1].d != NULL);
    vram__save_tensor(s, f, a[0]);
    for (i = 0; i < 2; i++)
      vram__save_tensor(s, f, st[i]);
    if (a[1].d)
      vram__save_tensor(s, f, a[1]);
  }
  vram__tensor_release(s, c);
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, st[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensors_release3(s, a);
}

static void vram__backward_group_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c, cx, ds[2], st[2],
               w = vram__tensor_none();
  const vram_dims *dx;
  int64_t nc[2], ng[2], hw = 1;
  uint32_t i;
  int cl = vram__suggests_cl(x.d), one, affine = (int)(f->aux & 1);
  c = vram__norm_format_copy(s, g, cl);
  cx = vram__norm_format_copy(s, x, cl);
  dx = vram__norm_format(s, x.d, cl);
  cl = ((cx.d ? cx : x).d->flags & VRAM__CL) != 0;
  for (i = 2; i < x.d->ndim; i++)
    hw *= x.d->v[i];
  one = hw == 1 && !cl && x.d->ndim < 4;
  nc[0] = ng[0] = x.d->v[0], nc[1] = x.d->v[1], ng[1] = (int64_t)(f->aux >> 1);
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, dx, x.dt);
  for (i = 1; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      to[i] = vram__dims_vector(s, nc[1], x.dt);
  if (!one)
    for (i = 0; i < 2; i++)
      ds[i] = vram__tensor_empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
  if (vram__input_wanted(f, 0)) {
    for (i = 0; i < 2; i++)
      st[i] = vram__tensor_empty(s, vram__dims_in(s, 2, ng, NULL), VRAM_F32);
    if (!one && affine && !cl)
      w = vram__tensor_empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
    vram__tensor_release(s, st[1]), vram__tensor_release(s, st[0]);
    vram__tensor_release(s, w);
  }
  if (!one)
    vram__tensor_release(s, ds[1]), vram__tensor_release(s, ds[0]);
  vram__tensor_release(s, cx);
  vram__tensor_release(s, c);
}

/* torch.nn.functional.local_response_norm: x / (alpha * mean of x^2 over channels + k)^beta */
static void vram__forward_lrn(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int64_t size = *vram__node_list(n, VRAM__KEY_size, NULL);
  const vram_dims *d = x[0].d;
  const uint32_t flat = d->ndim == 3, k = flat ? 2 : 3;
  int64_t pad[6] = {0, 0, 0, 0, 0, 0}, v[5], attr[8];
  uint32_t i, m = 0;
  vram__tensor t, u;
  t = vram__op_call(s, VRAM_OP_mul, x[0], x[0], NULL);
  v[0] = d->v[0], v[1] = 1, v[2] = d->v[1], v[3] = d->v[2], v[4] = 1;
  for (i = 3; i < d->ndim; i++)
    v[4] *= d->v[i]; /* [N,1,C,H,the rest] */
  u = flat ? vram__torch_unsqueeze(s, t, 1) : vram__torch_reshape(s, t, 5, v);
  vram__tensor_release(s, t);
  pad[2 * k - 2] = size / 2, pad[2 * k - 1] = (size - 1) / 2;
  t = vram__torch_pad(s, u, pad, k, VRAM__PAD_CONSTANT);
  attr[m++] = VRAM__KEY_kernel_size | (int64_t)k << 8;
  for (i = 0; i < k; i++)
    attr[m++] = i ? 1 : size;
  attr[m++] = VRAM__KEY_stride | 1 << 8;
  attr[m++] = 1;
  attr[m] = 0;
  {
    const vram_dims *out = vram__dims_contiguous(s, u.d);
    vram__tensor_release(s, u);
    u = vram__op_call_n(s, flat ? VRAM_OP_avg_pool2d : VRAM_OP_avg_pool3d, 0, &t, 1, attr, out);
  }
  vram__tensor_release(s, t);
  t = vram__torch_squeeze1(s, u, 1);
  vram__tensor_release(s, u);
  if (!flat) {
    u = vram__torch_view_as(s, t, vram__dims_contiguous(s, d), VRAM__K_view, 0);
    vram__tensor_release(s, t);
    t = u;
  }
  u = vram__op_call(s, VRAM_OP_mul, t, vram__tensor_none(), NULL);
  y[0] = vram__op_call(s, VRAM_OP_add, u, vram__tensor_none(), NULL);
  vram__tensor_release(s, u);
  u = vram__op_call(s, VRAM_OP_pow, y[0], vram__tensor_none(), NULL);
  vram__tensor_release(s, y[0]);
  vram__tensor_release(s, t);
  y[0] = vram__op_call(s, VRAM_OP_div, x[0], u, NULL);
  vram__tensor_release(s, u);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(layer_norm, 1, 3, norm, SAME, fp32, layer_norm, layer_norm, each, NORM, 0, VRAM__OP_OWNS,
         "normalized_shape! elementwise_affine bias eps frozen weights dtype");
VRAM__OP(rms_norm, 1, 2, norm, SAME, fp32, layer_norm, layer_norm, each, NORM, 0, VRAM__OP_OWNS,
         "normalized_shape! elementwise_affine eps frozen weights dtype");
VRAM__OP(group_norm, 1, 3, norm, SAME, fp32, group_norm, group_norm, each, NORM, 0, VRAM__OP_OWNS,
         "num_groups! affine eps frozen weights dtype");
VRAM__OP(local_response_norm, 1, 1, lrn, SAME, none, lrn, none, each, ANY, 0, 0,
         "size! alpha beta k");
