/* >>step/forward    forward over the nodes */
#include "step/step.h"

/* Inference leaves out a loss that `output` does not name, and what nothing but its targets needs.
   What the loss was made of is then what the caller keeps. */
VRAM__FN void vram__forward_leave_out(vram__step *s) {
  enum { USED = 1, TARGET = 2 };
  const vram_graph *g = s->g;
  const vram_node *n;
  uint8_t *value;
  uint32_t i;
  for (n = g->first; n && !(n->flags & VRAM__LOSS);)
    n = n->next;
  if (s->train || !n)
    return;
  s->skip = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, g->nnode);
  value = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, g->nvalue);
  if (!s->skip || !value) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(value, g->nvalue);
  for (n = g->last; n; n = n->prev) {
    int used = n->nout == 0, target = 0, skip;
    for (i = 0; i < n->nout; i++) {
      used |= (n->out[i].flags & VRAM__OUTPUT) || (value[n->out[i].index] & USED);
      target |= value[n->out[i].index] & TARGET;
    }
    skip = n->nout && !used && ((n->flags & VRAM__LOSS) || target);
    s->skip[n->index] = (uint8_t)skip;
    if (skip && s->root->node == n && n->nin)
      s->root = n->in[0];
    for (i = 0; i < n->nin && n->nout; i++)
      value[n->in[i]->index] |= skip ? (i || target ? TARGET : 0) : USED;
  }
  for (n = g->first; n; n = n->next) /* the end of lines that were left out */
    if (n->op == VRAM__OP_end)
      s->skip[n->index] = n->prev && s->skip[n->prev->index];
}

static void vram__report_node_name(vram__step *s, const vram_node *n) {
  vram_node_report *r = s->o->nodes + n->index;
  uint32_t i, own = 0;
  r->params = r->output_bytes = 0;
  r->dtype = VRAM_DTYPE_NONE;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n && n->param[i]->kind != VRAM__BUFFER)
      r->params += n->param[i]->d->numel;
  for (i = 0; i < n->nout; i++) {
    vram__tensor t = s->variable[s->name_of[n->out[i].index]].t;
    if (!i)
      r->dtype = t.dt;
    if (t.st) { /* a view of what the node made is its own too, once */
      t.st = (s->top - t.st)->base;
      if (t.st != own && (s->top - t.st)->node == n)
        r->output_bytes += (s->top - t.st)->bytes;
      own = t.st;
    }
  }
  r->live_bytes = s->count.requested;
}

/* Does n write to its first input? */
static int vram__storage_writes(const vram_node *n) {
  const uint16_t traits = vram__op_traits(n);
  if ((traits & VRAM__OP_DROPOUT) && !VRAM__INT(n, p, VRAM__ONE / 2))
    return 0;
  return (n->flags & VRAM__INPLACE) || (traits & VRAM__OP_WRITES);
}

/* b was written to by an operation that came after this record; saved: b was saved before it. */
static void vram__checkpoint_overwritten(vram__step *s, vram__storage *b, uint32_t newest,
                                         uint8_t saved) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  uint32_t i;
  b->writes = newest + 1;
  for (i = 0; s->cuts && s->phase == VRAM_PHASE_FORWARD && i < s->cuts->ncut; i++)
    if (s->cuts->cut[i].value && s->cuts->cut[i].id == b->id && b->id != UINT32_MAX)
      s->cuts->cut[i].bad = 1;
  if (saved || (own >> b->cat & 1)) /* own ones do not say whether they are saved */
    s->tape.stale = 1;
}

/* Runs the nodes from n up to `end`; gives the node where it stopped. */
VRAM__FN const vram_node *vram__forward_nodes(vram__step *s, const vram_node *n,
                                              const vram_node *end) {
  vram__tensor *x = s->args, *y = s->args + s->g->max_in + 8;
  vram_node_report *report = s->phase == VRAM_PHASE_FORWARD ? s->o->nodes : NULL;
  uint32_t i, first, newest;
  uint8_t saved;
  for (; n != end && !s->failed && !s->call.mute; n = n->next) {
    s->node = n;
    if (report)
      vram__memory_zero(report + n->index, sizeof *report);
    if (s->skip && s->skip[n->index])
      continue;
    if (n->op < VRAM_OP_COUNT) {
      for (i = 0; i < n->nin; i++) {
        vram__tensor *t = &s->variable[s->name_of[n->in[i]->index]].t;
        if (s->grad)
          vram__history_refresh(s, t);
        x[i] = *t;
      }
      newest = s->tape.last;
      first = n->nin ? x[0].st : 0;
      saved = first ? (s->top - (s->top - first)->base)->saved : 0;
      vram__forward_op(s, n, x, y);
      if (s->failed)
        return n; /* y may be anything */
      /* an op that hands its input on gives the same Python object one more name */
      if ((n->flags & VRAM__INPLACE) || (first && y[0].st == first)) {
        uint32_t r = s->name_of[n->in[0]->index];
        vram__variable *o = s->variable + r;
        vram__tensor old = o->t;
        int writes = y[0].st && vram__storage_writes(n);
        if (writes && (n->flags & VRAM__INPLACE))
          (s->top - (s->top - y[0].st)->base)->ver++;
        if (y[0].fn && y[0].fn != old.fn && y[0].st == old.st)
          vram__history_rebase(s, old, &y[0]);
        if (writes)
          vram__checkpoint_overwritten(s, s->top - (s->top - y[0].st)->base, newest, saved);
        o->t = y[0];
        vram__tensor_release(s, old);
        o->refs++;
        s->name_of[n->out[0].index] = r;
        i = 1;
      } else
        i = 0;
      for (; i < n->nout; i++)
        vram__variable_name(s, &n->out[i], y[i]);
    }
    if (report)
      vram__report_node_name(s, n);
    if (s->cuts && s->phase == VRAM_PHASE_FORWARD)
      vram__cuts_count_node(s, n);
    if (n->flags & VRAM_NODE_INNER)
      continue;
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->last == n->index) {
        uint32_t j;
        for (j = 0; j < i; j++)
          if (n->in[j] == n->in[i])
            break;
        if (j == i)
          vram__variable_unname(s, n->in[i]);
      }
    for (i = 0; i < n->nout; i++)
      if (n->out[i].last == n->index)
        vram__variable_unname(s, &n->out[i]);
  }
  return n;
}

VRAM__FN void vram__forward(vram__step *s) {
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  vram__checkpoint_parts(s, s->g->first, NULL, 0, s->call.nrange);
}

/* By value: the index of the node that uses it last; UINT32_MAX: outputs. */
VRAM__FN void vram__ranges_last_uses(const vram_graph *g, uint32_t *last) {
  const vram_node *n;
  uint32_t i;
  for (i = 0; i < g->nvalue; i++)
    last[i] = 0;
  for (n = g->first; n; n = n->next) {
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++)
      if (last[n->in[i]->index] != UINT32_MAX)
        last[n->in[i]->index] = n->index;
    for (i = 0; i < n->nout; i++)
      if ((n->out[i].flags & VRAM__OUTPUT) || &n->out[i] == g->root)
        last[n->out[i].index] = UINT32_MAX;
  }
}
