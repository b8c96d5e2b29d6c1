/* >>ops/pad    padding */
#include "ops/ops.h"

static int vram__shape_pad(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i;
  const int64_t *v = vram__node_list(n, VRAM__KEY_pad, &c);
  int64_t word = VRAM__INT(n, mode, VRAM__WORD(constant)), size[VRAM_MAX_AXES];
  if (word != VRAM__WORD(constant) && word != VRAM__WORD(reflect) &&
      word != VRAM__WORD(replicate) && word != VRAM__WORD(circular))
    return vram__node_error(g, n, "mode must be constant, reflect, replicate or circular");
  if (c % 2 || c / 2 > x->ndim)
    return vram__node_error(g, n,
                            "pad needs two values for an axis, and not more axes than the input");
  if (word != VRAM__WORD(constant) &&
      (c / 2 > 3 || (x->ndim != c / 2 + 2 && (x->ndim != c / 2 + 1))))
    return vram__node_error(g, n, "a mode for another number of axes");
  if (n->in[0]->dtype == VRAM_BOOL &&
      (word == VRAM__WORD(reflect) || word == VRAM__WORD(replicate)))
    return vram__node_error(g, n, "a tensor of bools");
  if ((word == VRAM__WORD(reflect) || word == VRAM__WORD(replicate)) &&
      !vram__axes_filled(g, n, x->ndim - c / 2 - 1))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (i = 0; i < c; i++) {
    uint32_t a = x->ndim - 1u - i / 2;
    if (v[i] > INT32_MAX || v[i] < -INT64_C(0x7fffffff))
      return vram__node_error(g, n, "a pad beyond 31 bits");
    if (word == VRAM__WORD(reflect) && v[i] >= x->v[a])
      return vram__node_error(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD(circular) && v[i] > x->v[a])
      return vram__node_error(g, n, "circular padding larger than the input");
    size[a] += v[i];
  }
  for (i = x->ndim - c / 2; i < x->ndim; i++)
    if (size[i] < (word == VRAM__WORD(constant) ? 0 : 1))
      return vram__node_error(g, n, "a pad that leaves nothing");
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* ---- padding ---- */

VRAM__FN uint32_t vram__pad_mode(int64_t word) {
  return word == VRAM__WORD(reflect)     ? VRAM__PAD_REFLECT
         : word == VRAM__WORD(replicate) ? VRAM__PAD_REPLICATE
         : word == VRAM__WORD(circular)  ? VRAM__PAD_CIRCULAR
                                         : VRAM__PAD_CONSTANT;
}

/* x[start:start + size] along an axis, with autograd */
VRAM__FN vram__tensor vram__torch_narrow(vram__step *s, vram__tensor x, uint32_t axis,
                                         int64_t size) {
  int64_t z[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    z[i] = x.d->v[i];
  z[axis] = size;
  return vram__torch_view_as(s, x, vram__dims_in(s, x.d->ndim, z, VRAM__STRIDE(x.d)), VRAM__K_slice,
                             0);
}

/* a.copy_(b) where a is a view; takes both */
static void vram__torch_copy(vram__step *s, vram__tensor a, vram__tensor b) {
  const uint32_t before = vram__tensor_fn(s, a);
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = a;
  in[1] = b;
  f = vram__tape_record(s, VRAM__K_copy, in, 2, 1, 0);
  if (f) {
    vram__grad_fn_set_output(s, f, 0, &a);
    vram__history_rebase(s, &a, before);
  }
  vram__tensor_release(s, a);
  vram__tensor_release(s, b);
}

/* PadNd.cpp, _pad_circular: the middle, then the two ends of each axis, the last axis first */
static vram__tensor vram__pad_circular(vram__step *s, vram__tensor x, const vram_dims *d,
                                       const int64_t *pad, uint32_t k) {
  vram__tensor y = vram__tensor_empty(s, d, x.dt), to = vram__tensor_retain(s, y),
               from = vram__tensor_retain(s, x), t;
  uint32_t i;
  for (i = 0; i < k; i++) {
    uint32_t a = d->ndim - 1u - i;
    int64_t l = pad[2 * (size_t)i], r = pad[2 * (size_t)i + 1];
    t = vram__torch_narrow(s, to, a, d->v[a] - (l > 0 ? l : 0) - (r > 0 ? r : 0));
    vram__tensor_release(s, to);
    to = t;
    t = vram__torch_narrow(s, from, a, x.d->v[a] + (l < 0 ? l : 0) + (r < 0 ? r : 0));
    vram__tensor_release(s, from);
    from = t;
  }
  vram__torch_copy(s, to, from);
  for (i = 0; i < 2 * k; i++)
    if (pad[i] > 0) {
      uint32_t a = d->ndim - 1u - i / 2;
      to = vram__torch_narrow(s, y, a, pad[i]);
      from = vram__torch_narrow(s, y, a, pad[i]);
      vram__torch_copy(s, to, from);
    }
  return y;
}

/* F.pad: pairs of pads from the last axis on, k of them */
VRAM__FN vram__tensor vram__torch_pad(vram__step *s, vram__tensor x, const int64_t *pad, uint32_t k,
                                      uint32_t mode) {
  int64_t size[VRAM_MAX_AXES], part[VRAM_MAX_AXES];
  uint32_t i, grows = 0, shrinks = 0, n = x.d->ndim;
  const vram_dims *d;
  vram__grad_fn *f;
  vram__tensor y, c;
  for (i = 0; i < n; i++)
    size[i] = part[i] = x.d->v[i];
  for (i = 0; i < 2 * k; i++) {
    uint32_t a = n - 1 - i / 2;
    size[a] += pad[i];
    if (pad[i] > 0)
      grows = 1;
    else
      part[a] += pad[i];
    if (pad[i] < 0)
      shrinks = 1;
  }
  d = vram__dims_in(s, n, size, NULL);
  if (mode == VRAM__PAD_CIRCULAR)
    return vram__pad_circular(s, x, d, pad, k);
  f = vram__tape_record(s, VRAM_OP_pad, &x, 1, 1, 1);
  if (f) {
    f->aux = mode | shrinks << 4 | k << 8;
    if (mode != VRAM__PAD_CONSTANT)
      vram__save_tensor(s, f, x);
  }
  if (mode == VRAM__PAD_CONSTANT) {
    if (grows)
      d = vram__tensor_formatted(s, d, vram__suggests_cl(x.d));
    else
      d = vram__dims_dense(s, vram__dims_in(s, n, part, VRAM__STRIDE(x.d)));
  }
  y = vram__tensor_empty(s, d, x.dt);
  if (mode == VRAM__PAD_REFLECT) {
    c = vram__tensor_contiguous(s, x);
    vram__tensor_release(s, c);
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static void vram__forward_pad(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  uint32_t c;
  const int64_t *v = vram__node_list(n, VRAM__KEY_pad, &c);
  y[0] = vram__torch_pad(s, x[0], v, c / 2, vram__pad_mode(VRAM__INT(n, mode, 0)));
}

static void vram__backward_pad(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  if ((f->aux & 15) != VRAM__PAD_CONSTANT)
    d = vram__dims_contiguous(s, d);
  else if (f->aux >> 4 & 15)
    d = vram__tensor_formatted(s, d, vram__suggests_cl(g.d));
  else
    d = vram__dims_dense(s, vram__dims_in(s, d->ndim, d->v, VRAM__STRIDE(g.d)));
  to[0] = vram__tensor_empty(s, d, g.dt);
  if ((f->aux & 15) == VRAM__PAD_REFLECT && f->aux >> 8 < 3) { /* of fewer than 3 axes */
    vram__tensor c = vram__tensor_contiguous(s, g);
    vram__tensor_release(s, c);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP(pad, "", 1, 1, pad, SAME, none, pad, pad, each, PAD, 0, 0, "pad! mode value");
