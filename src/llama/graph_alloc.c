/* >>llama/graph_alloc    ggml-alloc: where the tensors of a graph lie, and how far they reach */
#include "llama/graph.h"

/* ggml/src/ggml-alloc.c: ggml_dyn_tallocr. Its chunks never come into play: CUDA and the host set
   no limit to a buffer's size. */
#define VRAM__HEAP_END (UINT64_MAX / 2)

VRAM__FN void vram__heap_begin(vram__graph_heap *h, uint64_t alignment) {
  h->alignment = alignment;
  h->peak = 0;
  h->n = 1;
  h->offset[0] = 0;
  h->bytes[0] = VRAM__HEAP_END;
}

static void vram__heap_remove(vram__graph_heap *h, uint32_t at) {
  for (h->n--; at < h->n; at++) {
    h->offset[at] = h->offset[at + 1];
    h->bytes[at] = h->bytes[at + 1];
  }
}

/* Where so many bytes are placed: in the smallest block that has them, of equals the later one; in
   the last block only if no other has them. VRAM_OVERFLOW: nowhere. */
static uint64_t vram__heap_take(vram__graph_heap *h, uint64_t bytes) {
  uint32_t best = h->n - 1;
  uint64_t at;
  if (bytes > VRAM_MAX_BYTES / 2)
    return VRAM_OVERFLOW;
  bytes = vram__round_up_u64(bytes, h->alignment);
  for (uint32_t i = 0; i + 1 < h->n; i++)
    if (h->bytes[i] >= bytes && (best == h->n - 1 || h->bytes[i] <= h->bytes[best]))
      best = i;
  if (h->bytes[best] < bytes)
    return VRAM_OVERFLOW;
  at = h->offset[best];
  h->offset[best] += bytes;
  h->bytes[best] -= bytes;
  if (!h->bytes[best])
    vram__heap_remove(h, best);
  if (at + bytes > h->peak)
    h->peak = at + bytes;
  return at;
}

/* Joins a block with the one behind it, if they touch. */
static void vram__heap_join(vram__graph_heap *h, uint32_t at) {
  if (at + 1 >= h->n || h->offset[at] + h->bytes[at] != h->offset[at + 1])
    return;
  h->bytes[at] += h->bytes[at + 1];
  vram__heap_remove(h, at + 1);
}

/* Gives back what was taken, and joins it with its neighbours, as ggml_dyn_tallocr_free_bytes does:
   what has no bytes may become a block that keeps others apart. 0: there are too many blocks. */
static int vram__heap_give(vram__graph_heap *h, uint64_t offset, uint64_t bytes) {
  uint32_t at = 0;
  bytes = vram__round_up_u64(bytes, h->alignment);
  for (uint32_t i = 0; i < h->n; i++) {
    if (h->offset[i] + h->bytes[i] == offset) {
      h->bytes[i] += bytes;
      vram__heap_join(h, i);
      return 1;
    }
    if (offset + bytes == h->offset[i]) {
      h->offset[i] = offset;
      h->bytes[i] += bytes;
      if (i)
        vram__heap_join(h, i - 1);
      return 1;
    }
  }
  if (h->n == VRAM__GRAPH_BLOCKS)
    return 0;
  while (at < h->n && h->offset[at] < offset)
    at++;
  for (uint32_t i = h->n++; i > at; i--) {
    h->offset[i] = h->offset[i - 1];
    h->bytes[i] = h->bytes[i - 1];
  }
  h->offset[at] = offset;
  h->bytes[at] = bytes;
  return 1;
}

/* The source whose place a node takes over (ggml_gallocr_allocate_node): its only user, without
   views, of the same layout. A view has no place that could be taken over. */
static int32_t vram__graph_taken_over(const vram__graph *g, const vram__graph_node *n) {
  if (n->flags & VRAM__NODE_IN_PLACE)
    for (uint32_t i = 0; i < n->nsource; i++) {
      const vram__graph_node *s = g->node + n->source[i];
      if ((s->flags & VRAM__NODE_IS_PLACED) &&
          !(s->flags & (VRAM__NODE_OUTPUT | VRAM__NODE_STRIDED)) && s->buffer == n->buffer &&
          s->nchild == 1 && !s->nview && s->ne[0] == n->ne[0] && s->ne[1] == n->ne[1] &&
          s->ne[2] == n->ne[2] && s->bytes >= n->bytes)
        return n->source[i];
    }
  return -1;
}

static int vram__graph_place_node(vram__graph *g, int32_t i) {
  vram__graph_node *n = g->node + i;
  vram__graph_heap *h;
  int32_t from;
  if (n->view >= 0 || (n->flags & (VRAM__NODE_FOREIGN | VRAM__NODE_IS_PLACED)))
    return 1;
  if (n->buffer < 0)
    return 0; /* of nothing that has a place: a layer without its weights */
  h = g->heap + n->buffer;
  n->flags |= VRAM__NODE_IS_PLACED;
  from = vram__graph_taken_over(g, n);
  if (from >= 0) {
    vram__graph_node *s = g->node + from;
    uint64_t had = vram__round_up_u64(s->bytes, h->alignment);
    uint64_t has = vram__round_up_u64(n->bytes, h->alignment);
    n->offset = s->offset;
    s->flags &= (uint16_t)~VRAM__NODE_IS_PLACED;
    return had == has || vram__heap_give(h, n->offset + has, had - has);
  }
  n->offset = vram__heap_take(h, n->bytes);
  return n->offset != VRAM_OVERFLOW;
}

static int vram__graph_free(vram__graph *g, vram__graph_node *n) {
  if (n->nchild || n->nview || (n->flags & VRAM__NODE_OUTPUT) || !(n->flags & VRAM__NODE_IS_PLACED))
    return 1;
  n->flags &= (uint16_t)~VRAM__NODE_IS_PLACED;
  return vram__heap_give(g->heap + n->buffer, n->offset, n->bytes);
}

/* The sources of a node that was computed have one user less. */
static int vram__graph_let_go(vram__graph *g, const vram__graph_node *n) {
  int ok = 1;
  for (uint32_t k = 0; k < n->nsource; k++) {
    vram__graph_node *s = g->node + n->source[k];
    if (--s->nchild || s->nview)
      continue;
    if (s->view >= 0) {
      g->node[s->view].nview--;
      ok &= vram__graph_free(g, g->node + s->view);
    } else {
      ok &= vram__graph_free(g, s);
    }
  }
  return ok;
}

/* Places every tensor of a graph (ggml_gallocr_alloc_graph_impl): inputs first, then nodes in
   order. The heaps have their alignments; their peaks are the result. 0: it does not fit. */
VRAM__FN int vram__graph_place(vram__graph *g) {
  for (uint32_t i = 0; i < g->norder; i++) {
    const vram__graph_node *n = g->node + g->order[i];
    if (n->view >= 0)
      g->node[n->view].nview++;
    for (uint32_t k = 0; k < n->nsource; k++)
      g->node[n->source[k]].nchild++;
  }
  for (uint32_t i = 0; i < g->ninput; i++)
    if (!(g->is_pipeline && (g->node[g->input[i]].flags & VRAM__NODE_LEAF)) &&
        !vram__graph_place_node(g, g->input[i]))
      return 0;
  for (uint32_t i = 0; g->is_pipeline && i < g->nnode; i++) /* copies of a pipeline */
    if ((g->node[i].flags & VRAM__NODE_INPUT) && (g->node[i].flags & VRAM__NODE_OUTPUT) &&
        !vram__graph_place_node(g, (int32_t)i))
      return 0;
  for (uint32_t i = 0; g->is_pipeline && i < g->ninput; i++) /* behind them what is no input */
    if (!vram__graph_place_node(g, g->input[i]))
      return 0;
  for (uint32_t i = 0; i < g->norder; i++)
    if (!vram__graph_place_node(g, g->order[i]) || !vram__graph_let_go(g, g->node + g->order[i]))
      return 0;
  return 1;
}
