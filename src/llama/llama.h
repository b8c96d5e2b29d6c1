/* >>llama    a model and its context as llama.cpp sees them */
#pragma once
#include "read/read.h"

enum {
  VRAM__LLAMA_LAYERS = 512,  /* LLAMA_MAX_LAYERS */
  VRAM__LLAMA_EXPERTS = 1024 /* LLAMA_MAX_EXPERTS */
};

/* What an architecture keeps from one token to the next (llama-model.cpp: create_memory). */
typedef enum vram__llama_memory {
  VRAM__LLAMA_KV,        /* a KV cache of each layer */
  VRAM__LLAMA_NO_MEMORY, /* encoders and diffusion models */
  VRAM__LLAMA_RECURRENT, /* a state of each layer */
  VRAM__LLAMA_HYBRID     /* either, or both, as the layer is */
} vram__llama_memory;

/* Which layers of a hybrid model are recurrent. */
typedef enum vram__llama_layers {
  VRAM__LLAMA_LAYERS_NONE,
  VRAM__LLAMA_LAYERS_ALL,
  VRAM__LLAMA_LAYERS_NO_KV,       /* those without KV heads */
  VRAM__LLAMA_LAYERS_NO_KV_NO_FF, /* those with neither KV heads nor a feed-forward width */
  VRAM__LLAMA_LAYERS_INTERVAL     /* all but each full_attention_interval-th */
} vram__llama_layers;

/* Flags of an architecture. */
enum {
  VRAM__LLAMA_DENSE_FIRST = 1u,   /* the first layer of a period attends to everything */
  VRAM__LLAMA_CHUNKED = 2u,       /* attends within chunks: llama4 */
  VRAM__LLAMA_NORM_OUT = 4u,      /* token_embd_norm is the output's norm: lfm2 */
  VRAM__LLAMA_TWO_STACKS = 8u,    /* encoder and decoder: t5 */
  VRAM__LLAMA_ALL_KV = 16u,       /* recurrent layers have a KV cache too: falcon-h1 */
  VRAM__LLAMA_NO_FLASH = 32u,     /* flash attention is always off: grok */
  VRAM__LLAMA_INDEXER = 64u,      /* a second cache, of the indexer's keys */
  VRAM__LLAMA_ROPE_DENSE = 128u,  /* layers that slide have no rope factors: gemma4 */
  VRAM__LLAMA_NO_OUTPUT = 256u,   /* encoders: no matrix of logits */
  VRAM__LLAMA_DELTA = 512u,       /* gated delta nets: ssm_a is multiplied with, nothing scans */
  VRAM__LLAMA_TWO_TABLES = 1024u, /* the output's copy of the table of words is never shared */
  VRAM__LLAMA_ONE_TABLE = 4096u   /* logits by the table of words itself, where that lies: bitnet */
};

typedef struct vram__llama_architecture {
  const char *name;
  uint8_t memory;    /* vram__llama_memory */
  uint8_t recurrent; /* vram__llama_layers */
  uint8_t period;    /* of sliding layers, one of which attends to everything; 0: none slides */
  uint16_t window;   /* where the file has none */
  uint16_t flags;
} vram__llama_architecture;

/* One layer. Heads and widths as the file has them; 0: the layer has no such part. */
typedef struct vram__llama_layer {
  uint32_t n_head, n_head_kv, n_ff;
  uint32_t head_k, head_v; /* elements of a head: of a sliding layer its own */
  uint32_t n_rot;
  int32_t device; /* of its weights; -1: host */
  int32_t cache;  /* number in vram__llama.cache; -1: no KV of its own */
  uint32_t reads; /* the layer whose KV it reads: itself, or an earlier one */
  uint32_t is_recurrent;
  uint8_t slides;
  uint8_t is_nextn; /* predicts tokens ahead: not loaded */
} vram__llama_layer;

/* A model as llama.cpp's hparams, and a context as its cparams. */
typedef struct vram__llama {
  const vram_file *file;
  const vram_llama_options *options;
  const vram__llama_architecture *row; /* that of plain transformers, if the name has none */
  const char *arch;                    /* general.architecture, not terminated */
  uint32_t arch_len;

  uint32_t n_layer; /* block_count, MTP layers included */
  uint32_t n_layer_nextn;
  uint32_t n_layer_kv; /* the first ones that have a cache of their own; the others share theirs */
  uint32_t n_ctx_train, n_embd, n_embd_out, n_vocab;
  uint32_t n_swa; /* 0: no window */
  uint32_t n_expert, n_expert_used;
  uint32_t n_expert_group, n_group_used,
      expert_gating;              /* LLAMA_EXPERT_GATING_FUNC_TYPE: 1 softmax, 2 sigmoid */
  uint32_t n_lora_kv, head_k_mla; /* head_k_mla not 0: MLA */
  uint32_t ssm_d_conv, ssm_d_inner, ssm_d_state, ssm_dt_rank, ssm_n_group;
  uint32_t shortconv_l_cache, wkv_head_size, token_shift_count, kda_head_size;
  uint32_t full_attention_interval, indexer_head_size, n_layer_shared_kv;
  uint32_t head_k, head_v, head_k_swa, head_v_swa; /* before layers differ */
  uint32_t n_embd_r, n_embd_s; /* elements of a recurrent layer's states, for each sequence */
  uint8_t is_known;            /* 0: no row has the name */
  uint8_t is_causal;
  uint8_t is_tied; /* the table of words is the output's matrix, too */
  vram__llama_layer layer[VRAM__LLAMA_LAYERS];

  int32_t input_device, output_device; /* -1: host */
  uint32_t ndevice;                    /* 0: CPU alone */
  uint32_t n_gpu_layers;               /* as asked for, at most n_layer + 1 */

  uint32_t n_ctx, n_ctx_seq, n_stream, n_seq, n_batch, n_ubatch;
  uint32_t n_outputs; /* rows of logits at most (n_outputs_max) */
  vram_dtype k_type, v_type;
  uint8_t flash_attention;
  uint8_t transposes_v; /* in its cache */
  uint8_t offloads_kv;

  uint32_t ncache;
  vram_llama_cache cache[VRAM_LLAMA_MAX_CACHES];
} vram__llama;

/* arch.c */
VRAM__FN const vram__llama_architecture *vram__llama_architecture_find(const char *name,
                                                                       uint32_t len);

/* hparams.c */
VRAM__FN const vram_file_value *vram__llama_get(const vram__llama *l, const char *key);
VRAM__FN int vram__llama_is_whole(uint32_t kind);
VRAM__FN double vram__llama_real(const vram__llama *l, const char *key);
VRAM__FN vram_result vram__llama_read(vram__llama *l, vram_error *e);

/* context.c */
VRAM__FN uint64_t vram__llama_widest_v(const vram__llama *l);
VRAM__FN int vram__llama_is_indexed(const vram__llama *l, uint32_t i);
VRAM__FN int vram__llama_is_quantised(vram_dtype t);
VRAM__FN vram_result vram__llama_settle(vram__llama *l, vram_error *e);
VRAM__FN vram_result vram__llama_context(vram__llama *l, vram_llama_report *r, vram_error *e);

/* extra.c */
VRAM__FN int vram__llama_count_extra(vram__llama *l, vram_llama_report *r);

/* beside.c */
VRAM__FN void vram__llama_beside(const vram__llama *l, vram_llama_report *r);

/* weights.c */
VRAM__FN void vram__llama_place(vram__llama *l);
VRAM__FN vram_result vram__llama_device(const vram__llama *l, const vram_file_tensor *t,
                                        int32_t *device, vram_error *e);
VRAM__FN vram_result vram__llama_overridden(const vram__llama *l, const vram_file_tensor *t,
                                            int32_t *device, vram_error *e);
VRAM__FN int32_t vram__llama_tied_device(const vram__llama *l, const vram_file_tensor *t);
VRAM__FN uint64_t vram__llama_columns(const vram_file_tensor *t);
VRAM__FN int vram__llama_begins(const vram_file_tensor *t, const char *with);
VRAM__FN void vram__llama_weight(const vram__llama *l, vram_llama_report *r,
                                 const vram_file_tensor *t, int32_t device, int is_matrix);
VRAM__FN int vram__llama_holds(const vram_file_tensor *t, const char *part);
VRAM__FN int vram__llama_is_multiplied(vram_dtype type);
VRAM__FN int vram__llama_is_run(const vram__llama *l, const vram_file_tensor *t);
VRAM__FN vram_result vram__llama_weights(const vram__llama *l, vram_llama_report *r, vram_error *e);

/* pattern.c */
VRAM__FN vram_result vram__llama_pattern_find(const vram_llama_override *p, const char *name,
                                              uint32_t len, int *found);

/* llama.c */
VRAM__FN vram_llama_buffer *vram__llama_buffer(vram_llama_report *r, const char *name,
                                               int32_t device);
VRAM__FN uint64_t vram__llama_padded(vram_dtype type, uint64_t columns, uint64_t bytes,
                                     int is_on_gpu);
VRAM__FN uint64_t vram__llama_tensor_bytes(vram_dtype type, uint64_t rows, uint64_t columns,
                                           int is_on_gpu);
