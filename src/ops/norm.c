/* >>ops/norm    layer, RMS, group and local response normalisation */
#include "ops/ops.h"

/* The sizes of weight and bias: normalized_shape, or the channels. */
static int vram__norm_weight_size(vram_graph *g, vram_node *n, uint32_t *ndim, int64_t *size) {
  const int kind = vram__op_at(n->op)->kind;
  const vram_dims *x = n->in[0]->d;
  uint32_t i;
  if (kind == VRAM__NORM_LAYER || kind == VRAM__NORM_RMS) {
    const int64_t *shape = vram__node_list(n, VRAM__KEY_normalized_shape, ndim);
    if (*ndim > x->ndim)
      return vram__node_error(g, n, "normalized_shape has more axes than the input");
    for (i = 0; i < *ndim; i++)
      if ((size[i] = shape[i]) != x->v[x->ndim - *ndim + i])
        return vram__node_error(g, n, "normalized_shape is not the end of the input's shape");
    return 1;
  }
  if (x->ndim < (kind == VRAM__NORM_INSTANCE ? 3u : 2u))
    return vram__node_error(g, n, "a tensor of too few axes");
  *ndim = 1;
  size[0] = x->v[1];
  if (kind == VRAM__NORM_GROUP &&
      (VRAM__INT(n, num_groups, 0) < 1 || size[0] % VRAM__INT(n, num_groups, 1)))
    return vram__node_error(g, n, "channels that num_groups does not divide");
  return 1;
}

/* What torch.nn's modules have by default. */
static int vram__norm_has_weight(const vram_node *n) {
  const int kind = vram__op_at(n->op)->kind;
  if (n->nin > 1)
    return 0; /* it is an input */
  if (kind == VRAM__NORM_LAYER || kind == VRAM__NORM_RMS)
    return VRAM__INT(n, elementwise_affine, 1) != 0;
  return VRAM__INT(n, affine, kind != VRAM__NORM_INSTANCE) != 0;
}

static int vram__norm_has_bias(const vram_node *n) {
  const int kind = vram__op_at(n->op)->kind;
  return kind != VRAM__NORM_RMS && (kind != VRAM__NORM_LAYER || VRAM__INT(n, bias, 1));
}

static int vram__norm_has_statistics(const vram_node *n) {
  const int kind = vram__op_at(n->op)->kind;
  return (kind == VRAM__NORM_BATCH || kind == VRAM__NORM_INSTANCE) &&
         VRAM__INT(n, track_running_stats, kind == VRAM__NORM_BATCH);
}

VRAM__FN int vram__shape_norm(vram_graph *g, vram_node *n) {
  static const int64_t none = 0;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, j, ndim = 0;
  if (vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "a norm of a tensor that is not floating point");
  if (vram__op_at(n->op)->kind == VRAM__NORM_GROUP && !vram__axes_filled(g, n, 1))
    return 0;
  if (!vram__norm_weight_size(g, n, &ndim, size))
    return 0;
  for (i = 1; i < n->nin; i++) {
    const vram_dims *w = n->in[i]->d;
    for (j = 0; j < ndim && w->ndim == ndim && w->v[j] == size[j];)
      j++;
    if (w->ndim != ndim || j < ndim)
      return vram__node_error(g, n, "a weight of another shape");
  }
  if (vram__norm_has_weight(n)) {
    if (!vram__node_own(g, n, 0, "weight", ndim, size, VRAM_DTYPE_MODEL, VRAM__PARAM))
      return 0;
    if (vram__norm_has_bias(n) &&
        !vram__node_own(g, n, 1, "bias", ndim, size, VRAM_DTYPE_MODEL, VRAM__PARAM))
      return 0;
  }
  if (vram__norm_has_statistics(n) &&
      (!vram__node_own(g, n, 2, "running_mean", 1, size, VRAM_DTYPE_MODEL, VRAM__BUFFER) ||
       !vram__node_own(g, n, 3, "running_var", 1, size, VRAM_DTYPE_MODEL, VRAM__BUFFER) ||
       (VRAM__INT(n, counted, 1) &&
        !vram__node_own(g, n, 4, "num_batches_tracked", 0, &none, VRAM_I64, VRAM__BUFFER))))
    return 0;
  return vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

static int vram__shape_lrn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t count, i;
  const int64_t *window = vram__node_list(n, VRAM__KEY_size, &count);
  int64_t size[VRAM_MAX_AXES];
  if (x->ndim < 3 || !x->numel || vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "local_response_norm takes [N,C,...] of floating point");
  if (count != 1 || *window < 1 || *window > INT32_MAX)
    return vram__node_error(g, n, "size must be one number of at least 1");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i] + (i == 1 ? *window - 1 : 0);
  if (!vram__graph_dims(g, i, size)) /* the padded squares must fit as well */
    return 0;
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* ---- what norms share ---- */

/* x.contiguous() in channels-last or in the usual order, where that is a copy. */
VRAM__FN vram__tensor vram__norm_format_copy(vram__step *s, vram__tensor x, int cl) {
  if (x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG))
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), x.dt);
}

/* The dims of that. */
VRAM__FN const vram_dims *vram__norm_format(vram__step *s, const vram_dims *d, int cl) {
  return d->flags & (cl ? VRAM__CL : VRAM__CONTIG) ? d : vram__tensor_formatted(s, d, cl);
}

/* An empty tensor of n elements; norms ask for one of the same size several times in turn. */
VRAM__FN vram__tensor vram__tensor_vector(vram__step *s, int64_t n, vram_dtype dt) {
  if (!s->vec || s->vec->v[0] != n)
    s->vec = vram__dims_in(s, 1, &n, NULL);
  return vram__tensor_empty(s, s->vec, dt);
}

/* torch.nn.functional, _verify_batch_size and _verify_spatial_size */
VRAM__COLD VRAM__FN void vram__norm_refuse_one_value(vram__step *s, const vram_node *n) {
  vram__step_refuse(
      s, VRAM_ERR_UNSUPPORTED, n,
      "a norm over one value: PyTorch stops with an error (expected more than 1 value)");
}

/* Input, weight and bias (d NULL: none) of a norm on autocast's fp32 list; the last one is cast
   first. Owned. */
static void vram__norm_args(vram__step *s, const vram_node *n, const vram__tensor *x,
                            vram__tensor *in) {
  const int casts =
      s->amp && (n->op != VRAM_OP_rms_norm || (s->device.rules->does & VRAM__RMS_NORM_F32));
  uint32_t i;
  in[0] = x[0];
  vram__node_weights(s, n, &in[1], &in[2]);
  for (i = 3; i-- > 0;)
    if (in[i].d)
      in[i] = casts ? vram__autocast_cast(s, in[i], VRAM_F32) : vram__tensor_retain(s, in[i]);
}

static uint32_t vram__norm_count_args(const vram__tensor *in) {
  return in[2].d ? 3 : in[1].d ? 2 : 1;
}

static void vram__norm_release_args(vram__step *s, const vram__tensor *in) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
}

/* ---- layer_norm and rms_norm (native/layer_norm.cpp, cuda/layer_norm_kernel.cu) ---- */

/* layer_norm.cpp, rms_norm_composite: where there is no kernel, inputs in channels-last order, a
   weight of another dtype */
static vram__tensor vram__torch_rms_norm_composite(vram__step *s, vram__tensor x, vram__tensor w,
                                                   uint32_t naxes) {
  vram__tensor up = vram__torch_cast(s, x, vram__is_half(x.dt) ? VRAM_F32 : x.dt);
  vram__tensor squares, rsqrt, y;
  int64_t attr[VRAM_MAX_AXES + 4];
  uint32_t i, n = 0;
  attr[n++] = VRAM__KEY_dim | (int64_t)naxes << 8;
  for (i = 0; i < naxes; i++)
    attr[n++] = x.d->ndim - 1 - (int64_t)i;
  attr[n++] = VRAM__KEY_keepdim | 1 << 8;
  attr[n++] = 1;
  attr[n] = 0;
  squares = vram__op_call_unary(s, VRAM_OP_pow, up);
  y = vram__op_call_n(s, VRAM_OP_mean, &squares, 1, attr, NULL);
  vram__op_call_in_place(s, VRAM_OP_add, &y, vram__tensor_none());
  rsqrt = vram__op_call_unary(s, VRAM_OP_rsqrt, y);
  vram__tensor_release(s, y);
  vram__tensor_release(s, squares);
  y = vram__op_call_binary(s, VRAM_OP_mul, up, rsqrt);
  if (w.d)
    vram__tensor_replace(s, &y, vram__op_call_binary(s, VRAM_OP_mul, y, w));
  vram__tensor_release(s, up);
  vram__tensor_replace(s, &y, vram__torch_cast(s, y, x.dt));
  vram__tensor_release(s, rsqrt);
  return y;
}

/* layer_norm_cuda and _fused_rms_norm_cuda, which has no mean */
static void vram__forward_layer_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  const int rms = vram__op_at(n->op)->kind == VRAM__NORM_RMS;
  const uint32_t ndim = x[0].d->ndim, nstats = rms ? 1 : 2;
  vram__tensor in[3], copy, stats[2];
  vram__grad_fn *f;
  uint32_t i, naxes = 1;
  int64_t rows[VRAM_MAX_AXES];
  vram_dtype acc;
  vram__norm_args(s, n, x, in);
  vram__node_list(n, VRAM__KEY_normalized_shape, &naxes);
  if (rms && (!(s->device.rules->does & VRAM__RMS_NORM_FUSED) ||
              (in[1].d && in[1].dt != in[0].dt) || vram__suggests_cl(in[0].d))) {
    y[0] = vram__torch_rms_norm_composite(s, in[0], in[1], naxes);
    vram__norm_release_args(s, in);
    return;
  }
  if (!rms)
    vram__refuse_unlike(s, in, 3);
  f = vram__tape_record(s, n->op, in, vram__norm_count_args(in), 1, 5);
  copy = vram__norm_format_copy(s, in[0], 0);
  y[0] = vram__tensor_empty(s, vram__dims_contiguous(s, in[0].d), in[0].dt);
  for (i = 0; i < ndim; i++)
    rows[i] = i < ndim - naxes ? in[0].d->v[i] : 1;
  acc = vram__acc_dtype(in[0].dt);
  for (i = 0; i < nstats; i++)
    stats[i] = vram__tensor_empty(s, vram__dims_in(s, ndim, rows, NULL), acc);
  vram__tensor_release(s, copy);
  if (f) {
    if (!rms && in[2].d)
      vram__save_tensor(s, f, in[2]);
    f->aux = f->nsaved;
    vram__save_tensor(s, f, in[0]);
    if (in[1].d)
      vram__save_tensor(s, f, in[1]);
    for (i = 0; i < nstats; i++)
      vram__save_tensor(s, f, stats[i]);
  }
  for (i = 0; i < nstats; i++)
    vram__tensor_release(s, stats[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__norm_release_args(s, in);
}

/* LaunchGammaBetaBackwardCUDAKernel: where there are many more rows than columns, the gradients of
   weight and bias are sums of partial ones. d: their dims. */
static void vram__layer_norm_partial_sums(vram__step *s, int64_t rows, const vram_dims *d,
                                          vram__tensor **to) {
  const int64_t n = (int64_t)d->numel, warp = s->device.rules->warp;
  int64_t parts;
  vram__tensor partial[2], sum;
  uint32_t i;
  if (rows <= s->device.rules->layer_norm.rows || !n || n / warp >= (int64_t)s->device.sm / 2)
    return;
  parts = vram__min_i64(vram__div_up(rows, warp),
                        s->device.rules->layer_norm.grid / vram__div_up(n, warp));
  for (i = 0; i < 2; i++)
    partial[i] = to[i]->d ? vram__tensor_empty(s, vram__dims_2d(s, parts, n), to[i]->dt)
                          : vram__tensor_none();
  for (i = 0; i < 2; i++)
    if (partial[i].d) {
      const vram_dtype dt = partial[i].dt;
      sum = vram__tensor_empty(s, d, dt);
      vram__reduce_scratch(s, partial[i], 1, dt,
                           vram__dtype_size(dt) < 4 ? 4 : vram__dtype_size(dt), 4);
      vram__tensor_replace(s, to[i], sum);
    }
  vram__tensor_release(s, partial[1]);
  vram__tensor_release(s, partial[0]);
}

static void vram__backward_layer_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[f->aux];
  const vram__tensor x_copy = vram__norm_format_copy(s, x, 0);
  vram__tensor g_copy, none = vram__tensor_none(), *affine[2];
  const vram_dims *d = NULL; /* of weight and bias */
  uint32_t i;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  for (i = 1; i < f->nin; i++)
    if (vram__input_wanted(f, i)) {
      d = vram__dims_contiguous(s, vram__input_dims(s, f, i, NULL));
      to[i] = vram__tensor_empty(s, d, x.dt);
    }
  g_copy = vram__norm_format_copy(s, g, 0);
  affine[0] = f->nin > 1 ? &to[1] : &none;
  affine[1] = f->nin > 2 ? &to[2] : &none;
  if (d)
    vram__layer_norm_partial_sums(s, (int64_t)(x.d->numel / (d->numel ? d->numel : 1)), d, affine);
  vram__tensor_release(s, g_copy);
  vram__tensor_release(s, x_copy);
  vram__gradients_drop_unwanted(s, f, to);
}

/* ---- group_norm (native/group_norm.cpp, cuda/group_norm_kernel.cu) ---- */

typedef struct vram__group_norm {
  int64_t batch, channels, area, groups; /* PyTorch's N, C, HxW, G */
  int cl;  /* the kernels for channels-last order run, also if all axes behind the channels are 1 */
  int one; /* those for one value a channel (GroupNorm1dForward) */
} vram__group_norm;

/* x: the input as the kernel gets it. */
static vram__group_norm vram__group_norm_of(const vram_dims *x, int64_t groups) {
  vram__group_norm k;
  uint32_t i;
  k.batch = x->v[0];
  k.channels = x->v[1];
  k.groups = groups;
  k.area = 1;
  for (i = 2; i < x->ndim; i++)
    k.area *= x->v[i];
  k.cl = (x->flags & VRAM__CL) != 0;
  k.one = k.area == 1 && !k.cl && x->ndim < 4;
  return k;
}

/* GroupNormKernelImplInternal: statistics in fp32 for half precision; each channel's scale and
   shift. */
static void vram__group_norm_scratch(vram__step *s, const vram__group_norm *k,
                                     const vram__tensor *in) {
  const int scaled = !k->one && (in[1].d || in[2].d || k->cl);
  vram__tensor stats[2], scale[2];
  uint32_t i;
  for (i = 0; i < 2; i++)
    stats[i] = vram__is_half(in[0].dt)
                   ? vram__tensor_empty(s, vram__dims_2d(s, k->batch, k->groups), VRAM_F32)
                   : vram__tensor_none();
  for (i = 0; i < 2; i++)
    scale[i] = scaled ? vram__tensor_empty(s, vram__dims_2d(s, k->batch, k->channels),
                                           vram__acc_dtype(in[0].dt))
                      : vram__tensor_none();
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, scale[i]);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, stats[i]);
}

/* native_group_norm. aux: the groups, and whether there is a weight */
static void vram__forward_group_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  const int64_t groups = VRAM__INT(n, num_groups, 1);
  vram__tensor in[3], stats[2], copy;
  vram__group_norm k;
  vram__grad_fn *f;
  uint32_t i;
  int cl;
  vram__norm_args(s, n, x, in);
  cl = vram__suggests_cl(in[0].d);
  k = vram__group_norm_of(in[0].d, groups);
  vram__refuse_unlike(s, in, 3);
  f = vram__tape_record(s, n->op, in, vram__norm_count_args(in), 1, 4);
  if (k.batch * k.channels / groups * k.area == 1)
    vram__norm_refuse_one_value(s, n);
  y[0] = vram__tensor_empty(s, vram__norm_format(s, in[0].d, cl), in[0].dt);
  for (i = 0; i < 2; i++)
    stats[i] = vram__tensor_empty(s, vram__dims_2d(s, k.batch, groups), in[0].dt);
  copy = vram__norm_format_copy(s, in[0], cl);
  k = vram__group_norm_of(copy.d ? copy.d : in[0].d, groups);
  vram__group_norm_scratch(s, &k, in);
  if (f) {
    f->aux = (uint64_t)groups << 1 | (in[1].d != NULL);
    vram__save_tensor(s, f, in[0]);
    if (in[1].d)
      vram__save_tensor(s, f, in[1]);
    for (i = 0; i < 2; i++)
      vram__save_tensor(s, f, stats[i]);
  }
  vram__tensor_release(s, copy);
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, stats[i]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__norm_release_args(s, in);
}

/* GroupNormBackwardKernelImplInternal: c2 and c3 of each group, and c1 of each channel, for the
   gradient of the input. */
static void vram__group_norm_backward_scratch(vram__step *s, const vram__group_norm *k, int affine,
                                              vram_dtype acc) {
  vram__tensor group[2], channel = vram__tensor_none();
  uint32_t i;
  for (i = 0; i < 2; i++)
    group[i] = vram__tensor_empty(s, vram__dims_2d(s, k->batch, k->groups), acc);
  if (!k->one && affine && !k->cl)
    channel = vram__tensor_empty(s, vram__dims_2d(s, k->batch, k->channels), acc);
  vram__tensor_release(s, group[1]);
  vram__tensor_release(s, group[0]);
  vram__tensor_release(s, channel);
}

/* native_group_norm_backward */
static void vram__backward_group_norm(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor x = VRAM__SAVED(f)[0];
  const vram_dtype acc = vram__acc_dtype(x.dt);
  const int cl = vram__suggests_cl(x.d);
  const vram__tensor g_copy = vram__norm_format_copy(s, VRAM__SLOTS(f)[0].g, cl),
                     x_copy = vram__norm_format_copy(s, x, cl);
  const vram_dims *d = vram__norm_format(s, x.d, cl);
  const vram__group_norm k = vram__group_norm_of(x_copy.d ? x_copy.d : x.d, (int64_t)(f->aux >> 1));
  vram__tensor sums[2]; /* ds and db: of each channel */
  uint32_t i;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, d, x.dt);
  for (i = 1; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      to[i] = vram__tensor_vector(s, k.channels, x.dt);
  for (i = 0; i < 2; i++)
    sums[i] = k.one ? vram__tensor_none()
                    : vram__tensor_empty(s, vram__dims_2d(s, k.batch, k.channels), acc);
  if (vram__input_wanted(f, 0))
    vram__group_norm_backward_scratch(s, &k, (int)(f->aux & 1), acc);
  vram__tensor_release(s, sums[1]);
  vram__tensor_release(s, sums[0]);
  vram__tensor_release(s, x_copy);
  vram__tensor_release(s, g_copy);
}

/* ---- local_response_norm (torch.nn.functional) ---- */

/* The mean of x^2 over a window of channels: avg_pool2d of [N,1,C,L], avg_pool3d of [N,1,C,H,rest],
   with zeros at both ends. */
static vram__tensor vram__lrn_mean_squares(vram__step *s, vram__tensor x, int64_t window) {
  const vram_dims *d = x.d, *out;
  const uint32_t flat = d->ndim == 3, k = flat ? 2 : 3;
  int64_t pad[6] = {0, 0, 0, 0, 0, 0}, size[5], attr[8];
  uint32_t i, n = 0;
  vram__tensor y = vram__op_call_binary(s, VRAM_OP_mul, x, x);
  size[0] = d->v[0];
  size[1] = 1;
  size[2] = d->v[1];
  size[3] = d->v[2];
  size[4] = 1;
  for (i = 3; i < d->ndim; i++)
    size[4] *= d->v[i];
  vram__tensor_replace(s, &y,
                       flat ? vram__torch_unsqueeze(s, y, 1) : vram__torch_reshape(s, y, 5, size));
  out = vram__dims_contiguous(s, y.d);
  pad[2 * k - 2] = window / 2;
  pad[2 * k - 1] = (window - 1) / 2;
  vram__tensor_replace(s, &y, vram__torch_pad(s, y, pad, k, VRAM__PAD_CONSTANT));
  attr[n++] = VRAM__KEY_kernel_size | (int64_t)k << 8;
  for (i = 0; i < k; i++)
    attr[n++] = i ? 1 : window;
  attr[n++] = VRAM__KEY_stride | 1 << 8;
  attr[n++] = 1;
  attr[n] = 0;
  vram__tensor_replace(
      s, &y, vram__op_call_n(s, flat ? VRAM_OP_avg_pool2d : VRAM_OP_avg_pool3d, &y, 1, attr, out));
  vram__tensor_replace(s, &y, vram__torch_squeeze1(s, y, 1));
  if (!flat)
    vram__tensor_replace(s, &y,
                         vram__torch_view_as(s, y, vram__dims_contiguous(s, d), VRAM__K_view, 0));
  return y;
}

/* x / (alpha * mean + k)^beta */
static void vram__forward_lrn(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int64_t window = *vram__node_list(n, VRAM__KEY_size, NULL);
  const vram__tensor mean = vram__lrn_mean_squares(s, x[0], window);
  vram__tensor divisor = vram__op_call_unary(s, VRAM_OP_mul, mean);
  vram__tensor_replace(s, &divisor, vram__op_call_unary(s, VRAM_OP_add, divisor));
  vram__tensor_replace(s, &divisor, vram__op_call_unary(s, VRAM_OP_pow, divisor));
  vram__tensor_release(s, mean);
  y[0] = vram__op_call_binary(s, VRAM_OP_div, x[0], divisor);
  vram__tensor_release(s, divisor);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(layer_norm, "", 1, 3, norm, SAME, fp32, layer_norm, layer_norm, each, NORM,
         VRAM__NORM_LAYER, VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "normalized_shape! elementwise_affine bias eps frozen weights dtype parallel");
VRAM__OP(rms_norm, "", 1, 2, norm, SAME, fp32, layer_norm, layer_norm, each, NORM, VRAM__NORM_RMS,
         VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "normalized_shape! elementwise_affine eps frozen weights dtype parallel");
VRAM__OP(group_norm, "", 1, 3, norm, SAME, fp32, group_norm, group_norm, each, NORM,
         VRAM__NORM_GROUP, VRAM__OP_OWNS | VRAM__OP_FLOATS,
         "num_groups! affine eps frozen weights dtype");
VRAM__OP(local_response_norm, "", 1, 1, lrn, SAME, none, lrn, none, each, ANY, 0, 0,
         "size! alpha beta k");
