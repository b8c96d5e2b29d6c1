/* >>parallel/deepspeed3    ZeRO stage 3: what its parts share */
#pragma once
#include "parallel/deepspeed.h"

/* What is known of a parameter beside ds.param[] of the same number (its ds_id). */
typedef struct vram__ds3_param {
  uint64_t part;         /* elements of a rank's shard, */
  uint64_t real;         /* and of this rank's without padding */
  uint32_t whole;        /* slot: gathered; 0: only the shard is there */
  uint32_t block;        /* of the replay: whole, between two steps */
  uint32_t gather;       /* + 1: which all_gather is to be waited for; 0: none */
  uint32_t active;       /* modules that run and need it: ds_active_sub_modules */
  uint32_t group;        /* of the optimizer */
  const vram_node *user; /* the last node that has it */
  int64_t recent;        /* __most_recent_step_id_param_fetched_for */
  uint32_t next;         /* of a module with `parameter` lines: its next one; VRAM__DS_NONE: none */
  uint8_t available, persists, listed;
  uint8_t stream; /* on which it was gathered */
} vram__ds3_param;

/* An all_gather that somebody waits for. */
typedef struct vram__ds3_gather {
  uint32_t upload; /* slot of a single one's shard that was on the host: the collective holds it */
  uint32_t flat;   /* slot of what several parameters came in; 0: a single one */
  uint32_t left;   /* parameters that have not been waited for; 0: this place is free */
  uint8_t done;
} vram__ds3_gather;

/* A module whose parameters are `parameter` lines: all nodes inside it, by name, are its forward.
   Its first such line stands for it where calls are noted. */
typedef struct vram__ds3_module {
  const vram_node *line;
  const vram_node *first, *last; /* NULL: it is never called */
  /* nodes of what it returns and of its first record, behind which in backward lies its input:
     those of a call and of one that is recomputed are the same */
  const vram_node *out_node, *in_node;
  uint32_t fn, in; /* the records, of the latest call */
  uint32_t before; /* the newest record when it began */
  uint8_t open;
} vram__ds3_module;

/* grad_fn.hooked, bits: */
enum {
  VRAM__DS3_HOOK_NODE = 1, /* what a node with parameters gives, */
  VRAM__DS3_HOOK_OUT = 2,  /* what a vram__ds3_module returns, */
  VRAM__DS3_HOOK_IN = 4    /* and its first record */
};

/* A module with parameters whose forward or backward begins: a node, and how many modules without
   any began before it. */
typedef struct vram__ds3_call {
  const vram_node *n;
  uint32_t before, step;
} vram__ds3_call;

enum { VRAM__DS3_INVALID, VRAM__DS3_RECORD, VRAM__DS3_COMPLETE }; /* ZeRoTraceMode */

typedef struct vram__ds3 {
  vram__ds ds; /* ds.param: all parameters, frozen ones too */
  vram__ds3_param *at;
  vram__ds3_gather *gather;
  uint32_t *by_index;       /* of a vram_param */
  uint32_t *list;           /* scratch: parameters */
  vram__ds3_module *module; /* in the order of their first lines */
  uint32_t nmodule;
  const vram_node **active; /* modules whose backward has begun */
  uint32_t nactive, active_room;
  const vram_node *pending; /* one whose backward has ended when the next one begins */
  vram__ds3_call *call;
  uint32_t ncall, call_room;
  uint8_t mode;
  uint32_t step;               /* __step_id */
  uint32_t queue, queue_param; /* the next of __param_queue: a call, parameters of it passed + 1 */
  uint64_t available;          /* __n_available_params */
  const vram_node *last;       /* the module before */
  uint64_t groups_part;        /* elements of all shards that are trained */
  uint32_t ngroup;
  int64_t *group_part; /* of each group of the optimizer */
  uint32_t norms_total;
} vram__ds3;

static inline vram__ds3 *vram__ds3_of(const vram__step *s) { return (vram__ds3 *)s->wrapped; }

/* deepspeed3_module.c */
VRAM__FN void vram__ds3_take_modules(vram__step *s);
VRAM__FN void vram__ds3_modules_begin(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_modules_end(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_modules_record(vram__step *s, uint32_t fn);
VRAM__FN void vram__ds3_modules_recorded(vram__step *s, uint32_t fn);

/* deepspeed3_gather.c */
VRAM__FN void vram__ds3_fetch(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_end(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_backward_began(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_post_backward(vram__step *s, const vram_node *n);
VRAM__FN uint32_t vram__ds3_next(const vram__ds3 *d, const vram_node *n, uint32_t after);
VRAM__FN void vram__ds3_release(vram__step *s, uint32_t k);
/* A parameter's own line, which stands for a module of such lines. */
static inline int vram__ds3_is_line(const vram_node *n) {
  return (vram__op_traits(n) & VRAM__OP_PARAM) != 0;
}

VRAM__FN void vram__ds3_reset(vram__step *s);
VRAM__FN void vram__ds3_node_begin(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_node_end(vram__step *s, const vram_node *n);
VRAM__FN void vram__ds3_record(vram__step *s, uint32_t fn);
VRAM__FN void vram__ds3_recorded(vram__step *s, uint32_t fn);
VRAM__FN void vram__ds3_leftovers(vram__step *s);

/* deepspeed3_reduce.c */
VRAM__FN void vram__ds3_accumulated(vram__step *s, vram__leaf *l);
VRAM__FN void vram__ds3_reduce(vram__step *s);
VRAM__FN void vram__ds3_optimize(vram__step *s);
VRAM__FN void vram__ds3_gather_persistent(vram__step *s);
