/* >>ops/sample    what is drawn and what is counted: randperm, multinomial, bincount */
#include "ops/ops.h"

static int vram__shape_randperm(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__node_list(n, VRAM__KEY_shape, &c);
  if (c != 1)
    return vram__node_error(g, n, "a permutation has one axis");
  return vram__node_out(g, n, 0, c, v, vram__graph_key_dtype(g, n, VRAM_I64));
}

/* Rows of probabilities, so many numbers drawn of each. */
static int vram__shape_multinomial(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t k = VRAM__INT(n, num_samples, 1);
  int64_t size[2];
  if (x->ndim < 1 || x->ndim > 2)
    return vram__node_error(g, n, "probabilities that are not one row or rows");
  if (k < 1 || (!VRAM__INT(n, replacement, 0) && k > x->v[x->ndim - 1]))
    return vram__node_error(g, n, "num_samples must be 1 to what there is to draw from");
  size[0] = x->v[0];
  size[x->ndim - 1] = k;
  return vram__node_out(g, n, 0, x->ndim, size, VRAM_I64);
}

static int vram__shape_bincount(vram_graph *g, vram_node *n) {
  const int64_t bins = VRAM__INT(n, bins, 0);
  const vram_dtype dt = n->nin < 2 ? VRAM_I64
                        : n->in[1]->dtype == VRAM_F64 || vram__kind_rank(n->in[1]->dtype) < 2
                            ? VRAM_F64
                            : VRAM_F32;
  if (n->in[0]->d->ndim != 1 || vram__kind_rank(n->in[0]->dtype) != 1)
    return vram__node_error(g, n, "what is counted is not a row of integers");
  if (n->nin > 1 && (n->in[1]->d->ndim != 1 || n->in[1]->d->v[0] != n->in[0]->d->v[0]))
    return vram__node_error(g, n, "weights that are not as many");
  if (bins < 1)
    return vram__node_error(g, n, "bins must be at least 1");
  return vram__node_out(g, n, 0, 1, &bins, dt);
}

#ifndef VRAM_NO_STEP

/* Randperm.cu: 0, 1, .. sorted by random keys, of 32 bits where these are enough for few doubles:
   log2(n - (6 n^2 + 1) / (12 log 0.9)) of them. */
static void vram__forward_randperm(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  const vram_dtype dt = vram__step_key_dtype(s, n, VRAM_I64);
  const uint32_t e = vram__dtype_size(dt);
  uint64_t square, room;
  uint32_t bits = 0, key, t[3];
  (void)x;
  y[0] = vram__tensor_empty(s, d, dt);
  if (!d->numel)
    return;
  square = d->numel >> 30 ? UINT64_MAX / 8 : d->numel * d->numel; /* 6 / -(12 log 0.9) of it */
  room = d->numel + square / 10000000 * 47456107 + square % 10000000 * 47456107 / 10000000 + 1;
  while (bits < 64 && (bits > 62 || room > UINT64_C(1) << bits))
    bits++;
  key = bits > 32 ? 8 : 4;
  vram__workspace_use(s, e); /* arange's */
  t[0] = vram__cub_hold(s, e * d->numel);
  t[1] = vram__cub_hold(s, key * d->numel);
  t[2] = vram__cub_hold(s, key * d->numel);
  vram__workspace_use(s, vram__cub_sort(s, d->numel, key, e, bits));
  for (key = 3; key-- > 0;)
    vram__cub_release(s, t[key]);
}

/* Distributions.cpp: each probability divided by a random number, the largest are drawn */
static void vram__multinomial_once(vram__step *s, vram__tensor x, vram__tensor *y, int64_t k) {
  const uint32_t last = x.d->ndim - 1u, e = vram__dtype_size(x.dt);
  vram__tensor range[2], t[5], values, copy;
  uint32_t i;
  for (i = 0; i < 2; i++)
    range[i] = vram__tensor_empty(s, s->scalar, x.dt);
  copy = vram__tensor_contiguous(s, x);
  vram__reduce_scratch(s, copy, 0xff, x.dt, 2 * e, 4);
  vram__tensor_release(s, copy);
  for (i = 0; i < 3; i++) /* is the largest finite, is none negative, both */
    t[i] = vram__tensor_empty(s, s->scalar, VRAM_BOOL);
  vram__tensor_release(s, t[1]);
  vram__tensor_release(s, t[0]);
  t[0] = vram__tensor_sum(s, x, last ? 2u : 0xffu, 0, x.dt);
  t[1] = vram__tensor_empty(s, t[0].d, VRAM_BOOL); /* rows of zeros */
  if (last) {
    t[3] = vram__tensor_reduced(s, t[1], 0xff, 0, VRAM_BOOL);
    vram__tensor_release(s, t[1]);
    t[1] = t[3];
  }
  vram__tensor_release(s, t[0]);
  vram__workspace_use(s, 1);
  t[4] = vram__tensor_empty(s, vram__dims_dense(s, x.d), x.dt);
  if (k == 1)
    vram__reduce_scratch(s, t[4], 1u << last, VRAM_I64, 16, 4);
  else {
    values = vram__tensor_empty(s, y->d, x.dt);
    copy = vram__tensor_contiguous(s, t[4]);
    vram__topk_scratch(s, x.d, last, e);
    vram__tensor_release(s, copy);
    vram__topk_sorted(s, *y, x.dt, last);
    vram__tensor_release(s, values);
  }
  vram__tensor_release(s, t[4]);
  vram__tensor_release(s, t[1]);
  vram__tensor_release(s, t[2]);
  vram__tensor_release(s, range[0]);
  vram__tensor_release(s, range[1]);
}

static void vram__forward_multinomial(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  const int64_t k = VRAM__INT(n, num_samples, 1);
  const vram_dims *d = vram__dims_contiguous(s, x[0].d);
  vram__tensor c, normed, sums;
  y[0] = vram__tensor_empty(s, n->out[0].d, VRAM_I64);
  if (k == 1 || !VRAM__INT(n, replacement, 0)) {
    vram__multinomial_once(s, x[0], &y[0], k);
    return;
  }
  c = vram__tensor_contiguous(s, x[0]); /* MultinomialKernel.cu: where in the running sum it is */
  normed = vram__tensor_empty(s, d, x[0].dt);
  sums = vram__tensor_empty(s, d, x[0].dt);
  if (d->numel == (uint64_t)d->v[d->ndim - 1])
    vram__workspace_use(s, vram__cub_scan(s, d->numel, x[0].dt));
  vram__tensor_release(s, sums);
  vram__tensor_release(s, normed);
  vram__tensor_release(s, c);
}

/* SummaryOps.cu: the least and the largest value are looked at first */
static void vram__forward_bincount(vram__step *s, const vram_node *n, vram__tensor *x,
                                   vram__tensor *y) {
  vram__tensor t[2];
  uint32_t i;
  for (i = 0; i < 2; i++)
    t[i] = vram__tensor_reduced(s, x[0], 0xff, 0, x[0].dt);
  y[0] = vram__tensor_empty(s, n->out[0].d, n->out[0].dtype);
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, t[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(randperm, "", 0, 0, randperm, SAME, none, randperm, none, none, NONE, 0,
         VRAM__OP_CREATES | VRAM__OP_VARIES, "shape! dtype");
VRAM__OP(multinomial, "multinomial: x num_samples replacement?", 1, 1, multinomial, SAME, none,
         multinomial, none, none, NONE, 0, VRAM__OP_VARIES | VRAM__OP_FLOATS | VRAM__OP_REAL,
         "num_samples! replacement");
VRAM__OP(bincount, "", 1, 2, bincount, SAME, none, bincount, none, none, NONE, 0, 0, "bins!");
