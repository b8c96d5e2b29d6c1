/* >>step/epoch    what comes behind a step: one with the last batch of an epoch, an evaluation */
#include "step/step.h"

static int vram__nodes_alike(const vram_node *a, const vram_node *b) {
  while (a && b && a->op == b->op && a->nin == b->nin && a->nout == b->nout) {
    a = a->next;
    b = b->next;
  }
  return a == b; /* both at their end */
}

/* Are both the same model, whatever its inputs' sizes are? */
static int vram__graphs_alike(const vram_graph *a, const vram_graph *b) {
  const vram_param *p = a->param_first, *q = b->param_first;
  uint32_t i;
  if (a->nnode != b->nnode || a->nvalue != b->nvalue || a->nparam != b->nparam ||
      a->ninput != b->ninput || a->nkept != b->nkept || a->nmade != b->nmade)
    return 0;
  for (; p; p = p->next, q = q->next) {
    if (p->kind != q->kind || p->dtype != q->dtype || p->d->ndim != q->d->ndim)
      return 0;
    for (i = 0; i < p->d->ndim; i++)
      if (p->d->v[i] != q->d->v[i])
        return 0;
  }
  return vram__nodes_alike(a->first, b->first);
}

/* Why these options do not go together, or NULL. */
VRAM__FN const char *vram__epoch_misuse(const vram_graph *g, const vram_step_options *o) {
  const vram_graph *const other[3] = {o->last_batch, o->evaluation, o->dry_run};
  static const char *const differs[3] = {
      "the last batch is not one of this model: its nodes or parameters differ",
      "the model that is evaluated is not the one that is trained: its nodes or parameters differ",
      "the model of the dry run is not the one that is trained: its nodes or parameters differ",
  };
  uint32_t i;
  if (!o->train)
    return NULL;
  if (vram__pipe_is(o) && (o->last_batch || o->evaluation || o->dry_run))
    return "a last batch, an evaluation or a dry run of a pipeline is not played yet";
  if (o->zero_grad_end && (o->keep_grads || o->zero_grad_late || g->nzero_grad))
    return "zero_grad() behind the optimizer's step goes with no other zero_grad()";
  if (o->zero_grad_end && vram__in_backward_is(o))
    return "an optimizer in backward leaves no gradients to zero";
  if (o->last_batch && o->first_step)
    return "a first step has no last batch of an epoch behind it (expected a steady step)";
  if (o->dry_run && (g->nkept || g->nbackward || g->rnn_dropout))
    return "a dry run goes with no `keep` and no `backward` line and no recurrent net with dropout";
  for (i = 0; i < 3; i++)
    if (other[i] && (other[i]->error.code || !other[i]->root || !vram__graphs_alike(g, other[i])))
      return differs[i];
  for (i = 0; o->last_batch && i < g->ninput; i++)
    if (o->last_batch->input[i]->d->numel > g->input[i]->d->numel)
      return "the last batch of an epoch is larger than the others";
  return NULL;
}

/* The inputs are of that graph now; what they lie on stays. */
VRAM__FN void vram__epoch_batch(vram__step *s, const vram_graph *g) {
  uint32_t i;
  s->g = g;
  s->root = g->root;
  s->call.nrange = s->call.own_args = 0;
  vram__calls_find(s);
  for (i = 0; i < g->ninput && !s->failed; i++) {
    const vram_value *v = g->input[i];
    vram__tensor t = s->variable[v->index].t;
    t.d = v->d;
    if (t.st) {
      vram__storage *st = vram__slot_at(s, t.st);
      st->d = v->d;
      if (st->fn & VRAM__LEAF)
        s->leaf.at[st->fn & ~VRAM__LEAF].d = v->d;
    }
    vram__variable_name(s, v, t);
  }
}

/* What is named goes: the inputs, then the results. */
static void vram__evaluation_unname(vram__step *s) {
  const vram_graph *g = s->g;
  const vram_node *n;
  uint32_t i;
  for (i = 0; i < g->ninput; i++) {
    vram__variable *v = s->variable + g->input[i]->index;
    if (v->refs)
      vram__tensor_release(s, v->t);
    v->refs = 0;
  }
  for (n = g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++) {
      vram__variable *v = s->variable + s->name_of[n->out[i].index];
      if (s->name_of[n->out[i].index] == g->nvalue)
        continue;
      if (v->refs)
        vram__tensor_release(s, v->t);
      v->refs = 0;
    }
}

/* with torch.no_grad(): model(x), in a function of its own. */
static void vram__evaluation_play(vram__step *s) {
  const vram_graph *g = s->g;
  uint32_t i;
  vram__forward_leave_out(s);
  for (i = 0; i < g->nvalue && !s->failed; i++)
    s->variable[i].refs = 0;
  s->cat = VRAM_CATEGORY_INPUTS;
  for (i = 0; i < g->ninput && !s->failed; i++) {
    const vram_value *v = g->input[i];
    const vram_dtype dt = v->flags & VRAM__OF_MODEL ? s->dtype : v->dtype;
    if (!(s->skip && g->inferred && s->skip[g->nnode + i]))
      vram__variable_name(s, v, vram__tensor_empty(s, v->d, dt));
  }
  if (s->failed)
    return;
  vram__forward(s);
  vram__autocast_leave(s);
  if (!s->failed)
    vram__evaluation_unname(s);
  if (s->leaf.nmade && !s->failed)
    vram__leaves_settle(s);
}

/* model(x) with what backward would need, which goes at once. */
VRAM__FN void vram__dry_run(vram__step *s) {
  s->phase = VRAM_PHASE_FORWARD;
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  s->tape.begin = s->used;
  s->grad = 1;
  vram__forward(s);
  s->grad = 0;
  if (s->failed)
    return;
  vram__evaluation_unname(s);
  vram__held_release(s, 0, s->nheld);
}

/* Behind a step, whose inputs stay where they are. */
VRAM__FN void vram__evaluate(vram__step *s) {
  const vram_graph *const own = s->g, *const g = s->o->evaluation;
  vram__tensor *input;
  uint32_t i;
  vram__tensor none = vram__tensor_none();
  vram__micro_batch_forget(s, s->tape.begin, &none);
  input = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap,
                                            (own->ninput + UINT64_C(1)) * sizeof *input);
  if (!input) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < own->ninput; i++)
    input[i] = s->variable[own->input[i]->index].t;
  s->phase = VRAM_PHASE_EVALUATION;
  s->train = 0;
  s->call.nrange = 0;
  s->g = g;
  s->root = g->root;
  vram__evaluation_play(s);
  vram__phase_end(s, VRAM_PHASE_END);
  s->skip = NULL;
  s->train = 1;
  s->g = own;
  s->root = own->root;
  for (i = 0; i < own->ninput; i++)
    vram__variable_name(s, own->input[i], input[i]);
}
