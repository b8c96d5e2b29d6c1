/* >>ops/resample    interpolate, pixel_shuffle, grid_sample, fold */
#include "ops/ops.h"

enum { VRAM__RESAMPLE_UP = 1, VRAM__RESAMPLE_FOLD }; /* kind of a row */

static int vram__shape_interpolate(vram_graph *g, vram_node *n) {
  static const struct {
    uint8_t word, least, most, aa;
  } modes[] = {{VRAM__IS_nearest, 3, 5, 0}, {VRAM__IS_nearest_exact, 3, 5, 0},
               {VRAM__IS_linear, 3, 3, 0},  {VRAM__IS_bilinear, 4, 4, 1},
               {VRAM__IS_bicubic, 4, 4, 1}, {VRAM__IS_trilinear, 5, 5, 0},
               {VRAM__IS_area, 3, 5, 0}};
  const vram_dims *x = n->in[0]->d;
  uint32_t k = x->ndim - 2u, i, c;
  int64_t to[3], word = VRAM__INT(n, mode, VRAM__WORD(nearest));
  const int64_t *v = vram__node_list(n, VRAM__KEY_scale_factor, &c);
  if (x->ndim < 3 || x->ndim > 5)
    return vram__node_error(g, n, "interpolate of a tensor that has not 3, 4 or 5 axes");
  if (word != VRAM__WORD(area) && !vram__axes_filled(g, n, 1))
    return 0;
  for (i = 0; i < 7; i++)
    if (word == modes[i].word)
      break;
  if (i == 7)
    return vram__node_error(g, n,
                            "an unknown mode (nearest, nearest-exact, linear, bilinear, bicubic, "
                            "trilinear, area)");
  if (x->ndim < modes[i].least || x->ndim > modes[i].most)
    return vram__node_error(g, n, "a mode for another number of axes");
  if (VRAM__INT(n, antialias, 0) && !modes[i].aa)
    return vram__node_error(g, n, "antialias needs mode bilinear or bicubic");
  if (!v == !vram__node_list(n, VRAM__KEY_size, NULL))
    return vram__node_error(g, n, "one of size and scale_factor is needed");
  if (!v)
    return vram__axes(g, n, VRAM__KEY_size, k, 1, 1, to) && vram__shape_resize(g, n, k, to);
  if (c != 1 && c != k)
    return vram__node_error(g, n, "scale_factor has another number of axes");
  for (i = 0; i < k; i++) {
    to[i] = vram__shape_times(x->v[2 + i], v[c == 1 ? 0 : i]);
    if (to[i] < 1)
      return vram__node_error(g, n, "a result without elements, or one beyond 63 bits");
  }
  return vram__shape_resize(g, n, k, to);
}

static int vram__shape_pixel(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int up = vram__op_at(n->op)->kind == VRAM__RESAMPLE_UP;
  int64_t r = up ? VRAM__INT(n, upscale_factor, 0) : VRAM__INT(n, downscale_factor, 0), to[3];
  if (x->ndim < 3)
    return vram__node_error(g, n, "a tensor of fewer than 3 axes");
  to[0] = x->v[x->ndim - 3];
  to[1] = x->v[x->ndim - 2];
  to[2] = x->v[x->ndim - 1];
  if (r < 1 || r > 65535 || (up ? to[0] % (r * r) : to[1] % r || to[2] % r))
    return vram__node_error(g, n, "sizes that the factor does not divide");
  if (up ? to[1] > INT64_MAX / r || to[2] > INT64_MAX / r : to[0] > INT64_MAX / (r * r))
    return vram__node_error(g, n, "a result beyond 63 bits");
  if (up) {
    to[0] /= r * r;
    to[1] *= r;
    to[2] *= r;
  } else {
    to[0] *= r * r;
    to[1] /= r;
    to[2] /= r;
  }
  return vram__shape_resize(g, n, 3, to);
}

/* unfold: [N, C, H, W] to [N, C kh kw, L]; fold: back. */
static int vram__shape_fold(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int back = vram__op_at(n->op)->kind == VRAM__RESAMPLE_FOLD;
  uint32_t i, lead = vram__axis_lead(g, n, back ? 1 : 2);
  int64_t kernel[2], stride[2], pad[2], dil[2], hw[2], size[4], windows = 1, area;
  if (!lead || !vram__axes_filled(g, n, lead - 1) ||
      !vram__shape_window(g, n, VRAM__KEY_kernel_size, 2, 1, kernel) ||
      !vram__shape_window(g, n, VRAM__KEY_stride, 2, 1, stride) ||
      !vram__shape_window(g, n, VRAM__KEY_padding, 2, 0, pad) ||
      !vram__shape_window(g, n, VRAM__KEY_dilation, 2, 1, dil))
    return 0;
  if (back && !vram__shape_window(g, n, VRAM__KEY_output_size, 2, 1, hw))
    return 0;
  if (!back && vram__kind_rank(n->in[0]->dtype) == 1)
    return vram__node_error(g, n, "a tensor of integers");
  if (kernel[0] > 65535 || kernel[1] > 65535)
    return vram__node_error(g, n, "a window beyond 16 bits");
  area = kernel[0] * kernel[1];
  for (i = 0; i < 2; i++) {
    int64_t r;
    if (!back)
      hw[i] = x->v[lead + i];
    r = hw[i] + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0)
      return vram__node_error(g, n, "a kernel larger than its padded input");
    if (windows > INT64_MAX / (r / stride[i] + 1))
      return vram__node_error(g, n, "a result beyond 63 bits");
    windows *= r / stride[i] + 1;
  }
  size[0] = x->v[0];
  if (back) {
    if (x->v[lead] != windows || x->v[lead - 1] % area)
      return vram__node_error(g, n, "windows that do not make up output_size");
    size[lead - 1] = x->v[lead - 1] / area;
    size[lead] = hw[0];
    size[lead + 1] = hw[1];
    return vram__node_out(g, n, 0, lead + 2, size, n->in[0]->dtype);
  }
  if (x->v[lead - 1] > INT64_MAX / area)
    return vram__node_error(g, n, "a result beyond 63 bits");
  size[lead - 1] = x->v[lead - 1] * area;
  size[lead] = windows;
  return vram__node_out(g, n, 0, lead + 1, size, n->in[0]->dtype);
}

static int vram__shape_grid_sample(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k = x->ndim - 2u;
  if (x->ndim < 4 || x->ndim > 5 || d->ndim != x->ndim || d->v[0] != x->v[0] ||
      d->v[d->ndim - 1] != k)
    return vram__node_error(g, n,
                            "grid_sample needs [N,C,H,W] and [N,h,w,2], or an axis more and 3");
  if (!vram__axes_filled(g, n, 2))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = i < 2 ? x->v[i] : d->v[i - 1];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* ---- resampling ---- */

enum {
  VRAM__UP_NEAREST,
  VRAM__UP_LINEAR, /* linear, bilinear, trilinear */
  VRAM__UP_BICUBIC,
  VRAM__UP_AREA,
  VRAM__UP_AA,  /* with antialias=1 */
  VRAM__UP_COPY /* to the size that it has */
};

static uint32_t vram__interpolate_mode(const vram_node *n) {
  int64_t w = VRAM__INT(n, mode, VRAM__WORD(nearest));
  if (VRAM__INT(n, antialias, 0))
    return VRAM__UP_AA;
  return w == VRAM__WORD(nearest) || w == VRAM__WORD(nearest_exact) ? VRAM__UP_NEAREST
         : w == VRAM__WORD(area)                                    ? VRAM__UP_AREA
         : w == VRAM__WORD(bicubic)                                 ? VRAM__UP_BICUBIC
                                                                    : VRAM__UP_LINEAR;
}

static void vram__forward_interpolate(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  uint32_t mode = vram__interpolate_mode(n), k = x[0].d->ndim - 2u;
  const vram_dims *d = n->out[0].d;
  int cl = vram__suggests_cl(x[0].d);
  vram__tensor a, c, t = vram__tensor_none();
  vram__grad_fn *f;
  if (mode == VRAM__UP_AREA) {
    a = x[0];
    if (k == 1) {
      a = vram__torch_unsqueeze(s, a, 2);
      d = vram__dims_unsqueezed(s, d, 2);
    }
    y[0] = vram__torch_adaptive_avg(s, a, d, k == 3 ? 3 : 2);
    if (k == 1) {
      vram__tensor_release(s, a);
      c = vram__torch_squeeze1(s, y[0], 2);
      vram__tensor_release(s, y[0]);
      y[0] = c;
    }
    return;
  }
  a = s->amp && (s->device.rules->does & VRAM__UPSAMPLE_F32)
          ? vram__autocast_cast(s, x[0], VRAM_F32)
          : vram__tensor_retain(s, x[0]);
  f = vram__tape_record(s, n->op, &a, 1, 1, 0);
  if (f)
    f->aux = mode;
  y[0] = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), a.dt);
  if (k == 2 && (mode == VRAM__UP_NEAREST || mode == VRAM__UP_LINEAR) && a.d->v[2] == d->v[2] &&
      a.d->v[3] == d->v[3]) { /* UpSampleNearest2d.cu, UpSampleBilinear2d.cu: copy_ */
    if (f)
      f->aux = VRAM__UP_COPY;
  } else if (mode == VRAM__UP_NEAREST || mode == VRAM__UP_AA) {
    int native = cl && k == 2 && mode == VRAM__UP_NEAREST && x[0].d->v[1] >= 4;
    if (cl && !native)
      t = vram__tensor_contiguous(s, y[0]);
    c = vram__tensor_in_format(s, a, native);
    vram__tensor_release(s, c);
    vram__tensor_release(s, t);
  } else if (mode == VRAM__UP_LINEAR && k == 2 && cl && x[0].d->v[1] >= 16) {
    c = vram__tensor_in_format(s, a,
                               1); /* UpSampleBilinear2d.cu: fewer channels are read by strides */
    vram__tensor_release(s, c);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, a);
}

static void vram__backward_interpolate(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, c, t = vram__tensor_none();
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  int cl = vram__suggests_cl(g.d), native = cl && d->ndim == 4 && d->v[1] >= 4;
  if (f->aux == VRAM__UP_BICUBIC || f->aux == VRAM__UP_AA ||
      (f->aux == VRAM__UP_NEAREST && d->ndim == 5))
    cl = native = 0;
  to[0] = vram__tensor_empty(s, vram__tensor_formatted(s, d, cl), g.dt);
  if (f->aux == VRAM__UP_COPY)
    return;
  if (cl && !native && d->ndim == 4)
    t = vram__tensor_contiguous(s, to[0]);
  c = vram__tensor_in_format(s, g, native);
  if (cl && d->ndim == 5) { /* UpSampleTrilinear3d.cu: the other way round */
    t = vram__tensor_contiguous(s, to[0]);
    vram__tensor_release(s, t);
    t = vram__tensor_none();
  }
  vram__tensor_release(s, c);
  vram__tensor_release(s, t);
}

/* PixelShuffle.cpp: views and a contiguous clone */
static void vram__forward_pixel(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_pixel(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)),
                             VRAM__SLOTS(f)[0].g.dt);
}

/* GridSampler.cpp; the grid's gradient is made whether it is wanted or not */
static void vram__forward_grid_sample(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  vram__tensor a[2];
  vram__grad_fn *f;
  uint32_t own;
  a[0] = x[0];
  a[1] = x[1];
  own = vram__autocast_list(s, VRAM__AUTOCAST_widest, a, 2);
  vram__refuse_unlike(s, a, 2);
  f = vram__tape_record(s, n->op, a, 2, 1, 2);
  if (f) {
    vram__save_tensor(s, f, a[1]);
    vram__save_tensor(s, f, a[0]);
  }
  y[0] = vram__tensor_empty(s, n->out[0].d, a[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__autocast_release(s, a, own);
}

static void vram__backward_grid_sample(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor x = VRAM__SAVED(f)[1], grid = VRAM__SAVED(f)[0], t;
  if (vram__input_wanted(f, 0))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
  t = vram__tensor_empty(s, vram__dims_contiguous(s, grid.d), grid.dt);
  if (vram__input_wanted(f, 1))
    to[1] = t;
  else
    vram__tensor_release(s, t);
}

/* Im2Col.cu, Col2Im.cu: the result begins as a tensor like x and is resized; a storage never
   shrinks. */
static vram__tensor vram__dims_resized(vram__step *s, vram__tensor x, const vram_dims *d) {
  vram__tensor y = vram__tensor_empty(s, vram__dims_dense(s, x.d), x.dt),
               c = vram__tensor_contiguous(s, x), z;
  uint64_t have = vram__dims_bytes_of(x.d, x.dt), need = vram__dims_bytes_of(d, x.dt);
  if (need > have) {
    z = vram__tensor_empty(s, d, x.dt);
    vram__tensor_release(s, y);
    y = z;
  } else
    y.d = d;
  vram__tensor_release(s, c);
  return y;
}

static void vram__forward_fold(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__dims_resized(s, x[0], n->out[0].d);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_fold(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__dims_resized(s, VRAM__SLOTS(f)[0].g,
                             vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)));
}

#endif /* VRAM_NO_STEP */

VRAM__OP(interpolate, "", 1, 1, interpolate, SAME, none, interpolate, interpolate, each,
         INTERPOLATE, 0, VRAM__OP_REAL | VRAM__OP_FLOATS,
         "size scale_factor mode align_corners antialias");
VRAM__OP(pixel_shuffle, "pixel_shuffle!: x upscale_factor", 1, 1, pixel, SAME, none, pixel, pixel,
         each, SHUFFLE, VRAM__RESAMPLE_UP, 0, "upscale_factor!");
VRAM__OP(pixel_unshuffle, "pixel_unshuffle!: x downscale_factor", 1, 1, pixel, SAME, none, pixel,
         pixel, each, SHUFFLE, 0, 0, "downscale_factor!");
VRAM__OP(grid_sample, "grid_sampler: x grid", 2, 2, grid_sample, SAME, widest, grid_sample,
         grid_sample, each, ANY, 0, VRAM__OP_REAL | VRAM__OP_FLOATS,
         "mode padding_mode align_corners");
VRAM__OP(unfold, "im2col!: x kernel_size:axes dilation:axes padding:axes stride:axes", 1, 1, fold,
         SAME, none, fold, fold, each, NONE, 0, 0, "kernel_size! dilation padding stride");
VRAM__OP(fold,
         "col2im!: x output_size:axes kernel_size:axes dilation:axes padding:axes stride:axes", 1,
         1, fold, SAME, none, fold, fold, each, NONE, VRAM__RESAMPLE_FOLD, VRAM__OP_FLOATS,
         "output_size! kernel_size! dilation padding stride");
