/* >>llama/graph_rwkv    rwkv6, rwkv7, and qwen2's layers with their mixing of tokens
   (llama.cpp: src/models/rwkv6-base.cpp, rwkv7-base.cpp, rwkv6.cpp, rwkv7.cpp, rwkv6qwen2.cpp,
   arwkv7.cpp; llama-graph.cpp, build_rwkv_token_shift_load) */
#include "llama/graph.h"

/* All tokens in a row, and apart by sequence. */
static int32_t vram__build_in_a_row(vram__build *b, int32_t x) {
  return vram__build_view(b, x, vram__build_at(b, x)->ne[0], b->tokens, 1);
}

static int32_t vram__build_by_sequence(vram__build *b, int32_t x) {
  return vram__build_view(b, x, vram__build_at(b, x)->ne[0], vram__build_each(b), b->m->n_seq);
}

static int32_t vram__build_weighted(vram__build *b, int32_t x, const char *name) {
  return vram__build_with(b, vram__build_map(b, x, -1), vram__build_weight(b, name));
}

/* The state behind which each sequence's tokens are shifted by one. */
static int32_t vram__build_before_each(vram__build *b, int32_t state, int32_t x) {
  const uint64_t width = b->m->n_embd, each = vram__build_each(b);
  const int32_t i = vram__build_node(b, width, each, b->m->n_seq, state);
  const int32_t others = vram__build_view(b, x, width, each - 1, b->m->n_seq);
  vram__build_at(b, others)->bytes =
      each > 1 ? vram__product_or_overflow(width * 4, b->tokens - 1) : 0;
  vram__build_source(b, i, others);
  return i;
}

/* A matrix, one function of each element, another matrix: of low rank. */
static int32_t vram__build_low(vram__build *b, int32_t x, const char *first, const char *second,
                               int has_function) {
  x = vram__build_linear(b, x, first, NULL);
  if (has_function)
    x = vram__build_map(b, x, -1);
  return vram__build_linear(b, x, second, NULL);
}

/* Heads of a result: each normed, times a weight, and a bias. */
static int32_t vram__build_norm_heads(vram__build *b, int32_t x) {
  const uint64_t head = b->m->wkv_head_size;
  if (vram__build_weight(b, "time_mix_ln.weight") && vram__build_weight(b, "time_mix_ln.bias")) {
    x = vram__build_view(b, x, head, b->m->n_embd / head, b->tokens);
    x = vram__build_map(b, x, -1);
    vram__build_at(b, x)->flags = 0; /* LayerNorm */
    x = vram__build_weighted(b, vram__build_view(b, x, b->m->n_embd, b->tokens, 1),
                             "time_mix_ln.weight");
    return vram__build_bias(b, x, "time_mix_ln.bias");
  }
  return vram__build_view(b, x, b->m->n_embd, b->tokens, 1);
}

/* What the op made, behind it the states, which are stored. `first`: rwkv6's weight among the
   sources, before the last two of them. */
static int32_t vram__build_wkv(vram__build *b, const int32_t *source, int n,
                               const vram_file_tensor *first) {
  const uint64_t width = b->m->n_embd, head = b->m->wkv_head_size, seq = b->m->n_seq;
  int32_t i = vram__build_node(b, width, b->tokens + head * seq, 1, -1);
  for (int k = 0; k < n; k++) {
    if (first && k + 2 == n)
      vram__build_with(b, i, first);
    vram__build_source(b, i, source[k]);
  }
  vram__build_foreign(b, vram__build_piece(b, i, width * head * seq, 1, 1), -1);
  return vram__build_piece(b, i, width * b->tokens, 1, 1);
}

static int32_t vram__build_heads_apart(vram__build *b, int32_t a) {
  const uint64_t head = b->m->wkv_head_size;
  return vram__build_view(b, a, head, b->m->n_embd / head, b->tokens);
}

/* ---- rwkv7 ---- */

/* What a layer has of V is mixed with what the first layer had. */
static int32_t vram__build_first_value(vram__build *b, int32_t v, int32_t x) {
  int32_t i;
  if (b->first_value < 0) {
    b->first_value = v;
    return v;
  }
  i = vram__build_low(b, x, "time_mix_v1.weight", "time_mix_v2.weight", 0);
  i = vram__build_map(b, vram__build_weighted(b, i, "time_mix_v0.weight"), -1);
  i = vram__build_map(b, vram__build_map(b, b->first_value, v), i);
  return vram__build_map(b, v, i);
}

static int32_t vram__build_mix7(vram__build *b, int32_t x, int32_t before) {
  const uint64_t width = b->m->n_embd;
  const int is_gated =
      vram__build_weight(b, "time_mix_g1.weight") && vram__build_weight(b, "time_mix_g2.weight");
  int32_t all, part[6], r, w, k, v, a, g = -1, kk, i, op[7];
  all = vram__build_node(b, width, b->tokens, is_gated ? 6 : 5, vram__build_map(b, before, x));
  all = vram__build_map(b, vram__build_weighted(b, all, "time_mix_lerp_fused.weight"), x);
  for (i = 0; i < 6; i++)
    part[i] = vram__build_piece(b, all, width, b->tokens, 1);
  r = vram__build_linear(b, part[0], "time_mix_receptance.weight", NULL);
  w = vram__build_low(b, part[1], "time_mix_w1.weight", "time_mix_w2.weight", 1);
  w = vram__build_weighted(b, w, "time_mix_w0.weight");
  for (i = 0; i < 3; i++)
    w = vram__build_map(b, w, -1);
  k = vram__build_linear(b, part[2], "time_mix_key.weight", NULL);
  v = vram__build_linear(b, part[3], "time_mix_value.weight", NULL);
  v = vram__build_first_value(b, v, part[3]);
  if (is_gated)
    g = vram__build_low(b, part[5], "time_mix_g1.weight", "time_mix_g2.weight", 1);
  a = vram__build_low(b, part[4], "time_mix_a1.weight", "time_mix_a2.weight", 0);
  a = vram__build_map(b, vram__build_weighted(b, a, "time_mix_a0.weight"), -1);
  kk = vram__build_heads_apart(b, vram__build_weighted(b, k, "time_mix_k_k.weight"));
  kk = vram__build_node(b, b->m->wkv_head_size, width / b->m->wkv_head_size, b->tokens, kk);
  i = vram__build_weighted(b, k, "time_mix_k_a.weight");
  k = vram__build_map(b, k, vram__build_map(b, vram__build_map(b, a, i), i));
  op[0] = r = vram__build_heads_apart(b, r);
  op[1] = vram__build_heads_apart(b, w);
  op[2] = k = vram__build_heads_apart(b, k);
  op[3] = v = vram__build_heads_apart(b, v);
  op[4] = vram__build_map(b, kk, -1);
  op[5] = vram__build_map(b, kk, vram__build_heads_apart(b, a));
  op[6] = vram__build_state(b, b->m->n_embd_s);
  x = vram__build_norm_heads(b, vram__build_wkv(b, op, 7, NULL));
  i = vram__build_map(b, vram__build_map(b, k, r),
                      vram__build_reshaped(b, vram__build_weight(b, "time_mix_r_k.weight")));
  i = vram__build_node(b, 1, width / b->m->wkv_head_size, b->tokens, i);
  i = vram__build_view(b, vram__build_map(b, v, i), width, b->tokens, 1);
  x = vram__build_map(b, x, i);
  if (is_gated)
    x = vram__build_map(b, x, g);
  return vram__build_linear(b, x, "time_mix_output.weight", NULL);
}

static int32_t vram__build_channels7(vram__build *b, int32_t x, int32_t before) {
  int32_t i = vram__build_map(b, before, x);
  i = vram__build_map(b, vram__build_weighted(b, i, "channel_mix_lerp_k.weight"), x);
  i = vram__build_linear(b, i, "channel_mix_key.weight", NULL);
  i = vram__build_map(b, vram__build_map(b, i, -1), -1);
  return vram__build_linear(b, i, "channel_mix_value.weight", NULL);
}

/* ---- rwkv6 ---- */

/* The five mixtures of a token and the one before it: w, k, v, r, g. */
static void vram__build_mixtures(vram__build *b, int32_t x, int32_t shift, int32_t part[5]) {
  static const char *const lerp[] = {"time_mix_lerp_w.weight", "time_mix_lerp_k.weight",
                                     "time_mix_lerp_v.weight", "time_mix_lerp_r.weight",
                                     "time_mix_lerp_g.weight"};
  const int is_fused = vram__build_weight(b, "time_mix_lerp_fused.weight") != NULL;
  const uint64_t width = b->m->n_embd;
  uint64_t rank;
  int32_t i, all;
  all = vram__build_map(b, vram__build_weighted(b, shift, "time_mix_lerp_x.weight"), x);
  all = vram__build_map(b, vram__build_linear(b, all, "time_mix_w1.weight", NULL), -1);
  rank = vram__build_at(b, all)->ne[0] / 5;
  all = vram__build_view(b, all, rank, b->tokens, 5);
  all = vram__build_node(b, rank, b->tokens, 5, all);
  i = vram__build_node(b, width, b->tokens, 5,
                       vram__build_reshaped(b, vram__build_weight(b, "time_mix_w2.weight")));
  vram__build_source(b, i, all);
  if (is_fused) {
    i = vram__build_weighted(b, i, "time_mix_lerp_fused.weight");
    i = vram__build_map(b, vram__build_map(b, i, vram__build_in_a_row(b, shift)),
                        vram__build_in_a_row(b, x));
  }
  for (int k = 0; k < 5; k++) {
    part[k] = vram__build_piece(b, i, width, b->tokens, 1);
    if (!is_fused)
      part[k] = vram__build_map(
          b, vram__build_map(b, vram__build_weighted(b, part[k], lerp[k]), shift), x);
  }
}

/* K or V of fewer heads, for all of them. */
static int32_t vram__build_all_heads(vram__build *b, int32_t a) {
  const uint64_t head = b->m->wkv_head_size, all = b->m->n_embd / head;
  const uint64_t few = b->m->layer[b->il].n_head_kv;
  if (few && few != all)
    a = vram__build_node(b, head, all / few, few * b->tokens,
                         vram__build_view(b, a, head, 1, few * b->tokens));
  return vram__build_heads_apart(b, a);
}

static int32_t vram__build_mix6(vram__build *b, int32_t x, int32_t before) {
  const vram_file_tensor *first = vram__build_weight(b, "time_mix_first.weight");
  int32_t part[5], op[6], r, k, v, g, w, i;
  int n = 0;
  i = vram__build_in_a_row(b, vram__build_map(b, before, x));
  vram__build_mixtures(b, vram__build_in_a_row(b, x), i, part);
  r = vram__build_linear(b, part[3], "time_mix_receptance.weight", "time_mix_receptance.bias");
  k = vram__build_linear(b, part[1], "time_mix_key.weight", "time_mix_key.bias");
  v = vram__build_linear(b, part[2], "time_mix_value.weight", "time_mix_value.bias");
  g = vram__build_map(b, vram__build_linear(b, part[4], "time_mix_gate.weight", NULL), -1);
  k = vram__build_all_heads(b, k);
  v = vram__build_all_heads(b, v);
  r = vram__build_heads_apart(b, r);
  w = vram__build_low(b, part[0], "time_mix_decay_w1.weight", "time_mix_decay_w2.weight", 1);
  w = vram__build_weighted(b, w, "time_mix_decay.weight");
  for (i = 0; i < 3; i++)
    w = vram__build_map(b, w, -1);
  w = vram__build_heads_apart(b, w);
  if (!first)
    k = vram__build_map(b, k, vram__build_map(b, k, w));
  op[n++] = k;
  op[n++] = v;
  op[n++] = r;
  op[n++] = w;
  op[n++] = vram__build_state(b, b->m->n_embd_s);
  x = vram__build_wkv(b, op, n, first);
  x = first ? vram__build_norm_heads(b, x) : vram__build_view(b, x, b->m->n_embd, b->tokens, 1);
  x = vram__build_map(b, x, g);
  return vram__build_linear(b, x, "time_mix_output.weight", NULL);
}

static int32_t vram__build_channels6(vram__build *b, int32_t x, int32_t before) {
  const int32_t shift = vram__build_map(b, before, x);
  int32_t k, r;
  k = vram__build_map(b, vram__build_weighted(b, shift, "channel_mix_lerp_k.weight"), x);
  r = vram__build_map(b, vram__build_weighted(b, shift, "channel_mix_lerp_r.weight"), x);
  r = vram__build_map(b, vram__build_linear(b, r, "channel_mix_receptance.weight", NULL), -1);
  k = vram__build_linear(b, k, "channel_mix_key.weight", NULL);
  k = vram__build_map(b, vram__build_map(b, k, -1), -1);
  return vram__build_map(b, r, vram__build_linear(b, k, "channel_mix_value.weight", NULL));
}

/* ---- layers ---- */

static int vram__build_is_7(vram__build *b) {
  return vram__build_weight(b, "time_mix_w0.weight") != NULL;
}

static int32_t vram__build_mix_tokens(vram__build *b, int32_t x, int32_t before) {
  x = vram__build_is_7(b) ? vram__build_mix7(b, x, before) : vram__build_mix6(b, x, before);
  return vram__build_by_sequence(b, x);
}

/* The last token of each sequence. */
static int32_t vram__build_last_token(vram__build *b, int32_t x) {
  return vram__build_view(b, x, b->m->n_embd, 1, b->m->n_seq);
}

VRAM__FN int32_t vram__build_rwkv(vram__build *b, int32_t x, int is_last) {
  const uint64_t width = b->m->n_embd, seq = b->m->n_seq;
  const double every = vram__llama_real(b->m, "rescale_every_n_layers");
  int32_t shift, of_forward, norm, before, i;
  x = vram__build_by_sequence(b, x);
  shift = vram__build_view(b, vram__build_state(b, b->m->n_embd_r), width, 2, seq);
  of_forward = vram__build_view(b, shift, width, 1, seq);
  norm = vram__build_norm(b, x, "attn_norm.weight", "attn_norm.bias");
  before = vram__build_before_each(b, vram__build_view(b, shift, width, 1, seq), norm);
  x = vram__build_map(b, vram__build_mix_tokens(b, norm, before), x);
  i = vram__build_norm(b, x, "attn_norm_2.weight", "attn_norm_2.bias");
  before = vram__build_before_each(b, of_forward, i);
  shift = vram__build_node(b, width, 2, seq, vram__build_last_token(b, norm));
  vram__build_source(b, shift, vram__build_last_token(b, i));
  vram__build_foreign(b, vram__build_view(b, shift, width * 2 * seq, 1, 1), -1);
  x = vram__build_in_a_row(b, x);
  i = vram__build_in_a_row(b, i);
  before = vram__build_in_a_row(b, before);
  vram__build_last_rows(b, is_last, &x, &i, &before);
  if (vram__build_is_7(b))
    return vram__build_map(b, vram__build_channels7(b, i, before), x);
  i = vram__build_map(b, vram__build_channels6(b, i, before), x);
  return every >= 1 && every <= (double)VRAM__LLAMA_LAYERS && (b->il + 1) % (uint32_t)every == 0
             ? vram__build_map(b, i, -1)
             : i;
}

/* qwen2's feed-forward behind the mixing of tokens: rwkv6qwen2, arwkv7. */
VRAM__FN int32_t vram__build_rwkv_qwen(vram__build *b, int32_t x, int is_last) {
  int32_t shift, norm, i;
  x = vram__build_by_sequence(b, x);
  shift = vram__build_view(b, vram__build_state(b, b->m->n_embd_r), b->m->n_embd, 1, b->m->n_seq);
  norm = vram__build_norm(b, x, "attn_norm.weight", "attn_norm.bias");
  i = vram__build_mix_tokens(b, norm, vram__build_before_each(b, shift, norm));
  vram__build_foreign(b, vram__build_last_token(b, norm), -1);
  x = vram__build_in_a_row(b, vram__build_map(b, i, x));
  vram__build_last_rows(b, is_last, &x, NULL, NULL);
  i = vram__build_dense(b, vram__build_norm(b, x, "ffn_norm.weight", NULL));
  return vram__build_map(b, i, x);
}
