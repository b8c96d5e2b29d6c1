#pragma once
#include "api/arena.h"
#include "api/step.h"
/* >>schedule ==================================================================================
   A chain of stages with a backward pass, and the order in which to compute, drop and compute again
   so that it stays within a budget at the least cost.

     x0 -> [stage 0] -> x1 -> [stage 1] -> x2 ... x(n-1) -> [stage n-1: the loss]

   Stage i reads xi and gives x(i+1); its backward reads xi, what its forward saved and the gradient
   of x(i+1), and gives the gradient of xi, which is as large as xi. Model, names and the dynamic
   program: Beaumont, Eyraud-Dubois, Herrmann, Joly, Shilova, "Optimal checkpointing for
   heterogeneous chains", with the corrections that tests/test_schedule.c shows. */

/* A forward that keeps what backward needs, and that backward. */
typedef struct vram_way {
  uint64_t saved_bytes; /* all that it keeps: its output and what else backward needs; the input
                           not counted. At least output_bytes */
  uint64_t forward_temp_bytes, backward_temp_bytes; /* beyond input, output, saved, gradients */
  uint64_t forward_cost, backward_cost;             /* in any unit, the same for the whole chain */
} vram_way;

typedef struct vram_stage {
  const char *name;                          /* NULL: its number */
  uint64_t output_bytes;                     /* x(i+1); the last stage has none: 0 */
  uint64_t forward_cost, forward_temp_bytes; /* of a forward that keeps nothing but its output */
  /* at least one: STAGES and OPTIMAL choose from several that keep more or less; the others use the
     first */
  const vram_way *way;
  uint32_t nway;
  const vram_node *first, *last; /* NULL, or the nodes of a graph that the stage stands for */
} vram_stage;

typedef struct vram_chain {
  const vram_stage *stage;
  uint32_t nstage;
  uint64_t input_bytes;          /* x0 */
  uint64_t input_gradient_bytes; /* of x0: input_bytes, or 0 if nobody wants it */
  uint64_t static_bytes;         /* there all the time: parameters, gradients, optimizer state */
  uint64_t align;                /* what every buffer is rounded up to, a power of two; 0: 1 */
  /* a copy to the host or back costs so much for so many bytes (0: 1), rounded up */
  uint64_t transfer_cost, transfer_bytes;
} vram_chain;

#define VRAM_MAX_STAGES 4096

/* What a schedule is made of. */
#define VRAM_MOVES(X)                                                                              \
  X(DROP, "drop")             /* forward; nothing is saved, the input goes */                      \
  X(CHECKPOINT, "checkpoint") /* forward; nothing is saved, the input stays */                     \
  X(SAVE, "save")             /* forward by way `way`; what backward needs stays, the input too */ \
  X(BACKWARD, "backward")     /* backward; what was saved, the input and the gradient go */        \
  X(OFFLOAD, "offload")       /* the stage's input moves from the device to the host */            \
  X(OFFLOAD_SAVED, "offload_saved") /* what its way saved beyond its output moves to the host */   \
  X(FETCH, "fetch")                 /* the stage's input moves back to the device */               \
  X(FETCH_SAVED, "fetch_saved")     /* what was saved moves back to the device */

typedef enum vram_move_kind {
#define VRAM__X(id, text) VRAM_MOVE_##id,
  VRAM_MOVES(VRAM__X)
#undef VRAM__X
      VRAM_MOVE_COUNT
} vram_move_kind;

typedef struct vram_move {
  uint32_t stage;
  uint8_t kind; /* vram_move_kind */
  uint8_t way;  /* of SAVE */
} vram_move;

#define VRAM_PLANNERS(X)                                                                           \
  X(OPTIMAL, "optimal")       /* the cheapest persistent schedule: what is stored stays until its  \
                                 backward */                                                       \
  X(STAGES, "stages")         /* every stage plain or checkpointed, the cheapest choice */         \
  X(SEQUENTIAL, "sequential") /* torch.utils.checkpoint.checkpoint_sequential(k segments) */       \
  X(SQRT, "sqrt")             /* that with the square root of the number of stages (Chen) */       \
  X(REVOLVE, "revolve")       /* so many snapshots, equal steps (Griewank, Walther) */             \
  X(PLAIN, "plain")           /* nothing is computed twice */

typedef enum vram_planner {
#define VRAM__X(id, text) VRAM_PLANNER_##id,
  VRAM_PLANNERS(VRAM__X)
#undef VRAM__X
      VRAM_PLANNER_COUNT
} vram_planner;

/* All zero but the budget: the cheapest schedule that fits it. */
typedef struct vram_schedule_options {
  vram_planner planner;
  uint64_t budget_bytes; /* with the chain's static_bytes. 0: no limit */
  uint32_t segments;     /* SEQUENTIAL: so many, 0: the cheapest that fit */
  uint32_t snapshots;    /* REVOLVE: so many with the input, 0: the cheapest that fit */
  /* OPTIMAL, STAGES: steps that the bytes of the plain run are divided into; 0: by the length. The
     result is the optimum where the sizes are multiples of such a step, and near it otherwise */
  uint32_t slots;
  int offload;             /* OPTIMAL: to the host, too, at the chain's transfer_cost */
  int (*stop)(void *user); /* OPTIMAL, STAGES: asked now and then; not 0: end with the best so far,
                              which may be that of another planner. NULL: never */
  void *user;
} vram_schedule_options;

typedef struct vram_schedule {
  vram_move *move; /* in the caller's scratch */
  uint32_t nmove;
  int feasible;                   /* 0: nothing fits the budget: this is the schedule of, */
  uint64_t smallest_budget_bytes; /* the smallest budget that this planner can keep */
  uint64_t peak_bytes, cost;      /* as vram_schedule_verify counted them */
  uint64_t host_bytes;            /* that live on the host at most */
  int stopped;                    /* by `stop`: a cheaper one may be there */
} vram_schedule;

/* What a replay counted. */
typedef struct vram_schedule_count {
  uint64_t peak_bytes, cost, host_bytes;
  uint32_t peak_move;       /* the first that reached the peak */
  uint64_t recomputed_cost; /* of forwards beyond the first of each stage, and transfers */
  uint64_t forwards;        /* moves that compute forward */
} vram_schedule_count;

#ifndef VRAM_NO_PLAN
VRAM_API const char *vram_move_name(uint32_t kind);       /* "save"; "?" for what is none */
VRAM_API const char *vram_planner_name(uint32_t planner); /* "optimal"; "?" */

/* Scratch for vram_schedule_plan, the schedule itself in it. VRAM_OVERFLOW: too much, or a bad
   chain. o NULL: all zero */
VRAM_API uint64_t vram_schedule_bytes(const vram_chain *c, const vram_schedule_options *o);

/* Finds a schedule. One that is not feasible is no error: feasible is 0, and the schedule is that
   of smallest_budget_bytes. OPTIMAL never costs more than another planner within the same budget
   (but STAGES with more slots), nor more with a larger budget than with a smaller one; the smallest
   budget is exact. To the host go inputs of stages and what ways saved beyond their output, right
   after the forward that last needed them, and back right before the backward, or the forward, that
   needs them next; transfers cost their full price, though a runner may do them beside computation.
     VRAM_ERR_VALUE     a bad chain (err says which stage, line - 1, and why), options that
                        exclude each other
     VRAM_ERR_OVERFLOW  sizes or costs that add up beyond 63 bits
     VRAM_ERR_MEMORY    scratch is too small */
VRAM_API vram_result vram_schedule_plan(const vram_chain *c, const vram_schedule_options *o,
                                        void *scratch, uint64_t scratch_bytes,
                                        vram_schedule *schedule, vram_error *err);

/* Replays moves, whoever made them, without any part of the planners: every move has what it needs,
   every stage runs backward once, nothing is left over. Scratch of vram_schedule_verify_bytes.
   VRAM_ERR_VALUE: err says which move (line - 1) and what it lacks. */
VRAM_API uint64_t vram_schedule_verify_bytes(const vram_chain *c);
VRAM_API vram_result vram_schedule_verify(const vram_chain *c, const vram_move *move,
                                          uint32_t nmove, void *scratch, uint64_t scratch_bytes,
                                          vram_schedule_count *count, vram_error *err);
#endif

#if !defined(VRAM_NO_PLAN) && !defined(VRAM_NO_STEP)
/* Cuts a model where one tensor that wants a gradient is alive and kept: what PyTorch allocates in
   a training step (o->train) with these options becomes the bytes of the stages, in blocks of 512
   bytes, and vram_node_flops their costs, twice as much backward. What is computed once and used
   everywhere is not what a cut waits for, but part of static_bytes: masks, tables, values with four
   or more readers. So are parameters, gradients, optimizer state, inputs. A stage never begins with
   an operation that writes to its input, nor ends with a view of it. max_stages: with more of them
   neighbours that keep least become one; 0: 128. stage.first and .last are the nodes; the last
   stage has the loss. The chain and all that it points to is in scratch.
     VRAM_ERR_VALUE  no training step; options with checkpoints
     what vram_step gives */
VRAM_API uint64_t vram_chain_cut_bytes(const vram_graph *g, const vram_step_options *o);
VRAM_API vram_result vram_chain_cut(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, void *scratch, uint64_t scratch_bytes,
                                    vram_chain *c, vram_error *err);
#endif

/* Stages from first to last, run without saving and computed again in backward. */
typedef struct vram_span {
  uint32_t first, last;
} vram_span;

#ifndef VRAM_NO_PLAN
/* The schedule as calls of torch.utils.checkpoint.checkpoint: one span each, in the order in which
   they begin, outer ones first; they nest. *count becomes how many there are; at most cap are
   written. VRAM_ERR_UNSUPPORTED: moves that are no nest of calls (offload). */
VRAM_API vram_result vram_schedule_spans(const vram_chain *c, const vram_move *move, uint32_t nmove,
                                         vram_span *list, uint32_t cap, uint32_t *count,
                                         vram_error *err);
#endif

/* A training step within a budget: which nodes to run in torch.utils.checkpoint.checkpoint. */
typedef struct vram_planned_step {
  vram_chain chain;               /* the model in stages, */
  vram_schedule schedule;         /* what is computed when, as the chain sees it, */
  const vram_span *span;          /* as calls of checkpoint() around stages, */
  const vram_range *range;        /* and around nodes: vram_step_options.checkpoint */
  uint32_t nrange, nunit;         /* nunit: of so many units; 0: of the chain's stages */
  int feasible;                   /* 0: the plan is that of smallest_budget_bytes */
  uint64_t smallest_budget_bytes; /* that any of the plans tried fits; stopped: the budget itself */
  int stopped;                    /* by o->stop: a cheaper one may be there */
  uint64_t cost, cost_plain;      /* operations (vram_node_flops) */
  vram_report plain, report;      /* of the step without checkpoints, and as planned */
  uint32_t tried;                 /* steps played */
  /* private: what the lists above lie in */
  void *memory;
  uint64_t memory_bytes, moves_bytes;
} vram_planned_step;

#if !defined(VRAM_NO_PLAN) && !defined(VRAM_NO_STEP)
/* Finds the cheapest calls of checkpoint() with which the step fits o->budget_bytes: chains are
   planned for budgets between the chain's smallest and its plain peak, each plan is played as
   PyTorch would run it, and what counts is report.fits of that step (with o->replay: the whole run
   finds its memory). What the chain says is only the guide: it holds all gradients from the
   beginning, PyTorch's step does not. max_stages as vram_chain_cut has it. Under a wrapper that
   gathers parameters for units (o->parallel: fsdp1, fsdp2, ds3), and in a pipeline, where the model
   has units, calls are around whole units, as vram_graph_unit_ranges has them, of a pipeline those
   of the rank's stages: those that save most for what runs again, as many as the played step needs;
   there is no chain then and no schedule, span is NULL. A budget that no plan fits is no error:
   feasible is 0. Where o->stop says so before one was found that fits, it ends with VRAM_ERR_CALL.
   Errors as vram_chain_cut and vram_step; VRAM_ERR_MEMORY: the allocator gave none.
   vram_step_plan_free gives the memory back; not needed after an error. */
VRAM_API vram_result vram_step_plan(const vram_graph *g, const vram_step_options *o,
                                    uint32_t max_stages, const vram_allocator *allocator,
                                    vram_planned_step *plan, vram_error *err);
VRAM_API void vram_step_plan_free(vram_planned_step *plan, const vram_allocator *allocator);
#endif
