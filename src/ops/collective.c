/* >>ops/collective    what ranks do together: functional collectives (torch/distributed,
   _functional_collectives.py) as DTensor calls them (tensor/placement_types.py), each with its
   gradient (tensor/_redistribute.py, tensor/_api.py) */
#include "ops/ops.h"

/* The axis that is cut, below the number of axes. */
static int vram__collective_axis(vram_graph *g, const vram_node *n, uint32_t *a) {
  if (!n->in[0]->d->ndim)
    return vram__node_error(g, n, "a collective over an axis of a tensor without axes");
  return vram__axis(g, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, a);
}

static int vram__collective_ranks(vram_graph *g, const vram_node *n) {
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  return (ranks >= 1 && ranks <= VRAM__MAX_UNITS) ||
         vram__node_error(g, n, "ranks is out of range");
}

static int vram__shape_collective_same(vram_graph *g, vram_node *n) {
  return vram__collective_ranks(g, n) && vram__shape_same(g, n);
}

static int vram__shape_from_local(vram_graph *g, vram_node *n) {
  g->is_cut = 1;
  return vram__shape_same(g, n);
}

/* All shards one behind the other; whole: how many there are, where they are not equal. */
static int vram__shape_all_gather(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  int64_t size[VRAM_MAX_AXES], each;
  uint32_t a, i;
  if (!vram__collective_ranks(g, n) || !vram__collective_axis(g, n, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (size[a] > INT64_MAX / 2 / ranks)
    return vram__node_error(g, n, "a size out of range");
  size[a] = VRAM__INT(n, whole, size[a] * ranks);
  each = size[a] < 0 ? 0 : (size[a] + ranks - 1) / ranks;
  if (size[a] < 0 || x->v[a] > each)
    return vram__node_error(g, n, "a shard of more than its part of the whole");
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* The sum of all ranks' tensors, cut; the second output is what the collective reads. */
static int vram__shape_reduce_scatter(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  int64_t size[VRAM_MAX_AXES];
  uint32_t a, i;
  if (!vram__collective_ranks(g, n) || !vram__collective_axis(g, n, &a))
    return 0;
  if (n->nout != 2)
    return vram__node_error(g, n, "reduce_scatter gives its result and what it reads");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (size[a] % ranks)
    return vram__node_error(g, n, "an axis that the ranks do not divide");
  size[a] /= ranks;
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype) &&
         vram__node_out_dims(n, 1, x, n->in[0]->dtype);
}

/* Rows in equal parts to all ranks, as many from them; the second output is what is read. */
static int vram__shape_all_to_all(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  if (!vram__collective_ranks(g, n))
    return 0;
  if (n->nout != 2)
    return vram__node_error(g, n, "all_to_all gives its result and what it reads");
  if (!x->ndim || x->v[0] % VRAM__INT(n, ranks, 1))
    return vram__node_error(g, n, "rows that the ranks do not divide");
  return vram__node_out(g, n, 0, x->ndim, x->v, n->in[0]->dtype) &&
         vram__node_out_dims(n, 1, x, n->in[0]->dtype);
}

/* The shard of one rank. */
static int vram__shape_scatter_rows(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t a, i;
  if (!vram__collective_axis(g, n, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (VRAM__INT(n, length, 0) < 0 || VRAM__INT(n, length, 0) > size[a])
    return vram__node_error(g, n, "a shard of more than the whole");
  size[a] = VRAM__INT(n, length, 0);
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* Rows of a table that is cut: num_embeddings are this rank's, whole are all. */
static int vram__shape_embedding_shard(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  if (!vram__index_dtype(g, n, 0) || !vram__collective_ranks(g, n))
    return 0;
  w[0] = VRAM__INT(n, num_embeddings, 0);
  w[1] = VRAM__INT(n, embedding_dim, 0);
  if (w[0] < 0 || w[1] < 1 || VRAM__INT(n, whole, 0) < w[0])
    return vram__node_error(g, n, "a table of more rows than the whole, or without columns");
  if (!vram__node_own(g, n, 0, "weight", 2, w, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[x->ndim] = w[1];
  return vram__node_out(g, n, 0, x->ndim + 1u, size, n->param[0]->dtype);
}

/* cross_entropy of logits whose classes are cut (tensor/parallel/loss.py) */
static int vram__shape_loss_parallel(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *t = n->in[1]->d;
  if (!vram__collective_ranks(g, n))
    return 0;
  if (x->ndim != 2 || t->ndim != 1 || t->v[0] != x->v[0])
    return vram__node_error(g, n, "logits [rows,classes] and targets [rows] are expected");
  return vram__node_out(g, n, 0, 0, NULL, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

static uint32_t vram__collective_cut(const vram_node *n, const vram_dims *d) {
  uint32_t a;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), d->ndim, &a);
  return a;
}

/* A collective whose result is as large as what it reads. */
static vram__tensor vram__collective_like(vram__step *s, vram_collective kind, vram__tensor x,
                                          int64_t ranks) {
  vram__communicate(s, kind, vram__dims_bytes_of(x.d, x.dt), (uint64_t)ranks);
  return vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
}

/* _c10d_functional.all_reduce: a contiguous clone, which is reduced in place */
VRAM__FN vram__tensor vram__torch_all_reduce(vram__step *s, vram__tensor x, int64_t ranks) {
  return vram__collective_like(s, VRAM_COLLECTIVE_ALL_REDUCE, x, ranks);
}

/* Dims of x with the axis of another size. */
static const vram_dims *vram__dims_cut(vram__step *s, const vram_dims *d, uint32_t a, int64_t to) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = i == a ? to : d->v[i];
  return vram__dims_in(s, d->ndim, size, NULL);
}

/* Shard._to_replicate_tensor: padded to equal shards, gathered along the first axis, put together
   along its own where that is another one (a batch of one is a view: _maybe_view_chunk_cat), cut
   to the whole. */
static vram__tensor vram__torch_all_gather(vram__step *s, vram__tensor x, uint32_t a, int64_t ranks,
                                           int64_t whole) {
  const int64_t each = (whole + ranks - 1) / ranks;
  const int padded = whole % ranks != 0;
  vram__tensor in, y, t;
  uint64_t between = 1;
  uint32_t i;
  if (padded && x.d->v[a] < each)
    in = vram__tensor_empty(s, vram__dims_cut(s, x.d, a, each), x.dt);
  else
    in = vram__tensor_contiguous(s, x);
  for (i = 1; i < a; i++)
    between *= (uint64_t)x.d->v[i];
  y = vram__tensor_empty(s, vram__dims_cut(s, in.d, 0, in.d->v[0] * ranks), x.dt);
  vram__communicate(s, VRAM_COLLECTIVE_ALL_GATHER, vram__dims_bytes_of(y.d, y.dt), (uint64_t)ranks);
  if (a && !(x.d->v[0] == 1 && between == 1)) {
    t = vram__tensor_empty(s, vram__dims_cut(s, in.d, a, each * ranks), x.dt);
    vram__tensor_replace(s, &y, t);
  } else if (a) {
    t = vram__tensor_view(s, y, vram__dims_cut(s, in.d, a, each * ranks));
    vram__tensor_replace(s, &y, t);
  }
  if (padded && each * ranks != whole) {
    int64_t size[VRAM_MAX_AXES];
    for (i = 0; i < y.d->ndim; i++)
      size[i] = i == a ? whole : y.d->v[i];
    t = vram__tensor_view(s, y, vram__dims_in(s, y.d->ndim, size, VRAM__STRIDE(y.d)));
    vram__tensor_replace(s, &y, t);
    t = vram__tensor_contiguous(s, y);
    vram__tensor_replace(s, &y, t);
  }
  vram__tensor_release(s, in);
  return y;
}

/* What reduce_scatter_single reads: the parts one behind the other along the first axis. */
static vram__tensor vram__reduce_scatter_input(vram__step *s, vram__tensor x, uint32_t a,
                                               int64_t ranks) {
  vram__tensor in = vram__tensor_contiguous(s, x), t;
  if (!a)
    return in;
  t = vram__tensor_empty(
      s, vram__dims_cut(s, vram__dims_cut(s, x.d, a, x.d->v[a] / ranks), 0, x.d->v[0] * ranks),
      x.dt);
  vram__tensor_release(s, in);
  return t;
}

static vram__tensor vram__reduce_scatter_output(vram__step *s, vram__tensor x, uint32_t a,
                                                int64_t ranks) {
  vram__communicate(s, VRAM_COLLECTIVE_REDUCE_SCATTER, vram__dims_bytes_of(x.d, x.dt),
                    (uint64_t)ranks);
  return vram__tensor_empty(s, vram__dims_cut(s, x.d, a, x.d->v[a] / ranks), x.dt);
}

/* Partial to Replicate; its gradient is the same on every rank already. */
static void vram__forward_all_reduce(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__torch_all_reduce(s, x[0], VRAM__INT(n, ranks, 1));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_all_reduce(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_retain(s, VRAM__SLOTS(f)[0].g);
}

/* DTensor.from_local of a replicated tensor: the tensor itself; the parts of its gradient are
   summed. */
static void vram__forward_replicate(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__tensor_view(s, x[0], x[0].d);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_replicate(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__torch_all_reduce(s, VRAM__SLOTS(f)[0].g, VRAM__INT(f->node, ranks, 1));
}

/* DTensor.from_local of this rank's part. */
static void vram__backward_from_local(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_retain(s, VRAM__SLOTS(f)[0].g);
}

static void vram__forward_all_gather(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  const uint32_t a = vram__collective_cut(n, x[0].d);
  y[0] = vram__torch_all_gather(s, x[0], a, VRAM__INT(n, ranks, 1), n->out[0].d->v[a]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* gradient=replicated: this rank's part is copied; else the parts of all ranks are summed first.
   late=1: who reads the result waits for it, and what the collective reads lives until then. */
static void vram__backward_all_gather(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor *g = &VRAM__SLOTS(f)[0].g, in;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  const uint32_t a = vram__collective_cut(f->node, d);
  const int64_t ranks = VRAM__INT(f->node, ranks, 1);
  if (VRAM__INT(f->node, gradient, 0) == VRAM__WORD(replicated)) {
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), g->dt);
    return;
  }
  in = vram__reduce_scatter_input(s, *g, a, ranks);
  to[0] = vram__reduce_scatter_output(s, *g, a, ranks);
  if (VRAM__INT(f->node, late, 0)) {
    vram__tensor_release(s, *g);
    g->d = NULL;
    g->st = 0;
  }
  vram__tensor_release(s, in);
}

static void vram__forward_reduce_scatter(vram__step *s, const vram_node *n, vram__tensor *x,
                                         vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  const uint32_t a = vram__collective_cut(n, x[0].d);
  y[1] = vram__reduce_scatter_input(s, x[0], a, VRAM__INT(n, ranks, 1));
  y[0] = vram__reduce_scatter_output(s, x[0], a, VRAM__INT(n, ranks, 1));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_reduce_scatter(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  const uint32_t a = vram__collective_cut(f->node, d);
  to[0] = vram__torch_all_gather(s, g, a, VRAM__INT(f->node, ranks, 1), d->v[a]);
}

/* all_to_all_single_autograd with equal parts */
static void vram__forward_all_to_all(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[1] = vram__tensor_contiguous(s, x[0]);
  y[0] = vram__collective_like(s, VRAM_COLLECTIVE_ALL_TO_ALL, x[0], VRAM__INT(n, ranks, 1));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_all_to_all(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor in = vram__tensor_contiguous(s, VRAM__SLOTS(f)[0].g);
  to[0] = vram__collective_like(s, VRAM_COLLECTIVE_ALL_TO_ALL, in, VRAM__INT(f->node, ranks, 1));
  vram__tensor_release(s, in);
}

/* Shard._select_split_tensor: a copy of this rank's part; its gradient is gathered. */
static void vram__forward_shard(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_shard(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  const uint32_t a = vram__collective_cut(f->node, d);
  to[0] = vram__torch_all_gather(s, VRAM__SLOTS(f)[0].g, a, VRAM__INT(f->node, ranks, 1), d->v[a]);
}

/* wait_tensor: the result of a collective is there, and what it read may go. */
static void vram__forward_wait(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  (void)n;
  y[0] = vram__tensor_retain(s, x[0]);
}

/* placement_types.py, _MaskPartial._mask_tensor: which indices are of other ranks, and the others
   from this rank's first row. */
static vram__tensor vram__torch_masked_indices(vram__step *s, vram__tensor x, vram__tensor *mask) {
  const vram_dims *d = vram__dims_contiguous(s, x.d);
  vram__tensor below = vram__tensor_empty(s, d, VRAM_BOOL),
               above = vram__tensor_empty(s, d, VRAM_BOOL), copy, y;
  *mask = vram__tensor_empty(s, d, VRAM_BOOL);
  vram__tensor_release(s, below);
  vram__tensor_release(s, above);
  copy = vram__tensor_empty(s, d, x.dt);
  y = vram__tensor_empty(s, d, x.dt);
  vram__tensor_release(s, copy);
  return y;
}

static void vram__forward_embedding_shard(vram__step *s, const vram_node *n, vram__tensor *x,
                                          vram__tensor *y) {
  vram__tensor w = s->param[n->param[0]->index], mask, masked;
  vram__grad_fn *f;
  masked = vram__torch_masked_indices(s, x[0], &mask);
  f = vram__tape_record(s, n->op, &w, 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x[0]);
  y[0] = vram__tensor_empty(s, n->out[0].d, w.dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, masked);
  vram__tensor_release(s, mask);
}

/* ---- cross entropy of classes that are cut */

/* target != ignore_index ? value : 0, of these dims */
static vram__tensor vram__loss_kept(vram__step *s, vram__tensor target, const vram_dims *d,
                                    vram_dtype dt) {
  vram__tensor mask = vram__tensor_empty(s, target.d, VRAM_BOOL),
               zero = vram__tensor_empty(s, s->scalar, dt), y = vram__tensor_empty(s, d, dt);
  vram__tensor_release(s, zero);
  vram__tensor_release(s, mask);
  return y;
}

/* loss.py, _log_softmax */
static vram__tensor vram__loss_log_softmax(vram__step *s, vram__tensor x, int64_t ranks) {
  const vram_dims *row = vram__dims_2d(s, x.d->v[0], 1);
  vram__tensor in = vram__tensor_to(s, x, VRAM_F32), most, reduced, shifted, each, sum, y;
  in = vram__tensor_retain(s, in);
  vram__tensor_release(s, in);
  most = vram__tensor_empty(s, row, VRAM_F32);
  reduced = vram__torch_all_reduce(s, most, ranks);
  vram__tensor_release(s, most);
  shifted = vram__tensor_empty(s, in.d, VRAM_F32);
  each = vram__tensor_empty(s, in.d, VRAM_F32);
  sum = vram__tensor_sum(s, each, 2, 1, VRAM_F32);
  vram__tensor_release(s, each);
  each = vram__torch_all_reduce(s, sum, ranks);
  vram__tensor_release(s, sum);
  sum = vram__tensor_empty(s, row, VRAM_F32);
  y = vram__tensor_empty(s, in.d, VRAM_F32);
  if (x.dt != VRAM_F32)
    vram__tensor_replace(s, &y, vram__tensor_empty(s, in.d, x.dt));
  vram__tensor_release(s, shifted);
  vram__tensor_release(s, reduced);
  vram__tensor_release(s, each);
  vram__tensor_release(s, sum);
  vram__tensor_release(s, in);
  return y;
}

/* loss.py, _nll_loss_forward with reduction=mean or sum: the loss and the number of targets */
static vram__tensor vram__loss_nll(vram__step *s, vram__tensor x, vram__tensor target, int mean,
                                   int64_t ranks, vram__tensor *count) {
  const vram_dims *rows = vram__dims_contiguous(s, target.d);
  vram__tensor safe, masked, mask, found, reduced, kept, t, y;
  safe = vram__loss_kept(s, target, rows, target.dt);
  masked = vram__torch_masked_indices(s, safe, &mask);
  found = vram__tensor_empty(s, vram__dims_2d(s, rows->v[0], 1), x.dt);
  vram__tensor_release(s, mask);
  reduced = vram__torch_all_reduce(s, found, ranks);
  t = vram__tensor_empty(s, rows, x.dt);
  kept = vram__loss_kept(s, target, rows, x.dt);
  vram__tensor_release(s, t);
  mask = vram__tensor_empty(s, rows, VRAM_BOOL);
  t = vram__tensor_sum(s, mask, 1, 0, VRAM_I64);
  vram__tensor_release(s, mask);
  *count = vram__tensor_empty(s, s->scalar, x.dt);
  vram__tensor_release(s, t);
  y = vram__tensor_sum(s, kept, 1, 0, x.dt);
  if (mean)
    vram__tensor_replace(s, &y, vram__tensor_empty(s, s->scalar, x.dt));
  vram__tensor_release(s, kept);
  vram__tensor_release(s, safe);
  vram__tensor_release(s, masked);
  vram__tensor_release(s, found);
  vram__tensor_release(s, reduced);
  return y;
}

static void vram__forward_loss_parallel(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  const int mean = VRAM__INT(n, reduction, VRAM__WORD(mean)) == VRAM__WORD(mean);
  const int64_t ranks = VRAM__INT(n, ranks, 1);
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 3);
  vram__tensor log = vram__loss_log_softmax(s, x[0], ranks), count;
  y[0] = vram__loss_nll(s, log, x[1], mean, ranks, &count);
  if (f) {
    f->aux = (uint64_t)mean;
    vram__save_tensor(s, f, x[1]);
    vram__save_tensor(s, f, count);
    vram__save_tensor(s, f, log);
  }
  vram__tensor_release(s, count);
  vram__tensor_release(s, log);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* loss.py, _nll_loss_and_log_softmax_backward */
static void vram__backward_loss_parallel(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor target = VRAM__SAVED(f)[0], log = VRAM__SAVED(f)[2];
  const vram_dims *rows = vram__dims_contiguous(s, target.d);
  vram__tensor grad = vram__tensor_none(), safe, zeros, mask, masked, cast, update, range, kept, e;
  vram_dtype dt;
  vram__input_dims(s, f, 0, &dt);
  if (f->aux)
    grad = vram__tensor_empty(s, s->scalar, log.dt);
  safe = vram__loss_kept(s, target, rows, target.dt);
  zeros = vram__tensor_empty(s, log.d, log.dt);
  masked = vram__torch_masked_indices(s, safe, &mask);
  cast = vram__tensor_empty(s, rows, log.dt);
  update = vram__tensor_empty(s, rows, log.dt);
  vram__tensor_release(s, cast);
  range = vram__tensor_empty(s, rows, VRAM_I64);
  kept = vram__loss_kept(s, target, vram__dims_2d(s, rows->v[0], 1), log.dt);
  vram__tensor_release(s, grad);
  e = vram__tensor_empty(s, log.d, log.dt);
  vram__tensor_replace(s, &e, vram__tensor_empty(s, log.d, log.dt));
  vram__tensor_replace(s, &e, vram__tensor_empty(s, log.d, log.dt));
  vram__tensor_release(s, kept);
  vram__tensor_release(s, safe);
  vram__tensor_release(s, zeros);
  vram__tensor_release(s, mask);
  vram__tensor_release(s, masked);
  vram__tensor_release(s, update);
  vram__tensor_release(s, range);
  to[0] = vram__tensor_to(s, e, dt);
  vram__tensor_release(s, e);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(all_reduce, "", 1, 1, collective_same, SAME, none, all_reduce, all_reduce, none, NONE, 0,
         0, "ranks!");
VRAM__OP(replicate, "", 1, 1, collective_same, SAME, none, replicate, replicate, none, NONE, 0, 0,
         "ranks!");
VRAM__OP(from_local, "", 1, 1, from_local, SAME, none, replicate, from_local, none, NONE, 0, 0, "");
VRAM__OP(all_gather, "", 1, 1, all_gather, SAME, none, all_gather, all_gather, none, NONE, 0, 0,
         "ranks! dim! whole gradient late");
VRAM__OP(reduce_scatter, "", 1, 1, reduce_scatter, SAME, none, reduce_scatter, reduce_scatter, none,
         NONE, 0, 0, "ranks! dim!");
VRAM__OP(all_to_all, "", 1, 1, all_to_all, SAME, none, all_to_all, all_to_all, none, NONE, 0, 0,
         "ranks!");
VRAM__OP(shard, "", 1, 1, scatter_rows, SAME, none, shard, shard, none, NONE, 0, 0,
         "ranks! dim! length!");
VRAM__OP(wait, "", 2, 2, same, SAME, none, wait, none, none, NONE, 0, 0, "");
VRAM__OP(embedding_shard, "", 1, 1, embedding_shard, SAME, none, embedding_shard, embedding, none,
         NONE, 0, VRAM__OP_OWNS,
         "num_embeddings! embedding_dim! whole! ranks padding_idx scale_grad_by_freq frozen dtype");
VRAM__OP(loss_parallel, "", 2, 2, loss_parallel, SAME, none, loss_parallel, loss_parallel, each,
         NONE, 0, VRAM__OP_LOSS, "ranks! reduction ignore_index");
