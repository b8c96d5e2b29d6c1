/* >>ops/batch_norm    batch and instance normalisation */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

#define VRAM__BN_AXES 5 /* of cuDNN's batch norm */

/* aux of a batch_norm's record */
/* and where the weight is saved, or what comes in its place */
enum { VRAM__BN_CUDNN = 1, VRAM__BN_TRAIN = 2, VRAM__BN_WEIGHT = 2 /* bits before it */ };

/* The arguments of _batch_norm_impl_index; d NULL: there is none. */
typedef struct vram__batch_norm {
  vram__tensor in[3];      /* input, weight, bias */
  vram__tensor running[2]; /* mean and variance */
  int train;
} vram__batch_norm;

/* ---- what runs (native/Normalization.cpp, cuda/Normalization.cu) ---- */

/* batch_norm_choose_impl */
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

/* use_cudnn: what it asks of input, weight and bias in training */
static int vram__batch_norm_fits_cudnn(const vram__step *s, const vram__tensor *x,
                                       const vram__tensor *w, const vram__tensor *b) {
  return (x->dt == VRAM_F32 || x->dt == VRAM_F16) && w->dt == VRAM_F32 && b->dt == VRAM_F32 &&
         x->d->ndim >= 3 && x->d->v[0] <= s->device.rules->batch_norm.batch;
}

static int vram__batch_norm_uses_cudnn(const vram__step *s, const vram__batch_norm *b) {
  if (!b->in[1].d || !b->in[2].d || !(b->running[0].d ? b->running[1].d != NULL : b->train))
    return 0;
  return vram__batch_norm_fits_cudnn(s, &b->in[0], &b->in[1], &b->in[2]) &&
         (b->train || b->in[0].d->v[0] <= s->device.rules->batch_norm.batch_eval);
}

/* Normalization.cuh, flexible_launch_configs: where the channels-last kernels are split over thread
   blocks they leave partial results, so many values of 4 bytes for each channel, and semaphores. */
static void vram__batch_norm_staging(vram__step *s, const vram_dims *d, int64_t values) {
  const int64_t threads = s->device.rules->batch_norm.threads,
                each = s->device.rules->batch_norm.elements;
  const int64_t channels = d->v[1], rows = channels ? (int64_t)d->numel / channels : 0;
  int64_t block_x, block_y, grid_y;
  vram__tensor staging, semaphores;
  if (!rows)
    return;
  block_x =
      vram__min_i64(vram__power_of_two_below(channels, threads), s->device.rules->batch_norm.tile);
  block_y =
      vram__min_i64(vram__power_of_two_below(vram__div_up(rows, each), threads), threads / block_x);
  if (block_x * block_y != threads)
    block_x = vram__min_i64(vram__power_of_two_below(channels, threads), threads / block_y);
  grid_y = vram__min_i64(vram__div_up(rows, block_y * each), s->device.rules->batch_norm.grid);
  if (grid_y < s->device.rules->batch_norm.cooperative)
    return;
  staging = vram__tensor_raw(s, vram__product4_or_overflow(4, values, channels, grid_y));
  semaphores = vram__tensor_raw(s, 4 * (uint64_t)vram__div_up(channels, block_x));
  vram__tensor_release(s, staging);
  vram__tensor_release(s, semaphores);
}

/* ---- forward ---- */

/* What the native kernels take for a moment: channels-last ones staging, general ones var_mean
   (into fp32; it reads halves as they are) and scalars for weight and bias. */
static void vram__batch_norm_scratch(vram__step *s, const vram__batch_norm *b) {
  const vram__tensor x = b->in[0];
  const int kernel = vram__batch_norm_kernel(x.d);
  vram__tensor up = vram__tensor_none(), one, zero;
  if (kernel == VRAM__BN_CL && b->train)
    vram__batch_norm_staging(s, x.d, 4);
  if (kernel != VRAM__BN_GENERAL)
    return;
  if (b->train) {
    if (x.dt == VRAM_BF16)
      up = vram__tensor_empty(s, vram__dims_dense(s, x.d), VRAM_F32);
    vram__reduce_scratch(s, up.d ? up : x, ((1u << x.d->ndim) - 1) & ~2u, vram__acc_dtype(x.dt), 16,
                         2);
    vram__tensor_release(s, up);
  }
  if (!b->in[1].d) {
    one = vram__tensor_empty(s, s->scalar, vram__acc_dtype(x.dt));
    zero = vram__tensor_empty(s, s->scalar, vram__acc_dtype(x.dt));
    vram__tensor_release(s, one);
    vram__tensor_release(s, zero);
  }
}

static void vram__batch_norm_save(vram__step *s, vram__grad_fn *f, const vram__batch_norm *b,
                                  int cudnn, const vram__tensor *stats) {
  uint32_t i;
  if (!f)
    return;
  f->aux = (cudnn ? VRAM__BN_CUDNN : 0) | (b->train ? VRAM__BN_TRAIN : 0);
  vram__save_tensor(s, f, b->in[0]);
  for (i = 0; i < 2; i++)
    if (b->running[i].d)
      vram__save_tensor(s, f, b->running[i]);
  f->aux |= (uint64_t)f->nsaved << VRAM__BN_WEIGHT;
  if (b->in[1].d)
    vram__save_tensor(s, f, b->in[1]);
  for (i = 0; i < 2; i++)
    vram__save_tensor(s, f, stats[i]);
}

/* _batch_norm_impl_index without values: input.clone() * weight[0] + bias[0] */
static vram__tensor vram__batch_norm_nothing(vram__step *s, const vram__batch_norm *b) {
  vram__tensor stats[2], y, t, first;
  uint32_t i;
  for (i = 0; i < 2; i++)
    stats[i] = vram__tensor_vector(s, b->in[0].d->v[1], vram__acc_dtype(b->in[0].dt));
  y = vram__torch_clone(s, b->in[0], vram__dims_dense(s, b->in[0].d));
  for (i = 1; i < 3; i++) {
    if (!b->in[i].d)
      continue;
    if (!b->in[i].d->numel)
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                        "batch_norm of no values and no channels: PyTorch refuses");
    first = vram__torch_select(s, b->in[i], 0);
    t = vram__op_call_binary(s, i == 1 ? VRAM_OP_mul : VRAM_OP_add, y, first);
    vram__tensor_release(s, first);
    vram__tensor_replace(s, &y, t);
  }
  vram__tensor_release(s, stats[0]);
  vram__tensor_release(s, stats[1]);
  return y;
}

/* Normalization.cpp, _batch_norm_impl_index */
static vram__tensor vram__torch_batch_norm(vram__step *s, vram__batch_norm *b) {
  vram__tensor *x = &b->in[0], stats[2], y;
  const int cudnn = vram__batch_norm_uses_cudnn(s, b), cl = vram__suggests_cl(x->d);
  const int64_t channels = x->d->v[1];
  vram__grad_fn *f;
  if (cudnn && x->d->ndim > VRAM__BN_AXES)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "cuDNN's batch norm takes 2 to 5 axes: PyTorch refuses");
  if (!x->d->numel)
    return vram__batch_norm_nothing(s, b);
  if (!vram__is_half(x->dt) || (b->in[1].d && b->in[1].dt != VRAM_F32)) /* is_mixed_type */
    vram__refuse_unlike(s, b->in, 3);
  if (cudnn && !(x->d->flags & (cl ? VRAM__CL : VRAM__CONTIG)))
    *x = vram__torch_clone(s, *x, vram__norm_format(s, x->d, cl));
  else
    vram__tensor_retain(s, *x);
  f = vram__tape_record(s, VRAM__K_bn, b->in, b->in[2].d ? 3 : b->in[1].d ? 2 : 1, 1, 6);
  stats[0] = stats[1] = vram__tensor_none();
  y = vram__tensor_empty(
      s, cudnn ? vram__norm_format(s, x->d, vram__suggests_cl(x->d)) : vram__dims_dense(s, x->d),
      x->dt);
  if (b->train || !cudnn) {
    stats[0] = vram__tensor_vector(s, channels, vram__acc_dtype(x->dt));
    stats[1] = vram__tensor_vector(s, channels, vram__acc_dtype(x->dt));
  }
  if (!cudnn)
    vram__batch_norm_scratch(s, b);
  vram__batch_norm_save(s, f, b, cudnn, stats);
  vram__tensor_release(s, stats[0]);
  vram__tensor_release(s, stats[1]);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, *x);
  return y;
}

/* F._verify_batch_size: one value a channel */
static int vram__batch_norm_is_one_value(const vram_dims *d) {
  uint32_t i;
  if (d->numel)
    return d->numel == (uint64_t)d->v[1];
  for (i = 0; i < d->ndim && (i == 1 || d->v[i] == 1);)
    i++;
  return i == d->ndim;
}

/* A contiguous input, a weight whose dims the statistics can have: nearly always. */
static int vram__batch_norm_is_usual(const vram_dims *x, const vram_dims *w) {
  return (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN && (w->flags & VRAM__PLAIN);
}

/* The usual case is written out: networks have many of them. */
static void vram__forward_batch_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__batch_norm b;
  vram__tensor stats[2];
  vram__grad_fn *f;
  b.in[0] = x[0];
  vram__node_weights(s, n, &b.in[1], &b.in[2]);
  b.running[0] = b.running[1] = vram__tensor_none();
  if (n->param[2]) {
    b.running[0] = s->param[n->param[2]->index];
    b.running[1] = s->param[n->param[3]->index];
  }
  b.train = (s->train || !b.running[0].d) && VRAM__INT(n, training, 1);
  if (b.train && vram__batch_norm_is_one_value(x[0].d))
    vram__norm_refuse_one_value(s, n);
  if (!b.train || !x[0].d->numel || !b.running[0].d || !b.in[2].d || x->d->ndim > VRAM__BN_AXES ||
      !vram__batch_norm_is_usual(x->d, b.in[1].d) ||
      !vram__batch_norm_fits_cudnn(s, x, &b.in[1], &b.in[2])) {
    y[0] = vram__torch_batch_norm(s, &b);
    return;
  }
  f = vram__tape_record(s, VRAM__K_bn, b.in, 3, 1, 6);
  y[0] = vram__tensor_empty(s, x->d, x->dt);
  stats[0] = vram__tensor_empty(s, b.in[1].d, VRAM_F32);
  stats[1] = vram__tensor_empty(s, b.in[1].d, VRAM_F32);
  if (f) {
    f->aux = VRAM__BN_CUDNN | VRAM__BN_TRAIN | 1 << VRAM__BN_WEIGHT;
    vram__save_tensor(s, f, b.in[0]);
    vram__save_tensor(s, f, b.in[1]);
  }
  vram__save_and_release(s, f, stats[0]);
  vram__save_and_release(s, f, stats[1]);
  if (f && s->call.frame) { /* where it counts how many there are */
    vram__save_tensor(s, f, b.running[0]);
    vram__save_tensor(s, f, b.running[1]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* ---- backward ---- */

typedef struct vram__batch_norm_backward {
  vram__tensor x, g;
  int cudnn, train, affine;
  int wants[3]; /* gradients of input, weight and bias */
  vram_dtype weight_dt;
} vram__batch_norm_backward;

/* The copy that x.reshape({N, C, -1}) is; none: it is a view. */
static vram__tensor vram__batch_norm_rows_copy(vram__step *s, vram__tensor x) {
  int64_t size[3], stride[3];
  size[0] = x.d->v[0];
  size[1] = x.d->v[1];
  size[2] = size[0] && size[1] ? (int64_t)x.d->numel / (size[0] * size[1]) : 0;
  if (vram__dims_view_strides(x.d, 3, size, stride))
    return vram__tensor_none();
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* cudnn_batch_norm_backward: always all three gradients */
static void vram__batch_norm_backward_cudnn(vram__step *s, const vram__batch_norm_backward *b,
                                            vram__tensor *to) {
  const int cl = vram__suggests_cl(b->x.d);
  const vram__tensor g_copy = vram__norm_format_copy(s, b->g, cl);
  to[0] = vram__tensor_empty(s, vram__norm_format(s, b->x.d, cl), b->x.dt);
  to[1] = vram__tensor_vector(s, b->x.d->v[1], b->weight_dt);
  to[2] = vram__tensor_vector(s, b->x.d->v[1], b->weight_dt);
  vram__tensor_release(s, g_copy);
}

/* Normalization.cuh, batch_norm_backward_cuda_template: one kernel for everything */
static void vram__batch_norm_backward_whole(vram__step *s, const vram__batch_norm_backward *b,
                                            vram__tensor *to) {
  const vram__tensor x_copy = vram__batch_norm_rows_copy(s, b->x),
                     g_copy = vram__batch_norm_rows_copy(s, b->g);
  uint32_t i;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, b->x.d), b->x.dt);
  for (i = 1; i < 3; i++)
    if (b->wants[i])
      to[i] = vram__tensor_vector(s, b->x.d->v[1], b->weight_dt);
  vram__tensor_release(s, g_copy);
  vram__tensor_release(s, x_copy);
}

/* Normalization.cu, batch_norm_backward_reduce: both sums of each channel, gradients of weight and
   bias; the channels-last kernel makes all of them, whatever is wanted. */
static void vram__batch_norm_backward_reduce(vram__step *s, const vram__batch_norm_backward *b,
                                             vram__tensor *sums, vram__tensor *to) {
  const vram_dims *d = b->x.d;
  const int cl = vram__batch_norm_is_channels_last(d) &&
                 vram__batch_norm_is_channels_last(b->g.d) && d->numel <= INT32_MAX;
  vram__tensor x_copy = vram__tensor_none(), g_copy = x_copy;
  if (!cl) {
    x_copy = vram__batch_norm_rows_copy(s, b->x);
    g_copy = vram__batch_norm_rows_copy(s, b->g);
  }
  if (cl || b->wants[0]) {
    sums[0] = vram__tensor_vector(s, d->v[1], vram__acc_dtype(b->x.dt));
    sums[1] = vram__tensor_vector(s, d->v[1], vram__acc_dtype(b->x.dt));
  }
  if (b->affine && (cl || b->wants[1]))
    to[1] = vram__tensor_vector(s, d->v[1], b->weight_dt);
  if (b->affine > 1 && (cl || b->wants[2]))
    to[2] = vram__tensor_vector(s, d->v[1], b->weight_dt);
  if (cl)
    vram__batch_norm_staging(s, d, 2);
  vram__tensor_release(s, g_copy);
  vram__tensor_release(s, x_copy);
}

/* Normalization.cu, batch_norm_elementwise_backward_train and batch_norm_elementwise_backward_eval:
   a general kernel wants a number where there is no weight. */
static vram__tensor vram__batch_norm_backward_input(vram__step *s,
                                                    const vram__batch_norm_backward *b) {
  const vram_dims *d = b->x.d;
  const int kernel = vram__batch_norm_kernel(d);
  vram__tensor number = vram__tensor_none(), y;
  if (!b->train)
    return vram__tensor_empty(s, vram__dims_contiguous(s, d), b->x.dt);
  if (!b->affine && (kernel == VRAM__BN_GENERAL || vram__batch_norm_kernel(b->g.d) != kernel))
    number = vram__tensor_empty(s, s->scalar, vram__acc_dtype(b->x.dt));
  y = vram__tensor_empty(s, vram__norm_format(s, d, vram__suggests_cl(d)), b->x.dt);
  vram__tensor_release(s, number);
  return y;
}

/* Normalization.cu, batch_norm_backward_cuda. With cuDNN in evaluation nothing was saved: the
   deviation is made again. */
static void vram__batch_norm_backward_native(vram__step *s, const vram__batch_norm_backward *b,
                                             vram__tensor *to) {
  const int reduce = b->train || b->wants[1] || b->wants[2];
  vram__tensor deviation = vram__tensor_none(), sums[2];
  if (reduce && b->wants[0] && !vram__batch_norm_is_channels_last(b->x.d) &&
      b->x.d->numel <= INT32_MAX) {
    vram__batch_norm_backward_whole(s, b, to);
    return;
  }
  sums[0] = sums[1] = vram__tensor_none();
  if (b->cudnn)
    deviation = vram__tensor_vector(s, b->x.d->v[1], VRAM_F32);
  if (reduce)
    vram__batch_norm_backward_reduce(s, b, sums, to);
  if (b->wants[0])
    to[0] = vram__batch_norm_backward_input(s, b);
  vram__tensor_release(s, sums[1]);
  vram__tensor_release(s, sums[0]);
  vram__tensor_release(s, deviation);
}

static void vram__backward_any_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__batch_norm_backward b;
  uint32_t i;
  b.x = VRAM__SAVED(f)[0];
  b.g = VRAM__SLOTS(f)[0].g;
  b.cudnn = (f->aux & VRAM__BN_CUDNN) != 0;
  b.train = (f->aux & VRAM__BN_TRAIN) != 0;
  b.affine = f->nin - 1;
  b.weight_dt = b.affine ? VRAM__SAVED(f)[f->aux >> VRAM__BN_WEIGHT].dt : VRAM_F32;
  for (i = 0; i < 3; i++)
    b.wants[i] = i < f->nin && vram__input_wanted(f, i);
  if (b.cudnn && b.train)
    vram__batch_norm_backward_cudnn(s, &b, to);
  else
    vram__batch_norm_backward_native(s, &b, to);
  vram__gradients_drop_unwanted(s, f, to);
}

VRAM__FN void vram__backward_bn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor *x = VRAM__SAVED(f), *w = x + 1;
  if (f->aux != (VRAM__BN_CUDNN | VRAM__BN_TRAIN | 1 << VRAM__BN_WEIGHT) ||
      !vram__batch_norm_is_usual(x->d, w->d) || !(VRAM__SLOTS(f)[0].g.d->flags & VRAM__CONTIG)) {
    vram__backward_any_bn(s, f, to);
    return;
  }
  to[0] = vram__tensor_empty(s, x->d, x->dt);
  to[1] = vram__tensor_empty(s, w->d, w->dt);
  to[2] = vram__tensor_empty(s, w->d, w->dt);
  vram__gradients_drop_unwanted(s, f, to);
}

/* ---- instance_norm (Normalization.cpp): batch_norm of [1,N*C,...] ---- */

/* repeat_if_defined: [C] as [N*C] */
static vram__tensor vram__torch_tiled(vram__step *s, vram__tensor x, int64_t n) {
  vram__grad_fn *f;
  vram__tensor y;
  if (!x.d)
    return vram__tensor_none();
  f = vram__tape_record(s, VRAM_OP_repeat, &x, 1, 1, 0);
  y = vram__tensor_vector(s, n * (int64_t)x.d->numel, x.dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The running statistics are the means of those over the samples. */
static void vram__instance_norm_update(vram__step *s, const vram__batch_norm *b,
                                       const vram_dims *x) {
  uint32_t i;
  if (!b->train || !b->running[0].d)
    return;
  for (i = 0; i < 2; i++) {
    vram__tensor all = b->running[i], mean;
    all.d = vram__dims_2d(s, x->v[0], x->v[1]);
    mean = vram__tensor_sum(s, all, 1, 0, all.dt); /* then copy_ to what the module has */
    vram__tensor_release(s, vram__tensor_to(s, mean, vram__step_dtype(s, VRAM_F32)));
    vram__tensor_release(s, mean);
  }
}

/* A running statistic for each sample, in the weight's dtype or, where there is none, in x's. */
static vram__tensor vram__instance_norm_running(vram__step *s, const vram_node *n,
                                                const vram__batch_norm *b, const vram__tensor *x,
                                                uint32_t i) {
  vram__tensor own, y;
  if (!n->param[2])
    return vram__tensor_none();
  own = vram__tensor_to(s, s->param[n->param[2 + i]->index], b->in[1].d ? b->in[1].dt : x->dt);
  y = vram__torch_tiled(s, own, x->d->v[0]);
  vram__tensor_release(s, own);
  return y;
}

static void vram__forward_instance_norm(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  const vram_dims *d = x[0].d;
  vram__batch_norm b;
  vram__tensor view;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, one = 1;
  vram__node_weights(s, n, &b.in[1], &b.in[2]);
  for (i = 1; i < 3; i++)
    b.in[i] = vram__torch_tiled(s, b.in[i], d->v[0]);
  for (i = 0; i < 2; i++)
    b.running[i] = vram__instance_norm_running(s, n, &b, x, i);
  b.train = s->train || !b.running[0].d;
  size[0] = 1;
  size[1] = d->v[0] * d->v[1];
  for (i = 2; i < d->ndim; i++) {
    size[i] = d->v[i];
    one &= size[i] == 1;
  }
  if (b.train && one)
    vram__norm_refuse_one_value(s, n);
  view = vram__torch_contiguous(s, x[0]);
  vram__tensor_replace(
      s, &view,
      vram__torch_view_as(s, view, vram__dims_in(s, d->ndim, size, NULL), VRAM__K_view, 0));
  b.in[0] = view;
  y[0] = vram__torch_batch_norm(s, &b);
  vram__instance_norm_update(s, &b, d);
  vram__tensor_replace(s, &y[0],
                       vram__torch_view_as(s, y[0], vram__dims_contiguous(s, d), VRAM__K_view, 0));
  vram__tensor_release(s, view);
  for (i = 2; i-- > 0;)
    vram__tensor_release(s, b.running[i]);
  for (i = 3; i-- > 1;)
    vram__tensor_release(s, b.in[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(batch_norm, "", 1, 3, norm, SAME, none, batch_norm, none, each, NORM, VRAM__NORM_BATCH,
         VRAM__OP_OWNS | VRAM__OP_RUNNING,
         "affine track_running_stats counted training momentum eps frozen weights dtype");
VRAM__OP(instance_norm, "", 1, 1, norm, SAME, none, instance_norm, none, each, NORM,
         VRAM__NORM_INSTANCE, VRAM__OP_OWNS | VRAM__OP_RUNNING,
         "affine track_running_stats momentum eps frozen weights dtype");
