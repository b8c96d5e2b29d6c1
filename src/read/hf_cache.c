/* >>read/hf_cache    caches and states of a config.json as rows: transformers', a serving engine's
 */
#include "read/read.h"

/* Attention's rows. */
static uint32_t vram__hf_attention_rows(const vram_hf_config *c, uint64_t heads, vram_dtype dtype,
                                        vram_kv_layer *row) {
  uint32_t n = 0, i;
  for (i = 0; i < 2; i++) {
    vram_kv_layer *const l = row + n;
    l->count = (uint32_t)(i ? c->sliding_layers : c->full_layers);
    if (!l->count)
      continue;
    l->kind = i                 ? c->is_chunked ? VRAM_KV_CHUNKED : VRAM_KV_SLIDING
              : c->kv_lora_rank ? VRAM_KV_LATENT
                                : VRAM_KV_FULL;
    l->heads = c->kv_lora_rank ? 1 : (uint32_t)heads;
    l->k_dim = (uint32_t)(c->kv_lora_rank ? c->kv_lora_rank + c->rope_head_dim : c->head_dim);
    l->v_dim = c->kv_lora_rank ? 0 : (uint32_t)c->head_dim;
    l->k = l->v = dtype;
    l->window = i ? c->window : 0;
    n++;
  }
  return n;
}

/* A row of states: a convolution of so many columns, and what is recurrent, if anything. */
static uint32_t vram__hf_state_row(const vram_hf_state *s, uint64_t channels, uint64_t columns,
                                   vram_dtype conv, vram_dtype matrix, vram_kv_layer *l) {
  if (!s->layers)
    return 0;
  l->kind = VRAM_KV_STATE;
  l->count = (uint32_t)s->layers;
  l->nstate = s->matrix ? 2 : 1;
  l->state[0] = conv;
  l->state_elements[0] = vram__product_or_overflow(channels, columns);
  l->state[1] = matrix;
  l->state_elements[1] = s->matrix;
  return 1;
}

/* EncoderDecoderCache: what layers of a decoder keep of the encoder's tokens. Of texts there are as
   many as the decoder's; Whisper's are always those of 30 seconds. */
static uint32_t vram__hf_cross_row(const vram_hf_config *c, vram_dtype dtype, vram_kv_layer *l) {
  if (!c->cross_layers)
    return 0;
  l->count = (uint32_t)c->cross_layers;
  if (c->cross_tokens) {
    l->kind = VRAM_KV_STATE;
    l->nstate = 1;
    l->state[0] = dtype;
    l->state_elements[0] = vram__product_or_overflow(2 * c->cross_tokens, c->heads * c->head_dim);
  } else {
    l->kind = VRAM_KV_FULL;
    l->heads = (uint32_t)c->heads;
    l->k_dim = l->v_dim = (uint32_t)c->head_dim;
    l->k = l->v = dtype;
  }
  return 1;
}

/* cache_utils.py: LinearAttentionLayer keeps all columns of the kernel; what is recurrent is
   computed, and kept, in f32 (all families here). */
VRAM_API uint32_t vram_hf_kv_rows(const vram_hf_config *c, vram_dtype dtype,
                                  vram_kv_layer row[VRAM_HF_KV_ROWS]) {
  uint32_t n;
  vram__memory_zero(row, VRAM_HF_KV_ROWS * sizeof *row);
  n = vram__hf_attention_rows(c, c->cache_heads, dtype, row);
  n += vram__hf_cross_row(c, dtype, row + n);
  return n + vram__hf_state_row(&c->state, c->state.channels, c->state.kernel, dtype, VRAM_F32,
                                row + n);
}

/* vLLM 0.33: model_executor/layers/mamba/mamba_utils.py (shapes: a convolution has one column less
   than its kernel, and one more for each token of a draft but in Mamba-1 and LFM2; groups that do
   not divide are copied for each rank), model_executor/models/config.py (dtypes: the model's, but
   Qwen3.5's mamba_ssm_dtype). SGLang 0.5.23: configs/mamba_utils.py (bf16 and mamba_ssm_dtype,
   f32 where there is none; drafts are kept elsewhere), configs/model_config.py
   (is_hybrid_swa_model: which windows have a pool of their own). */
VRAM_API uint32_t vram_hf_serve_rows(const vram_hf_config *c, const vram_hf_served *s,
                                     vram_kv_layer row[VRAM_HF_KV_ROWS]) {
  const vram_hf_state *const y = &c->state;
  const uint32_t tp = s->tp ? s->tp : 1;
  const int is_vllm = s->engine == VRAM_ENGINE_VLLM;
  const vram_dtype named = c->ssm_dtype;
  vram_dtype conv = s->dtype, matrix = is_vllm ? s->dtype : VRAM_F32;
  uint64_t channels = y->channels, columns = y->kernel ? y->kernel - 1 : 0;
  uint32_t n, i;
  vram__memory_zero(row, VRAM_HF_KV_ROWS * sizeof *row);
  n = vram__hf_attention_rows(c, c->kv_heads, s->dtype, row);
  for (i = 0; !is_vllm && !c->has_pool && i < n; i++)
    if (row[i].window)
      row[i].kind = VRAM_KV_FULL;
  if (!is_vllm)
    conv = VRAM_BF16;
  if (named != VRAM_DTYPE_NONE && (!is_vllm || c->serves_ssm_dtype))
    matrix = named;
  if (is_vllm && y->keeps_drafts)
    columns += s->draft;
  if (y->groups && y->groups % tp && y->groups < tp)
    channels = vram__sum_or_overflow(channels,
                                     vram__product_or_overflow(tp - y->groups, y->group_channels));
  return n + vram__hf_state_row(y, channels, columns, conv, matrix, row + n);
}

/* Sums that follow from the rows; 0: too many. */
VRAM__FN int vram__hf_cache_totals(vram_hf_config *c) {
  vram_kv_layer row[VRAM_HF_KV_ROWS];
  vram_kv kv = VRAM_ZERO_INIT;
  vram_kv_report r;
  uint64_t one = 0;
  kv.layer = row;
  kv.nlayer = vram_hf_kv_rows(c, c->dtype, row);
  if (vram_kv_bytes(&kv, 1, 1, &r, NULL))
    return 0;
  c->conv_elements = vram__product_or_overflow(
      c->state.layers, vram__product_or_overflow(c->state.channels, c->state.kernel));
  c->ssm_elements = vram__product_or_overflow(c->state.layers, c->state.matrix);
  c->kv_bytes_per_token = r.token_bytes;
  c->state_bytes = r.state_bytes;
  if (kv.nlayer && row[0].kind != VRAM_KV_STATE)
    vram_kv_layer_bytes(row, 1, &one);
  c->kv_bytes_per_token_layer = one;
  return c->kv_bytes_per_token <= (uint64_t)VRAM_MAX_BYTES &&
         c->state_bytes <= (uint64_t)VRAM_MAX_BYTES;
}

VRAM_API uint64_t vram_hf_kv_cache_bytes(const vram_hf_config *c, uint64_t ctx, uint64_t slots) {
  vram_kv_layer row[VRAM_HF_KV_ROWS];
  vram_kv kv = VRAM_ZERO_INIT;
  vram_kv_report r;
  vram__memory_zero(row, sizeof row);
  kv.layer = row;
  kv.nlayer = vram__hf_attention_rows(c, c->cache_heads, c->dtype, row);
  if (!c->cross_tokens)
    kv.nlayer += vram__hf_cross_row(c, c->dtype, row + kv.nlayer);
  return vram_kv_bytes(&kv, ctx, slots, &r, NULL) ? VRAM_OVERFLOW : r.total_bytes;
}
