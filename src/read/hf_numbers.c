/* >>read/hf_numbers    config.json as a model in the text form: sizes of latent attention, of
   groups of experts and of state spaces, for the letters of their lines */
#include "read/read.h"

static void vram__hf_put_number(vram__hf_pen *w, char letter, uint64_t number) {
  *vram__hf_number_of(w, letter) = number;
}

/* hf_lines_latent.c: a and c the latents of queries and of keys and values, j what of a head is
   rotated and y what is not, f a value, d a query, b and x what one matrix gives for both */
static void vram__hf_latent_numbers(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  const uint64_t pass = vram__hf_number(&w->h, "qk_nope_head_dim", 128),
                 d = pass + c->rope_head_dim;
  vram__hf_put_number(w, 'a', c->q_lora_rank);
  vram__hf_put_number(w, 'c', c->kv_lora_rank);
  vram__hf_put_number(w, 'j', c->rope_head_dim);
  vram__hf_put_number(w, 'r', c->rope_head_dim / 2);
  vram__hf_put_number(w, 'y', pass);
  vram__hf_put_number(w, 'f', c->v_head_dim);
  vram__hf_put_number(w, 'd', d);
  vram__hf_put_number(w, 'Q', c->heads * d);
  vram__hf_put_number(w, 'x', c->kv_lora_rank + c->rope_head_dim);
  vram__hf_put_number(w, 'b', pass + c->v_head_dim);
  vram__hf_put_number(w, 'B', c->heads * (pass + c->v_head_dim));
  vram__hf_put_number(w, 'O', c->heads * c->v_head_dim);
  *vram__hf_mixer_flag(w, 'c') = c->q_lora_rank != 0;
  *vram__hf_mixer_flag(w, 'p') =
      (uint8_t)vram__hf_bool(&w->h, "rope_interleave", *vram__hf_mixer_flag(w, 'p'));
  if (c->kv_heads != c->heads)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE,
                  "latent attention with fewer heads of keys: ", "num_key_value_heads");
  if (!c->kv_lora_rank || !c->rope_head_dim || c->rope_head_dim % 2 || !pass || !c->v_head_dim)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no latent attention has such sizes of ",
                  "a latent or a head");
}

/* Routers that take the best groups first: G groups of E experts, U of them for a token; s: the
   width of what all tokens go through. */
static void vram__hf_group_numbers(vram__hf_pen *w) {
  static const struct {
    const char *type;
    uint8_t groups, used;
  } none[] = {{"deepseek_v3", 8, 4}, {"", 1, 1}};
  const vram_hf_config *const c = &w->c;
  uint32_t i = 0;
  uint64_t groups, used;
  while (*none[i].type && !vram__text_is(c->family, vram__text_len(c->family), none[i].type))
    i++;
  groups = vram__hf_number(&w->h, "n_group", none[i].groups);
  used = vram__hf_number(&w->h, "topk_group", none[i].used);
  if (!groups || c->experts % groups || c->experts / groups < 2 || !used || used > groups) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no model has so many ", "groups of experts");
    return;
  }
  vram__hf_put_number(w, 'G', groups);
  vram__hf_put_number(w, 'E', c->experts / groups);
  vram__hf_put_number(w, 'U', used);
  *vram__hf_flag_of(w, '6') = groups == 1;
}

/* hf_lines_state.c, Mamba-2: l what in_proj gives, I its inner width, C what the convolution goes
   along, L its kernel, P its padding, H heads of D and q for each of u groups, o states, x of all
   groups, w the inner width of one, A tokens of a chunk, X one less, c chunks, y one more, Z all
   their tokens, z those that are padded */
static void vram__hf_mamba2_numbers(vram__hf_pen *w) {
  const uint64_t tokens = *vram__hf_number_of(w, 'S');
  vram__hf_ssm s;
  uint64_t chunks;
  vram__hf_mamba2_sizes(&w->h, &s);
  if (!s.heads || s.inner % s.heads || !s.groups || s.heads % s.groups || s.inner % s.groups ||
      !s.state || !s.kernel || !s.chunk) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no state space has such sizes of ",
                  "heads, groups, a state, a kernel or a chunk");
    return;
  }
  chunks = tokens / s.chunk + (tokens % s.chunk != 0);
  vram__hf_put_number(w, 'l', s.inner + s.conv + s.heads);
  vram__hf_put_number(w, 'I', s.inner);
  vram__hf_put_number(w, 'C', s.conv);
  vram__hf_put_number(w, 'L', s.kernel);
  vram__hf_put_number(w, 'P', s.kernel - 1);
  vram__hf_put_number(w, 'H', s.heads);
  vram__hf_put_number(w, 'D', s.inner / s.heads);
  vram__hf_put_number(w, 'q', s.heads / s.groups);
  vram__hf_put_number(w, 'u', s.groups);
  vram__hf_put_number(w, 'o', s.state);
  vram__hf_put_number(w, 'x', s.groups * s.state);
  vram__hf_put_number(w, 'w', s.inner / s.groups);
  vram__hf_put_number(w, 'A', s.chunk);
  vram__hf_put_number(w, 'X', s.chunk - 1);
  vram__hf_put_number(w, 'c', chunks);
  vram__hf_put_number(w, 'y', chunks + 1);
  vram__hf_put_number(w, 'Z', vram__product_or_overflow(chunks, s.chunk));
  vram__hf_put_number(w, 'z', chunks * s.chunk - tokens);
  *vram__hf_mixer_flag(w, 's') = chunks == 1;
  *vram__hf_mixer_flag(w, 'v') = chunks * s.chunk != tokens;
  *vram__hf_mixer_flag(w, 'c') = !s.conv_bias;
  *vram__hf_mixer_flag(w, 'b') = (uint8_t)s.in_bias;
  *vram__hf_mixer_flag(w, 'o') = (uint8_t)s.out_bias;
  *vram__hf_mixer_flag(w, 'r') = (uint8_t)vram__hf_bool(&w->h, "residual_in_fp32", 1);
  *vram__hf_mixer_flag(w, 'n') = (uint8_t)s.has_norm;
  *vram__hf_mixer_flag(w, 'p') = (uint8_t)vram__hf_bool(&w->h, "mamba_norm_before_gate", 1);
}

/* The same of Mamba: * the rank of time steps, x what x_proj gives. */
static void vram__hf_mamba_numbers(vram__hf_pen *w) {
  const uint64_t tokens = *vram__hf_number_of(w, 'S');
  vram__hf_ssm s;
  if (tokens > VRAM__HF_MAX_ROUNDS)
    vram__hf_fail(&w->h, VRAM_ERR_LIMIT,
                  "more than 4096 tokens (S), which a scan takes one by one: ", w->c.family);
  else if (tokens * w->c.layers > VRAM__HF_ALL_ROUNDS)
    vram__hf_fail(&w->h, VRAM_ERR_LIMIT,
                  "more than 1048576 rounds of scans, tokens (S) times layers: ", w->c.family);
  vram__hf_mamba_sizes(&w->h, &s);
  if (!s.inner || !s.state || !s.kernel || !s.rank) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no state space has such sizes of ",
                  "a width, a state, a kernel or time steps");
    return;
  }
  vram__hf_put_number(w, 'l', 2 * s.inner);
  vram__hf_put_number(w, 'I', s.inner);
  vram__hf_put_number(w, 'L', s.kernel);
  vram__hf_put_number(w, 'P', s.kernel - 1);
  vram__hf_put_number(w, 'o', s.state);
  vram__hf_put_number(w, '*', s.rank);
  vram__hf_put_number(w, 'x', s.rank + 2 * s.state);
  *vram__hf_mixer_flag(w, 'c') = !s.conv_bias;
  *vram__hf_mixer_flag(w, 'b') = (uint8_t)s.in_bias;
  *vram__hf_mixer_flag(w, 'r') = (uint8_t)vram__hf_bool(&w->h, "residual_in_fp32", 1);
}

/* Short convolutions (LFM2): L their kernel, P its padding, l what in_proj gives; u: biases. */
static void vram__hf_conv_numbers(vram__hf_pen *w) {
  const uint64_t kernel = vram__hf_number(&w->h, "conv_L_cache", 3);
  if (!kernel)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no convolution has such a kernel: ", "conv_L_cache");
  vram__hf_put_number(w, 'L', kernel);
  vram__hf_put_number(w, 'P', kernel - 1);
  vram__hf_put_number(w, 'l', 3 * w->c.hidden);
  *vram__hf_mixer_flag(w, 'u') = (uint8_t)vram__hf_bool(&w->h, "conv_bias", 0);
}

VRAM__FN void vram__hf_numbers_of_parts(vram__hf_pen *w) {
  vram__hf *const h = &w->h;
  if (vram__hf_has(h, VRAM__HF_MLA))
    vram__hf_latent_numbers(w);
  if (vram__hf_has(h, VRAM__HF_CORRECTION)) {
    vram__hf_group_numbers(w);
    *vram__hf_flag_of(w, 'q') |= *vram__hf_flag_of(w, '4');
  }
  if (vram__hf_has(h, VRAM__HF_MAMBA2 | VRAM__HF_FALCON_H1))
    vram__hf_mamba2_numbers(w);
  if (vram__hf_has(h, VRAM__HF_MAMBA | VRAM__HF_JAMBA))
    vram__hf_mamba_numbers(w);
  if (vram__hf_has(h, VRAM__HF_LFM2))
    vram__hf_conv_numbers(w);
  vram__hf_put_number(w, 's', vram__hf_shared_width(h));
}
