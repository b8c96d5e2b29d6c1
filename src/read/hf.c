/* >>read/hf    config.json of transformers: parameters, tensors and cache of the model */
#include "read/read.h"

/* ---- parameters ---- */

VRAM__FN void vram__hf_add(vram__hf *h, uint64_t rows, uint64_t columns) {
  h->params = vram__sum_or_overflow(h->params, vram__product_or_overflow(rows, columns));
  h->tensors++;
}

VRAM__FN void vram__hf_name_again(vram__hf *h) { h->tensors++; }

VRAM__FN void vram__hf_linear(vram__hf *h, uint64_t in, uint64_t out, int has_bias) {
  vram__hf_add(h, in, out);
  if (has_bias)
    vram__hf_add(h, out, 1);
}

VRAM__FN void vram__hf_norm(vram__hf *h, uint64_t n) {
  if (!h->family->norms || /* OLMo's have no weights */
      (vram__hf_has(h, VRAM__HF_OPT) && !vram__hf_bool(h, "layer_norm_elementwise_affine", 1)))
    return;
  vram__hf_add(h, n, 1);
  if (vram__hf_has(h, VRAM__HF_NORM_BIAS))
    vram__hf_add(h, n, 1);
}

VRAM__FN int vram__hf_bias_key(vram__hf *h) {
  const char *const name = vram__hf_has(h, VRAM__HF_BIAS_QKV) ? "qkv_bias"
                           : vram__hf_has(h, VRAM__HF_BIAS_ALL)
                               ? vram__hf_name(h, "bias", "enable_bias", NULL)
                               : vram__hf_name(h, "attention_bias", "use_bias", "use_qkv_bias");
  return vram__hf_bool(h, name, vram__hf_has(h, VRAM__HF_KEY_TRUE));
}

/* Has what follows attention a bias, have the matrices of the MLP? */
VRAM__FN int vram__hf_o_bias(vram__hf *h) {
  return vram__hf_has(h, VRAM__HF_O_BIAS) ||
         (vram__hf_has(h, VRAM__HF_KEY_O) && vram__hf_bias_key(h)) ||
         (vram__hf_has(h, VRAM__HF_O_KEY) && vram__hf_bool(h, "attention_out_bias", 0));
}

VRAM__FN int vram__hf_mlp_bias(vram__hf *h) {
  return vram__hf_has(h, VRAM__HF_MLP_BIAS) ||
         (vram__hf_has(h, VRAM__HF_BIAS_ALL) && vram__hf_bias_key(h)) ||
         (vram__hf_has(h, VRAM__HF_MLP_KEY) &&
          vram__hf_bool(h, vram__hf_name(h, "mlp_bias", "use_bias", NULL),
                        vram__hf_has(h, VRAM__HF_KEY_TRUE) && !vram__hf_has(h, VRAM__HF_O_KEY)));
}

static void vram__hf_mla(vram__hf *h, int has_bias) {
  const vram_hf_config *const c = h->c;
  const uint64_t nope = vram__hf_number(h, "qk_nope_head_dim", 128),
                 q = c->heads * (nope + c->rope_head_dim);
  if (c->q_lora_rank) {
    vram__hf_linear(h, c->hidden, c->q_lora_rank, has_bias);
    vram__hf_norm(h, c->q_lora_rank);
    vram__hf_linear(h, c->q_lora_rank, q, 0);
  } else
    vram__hf_linear(h, c->hidden, q, 0);
  vram__hf_linear(h, c->hidden, c->kv_lora_rank + c->rope_head_dim, has_bias);
  vram__hf_norm(h, c->kv_lora_rank);
  vram__hf_linear(h, c->kv_lora_rank, c->heads * (nope + c->v_head_dim), 0);
  vram__hf_linear(h, c->heads * c->v_head_dim, c->hidden, has_bias);
}

static void vram__hf_qk_norm(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const int is_on = vram__hf_bool(h, vram__hf_name(h, "use_qk_norm", "qk_layernorm", NULL), 0);
  if (vram__hf_has(h, VRAM__HF_STABLELM) && is_on) { /* a tensor for each head */
    vram__hf_add(h, c->heads + c->kv_heads, c->head_dim);
    h->tensors += c->heads + c->kv_heads - 1;
  } else if (vram__hf_has(h, VRAM__HF_QK_FULL) || (vram__hf_has(h, VRAM__HF_QK_HEADS) && is_on)) {
    vram__hf_add(h, c->heads, c->head_dim);
    vram__hf_add(h, c->kv_heads, c->head_dim);
  } else if (vram__hf_has(h, VRAM__HF_QK_NORM) || (vram__hf_has(h, VRAM__HF_QK_KEY) && is_on)) {
    vram__hf_norm(h, c->head_dim);
    vram__hf_norm(h, c->head_dim);
  }
}

static void vram__hf_attention(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const int key = vram__hf_bias_key(h),
            qkv = vram__hf_has(h, VRAM__HF_QKV_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_QKV) && key),
            o = vram__hf_o_bias(h);
  const uint64_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
  if (vram__hf_has(h, VRAM__HF_MLA)) {
    vram__hf_mla(h, qkv);
    return;
  }
  if (vram__hf_has(h, VRAM__HF_FUSED_QKV))
    vram__hf_linear(h, c->hidden, q + 2 * kv, qkv);
  else {
    vram__hf_linear(h, c->hidden, vram__hf_has(h, VRAM__HF_DELTA) ? 2 * q : q, qkv);
    vram__hf_linear(h, c->hidden, kv, qkv);
    vram__hf_linear(h, c->hidden, kv, qkv);
  }
  vram__hf_linear(h, q, c->hidden, o);
  vram__hf_qk_norm(h);
  if (vram__hf_has(h, VRAM__HF_SINKS))
    vram__hf_add(h, c->heads, 1);
}

static void vram__hf_mlp(vram__hf *h, uint64_t width) {
  const uint64_t hidden = h->c->hidden;
  const int bias = vram__hf_mlp_bias(h);
  if (vram__hf_has(h, VRAM__HF_FUSED_UP))
    vram__hf_linear(h, hidden, 2 * width, bias);
  else {
    vram__hf_linear(h, hidden, width, bias);
    if (!vram__hf_has(h, VRAM__HF_PLAIN))
      vram__hf_linear(h, hidden, width, bias);
  }
  vram__hf_linear(h, width, hidden, bias);
  if (vram__hf_has(h, VRAM__HF_XIELU)) { /* and two buffers */
    vram__hf_add(h, 2, 1);
    h->tensors += 3;
  }
}

/* The width of what all tokens go through beside their experts. */
VRAM__FN uint64_t vram__hf_shared_width(vram__hf *h) {
  if (vram__hf_has(h, VRAM__HF_SHARED_GATE))
    return vram__hf_number(h, "shared_expert_intermediate_size", h->family->shared);
  if (vram__hf_has(h, VRAM__HF_SHARED_WIDTH))
    return vram__hf_number(h, "shared_intermediate_size", h->family->shared);
  return vram__product_or_overflow(
      h->c->expert_intermediate,
      vram__hf_number(h, vram__hf_name(h, "n_shared_experts", "moe_num_shared_experts", NULL),
                      h->family->shared));
}

static void vram__hf_shared(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const uint64_t width = vram__hf_shared_width(h);
  if (vram__hf_has(h, VRAM__HF_SHARED_GATE)) {
    vram__hf_mlp(h, width);
    vram__hf_linear(h, c->hidden, 1, 0);
  } else if (vram__hf_has(h, VRAM__HF_SHARED_WIDTH) && (width || vram__hf_has(h, VRAM__HF_BAMBA))) {
    vram__hf_linear(h, c->hidden, 2 * width, 0);
    vram__hf_linear(h, width, c->hidden, 0);
  } else if (width)
    vram__hf_mlp(h, width);
}

/* A router, the experts' matrices in one tensor each, and what all tokens go through. */
static void vram__hf_moe(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const uint64_t width = c->expert_intermediate;
  const int bias = vram__hf_has(h, VRAM__HF_SINKS);
  vram__hf_linear(h, c->hidden, c->experts, bias);
  vram__hf_add(h, vram__product_or_overflow(c->experts, 2 * width), c->hidden);
  vram__hf_add(h, vram__product_or_overflow(c->experts, width), c->hidden);
  if (bias) {
    vram__hf_add(h, c->experts, 2 * width);
    vram__hf_add(h, c->experts, c->hidden);
  }
  if (vram__hf_has(h, VRAM__HF_CORRECTION) && vram__hf_bool(h, "use_expert_bias", 1))
    h->tensors++;
  if (vram__hf_has(h, VRAM__HF_ERNIE_MOE))
    vram__hf_add(h, c->experts, 1); /* of moe_statics, without a gradient */
  vram__hf_shared(h);
}

/* One more layer keeps a state; those of a model are alike. */
static void vram__hf_state(vram__hf *h, uint64_t channels, uint64_t kernel, uint64_t matrix) {
  vram_hf_state *const s = &h->c->state;
  s->layers++;
  s->channels = channels;
  s->kernel = kernel;
  s->matrix = matrix;
}

VRAM__FN void vram__hf_mamba_sizes(vram__hf *h, vram__hf_ssm *s) {
  const int is_jamba = vram__hf_has(h, VRAM__HF_JAMBA);
  const uint64_t hidden = h->c->hidden,
                 wide = hidden * vram__hf_number(h, is_jamba ? "mamba_expand" : "expand", 2);
  const char *const rank = is_jamba ? "mamba_dt_rank" : "time_step_rank";
  const vram_file_value *const v = vram__hf_value(h, rank);
  vram__memory_zero(s, sizeof *s);
  s->inner = is_jamba ? wide : vram__hf_number(h, "intermediate_size", wide);
  s->state = vram__hf_number(h, is_jamba ? "mamba_d_state" : "state_size", 16);
  s->kernel = vram__hf_number(h, is_jamba ? "mamba_d_conv" : "conv_kernel", 4);
  s->rank = v && v->kind == VRAM_VALUE_TEXT ? (hidden + 15) / 16 /* "auto" */
                                            : vram__hf_number(h, rank, (hidden + 15) / 16);
  s->in_bias = s->out_bias = vram__hf_bool(h, is_jamba ? "mamba_proj_bias" : "use_bias", 0);
  s->conv_bias = vram__hf_bool(h, is_jamba ? "mamba_conv_bias" : "use_conv_bias", 1);
}

/* Mamba-1: what it takes of the layer's parameters, and its state. */
static void vram__hf_mamba(vram__hf *h) {
  vram_hf_config *const c = h->c;
  vram__hf_ssm s;
  vram__hf_mamba_sizes(h, &s);
  vram__hf_linear(h, c->hidden, 2 * s.inner, s.in_bias);
  vram__hf_linear(h, s.kernel, s.inner, s.conv_bias);
  vram__hf_linear(h, s.inner, s.rank + 2 * s.state, 0);
  vram__hf_linear(h, s.rank, s.inner, 1);
  vram__hf_add(h, s.inner, s.state);
  vram__hf_add(h, s.inner, 1);
  vram__hf_linear(h, s.inner, c->hidden, s.out_bias);
  if (vram__hf_has(h, VRAM__HF_JAMBA)) {
    vram__hf_add(h, s.rank, 1);
    vram__hf_add(h, s.state, 1);
    vram__hf_add(h, s.state, 1);
  }
  vram__hf_state(h, s.inner, s.kernel, vram__product_or_overflow(s.inner, s.state));
}

VRAM__FN void vram__hf_mamba2_sizes(vram__hf *h, vram__hf_ssm *s) {
  const int is_h1 = vram__hf_has(h, VRAM__HF_FALCON_H1),
            is_hybrid = is_h1 || vram__hf_has(h, VRAM__HF_BAMBA);
  const uint64_t wide = h->c->hidden * vram__hf_number(h, is_hybrid ? "mamba_expand" : "expand", 2);
  s->inner = is_h1 ? vram__hf_number_or(h, "mamba_d_ssm", 1024, wide) : wide;
  s->state = vram__hf_number(h, is_hybrid ? "mamba_d_state" : "state_size", is_hybrid ? 256 : 128);
  s->groups = vram__hf_number(h, is_hybrid ? "mamba_n_groups" : "n_groups", is_hybrid ? 1 : 8);
  s->kernel = vram__hf_number(h, is_hybrid ? "mamba_d_conv" : "conv_kernel", 4);
  s->heads = vram__hf_number(h, is_hybrid ? "mamba_n_heads" : "num_heads", 128);
  s->conv = s->inner + vram__product_or_overflow(2 * s->groups, s->state);
  s->chunk = vram__hf_number(h, is_hybrid ? "mamba_chunk_size" : "chunk_size", 256);
  s->in_bias = vram__hf_bool(h, is_hybrid ? "mamba_proj_bias" : "use_bias", 0);
  s->out_bias = is_h1 ? vram__hf_bool(h, "projectors_bias", 0) : s->in_bias;
  s->conv_bias = vram__hf_bool(h, is_hybrid ? "mamba_conv_bias" : "use_conv_bias", 1);
  s->has_norm = !is_h1 || vram__hf_bool(h, "mamba_rms_norm", 0);
}

/* Mamba-2, alone or in Falcon-H1 beside attention. The convolution goes along x, B and C. */
static void vram__hf_mamba2(vram__hf *h) {
  vram_hf_config *const c = h->c;
  vram__hf_ssm s;
  vram__hf_mamba2_sizes(h, &s);
  vram__hf_linear(h, c->hidden, s.inner + s.conv + s.heads, s.in_bias);
  vram__hf_add(h, s.conv, s.kernel);
  if (s.conv_bias)
    vram__hf_add(h, s.conv, 1);
  vram__hf_add(h, s.heads, 1); /* dt_bias, A_log, D */
  vram__hf_add(h, s.heads, 1);
  vram__hf_add(h, s.heads, 1);
  if (s.has_norm)
    vram__hf_add(h, s.inner, 1);
  vram__hf_linear(h, s.inner, c->hidden, s.out_bias);
  vram__hf_state(h, s.conv, s.kernel, vram__product_or_overflow(s.inner, s.state));
  c->state.groups = s.groups;
  c->state.group_channels = 2 * s.state;
  c->state.keeps_drafts = 1;
  c->state.is_buffered = (uint8_t)vram__hf_has(h, VRAM__HF_FALCON_H1 | VRAM__HF_BAMBA);
}

/* A gated delta net in the place of attention (Qwen3-Next, Qwen3.5). */
static void vram__hf_delta(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const uint64_t heads = vram__hf_number(h, "linear_num_value_heads", 32),
                 k_dim = vram__hf_number(h, "linear_key_head_dim", 128),
                 v_dim = vram__hf_number(h, "linear_value_head_dim", 128),
                 kernel = vram__hf_number(h, "linear_conv_kernel_dim", 4),
                 keys = vram__product_or_overflow(vram__hf_number(h, "linear_num_key_heads", 16),
                                                  k_dim),
                 values = heads * v_dim,
                 conv = vram__sum_or_overflow(vram__product_or_overflow(2, keys), values);
  vram__hf_add(h, conv, kernel);
  vram__hf_linear(h, c->hidden, vram__sum_or_overflow(conv, values), 0);
  vram__hf_linear(h, c->hidden, 2 * heads, 0);
  if (vram__hf_has(h, VRAM__HF_DELTA_SPLIT))
    h->tensors += 2;
  vram__hf_add(h, heads, 1); /* dt_bias, A_log */
  vram__hf_add(h, heads, 1);
  vram__hf_add(h, v_dim, 1);
  vram__hf_linear(h, values, c->hidden, 0);
  vram__hf_state(h, conv, kernel, vram__product_or_overflow(values, k_dim));
  c->state.is_delta = c->state.is_buffered = c->state.keeps_drafts = 1;
}

/* LFM2's convolution in the place of attention. */
static void vram__hf_short_conv(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const uint64_t kernel = vram__hf_number(h, "conv_L_cache", 3);
  const int bias = vram__hf_bool(h, "conv_bias", 0);
  vram__hf_linear(h, c->hidden, 3 * c->hidden, bias);
  vram__hf_add(h, c->hidden, kernel);
  if (bias)
    vram__hf_add(h, c->hidden, 1);
  vram__hf_linear(h, c->hidden, c->hidden, bias);
  vram__hf_state(h, c->hidden, kernel, 0);
}

/* ---- layers ---- */

static int vram__hf_array_holds(const vram__hf *h, const char *key, uint64_t what) {
  const vram_file_value *const v = vram__hf_value(h, key);
  uint64_t i;
  for (i = 0;
       v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_UINT && v->array && i < v->count;
       i++)
    if (((const uint64_t *)v->array)[i] == what)
      return 1;
  return 0;
}

/* Layer i as layer_types has it: its text; NULL: not said. */
static const vram_file_text *vram__hf_layer_type(vram__hf *h, uint64_t i) {
  const vram_file_value *const v =
      vram__hf_value(h, vram__hf_has(h, VRAM__HF_BAMBA)
                            ? vram__hf_name(h, "layers_block_type", "layer_types", NULL)
                            : "layer_types");
  if (!v || v->kind == VRAM_VALUE_NULL)
    return NULL;
  if (v->kind != VRAM_VALUE_ARRAY || v->of != VRAM_VALUE_TEXT || !v->array ||
      v->count < h->c->layers) {
    vram__hf_fail(h, VRAM_ERR_VALUE, "no list of a text for each layer is the key ", "layer_types");
    return NULL;
  }
  return (const vram_file_text *)v->array + i;
}

/* Bamba has a list of layers with attention, Granite one of what each layer has. */
static int vram__hf_bamba_attention(vram__hf *h, uint64_t i, const vram_file_text *type) {
  if (!vram__hf_has(h, VRAM__HF_SHARED_WIDTH))
    return vram__hf_array_holds(h, "attn_layer_indices", i);
  return type && type->count <= 64 &&
         (vram__text_is(type->text, (uint32_t)type->count, "attention") ||
          vram__text_is(type->text, (uint32_t)type->count, "full_attention"));
}

/* Has layer i attention, and does it slide? Otherwise it has a state. */
VRAM__FN int vram__hf_has_attention(vram__hf *h, uint64_t i) {
  const vram_file_text *const type = vram__hf_layer_type(h, i);
  const vram_file_value *const full = vram__hf_value(h, "full_attn_idxs");
  if (vram__hf_has(h, VRAM__HF_MAMBA | VRAM__HF_MAMBA2))
    return 0;
  if (vram__hf_has(h, VRAM__HF_BAMBA))
    return vram__hf_bamba_attention(h, i, type);
  if (vram__hf_has(h, VRAM__HF_JAMBA)) {
    const uint64_t period = vram__hf_number(h, "attn_layer_period", 8);
    return period && i % period == vram__hf_number(h, "attn_layer_offset", 4);
  }
  if (vram__hf_has(h, VRAM__HF_DELTA)) {
    const uint64_t period = vram__hf_number(h, "full_attention_interval", 4);
    return type ? type->count <= 64 &&
                      vram__text_is(type->text, (uint32_t)type->count, "full_attention")
                : period && (i + 1) % period == 0;
  }
  if (!vram__hf_has(h, VRAM__HF_LFM2))
    return 1;
  if (type)
    return type->count <= 64 && !vram__text_is(type->text, (uint32_t)type->count, "conv");
  if (vram__hf_has(h, VRAM__HF_MOE))
    vram__hf_fail(h, VRAM_ERR_VALUE, "a family that needs a list has no key ", "layer_types");
  return !full || full->kind == VRAM_VALUE_NULL || vram__hf_array_holds(h, "full_attn_idxs", i);
}

/* Llama 4, SmolLM 3: does layer i rotate? In Llama 4 it is such a layer that looks at chunks. */
VRAM__FN int vram__hf_rotates(vram__hf *h, uint64_t i) {
  const vram_file_value *const v = vram__hf_value(h, "no_rope_layers");
  const uint64_t period = vram__hf_number(h, "no_rope_layer_interval", 4);
  if (v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_UINT && v->array && i < v->count)
    return ((const uint64_t *)v->array)[i] != 0;
  return period && (i + 1) % period != 0;
}

VRAM__FN int vram__hf_slides(vram__hf *h, uint64_t i) {
  const vram_file_text *const type = vram__hf_layer_type(h, i);
  const uint32_t kind = h->family->sliding;
  uint64_t period = kind == VRAM__HF_PERIOD2 ? 2 : kind == VRAM__HF_PERIOD4 ? 4 : 6;
  if (kind == VRAM__HF_NO_WINDOW || !h->c->window)
    return 0;
  if (kind == VRAM__HF_ALL || kind == VRAM__HF_USED)
    return 1;
  if (type)
    return type->count <= 64 &&
           (vram__text_is(type->text, (uint32_t)type->count, "sliding_attention") ||
            vram__text_is(type->text, (uint32_t)type->count, "chunked_attention"));
  if (vram__hf_has(h, VRAM__HF_LLAMA4))
    return vram__hf_rotates(h, i);
  if (kind == VRAM__HF_BELOW)
    return i % 2 == 0 && i < vram__hf_number(h, "max_window_layers", 28);
  if (kind == VRAM__HF_ABOVE)
    return i >= vram__hf_number(h, "max_window_layers", 28);
  if (kind != VRAM__HF_PERIOD2)
    period = vram__hf_number(h, "sliding_window_pattern", period);
  return period && (i + 1) % period != 0;
}

/* ERNIE: a layer, or -1, the last one. */
static uint64_t vram__hf_last_moe(vram__hf *h) {
  const vram_file_value *const v = vram__hf_value(h, "moe_layer_end_index");
  return v && v->kind == VRAM_VALUE_INT && v->number.i == -1
             ? h->c->layers - 1
             : vram__hf_number(h, "moe_layer_end_index", h->c->layers - 1);
}

VRAM__FN int vram__hf_is_moe(vram__hf *h, uint64_t i) {
  const uint64_t step = vram__hf_number(h, "decoder_sparse_step", 1),
                 period = vram__hf_number(h, "expert_layer_period", 2);
  if (!h->c->experts || !vram__hf_has(h, VRAM__HF_MOE) ||
      i < vram__hf_number(h, vram__hf_name(h, "first_k_dense_replace", "num_dense_layers", NULL),
                          h->family->dense))
    return 0;
  if (vram__hf_has(h, VRAM__HF_JAMBA))
    return h->c->experts > 1 && period &&
           i % period == vram__hf_number(h, "expert_layer_offset", 1);
  if (vram__hf_has(h, VRAM__HF_LLAMA4)) {
    const vram_file_value *const v = vram__hf_value(h, "moe_layers");
    const uint64_t each = vram__hf_number(h, "interleave_moe_layer_step", 1);
    return v && v->kind == VRAM_VALUE_ARRAY ? vram__hf_array_holds(h, "moe_layers", i)
                                            : each && (i + 1) % each == 0;
  }
  if (vram__hf_has(h, VRAM__HF_ERNIE_MOE)) {
    const uint64_t each = vram__hf_number(h, "moe_layer_interval", 1);
    return each && (i + 1) % each == 0 && i >= vram__hf_number(h, "moe_layer_start_index", 1) &&
           i <= vram__hf_last_moe(h);
  }
  return step && (i + 1) % step == 0 && !vram__hf_array_holds(h, "mlp_only_layers", i);
}

static void vram__hf_layer(vram__hf *h, uint64_t i) {
  vram_hf_config *const c = h->c;
  uint32_t k, norms = h->family->norms;
  if (vram__hf_has(h, VRAM__HF_STABLELM) && vram__hf_bool(h, "use_parallel_residual", 0))
    norms = 1;
  if (vram__hf_has(h, VRAM__HF_FALCON) && vram__hf_bool(h, "parallel_attn", 1))
    norms = (uint32_t)vram__hf_number(h, "num_ln_in_parallel_attn",
                                      vram__hf_bool(h, "new_decoder_architecture", 0) ? 2 : 1) == 2
                ? 2
                : 1;
  if (vram__hf_has_attention(h, i)) {
    vram__hf_attention(h);
    if (vram__hf_slides(h, i))
      c->sliding_layers++;
    else
      c->full_layers++;
  } else
    c->state_layers++;
  if (vram__hf_has(h, VRAM__HF_FALCON_H1 | VRAM__HF_MAMBA2) ||
      (!vram__hf_has_attention(h, i) && vram__hf_has(h, VRAM__HF_BAMBA)))
    vram__hf_mamba2(h);
  else if (!vram__hf_has_attention(h, i) && vram__hf_has(h, VRAM__HF_LFM2))
    vram__hf_short_conv(h);
  else if (!vram__hf_has_attention(h, i) && vram__hf_has(h, VRAM__HF_DELTA))
    vram__hf_delta(h);
  else if (!vram__hf_has_attention(h, i))
    vram__hf_mamba(h);
  if (vram__hf_is_moe(h, i))
    vram__hf_moe(h);
  else if (vram__hf_has(h, VRAM__HF_BAMBA) && vram__hf_has(h, VRAM__HF_SHARED_WIDTH))
    vram__hf_shared(h);
  else if (!vram__hf_has(h, VRAM__HF_MAMBA | VRAM__HF_MAMBA2))
    vram__hf_mlp(h, vram__hf_has(h, VRAM__HF_LLAMA4)
                        ? vram__hf_number(h, "intermediate_size_mlp", 16384)
                        : c->intermediate);
  for (k = 0; k < norms; k++)
    vram__hf_norm(h, c->hidden);
}

/* ---- the whole ---- */

/* Gemma 3: SigLIP's tower with biases everywhere, and a projector of a matrix and a norm. */
static void vram__hf_vision(vram__hf *h) {
  const uint64_t text = h->c->hidden, before = h->params;
  uint64_t hidden, width, layers, patch, image, i, positions;
  const char *const prefix = h->prefix;
  h->prefix = "vision_config.";
  hidden = vram__hf_number(h, "hidden_size", 768);
  width = vram__hf_number(h, "intermediate_size", 3072);
  layers = vram__hf_number(h, "num_hidden_layers", 12);
  patch = vram__hf_number(h, "patch_size", 16);
  image = vram__hf_number(h, "image_size", 224);
  vram__hf_linear(h,
                  vram__product_or_overflow(vram__hf_number(h, "num_channels", 3), patch * patch),
                  hidden, 1);
  positions = patch ? image / patch : 0;
  if (vram__hf_bool(h, "vision_use_head", 1))
    vram__hf_fail(h, VRAM_ERR_UNSUPPORTED, "a vision tower with a head: ", "vision_use_head");
  if (layers > VRAM__HF_MAX_LAYERS || !patch)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no vision tower can be so: ", "vision_config");
  vram__hf_add(h, vram__product_or_overflow(positions, positions), hidden);
  for (i = 0; i < layers && !h->result; i++) {
    uint32_t k;
    for (k = 0; k < 4; k++)
      vram__hf_linear(h, hidden, hidden, 1);
    vram__hf_linear(h, hidden, width, 1);
    vram__hf_linear(h, width, hidden, 1);
    for (k = 0; k < 4; k++)
      vram__hf_add(h, hidden, 1); /* two norms and their biases */
  }
  vram__hf_add(h, hidden, 1);
  vram__hf_add(h, hidden, 1);
  vram__hf_add(h, hidden, text);
  vram__hf_add(h, hidden, 1);
  h->prefix = prefix;
  h->c->text_params = before;
}

VRAM__FN uint64_t vram__hf_embedding_width(vram__hf *h) {
  return vram__hf_has(h, VRAM__HF_OPT) ? vram__hf_number(h, "word_embed_proj_dim", h->c->hidden)
         : vram__hf_has(h, VRAM__HF_ELECTRA) ? vram__hf_number(h, "embedding_size", 128)
                                             : h->c->hidden;
}

/* Positions that are learned. */
VRAM__FN uint64_t vram__hf_positions(vram__hf *h) {
  const uint64_t none = vram__hf_has(h, VRAM__HF_ENCODER)          ? 512
                        : vram__hf_has(h, VRAM__HF_2048_POSITIONS) ? 2048
                                                                   : 1024;
  return vram__hf_number(h, vram__hf_name(h, "max_position_embeddings", "n_positions", NULL),
                         none) +
         (vram__hf_has(h, VRAM__HF_OPT) ? 2 : 0);
}

/* Classes that a model for classification tells apart: num_labels, or as many as id2label has. */
VRAM__FN uint64_t vram__hf_labels(vram__hf *h) {
  const vram_file_value *v;
  uint64_t n = 0;
  for (v = h->f->value_first; v; v = v->next)
    n += v->name_len > 9 && vram__text_equal(v->name, "id2label.", 9);
  return n ? n : vram__hf_number(h, "num_labels", 2);
}

/* Has the class a pooler? BERT's for classification has, RoBERTa's and the like have not. */
VRAM__FN int vram__hf_pools(const vram__hf *h) {
  return !vram__hf_has(h, VRAM__HF_DISTIL | VRAM__HF_ELECTRA) &&
         (h->head == VRAM__HF_BARE ||
          (h->head == VRAM__HF_CLASSES &&
           vram__text_is(h->family->type, vram__text_len(h->family->type), "bert")));
}

/* What the class of an encoder has behind its layers; width: of the embedding. */
static void vram__hf_encoder_head(vram__hf *h, uint64_t width) {
  const vram_hf_config *const c = h->c;
  const int pools = vram__hf_pools(h);
  if (pools)
    vram__hf_linear(h, c->hidden, c->hidden, 1);
  if (h->head == VRAM__HF_CLASSES) {
    if (!pools)
      vram__hf_linear(h, c->hidden, c->hidden, 1);
    vram__hf_linear(h, c->hidden, vram__hf_labels(h), 1);
  } else if (h->head == VRAM__HF_MASKED) {
    vram__hf_linear(h, c->hidden, width, 1);
    vram__hf_norm(h, width);
    if (c->is_tied)
      h->tensors++;
    else
      vram__hf_add(h, c->vocab, width);
    vram__hf_add(h, c->vocab, 1);
    if (vram__hf_has(h, VRAM__HF_DISTIL | VRAM__HF_ELECTRA))
      return;
    if (c->is_tied)
      h->tensors++; /* the bias is there under two names */
    else
      vram__hf_add(h, c->vocab, 1);
  }
}

/* Embeddings, what stands behind the layers, and the head. */
static void vram__hf_ends(vram__hf *h) {
  const vram_hf_config *const c = h->c;
  const int is_encoder = vram__hf_has(h, VRAM__HF_ENCODER), is_opt = vram__hf_has(h, VRAM__HF_OPT);
  const uint64_t width = vram__hf_embedding_width(h);
  vram__hf_add(h, c->vocab, width);
  if (vram__hf_has(h, VRAM__HF_POSITIONS))
    vram__hf_add(h, vram__hf_positions(h), is_opt ? c->hidden : width);
  if (is_encoder && !vram__hf_has(h, VRAM__HF_DISTIL))
    vram__hf_add(h, vram__hf_number(h, "type_vocab_size", 2), width);
  if (vram__hf_has(h, VRAM__HF_EMBED_NORM))
    vram__hf_norm(h, width);
  if (width != c->hidden) {
    vram__hf_linear(h, width, c->hidden, !is_opt);
    if (is_opt)
      vram__hf_linear(h, c->hidden, width, 0);
  }
  if (is_encoder) {
    vram__hf_encoder_head(h, width);
    return;
  }
  if (!is_opt || (vram__hf_bool(h, "do_layer_norm_before", 1) &&
                  !vram__hf_bool(h, "_remove_final_layer_norm", 0)))
    vram__hf_norm(h, c->hidden);
  if (c->is_tied)
    h->tensors++;
  else
    vram__hf_add(h, c->vocab, width);
  if (vram__hf_has(h, VRAM__HF_HEAD_BIAS) ||
      (vram__hf_has(h, VRAM__HF_HEAD_KEY) && vram__hf_bool(h, "lm_head_bias", 0)) ||
      (vram__hf_has(h, VRAM__HF_ERNIE_MOE) && vram__hf_bias_key(h)))
    vram__hf_add(h, c->vocab, 1);
}

static void vram__hf_experts(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const vram__hf_family *const w = h->family;
  if (!vram__hf_has(h, VRAM__HF_MOE))
    return;
  c->experts = vram__hf_number(
      h,
      vram__hf_has(h, VRAM__HF_ERNIE_MOE)
          ? "moe_num_experts"
          : vram__hf_name(h, "num_local_experts", "num_experts", "n_routed_experts"),
      w->experts);
  c->experts_used = vram__hf_number(h, "num_experts_per_tok", 0);
  c->expert_intermediate = w->expert_width
                               ? vram__hf_number(h, "moe_intermediate_size", w->expert_width)
                               : c->intermediate;
}

/* LFM2 makes its width from that of the file (Lfm2MLP). */
static void vram__hf_adjust_width(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const vram_file_value *const v = vram__hf_value(h, "block_ffn_dim_multiplier");
  const uint64_t multiple = vram__hf_number(h, "block_multiple_of", 256);
  c->intermediate = vram__hf_number(h, "block_ff_dim", c->intermediate);
  if (!vram__hf_bool(h, "block_auto_adjust_ff_dim", 1))
    return;
  c->intermediate = 2 * c->intermediate / 3;
  if (v && v->kind == VRAM_VALUE_FLOAT && v->number.f > 0 && v->number.f < 1024)
    c->intermediate = (uint64_t)(v->number.f * (double)c->intermediate);
  else if (v && v->kind == VRAM_VALUE_UINT && v->number.u < 1024)
    c->intermediate *= v->number.u;
  if (!multiple)
    vram__hf_fail(h, VRAM_ERR_VALUE, "0 is the key ", "block_multiple_of");
  else
    c->intermediate = (c->intermediate + multiple - 1) / multiple * multiple;
}

static void vram__hf_window(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const uint32_t kind = h->family->sliding;
  c->window = kind == VRAM__HF_NO_WINDOW
                  ? 0
                  : vram__hf_number_or(h,
                                       vram__hf_has(h, VRAM__HF_LLAMA4) ? "attention_chunk_size"
                                                                        : "sliding_window",
                                       h->family->window, 0);
  if ((kind == VRAM__HF_ABOVE || kind == VRAM__HF_USED || kind == VRAM__HF_BELOW) &&
      !vram__hf_bool(h, "use_sliding_window", 0))
    c->window = 0;
  if (kind == VRAM__HF_NO_WINDOW && vram__hf_bool(h, "use_sliding_window", 0))
    vram__hf_fail(h, VRAM_ERR_UNSUPPORTED, "not known of this family: ", "use_sliding_window");
}

/* The share of a head that is rotated. */
VRAM__FN double vram__hf_rotary_share(const vram__hf *h) {
  static const char *const key[] = {"partial_rotary_factor", "rotary_pct",
                                    "rope_scaling.partial_rotary_factor",
                                    "rope_parameters.partial_rotary_factor"};
  double share = vram__hf_has(h, VRAM__HF_ROTARY_HALF)      ? 0.5
                 : vram__hf_has(h, VRAM__HF_ROTARY_QUARTER) ? 0.25
                                                            : 1;
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_value(h, key[i]);
    if (v && v->kind == VRAM_VALUE_FLOAT)
      share = v->number.f;
    else if (v && v->kind == VRAM_VALUE_UINT)
      share = (double)v->number.u;
  }
  return share;
}

/* Is the rotated part of a head one number wide? Its cosines are two of them (arange(0, 1, 2),
   twice), which makes the keys of the cache one wider. */
static int vram__hf_rotates_one(vram__hf *h) {
  const double n = vram__hf_rotary_share(h) * (double)h->c->head_dim;
  return vram__hf_has(h, VRAM__HF_ROTARY_HALF | VRAM__HF_ROTARY_QUARTER) && n >= 1 && n < 2;
}

static void vram__hf_sizes(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const vram__hf_family *const w = h->family;
  c->vocab = vram__hf_number(h, "vocab_size", w->vocab);
  c->hidden = vram__hf_number(
      h, vram__hf_name(h, "hidden_size", "n_embd", vram__hf_name(h, "d_model", "dim", NULL)),
      w->hidden);
  c->layers = vram__hf_number(h,
                              vram__hf_name(h, "num_hidden_layers", "n_layer",
                                            vram__hf_name(h, "n_layers", "num_layers", NULL)),
                              w->layers);
  c->heads = vram__hf_number(h,
                             vram__hf_name(h, "num_attention_heads", "n_head",
                                           vram__hf_name(h, "n_heads", "num_heads", NULL)),
                             w->heads);
  if (!c->heads || !c->hidden || !c->vocab || !c->layers || c->layers > VRAM__HF_MAX_LAYERS) {
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "layers, heads, elements or words");
    return;
  }
  c->kv_heads =
      vram__hf_number_or(h, "num_key_value_heads", w->kv_heads ? w->kv_heads : c->heads, c->heads);
  if (vram__hf_has(h, VRAM__HF_FALCON) && vram__hf_bool(h, "new_decoder_architecture", 0))
    c->kv_heads = vram__hf_number(h, "num_kv_heads", c->heads);
  else if (vram__hf_has(h, VRAM__HF_ONE_KV) && vram__hf_bool(h, "multi_query", 1))
    c->kv_heads = 1;
  c->head_dim = vram__hf_number_or(h, "head_dim", w->head_dim ? w->head_dim : c->hidden / c->heads,
                                   c->hidden / c->heads);
  c->v_head_dim = c->head_dim;
  if (vram__hf_rotates_one(h))
    vram__hf_fail(h, VRAM_ERR_UNSUPPORTED,
                  "one number of a head is rotated: ", "partial_rotary_factor");
  c->intermediate = vram__hf_number_or(
      h,
      vram__hf_name(h, "intermediate_size", "n_inner",
                    vram__hf_name(h, "ffn_dim", "ffn_hidden_size", "hidden_dim")),
      w->intermediate ? w->intermediate : 4 * c->hidden, 4 * c->hidden);
  if (vram__hf_has(h, VRAM__HF_LFM2) && !vram__hf_has(h, VRAM__HF_MOE))
    vram__hf_adjust_width(h);
  if (vram__hf_has(h, VRAM__HF_MLA)) {
    c->q_lora_rank = vram__hf_number_or(h, "q_lora_rank", 1536, 0);
    c->kv_lora_rank = vram__hf_number(h, "kv_lora_rank", 512);
    c->rope_head_dim = vram__hf_number(h, "qk_rope_head_dim", 64);
    c->v_head_dim = vram__hf_number(h, "v_head_dim", 128);
  }
  c->is_tied = (uint8_t)vram__hf_bool(h, "tie_word_embeddings", w->is_tied);
  if (vram__hf_has(h, VRAM__HF_LFM2))
    c->is_tied = (uint8_t)vram__hf_bool(h, "tie_embedding", c->is_tied);
  vram__hf_window(h);
  vram__hf_experts(h);
}

static vram_dtype vram__hf_dtype_of(vram__hf *h, const vram_file_value *v, const char *name) {
  const vram_dtype dtype = v->kind == VRAM_VALUE_TEXT && v->count < 32
                               ? vram_dtype_from_name_n(v->text, (size_t)v->count)
                               : VRAM_DTYPE_NONE;
  if (dtype == VRAM_DTYPE_NONE || vram_dtype_get_info(dtype)->block_elements > 1)
    vram__hf_fail(h, VRAM_ERR_DTYPE, "no dtype is the key ", name);
  return dtype;
}

/* What an engine is to keep states in. */
static void vram__hf_ssm_dtype(vram__hf *h) {
  const vram_file_value *const v = vram__hf_value(h, "mamba_ssm_dtype");
  h->c->ssm_dtype = VRAM_DTYPE_NONE;
  h->c->serves_ssm_dtype = (uint8_t)vram__hf_has(h, VRAM__HF_DELTA_SPLIT);
  if (v && v->kind != VRAM_VALUE_NULL)
    h->c->ssm_dtype = vram__hf_dtype_of(h, v, "mamba_ssm_dtype");
}

static void vram__hf_dtype(vram__hf *h) {
  const vram_file_value *v = vram__hf_at(h->f, "", "dtype");
  if (!v || v->kind == VRAM_VALUE_NULL)
    v = vram__hf_at(h->f, "", "torch_dtype");
  if (!v || v->kind == VRAM_VALUE_NULL)
    v = vram__hf_value(h, vram__hf_name(h, "dtype", "torch_dtype", NULL));
  h->c->dtype = VRAM_F32;
  if (!v || v->kind == VRAM_VALUE_NULL)
    return;
  h->c->dtype = vram__hf_dtype_of(h, v, "dtype");
}

/* The class that `architectures` names first. */
VRAM__FN const vram_file_text *vram__hf_class_name(vram__hf *h) {
  const vram_file_value *const v = vram__hf_at(h->f, "", "architectures");
  if (!v || v->kind != VRAM_VALUE_ARRAY || !v->count)
    return NULL;
  if (v->of == VRAM_VALUE_TEXT && v->array)
    return (const vram_file_text *)v->array;
  vram__hf_fail(h, VRAM_ERR_VALUE, "no list of texts is the key ", "architectures");
  return NULL;
}

VRAM__FN void vram__hf_no_class(vram__hf *h, const vram_file_text *name) {
  if (h->result)
    return;
  vram__hf_fail(h, VRAM_ERR_UNSUPPORTED, "no class that is known of this family: ", "");
  vram__error_quote(h->e, name->text, name->count < 64 ? (uint32_t)name->count : 64u);
}

/* The class: a decoder with its head, or an encoder with one of its heads or none. */
static void vram__hf_class(vram__hf *h) {
  static const char *const encoder[] = {"Model", "ForMaskedLM", "ForSequenceClassification"};
  static const char *const decoder[] = {"ForCausalLM", "LMHeadModel", "ForConditionalGeneration"};
  const vram_file_text *const name = vram__hf_class_name(h);
  uint32_t i;
  if (!name)
    return;
  for (i = 0; i < 3 && vram__hf_has(h, VRAM__HF_ENCODER); i++) {
    const uint32_t n = vram__text_len(encoder[i]);
    h->head = (uint8_t)i;
    if (name->count > n && vram__text_equal(name->text + name->count - n, encoder[i], n))
      return;
  }
  for (i = 0; i < 3 && !vram__hf_has(h, VRAM__HF_ENCODER); i++) {
    const uint32_t n = vram__text_len(decoder[i]);
    if (name->count > n && vram__text_equal(name->text + name->count - n, decoder[i], n) &&
        (i == 2) == vram__hf_has(h, VRAM__HF_VISION))
      return;
  }
  vram__hf_no_class(h, name);
}

/* The family, and where its keys are: of a model for images below text_config. */
static void vram__hf_begin(vram__hf *h) {
  const vram_file_value *const outer = vram__hf_at(h->f, "", "model_type");
  h->prefix = "";
  if (h->f->format != VRAM_FILE_CONFIG || !outer || outer->kind != VRAM_VALUE_TEXT) {
    vram__hf_fail(h, VRAM_ERR_UNSUPPORTED, "no config.json with a key ", "model_type");
    return;
  }
  h->family = vram__hf_find(outer->text, outer->count);
  if (!h->family) {
    vram__hf_fail(h, VRAM_ERR_UNSUPPORTED, "no family that is known is model_type ", "");
    vram__error_quote(h->e, outer->text, outer->count < 64 ? (uint32_t)outer->count : 64u);
    return;
  }
  if (vram__hf_has(h, VRAM__HF_VISION))
    h->prefix = "text_config.";
  if (vram__hf_has(h, VRAM__HF_PAIR | VRAM__HF_TOWERS))
    vram__hf_pair_class(h);
  else
    vram__hf_class(h);
}

static void vram__hf_totals(vram__hf *h) {
  vram_hf_config *const c = h->c;
  const vram_file_value *const q = vram__hf_at(h->f, "", "quantization_config.quant_method");
  const int repeats = /* before the cache: FalconAttention._split_heads */
      vram__hf_has(h, VRAM__HF_FALCON) && vram__hf_bool(h, "new_decoder_architecture", 0);
  const uint64_t element = vram_dtype_get_info(c->dtype)->block_bytes;
  c->cache_heads = repeats ? c->heads : c->kv_heads;
  c->params = h->params;
  c->state_tensors = h->tensors;
  c->params_bytes = vram__product_or_overflow(h->params, element);
  if (!c->sliding_layers)
    c->window = 0;
  if (q && q->kind == VRAM_VALUE_TEXT && q->count <= UINT32_MAX) {
    c->quantised = q->text;
    c->quantised_len = (uint32_t)q->count;
  }
  c->is_chunked = (uint8_t)vram__hf_has(h, VRAM__HF_LLAMA4);
  c->has_pool = (uint8_t)vram__hf_has(h, VRAM__HF_SINKS);
  if (!vram__hf_cache_totals(c) || c->params_bytes > (uint64_t)VRAM_MAX_BYTES)
    vram__hf_fail(h, VRAM_ERR_OVERFLOW, "more than 2^63-1 bytes of ", "parameters or cache");
}

/* Decoders, and encoders of texts. */
static void vram__hf_read_layers(vram__hf *h) {
  uint64_t i;
  vram__hf_sizes(h);
  vram__hf_ssm_dtype(h);
  if (!h->result)
    vram__hf_ends(h);
  for (i = 0; !h->result && i < h->c->layers; i++)
    vram__hf_layer(h, i);
  h->c->text_params = h->params;
  if (!h->result && vram__hf_has(h, VRAM__HF_VISION))
    vram__hf_vision(h);
}

VRAM__FN void vram__hf_read(vram__hf *h, const vram_file *f, vram_hf_config *c, vram_error *e) {
  vram__memory_zero(h, sizeof *h);
  vram__memory_zero(c, sizeof *c);
  h->f = f;
  h->c = c;
  h->e = e;
  vram__hf_begin(h);
  if (h->result)
    return;
  c->family = h->family->type;
  vram__hf_dtype(h);
  if (vram__hf_has(h, VRAM__HF_PAIR | VRAM__HF_TOWERS))
    vram__hf_pair_read(h);
  else
    vram__hf_read_layers(h);
  if (!h->result)
    vram__hf_totals(h);
}

VRAM_API vram_result vram_hf_config_read(const vram_file *f, vram_hf_config *c, vram_error *e) {
  vram__hf h;
  vram__error_clear(e);
  vram__hf_read(&h, f, c, e);
  return h.result;
}
