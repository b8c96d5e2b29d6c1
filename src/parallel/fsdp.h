/* >>parallel/fsdp    what fully_shard keeps */
#pragma once
#include "parallel/parallel.h"
#include "step/optim.h"

/* Streams, in the order in which PyTorch uses them first: 1 all_gather_copy_in_stream, 2
   all_gather_stream (allocates nothing), 3 reduce_scatter_stream, 4 all_reduce_stream. Where
   nothing is gathered, those that are left move up. Further stages of a rank have those that
   allocate behind them. */
enum { VRAM__FSDP_GATHER = 1, VRAM__FSDP_REDUCE = 3, VRAM__FSDP_ALL_REDUCE = 4 };

enum { VRAM__FSDP_SHARDED, VRAM__FSDP_POST_FORWARD, VRAM__FSDP_WHOLE }; /* ShardedState */
enum { VRAM__FSDP_IDLE, VRAM__FSDP_FORWARD, VRAM__FSDP_PRE_BACKWARD, VRAM__FSDP_POST_BACKWARD };

#define VRAM__FSDP_NONE UINT32_MAX

/* What the wrapper does around units: of a stage of a pipeline it is told, and done by whoever
   plays the part (micro.c). */
enum {
  VRAM__UNIT_FORWARD,      /* FSDPState._pre_forward, */
  VRAM__UNIT_FORWARD_END,  /* _post_forward, */
  VRAM__UNIT_FORWARD_OVER, /* and of the root at its end */
  VRAM__UNIT_BACKWARD,     /* FSDPParamGroup.pre_backward, and of units that are gathered ahead: */
  VRAM__UNIT_PREFETCH,
  VRAM__UNIT_BACKWARD_OVER /* _root_post_backward_final_callback */
};

typedef struct vram__fsdp_param {
  const vram_param *p;
  uint32_t leaf;               /* VRAM__FSDP_NONE: it is frozen */
  uint32_t group;              /* 0: the root's */
  vram_dtype dtype;            /* as stored */
  uint64_t padded, local;      /* elements of this rank's shard with its padding, without */
  uint64_t at;                 /* where it begins in its group's flat parameter */
  int64_t size[VRAM_MAX_AXES]; /* of the shard without */
  uint32_t whole, post;        /* slots: gathered; the shard that is kept after forward */
  uint32_t shard;              /* slot, in the first step */
  uint8_t had;                 /* it got a gradient in this step */
  uint8_t last;                /* the optimizer's last one of its group */
} vram__fsdp_param;

/* A unit and what is gathered for it. */
typedef struct vram__fsdp_group {
  uint32_t first, end; /* of the parameters */
  vram__unit_run run;  /* of nodes; the root has none */
  const vram_value **in, **dropped;
  uint32_t nin, ndropped; /* values from outside: that it uses, whose last line is in it */
  vram__tensor *given;    /* what the caller has of `in` while the unit runs */
  uint8_t state, training;
  uint8_t reshard;      /* vram_reshard */
  uint32_t gathered;    /* slot of what all_gather made and nobody has copied yet */
  uint32_t grad;        /* slot of the sharded gradients, */
  uint32_t grad_block;  /* and their block of the replay between two steps */
  uint64_t grad_bytes;  /* 0: no gradients */
  uint32_t reduced;     /* slot: what all_reduce worked on, until backward is through */
  uint64_t numel, bare; /* of the flat parameter, with its padding and without */
  uint32_t flat;        /* slot of its gradient, which is not reduced yet */
  uint32_t split;       /* the record of its views */
  uint8_t frozen;       /* all of it is */
  uint8_t ahead;        /* it was gathered before its turn in forward */
  uint32_t before;      /* the group before it in the order of the forward pass, + 1 */
  uint32_t at;          /* in the order of the forward pass, + 1; 0: it did not run */
  uint32_t passes;      /* forward passes whose backward has not begun (_post_forward_indices) */
  uint8_t async;        /* it is being gathered by unshard(async_op=True) */
} vram__fsdp_group;

typedef struct vram__fsdp_hook { /* an output of group's forward pass */
  uint32_t fn, group;
} vram__fsdp_hook;

typedef struct vram__fsdp {
  const vram_node *first, *end; /* of the module; NULL: behind the last one */
  void (*tell)(vram__step *s, uint32_t what, uint32_t k); /* NULL: it is done */
  uint8_t called; /* the final callback of this backward is queued */
  uint8_t stream; /* the first of a stage's streams is so much higher */
  vram__fsdp_param *param;
  vram__fsdp_group *group; /* the root, then the units in the order of the model */
  uint32_t *optim;         /* the parameters' numbers in the order of Module.parameters() */
  uint32_t nparam, ngroup;
  uint32_t *order; /* groups as their forward passes end: post_forward_order */
  uint32_t norder;
  vram__fsdp_hook *hook;
  uint32_t nhook, hook_room;
  uint32_t shards, copies, post; /* ranks; post: of reshard_after_forward=N */
  uint32_t kept;                 /* slot: comm_ctx.all_gather_state */
  uint32_t input;                /* slot: comm_ctx.reduce_scatter_states */
  vram__tensor output;   /* the last output of the unit that ran last: its caller's variable */
  vram_dtype mp, reduce; /* VRAM_DTYPE_NONE: as stored */
  vram_dtype dtype;      /* the model's, while it runs in another one */
  uint8_t offload;
  uint8_t flat; /* FullyShardedDataParallel: one flat parameter for each group, */
  uint8_t ran;  /* whose first forward pass has begun; 2: whose first backward is over */
  uint32_t zero, zero_block; /* slot and block of what clip_grad_norm_ keeps */
} vram__fsdp;

static inline vram__fsdp *vram__fsdp_of(const vram__step *s) { return (vram__fsdp *)s->wrapped; }

static inline uint8_t vram__fsdp_stream(const vram__fsdp *d, uint32_t stream) {
  if (d->stream && stream > VRAM__FSDP_GATHER)
    return (uint8_t)(d->stream + stream - 1); /* no stream for all_gather */
  return (uint8_t)((d->shards > 1 ? stream : stream - 2) + d->stream);
}

/* On which stream the sharded gradients are that the optimizer finds. */
static inline uint8_t vram__fsdp_last_stream(const vram__fsdp *d, vram_dtype stored) {
  return vram__fsdp_stream(d, d->copies > 1 && d->reduce && d->reduce != stored
                                  ? VRAM__FSDP_ALL_REDUCE
                                  : VRAM__FSDP_REDUCE);
}

/* fsdp_make.c */
VRAM__FN uint64_t vram__fsdp_bytes(const vram_graph *g, const vram_step_options *o);
VRAM__FN void vram__fsdp_make(vram__step *s, const vram_node *first, const vram_node *end);
VRAM__FN int vram__fsdp_has(const vram__fsdp *d, const vram_param *p);
VRAM__FN void vram__fsdp_move(vram__step *s, vram__fsdp *d, vram__owned *o);
VRAM__FN const char *vram__fsdp_refuses(const vram_graph *g, const vram_step_options *o);

/* fsdp1.c */
VRAM__FN void vram__fsdp1_unshard(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp1_pre_forward(vram__step *s, uint32_t k);
VRAM__FN void vram__fsdp1_post_forward(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp1_pre_backward_of(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp1_end(vram__step *s);

/* fsdp.c */
VRAM__FN void vram__fsdp_wait(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp_reshard(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp_post_backward_of(vram__step *s, uint32_t k);
VRAM__FN void vram__fsdp_end(vram__step *s);
VRAM__FN void vram__fsdp_unshard(vram__step *s, vram__fsdp_group *g);
VRAM__FN void vram__fsdp_zero_grad(vram__step *s);
VRAM__FN void vram__fsdp_forward_begin(vram__step *s);
VRAM__FN void vram__fsdp_forward(vram__step *s, const vram_node *end);
VRAM__FN void vram__fsdp_hook_on(vram__step *s, const vram_value *v, uint32_t k);
VRAM__FN void vram__fsdp_module_end(vram__step *s);
VRAM__FN void vram__fsdp_module_over(vram__step *s);
VRAM__FN void vram__fsdp_forward_end(vram__step *s);
VRAM__FN void vram__fsdp_told_end(vram__step *s);
VRAM__FN void vram__fsdp_pre_backward(vram__step *s, uint32_t fn);
VRAM__FN void vram__fsdp_post_backward(vram__step *s, vram__grad_fn *f);
VRAM__FN void vram__fsdp_backward_end(vram__step *s);
VRAM__FN void vram__fsdp_lasts(vram__step *s);
VRAM__FN void vram__fsdp_optimized(vram__step *s);
VRAM__FN uint32_t vram__fsdp_optim_params(vram__step *s, vram__optim_param *p, int with_grad);
