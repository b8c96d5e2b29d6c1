/* >>torch    storages, tensors, tape: PyTorch without numbers */
#pragma once
#include "alloc/alloc.h"
#include "model/model.h"
#include "torch/rules.h"

/* A storage and the tensor on it, or one more tensor on another one's storage (a view). */
typedef struct vram__storage {
  uint64_t bytes;
  uint32_t refs;  /* handles of this tensor, and views of it */
  uint32_t srefs; /* tensors on this storage that have handles, and saved ones (owner's slot) */
  uint32_t base;  /* slot of the owner; itself if it owns */
  uint32_t id;    /* of the event; or the next free slot */
  const vram_node *node;
  uint8_t cat : 4;
  uint8_t stream : 4; /* on which it was allocated; 0: the default one */
  uint8_t saved : 1;
  uint8_t shown : 1;  /* stands for a view of itself, which would hold the storage once more */
  uint8_t req : 1;    /* requires_grad */
  uint8_t filler : 1; /* zeros in place of a gradient that did not come */
  uint8_t off : 4;    /* elements before it in its storage, modulo 16 */
  uint16_t out : 13;  /* which output of fn */
  uint32_t block;     /* in the pool of the replay; 0: none */
  uint32_t fn;     /* autograd's record that made the tensor, or leaf; 0: none. A record is held */
  uint32_t of;     /* a view: slot of the tensor that it is a view of; 0: no view for autograd */
  uint32_t ver;    /* in-place operations on it and its views; those that a view's fn knows of */
  uint32_t writes; /* the last in-place operation on the storage (owner's slot): the newest record
                      before it, + 1 */
  const vram_dims *d;
} vram__storage;

#define VRAM__MOST_OUTPUTS 8191u /* of an autograd node */
#define VRAM__STREAMS 16         /* of a device that a step may use */

#define VRAM__LEAF 0x80000000u /* an autograd edge to a leaf: the rest is its index */

/* A handle of a tensor, in two registers: what autograd knows of the tensor is in its slot. */
struct vram__tensor {
  const vram_dims *d;
  uint32_t st; /* slot, 0: none; a trainable weight that a module owns: VRAM__LEAF and its index */
  vram_dtype dt;
};

typedef struct vram__slot { /* an output of an autograd node: where its gradient arrives */
  vram__tensor g;
  const vram_dims *d;
  vram_dtype dt;
} vram__slot;

typedef struct vram__edge {
  uint32_t fn;
  uint32_t out;
} vram__edge;

struct vram__grad_fn {
  const vram_node *node;
  uint32_t prev;  /* record before it on the tape */
  uint32_t deps;  /* the next allocation's id when it was made; the next one to go */
  uint32_t refs;  /* slots and later records that lead here */
  uint32_t next;  /* of a checkpointed call: the next record that saves */
  uint32_t frame; /* checkpointed call that it belongs to, 0: none */
  uint16_t nsaved;
  uint8_t done; /* its backward has run: 1; 2: and let go of what it had saved */
  uint8_t flag;
  uint64_t aux;
  uint16_t kind, nin, nout;
  uint8_t inner;  /* aux is the record of an operation inside this one */
  uint8_t hooked; /* the wrapper hears when its backward begins */
};

/* A slot's number is the eighth part of its place in the step's memory, as a record's is. 0 stands
   for none. What modules own has two: one for all weights, one for all buffers. */
#define VRAM__SLOT_STEP ((uint32_t)((sizeof(vram__storage) + 7) / 8))
#define VRAM__SLOT_BYTES ((uint64_t)VRAM__SLOT_STEP * 8)
#define VRAM__OWN_WEIGHTS VRAM__SLOT_STEP
#define VRAM__OWN_BUFFERS (2 * VRAM__SLOT_STEP)
#define VRAM__OWN_BYTES (3 * VRAM__SLOT_BYTES) /* of these three */

#define VRAM__EDGES(f) ((vram__edge *)(void *)((f) + 1))
#define VRAM__SLOTS(f) ((vram__slot *)(void *)(VRAM__EDGES(f) + (f)->nin))
#define VRAM__SAVED(f) ((vram__tensor *)(void *)(VRAM__SLOTS(f) + (f)->nout))

typedef struct vram__leaf {
  const vram_dims *d;
  vram__tensor grad; /* .grad */
  vram__tensor in;   /* gradients that arrive in this backward */
  uint32_t deps;     /* how many are still to come */
  vram_dtype dt : 8;
  vram_dtype grad_dt : 8; /* grad_dtype: gradients that arrive are cast to it */
  uint8_t let_go;         /* its gradient went in backward, when its step was made */
  uint8_t permuted;       /* leaf.views: its gradient is not contiguous */
} vram__leaf;

typedef struct vram__past { /* the gradient that a step left at a leaf */
  uint64_t bytes;           /* of its storage, */
  uint32_t with;            /* which is that of leaf with - 1; 0: its own */
  uint8_t had;              /* there is one */
  uint8_t stepped;          /* a `step` line took one, whatever became of it */
  uint8_t let_go;           /* there was one until its step was made in backward */
} vram__past;

typedef struct vram__cast { /* autocast's cached copy of a leaf */
  vram__tensor t;
  uint32_t next; /* the leaf whose copy was made before, + 1 */
} vram__cast;

typedef struct vram__variable { /* a Python variable's tensor */
  vram__tensor t;
  uint32_t refs;
} vram__variable;

#define VRAM__SPARE 64 /* more than one operation needs at a time */

typedef struct vram__range { /* nodes that are checkpointed */
  const vram_node *first, *last;
  const vram_checkpoint *block;  /* of the text; NULL: the options' */
  const vram_node *hold;         /* the output is held until this one has run, too */
  const vram_value **arg, **out; /* what it uses from outside, what is used outside */
  uint32_t narg, nout;
  uint32_t nnamed; /* the first so many of `arg` are the call's arguments; the others the function
                      refers to */
  uint8_t flags;   /* VRAM_CHECKPOINT_ */
  uint32_t behind; /* the first range that is not inside this one */
} vram__range;

/* What went into a call of checkpoint(), at that time. */
typedef struct vram__argument {
  uint32_t writes; /* in-place operations on its storage */
  uint32_t off;    /* of its slot */
} vram__argument;

/* A call of checkpoint() without reentrance (_CheckpointFrame). Its records save nothing until the
   first of them runs backward; then the nodes run once more. */
typedef struct vram__frame {
  const vram__range *range;
  vram__tensor *arg;    /* what went in */
  vram__argument *was;  /* and what it was like */
  uint32_t alive;       /* records that have not released what they save, and the call itself */
  uint32_t saves;       /* tensors saved */
  uint32_t first, tail; /* records that save */
  uint32_t final;       /* record that saved last: recomputation ends there, */
  uint32_t before;      /* after so many, */
  uint8_t late;         /* and what it saved it had allocated itself */
  uint8_t done;         /* recomputed */
  uint32_t own;         /* the first of `arg` that the frame itself holds */
  uint32_t inputs;      /* inside another call: the record that saves what went in (for that call:
                           _NoopSaveInputs), 0: none */
} vram__frame;

/* Autograd nodes that are not an op of the text form; each has a function vram__backward_NAME. */
/* clang-format off */
#define VRAM__PRIMITIVES(X)                                                                      \
  X(view, view) X(permute, permute) X(expand, expand) X(slice, slice) X(clone, clone)            \
  X(cast, cast) X(addmm, addmm) X(baddbmm, baddbmm) X(mm, mm) X(bmm, bmm) X(mv, mv)              \
  X(dot, dot) X(nll, nll) X(mean, reduce) X(lstm_gates, lstm_gates) X(gru_gates, gru_gates)      \
  X(index_add, index_add) X(as_strided, as_strided) X(copy_slices, copy_slices) X(copy, copy)    \
  X(noise, noise) X(scale, scale) X(checkpoint, checkpoint) X(inputs, none)                      \
  X(sdpa_cudnn, sdpa_cudnn) X(sdpa_flash, sdpa_flash) X(sdpa_efficient, sdpa_efficient)          \
  X(safe_softmax, softmax) X(bn, bn) X(xlogx, xlogx) X(ctc, ctc) X(matmul_4bit, matmul_4bit)     \
  X(matmul_8bit, matmul_8bit) X(fp8_linear, fp8_linear) X(zero3_linear, zero3_linear) X(unit, unit)
/* clang-format on */

/* Pointwise ops that save or give other things with other arguments: recipes as of ops
 * (ops/recipe). */
#define VRAM__VARIANTS(X)                                                                          \
  X(add_alpha, "x1: scaled(grad); x0: grad")                                                       \
  X(sub_alpha, "x1: scaled(neg(grad)); x0: grad")                                                  \
  X(div_rounded, "x1: with(x0, with(x1, zeros)); x0: with(x1, zeros)")                             \
  X(pow_tensor, "x1: mul(grad, where(settled(compare(compare_number(x1), compare_number(x0))), "   \
                "mul(y, log(cast(x0))), zero)); x0: where_rtl(compare_number(x1), zero, "          \
                "mul(grad, mul(x1, pow(x0, shifted(x1)))))")                                       \
  X(extremum, "x1: then(where_rtl(compare(x0, x1), scaled(grad), grad), compare(x0, x1)); "        \
              "x0: then(where_rtl(compare(x0, x1), scaled(grad), grad), compare(x0, x1))")         \
  X(lerp_tensor, "x1: mul(grad, x2); x0: mul(grad, shifted(x2)); x2: mul(grad, sub(x1, x0))")      \
  X(clamp_both, "x0: where_rtl(with(compare_number(x0), compare_number(x0)), grad, zero)")         \
  X(zeros_like, "x0: zeros_like(grad)")

enum {
  VRAM__K_FIRST = VRAM_OP_COUNT - 1,
#define VRAM__X(name, bw) VRAM__K_##name,
  VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
      VRAM__K_VARIANTS, /* the first of them */
  VRAM__K_BEFORE = VRAM__K_VARIANTS - 1,
#define VRAM__X(name, recipe) VRAM__K_##name,
  VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
      VRAM__K_COUNT
};

typedef struct vram__category_bytes { /* bytes by category */
  uint64_t of[VRAM_CATEGORY_COUNT];
} vram__category_bytes;

/* Where vram_chain_cut cuts, and what it finds between the cuts. */
typedef struct vram__segment { /* a stage; [nstage - 1] is the rest */
  const vram_node *first, *last;
  const vram_value *value;      /* what crosses behind it, */
  uint32_t id;                  /* on which storage, */
  uint8_t bad;                  /* which was overwritten, or went before backward */
  uint64_t output, saved, gone; /* bytes; gone: of saved, before its own backward */
  uint64_t forward_temp, plain_temp, backward_temp;
} vram__segment;

typedef struct vram__cuts {
  vram__segment *cut;
  uint32_t ncut, at;  /* the stage that runs */
  uint32_t *stage_of; /* by node */
  uint32_t *last;     /* by value: the node that uses it last */
  uint8_t *side;      /* by value: 1: no cut waits for it */
  uint32_t *held;     /* storages of those, so far */
  uint32_t nheld;
  uint8_t plain; /* no stage saves */
  uint8_t phase;
  uint32_t first_id, backward_id; /* of the stage's first allocation, of backward's */
  uint64_t now, peak, workspace;
  uint64_t carried; /* gradients that the stage before in backward left beside that of its input */
  uint64_t side_bytes, autocast, autocast_peak, workspace_left;
} vram__cuts;

/* A storage that variables of the training loop hold from the step before. */
typedef struct vram__kept_storage {
  uint64_t bytes;
  uint32_t line;  /* index of the `keep` node where it goes; of the first one here: how many */
  uint32_t slot;  /* that owns it, */
  uint32_t block; /* and its block in the pool of the replay */
  uint8_t cat;
} vram__kept_storage;

typedef struct vram__kept_value { /* taken by a variable in this forward pass */
  vram__tensor t;
  const vram_value *value;
  uint32_t line; /* where the variable took its first one, */
  uint8_t root;  /* it is the loss */
} vram__kept_value;

/* What `keep` lines make variables hold. */
typedef struct vram__keeps {
  vram__kept_storage *old; /* of the step before, [1] and on; NULL: the graph has no such line */
  uint32_t room;
  vram__kept_value *now;
  uint32_t count; /* of now */
  uint8_t root;   /* the loss is one of them */
} vram__keeps;

/* How much is allocated, and was at the highest point. Bytes as tensors ask for them, if not said
   otherwise. */
typedef struct vram__counts {
  uint64_t requested, phase_peak, peak; /* now; the highest of the phase, of all phases */
  uint64_t next_id, frees;              /* one allocation has one id */
  uint64_t before;                      /* events before the step: of constructors */
  uint64_t undone, undone_at; /* bytes that were freed while another stream used them: they are
                                 requested up to the next allocation, the one of that number */
  uint64_t blocks, phase_peak_blocks; /* in blocks of the caching allocator, */
  uint64_t peak_blocks;               /* of all phases, */
  uint64_t extra, peak_upper;         /* how much more those may take, the most of both */
  uint64_t peak_expected;             /* of blocks and what libraries ask for beside */
  uint64_t custom, custom_most;       /* that custom ops may save less, take less for a moment */
  vram__category_bytes category, peak_category;
  uint64_t peak_event;
  const vram_node *peak_node;
  vram_phase peak_phase;
  uint8_t at_peak;  /* the highest point so far is now */
  uint64_t stop_at; /* 1 + the event at which the live set is wanted, 0: none */
  vram_live *live;
  uint32_t live_cap, live_count;
} vram__counts;

/* Autograd's records, one after the other in the step's memory. */
typedef struct vram__tape {
  uint64_t begin; /* of the step that runs */
  uint32_t last, most_inputs;
  uint32_t gone; /* records that are about to go */
  uint8_t freeing;
  uint8_t
      stale; /* something that may be saved was overwritten in place, or a record leads nowhere */
  uint8_t retain; /* retain_graph=True */
  uint8_t split;  /* backward runs in parts: what a record that is done leads to may not be done */
} vram__tape;

/* Calls of checkpoint(). */
typedef struct vram__calls {
  vram__range *range; /* what is checkpointed, in order */
  uint32_t nrange;
  uint32_t most_args; /* of one range */
  uint32_t own_args;  /* of reentrant ones: what their functions refer to beside the named ones */
  uint32_t levels, level; /* backward inside backward (reentrant calls): at most, now */
  vram__frame *frame;     /* the checkpointed call that runs, */
  uint8_t again;          /* in its recomputation: */
  uint8_t mute;           /* it has all it needs, nothing is allocated any more */
  uint32_t saved;         /* tensors saved so far */
  uint32_t cursor;        /* record of the call whose saved tensors come next */
  uint32_t full;          /* record that saved the last of them */
  void (*recompute)(vram__step *, vram__frame *);
  void (*backward)(vram__step *, vram__grad_fn *, vram__tensor *);
} vram__calls;

/* A tensor that the program makes a leaf while it runs. Autograd's AccumulateGrad holds it as long
   as a record leads there. */
typedef struct vram__made {
  uint32_t slot;  /* 0: free */
  uint32_t edges; /* records that lead to it; of a free one: the next that is free */
} vram__made;

/* Parameters and inputs that want a gradient, and values that the program makes leaves. */
typedef struct vram__leaves {
  vram__leaf *at;
  uint32_t count, parameters;
  uint32_t taken;  /* how many took the gradient that arrived as it was; `had` has those already */
  vram__leaf *now; /* where gradients arrive: `at`, or in the backward inside backward `inner` */
  vram__leaf *inner; /* `room` for each level; NULL: there is no backward inside backward */
  uint32_t room;
  uint32_t made; /* VRAM__LEAF and the first that is made while the program runs; more than any
                    edge: there are none */
  uint32_t nmade, made_free; /* so many may live at a time; the first that does not */
  vram__made *made_of;
  vram__past *past;
  vram__cast *cast;                                /* NULL: no autocast */
  uint32_t first_cast;                             /* the newest leaf with a cached copy, + 1 */
  vram__total had;                                 /* the storages of all gradients */
  void (*accumulated)(vram__step *, vram__leaf *); /* a hook behind each; NULL: none */
  uint32_t waiting; /* the leaf whose step comes with the next one's, + 1; 0: none */
  uint64_t largest; /* gradient that such a hook let go */
  uint8_t views;   /* parameters are views: their gradients are kept as they arrive, and several are
                      added on the stream of this number; 0: they are leaves of their own */
  uint8_t known;   /* `past` is known from a step before */
  uint8_t shared;  /* two gradients lie on one storage */
  uint8_t all_had; /* every trainable parameter got a gradient, */
  uint8_t missing; /* or one did not, so it has no optimizer state */
} vram__leaves;

/* The libraries of matrix products. */
enum { VRAM__CUBLAS, VRAM__CUBLASLT, VRAM__BLAS_COUNT };

/* What of the device decides how much is allocated. */
typedef struct vram__device {
  uint32_t cc, sm, threads;
  uint64_t workspace[VRAM__BLAS_COUNT];
  const vram__rules *rules; /* of the version of PyTorch that is asked about */
} vram__device;

/* What a `cache` line of the next step of a generation begins with. */
typedef struct vram__cached {
  const vram_node *node; /* of the running step */
  uint64_t bytes;        /* of the storage; 0: nothing is there */
  uint32_t block;        /* of a replay */
  uint32_t same;         /* the first one on the same storage: its number */
  uint32_t slot;         /* 0: none */
} vram__cached;

typedef struct vram__caches {
  vram__cached *at; /* in the order of the `cache` lines */
  uint32_t room;    /* how many of them there may be, */
  uint32_t begun;   /* and how many have run */
} vram__caches;

struct vram__step {
  const vram_graph *g;
  const vram_step_options *o;
  vram_report *r;
  vram__counts count;
  vram__tape tape;
  vram__calls call;
  vram__leaves leaf;
  vram__keeps keep;
  vram__device device;
  vram__replay *replay;                                 /* NULL: no replay */
  vram__cuts *cuts;                                     /* of vram_chain_cut, or NULL */
  vram__caches *caches;                                 /* of a generation, or NULL */
  const struct vram__wrapper *wrapper;                  /* of torch.distributed, or NULL, */
  void *wrapped;                                        /* and what it keeps */
  void (*unit_backward)(vram__step *, vram__grad_fn *); /* of a record of kind VRAM__K_unit */
  uint32_t
      outside; /* in a unit: values of nodes before that one, - 1, are its caller's; 0: in none */
  uint32_t unit_end;  /* the last node of that unit, if it returns what lines behind it drop */
  vram_dtype compute; /* of parameters in forward and backward; VRAM_DTYPE_NONE: as stored */
  vram_phase_report *setup;      /* VRAM_SETUP_COUNT; NULL: nobody asks about it, or not this run */
  uint32_t nth;                  /* the number of this step in its run, as far as it is told */
  struct vram__inplace *inplace; /* activations are asked whether they may overwrite; or NULL */
  struct vram__layers *layers;   /* that are alike, of which some are not played; or NULL */
  struct vram__pipe *pipe;       /* a rank of a pipeline, or NULL */
  void (*brief)(vram__step *, uint64_t); /* hears what libraries ask for, or NULL */
  void (*emptied)(vram__step *); /* before what runs again inside autocast empties its cache */
  void (*stays)(vram__step *, uint32_t); /* hears of a workspace that would stay, and sees to it */

  uint8_t *mem;
  uint64_t used, cap; /* the tape grows up to there, */
  vram_dims *spare;   /* when the memory is used up */
  uint32_t nspare;
  uint32_t nslot, free_slot;
  uint32_t first_slot; /* slots grow down from it */
  uint64_t most_used;
  uint32_t skipped; /* bytes of the scratch before its first multiple of 8 */

  const vram_node *node; /* that runs */
  vram_phase phase;
  uint8_t cat;    /* category of what is allocated now, */
  uint8_t stream; /* and on which stream of VRAM__STREAMS; 0: the default one */
  uint8_t grad, train, failed;
  vram_dtype amp;       /* autocast's; VRAM_DTYPE_NONE: none */
  vram_dtype dtype;     /* the model's in this run, */
  vram_dtype buffers;   /* and its buffers' */
  uint8_t zero3_linear; /* F.linear is DeepSpeed's LinearFunctionForZeroStage3 */
  vram_dtype loaded;    /* the model's dtype before it was prepared for training */
  uint8_t watched;      /* single events matter: somebody listens, or the live set is wanted */
  uint8_t scaler;       /* GradScaler takes part */
  uint8_t ideal;        /* VRAM_RULES_IDEAL */
  uint8_t autocasts_backward; /* backward runs inside autocast's context */
  uint8_t registers;          /* results stay in registers: nothing is allocated */
  uint8_t blas_workspaces;    /* of products, that stay: a bit each (torch/blas) */
  uint8_t rnn_cudnn;          /* a net with dropout ran in cuDNN, */
  uint8_t rnn_cells;          /* or all of them ran without it */
  uint8_t rnn_reset; /* rnn_dropout is made anew by the next call: the generator's state was set */
  vram__tensor rnn_dropout; /* cuDNN's random numbers, one for the process */
  vram__tensor loss, scale; /* the scale of GradScaler */
  uint32_t *found_inf;      /* storages that it has of each optimizer until its update */
  uint32_t nfound_inf;
  uint32_t nsteps;    /* `step` lines so far */
  vram__tensor *held; /* what functions refer to beside what they save: as long as the graph that
                         they are in is there */
  uint32_t nheld, held_room;
  vram__tensor *context_held; /* what context_parallel's frame holds until behind backward */
  uint32_t ncontext;
  vram__variable *variable;
  uint32_t *name_of; /* value index -> variable */
  vram__tensor *param;
  vram__tensor *gin;               /* gradients for the inputs of the running backward node */
  vram__tensor *args, *results;    /* inputs and outputs of the running node */
  const vram_value *root;          /* what backward starts from, or the caller keeps */
  uint32_t nbackward;              /* `backward` lines so far */
  uint64_t saved_most;             /* saved bytes at one of them */
  uint8_t first_batch, last_batch; /* the micro-batch that runs is the step's first, its last */
  uint8_t *skip;                   /* nodes that inference leaves out; NULL: none */
  struct vram__optim_param *optim;
  uint64_t optim_held;   /* optimizer state from before the step */
  vram__total optim_all; /* a list like all trainable parameters */
  const char *problem;   /* why these options are impossible */
  const vram_node *problem_node;
  vram_words problem_words;        /* what was found */
  uint32_t plan[VRAM__K_COUNT][2]; /* recipes in short, of the op and in place; 0: not yet */
  const vram_dims *dims_cache[64];
  const vram_dims *scalar;
  const vram_dims *vec;   /* the last one of one axis that vram__tensor_vector made */
  uint32_t *searched;     /* hashes of convolutions for which cudnn.benchmark has searched, */
  uint32_t searched_room; /* a power of two */
};

struct vram__replay {
  vram_pool pool;
  uint64_t room, next;  /* of the simulated device: bytes left, the next address */
  uint32_t *gradient;   /* blocks of the leaves' gradients, */
  uint32_t *input;      /* and of inputs that each step has anew */
  uint32_t rnn_dropout; /* block of its state */
  uint8_t fresh;        /* 2: nothing is on the device yet; 1: no inputs are */
  uint8_t full;         /* the pool's own memory was too small, */
  uint8_t oom;          /* or that of the device: nothing more is played, */
  uint8_t tight;        /* and nobody asks about the rest */
  /* a step on tape: see vram__replay_play_tape */
  uint64_t *tape;
  uint32_t *block; /* of each id */
  uint32_t ntape, tape_cap, ids;
  uint32_t body, optim, after; /* where the step begins, its optimizer, what follows that */
  uint8_t taping;              /* events go on the tape, not into the pool */
  uint8_t untold;              /* what happens once more is not the same, or the tape is full */
};

enum {
  VRAM__TAPE_ALLOC,
  VRAM__TAPE_FREE,
  VRAM__TAPE_OWN,
  VRAM__TAPE_PHASE,
  VRAM__TAPE_BRIEF,      /* taken and given back at once */
  VRAM__TAPE_SEARCH,     /* the same in the first step only */
  VRAM__TAPE_STREAM = 3, /* bits of one of these; then four of the stream, */
  VRAM__TAPE_BITS = 7    /* then the value */
};

/* versions.c */
VRAM__FN const vram__rules *vram__rules_of_torch(vram_rules version);

/* device.c */
VRAM__FN uint64_t vram__replay_alloc(void *user, uint64_t bytes, uint64_t stream);
VRAM__FN void vram__replay_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream);
VRAM__FN uint64_t vram__replay_reserve(void *user, uint64_t bytes);
VRAM__FN void vram__replay_unreserve(void *user, uint64_t address, uint64_t bytes);
VRAM__FN int vram__replay_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
VRAM__FN void vram__replay_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
VRAM__FN uint32_t vram__replay_get(vram__step *s, uint64_t bytes, uint32_t stream);
VRAM__FN void vram__replay_get_briefly(vram__replay *run, uint64_t bytes);
VRAM__FN void vram__replay_put(vram__replay *run, uint32_t x);
VRAM__FN inline void vram__replay_tell(vram__step *s, uint8_t cat, const vram_node *node);
VRAM__FN void vram__event_emit(vram__step *s, vram_action a, const vram__storage *st);
VRAM__FN void vram__peak_note(vram__step *s);
VRAM__FN void vram__live_collect(vram__step *s);

/* cuts.c */
VRAM__FN void vram__cuts_close_stage(vram__cuts *c);
VRAM__FN void vram__cuts_count_event(vram__step *s, int alloc, const vram__storage *st);
VRAM__FN void vram__cuts_count_node(vram__step *s, const vram_node *n);

/* storage.c */
VRAM__FN void vram__event_watch(vram__step *s, vram_action a, vram__storage *st);
VRAM__FN uint32_t vram__slot_new(vram__step *s);
VRAM__FN vram__tensor vram__tensor_empty(vram__step *s, const vram_dims *d, vram_dtype dt);
VRAM__FN vram__tensor vram__tensor_empty_strided(vram__step *s, const vram_dims *d, vram_dtype dt,
                                                 uint64_t bytes);
VRAM__FN uint32_t vram__storage_new(vram__step *s, uint64_t bytes);
VRAM__FN void vram__undone_add(vram__step *s, uint32_t slot);
VRAM__FN void vram__undone_count(vram__step *s, uint64_t bytes);
VRAM__FN void vram__slot_free(vram__step *s, uint32_t i);
VRAM__APART VRAM__FN void vram__storage_free_watched(vram__step *s, uint32_t i);
VRAM__FN void vram__upper_may_need(vram__step *s, uint64_t elements);
VRAM__FN void vram__device_workspace(vram__step *s, const vram_bounds *bytes);
VRAM__FN void vram__device_search(vram__step *s, const vram_bounds *bytes, uint32_t of);
VRAM__FN void vram__workspace_use(vram__step *s, uint64_t bytes);
VRAM__FN void vram__workspace_keep(vram__step *s, uint64_t bytes);

/* tensor.c */
VRAM__FN const vram_dims *vram__dims_in(vram__step *s, uint32_t n, const int64_t *size,
                                        const int64_t *stride);
VRAM__FN vram_dtype vram__step_dtype(const vram__step *s, vram_dtype dt);
VRAM__FN vram_dtype vram__step_key_dtype(const vram__step *s, const vram_node *n, vram_dtype def);
VRAM__FN uint32_t vram__dtype_size(vram_dtype dt);
VRAM__FN uint64_t vram__product4_or_overflow(int64_t a, int64_t b, int64_t c, int64_t e);
VRAM__FN vram__tensor vram__tensor_raw(vram__step *s, uint64_t bytes);
VRAM__FN const vram_dims *vram__dims_contiguous(vram__step *s, const vram_dims *d);
VRAM__FN vram__tensor vram__tensor_alias(vram__step *s, vram__tensor x, const vram_dims *d);
VRAM__FN vram__tensor vram__tensor_view(vram__step *s, vram__tensor x, const vram_dims *d);
VRAM__FN const vram_dims *vram__dims_dense(vram__step *s, const vram_dims *d);
VRAM__FN const vram_dims *vram__dims_channels_last(vram__step *s, const vram_dims *d);
VRAM__FN const vram_dims *vram__dims_pointwise1(vram__step *s, const vram_dims *d);
VRAM__FN const vram_dims *vram__dims_pointwise_number(vram__step *s, const vram_dims *d);
VRAM__FN const vram_dims *vram__dims_pointwise(vram__step *s, const vram_dims *const *op,
                                               uint32_t nop);
VRAM__FN vram__tensor vram__pointwise_empty1(vram__step *s, vram__tensor a);
VRAM__FN vram__tensor vram__pointwise_empty_number(vram__step *s, vram__tensor a);
VRAM__FN vram_dtype vram__promote_pair(vram__tensor a, vram__tensor b);
VRAM__FN vram__tensor vram__pointwise_empty2(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__tensor vram__tensor_contiguous(vram__step *s, vram__tensor x);
VRAM__FN vram__tensor vram__tensor_to(vram__step *s, vram__tensor x, vram_dtype dt);
VRAM__FN int vram__dims_view_strides(const vram_dims *x, uint32_t n, const int64_t *size,
                                     int64_t *stride);
VRAM__FN vram__tensor vram__tensor_reshape(vram__step *s, vram__tensor x, uint32_t n,
                                           const int64_t *size);
VRAM__FN const vram_dims *vram__dims_permuted(vram__step *s, const vram_dims *d,
                                              const uint8_t *order);
VRAM__FN const vram_dims *vram__dims_swapped(vram__step *s, const vram_dims *d, uint32_t a,
                                             uint32_t b);
VRAM__FN const vram_dims *vram__tensor_formatted(vram__step *s, const vram_dims *d, int cl);
VRAM__FN vram__tensor vram__tensor_in_format(vram__step *s, vram__tensor x, int cl);
VRAM__FN void vram__torch_add_(vram__step *s, vram__tensor *y, vram__tensor b);

/* Reduce.cuh, setReduceConfig: how a reduction is laid over threads and blocks. */
typedef struct vram__reduce_config {
  int64_t outputs, inputs; /* inputs: values of each output */
  int64_t dim0, dim1;      /* threads in x go along dim0, in y along dim1, in vectors */
  int64_t output_vector;   /* outputs that a thread has at once */
  int along;               /* dim0 is the reduced one */
  /* what vram__reduce_config_split finds; 0: no output is split over blocks */
  int64_t block_width, grid, ctas_per_output;
} vram__reduce_config;

/* reduce.c */
VRAM__FN int vram__reduce_config_split(vram__reduce_config *c, const vram__device *device);
VRAM__FN uint64_t vram__reduce_partial_bytes(const vram__reduce_config *c, uint64_t acc);
VRAM__FN int64_t vram__power_of_two_below(int64_t v, int64_t most);
VRAM__FN void vram__reduce_scratch(vram__step *s, vram__tensor x, uint32_t mask, vram_dtype dt,
                                   uint32_t acc, uint32_t vt);
VRAM__FN vram__tensor vram__tensor_reduced(vram__step *s, vram__tensor x, uint32_t mask,
                                           int keepdim, vram_dtype dt);
VRAM__FN vram__tensor vram__tensor_sum(vram__step *s, vram__tensor x, uint32_t mask, int keepdim,
                                       vram_dtype dt);
VRAM__FN vram__tensor vram__tensor_sum_to(vram__step *s, vram__tensor x, const vram_dims *to);

/* frame.c */
VRAM__FN vram__frame *vram__frame_at(const vram__step *s, uint32_t f);
VRAM__COLD VRAM__FN void vram__frame_release(vram__step *s, vram__frame *c);
VRAM__COLD VRAM__FN uint32_t vram__frame_pack(vram__step *s, vram__grad_fn *f, const vram_dims *d,
                                              uint32_t st);
VRAM__COLD VRAM__FN void vram__frame_stop_early(vram__step *s, const vram__grad_fn *f);

/* tape.c */
VRAM__FN vram__grad_fn *vram__tape_record(vram__step *s, uint32_t kind, const vram__tensor *in,
                                          uint32_t nin, uint32_t nout, uint32_t room);
VRAM__FN void vram__save_tensor(vram__step *s, vram__grad_fn *f, vram__tensor t);
VRAM__FN void vram__save_and_release(vram__step *s, vram__grad_fn *f, vram__tensor t);
VRAM__FN void vram__grad_fn_set_output(vram__step *s, vram__grad_fn *f, uint32_t i,
                                       const vram__tensor *y);
VRAM__FN void vram__saved_release(vram__step *s, vram__grad_fn *f);
VRAM__FN int vram__saves_list(const vram__grad_fn *f);
VRAM__FN void vram__tensor_hold(vram__step *s, const vram__grad_fn *f, vram__tensor t);
VRAM__FN void vram__held_release(vram__step *s, uint32_t from, uint32_t to);
VRAM__FN void vram__grad_fn_free(vram__step *s, uint32_t first);
VRAM__FN vram__tensor vram__tensor_scaled(vram__step *s, vram__tensor t, int is);
VRAM__FN const vram_dims *vram__input_dims(const vram__step *s, vram__grad_fn *f, uint32_t i,
                                           vram_dtype *dt);

/* inplace.c */
VRAM__FN void vram__refuse_unlike(vram__step *s, const vram__tensor *in, uint32_t n);
VRAM__FN void vram__refuse_overlap(vram__step *s, const vram_dims *d);
VRAM__FN void vram__step_refuse(vram__step *s, vram_result code, const vram_node *n,
                                const char *what);
VRAM__COLD VRAM__FN void vram__view_rebase(vram__step *s, const vram__tensor *t);
VRAM__FN void vram__base_rebase(vram__step *s, const vram__tensor *y, uint32_t old);
VRAM__FN uint64_t vram__dims_span_bytes(const vram_dims *d, vram_dtype dt);

/* view.c */
VRAM__FN void vram__view_wants_grad(vram__step *s, vram__tensor y, vram__tensor x);
VRAM__FN vram__tensor vram__torch_view_as(vram__step *s, vram__tensor x, const vram_dims *d,
                                          uint32_t k, uint64_t aux);
VRAM__FN vram__tensor vram__torch_unsafe_view(vram__step *s, vram__tensor x, const vram_dims *d);
VRAM__FN vram__tensor vram__torch_clone(vram__step *s, vram__tensor x, const vram_dims *d);
VRAM__FN vram__tensor vram__torch_permute(vram__step *s, vram__tensor x, const uint8_t *order);
VRAM__FN vram__tensor vram__torch_swap(vram__step *s, vram__tensor x, uint32_t a, uint32_t b);
VRAM__FN vram__tensor vram__torch_reshape(vram__step *s, vram__tensor x, uint32_t n,
                                          const int64_t *size);
VRAM__FN const vram_dims *vram__dims_expanded(vram__step *s, const vram_dims *x, uint32_t n,
                                              const int64_t *size);
VRAM__FN vram__tensor vram__torch_expand(vram__step *s, vram__tensor x, uint32_t n,
                                         const int64_t *size);
VRAM__FN vram__tensor vram__torch_cast(vram__step *s, vram__tensor x, vram_dtype dt);
VRAM__FN vram__tensor vram__torch_squeeze(vram__step *s, vram__tensor x, uint32_t mask);
VRAM__FN vram__tensor vram__torch_squeeze1(vram__step *s, vram__tensor x, uint32_t axis);
VRAM__FN const vram_dims *vram__dims_unsqueezed(vram__step *s, const vram_dims *d, uint32_t axis);
VRAM__FN vram__tensor vram__torch_unsqueeze(vram__step *s, vram__tensor x, uint32_t axis);
VRAM__FN const vram_dims *vram__dims_without_axis(vram__step *s, const vram_dims *d, uint32_t axis);
VRAM__FN vram__tensor vram__dims_kept(vram__step *s, vram__tensor t, const vram_dims *x,
                                      uint32_t mask);
VRAM__FN vram__tensor vram__torch_contiguous(vram__step *s, vram__tensor x);

/* leaf.c */
VRAM__FN void vram__leaf_make(vram__step *s, vram__tensor t);
VRAM__COLD VRAM__FN void vram__leaf_hold(vram__step *s, uint32_t edge);
VRAM__COLD VRAM__FN void vram__leaf_let_go(vram__step *s, uint32_t edge);
VRAM__COLD VRAM__FN void vram__leaf_gone(vram__step *s, uint32_t edge);
VRAM__FN void vram__leaves_settle(vram__step *s);

/* autocast.c */
VRAM__FN vram__tensor vram__autocast_cast(vram__step *s, vram__tensor x, vram_dtype dt);
VRAM__FN uint64_t vram__autocast_leave(vram__step *s);

/* blas.c */
VRAM__FN void vram__blas_workspace(vram__step *s, uint32_t library);
VRAM__FN void vram__blas_workspace_stays(vram__step *s, uint32_t which);
VRAM__FN void vram__blas_gemm(vram__step *s, vram__tensor a, vram__tensor b, uint32_t library);
VRAM__FN vram__tensor vram__blas_mm(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__tensor vram__blas_bmm(vram__step *s, vram__tensor a, vram__tensor b);
VRAM__FN vram__tensor vram__blas_mv(vram__step *s, vram__tensor a, vram__tensor v);
VRAM__FN vram__tensor vram__tensor_turned(vram__step *s, vram__tensor x);
VRAM__FN vram__tensor vram__blas_mm_grad1(vram__step *s, vram__tensor g, vram__tensor b,
                                          const vram_dims *d);
VRAM__FN vram__tensor vram__blas_mm_grad2(vram__step *s, vram__tensor g, vram__tensor a,
                                          const vram_dims *d);

/* bitsandbytes.c */
VRAM__FN int vram__gemm4_is_fused(const vram__step *s, vram_dtype dt, int64_t rows, int64_t out,
                                  int64_t in);

/* What a function of cuDNN makes: the result, the gradient of the input, of the weight. */
typedef enum vram__conv_makes {
  VRAM__CONV_RESULT,
  VRAM__CONV_INPUT,
  VRAM__CONV_WEIGHT
} vram__conv_makes;

/* A convolution as cuDNN's functions take it: x is what forward reads and backward data makes, y
   what forward makes. */
typedef struct vram__cudnn_conv {
  vram_dtype dt;
  vram__conv_makes makes;
  uint64_t channels[2], places[2]; /* of x and of y: samples times positions */
  uint64_t samples, in, window;    /* of a filter: channels, values of each */
  int64_t kernel[2], made[2]; /* with two axes: of the filters, of what is made or summed over */
  uint8_t axes, channels_last, grouped;
  uint8_t dense; /* stride, dilation 1, one group, filters of several values: may be transformed */
} vram__cudnn_conv;

/* cudnn.c */
VRAM__FN vram_bounds vram__cudnn_workspace(const vram__device *d, const vram__cudnn_conv *c);
VRAM__APART VRAM__FN vram_bounds vram__cudnn_search(const vram__device *d,
                                                    const vram__cudnn_conv *c,
                                                    const vram_bounds *w);

/* cub.c */
VRAM__FN uint64_t vram__cub_part(const vram__step *s, uint64_t bytes);
VRAM__FN uint32_t vram__cub_hold(vram__step *s, uint64_t bytes);
VRAM__FN void vram__cub_release(vram__step *s, uint32_t i);
VRAM__FN uint64_t vram__cub_sort(const vram__step *s, uint64_t n, uint32_t key, uint32_t value,
                                 uint32_t bits);
VRAM__FN uint64_t vram__cub_select(const vram__step *s, uint64_t n, uint32_t kind);
VRAM__FN void vram__cub_sum(vram__step *s, uint64_t n);
VRAM__FN uint64_t vram__cub_scan(const vram__step *s, uint64_t n, vram_dtype dt);
VRAM__FN uint64_t vram__cub_by_key(const vram__step *s, uint64_t n, uint32_t key);
VRAM__FN uint32_t vram__cub_nonzero_some(vram__step *s, uint64_t n, uint64_t most, uint32_t ndim);
VRAM__FN uint32_t vram__cub_nonzero(vram__step *s, uint64_t n, uint32_t ndim);

/* ops/collective.c */
VRAM__FN vram__tensor vram__torch_all_reduce(vram__step *s, vram__tensor x, int64_t ranks);

/* engine.c */
VRAM__FN void vram__cache_become(vram__step *s, vram__storage *b);
VRAM__FN void vram__gradient_add(vram__step *s, vram__tensor *at, const vram__tensor *t);
VRAM__FN void vram__gradient_accumulate(vram__step *s, vram__leaf *l);
VRAM__FN void vram__gradient_validate(vram__step *s, vram__tensor *t, const vram_dims *d,
                                      vram_dtype dt);

/* ops/table.c */
VRAM__FN void vram__backward_any(vram__step *s, vram__grad_fn *f, vram__tensor *to);

static inline vram__grad_fn *vram__grad_fn_at(const vram__step *s, uint32_t f) {
  return (vram__grad_fn *)(void *)(s->mem + (uint64_t)f * 8);
}

static inline vram__storage *vram__slot_at(const vram__step *s, uint32_t i) {
  return (vram__storage *)(void *)(s->mem + (uint64_t)i * 8);
}

/* The slot that owns the storage of the tensor of slot i. */
static inline vram__storage *vram__owner_at(const vram__step *s, uint32_t i) {
  return vram__slot_at(s, vram__slot_at(s, i)->base);
}

/* Slots that modules do not own, k below s->nslot, in the order in which they were first used. */
static inline uint32_t vram__slot_number(const vram__step *s, uint32_t k) {
  return s->first_slot - k * VRAM__SLOT_STEP;
}

static inline vram__tensor vram__tensor_none(void) {
  vram__tensor t;
  t.d = NULL;
  t.st = 0;
  t.dt = VRAM_DTYPE_NONE;
  return t;
}

/* Slot of t; the weights that modules own share one. */
static inline uint32_t vram__tensor_slot(vram__tensor t) {
  return t.st & VRAM__LEAF ? VRAM__OWN_WEIGHTS : t.st;
}

/* The record that made t, or the leaf that it is; 0: neither. */
static inline uint32_t vram__tensor_fn(const vram__step *s, vram__tensor t) {
  return t.st & VRAM__LEAF ? t.st : vram__slot_at(s, t.st)->fn;
}

/* What a sum in backward gives: inside autocast's context its list of f32 holds there, too. */
static inline vram_dtype vram__backward_sum_dtype(const vram__step *s, vram_dtype dt) {
  return s->autocasts_backward && (dt == VRAM_BF16 || dt == VRAM_F16) ? VRAM_F32 : dt;
}

static inline int vram__tensor_wants_grad(const vram__step *s, vram__tensor t) {
  return (t.st & VRAM__LEAF) || vram__slot_at(s, t.st)->req;
}

/* t, which is no weight that a module owns, begins so many elements behind its storage. */
static inline void vram__tensor_begin_at(vram__step *s, vram__tensor t, uint64_t off) {
  if (t.st)
    vram__slot_at(s, t.st)->off = off & 15;
}

static inline void vram__tape_put(vram__replay *run, uint32_t kind, uint64_t value) {
  if (run->ntape < run->tape_cap && !(value >> (64 - VRAM__TAPE_BITS)))
    run->tape[run->ntape++] = value << VRAM__TAPE_BITS | kind;
  else
    run->untold = 1;
}

/* Whoever listens to the allocator (vram_pool_options.event) hears what it is for, and when. */
VRAM__FN inline void vram__replay_tell(vram__step *s, uint8_t cat, const vram_node *node) {
  vram_event *as = &s->replay->pool.as;
  as->category = as->was = (vram_category)cat;
  as->node = node;
  as->phase = s->phase;
}

static inline void vram__tape_put_event(vram__replay *run, vram_action a, const vram__storage *st) {
  if (a == VRAM_ACTION_FREE)
    vram__tape_put(run, VRAM__TAPE_FREE, st->id);
  else
    vram__tape_put(run, VRAM__TAPE_ALLOC | (uint32_t)st->stream << VRAM__TAPE_STREAM, st->bytes);
  run->untold |= a == VRAM_ACTION_FREE ? st->id >= run->ids : st->id != run->ids++;
}

/* What vram__step counts: so many bytes more. */
static inline void vram__bytes_grow(vram__step *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__block_bytes(bytes);
  s->count.requested += bytes;
  s->count.category.of[cat] += bytes;
  s->count.blocks += block;
  if (bytes > VRAM_SMALL_POOL_BYTES)
    s->count.extra += VRAM_SMALL_POOL_BYTES;
  if (s->count.blocks > s->count.phase_peak_blocks)
    s->count.phase_peak_blocks = s->count.blocks;
  if (s->count.blocks + s->count.extra > s->count.peak_upper)
    s->count.peak_upper = s->count.blocks + s->count.extra;
  if (s->count.requested > s->count.phase_peak) {
    s->count.phase_peak = s->count.requested;
    if (s->count.requested > s->count.peak) {
      s->count.peak = s->count.requested;
      s->count.peak_event = s->count.next_id + s->count.frees;
      s->count.peak_node = s->node;
      s->count.peak_phase = s->phase;
      s->count.at_peak = 1;
    }
  }
}

static inline void vram__bytes_shrink(vram__step *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__block_bytes(bytes);
  if (s->count.at_peak)
    vram__peak_note(s);
  s->count.requested -= bytes;
  s->count.category.of[cat] -= bytes;
  s->count.blocks -= block;
  if (bytes > VRAM_SMALL_POOL_BYTES)
    s->count.extra -= VRAM_SMALL_POOL_BYTES;
}

/* What b takes is free again. */
static inline void vram__storage_shrink(vram__step *s, const vram__storage *b) {
  s->count.frees++;
  if (b->saved && s->phase == VRAM_PHASE_FORWARD) /* a branch that leads nowhere is given up */
    s->r->saved_bytes -= b->bytes;
  vram__bytes_shrink(s, b->bytes, b->cat);
}

/* Slot i and the storage that it owns go. */
static inline void vram__storage_free(vram__step *s, uint32_t i) {
  vram__storage *b = vram__slot_at(s, i);
  if (s->watched)
    vram__storage_free_watched(s, i);
  else {
    if (b->bytes)
      vram__storage_shrink(s, b);
    b->id = s->free_slot;
    s->free_slot = i;
  }
}

/* What vram__undone_add has told of, as long as nobody has allocated since. */
static inline uint64_t vram__undone(const vram__step *s) {
  return s->count.undone_at == s->count.next_id ? s->count.undone : 0;
}

/* One tensor or saved tensor less on the storage that slot i owns. */
static inline void vram__storage_release(vram__step *s, uint32_t i) {
  if (--vram__slot_at(s, i)->srefs == 0)
    vram__storage_free(s, i);
}

/* One handle of a tensor goes. */
static inline void vram__slot_release(vram__step *s, uint32_t i) {
  if (i && --vram__slot_at(s, i)->refs == 0)
    vram__slot_free(s, i);
}

/* Is it a record, neither nothing nor a leaf? */
static inline int vram__is_grad_fn(uint32_t fn) { return fn - 1 < VRAM__LEAF - 1; }

static inline void vram__grad_fn_release(vram__step *s, uint32_t fn) {
  if (vram__is_grad_fn(fn) && --vram__grad_fn_at(s, fn)->refs == 0)
    vram__grad_fn_free(s, fn);
}

/* One more handle of a tensor. */
static inline void vram__slot_retain(vram__step *s, uint32_t i) {
  vram__storage *st = vram__slot_at(s, i);
  if (st->refs++ == 0) /* so far it was only saved */
    vram__slot_at(s, st->base)->srefs++;
}

/* Nobody counts handles of weights that modules own. */
static inline vram__tensor vram__tensor_retain(vram__step *s, vram__tensor t) {
  if (t.st - 1 < VRAM__LEAF - 1)
    vram__slot_retain(s, t.st);
  return t;
}

static inline void vram__tensor_release(vram__step *s, vram__tensor t) {
  if (t.st - 1 < VRAM__LEAF - 1 && --vram__slot_at(s, t.st)->refs == 0)
    vram__slot_free(s, t.st);
}

/* The tensor of this slot was made by no record that counts. */
static inline void vram__history_drop(vram__step *s, vram__storage *st) {
  const uint32_t fn = st->fn;
  st->fn = 0;
  st->req = 0;
  vram__grad_fn_release(s, fn);
}

static inline uint32_t vram__grad_fn_index(const vram__step *s, vram__grad_fn *f) {
  return (uint32_t)((uint64_t)((const uint8_t *)f - s->mem) / 8);
}

static inline vram__grad_fn *vram__tape_record_raw(vram__step *s, uint32_t kind, uint32_t nin,
                                                   uint32_t nout, uint32_t room) {
  vram__slot *slot, *end;
  vram__grad_fn *f = (vram__grad_fn *)vram__memory_take(s->mem, &s->used, s->cap,
                                                        sizeof *f + nin * sizeof(vram__edge) +
                                                            nout * sizeof(vram__slot) +
                                                            room * sizeof(vram__tensor));
  if (!f) {
    s->failed = VRAM_ERR_MEMORY;
    return NULL;
  }
  if (nin > s->tape.most_inputs)
    s->tape.most_inputs = nin;
  f->node = s->node;
  f->prev = s->tape.last;
  f->refs = f->next = f->frame = 0;
  f->deps = (uint32_t)s->count.next_id;
  f->kind = (uint16_t)kind;
  f->nin = (uint16_t)nin;
  f->nout = (uint16_t)nout;
  f->nsaved = 0;
  f->done = f->flag = f->inner = f->hooked = 0;
  f->aux = 0;
  s->tape.last = vram__grad_fn_index(s, f);
  for (slot = VRAM__SLOTS(f), end = slot + nout; slot != end; slot++)
    slot->g.d = slot->d = NULL;
  return f;
}

static inline void vram__tape_edge(vram__step *s, vram__grad_fn *f, uint32_t i, uint32_t fn,
                                   uint32_t out) {
  vram__edge *e = VRAM__EDGES(f) + i;
  e->fn = fn;
  e->out = out;
  if (vram__is_grad_fn(fn))
    vram__grad_fn_at(s, fn)->refs++;
  else if (fn >= s->leaf.made)
    vram__leaf_hold(s, fn);
}

/* Input i of f is t. */
static inline void vram__tape_edge_from(vram__step *s, vram__grad_fn *f, uint32_t i,
                                        vram__tensor t) {
  if (t.st & VRAM__LEAF)
    vram__tape_edge(s, f, i, t.st, 0);
  else
    vram__tape_edge(s, f, i, vram__slot_at(s, t.st)->fn, vram__slot_at(s, t.st)->out);
}

/* A storage is kept for backward, perhaps for the first time. */
static inline void vram__saved_count(vram__step *s, vram__storage *b) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  if (b->saved || (own >> b->cat & 1) || s->phase != VRAM_PHASE_FORWARD)
    return;
  b->saved = 1;
  s->r->saved_bytes += b->bytes;
  if (s->o->nodes && s->node)
    s->o->nodes[s->node->index].saved_bytes += b->bytes;
}

/* What t, a value of the graph, is a view of may have been written to since t got its history. */
static inline void vram__history_refresh(vram__step *s, const vram__tensor *t) {
  const vram__storage *st = vram__slot_at(s, t->st);
  if (st->of && st->ver != vram__slot_at(s, st->base)->ver)
    vram__view_rebase(s, t);
}

/* y was overwritten by an operation, whose record it has now; before, `old` had made it. Only views
   and leaves take notice. */
static inline void vram__history_rebase(vram__step *s, const vram__tensor *y, uint32_t old) {
  if (vram__slot_at(s, y->st)->of || (old & VRAM__LEAF))
    vram__base_rebase(s, y, old);
}

static inline int vram__input_wanted(const vram__grad_fn *f, uint32_t i) {
  return ((const vram__edge *)(const void *)(f + 1))[i].fn != 0;
}

/* Leaf i, without a gradient. */
static inline void vram__leaf_set(vram__step *s, uint32_t i, const vram_dims *d, vram_dtype dt) {
  vram__leaf *l = s->leaf.at + i;
  l->d = d;
  l->dt = l->grad_dt = dt;
  l->grad.d = l->in.d = NULL;
  l->grad.st = 0; /* so that it can be released */
  l->deps = 0;
  l->let_go = 0;
}

/* What there is of leaf i beside that. */
static inline void vram__leaf_spread(vram__step *s, uint32_t i) {
  uint32_t k;
  if (s->leaf.cast)
    s->leaf.cast[i].t.d = NULL;
  for (k = 0; s->leaf.inner && k < s->call.levels; k++)
    s->leaf.inner[k * (uint64_t)s->leaf.room + i] = s->leaf.at[i];
}

/* Where a gradient that goes along this edge arrives. */
static inline vram__tensor *vram__edge_end(vram__step *s, vram__edge e) {
  return e.fn & VRAM__LEAF ? &s->leaf.now[e.fn & ~VRAM__LEAF].in
                           : &VRAM__SLOTS(vram__grad_fn_at(s, e.fn))[e.out].g;
}

/* A gradient for an input; the first is taken. */
static inline void vram__gradient_arrive(vram__step *s, vram__tensor *at, vram__tensor *t) {
  if (at->d)
    vram__gradient_add(s, at, t);
  else {
    *at = *t;
    t->d = NULL;
  }
}

/* The gradient gets the shape and dtype of what the edge leads to. */
static inline void vram__gradient_fit(vram__step *s, vram__edge e, vram__tensor *t) {
  if (e.fn & VRAM__LEAF) {
    const vram__leaf *l = s->leaf.now + (e.fn & ~VRAM__LEAF);
    if (t->d != l->d || t->dt != l->grad_dt)
      vram__gradient_validate(s, t, l->d, l->grad_dt);
  } else {
    const vram__slot *o = VRAM__SLOTS(vram__grad_fn_at(s, e.fn)) + e.out;
    if (t->d != o->d || t->dt != o->dt)
      vram__gradient_validate(s, t, o->d, o->dt);
  }
}

/* Ranks of the wrapper, without copies: those of a context share gradients as others do
   (torchtitan's mesh dim dp_shard_cp), and this rank's place among them. */
static inline uint32_t vram__wrapper_ranks(const vram_parallel *p) {
  return (p->dp ? p->dp : 1) * (p->cp ? p->cp : 1);
}

static inline uint32_t vram__wrapper_rank(const vram_parallel *p) {
  const vram_parallel_place at = vram_parallel_place_of(p);
  return at.dp * (p->cp ? p->cp : 1) + at.cp;
}

/* bytes * (n - 1) / n */
static inline uint64_t vram__of_others(uint64_t bytes, uint64_t n) {
  return n ? bytes - bytes / n - (bytes % n != 0) : bytes;
}

/* A call of torch.distributed among so many ranks on a tensor of these bytes: of all_gather its
   output, of reduce_scatter its input. */
static inline void vram__communicate(vram__step *s, vram_collective kind, uint64_t bytes,
                                     uint64_t ranks) {
  vram_communication *c = s->r->communication + kind;
  uint64_t sent = bytes;
  if (kind == VRAM_COLLECTIVE_ALL_REDUCE)
    sent = 2 * vram__of_others(bytes, ranks);
  else if (kind == VRAM_COLLECTIVE_ALL_GATHER || kind == VRAM_COLLECTIVE_REDUCE_SCATTER ||
           kind == VRAM_COLLECTIVE_ALL_TO_ALL)
    sent = vram__of_others(bytes, ranks);
  else if (kind == VRAM_COLLECTIVE_RECV)
    sent = 0;
  c->calls++;
  c->bytes = vram__sum_or_overflow(c->bytes, bytes);
  c->sent = vram__sum_or_overflow(c->sent, sent);
}
