/* >>ops/composite    a routed feed-forward (moe), and custom ops */
#include "ops/ops.h"

/* The slots of a routed feed-forward's parameters; there are no biases. */
enum {
  VRAM__MOE_ROUTER,
  VRAM__MOE_UP,   /* of all experts; with the gate's where there is one */
  VRAM__MOE_DOWN, /* of all experts */
  VRAM__MOE_SHARED_GATE,
  VRAM__MOE_SHARED_UP,
  VRAM__MOE_SHARED_DOWN,
  VRAM__MOE_PARAMS
};

static int vram__shape_moe_params(vram_graph *g, vram_node *n, int64_t width) {
  const int64_t experts = VRAM__INT(n, num_experts, 0), inner = VRAM__INT(n, intermediate_size, 0),
                shared = VRAM__INT(n, shared_intermediate_size, 0);
  const int gated = VRAM__INT(n, gated, 1) != 0, has_shared = shared != 0;
  const vram__own_param own[] = {
      {VRAM__MOE_ROUTER, 1, "gate.weight", 2, {experts, width, 0}},
      {VRAM__MOE_UP,
       1,
       gated ? "experts.gate_up_proj" : "experts.up_proj",
       3,
       {experts, gated ? 2 * inner : inner, width}},
      {VRAM__MOE_DOWN, 1, "experts.down_proj", 3, {experts, width, inner}},
      {VRAM__MOE_SHARED_GATE,
       has_shared && gated,
       "shared_expert.gate_proj.weight",
       2,
       {shared, width, 0}},
      {VRAM__MOE_SHARED_UP, has_shared, "shared_expert.up_proj.weight", 2, {shared, width, 0}},
      {VRAM__MOE_SHARED_DOWN, has_shared, "shared_expert.down_proj.weight", 2, {width, shared, 0}}};
  return vram__node_params(g, n, VRAM__MOE_PARAMS) &&
         vram__node_own_params(g, n, own, sizeof own / sizeof *own);
}

static int vram__shape_moe(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t experts = VRAM__INT(n, num_experts, 0), top_k = VRAM__INT(n, top_k, 0),
                inner = VRAM__INT(n, intermediate_size, 0);
  const int64_t shared = VRAM__INT(n, shared_intermediate_size, 0);
  const int64_t width = x->ndim ? x->v[x->ndim - 1] : 0;
  if (width < 1)
    return vram__node_error(g, n, "an input without values");
  if (experts < 1 || top_k < 1 || top_k > experts)
    return vram__node_error(g, n, "top_k must be 1 to num_experts");
  if (inner < 1 || inner > VRAM__MAX_UNITS || shared < 0 || shared > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "intermediate_size must be at least 1");
  if (x->numel / (uint64_t)width > (uint64_t)(INT64_MAX / 16) / (uint64_t)top_k)
    return vram__node_error(g, n, "a size out of range");
  if (!vram__shape_moe_params(g, n, width))
    return 0;
  g->extra += 16384;
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_custom(vram_graph *g, vram_node *n) {
  const int64_t params = VRAM__INT(n, params, 0), buffers = VRAM__INT(n, buffers, 0);
  const vram_dtype dt =
      vram__graph_key_dtype(g, n, n->nin ? n->in[0]->dtype : vram__graph_default_dtype(g));
  static const uint8_t keys[] = {VRAM__KEY_saved, VRAM__KEY_workspace, VRAM__KEY_backward_workspace,
                                 VRAM__KEY_unseen};
  uint32_t ndim, i, count;
  const int64_t *size = vram__node_list(n, VRAM__KEY_shape, &ndim), *saves;
  if (params < 0 || buffers < 0)
    return vram__node_error(g, n, "params, buffers, saved and workspace must not be negative");
  for (i = 0; i < sizeof keys / sizeof *keys; i++) {
    const int64_t *bytes = vram__node_list(n, keys[i], &count);
    if (bytes && count != 1 && count != 3)
      return vram__node_error(g, n, "saved and workspace are one number or three");
    while (count)
      if (bytes[--count] < 0)
        return vram__node_error(g, n, "params, buffers, saved and workspace must not be negative");
  }
  saves = vram__node_list(n, VRAM__KEY_saves, &count);
  for (i = 0; i < count; i++)
    if (saves[i] < 0 || saves[i] >= (int64_t)n->nin + n->nout)
      return vram__node_error(g, n, "saves names neither an input nor an output (0, 1, ...)");
  if (count > VRAM_MAX_AXES)
    return vram__node_error(g, n, "saves names more than 8");
  if (!vram__node_params(g, n, 2))
    return 0;
  if (params && !vram__node_own(g, n, 0, "params", 1, &params, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return 0;
  if (buffers && !vram__node_own(g, n, 1, "buffers", 1, &buffers, VRAM_DTYPE_MODEL, VRAM__BUFFER))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!vram__node_out(g, n, i, ndim, size, dt))
      return 0;
  return 1;
}

/* Of the experts' stacked weights top_k are used. */
static uint64_t vram__flops_moe(const vram_node *n) {
  const uint64_t experts = (uint64_t)VRAM__INT(n, num_experts, 1);
  uint64_t elements = vram__matrix_elements(n);
  uint32_t i;
  for (i = 0; i < n->nparam; i++) {
    const vram_dims *d = n->param[i] ? n->param[i]->d : NULL;
    if (d && d->ndim == 3 && experts)
      elements -= d->numel - d->numel / experts * (uint64_t)VRAM__INT(n, top_k, 1);
  }
  return vram__product_or_overflow(vram__product_or_overflow(2, vram__input_rows(n)), elements);
}

#ifndef VRAM_NO_STEP

/* ---- moe: a routed feed-forward ----
   Every token goes through top_k experts. Tokens are grouped by expert and go through grouped
   products, so that nothing but the groups' sizes depends on the data: what stands here holds for
   any routing where the groups' sum counts, and expects tokens that are spread evenly where a
   group's own size would count (one product a group on older devices). */

typedef struct vram__moe {
  vram__tensor w[VRAM__MOE_PARAMS];
  int64_t tokens, experts, top_k;
  int gated;
  vram_dtype dt;
} vram__moe;

/* x[index] along axis 0 */
static vram__tensor vram__torch_rows(vram__step *s, vram__tensor x, vram__tensor index) {
  vram__grad_fn *f = vram__tape_record(s, VRAM_OP_index, &x, 1, 1, 1);
  vram__tensor y;
  if (f)
    vram__save_tensor(s, f, index);
  y = vram__indexed(s, x, &index, 1, 0);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The top_k largest of x of [tokens, experts]; takes x, gives their indices, too. */
static vram__tensor vram__moe_top_k(vram__step *s, const vram__moe *m, vram__tensor x,
                                    vram__tensor *index) {
  vram__grad_fn *f = vram__tape_record(s, VRAM_OP_topk, &x, 1, 1, 1);
  vram__tensor y = vram__tensor_empty(s, vram__dims_2d(s, m->tokens, m->top_k), x.dt);
  *index = vram__tensor_empty(s, y.d, VRAM_I64);
  vram__topk_scratch(s, x.d, 1, vram__dtype_size(x.dt));
  if (f)
    vram__save_tensor(s, f, *index);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, x);
  return y;
}

/* x / x.sum(-1, keepdim=True); takes x. */
static vram__tensor vram__moe_normalize(vram__step *s, vram__tensor x) {
  vram__grad_fn *f = vram__tape_record(s, VRAM_OP_sum, &x, 1, 1, 0);
  vram__tensor in[2], y;
  if (f)
    f->aux = 1u << 1;
  in[0] = x;
  in[1] = vram__tensor_sum(s, x, 1u << 1, 1, x.dt);
  vram__grad_fn_set_output(s, f, 0, &in[1]);
  y = vram__torch_pointwise(s, VRAM_OP_div, in, 2);
  vram__tensor_release(s, in[1]);
  vram__tensor_release(s, x);
  return y;
}

/* The router: probabilities in fp32, the top_k largest, made to add up to 1, and their experts. */
static vram__tensor vram__moe_route(vram__step *s, const vram__moe *m, vram__tensor x,
                                    vram__tensor *expert) {
  vram__tensor y = vram__torch_linear_2d(s, x, m->w[VRAM__MOE_ROUTER], vram__tensor_none());
  vram__tensor_replace(s, &y, vram__torch_softmax(s, VRAM_OP_softmax, y, VRAM_F32));
  y = vram__moe_top_k(s, m, y, expert);
  y = vram__moe_normalize(s, y);
  vram__tensor_replace(s, &y, vram__torch_cast(s, y, m->dt));
  return y;
}

/* Rows, top_k of each token, in the order of their experts: argsort, which sorts the values, too.
   Takes the experts. */
static vram__tensor vram__moe_sort(vram__step *s, const vram__moe *m, vram__tensor expert) {
  const int64_t count = m->tokens * m->top_k;
  const vram__tensor values = vram__tensor_empty(s, vram__dims_in(s, 1, &count, NULL), VRAM_I64);
  const vram__tensor order = vram__tensor_empty(s, values.d, VRAM_I64);
  vram__sort_rows(s, values.d, values.d, 0, 8);
  vram__tensor_release(s, values);
  vram__tensor_release(s, expert);
  return order;
}

/* A layer of all experts, whose rows end at these offsets; takes x. */
static vram__tensor vram__moe_grouped(vram__step *s, vram__tensor x, vram__tensor w,
                                      vram__tensor offsets) {
  const vram__tensor turned = vram__torch_swap(s, w, 1, 2);
  const vram__tensor y =
      vram__torch_grouped(s, x, turned, offsets, vram__dims_2d(s, x.d->v[0], w.d->v[1]));
  vram__tensor_release(s, turned);
  vram__tensor_release(s, x);
  return y;
}

/* silu(gate) * up of a product of both, else gelu(up); takes x. */
static vram__tensor vram__moe_activate(vram__step *s, vram__tensor x, int gated) {
  vram__tensor part[2], y;
  vram__grad_fn *f;
  uint32_t i;
  int64_t size[2];
  if (!gated) {
    y = vram__torch_pointwise(s, VRAM_OP_gelu, &x, 1);
    vram__tensor_release(s, x);
    return y;
  }
  f = vram__tape_record(s, VRAM_OP_chunk, &x, 1, 2, 0);
  if (f)
    f->aux = 1;
  size[0] = x.d->v[0];
  size[1] = x.d->v[1] / 2;
  for (i = 0; i < 2; i++) {
    part[i] = vram__tensor_view(s, x, vram__dims_in(s, 2, size, VRAM__STRIDE(x.d)));
    vram__grad_fn_set_output(s, f, i, &part[i]);
  }
  y = vram__torch_pointwise(s, VRAM_OP_silu, &part[0], 1);
  vram__tensor_replace(s, &y, vram__torch_mul(s, y, part[1]));
  vram__tensor_release(s, part[0]);
  vram__tensor_release(s, part[1]);
  vram__tensor_release(s, x);
  return y;
}

/* The experts: rows of x in their order, each times its weight. Takes the order and the weights;
   gives the token of each row, too. */
static vram__tensor vram__moe_experts(vram__step *s, const vram__moe *m, vram__tensor x,
                                      vram__tensor order, vram__tensor weights,
                                      vram__tensor *token) {
  const int64_t count = m->tokens * m->top_k, experts = m->experts;
  vram__tensor y, offsets, scaled;
  *token = vram__tensor_empty(s, order.d, VRAM_I64);
  y = vram__torch_rows(s, x, *token);
  vram__tensor_replace(s, &weights, vram__torch_reshape(s, weights, 1, &count));
  vram__tensor_replace(s, &weights, vram__torch_rows(s, weights, order));
  vram__tensor_release(s, order);
  offsets = vram__tensor_empty(s, vram__dims_in(s, 1, &experts, NULL), VRAM_I32);
  y = vram__moe_grouped(s, y, m->w[VRAM__MOE_UP], offsets);
  y = vram__moe_activate(s, y, m->gated);
  y = vram__moe_grouped(s, y, m->w[VRAM__MOE_DOWN], offsets);
  vram__tensor_release(s, offsets);
  vram__tensor_replace(s, &weights, vram__torch_unsqueeze(s, weights, 1));
  scaled = vram__torch_mul(s, y, weights);
  vram__tensor_release(s, weights);
  vram__tensor_release(s, y);
  return scaled;
}

/* zeros_like(x).index_add_(0, token, rows); takes rows and token. */
static vram__tensor vram__moe_combine(vram__step *s, const vram__moe *m, vram__tensor x,
                                      vram__tensor rows, vram__tensor token) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_index_add, &rows, 1, 1, 2);
  vram__tensor y;
  if (f) {
    vram__save_tensor(s, f, token);
    vram__save_tensor(s, f, rows); /* for its sizes */
  }
  y = vram__tensor_empty(s, x.d->flags & VRAM__CONTIG ? x.d : vram__dims_contiguous(s, x.d), m->dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, rows);
  vram__tensor_release(s, token);
  return y;
}

/* The gradient of the rows is picked from the one that arrives. */
VRAM__FN void vram__backward_index_add(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)), g.dt);
}

/* The shared expert: a feed-forward of its own for every token. */
static vram__tensor vram__moe_shared(vram__step *s, const vram__moe *m, vram__tensor x) {
  const vram__tensor none = vram__tensor_none();
  vram__tensor up = vram__torch_linear_2d(s, x, m->w[VRAM__MOE_SHARED_UP], none), gate, y;
  if (m->w[VRAM__MOE_SHARED_GATE].d) {
    gate = vram__torch_linear_2d(s, x, m->w[VRAM__MOE_SHARED_GATE], none);
    vram__tensor_replace(s, &gate, vram__torch_pointwise(s, VRAM_OP_silu, &gate, 1));
    y = vram__torch_mul(s, gate, up);
    vram__tensor_release(s, gate);
  } else
    y = vram__torch_pointwise(s, VRAM_OP_gelu, &up, 1);
  vram__tensor_release(s, up);
  vram__tensor_replace(s, &y, vram__torch_linear_2d(s, y, m->w[VRAM__MOE_SHARED_DOWN], none));
  return y;
}

static void vram__forward_moe(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const vram_dims *d = x[0].d;
  const int64_t width = d->v[d->ndim - 1];
  vram__moe m;
  vram__tensor in[2], tokens, weights, expert, order, token;
  int64_t size[2];
  uint32_t i;
  for (i = VRAM__MOE_PARAMS; i-- > 0;)
    m.w[i] =
        n->param[i] ? vram__autocast_low(s, s->param[n->param[i]->index]) : vram__tensor_none();
  tokens = vram__autocast_low(s, x[0]);
  m.dt = tokens.dt;
  m.tokens = width ? (int64_t)(d->numel / (uint64_t)width) : 0;
  m.experts = VRAM__INT(n, num_experts, 1);
  m.top_k = VRAM__INT(n, top_k, 1);
  m.gated = VRAM__INT(n, gated, 1) != 0;
  size[0] = m.tokens;
  size[1] = width;
  vram__tensor_replace(s, &tokens, vram__torch_reshape(s, tokens, 2, size));
  weights = vram__moe_route(s, &m, tokens, &expert);
  order = vram__moe_sort(s, &m, expert);
  y[0] = vram__moe_experts(s, &m, tokens, order, weights, &token);
  y[0] = vram__moe_combine(s, &m, tokens, y[0], token);
  if (m.w[VRAM__MOE_SHARED_UP].d) {
    in[0] = y[0];
    in[1] = vram__moe_shared(s, &m, tokens);
    y[0] = vram__torch_pointwise(s, VRAM_OP_add, in, 2);
    vram__tensor_release(s, in[1]);
    vram__tensor_release(s, in[0]);
  }
  vram__tensor_release(s, tokens);
  for (i = 0; i < VRAM__MOE_PARAMS; i++)
    vram__tensor_release(s, m.w[i]);
  vram__tensor_replace(
      s, &y[0],
      vram__torch_view_as(s, y[0], vram__dims_in(s, d->ndim, d->v, NULL), VRAM__K_view, 0));
}

/* ---- custom: an op that the table does not know ---- */

/* What a key says: one number, or three (for weights of 32 bits or more, of 16 bits, under
   autocast). One number is that of a run in the model's own dtype: in 16 bits it may be *less. */
static uint64_t vram__custom_bytes(const vram__step *s, const vram_node *n, uint32_t key,
                                   uint64_t *less) {
  const vram_dtype amp = s->o->amp;
  uint32_t count;
  const int64_t *v = vram__node_list(n, key, &count);
  *less = 0;
  if (!v)
    return 0;
  if (count == 3)
    return (uint64_t)v[amp ? 2 : vram__is_half(s->dtype)];
  if (amp || s->dtype != vram__graph_own_dtype(s->g, VRAM_DTYPE_MODEL))
    *less = (uint64_t)*v / 2;
  return (uint64_t)*v;
}

/* Its workspace, and while that is there cuBLAS's where it has products. Nobody knows when it takes
   them: the peak may be without its own workspace, and cuBLAS's may come before the results. What
   its kernels may take unseen is in the upper bound. */
static void vram__custom_workspace(vram__step *s, const vram_node *n, uint32_t key, int64_t cublas,
                                   uint64_t results) {
  uint64_t less;
  const uint64_t bytes = vram__custom_bytes(s, n, key, &less),
                 unseen = vram__custom_bytes(s, n, VRAM__KEY_unseen, &less);
  uint32_t own;
  less = vram__sum_or_overflow(bytes, cublas ? results : 0);
  if (s->count.custom_most < less)
    s->count.custom_most = less;
  if (unseen)
    vram__upper_may_need(s, vram__sum_or_overflow(bytes, unseen) / 4);
  if (!cublas) {
    vram__workspace_use(s, bytes);
    return;
  }
  own = vram__cub_hold(s, bytes);
  vram__blas_workspace(s, VRAM__CUBLAS);
  vram__cub_release(s, own);
}

/* The results; *bytes: of those that are no views. */
static void vram__custom_results(vram__step *s, const vram_node *n, vram_dtype dt, vram__tensor x,
                                 vram__tensor *y, uint64_t *bytes) {
  uint32_t i;
  for (i = 0; i < n->nout; i++) {
    if (!i && n->nin && VRAM__INT(n, alias, 0)) {
      y[i] = vram__tensor_alias(s, x, n->out[i].d);
      continue;
    }
    y[i] = vram__tensor_empty(s, n->out[i].d, dt);
    *bytes = vram__sum_or_overflow(*bytes, vram__dims_bytes_of(y[i].d, dt));
  }
}

/* The inputs that it saves, if under autocast it keeps casts of them instead, which are among its
   own bytes then. */
static uint64_t vram__custom_cast(const vram__step *s, const vram_node *n, const vram__tensor *x) {
  uint64_t bytes = 0;
  uint32_t i, count, numbers;
  const int64_t *const saves = vram__node_list(n, VRAM__KEY_saves, &count);
  const int64_t *const saved = vram__node_list(n, VRAM__KEY_saved, &numbers);
  if (!s->o->amp || !saved || numbers != 3 || saved[2] <= saved[0])
    return 0;
  for (i = 0; i < count; i++)
    if (saves[i] < n->nin)
      bytes = vram__sum_or_overflow(bytes, vram__dims_bytes_of(x[saves[i]].d, x[saves[i]].dt));
  return bytes;
}

/* It saves what its node says, and nothing else: bytes of its own, inputs and outputs. */
static void vram__forward_custom(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  uint64_t less, results;
  const int64_t saved = (int64_t)vram__custom_bytes(s, n, VRAM__KEY_saved, &less);
  vram__tensor in[17], keep = vram__tensor_none();
  vram__grad_fn *f;
  uint32_t i, count;
  const int64_t *const saves = vram__node_list(n, VRAM__KEY_saves, &count);
  vram_dtype dt = vram__step_key_dtype(s, n, vram__graph_default_dtype(s->g));
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->param[0])
    in[i++] = s->param[n->param[0]->index];
  if (n->nin && !vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = x[0].dt;
  f = vram__kind_rank(dt) >= 2 ? vram__tape_record(s, n->op, in, i, n->nout, 1 + count) : NULL;
  results = (uint64_t)saved;
  vram__custom_results(s, n, dt, n->nin ? x[0] : keep, y, &results);
  if (saved)
    keep = vram__tensor_empty(s, vram__dims_in(s, 1, &saved, NULL), VRAM_U8);
  if (f && saved)
    vram__save_tensor(s, f, keep);
  for (i = 0; f && i < count; i++)
    vram__save_tensor(s, f, saves[i] < n->nin ? x[saves[i]] : y[saves[i] - n->nin]);
  vram__custom_workspace(s, n, VRAM__KEY_workspace, VRAM__INT(n, cublas, 0), results);
  less = vram__sum_or_overflow(less, f ? vram__custom_cast(s, n, x) : 0);
  s->count.custom = vram__sum_or_overflow(s->count.custom, less);
  vram__tensor_release(s, keep);
  for (i = 0; i < n->nout; i++)
    vram__grad_fn_set_output(s, f, i, &y[i]);
}

/* It makes gradients of the inputs and of the parameters, and takes its workspace, where no other
   one is named the same once more. */
static void vram__backward_custom(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t key = VRAM__KEY_backward_workspace, i;
  uint64_t results = 0;
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i)) {
      vram_dtype dt;
      const vram_dims *d = vram__input_dims(s, f, i, &dt);
      to[i] = vram__tensor_empty(s, vram__dims_dense(s, d), dt);
      results = vram__sum_or_overflow(results, vram__dims_bytes_of(d, dt));
    }
  if (!vram__node_list(f->node, key, NULL))
    key = VRAM__KEY_workspace;
  vram__custom_workspace(
      s, f->node, key, VRAM__INT(f->node, backward_cublas, VRAM__INT(f->node, cublas, 0)), results);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(
    moe, "", 1, 1, moe, SAME, low, moe, none, moe, NONE, 0, 0,
    "num_experts! top_k! intermediate_size! gated shared_intermediate_size frozen weights dtype");
VRAM__OP(custom, "", 0, 16, custom, SAME, none, custom, custom, each, CUSTOM, 0, 0,
         "shape! dtype params buffers saved saves workspace backward_workspace unseen alias cublas "
         "backward_cublas frozen weights");
