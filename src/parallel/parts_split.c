/* >>parallel/parts_split    backward in two parts (torch/distributed/pipelining/_backward.py:
   stage_backward_input, stage_backward_weight) */
#include "parallel/parts.h"

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
    if (f->hooked && (f->flag & 2))
      t->wrapper->record(t, at);
    if (f->flag & 2)
      vram__part_input_record(y, at);
    f->flag = 0;
  }
  t->tape.retain = 0;
  if (t->wrapper)
    vram__fsdp_told_end(t);
  vram__part_input_expect(y, from, 0);
  for (i = 0; i < y->s->nin; i++) {
    vram__leaf *l = vram__part_input_leaf(y, i);
    if (!l)
      continue;
    l->grad = l->in;
    l->in = vram__tensor_none();
  }
}

VRAM__FN void vram__part_input(vram__part_player *y, vram__played *part, vram__part_incoming *in) {
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
  vram__part_drop_loss(y);
  vram__part_drop_roots(y);
  y->micro->input_ids = part->ids;
  vram__part_end(y);
}

/* What stage_backward_weight's variables hold of the group before. */
typedef struct vram__part_past {
  vram__part_group *group;
  vram__tensor dw[64], sum;
  uint32_t ndw;
} vram__part_past;

/* summed_grad = sum(non_none_grads): 0 and the first one are a new tensor, and so on; it goes back
   through the function's first output. */
static void vram__part_group_sum(vram__part_player *y, vram__part_group *g, vram__part_past *past) {
  vram__step *const t = &y->t;
  const uint32_t nout = vram__grad_fn_at(t, g->record)->nout;
  vram__tensor sum = vram__tensor_none();
  uint32_t i;
  for (i = 0; i < nout; i++) {
    const vram__tensor x = g->grad[i];
    vram__tensor next;
    if (!x.d)
      continue;
    next = vram__tensor_empty(t, vram__dims_dense(t, x.d), x.dt);
    if (sum.d)
      vram__tensor_release(t, sum);
    sum = next;
  }
  if (past->sum.d)
    vram__tensor_release(t, past->sum);
  past->sum = sum;
}

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
    vram__part_gradient(y, i, 0);
    n++;
  }
  for (i = 0; i < past->ndw; i++)
    vram__tensor_release(t, past->dw[i]);
  for (i = 0; i < n; i++)
    past->dw[i] = now[i];
  past->ndw = n;
}

static void vram__part_group_run(vram__part_player *y, vram__part_group *g,
                                 const vram__part_past *past) {
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
  for (i = 0; i < f->nout && !past->sum.d; i++)
    if (g->grad[i].d)
      VRAM__SLOTS(f)[i].g = vram__tensor_retain(t, g->grad[i]);
  if (past->sum.d)
    VRAM__SLOTS(f)->g = vram__tensor_retain(t, past->sum);
  vram__backward_walk(t, g->record, 0);
  if (t->wrapper)
    vram__fsdp_told_end(t);
  vram__part_mask(f, other, kept, 0);
}

VRAM__FN void vram__part_weight(vram__part_player *y, vram__played *part) {
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
    if (y->p->does & VRAM__PIPE_SUMS)
      vram__part_group_sum(y, past.group, &past);
    vram__part_group_run(y, past.group, &past);
    if (!t->failed)
      vram__part_group_take(y, &past);
  }
  if (t->failed)
    return;
  vram__part_group_over(y, past.group);
  if (past.sum.d)
    vram__tensor_release(t, past.sum);
  for (i = 0; i < past.ndw; i++)
    vram__tensor_release(t, past.dw[i]);
  vram__part_end(y);
}
