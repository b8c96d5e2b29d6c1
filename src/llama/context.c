/* >>llama/context    KV caches, recurrent states, output buffer
   From llama.cpp: llama-context.cpp (sizes of the context and its output), llama-kv-cache.cpp and
   llama-kv-cache-iswa.cpp (caches), llama-memory-recurrent.cpp (states), llama-memory-hybrid.cpp.
 */
#include "llama/llama.h"

enum {
  VRAM__LLAMA_CTX_PAD = 256,
  VRAM__LLAMA_MAX_SEQ = 256 /* LLAMA_MAX_SEQ */
};

VRAM__FN int vram__llama_is_quantised(vram_dtype t) {
  const vram_dtype_info *const d = vram_dtype_get_info(t);
  return d && d->block_elements > 1;
}

static vram_result vram__llama_unsupported(vram_error *e, const char *text) {
  return vram__error_begin(e, VRAM_ERR_UNSUPPORTED, 0, text);
}

/* A type of a cache, and whether each head divides into its blocks, which flash attention needs, or
   each row of heads. */
static vram_result vram__llama_cache_type(const vram__llama *l, vram_dtype type, int is_k,
                                          vram_error *e) {
  const vram_dtype_info *const d = vram_dtype_get_info(type);
  const int is_off =
      l->options->flash_attention == VRAM_LLAMA_OFF || (l->row->flags & VRAM__LLAMA_NO_FLASH);
  uint32_t i;
  if (!d || d->ggml_id < 0)
    return vram__error_begin(e, VRAM_ERR_DTYPE, 0, "no type of ggml for a cache");
  if (l->row->memory == VRAM__LLAMA_NO_MEMORY && is_off)
    return VRAM_OK; /* there is none, and nothing asks for it */
  for (i = 0; d->block_elements > 1 && i < l->n_layer; i++) {
    const uint32_t head = is_k ? l->layer[i].head_k : l->layer[i].head_v;
    const uint64_t row = (uint64_t)head * (is_off ? l->layer[i].n_head_kv : 1);
    if (l->layer[i].n_head_kv && row % d->block_elements) {
      vram__error_begin(e, VRAM_ERR_BLOCK, 0, is_k ? "cache of K: " : "cache of V: ");
      vram__error_text(e, d->name);
      vram__error_number(e, " has blocks of ", d->block_elements);
      vram__error_number(e, ", which do not divide a head of ", head);
      return VRAM_ERR_BLOCK;
    }
  }
  return VRAM_OK;
}

static vram_result vram__llama_flash(vram__llama *l, vram_error *e) {
  const vram_llama_options *const o = l->options;
  l->flash_attention =
      o->flash_attention != VRAM_LLAMA_OFF && !(l->row->flags & VRAM__LLAMA_NO_FLASH);
  l->transposes_v = !l->flash_attention; /* the caches are made before vram__llama_resolve */
  if (!l->flash_attention && vram__llama_is_quantised(l->v_type))
    return vram__llama_unsupported(e, "a quantised cache of V needs flash attention");
  if (l->head_k_mla && l->k_type != l->v_type)
    return vram__llama_unsupported(e, "a model of latent attention (MLA) has one type of cache: K "
                                      "and V differ");
  return VRAM_OK;
}

/* Sizes of the context: llama_context::llama_context */
VRAM__FN vram_result vram__llama_settle(vram__llama *l, vram_error *e) {
  const vram_llama_options *const o = l->options;
  const uint64_t asked = o->n_ctx ? o->n_ctx : l->n_ctx_train;
  const uint64_t batch = o->n_batch ? o->n_batch : 2048;
  uint64_t n_ctx = vram__round_up_u64(asked, VRAM__LLAMA_CTX_PAD), each, n;
  vram_result code;
  l->n_seq = o->slots ? o->slots : 1;
  if (!asked || n_ctx > INT32_MAX)
    return vram__error_begin(e, VRAM_ERR_VALUE, 0,
                             "a context of 1 to 2^31-256 tokens is expected (n_ctx)");
  if (l->n_seq > VRAM__LLAMA_MAX_SEQ)
    return vram__llama_unsupported(e, "more than 256 sequences (slots)");
  n = l->is_causal && asked < batch ? asked : batch;
  l->n_batch = (uint32_t)n;
  n = o->n_ubatch ? o->n_ubatch : 512;
  l->n_ubatch = n < l->n_batch ? (uint32_t)n : l->n_batch;
  each = n_ctx;
  if (!o->unified) {
    each = vram__round_up_u64(n_ctx / l->n_seq, VRAM__LLAMA_CTX_PAD);
    n_ctx = each * l->n_seq;
    if (!each || n_ctx > INT32_MAX)
      return vram__error_begin(e, VRAM_ERR_VALUE, 0, "a context that does not divide into slots");
  }
  l->n_ctx = (uint32_t)n_ctx;
  l->n_ctx_seq = (uint32_t)each;
  l->n_stream = o->unified ? 1 : l->n_seq;
  l->n_outputs = o->outputs && !(l->row->flags & VRAM__LLAMA_TWO_STACKS) ? o->outputs : l->n_batch;
  l->k_type = o->cache_k ? o->cache_k : VRAM_F16;
  l->v_type = o->cache_v ? o->cache_v : VRAM_F16;
  l->offloads_kv = !o->no_kv_offload;
  code = vram__llama_cache_type(l, l->k_type, 1, e);
  if (!code)
    code = vram__llama_cache_type(l, l->v_type, 0, e);
  return code ? code : vram__llama_flash(l, e);
}

/* ---- caches ---- */

/* Which layers of a model have a cache of their own. */
static int vram__llama_has_kv(const vram__llama *l, uint32_t i) {
  const vram__llama_layer *const y = l->layer + i;
  if (i >= l->n_layer_kv)
    return 0;
  switch (l->row->memory) {
  case VRAM__LLAMA_KV:
    return 1;
  case VRAM__LLAMA_HYBRID: /* a layer of neither is only a feed-forward one: nemotron_h */
    return (l->row->flags & VRAM__LLAMA_ALL_KV) ||
           (!y->is_recurrent && (l->row->recurrent != VRAM__LLAMA_LAYERS_NO_KV_NO_FF || !y->n_ff));
  default:
    return 0;
  }
}

/* A cache without layers - of all cells, of a window, of an indexer, once each: its cells are the
   tokens that such a layer holds (llama-kv-cache-iswa.cpp: all that the windows and a batch need).
 */
static vram_llama_cache *vram__llama_cache_add(vram__llama *l, int slides) {
  vram_llama_cache *const c = l->cache + l->ncache++;
  vram_kv_layer row = VRAM_ZERO_INIT;
  vram_kv kv = VRAM_ZERO_INIT;
  kv.block = VRAM__LLAMA_CTX_PAD;
  kv.ahead = l->n_ubatch;
  row.kind = slides && !l->options->swa_full ? VRAM_KV_SLIDING : VRAM_KV_FULL;
  row.window = (uint64_t)l->n_swa * (l->options->unified ? l->n_seq : 1);
  vram__memory_zero(c, sizeof *c);
  c->cells = vram_kv_tokens(&kv, &row, l->n_ctx_seq);
  c->streams = l->n_stream;
  c->k_type = l->k_type;
  c->v_type = l->head_k_mla ? VRAM_DTYPE_NONE : l->v_type;
  c->slides = (uint8_t)slides;
  return c;
}

/* The widest row of V, which every layer has where V is transposed. */
VRAM__FN uint64_t vram__llama_widest_v(const vram__llama *l) {
  uint64_t most = 0;
  uint32_t i;
  for (i = 0; i < l->n_layer; i++) {
    const uint64_t n = vram__product_or_overflow(l->layer[i].head_v, l->layer[i].n_head_kv);
    if (n > most)
      most = n;
  }
  return most;
}

static vram_llama_buffer *vram__llama_context_buffer(const vram__llama *l, vram_llama_report *r,
                                                     uint32_t layer) {
  const int32_t device = l->offloads_kv ? l->layer[layer].device : -1;
  return vram__llama_buffer(r, device < 0 ? "CPU" : "CUDA", device);
}

/* The tensors of a layer into its buffer, each padded there; `sum` gets their own bytes. */
static void vram__llama_keep(vram_llama_buffer *b, const vram_kv_layer *row, uint64_t rows,
                             uint64_t *const sum[2]) {
  uint64_t part[VRAM_KV_MAX_STATES];
  uint32_t i, n;
  const vram_result code = vram_kv_layer_parts(row, rows, part, &n);
  for (i = 0; i < n; i++) {
    const int is_state = row->kind == VRAM_KV_STATE;
    const vram_dtype type = is_state ? row->state[i] : i ? row->v : row->k;
    /* a state is a row for each sequence, of f32: nothing is padded at its end */
    const uint64_t columns = is_state ? 0
                             : i      ? row->v_dim
                                      : row->k_dim,
                   bytes = code       ? VRAM_OVERFLOW
                           : is_state ? vram__product_or_overflow(part[i], rows)
                                      : part[i];
    b->context_bytes = vram__sum_or_overflow(
        b->context_bytes, vram__llama_padded(type, columns, bytes, b->device >= 0));
    *sum[i] = vram__sum_or_overflow(*sum[i], bytes);
  }
}

/* A row of heads is one of llama.cpp's n_embd_gqa elements. */
static vram_kv_layer vram__llama_kv_row(const vram_llama_cache *c, uint64_t k, uint64_t v) {
  vram_kv_layer row = VRAM_ZERO_INIT;
  row.kind = c->v_type ? c->slides ? VRAM_KV_SLIDING : VRAM_KV_FULL : VRAM_KV_LATENT;
  row.count = row.heads = 1;
  row.k_dim = k > UINT32_MAX ? UINT32_MAX : (uint32_t)k; /* nobody's: more than 2^63-1 bytes */
  row.v_dim = v > UINT32_MAX ? UINT32_MAX : (uint32_t)v;
  row.k = c->k_type;
  row.v = c->v_type;
  return row;
}

static void vram__llama_cache_layer(vram__llama *l, vram_llama_report *r, vram_llama_cache *c,
                                    uint32_t i) {
  const vram__llama_layer *const y = l->layer + i;
  const uint64_t k = vram__product_or_overflow(y->head_k, y->n_head_kv),
                 v = l->transposes_v ? vram__llama_widest_v(l)
                                     : vram__product_or_overflow(y->head_v, y->n_head_kv);
  const vram_kv_layer row = vram__llama_kv_row(c, k, v);
  uint64_t *const sum[2] = {&c->k_bytes, &c->v_bytes};
  l->layer[i].cache = (int32_t)(c - l->cache);
  c->layers++;
  vram__llama_keep(vram__llama_context_buffer(l, r, i), &row, c->cells * c->streams, sum);
}

/* Has a layer an indexer of its own? glm-dsa says which, or has GLM 5.2's (src/models/glm-dsa.cpp).
 */
VRAM__FN int vram__llama_is_indexed(const vram__llama *l, uint32_t i) {
  const vram_file_value *v = vram__llama_get(l, "attention.indexer.types");
  if (!vram__text_is(l->arch, l->arch_len, "glm-dsa"))
    return 1;
  if (v && v->kind == VRAM_VALUE_ARRAY && vram__llama_is_whole(v->of))
    return !v->array || i >= v->count || ((const uint64_t *)v->array)[i] != 0;
  if (v && vram__llama_is_whole(v->kind))
    return v->number.u != 0;
  return l->n_ctx_train < 1048576 || i < 3 || i % 4 == 2;
}

/* The keys of an indexer: one head a layer, no values (deepseek32: llama-kv-cache-dsa.cpp). */
static void vram__llama_indexer(vram__llama *l, vram_llama_report *r) {
  vram_llama_cache *const c = vram__llama_cache_add(l, 0);
  uint64_t *const sum[2] = {&c->k_bytes, &c->v_bytes};
  vram_kv_layer row;
  uint32_t i;
  c->v_type = VRAM_DTYPE_NONE;
  row = vram__llama_kv_row(c, l->indexer_head_size, 0);
  for (i = 0; i < l->n_layer; i++)
    if (vram__llama_has_kv(l, i) && vram__llama_is_indexed(l, i)) {
      c->layers++;
      vram__llama_keep(vram__llama_context_buffer(l, r, i), &row, c->cells * c->streams, sum);
    }
}

static void vram__llama_caches(vram__llama *l, vram_llama_report *r) {
  vram_llama_cache *all = NULL, *sliding = NULL;
  uint32_t i;
  for (i = 0; i < l->n_layer; i++) {
    const int slides = l->layer[i].slides;
    vram_llama_cache **const c = slides ? &sliding : &all;
    l->layer[i].cache = -1;
    l->layer[i].reads = i;
    if (i >= l->n_layer_kv && i < l->n_layer - l->n_layer_nextn && l->n_layer_kv > 1)
      l->layer[i].reads = l->n_layer_kv - (slides ? 2 : 1); /* llama-model.cpp: create_memory */
    if (!vram__llama_has_kv(l, i))
      continue;
    if (!*c)
      *c = vram__llama_cache_add(l, slides);
    vram__llama_cache_layer(l, r, *c, i);
  }
  if ((l->row->flags & VRAM__LLAMA_INDEXER) && l->indexer_head_size)
    vram__llama_indexer(l, r);
}

/* ---- recurrent states: f32, one row for each sequence ---- */

static void vram__llama_recurrent(const vram__llama *l, vram_llama_report *r) {
  uint64_t *const sum[2] = {&r->r_bytes, &r->s_bytes};
  vram_kv_layer row = VRAM_ZERO_INIT;
  uint32_t i;
  row.kind = VRAM_KV_STATE;
  row.count = 1;
  row.nstate = 2;
  row.state[0] = row.state[1] = VRAM_F32;
  row.state_elements[0] = l->n_embd_r;
  row.state_elements[1] = l->n_embd_s;
  for (i = 0; i < l->n_layer - l->n_layer_nextn; i++)
    if (l->layer[i].is_recurrent && l->row->memory >= VRAM__LLAMA_RECURRENT)
      vram__llama_keep(vram__llama_context_buffer(l, r, i), &row, l->n_seq, sum);
}

VRAM__FN vram_result vram__llama_context(vram__llama *l, vram_llama_report *r, vram_error *e) {
  const int has_embeddings = l->options->embeddings || vram__text_is(l->arch, l->arch_len, "t5");
  const uint64_t width = (uint64_t)l->n_vocab + (has_embeddings ? l->n_embd_out : 0);
  uint32_t i;
  if (l->row->memory != VRAM__LLAMA_NO_MEMORY) {
    vram__llama_caches(l, r);
    vram__llama_recurrent(l, r);
  }
  r->output_bytes = width * l->n_seq * 4;
  r->ncache = l->ncache;
  vram__memory_copy(r->cache, l->cache, sizeof l->cache);
  for (i = 0; i < r->nbuffer; i++)
    if (r->buffer[i].context_bytes > (uint64_t)VRAM_MAX_BYTES)
      return vram__error_begin(e, VRAM_ERR_OVERFLOW, 0, "caches of more than 2^63-1 bytes");
  return VRAM_OK;
}
