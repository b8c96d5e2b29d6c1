/* >>llama/graph_split    ggml's scheduler: which device computes what, and what is copied there */
#include "llama/graph.h"

/* Nodes without weights are computed where their neighbours are: devices reach first down and then
   up the graph, the host takes what is left (ggml-backend.cpp: ggml_backend_sched_split_graph). */
static void vram__graph_spread(vram__graph *g) {
  int8_t host = (int8_t)(g->nbuffer - 1), at;
  for (int pass = 0; pass < 4; pass++) {
    at = -1;
    for (uint32_t k = 0; k < g->norder; k++) {
      uint32_t i = pass & 1 ? g->norder - 1 - k : k;
      vram__graph_node *n = g->node + g->order[i];
      if (n->view >= 0)
        continue;
      if (n->buffer >= 0)
        at = (int8_t)(n->buffer == host && pass < 2 && g->nbuffer > 1 ? -1 : n->buffer);
      else
        n->buffer = at;
    }
  }
  for (uint32_t k = 0; k < g->norder; k++) {
    vram__graph_node *n = g->node + g->order[k];
    if (n->buffer < 0)
      n->buffer = (int8_t)(n->view >= 0 ? g->node[n->view].buffer : host);
  }
}

static int32_t vram__graph_append(vram__graph *g, int32_t of) {
  vram__graph_node *n = g->node + g->nnode;
  if (g->nnode == g->cap) {
    g->is_full = 1;
    return -1;
  }
  *n = g->node[of];
  n->nsource = 0;
  n->view = n->copy = -1;
  n->flags = 0;
  return (int32_t)g->nnode++;
}

/* The copy of a tensor on a device. Where there is none yet, one is made when the split begins,
   which is the place `at` in `order`. */
static int32_t vram__graph_copy(vram__graph *g, int32_t i, int8_t buffer, int32_t *order,
                                uint32_t *norder) {
  int32_t c, v;
  for (c = g->node[i].copy; c >= 0; c = g->node[c].copy)
    if (g->node[c].buffer == buffer)
      return c;
  c = vram__graph_append(g, i);
  if (c < 0)
    return -1;
  g->node[c].buffer = buffer;
  g->node[c].copy = g->node[i].copy;
  g->node[i].copy = c;
  /* A view of what is copied keeps it until then. */
  v = vram__graph_append(g, i);
  if (v < 0)
    return -1;
  g->node[v].view = g->node[i].view >= 0 ? g->node[i].view : i;
  g->node[v].source[0] = i;
  g->node[v].nsource = 1;
  order[(*norder)++] = v;
  order[(*norder)++] = c;
  return c;
}

/* Is a source to be copied for a node? Views go with what they are views of. */
static int vram__graph_is_elsewhere(const vram__graph *g, int32_t source, int8_t buffer) {
  const vram__graph_node *s = g->node + source;
  int8_t at = (int8_t)(s->view >= 0 ? g->node[s->view].buffer : s->buffer);
  return at != buffer;
}

/* One split: copies first, then the nodes from `first` to `end`. */
static void vram__graph_emit(vram__graph *g, uint32_t first, uint32_t end, int32_t *order,
                             uint32_t *norder) {
  for (uint32_t i = first; i < end && !g->is_full; i++) {
    uint32_t at = (uint32_t)g->order[i];
    if (g->node[at].view >= 0)
      continue;
    for (uint32_t k = 0; k < g->node[at].nsource; k++) {
      int32_t s = g->node[at].source[k];
      if (!vram__graph_is_elsewhere(g, s, g->node[at].buffer))
        continue;
      s = vram__graph_copy(g, s, g->node[at].buffer, order, norder);
      if (s >= 0)
        g->node[at].source[k] = s;
    }
  }
  for (uint32_t i = first; i < end; i++)
    order[(*norder)++] = g->order[i];
}

/* Gives every node its device and puts the copies between them. The order has room for as many
   again behind it. */
VRAM__FN void vram__graph_split(vram__graph *g) {
  int32_t *order = g->order + g->cap;
  uint32_t norder = 0, first = 0;
  int8_t at = -1;
  vram__graph_spread(g);
  for (uint32_t i = 0; i < g->norder; i++) {
    const vram__graph_node *n = g->node + g->order[i];
    if (n->view >= 0)
      continue;
    if (n->buffer != at) { /* another device begins a split */
      vram__graph_emit(g, first, i, order, &norder);
      first = i;
      at = n->buffer;
    }
  }
  vram__graph_emit(g, first, g->norder, order, &norder);
  g->order = order;
  g->norder = norder;
}
