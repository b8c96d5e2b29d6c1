/* >>step/optim    rows of optimizers, instructions that their recipes become */
#pragma once
#include "step/step.h"

/* flags of an optimizer */
enum {
  VRAM__OPTIM_CTOR = 1,       /* the constructor makes the state, for all parameters, used or not */
  VRAM__OPTIM_MATRIX = 2,     /* takes only parameters of two axes; the others are left out */
  VRAM__OPTIM_SPLIT = 4,      /* foreach: a group is split into matrices and vectors */
  VRAM__OPTIM_CAPTURABLE = 8, /* has the option `capturable` */
  VRAM__OPTIM_DECOUPLED = 16  /* weight decay is decoupled: no temporaries */
};

typedef struct vram__optim_row {
  const char *name, *state;
  uint8_t by_default, flags;  /* vram_optim_impl, VRAM__OPTIM_... */
  const char *init, *body[3]; /* recipes; body: foreach, loop, fused; NULL: there is none */
} vram__optim_row;

/* What a recipe becomes: a number is a variable's, a size or a distance to jump. */
enum {
  VRAM__OPTIM_NEW,   /* into a; size b; workspace c - 1, if c */
  VRAM__OPTIM_FREE,  /* a */
  VRAM__OPTIM_MOVE,  /* to a from b */
  VRAM__OPTIM_LAST,  /* to a from b */
  VRAM__OPTIM_STATE, /* size b */
  VRAM__OPTIM_BRIEF, /* size b: there and gone */
  VRAM__OPTIM_IF,    /* conditions a, negated b; else on by c */
  VRAM__OPTIM_JUMP,  /* on by c */
  VRAM__OPTIM_EACH   /* the instructions up to c from here for each parameter */
};

/* a size is a type << 4 and a count, in the order of the words in optim_words.c */
enum {
  VRAM__OPTIM_OWN,
  VRAM__OPTIM_PROMOTED,
  VRAM__OPTIM_BOOL,
  VRAM__OPTIM_U8,
  VRAM__OPTIM_BF16,
  VRAM__OPTIM_F32,
  VRAM__OPTIM_F64
};
enum {
  VRAM__OPTIM_ONE,
  VRAM__OPTIM_NUMEL,
  VRAM__OPTIM_ROWS,
  VRAM__OPTIM_COLUMNS,
  VRAM__OPTIM_MATRICES,
  VRAM__OPTIM_BLOCKS,
  VRAM__OPTIM_GRAM,
  VRAM__OPTIM_256,
  VRAM__OPTIM_PARAM = VRAM__OPTIM_OWN * 16 + VRAM__OPTIM_NUMEL
};
enum {
  VRAM__OPTIM_CUBLAS,
  VRAM__OPTIM_CUBLASLT,
  VRAM__OPTIM_CUBLASLT_TRANSPOSED,
  VRAM__OPTIM_REDUCE_ALL,
  VRAM__OPTIM_REDUCE_ALL_BF16,
  VRAM__OPTIM_REDUCE_ROWS,
  VRAM__OPTIM_REDUCE_COLUMNS,
  VRAM__OPTIM_REDUCE_ROW_FACTORS
};
enum {
  VRAM__OPTIM_IF_WEIGHT_DECAY = 1,
  VRAM__OPTIM_IF_FIRST_STEP = 2,
  VRAM__OPTIM_IF_FUSED = 4,
  VRAM__OPTIM_IF_CAPTURABLE = 8,
  VRAM__OPTIM_IF_MATRIX = 16, /* from here on: of a parameter */
  VRAM__OPTIM_IF_LARGE = 32,
  VRAM__OPTIM_IF_ONCE = 64,
  VRAM__OPTIM_IF_LOW_PRECISION = 128
};

#define VRAM__OPTIM_INSTRUCTIONS 192
#define VRAM__OPTIM_NAMES 40
#define VRAM__OPTIM_DEPTH 4 /* of blocks */
#define VRAM__OPTIM_VALUE 0 /* the variable without a name: what `new` has just made */

typedef struct vram__optim_instruction {
  uint8_t op, a, b, c;
} vram__optim_instruction;

typedef struct vram__optim_code {
  vram__optim_instruction at[VRAM__OPTIM_INSTRUCTIONS];
  uint32_t count;
  const char *name[VRAM__OPTIM_NAMES]; /* of variables; those of a recipe from first_name on */
  uint32_t name_length[VRAM__OPTIM_NAMES];
  uint32_t names, first_name;
  uint32_t options; /* conditions of the step that hold: VRAM__OPTIM_IF_... */
  const char *word; /* that is read now */
  uint32_t length;
  uint8_t asks_parameter; /* the recipe has a condition of single parameters */
  uint8_t bad;            /* a recipe is not understood */
} vram__optim_code;

/* optimizers.c */
VRAM__FN const vram__optim_row *vram__optim_row_of(uint32_t optimizer);

/* optim_words.c */
VRAM__FN uint32_t vram__optim_compile(vram__optim_code *c, const char *recipe);
