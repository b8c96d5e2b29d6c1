/* >>kv/budget    what a serving engine leaves for its cache, between two bounds */
#include "kv/serve.h"

/* What a sort of the logits takes of each, with what lives beside it: the logits in the model's
   dtype and in f32, their sorted copy, its indices, and the buffers of PyTorch's sort: 38 bytes
   from 128 rows on, 51 of fewer (apply_top_k_top_p_pytorch in v1/sample/ops/topk_topp_sampler.py),
   and one more copy where ranks gather theirs. */
#define VRAM__SORT_BYTES 53

/* What the trial run takes: the largest of its two parts, which follow each other. Low: what one
   feed-forward has at its activation (both products, their result, the residual), or the logits in
   f32. High: twice that, with each expert's result of a token, or a sort of the logits; hidden
   states live beside both. */
static void vram__serve_activations(const vram__serve *s, vram_serve_range *to) {
  const vram_serve_options *o = s->o;
  const uint64_t logits = vram__product_or_overflow(s->r->sequences, o->vocab);
  const uint64_t f32 = vram__product_or_overflow(4, logits), tokens = s->r->batched_tokens;
  const uint64_t sort = vram__product_or_overflow(VRAM__SORT_BYTES, logits);
  const vram_dtype dtype = o->activations ? o->activations : VRAM_BF16;
  uint64_t layer, experts, hidden, high;
  if (!o->hidden || !o->intermediate) {
    to->high = VRAM__MIB(3072);
    to->why = "published: 0.19 to 2.51 GiB (vllm issues 13061, 13882, 16570)";
    return;
  }
  if (vram_dtype_bytes(dtype, vram__product_or_overflow(tokens, o->hidden), &hidden) ||
      vram_dtype_bytes(
          dtype, vram__product_or_overflow(tokens, 3 * vram__div_up_u64(o->intermediate, s->tp)),
          &layer))
    layer = hidden = 0;
  experts = vram__product_or_overflow(hidden, o->experts_used);
  layer = vram__sum_or_overflow(layer, hidden);
  high = vram__product_or_overflow(2, vram__sum_or_overflow(layer, experts));
  to->low = layer > f32 ? layer : f32;
  to->high = vram__sum_or_overflow(high > sort ? high : sort, vram__product_or_overflow(2, hidden));
  if (to->low > VRAM_MAX_BYTES / 4) /* nobody's */
    to->low = VRAM_MAX_BYTES / 4;
  if (to->high > VRAM_MAX_BYTES / 4)
    to->high = VRAM_MAX_BYTES / 4;
  to->why = "low: one feed-forward or the logits; high: twice that or a sort of the logits";
}

static void vram__serve_terms(const vram__serve *s) {
  vram_serve_range *term = s->r->term;
  vram_serve_range *const graphs = &term[VRAM_SERVE_GRAPHS], *const context =
                                                                 &term[VRAM_SERVE_CONTEXT];
  vram__serve_activations(s, &term[VRAM_SERVE_ACTIVATIONS]);
  graphs->why = "published: 0.08 to 1.62 GiB (club-3090 issue 617, vllm pull 39559)";
  if (s->o->eager || (s->o->engine == VRAM_ENGINE_VLLM && !s->rules->counts_graphs))
    graphs->why = s->o->eager ? "none" : "not counted by these rules: taken beside the share";
  else
    graphs->high = VRAM__MIB(2048);
  context->low = VRAM__MIB(30);
  context->high = VRAM__MIB(s->tp > 1 ? 4096 : 2048);
  context->why =
      "published: 0.03 to 1.79 GiB on one device, 3.58 GiB on two (vllm pull 10511, issues "
      "10517, 13882)";
  if (s->o->engine == VRAM_ENGINE_SGLANG) {
    term[VRAM_SERVE_ACTIVATIONS].low = term[VRAM_SERVE_ACTIVATIONS].high = 0;
    term[VRAM_SERVE_ACTIVATIONS].why = "in the share that is left free";
    graphs->high = 0;
    graphs->why = "in the share that is left free";
  }
}

/* ceil(device * utilization), as Python has it. */
static uint64_t vram__serve_share(const vram__serve *s, uint64_t bytes) {
  const double share = vram__serve_rounded((double)bytes * s->r->utilization);
  const uint64_t whole = (uint64_t)share;
  return s->o->engine == VRAM_ENGINE_VLLM && (double)whole < share ? whole + 1 : whole;
}

static uint64_t vram__serve_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

VRAM__FN void vram__serve_budget(const vram__serve *s) {
  vram_serve_report *r = s->r;
  uint64_t low = 0, high = 0;
  int i;
  vram__serve_terms(s);
  r->requested_bytes = vram__serve_share(s, s->o->device_bytes);
  for (i = 0; i < VRAM_SERVE_TERM_COUNT; i++) {
    low += r->term[i].low;
    high += r->term[i].high;
  }
  r->low.kv_bytes = r->high.kv_bytes = s->o->kv_bytes;
  if (s->o->kv_bytes)
    return;
  if (s->o->engine == VRAM_ENGINE_SGLANG) { /* a share of what is free once the context is there */
    r->high.kv_bytes = vram__serve_share(s, vram__serve_less(s->o->device_bytes, low));
    r->low.kv_bytes = vram__serve_share(s, vram__serve_less(s->o->device_bytes, high));
    low = high = 0;
  } else
    r->high.kv_bytes = r->low.kv_bytes = r->requested_bytes;
  r->high.kv_bytes = vram__serve_less(vram__serve_less(r->high.kv_bytes, low), s->o->weights_bytes);
  r->low.kv_bytes = vram__serve_less(vram__serve_less(r->low.kv_bytes, high), s->o->weights_bytes);
}
