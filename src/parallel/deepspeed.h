/* >>parallel/deepspeed    DeepSpeed's ZeRO stages: what their parts share */
#pragma once
#include "parallel/parallel.h"

#define VRAM__DS_NONE UINT32_MAX

/* A trainable parameter, in the order of named_parameters. */
typedef struct vram__ds_param {
  const vram_param *p;
  uint32_t leaf;
  uint64_t numel, at; /* at: where it lies in the flat parameters */
  uint8_t mine;       /* a part of it is in this rank's partition */
  uint8_t used;       /* its gradient is larger than a bucket, and the reduction's stream uses it */
  uint8_t reduced;    /* its gradient has been reduced in this backward */
  uint32_t zeros;     /* slot: what stands for the gradient that no backward has made */
} vram__ds_param;

/* A slot that lasts from step to step, and its block of a replay. */
typedef struct vram__ds_kept {
  uint32_t slot, block;
  uint64_t bytes;
} vram__ds_kept;

/* Stages 1 and 2: DeepSpeedZeroOptimizer (runtime/zero/stage_1_and_2.py, to whose functions names
   refer). */
typedef struct vram__ds {
  vram__ds_param *param;
  uint32_t *by_leaf; /* parameter of a leaf */
  uint32_t nparam, stage, ranks, rank;
  vram_dtype dtype, comm;        /* of parameters and gradients; communication_data_type */
  uint64_t numel, part;          /* of all parameters; of this rank's partition, padded */
  int64_t part_size;             /* the same for the optimizer */
  uint64_t mine_numel, mine_end; /* of parameters in the partition; elements of it that they fill */
  uint32_t nmine;
  vram__ds_kept flat, master, norm, staging; /* norm: of the step before; staging: of offload */
  uint8_t offload, overlap, contiguous, scatter;
  /* of a backward */
  uint32_t bucket[2], at; /* slots; which of them */
  uint8_t used[2];        /* the reduction's stream has used the first, the second */
  uint8_t ready;          /* the buckets are there */
  uint32_t batches;       /* micro-batches of this step that have been reduced */
  uint64_t elements;      /* in the bucket */
  uint32_t *member;       /* parameters in it */
  uint32_t nmember;
  uint32_t extra;           /* parameter larger than the bucket; VRAM__DS_NONE: none */
  uint32_t grads, grads_in; /* slots: gradients of the partition: of all micro-batches, of this */
  uint32_t pad;             /* slot: zeros behind them */
  uint32_t nlist;           /* tensors of averaged_gradients */
  uint32_t *norms;          /* slots: of each gradient, while they are added up */
  /* of the optimizer's step: slots */
  uint32_t single;              /* the gradient of the partition in fp32 */
  uint32_t scaled, norm_before; /* norms that go with the step */
} vram__ds;

static inline vram__ds *vram__ds_of(const vram__step *s) { return (vram__ds *)s->wrapped; }

/* deepspeed.c */
VRAM__FN void vram__ds_let_go(vram__step *s, vram__ds_param *f);
VRAM__FN void vram__ds_keep_again(vram__step *s, vram__ds_kept *k, uint8_t cat);
VRAM__FN void vram__ds_keep_block(vram__step *s, vram__ds_kept *k);
VRAM__FN const char *vram__ds_refuses(const vram_graph *g, const vram_step_options *o);
VRAM__FN vram_dtype vram__ds_dtype(const vram_step_options *o, vram_dtype own);
VRAM__FN void vram__ds_options(vram__step *s);
VRAM__FN void vram__ds_put(vram__step *s, vram__owned *o);
VRAM__FN vram__tensor vram__ds_scaled(vram__step *s, vram__tensor x);

/* deepspeed_reduce.c */
VRAM__FN void vram__ds_accumulated(vram__step *s, vram__leaf *l);
VRAM__FN void vram__ds_reduce_gradients(vram__step *s);

/* deepspeed_norm.c */
typedef struct vram__ds_scalars {
  uint32_t slot[26];   /* by letter */
  uint64_t each, norm; /* bytes of a gradient's element, of a norm */
} vram__ds_scalars;
VRAM__FN void vram__ds_say(vram__step *s, vram__ds_scalars *x, const char *text);
VRAM__FN void vram__ds_overflow(vram__step *s, vram__ds_scalars *x, vram_dtype dtype,
                                uint64_t numel);
VRAM__FN uint32_t vram__ds_norm(vram__step *s, uint64_t numel);
VRAM__FN void vram__ds_squares(vram__step *s, vram__ds_scalars *x, uint32_t n);
VRAM__FN void vram__ds_invalid(vram__step *s, vram__ds_scalars *x);
VRAM__FN void vram__ds_clip(vram__step *s, vram__ds_scalars *x);
VRAM__FN void vram__ds_offload_gradient(vram__step *s, vram__ds_param *f);
VRAM__FN void vram__ds_optimizing(vram__step *s);
VRAM__FN void vram__ds_optimized(vram__step *s);
