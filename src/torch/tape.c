/* >>torch/tape    autograd's records, what they save and how they end */
#include "torch/torch.h"

/* A record of an operation on these inputs with room for saved tensors; NULL: none is needed. */
VRAM__FN vram__fn *vram__record(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin,
                                uint32_t nout, uint32_t room) {
  uint32_t i;
  vram__fn *f;
  if (!s->grad)
    return NULL;
  for (i = 0; i < nin; i++)
    if (in[i].req)
      break;
  if (i == nin)
    return NULL;
  f = vram__record_raw(s, kind, nin, nout, room);
  for (i = 0; f && i < nin; i++)
    vram__edge_to(s, f, i, in[i].req ? in[i].fn : 0, in[i].out);
  if (f && s->again)
    vram__early_stop(s, f);
  return f;
}

static inline void vram__save_on(vram__s *s, vram__fn *f, const vram__t *t, uint32_t st) {
  vram__t *to = VRAM__SAVED(f) + f->nsaved++;
  *to = *t;
  to->st = st, to->fn = 0, to->out = 0;
  if (st) {
    vram__store *b = s->top - st;
    b->srefs++;
    if (!b->saved)
      vram__count_saved(s, b);
  }
}

static VRAM__COLD void vram__save_packed(vram__s *s, vram__fn *f, const vram__t *t) {
  vram__save_on(s, f, t, vram__pack(s, f, t->d, t->st ? (s->top - t->st)->base : 0));
}

/* f keeps t for backward. What a module owns lives to the end anyway. */
VRAM__FN void vram__save(vram__s *s, vram__fn *f, vram__t t) {
  if (s->frame)
    vram__save_packed(s, f, &t);
  else
    vram__save_on(s, f, &t, t.st > VRAM__OWN ? (s->top - t.st)->base : 0);
}

/* f keeps t, which is fresh; the caller's handle goes. */
VRAM__FN void vram__save_last(vram__s *s, vram__fn *f, const vram__t *t) {
  if (f && !s->frame && t->st) {
    vram__store *st = s->top - t->st;
    st->refs = 0, st->srefs = 0;
    vram__save_on(s, f, t, t->st);
    return;
  }
  if (f)
    vram__save(s, f, *t);
  vram__let(s, *t);
}

/* y is output i of record f. */
VRAM__FN void vram__made(vram__s *s, vram__fn *f, uint32_t i, vram__t *y) {
  if (!f)
    return;
  y->fn = vram__fn_index(s, f);
  y->out = (uint16_t)i;
  y->req = 1;
  f->refs++;
  if (y->st) {
    vram__store *st = s->top - y->st;
    if (st->held) {
      st->held = 0;
      vram__fn_unref(s, st->fn);
    }
    st->fn = y->fn, st->out = y->out;
  }
  VRAM__SLOTS(f)[i].d = y->d;
  VRAM__SLOTS(f)[i].dt = y->dt;
  if (s->again && s->full == y->fn)
    s->mute = 1;
}

VRAM__FN void vram__release_saved(vram__s *s, vram__fn *f) {
  for (;; f = vram__fn_at(s, (uint32_t)f->aux)) {
    const vram__t *t = VRAM__SAVED(f);
    const uint32_t n = f->nsaved;
    for (; f->nsaved; f->nsaved--, t++)
      if (t->st)
        vram__drop_storage(s, t->st);
    if (n && f->frame)
      vram__frame_less(s, vram__frame_at(s, f->frame));
    if (!f->inner)
      return;
  }
}

/* Nothing leads to f any more: what it saved goes, and records that only it led to. */
VRAM__FN void vram__fn_gone(vram__s *s, uint32_t first) {
  vram__fn_at(s, first)->deps = s->gone;
  s->gone = first;
  if (s->going)
    return; /* what a record holds leads here again: no recursion */
  s->going = 1;
  while (s->gone) {
    vram__fn *f = vram__fn_at(s, s->gone);
    uint32_t i;
    s->gone = f->deps;
    if (f->done)
      continue;
    vram__release_saved(s, f);
    for (i = 0; i <= f->nin; i++) {
      uint32_t e = i < f->nin ? VRAM__EDGES(f)[i].fn : f->inner ? (uint32_t)f->aux : 0;
      if (!e || (e & VRAM__LEAF))
        continue;
      if (--vram__fn_at(s, e)->refs == 0) {
        vram__fn_at(s, e)->deps = s->gone;
        s->gone = e;
      }
    }
  }
  s->going = 0;
}

/* maybe_multiply: a factor that is not 1 costs one more tensor */
VRAM__FN vram__t vram__scaled(vram__s *s, vram__t t, int is) {
  vram__t y;
  if (!is)
    return t;
  y = vram__ti1(s, t);
  vram__let(s, t);
  return y;
}

/* The sizes that autograd remembers of input i of f, and its dtype. */
VRAM__FN const vram_dims *vram__in_dims(const vram__s *s, vram__fn *f, uint32_t i, uint8_t *dt) {
  const vram__edge *e = VRAM__EDGES(f) + i;
  if (e->fn & VRAM__LEAF) {
    if (dt)
      *dt = s->leaf[e->fn & ~VRAM__LEAF].dt;
    return s->leaf[e->fn & ~VRAM__LEAF].d;
  }
  if (dt)
    *dt = VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].dt;
  return VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].d;
}
