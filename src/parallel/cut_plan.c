/* >>parallel/cut_plan    which layers tensor parallelism cuts, and how */
#include "parallel/cut.h"

/* The usual decoder: what torchtitan's plans and Hugging Face's tp_plan have, by the last part of a
   layer's name. */
static const struct {
  const char *name;
  uint8_t role;
} vram__rank_names[] = {{"wq", VRAM__ROLE_COLWISE},
                        {"wk", VRAM__ROLE_COLWISE},
                        {"wv", VRAM__ROLE_COLWISE},
                        {"wo", VRAM__ROLE_ROWWISE},
                        {"w1", VRAM__ROLE_COLWISE},
                        {"w3", VRAM__ROLE_COLWISE},
                        {"w2", VRAM__ROLE_ROWWISE},
                        {"q_proj", VRAM__ROLE_COLWISE},
                        {"k_proj", VRAM__ROLE_COLWISE},
                        {"v_proj", VRAM__ROLE_COLWISE},
                        {"o_proj", VRAM__ROLE_ROWWISE},
                        {"out_proj", VRAM__ROLE_ROWWISE},
                        {"gate_proj", VRAM__ROLE_COLWISE},
                        {"up_proj", VRAM__ROLE_COLWISE},
                        {"down_proj", VRAM__ROLE_ROWWISE},
                        {"fc1", VRAM__ROLE_COLWISE},
                        {"fc2", VRAM__ROLE_ROWWISE},
                        {"tok_embeddings", VRAM__ROLE_ROWWISE},
                        {"pos_embeddings", VRAM__ROLE_ROWWISE},
                        {"embed_tokens", VRAM__ROLE_ROWWISE},
                        {"output", VRAM__ROLE_HEAD},
                        {"lm_head", VRAM__ROLE_HEAD},
                        {"qkv_proj", VRAM__ROLE_FUSED},
                        {"gate_up_proj", VRAM__ROLE_FUSED},
                        {"query_key_value", VRAM__ROLE_FUSED},
                        {"c_attn", VRAM__ROLE_FUSED},
                        {"Wqkv", VRAM__ROLE_FUSED},
                        {"wqkv", VRAM__ROLE_FUSED},
                        {"in_proj", VRAM__ROLE_FUSED}};

VRAM__FN vram__role vram__rank_role(const vram__rank_cut *c, const vram_node *n) {
  const vram__span label = vram__node_label(n);
  uint32_t i, at = label.len;
  (void)c;
  if (n->op != VRAM_OP_linear && n->op != VRAM_OP_embedding)
    return VRAM__ROLE_NONE;
  while (at && label.text[at - 1] != '.')
    at--;
  for (i = 0; i < sizeof vram__rank_names / sizeof *vram__rank_names; i++)
    if (vram__text_is(label.text + at, label.len - at, vram__rank_names[i].name))
      return (vram__role)vram__rank_names[i].role;
  return VRAM__ROLE_NONE;
}
