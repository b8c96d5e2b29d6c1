/* >>parallel    what wrappers of torch.distributed do around a step */
#pragma once
#include "step/step.h"

/* wrapper.c */
VRAM__FN uint32_t vram__buffer_new(vram__step *s, uint64_t bytes, uint8_t cat);
VRAM__FN uint32_t vram__buffer_new_on(vram__step *s, uint64_t bytes, uint8_t cat, uint8_t stream);
VRAM__FN void vram__buffer_free(vram__step *s, uint32_t *slot);
VRAM__FN void vram__buffer_briefly(vram__step *s, uint64_t bytes);
VRAM__FN void vram__reduction_briefly(vram__step *s, uint64_t numel, vram_dtype dtype,
                                      uint32_t acc);
VRAM__FN uint32_t vram__buffer_existing(vram__step *s, uint64_t bytes, uint8_t cat, uint32_t block);

/* staged.c */
VRAM__FN void vram__staged_at(vram__step *s, uint32_t k);
VRAM__FN uint32_t vram__staged_stage(const vram__step *s);
VRAM__FN void vram__staged_nodes(const vram__step *s, const vram_node **first,
                                 const vram_node **end);
VRAM__FN int vram__staged_has(const vram__step *s, const vram_param *p);
VRAM__FN void vram__staged_hooks(vram__wrapper *w);

#define VRAM__CONTEXT_ALONE "cp goes with a wrapper, without tp, pp and ep"

/* ddp.c */
VRAM__FN void vram__ddp_hooks_of_one(const vram_step_options *o, vram__wrapper *w);
VRAM__FN void vram__ddp_hooks(const vram_step_options *o, vram__wrapper *w);
VRAM__FN void vram__ddp_last_backward(vram__step *s);

/* zero.c */
VRAM__FN void vram__zero_hooks(const vram_step_options *o, vram__wrapper *w);

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
VRAM__FN int vram__units_known(const vram_graph *g, vram_words units);
VRAM__FN vram__unit_run vram__units_run(const vram_graph *g, vram_words units, const vram_node *n);

/* fsdp.c */
VRAM__FN void vram__fsdp_unit(vram__step *s, uint32_t what, uint32_t k);

/* fsdp_stage.c */
VRAM__FN void vram__fsdp_stage_unshard(vram__step *s);
VRAM__FN void vram__fsdp_stage_wait(vram__step *s);
VRAM__FN void vram__fsdp_stage_reshard(vram__step *s);
VRAM__FN void vram__fsdp_stage_reduce(vram__step *s);

/* fsdp_make.c */
VRAM__FN void vram__fsdp_wrapper(vram__wrapper *w);

/* fsdp1.c */
VRAM__FN void vram__fsdp1_wrapper(const vram_step_options *o, vram__wrapper *w);

/* deepspeed.c */
VRAM__FN void vram__ds_hooks(vram__wrapper *w);

/* deepspeed3.c */
VRAM__FN void vram__ds3_hooks(vram__wrapper *w);
