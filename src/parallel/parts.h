/* >>parallel/parts    a player of parts */
#pragma once
#include "parallel/fsdp.h"
#include "parallel/pipe.h"

/* A tensor of a stage from which backward begins. */
typedef struct vram__part_root {
  uint32_t fn, out;
} vram__part_root;

/* A copy in autocast's cache, which is held so that it stays. */
typedef struct vram__part_pin {
  vram__tensor t;
  uint32_t leaf;
} vram__part_pin;

/* A microbatch that is in flight while parts are played. */
typedef struct vram__part_micro {
  uint32_t microbatch;
  uint32_t base, ids;             /* of its forward part: the number of its first id, how many */
  uint32_t input_base, input_ids; /* of its input part */
  vram__part_root *root;          /* nout of the stage */
  vram__part_pin *pin;            /* copies that it has, */
  uint32_t *held;                 /* and how often its records hold each */
  vram__tensor loss;
  struct vram__part_group *group; /* between input and weight part */
  uint32_t ngroup;
  uint8_t begun; /* its input part has been played */
} vram__part_micro;

/* A record that the inputs' gradients go through and that gives gradients of parameters, too, with
   what it was given (get_param_groups). */
typedef struct vram__part_group {
  uint32_t record, leaf; /* the first of those parameters */
  vram__tensor *grad;    /* nout of it */
  uint8_t *weight;       /* by edge: it leads to parameters only */
} vram__part_group;

typedef struct vram__part_player {
  vram__step t;
  vram__pipe *p;
  vram__pipe_stage *s;
  vram__played *part; /* that is written down; NULL: none is */
  vram__part_micro *micro, *first;
  uint8_t *had;            /* by leaf: there is a gradient */
  uint32_t stay;           /* bit by workspace that stays: the running part has said so */
  vram_dtype dtype;        /* of the model, outside of parts */
  vram__part_pin *pin;     /* copies that were made last */
  uint32_t *others;        /* by copy: how often others hold it */
  uint8_t *holds;          /* by copy: the part's microbatch does, */
  uint32_t *held, nheld;   /* and which these are */
  uint32_t made;           /* copies of the running part */
  uint8_t looks, emptied;  /* of the running part: who holds copies may change; see EMPTIED */
  uint32_t *given, ngiven; /* what the running part gives */
  vram__wrapper units;     /* fully_shard's, as far as it is autograd's */
} vram__part_player;

/* Gradients that came from the next stage: there before the part, and behind it. */
typedef struct vram__part_incoming {
  vram__tensor at, fitted; /* as received; with the dtype that the output has */
} vram__part_incoming;

/* parts.c */
VRAM__FN void vram__part_begin(vram__part_player *y, vram__played *part, int backward);
VRAM__FN void vram__part_end(vram__part_player *y);
VRAM__FN void vram__part_gradient(vram__part_player *y, uint32_t leaf, int accumulated);
VRAM__FN void vram__part_accumulated(vram__step *t, vram__leaf *l);
VRAM__FN void vram__part_tell(vram__step *t, uint32_t what, uint32_t k);
VRAM__FN void vram__part_hear(void *user, const vram_event *e);
VRAM__FN void vram__part_hear_brief(vram__step *t, uint64_t bytes);
VRAM__FN void vram__part_hear_stays(vram__step *t, uint32_t which);
VRAM__FN vram__leaf *vram__part_input_leaf(vram__part_player *y, uint32_t i);
VRAM__FN void vram__part_forward(vram__part_player *y, vram__played *part, int casts);
VRAM__FN void vram__part_receive(vram__part_player *y, vram__part_incoming *in);
VRAM__FN void vram__part_start(vram__part_player *y, vram__part_incoming *in);
VRAM__FN void vram__part_start_over(vram__part_player *y, vram__part_incoming *in);
VRAM__FN void vram__part_drop_roots(vram__part_player *y);
VRAM__FN void vram__part_give_inputs(vram__part_player *y);
VRAM__FN void vram__part_drop_loss(vram__part_player *y);
VRAM__FN void vram__part_backward(vram__part_player *y, vram__played *part,
                                  vram__part_incoming *in);

VRAM__FN vram__part_event *vram__part_put(vram__part_player *y, uint8_t kind);

/* parts_cast.c */
VRAM__FN void vram__part_casts_drop(vram__part_player *y);
VRAM__FN void vram__part_casts_look(vram__part_player *y);
VRAM__FN void vram__part_casts_begin(vram__part_player *y, int full);
VRAM__FN void vram__part_casts_forward_end(vram__part_player *y, int made);
VRAM__FN void vram__part_hear_emptied(vram__step *t);

/* parts_split.c */
VRAM__FN void vram__part_input(vram__part_player *y, vram__played *part, vram__part_incoming *in);
VRAM__FN void vram__part_weight(vram__part_player *y, vram__played *part);

/* parts_play.c */
VRAM__FN int vram__part_step(vram__step *t, vram__pipe *p, const vram_graph *g,
                             const vram_step_options *o, void *scratch, uint64_t bytes,
                             vram_report *report);
VRAM__FN void vram__part_options(vram_step_options *quiet, const vram__pipe *p,
                                 const vram_step_options *o);
