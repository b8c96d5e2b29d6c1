#pragma once
#include "api/solve.h"
/* >>advise ====================================================================================
   What to change so that a step takes less. Every figure is that of a step that was played. */

/* What a change does to what is computed: the later, the dearer. */
#define VRAM_EFFECTS(X)                                                                            \
  X(SAME, "same", "the same numbers, but for the order in which they are added up")                \
  X(ROUNDING, "rounding", "the same computation with fewer bits")                                  \
  X(TRAINING, "training", "another training, with settings of its own to be found")                \
  X(TASK, "task", "smaller inputs")

typedef enum vram_effect {
#define VRAM__X(id, name, text) VRAM_EFFECT_##id,
  VRAM_EFFECTS(VRAM__X)
#undef VRAM__X
      VRAM_EFFECT_COUNT
} vram_effect;

enum { VRAM_ADVICE_CHANGES = 3 }; /* at a time */

/* Something that may be changed. */
typedef struct vram_alternative {
  const char *name; /* "autocast bf16" */
  const char *cost; /* what it costs beside operations and bytes, in words */
  vram_effect effect;
  const char *without; /* an option of the command that goes; NULL: none */
  /* words of the command that come, each with a blank in front */
  char options[VRAM_MAX_NAME + 64];
  char torch[512];   /* lines of PyTorch, divided by line feeds */
  char why_not[160]; /* "": it can be played */
} vram_alternative;

/* A step with up to three changes. */
typedef struct vram_advice_line {
  uint32_t nchange, change[VRAM_ADVICE_CHANGES]; /* numbers of alternatives, ascending */
  vram_effect effect;                            /* the dearest of them */
  int played;
  int fits;        /* the budget; 0 without one */
  int is_trifle;   /* it saves less than a hundredth, and fits no more than before */
  int is_pareto;   /* none takes as little at as little cost, and it is no trifle */
  uint32_t parts;  /* in which a rank takes its batch, one after the other; 1: all at once */
  int64_t batch;   /* of such a part; 0: the text has no dim for it */
  uint32_t rank;   /* of the step, where there are many: the fullest */
  uint64_t flops;  /* of the step's forward passes, with what runs again for backward */
  uint64_t again;  /* of these what runs again */
  uint64_t sent;   /* bytes by one rank */
  int64_t largest; /* with vram_advise_options.batches: the largest batch that fits, in all parts
                     that are added up; 0: it is not known */
  vram_report report;
} vram_advice_line;

typedef struct vram_advise_options {
  vram_solve_options step; /* as it is now: budget_bytes (0: none), set, checkpoint_nodes, lora,
                              quant, step, stop and user of it are used */
  int is_planned;          /* as it is now: --checkpoint auto, with a budget */
  int batches;             /* where the step fits: the largest batch of each line that is_pareto */
  uint32_t devices;        /* it may be divided among so many; 0: one */
  uint32_t most;           /* steps to be played at most, up to 100000; 0: 200 */
  uint32_t threads; /* `run` has k below that; 0: 1. The allocator is called from all of them */
  /* one(user, k, i) for every i below parts, k: which of the threads; NULL: one after the other */
  void (*run)(uint32_t parts, int (*one)(void *user, uint32_t k, uint32_t i), void *user);
} vram_advise_options;

typedef struct vram_advice {
  vram_alternative *alternative; /* all there are, */
  uint32_t nalternative;
  vram_advice_line now; /* the step as it is */
  /* With changes. Where the step does not fit the budget: first those that fit, what is cheapest
     first, then the smallest first. Else by effect what saves most for its cost first. Trifles are
     the last. */
  vram_advice_line *line;
  uint32_t nline;
  uint32_t played; /* steps, also those that turned out to be impossible */
  /* Changes and combinations that were not: `most` was too few; others fit and these look far from
     it, or are one more plan of checkpoints. Not counted: what holds more than the budget in
     parameters, gradients and state of the optimizer alone. */
  uint32_t left, skipped;
  int stopped;  /* by `stop`: there may be better ones */
  void *memory; /* private */
  uint64_t memory_bytes;
} vram_advice;

#if !defined(VRAM_NO_PLAN) && !defined(VRAM_NO_STEP)
/* Plays the step with each change, and where that does not fit with two and three. Errors as of
   vram_solve, for the step as it is; what a change alone makes impossible is in its why_not. */
VRAM_API vram_result vram_advise(const char *text, uint64_t len, const vram_advise_options *o,
                                 const vram_allocator *allocator, vram_advice *to, vram_error *err);
VRAM_API void vram_advice_free(vram_advice *advice, const vram_allocator *allocator);

/* Never NULL: "?" for what is none. */
VRAM_API const char *vram_effect_name(vram_effect effect);
VRAM_API const char *vram_effect_text(vram_effect effect);
#endif
