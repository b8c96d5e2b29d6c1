/* >>net/low_nodes    lowering: one function for each kind of node */
#include "net/low.h"

/* A key with one value, or one for each of k axes. */
static void vram__low_key(const vram_node *n, uint32_t key, uint32_t k, int64_t def, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__node_list(n, key, &c);
  for (i = 0; i < k; i++)
    to[i] = v ? v[c == 1 ? 0 : i] : def;
}

/* A CUSTOM step that reads all tensors among n's inputs, and keeps its constants. */
VRAM__FN vram__low_step *vram__low_custom(vram__low *l, const vram_node *n, int64_t h, int64_t w,
                                          int64_t c) {
  vram__low_step *s = vram__low_step_new(l, n, VRAM_LINE_CUSTOM, h, w, c);
  uint32_t i;
  if (!s)
    return NULL;
  s->how = VRAM__LOW_MANY;
  s->line.arg[0] = h, s->line.arg[1] = w, s->line.arg[2] = c;
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *x = vram__low_of(l, n->in[i]);
    if (x->kind == VRAM__LOW_TENSOR && !vram__low_read(l, s, x->at, 0, 0, 0))
      return NULL;
  }
  vram__low_store(l, n, s);
  return s;
}

/* Anything that reads its inputs and writes one new tensor: laid out as its first input where that
   has as many axes, else as its axes stand. */
VRAM__FN int vram__low_any(vram__low *l, const vram_node *n, uint64_t params, uint64_t bytes,
                           uint64_t macs, uint64_t scratch) {
  const vram_dims *d = n->out[0].d;
  const vram__low_value *x = NULL;
  vram__layout y;
  vram__low_step *s;
  uint32_t order[VRAM_MAX_AXES], i, k;
  const int64_t all = (int64_t)d->numel / l->n;
  int64_t h, w, c;
  const int batch = l->n > 1;
  int same = 0, changed = 0;
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_refuse(l, n, "its result is not floating point: no line has such values");
  if (!d->numel)
    return vram__low_refuse(l, n, "a value of no elements");
  for (i = 0; i < n->nin && !x; i++)
    if (vram__low_of(l, n->in[i])->kind == VRAM__LOW_TENSOR) {
      x = vram__low_of(l, n->in[i]);
      same = n->in[i]->d->ndim == d->ndim;
    }
  if (!x)
    return vram__low_refuse(l, n, "it has no input");
  y = x->lay;
  h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c;
  for (i = 0; i < d->ndim && same; i++) {
    const int64_t was =
        vram__layout_of(&y, UINT32_C(1) << i) * (y.batch && y.axis[0] == i ? l->n : 1);
    if (was == d->v[i])
      continue;
    changed = 1;
    same = !(y.batch && y.axis[0] == i) && vram__layout_resize(&y, i, d->v[i]);
  }
  if (!same) {
    for (i = 0; i < d->ndim; i++)
      order[i] = i;
    if (batch && (!d->ndim || d->v[0] % l->n))
      return vram__low_refuse(l, n,
                              "its result has not the batch of the network as its first axis");
    vram__layout_make(&y, d, order, 0, batch && d->v[0] == l->n);
    if (batch && d->v[0] != l->n) { /* the batch and more in one axis */
      if (!vram__layout_split(&y, 0, l->n))
        return vram__low_refuse(l, n, "too many axes");
      y.batch = 1;
    }
  }
  if (!same || changed) {
    for (c = 1, k = y.n; k > y.batch && y.axis[k - 1] == y.axis[y.n - 1]; k--)
      c *= y.size[k - 1];
    h = all / c, w = 1;
  }
  y.loose = 0;
  s = vram__low_custom(l, n, h, w, c);
  if (!s)
    return 0;
  s->line.arg[3] += (int64_t)params;
  s->line.arg[4] += (int64_t)bytes;
  s->line.arg[5] = (int64_t)macs;
  s->line.arg[6] = (int64_t)scratch;
  return vram__low_gives(l, s, n->out, &y);
}

/* One input, one output of the same shape; in place where that is possible. */
static int vram__low_pointwise(vram__low *l, const vram_node *n, vram__low_value *x,
                               vram_line_kind kind) {
  vram__low_step *s =
      vram__low_step_new(l, n, kind, l->tensor[x->at].h, l->tensor[x->at].w, l->tensor[x->at].c);
  return s && vram__low_read(l, s, x->at, 0, 0, 0) && vram__low_gives(l, s, n->out, &x->lay);
}

static int vram__low_norm(vram__low *l, const vram_node *n, vram__low_value *x) {
  const uint64_t c =
      n->op == VRAM_OP_batch_norm || n->op == VRAM_OP_group_norm || n->op == VRAM_OP_instance_norm
          ? (uint64_t)n->in[0]->d->v[1]
          : 0;
  uint64_t elements = 0, count;
  uint32_t i, axes = 2, bn = n->op == VRAM_OP_batch_norm, own = 0;
  int mine = vram__low_claim(l, n);
  int64_t h, w, z;
  vram__low_step *s;
  if (!bn && !c) {
    vram__node_list(n, VRAM__KEY_normalized_shape, &own);
    for (i = 0, axes = 0; i < own; i++)
      axes |= UINT32_C(1) << (n->in[0]->d->ndim - 1 - i);
  }
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      elements += n->param[i]->d->ndim ? n->param[i]->d->numel : 0;
  if (n->op == VRAM_OP_group_norm || n->op == VRAM_OP_instance_norm)
    return vram__low_any(l, n, mine ? elements : 0, mine ? vram__low_bias_bytes(l, elements) : 0, 0,
                         0);
  if (!vram__low_last(l, n, x, axes, 0, &h, &w, &z))
    return 0;
  count = (uint64_t)z * (bn ? 4 : n->op == VRAM_OP_layer_norm ? 2 : 1);
  if (!mine || elements != count || n->nin > 1)
    return vram__low_any(l, n, mine ? elements : 0, mine ? vram__low_bias_bytes(l, elements) : 0, 0,
                         0);
  s = vram__low_step_new(l, n,
                         bn                            ? VRAM_LINE_BATCH_NORM
                         : n->op == VRAM_OP_layer_norm ? VRAM_LINE_LAYER_NORM
                                                       : VRAM_LINE_RMS_NORM,
                         h, w, z);
  return s && vram__low_read(l, s, x->at, h, w, z) && vram__low_gives(l, s, n->out, &x->lay);
}

/* A constant as the weight of a linear or convolution: 1: nobody has stored it; now this has. */
static int vram__low_take(vram__low *l, const vram_value *v, uint64_t elements) {
  vram__low_value *k = vram__low_constant(l, v);
  if (!k || k->params != elements || k->elements != elements)
    return 0;
  k->params = k->elements = 0;
  return 1;
}

static int vram__low_conv(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *y = n->out[0].d;
  const uint32_t k = vram__op_axes(n), lead = d->ndim - k;
  const int transposed = vram__op_is_transposed(n);
  const int64_t c = d->v[lead - 1], oc = y->v[lead - 1], groups = VRAM__INT(n, groups, 1),
                mode = VRAM__INT(n, padding_mode, VRAM__WORD("zeros"));
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dil[3] = {1, 1, 1},
          more[3] = {0, 0, 0}, h, w, z;
  int bias = n->nin > 2 || (n->nin == 1 && VRAM__INT(n, bias, 1)), mine, full, depthwise;
  const int same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  const uint64_t elements = (uint64_t)(transposed ? c * (oc / groups) : oc * (c / groups));
  uint64_t weights;
  uint32_t axes[3], i, batch = lead == 2;
  vram__low_step *s;
  vram__low_value padded;
  vram__layout out;
  if (k == 3)
    return vram__low_refuse(l, n,
                            "no line has three axes beside the channels (possible: 1d and 2d)");
  vram__low_key(n, VRAM__KEY_kernel_size, k, 1, kernel);
  vram__low_key(n, VRAM__KEY_stride, k, 1, stride);
  vram__low_key(n, VRAM__KEY_dilation, k, 1, dil);
  vram__low_key(n, VRAM__KEY_output_padding, k, 0, more);
  if (!same)
    vram__low_key(n, VRAM__KEY_padding, k, 0, pad);
  weights = elements * (uint64_t)(kernel[0] * kernel[1]);
  if (n->nin == 1)
    mine = vram__low_claim(l, n);
  else {
    if (!vram__low_constant(l, n->in[1]))
      return vram__low_refuse(l, n, "its weight is computed from the input");
    mine = vram__low_take(l, n->in[1], weights) &&
           (n->nin == 2 || vram__low_take(l, n->in[2], (uint64_t)oc));
  }
  if (batch && d->v[0] != l->n)
    return vram__low_refuse(l, n, "its batch axis is not the batch of the network");
  h = d->v[lead], w = k == 2 ? d->v[lead + 1] : 1;
  axes[0] = lead, axes[1] = k == 2 ? lead + 1 : lead - 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, groups == 1 || groups == c, h, w, c))
    return 0;
  if (mode != VRAM__WORD("zeros") && (pad[0] || pad[1] || same)) {
    int64_t low[2], high[2];
    for (i = 0; i < 2; i++) {
      const int64_t all = dil[i] * (kernel[i] - 1);
      low[i] = same ? all / 2 : pad[i], high[i] = same ? all - all / 2 : pad[i];
    }
    s = vram__low_step_new(l, n, VRAM_LINE_PAD, h + low[0] + high[0], w + low[1] + high[1], c);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->suffix = "_pad";
    s->line.arg[0] = low[0], s->line.arg[1] = high[0];
    s->line.arg[2] = low[1], s->line.arg[3] = high[1];
    h += low[0] + high[0], w += low[1] + high[1];
    padded = *x; /* others read x as it was */
    padded.at = s->out;
    x = &padded;
    pad[0] = pad[1] = 0;
    out = x->lay;
    vram__layout_resize(&out, lead, h);
    if (k == 2)
      vram__layout_resize(&out, lead + 1, w);
  } else
    out = x->lay;
  for (i = 0; i < k; i++)
    vram__layout_resize(&out, lead + i, y->v[lead + i]);
  depthwise = groups > 1 && groups == c && !transposed;
  if (!depthwise) {
    vram__layout_resize(&out, lead - 1, 1);
    out.loose = 0;
  }
  /* the new channels lie innermost */
  if (depthwise ? oc != c : oc > 1) {
    vram__layout_resize(&out, lead - 1, 1);
    if (!vram__layout_room(&out, out.n))
      return vram__low_refuse(l, n, "too many axes");
    out.axis[out.n - 1] = (uint8_t)(lead - 1);
    out.place[out.n - 1] = 0;
    out.size[out.n - 1] = oc;
    vram__layout_number(&out);
  }
  z = k == 2 ? y->v[lead + 1] : 1;
  full = dil[0] != 1 || dil[1] != 1;
  if (!mine || (transposed && (full || groups != 1))) {
    const uint64_t bytes = vram__low_weight_bytes(l, weights) +
                           vram__low_bias_bytes(l, bias ? (uint64_t)oc : 0) +
                           vram__low_scale_bytes(l, 1, (uint64_t)oc);
    s = vram__low_custom(l, n, y->v[lead], z, oc);
    if (!s)
      return 0;
    if (mine) {
      s->line.arg[3] += (int64_t)(weights + (uint64_t)(bias ? oc : 0));
      s->line.arg[4] += (int64_t)bytes;
    }
    s->line.arg[5] = (int64_t)(vram_node_flops(n) / 2);
    return vram__low_gives(l, s, n->out, &out);
  }
  s = vram__low_step_new(l, n,
                         transposed            ? VRAM_LINE_CONV_TRANSPOSE2D
                         : depthwise && full   ? VRAM_LINE_DEPTHWISE_CONV2D_FULL
                         : depthwise           ? VRAM_LINE_DEPTHWISE_CONV2D
                         : full || groups != 1 ? VRAM_LINE_CONV2D_FULL
                                               : VRAM_LINE_CONV2D,
                         y->v[lead], z, oc);
  if (!s || !vram__low_read(l, s, x->at, h, w, c))
    return 0;
  i = 0;
  s->line.arg[i++] = depthwise ? oc / c : oc;
  s->line.arg[i++] = kernel[0], s->line.arg[i++] = kernel[1];
  s->line.arg[i++] = stride[0], s->line.arg[i++] = stride[1];
  if (full || s->line.kind == VRAM_LINE_CONV2D_FULL)
    s->line.arg[i++] = dil[0], s->line.arg[i++] = dil[1];
  if (s->line.kind == VRAM_LINE_CONV2D_FULL)
    s->line.arg[i++] = groups;
  if (transposed)
    s->line.arg[i++] = more[0], s->line.arg[i++] = more[1];
  s->line.arg[i] = bias;
  s->line.padding = same               ? VRAM_PADDING_SAME
                    : pad[0] || pad[1] ? VRAM_PADDING_PAD
                                       : VRAM_PADDING_VALID;
  s->line.pad_h = pad[0], s->line.pad_w = pad[1];
  return vram__low_gives(l, s, n->out, &out);
}

/* y = x w (+ b): linear, or a product with a constant matrix. */
static int vram__low_linear(vram__low *l, const vram_node *n, vram__low_value *x, int mine,
                            uint64_t bias) {
  const vram_dims *d = n->out[0].d;
  const uint32_t a = n->in[n->op == VRAM_OP_addmm ? 1 : 0]->d->ndim - 1u;
  const int64_t out = d->v[d->ndim - 1];
  int64_t h, w, c;
  vram__layout y;
  vram__low_step *s;
  if (!vram__low_last(l, n, x, UINT32_C(1) << a, 0, &h, &w, &c))
    return 0;
  y = x->lay;
  vram__layout_resize(&y, a, 1);
  y.loose = 0;
  if (out > 1) {
    if (!vram__layout_room(&y, y.n))
      return vram__low_refuse(l, n, "too many axes");
    y.axis[y.n - 1] = (uint8_t)a;
    y.place[y.n - 1] = 0;
    y.size[y.n - 1] = out;
    y.loose = UINT32_C(1) << (y.n - 1);
    vram__layout_number(&y);
  }
  if (mine) {
    s = vram__low_step_new(l, n, VRAM_LINE_LINEAR, h, w, out);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->line.arg[0] = out, s->line.arg[1] = bias != 0;
  } else { /* the weights are another line's */
    s = vram__low_step_new(l, n, VRAM_LINE_CUSTOM, h, w, out);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->how = VRAM__LOW_MANY;
    s->line.arg[0] = h, s->line.arg[1] = w, s->line.arg[2] = out;
    s->line.arg[3] = (int64_t)bias;
    s->line.arg[4] = (int64_t)vram__low_bias_bytes(l, bias);
    s->line.arg[5] = (int64_t)(vram_node_flops(n) / 2);
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* linear, with its own parameters or given ones */
static int vram__low_linear_node(vram__low *l, const vram_node *n, vram__low_value *x) {
  const uint64_t out = (uint64_t)n->out[0].d->v[n->out[0].d->ndim - 1];
  uint64_t bias = 0;
  int mine = 1;
  if (n->nin > 1) {
    const vram__low_value *w = vram__low_constant(l, n->in[1]);
    if (!w)
      return vram__low_refuse(l, n, "its weight is computed from the input");
    mine = vram__low_take(l, n->in[1], n->in[1]->d->numel);
    if (n->nin > 2 && vram__low_take(l, n->in[2], out))
      bias = out;
    return vram__low_linear(l, n, x, mine, bias);
  }
  /* of tied weights the bias may be its own */
  if (n->nparam > 1 && n->param[1] && !l->claimed[n->param[1]->index])
    bias = out;
  mine = vram__low_claim(l, n);
  return vram__low_linear(l, n, x, mine, bias);
}

static int vram__low_pool(vram__low *l, const vram_node *n, vram__low_value *x, int max) {
  const vram_dims *d = n->in[0]->d, *y = n->out[0].d;
  const uint32_t k = vram__op_axes(n), lead = d->ndim - k;
  const int adaptive = n->op >= VRAM_OP_adaptive_avg_pool1d && n->op <= VRAM_OP_adaptive_max_pool3d;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dil[3] = {1, 1, 1},
          in[2] = {1, 1}, out[2] = {1, 1}, c = d->v[lead - 1];
  uint32_t axes[3], i;
  vram__layout lay;
  vram__low_step *s;
  if (k == 3)
    return vram__low_refuse(l, n,
                            "no line has three axes beside the channels (possible: 1d and 2d)");
  for (i = 0; i < k; i++)
    in[i] = d->v[lead + i], out[i] = y->v[lead + i];
  axes[0] = lead, axes[1] = k == 2 ? lead + 1 : lead - 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, 1, in[0], in[1], c))
    return 0;
  lay = x->lay;
  lay.loose = 0;
  for (i = 0; i < k; i++)
    vram__layout_resize(&lay, lead + i, out[i]);
  if (adaptive && out[0] == in[0] && out[1] == in[1]) {
    return vram__low_same(l, n->out, x);
  }
  if (adaptive && out[0] == 1 && out[1] == 1) {
    s = vram__low_step_new(l, n, max ? VRAM_LINE_GLOBAL_MAX_POOL2D : VRAM_LINE_GLOBAL_AVG_POOL2D, 1,
                           1, c);
    return s && vram__low_read(l, s, x->at, in[0], in[1], c) && vram__low_gives(l, s, n->out, &lay);
  }
  if (adaptive) {
    for (i = 0; i < 2; i++)
      kernel[i] = stride[i] = in[i] / out[i];
  } else {
    vram__low_key(n, VRAM__KEY_kernel_size, k, 1, kernel);
    for (i = 0; i < k; i++)
      stride[i] = kernel[i];
    if (vram__node_list(n, VRAM__KEY_stride, NULL))
      vram__low_key(n, VRAM__KEY_stride, k, 1, stride);
    vram__low_key(n, VRAM__KEY_padding, k, 0, pad);
    vram__low_key(n, VRAM__KEY_dilation, k, 1, dil);
  }
  if (dil[0] != 1 || dil[1] != 1 || (adaptive && (in[0] % out[0] || in[1] % out[1]))) {
    s = vram__low_custom(l, n, out[0], out[1], c);
    return s && vram__low_gives(l, s, n->out, &lay);
  }
  s = vram__low_step_new(l, n, max ? VRAM_LINE_MAX_POOL2D : VRAM_LINE_AVG_POOL2D, out[0], out[1],
                         c);
  if (!s || !vram__low_read(l, s, x->at, in[0], in[1], c))
    return 0;
  s->line.arg[0] = kernel[0], s->line.arg[1] = kernel[1];
  s->line.arg[2] = stride[0], s->line.arg[3] = stride[1];
  s->line.padding = VRAM__INT(n, ceil_mode, 0) ? VRAM_PADDING_PAD_CEIL
                    : pad[0] || pad[1]         ? VRAM_PADDING_PAD
                                               : VRAM_PADDING_VALID;
  s->line.pad_h = pad[0], s->line.pad_w = pad[1];
  return vram__low_gives(l, s, n->out, &lay);
}

/* mean, amax and the like: over all but the channels a global pool, else CUSTOM. */
static int vram__low_reduce(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d;
  const int64_t *v;
  uint32_t count, i, axes = 0, kept = 0, keep = VRAM__INT(n, keepdim, 0) != 0;
  vram__layout y;
  vram__low_step *s;
  int64_t h, w, c;
  v = vram__node_list(n, VRAM__KEY_dim, &count);
  for (i = 0; i < count; i++)
    axes |= UINT32_C(1) << (v[i] < 0 ? v[i] + d->ndim : v[i]);
  if (!v)
    axes = (UINT32_C(1) << d->ndim) - 1;
  if (x->lay.batch && (axes >> x->lay.axis[0] & 1))
    return vram__low_refuse(l, n, "it works across the batch");
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_refuse(l, n, "its result is not floating point: no line has such values");
  for (i = 0; i < d->ndim; i++)
    if (!(axes >> i & 1) && !(x->lay.batch && x->lay.axis[0] == i))
      kept |= UINT32_C(1) << i;
  if ((n->op == VRAM_OP_mean || n->op == VRAM_OP_amax || n->op == VRAM_OP_max) &&
      vram__layout_of(&x->lay, axes) > 1 && vram__layout_of(&x->lay, kept) > 1 && n->nout == 1) {
    if (!vram__low_last(l, n, x, kept, 0, &h, &w, &c))
      return 0;
    s = vram__low_step_new(
        l, n, n->op == VRAM_OP_mean ? VRAM_LINE_GLOBAL_AVG_POOL2D : VRAM_LINE_GLOBAL_MAX_POOL2D, 1,
        1, c);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
  } else {
    for (i = 1; i < n->nout; i++)
      if (l->value[n->out[i].index].need)
        return vram__low_refuse(l, n, "its second output (possible: the values alone)");
    c = vram__layout_of(&x->lay, kept);
    h = l->tensor[x->at].h, w = l->tensor[x->at].w;
    if (h * w != c)
      h = 1, w = 1;
    else
      c = 1;
    s = vram__low_custom(l, n, h, w, c);
    if (!s)
      return 0;
  }
  y = x->lay;
  y.loose = 0;
  for (i = 0; i < d->ndim; i++)
    if (axes >> i & 1)
      vram__layout_resize(&y, i, 1);
  if (!keep)
    for (i = 0; i < y.n; i++) {
      uint32_t a, less = 0;
      for (a = 0; a < y.axis[i]; a++)
        less += axes >> a & 1;
      y.axis[i] = (uint8_t)(y.axis[i] - less);
    }
  return vram__low_gives(l, s, n->out, &y);
}

/* Axis a of both in the same pieces; 0: that cannot be. */
static int vram__low_refine(vram__layout *x, vram__layout *y, uint32_t a) {
  uint32_t i, k, p = 0, q = 0;
  for (;;) {
    for (i = x->n; p < x->n && ((i = vram__layout_at(x, p)) == x->n || x->axis[i] != a); p++)
      i = x->n;
    for (k = y->n; q < y->n && ((k = vram__layout_at(y, q)) == y->n || y->axis[k] != a); q++)
      k = y->n;
    if (i == x->n || k == y->n)
      return i == x->n && k == y->n;
    if (x->size[i] > y->size[k]) {
      if (x->size[i] % y->size[k] || !vram__layout_split(x, i, y->size[k]))
        return 0;
    } else if (x->size[i] < y->size[k]) {
      if (y->size[k] % x->size[i] || !vram__layout_split(y, k, x->size[i]))
        return 0;
    }
    p++, q++;
  }
}

/* The atom of y that is the same piece of the same axis as atom i of x. */
static uint32_t vram__low_match(const vram__layout *x, uint32_t i, const vram__layout *y) {
  uint32_t before = 0, k, p;
  for (k = 0; k < x->n; k++)
    before += x->axis[k] == x->axis[i] && x->place[k] < x->place[i];
  for (p = 0; p < y->n; p++) {
    k = vram__layout_at(y, p);
    if (y->axis[k] == x->axis[i] && !before--)
      return k;
  }
  return y->n;
}

/* Two tensors, pointwise: ADD or MUL where h, w and c are each equal or 1, else CUSTOM. */
static int vram__low_binary(vram__low *l, const vram_node *n, vram_line_kind kind) {
  vram__low_value *x = vram__low_of(l, n->in[0]), *y = vram__low_of(l, n->in[1]);
  const vram_dims *d = n->out[0].d;
  vram__layout a, b;
  uint8_t order[VRAM__LOW_ATOMS];
  uint32_t i, k, m = 0, runs = 0, cut[2], swapped = 0;
  int64_t size[3] = {1, 1, 1}, other[3] = {1, 1, 1};
  int there[3] = {0, 0, 0}, fits;
  vram__low_step *s;
  if (n->in[0]->d->numel != d->numel ||
      (n->in[1]->d->numel == d->numel && n->in[0]->d->ndim < n->in[1]->d->ndim)) {
    vram__low_value *t = x;
    x = y, y = t;
    swapped = 1;
  }
  if (n->in[swapped]->d->numel != d->numel)
    return vram__low_any(l, n, 0, 0, 0, 0);
  a = x->lay, b = y->lay;
  for (i = 0; i < a.n; i++)
    a.axis[i] = (uint8_t)(a.axis[i] + d->ndim - n->in[swapped]->d->ndim);
  for (i = 0; i < b.n; i++)
    b.axis[i] = (uint8_t)(b.axis[i] + d->ndim - n->in[!swapped]->d->ndim);
  for (i = 0; i < d->ndim; i++) {
    uint32_t has = 0;
    for (k = 0; k < b.n; k++)
      has |= b.axis[k] == i;
    if (has && !vram__low_refine(&a, &b, i))
      return vram__low_any(l, n, 0, 0, 0, 0);
  }
  if (a.batch != b.batch)
    return vram__low_any(l, n, 0, 0, 0, 0);
  /* y in the order of x */
  for (i = 0; i < a.n; i++)
    if ((k = vram__low_match(&a, i, &b)) < b.n)
      order[m++] = (uint8_t)k;
  if (m != b.n)
    return vram__low_any(l, n, 0, 0, 0, 0);
  {
    vram__low_value sorted = *y;
    sorted.lay = b;
    if (!vram__low_order(l, n, &sorted, order, l->tensor[y->at].h, l->tensor[y->at].w,
                         l->tensor[y->at].c))
      return 0;
    b = sorted.lay;
    for (i = 0; i < b.n; i++)
      sorted.lay.axis[i] = (uint8_t)(b.axis[i] + n->in[!swapped]->d->ndim - d->ndim);
    *y = sorted;
  }
  /* as h, w and c */
  fits = vram__layout_cuts(&a, l->tensor[x->at].h, l->tensor[x->at].w, cut, cut + 1);
  for (i = a.batch; i < a.n; i++) {
    const uint32_t part = fits ? (uint32_t)(i >= cut[0]) + (uint32_t)(i >= cut[1]) : 0;
    const int has = vram__low_match(&a, i, &b) < b.n;
    if (size[part] > 1 && there[part] != has)
      fits = 0;
    there[part] = has;
    size[part] *= a.size[i];
  }
  if (!fits) { /* runs of atoms that y has, or has not */
    int last = -1;
    for (i = 0; i < 3; i++)
      size[i] = 1, there[i] = 0;
    for (i = a.batch; i < a.n; i++) {
      const int has = vram__low_match(&a, i, &b) < b.n;
      if (has != last && ++runs > 3)
        return vram__low_any(l, n, 0, 0, 0, 0);
      last = has;
      size[runs - 1] *= a.size[i];
      there[runs - 1] = has;
    }
    if (runs == 2) {
      size[2] = size[1], there[2] = there[1];
      size[1] = 1;
    } else if (runs == 1) {
      size[2] = size[0], there[2] = there[0];
      size[0] = 1;
    }
  } else
    size[0] = l->tensor[x->at].h, size[1] = l->tensor[x->at].w, size[2] = l->tensor[x->at].c;
  for (i = 0; i < 3; i++)
    if (there[i])
      other[i] = size[i];
  s = vram__low_step_new(l, n, x->at == y->at ? VRAM_LINE_ACTIVATION : kind, size[0], size[1],
                         size[2]);
  if (!s || !vram__low_read(l, s, x->at, size[0], size[1], size[2]) ||
      !vram__low_read(l, s, y->at, other[0], other[1], other[2]))
    return 0;
  s->how = x->at == y->at ? VRAM__LOW_ONE : VRAM__LOW_BOTH;
  a.loose = 0;
  return vram__low_gives(l, s, n->out, &a);
}

/* One layer and direction: the sequence, or its last step. */
static vram__low_step *vram__low_rnn_layer(vram__low *l, const vram_node *n, uint32_t x, int64_t t,
                                           int64_t width, int64_t hidden, int bias, int sequence,
                                           const char *suffix) {
  const int cell = n->op >= VRAM_OP_lstm_cell;
  const uint32_t op = n->op - (uint32_t)(cell ? VRAM_OP_lstm_cell : VRAM_OP_lstm);
  vram__low_step *s = vram__low_step_new(l, n,
                                         op == 0   ? VRAM_LINE_LSTM
                                         : op == 1 ? VRAM_LINE_GRU
                                                   : VRAM_LINE_RNN,
                                         sequence ? t : 1, 1, hidden);
  if (!s || !vram__low_read(l, s, x, t, 1, width))
    return NULL;
  s->suffix = suffix;
  s->line.arg[0] = hidden, s->line.arg[1] = bias ? 2 : 0, s->line.arg[2] = sequence;
  return s;
}

static int vram__low_rnn(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d;
  const int cell = n->op >= VRAM_OP_lstm_cell, batched = d->ndim == (cell ? 2 : 3);
  const uint32_t last = d->ndim - 1u,
                 time = cell                                      ? last
                        : batched && VRAM__INT(n, batch_first, 0) ? 1
                                                                  : 0,
                 batch_axis = cell || time ? 0 : 1;
  const int64_t hidden = VRAM__INT(n, hidden_size, 1), layers = VRAM__INT(n, num_layers, 1),
                steps = cell ? 1 : d->v[time];
  const int both = VRAM__INT(n, bidirectional, 0) != 0, bias = VRAM__INT(n, bias, 1) != 0;
  const int lstm = n->op == VRAM_OP_lstm || n->op == VRAM_OP_lstm_cell;
  const int y = l->value[n->out[0].index].need,
            hn = !cell && n->nout > 1 && l->value[n->out[1].index].need;
  vram__low_step *s = NULL, *back;
  uint32_t axes[2], i, in;
  int64_t layer, width = d->v[last];
  vram__layout lay;
  if (VRAM__INT(n, proj_size, 0))
    return vram__low_refuse(l, n, "proj_size: no line has projections");
  if (n->nout > 1 && (cell || n->nout > 2) && l->value[n->out[lstm && !cell ? 2 : 1].index].need)
    return vram__low_refuse(l, n,
                            "its cell state is used (possible: the output, or the hidden state)");
  for (i = 1; i < n->nin; i++)
    if (!vram__low_constant(l, n->in[i]))
      return vram__low_refuse(l, n,
                              "its first state is computed (possible: the state stays by itself)");
  if (hn && (layers > 1 || both))
    return vram__low_refuse(l, n,
                            "its hidden state is used (possible: of one layer and direction)");
  if (batched && d->v[batch_axis] != l->n)
    return vram__low_refuse(l, n, "its batch axis is not the batch of the network");
  if (!vram__low_claim(l, n))
    return vram__low_refuse(l, n, "its weights are another node's: no line shares them");
  axes[0] = time, axes[1] = last;
  if (!vram__low_axes_order(l, n, x, axes + cell, cell ? 1 : 2, 1, steps, 1, width))
    return 0;
  in = x->at;
  for (layer = 0; layer < layers; layer++) {
    const int sequence = y && !cell;
    const uint32_t from = in;
    s = vram__low_rnn_layer(l, n, from, steps, width, hidden, bias, sequence,
                            both ? "_forward" : "");
    if (!s)
      return 0;
    in = s->out;
    if (both) {
      back = vram__low_rnn_layer(l, n, from, steps, width, hidden, bias, sequence, "_backward");
      if (!back)
        return 0;
      s = vram__low_step_new(l, n, VRAM_LINE_CONCAT, steps, 1, 2 * hidden);
      if (!s || !vram__low_read(l, s, in, steps, 1, hidden) ||
          !vram__low_read(l, s, back->out, steps, 1, hidden))
        return 0;
      s->how = VRAM__LOW_JOIN;
      in = s->out;
    }
    width = both ? 2 * hidden : hidden;
  }
  lay = x->lay;
  lay.loose = 0;
  vram__layout_resize(&lay, last, 1);
  if (width > 1) {
    if (!vram__layout_room(&lay, lay.n))
      return vram__low_refuse(l, n, "too many axes");
    lay.axis[lay.n - 1] = (uint8_t)last;
    lay.place[lay.n - 1] = 0;
    lay.size[lay.n - 1] = width;
    vram__layout_number(&lay);
  }
  if (y)
    vram__low_gives(l, s, n->out, &lay);
  if (hn) {
    vram__layout h = lay;
    vram__layout_resize(&h, time, 1);
    for (i = 0; i < h.n; i++)
      h.axis[i] = (uint8_t)(h.axis[i] == last ? n->out[1].d->ndim - 1u : 1u);
    vram__layout_number(&h);
    if (y) {
      s = vram__low_step_new(l, n, VRAM_LINE_SLICE, 1, 1, hidden);
      if (!s || !vram__low_read(l, s, in, steps, 1, hidden))
        return 0;
      s->suffix = "_last";
      s->line.arg[0] = s->line.arg[1] = 1, s->line.arg[2] = hidden;
    }
    vram__low_gives(l, s, n->out + 1, &h);
  }
  return 1;
}

static int vram__low_mha(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d;
  const int batched = q->ndim == 3;
  const uint32_t time = batched && VRAM__INT(n, batch_first, 0) ? 1 : 0;
  const int64_t heads = VRAM__INT(n, num_heads, 1), e = q->v[q->ndim - 1], steps = q->v[time],
                keys = k->v[time];
  const int bias = VRAM__INT(n, bias, 1) != 0;
  uint32_t axes[2];
  vram__low_step *s;
  uint64_t params = 0, bytes = 0;
  uint32_t i;
  if (n->nout > 1 && l->value[n->out[1].index].need)
    return vram__low_refuse(l, n, "its weights of attention are used");
  if (VRAM__INT(n, add_bias_kv, 0) || VRAM__INT(n, add_zero_attn, 0))
    return vram__low_refuse(l, n, "add_bias_kv, add_zero_attn: no line has such keys");
  if (batched && q->v[!time] != l->n)
    return vram__low_refuse(l, n, "its batch axis is not the batch of the network");
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      params += n->param[i]->d->numel;
  axes[0] = time, axes[1] = q->ndim - 1u;
  if (x->kind == VRAM__LOW_TENSOR && !vram__low_axes_order(l, n, x, axes, 2, 0, steps, 1, e))
    return 0;
  if (!vram__low_claim(l, n))
    return vram__low_refuse(l, n, "its weights are another node's: no line shares them");
  if (n->in[0] == n->in[1] && n->in[0] == n->in[2] && n->nin == 3) {
    vram__layout y = x->lay;
    s = vram__low_step_new(l, n, VRAM_LINE_ATTENTION, steps, 1, e);
    if (!s || !vram__low_read(l, s, x->at, steps, 1, e))
      return 0;
    s->line.arg[0] = s->line.arg[1] = heads, s->line.arg[2] = e / heads;
    s->line.arg[3] = steps, s->line.arg[4] = bias;
    y.loose = 0;
    return vram__low_gives(l, s, n->out, &y);
  }
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      bytes += n->param[i]->d->ndim > 1 ? vram__low_weight_bytes(l, n->param[i]->d->numel)
                                        : vram__low_bias_bytes(l, n->param[i]->d->numel);
  bytes += vram__low_scale_bytes(l, 4, 0);
  return vram__low_any(l, n, params, bytes, vram_node_flops(n) / 2,
                       vram__low_bytes(l, (uint64_t)(l->n * e * (2 * steps + 2 * keys) +
                                                     l->n * heads * steps * keys)));
}

static int vram__low_embedding(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->out[0].d;
  const int64_t width = d->v[d->ndim - 1];
  const int64_t rows = n->in[0]->d->ndim ? (int64_t)n->in[0]->d->numel / l->n : 1;
  vram__layout y = x->lay;
  vram__low_step *s;
  const int mine =
      n->nin > 1 ? vram__low_take(l, n->in[1], n->in[1]->d->numel) : vram__low_claim(l, n);
  if (!mine)
    return vram__low_refuse(l, n, "its weights are another node's: no line shares them");
  if (width > 1) {
    if (!vram__layout_room(&y, y.n))
      return vram__low_refuse(l, n, "too many axes");
    y.axis[y.n - 1] = (uint8_t)(d->ndim - 1);
    y.place[y.n - 1] = 0;
    y.size[y.n - 1] = width;
    vram__layout_number(&y);
  }
  s = vram__low_step_new(l, n, VRAM_LINE_EMBEDDING, rows, 1, width);
  if (!s || !vram__low_read(l, s, x->at, rows, 1, 1))
    return 0;
  s->line.arg[0] = n->nin > 1 ? n->in[1]->d->v[0] : VRAM__INT(n, num_embeddings, 1);
  s->line.arg[1] = width;
  return vram__low_gives(l, s, n->out, &y);
}

/* Nothing of it depends on the input: its result is a constant. Views are the same one. */
static int vram__low_fold(vram__low *l, const vram_node *n) {
  uint64_t params = 0;
  const uint16_t traits = vram__op_traits(n);
  uint8_t noise = (traits & VRAM__OP_VARIES) != 0;
  uint32_t i;
  const int own = vram__low_claim(l, n);
  for (i = 0; i < n->nparam && own; i++)
    if (n->param[i] && n->param[i]->kind != VRAM__BUFFER)
      params += n->param[i]->d->numel;
  for (i = 0; i < n->nin; i++)
    if (vram__low_constant(l, n->in[i]))
      noise |= vram__low_constant(l, n->in[i])->noise;
  if (n->nin == 1 && n->nout == 1 && (traits & VRAM__OP_ALIAS)) {
    l->value[n->out[0].index].kind = VRAM__LOW_CONSTANT;
    l->value[n->out[0].index].at = l->value[n->in[0]->index].at;
    l->value[l->value[n->in[0]->index].at].noise |= noise;
    return 1;
  }
  for (i = 0; i < n->nin; i++) {
    vram__low_value *k = vram__low_constant(l, n->in[i]);
    if (k) {
      params += k->params;
      k->params = 0;
    }
  }
  for (i = 0; i < n->nout; i++) {
    vram__low_value *y = l->value + n->out[i].index;
    y->kind = VRAM__LOW_CONSTANT;
    y->at = n->out[i].index;
    y->noise = noise;
    y->params = i ? 0 : params;
    y->elements = n->out[i].d->numel;
  }
  return 1;
}

/* One function for each way to lower (VRAM__LOWER_...): x is what the first input became, `tensors`
   of the inputs are no constants, `first` is the first of those. 0: an error. */
typedef int (*vram__low_fn)(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first);

static int vram__lower_none(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_refuse(l, n, "no line does that");
}

static int vram__lower_activation(vram__low *l, const vram_node *n, vram__low_value *x,
                                  uint32_t tensors, uint32_t first) {
  if (n->nin == 1 && n->nout == 1 && n->in[0]->d->numel == n->out[0].d->numel)
    return vram__low_pointwise(l, n, x, VRAM_LINE_ACTIVATION);
  return vram__lower_none(l, n, x, tensors, first);
}

/* A line CUSTOM without weights. */
static int vram__lower_any(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                           uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_any(l, n, 0, 0, 0, 0);
}

/* The same that counts products. */
static int vram__lower_product(vram__low *l, const vram_node *n, vram__low_value *x,
                               uint32_t tensors, uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2, 0);
}

static int vram__lower_conv(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)tensors;
  return first ? vram__low_refuse(l, n, "its input is a constant") : vram__low_conv(l, n, x);
}

static int vram__lower_linear(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  return first ? vram__lower_product(l, n, x, tensors, first) : vram__low_linear_node(l, n, x);
}

static int vram__lower_embedding(vram__low *l, const vram_node *n, vram__low_value *x,
                                 uint32_t tensors, uint32_t first) {
  (void)tensors;
  return first ? vram__low_refuse(l, n, "its weight is computed from the input")
               : vram__low_embedding(l, n, x);
}

/* A linear layer where the matrix and what is added are constants. */
static int vram__lower_addmm(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                             uint32_t first) {
  const vram_value *bias = n->in[0], *weight = n->in[2];
  if (first == 1 && tensors == 1 && weight->d->ndim == 2 &&
      bias->d->numel == (uint64_t)weight->d->v[1] &&
      vram__low_constant(l, bias)->elements == bias->d->numel &&
      vram__low_take(l, weight, weight->d->numel)) {
    vram__low_value *k = vram__low_constant(l, bias);
    k->params = k->elements = 0;
    return vram__low_linear(l, n, vram__low_of(l, n->in[1]), 1, bias->d->numel);
  }
  return vram__lower_product(l, n, x, tensors, first);
}

static int vram__lower_matmul(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  if (!first && tensors == 1 && n->in[1]->d->ndim == 2 && n->in[0]->d->ndim &&
      vram__low_take(l, n->in[1], n->in[1]->d->numel))
    return vram__low_linear(l, n, x, 1, 0);
  return vram__lower_product(l, n, x, tensors, first);
}

static int vram__lower_attention(vram__low *l, const vram_node *n, vram__low_value *x,
                                 uint32_t tensors, uint32_t first) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d;
  const uint64_t keys = (uint64_t)k->v[k->ndim - 2u];
  const uint64_t rows = q->numel / (uint64_t)q->v[q->ndim - 1u];
  (void)x, (void)tensors, (void)first;
  return vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2,
                       vram__low_bytes(l, vram__product_or_overflow(rows, keys)));
}

static int vram__lower_mha(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                           uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_mha(l, n);
}

static int vram__lower_rnn(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                           uint32_t first) {
  (void)tensors;
  return first ? vram__low_refuse(l, n, "its input is a constant") : vram__low_rnn(l, n, x);
}

static int vram__lower_norm(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)tensors;
  return first ? vram__low_refuse(l, n, "its input is a constant") : vram__low_norm(l, n, x);
}

static int vram__lower_softmax(vram__low *l, const vram_node *n, vram__low_value *x,
                               uint32_t tensors, uint32_t first) {
  const int64_t dim = VRAM__INT(n, dim, 0);
  const uint32_t axis = (uint32_t)(dim < 0 ? dim + n->in[0]->d->ndim : dim);
  int64_t h, w, c;
  vram__low_step *s;
  (void)tensors, (void)first;
  if (!vram__low_last(l, n, x, UINT32_C(1) << axis, 0, &h, &w, &c))
    return 0;
  s = vram__low_step_new(l, n, VRAM_LINE_SOFTMAX, h, w, c);
  return s && vram__low_read(l, s, x->at, h, w, c) && vram__low_gives(l, s, n->out, &x->lay);
}

static int vram__lower_pool(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)tensors, (void)first;
  if (n->nout > 1 && l->value[n->out[1].index].need)
    return vram__low_refuse(l, n, "its indices are used");
  return vram__low_pool(l, n, x, vram__op_at(n->op)->lower == VRAM__LOWER_MAX_POOL);
}

static int vram__lower_reduce(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  (void)tensors, (void)first;
  return vram__low_reduce(l, n, x);
}

static int vram__lower_cat(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                           uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_cat(l, n);
}

static int vram__lower_slice(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                             uint32_t first) {
  (void)x, (void)tensors, (void)first;
  return vram__low_slices(l, n);
}

static int vram__lower_view(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)tensors, (void)first;
  return vram__low_view(l, n, x);
}

static int vram__lower_expand(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  return n->out[0].d->numel != n->in[0]->d->numel ? vram__lower_any(l, n, x, tensors, first)
                                                  : vram__low_view(l, n, x);
}

static int vram__lower_pad(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                           uint32_t first) {
  (void)tensors, (void)first;
  return vram__low_pad(l, n, x);
}

static int vram__lower_interpolate(vram__low *l, const vram_node *n, vram__low_value *x,
                                   uint32_t tensors, uint32_t first) {
  (void)tensors, (void)first;
  return vram__low_interpolate(l, n, x);
}

static int vram__lower_shuffle(vram__low *l, const vram_node *n, vram__low_value *x,
                               uint32_t tensors, uint32_t first) {
  (void)tensors, (void)first;
  return vram__low_shuffle(l, n, x);
}

static int vram__lower_same(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                            uint32_t first) {
  (void)tensors;
  if ((vram__kind_rank(n->out[0].dtype) == 2) != (vram__kind_rank(n->in[0]->dtype) == 2))
    return vram__low_refuse(l, n, "between integers and floating point: no line does that");
  return first ? vram__low_fold(l, n) : vram__low_same(l, n->out, x);
}

/* Two tensors, or a tensor and a number or constant. */
static int vram__lower_binary(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  vram__low_value *k;
  if (tensors == 2)
    return vram__low_binary(
        l, n, vram__op_at(n->op)->lower == VRAM__LOWER_MUL ? VRAM_LINE_MUL : VRAM_LINE_ADD);
  if (n->nin == 2) {
    k = vram__low_constant(l, n->in[!first]);
    if (n->out[0].d->numel != n->in[first]->d->numel ||
        (!k->noise && (k->params || n->in[!first]->d->numel > 1)))
      return vram__lower_any(l, n, x, tensors, first);
    if (k->noise) /* stochastic depth: of training */
      return vram__low_same(l, n->out, vram__low_of(l, n->in[first]));
  }
  return vram__low_pointwise(l, n, vram__low_of(l, n->in[first]), VRAM_LINE_ACTIVATION);
}

static int vram__lower_prelu(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t tensors,
                             uint32_t first) {
  uint64_t slopes = n->nparam && n->param[0] ? n->param[0]->d->numel : 0;
  (void)x, (void)tensors, (void)first;
  if (!vram__low_claim(l, n))
    slopes = 0;
  return vram__low_any(l, n, slopes, vram__low_weight_bytes(l, slopes), 0, 0);
}

static int vram__lower_custom(vram__low *l, const vram_node *n, vram__low_value *x,
                              uint32_t tensors, uint32_t first) {
  const uint64_t params = (uint64_t)VRAM__INT(n, params, 0);
  const int own = vram__low_claim(l, n);
  (void)x, (void)tensors, (void)first;
  return vram__low_any(l, n, own ? params : 0, own ? vram__low_weight_bytes(l, params) : 0, 0,
                       (uint64_t)VRAM__INT(n, workspace, 0));
}

/* In the order of VRAM__LOWER_... */
static const vram__low_fn vram__low_functions[VRAM__LOWER_COUNT] = {
    vram__lower_none,        vram__lower_activation, vram__lower_binary,    vram__lower_addmm,
    vram__lower_any,         vram__lower_attention,  vram__lower_pool,      vram__lower_cat,
    vram__lower_conv,        vram__lower_custom,     vram__lower_embedding, vram__lower_expand,
    vram__lower_interpolate, vram__lower_linear,     vram__lower_matmul,    vram__lower_pool,
    vram__lower_mha,         vram__lower_binary,     vram__lower_norm,      vram__lower_pad,
    vram__lower_prelu,       vram__lower_product,    vram__lower_reduce,    vram__lower_rnn,
    vram__lower_same,        vram__lower_shuffle,    vram__lower_slice,     vram__lower_softmax,
    vram__lower_view};

/* One node; 0: an error. */
VRAM__FN int vram__low_node(vram__low *l, const vram_node *n) {
  const vram__op_row *row = vram__op_at(n->op);
  uint32_t i, tensors = 0, first = 0;
  for (i = n->nin; i-- > 0;) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind == VRAM__LOW_TENSOR) {
      tensors++;
      first = i;
    } else if (v->kind == VRAM__LOW_NONE)
      return vram__low_refuse(l, n, "an input that no line has");
  }
  if (!tensors || (row->traits & VRAM__OP_CREATES))
    return vram__low_fold(l, n);
  if (vram__kind_rank(n->in[first]->dtype) != 2 && !(row->traits & VRAM__OP_ANY_DTYPE))
    return vram__low_refuse(l, n, "it works with integers of the input (possible: embedding)");
  return vram__low_functions[row->lower](l, n, vram__low_of(l, n->in[0]), tensors, first);
}
