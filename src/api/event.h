#pragma once
#include "api/graph.h"
#include "api/types.h"
/* >>event =====================================================================================
   What is predicted and what is observed are the same stream of events. */

#define VRAM_CATEGORIES(X)                                                                         \
  X(PARAMS, "params")                                                                              \
  X(BUFFERS, "buffers")                                                                            \
  X(INPUTS, "inputs")                                                                              \
  X(ACTIVATIONS, "activations")                                                                    \
  X(AUTOCAST, "autocast")                                                                          \
  X(TEMPORARIES, "temporaries")                                                                    \
  X(WORKSPACE, "workspace")                                                                        \
  X(GRADIENTS, "gradients")                                                                        \
  X(OPTIMIZER, "optimizer")                                                                        \
  X(CACHE, "cache") /* what a step of a generation left for the next one */                        \
  X(OTHER, "other")

typedef enum vram_category {
#define VRAM__X(id, text) VRAM_CATEGORY_##id,
  VRAM_CATEGORIES(VRAM__X)
#undef VRAM__X
      VRAM_CATEGORY_COUNT
} vram_category;

#define VRAM_PHASES(X)                                                                             \
  X(ZERO_GRAD, "zero_grad")                                                                        \
  X(FORWARD, "forward")                                                                            \
  X(BACKWARD, "backward")                                                                          \
  X(OPTIMIZER, "optimizer")                                                                        \
  X(EVALUATION, "evaluation")                                                                      \
  X(END, "end")                                                                                    \
  X(WRAP, "wrap") /* before the first step: what a wrapper of torch.distributed constructs */      \
  X(STEP, "step") /* forward and backward of all microbatches of a pipeline */

typedef enum vram_phase {
#define VRAM__X(id, text) VRAM_PHASE_##id,
  VRAM_PHASES(VRAM__X)
#undef VRAM__X
      VRAM_PHASE_COUNT
} vram_phase;

#define VRAM_ACTIONS(X)                                                                            \
  X(ALLOC, "alloc")                                                                                \
  X(FREE, "free")       /* nobody uses it any more: PyTorch's free_completed */                    \
  X(BECOMES, "becomes") /* what is allocated counts in another category from now on: a gradient    \
                           that backward leaves behind was a temporary; not in                     \
                           vram_report.events */                                                   \
  X(FREE_REQUESTED, "free_requested") /* given back; streams still use it. FREE follows */         \
  X(SEGMENT_ALLOC, "segment_alloc")   /* memory comes from the device: reserved */                 \
  X(SEGMENT_FREE, "segment_free")                                                                  \
  X(SEGMENT_MAP, "segment_map") /* the same for growing segments */                                \
  X(SEGMENT_UNMAP, "segment_unmap")                                                                \
  X(RETRY, "retry") /* nothing left: what is cached went back, and the device was asked again */   \
  X(OOM, "oom")     /* that failed, too */                                                         \
  X(MARK, "mark")   /* a place in the program; no memory changes */

typedef enum vram_action {
#define VRAM__X(id, text) VRAM_ACTION_##id,
  VRAM_ACTIONS(VRAM__X)
#undef VRAM__X
      VRAM_ACTION_COUNT
} vram_action;

#define VRAM_DEVICE_HOST 0xffu /* vram_event.device: host memory */

#define VRAM_SMALL_POOL_BYTES                                                                      \
  1048576u /* requests up to so many are of the small pool: kSmallSize */

/* One allocation or free. A predicted one knows action, phase, category, was, id, bytes and node;
   the rest is 0. An observed one has an address, and no id. */
typedef struct vram_event {
  vram_action action;
  vram_phase phase;
  vram_category category;
  vram_category was;     /* VRAM_ACTION_BECOMES: the category until now; else as category */
  int64_t id;            /* 0, 1, ... in order of allocation; -1: allocated before the step, or
                            known by its address */
  uint64_t bytes;        /* requested; of a segment: its size; OOM: what was asked of the device */
  const vram_node *node; /* NULL: none */
  uint64_t address;      /* 0: it has none */
  uint64_t block_bytes;  /* what the allocator set aside for it; 0: `bytes` */
  uint64_t stream;
  uint64_t time;        /* microseconds since 1970; 0: there is no clock */
  uint64_t device_free; /* OOM: bytes that the device says are free */
  int64_t split_bytes;  /* by so much this event changes what is free in segments that are */
  int32_t split;        /* partly in use (PyTorch's inactive_split), and the number of pieces */
  uint32_t owner;       /* who asked, as vram_ledger_owner numbers them; 0: not known */
  uint8_t device;       /* ordinal, VRAM_DEVICE_HOST */
  uint8_t small_pool;   /* 1: of the pool for requests up to VRAM_SMALL_POOL_BYTES */
  uint8_t whole;        /* 1: a segment of its own, no pool in between: counts as reserved, too */
  uint8_t kind;         /* the caller's: by which call; counted by kind */
  uint8_t waited;       /* FREE: FREE_REQUESTED came before; a ledger knows by itself */
} vram_event;

/* Names as they stand in files ("free_requested", "activations", "backward"); "?" for what is none.
   Never NULL. */
VRAM_API const char *vram_action_name(vram_action action);
VRAM_API const char *vram_category_name(vram_category category);
VRAM_API const char *vram_phase_name(vram_phase phase);
