/* >>llama/graph_attention    attention over a cache, over a latent one, and without any
   (llama.cpp: llama-graph.cpp, build_attn and build_attn_mha; llama-kv-cache.cpp) */
#include "llama/graph.h"

/* v: a node to be multiplied with, or -1; k too. */
typedef struct vram__build_heads {
  int32_t q, k, v, mask, bias;
  uint64_t head_k, head_v, n_head, cells, streams;
  vram_dtype type_k, type_v;
  const char *decompress; /* a weight that takes the result of each head apart */
} vram__build_heads;

/* Q, K or V with heads apart. */
static int32_t vram__build_head(vram__build *b, int32_t a, uint64_t head) {
  const vram__graph_node *n = vram__build_at(b, a);
  if (n->ne[0] == head && n->ne[2] == b->tokens && (n->ne[1] > 1 || n->view >= 0))
    return a; /* they are */
  return vram__build_view(b, a, head, vram__build_at(b, a)->ne[0] / head, b->tokens);
}

/* Has this layer positions in Q and K? */
static int vram__build_has_rope(const vram__build *b) {
  const uint32_t without = (b->flags & VRAM__BUILD_ROUTED_BEFORE) ? 0 : 3; /* of each four */
  const double leading = vram__llama_real(b->m, "leading_dense_block_count");
  if ((b->flags & VRAM__BUILD_NO_ROPE) ||
      ((b->flags & VRAM__BUILD_ROPE_OF_FOUR) && b->il % 4 == without))
    return 0;
  if ((b->flags & VRAM__BUILD_ROPE_LEADING) && b->il < leading)
    return 1;
  if (b->flags & VRAM__BUILD_UNIT_HEADS)
    return b->m->n_swa ? b->il % 4 != 3 : b->il + 1 != b->m->n_layer;
  return !(b->flags & VRAM__BUILD_ROPE_SLIDING) || !b->m->n_swa || b->m->layer[b->il].slides;
}

/* A norm of Q or K, which may be a LayerNorm where the others are not. */
static int32_t vram__build_norm_head(vram__build *b, int32_t a, const char *norm,
                                     const char *bias) {
  const uint64_t flags = b->flags;
  if (flags & VRAM__BUILD_MEAN_HEADS)
    b->flags |= VRAM__BUILD_MEAN;
  a = vram__build_norm(b, a, norm, bias);
  b->flags = flags;
  return a;
}

/* Q or K with heads apart: a norm of the whole row before, or of each head; positions. */
static int32_t vram__build_turn(vram__build *b, int32_t a, uint64_t head, const char *norm,
                                const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, norm);
  const int is_whole = t && t->ndim == 1 && (uint64_t)t->size[0] != head;
  const int is_behind = (b->flags & VRAM__BUILD_ROPE_FIRST) != 0;
  if (is_whole)
    a = vram__build_norm_head(b, a, norm, bias);
  a = vram__build_head(b, a, head);
  if (!is_whole && !is_behind)
    a = vram__build_norm_head(b, a, norm, bias);
  if (vram__build_has_rope(b)) {
    a = vram__build_rope(b, a);
    if ((b->flags & VRAM__BUILD_UNIT_HEADS) && b->m->n_expert != 128)
      a = vram__build_map(b, a, -1);
  }
  return is_behind ? vram__build_norm_head(b, a, norm, bias) : a;
}

/* Values of a quantised cache are rotated first, by a Hadamard matrix of the largest power of two
   that divides a head (K), of 64 (V). */
static int32_t vram__build_rotation(vram__build *b, vram_dtype type, uint64_t head, int is_v) {
  uint64_t n = 64;
  const vram_dtype_info *info = vram_dtype_get_info(type);
  if (!info || info->block_elements <= 1 || head % 64)
    return -1;
  while (!is_v && head % (n * 2) == 0)
    n *= 2;
  return vram__build_input(b, n * n * 4);
}

/* A part of each row of what Q, K and V come from in one: it is copied before it is rotated. */
static int vram__build_is_strided(const vram__build *b, int32_t a) {
  const vram__graph_node *n = b->g->node + a, *of = n->view >= 0 ? b->g->node + n->view : n;
  return b->tokens > 1 && n->view >= 0 &&
         n->ne[0] * n->ne[1] * n->ne[2] != of->ne[0] * of->ne[1] * of->ne[2];
}

static int32_t vram__build_rotate(vram__build *b, int32_t a, int32_t rotation) {
  uint64_t n, all;
  int32_t i, v;
  if (rotation < 0)
    return a;
  n = vram__build_at(b, rotation)->bytes / 4;
  for (all = 64; all * all < n; all *= 2)
    ;
  n = vram__product_or_overflow(
      vram__product_or_overflow(vram__build_at(b, a)->ne[0], vram__build_at(b, a)->ne[1]),
      vram__build_at(b, a)->ne[2]);
  v = vram__build_is_strided(b, a) ? vram__build_node(b, all, n / all, 1, a)
                                   : vram__build_view(b, a, all, n / all, 1);
  i = vram__build_node(b, all, n / all, 1, rotation);
  vram__build_source(b, i, v);
  return vram__build_view(b, i, vram__build_at(b, a)->ne[0], vram__build_at(b, a)->ne[1],
                          vram__build_at(b, a)->ne[2]);
}

static void vram__build_store(vram__build *b, int32_t a, int32_t index) {
  const vram__graph_node *n = vram__build_at(b, a);
  int32_t v = vram__build_view(b, a, n->ne[0] * n->ne[1], b->tokens, 1);
  vram__build_foreign(b, v, index);
}

/* V is stored transposed as long as the widest of all layers. */
static void vram__build_store_v(vram__build *b, int32_t a, int32_t index) {
  const uint64_t most = vram__llama_widest_v(b->m);
  const uint64_t width = vram__build_at(b, a)->ne[0] * vram__build_at(b, a)->ne[1];
  if (b->m->transposes_v && vram__build_is_strided(b, a))
    a = vram__build_node(b, width, 1, b->tokens, a);
  if (b->m->transposes_v && width < most)
    a = vram__build_node(b, most, 1, b->tokens, a);
  vram__build_store(b, a, index);
}

/* Rows of K or V in the layer's cache. A latent V is the first part of each row of K. */
static int32_t vram__build_read(vram__build *b, vram_dtype type, uint64_t head, uint64_t rows) {
  const uint64_t head_k = b->m->layer[b->il].head_k;
  uint64_t before;
  int32_t i = vram__build_cached(b, type, head, rows);
  if (!b->m->head_k_mla || head == head_k || !rows)
    return i;
  vram_dtype_rows_bytes(type, rows - 1, head_k, &before);
  vram_dtype_rows_bytes(type, 1, head, &vram__build_at(b, i)->bytes);
  vram__build_at(b, i)->bytes = vram__sum_or_overflow(before, vram__build_at(b, i)->bytes);
  return i;
}

/* K or V of the layer's cache; from one of f32 in f16, which flash attention takes. */
static int32_t vram__build_kv(vram__build *b, vram_dtype type, uint64_t head, uint64_t cells,
                              int is_flash) {
  const uint64_t heads = b->m->layer[b->il].n_head_kv;
  int32_t i = vram__build_read(b, type, head, vram__product_or_overflow(cells, heads));
  if (type != VRAM_F32 || !is_flash)
    return i;
  i = vram__build_node(b, head, cells, heads, i);
  vram__build_at(b, i)->bytes /= 2;
  return i;
}

/* V as a product needs it, transposed, from a cache where it is not: a latent one, whose V is in K,
   or one that was made for flash attention. llama.cpp cannot compute that of a quantised one (t5,
   which has no flash attention over its cache). */
static int32_t vram__build_transposed(vram__build *b, vram_dtype type, uint64_t head,
                                      uint64_t cells) {
  int32_t i = vram__build_node(b, cells, head, 1, vram__build_read(b, type, head, cells));
  if (vram__llama_is_quantised(type))
    b->g->is_given_up = 1;
  vram__build_at(b, i)->bytes =
      vram__build_at(b, i)->bytes / 4 * vram_dtype_get_info(type)->block_bytes;
  return i;
}

/* V's result of each head through a matrix of that head. */
static int32_t vram__build_decompress(vram__build *b, int32_t a, const vram__build_heads *h) {
  const vram_file_tensor *t = h->decompress ? vram__build_weight(b, h->decompress) : NULL;
  int32_t i;
  if (!t)
    return a;
  i = vram__build_node(b, vram__build_width(t), b->tokens / h->streams, h->n_head * h->streams, -1);
  vram__build_multiply(b, i, t);
  vram__build_source(b, i, a);
  return i;
}

/* Softmax over all scores, then V: without flash attention. */
static int32_t vram__build_scores(vram__build *b, const vram__build_heads *h) {
  int32_t q = vram__build_view(b, h->q, h->head_k, b->tokens, h->n_head), i;
  i = vram__build_node(b, h->cells, b->tokens, h->n_head, h->k);
  vram__build_source(b, i, q);
  if (b->flags & VRAM__BUILD_CAP_SCORES)
    for (int k = 0; k < 3; k++)
      i = vram__build_map(b, i, -1);
  if (h->bias >= 0)
    i = vram__build_map(b, i, h->bias);
  i = vram__build_map(b, i, h->mask);
  if (vram__build_weight(b, "attn_sinks.weight"))
    vram__build_with(b, i, vram__build_weight(b, "attn_sinks.weight"));
  q = i;
  i = vram__build_node(b, h->head_v, b->tokens, h->n_head, h->v);
  vram__build_source(b, i, q);
  i = vram__build_decompress(b, i, h);
  q = vram__build_view(b, i, vram__build_at(b, i)->ne[0], h->n_head, b->tokens);
  i = vram__build_node(b, vram__build_at(b, i)->ne[0] * h->n_head, b->tokens, 1, q);
  if (b->pins_attention) /* and with it all from the cache on */
    vram__build_at(b, i)->buffer = (int8_t)b->host;
  return i;
}

/* Has ggml-cuda a kernel for these heads and types (ggml_cuda_get_best_fattn_kernel)? */
static int vram__build_has_flash(const vram__build *b, const vram__build_heads *h) {
  static const uint16_t equal[] = {40, 64, 72, 80, 96, 112, 128, 256};
  const vram__llama *m = b->m;
  const uint64_t heads = m->layer[b->il].n_head_kv, shared = heads ? h->n_head / heads : 0;
  if (h->type_k == VRAM_IQ4_NL || h->type_v == VRAM_IQ4_NL)
    return 0;
  for (uint32_t i = 0; i < sizeof equal / sizeof *equal; i++)
    if (h->head_k == equal[i])
      return h->head_v == h->head_k;
  if (shared < 2 || h->cells % 256)
    return 0;
  if (h->head_k == 192)
    return h->head_v == 128 && shared % 8 == 0;
  if (h->head_k == 320)
    return h->head_v == 256 && shared % 32 == 0;
  return (h->head_k == 512 || h->head_k == 576) && h->head_v == 512;
}

/* Does it take K and V as they are? Its vector kernel does, for one or two tokens of a sequence, of
   types for which it is compiled (the default GGML_CUDA_FA_QUANTS). */
static int vram__build_is_vector(const vram__build *b, const vram__build_heads *h) {
  const uint32_t cc = b->m->options->cc ? b->m->options->cc : 89;
  const uint64_t heads = b->m->layer[b->il].n_head_kv, streams = b->m->n_stream;
  const uint64_t tokens = b->tokens / streams, shared = heads ? h->n_head / heads : 0;
  const int has_bias = vram__llama_real(b->m, "attention.max_alibi_bias") > 0;
  uint64_t together = 1;
  if (h->head_k > 256 || h->head_k % 64 || h->head_k == 192 || h->cells % 256 ||
      h->type_k != h->type_v ||
      (h->type_k != VRAM_Q4_0 && h->type_k != VRAM_Q8_0 && h->type_k != VRAM_BF16))
    return 0;
  if (cc >= 70 && cc < 75) { /* Volta */
    while (together < 8 && shared % (2 * together) == 0)
      together *= 2;
    return tokens * together <= 2;
  }
  if (h->type_k != VRAM_BF16)
    return tokens <= (cc >= 75 && cc < 89 ? 1 : 2) || (tokens == 1 && (shared < 2 || has_bias));
  if (cc >= 89 && tokens == 1 && streams == 1 &&
      !(shared > 4 && (h->head_k >= 256 || h->cells >= 8192)))
    return 1;
  return tokens == 1 && (shared < 2 || has_bias);
}

/* What ggml-cuda puts behind the result of flash attention: f16 copies of K and V of another type
   (ggml_cuda_flash_attn_ext_get_alloc_size). V that is a part of K has none of its own, unless both
   come from the host; those of f32 are nodes of the graph. */
static uint64_t vram__build_flash_room(const vram__build *b, const vram__build_heads *h,
                                       uint64_t result, int is_part) {
  const uint64_t rows = vram__product_or_overflow(vram__product_or_overflow(h->cells, h->streams),
                                                  2 * (uint64_t)b->m->layer[b->il].n_head_kv);
  uint64_t end = result;
  if (vram__build_is_vector(b, h))
    return 0;
  if (h->type_k != VRAM_F16 && h->type_k != VRAM_F32)
    end = vram__sum_or_overflow(vram__round_up_u64(end, 128),
                                vram__product_or_overflow(rows, h->head_k));
  if (h->type_v != VRAM_F16 && h->type_v != VRAM_F32 && !is_part)
    end = vram__sum_or_overflow(vram__round_up_u64(end, 128),
                                vram__product_or_overflow(rows, h->head_v));
  return end == VRAM_OVERFLOW ? end : end - result;
}

static int32_t vram__build_flash(vram__build *b, const vram__build_heads *h) {
  int32_t i = vram__build_view(b, h->q, h->head_k, b->tokens, h->n_head), k;
  k = i;
  i = vram__build_node(b, h->head_v, h->n_head, b->tokens, k);
  vram__build_source(b, i, h->k);
  vram__build_source(b, i, h->v);
  vram__build_source(b, i, h->mask);
  vram__build_beside(b, i, vram__build_weight(b, "attn_sinks.weight"));
  vram__build_at(b, i)->room =
      vram__build_flash_room(b, h, vram__build_at(b, i)->bytes, h->decompress != NULL);
  vram__build_at(b, i)->apart = vram__build_flash_room(b, h, vram__build_at(b, i)->bytes, 0);
  vram__build_at(b, i)->home = (int8_t)b->device;
  vram__build_at(b, i)->flags |= VRAM__NODE_FLASH;
  if (!vram__build_has_flash(b, h))
    vram__build_at(b, i)->flags |= VRAM__NODE_ON_HOST;
  if (h->decompress) {
    i = vram__build_view(b, i, h->head_v, b->tokens, h->n_head);
    i = vram__build_decompress(b, i, h);
    k = vram__build_view(b, i, vram__build_at(b, i)->ne[0], h->n_head, b->tokens);
    i = vram__build_node(b, vram__build_at(b, i)->ne[0], h->n_head, b->tokens, k);
  }
  return vram__build_view(b, i, vram__build_at(b, i)->ne[0] * h->n_head, b->tokens, 1);
}

/* The mask of a cache, or among the tokens alone. */
VRAM__FN int32_t vram__build_mask(vram__build *b, int32_t cache, uint64_t cells) {
  if (b->mask[cache] < 0)
    b->mask[cache] = vram__build_input(
        b, vram__product_or_overflow(b->tokens * (b->m->flash_attention ? 2 : 4), cells));
  return b->mask[cache];
}

static vram__build_heads vram__build_heads_of(const vram__build *b, int32_t q) {
  const vram__llama_layer *y = b->m->layer + b->il;
  vram__build_heads h;
  h.q = q;
  h.k = h.v = h.mask = h.bias = -1;
  h.head_k = y->head_k;
  h.head_v = y->head_v;
  h.n_head = y->n_head;
  h.cells = b->tokens;
  h.streams = 1;
  h.type_k = h.type_v = VRAM_F16;
  h.decompress = NULL;
  return h;
}

/* `decompress`: a weight that takes the result of each head apart. `bias`: of the scores, -1: none,
   which flash attention does not know. */
static int32_t vram__build_attend(vram__build *b, int32_t q, const char *decompress, int32_t bias) {
  const vram__llama_layer *y = b->m->layer + b->m->layer[b->il].reads;
  const vram_llama_cache *c = b->m->cache + y->cache;
  const uint64_t cells = vram__product_or_overflow(c->cells, c->streams);
  const int32_t device = b->device;
  const int is_flash = b->m->flash_attention && bias < 0;
  vram__build_heads h = vram__build_heads_of(b, q);
  int32_t i;
  h.mask = vram__build_mask(b, y->cache, c->cells);
  if (b->chosen >= 0)
    h.mask = vram__build_unhidden(b, h.mask, c->cells, c->streams);
  h.bias = bias;
  h.head_v = decompress ? b->m->n_lora_kv : y->head_v;
  h.cells = c->cells;
  h.streams = c->streams;
  h.type_k = b->m->k_type;
  h.type_v = decompress ? h.type_k : b->m->v_type;
  h.decompress = decompress;
  b->device = y->device < 0 ? b->host : y->device; /* where the cache is */
  h.k = vram__build_kv(b, h.type_k, h.head_k, cells, is_flash);
  if (!is_flash && (decompress || !b->m->transposes_v))
    h.v = vram__build_transposed(b, h.type_v, h.head_v,
                                 vram__product_or_overflow(cells, y->n_head_kv));
  else
    h.v = vram__build_kv(b, h.type_v, h.head_v, cells, is_flash);
  b->device = device;
  i = is_flash ? vram__build_flash(b, &h) : vram__build_scores(b, &h);
  vram__build_expand(b, i);
  return i;
}

/* ---- Q, K and V ---- */

/* Q, K or V, or all of them: clamped, if the file says so. */
static int32_t vram__build_product(vram__build *b, int32_t x, const char *name, const char *bias) {
  x = vram__build_linear(b, x, name, bias);
  if ((b->flags & VRAM__BUILD_CLAMPS) && vram__llama_real(b->m, "attention.clamp_kqv") > 0)
    x = vram__build_map(b, x, -1);
  return x;
}

/* The products, one by one or in one. */
static vram__build_qkv vram__build_products(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  const uint64_t queries = vram__product_or_overflow(y->n_head, y->head_k);
  vram__build_qkv a;
  a.gate = -1;
  if (vram__build_weight(b, "attn_qkv.weight")) {
    x = vram__build_product(b, x, "attn_qkv.weight", "attn_qkv.bias");
    a.q = vram__build_view(b, x, (uint64_t)y->n_head * y->head_k, b->tokens, 1);
    a.k = vram__build_view(b, x, (uint64_t)y->n_head_kv * y->head_k, b->tokens, 1);
    a.v = vram__build_view(b, x, (uint64_t)y->n_head_kv * y->head_v, b->tokens, 1);
  } else {
    a.q = vram__build_product(b, x, "attn_q.weight", "attn_q.bias");
    if (vram__build_at(b, a.q)->ne[0] == 2 * queries) {
      a.gate = vram__build_view(b, a.q, y->head_k, y->n_head, b->tokens);
      a.q = vram__build_view(b, a.q, y->head_k, y->n_head, b->tokens);
    }
    a.k = vram__build_product(b, x, "attn_k.weight", "attn_k.bias");
    a.v = vram__build_product(b, x, "attn_v.weight", "attn_v.bias");
  }
  return a;
}

/* Q times a number of each token, if the file says so: mistral; without positions: llama4. */
static int32_t vram__build_tempered(vram__build *b, int32_t q) {
  const double scale = vram__llama_real(b->m, "attention.temperature_scale");
  if ((b->flags & VRAM__BUILD_UNIT_HEADS)
          ? vram__build_has_rope(b)
          : !(b->flags & VRAM__BUILD_TEMPERED) || !(scale < 0 || scale > 0))
    return q;
  if (b->temperature < 0)
    b->temperature = vram__build_input(b, b->tokens * 4);
  return vram__build_map(b, q, b->temperature);
}

VRAM__FN vram__build_qkv vram__build_project(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  vram__build_qkv a = vram__build_products(b, x);
  a.q = vram__build_turn(b, a.q, y->head_k, "attn_q_norm.weight", "attn_q_norm.bias");
  a.k = vram__build_turn(b, a.k, y->head_k, "attn_k_norm.weight", "attn_k_norm.bias");
  a.v = vram__build_head(b, a.v, y->head_v);
  if (b->flags & VRAM__BUILD_SCALE_Q)
    a.q = vram__build_map(b, a.q, -1);
  a.q = vram__build_tempered(b, a.q);
  return a;
}

/* Inputs that say in which cells the tokens go. A transposed V has a number for each element. */
static void vram__build_indices(vram__build *b, int32_t cache) {
  const uint64_t most = b->m->transposes_v ? vram__llama_widest_v(b->m) : 1;
  if (b->k_index[cache] >= 0)
    return;
  b->k_index[cache] = vram__build_input(b, b->tokens * 8);
  b->v_index[cache] = vram__build_input(b, vram__product_or_overflow(b->tokens * 8, most));
}

/* Attention over a cache. V comes before K, but not where some layers slide. */
VRAM__FN int32_t vram__build_over_cache(vram__build *b, vram__build_qkv a, int32_t bias) {
  const vram__llama_layer *y = b->m->layer + b->m->layer[b->il].reads;
  const int32_t c = y->cache;
  int32_t x;
  if (b->k_rotation[c] < 0)
    b->k_rotation[c] = vram__build_rotation(b, b->m->k_type, y->head_k, 0);
  if (b->v_rotation[c] < 0)
    b->v_rotation[c] = vram__build_rotation(b, b->m->v_type, y->head_v, 1);
  vram__build_indices(b, c);
  a.q = vram__build_rotate(b, a.q, b->k_rotation[c]);
  if (a.k >= 0) {
    a.k = vram__build_rotate(b, a.k, b->k_rotation[c]);
    a.v = vram__build_rotate(b, a.v, b->v_rotation[c]);
  }
  vram__build_expand(b, a.q);
  if (a.k >= 0) {
    if (b->m->n_swa)
      vram__build_expand(b, a.k);
    vram__build_expand(b, a.v);
    vram__build_expand(b, a.k);
    vram__build_store(b, a.k, b->k_index[c]);
    vram__build_store_v(b, a.v, b->v_index[c]);
  }
  x = vram__build_attend(b, a.q, NULL, bias);
  x = vram__build_rotate(b, x, b->v_rotation[c]);
  if (a.gate < 0)
    return x;
  a.gate = vram__build_node(b, vram__build_at(b, x)->ne[0], b->tokens, 1, a.gate);
  return vram__build_map(b, x, vram__build_map(b, a.gate, -1));
}

/* The result of attention times a gate made of its input: of each element, or of each head. */
static int32_t vram__build_gated(vram__build *b, int32_t a, int32_t x) {
  const vram_file_tensor *t = vram__build_weight(b, "attn_gate.weight");
  const uint64_t width = vram__build_at(b, a)->ne[0];
  int32_t gate;
  if (!t || !vram__build_width(t))
    return a;
  gate = vram__build_map(b, vram__build_linear(b, x, "attn_gate.weight", NULL), -1);
  if (vram__build_width(t) == width)
    return vram__build_map(b, a, gate);
  a = vram__build_view(b, a, width / vram__build_width(t), vram__build_width(t), b->tokens);
  gate = vram__build_view(b, gate, 1, vram__build_width(t), b->tokens);
  return vram__build_view(b, vram__build_map(b, a, gate), width, b->tokens, 1);
}

/* Attention over a cache, and the output's matrix. */
VRAM__FN int32_t vram__build_attention(vram__build *b, int32_t x) {
  int32_t i = vram__build_gated(b, vram__build_over_cache(b, vram__build_project(b, x), -1), x);
  const double scale = vram__llama_real(b->m, "attention.value_scale"); /* mimo2 */
  i = vram__build_norm(b, i, "attn_sub_norm.weight", NULL);
  i = vram__build_linear(b, i, "attn_output.weight", "attn_output.bias");
  return (scale < 0 || scale > 0) && (scale < 1 || scale > 1) ? vram__build_map(b, i, -1) : i;
}

/* V has a norm without a weight, and may be made of K's product; a layer without a cache of its own
   has Q alone: gemma3n, gemma4. */
VRAM__FN int32_t vram__build_shared_attention(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  vram__build_qkv a;
  int32_t i;
  a.k = a.v = a.gate = -1;
  if (vram__build_weight(b, "attn_qkv.weight"))
    b->g->is_given_up = 1; /* all in one: not built */
  i = vram__build_linear(b, x, "attn_q.weight", NULL);
  a.q = vram__build_turn(b, i, y->head_k, "attn_q_norm.weight", NULL);
  if (y->cache >= 0) {
    i = vram__build_linear(b, x, "attn_k.weight", NULL);
    a.k = vram__build_turn(b, i, y->head_k, "attn_k_norm.weight", NULL);
    if (vram__build_weight(b, "attn_v.weight"))
      i = vram__build_linear(b, x, "attn_v.weight", NULL);
    a.v = vram__build_map(b, vram__build_head(b, i, y->head_v), -1);
  }
  return vram__build_linear(b, vram__build_over_cache(b, a, -1), "attn_output.weight", NULL);
}

/* ---- latent attention: deepseek2 with the matrices of K and V absorbed ---- */

/* Q of all heads, by two matrices or one. */
static int32_t vram__build_wide_q(vram__build *b, int32_t x, int is_indexed) {
  int32_t i;
  if (vram__build_weight(b, "attn_q.weight"))
    return vram__build_linear(b, x, "attn_q.weight", NULL);
  i = vram__build_linear(b, x, "attn_q_a.weight", NULL);
  i = vram__build_norm(b, i, "attn_q_a_norm.weight", NULL);
  if (is_indexed && (b->m->row->flags & VRAM__LLAMA_INDEXER))
    vram__build_index(b, x, i);
  return vram__build_linear(b, i, "attn_q_b.weight", NULL);
}

/* Q's part without positions in the latent space, behind it the part that is turned. */
static int32_t vram__build_latent_q(vram__build *b, int32_t x) {
  const uint64_t heads = b->m->layer[b->il].n_head, rank = b->m->n_lora_kv;
  const uint64_t turned = b->m->layer[b->il].n_rot, plain = b->m->head_k_mla - turned;
  int32_t q = vram__build_wide_q(b, x, 1), i, v;
  v = vram__build_view(b, q, plain, b->tokens, heads);
  i = vram__build_linear(b, v, "attn_k_b.weight", NULL);
  i = vram__build_view(b, i, rank, heads, b->tokens);
  v = vram__build_view(b, q, turned, heads, b->tokens);
  if (vram__build_has_rope(b))
    v = vram__build_rope(b, v);
  i = vram__build_node(b, rank + turned, heads, b->tokens, i);
  vram__build_source(b, i, v);
  return vram__build_tempered(b, i);
}

VRAM__FN int32_t vram__build_latent(vram__build *b, int32_t x) {
  const uint64_t rank = b->m->n_lora_kv, turned = b->m->layer[b->il].n_rot;
  const int32_t c = b->m->layer[b->il].cache;
  int32_t q = vram__build_latent_q(b, x), all, k, v;
  all = vram__build_linear(b, x, "attn_kv_a_mqa.weight", NULL);
  v = vram__build_view(b, all, rank, b->tokens, 1);
  k = vram__build_view(b, all, turned, 1, b->tokens);
  if (vram__build_has_rope(b))
    k = vram__build_rope(b, k);
  v = vram__build_norm(b, v, "attn_kv_a_norm.weight", NULL);
  v = vram__build_view(b, v, rank, 1, b->tokens);
  all = vram__build_node(b, rank + turned, 1, b->tokens, v);
  vram__build_source(b, all, k);
  if (b->k_index[c] < 0)
    b->k_index[c] = vram__build_input(b, b->tokens * 8);
  vram__build_expand(b, q);
  vram__build_expand(b, v);
  vram__build_expand(b, all);
  vram__build_store(b, all, b->k_index[c]);
  x = vram__build_attend(b, q, "attn_v_b.weight", -1);
  return vram__build_linear(b, x, "attn_output.weight", NULL);
}

/* K and V of each head, made of their latent form before the cache: minicpm3, plm, files of
   deepseek2 from before 2025-04. */
VRAM__FN int32_t vram__build_unpacked(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  const uint64_t rank = b->m->n_lora_kv, turned = y->n_rot, heads = y->n_head;
  vram__build_qkv a;
  int32_t all, kv, k;
  a.gate = -1;
  if (turned > y->head_k)
    b->g->is_given_up = 1; /* more positions than a head has elements */
  a.q = vram__build_view(b, vram__build_wide_q(b, x, 0), y->head_k, heads, b->tokens);
  a.q = vram__build_tempered(b, vram__build_rope(b, a.q));
  all = vram__build_linear(b, x, "attn_kv_a_mqa.weight", NULL);
  k = vram__build_rope(b, vram__build_view(b, all, turned, 1, b->tokens));
  k = vram__build_node(b, turned, heads, b->tokens, k);
  kv = vram__build_view(b, all, rank, b->tokens, 1);
  kv = vram__build_norm(b, kv, "attn_kv_a_norm.weight", NULL);
  kv = vram__build_linear(b, kv, "attn_kv_b.weight", NULL);
  a.v = vram__build_node(b, y->head_v, heads, b->tokens,
                         vram__build_view(b, kv, y->head_v, heads, b->tokens));
  a.k = vram__build_node(b, y->head_k, heads, b->tokens,
                         vram__build_view(b, kv, y->head_k - turned, heads, b->tokens));
  vram__build_source(b, a.k, k);
  return vram__build_linear(b, vram__build_over_cache(b, a, -1), "attn_output.weight", NULL);
}

/* ---- without a cache: encoders ---- */

/* K or V as a product needs it: in f16 for flash attention, V transposed else. */
static int32_t vram__build_turned(vram__build *b, int32_t a, int is_v, int is_flash) {
  const uint64_t head = vram__build_at(b, a)->ne[0], heads = vram__build_at(b, a)->ne[1];
  const uint64_t rows = vram__build_at(b, a)->ne[2];
  int32_t i = vram__build_view(b, a, head, rows, heads);
  if (!is_flash && !is_v)
    return i;
  i = vram__build_node(b, head, rows, heads, i);
  if (is_flash)
    vram__build_at(b, i)->bytes /= 2;
  return i;
}

/* Attention among what is there, the tokens themselves or what an encoder made of others. */
VRAM__FN int32_t vram__build_among(vram__build *b, vram__build_qkv a, int32_t mask, int32_t bias) {
  const int is_flash = b->m->flash_attention && bias < 0;
  vram__build_heads h = vram__build_heads_of(b, a.q);
  int32_t x;
  vram__build_expand(b, a.q);
  vram__build_expand(b, a.k);
  vram__build_expand(b, a.v);
  h.cells = vram__build_at(b, a.k)->ne[2];
  h.k = vram__build_turned(b, a.k, 0, is_flash);
  h.v = vram__build_turned(b, a.v, 1, is_flash);
  h.mask = mask;
  h.bias = bias;
  x = is_flash ? vram__build_flash(b, &h) : vram__build_scores(b, &h);
  vram__build_expand(b, x);
  return x;
}

VRAM__FN int32_t vram__build_encode(vram__build *b, int32_t x) {
  const vram__build_qkv a = vram__build_project(b, x);
  x = vram__build_among(b, a, vram__build_mask(b, b->m->layer[b->il].slides, b->tokens), -1);
  return vram__build_linear(b, x, "attn_output.weight", "attn_output.bias");
}
