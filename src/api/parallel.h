#pragma once
#include "api/graph.h"
/* >>parallel ==================================================================================
   One rank of many: what is cut (the graph of one rank: pipeline stages, tensor, context and expert
   parallelism) and what is wrapped around the step (DistributedDataParallel,
   ZeroRedundancyOptimizer, fully_shard, FullyShardedDataParallel, DeepSpeed).

     vram_parallel p;
     vram_parallel_parse("fsdp2=4,mp=bf16,reduce=f32+tp=2", &p, &err);
     p.rank = 3;
     options.parallel = &p;

   The ranks of the world are numbered as torchtitan's mesh is: pp outermost, then the wrapper's
   (copies, then shards), cp, tp innermost. ep lies within the wrapper's ranks. */

#define VRAM_WRAPPERS(X)                                                                           \
  X(DDP, "ddp")     /* torch.nn.parallel.DistributedDataParallel */                                \
  X(ZERO1, "zero1") /* around it torch.distributed.optim.ZeroRedundancyOptimizer */                \
  X(FSDP1, "fsdp1") /* torch.distributed.fsdp.FullyShardedDataParallel */                          \
  X(FSDP2, "fsdp2") /* torch.distributed.fsdp.fully_shard; of copies x shards: hsdp */             \
  X(DS1, "ds1")     /* deepspeed.initialize, zero_optimization.stage 1, 2, 3 */                    \
  X(DS2, "ds2")                                                                                    \
  X(DS3, "ds3")

typedef enum vram_wrapper {
  VRAM_WRAPPER_NONE,
#define VRAM__X(id, text) VRAM_WRAPPER_##id,
  VRAM_WRAPPERS(VRAM__X)
#undef VRAM__X
      VRAM_WRAPPER_COUNT
} vram_wrapper;

/* torch.distributed.pipelining.schedules */
#define VRAM_PIPELINES(X)                                                                          \
  X(1F1B, "1F1B")                                                                                  \
  X(GPIPE, "GPipe")                                                                                \
  X(INTERLEAVED_1F1B, "Interleaved1F1B")                                                           \
  X(INTERLEAVED_ZERO_BUBBLE, "InterleavedZeroBubble")                                              \
  X(ZBV_ZERO_BUBBLE, "ZBVZeroBubble")                                                              \
  X(LOOPED_BFS, "LoopedBFS")                                                                       \
  X(DUAL_PIPE_V, "DualPipeV")

typedef enum vram_pipeline {
#define VRAM__X(id, text) VRAM_PIPELINE_##id,
  VRAM_PIPELINES(VRAM__X)
#undef VRAM__X
      VRAM_PIPELINE_COUNT
} vram_pipeline;

typedef enum vram_reshard {                       /* reshard_after_forward */
                            VRAM_RESHARD_DEFAULT, /* units, not the root */
                            VRAM_RESHARD_NEVER,
                            VRAM_RESHARD_ALWAYS,
                            VRAM_RESHARD_RANKS /* to reshard_ranks */
} vram_reshard;

typedef enum vram_sharding { /* of FullyShardedDataParallel */
                             VRAM_SHARDING_FULL,
                             VRAM_SHARDING_GRAD_OP,
                             VRAM_SHARDING_NONE,
                             VRAM_SHARDING_HYBRID,
                             VRAM_SHARDING_HYBRID_GRAD_OP
} vram_sharding;

typedef enum vram_backward_prefetch { /* of FullyShardedDataParallel */
                                      VRAM_PREFETCH_PRE,
                                      VRAM_PREFETCH_POST,
                                      VRAM_PREFETCH_NONE
} vram_backward_prefetch;

/* A text inside another one. */
typedef struct vram_words {
  const char *text; /* NULL: none */
  uint32_t len;
} vram_words;

/* Filled by vram_parallel_parse, which knows the defaults; sizes of 0 are 1. Names of options are
   those of PyTorch and DeepSpeed. */
typedef struct vram_parallel {
  vram_wrapper wrapper;
  uint32_t copies; /* of what the wrapper shards: hsdp=COPIESxSHARDS; else 1 */
  uint32_t dp;     /* ranks of the wrapper, without copies */
  uint32_t tp, pp, cp, ep;
  uint32_t rank; /* of the world, from 0 */
  uint32_t step; /* 0: a steady one; 2, 3, ...: that one of the run (the first is
                    vram_step_options.first_step) */
  /* DistributedDataParallel */
  uint64_t bucket_cap_bytes; /* bucket_cap_mb times 2^20; 0: as nobody has said, 25 MiB and of the
                                first bucket 1 MiB */
  uint8_t gradient_as_bucket_view, static_graph, find_unused_parameters, broadcast_buffers;
  vram_dtype hook; /* bf16_compress_hook, fp16_compress_hook; VRAM_DTYPE_NONE: none */
  /* ZeroRedundancyOptimizer */
  uint8_t parameters_as_bucket_view, overlap_with_ddp;
  /* fully_shard, FullyShardedDataParallel: param_dtype and reduce_dtype of the mixed precision
     policy; NONE: as stored */
  vram_dtype mp, reduce;
  uint8_t cast_forward_inputs, cpu_offload;
  uint8_t meta; /* the model comes from the meta device: no full parameters at construction */
  vram_reshard reshard;
  uint32_t reshard_ranks;
  uint32_t prefetch; /* set_modules_to_forward_prefetch and _backward_prefetch: so many units */
  vram_words units;  /* "auto", "root", or the names of the units' nodes up to a point: "a.*|b" */
  vram_sharding sharding;
  uint8_t use_orig_params, limit_all_gathers, forward_prefetch;
  vram_backward_prefetch backward_prefetch;
  /* tensor parallelism */
  uint8_t sp, loss_parallel; /* SequenceParallel; loss_parallel() */
  vram_words plan;           /* as `tp` lines, with : for blanks and / between them; before those of
                                the text */
  /* context parallelism: set_rotate_method("alltoall"); _cp_options.enable_load_balance */
  uint8_t alltoall, enable_load_balance;
  /* pipelines */
  uint8_t is_pipeline; /* "pp" was said: a schedule's step, with pp = 1, too */
  vram_pipeline schedule;
  uint32_t microbatches;
  uint32_t stages;    /* of this rank; 0: as the schedule has it */
  vram_words loss_fn; /* the node where the schedule's loss_fn begins; NULL: the model's own loss
                         is its output */
  uint8_t
      balance; /* stages are cut so that the fullest takes least, not in equal numbers of units */
  vram_dtype crossing; /* input_args and output_args of PipelineStage have it; NONE: what the values
                          have */
  uint8_t return_outputs; /* schedule.step(return_outputs=True) */
  /* DeepSpeed: bytes are those of its elements */
  uint8_t bf16, fp16; /* .enabled: fp16 goes before */
  uint8_t overlap_comm, contiguous_gradients, reduce_scatter, round_robin_gradients;
  uint8_t offload_optimizer, offload_param;           /* 1: on the host, */
  uint8_t pin_memory;                                 /* in pinned memory */
  vram_dtype communication_data_type;                 /* NONE: that of the model */
  uint64_t reduce_bucket_size, allgather_bucket_size; /* elements */
  uint64_t sub_group_size, stage3_prefetch_bucket_size, stage3_param_persistence_threshold,
      stage3_max_live_parameters, stage3_max_reuse_distance;
} vram_parallel;

/* Calls of torch.distributed, by what they do. */
#define VRAM_COLLECTIVES(X)                                                                        \
  X(ALL_REDUCE, "all_reduce")                                                                      \
  X(ALL_GATHER, "all_gather")                                                                      \
  X(REDUCE_SCATTER, "reduce_scatter")                                                              \
  X(BROADCAST, "broadcast")                                                                        \
  X(ALL_TO_ALL, "all_to_all")                                                                      \
  X(SEND, "send")                                                                                  \
  X(RECV, "recv")

typedef enum vram_collective {
#define VRAM__X(id, text) VRAM_COLLECTIVE_##id,
  VRAM_COLLECTIVES(VRAM__X)
#undef VRAM__X
      VRAM_COLLECTIVE_COUNT
} vram_collective;

/* What a rank communicates in a step, of one kind of call. */
typedef struct vram_communication {
  uint64_t calls;
  uint64_t bytes; /* of the tensor: the whole one where each rank has a part of it */
  uint64_t sent;  /* by this rank as a ring sends it: of n ranks (n - 1) / n of these bytes, twice
                     that for all_reduce, all of them for broadcast and send
                     (NVIDIA/nccl-tests: doc/PERFORMANCE.md) */
} vram_communication;

#ifndef VRAM_NO_STEP
/* Reads "NAME=SIZE[,OPTION=VALUE...][+NAME=SIZE...]": ddp zero1 fsdp1 fsdp2 hsdp=COPIESxSHARDS tp
   pp cp ep ds1 ds2 ds3. Words of *p point into text. Neither text nor p is NULL; rank and step are
   0 then.
     VRAM_ERR_SYNTAX  no NAME=SIZE
     VRAM_ERR_NAME    a strategy or an option of it that there is not: *err names the nearest
     VRAM_ERR_VALUE   a value out of range, two wrappers, a strategy twice */
VRAM_API vram_result vram_parallel_parse(const char *text, vram_parallel *p, vram_error *err);

/* Ranks of the world: at least 1. */
VRAM_API uint64_t vram_parallel_world(const vram_parallel *p);

/* Where a rank is in the mesh. */
typedef struct vram_parallel_place {
  uint32_t pp, copy, dp, cp, tp;
} vram_parallel_place;
VRAM_API vram_parallel_place vram_parallel_place_of(const vram_parallel *p);

/* Bytes of memory that vram_parallel_cut needs for one rank at most. whole: not NULL. */
VRAM_API uint64_t vram_parallel_cut_bytes(const vram_graph *whole);

/* The graph of one rank of tensor parallelism (p->tp, p->rank, sp, loss_parallel): layers have this
   rank's part of their weights, and collectives stand between them, as
   torch.distributed.tensor.parallel has both. Of context parallelism (p->cp): inputs and buffers
   are cut along the sequence, and attention is that of a ring, as context_parallel has both.
   `local` lies in the caller's memory and points into the whole graph, which must outlive it.
   Nothing is NULL but err.
     VRAM_ERR_UNSUPPORTED  what cannot be cut: *err names the node */
VRAM_API vram_result vram_parallel_cut(const vram_graph *whole, const vram_parallel *p,
                                       vram_graph *local, void *mem, uint64_t bytes,
                                       vram_error *err);

/* Bytes of memory that vram_parallel_stage needs. whole: not NULL. */
VRAM_API uint64_t vram_parallel_stage_bytes(const vram_graph *whole, const vram_parallel *p);

/* The stage of a rank of a pipeline (p->pp, p->rank, of one stage each) as a model of its own, for
   vram_graph_write: what it receives are inputs, which want a gradient where one is sent back; what
   it sends are outputs, from which backward begins (of several a backward line says so). The last
   stage ends with the loss. Memory and errors as of vram_parallel_cut, after which it comes. */
VRAM_API vram_result vram_parallel_stage(const vram_graph *whole, const vram_parallel *p,
                                         vram_graph *local, void *mem, uint64_t bytes,
                                         vram_error *err);

/* Ranks that are equal by construction: they have parts of the same sizes, in the same order. */
typedef struct vram_rank_class {
  uint32_t rank;     /* the first of them in its first copy; the last one there. Of */
  uint32_t last;     /* ZeroRedundancyOptimizer others may lie between */
  uint64_t ranks;    /* how many, in all copies */
  uint64_t elements; /* of parameters whose state each of them has */
} vram_rank_class;

/* Bytes of scratch for both: */
VRAM_API uint64_t vram_parallel_classes_bytes(const vram_graph *g, const vram_parallel *p);

/* Classes of what is cut, in the order of their ranks: the stages, in each the ranks along cp, and
   in each of these the ranks along tp that have different parts. Of each one stands for all that
   lie at the same place of pp, cp and tp. At most cap are written to list, which may be NULL where
   cap is 0; *count becomes how many there are. VRAM_ERR_MEMORY: scratch is too small;
   VRAM_ERR_LIMIT: more than 2^32-1 ranks. */
VRAM_API vram_result vram_parallel_cut_classes(const vram_graph *whole, const vram_parallel *p,
                                               void *scratch, uint64_t bytes, vram_rank_class *list,
                                               uint32_t cap, uint32_t *count);

/* Classes of the ranks at the place of pp, cp and tp that p->rank has, by what the wrapper gives
   each of the parameters of g, which is the graph of that place: rows (fully_shard), whole
   parameters (ZeroRedundancyOptimizer), the same (all others). */
VRAM_API vram_result vram_parallel_classes(const vram_graph *g, const vram_parallel *p,
                                           void *scratch, uint64_t bytes, vram_rank_class *list,
                                           uint32_t cap, uint32_t *count);

/* "ddp", "Interleaved1F1B"; "?" for what is none. Never NULL. */
VRAM_API const char *vram_wrapper_name(vram_wrapper wrapper);
VRAM_API const char *vram_pipeline_name(vram_pipeline schedule);

/* What a rank of a pipeline does with a microbatch of one of its stages. */
#define VRAM_STAGE_ACTIONS(X)                                                                      \
  X(F)      /* forward */                                                                          \
  X(B)      /* backward */                                                                         \
  X(I)      /* of backward the part for the stage's inputs, */                                     \
  X(W)      /* and the part for its weights */                                                     \
  X(SEND_F) /* its outputs go to the next stage, */                                                \
  X(SEND_B) /* the gradients of its inputs to the stage before */                                  \
  X(RECV_F) /* its inputs are to be received, */                                                   \
  X(RECV_B) /* the gradients of its outputs */                                                     \
  X(WAIT_F) /* until what was sent is received */                                                  \
  X(WAIT_B)                                                                                        \
  X(UNSHARD)     /* fully_shard gathers the stage's parameters, */                                 \
  X(RESHARD)     /* lets go of them, */                                                            \
  X(REDUCE_GRAD) /* and reduces its gradients */                                                   \
  X(WAIT_REDUCE_GRAD)

typedef enum vram_stage_action_kind {
#define VRAM__X(id) VRAM_STAGE_##id,
  VRAM_STAGE_ACTIONS(VRAM__X)
#undef VRAM__X
      VRAM_STAGE_ACTION_COUNT
} vram_stage_action_kind;

typedef struct vram_stage_action {
  uint32_t stage, microbatch;
  uint8_t kind; /* vram_stage_action_kind */
} vram_stage_action;

/* Bytes of scratch that vram_pipeline_order needs. */
VRAM_API uint64_t vram_pipeline_bytes(const vram_parallel *p);

/* The actions of a rank of the pipeline (0 to pp - 1), in order, as its schedule makes them of
   p->schedule, p->pp, p->stages and p->microbatches: at most cap are written to list (NULL only
   where cap is 0), *count becomes how many there are. GPipe and 1F1B have no actions to send,
   receive and wait: they do so around each forward and backward. Those of fully_shard are there
   where p->wrapper is it. What PyTorch refuses is
   VRAM_ERR_VALUE, with its words in *err, if that is not NULL; too little scratch VRAM_ERR_MEMORY.
   */
VRAM_API vram_result vram_pipeline_order(const vram_parallel *p, uint32_t rank, void *scratch,
                                         uint64_t bytes, vram_stage_action *list, uint32_t cap,
                                         uint32_t *count, vram_error *err);

/* Stages of each rank. */
VRAM_API uint32_t vram_pipeline_stages(const vram_parallel *p);

/* The k-th stage of a rank; the number of stages in all behind its last. */
VRAM_API uint32_t vram_pipeline_stage(const vram_parallel *p, uint32_t rank, uint32_t k);
VRAM_API const char *vram_collective_name(vram_collective kind);
#endif
