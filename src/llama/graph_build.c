/* >>llama/graph_build    the worst graph of an architecture: nodes in llama.cpp's order */
#include "llama/graph.h"

/* What an architecture's graph has that its tensors do not show (llama.cpp: src/models). */
enum {
  VRAM__BUILD_SCALE_INPUT = 1u, /* embeddings are scaled */
  VRAM__BUILD_SCALE_Q = 2u,
  VRAM__BUILD_ROWS_LAST = 4u,        /* output rows are chosen behind the last layer */
  VRAM__BUILD_PARALLEL = 8u,         /* feed-forward beside attention: command-r */
  VRAM__BUILD_SCALE_LOGITS = 16u,    /* in place */
  VRAM__BUILD_CAP_SCORES = 32u,      /* attention's soft cap */
  VRAM__BUILD_SIGMOID = 64u,         /* of the router, instead of softmax */
  VRAM__BUILD_LATE_SOFTMAX = 128u,   /* over the chosen experts */
  VRAM__BUILD_AT_LEAST = 1024u,      /* some contexts need up to 8 % more than this graph */
  VRAM__BUILD_RESIDUAL_FIRST = 512u, /* takes over the residual's place, not the result's */
  VRAM__BUILD_NORM_EXPERTS = 256u    /* weights of the chosen experts add up to 1 */
};

typedef struct vram__build_row {
  const char *name;
  uint32_t flags;
} vram__build_row;

static const vram__build_row vram__build_rows[] = {
    {"llama", VRAM__BUILD_NORM_EXPERTS},
    {"qwen2", 0},
    {"qwen3", 0},
    {"qwen3moe", VRAM__BUILD_NORM_EXPERTS},
    {"phi3", VRAM__BUILD_SCALE_Q | VRAM__BUILD_RESIDUAL_FIRST},
    {"gpt2", 0},
    {"gemma2", VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q | VRAM__BUILD_CAP_SCORES |
                   VRAM__BUILD_SCALE_LOGITS},
    {"gemma3", VRAM__BUILD_SCALE_INPUT | VRAM__BUILD_SCALE_Q},
    {"gpt-oss", VRAM__BUILD_ROWS_LAST | VRAM__BUILD_LATE_SOFTMAX | VRAM__BUILD_AT_LEAST},
    {"glm4moe", VRAM__BUILD_SIGMOID | VRAM__BUILD_NORM_EXPERTS},
    {"command-r", VRAM__BUILD_PARALLEL | VRAM__BUILD_SCALE_LOGITS},
};

typedef struct vram__build {
  const vram__llama *m;
  vram__graph *g;
  uint64_t tokens, outputs;
  uint64_t rows; /* of activations: tokens, outputs behind the last layer's attention */
  uint32_t flags;
  uint32_t il;
  int32_t device; /* of the layer's weights: number of a buffer */
  int32_t host;
  int32_t positions, out_ids;
  uint8_t pins_attention; /* to the host */
  int32_t k_rotation[VRAM_LLAMA_MAX_CACHES], v_rotation[VRAM_LLAMA_MAX_CACHES];
  int32_t k_index[VRAM_LLAMA_MAX_CACHES], v_index[VRAM_LLAMA_MAX_CACHES];
  int32_t mask[VRAM_LLAMA_MAX_CACHES];
  int32_t factors[VRAM__GRAPH_BUFFERS]; /* of rope: in each buffer that has a layer */
} vram__build;

/* A tensor, not yet in the order. */
static int32_t vram__build_tensor(vram__build *b, uint64_t n0, uint64_t n1, uint64_t n2) {
  vram__graph *g = b->g;
  vram__graph_node *n = g->node + g->nnode;
  if (g->nnode == g->cap) {
    g->is_full = 1;
    return 0;
  }
  vram__memory_zero(n, sizeof *n);
  n->view = n->copy = -1;
  n->buffer = -1;
  n->ne[0] = n0;
  n->ne[1] = n1;
  n->ne[2] = n2;
  n->bytes = vram__product_or_overflow(vram__product_or_overflow(n0, n1),
                                       vram__product_or_overflow(n2, 4));
  return (int32_t)g->nnode++;
}

static void vram__build_source(vram__build *b, int32_t node, int32_t source) {
  vram__graph_node *n = b->g->node + node;
  if (source >= 0 && n->nsource < VRAM__GRAPH_SOURCES)
    n->source[n->nsource++] = source;
}

static void vram__build_put(vram__build *b, int32_t node) {
  vram__graph *g = b->g;
  if (g->norder == g->cap)
    g->is_full = 1;
  else
    g->order[g->norder++] = node;
}

static int32_t vram__build_node(vram__build *b, uint64_t n0, uint64_t n1, uint64_t n2, int32_t a) {
  int32_t i = vram__build_tensor(b, n0, n1, n2);
  vram__build_source(b, i, a);
  vram__build_put(b, i);
  return i;
}

static vram__graph_node *vram__build_at(vram__build *b, int32_t i) { return b->g->node + i; }

/* An element-wise op on a (and c, if it is not -1), of a's shape. */
static int32_t vram__build_map(vram__build *b, int32_t a, int32_t c) {
  const vram__graph_node *s = vram__build_at(b, a);
  int32_t i = vram__build_node(b, s->ne[0], s->ne[1], s->ne[2], a);
  vram__build_source(b, i, c);
  vram__build_at(b, i)->flags |= VRAM__NODE_IN_PLACE;
  return i;
}

/* A part or another shape of a; a part's bytes are those from its first row to its last. */
static int32_t vram__build_view(vram__build *b, int32_t a, uint64_t n0, uint64_t n1, uint64_t n2) {
  const vram__graph_node *s = vram__build_at(b, a);
  const uint64_t all =
      vram__product_or_overflow(vram__product_or_overflow(s->ne[0], s->ne[1]), s->ne[2] * 4);
  const uint64_t rows = vram__product_or_overflow(n1, n2);
  int32_t i = vram__build_node(b, n0, n1, n2, a);
  vram__graph_node *n = vram__build_at(b, i);
  n->view = s->view >= 0 ? s->view : a;
  if (n->bytes == all)
    n->bytes = s->bytes;
  else if (rows)
    n->bytes = vram__sum_or_overflow((rows - 1) * (all / rows), n0 * 4);
  return i;
}

static int32_t vram__build_input(vram__build *b, uint64_t bytes) {
  int32_t i = vram__build_tensor(b, 1, 1, 1);
  vram__build_at(b, i)->bytes = bytes;
  vram__build_at(b, i)->buffer = (int8_t)b->host;
  vram__build_at(b, i)->flags = VRAM__NODE_INPUT;
  return i;
}

/* ---- weights ---- */

static const vram_file_tensor *vram__build_weight(const vram__build *b, const char *name) {
  char text[64];
  uint32_t n = 0;
  vram__text_puts(text, sizeof text, &n, "blk.");
  vram__text_putu(text, sizeof text, &n, b->il);
  vram__text_puts(text, sizeof text, &n, ".");
  vram__text_puts(text, sizeof text, &n, name);
  return vram_file_find(b->m->file, text, n);
}

static const vram_file_tensor *vram__build_global(const vram__build *b, const char *name) {
  return vram_file_find(b->m->file, name, vram__text_len(name));
}

/* The device that takes work off the host: the first one. */
static int32_t vram__build_helper(const vram__build *b) {
  return b->m->options->split == VRAM_LLAMA_SPLIT_NONE ? (int32_t)b->m->options->main_gpu : 0;
}

static int32_t vram__build_leaf(vram__build *b, const vram_file_tensor *t, int32_t buffer) {
  const uint64_t n0 = t->ndim ? (uint64_t)t->size[t->ndim - 1] : 1;
  const uint64_t n1 = t->ndim > 1 ? (uint64_t)t->size[t->ndim - 2] : 1, all = t->numel;
  int32_t i = vram__build_tensor(b, n0, n1, n0 && n1 ? all / n0 / n1 : 0);
  vram__graph_node *n = vram__build_at(b, i);
  vram_dtype_rows_bytes(t->dtype, n0 ? all / n0 : 0, n0, &n->bytes);
  n->room = vram__llama_tensor_bytes(t->dtype, n0 ? all / n0 : 0, n0, 1) - n->bytes;
  n->buffer = (int8_t)buffer;
  n->flags = VRAM__NODE_FOREIGN | VRAM__NODE_WEIGHT;
  return i;
}

/* Rows of the result, of which ggml-cuda takes 32 or more off the host (get_op_batch_size). */
static uint64_t vram__build_batch(const vram__graph_node *n, const vram_file_tensor *t) {
  if (t->ndim < 3)
    return vram__product_or_overflow(n->ne[1], n->ne[2]);
  return n->ne[vram__llama_holds(t, "_exps") ? 2 : 1];
}

/* A node with a weight in a buffer: computed there, or on a device in the host's place. */
static int32_t vram__build_with_in(vram__build *b, int32_t node, const vram_file_tensor *t,
                                   int32_t buffer) {
  vram__graph_node *n = vram__build_at(b, node);
  vram__build_source(b, node, vram__build_leaf(b, t, buffer));
  if (buffer == b->host && b->m->ndevice && vram__build_batch(n, t) >= 32 &&
      vram__llama_is_multiplied(t->dtype))
    buffer = vram__build_helper(b);
  n->buffer = (int8_t)buffer;
  return node;
}

static int32_t vram__build_with(vram__build *b, int32_t node, const vram_file_tensor *t) {
  int32_t device;
  vram_error e;
  if (vram__llama_device(b->m, t, &device, &e)) /* its patterns were read before */
    device = -1;
  return vram__build_with_in(b, node, t, device < 0 ? b->host : device);
}

static uint64_t vram__build_width(const vram_file_tensor *t) {
  return t->ndim > 1 ? (uint64_t)t->size[t->ndim - 2] : 1;
}

static int32_t vram__build_bias(vram__build *b, int32_t a, const char *name) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  return t ? vram__build_with(b, vram__build_map(b, a, -1), t) : a;
}

/* Matrix times a, and a bias if the layer has one. */
static int32_t vram__build_linear(vram__build *b, int32_t a, const char *name, const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  int32_t i;
  if (!t)
    return a;
  i = vram__build_node(b, vram__build_width(t), vram__build_at(b, a)->ne[1], 1, -1);
  vram__build_with(b, i, t);
  vram__build_source(b, i, a);
  return bias ? vram__build_bias(b, i, bias) : i;
}

/* A norm, its weight and bias. NORM is never in place, RMS_NORM may be. */
static int32_t vram__build_norm(vram__build *b, int32_t a, const char *name, const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  int32_t i;
  int is_mean = vram__build_global(b, "output_norm.bias") || (b->flags & VRAM__BUILD_PARALLEL);
  if (!t)
    return a;
  i = vram__build_map(b, a, -1);
  if (is_mean)
    vram__build_at(b, i)->flags = 0;
  i = vram__build_with(b, vram__build_map(b, i, -1), t);
  return bias ? vram__build_bias(b, i, bias) : i;
}

/* ---- attention ---- */

/* Q, K or V with heads apart; its own norm; rotated. */
static int32_t vram__build_head(vram__build *b, int32_t a, uint64_t head, const char *norm) {
  const vram__graph_node *n = vram__build_at(b, a);
  int32_t i = vram__build_view(b, a, head, n->ne[0] / head, b->tokens);
  return norm ? vram__build_norm(b, i, norm, NULL) : i;
}

/* Factors of rope, where the layer's weights are; -1: the model has none. */
static int32_t vram__build_factors(vram__build *b) {
  const vram_file_tensor *t = vram__build_global(b, "rope_freqs.weight");
  if (!t)
    t = vram__build_global(b, "rope_factors_long.weight");
  if (t && b->factors[b->device] < 0)
    b->factors[b->device] = vram__build_leaf(b, t, b->device);
  return b->factors[b->device];
}

static int32_t vram__build_rope(vram__build *b, int32_t a) {
  int32_t i;
  if (b->positions < 0)
    b->positions = vram__build_input(b, b->tokens * 4);
  i = vram__build_map(b, a, b->positions);
  vram__build_source(b, i, vram__build_factors(b));
  return i;
}

/* llama-kv-cache.cpp: values of a quantised cache are rotated first, by a Hadamard matrix of the
   largest power of two that divides a head (K), of 64 (V). */
static int32_t vram__build_rotation(vram__build *b, vram_dtype type, uint64_t head, int is_v) {
  uint64_t n = 64;
  const vram_dtype_info *info = vram_dtype_get_info(type);
  if (!info || info->block_elements <= 1 || head % 64)
    return -1;
  while (!is_v && head % (n * 2) == 0)
    n *= 2;
  return vram__build_input(b, n * n * 4);
}

static int32_t vram__build_rotate(vram__build *b, int32_t a, int32_t rotation) {
  uint64_t n, all;
  int32_t i, v;
  if (rotation < 0)
    return a;
  n = vram__build_at(b, rotation)->bytes / 4;
  for (all = 64; all * all < n; all *= 2)
    ;
  n = vram__build_at(b, a)->bytes / 4;
  v = vram__build_view(b, a, all, n / all, 1);
  i = vram__build_node(b, all, n / all, 1, rotation);
  vram__build_source(b, i, v);
  return vram__build_view(b, i, vram__build_at(b, a)->ne[0], vram__build_at(b, a)->ne[1],
                          vram__build_at(b, a)->ne[2]);
}

static int32_t vram__build_cache_in(const vram__build *b) {
  return b->m->offloads_kv ? b->device : b->host;
}

static void vram__build_store(vram__build *b, int32_t a, int32_t index) {
  const vram__graph_node *n = vram__build_at(b, a);
  int32_t v = vram__build_view(b, a, n->ne[0] * n->ne[1], b->tokens, 1);
  int32_t i = vram__build_node(b, 1, 1, 1, v);
  vram__build_source(b, i, index);
  vram__build_at(b, i)->flags = VRAM__NODE_FOREIGN;
  vram__build_at(b, i)->buffer = (int8_t)vram__build_cache_in(b);
}

/* A layer's K or V as a whole, in the cache of the layer. `rows` of them. */
static int32_t vram__build_cached(vram__build *b, vram_dtype type, uint64_t head, uint64_t rows) {
  const vram__llama_layer *y = b->m->layer + b->il;
  int32_t i = vram__build_tensor(b, 1, 1, 1), v;
  vram__build_at(b, i)->flags = VRAM__NODE_FOREIGN;
  vram__build_at(b, i)->buffer = (int8_t)vram__build_cache_in(b);
  v = vram__build_view(b, i, 1, 1, 1);
  rows = vram__product_or_overflow(rows, y->n_head_kv);
  vram_dtype_rows_bytes(type, rows, head, &vram__build_at(b, v)->bytes);
  if (vram__llama_is_quantised(type))
    vram__build_at(b, v)->room =
        vram__llama_tensor_bytes(type, rows, head, 1) - vram__build_at(b, v)->bytes;
  return v;
}

/* What ggml-cuda puts behind the result of flash attention: f16 copies of K and V of another type
   (ggml_cuda_flash_attn_ext_get_alloc_size). */
static uint64_t vram__build_flash_room(const vram__build *b, const vram__llama_layer *y,
                                       uint64_t cells) {
  uint64_t bytes = 0;
  cells = vram__product_or_overflow(cells, 2 * (uint64_t)y->n_head_kv);
  if (b->m->k_type != VRAM_F16)
    bytes = vram__product_or_overflow(cells, y->head_k);
  if (b->m->v_type != VRAM_F16)
    bytes = vram__sum_or_overflow(bytes, vram__product_or_overflow(cells, y->head_v));
  return bytes;
}

/* Softmax over all scores, then V: without flash attention. */
static int32_t vram__build_scores(vram__build *b, int32_t q, int32_t mask) {
  const vram__llama_layer *y = b->m->layer + b->il;
  const vram_llama_cache *c = b->m->cache + y->cache;
  const uint64_t rows = vram__product_or_overflow(c->cells, c->streams);
  int32_t i = vram__build_view(b, q, y->head_k, b->tokens, y->n_head);
  q = i;
  i = vram__build_node(b, c->cells, b->tokens, y->n_head,
                       vram__build_cached(b, b->m->k_type, y->head_k, rows));
  vram__build_source(b, i, q);
  if (b->flags & VRAM__BUILD_CAP_SCORES)
    for (int k = 0; k < 3; k++)
      i = vram__build_map(b, i, -1);
  q = vram__build_map(b, i, mask);
  i = vram__build_node(b, y->head_v, b->tokens, y->n_head,
                       vram__build_cached(b, b->m->v_type, y->head_v, rows));
  vram__build_source(b, i, q);
  i = vram__build_view(b, i, y->head_v, y->n_head, b->tokens);
  i = vram__build_node(b, (uint64_t)y->head_v * y->n_head, b->tokens, 1, i);
  if (b->pins_attention) /* and with it all from the cache on */
    vram__build_at(b, i)->buffer = (int8_t)b->host;
  return i;
}

static int32_t vram__build_attend(vram__build *b, int32_t q) {
  const vram__llama_layer *y = b->m->layer + b->il;
  const vram_llama_cache *c = b->m->cache + y->cache;
  const uint64_t rows = vram__product_or_overflow(c->cells, c->streams);
  int32_t i, mask = b->mask[y->cache];
  if (mask < 0) {
    mask = vram__build_input(
        b, vram__product_or_overflow(b->tokens * (b->m->flash_attention ? 2 : 4), c->cells));
    b->mask[y->cache] = mask;
  }
  if (!b->m->flash_attention)
    return vram__build_scores(b, q, mask);
  i = vram__build_view(b, q, y->head_k, b->tokens, y->n_head);
  i = vram__build_node(b, y->head_v, y->n_head, b->tokens, i);
  vram__build_source(b, i, vram__build_cached(b, b->m->k_type, y->head_k, rows));
  vram__build_source(b, i, vram__build_cached(b, b->m->v_type, y->head_v, rows));
  vram__build_source(b, i, mask);
  vram__build_at(b, i)->room = vram__build_flash_room(b, y, rows);
  return vram__build_view(b, i, (uint64_t)y->head_v * y->n_head, b->tokens, 1);
}

typedef struct vram__build_qkv {
  int32_t q, k, v;
} vram__build_qkv;

static int vram__build_has_rope(const vram__build *b) {
  return !vram__build_global(b, "position_embd.weight");
}

static int32_t vram__build_query(vram__build *b, int32_t q) {
  const vram__llama_layer *y = b->m->layer + b->il;
  q = vram__build_head(b, q, y->head_k, "attn_q_norm.weight");
  if (vram__build_has_rope(b))
    q = vram__build_rope(b, q);
  if (b->flags & VRAM__BUILD_SCALE_Q)
    q = vram__build_map(b, q, -1);
  return vram__build_rotate(b, q, b->k_rotation[y->cache]);
}

static int32_t vram__build_key(vram__build *b, int32_t k) {
  const vram__llama_layer *y = b->m->layer + b->il;
  k = vram__build_head(b, k, y->head_k, "attn_k_norm.weight");
  if (vram__build_has_rope(b))
    k = vram__build_rope(b, k);
  return vram__build_rotate(b, k, b->k_rotation[y->cache]);
}

static int32_t vram__build_value(vram__build *b, int32_t v) {
  const vram__llama_layer *y = b->m->layer + b->il;
  if (b->v_rotation[y->cache] < 0)
    b->v_rotation[y->cache] = vram__build_rotation(b, b->m->v_type, y->head_v, 1);
  return vram__build_rotate(b, vram__build_head(b, v, y->head_v, NULL), b->v_rotation[y->cache]);
}

/* Q, K and V in the order in which llama.cpp expands them: V before K, but not where some layers
   slide (llm_graph_context::build_attn). */
static vram__build_qkv vram__build_project(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  vram__build_qkv a;
  if (b->k_rotation[y->cache] < 0)
    b->k_rotation[y->cache] = vram__build_rotation(b, b->m->k_type, y->head_k, 0);
  if (vram__build_weight(b, "attn_qkv.weight")) {
    uint64_t nq = (uint64_t)y->n_head * y->head_k, nk = (uint64_t)y->n_head_kv * y->head_k;
    x = vram__build_linear(b, x, "attn_qkv.weight", "attn_qkv.bias");
    a.q = vram__build_query(b, vram__build_view(b, x, nq, b->tokens, 1));
    a.v = vram__build_view(b, x, (uint64_t)y->n_head_kv * y->head_v, b->tokens, 1);
    a.k = vram__build_key(b, vram__build_view(b, x, nk, b->tokens, 1));
    if (!b->m->flash_attention) /* V is stored by element: made contiguous first */
      a.v = vram__build_node(b, (uint64_t)y->n_head_kv * y->head_v, b->tokens, 1, a.v);
    a.v = vram__build_value(b, a.v);
    return a;
  }
  a.q = vram__build_query(b, vram__build_linear(b, x, "attn_q.weight", "attn_q.bias"));
  if (b->m->ncache > 1)
    a.k = vram__build_key(b, vram__build_linear(b, x, "attn_k.weight", "attn_k.bias"));
  a.v = vram__build_value(b, vram__build_linear(b, x, "attn_v.weight", "attn_v.bias"));
  if (b->m->ncache <= 1)
    a.k = vram__build_key(b, vram__build_linear(b, x, "attn_k.weight", "attn_k.bias"));
  return a;
}

/* Attention up to the output's matrix. */
static int32_t vram__build_attention(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  uint64_t v_rows = b->m->flash_attention ? 1 : (uint64_t)y->n_head_kv * y->head_v;
  vram__build_qkv a = vram__build_project(b, x);
  if (b->k_index[y->cache] < 0) {
    b->k_index[y->cache] = vram__build_input(b, b->tokens * 8);
    b->v_index[y->cache] = vram__build_input(b, vram__product_or_overflow(b->tokens * 8, v_rows));
  }
  vram__build_store(b, a.k, b->k_index[y->cache]);
  vram__build_store(b, a.v, b->v_index[y->cache]);
  return vram__build_attend(b, a.q);
}

/* Attention's result through the output's matrix, rotated back before. */
static int32_t vram__build_output(vram__build *b, int32_t x) {
  const vram__llama_layer *y = b->m->layer + b->il;
  x = vram__build_rotate(b, x, b->v_rotation[y->cache]);
  return vram__build_linear(b, x, "attn_output.weight", "attn_output.bias");
}

/* ---- feed forward ---- */

static int32_t vram__build_glu(vram__build *b, int32_t gate, int32_t up, uint64_t width) {
  const vram__graph_node *n = vram__build_at(b, gate);
  int32_t i = vram__build_node(b, width, n->ne[1], n->ne[2], gate);
  vram__build_source(b, i, up);
  return i;
}

static int32_t vram__build_dense(vram__build *b, int32_t x) {
  int32_t up, gate;
  if (vram__build_weight(b, "ffn_gate.weight")) {
    gate = vram__build_linear(b, x, "ffn_gate.weight", "ffn_gate.bias");
    up = vram__build_linear(b, x, "ffn_up.weight", "ffn_up.bias");
    up = vram__build_glu(b, gate, up, vram__build_at(b, up)->ne[0]);
  } else {
    const vram_file_tensor *down = vram__build_weight(b, "ffn_down.weight");
    up = vram__build_linear(b, x, "ffn_up.weight", "ffn_up.bias");
    if (down && vram__build_at(b, up)->ne[0] == 2 * (uint64_t)down->size[down->ndim - 1])
      up = vram__build_glu(b, up, -1, vram__build_at(b, up)->ne[0] / 2);
    else
      up = vram__build_map(b, up, -1);
  }
  return vram__build_linear(b, up, "ffn_down.weight", "ffn_down.bias");
}

typedef struct vram__build_router {
  int32_t logits, probs, biased, chosen, weights, sum;
} vram__build_router;

/* Behind the last of the nodes that ggml-cuda computes as one, from `first` on: what lives until
   here. */
static int32_t vram__build_fused(vram__build *b, int32_t first, int32_t a) {
  int32_t i = vram__build_node(b, 1, 1, 1, a);
  vram__build_at(b, i)->view = first;
  vram__build_at(b, i)->flags = VRAM__NODE_FUSED;
  return i;
}

/* ggml-cuda fuses the router's ops. */
static void vram__build_live(vram__build *b, int32_t last, const vram__build_router *r) {
  int32_t i;
  if (b->flags & VRAM__BUILD_LATE_SOFTMAX)
    return;
  i = vram__build_fused(b, r->probs, r->logits);
  if (r->probs != r->logits)
    vram__build_source(b, i, r->probs);
  if (r->biased != r->probs)
    vram__build_source(b, i, r->biased);
  if (r->weights != last)
    vram__build_source(b, i, r->weights);
  if (r->sum >= 0)
    vram__build_source(b, i, r->sum);
}

/* Weights of the chosen experts, [1, used, rows]. */
static vram__build_router vram__build_route(vram__build *b, int32_t x) {
  const uint64_t used = b->m->n_expert_used, rows = vram__build_at(b, x)->ne[1];
  const uint64_t experts = b->m->n_expert;
  vram__build_router r;
  int32_t i, view;
  r.sum = -1;
  r.logits = vram__build_linear(b, x, "ffn_gate_inp.weight", "ffn_gate_inp.bias");
  r.probs = b->flags & VRAM__BUILD_LATE_SOFTMAX ? r.logits : vram__build_map(b, r.logits, -1);
  r.biased = vram__build_bias(b, r.probs, "exp_probs_b.bias");
  r.chosen = vram__build_node(b, experts, rows, 1, r.biased);
  i = vram__build_view(b, r.probs, 1, experts, rows);
  view = vram__build_view(b, r.chosen, used, rows, 1);
  r.weights = vram__build_node(b, 1, used, rows, i);
  vram__build_source(b, r.weights, view);
  i = r.weights;
  if (b->flags & VRAM__BUILD_LATE_SOFTMAX) {
    i = vram__build_map(b, vram__build_view(b, i, used, rows, 1), -1);
  } else if (b->flags & VRAM__BUILD_NORM_EXPERTS) {
    view = vram__build_view(b, i, used, rows, 1);
    r.sum = vram__build_node(b, 1, rows, 1, view);
    i = vram__build_map(b, r.sum, -1);
    i = vram__build_map(b, view, i);
  }
  vram__build_live(b, i, &r);
  r.weights = i;
  return r;
}

static int32_t vram__build_expert(vram__build *b, int32_t x, int32_t chosen, const char *name,
                                  const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  int32_t i;
  if (!t)
    return x;
  i = vram__build_node(b, vram__build_width(t), b->m->n_expert_used, b->rows, -1);
  vram__build_with(b, i, t);
  vram__build_source(b, i, x);
  vram__build_source(b, i, chosen);
  return bias ? vram__build_bias(b, i, bias) : i;
}

/* The experts' results, weighted and added up (llm_graph_context::build_moe_ffn). */
static int32_t vram__build_moe(vram__build *b, int32_t x) {
  const uint32_t used = b->m->n_expert_used;
  const uint64_t width = vram__build_at(b, x)->ne[0];
  vram__build_router r = vram__build_route(b, x);
  int32_t view = vram__build_view(b, x, width, 1, b->rows);
  int32_t gate, up, down, sum, part;
  gate = vram__build_expert(b, view, r.chosen, "ffn_gate_exps.weight", "ffn_gate_exps.bias");
  up = vram__build_expert(b, view, r.chosen, "ffn_up_exps.weight", "ffn_up_exps.bias");
  up = vram__build_glu(b, gate, up, vram__build_at(b, up)->ne[0]);
  down = vram__build_expert(b, up, r.chosen, "ffn_down_exps.weight", "ffn_down_exps.bias");
  r.weights = vram__build_view(b, r.weights, 1, used, b->rows);
  part = vram__build_map(b, down, r.weights);
  if (used < 2 || used > 64)
    return vram__build_view(b, part, width, b->rows, 1);
  {
    int32_t views[64];
    for (uint32_t k = 0; k < used; k++)
      views[k] = vram__build_view(b, part, width, b->rows, 1);
    sum = views[0];
    for (uint32_t k = 1; k < used; k++)
      sum = vram__build_map(b, sum, views[k]);
  }
  vram__build_source(b, vram__build_fused(b, part, down), r.weights);
  return sum;
}

static int32_t vram__build_forward(vram__build *b, int32_t x) {
  int32_t sum, shared, gate;
  if (!vram__build_weight(b, "ffn_gate_inp.weight"))
    return vram__build_dense(b, x);
  sum = vram__build_moe(b, x);
  if (!vram__build_weight(b, "ffn_up_shexp.weight"))
    return sum;
  gate = vram__build_linear(b, x, "ffn_gate_shexp.weight", NULL);
  shared = vram__build_linear(b, x, "ffn_up_shexp.weight", NULL);
  shared = vram__build_glu(b, gate, shared, vram__build_at(b, shared)->ne[0]);
  shared = vram__build_linear(b, shared, "ffn_down_shexp.weight", NULL);
  return vram__build_map(b, sum, shared);
}

/* ---- layers ---- */

static int32_t vram__build_rows_of(vram__build *b, int32_t x) {
  int32_t i;
  if (b->out_ids < 0)
    b->out_ids = vram__build_input(b, b->outputs * 4);
  i = vram__build_node(b, vram__build_at(b, x)->ne[0], b->outputs, 1, x);
  vram__build_source(b, i, b->out_ids);
  return i;
}

/* command-r: the layer's input goes to both, and all three are added. */
static int32_t vram__build_parallel(vram__build *b, int32_t x, int is_last) {
  int32_t norm = vram__build_norm(b, x, "attn_norm.weight", NULL);
  int32_t attention = vram__build_attention(b, norm), i = norm;
  if (is_last) {
    i = vram__build_rows_of(b, i);
    b->rows = b->outputs;
  }
  i = vram__build_dense(b, i);
  if (is_last)
    x = vram__build_rows_of(b, x);
  i = vram__build_map(b, i, x);
  attention = vram__build_output(b, attention);
  if (is_last)
    attention = vram__build_rows_of(b, attention);
  return vram__build_map(b, i, attention);
}

static int32_t vram__build_layer(vram__build *b, int32_t x, int is_last) {
  int is_before = vram__build_weight(b, "ffn_norm.weight") != NULL;
  int32_t i;
  if (b->flags & VRAM__BUILD_PARALLEL)
    return vram__build_parallel(b, x, is_last);
  i = vram__build_norm(b, x, "attn_norm.weight", "attn_norm.bias");
  i = vram__build_attention(b, i);
  i = vram__build_output(b, i);
  if (is_last && !(b->flags & VRAM__BUILD_ROWS_LAST)) {
    i = vram__build_rows_of(b, i);
    b->rows = b->outputs;
    if (!is_before || !vram__build_weight(b, "post_attention_norm.weight"))
      x = vram__build_rows_of(b, x);
  }
  if (is_before && vram__build_weight(b, "post_attention_norm.weight")) {
    i = vram__build_norm(b, i, "post_attention_norm.weight", NULL);
    if (is_last)
      x = vram__build_rows_of(b, x);
  }
  x = vram__build_map(b, i, x);
  i = vram__build_norm(b, x, is_before ? "ffn_norm.weight" : "post_attention_norm.weight",
                       is_before ? "ffn_norm.bias" : NULL);
  i = vram__build_forward(b, i);
  i = vram__build_norm(b, i, "post_ffw_norm.weight", NULL);
  i = b->flags & VRAM__BUILD_RESIDUAL_FIRST ? vram__build_map(b, x, i) : vram__build_map(b, i, x);
  if (is_last && (b->flags & VRAM__BUILD_ROWS_LAST))
    i = vram__build_rows_of(b, i);
  return i;
}

/* Token embeddings are looked up on the host. */
static int32_t vram__build_embed(vram__build *b) {
  const uint64_t width = b->m->n_embd;
  int32_t tokens = vram__build_input(b, b->tokens * 4), i, p;
  vram__build_input(
      b, vram__product_or_overflow(b->tokens * 4, width)); /* embeddings in place of tokens */
  i = vram__build_node(b, width, b->tokens, 1, tokens);
  vram__build_at(b, i)->buffer = (int8_t)b->host;
  if (b->flags & VRAM__BUILD_SCALE_INPUT)
    i = vram__build_map(b, i, -1);
  if (!vram__build_has_rope(b)) {
    b->positions = vram__build_input(b, b->tokens * 4);
    p = vram__build_node(b, width, b->tokens, 1, b->positions);
    vram__build_at(b, p)->buffer = (int8_t)b->host;
    i = vram__build_map(b, i, p);
  }
  return i;
}

static void vram__build_head_of(vram__build *b, int32_t x) {
  int is_mean = vram__build_global(b, "output_norm.bias") || (b->flags & VRAM__BUILD_PARALLEL);
  const vram_file_tensor *norm = vram__build_global(b, "output_norm.weight");
  const vram_file_tensor *bias = vram__build_global(b, "output_norm.bias");
  const vram_file_tensor *t = vram__build_global(b, "output.weight");
  int32_t i;
  b->device = b->m->output_device < 0 ? b->host : b->m->output_device;
  x = vram__build_map(b, x, -1);
  if (is_mean)
    vram__build_at(b, x)->flags = 0;
  if (norm)
    x = vram__build_with(b, vram__build_map(b, x, -1), norm);
  if (bias)
    x = vram__build_with(b, vram__build_map(b, x, -1), bias);
  i = vram__build_node(b, b->m->n_vocab, b->outputs, 1, -1);
  if (t)
    vram__build_with(b, i, t);
  else if ((t = vram__build_global(b, "token_embd.weight")) != NULL)
    vram__build_with_in(b, i, t, vram__llama_is_multiplied(t->dtype) ? b->device : b->host);
  vram__build_source(b, i, x);
  x = i;
  if (b->flags & VRAM__BUILD_SCALE_LOGITS)
    x = vram__build_map(b, x, -1);
  vram__build_at(b, x)->flags |= VRAM__NODE_OUTPUT;
}

static void vram__build_all(vram__build *b) {
  const vram__llama *m = b->m;
  const uint32_t n = m->n_layer - m->n_layer_nextn;
  int32_t x = vram__build_embed(b);
  for (b->il = 0; b->il < n && !b->g->is_full; b->il++) {
    b->device = m->layer[b->il].device < 0 ? b->host : m->layer[b->il].device;
    x = vram__build_layer(b, x, b->il + 1 == n);
  }
  vram__build_head_of(b, x);
}

/* ---- entry ---- */

/* Does a table of which rows are taken lie on a device? Which of its types that can do is not read
   here. */
static int vram__build_is_moved(const vram__llama *m) {
  static const char *const names[] = {"token_embd.weight", "position_embd.weight"};
  for (uint32_t i = 0; i < sizeof names / sizeof *names; i++) {
    const vram_file_tensor *t = vram_file_find(m->file, names[i], vram__text_len(names[i]));
    int32_t device = -1;
    vram_error e;
    if (t && !vram__llama_device(m, t, &device, &e) && device >= 0)
      return 1;
  }
  return 0;
}

/* Is the graph of this model and context one that is built here? */
static int vram__build_begin(vram__build *b, const vram__llama *m) {
  const uint32_t n = (uint32_t)(sizeof vram__build_rows / sizeof *vram__build_rows);
  uint32_t i;
  for (i = 0; i < n && !vram__text_is(m->arch, m->arch_len, vram__build_rows[i].name); i++)
    ;
  if (i == n || vram__build_is_moved(m))
    return 0;
  b->m = m;
  b->flags = vram__build_rows[i].flags;
  for (i = 0; i < m->n_layer - m->n_layer_nextn; i++)
    if (m->layer[i].cache < 0 || !m->layer[i].head_k || !m->layer[i].head_v ||
        /* the kernel for f32 caches without shared heads takes other room */
        (m->k_type == VRAM_F32 && m->layer[i].n_head == m->layer[i].n_head_kv))
      return 0;
  b->tokens = m->n_ctx < m->n_ubatch ? m->n_ctx : m->n_ubatch;
  b->tokens = vram__round_up_u64(b->tokens, m->n_seq);
  b->outputs = b->tokens < m->n_outputs ? b->tokens : m->n_outputs;
  b->rows = b->tokens;
  b->host = (int32_t)m->ndevice;
  b->positions = b->out_ids = -1;
  for (i = 0; i < VRAM__GRAPH_BUFFERS; i++)
    b->factors[i] = -1;
  for (i = 0; i < VRAM_LLAMA_MAX_CACHES; i++)
    b->k_index[i] = b->v_index[i] = b->mask[i] = b->k_rotation[i] = b->v_rotation[i] = -1;
  return 1;
}

/* llama_context::llama_context: several batches at a time on several devices, if they have all. */
static uint8_t vram__build_is_pipeline(const vram__llama *m) {
  const vram_llama_options *o = m->options;
  return m->ndevice > 1 && m->n_gpu_layers > m->n_layer && o->split == VRAM_LLAMA_SPLIT_LAYER &&
         m->offloads_kv && !o->noverride_tensor && !o->n_cpu_moe;
}

/* Bytes of the compute buffers: devices, then the host. Unknown: no rule builds this graph. */
static vram_llama_known vram__build_peaks(const vram__llama *m, void *memory, uint64_t bytes,
                                          int pins_attention,
                                          uint64_t compute[VRAM__GRAPH_BUFFERS]) {
  vram__build b;
  vram__graph *g = (vram__graph *)memory;
  const uint64_t before = sizeof *g + (m->ndevice + 1u) * (uint64_t)sizeof *g->heap;
  vram__memory_zero(&b, sizeof b);
  if (bytes < before || !vram__build_begin(&b, m))
    return VRAM_LLAMA_UNKNOWN;
  b.pins_attention = (uint8_t)pins_attention;
  vram__memory_zero(g, sizeof *g);
  g->cap = (uint32_t)((bytes - before) / (sizeof *g->node + 3 * sizeof *g->order));
  g->heap = (vram__graph_heap *)(void *)(g + 1);
  g->node = (vram__graph_node *)(void *)(g->heap + m->ndevice + 1);
  g->order = (int32_t *)(void *)(g->node + g->cap);
  g->nbuffer = m->ndevice + 1;
  b.g = g;
  g->is_pipeline = vram__build_is_pipeline(m);
  vram__build_all(&b);
  if (g->is_full)
    return VRAM_LLAMA_UNKNOWN;
  vram__graph_split(g);
  if (g->is_full)
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i < g->nbuffer; i++)
    vram__heap_begin(g->heap + i, i < m->ndevice ? 128 : 32);
  if (!vram__graph_place(g))
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i < g->nbuffer; i++)
    compute[i] = g->heap[i].peak;
  return b.flags & VRAM__BUILD_AT_LEAST ? VRAM_LLAMA_FLOOR : VRAM_LLAMA_EXACT;
}

/* Attention without its cache on a device and without flash attention: llama.cpp pins it to the
   host, but forgets that where it only measures (ggml_backend_sched_reserve_size). What both need
   is sure. */
static vram_llama_known vram__build_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                            uint64_t compute[VRAM__GRAPH_BUFFERS]) {
  uint64_t pinned[VRAM__GRAPH_BUFFERS];
  vram_llama_known known = vram__build_peaks(m, memory, bytes, 0, compute);
  if (m->offloads_kv || m->flash_attention || !m->ndevice || !known)
    return known;
  if (!vram__build_peaks(m, memory, bytes, 1, pinned))
    return VRAM_LLAMA_UNKNOWN;
  for (uint32_t i = 0; i <= m->ndevice; i++)
    if (pinned[i] != compute[i]) {
      known = VRAM_LLAMA_FLOOR;
      compute[i] = pinned[i] < compute[i] ? pinned[i] : compute[i];
    }
  return known;
}

/* Logits and what they are computed from: what the last device needs at least. */
static uint64_t vram__build_floor(const vram__llama *m) {
  uint64_t rows = m->n_ctx < m->n_ubatch ? m->n_ctx : m->n_ubatch;
  if (rows > m->n_outputs)
    rows = m->n_outputs;
  if (m->row->memory == VRAM__LLAMA_NO_MEMORY)
    return 0;
  return vram__product_or_overflow(rows * 4, (uint64_t)m->n_vocab + m->n_embd);
}

/* Compute buffers of the report: exact where a rule builds the graph, a floor otherwise. */
VRAM__FN void vram__llama_compute(const vram__llama *m, void *memory, uint64_t bytes,
                                  vram_llama_report *r) {
  uint64_t compute[VRAM__GRAPH_BUFFERS];
  const char *host = m->ndevice ? "CUDA_Host" : "CPU";
  r->compute = vram__build_compute(m, memory, bytes, compute);
  if (r->compute) {
    for (uint32_t i = 0; i < m->ndevice; i++)
      if (compute[i])
        vram__llama_buffer(r, "CUDA", (int32_t)i)->compute_bytes = compute[i];
    vram__llama_buffer(r, host, -1)->compute_bytes = compute[m->ndevice];
    return;
  }
  r->compute = VRAM_LLAMA_FLOOR;
  vram__llama_buffer(r, m->output_device < 0 ? host : "CUDA", m->output_device)->compute_bytes =
      vram__build_floor(m);
}
