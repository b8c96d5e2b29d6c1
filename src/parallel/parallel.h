/* >>parallel    what wrappers of torch.distributed do around a step */
#pragma once
#include "step/step.h"

/* What the nodes of a unit have in common. */
typedef struct vram__unit_name {
  vram__span span; /* the beginning of their names */
  uint32_t round;  /* + 1: of the outermost loop; 0: none */
} vram__unit_name;

typedef struct vram__unit_run {
  const vram_node *first, *last;
  vram__unit_name name;
  uint8_t is_unit; /* 0: between units */
} vram__unit_run;

/* units.c */
VRAM__FN vram__unit_run vram__units_run(vram_words units, const vram_node *n);

/* fsdp.c */
VRAM__FN uint64_t vram__fsdp_bytes(const vram_graph *g, const vram_step_options *o);
VRAM__FN const char *vram__fsdp_refuses(const vram_graph *g, const vram_step_options *o);
VRAM__FN void vram__fsdp_put(vram__step *s, vram__owned *o);
VRAM__FN void vram__fsdp_construct(vram__step *s);
VRAM__FN void vram__fsdp_zero_grad(vram__step *s);
VRAM__FN void vram__fsdp_forward_begin(vram__step *s);
VRAM__FN void vram__fsdp_forward(vram__step *s);
VRAM__FN void vram__fsdp_forward_end(vram__step *s);
VRAM__FN void vram__fsdp_pre_backward(vram__step *s, uint32_t fn);
VRAM__FN void vram__fsdp_post_backward(vram__step *s, vram__grad_fn *f);
VRAM__FN void vram__fsdp_backward_end(vram__step *s);
VRAM__FN void vram__fsdp_optimized(vram__step *s);
VRAM__FN uint32_t vram__fsdp_optim_params(vram__step *s, vram__optim_param *p, int with_grad);
