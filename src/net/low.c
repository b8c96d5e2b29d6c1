/* >>net/low    lowering: tensors, steps and weights of a network for a microcontroller
   First every node that the outputs need becomes a step on tensors (vram__lower_ and what it is);
   then the steps become lines one after the other, with KEEP and FROM where values wait. A value's
   place in memory: vram__layout lists its atoms, which are axes of the graph or parts of them, from
   the outermost to the innermost. Views of the graph (reshape, permute, ...) only change what the
   list means; a TRANSPOSE is made where a step needs another order than there is. */
#include "net/low.h"

/* An error that names the node that is lowered now. */
VRAM__FN int vram__low_fail(vram__low *l, vram_result code, const char *what) {
  const vram_node *n = l->node;
  char name[100];
  vram__chain_error(l->err, code, n ? n->line : 0, "");
  if (n) {
    l->err->column = n->line ? 1 : 0;
    vram_node_name(n, name, sizeof name);
    vram__chain_say(l->err, name);
    vram__chain_say(l->err, " (");
    vram__chain_say(l->err, vram_op_name(n->op));
    vram__chain_say(l->err, "): ");
  }
  vram__chain_say(l->err, what);
  return 0;
}

VRAM__FN int vram__low_refuse(vram__low *l, const char *what) {
  return vram__low_fail(l, VRAM_ERR_UNSUPPORTED, what);
}

/* ---- tensors and steps ---- */

VRAM__FN vram__low_value *vram__low_of(vram__low *l, const vram_value *v) {
  vram__low_value *x = l->value + v->index;
  if (x->kind == VRAM__LOW_TENSOR)
    while (l->tensor[x->at].instead != x->at)
      x->at = l->tensor[x->at].instead;
  return x;
}

VRAM__FN uint32_t vram__low_tensor_new(vram__low *l, vram__hwc shape) {
  vram__low_tensor *t = l->tensor + l->ntensor;
  vram__memory_zero(t, sizeof *t);
  t->shape = shape;
  t->step = l->nstep - 1;
  t->instead = l->ntensor;
  return l->ntensor++;
}

/* A step with a new tensor of this shape; NULL: an error. */
VRAM__FN vram__low_step *vram__low_step_new(vram__low *l, vram_line_kind kind, vram__hwc shape) {
  vram__low_step *s = l->step + l->nstep;
  if (l->nstep + 2 >= VRAM_MAX_NET_LINES) {
    vram__low_fail(l, VRAM_ERR_LIMIT, "more than 4096 lines");
    return NULL;
  }
  vram__memory_zero(s, sizeof *s);
  l->nstep++;
  s->line.kind = kind;
  s->line.format = l->o.format;
  s->node = l->node;
  s->first = l->nin;
  s->behind = VRAM__LOW_NO;
  s->out = vram__low_tensor_new(l, shape);
  return s;
}

VRAM__FN int vram__low_read(vram__low *l, vram__low_step *s, uint32_t tensor, vram__hwc shape) {
  vram__low_in *in = l->in + l->nin;
  uint32_t i;
  if (l->nin == l->max_in)
    return vram__low_fail(l, VRAM_ERR_LIMIT, "too many inputs in all");
  for (i = 0; i < s->count; i++)
    if (l->in[s->first + i].tensor == tensor)
      return 1; /* once is enough */
  in->tensor = tensor;
  in->shape = shape;
  l->nin++;
  s->count++;
  l->tensor[tensor].uses++;
  return 1;
}

/* A step that reads one tensor, in the shape `in`; NULL: an error. */
VRAM__FN vram__low_step *vram__low_layer(vram__low *l, vram_line_kind kind, vram__hwc shape,
                                         uint32_t tensor, vram__hwc in) {
  vram__low_step *s = vram__low_step_new(l, kind, shape);
  return s && vram__low_read(l, s, tensor, in) ? s : NULL;
}

/* The first three arguments of a line that says its shape. */
VRAM__FN void vram__low_shape_args(vram_net_line *line, vram__hwc shape) {
  line->arg[0] = shape.h;
  line->arg[1] = shape.w;
  line->arg[2] = shape.c;
}

/* What v becomes: the step's tensor with that layout. */
VRAM__FN int vram__low_gives(vram__low *l, const vram__low_step *s, const vram_value *v,
                             const vram__layout *lay) {
  vram__low_value *y = l->value + v->index;
  y->kind = VRAM__LOW_TENSOR;
  y->at = s->out;
  y->lay = *lay;
  return 1;
}

/* v is x. */
VRAM__FN int vram__low_same(vram__low *l, const vram_value *v, const vram__low_value *x) {
  vram__low_value *y = l->value + v->index;
  y->kind = x->kind;
  y->at = x->at;
  y->lay = x->lay;
  return 1;
}

/* The atoms of x in this order: as they are, by changing places that nobody has looked at, or by a
   copy of that shape. */
VRAM__FN int vram__low_order(vram__low *l, vram__low_value *x, const uint8_t *order,
                             vram__hwc shape) {
  const vram__layout old = x->lay;
  vram__low_step *s;
  uint32_t i, moved = 0;
  for (i = 0; i < old.n; i++)
    if (order[i] != i)
      moved |= UINT32_C(1) << i;
  if (!moved)
    return 1;
  for (i = 0; i < old.n; i++) {
    x->lay.axis[i] = old.axis[order[i]];
    x->lay.place[i] = old.place[order[i]];
    x->lay.size[i] = old.size[order[i]];
  }
  if ((moved & ~old.loose) == 0 && !l->tensor[x->at].uses && !l->tensor[x->at].fixed) {
    l->tensor[x->at].fixed = 1;
    return 1;
  }
  x->lay.loose = 0;
  s = vram__low_layer(l, VRAM_LINE_TRANSPOSE, shape, x->at, vram__hwc_of(0, 0, 0));
  if (!s)
    return 0;
  s->suffix = "_order";
  vram__low_shape_args(&s->line, shape);
  x->at = s->out;
  return 1;
}

/* Memory of x: the batch, then the atoms of these axes, one axis after the other. `any`: those of
   the last one in whatever order they are. shape: of a copy. */
VRAM__FN int vram__low_axes_order(vram__low *l, vram__low_value *x, const uint32_t *axes,
                                  uint32_t naxes, int any, vram__hwc shape) {
  uint8_t order[VRAM__LOW_ATOMS];
  uint32_t m = 0, a, p, i;
  if (x->lay.batch)
    order[m++] = 0;
  for (a = 0; a < naxes; a++)
    for (p = 0; p < x->lay.n; p++) {
      i = any && a + 1 == naxes ? p : vram__layout_at(&x->lay, p);
      if (i >= x->lay.batch && x->lay.axis[i] == axes[a])
        order[m++] = (uint8_t)i;
    }
  if (m != x->lay.n)
    return vram__low_refuse(l, "its batch axis is not the batch of the network");
  return vram__low_order(l, x, order, shape);
}

/* The atoms of these axes (bits) come last; *shape becomes one with them as c. */
VRAM__FN int vram__low_last(vram__low *l, vram__low_value *x, uint32_t axes, vram__hwc *shape) {
  uint8_t order[VRAM__LOW_ATOMS];
  const int64_t last = vram__layout_of(&x->lay, axes), rest = vram__layout_of(&x->lay, ~axes);
  uint32_t m = 0, i, pass;
  if (x->lay.batch && (axes >> x->lay.axis[0] & 1))
    return vram__low_refuse(l, "it works across the batch");
  for (pass = 0; pass < 2; pass++)
    for (i = 0; i < x->lay.n; i++)
      if ((axes >> x->lay.axis[i] & 1) == pass)
        order[m++] = (uint8_t)i;
  if (!vram__low_order(l, x, order, vram__hwc_of(rest, 1, last)))
    return 0;
  *shape = l->tensor[x->at].shape;
  if (shape->c != last)
    *shape = vram__hwc_of(rest, 1, last);
  return 1;
}

/* The axis that the key `dim` names. */
VRAM__FN uint32_t vram__low_axis(const vram_node *n) {
  const int64_t dim = VRAM__INT(n, dim, 0);
  return (uint32_t)(dim < 0 ? dim + n->in[0]->d->ndim : dim);
}

/* ---- weights ---- */

static const struct {
  uint8_t activation, weight, bias, scales;
} vram__low_format[] = {
#define VRAM__X(id, activation, weight, bias, scales) {activation, weight, bias, scales},
    VRAM_NET_FORMATS(VRAM__X)
#undef VRAM__X
};

VRAM__FN uint64_t vram__low_weight_bytes(const vram__low *l, uint64_t elements) {
  const vram_dtype_info *d = &vram__dtype_rows[vram__low_format[l->o.format].weight];
  return (elements * d->block_bytes + d->block_elements - 1) / d->block_elements;
}

VRAM__FN uint64_t vram__low_bias_bytes(const vram__low *l, uint64_t count) {
  return count * vram__low_format[l->o.format].bias;
}

/* Of so many matrices; channels: of a convolution, 0: none. */
VRAM__FN uint64_t vram__low_scale_bytes(const vram__low *l, uint64_t matrices, uint64_t channels) {
  const uint8_t how = vram__low_format[l->o.format].scales;
  return how == 0 ? 0 : 8 * (how > 1 && channels ? channels : matrices);
}

VRAM__FN uint64_t vram__low_bytes(const vram__low *l, uint64_t elements) { /* of activations */
  const vram_dtype_info *d = &vram__dtype_rows[vram__low_format[l->o.format].activation];
  return (elements * d->block_bytes + d->block_elements - 1) / d->block_elements;
}

/* 1: no line has counted the parameters of n, which owns them; from now on one has. */
VRAM__FN int vram__low_claim(vram__low *l, const vram_node *n) {
  uint32_t i, mine = 1;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && l->claimed[n->param[i]->index]++)
      mine = 0;
  return (int)mine;
}

/* The constant that v is, and what of it a line must still store. */
VRAM__FN vram__low_value *vram__low_constant(vram__low *l, const vram_value *v) {
  vram__low_value *x = l->value + v->index;
  return x->kind == VRAM__LOW_CONSTANT ? l->value + x->at : NULL;
}

/* A constant as the weight of a line: 1: no line has stored it; now this one has. */
VRAM__FN int vram__low_take(vram__low *l, const vram_value *v, uint64_t elements) {
  vram__low_value *k = vram__low_constant(l, v);
  if (!k || k->params != elements || k->elements != elements)
    return 0;
  k->params = 0;
  k->elements = 0;
  return 1;
}
