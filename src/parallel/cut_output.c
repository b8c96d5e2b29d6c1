/* >>parallel/cut_output    what a module gives is laid out anew where it returns */
#include "parallel/cut.h"

/* Is the node one of the module's? */
VRAM__FN int vram__output_is_inside(const vram_node *n, vram__span module) {
  const vram__span name = vram__node_label(n);
  return name.len >= module.len && (name.len == module.len || name.text[module.len] == '.') &&
         vram__text_equal(name.text, module.text, module.len);
}

/* Does a node outside of the module read what n gives? */
static int vram__output_leaves(const vram_node *n, vram__span module) {
  const vram_node *m;
  uint32_t i;
  for (m = n->next; m && m->index <= n->out[0].last; m = m->next)
    for (i = 0; m->op < VRAM_OP_COUNT && i < m->nin; i++)
      if (m->in[i] == &n->out[0] && !vram__output_is_inside(m, module))
        return 1;
  return 0;
}

/* The result of node n, cut along this axis; its number of axes: replicated. */
static int vram__output_redistribute(vram__rank_cut *c, const vram_node *n, uint32_t axis) {
  vram__rank_value *v = c->value + n->out[0].index;
  vram_value *own = vram__rank_own(c, n, &n->out[0]);
  const int64_t size = axis < n->out[0].d->ndim ? n->out[0].d->v[axis] : 0;
  const uint32_t from = v->cut ? v->cut - 1u : n->out[0].d->ndim;
  vram_node *y;
  if (!own || from == axis)
    return own != NULL;
  if (axis > n->out[0].d->ndim || (v->cut && axis < n->out[0].d->ndim))
    return vram__rank_refuse(c, n, "a value that goes from one axis to another");
  vram__rank_keys_none(c);
  vram__rank_key_set(c, VRAM__KEY_dim, (int64_t)(v->cut ? from : axis));
  if (!v->cut)
    vram__rank_key_set(c, VRAM__KEY_length, vram__rank_part(size, c->ranks, c->rank));
  else {
    if (n->out[0].d->v[from] % c->ranks)
      vram__rank_key_set(c, VRAM__KEY_whole, n->out[0].d->v[from]);
    vram__rank_key_set(c, VRAM__KEY_gradient, VRAM__WORD(replicated));
  }
  y = vram__rank_collective(c, n, v->cut ? VRAM_OP_all_gather : VRAM_OP_shard, own,
                            v->cut ? ".all_gather" : ".shard");
  v->own = y ? y->out : NULL;
  v->is_sequence = !v->cut;
  v->cut = (uint8_t)(v->cut ? 0 : axis + 1);
  return y != NULL;
}

/* Does the module of a table go on with what the lookup gave, in node n? */
static int vram__output_goes_on(const vram__rank_cut *c, const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    if (n->in[i]->node && n->in[i]->node->op == VRAM_OP_embedding &&
        vram__output_is_inside(n->in[i]->node, c->table))
      return vram__output_is_inside(n, c->table);
  return 0;
}

/* Where node n ends a module: PrepareModuleOutput, or the layout of a table whose module goes on
   behind the lookup. 0: an error. */
VRAM__FN int vram__rank_module_output(vram__rank_cut *c, const vram_node *n) {
  vram__span module = c->table;
  const vram__tp_word *w;
  int8_t to = VRAM__LAYOUT_REPLICATE;
  if (n->op >= VRAM_OP_COUNT || !n->nout)
    return 1;
  if (c->looked_up && vram__output_goes_on(c, n)) {
    vram_value *drop = c->looked_up;
    c->looked_up = NULL;
    if (!vram__node_lifetime(c->g, VRAM__OP_drop, &drop, 1))
      return 0;
  }
  if (c->table.len && vram__output_is_inside(n, c->table) && vram__output_leaves(n, c->table))
    return vram__output_redistribute(c, n, c->table_axis);
  w = c->plan ? vram__plan_around(c, n, VRAM__TP_OUTPUT, &module) : NULL;
  if (!w || !vram__output_leaves(n, module))
    return 1;
  if (w->desired != VRAM__LAYOUT_UNSAID)
    to = w->desired;
  return vram__output_redistribute(c, n, vram__rank_axis(to, n->out[0].d->ndim));
}
