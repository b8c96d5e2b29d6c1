/* >>torch/engine    gradients on their way: AccumulateGrad, InputBuffer, validate_outputs */
#include "torch/torch.h"

/* InputBuffer::add: one more gradient for an input, which stays the caller's */
VRAM__FN void vram__gradient_add(vram__step *s, vram__tensor *at, const vram__tensor *t) {
  const vram__storage *st = vram__slot_at(s, at->st);
  vram__tensor sum;
  int is_view;
  if (at->st && st->refs == 1 && vram__slot_at(s, st->base)->srefs == 1 && !st->shown &&
      (at->d->flags & VRAM__DENSE))
    return; /* added in place */
  is_view = s->leaf.views && (uintptr_t)at >= (uintptr_t)s->leaf.now &&
            (uintptr_t)at < (uintptr_t)(s->leaf.now + s->leaf.parameters);
  if (is_view)
    s->stream = s->leaf.views;
  sum = vram__pointwise_empty2(s, *at, *t);
  if (is_view)
    s->stream = 0;
  vram__tensor_release(s, *at);
  *at = sum;
}

/* Can t become l's gradient as it is? (AccumulateGrad::accumulateGrad: nobody else has it, and its
   strides are the leaf's.) */
static int vram__gradient_can_take(const vram__step *s, const vram__leaf *l,
                                   const vram__tensor *t) {
  uint32_t i;
  if (t->st && vram__slot_at(s, t->st)->refs != 1)
    return 0;
  if (!(l->d->flags & VRAM__DENSE))
    return (t->d->flags & VRAM__CONTIG) != 0;
  for (i = 0; t->d != l->d && i < t->d->ndim; i++)
    if (t->d->v[i] != 1 ? VRAM__STRIDE(t->d)[i] != VRAM__STRIDE(l->d)[i] : !VRAM__STRIDE(t->d)[i])
      return 0;
  return 1;
}

/* Whoever listens hears that a storage counts in another category from now on. */
static VRAM__COLD void vram__becomes_emit(vram__step *s, const vram__storage *b,
                                          vram_category category) {
  vram_event e;
  vram__memory_zero(&e, sizeof e);
  e.action = VRAM_ACTION_BECOMES;
  e.phase = s->phase;
  e.category = category;
  e.was = (vram_category)b->cat;
  e.id = b->id == UINT32_MAX ? -1 : (int64_t)b->id;
  e.bytes = b->bytes;
  e.node = b->node;
  if (s->o->event)
    s->o->event(s->o->user, &e);
  if (s->replay && s->replay->pool.options.event && b->block) {
    e.id = -1;
    e.address = s->replay->pool.block[b->block].address;
    s->replay->pool.options.event(s->replay->pool.options.user, &e);
  }
}

static VRAM__COLD void vram__gradient_watch(vram__step *s, const vram__storage *b) {
  if ((s->o->event || s->replay) && b->bytes)
    vram__becomes_emit(s, b, VRAM_CATEGORY_GRADIENTS);
  if (s->cuts && !s->cuts->plain) {
    const uint64_t bytes = vram__block_bytes(b->bytes);
    s->cuts->now -= bytes < s->cuts->now ? bytes : s->cuts->now;
  }
}

static inline void vram__gradient_count(vram__step *s, vram__storage *b) {
  s->count.category.of[b->cat] -= b->bytes;
  b->cat = VRAM_CATEGORY_GRADIENTS;
  s->count.category.of[VRAM_CATEGORY_GRADIENTS] += b->bytes;
}

/* A storage becomes a gradient. */
static VRAM__APART void vram__gradient_become(vram__step *s, vram__storage *b) {
  if (s->count.at_peak)
    vram__peak_note(s);
  if (s->watched && b->cat != VRAM_CATEGORY_GRADIENTS)
    vram__gradient_watch(s, b);
  vram__gradient_count(s, b);
}

/* A storage is what the next step of a generation begins with. */
VRAM__FN void vram__cache_become(vram__step *s, vram__storage *b) {
  const vram_category category = VRAM_CATEGORY_CACHE;
  if (b->cat <= VRAM_CATEGORY_INPUTS || b->cat == category)
    return; /* it lives anyway */
  if (s->count.at_peak)
    vram__peak_note(s);
  if ((s->o->event || s->replay) && b->bytes)
    vram__becomes_emit(s, b, category);
  s->count.category.of[b->cat] -= b->bytes;
  b->cat = category;
  s->count.category.of[category] += b->bytes;
}

/* Did the program make this leaf while it ran? */
static int vram__leaf_is_made(const vram__step *s, const vram__leaf *l) {
  return (VRAM__LEAF | (uint32_t)(l - s->leaf.at)) >= s->leaf.made;
}

/* Inputs of a call inside backward are leaves, too, whose gradients are handed on. Hooks come
   behind it: what arrived, of which a handle is returned, lives as long. */
static VRAM__APART vram__tensor vram__gradient_accumulate_any(vram__step *s, vram__leaf *l,
                                                              vram__tensor *t) {
  const vram__tensor arrived = *t;
  if (t->d && !l->grad.d) {
    l->permuted = !(t->d->flags & VRAM__CONTIG);
    if (!s->leaf.views && !vram__gradient_can_take(s, l, t))
      l->grad = vram__tensor_empty(
          s, l->d->flags & VRAM__DENSE ? l->d : vram__dims_contiguous(s, t->d), t->dt);
    else if (t->st && vram__slot_at(s, t->st)->of) /* new_grad.detach() is no view */
      l->grad = vram__tensor_alias(s, *t, t->d);
    else
      l->grad = vram__tensor_retain(s, *t);
    if (l->d->flags & VRAM__DENSE)
      l->grad.d = l->d; /* t's own may go with the tape */
    if (l->grad.st)
      vram__slot_at(s, l->grad.st)->shown = 0; /* detached, it is no view */
    if (l->grad.st && (l < s->leaf.at + s->leaf.count || vram__leaf_is_made(s, l)))
      vram__gradient_become(s, vram__owner_at(s, l->grad.st));
  }
  t->d = NULL;
  return arrived;
}

/* AccumulateGrad. Nearly always it takes over what nobody else has. */
VRAM__FN void vram__gradient_accumulate(vram__step *s, vram__leaf *l) {
  vram__tensor *t = &l->in;
  vram__storage *b = vram__slot_at(s, t->st);
  if (s->leaf.accumulated || s->leaf.now != s->leaf.at || t->d != l->d || l->grad.d ||
      b->base != t->st || b->refs != 1 || !(l->d->flags & VRAM__DENSE) ||
      l >= s->leaf.at + s->leaf.count) {
    const vram__tensor arrived =
        vram__gradient_accumulate_any(s, l, &s->leaf.now[l - s->leaf.at].in);
    if (s->leaf.accumulated && l < s->leaf.at + s->leaf.parameters)
      s->leaf.accumulated(s, l);
    if (arrived.d)
      vram__tensor_release(s, arrived);
    return;
  }
  l->grad = *t;
  t->d = NULL;
  b->shown = 0;
  vram__total_add(&s->leaf.had, b->bytes);
  s->leaf.taken++;
  if (s->count.at_peak || s->watched)
    vram__gradient_become(s, b);
  else
    vram__gradient_count(s, b);
}

/* torch::autograd::validate_outputs: the gradient gets the shape and dtype of what it belongs to.
 */
VRAM__FN void vram__gradient_validate(vram__step *s, vram__tensor *t, const vram_dims *d,
                                      vram_dtype dt) {
  vram__tensor u;
  if (t->d != d) {
    uint32_t k;
    int same = t->d->ndim == d->ndim;
    for (k = 0; same && k < d->ndim; k++)
      same = t->d->v[k] == d->v[k];
    if (!same) {
      u = vram__tensor_sum_to(s, *t, d);
      vram__tensor_release(s, *t);
      *t = u;
    }
  }
  if (t->dt != dt) {
    u = vram__tensor_to(s, *t, dt);
    vram__tensor_release(s, *t);
    *t = u;
  }
}
