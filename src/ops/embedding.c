/* >>ops/embedding    embedding and embedding_bag */
#include "ops/ops.h"

static int vram__shape_embedding(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  if (!vram__index_dtype(g, n, 0))
    return 0;
  w[0] = VRAM__INT(n, num_embeddings, 0);
  w[1] = VRAM__INT(n, embedding_dim, 0);
  if (n->nin > 1) {
    if (n->in[1]->d->ndim != 2)
      return vram__node_error(g, n, "an embedding table without two axes");
    w[0] = n->in[1]->d->v[0];
    w[1] = n->in[1]->d->v[1];
  } else {
    if (w[0] < 1 || w[1] < 1)
      return vram__node_error(g, n, "num_embeddings and embedding_dim must be at least 1");
    if (!vram__node_own(g, n, 0, "weight", 2, w, VRAM_DTYPE_MODEL, VRAM__PARAM))
      return 0;
  }
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[x->ndim] = w[1];
  return vram__node_out(g, n, 0, x->ndim + 1u, size,
                        n->nin > 1 ? n->in[1]->dtype : n->param[0]->dtype);
}

/* EmbeddingBag: rows of indices, or one list and the offsets where its bags begin; a table can
   stand behind them. */
static int vram__shape_embedding_bag(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *w = NULL, *o = NULL;
  int64_t size[2], z[2];
  uint32_t i;
  vram_dtype dt;
  for (i = 1; i < n->nin; i++)
    if (n->in[i]->d->ndim == 2)
      w = n->in[i]->d;
    else if (n->in[i]->d->ndim == 1)
      o = n->in[i]->d;
  if (n->nin != 1u + (w != NULL) + (o != NULL) || (x->ndim != 2 && !(x->ndim == 1 && o)) ||
      (x->ndim == 2 && o))
    return vram__node_error(g, n, "inputs other than [bags,indices], or [indices] and [offsets]");
  if (!vram__index_dtype(g, n, 0))
    return 0;
  z[0] = VRAM__INT(n, num_embeddings, 0);
  z[1] = VRAM__INT(n, embedding_dim, 0);
  if (z[0] < 1 || z[1] < 1)
    return vram__node_error(g, n, "num_embeddings and embedding_dim must be at least 1");
  if (w ? w->v[0] != z[0] || w->v[1] != z[1]
        : !vram__node_params(g, n, 1) ||
              !vram__node_own(g, n, 0, "weight", 2, z, VRAM_DTYPE_MODEL, VRAM__PARAM))
    return w ? vram__node_error(g, n, "a table of another shape") : 0;
  dt = w ? n->in[n->nin - 1]->dtype : n->param[0]->dtype;
  if (w && n->nin == 3 && n->in[1]->d->ndim == 2)
    return vram__node_error(g, n, "offsets behind the table");
  size[0] = x->ndim == 2 ? x->v[0] : o->v[0];
  size[1] = z[1];
  return vram__node_out(g, n, 0, 2, size, dt);
}

#ifndef VRAM_NO_STEP

/* ---- indexing ---- */

/* EmbeddingBackwardKernel.cu: the gradient of a table of dims w from n sorted indices of ie bytes.
   VRAM__ROWS_FUSED: the partial sums of few rows are added up without a tensor of them. */
enum { VRAM__ROWS_BY_FREQ = 1, VRAM__ROWS_FUSED = 2 };

static vram__tensor vram__sorted_rows(vram__step *s, uint64_t n, uint32_t ie, const vram_dims *w,
                                      vram_dtype dt, uint32_t how) {
  uint64_t rows = (uint64_t)w->v[0], cols = (uint64_t)w->v[1], seg = n < rows ? n : rows,
           parts = n / 10 + seg;
  const uint64_t warp = (uint64_t)s->device.rules->warp;
  const uint64_t warps = vram__round_up_u64(cols, warp);
  const uint64_t grid = vram__div_up_u64(seg * warps, warps < 1024 ? warps : 1024);
  uint32_t bits = 1, kind = ie == 8 ? 0 : 1, t[10], count = 0, i;
  vram__tensor y;
  int fuse;
  while (rows >> bits)
    bits++;
  if (s->device.rules->does & VRAM__EMBEDDING_ALL_BITS)
    bits = 8 * ie;
  fuse = (how & VRAM__ROWS_FUSED) && (s->device.rules->does & VRAM__EMBEDDING_FUSED) &&
         grid < UINT64_C(4) * s->device.sm && parts > 4 * grid;
  t[0] = vram__cub_hold(s, n * ie); /* sorted indices, their places, the range that gives those */
  t[1] = vram__cub_hold(s, n * ie);
  t[2] = vram__cub_hold(s, n * ie);
  vram__workspace_use(s, vram__cub_sort(s, n, ie, ie, bits));
  vram__cub_release(s, t[2]);
  if (how & VRAM__ROWS_BY_FREQ) { /* how often each index comes: two scans by key */
    count = vram__cub_hold(s, n * ie);
    vram__workspace_use(s, vram__cub_by_key(s, n, ie));
    vram__workspace_use(s, vram__cub_by_key(s, n, ie));
  }
  y = vram__tensor_empty(s, vram__dims_contiguous(s, w), dt);
  t[2] = vram__cub_hold(s, n * ie); /* where the segments of equal indices begin, and how many */
  t[3] = vram__cub_hold(s, 8);
  i = vram__cub_hold(s, n * ie);
  vram__workspace_use(s, vram__cub_select(s, n, kind));
  vram__cub_release(s, i);
  t[4] = vram__cub_hold(s, seg * ie); /* the segments' parts, and where they begin */
  t[5] = vram__cub_hold(s, seg * ie);
  vram__workspace_use(s, vram__cub_scan(s, seg, ie == 4 ? VRAM_I32 : VRAM_I64));
  t[6] = vram__cub_hold(s, 8);
  t[7] = vram__cub_hold(s, parts * ie);
  t[8] = vram__cub_hold(s, fuse ? parts * ie
                                : vram__product_or_overflow(vram__product_or_overflow(parts, cols),
                                                            dt == VRAM_F64 ? 8 : 4));
  if (fuse && vram__dtype_size(dt) < 4)
    vram__workspace_use(s, rows * cols * 4);
  for (i = 9; i-- > 2;)
    vram__cub_release(s, t[i]);
  vram__cub_release(s, count);
  vram__cub_release(s, t[1]);
  vram__cub_release(s, t[0]);
  return y;
}

static void vram__forward_embedding(vram__step *s, const vram_node *n, vram__tensor *x,
                                    vram__tensor *y) {
  vram__tensor w = n->nin > 1 ? x[1] : s->param[n->param[0]->index], c = vram__tensor_none();
  const int64_t all = (int64_t)x[0].d->numel;
  vram__grad_fn *f = vram__tape_record(s, n->op, &w, 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x[0]);
  if (x[0].d->ndim != 1) /* Embedding.cpp: index_select, which takes strides */
    c = vram__torch_reshape(s, x[0], 1, &all);
  y[0] = vram__tensor_empty(s, n->out[0].d, w.dt);
  vram__tensor_release(s, c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* embedding_dense_backward: few indices are added one by one */
VRAM__FN void vram__backward_embedding(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor i = vram__tensor_contiguous(s, VRAM__SAVED(f)[0]);
  vram__tensor g = vram__tensor_contiguous(s, VRAM__SLOTS(f)[0].g);
  vram_dtype dt;
  const vram_dims *w = vram__input_dims(s, f, 0, &dt);
  int by_freq = VRAM__INT(f->node, scale_grad_by_freq, 0) != 0;
  if (i.d->numel <= s->device.rules->embedding_sorted && !by_freq)
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, vram__dtype_size(i.dt), w, dt,
                              VRAM__ROWS_FUSED | (by_freq ? (uint32_t)VRAM__ROWS_BY_FREQ : 0u));
  vram__tensor_release(s, g);
  vram__tensor_release(s, i);
}

static int vram__embedding_bag_is_max(const vram_node *n) {
  return VRAM__INT(n, mode, 0) == VRAM__WORD(max);
}

/* EmbeddingBag.cpp, promoteIndicesAndOffsets: a copy of the one whose dtype is the narrower */
static vram__tensor vram__embedding_bag_wide(vram__step *s, vram__tensor i, vram__tensor offsets) {
  if (i.dt == offsets.dt)
    return vram__tensor_none();
  return vram__tensor_to(s, i.dt == VRAM_I64 ? offsets : i, VRAM_I64);
}

/* EmbeddingBag.cu. Rows of indices are bags of one length: their offsets are made. */
static void vram__forward_embedding_bag(vram__step *s, const vram_node *n, vram__tensor *x,
                                        vram__tensor *y) {
  int given = n->nin > 1 && n->in[1]->d->ndim == 1, max = vram__embedding_bag_is_max(n);
  vram__tensor w = n->nparam ? s->param[n->param[0]->index] : x[n->nin - 1], offsets, size, bag,
               wide, in, t, idx = vram__tensor_none();
  int64_t bags = n->out[0].d->v[0], all = (int64_t)x[0].d->numel;
  vram_dtype it = x[0].dt;
  vram__grad_fn *f = vram__tape_record(s, n->op, &w, 1, 1, 5);
  if (f && max && w.dt == VRAM_BF16)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "embedding_bag with mode=max in bf16: PyTorch has no kernel for backward");
  offsets = given ? vram__tensor_retain(s, x[1])
                  : vram__tensor_empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  in = x[0].d->ndim == 2 ? vram__torch_reshape(s, x[0], 1, &all) : vram__tensor_retain(s, x[0]);
  t = vram__tensor_contiguous(s, offsets);
  vram__tensor_release(s, offsets);
  offsets = t; /* embedding_bag */
  t = vram__tensor_contiguous(s, in);
  vram__tensor_release(s, in);
  in = t;
  wide = vram__embedding_bag_wide(s, in, offsets);
  if (wide.d)
    it = VRAM_I64;
  size = vram__tensor_empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  bag = vram__tensor_empty(s, vram__dims_in(s, 1, &all, NULL), it);
  y[0] = vram__tensor_empty(s, n->out[0].d, w.dt);
  if (max)
    idx = vram__tensor_empty(s, n->out[0].d, it);
  if (f) {
    vram__save_tensor(s, f, in);
    vram__save_tensor(s, f, offsets);
    vram__save_tensor(s, f, bag);
    vram__save_tensor(s, f, size);
    if (max)
      vram__save_tensor(s, f, idx);
  }
  vram__tensor_release(s, wide);
  vram__tensor_release(s, bag); /* ret, _, _, _ = torch.embedding_bag(...) */
  vram__tensor_release(s, size);
  vram__tensor_release(s, in);
  vram__tensor_release(s, offsets);
  vram__tensor_release(s, idx);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_embedding_bag(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor i = VRAM__SAVED(f)[0], wide = vram__embedding_bag_wide(s, i, VRAM__SAVED(f)[1]),
               g = vram__tensor_contiguous(s, VRAM__SLOTS(f)[0].g);
  vram_dtype dt;
  const vram_dims *w = vram__input_dims(s, f, 0, &dt);
  if (vram__embedding_bag_is_max(f->node))
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, wide.d ? 8 : vram__dtype_size(i.dt), w, dt, 0);
  vram__tensor_release(s, g);
  vram__tensor_release(s, wide);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(embedding, "", 1, 2, embedding, SAME, none, embedding, embedding, each, EMBEDDING, 0,
         VRAM__OP_OWNS | VRAM__OP_WEIGHT_INPUT | VRAM__OP_ANY_DTYPE,
         "num_embeddings! embedding_dim! padding_idx scale_grad_by_freq frozen weights dtype "
         "parallel ranks");
VRAM__OP(embedding_bag, "", 1, 3, embedding_bag, SAME, none, embedding_bag, embedding_bag, each,
         NONE, 0, 0, "num_embeddings! embedding_dim! mode padding_idx frozen weights dtype");
