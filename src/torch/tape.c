/* >>torch/tape    autograd's records, what they save and how they end */
#include "torch/torch.h"

/* A record of an operation on these inputs with room for saved tensors; NULL: none is needed. */
VRAM__FN vram__grad_fn *vram__tape_record(vram__step *s, uint32_t kind, const vram__tensor *in,
                                          uint32_t nin, uint32_t nout, uint32_t room) {
  uint32_t i, wants;
  vram__grad_fn *f;
  if (!s->grad)
    return NULL;
  for (i = 0; i < nin && !vram__tensor_wants_grad(s, in[i]);)
    i++;
  if (i == nin)
    return NULL;
  f = vram__tape_record_raw(s, kind, nin, nout, room);
  if (!f)
    return NULL;
  wants = i;
  for (i = 0; i < nin; i++)
    vram__tape_edge_from(s, f, i, in[i]);
  if (!VRAM__EDGES(f)[wants].fn) /* a view made under no_grad wants a gradient and has no history */
    s->tape.stale = 1;
  if (s->call.again)
    vram__frame_stop_early(s, f);
  return f;
}

/* f keeps t, which lies in the storage of slot st. */
static inline void vram__save_storage(vram__step *s, vram__grad_fn *f, vram__tensor t,
                                      uint32_t st) {
  vram__tensor *to = VRAM__SAVED(f) + f->nsaved++;
  t.st = st;
  *to = t;
  if (st) {
    vram__storage *b = vram__slot_at(s, st);
    b->srefs++;
    if (!b->saved)
      vram__saved_count(s, b);
  }
}

static VRAM__COLD void vram__save_in_frame(vram__step *s, vram__grad_fn *f, vram__tensor t) {
  const uint32_t base = vram__slot_at(s, vram__tensor_slot(t))->base;
  vram__save_storage(s, f, t, vram__frame_pack(s, f, t.d, base));
}

/* f keeps t for backward. What a module owns lives to the end anyway. */
VRAM__FN void vram__save_tensor(vram__step *s, vram__grad_fn *f, vram__tensor t) {
  const int own = t.st <= VRAM__OWN_BUFFERS || (t.st & VRAM__LEAF);
  if (s->call.frame)
    vram__save_in_frame(s, f, t);
  else
    vram__save_storage(s, f, t, own ? 0 : vram__slot_at(s, t.st)->base);
}

static VRAM__APART void vram__save_then_release(vram__step *s, vram__grad_fn *f, vram__tensor t) {
  if (f)
    vram__save_tensor(s, f, t);
  vram__tensor_release(s, t);
}

/* f keeps t, which is fresh; the caller's handle goes. */
VRAM__FN void vram__save_and_release(vram__step *s, vram__grad_fn *f, vram__tensor t) {
  vram__storage *st = vram__slot_at(s, t.st);
  if (!f || s->call.frame || !t.st) {
    vram__save_then_release(s, f, t);
    return;
  }
  st->refs = 0;
  st->srefs = 0;
  vram__save_storage(s, f, t, t.st);
}

/* y is output i of record f. */
VRAM__FN void vram__grad_fn_set_output(vram__step *s, vram__grad_fn *f, uint32_t i,
                                       const vram__tensor *y) {
  vram__storage *st = vram__slot_at(s, y->st);
  uint32_t old;
  if (!f)
    return;
  old = st->fn;
  if (y->st) {
    st->fn = vram__grad_fn_index(s, f);
    st->out = i & VRAM__MOST_OUTPUTS;
    st->req = 1;
    f->refs++;
  }
  VRAM__SLOTS(f)[i].d = y->d;
  VRAM__SLOTS(f)[i].dt = y->dt;
  if (s->call.again && s->call.full == vram__grad_fn_index(s, f))
    s->call.mute = 1;
  vram__grad_fn_release(s, old);
}

static void vram__saved_reset(vram__step *s, vram__grad_fn *f) {
  const vram__tensor *const first = VRAM__SAVED(f), *const end = first + f->nsaved, *t = first;
  f->nsaved = 0;
  for (; t != end; t++)
    if (t->st)
      vram__storage_release(s, t->st);
  if (t != first && f->frame)
    vram__frame_release(s, vram__frame_at(s, f->frame));
}

/* Is what f saves in a list? Lists of indices, and torch::autograd::Function (torchvision's). */
VRAM__FN int vram__saves_list(const vram__grad_fn *f) {
  return f->kind == VRAM_OP_index || f->kind == VRAM_OP_index_put ||
         (f->kind >= VRAM_OP_roi_align && f->kind <= VRAM_OP_deform_conv2d);
}

/* The same of a record that goes itself: C++ destroys its members from the last to the first, but
   what is in a list from its first to its last. */
static VRAM__COLD void vram__saved_destroy(vram__step *s, vram__grad_fn *f) {
  const int view = f->kind == VRAM_OP_linear && VRAM__SLOTS(f)[0].d->ndim > 2;
  const int kept = view || vram__saves_list(f); /* a product behind a view goes as any other */
  uint32_t i, j;
  for (i = 0, j = f->nsaved; !kept && i + 1 < j; i++) {
    const vram__tensor t = VRAM__SAVED(f)[i];
    VRAM__SAVED(f)[i] = VRAM__SAVED(f)[--j];
    VRAM__SAVED(f)[j] = t;
  }
  vram__saved_reset(s, f);
}

/* What f saved goes, and the record of an operation inside it (CopySlices::release_variables). */
VRAM__FN void vram__saved_release(vram__step *s, vram__grad_fn *f) {
  vram__saved_reset(s, f);
  while (f->inner) {
    f = vram__grad_fn_at(s, (uint32_t)f->aux);
    vram__saved_destroy(s, f);
  }
}

/* The function of f holds t as an attribute: as long as its graph lives, which is that of the
   forward pass, or of a call that runs again. */
VRAM__FN void vram__tensor_hold(vram__step *s, const vram__grad_fn *f, vram__tensor t) {
  if (t.st <= VRAM__OWN_BUFFERS || (t.st & VRAM__LEAF) || !f)
    return;
  if (s->nheld == s->held_room) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  s->held[s->nheld++] = vram__tensor_alias(s, t, t.d);
  if (!s->call.again)
    vram__saved_count(s, vram__owner_at(s, t.st));
}

/* The graph whose functions refer to kept tensors from..to - 1 goes. */
VRAM__FN void vram__held_release(vram__step *s, uint32_t from, uint32_t to) {
  uint32_t i;
  for (i = from; i < to; i++)
    vram__tensor_release(s, s->held[i]);
  for (i = to; from < to && i < s->nheld; i++)
    s->held[from + i - to] = s->held[i];
  s->nheld -= to - from;
}

/* Nothing leads to f any more: what it saved goes, and records that only it led to
   (torch/csrc/autograd/function.cpp, deleteNode: those release their variables first). */
VRAM__FN void vram__grad_fn_free(vram__step *s, uint32_t first) {
  vram__grad_fn_at(s, first)->deps = s->tape.gone;
  vram__grad_fn_at(s, first)->flag = 1;
  s->tape.gone = first;
  if (s->tape.freeing)
    return; /* what a record holds leads here again: no recursion */
  s->tape.freeing = 1;
  while (s->tape.gone) {
    vram__grad_fn *f = vram__grad_fn_at(s, s->tape.gone);
    const int destroyed = f->flag;
    uint32_t i;
    s->tape.gone = f->deps;
    f->flag = 0;
    if (f->done && s->leaf.made == UINT32_MAX && !s->tape.split) /* all that it leads to is done */
      continue;
    if (destroyed)
      vram__saved_destroy(s, f);
    vram__saved_release(s, f);
    for (i = 0; i <= f->nin; i++) {
      uint32_t e = i < f->nin ? VRAM__EDGES(f)[i].fn : f->inner ? (uint32_t)f->aux : 0;
      if (!e || (e & VRAM__LEAF)) {
        if (e >= s->leaf.made)
          vram__leaf_let_go(s, e);
        continue;
      }
      if (--vram__grad_fn_at(s, e)->refs == 0) {
        vram__grad_fn_at(s, e)->deps = s->tape.gone;
        s->tape.gone = e;
      }
    }
  }
  s->tape.freeing = 0;
}

/* maybe_multiply: a factor that is not 1 costs one more tensor */
VRAM__FN vram__tensor vram__tensor_scaled(vram__step *s, vram__tensor t, int is) {
  vram__tensor y;
  if (!is)
    return t;
  y = vram__pointwise_empty1(s, t);
  vram__tensor_release(s, t);
  return y;
}

/* The sizes that autograd remembers of input i of f, and its dtype. */
VRAM__FN const vram_dims *vram__input_dims(const vram__step *s, vram__grad_fn *f, uint32_t i,
                                           vram_dtype *dt) {
  const vram__edge *e = VRAM__EDGES(f) + i;
  if (e->fn & VRAM__LEAF) {
    if (dt)
      *dt = s->leaf.at[e->fn & ~VRAM__LEAF].dt;
    return s->leaf.at[e->fn & ~VRAM__LEAF].d;
  }
  if (dt)
    *dt = VRAM__SLOTS(vram__grad_fn_at(s, e->fn))[e->out].dt;
  return VRAM__SLOTS(vram__grad_fn_at(s, e->fn))[e->out].d;
}
