/* >>kv/serve    vLLM's and SGLang's budgets: groups, blocks, tokens */
#include "core/core.h"

/* What differs between versions. */
typedef struct vram__serve_rules {
  vram_engine engine;
  const char *version;
  double utilization;
  uint32_t block;        /* tokens */
  uint32_t batches;      /* on their way at once */
  uint8_t even_groups;   /* the largest kind is the size of a group if below 1.5 of the smallest */
  uint8_t by_requests;   /* tokens logged are concurrency * max_model_len */
  uint8_t counts_graphs; /* CUDA graphs are measured before the cache is cut */
  double window_share;   /* SGLang: tokens of the pool of windows, of those of the full one */
} vram__serve_rules;

/* vLLM: vllm/v1/core/kv_cache_utils.py, kv_cache_planning.py (0.33), kv_cache_interface.py,
   config/cache.py, v1/worker/gpu_worker.py. 0.19: tokens are blocks / groups * the smallest block
   (kv_cache_utils.py), one batch more since scheduling became asynchronous. 0.10: commit bbf906a.
   SGLang: srt/model_executor/pool_configurator.py, server_args.py (commit 003fca8). */
static const vram__serve_rules vram__serve_versions[] = {
    {VRAM_ENGINE_VLLM, "0.33.0", 0.92, 16, 2, 1, 1, 1, 0},
    {VRAM_ENGINE_VLLM, "0.19.0", 0.9, 16, 1, 1, 0, 0, 0},
    {VRAM_ENGINE_VLLM, "0.10.0", 0.9, 16, 1, 0, 0, 0, 0},
    {VRAM_ENGINE_SGLANG, "0.5.8", 0.88, 1, 1, 0, 0, 0, 0.8},
};
enum { VRAM__SERVE_VERSIONS = sizeof vram__serve_versions / sizeof *vram__serve_versions };

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

static VRAM__COLD vram_result vram__serve_fail(vram__serve *s, vram_result code, const char *text) {
  vram__error_begin(s->e, code, 0, vram_engine_name(s->o->engine));
  vram__error_text(s->e, ": ");
  vram__error_text(s->e, text);
  return code;
}

VRAM_API const char *vram_engine_name(vram_engine engine) {
  return engine == VRAM_ENGINE_VLLM ? "vllm" : engine == VRAM_ENGINE_SGLANG ? "sglang" : "?";
}

VRAM_API vram_result vram_engine_find(const char *name, vram_engine *engine) {
  for (*engine = VRAM_ENGINE_VLLM; *engine < VRAM_ENGINE_COUNT;
       *engine = (vram_engine)(*engine + 1))
    if (vram__text_is(name, vram__text_len(name), vram_engine_name(*engine)))
      return VRAM_OK;
  return VRAM_ERR_NAME;
}

VRAM_API const char *vram_engine_rules(vram_engine engine, uint32_t i) {
  uint32_t k;
  for (k = 0; k < VRAM__SERVE_VERSIONS; k++)
    if (vram__serve_versions[k].engine == engine && !i--)
      return vram__serve_versions[k].version;
  return NULL;
}

/* A double as Python has it: i387 keeps more digits until a number is stored. */
static double vram__serve_rounded(double v) {
  volatile double stored = v;
  return stored;
}

static int vram__kv_has_window(vram_kv_kind kind) {
  return kind == VRAM_KV_SLIDING || kind == VRAM_KV_CHUNKED;
}

/* ---- kinds of layers ------------------------------------------------------------------------ */

/* Bytes of one block of one layer. */
static vram_result vram__spec_page(vram__serve *s, vram__spec *p) {
  const vram_result code = vram_kv_layer_bytes(&p->row, p->block, &p->page);
  if (code)
    return vram__serve_fail(s, code, vram_result_text(code));
  return p->page ? VRAM_OK : vram__serve_fail(s, VRAM_ERR_VALUE, "a layer that keeps no bytes");
}

/* They take the same blocks. */
static int vram__spec_is_equal(const vram__spec *a, const vram__spec *b) {
  const vram_kv_layer *x = &a->row, *y = &b->row;
  uint32_t i;
  if (x->kind != y->kind || a->block != b->block || a->page != b->page)
    return 0;
  if (x->kind == VRAM_KV_STATE) {
    if (x->nstate != y->nstate)
      return 0;
    for (i = 0; i < x->nstate; i++)
      if (x->state[i] != y->state[i] || x->state_elements[i] != y->state_elements[i])
        return 0;
    return 1;
  }
  return x->heads == y->heads && x->k_dim == y->k_dim && x->v_dim == y->v_dim && x->k == y->k &&
         x->v == y->v && (!vram__kv_has_window(x->kind) || x->window == y->window);
}

static void vram__spec_merge(vram__serve *s) {
  uint32_t i, j, n = 0;
  for (i = 0; i < s->nspec; i++) {
    for (j = 0; j < n && !vram__spec_is_equal(&s->spec[j], &s->spec[i]); j++) {
    }
    if (j < n)
      s->spec[j].count += s->spec[i].count;
    else
      s->spec[n++] = s->spec[i];
  }
  s->nspec = n;
}

static int vram__dtype_is_plain(vram_dtype dtype) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  return info && info->block_elements == 1;
}

/* A row of the model as one rank has it: heads are shared, and copied where there are fewer of them
   than ranks; latent rows are copied; states are shared. */
static vram_result vram__spec_add(vram__serve *s, const vram_kv_layer *l) {
  vram__spec *p;
  uint32_t i;
  if (l->kind == VRAM_KV_NONE || !l->count)
    return VRAM_OK;
  if (s->nspec == VRAM_SERVE_MAX_ROWS || l->count > VRAM__SERVE_LAYERS)
    return vram__serve_fail(s, VRAM_ERR_LIMIT, "too many layers or kinds of them");
  p = &s->spec[s->nspec];
  p->row = *l;
  p->count = l->count;
  p->block = l->kind == VRAM_KV_STATE ? 0 : s->block;
  if (l->kind == VRAM_KV_STATE) {
    for (i = 0; i < l->nstate && i < VRAM_KV_MAX_STATES; i++)
      p->row.state_elements[i] = vram__div_up_u64(l->state_elements[i], s->tp);
  } else {
    p->row.heads = l->heads > s->tp ? (uint32_t)(l->heads / s->tp) : 1;
    if (s->o->cache != VRAM_DTYPE_NONE)
      p->row.k = p->row.v = s->o->cache;
    if (!vram__dtype_is_plain(p->row.k) ||
        (l->kind != VRAM_KV_LATENT && !vram__dtype_is_plain(p->row.v)))
      return vram__serve_fail(s, VRAM_ERR_DTYPE, "keeps caches in plain dtypes only");
  }
  s->nspec++;
  return vram__spec_page(s, p);
}

/* ---- vLLM ----------------------------------------------------------------------------------- */

/* Attention beside states: the block grows until a page of attention holds a state, and states are
   padded to that page (platforms/interface.py, _align_hybrid_block_size). */
static vram_result vram__vllm_align_states(vram__serve *s) {
  uint64_t state = 0, token = 0, align = s->block > 16 ? s->block : 16, block;
  uint32_t i;
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    if (p->row.kind == VRAM_KV_STATE)
      state = p->page > state ? p->page : state;
    else if (!token) {
      vram_kv_layer one = p->row;
      if (one.kind == VRAM_KV_LATENT && align < 128)
        align = 128;
      one.v_dim = one.k_dim;
      if (vram_kv_layer_bytes(&one, 1, &token))
        return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a token's bytes");
    }
  }
  if (!state || !token)
    return VRAM_OK;
  block = vram__product_or_overflow(align, token);
  if (block == VRAM_OVERFLOW)
    return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a page of attention and states");
  block = align * vram__div_up_u64(state, block);
  if (block > s->block)
    s->block = block;
  for (i = 0; i < s->nspec; i++) {
    vram__spec *p = &s->spec[i];
    if (p->row.kind == VRAM_KV_STATE)
      p->page = vram__product_or_overflow(s->block, token);
    else {
      vram_result code;
      p->block = s->block;
      code = vram__spec_page(s, p);
      if (code)
        return code;
    }
  }
  return VRAM_OK;
}

/* All layers need the same number of blocks (UniformTypeKVCacheSpecs). */
static int vram__vllm_is_uniform(const vram__serve *s) {
  uint32_t i;
  for (i = 1; i < s->nspec; i++) {
    const vram__spec *a = &s->spec[0], *b = &s->spec[i];
    const vram_kv_kind x = a->row.kind == VRAM_KV_LATENT ? VRAM_KV_FULL : a->row.kind,
                       y = b->row.kind == VRAM_KV_LATENT ? VRAM_KV_FULL : b->row.kind;
    if (x != y || a->block != b->block || (x == VRAM_KV_STATE && a->page != b->page) ||
        (vram__kv_has_window(x) && a->row.window != b->row.window))
      return 0;
  }
  return 1;
}

static int vram__serve_has(const vram__serve *s, vram_kv_kind kind) {
  uint32_t i;
  for (i = 0; i < s->nspec && s->spec[i].row.kind != kind; i++) {
  }
  return i < s->nspec;
}

/* Windows take blocks for all tokens, where there are full layers beside them. */
static void vram__vllm_promote(vram__serve *s) {
  uint32_t i;
  if (!vram__serve_has(s, VRAM_KV_FULL) && !vram__serve_has(s, VRAM_KV_LATENT))
    return;
  for (i = 0; i < s->nspec; i++)
    if (vram__kv_has_window(s->spec[i].row.kind))
      s->spec[i].row.kind = VRAM_KV_FULL;
  vram__spec_merge(s);
}

/* One page for all kinds: smaller ones of attention take more tokens where that divides, what is
   left is padded; latent rows cannot be padded (unify_kv_cache_spec_page_size). Returns 0 where it
   is not possible. */
static int vram__vllm_unify(vram__serve *s) {
  uint64_t most = 0;
  uint32_t i;
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].page > most)
      most = s->spec[i].page;
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].row.kind == VRAM_KV_LATENT && most % s->spec[i].page)
      return 0;
  for (i = 0; i < s->nspec; i++) {
    vram__spec *p = &s->spec[i];
    if (p->row.kind != VRAM_KV_STATE && most % p->page == 0)
      p->block *= most / p->page;
    p->page = most;
  }
  return 1;
}

/* Blocks of one group that a request of max_model_len tokens takes. */
static uint64_t vram__vllm_blocks(const vram__serve *s, const vram__spec *p) {
  const uint64_t ahead = (s->o->batches ? s->o->batches : s->rules->batches) * s->r->batched_tokens;
  uint64_t tokens = s->o->max_model_len;
  if (p->row.kind == VRAM_KV_STATE)
    return (s->o->prefix_states ? 2u : 1u) + (uint64_t)s->o->draft;
  if (vram__kv_has_window(p->row.kind)) {
    const uint64_t window =
        p->row.kind == VRAM_KV_SLIDING && p->row.window ? p->row.window - 1 : p->row.window;
    if (window < tokens && window + ahead < tokens)
      tokens = window + ahead;
  }
  return vram__div_up_u64(tokens, p->block) + (p->row.kind == VRAM_KV_SLIDING);
}

/* One group: how many layers, of that kind. */
static void vram__serve_group(vram__serve *s, const vram__spec *p, uint64_t layers, uint64_t bytes,
                              uint64_t blocks) {
  vram_serve_report *r = s->r;
  if (r->ngroup < VRAM_SERVE_MAX_GROUPS) {
    vram_serve_group *g = &r->group[r->ngroup++];
    g->kind = p->row.kind;
    g->layers = (uint32_t)layers;
    g->block = p->block;
    g->page_bytes = p->page;
    g->bytes = bytes;
    g->blocks_per_request = blocks;
  }
  r->groups++;
  r->blocks_per_request = vram__sum_or_overflow(r->blocks_per_request, blocks);
  if (bytes > r->block_bytes)
    r->block_bytes = bytes;
}

/* All layers in one group. */
static void vram__vllm_one_group(vram__serve *s) {
  const vram__spec *widest = s->spec;
  uint64_t layers = 0, bytes = 0, blocks = 0;
  uint32_t i;
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    const uint64_t n = vram__vllm_blocks(s, p);
    layers += p->count;
    bytes = vram__sum_or_overflow(bytes, vram__product_or_overflow(p->page, p->count));
    blocks = n > blocks ? n : blocks;
    if (p->page > widest->page)
      widest = p;
  }
  vram__serve_group(s, widest, layers, bytes, blocks);
}

/* Groups of as many layers as the smallest kind has; of the largest, where that is less than half
   as much again (_get_kv_cache_groups_uniform_page_size). */
static void vram__vllm_groups(vram__serve *s) {
  uint64_t least = UINT64_MAX, most = 0, size, i, n;
  uint32_t k;
  for (k = 0; k < s->nspec; k++) {
    least = s->spec[k].count < least ? s->spec[k].count : least;
    most = s->spec[k].count > most ? s->spec[k].count : most;
  }
  size = s->rules->even_groups && 2 * most < 3 * least ? most : least;
  for (k = 0; k < s->nspec; k++) {
    const vram__spec *p = &s->spec[k];
    const uint64_t blocks = vram__vllm_blocks(s, p);
    n = vram__div_up_u64(p->count, size);
    for (i = 0; i < n; i++) {
      const uint64_t layers = vram__div_up_u64(p->count - i, n);
      vram__serve_group(s, p, layers, vram__product_or_overflow(p->page, layers), blocks);
    }
  }
}

static vram_result vram__vllm_plan(vram__serve *s) {
  vram_result code = vram__vllm_align_states(s);
  if (code)
    return code;
  vram__spec_merge(s);
  if (s->o->no_hybrid)
    vram__vllm_promote(s);
  if (!vram__vllm_is_uniform(s)) {
    if (vram__serve_has(s, VRAM_KV_LATENT) && vram__serve_has(s, VRAM_KV_SLIDING) &&
        !vram__serve_has(s, VRAM_KV_CHUNKED)) {
      vram__serve copy = *s;
      if (!vram__vllm_unify(&copy))
        vram__vllm_promote(s);
    }
    if (s->o->no_hybrid && !vram__vllm_is_uniform(s))
      return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED, "these layers do not become one kind");
    if (!vram__vllm_is_uniform(s)) {
      if (!vram__vllm_unify(s))
        return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED,
                                "pages of latent rows do not divide the largest page");
      vram__vllm_groups(s);
      return VRAM_OK;
    }
  }
  vram__vllm_one_group(s);
  return VRAM_OK;
}

static void vram__vllm_result(const vram__serve *s, vram_serve_result *to) {
  const vram_serve_report *r = s->r;
  uint64_t block = UINT64_MAX;
  uint32_t i;
  to->blocks = to->kv_bytes / r->block_bytes;
  to->concurrency = vram__serve_rounded((double)to->blocks / (double)r->blocks_per_request);
  to->serves_one =
      to->blocks >= r->blocks_per_request + (s->rules->by_requests ? 1 : 0); /* the null block */
  if (s->rules->by_requests) {
    to->tokens = (uint64_t)vram__serve_rounded(to->concurrency * (double)s->o->max_model_len);
    return;
  }
  for (i = 0; i < s->nspec; i++)
    if (s->spec[i].row.kind != VRAM_KV_STATE && s->spec[i].block < block)
      block = s->spec[i].block;
  if (block == UINT64_MAX) /* states alone: a block is a request */
    block = s->o->max_model_len;
  to->tokens = vram__product_or_overflow(to->blocks / r->groups, block);
}

/* ---- SGLang --------------------------------------------------------------------------------- */

/* Layers with a window have a pool of their own with a share of the tokens; states get
   mamba_full_memory_ratio (0.9) of what attention gets. r->block_bytes: of a token of the full
   pool, whose share of windows is rounded up. */
#define VRAM__SGLANG_STATES 0.9

static vram_result vram__sglang_plan(vram__serve *s) {
  const int full = vram__serve_has(s, VRAM_KV_FULL) || vram__serve_has(s, VRAM_KV_LATENT);
  uint32_t i;
  vram__spec_merge(s);
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    uint64_t bytes = vram__product_or_overflow(p->page, p->count);
    if (bytes == VRAM_OVERFLOW)
      return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "a block's bytes");
    if (p->row.kind == VRAM_KV_CHUNKED && full)
      return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED, "chunked layers have no rule");
    vram__serve_group(
        s, p, p->count, bytes,
        p->row.kind == VRAM_KV_STATE ? 1 : vram__div_up_u64(s->o->max_model_len, p->block));
  }
  return VRAM_OK;
}

static void vram__sglang_result(const vram__serve *s, vram_serve_result *to) {
  const int full = vram__serve_has(s, VRAM_KV_FULL) || vram__serve_has(s, VRAM_KV_LATENT);
  double room = (double)to->kv_bytes, cell = 0; /* of one token: pages are whole multiples of it */
  uint64_t tokens;
  uint32_t i;
  if (vram__serve_has(s, VRAM_KV_STATE))
    room -= room * VRAM__SGLANG_STATES / (1 + VRAM__SGLANG_STATES);
  for (i = 0; i < s->nspec; i++) {
    const vram__spec *p = &s->spec[i];
    const double bytes = (double)p->page * (double)p->count / (double)s->block;
    if (p->row.kind != VRAM_KV_STATE)
      cell += full && p->row.kind == VRAM_KV_SLIDING ? bytes * s->rules->window_share : bytes;
  }
  tokens = cell > 0 ? (uint64_t)vram__serve_rounded(room / cell) : 0;
  to->blocks = tokens / s->block;
  to->tokens = to->blocks * s->block;
  to->concurrency = vram__serve_rounded((double)to->tokens / (double)s->o->max_model_len);
  to->serves_one = to->tokens >= s->o->max_model_len;
}

/* ---- the budget ----------------------------------------------------------------------------- */

#define VRAM__MIB(n) ((uint64_t)(n) << 20)

/* What the trial run takes. Low: outputs of one layer's feed-forward, which live together, or the
   logits in f32. High: twice that and a sorted copy of the logits, their indices and
   probabilities. */
static void vram__serve_activations(const vram__serve *s, vram_serve_range *to) {
  const vram_serve_options *o = s->o;
  const uint64_t logits = s->r->sequences * o->vocab;
  uint64_t bytes;
  if (!o->hidden || !o->intermediate) {
    to->high = VRAM__MIB(3072);
    to->why = "published: 0.19 to 2.51 GiB (vllm issues 13061, 13882, 16570)";
    return;
  }
  if (vram_dtype_bytes(o->activations ? o->activations : VRAM_BF16,
                       s->r->batched_tokens *
                           (3 * vram__div_up_u64(o->intermediate, s->tp) + o->hidden),
                       &bytes))
    bytes = 0;
  to->low = bytes > 4 * logits ? bytes : 4 * logits;
  to->high = 2 * bytes + 24 * logits;
  to->why = "low: one feed-forward or the logits; high: twice that and a sort of the logits";
}

static void vram__serve_terms(const vram__serve *s) {
  vram_serve_range *term = s->r->term;
  vram_serve_range *const graphs = &term[VRAM_SERVE_GRAPHS], *const context =
                                                                 &term[VRAM_SERVE_CONTEXT];
  vram__serve_activations(s, &term[VRAM_SERVE_ACTIVATIONS]);
  graphs->why = "published: 0.08 to 1.62 GiB (club-3090 issue 617, vllm pull 39559)";
  if (s->o->eager || (s->o->engine == VRAM_ENGINE_VLLM && !s->rules->counts_graphs))
    graphs->why = s->o->eager ? "none" : "not counted by these rules: taken beside the share";
  else
    graphs->high = VRAM__MIB(2048);
  context->low = VRAM__MIB(30);
  context->high = VRAM__MIB(s->tp > 1 ? 4096 : 2048);
  context->why =
      "published: 0.03 to 1.79 GiB on one device, 3.58 GiB on two (vllm pull 10511, issues "
      "10517, 13882)";
  if (s->o->engine == VRAM_ENGINE_SGLANG) {
    term[VRAM_SERVE_ACTIVATIONS].low = term[VRAM_SERVE_ACTIVATIONS].high = 0;
    term[VRAM_SERVE_ACTIVATIONS].why = "in the share that is left free";
    graphs->high = 0;
    graphs->why = "in the share that is left free";
  }
}

/* ceil(device * utilization), as Python has it. */
static uint64_t vram__serve_share(const vram__serve *s, uint64_t bytes) {
  const double share = vram__serve_rounded((double)bytes * s->r->utilization);
  const uint64_t whole = (uint64_t)share;
  return s->o->engine == VRAM_ENGINE_VLLM && (double)whole < share ? whole + 1 : whole;
}

static uint64_t vram__serve_less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static void vram__serve_budget(const vram__serve *s) {
  vram_serve_report *r = s->r;
  uint64_t low = 0, high = 0;
  int i;
  vram__serve_terms(s);
  r->requested_bytes = vram__serve_share(s, s->o->device_bytes);
  for (i = 0; i < VRAM_SERVE_TERM_COUNT; i++) {
    low += r->term[i].low;
    high += r->term[i].high;
  }
  r->low.kv_bytes = r->high.kv_bytes = s->o->kv_bytes;
  if (s->o->kv_bytes)
    return;
  if (s->o->engine == VRAM_ENGINE_SGLANG) { /* a share of what is free once the context is there */
    r->high.kv_bytes = vram__serve_share(s, vram__serve_less(s->o->device_bytes, low));
    r->low.kv_bytes = vram__serve_share(s, vram__serve_less(s->o->device_bytes, high));
    low = high = 0;
  } else
    r->high.kv_bytes = r->low.kv_bytes = r->requested_bytes;
  r->high.kv_bytes = vram__serve_less(vram__serve_less(r->high.kv_bytes, low), s->o->weights_bytes);
  r->low.kv_bytes = vram__serve_less(vram__serve_less(r->low.kv_bytes, high), s->o->weights_bytes);
}

/* Tokens and sequences of a batch where nobody says (engine/arg_utils.py, get_batch_defaults). */
static void vram__serve_batch(const vram__serve *s) {
  const vram_serve_options *o = s->o;
  const uint64_t device = o->device_bytes;
  vram_serve_report *r = s->r;
  const int large = device >= VRAM__MIB(UINT64_C(160) * 1024),
            medium = device >= VRAM__MIB(UINT64_C(70) * 1024);
  r->batched_tokens = o->batched_tokens;
  r->sequences = o->sequences ? o->sequences : medium ? 1024 : 256;
  if (!r->batched_tokens) {
    r->batched_tokens = large ? 16384 : medium ? 8192 : 2048;
    if (r->sequences * o->max_model_len < r->batched_tokens)
      r->batched_tokens = r->sequences * o->max_model_len;
  }
  if (!o->sequences && r->sequences > r->batched_tokens)
    r->sequences = r->batched_tokens;
}

static vram_result vram__serve_options_check(vram__serve *s) {
  const vram_serve_options *o = s->o;
  const uint32_t len = o->rules ? vram__text_len(o->rules) : 0;
  uint32_t i;
  if (o->engine >= VRAM_ENGINE_COUNT)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "no such engine");
  for (i = 0; i < VRAM__SERVE_VERSIONS && !s->rules; i++)
    if (vram__serve_versions[i].engine == o->engine &&
        (!len || vram__text_is(o->rules, len, vram__serve_versions[i].version)))
      s->rules = &vram__serve_versions[i];
  if (!s->rules)
    return vram__serve_fail(s, VRAM_ERR_UNSUPPORTED, "no rules of that version");
  s->r->rules = s->rules->version;
  if (!o->max_model_len || o->max_model_len > VRAM__SERVE_MOST)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "max_model_len is 1 to 2^31 tokens");
  if (o->batched_tokens > VRAM__SERVE_MOST || o->sequences > VRAM__SERVE_MOST || o->block > 65536 ||
      o->batches > 65536)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "a batch or a block is too large");
  if (!(o->utilization >= 0 && o->utilization <= 1))
    return vram__serve_fail(s, VRAM_ERR_VALUE, "the share of the device is 0 to 1");
  if (!o->device_bytes && !o->kv_bytes)
    return vram__serve_fail(s, VRAM_ERR_VALUE, "how large is the device, or the cache?");
  if (o->device_bytes > VRAM_MAX_BYTES / 2 || o->kv_bytes > VRAM_MAX_BYTES / 2)
    return vram__serve_fail(s, VRAM_ERR_OVERFLOW, "too large a device or cache");
  s->r->utilization = o->utilization > 0 ? o->utilization : s->rules->utilization;
  s->tp = o->tp ? o->tp : 1;
  s->block = o->block ? o->block : s->rules->block;
  return VRAM_OK;
}

static void vram__serve_result(const vram__serve *s, vram_serve_result *to) {
  if (!s->r->groups) { /* nothing is kept: vLLM's null block alone */
    to->blocks = 1;
    to->serves_one = 1;
  } else if (s->o->engine == VRAM_ENGINE_VLLM)
    vram__vllm_result(s, to);
  else
    vram__sglang_result(s, to);
}

VRAM_API vram_result vram_serve(const vram_kv *kv, const vram_serve_options *o,
                                vram_serve_report *r, vram_error *e) {
  vram__serve s;
  vram_result code;
  uint32_t i;
  vram__error_clear(e);
  vram__memory_zero(r, sizeof *r);
  vram__memory_zero(&s, sizeof s);
  s.o = o;
  s.r = r;
  s.e = e;
  code = vram__serve_options_check(&s);
  if (code)
    return code;
  vram__serve_batch(&s);
  for (i = 0; i < kv->nlayer; i++) {
    code = vram__spec_add(&s, &kv->layer[i]);
    if (code)
      return code;
  }
  code = o->engine == VRAM_ENGINE_VLLM ? s.nspec ? vram__vllm_plan(&s) : VRAM_OK
                                       : vram__sglang_plan(&s);
  if (code)
    return code;
  if (r->block_bytes >= VRAM_MAX_BYTES || r->blocks_per_request >= VRAM_MAX_BYTES)
    return vram__serve_fail(&s, VRAM_ERR_OVERFLOW, "a block's bytes");
  vram__serve_budget(&s);
  vram__serve_result(&s, &r->low);
  vram__serve_result(&s, &r->high);
  return VRAM_OK;
}
