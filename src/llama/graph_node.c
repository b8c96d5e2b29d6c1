/* >>llama/graph_node    tensors of a graph, what they are computed from, and their order */
#include "llama/graph.h"

VRAM__FN vram__graph_node *vram__build_at(vram__build *b, int32_t i) { return b->g->node + i; }

/* A tensor, not yet in the order. */
static int32_t vram__build_tensor(vram__build *b, uint64_t n0, uint64_t n1, uint64_t n2) {
  vram__graph *g = b->g;
  vram__graph_node *n = g->node + g->nnode;
  if (g->nnode == g->cap) {
    g->is_given_up = 1;
    return 0;
  }
  vram__memory_zero(n, sizeof *n);
  n->view = n->copy = n->user = -1;
  n->buffer = -1;
  n->ne[0] = n0;
  n->ne[1] = n1;
  n->ne[2] = n2;
  n->bytes = vram__product_or_overflow(vram__product_or_overflow(n0, n1),
                                       vram__product_or_overflow(n2, 4));
  return (int32_t)g->nnode++;
}

VRAM__FN void vram__build_source(vram__build *b, int32_t node, int32_t source) {
  vram__graph_node *n = b->g->node + node;
  if (source < 0)
    return;
  if (n->nsource == VRAM__GRAPH_SOURCES)
    b->g->is_given_up = 1;
  else
    n->source[n->nsource++] = source;
}

static void vram__build_put(vram__build *b, int32_t node) {
  vram__graph *g = b->g;
  int is_input = (g->node[node].flags & (VRAM__NODE_INPUT | VRAM__NODE_LEAF)) != 0;
  if (is_input ? g->ninput == VRAM__GRAPH_INPUTS : g->norder == g->cap)
    g->is_given_up = 1;
  else if (is_input)
    g->input[g->ninput++] = node;
  else
    g->order[g->norder++] = node;
}

/* A node and all that it is computed from, sources first, the first source first
   (ggml_build_forward_expand). Nodes that are not there yet lead back to their users. */
VRAM__FN void vram__build_expand(vram__build *b, int32_t node) {
  vram__graph_node *all = b->g->node;
  if (all[node].flags & VRAM__NODE_IS_VISITED)
    return;
  all[node].flags |= VRAM__NODE_IS_VISITED;
  while (node >= 0) {
    vram__graph_node *n = all + node;
    if (n->nvisited < n->nsource) {
      int32_t s = n->source[n->nvisited++];
      if (all[s].flags & VRAM__NODE_IS_VISITED)
        continue;
      all[s].flags |= VRAM__NODE_IS_VISITED;
      all[s].user = node;
      node = s;
      continue;
    }
    vram__build_put(b, node);
    node = n->user;
  }
}

VRAM__FN int32_t vram__build_node(vram__build *b, uint64_t n0, uint64_t n1, uint64_t n2,
                                  int32_t a) {
  int32_t i = vram__build_tensor(b, n0, n1, n2);
  vram__build_source(b, i, a);
  return i;
}

/* An element-wise op on a (and c, if it is not -1), of a's shape. */
VRAM__FN int32_t vram__build_map(vram__build *b, int32_t a, int32_t c) {
  const vram__graph_node *s = vram__build_at(b, a);
  int32_t i = vram__build_node(b, s->ne[0], s->ne[1], s->ne[2], a);
  vram__build_source(b, i, c);
  vram__build_at(b, i)->flags |= VRAM__NODE_IN_PLACE;
  return i;
}

/* A part or another shape of a; a part's bytes are those from its first row to its last. */
VRAM__FN int32_t vram__build_view(vram__build *b, int32_t a, uint64_t n0, uint64_t n1,
                                  uint64_t n2) {
  const vram__graph_node *s = vram__build_at(b, a);
  const uint64_t all =
      vram__product_or_overflow(vram__product_or_overflow(s->ne[0], s->ne[1]), s->ne[2] * 4);
  const uint64_t rows = vram__product_or_overflow(n1, n2);
  int32_t i = vram__build_node(b, n0, n1, n2, a);
  vram__graph_node *n = vram__build_at(b, i);
  n->view = s->view >= 0 ? s->view : a;
  if (n->bytes == all) {
    n->bytes = s->bytes;
    n->flags = s->flags & VRAM__NODE_STRIDED;
  } else if (rows) {
    n->bytes = vram__sum_or_overflow((rows - 1) * (all / rows), n0 * 4);
    n->flags |= VRAM__NODE_STRIDED;
  }
  return i;
}

/* A part of a that lies in one piece. */
VRAM__FN int32_t vram__build_piece(vram__build *b, int32_t a, uint64_t n0, uint64_t n1,
                                   uint64_t n2) {
  int32_t i = vram__build_view(b, a, n0, n1, n2);
  vram__build_at(b, i)->bytes = vram__product_or_overflow(vram__product_or_overflow(n0, n1),
                                                          vram__product_or_overflow(n2, 4));
  vram__build_at(b, i)->flags = 0;
  return i;
}

VRAM__FN int32_t vram__build_input(vram__build *b, uint64_t bytes) {
  int32_t i = vram__build_tensor(b, 1, 1, 1);
  vram__build_at(b, i)->bytes = bytes;
  vram__build_at(b, i)->buffer = (int8_t)b->host;
  vram__build_at(b, i)->flags = VRAM__NODE_INPUT;
  return i;
}

/* a is written to what lies in a buffer of its own: a cache or a state. */
VRAM__FN void vram__build_foreign(vram__build *b, int32_t a, int32_t index) {
  int32_t i = vram__build_node(b, 1, 1, 1, a);
  vram__build_source(b, i, index);
  vram__build_at(b, i)->flags = VRAM__NODE_FOREIGN;
  vram__build_at(b, i)->buffer = (int8_t)(b->m->offloads_kv ? b->device : b->host);
  vram__build_expand(b, i);
}

/* Rows written over some of a (ggml_set_rows): the result is a. */
VRAM__FN int32_t vram__build_over(vram__build *b, int32_t a, int32_t rows, int32_t index) {
  const vram__graph_node *s = vram__build_at(b, a);
  int32_t i = vram__build_node(b, s->ne[0], s->ne[1], s->ne[2], rows);
  vram__build_source(b, i, index);
  vram__build_source(b, i, a);
  vram__build_at(b, i)->view = s->view >= 0 ? s->view : a;
  vram__build_at(b, i)->flags = VRAM__NODE_WRITES;
  return i;
}

/* A part of a cache or state: so many rows of it. */
VRAM__FN int32_t vram__build_cached(vram__build *b, vram_dtype type, uint64_t columns,
                                    uint64_t rows) {
  int32_t i = vram__build_tensor(b, 1, 1, 1), v;
  vram__build_at(b, i)->flags = VRAM__NODE_FOREIGN | VRAM__NODE_IS_VISITED;
  vram__build_at(b, i)->buffer = (int8_t)(b->m->offloads_kv ? b->device : b->host);
  v = vram__build_view(b, i, 1, 1, 1);
  vram_dtype_rows_bytes(type, rows, columns, &vram__build_at(b, v)->bytes);
  if (vram__llama_is_quantised(type))
    vram__build_at(b, v)->room =
        vram__llama_tensor_bytes(type, rows, columns, 1) - vram__build_at(b, v)->bytes;
  return v;
}

/* Behind the last of the nodes that ggml-cuda computes as one, from `first` on: what lives until
   here, a and what is added. */
VRAM__FN int32_t vram__build_fused(vram__build *b, int32_t first, int32_t a) {
  int32_t i = vram__build_node(b, 1, 1, 1, a);
  vram__build_at(b, i)->view = first;
  vram__build_at(b, i)->flags = VRAM__NODE_FUSED | VRAM__NODE_IS_VISITED;
  vram__build_put(b, i);
  return i;
}

/* ---- weights ---- */

VRAM__FN const vram_file_tensor *vram__build_weight(const vram__build *b, const char *name) {
  char text[64];
  uint32_t n = 0;
  vram__text_puts(text, sizeof text, &n, b->stack);
  vram__text_puts(text, sizeof text, &n, "blk.");
  vram__text_putu(text, sizeof text, &n, b->il);
  vram__text_puts(text, sizeof text, &n, ".");
  vram__text_puts(text, sizeof text, &n, name);
  return vram_file_find(b->m->file, text, n);
}

VRAM__FN const vram_file_tensor *vram__build_global(const vram__build *b, const char *name) {
  return vram_file_find(b->m->file, name, vram__text_len(name));
}

VRAM__FN uint64_t vram__build_width(const vram_file_tensor *t) {
  return t->ndim > 1 ? (uint64_t)t->size[t->ndim - 2] : 1;
}

/* A weight in a buffer: the same node where a layer uses it twice. */
static int32_t vram__build_leaf(vram__build *b, const vram_file_tensor *t, int32_t buffer) {
  const uint64_t n0 = vram__llama_columns(t), n1 = vram__build_width(t), all = t->numel;
  vram__graph_node *n;
  int32_t i;
  for (uint32_t k = b->layer_first; k < b->g->nnode; k++)
    if (b->g->node[k].weight == t)
      return (int32_t)k;
  i = vram__build_tensor(b, n0, n1, n0 && n1 ? all / n0 / n1 : 0);
  n = vram__build_at(b, i);
  n->weight = t;
  vram_dtype_rows_bytes(t->dtype, n0 ? all / n0 : 0, n0, &n->bytes);
  n->room = vram__llama_tensor_bytes(t->dtype, n0 ? all / n0 : 0, n0, 1) - n->bytes;
  n->buffer = (int8_t)buffer;
  n->flags = VRAM__NODE_FOREIGN | VRAM__NODE_WEIGHT | VRAM__NODE_IS_VISITED;
  return i;
}

/* Is the table of words the output's matrix here? */
static int vram__build_is_output(const vram__build *b, const vram_file_tensor *t) {
  return (b->m->is_tied || (b->m->row->flags & VRAM__LLAMA_ONE_TABLE)) &&
         b->il == b->m->n_layer - b->m->n_layer_nextn &&
         vram__text_is(t->name, t->name_len, "token_embd.weight");
}

/* The buffer of a weight. */
VRAM__FN int32_t vram__build_where(const vram__build *b, const vram_file_tensor *t) {
  int32_t device;
  vram_error e;
  if (b->m->is_tied && vram__build_is_output(b, t)) {
    device = vram__llama_tied_device(b->m, t);
    return device < 0 ? b->host : device;
  }
  if (vram__llama_device(b->m, t, &device, &e) || device < 0) /* its patterns were read before */
    return b->host;
  return device;
}

/* A source that does not say where a node is computed. */
VRAM__FN void vram__build_beside(vram__build *b, int32_t node, const vram_file_tensor *t) {
  if (t)
    vram__build_source(b, node, vram__build_leaf(b, t, vram__build_where(b, t)));
}

/* A node with a weight is computed where the weight lies, or by a device that takes work off the
   host: the first one, if the op has 32 rows or more (get_op_batch_size of ggml-cuda). */
static int32_t vram__build_there(vram__build *b, int32_t node, const vram_file_tensor *t,
                                 uint64_t rows) {
  const vram_llama_options *o = b->m->options;
  vram__graph_node *n = vram__build_at(b, node);
  if (!t) {
    n->buffer = (int8_t)b->device;
    return node;
  }
  n->buffer = (int8_t)vram__build_where(b, t);
  vram__build_beside(b, node, t);
  if (n->buffer == b->host && b->m->ndevice && rows >= 32 &&
      (vram__build_is_output(b, t) ? vram__llama_is_multiplied(t->dtype)
                                   : vram__llama_is_run(b->m, t)))
    n->buffer = (int8_t)(o->split == VRAM_LLAMA_SPLIT_NONE ? o->main_gpu : 0);
  return node;
}

/* t may be NULL. */
VRAM__FN int32_t vram__build_with(vram__build *b, int32_t node, const vram_file_tensor *t) {
  const vram__graph_node *n = vram__build_at(b, node);
  return vram__build_there(b, node, t, vram__product_or_overflow(n->ne[1], n->ne[2]));
}

static int vram__build_is_stack(const vram_file_tensor *t) {
  return vram__llama_holds(t, "_exps.") || vram__llama_holds(t, "_chexps.");
}

/* A product with a matrix, or with those of the chosen experts. t may be NULL. */
VRAM__FN int32_t vram__build_multiply(vram__build *b, int32_t node, const vram_file_tensor *t) {
  const uint64_t *ne = vram__build_at(b, node)->ne;
  return vram__build_there(b, node, t, ne[t && vram__build_is_stack(t) ? 2 : 1]);
}

/* A weight in another shape, which does not say where a node is computed. */
VRAM__FN int32_t vram__build_reshaped(vram__build *b, const vram_file_tensor *t) {
  int32_t i;
  if (!t)
    return -1;
  i = vram__build_leaf(b, t, vram__build_where(b, t));
  return vram__build_view(b, i, t->numel, 1, 1);
}

/* A node of rows taken of a table: where that lies. */
VRAM__FN void vram__build_taken(vram__build *b, int32_t node, const vram_file_tensor *t) {
  vram__build_at(b, node)->buffer = (int8_t)vram__build_where(b, t);
  vram__build_beside(b, node, t);
}

VRAM__FN int32_t vram__build_bias(vram__build *b, int32_t a, const char *name) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  return t ? vram__build_with(b, vram__build_map(b, a, -1), t) : a;
}

/* A matrix's product times its scale, if the file has it: bitnet. */
static int32_t vram__build_scale_of(vram__build *b, int32_t a, const char *name) {
  char text[64];
  uint32_t n = 0;
  vram__text_put(text, sizeof text, &n, name, vram__text_len(name) - 6); /* "weight" */
  vram__text_puts(text, sizeof text, &n, "scale");
  text[n] = 0;
  return vram__build_bias(b, a, text);
}

/* Matrix times a, and a bias if the layer has one. */
VRAM__FN int32_t vram__build_linear(vram__build *b, int32_t a, const char *name, const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  const uint64_t *ne = vram__build_at(b, a)->ne;
  int32_t i;
  if (!t)
    return a;
  i = vram__build_multiply(b, vram__build_node(b, vram__build_width(t), ne[1], ne[2], -1), t);
  vram__build_source(b, i, a);
  if (b->flags & VRAM__BUILD_SCALES)
    i = vram__build_scale_of(b, i, name);
  return bias ? vram__build_bias(b, i, bias) : i;
}

/* A norm, its weight and bias. NORM is never in place, RMS_NORM may be. */
VRAM__FN int32_t vram__build_norm(vram__build *b, int32_t a, const char *name, const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  int32_t i;
  if (!t)
    return a;
  i = vram__build_map(b, a, -1);
  if (b->flags & VRAM__BUILD_MEAN)
    vram__build_at(b, i)->flags = 0;
  i = vram__build_with(b, vram__build_map(b, i, -1), t);
  return bias ? vram__build_bias(b, i, bias) : i;
}

/* The rows of which logits are wanted. */
VRAM__FN int32_t vram__build_rows_of(vram__build *b, int32_t x) {
  int32_t i;
  if (b->out_ids < 0)
    b->out_ids = vram__build_input(b, b->outputs * 4);
  i = vram__build_node(b, vram__build_at(b, x)->ne[0], b->outputs, 1, x);
  vram__build_source(b, i, b->out_ids);
  return i;
}

/* These rows in the last layer, unless the architecture takes them behind it or takes none: of one,
   two or three tensors. */
VRAM__FN void vram__build_last_rows(vram__build *b, int is_last, int32_t *x, int32_t *y,
                                    int32_t *z) {
  if (!is_last ||
      (b->flags & (VRAM__BUILD_ROWS_LAST | VRAM__BUILD_ROWS_NORM | VRAM__BUILD_ROWS_ALL)))
    return;
  *x = vram__build_rows_of(b, *x);
  if (y)
    *y = vram__build_rows_of(b, *y);
  if (z)
    *z = vram__build_rows_of(b, *z);
}

/* Tokens of each sequence. */
VRAM__FN uint64_t vram__build_each(const vram__build *b) { return b->tokens / b->m->n_seq; }

/* Factors of rope, where the layer's weights are or a pattern puts them; -1: the model has none. */
static int32_t vram__build_factors(vram__build *b) {
  const vram_file_tensor *t = vram__build_global(b, "rope_freqs.weight");
  int32_t device = b->device == b->host ? -1 : b->device;
  vram_error e;
  if (!t)
    t = vram__build_global(b, "rope_factors_long.weight");
  if (b->m->layer[b->il].slides && (b->m->row->flags & VRAM__LLAMA_ROPE_DENSE))
    return -1;
  if (!t)
    return -1;
  if (vram__llama_overridden(b->m, t, &device, &e) ||
      device < 0) /* its patterns were read before */
    device = b->host;
  if (b->factors[device] < 0)
    b->factors[device] = vram__build_leaf(b, t, device);
  return b->factors[device];
}

VRAM__FN int32_t vram__build_rope(vram__build *b, int32_t a) {
  int32_t i;
  if (b->positions < 0)
    b->positions =
        vram__build_input(b, b->tokens * ((b->flags & VRAM__BUILD_FOUR_POSITIONS) ? 16 : 4));
  i = vram__build_map(b, a, b->positions);
  vram__build_source(b, i, vram__build_factors(b));
  return i;
}
