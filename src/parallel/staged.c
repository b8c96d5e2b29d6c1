/* >>parallel/staged    a wrapper around each stage of a rank
   Each stage is a module of its own with a wrapper of its own: what they keep lies one behind the
   other, and s->wrapped is that of one of them, of the first where no stage runs. */
#include "parallel/pipe.h"

/* The wrapper of one stage. */
static void vram__staged_one(const vram_step_options *o, vram__wrapper *w) {
  vram__memory_zero(w, sizeof *w);
  if (o->parallel->wrapper == VRAM_WRAPPER_FSDP2)
    vram__fsdp_wrapper(w);
  else
    vram__ddp_hooks_of_one(o, w);
}

static uint64_t vram__staged_each(const vram_graph *g, const vram_step_options *o) {
  vram__wrapper one;
  vram__staged_one(o, &one);
  return (one.bytes(g, o) + 7) / 8 * 8;
}

/* From now on s->wrapped is that of local stage k. */
VRAM__FN void vram__staged_at(vram__step *s, uint32_t k) {
  if (!s->wrapper || !s->pipe)
    return;
  s->wrapped = (uint8_t *)s->wrapped - s->pipe->at * s->pipe->each;
  s->wrapped = (uint8_t *)s->wrapped + k * s->pipe->each;
  s->pipe->at = k;
}

/* Whose it is. */
VRAM__FN uint32_t vram__staged_stage(const vram__step *s) { return s->pipe ? s->pipe->at : 0; }

/* Nodes of the module that is wrapped: of a stage, or all. end: NULL behind the last one. */
VRAM__FN void vram__staged_nodes(const vram__step *s, const vram_node **first,
                                 const vram_node **end) {
  *first = s->pipe ? s->pipe->stage[s->pipe->at].first : s->g->first;
  *end = s->pipe ? s->pipe->stage[s->pipe->at].end : NULL;
}

/* Is it a parameter of that module? */
VRAM__FN int vram__staged_has(const vram__step *s, const vram_param *p) {
  const vram_node *first, *end;
  vram__staged_nodes(s, &first, &end);
  return p->node->index >= first->index && (!end || p->node->index < end->index);
}

/* Stages of this rank, and which of them has a parameter; without a pipeline the module is the only
   one. */
VRAM__FN uint32_t vram__pipe_local_stages(const vram__step *s) {
  return s->pipe ? s->pipe->local : 1;
}

VRAM__FN uint32_t vram__pipe_local_of(const vram__step *s, const vram_param *p) {
  uint32_t k = vram__pipe_local_stages(s) - 1;
  while (k && p->node->index < s->pipe->stage[k].first->index)
    k--;
  return k;
}

static uint64_t vram__staged_bytes(const vram_graph *g, const vram_step_options *o) {
  return vram__product_or_overflow(vram_pipeline_stages(o->parallel), vram__staged_each(g, o));
}

static void vram__staged_options(vram__step *s) {
  s->pipe->at = 0;
  s->pipe->each = vram__staged_each(s->g, s->o);
}

/* The hook of each stage's wrapper. */
#define VRAM__STAGED(hook)                                                                         \
  static void vram__staged_##hook(vram__step *s) {                                                 \
    vram__wrapper one;                                                                             \
    uint32_t k;                                                                                    \
    vram__staged_one(s->o, &one);                                                                  \
    for (k = 0; k < s->pipe->local && !s->failed; k++) {                                           \
      vram__staged_at(s, k);                                                                       \
      if (one.hook)                                                                                \
        one.hook(s);                                                                               \
    }                                                                                              \
    vram__staged_at(s, 0);                                                                         \
  }
VRAM__STAGED(construct)
VRAM__STAGED(restore)
VRAM__STAGED(lasts)
VRAM__STAGED(zero_grad)
VRAM__STAGED(optimized)
#undef VRAM__STAGED

static void vram__staged_put(vram__step *s, vram__owned *o) {
  vram__wrapper one;
  uint32_t k;
  vram__staged_one(s->o, &one);
  for (k = 0; k < s->pipe->local && !s->failed; k++) {
    vram__staged_at(s, k);
    one.put(s, o);
  }
  vram__staged_at(s, 0);
}

static uint32_t vram__staged_optim_params(vram__step *s, vram__optim_param *p, int with_grad) {
  vram__wrapper one;
  uint32_t k, n = 0;
  vram__staged_one(s->o, &one);
  for (k = 0; k < s->pipe->local; k++) {
    vram__staged_at(s, k);
    n += one.optim_params(s, p + n, with_grad);
  }
  vram__staged_at(s, 0);
  return n;
}

/* Hooks that are called for the whole rank go to each stage's wrapper; those of forward and
   backward are called for one stage. What fully_shard does there is a part's (micro.c). */
VRAM__FN void vram__staged_hooks(vram__wrapper *w) {
  w->bytes = vram__staged_bytes;
  w->options = vram__staged_options;
  w->put = w->put ? vram__staged_put : NULL;
  w->construct = vram__staged_construct;
  w->restore = vram__staged_restore;
  w->lasts = vram__staged_lasts;
  w->zero_grad = w->zero_grad ? vram__staged_zero_grad : NULL;
  w->optim_params = w->optim_params ? vram__staged_optim_params : NULL;
  w->optimized = w->optimized ? vram__staged_optimized : NULL;
  if (w->forward) {
    w->forward_begin = w->forward_end = w->backward_end = NULL;
    w->forward = NULL;
    w->record = NULL;
  }
}
