/* >>llama/graph_experts    feed-forward: dense, of experts, shared
   (llama.cpp: llama-graph.cpp, build_ffn and build_moe_ffn) */
#include "llama/graph.h"

VRAM__FN int32_t vram__build_glu(vram__build *b, int32_t gate, int32_t up, uint64_t width) {
  const vram__graph_node *n = vram__build_at(b, gate);
  int32_t i = vram__build_node(b, width, n->ne[1], n->ne[2], gate);
  vram__build_source(b, i, up);
  return i;
}

/* Between the two matrices: the gate's product, or one function of each element, or of two. */
static int32_t vram__build_between(vram__build *b, int32_t gate, int32_t up, uint64_t width) {
  if (gate >= 0)
    return vram__build_glu(b, gate, up, vram__build_at(b, up)->ne[0]);
  if (vram__build_at(b, up)->ne[0] == 2 * width)
    return vram__build_glu(b, up, -1, width);
  up = vram__build_map(b, up, -1);
  return b->flags & VRAM__BUILD_RELU_SQUARED ? vram__build_map(b, up, -1) : up;
}

VRAM__FN int32_t vram__build_dense(vram__build *b, int32_t x) {
  const vram_file_tensor *down = vram__build_weight(b, "ffn_down.weight");
  int32_t up = vram__build_linear(b, x, "ffn_up.weight", "ffn_up.bias"), gate = -1;
  if (vram__build_weight(b, "ffn_gate.weight"))
    gate = vram__build_linear(b, x, "ffn_gate.weight", "ffn_gate.bias");
  up = vram__build_between(b, gate, up, down ? (uint64_t)down->size[down->ndim - 1] : 0);
  return vram__build_linear(b, up, "ffn_down.weight", "ffn_down.bias");
}

typedef struct vram__build_router {
  int32_t logits, probs, biased, chosen, weights, sum, clamped, unscaled;
} vram__build_router;

/* ggml-cuda fuses the router's ops: what they make lives until the last of them
   (ggml_backend_cuda_graph_optimize). */
static void vram__build_live(vram__build *b, int32_t last, const vram__build_router *r) {
  int32_t i;
  if ((b->flags & VRAM__BUILD_LATE_SOFTMAX) || !vram__build_is_fused(b))
    return;
  i = vram__build_fused(b, r->probs, r->logits);
  if (r->probs != r->logits)
    vram__build_source(b, i, r->probs);
  if (r->biased != r->probs)
    vram__build_source(b, i, r->biased);
  if (r->weights != last)
    vram__build_source(b, i, r->weights);
  if (r->unscaled != last && r->unscaled != r->weights)
    vram__build_source(b, i, r->unscaled);
  vram__build_source(b, i, r->sum);
  vram__build_source(b, i, r->clamped);
}

/* Has the file a scale of the experts' weights? */
static int vram__build_is_weighted(const vram__build *b) {
  const double scale = vram__llama_real(b->m, "expert_weights_scale");
  return (scale < 0 || scale > 0) && (scale < 1 || scale > 1);
}

/* Weights of the chosen experts, [1, used, rows]. */
static vram__build_router vram__build_route(vram__build *b, int32_t x) {
  const uint64_t used = b->m->n_expert_used, rows = vram__build_at(b, x)->ne[1];
  const uint64_t experts = b->m->n_expert;
  vram__build_router r;
  int32_t i, view;
  r.sum = r.clamped = -1;
  r.logits = vram__build_linear(b, x, "ffn_gate_inp.weight", "ffn_gate_inp.bias");
  r.probs = b->flags & VRAM__BUILD_LATE_SOFTMAX ? r.logits : vram__build_map(b, r.logits, -1);
  r.biased = vram__build_bias(b, r.probs, "exp_probs_b.bias");
  r.chosen = vram__build_view(b, vram__build_node(b, experts, rows, 1, r.biased), used, rows, 1);
  i = vram__build_view(b, r.probs, 1, experts, rows);
  r.weights = vram__build_node(b, 1, used, rows, i);
  vram__build_source(b, r.weights, r.chosen);
  i = r.weights;
  if (b->flags & VRAM__BUILD_LATE_SOFTMAX) {
    i = vram__build_map(b, vram__build_view(b, i, used, rows, 1), -1);
  } else if (b->flags & VRAM__BUILD_NORM_EXPERTS) {
    view = vram__build_view(b, i, used, rows, 1);
    r.sum = vram__build_node(b, 1, rows, 1, view);
    r.clamped = vram__build_map(b, r.sum, -1);
    i = vram__build_map(b, view, r.clamped);
  }
  r.unscaled = i;
  if (i != r.weights)
    i = vram__build_view(b, i, 1, used, rows);
  if (vram__build_is_weighted(b))
    i = vram__build_map(b, i, -1);
  vram__build_expand(b, i);
  vram__build_live(b, i, &r);
  r.weights = i;
  return r;
}

static int32_t vram__build_expert(vram__build *b, int32_t x, int32_t chosen, const char *name,
                                  const char *bias) {
  const vram_file_tensor *t = vram__build_weight(b, name);
  int32_t i;
  if (!t)
    return -1;
  i = vram__build_node(b, vram__build_width(t), b->m->n_expert_used, vram__build_at(b, x)->ne[2],
                       -1);
  vram__build_product(b, i, t);
  vram__build_source(b, i, x);
  vram__build_source(b, i, chosen);
  if (!vram__build_weight(b, bias))
    return i;
  i = vram__build_bias(b, i, bias);
  vram__build_source(b, i, chosen);
  return i;
}

/* The weighted results of the experts, added up one by one. */
static int32_t vram__build_add_up(vram__build *b, int32_t all, uint64_t width, uint64_t rows) {
  int32_t views[VRAM__BUILD_EXPERTS], sum;
  const uint32_t used = b->m->n_expert_used;
  sum = views[0] = vram__build_view(b, all, width, rows, 1);
  vram__build_expand(b, sum);
  for (uint32_t k = 1; k < used; k++) {
    views[k] = vram__build_view(b, all, width, rows, 1);
    vram__build_expand(b, views[k]);
  }
  if (used == 1)
    return vram__build_node(b, width, rows, 1, sum);
  for (uint32_t k = 1; k < used; k++) {
    sum = vram__build_map(b, sum, views[k]);
    vram__build_expand(b, sum);
  }
  return sum;
}

static int32_t vram__build_moe(vram__build *b, int32_t x) {
  const uint64_t width = vram__build_at(b, x)->ne[0], rows = vram__build_at(b, x)->ne[1];
  vram__build_router r = vram__build_route(b, x);
  int32_t view = vram__build_view(b, x, width, 1, rows), gate, up, down, part, sum;
  up = vram__build_expert(b, view, r.chosen, "ffn_up_exps.weight", "ffn_up_exps.bias");
  gate = vram__build_expert(b, view, r.chosen, "ffn_gate_exps.weight", "ffn_gate_exps.bias");
  up = vram__build_between(b, gate, up, 0);
  down = vram__build_expert(b, up, r.chosen, "ffn_down_exps.weight", "ffn_down_exps.bias");
  r.weights = vram__build_view(b, r.weights, 1, b->m->n_expert_used, rows);
  part = vram__build_map(b, down, r.weights);
  vram__build_expand(b, part);
  sum = vram__build_add_up(b, part, width, rows);
  if (b->m->n_expert_used > 1 &&
      b->m->n_expert_used <= VRAM__BUILD_REDUCED) /* fused as well: both live until the last sum */
    vram__build_source(b, vram__build_fused(b, part, down), r.weights);
  return sum;
}

/* Shared experts have a gate of their own: sigmoid, or SiLU of a over a (qwen2moe). */
static int32_t vram__build_shared_gate(vram__build *b, int32_t x, int32_t shared) {
  const vram_file_tensor *t = vram__build_weight(b, "ffn_gate_inp_shexp.weight");
  int32_t i;
  if (!t)
    return shared;
  i = vram__build_product(b, vram__build_node(b, 1, vram__build_at(b, x)->ne[1], 1, -1), t);
  vram__build_source(b, i, x);
  if (b->flags & VRAM__BUILD_SHARED_SIGMOID)
    i = vram__build_map(b, i, -1);
  else
    i = vram__build_map(b, vram__build_map(b, i, -1), i);
  return vram__build_map(b, shared, i);
}

/* What a layer has of these. */
VRAM__FN int32_t vram__build_forward(vram__build *b, int32_t x) {
  int32_t sum, shared, gate = -1;
  if (!vram__build_weight(b, "ffn_gate_inp.weight"))
    return vram__build_dense(b, x);
  sum = vram__build_moe(b, x);
  if (!vram__build_weight(b, "ffn_up_shexp.weight"))
    return sum;
  shared = vram__build_linear(b, x, "ffn_up_shexp.weight", NULL);
  if (vram__build_weight(b, "ffn_gate_shexp.weight"))
    gate = vram__build_linear(b, x, "ffn_gate_shexp.weight", NULL);
  shared = vram__build_between(b, gate, shared, 0);
  shared = vram__build_linear(b, shared, "ffn_down_shexp.weight", NULL);
  return vram__build_map(b, sum, vram__build_shared_gate(b, x, shared));
}
