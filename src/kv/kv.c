/* >>kv/kv    bytes of the caches of a model's layers */
#include "core/core.h"

VRAM_API uint64_t vram_kv_tokens(const vram_kv *kv, const vram_kv_layer *l, uint64_t tokens) {
  const uint64_t block = kv->block ? kv->block : 1;
  uint64_t rest;
  if (l->kind == VRAM_KV_SLIDING || l->kind == VRAM_KV_CHUNKED) {
    const uint64_t most = vram__sum_or_overflow(l->window, kv->ahead);
    if (tokens > most)
      tokens = most;
  }
  rest = tokens % block;
  return rest ? vram__sum_or_overflow(tokens, block - rest) : tokens;
}

static vram_result vram__kv_states(const vram_kv_layer *l, uint64_t *part) {
  uint32_t i;
  for (i = 0; i < l->nstate; i++) {
    const vram_result code = vram_dtype_bytes(l->state[i], l->state_elements[i], part + i);
    if (code)
      return code;
  }
  return VRAM_OK;
}

VRAM_API vram_result vram_kv_layer_parts(const vram_kv_layer *l, uint64_t tokens,
                                         uint64_t part[VRAM_KV_MAX_STATES], uint32_t *n) {
  const uint64_t heads = l->kind == VRAM_KV_LATENT ? 1 : l->heads;
  vram_result code;
  *n = 0;
  switch (l->kind) {
  case VRAM_KV_NONE:
    return VRAM_OK;
  case VRAM_KV_STATE:
    if (l->nstate > VRAM_KV_MAX_STATES)
      return VRAM_ERR_VALUE;
    *n = l->nstate;
    return vram__kv_states(l, part);
  case VRAM_KV_FULL:
  case VRAM_KV_SLIDING:
  case VRAM_KV_CHUNKED:
  case VRAM_KV_LATENT:
    *n = l->kind == VRAM_KV_LATENT ? 1 : 2;
    code = vram_dtype_rows_bytes(l->k, tokens, heads * l->k_dim, part);
    return code || *n == 1 ? code : vram_dtype_rows_bytes(l->v, tokens, heads * l->v_dim, part + 1);
  case VRAM_KV_KIND_COUNT:
  default:
    return VRAM_ERR_VALUE;
  }
}

VRAM_API vram_result vram_kv_layer_bytes(const vram_kv_layer *l, uint64_t tokens, uint64_t *bytes) {
  uint64_t part[VRAM_KV_MAX_STATES], sum = 0;
  uint32_t i, n;
  const vram_result code = vram_kv_layer_parts(l, tokens, part, &n);
  *bytes = VRAM_OVERFLOW;
  if (code)
    return code;
  for (i = 0; i < n; i++)
    sum = vram__sum_or_overflow(sum, part[i]);
  *bytes = sum;
  return sum == VRAM_OVERFLOW ? VRAM_ERR_OVERFLOW : VRAM_OK;
}

/* One row into the report. */
static vram_result vram__kv_row(const vram_kv *kv, const vram_kv_layer *l, uint64_t tokens,
                                vram_kv_report *r) {
  const uint64_t held = vram_kv_tokens(kv, l, tokens);
  uint64_t one = 0, all;
  vram_result code;
  if (!l->count)
    return VRAM_OK;
  if (held == VRAM_OVERFLOW)
    return VRAM_ERR_OVERFLOW;
  code = vram_kv_layer_bytes(l, held, &all);
  if (code)
    return code;
  if (l->kind != VRAM_KV_STATE) {
    code = vram_kv_layer_bytes(l, 1, &one);
    if (code)
      return code;
  }
  all = vram__product_or_overflow(all, l->count);
  one = vram__product_or_overflow(one, l->count);
  r->token_bytes = vram__sum_or_overflow(r->token_bytes, one);
  if (l->kind == VRAM_KV_STATE)
    r->state_bytes = vram__sum_or_overflow(r->state_bytes, all);
  r->sequence_bytes = vram__sum_or_overflow(r->sequence_bytes, all);
  if (l->kind != VRAM_KV_NONE)
    r->layers += l->count;
  return r->sequence_bytes == VRAM_OVERFLOW || r->token_bytes == VRAM_OVERFLOW ? VRAM_ERR_OVERFLOW
                                                                               : VRAM_OK;
}

static VRAM__COLD vram_result vram__kv_fail(vram_kv_report *r, uint64_t row, vram_result code,
                                            vram_error *e) {
  r->token_bytes = r->state_bytes = r->sequence_bytes = r->total_bytes = VRAM_OVERFLOW;
  vram__error_begin(e, code, 0, "KV cache");
  if (row)
    vram__error_number(e, ", row ", row);
  vram__error_text(e, ": ");
  vram__error_text(e, vram_result_text(code));
  return code;
}

VRAM_API vram_result vram_kv_bytes(const vram_kv *kv, uint64_t tokens, uint64_t sequences,
                                   vram_kv_report *r, vram_error *e) {
  uint32_t i;
  vram__error_clear(e);
  vram__memory_zero(r, sizeof *r);
  for (i = 0; i < kv->nlayer; i++) {
    const vram_result code = vram__kv_row(kv, &kv->layer[i], tokens, r);
    if (code)
      return vram__kv_fail(r, (uint64_t)i + 1, code, e);
  }
  r->total_bytes = vram__product_or_overflow(r->sequence_bytes, sequences);
  if (r->total_bytes == VRAM_OVERFLOW)
    return vram__kv_fail(r, 0, VRAM_ERR_OVERFLOW, e);
  return VRAM_OK;
}
