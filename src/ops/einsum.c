/* >>ops/einsum    einsum as a product of two operands at a time */
#include "ops/ops.h"

/* ---- the equation ---- */

/* 0 to 51 for A to Z and a to z, -1 for what is no label. */
static int vram__einsum_label(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

static int vram__einsum_is_dots(const char *p, const char *end) {
  return end - p >= 3 && p[0] == '.' && p[1] == '.' && p[2] == '.';
}

static int vram__labels_fail(vram__labels *l, const char *problem) {
  l->problem = problem;
  return 0;
}

static int vram__labels_fail_signs(vram__labels *l) {
  return vram__labels_fail(l, "an equation with other signs than letters, commas, ... and ->");
}

/* The labels of an operand of ndim axes at *p, which moves to the comma or arrow behind them. */
static int vram__labels_read_operand(vram__labels *l, const char **p, uint32_t ndim) {
  uint32_t letters = 0, dots = 0;
  for (; *p < l->end && **p != ',' && **p != '-'; ++*p)
    if (**p == '.') {
      if (dots++ || !vram__einsum_is_dots(*p, l->end))
        return vram__labels_fail_signs(l);
      *p += 2;
    } else {
      const int label = vram__einsum_label(**p);
      if (label < 0)
        return vram__labels_fail_signs(l);
      l->used[label]++;
      letters++;
    }
  if (dots && ndim >= letters && ndim - letters > l->dots)
    l->dots = ndim - letters;
  return 1;
}

/* The labels of all operands; *p moves behind the arrow, or to the end where there is none. */
static int vram__labels_read_operands(vram__labels *l, const vram_node *n, const char **p,
                                      int *arrow) {
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    if (!vram__labels_read_operand(l, p, n->in[i]->d->ndim))
      return 0;
    if ((*p < l->end && **p == ',') != (i + 1 < n->nin))
      return vram__labels_fail(l, "other operands than the equation has");
    if (i + 1 < n->nin)
      ++*p;
  }
  *arrow = *p < l->end;
  if (*arrow && (l->end - *p < 2 || (*p)[1] != '>'))
    return vram__labels_fail_signs(l);
  if (*arrow)
    *p += 2;
  return 1;
}

/* The positions of the result's labels, which begin at p. */
static int vram__labels_read_result(vram__labels *l, const char *p, int *dots) {
  for (; p < l->end; p++)
    if (*p == '.') {
      if (*dots || !vram__einsum_is_dots(p, l->end))
        return vram__labels_fail_signs(l);
      *dots = 1;
      l->dots_at = l->n;
      l->n += l->dots;
      p += 2;
    } else {
      const int label = vram__einsum_label(*p);
      if (label < 0)
        return vram__labels_fail_signs(l);
      if (l->at[label] || !l->used[label])
        return vram__labels_fail(l, "a label of the result that is there twice or in no operand");
      l->at[label] = (uint8_t)++l->n;
    }
  return 1;
}

/* Without an arrow the result has the ellipsis, then every label that is there once, in
   alphabetical order. */
static void vram__labels_imply_result(vram__labels *l) {
  uint32_t i;
  l->n = l->dots;
  for (i = 0; i < VRAM__LETTERS; i++)
    if (l->used[i] == 1)
      l->at[i] = (uint8_t)++l->n;
}

/* Labels that are summed stand behind those of the result. */
static void vram__labels_place_summed(vram__labels *l, int dots) {
  uint32_t i;
  l->nout = l->n;
  if (!dots) {
    l->dots_at = l->n;
    l->n += l->dots;
  }
  for (i = 0; i < VRAM__LETTERS; i++)
    if (l->used[i] && !l->at[i])
      l->at[i] = (uint8_t)++l->n;
}

/* The positions of the axes of the operand whose labels begin at *p, which moves behind them and
   their comma. A position can come twice: a diagonal. 0: the labels do not fit the operand. */
static int vram__labels_axes(const vram__labels *l, const char **p, uint32_t ndim, uint8_t *to) {
  const char *c;
  uint32_t letters = 0, count = 0, own, i;
  int dots = 0;
  for (c = *p; c < l->end && *c != ',' && *c != '-'; c++)
    if (*c == '.')
      dots = 1;
    else
      letters++;
  own = ndim - letters; /* axes that its ellipsis stands for */
  if (letters > ndim || (!dots && own) || own > l->dots)
    return 0;
  for (c = *p; c < l->end && *c != ',' && *c != '-'; c++)
    if (*c == '.') {
      for (i = l->dots - own; i < l->dots; i++)
        to[count++] = (uint8_t)(l->dots_at + i);
      c += 2;
    } else
      to[count++] = (uint8_t)(l->at[vram__einsum_label(*c)] - 1);
  *p = c < l->end && *c == ',' ? c + 1 : c;
  return 1;
}

/* The sizes of all positions, and how many operands have more than 1 there. */
static int vram__labels_measure(vram__labels *l, const vram_node *n) {
  const char *p = l->text;
  uint8_t axis[VRAM_MAX_AXES];
  uint32_t k, i;
  for (i = 0; i < l->n; i++)
    l->size[i] = 1;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    uint64_t seen = 0;
    if (!vram__labels_axes(l, &p, d->ndim, axis))
      return vram__labels_fail(l, "an operand of another number of axes than its labels");
    for (i = 0; i < d->ndim; i++) {
      int64_t *size = l->size + axis[i];
      if (d->v[i] == 1)
        continue;
      if (*size != 1 && *size != d->v[i])
        return vram__labels_fail(l, "sizes that differ for one label");
      *size = d->v[i];
      l->count[axis[i]] = (uint8_t)(l->count[axis[i]] + !(seen >> axis[i] & 1));
      seen |= UINT64_C(1) << axis[i];
    }
  }
  return 1;
}

/* Gives every label its position, and the sizes (Linear.cpp, einsum). 0: an equation that PyTorch
   rejects. */
static int vram__labels_of(vram__labels *l, const vram_node *n) {
  const int64_t *text = vram__node_list(n, VRAM__KEY_equation, NULL);
  const char *p;
  int arrow, dots = 0;
  vram__memory_zero(l, sizeof *l);
  l->operands = n->nin;
  p = l->text = (const char *)(uintptr_t)text[0];
  l->end = p + text[1];
  if (!vram__labels_read_operands(l, n, &p, &arrow))
    return 0;
  if (!arrow)
    vram__labels_imply_result(l);
  else if (!vram__labels_read_result(l, p, &dots))
    return 0;
  vram__labels_place_summed(l, !arrow || dots);
  return vram__labels_measure(l, n);
}

/* Every product on the way has at most 8 axes; a label goes when no later operand has it. */
static int vram__einsum_is_narrow(vram__labels *l, const vram_node *n) {
  const char *p = l->text;
  uint8_t axis[VRAM_MAX_AXES];
  uint64_t all = 0, own;
  uint32_t k, i, wide;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    vram__labels_axes(l, &p, d->ndim, axis);
    own = 0;
    for (i = 0; i < d->ndim; i++)
      if (d->v[i] != 1)
        own |= UINT64_C(1) << axis[i];
    all |= own;
    wide = 0;
    for (i = 0; i < l->n; i++)
      wide += (uint32_t)(all >> i & 1);
    if (wide > VRAM_MAX_AXES)
      return 0;
    for (i = l->nout; k && i < l->n; i++)
      if ((all >> i & 1) && (l->count[i] == 1 || ((own >> i & 1) && --l->count[i] == 1)))
        all &= ~(UINT64_C(1) << i);
  }
  return 1;
}

static int vram__shape_einsum(vram_graph *g, vram_node *n) {
  vram__labels l;
  vram__promote promote;
  uint32_t i;
  if (!vram__labels_of(&l, n))
    return vram__node_error(g, n, l.problem);
  if (!vram__einsum_is_narrow(&l, n))
    return vram__node_error(g, n, "an intermediate result of more than 8 axes");
  if (l.nout > VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  vram__memory_zero(&promote, sizeof promote);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&promote, n->in[i]->dtype, n->in[i]->d->ndim);
  g->extra += (uint64_t)n->nin * 4096;
  return vram__node_out(g, n, 0, l.nout, l.size, vram__promote_get(&promote));
}

/* One product of all labels for each operand but the first. */
static uint64_t vram__flops_einsum(const vram_node *n) {
  vram__labels l;
  uint64_t flops;
  uint32_t i;
  if (n->nin < 2 || !vram__labels_of(&l, n))
    return vram__flops_each(n);
  flops = vram__product_or_overflow(2, n->nin - 1u);
  for (i = 0; i < l.n; i++)
    flops = vram__product_or_overflow(flops, (uint64_t)l.size[i]);
  return flops;
}

#ifndef VRAM_NO_STEP

/* ---- operands: sets of positions are bits ---- */

static uint64_t vram__operand_positions(const vram__operand *o) {
  uint64_t set = 0;
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    set |= UINT64_C(1) << o->at[i];
  return set;
}

static int64_t vram__operand_size_at(const vram__operand *o, uint32_t at) {
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    if (o->at[i] == at)
      return o->t.d->v[i];
  return 1;
}

static int vram__einsum_last_of(uint64_t set) {
  int i = -1;
  for (; set; set >>= 1)
    i++;
  return i;
}

static uint64_t vram__einsum_first_of(uint64_t set) { return set & (0 - set); }

/* o is contiguous, its positions in the order of these groups: the strides of those of size 1 */
static void vram__operand_stride_ones(vram__operand *o, const uint64_t *group, uint32_t groups) {
  int64_t stride = 1;
  uint32_t g, i;
  for (g = groups; g-- > 0;)
    for (i = VRAM__MAX_LABELS; i-- > 0;)
      if (group[g] >> i & 1) {
        o->one[i] = stride;
        stride *= vram__operand_size_at(o, i);
      }
}

/* o.sum over these positions of n; takes the old tensor. */
static void vram__operand_sum(vram__step *s, vram__operand *o, uint64_t positions, uint32_t n) {
  const uint64_t all = (UINT64_C(1) << n) - 1;
  uint32_t i, ndim = 0, mask = 0;
  vram__grad_fn *f;
  vram__tensor y;
  for (i = 0; i < o->t.d->ndim; i++)
    if (positions >> o->at[i] & 1)
      mask |= 1u << i;
    else
      o->at[ndim++] = o->at[i];
  if (!mask)
    return;
  f = vram__tape_record(s, VRAM_OP_sum, &o->t, 1, 1, 0);
  if (f)
    f->aux = mask | 256u;
  y = vram__tensor_sum(s, o->t, mask, 0, o->t.dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_replace(s, &o->t, y);
  vram__operand_stride_ones(o, &all, 1);
}

/* o as a view with all these positions as axes, for a product with broadcasting. */
static vram__tensor vram__operand_spread(vram__step *s, const vram__operand *o,
                                         uint64_t positions) {
  const vram_dims *d = o->t.d;
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, k = 0, ndim = 0;
  for (i = 0; i < VRAM__MAX_LABELS && ndim < VRAM_MAX_AXES; i++) {
    if (!(positions >> i & 1))
      continue;
    if (k < d->ndim && o->at[k] == i) {
      size[ndim] = d->v[k];
      stride[ndim] = VRAM__STRIDE(d)[k++];
    } else {
      size[ndim] = 1;
      stride[ndim] = k < d->ndim ? d->v[k] * VRAM__STRIDE(d)[k] : 1;
    }
    ndim++;
  }
  return vram__torch_view_as(s, o->t, vram__dims_in(s, ndim, size, stride), VRAM__K_view, 0);
}

/* o permuted to three groups of positions, each of which becomes one axis; `last`: the position
   that comes last of all, also if it is of size 1. Then computeStride takes its stride. */
static vram__tensor vram__operand_group(vram__step *s, const vram__operand *o,
                                        const uint64_t *group, int last) {
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[3], stride[VRAM_MAX_AXES];
  uint32_t i, k, count = 0;
  vram__tensor y;
  for (k = 0; k < 3; k++) {
    size[k] = 1;
    for (i = 0; i < o->t.d->ndim; i++)
      if (group[k] >> o->at[i] & 1) {
        order[count++] = (uint8_t)i;
        size[k] *= o->t.d->v[i];
      }
  }
  y = vram__torch_permute(s, o->t, order);
  if (size[2] == 1 && last >= 0 && vram__operand_size_at(o, (uint32_t)last) == 1 && !s->ideal &&
      vram__dims_view_strides(y.d, 3, size, stride)) {
    stride[2] = o->one[last];
    vram__tensor_replace(
        s, &y, vram__torch_view_as(s, y, vram__dims_in(s, 3, size, stride), VRAM__K_view, 0));
  } else
    vram__tensor_replace(s, &y, vram__torch_reshape(s, y, 3, size));
  return y;
}

/* ---- products of two (Linear.cpp, sumproduct_pair) ---- */

VRAM__FN vram__tensor vram__torch_mul(vram__step *s, vram__tensor a, vram__tensor b) {
  vram__tensor in[2];
  in[0] = a;
  in[1] = b;
  return vram__torch_pointwise(s, VRAM_OP_mul, in, 2);
}

/* Nothing is summed: a product of elements with axes for these positions of n. Takes both. */
static vram__operand vram__einsum_multiply(vram__step *s, const vram__operand *a,
                                           const vram__operand *b, uint32_t n, uint64_t positions) {
  const uint64_t all = (UINT64_C(1) << n) - 1;
  vram__tensor left, right;
  vram__operand y;
  uint32_t i, ndim = 0;
  left = vram__operand_spread(s, a, positions);
  vram__tensor_release(s, a->t);
  right = vram__operand_spread(s, b, positions);
  vram__tensor_release(s, b->t);
  y.t = vram__torch_mul(s, left, right);
  vram__tensor_release(s, right);
  vram__tensor_release(s, left);
  for (i = 0; i < n && ndim < VRAM_MAX_AXES; i++)
    if (positions >> i & 1)
      y.at[ndim++] = (uint8_t)i;
  vram__operand_stride_ones(&y, &all, 1);
  return y;
}

/* Two operands of a batched product; which positions both have (lro), only the left (lo), only the
   right (ro), and which are summed. `left` and `right` are lo and ro with positions of size 1. */
typedef struct vram__einsum_product {
  vram__operand a, b;
  uint64_t lro, lo, ro, sum, left, right;
  uint32_t n;
} vram__einsum_product;

/* Positions that are 1 in both count as the right's. If all of the right's are in front of those of
   the left, the other way round the result needs no transposing. */
static void vram__einsum_sort_positions(vram__einsum_product *p) {
  const uint64_t all = (UINT64_C(1) << p->n) - 1;
  const uint64_t a = vram__operand_positions(&p->a), b = vram__operand_positions(&p->b);
  p->lro = a & b & ~p->sum;
  p->lo = p->left = a & ~b & ~p->sum;
  p->ro = b & ~a & ~p->sum;
  p->right = all & ~p->sum & ~p->lro & ~p->lo;
  if (p->lo && p->right && p->right < vram__einsum_first_of(p->lo)) {
    const vram__operand operand = p->a;
    const uint64_t lo = p->lo, left = p->left;
    p->a = p->b;
    p->b = operand;
    p->lo = p->ro;
    p->ro = lo;
    p->left = p->right;
    p->right = left;
  }
}

/* The result [lro, lo, ro] as an operand: its axes apart and in order. Takes t. aux: of the view,
   see vram__backward_view. */
static vram__operand vram__einsum_result(vram__step *s, const vram__einsum_product *p,
                                         vram__tensor t, uint64_t aux) {
  uint64_t group[4];
  int64_t size[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES], at[VRAM_MAX_AXES];
  uint32_t i, j, ndim = 0, k = 0;
  vram__operand y;
  group[0] = p->lro;
  group[1] = p->lo;
  group[2] = p->ro;
  for (j = 0; j < 3; j++)
    for (i = 0; i < p->n && ndim < VRAM_MAX_AXES; i++)
      if (group[j] >> i & 1) {
        at[ndim] = (uint8_t)i;
        size[ndim++] = vram__operand_size_at(j < 2 ? &p->a : &p->b, i);
      }
  y.t = t;
  vram__tensor_replace(
      s, &y.t, vram__torch_view_as(s, t, vram__dims_in(s, ndim, size, NULL), VRAM__K_view, aux));
  for (i = 0; i < p->n && k < ndim; i++)
    for (j = 0; j < ndim; j++)
      if (at[j] == i) {
        y.at[k] = (uint8_t)i;
        order[k++] = (uint8_t)j;
      }
  vram__tensor_replace(s, &y.t, vram__torch_permute(s, y.t, order));
  group[0] = p->lro;
  group[1] = p->left;
  group[2] = p->sum;
  group[3] = p->right;
  vram__operand_stride_ones(&y, group, 4);
  return y;
}

/* The product of a and b summed over the positions `sum` of n, the first nout of which are the
   result's; takes both. It is a batched product of (lro, lo, sum) and (lro, sum, ro). */
VRAM__FN vram__operand vram__einsum_pair(vram__step *s, vram__operand a, vram__operand b,
                                         uint64_t sum, uint32_t n, int nout) {
  const uint64_t one = sum & (vram__operand_positions(&a) ^ vram__operand_positions(&b));
  vram__einsum_product p;
  uint64_t group[3];
  int last[2];
  vram__tensor left, right, product;
  if (!sum)
    return vram__einsum_multiply(s, &a, &b, n,
                                 vram__operand_positions(&a) | vram__operand_positions(&b));
  vram__operand_sum(s, &a, one, n);
  vram__operand_sum(s, &b, one, n);
  p.a = a;
  p.b = b;
  p.sum = sum;
  p.n = n;
  vram__einsum_sort_positions(&p);
  last[0] = vram__einsum_last_of(p.right ? p.right : sum);
  last[1] = vram__einsum_last_of(p.left ? p.left : p.right ? p.right : sum);
  group[0] = p.lro;
  group[1] = p.lo;
  group[2] = sum;
  left = vram__operand_group(s, &p.a, group, last[0]);
  group[1] = sum;
  group[2] = p.ro;
  right = vram__operand_group(s, &p.b, group, last[1]);
  product = vram__torch_product(s, VRAM__K_bmm, left, right);
  vram__tensor_release(s, right);
  vram__tensor_release(s, left);
  vram__tensor_release(s, b.t); /* the caller's variables, which were not swapped */
  vram__tensor_release(s, a.t);
  /* einsum squeezes what was summed at the end: backward's unsqueeze gives it stride 1 */
  return vram__einsum_result(s, &p, product, !p.ro && last[0] >= nout);
}

/* ---- einsum ---- */

/* The diagonal of axes i and j of x, which is axis i then; takes x. */
static vram__tensor vram__einsum_diagonal(vram__step *s, vram__tensor x, uint32_t i, uint32_t j) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  const int64_t *from = VRAM__STRIDE(x.d);
  uint32_t k, ndim = 0;
  vram__tensor y;
  for (k = 0; k < x.d->ndim; k++)
    if (k != j) {
      size[ndim] = x.d->v[k];
      stride[ndim++] = from[k] + (k == i ? from[j] : 0);
    }
  y = vram__torch_view_as(s, x, vram__dims_in(s, ndim, size, stride), VRAM__K_slice, 0);
  vram__tensor_release(s, x);
  return y;
}

/* Labels that come twice; takes x. */
static vram__tensor vram__einsum_diagonals(vram__step *s, vram__tensor x, uint8_t *at) {
  uint32_t i, j = 1, k;
  while (j < x.d->ndim) {
    for (i = 0; i < j && at[i] != at[j];)
      i++;
    if (i == j) {
      j++;
      continue;
    }
    x = vram__einsum_diagonal(s, x, i, j);
    for (k = j; k < x.d->ndim; k++)
      at[k] = at[k + 1];
  }
  return x;
}

/* Axes of size 1 are left out, only their strides are kept; takes x. */
static vram__tensor vram__einsum_squeeze(vram__step *s, vram__tensor x, uint8_t *at, int64_t *one) {
  const int64_t *from = VRAM__STRIDE(x.d);
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, ndim = 0;
  vram__tensor y;
  for (i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] == 1)
      one[at[i]] = from[i];
    else {
      at[ndim] = at[i];
      size[ndim] = x.d->v[i];
      stride[ndim++] = from[i];
    }
  if (ndim == x.d->ndim)
    return x;
  y = vram__torch_view_as(s, x, vram__dims_in(s, ndim, size, stride), VRAM__K_view, 0);
  vram__tensor_release(s, x);
  return y;
}

/* Axes that the ellipsis lacks here are put in front of its others (unsqueeze): the strides that
   they get. */
static void vram__einsum_stride_missing(const vram__labels *l, const vram_dims *x,
                                        const uint8_t *at, int64_t *one) {
  uint32_t i, j;
  for (i = 0; i < x->ndim; i++)
    if (at[i] >= l->dots_at && at[i] < l->dots_at + l->dots) {
      for (j = l->dots_at; j < at[i]; j++)
        one[j] = x->v[i] * VRAM__STRIDE(x)[i];
      return;
    }
}

/* An operand of einsum: diagonals of labels that come twice, axes in the order of their positions;
   of several operands those of size 1 are left out. Takes x. */
static vram__operand vram__einsum_operand(vram__step *s, vram__tensor x, uint8_t *at,
                                          const vram__labels *l) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i, j;
  vram__operand o;
  for (i = 0; i < VRAM__MAX_LABELS; i++)
    o.one[i] = 1;
  vram__einsum_stride_missing(l, x.d, at, o.one);
  x = vram__einsum_diagonals(s, x, at);
  if (l->operands > 1)
    x = vram__einsum_squeeze(s, x, at, o.one);
  for (i = 0; i < x.d->ndim; i++) {
    for (j = i; j > 0 && at[order[j - 1]] > at[i]; j--)
      order[j] = order[j - 1];
    order[j] = (uint8_t)i;
  }
  for (i = 0; i < x.d->ndim; i++)
    o.at[i] = at[order[i]];
  o.t = vram__torch_permute(s, x, order);
  vram__tensor_release(s, x);
  return o;
}

/* The product of a and b; a label is summed as soon as no later operand has it. Takes both. */
static vram__operand vram__einsum_next(vram__step *s, vram__labels *l, vram__operand a,
                                       vram__operand b) {
  const uint64_t in_a = vram__operand_positions(&a), in_b = vram__operand_positions(&b);
  uint64_t sum = 0, sum_a = 0, sum_b = 0;
  uint32_t i;
  if (l->n == l->nout) /* nothing is summed anywhere: the product is the result, no view of it */
    return vram__einsum_multiply(s, &a, &b, l->n, (UINT64_C(1) << l->n) - 1);
  for (i = l->nout; i < l->n; i++) {
    const uint64_t bit = UINT64_C(1) << i;
    if (in_a & in_b & bit) {
      if (--l->count[i] == 1)
        sum |= bit;
    } else if (l->count[i] == 1) {
      sum_a |= in_a & bit;
      sum_b |= in_b & bit;
    }
  }
  vram__operand_sum(s, &a, sum_a, l->n);
  vram__operand_sum(s, &b, sum_b, l->n);
  return vram__einsum_pair(s, a, b, sum, l->n, (int)l->nout);
}

/* What is left is the result, but for axes of size 1, which come back; takes it. Behind a product
   axes that were summed go by a view. */
static vram__tensor vram__einsum_unsqueeze(vram__step *s, const vram__operand *o,
                                           const vram__labels *l, const vram_dims *out) {
  const vram_dims *d = o->t.d;
  const uint32_t nout = l->nout;
  int64_t stride[VRAM_MAX_AXES];
  uint32_t i, k = 0;
  vram__tensor y;
  if (nout == d->ndim && !(l->operands > 1 && l->n > nout))
    return o->t;
  for (i = 0; i < nout; i++)
    if (k < d->ndim && o->at[k] == i)
      stride[i] = VRAM__STRIDE(d)[k++];
    else
      stride[i] = k < d->ndim ? d->v[k] * VRAM__STRIDE(d)[k] : 1;
  y = vram__torch_view_as(s, o->t, vram__dims_in(s, nout, out->v, stride), VRAM__K_view, 0);
  vram__tensor_release(s, o->t);
  return y;
}

/* Linear.cpp, einsum: operands from left to right. */
static void vram__forward_einsum(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__labels l;
  const char *p;
  uint8_t at[VRAM_MAX_AXES];
  uint32_t k;
  vram__operand a;
  vram__memory_zero(&a, sizeof a);
  vram__labels_of(&l, n);
  p = l.text;
  for (k = 0; k < n->nin; k++) /* autocast's list of casts stays until the end */
    x[k] = vram__autocast_low(s, x[k]);
  for (k = 0; k < n->nin; k++) {
    vram__operand next;
    vram__labels_axes(&l, &p, x[k].d->ndim, at);
    next = vram__einsum_operand(s, vram__tensor_retain(s, x[k]), at, &l);
    a = k ? vram__einsum_next(s, &l, a, next) : next;
  }
  vram__operand_sum(s, &a, ~((UINT64_C(1) << l.nout) - 1), l.n);
  y[0] = vram__einsum_unsqueeze(s, &a, &l, n->out[0].d);
  for (k = 0; k < n->nin; k++)
    vram__tensor_release(s, x[k]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(einsum, "", 1, 64, einsum, SAME, low, einsum, none, einsum, PRODUCT, 0, 0, "equation!");
