/* >>plan/step_plan    steps that are played for a plan */
#pragma once
#include "plan/plan.h"
#include "step/step.h"

#define VRAM__GRID 16 /* plans that are tried in any case */

typedef struct vram__stepper {
  const vram_graph *g;
  vram_step_options step;
  const vram_allocator *allocator;
  vram_planned_step *plan;
  vram_span *span;
  vram_range *range;
  vram_span *grid; /* what the grid's budgets gave, nstage each */
  uint32_t ngrid[VRAM__GRID];
  void *scratch, *table;
  uint64_t scratch_bytes, table_bytes;
  vram_error *err;
} vram__stepper;

/* step_plan.c */
VRAM__FN vram_result vram__step_memory(const vram_allocator *a, void **memory, uint64_t *bytes,
                                       uint64_t want, vram_error *err);
VRAM__FN vram_result vram__step_try(vram__stepper *q, uint32_t nrange, uint64_t budget,
                                    vram_report *r);
VRAM__FN vram_result vram__step_need(vram__stepper *q, uint32_t nrange, uint64_t most,
                                     uint64_t *need);
VRAM__FN int vram__step_stopped(vram__stepper *q);
VRAM__FN vram_result vram__step_stopped_early(const vram__stepper *q);

/* unit_plan.c */
VRAM__FN int vram__plan_is_by_unit(const vram_graph *g, const vram_step_options *o);
VRAM__FN vram_result vram__unit_plan(vram__stepper *q, uint64_t budget);
