/* >>parallel/cut_layer    layers whose weights are cut (torch/distributed/tensor/parallel) */
#include "parallel/cut.h"

/* A layout as an axis of so many; ndim: replicated; more: there is no such axis. */
VRAM__FN uint32_t vram__rank_axis(int8_t layout, uint32_t ndim) {
  const int a = layout < 0 ? layout + (int)ndim : layout;
  if (layout == VRAM__LAYOUT_REPLICATE)
    return ndim;
  return a < 0 || a >= (int)ndim ? UINT32_MAX : (uint32_t)a;
}

/* A sum that the ranks have parts of: all of it, or this rank's part of an axis. */
static int vram__rank_reduce(vram__rank_cut *c, const vram_node *n, vram_value *partial,
                             uint32_t axis) {
  vram__rank_value *v = c->value + n->out[0].index;
  vram_node *y;
  vram__rank_keys_none(c);
  if (axis > partial->d->ndim)
    return vram__rank_refuse(c, n, "output_layouts is an axis that the result does not have");
  if (axis == partial->d->ndim) {
    y = vram__rank_collective(c, n, VRAM_OP_all_reduce, partial, ".all_reduce");
    v->own = y ? y->out : NULL;
    return y != NULL;
  }
  if (partial->d->v[axis] % c->ranks) {
    vram__rank_refuse(c, n, "a sequence that the ranks do not divide");
    vram__error_more(c->g, ": ");
    vram__error_more_i(c->g, partial->d->v[axis]);
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
  v->is_sequence = 1;
  return 1;
}

/* Where the result of a layer that is cut by rows goes: the usual plan cuts it between blocks with
   sequence parallelism. */
static uint32_t vram__rank_sum_axis(const vram__rank_cut *c, const vram_node *n,
                                    const vram__plan_role *role) {
  const uint32_t ndim = n->out[0].d->ndim;
  if (role->output != VRAM__LAYOUT_UNSAID)
    return vram__rank_axis(role->output, ndim);
  return c->p->sp && ndim > 1 ? (ndim > 2 ? 1 : 0) : ndim;
}

/* All of a value: made once for all nodes of a module, module.text NULL: for this node. It is named
   after the value, or after the node. Where the node's own style asks for it, who reads the
   gradient waits late (style.py: async_op=True), PrepareModuleInput at once. */
static vram_value *vram__rank_whole(vram__rank_cut *c, const vram_node *n, const vram_value *x,
                                    vram__span module, int late) {
  vram__rank_value *v = c->value + x->index;
  vram_value *own = vram__rank_own(c, n, x);
  vram_node *y;
  if (!own || (v->whole && module.text && v->whole_of.text && v->whole_of.len == module.len &&
               vram__text_equal(v->whole_of.text, module.text, module.len)))
    return own ? v->whole : NULL;
  vram__rank_keys_none(c);
  if (v->cut) {
    vram__rank_key_set(c, VRAM__KEY_dim, v->cut - 1);
    if (x->d->v[v->cut - 1] % c->ranks)
      vram__rank_key_set(c, VRAM__KEY_whole, x->d->v[v->cut - 1]);
    if (late)
      vram__rank_key_set(c, VRAM__KEY_late, 1);
  }
  if (!module.text)
    c->name = vram__node_label(n);
  y = vram__rank_collective(c, n, v->cut ? VRAM_OP_all_gather : VRAM_OP_replicate, own,
                            v->cut ? ".all_gather" : ".replicate");
  v->whole = y ? y->out : NULL;
  v->whole_of = module;
  return v->whole;
}

/* A layout that the plan says and the value has not. */
static int vram__rank_refuse_layout(vram__rank_cut *c, const vram_node *n, const vram_value *x,
                                    int8_t said) {
  const vram__rank_value *v = c->value + x->index;
  vram__rank_refuse(c, n, "an input in another layout than the plan says");
  vram__error_more(c->g, ": input_layouts=");
  if (said == VRAM__LAYOUT_REPLICATE)
    vram__error_more(c->g, "replicate");
  else
    vram__error_more_i(c->g, said);
  vram__error_more(c->g, v->cut ? ", cut along axis " : ", replicated");
  if (v->cut)
    vram__error_more_i(c->g, v->cut - 1);
  return 0;
}

/* Is the value laid out as the plan says? A DTensor says so itself. */
static int vram__rank_is_laid(const vram__rank_cut *c, const vram_value *x, int8_t said) {
  const vram__rank_value *v = c->value + x->index;
  const uint32_t axis = vram__rank_axis(said, x->d->ndim);
  return v->is_dtensor || (axis == x->d->ndim ? !v->cut : v->cut == axis + 1);
}

/* What node n reads of x where PrepareModuleInput is around it; NULL: nothing else than it has, or
   an error. */
VRAM__FN vram_value *vram__rank_prepared(vram__rank_cut *c, const vram_node *n,
                                         const vram_value *x) {
  const vram__rank_value *v = c->value + x->index;
  vram__span module;
  const vram__tp_word *w =
      c->plan && x->d->ndim ? vram__plan_around(c, n, VRAM__TP_INPUT, &module) : NULL;
  int8_t said;
  if (!w)
    return NULL;
  if (x->node && vram__output_is_inside(x->node, module))
    return NULL; /* the module's own */
  said = VRAM__LAYOUT_REPLICATE;
  if (w->input != VRAM__LAYOUT_UNSAID)
    said = w->input;
  else if (c->p->sp)
    said = 1;
  if (!v->cut && vram__rank_axis(said, x->d->ndim) != x->d->ndim)
    return NULL; /* another input of the module */
  if (!vram__rank_is_laid(c, x, said)) {
    vram__rank_refuse_layout(c, n, x, said);
    return NULL;
  }
  if (w->desired != VRAM__LAYOUT_UNSAID && w->desired != VRAM__LAYOUT_REPLICATE) {
    vram__rank_refuse(c, n, "desired_input_layouts other than replicate are not played");
    return NULL;
  }
  return vram__rank_whole(c, n, x, module, 0);
}

/* All of what a layer cut by columns reads. */
static vram_value *vram__rank_colwise_input(vram__rank_cut *c, const vram_node *n,
                                            const vram__plan_role *role) {
  const vram_value *x = n->in[0];
  int8_t said = VRAM__LAYOUT_REPLICATE;
  vram_value *y;
  if (role->is_usual)
    return vram__rank_whole(c, n, x, vram__span_all(""), role->is_late);
  y = vram__rank_prepared(c, n, x);
  if (y || c->g->error.code)
    return y;
  if (role->input != VRAM__LAYOUT_UNSAID)
    said = role->input;
  if (vram__rank_is_laid(c, x, said))
    return vram__rank_whole(c, n, x, vram__span_all(NULL), role->is_late);
  vram__rank_refuse_layout(c, n, x, said);
  return NULL;
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

/* This rank's part of the features of a value that every rank has whole. */
static vram_value *vram__rank_split(vram__rank_cut *c, const vram_node *n, const vram_value *x) {
  const uint32_t a = x->d->ndim - 1u;
  vram_value *own = vram__rank_own(c, n, x);
  vram_node *y;
  if (!own)
    return NULL;
  if (x->d->v[a] % c->ranks) {
    vram__rank_refuse(c, n, "features that the ranks do not divide");
    return NULL;
  }
  vram__rank_keys_none(c);
  vram__rank_key_set(c, VRAM__KEY_dim, (int64_t)a);
  vram__rank_key_set(c, VRAM__KEY_length, vram__rank_part(x->d->v[a], c->ranks, c->rank));
  c->name = vram__node_label(n);
  y = vram__rank_collective(c, n, VRAM_OP_shard, own, ".shard");
  return y ? y->out : NULL;
}

static int vram__rank_rowwise(vram__rank_cut *c, const vram_node *n, const vram__plan_role *role) {
  const vram__rank_value *v = c->value + n->in[0]->index;
  const vram_dims *d = n->in[0]->d;
  vram_value *x;
  vram_node *y;
  if (role->input == VRAM__LAYOUT_REPLICATE && v->cut)
    return vram__rank_refuse_layout(c, n, n->in[0], role->input);
  x = role->input == VRAM__LAYOUT_REPLICATE ? vram__rank_split(c, n, n->in[0])
                                            : vram__rank_own(c, n, n->in[0]);
  if (!x)
    return 0;
  if (v->cut != d->ndim && role->input != VRAM__LAYOUT_REPLICATE)
    return vram__rank_refuse(c, n, "a layer cut by rows whose input is not cut by columns");
  if (x->d->v[d->ndim - 1] * c->ranks != d->v[d->ndim - 1])
    return vram__rank_refuse_product(c, n, x->d->v[d->ndim - 1]);
  vram__rank_keys(c, n);
  vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD(rowwise));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  y = vram__rank_emit(c, n, n->op, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  return vram__rank_reduce(c, n, y->out, vram__rank_sum_axis(c, n, role)) &&
         vram__rank_drop_input(c, n);
}

/* The result of a layer cut by columns is gathered, or stays this rank's. */
static int vram__rank_gather(vram__rank_cut *c, const vram_node *n, vram_value *part,
                             const vram__plan_role *role) {
  vram__rank_value *v = c->value + n->out[0].index;
  const uint32_t a = part->d->ndim - 1u;
  const uint32_t to =
      role->output == VRAM__LAYOUT_UNSAID ? a : vram__rank_axis(role->output, a + 1);
  vram_node *y;
  v->own = part;
  v->cut = (uint8_t)(a + 1);
  v->is_dtensor = role->is_dtensor;
  if (to == a)
    return 1;
  if (to != a + 1)
    return vram__rank_refuse(c, n, "a layer cut by columns gives columns or all of its result");
  vram__rank_keys_none(c);
  vram__rank_key_set(c, VRAM__KEY_dim, (int64_t)a);
  if (n->out[0].d->v[a] % c->ranks)
    vram__rank_key_set(c, VRAM__KEY_whole, n->out[0].d->v[a]);
  vram__rank_key_set(c, VRAM__KEY_gradient, VRAM__WORD(replicated));
  y = vram__rank_collective(c, n, VRAM_OP_all_gather, part, ".all_gather");
  v->own = y ? y->out : NULL;
  v->cut = 0;
  return y != NULL;
}

/* Each module registers a parameter of its own, also where both had one before. */
VRAM__FN void vram__rank_untie(vram__rank_cut *c) {
  const int64_t *of = vram__attr_find(c->words, VRAM__KEY_weights, NULL);
  const vram_node *lender = of ? c->node[((const vram_node *)(uintptr_t)*of)->index] : NULL;
  if (!lender)
    return;
  vram__rank_key_drop(c, VRAM__KEY_weights);
  vram__rank_key_set(c, VRAM__KEY_tied, (int64_t)(uintptr_t)lender);
}

static int vram__rank_colwise(vram__rank_cut *c, const vram_node *n, const vram__plan_role *role) {
  const int64_t out = n->out[0].d->v[n->out[0].d->ndim - 1],
                part = vram__rank_part(out, c->ranks, c->rank);
  vram_value *x = vram__rank_colwise_input(c, n, role);
  vram_node *y;
  if (!x)
    return 0;
  if (!part)
    return vram__rank_refuse(c, n, "fewer rows of a weight than ranks");
  vram__rank_keys(c, n);
  vram__rank_untie(c);
  vram__rank_key_set(c, VRAM__KEY_out_features, part);
  vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD(colwise));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  if (out % c->ranks)
    vram__rank_key_set(c, VRAM__KEY_whole, out);
  y = vram__rank_emit(c, n, n->op, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  return vram__rank_gather(c, n, y->out, role) && vram__rank_drop_input(c, n);
}

/* A table whose rows are cut: other ranks' indices are masked (_MaskPartial). */
static int vram__rank_table_rows(vram__rank_cut *c, const vram_node *n,
                                 const vram__plan_role *role) {
  const int64_t rows = VRAM__INT(n, num_embeddings, 0);
  vram_value *x = vram__rank_own(c, n, n->in[0]);
  vram_node *y;
  uint32_t axis;
  if (!x)
    return 0;
  vram__rank_keys(c, n);
  vram__rank_key_drop(c, VRAM__KEY_weights);
  vram__rank_key_set(c, VRAM__KEY_num_embeddings, vram__rank_part(rows, c->ranks, c->rank));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  vram__rank_key_set(c, VRAM__KEY_whole, rows);
  y = vram__rank_emit(c, n, VRAM_OP_embedding_shard, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  axis = vram__rank_sum_axis(c, n, role);
  if (role->module.len < vram__node_label(n).len) { /* what the module does with it is no sum */
    c->table = role->module;
    c->table_axis = axis;
    c->looked_up = y->out;
    axis = n->out[0].d->ndim;
  }
  return vram__rank_reduce(c, n, y->out, axis) && vram__rank_drop_input(c, n);
}

/* A table whose columns are cut. */
static int vram__rank_table_columns(vram__rank_cut *c, const vram_node *n,
                                    const vram__plan_role *role) {
  const int64_t all = VRAM__INT(n, embedding_dim, 0);
  vram_value *x = vram__rank_own(c, n, n->in[0]);
  vram_node *y;
  if (!x)
    return 0;
  if (all % c->ranks)
    return vram__rank_refuse(c, n, "columns of a table that the ranks do not divide");
  vram__rank_keys(c, n);
  vram__rank_key_set(c, VRAM__KEY_embedding_dim, all / c->ranks);
  vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD(colwise));
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  y = vram__rank_emit(c, n, n->op, &x, 1);
  if (!y)
    return 0;
  c->node[n->index] = y;
  return vram__rank_gather(c, n, y->out, role) && vram__rank_drop_input(c, n);
}

/* A linear layer or a table, cut as the plan has it. */
VRAM__FN int vram__rank_layer(vram__rank_cut *c, const vram_node *n, const vram__plan_role *role) {
  const int rowwise = role->style == VRAM__TP_ROWWISE;
  c->ncut++;
  if (n->op == VRAM_OP_embedding) {
    if (n->nin != 1 || c->value[n->in[0]->index].cut)
      return vram__rank_refuse(c, n,
                               "an embedding with a table of another node, or of indices that "
                               "are cut");
    return rowwise ? vram__rank_table_rows(c, n, role) : vram__rank_table_columns(c, n, role);
  }
  if (n->nin != 1 || vram__node_list(n, VRAM__KEY_lora, NULL) ||
      vram__node_list(n, VRAM__KEY_quant, NULL) || VRAM__INT(n, conv1d, 0))
    return vram__rank_refuse(c, n,
                             "tensor parallelism cuts linear layers with a weight of their "
                             "own, without adapters");
  return rowwise ? vram__rank_rowwise(c, n, role) : vram__rank_colwise(c, n, role);
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
