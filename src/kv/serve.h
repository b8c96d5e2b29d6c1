/* >>kv/serve    what the rules of engines share */
#pragma once
#include "core/core.h"

/* What differs between versions. */
typedef struct vram__serve_rules {
  vram_engine engine;
  const char *version;
  double utilization;    /* 0: by the size of the device, kv/sglang.c */
  uint32_t batches;      /* on their way at once */
  uint8_t even_groups;   /* the largest kind is the size of a group if below 1.5 of the smallest */
  uint8_t by_requests;   /* tokens logged are concurrency * max_model_len */
  uint8_t counts_graphs; /* CUDA graphs are measured before the cache is cut */
  uint8_t caches_states; /* prefix caching of states is on where layers attend beside them */
  uint8_t checkpoints;   /* and gated delta nets keep one more (vLLM); larger tiers (SGLang) */
  uint8_t small_pages;   /* MLA on Blackwell: pages of 32 tokens; SGLang: of 64 without MLA */
} vram__serve_rules;

/* A kind of layer as the engine sees it: rows that are alike, of one rank. */
typedef struct vram__spec {
  vram_kv_layer row;
  uint64_t count, block, page;
} vram__spec;

typedef struct vram__serve {
  const vram_serve_options *o;
  const vram__serve_rules *rules;
  vram_serve_report *r;
  vram_error *e;
  uint64_t tp, block;
  uint32_t nspec;
  vram__spec spec[VRAM_SERVE_MAX_ROWS];
} vram__serve;

/* Sizes above this are nobody's; products of two of them cannot wrap. */
#define VRAM__SERVE_MOST (UINT64_C(1) << 31)
#define VRAM__SERVE_LAYERS 65536
#define VRAM__MIB(n) ((uint64_t)(n) << 20)

/* A double as Python has it: i387 keeps more digits until a number is stored. */
static inline double vram__serve_rounded(double v) {
  volatile double stored = v;
  return stored;
}

static inline int vram__kv_has_window(vram_kv_kind kind) {
  return kind == VRAM_KV_SLIDING || kind == VRAM_KV_CHUNKED;
}

/* specs.c */
VRAM__FN vram_result vram__serve_fail(vram__serve *s, vram_result code, const char *text);
VRAM__FN vram_result vram__spec_page(vram__serve *s, vram__spec *p);
VRAM__FN vram_result vram__spec_add(vram__serve *s, const vram_kv_layer *l);
VRAM__FN void vram__spec_merge(vram__serve *s);
VRAM__FN int vram__serve_has(const vram__serve *s, vram_kv_kind kind);
VRAM__FN int vram__serve_attends(const vram__serve *s);
VRAM__FN void vram__serve_group(vram__serve *s, const vram__spec *p, uint64_t layers,
                                uint64_t bytes, uint64_t blocks);

/* vllm.c, sglang.c */
VRAM__FN void vram__vllm_batch(const vram__serve *s);
VRAM__FN vram_result vram__vllm_plan(vram__serve *s);
VRAM__FN void vram__vllm_result(const vram__serve *s, vram_serve_result *to);
VRAM__FN void vram__sglang_batch(const vram__serve *s);
VRAM__FN double vram__sglang_fraction(const vram__serve *s);
VRAM__FN vram_result vram__sglang_plan(vram__serve *s);
VRAM__FN void vram__sglang_result(const vram__serve *s, vram_serve_result *to);

/* budget.c */
VRAM__FN void vram__serve_budget(const vram__serve *s);
