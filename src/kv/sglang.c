/* >>kv/sglang    SGLang: shares of a device, pools of tokens and of states */
#include "kv/serve.h"

/* Tokens of a chunk of a prompt and the largest batch with a CUDA graph, by the memory of a device
   in GiB (0.5.23: arg_groups/memory_hook.py, handle_gpu_memory_settings; 0.5.8: server_args.py,
   _handle_gpu_memory_settings). */
typedef struct vram__sglang_tier {
  uint32_t below;                /* 0: any */
  uint32_t chunk, batch, batch4; /* the last from four ranks on */
} vram__sglang_tier;

static const vram__sglang_tier vram__sglang_tiers[2][5] = {
    {{20, 2048, 8, 8},
     {35, 4096, 48, 160},
     {60, 4096, 32, 160},
     {160, 8192, 256, 512},
     {0, 16384, 512, 512}},
    {{20, 2048, 8, 8},
     {35, 2048, 24, 80},
     {60, 4096, 32, 160},
     {160, 8192, 256, 512},
     {0, 16384, 512, 512}},
};

VRAM__FN void vram__sglang_batch(const vram__serve *s) {
  const vram_serve_options *const o = s->o;
  const vram__sglang_tier *t = vram__sglang_tiers[!s->rules->checkpoints];
  while (t->below && o->device_bytes >= VRAM__MIB(UINT64_C(1024) * t->below))
    t++;
  s->r->batched_tokens = o->batched_tokens ? o->batched_tokens : t->chunk;
  s->r->sequences = o->sequences ? o->sequences : s->tp < 4 ? t->batch : t->batch4;
}

/* Sizes of graphs of a prefill of at most so many tokens
   (arg_groups/cuda_graph_hook.py, generate_prefill_cuda_graph_batch_sizes). */
static uint64_t vram__sglang_prefill_graphs(uint64_t most) {
  static const struct {
    uint32_t first, last, step; /* last 0: `most` */
  } sizes[] = {{4, 32, 4},      {48, 256, 16},     {288, 512, 32},
               {576, 1024, 64}, {1280, 4096, 256}, {4608, 0, 512}};
  uint64_t n = 0;
  uint32_t i;
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const uint64_t last = sizes[i].last && sizes[i].last < most ? sizes[i].last : most;
    if (last >= sizes[i].first)
      n += (last - sizes[i].first) / sizes[i].step + 1;
  }
  return n;
}

/* mem_fraction_static where nobody says: what is reserved, in MiB, for activations and graphs. The
   device's memory is what nvidia-smi says, at most 1 % more than CUDA does. */
VRAM__FN double vram__sglang_fraction(const vram__serve *s) {
  const double device = (double)s->o->device_bytes / 1048576;
  const uint64_t chunk = s->r->batched_tokens;
  double reserved = 512 + 1.5 * (double)(chunk > 2048 ? chunk : 2048) + (double)s->tp * 128, share;
  if (!s->o->eager)
    reserved += 2.0 * (double)s->r->sequences;
  if (!s->o->eager && s->rules->checkpoints)
    reserved += vram__serve_has(s, VRAM_KV_LATENT)
                    ? 1536.0
                    : 8.0 * (double)vram__sglang_prefill_graphs(chunk);
  if (device > 60.0 * 1024 && reserved < 10 * 1024)
    reserved = 10 * 1024;
  share = device > reserved ? (device - reserved) / device : 0;
  return (double)(uint64_t)vram__serve_rounded(share * 1000 + 0.5) / 1000;
}

/* Layers with a window have a pool of their own with a share of the tokens (swa_full_tokens_ratio);
   states get mamba_full_memory_ratio of what attention gets
   (model_executor/pool_configurator.py, mem_cache/kv_cache_configurator.py). */
#define VRAM__SGLANG_WINDOWS 0.8
#define VRAM__SGLANG_STATES 0.9

VRAM__FN vram_result vram__sglang_plan(vram__serve *s) {
  uint32_t i;
  vram__spec_merge(s);
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    uint64_t bytes = vram__product_or_overflow(p->page, p->count);
    if (bytes == VRAM_OVERFLOW)
      return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a block's bytes");
    vram__serve_group(
        s, p, p->count, bytes,
        p->row.kind == VRAM_KV_STATE ? 1 : vram__div_up_u64(s->o->max_model_len, p->block));
  }
  return VRAM_OK;
}

/* The states that a share of the room holds, one of them for padding, and what is left of it
   (_handle_max_mamba_cache). */
static double vram__sglang_states(const vram__serve *s, double room, uint64_t *states) {
  const double share = vram__serve_rounded(room * VRAM__SGLANG_STATES / (1 + VRAM__SGLANG_STATES));
  double all = 0;
  uint32_t i;
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].row.kind == VRAM_KV_STATE)
      all += (double)s->spec[i].page * (double)s->spec[i].count;
  if (!(all > 0))
    return room;
  *states = share > all ? (uint64_t)((share - all) / all) : 0;
  return room - ((double)*states + 1) * all;
}

/* States of a running request: three, and two more where the next ones are computed meanwhile
   (extra_buffer: gated delta nets, Falcon-H1); _calculate_mamba_ratio. */
static uint64_t vram__sglang_slots(const vram__serve *s) {
  return s->o->no_prefix ? 1 : s->o->buffered_states ? 5 : 3;
}

VRAM__FN void vram__sglang_result(const vram__serve *s, vram_serve_result *to) {
  double cell = 0; /* of one token: pages are whole multiples of it */
  const double room = vram__sglang_states(s, (double)to->kv_bytes, &to->states);
  double requests;
  uint64_t tokens;
  uint32_t i;
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    const double bytes = (double)p->page * (double)p->count / (double)s->block;
    if (p->row.kind != VRAM_KV_STATE)
      cell += vram__serve_attends(s) && vram__kv_has_window(p->row.kind)
                  ? bytes * VRAM__SGLANG_WINDOWS
                  : bytes;
  }
  tokens = cell > 0 && room > 0 ? (uint64_t)vram__serve_rounded(room / cell) : 0;
  to->blocks = tokens / s->block;
  to->tokens = to->blocks * s->block;
  requests = (double)to->tokens / (double)s->o->max_model_len;
  if (vram__serve_has(s, VRAM_KV_STATE)) {
    const double states = (double)(to->states / vram__sglang_slots(s));
    requests = cell > 0 && requests < states ? requests : states;
  }
  to->concurrency = vram__serve_rounded(requests);
  to->serves_one = requests >= 1;
}
