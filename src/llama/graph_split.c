/* >>llama/graph_split    ggml's scheduler: which device computes what, and what is copied there
   ggml/src/ggml-backend.cpp: ggml_backend_sched_split_graph. The builder does its first pass: nodes
   with a weight are computed where it lies, or on a device that takes their work off the host. */
#include "llama/graph.h"

enum {
  VRAM__SPLIT_INPUTS = 30, /* GGML_SCHED_MAX_SPLIT_INPUTS */
  VRAM__SPLIT_COPIES = 4   /* GGML_SCHED_MAX_COPIES */
};

typedef struct vram__split {
  vram__graph *g;
  int32_t *order; /* of the whole graph, copies included */
  uint32_t norder;
  uint32_t first; /* where the split begins in the graph's order */
  uint32_t ninput;
  int32_t
      input[(int)VRAM__SPLIT_INPUTS + (int)VRAM__GRAPH_SOURCES]; /* what is copied when it begins */
  int32_t later; /* a fused node that waits; -1: none */
  int8_t buffer;
} vram__split;

/* Is nothing computed here? */
static int vram__graph_is_view(const vram__graph_node *n) {
  return n->view >= 0 && !(n->flags & VRAM__NODE_WRITES);
}

/* Passes 2 to 4: nodes without weights are computed where their neighbours are. Devices reach first
   down and then up the graph, the host takes what is left. */
VRAM__FN void vram__graph_spread(vram__graph *g) {
  int8_t host = (int8_t)(g->nbuffer - 1), at;
  for (int pass = 0; pass < 4; pass++) {
    at = -1;
    for (uint32_t k = 0; k < g->norder; k++) {
      uint32_t i = pass & 1 ? g->norder - 1 - k : k;
      vram__graph_node *n = g->node + g->order[i];
      if (vram__graph_is_view(n) ||
          (n->buffer < 0 && (n->flags & VRAM__NODE_ON_HOST) && at != host))
        continue;
      if (n->buffer >= 0)
        at = (int8_t)(n->buffer == host && pass < 2 && g->nbuffer > 1 ? -1 : n->buffer);
      else
        n->buffer = at;
    }
  }
  for (uint32_t k = 0; k < g->norder; k++) {
    vram__graph_node *n = g->node + g->order[k];
    for (uint32_t i = 0; i < n->nsource; i++)
      if ((g->node[n->source[i]].flags & VRAM__NODE_LEAF) && g->node[n->source[i]].buffer < 0)
        g->node[n->source[i]].buffer = n->buffer; /* what is there before is where it is used */
    if (n->buffer < 0)
      n->buffer = (int8_t)(n->view >= 0 ? g->node[n->view].buffer : host);
  }
}

/* A tensor of the same size, with a place of its own. -1: no room. */
static int32_t vram__graph_append(vram__graph *g, int32_t of, int8_t buffer, uint16_t flags) {
  vram__graph_node *n = g->node + g->nnode;
  const vram__graph_node *from = g->node + of;
  if (g->nnode == g->cap) {
    g->is_given_up = 1;
    return -1;
  }
  *n = *from;
  if (from->view < 0 && !(from->flags & VRAM__NODE_FOREIGN))
    n->room = 0; /* that is the op's, not the result's */
  n->nsource = 0;
  n->view = n->copy = -1;
  n->weight = NULL;
  n->buffer = buffer;
  n->flags = (uint16_t)(flags | (from->flags & VRAM__NODE_STRIDED));
  return (int32_t)g->nnode++;
}

/* Views lie where that lies of which they are views. */
static int8_t vram__graph_where(const vram__graph *g, int32_t i) {
  const vram__graph_node *n = g->node + i;
  if (n->view >= 0)
    n = g->node + n->view;
  return n->buffer;
}

/* The copy of a tensor in a buffer; -1: there is none yet. */
static int32_t vram__graph_copied(const vram__graph *g, int32_t i, int8_t buffer) {
  for (i = g->node[i].copy; i >= 0 && g->node[i].buffer != buffer; i = g->node[i].copy)
    ;
  return i;
}

/* A source that another buffer has is replaced by its copy, made when the split begins. In a
   pipeline there are several of it, which live as long as the graph. */
static int32_t vram__split_copy(vram__split *s, int32_t i) {
  vram__graph *g = s->g;
  uint16_t flags = g->is_pipeline ? VRAM__NODE_INPUT | VRAM__NODE_OUTPUT : 0;
  int32_t c = vram__graph_copied(g, i, s->buffer);
  if (c >= 0)
    return c;
  if (s->ninput == sizeof s->input / sizeof *s->input) {
    g->is_given_up = 1;
    return i;
  }
  c = vram__graph_append(g, i, s->buffer, flags);
  if (c < 0)
    return i;
  g->node[c].copy = g->node[i].copy;
  g->node[i].copy = c;
  for (int k = 1; g->is_pipeline && k < VRAM__SPLIT_COPIES; k++)
    vram__graph_append(g, i, s->buffer, flags);
  s->input[s->ninput++] = i;
  return c;
}

/* Does a node begin a split of its own? With a weight that is copied, so that the one before it
   gives way; with one input too many. */
static int vram__split_is_over(const vram__split *s, const vram__graph_node *n) {
  for (uint32_t k = 0; s->ninput && k < n->nsource; k++) {
    if (vram__graph_where(s->g, n->source[k]) == s->buffer)
      continue;
    if (s->g->node[n->source[k]].flags & VRAM__NODE_WEIGHT)
      return 1;
    if (s->ninput >= VRAM__SPLIT_INPUTS && vram__graph_copied(s->g, n->source[k], s->buffer) < 0)
      return 1;
  }
  return 0;
}

/* What fused kernels read, copies made for their split too, lives until the last of them
   (ggml_backend_cuda_graph_optimize): where a device computes all of them in one split. */
static int vram__split_is_fused(const vram__split *s, vram__graph_node *n, uint32_t at) {
  int32_t copy;
  while (at > s->first && s->g->order[at] != n->view)
    at--;
  if (s->g->order[at] != n->view || s->buffer == (int8_t)(s->g->nbuffer - 1))
    return 0;
  for (uint32_t k = 0; k < n->nsource; k++)
    if (vram__graph_where(s->g, n->source[k]) != s->buffer) {
      copy = vram__graph_copied(s->g, n->source[k], s->buffer);
      n->source[k] = copy >= 0 ? copy : n->source[k];
    }
  n->view = -1;
  n->flags |= VRAM__NODE_FOREIGN;
  return 1;
}

/* The next node of the order (-1: none), and behind it a fused one that waits for it. */
static void vram__split_put(vram__split *s, int32_t i) {
  if (i >= 0)
    s->order[s->norder++] = i;
  if (s->later >= 0)
    s->order[s->norder++] = s->later;
  s->later = -1;
}

/* The split ends before the node `end`: its copies, each behind what keeps its source until then,
   and its nodes. */
static void vram__split_end(vram__split *s, uint32_t end) {
  vram__graph *g = s->g;
  for (uint32_t k = 0; k < s->ninput; k++) {
    int32_t keep = vram__graph_append(g, s->input[k], s->buffer, VRAM__NODE_FOREIGN);
    if (keep < 0)
      return;
    g->node[keep].source[g->node[keep].nsource++] = s->input[k];
    s->order[s->norder++] = keep;
    s->order[s->norder++] = vram__graph_copied(g, s->input[k], s->buffer);
  }
  for (uint32_t i = s->first; i < end; i++) {
    vram__graph_node *n = g->node + g->order[i];
    if (!(n->flags & VRAM__NODE_FUSED))
      vram__split_put(s, g->order[i]);
    else if (vram__split_is_fused(s, n, i))
      s->later = g->order[i];
    if (s->later >= 0 && !(g->node[s->later].flags & VRAM__NODE_LATER))
      vram__split_put(s, -1);
  }
  s->first = end;
  s->ninput = 0;
}

/* Inputs of a pipeline: so many of each, and none is freed. */
static void vram__graph_multiply(vram__graph *g) {
  for (uint32_t i = 0; i < g->ninput; i++) {
    vram__graph_node *n = g->node + g->input[i];
    if (!(n->flags & VRAM__NODE_INPUT))
      continue;
    n->flags |= VRAM__NODE_OUTPUT;
    for (int k = 1; k < VRAM__SPLIT_COPIES; k++)
      vram__graph_append(g, g->input[i], n->buffer, n->flags);
  }
}

/* Gives every node its device and puts the copies between them (pass 5). The order has room for as
   many again behind it, twice. */
VRAM__FN void vram__graph_split(vram__graph *g) {
  vram__split s;
  vram__memory_zero(&s, sizeof s);
  s.g = g;
  s.order = g->order + g->cap;
  s.buffer = -1;
  s.later = -1;
  vram__graph_spread(g);
  if (g->is_pipeline)
    vram__graph_multiply(g);
  for (uint32_t i = 0; i < g->norder && !g->is_given_up; i++) {
    vram__graph_node *n = g->node + g->order[i];
    if (vram__graph_is_view(n))
      continue;
    if (s.buffer >= 0 && (n->buffer != s.buffer || vram__split_is_over(&s, n)))
      vram__split_end(&s, i);
    s.buffer = n->buffer;
    if ((n->flags & VRAM__NODE_FLASH) && vram__graph_where(g, n->source[1]) != s.buffer)
      n->room = n->apart;
    for (uint32_t k = 0; k < n->nsource; k++)
      if (vram__graph_where(g, n->source[k]) != s.buffer)
        n->source[k] = vram__split_copy(&s, n->source[k]);
  }
  vram__split_end(&s, g->norder);
  vram__split_put(&s, -1);
  g->order = s.order;
  g->norder = s.norder;
  for (uint32_t i = 0; i < g->nnode; i++)
    if (g->node[i].buffer != (int8_t)(g->nbuffer - 1))
      g->node[i].bytes = vram__sum_or_overflow(g->node[i].bytes, g->node[i].room);
}
