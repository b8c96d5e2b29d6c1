/* >>step    one step of training or inference */
#pragma once
#include "ops/ops.h"

typedef struct vram__optim_param {
  uint64_t numel;
  uint32_t ndim;
  const int64_t *size;
  vram_dtype dtype;
  uint32_t rank;     /* of the projection of its gradient; 0: none */
  uint64_t gradient; /* elements of its gradient */
  uint64_t placed;   /* of a DTensor: elements of a gradient that is placed as the parameter is; 0:
                        it is so already */
  uint8_t dtensor;
  uint8_t mesh;    /* parameters of another one are another group of the optimizer's */
  uint8_t partial; /* its gradient is to be summed over the ranks */
} vram__optim_param;

/* zero means the default everywhere */
typedef struct vram__optim_config {
  uint8_t optim;        /* VRAM_OPTIM_... */
  uint8_t impl;         /* VRAM_OPTIM_IMPL_... */
  uint8_t weight_decay; /* weight_decay != 0 */
  uint8_t capturable;   /* the option of that name */
  uint8_t scaler;       /* GradScaler makes the step: scaler.step(optimizer), scaler.update() */
  uint8_t master;       /* f32 copies of low-precision parameters; the optimizer works on them */
  uint8_t sharded;      /* parameters are DTensors, of which each rank has a shard */
  uint8_t clip;         /* clip_grad_norm_ before the step: VRAM_OPTIM_IMPL_FOREACH, _LOOP */
  uint8_t clips_only;   /* and no step comes */
  uint8_t first_step;
  uint8_t dtensor; /* the parameters are DTensors */
  const vram__device *device;
  vram__step *step;       /* for vram__optim_alloc and _free, which hear of each allocation */
  uint32_t *found_inf;    /* where to leave the storage that GradScaler has until its update; NULL:
                             that comes with the step */
  uint32_t *ids;          /* scratch of vram__optim_ids() numbers; NULL: only counted */
  const vram__total *all; /* a list like all parameters, if the caller has added it up */
} vram__optim_config;

/* above the bytes before the call; UINT64_MAX: overflow */
typedef struct vram__optim_bytes {
  uint64_t state, peak, end;                      /* as asked for */
  uint64_t state_blocks, peak_blocks, end_blocks; /* each allocation rounded up to 512 bytes */
  uint64_t state_large, peak_upper; /* blocks of more than 1 MiB; what blocks take at most */
  uint64_t peak_state;              /* state at the peak */
} vram__optim_bytes;

/* What a run of a step knows of the one before it, which left s->leaf.past in the same scratch, and
   whether another one follows that asks the same. */
enum {
  VRAM__RUN_PAST_KNOWN = 1,
  VRAM__RUN_RNN_RESET = 2,
  VRAM__RUN_AGAIN = 4,
  VRAM__RUN_RNN_CELLS = 8,
  VRAM__RUN_WORKSPACES = 16, /* times vram__step.blas_workspaces */
  VRAM__RUN_DRY = 1 << 12,
  VRAM__RUN_NTH = 1 << 13 /* times the number of the step in its run; 0: nobody says */
};

/* What a wrapper of torch.distributed does around a step; NULL: nothing. Each strategy fills in its
   own (parallel/wrapper.c). What it keeps is s->wrapped: `bytes` of scratch, zero before the first
   step, that last from step to step. Of a run steps may be left out, where nobody asks for them:
   s->nth is the number of the one that is played. */
typedef struct vram__wrapper {
  uint64_t (*bytes)(const vram_graph *g, const vram_step_options *o); /* of scratch for it, */
  uint64_t (*work)(const vram_graph *g, const vram_step_options *o);  /* and for what it does */
  const char *(*refuses)(const vram_graph *g, const vram_step_options *o);
  uint32_t (*before)(const vram_step_options *o); /* steps before the first steady one; NULL: 2 */
  uint8_t every;                                  /* no step before may be left out */
  void (*options)(vram__step *s);                 /* behind the step's options are set: dtypes */
  void (*put)(vram__step *s, vram__owned *o); /* the module's own go to the device as the wrapper
                                           has it: what of them is no event; NULL: one by one */
  void (*construct)(vram__step *s);           /* its constructor, before step 1: the model is on the
                                                 device, the optimizer is not made yet */
  void (*optimizer_made)(vram__step *s); /* behind the optimizer's constructor, before step 1 */
  void (*restore)(vram__step *s);        /* before a later step instead: what lasted */
  void (*lasts)(vram__step *s);          /* behind a step that is replayed: what lasts has blocks */
  void (*zero_grad)(vram__step *s);      /* behind optimizer.zero_grad() */
  void (*forward_begin)(vram__step *s);  /* of each micro-batch: before the module's forward, */
  void (*forward)(vram__step *s, const vram_node *end);  /* the module's nodes up to `end`, where
                                                            units of them are calls */
  void (*node_begin)(vram__step *s, const vram_node *n); /* around a node */
  void (*node_end)(vram__step *s, const vram_node *n);
  void (*forward_end)(vram__step *s);         /* and behind it */
  void (*backward_begin)(vram__step *s);      /* leaves know how many gradients will come (deps) */
  void (*record)(vram__step *s, uint32_t fn); /* before the backward of a record that is hooked, */
  void (*recorded)(vram__step *s, uint32_t fn);       /* and behind it */
  void (*backward)(vram__step *s, vram__tensor loss); /* the engine's, instead of loss.backward() */
  void (*backward_end)(vram__step *s);                /* in backward's final callback */
  uint32_t (*optim_params)(vram__step *s, struct vram__optim_param *p, int with_grad);
  /* what the optimizer has; NULL: the parameters */
  void (*optimizing)(vram__step *s); /* before optimizer.step(), */
  uint8_t clips;                     /* and gradients are clipped there */
  void (*optimize)(vram__step *s);   /* all of the optimizer's step; NULL: one for all */
  void (*optimized)(vram__step *s);  /* behind optimizer.step() */
} vram__wrapper;

#define VRAM__WRAPPER_DO(s, hook)                                                                  \
  do {                                                                                             \
    if ((s)->wrapper && (s)->wrapper->hook && !(s)->failed)                                        \
      (s)->wrapper->hook(s);                                                                       \
  } while (0)

VRAM__FN int vram__wrapper_of(const vram_step_options *o, vram__wrapper *w);
/* step/inplace */
VRAM__FN void vram__inplace_ask(vram__step *s, const vram_node *n, vram__tensor x);
/* parallel/pipe: a rank of a pipeline */
VRAM__FN int vram__pipe_is(const vram_step_options *o);
VRAM__FN vram_result vram__pipe_begin(const vram_graph **g, const vram_step_options *o,
                                      void **scratch, uint64_t *bytes, vram__step *s);
VRAM__FN uint64_t vram__pipe_bytes(const vram_graph *g, const vram_step_options *o,
                                   uint64_t graph_bytes);
VRAM__FN int vram__pipe_runs(const void *scratch, const vram_node *n);
VRAM__FN uint32_t vram__pipe_local_stages(const vram__step *s);
VRAM__FN uint32_t vram__pipe_local_of(const vram__step *s, const vram_param *p);
VRAM__FN void vram__pipe_put_inputs(vram__step *s);
VRAM__FN void vram__pipe_play(vram__step *s);
VRAM__FN int vram__pipe_differs(const vram__step *s);

VRAM__FN const char *vram__wrapper_refuses(const vram_graph *g, const vram_step_options *o,
                                           vram_words *found);

/* What a layer adds to what a step counts: 64 bits each, so that one is less than another one by
   numbers, too. */
typedef struct vram__layer_count {
  uint64_t requested, blocks, extra, ids, frees, custom, saved, held, again;
  vram__category_bytes category;
  uint64_t calls[VRAM_COLLECTIVE_COUNT], bytes[VRAM_COLLECTIVE_COUNT], sent[VRAM_COLLECTIVE_COUNT];
} vram__layer_count;

/* Layers that are alike, of which those in the middle are not played (parallel/layers). */
typedef struct vram__layers {
  uint32_t count, left;                             /* of all; that are not played */
  uint32_t shift_nodes, shift_values, shift_params; /* from a layer to the next, */
  const vram_node *edge[6]; /* first nodes of layers 1, 2, 3, and of the last three */
  /* of a micro-batch: */
  uint32_t seen, back; /* edges that forward has come to, and backward */
  uint8_t jumped, differ;
  vram__layer_count then[2];
  uint32_t *leaf, *leaf_last, leaves; /* those of layer 2, and of the last but two */
  uint32_t *leaf_shift;               /* how far the same leaf of the next layer is */
  uint32_t *order, norder;            /* in which those of the last but two got their gradients */
  void (*accumulated)(vram__step *, vram__leaf *); /* the wrapper's */
  vram_communication own[VRAM_COLLECTIVE_COUNT];   /* what it has sent there */
} vram__layers;

VRAM__FN vram__layer_count vram__layer_now(const vram__step *s);
VRAM__FN vram__layer_count vram__layer_less(const vram__layer_count *a, const vram__layer_count *b);
VRAM__FN int vram__layer_counts_same(const vram__layer_count *a, const vram__layer_count *b);
VRAM__FN void vram__layer_add(vram__step *s, const vram__layer_count *c, uint64_t times);
VRAM__FN int vram__layers_find(vram__layers *y, const vram_graph *g, const vram_step_options *o);
VRAM__FN void vram__layers_begin(vram__step *s);
VRAM__APART VRAM__FN const vram_node *vram__layers_forward(vram__step *s, const vram_node *n);
VRAM__FN uint64_t vram__layers_casts(vram__step *s);
VRAM__APART VRAM__FN void vram__layers_backward(vram__step *s, const vram_node *n);

/* optim.c */
VRAM__FN uint64_t vram__optim_ids(uint32_t n);
VRAM__FN const char *vram__optim_problem(const vram__optim_config *c);
VRAM__FN void vram__optim_construct(const vram__optim_config *c, const vram__optim_param *p,
                                    uint32_t n, vram__optim_bytes *out);
VRAM__FN void vram__optim_kept(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out);
VRAM__FN void vram__optim_step(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                               vram__optim_bytes *out);

/* in_backward.c */
VRAM__FN const char *vram__in_backward_problem(const vram_graph *g, const vram_step_options *o);
VRAM__FN int vram__in_backward_is(const vram_step_options *o);
VRAM__FN void vram__in_backward_begin(vram__step *s);
VRAM__FN void vram__in_backward_end(vram__step *s);

/* average.c */
VRAM__FN void vram__average_put(vram__step *s);
VRAM__FN void vram__average_update(vram__step *s);

/* backward.c */
VRAM__FN void vram__backward_expect(vram__step *s, uint32_t from, uint32_t end);
VRAM__FN vram__tensor *vram__backward_room(vram__step *s);
VRAM__FN void vram__backward_walk(vram__step *s, uint32_t from, uint32_t end);
VRAM__FN void vram__backward_one(vram__step *s, vram__grad_fn *f);
VRAM__FN void vram__backward(vram__step *s, vram__tensor loss);
VRAM__FN void vram__backward_several(vram__step *s, const vram__tensor *root, uint32_t n);
VRAM__FN vram__tensor vram__leaf_existing_gradient(vram__step *s, const vram_dims *d, vram_dtype dt,
                                                   uint8_t cat);

/* forward.c */
VRAM__FN void vram__forward_leave_out(vram__step *s);
VRAM__FN const vram_node *vram__forward_nodes(vram__step *s, const vram_node *n,
                                              const vram_node *end);
VRAM__FN uint32_t vram__ranges_before(const vram__step *s, uint32_t at, const vram_node *end);
VRAM__FN int vram__module_returns(const vram_graph *g, const vram_value *v);
VRAM__FN void vram__forward(vram__step *s);
VRAM__FN void vram__ranges_last_uses(const vram_graph *g, uint32_t *last);

/* calls.c */
VRAM__FN const vram_node *vram__line_end_of(const vram_node *n);
VRAM__FN int vram__step_is_captured(const vram_value *v);
VRAM__FN int vram__block_goes_on(const vram_node *n);
VRAM__FN void vram__calls_find(vram__step *s);

/* checkpoint.c */
VRAM__FN void vram__checkpoint_recompute(vram__step *s, vram__frame *c);
VRAM__FN void vram__checkpoint_backward(vram__step *s, vram__grad_fn *f, vram__tensor *to);
VRAM__FN const vram_node *vram__checkpoint_parts(vram__step *s, const vram_node *n,
                                                 const vram_node *end, uint32_t at,
                                                 uint32_t behind);

/* begin.c */
VRAM__FN void vram__replay_phase(vram__replay *run, vram_phase_report *r);
/* The whole model comes to the device, and is dealt to the ranks there. */
static inline int vram__step_distributes(const vram__step *s) {
  return s->g->is_cut && s->nth == 1 && s->o->parallel && !s->o->parallel->meta;
}
VRAM__FN int vram__param_is_replicated(const vram_param *p);
VRAM__FN uint64_t vram__distribute_whole(const vram_param *p, vram_dtype dt);
VRAM__FN void vram__distribute_before(vram__step *s);
VRAM__FN void vram__distribute(vram__step *s);
VRAM__FN void vram__phase_end(vram__step *s, vram_phase next);
VRAM__FN vram_dtype vram__param_dtype(const vram__step *s, const vram_param *p);
VRAM__FN void vram__setup_end(vram__step *s, vram_setup which);
VRAM__FN void vram__step_put_model(vram__step *s);
VRAM__FN void vram__param_leave(vram__step *s, const vram_param *p);
VRAM__FN void vram__step_put_inputs(vram__step *s);

/* micro.c */
VRAM__FN void vram__scaled_backward(vram__step *s, vram__tensor loss);
VRAM__FN void vram__micro_batch_forget(vram__step *s, uint64_t tape, vram__tensor *loss);
VRAM__FN void vram__micro_batches(vram__step *s, const vram_graph *last);

/* epoch.c */
VRAM__FN void vram__epoch_batch(vram__step *s, const vram_graph *g);
VRAM__FN void vram__dry_run(vram__step *s);
VRAM__FN void vram__evaluate(vram__step *s);
VRAM__FN const char *vram__epoch_misuse(const vram_graph *g, const vram_step_options *o);

/* training.c */
VRAM__FN void vram__training_line(vram__step *s, const vram_node *n);
VRAM__FN void vram__freeze_line(vram__step *s, const vram_node *n);
VRAM__FN void vram__unfreeze_all(vram__step *s);
VRAM__FN void vram__training_end(vram__step *s);
VRAM__FN const char *vram__training_misuse(const vram_graph *g, const vram_step_options *o);

/* train.c */
VRAM__FN void vram__zero_grad_now(vram__step *s);
VRAM__FN void vram__zero_grad(vram__step *s);
VRAM__FN void vram__zero_grad_first(vram__step *s);
VRAM__FN void vram__zero_grad_last(vram__step *s);
VRAM__FN uint32_t vram__optim_alloc(vram__step *s, uint64_t bytes, int is_state);
VRAM__FN void vram__optim_free(vram__step *s, uint32_t id);
VRAM__FN void vram__bytes_grow_and_shrink(vram__step *s, uint64_t bytes, uint64_t blocks,
                                          uint64_t large, uint8_t cat);
VRAM__FN void vram__optim_before(vram__step *s);
VRAM__FN void vram__optim_param_of(vram__optim_param *p, const vram__leaf *l);
VRAM__FN void vram__optim_config_of(vram__step *s, vram__optim_config *c);
VRAM__FN int vram__optim_ids_take(vram__step *s, vram__optim_config *c, uint32_t n);
VRAM__FN void vram__optim_step_now(vram__step *s, uint32_t n, int all);
VRAM__FN void vram__optim_clip_all(vram__step *s);
VRAM__FN void vram__optim_now(vram__step *s);

/* keep.c */
VRAM__FN uint64_t vram__keep_bytes(const vram_graph *g);
VRAM__FN int vram__keep_take(vram__step *s);
VRAM__FN void vram__keep_before(vram__step *s);
VRAM__FN void vram__keep_line(vram__step *s, const vram_node *n);
VRAM__FN void vram__keep_settle(vram__step *s);

/* caches.c */
VRAM__FN void vram__caches_before(vram__step *s);
VRAM__FN void vram__store_line(vram__step *s, const vram_node *n);
VRAM__FN void vram__caches_after(vram__step *s);

/* gradients.c */
VRAM__FN void vram__gradients_had(vram__step *s, const vram__category_bytes *before,
                                  uint64_t blocks, uint64_t upper);
VRAM__FN void vram__gradients_count(vram__step *s, int again);

/* report.c */
VRAM__FN uint64_t vram__report_beside(const vram_report *r);
VRAM__FN void vram__report_device_bounds(vram_report *r, const vram_step_options *o);

/* replay.c */
VRAM__FN vram_result vram__replay_device(vram__replay *run, vram_pool_options *options,
                                         uint64_t room, uint32_t streams, void *at,
                                         uint64_t pool_bytes);
VRAM__FN vram_result vram__replay_play(const vram_graph *g, const vram_step_options *o,
                                       void *scratch, uint64_t scratch_bytes, vram_report *report,
                                       vram__step *s);
VRAM__FN int vram__replay_runs_within(const vram_graph *g, const vram_step_options *o,
                                      uint64_t room, void *scratch, uint64_t scratch_bytes,
                                      vram__step *s, vram_report *r);
VRAM__FN vram_result vram__replay_play_run(const vram_graph *g, const vram_step_options *o,
                                           void *scratch, uint64_t scratch_bytes,
                                           vram_report *report, vram__step *s);

/* step.c */
VRAM__FN void vram__device_of(vram__device *d, const vram_step_options *o, vram_rules rules);
VRAM__FN uint32_t vram__replay_blocks(const vram_graph *g, const vram_step_options *o);
VRAM__FN uint32_t vram__replay_tape_events(const vram_graph *g);
VRAM__FN uint32_t vram__steps_before(const vram_step_options *o);
VRAM__FN uint32_t vram__replay_streams(const vram_step_options *o);
VRAM__FN uint64_t vram__replay_bytes(const vram_graph *g, const vram_step_options *o);
VRAM__FN void vram__report_blocks_known(vram_report *r, const vram_step_options *o,
                                        const vram__replay *run);
VRAM__FN vram_result vram__step_set_up(const vram_graph *g, const vram_step_options *o,
                                       void *scratch, uint64_t scratch_bytes, vram_report *report,
                                       vram__step *s, uint32_t how);
VRAM__FN vram_result vram__step_run(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, vram_report *report, vram__step *s,
                                    uint32_t how);
VRAM__FN void vram__step_error(const vram__step *s, vram_result r, vram_error *err);
VRAM__FN const char *vram__step_misuse(vram__step *s, const vram_graph *g,
                                       const vram_step_options *o, vram_result *why);

static inline void vram__variable_name(vram__step *s, const vram_value *v, vram__tensor t) {
  s->name_of[v->index] = v->index;
  s->variable[v->index].t = t;
  s->variable[v->index].refs = 1;
}

static inline void vram__variable_unname(vram__step *s, const vram_value *v) {
  vram__variable *o = s->variable + s->name_of[v->index];
  if (v == s->root || (!s->train && (v->flags & VRAM__INFERRED)))
    return; /* the caller's */
  if (o->refs && --o->refs == 0)
    vram__tensor_release(s, o->t);
}
