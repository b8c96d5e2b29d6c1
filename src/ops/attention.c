/* >>ops/attention    scaled_dot_product_attention (ATen/native/transformers) */
#include "ops/ops.h"

/* Everything that attention allocates in bytes, kernels' workspaces included, must fit. */
VRAM__FN int vram__att_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                            int64_t width) {
  uint64_t a = (uint64_t)rows + 256, b = (uint64_t)keys + 256, d = (uint64_t)width + 512;
  uint64_t most = a > b ? a : b;
  if (vram__product_or_overflow(
          vram__product_or_overflow(heads, 64),
          vram__product_or_overflow(a > d && b > d ? a < b ? a : b : d, most)) != VRAM_OVERFLOW)
    return 1;
  vram__graph_fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
  return 0;
}

/* attention.cpp, validate_sdpa_input */
static int vram__shape_sdpa(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  int64_t size[VRAM_MAX_AXES], all[VRAM_MAX_AXES];
  uint32_t i, j, r = q->ndim, m = 0;
  const int gqa = VRAM__INT(n, enable_gqa, 0) != 0;
  uint64_t heads = 1;
  if (r < 2 || k->ndim != r || v->ndim != r)
    return vram__node_error(g, n, "attention of tensors of different axes");
  if (q->v[r - 1] != k->v[r - 1])
    return vram__node_error(g, n, "query and key of different width");
  if (k->v[r - 2] != v->v[r - 2])
    return vram__node_error(g, n, "key and value of different length");
  for (i = 0; i < 3; i++)
    if (vram__kind_rank(n->in[i]->dtype) != 2)
      return vram__node_error(g, n, "attention of tensors that are not floating point");
  if (gqa && (r < 3 || k->v[r - 3] < 1 || v->v[r - 3] < 1 || q->v[r - 3] % k->v[r - 3] ||
              q->v[r - 3] % v->v[r - 3]))
    return vram__node_error(g, n, "heads of key and value must divide those of the query");
  for (i = 0; i < 3; i++) { /* what stands in front broadcasts */
    int64_t lead[VRAM_MAX_AXES];
    for (j = 0; j + 2 < r; j++)
      lead[j] = gqa && j == r - 3 ? q->v[j] : n->in[i]->d->v[j];
    if (!vram__dims_broadcast_lead(&m, size, r - 2, lead))
      return vram__node_error(g, n, "query, key and value of different batch or heads");
  }
  for (i = 0; i < m; i++)
    heads = vram__product_or_overflow(heads, (uint64_t)(size[i] ? size[i] : 1));
  size[m] = q->v[r - 2], size[m + 1] = v->v[r - 1];
  if (n->nin > 3) {
    const vram_dims *mask = n->in[3]->d;
    if (VRAM__INT(n, is_causal, 0))
      return vram__node_error(g, n, "is_causal=1 together with a mask");
    if (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2)
      return vram__node_error(g, n, "a mask must be of bool or floating point");
    for (i = 0; i < m; i++)
      all[i] = size[i];
    all[m] = q->v[r - 2], all[m + 1] = k->v[r - 2];
    for (i = 0; i < mask->ndim && mask->ndim <= r; i++)
      if (mask->v[i] != 1 && mask->v[i] != all[r - mask->ndim + i])
        break;
    if (!mask->ndim || mask->ndim > r || i < mask->ndim)
      return vram__node_error(g, n, "a mask that does not broadcast to [.., queries, keys]");
  }
  if (!vram__att_fits(g, heads, q->v[r - 2], k->v[r - 2],
                      q->v[r - 1] > v->v[r - 1] ? q->v[r - 1] : v->v[r - 1]))
    return 0;
  return vram__node_out(g, n, 0, r, size, n->in[0]->dtype);
}

/* Both products of attention: queries by keys, probabilities by values. */
VRAM__FN uint64_t vram__flops_sdpa(const vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  const uint64_t keys = (uint64_t)(k->ndim > 1 ? k->v[k->ndim - 2] : 1);
  const uint64_t width = v->ndim ? (uint64_t)v->v[v->ndim - 1] : 1;
  const uint64_t depth = q->ndim ? (uint64_t)q->v[q->ndim - 1] : 1;
  const uint64_t rows = depth ? q->numel / depth : 0;
  return vram__product_or_overflow(
      vram__product_or_overflow(2, vram__product_or_overflow(rows, keys)),
      vram__sum_or_overflow(depth, width));
}

#ifndef VRAM_NO_STEP

/* ---- attention (ATen/native/transformers) ---- */

VRAM__FN int64_t vram__div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t vram__round_up(int64_t a, int64_t b) { return vram__div_up(a, b) * b; }
VRAM__FN int64_t vram__least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t vram__most(int64_t a, int64_t b) { return a > b ? a : b; }

VRAM__FN int vram__is_half(uint8_t dt) { return dt == VRAM_F16 || dt == VRAM_BF16; }

/* [b,h,len,d], stored as [b,len,h,d] */
VRAM__FN const vram_dims *vram__attention_bshd_dims(vram__step *s, int64_t b, int64_t h,
                                                    int64_t len, int64_t d) {
  int64_t size[4], stride[4];
  size[0] = b, size[1] = h, size[2] = len, size[3] = d;
  stride[3] = 1, stride[1] = d, stride[2] = h * d, stride[0] = len * h * d;
  return vram__dims_in(s, 4, size, stride);
}

static int vram__attention_is_bshd(vram__step *s, const vram_dims *d) {
  return (vram__dims_swapped(s, d, 1, 2)->flags & VRAM__CONTIG) != 0;
}

/* empty_like of the [b,len,h,d] view of d */
static const vram_dims *vram__attention_like_bshd(vram__step *s, const vram_dims *d) {
  if (d->flags & VRAM__DENSE)
    return d;
  return vram__dims_swapped(s, vram__dims_dense(s, vram__dims_swapped(s, d, 1, 2)), 1, 2);
}

/* Does this backend take it? sdp_utils.cpp; measured over thousands of cases on seven devices. */
static int vram__sdpa_fits(const vram__step *s, int backend, const vram__tensor *a, int64_t p,
                           int causal, int gqa) {
  const vram_dims *q = a[0].d, *k = a[1].d, *v = a[2].d, *m = a[3].d;
  const uint8_t dt = a[0].dt;
  const int half = vram__is_half(dt), grad = s->grad && (a[0].req || a[1].req || a[2].req);
  int64_t h, hk, hv, d, dv, sq, sk;
  int grid; /* batch and heads are axes of a kernel's grid */
  uint32_t i;
  if (backend == VRAM__SDPA_MATH)
    return 1;
  if (q->ndim != 4 || q->v[0] != k->v[0] || q->v[0] != v->v[0])
    return 0;
  h = q->v[1], hk = k->v[1], hv = v->v[1];
  sq = q->v[2], sk = k->v[2], d = q->v[3], dv = v->v[3];
  grid = q->v[0] <= 65535 && h <= 65535;
  if (!sq || !sk)
    return 0;
  for (i = 0; i < 3; i++)
    if (VRAM__STRIDE(a[i].d)[3] != 1 && (backend == VRAM__SDPA_EFFICIENT || a[i].d->v[3] != 1))
      return 0;
  if (m && VRAM__STRIDE(m)[m->ndim - 1] != 1)
    return 0;
  if (gqa) {
    if (backend != VRAM__SDPA_CUDNN && hv != hk)
      return 0;
  } else if (!(hk == hv && (hk == h || hk == 1)))
    return 0;
  switch (backend) {
  case VRAM__SDPA_FLASH:
    if (m || d != dv || d > 256 || s->device.cc < 80 || !half || (causal && sq != sk) || !grid)
      return 0;
    /* too little shared memory for the backward kernel */
    return !((s->device.cc == 86 || s->device.cc == 89 || s->device.cc >= 120) && grad) ||
           d <= 192 || (d > 224 && p == 0);
  case VRAM__SDPA_CUDNN: {
    const int64_t most = s->device.cc / 10 == 9 || s->device.cc / 10 == 10 ? 256 : 128;
    if (s->device.cc < 80 || !half || (uint64_t)p * 16 % (uint64_t)VRAM__ONE || d % 8 || dv % 8 ||
        d > most || dv > most || sk == 1 || (p && sq == 1) || !grid)
      return 0;
    if (most == 256 && grad && !(d <= 128 && dv <= 128) && !(d == 192 && dv == 128) &&
        !(d == 256 && dv == 256))
      return 0;
    return !m || (!a[3].req && (m->ndim == 2 || m->ndim == 4));
  }
  default: {
    const int64_t align = half ? 8 : s->device.cc >= 80 ? 4 : 1;
    if (dt != VRAM_F32 && dt != VRAM_F16 && !(dt == VRAM_BF16 && s->device.cc >= 80))
      return 0;
    for (i = 0; i < 3 && s->device.cc >= 80; i++)
      if (a[i].off % align)
        return 0;
    return d % align == 0 && dv % align == 0;
  }
  }
}

VRAM__FN int vram__sdpa_pick(const vram__step *s, const vram__tensor *a, int64_t p, int causal,
                             int gqa) {
  static const uint8_t order[] = {VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT,
                                  VRAM__SDPA_MATH};
  /* cuDNN goes first on Hopper and Blackwell, nowhere else unasked */
  uint32_t i = s->device.cc / 10 == 9 || s->device.cc / 10 == 10 ? 0 : 1;
  while (!vram__sdpa_fits(s, order[i], a, p, causal, gqa))
    i++;
  return order[i];
}

/* attention.cpp, convert_boolean_attn_mask */
static vram__tensor vram__attention_float_mask(vram__step *s, vram__tensor m, uint8_t dt) {
  vram__tensor inf = vram__tensor_empty(s, s->scalar, dt),
               zero = vram__tensor_empty(s, s->scalar, dt);
  vram__tensor y = vram__tensor_empty(s, vram__dims_dense(s, m.d), dt);
  vram__tensor_release(s, inf);
  vram__tensor_release(s, zero);
  return y;
}

/* The first `len` elements of the last axis. */
static vram__tensor vram__torch_first(vram__step *s, vram__tensor x, int64_t len) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = len;
  return vram__torch_view_as(s, x, vram__dims_in(s, i, size, VRAM__STRIDE(x.d)), VRAM__K_slice, 0);
}

/* attention.cpp, preprocess_mask and pad_bias: rows that do not begin at multiples of 8 elements
   are copied into wider ones, then the mask is expanded. Takes m. */
static vram__tensor vram__attention_efficient_mask(vram__step *s, vram__tensor m,
                                                   const vram__tensor *a) {
  int64_t size[4], len = m.d->v[m.d->ndim - 1], pad[2] = {0, 0};
  uint32_t i;
  vram__tensor t;
  for (i = 0; i + 1 < m.d->ndim; i++)
    if (VRAM__STRIDE(m.d)[i] % 8) {
      pad[1] = 8 - len % 8;
      t = vram__torch_pad(s, m, pad, 1, VRAM__PAD_CONSTANT);
      vram__tensor_release(s, m);
      m = vram__torch_first(s, t, len);
      vram__tensor_release(s, t);
      break;
    }
  size[0] = a[0].d->v[0], size[1] = a[0].d->v[1], size[2] = a[0].d->v[2], size[3] = a[1].d->v[2];
  t = vram__torch_expand(s, m, 4, size);
  vram__tensor_release(s, m);
  return t;
}

/* What a fused kernel's backward needs besides its tensors: bit 0 a mask was saved, bit 1 dropout
 */
static vram__tensor vram__sdpa_efficient(vram__step *s, vram__tensor *a, int64_t p) {
  const vram_dims *q = a[0].d;
  const int64_t b = q->v[0], h = q->v[1], sq = q->v[2], d = q->v[3], dv = a[2].d->v[3];
  const uint64_t heads = (uint64_t)(b * h);
  vram__tensor seed = vram__tensor_none(), off = seed, lse = seed, acc = seed, y;
  vram__grad_fn *f;
  if (a[3].d)
    a[3] = vram__attention_efficient_mask(s, a[3], a);
  f = vram__tape_record(s, VRAM__K_sdpa_efficient, a, a[3].d ? 4 : 3, 1, 8);
  if (!p) /* with dropout they are the generator's, on the host */
    seed = vram__tensor_raw(s, 8), off = vram__tensor_raw(s, 8);
  y = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, h, sq, dv), a[0].dt);
  if (f)
    lse = vram__tensor_raw(s, 4 * heads * (uint64_t)vram__round_up(sq, 32));
  if (vram__is_half(a[0].dt) && vram__most(d, dv) > 128)
    acc = vram__tensor_raw(s, vram__product4_or_overflow(4, b * h, sq, dv));
  if (f) {
    f->aux = (a[3].d ? 1 : 0) | (p ? 2 : 0);
    if (a[3].d)
      vram__save_tensor(s, f, a[3]);
    vram__save_tensor(s, f, a[1]), vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[2]);
    vram__save_tensor(s, f, lse), vram__save_tensor(s, f, off), vram__save_tensor(s, f, seed),
        vram__save_tensor(s, f, y);
  }
  vram__tensor_release(s, acc);
  vram__tensor_release(s, lse);
  vram__tensor_release(s, off);
  vram__tensor_release(s, seed);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* mem_eff_attention/kernel_backward.h: workspace of the backward kernel by its block sizes */
static uint64_t vram__efficient_workspace(const vram__step *s, const vram_dims *q, int64_t sk,
                                          int64_t dv, int half, int dropout) {
  const int64_t heads = q->v[0] * q->v[1], d = q->v[3], k = vram__most(d, dv);
  int64_t bi = 128, bj = 64, gq, gkv = 0;
  int registers = 0; /* the gradients of key and value stay in registers */
  const int big = s->device.cc == 80 || s->device.cc == 90 || s->device.cc / 10 == 10;
  if (!half) {
    if (!big || k <= 64)
      bi = 64;
  } else if (k <= 64)
    bi = 64, registers = 1;
  else if (k <= 128) {
    if (big)
      bj = 128, registers = 1;
    else if (s->device.cc == 75 ||
             ((s->device.cc == 86 || s->device.cc == 89) && k <= 96 && !dropout))
      registers = 1;
    else
      bi = 64;
  }
  gq = vram__div_up(q->v[2], bi) * vram__div_up(d, bj) * (4 * bi * bj + 16);
  if (half && !registers) {
    int64_t split = vram__div_up(sk, bj);
    if (heads >= 256 && sk <= 2 * bj)
      split = 1;
    split = vram__most(1, vram__least(split, heads ? 200 / heads : 1));
    gkv = 4 * split * bj * (vram__round_up(d, bi) + vram__round_up(dv, bi));
  }
  return vram__product_or_overflow((uint64_t)heads, (uint64_t)vram__round_up(gq + gkv, 16));
}

/* the gradient of a key or value head that `group` query heads share: a sum over them */
static void vram__attention_group_sum(vram__step *s, vram__tensor x, int64_t group) {
  const vram_dims *d = x.d;
  int64_t size[5];
  size[0] = d->v[0], size[1] = d->v[2], size[2] = d->v[1], size[3] = group, size[4] = d->v[3];
  x.d = vram__dims_in(s, 5, size, NULL);
  vram__reduce_scratch(s, x, 1u << 3, x.dt, 4, 4);
}

VRAM__FN void vram__gradients_drop_unwanted(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (to[i].d && !vram__input_wanted(f, i)) {
      vram__tensor_release(s, to[i]);
      to[i] = vram__tensor_none();
    }
}

VRAM__FN void vram__backward_sdpa_efficient(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram__tensor k = sv[0], q = sv[1], v = sv[2];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], sk = k.d->v[2], d = q.d->v[3],
                dv = v.d->v[3], hk = k.d->v[1];
  const uint8_t dt = q.dt;
  const int half = vram__is_half(dt);
  vram__tensor cg = vram__tensor_none(), ek = cg, ev = cg, delta, ws;
  if (!vram__attention_is_bshd(s, g.d))
    cg = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, h, sq, dv), dt);
  to[0] = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, h, sq, d), dt);
  to[1] = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, hk, sk, d), dt);
  to[2] = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, hk, sk, dv), dt);
  if (h != hk) {
    ek = vram__tensor_raw(s, vram__product4_or_overflow(b * h, sk, d, vram__dtype_size(dt)));
    ev = vram__tensor_raw(s, vram__product4_or_overflow(b * h, sk, dv, vram__dtype_size(dt)));
  }
  if (f->nin > 3 && vram__input_wanted(f, 3)) { /* rows padded, a slice of them handed on */
    int64_t size[4];
    vram__tensor t;
    size[0] = b, size[1] = h, size[2] = sq, size[3] = vram__round_up(sk, 16);
    t = vram__tensor_empty(s, vram__dims_in(s, 4, size, NULL), dt);
    size[3] = sk;
    to[3] = vram__tensor_view(s, t, vram__dims_in(s, 4, size, VRAM__STRIDE(t.d)));
    vram__tensor_release(s, t);
  }
  if (half)
    delta = vram__tensor_raw(s, vram__product4_or_overflow(4, b, h, sq));
  else { /* (g * y).sum(-1), transposed */
    int64_t size[4];
    vram__tensor prod, sum;
    size[0] = b, size[1] = sq, size[2] = h, size[3] = dv;
    prod = vram__tensor_empty(s, vram__dims_in(s, 4, size, NULL), VRAM_F32);
    sum = vram__tensor_sum(s, prod, 8, 0, VRAM_F32);
    if (h > 1 && sq > 1) {
      delta = vram__tensor_empty(s, vram__dims_contiguous(s, vram__dims_swapped(s, sum.d, 1, 2)),
                                 VRAM_F32);
      vram__tensor_release(s, sum);
    } else
      delta = sum;
    vram__tensor_release(s, prod);
  }
  ws = vram__tensor_raw(s, vram__efficient_workspace(s, q.d, sk, dv, half, (f->aux & 2) != 0));
  vram__tensor_release(s, delta);
  vram__tensor_release(s, ws);
  if (h != hk) {
    vram__attention_group_sum(s, k, h / hk);
    vram__attention_group_sum(s, v, h / hk);
    vram__tensor_release(s, ev);
    vram__tensor_release(s, ek);
  }
  vram__tensor_release(s, cg);
  vram__gradients_drop_unwanted(s, f, to);
}

/* flash_api.cpp, num_splits_heuristic: the fewest splits that fill 85 % of the best */
static int64_t vram__flash_splits(int64_t blocks, int64_t sm, int64_t n) {
  int64_t most = vram__least(128, vram__least(sm, n)), i, best = 0, best_of = 1;
  if (blocks * 10 >= sm * 8)
    return 1;
    /* efficiency of i splits: waves / ceil(waves), waves = blocks * i / sm; as a fraction */
#define VRAM__WAVES(i) (blocks * (i))
#define VRAM__FULL(i) (vram__div_up(blocks * (i), sm) * sm)
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of > best * VRAM__FULL(i))
      best = VRAM__WAVES(i), best_of = VRAM__FULL(i);
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of * 100 >= best * VRAM__FULL(i) * 85)
      return i;
#undef VRAM__WAVES
#undef VRAM__FULL
  return 1;
}

static int64_t vram__flash_width(int64_t d) {
  return d <= 128 ? vram__round_up(d, 32) : d <= 192 ? 192 : 256;
}

static vram__tensor vram__sdpa_flash(vram__step *s, vram__tensor *a, int64_t p) {
  const int64_t d = a[0].d->v[3];
  int64_t b, h, hk, sq, sk, wide = vram__round_up(d, 8), rows, heads, split, pad[2] = {0, 0};
  uint32_t i;
  vram__grad_fn *f;
  vram__tensor y, lse, part = vram__tensor_none(), parts = part, rng, unused, t;
  pad[1] = wide - d;
  for (i = 0; i < 3 && d != wide; i++) {
    t = vram__torch_pad(s, a[i], pad, 1, VRAM__PAD_CONSTANT);
    vram__tensor_release(s, a[i]);
    a[i] = t;
  }
  b = a[0].d->v[0], h = a[0].d->v[1], sq = a[0].d->v[2], hk = a[1].d->v[1], sk = a[1].d->v[2];
  f = vram__tape_record(s, VRAM__K_sdpa_flash, a, 3, 1, 7);
  rows = sq, heads = h;
  if (sq == 1 && h > hk && !p) /* the query heads of a group become rows */
    rows = h / hk, heads = hk;
  y = vram__tensor_empty(s,
                         rows != sq ? vram__attention_bshd_dims(s, b, h, sq, wide)
                                    : vram__attention_like_bshd(s, a[0].d),
                         a[0].dt);
  lse = vram__tensor_raw(s, vram__product4_or_overflow(4, b, h, sq));
  split = p ? 1
            : vram__flash_splits(b * heads * vram__div_up(rows, 64), 2 * (int64_t)s->device.sm,
                                 vram__div_up(sk, wide <= 64    ? 256
                                                  : wide <= 128 ? 128
                                                                : 64));
  if (split > 1) {
    part = vram__tensor_raw(s, vram__product4_or_overflow(4 * split, b, heads, rows));
    parts = vram__tensor_raw(
        s, vram__product4_or_overflow(4 * split, b, heads, rows * vram__flash_width(wide)));
  }
  rng = vram__tensor_raw(s, 16);
  unused = vram__tensor_raw(s, 8);
  if (p) {
    t = vram__tensor_raw(s, 16);
    vram__tensor_release(s, rng);
    rng = t;
  }
  if (f) {
    vram__save_tensor(s, f, a[1]), vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[2]);
    vram__save_tensor(s, f, y), vram__save_tensor(s, f, lse), vram__save_tensor(s, f, rng),
        vram__save_tensor(s, f, unused);
  }
  vram__tensor_release(s, parts);
  vram__tensor_release(s, part);
  vram__tensor_release(s, unused);
  vram__tensor_release(s, rng);
  vram__tensor_release(s, lse);
  vram__grad_fn_set_output(s, f, 0, &y);
  if (d != wide) {
    t = vram__torch_first(s, y, d);
    vram__tensor_release(s, y);
    y = t;
  }
  return y;
}

VRAM__FN void vram__backward_sdpa_flash(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f);
  const vram__tensor k = sv[0], q = sv[1], v = sv[2], y = sv[3];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], d = q.d->v[3], hk = k.d->v[1],
                rows = vram__round_up(sq, 128);
  vram__tensor cg = vram__tensor_none(), cy = cg, ek, ev, sums, acc;
  if (!vram__attention_is_bshd(s, g.d))
    cg = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, h, sq, d), g.dt);
  if (!vram__attention_is_bshd(s, y.d))
    cy = vram__tensor_empty(s, vram__attention_bshd_dims(s, b, h, sq, d), y.dt);
  to[0] = vram__tensor_empty(s, vram__attention_like_bshd(s, q.d), q.dt);
  to[1] = vram__tensor_empty(s, vram__attention_like_bshd(s, k.d), k.dt);
  to[2] = vram__tensor_empty(s, vram__attention_like_bshd(s, v.d), v.dt);
  sums = vram__tensor_raw(s, vram__product4_or_overflow(4, b, h, rows));
  acc = vram__tensor_raw(s, vram__product4_or_overflow(4 * vram__flash_width(d), b, h, rows));
  if (h != hk) {
    ek = vram__tensor_raw(s,
                          vram__product4_or_overflow(b * h, k.d->v[2], d, vram__dtype_size(k.dt)));
    ev = vram__tensor_raw(s,
                          vram__product4_or_overflow(b * h, k.d->v[2], d, vram__dtype_size(k.dt)));
    vram__attention_group_sum(s, k, h / hk);
    vram__attention_group_sum(s, v, h / hk);
    vram__tensor_release(s, ev);
    vram__tensor_release(s, ek);
  }
  vram__tensor_release(s, acc);
  vram__tensor_release(s, sums);
  vram__tensor_release(s, cy);
  vram__tensor_release(s, cg);
  vram__gradients_drop_unwanted(s, f, to);
}

static vram__tensor vram__sdpa_cudnn(vram__step *s, vram__tensor *a) {
  const vram_dims *q = a[0].d, *d = vram__dims_dense(s, q);
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_sdpa_cudnn, a, 3, 1, 8);
  vram__tensor seed = vram__tensor_raw(s, 8), off = vram__tensor_raw(s, 8),
               lse = vram__tensor_none(), y;
  if (q->v[3] != a[2].d->v[3]) { /* another width: the axes in the order of the query's strides */
    int64_t size[4], stride[4], z = 1;
    uint32_t i, j, order[4];
    for (i = 0; i < 4; i++) {
      for (j = i; j > 0 && VRAM__STRIDE(q)[order[j - 1]] > VRAM__STRIDE(q)[i]; j--)
        order[j] = order[j - 1];
      order[j] = i;
      size[i] = i < 3 ? q->v[i] : a[2].d->v[3];
    }
    for (i = 0; i < 4; i++)
      stride[order[i]] = z, z *= size[order[i]];
    d = vram__dims_in(s, 4, size, stride);
  }
  y = vram__tensor_empty(s, d, a[0].dt);
  if (f) {
    lse = vram__tensor_raw(s, vram__product4_or_overflow(4, q->v[0], q->v[1], q->v[2]));
    if (a[3].d)
      vram__save_tensor(s, f, a[3]), f->aux = 1;
    vram__save_tensor(s, f, a[1]), vram__save_tensor(s, f, a[0]), vram__save_tensor(s, f, a[2]);
    vram__save_tensor(s, f, lse), vram__save_tensor(s, f, off), vram__save_tensor(s, f, seed),
        vram__save_tensor(s, f, y);
  }
  vram__tensor_release(s, lse);
  vram__tensor_release(s, off);
  vram__tensor_release(s, seed);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

VRAM__FN void vram__backward_sdpa_cudnn(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram_dims *q = sv[1].d;
  vram__tensor cg = vram__tensor_none(), ws;
  to[0] = vram__pointwise_empty1(s, sv[1]);
  to[1] = vram__pointwise_empty1(s, sv[0]);
  to[2] = vram__pointwise_empty1(s, sv[2]);
  if (VRAM__STRIDE(g.d)[3] != 1)
    cg = vram__tensor_empty(s, vram__dims_contiguous(s, g.d), g.dt);
  ws = vram__tensor_raw(s, vram__product4_or_overflow(q->v[0], q->v[1], q->v[2], 4 * q->v[3] + 4));
  vram__upper_may_need(s, q->numel + sv[0].d->numel + sv[2].d->numel);
  vram__tensor_release(s, ws);
  vram__tensor_release(s, cg);
  vram__gradients_drop_unwanted(s, f, to);
}

/* _safe_softmax over the last axis: rows that are all -inf become zeros */
static vram__tensor vram__torch_safe_softmax(vram__step *s, vram__tensor x) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_safe_softmax, &x, 1, 1, 1);
  vram__tensor y = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt), inf, all, zero;
  inf = vram__tensor_empty(s, y.d, VRAM_BOOL);
  all = vram__tensor_reduced(s, inf, 1u << (x.d->ndim - 1), 1, VRAM_BOOL);
  vram__reduce_scratch(s, inf, 1u << (x.d->ndim - 1), VRAM_BOOL, 1, 4);
  zero = vram__tensor_empty(s, s->scalar, x.dt);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, all);
  vram__tensor_release(s, inf);
  if (f)
    vram__save_tensor(s, f, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static vram__tensor vram__attention_heads_repeated(vram__step *s, vram__tensor x, int64_t h) {
  const vram_dims *d = x.d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t n = d->ndim, i;
  vram__tensor t, u;
  for (i = 0; i < n - 2; i++)
    size[i] = d->v[i];
  size[n - 2] = h / d->v[n - 3];
  size[n - 1] = d->v[n - 2], size[n] = d->v[n - 1];
  t = vram__torch_unsqueeze(s, x, n - 2);
  u = vram__torch_expand(s, t, n + 1, size);
  vram__tensor_release(s, t);
  t = vram__torch_clone(s, u, vram__dims_contiguous(s, u.d));
  vram__tensor_release(s, u);
  size[n - 3] = h;
  for (i = n - 2; i < n; i++)
    size[i] = size[i + 1];
  u = vram__torch_view_as(s, t, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, t);
  return u;
}

/* attention.cpp, _scaled_dot_product_attention_math: ordinary ops; half runs in fp32 */
static vram__tensor vram__sdpa_math(vram__step *s, vram__tensor *a, int64_t p, int causal,
                                    int gqa) {
  const uint8_t dt = a[0].dt;
  const uint32_t n = a[0].d->ndim;
  vram__tensor x[3], q, k, v, m = vram__tensor_none(), t, u, att, extra = m;
  uint8_t train;
  uint32_t i;
  for (i = 0; i < 3; i++)
    x[i] = vram__is_half(dt) ? vram__torch_cast(s, a[i], VRAM_F32) : vram__tensor_retain(s, a[i]);
  q = vram__op_call(s, VRAM_OP_mul, x[0], vram__tensor_none(), NULL);
  k = vram__tensor_retain(s, x[1]), v = vram__tensor_retain(s, x[2]);
  if (a[3].d)
    m = vram__tensor_retain(s, a[3]);
  if (causal) {
    int64_t size[2];
    vram__tensor ones;
    size[0] = a[0].d->v[n - 2], size[1] = a[1].d->v[n - 2];
    ones = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), VRAM_BOOL);
    t = vram__tensor_empty(s, ones.d, VRAM_BOOL);
    vram__tensor_release(s, ones);
    m = vram__attention_float_mask(s, t, q.dt);
    vram__tensor_release(s, t);
  }
  if (gqa && n > 2) {
    int64_t h = a[0].d->v[n - 3];
    if (k.d->v[n - 3] != h || v.d->v[n - 3] != h) {
      t = vram__attention_heads_repeated(s, k, h);
      vram__tensor_release(s, k);
      k = t;
      t = vram__attention_heads_repeated(s, v, h);
      vram__tensor_release(s, v);
      v = t;
    }
  }
  att = vram__torch_swap(s, k, n - 2, n - 1);
  u = vram__op_call(s, VRAM_OP_mul, att, vram__tensor_none(), NULL);
  vram__tensor_release(s, att);
  t = vram__torch_matmul(s, q, u);
  vram__tensor_release(s, u);
  if (m.d)
    vram__op_call_in_place(s, VRAM_OP_add, &t, m);
  att = vram__torch_safe_softmax(s, t);
  vram__tensor_release(s, t);
  if (p) {
    int64_t attr[3];
    attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
    train = s->train, s->train = 1; /* at::dropout(attn, p, true) */
    t = vram__op_call(s, VRAM_OP_dropout, att, vram__tensor_none(), attr);
    s->train = train;
    vram__tensor_release(s, att);
    att = t;
  }
  if (vram__is_half(dt))
    extra = vram__tensor_empty(s, att.d, dt); /* the second result, which nobody takes */
  t = vram__torch_matmul(s, att, v);
  if (vram__is_half(dt)) {
    u = vram__torch_cast(s, t, dt);
    vram__tensor_release(s, t);
    t = u;
  }
  vram__tensor_release(s, extra);
  vram__tensor_release(s, att);
  vram__tensor_release(s, m);
  vram__tensor_release(s, v);
  vram__tensor_release(s, k);
  vram__tensor_release(s, q);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, x[i]);
  return t;
}

/* Attention of nothing: zeros, and 0 times the sums of q, k and v, so that they have gradients. */
static vram__tensor vram__sdpa_nothing(vram__step *s, const vram__tensor *a) {
  const uint8_t amp = s->amp;
  const uint32_t k = a[0].d->ndim;
  int64_t size[VRAM_MAX_AXES];
  vram__tensor t[7], y;
  uint32_t i;
  for (i = 0; i < k; i++)
    size[i] = a[0].d->v[i];
  size[k - 1] = a[2].d->v[a[2].d->ndim - 1u];
  s->amp = 0; /* below autocast */
  t[0] = vram__tensor_empty(s, vram__dims_in(s, k, size, NULL), a[0].dt);
  for (i = 0; i < 3; i++)
    t[1 + i] = vram__op_call(s, VRAM_OP_sum, a[i], vram__tensor_none(), NULL);
  t[4] = vram__op_call(s, VRAM_OP_add, t[1], t[2], NULL);
  t[5] = vram__op_call(s, VRAM_OP_add, t[4], t[3], NULL);
  t[6] = vram__op_call(s, VRAM_OP_mul, t[5], vram__tensor_none(), NULL);
  y = vram__op_call(s, VRAM_OP_add, t[0], t[6], NULL);
  for (i = 7; i-- > 0;)
    vram__tensor_release(s, t[i]);
  s->amp = amp;
  return y;
}

VRAM__FN vram__tensor vram__torch_sdpa(vram__step *s, const vram_node *n, vram__tensor *a,
                                       int64_t p, int causal, int gqa) {
  int64_t word = VRAM__INT(n, backend, 0);
  int pick;
  vram__tensor y, t;
  uint32_t i, flat = a[0].d->ndim == 3;
  if (a[1].dt != a[0].dt || a[2].dt != a[0].dt) /* attention.cpp, validate_sdpa_input */
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node, "query, key and value of different dtypes");
  if (flat)
    for (i = 0; i < 4; i++) {
      if (!a[i].d || a[i].d->ndim != 3)
        continue;
      t = vram__torch_unsqueeze(s, a[i], 0);
      vram__tensor_release(s, a[i]);
      a[i] = t;
    }
  pick = word == VRAM__WORD("flash")       ? VRAM__SDPA_FLASH
         : word == VRAM__WORD("efficient") ? VRAM__SDPA_EFFICIENT
         : word == VRAM__WORD("cudnn")     ? VRAM__SDPA_CUDNN
         : word == VRAM__WORD("math")      ? VRAM__SDPA_MATH
                                           : VRAM__SDPA_NONE;
  if (!pick)
    pick = vram__sdpa_pick(s, a, p, causal, gqa);
  else if (!vram__sdpa_fits(s, pick, a, p, causal, gqa)) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "this attention backend does not take these tensors");
    pick = VRAM__SDPA_MATH;
  }
  if (a[3].d && a[3].dt == VRAM_BOOL) {
    t = vram__attention_float_mask(s, a[3], a[0].dt);
    vram__tensor_release(s, a[3]);
    a[3] = t;
  }
  y = pick == VRAM__SDPA_CUDNN       ? vram__sdpa_cudnn(s, a)
      : pick == VRAM__SDPA_FLASH     ? vram__sdpa_flash(s, a, p)
      : pick == VRAM__SDPA_EFFICIENT ? vram__sdpa_efficient(s, a, p)
                                     : vram__sdpa_math(s, a, p, causal, gqa);
  if (flat) {
    t = vram__torch_squeeze1(s, y, 0);
    vram__tensor_release(s, y);
    y = t;
  }
  for (i = 0; i < 4; i++)
    vram__tensor_release(s, a[i]);
  return y;
}

static void vram__forward_sdpa(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__tensor a[4], held[4];
  uint32_t i;
  a[3] = vram__tensor_none();
  for (i = n->nin; i-- > 0;) { /* autocast casts the last argument first, and holds them all */
    a[i] = s->amp ? vram__autocast_cast(s, x[i], s->amp) : vram__tensor_retain(s, x[i]);
    held[i] = vram__tensor_retain(s, a[i]);
  }
  if (a[0].d->numel && a[1].d->numel && a[2].d->numel)
    y[0] = vram__torch_sdpa(s, n, a, VRAM__INT(n, dropout_p, 0), VRAM__INT(n, is_causal, 0) != 0,
                            VRAM__INT(n, enable_gqa, 0) != 0);
  else {
    y[0] = vram__sdpa_nothing(s, a);
    for (i = n->nin; i-- > 0;)
      vram__tensor_release(s, a[i]);
  }
  for (i = 0; i < n->nin; i++)
    vram__tensor_release(s, held[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(scaled_dot_product_attention, 3, 4, sdpa, SAME, low, sdpa, none, sdpa, ATTENTION, 0, 0,
         "dropout_p is_causal enable_gqa backend scale");
