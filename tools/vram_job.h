/* A model on the command line: the options of its step, its text, one step of it. */
#ifndef VRAM_JOB_H
#define VRAM_JOB_H

#include "vram_command.h"

/* the options that every command on a model takes */
#define HELP_STEP                                                                                  \
  "what runs\n"                                                                                    \
  "  --infer               forward under no_grad (default)\n"                                      \
  "  --train OPT           one training step, optimizer OPT (vram list optimizers)\n"              \
  "  --optim-impl foreach|fused|loop\n"                                                            \
  "                        how the optimizer runs (default: what PyTorch picks)\n"                 \
  "  --capturable          the optimizer's option: it counts on the device\n"                      \
  "  --step first|second|N|steady\n"                                                               \
  "                        which step (default: one with optimizer state)\n"                       \
  "  --accumulate K        K micro-batches before the optimizer's step\n"                          \
  "  --keep-grads          zero_grad(set_to_none=False), or none at all\n"                         \
  "  --zero-grad-late      zero_grad() between forward and backward: old gradients\n"              \
  "                        live over the forward pass\n"                                           \
  "  --zero-grad-end       zero_grad() behind the optimizer's step\n"                              \
  "  --last-batch N        the last batch of an epoch is one of N: what runs then,\n"              \
  "                        and the step behind it\n"                                               \
  "  --eval-batch N        between two steps a batch of N in eval mode and no_grad\n"              \
  "  --dry-run-batch N     first a forward pass of N, as torchsummary does\n"                      \
  "  --clip-grad-norm foreach|loop\n"                                                              \
  "                        clip_grad_norm_() before the optimizer's step\n"                        \
  "  --optimizer-in-backward\n"                                                                    \
  "                        a hook behind each gradient makes its step\n"                           \
  "  --ema foreach|loop|timm\n"                                                                    \
  "                        averaged weights: AveragedModel, ModelEmaV2\n"                          \
  "  --galore-rank R       of galore_adamw's projections (default: 128)\n"                         \
  "  --amp bf16|fp16       autocast; fp16 with GradScaler\n"                                       \
  "  --dtype bf16|f16|f32  the whole model in that dtype (default: its own)\n"                     \
  "  --master-weights      with --dtype: the optimizer works on fp32 copies\n"                     \
  "  --lora r=16,...       adapters learn, nothing else\n"                                         \
  "  --quant nf4,...       linear weights: nf4, fp4, int8, fp8\n"                                  \
  "  --freeze N|NAME,...   the first N layers and what is before them, or modules\n"               \
  "                        of these names, learn no more\n"                                        \
  "  --checkpoint K        checkpoint_sequential with K segments\n"                                \
  "  --checkpoint layers   checkpoint() around each layer, as\n"                                   \
  "                        gradient_checkpointing_enable() has it\n"                               \
  "  --checkpoint auto     the cheapest calls of checkpoint() that fit --budget\n"                 \
  "  --checkpoint-nodes A..B,C..D\n"                                                               \
  "                        checkpoint() around the nodes from A to B, C to D; a\n"                 \
  "                        name inside loops is meant in every round (in one:\n"                   \
  "                        name[3])\n"                                                             \
  "  --reentrant           checkpoint(use_reentrant=True)\n"                                       \
  "  --inplace             activations in place wherever autograd allows it\n"                     \
  "  --logits-chunks N     head and loss over N chunks of the tokens, each\n"                      \
  "                        computed again in backward\n"                                           \
  "  --prefetch N          N more batches of the inputs wait on the device\n"                      \
  "  --pinned N            N batches wait in pinned host memory\n"                                 \
  "  --generate prompt=S,new=N[,cache=static][,padded=1][,attn=eager]\n"                           \
  "                        a generation: the prompt, then one token a step\n"                      \
  "                        (a text with caches, or a config.json of transformers)\n"
#define HELP_DEVICES                                                                               \
  "many devices\n"                                                                                 \
  "  --parallel NAME=RANKS[,OPTION=VALUE...][+...]\n"                                              \
  "                        ddp zero1 fsdp1 fsdp2 hsdp=COPIESxSHARDS tp pp cp ep\n"                 \
  "                        ds1 ds2 ds3: the step of one rank, with options as\n"                   \
  "                        PyTorch and DeepSpeed name them (vram help parallel)\n"                 \
  "  --deepspeed FILE      the same as a ds_config.json has it, on --devices N:\n"                 \
  "                        the stage, its options, batch, accumulation, optimizer\n"               \
  "  --devices N           of the world that --parallel has to have\n"                             \
  "  --rank R|all          which rank (default: 0; fit and plan: the fullest), or\n"               \
  "                        all of them, equal ones once\n"                                         \
  "sizes\n"                                                                                        \
  "  --batch N             the first dim of the model\n"                                           \
  "  --dim NAME=N          any dim; may be given more than once\n"                                 \
  "device\n"                                                                                       \
  "  --gpu NAME            its memory as the budget, its compute capability and\n"                 \
  "                        multiprocessors (vram list gpus)\n"                                     \
  "  --budget SIZE         does it fit? (exit status 3: no)\n"                                     \
  "  --cc 9.0              compute capability: decides workspaces and attention\n"                 \
  "  --alloc-conf K:V,...  as in PYTORCH_CUDA_ALLOC_CONF\n"                                        \
  "  --cudnn expected|none|benchmark\n"                                                            \
  "                        workspaces of convolutions (default: expected);\n"                      \
  "                        benchmark: torch.backends.cudnn.benchmark=True\n"                       \
  "  --attention flash|efficient|cudnn|math\n"                                                     \
  "                        the kernel, as sdpa_kernel() has it (default: what\n"                   \
  "                        PyTorch picks)\n"                                                       \
  "  --context SIZE        of CUDA and the libraries (default: by device)\n"                       \
  "  --modules lazy|eager|eager-cuda10\n"                                                          \
  "                        CUDA_MODULE_LOADING (default: lazy), or CUDA 10\n"                      \
  "  --rules RULES         what PyTorch of that version allocates (vram list rules;\n"             \
  "                        default: the one that the text names, or the newest),\n"                \
  "                        or only what the formulas need: ideal\n"

typedef enum { SOLVE_BATCH, SOLVE_PROMPT, SOLVE_NEW } solve_generation;

typedef struct job {
  const char *command;
  const char *model, *events, *svg, *html, *snapshot, *trace, *optimizer, *gpu, *checkpoint;
  const char *lora, *quant, *freeze, *generate;
  const char *deepspeed; /* a ds_config.json, and the words of --parallel that it stands for: */
  char made_spec[1024];
  const char *spec; /* --parallel, */
  vram_parallel parallel;
  uint32_t at_rank;               /* and --rank, */
  int all_ranks;                  /* which may be all */
  const char *rank_given;         /* its value */
  const struct rank_table *ranks; /* all of them, for the page of one; NULL: none */
  int every_way;                  /* --parallel auto */
  uint32_t devices;               /* --devices; 0: not given */
  const char *devices_given;
  int64_t global_batch, flop_per_byte;
  int64_t top; /* --top; 0: all */
  const char *top_given;
  const char *gpus;                   /* --gpu with several names; NULL: one, or none */
  uint32_t nth_step;                  /* --step 2, 3, ...; else 0 */
  int64_t prompt, new_tokens;         /* of --generate */
  solve_generation of_generation;     /* what fit --generate solves for */
  uint8_t cache, is_padded, is_eager; /* of --generate: a vram_hf_cache */
  const char *training;               /* an option that means nothing without --train */
  vram_step_options o;
  vram_dtype own_dtype;   /* of the model, as its text names it */
  vram_pool_options pool; /* of the replay */
  vram_dim dims[VRAM_MAX_DIMS];
  char dim_name[VRAM_MAX_DIMS][VRAM_MAX_NAME + 1];
  uint32_t ndims;
  int64_t last_batch, eval_batch, dry_run_batch; /* 0: none */
  uint64_t budget, gpu_bytes;
  const char *budget_given; /* of plan */
  int has_budget, json, csv, table, live, terms, explain;
  int in_place; /* --inplace, and what became of it: */
  vram_inplace in_places;
  uint32_t logits_chunks; /* --logits-chunks; 0: as the text has it */
  int automatic;          /* --checkpoint auto, and what it found: */
  vram_planned_step planned;
  const char *solve; /* of fit */
  int segments, rank;
} job;

typedef struct loaded { /* a model, ready for steps */
  char *text;
  void *mem, *scratch;
  uint64_t bytes; /* of scratch */
  vram_range *ranges;
  vram_graph g;
  vram_graph whole; /* what one rank's graph was made of, with --parallel tp */
  void *cut_mem;
  /* the same with the last batch of an epoch, and with that of an evaluation between steps */
  vram_graph other[3];
  void *other_mem[3];
} loaded;

/* One option; returns how many arguments it took, 0: error printed. */
int job_option(job *j, const char *a, const char *v);
/* The first device of a list of names that are known becomes j's; what is behind it. */
const char *job_next_gpu(job *j, const char *names);
/* Prints that a is no option, and the nearest that is one; 0. */
int job_unknown(const job *j, const char *a);
/* All arguments of estimate or fit; FITS: go on, or help was printed (j->model is NULL then). */
int job_arguments(job *j, int argc, char **argv);
/* --deepspeed: its file becomes other options. Not FITS: message printed. */
int job_deepspeed(job *j);
/* What options need of each other. */
int job_check(job *j);
/* What the model's own dtype means for options; not FITS: message printed. */
int job_model_dtype(job *j, vram_dtype own);
/* What runs, in a few words: "train adamw amp bf16 checkpoint 2". */
void job_mode(const job *j, char *to, size_t cap);

/* The text of a file, of standard input, of a built-in model, or of a file's graph, in which j's
   dims stand then: j has none any more. j NULL: no dims. */
int model_read(const char *model, job *j, char **text, size_t *len);
/* FILE:LINE:COLUMN: text; USAGE */
int model_error(const job *j, const vram_error *e);
/* The text becomes l's. Not FITS: message printed; model_unload() in any case. */
int model_load(loaded *l, job *j, char *text, size_t len);
void model_unload(loaded *l);
/* vram_step; not FITS: message printed. */
int model_step(loaded *l, const vram_step_options *o, vram_report *r);
/* What vram_solve and vram_step_plan ask for memory. */
extern const vram_allocator model_allocator;

#endif
