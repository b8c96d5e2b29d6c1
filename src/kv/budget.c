/* >>kv/budget    what a serving engine leaves for its cache, between two bounds */
#include "kv/serve.h"

/* What the trial run takes. Low: outputs of one layer's feed-forward, which live together, or the
   logits in f32. High: twice that and a sorted copy of the logits, their indices and
   probabilities. */
static void vram__serve_activations(const vram__serve *s, vram_serve_range *to) {
  const vram_serve_options *o = s->o;
  const uint64_t logits = s->r->sequences * o->vocab;
  uint64_t bytes;
  if (!o->hidden || !o->intermediate) {
    to->high = VRAM__MIB(3072);
    to->why = "published: 0.19 to 2.51 GiB (vllm issues 13061, 13882, 16570)";
    return;
  }
  if (vram_dtype_bytes(o->activations ? o->activations : VRAM_BF16,
                       s->r->batched_tokens *
                           (3 * vram__div_up_u64(o->intermediate, s->tp) + o->hidden),
                       &bytes))
    bytes = 0;
  to->low = bytes > 4 * logits ? bytes : 4 * logits;
  to->high = 2 * bytes + 24 * logits;
  to->why = "low: one feed-forward or the logits; high: twice that and a sort of the logits";
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
