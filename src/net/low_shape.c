/* >>net/low_shape    lowering: cat, slices, views, pads */
#include "net/low.h"

/* ---- cat ---- */

/* What the tensors among the inputs of a cat have in common. */
typedef struct vram__low_cat {
  uint32_t a;               /* the axis */
  const vram__low_value *x; /* the first tensor */
  uint32_t tensors;
  int join; /* a CONCAT line can do it: all of them tensors, none twice, the axis innermost */
} vram__low_cat;

/* Two layouts that differ in the size of axis a only, which is innermost in both. */
static int vram__layout_joins(const vram__layout *x, const vram__layout *v, uint32_t a) {
  uint32_t k;
  for (k = 0; k < v->n; k++)
    if (v->axis[k] == a ? k + 1 != v->n
                        : k >= x->n || v->axis[k] != x->axis[k] || v->size[k] != x->size[k])
      return 0;
  return v->n + (x->n && x->axis[x->n - 1] == a) == x->n + (v->n && v->axis[v->n - 1] == a);
}

static int vram__low_cat_read(vram__low *l, const vram_node *n, vram__low_cat *c) {
  uint32_t i, k;
  c->join = 1;
  c->tensors = 0;
  c->x = vram__low_of(l, n->in[l->first]);
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind != VRAM__LOW_TENSOR) {
      c->join = 0;
      continue;
    }
    c->tensors++;
    if (v->lay.batch && v->lay.axis[0] == c->a)
      return vram__low_refuse(l, "it works across the batch");
    for (k = 0; k < i; k++)
      c->join = c->join && vram__low_of(l, n->in[k])->at != v->at;
    c->join = c->join && vram__layout_joins(&c->x->lay, &v->lay, c->a);
  }
  c->join = c->join && c->tensors >= 2 && c->tensors <= 4;
  return 1;
}

/* In what shape a CONCAT line reads the first tensor. */
static vram__hwc vram__low_cat_shape(const vram__low *l, const vram__low_cat *c) {
  const uint32_t bit = UINT32_C(1) << c->a;
  const int64_t channels = vram__layout_of(&c->x->lay, bit);
  const vram__hwc shape = l->tensor[c->x->at].shape;
  return shape.c == channels ? shape : vram__hwc_of(vram__layout_of(&c->x->lay, ~bit), 1, channels);
}

/* The CONCAT line; y: the layout of its result. */
static int vram__low_cat_join(vram__low *l, const vram_node *n, const vram__low_cat *c,
                              const vram__layout *y) {
  vram__hwc shape = vram__low_cat_shape(l, c);
  vram__low_step *s;
  uint32_t i;
  shape.c = n->out[0].d->v[c->a];
  s = vram__low_step_new(l,
                         c->tensors == 2   ? VRAM_LINE_CONCAT
                         : c->tensors == 3 ? VRAM_LINE_CONCAT3
                                           : VRAM_LINE_CONCAT4,
                         shape);
  if (!s)
    return 0;
  s->how = VRAM__LOW_JOIN;
  for (i = 0; i < n->nin; i++) {
    shape.c = n->in[i]->d->v[c->a];
    if (!vram__low_read(l, s, vram__low_of(l, n->in[i])->at, shape))
      return 0;
  }
  return vram__low_gives(l, s, n->out, y);
}

VRAM__FN int vram__lower_cat(vram__low *l, const vram_node *n) {
  const vram_dims *d = n->out[0].d;
  const int64_t dim = VRAM__INT(n, dim, 0);
  vram__low_cat c;
  vram__layout y;
  vram__low_step *s;
  vram__hwc shape;
  int inner;
  c.a = (uint32_t)(dim < 0 ? dim + d->ndim : dim);
  if (!vram__low_cat_read(l, n, &c))
    return 0;
  y = c.x->lay;
  y.loose = 0;
  if (!vram__layout_resize(&y, c.a, d->v[c.a]))
    return vram__low_refuse(l, "too many axes");
  inner = y.n && y.axis[y.n - 1] == c.a;
  /* single channels may lie somewhere */
  if (c.join && (inner || !y.n || vram__layout_of(&c.x->lay, UINT32_C(1) << c.a) != 1))
    return vram__low_cat_join(l, n, &c, &y);
  shape = vram__low_cat_shape(l, &c);
  if (inner)
    shape.c = d->v[c.a];
  else
    shape = vram__hwc_of(1, 1, (int64_t)d->numel / l->n);
  s = vram__low_custom(l, n, shape);
  return s && vram__low_gives(l, s, n->out, &y);
}

/* ---- slices ---- */

/* Where atom `at` of x lies as one of h, w and c; *shape becomes that shape. */
static uint32_t vram__low_slice_part(const vram__layout *x, uint32_t at, vram__hwc *shape) {
  uint32_t cut[2], k, part = 0;
  if (vram__layout_cuts(x, *shape, cut)) {
    part = (uint32_t)(at >= cut[0]) + (uint32_t)(at >= cut[1]);
    if ((part == 0 ? cut[0] - x->batch : part == 1 ? cut[1] - cut[0] : x->n - cut[1]) == 1)
      return part;
  }
  *shape = vram__hwc_of(1, 1, 1);
  for (k = x->batch; k < x->n; k++)
    *(k < at ? &shape->h : k == at ? &shape->w : &shape->c) *= x->size[k];
  if (shape->c == 1) {
    shape->c = shape->w;
    shape->w = 1;
  }
  vram__layout_cuts(x, *shape, cut);
  return (uint32_t)(at >= cut[0]) + (uint32_t)(at >= cut[1]);
}

/* A SLICE line: atom `at` of x has that size. */
static vram__low_step *vram__low_slice_line(vram__low *l, const vram__low_value *x, uint32_t at,
                                            int64_t size) {
  vram__hwc from = l->tensor[x->at].shape, to;
  const uint32_t part = vram__low_slice_part(&x->lay, at, &from);
  vram__low_step *s;
  to = from;
  *(part == 0 ? &to.h : part == 1 ? &to.w : &to.c) = size;
  s = vram__low_layer(l, VRAM_LINE_SLICE, to, x->at, from);
  if (s)
    vram__low_shape_args(&s->line, to);
  return s;
}

/* Output i is a part of x: axis a has that size then; gone: no such axis any more. */
static int vram__low_slice(vram__low *l, const vram_node *n, uint32_t i, int gone) {
  const vram__low_value *x = vram__low_of(l, n->in[0]);
  const uint32_t a = vram__low_axis(n);
  const int64_t was = n->in[0]->d->v[a], size = gone ? 1 : n->out[i].d->v[a];
  uint32_t k, at = VRAM__LOW_NO, atoms = 0;
  vram__layout y = x->lay;
  vram__low_step *s;
  if (y.batch && y.axis[0] == a && size != was)
    return vram__low_refuse(l, "it works across the batch");
  if (size == 0)
    return vram__low_refuse(l, "a value of no elements");
  for (k = y.batch; k < y.n; k++)
    if (y.axis[k] == a) {
      at = k;
      atoms++;
    }
  if (size != was && !vram__layout_resize(&y, a, size))
    return vram__low_refuse(l, "too many axes");
  for (k = 0; k < y.n && gone; k++)
    y.axis[k] = (uint8_t)(y.axis[k] - (y.axis[k] > a));
  if (size == was) {
    vram__low_value *v = l->value + n->out[i].index;
    vram__low_same(l, n->out + i, x);
    v->lay = y;
    return 1;
  }
  y.loose = 0;
  s = atoms == 1 ? vram__low_slice_line(l, x, at, size)
                 : vram__low_custom(l, n, vram__hwc_of(1, 1, (int64_t)n->out[i].d->numel / l->n));
  return s && vram__low_gives(l, s, n->out + i, &y);
}

/* slice, narrow, split, chunk; select and unbind, whose results have an axis less */
VRAM__FN int vram__lower_slice(vram__low *l, const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nout; i++)
    if (l->value[n->out[i].index].need &&
        !vram__low_slice(l, n, i, n->out[i].d->ndim < n->in[0]->d->ndim))
      return 0;
  return 1;
}

/* ---- views ---- */

/* Memory of x in the order of its axes. */
static int vram__low_straighten(vram__low *l, vram__low_value *x) {
  uint8_t order[VRAM__LOW_ATOMS];
  uint32_t i, m = 0;
  if (x->lay.batch)
    order[m++] = 0;
  for (i = 0; i < x->lay.n; i++) {
    const uint32_t k = vram__layout_at(&x->lay, i);
    if (k >= x->lay.batch)
      order[m++] = (uint8_t)k;
  }
  return vram__low_order(l, x, order, l->tensor[x->at].shape);
}

VRAM__FN int vram__lower_view(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]), *y = l->value + n->out[0].index;
  vram__layout lay = x->lay;
  if (!vram__layout_view(&lay, n->out[0].d)) {
    if (!vram__low_straighten(l, x))
      return 0;
    lay = x->lay;
    if (!vram__layout_view(&lay, n->out[0].d))
      return vram__low_refuse(l, "its shape mixes the batch with other axes");
  }
  vram__low_same(l, n->out, x);
  y->lay = lay;
  return 1;
}

/* permute; transpose and t, which change two axes */
VRAM__FN int vram__lower_permute(vram__low *l, const vram_node *n) {
  const vram__low_value *x = vram__low_of(l, n->in[0]);
  vram__low_value *y = l->value + n->out[0].index;
  const uint32_t ndim = n->in[0]->d->ndim;
  uint8_t to[VRAM_MAX_AXES];
  uint32_t i, count;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dims, &count);
  for (i = 0; i < ndim; i++)
    to[i] = (uint8_t)i;
  if (v) {
    for (i = 0; i < count; i++)
      to[v[i] < 0 ? v[i] + ndim : v[i]] = (uint8_t)i;
  } else if (ndim > 1) {
    const int64_t a = VRAM__INT(n, dim0, 0), b = VRAM__INT(n, dim1, 1);
    const uint8_t first = (uint8_t)(a < 0 ? a + ndim : a);
    const uint8_t second = (uint8_t)(b < 0 ? b + ndim : b);
    to[first] = second;
    to[second] = first;
  }
  vram__low_same(l, n->out, x);
  for (i = 0; i < y->lay.n; i++)
    y->lay.axis[i] = to[y->lay.axis[i]];
  vram__layout_number(&y->lay);
  return 1;
}

VRAM__FN int vram__lower_expand(vram__low *l, const vram_node *n) {
  return n->out[0].d->numel == n->in[0]->d->numel ? vram__lower_view(l, n)
                                                  : vram__low_any(l, n, NULL);
}

/* ---- pads ---- */

/* The first of axis a's two arguments in a PAD line, to *arg; 0: axis a is neither the height nor
   the width of the line before. */
static int vram__low_pad_axis(const vram__layout *x, vram__hwc shape, uint32_t a, uint32_t *arg) {
  uint32_t cut[2], k, atoms = 0;
  if (!vram__layout_cuts(x, shape, cut))
    return 0;
  for (k = 0; k < x->n; k++)
    atoms += x->axis[k] == a;
  if (atoms != 1)
    return 0;
  if (cut[0] - x->batch == 1 && x->axis[x->batch] == a)
    *arg = 0;
  else if (cut[1] - cut[0] == 1 && x->axis[cut[0]] == a)
    *arg = 2;
  else
    return 0;
  return 1;
}

VRAM__FN int vram__lower_pad(vram__low *l, const vram_node *n) {
  const vram_dims *to = n->out[0].d;
  const vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram__hwc from = l->tensor[x->at].shape;
  vram__hwc shape = from;
  uint32_t count, i, k = 0;
  const int64_t *v = vram__node_list(n, VRAM__KEY_pad, &count);
  int64_t arg[4] = {0, 0, 0, 0};
  int plain = 1, some = 0;
  vram__layout y = x->lay;
  vram__low_step *s;
  y.loose = 0;
  for (i = 0; i < count / 2; i++, v += 2) { /* the last axis first */
    const uint32_t a = n->in[0]->d->ndim - 1u - i;
    if (!v[0] && !v[1])
      continue;
    some = 1;
    if (x->lay.batch && x->lay.axis[0] == a)
      return vram__low_refuse(l, "it works across the batch");
    plain = plain && v[0] >= 0 && v[1] >= 0 && vram__low_pad_axis(&x->lay, from, a, &k);
    if (plain) {
      arg[k] = v[0];
      arg[k + 1] = v[1];
    }
    if (!vram__layout_resize(&y, a, to->v[a]))
      return vram__low_refuse(l, "too many axes");
  }
  if (!some)
    return vram__low_same(l, n->out, x);
  if (!plain) {
    s = vram__low_custom(l, n, vram__hwc_of(1, 1, (int64_t)to->numel / l->n));
    return s && vram__low_gives(l, s, n->out, &y);
  }
  shape.h += arg[0] + arg[1];
  shape.w += arg[2] + arg[3];
  s = vram__low_layer(l, VRAM_LINE_PAD, shape, x->at, from);
  if (!s)
    return 0;
  for (i = 0; i < 4; i++)
    s->line.arg[i] = arg[i];
  return vram__low_gives(l, s, n->out, &y);
}

/* [.., C r r, H, W] to [.., C, H r, W r]: a copy in another order. */
VRAM__FN int vram__lower_shuffle(vram__low *l, const vram_node *n) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  const uint32_t lead = d->ndim - 2u;
  const vram__hwc from = vram__hwc_of(d->v[lead], d->v[lead + 1], d->v[lead - 1]);
  const vram__hwc shape = vram__hwc_of(to->v[lead], to->v[lead + 1], to->v[lead - 1]);
  vram__low_value *x = vram__low_of(l, n->in[0]);
  uint32_t axes[3], i;
  vram__layout y;
  vram__low_step *s;
  axes[0] = lead;
  axes[1] = lead + 1;
  axes[2] = lead - 1;
  if (!vram__low_axes_order(l, x, axes, 3, 0, from))
    return 0;
  y = x->lay;
  y.loose = 0;
  for (i = lead - 1; i < lead + 2; i++)
    if (!vram__layout_resize(&y, i, to->v[i]))
      return vram__low_refuse(l, "too many axes");
  s = vram__low_layer(l, VRAM_LINE_TRANSPOSE, shape, x->at, from);
  if (!s)
    return 0;
  vram__low_shape_args(&s->line, shape);
  return vram__low_gives(l, s, n->out, &y);
}
