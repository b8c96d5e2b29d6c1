/* ---- the step ---- */

/* What is not in every run: leaf i has no cached copy, and nothing has arrived for it. */
static inline void vram__clear_leaf(vram__s *s, uint32_t i) {
  if (s->cast)
    s->cast[i] = vram__none();
  if (s->inner) {
    s->inner[i].in = vram__none();
    s->inner[i].deps = 0;
  }
}

/* InputBuffer::add: one more gradient for an input, which stays the caller's */
static void vram__one_more(vram__s *s, vram__t *at, const vram__t *t) {
  const vram__store *st = s->top - at->st;
  vram__t sum;
  if (at->st && st->refs == 1 && (s->top - st->base)->srefs == 1 && !st->shown &&
      (at->d->flags & VRAM__DENSE))
    return; /* added in place */
  sum = vram__ti2(s, *at, *t);
  vram__let(s, *at);
  *at = sum;
}

/* A gradient for an input; the first is taken. */
static inline void vram__arrive(vram__s *s, vram__t *at, vram__t *t) {
  if (at->d)
    vram__one_more(s, at, t);
  else {
    *at = *t;
    t->d = NULL;
  }
}

/* Can t become l's gradient as it is? (AccumulateGrad::accumulateGrad: nobody else has it, and its
   strides are the leaf's.) */
static int vram__takes_over(const vram__s *s, const vram__leaf *l, const vram__t *t) {
  uint32_t i;
  if (t->st && (s->top - t->st)->refs != 1)
    return 0;
  if (!(l->d->flags & VRAM__DENSE))
    return (t->d->flags & VRAM__CONTIG) != 0;
  for (i = 0; t->d != l->d && i < t->d->ndim; i++)
    if (t->d->v[i] != 1 ? VRAM__STRIDE(t->d)[i] != VRAM__STRIDE(l->d)[i] : !VRAM__STRIDE(t->d)[i])
      return 0;
  return 1;
}

VRAM__RARE void vram__emit_gradient(vram__s *s, const vram__store *b) {
  vram_event e;
  vram__zero(&e, sizeof e);
  e.action = VRAM_BECOMES;
  e.phase = s->phase;
  e.category = VRAM_CATEGORY_GRADIENTS;
  e.was = (vram_category)b->cat;
  e.id = b->id == UINT32_MAX ? -1 : (int64_t)b->id;
  e.bytes = b->bytes;
  e.node = b->node;
  if (s->o->event)
    s->o->event(s->o->user, &e);
  if (s->run && s->run->pool.options.event && b->block) {
    e.id = -1;
    e.address = s->run->pool.block[b->block].address;
    s->run->pool.options.event(s->run->pool.options.user, &e);
  }
}

/* A storage becomes a gradient. */
static inline void vram__is_gradient(vram__s *s, vram__store *b) {
  if (s->fresh)
    vram__at_peak(s);
  if ((s->o->event || s->run) && b->bytes && b->cat != VRAM_CATEGORY_GRADIENTS)
    vram__emit_gradient(s, b);
  if (s->cuts && b->cat != VRAM_CATEGORY_GRADIENTS && !s->cuts->plain) {
    const uint64_t bytes = vram__blocks(b->bytes);
    s->cuts->now -= bytes < s->cuts->now ? bytes : s->cuts->now;
  }
  s->cats.of[b->cat] -= b->bytes;
  b->cat = VRAM_CATEGORY_GRADIENTS;
  s->cats.of[VRAM_CATEGORY_GRADIENTS] += b->bytes;
}

static void vram__accumulate_any(vram__s *s, vram__leaf *l, vram__t *t) {
  if (t->d && l->grad.d)
    vram__let(s, *t);
  else if (t->d) {
    if (!vram__takes_over(s, l, t)) {
      l->grad = vram__empty(s, l->d->flags & VRAM__DENSE ? l->d : vram__contig(s, t->d), t->dt);
      vram__let(s, *t);
    } else if (t->st && (s->top - t->st)->of) { /* new_grad.detach() is no view */
      l->grad = vram__alias_only(s, *t, t->d);
      vram__let(s, *t);
    } else
      l->grad = *t;
    if (l->d->flags & VRAM__DENSE)
      l->grad.d = l->d; /* t's own may go with the tape */
    if (l->grad.st)
      (s->top - l->grad.st)->shown = 0;       /* detached, it is no view */
    if (l->grad.st && l < s->leaf + s->nleaf) /* no input of a call inside backward */
      vram__is_gradient(s, s->top - (s->top - l->grad.st)->base);
  }
  t->d = NULL;
}

/* AccumulateGrad. Nearly always it takes over what nobody else has. */
static void vram__accumulate(vram__s *s, vram__leaf *l) {
  vram__t *t = &l->task.in;
  vram__store *b = s->top - t->st;
  if (!s->depth && t->d == l->d && !l->grad.d && t->st && b->base == t->st && b->refs == 1 &&
      !b->of && (l->d->flags & VRAM__DENSE)) {
    l->grad = *t;
    t->d = NULL;
    b->shown = 0;
    vram__is_gradient(s, b);
  } else
    vram__accumulate_any(s, l, &vram__task_of(s, l)->in);
}

/* One gradient, or none, goes to where an edge leads. */
static inline void vram__deliver(vram__s *s, vram__edge e, vram__t *t) {
  if (e.fn & VRAM__LEAF) {
    vram__leaf *l = s->leaf + (e.fn & ~VRAM__LEAF);
    if (t->d)
      vram__arrive(s, &vram__task_of(s, l)->in, t);
    vram__task_of(s, l)->deps--;
  } else if (t->d)
    vram__arrive(s, &VRAM__SLOTS(vram__fn_at(s, e.fn))[e.out].g, t);
}

/* torch::autograd::validate_outputs: the gradient gets the shape and dtype of what it belongs to.
 */
static void vram__validate(vram__s *s, vram__t *t, const vram_dims *d, uint8_t dt) {
  vram__t u;
  if (t->d != d) {
    uint32_t k;
    int same = t->d->ndim == d->ndim;
    for (k = 0; same && k < d->ndim; k++)
      same = t->d->v[k] == d->v[k];
    if (!same) {
      u = vram__sum_to(s, *t, d);
      vram__let(s, *t);
      *t = u;
    }
  }
  if (t->dt != dt) {
    u = vram__to(s, *t, dt);
    vram__let(s, *t);
    *t = u;
  }
}

static inline void vram__fit(vram__s *s, vram__edge e, vram__t *t) {
  if (e.fn & VRAM__LEAF) {
    const vram__leaf *l = s->leaf + (e.fn & ~VRAM__LEAF);
    if (t->d != l->d || t->dt != l->dt)
      vram__validate(s, t, l->d, l->dt);
  } else {
    const vram__slot *o = VRAM__SLOTS(vram__fn_at(s, e.fn)) + e.out;
    if (t->d != o->d || t->dt != o->dt)
      vram__validate(s, t, o->d, o->dt);
  }
}

/* A linear layer whose weight or bias has a gradient already: AddmmBackward hands on those of the
   bias and of x, TBackward that of the weight; folded axes of x are ViewBackward's, which is older
   than TBackward with a bias and younger without (Linear.cpp). What was added goes with each. */
VRAM__RARE void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f);
  vram__t *g = &VRAM__SLOTS(f)[0].g;
  const uint32_t x = f->nin - 2u, folds = g->d->ndim > 2;
  uint32_t i, k, order[3];
  order[0] = 0, order[1] = x && folds ? 2 : 1, order[2] = 3 - order[1];
  for (i = 0; i < f->nin; i++)
    if (to[i].d)
      vram__fit(s, edge[i], to + i);
  vram__let(s, *g);
  g->d = NULL;
  vram__release_saved(s, f);
  for (k = 0; k < f->nin; k++) {
    vram__t *t = to + order[k];
    if (t->d)
      vram__arrive(s, vram__end_of(s, edge[order[k]]), t);
    if (!k && x && !folds)
      continue; /* the bias goes with x */
    for (i = 0; i <= k; i++)
      if (to[order[i]].d) {
        vram__let(s, to[order[i]]);
        to[order[i]].d = NULL;
      }
  }
}

/* Flags what the flagged records from `from` back to `end` lead to, and tells leaves how many
   gradients will come. */
static void vram__expect(vram__s *s, uint32_t from, uint32_t end) {
  uint32_t at, i;
  vram__fn *f;
  for (at = from; at != end; at = f->prev) {
    f = vram__fn_at(s, at);
    if (!f->flag)
      continue;
    for (i = 0; i < f->nin; i++) {
      uint32_t e = VRAM__EDGES(f)[i].fn;
      if (!e)
        continue;
      if (e & VRAM__LEAF)
        vram__task_of(s, s->leaf + (e & ~VRAM__LEAF))->deps++;
      else
        vram__fn_at(s, e)->flag = 1;
    }
  }
}

/* Where backward puts the gradients for the inputs of one record; between two records all are none.
 */
static vram__t *vram__room_for_inputs(vram__s *s) {
  uint32_t i;
  vram__t *t =
      (vram__t *)vram__bump(s->mem, &s->used, s->cap, (s->max_fn_in + 1) * (uint64_t)sizeof *t);
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  for (i = 0; t && i <= s->max_fn_in; i++)
    t[i].d = NULL;
  return t;
}

/* Runs them from the last to the first: each is ready then, and PyTorch's queue prefers the latest
   one that is ready. Leaves run as soon as their last gradient is there. */
static void vram__walk(vram__s *s, uint32_t from, uint32_t end) {
  vram__t *const gin = s->gin;
  uint32_t at, i;
  vram__fn *f;
  for (at = from; at != end && !s->failed; at = f->prev) {
    vram__edge *edge;
    vram__slot *slot;
    uint32_t leaves = 0;
    int any = 0, left = 0;
    f = vram__fn_at(s, at);
    if (!f->flag || f->done)
      continue;
    edge = VRAM__EDGES(f), slot = VRAM__SLOTS(f);
    f->done = 1;
    f->flag = 0;
    s->node = f->node;
    for (i = 0; i < f->nout; i++)
      any |= slot[i].g.d != NULL;
    if (any)
      vram__bw_any(s, f, gin);
    else
      vram__unpack(s, f);
    if (s->failed)
      return;
    for (i = 0; i < f->nin; i++)
      if (gin[i].d)
        vram__fit(s, edge[i], gin + i);
    for (i = 0; i < f->nout; i++)
      if (slot[i].g.d) {
        vram__let(s, slot[i].g);
        slot[i].g.d = NULL;
      }
    if (f->nsaved || f->inner)
      vram__release_saved(s, f);
    for (i = 0; i < f->nin; i++)
      if (edge[i].fn) {
        vram__deliver(s, edge[i], gin + i);
        leaves |= edge[i].fn & VRAM__LEAF;
        left |= gin[i].d != NULL;
      }
    for (i = 0; left && i < f->nin; i++) /* those that were added to others live up to here */
      if (gin[i].d) {
        vram__let(s, gin[i]);
        gin[i].d = NULL;
      }
    for (i = 0; leaves && i < f->nin; i++)
      if (edge[i].fn & VRAM__LEAF) {
        vram__leaf *l = s->leaf + (edge[i].fn & ~VRAM__LEAF);
        if (vram__task_of(s, l)->deps == 0)
          vram__accumulate(s, l);
      }
  }
}

static void vram__backward(vram__s *s, vram__t loss) {
  vram__t one;
  if (!loss.fn || (loss.fn & VRAM__LEAF))
    return;
  vram__fn_at(s, loss.fn)->flag = 1;
  one = vram__empty(s, vram__dense(s, loss.d), loss.dt); /* held by torch.autograd.backward */
  VRAM__SLOTS(vram__fn_at(s, loss.fn))[loss.out].g = vram__keep_t(s, one);
  vram__expect(s, loss.fn, 0);
  vram__walk(s, loss.fn, 0);
  vram__let(s, one);
}

/* What is there before the step: no event, id -1. */
static vram__t vram__existing(vram__s *s, const vram_dims *d, uint8_t dt, uint8_t cat) {
  const uint64_t events = s->events, next_id = s->next_id, peak_event = s->peak_event;
  const uint8_t old = s->cat, watched = s->watched;
  vram__t t;
  s->watched = 0;
  s->cat = cat;
  t = vram__empty(s, d, dt);
  if (t.st) {
    vram__store *st = s->top - t.st;
    st->id = UINT32_MAX;
    if (s->run && s->run->taping)
      vram__tape(s->run, VRAM__TAPE_OWN, st->bytes);
    else if (s->run && s->run->fresh) {
      vram__run_as(s, cat, NULL);
      st->block = vram__run_get(s, st->bytes);
    }
  }
  s->events = events, s->next_id = next_id, s->peak_event = peak_event;
  s->watched = watched;
  s->cat = old;
  return t;
}

static inline void vram__name(vram__s *s, const vram_value *v, vram__t t) {
  s->name_of[v->index] = v->index;
  s->obj[v->index].t = t;
  s->obj[v->index].refs = 1;
}

static inline void vram__unname(vram__s *s, const vram_value *v) {
  vram__obj *o = s->obj + s->name_of[v->index];
  if (v == s->root)
    return; /* the caller's */
  if (o->refs && --o->refs == 0)
    vram__let(s, o->t);
}

/* Inference leaves out a loss that `output` does not name, and what nothing but its targets needs.
   What the loss was made of is then what the caller keeps. */
static void vram__leave_out(vram__s *s) {
  enum { USED = 1, TARGET = 2 };
  const vram_graph *g = s->g;
  const vram_node *n;
  uint8_t *value;
  uint32_t i;
  for (n = g->first; n && !(n->flags & VRAM__LOSS);)
    n = n->next;
  if (s->train || !n)
    return;
  s->skip = (uint8_t *)vram__bump(s->mem, &s->used, s->cap, g->nnode);
  value = (uint8_t *)vram__bump(s->mem, &s->used, s->cap, g->nvalue);
  if (!s->skip || !value) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__zero(value, g->nvalue);
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

static void vram__report_node(vram__s *s, const vram_node *n) {
  vram_node_report *r = s->o->nodes + n->index;
  uint32_t i, own = 0;
  r->params = r->output_bytes = 0;
  r->dtype = 0;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n && n->param[i]->kind != VRAM__BUFFER)
      r->params += n->param[i]->d->numel;
  for (i = 0; i < n->nout; i++) {
    vram__t t = s->obj[s->name_of[n->out[i].index]].t;
    if (!i)
      r->dtype = t.dt;
    if (t.st) { /* a view of what the node made is its own too, once */
      t.st = (s->top - t.st)->base;
      if (t.st != own && (s->top - t.st)->node == n)
        r->output_bytes += (s->top - t.st)->bytes;
      own = t.st;
    }
  }
  r->live_bytes = s->cur;
}

/* Does n write to its first input? */
static int vram__writes(const vram_node *n) {
  if (n->op >= VRAM_OP_dropout && n->op <= VRAM_OP_feature_alpha_dropout &&
      !VRAM__INT(n, p, VRAM__ONE / 2))
    return 0;
  return (n->flags & VRAM__INPLACE) || n->op == VRAM_OP_fill || n->op == VRAM_OP_bernoulli;
}

/* b was written to by an operation that came after this record; saved: b was saved before it. */
static void vram__overwritten(vram__s *s, vram__store *b, uint32_t newest, uint8_t saved) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  uint32_t i;
  b->writes = newest + 1;
  for (i = 0; s->cuts && s->phase == VRAM_PHASE_FORWARD && i < s->cuts->ncut; i++)
    if (s->cuts->cut[i].value && s->cuts->cut[i].id == b->id && b->id != UINT32_MAX)
      s->cuts->cut[i].bad = 1;
  if (saved || (own >> b->cat & 1)) /* own ones do not say whether they are saved */
    s->stale = 1;
}

/* Runs the nodes from n up to `end`; gives the node where it stopped. */
static const vram_node *vram__nodes(vram__s *s, const vram_node *n, const vram_node *end) {
  vram__t *x = s->args, *y = s->args + s->g->max_in + 8;
  vram_node_report *report = s->phase == VRAM_PHASE_FORWARD ? s->o->nodes : NULL;
  uint32_t i, first, newest;
  uint8_t saved;
  for (; n != end && !s->failed && !s->mute; n = n->next) {
    s->node = n;
    if (report)
      vram__zero(report + n->index, sizeof *report);
    if (s->skip && s->skip[n->index])
      continue;
    if (n->op < VRAM_OP_COUNT) {
      for (i = 0; i < n->nin; i++) {
        vram__t *t = &s->obj[s->name_of[n->in[i]->index]].t;
        if (s->grad)
          vram__refresh(s, t);
        x[i] = *t;
      }
      newest = s->last_fn;
      first = n->nin ? x[0].st : 0;
      saved = first ? (s->top - (s->top - first)->base)->saved : 0;
      vram__run_table[n->op](s, n, x, y);
      if (s->failed)
        return n; /* y may be anything */
      /* an op that hands its input on gives the same Python object one more name */
      if ((n->flags & VRAM__INPLACE) || (first && y[0].st == first)) {
        uint32_t r = s->name_of[n->in[0]->index];
        vram__obj *o = s->obj + r;
        vram__t old = o->t;
        int writes = y[0].st && vram__writes(n);
        if (writes && (n->flags & VRAM__INPLACE))
          (s->top - (s->top - y[0].st)->base)->ver++;
        if (y[0].fn && y[0].fn != old.fn && y[0].st == old.st)
          vram__rebase(s, old, &y[0]);
        if (writes)
          vram__overwritten(s, s->top - (s->top - y[0].st)->base, newest, saved);
        o->t = y[0];
        vram__let(s, old);
        o->refs++;
        s->name_of[n->out[0].index] = r;
        i = 1;
      } else
        i = 0;
      for (; i < n->nout; i++)
        vram__name(s, &n->out[i], y[i]);
    }
    if (report)
      vram__report_node(s, n);
    if (s->cuts && s->phase == VRAM_PHASE_FORWARD)
      vram__cuts_node(s, n);
    if (n->flags & VRAM_NODE_INNER)
      continue;
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->last == n->index) {
        uint32_t j;
        for (j = 0; j < i; j++)
          if (n->in[j] == n->in[i])
            break;
        if (j == i)
          vram__unname(s, n->in[i]);
      }
    for (i = 0; i < n->nout; i++)
      if (n->out[i].last == n->index)
        vram__unname(s, &n->out[i]);
  }
  return n;
}

VRAM__SELDOM_BEGIN

/* ---- checkpointing: torch/utils/checkpoint.py ---- */

static uint32_t vram__writes_to(const vram__s *s, vram__t t) {
  return t.st ? (s->top - (s->top - t.st)->base)->writes : 0;
}

/* A saved input of the call must be what it was (SavedVariable::unpack looks at its version). */
static int vram__untouched(vram__s *s, const vram__range *r, vram__t t, uint32_t writes) {
  if (vram__writes_to(s, t) == writes)
    return 1;
  vram__no_step(s, VRAM_ERR_UNSUPPORTED, r->first,
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
  vram__obj *old;
} vram__mark;

static void vram__reset_tape(vram__s *s, const vram__mark *m) {
  if (s->used > s->most_used)
    s->most_used = s->used;
  vram__copy(s->cache, m->cache, sizeof m->cache);
  s->vec = m->vec;
  s->used = m->used;
  s->last_fn = m->last_fn;
  s->node = m->node;
}

static const vram_node *vram__parts(vram__s *s, const vram_node *n, const vram_node *end,
                                    uint32_t at, uint32_t behind);

/* Runs the call's nodes once more on these inputs, with gradients, in an autocast context of its
   own; r->out[i] becomes out[i] if that is wanted. The inputs go in as the caller's handles. */
static void vram__again(vram__s *s, const vram__range *r, const vram__t *arg, vram__t *out,
                        vram__mark *m) {
  const vram_node *n, *end = r->last->next;
  uint8_t cat = s->cat;
  uint32_t i;
  for (n = r->first; n != end; n = n->next)
    for (i = 0; i < n->nout; i++)
      s->obj[n->out[i].index].refs = 0;
  for (i = 0; i < r->narg; i++) {
    m->old[i] = s->obj[r->arg[i]->index];
    vram__name(s, r->arg[i], vram__keep_t(s, arg[i]));
  }
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  s->grad = 1;
  s->rnn_reset |= r->narg != 0; /* set_device_states, for the devices of the inputs */
  end = vram__parts(s, r->first, end, (uint32_t)(r - s->range) + 1, r->behind);
  s->rnn_reset |= r->narg != 0; /* fork_rng ends */
  for (i = 0; out && i < r->nout && !s->failed; i++) {
    vram__t *t = &s->obj[s->name_of[r->out[i]->index]].t;
    vram__refresh(s, t);
    out[i] = vram__keep_t(s, *t);
  }
  s->grad = 0;
  s->mute = 0;
  s->cat = cat;
  vram__leave_autocast(s);
  for (n = r->first; n != end && !s->failed; n = n->next)
    for (i = 0; i < n->nout; i++) {
      vram__obj *o = s->obj + n->out[i].index;
      if (o->refs)
        vram__let(s, o->t);
      o->refs = 0;
    }
  for (i = 0; i < r->narg && !s->failed; i++) {
    vram__obj *o = s->obj + r->arg[i]->index;
    if (o->refs)
      vram__let(s, o->t);
    *o = m->old[i];
  }
}

static int vram__mark_tape(vram__s *s, const vram__range *r, vram__mark *m) {
  vram__copy(m->cache, s->cache, sizeof m->cache);
  m->vec = s->vec;
  m->used = s->used;
  m->last_fn = s->last_fn;
  m->node = s->node;
  m->old = (vram__obj *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *m->old);
  if (!m->old)
    s->failed = VRAM_ERR_MEMORY;
  return m->old != NULL;
}

/* What went into a call inside another one: recomputed with that one, and gone when it was taken.
 */
static void vram__take_inputs(vram__s *s, vram__frame *c) {
  vram__fn *f = vram__fn_at(s, c->inputs);
  uint32_t i;
  vram__unpack(s, f);
  for (i = 0; i < c->range->narg && !s->failed; i++) {
    vram__t *t = VRAM__SAVED(f) + i, *x = c->arg + i;
    *x = vram__alias_only(s, *t, t->d); /* detached, and unpacked with the history of then */
    x->fn = VRAM__EDGES(f)[i].fn, x->out = (uint16_t)VRAM__EDGES(f)[i].out;
    x->req = x->fn != 0;
    if (vram__is_fn(x->fn))
      vram__fn_at(s, x->fn)->refs++;
    if (x->st)
      (s->top - x->st)->fn = x->fn, (s->top - x->st)->out = x->out;
    if (t->st)
      vram__drop_storage(s, t->st);
    t->st = 0;
  }
}

/* unpack_hook of the first tensor that is wanted: every record of the call gets its own back. */
static void vram__recompute(vram__s *s, vram__frame *c) {
  const vram__range *r = c->range;
  vram__mark m;
  uint32_t i;
  c->done = 1;
  if (c->inputs)
    vram__take_inputs(s, c);
  else
    for (i = 0; i < r->narg; i++)
      if (!vram__untouched(s, r, c->arg[i], c->writes[i]))
        return;
  if (s->failed || !vram__mark_tape(s, r, &m))
    return;
  s->frame = c;
  s->again = 1;
  s->count = s->full = 0;
  s->cursor = c->first;
  vram__again(s, r, c->arg, NULL, &m);
  s->frame = NULL;
  s->again = 0;
  for (i = 0; c->inputs && i < r->narg && !s->failed; i++)
    vram__let(s, c->arg[i]);
  vram__reset_tape(s, &m);
}

/* CheckpointFunction.backward: the call runs on detached inputs, then a backward of its own, whose
   gradients of those inputs are handed on. */
static void vram__bw_checkpoint(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__range *r = &s->range[(uint32_t)f->aux];
  const uint32_t *writes = (const uint32_t *)(const void *)(s->mem + (uint64_t)(f->aux >> 32) * 8);
  vram__t *in, *out, *own, *gin = s->gin;
  vram_dims *keep;
  vram__mark m;
  uint32_t i, roots = 0;
  for (i = 0; i < r->narg; i++)
    if (!vram__untouched(s, r, VRAM__SAVED(f)[i], writes[i]))
      return;
  for (i = 0; i < r->nout; i++) { /* gradients that did not come are zeros */
    vram__slot *o = VRAM__SLOTS(f) + i;
    if (!o->g.d)
      o->g = vram__empty(s, vram__contig(s, o->d), o->dt);
  }
  keep = (vram_dims *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *keep);
  if (!vram__mark_tape(s, r, &m))
    return;
  in = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *in);
  out = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->nout * (uint64_t)sizeof *out);
  if (!keep || !in || !out) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < r->narg; i++) {
    vram__leaf *l = s->leaf + s->nleaf + i;
    vram__zero(l, sizeof *l);
    vram__clear_leaf(s, s->nleaf + i);
    l->d = VRAM__SAVED(f)[i].d;
    l->dt = VRAM__SAVED(f)[i].dt;
    in[i] = vram__alias_only(s, VRAM__SAVED(f)[i], l->d);
    if (vram__wants(f, i))
      in[i].fn = VRAM__LEAF | (s->nleaf + i), in[i].req = 1;
  }
  vram__again(s, r, in, out, &m);
  own = vram__room_for_inputs(s);
  s->depth = 1;
  for (i = 0; i < r->nout && !s->failed; i++) {
    roots += out[i].req;
    if (out[i].req && !(out[i].fn & VRAM__LEAF))
      vram__fn_at(s, out[i].fn)->flag = 1;
  }
  if (!roots && !s->failed)
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, r->first,
                  "no output of a checkpointed part requires a gradient: PyTorch stops with an "
                  "error in the reentrant form");
  if (s->failed)
    return;
  s->gin = own;
  vram__expect(s, s->last_fn, m.last_fn);
  for (i = 0; i < r->nout; i++)
    if (out[i].req) {
      vram__edge e;
      vram__t g;
      e.fn = out[i].fn, e.out = out[i].out;
      if (e.fn & VRAM__LEAF)
        s->inner[e.fn & ~VRAM__LEAF].deps++;
      g = vram__keep_t(s, VRAM__SLOTS(f)[i].g);
      vram__deliver(s, e, &g);
      if (g.d)
        vram__let(s, g);
      if ((e.fn & VRAM__LEAF) && !s->inner[e.fn & ~VRAM__LEAF].deps)
        vram__accumulate(s, s->leaf + (e.fn & ~VRAM__LEAF));
    }
  vram__walk(s, s->last_fn, m.last_fn);
  s->depth = 0;
  s->gin = gin;
  for (i = 0; i < r->nout; i++)
    vram__let(s, out[i]);
  for (i = 0; i < r->narg; i++) {
    vram__let(s, in[i]);
    if (!vram__wants(f, i))
      continue;
    to[i] = s->leaf[s->nleaf + i].grad;
    if (to[i].d && (const uint8_t *)to[i].d >= s->mem + m.used) {
      vram__copy(keep + i, to[i].d, vram__dims_bytes(to[i].d->ndim));
      to[i].d = keep + i;
    }
  }
  vram__reset_tape(s, &m);
}

static int vram__captured(const vram_value *v) { /* parameters and buffers are no arguments */
  return v->node && (v->node->op == VRAM_OP_parameter || v->node->op == VRAM_OP_buffer);
}

/* A call inside another one: what goes in is saved for that one, which keeps it only when it runs
   again. A tensor of the host goes before them (_NoopSaveInputs). */
static void vram__save_inputs(vram__s *s, vram__frame *c) {
  const uint32_t n = c->range->narg;
  vram__fn *f = vram__record_raw(s, VRAM__K_inputs, n, 0, n);
  uint32_t i;
  if (!f)
    return;
  f->refs = 1;
  c->inputs = vram__fn_index(s, f);
  for (i = 0; i < n; i++)
    vram__edge_to(s, f, i, c->arg[i].req ? c->arg[i].fn : 0, c->arg[i].out);
  if (n)
    vram__pack(s, f, NULL, 0);
  for (i = 0; i < n; i++)
    vram__save(s, f, c->arg[i]);
}

/* One call of checkpoint(), in the forward pass or while another one around it runs. */
static void vram__checkpointed(vram__s *s, const vram__range *r) {
  const vram_node *n;
  vram__frame *c = (vram__frame *)vram__bump(s->mem, &s->used, s->cap, sizeof *c);
  vram__frame *const around = s->frame;
  const uint8_t again = s->again;
  vram__fn *f = NULL;
  uint32_t i, k;
  if (c) {
    vram__zero(c, sizeof *c);
    c->arg = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *c->arg);
    c->writes =
        (uint32_t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *c->writes);
  }
  if (!c || !c->arg || !c->writes) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  c->range = r;
  c->alive = 1;
  for (i = 0; i < r->narg; i++) {
    vram__t *t = &s->obj[s->name_of[r->arg[i]->index]].t;
    vram__refresh(s, t);
    c->arg[i] = vram__keep_t(s, *t);
    c->writes[i] = vram__writes_to(s, *t);
  }
  s->node = r->first;
  if (around)
    vram__save_inputs(s, c);
  if (s->o->reentrant) {
    f = vram__record(s, VRAM__K_checkpoint, c->arg, r->narg, r->nout, r->narg);
    for (i = 0; f && i < r->narg; i++)
      vram__save(s, f, c->arg[i]);
    if (f)
      f->aux = (uint64_t)(r - s->range) |
               (uint64_t)((const uint8_t *)(const void *)c->writes - s->mem) / 8 << 32;
    s->grad = 0;
  } else if (!s->mute) {
    s->frame = c;
    s->again = 0;
  }
  vram__parts(s, r->first, r->last->next, (uint32_t)(r - s->range) + 1, r->behind);
  s->frame = around;
  s->again = again;
  s->grad = 1;
  if (s->failed)
    return;
  for (i = 0; i < r->nout && f; i++) {
    const vram_value *v = r->out[i];
    vram__t *t = &s->obj[s->name_of[v->index]].t;
    for (k = 0; k < r->narg; k++)
      if (s->name_of[v->index] == s->name_of[r->arg[k]->index]) { /* an input comes out: a view */
        vram__t y = vram__alias(s, *t, t->d);
        vram__unname(s, v);
        vram__name(s, v, y);
        t = &s->obj[v->index].t;
        break;
      }
    VRAM__SLOTS(f)[i].d = t->d;
    VRAM__SLOTS(f)[i].dt = t->dt;
    if (vram__kind_rank(t->dt) >= 2 && t->fn != vram__fn_index(s, f)) {
      vram__fn_unref(s, t->fn);
      vram__made(s, f, i, t);
    }
  }
  if (c->saves && !around) /* its inputs are kept for backward */
    for (i = 0; i < r->narg; i++)
      if (c->arg[i].st)
        vram__count_saved(s, s->top - (s->top - c->arg[i].st)->base);
  for (n = r->first; n != r->last->next && !s->mute; n = n->next) /* what only a later `drop` */
    for (i = 0; i < n->nout; i++) {                               /* names ends here */
      const vram_value *v = &n->out[i];
      if (v->last <= r->last->index || vram__captured(v) || s->name_of[v->index] == s->g->nvalue)
        continue;
      for (k = 0; k < r->nout && r->out[k] != v;)
        k++;
      if (k == r->nout) {
        vram__unname(s, v);
        s->name_of[v->index] = s->g->nvalue; /* nobody's object */
      }
    }
  for (i = 0; around && i < r->narg; i++) /* its record has them */
    vram__let(s, c->arg[i]);
  vram__frame_less(s, c);
}

/* Runs the nodes from n up to `end`; those of the ranges from `at`, up to `behind`, as calls of
   checkpoint(). Gives the node where it stopped. */
static const vram_node *vram__parts(vram__s *s, const vram_node *n, const vram_node *end,
                                    uint32_t at, uint32_t behind) {
  while (at < behind && !s->failed) {
    const vram__range *r = &s->range[at];
    n = vram__nodes(s, n, r->first);
    if (s->failed || s->mute)
      return n;
    vram__checkpointed(s, r);
    if (s->mute)
      return r->first;
    n = r->last->next;
    at = r->behind;
    if (r->hold && r->nout && !s->failed) {
      vram__obj *o = s->obj + s->name_of[r->out[0]->index];
      o->refs++;
      vram__nodes(s, n, r->hold->next);
      n = r->hold->next;
      if (o->refs && --o->refs == 0)
        vram__let(s, o->t);
    }
  }
  return vram__nodes(s, n, end);
}

static void vram__forward(vram__s *s) {
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  vram__parts(s, s->g->first, NULL, 0, s->nrange);
}

/* The last node of the line that n begins. */
static const vram_node *vram__line_end_of(const vram_node *n) {
  while (n->next && n->next->name == n->name)
    n = n->next;
  return n;
}

#define VRAM__FEW_FUNCTIONS "more checkpoint segments than the chain has functions"

/* checkpoint_sequential. The chain ends before the line of the loss; one function of it ends where
   one value is handed on. All segments but the last are checkpointed, that one's input is a local
   variable until it has run. */
static void vram__segments(vram__s *s) {
  const vram_graph *g = s->g;
  const vram_node *n, *from, *end;
  const uint32_t *last = s->name_of;
  uint32_t i, j, live, functions, size = 0, k = s->o->checkpoint_segments - 1;
  const char *loss = g->root->node ? g->root->node->name : NULL;
  int pass;
  if (k >= g->nnode) {
    vram__no_step(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
    return;
  }
  s->range = (vram__range *)vram__bump(s->mem, &s->used, s->cap, k * (uint64_t)sizeof *s->range);
  if (!s->range) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (pass = 0; pass < 2; pass++) {
    functions = live = 0;
    for (from = n = g->first; n && n->name != loss; n = end->next) {
      end = vram__line_end_of(n);
      if (n->op == VRAM__OP_drop)
        continue;
      for (; n != end->next; n = n->next) {
        for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
          const vram_value *v = n->in[i];
          for (j = 0; j < i && n->in[j] != v;)
            j++;
          live -= j == i && v->node && !vram__captured(v) && last[v->index] == n->index;
        }
        for (i = 0; i < n->nout; i++)
          live += !vram__captured(&n->out[i]) && last[n->out[i].index] > n->index;
      }
      if (live != 1)
        continue;
      functions++;
      if (!pass)
        continue;
      if (s->nrange == k)
        s->range[k - 1].hold = end;
      else if (functions % size == 0) {
        s->range[s->nrange].first = from;
        s->range[s->nrange].last = end;
        s->range[s->nrange].hold = NULL;
        s->range[s->nrange].behind = s->nrange + 1;
        s->nrange++;
        from = end->next;
      }
    }
    size = functions / (k + 1);
    if (!size) {
      vram__no_step(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
      return;
    }
  }
}

/* The caller's ranges, whole lines. */
static void vram__ranges(vram__s *s) {
  const uint32_t count = s->o->ncheckpoint;
  const vram_node *n = s->g->first;
  uint32_t i, depth = 0, up = 0; /* the range around i, + 1; its `behind` is the one around it */
  if (count / 2 > s->g->nnode) {
    vram__no_step(s, VRAM_ERR_VALUE, NULL, "more checkpointed ranges than there can be");
    return;
  }
  s->range =
      (vram__range *)vram__bump(s->mem, &s->used, s->cap, count * (uint64_t)sizeof *s->range);
  if (!s->range) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < count; i++) {
    const vram_range *r = s->o->checkpoint + i;
    vram__range *to = s->range + i;
    const char *why = NULL;
    if (!r->first || !r->last || r->last->index < r->first->index) {
      vram__no_step(s, VRAM_ERR_VALUE, r->first, "a checkpointed range that ends before it begins");
      return;
    }
    if (n->index > r->first->index)
      n = s->g->first; /* it begins before the range before it */
    while (vram__line_end_of(n)->next && vram__line_end_of(n)->index < r->first->index)
      n = vram__line_end_of(n)->next;
    to->first = to->last = n;
    while (to->last->next && to->last->index < r->last->index)
      to->last = to->last->next;
    to->last = vram__line_end_of(to->last);
    to->hold = NULL;
    while (up && s->range[up - 1].last->index < to->first->index) {
      const uint32_t done = up - 1;
      up = s->range[done].behind;
      s->range[done].behind = i;
      depth--;
    }
    if (i && to->first->index < to[-1].first->index)
      why = "a checkpointed range that begins before the range before it";
    else if (up && to->last->index > s->range[up - 1].last->index)
      why = "a checkpointed range that begins inside another one and ends outside";
    else if (up && s->o->reentrant)
      why = "checkpointed ranges inside one another, in the reentrant form: not supported";
    else if (depth >= VRAM_MAX_NESTED)
      why = "too many checkpointed ranges inside one another";
    if (why) {
      vram__no_step(s,
                    up && s->o->reentrant      ? VRAM_ERR_UNSUPPORTED
                    : depth >= VRAM_MAX_NESTED ? VRAM_ERR_LIMIT
                                               : VRAM_ERR_VALUE,
                    r->first, why);
      return;
    }
    to->behind = up;
    up = i + 1;
    depth++;
  }
  while (up) {
    const uint32_t done = up - 1;
    up = s->range[done].behind;
    s->range[done].behind = count;
  }
  s->nrange = count;
}

/* By value: the index of the node that uses it last; UINT32_MAX: outputs. */
static void vram__last_uses(const vram_graph *g, uint32_t *last) {
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

/* What goes into every range and what comes out. */
static void vram__plan_ranges(vram__s *s) {
  const vram_node *n;
  vram__range *r;
  uint32_t i, k, *last = s->name_of;
  if (!s->train || !(s->o->checkpoint_segments > 1 || s->o->ncheckpoint))
    return;
  vram__last_uses(s->g, last);
  if (s->o->checkpoint_segments && s->o->ncheckpoint)
    vram__no_step(s, VRAM_ERR_VALUE, NULL, "checkpointed segments and ranges exclude each other");
  else if (s->o->ncheckpoint)
    vram__ranges(s);
  else
    vram__segments(s);
  for (i = 0; i < s->g->nvalue; i++)
    s->obj[i].refs = 0; /* the range that it was last seen to go into */
  for (k = 0; k < s->nrange && !s->failed; k++) {
    r = &s->range[k];
    r->narg = r->nout = 0;
    r->arg = (const vram_value **)vram__bump(s->mem, &s->used, s->cap, 0);
    for (n = r->first; n != r->last->next; n = n->next)
      for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
        const vram_value *v = n->in[i];
        if ((v->node && v->node->index >= r->first->index) || vram__captured(v) ||
            s->obj[v->index].refs == k + 1)
          continue;
        s->obj[v->index].refs = k + 1;
        if (!vram__bump(s->mem, &s->used, s->cap, sizeof *r->arg)) {
          s->failed = VRAM_ERR_MEMORY;
          return;
        }
        r->arg[r->narg++] = v;
      }
    r->out = (const vram_value **)vram__bump(s->mem, &s->used, s->cap, 0);
    for (n = r->first; n != r->last->next; n = n->next)
      for (i = 0; i < n->nout; i++)
        if (last[n->out[i].index] > r->last->index && !vram__captured(&n->out[i])) {
          if (!vram__bump(s->mem, &s->used, s->cap, sizeof *r->out)) {
            s->failed = VRAM_ERR_MEMORY;
            return;
          }
          r->out[r->nout++] = &n->out[i];
        }
    if (r->narg > s->most_args)
      s->most_args = r->narg;
    if (r->narg > 65535 || r->nout > 65535)
      vram__no_step(s, VRAM_ERR_LIMIT, r->first,
                    "a checkpointed part with more than 65535 inputs or outputs");
  }
}

static void vram__run_stat(vram_stat *all, uint64_t *end, uint64_t *peak) {
  *end = all->current;
  if (all->peak > *peak)
    *peak = all->peak;
  all->peak = all->current;
}

static void vram__run_phase(vram__run *run, vram_phase_report *r) {
  vram__run_stat(run->pool.stats.allocated_bytes, &r->allocated_bytes, &r->allocated_peak_bytes);
  vram__run_stat(run->pool.stats.reserved_bytes, &r->reserved_bytes, &r->reserved_peak_bytes);
}

/* Ends the running phase. Of micro-batches the last one's end counts and the highest peak. */
static void vram__phase(vram__s *s, vram_phase next) {
  vram_phase_report *r = &s->r->phase[s->phase];
  r->requested_bytes = s->cur;
  if (s->blocks_peak > s->most_blocks)
    s->most_blocks = s->blocks_peak;
  if (s->run && !s->run->taping)
    vram__run_phase(s->run, r);
  else {
    if (s->run)
      vram__tape(s->run, VRAM__TAPE_PHASE, (uint64_t)s->phase);
    r->allocated_bytes = s->blocks;
    if (s->blocks_peak > r->allocated_peak_bytes)
      r->allocated_peak_bytes = s->blocks_peak;
  }
  s->blocks_peak = s->blocks;
  if (s->peak > r->requested_peak_bytes)
    r->requested_peak_bytes = s->peak;
  s->phase = next;
  s->peak = s->cur;
  s->node = NULL;
}

static void vram__bulk(vram__s *s, uint64_t bytes, uint64_t blocks, uint64_t large, uint8_t cat);

VRAM__SELDOM_END

/* t, which wants a gradient, becomes the next leaf. */
VRAM__PART void vram__new_leaf(vram__s *s, vram__t *t) {
  vram__leaf *l = s->leaf + s->nleaf;
  l->d = t->d;
  l->dt = t->dt;
  l->grad = l->task.in = vram__none();
  l->task.deps = 0;
  vram__clear_leaf(s, s->nleaf);
  if (!s->known)
    l->had = 0, l->had_bytes = 0, l->had_with = 0;
  t->req = 1;
  t->fn = VRAM__LEAF | s->nleaf++;
  if (t->st)
    (s->top - t->st)->fn = t->fn;
}

/* Module.to(device): one tensor after the other; a recurrent net then lays its weights into one
   (flatten_parameters). */
static void vram__run_own(vram__s *s, const vram_param *p, uint8_t dt) {
  vram__run *run = s->run;
  const vram_node *n = p->node;
  uint64_t flat = 0;
  uint32_t i, last = 0;
  if (run->taping) {
    vram__tape(run, VRAM__TAPE_OWN, vram__bytes_of(p->d, dt));
    run->untold |= n->op >= VRAM_OP_lstm && n->op <= VRAM_OP_rnn;
    return;
  }
  vram__run_as(s, p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS, n);
  run->gradient[p->index] = vram__run_get(s, vram__bytes_of(p->d, dt));
  if (n->op < VRAM_OP_lstm || n->op > VRAM_OP_rnn)
    return;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n)
      last = i;
  if (n->param[last] != p)
    return;
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      flat += vram__bytes_of(n->param[i]->d, vram__run_dtype(s, n->param[i]->dtype));
  vram__run_get(s, flat);
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      vram__run_put(run, run->gradient[n->param[i]->index]);
}

/* Parameters, buffers, inputs, and what a step before this one left. What a module owns is never a
   value of the graph and stays to the end: all weights share one slot, and so do all buffers. */
static void vram__before(vram__s *s) {
  const vram_graph *g = s->g;
  const vram_param *p;
  const int64_t none = 0;
  const vram_dims *nothing = vram__dims_in(s, 1, &none, NULL);
  vram__owned o = g->owned;
  uint32_t i, k;
  for (i = 0; i < VRAM__OWN; i++) /* the first two slots */
    vram__existing(s, nothing, VRAM_F32, i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  if (s->low) {
    vram__zero(&o, sizeof o);
    for (p = g->param_first; p; p = p->next)
      vram__owned_add(&o, p, vram__bytes_of(p->d, vram__run_dtype(s, p->dtype)));
  }
  vram__owned_flat(&o);
  if (o.params_bytes > (uint64_t)VRAM_MAX_BYTES || o.buffers_bytes > (uint64_t)VRAM_MAX_BYTES) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  for (p = g->param_first; p; p = p->next) {
    vram__t *t = s->param + p->index;
    t->d = p->d;
    t->st = p->kind == VRAM__BUFFER ? 2 : 1, t->fn = 0;
    t->out = 0, t->dt = vram__run_dtype(s, p->dtype), t->req = t->off = 0;
    if (p->node->op == VRAM_OP_parameter)
      *t = vram__existing(s, p->d, t->dt, VRAM_CATEGORY_PARAMS);
    else if (p->node->op == VRAM_OP_buffer)
      *t = vram__existing(s, p->d, t->dt, VRAM_CATEGORY_BUFFERS);
    else if (s->run && s->run->fresh)
      vram__run_own(s, p, t->dt);
    if (p->kind == VRAM__PARAM)
      vram__new_leaf(s, t);
  }
  s->optim_all = o.trainable;
  s->r->params_bytes = o.params_bytes, s->r->buffers_bytes = o.buffers_bytes;
  for (i = 0; i < VRAM__OWN; i++)
    vram__bulk(s, o.all[i].bytes, o.all[i].blocks, o.all[i].large,
               i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  if (g->flat_pad && vram__run_dtype(s, VRAM_F32) != VRAM_BF16) {
    int64_t pad = (int64_t)g->flat_pad;
    vram__existing(s, vram__dims_in(s, 1, &pad, NULL), vram__run_dtype(s, VRAM_F32),
                   VRAM_CATEGORY_PARAMS);
  }
  if (g->rnn_dropout && s->train && !s->o->first_step)
    s->rnn_dropout = vram__existing(s, vram__rnn_state_dims(s), VRAM_U8, VRAM_CATEGORY_WORKSPACE);
  if (s->run && s->rnn_dropout.st)
    (s->top - s->rnn_dropout.st)->block = s->run->rnn_dropout;
  s->nparam_leaf = s->nleaf;
  for (i = 0; i < g->ninput; i++) {
    const vram_value *v = g->input[i];
    uint8_t dt = vram__run_dtype(s, v->dtype);
    vram__t t = vram__existing(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    s->r->inputs_bytes += vram__bytes_of(v->d, dt);
    for (k = 0; k < s->o->prefetch && !s->failed; k++)
      vram__existing(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    if ((v->flags & VRAM__GRAD) && s->train) {
      vram__new_leaf(s, &t);
    }
    vram__name(s, v, t);
  }
}

VRAM__SELDOM_BEGIN

/* A steady step begins with the gradients of the step before. `had` says which leaves have one.
   Where nobody has said so yet, vram__had_gradients puts them in afterwards. */
static void vram__zero_grad(vram__s *s) {
  uint32_t i;
  if (!s->train || s->o->first_step)
    return;
  for (i = 0; s->known && i < s->nleaf; i++) {
    vram__leaf *l = &s->leaf[i];
    int64_t size = (int64_t)l->had_bytes;
    if (l->had && l->had_with)
      l->grad = vram__alias_only(s, s->leaf[l->had_with - 1].grad, l->d);
    else if (l->had && l->had_bytes == vram__bytes_of(l->d, l->dt))
      l->grad = vram__existing(s, l->d, l->dt, VRAM_CATEGORY_GRADIENTS);
    else if (l->had) {
      l->grad =
          vram__existing(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, VRAM_CATEGORY_GRADIENTS);
      l->grad.d = l->d, l->grad.dt = l->dt;
    }
    if (s->run && l->had && !l->had_with && l->grad.st)
      (s->top - l->grad.st)->block = s->run->gradient[i];
  }
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] = s->cats.of[VRAM_CATEGORY_GRADIENTS];
  s->peak = s->total_peak = s->cur;
  s->blocks_peak = s->blocks;
  if (s->upper > s->upper_peak)
    s->upper_peak = s->upper;
  s->fresh = 1;
  if (s->stop_at == 1)
    vram__live_set(s);
  if (!s->known)
    return;
  for (i = s->nparam_leaf; i < s->nleaf; i++) { /* the caller's inputs lose theirs first */
    vram__let(s, s->leaf[i].grad);
    s->leaf[i].grad = vram__none();
  }
  for (i = 0; i < s->nparam_leaf && !s->o->keep_grads; i++) {
    vram__let(s, s->leaf[i].grad);
    s->leaf[i].grad = vram__none();
  }
}

/* After the forward pass: autocast's cache goes with its context; a training loop lets go of what
   is not the loss, inference wanted all of it. */
static void vram__leave_forward(vram__s *s) {
  const vram_node *n;
  uint32_t i;
  s->r->autocast_cache_bytes = vram__leave_autocast(s);
  if (s->train && s->g->noutput > 1)
    for (n = s->g->first; n; n = n->next)
      for (i = 0; i < n->nout; i++)
        if ((n->out[i].flags & VRAM__OUTPUT) && &n->out[i] != s->root)
          vram__unname(s, &n->out[i]);
}

/* GradScaler.scale(loss).backward(): the loss times the scale, which the first call makes together
   with the growth tracker. */
static void vram__scaled_backward(vram__s *s, vram__t loss) {
  vram__t in[2], y;
  vram__fn *f;
  s->node = s->root->node;
  if (!s->scale.d) {
    s->cat = VRAM_CATEGORY_OTHER;
    s->scale = vram__empty(s, s->scalar, VRAM_F32);
    vram__empty(s, s->scalar, VRAM_I32);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
  }
  in[0] = loss;
  in[1] = s->scale;
  s->grad = 1;
  f = vram__record(s, VRAM__K_scale, in, 2, 1, 1);
  s->grad = 0;
  y = vram__ti2(s, loss, s->scale);
  if (f) {
    vram__save(s, f, s->scale);
    vram__made(s, f, 0, &y);
    vram__backward(s, y);
  }
  vram__let(s, y);
}

static void vram__micro_batches(vram__s *s) {
  uint32_t k, count = s->train && s->o->accumulate > 1 ? s->o->accumulate : 1, i;
  uint64_t tape = s->used;
  vram__t loss = vram__none();
  for (k = 0; k < count && !s->failed; k++) {
    vram__t old = loss;
    s->phase = VRAM_PHASE_FORWARD;
    s->cat = VRAM_CATEGORY_ACTIVATIONS;
    s->grad = s->train;
    if (k) {
      s->r->saved_bytes = 0;
      if (s->rnn_dropout.st)
        (s->top - s->rnn_dropout.st)->saved = 0;
    }
    vram__forward(s);
    if (s->failed)
      return;
    vram__leave_forward(s);
    if (s->grad)
      vram__refresh(s, &s->obj[s->name_of[s->root->index]].t);
    loss = s->obj[s->name_of[s->root->index]].t;
    if (old.d) { /* the variable `loss` takes its new value */
      old.fn = 0;
      vram__let(s, old);
    }
    s->grad = 0;
    vram__phase(s, VRAM_PHASE_BACKWARD);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
    s->gin = vram__room_for_inputs(s);
    if (s->failed)
      return;
    if (s->scaler)
      vram__scaled_backward(s, loss);
    else if (s->train)
      vram__backward(s, loss);
    vram__phase(s, VRAM_PHASE_FORWARD);
    if (k + 1 < count) { /* the tape has been played and can go */
      s->used = tape;
      s->last_fn = 0;
      for (i = 0; i < 64; i++)
        s->cache[i] = s->g->cache[i];
      s->vec = NULL;
      for (i = 0; i < s->g->ninput; i++) {
        vram__obj *in = &s->obj[s->g->input[i]->index];
        vram__store *st = s->top - in->t.st;
        in->refs = 1;
        if (!(in->t.fn & VRAM__LEAF))
          in->t.fn = in->t.req = 0;
        if (in->t.st)
          st->fn = st->held = 0, st->writes = 0;
      }
      for (i = 0; i < s->g->nparam; i++)
        if (s->param[i].st)
          (s->top - s->param[i].st)->writes = 0;
      loss.d = s->scalar;
    }
  }
  s->loss = loss;
}

static uint32_t vram__optim_alloc(void *ctx, uint64_t bytes, int is_state) {
  vram__s *s = (vram__s *)ctx;
  s->cat = is_state ? VRAM_CATEGORY_OPTIMIZER : VRAM_CATEGORY_TEMPORARIES;
  return vram__new(s, bytes);
}

static void vram__optim_free(void *ctx, uint32_t id) {
  if (id)
    vram__drop_store((vram__s *)ctx, id);
}

/* Bytes that come and go without single events. */
static void vram__bulk(vram__s *s, uint64_t bytes, uint64_t blocks, uint64_t large, uint8_t cat) {
  if (bytes > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  s->cur += bytes;
  s->cats.of[cat] += bytes;
  s->blocks += blocks;
  s->upper += blocks + large * VRAM__SMALL;
}

static void vram__optim_config_of(const vram__s *s, vram__optim_config *c) {
  vram__zero(c, sizeof *c);
  c->optim = (uint8_t)s->o->optimizer;
  c->impl = (uint8_t)s->o->optim_impl;
  if (s->ideal)
    c->impl = VRAM_OPTIM_IMPL_LOOP; /* no step counters on the device */
  c->weight_decay = s->o->weight_decay != 0;
  c->scaler = s->scaler;
  c->master = s->o->master_weights != 0;
  c->sms = s->sm;
  c->sm_threads = s->threads;
  c->blas_bytes = s->ws;
  c->ctx = (void *)(uintptr_t)(const void *)s;
}

static uint32_t vram__optim_params(vram__s *s, vram__optim_param *p, int with_grad) {
  uint32_t i, n = 0;
  for (i = 0; i < s->nparam_leaf; i++) {
    const vram__leaf *l = s->leaf + i;
    if (with_grad && !(l->grad.d || l->had))
      continue;
    p[n].numel = l->d->numel;
    p[n].ndim = l->d->ndim;
    p[n].size = l->d->v;
    p[n++].dtype = l->dt;
  }
  return n;
}

/* What the optimizer holds before the step: what its constructor made and, in a steady step, the
   state that the first step made. */
static void vram__optim_before(vram__s *s) {
  vram__optim_config c;
  vram__optim_bytes made, state;
  uint32_t n;
  if (!s->train)
    return;
  s->optim = (vram__optim_param *)vram__bump(s->mem, &s->used, s->cap,
                                             (s->nparam_leaf + 1) * (uint64_t)sizeof *s->optim);
  if (!s->optim) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__optim_config_of(s, &c);
  n = vram__optim_params(s, s->optim, 0);
  if (vram__optim_problem(&c, s->optim, n)) {
    s->failed = VRAM_ERR_UNSUPPORTED;
    s->problem = vram__optim_problem(&c, s->optim, n);
    return;
  }
  if (s->run && s->run->fresh && !s->run->taping) {
    const uint64_t used = s->used;
    c.events = 1;
    c.ids = (uint32_t *)vram__bump(s->mem, &s->used, s->cap,
                                   vram__optim_ids(n) * (uint64_t)sizeof *c.ids);
    if (!c.ids) {
      s->failed = VRAM_ERR_MEMORY;
      return;
    }
    vram__optim_construct(&c, s->optim, n, &made);
    s->used = used;
    s->r->optimizer_bytes = s->optim_held = made.end;
    return;
  }
  vram__optim_construct(&c, s->optim, n, &made);
  if (s->run && made.end)
    s->run->untold = 1;
  vram__bulk(s, made.end, made.end_blocks, made.state_large, VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes = s->optim_held = made.end;
  if (s->o->first_step)
    return;
  if (s->known) /* parameters that never get a gradient have no state */
    n = vram__optim_params(s, s->optim, 1);
  c.all = n == s->nparam_leaf && !c.master ? &s->optim_all : NULL;
  vram__optim_kept(&c, s->optim, n, &state);
  if (!*vram__optim_row_of(&c)->init) { /* the step's body makes it */
    c.step = 1;
    vram__optim_step(&c, s->optim, n, &state);
  }
  vram__bulk(s, state.state, state.state_blocks, state.state_large, VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes += state.state;
  s->optim_held = s->r->optimizer_bytes;
}

static void vram__optim_now(vram__s *s) {
  vram__optim_config c;
  vram__optim_bytes b;
  uint64_t used = s->used;
  uint32_t n;
  if (s->ideal && !s->o->first_step) /* one kernel, no temporaries */
    return;
  vram__optim_config_of(s, &c);
  n = s->all_had ? s->nparam_leaf : vram__optim_params(s, s->optim, 1);
  c.step = s->o->first_step ? 1 : 0;
  c.all = n == s->nparam_leaf && !c.master ? &s->optim_all : NULL;
  if (s->watched) {
    c.events = 1;
    c.ids = (uint32_t *)vram__bump(s->mem, &s->used, s->cap,
                                   vram__optim_ids(n) * (uint64_t)sizeof *c.ids);
    if (!c.ids) {
      s->failed = VRAM_ERR_MEMORY;
      return;
    }
    vram__optim_step(&c, s->optim, n, &b);
    if (s->o->first_step)
      s->r->optimizer_bytes += b.state;
    s->used = used;
    return;
  }
  vram__optim_step(&c, s->optim, n, &b);
  if (b.peak == UINT64_MAX || b.peak > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  if (s->fresh)
    vram__at_peak(s);
  if (s->cur + b.peak > s->peak)
    s->peak = s->cur + b.peak;
  if (s->peak > s->total_peak) {
    s->total_peak = s->peak;
    s->peak_node = NULL;
    s->peak_event = UINT64_MAX; /* somewhere in it: vram_step_live counts */
    s->peak_phase = VRAM_PHASE_OPTIMIZER;
    s->cats.of[VRAM_CATEGORY_OPTIMIZER] += b.peak_state;
    s->cats.of[VRAM_CATEGORY_TEMPORARIES] += b.peak - b.peak_state;
    vram__at_peak(s);
    s->cats.of[VRAM_CATEGORY_OPTIMIZER] -= b.peak_state;
    s->cats.of[VRAM_CATEGORY_TEMPORARIES] -= b.peak - b.peak_state;
  }
  if (s->blocks + b.peak_blocks > s->blocks_peak)
    s->blocks_peak = s->blocks + b.peak_blocks;
  if (s->upper + b.peak_upper > s->upper_peak)
    s->upper_peak = s->upper + b.peak_upper;
  vram__bulk(s, b.end, b.end_blocks, b.state_large, VRAM_CATEGORY_OPTIMIZER);
  if (s->o->first_step)
    s->r->optimizer_bytes += b.state;
}

VRAM_API int vram_report_term(const vram_report *report, uint32_t i, vram_term *term) {
  uint32_t k = 0;
#define VRAM__FIGURE(field, kind, text)                                                            \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes.lower = term->bytes.expected = term->bytes.upper = report->field;                  \
    return 1;                                                                                      \
  }
#define VRAM__FIGURES(field, kind, text)                                                           \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes = report->field;                                                                   \
    return 1;                                                                                      \
  }
  VRAM_TERMS(VRAM__FIGURE, VRAM__FIGURES)
#undef VRAM__FIGURE
#undef VRAM__FIGURES
  return 0;
}

VRAM_API const char *vram_source_name(vram_source source) {
  static const char *const text[VRAM_SOURCE_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_SOURCES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)source < VRAM_SOURCE_COUNT ? text[source] : "?";
}

VRAM_API const vram_gpu *vram_gpu_at(uint32_t i) {
  static const vram_gpu gpu[] = {
#define VRAM__X(name, cc, sm, sold, mib, source)                                                   \
  {name, cc, sm, sold, UINT64_C(1048576) * (mib), source},
      VRAM_GPUS(VRAM__X)
#undef VRAM__X
  };
  return i < sizeof gpu / sizeof *gpu ? &gpu[i] : NULL;
}

VRAM_API const char *vram_op_name(uint32_t op) {
  return op <= VRAM__OP_end ? vram__op_at(op)->name : "?";
}

VRAM_API void vram_op_get_info(vram_op op, vram_op_info *info) {
  static const char *const list[] = {"", "low", "fp32", "fp32", "widest"};
  const vram__op_row *r;
  vram__zero(info, sizeof *info);
  if ((uint32_t)op >= VRAM_OP_COUNT)
    return;
  r = vram__op_at((uint32_t)op);
  info->name = r->name;
  info->keys = r->keys;
  info->recipe = r->recipe;
  info->autocast = list[r->autocast];
  info->least = r->lo;
  info->most = r->hi;
}

/* ---- vram_node_flops: torch/utils/flop_counter.py ---- */

static uint64_t vram__weights_of(const vram_node *n, uint32_t from) { /* elements of matrices */
  uint64_t all = 0;
  uint32_t i;
  for (i = from; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->d->ndim > 1)
      all = vram__plus(all, n->param[i]->d->numel);
  return all;
}

static uint64_t vram__attention_flops(const vram_dims *q, const vram_dims *k, const vram_dims *v) {
  const uint64_t keys = (uint64_t)(k->ndim > 1 ? k->v[k->ndim - 2] : 1);
  const uint64_t width = v->ndim ? (uint64_t)v->v[v->ndim - 1] : 1;
  const uint64_t depth = q->ndim ? (uint64_t)q->v[q->ndim - 1] : 1;
  const uint64_t rows = depth ? q->numel / depth : 0;
  return vram__mul(vram__mul(2, vram__mul(rows, keys)), vram__plus(depth, width));
}

VRAM_API uint64_t vram_node_flops(const vram_node *n) {
  const vram_dims *x = n->nin ? n->in[0]->d : NULL, *w = NULL, *y;
  uint64_t flops, k;
  uint32_t i, first;
  if (n->op >= VRAM_OP_COUNT || !n->nout)
    return 0;
  y = n->out[0].d;
  switch (n->op) {
  case VRAM_OP_conv1d:
  case VRAM_OP_conv2d:
  case VRAM_OP_conv3d:
  case VRAM_OP_conv_transpose1d:
  case VRAM_OP_conv_transpose2d:
  case VRAM_OP_conv_transpose3d: {
    const vram_dims *over = n->op >= VRAM_OP_conv_transpose1d ? x : y;
    w = n->nin > 1 ? n->in[1]->d : n->param[0]->d;
    first = over->ndim + 2u - w->ndim; /* without a batch it has one axis less */
    flops = vram__mul(2, w->numel);
    for (i = 0; i < over->ndim; i++)
      if (i + 1 != first)
        flops = vram__mul(flops, (uint64_t)over->v[i]);
    return flops;
  }
  case VRAM_OP_linear:
    return vram__mul(2, vram__mul(y->numel, x->ndim ? (uint64_t)x->v[x->ndim - 1] : 1));
  case VRAM_OP_addmm:
  case VRAM_OP_baddbmm:
    x = n->in[1]->d;
    return vram__mul(2, vram__mul(y->numel, (uint64_t)x->v[x->ndim - 1]));
  case VRAM_OP_matmul:
  case VRAM_OP_bmm:
  case VRAM_OP_mm:
  case VRAM_OP_grouped_mm:
    return vram__mul(2, vram__mul(y->numel, x->ndim ? (uint64_t)x->v[x->ndim - 1] : 1));
  case VRAM_OP_einsum: {
    vram__labels l;
    const char *what;
    if (n->nin < 2 || !vram__label_all(&l, n, &what))
      return y->numel;
    for (flops = vram__mul(2, n->nin - 1), i = 0; i < l.n; i++)
      flops = vram__mul(flops, (uint64_t)l.size[i]);
    return flops;
  }
  case VRAM_OP_bilinear:
    return vram__mul(vram__mul(2, y->numel),
                     n->param[0]->d->numel /
                         (uint64_t)(n->param[0]->d->v[0] ? n->param[0]->d->v[0] : 1));
  case VRAM_OP_scaled_dot_product_attention:
    return vram__attention_flops(x, n->in[1]->d, n->in[2]->d);
  case VRAM_OP_multi_head_attention:
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    flops = vram__mul(vram__mul(2, x->numel / k), vram__weights_of(n, 0));
    return vram__plus(flops, vram__attention_flops(x, n->in[1]->d, n->in[2]->d));
  case VRAM_OP_lstm:
  case VRAM_OP_gru:
  case VRAM_OP_rnn:
  case VRAM_OP_lstm_cell:
  case VRAM_OP_gru_cell:
  case VRAM_OP_rnn_cell:
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    return vram__mul(vram__mul(2, x->numel / k), vram__weights_of(n, 0));
  case VRAM_OP_moe: {
    const uint64_t experts = (uint64_t)VRAM__INT(n, num_experts, 1);
    k = x->ndim && x->v[x->ndim - 1] ? (uint64_t)x->v[x->ndim - 1] : 1;
    flops = vram__weights_of(n, 0);
    for (i = 0; i < n->nparam; i++) { /* of the experts' stacked weights top_k are used */
      const vram_dims *d = n->param[i] ? n->param[i]->d : NULL;
      if (d && d->ndim == 3 && experts)
        flops -= d->numel - d->numel / experts * (uint64_t)VRAM__INT(n, top_k, 1);
    }
    return vram__mul(vram__mul(2, x->numel / k), flops);
  }
  default:
    break;
  }
  if (n->op == VRAM_OP_parameter || n->op == VRAM_OP_buffer ||
      (n->op >= VRAM_OP_reshape && n->op <= VRAM_OP_detach)) /* views */
    return 0;
  return y->numel;
}

/* ---- vram_ranges ---- */

/* Is n, the first node of its line, the one that name[..len] means? Rounds stand behind the name,
   the outermost first. */
static int vram__is_named(const vram_node *n, const char *name, uint32_t len) {
  const vram_node *end = vram__line_end_of(n), *m;
  const vram__round *q;
  uint32_t depth = 0, rounds = 0, i, k, bare = 0;
  while (bare < len && name[bare] != '[')
    bare++;
  for (m = n;; m = m->next) {
    for (i = 0; i < m->nout; i++) {
      const vram_value *v = &m->out[i];
      for (k = 0; v->name && k < bare && k < v->name_len && v->name[k] == name[k];)
        k++;
      if (v->name && k == bare && k == v->name_len)
        break;
    }
    if (i < m->nout)
      break;
    if (m == end)
      return 0;
  }
  for (q = n->round; q; q = q->up)
    depth++;
  for (k = bare; k < len; k++)
    rounds += name[k] == '[';
  if (!rounds)
    return 1;
  if (rounds != depth)
    return 0;
  for (q = n->round; q; q = q->up) { /* from the innermost */
    uint32_t value = 0, at, open = 0;
    for (at = bare; name[at] != '[' || ++open < rounds; at++)
      ;
    for (at++; at < len && name[at] >= '0' && name[at] <= '9' && value < 100000000; at++)
      value = value * 10 + (uint32_t)(name[at] - '0');
    if (value != q->round)
      return 0;
    rounds--;
  }
  return 1;
}

static vram_result vram__range_error(vram_error *err, vram_result code, const char *what,
                                     const char *name, const char *end) {
  uint32_t n = 0, len = (uint32_t)(end - name);
  if (err) {
    vram__zero(err, sizeof *err);
    err->code = code;
    vram__puts(err->text, sizeof err->text, &n, what);
    vram__put(err->text, sizeof err->text, &n, name, len < 64 ? len : 64);
  }
  return code;
}

/* The end of the range at p; *dots: its two dots, or the end. */
static const char *vram__range_end(const char *p, const char **dots) {
  const char *end;
  for (*dots = p; **dots && **dots != ',' && !((*dots)[0] == '.' && (*dots)[1] == '.');)
    ++*dots;
  for (end = *dots; *end && *end != ',';)
    end++;
  return end;
}

VRAM_API vram_result vram_ranges(const vram_graph *g, const char *text, vram_range *list,
                                 uint32_t cap, uint32_t *count, vram_error *err) {
  const vram_node *n;
  const char *p, *dots, *end;
  *count = 0;
  for (p = text;; p = end + 1) { /* every name is one */
    int found = 0;
    end = vram__range_end(p, &dots);
    if (dots == p || end < dots + 3)
      return vram__range_error(err, VRAM_ERR_SYNTAX, "a range is A..B, names of nodes, found: ", p,
                               end);
    for (n = g->first; n; n = vram__line_end_of(n)->next)
      found |= vram__is_named(n, p, (uint32_t)(dots - p)) |
               vram__is_named(n, dots + 2, (uint32_t)(end - dots - 2)) << 1;
    if (!(found & 1))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", p, dots);
    if (!(found & 2))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", dots + 2, end);
    if (!*end)
      break;
  }
  for (n = g->first; n; n = vram__line_end_of(n)->next) {
    const vram_node *last = NULL; /* of those that begin here the outer ones first */
    const char *after = NULL;
    for (;;) {
      const vram_node *next = NULL;
      const char *which = NULL;
      for (p = text;; p = end + 1) {
        const vram_node *m;
        end = vram__range_end(p, &dots);
        if (vram__is_named(n, p, (uint32_t)(dots - p))) {
          for (m = n; m && !vram__is_named(m, dots + 2, (uint32_t)(end - dots - 2));) {
            m = vram__line_end_of(m)->next;
            if (m && vram__is_named(m, p, (uint32_t)(dots - p)))
              return vram__range_error(err, VRAM_ERR_VALUE,
                                       "a range begins once more before it ends: ", p, end);
          }
          if (!m)
            return vram__range_error(err, VRAM_ERR_VALUE,
                                     "a range whose end is not behind its beginning: ", p, end);
          if ((!last || m->index < last->index || (m == last && p > after)) &&
              (!next || m->index > next->index))
            next = m, which = p;
        }
        if (!*end)
          break;
      }
      if (!next)
        break;
      if (*count < cap)
        list[*count].first = n, list[*count].last = next;
      ++*count;
      last = next, after = which;
    }
  }
  if (err)
    vram__zero(err, sizeof *err);
  return VRAM_OK;
}

/* How many blocks the pool of a replay has room for: parameter, gradient, state and temporaries of
   the optimizer, what a node makes and keeps, and as many free ones. */
static uint32_t vram__run_blocks(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nparam * 12 + (uint64_t)g->nvalue * 6 + (uint64_t)g->nnode * 6;
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

/* Events of one step, and of the optimizer's first, that a tape has room for. */
static uint32_t vram__tape_events(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nparam * 24 + (uint64_t)g->nvalue * 8 + (uint64_t)g->nnode * 24;
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

static uint64_t vram__run_bytes(const vram_graph *g) {
  return vram_pool_bytes(vram__run_blocks(g), 1) + 16 +
         vram__tape_events(g) * (uint64_t)(sizeof(uint64_t) + sizeof(uint32_t)) +
         ((uint64_t)g->nparam + g->ninput) * sizeof(uint32_t);
}

/* How deep checkpointed ranges lie inside one another, at most. */
static uint32_t vram__nested(const vram_step_options *o) {
  uint32_t end[VRAM_MAX_NESTED]; /* of the ranges that are open */
  uint32_t i, depth = 0, most = 1;
  for (i = 0; o->checkpoint && i < o->ncheckpoint; i++) {
    const vram_range *r = o->checkpoint + i;
    if (!r->first || !r->last)
      break;
    while (depth && end[depth - 1] < r->first->index)
      depth--;
    if (depth == VRAM_MAX_NESTED)
      break;
    end[depth++] = r->last->index;
    if (depth > most)
      most = depth;
  }
  return most;
}

VRAM_API uint64_t vram_step_bytes(const vram_graph *g, const vram_step_options *o) {
  uint64_t n = 65536;
  const vram_node *m;
  if (o && o->train && (o->checkpoint_segments > 1 || o->ncheckpoint)) {
    /* ranges, what goes in and out of each, the recomputed part of the tape */
    const uint64_t ranges = o->ncheckpoint ? o->ncheckpoint : o->checkpoint_segments;
    const uint64_t depth = vram__nested(o);
    n += (ranges < g->nnode * UINT64_C(2) ? ranges : g->nnode * UINT64_C(2)) * 640 +
         (uint64_t)g->nnode * 1200;
    for (m = g->first; m; m = m->next)
      n += depth * ((uint64_t)m->nin * 512 + (uint64_t)m->nout * 64);
  }
  n += (uint64_t)g->nnode * 1200 + (uint64_t)g->nvalue * 256 + (uint64_t)g->nparam * 512;
  n += (uint64_t)(g->max_in + g->max_out) * 256 + g->extra;
  if (o)
    n = vram__plus(n, vram__mul((uint64_t)o->prefetch * g->ninput, sizeof(vram__store)));
  if (o && o->replay)
    n += vram__run_bytes(g);
  for (m = o && o->cc && o->cc < 80 ? g->first : NULL; m; m = m->next)
    if (m->op <= VRAM_OP_conv_transpose3d) {    /* the first rows */
      int64_t groups = VRAM__INT(m, groups, 1); /* all at once in vram__slow_run and _bw */
      n += 1024 * (uint64_t)(groups < INT32_MAX ? groups : INT32_MAX);
    }
  return n;
}

/* Rules of the device: the smallest CUDA context seen (T4), the usual one and the largest with a
   recent runtime. The caching allocator reserves whole segments, at least what is allocated. What
   it keeps of freed blocks nothing bounds but a replay: half of what is allocated and 32 MiB are
   more than in any of 1,472 measured training steps (VGG-16: 44 %). */
#define VRAM__CONTEXT_LOWER UINT64_C(110100480)
#define VRAM__CONTEXT_USUAL UINT64_C(536870912)
#define VRAM__CONTEXT_UPPER UINT64_C(1073741824)

static void vram__device_bounds(vram_report *r, uint64_t context, uint64_t budget) {
  const uint64_t segment = VRAM__SMALL_SEGMENT;
  const uint64_t least = r->peak_allocated_bytes.lower, most = r->peak_allocated_bytes.upper;
  const uint64_t lower = (least + segment - 1) / segment * segment;
  const uint64_t usual = (most + segment - 1) / segment * segment;
  uint64_t c[3] = {VRAM__CONTEXT_LOWER, VRAM__CONTEXT_USUAL, VRAM__CONTEXT_UPPER};
  uint64_t upper = usual + usual / 2 + 16 * segment;
  uint32_t i;
  if (context)
    c[0] = c[1] = c[2] = context == VRAM_NO_CONTEXT ? 0 : context;
  r->peak_reserved_bytes = lower;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].reserved_peak_bytes > r->peak_reserved_bytes)
      r->peak_reserved_bytes = r->phase[i].reserved_peak_bytes;
  if (upper < r->peak_reserved_bytes)
    upper = r->peak_reserved_bytes;
  r->context_bytes.lower = c[0], r->context_bytes.expected = c[1], r->context_bytes.upper = c[2];
  r->device_bytes.lower = vram__plus(lower, c[0]);
  r->device_bytes.expected = vram__plus(r->replayed ? r->peak_reserved_bytes : usual, c[1]);
  r->device_bytes.upper = vram__plus(upper, c[2]);
  r->fits = r->device_bytes.expected <= budget && !r->num_ooms;
}

static void vram__had_gradients(vram__s *s, const vram__cats *before, uint64_t blocks,
                                uint64_t upper) {
  vram_phase_report *z = s->r->phase + VRAM_PHASE_ZERO_GRAD;
  const uint64_t bytes = s->had.bytes;
  if (bytes > (uint64_t)VRAM_MAX_BYTES - z->requested_peak_bytes) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  blocks += s->had.blocks;
  upper += s->had.blocks + s->had.large * VRAM__SMALL;
  s->events += s->had.count;
  s->peak_event += s->had.count;
  z->requested_peak_bytes += bytes;
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] += bytes;
  z->allocated_peak_bytes = blocks;
  if (upper > s->upper_peak)
    s->upper_peak = upper;
  if (z->requested_peak_bytes < s->total_peak)
    return;
  s->total_peak = z->requested_peak_bytes;
  s->peak_event = 0;
  s->peak_node = NULL;
  s->peak_phase = VRAM_PHASE_ZERO_GRAD;
  s->fresh = 0;
  s->peak_cats = *before;
  s->peak_cats.of[VRAM_CATEGORY_GRADIENTS] += bytes;
}

VRAM__SELDOM_END

/* Notes on what storage leaf i's gradient lies. A gradient may be a view of more than it shows, and
   others be views of the same: `writes`, which backward is through with, leads to the first. */
static void vram__had(vram__s *s, uint32_t i) {
  vram__leaf *l = &s->leaf[i], *first;
  vram__store *b;
  l->had = 1;
  l->had_bytes = l->had_with = 0;
  if (!l->grad.st)
    return;
  b = s->top - (s->top - l->grad.st)->base;
  l->had_bytes = b->bytes;
  first = b->writes && b->writes <= i ? &s->leaf[b->writes - 1] : NULL;
  if (first && first->grad.st && s->top - (s->top - first->grad.st)->base == b)
    l->had_with = b->writes;
  else
    b->writes = i + 1;
}

/* Which leaves have a gradient after backward, and what those take. */
static void vram__count_gradients(vram__s *s) {
  uint32_t i, had = 0;
  for (i = 0; i < s->nleaf; i++) {
    const vram__leaf *l = s->leaf + i;
    if (!l->grad.d)
      continue;
    had += i < s->nparam_leaf;
    vram__had(s, i);
    if (!l->had_bytes || l->had_with)
      continue;
    if (l->had_bytes > (uint64_t)VRAM_MAX_BYTES - s->had.bytes) {
      s->failed = VRAM_ERR_OVERFLOW;
      return;
    }
    vram__total_add(&s->had, l->had_bytes);
  }
  s->all_had = had == s->nparam_leaf;
  s->missing = !s->all_had && s->train && !s->o->first_step;
  for (i = 0; !s->all_had && i < s->nparam_leaf; i++)
    if (s->leaf[i].grad.d)
      s->r->gradients_bytes += vram__bytes_of(s->leaf[i].d, s->leaf[i].dt);
  if (s->all_had)
    s->r->gradients_bytes = s->optim_all.bytes;
}

VRAM__SELDOM_BEGIN

/* The report's phases have their allocated and reserved bytes. */
static void vram__blocks_known(vram_report *r, const vram_step_options *o, const vram__run *run) {
  uint64_t peak = 0;
  uint32_t i;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].allocated_peak_bytes > peak)
      peak = r->phase[i].allocated_peak_bytes;
  r->peak_allocated_bytes.expected = peak;
  if (r->peak_allocated_bytes.upper < peak)
    r->peak_allocated_bytes.upper = peak;
  if (run) {
    r->replayed = !run->full;
    r->num_alloc_retries = run->pool.stats.num_alloc_retries;
    r->num_ooms = run->oom;
  }
  vram__device_bounds(r, o->context_bytes, o->budget_bytes);
}

static vram_result
vram__run_step(const vram_graph *g, const vram_step_options *o, void *scratch,
               uint64_t scratch_bytes, vram_report *report, vram__s *s,
               int known) { /* 2: rnn_reset, too; s->live...: as the caller has set them */
  uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  uint64_t leaves;
  uint32_t i;
  vram_live *live = s->live;
  vram__run *run = s->run;
  vram__cuts *cuts = s->cuts;
  uint32_t live_cap = s->live_cap;
  uint64_t stop_at = s->stop_at, before_blocks, before_upper;
  vram__cats before;
  vram__zero(s, sizeof *s);
  vram__zero(report, sizeof *report);
  s->live = live;
  s->live_cap = live_cap;
  s->stop_at = stop_at;
  s->run = run;
  s->cuts = cuts;
  s->g = g;
  s->o = o;
  s->r = report;
  if (!scratch || scratch_bytes < skip + 64)
    return VRAM_ERR_MEMORY;
  s->mem = (uint8_t *)scratch + skip;
  s->cap = (scratch_bytes - skip) & ~(uint64_t)7;
  s->used = 8;
  if (s->cap < sizeof *s->top + sizeof *s->spare * VRAM__SPARE)
    return VRAM_ERR_MEMORY;
  s->cap -= sizeof *s->spare * VRAM__SPARE;
  s->spare = (vram_dims *)(void *)(s->mem + s->cap);
  s->cap -= sizeof *s->top;
  s->top = (vram__store *)(void *)(s->mem + s->cap);
  vram__zero(s->top, sizeof *s->top);
  s->watched = o->event || stop_at || run || cuts;
  s->train = o->train != 0;
  s->ideal = o->rules == VRAM_RULES_IDEAL;
  s->amp = (uint8_t)o->amp;
  s->low = (uint8_t)(o->dtype == VRAM_F32 ? 0 : o->dtype);
  s->cc = o->cc ? o->cc : 90;
  s->sm = o->sm         ? o->sm /* else T4, V100, A100, RTX 3090, RTX 4090, H100, B200, RTX 5090 */
          : s->cc == 75 ? 40
          : s->cc < 80  ? 80
          : s->cc == 80 ? 108
          : s->cc < 89  ? 82
          : s->cc == 89 ? 128
          : s->cc == 90 ? 132
          : s->cc < 120 ? 148
                        : 170;
  s->threads = s->cc == 75 ? 1024 : s->cc == 86 || s->cc == 89 || s->cc == 120 ? 1536 : 2048;
  s->ws = s->cc >= 90 ? 33554432 : 8519680;
  for (i = 0; i < 64; i++)
    s->cache[i] = g->cache[i];
#define VRAM__TAKE(to, type, count)                                                                \
  to = (type *)vram__bump(s->mem, &s->used, s->cap, (uint64_t)(count) * sizeof(type));             \
  if (!(to))                                                                                       \
  return VRAM_ERR_MEMORY
  VRAM__TAKE(s->obj, vram__obj, g->nvalue + 1);
  VRAM__TAKE(s->name_of, uint32_t, g->nvalue);
  vram__plan_ranges(s);
  if (s->failed)
    return (vram_result)s->failed;
  s->obj[g->nvalue].refs = 0;
  leaves = (uint64_t)g->nparam + g->ninput + s->most_args;
  VRAM__TAKE(s->leaf, vram__leaf, leaves); /* where they were, if `known` */
  if (s->amp) {
    VRAM__TAKE(s->cast, vram__t, leaves);
  }
  if (s->nrange && o->reentrant) {
    VRAM__TAKE(s->inner, vram__task, leaves);
  }
  VRAM__TAKE(s->param, vram__t, g->nparam);
  VRAM__TAKE(s->args, vram__t, g->max_in + g->max_out + 16);
#undef VRAM__TAKE
  s->scalar = vram__dims_get(s->mem, &s->used, s->cap, s->cache, 0, NULL, NULL);
  if (!s->scalar)
    return VRAM_ERR_MEMORY;
  s->phase = VRAM_PHASE_ZERO_GRAD;
  s->known = known != 0;
  s->rnn_reset = known > 1;
  s->root = g->root;
  vram__leave_out(s);
  if (s->failed)
    return (vram_result)s->failed;
  vram__before(s);
  s->scaler = s->train && s->amp == VRAM_F16 && s->nparam_leaf; /* it goes with an optimizer */
  vram__optim_before(s);
  if (s->scaler && !o->first_step) {
    s->scale = vram__existing(s, s->scalar, VRAM_F32, VRAM_CATEGORY_OTHER);
    vram__existing(s, s->scalar, VRAM_I32, VRAM_CATEGORY_OTHER);
  }
  if (s->failed)
    return (vram_result)s->failed;
  s->peak = s->total_peak = s->cur;
  s->blocks_peak = s->blocks;
  s->upper_peak = s->upper;
  vram__at_peak(s);
  before = s->cats;
  vram__copy(report->before_category_bytes, before.of, sizeof before.of);
  before_blocks = s->blocks, before_upper = s->upper;
  if (s->stop_at == 1 && (!s->train || o->first_step))
    vram__live_set(s);
  if (run)
    run->body = run->ntape;
  vram__zero_grad(s);
  vram__phase(s, VRAM_PHASE_FORWARD);
  vram__micro_batches(s);
  s->phase = VRAM_PHASE_OPTIMIZER;
  vram__count_gradients(s);
  if (!known && s->train && !o->first_step && !s->failed)
    vram__had_gradients(s, &before, before_blocks, before_upper);
  if (run)
    run->optim = run->ntape;
  if (s->train && !s->failed)
    vram__optim_now(s);
  if (run)
    run->after = run->ntape;
  vram__phase(s, VRAM_PHASE_END);
  if (s->train && s->loss.d) {
    s->loss.fn = 0;
    vram__let(s, s->loss);
  }
  vram__phase(s, VRAM_PHASE_END);
  if (s->fresh)
    vram__at_peak(s);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    report->peak_category_bytes[i] = s->peak_cats.of[i];
  report->peak_requested_bytes = s->total_peak;
  report->peak_blocks_bytes = s->most_blocks;
  if (report->phase[VRAM_PHASE_ZERO_GRAD].allocated_peak_bytes > s->most_blocks && !run)
    report->peak_blocks_bytes = report->phase[VRAM_PHASE_ZERO_GRAD].allocated_peak_bytes;
  report->peak_allocated_bytes.lower = report->peak_blocks_bytes;
  report->peak_allocated_bytes.upper = s->upper_peak;
  if (s->custom | s->custom_most) {
    const uint64_t less = vram__plus(s->custom, s->custom_most);
    uint64_t *lower = &report->peak_allocated_bytes.lower;
    *lower -= less < *lower ? less : *lower;
  }
  report->pinned_bytes = vram__mul(report->inputs_bytes, o->pinned);
  vram__blocks_known(report, o, run);
  report->peak_node = s->peak_node;
  report->peak_phase = s->peak_phase;
  report->events = s->events;
  report->peak_event = s->peak_event;
  report->scratch_used = skip + (s->used > s->most_used ? s->used : s->most_used) +
                         (s->nstore + (uint64_t)1) * sizeof(vram__store) +
                         sizeof *s->spare * VRAM__SPARE;
  return (vram_result)s->failed;
}

/* Which leaves get a gradient decides what a steady step begins with. Where that must be known at
   the beginning, a step that nobody sees finds it out. */
static vram_result vram__play(const vram_graph *g, const vram_step_options *o, void *scratch,
                              uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  vram_step_options quiet;
  vram_live *live = s->live;
  uint64_t stop_at = s->stop_at;
  vram_result r;
  if (!o->train || o->first_step || !(o->event || o->keep_grads || stop_at)) {
    r = vram__run_step(g, o, scratch, scratch_bytes, report, s, 0);
    if (r || o->first_step || (!s->missing && !(s->rnn_reset && s->rnn_dropout.d)))
      return r;
    s->live = live;
    s->stop_at = stop_at;
    return vram__run_step(g, o, scratch, scratch_bytes, report, s, 1 + s->rnn_reset);
  }
  quiet = *o;
  quiet.event = NULL;
  quiet.keep_grads = 0;
  quiet.accumulate = 1;
  s->stop_at = 0;
  r = vram__run_step(g, &quiet, scratch, scratch_bytes, report, s, 0);
  s->live = live;
  s->stop_at = stop_at;
  return r ? r : vram__run_step(g, o, scratch, scratch_bytes, report, s, 1 + s->rnn_reset);
}

/* One step more has been played: whose blocks stay. A forward pass's results go. */
static void vram__run_kept(vram__s *s) {
  uint32_t i;
  for (i = 1; i <= s->nstore && !s->train; i++) {
    const vram__store *st = s->top - i;
    if (st->base == i && st->srefs && st->id != UINT32_MAX)
      vram__run_put(s->run, st->block);
  }
  for (i = 0; i < s->nleaf && i < s->g->nparam + s->g->ninput; i++) {
    const uint32_t st = s->leaf[i].grad.st;
    s->run->gradient[i] = st ? (s->top - (s->top - st)->base)->block : 0;
  }
  s->run->rnn_dropout = s->rnn_dropout.st ? (s->top - s->rnn_dropout.st)->block : 0;
  s->run->fresh = 0;
}

static void vram__tape_part(vram__s *s, uint32_t from, uint32_t to, uint32_t *id,
                            vram_phase_report *phase) {
  vram__run *run = s->run;
  uint32_t i;
  for (i = from; i < to; i++) {
    const uint64_t value = run->tape[i] >> 2;
    switch (run->tape[i] & 3) {
    case VRAM__TAPE_ALLOC:
      run->block[(*id)++] = vram__run_get(s, value);
      break;
    case VRAM__TAPE_FREE:
      vram__run_put(run, run->block[value]);
      break;
    case VRAM__TAPE_OWN:
      vram__run_get(s, value);
      break;
    default:
      vram__run_phase(run, phase + value);
    }
  }
}

/* Steps of a run are alike but for zero_grad and the optimizer's first: one step is played onto a
   tape, and the tape into the pool, which takes less than playing every step. run->untold: this
   model's steps are not so much alike. */
static vram_result vram__play_tape(const vram_graph *g, const vram_step_options *o, void *scratch,
                                   uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  const uint32_t steps = o->train ? 3 : 2, room = g->nparam + g->ninput;
  vram__run *run = s->run;
  vram_step_options first = *o;
  vram_phase_report before[VRAM_PHASE_COUNT];
  uint64_t optimizer_bytes;
  uint32_t i, k, n = 0, end, id = 0, first_id;
  vram_result r;
  vram__zero(before, sizeof before);
  run->taping = 1;
  r = vram__run_step(g, o, scratch, scratch_bytes, report, s, 0);
  run->untold |= s->missing | s->rnn_reset;
  end = run->ntape;
  first_id = run->ids;
  if (r || run->untold) {
    run->taping = 0;
    return r;
  }
  if (o->train) { /* what zero_grad frees, inputs first */
    for (k = 0; k < s->nleaf; k++) {
      const uint32_t at = k + s->nparam_leaf;
      const vram__leaf *l = s->leaf + (at < s->nleaf ? at : at - s->nleaf);
      const uint32_t st = l->grad.st;
      run->untold |= (l->had_with != 0) | (st && n == room);
      if (st && n < room)
        run->gradient[n++] = (s->top - (s->top - st)->base)->id;
    }
    first.first_step = 1;
    s->o = &first;
    optimizer_bytes = report->optimizer_bytes;
    vram__optim_now(s);
    s->o = o;
    report->optimizer_bytes = optimizer_bytes;
    run->untold |= s->failed != 0;
  } else
    for (i = 1; i <= s->nstore; i++) { /* the results */
      const vram__store *st = s->top - i;
      if (st->base != i || !st->srefs || st->id == UINT32_MAX)
        continue;
      run->untold |= n == room;
      if (n < room)
        run->gradient[n++] = st->id;
    }
  for (k = 0; k < n; k++)
    run->untold |= run->gradient[k] >= run->ids;
  run->taping = 0;
  if (run->untold)
    return VRAM_OK;
  s->failed = VRAM_OK;
  vram__tape_part(s, 0, run->body, &id, NULL);
  for (i = 0; i < steps && !s->failed; i++) {
    vram_phase_report *phase = i + 1 < steps ? before : report->phase;
    for (k = 0; k < VRAM_PHASE_COUNT; k++)
      phase[k].allocated_peak_bytes = phase[k].reserved_peak_bytes = 0;
    for (k = 0; k < n && i; k++)
      vram__run_put(run, run->block[run->gradient[k]]);
    id = 0;
    vram__tape_part(s, run->body, run->optim, &id, phase);
    if (!i && o->train)
      vram__tape_part(s, end, run->ntape, &first_id, phase);
    else
      vram__tape_part(s, run->optim, run->after, &id, phase);
    vram__tape_part(s, run->after, end, &id, phase);
  }
  vram__blocks_known(report, o, run);
  return VRAM_OK;
}

/* The whole run on a device with so much room. */
static vram_result vram__play_on(const vram_graph *g, const vram_step_options *o, uint64_t room,
                                 int tight, void *scratch, uint64_t scratch_bytes,
                                 vram_report *report, vram__s *s) {
  const uint64_t pool_bytes = vram_pool_bytes(vram__run_blocks(g), 1);
  vram_pool_options options = *o->replay;
  vram_backend device;
  vram_step_options quiet = *o;
  uint32_t before = !o->train ? 1 : o->first_step ? 0 : 2; /* steps */
  vram__run run;
  vram_result r;
  uint32_t i;
  uint8_t *at = (uint8_t *)scratch + scratch_bytes;
  at += (8 - (uint64_t)(uintptr_t)at % 8) % 8;
  vram__zero(&run, sizeof run);
  vram__zero(&device, sizeof device);
  device.alloc = vram__run_alloc, device.free = vram__run_free;
  device.reserve = vram__run_reserve, device.unreserve = vram__run_unreserve;
  device.map = vram__run_map, device.unmap = vram__run_unmap;
  device.user = &run;
  run.room = room;
  run.next = VRAM__LARGE_SEGMENT;
  run.tape = (uint64_t *)(void *)(at + (pool_bytes + 7) / 8 * 8);
  run.tape_cap = vram__tape_events(g);
  run.block = (uint32_t *)(void *)(run.tape + run.tape_cap);
  run.gradient = run.block + run.tape_cap;
  run.fresh = 1;
  run.tight = tight != 0;
  options.streams = 1;
  if (tight)
    options.event = NULL;
  if (!options.total_bytes)
    options.total_bytes = UINT64_C(1) << 40;
  r = vram_pool_init(&run.pool, &options, &device, at, pool_bytes, NULL);
  if (r)
    return r;
  run.pool.terse = 1;
  s->run = &run;
  run.untold = o->event || options.event || o->first_step || o->keep_grads || g->rnn_dropout ||
               (o->train && o->amp == VRAM_F16);
  if (!run.untold)
    r = vram__play_tape(g, o, scratch, scratch_bytes, report, s);
  if (!run.untold || r)
    before = 0;
  quiet.event = NULL;
  quiet.nodes = NULL;
  quiet.first_step = 1;
  for (i = 0; i < before && !r; i++) {
    r = vram__run_step(g, &quiet, scratch, scratch_bytes, report, s, i ? 1 + s->rnn_reset : 0);
    if (!r)
      vram__run_kept(s);
    quiet.first_step = 0;
  }
  if (!r && run.untold)
    r = vram__run_step(g, o, scratch, scratch_bytes, report, s, before ? 1 + s->rnn_reset : 0);
  s->run = NULL;
  if (tight && run.oom)
    report->num_ooms = 1; /* the report is not complete */
  return tight && run.oom ? VRAM_OK : r;
}

/* 1: the whole run finds its memory in so much room. */
static int vram__runs_within(const vram_graph *g, const vram_step_options *o, uint64_t room,
                             void *scratch, uint64_t scratch_bytes, vram__s *s, uint64_t *retries) {
  vram_step_options quiet = *o;
  vram_report r;
  quiet.event = NULL;
  quiet.nodes = NULL;
  if (vram__play_on(g, &quiet, room, 1, scratch, scratch_bytes, &r, s) || !r.replayed || r.num_ooms)
    return 0;
  *retries = r.num_alloc_retries;
  return 1;
}

/* vram__play with o->replay. */
static vram_result vram__play_run(const vram_graph *g, const vram_step_options *o, void *scratch,
                                  uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  const uint64_t room = o->replay->total_bytes;
  uint64_t context;
  vram_result r;
  if (scratch_bytes < vram__run_bytes(g))
    return VRAM_ERR_MEMORY;
  scratch_bytes -= vram__run_bytes(g);
  r = vram__play_on(g, o, room ? room : (uint64_t)VRAM_MAX_BYTES, 0, scratch, scratch_bytes, report,
                    s);
  if (!r && (!report->replayed || (report->num_ooms && !room))) /* beyond all addresses */
    r = vram__play(g, o, scratch, scratch_bytes, report, s);
  report->scratch_used += vram__run_bytes(g);
  context = report->context_bytes.expected;
  if (r || report->fits || !report->replayed || o->budget_bytes <= context ||
      report->peak_allocated_bytes.lower > o->budget_bytes - context)
    return r;
  report->fits = vram__runs_within(g, o, o->budget_bytes - context, scratch, scratch_bytes, s,
                                   &report->num_alloc_retries);
  return r;
}

/* What no step can begin with, or NULL. */
static const char *vram__misuse(const vram_graph *g, const vram_step_options *o, vram_result *why) {
  *why = g->error.code ? g->error.code : VRAM_ERR_VALUE;
  if (g->error.code)
    return g->error.text;
  if (!g->root)
    return "a model without nodes";
  if ((uint32_t)o->rules > VRAM_RULES_IDEAL)
    return "unknown rules";
  if ((uint32_t)o->optimizer >= VRAM_OPTIM_COUNT)
    return "unknown optimizer";
  if ((uint32_t)o->optim_impl > VRAM_OPTIM_IMPL_FUSED)
    return "unknown optimizer implementation";
  if (o->amp && o->amp != VRAM_BF16 && o->amp != VRAM_F16)
    return "amp is neither bf16 nor f16";
  if (o->dtype && o->dtype != VRAM_F32 && o->dtype != VRAM_BF16 && o->dtype != VRAM_F16)
    return "the model's dtype is neither f32 nor bf16 nor f16";
  if (o->cc && (o->cc < 50 || o->cc > 129))
    return "a compute capability out of range (expected 50 to 129: times ten)";
  if (o->ncheckpoint && !o->checkpoint)
    return "ncheckpoint without checkpoint";
  return NULL;
}

VRAM_API vram_result vram_step(const vram_graph *g, const vram_step_options *o, void *scratch,
                               uint64_t scratch_bytes, vram_report *report, vram_error *err) {
  vram__s s;
  vram_step_options none;
  vram_result r;
  vram__zero(&none, sizeof none);
  if (!o)
    o = &none;
  s.live = NULL;
  s.live_cap = 0;
  s.stop_at = 0;
  s.run = NULL;
  s.cuts = NULL;
  s.problem_node = NULL;
  s.problem = vram__misuse(g, o, &r);
  if (s.problem)
    vram__zero(report, sizeof *report);
  else if (o->replay)
    r = vram__play_run(g, o, scratch, scratch_bytes, report, &s);
  else
    r = vram__play(g, o, scratch, scratch_bytes, report, &s);
  if (err) {
    uint32_t n = 0;
    vram__zero(err, sizeof *err);
    err->code = r;
    if (r)
      vram__puts(err->text, sizeof err->text, &n, s.problem ? s.problem : vram_result_text(r));
    if (r && s.problem_node) {
      vram__puts(err->text, sizeof err->text, &n, " (node ");
      vram__put(err->text, sizeof err->text, &n, s.problem_node->name, s.problem_node->name_len);
      vram__puts(err->text, sizeof err->text, &n, ")");
      err->line = s.problem_node->line;
    }
  }
  return r;
}

VRAM_API vram_result vram_step_live(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, const vram_report *report,
                                    vram_live *list, uint32_t cap, uint32_t *count) {
  vram__s s;
  vram_step_options silent;
  vram_report again;
  vram_result r;
  *count = 0;
  if (o)
    silent = *o;
  else
    vram__zero(&silent, sizeof silent);
  silent.event = NULL;
  silent.nodes = NULL;
  silent.replay = NULL;
  s.run = NULL;
  s.cuts = NULL;
  if (vram__misuse(g, &silent, &r))
    return r;
  s.live = list;
  s.live_cap = cap;
  s.stop_at = report->peak_event + 1;
  if (!s.stop_at) { /* which event of the optimizer it was shows only where each is played */
    s.stop_at = UINT64_MAX;
    if ((r = vram__play(g, &silent, scratch, scratch_bytes, &again, &s)) != VRAM_OK)
      return r;
    s.live = list;
    s.live_cap = cap;
    s.stop_at = again.peak_event + 1;
  }
  r = vram__play(g, &silent, scratch, scratch_bytes, &again, &s);
  if (r == VRAM_OK)
    *count = s.live_count;
  return r;
}

VRAM__SELDOM_END
VRAM__ONCE_BEGIN

