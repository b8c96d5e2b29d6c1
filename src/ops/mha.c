/* >>ops/mha    torch.nn.MultiheadAttention and TransformerEncoderLayer */
#include "ops/ops.h"

/* The slots of its parameters. */
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

/* Behind them those of an encoder layer: of each weight and its bias. */
enum {
  VRAM__ENCODER_LINEAR1 = VRAM__MHA_PARAMS,
  VRAM__ENCODER_LINEAR2 = VRAM__ENCODER_LINEAR1 + 2,
  VRAM__ENCODER_NORM1 = VRAM__ENCODER_LINEAR2 + 2,
  VRAM__ENCODER_NORM2 = VRAM__ENCODER_NORM1 + 2,
  VRAM__ENCODER_PARAMS = VRAM__ENCODER_NORM2 + 2
};

/* Its options, and sizes by their names in torch.nn.functional: N, L, S and E of its documentation
   are bsz, tgt_len, src_len and embed_dim. */
typedef struct vram__mha {
  const vram_node *n;
  int64_t heads, bsz, tgt_len, src_len, embed_dim, dropout_p;
  int batched, batch_first, need_weights, causal;
  int is_self, one_kv; /* query, key and value are one tensor; key and value are */
} vram__mha;

static vram__mha vram__mha_of(const vram_node *n, const vram_dims *q, const vram_dims *k) {
  vram__mha m;
  m.n = n;
  m.is_self = m.one_kv = 0;
  m.batched = q->ndim == 3;
  m.batch_first = m.batched && VRAM__INT(n, batch_first, 0);
  m.need_weights = VRAM__INT(n, need_weights, 1) != 0;
  m.causal = VRAM__INT(n, is_causal, 0) != 0;
  m.heads = VRAM__INT(n, num_heads, 0);
  m.dropout_p = VRAM__INT(n, dropout, 0);
  m.bsz = m.batched ? q->v[m.batch_first ? 0 : 1] : 1;
  m.tgt_len = q->v[m.batch_first ? 1 : 0];
  m.src_len = k->v[m.batch_first ? 1 : 0];
  m.embed_dim = q->v[q->ndim - 1u];
  return m;
}

/* F.multi_head_attention_forward, _mha_shape_check; value: the mask, which stands at that place */
static int vram__shape_mha_mask(vram_graph *g, vram_node *n, const vram__mha *m, uint32_t at) {
  const vram_value *value = n->nin > at ? n->in[at] : NULL;
  const vram_dims *mask = value ? value->d : NULL;
  int fits;
  if (!mask)
    return m->causal ? vram__node_error(g, n, "is_causal=1 needs the mask that it is about") : 1;
  fits = mask->ndim == 2 ? mask->v[0] == m->tgt_len && mask->v[1] == m->src_len
                         : mask->ndim == 3 && mask->v[0] == m->bsz * m->heads &&
                               mask->v[1] == m->tgt_len && mask->v[2] == m->src_len;
  if (!fits || (value->dtype != VRAM_BOOL && vram__kind_rank(value->dtype) != 2))
    return vram__node_error(g, n,
                            "the mask must be [L,S] or [N*heads,L,S] of bool or floating point");
  return 1;
}

VRAM__FN int vram__node_own_params(vram_graph *g, vram_node *n, const vram__own_param *own,
                                   uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; i++)
    if (own[i].there && !vram__node_own(g, n, own[i].slot, own[i].role, own[i].ndim, own[i].size,
                                        VRAM_DTYPE_MODEL, VRAM__PARAM))
      return 0;
  return 1;
}

/* Parameters in the order in which the module registers them. */
static int vram__shape_mha_params(vram_graph *g, vram_node *n, int64_t embed_dim) {
  const int64_t kdim = VRAM__INT(n, kdim, embed_dim), vdim = VRAM__INT(n, vdim, embed_dim);
  const int one = kdim == embed_dim && vdim == embed_dim, bias = VRAM__INT(n, bias, 1) != 0;
  const int bias_kv = VRAM__INT(n, add_bias_kv, 0) != 0;
  const vram__own_param own[] = {
      {VRAM__MHA_IN,
       1,
       one ? "in_proj_weight" : "q_proj_weight",
       2,
       {one ? 3 * embed_dim : embed_dim, embed_dim, 0}},
      {VRAM__MHA_KEY, !one, "k_proj_weight", 2, {embed_dim, kdim, 0}},
      {VRAM__MHA_VALUE, !one, "v_proj_weight", 2, {embed_dim, vdim, 0}},
      {VRAM__MHA_BIAS, bias, "in_proj_bias", 1, {3 * embed_dim, 0, 0}},
      {VRAM__MHA_BIAS_K, bias_kv, "bias_k", 3, {1, 1, embed_dim}},
      {VRAM__MHA_BIAS_V, bias_kv, "bias_v", 3, {1, 1, embed_dim}},
      {VRAM__MHA_OUT, 1, "out_proj.weight", 2, {embed_dim, embed_dim, 0}},
      {VRAM__MHA_OUT_BIAS, bias, "out_proj.bias", 1, {embed_dim, 0, 0}}};
  return vram__node_params(g, n, VRAM__MHA_PARAMS) &&
         vram__node_own_params(g, n, own, sizeof own / sizeof *own);
}

/* Query, key, value, a mask; outputs: the result, the weights. */
static int vram__shape_mha(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  const vram_dtype dt = n->in[0]->dtype;
  vram__mha m;
  int64_t size[3];
  uint32_t i;
  if ((q->ndim != 3 && q->ndim != 2) || k->ndim != q->ndim || v->ndim != q->ndim)
    return vram__node_error(g, n, "query, key and value must have two or three axes");
  m = vram__mha_of(n, q, k);
  if (m.embed_dim < 1 || m.heads < 1 || m.embed_dim % m.heads)
    return vram__node_error(g, n, "num_heads must divide the width of the query");
  if (k->v[q->ndim - 1u] != VRAM__INT(n, kdim, m.embed_dim) ||
      v->v[q->ndim - 1u] != VRAM__INT(n, vdim, m.embed_dim))
    return vram__node_error(g, n, "key or value of another width (kdim=, vdim=)");
  for (i = 0; i + 1u < q->ndim; i++)
    if (k->v[i] != v->v[i] || (m.batched && i == (m.batch_first ? 0u : 1u) && k->v[i] != q->v[i]))
      return vram__node_error(g, n, "query, key and value of different batch or length");
  if (n->in[1]->dtype != dt || n->in[2]->dtype != dt || vram__kind_rank(dt) != 2)
    return vram__node_error(g, n, "query, key and value must be of one floating point dtype");
  if (n->nout > 1 && !m.need_weights)
    return vram__node_error(g, n, "need_weights=0 gives no second output");
  if (!vram__shape_mha_mask(g, n, &m, 3))
    return 0;
  if (!vram__shape_mha_params(g, n, m.embed_dim))
    return 0;
  m.src_len += (VRAM__INT(n, add_bias_kv, 0) != 0) + (VRAM__INT(n, add_zero_attn, 0) != 0);
  if (!vram__attention_fits(g, (uint64_t)(m.bsz * m.heads), m.tgt_len, m.src_len, m.embed_dim))
    return 0;
  size[0] = m.bsz;
  size[1] = m.tgt_len;
  size[2] = m.src_len;
  if (n->nout > 1 && !vram__node_out(g, n, 1, m.batched ? 3 : 2, size + !m.batched, dt))
    return 0;
  return vram__node_out_dims(n, 0, q, dt);
}

static uint64_t vram__flops_mha(const vram_node *n) {
  const uint64_t rows = vram__product_or_overflow(2, vram__input_rows(n));
  return vram__sum_or_overflow(vram__product_or_overflow(rows, vram__matrix_elements(n)),
                               vram__flops_sdpa(n));
}

/* ---- torch.nn.TransformerEncoderLayer ---- */

static vram__mha vram__encoder_attention(const vram_node *n, const vram_dims *x) {
  vram__mha m = vram__mha_of(n, x, x);
  m.need_weights = 0;
  m.is_self = m.one_kv = 1;
  m.dropout_p = VRAM__INT(n, dropout, VRAM__ONE / 10);
  return m;
}

static int64_t vram__encoder_hidden(const vram_node *n) {
  return VRAM__INT(n, dim_feedforward, 2048);
}

/* Parameters in the order in which the module registers them. */
static int vram__shape_encoder_params(vram_graph *g, vram_node *n, int64_t e) {
  const int64_t hidden = vram__encoder_hidden(n);
  const int bias = VRAM__INT(n, bias, 1) != 0;
  const vram__own_param own[] = {
      {VRAM__MHA_IN, 1, "self_attn.in_proj_weight", 2, {3 * e, e, 0}},
      {VRAM__MHA_BIAS, bias, "self_attn.in_proj_bias", 1, {3 * e, 0, 0}},
      {VRAM__MHA_OUT, 1, "self_attn.out_proj.weight", 2, {e, e, 0}},
      {VRAM__MHA_OUT_BIAS, bias, "self_attn.out_proj.bias", 1, {e, 0, 0}},
      {VRAM__ENCODER_LINEAR1, 1, "linear1.weight", 2, {hidden, e, 0}},
      {VRAM__ENCODER_LINEAR1 + 1, bias, "linear1.bias", 1, {hidden, 0, 0}},
      {VRAM__ENCODER_LINEAR2, 1, "linear2.weight", 2, {e, hidden, 0}},
      {VRAM__ENCODER_LINEAR2 + 1, bias, "linear2.bias", 1, {e, 0, 0}},
      {VRAM__ENCODER_NORM1, 1, "norm1.weight", 1, {e, 0, 0}},
      {VRAM__ENCODER_NORM1 + 1, bias, "norm1.bias", 1, {e, 0, 0}},
      {VRAM__ENCODER_NORM2, 1, "norm2.weight", 1, {e, 0, 0}},
      {VRAM__ENCODER_NORM2 + 1, bias, "norm2.bias", 1, {e, 0, 0}}};
  return vram__node_params(g, n, VRAM__ENCODER_PARAMS) &&
         vram__node_own_params(g, n, own, sizeof own / sizeof *own);
}

/* The sequence, a mask. */
static int vram__shape_encoder(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t act = VRAM__INT(n, activation, VRAM__WORD(relu));
  vram__mha m;
  int64_t size[3];
  uint32_t i;
  if ((x->ndim != 3 && x->ndim != 2) || vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__node_error(g, n, "the sequence must have two or three axes of floating point");
  m = vram__encoder_attention(n, x);
  if (m.embed_dim < 1 || m.heads < 1 || m.embed_dim % m.heads)
    return vram__node_error(g, n, "num_heads must divide the width of the sequence");
  if (vram__encoder_hidden(n) < 1)
    return vram__node_error(g, n, "dim_feedforward must be at least 1");
  if (act != VRAM__WORD(relu) && act != VRAM__WORD(gelu))
    return vram__node_error(g, n, "activation must be relu or gelu");
  if (m.dropout_p < 0 || m.dropout_p > VRAM__ONE)
    return vram__node_error(g, n, "dropout must be 0 to 1");
  if (!vram__shape_mha_mask(g, n, &m, 1))
    return 0;
  if (!vram__shape_encoder_params(g, n, m.embed_dim) ||
      !vram__attention_fits(g, (uint64_t)(m.bsz * m.heads), m.tgt_len, m.src_len, m.embed_dim))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = i + 1 < x->ndim ? x->v[i] : vram__encoder_hidden(n);
  return vram__graph_dims(g, x->ndim, size) != NULL &&
         vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

/* The products with its weights, and those of attention. */
static uint64_t vram__flops_encoder(const vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const vram__mha m = vram__encoder_attention(n, x);
  const uint64_t rows = vram__product_or_overflow(2, vram__input_rows(n));
  return vram__sum_or_overflow(
      vram__product_or_overflow(rows, vram__matrix_elements(n)),
      vram__product_or_overflow(4, vram__product_or_overflow(x->numel, (uint64_t)m.src_len)));
}

#ifndef VRAM_NO_STEP

static vram__tensor vram__mha_param(const vram__step *s, const vram_node *n, uint32_t slot) {
  return n->param[slot] ? s->param[n->param[slot]->index] : vram__tensor_none();
}

/* ---- functions of torch that it calls ---- */

/* x.split along its first axis into pieces of these sizes. */
static void vram__torch_split(vram__step *s, vram__tensor x, uint32_t count, const int64_t *sizes,
                              vram__tensor *y) {
  static const int64_t attr[] = {VRAM__KEY_dim | 1 << 8, 0, 0};
  vram_node n;
  vram_value v[3];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  vram__memory_zero(&n, sizeof n);
  vram__memory_zero(v, sizeof v);
  n.op = VRAM_OP_split;
  n.nin = 1;
  n.nout = count;
  n.attr = attr;
  n.out = v;
  for (i = 0; i < count; i++) {
    size[0] = sizes[i];
    v[i].d = vram__dims_in(s, x.d->ndim, size, NULL);
  }
  vram__forward_op(s, &n, &x, y);
}

/* x[i] */
VRAM__FN vram__tensor vram__torch_select(vram__step *s, vram__tensor x, int64_t i) {
  int64_t attr[5];
  attr[0] = VRAM__KEY_dim | 1 << 8;
  attr[1] = 0;
  attr[2] = VRAM__KEY_index | 1 << 8;
  attr[3] = i;
  attr[4] = 0;
  return vram__op_call_n(s, VRAM_OP_select, &x, 1, attr, NULL);
}

/* torch.cat of two along an axis. Takes both. */
static vram__tensor vram__torch_cat2(vram__step *s, vram__tensor a, vram__tensor b, uint32_t axis) {
  vram__tensor in[2], y;
  int64_t size[VRAM_MAX_AXES], attr[3];
  uint32_t i;
  in[0] = a;
  in[1] = b;
  for (i = 0; i < a.d->ndim; i++)
    size[i] = a.d->v[i] + (i == axis ? b.d->v[i] : 0);
  attr[0] = VRAM__KEY_dim | 1 << 8;
  attr[1] = axis;
  attr[2] = 0;
  y = vram__op_call_n(s, VRAM_OP_cat, in, 2, attr, vram__dims_in(s, i, size, NULL));
  vram__tensor_release(s, b);
  vram__tensor_release(s, a);
  return y;
}

/* ---- native_multi_head_attention (native/transformers/cuda/attention.cu) ---- */

/* torch.nn.MultiheadAttention.forward: eager inference of self-attention takes it where it can. */
static int vram__mha_is_native(const vram__step *s, const vram__mha *m, const vram__tensor *x) {
  const vram_node *n = m->n;
  const vram__tensor w = vram__mha_param(s, n, VRAM__MHA_IN),
                     b = vram__mha_param(s, n, VRAM__MHA_BIAS);
  return !s->grad && !s->train && !s->amp && m->batch_first && m->is_self && m->heads % 2 == 0 &&
         b.d && w.d && b.dt == x[0].dt && w.dt == x[0].dt && !n->param[VRAM__MHA_KEY] &&
         !n->param[VRAM__MHA_BIAS_K] && !VRAM__INT(n, add_zero_attn, 0);
}

/* Would scaled_dot_product_attention run a fused kernel for query, key and value like x? */
static int vram__mha_native_is_fused(vram__step *s, const vram__mha *m, vram__tensor x,
                                     vram__tensor mask) {
  vram__sdpa p;
  uint32_t i;
  int backend;
  if (m->need_weights || mask.d ||
      ((s->device.rules->does & VRAM__MHA_EIGHTS) && m->embed_dim / m->heads % 8))
    return 0;
  vram__memory_zero(&p, sizeof p);
  x.d = vram__attention_bshd_dims(s, m->bsz, m->heads, m->tgt_len, m->embed_dim / m->heads);
  for (i = 0; i < 3; i++)
    p.in[i] = x;
  backend = vram__sdpa_backend(s, &p);
  return backend != VRAM__SDPA_MATH;
}

/* Query, key and value are chunks of one product. */
static vram__tensor vram__mha_native_fused(vram__step *s, const vram__mha *m, vram__tensor x) {
  const int64_t bsz = m->bsz, tgt_len = m->tgt_len, embed_dim = m->embed_dim,
                width = embed_dim / m->heads;
  vram__tensor packed = vram__torch_linear(s, x, vram__mha_param(s, m->n, VRAM__MHA_IN),
                                           vram__mha_param(s, m->n, VRAM__MHA_BIAS)),
               attended, y;
  vram__sdpa p;
  int64_t size[4], stride[4], rows[3];
  uint32_t i;
  vram__memory_zero(&p, sizeof p);
  size[0] = bsz;
  size[1] = m->heads;
  size[2] = tgt_len;
  size[3] = width;
  stride[0] = tgt_len * 3 * embed_dim;
  stride[1] = width;
  stride[2] = 3 * embed_dim;
  stride[3] = 1;
  for (i = 0; i < 3; i++) {
    p.in[i] = vram__tensor_view(s, packed, vram__dims_in(s, 4, size, stride));
    vram__tensor_begin_at(s, p.in[i], i * (uint64_t)embed_dim);
  }
  attended = vram__torch_sdpa(s, &p); /* it lives on */
  y = vram__torch_swap(s, attended, 1, 2);
  rows[0] = bsz;
  rows[1] = tgt_len;
  rows[2] = embed_dim;
  vram__tensor_replace(s, &y, vram__torch_reshape(s, y, 3, rows));
  vram__tensor_replace(s, &y,
                       vram__torch_linear(s, y, vram__mha_param(s, m->n, VRAM__MHA_OUT),
                                          vram__mha_param(s, m->n, VRAM__MHA_OUT_BIAS)));
  vram__tensor_release(s, attended);
  vram__tensor_release(s, packed);
  return y;
}

/* softmax(q k^T), which _masked_softmax makes with a mask. none: nobody wants the weights. */
static vram__tensor vram__mha_native_weights(vram__step *s, const vram__mha *m, vram_dtype dt,
                                             int masked) {
  vram__tensor weights = vram__tensor_empty(
                   s, vram__dims_3d(s, m->bsz * m->heads, m->tgt_len, m->tgt_len), dt),
               mask;
  vram__blas_workspace(s, VRAM__CUBLAS);
  if (masked) {
    mask = vram__tensor_empty(s, weights.d, VRAM_BOOL);
    vram__tensor_replace(s, &weights, vram__tensor_empty(s, weights.d, weights.dt));
    vram__tensor_release(s, mask);
  }
  vram__blas_workspace(s, VRAM__CUBLAS); /* its product goes where the query was */
  if (!m->need_weights)
    vram__tensor_replace(s, &weights, vram__tensor_none());
  return weights;
}

static void vram__mha_native(vram__step *s, const vram__mha *m, vram__tensor x, vram__tensor mask,
                             vram__tensor *y) {
  const int64_t bsz = m->bsz, tgt_len = m->tgt_len, embed_dim = m->embed_dim, h = m->heads;
  vram__tensor heads, weights, rows;
  if (vram__mha_native_is_fused(s, m, x, mask)) {
    y[0] = vram__mha_native_fused(s, m, x);
    return;
  }
  rows = vram__torch_linear(s, x, vram__mha_param(s, m->n, VRAM__MHA_IN), vram__tensor_none());
  /* transform_bias_rescale_qkv: biases added, heads in front */
  heads = vram__tensor_empty(s, vram__dims_3d(s, 3 * bsz * h, tgt_len, embed_dim / h), rows.dt);
  vram__tensor_release(s, rows);
  weights = vram__mha_native_weights(s, m, heads.dt, mask.d != NULL);
  /* transform_0213: heads beside one another again, which they are where there is one row */
  rows = tgt_len == 1 ? vram__tensor_view(s, heads, vram__dims_2d(s, bsz * tgt_len, embed_dim))
                      : vram__tensor_empty(s, vram__dims_2d(s, bsz * tgt_len, embed_dim), heads.dt);
  y[0] = vram__torch_linear(s, rows, vram__mha_param(s, m->n, VRAM__MHA_OUT),
                            vram__mha_param(s, m->n, VRAM__MHA_OUT_BIAS));
  vram__tensor_release(s, rows);
  vram__tensor_replace(
      s, &y[0],
      vram__torch_view_as(s, y[0], vram__dims_3d(s, bsz, tgt_len, embed_dim), VRAM__K_view, 0));
  if (weights.d) { /* the mean over the heads */
    weights.d = vram__dims_4d(s, bsz, h, tgt_len, tgt_len);
    y[1] = vram__tensor_sum(s, weights, 1u << 1, 0, weights.dt);
    vram__tensor_release(s, weights);
  }
  vram__tensor_release(s, heads);
}

/* ---- torch.nn.functional.multi_head_attention_forward ---- */

/* _in_projection_packed: linear(x, w, b), and the parts of its last axis in front:
   [parts, ..., E] */
static vram__tensor vram__mha_packed(vram__step *s, vram__tensor x, vram__tensor w, vram__tensor b,
                                     int64_t parts) {
  vram__tensor y = vram__torch_linear(s, x, w, b);
  const uint32_t n = y.d->ndim;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i + 1 < n; i++)
    size[i] = y.d->v[i];
  size[n - 1] = parts;
  size[n] = y.d->v[n - 1] / parts;
  vram__tensor_replace(
      s, &y, vram__torch_view_as(s, y, vram__dims_in(s, n + 1, size, NULL), VRAM__K_view, 0));
  order[0] = (uint8_t)(n - 1);
  for (i = 1; i < n; i++)
    order[i] = (uint8_t)(i - 1);
  order[n] = (uint8_t)n;
  vram__tensor_replace(s, &y, vram__torch_permute(s, y, order));
  vram__tensor_replace(s, &y, vram__torch_contiguous(s, y));
  return y;
}

/* _in_projection_packed of self-attention */
static void vram__mha_project_self(vram__step *s, const vram__mha *m, const vram__tensor *in,
                                   vram__tensor *qkv) {
  vram__tensor packed = vram__mha_packed(s, in[0], vram__mha_param(s, m->n, VRAM__MHA_IN),
                                         vram__mha_param(s, m->n, VRAM__MHA_BIAS), 3);
  uint32_t i;
  for (i = 0; i < 3; i++)
    qkv[i] = vram__torch_select(s, packed, i);
  vram__tensor_release(s, packed);
}

/* _in_projection_packed where key and value are one tensor */
static void vram__mha_project_encoder(vram__step *s, const vram__mha *m, const vram__tensor *in,
                                      vram__tensor *qkv) {
  const vram__tensor bias = vram__mha_param(s, m->n, VRAM__MHA_BIAS);
  vram__tensor w[2], b[2], packed;
  int64_t part[2];
  uint32_t i;
  part[0] = m->embed_dim;
  part[1] = 2 * m->embed_dim;
  vram__torch_split(s, vram__mha_param(s, m->n, VRAM__MHA_IN), 2, part, w);
  b[0] = b[1] = vram__tensor_none();
  if (bias.d)
    vram__torch_split(s, bias, 2, part, b);
  qkv[0] = vram__torch_linear(s, in[0], w[0], b[0]);
  packed = vram__mha_packed(s, in[1], w[1], b[1], 2);
  qkv[1] = vram__torch_select(s, packed, 0);
  qkv[2] = vram__torch_select(s, packed, 1);
  vram__tensor_release(s, packed);
  for (i = 0; i < 2; i++) {
    vram__tensor_release(s, w[i]);
    vram__tensor_release(s, b[i]);
  }
}

/* _in_projection, and _in_projection_packed of three tensors */
static void vram__mha_project_each(vram__step *s, const vram__mha *m, const vram__tensor *in,
                                   vram__tensor *qkv) {
  const vram__tensor bias = vram__mha_param(s, m->n, VRAM__MHA_BIAS);
  vram__tensor w[3], b[3];
  int64_t part[3];
  uint32_t i;
  part[0] = part[1] = part[2] = m->embed_dim;
  if (m->n->param[VRAM__MHA_KEY]) {
    w[0] = vram__tensor_retain(s, vram__mha_param(s, m->n, VRAM__MHA_IN));
    w[1] = vram__tensor_retain(s, vram__mha_param(s, m->n, VRAM__MHA_KEY));
    w[2] = vram__tensor_retain(s, vram__mha_param(s, m->n, VRAM__MHA_VALUE));
  } else
    vram__torch_split(s, vram__mha_param(s, m->n, VRAM__MHA_IN), 3, part, w);
  b[0] = b[1] = b[2] = vram__tensor_none();
  if (bias.d)
    vram__torch_split(s, bias, 3, part, b);
  for (i = 0; i < 3; i++)
    qkv[i] = vram__torch_linear(s, in[i], w[i], b[i]);
  for (i = 0; i < 3; i++) {
    vram__tensor_release(s, w[i]);
    vram__tensor_release(s, b[i]);
  }
}

/* [L,N,E] as heads: [N*h,L,E/h] */
static void vram__mha_split_heads(vram__step *s, const vram__mha *m, vram__tensor *qkv) {
  int64_t size[3];
  uint32_t i;
  for (i = 0; i < 3; i++) {
    const int64_t *whole = qkv[i].d->v;
    size[0] = whole[0];
    size[1] = whole[1] * m->heads;
    size[2] = whole[2] / m->heads;
    vram__tensor_replace(s, &qkv[i], vram__torch_reshape(s, qkv[i], 3, size));
    vram__tensor_replace(s, &qkv[i], vram__torch_swap(s, qkv[i], 0, 1));
  }
}

/* Key and value have got one more row: the mask gets one more column. */
static void vram__mha_add_key(vram__step *s, vram__mha *m, vram__tensor *mask) {
  static const int64_t row[2] = {0, 1};
  if (mask->d)
    vram__tensor_replace(s, mask, vram__torch_pad(s, *mask, row, 1, VRAM__PAD_CONSTANT));
  m->src_len++;
}

/* bias_k and bias_v are one more row of key and value. */
static void vram__mha_add_bias_kv(vram__step *s, vram__mha *m, vram__tensor *qkv,
                                  vram__tensor *mask) {
  uint32_t i;
  if (!m->n->param[VRAM__MHA_BIAS_K])
    return;
  for (i = 1; i < 3; i++) {
    const vram__tensor bias =
        vram__mha_param(s, m->n, i == 1 ? VRAM__MHA_BIAS_K : VRAM__MHA_BIAS_V);
    const vram__tensor rows = vram__op_call_n(s, VRAM_OP_repeat, &bias, 1, NULL,
                                              vram__dims_3d(s, 1, m->bsz, m->embed_dim));
    qkv[i] = vram__torch_cat2(s, qkv[i], rows, 0);
  }
  vram__mha_add_key(s, m, mask);
}

/* add_zero_attn: zeros are one more row of them. */
static void vram__mha_add_zero_attn(vram__step *s, vram__mha *m, vram__tensor *qkv,
                                    vram__tensor *mask) {
  uint32_t i;
  if (!VRAM__INT(m->n, add_zero_attn, 0))
    return;
  for (i = 1; i < 3; i++) {
    const vram__tensor rows = vram__tensor_empty(
        s, vram__dims_3d(s, m->bsz * m->heads, 1, m->embed_dim / m->heads), qkv[i].dt);
    qkv[i] = vram__torch_cat2(s, qkv[i], rows, 1);
  }
  vram__mha_add_key(s, m, mask);
}

/* need_weights: products and a softmax. Gives the result [L,N*h,E/h]; takes key and value; the
   variable q lives on. kept[0]: room for what else does. */
static vram__tensor vram__mha_attend_weights(vram__step *s, int64_t dropout_p,
                                             const vram__tensor *qkv, vram__tensor mask,
                                             vram__tensor *weights, vram__tensor *kept) {
  vram__tensor in[3], scores, y;
  in[0] = mask;
  in[1] = vram__op_call_unary(s, VRAM_OP_mul, qkv[0]);
  in[2] = vram__torch_swap(s, qkv[1], 1, 2);
  scores = mask.d ? vram__op_call_n(s, VRAM_OP_baddbmm, in, 3, NULL, NULL)
                  : vram__op_call_n(s, VRAM_OP_bmm, in + 1, 2, NULL, NULL);
  vram__tensor_release(s, in[2]);
  if (s->device.rules->does & VRAM__MHA_KEEPS)
    *kept = vram__tensor_retain(s, in[1]);
  vram__tensor_release(s, in[1]); /* del q_scaled, k */
  vram__tensor_release(s, qkv[1]);
  *weights = vram__torch_softmax(s, VRAM_OP_softmax, scores, vram__softmax_dtype(s, scores));
  vram__tensor_release(s, scores);
  if (dropout_p)
    vram__tensor_replace(s, weights,
                         vram__op_call_key(s, VRAM_OP_dropout, *weights, VRAM__KEY_p, dropout_p));
  y = vram__op_call_binary(s, VRAM_OP_bmm, *weights, qkv[2]);
  vram__tensor_release(s, qkv[2]);
  vram__tensor_replace(s, &y, vram__torch_swap(s, y, 0, 1));
  return y;
}

/* Without need_weights scaled_dot_product_attention runs. Gives the result [L,N,h,E/h]; takes
   query, key and value. */
static vram__tensor vram__mha_attend_sdpa(vram__step *s, const vram__mha *m, int64_t dropout_p,
                                          const vram__tensor *qkv, vram__tensor mask) {
  static const uint8_t order[] = {2, 0, 1, 3};
  vram__sdpa p;
  vram__tensor y, held[4];
  int64_t size[4];
  uint32_t i;
  vram__memory_zero(&p, sizeof p);
  p.dropout_p = dropout_p;
  p.causal = m->causal;
  size[0] = m->bsz;
  size[1] = m->heads;
  if (mask.d && mask.d->v[0] == 1)
    p.in[3] = vram__torch_unsqueeze(s, mask, 0);
  else if (mask.d) {
    size[2] = mask.d->v[1];
    size[3] = mask.d->v[2];
    p.in[3] = vram__torch_reshape(s, mask, 4, size);
  }
  for (i = 0; i < 3; i++) {
    size[2] = qkv[i].d->v[1];
    size[3] = qkv[i].d->v[2];
    p.in[i] = vram__torch_reshape(s, qkv[i], 4, size);
  }
  for (i = s->amp ? 4 : 0; i-- > 0;)
    if (p.in[i].d)
      vram__tensor_replace(s, &p.in[i], vram__autocast_cast(s, p.in[i], s->amp));
  for (i = 0; i < 4; i++) /* autocast holds what it cast */
    held[i] = vram__tensor_retain(s, p.in[i]);
  y = vram__torch_sdpa(s, &p);
  for (i = 0; i < 4; i++)
    vram__tensor_release(s, held[i]);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, qkv[i]);
  vram__tensor_replace(s, &y, vram__torch_permute(s, y, order));
  return y;
}

/* The module's forward: [len,N,width] of query, key and value; what is one tensor stays one. */
static void vram__mha_inputs(vram__step *s, const vram__mha *m, const vram__tensor *x,
                             vram__tensor *in) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    if (!m->batched)
      in[i] = vram__torch_unsqueeze(s, x[i], 1);
    else if ((i == 1 && m->is_self) || (i == 2 && m->one_kv))
      in[i] = vram__tensor_retain(s, in[i - 1]);
    else
      in[i] = m->batch_first ? vram__torch_swap(s, x[i], 0, 1) : vram__tensor_retain(s, x[i]);
}

/* F._canonical_mask: a mask of bools becomes one of numbers; NULL: there is none. */
static vram__tensor vram__mha_mask(vram__step *s, const vram__tensor *mask, vram_dtype dt) {
  if (!mask)
    return vram__tensor_none();
  if (mask->dt == VRAM_BOOL)
    return vram__tensor_empty(s, vram__dims_dense(s, mask->d), dt);
  return vram__tensor_retain(s, *mask);
}

/* The result of attention becomes rows and goes through out_proj. */
static void vram__mha_project_out(vram__step *s, const vram__mha *m, vram__tensor *y) {
  int64_t rows[2];
  rows[0] = m->tgt_len * m->bsz;
  rows[1] = m->embed_dim;
  vram__tensor_replace(s, y, vram__torch_reshape(s, *y, 2, rows));
  vram__tensor_replace(s, y,
                       vram__torch_linear(s, *y, vram__mha_param(s, m->n, VRAM__MHA_OUT),
                                          vram__mha_param(s, m->n, VRAM__MHA_OUT_BIAS)));
  vram__tensor_replace(s, y,
                       vram__torch_view_as(s, *y,
                                           vram__dims_3d(s, m->tgt_len, m->bsz, m->embed_dim),
                                           VRAM__K_view, 0));
}

/* attn_output_weights.mean(dim=1): over the heads */
static void vram__mha_average_weights(vram__step *s, const vram__mha *m, vram__tensor *weights) {
  vram__tensor_replace(
      s, weights,
      vram__torch_view_as(s, *weights, vram__dims_4d(s, m->bsz, m->heads, m->tgt_len, m->src_len),
                          VRAM__K_view, 0));
  vram__tensor_replace(s, weights, vram__op_call_key(s, VRAM_OP_mean, *weights, VRAM__KEY_dim, 1));
}

/* The function itself, on [len,N,width]. */
static void vram__mha_run(vram__step *s, vram__mha *m, const vram__tensor *in, vram__tensor mask,
                          vram__tensor *y) {
  const int64_t dropout_p = s->train ? m->dropout_p : 0;
  const int packed = m->batched && !m->n->param[VRAM__MHA_KEY];
  const vram__tensor given = vram__tensor_retain(s, mask); /* the module's forward holds it */
  vram__tensor qkv[3], kept[4];
  uint32_t i;
  if (packed && m->is_self)
    vram__mha_project_self(s, m, in, qkv);
  else if (packed && m->one_kv)
    vram__mha_project_encoder(s, m, in, qkv);
  else
    vram__mha_project_each(s, m, in, qkv);
  if (m->causal && !m->need_weights) /* no mask is needed */
    vram__tensor_replace(s, &mask, vram__tensor_none());
  if (mask.d && mask.d->ndim == 2)
    vram__tensor_replace(s, &mask, vram__torch_unsqueeze(s, mask, 0));
  vram__mha_add_bias_kv(s, m, qkv, &mask);
  vram__mha_split_heads(s, m, qkv);
  vram__mha_add_zero_attn(s, m, qkv, &mask);
  for (i = 0; i < 4; i++)
    kept[i] = i < 3 && (s->device.rules->does & VRAM__MHA_KEEPS) ? vram__tensor_retain(s, qkv[i])
                                                                 : vram__tensor_none();
  if (m->need_weights)
    y[0] = vram__mha_attend_weights(s, dropout_p, qkv, mask, &y[1], &kept[3]);
  else
    y[0] = vram__mha_attend_sdpa(s, m, dropout_p, qkv, mask);
  vram__mha_project_out(s, m, &y[0]);
  if (m->need_weights)
    vram__mha_average_weights(s, m, &y[1]);
  for (i = 0; i < 4; i++)
    vram__tensor_release(s, kept[i]);
  vram__tensor_release(s, given);
  vram__tensor_release(s, mask);
  if (m->need_weights)
    vram__tensor_release(s, qkv[0]);
}

/* What is left of the module's forward where the native kernel does not run. Takes the mask. */
static void vram__mha_attend(vram__step *s, vram__mha *m, const vram__tensor *x, vram__tensor mask,
                             vram__tensor *y) {
  vram__tensor in[3];
  uint32_t i;
  vram__mha_inputs(s, m, x, in);
  vram__mha_run(s, m, in, mask, y);
  for (i = 0; i < 3; i++)
    vram__tensor_release(s, in[i]);
  if (!m->batched)
    vram__tensor_replace(s, &y[0], vram__torch_squeeze1(s, y[0], 1));
  if (!m->batched && m->need_weights)
    vram__tensor_replace(s, &y[1], vram__torch_squeeze1(s, y[1], 0));
  if (m->batch_first)
    vram__tensor_replace(s, &y[0], vram__torch_swap(s, y[0], 0, 1));
}

/* torch.nn.MultiheadAttention.forward */
static void vram__forward_mha(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  vram__mha m = vram__mha_of(n, x[0].d, x[1].d);
  vram__tensor mask = vram__mha_mask(s, n->nin > 3 ? &x[3] : NULL, x[0].dt);
  m.one_kv = s->name_of[n->in[1]->index] == s->name_of[n->in[2]->index];
  m.is_self = m.one_kv && s->name_of[n->in[0]->index] == s->name_of[n->in[1]->index];
  y[1] = vram__tensor_none();
  if (vram__mha_is_native(s, &m, x) && !(n->nin > 3 && vram__dtype_is_float(x[3].dt))) {
    vram__mha_native(s, &m, x[0], mask, y);
    vram__tensor_release(s, mask);
  } else
    vram__mha_attend(s, &m, x, mask, y);
  if (n->nout < 2)
    vram__tensor_replace(s, &y[1], vram__tensor_none());
}

/* ---- torch.nn.TransformerEncoderLayer ---- */

/* norm1 or norm2 of x, which is taken */
static vram__tensor vram__encoder_norm(vram__step *s, const vram_node *layer, uint32_t slot,
                                       vram__tensor x) {
  int64_t attr[3];
  vram_node n;
  vram__tensor y;
  attr[0] = VRAM__KEY_normalized_shape | 1 << 8;
  attr[1] = x.d->v[x.d->ndim - 1u];
  attr[2] = 0;
  vram__memory_zero(&n, sizeof n);
  n.op = VRAM_OP_layer_norm;
  n.nin = 1;
  n.nout = 1;
  n.nparam = 2;
  n.param = layer->param + slot;
  n.attr = attr;
  vram__forward_op(s, &n, &x, &y);
  vram__tensor_release(s, x);
  return y;
}

static vram__tensor vram__encoder_linear(vram__step *s, const vram_node *n, uint32_t slot,
                                         vram__tensor x) {
  return vram__torch_linear(s, x, vram__mha_param(s, n, slot), vram__mha_param(s, n, slot + 1));
}

/* _transformer_encoder_layer_fwd (native/transformers/transformer.cpp): sums are in place, the
   activation is a part of the product */
static vram__tensor vram__encoder_native(vram__step *s, const vram__mha *m, vram__tensor src,
                                         vram__tensor mask) {
  const vram_node *n = m->n;
  const int norm_first = VRAM__INT(n, norm_first, 0) != 0;
  vram__tensor x = vram__tensor_retain(s, src), y[2], before;
  if (norm_first)
    x = vram__encoder_norm(s, n, VRAM__ENCODER_NORM1, x);
  y[1] = vram__tensor_none();
  vram__mha_native(s, m, x, mask, y);
  vram__tensor_release(s, x);
  x = y[0];
  vram__torch_add_(s, &x, src);
  if (!norm_first)
    x = vram__encoder_norm(s, n, VRAM__ENCODER_NORM1, x);
  before = vram__tensor_retain(s, x);
  if (norm_first)
    x = vram__encoder_norm(s, n, VRAM__ENCODER_NORM2, x);
  y[0] = vram__encoder_linear(s, n, VRAM__ENCODER_LINEAR1, x);
  y[1] = vram__encoder_linear(s, n, VRAM__ENCODER_LINEAR2, y[0]);
  vram__tensor_release(s, y[0]);
  vram__tensor_release(s, x);
  x = y[1];
  vram__torch_add_(s, &x, before);
  if (!norm_first)
    x = vram__encoder_norm(s, n, VRAM__ENCODER_NORM2, x);
  vram__tensor_release(s, before);
  return x;
}

/* dropout(x) as the modules dropout, dropout1 and dropout2; takes x */
static vram__tensor vram__encoder_dropout(vram__step *s, const vram__mha *m, vram__tensor x) {
  vram__tensor y = vram__op_call_key(s, VRAM_OP_dropout, x, VRAM__KEY_p, m->dropout_p);
  vram__tensor_release(s, x);
  return y;
}

/* _sa_block; takes x */
static vram__tensor vram__encoder_attend(vram__step *s, vram__mha *m, vram__tensor x,
                                         vram__tensor mask) {
  vram__tensor in[3], y[2];
  in[0] = in[1] = in[2] = x;
  vram__mha_attend(s, m, in, vram__tensor_retain(s, mask), y);
  vram__tensor_release(s, x);
  return vram__encoder_dropout(s, m, y[0]);
}

/* _ff_block; takes x */
static vram__tensor vram__encoder_feed(vram__step *s, const vram__mha *m, vram__tensor x) {
  const int64_t act = VRAM__INT(m->n, activation, VRAM__WORD(relu));
  vram__tensor y = vram__encoder_linear(s, m->n, VRAM__ENCODER_LINEAR1, x);
  vram__tensor_replace(
      s, &y, vram__op_call_unary(s, act == VRAM__WORD(gelu) ? VRAM_OP_gelu : VRAM_OP_relu, y));
  y = vram__encoder_dropout(s, m, y);
  vram__tensor_replace(s, &y, vram__encoder_linear(s, m->n, VRAM__ENCODER_LINEAR2, y));
  vram__tensor_release(s, x);
  return vram__encoder_dropout(s, m, y);
}

/* x + block(norm(x)), or norm(x + block(x)); the first block is attention. Takes x. */
static vram__tensor vram__encoder_block(vram__step *s, vram__mha *m, vram__tensor x,
                                        vram__tensor mask, uint32_t norm) {
  const int norm_first = VRAM__INT(m->n, norm_first, 0) != 0;
  vram__tensor in = vram__tensor_retain(s, x), y, sum;
  if (norm_first)
    in = vram__encoder_norm(s, m->n, norm, in);
  y = norm == VRAM__ENCODER_NORM1 ? vram__encoder_attend(s, m, in, mask)
                                  : vram__encoder_feed(s, m, in);
  sum = vram__op_call_binary(s, VRAM_OP_add, x, y);
  vram__tensor_release(s, y);
  if (!norm_first)
    sum = vram__encoder_norm(s, m->n, norm, sum);
  vram__tensor_release(s, x);
  return sum;
}

static void vram__forward_encoder(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__mha m = vram__encoder_attention(n, x[0].d);
  vram__tensor mask = vram__mha_mask(s, n->nin > 1 ? &x[1] : NULL, x[0].dt);
  if (vram__mha_is_native(s, &m, x))
    y[0] = vram__encoder_native(s, &m, x[0], mask);
  else {
    y[0] = vram__encoder_block(s, &m, vram__tensor_retain(s, x[0]), mask, VRAM__ENCODER_NORM1);
    y[0] = vram__encoder_block(s, &m, y[0], mask, VRAM__ENCODER_NORM2);
  }
  vram__tensor_release(s, mask);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(
    multi_head_attention, "", 3, 4, mha, SAME, none, mha, none, mha, MHA, 0, 0,
    "num_heads! bias dropout need_weights batch_first is_causal add_bias_kv add_zero_attn kdim "
    "vdim frozen weights dtype");

/* bias: of all its parts; dropout: 0.1 unless given */
VRAM__OP(
    transformer_encoder_layer, "", 1, 2, encoder, SAME, none, encoder, none, encoder, NONE, 0, 0,
    "num_heads! dim_feedforward activation norm_first bias dropout batch_first is_causal frozen "
    "weights dtype");
