/* >>ops/einsum    einsum as a product of two operands at a time */
#include "ops/ops.h"

static int vram__einsum_label(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* The positions of the axes of the operand whose labels begin at *p, which moves behind them and
   their comma. -1: they do not fit the operand. A position can come twice: a diagonal. */
static int vram__label_axes(const vram__labels *l, const char **p, uint32_t ndim, uint8_t *to) {
  const char *q = *p, *end = l->text + l->len;
  uint32_t letters = 0, m = 0, i;
  int dots = 0;
  for (; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.')
      dots = 1;
    else
      letters++;
  if (letters > ndim || (!dots && letters != ndim) || ndim - letters > l->dots)
    return -1;
  for (q = *p; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.') {
      for (i = l->dots - (ndim - letters); i < l->dots; i++)
        to[m++] = (uint8_t)(l->dots_at + i);
      q += 2;
    } else
      to[m++] = (uint8_t)(l->at[vram__einsum_label(*q)] - 1);
  *p = q < end && *q == ',' ? q + 1 : q;
  return 0;
}

/* Gives every label its position, and the sizes. 0: an equation that PyTorch rejects (*what). */
static int vram__label_all(vram__labels *l, const vram_node *n, const char **what) {
  uint32_t c, i, k, letters, used[52], dots_out = 0;
  const int64_t *v = vram__node_list(n, VRAM__KEY_equation, &c);
  const char *p, *end, *arrow = NULL;
  uint8_t axis[VRAM_MAX_AXES];
  vram__memory_zero(l, sizeof *l);
  vram__memory_zero(used, sizeof used);
  l->text = (const char *)(uintptr_t)v[0];
  l->len = (uint32_t)v[1];
  p = l->text, end = p + l->len;
  *what = "an equation with other signs than letters, commas, ... and ->";
  for (k = 0; k < n->nin; k++) { /* letters of the operands */
    int dots = 0;
    for (letters = 0; p < end && *p != ',' && *p != '-'; p++)
      if (*p == '.') {
        if (dots || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        dots = 1;
        p += 2;
      } else {
        if (vram__einsum_label(*p) < 0)
          return 0;
        used[vram__einsum_label(*p)]++;
        letters++;
      }
    if (dots && n->in[k]->d->ndim >= letters && n->in[k]->d->ndim - letters > l->dots)
      l->dots = n->in[k]->d->ndim - letters;
    if (k + 1 < n->nin) {
      *what = "other operands than the equation has";
      if (p == end || *p != ',')
        return 0;
      *what = "an equation with other signs than letters, commas, ... and ->";
      p++;
    }
  }
  if (p < end && *p == ',') {
    *what = "other operands than the equation has";
    return 0;
  }
  if (p < end) {
    if (end - p < 2 || p[1] != '>')
      return 0;
    arrow = p + 2;
  }
  if (arrow) {
    for (p = arrow; p < end; p++)
      if (*p == '.') {
        if (dots_out || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        p += 2;
        l->dots_at = l->n, l->n += l->dots, dots_out = 1;
      } else {
        int a = vram__einsum_label(*p);
        if (a < 0)
          return 0;
        *what = "a label of the result that is there twice or in no operand";
        if (l->at[a] || !used[a])
          return 0;
        *what = "an equation with other signs than letters, commas, ... and ->";
        l->at[a] = (uint8_t)++l->n;
      }
  } else { /* the ellipsis, then every label that is there once, in alphabetical order */
    l->n = l->dots, dots_out = 1;
    for (i = 0; i < 52; i++)
      if (used[i] == 1)
        l->at[i] = (uint8_t)++l->n;
  }
  l->nout = l->n;
  if (!dots_out)
    l->dots_at = l->n, l->n += l->dots;
  for (i = 0; i < 52; i++)
    if (used[i] && !l->at[i])
      l->at[i] = (uint8_t)++l->n;
  for (i = 0; i < l->n; i++)
    l->size[i] = 1;
  for (p = l->text, k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    uint64_t mine = 0;
    *what = "an operand of another number of axes than its labels";
    if (vram__label_axes(l, &p, d->ndim, axis))
      return 0;
    *what = "sizes that differ for one label";
    for (i = 0; i < d->ndim; i++) {
      int64_t *z = l->size + axis[i];
      if (d->v[i] != 1 && *z != 1 && *z != d->v[i])
        return 0;
      if (d->v[i] == 1)
        continue;
      *z = d->v[i];
      if (!(mine >> axis[i] & 1))
        l->count[axis[i]]++;
      mine |= UINT64_C(1) << axis[i];
    }
  }
  return 1;
}

static int vram__shape_einsum(vram_graph *g, vram_node *n) {
  vram__labels l;
  const char *what, *p;
  uint8_t axis[VRAM_MAX_AXES];
  uint64_t all = 0, mine;
  uint32_t k, i, wide;
  vram__promote pr;
  if (!vram__label_all(&l, n, &what))
    return vram__node_error(g, n, what);
  vram__memory_zero(&pr, sizeof pr);
  for (p = l.text, k = 0; k < n->nin; k++) { /* the widest tensor on the way */
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&pr, n->in[k]->dtype, d->ndim);
    vram__label_axes(&l, &p, d->ndim, axis);
    for (mine = 0, i = 0; i < d->ndim; i++)
      if (d->v[i] != 1)
        mine |= UINT64_C(1) << axis[i];
    all |= mine;
    for (wide = 0, i = 0; i < l.n; i++)
      wide += (uint32_t)(all >> i & 1);
    if (wide > VRAM_MAX_AXES)
      return vram__node_error(g, n, "an intermediate result of more than 8 axes");
    for (i = l.nout; k && i < l.n; i++)
      if ((all >> i & 1) && (l.count[i] == 1 || ((mine >> i & 1) && --l.count[i] == 1)))
        all &= ~(UINT64_C(1) << i);
  }
  if (l.nout > VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  g->extra += (uint64_t)n->nin * 4096;
  return vram__node_out(g, n, 0, l.nout, l.size, vram__promote_get(&pr));
}

/* One product of all labels for each operand but the first. */
static uint64_t vram__flops_einsum(const vram_node *n) {
  vram__labels l;
  const char *what;
  uint64_t flops;
  uint32_t i;
  if (n->nin < 2 || !vram__label_all(&l, n, &what))
    return vram__flops_each(n);
  flops = vram__product_or_overflow(2, n->nin - 1);
  for (i = 0; i < l.n; i++)
    flops = vram__product_or_overflow(flops, (uint64_t)l.size[i]);
  return flops;
}

#ifndef VRAM_NO_STEP

static uint64_t vram__einsum_places(const vram__operand *o) {
  uint64_t m = 0;
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    m |= UINT64_C(1) << o->at[i];
  return m;
}

static int64_t vram__einsum_size_at(const vram__operand *o, uint32_t at) {
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    if (o->at[i] == at)
      return o->t.d->v[i];
  return 1;
}

static int vram__einsum_top_bit(uint64_t m) {
  int i = -1;
  for (; m; m >>= 1)
    i++;
  return i;
}

/* o is contiguous, its positions in the order of these groups: the strides of those of size 1 */
static void vram__einsum_ones(vram__operand *o, const uint64_t *group, uint32_t groups) {
  int64_t z = 1;
  uint32_t g, i;
  for (g = groups; g-- > 0;)
    for (i = VRAM__MAX_LABELS; i-- > 0;)
      if (group[g] >> i & 1)
        o->one[i] = z, z *= vram__einsum_size_at(o, i);
}

/* o.sum over these positions of n; takes the old tensor */
static void vram__einsum_sum_places(vram__step *s, vram__operand *o, uint64_t places, uint32_t n) {
  uint64_t all = (UINT64_C(1) << n) - 1;
  uint32_t i, m = 0, mask = 0;
  vram__grad_fn *f;
  vram__tensor y;
  for (i = 0; i < o->t.d->ndim; i++)
    if (places >> o->at[i] & 1)
      mask |= 1u << i;
    else
      o->at[m++] = o->at[i];
  if (!mask)
    return;
  f = vram__tape_record(s, VRAM_OP_sum, &o->t, 1, 1, 0);
  if (f)
    f->aux = mask;
  y = vram__tensor_sum(s, o->t, mask, 0, o->t.dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, o->t);
  o->t = y;
  vram__einsum_ones(o, &all, 1);
}

/* o as a view with all these positions as axes, for a product with broadcasting */
static vram__tensor vram__einsum_spread(vram__step *s, const vram__operand *o, uint64_t places) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, k = 0, m = 0;
  for (i = 0; i < VRAM__MAX_LABELS && m < VRAM_MAX_AXES; i++)
    if (places >> i & 1) {
      if (k < o->t.d->ndim && o->at[k] == i)
        size[m] = o->t.d->v[k], stride[m++] = VRAM__STRIDE(o->t.d)[k++];
      else
        size[m] = 1, stride[m++] = k < o->t.d->ndim ? o->t.d->v[k] * VRAM__STRIDE(o->t.d)[k] : 1;
    }
  return vram__torch_view_as(s, o->t, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
}

/* o permuted to three groups of positions and each group made one axis; `last`: the position that
   comes last of all, also if it is of size 1 */
static vram__tensor vram__einsum_grouped(vram__step *s, const vram__operand *o,
                                         const uint64_t *group, int last) {
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[3], stride[VRAM_MAX_AXES];
  uint32_t i, k, m = 0;
  vram__tensor p, q;
  for (k = 0; k < 3; k++)
    for (size[k] = 1, i = 0; i < o->t.d->ndim; i++)
      if (group[k] >> o->at[i] & 1)
        order[m++] = (uint8_t)i, size[k] *= o->t.d->v[i];
  p = vram__torch_permute(s, o->t, order);
  if (size[2] == 1 && last >= 0 && vram__einsum_size_at(o, (uint32_t)last) == 1 && !s->ideal &&
      vram__dims_view_strides(p.d, 3, size,
                              stride)) { /* computeStride takes the last axis' stride */
    stride[2] = o->one[last];
    q = vram__torch_view_as(s, p, vram__dims_in(s, 3, size, stride), VRAM__K_view, 0);
  } else
    q = vram__torch_reshape(s, p, 3, size);
  vram__tensor_release(s, p);
  return q;
}

VRAM__FN vram__tensor vram__torch_mul(vram__step *s, vram__tensor a, vram__tensor b) {
  vram__tensor in[2];
  in[0] = a, in[1] = b;
  return vram__torch_pointwise(s, VRAM_OP_mul, in, 2);
}

/* Linear.cpp, sumproduct_pair: the product of a and b summed over the positions `sum` of n; takes
   both. It is a batched product of (both, only a, sum) and (both, sum, only b), or a pointwise one.
 */
VRAM__FN vram__operand vram__einsum_pair(vram__step *s, vram__operand a, vram__operand b,
                                         uint64_t sum, uint32_t n, int nout) {
  uint64_t pa, pb, both, la, lb, group[4], m, all = (UINT64_C(1) << n) - 1;
  int last[2];
  int64_t size[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES], at[VRAM_MAX_AXES];
  uint32_t i, j, k = 0;
  vram__operand y;
  vram__tensor p, q;
  if (!sum) {
    pa = vram__einsum_places(&a) | vram__einsum_places(&b);
    p = vram__einsum_spread(s, &a, pa);
    vram__tensor_release(s, a.t);
    q = vram__einsum_spread(s, &b, pa);
    vram__tensor_release(s, b.t);
    y.t = vram__torch_mul(s, p, q);
    vram__tensor_release(s, p);
    vram__tensor_release(s, q);
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (pa >> i & 1)
        y.at[k++] = (uint8_t)i;
    vram__einsum_ones(&y, &all, 1);
    return y;
  }
  m = vram__einsum_places(&a) ^ vram__einsum_places(&b);
  vram__einsum_sum_places(s, &a, m & sum, n);
  vram__einsum_sum_places(s, &b, m & sum, n);
  pa = vram__einsum_places(&a), pb = vram__einsum_places(&b);
  both = pa & pb & ~sum, la = pa & ~pb & ~sum, lb = pb & ~pa & ~sum;
  /* positions that are 1 in both count as b's; if all of b's are in front of those of a, the other
     way round the result needs no transposing */
  pa = la, pb = all & ~sum & ~both & ~la;
  if (la && pb && pb < (la & (0 - la))) {
    vram__operand t = a;
    a = b, b = t;
    m = la, la = lb, lb = m;
    m = pa, pa = pb, pb = m;
  }
  last[0] = vram__einsum_top_bit(pb ? pb : sum ? sum : pa ? pa : both);
  last[1] = vram__einsum_top_bit(pa ? pa : pb ? pb : sum ? sum : both);
  group[0] = both, group[1] = la, group[2] = sum;
  p = vram__einsum_grouped(s, &a, group, last[0]);
  group[1] = sum, group[2] = lb;
  q = vram__einsum_grouped(s, &b, group, last[1]);
  y.t = vram__torch_product(s, VRAM__K_bmm, p, q);
  group[1] = la;
  for (j = 0; j < 3; j++)
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (group[j] >> i & 1) {
        at[k] = (uint8_t)i;
        size[k++] = vram__einsum_size_at(j < 2 ? &a : &b, i);
      }
  vram__tensor_release(s, a.t);
  vram__tensor_release(s, b.t);
  vram__tensor_release(s, p);
  vram__tensor_release(s, q);
  /* einsum squeezes what was summed at the end: backward's unsqueeze gives it stride 1 */
  p = vram__torch_view_as(s, y.t, vram__dims_in(s, k, size, NULL), VRAM__K_view,
                          !lb && last[0] >= nout);
  vram__tensor_release(s, y.t);
  for (m = both | la | lb, j = 0, i = 0; i < n && j < k; i++)
    if (m >> i & 1) {
      uint32_t o = 0;
      while (at[o] != i)
        o++;
      y.at[j] = (uint8_t)i;
      order[j++] = (uint8_t)o;
    }
  y.t = vram__torch_permute(s, p, order);
  vram__tensor_release(s, p);
  group[0] = both, group[1] = pa, group[2] = sum, group[3] = pb;
  vram__einsum_ones(&y, group, 4);
  return y;
}

/* An operand of einsum: diagonals of labels that come twice, axes of size 1 left out, in order of
   their positions. Takes x. */
static vram__operand vram__einsum_operand(vram__step *s, vram__tensor x, uint8_t *at,
                                          const vram__labels *l) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i, j, k, m;
  vram__operand o;
  vram__tensor t;
  for (i = 0; i < VRAM__MAX_LABELS; i++)
    o.one[i] = 1;
  for (i = 0; i < x.d->ndim;
       i++) /* axes that the ellipsis lacks here stand in front of its others */
    if (at[i] >= l->dots_at && at[i] < l->dots_at + l->dots)
      for (j = l->dots_at; j < at[i]; j++)
        o.one[j] = x.d->v[i] * VRAM__STRIDE(x.d)[i], i = x.d->ndim - 1;
  for (j = 1; j < x.d->ndim; j++)
    for (i = 0; i < j; i++)
      if (at[i] == at[j]) {
        for (m = 0, k = 0; k < x.d->ndim; k++)
          if (k != j)
            size[m] = x.d->v[k],
            stride[m++] = VRAM__STRIDE(x.d)[k] + (k == i ? VRAM__STRIDE(x.d)[j] : 0);
        for (k = j; k < m; k++)
          at[k] = at[k + 1];
        t = vram__torch_view_as(s, x, vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
        vram__tensor_release(s, x);
        x = t;
        j--;
        break;
      }
  for (m = 0, i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] == 1)
      o.one[at[i]] = VRAM__STRIDE(x.d)[i];
    else
      at[m] = at[i], size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
  if (m < x.d->ndim) {
    t = vram__torch_view_as(s, x, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
    vram__tensor_release(s, x);
    x = t;
  }
  for (i = 0; i < m; i++) {
    for (j = i; j > 0 && at[order[j - 1]] > at[i]; j--)
      order[j] = order[j - 1];
    order[j] = (uint8_t)i;
  }
  for (i = 0; i < m; i++)
    o.at[i] = at[order[i]];
  o.t = vram__torch_permute(s, x, order);
  vram__tensor_release(s, x);
  return o;
}

/* Operands from left to right; a label is summed as soon as no later operand has it. */
static void vram__forward_einsum(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__labels l;
  const char *what, *p;
  uint8_t at[VRAM_MAX_AXES];
  int64_t stride[VRAM_MAX_AXES];
  uint64_t sum, sa, sb;
  uint32_t i, k, m;
  vram__operand a, b;
  vram__label_all(&l, n, &what);
  p = l.text;
  for (k = 0; k < n->nin; k++)
    x[k] = s->amp ? vram__autocast_cast(s, x[k], s->amp) : vram__tensor_retain(s, x[k]);
  vram__label_axes(&l, &p, x[0].d->ndim, at); /* autocast's list of casts stays until the end */
  a = vram__einsum_operand(s, vram__tensor_retain(s, x[0]), at, &l);
  for (k = 1; k < n->nin; k++) {
    vram__label_axes(&l, &p, x[k].d->ndim, at);
    b = vram__einsum_operand(s, vram__tensor_retain(s, x[k]), at, &l);
    sum = sa = sb = 0;
    for (i = l.nout; i < l.n; i++) {
      int in_a = (int)(vram__einsum_places(&a) >> i & 1),
          in_b = (int)(vram__einsum_places(&b) >> i & 1);
      uint64_t bit = UINT64_C(1) << i;
      if (in_a && in_b) {
        if (--l.count[i] == 1)
          sum |= bit;
      } else if (l.count[i] == 1)
        sa |= in_a ? bit : 0, sb |= in_b ? bit : 0;
    }
    vram__einsum_sum_places(s, &a, sa, l.n);
    vram__einsum_sum_places(s, &b, sb, l.n);
    a = vram__einsum_pair(s, a, b, sum, l.n, (int)l.nout);
  }
  vram__einsum_sum_places(s, &a, ~((UINT64_C(1) << l.nout) - 1), l.n);
  for (m = 0, i = 0; i < l.nout; i++) /* the axes of size 1 come back */
    if (m < a.t.d->ndim && a.at[m] == i)
      stride[i] = VRAM__STRIDE(a.t.d)[m++];
    else
      stride[i] = m < a.t.d->ndim ? a.t.d->v[m] * VRAM__STRIDE(a.t.d)[m] : 1;
  if (l.nout == a.t.d->ndim)
    y[0] = a.t;
  else {
    y[0] = vram__torch_view_as(s, a.t, vram__dims_in(s, l.nout, n->out[0].d->v, stride),
                               VRAM__K_view, 0);
    vram__tensor_release(s, a.t);
  }
  for (k = 0; k < n->nin; k++)
    vram__tensor_release(s, x[k]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(einsum, 1, 64, einsum, SAME, low, einsum, none, einsum, PRODUCT, 0, 0, "equation!");
