#pragma once
#include "api/arena.h"
/* >>net =======================================================================================
   A network for a microcontroller, line by line as the VRAM_NET_ macros have it (>>ct), at run
   time: the same rules in C, every error as text, and offsets from the arena planner.

     n = vram_net_read_bytes(text, len);                 a C header with lines
     vram_net_read(text, len, "kws", malloc(n), n, &net, &err);
     vram_net_count(&net, &err);                         net.line[i].macs, .live_bytes, ...
     n = vram_net_plan_bytes(&net, NULL);
     vram_net_plan(&net, NULL, malloc(n), n, &err);      net.line[i].offset, net.arena

   A caller that has no text fills vram_net_line by hand: kind, names and arguments. */

#define VRAM_MAX_NET_LINES 4096
#define VRAM_NET_ARGS 10 /* integers of a line */
#define VRAM_NET_KEPT 3  /* kept values that a line takes */

/* Every line VRAM_NET_kind(net, ...): where its value is, and its arguments in order.
     NEW in a new buffer   OVER in that of x, overwritten   VIEW that of x (FROM: of kept)
     y its name   x the line before it   kept, kept2, kept3 names of KEEP lines
     format, padding, kernels   one of the words below   all other arguments are integers  */
/* clang-format off */
#define VRAM_NET_LINES(X)                                                                        \
  X(BEGIN, NEW, "format n h w c")                                                                \
  X(BEGIN_WITH, NEW, "format n h w c align kernels")                                             \
  X(CONV2D, NEW, "y x out_channels kh kw sh sw padding bias")                                    \
  X(CONV2D_FULL, NEW, "y x out_channels kh kw sh sw dh dw padding groups bias")                  \
  X(DEPTHWISE_CONV2D, NEW, "y x multiplier kh kw sh sw padding bias")                            \
  X(DEPTHWISE_CONV2D_FULL, NEW, "y x multiplier kh kw sh sw dh dw padding bias")                 \
  X(CONV_TRANSPOSE2D, NEW,                                                                       \
    "y x out_channels kh kw sh sw padding output_padding_h output_padding_w bias")               \
  X(CONV3D, NEW, "y x depth out_channels kd kh kw sd sh sw pd padding bias")                     \
  X(LINEAR, NEW, "y x out_features bias")                                                        \
  X(MAX_POOL2D, NEW, "y x kh kw sh sw padding")                                                  \
  X(AVG_POOL2D, NEW, "y x kh kw sh sw padding")                                                  \
  X(GLOBAL_AVG_POOL2D, NEW, "y x")                                                               \
  X(GLOBAL_MAX_POOL2D, NEW, "y x")                                                               \
  X(UPSAMPLE2D, NEW, "y x factor_h factor_w")                                                    \
  X(BATCH_NORM, NEW, "y x")                                                                      \
  X(BATCH_NORM_INPLACE, OVER, "y x")                                                             \
  X(BATCH_NORM_FOLDED, VIEW, "y x")                                                              \
  X(LAYER_NORM, NEW, "y x")                                                                      \
  X(LAYER_NORM_INPLACE, OVER, "y x")                                                             \
  X(RMS_NORM, NEW, "y x")                                                                        \
  X(RMS_NORM_INPLACE, OVER, "y x")                                                               \
  X(ACTIVATION, NEW, "y x")                                                                      \
  X(ACTIVATION_INPLACE, OVER, "y x")                                                             \
  X(ACTIVATION_FUSED, VIEW, "y x")                                                               \
  X(ACTIVATION_TABLE, OVER, "y x table_bytes")                                                   \
  X(CONSTANTS, VIEW, "y x table_bytes")                                                          \
  X(SOFTMAX, NEW, "y x")                                                                         \
  X(SOFTMAX_INPLACE, OVER, "y x")                                                                \
  X(INPUT, NEW, "y x format h w c")                                                              \
  X(KEEP, VIEW, "y x")                                                                           \
  X(FROM, VIEW, "y x kept")                                                                      \
  X(ADD, NEW, "y x kept")                                                                        \
  X(ADD_INPLACE, OVER, "y x kept")                                                               \
  X(MUL, NEW, "y x kept")                                                                        \
  X(MUL_INPLACE, OVER, "y x kept")                                                               \
  X(CONCAT, NEW, "y x kept")                                                                     \
  X(CONCAT3, NEW, "y x kept kept2")                                                              \
  X(CONCAT4, NEW, "y x kept kept2 kept3")                                                        \
  X(PAD, NEW, "y x top bottom left right")                                                       \
  X(SLICE, NEW, "y x h w c")                                                                     \
  X(RESHAPE, VIEW, "y x h w c")                                                                  \
  X(FLATTEN, VIEW, "y x")                                                                        \
  X(TRANSPOSE, NEW, "y x h w c")                                                                 \
  X(LSTM, NEW, "y x hidden_size biases sequence")                                                \
  X(GRU, NEW, "y x hidden_size biases sequence")                                                 \
  X(RNN, NEW, "y x hidden_size biases sequence")                                                 \
  X(LSTM_BIDIRECTIONAL, NEW, "y x hidden_size biases sequence")                                  \
  X(GRU_BIDIRECTIONAL, NEW, "y x hidden_size biases sequence")                                   \
  X(RNN_BIDIRECTIONAL, NEW, "y x hidden_size biases sequence")                                   \
  X(ATTENTION, NEW, "y x num_heads num_kv_heads head_dim context bias")                          \
  X(SELF_ATTENTION, NEW, "y x num_heads num_kv_heads head_dim bias")                             \
  X(EMBEDDING, NEW, "y x format num_embeddings embedding_dim")                                   \
  X(QUANTIZE, NEW, "y x format")                                                                 \
  X(CUSTOM, NEW, "y x h w c params weight_bytes macs scratch_bytes state_bytes")                 \
  X(OUTPUT, VIEW, "y x")                                                                         \
  X(END, VIEW, "x")
/* clang-format on */

typedef enum vram_line_kind {
#define VRAM__X(id, where, args) VRAM_LINE_##id,
  VRAM_NET_LINES(VRAM__X)
#undef VRAM__X
      VRAM_LINE_COUNT
} vram_line_kind;

/* What values and weights are stored as: the dtypes of activations and weights, the bytes of a
   bias, and which scales there are. Ids have no weights. A scale is a multiplier and a shift, eight
   bytes:

     0  none
     1  one for each matrix
     2  one for each output channel of a convolution, one for each other matrix
     3  one for each output channel of a convolution and each output of a LINEAR */
#define VRAM_NET_FORMATS(X)                                                                        \
  X(F32, VRAM_F32, VRAM_F32, 4, 0)                                                                 \
  X(F16, VRAM_F16, VRAM_F16, 2, 0)                                                                 \
  X(I8, VRAM_I8, VRAM_I8, 4, 2)                                                                    \
  X(I8_PER_TENSOR, VRAM_I8, VRAM_I8, 4, 1)                                                         \
  X(I8_PER_CHANNEL, VRAM_I8, VRAM_I8, 4, 3)                                                        \
  X(I8W4, VRAM_I8, VRAM_I4, 4, 2)                                                                  \
  X(I16, VRAM_I16, VRAM_I8, 8, 2)                                                                  \
  X(I4, VRAM_I4, VRAM_I4, 4, 2)                                                                    \
  X(IDS8, VRAM_U8, VRAM_DTYPE_NONE, 0, 0)                                                          \
  X(IDS16, VRAM_U16, VRAM_DTYPE_NONE, 0, 0)                                                        \
  X(IDS32, VRAM_U32, VRAM_DTYPE_NONE, 0, 0)

typedef enum vram_net_format {
#define VRAM__X(id, activation, weight, bias_bytes, scales) VRAM_FORMAT_##id,
  VRAM_NET_FORMATS(VRAM__X)
#undef VRAM__X
      VRAM_FORMAT_COUNT
} vram_net_format;

#define VRAM_NET_PADDINGS(X)                                                                       \
  X(VALID)    /* none */                                                                           \
  X(SAME)     /* TFLite's: the output is the input / stride, rounded up */                         \
  X(PAD)      /* PAD(ph, pw): so much on each side, as PyTorch has it */                           \
  X(PAD_CEIL) /* pools: PAD with ceil_mode=True */

typedef enum vram_net_padding {
#define VRAM__X(id) VRAM_PADDING_##id,
  VRAM_NET_PADDINGS(VRAM__X)
#undef VRAM__X
      VRAM_PADDING_COUNT
} vram_net_padding;

/* Whose scratch counts: nobody's, or that of CMSIS-NN built for this extension. */
#define VRAM_NET_KERNELS(X) X(NONE) X(PLAIN) X(DSP) X(MVE)

typedef enum vram_net_kernels {
#define VRAM__X(id) VRAM_KERNELS_##id,
  VRAM_NET_KERNELS(VRAM__X)
#undef VRAM__X
      VRAM_KERNELS_COUNT
} vram_net_kernels;

#define VRAM_NO_BUFFER UINT32_MAX

typedef struct vram_net_line {
  vram_line_kind kind;
  const char *y; /* its name; BEGIN: "input". END: unused */
  const char *x; /* the line before it; BEGIN: unused. NULL: whatever line is before it */
  const char *kept[VRAM_NET_KEPT];
  int64_t arg[VRAM_NET_ARGS]; /* the integers, in the order of the macro's arguments */
  vram_net_format format; /* BEGIN, INPUT, EMBEDDING, QUANTIZE; vram_net_count sets the others' */
  vram_net_padding padding;
  int64_t pad_h, pad_w;            /* of PAD and PAD_CEIL */
  vram_net_kernels kernels;        /* of BEGIN_WITH */
  uint32_t text_line, text_column; /* where it was read; 0: nowhere */
  const vram_node *node;           /* vram_net_lower: what it was made of; NULL: none */

  /* vram_net_count: the line's value and what it takes */
  uint64_t n, height, width, channels;
  uint64_t out_bytes; /* of y, not rounded up */
  uint64_t params, macs;
  uint64_t weight_bytes;  /* the sum of its arrays, */
  uint64_t flash_bytes;   /* each rounded up to 4, or 8 bytes */
  uint64_t weight_reads;  /* bytes of them that an inference reads: a weight for each
                             multiply-accumulate; more than VRAM_MAX_BYTES: VRAM_OVERFLOW */
  uint64_t state_bytes;   /* stays from one inference to the next */
  uint64_t scratch_bytes; /* while the line runs */
  uint64_t live_bytes;    /* all that exists while the line runs, without state */
  /* up to and with this line */
  uint64_t total_params, total_macs, total_weight_bytes, total_flash_bytes, total_state_bytes;
  uint64_t peak_live_bytes, pingpong_bytes;
  uint32_t buffer;              /* of y, in the order of vram_net.buffer */
  uint32_t scratch_buffer;      /* VRAM_NO_BUFFER: none */
  uint32_t from[VRAM_NET_KEPT]; /* the lines of kept */

  /* vram_net_plan */
  uint64_t offset, scratch_offset; /* in the arena; scratch: VRAM_NOWHERE if there is none */
  uint32_t bank, scratch_bank;     /* of several memories */
  uint64_t accesses; /* with banks: bytes of its buffer that an inference reads and writes */

  /* private */
  uint64_t storage_bytes;       /* of a buffer that the line writes anew */
  uint32_t owner;               /* the line that did so for y */
  uint32_t taken;               /* KEEP: the line that takes it */
  uint8_t holds, output, folds; /* of an owner: it is kept, an output; of y: it has a bias */
} vram_net_line;

typedef struct vram_net {
  const char *name;
  vram_net_line *line; /* the caller's. BEGIN or BEGIN_WITH first, END last */
  uint32_t nline;

  /* vram_net_count */
  uint64_t align; /* of every buffer: BEGIN_WITH, or 16 */
  vram_net_kernels kernels;
  uint64_t params, macs, weight_bytes, flash_bytes, state_bytes;
  uint64_t peak_live_bytes, pingpong_bytes;
  uint32_t peak_line; /* the first that reaches the peak */
  uint32_t nbuffer;   /* values and scratch */

  /* vram_net_plan */
  const vram_buffer *buffer; /* begin and end are lines, end excluded */
  vram_arena arena;
} vram_net;

#ifndef VRAM_NO_NET
VRAM_API const char *vram_line_name(uint32_t kind);       /* "CONV2D"; "?" for what is none */
VRAM_API const char *vram_line_args(uint32_t kind);       /* "y x out_channels ..."; "" */
VRAM_API const char *vram_format_name(uint32_t format);   /* "I8"; "?" */
VRAM_API const char *vram_padding_name(uint32_t padding); /* "SAME"; "?" */
VRAM_API const char *vram_kernels_name(uint32_t kernels); /* "DSP"; "?" */

/* Reads the lines of one net from the text of a C header: VRAM_NET_kind(net, ...). Integers may be
   expressions of numbers, + - * / % ( ) and names that an earlier #define of the text gives such a
   value; everything else is skipped, as a compiler skips comments. #if and #include are ignored.
   name NULL: the only net of the text. Names are copied into mem, of which vram_net_read_bytes is
   an upper bound.
     VRAM_ERR_SYNTAX, VRAM_ERR_NAME, VRAM_ERR_VALUE  err->line and err->column say where
     VRAM_ERR_LIMIT   more than VRAM_MAX_NET_LINES lines
     VRAM_ERR_MEMORY  mem is too small */
VRAM_API uint64_t vram_net_read_bytes(const char *text, uint64_t len);
VRAM_API vram_result vram_net_read(const char *text, uint64_t len, const char *name, void *mem,
                                   uint64_t bytes, vram_net *net, vram_error *err);

/* Counts a net: fills in what vram_net_line and vram_net have under vram_net_count. err->line is
   1 + the line, or where it was read:
     VRAM_ERR_NAME      a name that is used twice, not known, taken twice or never
     VRAM_ERR_SHAPE     sizes that do not fit
     VRAM_ERR_VALUE     an argument out of range, lines out of order
     VRAM_ERR_OVERFLOW  more than VRAM_MAX_BYTES of anything
     VRAM_ERR_LIMIT     more than VRAM_MAX_NET_LINES lines */
VRAM_API vram_result vram_net_count(vram_net *net, vram_error *err);

/* Plans one arena for a net that was counted: its buffers (in scratch) and where each lies. A value
   lives from the line that writes it to the last that reads it, in place or through views; a kept
   one until it is taken; outputs to the end; scratch as long as its line. o: align comes from the
   net; NULL: all zero. With more than one bank, the fastest first, the buffers that an inference
   reads and writes most are in the first (vram_arena_spill). What it gives: what vram_arena_plan
   gives, or vram_arena_spill */
VRAM_API uint64_t vram_net_plan_bytes(const vram_net *net, const vram_arena_options *o);
VRAM_API vram_result vram_net_plan(vram_net *net, const vram_arena_options *o, void *scratch,
                                   uint64_t scratch_bytes, vram_error *err);
#endif

/* Lowers a model to lines: what an inference of it needs, on one input. Then come vram_net_count
   and vram_net_plan. The net's names and lines are in mem, and point to g.

   Values lie as n, h, w, c; an axis that is in no line is the batch. Axes that only change their
   order or number take no line where the order in memory can stay: a linear behind a flatten has
   its columns in the order h, w, c. What becomes of a node:

     losses, dropout, stochastic depth   nothing; a sum or mean of all elements is a loss, too
     batch_norm                          a part of the convolution or linear before it that nothing
                                         else reads (BATCH_NORM_FOLDED); a layer without bias gets
                                         one, and its parameters count it
     relu, relu6, hardtanh, clamp        ACTIVATION_FUSED behind convolution, linear, add,
                                         batch_norm or pool
     other activations, norms, softmax   in place where nothing reads their input later
     add, sub, maximum, minimum          ADD, in place likewise
     mul, div, pow                       MUL, in place likewise
     `parameter` and constants           weights of the CUSTOM line that reads them
     what has no line of its own         CUSTOM, or an error that names the node

     VRAM_ERR_UNSUPPORTED  no line does that; err->line is the text's
     VRAM_ERR_LIMIT        more than VRAM_MAX_NET_LINES lines
     VRAM_ERR_MEMORY       mem is too small */
typedef struct vram_net_lower_options {
  vram_net_format format;   /* of values and weights; all zero: F32 */
  uint64_t align;           /* of every buffer, a power of two; 0: 16 */
  vram_net_kernels kernels; /* whose scratch counts */
  int no_fold, no_fuse;
  const char *name; /* of the net */
} vram_net_lower_options;

#if !defined(VRAM_NO_NET) && !defined(VRAM_NO_MODEL)
VRAM_API uint64_t vram_net_lower_bytes(const vram_graph *g);
VRAM_API vram_result vram_net_lower(const vram_graph *g, const vram_net_lower_options *o, void *mem,
                                    uint64_t bytes, vram_net *net, vram_error *err);
#endif
