/* >>tflm    the arena of TensorFlow Lite Micro's interpreter */
#pragma once
#include "api/tflm.h"
#include "net/net.h"
#include "read/read.h"

/* A struct of TFLM on the targets: its size and its alignment. */
typedef struct vram__tflm_struct {
  struct {
    uint8_t bytes, align;
  } on[VRAM_TFLM_TARGET_COUNT];
} vram__tflm_struct;

/* Options that TFLM's parser copies, TfLiteNAMEParams (tensorflow/compiler/mlir/lite/core/c/
   builtin_op_data.h): bytes and alignment on 32 and 64 bits, with enums of a byte, in the wheel. */
/* clang-format off */
#define VRAM__TFLM_PARAMS(X)                                                                     \
  X(None, 0, 1, 0, 1, 0, 1) X(Add, 8, 4, 2, 1, 8, 4) X(ArgMax, 4, 4, 1, 1, 4, 4)                 \
  X(BatchMatMul, 3, 1, 3, 1, 3, 1) X(Cast, 8, 4, 2, 1, 8, 4)                                     \
  X(Concatenation, 8, 4, 8, 4, 8, 4) X(Conv, 28, 4, 28, 4, 28, 4)                                \
  X(Cumsum, 2, 1, 2, 1, 2, 1) X(DepthToSpace, 4, 4, 4, 4, 4, 4)                                  \
  X(DepthwiseConv, 28, 4, 28, 4, 28, 4) X(Div, 4, 4, 1, 1, 4, 4)                                 \
  X(FullyConnected, 16, 4, 5, 1, 32, 8) X(Gather, 8, 4, 8, 4, 8, 4)                              \
  X(L2Norm, 4, 4, 1, 1, 4, 4) X(LeakyRelu, 4, 4, 4, 4, 4, 4)                                     \
  X(MirrorPadding, 4, 4, 1, 1, 4, 4) X(Mul, 4, 4, 1, 1, 4, 4) X(Pack, 8, 4, 8, 4, 8, 4)          \
  X(Pool, 40, 4, 40, 4, 40, 4) X(Reducer, 1, 1, 1, 1, 1, 1) X(Reshape, 36, 4, 36, 4, 36, 4)      \
  X(Resize, 2, 1, 2, 1, 2, 1) X(SVDF, 12, 4, 8, 4, 12, 4) X(Shape, 4, 4, 1, 1, 4, 4)             \
  X(Softmax, 4, 4, 4, 4, 4, 4) X(Split, 4, 4, 4, 4, 4, 4) X(Squeeze, 36, 4, 36, 4, 36, 4)        \
  X(StridedSlice, 24, 4, 24, 4, 24, 4) X(Sub, 8, 4, 2, 1, 8, 4)                                  \
  X(TransposeConv, 20, 4, 16, 4, 20, 4) X(UnidirectionalSequenceLSTM, 16, 4, 16, 4, 16, 4)       \
  X(Unpack, 8, 4, 8, 4, 8, 4)
/* clang-format on */

typedef enum vram__tflm_params {
#define VRAM__X(name, bytes, align, short_bytes, short_align, python_bytes, python_align)          \
  VRAM__TFLM_OF_##name,
  VRAM__TFLM_PARAMS(VRAM__X)
#undef VRAM__X
      VRAM__TFLM_OF_COUNT
} vram__tflm_params;

typedef struct vram__tflm_run vram__tflm_run;
typedef struct vram__tflm_value vram__tflm_value;

/* What a kernel with an input x and an output y asks for when it is prepared, beside what its row
   says. */
typedef void vram__tflm_rule(vram__tflm_run *r, const vram__tflm_value *x,
                             const vram__tflm_value *y);
#define VRAM__TFLM_RULE(name)                                                                      \
  void vram__tflm_rule_##name(vram__tflm_run *r, const vram__tflm_value *x,                        \
                              const vram__tflm_value *y)

/* The kernel of an operator. data: its OpData, on the targets. temps: the tensors that it looks at
   while it is prepared, each of which takes memory until it is done: inputs 0 1 2 ..., the output
   a, A the output if the first input is int8, * all inputs, ! here it asks for what the rule says,
   d here its data is allocated (else before all others are prepared), D if the first input is int8,
   ( the rest only of integers. */
typedef struct vram__tflm_kernel {
  const char *name;
  uint8_t params;        /* vram__tflm_params */
  vram__tflm_rule *rule; /* of the ! in temps */
  uint16_t data[VRAM_TFLM_TARGET_COUNT];
  const char *temps;
} vram__tflm_kernel;

enum {
  VRAM__TFLM_ALIGN = 16,         /* MicroArenaBufferAlignment */
  VRAM__TFLM_SCRATCH_AHEAD = 12, /* kMaxScratchBuffersPerOp */
  VRAM__TFLM_PLANNED = 40,       /* GreedyMemoryPlanner::per_buffer_size */
  VRAM__TFLM_TABLE_INT16 = 2 * 513,
  VRAM__TFLM_MATMUL_QUANTIZATION = 28, /* QuantizationOpDataBatchMatmul */
  VRAM__TFLM_MAX_SCRATCH = 4           /* of one kernel */
};

/* Structs of the interpreter on a target. */
typedef struct vram__tflm_abi {
  const char *name;
  uint8_t pointer;
  uint8_t eval_tensor, node, tensor, quantization; /* TfLiteEvalTensor, NodeAndRegistration,
                                                      TfLiteTensor, TfLiteAffineQuantization */
  uint8_t request, info;                           /* ScratchBufferRequest, AllocationInfo */
  uint16_t arena, planner, allocator; /* SingleArenaBufferAllocator, GreedyMemoryPlanner,
                                         MicroAllocator */
  uint8_t subgraph;                   /* SubgraphAllocations */
} vram__tflm_abi;

struct vram__tflm_value { /* a tensor of the file, by its number */
  const int64_t *size;
  uint64_t numel, bytes;
  uint64_t first, last; /* 0: never; 1: with the graph's inputs; 2 + i: of operator i */
  vram_dtype dtype;
  uint32_t scales; /* with zero points; 0: not quantised */
  uint8_t ndim, is_constant, is_variable;
};

struct vram__tflm_run {
  const vram_file *f;
  const vram__tflm_abi *abi;
  uint32_t target;
  vram_net_kernels kernels;
  vram_tflm_version version;
  vram_tflm_goal goal;
  vram__tflm_value *value;
  vram_buffer *buffer; /* first what is planned of the values, then scratch */
  vram_tflm *t;
  const vram_file_node *node;
  const int64_t *offline; /* an offset of each value, -1: none; NULL: no such plan */
  uint64_t nvalue, now, nscratch, room;
  uint64_t head, temp, tail, least; /* from both ends of the arena */
  vram_error *err;
  vram_result result;
};

/* kernels.c */
VRAM__FN const vram__tflm_kernel *vram__tflm_kernel_of(const char *name, uint32_t len);
VRAM__FN const vram__tflm_struct *vram__tflm_params_of(uint32_t params);
VRAM__FN void vram__tflm_dims(vram__tflm_run *r, const vram__tflm_value *v);
VRAM__FN void vram__tflm_transposed(vram__tflm_run *r, const vram__tflm_value *v);
VRAM__FN VRAM__TFLM_RULE(extreme);
VRAM__FN VRAM__TFLM_RULE(none);
VRAM__FN VRAM__TFLM_RULE(softmax);
VRAM__FN VRAM__TFLM_RULE(sums);
VRAM__FN VRAM__TFLM_RULE(svdf);

/* cmsis.c */
VRAM__FN const vram__tflm_kernel *vram__tflm_cmsis_of(const char *name, uint32_t len,
                                                      vram_tflm_goal goal);

/* older.c */
VRAM__FN const vram__tflm_kernel *vram__tflm_older_of(const char *name, uint32_t len);

/* offline.c */
VRAM__FN const int64_t *vram__tflm_offline(vram__tflm_run *r);
VRAM__FN uint64_t vram__tflm_offline_plan(vram__tflm_run *r, uint32_t n, void *mem);

/* tflm.c */
VRAM__FN vram_result vram__tflm_fail(vram__tflm_run *r, vram_result code, const char *text);
VRAM__FN const vram__tflm_value *vram__tflm_of(vram__tflm_run *r, const vram_file_name *n,
                                               uint32_t i);
VRAM__FN const vram__tflm_value *vram__tflm_need(vram__tflm_run *r, const vram_file_name *n,
                                                 uint32_t i, uint32_t axes);
VRAM__FN uint64_t vram__tflm_axis(const vram__tflm_value *v, uint32_t i);
VRAM__FN int64_t vram__tflm_option(const vram_file_node *n, const char *name);
VRAM__FN void vram__tflm_scratch(vram__tflm_run *r, uint64_t bytes);
VRAM__FN void vram__tflm_kernel_keep(vram__tflm_run *r, uint64_t bytes);
VRAM__FN void vram__tflm_channels(vram__tflm_run *r, uint64_t n);
VRAM__FN void vram__tflm_look(vram__tflm_run *r, const vram__tflm_value *v);
