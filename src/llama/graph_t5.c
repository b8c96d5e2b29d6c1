/* >>llama/graph_t5    t5: a decoder's layers, whose second attention is over what the encoder made,
   and an encoder's (llama.cpp: src/models/t5.cpp) */
#include "llama/graph.h"

/* A bias of the scores by the distance of two tokens, [cells, tokens, heads]: rows of a table of
   the layer's, or of the first. They are taken where the table lies. */
static int32_t vram__build_distances(vram__build *b, uint64_t cells) {
  const uint32_t il = b->il;
  const uint64_t heads = b->m->layer[il].n_head, all = vram__product_or_overflow(cells, b->tokens);
  const vram_file_tensor *t = vram__build_weight(b, "attn_rel_b.weight");
  int32_t i;
  if (!t) {
    b->il = 0;
    t = vram__build_weight(b, "attn_rel_b.weight");
    b->il = il;
  }
  if (!t) {
    b->g->is_given_up = 1;
    return b->buckets;
  }
  if (b->buckets < 0)
    b->buckets = vram__build_input(b, vram__product_or_overflow(all, 4));
  i = vram__build_node(b, heads, all, 1, -1);
  vram__build_taken(b, i, t);
  vram__build_source(b, i, vram__build_view(b, b->buckets, all, 1, 1));
  return vram__build_node(b, cells, b->tokens, heads,
                          vram__build_view(b, i, cells, b->tokens, heads));
}

/* Over what the encoder made of as many tokens as there were in training. */
static int32_t vram__build_cross(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  const uint64_t there = b->m->n_ctx_train;
  vram__build_qkv a;
  if (b->crossed < 0) {
    b->crossed = vram__build_input(b, vram__product_or_overflow(there * 4, b->m->n_embd));
    vram__build_at(b, b->crossed)->ne[0] = b->m->n_embd;
    vram__build_at(b, b->crossed)->ne[1] = there;
    b->crossed_mask = vram__build_input(
        b, vram__product_or_overflow(b->tokens * (b->m->flash_attention ? 2 : 4), there));
  }
  a.gate = -1;
  a.q = vram__build_linear(b, x, "cross_attn_q.weight", NULL);
  a.k = vram__build_linear(b, b->crossed, "cross_attn_k.weight", NULL);
  a.v = vram__build_linear(b, b->crossed, "cross_attn_v.weight", NULL);
  a.q = vram__build_view(b, a.q, y->head_k, y->n_head, b->tokens);
  a.k = vram__build_view(b, a.k, y->head_k, y->n_head_kv, there);
  a.v = vram__build_view(b, a.v, y->head_v, y->n_head_kv, there);
  x = vram__build_among(b, a, b->crossed_mask, -1);
  return vram__build_linear(b, x, "cross_attn_o.weight", NULL);
}

static int32_t vram__build_t5_end(vram__build *b, int32_t i, int32_t x, int is_last) {
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  x = vram__build_map(b, i, x);
  i = vram__build_dense(b, vram__build_norm(b, x, "ffn_norm.weight", NULL));
  return vram__build_map(b, i, x);
}

VRAM__FN int32_t vram__build_t5(vram__build *b, int32_t x, int is_last) {
  const vram_llama_cache *c = b->m->cache + b->m->layer[b->il].cache;
  int32_t i, bias;
  b->stack = "dec.";
  i = vram__build_norm(b, x, "attn_norm.weight", NULL);
  bias = vram__build_distances(b, vram__product_or_overflow(c->cells, c->streams));
  i = vram__build_over_cache(b, vram__build_project(b, i), bias);
  i = vram__build_linear(b, i, "attn_o.weight", NULL);
  x = vram__build_map(b, i, x);
  i = vram__build_cross(b, vram__build_norm(b, x, "cross_attn_norm.weight", NULL));
  return vram__build_t5_end(b, i, x, is_last);
}

VRAM__FN int32_t vram__build_t5_encoder(vram__build *b, int32_t x, int is_last) {
  int32_t i, bias;
  b->stack = "enc.";
  i = vram__build_norm(b, x, "attn_norm.weight", NULL);
  bias = vram__build_distances(b, b->tokens);
  i = vram__build_among(b, vram__build_project(b, i), vram__build_mask(b, 0, b->tokens), bias);
  i = vram__build_linear(b, i, "attn_o.weight", NULL);
  return vram__build_t5_end(b, i, x, is_last);
}
