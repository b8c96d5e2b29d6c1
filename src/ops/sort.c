/* >>ops/sort    sort, topk, argmax, argmin */
#include "ops/ops.h"

enum { VRAM__SORT_TOPK = 1 }; /* kind of a row */

static int vram__shape_topk(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], k;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (vram__op_at(n->op)->kind == VRAM__SORT_TOPK) {
    k = VRAM__INT(n, k, 0);
    if (k < 0 || k > (x->ndim ? x->v[a] : 1))
      return vram__node_error(g, n, "k must be 0 to the size of the axis");
    if (x->ndim)
      size[a] = k;
  }
  return vram__out_indexed(g, n, size);
}

static int vram__shape_argmax(vram_graph *g, vram_node *n) {
  if (!vram__shape_reduce(g, n))
    return 0;
  n->out[0].dtype = VRAM_I64;
  return 1;
}

#ifndef VRAM_NO_STEP

/* A copy with axis a innermost, and results like it, in own[3]. e: bytes a value. */
static void vram__sort_copies(vram__step *s, const vram_dims *d, uint32_t a, uint32_t e,
                              uint32_t *own) {
  int64_t stride[VRAM_MAX_AXES], w = d->v[a];
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i, j;
  for (i = 0; i < d->ndim; i++) {
    for (j = i; j > 0 && VRAM__STRIDE(d)[order[j - 1]] > VRAM__STRIDE(d)[i]; j--)
      order[j] = order[j - 1];
    order[j] = (uint8_t)i;
  }
  stride[a] = 1;
  for (i = 0; i < d->ndim; i++)
    if (order[i] != a) {
      stride[order[i]] = w;
      w *= d->v[order[i]];
    }
  own[0] = vram__cub_hold(s, d->numel * e);
  for (i = 0; i < d->ndim; i++)
    if (d->v[i] != 1 && stride[i] != VRAM__STRIDE(d)[i])
      break;
  if (i < d->ndim) {
    own[1] = vram__cub_hold(s, d->numel * e);
    own[2] = vram__cub_hold(s, d->numel * 8);
  }
}

/* All rows at once, then back into their segments. */
static void vram__sort_joined(vram__step *s, uint64_t all, uint32_t e) {
  uint32_t t[3];
  t[0] = vram__cub_hold(s, 8 * all);
  t[1] = vram__cub_hold(s, 8 * all);
  t[2] = vram__cub_hold(s, e * all);
  vram__workspace_use(s, vram__cub_sort(s, all, e, 8, 8 * e));
  vram__cub_release(s, t[2]);
  vram__workspace_use(s, vram__cub_sort(s, all, 0, 8, 8));
  vram__cub_release(s, t[1]);
  vram__cub_release(s, t[0]);
}

/* Sort.cu: what sorting x (dims xd, e bytes a value) along an axis into results of dims d needs.
   Short rows are sorted in place, long ones by cub. */
VRAM__FN void vram__sort_rows(vram__step *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                              uint32_t e) {
  const vram__rules *rules = s->device.rules;
  uint32_t i, own[3] = {0, 0, 0}, numbers;
  uint64_t z, all = d->numel, r;
  if (!all || !d->ndim) /* Sorting.cpp: a number is sorted */
    return;
  z = (uint64_t)d->v[a];
  r = all / z;
  if (z <= rules->sort.in_place) {
    vram__workspace_use(s, 8 * z); /* the numbers 0, 1, .. */
    return;
  }
  if (!(xd->flags & VRAM__DENSE) || VRAM__STRIDE(xd)[a] != 1)
    vram__sort_copies(s, d, a, e, own);
  if (r == 1 || z >= rules->sort.large_row) {
    numbers = vram__cub_hold(s, 8 * z);
    for (; r-- && !s->failed;)
      vram__workspace_use(s, vram__cub_sort(s, z, e, 8, 8 * e));
    vram__cub_release(s, numbers);
  } else if (r < rules->sort.segments)
    vram__sort_joined(s, all, e);
  else {
    numbers = vram__cub_hold(s, 8 * all);
    vram__workspace_use(s, rules->cub.align - 1 + vram__cub_part(s, e * all) +
                               vram__cub_part(s, 8 * all));
    vram__cub_release(s, numbers);
  }
  for (i = 3; i-- > 0;)
    vram__cub_release(s, own[i]);
}

static void vram__forward_sort(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  const vram_dims *d = vram__dims_dense(s, x[0].d);
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__tensor_empty(s, d, x[0].dt);
  y[1] = vram__tensor_empty(s, d, VRAM_I64);
  vram__sort_rows(s, x[0].d, d, a, vram__dtype_size(x[0].dt));
  if (f)
    vram__save_tensor(s, f, y[1]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__tensor_release(s, y[1]);
}

/* TensorTopK.cu, should_use_multi_block: are r rows of n values split over thread blocks? */
static int vram__topk_split(uint64_t r, uint64_t n) {
  return n >= (r <= 20     ? 20000u
               : r <= 40   ? 10000u
               : r <= 80   ? 8000u
               : r < 200   ? 5000u
               : r < 800   ? 3000u
               : r <= 4000 ? 800u
                           : 400u);
}

/* What topk of x (e bytes a value) along axis a needs for a moment. */
VRAM__FN void vram__topk_scratch(vram__step *s, const vram_dims *x, uint32_t a, uint32_t e) {
  uint64_t z = x->ndim ? (uint64_t)x->v[a] : 1, r = z ? x->numel / z : 0, b, each;
  const uint64_t threads = s->device.rules->topk.threads;
  uint32_t i, t[7];
  if (!r || !vram__topk_split(r, z))
    return;
  each = vram__div_up_u64(r * z, s->device.rules->topk.blocks * threads * s->device.sm);
  each = each < 4 ? 4 : each > 64 ? 64 : each;
  b = r * vram__div_up_u64(z, threads * each);
  t[0] = vram__cub_hold(s, e * r); /* values, ranks to find, digits, counters of the blocks, ... */
  t[1] = vram__cub_hold(s, 8 * r);
  t[2] = vram__cub_hold(s, 8 * r);
  t[3] = vram__cub_hold(s, 512 * b);
  t[4] = vram__cub_hold(s, 1024 * r);
  t[5] = vram__cub_hold(s, 4 * b);
  t[6] = vram__cub_hold(s, 4 * b);
  vram__workspace_use(s, vram__cub_by_key(s, b, 4));
  vram__workspace_use(s, vram__cub_by_key(s, b, 4));
  for (i = 7; i-- > 0;)
    vram__cub_release(s, t[i]);
}

/* TensorTopK.cu: what is found (indices y, values of dtype dt), sorted; few in place */
VRAM__FN void vram__topk_sorted(vram__step *s, vram__tensor y, vram_dtype dt, uint32_t a) {
  uint32_t t[2];
  if (!y.d->ndim || (uint64_t)y.d->v[a] <= s->device.rules->sort.in_place)
    return;
  t[0] = vram__cub_hold(s, 8 * y.d->numel);
  t[1] = vram__cub_hold(s, vram__dims_bytes_of(y.d, dt));
  vram__sort_rows(s, y.d, y.d, a, vram__dtype_size(dt));
  vram__workspace_use(s, 8 * y.d->numel);
  vram__cub_release(s, t[1]);
  vram__cub_release(s, t[0]);
}

static void vram__forward_topk(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  vram__tensor c;
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  y[1] = vram__tensor_empty(s, n->out[0].d, VRAM_I64);
  c = vram__tensor_contiguous(s, x[0]);
  vram__topk_scratch(s, x[0].d, a, vram__dtype_size(x[0].dt));
  vram__tensor_release(s, c);
  if (VRAM__INT(n, sorted, 1))
    vram__topk_sorted(s, y[1], y[0].dt, a);
  if (f)
    vram__save_tensor(s, f, y[1]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__tensor_release(s, y[1]);
}

/* ScanKernels.cpp: a running extreme and where it was */
static void vram__forward_cummax(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 2);
  const vram_dims *d = vram__dims_contiguous(s, x[0].d);
  y[0] = vram__tensor_empty(s, d, x[0].dt);
  y[1] = vram__tensor_empty(s, d, VRAM_I64);
  if (f) {
    vram__save_tensor(s, f, x[0]);
    vram__save_tensor(s, f, y[1]);
  }
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__tensor_release(s, y[1]);
}

/* topk, sort: the gradient is written into zeros at the places of the values */
static void vram__backward_topk(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, vram__input_dims(s, f, 0, NULL)),
                             VRAM__SLOTS(f)[0].g.dt);
}

/* argmax and argmin: a thread keeps value and index, 16 bytes */
static void vram__forward_argmax(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  int all = !vram__node_list(n, VRAM__KEY_dim, NULL);
  vram__tensor c;
  y[0] = vram__tensor_reduced(s, x[0], mask, VRAM__INT(n, keepdim, 0) != 0, VRAM_I64);
  c = all ? vram__tensor_contiguous(s, x[0]) : vram__tensor_retain(s, x[0]);
  vram__reduce_scratch(s, c, mask, VRAM_I64, 16, 4);
  vram__tensor_release(s, c);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(topk, "", 1, 1, topk, SAME, none, topk, topk, each, NONE, VRAM__SORT_TOPK,
         VRAM__OP_NUMBERS | VRAM__OP_REAL, "k! dim largest sorted");
VRAM__OP(sort, "", 1, 1, topk, SAME, none, sort, topk, each, NONE, 0, VRAM__OP_REAL,
         "dim descending stable");
VRAM__OP(argmax, "argmax: x dim keepdim?", 1, 1, argmax, SAME, none, argmax, none, each, NONE,
         VRAM__REDUCE_INDEX, VRAM__OP_REAL, "dim keepdim");
VRAM__OP(argmin, "argmin: x dim keepdim?", 1, 1, argmax, SAME, none, argmax, none, each, NONE,
         VRAM__REDUCE_INDEX, VRAM__OP_REAL, "dim keepdim");
VRAM__OP(cummax, "", 1, 1, topk, SAME, none, cummax, topk, each, NONE, 0, VRAM__OP_REAL, "dim!");
VRAM__OP(cummin, "", 1, 1, topk, SAME, none, cummax, topk, each, NONE, 0, VRAM__OP_REAL, "dim!");
