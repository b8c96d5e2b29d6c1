/* >>llama/graph_gemma    gemma4 and gemma3n: embeddings of each layer, states of several streams
   (llama.cpp: src/models/gemma4.cpp, gemma3n.cpp) */
#include "llama/graph.h"

/* A second table of words has a row for each layer; what a matrix makes of the first is added. */
VRAM__FN void vram__build_each_layer(vram__build *b, int32_t x) {
  const vram_file_tensor *t = vram__build_global(b, "per_layer_token_embd.weight");
  const uint64_t layers = b->m->n_layer;
  uint64_t all, width;
  int32_t i, made;
  if (!t)
    return;
  all = vram__llama_columns(t);
  width = all / layers;
  i = vram__build_node(b, all, b->tokens, 1, -1);
  vram__build_taken(b, i, t);
  vram__build_source(b, i, vram__build_input(b, b->tokens * 4));
  i = vram__build_map(b, vram__build_view(b, i, width, layers, b->tokens), -1);
  vram__build_expand(b, i);
  made = vram__build_node(b, all, b->tokens, 1, -1);
  vram__build_multiply(b, made, vram__build_global(b, "per_layer_model_proj.weight"));
  vram__build_source(b, made, x);
  made = vram__build_view(b, vram__build_map(b, made, -1), width, layers, b->tokens);
  made = vram__build_map(b, vram__build_map(b, made, -1), -1);
  vram__build_with(b, made, vram__build_global(b, "per_layer_proj_norm.weight"));
  i = vram__build_map(b, vram__build_map(b, made, i), -1);
  i = vram__build_view(b, i, width, b->tokens, layers);
  b->each_layer = vram__build_node(b, width, b->tokens, layers, i);
}

/* A layer's own embeddings, gated by what it made. */
static int32_t vram__build_own(vram__build *b, int32_t x) {
  uint64_t width;
  if (b->each_layer < 0) {
    b->g->is_given_up = 1; /* gemma3n without them */
    return x;
  }
  width = vram__build_at(b, b->each_layer)->ne[0];
  x = vram__build_map(b, vram__build_linear(b, x, "inp_gate.weight", NULL), -1);
  x = vram__build_map(b, x, vram__build_piece(b, b->each_layer, width, b->tokens, 1));
  x = vram__build_linear(b, x, "proj.weight", NULL);
  return vram__build_norm(b, x, "post_norm.weight", NULL);
}

/* Experts beside a dense feed-forward, each with norms of its own; the router has one, too. */
static int32_t vram__build_both_forward(vram__build *b, int32_t x) {
  int32_t dense = vram__build_norm(b, x, "ffn_norm.weight", NULL), experts, logits;
  dense = vram__build_norm(b, vram__build_dense(b, dense), "post_ffw_norm_1.weight", NULL);
  experts = vram__build_norm(b, x, "pre_ffw_norm_2.weight", NULL);
  logits = vram__build_map(b, vram__build_map(b, x, -1), -1);
  logits = vram__build_with(b, vram__build_map(b, logits, -1),
                            vram__build_weight(b, "ffn_gate_inp.scale"));
  logits = vram__build_linear(b, logits, "ffn_gate_inp.weight", NULL);
  experts = vram__build_moe(b, experts, logits);
  experts = vram__build_norm(b, experts, "post_ffw_norm_2.weight", NULL);
  return vram__build_map(b, dense, experts);
}

VRAM__FN int32_t vram__build_gemma4(vram__build *b, int32_t x, int is_last) {
  const vram_file_tensor *scale = vram__build_weight(b, "layer_output_scale.weight");
  int32_t i = vram__build_norm(b, x, "attn_norm.weight", NULL);
  (void)is_last;
  i = vram__build_shared_attention(b, i);
  x = vram__build_map(b, vram__build_norm(b, i, "post_attention_norm.weight", NULL), x);
  if (vram__build_weight(b, "ffn_gate_inp.weight"))
    i = vram__build_both_forward(b, x);
  else
    i = vram__build_dense(b, vram__build_norm(b, x, "ffn_norm.weight", NULL));
  i = vram__build_map(b, vram__build_norm(b, i, "post_ffw_norm.weight", NULL), x);
  if (b->each_layer >= 0)
    i = vram__build_map(b, i, vram__build_own(b, i));
  return scale ? vram__build_with(b, vram__build_map(b, i, -1), scale) : i;
}

/* ---- gemma3n: four streams, of which one is computed (AltUp) ---- */

enum {
  VRAM__BUILD_STREAMS = 4, /* hparams.n_altup */
  VRAM__BUILD_SPARSE = 10  /* n_layer_sparsity */
};

/* One stream, or all but the first. */
static int32_t vram__build_streams(vram__build *b, int32_t x, uint64_t n) {
  return vram__build_piece(b, x, b->m->n_embd, b->tokens, n);
}

static int32_t vram__build_sum_rows(vram__build *b, int32_t x) {
  const vram__graph_node *n = vram__build_at(b, x);
  return vram__build_node(b, 1, n->ne[1], n->ne[2], x);
}

static int32_t vram__build_magnitude(vram__build *b, int32_t x) {
  return vram__build_map(b, vram__build_sum_rows(b, vram__build_map(b, x, -1)), -1);
}

/* Matrices of the other streams, one for each. */
static int32_t vram__build_other(vram__build *b, int32_t x, const char *name) {
  const uint64_t others = (uint64_t)VRAM__BUILD_STREAMS - 1;
  int32_t i = vram__build_node(b, b->m->n_embd, b->tokens, others, -1);
  vram__build_multiply(b, i, vram__build_global(b, name));
  vram__build_source(b, i, x);
  return i;
}

/* As large as the first stream is. */
static int32_t vram__build_as_large(vram__build *b, int32_t x, int32_t target) {
  const int32_t now = vram__build_magnitude(b, x);
  return vram__build_map(b, vram__build_map(b, x, target), now);
}

static int32_t vram__build_stack(vram__build *b, int32_t first, int32_t others) {
  const int32_t i = vram__build_node(b, b->m->n_embd, b->tokens, VRAM__BUILD_STREAMS, first);
  vram__build_source(b, i, others);
  return i;
}

VRAM__FN int32_t vram__build_streams_begin(vram__build *b, int32_t x) {
  const int32_t target = vram__build_magnitude(b, x);
  int32_t i = vram__build_node(b, b->m->n_embd, b->tokens, (uint64_t)VRAM__BUILD_STREAMS - 1, x);
  i = vram__build_as_large(b, vram__build_other(b, i, "altup_proj.weight"), target);
  return vram__build_stack(b, x, i);
}

VRAM__FN int32_t vram__build_streams_end(vram__build *b, int32_t x) {
  const int32_t target = vram__build_magnitude(b, vram__build_streams(b, x, 1));
  int32_t i = vram__build_streams(b, x, (uint64_t)VRAM__BUILD_STREAMS - 1);
  i = vram__build_as_large(b, vram__build_other(b, i, "altup_unembd_proj.weight"), target);
  x = vram__build_streams(b, x, 1);
  for (int k = 1; k < VRAM__BUILD_STREAMS; k++)
    x = vram__build_map(b, x, vram__build_streams(b, i, 1));
  return vram__build_rows_of(b, vram__build_map(b, x, -1));
}

/* What the streams have to do with each other, of one of them. */
static int32_t vram__build_modalities(vram__build *b, int32_t x) {
  x = vram__build_map(b, vram__build_norm(b, x, "altup_router_norm.weight", NULL), -1);
  return vram__build_map(b, vram__build_linear(b, x, "altup_router.weight", NULL), -1);
}

static int32_t vram__build_predict(vram__build *b, int32_t x) {
  const uint64_t n = VRAM__BUILD_STREAMS, width = b->m->n_embd;
  int32_t all = vram__build_modalities(b, vram__build_streams(b, x, 1)), i;
  all = vram__build_linear(b, all, "altup_predict_coef.weight", NULL);
  all = vram__build_view(b, all, n, n, b->tokens);
  i = vram__build_node(b, n, width, b->tokens, vram__build_view(b, x, n, width, b->tokens));
  i = vram__build_node(b, width, n, b->tokens, i);
  vram__build_source(b, i, all);
  i = vram__build_node(b, width, b->tokens, n, vram__build_view(b, i, width, b->tokens, n));
  return vram__build_map(b, i, x);
}

static int32_t vram__build_correct(vram__build *b, int32_t predicted, int32_t x) {
  const uint64_t n = VRAM__BUILD_STREAMS;
  int32_t all = vram__build_modalities(b, x), i;
  i = vram__build_map(b, x, vram__build_streams(b, predicted, 1));
  all = vram__build_map(b, vram__build_linear(b, all, "altup_correct_coef.weight", NULL), -1);
  all = vram__build_node(b, 1, b->tokens, n, vram__build_view(b, all, b->tokens, n, 1));
  i = vram__build_node(b, b->m->n_embd, b->tokens, n, i);
  return vram__build_map(b, vram__build_map(b, i, all), predicted);
}

/* The gate of the first layers: what is above the mean by some deviations. */
static int32_t vram__build_sparse(vram__build *b, int32_t x) {
  const int32_t mean = vram__build_sum_rows(b, x);
  int32_t i = vram__build_map(b, vram__build_map(b, x, mean), -1);
  i = vram__build_map(b, vram__build_map(b, vram__build_sum_rows(b, i), -1), -1);
  i = vram__build_map(b, mean, vram__build_map(b, i, -1));
  return vram__build_map(b, vram__build_map(b, x, i), -1);
}

static int32_t vram__build_sparse_forward(vram__build *b, int32_t x) {
  const int32_t up = vram__build_linear(b, x, "ffn_up.weight", NULL);
  int32_t gate = vram__build_linear(b, x, "ffn_gate.weight", NULL);
  if (b->il < VRAM__BUILD_SPARSE)
    gate = vram__build_sparse(b, gate);
  gate = vram__build_map(b, up, vram__build_map(b, gate, -1));
  return vram__build_linear(b, gate, "ffn_down.weight", NULL);
}

/* A matrix of low rank beside attention. */
static int32_t vram__build_laurel(vram__build *b, int32_t x) {
  int32_t i = vram__build_linear(b, x, "laurel_l.weight", NULL);
  i = vram__build_linear(b, i, "laurel_r.weight", NULL);
  return vram__build_map(b, vram__build_norm(b, i, "laurel_post_norm.weight", NULL), x);
}

VRAM__FN int32_t vram__build_gemma3n(vram__build *b, int32_t x, int is_last) {
  const int32_t predicted = vram__build_predict(b, x);
  const int32_t active = vram__build_streams(b, predicted, 1);
  int32_t i = vram__build_norm(b, active, "attn_norm.weight", NULL), laurel;
  (void)is_last;
  laurel = vram__build_laurel(b, i);
  i = vram__build_shared_attention(b, i);
  i = vram__build_map(b, vram__build_norm(b, i, "post_attention_norm.weight", NULL), active);
  x = vram__build_map(b, vram__build_map(b, i, laurel), -1);
  i = vram__build_sparse_forward(b, vram__build_norm(b, x, "ffn_norm.weight", NULL));
  i = vram__build_map(b, vram__build_norm(b, i, "post_ffw_norm.weight", NULL), x);
  x = vram__build_correct(b, predicted, i);
  i = vram__build_with(b, vram__build_map(b, vram__build_streams(b, x, 1), -1),
                       vram__build_weight(b, "altup_correct_scale.weight"));
  i = vram__build_own(b, i);
  i = vram__build_map(b, vram__build_streams(b, x, (uint64_t)VRAM__BUILD_STREAMS - 1), i);
  return vram__build_stack(b, vram__build_streams(b, x, 1), i);
}
