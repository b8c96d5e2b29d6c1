/* >>net/low_image    lowering: convolutions, pools and interpolation */
#include "net/low.h"

/* What a node does to the axes behind its channels, up to three of them: of three the planes lie
   one below the other. */
typedef struct vram__low_image {
  uint32_t k, lead; /* how many there are, and the first */
  int64_t depth;    /* planes of the input, of three axes */
  const vram_dims *to;
  vram__hwc in, out;
} vram__low_image;

static vram__hwc vram__low_image_shape(const vram_dims *d, uint32_t lead, uint32_t k) {
  return vram__hwc_of(d->v[lead] * (k == 3 ? d->v[lead + 1] : 1), k > 1 ? d->v[lead + k - 1] : 1,
                      d->v[lead - 1]);
}

static int vram__low_image_of(vram__low *l, const vram_node *n, uint32_t k, vram__low_image *im) {
  if (k > 3)
    return vram__low_refuse(l, "no line has more than three axes beside the channels");
  im->k = k;
  im->lead = n->in[0]->d->ndim - k;
  im->depth = n->in[0]->d->v[im->lead];
  im->to = n->out[0].d;
  im->in = vram__low_image_shape(n->in[0]->d, im->lead, k);
  im->out = vram__low_image_shape(n->out[0].d, im->lead, k);
  return 1;
}

/* Memory of x as h, w, c. any: a channel may be of several atoms in whatever order. */
static int vram__low_image_order(vram__low *l, vram__low_value *x, const vram__low_image *im,
                                 int any) {
  uint32_t axes[4], i;
  for (i = 0; i < im->k; i++)
    axes[i] = im->lead + i;
  axes[i] = im->lead - 1;
  return vram__low_axes_order(l, x, axes, im->k + 1, any, im->in);
}

/* The sizes of the output's axes. */
static void vram__low_image_resize(vram__layout *y, const vram__low_image *im) {
  uint32_t i;
  for (i = 0; i < im->k; i++)
    vram__layout_resize(y, im->lead + i, im->to->v[im->lead + i]);
}

/* A key with one value, or one for each of k axes. */
static void vram__low_key(const vram_node *n, uint32_t key, uint32_t k, int64_t def, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__node_list(n, key, &c);
  for (i = 0; i < k; i++)
    to[i] = v ? v[c == 1 ? 0 : i] : def;
}

/* ---- convolutions ---- */

typedef struct vram__low_conv {
  vram__low_image im;
  int64_t kernel[3], stride[3], pad[3], dilation[3], output_padding[3];
  int64_t groups;
  int transposed, depthwise, dilated;
  int same; /* padding=same */
  int bias;
  int mine; /* the weights are this line's own, not another's */
  uint64_t weights;
  uint32_t x; /* the tensor that it reads */
} vram__low_conv;

static void vram__low_conv_read(const vram_node *n, vram__low_conv *c) {
  const uint32_t k = c->im.k;
  const int64_t in = c->im.in.c, out = c->im.out.c;
  uint32_t i;
  for (i = 0; i < 3; i++) {
    c->kernel[i] = 1;
    c->stride[i] = 1;
    c->pad[i] = 0;
    c->dilation[i] = 1;
    c->output_padding[i] = 0;
  }
  c->same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  vram__low_key(n, VRAM__KEY_kernel_size, k, 1, c->kernel);
  vram__low_key(n, VRAM__KEY_stride, k, 1, c->stride);
  vram__low_key(n, VRAM__KEY_dilation, k, 1, c->dilation);
  vram__low_key(n, VRAM__KEY_output_padding, k, 0, c->output_padding);
  if (!c->same)
    vram__low_key(n, VRAM__KEY_padding, k, 0, c->pad);
  c->groups = VRAM__INT(n, groups, 1);
  c->transposed = vram__op_is_transposed(n);
  c->depthwise = c->groups > 1 && c->groups == in && !c->transposed;
  c->dilated = c->dilation[0] != 1 || c->dilation[1] != 1 || c->dilation[2] != 1;
  c->bias = n->nin > 2 || (n->nin == 1 && VRAM__INT(n, bias, 1));
  c->weights = (uint64_t)(c->transposed ? in * (out / c->groups) : out * (in / c->groups)) *
               (uint64_t)(c->kernel[0] * c->kernel[1] * c->kernel[2]);
}

/* Whose weights they are. */
static int vram__low_conv_weights(vram__low *l, const vram_node *n, vram__low_conv *c) {
  if (n->nin == 1) {
    c->mine = vram__low_claim(l, n);
    return 1;
  }
  if (!vram__low_constant(l, n->in[1]))
    return vram__low_refuse(l, "its weight is computed from the input");
  c->mine = vram__low_take(l, n->in[1], c->weights) &&
            (n->nin == 2 || vram__low_take(l, n->in[2], (uint64_t)c->im.out.c));
  return 1;
}

/* Padding that is not of zeros is a line before it. */
static int vram__low_conv_pad(vram__low *l, const vram_node *n, vram__low_conv *c) {
  int64_t low[2], high[2];
  vram__hwc padded = c->im.in;
  vram__low_step *s;
  uint32_t i;
  if (VRAM__INT(n, padding_mode, VRAM__WORD(zeros)) == VRAM__WORD(zeros) ||
      (!c->pad[0] && !c->pad[1] && !c->pad[2] && !c->same))
    return 1;
  if (c->im.k == 3)
    return vram__low_refuse(l, "three axes whose padding is not of zeros: no line does that");
  for (i = 0; i < 2; i++) {
    const int64_t all = c->dilation[i] * (c->kernel[i] - 1);
    low[i] = c->same ? all / 2 : c->pad[i];
    high[i] = c->same ? all - all / 2 : c->pad[i];
    c->pad[i] = 0;
  }
  padded.h += low[0] + high[0];
  padded.w += low[1] + high[1];
  s = vram__low_layer(l, VRAM_LINE_PAD, padded, c->x, c->im.in);
  if (!s)
    return 0;
  s->suffix = "_pad";
  s->line.arg[0] = low[0];
  s->line.arg[1] = high[0];
  s->line.arg[2] = low[1];
  s->line.arg[3] = high[1];
  c->x = s->out;
  c->im.in = padded;
  return 1;
}

/* The layout of the result: new channels lie innermost. */
static int vram__low_conv_layout(vram__low *l, const vram__low_conv *c, vram__layout *y) {
  vram__low_image_resize(y, &c->im);
  if (!c->depthwise)
    y->loose = 0;
  if ((!c->depthwise || c->im.out.c != c->im.in.c) &&
      !vram__layout_inner(y, c->im.lead - 1, c->im.out.c))
    return vram__low_refuse(l, "too many axes");
  return 1;
}

static vram__low_step *vram__low_conv_custom(vram__low *l, const vram_node *n,
                                             const vram__low_conv *c) {
  const uint64_t biases = c->bias ? (uint64_t)c->im.out.c : 0;
  vram__low_step *s = vram__low_custom(l, n, c->im.out);
  if (!s)
    return NULL;
  if (c->mine) {
    s->line.arg[VRAM__CUSTOM_PARAMS] += (int64_t)(c->weights + biases);
    s->line.arg[VRAM__CUSTOM_BYTES] +=
        (int64_t)(vram__low_weight_bytes(l, c->weights) + vram__low_bias_bytes(l, biases) +
                  vram__low_scale_bytes(l, 1, (uint64_t)c->im.out.c));
  }
  s->line.arg[VRAM__CUSTOM_MACS] = (int64_t)(vram_node_flops(n) / 2);
  return s;
}

static void vram__low_pair_args(vram__low_step *s, uint32_t *i, const int64_t *pair) {
  s->line.arg[(*i)++] = pair[0];
  s->line.arg[(*i)++] = pair[1];
}

static void vram__low_padding(vram__low_step *s, const int64_t *pad, int same) {
  s->line.padding = same               ? VRAM_PADDING_SAME
                    : pad[0] || pad[1] ? VRAM_PADDING_PAD
                                       : VRAM_PADDING_VALID;
  s->line.pad_h = pad[0];
  s->line.pad_w = pad[1];
}

static vram__low_step *vram__low_conv3d_line(vram__low *l, const vram__low_conv *c) {
  vram__low_step *s = vram__low_layer(l, VRAM_LINE_CONV3D, c->im.out, c->x, c->im.in);
  uint32_t i, k = 0;
  if (!s)
    return NULL;
  s->line.arg[k++] = c->im.depth;
  s->line.arg[k++] = c->im.out.c;
  for (i = 0; i < 3; i++)
    s->line.arg[k++] = c->kernel[i];
  for (i = 0; i < 3; i++)
    s->line.arg[k++] = c->stride[i];
  s->line.arg[k++] = c->pad[0];
  s->line.arg[k] = c->bias;
  vram__low_padding(s, c->pad + 1, c->same);
  return s;
}

static vram__low_step *vram__low_conv_line(vram__low *l, const vram__low_conv *c) {
  const vram_line_kind kind = c->transposed                  ? VRAM_LINE_CONV_TRANSPOSE2D
                              : c->depthwise && c->dilated   ? VRAM_LINE_DEPTHWISE_CONV2D_FULL
                              : c->depthwise                 ? VRAM_LINE_DEPTHWISE_CONV2D
                              : c->dilated || c->groups != 1 ? VRAM_LINE_CONV2D_FULL
                                                             : VRAM_LINE_CONV2D;
  vram__low_step *s = vram__low_layer(l, kind, c->im.out, c->x, c->im.in);
  uint32_t i = 0;
  if (!s)
    return NULL;
  s->line.arg[i++] = c->depthwise ? c->im.out.c / c->im.in.c : c->im.out.c;
  vram__low_pair_args(s, &i, c->kernel);
  vram__low_pair_args(s, &i, c->stride);
  if (c->dilated || kind == VRAM_LINE_CONV2D_FULL)
    vram__low_pair_args(s, &i, c->dilation);
  if (kind == VRAM_LINE_CONV2D_FULL)
    s->line.arg[i++] = c->groups;
  if (c->transposed)
    vram__low_pair_args(s, &i, c->output_padding);
  s->line.arg[i] = c->bias;
  vram__low_padding(s, c->pad, c->same);
  return s;
}

VRAM__FN int vram__lower_conv(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__low_step *s;
  vram__low_conv c;
  vram__layout y;
  if (l->first)
    return vram__low_refuse(l, "its input is a constant");
  if (!vram__low_image_of(l, n, vram__op_axes(n), &c.im))
    return 0;
  vram__low_conv_read(n, &c);
  if (!vram__low_conv_weights(l, n, &c))
    return 0;
  if (c.im.lead == 2 && n->in[0]->d->v[0] != l->n)
    return vram__low_refuse(l, "its batch axis is not the batch of the network");
  if (!vram__low_image_order(l, x, &c.im, c.groups == 1 || c.groups == c.im.in.c))
    return 0;
  y = x->lay;
  c.x = x->at;
  if (!vram__low_conv_pad(l, n, &c) || !vram__low_conv_layout(l, &c, &y))
    return 0;
  if (!c.mine || ((c.transposed || c.im.k == 3) && (c.dilated || c.groups != 1)) ||
      (c.transposed && c.im.k == 3))
    s = vram__low_conv_custom(l, n, &c);
  else if (c.im.k == 3)
    s = vram__low_conv3d_line(l, &c);
  else
    s = vram__low_conv_line(l, &c);
  return s && vram__low_gives(l, s, n->out, &y);
}

/* ---- pools and interpolation ---- */

typedef struct vram__low_pool {
  int64_t kernel[3], stride[3], pad[3];
  int possible; /* a line has such windows */
} vram__low_pool;

/* The windows of an adaptive pool are those of a plain one where they divide the input. */
static void vram__low_pool_adaptive(const vram__low_image *im, vram__low_pool *p) {
  p->kernel[0] = im->in.h / im->out.h;
  p->kernel[1] = im->in.w / im->out.w;
  p->stride[0] = p->kernel[0];
  p->stride[1] = p->kernel[1];
  p->pad[0] = 0;
  p->pad[1] = 0;
  p->possible = im->k < 3 && im->in.h % im->out.h == 0 && im->in.w % im->out.w == 0;
}

static void vram__low_pool_read(const vram_node *n, uint32_t k, vram__low_pool *p) {
  int64_t dilation[3] = {1, 1, 1};
  uint32_t i;
  for (i = 0; i < 3; i++) {
    p->kernel[i] = 1;
    p->pad[i] = 0;
  }
  vram__low_key(n, VRAM__KEY_kernel_size, k, 1, p->kernel);
  for (i = 0; i < 3; i++)
    p->stride[i] = p->kernel[i];
  if (vram__node_list(n, VRAM__KEY_stride, NULL))
    vram__low_key(n, VRAM__KEY_stride, k, 1, p->stride);
  vram__low_key(n, VRAM__KEY_padding, k, 0, p->pad);
  vram__low_key(n, VRAM__KEY_dilation, k, 1, dilation);
  p->possible = k < 3 && dilation[0] == 1 && dilation[1] == 1;
}

static vram__low_step *vram__low_pool_line(vram__low *l, const vram_node *n, uint32_t x,
                                           const vram__low_image *im, const vram__low_pool *p) {
  vram__low_step *s =
      vram__low_layer(l,
                      vram__op_at(n->op)->lower == VRAM__LOWER_MAX_POOL ? VRAM_LINE_MAX_POOL2D
                                                                        : VRAM_LINE_AVG_POOL2D,
                      im->out, x, im->in);
  uint32_t i = 0;
  if (!s)
    return NULL;
  vram__low_pair_args(s, &i, p->kernel);
  vram__low_pair_args(s, &i, p->stride);
  vram__low_padding(s, p->pad, 0);
  if (VRAM__INT(n, ceil_mode, 0))
    s->line.padding = VRAM_PADDING_PAD_CEIL;
  return s;
}

VRAM__FN int vram__lower_pool(vram__low *l, const vram_node *n) {
  const int max = vram__op_at(n->op)->lower == VRAM__LOWER_MAX_POOL;
  const int adaptive = vram__node_list(n, VRAM__KEY_output_size, NULL) != NULL;
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__low_step *s;
  vram__low_image im;
  vram__low_pool p;
  vram__layout y;
  if (n->nout > 1 && l->value[n->out[1].index].need)
    return vram__low_refuse(l, "its indices are used");
  if (!vram__low_image_of(l, n, vram__op_axes(n), &im) || !vram__low_image_order(l, x, &im, 1))
    return 0;
  if (adaptive && vram__hwc_equal(im.in, im.out))
    return vram__low_same(l, n->out, x);
  y = x->lay;
  y.loose = 0;
  vram__low_image_resize(&y, &im);
  if (adaptive)
    vram__low_pool_adaptive(&im, &p);
  else
    vram__low_pool_read(n, im.k, &p);
  if (adaptive && im.out.h == 1 && im.out.w == 1)
    s = vram__low_layer(l, max ? VRAM_LINE_GLOBAL_MAX_POOL2D : VRAM_LINE_GLOBAL_AVG_POOL2D, im.out,
                        x->at, im.in);
  else if (!p.possible)
    s = vram__low_custom(l, n, im.out);
  else
    s = vram__low_pool_line(l, n, x->at, &im, &p);
  return s && vram__low_gives(l, s, n->out, &y);
}

VRAM__FN int vram__lower_interpolate(vram__low *l, const vram_node *n) {
  const int64_t mode = VRAM__INT(n, mode, VRAM__WORD(nearest));
  vram__low_value *x = vram__low_of(l, n->in[0]);
  vram__low_step *s;
  vram__low_image im;
  vram__layout y;
  if (!vram__low_image_of(l, n, n->in[0]->d->ndim - 2u, &im) ||
      !vram__low_image_order(l, x, &im, 1))
    return 0;
  y = x->lay;
  y.loose = 0;
  vram__low_image_resize(&y, &im);
  if ((mode == VRAM__WORD(nearest) || mode == VRAM__WORD(nearest_exact)) && im.k < 3 &&
      im.out.h % im.in.h == 0 && im.out.w % im.in.w == 0) {
    s = vram__low_layer(l, VRAM_LINE_UPSAMPLE2D, im.out, x->at, im.in);
    if (!s)
      return 0;
    s->line.arg[0] = im.out.h / im.in.h;
    s->line.arg[1] = im.out.w / im.in.w;
  } else
    s = vram__low_custom(l, n, im.out);
  return s && vram__low_gives(l, s, n->out, &y);
}
