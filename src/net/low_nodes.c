/* >>net/low_nodes    lowering: one function for each kind of node */
#include "net/low.h"

/* ---- CUSTOM lines ---- */

/* The step's constants are its weights. */
static void vram__low_store(vram__low *l, const vram_node *n, vram__low_step *s) {
  uint64_t params = 0, bytes = 0;
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    vram__low_value *k = vram__low_constant(l, n->in[i]);
    if (k && !k->noise) {
      params += k->params;
      bytes += vram__kind_rank(n->in[i]->dtype) == 2
                   ? vram__low_weight_bytes(l, k->elements)
                   : k->elements * vram__dtype_rows[n->in[i]->dtype].block_bytes; /* indices */
      k->params = 0;
      k->elements = 0;
    }
  }
  s->line.arg[VRAM__CUSTOM_PARAMS] = (int64_t)params;
  s->line.arg[VRAM__CUSTOM_BYTES] = (int64_t)bytes;
}

/* A CUSTOM step that reads all tensors among n's inputs, and keeps its constants. */
VRAM__FN vram__low_step *vram__low_custom(vram__low *l, const vram_node *n, vram__hwc shape) {
  vram__low_step *s = vram__low_step_new(l, VRAM_LINE_CUSTOM, shape);
  uint32_t i;
  if (!s)
    return NULL;
  s->how = VRAM__LOW_MANY;
  vram__low_shape_args(&s->line, shape);
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *x = vram__low_of(l, n->in[i]);
    if (x->kind == VRAM__LOW_TENSOR && !vram__low_read(l, s, x->at, vram__hwc_of(0, 0, 0)))
      return NULL;
  }
  vram__low_store(l, n, s);
  return s;
}

/* y, of a tensor that n reads, with the sizes of n's result, axis by axis. 0: it cannot be. */
static int vram__low_resized(const vram__low *l, const vram_node *n, vram__layout *y,
                             int *changed) {
  const vram_dims *d = n->out[0].d;
  uint32_t i;
  for (i = 0; i < d->ndim; i++) {
    const int batch = y->batch && y->axis[0] == i;
    if (vram__layout_of(y, UINT32_C(1) << i) * (batch ? l->n : 1) == d->v[i])
      continue;
    *changed = 1;
    if (batch || !vram__layout_resize(y, i, d->v[i]))
      return 0;
  }
  return 1;
}

/* y as n's result has its axes, the batch first. */
static int vram__low_as_it_stands(vram__low *l, const vram_node *n, vram__layout *y) {
  const vram_dims *d = n->out[0].d;
  const int batch = l->n > 1;
  uint32_t order[VRAM_MAX_AXES], i;
  for (i = 0; i < d->ndim; i++)
    order[i] = i;
  if (batch && (!d->ndim || d->v[0] % l->n))
    return vram__low_refuse(l, "its result has not the batch of the network as its first axis");
  vram__layout_make(y, d, order, 0, batch && d->v[0] == l->n);
  if (batch && d->v[0] != l->n) { /* the batch and more in one axis */
    if (!vram__layout_split(y, 0, l->n))
      return vram__low_refuse(l, "too many axes");
    y->batch = 1;
  }
  return 1;
}

/* Anything that reads its inputs and writes one new tensor: laid out as its first input where that
   has as many axes, else as its axes stand. cost NULL: none. */
VRAM__FN int vram__low_any(vram__low *l, const vram_node *n, const vram__low_cost *cost) {
  const vram_dims *d = n->out[0].d;
  const vram__low_value *x;
  vram__layout y;
  vram__low_step *s;
  vram__hwc shape;
  int same, changed = 0;
  uint32_t k;
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_refuse(l, "its result is not floating point: no line has such values");
  if (!d->numel)
    return vram__low_refuse(l, "a value of no elements");
  x = vram__low_of(l, n->in[l->first]);
  y = x->lay;
  shape = l->tensor[x->at].shape;
  same = n->in[l->first]->d->ndim == d->ndim && vram__low_resized(l, n, &y, &changed);
  if (!same && !vram__low_as_it_stands(l, n, &y))
    return 0;
  if (!same || changed) {
    shape.c = 1;
    for (k = y.n; k > y.batch && y.axis[k - 1] == y.axis[y.n - 1]; k--)
      shape.c *= y.size[k - 1];
    shape.h = (int64_t)d->numel / l->n / shape.c;
    shape.w = 1;
  }
  y.loose = 0;
  s = vram__low_custom(l, n, shape);
  if (!s)
    return 0;
  if (cost) {
    s->line.arg[VRAM__CUSTOM_PARAMS] += (int64_t)cost->params;
    s->line.arg[VRAM__CUSTOM_BYTES] += (int64_t)cost->bytes;
    s->line.arg[VRAM__CUSTOM_MACS] = (int64_t)cost->macs;
    s->line.arg[VRAM__CUSTOM_SCRATCH] = (int64_t)cost->scratch;
  }
  return vram__low_gives(l, s, n->out, &y);
}

static int vram__lower_none(vram__low *l, const vram_node *n) {
  (void)n;
  return vram__low_refuse(l, "no line does that");
}

static int vram__lower_any(vram__low *l, const vram_node *n) { return vram__low_any(l, n, NULL); }

/* A CUSTOM line that counts products. */
static int vram__lower_product(vram__low *l, const vram_node *n) {
  vram__low_cost cost = {0, 0, 0, 0};
  cost.macs = vram_node_flops(n) / 2;
  return vram__low_any(l, n, &cost);
}

static int vram__lower_custom(vram__low *l, const vram_node *n) {
  vram__low_cost cost = {0, 0, 0, 0};
  if (vram__low_claim(l, n)) {
    cost.params = (uint64_t)VRAM__INT(n, params, 0);
    cost.bytes = vram__low_weight_bytes(l, cost.params);
  }
  cost.scratch = (uint64_t)VRAM__INT(n, workspace, 0);
  return vram__low_any(l, n, &cost);
}

static int vram__lower_prelu(vram__low *l, const vram_node *n) {
  vram__low_cost cost = {0, 0, 0, 0};
  if (vram__low_claim(l, n) && n->nparam && n->param[0])
    cost.params = n->param[0]->d->numel;
  cost.bytes = vram__low_weight_bytes(l, cost.params);
  return vram__low_any(l, n, &cost);
}

/* ---- pointwise ---- */

static int vram__low_activation(vram__low *l, const vram_node *n, const vram__low_value *x) {
  const vram__low_step *s = vram__low_layer(l, VRAM_LINE_ACTIVATION, l->tensor[x->at].shape, x->at,
                                            vram__hwc_of(0, 0, 0));
  return s && vram__low_gives(l, s, n->out, &x->lay);
}

static int vram__lower_activation(vram__low *l, const vram_node *n) {
  if (n->nin == 1 && n->nout == 1 && n->in[0]->d->numel == n->out[0].d->numel)
    return vram__low_activation(l, n, vram__low_of(l, n->in[0]));
  return vram__lower_none(l, n);
}

/* Two tensors, or a tensor and a number or constant. */
static int vram__lower_binary(vram__low *l, const vram_node *n) {
  const uint32_t first = l->first;
  if (l->tensors == 2)
    return vram__low_pair(
        l, n, vram__op_at(n->op)->lower == VRAM__LOWER_MUL ? VRAM_LINE_MUL : VRAM_LINE_ADD);
  if (n->nin == 2) {
    const vram__low_value *k = vram__low_constant(l, n->in[!first]);
    if (n->out[0].d->numel != n->in[first]->d->numel ||
        (!k->noise && (k->params || n->in[!first]->d->numel > 1)))
      return vram__low_any(l, n, NULL);
    if (k->noise) /* stochastic depth: of training */
      return vram__low_same(l, n->out, vram__low_of(l, n->in[first]));
  }
  return vram__low_activation(l, n, vram__low_of(l, n->in[first]));
}

/* ---- norms ---- */

/* How a norm becomes a line of its own: END: it has none. */
static const struct {
  vram_line_kind line;
  uint8_t arrays; /* of a size for each channel */
} vram__low_norms[] = {
    /* in the order of VRAM__NORM_... */
    {VRAM_LINE_LAYER_NORM, 2}, {VRAM_LINE_RMS_NORM, 1}, {VRAM_LINE_END, 0},
    {VRAM_LINE_BATCH_NORM, 4}, {VRAM_LINE_END, 0},
};

/* The axes that a norm with a line has as channels, as bits. */
static uint32_t vram__low_norm_axes(const vram_node *n, uint8_t kind) {
  uint32_t i, count = 0, axes = 0;
  if (kind == VRAM__NORM_BATCH)
    return 2;
  vram__node_list(n, VRAM__KEY_normalized_shape, &count);
  for (i = 0; i < count; i++)
    axes |= UINT32_C(1) << (n->in[0]->d->ndim - 1 - i);
  return axes;
}

static int vram__lower_norm(vram__low *l, const vram_node *n) {
  const uint8_t kind = vram__op_at(n->op)->kind;
  const vram_line_kind line = vram__low_norms[kind].line;
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__low_step *s;
  vram__low_cost cost = {0, 0, 0, 0};
  uint64_t elements = 0;
  vram__hwc shape;
  uint32_t i;
  int mine;
  if (l->first)
    return vram__low_refuse(l, "its input is a constant");
  mine = vram__low_claim(l, n);
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      elements += n->param[i]->d->ndim ? n->param[i]->d->numel : 0;
  if (mine) {
    cost.params = elements;
    cost.bytes = vram__low_bias_bytes(l, elements);
  }
  if (line == VRAM_LINE_END)
    return vram__low_any(l, n, &cost);
  if (!vram__low_last(l, x, vram__low_norm_axes(n, kind), &shape))
    return 0;
  if (!mine || elements != (uint64_t)shape.c * vram__low_norms[kind].arrays || n->nin > 1)
    return vram__low_any(l, n, &cost);
  s = vram__low_layer(l, line, shape, x->at, shape);
  return s && vram__low_gives(l, s, n->out, &x->lay);
}

static int vram__lower_softmax(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__low_step *s;
  vram__hwc shape;
  if (!vram__low_last(l, x, UINT32_C(1) << vram__low_axis(n), &shape))
    return 0;
  s = vram__low_layer(l, VRAM_LINE_SOFTMAX, shape, x->at, shape);
  return s && vram__low_gives(l, s, n->out, &x->lay);
}

/* ---- matrices ---- */

/* y = x w (+ b), w constant; x is input `in`. mine: the line's own weights, not another's. */
static int vram__low_linear(vram__low *l, const vram_node *n, uint32_t in, int mine,
                            uint64_t bias) {
  const vram_dims *d = n->out[0].d;
  const uint32_t a = n->in[in]->d->ndim - 1u;
  const int64_t out = d->v[d->ndim - 1];
  vram__low_value *x = vram__low_of(l, n->in[in]);
  vram__hwc from, to;
  vram__layout y;
  vram__low_step *s;
  if (!vram__low_last(l, x, UINT32_C(1) << a, &from))
    return 0;
  y = x->lay;
  if (!vram__layout_inner(&y, a, out))
    return vram__low_refuse(l, "too many axes");
  y.loose = out > 1 ? UINT32_C(1) << (y.n - 1) : 0;
  to = vram__hwc_of(from.h, from.w, out);
  s = vram__low_layer(l, mine ? VRAM_LINE_LINEAR : VRAM_LINE_CUSTOM, to, x->at, from);
  if (!s)
    return 0;
  if (mine) {
    s->line.arg[0] = out;
    s->line.arg[1] = bias != 0;
  } else {
    s->how = VRAM__LOW_MANY;
    vram__low_shape_args(&s->line, to);
    s->line.arg[VRAM__CUSTOM_PARAMS] = (int64_t)bias;
    s->line.arg[VRAM__CUSTOM_BYTES] = (int64_t)vram__low_bias_bytes(l, bias);
    s->line.arg[VRAM__CUSTOM_MACS] = (int64_t)(vram_node_flops(n) / 2);
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* With parameters of its own or given ones. */
static int vram__lower_linear(vram__low *l, const vram_node *n) {
  const uint64_t out = (uint64_t)n->out[0].d->v[n->out[0].d->ndim - 1];
  uint64_t bias = 0;
  int mine;
  if (l->first)
    return vram__lower_product(l, n);
  if (n->nin > 1) {
    if (!vram__low_constant(l, n->in[1]))
      return vram__low_refuse(l, "its weight is computed from the input");
    mine = vram__low_take(l, n->in[1], n->in[1]->d->numel);
    if (n->nin > 2 && vram__low_take(l, n->in[2], out))
      bias = out;
  } else { /* of tied weights the bias may be its own */
    if (n->nparam > 1 && n->param[1] && !l->claimed[n->param[1]->index])
      bias = out;
    mine = vram__low_claim(l, n);
  }
  return vram__low_linear(l, n, 0, mine, bias);
}

/* A linear layer where the matrix and what is added are constants. */
static int vram__lower_addmm(vram__low *l, const vram_node *n) {
  const vram_value *bias = n->in[0], *weight = n->in[2];
  if (l->first == 1 && l->tensors == 1 && weight->d->ndim == 2 &&
      bias->d->numel == (uint64_t)weight->d->v[1] &&
      vram__low_constant(l, bias)->elements == bias->d->numel &&
      vram__low_take(l, weight, weight->d->numel)) {
    vram__low_value *k = vram__low_constant(l, bias);
    k->params = 0;
    k->elements = 0;
    return vram__low_linear(l, n, 1, 1, bias->d->numel);
  }
  return vram__lower_product(l, n);
}

static int vram__lower_matmul(vram__low *l, const vram_node *n) {
  if (!l->first && l->tensors == 1 && n->in[1]->d->ndim == 2 && n->in[0]->d->ndim &&
      vram__low_take(l, n->in[1], n->in[1]->d->numel))
    return vram__low_linear(l, n, 0, 1, 0);
  return vram__lower_product(l, n);
}

/* ---- sums and the like ---- */

/* The axes that a reduction goes over, as bits. */
static uint32_t vram__low_reduced(const vram_node *n) {
  uint32_t count, i, axes = 0;
  const uint32_t ndim = n->in[0]->d->ndim;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &count);
  if (!v)
    return (UINT32_C(1) << ndim) - 1;
  for (i = 0; i < count; i++)
    axes |= UINT32_C(1) << (v[i] < 0 ? v[i] + ndim : v[i]);
  return axes;
}

/* Those axes have one element, or are gone. */
static void vram__layout_reduce(vram__layout *y, uint32_t axes, int keep) {
  uint32_t i;
  y->loose = 0;
  for (i = 0; i < VRAM_MAX_AXES; i++)
    if (axes >> i & 1)
      vram__layout_resize(y, i, 1);
  for (i = 0; i < y->n && !keep; i++) {
    uint32_t a, less = 0;
    for (a = 0; a < y->axis[i]; a++)
      less += axes >> a & 1;
    y->axis[i] = (uint8_t)(y->axis[i] - less);
  }
}

/* What no pool does; `kept`: the axes that stay, as bits. */
static vram__low_step *vram__low_reduce_custom(vram__low *l, const vram_node *n, uint32_t kept) {
  const vram__low_value *x = vram__low_of(l, n->in[0]);
  const int64_t left = vram__layout_of(&x->lay, kept);
  vram__hwc shape = l->tensor[x->at].shape;
  uint32_t i;
  for (i = 1; i < n->nout; i++)
    if (l->value[n->out[i].index].need) {
      vram__low_refuse(l, "its second output (possible: the values alone)");
      return NULL;
    }
  if (shape.h * shape.w == left)
    shape.c = 1;
  else
    shape = vram__hwc_of(1, 1, left);
  return vram__low_custom(l, n, shape);
}

/* A mean or maximum over all but the channels is a global pool, else CUSTOM. */
static int vram__lower_reduce(vram__low *l, const vram_node *n) {
  const uint8_t lower = vram__op_at(n->op)->lower;
  const uint32_t axes = vram__low_reduced(n);
  vram__low_value *x = vram__low_of(l, n->in[0]);
  uint32_t i, kept = 0;
  vram__layout y;
  const vram__low_step *s;
  vram__hwc shape;
  if (x->lay.batch && (axes >> x->lay.axis[0] & 1))
    return vram__low_refuse(l, "it works across the batch");
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_refuse(l, "its result is not floating point: no line has such values");
  for (i = 0; i < n->in[0]->d->ndim; i++)
    if (!(axes >> i & 1) && !(x->lay.batch && x->lay.axis[0] == i))
      kept |= UINT32_C(1) << i;
  if (lower != VRAM__LOWER_REDUCE && n->nout == 1 && vram__layout_of(&x->lay, axes) > 1 &&
      vram__layout_of(&x->lay, kept) > 1) {
    if (!vram__low_last(l, x, kept, &shape))
      return 0;
    s = vram__low_layer(l,
                        lower == VRAM__LOWER_REDUCE_MEAN ? VRAM_LINE_GLOBAL_AVG_POOL2D
                                                         : VRAM_LINE_GLOBAL_MAX_POOL2D,
                        vram__hwc_of(1, 1, shape.c), x->at, shape);
  } else
    s = vram__low_reduce_custom(l, n, kept);
  if (!s)
    return 0;
  y = x->lay;
  vram__layout_reduce(&y, axes, VRAM__INT(n, keepdim, 0) != 0);
  return vram__low_gives(l, s, n->out, &y);
}

/* ---- values that stay as they are, and constants ---- */

/* Nothing of it depends on the input: its result is a constant. Views are the same one. */
static int vram__low_fold(vram__low *l, const vram_node *n) {
  uint64_t params = 0;
  const uint32_t traits = vram__op_traits(n);
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

static int vram__lower_same(vram__low *l, const vram_node *n) {
  if ((vram__kind_rank(n->out[0].dtype) == 2) != (vram__kind_rank(n->in[0]->dtype) == 2))
    return vram__low_refuse(l, "between integers and floating point: no line does that");
  return l->first ? vram__low_fold(l, n) : vram__low_same(l, n->out, vram__low_of(l, n->in[0]));
}

/* One node; 0: an error. */
VRAM__FN int vram__low_node(vram__low *l, const vram_node *n) {
  static int (*const lower[])(vram__low *, const vram_node *) = {
#define VRAM__X(id, name) vram__lower_##name,
      VRAM__LOWERINGS(VRAM__X)
#undef VRAM__X
  };
  const vram__op_row *row = vram__op_at(n->op);
  uint32_t i;
  l->node = n;
  l->tensors = 0;
  l->first = 0;
  for (i = n->nin; i-- > 0;) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind == VRAM__LOW_TENSOR) {
      l->tensors++;
      l->first = i;
    } else if (v->kind == VRAM__LOW_NONE)
      return vram__low_refuse(l, "an input that no line has");
  }
  if (!l->tensors || (row->traits & VRAM__OP_CREATES))
    return vram__low_fold(l, n);
  if (vram__kind_rank(n->in[l->first]->dtype) != 2 && !(row->traits & VRAM__OP_ANY_DTYPE))
    return vram__low_refuse(l, "it works with integers of the input (possible: embedding)");
  return lower[row->lower](l, n);
}
