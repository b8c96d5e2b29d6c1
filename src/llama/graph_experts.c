/* >>llama/graph_experts    feed-forward: dense, of experts, shared
   (llama.cpp: llama-graph.cpp, build_ffn and build_moe_ffn) */
#include "llama/graph.h"

VRAM__FN int32_t vram__build_glu(vram__build *b, int32_t gate, int32_t up, uint64_t width) {
  const vram__graph_node *n = vram__build_at(b, gate);
  int32_t i = vram__build_node(b, width, n->ne[1], n->ne[2], gate);
  vram__build_source(b, i, up);
  return i;
}

/* Has the file a limit of what the gate lets through, in this layer (step35)? maple's experts have
   it in the op. */
static int vram__build_is_limited(const vram__build *b, const char *key) {
  const vram_file_value *v = vram__llama_get(b->m, key);
  double limit = vram__llama_real(b->m, key);
  if (!(b->flags & VRAM__BUILD_LIMITS))
    return 0;
  if (v && v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_FLOAT && v->array && b->il < v->count)
    limit = ((const double *)v->array)[b->il];
  if (vram__text_is(b->m->arch, b->m->arch_len, "maple") &&
      vram__text_is(key, vram__text_len(key), "swiglu_clamp_exp"))
    return 0;
  return limit > 1e-6;
}

/* Between the two matrices: the gate's product, or one function of each element, or of two. */
static int32_t vram__build_between(vram__build *b, int32_t gate, int32_t up, uint64_t width,
                                   const char *limit) {
  if (gate >= 0 && vram__build_is_limited(b, limit)) {
    up = vram__build_map(b, up, -1);
    return vram__build_map(b, vram__build_map(b, vram__build_map(b, gate, -1), -1), up);
  }
  if (gate >= 0)
    return vram__build_glu(b, gate, up, vram__build_at(b, up)->ne[0]);
  if (vram__build_at(b, up)->ne[0] == 2 * width)
    return vram__build_glu(b, up, -1, width);
  up = vram__build_map(b, up, -1);
  return (b->flags & VRAM__BUILD_RELU_SQUARED) ? vram__build_map(b, up, -1) : up;
}

/* bitnet has a norm before the last matrix. */
VRAM__FN int32_t vram__build_dense(vram__build *b, int32_t x) {
  const vram_file_tensor *down = vram__build_weight(b, "ffn_down.weight");
  int32_t up = vram__build_linear(b, x, "ffn_up.weight", "ffn_up.bias"), gate = -1;
  if (vram__build_weight(b, "ffn_gate.weight"))
    gate = vram__build_linear(b, x, "ffn_gate.weight", "ffn_gate.bias");
  up = vram__build_between(b, gate, up, down ? vram__llama_columns(down) : 0, "swiglu_clamp_shexp");
  up = vram__build_norm(b, up, "ffn_sub_norm.weight", NULL);
  return vram__build_linear(b, up, "ffn_down.weight", "ffn_down.bias");
}

typedef struct vram__build_router {
  int32_t logits, probs, biased, chosen, weights, sum, clamped, unscaled;
} vram__build_router;

/* ggml-cuda fuses the router's ops: what they make lives until the node behind the last of them
   (ggml_backend_cuda_graph_optimize). */
static void vram__build_live(vram__build *b, int32_t last, const vram__build_router *r) {
  int32_t i;
  if ((b->flags & (VRAM__BUILD_LATE_SOFTMAX | VRAM__BUILD_WEIGH_FIRST)) || !vram__build_is_fused(b))
    return;
  i = vram__build_fused(b, r->probs, r->logits);
  vram__build_at(b, i)->flags |= VRAM__NODE_LATER;
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

/* The first of each row when all are in order: their places. */
static int32_t vram__build_best(vram__build *b, int32_t a, uint64_t n) {
  const uint64_t *ne = vram__build_at(b, a)->ne;
  const uint64_t rows = ne[1], many = ne[2];
  a = vram__build_node(b, ne[0], rows, many, a);
  return vram__build_view(b, a, n, rows, many);
}

/* Scores with those of all groups but the best masked, a group's score being that of its two best
   experts (deepseek2). */
static int32_t vram__build_grouped(vram__build *b, int32_t scores) {
  const uint64_t groups = b->m->n_expert_group, each = b->m->n_expert / groups;
  const uint64_t used = b->m->n_group_used, rows = vram__build_at(b, scores)->ne[1];
  const int32_t apart = vram__build_view(b, scores, each, groups, rows);
  int32_t i = vram__build_node(b, 2, groups, rows,
                               vram__build_view(b, apart, 1, each, groups * rows)),
          best;
  vram__build_source(b, i, vram__build_best(b, apart, 2));
  i = vram__build_node(b, 1, groups, rows, vram__build_view(b, i, 2, groups, rows));
  best = vram__build_best(b, vram__build_view(b, i, groups, rows, 1), used);
  i = vram__build_node(b, each, used, rows, apart);
  vram__build_source(b, i, best);
  scores = vram__build_map(b, apart, -1); /* filled */
  i = vram__build_over(b, scores, i, best);
  return vram__build_view(b, i, b->m->n_expert, rows, 1);
}

/* grovemoe: groups of the chosen experts; the numbers are divided as f32. */
static int32_t vram__build_divided(vram__build *b, int32_t chosen, uint64_t used, uint64_t rows) {
  const int32_t real = vram__build_node(b, used, rows, 1, chosen);
  return vram__build_node(b, used, rows, 1, vram__build_map(b, real, -1));
}

/* Weights of the chosen experts, [1, used, rows]. The logits are given, or made of x (-1). */
static vram__build_router vram__build_route(vram__build *b, int32_t x, int32_t logits,
                                            int is_chunk) {
  const uint64_t used = b->m->n_expert_used, rows = vram__build_at(b, x)->ne[1];
  const uint64_t experts = b->m->n_expert;
  vram__build_router r;
  int32_t i, view;
  r.sum = r.clamped = -1;
  r.logits =
      logits >= 0 ? logits : vram__build_linear(b, x, "ffn_gate_inp.weight", "ffn_gate_inp.bias");
  r.probs = (b->flags & VRAM__BUILD_LATE_SOFTMAX) ? r.logits : vram__build_map(b, r.logits, -1);
  r.biased = vram__build_bias(b, r.probs, "exp_probs_b.bias");
  r.biased = vram__build_bias(b, r.biased, "exp_probs_b"); /* hy_v3 calls it so */
  i = b->m->n_expert_group > 1 ? vram__build_grouped(b, r.biased) : r.biased;
  if (b->flags & VRAM__BUILD_GROVE)
    i = vram__build_map(b, r.logits, -1);
  if (b->flags & VRAM__BUILD_WEIGH_FIRST)
    i = r.logits;
  r.chosen = vram__build_best(b, i, used);
  if (is_chunk)
    r.chosen = vram__build_divided(b, r.chosen, used, rows);
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
  vram__build_multiply(b, i, t);
  vram__build_source(b, i, x);
  vram__build_source(b, i, chosen);
  if ((b->flags & VRAM__BUILD_WIDE_DOWN) && t == vram__build_weight(b, "ffn_down_exps.weight")) {
    vram__build_at(b, i)->flags |= VRAM__NODE_ON_HOST;
    vram__build_at(b, i)->buffer = (int8_t)(vram__build_where(b, t) == b->host ? b->host : -1);
  }
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

typedef struct vram__build_experts {
  const char *up, *gate, *down, *up_bias, *gate_bias, *down_bias;
} vram__build_experts;

/* What experts have between x and their last matrix: both matrices may be one. */
static int32_t vram__build_inner(vram__build *b, int32_t x, int32_t chosen,
                                 const vram__build_experts *e) {
  const uint64_t used = b->m->n_expert_used, rows = vram__build_at(b, x)->ne[2];
  int32_t up, gate = vram__build_expert(b, x, chosen, "ffn_gate_up_exps.weight", "");
  if (gate >= 0) {
    const uint64_t width = vram__build_at(b, gate)->ne[0] / 2;
    up = vram__build_view(b, gate, width, used, rows);
    return vram__build_glu(b, vram__build_view(b, gate, width, used, rows), up, width);
  }
  up = vram__build_expert(b, x, chosen, e->up, e->up_bias);
  if (up < 0) {
    b->g->is_given_up = 1; /* a router without experts */
    return x;
  }
  gate = vram__build_expert(b, x, chosen, e->gate, e->gate_bias);
  return vram__build_between(b, gate, up, 0, "swiglu_clamp_exp");
}

/* What experts made of x through their last matrix. */
static int32_t vram__build_last(vram__build *b, int32_t x, int32_t chosen,
                                const vram__build_experts *e) {
  const int32_t i = vram__build_expert(b, x, chosen, e->down, e->down_bias);
  if (i < 0)
    b->g->is_given_up = 1; /* experts without one */
  return i < 0 ? x : i;
}

/* A scale of each chosen expert, [1, used, rows]; -1: the file has none. */
static int32_t vram__build_expert_scale(vram__build *b, int32_t chosen, uint64_t rows) {
  int32_t i = vram__build_reshaped(b, vram__build_weight(b, "ffn_down_exps.scale"));
  if (i < 0)
    return i;
  i = vram__build_node(b, 1, b->m->n_expert, rows, i);
  i = vram__build_node(b, 1, b->m->n_expert_used, rows, i);
  vram__build_source(b, i, chosen);
  return i;
}

/* llama4: experts of a weighted input. */
static int32_t vram__build_weighed(vram__build *b, int32_t x, const vram__build_router *r,
                                   const vram__build_experts *e) {
  const uint64_t width = vram__build_at(b, x)->ne[0], rows = vram__build_at(b, x)->ne[1];
  int32_t i = vram__build_view(b, x, width, 1, rows);
  i = vram__build_node(b, width, b->m->n_expert_used, rows, i);
  i = vram__build_inner(b, vram__build_map(b, i, r->weights), r->chosen, e);
  i = vram__build_last(b, i, r->chosen, e);
  vram__build_expand(b, i);
  return vram__build_add_up(b, i, width, rows);
}

/* Experts, chosen by what is made of x, or by logits. */
static int32_t vram__build_chosen(vram__build *b, int32_t x, int32_t logits,
                                  const vram__build_experts *e, int is_chunk) {
  const uint64_t width = vram__build_at(b, x)->ne[0], rows = vram__build_at(b, x)->ne[1];
  vram__build_router r = vram__build_route(b, x, logits, is_chunk);
  int32_t view, up, down, first, part, scale, sum;
  if (b->flags & VRAM__BUILD_WEIGH_FIRST)
    return vram__build_weighed(b, x, &r, e);
  view = vram__build_view(b, x, width, 1, rows);
  up = vram__build_inner(b, view, r.chosen, e);
  down = vram__build_last(b, up, r.chosen, e);
  r.weights = vram__build_view(b, r.weights, 1, b->m->n_expert_used, rows);
  scale = vram__build_expert_scale(b, r.chosen, rows);
  first = scale < 0 ? down : vram__build_map(b, down, scale);
  part = vram__build_map(b, first, r.weights);
  vram__build_expand(b, part);
  sum = vram__build_add_up(b, part, width, rows);
  if (b->m->n_expert_used > 1 &&
      b->m->n_expert_used <= VRAM__BUILD_REDUCED) { /* fused as well: all live until the last sum */
    part = vram__build_fused(b, scale < 0 ? part : first, down);
    vram__build_source(b, part, r.weights);
    vram__build_source(b, part, scale);
  }
  return sum;
}

VRAM__FN int32_t vram__build_moe(vram__build *b, int32_t x, int32_t logits) {
  static const vram__build_experts e = {"ffn_up_exps.weight",   "ffn_gate_exps.weight",
                                        "ffn_down_exps.weight", "ffn_up_exps.bias",
                                        "ffn_gate_exps.bias",   "ffn_down_exps.bias"};
  return vram__build_chosen(b, x, logits, &e, 0);
}

/* Experts of groups, by the logits of those that are in them: grovemoe. */
VRAM__FN int32_t vram__build_chunks(vram__build *b, int32_t x, int32_t logits) {
  static const vram__build_experts e = {
      "ffn_up_chexps.weight", "ffn_gate_chexps.weight", "ffn_down_chexps.weight", "", "", ""};
  const double each = vram__llama_real(b->m, "experts_per_group");
  if (!(each >= 1) || b->m->n_expert_used * each > b->m->n_expert)
    b->g->is_given_up = 1; /* fewer groups than are chosen: no graph of this kind */
  return vram__build_chosen(b, x, logits, &e, each > 1);
}

/* Shared experts have a gate of their own: sigmoid, or SiLU of a over a (qwen2moe). */
static int32_t vram__build_shared_gate(vram__build *b, int32_t x, int32_t shared) {
  const vram_file_tensor *t = vram__build_weight(b, "ffn_gate_inp_shexp.weight");
  int32_t i;
  if (!t)
    return shared;
  i = vram__build_multiply(b, vram__build_node(b, 1, vram__build_at(b, x)->ne[1], 1, -1), t);
  vram__build_source(b, i, x);
  if (b->flags & VRAM__BUILD_SHARED_SIGMOID)
    i = vram__build_map(b, i, -1);
  else
    i = vram__build_map(b, vram__build_map(b, i, -1), i);
  return vram__build_map(b, shared, i);
}

/* What a layer has of these; the router's logits may be given (-1: not). */
VRAM__FN int32_t vram__build_forward(vram__build *b, int32_t x, int32_t logits) {
  const vram_file_tensor *down = vram__build_weight(b, "ffn_down_shexp.weight");
  int32_t sum, shared, gate = -1;
  if (!vram__build_weight(b, "ffn_gate_inp.weight"))
    return vram__build_dense(b, x);
  if (vram__build_weight(b, "ffn_latent_down.weight")) { /* nemotron_h_moe: experts are narrower */
    sum = vram__build_linear(b, x, "ffn_latent_down.weight", NULL);
    logits = vram__build_linear(b, x, "ffn_gate_inp.weight", NULL);
    sum = vram__build_moe(b, sum, logits);
    sum = vram__build_linear(b, sum, "ffn_latent_up.weight", NULL);
  } else {
    sum = vram__build_moe(b, x, logits);
  }
  if ((b->flags & VRAM__BUILD_DENSE_TOO) && vram__build_weight(b, "ffn_up.weight"))
    return vram__build_map(b, vram__build_map(b, vram__build_dense(b, x), sum), -1);
  if (!vram__build_weight(b, "ffn_up_shexp.weight"))
    return sum;
  shared = vram__build_linear(b, x, "ffn_up_shexp.weight", NULL);
  if (vram__build_weight(b, "ffn_gate_shexp.weight"))
    gate = vram__build_linear(b, x, "ffn_gate_shexp.weight", NULL);
  shared = vram__build_between(b, gate, shared, down ? vram__llama_columns(down) : 0,
                               "swiglu_clamp_shexp");
  shared = vram__build_linear(b, shared, "ffn_down_shexp.weight", NULL);
  sum = vram__build_map(b, sum, vram__build_shared_gate(b, x, shared));
  return (b->flags & VRAM__BUILD_HALVES) ? vram__build_map(b, sum, -1) : sum;
}
