/* >>step/backward    backward through the tape */
#include "step/step.h"

/* Flags what the flagged records from `from` back to `end` lead to, and tells leaves how many
   gradients will come. */
VRAM__FN void vram__backward_expect(vram__step *s, uint32_t from, uint32_t end) {
  uint32_t at, i;
  vram__grad_fn *f;
  for (at = from; at != end; at = f->prev) {
    f = vram__grad_fn_at(s, at);
    if (!f->flag)
      continue;
    for (i = 0; i < f->nin; i++) {
      uint32_t e = VRAM__EDGES(f)[i].fn;
      if (!e)
        continue;
      if (e & VRAM__LEAF)
        vram__leaf_task(s, s->leaf.at + (e & ~VRAM__LEAF))->deps++;
      else
        vram__grad_fn_at(s, e)->flag = 1;
    }
  }
}

/* Where backward puts the gradients for the inputs of one record; between two records all are none.
 */
VRAM__FN vram__tensor *vram__backward_room(vram__step *s) {
  uint32_t i;
  vram__tensor *t = (vram__tensor *)vram__memory_take(
      s->mem, &s->used, s->cap, (s->tape.most_inputs + 1) * (uint64_t)sizeof *t);
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  for (i = 0; t && i <= s->tape.most_inputs; i++)
    t[i].d = NULL;
  return t;
}

/* Runs them from the last to the first: each is ready then, and PyTorch's queue prefers the latest
   one that is ready. Leaves run as soon as their last gradient is there. */
VRAM__FN void vram__backward_walk(vram__step *s, uint32_t from, uint32_t end) {
  vram__tensor *const gin = s->gin;
  uint32_t at, i;
  vram__grad_fn *f;
  for (at = from; at != end && !s->failed; at = f->prev) {
    vram__edge *edge;
    vram__slot *slot;
    uint32_t leaves = 0;
    int any = 0, left = 0;
    f = vram__grad_fn_at(s, at);
    if (!f->flag || f->done)
      continue;
    edge = VRAM__EDGES(f), slot = VRAM__SLOTS(f);
    f->done = 1;
    f->flag = 0;
    s->node = f->node;
    for (i = 0; i < f->nout; i++)
      any |= slot[i].g.d != NULL;
    if (any)
      vram__backward_any(s, f, gin);
    else
      vram__saved_unpack(s, f);
    if (s->failed)
      return;
    for (i = 0; i < f->nin; i++)
      if (gin[i].d)
        vram__gradient_fit(s, edge[i], gin + i);
    for (i = 0; i < f->nout; i++)
      if (slot[i].g.d) {
        vram__tensor_release(s, slot[i].g);
        slot[i].g.d = NULL;
      }
    if (f->nsaved || f->inner)
      vram__saved_release(s, f);
    for (i = 0; i < f->nin; i++)
      if (edge[i].fn) {
        vram__gradient_deliver(s, edge[i], gin + i);
        leaves |= edge[i].fn & VRAM__LEAF;
        left |= gin[i].d != NULL;
      }
    for (i = 0; left && i < f->nin; i++) /* those that were added to others live up to here */
      if (gin[i].d) {
        vram__tensor_release(s, gin[i]);
        gin[i].d = NULL;
      }
    for (i = 0; leaves && i < f->nin; i++)
      if (edge[i].fn & VRAM__LEAF) {
        vram__leaf *l = s->leaf.at + (edge[i].fn & ~VRAM__LEAF);
        if (vram__leaf_task(s, l)->deps == 0)
          vram__gradient_accumulate(s, l);
      }
  }
}

VRAM__FN void vram__backward(vram__step *s, vram__tensor loss) {
  vram__tensor one;
  if (!loss.fn || (loss.fn & VRAM__LEAF))
    return;
  vram__grad_fn_at(s, loss.fn)->flag = 1;
  one = vram__tensor_empty(s, vram__dims_dense(s, loss.d),
                           loss.dt); /* held by torch.autograd.backward */
  VRAM__SLOTS(vram__grad_fn_at(s, loss.fn))[loss.out].g = vram__tensor_retain(s, one);
  vram__backward_expect(s, loss.fn, 0);
  vram__backward_walk(s, loss.fn, 0);
  vram__tensor_release(s, one);
}

/* What is there before the step: no event, id -1. */
VRAM__FN vram__tensor vram__leaf_existing_gradient(vram__step *s, const vram_dims *d, vram_dtype dt,
                                                   uint8_t cat) {
  const uint64_t events = s->count.events, next_id = s->count.next_id,
                 peak_event = s->count.peak_event;
  const uint8_t old = s->cat, watched = s->watched;
  vram__tensor t;
  s->watched = 0;
  s->cat = cat;
  t = vram__tensor_empty(s, d, dt);
  if (t.st) {
    vram__storage *st = s->top - t.st;
    st->id = UINT32_MAX;
    if (s->replay && s->replay->taping)
      vram__tape_put(s->replay, VRAM__TAPE_OWN, st->bytes);
    else if (s->replay && s->replay->fresh) {
      vram__replay_tell(s, cat, NULL);
      st->block = vram__replay_get(s, st->bytes);
    }
  }
  s->count.events = events, s->count.next_id = next_id, s->count.peak_event = peak_event;
  s->watched = watched;
  s->cat = old;
  return t;
}
