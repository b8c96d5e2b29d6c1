#pragma once
#include "api/dtype.h"
#include "api/kv.h"
#include "api/types.h"
/* >>serve ====================================================================================
   How many tokens a serving engine keeps on a device: vLLM's and SGLang's budgets. Both take what
   is left of a share of the device after weights and a trial run, and cut it into blocks. Blocks,
   groups and tokens of so many bytes are exact; how much the trial run leaves is a range.

     vram_serve_options o = VRAM_ZERO_INIT;
     vram_serve_report r;
     o.device_bytes = ..., o.weights_bytes = ..., o.max_model_len = 32768;
     vram_serve(&kv, &o, &r, &e)                        r.low, r.high: blocks, tokens           */

typedef enum vram_engine { VRAM_ENGINE_VLLM, VRAM_ENGINE_SGLANG, VRAM_ENGINE_COUNT } vram_engine;

enum { VRAM_SERVE_MAX_GROUPS = 64, VRAM_SERVE_MAX_ROWS = 64 };

/* All zero: the defaults of the newest rules. All bytes are those of one rank. */
typedef struct vram_serve_options {
  vram_engine engine;
  const char *rules;      /* a version, "0.33.0"; NULL: the newest */
  uint64_t device_bytes;  /* of the device as the driver reports it */
  double utilization;     /* share of it: gpu_memory_utilization, mem_fraction_static; 0: default */
  uint64_t kv_bytes;      /* known (--kv-cache-memory, a log): no range then; 0: not known */
  uint64_t weights_bytes; /* of a rank */
  uint64_t max_model_len; /* tokens of one request; needed */
  uint64_t batched_tokens; /* max_num_batched_tokens, chunked_prefill_size; 0: by the device */
  uint64_t sequences; /* max_num_seqs; SGLang: the largest batch with a CUDA graph; 0: the same */
  uint32_t tp;        /* ranks that share the heads; 0: 1 */
  uint32_t block;     /* tokens of a block; 0: vLLM 16, SGLang 1, but where `cc` decides */
  uint32_t cc;        /* compute capability, 90 for 9.0; 0: not known, older than Hopper */
  uint32_t batches;   /* that are on their way at once; 0: as the rules have it */
  uint32_t draft;     /* tokens of speculative decoding: as many states more for a request */
  vram_dtype cache;   /* of keys and values; VRAM_DTYPE_NONE: as the rows have it */
  uint32_t hidden, intermediate, vocab; /* of the model, for the trial run; 0: not known */
  uint32_t experts_used;                /* of a token; intermediate is that of all of them then */
  vram_dtype activations;               /* of the trial run; VRAM_DTYPE_NONE: bf16 */
  uint8_t eager;                        /* no CUDA graphs */
  uint8_t prefix_states;   /* prefix caching of states (mamba_cache_mode align): two of them */
  uint8_t no_prefix;       /* no prefix caching; neither of both: as the rules have it */
  uint8_t delta_states;    /* states are those of gated delta nets: from Hopper on one more */
  uint8_t buffered_states; /* SGLang computes the next states meanwhile: two more of a request */
  uint8_t no_hybrid;       /* windows take blocks for all tokens */
  uint8_t hybrid_chunks;   /* chunks do not (VLLM_ALLOW_CHUNKED_LOCAL_ATTN_WITH_HYBRID_KV_CACHE) */
  uint8_t offline;         /* the class LLM instead of a server: larger batches */
} vram_serve_options;

/* Layers that share a table of blocks. */
typedef struct vram_serve_group {
  vram_kv_kind kind;           /* of its first layer */
  uint32_t layers;             /* the places of the block that it takes */
  uint64_t block;              /* tokens; of states: not read */
  uint64_t page_bytes;         /* of one layer and block, of the largest layer where they differ */
  uint64_t bytes;              /* of one block, all layers */
  uint64_t blocks_per_request; /* of max_model_len tokens */
} vram_serve_group;

/* What so many bytes for the cache give. */
typedef struct vram_serve_result {
  uint64_t kv_bytes;
  uint64_t blocks;    /* one of them is vLLM's null block */
  uint64_t states;    /* SGLang: of requests, in a pool of their own (max_mamba_cache_size) */
  uint64_t tokens;    /* as the engine logs them ("GPU KV cache size") */
  double concurrency; /* requests of max_model_len tokens */
  uint8_t serves_one; /* a request of max_model_len tokens fits: else the engine does not start */
} vram_serve_result;

/* What beside weights and cache takes room. */
typedef enum vram_serve_term {
  VRAM_SERVE_ACTIVATIONS, /* peak of the trial run */
  VRAM_SERVE_GRAPHS,      /* CUDA graphs */
  VRAM_SERVE_CONTEXT,     /* CUDA context, modules, NCCL, libraries' workspaces */
  VRAM_SERVE_TERM_COUNT
} vram_serve_term;

typedef struct vram_serve_range {
  uint64_t low, high;
  const char *why; /* what they rest on */
} vram_serve_range;

typedef struct vram_serve_report {
  const char *rules;        /* the version whose rules these are */
  uint64_t requested_bytes; /* share of the device */
  uint64_t block_bytes;     /* of one block, all layers */
  uint64_t batched_tokens, sequences;
  double utilization;
  uint32_t ngroup;
  vram_serve_group group[VRAM_SERVE_MAX_GROUPS]; /* the first of them, if there are more */
  uint64_t groups, blocks_per_request;           /* of all groups */
  vram_serve_range term[VRAM_SERVE_TERM_COUNT];
  vram_serve_result low, high; /* equal where kv_bytes was given */
} vram_serve_report;

#ifndef VRAM_NO_KV
/* The name of an engine and of its newest rules. */
VRAM_API const char *vram_engine_name(vram_engine engine);

/* The engine of a name (a zero-terminated text), and its i-th version of rules, the newest first;
   NULL: there are no more. */
VRAM_API vram_result vram_engine_find(const char *name, vram_engine *engine);
VRAM_API const char *vram_engine_rules(vram_engine engine, uint32_t i);

/* What the engine makes of the model's caches. kv->block and kv->ahead are not read.
     VRAM_ERR_VALUE        no max_model_len, a utilization above 1, neither device nor kv_bytes
     VRAM_ERR_UNSUPPORTED  caches that the engine refuses; unknown rules
     VRAM_ERR_DTYPE        a cache in blocks of ggml
     VRAM_ERR_LIMIT        more than VRAM_SERVE_MAX_ROWS kinds of layers
     VRAM_ERR_OVERFLOW     sizes that do not fit */
VRAM_API vram_result vram_serve(const vram_kv *kv, const vram_serve_options *o,
                                vram_serve_report *r, vram_error *e);
#endif
