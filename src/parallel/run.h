/* >>parallel/run    a rank's step in a pipeline while it runs */
#pragma once
#include "parallel/pipe.h"

/* A microbatch on a stage: slots of what is held for it, 0: nothing. */
typedef struct vram__pipe_micro {
  uint32_t *live;                  /* what lives behind its forward and input parts */
  uint32_t *in, *out, *gin, *gout; /* inputs, outputs, and their gradients */
  uint32_t *sent;                  /* outputs that are being sent */
  uint32_t *held;                  /* gradients of inputs, as .grad of the inputs */
  uint32_t loss;
  uint32_t *copy;        /* by copy of a weight in autocast's cache: its slot, if this holds it */
  uint32_t *cast, ncast; /* what autocast's cache still has of it */
} vram__pipe_micro;

enum {
  VRAM__FLOW_GATHERS = 1, /* its parameters are being gathered, and somebody has to wait for them */
  VRAM__FLOW_REDUCED = 2  /* its gradients were reduced, and with that its parameters went */
};

/* Microbatches of Schedule1F1B that are like others, and are counted without being played (see
   vram_step_options.layers_once). */
typedef struct vram__pipe_fold {
  uint32_t warm, rounds; /* left out of its warmup, and of the rounds behind it */
  uint32_t left, seen;   /* of the passes that run: to be left out yet; those that were played, */
  vram__layer_count then[2]; /* and what had been counted behind the last two of them */
} vram__pipe_fold;

typedef struct vram__pipe_run {
  vram__step *s;
  vram__pipe *p;
  vram__pipe_micro *micro; /* local stages times microbatches */
  uint32_t *own;           /* slots of the running part */
  uint32_t **table;        /* by local stage: tables that nobody uses; the first word leads on */
  uint32_t **cache;        /* by local stage: slots of copies in autocast's cache */
  uint8_t *taken;          /* by slot of the running part: some gradient lies in it */
  uint32_t *done;          /* by local stage: backward passes whose gradients are there */
  uint8_t *flow;           /* by local stage: of fully_shard, VRAM__FLOW_ */
  uint32_t *chunk;         /* outputs that the schedule keeps, by microbatch; NULL: none */
  uint32_t count;          /* microbatches that are played */
  vram__pipe_fold fold;
  uint32_t *output; /* a variable that holds the microbatch's before up to the loss, or NULL */
} vram__pipe_run;

/* Which microbatch of the schedule is like one of those that are played, as to autocast's cache
   when its forward pass begins, or its backward pass. */
static inline uint32_t vram__pipe_like_forward(const vram__pipe_run *r, uint32_t mb) {
  return mb ? mb + r->fold.warm : 0;
}

static inline uint32_t vram__pipe_like_backward(const vram__pipe_run *r, uint32_t mb) {
  return mb + r->fold.rounds;
}

/* micro.c */
VRAM__FN void vram__slots_release(vram__step *s, uint32_t *slot, uint32_t n);
VRAM__FN void vram__pipe_cache_empty(vram__pipe_run *r);
VRAM__FN void vram__slots_release_sent(vram__pipe_run *r, uint32_t *slot, uint32_t n);
VRAM__FN int vram__pipe_is_here(const vram__pipe *p, uint32_t stage);
VRAM__FN void vram__slots_set(vram__step *s, uint32_t *var, uint32_t nvar, const uint32_t *slot,
                              uint32_t n);
VRAM__FN vram__pipe_micro *vram__pipe_micro_at(const vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN uint32_t vram__pipe_live_room(const vram__pipe_stage *s);
VRAM__FN uint32_t vram__pipe_alloc(vram__pipe_run *r, uint64_t bytes, uint8_t cat);
VRAM__FN const vram__pipe_stage *vram__pipe_last(const vram__pipe *p);
VRAM__FN uint32_t vram__pipe_kept_inputs(const vram__pipe *p);
VRAM__FN uint32_t vram__pipe_kept(const vram__pipe *p);
VRAM__FN void vram__pipe_flow(vram__pipe_run *r, uint32_t k, uint32_t kind);
VRAM__FN void vram__pipe_reduce(vram__pipe_run *r);
VRAM__FN void vram__pipe_forward(vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN void vram__pipe_backward(vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN void vram__pipe_input(vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN void vram__pipe_weight(vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN uint64_t vram__handover_bytes(const vram__handover *c);
VRAM__FN void vram__pipe_receive(vram__pipe_run *r, uint32_t k, uint32_t mb, int forward);
VRAM__FN void vram__pipe_zeros(vram__pipe_run *r, uint32_t k, uint32_t mb);
VRAM__FN void vram__pipe_alike(vram__pipe_run *r, uint32_t mb, const vram__layer_count *before);
VRAM__FN void vram__pipe_losses(vram__pipe_run *r, uint32_t k, uint32_t count);
VRAM__FN void vram__pipe_loss_last(vram__pipe_run *r, uint32_t k);
VRAM__FN void vram__pipe_sent(vram__pipe_run *r, uint32_t mb);

/* schedules.c */
VRAM__FN void vram__pipe_gpipe(vram__pipe_run *r, uint32_t *ops, uint32_t *work, uint32_t *output);
VRAM__FN void vram__pipe_one_f_one_b(vram__pipe_run *r, uint32_t *slots);
VRAM__FN void vram__pipe_runtime(vram__pipe_run *r);
