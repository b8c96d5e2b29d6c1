/* >>torch/view    views and copies with autograd */
#include "torch/torch.h"

/* View of x with record k. */
VRAM__FN vram__t vram__view(vram__s *s, vram__t x, const vram_dims *d, uint32_t k, uint64_t aux) {
  vram__fn *f = vram__record(s, k, &x, 1, 1, 0);
  vram__t y = vram__alias(s, x, d);
  if (f)
    f->aux = aux;
  y.req = x.req; /* under no_grad too: matmul asks for it */
  vram__made(s, f, 0, &y);
  return y;
}

/* at::_unsafe_view of x, which goes: for autograd the result is no view. */
VRAM__FN vram__t vram__unsafe_view(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_view, &x, 1, 1, 0);
  vram__t y = vram__alias_only(s, x, d);
  vram__made(s, f, 0, &y);
  vram__let(s, x);
  return y;
}

VRAM__FN vram__t vram__t_clone(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_clone, &x, 1, 1, 0);
  vram__t y = vram__empty(s, d, x.dt);
  vram__made(s, f, 0, &y);
  return y;
}

static uint64_t vram__pack_order(uint32_t n, const uint8_t *order) {
  uint64_t v = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    v |= (uint64_t)order[i] << (8 * i);
  return v;
}

VRAM__FN vram__t vram__t_permute(vram__s *s, vram__t x, const uint8_t *order) {
  return vram__view(s, x, vram__permuted(s, x.d, order), VRAM__K_permute,
                    vram__pack_order(x.d->ndim, order));
}

VRAM__FN vram__t vram__t_swap(vram__s *s, vram__t x, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b, order[b] = (uint8_t)a;
  return vram__t_permute(s, x, order);
}

/* Tensor.reshape with autograd. */
VRAM__FN vram__t vram__t_reshape(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__view_strides(x.d, n, size, stride))
    return vram__view(s, x, vram__dims_in(s, n, size, stride), VRAM__K_view, 0);
  if (s->ideal)
    return vram__view(s, x, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  return vram__unsafe_view(s, vram__t_clone(s, x, vram__contig(s, x.d)),
                           vram__dims_in(s, n, size, NULL));
}

/* at::inferExpandGeometry: x's dims expanded to n sizes. */
VRAM__FN const vram_dims *vram__expanded(vram__s *s, const vram_dims *x, uint32_t n,
                                         const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  uint32_t i, k = n - x->ndim;
  for (i = n; i-- > 0;) {
    int64_t z = i < k ? 1 : x->v[i - k];
    stride[i] = i >= k                 ? VRAM__STRIDE(x)[i - k]
                : i + 1 < n && x->ndim ? size[i + 1] * stride[i + 1]
                                       : 0;
    if (z != size[i])
      stride[i] = 0;
  }
  return vram__dims_in(s, n, size, stride);
}

/* Tensor.expand with autograd. */
VRAM__FN vram__t vram__t_expand(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  return vram__view(s, x, vram__expanded(s, x.d, n, size), VRAM__K_expand, 0);
}

/* x.to(dt) with autograd; x itself where it has that dtype. One handle more. */
VRAM__FN vram__t vram__t_cast(vram__s *s, vram__t x, uint8_t dt) {
  vram__fn *f;
  vram__t y;
  if (x.dt == dt)
    return vram__keep_t(s, x);
  f = vram__record(s, VRAM__K_cast, &x, 1, 1, 0);
  y = vram__empty(s, vram__dense(s, x.d), dt);
  vram__made(s, f, 0, &y);
  return y;
}

/* The axes of mask that are 1 go. */
VRAM__FN vram__t vram__t_squeeze(vram__s *s, vram__t x, uint32_t mask) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] != 1 || !(mask >> i & 1)) {
      mask &= ~(1u << i);
      size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
    }
  return vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM_OP_squeeze,
                    mask & ((1u << x.d->ndim) - 1));
}

VRAM__FN vram__t vram__t_squeeze1(vram__s *s, vram__t x, uint32_t axis) {
  return vram__t_squeeze(s, x, 1u << axis);
}

VRAM__FN const vram_dims *vram__unsqueezed(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES + 1], stride[VRAM_MAX_AXES + 1];
  uint32_t i, m = 0, n = d->ndim;
  for (i = 0; i <= n; i++)
    if (i == axis)
      size[i] = 1, stride[i] = m < n ? d->v[m] * VRAM__STRIDE(d)[m] : 1;
    else
      size[i] = d->v[m], stride[i] = VRAM__STRIDE(d)[m++];
  return vram__dims_in(s, n + 1, size, stride);
}

VRAM__FN vram__t vram__t_unsqueeze(vram__s *s, vram__t x, uint32_t axis) {
  return vram__view(s, x, vram__unsqueezed(s, x.d, axis), VRAM_OP_unsqueeze, axis);
}

/* The dims of d without an axis (squeeze). */
VRAM__FN const vram_dims *vram__without_axis(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != axis)
      size[m] = d->v[i], stride[m++] = VRAM__STRIDE(d)[i];
  return vram__dims_in(s, m, size, stride);
}

/* unsqueeze_multiple: the reduced axes of mask are back in t, which is borrowed */
VRAM__FN vram__t vram__kept(vram__s *s, vram__t t, const vram_dims *x, uint32_t mask) {
  uint32_t i;
  if (t.d->ndim != x->ndim)
    for (i = 0; i < x->ndim; i++)
      if (mask >> i & 1)
        t.d = vram__unsqueezed(s, t.d, i);
  return t;
}

VRAM__FN vram__t vram__t_contiguous(vram__s *s, vram__t x) {
  if (x.d->flags & VRAM__CONTIG)
    return vram__keep_t(s, x);
  if (s->ideal)
    return vram__view(s, x, vram__contig(s, x.d), VRAM__K_view, 0);
  return vram__t_clone(s, x, vram__contig(s, x.d));
}
