/* >>ops/mha    torch.nn.MultiheadAttention */
#include "ops/ops.h"

/* The slots of torch.nn.MultiheadAttention's parameters. */
enum {
  VRAM__MHA_IN,   /* of query, key and value together, or of the query */
  VRAM__MHA_BIAS, /* of all three */
  VRAM__MHA_OUT,
  VRAM__MHA_OUT_BIAS,
  VRAM__MHA_KEY,
  VRAM__MHA_VALUE,
  VRAM__MHA_BIAS_K,
  VRAM__MHA_BIAS_V,
  VRAM__MHA_PARAMS
};

/* torch.nn.MultiheadAttention: query, key, value, a mask; outputs: the result, the weights. The
   parameters stand in the order in which the module registers them. */
static int vram__shape_mha(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d,
                  *m = n->nin > 3 ? n->in[3]->d : NULL;
  const int batched = q->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0);
  const int64_t h = VRAM__INT(n, num_heads, 0);
  int64_t E, L, S, B, kd, vd, size[VRAM_MAX_AXES];
  uint32_t i;
  if ((!batched && q->ndim != 2) || k->ndim != q->ndim || v->ndim != q->ndim)
    return vram__node_error(g, n, "query, key and value must have two or three axes");
  E = q->v[q->ndim - 1u];
  kd = VRAM__INT(n, kdim, E), vd = VRAM__INT(n, vdim, E);
  L = q->v[first ? 1 : 0], S = k->v[first ? 1 : 0];
  B = batched ? q->v[first ? 0 : 1] : 1;
  if (E < 1 || h < 1 || E % h)
    return vram__node_error(g, n, "num_heads must divide the width of the query");
  if (k->v[q->ndim - 1u] != kd || v->v[q->ndim - 1u] != vd)
    return vram__node_error(g, n, "key or value of another width (kdim=, vdim=)");
  for (i = 0; i + 1u < q->ndim; i++)
    if (k->v[i] != v->v[i] || (batched && i == (first ? 0u : 1u) && k->v[i] != q->v[i]))
      return vram__node_error(g, n, "query, key and value of different batch or length");
  if (n->in[1]->dtype != n->in[0]->dtype || n->in[2]->dtype != n->in[0]->dtype ||
      vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "query, key and value must be of one floating point dtype");
  if (n->nout > 1 && !VRAM__INT(n, need_weights, 1))
    return vram__node_error(g, n, "need_weights=0 gives no second output");
  if (m) {
    int fits = m->ndim == 2 ? m->v[0] == L && m->v[1] == S
                            : m->ndim == 3 && m->v[0] == B * h && m->v[1] == L && m->v[2] == S;
    if (!fits || (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2))
      return vram__node_error(g, n,
                              "the mask must be [L,S] or [N*heads,L,S] of bool or floating point");
  }
  if (!vram__node_params(g, n, VRAM__MHA_PARAMS))
    return 0;
  size[0] = kd == E && vd == E ? 3 * E : E, size[1] = E;
  if (!vram__node_own(g, n, VRAM__MHA_IN, kd == E && vd == E ? "in_proj_weight" : "q_proj_weight",
                      2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = E, size[1] = kd;
  if ((kd != E || vd != E) &&
      !vram__node_own(g, n, VRAM__MHA_KEY, "k_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[1] = vd;
  if ((kd != E || vd != E) &&
      !vram__node_own(g, n, VRAM__MHA_VALUE, "v_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = 3 * E;
  if (VRAM__INT(n, bias, 1) &&
      !vram__node_own(g, n, VRAM__MHA_BIAS, "in_proj_bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = size[1] = 1, size[2] = E;
  for (i = 0; i < 2 && VRAM__INT(n, add_bias_kv, 0); i++)
    if (!vram__node_own(g, n, VRAM__MHA_BIAS_K + i, i ? "bias_v" : "bias_k", 3, size, VRAM_F32,
                        VRAM__PARAM))
      return 0;
  size[0] = size[1] = E;
  if (!vram__node_own(g, n, VRAM__MHA_OUT, "out_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) &&
      !vram__node_own(g, n, VRAM__MHA_OUT_BIAS, "out_proj.bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  S += (VRAM__INT(n, add_bias_kv, 0) != 0) + (VRAM__INT(n, add_zero_attn, 0) != 0);
  if (!vram__att_fits(g, (uint64_t)(B * h), L, S, E))
    return 0;
  if (n->nout > 1) {
    size[0] = B, size[1] = L, size[2] = S;
    if (!vram__node_out(g, n, 1, batched ? 3 : 2, size + !batched, n->in[0]->dtype))
      return 0;
  }
  return vram__node_out_dims(n, 0, q, n->in[0]->dtype);
}

static uint64_t vram__flops_mha(const vram_node *n) {
  const uint64_t rows = vram__product_or_overflow(2, vram__input_rows(n));
  return vram__sum_or_overflow(vram__product_or_overflow(rows, vram__matrix_elements(n)),
                               vram__flops_sdpa(n));
}

#ifndef VRAM_NO_STEP

/* ---- torch.nn.MultiheadAttention ---- */

static vram__tensor vram__mha_param(const vram__step *s, const vram_node *n, uint32_t i) {
  return n->param[i] ? s->param[n->param[i]->index] : vram__tensor_none();
}

/* x.split along its first axis into pieces of these sizes */
static void vram__torch_split(vram__step *s, vram__tensor x, uint32_t count, const int64_t *sizes,
                              vram__tensor *y) {
  static const int64_t attr[] = {VRAM__KEY_dim | 1 << 8, 0, 0};
  vram_node n;
  vram_value v[3];
  uint32_t i;
  int64_t d[VRAM_MAX_AXES];
  for (i = 0; i < x.d->ndim; i++)
    d[i] = x.d->v[i];
  vram__memory_zero(&n, sizeof n);
  vram__memory_zero(v, sizeof v);
  n.op = VRAM_OP_split;
  n.nin = 1, n.nout = count;
  n.attr = attr;
  n.out = v;
  for (i = 0; i < count; i++) {
    d[0] = sizes[i];
    v[i].d = vram__dims_in(s, x.d->ndim, d, NULL);
  }
  vram__forward_op(s, &n, &x, y);
}

/* x[i] */
static vram__tensor vram__torch_select(vram__step *s, vram__tensor x, int64_t i) {
  int64_t attr[5];
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = 0;
  attr[2] = VRAM__KEY_index | 1 << 8, attr[3] = i, attr[4] = 0;
  return vram__op_call_n(s, VRAM_OP_select, 0, &x, 1, attr, NULL);
}

/* torch.cat of two along an axis; takes both */
static vram__tensor vram__torch_cat2(vram__step *s, vram__tensor a, vram__tensor b, uint32_t axis) {
  vram__tensor in[2], y;
  int64_t size[VRAM_MAX_AXES], attr[3];
  uint32_t i;
  in[0] = a, in[1] = b;
  for (i = 0; i < a.d->ndim; i++)
    size[i] = a.d->v[i] + (i == axis ? b.d->v[i] : 0);
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = axis, attr[2] = 0;
  y = vram__op_call_n(s, VRAM_OP_cat, 0, in, 2, attr, vram__dims_in(s, i, size, NULL));
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  return y;
}

/* linear(x, w, b) and the parts of its last axis in front: [parts, ..., E] */
static vram__tensor vram__mha_packed(vram__step *s, vram__tensor x, vram__tensor w, vram__tensor b,
                                     int64_t parts) {
  vram__tensor p = vram__torch_linear(s, x, w, b), t, u;
  const uint32_t n = p.d->ndim;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < n; i++)
    size[i] = p.d->v[i];
  size[n - 1] = parts, size[n] = p.d->v[n - 1] / parts;
  t = vram__torch_view_as(s, p, vram__dims_in(s, n + 1, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, p);
  order[0] = (uint8_t)(n - 1);
  for (i = 1; i < n; i++)
    order[i] = (uint8_t)(i - 1);
  order[n] = (uint8_t)n;
  u = vram__torch_permute(s, t, order);
  vram__tensor_release(s, t);
  t = vram__torch_contiguous(s, u);
  vram__tensor_release(s, u);
  return t;
}

/* [L,B,E] as heads: [B*h,L,D]. Takes x. */
static vram__tensor vram__mha_heads(vram__step *s, vram__tensor x, int64_t h) {
  int64_t size[3];
  vram__tensor t, y;
  size[0] = x.d->v[0], size[1] = x.d->v[1] * h, size[2] = x.d->v[2] / h;
  t = vram__torch_reshape(s, x, 3, size);
  vram__tensor_release(s, x);
  y = vram__torch_swap(s, t, 0, 1);
  vram__tensor_release(s, t);
  return y;
}

/* native/transformers/cuda/attention.cu, native_multi_head_attention: what eager inference of
   self-attention takes where it can (batch first, an even number of heads, biases, no autocast) */
static void vram__mha_native(vram__step *s, const vram_node *n, vram__tensor x, vram__tensor mask,
                             vram__tensor *y) {
  const int64_t B = x.d->v[0], L = x.d->v[1], E = x.d->v[2], h = VRAM__INT(n, num_heads, 1);
  const int weights = VRAM__INT(n, need_weights, 1) != 0;
  vram__tensor a[4], t, u, att, in[3];
  int64_t size[4], part[3];
  uint32_t i;
  in[0] = vram__mha_param(s, n, VRAM__MHA_IN), in[1] = vram__mha_param(s, n, VRAM__MHA_BIAS);
  for (i = 0; i < 3; i++) { /* which backend would take query, key and value as they are? */
    a[i] = x;
    a[i].d = vram__attention_bshd_dims(s, B, h, L, E / h);
  }
  a[3] = vram__tensor_none();
  i = (uint32_t)vram__sdpa_pick(s, a, 0, 0, 0);
  if (!weights && !mask.d && (i == VRAM__SDPA_FLASH || i == VRAM__SDPA_EFFICIENT)) {
    t = vram__torch_linear(s, x, in[0], in[1]);
    for (i = 0; i < 3; i++) { /* chunks of the last axis as heads */
      int64_t stride[4];
      size[0] = B, size[1] = h, size[2] = L, size[3] = E / h;
      stride[0] = L * 3 * E, stride[1] = E / h, stride[2] = 3 * E, stride[3] = 1;
      a[i] = vram__tensor_view(s, t, vram__dims_in(s, 4, size, stride));
      a[i].off = (uint8_t)(((int64_t)i * E) & 15);
    }
    y[0] = vram__torch_sdpa(s, n, a, 0, 0, 0);
    u = vram__torch_swap(s, y[0], 1, 2);
    vram__tensor_release(s, y[0]);
    size[1] = L, size[2] = E;
    y[0] = vram__torch_reshape(s, u, 3, size);
    vram__tensor_release(s, u);
    u = vram__torch_linear(s, y[0], vram__mha_param(s, n, VRAM__MHA_OUT),
                           vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
    vram__tensor_release(s, y[0]);
    vram__tensor_release(s, t);
    y[0] = u;
    return;
  }
  t = vram__torch_linear(s, x, in[0], vram__tensor_none());
  part[0] = 3 * B * h, part[1] = L, part[2] = E / h; /* biases added, heads in front */
  u = vram__tensor_empty(s, vram__dims_in(s, 3, part, NULL), t.dt);
  vram__tensor_release(s, t);
  size[0] = B * h, size[1] = size[2] = L;
  att = vram__tensor_empty(s, vram__dims_in(s, 3, size, NULL), u.dt);
  vram__workspace_use(s, s->device.cublas_workspace);
  if (mask.d) { /* _masked_softmax */
    vram__tensor m = vram__tensor_empty(s, att.d, VRAM_BOOL);
    t = vram__tensor_empty(s, att.d, att.dt);
    vram__tensor_release(s, att);
    vram__tensor_release(s, m);
    att = t;
  }
  vram__workspace_use(s, s->device.cublas_workspace); /* into the storage of the query */
  if (!weights) {
    vram__tensor_release(s, att);
    att = vram__tensor_none();
  }
  size[0] = B * L, size[1] = E;
  t = L == 1 ? vram__tensor_view(s, u, vram__dims_in(s, 2, size, NULL)) /* the heads lie together */
             : vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), u.dt);
  y[0] = vram__torch_linear(s, t, vram__mha_param(s, n, VRAM__MHA_OUT),
                            vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__tensor_release(s, t);
  size[0] = B, size[1] = L, size[2] = E;
  t = vram__torch_view_as(s, y[0], vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, y[0]);
  y[0] = t;
  if (weights) {
    size[0] = B, size[1] = h, size[2] = size[3] = L;
    att.d = vram__dims_in(s, 4, size, NULL);
    y[1] = vram__tensor_sum(s, att, 2, 0, att.dt);
    vram__tensor_release(s, att);
  }
  vram__tensor_release(s, u);
}

static vram__tensor vram__mha_sdpa(vram__step *s, const vram_node *n, const vram__tensor *in,
                                   vram__tensor mask, int64_t B, int64_t h, int64_t p) {
  vram__tensor a[4], t;
  int64_t size[4];
  uint32_t i;
  a[3] = mask;
  if (mask.d && mask.d->v[0] == 1)
    a[3] = vram__torch_unsqueeze(s, mask, 0);
  else if (mask.d) {
    size[0] = B, size[1] = h, size[2] = mask.d->v[1], size[3] = mask.d->v[2];
    a[3] = vram__torch_reshape(s, mask, 4, size);
  }
  for (i = 0; i < 3; i++) {
    size[0] = B, size[1] = h, size[2] = in[i].d->v[1], size[3] = in[i].d->v[2];
    a[i] = vram__torch_reshape(s, in[i], 4, size);
  }
  for (i = s->amp ? 4 : 0; i-- > 0;)
    if (a[i].d) {
      t = vram__autocast_cast(s, a[i], s->amp);
      vram__tensor_release(s, a[i]);
      a[i] = t;
    }
  return vram__torch_sdpa(s, n, a, p, 0, 0);
}

/* torch.nn.functional.multi_head_attention_forward */
static void vram__forward_mha(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int64_t h = VRAM__INT(n, num_heads, 1), p = s->train ? VRAM__INT(n, dropout, 0) : 0;
  const int batched = x[0].d->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0),
            weights = VRAM__INT(n, need_weights, 1) != 0;
  const int same_kv = s->name_of[n->in[1]->index] == s->name_of[n->in[2]->index],
            same = same_kv && s->name_of[n->in[0]->index] == s->name_of[n->in[1]->index];
  const vram__tensor w = vram__mha_param(s, n, VRAM__MHA_IN),
                     b = vram__mha_param(s, n, VRAM__MHA_BIAS);
  vram__tensor in[3], v[3], mask = vram__tensor_none(), given, q = mask, t, u, pw[3], pb[3];
  int64_t L, S, B, E, part[3], size[4], row[2] = {0, 1};
  uint32_t i, k;
  y[1] = vram__tensor_none();
  if (n->nin > 3) { /* F._canonical_mask: a bool mask as numbers */
    mask = x[3].dt == VRAM_BOOL ? vram__tensor_empty(s, vram__dims_dense(s, x[3].d), x[0].dt)
                                : vram__tensor_retain(s, x[3]);
  }
  if (!s->grad && !s->train && !s->amp && first && same && h % 2 == 0 && b.d && w.d &&
      b.dt == x[0].dt && w.dt == x[0].dt && !n->param[VRAM__MHA_KEY] &&
      !n->param[VRAM__MHA_BIAS_K] && !VRAM__INT(n, add_zero_attn, 0) &&
      !(n->nin > 3 && vram__dtype_is_float(x[3].dt))) {
    vram__mha_native(s, n, x[0], mask, y);
    vram__tensor_release(s, mask);
    if (n->nout < 2) {
      vram__tensor_release(s, y[1]);
      y[1] = vram__tensor_none();
    }
    return;
  }
  given = vram__tensor_retain(s, mask); /* the module's forward holds it while that is padded */
  for (i = 0; i < 3; i++)
    if (batched && ((i == 1 && same) || (i == 2 && same_kv)))
      in[i] = vram__tensor_retain(s, in[i - 1]);
    else if (!batched)
      in[i] = vram__torch_unsqueeze(s, x[i], 1);
    else
      in[i] = first ? vram__torch_swap(s, x[i], 0, 1) : vram__tensor_retain(s, x[i]);
  L = in[0].d->v[0], B = in[0].d->v[1], E = in[0].d->v[2], S = in[1].d->v[0];
  if (batched && same && !n->param[VRAM__MHA_KEY]) {
    t = vram__mha_packed(s, in[0], w, b, 3);
    for (i = 0; i < 3; i++)
      v[i] = vram__torch_select(s, t, i);
    vram__tensor_release(s, t);
  } else if (batched && same_kv && !n->param[VRAM__MHA_KEY]) {
    part[0] = E, part[1] = 2 * E;
    vram__torch_split(s, w, 2, part, pw);
    pb[0] = pb[1] = vram__tensor_none();
    if (b.d)
      vram__torch_split(s, b, 2, part, pb);
    v[0] = vram__torch_linear(s, in[0], pw[0], pb[0]);
    t = vram__mha_packed(s, in[1], pw[1], pb[1], 2);
    v[1] = vram__torch_select(s, t, 0), v[2] = vram__torch_select(s, t, 1);
    vram__tensor_release(s, t);
    for (i = 0; i < 2; i++)
      vram__tensor_release(s, pw[i]), vram__tensor_release(s, pb[i]);
  } else {
    part[0] = part[1] = part[2] = E;
    if (n->param[VRAM__MHA_KEY]) {
      pw[0] = vram__tensor_retain(s, w);
      pw[1] = vram__tensor_retain(s, vram__mha_param(s, n, VRAM__MHA_KEY));
      pw[2] = vram__tensor_retain(s, vram__mha_param(s, n, VRAM__MHA_VALUE));
    } else
      vram__torch_split(s, w, 3, part, pw);
    pb[0] = pb[1] = pb[2] = vram__tensor_none();
    if (b.d)
      vram__torch_split(s, b, 3, part, pb);
    for (i = 0; i < 3; i++)
      v[i] = vram__torch_linear(s, in[i], pw[i], pb[i]);
    for (i = 0; i < 3; i++)
      vram__tensor_release(s, pw[i]), vram__tensor_release(s, pb[i]);
  }
  if (mask.d && mask.d->ndim == 2) {
    t = vram__torch_unsqueeze(s, mask, 0);
    vram__tensor_release(s, mask);
    mask = t;
  }
  for (k = 0; k < 2; k++) { /* bias_k and bias_v, then zeros, behind key and value */
    if (k ? !VRAM__INT(n, add_zero_attn, 0) : !n->param[VRAM__MHA_BIAS_K]) {
      for (i = 0; i < 3 && !k; i++)
        v[i] = vram__mha_heads(s, v[i], h);
      continue;
    }
    for (i = 1; i < 3; i++) {
      if (k) {
        size[0] = B * h, size[1] = 1, size[2] = E / h;
        t = vram__tensor_empty(s, vram__dims_in(s, 3, size, NULL), v[i].dt);
      } else {
        u = vram__mha_param(s, n, i == 1 ? VRAM__MHA_BIAS_K : VRAM__MHA_BIAS_V);
        size[0] = 1, size[1] = B, size[2] = E;
        t = vram__op_call_n(s, VRAM_OP_repeat, 0, &u, 1, NULL, vram__dims_in(s, 3, size, NULL));
      }
      v[i] = vram__torch_cat2(s, v[i], t, k);
    }
    if (mask.d) {
      t = vram__torch_pad(s, mask, row, 1, VRAM__PAD_CONSTANT);
      vram__tensor_release(s, mask);
      mask = t;
    }
    S++;
    for (i = 0; i < 3 && !k; i++)
      v[i] = vram__mha_heads(s, v[i], h);
  }
  if (weights) {
    vram__tensor f[3];
    q = v[0]; /* the variable q lives on */
    t = vram__op_call(s, VRAM_OP_mul, q, vram__tensor_none(), NULL);
    u = vram__torch_swap(s, v[1], 1, 2);
    vram__tensor_release(s, v[1]);
    f[0] = mask, f[1] = t, f[2] = u;
    v[0] = mask.d ? vram__op_call_n(s, VRAM_OP_baddbmm, 0, f, 3, NULL, NULL)
                  : vram__op_call_n(s, VRAM_OP_bmm, 0, f + 1, 2, NULL, NULL);
    vram__tensor_release(s, u);
    vram__tensor_release(s, t);
    t = vram__torch_softmax(s, VRAM_OP_softmax, v[0],
                            s->amp && vram__is_half(v[0].dt) ? (uint8_t)VRAM_F32 : v[0].dt);
    vram__tensor_release(s, v[0]);
    if (p) {
      int64_t attr[3];
      attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
      u = vram__op_call(s, VRAM_OP_dropout, t, vram__tensor_none(), attr);
      vram__tensor_release(s, t);
      t = u;
    }
    f[0] = t, f[1] = v[2];
    u = vram__op_call_n(s, VRAM_OP_bmm, 0, f, 2, NULL, NULL);
    vram__tensor_release(s, v[2]);
    y[1] = t;
    t = vram__torch_swap(s, u, 0, 1);
  } else {
    static const uint8_t order[] = {2, 0, 1, 3};
    u = vram__mha_sdpa(s, n, v, mask, B, h, p);
    for (i = 0; i < 3; i++)
      vram__tensor_release(s, v[i]);
    t = vram__torch_permute(s, u, order);
  }
  vram__tensor_release(s, u);
  size[0] = L * B, size[1] = E;
  u = vram__torch_reshape(s, t, 2, size);
  vram__tensor_release(s, t);
  t = vram__torch_linear(s, u, vram__mha_param(s, n, VRAM__MHA_OUT),
                         vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__tensor_release(s, u);
  size[0] = L, size[1] = B, size[2] = E;
  y[0] = vram__torch_view_as(s, t, vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, t);
  if (weights) { /* averaged over the heads */
    static const int64_t mean[] = {VRAM__KEY_dim | 1 << 8, 1, 0};
    size[0] = B, size[1] = h, size[2] = L, size[3] = S;
    t = vram__torch_view_as(s, y[1], vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__tensor_release(s, y[1]);
    y[1] = vram__op_call(s, VRAM_OP_mean, t, vram__tensor_none(), mean);
    vram__tensor_release(s, t);
  }
  vram__tensor_release(s, given);
  vram__tensor_release(s, mask);
  vram__tensor_release(s, q);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
  if (!batched) {
    t = vram__torch_squeeze1(s, y[0], 1);
    vram__tensor_release(s, y[0]);
    y[0] = t;
    if (weights) {
      t = vram__torch_squeeze1(s, y[1], 0);
      vram__tensor_release(s, y[1]);
      y[1] = t;
    }
  }
  if (first) {
    t = vram__torch_swap(s, y[0], 0, 1);
    vram__tensor_release(s, y[0]);
    y[0] = t;
  }
  if (n->nout < 2) {
    vram__tensor_release(s, y[1]);
    y[1] = vram__tensor_none();
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(multi_head_attention, 3, 4, mha, SAME, none, mha, none, mha, MHA, 0, 0,
         "num_heads! bias dropout need_weights batch_first add_bias_kv add_zero_attn kdim vdim "
         "frozen weights dtype");
