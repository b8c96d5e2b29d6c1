#pragma once
#include "api/arena.h"
#include "api/net.h"
#include "api/read.h"
/* >>tflm ======================================================================================
   The whole arena of TensorFlow Lite Micro for a .tflite model: what `tensor_arena[N]` must be.

     vram_tflm_options o = {VRAM_TFLM_32};
     vram_tflm t;
     vram_tflm_plan(&file, &o, mem, vram_tflm_bytes(&file), &t, &err)
     t.arena_bytes

   The head holds values and scratch, planned by TFLM's greedy planner; the tail, from the other
   end, what the interpreter keeps: its own objects, a struct for each tensor and each node, the
   nodes' options, what each kernel allocates when it is prepared, variables, inputs and outputs.
   While it allocates it needs other memory between the two, which can be more than is used at the
   end: arena_bytes counts that, too. Kernels are TFLM's own or, with `kernels`, CMSIS-NN's of the
   version that TFLM downloads, built for speed (no ESP-NN, Xtensa); sizes of their structs those of
   TFLM of 2026 (VRAM_TFLM_VERSION), one interpreter with an arena of its own, aligned to 16. */

#define VRAM_TFLM_VERSION "90b983c2, August 2026"
#define VRAM_TFLM_CMSIS_VERSION "4ab83cc3, June 2026"

/* How long the compiler's pointers and enums are. */
typedef enum vram_tflm_target {
  VRAM_TFLM_32,     /* ESP32, RISC-V, Arm with -fno-short-enums */
  VRAM_TFLM_32_ARM, /* arm-none-eabi: enums of one byte where that holds them */
  VRAM_TFLM_64,     /* a PC */
  VRAM_TFLM_PYTHON, /* the wheel of October 2026 on PyPI: 64 bits, its allocator records, tensors
                     * may be compressed
                     */
  VRAM_TFLM_TARGET_COUNT
} vram_tflm_target;

typedef enum vram_tflm_version {
  VRAM_TFLM_2026_08, /* VRAM_TFLM_VERSION */
  VRAM_TFLM_2024_11, /* c28b493d5: TFLM's own kernels, not in the wheel */
  VRAM_TFLM_VERSION_COUNT
} vram_tflm_version;

/* OPTIMIZE_KERNELS_FOR of TFLM's Makefile: sums that CMSIS-NN's kernels for MVE need are kept, or
   made again in scratch. */
typedef enum vram_tflm_goal {
  VRAM_TFLM_FOR_SPEED, /* TFLM's default */
  VRAM_TFLM_FOR_SIZE,
  VRAM_TFLM_GOAL_COUNT
} vram_tflm_goal;

typedef struct vram_tflm_options {
  vram_tflm_target target;
  vram_net_kernels kernels; /* VRAM_KERNELS_NONE: TFLM's own; else CMSIS-NN's for such a core */
  vram_tflm_version version;
  vram_tflm_goal goal; /* of CMSIS-NN's kernels */
} vram_tflm_options;

typedef struct vram_tflm_node {        /* bytes of one operator, in the order of the file */
  uint64_t option_bytes, kernel_bytes; /* in the tail: its options, what its kernel keeps */
  uint64_t scratch_bytes;              /* in the head, while it runs */
} vram_tflm_node;

/* The parts of the tail are rounded up as they lie there. */
typedef struct vram_tflm {
  uint64_t arena_bytes; /* the smallest arena that it takes, a multiple of 16 */
  uint64_t used_bytes;  /* arena_used_bytes(): head and tail */
  uint64_t head_bytes, tail_bytes;
  uint64_t object_bytes;   /* allocators and planner */
  uint64_t tensor_bytes;   /* a TfLiteEvalTensor for each tensor */
  uint64_t node_bytes;     /* a NodeAndRegistration for each node */
  uint64_t option_bytes;   /* of the nodes: builtin_data */
  uint64_t kernel_bytes;   /* what kernels keep */
  uint64_t handle_bytes;   /* of scratch */
  uint64_t variable_bytes; /* is_variable */
  uint64_t end_bytes;      /* a TfLiteTensor for each input and output of the graph */
  uint32_t ntensor, nnode, nscratch;
  vram_tflm_node *node; /* in mem */
} vram_tflm;

#if !defined(VRAM_NO_READ) && !defined(VRAM_NO_NET)
/* Memory that vram_tflm_plan needs; VRAM_OVERFLOW: too much. */
VRAM_API uint64_t vram_tflm_bytes(const vram_file *f);

/* f: a TFLite file that was read and finished; open sizes are 1, as TFLite stores them. err->offset
   is of the operator:
     VRAM_ERR_UNSUPPORTED  no TFLite file, more than one graph, an operator whose kernel TFLM has
                           not or that is not known here (custom ones, resource variables);
                           CMSIS-NN's kernels in the wheel
     VRAM_ERR_VALUE        too few inputs of an operator
     VRAM_ERR_OVERFLOW     a value of 2 GiB or more: TFLM counts in int
     VRAM_ERR_MEMORY       mem is too small */
VRAM_API vram_result vram_tflm_plan(const vram_file *f, const vram_tflm_options *o, void *mem,
                                    uint64_t bytes, vram_tflm *t, vram_error *err);

VRAM_API const char *vram_tflm_target_name(uint32_t target);   /* "32"; "?" */
VRAM_API const char *vram_tflm_version_name(uint32_t version); /* "2024-11"; "?" */
VRAM_API const char *vram_tflm_goal_name(uint32_t goal);       /* "speed"; "?" */
#endif
