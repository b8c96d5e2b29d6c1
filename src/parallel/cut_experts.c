/* >>parallel/cut_experts    expert parallelism: each rank has a part of the experts, and their rows
   of all ranks (all_to_all_single_autograd around the experts) */
#include "parallel/cut.h"

/* A weight with an axis of experts: what batches of rows are multiplied with. */
static int vram__rank_is_weight(const vram_value *v) {
  return v->node && v->node->op == VRAM_OP_parameter && v->d->ndim == 3;
}

static int vram__rank_multiplies(const vram_node *n) {
  return (n->op == VRAM_OP_bmm || n->op == VRAM_OP_matmul) && n->nin == 2 &&
         vram__rank_is_weight(n->in[1]);
}

static int vram__rank_is_view(const vram_node *n) {
  return n->op == VRAM_OP_view || n->op == VRAM_OP_reshape;
}

/* The view that gives experts their rows: some product with experts reads it. */
static int vram__rank_gives_rows(const vram_node *n) {
  const vram_node *m;
  if (!vram__rank_is_view(n) || n->out[0].d->ndim != 3)
    return 0;
  for (m = n->next; m && m->index <= n->out[0].last; m = m->next)
    if (m->op < VRAM_OP_COUNT && vram__rank_multiplies(m) && m->in[0] == &n->out[0])
      return 1;
  return 0;
}

/* Does this node belong to experts? */
VRAM__FN int vram__rank_is_expert(const vram__rank_cut *c, const vram_node *n) {
  uint32_t i;
  if (n->op == VRAM_OP_parameter && vram__rank_is_weight(n->out)) {
    const vram_node *m = n->next;
    while (m && !(m->op < VRAM_OP_COUNT && vram__rank_multiplies(m) && m->in[1] == n->out))
      m = m->next;
    return m != NULL;
  }
  for (i = 0; i < n->nin; i++)
    if (c->value[n->in[i]->index].experts)
      return 1;
  return vram__rank_gives_rows(n);
}

/* shape= of a view that stands for itself. */
static void vram__rank_shape(vram__rank_cut *c, uint32_t n, const int64_t *size) {
  uint32_t i;
  c->keys.words = c->words;
  c->keys.room = 1000;
  c->words[0] = (int64_t)(VRAM__KEY_shape | n << 8);
  for (i = 0; i < n; i++)
    c->words[1 + i] = size[i];
  c->keys.count = 1 + n;
  c->words[c->keys.count] = 0;
}

/* x as [a,b,...], its first two axes in each other's place, as a matrix or a batch of them. */
static vram_value *vram__rank_swap(vram__rank_cut *c, const vram_node *n, vram_value *x,
                                   const int64_t *split, const int64_t *to, uint32_t nto) {
  vram_node *y;
  vram__rank_shape(c, 4, split);
  y = vram__rank_collective(c, n, VRAM_OP_view, x, ".view");
  if (!y)
    return NULL;
  vram__rank_keys_none(c);
  vram__rank_key_set(c, VRAM__KEY_dim0, 0);
  vram__rank_key_set(c, VRAM__KEY_dim1, 1);
  y = vram__rank_collective(c, n, VRAM_OP_transpose, y->out, ".transpose");
  if (!y)
    return NULL;
  vram__rank_shape(c, nto, to);
  y = vram__rank_collective(c, n, VRAM_OP_reshape, y->out, ".reshape");
  return y ? y->out : NULL;
}

/* Rows of all experts become those of this rank's, from all ranks. */
static int vram__rank_rows_come(vram__rank_cut *c, const vram_node *n) {
  const vram_dims *d = n->out[0].d;
  vram__rank_value *v = c->value + n->out[0].index, *x = c->value + n->in[0]->index;
  vram_value *own = vram__rank_own(c, n, n->in[0]);
  const int64_t split[4] = {c->ranks, d->v[0] / c->ranks, d->v[1], d->v[2]},
                to[3] = {d->v[0] / c->ranks, d->v[1] * c->ranks, d->v[2]};
  vram_node *y;
  if (!own)
    return 0;
  if (d->v[0] % c->ranks || own->d->ndim != 2 || own->d->v[0] != d->v[0] * d->v[1])
    return vram__rank_refuse(c, n, "experts that the ranks do not divide, or rows in another form");
  vram__rank_keys_none(c);
  y = vram__rank_collective(c, n, VRAM_OP_all_to_all, own, ".all_to_all");
  if (!y)
    return 0;
  v->own = y->out;
  v->flight = y->out + 1;
  if (n->in[0]->node)
    x->gone = 1;
  own = vram__rank_own(c, n, &n->out[0]);
  v->own = own ? vram__rank_swap(c, n, own, split, to, 3) : NULL;
  v->experts = 1;
  c->ncut++;
  return v->own != NULL;
}

/* And back: who reads them waits. */
static int vram__rank_rows_go(vram__rank_cut *c, const vram_node *n) {
  vram__rank_value *v = c->value + n->out[0].index, *x = c->value + n->in[0]->index;
  const vram_dims *d = n->in[0]->d; /* [experts, rows, features] */
  const int64_t split[4] = {d->v[0] / c->ranks, c->ranks, d->v[1], d->v[2]},
                to[2] = {d->v[0] * d->v[1], d->v[2]};
  vram_value *y = vram__rank_swap(c, n, x->own, split, to, 2);
  vram_node *all;
  if (!y)
    return 0;
  vram__rank_keys_none(c);
  all = vram__rank_collective(c, n, VRAM_OP_all_to_all, y, ".all_to_all");
  if (!all || !vram__node_lifetime(c->g, VRAM__OP_drop, &x->own, 1))
    return 0;
  x->gone = 1;
  v->flight = all->out + 1;
  vram__rank_keys(c, n);
  y = all->out;
  all = vram__rank_emit(c, n, n->op, &y, 1);
  v->own = all ? all->out : NULL;
  c->node[n->index] = all;
  return v->own != NULL;
}

/* Node n of experts, on what this rank has. 0: an error. */
VRAM__FN int vram__rank_experts(vram__rank_cut *c, const vram_node *n) {
  vram_value *in[8];
  vram_node *y;
  uint32_t i;
  if (n->op != VRAM_OP_parameter && vram__rank_gives_rows(n))
    return vram__rank_rows_come(c, n);
  if (vram__rank_is_view(n))
    return vram__rank_rows_go(c, n);
  vram__rank_keys(c, n);
  if (n->op == VRAM_OP_parameter) {
    const int64_t size[3] = {n->out[0].d->v[0] / c->ranks, n->out[0].d->v[1], n->out[0].d->v[2]};
    if (n->out[0].d->v[0] % c->ranks)
      return vram__rank_refuse(c, n, "experts that the ranks do not divide");
    vram__rank_key_drop(c, VRAM__KEY_shape);
    for (i = c->keys.count + 4; i-- > 4;)
      c->words[i] = c->words[i - 4];
    c->words[0] = (int64_t)(VRAM__KEY_shape | 3u << 8);
    for (i = 0; i < 3; i++)
      c->words[1 + i] = size[i];
    c->keys.count += 4;
    c->words[c->keys.count] = 0;
    vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD(expert));
  }
  if (n->nin > 8 || n->nout != 1)
    return vram__rank_refuse(c, n, "an op of experts that is not known");
  for (i = 0; i < n->nin; i++) {
    in[i] = vram__rank_own(c, n, n->in[i]);
    if (!in[i])
      return 0;
  }
  y = vram__rank_emit(c, n, n->op, in, n->nin);
  if (!y)
    return 0;
  c->node[n->index] = y;
  c->value[n->out[0].index].own = y->out;
  c->value[n->out[0].index].experts = n->op != VRAM_OP_parameter;
  return 1;
}
