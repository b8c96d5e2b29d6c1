/* >>parallel/crossing    what goes from one stage to the next */
#include "parallel/parts.h"

/* Values made before `edge` that a node from it on uses; to NULL: they are counted. */
static uint32_t vram__look_crossing(const vram_graph *g, const vram_node *edge,
                                    const uint32_t *last, const vram__step *t, vram__handover *to) {
  const vram_node *n;
  uint32_t i, count = 0;
  for (n = g->first; n != edge; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nout; i++) {
      const vram_value *v = n->out + i;
      if (last[v->index] < edge->index || (vram__op_traits(n) & VRAM__OP_PARAM))
        continue;
      if (to) {
        const vram__tensor x = t->variable[t->name_of[v->index]].t;
        to[count].value = v;
        to[count].d = v->d;
        to[count].dt = x.dt;
        to[count].grad = vram__dtype_is_float(x.dt) && (t->device.rules->does & VRAM__PIPE_WANTS ||
                                                        vram__tensor_wants_grad(t, x));
      }
      count++;
    }
  return count;
}

/* What crosses at `edge`, as it is when the whole model has run up to there. */
static const vram__handover *vram__look_at(vram__pipe *p, vram__step *t, const vram_node **at,
                                           const vram_node *edge, const uint32_t *last,
                                           uint32_t *count) {
  vram__handover *to;
  uint32_t i;
  if (!edge)
    return NULL;
  if ((*at)->index < edge->index)
    vram__forward_nodes(t, *at, edge);
  *at = edge;
  if (t->failed) {
    vram__pipe_fail(p, (vram_result)t->failed, t->problem);
    return NULL;
  }
  *count = vram__look_crossing(p->whole, edge, last, t, NULL);
  to = (vram__handover *)vram__pipe_take(p, (*count + UINT64_C(1)) * sizeof *to);
  if (to)
    vram__look_crossing(p->whole, edge, last, t, to);
  for (i = 0; to && i < *count; i++)
    if (p->parallel->crossing && vram__dtype_is_float(to[i].dt))
      to[i].dt = p->parallel->crossing;
  return to;
}

/* The first stage's fully_shard casts what it is given; the pass that looks has no units. */
static void vram__look_cast_inputs(vram__step *t, const vram_graph *g, const vram_parallel *p) {
  uint32_t i;
  for (i = 0; t->compute && p->cast_forward_inputs && i < g->ninput; i++) {
    vram__tensor *x = &t->variable[t->name_of[g->input[i]->index]].t;
    if (vram__dtype_is_float(x->dt))
      x->dt = t->compute;
  }
}

/* The dtypes of what crosses, which autocast decides: the whole model's forward pass tells. */
VRAM__FN int vram__pipe_look(vram__pipe *p, const vram_step_options *o, void *scratch,
                             uint64_t bytes) {
  const vram_graph *g = p->whole;
  const vram_node *at = g->first, *n;
  vram_step_options quiet;
  vram_report report;
  vram__step t;
  uint32_t *last, i, k;
  last = (uint32_t *)vram__pipe_take(p, g->nvalue * (uint64_t)sizeof *last);
  if (!last)
    return 0;
  for (i = 0; i < g->nvalue; i++)
    last[i] = 0;
  for (n = g->first; n; n = n->next)
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++)
      last[n->in[i]->index] = n->index;
  vram__part_options(&quiet, p, o);
  if (!vram__part_step(&t, p, g, &quiet, scratch, bytes, &report))
    return 0;
  if (t.compute && g->dtype)
    t.dtype = t.compute;
  vram__look_cast_inputs(&t, g, p->parallel);
  t.phase = VRAM_PHASE_FORWARD;
  t.cat = VRAM_CATEGORY_ACTIVATIONS;
  t.grad = 1;
  for (k = 0; k < p->local && !p->failed; k++) {
    vram__pipe_stage *s = p->stage + k;
    uint32_t next;
    /* stages of a rank are in order, and so are their edges */
    if (!s->is_first)
      s->in = vram__look_at(p, &t, &at, s->lo, last, &s->nin);
    s->out = vram__look_at(p, &t, &at, s->is_last ? s->loss : s->hi, last, &next);
    s->nout = s->out ? next : 0;
  }
  return !p->failed;
}
