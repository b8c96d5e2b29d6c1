/* >>llama/graph_delta    gated delta nets: qwen3next, qwen35, kimi-linear
   (llama.cpp: src/models/delta-net-base.cpp, qwen3next.cpp, qwen35.cpp, kimi-linear.cpp) */
#include "llama/graph.h"

/* What a net is computed from: heads apart, tokens behind each other. */
typedef struct vram__build_net {
  int32_t q, k, v, gate, beta, state;
  uint64_t width, heads; /* of V; Q and K of qwen35 may have fewer */
} vram__build_net;

/* One op (llama_cparams.fused_gdn_ch is always set): the results, behind them the states, which are
   stored. */
static int32_t vram__build_net_op(vram__build *b, const vram__build_net *n) {
  const uint64_t inner = n->width * n->heads;
  const int32_t i = vram__build_node(b, inner, b->tokens + n->width * b->m->n_seq, 1, n->q);
  vram__build_source(b, i, n->k);
  vram__build_source(b, i, n->v);
  vram__build_source(b, i, n->gate);
  vram__build_source(b, i, n->beta);
  vram__build_source(b, i, n->state);
  vram__build_foreign(b, vram__build_piece(b, i, n->width, n->width, n->heads * b->m->n_seq), -1);
  return vram__build_piece(b, i, n->width, n->heads, b->tokens);
}

static int32_t vram__build_net_state(vram__build *b, uint64_t width, uint64_t heads) {
  return vram__build_view(b, vram__build_state(b, b->m->n_embd_s), width, width,
                          heads * b->m->n_seq);
}

/* build_gdn_l2_norm */
static int32_t vram__build_unit(vram__build *b, int32_t a) {
  return vram__build_map(b, vram__build_map(b, a, -1), -1);
}

static int32_t vram__build_net_heads(vram__build *b, int32_t a, uint64_t heads) {
  return vram__build_view(b, a, b->m->ssm_d_state, heads, b->tokens);
}

/* qwen3next has gate and beta in one product, of which the parts are copied; qwen35 has two. */
static void vram__build_gates(vram__build *b, int32_t x, vram__build_net *n) {
  const uint64_t heads = n->heads;
  int32_t alpha, beta;
  if (vram__build_weight(b, "ssm_ba.weight")) {
    x = vram__build_linear(b, x, "ssm_ba.weight", NULL);
    beta = vram__build_node(b, heads, b->tokens, 1, vram__build_view(b, x, heads, b->tokens, 1));
    alpha = vram__build_node(b, heads, b->tokens, 1, vram__build_view(b, x, heads, b->tokens, 1));
  } else {
    beta = vram__build_linear(b, x, "ssm_beta.weight", NULL);
    beta = vram__build_view(b, beta, 1, heads, b->tokens);
    alpha = vram__build_linear(b, x, "ssm_alpha.weight", NULL);
    alpha = vram__build_view(b, alpha, heads, vram__build_each(b), b->m->n_seq);
  }
  n->beta = vram__build_view(b, vram__build_map(b, beta, -1), 1, heads, b->tokens);
  alpha = vram__build_bias(b, alpha, "ssm_dt.bias");
  alpha = vram__build_with(b, vram__build_map(b, vram__build_map(b, alpha, -1), -1),
                           vram__build_weight(b, "ssm_a"));
  n->gate = vram__build_view(b, alpha, 1, heads, b->tokens);
}

/* Q or K with as many heads as V; qwen35 leaves that to the op. */
static int32_t vram__build_repeat(vram__build *b, int32_t a, uint64_t heads) {
  const uint64_t width = b->m->ssm_d_state, group = b->m->ssm_n_group;
  if (!group || group == heads || !vram__build_weight(b, "ssm_ba.weight"))
    return a;
  a = vram__build_view(b, a, width, 1, group * b->tokens);
  a = vram__build_node(b, width, heads / group, group * b->tokens, a);
  return vram__build_net_heads(b, a, heads);
}

VRAM__FN int32_t vram__build_delta(vram__build *b, int32_t x) {
  const uint64_t heads = b->m->ssm_dt_rank, group = b->m->ssm_n_group;
  vram__build_net n;
  int32_t all, z, i;
  n.width = b->m->ssm_d_state;
  n.heads = heads;
  if (!vram__build_weight(b, "attn_qkv.weight") || !group || heads % group)
    b->g->is_given_up = 1; /* the older form of qwen3next */
  vram__build_expand(b, x);
  all = vram__build_linear(b, x, "attn_qkv.weight", NULL);
  all = vram__build_view(b, all, vram__build_at(b, all)->ne[0], vram__build_each(b), b->m->n_seq);
  z = vram__build_linear(b, x, "attn_gate.weight", NULL);
  vram__build_gates(b, x, &n);
  all = vram__build_convolve(b, all);
  n.state = vram__build_net_state(b, n.width, heads);
  n.q = vram__build_unit(b, vram__build_net_heads(b, all, group));
  n.k = vram__build_unit(b, vram__build_net_heads(b, all, group));
  n.v = vram__build_net_heads(b, all, heads);
  n.q = vram__build_repeat(b, n.q, heads);
  n.k = vram__build_repeat(b, n.k, heads);
  i = vram__build_norm(b, vram__build_net_op(b, &n), "ssm_norm.weight", NULL);
  z = vram__build_map(b, vram__build_net_heads(b, z, heads), -1);
  i = vram__build_map(b, i, z);
  i = vram__build_view(b, i, n.width * heads, vram__build_each(b), b->m->n_seq);
  i = vram__build_linear(b, i, "ssm_out.weight", NULL);
  return vram__build_view(b, i, vram__build_at(b, i)->ne[0], b->tokens, 1);
}

/* ---- kimi-linear: Q, K and V have a convolution each, the gate is of two matrices ---- */

static int32_t vram__build_kimi_part(vram__build *b, int32_t x, int32_t states, const char *weight,
                                     const char *kernel) {
  const uint64_t columns = b->m->ssm_d_conv - 1u, each = vram__build_each(b);
  int32_t i = vram__build_linear(b, x, weight, NULL), c;
  const uint64_t inner = vram__build_at(b, i)->ne[0];
  i = vram__build_view(b, i, each, inner, b->m->n_seq);
  c = vram__build_view(b, states, columns, inner, b->m->n_seq);
  vram__build_at(b, c)->bytes = /* a third of each row */
      vram__product_or_overflow(4 * (uint64_t)b->m->n_embd_r, b->m->n_seq - 1u) +
      columns * inner * 4;
  c = vram__build_node(b, columns + each, inner, b->m->n_seq, c);
  vram__build_source(b, c, i);
  vram__build_foreign(b, vram__build_view(b, c, columns, inner, b->m->n_seq), -1);
  i = vram__build_node(b, inner, each, b->m->n_seq, c);
  vram__build_source(b, i, vram__build_reshaped(b, vram__build_weight(b, kernel)));
  if (inner % 128)
    vram__build_at(b, i)->flags |= VRAM__NODE_ON_HOST; /* ggml-cuda has no such convolution */
  i = vram__build_map(b, vram__build_view(b, i, inner, b->tokens, 1), -1);
  return vram__build_view(b, i, b->m->kda_head_size, inner / b->m->kda_head_size, b->tokens);
}

VRAM__FN int32_t vram__build_kimi(vram__build *b, int32_t x) {
  vram__build_net n;
  int32_t i, gate;
  n.width = b->m->kda_head_size;
  n.heads = b->m->layer[b->il].n_head;
  vram__build_expand(b, x);
  i = vram__build_state(b, b->m->n_embd_r);
  n.q = vram__build_kimi_part(b, x, i, "attn_q.weight", "ssm_conv1d_q.weight");
  n.k = vram__build_kimi_part(b, x, i, "attn_k.weight", "ssm_conv1d_k.weight");
  n.v = vram__build_kimi_part(b, x, i, "attn_v.weight", "ssm_conv1d_v.weight");
  i = vram__build_linear(b, x, "ssm_f_a.weight", NULL);
  i = vram__build_linear(b, i, "ssm_f_b.weight", "ssm_dt.bias");
  i = vram__build_view(b, vram__build_map(b, i, -1), n.width, n.heads, b->tokens);
  n.gate = vram__build_map(b, i, vram__build_reshaped(b, vram__build_weight(b, "ssm_a")));
  n.gate = vram__build_view(b, n.gate, n.width, n.heads, b->tokens);
  i = vram__build_linear(b, x, "ssm_beta.weight", NULL);
  n.beta = vram__build_map(b, vram__build_view(b, i, 1, n.heads, b->tokens), -1);
  n.state = vram__build_net_state(b, n.width, n.heads);
  n.q = vram__build_unit(b, n.q);
  n.k = vram__build_unit(b, n.k);
  i = vram__build_net_op(b, &n);
  i = vram__build_node(b, n.width, n.heads, b->tokens, i);
  x = vram__build_view(b, x, vram__build_at(b, x)->ne[0], b->tokens, 1);
  gate = vram__build_linear(b, x, "ssm_g_a.weight", NULL);
  gate = vram__build_linear(b, gate, "ssm_g_b.weight", NULL);
  gate = vram__build_view(b, gate, n.width, n.heads, b->tokens);
  i = vram__build_view(b, i, n.width, n.heads, b->tokens);
  i = vram__build_norm(b, i, "ssm_norm.weight", NULL);
  i = vram__build_map(b, i, vram__build_map(b, gate, -1));
  i = vram__build_node(b, n.width * n.heads, b->tokens, 1, i);
  return vram__build_linear(b, i, "attn_output.weight", NULL);
}
