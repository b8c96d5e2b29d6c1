/* >>parallel/cut_layer    layers whose weights are cut (torch/distributed/tensor/parallel) */
#include "parallel/cut.h"

/* Between blocks: all of a value, or with sequence parallelism this rank's part of axis 1. */
static int vram__rank_reduce(vram__rank_cut *c, const vram_node *n, vram_value *partial,
                             uint32_t axis) {
  vram__rank_value *v = c->value + n->out[0].index;
  vram_node *y;
  vram__rank_keys(c, n);
  c->keys.count = 0;
  c->words[0] = 0;
  if (!c->p->sp) {
    y = vram__rank_collective(c, n, VRAM_OP_all_reduce, partial, ".all_reduce");
    v->own = y ? y->out : NULL;
    return y != NULL;
  }
  if (axis >= partial->d->ndim || partial->d->v[axis] % c->ranks) {
    vram__rank_refuse(c, n, "a sequence that the ranks do not divide");
    vram__error_more(c->g, ": ");
    vram__error_more_i(c->g, axis < partial->d->ndim ? partial->d->v[axis] : 0);
    vram__error_more(c->g, " by tp=");
    vram__error_more_i(c->g, c->ranks);
    return 0;
  }
  vram__rank_key_set(c, VRAM__KEY_dim, (int64_t)axis);
  y = vram__rank_collective(c, n, VRAM_OP_reduce_scatter, partial, ".reduce_scatter");
  if (!y)
    return 0;
  v->own = y->out;
  v->flight = y->out + 1;
  v->cut = (uint8_t)(axis + 1);
  return 1;
}

/* All of a value for layers that are cut by columns: once for all that read it. The head waits for
   its input's gradient late (style.py: async_op=True), PrepareModuleInput at once. */
static vram_value *vram__rank_whole(vram__rank_cut *c, const vram_node *n, const vram_value *x,
                                    int late) {
  vram__rank_value *v = c->value + x->index;
  vram_value *own = vram__rank_own(c, n, x);
  vram_node *y;
  if (v->whole || !own)
    return v->whole;
  c->keys.words = c->words;
  c->keys.room = 1000;
  c->keys.count = 0;
  c->words[0] = 0;
  if (v->cut) {
    vram__rank_key_set(c, VRAM__KEY_dim, v->cut - 1);
    if (x->d->v[v->cut - 1] % c->ranks)
      vram__rank_key_set(c, VRAM__KEY_whole, x->d->v[v->cut - 1]);
    if (late)
      vram__rank_key_set(c, VRAM__KEY_late, 1);
  }
  y = vram__rank_collective(c, n, v->cut ? VRAM_OP_all_gather : VRAM_OP_replicate, own,
                            v->cut ? ".all_gather" : ".replicate");
  v->whole = y ? y->out : NULL;
  return v->whole;
}

/* What the caller of a layer holds until its hooks have run: the input, and what was made of it. */
static int vram__rank_drop_input(vram__rank_cut *c, const vram_node *n) {
  const vram__rank_value *v = c->value + n->in[0]->index;
  vram_value *in[2];
  uint32_t count = 0;
  if (n->in[0]->last != n->index)
    return 1;
  if (v->whole)
    in[count++] = v->whole;
  in[count++] = v->own;
  return vram__node_lifetime(c->g, VRAM__OP_drop, in, count) != NULL;
}

/* The two sizes do not go together: PyTorch's words. */
static int vram__rank_refuse_product(vram__rank_cut *c, const vram_node *n, int64_t local) {
  const vram_dims *x = n->in[0]->d;
  vram__rank_refuse(c, n, "a and b must have same reduction dim, but got features of ");
  vram__error_more_i(c->g, local * c->ranks);
  vram__error_more(c->g, " and ");
  vram__error_more_i(c->g, x->v[x->ndim - 1]);
  return 0;
}

static int vram__rank_rowwise(vram__rank_cut *c, const vram_node *n) {
  const vram__rank_value *v = c->value + n->in[0]->index;
  const vram_dims *d = n->in[0]->d;
  vram_value *x = vram__rank_own(c, n, n->in[0]);
  vram_node *y;
  if (!x)
    return 0;
  if (v->cut != d->ndim)
    return vram__rank_refuse(c, n, "a layer cut by rows whose input is not cut by columns");
  if (x->d->v[d->ndim - 1] * c->ranks != d->v[d->ndim - 1])
    return vram__rank_refuse_product(c, n, x->d->v[d->ndim - 1]);
  vram__rank_keys(c, n);
  vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD("rowwise"));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  y = vram__rank_emit(c, n, n->op, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  return vram__rank_reduce(c, n, y->out, 1) && vram__rank_drop_input(c, n);
}

/* Logits: all of them on every rank, or with loss_parallel this rank's classes. */
static int vram__rank_gather_logits(vram__rank_cut *c, const vram_node *n, vram_value *part) {
  vram__rank_value *v = c->value + n->out[0].index;
  const uint32_t a = part->d->ndim - 1u;
  vram_node *y;
  v->own = part;
  v->cut = (uint8_t)(a + 1);
  if (c->p->loss_parallel)
    return 1;
  c->keys.count = 0;
  c->words[0] = 0;
  vram__rank_key_set(c, VRAM__KEY_dim, (int64_t)a);
  if (n->out[0].d->v[a] % c->ranks)
    vram__rank_key_set(c, VRAM__KEY_whole, n->out[0].d->v[a]);
  vram__rank_key_set(c, VRAM__KEY_gradient, VRAM__WORD("replicated"));
  y = vram__rank_collective(c, n, VRAM_OP_all_gather, part, ".all_gather");
  v->own = y ? y->out : NULL;
  v->cut = 0;
  return y != NULL;
}

/* Each module registers a parameter of its own, also where both had one before. 0: the other one is
   not cut. */
static int vram__rank_untie(vram__rank_cut *c) {
  const int64_t *of = vram__attr_find(c->words, VRAM__KEY_weights, NULL);
  const vram_node *lender = of ? c->node[((const vram_node *)(uintptr_t)*of)->index] : NULL;
  if (!of)
    return 1;
  vram__rank_key_drop(c, VRAM__KEY_weights);
  vram__rank_key_set(c, VRAM__KEY_tied, (int64_t)(uintptr_t)lender);
  return lender && lender->op == VRAM_OP_embedding_shard;
}

static int vram__rank_colwise(vram__rank_cut *c, const vram_node *n, int head) {
  vram__rank_value *v = c->value + n->out[0].index;
  const int64_t out = n->out[0].d->v[n->out[0].d->ndim - 1],
                part = vram__rank_part(out, c->ranks, c->rank);
  vram_value *x = vram__rank_whole(c, n, n->in[0], head);
  vram_node *y;
  if (!x)
    return 0;
  if (!part)
    return vram__rank_refuse(c, n, "fewer rows of a weight than ranks");
  vram__rank_keys(c, n);
  if (!vram__rank_untie(c))
    return vram__rank_refuse(c, n, "a weight of a layer that is not cut");
  vram__rank_key_set(c, VRAM__KEY_out_features, part);
  vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD("colwise"));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  if (out % c->ranks)
    vram__rank_key_set(c, VRAM__KEY_whole, out);
  y = vram__rank_emit(c, n, n->op, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  if (head)
    return vram__rank_gather_logits(c, n, y->out) && vram__rank_drop_input(c, n);
  v->own = y->out;
  v->cut = (uint8_t)n->out[0].d->ndim;
  return vram__rank_drop_input(c, n);
}

VRAM__FN int vram__rank_linear(vram__rank_cut *c, const vram_node *n, vram__role role) {
  if (role == VRAM__ROLE_FUSED)
    return vram__rank_refuse(c, n,
                             "several weights in one, of which every rank would get a part of "
                             "the first");
  if (n->nin != 1 || vram__node_list(n, VRAM__KEY_lora, NULL) ||
      vram__node_list(n, VRAM__KEY_quant, NULL) || VRAM__INT(n, conv1d, 0))
    return vram__rank_refuse(c, n,
                             "tensor parallelism cuts linear layers with a weight of their "
                             "own, without adapters");
  c->ncut++;
  return role == VRAM__ROLE_ROWWISE ? vram__rank_rowwise(c, n)
                                    : vram__rank_colwise(c, n, role == VRAM__ROLE_HEAD);
}

/* A table whose rows are cut: other ranks' indices are masked (_MaskPartial). */
VRAM__FN int vram__rank_embedding(vram__rank_cut *c, const vram_node *n) {
  const int64_t rows = VRAM__INT(n, num_embeddings, 0);
  vram_value *x = vram__rank_own(c, n, n->in[0]);
  const uint32_t ndim = n->out[0].d->ndim;
  vram_node *y;
  if (!x)
    return 0;
  if (n->nin != 1 || c->value[n->in[0]->index].cut)
    return vram__rank_refuse(c, n,
                             "an embedding with a table of another node, or of indices that "
                             "are cut");
  vram__rank_keys(c, n);
  vram__rank_key_drop(c, VRAM__KEY_weights);
  vram__rank_key_set(c, VRAM__KEY_num_embeddings, vram__rank_part(rows, c->ranks, c->rank));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  vram__rank_key_set(c, VRAM__KEY_whole, rows);
  y = vram__rank_emit(c, n, VRAM_OP_embedding_shard, &x, 1);
  if (!y)
    return 0;
  c->ncut++;
  c->node[n->index] = y;
  return vram__rank_reduce(c, n, y->out, ndim > 2 ? 1 : 0) && vram__rank_drop_input(c, n);
}

/* cross_entropy of logits whose classes are cut. */
VRAM__FN int vram__rank_loss(vram__rank_cut *c, const vram_node *n) {
  vram_value *in[2];
  vram_node *y;
  if (n->nin != 2 || vram__node_list(n, VRAM__KEY_label_smoothing, NULL) || n->out[0].d->ndim ||
      n->in[0]->d->ndim != 2 || n->in[1]->d->ndim != 1)
    return vram__rank_refuse(c, n,
                             "loss_parallel has cross_entropy of rows and classes, mean or "
                             "sum, without weights or label_smoothing");
  in[0] = vram__rank_own(c, n, n->in[0]);
  in[1] = vram__rank_own(c, n, n->in[1]);
  if (!in[0] || !in[1])
    return 0;
  vram__rank_keys(c, n);
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  y = vram__rank_emit(c, n, VRAM_OP_loss_parallel, in, 2);
  if (!y)
    return 0;
  c->node[n->index] = y;
  c->value[n->out[0].index].own = y->out;
  return 1;
}
