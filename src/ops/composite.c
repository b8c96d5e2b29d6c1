/* >>ops/composite    a routed feed-forward (moe), and custom ops */
#include "ops/ops.h"

/* Routed feed-forward: parameters of the router, of all experts and of the shared one, no biases;
   gated: a gate beside up, as SwiGLU has */
VRAM__FN int vram__shape_moe(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t e = VRAM__INT(n, num_experts, 0), k = VRAM__INT(n, top_k, 0),
          i = VRAM__INT(n, intermediate_size, 0),
          shared = VRAM__INT(n, shared_intermediate_size, 0), size[3];
  int gated = VRAM__INT(n, gated, 1) != 0;
  if (x->ndim < 1 || x->v[x->ndim - 1] < 1)
    return vram__bad(g, n, "an input without values");
  if (e < 1 || k < 1 || k > e)
    return vram__bad(g, n, "top_k must be 1 to num_experts");
  if (i < 1 || i > VRAM__MAX_UNITS || shared < 0 || shared > VRAM__MAX_UNITS)
    return vram__bad(g, n, "intermediate_size must be at least 1");
  if (x->numel / (uint64_t)x->v[x->ndim - 1] > (uint64_t)(INT64_MAX / 16) / (uint64_t)k)
    return vram__bad(g, n, "a size out of range");
  if (!vram__params(g, n, 6))
    return 0;
  size[0] = e, size[1] = x->v[x->ndim - 1];
  if (!vram__own(g, n, 0, "gate.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[2] = size[1], size[1] = gated ? 2 * i : i;
  if (!vram__own(g, n, 1, gated ? "experts.gate_up_proj" : "experts.up_proj", 3, size, VRAM_F32,
                 VRAM__PARAM))
    return 0;
  size[1] = size[2], size[2] = i;
  if (!vram__own(g, n, 2, "experts.down_proj", 3, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (shared) {
    size[0] = shared, size[1] = x->v[x->ndim - 1];
    if (gated &&
        !vram__own(g, n, 3, "shared_expert.gate_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    if (!vram__own(g, n, 4, "shared_expert.up_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    size[0] = size[1], size[1] = shared;
    if (!vram__own(g, n, 5, "shared_expert.down_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  g->extra += 16384;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

VRAM__FN int vram__shape_custom(vram_graph *g, vram_node *n) {
  uint32_t c, i;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t params = VRAM__INT(n, params, 0), buffers = VRAM__INT(n, buffers, 0);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, n->nin ? n->in[0]->dtype : (uint8_t)VRAM_F32);
  if (params < 0 || buffers < 0 || VRAM__INT(n, saved, 0) < 0 || VRAM__INT(n, workspace, 0) < 0)
    return vram__bad(g, n, "params, buffers, saved and workspace must not be negative");
  if (!vram__params(g, n, 2))
    return 0;
  if (params && !vram__own(g, n, 0, "params", 1, &params, VRAM_F32, VRAM__PARAM))
    return 0;
  if (buffers && !vram__own(g, n, 1, "buffers", 1, &buffers, VRAM_F32, VRAM__BUFFER))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!vram__out(g, n, i, c, v, dt))
      return 0;
  return 1;
}

#ifndef VRAM_NO_STEP

/* ---- composite, anything else ---- */

/* zeros.index_add_(0, index, source): the gradient of the source is picked from g */
VRAM__FN void vram__bw_index_add(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
}

/* x[index] along axis 0 */
static vram__t vram__t_rows(vram__s *s, vram__t x, vram__t index) {
  vram__fn *f = vram__record(s, VRAM_OP_index, &x, 1, 1, 1);
  vram__t y;
  if (f)
    vram__save(s, f, index);
  y = vram__indexed(s, x, &index, 1, 0);
  vram__made(s, f, 0, &y);
  return y;
}

/* act(gate) * up of a [rows, 2i] product of both, or act(up); takes x. act: silu with a gate, else
   gelu */
static vram__t vram__t_gated(vram__s *s, vram__t x, int gated) {
  vram__t part[2], a, y;
  vram__fn *f;
  int64_t size[2];
  uint32_t i;
  if (!gated) {
    y = vram__t_pointwise(s, VRAM_OP_gelu, &x, 1);
    vram__let(s, x);
    return y;
  }
  f = vram__record(s, VRAM_OP_chunk, &x, 1, 2, 0);
  if (f)
    f->aux = 1;
  size[0] = x.d->v[0], size[1] = x.d->v[1] / 2;
  for (i = 0; i < 2; i++) {
    part[i] = vram__alias(s, x, vram__dims_in(s, 2, size, VRAM__STRIDE(x.d)));
    vram__made(s, f, i, &part[i]);
  }
  a = vram__t_pointwise(s, VRAM_OP_silu, &part[0], 1);
  y = vram__t_mul(s, a, part[1]);
  vram__let(s, a);
  vram__let(s, part[0]);
  vram__let(s, part[1]);
  vram__let(s, x);
  return y;
}

/* The shared expert: a feed-forward of its own for every token */
static vram__t vram__moe_shared(vram__s *s, vram__t x, const vram__t *w) {
  vram__t a, b = vram__t_linear2(s, x, w[1], vram__none()), t;
  if (w[0].d) {
    t = vram__t_linear2(s, x, w[0], vram__none());
    a = vram__t_pointwise(s, VRAM_OP_silu, &t, 1);
    vram__let(s, t);
    t = vram__t_mul(s, a, b);
    vram__let(s, a);
  } else
    t = vram__t_pointwise(s, VRAM_OP_gelu, &b, 1);
  vram__let(s, b);
  b = vram__t_linear2(s, t, w[2], vram__none());
  vram__let(s, t);
  return b;
}

/* Routed feed-forward: every token goes through top_k experts. Tokens are grouped by expert and go
   through grouped products, so that nothing but the groups' sizes depends on the data: what stands
   here holds for any routing where the groups' sum counts, and expects tokens that are spread
   evenly where a group's own size would count (one product a group on older devices). */
VRAM__FN void vram__run_moe(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = x[0].d;
  int64_t h = d->v[d->ndim - 1], k = VRAM__INT(n, top_k, 1), size[3], i;
  int gated = VRAM__INT(n, gated, 1) != 0;
  uint8_t dt;
  uint32_t j;
  vram__t w[6], xf, p, q, t, top, idx, perm, back, rows, weight, offsets, out, turned;
  vram__fn *f;
  for (j = 6; j-- > 0;) {
    w[j] = n->param[j] ? s->param[n->param[j]->index] : vram__none();
    if (w[j].d)
      w[j] = s->amp ? vram__autocast(s, w[j], s->amp) : vram__keep_t(s, w[j]);
  }
  t = s->amp ? vram__autocast(s, x[0], s->amp) : vram__keep_t(s, x[0]);
  dt = t.dt;
  size[0] = h ? (int64_t)(d->numel / (uint64_t)h) : 0, size[1] = h;
  xf = vram__t_reshape(s, t, 2, size);
  vram__let(s, t);
  /* the router: probabilities in f32, the k largest, made to add up to 1 */
  p = vram__t_linear2(s, xf, w[0], vram__none());
  q = vram__t_softmax(s, VRAM_OP_softmax, p, VRAM_F32);
  vram__let(s, p);
  size[1] = k;
  f = vram__record(s, VRAM_OP_topk, &q, 1, 1, 1);
  top = vram__empty(s, vram__dims_in(s, 2, size, NULL), q.dt);
  idx = vram__empty(s, top.d, VRAM_I64);
  vram__topk_scratch(s, q.d, 1);
  if (f)
    vram__save(s, f, idx);
  vram__made(s, f, 0, &top);
  vram__let(s, q);
  f = vram__record(s, VRAM_OP_sum, &top, 1, 1, 0);
  if (f)
    f->aux = 2;
  {
    vram__t in[2];
    in[0] = top;
    in[1] = vram__sum(s, top, 2, 1, top.dt);
    vram__made(s, f, 0, &in[1]);
    p = vram__t_pointwise(s, VRAM_OP_div, in, 2);
    vram__let(s, in[1]);
    vram__let(s, top);
  }
  top = vram__t_cast(s, p, dt);
  vram__let(s, p);
  /* tokens in the order of their experts: argsort, which sorts the values, too */
  i = size[0] * k;
  size[0] = i;
  q = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I64);
  perm = vram__empty(s, q.d, VRAM_I64);
  vram__sort_rows(s, q.d, q.d, 0, 8);
  vram__let(s, q);
  vram__let(s, idx);
  back = vram__empty(s, perm.d, VRAM_I64); /* the token of every row */
  rows = vram__t_rows(s, xf, back);
  p = vram__t_reshape(s, top, 1, size);
  vram__let(s, top);
  weight = vram__t_rows(s, p, perm);
  vram__let(s, p);
  vram__let(s, perm);
  size[0] = VRAM__INT(n, num_experts, 1);
  offsets = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I32);
  size[0] = i, size[1] = w[1].d->v[1];
  turned = vram__t_swap(s, w[1], 1, 2);
  p = vram__t_grouped(s, rows, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, rows);
  p = vram__t_gated(s, p, gated);
  size[1] = h;
  turned = vram__t_swap(s, w[2], 1, 2);
  q = vram__t_grouped(s, p, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, p);
  vram__let(s, offsets);
  t = vram__t_unsqueeze(s, weight, 1);
  vram__let(s, weight);
  p = vram__t_mul(s, q, t);
  vram__let(s, t);
  vram__let(s, q);
  f = vram__record(s, VRAM__K_index_add, &p, 1, 1, 2);
  if (f)
    vram__save(s, f, back), vram__save(s, f, p); /* the source for its sizes */
  out = vram__empty(s, xf.d->flags & VRAM__CONTIG ? xf.d : vram__contig(s, xf.d), dt);
  vram__made(s, f, 0, &out);
  vram__let(s, p);
  vram__let(s, back);
  if (w[4].d) {
    vram__t in[2];
    in[0] = out, in[1] = vram__moe_shared(s, xf, w + 3);
    t = vram__t_pointwise(s, VRAM_OP_add, in, 2);
    vram__let(s, in[1]);
    vram__let(s, out);
    out = t;
  }
  vram__let(s, xf);
  for (j = 0; j < 6; j++)
    vram__let(s, w[j]);
  y[0] = vram__view(s, out, vram__dims_in(s, d->ndim, d->v, NULL), VRAM__K_view, 0);
  vram__let(s, out);
}

/* An op that the table does not know: what its node says. Backward needs the workspace once more
   and makes gradients of the inputs and of the parameters. */
VRAM__FN void vram__run_custom(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[17], keep = vram__none();
  vram__fn *f;
  uint32_t i;
  int64_t saved = VRAM__INT(n, saved, 0);
  uint8_t dt = vram__run_dtype(s, n->out[0].dtype);
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->param[0])
    in[i++] = s->param[n->param[0]->index];
  if (n->nin && !vram__list(n, VRAM__KEY_dtype, NULL))
    dt = x[0].dt;
  f = vram__kind_rank(dt) >= 2 ? vram__record(s, n->op, in, i, n->nout, 1) : NULL;
  for (i = 0; i < n->nout; i++)
    y[i] = vram__empty(s, n->out[i].d, dt);
  if (saved) {
    keep = vram__empty(s, vram__dims_in(s, 1, &saved, NULL), VRAM_U8);
    if (f)
      vram__save(s, f, keep);
  }
  vram__workspace(s, (uint64_t)VRAM__INT(n, workspace, 0));
  if (s->amp || s->low) { /* the bytes are those of a run in fp32: half of them in 16 bits */
    s->custom = vram__plus(s->custom, (uint64_t)saved / 2);
    if (s->custom_most < (uint64_t)VRAM__INT(n, workspace, 0) / 2)
      s->custom_most = (uint64_t)VRAM__INT(n, workspace, 0) / 2;
  }
  vram__let(s, keep);
  for (i = 0; i < n->nout; i++)
    vram__made(s, f, i, &y[i]);
}

VRAM__FN void vram__bw_custom(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i)) {
      uint8_t dt;
      const vram_dims *d = vram__in_dims(s, f, i, &dt);
      to[i] = vram__empty(s, vram__dense(s, d), dt);
    }
  vram__workspace(s, (uint64_t)VRAM__INT(f->node, workspace, 0));
}

#endif /* VRAM_NO_STEP */
