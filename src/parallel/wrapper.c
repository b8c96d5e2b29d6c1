/* >>parallel/wrapper    which wrapper does what, and when */
#include "parallel/parallel.h"

/* Fills in the hooks of the wrapper of these options; 0: there is none. */
VRAM__FN int vram__wrapper_of(const vram_step_options *o, vram__wrapper *w) {
  vram__memory_zero(w, sizeof *w);
  if (!o || !o->parallel)
    return 0;
  switch (o->parallel->wrapper) {
  case VRAM_WRAPPER_DDP:
    vram__ddp_hooks(o, w);
    return 1;
  case VRAM_WRAPPER_ZERO1:
    vram__zero_hooks(o, w);
    return 1;
  case VRAM_WRAPPER_DS1:
  case VRAM_WRAPPER_DS2:
    vram__ds_hooks(w);
    return 1;
  case VRAM_WRAPPER_DS3:
    vram__ds3_hooks(w);
    return 1;
  case VRAM_WRAPPER_FSDP2:
    vram__fsdp_wrapper(w);
    return 1;
  default:
    return o->parallel->wrapper != VRAM_WRAPPER_NONE;
  }
}

/* What no rank can begin with, or NULL. */
VRAM__FN const char *vram__wrapper_refuses(const vram_graph *g, const vram_step_options *o) {
  vram__wrapper w;
  if (!o->parallel)
    return NULL;
  if ((uint32_t)o->parallel->wrapper >= VRAM_WRAPPER_COUNT)
    return "unknown wrapper";
  if (o->parallel->rank >= vram_parallel_world(o->parallel))
    return "a rank that the world does not have";
  if (o->parallel->tp > 1 || o->parallel->pp > 1 || o->parallel->cp > 1 || o->parallel->ep > 1)
    return "tp, pp, cp and ep are not played yet";
  if (!vram__wrapper_of(o, &w))
    return NULL;
  if (!w.construct)
    return "this wrapper is not played yet";
  return w.refuses ? w.refuses(g, o) : NULL;
}
