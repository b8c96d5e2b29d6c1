/* >>net/low_pair    lowering: two tensors, element by element */
#include "net/low.h"

/* The operands, the one as large as the result first; layouts in the axes of the result. */
typedef struct vram__low_two {
  vram__low_value *x, *y;
  vram__layout a, b;
  uint32_t swapped; /* x is the second input */
} vram__low_two;

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
    p++;
    q++;
  }
}

/* The atom of y that is the same piece of the same axis as atom i of x; y->n: there is none. */
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

static int vram__low_two_has(const vram__low_two *t, uint32_t i) { /* y has atom i of x */
  return vram__low_match(&t->a, i, &t->b) < t->b.n;
}

static void vram__layout_shift(vram__layout *y, int axes) {
  uint32_t i;
  for (i = 0; i < y->n; i++)
    y->axis[i] = (uint8_t)(y->axis[i] + axes);
}

/* The operands in pieces that match; 0: there are none, or neither is as large as the result. */
static int vram__low_two_of(vram__low *l, const vram_node *n, vram__low_two *t) {
  const vram_dims *d = n->out[0].d;
  uint32_t i, k;
  t->swapped = n->in[0]->d->numel != d->numel ||
               (n->in[1]->d->numel == d->numel && n->in[0]->d->ndim < n->in[1]->d->ndim);
  if (n->in[t->swapped]->d->numel != d->numel)
    return 0;
  t->x = vram__low_of(l, n->in[t->swapped]);
  t->y = vram__low_of(l, n->in[!t->swapped]);
  t->a = t->x->lay;
  t->b = t->y->lay;
  vram__layout_shift(&t->a, (int)d->ndim - (int)n->in[t->swapped]->d->ndim);
  vram__layout_shift(&t->b, (int)d->ndim - (int)n->in[!t->swapped]->d->ndim);
  for (i = 0; i < d->ndim; i++) {
    uint32_t has = 0;
    for (k = 0; k < t->b.n; k++)
      has |= t->b.axis[k] == i;
    if (has && !vram__low_refine(&t->a, &t->b, i))
      return 0;
  }
  return t->a.batch == t->b.batch;
}

/* The atoms of y in the order of those of x, in `order`; 0: x lacks one. */
static int vram__low_two_order(const vram__low_two *t, uint8_t order[VRAM__LOW_ATOMS]) {
  uint32_t i, m = 0;
  for (i = 0; i < t->a.n; i++)
    if (vram__low_two_has(t, i))
      order[m++] = (uint8_t)vram__low_match(&t->a, i, &t->b);
  return m == t->b.n;
}

/* Puts y into that order. */
static int vram__low_two_sort(vram__low *l, const vram_node *n, vram__low_two *t,
                              const uint8_t order[VRAM__LOW_ATOMS]) {
  vram__low_value sorted = *t->y;
  sorted.lay = t->b;
  if (!vram__low_order(l, &sorted, order, l->tensor[t->y->at].shape))
    return 0;
  t->b = sorted.lay;
  vram__layout_shift(&sorted.lay, (int)n->in[!t->swapped]->d->ndim - (int)n->out[0].d->ndim);
  *t->y = sorted;
  return 1;
}

/* size[i] and there[i]: axis i of x as a line has them, and whether y has it. 0: x as its line has
   it does not go with y: an axis has atoms that y has, and others. */
static int vram__low_two_fits(const vram__low *l, const vram__low_two *t, int64_t size[3],
                              int there[3]) {
  const vram__hwc shape = l->tensor[t->x->at].shape;
  uint32_t i, cut[2];
  for (i = 0; i < 3; i++) {
    size[i] = 1;
    there[i] = 0;
  }
  if (!vram__layout_cuts(&t->a, shape, cut))
    return 0;
  for (i = t->a.batch; i < t->a.n; i++) {
    const uint32_t part = (uint32_t)(i >= cut[0]) + (uint32_t)(i >= cut[1]);
    const int has = vram__low_two_has(t, i);
    if (size[part] > 1 && there[part] != has)
      return 0;
    there[part] = has;
    size[part] *= t->a.size[i];
  }
  size[0] = shape.h;
  size[1] = shape.w;
  size[2] = shape.c;
  return 1;
}

/* The same from runs of atoms that y has, or has not; 0: there are more than three. */
static int vram__low_two_runs(const vram__low_two *t, int64_t size[3], int there[3]) {
  uint32_t i, runs = 0;
  int last = -1;
  for (i = 0; i < 3; i++) {
    size[i] = 1;
    there[i] = 0;
  }
  for (i = t->a.batch; i < t->a.n; i++) {
    const int has = vram__low_two_has(t, i);
    if (has != last && ++runs > 3)
      return 0;
    last = has;
    size[runs - 1] *= t->a.size[i];
    there[runs - 1] = has;
  }
  if (runs == 1 || runs == 2) { /* the last run is the channels */
    size[2] = size[runs - 1];
    there[2] = there[runs - 1];
    size[runs - 1] = 1;
  }
  return 1;
}

/* ADD or MUL where h, w and c are each equal or 1, else CUSTOM. */
VRAM__FN int vram__low_pair(vram__low *l, const vram_node *n, vram_line_kind kind) {
  uint8_t order[VRAM__LOW_ATOMS];
  int64_t size[3];
  int there[3];
  vram__low_two t;
  vram__low_step *s;
  vram__hwc x, y;
  if (!vram__low_two_of(l, n, &t) || !vram__low_two_order(&t, order))
    return vram__low_any(l, n, NULL);
  if (!vram__low_two_sort(l, n, &t, order))
    return 0;
  if (!vram__low_two_fits(l, &t, size, there) && !vram__low_two_runs(&t, size, there))
    return vram__low_any(l, n, NULL);
  x = vram__hwc_of(size[0], size[1], size[2]);
  y = vram__hwc_of(there[0] ? x.h : 1, there[1] ? x.w : 1, there[2] ? x.c : 1);
  s = vram__low_layer(l, t.x->at == t.y->at ? VRAM_LINE_ACTIVATION : kind, x, t.x->at, x);
  if (!s || !vram__low_read(l, s, t.y->at, y))
    return 0;
  s->how = t.x->at == t.y->at ? VRAM__LOW_ONE : VRAM__LOW_BOTH;
  t.a.loose = 0;
  return vram__low_gives(l, s, n->out, &t.a);
}
