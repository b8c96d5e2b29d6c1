/* >>llama/graph_known    which files a graph is built for: no tensor and no key that it has no
   place for */
#include "llama/graph.h"

/* clang-format off */
/* Of a layer, before ".weight". */
static const char *const vram__known_weights[] = {
    "attn_norm", "attn_norm_2", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_q_norm",
    "attn_k_norm", "attn_output", "attn_sinks", "attn_q_a", "attn_q_a_norm", "attn_q_b",
    "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output_norm",
    "layer_output_norm", "post_attention_norm", "attn_sub_norm", "attn_gate", "attn_kv_b", "attn_o",
    "attn_rel_b", "cross_attn_norm", "cross_attn_q", "cross_attn_k", "cross_attn_v", "cross_attn_o",
    "cross_attn_rel_b", "ffn_norm", "ffn_sub_norm", "ffn_norm_exps", "ffn_gate_up_exps",
    "ffn_up_chexps", "ffn_gate_chexps", "ffn_down_chexps", "vis_attn_qkv", "vis_attn_output",
    "vis_gate", "vis_up", "vis_down", "post_ffw_norm", "ffn_up", "ffn_gate", "ffn_down",
    "ffn_gate_inp", "ffn_gate_inp_shexp", "ffn_up_exps", "ffn_gate_exps", "ffn_down_exps",
    "ffn_up_shexp", "ffn_gate_shexp", "ffn_down_shexp", "ssm_in", "time_mix_ln", "time_mix_key",
    "time_mix_value", "time_mix_receptance", "ssm_conv1d", "ssm_x", "ssm_dt", "ssm_dt_norm",
    "ssm_b_norm", "ssm_c_norm", "ssm_norm", "ssm_out", "ffn_latent_down", "ffn_latent_up",
    "inp_gate", "proj", "post_norm", "layer_output_scale", "post_ffw_norm_1", "post_ffw_norm_2",
    "pre_ffw_norm_2", "altup_correct_coef", "altup_correct_scale", "altup_predict_coef",
    "altup_router", "altup_router_norm", "laurel_l", "laurel_r", "laurel_post_norm", "time_mix_w0",
    "time_mix_w1", "time_mix_w2", "time_mix_a0", "time_mix_a1", "time_mix_a2", "time_mix_v0",
    "time_mix_v1", "time_mix_v2", "time_mix_g1", "time_mix_g2", "time_mix_k_k", "time_mix_k_a",
    "time_mix_r_k", "time_mix_lerp_x", "time_mix_lerp_w", "time_mix_lerp_k", "time_mix_lerp_v",
    "time_mix_lerp_r", "time_mix_lerp_g", "time_mix_lerp_fused", "time_mix_first", "time_mix_decay",
    "time_mix_decay_w1", "time_mix_decay_w2", "time_mix_gate", "time_mix_output",
    "channel_mix_lerp_k", "channel_mix_lerp_r", "channel_mix_key", "channel_mix_value",
    "channel_mix_receptance", "indexer.k_norm", "indexer.proj", "indexer.attn_k",
    "indexer.attn_q_b", "ssm_ba", "ssm_alpha", "ssm_beta", "ssm_conv1d_q", "ssm_conv1d_k",
    "ssm_conv1d_v", "ssm_f_a", "ssm_f_b", "ssm_g_a", "ssm_g_b", "shortconv.conv",
    "shortconv.in_proj", "shortconv.out_proj", NULL};

/* Of a layer, before ".bias". */
static const char *const vram__known_biases[] = {
    "attn_norm", "attn_norm_2", "attn_q", "attn_k", "attn_v", "attn_qkv", "attn_output", "ffn_norm",
    "ffn_up", "ffn_gate", "ffn_down", "ffn_gate_inp", "exp_probs_b", "ffn_up_exps", "ffn_gate_exps",
    "ffn_down_exps", "ssm_conv1d", "ssm_dt", "attn_output_norm", "layer_output_norm", "attn_q_norm",
    "attn_k_norm", "time_mix_ln", "time_mix_key", "time_mix_value", "time_mix_receptance",
    "indexer.k_norm", NULL};

static const char *const vram__known_globals[] = {
    "token_embd.weight", "output.weight", "output_norm.weight", "output_norm.bias", "output.bias",
    "enc.output_norm.weight", "dec.output_norm.weight", "dense_2.weight", "dense_2.bias",
    "dense_3.weight", "position_embd.weight", "token_types.weight", "token_embd_norm.weight",
    "token_embd_norm.bias", "rope_freqs.weight", "per_layer_token_embd.weight",
    "per_layer_model_proj.weight", "per_layer_proj_norm.weight", "altup_proj.weight",
    "altup_unembd_proj.weight", "rope_factors_long.weight", "rope_factors_short.weight", NULL};

/* clang-format on */

static int vram__known_is_in(const char *const *list, const char *name, uint32_t len) {
  for (; *list; list++)
    if (vram__text_is(name, len, *list))
      return 1;
  return 0;
}

static int vram__known_ends(const char *name, uint32_t len, const char *with) {
  const uint32_t n = vram__text_len(with);
  return len > n && vram__text_equal(name + len - n, with, n);
}

/* Weights that only some architectures have: what their names begin with, and who has them, a space
   behind each. Of the others each may be anywhere: with one that its layer does not take, llama.cpp
   loads no file ("wrong number of tensors"). */
static const struct {
  const char *begins, *has;
} vram__known_of[] = {
    {"time_mix_", "rwkv6 rwkv6qwen2 rwkv7 arwkv7 "},
    {"channel_mix_", "rwkv6 rwkv7 "},
    {"altup_", "gemma3n "},
    {"laurel_", "gemma3n "},
    {"vis_", "cogvlm "},
    {"cross_attn_", "t5 "},
    {"shortconv.", "lfm2 lfm2moe "},
    {"ffn_latent_", "nemotron_h_moe "},
    {"indexer.", "deepseek32 glm-dsa "},
    {"ssm_ba", "qwen3next "},
    {"ssm_f_", "kimi-linear "},
    {"ssm_g_", "kimi-linear "},
    {"ssm_", "falcon-h1 qwen3next qwen35 qwen35moe plamo2 mamba mamba2 jamba nemotron_h"
             " nemotron_h_moe granitehybrid kimi-linear "},
};

static int vram__known_is_of(const vram__llama *m, const char *name, uint32_t len) {
  for (size_t i = 0; i < sizeof vram__known_of / sizeof *vram__known_of; i++) {
    const char *at = vram__known_of[i].has;
    const uint32_t n = vram__text_len(vram__known_of[i].begins);
    if (len < n || !vram__text_equal(name, vram__known_of[i].begins, n))
      continue;
    for (; *at; at++) {
      const char *const word = at;
      while (*at != ' ')
        at++;
      if ((uint32_t)(at - word) == m->arch_len && vram__text_equal(word, m->arch, m->arch_len))
        return 1;
    }
    return 0;
  }
  return 1;
}

/* "blk.N.NAME", N below that of the layers that are computed. */
static int vram__known_tensor(const vram__llama *m, const vram_file_tensor *t, uint64_t flags) {
  const char *name = t->name;
  uint32_t len = t->name_len, i = 4, layer = 0;
  if ((m->row->flags & VRAM__LLAMA_TWO_STACKS) && len > 8 &&
      vram__text_equal(name + 4, "blk.", 4)) {
    name += 4; /* "enc.", "dec." */
    len -= 4;
  }
  if (len < 6 || !vram__text_equal(name, "blk.", 4))
    return vram__known_is_in(vram__known_globals, name, len) ||
           (len > 3 && vram__text_equal(name, "cls", 3)); /* of embeddings */
  for (; i < len && vram__digit(name[i]) && layer < VRAM__LLAMA_LAYERS; i++)
    layer = 10 * layer + (uint32_t)(name[i] - '0');
  if (layer >= m->n_layer - m->n_layer_nextn)
    return 1;
  name += i + 1;
  len = len > i + 1 ? len - i - 1 : 0;
  if (!vram__known_is_of(m, name, len))
    return 0;
  if (vram__known_ends(name, len, ".weight"))
    return vram__known_is_in(vram__known_weights, name, len - 7);
  if (vram__known_ends(name, len, ".bias"))
    return vram__known_is_in(vram__known_biases, name, len - 5);
  if (vram__known_ends(name, len, ".scale"))
    return (flags & VRAM__BUILD_SCALES) || /* the latter two: gemma4 */
           vram__text_is(name, len, "ffn_gate_inp.scale") ||
           vram__text_is(name, len, "ffn_down_exps.scale");
  if (vram__text_is(name, len, "post_attention_norm") ||
      vram__text_is(name, len, "post_ffw_norm") || vram__text_is(name, len, "ffn_norm") ||
      vram__text_is(name, len, "ssm_dt_norm") || vram__text_is(name, len, "ssm_b_norm") ||
      vram__text_is(name, len, "ssm_c_norm"))
    return 1; /* plamo2, plamo3, falcon-h1 */
  if (vram__text_is(name, len, "exp_probs_b"))
    return 1; /* hy_v3 */
  return vram__text_is(name, len, "ssm_a") || vram__text_is(name, len, "ssm_d");
}

/* Keys by which llama.cpp adds nodes that are not built here. */
static int vram__known_keys(const vram__llama *m, uint64_t flags) {
  const double x = vram__llama_real(m, "ssm.dt_b_c_rms");
  if (x < 0 || x > 0)
    return 0;
  if (vram__llama_get(m, "attention.rope_pattern") || vram__llama_get(m, "deepstack_mapping"))
    return 0; /* granite: layers of their own kind, one by one */
  return (!vram__llama_get(m, "rope.dimension_sections") ||
          (flags & (VRAM__BUILD_FOUR_POSITIONS | VRAM__BUILD_FOUR_SAID))) &&
         m->expert_gating <= 2;
}

VRAM__FN int vram__build_knows(const vram__llama *m, uint64_t flags) {
  const vram_file_tensor *t;
  for (t = m->file->tensor_first; t; t = t->next)
    if (!vram__known_tensor(m, t, flags))
      return 0;
  return vram__known_keys(m, flags);
}

/* Numbers of experts for which ggml-cuda has a kernel of the whole router
   (ggml_cuda_should_use_topk_moe). */
VRAM__FN int vram__build_is_fused(const vram__build *b) {
  const uint32_t n = b->m->n_expert;
  if (b->m->n_expert_group > 1 || (b->flags & VRAM__BUILD_GROVE))
    return 0; /* other ops are between */
  return (!(n & (n - 1)) && n <= 512) || n == 288 || n == 576;
}
