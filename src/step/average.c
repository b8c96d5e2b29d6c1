/* >>step/average    a copy of the model whose weights are averages (--ema) */
#include "step/step.h"

/* copy.deepcopy of the model, which is made once it is on the device. */
VRAM__FN void vram__average_put(vram__step *s) {
  vram__replay *const run = s->replay;
  vram__total all = {0, 0, 0, 0, 0};
  const vram_param *p;
  if (!s->train || !s->o->ema)
    return;
  for (p = s->g->param_first; p; p = p->next) {
    const uint64_t bytes = vram__dims_bytes_of(p->d, s->param[p->index].dt);
    if (bytes > (uint64_t)VRAM_MAX_BYTES - all.bytes) {
      s->failed = VRAM_ERR_OVERFLOW;
      return;
    }
    vram__total_add(&all, bytes);
    if (run && run->fresh) {
      vram__replay_tell(s, VRAM_CATEGORY_OTHER, p->node);
      vram__replay_get(s, bytes, 0);
    }
  }
  vram__bytes_grow_and_shrink(s, all.bytes, all.blocks, all.large, VRAM_CATEGORY_OTHER);
}

static void vram__average_one(vram__step *s, uint64_t bytes) {
  uint32_t part[3], i; /* decay * average, (1 - decay) * weight, their sum */
  for (i = 0; i < 3; i++)
    part[i] = vram__optim_alloc(s, bytes, 0);
  for (i = 0; i < 3; i++)
    vram__optim_free(s, part[i]);
}

/* AveragedModel: the count of updates lies on the CPU, a copy of it comes to the device for each
   parameter, or for each dtype of them. */
static void vram__average_loop(vram__step *s) {
  const vram_param *p;
  uint32_t count = 0, next;
  for (p = s->g->param_first; p; p = p->next) {
    if (p->kind == VRAM__BUFFER)
      continue;
    next = vram__optim_alloc(s, 8, 0);
    vram__optim_free(s, count);
    count = next;
    vram__average_one(s, vram__dims_bytes_of(p->d, s->param[p->index].dt));
  }
  vram__optim_free(s, count);
}

static void vram__average_foreach(vram__step *s) {
  const vram_param *p;
  uint64_t seen = 0;
  for (p = s->g->param_first; p; p = p->next) {
    const uint64_t bit = UINT64_C(1) << s->param[p->index].dt;
    if (p->kind != VRAM__BUFFER && !(seen & bit)) {
      vram__optim_free(s, vram__optim_alloc(s, 8, 0));
      seen |= bit;
    }
  }
}

/* ModelEmaV2.update: all of state_dict(); integers times a number are f32. */
static void vram__average_timm(vram__step *s) {
  const vram_param *p;
  for (p = s->g->param_first; p; p = p->next) {
    const vram_dtype dt = s->param[p->index].dt;
    vram__average_one(s, vram__dims_bytes_of(p->d, vram__kind_rank(dt) < 2 ? VRAM_F32 : dt));
  }
}

/* The first update of an AveragedModel copies. */
VRAM__FN void vram__average_update(vram__step *s) {
  if (s->ideal)
    return;
  if (s->o->ema == VRAM_EMA_TIMM)
    vram__average_timm(s);
  else if (s->o->ema == VRAM_EMA_LOOP && !s->o->first_step)
    vram__average_loop(s);
  else if (s->o->ema == VRAM_EMA_FOREACH && !s->o->first_step)
    vram__average_foreach(s);
}
