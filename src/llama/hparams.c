/* >>llama/hparams    hyperparameters of a GGUF file (llama.cpp: llama-model.cpp, load_hparams)
   The keys of an architecture begin with its name; a number of each layer is an array, or one
   number for all. */
#include "llama/llama.h"

enum { VRAM__LLAMA_KEY = 160 };

VRAM__FN const vram_file_value *vram__llama_get(const vram__llama *l, const char *key) {
  char name[VRAM__LLAMA_KEY];
  uint32_t n = 0;
  vram__text_put(name, sizeof name, &n, l->arch, l->arch_len);
  vram__text_puts(name, sizeof name, &n, ".");
  vram__text_puts(name, sizeof name, &n, key);
  return vram_file_get(l->file, name, n);
}

/* Is a value, or each of an array, a uint64_t or int64_t: a number or a flag? */
VRAM__FN int vram__llama_is_whole(uint32_t kind) {
  return kind == VRAM_VALUE_UINT || kind == VRAM_VALUE_INT || kind == VRAM_VALUE_BOOL;
}

/* 0: missing, or no number. */
VRAM__FN double vram__llama_real(const vram__llama *l, const char *key) {
  const vram_file_value *const v = vram__llama_get(l, key);
  if (!v)
    return 0;
  if (v->kind == VRAM_VALUE_FLOAT)
    return v->number.f;
  return v->kind == VRAM_VALUE_INT                                  ? (double)v->number.i
         : v->kind == VRAM_VALUE_UINT || v->kind == VRAM_VALUE_BOOL ? (double)v->number.u
                                                                    : 0;
}

static vram_result vram__llama_refuse(const vram__llama *l, vram_error *e, const char *key,
                                      const char *text) {
  vram__error_begin(e, VRAM_ERR_VALUE, 0, "key '");
  vram__error_quote(e, l->arch, l->arch_len);
  vram__error_text(e, ".");
  vram__error_text(e, key);
  vram__error_text(e, text);
  return VRAM_ERR_VALUE;
}

/* 0: no whole number from 0 to 2^31 - 1. */
static int vram__llama_is_count(uint32_t kind, uint64_t u) {
  return (kind == VRAM_VALUE_UINT || kind == VRAM_VALUE_INT) && u <= INT32_MAX;
}

/* Keys that are read by their values alone: of what kind they must be. llama.cpp stops at a key of
   another type, too (llama-model-loader.cpp, GGUFMeta::GKV::get_kv), if its architecture has it. */
typedef enum vram__llama_kind {
  VRAM__LLAMA_FLAG,
  VRAM__LLAMA_COUNT,
  VRAM__LLAMA_FLOAT,
  VRAM__LLAMA_FLOATS /* of each layer, or one for all */
} vram__llama_kind;

static const struct {
  const char *key;
  vram__llama_kind kind;
} vram__llama_kinds[] = {
    {"attention.causal", VRAM__LLAMA_FLAG},
    {"use_parallel_residual", VRAM__LLAMA_FLAG},
    {"swin_norm", VRAM__LLAMA_FLAG},
    {"rope.scaling.finetuned", VRAM__LLAMA_FLAG},
    {"expert_weights_norm", VRAM__LLAMA_FLAG},
    {"ssm.dt_b_c_rms", VRAM__LLAMA_FLAG},
    {"pooling_type", VRAM__LLAMA_COUNT},
    {"classifier.pooling_type", VRAM__LLAMA_COUNT},
    {"n_deepstack_layers", VRAM__LLAMA_COUNT},
    {"leading_dense_block_count", VRAM__LLAMA_COUNT},
    {"attention.indexer.top_k", VRAM__LLAMA_COUNT},
    {"experts_per_group", VRAM__LLAMA_COUNT},
    {"rescale_every_n_layers", VRAM__LLAMA_COUNT},
    {"num_loops", VRAM__LLAMA_COUNT},
    {"attention.max_alibi_bias", VRAM__LLAMA_FLOAT},
    {"attention.clamp_kqv", VRAM__LLAMA_FLOAT},
    {"attention.temperature_scale", VRAM__LLAMA_FLOAT},
    {"attention.value_scale", VRAM__LLAMA_FLOAT},
    {"attention.layer_norm_rms_epsilon", VRAM__LLAMA_FLOAT},
    {"residual_scale", VRAM__LLAMA_FLOAT},
    {"embedding_scale", VRAM__LLAMA_FLOAT},
    {"expert_weights_scale", VRAM__LLAMA_FLOAT},
    {"swiglu_clamp_exp", VRAM__LLAMA_FLOATS},
    {"swiglu_clamp_shexp", VRAM__LLAMA_FLOATS},
};

static int vram__llama_is_kind(const vram_file_value *v, vram__llama_kind kind) {
  switch (kind) {
  case VRAM__LLAMA_FLAG:
    return v->kind == VRAM_VALUE_BOOL;
  case VRAM__LLAMA_COUNT:
    return vram__llama_is_count(v->kind, v->number.u);
  case VRAM__LLAMA_FLOATS:
    if (v->kind == VRAM_VALUE_ARRAY)
      return v->of == VRAM_VALUE_FLOAT;
    /* fall through */
  default:
    return v->kind == VRAM_VALUE_FLOAT;
  }
}

static vram_result vram__llama_check_kinds(const vram__llama *l, vram_error *e) {
  static const char *const expected[] = {
      "': true or false is expected", "': a number from 0 to 2^31-1 is expected",
      "': a floating-point number is expected", "': floating-point numbers are expected"};
  size_t i;
  for (i = 0; i < sizeof vram__llama_kinds / sizeof *vram__llama_kinds; i++) {
    const char *const key = vram__llama_kinds[i].key;
    const vram_file_value *const v = vram__llama_get(l, key);
    if (v && !vram__llama_is_kind(v, vram__llama_kinds[i].kind))
      return vram__llama_refuse(l, e, key, expected[vram__llama_kinds[i].kind]);
  }
  return VRAM_OK;
}

/* What the file does not have stays as it is. */
static vram_result vram__llama_number(const vram__llama *l, const char *key, uint32_t *to,
                                      vram_error *e) {
  const vram_file_value *const v = vram__llama_get(l, key);
  if (!v)
    return VRAM_OK;
  if (!vram__llama_is_count(v->kind, v->number.u))
    return vram__llama_refuse(l, e, key, "': a number from 0 to 2^31-1 is expected");
  *to = (uint32_t)v->number.u;
  return VRAM_OK;
}

/* A number of each layer, or a flag, into what lies at `offset` in each. */
static vram_result vram__llama_each(vram__llama *l, const char *key, uint64_t offset, int is_flag,
                                    vram_error *e) {
  const vram_file_value *const v = vram__llama_get(l, key);
  const uint64_t *many;
  uint32_t i, kind;
  if (!v)
    return VRAM_OK;
  many = v->kind == VRAM_VALUE_ARRAY ? (const uint64_t *)v->array : NULL;
  kind = many ? v->of : v->kind;
  if (v->kind == VRAM_VALUE_ARRAY && (!many || v->count < l->n_layer))
    return vram__llama_refuse(l, e, key, "': a number for each layer is expected");
  for (i = 0; i < l->n_layer; i++) {
    const uint64_t u = many ? many[i] : v->number.u;
    const uint32_t n = (uint32_t)u;
    if (!vram__llama_is_count(kind, u) && !(kind == VRAM_VALUE_BOOL && (is_flag || many)))
      return vram__llama_refuse(l, e, key, "': numbers from 0 to 2^31-1 are expected");
    vram__memory_copy((char *)(l->layer + i) + offset, &n, sizeof n);
  }
  return VRAM_OK;
}

static const struct {
  const char *key;
  size_t offset;
} vram__llama_keys[] = {
    {"context_length", offsetof(vram__llama, n_ctx_train)},
    {"embedding_length", offsetof(vram__llama, n_embd)},
    {"embedding_length_out", offsetof(vram__llama, n_embd_out)},
    {"vocab_size", offsetof(vram__llama, n_vocab)},
    {"nextn_predict_layers", offsetof(vram__llama, n_layer_nextn)},
    {"expert_count", offsetof(vram__llama, n_expert)},
    {"expert_used_count", offsetof(vram__llama, n_expert_used)},
    {"expert_group_count", offsetof(vram__llama, n_expert_group)},
    {"expert_group_used_count", offsetof(vram__llama, n_group_used)},
    {"expert_gating_func", offsetof(vram__llama, expert_gating)},
    {"attention.kv_lora_rank", offsetof(vram__llama, n_lora_kv)},
    {"attention.key_length_mla", offsetof(vram__llama, head_k_mla)},
    {"attention.sliding_window", offsetof(vram__llama, n_swa)},
    {"attention.shared_kv_layers", offsetof(vram__llama, n_layer_shared_kv)},
    {"attention.indexer.key_length", offsetof(vram__llama, indexer_head_size)},
    {"ssm.conv_kernel", offsetof(vram__llama, ssm_d_conv)},
    {"ssm.inner_size", offsetof(vram__llama, ssm_d_inner)},
    {"ssm.state_size", offsetof(vram__llama, ssm_d_state)},
    {"ssm.time_step_rank", offsetof(vram__llama, ssm_dt_rank)},
    {"ssm.group_count", offsetof(vram__llama, ssm_n_group)},
    {"kda.head_dim", offsetof(vram__llama, kda_head_size)},
    {"shortconv.l_cache", offsetof(vram__llama, shortconv_l_cache)},
    {"wkv.head_size", offsetof(vram__llama, wkv_head_size)},
    {"token_shift_count", offsetof(vram__llama, token_shift_count)},
    {"full_attention_interval", offsetof(vram__llama, full_attention_interval)},
};

/* How many words the vocabulary has. */
static void vram__llama_vocabulary(vram__llama *l) {
  static const char tokens[] = "tokenizer.ggml.tokens", table[] = "token_embd.weight";
  const vram_file_value *const v = vram_file_get(l->file, tokens, sizeof tokens - 1);
  const vram_file_tensor *const t = vram_file_find(l->file, table, sizeof table - 1);
  if (v && v->kind == VRAM_VALUE_ARRAY && v->count <= INT32_MAX)
    l->n_vocab = (uint32_t)v->count;
  else if (!l->n_vocab && t && t->ndim == 2 && t->size[0] <= INT32_MAX)
    l->n_vocab = (uint32_t)t->size[0];
}

static vram_result vram__llama_numbers(vram__llama *l, vram_error *e) {
  uint32_t i;
  l->full_attention_interval = 4;
  l->token_shift_count = 2;
  l->n_swa = l->row->window;
  for (i = 0; i < sizeof vram__llama_keys / sizeof *vram__llama_keys; i++) {
    uint32_t *const to = (uint32_t *)(void *)((char *)l + vram__llama_keys[i].offset);
    if (vram__llama_number(l, vram__llama_keys[i].key, to, e))
      return VRAM_ERR_VALUE;
  }
  if (!l->n_embd)
    return vram__llama_refuse(l, e, "embedding_length", "' is missing or 0");
  if (l->n_swa && (l->row->flags & VRAM__LLAMA_CHUNKED))
    l->n_swa = l->row->window; /* src/models/llama4.cpp: whatever the file has */
  if (!l->n_embd_out)
    l->n_embd_out = l->n_embd;
  if (l->n_expert > VRAM__LLAMA_EXPERTS)
    return vram__llama_refuse(l, e, "expert_count", "': more than 1024 experts");
  if (l->n_layer_nextn >= l->n_layer)
    return vram__llama_refuse(l, e, "nextn_predict_layers", "': as many as there are layers");
  if (vram__llama_real(l, "num_loops") > 1)
    return vram__llama_refuse(l, e, "num_loops", "': layers that run again are not counted");
  if (!l->full_attention_interval)
    return vram__llama_refuse(l, e, "full_attention_interval", "' is 0");
  vram__llama_vocabulary(l);
  return VRAM_OK;
}

/* Sizes of heads; models without attention have none (n_head of the first layer is 0). */
static vram_result vram__llama_heads(vram__llama *l, vram_error *e) {
  const uint32_t heads = l->layer[0].n_head;
  uint32_t i, n_rot;
  if (heads) {
    l->head_k = l->n_embd / heads;
    l->head_v = l->head_k;
    if (vram__llama_number(l, "attention.key_length", &l->head_k, e) ||
        vram__llama_number(l, "attention.value_length", &l->head_v, e))
      return VRAM_ERR_VALUE;
  }
  l->head_k_swa = l->head_k;
  l->head_v_swa = l->head_v;
  n_rot = l->head_k;
  if (vram__llama_number(l, "attention.key_length_swa", &l->head_k_swa, e) ||
      vram__llama_number(l, "attention.value_length_swa", &l->head_v_swa, e) ||
      vram__llama_number(l, "rope.dimension_count", &n_rot, e))
    return VRAM_ERR_VALUE;
  for (i = 0; i < l->n_layer; i++) {
    vram__llama_layer *const y = l->layer + i;
    y->head_k = y->slides ? l->head_k_swa : l->head_k;
    y->head_v = y->slides ? l->head_v_swa : l->head_v;
    y->n_rot = n_rot;
    if (y->slides && vram__llama_number(l, "rope.dimension_count_swa", &y->n_rot, e))
      return VRAM_ERR_VALUE;
  }
  return VRAM_OK;
}

/* Which layers slide: as the file has them one by one, or by a period. */
static vram_result vram__llama_sliding(vram__llama *l, vram_error *e) {
  static const char key[] = "attention.sliding_window_pattern";
  const vram_file_value *const v = vram__llama_get(l, key);
  uint32_t i, period = l->row->period;
  const int is_each = v && v->kind == VRAM_VALUE_ARRAY;
  if (!l->n_swa || (!period && !is_each)) {
    l->n_swa = 0;
    return VRAM_OK;
  }
  if (is_each && (!v->array || v->count < l->n_layer || !vram__llama_is_whole(v->of)))
    return vram__llama_refuse(l, e, key, "': a number for each layer is expected");
  if (!is_each && vram__llama_number(l, key, &period, e))
    return VRAM_ERR_VALUE;
  for (i = 0; i < l->n_layer; i++)
    if (is_each)
      l->layer[i].slides = ((const uint64_t *)v->array)[i] != 0;
    else if (l->row->flags & VRAM__LLAMA_DENSE_FIRST)
      l->layer[i].slides = !period || i % period != 0;
    else
      l->layer[i].slides = !period || i % period < period - 1;
  return VRAM_OK;
}

static int vram__llama_is_recurrent(const vram__llama *l, uint32_t i) {
  const vram__llama_layer *const y = l->layer + i;
  switch (l->row->recurrent) {
  case VRAM__LLAMA_LAYERS_ALL:
    return 1;
  case VRAM__LLAMA_LAYERS_NO_KV:
    return !y->n_head_kv;
  case VRAM__LLAMA_LAYERS_NO_KV_NO_FF:
    return !y->n_head_kv && !y->n_ff;
  case VRAM__LLAMA_LAYERS_INTERVAL:
    return (i + 1) % l->full_attention_interval != 0;
  default:
    return 0;
  }
}

/* llama-hparams.cpp: n_embd_r, n_embd_s */
static vram_result vram__llama_states(vram__llama *l, vram_error *e) {
  const uint64_t conv = l->ssm_d_conv ? l->ssm_d_conv - 1 : 0;
  uint64_t r, s;
  if (l->wkv_head_size) {
    r = (uint64_t)l->token_shift_count * l->n_embd;
    s = (uint64_t)l->n_embd * l->wkv_head_size;
  } else if (l->kda_head_size) {
    const uint64_t inner = vram__product_or_overflow(l->layer[0].n_head, l->kda_head_size);
    r = vram__product_or_overflow(3 * conv, inner);
    s = vram__product_or_overflow(inner, l->kda_head_size);
  } else {
    const uint64_t groups = vram__product_or_overflow(2 * (uint64_t)l->ssm_n_group, l->ssm_d_state);
    r = vram__product_or_overflow(conv, vram__sum_or_overflow(l->ssm_d_inner, groups));
    s = (uint64_t)l->ssm_d_state * l->ssm_d_inner;
    if (l->shortconv_l_cache)
      r = (uint64_t)l->n_embd * (l->shortconv_l_cache - 1);
  }
  if (r > UINT32_MAX || s > UINT32_MAX)
    return vram__error_begin(e, VRAM_ERR_VALUE, 0, "a recurrent state of more than 2^32 elements");
  l->n_embd_r = (uint32_t)r;
  l->n_embd_s = (uint32_t)s;
  return VRAM_OK;
}

/* The row of the architecture, and how many layers there are. */
static vram_result vram__llama_begin(vram__llama *l, vram_error *e) {
  static const char key[] = "general.architecture";
  const vram_file_value *const v = vram_file_get(l->file, key, sizeof key - 1);
  if (!v || v->kind != VRAM_VALUE_TEXT || !v->text || v->count > 64)
    return vram__error_begin(e, VRAM_ERR_VALUE, 0,
                             "key 'general.architecture' is missing or no name");
  l->arch = v->text;
  l->arch_len = (uint32_t)v->count;
  l->row = vram__llama_architecture_find(l->arch, l->arch_len);
  l->is_known = l->row != NULL;
  if (!l->row)
    l->row = vram__llama_architecture_find("llama", 5);
  if (vram__llama_number(l, "block_count", &l->n_layer, e))
    return VRAM_ERR_VALUE;
  if (!l->n_layer || l->n_layer > VRAM__LLAMA_LAYERS)
    return vram__llama_refuse(l, e, "block_count", "': from 1 to 512 layers are expected");
  return VRAM_OK;
}

VRAM__FN vram_result vram__llama_read(vram__llama *l, vram_error *e) {
  static const char output[] = "output.weight";
  const vram_file_value *causal;
  uint32_t i;
  if (vram__llama_begin(l, e) || vram__llama_check_kinds(l, e) || vram__llama_numbers(l, e) ||
      vram__llama_each(l, "attention.head_count", offsetof(vram__llama_layer, n_head), 0, e) ||
      vram__llama_each(l, "feed_forward_length", offsetof(vram__llama_layer, n_ff), 0, e))
    return VRAM_ERR_VALUE;
  for (i = 0; i < l->n_layer; i++)
    l->layer[i].n_head_kv = l->layer[i].n_head;
  if (vram__llama_each(l, "attention.head_count_kv", offsetof(vram__llama_layer, n_head_kv), 0,
                       e) ||
      vram__llama_sliding(l, e) || vram__llama_heads(l, e) || vram__llama_states(l, e))
    return VRAM_ERR_VALUE;
  l->n_layer_kv = l->n_layer - l->n_layer_nextn;
  if (l->n_layer_shared_kv > l->n_layer_kv)
    return vram__llama_refuse(l, e, "attention.shared_kv_layers", "': more than there are layers");
  l->n_layer_kv -= l->n_layer_shared_kv;
  /* src/models/gemma3n.cpp */
  if (vram__text_is(l->arch, l->arch_len, "gemma3n") && l->n_layer_kv > 20)
    l->n_layer_kv = 20;
  for (i = 0; i < l->n_layer; i++)
    l->layer[i].is_recurrent = (uint32_t)vram__llama_is_recurrent(l, i);
  if (l->row->recurrent == VRAM__LLAMA_LAYERS_INTERVAL && /* one by one: src/models/qwen35.cpp */
      vram__llama_each(l, "attention.recurrent_layers", offsetof(vram__llama_layer, is_recurrent),
                       1, e))
    return VRAM_ERR_VALUE;
  for (i = l->n_layer - l->n_layer_nextn; i < l->n_layer; i++) {
    l->layer[i].is_nextn = 1;
    l->layer[i].is_recurrent = 0;
  }
  causal = vram__llama_get(l, "attention.causal");
  l->is_causal = !causal || causal->number.u != 0;
  if (l->row->memory == VRAM__LLAMA_NO_MEMORY && !(l->row->flags & VRAM__LLAMA_NO_OUTPUT))
    l->is_causal = 0; /* diffusion models, gemma-embedding */
  l->is_tied = !(l->row->flags & (VRAM__LLAMA_NO_OUTPUT | VRAM__LLAMA_ONE_TABLE)) &&
               !vram_file_find(l->file, output, sizeof output - 1);
  return VRAM_OK;
}
