#pragma once
#include "api/step.h"
/* >>solve =====================================================================================
   The largest value of a dim that fits a budget. */

/* All zero but the budget: the largest batch for inference. A value fits if the step's
   report.fits, with step.replay: the whole run finds its memory within the budget. */
typedef struct vram_solve_options {
  uint64_t budget_bytes;
  const char *dim;     /* NULL: the first dim of the model (the batch) */
  int segments;        /* instead of a dim: the fewest step.checkpoint_segments */
  int rank;            /* instead of a dim: the largest rank of `lora`'s adapters */
  int calm;            /* 1: look for solution->calm, too: up to log2(fits.value) more replays */
  int64_t most;        /* the largest value tried; 0: 2^31-1 */
  const vram_dim *set; /* other dims */
  uint32_t nset;
  const char
      *checkpoint_nodes;  /* ranges for vram_graph_ranges; NULL: none (step.checkpoint is unused) */
  vram_step_options step; /* its graphs are unused: */
  int64_t last_batch;     /* of an epoch; of smaller ones that are tried it is all. 0: none */
  int64_t eval_batch;     /* of an evaluation between steps; 0: none */
  int64_t dry_run_batch;  /* of a forward pass before the first step; 0: none */
  const char *lora, *quant; /* as of vram_graph_adapt; NULL: none */
  int inplace;              /* vram_graph_inplace of every graph that is tried */
  const char *freeze;       /* as of vram_graph_freeze_weights; NULL: nothing */
  int (*stop)(void *user);  /* asked between values; not 0: end with what there is. NULL: never */
  void *user;
} vram_solve_options;

/* A value that was tried; value 0: there is none. */
typedef struct vram_trial {
  int64_t value;
  vram_report report; /* of that step; all zero: more than VRAM_MAX_BYTES. Its peak_node is NULL */
} vram_trial;

typedef struct vram_solution {
  vram_trial fits;   /* the largest dim that fits; the fewest segments that fit */
  vram_trial next;   /* the next larger dim that the model allows, the next smaller number of
                        segments: it does not fit. 0: there is none up to `most` */
  vram_trial calm;   /* with options.calm, step.replay, a dim: fits if its replay gives no cached
                        memory back, which takes time at each step; else the largest one found below
                        that whose replay does not */
  vram_trial eights; /* the largest multiple of eight that fits, up to fits.value */
  vram_trial power;  /* the same for powers of two */
  vram_trial least;  /* segments: the number that takes the fewest bytes */
  int64_t larger;    /* not 0: not monotone. This value takes fewer bytes than the smaller one */
  int64_t smaller;   /* here: both were tried */
  int stopped;       /* by `stop`: a larger value may fit, `next` need not be the next one */
  int limit;         /* `next` is beyond a limit of this library, not of the budget */
  uint32_t tried;    /* how many values */
  vram_rules rules;  /* that the steps go by */
} vram_solution;

#if !defined(VRAM_NO_PLAN) && !defined(VRAM_NO_STEP)
/* Searches by trying: every figure comes from a step that was played. Values that the model does
   not allow (sizes that do not divide) are passed over. Between fits and next every value was
   tried or is not allowed. *err, if not NULL, says why not:
     VRAM_ERR_NAME    the model has no such dim
     VRAM_ERR_VALUE   options that exclude each other
     VRAM_ERR_MEMORY  the allocator gave none
     and what vram_graph_parse and vram_step say of the text and the options as they stand
   Nothing fits: VRAM_OK, solution->fits.value is 0 and next is the smallest value. */
VRAM_API vram_result vram_solve(const char *text, uint64_t len, const vram_solve_options *o,
                                const vram_allocator *allocator, vram_solution *solution,
                                vram_error *err);
#endif
