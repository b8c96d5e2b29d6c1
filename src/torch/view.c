/* >>torch/view    views and copies with autograd */
#include "torch/torch.h"

/* y, a view of x, requires a gradient as x does, under no_grad too: matmul asks for it. */
VRAM__FN void vram__view_wants_grad(vram__step *s, vram__tensor y, vram__tensor x) {
  if (y.st)
    vram__slot_at(s, y.st)->req = vram__tensor_wants_grad(s, x) != 0;
}

/* View of x with record k. */
VRAM__FN vram__tensor vram__torch_view_as(vram__step *s, vram__tensor x, const vram_dims *d,
                                          uint32_t k, uint64_t aux) {
  vram__grad_fn *f = vram__tape_record(s, k, &x, 1, 1, 0);
  vram__tensor y = vram__tensor_view(s, x, d);
  if (f)
    f->aux = aux;
  vram__view_wants_grad(s, y, x);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* at::_unsafe_view of x, which goes: for autograd the result is no view. */
VRAM__FN vram__tensor vram__torch_unsafe_view(vram__step *s, vram__tensor x, const vram_dims *d) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_view, &x, 1, 1, 0);
  vram__tensor y = vram__tensor_alias(s, x, d);
  vram__grad_fn_set_output(s, f, 0, &y);
  vram__tensor_release(s, x);
  return y;
}

VRAM__FN vram__tensor vram__torch_clone(vram__step *s, vram__tensor x, const vram_dims *d) {
  vram__grad_fn *f = vram__tape_record(s, VRAM__K_clone, &x, 1, 1, 0);
  vram__tensor y = vram__tensor_empty(s, d, x.dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

static uint64_t vram__order_pack(uint32_t n, const uint8_t *order) {
  uint64_t v = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    v |= (uint64_t)order[i] << (8 * i);
  return v;
}

VRAM__FN vram__tensor vram__torch_permute(vram__step *s, vram__tensor x, const uint8_t *order) {
  return vram__torch_view_as(s, x, vram__dims_permuted(s, x.d, order), VRAM__K_permute,
                             vram__order_pack(x.d->ndim, order));
}

VRAM__FN vram__tensor vram__torch_swap(vram__step *s, vram__tensor x, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b;
  order[b] = (uint8_t)a;
  return vram__torch_permute(s, x, order);
}

/* Tensor.reshape with autograd. */
VRAM__FN vram__tensor vram__torch_reshape(vram__step *s, vram__tensor x, uint32_t n,
                                          const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__dims_view_strides(x.d, n, size, stride))
    return vram__torch_view_as(s, x, vram__dims_in(s, n, size, stride), VRAM__K_view, 0);
  if (s->ideal)
    return vram__torch_view_as(s, x, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  return vram__torch_unsafe_view(s, vram__torch_clone(s, x, vram__dims_contiguous(s, x.d)),
                                 vram__dims_in(s, n, size, NULL));
}

/* at::inferExpandGeometry: x's dims expanded to n sizes. */
VRAM__FN const vram_dims *vram__dims_expanded(vram__step *s, const vram_dims *x, uint32_t n,
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
VRAM__FN vram__tensor vram__torch_expand(vram__step *s, vram__tensor x, uint32_t n,
                                         const int64_t *size) {
  return vram__torch_view_as(s, x, vram__dims_expanded(s, x.d, n, size), VRAM__K_expand, 0);
}

/* x.to(dt) with autograd; x itself where it has that dtype. One handle more. */
VRAM__FN vram__tensor vram__torch_cast(vram__step *s, vram__tensor x, vram_dtype dt) {
  vram__grad_fn *f = NULL;
  vram__tensor y;
  if (x.dt == dt)
    return vram__tensor_retain(s, x);
  if (vram__kind_rank(dt) >= 2) /* isDifferentiableType */
    f = vram__tape_record(s, VRAM__K_cast, &x, 1, 1, 0);
  y = vram__tensor_empty(s, vram__dims_dense(s, x.d), dt);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The axes of mask that are 1 go. */
VRAM__FN vram__tensor vram__torch_squeeze(vram__step *s, vram__tensor x, uint32_t mask) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] != 1 || !(mask >> i & 1)) {
      mask &= ~(1u << i);
      size[m] = x.d->v[i];
      stride[m++] = VRAM__STRIDE(x.d)[i];
    }
  return vram__torch_view_as(s, x, vram__dims_in(s, m, size, stride), VRAM_OP_squeeze,
                             mask & ((1u << x.d->ndim) - 1));
}

VRAM__FN vram__tensor vram__torch_squeeze1(vram__step *s, vram__tensor x, uint32_t axis) {
  return vram__torch_squeeze(s, x, 1u << axis);
}

VRAM__FN const vram_dims *vram__dims_unsqueezed(vram__step *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES + 1], stride[VRAM_MAX_AXES + 1];
  uint32_t i, m = 0, n = d->ndim;
  for (i = 0; i <= n; i++)
    if (i == axis) {
      size[i] = 1;
      stride[i] = m < n ? d->v[m] * VRAM__STRIDE(d)[m] : 1;
    } else {
      size[i] = d->v[m];
      stride[i] = VRAM__STRIDE(d)[m++];
    }
  return vram__dims_in(s, n + 1, size, stride);
}

VRAM__FN vram__tensor vram__torch_unsqueeze(vram__step *s, vram__tensor x, uint32_t axis) {
  return vram__torch_view_as(s, x, vram__dims_unsqueezed(s, x.d, axis), VRAM_OP_unsqueeze, axis);
}

/* The dims of d without an axis (squeeze). */
VRAM__FN const vram_dims *vram__dims_without_axis(vram__step *s, const vram_dims *d,
                                                  uint32_t axis) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != axis) {
      size[m] = d->v[i];
      stride[m++] = VRAM__STRIDE(d)[i];
    }
  return vram__dims_in(s, m, size, stride);
}

/* unsqueeze_multiple: the reduced axes of mask are back in t, which is borrowed */
VRAM__FN vram__tensor vram__dims_kept(vram__step *s, vram__tensor t, const vram_dims *x,
                                      uint32_t mask) {
  uint32_t i;
  if (t.d->ndim != x->ndim)
    for (i = 0; i < x->ndim; i++)
      if (mask >> i & 1)
        t.d = vram__dims_unsqueezed(s, t.d, i);
  return t;
}

VRAM__FN vram__tensor vram__torch_contiguous(vram__step *s, vram__tensor x) {
  if (x.d->flags & VRAM__CONTIG)
    return vram__tensor_retain(s, x);
  if (s->ideal)
    return vram__torch_view_as(s, x, vram__dims_contiguous(s, x.d), VRAM__K_view, 0);
  return vram__torch_clone(s, x, vram__dims_contiguous(s, x.d));
}
