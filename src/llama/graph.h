/* >>llama/graph    a graph as ggml-alloc and ggml's scheduler see it */
#pragma once
#include "llama/llama.h"

enum {
  VRAM__GRAPH_SOURCES = 8,
  VRAM__GRAPH_BLOCKS = 256, /* MAX_FREE_BLOCKS */
  VRAM__GRAPH_BUFFERS = VRAM_LLAMA_MAX_DEVICES + 1,
  VRAM__GRAPH_INPUTS = 256
};

/* What a tensor is to the allocator. */
enum {
  VRAM__NODE_IN_PLACE = 1u, /* ggml_op_can_inplace: may take over the place of a source */
  VRAM__NODE_INPUT = 2u,    /* lies on the host before the graph runs, and may not be overwritten
                               before its last use */
  VRAM__NODE_OUTPUT = 4u,   /* is never freed */
  VRAM__NODE_FOREIGN = 8u,  /* a weight or a cache: in a buffer of its own */
  VRAM__NODE_IS_PLACED = 16u,
  VRAM__NODE_IS_VISITED = 32u, /* is in the order, or on the way to it */
  VRAM__NODE_WEIGHT = 64u,     /* foreign, too */
  VRAM__NODE_FLASH = 256u,     /* flash attention; `home` is where its layer's weights are */
  VRAM__NODE_ON_HOST = 512u,   /* no kernel of a device computes it */
  VRAM__NODE_LATER = 16384u,   /* fused: behind the next node, of another split maybe */
  VRAM__NODE_STRIDED = 1024u,  /* a part of each row of another: a copy of it has gaps, too */
  VRAM__NODE_LEAF = 8192u,     /* is there before the graph runs, and no input */
  VRAM__NODE_WRITES = 4096u,   /* a view, and yet computed: rows are written over it */
  VRAM__NODE_FUSED = 128u      /* no tensor: its sources live until here if one split of a device
                                  has all from `view` on */
};

typedef struct vram__graph_node {
  uint64_t bytes, offset;
  const vram_file_tensor *weight; /* NULL: none */
  uint64_t room;                  /* bytes more on a device */
  uint64_t apart; /* of flash attention, where K and V are copied there, one by one */
  uint64_t ne[3];
  int32_t source[VRAM__GRAPH_SOURCES];
  int32_t view; /* of whose memory this is a part; -1: it has its own */
  int32_t copy; /* its first copy on another device, and a copy's next; -1: none */
  int32_t user; /* by which it was reached (vram__build_expand); -1: none */
  uint32_t nchild, nview;
  uint16_t flags;
  uint8_t nsource, nvisited; /* the latter: of the sources */
  int8_t buffer;             /* -1: that of its neighbours */
  int8_t home;
} vram__graph_node;

/* Free memory of one buffer, sorted by offset; the last block has no end. */
typedef struct vram__graph_heap {
  uint64_t offset[VRAM__GRAPH_BLOCKS], bytes[VRAM__GRAPH_BLOCKS];
  uint64_t alignment, peak;
  uint32_t n;
} vram__graph_heap;

typedef struct vram__graph {
  vram__graph_node *node;
  int32_t *order; /* nodes as they are computed; inputs and weights are in none */
  int32_t input[VRAM__GRAPH_INPUTS]; /* as they were reached */
  uint32_t ninput;
  uint32_t nnode, norder, cap;
  uint32_t nbuffer;       /* the host is the last */
  uint8_t is_pipeline;    /* several batches at a time */
  uint8_t is_given_up;    /* the memory was too small, or a layer is none that is built */
  vram__graph_heap *heap; /* nbuffer of them */
} vram__graph;

/* graph_alloc.c */
VRAM__FN void vram__heap_begin(vram__graph_heap *h, uint64_t alignment);
VRAM__FN int vram__graph_place(vram__graph *g);

/* graph_split.c */
VRAM__FN void vram__graph_spread(vram__graph *g);
VRAM__FN void vram__graph_split(vram__graph *g);

/* ---- the worst graph of an architecture ----
   Built as llama.cpp builds it, line by line: nodes first, in any order; vram__build_expand puts a
   node behind all that it is computed from, as ggml_build_forward_expand does. Where llama.cpp
   expands, it is done here. */

enum {
  VRAM__BUILD_EXPERTS = 64, /* used for a token, at most */
  VRAM__BUILD_REDUCED = 15  /* MOE_WEIGHTED_REDUCTION_MAX_EXPERTS of ggml-cuda */
};

/* What an architecture's graph has that its tensors do not show (llama.cpp: src/models). */
/* clang-format off */
#define VRAM__BUILD_SCALE_INPUT (UINT64_C(1) << 0)     /* embeddings are scaled */
#define VRAM__BUILD_SCALE_Q (UINT64_C(1) << 1)
#define VRAM__BUILD_ROWS_LAST (UINT64_C(1) << 2)       /* output rows are chosen behind the last layer */
#define VRAM__BUILD_NO_ROPE (UINT64_C(1) << 3)         /* positions by a table, or none */
#define VRAM__BUILD_SCALE_LOGITS (UINT64_C(1) << 4)    /* in place */
#define VRAM__BUILD_CAP_SCORES (UINT64_C(1) << 5)      /* attention's soft cap */
#define VRAM__BUILD_LATE_SOFTMAX (UINT64_C(1) << 6)    /* over the chosen experts */
#define VRAM__BUILD_NORM_EXPERTS (UINT64_C(1) << 7)    /* weights of the chosen experts add up to 1 */
#define VRAM__BUILD_RESIDUAL_FIRST (UINT64_C(1) << 8)  /* behind the feed-forward: the sum takes over its place */
#define VRAM__BUILD_INPUT_FIRST (UINT64_C(1) << 9)     /* behind attention: the sum takes over the input's place */
#define VRAM__BUILD_MEAN (UINT64_C(1) << 10)           /* LayerNorm, which is never in place */
#define VRAM__BUILD_RELU_SQUARED (UINT64_C(1) << 11)
#define VRAM__BUILD_ROWS_NORM (UINT64_C(1) << 12)      /* output rows are chosen behind the output's norm */
#define VRAM__BUILD_NORM_AFTER (UINT64_C(1) << 13)     /* attention and feed-forward have a norm behind them only */
#define VRAM__BUILD_ROPE_SLIDING (UINT64_C(1) << 14)   /* layers that attend to everything have no positions */
#define VRAM__BUILD_ROPE_FIRST (UINT64_C(1) << 16)     /* norms of Q and K are behind the positions */
#define VRAM__BUILD_SCALE_SUMS (UINT64_C(1) << 17)     /* what is added to the residual, if the file says so */
#define VRAM__BUILD_ATTENTION_NEXT (UINT64_C(1) << 18) /* parallel: attention is added before the input */
#define VRAM__BUILD_SIGMOID (UINT64_C(1) << 19)        /* of the router, if the file does not say which */
#define VRAM__BUILD_NORM_SAID (UINT64_C(1) << 20)      /* whether experts' weights add up to 1, the file says */
#define VRAM__BUILD_ROPE_OF_FOUR (UINT64_C(1) << 21)   /* each fourth layer has no positions */
#define VRAM__BUILD_FOUR_POSITIONS (UINT64_C(1) << 22) /* of each token */
#define VRAM__BUILD_LIMITS (UINT64_C(1) << 39)          /* of what a gate lets through, if the file says so */
#define VRAM__BUILD_ATTENTION_FIRST (UINT64_C(1) << 40) /* parallel: the feed-forward is added to attention */
#define VRAM__BUILD_NO_WEIGHTS (UINT64_C(1) << 41)      /* norms of the layers and of the output have none */
#define VRAM__BUILD_CLAMPS (UINT64_C(1) << 42)          /* Q, K and V, if the file says so */
#define VRAM__BUILD_NORMS_GROK (UINT64_C(1) << 43)      /* attn_output_norm is behind attention */
#define VRAM__BUILD_NORMS_DBRX (UINT64_C(1) << 44)      /* attn_output_norm is the feed-forward's */
#define VRAM__BUILD_DENSE_TOO (UINT64_C(1) << 45)       /* behind experts: half of both */
#define VRAM__BUILD_ROWS_AFTER (UINT64_C(1) << 46)      /* output rows are chosen behind attention's norm */
#define VRAM__BUILD_MEAN_HEADS (UINT64_C(1) << 47)      /* norms of Q and K are LayerNorms */
#define VRAM__BUILD_HALVES (UINT64_C(1) << 48)          /* the sum with shared experts is halved */
#define VRAM__BUILD_ROUTED_BEFORE (UINT64_C(1) << 49)   /* the router takes the layer's input */
#define VRAM__BUILD_ROPE_LEADING (UINT64_C(1) << 50)    /* so have the leading dense layers */
#define VRAM__BUILD_SCALE_NORM (UINT64_C(1) << 51)      /* of the output, before its matrix */
#define VRAM__BUILD_ROWS_ALL (UINT64_C(1) << 52)        /* logits of all tokens, whoever wants them */
#define VRAM__BUILD_TEMPERED (UINT64_C(1) << 53)        /* Q times a number of each token, if the file says so */
#define VRAM__BUILD_GROVE (UINT64_C(1) << 54)           /* experts are chosen by logits, not by probabilities */
#define VRAM__BUILD_WIDE_DOWN (UINT64_C(1) << 55)       /* experts' last matrix takes f32: no kernel of a device */
#define VRAM__BUILD_NO_LOGITS (UINT64_C(1) << 56)       /* embeddings alone */
#define VRAM__BUILD_SCALES (UINT64_C(1) << 57)          /* each matrix has a scale, if the file has it */
#define VRAM__BUILD_NO_CACHE (UINT64_C(1) << 59)        /* attention is among the tokens, though there is a cache */
#define VRAM__BUILD_FOUR_SAID (UINT64_C(1) << 15)       /* positions of each token, if the file has sections */
#define VRAM__BUILD_SET_LOGITS (UINT64_C(1) << 58)      /* some of them, out of place */
#define VRAM__BUILD_WEIGH_FIRST (UINT64_C(1) << 60)     /* experts' input is weighted: llama4 */
#define VRAM__BUILD_UNIT_HEADS (UINT64_C(1) << 61)      /* Q and K have norms without weights, or none has positions: llama4 */
#define VRAM__BUILD_STREAMED (UINT64_C(1) << 62)        /* several states of each token: gemma3n */
#define VRAM__BUILD_SHARED_SIGMOID (UINT64_C(1) << 63)  /* the shared experts' gate: one op */
/* clang-format on */

typedef struct vram__build {
  const vram__llama *m;
  vram__graph *g;
  uint64_t tokens, outputs, flags;
  uint32_t il;
  uint32_t layer_first; /* node of the layer */
  int32_t device;       /* of the layer's weights: number of a buffer */
  int32_t host;
  int32_t index_rotation, chosen; /* of an indexer, or -1 */
  int32_t first_value;            /* rwkv7: V of the first layer, or -1 */
  int32_t each_layer;             /* embeddings of each layer, or -1 */
  int32_t positions, out_ids, temperature;
  int32_t states, states_extra; /* rows of recurrent states: those used, those only kept */
  int32_t k_rotation[VRAM_LLAMA_MAX_CACHES], v_rotation[VRAM_LLAMA_MAX_CACHES];
  int32_t k_index[VRAM_LLAMA_MAX_CACHES], v_index[VRAM_LLAMA_MAX_CACHES];
  int32_t mask[VRAM_LLAMA_MAX_CACHES];
  int32_t factors[VRAM__GRAPH_BUFFERS];   /* of rope: in each buffer that has a layer */
  int32_t crossed, crossed_mask, buckets; /* of t5 */
  const char *stack;                      /* of t5: before the names of weights */
  uint8_t pins_attention;                 /* to the host */
} vram__build;

/* graph_node.c */
VRAM__FN vram__graph_node *vram__build_at(vram__build *b, int32_t i);
VRAM__FN void vram__build_source(vram__build *b, int32_t node, int32_t source);
VRAM__FN void vram__build_expand(vram__build *b, int32_t node);
VRAM__FN int32_t vram__build_node(vram__build *b, uint64_t n0, uint64_t n1, uint64_t n2, int32_t a);
VRAM__FN int32_t vram__build_map(vram__build *b, int32_t a, int32_t c);
VRAM__FN int32_t vram__build_view(vram__build *b, int32_t a, uint64_t n0, uint64_t n1, uint64_t n2);
VRAM__FN int32_t vram__build_piece(vram__build *b, int32_t a, uint64_t n0, uint64_t n1,
                                   uint64_t n2);
VRAM__FN int32_t vram__build_input(vram__build *b, uint64_t bytes);
VRAM__FN void vram__build_foreign(vram__build *b, int32_t a, int32_t index);
VRAM__FN int32_t vram__build_over(vram__build *b, int32_t a, int32_t rows, int32_t index);
VRAM__FN int32_t vram__build_cached(vram__build *b, vram_dtype type, uint64_t columns,
                                    uint64_t rows);
VRAM__FN int32_t vram__build_fused(vram__build *b, int32_t first, int32_t a);
VRAM__FN void vram__build_beside(vram__build *b, int32_t node, const vram_file_tensor *t);
VRAM__FN const vram_file_tensor *vram__build_weight(const vram__build *b, const char *name);
VRAM__FN const vram_file_tensor *vram__build_global(const vram__build *b, const char *name);
VRAM__FN uint64_t vram__build_width(const vram_file_tensor *t);
VRAM__FN int32_t vram__build_with(vram__build *b, int32_t node, const vram_file_tensor *t);
VRAM__FN int32_t vram__build_multiply(vram__build *b, int32_t node, const vram_file_tensor *t);
VRAM__FN int32_t vram__build_reshaped(vram__build *b, const vram_file_tensor *t);
VRAM__FN int32_t vram__build_where(const vram__build *b, const vram_file_tensor *t);
VRAM__FN void vram__build_taken(vram__build *b, int32_t node, const vram_file_tensor *t);
VRAM__FN int32_t vram__build_bias(vram__build *b, int32_t a, const char *name);
VRAM__FN int32_t vram__build_linear(vram__build *b, int32_t a, const char *name, const char *bias);
VRAM__FN int32_t vram__build_norm(vram__build *b, int32_t a, const char *name, const char *bias);
VRAM__FN int32_t vram__build_rows_of(vram__build *b, int32_t x);
VRAM__FN void vram__build_last_rows(vram__build *b, int is_last, int32_t *x, int32_t *y,
                                    int32_t *z);
VRAM__FN uint64_t vram__build_each(const vram__build *b);
VRAM__FN int32_t vram__build_rope(vram__build *b, int32_t a);

/* graph_attention.c */
typedef struct vram__build_qkv {
  int32_t q, k, v;
  int32_t gate; /* of the result, in one with Q (qwen3next); -1: none */
} vram__build_qkv;

VRAM__FN int32_t vram__build_mask(vram__build *b, int32_t cache, uint64_t cells);
VRAM__FN vram__build_qkv vram__build_project(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_over_cache(vram__build *b, vram__build_qkv a, int32_t bias);
VRAM__FN int32_t vram__build_among(vram__build *b, vram__build_qkv a, int32_t mask, int32_t bias);
VRAM__FN int32_t vram__build_attention(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_shared_attention(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_latent(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_unpacked(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_encode(vram__build *b, int32_t x);

/* graph_experts.c */
VRAM__FN int32_t vram__build_glu(vram__build *b, int32_t gate, int32_t up, uint64_t width);
VRAM__FN int32_t vram__build_dense(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_chunks(vram__build *b, int32_t x, int32_t logits);
VRAM__FN int32_t vram__build_moe(vram__build *b, int32_t x, int32_t logits);
VRAM__FN int32_t vram__build_forward(vram__build *b, int32_t x, int32_t logits);

/* graph_state.c */
VRAM__FN int32_t vram__build_state(vram__build *b, uint64_t width);
VRAM__FN int32_t vram__build_convolve(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_mamba(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_mamba2(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_plamo2(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_beside_state(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_shortconv(vram__build *b, int32_t x);

/* graph_delta.c */
VRAM__FN int32_t vram__build_delta(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_kimi(vram__build *b, int32_t x);

/* graph_layers.c */
VRAM__FN int32_t vram__build_behind(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_arctic(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_deci(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_grove(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_swin(vram__build *b, int32_t x, int is_last);

/* graph_t5.c */
VRAM__FN int32_t vram__build_t5(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_t5_encoder(vram__build *b, int32_t x, int is_last);

/* graph_output.c */
VRAM__FN void vram__build_end(vram__build *b, int32_t x);

/* graph_gemma.c */
VRAM__FN void vram__build_each_layer(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_streams_begin(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_streams_end(vram__build *b, int32_t x);
VRAM__FN int32_t vram__build_gemma4(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_gemma3n(vram__build *b, int32_t x, int is_last);

/* graph_rwkv.c */
VRAM__FN int32_t vram__build_rwkv(vram__build *b, int32_t x, int is_last);
VRAM__FN int32_t vram__build_rwkv_qwen(vram__build *b, int32_t x, int is_last);

/* graph_indexer.c */
VRAM__FN void vram__build_index(vram__build *b, int32_t x, int32_t latent);
VRAM__FN int32_t vram__build_unhidden(vram__build *b, int32_t mask, uint64_t cells,
                                      uint64_t streams);

/* graph_known.c */
VRAM__FN int vram__build_knows(const vram__llama *m, uint64_t flags);
VRAM__FN int vram__build_is_fused(const vram__build *b);

/* graph_build.c */
VRAM__FN int32_t vram__build_mix(vram__build *b, int32_t x);
VRAM__FN void vram__llama_resolve(vram__llama *m, void *memory, uint64_t bytes);
VRAM__FN void vram__llama_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                  vram_llama_report *r);
