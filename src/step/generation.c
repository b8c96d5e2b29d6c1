/* >>step/generation    a generation: one step after the other, each with the caches of the last */
#include "step/step.h"

typedef struct vram__generation {
  vram__replay run;
  vram__caches caches;
  uint8_t workspaces; /* of products, that stay */
} vram__generation;

static uint64_t vram__generation_head(void) { return (sizeof(vram__generation) + 7) / 8 * 8; }

/* Streams that allocate: those of `stream` keys, whose pools are as many as there can be. */
static uint32_t vram__generation_streams(const vram_graph *g, const vram_step_options *o) {
  const vram_node *n;
  for (n = g->first; n; n = n->next)
    if (vram__node_int(n, VRAM__KEY_stream, 0))
      return VRAM__STREAMS;
  return vram__replay_streams(o);
}

/* Blocks of the pool: those of a step, and what lies free between caches that grow. */
static uint32_t vram__generation_blocks(const vram_graph *g, const vram_step_options *o) {
  const uint64_t n = vram__replay_blocks(g, o) + g->ncache * UINT64_C(16);
  return n < UINT32_MAX / 64 ? (uint32_t)n : UINT32_MAX / 64;
}

static uint64_t vram__generation_pool(const vram_graph *g, const vram_step_options *o) {
  return o->replay
             ? (vram_pool_bytes(vram__generation_blocks(g, o), vram__generation_streams(g, o)) +
                7) /
                   8 * 8
             : 0;
}

/* Of the first step's parameters: vram__replay.gradient. */
static uint64_t vram__generation_owned(const vram_graph *g) {
  return ((uint64_t)g->nparam + g->ninput + 1) / 2 * 8;
}

VRAM_API uint64_t vram_generation_bytes(const vram_graph *g, const vram_step_options *o) {
  vram_step_options none;
  vram__memory_zero(&none, sizeof none);
  return vram__generation_head() + g->ncache * (uint64_t)sizeof(vram__cached) +
         vram__generation_owned(g) + vram__generation_pool(g, o ? o : &none) + 16;
}

VRAM_API vram_result vram_generation_begin(vram_generation *gen, const vram_graph *g,
                                           const vram_step_options *o, void *mem, uint64_t bytes) {
  uint8_t *at = (uint8_t *)mem + (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  vram__generation *p = (vram__generation *)(void *)at;
  const uint64_t caches = g->ncache * (uint64_t)sizeof(vram__cached);
  vram_pool_options options;
  vram_result r;
  vram__memory_zero(gen, sizeof *gen);
  vram__memory_zero(&options, sizeof options);
  if (!mem || bytes < vram_generation_bytes(g, o))
    return VRAM_ERR_MEMORY;
  vram__memory_zero(p, sizeof *p);
  at += vram__generation_head();
  p->caches.at = (vram__cached *)(void *)at;
  p->caches.room = g->ncache;
  vram__memory_zero(at, caches);
  at += caches;
  gen->state = p;
  gen->replayed = o && o->replay;
  if (!gen->replayed)
    return VRAM_OK;
  options = *o->replay;
  r = vram__replay_device(
      &p->run, &options, options.total_bytes ? options.total_bytes : (uint64_t)VRAM_MAX_BYTES,
      vram__generation_streams(g, o), at + vram__generation_owned(g), vram__generation_pool(g, o));
  p->run.gradient = (uint32_t *)(void *)at;
  return r;
}

/* The step's results and whatever it left beside caches go before the next one. */
static void vram__generation_let_go(vram__step *s) {
  uint32_t i, k;
  for (i = 0; i < s->nslot; i++) {
    const uint32_t slot = vram__slot_number(s, i);
    const vram__storage *st = vram__slot_at(s, slot);
    if (st->base != slot || !st->srefs || st->id == UINT32_MAX ||
        st->cat == VRAM_CATEGORY_WORKSPACE)
      continue;
    for (k = 0; k < s->caches->room && s->caches->at[k].slot != slot;)
      k++;
    if (k == s->caches->room)
      vram__replay_put(s->replay, st->block);
  }
}

/* The generation's figures with those of one more step. */
static void vram__generation_count(vram_generation *gen, const vram_report *r,
                                   const vram__replay *run) {
  if (r->peak_requested_bytes > gen->peak_requested_bytes) {
    gen->peak_requested_bytes = r->peak_requested_bytes;
    gen->peak_step = gen->steps;
    vram__memory_copy(gen->peak_category_bytes, r->peak_category_bytes,
                      sizeof gen->peak_category_bytes);
  }
  if (r->peak_allocated_bytes.lower > gen->peak_allocated_bytes.lower)
    gen->peak_allocated_bytes.lower = r->peak_allocated_bytes.lower;
  if (r->peak_allocated_bytes.expected > gen->peak_allocated_bytes.expected)
    gen->peak_allocated_bytes.expected = r->peak_allocated_bytes.expected;
  if (r->peak_allocated_bytes.upper > gen->peak_allocated_bytes.upper)
    gen->peak_allocated_bytes.upper = r->peak_allocated_bytes.upper;
  if (r->peak_reserved_bytes > gen->peak_reserved_bytes)
    gen->peak_reserved_bytes = r->peak_reserved_bytes;
  gen->cache_bytes = r->kv_cache_bytes;
  gen->steps++;
  if (run && run->full)
    gen->replayed = 0;
  if (run && run->oom)
    gen->num_ooms = 1;
}

VRAM_API vram_result vram_generation_step(vram_generation *gen, const vram_graph *g,
                                          const vram_step_options *o, void *scratch,
                                          uint64_t scratch_bytes, vram_report *report,
                                          vram_error *err) {
  vram__generation *p = (vram__generation *)gen->state;
  vram__step s;
  vram_step_options none;
  vram_result r;
  vram__memory_zero(&none, sizeof none);
  if (!o)
    o = &none;
  vram__memory_zero(&s, sizeof s);
  s.problem = vram__step_misuse(&s, g, o, &r);
  if (!s.problem && (o->train || o->prefetch || o->pinned))
    s.problem = "a generation that trains, or has batches that wait";
  else if (!s.problem && g->ncache != p->caches.room)
    s.problem = "a step with another number of caches than the first one";
  if (s.problem) {
    r = r ? r : VRAM_ERR_VALUE;
    vram__memory_zero(report, sizeof *report);
    vram__step_error(&s, r, err);
    return r;
  }
  s.replay = o->replay ? &p->run : NULL;
  s.caches = &p->caches;
  r = vram__step_run(g, o, scratch, scratch_bytes, report, &s,
                     p->workspaces * (uint32_t)VRAM__RUN_WORKSPACES);
  if (!r) {
    p->workspaces = s.blas_workspaces;
    if (s.replay)
      vram__generation_let_go(&s);
    p->run.fresh = 0;
    vram__generation_count(gen, report, s.replay);
  }
  vram__step_error(&s, r, err);
  return r;
}
