#pragma once
#include "api/dtype.h"
#include "api/read.h"
#include "api/step.h"
#include "api/types.h"
/* >>llama =====================================================================================
   What llama.cpp allocates for a GGUF file: weights, KV caches, recurrent states, output and
   compute buffers, by buffer as llama.cpp names them (VRAM_LLAMA_RULES: the version whose rules
   these are).

     vram_llama_options o = VRAM_ZERO_INIT;          llama.cpp's defaults on one GPU
     vram_llama_report r;
     o.n_ctx = 16384;
     vram_llama(&file, &o, memory, memory_bytes, &r, &e)
     r.buffer[0 .. r.nbuffer - 1], r.output_bytes, r.device_bytes[0], ...                        */

#define VRAM_LLAMA_RULES "0c1e57098" /* llama.cpp of 2026-10-01, ggml 0.25.3 */

enum {
  VRAM_LLAMA_MAX_DEVICES = 16, /* GGML_CUDA_MAX_DEVICES */
  VRAM_LLAMA_MAX_BUFFERS = VRAM_LLAMA_MAX_DEVICES + 4,
  VRAM_LLAMA_MAX_CACHES = 4
};

typedef enum vram_llama_switch { /* of what llama.cpp decides when nobody says */
                                 VRAM_LLAMA_AUTO,
                                 VRAM_LLAMA_ON,
                                 VRAM_LLAMA_OFF
} vram_llama_switch;

typedef enum vram_llama_split {
  VRAM_LLAMA_SPLIT_LAYER, /* whole layers, and their cache, to one device or another */
  VRAM_LLAMA_SPLIT_NONE,  /* all of it on main_gpu */
  VRAM_LLAMA_SPLIT_ROW    /* refused: the parts of a matrix on several devices */
} vram_llama_split;

/* --pooling: what embeddings are made of. Numbers of llama.cpp's own, one higher. */
typedef enum vram_llama_pooling {
  VRAM_LLAMA_POOLING_FILE, /* as the file says; none, if it does not */
  VRAM_LLAMA_POOLING_NONE, /* each token's */
  VRAM_LLAMA_POOLING_MEAN,
  VRAM_LLAMA_POOLING_CLS,
  VRAM_LLAMA_POOLING_LAST,
  VRAM_LLAMA_POOLING_RANK /* a reranker's score */
} vram_llama_pooling;

/* --override-tensor PATTERN=BUFFER: tensors in whose name the pattern is found lie there. The first
   that matches counts. Patterns are regular expressions of ECMAScript without look-ahead and back
   references. */
typedef struct vram_llama_override {
  const char *pattern;
  uint32_t pattern_len;
  int32_t device; /* -1: CPU */
} vram_llama_override;

/* All zero: llama.cpp's defaults for one GPU. */
typedef struct vram_llama_options {
  uint32_t n_ctx;             /* 0: that of the model's training */
  uint32_t n_batch, n_ubatch; /* 0: 2048, 512 */
  uint32_t slots;             /* sequences; 0: 1 */
  uint32_t outputs;           /* rows of logits at most; 0: n_batch */
  uint32_t devices;           /* equal GPUs, unless is_cpu; 0: 1 */
  uint32_t main_gpu;          /* with VRAM_LLAMA_SPLIT_NONE */
  uint32_t layers;            /* on the devices, with has_layers (--gpu-layers) */
  uint32_t n_cpu_moe;         /* experts of the first layers lie on the host */
  uint32_t cc;                /* compute capability: 89 is 8.9; 0: 89 */
  /* What each device is, for vram_llama_report.beside: a row of vram_gpu_at, or your own. [0]
     alone: all of them. NULL: of capability cc, with any number of multiprocessors. */
  const vram_gpu *gpu[VRAM_LLAMA_MAX_DEVICES];
  vram_dtype cache_k, cache_v;       /* VRAM_DTYPE_NONE: f16 */
  vram_llama_switch flash_attention; /* auto */
  vram_llama_switch repack;          /* weights for the CPU's instructions: on, without devices */
  vram_llama_pooling pooling;        /* with embeddings: as the file says */
  vram_llama_split split;            /* by layers */
  const double *tensor_split;        /* shares of the devices; NULL: equal */
  uint32_t ntensor_split;            /* of them; missing ones are 0 */
  const vram_llama_override *override_tensor;
  uint32_t noverride_tensor;
  uint8_t has_layers;      /* 0: all of them */
  uint8_t is_cpu;          /* no device */
  uint8_t unified;         /* one cache for all sequences */
  uint8_t no_kv_offload;   /* the cache on the host */
  uint8_t swa_full;        /* sliding layers keep all cells */
  uint8_t embeddings;      /* --embedding: the output has embeddings too */
  uint8_t without_compute; /* weights and contexts alone: a floor, in a fraction of the time */
} vram_llama_options;

typedef struct vram_llama_buffer {
  char name[16];  /* CUDA0, CUDA_Host, CPU, CPU_REPACK */
  int32_t device; /* -1: host memory */
  uint64_t model_bytes, context_bytes, compute_bytes;
} vram_llama_buffer;

/* One KV cache: all layers that attend in the same way. */
typedef struct vram_llama_cache {
  uint64_t cells; /* of each stream */
  uint64_t k_bytes, v_bytes;
  uint32_t layers, streams;
  vram_dtype k_type, v_type;
  uint8_t slides;
} vram_llama_cache;

typedef enum vram_llama_known {
  VRAM_LLAMA_UNKNOWN, /* not counted: 0 */
  VRAM_LLAMA_FLOOR,   /* at least this */
  VRAM_LLAMA_EXACT
} vram_llama_known;

/* A file may be one that llama.cpp loads beside a model: its weights are counted, and where they
   lie, not what its graph needs. */
typedef enum vram_llama_extra {
  VRAM_LLAMA_MODEL,
  VRAM_LLAMA_ADAPTER,        /* LoRA: --lora */
  VRAM_LLAMA_CONTROL_VECTOR, /* --control-vector */
  VRAM_LLAMA_PROJECTOR       /* of images or sound: --mmproj */
} vram_llama_extra;

typedef struct vram_llama_report {
  uint32_t n_ctx, n_ctx_seq, n_batch, n_ubatch, slots;
  uint32_t nbuffer, ncache, ndevice;
  vram_llama_buffer buffer[VRAM_LLAMA_MAX_BUFFERS]; /* devices first */
  vram_llama_cache cache[VRAM_LLAMA_MAX_CACHES];
  uint64_t r_bytes, s_bytes; /* recurrent states, of all layers */
  uint64_t output_bytes;     /* host memory, in no buffer above */
  uint64_t model_bytes, context_bytes, compute_bytes;
  uint64_t device_bytes[VRAM_LLAMA_MAX_DEVICES];
  /* CUDA context, kernels, ggml-cuda's scratch pool, cuBLAS, graphs: in no buffer and no sum.
     context_bare: of it the context before any kernel is loaded, which a process has as soon as it
     asks for the free memory */
  vram_bounds beside[VRAM_LLAMA_MAX_DEVICES], context_bare[VRAM_LLAMA_MAX_DEVICES];
  uint64_t host_bytes, total_bytes; /* output_bytes included */
  vram_llama_known compute;
  vram_llama_extra extra;
  uint8_t flash_attention;
  uint8_t architecture_is_known; /* 0: taken for a plain transformer */
} vram_llama_report;

#if !defined(VRAM_NO_READ)
/* What llama.cpp allocates for f, a whole GGUF file (vram_file_finish). The memory is only used
   while it works; VRAM_LLAMA_MEMORY bytes are enough for every model.
     VRAM_ERR_UNSUPPORTED  no GGUF file; a combination of options that llama.cpp refuses
     VRAM_ERR_VALUE        a hyperparameter is missing or out of range
     VRAM_ERR_OVERFLOW     more than 2^63-1 bytes
     VRAM_ERR_MEMORY       the memory is too small */
#define VRAM_LLAMA_MEMORY (UINT64_C(1) << 22)
VRAM_API vram_result vram_llama(const vram_file *f, const vram_llama_options *o, void *memory,
                                uint64_t bytes, vram_llama_report *r, vram_error *e);
#endif
