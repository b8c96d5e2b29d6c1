/* >>net/low_shape    lowering: cat, slices, views, pads */
#include "net/low.h"

VRAM__FN int vram__low_cat(vram__low *l, const vram_node *n) {
  const vram_dims *d = n->out[0].d;
  const int64_t dim = VRAM__INT(n, dim, 0);
  const uint32_t a = (uint32_t)(dim < 0 ? dim + d->ndim : dim);
  vram__low_value *x = NULL;
  vram__layout y;
  vram__low_step *s;
  uint32_t i, k, tensors = 0;
  int join = n->op == VRAM_OP_cat, once = 1;
  int64_t h, w, c;
  for (i = 0; i < n->nin; i++) {
    vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind != VRAM__LOW_TENSOR) {
      join = 0;
      continue;
    }
    x = x ? x : v;
    tensors++;
    for (k = 0; k < i; k++)
      once &= vram__low_of(l, n->in[k])->at != v->at;
    if (v->lay.batch && n->op == VRAM_OP_cat && v->lay.axis[0] == a)
      return vram__low_refuse(l, n, "it works across the batch");
    /* the same order in all, the axis innermost */
    for (k = 0; k < v->lay.n && join; k++) {
      if (v->lay.axis[k] == a)
        join = k + 1 == v->lay.n;
      else
        join = k < x->lay.n && v->lay.axis[k] == x->lay.axis[k] && v->lay.size[k] == x->lay.size[k];
    }
    join = join && v->lay.n + (x->lay.n && x->lay.axis[x->lay.n - 1] == a) ==
                       x->lay.n + (v->lay.n && v->lay.axis[v->lay.n - 1] == a);
  }
  if (n->op != VRAM_OP_cat || !x)
    return vram__low_any(l, n, 0, 0, 0, 0);
  y = x->lay;
  y.loose = 0;
  if (!vram__layout_resize(&y, a, d->v[a]))
    return vram__low_refuse(l, n, "too many axes");
  if (vram__layout_of(&x->lay, UINT32_C(1) << a) == 1 && y.n && y.axis[y.n - 1] != a)
    join = 0; /* of single channels that lie somewhere */
  c = vram__layout_of(&x->lay, UINT32_C(1) << a);
  h = l->tensor[x->at].h, w = l->tensor[x->at].w;
  if (l->tensor[x->at].c != c)
    h = vram__layout_of(&x->lay, ~(UINT32_C(1) << a)), w = 1;
  if (!join || !once || tensors < 2 || tensors > 4) {
    if (y.n && y.axis[y.n - 1] == a)
      c = d->v[a];
    else
      c = (int64_t)d->numel / l->n, h = 1, w = 1;
    s = vram__low_custom(l, n, h, w, c);
    return s && vram__low_gives(l, s, n->out, &y);
  }
  s = vram__low_step_new(l, n,
                         tensors == 2   ? VRAM_LINE_CONCAT
                         : tensors == 3 ? VRAM_LINE_CONCAT3
                                        : VRAM_LINE_CONCAT4,
                         h, w, d->v[a]);
  if (!s)
    return 0;
  s->how = VRAM__LOW_JOIN;
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (!vram__low_read(l, s, v->at, h, w, n->in[i]->d->v[a]))
      return 0;
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* Output i is a part of x: axis a has that size then; gone: no such axis any more. */
static int vram__low_slice(vram__low *l, const vram_node *n, uint32_t i, uint32_t a, int64_t size,
                           int gone) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const int64_t was = n->in[0]->d->v[a];
  int64_t h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c, to[3];
  uint32_t k, at = VRAM__LOW_NO, atoms = 0, cut[2];
  vram__layout y = x->lay;
  vram__low_step *s = NULL;
  if (y.batch && y.axis[0] == a && size != was)
    return vram__low_refuse(l, n, "it works across the batch");
  if (size == 0)
    return vram__low_refuse(l, n, "a value of no elements");
  for (k = y.batch; k < y.n; k++)
    if (y.axis[k] == a)
      at = k, atoms++;
  if (size != was && !vram__layout_resize(&y, a, size))
    return vram__low_refuse(l, n, "too many axes");
  for (k = 0; k < y.n && gone; k++)
    y.axis[k] = (uint8_t)(y.axis[k] - (y.axis[k] > a));
  if (size == was) {
    vram__low_value *v = l->value + n->out[i].index;
    v->kind = VRAM__LOW_TENSOR, v->at = x->at, v->lay = y;
    return 1;
  }
  y.loose = 0;
  if (atoms == 1) {
    if (!vram__layout_cuts(&x->lay, h, w, cut, cut + 1) ||
        (at < cut[0]   ? cut[0] != x->lay.batch + 1u
         : at < cut[1] ? cut[1] - cut[0] != 1
                       : x->lay.n - cut[1] != 1)) {
      h = w = c = 1;
      for (k = x->lay.batch; k < x->lay.n; k++)
        *(k < at ? &h : k == at ? &w : &c) *= x->lay.size[k];
      if (c == 1)
        c = w, w = 1;
      vram__layout_cuts(&x->lay, h, w, cut, cut + 1);
    }
    to[0] = h, to[1] = w, to[2] = c;
    to[at < cut[0] ? 0 : at < cut[1] ? 1 : 2] = size;
    s = vram__low_step_new(l, n, VRAM_LINE_SLICE, to[0], to[1], to[2]);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    for (k = 0; k < 3; k++)
      s->line.arg[k] = to[k];
  } else {
    s = vram__low_custom(l, n, 1, 1, (int64_t)n->out[i].d->numel / l->n);
    if (!s)
      return 0;
  }
  return vram__low_gives(l, s, n->out + i, &y);
}

/* slice, narrow, select, split, chunk, unbind */
VRAM__FN int vram__low_slices(vram__low *l, const vram_node *n) {
  const int64_t dim = VRAM__INT(n, dim, 0);
  const uint32_t a = (uint32_t)(dim < 0 ? dim + n->in[0]->d->ndim : dim);
  const int gone = n->op == VRAM_OP_select || n->op == VRAM_OP_unbind;
  uint32_t i;
  for (i = 0; i < n->nout; i++)
    if (l->value[n->out[i].index].need &&
        !vram__low_slice(l, n, i, a, gone ? 1 : n->out[i].d->v[a], gone))
      return 0;
  return 1;
}

VRAM__FN int vram__low_view(vram__low *l, const vram_node *n, vram__low_value *x) {
  vram__low_value *y = l->value + n->out[0].index;
  const vram_dims *d = n->out[0].d, *from = n->in[0]->d;
  vram__layout lay = x->lay;
  uint32_t i, k, count;
  const int64_t *v;
  if (n->op == VRAM_OP_transpose || n->op == VRAM_OP_t || n->op == VRAM_OP_permute) {
    uint8_t to[VRAM_MAX_AXES];
    for (i = 0; i < from->ndim; i++)
      to[i] = (uint8_t)i;
    if (n->op == VRAM_OP_permute) {
      v = vram__node_list(n, VRAM__KEY_dims, &count);
      for (i = 0; i < count; i++)
        to[v[i] < 0 ? v[i] + from->ndim : v[i]] = (uint8_t)i;
    } else if (from->ndim > 1) {
      int64_t a = VRAM__INT(n, dim0, 0), b = VRAM__INT(n, dim1, 1);
      a += a < 0 ? from->ndim : 0, b += b < 0 ? from->ndim : 0;
      to[a] = (uint8_t)b, to[b] = (uint8_t)a;
    }
    for (k = 0; k < lay.n; k++)
      lay.axis[k] = to[lay.axis[k]];
    vram__layout_number(&lay);
  } else if (!vram__layout_view(&lay, d)) {
    uint8_t order[VRAM__LOW_ATOMS];
    uint32_t m = 0;
    if (x->lay.batch)
      order[m++] = 0;
    for (i = 0; i < x->lay.n; i++)
      if ((k = vram__layout_at(&x->lay, i)) >= x->lay.batch)
        order[m++] = (uint8_t)k;
    if (!vram__low_order(l, n, x, order, l->tensor[x->at].h, l->tensor[x->at].w,
                         l->tensor[x->at].c))
      return 0;
    lay = x->lay;
    if (!vram__layout_view(&lay, d))
      return vram__low_refuse(l, n, "its shape mixes the batch with other axes");
  }
  y->kind = VRAM__LOW_TENSOR;
  y->at = x->at;
  y->lay = lay;
  return 1;
}

VRAM__FN int vram__low_pad(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  uint32_t count, i, k, cut[2], at[2] = {VRAM__LOW_NO, VRAM__LOW_NO};
  const int64_t *v = vram__node_list(n, VRAM__KEY_pad, &count);
  int64_t h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c,
          arg[4] = {0, 0, 0, 0};
  int plain = vram__layout_cuts(&x->lay, h, w, cut, cut + 1);
  vram__layout y = x->lay;
  vram__low_step *s;
  y.loose = 0;
  for (i = 0; i < count; i++)
    if (v[i])
      break;
  if (i == count) {
    return vram__low_same(l, n->out, x);
  }
  if (plain && cut[0] - x->lay.batch == 1)
    at[0] = x->lay.axis[x->lay.batch];
  if (plain && cut[1] - cut[0] == 1)
    at[1] = x->lay.axis[cut[0]];
  for (i = 0; i < count / 2; i++) {
    const uint32_t a = d->ndim - 1u - i;
    uint32_t atoms = 0;
    const int64_t low = v[0], high = v[1];
    v += 2;
    if (!low && !high)
      continue;
    if (x->lay.batch && x->lay.axis[0] == a)
      return vram__low_refuse(l, n, "it works across the batch");
    for (k = 0; k < x->lay.n; k++)
      atoms += x->lay.axis[k] == a;
    for (k = 0; k < 2 && at[k] != a; k++)
      ;
    if (k == 2 || atoms != 1 || low < 0 || high < 0)
      plain = 0;
    else if (k)
      arg[2] = low, arg[3] = high;
    else
      arg[0] = low, arg[1] = high;
    if (!vram__layout_resize(&y, a, to->v[a]))
      return vram__low_refuse(l, n, "too many axes");
  }
  if (!plain) {
    s = vram__low_custom(l, n, 1, 1, (int64_t)to->numel / l->n);
    return s && vram__low_gives(l, s, n->out, &y);
  }
  s = vram__low_step_new(l, n, VRAM_LINE_PAD, h + arg[0] + arg[1], w + arg[2] + arg[3], c);
  if (!s || !vram__low_read(l, s, x->at, h, w, c))
    return 0;
  for (i = 0; i < 4; i++)
    s->line.arg[i] = arg[i];
  return vram__low_gives(l, s, n->out, &y);
}

VRAM__FN int vram__low_interpolate(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  const uint32_t k = d->ndim - 2u;
  const int64_t mode = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  int64_t in[2] = {1, 1}, out[2] = {1, 1}, c = d->v[1];
  uint32_t axes[3] = {2, 3, 1}, i;
  vram__layout y;
  vram__low_step *s;
  if (k > 2)
    return vram__low_refuse(l, n,
                            "no line has three axes beside the channels (possible: 1d and 2d)");
  for (i = 0; i < k; i++)
    in[i] = d->v[2 + i], out[i] = to->v[2 + i];
  if (k == 1)
    axes[1] = 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, 1, in[0], in[1], c))
    return 0;
  y = x->lay;
  y.loose = 0;
  for (i = 0; i < k; i++)
    vram__layout_resize(&y, 2 + i, out[i]);
  if ((mode == VRAM__WORD("nearest") || mode == VRAM__WORD("nearest-exact")) &&
      out[0] % in[0] == 0 && out[1] % in[1] == 0) {
    s = vram__low_step_new(l, n, VRAM_LINE_UPSAMPLE2D, out[0], out[1], c);
    if (!s || !vram__low_read(l, s, x->at, in[0], in[1], c))
      return 0;
    s->line.arg[0] = out[0] / in[0], s->line.arg[1] = out[1] / in[1];
  } else {
    s = vram__low_custom(l, n, out[0], out[1], c);
    if (!s)
      return 0;
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* [.., C r r, H, W] to [.., C, H r, W r]: a copy in another order. */
VRAM__FN int vram__low_shuffle(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  const uint32_t lead = d->ndim - 2u;
  uint32_t axes[3], i;
  vram__layout y;
  vram__low_step *s;
  axes[0] = lead, axes[1] = lead + 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, 3, 0, d->v[lead], d->v[lead + 1], d->v[lead - 1]))
    return 0;
  y = x->lay;
  y.loose = 0;
  for (i = lead - 1; i < lead + 2; i++)
    if (!vram__layout_resize(&y, i, to->v[i]))
      return vram__low_refuse(l, n, "too many axes");
  s = vram__low_step_new(l, n, VRAM_LINE_TRANSPOSE, to->v[lead], to->v[lead + 1], to->v[lead - 1]);
  if (!s || !vram__low_read(l, s, x->at, d->v[lead], d->v[lead + 1], d->v[lead - 1]))
    return 0;
  for (i = 0; i < 3; i++)
    s->line.arg[i] = to->v[i == 2 ? lead - 1 : lead + i];
  return vram__low_gives(l, s, n->out, &y);
}
