/* >>step/training    texts that say a whole training step: backward, zero_grad and step lines */
#include "step/step.h"

/* What a text with such lines does not go together with; NULL: nothing. */
VRAM__FN const char *vram__training_misuse(const vram_graph *g, const vram_step_options *o) {
  if (!o->train)
    return NULL;
  if (!g->nbackward)
    return g->nstep || g->nzero_grad ? "step or zero_grad lines without a backward line" : NULL;
  if (o->checkpoint_segments > 1 || o->ncheckpoint)
    return "checkpointed segments or ranges of a text that has backward lines (expected checkpoint "
           "blocks)";
  if (g->nupdate && !g->nstep)
    return "an update line without a step line";
  return NULL;
}

/* Is p one of the parameters that the line names? */
static int vram__line_names(const vram_node *n, const vram_param *p) {
  const vram__span label = vram__node_label(p->node);
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    const vram_value *v = n->in[i];
    if (label.len >= v->name_len && vram__text_equal(label.text, v->name, v->name_len) &&
        (label.len == v->name_len || label.text[v->name_len] == '.' ||
         label.text[v->name_len] == '/'))
      return 1;
  }
  return !n->nin;
}

/* The leaf that p is, if the line names it. Leaves are numbered as the trainable parameters are,
   which *count counts. */
static vram__leaf *vram__leaf_named(const vram__step *s, const vram_node *n, const vram_param *p,
                                    uint32_t *count) {
  vram__leaf *const l = s->leaf.at + *count;
  if (p->kind != VRAM__PARAM)
    return NULL;
  ++*count;
  return vram__line_names(n, p) ? l : NULL;
}

/* p wants gradients, which arrive at that leaf, or wants none. */
static void vram__param_want(vram__step *s, const vram_param *p, const vram__leaf *l, int wants) {
  const uint32_t leaf = VRAM__LEAF | (uint32_t)(l - s->leaf.at);
  vram__tensor *t = s->param + p->index;
  if (!p->is_value)
    t->st = wants ? leaf : VRAM__OWN_WEIGHTS;
  else if (t->st) {
    vram__slot_at(s, t->st)->fn = wants ? leaf : 0;
    vram__slot_at(s, t->st)->req = wants != 0;
  }
}

/* A `freeze` or `unfreeze` line, also where nothing is trained: autocast keeps no copy of a frozen
   weight. */
VRAM__FN void vram__freeze_line(vram__step *s, const vram_node *n) {
  const vram_param *p;
  uint32_t found = 0, count = 0;
  for (p = s->g->param_first; p; p = p->next) {
    const vram__leaf *l = vram__leaf_named(s, n, p, &count);
    found += l != NULL;
    if (l)
      vram__param_want(s, p, l, n->op == VRAM__OP_unfreeze);
  }
  if (!found && s->train)
    vram__step_refuse(s, VRAM_ERR_NAME, NULL,
                      "a freeze or unfreeze line that names no trainable parameter");
}

/* A step begins with no weight frozen by such lines. */
VRAM__FN void vram__unfreeze_all(vram__step *s) {
  const vram_param *p;
  uint32_t count = 0;
  for (p = s->g->param_first; p; p = p->next)
    if (p->kind == VRAM__PARAM)
      vram__param_want(s, p, s->leaf.at + count++, 1);
}

/* Storages that records still hold for backward are the saved ones; others no longer are. */
static void vram__saved_recount(vram__step *s) {
  uint32_t i, at;
  if (s->r->saved_bytes > s->saved_most)
    s->saved_most = s->r->saved_bytes;
  s->r->saved_bytes = 0;
  for (i = 0; i < s->nslot; i++)
    vram__slot_at(s, vram__slot_number(s, i))->saved = 0;
  for (at = s->tape.last; at; at = vram__grad_fn_at(s, at)->prev) {
    vram__grad_fn *f = vram__grad_fn_at(s, at);
    for (i = 0; i < f->nsaved; i++)
      if (VRAM__SAVED(f)[i].st)
        vram__saved_count(s, vram__slot_at(s, VRAM__SAVED(f)[i].st));
  }
}

static int vram__is_training_line(const vram_node *n) {
  return n && n->op >= VRAM__OP_backward && n->op <= VRAM__OP_step;
}

/* The phase of line n begins. Between it and another such line is no part of a forward pass. */
static void vram__training_phase(vram__step *s, const vram_node *n, vram_phase phase) {
  const vram_node *before = vram__node_before(n);
  while (before && (before->op == VRAM__OP_freeze || before->op == VRAM__OP_unfreeze))
    before = vram__node_before(before);
  if (vram__is_training_line(before))
    s->phase = phase;
  else
    vram__phase_end(s, phase);
}

/* What a backward line names; 0: refused. */
static int vram__backward_roots(vram__step *s, const vram_node *n, vram__tensor *root) {
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    vram__tensor *t = &s->variable[s->name_of[n->in[i]->index]].t;
    vram__history_refresh(s, t);
    root[i] = *t;
    if (vram__is_grad_fn(vram__tensor_fn(s, *t)) ||
        (n->nin > 1 && (vram__tensor_fn(s, *t) & VRAM__LEAF)))
      continue;
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n->in[i]->node ? n->in[i]->node : n,
                      vram__tensor_fn(s, *t) & VRAM__LEAF
                          ? "backward of a leaf alone is not played"
                          : "backward of a value that needs no gradient: PyTorch stops with an "
                            "error");
    return 0;
  }
  return 1;
}

static void vram__backward_here(vram__step *s, const vram_node *n) {
  const uint64_t cast = vram__autocast_leave(s);
  vram__tensor root[64];
  int scaled;
  if (cast > s->r->autocast_cache_bytes)
    s->r->autocast_cache_bytes = cast;
  if (!vram__backward_roots(s, n, root))
    return;
  if (s->cuts) {
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n->in[0]->node,
                      "a chain with backward lines cannot be cut");
    return;
  }
  vram__training_phase(s, n, VRAM_PHASE_BACKWARD);
  if (s->o->zero_grad_late && !s->g->nzero_grad && !s->nbackward++)
    vram__zero_grad_now(s);
  s->cat = VRAM_CATEGORY_TEMPORARIES;
  s->grad = 0;
  s->gin = vram__backward_room(s);
  if (s->failed)
    return;
  s->tape.retain = n->op == VRAM__OP_retained || n->op == VRAM__OP_scaled_retained;
  scaled = s->g->nscaled ? n->op >= VRAM__OP_scaled : s->scaler;
  s->node = scaled ? n->in[0]->node : NULL;
  if (scaled && n->nin == 1)
    vram__scaled_backward(s, *root);
  else if (scaled)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n, "GradScaler and backward of several values");
  else
    vram__backward_several(s, root, n->nin);
  s->tape.retain = 0;
  vram__phase_end(s, VRAM_PHASE_FORWARD);
  vram__saved_recount(s);
}

/* Does anything but ends of lifetimes follow the line? */
static int vram__training_goes_on(const vram_node *n) {
  do
    n = n->next;
  while (n && n->op >= VRAM_OP_COUNT && !vram__is_training_line(n));
  return n != NULL;
}

static void vram__zero_grad_here(vram__step *s, const vram_node *n) {
  const vram_param *p;
  uint32_t found = 0, at = 0;
  vram__training_phase(s, n, VRAM_PHASE_ZERO_GRAD);
  for (p = s->g->param_first; p; p = p->next) {
    vram__leaf *l = vram__leaf_named(s, n, p, &at);
    found += l != NULL;
    if (!l || s->o->keep_grads)
      continue;
    vram__tensor_release(s, l->grad);
    l->grad = vram__tensor_none();
  }
  if (!found)
    vram__step_refuse(s, VRAM_ERR_NAME, NULL, "a zero_grad line that names no trainable parameter");
  vram__phase_end(s, vram__training_goes_on(n) ? VRAM_PHASE_FORWARD : VRAM_PHASE_END);
}

/* GradScaler.update(): what it noted of each optimizer goes, the first one's last. */
static void vram__scaler_update(vram__step *s) {
  while (s->nfound_inf)
    vram__optim_free(s, s->found_inf[--s->nfound_inf]);
}

static void vram__update_here(vram__step *s, const vram_node *n) {
  vram__training_phase(s, n, VRAM_PHASE_OPTIMIZER);
  vram__scaler_update(s);
  vram__phase_end(s, vram__training_goes_on(n) ? VRAM_PHASE_FORWARD : VRAM_PHASE_END);
}

static void vram__step_here(vram__step *s, const vram_node *n) {
  const vram_param *p;
  uint32_t found = 0, at = 0, count = 0;
  vram__training_phase(s, n, VRAM_PHASE_OPTIMIZER);
  for (p = s->g->param_first; p; p = p->next) {
    const vram__leaf *l = vram__leaf_named(s, n, p, &at);
    found += l != NULL;
    if (!l || !l->grad.d)
      continue;
    s->leaf.past[l - s->leaf.at].stepped = 1;
    vram__optim_param_of(s->optim + count++, l);
  }
  if (!found)
    vram__step_refuse(s, VRAM_ERR_NAME, NULL, "a step line that names no trainable parameter");
  else
    vram__optim_step_now(s, count, count == s->leaf.parameters);
  if (!s->g->nupdate && ++s->nsteps == s->g->nstep)
    vram__scaler_update(s);
  vram__phase_end(s, vram__training_goes_on(n) ? VRAM_PHASE_FORWARD : VRAM_PHASE_END);
}

/* Does the zero_grad line n stand behind a step of weights that it names? */
static int vram__zero_grad_after_step(const vram__step *s, const vram_node *n) {
  const vram_node *m;
  const vram_param *p;
  for (m = s->g->first; m != n; m = m->next)
    for (p = m->op == VRAM__OP_step ? s->g->param_first : NULL; p; p = p->next)
      if (p->kind == VRAM__PARAM && vram__line_names(m, p) && vram__line_names(n, p))
        return 1;
  return 0;
}

/* Of micro-batches, each of which runs the text, the last one makes the optimizers' steps. Their
   gradients go with them: behind the last one's step, or before the first one. */
static int vram__training_line_runs(const vram__step *s, const vram_node *n) {
  if (s->first_batch && s->last_batch)
    return 1;
  if (n->op == VRAM__OP_zero_grad)
    return vram__zero_grad_after_step(s, n) ? s->last_batch : s->first_batch;
  return s->last_batch || (n->op != VRAM__OP_step && n->op != VRAM__OP_update);
}

/* One of these lines, in training. */
VRAM__FN void vram__training_line(vram__step *s, const vram_node *n) {
  const uint8_t grad = s->grad, cat = s->cat;
  if (!vram__training_line_runs(s, n))
    return;
  if (n->op == VRAM__OP_zero_grad)
    vram__zero_grad_here(s, n);
  else if (n->op == VRAM__OP_step)
    vram__step_here(s, n);
  else if (n->op == VRAM__OP_update)
    vram__update_here(s, n);
  else
    vram__backward_here(s, n);
  s->grad = grad;
  s->cat = cat;
}

/* The step has been played, but for an optimizer that the text does not name. */
VRAM__FN void vram__training_end(vram__step *s) {
  vram__scaler_update(s); /* where the last update stands in front of a step */
  s->nsteps = 0;
  if (s->phase == VRAM_PHASE_FORWARD)
    vram__phase_end(s, VRAM_PHASE_FORWARD);
  if (s->saved_most > s->r->saved_bytes)
    s->r->saved_bytes = s->saved_most;
}
