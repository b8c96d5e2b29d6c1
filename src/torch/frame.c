/* >>torch/frame    checkpoint() without reentrance: what its records save
   (torch/utils/checkpoint.py) */
#include "torch/torch.h"

VRAM__FN vram__frame *vram__frame_at(const vram__step *s, uint32_t f) {
  return (vram__frame *)(void *)(s->mem + (uint64_t)f * 8);
}

/* One thing less that holds the call; the last one lets its inputs go: first what its function
   refers to (_CheckpointFrame.recompute_fn), then its arguments from the last one on
   (input_saver). */
VRAM__COLD VRAM__FN void vram__frame_release(vram__step *s, vram__frame *c) {
  uint32_t i;
  if (--c->alive)
    return;
  for (i = c->own > c->range->nnamed ? c->own : c->range->nnamed; i < c->range->narg; i++)
    vram__tensor_release(s, c->arg[i]);
  if (c->inputs)
    vram__grad_fn_release(s, c->inputs);
  for (i = c->range->nnamed; i-- > c->own;)
    vram__tensor_release(s, c->arg[i]);
}

/* f saves a tensor on st. In forward nothing is kept (pack_hook); in the recomputation it goes to
   the record that f repeats, if that still waits for it. Returns the storage that f itself keeps.
 */
VRAM__COLD VRAM__FN uint32_t vram__frame_pack(vram__step *s, vram__grad_fn *f, const vram_dims *d,
                                              uint32_t st) {
  vram__frame *c = s->call.frame;
  uint32_t me = vram__grad_fn_index(s, f);
  if (!s->call.again) {
    const vram__storage *b = vram__slot_at(s, st);
    if (!f->frame) {
      f->frame = (uint32_t)((uint64_t)((const uint8_t *)c - s->mem) / 8);
      c->alive++;
      if (c->tail)
        vram__grad_fn_at(s, c->tail)->next = me;
      else
        c->first = me;
      c->tail = me;
    }
    if (c->final != me) {
      c->final = me;
      c->before = c->saves;
      c->late = 0;
    }
    if (f->kind == VRAM__K_checkpoint || /* it saves when its function has run */
        (st ? b->id != UINT32_MAX && b->id >= f->deps : d && !d->numel))
      c->late = 1; /* an output of the operation */
    c->saves++;
    return 0;
  }
  if (s->call.saved == c->saves) /* the call has all; what runs on is the rest of an operation */
    return st;
  if (!f->next) {
    f->next = s->call.cursor;
    s->call.cursor = vram__grad_fn_at(s, s->call.cursor)->next;
  }
  if (st) {
    vram__grad_fn *o = vram__grad_fn_at(s, f->next);
    if (f->nsaved < o->nsaved) {
      VRAM__SAVED(o)[f->nsaved].st = st;
      vram__slot_at(s, st)->srefs++;
    }
  }
  if (++s->call.saved == c->saves && !(c->range->flags & VRAM_CHECKPOINT_RUNS_ON)) {
    s->call.full = me;
    if (!c->late || VRAM__SLOTS(f)[0].d || f->kind == VRAM__K_checkpoint)
      s->call.mute = 1;
  }
  return st;
}

/* Recomputation ends with the last tensor saved (_StopRecomputationError). Autograd saves inputs
   before the operation runs: if the last record saves only those, it allocates nothing. */
VRAM__COLD VRAM__FN void vram__frame_stop_early(vram__step *s, const vram__grad_fn *f) {
  const vram__frame *c = s->call.frame;
  const vram__grad_fn *o = vram__grad_fn_at(s, c->final);
  if (s->call.saved == c->before && !c->late && !(c->range->flags & VRAM_CHECKPOINT_RUNS_ON) &&
      f->node == o->node && f->kind == o->kind)
    s->call.mute = 1;
}
