/* >>step/checkpoint    calls of checkpoint() are played (torch/utils/checkpoint.py) */
#include "step/step.h"

static uint32_t vram__storage_writes_to(const vram__step *s, vram__tensor t) {
  return t.st ? vram__owner_at(s, t.st)->writes : 0;
}

/* A saved input of the call must be what it was (SavedVariable::unpack looks at its version). */
static int vram__checkpoint_untouched(vram__step *s, const vram__range *r, vram__tensor t,
                                      vram__argument was) {
  if (vram__storage_writes_to(s, t) == was.writes)
    return 1;
  vram__step_refuse(
      s, VRAM_ERR_UNSUPPORTED, r->first,
      "an in-place operation overwrites an input of a checkpointed part: PyTorch cannot "
      "recompute it");
  return 0;
}

/* The tape before something is played for a moment. Afterwards nothing leads to what came behind
   it, so that the memory can be used again. */
typedef struct vram__mark {
  const vram_dims *cache[64], *vec;
  uint64_t used;
  uint32_t last_fn;
  const vram_node *node;
  vram__variable *old;
  uint32_t held;
} vram__mark;

static void vram__tape_reset(vram__step *s, const vram__mark *m) {
  vram__held_release(s, m->held, s->nheld);
  if (s->used > s->most_used)
    s->most_used = s->used;
  vram__memory_copy(s->dims_cache, m->cache, sizeof m->cache);
  s->vec = m->vec;
  s->used = m->used;
  s->tape.last = m->last_fn;
  s->node = m->node;
}

/* Runs the call's nodes once more on these inputs, with gradients, in an autocast context of its
   own; r->out[i] becomes out[i] if that is wanted. The inputs go in as the caller's handles. */
static void vram__checkpoint_run_again(vram__step *s, const vram__range *r, const vram__tensor *arg,
                                       vram__tensor *out, vram__mark *m) {
  const vram_node *n, *end = r->last->next;
  const uint8_t resets = r->nnamed && !(r->flags & VRAM_CHECKPOINT_FORGETS_RNG);
  const uint8_t inside = s->autocasts_backward; /* this one is a backward of its own no longer */
  uint8_t cat = s->cat;
  uint32_t i;
  for (n = r->first; n != end; n = n->next)
    for (i = 0; i < n->nout; i++) {
      vram__variable *o = s->variable + n->out[i].index;
      if (o->refs && vram__step_is_captured(n->out + i))
        vram__tensor_release(s, o->t);
      o->refs = 0;
    }
  for (i = 0; i < r->narg; i++) {
    m->old[i] = s->variable[r->arg[i]->index];
    vram__variable_name(s, r->arg[i], vram__tensor_retain(s, arg[i]));
  }
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  s->grad = 1;
  s->autocasts_backward = 0;
  s->rnn_reset |= resets; /* set_device_states, for the devices of the inputs */
  end = vram__checkpoint_parts(s, r->first, end, (uint32_t)(r - s->call.range) + 1, r->behind);
  s->rnn_reset |= resets; /* fork_rng ends */
  for (i = 0; out && i < r->nout && !s->failed; i++) {
    vram__tensor *t = &s->variable[s->name_of[r->out[i]->index]].t;
    vram__history_refresh(s, t);
    out[i] = vram__tensor_retain(s, *t);
  }
  s->grad = 0;
  s->call.mute = 0;
  s->cat = cat;
  s->autocasts_backward = inside;
  if (inside && s->emptied)
    s->emptied(s);
  vram__autocast_leave(s);
  for (n = r->first; n != end && !s->failed; n = n->next)
    for (i = 0; i < n->nout; i++) {
      vram__variable *o = s->variable + n->out[i].index;
      if (o->refs)
        vram__tensor_release(s, o->t);
      o->refs = 0;
    }
  for (i = 0; i < r->narg && !s->failed; i++) {
    vram__variable *o = s->variable + r->arg[i]->index;
    if (o->refs)
      vram__tensor_release(s, o->t);
    *o = m->old[i];
  }
}

static int vram__tape_mark(vram__step *s, const vram__range *r, vram__mark *m) {
  vram__memory_copy(m->cache, s->dims_cache, sizeof m->cache);
  m->vec = s->vec;
  m->used = s->used;
  m->last_fn = s->tape.last;
  m->node = s->node;
  m->held = s->nheld;
  m->old = (vram__variable *)vram__memory_take(s->mem, &s->used, s->cap,
                                               r->narg * (uint64_t)sizeof *m->old);
  if (!m->old)
    s->failed = VRAM_ERR_MEMORY;
  return m->old != NULL;
}

/* What went into a call inside another one: recomputed with that one, and gone when it was taken.
 */
static void vram__checkpoint_take_inputs(vram__step *s, vram__frame *c) {
  vram__grad_fn *f = vram__grad_fn_at(s, c->inputs);
  uint32_t i;
  vram__saved_unpack(s, f);
  for (i = 0; i < c->range->nnamed && !s->failed; i++) {
    vram__tensor *t = VRAM__SAVED(f) + i, *x = c->arg + i;
    *x = vram__tensor_alias(s, *t, t->d); /* detached, and unpacked with the history of then */
    if (x->st) {
      vram__storage *st = vram__slot_at(s, x->st);
      st->fn = VRAM__EDGES(f)[i].fn;
      st->out = VRAM__EDGES(f)[i].out & VRAM__MOST_OUTPUTS;
      st->req = st->fn != 0;
      st->off = c->was[i].off & 15;
      if (vram__is_grad_fn(st->fn))
        vram__grad_fn_at(s, st->fn)->refs++;
    }
    if (t->st)
      vram__storage_release(s, t->st);
    t->st = 0;
  }
}

/* unpack_hook of the first tensor that is wanted: every record of the call gets its own back. */
VRAM__FN void vram__checkpoint_recompute(vram__step *s, vram__frame *c) {
  const vram__range *r = c->range;
  vram__mark m;
  uint32_t i;
  c->done = 1;
  if (c->inputs)
    vram__checkpoint_take_inputs(s, c);
  else
    for (i = 0; i < r->nnamed; i++)
      if (!vram__checkpoint_untouched(s, r, c->arg[i], c->was[i]))
        return;
  if (s->failed || !vram__tape_mark(s, r, &m))
    return;
  s->call.frame = c;
  s->call.again = 1;
  s->call.saved = s->call.full = 0;
  s->call.cursor = c->first;
  vram__checkpoint_run_again(s, r, c->arg, NULL, &m);
  s->call.frame = NULL;
  s->call.again = 0;
  for (i = 0; c->inputs && i < r->nnamed && !s->failed; i++)
    vram__tensor_release(s, c->arg[i]);
  vram__tape_reset(s, &m);
}

/* The first leaf of the inputs of the call that runs again: beyond the parameters', and those of
   the calls around it. */
static uint32_t vram__checkpoint_leaves(const vram__step *s) {
  return s->leaf.count + s->call.level * s->call.most_args;
}

/* The detached inputs of a call that runs again: leaves. */
static void vram__checkpoint_detach(vram__step *s, vram__grad_fn *f, const vram__argument *was,
                                    vram__tensor *in) {
  const uint32_t first = vram__checkpoint_leaves(s);
  uint32_t i;
  for (i = 0; i < f->nin; i++) {
    const vram__tensor t = VRAM__SAVED(f)[i];
    vram__leaf_set(s, first + i, t.d, t.dt);
    vram__leaf_spread(s, first + i);
    in[i] = vram__tensor_alias(s, t, t.d);
    vram__tensor_begin_at(s, in[i], was[i].off);
    if (in[i].st && vram__input_wanted(f, i)) {
      vram__slot_at(s, in[i].st)->fn = VRAM__LEAF | (first + i);
      vram__slot_at(s, in[i].st)->req = 1;
    }
  }
}

/* torch.autograd.backward(outputs, gradients) of what ran again; 0: none wants a gradient. */
static int vram__checkpoint_backward_inner(vram__step *s, vram__grad_fn *f, const vram__tensor *out,
                                           const vram__mark *m) {
  const uint32_t nout = s->call.range[(uint32_t)f->aux].nout;
  vram__tensor *const gin = s->gin, *const own = vram__backward_room(s);
  vram__leaf *const now = s->leaf.now;
  uint32_t i, roots = 0;
  s->leaf.now = s->leaf.inner + s->call.level * (uint64_t)s->leaf.room;
  for (i = 0; i < nout && !s->failed; i++) {
    const uint32_t fn = vram__tensor_fn(s, out[i]);
    roots += fn != 0;
    if (vram__is_grad_fn(fn))
      vram__grad_fn_at(s, fn)->flag = 1;
  }
  if (!roots || s->failed)
    return 0;
  s->gin = own;
  vram__backward_expect(s, s->tape.last, m->last_fn);
  for (i = 0; i < nout; i++)
    if (vram__tensor_fn(s, out[i])) {
      vram__edge e;
      vram__tensor g;
      e.fn = vram__tensor_fn(s, out[i]);
      e.out = vram__slot_at(s, out[i].st)->out;
      g = vram__tensor_retain(s, VRAM__SLOTS(f)[i].g);
      vram__gradient_arrive(s, vram__edge_end(s, e), &g);
      if (g.d)
        vram__tensor_release(s, g);
      if ((e.fn & VRAM__LEAF) && !s->leaf.now[e.fn & ~VRAM__LEAF].deps)
        vram__gradient_accumulate(s, s->leaf.at + (e.fn & ~VRAM__LEAF));
    }
  s->call.level++;
  vram__backward_walk(s, s->tape.last, m->last_fn);
  s->call.level--;
  s->leaf.now = now;
  s->gin = gin;
  return 1;
}

/* CheckpointFunction.backward: the call runs on detached inputs, then a backward of its own, whose
   gradients of those inputs are handed on. */
VRAM__FN void vram__checkpoint_backward(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__range *r = &s->call.range[(uint32_t)f->aux];
  const vram__frame *c = vram__frame_at(s, (uint32_t)(f->aux >> 32));
  vram__tensor *in, *out;
  vram_dims *keep;
  vram__mark m;
  uint32_t i;
  for (i = 0; i < r->nnamed; i++)
    if (!vram__checkpoint_untouched(s, r, VRAM__SAVED(f)[i], c->was[i]))
      return;
  for (i = 0; i < r->nout; i++) { /* gradients that did not come are zeros */
    vram__slot *o = VRAM__SLOTS(f) + i;
    if (!o->g.d)
      o->g = vram__tensor_empty(s, vram__dims_contiguous(s, o->d), o->dt);
  }
  keep = (vram_dims *)vram__memory_take(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *keep);
  if (!vram__tape_mark(s, r, &m))
    return;
  in = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *in);
  out =
      (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap, r->nout * (uint64_t)sizeof *out);
  if (!keep || !in || !out) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__checkpoint_detach(s, f, c->was, in);
  for (i = r->nnamed; i < r->narg; i++)
    in[i] = c->arg[i];
  vram__checkpoint_run_again(s, r, in, out, &m);
  if (!vram__checkpoint_backward_inner(s, f, out, &m)) {
    if (!s->failed)
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, r->first,
                        "no output of a checkpointed part requires a gradient: PyTorch stops with "
                        "an error in the reentrant form");
    return;
  }
  for (i = 0; i < r->nout; i++)
    vram__tensor_release(s, out[i]);
  for (i = 0; i < r->nnamed; i++) {
    vram__tensor_release(s, in[i]);
    if (!vram__input_wanted(f, i))
      continue;
    to[i] = s->leaf.at[vram__checkpoint_leaves(s) + i].grad;
    if (to[i].d && (const uint8_t *)to[i].d >= s->mem + m.used) {
      vram__memory_copy(keep + i, to[i].d, vram__dims_bytes(to[i].d->ndim));
      to[i].d = keep + i;
    }
  }
  vram__tape_reset(s, &m);
}

/* A call inside another one: what goes in is saved for that one, which keeps it only when it runs
   again. A tensor of the host goes before them (_NoopSaveInputs). */
static void vram__checkpoint_save_inputs(vram__step *s, vram__frame *c) {
  const uint32_t n = c->range->nnamed;
  vram__grad_fn *f = vram__tape_record_raw(s, VRAM__K_inputs, n, 0, n);
  uint32_t i;
  if (!f)
    return;
  f->refs = 1;
  c->inputs = vram__grad_fn_index(s, f);
  for (i = 0; i < n; i++)
    vram__tape_edge_from(s, f, i, c->arg[i]);
  if (n)
    vram__frame_pack(s, f, NULL, 0);
  for (i = 0; i < n; i++)
    vram__save_tensor(s, f, c->arg[i]);
}

/* A frame that holds what goes into the call; NULL: no memory. */
static vram__frame *vram__frame_begin(vram__step *s, const vram__range *r) {
  vram__frame *c = (vram__frame *)vram__memory_take(s->mem, &s->used, s->cap, sizeof *c);
  uint32_t i;
  if (c) {
    vram__memory_zero(c, sizeof *c);
    c->arg = (vram__tensor *)vram__memory_take(s->mem, &s->used, s->cap,
                                               r->narg * (uint64_t)sizeof *c->arg);
    c->was = (vram__argument *)vram__memory_take(s->mem, &s->used, s->cap,
                                                 r->narg * (uint64_t)sizeof *c->was);
  }
  if (!c || !c->arg || !c->was) {
    s->failed = VRAM_ERR_MEMORY;
    return NULL;
  }
  c->range = r;
  c->alive = 1;
  for (i = 0; i < r->narg; i++) {
    vram__tensor *t = &s->variable[s->name_of[r->arg[i]->index]].t;
    vram__history_refresh(s, t);
    c->arg[i] = vram__tensor_retain(s, *t);
    c->was[i].writes = vram__storage_writes_to(s, *t);
    c->was[i].off = vram__slot_at(s, t->st)->off;
  }
  return c;
}

/* CheckpointFunction's record; what went in is saved when the function has run. */
static vram__grad_fn *vram__checkpoint_record(vram__step *s, const vram__frame *c) {
  const vram__range *r = c->range;
  vram__grad_fn *f =
      vram__tape_record(s, VRAM__K_checkpoint, c->arg, r->nnamed, r->nout, r->nnamed);
  if (f)
    f->aux = (uint64_t)(r - s->call.range) |
             (uint64_t)((const uint8_t *)(const void *)c - s->mem) / 8 << 32;
  return f;
}

static void vram__checkpoint_save_arguments(vram__step *s, const vram__frame *c, vram__grad_fn *f) {
  uint32_t i;
  s->node = c->range->first;
  for (i = 0; i < c->range->nnamed; i++)
    vram__save_tensor(s, f, c->arg[i]);
}

/* What comes out of the call is made by its record f. */
static void vram__checkpoint_set_outputs(vram__step *s, const vram__range *r, vram__grad_fn *f) {
  uint32_t i, k;
  for (i = 0; i < r->nout; i++) {
    const vram_value *v = r->out[i];
    vram__tensor *t = &s->variable[s->name_of[v->index]].t;
    for (k = 0; k < r->narg; k++)
      if (s->name_of[v->index] == s->name_of[r->arg[k]->index]) { /* an input comes out: a view */
        vram__tensor y = vram__tensor_view(s, *t, t->d);
        vram__variable_unname(s, v);
        vram__variable_name(s, v, y);
        t = &s->variable[v->index].t;
        break;
      }
    VRAM__SLOTS(f)[i].d = t->d;
    VRAM__SLOTS(f)[i].dt = t->dt;
    if (vram__kind_rank(t->dt) >= 2 && vram__tensor_fn(s, *t) != vram__grad_fn_index(s, f))
      vram__grad_fn_set_output(s, f, i, t);
  }
}

/* Values of the range that nothing outside it uses but a later `drop` end with the call. */
static void vram__checkpoint_unname_inner(vram__step *s, const vram__range *r) {
  const vram_node *n;
  uint32_t i, k;
  for (n = r->first; n != r->last->next; n = n->next)
    for (i = 0; i < n->nout; i++) {
      const vram_value *v = &n->out[i];
      if (v->last <= r->last->index || vram__step_is_captured(v) ||
          (s->outside && v->last > s->unit_end) || /* the unit returns it */
          s->name_of[v->index] == s->g->nvalue)
        continue;
      for (k = 0; k < r->nout && r->out[k] != v;)
        k++;
      if (k == r->nout) {
        vram__variable_unname(s, v);
        s->name_of[v->index] = s->g->nvalue; /* nobody's object */
      }
    }
}

/* What the function of a reentrant call refers to lives as long as its record. */
static void vram__checkpoint_keep(vram__step *s, vram__frame *c) {
  for (; c->own < c->range->narg; c->own++)
    if (s->nheld < s->held_room)
      s->held[s->nheld++] = c->arg[c->own];
    else
      s->failed = VRAM_ERR_MEMORY;
}

/* A layer of transformers gets by position what wants a gradient, as this form asks for, and the
   rest by keyword: its function refers to that. */
static void vram__range_split(vram__step *s, vram__range *r) {
  uint32_t i, k, named = 0;
  if (!s->o->by_keyword || r->block || !s->grad || !(r->flags & VRAM_CHECKPOINT_REENTRANT))
    return;
  for (i = 0; i < r->narg; i++) {
    const vram_value *v = r->arg[i];
    vram__tensor *t = &s->variable[s->name_of[v->index]].t;
    vram__history_refresh(s, t);
    if (!vram__tensor_fn(s, *t))
      continue;
    for (k = i; k > named; k--)
      r->arg[k] = r->arg[k - 1];
    r->arg[named++] = v;
  }
  if (named)
    r->nnamed = named;
}

/* One call of checkpoint(), in the forward pass or while another one around it runs. */
static void vram__checkpoint_forward(vram__step *s, const vram__range *r) {
  vram__frame *const c = vram__frame_begin(s, r);
  vram__frame *const around = s->call.frame;
  const uint8_t again = s->call.again, grad = s->grad;
  vram__grad_fn *f = NULL;
  uint32_t i;
  if (!c)
    return;
  s->node = r->first;
  if (grad && (r->flags & VRAM_CHECKPOINT_REENTRANT)) {
    f = vram__checkpoint_record(s, c);
    for (i = r->nnamed; f && i < r->narg; i++)
      if (vram__is_grad_fn(vram__tensor_fn(s, c->arg[i]))) {
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, r->first,
                          "a reentrant checkpoint whose function refers to a tensor that needs a "
                          "gradient and is none of its arguments: PyTorch's backward inside "
                          "backward goes on from it, and stops with an error when it comes twice");
        return;
      }
    if (f && !around)
      vram__checkpoint_save_arguments(s, c, f);
    s->grad = 0;
  } else if (grad) {
    if (around)
      vram__checkpoint_save_inputs(s, c);
    if (!s->call.mute) {
      s->call.frame = c;
      s->call.again = 0;
    }
  }
  vram__checkpoint_parts(s, r->first, r->last->next, (uint32_t)(r - s->call.range) + 1, r->behind);
  s->call.frame = around;
  s->call.again = again;
  s->grad = grad;
  if (s->failed)
    return;
  if (f && around)
    vram__checkpoint_save_arguments(s, c, f);
  if (f)
    vram__checkpoint_set_outputs(s, r, f);
  if (c->saves && !around) /* its inputs are kept for backward */
    for (i = 0; i < r->nnamed; i++)
      if (c->arg[i].st)
        vram__saved_count(s, vram__owner_at(s, c->arg[i].st));
  if (!s->call.mute && !r->block) /* a block's `drop`s say when its values end */
    vram__checkpoint_unname_inner(s, r);
  if (c->inputs || f) { /* its record has them */
    for (i = 0; i < r->nnamed; i++)
      vram__tensor_release(s, c->arg[i]);
    c->own = r->nnamed;
  }
  if (f)
    vram__checkpoint_keep(s, c);
  vram__frame_release(s, c);
}

/* Runs the nodes from n up to `end`; those of the ranges from `at`, up to `behind`, as calls of
   checkpoint(). Gives the node where it stopped. */
VRAM__FN const vram_node *vram__checkpoint_parts(vram__step *s, const vram_node *n,
                                                 const vram_node *end, uint32_t at,
                                                 uint32_t behind) {
  while (at < behind && !s->failed) {
    vram__range *r = &s->call.range[at];
    n = vram__forward_nodes(s, n, r->first);
    if (s->failed || s->call.mute)
      return n;
    if (s->layers && (n = vram__layers_forward(s, r->first)) != r->first) {
      at += s->layers->left;
      continue;
    }
    vram__range_split(s, r);
    vram__checkpoint_forward(s, r);
    if (s->call.mute) /* with its inputs: before its nodes ran, a reentrant one after */
      return r->flags & VRAM_CHECKPOINT_REENTRANT ? r->last->next : r->first;
    n = r->last->next;
    at = r->behind;
    if (r->hold && r->nout && !s->failed) {
      vram__variable *o = s->variable + s->name_of[r->out[0]->index];
      const uint32_t first = at;
      while (at < behind && s->call.range[at].first->index <= r->hold->index)
        at = s->call.range[at].behind;
      o->refs++;
      vram__checkpoint_parts(s, n, r->hold->next, first, at);
      n = r->hold->next;
      if (o->refs && --o->refs == 0)
        vram__tensor_release(s, o->t);
    }
  }
  return vram__forward_nodes(s, n, end);
}
