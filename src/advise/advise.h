/* >>advise    steps with something changed */
#pragma once
#include "core/core.h"

/* What a step is to be played with. */
typedef struct vram__advised {
  vram_step_options step;
  vram_pool_options pool;
  vram_parallel parallel;
  vram_dim set[VRAM_MAX_DIMS];
  uint32_t nset;
  const char *lora, *quant, *nodes; /* nodes: of checkpoint_nodes */
  const char *freeze;
  char frozen[24]; /* what freeze points to, of a change */
  int is_planned, inplace;
  uint32_t chunks; /* of the logits, see vram_text_chunk_logits; 0: as the text has it */
  uint32_t parts;  /* of a batch that nothing is added up for; 0: one */
} vram__advised;

/* What the step is now, for those that say whether they apply. */
typedef struct vram__advised_now {
  const vram_advise_options *o;
  const vram_graph *g;
  vram_dtype dtype; /* of the model in that step */
  uint64_t inputs;  /* elements of its inputs */
  int has_batch_norm;
} vram__advised_now;

/* Something that may be changed: changes.c has the table. */
typedef struct vram__change_row {
  const char *name;
  vram_effect effect;
  uint32_t group; /* one of each at a time */
  int64_t arg;
  /* NULL: x is changed; else why not. c is not NULL where its words are wanted: of the row, but for
     what is written here. */
  const char *(*apply)(const vram__advised_now *now, vram__advised *x, int64_t arg,
                       vram_alternative *c);
  const char *cost, *torch; /* torch NULL: apply writes it */
} vram__change_row;

enum { VRAM__CHANGES = 96 }; /* at most */

VRAM__FN uint32_t vram__change_count(const vram_graph *g);
/* The batch that a rank takes at once; 0: there is no dim for it. */
VRAM__FN int64_t vram__advised_batch(const vram__advised_now *now, const vram__advised *x);
/* Are parameters of a row's group another sum of bytes? */
VRAM__FN int vram__change_has_floor(const vram__change_row *row);
/* Is it the batch in parts? */
VRAM__FN int vram__change_is_parts(const vram__change_row *row);
/* Change i of the step, and which dim it is about. */
VRAM__FN const vram__change_row *vram__change_at(const vram_graph *g, uint32_t i, int64_t *arg);
