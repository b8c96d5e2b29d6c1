/* >>ops/batch_norm    batch and instance normalisation */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* batch_norm: aux of its record */
enum { VRAM__BN_CUDNN = 1, VRAM__BN_TRAIN = 2, VRAM__BN_STATS = 4 };

/* Normalization.cu, batch_norm_choose_impl */
enum { VRAM__BN_CONTIG, VRAM__BN_CL, VRAM__BN_GENERAL };

static int vram__batch_norm_kernel(const vram_dims *d) {
  if (d->numel > INT32_MAX) /* canUse32BitIndexMath */
    return VRAM__BN_GENERAL;
  if (d->flags & VRAM__CONTIG)
    return VRAM__STRIDE(d)[1] == 1 ? VRAM__BN_CL : VRAM__BN_CONTIG;
  return d->ndim == 4 && (d->flags & VRAM__CL) ? VRAM__BN_CL : VRAM__BN_GENERAL;
}

/* batch_norm_use_channels_last_kernels */
static int vram__batch_norm_is_channels_last(const vram_dims *d) {
  return (d->flags & VRAM__CL) || ((d->flags & VRAM__CONTIG) && VRAM__STRIDE(d)[1] == 1);
}

/* Normalization.cuh, flexible_launch_configs: partial results of the channels-last kernels that
   are split over thread blocks, so many values of 4 bytes for each channel, and semaphores */
static void vram__batch_norm_staging(vram__step *s, const vram_dims *d, int64_t values) {
  int64_t c = d->v[1], rows = c ? (int64_t)d->numel / c : 0, bx, by, gy;
  vram__tensor stage, sem;
  if (!rows)
    return;
  bx = vram__min_i64(vram__power_of_two_below(c, 512), 32);
  by = vram__min_i64(vram__power_of_two_below(vram__div_up(rows, 16), 512), 512 / bx);
  if (bx * by != 512)
    bx = vram__min_i64(vram__power_of_two_below(c, 512), 512 / by);
  gy = vram__min_i64(vram__div_up(rows, by * 16), 128);
  if (gy < 8)
    return;
  stage = vram__tensor_raw(s, vram__product4_or_overflow(4, values, c, gy));
  sem = vram__tensor_raw(s, 4 * (uint64_t)vram__div_up(c, bx));
  vram__tensor_release(s, stage);
  vram__tensor_release(s, sem);
}

/* Does cuDNN take them? (use_cudnn in Normalization.cpp; in evaluation fewer samples) */
static int vram__batch_norm_is_cudnn(const vram__tensor *x, const vram__tensor *w,
                                     const vram__tensor *b) {
  return (x->dt == VRAM_F32 || x->dt == VRAM_F16) && w->dt == VRAM_F32 && b->dt == VRAM_F32 &&
         x->d->ndim >= 3 && x->d->v[0] <= 880801;
}

/* Normalization.cpp, _batch_norm_impl_index. w, b, running mean and variance: d NULL if none */
static vram__tensor vram__torch_batch_norm(vram__step *s, vram__tensor x, vram__tensor w,
                                           vram__tensor b, vram__tensor rm, vram__tensor rv,
                                           int train) {
  vram__tensor in[3], st[2], y;
  vram__grad_fn *f;
  const int64_t c = x.d->v[1];
  int cudnn, kernel;
  uint32_t i;
  cudnn = w.d && b.d && (rm.d ? rv.d != NULL : train) && vram__batch_norm_is_cudnn(&x, &w, &b) &&
          (train || x.d->v[0] <= 65535);
  in[0] = x, in[1] = w, in[2] = b;
  if (cudnn && !(x.d->flags & (vram__suggests_cl(x.d) ? VRAM__CL : VRAM__CONTIG)))
    in[0] = x = vram__torch_clone(s, x, vram__norm_format(s, x.d, vram__suggests_cl(x.d)));
  else
    x = vram__tensor_retain(s, x);
  f = vram__tape_record(s, VRAM__K_bn, in, b.d ? 3 : w.d ? 2 : 1, 1, 6);
  kernel = vram__batch_norm_kernel(x.d);
  st[0] = st[1] = vram__tensor_none();
  y = vram__tensor_empty(
      s, cudnn ? vram__norm_format(s, x.d, vram__suggests_cl(x.d)) : vram__dims_dense(s, x.d),
      x.dt);
  if (train || !cudnn)
    st[0] = vram__dims_vector(s, c, VRAM_F32), st[1] = vram__dims_vector(s, c, VRAM_F32);
  if (!cudnn && train && kernel == VRAM__BN_CL)
    vram__batch_norm_staging(s, x.d, 4);
  if (!cudnn && kernel == VRAM__BN_GENERAL) {
    if (train) { /* var_mean, into fp32: halves it reads as they are */
      vram__tensor up = vram__tensor_none();
      if (x.dt == VRAM_BF16)
        up = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_F32);
      vram__reduce_scratch(s, up.d ? up : x, ((1u << x.d->ndim) - 1) & ~2u, VRAM_F32, 16, 2);
      vram__tensor_release(s, up);
    }
    if (!w.d) { /* scalars for weight and bias */
      vram__tensor one = vram__tensor_empty(s, s->scalar, VRAM_F32),
                   zero = vram__tensor_empty(s, s->scalar, VRAM_F32);
      vram__tensor_release(s, one);
      vram__tensor_release(s, zero);
    }
  }
  if (f) {
    f->aux = (cudnn ? VRAM__BN_CUDNN : 0) | (train ? VRAM__BN_TRAIN : 0);
    vram__save_tensor(s, f, x);
    for (i = 0; i < 2; i++)
      vram__save_tensor(s, f, st[i]);
    if (w.d)
      vram__save_tensor(s, f, w);
    if (rm.d)
      vram__save_tensor(s, f, rm);
    if (rv.d)
      vram__save_tensor(s, f, rv);
  }
  vram__tensor_release(s, st[0]), vram__tensor_release(s, st[1]);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, x);
  return y;
}

/* x.reshape({N, C, -1}): a copy, or nothing */
static vram__tensor vram__batch_norm_copy(vram__step *s, vram__tensor x) {
  int64_t size[3], stride[3];
  size[0] = x.d->v[0], size[1] = x.d->v[1];
  size[2] = size[0] && size[1] ? (int64_t)x.d->numel / (size[0] * size[1]) : 0;
  if (vram__dims_view_strides(x.d, 3, size, stride))
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* cudnn_batch_norm_backward and Normalization.cu, batch_norm_backward_cuda */
static void vram__backward_any_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  const int64_t c = x.d->v[1];
  const int train = (f->aux & VRAM__BN_TRAIN) != 0, affine = f->nin > 1,
            want = vram__input_wanted(f, 0), gw = affine && vram__input_wanted(f, 1),
            gb = f->nin > 2 && vram__input_wanted(f, 2), reduce = train || gw || gb,
            xcl = vram__batch_norm_is_channels_last(x.d);
  const uint8_t wdt = affine ? VRAM__SAVED(f)[3].dt : (uint8_t)VRAM_F32;
  vram__tensor std, sum[2], cx, cg, t;
  if ((f->aux & VRAM__BN_CUDNN) && train) { /* always all three */
    const int cl = vram__suggests_cl(x.d);
    t = vram__norm_format_copy(s, g, cl);
    to[0] = vram__tensor_empty(s, vram__norm_format(s, x.d, cl), x.dt);
    to[1] = vram__dims_vector(s, c, wdt), to[2] = vram__dims_vector(s, c, wdt);
    vram__tensor_release(s, t);
    vram__gradients_drop_unwanted(s, f, to);
    return;
  }
  std = cx = cg = vram__tensor_none();
  if (reduce && want && !xcl && x.d->numel <= INT32_MAX) { /* one kernel for everything */
    cx = vram__batch_norm_copy(s, x);
    cg = vram__batch_norm_copy(s, g);
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
    if (gw)
      to[1] = vram__dims_vector(s, c, wdt);
    if (gb)
      to[2] = vram__dims_vector(s, c, wdt);
    vram__tensor_release(s, cg), vram__tensor_release(s, cx);
    return;
  }
  sum[0] = sum[1] = vram__tensor_none();
  if (f->aux & VRAM__BN_CUDNN) /* cuDNN saves nothing in eval */
    std = vram__dims_vector(s, c, VRAM_F32);
  if (reduce) {
    const int cl = xcl && vram__batch_norm_is_channels_last(g.d) && x.d->numel <= INT32_MAX;
    if (!cl)
      cx = vram__batch_norm_copy(s, x), cg = vram__batch_norm_copy(s, g);
    if (cl || want)
      sum[0] = vram__dims_vector(s, c, VRAM_F32), sum[1] = vram__dims_vector(s, c, VRAM_F32);
    if (affine && (cl || gw))
      to[1] = vram__dims_vector(s, c, wdt);
    if (f->nin > 2 && (cl || gb))
      to[2] = vram__dims_vector(s, c, wdt);
    if (cl)
      vram__batch_norm_staging(s, x.d, 2);
    vram__tensor_release(s, cg), vram__tensor_release(s, cx);
  }
  if (want && train) {
    const int kernel = vram__batch_norm_kernel(x.d);
    if ((kernel == VRAM__BN_GENERAL || vram__batch_norm_kernel(g.d) != kernel) && !affine) {
      t = vram__tensor_empty(s, s->scalar, VRAM_F32);
      to[0] = vram__tensor_empty(s, vram__norm_format(s, x.d, vram__suggests_cl(x.d)), x.dt);
      vram__tensor_release(s, t);
    } else
      to[0] = vram__tensor_empty(s, vram__norm_format(s, x.d, vram__suggests_cl(x.d)), x.dt);
  } else if (want)
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  vram__tensor_release(s, sum[1]), vram__tensor_release(s, sum[0]);
  vram__tensor_release(s, std);
  vram__gradients_drop_unwanted(s, f, to);
}

/* A contiguous input, a weight whose dims the statistics can have: nearly always. */
static int vram__batch_norm_is_usual(const vram_dims *x, const vram_dims *w) {
  return (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN && (w->flags & VRAM__PLAIN);
}

static void vram__forward_batch_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__tensor in[3], st[2], rm = vram__tensor_none(), rv = rm;
  vram__grad_fn *f;
  int train;
  in[0] = x[0];
  vram__node_weights(s, n, &in[1], &in[2]);
  if (n->param[2])
    rm = s->param[n->param[2]->index], rv = s->param[n->param[3]->index];
  train = (s->train || !rm.d) && VRAM__INT(n, training, 1);
  if (train && x[0].d->numel == (uint64_t)x[0].d->v[1])
    vram__norm_one_value(s, n);
  if (!train || !rm.d || !in[2].d || !vram__batch_norm_is_usual(x->d, in[1].d) ||
      !vram__batch_norm_is_cudnn(x, &in[1], &in[2])) {
    y[0] = vram__torch_batch_norm(s, in[0], in[1], in[2], rm, rv, train);
    return;
  }
  f = vram__tape_record(s, VRAM__K_bn, in, 3, 1, 6);
  y[0] = vram__tensor_empty(s, x->d, x->dt);
  st[0] = vram__tensor_empty(s, in[1].d, VRAM_F32),
  st[1] = vram__tensor_empty(s, in[1].d, VRAM_F32);
  if (f) {
    f->aux = VRAM__BN_CUDNN | VRAM__BN_TRAIN;
    vram__save_tensor(s, f, in[0]);
  }
  vram__save_and_release(s, f, &st[0]), vram__save_and_release(s, f, &st[1]);
  if (f) {
    vram__save_tensor(s, f, in[1]);
    if (s->call.frame) /* where it counts how many there are */
      vram__save_tensor(s, f, rm), vram__save_tensor(s, f, rv);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

VRAM__FN void vram__backward_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor *x = VRAM__SAVED(f), *w = x + 3;
  if (f->aux != (VRAM__BN_CUDNN | VRAM__BN_TRAIN) || !vram__batch_norm_is_usual(x->d, w->d) ||
      !(VRAM__SLOTS(f)[0].g.d->flags & VRAM__CONTIG)) {
    vram__backward_any_bn(s, f, to);
    return;
  }
  to[0] = vram__tensor_empty(s, x->d, x->dt);
  to[1] = vram__tensor_empty(s, w->d, w->dt), to[2] = vram__tensor_empty(s, w->d, w->dt);
  vram__gradients_drop_unwanted(s, f, to);
}

/* Normalization.cpp, repeat_if_defined: [C] -> [N*C] */
static vram__tensor vram__torch_tiled(vram__step *s, vram__tensor x, int64_t n) {
  vram__grad_fn *f;
  vram__tensor y;
  if (!x.d)
    return vram__tensor_none();
  f = vram__tape_record(s, VRAM_OP_repeat, &x, 1, 1, 0);
  y = vram__dims_vector(s, n * (int64_t)x.d->numel, x.dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* Normalization.cpp, instance_norm: batch_norm of [1,N*C,...] */
static void vram__forward_instance_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  vram__tensor w, b, rm = vram__tensor_none(), rv = rm, v, t;
  int64_t size[VRAM_MAX_AXES], nc[2];
  uint32_t i, one = 1;
  int train;
  vram__node_weights(s, n, &w, &b);
  w = vram__torch_tiled(s, w, x[0].d->v[0]);
  b = vram__torch_tiled(s, b, x[0].d->v[0]);
  if (n->param[2]) {
    rm = vram__torch_tiled(s, s->param[n->param[2]->index], x[0].d->v[0]);
    rv = vram__torch_tiled(s, s->param[n->param[3]->index], x[0].d->v[0]);
  }
  train = s->train || !rm.d;
  nc[0] = x[0].d->v[0], nc[1] = x[0].d->v[1];
  size[0] = 1, size[1] = nc[0] * nc[1];
  for (i = 2; i < x[0].d->ndim; i++)
    size[i] = x[0].d->v[i], one &= size[i] == 1;
  if (train && one)
    vram__norm_one_value(s, n);
  t = vram__torch_contiguous(s, x[0]);
  v = vram__torch_view_as(s, t, vram__dims_in(s, x[0].d->ndim, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, t);
  t = vram__torch_batch_norm(s, v, w, b, rm, rv, train);
  for (i = 0; train && rm.d && i < 2; i++) { /* means of the running statistics */
    vram__tensor r = i ? rv : rm, m;
    r.d = vram__dims_in(s, 2, nc, NULL);
    m = vram__tensor_sum(s, r, 1, 0, r.dt);
    vram__tensor_release(s, m);
  }
  y[0] = vram__torch_view_as(s, t, vram__dims_contiguous(s, x[0].d), VRAM__K_view, 0);
  vram__tensor_release(s, t);
  vram__tensor_release(s, v);
  vram__tensor_release(s, rv);
  vram__tensor_release(s, rm);
  vram__tensor_release(s, b);
  vram__tensor_release(s, w);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(batch_norm, 1, 3, norm, SAME, none, batch_norm, none, each, NORM, 0, VRAM__OP_OWNS,
         "affine track_running_stats training momentum eps frozen weights dtype");
VRAM__OP(instance_norm, 1, 1, norm, SAME, none, instance_norm, none, each, NORM, 0, VRAM__OP_OWNS,
         "affine track_running_stats momentum eps frozen weights dtype");
