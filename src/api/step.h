#pragma once
#include "api/graph.h"
#include "api/optim.h"
#include "api/parallel.h"
#include "api/pool.h"
#include "api/version.h"
/* >>step ======================================================================================
   One step of a model as a stream of events, and the report that counts them. */

/* One tensor or workspace that is allocated at the peak. */
typedef struct vram_live {
  uint64_t bytes;
  vram_category category;
  const vram_node *node; /* that allocated it; NULL: there before the step */
} vram_live;

/* What one node of the forward pass did. */
typedef struct vram_node_report {
  uint64_t params;       /* elements of its own parameters, */
  uint64_t trainable;    /* and of those that get a gradient */
  uint64_t output_bytes; /* of its outputs' storages that are its own (0 for views and in place) */
  uint64_t saved_bytes;  /* first kept for backward by it */
  uint64_t live_bytes;   /* requested in all when it has returned */
  vram_dtype dtype;      /* of the first output in this run */
} vram_node_report;

/* Workspaces of cuDNN's convolutions. A real device chooses them while it runs: expected are those
   that its heuristics take. They are no events of the step (vram_step_options.event, everything
   `requested`), but the allocated and reserved bytes of a replay have them, and the peak. */
typedef enum vram_cudnn {
  VRAM_CUDNN_EXPECTED,
  VRAM_CUDNN_NONE,     /* convolutions run without */
  VRAM_CUDNN_BENCHMARK /* torch.backends.cudnn.benchmark: the first step tries all of them, too */
} vram_cudnn;

/* The kernel of scaled_dot_product_attention that a program asks for:
   torch.nn.attention.sdpa_kernel of one backend around the step. */
#define VRAM_ATTENTIONS(X)                                                                         \
  X(ANY, "any") /* PyTorch picks one */                                                            \
  X(CUDNN, "cudnn")                                                                                \
  X(FLASH, "flash")                                                                                \
  X(EFFICIENT, "efficient")                                                                        \
  X(MATH, "math")

typedef enum vram_attention {
#define VRAM__X(id, text) VRAM_ATTENTION_##id,
  VRAM_ATTENTIONS(VRAM__X)
#undef VRAM__X
      VRAM_ATTENTION_COUNT
} vram_attention;

/* A copy of the model whose weights are averages, which a step updates last. */
typedef enum vram_ema {
  VRAM_EMA_NONE,
  VRAM_EMA_FOREACH, /* torch.optim.swa_utils.AveragedModel with multi_avg_fn */
  VRAM_EMA_LOOP,    /* the same with avg_fn */
  VRAM_EMA_TIMM     /* timm.utils.ModelEmaV2: buffers, too */
} vram_ema;

/* Nodes from first to last, in execution order. */
typedef struct vram_range {
  const vram_node *first, *last;
} vram_range;

#define VRAM_EAGER_CUDA10 10       /* vram_step_options.eager_modules: PyTorch built with CUDA 10 */
#define VRAM_NO_CONTEXT UINT64_MAX /* vram_step_options.context_bytes: count none */

/* All zero: inference in fp32 on a device of compute capability 9.0. */
typedef struct vram_step_options {
  int train; /* 0: forward under no_grad */
  vram_rules rules;
  vram_optimizer optimizer; /* with train */
  vram_optim_impl optim_impl;
  int weight_decay;    /* L2 weight decay that is added to the gradient */
  int capturable;      /* the optimizer's option: what it counts stays on the device */
  int first_step;      /* 0: steady step, optimizer state exists */
  vram_dtype amp;      /* 0, VRAM_BF16 or VRAM_F16: autocast; F16 with GradScaler */
  vram_dtype dtype;    /* 0: the model's own; VRAM_F32, VRAM_BF16, VRAM_F16 in its place */
  int master_weights;  /* the optimizer works on fp32 copies of low-precision parameters */
  uint32_t accumulate; /* micro-batches, 0 or 1: one */
  int keep_grads;      /* zero_grad(set_to_none=False), or none at all */
  int zero_grad_late;  /* zero_grad() stands between forward and backward, */
  int zero_grad_end;   /* or behind the optimizer's step */
  vram_optim_impl clip_grad_norm; /* torch.nn.utils.clip_grad_norm_ before the optimizer's step,
                                     with foreach or as a loop; 0: none */
  int optimizer_in_backward; /* a hook behind each accumulated gradient makes its parameter's step
                                and lets go of it (register_post_accumulate_grad_hook) */
  uint32_t galore_rank;      /* galore_adamw: of the projections; 0: 128 */
  vram_ema ema;              /* averaged weights */
  uint32_t checkpoint_segments; /* torch.utils.checkpoint.checkpoint_sequential with so many
                                   segments; a function is what lies between two points where one
                                   value is handed on, the last line is the loss */
  const vram_range *checkpoint; /* nodes that run in torch.utils.checkpoint.checkpoint, ranges in */
  uint32_t ncheckpoint; /* the order in which they begin; their inputs are what they use from
                           outside. They may lie inside one another, outer ones first, if
                           not `reentrant` */
  int reentrant;        /* use_reentrant=True */
  int by_keyword; /* reentrant ranges: what wants no gradient is no input but a keyword argument,
                     which their functions refer to, as layers of transformers do */
  /* With train: the same text with other dims, or the same calls with other sizes. The report then
     tells of all that runs, the highest peak of each phase; events go on from one to the next. */
  const vram_graph *last_batch; /* of an epoch, smaller than the others: behind the step comes
                                          one with it, then one with the usual batch again. Its
                                          inputs lie where those of the usual one lie */
  const vram_graph *evaluation; /* behind the step (of the last batch) the model runs once in
                                          eval mode under no_grad: its inputs come to the device
                                          then, and they go with its results */
  const vram_graph *dry_run;    /* before the first step: the model runs forward once as it is
                                          trained, outside autocast, and all of it goes
                                          (torchsummary's summary() does so with two samples, a
                                          module with lazy parameters needs it). Only `replay` shows
                                          what it leaves in the cache */
  uint32_t prefetch;            /* further batches of the inputs that wait on the device */
  uint32_t pinned;              /* batches of the inputs that wait in pinned host memory */
  uint32_t cc;                  /* compute capability times ten; 0: 90 */
  uint32_t sm;                  /* multiprocessors; 0: those of the usual device of that cc */
  vram_cudnn cudnn;             /* workspaces of convolutions */
  vram_attention attention; /* of lines that name no backend: a step fails where it cannot run */
  int eager_modules;        /* CUDA_MODULE_LOADING=EAGER: all kernels lie on the device from the
                               beginning, as before torch 1.13; or VRAM_EAGER_CUDA10 */
  uint64_t context_bytes;   /* CUDA context and libraries; 0: what the device suggests */
  /* NULL: no replay. Else the whole run goes through this allocator: model, optimizer and inputs to
     the device, then two steps (none for first_step; without train one whose results are gone),
     then the step that the report tells of.
     total_bytes: what the device has for this process; 0: as much as it takes. event: hears of
     every block and segment of the run, with phase, category and node (not with budget_bytes: a
     run that does not fit is played once more) */
  const vram_pool_options *replay;
  const vram_parallel *parallel; /* NULL: one device. Else the step of rank parallel->rank */
  int layers_once; /* 1: of layers that are alike those in the middle are not played, but counted as
                      what the layers in front of them are, where that can be seen, and so are
                      microbatches of Schedule1F1B: the report is the same but for scratch_used.
                      Without replay, event and nodes, for training */
  int stage_known; /* 1: `scratch` is as vram_step has left it, which played the same stage of a
                      pipeline: of the same graph with the same options, but for how many ranks
                      fully_shard has, or which of DistributedDataParallel and
                      ZeroRedundancyOptimizer it is. What the stage does is taken from there */
  uint64_t budget_bytes;                          /* of the device, for vram_report.fits; 0: none */
  void (*event)(void *user, const vram_event *e); /* NULL: nobody listens */
  int (*stop)(
      void *user); /* vram_step_plan asks between steps; not 0: it ends with the best so far */
  void *user;
  struct vram_node_report *nodes; /* NULL, or one for each node of the graph */
} vram_step_options;

typedef struct vram_phase_report {
  uint64_t requested_bytes;      /* at its end */
  uint64_t requested_peak_bytes; /* highest within it */
  uint64_t allocated_bytes; /* the same in blocks: with `replay` what the caching allocator's */
  uint64_t allocated_peak_bytes; /* memory_allocated() says, else at least: blocks of 512 bytes */
  /* memory_reserved() at its end and at most. Only a replay knows them: where vram_report.replayed
     is 0 they are 0 and mean that nobody knows. */
  uint64_t reserved_bytes, reserved_peak_bytes;
} vram_phase_report;

/* What a run with vram_step_options.parallel does before its first step. */
#define VRAM_SETUPS(X)                                                                             \
  X(MODEL, "model") /* the module goes to the device, */                                           \
  X(WRAP, "wrap")   /* is wrapped, and the optimizer made */                                       \
  X(INPUTS, "inputs")

typedef enum vram_setup {
#define VRAM__X(id, text) VRAM_SETUP_##id,
  VRAM_SETUPS(VRAM__X)
#undef VRAM__X
      VRAM_SETUP_COUNT
} vram_setup;

/* lower <= what a device shows <= upper */
typedef struct vram_bounds {
  uint64_t lower, expected, upper;
} vram_bounds;

typedef struct vram_report {
  uint64_t params_bytes, buffers_bytes, inputs_bytes, gradients_bytes, optimizer_bytes;
  uint64_t saved_bytes; /* kept for backward: distinct storages that are no parameters, buffers,
                           inputs */
  uint64_t autocast_cache_bytes; /* low-precision copies of weights */
  uint64_t workspace_bytes;      /* the largest one */
  uint64_t kv_cache_bytes;       /* what `store` lines keep for the next step */
  vram_dtype dtype;              /* the model's in this run */
  uint64_t pinned_bytes;         /* host memory */
  uint64_t waiting_bytes; /* blocks that another stream uses when they are freed (record_stream):
                             here they come back with the next allocation, on a device when that
                             stream has got there; so many at most, which device_bytes.upper has */
  vram_phase_report phase[VRAM_PHASE_COUNT]; /* of the step: VRAM_PHASE_WRAP is empty */
  vram_phase_report setup[VRAM_SETUP_COUNT]; /* of the run, with `parallel` */
  uint64_t peak_requested_bytes;
  uint64_t peak_blocks_bytes; /* the highest sum of requests, each rounded up to 512 bytes */
  vram_bounds peak_allocated_bytes;
  uint64_t peak_reserved_bytes; /* with `replay`: max_memory_reserved() of the step; else at least:
                                   whole segments */
  int replayed;                 /* 0: no replay was asked for, or it became too large */
  /* With budget_bytes. 1: device_bytes.expected is within the budget. With `replay` also where
     that would not be so with more room, but in a replay with what the budget leaves beside the
     context every request finds memory: now and then all that is cached goes back to the device.
     Reserved and device_bytes.expected are what it takes then */
  int fits;
  uint64_t
      num_alloc_retries; /* of such a replay: how many times that happens; else of the replay */
  uint64_t num_ooms; /* 1: a request of the replay found no memory; what came then is not played */
  int runs_cudnn;    /* 1: convolutions run with cuDNN, */
  vram_bounds cudnn_bytes;   /* and this is the largest workspace of one */
  vram_bounds context_bytes; /* of CUDA and the libraries */
  vram_bounds nccl_bytes;    /* of NCCL's communicators (vram_nccl_bytes) */
  vram_bounds device_bytes;  /* without context_bytes and nccl_bytes: what is reserved */
  vram_phase peak_phase;
  const vram_node *peak_node;
  uint64_t peak_category_bytes[VRAM_CATEGORY_COUNT];
  uint64_t before_category_bytes[VRAM_CATEGORY_COUNT];     /* there before the first event */
  vram_communication communication[VRAM_COLLECTIVE_COUNT]; /* of the step, not of construction */
  uint64_t recomputed_flops; /* vram_node_flops of what backward runs again: a call ends with the
                                last tensor that is saved. 0 for a pipeline's parts */
  uint64_t events;
  uint64_t peak_event;   /* the number of the event that reached the peak, the first is 1; 0: it
                            was there before the first; UINT64_MAX: one of the optimizer's */
  uint64_t scratch_used; /* bytes */
} vram_report;

/* Where a figure comes from. */
#define VRAM_SOURCES(X)                                                                            \
  X(DERIVED, "derived") /* follows from the model, the options and PyTorch's host code */          \
  X(RULES, "rules")     /* a constant of the rules version: workspaces, block sizes */             \
  X(BOUND, "bound")     /* only lower and upper hold; expected is the usual figure */

typedef enum vram_source {
#define VRAM__X(id, text) VRAM_SOURCE_##id,
  VRAM_SOURCES(VRAM__X)
#undef VRAM__X
      VRAM_SOURCE_COUNT
} vram_source;

/* The terms of a report: a field of vram_report (ONE figure, or THREE: vram_bounds), its source,
   and what it is made of. */
/* clang-format off */
#define VRAM_TERMS(ONE, THREE)                                                                   \
  ONE(params_bytes, DERIVED, "shapes and dtypes of the parameters")                              \
  ONE(buffers_bytes, DERIVED, "shapes and dtypes of the buffers")                                \
  ONE(inputs_bytes, DERIVED, "shapes and dtypes of the inputs")                                  \
  ONE(gradients_bytes, DERIVED, "parameters that backward reaches")                              \
  ONE(optimizer_bytes, DERIVED, "state tensors of the optimizer's recipe")                       \
  ONE(saved_bytes, DERIVED, "what autograd keeps of each op")                                    \
  ONE(autocast_cache_bytes, DERIVED, "weights that autocast casts")                              \
  ONE(workspace_bytes, RULES, "the largest; cuBLAS: its default for the compute capability") \
  ONE(kv_cache_bytes, DERIVED, "storages that store lines keep for the next step")               \
  ONE(pinned_bytes, DERIVED, "pinned: batches of the inputs, and what is offloaded to the host")  \
  ONE(peak_requested_bytes, DERIVED, "every request of the step in order")                       \
  THREE(peak_allocated_bytes, BOUND, "blocks of the caching allocator; rests not split off, workspaces of the device") \
  ONE(peak_reserved_bytes, BOUND, "replayed: segments of the caching allocator; else at least: whole ones of 2 MiB")                           \
  THREE(cudnn_bytes, BOUND, "the largest workspace of a convolution, which cuDNN chooses")       \
  THREE(context_bytes, BOUND, "CUDA context and libraries: given, or by threads of the device and loaded kernels")        \
  THREE(nccl_bytes, BOUND, "buffers of NCCL's communicators: channels and connections, which the machine decides")        \
  THREE(device_bytes, BOUND, "segments, which keep what is free; the CUDA context; NCCL")

/* clang-format on */

typedef struct vram_term {
  const char *name; /* of the field: "params_bytes" */
  vram_source source;
  const char *from; /* what the figure is made of */
  vram_bounds bytes;
} vram_term;

#ifndef VRAM_NO_STEP
/* Term i of a report, in the order of the table; 0: there is none. Neither argument is NULL. */
VRAM_API int vram_report_term(const vram_report *report, uint32_t i, vram_term *term);

/* What CUDA and the libraries take of the device of these options (never NULL) beside PyTorch's
   allocator; cudnn: 1 if convolutions run with it. */
VRAM_API vram_bounds vram_context_bytes(const vram_step_options *o, int cudnn);

/* What a communicator of NCCL is used for. */
enum {
  VRAM_NCCL_COLLECTIVES =
      1,                    /* rings and trees: all_reduce, all_gather, reduce_scatter, broadcast */
  VRAM_NCCL_NEIGHBOURS = 2, /* send and receive between a rank and the next one */
  VRAM_NCCL_ALL_TO_ALL = 4
};

/* What a communicator of so many ranks takes of a device of that compute capability (times ten; 0:
   90), on machines of up to eight devices with NCCL's default settings. */
VRAM_API vram_bounds vram_nccl_communicator_bytes(uint32_t cc, uint64_t ranks, int uses);

/* The same of all communicators of o->parallel; none without. */
VRAM_API vram_bounds vram_nccl_bytes(const vram_step_options *o);

/* The name of a source ("derived"); "?" for what is none. Never NULL. */
VRAM_API const char *vram_source_name(vram_source source);

/* The name of a part of the setup ("wrap"); "?" for what is none. Never NULL. */
VRAM_API const char *vram_setup_name(vram_setup setup);
#endif

/* Devices: name, compute capability times ten, multiprocessors (both: NVIDIA's data sheets and the
   CUDA programming guide), memory in GB as sold, usable memory in MiB and its source. Usable is
   what CUDA reports as the total of a device (totalGlobalMem, the "total capacity" of PyTorch's
   message): the smallest found in public reports that name the device. What is missing is kept by
   ECC and the driver, and a driver of another version keeps more or less: titanrtx, rtx3080,
   rtx3080ti, rtx4070ti and rtx4080 are from before 2025, drivers since then kept 100 to 200 MiB
   more on other GeForce. Of a figure in rounded GiB the least that rounds to it is taken. A source
   is a thread on GitHub (owner/repository#number), a file there, or the words of the report. */
#define VRAM_GPUS(X)                                                                               \
  X("p100-16", 60, 56, 16, 16269, "Tesla P100-PCIE-16GB, 16269MiB")                                \
  X("p1000", 61, 5, 4, 4034, "Quadro P1000, 4034 MiB")                                             \
  X("gtx1080", 61, 20, 8, 8106, "GTX 1080, 8106 MiB")                                              \
  X("p40", 61, 30, 24, 24438, "Tesla P40, 24438 MiB")                                              \
  X("v100-16", 70, 80, 16, 16130, "Tesla V100-SXM2-16GB, 16130MB")                                 \
  X("v100-32", 70, 80, 32, 32494, "Tesla V100-SXM2-32GB, VRAM: 32494 MiB")                         \
  X("t4", 75, 40, 16, 14912, "Tesla T4, VRAM: 14912 MiB")                                          \
  X("rtx2060", 75, 30, 6, 5735, "RTX 2060, 5735/5735 MB")                                          \
  X("rtx2080ti", 75, 68, 11, 10825, "RTX 2080 Ti, 10825MiB")                                       \
  X("titanrtx", 75, 72, 24, 24212, "TITAN RTX, 24212MiB")                                          \
  X("a30", 80, 56, 24, 24089, "google/RB-Modulation#5")                                            \
  X("a100-40", 80, 108, 40, 40339, "bottlerocket-os/bottlerocket#3873")                            \
  X("a100-80", 80, 108, 80, 81038, "A100-SXM4-80GB, 81038MiB")                                     \
  X("rtx3060", 86, 28, 12, 11906, "RTX 3060, VRAM: 11906 MiB")                                     \
  X("rtx3070", 86, 46, 8, 7819, "RTX 3070, VRAM: 7819 MiB")                                        \
  X("rtx3080", 86, 68, 10, 10009, "zai-org/CogVideo#34")                                           \
  X("rtx3080ti", 86, 80, 12, 12031, "RTX 3080 Ti, 12031.3125MB")                                   \
  X("rtx3090", 86, 82, 24, 24123, "RTX 3090, VRAM: 24123 MiB")                                     \
  X("rtx3090ti", 86, 84, 24, 24142, "RTX 3090 Ti, VRAM: 24142 MiB")                                \
  X("a4000", 86, 48, 16, 15979, "RTX A4000, total capacity of 15.61 GiB")                          \
  X("a5000", 86, 64, 24, 24114, "RTX A5000, total_memory=24114MB")                                 \
  X("a6000", 86, 84, 48, 48532, "ContextLab/giblet-responses#30")                                  \
  X("a10", 86, 72, 24, 22512, "zai-org/CogVLM#236")                                                \
  X("a10g", 86, 80, 24, 22476, "NVIDIA A10G, 22.0 GiB")                                            \
  X("a40", 86, 84, 48, 45416, "NVIDIA A40, total_memory=45416MB")                                  \
  X("rtx4060", 89, 24, 8, 7807, "RTX 4060, 7807MiB")                                               \
  X("rtx4060ti", 89, 34, 16, 15918, "boson-ai/higgs-audio#48")                                     \
  X("rtx4070", 89, 46, 12, 11866, "RTX 4070, VRAM: 11866 MiB")                                     \
  X("rtx4070ti", 89, 60, 12, 12007, "RTX 4070 Ti, 12007MiB")                                       \
  X("rtx4070tisuper", 89, 66, 16, 15942, "RTX 4070 Ti SUPER, 15942 MiB")                           \
  X("rtx4080", 89, 76, 16, 15945, "RTX 4080, 15701/15945 MB")                                      \
  X("rtx4090", 89, 128, 24, 24079, "pytorch/torchchat#1341")                                       \
  X("rtx6000ada", 89, 142, 48, 45491, "RTX 6000 Ada, total capacity of 44.43 GiB")                 \
  X("l4", 89, 58, 24, 22563, "NVIDIA L4, 22563MiB")                                                \
  X("l40", 89, 142, 48, 45460, "QwenLM/Qwen3-VL#2097")                                             \
  X("l40s", 89, 142, 48, 45467, "NVIDIA L40S, VRAM: 45467 MiB")                                    \
  X("h20", 90, 78, 96, 97285, "NVIDIA H20, total_memory=97285MB")                                  \
  X("h100-80", 90, 132, 80, 81007, "openxla/xla: h100_sxm.txtpb")                                  \
  X("h100-94", 90, 132, 94, 95226, "ali-vilab/VACE#56")                                            \
  X("h100-pcie", 90, 114, 80, 81007, "openxla/xla: h100_pcie.txtpb")                               \
  X("h200", 90, 132, 141, 143156, "NVIDIA H200, 143156MiB")                                        \
  X("gh200", 90, 132, 96, 96768, "NVIDIA GH200 480GB, total_memory=96768MB")                       \
  X("b200", 100, 148, 180, 182625, "pytorch/ao#4002")                                              \
  X("gb200", 100, 152, 186, 188729, "openxla/xla: gb200.txtpb")                                    \
  X("b300", 103, 148, 288, 274073, "flashinfer-ai/flashinfer#5301")                                \
  X("gb300", 103, 152, 288, 283261, "openxla/xla: gb300.txtpb")                                    \
  X("rtx5060ti", 120, 36, 16, 15841, "RTX 5060 Ti, VRAM: 15841 MiB")                               \
  X("rtx5070", 120, 48, 12, 11760, "RTX 5070, total capacity of 11.49 GiB")                        \
  X("rtx5070ti", 120, 70, 16, 15808, "RTX 5070 Ti, VRAM: 15808 MiB")                               \
  X("rtx5080", 120, 84, 16, 15840, "RTX 5080, 15840MiB")                                           \
  X("rtx5090", 120, 170, 32, 32109, "RTX 5090, VRAM: 32109 MiB")                                   \
  X("rtxpro6000", 120, 188, 96, 97244, "RTX PRO 6000, total=94.97 GiB")

typedef struct vram_gpu {
  const char *name;
  uint32_t cc, sm;
  uint32_t sold_gb; /* as sold */
  uint64_t bytes;   /* usable: what CUDA reports */
  const char *source;
} vram_gpu;

#ifndef VRAM_NO_STEP
/* Device i, NULL behind the last one. */
VRAM_API const vram_gpu *vram_gpu_at(uint32_t i);

/* Reads "A..B,C..D" (text, never NULL): names of nodes, of any output. A range is from an A to the
   next B; a name inside loops means every round, unless rounds stand behind it: "A[0][2]..B[0][2]".
   Ranges may lie inside one another. "layers": one range for each layer, the nodes whose names are
   the same up to their first number ("model.layers.3"), or that lie in one round of a loop. *count
   becomes the number of ranges; at most cap are written to list, which may be NULL where cap is 0.
   *err, if not NULL, says why not:
     VRAM_ERR_SYNTAX  no range, or one without its two dots or its names
     VRAM_ERR_NAME    a node that there is not, or no layers
     VRAM_ERR_VALUE   a range that ends before it begins, or begins once more inside itself */
VRAM_API vram_result vram_graph_ranges(const vram_graph *g, const char *text, vram_range *list,
                                       uint32_t cap, uint32_t *count, vram_error *err);

/* The units that fully_shard is called for, as ranges of nodes (units as of vram_parallel), but for
   those without parameters and operations: returns how many there are; at most cap are written to
   list, which may be NULL where cap is 0. */
VRAM_API uint32_t vram_graph_unit_ranges(const vram_graph *g, vram_words units, vram_range *list,
                                         uint32_t cap);

/* From here on these weights learn no more (requires_grad_(False) before the optimizer is made).
   what: a number N, all that lies before the end of the first N layers, embeddings too ("layers" of
   vram_graph_ranges); else names with commas or | between, of modules, of what is around them or of
   weights
   ("embed", "model.layers.3", "fc.weight"). After the graph was read. *err, if not NULL:
     VRAM_ERR_NAME   no parameter has that name
     VRAM_ERR_VALUE  more layers than there are, or nothing would learn */
VRAM_API vram_result vram_graph_freeze_weights(vram_graph *g, const char *what, vram_error *err);

/* What became of activations whose modules have `inplace` (relu, leaky_relu, elu, ...). */
#define VRAM_IN_PLACES(X)                                                                          \
  X(MADE, "made", "in place now")                                                                  \
  X(WAS, "was", "in place already")                                                                \
  X(SAVED, "saved", "what makes their input keeps it for backward")                                \
  X(READ, "read", "their input is read again")                                                     \
  X(VIEW, "view", "their input is a view, or none of the forward pass")                            \
  X(COPY, "copy", "in place they keep a copy for backward")

typedef enum vram_in_place {
#define VRAM__X(id, name, text) VRAM_IN_PLACE_##id,
  VRAM_IN_PLACES(VRAM__X)
#undef VRAM__X
      VRAM_IN_PLACE_COUNT
} vram_in_place;

typedef struct vram_inplace {
  uint32_t count[VRAM_IN_PLACE_COUNT];
} vram_inplace;

/* Makes these activations overwrite their inputs (inplace=True) wherever autograd allows it and a
   step then takes less, for steps of these options. A step is played in scratch, of
   vram_graph_inplace_bytes bytes. Errors as of vram_step; then nothing has changed. Never NULL: all
   but err. */
VRAM_API vram_result vram_graph_inplace(vram_graph *g, const vram_step_options *o, void *scratch,
                                        uint64_t bytes, vram_inplace *to, vram_error *err);
VRAM_API uint64_t vram_graph_inplace_bytes(const vram_graph *g, const vram_step_options *o);

/* 1: vram_graph_inplace has made it so. */
VRAM_API int vram_node_was_made_inplace(const vram_node *n);

/* Never NULL: "?" for what is none. */
VRAM_API const char *vram_in_place_name(vram_in_place why);
VRAM_API const char *vram_in_place_text(vram_in_place why);

/* Bytes of scratch that vram_step needs for this graph: an upper bound; vram_report.scratch_used
   says what it took. o NULL: all zero. */
VRAM_API uint64_t vram_step_bytes(const vram_graph *g, const vram_step_options *o);

/* What the modules of a model own: elements, and their bytes in a step. Of quantised weights the
   elements are those before, the bytes with scales and tables. */
typedef struct vram_parameters {
  uint64_t trainable, frozen, quantised;
  uint64_t trainable_bytes, frozen_bytes, quantised_bytes, buffers_bytes;
} vram_parameters;

/* Counts them, as numbers that wrap where the model is larger than a step allows. o NULL: all
   zero. */
VRAM_API void vram_step_parameters(const vram_graph *g, const vram_step_options *o,
                                   vram_parameters *to);

/* The rules that a step of these options goes by: never VRAM_RULES_TORCH. o NULL: all zero. */
VRAM_API vram_rules vram_step_rules(const vram_graph *g, const vram_step_options *o);

/* Plays one step: zero_grad, forward, and with `train` backward and optimizer. *report (never NULL)
   becomes what it took; events go to o->event as they come. o NULL: all zero. scratch NULL: too
   small. *err, if not NULL, says why not:
     VRAM_ERR_MEMORY       scratch is too small
     VRAM_ERR_OVERFLOW     more than VRAM_MAX_BYTES in all
     VRAM_ERR_UNSUPPORTED  PyTorch refuses such a step, too: the text says why
     VRAM_ERR_VALUE        options that exclude each other, or are out of range
     VRAM_ERR_LIMIT        a limit of the library */
VRAM_API vram_result vram_step(const vram_graph *g, const vram_step_options *o, void *scratch,
                               uint64_t scratch_bytes, vram_report *report, vram_error *err);

/* A generation of text by a decoder: a step for the prompt, then one for each further token, on one
   device. `cache` lines of a step begin with what `store` lines of the step before left. The graphs
   may differ, in their dims or altogether, but for parameters and inputs, which are those of the
   first step, and the number of their caches.
     vram_generation gen;
     vram_generation_begin(&gen, &prefill, &o, mem, vram_generation_bytes(&prefill, &o));
     vram_generation_step(&gen, &prefill, &o, scratch, bytes, &report, &err);
     for each further token: a graph of its dims, and vram_generation_step(&gen, &graph, ...) */
typedef struct vram_generation {
  uint32_t steps;                /* so far */
  uint32_t peak_step;            /* the step of the highest peak, the first is 0 */
  uint64_t peak_requested_bytes; /* of all steps so far: as in vram_report */
  vram_bounds peak_allocated_bytes;
  uint64_t peak_reserved_bytes;
  uint64_t peak_category_bytes[VRAM_CATEGORY_COUNT];
  uint64_t cache_bytes; /* storages that the last step stored */
  int replayed;         /* 0: no replay was asked for, or it became too large */
  uint64_t num_ooms;    /* 1: a request found no memory; what came then is not played */
  void *state;          /* private: in the caller's memory */
} vram_generation;

/* Bytes of memory for the generation that begins with this graph. o NULL: all zero. */
VRAM_API uint64_t vram_generation_bytes(const vram_graph *g, const vram_step_options *o);

/* A device with nothing on it. mem must outlive the generation; g and o: of the first step.
   VRAM_ERR_MEMORY: mem is too small. */
VRAM_API vram_result vram_generation_begin(vram_generation *gen, const vram_graph *g,
                                           const vram_step_options *o, void *mem, uint64_t bytes);

/* One step more. *report (never NULL) becomes what it took, as of vram_step; with o->replay through
   one allocator for all steps. o: the same for all of them, without `train`, `prefetch` and
   `pinned`. Errors as vram_step, and
     VRAM_ERR_SHAPE  a cache is larger than what the step before stored
     VRAM_ERR_VALUE  training, or another number of caches */
VRAM_API vram_result vram_generation_step(vram_generation *gen, const vram_graph *g,
                                          const vram_step_options *o, void *scratch,
                                          uint64_t scratch_bytes, vram_report *report,
                                          vram_error *err);

/* The live set at the peak: plays the step once more up to there. *count becomes the number of
   entries that there are; at most cap are written to list, which may be NULL where cap is 0. report
   is what vram_step gave for the same graph and options; neither it nor count is NULL, o NULL: all
   zero. Errors as vram_step. */
VRAM_API vram_result vram_step_live(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, const vram_report *report,
                                    vram_live *list, uint32_t cap, uint32_t *count);
#endif
