/* >>torch/inplace    in-place operations and views (torch/csrc/autograd/variable.cpp) */
#include "torch/torch.h"

VRAM__FN void vram__step_refuse(vram__step *s, vram_result code, const vram_node *n,
                                const char *what) {
  s->failed = (uint8_t)code;
  s->problem = what;
  s->problem_node = n;
}

/* A view that a reentrant checkpoint() gave must stay as it is (CreationMeta::IN_CUSTOM_FUNCTION).
 */
static int vram__view_of_checkpoint(vram__step *s, uint32_t fn) {
  if (!fn || (fn & VRAM__LEAF) || vram__grad_fn_at(s, fn)->kind != VRAM__K_checkpoint)
    return 0;
  vram__step_refuse(
      s, VRAM_ERR_UNSUPPORTED, s->node,
      "an output of a reentrant checkpoint is a view that is overwritten in place: PyTorch "
      "stops with an error");
  return 1;
}

/* A view whose base was written to: its history is as_strided of the base. */
static void vram__view_rebase(vram__step *s, vram__tensor *t) {
  vram__storage *st = s->top - t->st;
  const vram__storage *b = s->top - st->of;
  vram__tensor base = *t;
  if (vram__view_of_checkpoint(s, t->fn))
    return;
  base.d = b->d;
  base.fn = b->fn;
  base.out = b->out;
  base.req = b->fn != 0;
  t->fn = t->out = t->req = 0;
  vram__grad_fn_set_output(s, vram__tape_record(s, VRAM__K_as_strided, &base, 1, 1, 0), 0, t);
  st->ver = (s->top - st->base)->ver;
}

/* t's storage was written to through another tensor: t gets its history. */
VRAM__COLD VRAM__FN void vram__history_renew(vram__step *s, vram__tensor *t) {
  vram__storage *st = s->top - t->st;
  vram__grad_fn_release(s, t->fn);
  if (st->of)
    vram__view_rebase(s, t);
  else {
    t->fn = st->fn;
    t->out = st->out;
    t->req = 1;
    vram__grad_fn_at(s, t->fn)->refs++;
  }
}

/* x was overwritten by an operation whose record made y. If x is a view, its base gets that
   history: a copy_slices around the record (rebase_history). */
VRAM__FN void vram__history_rebase(vram__step *s, vram__tensor x, vram__tensor *y) {
  vram__storage *st = s->top - x.st, *b = st->of ? s->top - st->of : st;
  uint32_t old = b->held ? b->fn : 0, i;
  if (x.fn &
      VRAM__LEAF) { /* "a leaf Variable that requires grad is used in an in-place operation" */
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "a parameter or input that needs a gradient is overwritten in place: PyTorch "
                      "refuses");
    return;
  }
  if (st->of) {
    vram__grad_fn *f = vram__grad_fn_at(s, y->fn), *c;
    if (vram__view_of_checkpoint(s, x.fn))
      return;
    c = vram__tape_record_raw(s, VRAM__K_copy_slices, f->nin, 1, 0);
    if (!c)
      return;
    vram__tape_edge(s, c, 0, b->fn, b->out);
    for (i = 1; i < f->nin; i++)
      vram__tape_edge(s, c, i, VRAM__EDGES(f)[i].fn, VRAM__EDGES(f)[i].out);
    c->inner = 1;
    c->aux = y->fn; /* and with it y's hold on that record */
    VRAM__SLOTS(c)[0].d = b->d;
    VRAM__SLOTS(c)[0].dt = x.dt;
    b->fn = vram__grad_fn_index(s, c);
    b->out = 0;
  } else if (st->refs == 2)
    return; /* x and y: no view to tell */
  b->held = 1;
  vram__grad_fn_at(s, b->fn)->refs++;
  vram__grad_fn_release(s, old);
  if (st->of)
    vram__view_rebase(s, y);
}

/* Bytes from the first to the last element. */
VRAM__FN uint64_t vram__dims_span_bytes(const vram_dims *d, vram_dtype dt) {
  uint64_t n = 1;
  uint32_t i;
  if (d->flags & VRAM__DENSE)
    return vram__dims_bytes_of(d, dt);
  for (i = 0; i < d->ndim; i++)
    n += (uint64_t)(d->v[i] - 1) * (uint64_t)VRAM__STRIDE(d)[i];
  return n * vram__dtype_size(dt);
}
