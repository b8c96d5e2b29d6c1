/* >>step/optim    rows of optimizers, instructions that their recipes become */
#pragma once
#include "step/step.h"

/* flags of an optimizer */
enum {
  VRAM__OPTIM_CTOR = 1,       /* the constructor makes the state, for all parameters, used or not */
  VRAM__OPTIM_MATRIX = 2,     /* takes only parameters of two axes; the others are left out */
  VRAM__OPTIM_SPLIT = 4,      /* foreach: a group is split into matrices and vectors */
  VRAM__OPTIM_CAPTURABLE = 8, /* has the option `capturable` */
  VRAM__OPTIM_DECOUPLED = 16, /* weight decay is decoupled: no temporaries */
  VRAM__OPTIM_IN_BACKWARD = 32, /* each parameter's step is made in backward */
  VRAM__OPTIM_PROJECTS = 64     /* gradients of some matrices are projected; those come last */
};

typedef struct vram__optim_row {
  const char *name, *state;
  uint8_t by_default, flags;  /* vram_optim_impl, VRAM__OPTIM_... */
  const char *init, *body[3]; /* recipes; body: foreach, loop, fused; NULL: there is none */
} vram__optim_row;

/* The words of recipes, which optimizers.c explains. */
#define VRAM__OPTIM_TYPES(X) /* bytes; 0: those of the parameter's dtype */                        \
  X(OWN, "own", 0)                                                                                 \
  X(PROMOTED, "promoted", 0)                                                                       \
  X(BOOL, "bool", 1)                                                                               \
  X(U8, "u8", 1)                                                                                   \
  X(BF16, "bf16", 2)                                                                               \
  X(F32, "f32", 4)                                                                                 \
  X(F64, "f64", 8)
#define VRAM__OPTIM_COUNTS(X)                                                                      \
  X(ONE, "")                                                                                       \
  X(NUMEL, "numel")                                                                                \
  X(ROWS, "rows")                                                                                  \
  X(COLUMNS, "columns")                                                                            \
  X(MATRICES, "matrices")                                                                          \
  X(GRAM, "gram")                                                                                  \
  X(BLOCKS, "blocks")                                                                              \
  X(RESIDENT, "resident")                                                                          \
  X(LOW, "low")                                                                                    \
  X(BASIS, "basis")                                                                                \
  X(PLACED, "placed")                                                                              \
  X(GRADIENT, "gradient")                                                                          \
  X(256, "256")
#define VRAM__OPTIM_WORKSPACES(X)                                                                  \
  X(CUBLAS, "cublas")                                                                              \
  X(CUBLASLT, "cublaslt")                                                                          \
  X(CUBLASLT_TRANSPOSED, "cublaslt_transposed")                                                    \
  X(REDUCE_ALL, "reduce_all")                                                                      \
  X(REDUCE_ALL_BF16, "reduce_all_bf16")                                                            \
  X(REDUCE_ROWS, "reduce_rows")                                                                    \
  X(REDUCE_COLUMNS, "reduce_columns")                                                              \
  X(REDUCE_ROW_FACTORS, "reduce_row_factors")
#define VRAM__OPTIM_CONDITIONS(X) /* a bit each; from `matrix` on they are the parameter's */      \
  X(WEIGHT_DECAY, 1, "weight_decay")                                                               \
  X(FIRST_STEP, 2, "first_step")                                                                   \
  X(FUSED, 4, "fused")                                                                             \
  X(CAPTURABLE, 8, "capturable")                                                                   \
  X(DENOM, 16, "denom")                                                                            \
  X(DTENSOR, 32, "dtensor")                                                                        \
  X(MATRIX, 64, "matrix")                                                                          \
  X(LARGE, 128, "large")                                                                           \
  X(LOW_PRECISION, 256, "low_precision") X(ONCE, 512, "once") X(PROJECTED, 1024, "projected")

enum {
#define VRAM__X(id, word, bytes) VRAM__OPTIM_##id,
  VRAM__OPTIM_TYPES(VRAM__X)
#undef VRAM__X
};
enum {
#define VRAM__X(id, word) VRAM__OPTIM_##id,
  VRAM__OPTIM_COUNTS(VRAM__X)
#undef VRAM__X
  /* a size: 16 times the type, and the count */
  VRAM__OPTIM_PARAM = VRAM__OPTIM_OWN * 16 + VRAM__OPTIM_NUMEL
};
enum {
#define VRAM__X(id, word) VRAM__OPTIM_##id,
  VRAM__OPTIM_WORKSPACES(VRAM__X)
#undef VRAM__X
};
enum {
#define VRAM__X(id, bit, word) VRAM__OPTIM_IF_##id = (bit),
  VRAM__OPTIM_CONDITIONS(VRAM__X)
#undef VRAM__X
};

/* Instructions; a, b and c are numbers of variables, sizes, distances to jump. */
enum {
  VRAM__OPTIM_NEW,   /* a tensor of size b beside what a holds; workspace c - 1, if c */
  VRAM__OPTIM_FREE,  /* what a holds goes */
  VRAM__OPTIM_MOVE,  /* a takes what b holds */
  VRAM__OPTIM_LAST,  /* a takes the last tensor of b, the rest goes */
  VRAM__OPTIM_STATE, /* of size b */
  VRAM__OPTIM_BRIEF, /* a tensor of size b that goes at once */
  VRAM__OPTIM_IF,    /* one of the parameter's conditions a holds (b: none), else on by c */
  VRAM__OPTIM_JUMP,  /* on by c */
  VRAM__OPTIM_EACH   /* those between here and c from here for each parameter, then on by c */
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

static inline uint8_t vram__optim_flags(const vram_step_options *o) {
  const vram__optim_row *row = vram__optim_row_of((uint32_t)o->optimizer);
  return row ? row->flags : 0;
}

/* optim_words.c */
VRAM__FN uint32_t vram__optim_compile(vram__optim_code *c, const char *recipe);
