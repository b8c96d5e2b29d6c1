/* >>parallel/fsdp_stage    fully_shard around a stage of a pipeline: what the schedule asks for
   (torch/distributed/pipelining/schedules.py and stage.py; FSDPModule's functions of these names)
 */
#include "parallel/fsdp.h"

/* UNSHARD: unshard(async_op=True) of the root and each unit, on the stream of the schedule */
VRAM__FN void vram__fsdp_stage_unshard(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup && !s->failed; k++) {
    vram__fsdp_group *g = d->group + k;
    g->async = !g->gathered && g->state != VRAM__FSDP_WHOLE;
    vram__fsdp_unshard(s, g);
  }
}

VRAM__FN void vram__fsdp_stage_wait(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup && !s->failed; k++)
    vram__fsdp_wait(s, d->group + k);
}

/* RESHARD */
VRAM__FN void vram__fsdp_stage_reshard(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  for (k = 0; k < d->ngroup && !s->failed; k++)
    vram__fsdp_reshard(s, d->group + k);
}

/* REDUCE_GRAD: start_gradient_reduction, the last unit first */
VRAM__FN void vram__fsdp_stage_reduce(vram__step *s) {
  vram__fsdp *d = vram__fsdp_of(s);
  uint32_t k;
  s->last_batch = 1;
  for (k = d->ngroup; k-- > 0 && !s->failed;) {
    vram__fsdp_post_backward_of(s, k);
    d->group[k].training = VRAM__FSDP_IDLE;
  }
}
