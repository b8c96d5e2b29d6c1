/* >>parallel/parts    what a microbatch does on a stage, played once and written down
   Microbatches differ in two ways: the first one of a stage casts weights (autocast's cache lasts
   as long as schedule.step), and the first backward of a stage leaves gradients behind, to which
   later ones add. So a stage of hundreds of microbatches is a few parts that repeat. */
#include "parallel/parts.h"

/* ---- writing down */

static uint32_t vram__part_id(const vram__part_player *y, uint32_t id) {
  const uint32_t own = (uint32_t)y->t.count.next_id - y->part->ids;
  if (id == UINT32_MAX)
    return VRAM__ID_NONE; /* there before */
  if (id >= own)
    return id - own;
  if (y->micro && id - y->micro->base < y->micro->ids)
    return VRAM__ID_FORWARD | (id - y->micro->base);
  if (y->micro && id - y->micro->input_base < y->micro->input_ids)
    return VRAM__ID_FORWARD | (y->micro->ids + id - y->micro->input_base);
  if (y->first && id - y->first->base < y->first->ids)
    return VRAM__ID_FIRST | (id - y->first->base);
  return VRAM__ID_NONE;
}

/* The next event of the running part; NULL: nothing is written down. */
VRAM__FN vram__part_event *vram__part_put(vram__part_player *y, uint8_t kind) {
  vram__part_event *to;
  if (!y->part || y->t.failed)
    return NULL;
  to = (vram__part_event *)vram__pipe_take(y->p, sizeof *to);
  if (!to) {
    y->t.failed = VRAM_ERR_MEMORY;
    return NULL;
  }
  vram__memory_zero(to, sizeof *to);
  to->kind = kind;
  y->part->count++;
  return to;
}

VRAM__FN void vram__part_hear(void *user, const vram_event *e) {
  vram__part_player *y = (vram__part_player *)user;
  vram__part_event *to;
  if (e->action != VRAM_ACTION_ALLOC && e->action != VRAM_ACTION_FREE)
    return;
  vram__part_casts_drop(y);
  to = vram__part_put(y, e->action == VRAM_ACTION_ALLOC ? VRAM__PART_ALLOC : VRAM__PART_FREE);
  if (!to)
    return;
  to->bytes = e->bytes;
  to->node = e->node;
  to->cat = (uint8_t)e->category;
  to->stream = (uint8_t)e->stream;
  if (e->action == VRAM_ACTION_ALLOC) {
    to->id = y->part->ids++;
    if (y->p->clears && !y->looks && e->category == VRAM_CATEGORY_AUTOCAST)
      to->cast = ++y->made;
    return;
  }
  to->id = vram__part_id(y, (uint32_t)e->id);
  if (to->id == VRAM__ID_NONE)
    vram__step_refuse(&y->t, VRAM_ERR_UNSUPPORTED, e->node,
                      "a tensor that one microbatch hands on to another one");
}

/* What a library asks for while it runs. */
VRAM__FN void vram__part_hear_brief(vram__step *t, uint64_t bytes) {
  vram__part_event *to = vram__part_put((vram__part_player *)t->o->user, VRAM__PART_BRIEF);
  if (to)
    to->bytes = bytes;
}

/* A workspace that stays: which part asks for it first, the schedule decides. */
VRAM__FN void vram__part_hear_stays(vram__step *t, uint32_t which) {
  vram__part_player *y = (vram__part_player *)t->o->user;
  vram__part_event *to = NULL;
  if (!(y->stay >> which & 1))
    to = vram__part_put(y, VRAM__PART_STAYS);
  y->stay |= 1u << which;
  if (!to)
    return;
  to->id = which;
  to->node = t->node;
}

/* What fully_shard does for unit k. */
VRAM__FN void vram__part_tell(vram__step *t, uint32_t what, uint32_t k) {
  vram__part_event *to = vram__part_put((vram__part_player *)t->o->user, VRAM__PART_UNIT);
  if (!to)
    return;
  to->id = what;
  to->bytes = k;
}

/* A wrapper that hears of each gradient. */
VRAM__FN void vram__part_accumulated(vram__step *t, vram__leaf *l) {
  vram__part_gradient((vram__part_player *)t->o->user, (uint32_t)(l - t->leaf.at), 1);
}

VRAM__FN void vram__part_begin(vram__part_player *y, vram__played *part, int backward) {
  /* schedule.step runs inside autocast's context, backward with it */
  y->t.autocasts_backward = backward && y->t.amp;
  if (backward && y->t.compute && y->t.g->dtype)
    y->t.dtype = y->t.compute;
  y->p->used = (y->p->used + 7) & ~(uint64_t)7;
  part->event = (vram__part_event *)(void *)(y->p->mem + y->p->used);
  part->count = part->ids = 0;
  part->known = 1;
  y->stay = y->made = 0;
  vram__memory_zero(y->t.r->communication, sizeof y->t.r->communication);
  y->part = part;
}

/* Allocation `id` of the running part is held by whoever plays it, too; 0: it makes a gradient.
   They are numbered as they come. */
static void vram__part_keep(vram__played *part, uint32_t id, int kept) {
  uint32_t low = 0, high = part->count;
  while (low < high) { /* is it in front of the one in the middle, or of the last one before it? */
    const uint32_t middle = low + (high - low) / 2;
    uint32_t i = middle + 1;
    while (i > low && part->event[i - 1].kind != VRAM__PART_ALLOC)
      i--;
    if (i > low && part->event[i - 1].id == id) {
      if (kept)
        part->event[i - 1].kept = 1;
      else
        part->event[i - 1].cat = VRAM_CATEGORY_GRADIENTS;
      return;
    }
    if (i > low && part->event[i - 1].id > id)
      high = i - 1;
    else
      low = middle + 1;
  }
}

/* The id of t's storage as the running part gives it; the number of the stage's input that it lies
   in. */
static uint32_t vram__part_given(vram__part_player *y, vram__tensor t) {
  uint32_t i, id;
  const vram__storage *b;
  if (!t.d || (t.st & VRAM__LEAF) || !t.st)
    return VRAM__ID_NONE;
  b = vram__owner_at(&y->t, t.st);
  for (i = 0; i < y->s->nin; i++) {
    const vram__tensor in = y->t.variable[y->s->in_value[i]->index].t;
    if (in.st && vram__owner_at(&y->t, in.st) == b)
      return VRAM__ID_INPUT | i;
  }
  if (b->id == UINT32_MAX)
    return VRAM__ID_NONE;
  id = vram__part_id(y, b->id);
  if (!VRAM__ID_KIND(id))
    vram__part_keep(y->part, id, 1);
  return id;
}

/* A list of the part, behind its events. */
static uint32_t *vram__part_list(vram__part_player *y, uint32_t count) {
  uint32_t *to = (uint32_t *)vram__pipe_take(y->p, (count + UINT64_C(1)) * sizeof *to);
  if (!to)
    y->t.failed = VRAM_ERR_MEMORY;
  return to;
}

/* The parameter of that leaf has a gradient, or more of it. */
VRAM__FN void vram__part_gradient(vram__part_player *y, uint32_t leaf, int accumulated) {
  vram__step *const t = &y->t;
  const vram__tensor g = t->leaf.at[leaf].grad;
  vram__part_event *to;
  if (!g.d || (y->had[leaf] && !accumulated) || !(to = vram__part_put(y, VRAM__PART_GRADIENT)))
    return;
  to->bytes = leaf;
  to->cat = (uint8_t)g.dt;
  to->kept = accumulated != 0;
  to->id = VRAM__ID_NONE;
  if (y->had[leaf] || !g.st)
    return;
  y->had[leaf] = 1;
  to->id = vram__part_id(y, vram__owner_at(t, g.st)->id);
  vram__part_keep(y->part, to->id, 0);
}

/* Ends the running part. */
VRAM__FN void vram__part_end(vram__part_player *y) {
  vram__played *const part = y->part;
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < t->leaf.parameters; i++)
    if (t->leaf.at[i].grad.d && !y->had[i])
      vram__part_gradient(y, i, 0);
  part->given = vram__part_list(y, y->ngiven);
  for (i = 0; part->given && i < y->ngiven; i++)
    part->given[i] = y->given[i];
  y->ngiven = 0;
  vram__memory_copy(part->communication, t->r->communication, sizeof part->communication);
  t->dtype = y->dtype;
  y->part = NULL;
}

/* ---- forward */

static void vram__part_unname(vram__part_player *y, const vram_value *v) {
  vram__variable *o = y->t.variable + y->t.name_of[v->index];
  if (o->refs && --o->refs == 0)
    vram__tensor_release(&y->t, o->t);
}

static int vram__part_is_output(const vram__part_player *y, const vram_value *v) {
  uint32_t i;
  for (i = 0; i < y->s->nout; i++)
    if (y->s->out_value[i] == v)
      return 1;
  return y->s->is_last && v == y->p->g.root;
}

/* The function returns: its variables go, but not what it gives. */
static void vram__part_return(vram__part_player *y, const vram_node *n, const vram_node *end) {
  uint32_t i;
  for (; n != end && !y->t.failed; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (n->out[i].last == UINT32_MAX && !vram__part_is_output(y, n->out + i))
        vram__part_unname(y, n->out + i);
}

/* What goes to another rank is sent as it lies. */
static void vram__part_sends(vram__part_player *y, uint32_t to, vram__tensor x) {
  vram__pipe *const p = y->p;
  uint32_t k;
  for (k = 0; k < p->local && p->stage[k].stage != to;)
    k++;
  if (k == p->local && x.d && !(x.d->flags & (VRAM__CONTIG | VRAM__CL)))
    vram__step_refuse(&y->t, VRAM_ERR_UNSUPPORTED, NULL,
                      "a value that crosses: Tensors must be contiguous");
}

/* What backward begins with: the edges of the outputs, whose tensors may go. */
static void vram__part_roots(vram__part_player *y) {
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < y->s->nout; i++) {
    const vram__tensor x = t->variable[t->name_of[y->s->out_value[i]->index]].t;
    vram__part_root *r = y->micro->root + i;
    if (!y->s->is_last)
      vram__part_sends(y, y->s->stage + 1, x);
    r->fn = vram__tensor_fn(t, x);
    r->out = x.st && !(x.st & VRAM__LEAF) ? vram__slot_at(t, x.st)->out : 0;
    if (vram__is_grad_fn(r->fn))
      vram__grad_fn_at(t, r->fn)->refs++;
  }
}

VRAM__FN vram__leaf *vram__part_input_leaf(vram__part_player *y, uint32_t i) {
  const vram__tensor x = y->t.variable[y->s->in_value[i]->index].t;
  const uint32_t fn = vram__tensor_fn(&y->t, x);
  return fn & VRAM__LEAF ? y->t.leaf.at + (fn & ~VRAM__LEAF) : NULL;
}

/* Autocast's cache has casts of received inputs, too, which are leaves of their microbatch: another
   one makes its own. All of them live to the end of the step, and so do the inputs, to which their
   history leads. */
static void vram__part_forget_casts(vram__part_player *y) {
  vram__step *const t = &y->t;
  uint32_t *at = &t->leaf.first_cast, i;
  while (*at) {
    const uint32_t leaf = *at - 1;
    vram__cast *c = t->leaf.cast + leaf;
    if (leaf < t->leaf.parameters) {
      at = &c->next;
      continue;
    }
    *at = c->next;
    c->t.d = NULL;
    for (i = 0; i < y->s->nin; i++)
      if (vram__part_input_leaf(y, i) == t->leaf.at + leaf)
        y->s->is_cast[i] = 1;
  }
}

/* The same of fully_shard's units, and of the root that they are in. */
static void vram__part_forward_units(vram__part_player *y, const vram_node *end) {
  vram__step *const t = &y->t;
  uint32_t i;
  vram__fsdp_forward_begin(t);
  vram__fsdp_forward(t, end);
  vram__part_return(y, y->s->first, end);
  if (t->failed)
    return;
  vram__fsdp_module_end(t);
  for (i = 0; i < y->s->nout; i++)
    vram__fsdp_hook_on(t, y->s->out_value[i], 0);
  if (y->s->is_last && !y->s->loss)
    vram__fsdp_hook_on(t, y->p->g.root, 0);
  vram__fsdp_module_over(t);
}

/* The nodes from n up to `end`, with calls of checkpoint() among them. */
static void vram__part_nodes(vram__step *t, const vram_node *n, const vram_node *end) {
  vram__checkpoint_parts(t, n, end, vram__ranges_before(t, 0, n), vram__ranges_before(t, 0, end));
}

VRAM__FN void vram__part_forward(vram__part_player *y, vram__played *part, int casts) {
  vram__step *const t = &y->t;
  vram__pipe_stage *const s = y->s;
  const vram_node *const end = s->loss ? s->loss : s->end;
  uint32_t i;
  if (!casts)
    y->micro->pin = y->pin;
  vram__part_casts_begin(y, !casts);
  vram__part_begin(y, part, 0);
  t->phase = VRAM_PHASE_FORWARD;
  t->cat = VRAM_CATEGORY_ACTIVATIONS;
  t->grad = 1;
  y->micro->base = (uint32_t)t->count.next_id;
  y->micro->ids = 0;
  if (t->wrapper)
    vram__part_forward_units(y, end);
  else {
    vram__part_nodes(t, s->first, end);
    vram__part_return(y, s->first, end);
  }
  if (!t->failed && s->loss) {
    vram__part_put(y, VRAM__PART_RETURNS);
    vram__part_nodes(t, s->loss, s->end);
    vram__part_return(y, s->loss, s->end);
  }
  t->grad = 0;
  if (t->failed)
    return;
  vram__part_casts_forward_end(y, casts);
  if (!y->p->clears)
    vram__part_forget_casts(y);
  for (i = 0; i < s->nout; i++)
    y->given[y->ngiven++] = vram__part_given(y, t->variable[t->name_of[s->out_value[i]->index]].t);
  y->given[y->ngiven++] = VRAM__ID_NONE;
  y->micro->loss = vram__tensor_none();
  if (s->is_last) {
    vram__variable *o = t->variable + t->name_of[y->p->g.root->index];
    y->micro->loss = o->t;
    o->refs = 0;
    y->given[s->nout] = vram__part_given(y, o->t);
  }
  vram__part_roots(y);
  for (i = 0; i < s->nout; i++)
    if (s->out_value[i]->node) /* no input that is handed on */
      vram__part_unname(y, s->out_value[i]);
  y->micro->ids = part->ids;
  vram__part_end(y);
}

/* ---- backward */

VRAM__FN void vram__part_receive(vram__part_player *y, vram__part_incoming *in) {
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < y->s->nout; i++) {
    in[i].at = in[i].fitted = vram__tensor_none();
    if (y->s->out[i].grad && y->micro->root[i].fn)
      in[i].at = vram__leaf_existing_gradient(t, vram__dims_contiguous(t, y->s->out[i].d),
                                              y->s->out[i].dt, VRAM_CATEGORY_TEMPORARIES);
  }
}

/* Engine::execute: gradients get the shapes and dtypes of what they belong to, and begin. */
VRAM__FN void vram__part_start(vram__part_player *y, vram__part_incoming *in) {
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < y->s->nout; i++)
    if (in[i].at.d) {
      vram__edge e;
      e.fn = y->micro->root[i].fn;
      e.out = y->micro->root[i].out;
      in[i].fitted = vram__tensor_retain(t, in[i].at);
      vram__gradient_fit(t, e, &in[i].fitted);
    }
  for (i = 0; i < y->s->nout; i++)
    if (in[i].fitted.d) {
      vram__tensor g = vram__tensor_retain(t, in[i].fitted);
      vram__edge e;
      e.fn = y->micro->root[i].fn;
      e.out = y->micro->root[i].out;
      vram__gradient_arrive(t, vram__edge_end(t, e), &g);
      if (g.d)
        vram__tensor_release(t, g);
    }
}

VRAM__FN void vram__part_start_over(vram__part_player *y, vram__part_incoming *in) {
  uint32_t i;
  for (i = 0; i < y->s->nout; i++)
    if (in[i].fitted.d)
      vram__tensor_release(&y->t, in[i].fitted);
}

/* Marks what the outputs lead to; the latest record of them. */
static uint32_t vram__part_flag(vram__part_player *y) {
  vram__step *const t = &y->t;
  uint32_t i, from = 0;
  for (i = 0; i < y->s->nout; i++) {
    const uint32_t fn = y->micro->root[i].fn;
    if (!y->s->out[i].grad)
      continue;
    if (fn & VRAM__LEAF)
      t->leaf.now[fn & ~VRAM__LEAF].deps++;
    if (!vram__is_grad_fn(fn))
      continue;
    vram__grad_fn_at(t, fn)->flag = 1;
    from = fn > from ? fn : from;
  }
  if (from)
    vram__backward_expect(t, from, 0);
  return from;
}

/* Outputs that are inputs of the stage take what came at once. */
static void vram__part_leaf_roots(vram__part_player *y) {
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < y->s->nout; i++) {
    const uint32_t fn = y->micro->root[i].fn;
    vram__leaf *l = t->leaf.at + (fn & ~VRAM__LEAF);
    if (y->s->out[i].grad && (fn & VRAM__LEAF) && !--l->deps)
      vram__gradient_accumulate(t, l);
  }
}

/* The graph of the microbatch is let go. */
VRAM__FN void vram__part_drop_roots(vram__part_player *y) {
  uint32_t i;
  for (i = 0; i < y->s->nout; i++) {
    vram__grad_fn_release(&y->t, y->micro->root[i].fn);
    y->micro->root[i].fn = 0;
  }
}

/* The gradients of the stage's inputs are given. */
VRAM__FN void vram__part_give_inputs(vram__part_player *y) {
  uint32_t i;
  for (i = 0; i < y->s->nin && !y->t.failed; i++) {
    vram__leaf *l = vram__part_input_leaf(y, i);
    y->given[y->ngiven++] = l ? vram__part_given(y, l->grad) : VRAM__ID_NONE;
    if (!l)
      continue;
    vram__part_sends(y, y->s->stage - 1, l->grad);
    vram__tensor_release(&y->t, l->grad);
    l->grad = vram__tensor_none();
  }
}

/* The loss has lost its graph, and goes. */
VRAM__FN void vram__part_drop_loss(vram__part_player *y) {
  vram__step *const t = &y->t;
  vram__tensor *const loss = &y->micro->loss;
  if (!loss->d)
    return;
  if (loss->st && !(loss->st & VRAM__LEAF))
    vram__history_drop(t, vram__slot_at(t, loss->st));
  vram__tensor_release(t, *loss);
  *loss = vram__tensor_none();
}

/* stage_backward */
VRAM__FN void vram__part_backward(vram__part_player *y, vram__played *part,
                                  vram__part_incoming *in) {
  vram__step *const t = &y->t;
  uint32_t from;
  if (!y->s->is_last)
    vram__part_receive(y, in);
  vram__part_begin(y, part, 1);
  t->phase = VRAM_PHASE_BACKWARD;
  t->cat = VRAM_CATEGORY_TEMPORARIES;
  t->node = NULL;
  t->gin = vram__backward_room(t);
  if (t->failed)
    return;
  y->looks = y->p->clears;
  if (y->s->is_last)
    vram__backward(t, y->micro->loss);
  else {
    from = vram__part_flag(y);
    vram__part_start(y, in);
    vram__part_leaf_roots(y);
    if (from)
      vram__backward_walk(t, from, 0);
    vram__part_start_over(y, in);
  }
  if (t->wrapper)
    vram__fsdp_told_end(t);
  if (t->failed)
    return;
  vram__part_give_inputs(y);
  vram__part_drop_loss(y);
  vram__part_drop_roots(y);
  vram__part_casts_look(y);
  y->looks = 0;
  vram__part_end(y);
}
