/* >>parallel/pipe    stages of a pipeline, and what a microbatch does on one */
#pragma once
#include "parallel/parallel.h"

/* A value that goes from one stage to the next. */
typedef struct vram__handover {
  const vram_value *value; /* of the whole model */
  const vram_dims *d;
  vram_dtype dt;
  uint8_t grad; /* it wants a gradient, which comes back */
} vram__handover;

/* What happens in a part: an allocation is the part's next id. */
enum {
  VRAM__PART_ALLOC,
  VRAM__PART_FREE,
  VRAM__PART_BRIEF,    /* what a library has while it runs */
  VRAM__PART_STAYS,    /* a library's workspace that stays: id */
  VRAM__PART_RETURNS,  /* the module has returned, and the schedule's loss_fn begins */
  VRAM__PART_GRADIENT, /* a parameter has a gradient, or more of it */
  VRAM__PART_HOLD,     /* the microbatch holds the copy `id` of autocast's cache, */
  VRAM__PART_DROP,     /* and lets it go */
  VRAM__PART_EMPTIED,  /* the cache is emptied, of all stages */
  VRAM__PART_UNIT      /* of a wrapper whose parameters are gathered for units: what it does then
                          depends on what it did before, and whoever plays the part plays it */
};

typedef struct vram__part_event {
  uint64_t bytes; /* of a gradient: the leaf; of a unit: its number */
  const vram_node *node;
  uint32_t id; /* see VRAM__ID_; of a gradient that was there before: VRAM__ID_NONE; of a unit: what
                  it does */
  uint8_t kind;
  uint8_t cat; /* of a gradient: its dtype */
  uint8_t stream;
  uint8_t kept;  /* whoever plays the part holds it, too; of a gradient: by AccumulateGrad */
  uint32_t cast; /* of an allocation: autocast's copy of that number, + 1; 0: none */
} vram__part_event;

/* Ids of a part: its own; those of the forward part of the same microbatch, numbered as they live
   behind it; those of the first microbatch's (casts of weights). In lists of what a part gives also
   the inputs of the stage. */
#define VRAM__ID_FORWARD (UINT32_C(1) << 30)
#define VRAM__ID_FIRST (UINT32_C(2) << 30)
#define VRAM__ID_INPUT (UINT32_C(3) << 30)
#define VRAM__ID_NONE UINT32_MAX
#define VRAM__ID_KIND(id) ((id)&UINT32_C(3) << 30)
#define VRAM__ID_NUMBER(id) ((id) & ((UINT32_C(1) << 30) - 1))

/* A part of a microbatch's step, played once: what it asks for and gives back. */
typedef struct vram__played {
  vram__part_event *event;
  uint32_t count;
  uint32_t ids, live; /* allocations; of a forward part: how many of them live behind it */
  uint32_t *given;    /* ids of what it gives: a forward part its outputs, then the loss; a
                         backward or input part the gradients of its inputs */
  uint32_t *live_of;  /* of a forward part: for each id its number behind it, or NONE */
  vram_communication communication[VRAM_COLLECTIVE_COUNT];
  uint8_t known;
} vram__played;

/* Which parts there are: of the first microbatch or a later one, and those that make gradients
   before there are any or behind that. Where autocast's cache is emptied, of one that casts or one
   that finds it filled, and backward parts of either that find it empty, too. */
enum {
  VRAM__PART_FORWARD,
  VRAM__PART_BACKWARD = 2,
  VRAM__PART_INPUT = 6,
  VRAM__PART_WEIGHT = 8,
  VRAM__PART_EMPTY = 12,
  VRAM__PARTS = 16
};

typedef struct vram__pipe_stage {
  uint32_t stage;
  const vram_node *lo, *hi;     /* of the whole model: its first node, and the one behind it */
  const vram_node *first, *end; /* the same of the rank's graph */
  uint32_t nin, nout;           /* what crosses into it, and out of it: of the last one, the loss */
  const vram__handover *in, *out;
  uint8_t *is_cast;                   /* by input: autocast's cache has a copy, which holds it */
  vram_value **in_value, **out_value; /* of the rank's graph */
  const vram_node *loss;              /* where the schedule's loss_fn begins; NULL: it is last */
  uint8_t is_first, is_last;
  uint8_t has_ranges, is_cached; /* nodes run again in its backward; while one looks for that */
  uint32_t ncast;                /* copies in autocast's cache, where that is emptied */
  vram__played part[VRAM__PARTS];
} vram__pipe_stage;

/* A buffer, or a gradient of one, that a stage keeps from step to step. */
typedef struct vram__pipe_buffer {
  uint64_t bytes;
  uint32_t slot, block;
  uint32_t same; /* what came before and is the same tensor, + 1 */
} vram__pipe_buffer;

typedef struct vram__pipe {
  const vram_graph *whole;
  const vram_parallel *parallel;
  const vram_range *checkpoint; /* what the whole model has checkpointed: */
  uint32_t ncheckpoint;         /* so many */
  vram_parallel alone;          /* the same without a wrapper: of steps that play parts */
  uint32_t wrapped;             /* what that is, as far as they know */
  vram_graph g;                 /* the rank's */
  uint8_t *mem;
  uint64_t used, cap;
  uint32_t rank, ranks, local, stages, microbatches; /* of the pipeline */
  uint32_t schedule, tp;
  const vram_node **unit;  /* first nodes of the whole model's units, */
  uint32_t units;          /* so many */
  vram__pipe_stage *stage; /* `local` of them */
  vram_stage_action *action;
  uint32_t naction;
  vram_range *range;         /* nodes that are checkpointed, of the rank's graph: */
  uint32_t nrange;           /* so many */
  uint8_t *casts, *full;     /* see vram__pipe_casts_find */
  uint8_t clears;            /* what runs again empties autocast's cache */
  uint32_t ndata;            /* inputs of the model that some local stage uses: the first ones */
  uint64_t target;           /* bytes of the batch's target where the loss is in the model */
  uint64_t saved, autocast;  /* bytes: of a microbatch on all local stages */
  uint64_t workspace, cudnn; /* the largest; of cuDNN, whose choice is not known: at most */
  int runs_cudnn;
  uint32_t *chunk, *blocks;  /* slots and blocks of outputs that the schedule keeps */
  uint32_t does;             /* VRAM__PIPE_... of the rules */
  vram__pipe_buffer *buffer; /* by microbatch and stage: inputs, their gradients, those of outputs;
                            NULL: nothing is kept */
  vram_error refused;        /* of PyTorch */
  uint32_t at; /* the local stage whose wrapper s->wrapped is; each keeps so many bytes */
  uint64_t each;
  uint64_t late; /* bytes of blocks that were sent in this step, or the last one */
  const char *problem;
  vram_words found; /* what it is about */
  vram_result failed;
  uint8_t differ; /* microbatches that were taken for alike are not: each is played */
  uint8_t played; /* all parts of the stage were */
} vram__pipe;

static inline int vram__pipe_returns(const vram__pipe *p) {
  return p->parallel->return_outputs || (p->does & VRAM__PIPE_RETURNS) != 0;
}

/* stage.c */
VRAM__FN void *vram__pipe_take(vram__pipe *p, uint64_t n);
VRAM__FN int vram__pipe_cut(vram__pipe *p, const vram_step_options *o);
VRAM__FN int vram__pipe_graph(vram__pipe *p, const vram_step_options *o);
VRAM__FN int vram__pipe_splits(const vram__pipe *p);

/* crossing.c, parts_play.c */
VRAM__FN int vram__pipe_look(vram__pipe *p, const vram_step_options *o, void *scratch,
                             uint64_t bytes);
VRAM__FN int vram__pipe_parts(vram__pipe *p, const vram_step_options *o, void *scratch,
                              uint64_t bytes);
VRAM__FN int vram__pipe_fail(vram__pipe *p, vram_result code, const char *what);

/* parts_cast.c */
VRAM__FN int vram__pipe_casts_find(vram__pipe *p);

/* Is it a later microbatch of local stage k, as to its parts? */
static inline uint32_t vram__pipe_is_later(const vram__pipe *p, uint32_t k, uint32_t mb) {
  return p->casts ? !p->casts[(uint64_t)k * p->microbatches + mb] : mb != 0;
}

/* What is added to its backward parts. */
static inline uint32_t vram__pipe_emptied(const vram__pipe *p, uint32_t k, uint32_t mb) {
  return p->casts && !p->full[(uint64_t)k * p->microbatches + mb]
             ? VRAM__PART_EMPTY - VRAM__PART_BACKWARD
             : 0;
}
