#pragma once
#include "api/dtype.h"
#include "api/types.h"
/* >>kv =======================================================================================
   What a model keeps of the tokens that it has seen: the caches of its layers, whoever holds them
   (llama.cpp, transformers, a serving engine). What decides is written down in rows, and a function
   says how many bytes that is for a token, for a sequence and for all of them: llama.cpp's slots,
   transformers' batch, an engine's requests. config.json as rows: vram_hf_kv_rows,
   vram_hf_serve_rows. Macros for the same at compile time: VRAM_KV_CACHE_BYTES and its neighbours.

     vram_kv_layer layer[2] = {VRAM_ZERO_INIT};           5 full layers, 29 with a window
     vram_kv kv = {layer, 2, 256, 512};
     layer[0].kind = VRAM_KV_FULL, layer[0].count = 5, layer[0].heads = 4, ...
     layer[1].kind = VRAM_KV_SLIDING, layer[1].count = 29, ..., layer[1].window = 1024;
     vram_kv_bytes(&kv, 16384, 4, &report, &e)                                                  */

typedef enum vram_kv_kind {
  VRAM_KV_NONE,    /* keeps nothing: no attention, or it reads the cache of an earlier layer */
  VRAM_KV_FULL,    /* keys and values of all tokens */
  VRAM_KV_SLIDING, /* of the last `window` tokens */
  VRAM_KV_CHUNKED, /* of the tokens since the last multiple of `window` */
  VRAM_KV_LATENT,  /* one row of k_dim elements a token, for all heads (MLA); no values */
  VRAM_KV_STATE,   /* a state of constant size: state-space, linear attention, convolution */
  VRAM_KV_KIND_COUNT
} vram_kv_kind;

enum { VRAM_KV_MAX_STATES = 4 };

/* Layers that are alike. A layer with attention and a state is in two rows. */
typedef struct vram_kv_layer {
  vram_kv_kind kind;
  uint32_t count;  /* of layers */
  uint32_t heads;  /* of keys and values; VRAM_KV_LATENT: not read */
  uint32_t k_dim;  /* elements of a key's head, or of the latent row */
  uint32_t v_dim;  /* of a value's head */
  vram_dtype k, v; /* ggml's quantised types too: a block must divide heads * dim */
  uint64_t window; /* tokens; of VRAM_KV_SLIDING and VRAM_KV_CHUNKED */
  uint32_t nstate; /* tensors of a VRAM_KV_STATE, */
  vram_dtype state[VRAM_KV_MAX_STATES]; /* their dtypes and elements for a sequence */
  uint64_t state_elements[VRAM_KV_MAX_STATES];
} vram_kv_layer;

typedef struct vram_kv {
  const vram_kv_layer *layer;
  uint32_t nlayer; /* rows */
  uint64_t block;  /* tokens are held in multiples of it: pages, padding; 0: 1 */
  uint64_t ahead;  /* tokens that windows hold beside theirs: those of one batch */
} vram_kv;

typedef struct vram_kv_report {
  uint64_t token_bytes;    /* that a token adds where nothing is given up */
  uint64_t state_bytes;    /* constant, of a sequence */
  uint64_t sequence_bytes; /* of one sequence, states included */
  uint64_t total_bytes;    /* of all sequences */
  uint64_t layers;         /* that keep something */
} vram_kv_report;

#ifndef VRAM_NO_KV
/* Tokens that a layer of this row holds for a sequence of `tokens`, a multiple of kv->block.
   VRAM_OVERFLOW where it does not fit. */
VRAM_API uint64_t vram_kv_tokens(const vram_kv *kv, const vram_kv_layer *l, uint64_t tokens);

/* Bytes of each tensor of one layer of this row when it holds so many tokens (of states they are
   not read): keys and values, the latent rows, the states; *n: how many there are.
     VRAM_ERR_VALUE     no such kind, too many states
     VRAM_ERR_DTYPE, VRAM_ERR_BLOCK, VRAM_ERR_OVERFLOW: as vram_dtype_rows_bytes says them. */
VRAM_API vram_result vram_kv_layer_parts(const vram_kv_layer *l, uint64_t tokens,
                                         uint64_t part[VRAM_KV_MAX_STATES], uint32_t *n);

/* The sum of them; after an error *bytes is VRAM_OVERFLOW. */
VRAM_API vram_result vram_kv_layer_bytes(const vram_kv_layer *l, uint64_t tokens, uint64_t *bytes);

/* What `sequences` sequences of `tokens` tokens keep. After an error (e, which may be NULL, names
   the row) all bytes of the report are VRAM_OVERFLOW. */
VRAM_API vram_result vram_kv_bytes(const vram_kv *kv, uint64_t tokens, uint64_t sequences,
                                   vram_kv_report *r, vram_error *e);
#endif
