/* >>torch/inplace    in-place operations and views (torch/csrc/autograd/variable.cpp) */
#include "torch/torch.h"

VRAM__FN void vram__step_refuse(vram__step *s, vram_result code, const vram_node *n,
                                const char *what) {
  s->failed = (uint8_t)code;
  s->problem = what;
  s->problem_node = n;
}

/* Kernels that do not promote take floating point tensors of one dtype. Weights whose dtype the
   line says are only stored so. */
VRAM__FN void vram__refuse_unlike(vram__step *s, const vram__tensor *in, uint32_t n) {
  uint32_t i;
  for (i = 1; i < n; i++)
    if (in[i].d && in[i].dt != in[0].dt && vram__dtype_is_float(in[0].dt) &&
        vram__dtype_is_float(in[i].dt) && !s->failed &&
        !vram__node_list(s->node, VRAM__KEY_dtype, NULL))
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                        "tensors of different dtypes: PyTorch refuses (expected one dtype)");
}

/* assert_no_internal_overlap: several elements of what is overwritten are one place in memory. */
VRAM__FN void vram__refuse_overlap(vram__step *s, const vram_dims *d) {
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    if (d->v[i] > 1 && !VRAM__STRIDE(d)[i] && !s->failed)
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                        "an expanded tensor is overwritten in place: PyTorch refuses");
}

/* A view of several that one operation gave must stay as it is (CreationMeta::MULTI_OUTPUT_NODE).
 */
static int vram__view_of_several(vram__step *s, uint32_t fn) {
  const uint32_t kind = vram__is_grad_fn(fn) ? vram__grad_fn_at(s, fn)->kind : 0u;
  if (kind != VRAM_OP_split && kind != VRAM_OP_unbind && kind != VRAM_OP_chunk)
    return 0;
  vram__step_refuse(
      s, VRAM_ERR_UNSUPPORTED, s->node,
      "a view of several that one operation gave is overwritten in place, or its base "
      "is: PyTorch refuses");
  return 1;
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
VRAM__COLD VRAM__FN void vram__view_rebase(vram__step *s, const vram__tensor *t) {
  vram__storage *st = vram__slot_at(s, t->st);
  vram__tensor base = *t;
  if (vram__view_of_checkpoint(s, st->fn) || vram__view_of_several(s, st->fn))
    return;
  base.st = st->of;
  base.d = vram__slot_at(s, base.st)->d;
  vram__history_drop(s, st);
  vram__grad_fn_set_output(s, vram__tape_record(s, VRAM__K_as_strided, &base, 1, 1, 0), 0, t);
  st->ver = vram__slot_at(s, st->base)->ver;
}

/* If y is a view, its base gets the history of the record: a copy_slices around it
   (rebase_history). */
VRAM__FN void vram__base_rebase(vram__step *s, const vram__tensor *y, uint32_t old) {
  vram__storage *st = vram__slot_at(s, y->st), *b = vram__slot_at(s, st->of);
  vram__tensor base;
  vram__grad_fn *f, *c;
  uint32_t i;
  if ((old | b->fn) & VRAM__LEAF) { /* "a leaf Variable that requires grad", "a view of" one, "is
                                       being used in an in-place operation" */
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "a parameter or input that needs a gradient is overwritten in place: PyTorch "
                      "refuses");
    return;
  }
  if (!st->of || vram__view_of_checkpoint(s, old) || vram__view_of_several(s, old))
    return;
  f = vram__grad_fn_at(s, st->fn);
  c = vram__tape_record_raw(s, VRAM__K_copy_slices, f->nin, 1, 0);
  if (!c)
    return;
  vram__tape_edge(s, c, 0, b->fn, b->out);
  for (i = 1; i < f->nin; i++)
    vram__tape_edge(s, c, i, VRAM__EDGES(f)[i].fn, VRAM__EDGES(f)[i].out);
  c->inner = 1;
  c->aux = st->fn; /* and with it y's hold on that record */
  st->fn = 0;
  base.d = b->d;
  base.st = st->of;
  base.dt = y->dt;
  vram__grad_fn_set_output(s, c, 0, &base);
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
