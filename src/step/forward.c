/* >>step/forward    forward over the nodes */
#include "step/step.h"

/* What inference gives is named: what else the outputs need is left out, inputs, too. Branches that
   end nowhere run, as they do in the program. */
static void vram__forward_leave_out_outputs(vram__step *s, uint8_t *value) {
  enum { GIVEN = 1, OUTPUT = 2 };
  const vram_graph *g = s->g;
  const vram_node *n;
  uint32_t i;
  for (n = g->last; n; n = vram__node_before(n)) {
    uint8_t wanted = 0;
    for (i = 0; i < n->nout; i++) {
      const vram_value *v = &n->out[i];
      wanted |= value[v->index] | (v->flags & VRAM__INFERRED ? GIVEN : 0) |
                ((v->flags & VRAM__OUTPUT) || v == g->root ? OUTPUT : 0);
    }
    for (i = 0; i < n->nin && n->nout; i++)
      value[n->in[i]->index] |= wanted;
    if (n->op == VRAM__OP_end && n->nin) /* of lines: its last input is what they give */
      wanted = value[n->in[n->nin - 1]->index];
    s->skip[n->index] = wanted == OUTPUT;
    for (i = 0; i < n->nout && wanted == OUTPUT; i++) {
      s->name_of[n->out[i].index] = n->out[i].index;
      s->variable[n->out[i].index].refs = 0;
    }
  }
  for (i = 0; i < g->ninput; i++)
    s->skip[g->nnode + i] = value[g->input[i]->index] == OUTPUT;
  s->root = g->inferred;
}

/* Inference leaves out a loss that `output` does not name, and what nothing but its targets needs.
   What the loss was made of is then what the caller keeps. */
VRAM__FN void vram__forward_leave_out(vram__step *s) {
  enum { USED = 1, TARGET = 2 };
  const vram_graph *g = s->g;
  const vram_node *n;
  uint8_t *value;
  uint32_t i;
  if (s->train)
    return;
  for (n = g->first; n && !(n->flags & VRAM__LOSS) && !g->inferred;)
    n = n->next;
  if (!n)
    return;
  s->skip = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, g->nnode + (uint64_t)g->ninput);
  value = (uint8_t *)vram__memory_take(s->mem, &s->used, s->cap, g->nvalue);
  if (!s->skip || !value) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(value, g->nvalue);
  if (g->inferred) {
    vram__forward_leave_out_outputs(s, value);
    return;
  }
  for (n = g->last; n; n = vram__node_before(n)) {
    int used = n->nout == 0, target = 0, skip;
    for (i = 0; i < n->nout; i++) {
      used |= (n->out[i].flags & VRAM__OUTPUT) || (value[n->out[i].index] & USED);
      target |= value[n->out[i].index] & TARGET;
    }
    skip = n->nout && !used && ((n->flags & VRAM__LOSS) || target);
    s->skip[n->index] = (uint8_t)skip;
    for (i = 0; skip && i < n->nout; i++)
      s->name_of[n->out[i].index] = g->nvalue; /* nobody's object */
    if (skip && s->root->node == n && n->nin)
      s->root = n->in[0];
    for (i = 0; i < n->nin && n->nout; i++)
      value[n->in[i]->index] |= skip ? (i || target ? TARGET : 0) : USED;
  }
  for (n = g->first; n; n = n->next) /* the end of lines that were left out */
    if (n->op == VRAM__OP_end)
      s->skip[n->index] = n->index && s->skip[n->index - 1];
}

static void vram__report_node_name(vram__step *s, const vram_node *n) {
  vram_node_report *r = s->o->nodes + n->index;
  uint32_t i, own = 0;
  uint64_t weight;
  r->params = r->trainable = r->output_bytes = 0;
  r->dtype = VRAM_DTYPE_NONE;
  for (i = 0; i < n->nparam; i++) {
    const vram_param *p = n->param[i];
    if (!p || p->node != n || p->kind == VRAM__BUFFER)
      continue;
    r->params += vram__param_quantised(p, &weight) ? weight : p->d->numel;
    if (p->kind == VRAM__PARAM)
      r->trainable += p->d->numel;
  }
  for (i = 0; i < n->nout; i++) {
    vram__tensor t = s->variable[s->name_of[n->out[i].index]].t;
    if (!i)
      r->dtype = t.dt;
    if (t.st) { /* a view of what the node made is its own too, once */
      t.st = vram__slot_at(s, t.st)->base;
      if (t.st != own && vram__slot_at(s, t.st)->node == n)
        r->output_bytes += vram__slot_at(s, t.st)->bytes;
      own = t.st;
    }
  }
  r->live_bytes = s->count.requested;
}

/* Does n, which may, write to its first input? */
static int vram__storage_writes(const vram_node *n) {
  return !(vram__op_traits(n) & VRAM__OP_DROPOUT) || VRAM__INT(n, p, VRAM__ONE / 2) != 0;
}

static VRAM__COLD void vram__cuts_overwritten(vram__step *s, const vram__storage *b) {
  uint32_t i;
  for (i = 0; s->phase == VRAM_PHASE_FORWARD && i < s->cuts->ncut; i++)
    if (s->cuts->cut[i].value && s->cuts->cut[i].id == b->id && b->id != UINT32_MAX)
      s->cuts->cut[i].bad = 1;
}

/* b was written to by an operation that came after this record; saved: b was saved before it. */
static inline void vram__checkpoint_overwritten(vram__step *s, vram__storage *b, uint32_t newest,
                                                uint8_t saved) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  b->writes = newest + 1;
  if (s->cuts)
    vram__cuts_overwritten(s, b);
  if (saved || (own >> b->cat & 1)) /* own ones do not say whether they are saved */
    s->tape.stale = 1;
}

/* What was in the storage of a node's first input before the node ran. */
typedef struct vram__overwrite {
  uint32_t st;     /* slot of the input, */
  uint32_t fn;     /* its history */
  uint32_t newest; /* record of the tape */
  uint8_t saved;
} vram__overwrite;

/* The op handed its input on, perhaps with other numbers: the same Python object has one more name.
 */
static void vram__forward_same(vram__step *s, const vram_node *n, const vram__tensor *y,
                               const vram__overwrite *before) {
  const uint32_t r = s->name_of[n->in[0]->index];
  vram__variable *o = s->variable + r;
  const vram__tensor old = o->t, now = *y;
  const uint32_t fn = vram__tensor_fn(s, now);
  vram__storage *b = vram__owner_at(s, now.st);
  const int writes = now.st && (n->flags & VRAM__WRITES) && vram__storage_writes(n);
  if (writes && (n->flags & VRAM__INPLACE))
    b->ver++;
  if (fn && fn != before->fn && now.st == old.st)
    vram__history_rebase(s, &now, before->fn);
  if (writes)
    vram__checkpoint_overwritten(s, b, before->newest, before->saved);
  o->t = now;
  vram__tensor_release(s, old);
  o->refs++;
  s->name_of[n->out[0].index] = r;
}

/* What goes into a unit is an output of RegisterPostBackwardFunction, which gives it as it is. */
static VRAM__COLD void vram__refuse_unit_input(vram__step *s, const vram_node *n, uint32_t fn) {
  if (vram__is_grad_fn(fn) && vram__grad_fn_at(s, fn)->kind == VRAM__K_unit)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "Output of RegisterPostBackwardFunction is a view and is being modified "
                      "inplace: fully_shard hands what goes into a unit on as it is");
}

/* One op: its inputs are the variables of now, its outputs get names. */
static inline void vram__forward_node(vram__step *s, const vram_node *n) {
  vram__tensor *const x = s->args, *const y = s->results;
  const uint8_t grad = s->grad;
  const vram_dtype amp = s->amp;
  vram__overwrite before;
  uint32_t i = 0;
  for (i = 0; i < n->nin; i++) {
    vram__tensor *t = &s->variable[s->name_of[n->in[i]->index]].t;
    if (s->grad)
      vram__history_refresh(s, t);
    x[i] = *t;
  }
  if (s->inplace && n->nin)
    vram__inplace_ask(s, n, x[0]);
  before.st = n->nin ? x[0].st : 0;
  before.fn = vram__slot_at(s, before.st)->fn;
  before.newest = s->tape.last;
  before.saved = 0;
  if ((n->flags & VRAM__INPLACE) && n->op != VRAM_OP_index_put && vram__storage_writes(n))
    vram__refuse_overlap(s, x[0].d);
  if ((n->flags & VRAM__INPLACE) && s->outside && vram__storage_writes(n))
    vram__refuse_unit_input(s, n, before.fn);
  if (n->flags & VRAM__WRITES)
    before.saved = before.st ? vram__owner_at(s, before.st)->saved : 0;
  if (n->flags & VRAM__NO_GRAD)
    s->grad = 0;
  if (n->autocast) /* the cache of casts stays as it is */
    s->amp = n->autocast == VRAM__AUTOCAST_OFF ? VRAM_DTYPE_NONE : (vram_dtype)n->autocast;
  vram__forward_op(s, n, x, y);
  s->grad = grad;
  s->amp = amp;
  if (s->failed)
    return; /* y may be anything */
  i = 0;
  if ((n->flags & VRAM__INPLACE) || (before.st && y[0].st == before.st)) {
    vram__forward_same(s, n, y, &before);
    i = 1;
  }
  for (; i < n->nout; i++)
    vram__variable_name(s, &n->out[i], y[i]);
}

/* Values that nothing behind n uses lose their name; parameters and buffers keep theirs where calls
   of checkpoint() may use them again. */
static inline void vram__forward_unname(vram__step *s, const vram_node *n) {
  uint32_t i, j;
  for (i = 0; i < n->nin; i++) {
    const vram_value *v = n->in[i];
    if (v->last != n->index ||
        (s->outside && (!v->node || v->node->index + 1 < s->outside) && !vram__value_is_flight(v)))
      continue; /* of a unit's caller: it goes when the unit has returned */
    for (j = 0; j < i && n->in[j] != v;)
      j++;
    if (j == i && !(s->call.nrange && vram__step_is_captured(v)))
      vram__variable_unname(s, v);
  }
  for (i = 0; i < n->nout; i++)
    if (n->out[i].last == n->index)
      vram__variable_unname(s, &n->out[i]);
}

/* Before node n runs where the caller wants reports, a chain is cut or nodes are left out. 0: it is
   one of those. */
static VRAM__APART int vram__forward_begin(vram__step *s, const vram_node *n) {
  if (s->o->nodes && s->phase == VRAM_PHASE_FORWARD)
    vram__memory_zero(s->o->nodes + n->index, sizeof *s->o->nodes);
  if (s->wrapper && s->wrapper->node_begin)
    s->wrapper->node_begin(s, n);
  return !s->skip || !s->skip[n->index];
}

/* After it. Where the step asks for no autocast, the program's own context and its cache end. */
static VRAM__APART void vram__forward_end(vram__step *s, const vram_node *n) {
  if (s->g->autocast_own && !s->o->amp && n->autocast && (!n->next || !n->next->autocast))
    vram__autocast_leave(s);
  if (s->wrapper && s->wrapper->node_end)
    s->wrapper->node_end(s, n);
  if (s->phase != VRAM_PHASE_FORWARD)
    return;
  if (s->o->nodes)
    vram__report_node_name(s, n);
  if (s->cuts)
    vram__cuts_count_node(s, n);
}

/* Is gradient checkpointing on? Calls around the loss alone are the program's own. */
static int vram__forward_has_checkpoints(const vram__step *s) {
  const vram_node *n;
  uint32_t i;
  for (i = 0; i < s->call.nrange; i++) {
    const vram__range *r = s->call.range + i;
    int loss = 0;
    for (n = r->first; n && n->index <= r->last->index; n = n->next)
      loss |= (vram__op_traits(n) & VRAM__OP_LOSS) != 0;
    if (!loss)
      return 1;
  }
  return 0;
}

/* A `requires_grad` line. */
static void vram__requires_grad_line(vram__step *s, const vram_node *n) {
  uint32_t i;
  if ((n->flags & VRAM__CHECKPOINTED) && !vram__forward_has_checkpoints(s))
    return;
  for (i = 0; i < n->nin && !s->failed; i++) {
    vram__tensor *t = &s->variable[s->name_of[n->in[i]->index]].t;
    if (s->name_of[n->in[i]->index] == s->g->nvalue)
      continue; /* inference leaves it out */
    if (s->grad)
      vram__history_refresh(s, t);
    vram__leaf_make(s, *t);
  }
}

/* What backward runs again: not an operation whose inputs were the last that had to be saved. */
static void vram__recomputed(vram__step *s, const vram_node *n) {
  if (!s->call.mute || (s->call.frame && s->call.frame->late))
    s->r->recomputed_flops = vram__sum_or_overflow(s->r->recomputed_flops, vram_node_flops(n));
}

/* Runs the nodes from n up to `end`; gives the node where it stopped. */
VRAM__FN const vram_node *vram__forward_nodes(vram__step *s, const vram_node *n,
                                              const vram_node *end) {
  const int unusual = s->o->nodes || s->cuts || s->skip || s->g->autocast_own ||
                      (s->wrapper && s->wrapper->node_begin);
  const int once = s->layers != NULL;
  for (; n != end && !s->failed && !s->call.mute; n = n->next) {
    if (once)
      n = vram__layers_forward(s, n);
    s->node = n;
    if (unusual && !vram__forward_begin(s, n)) {
      if (s->g->inferred && !(n->flags & VRAM_NODE_INNER))
        vram__forward_unname(s, n);
      continue;
    }
    if (n->op < VRAM_OP_COUNT) {
      vram__forward_node(s, n);
      if (s->phase == VRAM_PHASE_BACKWARD)
        vram__recomputed(s, n);
    } else if (n->op == VRAM__OP_keep)
      vram__keep_line(s, n);
    else if (n->op == VRAM__OP_store)
      vram__store_line(s, n);
    else if (n->op == VRAM__OP_requires_grad)
      vram__requires_grad_line(s, n);
    else if (n->op >= VRAM__OP_backward && n->op <= VRAM__OP_step && s->train)
      vram__training_line(s, n);
    else if (n->op == VRAM__OP_freeze || n->op == VRAM__OP_unfreeze)
      vram__freeze_line(s, n);
    if (s->failed)
      return n;
    if (unusual)
      vram__forward_end(s, n);
    if (!(n->flags & VRAM_NODE_INNER))
      vram__forward_unname(s, n);
  }
  return n;
}

/* The ranges from `at` that begin before the node `end`, whose first is then given. */
VRAM__FN uint32_t vram__ranges_before(const vram__step *s, uint32_t at, const vram_node *end) {
  while (at < s->call.nrange && (!end || s->call.range[at].first->index < end->index))
    at = s->call.range[at].behind;
  return at;
}

/* Does the module return v? */
VRAM__FN int vram__module_returns(const vram_graph *g, const vram_value *v) {
  uint32_t i;
  if (!g->returned)
    return (v->flags & VRAM__OUTPUT) || v == g->root;
  for (i = 0; i < g->nresult && g->result[i] != v;)
    i++;
  return i < g->nresult;
}

/* The module up to the node `end`, then what its caller does. */
static void vram__forward_module(vram__step *s, const vram_node *end) {
  const uint32_t behind = vram__ranges_before(s, 0, end);
  if (s->wrapper && s->wrapper->forward)
    s->wrapper->forward(s, end);
  else
    vram__checkpoint_parts(s, s->g->first, end, 0, behind);
  VRAM__WRAPPER_DO(s, forward_end);
  if (end && !s->failed)
    vram__checkpoint_parts(s, end, NULL, behind, s->call.nrange);
}

VRAM__FN void vram__forward(vram__step *s) {
  if (s->g->nfrozen)
    vram__unfreeze_all(s);
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  if (s->layers)
    vram__layers_begin(s);
  vram__forward_module(s, s->g->returned ? s->g->returned->next : NULL);
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
