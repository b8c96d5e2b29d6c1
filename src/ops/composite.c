/* >>ops/composite    a routed feed-forward (moe), and custom ops */
#include "ops/ops.h"

/* Routed feed-forward: parameters of the router, of all experts and of the shared one, no biases;
   gated: a gate beside up, as SwiGLU has */
static int vram__shape_moe(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t e = VRAM__INT(n, num_experts, 0), k = VRAM__INT(n, top_k, 0),
          i = VRAM__INT(n, intermediate_size, 0),
          shared = VRAM__INT(n, shared_intermediate_size, 0), size[3];
  int gated = VRAM__INT(n, gated, 1) != 0;
  if (x->ndim < 1 || x->v[x->ndim - 1] < 1)
    return vram__node_error(g, n, "an input without values");
  if (e < 1 || k < 1 || k > e)
    return vram__node_error(g, n, "top_k must be 1 to num_experts");
  if (i < 1 || i > VRAM__MAX_UNITS || shared < 0 || shared > VRAM__MAX_UNITS)
    return vram__node_error(g, n, "intermediate_size must be at least 1");
  if (x->numel / (uint64_t)x->v[x->ndim - 1] > (uint64_t)(INT64_MAX / 16) / (uint64_t)k)
    return vram__node_error(g, n, "a size out of range");
  if (!vram__node_params(g, n, 6))
    return 0;
  size[0] = e, size[1] = x->v[x->ndim - 1];
  if (!vram__node_own(g, n, 0, "gate.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[2] = size[1], size[1] = gated ? 2 * i : i;
  if (!vram__node_own(g, n, 1, gated ? "experts.gate_up_proj" : "experts.up_proj", 3, size,
                      VRAM_F32, VRAM__PARAM))
    return 0;
  size[1] = size[2], size[2] = i;
  if (!vram__node_own(g, n, 2, "experts.down_proj", 3, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (shared) {
    size[0] = shared, size[1] = x->v[x->ndim - 1];
    if (gated &&
        !vram__node_own(g, n, 3, "shared_expert.gate_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    if (!vram__node_own(g, n, 4, "shared_expert.up_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    size[0] = size[1], size[1] = shared;
    if (!vram__node_own(g, n, 5, "shared_expert.down_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  g->extra += 16384;
  return vram__node_out_dims(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_custom(vram_graph *g, vram_node *n) {
  uint32_t c, i;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  int64_t params = VRAM__INT(n, params, 0), buffers = VRAM__INT(n, buffers, 0);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, n->nin ? n->in[0]->dtype : (uint8_t)VRAM_F32);
  if (params < 0 || buffers < 0 || VRAM__INT(n, saved, 0) < 0 || VRAM__INT(n, workspace, 0) < 0)
    return vram__node_error(g, n, "params, buffers, saved and workspace must not be negative");
  if (!vram__node_params(g, n, 2))
    return 0;
  if (params && !vram__node_own(g, n, 0, "params", 1, &params, VRAM_F32, VRAM__PARAM))
    return 0;
  if (buffers && !vram__node_own(g, n, 1, "buffers", 1, &buffers, VRAM_F32, VRAM__BUFFER))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!vram__node_out(g, n, i, c, v, dt))
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

/* ---- composite, anything else ---- */

/* zeros.index_add_(0, index, source): the gradient of the source is picked from g */
VRAM__FN void vram__backward_index_add(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)), g.dt);
}

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

/* act(gate) * up of a [rows, 2i] product of both, or act(up); takes x. act: silu with a gate, else
   gelu */
static vram__tensor vram__torch_gated(vram__step *s, vram__tensor x, int gated) {
  vram__tensor part[2], a, y;
  vram__grad_fn *f;
  int64_t size[2];
  uint32_t i;
  if (!gated) {
    y = vram__torch_pointwise(s, VRAM_OP_gelu, &x, 1);
    vram__tensor_release(s, x);
    return y;
  }
  f = vram__tape_record(s, VRAM_OP_chunk, &x, 1, 2, 0);
  if (f)
    f->aux = 1;
  size[0] = x.d->v[0], size[1] = x.d->v[1] / 2;
  for (i = 0; i < 2; i++) {
    part[i] = vram__tensor_view(s, x, vram__dims_in(s, 2, size, VRAM__STRIDE(x.d)));
    vram__grad_fn_set_output(s, f, i, &part[i]);
  }
  a = vram__torch_pointwise(s, VRAM_OP_silu, &part[0], 1);
  y = vram__torch_mul(s, a, part[1]);
  vram__tensor_release(s, a);
  vram__tensor_release(s, part[0]);
  vram__tensor_release(s, part[1]);
  vram__tensor_release(s, x);
  return y;
}

/* The shared expert: a feed-forward of its own for every token */
static vram__tensor vram__moe_shared(vram__step *s, vram__tensor x, const vram__tensor *w) {
  vram__tensor a, b = vram__torch_linear_2d(s, x, w[1], vram__tensor_none()), t;
  if (w[0].d) {
    t = vram__torch_linear_2d(s, x, w[0], vram__tensor_none());
    a = vram__torch_pointwise(s, VRAM_OP_silu, &t, 1);
    vram__tensor_release(s, t);
    t = vram__torch_mul(s, a, b);
    vram__tensor_release(s, a);
  } else
    t = vram__torch_pointwise(s, VRAM_OP_gelu, &b, 1);
  vram__tensor_release(s, b);
  b = vram__torch_linear_2d(s, t, w[2], vram__tensor_none());
  vram__tensor_release(s, t);
  return b;
}

/* Routed feed-forward: every token goes through top_k experts. Tokens are grouped by expert and go
   through grouped products, so that nothing but the groups' sizes depends on the data: what stands
   here holds for any routing where the groups' sum counts, and expects tokens that are spread
   evenly where a group's own size would count (one product a group on older devices). */
static void vram__forward_moe(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const vram_dims *d = x[0].d;
  int64_t h = d->v[d->ndim - 1], k = VRAM__INT(n, top_k, 1), size[3], i;
  int gated = VRAM__INT(n, gated, 1) != 0;
  uint8_t dt;
  uint32_t j;
  vram__tensor w[6], xf, p, q, t, top, idx, perm, back, rows, weight, offsets, out, turned;
  vram__grad_fn *f;
  for (j = 6; j-- > 0;) {
    w[j] = n->param[j] ? s->param[n->param[j]->index] : vram__tensor_none();
    if (w[j].d)
      w[j] = s->amp ? vram__autocast_cast(s, w[j], s->amp) : vram__tensor_retain(s, w[j]);
  }
  t = s->amp ? vram__autocast_cast(s, x[0], s->amp) : vram__tensor_retain(s, x[0]);
  dt = t.dt;
  size[0] = h ? (int64_t)(d->numel / (uint64_t)h) : 0, size[1] = h;
  xf = vram__torch_reshape(s, t, 2, size);
  vram__tensor_release(s, t);
  /* the router: probabilities in f32, the k largest, made to add up to 1 */
  p = vram__torch_linear_2d(s, xf, w[0], vram__tensor_none());
  q = vram__torch_softmax(s, VRAM_OP_softmax, p, VRAM_F32);
  vram__tensor_release(s, p);
  size[1] = k;
  f = vram__tape_record(s, VRAM_OP_topk, &q, 1, 1, 1);
  top = vram__tensor_empty(s, vram__dims_in(s, 2, size, NULL), q.dt);
  idx = vram__tensor_empty(s, top.d, VRAM_I64);
  vram__topk_scratch(s, q.d, 1);
  if (f)
    vram__save_tensor(s, f, idx);
  vram__grad_fn_set_output(s, f, 0, &top);
  vram__tensor_release(s, q);
  f = vram__tape_record(s, VRAM_OP_sum, &top, 1, 1, 0);
  if (f)
    f->aux = 2;
  {
    vram__tensor in[2];
    in[0] = top;
    in[1] = vram__tensor_sum(s, top, 2, 1, top.dt);
    vram__grad_fn_set_output(s, f, 0, &in[1]);
    p = vram__torch_pointwise(s, VRAM_OP_div, in, 2);
    vram__tensor_release(s, in[1]);
    vram__tensor_release(s, top);
  }
  top = vram__torch_cast(s, p, dt);
  vram__tensor_release(s, p);
  /* tokens in the order of their experts: argsort, which sorts the values, too */
  i = size[0] * k;
  size[0] = i;
  q = vram__tensor_empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I64);
  perm = vram__tensor_empty(s, q.d, VRAM_I64);
  vram__sort_rows(s, q.d, q.d, 0, 8);
  vram__tensor_release(s, q);
  vram__tensor_release(s, idx);
  back = vram__tensor_empty(s, perm.d, VRAM_I64); /* the token of every row */
  rows = vram__torch_rows(s, xf, back);
  p = vram__torch_reshape(s, top, 1, size);
  vram__tensor_release(s, top);
  weight = vram__torch_rows(s, p, perm);
  vram__tensor_release(s, p);
  vram__tensor_release(s, perm);
  size[0] = VRAM__INT(n, num_experts, 1);
  offsets = vram__tensor_empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I32);
  size[0] = i, size[1] = w[1].d->v[1];
  turned = vram__torch_swap(s, w[1], 1, 2);
  p = vram__torch_grouped(s, rows, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__tensor_release(s, turned);
  vram__tensor_release(s, rows);
  p = vram__torch_gated(s, p, gated);
  size[1] = h;
  turned = vram__torch_swap(s, w[2], 1, 2);
  q = vram__torch_grouped(s, p, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__tensor_release(s, turned);
  vram__tensor_release(s, p);
  vram__tensor_release(s, offsets);
  t = vram__torch_unsqueeze(s, weight, 1);
  vram__tensor_release(s, weight);
  p = vram__torch_mul(s, q, t);
  vram__tensor_release(s, t);
  vram__tensor_release(s, q);
  f = vram__tape_record(s, VRAM__K_index_add, &p, 1, 1, 2);
  if (f)
    vram__save_tensor(s, f, back), vram__save_tensor(s, f, p); /* the source for its sizes */
  out =
      vram__tensor_empty(s, xf.d->flags & VRAM__CONTIG ? xf.d : vram__dims_contiguous(s, xf.d), dt);
  vram__grad_fn_set_output(s, f, 0, &out);
  vram__tensor_release(s, p);
  vram__tensor_release(s, back);
  if (w[4].d) {
    vram__tensor in[2];
    in[0] = out, in[1] = vram__moe_shared(s, xf, w + 3);
    t = vram__torch_pointwise(s, VRAM_OP_add, in, 2);
    vram__tensor_release(s, in[1]);
    vram__tensor_release(s, out);
    out = t;
  }
  vram__tensor_release(s, xf);
  for (j = 0; j < 6; j++)
    vram__tensor_release(s, w[j]);
  y[0] = vram__torch_view_as(s, out, vram__dims_in(s, d->ndim, d->v, NULL), VRAM__K_view, 0);
  vram__tensor_release(s, out);
}

/* An op that the table does not know: what its node says. Backward needs the workspace once more
   and makes gradients of the inputs and of the parameters. */
static void vram__forward_custom(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__tensor in[17], keep = vram__tensor_none();
  vram__grad_fn *f;
  uint32_t i;
  int64_t saved = VRAM__INT(n, saved, 0);
  uint8_t dt = vram__step_dtype(s, n->out[0].dtype);
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->param[0])
    in[i++] = s->param[n->param[0]->index];
  if (n->nin && !vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = x[0].dt;
  f = vram__kind_rank(dt) >= 2 ? vram__tape_record(s, n->op, in, i, n->nout, 1) : NULL;
  for (i = 0; i < n->nout; i++)
    y[i] = vram__tensor_empty(s, n->out[i].d, dt);
  if (saved) {
    keep = vram__tensor_empty(s, vram__dims_in(s, 1, &saved, NULL), VRAM_U8);
    if (f)
      vram__save_tensor(s, f, keep);
  }
  vram__workspace_use(s, (uint64_t)VRAM__INT(n, workspace, 0));
  if (s->amp || s->low) { /* the bytes are those of a run in fp32: half of them in 16 bits */
    s->count.custom = vram__sum_or_overflow(s->count.custom, (uint64_t)saved / 2);
    if (s->count.custom_most < (uint64_t)VRAM__INT(n, workspace, 0) / 2)
      s->count.custom_most = (uint64_t)VRAM__INT(n, workspace, 0) / 2;
  }
  vram__tensor_release(s, keep);
  for (i = 0; i < n->nout; i++)
    vram__grad_fn_set_output(s, f, i, &y[i]);
}

static void vram__backward_custom(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i)) {
      uint8_t dt;
      const vram_dims *d = vram__input_dims(s, f, i, &dt);
      to[i] = vram__tensor_empty(s, vram__dims_dense(s, d), dt);
    }
  vram__workspace_use(s, (uint64_t)VRAM__INT(f->node, workspace, 0));
}

#endif /* VRAM_NO_STEP */

VRAM__OP(
    moe, 1, 1, moe, SAME, low, moe, none, moe, NONE, 0, 0,
    "num_experts! top_k! intermediate_size! gated shared_intermediate_size frozen weights dtype");
VRAM__OP(custom, 0, 16, custom, SAME, none, custom, custom, each, CUSTOM, 0, 0,
         "shape! dtype params buffers saved workspace frozen weights");
