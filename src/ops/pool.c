/* >>ops/pool    pooling */
#include "ops/ops.h"

#define VRAM__POOL_AVERAGE 16 /* kind of a row, beside its axes */

/* Values of as many axes as the input has, and where they were found. */
VRAM__FN int vram__out_indexed(vram_graph *g, vram_node *n, const int64_t *size) {
  const vram_dims *d = vram__graph_dims(g, n->in[0]->d->ndim, size);
  vram__node_out_dims(n, 1, d, VRAM_I64);
  return vram__node_out_dims(n, 0, d, n->in[0]->dtype);
}

static int vram__shape_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__op_axes(n), i, lead = vram__axis_lead(g, n, k);
  int64_t size[VRAM_MAX_AXES], kernel[3], stride[3], pad[3], dil[3];
  int ceil = VRAM__INT(n, ceil_mode, 0) != 0;
  if (!lead || !vram__shape_window(g, n, VRAM__KEY_kernel_size, k, 1, kernel))
    return 0;
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__node_list(n, VRAM__KEY_stride, NULL) &&
      !vram__shape_window(g, n, VRAM__KEY_stride, k, 1, stride))
    return 0;
  if (!vram__shape_window(g, n, VRAM__KEY_padding, k, 0, pad) ||
      !vram__shape_window(g, n, VRAM__KEY_dilation, k, 1, dil))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i], r, *to = size + lead + i;
    if (pad[i] > kernel[i] / 2)
      return vram__node_error(g, n, "padding of more than half the kernel");
    if (vram__op_at(n->op)->kind == (3 | VRAM__POOL_AVERAGE) &&
        in < kernel[i]) /* pool3d_shape_check */
      return vram__node_error(g, n, "a kernel larger than its input");
    r = in + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0 && !(ceil && r > -stride[i]))
      return vram__node_error(g, n, "a kernel larger than its padded input");
    *to = (r + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
    if (ceil && (*to - 1) * stride[i] >= in + pad[i])
      --*to; /* the last window must begin inside */
    if (*to < 1)
      return vram__node_error(g, n, "a kernel larger than its padded input");
  }
  if (!vram__axes_filled(g, n, lead - 1))
    return 0;
  return vram__out_indexed(g, n, size);
}

/* The input's leading axes, then k sizes that a key gives. */
VRAM__FN int vram__shape_resize(vram_graph *g, vram_node *n, uint32_t k, const int64_t *to) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x->ndim; i++)
    size[i] = i < x->ndim - k ? x->v[i] : to[i - (x->ndim - k)];
  return vram__out_indexed(g, n, size);
}

static int vram__shape_adaptive_pool(vram_graph *g, vram_node *n) {
  const uint32_t k = vram__op_axes(n), lead = vram__axis_lead(g, n, k);
  int64_t to[3];
  uint32_t i, ones = 0;
  if (!lead || !vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
    return 0;
  for (i = 0; i < k; i++)
    ones += to[i] == 1;
  if (vram__op_at(n->op)->lower == VRAM__LOWER_MAX_POOL
          ? !vram__axes_filled(g, n, 1)
          : ones < k && !vram__axes_filled(g, n, lead))
    return 0; /* an average of all is a mean, of nothing, too */
  return vram__shape_resize(g, n, k, to);
}

/* in * factor, rounded down; factor in units of 10^-9; -1: too large */
VRAM__FN int64_t vram__shape_times(int64_t in, int64_t factor) {
  int64_t whole = factor / VRAM__ONE, part = factor % VRAM__ONE, z;
  if (factor < 0 || in > INT64_C(0xffffffff) || whole > INT32_MAX)
    return -1;
  z = in * whole;
  return z + in * part / VRAM__ONE;
}

static int vram__shape_fractional_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__op_axes(n), i, lead = vram__axis_lead(g, n, k);
  int64_t to[3], kernel[3];
  int by_size = vram__node_list(n, VRAM__KEY_output_size, NULL) != NULL;
  if (!lead || !vram__shape_window(g, n, VRAM__KEY_kernel_size, k, 1, kernel) ||
      !vram__axes_filled(g, n, 1))
    return 0;
  if (by_size == (vram__node_list(n, VRAM__KEY_output_ratio, NULL) != NULL))
    return vram__node_error(g, n, "one of output_size and output_ratio is needed");
  if (by_size && !vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
    return 0;
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i];
    if (!by_size)
      to[i] = vram__shape_times(in, VRAM__INT(n, output_ratio, 0));
    if (to[i] < 1 || to[i] + kernel[i] - 1 > in - (k == 3))
      return vram__node_error(g, n, "a kernel and a result larger than the input");
  }
  return vram__shape_resize(g, n, k, to);
}

static int vram__shape_max_unpool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__op_axes(n), i, lead = vram__axis_lead(g, n, k);
  int64_t to[3], kernel[3], stride[3], pad[3];
  if (!lead || !vram__shape_window(g, n, VRAM__KEY_kernel_size, k, 1, kernel) ||
      !vram__axes_filled(g, n, 1))
    return 0;
  for (i = 0; i < x->ndim; i++)
    if (n->in[1]->d->ndim != x->ndim || n->in[1]->d->v[i] != x->v[i])
      return vram__node_error(g, n, "indices of another shape");
  if (n->in[1]->dtype != VRAM_I64)
    return vram__node_error(g, n, "indices that are not i64");
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__node_list(n, VRAM__KEY_stride, NULL) &&
      !vram__shape_window(g, n, VRAM__KEY_stride, k, 1, stride))
    return 0;
  if (!vram__shape_window(g, n, VRAM__KEY_padding, k, 0, pad))
    return 0;
  for (i = 0; i < k; i++) {
    uint64_t most = vram__product_or_overflow((uint64_t)x->v[lead + i], (uint64_t)stride[i]);
    if (most > (uint64_t)INT64_MAX / 4)
      return vram__node_error(g, n, "a result beyond 63 bits");
    to[i] = (int64_t)most - stride[i] - 2 * pad[i] + kernel[i];
  }
  if (vram__node_list(n, VRAM__KEY_output_size, NULL)) {
    int64_t def[3];
    for (i = 0; i < k; i++)
      def[i] = to[i];
    if (!vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
      return 0;
    for (i = 0; i < k; i++)
      if (to[i] <= def[i] - stride[i] || to[i] >= def[i] + stride[i])
        return vram__node_error(g, n, "an output_size that does not fit the windows");
  }
  for (i = 0; i < k; i++)
    if (to[i] < 1)
      return vram__node_error(g, n, "a result without elements");
  return vram__shape_resize(g, n, k, to);
}

#ifndef VRAM_NO_STEP

/* ---- pooling ---- */

/* op(x) where the 1-D form runs the 2-D one on x.unsqueeze(-2): x as that one sees it, and the
   results back; vram__pool_unflat takes y. */
static vram__tensor vram__pool_flat(vram__step *s, const vram_node *n, vram__tensor x) {
  if (vram__op_axes(n) == 1)
    return vram__torch_unsqueeze(s, x, x.d->ndim - 1u);
  return vram__tensor_retain(s, x);
}

static vram__tensor vram__pool_unflat(vram__step *s, const vram_node *n, vram__tensor y) {
  vram__tensor z;
  if (y.d->ndim == n->out[0].d->ndim)
    return y;
  z = vram__torch_squeeze1(s, y, y.d->ndim - 2u);
  vram__tensor_release(s, y);
  return z;
}

/* the dims of output i as the 2-D form sees them */
static const vram_dims *vram__pool_dims(vram__step *s, const vram_node *n, uint32_t ndim) {
  const vram_dims *d = n->out[0].d;
  return d->ndim == ndim ? d : vram__dims_unsqueezed(s, d, d->ndim - 1u);
}

/* The axes that the op of a record is named after. */
static uint32_t vram__pool_axes(const vram__grad_fn *f) { return vram__op_at(f->kind)->kind & 7; }

/* DilatedMaxPool2d.cu, DilatedMaxPool3d.cu: of three axes one sample alone is channels last if it
 * is so as a batch of one. */
static int vram__max_pool_cl(vram__step *s, uint32_t axes, const vram_dims **d) {
  if (axes != 3 || (*d)->ndim != 4)
    return vram__suggests_cl(*d);
  *d = vram__dims_unsqueezed(s, *d, 0);
  return ((*d)->flags & (VRAM__CONTIG | VRAM__CL)) == VRAM__CL;
}

static void vram__forward_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__tensor a = vram__pool_flat(s, n, x[0]), b = a, c, m;
  const vram_dims *d = vram__pool_dims(s, n, a.d->ndim);
  vram__grad_fn *f = vram__tape_record(s, n->op, &a, 1, 1, 2);
  const int cl = vram__max_pool_cl(s, vram__op_axes(n), &b.d), alone = b.d != a.d;
  if (f)
    vram__save_tensor(s, f, a);
  d = vram__tensor_formatted(s, alone ? vram__dims_unsqueezed(s, d, 0) : d, cl);
  if (alone)
    d = vram__dims_without_axis(s, d, 0);
  y[0] = vram__tensor_empty(s, d, a.dt);
  m = vram__tensor_empty(s, d, VRAM_I64);
  c = vram__tensor_in_format(s, b, cl);
  vram__tensor_release(s, c);
  if (f)
    vram__save_tensor(s, f, m);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  y[0] = vram__pool_unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__pool_unflat(s, n, m);
  else
    vram__tensor_release(s, m);
  vram__tensor_release(s, a);
}

static void vram__backward_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx = vram__tensor_none();
  const vram_dims *own = x.d;
  const int cl = vram__max_pool_cl(s, vram__pool_axes(f), &x.d), alone = x.d != own;
  to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), g.dt);
  if (vram__pool_axes(f) != 3)
    cx = vram__tensor_in_format(s, x, cl);
  if (alone)
    g.d = vram__dims_unsqueezed(s, g.d, 0);
  cg = vram__tensor_in_format(s, g, cl);
  vram__tensor_release(s, cg);
  vram__tensor_release(s, cx);
  if (!alone)
    return;
  if (cl) { /* and back */
    cx = to[0];
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, own), g.dt);
    vram__tensor_release(s, cx);
  }
  to[0].d = vram__dims_contiguous(s, own);
}

/* AveragePool2d.cu; AveragePool3d.cu knows no channels-last */
static void vram__forward_avg_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__tensor a = vram__pool_flat(s, n, x[0]), c;
  vram__grad_fn *f = vram__tape_record(s, n->op, &a, 1, 1, 1);
  int cl = vram__op_axes(n) != 3 && vram__suggests_cl(a.d);
  if (f)
    vram__save_tensor(s, f, a);
  y[0] =
      vram__tensor_empty(s, vram__tensor_formatted(s, vram__pool_dims(s, n, a.d->ndim), cl), a.dt);
  c = vram__tensor_in_format(s, a, cl);
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  y[0] = vram__pool_unflat(s, n, y[0]);
  vram__tensor_release(s, a);
}

static void vram__backward_avg_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx;
  const int deep = vram__pool_axes(f) == 3, cl = !deep && vram__suggests_cl(x.d);
  to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), g.dt);
  cx = deep ? vram__tensor_none() : vram__tensor_in_format(s, x, cl);
  cg = vram__tensor_in_format(s, g, cl);
  vram__tensor_release(s, cg);
  vram__tensor_release(s, cx);
}

/* AdaptiveAveragePooling.cpp: to sizes of 1 it is a mean, else a kernel */
VRAM__FN vram__tensor vram__torch_adaptive_avg(vram__step *s, vram__tensor x, const vram_dims *d,
                                               uint32_t k) {
  uint32_t i, mask = 0, n = d->ndim;
  vram__grad_fn *f;
  vram__tensor y, c;
  int cl = vram__suggests_cl(x.d);
  for (i = n - k; i < n; i++)
    if (d->v[i] == 1)
      mask |= 1u << i;
  if (mask == ((1u << k) - 1) << (n - k)) {
    f = vram__tape_record(s, VRAM__K_mean, &x, 1, 1, 1);
    vram__mean_save(s, f, x);
    if (f)
      f->aux = mask;
    y = vram__tensor_sum(s, x, mask, 1, x.dt);
    vram__grad_fn_set_output(s, f, 0, &y);
    if (cl) { /* as_strided_ in place */
      f = vram__tape_record(s, VRAM__K_as_strided, &y, 1, 1, 0);
      y.d = vram__dims_channels_last(s, y.d);
      vram__grad_fn_set_output(s, f, 0, &y);
    }
    return y;
  }
  cl = cl && k == 2; /* AdaptiveAveragePooling3d.cu knows no channels-last */
  f = vram__tape_record(s, VRAM_OP_adaptive_avg_pool2d, &x, 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x);
  c = cl || n == k + 1 ? vram__tensor_none()
                       : vram__tensor_contiguous(s, x); /* one sample: by its strides */
  y = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), x.dt);
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static void vram__forward_adaptive_avg_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                            vram__tensor *y) {
  vram__tensor a = vram__pool_flat(s, n, x[0]);
  y[0] = vram__torch_adaptive_avg(s, a, vram__pool_dims(s, n, a.d->ndim),
                                  vram__op_axes(n) == 3 ? 3 : 2);
  y[0] = vram__pool_unflat(s, n, y[0]);
  vram__tensor_release(s, a);
}

static void vram__backward_adaptive_avg_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), g.dt);
  c = cl ? vram__tensor_none() : vram__tensor_contiguous(s, g);
  vram__tensor_release(s, c);
}

/* AdaptiveMaxPooling2d.cu, AdaptiveMaxPooling3d.cu: the kernels know no channels-last */
static void vram__forward_adaptive_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                            vram__tensor *y) {
  vram__tensor a = vram__pool_flat(s, n, x[0]), c, m, t = vram__tensor_none(),
               u = vram__tensor_none();
  vram__grad_fn *f = vram__tape_record(s, n->op, &a, 1, 1, 2);
  int cl = vram__op_axes(n) != 3 && vram__suggests_cl(a.d);
  const vram_dims *d = vram__tensor_formatted(s, vram__pool_dims(s, n, a.d->ndim), cl);
  if (f)
    vram__save_tensor(s, f, a);
  y[0] = vram__tensor_empty(s, d, a.dt);
  m = vram__tensor_empty(s, d, VRAM_I64);
  if (!(d->flags & VRAM__CONTIG)) {
    t = vram__tensor_contiguous(s, y[0]);
    u = vram__tensor_contiguous(s, m);
  }
  c = a.d->ndim == (vram__op_axes(n) == 3 ? 4 : 3) ? vram__tensor_none()
                                                   : vram__tensor_contiguous(s, a);
  vram__tensor_release(s, c);
  vram__tensor_release(s, u);
  vram__tensor_release(s, t);
  if (f)
    vram__save_tensor(s, f, m);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  y[0] = vram__pool_unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__pool_unflat(s, n, m);
  else
    vram__tensor_release(s, m);
  vram__tensor_release(s, a);
}

static void vram__backward_adaptive_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cm, cx;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, x.d, cl), g.dt);
  cg = vram__tensor_contiguous(s, g);
  cm = vram__tensor_contiguous(s, VRAM__SAVED(f)[1]);
  cx = vram__tensor_contiguous(s, to[0]);
  vram__tensor_release(s, cx);
  vram__tensor_release(s, cm);
  vram__tensor_release(s, cg);
}

/* FractionalMaxPool2d.cpp: random samples [N, C, axes] first */
static void vram__forward_fractional_max_pool(vram__step *s, const vram_node *n, vram__tensor *x,
                                              vram__tensor *y) {
  const uint32_t k = vram__op_axes(n);
  int64_t size[3];
  vram__tensor r, m;
  vram__grad_fn *f;
  size[0] = x[0].d->ndim == k + 2 ? x[0].d->v[0] : 1;
  size[1] = x[0].d->v[x[0].d->ndim - k - 1];
  size[2] = k;
  r = vram__tensor_empty(s, vram__dims_in(s, 3, size, NULL), x[0].dt);
  f = vram__tape_record(s, n->op, x, 1, 1, 2);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  m = vram__tensor_empty(s, n->out[0].d, VRAM_I64);
  if (f) {
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, m);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, r);
  if (n->nout > 1)
    y[1] = m;
  else
    vram__tensor_release(s, m);
}

static void vram__backward_fractional_max_pool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, c = vram__tensor_none();
  if (vram__pool_axes(f) == 2)
    c = vram__tensor_contiguous(s, g);
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, VRAM__SAVED(f)[0].d), g.dt);
  vram__tensor_release(s, c);
}

static void vram__forward_max_unpool(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__tensor a = vram__pool_flat(s, n, x[0]), c, i;
  vram__grad_fn *f = vram__tape_record(s, n->op, &a, 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x[1]);
  c = vram__tensor_contiguous(s, a);
  i = vram__tensor_contiguous(s, x[1]);
  y[0] = vram__tensor_empty(s, vram__pool_dims(s, n, a.d->ndim), a.dt);
  vram__tensor_release(s, i);
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  y[0] = vram__pool_unflat(s, n, y[0]);
  vram__tensor_release(s, a);
}

static void vram__backward_max_unpool(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)),
                             VRAM__SLOTS(f)[0].g.dt);
  if (to[0].st) /* gather of what is flat, seen with the axes that it had */
    vram__slot_at(s, to[0].st)->shown = 1;
}

#endif /* VRAM_NO_STEP */

VRAM__OP(max_pool1d, "", 1, 1, pool, SAME, none, max_pool, max_pool, each, MAX_POOL, 1,
         VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding dilation ceil_mode return_indices");
VRAM__OP(max_pool2d, "", 1, 1, pool, SAME, none, max_pool, max_pool, each, MAX_POOL, 2,
         VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding dilation ceil_mode return_indices");
VRAM__OP(max_pool3d, "", 1, 1, pool, SAME, none, max_pool, max_pool, each, MAX_POOL, 3,
         VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding dilation ceil_mode return_indices");
VRAM__OP(avg_pool1d, "", 1, 1, pool, SAME, none, avg_pool, avg_pool, each, AVG_POOL,
         1 | VRAM__POOL_AVERAGE, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding ceil_mode count_include_pad");
VRAM__OP(avg_pool2d, "", 1, 1, pool, SAME, none, avg_pool, avg_pool, each, AVG_POOL,
         2 | VRAM__POOL_AVERAGE, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding ceil_mode count_include_pad divisor_override");
VRAM__OP(avg_pool3d, "", 1, 1, pool, SAME, none, avg_pool, avg_pool, each, AVG_POOL,
         3 | VRAM__POOL_AVERAGE, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! stride padding ceil_mode count_include_pad divisor_override");
VRAM__OP(adaptive_avg_pool1d, "", 1, 1, adaptive_pool, SAME, none, adaptive_avg_pool,
         adaptive_avg_pool, each, AVG_POOL, 1, VRAM__OP_FLOATS, "output_size!");
VRAM__OP(adaptive_avg_pool2d, "", 1, 1, adaptive_pool, SAME, none, adaptive_avg_pool,
         adaptive_avg_pool, each, AVG_POOL, 2, VRAM__OP_FLOATS, "output_size!");
VRAM__OP(adaptive_avg_pool3d, "", 1, 1, adaptive_pool, SAME, none, adaptive_avg_pool,
         adaptive_avg_pool, each, AVG_POOL, 3, VRAM__OP_FLOATS, "output_size!");
VRAM__OP(adaptive_max_pool1d, "", 1, 1, adaptive_pool, SAME, none, adaptive_max_pool,
         adaptive_max_pool, each, MAX_POOL, 1, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "output_size! return_indices");
VRAM__OP(adaptive_max_pool2d, "", 1, 1, adaptive_pool, SAME, none, adaptive_max_pool,
         adaptive_max_pool, each, MAX_POOL, 2, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "output_size! return_indices");
VRAM__OP(adaptive_max_pool3d, "", 1, 1, adaptive_pool, SAME, none, adaptive_max_pool,
         adaptive_max_pool, each, MAX_POOL, 3, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "output_size! return_indices");
VRAM__OP_LINES(
    lp_pool1d, "", 1, 1, same, none, NONE, 1, VRAM__OP_REAL,
    "norm_type! kernel_size! stride ceil_mode",
    "pow a x0 scalar=1; avg_pool1d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d "
    "b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1");
VRAM__OP_LINES(
    lp_pool2d, "", 1, 1, same, none, NONE, 2, VRAM__OP_REAL,
    "norm_type! kernel_size! stride ceil_mode",
    "pow a x0 scalar=1; avg_pool2d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d "
    "b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1");
VRAM__OP_LINES(
    lp_pool3d, "", 1, 1, same, none, NONE, 3, VRAM__OP_REAL,
    "norm_type! kernel_size! stride ceil_mode",
    "pow a x0 scalar=1; avg_pool3d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d "
    "b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1");
VRAM__OP(fractional_max_pool2d, "", 1, 1, fractional_pool, SAME, none, fractional_max_pool,
         fractional_max_pool, each, NONE, 2, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! output_size output_ratio return_indices");
VRAM__OP(fractional_max_pool3d, "", 1, 1, fractional_pool, SAME, none, fractional_max_pool,
         fractional_max_pool, each, NONE, 3, VRAM__OP_FLOATS | VRAM__OP_REAL,
         "kernel_size! output_size output_ratio return_indices");
VRAM__OP(max_unpool1d, "", 2, 2, max_unpool, SAME, none, max_unpool, max_unpool, each, NONE, 1,
         VRAM__OP_NUMBERS | VRAM__OP_REAL, "kernel_size! stride padding output_size");
VRAM__OP(max_unpool2d, "", 2, 2, max_unpool, SAME, none, max_unpool, max_unpool, each, NONE, 2,
         VRAM__OP_NUMBERS | VRAM__OP_REAL, "kernel_size! stride padding output_size");
VRAM__OP(max_unpool3d, "", 2, 2, max_unpool, SAME, none, max_unpool, max_unpool, each, NONE, 3,
         VRAM__OP_NUMBERS | VRAM__OP_REAL, "kernel_size! stride padding output_size");
