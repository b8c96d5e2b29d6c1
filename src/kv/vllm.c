/* >>kv/vllm    vLLM: groups of layers, pages, blocks, tokens */
#include "kv/serve.h"

/* Tokens and sequences of a batch where nobody says (engine/arg_utils.py, get_batch_defaults and
   _set_default_max_num_seqs_and_batched_tokens_args). */
VRAM__FN void vram__vllm_batch(const vram__serve *s) {
  const vram_serve_options *const o = s->o;
  const uint64_t device = o->device_bytes;
  vram_serve_report *const r = s->r;
  const int large = device >= VRAM__MIB(UINT64_C(160) * 1024),
            medium = device >= VRAM__MIB(UINT64_C(70) * 1024);
  r->batched_tokens = o->batched_tokens;
  r->sequences = o->sequences ? o->sequences : medium ? 1024 : 256;
  if (!r->batched_tokens) {
    r->batched_tokens = large || (medium && o->offline) ? 16384
                        : medium || o->offline          ? 8192
                                                        : 2048;
    if (r->sequences * o->max_model_len < r->batched_tokens)
      r->batched_tokens = r->sequences * o->max_model_len;
  }
  if (!o->sequences && r->sequences > r->batched_tokens)
    r->sequences = r->batched_tokens;
}

/* Are states kept for prefixes (mamba_cache_mode align, models/config.py: MambaModelConfig)? */
static int vram__vllm_caches_states(const vram__serve *s) {
  return !s->o->no_prefix &&
         (s->o->prefix_states ||
          (s->rules->caches_states && vram__serve_has(s, VRAM_KV_STATE) && vram__serve_attends(s)));
}

/* Gated delta nets whose prefill is FlashInfer's keep a state more, on multiples of 64 tokens
   (layers/mamba/gdn/qwen_gdn_linear_attn.py; on Blackwell with CUDA 13 and keys of 128). */
static int vram__vllm_has_checkpoints(const vram__serve *s) {
  return s->rules->checkpoints && s->o->delta_states && vram__vllm_caches_states(s) &&
         (s->o->cc / 10 == 9 || s->o->cc / 10 == 10 || s->o->cc / 10 == 12);
}

/* Attention beside states: the block grows until a page of attention holds a state, and states are
   padded to that page (platforms/interface.py, _align_hybrid_block_size). */
static vram_result vram__vllm_align_states(vram__serve *s) {
  uint64_t state = 0, token = 0, align = s->block > 16 ? s->block : 16, block;
  uint32_t i;
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    if (p->row.kind == VRAM_KV_STATE)
      state = p->page > state ? p->page : state;
    else if (!token) {
      vram_kv_layer one = p->row;
      if (one.kind == VRAM_KV_LATENT && align < 128)
        align = 128;
      one.v_dim = one.k_dim;
      if (vram_kv_layer_bytes(&one, 1, &token))
        return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a token's bytes");
    }
  }
  if (!state || !token)
    return VRAM_OK;
  while (vram__vllm_has_checkpoints(s) && align % 64) /* the least common multiple: align is 16 n */
    align *= 2;
  block = vram__product_or_overflow(align, token);
  if (block == VRAM_OVERFLOW)
    return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a page of attention and states");
  block = align * vram__div_up_u64(state, block);
  if (block > s->block)
    s->block = block;
  for (i = 0; i < s->nspec; i++) {
    vram__spec *p = &s->spec[i];
    if (p->row.kind == VRAM_KV_STATE)
      p->page = vram__product_or_overflow(s->block, token);
    else {
      vram_result code;
      p->block = s->block;
      code = vram__spec_page(s, p);
      if (code)
        return code;
    }
  }
  return VRAM_OK;
}

/* All layers need the same number of blocks (UniformTypeKVCacheSpecs). */
static int vram__vllm_is_uniform(const vram__serve *s) {
  uint32_t i;
  for (i = 1; i < s->nspec; i++) {
    const vram__spec *a = &s->spec[0], *b = &s->spec[i];
    const vram_kv_kind x = a->row.kind == VRAM_KV_LATENT ? VRAM_KV_FULL : a->row.kind,
                       y = b->row.kind == VRAM_KV_LATENT ? VRAM_KV_FULL : b->row.kind;
    if (x != y || a->block != b->block || (x == VRAM_KV_STATE && a->page != b->page) ||
        (vram__kv_has_window(x) && a->row.window != b->row.window))
      return 0;
  }
  return 1;
}

/* Windows take blocks for all tokens, where there are full layers beside them. */
static void vram__vllm_promote(vram__serve *s) {
  uint32_t i;
  if (!vram__serve_attends(s))
    return;
  for (i = 0; i < s->nspec; i++)
    if (vram__kv_has_window(s->spec[i].row.kind))
      s->spec[i].row.kind = VRAM_KV_FULL;
  vram__spec_merge(s);
}

/* One page for all kinds: smaller ones of attention take more tokens where that divides, what is
   left is padded; latent rows cannot be padded (unify_kv_cache_spec_page_size). Returns 0 where it
   is not possible. */
static int vram__vllm_unify(vram__serve *s) {
  uint64_t most = 0;
  uint32_t i;
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].page > most)
      most = s->spec[i].page;
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].row.kind == VRAM_KV_LATENT && most % s->spec[i].page)
      return 0;
  for (i = 0; i < s->nspec; i++) {
    vram__spec *p = &s->spec[i];
    if (p->row.kind != VRAM_KV_STATE && most % p->page == 0)
      p->block *= most / p->page;
    p->page = most;
  }
  return 1;
}

/* Blocks of one group that a request of max_model_len tokens takes. */
static uint64_t vram__vllm_blocks(const vram__serve *s, const vram__spec *p) {
  const uint64_t ahead = (s->o->batches ? s->o->batches : s->rules->batches) * s->r->batched_tokens;
  uint64_t tokens = s->o->max_model_len;
  if (p->row.kind == VRAM_KV_STATE)
    return (uint64_t)(vram__vllm_has_checkpoints(s) ? 3
                      : vram__vllm_caches_states(s) ? 2
                                                    : 1) +
           s->o->draft;
  if (vram__kv_has_window(p->row.kind)) {
    const uint64_t window =
        p->row.kind == VRAM_KV_SLIDING && p->row.window ? p->row.window - 1 : p->row.window;
    if (window < tokens && window + ahead < tokens)
      tokens = window + ahead;
  }
  return vram__div_up_u64(tokens, p->block) + (p->row.kind == VRAM_KV_SLIDING);
}

/* All layers in one group. */
static void vram__vllm_one_group(vram__serve *s) {
  const vram__spec *widest = s->spec;
  uint64_t layers = 0, bytes = 0, blocks = 0;
  uint32_t i;
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    const uint64_t n = vram__vllm_blocks(s, p);
    layers += p->count;
    bytes = vram__sum_or_overflow(bytes, vram__product_or_overflow(p->page, p->count));
    blocks = n > blocks ? n : blocks;
    if (p->page > widest->page)
      widest = p;
  }
  vram__serve_group(s, widest, layers, bytes, blocks);
}

/* Groups of as many layers as the smallest kind has; of the largest, where that is less than half
   as much again (_get_kv_cache_groups_uniform_page_size). */
static void vram__vllm_groups(vram__serve *s) {
  uint64_t least = UINT64_MAX, most = 0, size, i, n;
  uint32_t k;
  for (k = 0; k < s->nspec; k++) {
    least = s->spec[k].count < least ? s->spec[k].count : least;
    most = s->spec[k].count > most ? s->spec[k].count : most;
  }
  size = s->rules->even_groups && 2 * most < 3 * least ? most : least;
  for (k = 0; k < s->nspec; k++) {
    const vram__spec *p = &s->spec[k];
    const uint64_t blocks = vram__vllm_blocks(s, p);
    n = vram__div_up_u64(p->count, size);
    for (i = 0; i < n; i++) {
      const uint64_t layers = vram__div_up_u64(p->count - i, n);
      vram__serve_group(s, p, layers, vram__product_or_overflow(p->page, layers), blocks);
    }
  }
}

VRAM__FN vram_result vram__vllm_plan(vram__serve *s) {
  /* config/vllm.py: chunked attention switches the manager of several kinds off */
  const int no_hybrid =
      s->o->no_hybrid || (vram__serve_has(s, VRAM_KV_CHUNKED) && !s->o->hybrid_chunks);
  vram_result code = vram__vllm_align_states(s);
  if (code)
    return code;
  vram__spec_merge(s);
  if (no_hybrid)
    vram__vllm_promote(s);
  if (!vram__vllm_is_uniform(s)) {
    if (vram__serve_has(s, VRAM_KV_LATENT) && vram__serve_has(s, VRAM_KV_SLIDING) &&
        !vram__serve_has(s, VRAM_KV_CHUNKED)) {
      vram__serve copy = *s;
      if (!vram__vllm_unify(&copy))
        vram__vllm_promote(s);
    }
    if (no_hybrid && !vram__vllm_is_uniform(s))
      return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED, "these layers do not become one kind");
    if (!vram__vllm_is_uniform(s)) {
      if (!vram__vllm_unify(s))
        return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED,
                                "pages of latent rows do not divide the largest page");
      vram__vllm_groups(s);
      return VRAM_OK;
    }
  }
  vram__vllm_one_group(s);
  return VRAM_OK;
}

VRAM__FN void vram__vllm_result(const vram__serve *s, vram_serve_result *to) {
  const vram_serve_report *r = s->r;
  uint64_t block = UINT64_MAX;
  uint32_t i;
  to->blocks = to->kv_bytes / r->block_bytes;
  to->concurrency = vram__serve_rounded((double)to->blocks / (double)r->blocks_per_request);
  to->serves_one =
      to->blocks >= r->blocks_per_request + (s->rules->by_requests ? 1 : 0); /* the null block */
  if (s->rules->by_requests) {
    to->tokens = (uint64_t)vram__serve_rounded(to->concurrency * (double)s->o->max_model_len);
    return;
  }
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].row.kind != VRAM_KV_STATE && s->spec[i].block < block)
      block = s->spec[i].block;
  if (block == UINT64_MAX) /* states alone: a block is a request */
    block = s->o->max_model_len;
  to->tokens = vram__product_or_overflow(to->blocks / r->groups, block);
}
