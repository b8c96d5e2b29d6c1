/* >>kv/serve    vLLM's and SGLang's budgets: versions, options, the report */
#include "kv/serve.h"

/* vLLM: vllm/v1/core/kv_cache_utils.py, kv_cache_planning.py (0.33), kv_cache_interface.py,
   config/cache.py, v1/worker/gpu_worker.py. Hybrid models cache prefixes since 0.26, a window holds
   one batch in 0.21 and two since (config/vllm.py, max_in_flight_tokens). 0.19: tokens are blocks /
   groups * the smallest block (kv_cache_utils.py), one batch more since scheduling became
   asynchronous. 0.10: commit bbf906a. SGLang: files named in sglang.c. */
static const vram__serve_rules vram__serve_versions[] = {
    {VRAM_ENGINE_VLLM, "0.33.0", 0.92, 2, 1, 1, 1, 1, 1, 1},
    {VRAM_ENGINE_VLLM, "0.26.0", 0.92, 2, 1, 1, 1, 1, 0, 1},
    {VRAM_ENGINE_VLLM, "0.21.0", 0.92, 1, 1, 1, 1, 0, 0, 1},
    {VRAM_ENGINE_VLLM, "0.19.0", 0.9, 1, 1, 0, 0, 0, 0, 0},
    {VRAM_ENGINE_VLLM, "0.10.0", 0.9, 1, 0, 0, 0, 0, 0, 0},
    {VRAM_ENGINE_SGLANG, "0.5.23", 0, 1, 1, 0, 0, 1, 1, 1},
    {VRAM_ENGINE_SGLANG, "0.5.8", 0, 1, 1, 0, 0, 0, 0, 1},
};
enum { VRAM__SERVE_VERSIONS = sizeof vram__serve_versions / sizeof *vram__serve_versions };

VRAM_API const char *vram_engine_name(vram_engine engine) {
  return engine == VRAM_ENGINE_VLLM ? "vllm" : engine == VRAM_ENGINE_SGLANG ? "sglang" : "?";
}

VRAM_API vram_result vram_engine_find(const char *name, vram_engine *engine) {
  for (*engine = VRAM_ENGINE_VLLM; *engine < VRAM_ENGINE_COUNT;
       *engine = (vram_engine)(*engine + 1))
    if (vram__text_is(name, vram__text_len(name), vram_engine_name(*engine)))
      return VRAM_OK;
  return VRAM_ERR_NAME;
}

VRAM_API const char *vram_engine_rules(vram_engine engine, uint32_t i) {
  uint32_t k;
  for (k = 0; k < VRAM__SERVE_VERSIONS; k++)
    if (vram__serve_versions[k].engine == engine && !i--)
      return vram__serve_versions[k].version;
  return NULL;
}

/* Tokens of a block where nobody says. vLLM (platforms/cuda.py, the backends' supported sizes):
   FlashInfer's MLA on Blackwell has pages of 32 and 64. SGLang (arg_groups/overrides.py):
   TensorRT's attention there has pages of 64. */
static uint64_t vram__serve_block(const vram__serve *s, const vram_kv *kv) {
  const int is_vllm = s->o->engine == VRAM_ENGINE_VLLM;
  int is_latent = 0;
  uint32_t i;
  for (i = 0; i < kv->nlayer; i++)
    is_latent |= kv->layer[i].count && kv->layer[i].kind == VRAM_KV_LATENT;
  if (s->o->block)
    return s->o->block;
  if (s->rules->small_pages && s->o->cc / 10 == 10 && is_latent == is_vllm)
    return is_vllm ? 32 : 64;
  return is_vllm ? 16 : 1;
}

static vram_result vram__serve_options_check(vram__serve *s) {
  const vram_serve_options *o = s->o;
  const uint32_t len = o->rules ? vram__text_len(o->rules) : 0;
  uint32_t i;
  if (o->engine >= VRAM_ENGINE_COUNT)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "no such engine");
  for (i = 0; i < VRAM__SERVE_VERSIONS && !s->rules; i++)
    if (vram__serve_versions[i].engine == o->engine &&
        (!len || vram__text_is(o->rules, len, vram__serve_versions[i].version)))
      s->rules = &vram__serve_versions[i];
  if (!s->rules)
    return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED, "no rules of that version");
  s->r->rules = s->rules->version;
  if (!o->max_model_len || o->max_model_len > VRAM__SERVE_MOST)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "max_model_len is 1 to 2^31 tokens");
  if (o->batched_tokens > VRAM__SERVE_MOST || o->sequences > VRAM__SERVE_MOST || o->block > 65536 ||
      o->batches > 65536)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "a batch or a block is too large");
  if (!(o->utilization >= 0 && o->utilization <= 1))
    return vram__serve_fail(s, VRAM_ERR_VALUE, "the share of the device is 0 to 1");
  if (!o->device_bytes && !o->kv_bytes)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "how large is the device, or the cache?");
  if (o->device_bytes > VRAM_MAX_BYTES / 2 || o->kv_bytes > VRAM_MAX_BYTES / 2)
    return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "too large a device or cache");
  s->tp = o->tp ? o->tp : 1;
  return VRAM_OK;
}

static void vram__serve_result(const vram__serve *s, vram_serve_result *to) {
  if (!s->r->groups) { /* nothing is kept: vLLM's null block alone */
    to->blocks = 1;
    to->serves_one = 1;
  } else if (s->o->engine == VRAM_ENGINE_VLLM)
    vram__vllm_result(s, to);
  else
    vram__sglang_result(s, to);
}

VRAM_API vram_result vram_serve(const vram_kv *kv, const vram_serve_options *o,
                                vram_serve_report *r, vram_error *e) {
  vram__serve s;
  vram_result code;
  uint32_t i;
  vram__error_clear(e);
  vram__memory_zero(r, sizeof *r);
  vram__memory_zero(&s, sizeof s);
  s.o = o;
  s.r = r;
  s.e = e;
  code = vram__serve_options_check(&s);
  if (code)
    return code;
  s.block = vram__serve_block(&s, kv);
  for (i = 0; i < kv->nlayer; i++) {
    code = vram__spec_add(&s, &kv->layer[i]);
    if (code)
      return code;
  }
  if (o->engine == VRAM_ENGINE_VLLM)
    vram__vllm_batch(&s);
  else
    vram__sglang_batch(&s);
  r->utilization = o->utilization > 0         ? o->utilization
                   : s.rules->utilization > 0 ? s.rules->utilization
                                              : vram__sglang_fraction(&s);
  code = o->engine == VRAM_ENGINE_VLLM ? s.nspec ? vram__vllm_plan(&s) : VRAM_OK
                                       : vram__sglang_plan(&s);
  if (code)
    return code;
  if (r->block_bytes >= VRAM_MAX_BYTES || r->blocks_per_request >= VRAM_MAX_BYTES)
    return vram__serve_fail(&s, VRAM_ERR_OVERFLOW, "a block's bytes");
  vram__serve_budget(&s);
  vram__serve_result(&s, &r->low);
  vram__serve_result(&s, &r->high);
  return VRAM_OK;
}
