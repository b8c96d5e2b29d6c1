/* >>ops/bilinear    the bilinear layer */
#include "ops/ops.h"

static int vram__shape_bilinear(vram_graph *g, vram_node *n) {
  const vram_dims *left = n->in[0]->d, *right = n->in[1]->d;
  const uint32_t last = left->ndim - 1u;
  int64_t size[VRAM_MAX_AXES], weight[3];
  uint32_t i;
  if (!left->ndim || right->ndim != left->ndim)
    return vram__node_error(g, n, "inputs of different numbers of axes");
  for (i = 0; i < last; i++) {
    size[i] = left->v[i];
    if (size[i] != right->v[i])
      return vram__node_error(g, n, "inputs that differ before their last axis");
  }
  weight[0] = VRAM__INT(n, out_features, 0);
  weight[1] = left->v[last];
  weight[2] = right->v[last];
  if (weight[0] < 1)
    return vram__node_error(g, n, "out_features must be at least 1");
  if (!vram__node_params(g, n, 2) ||
      !vram__node_own(g, n, 0, "weight", 3, weight, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) && !vram__node_own(g, n, 1, "bias", 1, weight, VRAM_F32, VRAM__PARAM))
    return 0;
  size[last] = weight[0];
  return vram__node_out(g, n, 0, last + 1, size, n->in[0]->dtype);
}

static uint64_t vram__flops_bilinear(const vram_node *n) {
  const vram_dims *w = n->param[0]->d;
  return vram__product_or_overflow(vram__product_or_overflow(2, n->out[0].d->numel),
                                   w->numel / (uint64_t)(w->v[0] ? w->v[0] : 1));
}

#ifndef VRAM_NO_STEP

/* Linear.cpp, _trilinear: three tensors over the positions 0..3 (each lacks those of its mask
   `without`), multiplied and summed over the positions `sum`, one index of position 1 after the
   other. */
static vram__tensor vram__trilinear(vram__step *s, const vram__tensor *in, const uint32_t *without,
                                    uint32_t sum) {
  vram__operand o[3], p;
  int64_t size[4], stride[4], rounds = 1, full[4];
  uint32_t i, j, a, m;
  uint64_t first = sum & without[2] & ~2u, rest = sum & ~without[2] & ~2u, used;
  vram__tensor y;
  for (j = 0; j < 4; j++)
    full[j] = 1;
  for (i = 0; i < 3; i++) {
    for (m = 0, a = 0, j = 0; j < 4; j++) {
      if (without[i] >> j & 1) {
        o[i].one[j] = a < in[i].d->ndim ? in[i].d->v[a] * VRAM__STRIDE(in[i].d)[a] : 1;
        continue;
      }
      o[i].one[j] = VRAM__STRIDE(in[i].d)[a];
      if (in[i].d->v[a] != 1)
        full[j] = in[i].d->v[a];
      if (in[i].d->v[a] != 1 && j != 1)
        size[m] = in[i].d->v[a], stride[m] = VRAM__STRIDE(in[i].d)[a], o[i].at[m++] = (uint8_t)j;
      a++;
    }
    o[i].t = in[i];
    o[i].t.fn = 0, o[i].t.req = 0;
    o[i].t.d = vram__dims_in(s, m, size, stride);
  }
  rounds = full[1];
  for (m = 0, j = 0; j < 4; j++)
    if (!(sum >> j & 1))
      size[m++] = full[j];
  y = vram__tensor_empty(s, vram__dims_in(s, m, size, NULL), in[0].dt);
  if (!in[0].d->numel || !in[1].d->numel || !in[2].d->numel) /* Linear.cpp: zeros */
    rounds = 0;
  for (used = s->used; rounds-- && !s->failed;) {
    for (i = 0; i < 3; i++)
      vram__tensor_retain(s, o[i].t);
    p = vram__einsum_pair(s, o[0], o[1], first, 4, 4);
    p = vram__einsum_pair(s, p, o[2], rest, 4, 4);
    vram__tensor_release(s, p.t);
    for (i = 0; i < 64; i++) /* the sizes of a round are those of the next */
      if ((const uint8_t *)s->dims_cache[i] >= s->mem + used &&
          (const uint8_t *)s->dims_cache[i] < s->mem + s->cap)
        s->dims_cache[i] = NULL;
    s->used = used;
  }
  return y;
}

/* Which positions (batch, output, left, right) the tensors of bilinear do not have. */
enum { VRAM__BI_LEFT = 2 | 8, VRAM__BI_WEIGHT = 1, VRAM__BI_RIGHT = 2 | 4, VRAM__BI_OUT = 4 | 8 };

static void vram__forward_bilinear(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  vram__tensor in[3], t, add[2], a[4];
  const uint8_t amp = s->amp;
  vram__grad_fn *f;
  int64_t rows[2];
  uint32_t i, own, k = x[0].d->ndim, count = n->param[1] ? 4 : 3;
  a[0] = x[0], a[1] = x[1];
  for (i = 2; i < count; i++)
    a[i] = s->param[n->param[i - 2]->index];
  own = vram__autocast_list(s, VRAM__AUTOCAST_widest, a, count);
  s->amp = 0; /* nothing is cast inside */
  for (i = 0; i < 3; i += 2) {
    t = a[i / 2];
    rows[1] = t.d->v[k - 1], rows[0] = rows[1] ? (int64_t)t.d->numel / rows[1] : 0;
    in[i] = vram__torch_reshape(s, t, 2, rows);
  }
  in[1] = a[2];
  f = vram__tape_record(s, n->op, in, 3, 1, 3);
  for (i = 0; f && i < 3; i++)
    if (vram__input_wanted(f, (i + 1) % 3) || vram__input_wanted(f, (i + 2) % 3))
      f->aux |= (uint64_t)(f->nsaved + 1) << (4 * i), vram__save_tensor(s, f, in[i]);
  t = vram__trilinear(s, in, without, VRAM__BI_OUT);
  vram__grad_fn_set_output(s, f, 0, &t);
  y[0] = vram__torch_reshape(s, t, k, n->out[0].d->v);
  vram__tensor_release(s, t);
  vram__tensor_release(s, in[0]);
  vram__tensor_release(s, in[2]);
  if (n->param[1]) {
    add[0] = y[0], add[1] = a[3];
    f = vram__tape_record(s, VRAM_OP_add, add, 2, 1, 0);
    y[0] = vram__pointwise_empty2(s, add[0], add[1]);
    vram__grad_fn_set_output(s, f, 0, &y[0]);
    vram__tensor_release(s, add[0]);
  }
  s->amp = amp;
  for (i = 0; i < count; i++)
    if (own >> i & 1)
      vram__tensor_release(s, a[i]);
}

static void vram__backward_bilinear(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  uint32_t i, k, w[3];
  vram__tensor in[3];
  for (i = 0; i < 3; i++) {
    if (!vram__input_wanted(f, i))
      continue;
    for (k = 0; k < 3; k++) {
      w[k] = k == i ? (uint32_t)VRAM__BI_OUT : without[k];
      in[k] = k == i ? VRAM__SLOTS(f)[0].g : VRAM__SAVED(f)[((f->aux >> (4 * k)) & 15) - 1];
    }
    to[i] = vram__trilinear(s, in, w, without[i]);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(bilinear, 2, 2, bilinear, SAME, none, bilinear, bilinear, bilinear, NONE, 0, 0,
         "out_features! bias frozen weights dtype");
