/* >>parallel/parts    what a microbatch does on a stage, played once and written down
   Microbatches differ in two ways: the first one of a stage casts weights (autocast's cache lasts
   as long as schedule.step), and the first backward of a stage leaves gradients behind, to which
   later ones add. So a stage of hundreds of microbatches is a few parts that repeat. */
#include "parallel/pipe.h"

/* A tensor of a stage from which backward begins. */
typedef struct vram__part_root {
  uint32_t fn, out;
} vram__part_root;

/* A microbatch that is in flight while parts are played. */
typedef struct vram__part_micro {
  uint32_t microbatch;
  uint32_t base, ids;             /* of its forward part: the number of its first id, how many */
  uint32_t input_base, input_ids; /* of its input part */
  vram__part_root *root;          /* nout of the stage */
  vram__tensor loss;
  struct vram__part_group *group; /* between input and weight part */
  uint32_t ngroup;
  uint8_t begun; /* its input part has been played */
} vram__part_micro;

/* A record that the inputs' gradients go through and that gives gradients of parameters, too, with
   what it was given (get_param_groups). */
typedef struct vram__part_group {
  uint32_t record, leaf; /* the first of those parameters */
  vram__tensor *grad;    /* nout of it */
  uint8_t *weight;       /* by edge: it leads to parameters only */
} vram__part_group;

typedef struct vram__part_player {
  vram__step t;
  vram__pipe *p;
  vram__pipe_stage *s;
  vram__played *part; /* that is written down; NULL: none is */
  vram__part_micro *micro, *first;
  uint8_t *had;            /* by leaf: there is a gradient */
  uint32_t *given, ngiven; /* what the running part gives */
  uint32_t *order, norder; /* leaves of parameters whose gradients have become ready in it */
} vram__part_player;

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

static void vram__part_hear(void *user, const vram_event *e) {
  vram__part_player *y = (vram__part_player *)user;
  vram__played *const part = y->part;
  vram__part_event *to;
  if (!part || y->t.failed || (e->action != VRAM_ACTION_ALLOC && e->action != VRAM_ACTION_FREE))
    return;
  to = (vram__part_event *)vram__pipe_take(y->p, sizeof *to);
  if (!to) {
    y->t.failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(to, sizeof *to);
  to->bytes = e->bytes;
  to->node = e->node;
  to->cat = (uint8_t)e->category;
  to->stream = (uint8_t)e->stream;
  part->count++;
  if (e->action == VRAM_ACTION_ALLOC) {
    to->kind = VRAM__PART_ALLOC;
    to->id = part->ids++;
    return;
  }
  to->kind = VRAM__PART_FREE;
  to->id = vram__part_id(y, (uint32_t)e->id);
  if (to->id == VRAM__ID_NONE)
    vram__step_refuse(&y->t, VRAM_ERR_UNSUPPORTED, e->node,
                      "a tensor that one microbatch hands on to another one");
}

/* What a library asks for while it runs. */
static void vram__part_hear_brief(vram__step *t, uint64_t bytes) {
  vram__part_player *y = (vram__part_player *)t->o->user;
  vram__part_event *to;
  if (!y->part || t->failed)
    return;
  to = (vram__part_event *)vram__pipe_take(y->p, sizeof *to);
  if (!to) {
    t->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__memory_zero(to, sizeof *to);
  to->bytes = bytes;
  to->kind = VRAM__PART_BRIEF;
  y->part->count++;
}

static void vram__part_accumulated(vram__step *t, vram__leaf *l) {
  vram__part_player *y = (vram__part_player *)t->o->user;
  if (y->norder < y->p->g.nparam)
    y->order[y->norder++] = (uint32_t)(l - t->leaf.at);
}

static void vram__part_begin(vram__part_player *y, vram__played *part, int backward) {
  /* schedule.step runs inside autocast's context, backward with it */
  y->t.autocasts_backward = backward && y->t.amp;
  y->p->used = (y->p->used + 7) & ~(uint64_t)7;
  part->event = (vram__part_event *)(void *)(y->p->mem + y->p->used);
  part->count = part->ids = 0;
  part->known = 1;
  y->part = part;
}

/* Allocation `id` of the running part is held by whoever plays it, too; 0: it makes a gradient. */
static void vram__part_keep(vram__played *part, uint32_t id, int kept) {
  uint32_t i;
  for (i = 0; i < part->count; i++)
    if (part->event[i].kind == VRAM__PART_ALLOC && part->event[i].id == id) {
      if (kept)
        part->event[i].kept = 1;
      else
        part->event[i].cat = VRAM_CATEGORY_GRADIENTS;
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

/* Gradients that the running part has left behind. */
static void vram__part_gradients(vram__part_player *y, vram__played *part) {
  vram__step *const t = &y->t;
  uint32_t i;
  for (i = 0; i < t->leaf.parameters; i++) {
    const vram__tensor g = t->leaf.at[i].grad;
    uint32_t *const to = part->gradient + 2 * (size_t)part->ngradient;
    if (!g.d || y->had[i])
      continue;
    y->had[i] = 1;
    if (!g.st)
      continue;
    to[0] = i;
    to[1] = vram__part_id(y, vram__owner_at(t, g.st)->id);
    vram__part_keep(part, to[1], 0);
    part->ngradient++;
  }
}

/* Ends the running part. */
static void vram__part_end(vram__part_player *y) {
  vram__played *const part = y->part;
  vram__step *const t = &y->t;
  uint32_t i, n = 0;
  part->given = vram__part_list(y, y->ngiven);
  for (i = 0; part->given && i < y->ngiven; i++)
    part->given[i] = y->given[i];
  y->ngiven = 0;
  part->order = vram__part_list(y, y->norder);
  for (i = 0; part->order && i < y->norder; i++)
    part->order[i] = y->order[i];
  part->norder = y->norder;
  y->norder = 0;
  for (i = 0; i < t->leaf.parameters; i++)
    n += t->leaf.at[i].grad.d && !y->had[i];
  part->gradient = vram__part_list(y, 2 * n);
  if (!t->failed)
    vram__part_gradients(y, part);
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

static vram__leaf *vram__part_input_leaf(vram__part_player *y, uint32_t i) {
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

static void vram__part_forward(vram__part_player *y, vram__played *part) {
  vram__step *const t = &y->t;
  vram__pipe_stage *const s = y->s;
  const vram_node *const end = s->loss ? s->loss : s->end;
  uint32_t i;
  vram__part_begin(y, part, 0);
  t->phase = VRAM_PHASE_FORWARD;
  t->cat = VRAM_CATEGORY_ACTIVATIONS;
  t->grad = 1;
  y->micro->base = (uint32_t)t->count.next_id;
  y->micro->ids = 0;
  vram__forward_nodes(t, s->first, end);
  vram__part_return(y, s->first, end);
  if (!t->failed && s->loss) {
    vram__forward_nodes(t, s->loss, s->end);
    vram__part_return(y, s->loss, s->end);
  }
  t->grad = 0;
  if (t->failed)
    return;
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

/* Gradients that came from the next stage: there before the part, and behind it. */
typedef struct vram__part_incoming {
  vram__tensor at, fitted; /* as received; with the dtype that the output has */
} vram__part_incoming;

static void vram__part_receive(vram__part_player *y, vram__part_incoming *in) {
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
static void vram__part_start(vram__part_player *y, vram__part_incoming *in) {
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

static void vram__part_start_over(vram__part_player *y, vram__part_incoming *in) {
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
static void vram__part_drop_roots(vram__part_player *y) {
  uint32_t i;
  for (i = 0; i < y->s->nout; i++) {
    vram__grad_fn_release(&y->t, y->micro->root[i].fn);
    y->micro->root[i].fn = 0;
  }
}

/* The gradients of the stage's inputs are given. */
static void vram__part_give_inputs(vram__part_player *y) {
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
static void vram__part_drop_loss(vram__part_player *y, int keep) {
  vram__step *const t = &y->t;
  vram__tensor *const loss = &y->micro->loss;
  if (!loss->d)
    return;
  if (loss->st && !(loss->st & VRAM__LEAF))
    vram__history_drop(t, vram__slot_at(t, loss->st));
  if (keep)
    return;
  vram__tensor_release(t, *loss);
  *loss = vram__tensor_none();
}

/* stage_backward */
static void vram__part_backward(vram__part_player *y, vram__played *part, vram__part_incoming *in) {
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
  if (t->failed)
    return;
  vram__part_give_inputs(y);
  vram__part_drop_loss(y, 0);
  vram__part_drop_roots(y);
  vram__part_end(y);
}

/* ---- backward in two parts: stage_backward_input, stage_backward_weight */

/* The first leaf of a parameter that edge fn leads to; UINT32_MAX: to none. */
static uint32_t vram__part_weight_of(vram__part_player *y, uint32_t fn, uint32_t depth) {
  vram__grad_fn *f;
  uint32_t i, least = UINT32_MAX;
  if (!fn || depth == 32)
    return UINT32_MAX;
  if (fn & VRAM__LEAF)
    return (fn & ~VRAM__LEAF) < y->t.leaf.parameters ? fn & ~VRAM__LEAF : UINT32_MAX;
  f = vram__grad_fn_at(&y->t, fn);
  for (i = 0; i < f->nin; i++) {
    const uint32_t leaf = vram__part_weight_of(y, VRAM__EDGES(f)[i].fn, depth + 1);
    least = leaf < least ? leaf : least;
  }
  return least;
}

/* Flags what the roots lead to, and with 2 what leads to inputs of the stage; the latest record. */
static uint32_t vram__part_closure(vram__part_player *y) {
  vram__step *const t = &y->t;
  const uint64_t used = t->used;
  uint32_t from = 0, at, i, n = 0, *list;
  vram__grad_fn *f;
  if (y->s->is_last) {
    from = vram__tensor_fn(t, y->micro->loss);
    if (!vram__is_grad_fn(from))
      return 0;
    vram__grad_fn_at(t, from)->flag = 1;
  }
  for (i = 0; !y->s->is_last && i < y->s->nout; i++) {
    const uint32_t fn = y->micro->root[i].fn;
    if (!y->s->out[i].grad || !vram__is_grad_fn(fn))
      continue;
    vram__grad_fn_at(t, fn)->flag = 1;
    from = fn > from ? fn : from;
  }
  list = (uint32_t *)vram__memory_take(t->mem, &t->used, t->cap, 0);
  for (at = from; at; at = f->prev) {
    f = vram__grad_fn_at(t, at);
    if (!f->flag)
      continue;
    for (i = 0; i < f->nin; i++)
      if (vram__is_grad_fn(VRAM__EDGES(f)[i].fn))
        vram__grad_fn_at(t, VRAM__EDGES(f)[i].fn)->flag = 1;
    if (!vram__memory_take(t->mem, &t->used, t->cap, sizeof *list)) {
      t->failed = VRAM_ERR_MEMORY;
      return 0;
    }
    list[2 * (size_t)n++] = at;
  }
  while (n--) {
    f = vram__grad_fn_at(t, list[2 * (size_t)n]);
    for (i = 0; i < f->nin; i++) {
      const uint32_t fn = VRAM__EDGES(f)[i].fn;
      if (fn & VRAM__LEAF ? (fn & ~VRAM__LEAF) >= t->leaf.parameters
                          : fn && (vram__grad_fn_at(t, fn)->flag & 2))
        f->flag |= 2;
    }
  }
  t->used = used;
  return from;
}

/* Records that give gradients of parameters beside those that go on to inputs, in the order of the
   parameters. */
static void vram__part_groups(vram__part_player *y, uint32_t from) {
  vram__step *const t = &y->t;
  vram__part_micro *const m = y->micro;
  vram__grad_fn *f;
  uint32_t at, i, n = 0;
  for (at = from; at; at = vram__grad_fn_at(t, at)->prev)
    n += (vram__grad_fn_at(t, at)->flag & 2u) != 0;
  m->group = (vram__part_group *)vram__memory_take(t->mem, &t->used, t->cap,
                                                   (n + UINT64_C(1)) * sizeof *m->group);
  m->ngroup = 0;
  for (at = from; at && m->group; at = f->prev) {
    vram__part_group g;
    f = vram__grad_fn_at(t, at);
    if (!(f->flag & 2))
      continue;
    g.record = at;
    g.leaf = UINT32_MAX;
    g.weight = (uint8_t *)vram__memory_take(t->mem, &t->used, t->cap, f->nin + UINT64_C(1));
    g.grad = (vram__tensor *)vram__memory_take(t->mem, &t->used, t->cap,
                                               (f->nout + UINT64_C(1)) * sizeof *g.grad);
    if (!g.weight || !g.grad)
      break;
    for (i = 0; i < f->nout; i++)
      g.grad[i] = vram__tensor_none();
    for (i = 0; i < f->nin; i++) {
      const uint32_t fn = VRAM__EDGES(f)[i].fn;
      const int on = fn & VRAM__LEAF ? (fn & ~VRAM__LEAF) >= t->leaf.parameters
                                     : fn && (vram__grad_fn_at(t, fn)->flag & 2);
      const uint32_t leaf = on ? UINT32_MAX : vram__part_weight_of(y, fn, 0);
      g.weight[i] = !on;
      g.leaf = leaf < g.leaf ? leaf : g.leaf;
    }
    if (g.leaf == UINT32_MAX) {
      f->flag |= 4; /* no group, but its other edges are left out, too */
      continue;
    }
    f->refs++;
    for (i = m->ngroup++; i && m->group[i - 1].leaf > g.leaf; i--)
      m->group[i] = m->group[i - 1];
    m->group[i] = g;
  }
  if (at || !m->group)
    t->failed = VRAM_ERR_MEMORY;
}

/* Edges of f that are left out, or are there again: those that do not lead to inputs. */
static void vram__part_mask(vram__grad_fn *f, const uint8_t *leave_out, uint32_t *kept, int on) {
  uint32_t i;
  for (i = 0; i < f->nin; i++) {
    if (!leave_out[i])
      continue;
    if (on) {
      kept[i] = VRAM__EDGES(f)[i].fn;
      VRAM__EDGES(f)[i].fn = 0;
    } else
      VRAM__EDGES(f)[i].fn = kept[i];
  }
}

static vram__part_group *vram__part_group_of(const vram__part_micro *m, uint32_t record) {
  uint32_t i;
  for (i = 0; i < m->ngroup; i++)
    if (m->group[i].record == record)
      return m->group + i;
  return NULL;
}

/* One record of the input part: what it was given stays for the weight part. */
static void vram__part_input_record(vram__part_player *y, uint32_t at) {
  vram__step *const t = &y->t;
  vram__grad_fn *f = vram__grad_fn_at(t, at);
  vram__part_group *g = vram__part_group_of(y->micro, at);
  uint32_t kept[64], i;
  uint8_t own[64];
  const uint8_t *weight = g ? g->weight : own;
  const int few = f->nin <= 64;
  for (i = 0; few && !g && i < f->nin; i++) {
    const uint32_t fn = VRAM__EDGES(f)[i].fn;
    own[i] = !(fn & VRAM__LEAF ? (fn & ~VRAM__LEAF) >= t->leaf.parameters
                               : fn && (vram__grad_fn_at(t, fn)->flag & 2));
  }
  for (i = 0; g && i < f->nout; i++)
    if (VRAM__SLOTS(f)[i].g.d)
      g->grad[i] = vram__tensor_retain(t, VRAM__SLOTS(f)[i].g);
  if (few)
    vram__part_mask(f, weight, kept, 1);
  vram__backward_one(t, f);
  if (few)
    vram__part_mask(f, weight, kept, 0);
}

/* How many gradients arrive at each input; one more, so that nobody takes them over. */
static void vram__part_input_expect(vram__part_player *y, uint32_t from, uint32_t more) {
  vram__step *const t = &y->t;
  vram__grad_fn *f;
  uint32_t at, i;
  for (i = t->leaf.parameters; i < t->leaf.count; i++)
    t->leaf.at[i].deps = more;
  for (at = from; at && more; at = f->prev) {
    f = vram__grad_fn_at(t, at);
    for (i = 0; (f->flag & 2) && i < f->nin; i++) {
      const uint32_t fn = VRAM__EDGES(f)[i].fn;
      if ((fn & VRAM__LEAF) && (fn & ~VRAM__LEAF) >= t->leaf.parameters)
        t->leaf.at[fn & ~VRAM__LEAF].deps++;
    }
  }
}

static void vram__part_input_walk(vram__part_player *y, uint32_t from) {
  vram__step *const t = &y->t;
  vram__grad_fn *f;
  uint32_t at, i;
  vram__part_input_expect(y, from, 1);
  t->tape.retain = 1;
  for (at = from; at && !t->failed; at = f->prev) {
    f = vram__grad_fn_at(t, at);
    if (f->flag & 2)
      vram__part_input_record(y, at);
    f->flag = 0;
  }
  t->tape.retain = 0;
  vram__part_input_expect(y, from, 0);
  for (i = 0; i < y->s->nin; i++) {
    vram__leaf *l = vram__part_input_leaf(y, i);
    if (!l)
      continue;
    l->grad = l->in;
    l->in = vram__tensor_none();
  }
}

static void vram__part_input(vram__part_player *y, vram__played *part, vram__part_incoming *in) {
  vram__step *const t = &y->t;
  vram__tensor one = vram__tensor_none();
  uint32_t from;
  y->micro->begun = 1;
  if (!y->s->is_last)
    vram__part_receive(y, in);
  vram__part_begin(y, part, 1);
  y->micro->input_base = (uint32_t)t->count.next_id;
  y->micro->input_ids = 0;
  t->phase = VRAM_PHASE_BACKWARD;
  t->cat = VRAM_CATEGORY_TEMPORARIES;
  t->node = NULL;
  if (y->s->is_first) { /* all of it comes with the weight part */
    vram__part_end(y);
    return;
  }
  t->gin = vram__backward_room(t);
  from = t->failed ? 0 : vram__part_closure(y);
  if (!t->failed)
    vram__part_groups(y, from);
  if (t->failed)
    return;
  if (y->s->is_last && from) {
    const vram__tensor loss = y->micro->loss;
    one = vram__tensor_empty(t, vram__dims_dense(t, loss.d), loss.dt);
    VRAM__SLOTS(vram__grad_fn_at(t, from))
    [vram__slot_at(t, loss.st)->out].g = vram__tensor_retain(t, one);
  } else
    vram__part_start(y, in);
  vram__part_input_walk(y, from);
  if (t->failed)
    return;
  if (one.d)
    vram__tensor_release(t, one);
  else
    vram__part_start_over(y, in);
  vram__part_give_inputs(y);
  vram__part_drop_loss(y, 0);
  vram__part_drop_roots(y);
  y->micro->input_ids = part->ids;
  vram__part_end(y);
}

/* What stage_backward_weight's variables hold of the group before. */
typedef struct vram__part_past {
  vram__part_group *group;
  vram__tensor dw[64];
  uint32_t ndw;
} vram__part_past;

static void vram__part_group_over(vram__part_player *y, vram__part_group *g) {
  vram__step *const t = &y->t;
  const uint32_t nout = g ? vram__grad_fn_at(t, g->record)->nout : 0;
  uint32_t i;
  if (!g)
    return;
  vram__grad_fn_release(t, g->record);
  for (i = 0; i < nout; i++)
    if (g->grad[i].d)
      vram__tensor_release(t, g->grad[i]);
}

/* Gradients of the group's parameters are taken or added. */
static void vram__part_group_take(vram__part_player *y, vram__part_past *past) {
  vram__step *const t = &y->t;
  vram__tensor now[64];
  uint32_t i, n = 0;
  for (i = 0; i < t->leaf.parameters && n < 64; i++) {
    vram__leaf *l = t->leaf.at + i;
    l->deps = 0;
    if (!l->in.d)
      continue;
    now[n] = l->in;
    l->in = vram__tensor_none();
    if (!l->grad.d) {
      l->grad = vram__tensor_retain(t, now[n]);
      if (l->d->flags & VRAM__DENSE)
        l->grad.d = l->d;
    }
    n++;
  }
  for (i = 0; i < past->ndw; i++)
    vram__tensor_release(t, past->dw[i]);
  for (i = 0; i < n; i++)
    past->dw[i] = now[i];
  past->ndw = n;
}

static void vram__part_group_run(vram__part_player *y, vram__part_group *g) {
  vram__step *const t = &y->t;
  vram__grad_fn *f = vram__grad_fn_at(t, g->record);
  uint32_t i, kept[64];
  uint8_t other[64];
  for (i = 0; i < f->nin && i < 64; i++)
    other[i] = !g->weight[i];
  if (f->nin > 64) {
    vram__step_refuse(t, VRAM_ERR_LIMIT, f->node,
                      "a function of more than 64 tensors in a split backward");
    return;
  }
  vram__part_mask(f, other, kept, 1);
  f->flag = 1;
  for (i = 0; i < t->leaf.parameters; i++)
    t->leaf.at[i].deps = 1;
  vram__backward_expect(t, g->record, 0);
  for (i = 0; i < f->nout; i++)
    if (g->grad[i].d)
      VRAM__SLOTS(f)[i].g = vram__tensor_retain(t, g->grad[i]);
  vram__backward_walk(t, g->record, 0);
  vram__part_mask(f, other, kept, 0);
}

static void vram__part_weight(vram__part_player *y, vram__played *part) {
  vram__step *const t = &y->t;
  vram__part_past past;
  uint32_t k, i;
  vram__memory_zero(&past, sizeof past);
  vram__part_begin(y, part, 1);
  t->phase = VRAM_PHASE_BACKWARD;
  t->cat = VRAM_CATEGORY_TEMPORARIES;
  t->gin = vram__backward_room(t);
  for (k = 0; k < y->micro->ngroup && !t->failed; k++) {
    vram__part_group_over(y, past.group);
    past.group = y->micro->group + k;
    vram__part_group_run(y, past.group);
    if (!t->failed)
      vram__part_group_take(y, &past);
  }
  if (t->failed)
    return;
  vram__part_group_over(y, past.group);
  for (i = 0; i < past.ndw; i++)
    vram__tensor_release(t, past.dw[i]);
  vram__part_end(y);
}

/* ---- which parts a stage has */

/* Which part an action is. had: the stage has gradients. */
static uint32_t vram__part_of(const vram_stage_action *a, int had) {
  const uint32_t later = a->microbatch != 0;
  switch (a->kind) {
  case VRAM_STAGE_F:
    return VRAM__PART_FORWARD + later;
  case VRAM_STAGE_B:
    return VRAM__PART_BACKWARD + (had ? 2u : 0u) + later;
  case VRAM_STAGE_I:
    return VRAM__PART_INPUT + later;
  case VRAM_STAGE_W:
    return VRAM__PART_WEIGHT + (had ? 2u : 0u) + later;
  default:
    return VRAM__PARTS;
  }
}

typedef struct vram__part_need {
  uint32_t part, microbatch, kind;
} vram__part_need;

/* The actions of the stage that come first of their kind; how many. */
static uint32_t vram__part_needs(const vram__part_player *y, vram__part_need *need) {
  uint32_t i, n = 0, seen = 0;
  int had = 0;
  for (i = 0; i < y->p->naction; i++) {
    const vram_stage_action *a = y->p->action + i;
    const uint32_t part = vram__part_of(a, had);
    if (a->stage != y->s->stage || part == VRAM__PARTS)
      continue;
    had |= a->kind == VRAM_STAGE_B || a->kind == VRAM_STAGE_W;
    if (seen >> part & 1)
      continue;
    seen |= 1u << part;
    need[n].part = part;
    need[n].microbatch = a->microbatch;
    need[n++].kind = a->kind;
  }
  return n;
}

/* Plays a part; one that is known already is played without being written down. */
static void vram__part_play(vram__part_player *y, uint32_t which, vram__part_incoming *in) {
  const uint64_t used = y->p->used;
  vram__played again, *part = y->s->part + which;
  const int known = part->known;
  uint32_t i;
  vram__memory_zero(&again, sizeof again);
  if (known)
    part = &again;
  if (which < VRAM__PART_BACKWARD)
    vram__part_forward(y, part);
  else if (which < VRAM__PART_INPUT || (which >= VRAM__PART_WEIGHT && y->s->is_first))
    vram__part_backward(y, part, in);
  else if (which < VRAM__PART_WEIGHT)
    vram__part_input(y, part, in);
  else
    vram__part_weight(y, part);
  if (known)
    y->p->used = used;
  if (which < VRAM__PART_BACKWARD || (which >= VRAM__PART_INPUT && !y->s->is_first))
    return; /* what came for an input part stays for its weight part */
  for (i = 0; i < y->s->nout && !y->t.failed; i++)
    if (in[i].at.d) {
      vram__tensor_release(&y->t, in[i].at); /* no part has it */
      in[i].at = vram__tensor_none();
    }
}

enum { VRAM__PART_MICROS = VRAM__PARTS };

/* The microbatches that are needed, in order; how many. */
static uint32_t vram__part_micros(const vram__part_need *need, uint32_t n, vram__part_micro *to) {
  uint32_t i, j, count = 0;
  for (i = 0; i < n; i++) {
    for (j = 0; j < count && to[j].microbatch != need[i].microbatch;)
      j++;
    if (j < count)
      continue;
    for (j = count++; j && to[j - 1].microbatch > need[i].microbatch; j--)
      to[j].microbatch = to[j - 1].microbatch;
    to[j].microbatch = need[i].microbatch;
  }
  return count;
}

/* Numbers of what lives behind a part that began with number `from` of it. */
static int vram__part_number_live(vram__pipe *p, vram__played *part) {
  uint32_t i;
  part->live_of = (uint32_t *)vram__pipe_take(p, (part->ids + UINT64_C(1)) * sizeof(uint32_t));
  if (!part->live_of)
    return 0;
  for (i = 0; i < part->ids; i++)
    part->live_of[i] = 0;
  for (i = 0; i < part->count; i++)
    if (part->event[i].kind == VRAM__PART_FREE && !VRAM__ID_KIND(part->event[i].id))
      part->live_of[part->event[i].id] = VRAM__ID_NONE;
  for (i = part->live = 0; i < part->ids; i++)
    if (part->live_of[i] != VRAM__ID_NONE)
      part->live_of[i] = part->live++;
  return 1;
}

/* The number of what lived behind another part of the microbatch. */
static uint32_t vram__part_live_id(const vram__pipe_stage *s, uint32_t which, uint32_t id) {
  const uint32_t later = VRAM__ID_KIND(id) == VRAM__ID_FIRST ? 0 : which & 1;
  const vram__played *f = s->part + VRAM__PART_FORWARD + later;
  const vram__played *i = s->part + VRAM__PART_INPUT + later;
  const uint32_t n = VRAM__ID_NUMBER(id);
  uint32_t live;
  if (id == VRAM__ID_NONE || !VRAM__ID_KIND(id) || VRAM__ID_KIND(id) == VRAM__ID_INPUT)
    return id;
  live = n < f->ids ? f->live_of[n] : i->known ? f->live + i->live_of[n - f->ids] : VRAM__ID_NONE;
  return live == VRAM__ID_NONE ? VRAM__ID_NONE : VRAM__ID_KIND(id) | live;
}

static int vram__part_settle(vram__pipe *p, vram__pipe_stage *s) {
  uint32_t k, i;
  for (k = 0; k < VRAM__PARTS; k++)
    if ((k < VRAM__PART_BACKWARD || (k & ~1u) == VRAM__PART_INPUT) && s->part[k].known &&
        !vram__part_number_live(p, s->part + k))
      return 0;
  for (k = VRAM__PART_BACKWARD; k < VRAM__PARTS; k++)
    for (i = 0; s->part[k].known && i < s->part[k].count; i++) {
      vram__part_event *e = s->part[k].event + i;
      if (e->kind != VRAM__PART_FREE)
        continue;
      e->id = vram__part_live_id(s, k, e->id);
      if (e->id == VRAM__ID_NONE)
        return vram__pipe_fail(p, VRAM_ERR_UNSUPPORTED, "a tensor that goes twice");
    }
  return 1;
}

/* The graph as a step of its own, before anything runs. */
static int vram__part_step(vram__step *t, vram__pipe *p, const vram_graph *g,
                           const vram_step_options *o, void *scratch, uint64_t bytes,
                           vram_report *report) {
  vram_result r;
  t->count.live = NULL;
  t->count.live_cap = 0;
  t->count.stop_at = 0;
  t->replay = NULL;
  t->cuts = NULL;
  t->caches = NULL;
  t->layers = NULL;
  t->pipe = NULL;
  r = vram__step_set_up(g, o, scratch, bytes, report, t, 0);
  if (!r) {
    vram__step_put_model(t);
    vram__step_put_inputs(t);
    r = (vram_result)t->failed;
  }
  return r ? vram__pipe_fail(p, r, t->problem) : 1;
}

/* Options of a step that nobody listens to. */
static void vram__part_options(vram_step_options *quiet, const vram_step_options *o) {
  *quiet = *o;
  quiet->event = NULL;
  quiet->user = NULL;
  quiet->nodes = NULL;
  quiet->replay = NULL;
  quiet->parallel = NULL;
  quiet->first_step = 1;
  quiet->accumulate = 0;
  quiet->prefetch = 0;
}

static int vram__part_stage(vram__part_player *y, vram__part_incoming *in) {
  vram__step *const t = &y->t;
  vram__part_need need[VRAM__PARTS];
  vram__part_micro micro[VRAM__PART_MICROS];
  uint32_t i, j, n, count;
  vram__memory_zero(micro, sizeof micro);
  n = vram__part_needs(y, need);
  count = vram__part_micros(need, n, micro);
  y->first = NULL;
  for (i = 0; i < count && !t->failed; i++) {
    y->micro = micro + i;
    y->micro->root = (vram__part_root *)vram__memory_take(
        t->mem, &t->used, t->cap, (y->s->nout + UINT64_C(1)) * sizeof *y->micro->root);
    if (!y->micro->root)
      return vram__pipe_fail(y->p, VRAM_ERR_MEMORY, NULL);
    if (!micro[i].microbatch)
      y->first = micro + i;
    vram__part_play(y, VRAM__PART_FORWARD + (micro[i].microbatch != 0), in);
  }
  for (i = 0; i < n && !t->failed; i++) {
    for (j = 0; micro[j].microbatch != need[i].microbatch;)
      j++;
    y->micro = micro + j;
    if (need[i].kind == VRAM_STAGE_F || (need[i].kind == VRAM_STAGE_I && y->micro->begun))
      continue;
    if (need[i].kind == VRAM_STAGE_W && !y->micro->begun)
      vram__part_play(y, VRAM__PART_INPUT + (micro[j].microbatch != 0), in);
    if (!t->failed)
      vram__part_play(y, need[i].part, in);
  }
  y->micro = NULL;
  if (t->failed)
    return vram__pipe_fail(y->p, (vram_result)t->failed, t->problem);
  return y->p->failed ? 0 : vram__part_settle(y->p, y->s);
}

/* Plays every part of every local stage. */
VRAM__FN int vram__pipe_parts(vram__pipe *p, const vram_step_options *o, void *scratch,
                              uint64_t bytes) {
  vram__part_player y;
  vram_step_options quiet;
  vram_report report;
  vram__part_incoming *in;
  uint32_t k, most = 1;
  vram__memory_zero(&y, sizeof y);
  vram__part_options(&quiet, o);
  quiet.event = vram__part_hear;
  quiet.user = &y;
  y.p = p;
  for (k = 0; k < p->local; k++) {
    most = p->stage[k].nin > most ? p->stage[k].nin : most;
    most = p->stage[k].nout > most ? p->stage[k].nout : most;
  }
  y.had = (uint8_t *)vram__pipe_take(p, p->g.nparam + UINT64_C(1));
  y.given = (uint32_t *)vram__pipe_take(p, (most + UINT64_C(1)) * sizeof *y.given);
  in = (vram__part_incoming *)vram__pipe_take(p, most * (uint64_t)sizeof *in);
  y.order = (uint32_t *)vram__pipe_take(p, (p->g.nparam + UINT64_C(1)) * sizeof *y.order);
  if (!y.had || !y.given || !in || !y.order)
    return 0;
  vram__memory_zero(y.had, p->g.nparam);
  vram__memory_zero(in, most * (uint64_t)sizeof *in);
  if (!vram__part_step(&y.t, p, &p->g, &quiet, scratch, bytes, &report))
    return 0;
  y.t.brief = vram__part_hear_brief;
  if (p->parallel->wrapper)
    y.t.leaf.accumulated = vram__part_accumulated;
  for (k = 0; k < p->naction; k++)
    y.t.tape.split |= p->action[k].kind == VRAM_STAGE_W;
  for (k = 0; k < p->local; k++) {
    y.s = p->stage + k;
    y.s->is_cast = (uint8_t *)vram__pipe_take(p, y.s->nin + UINT64_C(1));
    if (!y.s->is_cast)
      return 0;
    vram__memory_zero(y.s->is_cast, y.s->nin + UINT64_C(1));
    if (!vram__part_stage(&y, in))
      return 0;
  }
  p->saved = report.saved_bytes;
  p->autocast = vram__autocast_leave(&y.t);
  return 1;
}

/* ---- what crosses */

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
        to[count].grad = vram__tensor_wants_grad(t, x) && vram__dtype_is_float(x.dt);
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
  vram__part_options(&quiet, o);
  if (!vram__part_step(&t, p, g, &quiet, scratch, bytes, &report))
    return 0;
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
