/* >>ops/found    what is found in data: nonzero, unique, nms. How much there is stands in the text
   (`count`), at most all of it */
#include "ops/ops.h"

/* How many of n are found. */
static int64_t vram__found(const vram_node *n, uint64_t of) {
  const int64_t all = (int64_t)of;
  const int64_t count = VRAM__INT(n, count, all);
  return count < all ? count : all;
}

static int vram__shape_nonzero(vram_graph *g, vram_node *n) {
  int64_t size[2];
  if (VRAM__INT(n, count, 0) < 0)
    return vram__node_error(g, n, "a count below 0");
  size[0] = vram__found(n, n->in[0]->d->numel);
  size[1] = n->in[0]->d->ndim;
  return vram__node_out(g, n, 0, 2, size, VRAM_I64);
}

static int vram__shape_unique(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t size = vram__found(n, x->numel);
  if (VRAM__INT(n, count, 0) < 0)
    return vram__node_error(g, n, "a count below 0");
  if (n->nout > 2)
    return vram__node_error(g, n, "more results than values and inverse indices");
  if (n->nout > 1 && !vram__node_out_dims(n, 1, x, VRAM_I64))
    return 0;
  return vram__node_out(g, n, 0, 1, &size, n->in[0]->dtype);
}

static int vram__shape_nms(vram_graph *g, vram_node *n) {
  const vram_dims *b = n->in[0]->d;
  int64_t size;
  if (b->ndim != 2 || b->v[1] != 4 || n->in[1]->d->ndim != 1 || n->in[1]->d->v[0] != b->v[0])
    return vram__node_error(g, n, "boxes that are not [K,4] with K scores");
  if (VRAM__INT(n, count, 0) < 0)
    return vram__node_error(g, n, "a count below 0");
  size = vram__found(n, (uint64_t)b->v[0]);
  return vram__node_out(g, n, 0, 1, &size, VRAM_I64);
}

#ifndef VRAM_NO_STEP

/* Nonzero.cu; the result of several axes is transposed */
static void vram__forward_nonzero(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const vram_dims *d = n->out[0].d;
  const uint64_t all = x[0].d->numel;
  vram__tensor c = vram__tensor_contiguous(s, x[0]);
  const uint32_t count = vram__cub_hold(s, 4);
  vram__cub_sum(s, all);
  y[0] = vram__tensor_empty(
      s, d->v[1] > 1 ? vram__dims_swapped(s, vram__dims_2d(s, d->v[1], d->v[0]), 0, 1) : d,
      VRAM_I64);
  if (d->v[1])
    vram__workspace_use(s, vram__cub_select(s, all, 2));
  vram__cub_release(s, count);
  vram__tensor_release(s, c);
}

/* Unique.cu, unique_cuda_bool: how many are set, room for both values and for their numbers */
static void vram__unique_of_bools(vram__step *s, const vram_node *n, vram__tensor x,
                                  vram__tensor *y) {
  const vram__tensor c = vram__tensor_contiguous(s, x);
  const uint32_t count = vram__cub_hold(s, 4);
  uint32_t counts;
  vram__cub_sum(s, x.d->numel);
  y[0] = vram__tensor_empty_strided(s, n->out[0].d, x.dt, 2);
  counts = vram__cub_hold(s, 16);
  if (n->nout > 1)
    y[1] = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), VRAM_I64);
  vram__cub_release(s, count);
  vram__tensor_release(s, c);
  vram__cub_release(s, counts);
}

/* Unique.cu: all is sorted, and room for all of it stays, however much of it is found. */
static void vram__forward_unique(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  const uint32_t e = vram__dtype_size(x[0].dt);
  const uint64_t all = x[0].d->numel;
  const uint32_t inverse = n->nout > 1;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  vram__tensor c;
  uint32_t sorted, places[2], count;
  if (x[0].dt == VRAM_BOOL) {
    vram__unique_of_bools(s, n, x[0], y);
    return;
  }
  c = vram__tensor_contiguous(s, x[0]);
  sorted = vram__cub_hold(s, e * all);
  if (!inverse)
    vram__workspace_use(s, vram__cub_sort(s, all, e, 0, 8 * e));
  else {
    places[0] = vram__cub_hold(s, 8 * all);
    places[1] = vram__cub_hold(s, 8 * all);
    vram__workspace_use(s, vram__cub_sort(s, all, e, 8, 8 * e));
    vram__cub_release(s, places[0]);
    y[1] = vram__tensor_empty(s, vram__dims_contiguous(s, x[0].d), VRAM_I64);
    places[0] = vram__cub_hold(s, 8 * all);
    vram__workspace_use(s, vram__cub_scan(s, all, VRAM_I32));
    vram__cub_release(s, places[0]);
    (void)places[1];
  }
  y[0] = vram__tensor_empty_strided(s, n->out[0].d, x[0].dt, e * all);
  count = vram__cub_hold(s, 8);
  vram__workspace_use(s, vram__cub_select(s, all, 2));
  vram__cub_release(s, count);
  vram__cub_release(s, inverse ? places[1] : 0);
  vram__cub_release(s, sorted);
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* derivatives.yaml, _unique2: not_implemented; the record is there all the same. */
static void vram__backward_unique(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  (void)to;
  vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "unique has no derivative: PyTorch stops with an error");
}

/* nms_kernel.cu: boxes in the order of their scores, a bit for each pair of them */
static void vram__forward_nms(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int64_t k = x[0].d->v[0];
  const vram_dims *row = vram__dims_in(s, 1, &k, NULL);
  vram__tensor in[2], values, order, boxes, keep, mask;
  uint32_t i;
  if (!s->amp && x[0].dt == VRAM_BF16)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "torchvision has no kernel for bf16 outside autocast");
  for (i = 0; i < 2; i++)
    in[i] = s->amp ? vram__autocast_cast(s, x[i], VRAM_F32) : vram__tensor_retain(s, x[i]);
  if (!k) {
    y[0] = vram__tensor_empty(s, n->out[0].d, VRAM_I64);
  } else {
    values = vram__tensor_empty(s, row, in[1].dt);
    order = vram__tensor_empty(s, row, VRAM_I64);
    vram__sort_rows(s, in[1].d, row, 0, vram__dtype_size(in[1].dt));
    vram__tensor_release(s, values);
    boxes = vram__tensor_empty(s, vram__dims_contiguous(s, in[0].d), in[0].dt);
    mask = vram__tensor_empty(s, vram__dims_2d(s, k, (k + 63) / 64), VRAM_I64);
    keep = vram__tensor_empty(s, row, VRAM_BOOL);
    y[0] = vram__torch_masked_select(s, order, keep, row, n->out[0].d);
    vram__tensor_release(s, keep);
    vram__tensor_release(s, mask);
    vram__tensor_release(s, boxes);
    vram__tensor_release(s, order);
  }
  for (i = 0; i < 2; i++)
    vram__tensor_release(s, in[i]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(nonzero, "", 1, 1, nonzero, SAME, none, nonzero, none, none, NONE, 0, 0, "count");
VRAM__OP(unique, "", 1, 1, unique, SAME, none, unique, unique, none, NONE, 0, VRAM__OP_REAL,
         "count");
VRAM__OP(nms, "", 2, 2, nms, SAME, none, nms, none, none, NONE, 0, VRAM__OP_REAL | VRAM__OP_FLOATS,
         "count");
