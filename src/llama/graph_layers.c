/* >>llama/graph_layers    layers of a shape of their own (llama.cpp: src/models) */
#include "llama/graph.h"

/* bert: norms behind the sums. */
VRAM__FN int32_t vram__build_behind(vram__build *b, int32_t x, int is_last) {
  int32_t i = vram__build_mix(b, x);
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  i = vram__build_map(b, i, x);
  i = vram__build_norm(b, i, "attn_output_norm.weight", "attn_output_norm.bias");
  if (vram__build_weight(b, "attn_norm_2.weight")) { /* jina-bert-v2: the input once more */
    i = vram__build_map(b, i, x);
    i = vram__build_norm(b, i, "attn_norm_2.weight", "attn_norm_2.bias");
  }
  x = i;
  i = vram__build_forward(b, x, -1);
  i = vram__build_map(b, i, x);
  return vram__build_norm(b, i, "layer_output_norm.weight", "layer_output_norm.bias");
}

/* arctic: a dense feed-forward behind attention, experts beside both. */
VRAM__FN int32_t vram__build_arctic(vram__build *b, int32_t x, int is_last) {
  int32_t i = vram__build_mix(b, vram__build_norm(b, x, "attn_norm.weight", NULL)), dense;
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  i = vram__build_map(b, i, x);
  dense = vram__build_dense(b, vram__build_norm(b, i, "ffn_norm.weight", NULL));
  dense = vram__build_map(b, dense, i);
  i = vram__build_moe(b, vram__build_norm(b, x, "ffn_norm_exps.weight", NULL), -1);
  return vram__build_map(b, i, dense);
}

/* deci: a layer may lack attention, or have a matrix in its place; it may lack the feed-forward,
   and then nothing takes what attention made. */
VRAM__FN int32_t vram__build_deci(vram__build *b, int32_t x, int is_last) {
  const vram__llama_layer *y = b->m->layer + b->il;
  int32_t i = x, before = x;
  if (y->n_head) {
    i = vram__build_norm(b, i, "attn_norm.weight", NULL);
    i = y->n_head_kv ? vram__build_mix(b, i) : vram__build_linear(b, i, "attn_output.weight", NULL);
  }
  if (!y->n_ff)
    return before;
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  if (y->n_head)
    i = vram__build_map(b, i, x);
  x = i;
  i = vram__build_dense(b, vram__build_norm(b, x, "ffn_norm.weight", NULL));
  return vram__build_map(b, i, x);
}

/* grovemoe: experts, and of what they make those of their groups, by the same logits. */
VRAM__FN int32_t vram__build_grove(vram__build *b, int32_t x, int is_last) {
  int32_t i = vram__build_mix(b, vram__build_norm(b, x, "attn_norm.weight", NULL)), logits, group;
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  x = vram__build_map(b, i, x);
  i = vram__build_norm(b, x, "ffn_norm.weight", NULL);
  logits = vram__build_linear(b, i, "ffn_gate_inp.weight", NULL);
  i = vram__build_moe(b, i, logits);
  group = vram__build_chunks(b, i, logits);
  i = vram__build_map(b, i, vram__build_map(b, group, -1));
  return vram__build_map(b, i, x);
}

/* chameleon: its norms may be behind attention and feed-forward, which then takes what attention
   made without the layer's input. */
VRAM__FN int32_t vram__build_swin(vram__build *b, int32_t x, int is_last) {
  const vram_file_value *v = vram__llama_get(b->m, "swin_norm");
  const int is_after = v && v->number.u;
  int32_t i = vram__build_mix(b, is_after ? x : vram__build_norm(b, x, "attn_norm.weight", NULL));
  vram__build_last_rows(b, is_last, &i, &x, NULL);
  if (is_after)
    i = vram__build_norm(b, i, "attn_norm.weight", NULL);
  x = vram__build_map(b, i, x);
  i = vram__build_dense(b, is_after ? i : vram__build_norm(b, x, "ffn_norm.weight", NULL));
  if (is_after)
    i = vram__build_norm(b, i, "ffn_norm.weight", NULL);
  return vram__build_map(b, i, x);
}
