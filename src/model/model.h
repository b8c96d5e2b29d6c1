/* >>model    graph and text form */
#pragma once
#include "core/core.h"

#define VRAM__INPLACE 1u  /* node: the output is the first input's storage */
#define VRAM__LOSS 4u     /* node: a loss */
#define VRAM__USUAL 8u    /* node: no key asks for one of the op's rare ways */
#define VRAM__WRITES 16u  /* node: may write to its first input */
#define VRAM__DROPS 32u   /* node: a line about values, `drop` and the like: no name of its own */
#define VRAM__NO_GRAD 64u /* node: it runs under torch.no_grad() */
#define VRAM__CHECKPOINTED 128u /* a `requires_grad` line: only where nodes are computed again */
#define VRAM__UNIT_STEPS 128u   /* node: a convolution whose stride and dilation are 1 */
#define VRAM__MADE_INPLACE 128u /* node: an activation that vram_graph_inplace made so */
#define VRAM__GRAD 1u           /* value: an input that wants a gradient */
#define VRAM__OUTPUT 2u         /* value: named by `output` */
#define VRAM__ISPARAM 4u        /* value: a parameter or buffer itself */
#define VRAM__INFERRED 16u      /* value: named by `infer` */
#define VRAM__OF_MODEL 8u       /* value: an input whose dtype is the model's */
#define VRAM__DTENSOR 32u       /* value: of a module whose tensors are DTensors */
#define VRAM__AUTOCAST_OFF 255u /* node: autocast is off around it */

enum { VRAM__PARAM, VRAM__FROZEN, VRAM__BUFFER };
#define VRAM__AS_IS 4u /* with one of them: whatever the node's keys say of its weights */

typedef struct vram__round { /* one round of a loop */
  const struct vram__round *up;
  uint32_t round;
} vram__round;

typedef enum vram__key {
  VRAM__KEY_NONE,
#define VRAM__X(name, kind) VRAM__KEY_##name,
  VRAM_KEYS(VRAM__X)
#undef VRAM__X
      VRAM__KEY_COUNT
} vram__key;

static const struct {
  const char *name;
  char kind;
} vram__key_table[VRAM__KEY_COUNT] = {{"", 0},
#define VRAM__X(name, kind) {#name, #kind[0]},
                                      VRAM_KEYS(VRAM__X)
#undef VRAM__X
};

/* Words that a key may have as its value (`mode=`, `reduction=`, ...): a node keeps the number of
   one, VRAM__WORD(mean); of any other VRAM__NO_WORD. */
/* clang-format off */
#define VRAM__WORDS_OF_KEYS(X)                                                                             \
  X(none, "none") X(mean, "mean") X(sum, "sum") X(max, "max") X(min, "min") X(prod, "prod")        \
  X(amax, "amax") X(amin, "amin") X(zeros, "zeros") X(reflect, "reflect")                          \
  X(reflection, "reflection") X(replicate, "replicate") X(circular, "circular")                    \
  X(constant, "constant") X(border, "border") X(nearest, "nearest") X(linear, "linear")            \
  X(bilinear, "bilinear") X(bicubic, "bicubic") X(trilinear, "trilinear") X(area, "area")          \
  X(nearest_exact, "nearest-exact") X(tanh, "tanh") X(relu, "relu") X(gelu, "gelu")                \
  X(silu, "silu") X(floor, "floor") X(trunc, "trunc") X(batchmean, "batchmean")                    \
  X(flash, "flash") X(math, "math") X(efficient, "efficient") X(cudnn, "cudnn") X(nf4, "nf4")      \
  X(fp4, "fp4") X(int8, "int8") X(fp8, "fp8") X(mxfp4, "mxfp4") X(gptq, "gptq") X(awq, "awq")      \
  X(colwise, "colwise") X(rowwise, "rowwise") X(sequence, "sequence") X(expert, "expert")          \
  X(replicated, "replicated") X(allgather, "allgather") X(alltoall, "alltoall")
/* clang-format on */
typedef enum vram__key_word {
  VRAM__IS_NOT_SAID,
#define VRAM__X(name, text) VRAM__IS_##name,
  VRAM__WORDS_OF_KEYS(VRAM__X)
#undef VRAM__X
      VRAM__NO_WORD
} vram__key_word;

static const char *const vram__word_table[VRAM__NO_WORD] = {"",
#define VRAM__X(name, text) text,
                                                            VRAM__WORDS_OF_KEYS(VRAM__X)
#undef VRAM__X
};
#define VRAM__WORD(name) ((int64_t)VRAM__IS_##name)

static inline int64_t vram__word(const char *s, uint32_t n) {
  int64_t w = VRAM__IS_NOT_SAID + 1;
  while (w < VRAM__NO_WORD && !vram__text_is(s, n, vram__word_table[w]))
    w++;
  return w;
}

#define VRAM__MAX_RNN_LAYERS 4096

#define VRAM__INT(n, key, def) vram__node_int(n, VRAM__KEY_##key, def)

/* Decimal numbers are kept in units of 10^-9. */
#define VRAM__ONE INT64_C(1000000000)

/* at::result_type: a tensor without axes counts only where its kind is the higher one. */
typedef struct vram__promote {
  vram_dtype dim, zero;
  uint8_t has_dim, has_zero;
} vram__promote;

/* Lines of a graph that are no ops. */
enum {
  VRAM__OP_drop = VRAM_OP_COUNT,
  VRAM__OP_keep,
  VRAM__OP_store,
  VRAM__OP_requires_grad,
  VRAM__OP_backward,
  VRAM__OP_retained, /* backward(retain_graph=True) */
  VRAM__OP_scaled,   /* both of what GradScaler scales */
  VRAM__OP_scaled_retained,
  VRAM__OP_zero_grad,
  VRAM__OP_update, /* GradScaler's */
  VRAM__OP_step,
  VRAM__OP_freeze,
  VRAM__OP_unfreeze,
  VRAM__OP_end /* closes the lines that an op was written out to */
};

typedef struct vram__unit_word { /* a name of a `unit` or `stage` line */
  struct vram__unit_word *next;
  const char *text;
  uint32_t len;
} vram__unit_word;

typedef struct vram__total {     /* of a list of tensors */
  uint64_t bytes, blocks, large; /* large: how many of more than 1 MiB */
  uint64_t last;                 /* bytes of its last one, */
  uint32_t count;                /* and how many there are; without those of no bytes */
} vram__total;

/* One more tensor of so many bytes in a list. */
static inline void vram__total_add(vram__total *t, uint64_t bytes) {
  t->bytes += bytes;
  t->blocks += vram__block_bytes(bytes);
  t->large += bytes > VRAM_SMALL_POOL_BYTES;
  if (bytes) {
    t->count++;
    t->last = bytes;
  }
}

typedef struct vram__owned { /* what modules own */
  vram__total all[2];        /* parameters, buffers; without those that are a value of the graph */
  vram__total trainable;
  uint64_t params_bytes, buffers_bytes; /* all of them; more than VRAM_MAX_BYTES: too many */
  uint64_t flat;                        /* weights of a recurrent node, which are one tensor */
  const vram_node *flat_node;
} vram__owned;

typedef struct vram__step vram__step;
typedef struct vram__replay vram__replay;
typedef struct vram__tensor vram__tensor;
typedef struct vram__grad_fn vram__grad_fn;
typedef int (*vram__shape_fn)(vram_graph *, vram_node *);

typedef uint64_t (*vram__flops_fn)(const vram_node *);
typedef void (*vram__forward_fn)(vram__step *, const vram_node *, vram__tensor *, vram__tensor *);
typedef void (*vram__backward_fn)(vram__step *, vram__grad_fn *, vram__tensor *);

/* What autocast does with the inputs (torch/csrc, autocast_mode.h): nothing; lower precision; fp32;
   fp32 by the dtype argument, without a cast node; the widest of the inputs. */
enum {
  VRAM__AUTOCAST_none,
  VRAM__AUTOCAST_low,
  VRAM__AUTOCAST_fp32,
  VRAM__AUTOCAST_opt32,
  VRAM__AUTOCAST_widest
};

/* What type promotion makes of the inputs' dtype. */
enum {
  VRAM__TYPES_SAME,
  VRAM__TYPES_BOOL,   /* always bool */
  VRAM__TYPES_FLOAT,  /* f32 for integers */
  VRAM__TYPES_POW,    /* f32 for integers to the power of a number */
  VRAM__TYPES_NUMBER, /* i64 for bools with a number */
};

/* How an op becomes lines of a network for a microcontroller: the word of its row, and the function
   of net/low_nodes, vram__lower_NAME, that does it. */
/* clang-format off */
#define VRAM__LOWERINGS(X)                                                                         \
  X(NONE, none)             /* not at all */                                                       \
  X(ACTIVATION, activation)                                                                        \
  X(CLAMP, activation)      /* one that the layer before can do: bounds of its result */           \
  X(ADD, binary)                                                                                   \
  X(MUL, binary)                                                                                   \
  X(ADDMM, addmm)                                                                                  \
  X(ANY, any)               /* a CUSTOM line */                                                    \
  X(ATTENTION, attention)                                                                          \
  X(AVG_POOL, pool)                                                                                \
  X(MAX_POOL, pool)                                                                                \
  X(CAT, cat)                                                                                      \
  X(CONV, conv)                                                                                    \
  X(CUSTOM, custom)                                                                                \
  X(EMBEDDING, embedding)                                                                          \
  X(EXPAND, expand)                                                                                \
  X(INTERPOLATE, interpolate)                                                                      \
  X(LINEAR, linear)                                                                                \
  X(MATMUL, matmul)                                                                                \
  X(MHA, mha)                                                                                      \
  X(NORM, norm)                                                                                    \
  X(PAD, pad)                                                                                      \
  X(PERMUTE, permute)                                                                              \
  X(PRELU, prelu)                                                                                  \
  X(PRODUCT, product)                                                                              \
  X(REDUCE, reduce)                                                                                \
  X(REDUCE_MEAN, reduce)    /* over all but the channels GLOBAL_AVG_POOL2D, */                     \
  X(REDUCE_MAX, reduce)     /* GLOBAL_MAX_POOL2D */                                                \
  X(RNN, rnn)                                                                                      \
  X(RNN_CELL, rnn)                                                                                 \
  X(SAME, same)             /* the input itself */                                                 \
  X(SHUFFLE, shuffle)                                                                              \
  X(SLICE, slice)                                                                                  \
  X(SOFTMAX, softmax)                                                                              \
  X(VIEW, view)
/* clang-format on */

enum {
#define VRAM__X(id, name) VRAM__LOWER_##id,
  VRAM__LOWERINGS(VRAM__X)
#undef VRAM__X
      VRAM__LOWER_COUNT
};

enum {
  VRAM__MAX_INPUTS = 4096, /* of a node: a scan stacks one for each token */
  VRAM__FEW_INPUTS = 64    /* for more of them the list is in the graph's memory */
};

/* Bits: what else others ask about an op. */
#define VRAM__OP_OWNS 1u          /* has slots for a weight and a bias */
#define VRAM__OP_FLAT 2u          /* lays its weights into one tensor (flatten_parameters) */
#define VRAM__OP_PARAM 4u         /* is a parameter or buffer */
#define VRAM__OP_WEIGHT_INPUT 8u  /* a weight given as input stands for the required keys */
#define VRAM__OP_LOSS 16u         /* a loss */
#define VRAM__OP_WRITES 32u       /* always writes to its first input */
#define VRAM__OP_DROPOUT 64u      /* with p=0 it is the input itself */
#define VRAM__OP_CREATES 128u     /* makes values of its own, whatever the input is */
#define VRAM__OP_VARIES 256u      /* other values each time */
#define VRAM__OP_ALIAS 512u       /* the values of its one input, perhaps in another shape */
#define VRAM__OP_ANY_DTYPE 1024u  /* in a network: works on integers of the input */
#define VRAM__OP_ANY_LAYOUT 2048u /* in a network: cares for no axis */
#define VRAM__OP_TOTAL 4096u      /* over all axes: a loss may be made of it */
#define VRAM__OP_RUNNING 8192u    /* has three more slots, for running statistics */
#define VRAM__OP_FLOATS 16384u    /* PyTorch has it for floating point only */
#define VRAM__OP_NUMBERS 32768u   /* and this for all but bools */
#define VRAM__OP_REAL 65536u      /* and this for all but complex numbers */

/* All that there is about an op stands in its row, below its functions in src/ops. */
typedef struct vram__op_row {
  const char *name;
  const char *keys;   /* of the text form; `!`: required. `inplace` only where PyTorch has it */
  const char *recipe; /* see ops/pointwise; of VRAM__OP_LINES: lines of the text form */
  vram__shape_fn shape;
  vram__flops_fn flops;
  uint16_t least, most; /* inputs */
  uint32_t traits;      /* VRAM__OP_... */
  uint8_t types, autocast, lower;
  uint8_t kind;  /* which of its family it is */
  uint8_t lines; /* it is written out to lines, and has no function of its own */
#ifndef VRAM_NO_STEP
  vram__forward_fn forward;
  vram__backward_fn backward;
#endif
  const char *torch; /* the functions of PyTorch that it is, see below */
} vram__op_row;

#ifndef VRAM_NO_STEP
#define VRAM__STEP_OF(forward, backward) , forward, backward
#else
#define VRAM__STEP_OF(forward, backward)
#endif

/* A row. torch: what tools/export_torch.py makes a line of this op of. Names of functions, `!`
   behind one: the line is named after the module that calls, `~` before one: only where no gradient
   is wanted, because it allocates alike. Then, behind a colon, the arguments in their order: keys
   of the op (`*`: it takes the rest, `?`: left out where it is 0, `:axes`: one number where all
   axes have the same), and tensors, which have other names. Without a colon the arguments are the
   inputs, the second perhaps a number (`scalar`), and the shape of what is created. "": the
   exporter has code of its own, or PyTorch composes the op of others. shape, forward, backward and
   flops stand for vram__shape_NAME, vram__forward_NAME and so on: `same` shape as the first input,
   `bcast` of all; forward `pointwise`: of one kernel, played from the recipe; backward `none`: made
   of other autograd nodes, or no gradient; flops `each`: one for each output element. */
#define VRAM__OP(name, torch, least, most, shape, types, autocast, forward, backward, flops,       \
                 lower, kind, traits, keys)                                                        \
  VRAM__ROW const vram__op_row vram__op_##name = {                                                 \
      #name,                                                                                       \
      keys,                                                                                        \
      "",                                                                                          \
      vram__shape_##shape,                                                                         \
      vram__flops_##flops,                                                                         \
      least,                                                                                       \
      most,                                                                                        \
      traits,                                                                                      \
      VRAM__TYPES_##types,                                                                         \
      VRAM__AUTOCAST_##autocast,                                                                   \
      VRAM__LOWER_##lower,                                                                         \
      kind,                                                                                        \
      0 VRAM__STEP_OF(vram__forward_##forward, vram__backward_##backward),                         \
      torch}
#define VRAM__OP_POINTWISE(name, torch, least, most, shape, types, autocast, lower, traits, keys,  \
                           recipe)                                                                 \
  VRAM__ROW const vram__op_row vram__op_##name = {                                                 \
      #name,                                                                                       \
      keys,                                                                                        \
      recipe,                                                                                      \
      vram__shape_##shape,                                                                         \
      vram__flops_each,                                                                            \
      least,                                                                                       \
      most,                                                                                        \
      traits,                                                                                      \
      VRAM__TYPES_##types,                                                                         \
      VRAM__AUTOCAST_##autocast,                                                                   \
      VRAM__LOWER_##lower,                                                                         \
      0,                                                                                           \
      0 VRAM__STEP_OF(vram__forward_pointwise, vram__backward_pointwise),                          \
      torch}
/* Lines of the text form: `x0 x1 ..` are the inputs, `y` the output, other names (one letter)
   temporaries, which live until the op returns, or until a `drop`; `key=@` hands a key on. */
#define VRAM__OP_LINES(name, torch, least, most, shape, autocast, lower, kind, traits, keys,       \
                       lines)                                                                      \
  VRAM__ROW const vram__op_row vram__op_##name = {#name,                                           \
                                                  keys,                                            \
                                                  lines,                                           \
                                                  vram__shape_##shape,                             \
                                                  vram__flops_each,                                \
                                                  least,                                           \
                                                  most,                                            \
                                                  traits,                                          \
                                                  VRAM__TYPES_SAME,                                \
                                                  VRAM__AUTOCAST_##autocast,                       \
                                                  VRAM__LOWER_##lower,                             \
                                                  kind,                                            \
                                                  1 VRAM__STEP_OF(NULL, NULL),                     \
                                                  torch}

/* Kinds: of a convolution, beside its axes; of a norm; of a recurrent layer or cell. */
#define VRAM__TRANSPOSED 8
enum { VRAM__NORM_LAYER, VRAM__NORM_RMS, VRAM__NORM_GROUP, VRAM__NORM_BATCH, VRAM__NORM_INSTANCE };
enum { VRAM__RNN_PLAIN, VRAM__RNN_LSTM, VRAM__RNN_GRU };

/* >>text form (Implementation) -----------------------------------------------------------------
   Lines are read in order. A loop's body is read once a round: the reader goes back to its first
   line. */

typedef struct vram__span { /* a piece of a text */
  const char *text;
  uint32_t len;
} vram__span;

typedef struct vram__symbol {
  vram__span name; /* in the text */
  vram_value *value;
  uint32_t hash;
  uint32_t next; /* in its hash chain: the number of another one, 0: it is the last */
} vram__symbol;

typedef struct vram__loop {
  const char *head; /* the `loop` line, */
  const char *body; /* and the line behind it */
  uint32_t head_line, body_line;
  int64_t rounds, round; /* how many there are, and the one that runs */
  uint32_t outside;      /* how many names were defined before the block */
  vram__round *scope;
  uint32_t blocks;  /* `checkpoint` blocks around it */
  uint8_t autocast; /* in front of it, */
  uint8_t no_grad;  /* and whether no_grad was on */
  uint32_t ncarried;
  struct {
    vram__span name;
    vram_value *value;
  } carried[64]; /* names that a round hands on to the next one */
} vram__loop;

/* ---- a plan of tensor parallelism */

enum { /* what becomes of a module; torch.distributed.tensor.parallel's names */
       VRAM__TP_NONE,
       VRAM__TP_COLWISE,
       VRAM__TP_ROWWISE,
       VRAM__TP_SEQUENCE,
       VRAM__TP_INPUT,  /* PrepareModuleInput */
       VRAM__TP_OUTPUT, /* PrepareModuleOutput */
       VRAM__TP_SUMMED, /* every rank has all of it, and its gradients are summed in place */
       VRAM__TP_WHOLE,  /* every rank has all of it */
       VRAM__TP_USUAL,  /* names of no line go by the usual plan */
       VRAM__TP_UNKNOWN /* a style that cannot be played */
};

enum { VRAM__LAYOUT_UNSAID = INT8_MIN, VRAM__LAYOUT_REPLICATE = INT8_MAX }; /* else an axis */

/* A name of a `tp` line: parts between points, * and ? in them as in parallelize_module. */
typedef struct vram__tp_word {
  struct vram__tp_word *next;
  const char *text;
  uint32_t len;
  uint8_t style, row;            /* row: its name's, in units.c */
  uint8_t is_dtensor;            /* use_local_output=0 */
  int8_t input, output, desired; /* layouts */
} vram__tp_word;

/* Keys of a node, as vram_node has them: words[count] is the 0 that ends them. */
typedef struct vram__keys {
  int64_t *words;
  uint32_t count, room;
} vram__keys;

/* What vram_graph_adapt asks for. */
enum { VRAM__ADAPT_WORDS = 64 };
typedef struct vram__adapt {
  int64_t lora_words[VRAM__ADAPT_WORDS], quant_words[VRAM__ADAPT_WORDS];
  vram__keys lora_keys[1], quant_keys[1]; /* that lines get; no words: not asked for */
  vram__span targets, skip, save;         /* names with | between; no targets: all but the head */
  vram__span head;                        /* the last linear line of the text */
  uint8_t prepares;                       /* prepare_model_for_kbit_training, if it is said */
  uint8_t biases;                         /* which of them learn, too */
  uint8_t saves, names_bias;              /* what the name of the line that is read says */
  const vram_param *table;                /* of the first embedding */
  vram_value *embedded;                   /* what its module gave up to now; NULL: all of it */
  vram__span module;                      /* whose lines may follow */
  uint32_t matched;                       /* lines with an adapter */
  uint32_t ncandidate;
  vram__span candidate[16]; /* names that there were, without what stands before the last point */
} vram__adapt;

/* A node that a line or a call asks for. */
typedef struct vram__request {
  uint32_t op;
  vram_value **in;
  uint32_t nin, nout;
  const vram__keys *keys;
} vram__request;

enum { VRAM__REQUIRED = 4 }; /* keys that a row requires are fewer */

typedef struct vram__parser {
  vram_graph *g;
  const char *text_end;
  const char *start;     /* of the current line */
  const char *at, *end;  /* what is still to be read of it, without its comment */
  const char *next_line; /* where to go on behind it */
  const char *odd;       /* its first byte that is not printable, NULL: none */
  int tabs;              /* it has some */
  uint32_t line;
  vram__span token; /* its last word that was read */
  /* Names, which lie at the end of the graph's memory while the text is read: for each hash the
     number of the newest symbol, and the symbols 1, 2, ... down from there. The table is NULL in a
     graph built by calls, where names are labels. */
  uint32_t *table;
  vram__symbol *symbol;
  uint32_t mask, nsymbol;
  uint32_t symbol_room; /* for so many there is memory */
  vram__loop loop[VRAM_MAX_LOOPS];
  uint32_t depth;  /* loops around the line */
  uint32_t blocks; /* `checkpoint` blocks around it; the outermost: */
  uint32_t block_line;
  const char *block_at;
  uint32_t rounds; /* of all loops so far */
  int adapted;     /* linear lines may have adapters that the text does not say */
  int names_only;  /* every line is read once for its names and keys, and nodes have no shapes */
  const vram_dim *set;
  uint32_t nset;
  uint8_t *used;                        /* those of `set` that a dim line has */
  uint16_t found_op[64], found_key[64]; /* by hash: where a name was found */
  /* of each op that was looked up: 1, its required keys, 0 */
  uint8_t required[VRAM_OP_COUNT][VRAM__REQUIRED + 1];
} vram__parser;

/* training.c */
VRAM__FN vram_node *vram__training_backward(vram_graph *g, vram_value **v, uint32_t nv, int how);
VRAM__FN vram_node *vram__training_update(vram_graph *g);
VRAM__FN vram_node *vram__training_names_line(vram_graph *g, uint32_t op, const vram__span *name,
                                              uint32_t nname);

/* error.c */
VRAM__COLD VRAM__FN void vram__graph_fail(vram_graph *g, vram_result code, const char *what);
VRAM__COLD VRAM__FN void vram__error_more(vram_graph *g, const char *z);
VRAM__COLD VRAM__FN void vram__error_more_n(vram_graph *g, const char *z, uint32_t len);
VRAM__COLD VRAM__FN void vram__error_no_dim(vram_graph *g, const char *name);
VRAM__COLD VRAM__FN void vram__error_more_i(vram_graph *g, int64_t v);
VRAM__COLD VRAM__FN void vram__error_more_dims(vram_graph *g, const vram_dims *d);
VRAM__COLD VRAM__FN int vram__parse_located(vram__parser *p, const char *at);
VRAM__COLD VRAM__FN int vram__parse_error_in(vram__parser *p, const char *at, vram_result code,
                                             const char *what, vram__span found,
                                             const char *expected);
VRAM__COLD VRAM__FN int vram__parse_error(vram__parser *p, vram_result code, const char *what,
                                          vram__span found, const char *expected);
VRAM__COLD VRAM__FN int vram__parse_refuse(vram__parser *p, const char *at, vram_result code,
                                           const char *what, const char *expected);

/* promote.c */
VRAM__FN int vram__dtype_is_float(vram_dtype dt);
VRAM__FN int vram__dtype_of_models(vram_dtype dt);
VRAM__FN uint32_t vram__kind_rank(vram_dtype dt);
VRAM__FN vram_dtype vram__promote2(vram_dtype a, vram_dtype b);
VRAM__FN void vram__promote_add(vram__promote *p, vram_dtype dt, uint32_t ndim);
VRAM__FN vram_dtype vram__promote_get(const vram__promote *p);
VRAM__FN vram_dtype vram__promote_result(uint32_t op, uint32_t nin, const vram__promote *p);
VRAM__FN vram_dtype vram__promote_all(const vram_node *n, uint32_t first, uint32_t count);

/* shape.c */
VRAM__FN int vram__axes(vram_graph *g, const vram_node *n, uint32_t key, uint32_t naxes,
                        int64_t def, int64_t least, int64_t *to);
VRAM__FN int vram__axis(vram_graph *g, int64_t a, uint32_t ndim, uint32_t *to);
VRAM__FN int vram__dims_broadcast(uint32_t *ndim, int64_t *size, const vram_dims *b);
VRAM__FN int vram__dims_broadcast_lead(uint32_t *ndim, int64_t *size, uint32_t n,
                                       const int64_t *from);
VRAM__FN int vram__dims_broadcast_all(vram_graph *g, vram_node *n, uint32_t first, uint32_t *ndim,
                                      int64_t *size);
VRAM__FN uint64_t vram__flops_each(const vram_node *n);
VRAM__FN uint64_t vram__flops_none(const vram_node *n);
VRAM__FN uint64_t vram__matrix_elements(const vram_node *n);
VRAM__FN uint64_t vram__input_rows(const vram_node *n);
VRAM__FN int vram__node_params(vram_graph *g, vram_node *n, uint32_t count);
VRAM__FN int vram__axes_filled(vram_graph *g, const vram_node *n, uint32_t first);
VRAM__FN uint32_t vram__axis_lead(vram_graph *g, const vram_node *n, uint32_t k);

/* order.c */
VRAM__FN int vram__graph_order(vram_graph *g, const vram_value *v);
VRAM__FN void vram__graph_reorder(vram_graph *g);

/* graph.c */
VRAM__FN void vram__graph_infer(vram_graph *g, vram_value *const *v, uint32_t n);
VRAM__FN vram_dtype vram__graph_own_dtype(const vram_graph *g, vram_dtype dt);
VRAM__FN vram_dtype vram__graph_default_dtype(const vram_graph *g);
VRAM__FN vram_dtype vram__graph_key_dtype(const vram_graph *g, const vram_node *n, vram_dtype def);
VRAM__FN void *vram__graph_take(vram_graph *g, uint64_t n);
VRAM__FN const int64_t *vram__attr_find(const int64_t *attr, uint32_t key, uint32_t *count);
VRAM__APART VRAM__FN const int64_t *vram__node_list(const vram_node *n, uint32_t key,
                                                    uint32_t *count);
VRAM__APART VRAM__FN int64_t vram__node_int(const vram_node *n, uint32_t key, int64_t def);
VRAM__FN const vram_dims *vram__graph_dims(vram_graph *g, uint32_t n, const int64_t *size);
VRAM__FN int vram__node_out_dims(vram_node *n, uint32_t i, const vram_dims *d, vram_dtype dtype);
VRAM__FN int vram__node_out(vram_graph *g, vram_node *n, uint32_t i, uint32_t ndim,
                            const int64_t *size, vram_dtype dtype);
VRAM__COLD VRAM__FN int vram__node_error(vram_graph *g, const vram_node *n, const char *what);
VRAM__FN vram__span vram__node_label(const vram_node *n);
VRAM__FN int vram__unit_add(vram_graph *g, vram__span name, int stage);
VRAM__FN int vram__tp_add(vram_graph *g, vram__span words, char blank);
VRAM__FN const char *vram__tp_style_name(const vram__tp_word *w);
VRAM__FN int vram__node_same_line(const vram_node *a, const vram_node *b);
VRAM__FN void vram__owned_flat(vram__owned *o);
VRAM__FN uint64_t vram__param_padding(const vram_param *p);
VRAM__FN void vram__owned_add(vram__owned *o, const vram_param *p, uint64_t bytes);
VRAM__FN int vram__whole_blocks(vram_graph *g, const vram_dims *d, vram_dtype dtype);
VRAM__FN int vram__param_is_frozen(const vram_graph *g, const vram_node *n);
VRAM__FN int vram__node_own(vram_graph *g, vram_node *n, uint32_t i, const char *role,
                            uint32_t ndim, const int64_t *size, vram_dtype dtype, uint8_t kind);

/* symbol.c */
VRAM__FN int vram__name_char(char c);
VRAM__FN int vram__span_is_name(vram__span s);
VRAM__FN int vram__parse_token(vram__parser *p);
VRAM__FN const char *vram__graph_keep_text(vram_graph *g, const char *s, uint32_t n);
VRAM__FN vram_value *vram__symbol_find(const vram__parser *p, vram__span name);
VRAM__FN void *vram__parser_take(vram__parser *p, uint64_t n);
VRAM__FN int vram__symbol_define(vram__parser *p, vram__span name, vram_value *v, int carried);
VRAM__FN void vram__symbol_forget(vram__parser *p, uint32_t outside);
VRAM__FN const char *vram__symbol_keep_name(vram__parser *p, vram__span name);

/* node.c */
VRAM__FN vram_node *vram__node_new(vram_graph *g, const vram__request *r);
VRAM__FN vram_node *vram__node_drop(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin);
VRAM__FN vram_node *vram__node_lifetime(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin);
VRAM__FN int vram__request_fits(vram_graph *g, const vram__request *r);
VRAM__FN int vram__node_emit(vram__parser *p, const vram__request *r, vram_node **node);

/* block.c */
VRAM__FN int vram__block_key(vram__span word, uint8_t *flags);
VRAM__FN int vram__block_begin(vram_graph *g, const vram_checkpoint *what);
VRAM__FN int vram__block_end(vram_graph *g, vram_value *const *out, uint32_t nout);

/* size.c */
VRAM__FN int vram__parse_size(vram__parser *p, vram__span size, int negative, int64_t *to);
VRAM__FN int vram__parse_sizes(vram__parser *p, vram__span list, uint32_t room, int64_t *to,
                               uint32_t *count);
VRAM__FN int vram__parse_decimal(vram__parser *p, vram__span number, int64_t *to);
VRAM__FN int vram__dtype_named(vram__parser *p, vram__span name, int64_t *to);
VRAM__FN int vram__parse_dtype(vram__parser *p, vram__span name, int64_t *to);
VRAM__FN uint32_t vram__dim_find(const vram_graph *g, vram__span name);

/* key.c */
VRAM__FN uint32_t vram__key_missing(vram__parser *p, const vram__request *r);
VRAM__FN int vram__key_read(vram__parser *p, uint32_t op, vram__span word, vram__keys *keys);

/* adapt.c */
/* Is this a kind of quantised weights? Else it has failed with what is known of that kind. */
VRAM__FN int vram__quantised_known(vram_graph *g, int64_t kind);
VRAM__FN void vram__adapt_begin(vram_graph *g, const char *text, uint64_t len);
VRAM__FN int64_t vram__adapt_rank(vram_graph *g, int64_t rank);
VRAM__FN int vram__adapt_line(vram_graph *g, const vram__request *r, vram__span name);
VRAM__FN int vram__adapt_embedded(vram_graph *g, vram__span name);
VRAM__FN void vram__adapt_embedding(vram_graph *g, vram_node *n, vram__span name);
VRAM__FN int vram__adapt_complete(vram_graph *g);
VRAM__FN int vram__adapt_freezes(const vram_graph *g);
VRAM__FN int vram__adapt_saves(const vram_graph *g);
VRAM__FN int vram__adapt_learns_bias(const vram_graph *g, const vram_node *n, const char *role);
VRAM__FN int vram__adapt_prepares(const vram_graph *g);

/* parse.c */
VRAM__FN vram_value *vram__graph_input(vram_graph *g, vram__span name, vram_dtype dtype,
                                       uint32_t ndim, const int64_t *size);
VRAM__FN int vram__parse_node(vram__parser *p, vram__request *r, vram__span names, const char *at,
                              vram_node **node);

/* ops/table.c */
VRAM__FN uint32_t vram__op_traits(const vram_node *n);
VRAM__FN uint32_t vram__op_axes(const vram_node *n);
VRAM__FN int vram__op_is_transposed(const vram_node *n);
VRAM__FN const vram__op_row *vram__op_at(uint32_t op);

#define VRAM__SAME INT64_MIN /* padding=same; no number of a text is that */

/* Bytes of a parameter's storage in that dtype. */
static inline uint64_t vram__param_bytes(const vram_param *p, vram_dtype dt) {
  const uint64_t bytes = vram__dims_bytes_of(p->d, dt);
  if (!p->is_dtensor)
    return bytes;
  return vram__sum_or_overflow(
      bytes, vram__product_or_overflow(vram__param_padding(p), vram__dtype_rows[dt].block_bytes));
}

/* Is its gradient all of the DTensor? That of an embedding is, of gradients that are replicated
   (_ops/_embedding_ops.py). */
static inline int vram__param_has_whole_gradient(const vram_param *p) {
  return p->is_dtensor && p->node->op == VRAM_OP_embedding_shard;
}

/* What a collective reads until somebody waits for its result: no variable names it. */
static inline int vram__value_is_flight(const vram_value *v) {
  return v->node && v != v->node->out &&
         (v->node->op == VRAM_OP_reduce_scatter || v->node->op == VRAM_OP_all_to_all);
}

/* NULL: n is the first one. */
static inline const vram_node *vram__node_before(const vram_node *n) {
  return n->back ? (const vram_node *)((const uint64_t *)n - n->back) : NULL;
}

static inline vram__span vram__span_of(const char *from, const char *end) {
  vram__span s;
  s.text = from;
  s.len = (uint32_t)(end - from);
  return s;
}

/* All of a text that 0 ends; NULL: nothing. */
static inline vram__span vram__span_all(const char *text) {
  vram__span s;
  s.text = text;
  s.len = text ? vram__text_len(text) : 0;
  return s;
}

/* Is n a line about lifetimes alone, or about what a value is? */
static inline int vram__node_is_lifetime(const vram_node *n) {
  return n->op >= VRAM__OP_drop && n->op <= VRAM__OP_requires_grad;
}

/* Eight bytes that a name may have behind its first. With bit 5 set letters are small, _ is 127. */
static inline int vram__name_eight(uint64_t w) {
  const uint64_t x = w | VRAM__EACH(32);
  const uint64_t ok = (VRAM__FROM(x, '.') & ~VRAM__FROM(x, '9' + 1)) |
                      (VRAM__FROM(x, 'a') & ~VRAM__FROM(x, 'z' + 1)) | VRAM__FROM(x, 127);
  return (ok & VRAM__FROM(w, '.') & ~VRAM__FROM(w, 127) & ~w & VRAM__HIGH) == VRAM__HIGH;
}
