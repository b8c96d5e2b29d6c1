/* >>ops/fft    Fourier transforms (ATen/native/SpectralOps.cpp, cuda/SpectralOps.cpp), complex
   tensors and their parts. Plans of cuFFT have a workspace where a size is no product of small
   primes; only the upper bound counts it. */
#include "ops/ops.h"

enum { VRAM__FFT_C2C, VRAM__FFT_R2C, VRAM__FFT_C2R };
enum { VRAM__PART_VIEW_AS_REAL, VRAM__PART_VIEW_AS_COMPLEX };

#define VRAM__FFT_AXES 3 /* of one plan (cufft_max_ndim) */

static vram_dtype vram__complex_of(vram_dtype dt) {
  return dt == VRAM_F64 ? VRAM_C128 : dt == VRAM_F16 ? VRAM_C32 : VRAM_C64;
}

VRAM__FN vram_dtype vram__real_of(vram_dtype dt) {
  return dt == VRAM_C128 ? VRAM_F64 : dt == VRAM_C32 ? VRAM_F16 : VRAM_F32;
}

/* What a transform of complex numbers makes of its input (promote_tensor_fft). */
static vram_dtype vram__fft_complex(vram_dtype dt) {
  return vram__is_complex(dt) ? dt : vram__complex_of(dt);
}

/* What parts of complex numbers can be. */
static int vram__is_part(vram_dtype dt) {
  return dt == VRAM_F32 || dt == VRAM_F64 || dt == VRAM_F16;
}

/* The axes of a transform, and the sizes that its input is cut or padded to. */
typedef struct vram__fft {
  uint32_t n, axis[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  int64_t last; /* of the last axis: what the signal has */
} vram__fft;

static int vram__fft_of(vram_graph *g, const vram_node *n, const vram_dims *x, vram__fft *t) {
  const int half = vram__op_at(n->op)->kind == VRAM__FFT_C2R;
  uint32_t sizes = 0, i, k;
  const int64_t *dim = vram__node_list(n, VRAM__KEY_dim, &t->n);
  const int64_t *size = vram__node_list(n, VRAM__KEY_size, &sizes);
  if (!dim)
    t->n = size ? sizes : 1;
  if ((size && sizes != t->n) || !t->n || t->n > x->ndim)
    return vram__node_error(g, n, "as many sizes as axes, and axes that the tensor has");
  for (i = 0; i < t->n; i++) {
    if (!vram__axis(g, dim ? dim[i] : (int64_t)i - t->n, x->ndim, &t->axis[i]))
      return 0;
    for (k = 0; k < i; k++)
      if (t->axis[k] == t->axis[i])
        return vram__node_error(g, n, "an axis that is named twice");
    t->size[i] = size && size[i] != -1 ? size[i] : x->v[t->axis[i]];
    if (half && i + 1 == t->n) {
      t->last = size && size[i] != -1 ? size[i] : 2 * (x->v[t->axis[i]] - 1);
      t->size[i] = t->last / 2 + 1;
    } else
      t->last = t->size[i];
    if (t->size[i] < 1 || t->last < 1)
      return vram__node_error(g, n, "a signal without values");
  }
  return 1;
}

static int vram__shape_fft(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int kind = vram__op_at(n->op)->kind;
  const vram_dtype dt = n->in[0]->dtype;
  int64_t size[VRAM_MAX_AXES];
  vram__fft t;
  uint32_t i;
  if (kind == VRAM__FFT_R2C && vram__is_complex(dt))
    return vram__node_error(g, n, "a transform of real numbers, but they are complex");
  if (!vram__fft_of(g, n, x, &t))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (i = 0; i < t.n; i++)
    size[t.axis[i]] = t.size[i];
  i = t.axis[t.n - 1];
  if (kind == VRAM__FFT_C2R)
    size[i] = t.last;
  if (kind == VRAM__FFT_R2C && VRAM__INT(n, onesided, 1))
    size[i] = size[i] / 2 + 1;
  g->extra += 4096;
  return vram__node_out(g, n, 0, x->ndim, size,
                        kind == VRAM__FFT_C2R   ? vram__real_of(vram__fft_complex(dt))
                        : kind == VRAM__FFT_R2C ? vram__complex_of(dt)
                                                : vram__fft_complex(dt));
}

static int vram__shape_complex_part(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const vram_dtype dt = n->in[0]->dtype;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (vram__op_at(n->op)->kind == VRAM__PART_VIEW_AS_COMPLEX) {
    if (!vram__is_part(dt))
      return vram__node_error(g, n, "a tensor that is not f16, f32 or f64");
    if (!x->ndim || x->v[x->ndim - 1] != 2)
      return vram__node_error(g, n, "a last axis that is not two");
    return vram__node_out(g, n, 0, x->ndim - 1u, size, vram__complex_of(dt));
  }
  if (!vram__is_complex(dt))
    return vram__node_error(g, n, "a tensor that is not complex");
  if (vram__op_at(n->op)->kind == VRAM__PART_VIEW_AS_REAL) {
    if (x->ndim >= VRAM_MAX_AXES)
      return vram__node_error(g, n, "more than 8 axes");
    size[i++] = 2;
  }
  return vram__node_out(g, n, 0, i, size, vram__real_of(dt));
}

static int vram__shape_angle(vram_graph *g, vram_node *n) {
  const vram_dtype dt = n->in[0]->dtype;
  (void)g;
  return vram__node_out_dims(n, 0, n->in[0]->d,
                             vram__is_complex(dt)      ? vram__real_of(dt)
                             : vram__kind_rank(dt) < 2 ? VRAM_F32
                                                       : dt);
}

static int vram__shape_complex(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim;
  const vram_dtype dt = n->in[0]->dtype;
  if (!vram__is_part(dt) || n->in[1]->dtype != dt)
    return vram__node_error(g, n, "parts that are not both f16, f32 or f64");
  if (!vram__dims_broadcast_all(g, n, 0, &ndim, size))
    return 0;
  return vram__node_out(g, n, 0, ndim, size, vram__complex_of(dt));
}

#ifndef VRAM_NO_STEP

/* as_cufft_embed: can a plan read a batch of signals with these strides, or is it copied first?
   Those of 16 bits have to lie side by side (CuFFTPlanCache.h). */
static int vram__fft_embeds(const vram_dims *d, vram_dtype dt) {
  const int64_t *st = VRAM__STRIDE(d);
  const int half = dt == VRAM_F16 || dt == VRAM_BF16 || dt == VRAM_C32 || dt == VRAM_CB32;
  int64_t last = st[d->ndim - 1u];
  uint32_t i;
  if (last <= 0 || (d->v[0] != 1 && !st[0]) || (half && last != 1))
    return 0;
  for (i = d->ndim - 2u; i > 0; i--) {
    if (d->v[i] == 1)
      continue;
    if (st[i] <= 0 || st[i] % last)
      return 0;
    last = st[i];
  }
  return 1;
}

/* _exec_fft: axes that are not transformed become one, in the order of their strides, which may
   take a copy; the output, which is there, gets that order. */
static void vram__fft_exec(vram__step *s, vram__tensor x, vram__tensor *y, const uint32_t *axis,
                           uint32_t n) {
  const int64_t *st = VRAM__STRIDE(x.d);
  uint8_t order[VRAM_MAX_AXES] = {0};
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES], batch = 1, z = 1;
  uint32_t i, k, m = 0, mask = 0;
  vram__tensor p = x;
  for (i = 0; i < n; i++)
    mask |= 1u << axis[i];
  for (i = 0; i < x.d->ndim; i++) {
    if (mask >> i & 1)
      continue;
    for (k = m++; k && st[order[k - 1]] < st[i]; k--)
      order[k] = order[k - 1];
    order[k] = (uint8_t)i;
    batch *= x.d->v[i];
  }
  for (i = 0; i < n; i++)
    order[m + i] = (uint8_t)axis[i];
  p.d = vram__dims_permuted(s, x.d, order);
  size[0] = batch;
  for (i = 0; i < n; i++)
    size[1 + i] = x.d->v[axis[i]];
  vram__upper_may_need(s, 2 * x.d->numel);
  p = vram__tensor_reshape(s, p, n + 1, size);
  if (!vram__fft_embeds(p.d, p.dt))
    vram__tensor_release(s, vram__tensor_empty(s, vram__dims_contiguous(s, p.d), p.dt));
  vram__tensor_release(s, p);
  for (i = x.d->ndim; i-- > 0;) {
    stride[order[i]] = z;
    z *= y->d->v[order[i]];
  }
  y->d = vram__dims_in(s, y->d->ndim, y->d->v, stride);
}

/* Axes in the order of their strides, the largest first. */
static void vram__fft_sort(const vram_dims *d, uint32_t *axis, uint32_t n) {
  uint32_t i, k, a;
  for (i = 1; i < n; i++) {
    a = axis[i];
    for (k = i; k && VRAM__STRIDE(d)[axis[k - 1]] < VRAM__STRIDE(d)[a]; k--)
      axis[k] = axis[k - 1];
    axis[k] = a;
  }
}

/* C2C transforms of up to three axes a plan, from x into y, which is there; `work` is a second one,
   or none: then x is what is not to be overwritten. */
static vram__tensor vram__fft_rounds(vram__step *s, vram__tensor x, vram__tensor y,
                                     const uint32_t *given, uint32_t n) {
  uint32_t axis[VRAM_MAX_AXES], i, k;
  vram__tensor from = x, t;
  for (i = 0; i < n; i++)
    axis[i] = given[i];
  while (n) {
    vram__fft_sort(from.d, axis, n);
    k = n < VRAM__FFT_AXES ? n : VRAM__FFT_AXES;
    vram__fft_exec(s, from, &y, axis + n - k, k);
    n -= k;
    if (!n)
      break;
    t = from;
    from = y;
    y = t.st == x.st ? vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt) : t;
  }
  if (from.st != x.st)
    vram__tensor_release(s, from);
  return y;
}

static vram__tensor vram__fft_c2c(vram__step *s, vram__tensor x, const vram__fft *t) {
  return vram__fft_rounds(s, x, vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt), t->axis,
                          t->n);
}

/* One plan does all axes (use_optimized_cufft_path). */
static int vram__fft_is_one(const vram__fft *t) {
  return t->n <= VRAM__FFT_AXES && !(t->n >= 2 && t->axis[0] == 0 && t->axis[1] == 1);
}

/* cuFFT reads real numbers in pairs: x from its second number on is copied, the last of the axes
   innermost. One handle more. */
static vram__tensor vram__fft_aligned(vram__step *s, vram__tensor x, const vram__fft *t) {
  const uint32_t a = t->axis[t->n - 1], off = vram__slot_at(s, vram__tensor_slot(x))->off;
  int64_t stride[VRAM_MAX_AXES] = {0}, z = x.d->v[a];
  uint32_t i;
  if (!x.st || !(off & 1))
    return vram__tensor_retain(s, x);
  for (i = x.d->ndim; i-- > 0;) {
    stride[i] = i == a ? 1 : z;
    z *= i == a ? 1 : x.d->v[i];
  }
  return vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, x.d->v, stride), x.dt);
}

static vram__tensor vram__fft_r2c(vram__step *s, vram__tensor x, const vram__fft *t,
                                  const vram_dims *d) {
  const vram_dtype dt = vram__complex_of(x.dt);
  vram__tensor y = vram__tensor_empty(s, vram__dims_contiguous(s, d), dt), work, z;
  x = vram__fft_aligned(s, x, t);
  if (vram__fft_is_one(t))
    vram__fft_exec(s, x, &y, t->axis, t->n);
  else {
    vram__fft_exec(s, x, &y, t->axis + t->n - 1, 1);
    if (t->n > 1) {
      work = vram__tensor_empty(s, vram__dims_contiguous(s, d), dt);
      z = vram__fft_rounds(s, y, work, t->axis, t->n - 1);
      vram__tensor_release(s, x);
      vram__tensor_release(s, y);
      return z;
    }
  }
  vram__tensor_release(s, x);
  return y;
}

static vram__tensor vram__fft_c2r(vram__step *s, vram__tensor x, const vram__fft *t,
                                  const vram_dims *d) {
  vram__tensor y = vram__tensor_empty(s, vram__dims_contiguous(s, d), vram__real_of(x.dt)), c;
  if (vram__fft_is_one(t)) { /* cuFFT overwrites its input */
    c = vram__tensor_empty(s, vram__dims_contiguous(s, x.d), x.dt);
    vram__fft_exec(s, c, &y, t->axis, t->n);
  } else {
    vram__fft first = *t;
    first.n--;
    c = vram__fft_c2c(s, x, &first);
    vram__fft_exec(s, c, &y, t->axis + t->n - 1, 1);
  }
  vram__tensor_release(s, c);
  return y;
}

/* resize_fft_input: x cut, then padded; one handle more */
static vram__tensor vram__fft_resized(vram__step *s, vram__tensor x, const vram__fft *t) {
  int64_t pad[2 * VRAM_MAX_AXES] = {0};
  uint32_t i, k = 0;
  vram__tensor y = vram__tensor_retain(s, x);
  for (i = 0; i < t->n; i++) {
    const uint32_t a = t->axis[i], back = (uint32_t)x.d->ndim - 1u - a;
    if (t->size[i] < x.d->v[a])
      vram__tensor_replace(s, &y, vram__torch_narrow(s, y, a, t->size[i]));
    else if (t->size[i] > x.d->v[a]) {
      pad[2 * back + 1] = t->size[i] - x.d->v[a];
      k = x.d->ndim;
    }
  }
  if (k)
    vram__tensor_replace(s, &y, vram__torch_pad(s, y, pad, k, VRAM__PAD_CONSTANT));
  return y;
}

/* bf16 whose sizes are powers of two, in one plan, is transformed as it is; the rest in fp32. */
static int vram__fft_is_native(const vram__fft *t) {
  uint32_t i;
  if (!vram__fft_is_one(t))
    return 0;
  for (i = 0; i < t->n; i++) {
    const int64_t size = i + 1 == t->n ? t->last : t->size[i];
    if (size & (size - 1))
      return 0;
  }
  return 1;
}

/* bf16 gives its own complex numbers, half of them where the signal's other half follows from it.
 */
static vram__tensor vram__fft_bf16(vram__step *s, vram__tensor x, const vram__fft *t,
                                   const vram_dims *d) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  vram__tensor y, z, all;
  for (i = 0; i < d->ndim; i++)
    size[i] = i == t->axis[t->n - 1] ? t->last / 2 + 1 : d->v[i];
  y = vram__tensor_empty(s, vram__dims_in(s, i, size, NULL), VRAM_CB32);
  x = vram__fft_aligned(s, x, t);
  vram__fft_exec(s, x, &y, t->axis, t->n);
  z = vram__tensor_empty(s, vram__dims_dense(s, y.d), VRAM_C64);
  if (z.d->numel != d->numel) {
    all = vram__tensor_empty(s, vram__dims_contiguous(s, d), VRAM_C64);
    vram__tensor_release(s, z);
    z = all;
  }
  vram__tensor_release(s, x);
  vram__tensor_release(s, y);
  return z;
}

/* cuFFT's transforms of 16 bits; those that are made of two run on their own sizes, too */
static void vram__fft_refuse_half(vram__step *s, vram_dtype dt, const vram__fft *t) {
  uint32_t i;
  for (i = 0; i < t->n && (dt == VRAM_F16 || dt == VRAM_C32); i++) {
    const int64_t size = i + 1 == t->n ? t->last : t->size[i];
    if (size & (size - 1)) {
      vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                        "a transform of f16 whose sizes are not powers of two: cuFFT refuses");
      return;
    }
  }
}

static void vram__forward_fft(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  int kind = vram__op_at(n->op)->kind;
  vram__fft t;
  vram__tensor in, whole;
  vram__grad_fn *f;
  vram__fft_of((vram_graph *)0, n, x[0].d, &t);
  if (kind == VRAM__FFT_C2C && t.n == 1 && !vram__is_complex(x[0].dt))
    kind = VRAM__FFT_R2C; /* torch.fft.fft of real numbers: the whole spectrum */
  if (x[0].d->numel)
    vram__fft_refuse_half(s, x[0].dt, &t);
  whole = vram__torch_cast(s, x[0],
                           kind != VRAM__FFT_R2C           ? vram__fft_complex(x[0].dt)
                           : vram__kind_rank(x[0].dt) >= 2 ? x[0].dt
                                                           : VRAM_F32);
  in = vram__fft_resized(s, whole, &t);
  vram__tensor_release(s, whole);
  f = vram__tape_record(s, n->op, &in, 1, 1, 1);
  if (f)
    f->aux = (uint64_t)kind;
  if (f && kind == VRAM__FFT_R2C)
    vram__save_tensor(s, f, in); /* for its size */
  if (in.dt == VRAM_BF16 && !vram__fft_is_native(&t))
    vram__tensor_replace(s, &in, vram__tensor_to(s, in, VRAM_F32));
  y[0] = in.dt == VRAM_BF16      ? vram__fft_bf16(s, in, &t, n->out[0].d)
         : kind == VRAM__FFT_R2C ? vram__fft_r2c(s, in, &t, n->out[0].d)
         : kind == VRAM__FFT_C2R ? vram__fft_c2r(s, in, &t, n->out[0].d)
                                 : vram__fft_c2c(s, in, &t);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
  vram__tensor_release(s, in);
}

/* The real parts of x, which goes. */
VRAM__FN vram__tensor vram__complex_real(vram__step *s, vram__tensor x) {
  int64_t stride[VRAM_MAX_AXES] = {0};
  vram__tensor y;
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    stride[i] = 2 * VRAM__STRIDE(x.d)[i];
  y = vram__tensor_view(s, x, vram__dims_in(s, x.d->ndim, x.d->v, stride));
  y.dt = vram__real_of(x.dt);
  vram__tensor_release(s, x);
  return y;
}

/* FunctionsManual.cpp, fft_r2c_backward and fft_c2r_backward: half a spectrum is filled up with
 * zeros */
static void vram__backward_fft(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int kind = (int)f->aux;
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  vram__fft t;
  vram__tensor whole;
  vram__fft_of((vram_graph *)0, f->node, f->node->in[0]->d, &t);
  if (kind == VRAM__FFT_C2C)
    to[0] = vram__fft_c2c(s, g, &t);
  else if (kind == VRAM__FFT_C2R)
    to[0] = vram__fft_r2c(s, g, &t, d);
  else if (g.d->v[t.axis[t.n - 1]] == d->v[t.axis[t.n - 1]])
    to[0] = vram__complex_real(s, vram__fft_c2c(s, g, &t));
  else {
    whole = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
    to[0] = vram__fft_c2c(s, whole, &t);
    vram__tensor_release(s, whole);
    to[0] = vram__complex_real(s, to[0]);
  }
}

/* ---- complex tensors and their parts ---- */

/* ComplexHelper.h, view_as_complex */
static void vram__complex_refuse_view(vram__step *s, vram__tensor x) {
  const int64_t *st = VRAM__STRIDE(x.d);
  uint32_t i;
  int odd = st[x.d->ndim - 1u] != 1 || (x.st && (vram__slot_at(s, vram__tensor_slot(x))->off & 1));
  for (i = 0; i + 1 < x.d->ndim; i++)
    odd |= (int)(st[i] & 1);
  if (odd)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                      "view_as_complex of a tensor whose pairs do not lie side by side: PyTorch "
                      "refuses");
  else if (!vram__is_part(x.dt))
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node, "complex numbers of bf16: PyTorch refuses");
}

static void vram__forward_complex_part(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  const int kind = vram__op_at(n->op)->kind;
  int64_t stride[VRAM_MAX_AXES] = {0};
  uint32_t i;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  if (kind == VRAM__PART_VIEW_AS_COMPLEX)
    vram__complex_refuse_view(s, x[0]);
  for (i = 0; i < n->out[0].d->ndim; i++)
    stride[i] = i >= x[0].d->ndim                    ? 1
                : kind == VRAM__PART_VIEW_AS_COMPLEX ? VRAM__STRIDE(x[0].d)[i] / 2
                                                     : 2 * VRAM__STRIDE(x[0].d)[i];
  y[0] = vram__tensor_view(s, x[0], vram__dims_in(s, i, n->out[0].d->v, stride));
  y[0].dt = kind == VRAM__PART_VIEW_AS_COMPLEX ? vram__complex_of(x[0].dt) : vram__real_of(x[0].dt);
  vram__view_wants_grad(s, y[0], x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* The gradient is a view of the one that comes, or of a contiguous copy. */
static void vram__backward_complex_part(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int kind = vram__op_at(f->kind)->kind;
  const vram__tensor g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  int64_t stride[VRAM_MAX_AXES] = {0};
  vram__tensor c;
  uint32_t i;
  c = vram__tensor_contiguous(s, g);
  for (i = 0; i < d->ndim; i++)
    stride[i] = i >= g.d->ndim                    ? 1
                : kind == VRAM__PART_VIEW_AS_REAL ? VRAM__STRIDE(c.d)[i] / 2
                                                  : 2 * VRAM__STRIDE(c.d)[i];
  to[0] = vram__tensor_view(s, c, vram__dims_in(s, d->ndim, d->v, stride));
  to[0].dt = kind == VRAM__PART_VIEW_AS_REAL ? vram__complex_of(g.dt) : vram__real_of(g.dt);
  vram__tensor_release(s, c);
}

static void vram__complex_refuse_parts(vram__step *s, const vram_node *n, const vram__tensor *x) {
  if (!vram__is_part(x[0].dt) || x[1].dt != x[0].dt)
    vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, n,
                      "parts of complex numbers that are bf16 or of two dtypes: PyTorch refuses");
}

static void vram__forward_complex(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 2);
  const vram_dims *d[2];
  uint32_t i;
  for (i = 2; f && i-- > 0;)
    if (vram__input_wanted(f, i))
      vram__save_tensor(s, f, x[i]);
  vram__complex_refuse_parts(s, n, x);
  d[0] = x[0].d;
  d[1] = x[1].d;
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), vram__complex_of(x[0].dt));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* at::real(grad) and at::imag(grad), summed to what was broadcast */
static void vram__backward_complex(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  uint32_t i;
  for (i = 2; i-- > 0;)
    if (vram__input_wanted(f, i)) {
      const vram_dims *d = vram__input_dims(s, f, i, NULL);
      vram__tensor part = vram__complex_real(s, vram__tensor_retain(s, VRAM__SLOTS(f)[0].g));
      to[i] = part.d->numel == d->numel ? vram__tensor_retain(s, part)
                                        : vram__tensor_sum_to(s, part, d);
      vram__tensor_release(s, part);
    }
}

static void vram__forward_polar(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 2, 1, 1);
  const vram_dims *d[2];
  d[0] = x[0].d;
  d[1] = x[1].d;
  vram__complex_refuse_parts(s, n, x);
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), vram__complex_of(x[0].dt));
  if (f)
    vram__save_tensor(s, f, y[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* polar_backward: real parts of conj(grad) sgn(result), conj(grad) i result */
static void vram__backward_polar(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, y = VRAM__SAVED(f)[0];
  vram__tensor of[2];
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram__tensor factor = vram__pointwise_empty1(s, y);
    const vram__tensor conjugated = vram__pointwise_empty1(s, g);
    of[i] = vram__pointwise_empty2(s, conjugated, factor);
    vram__tensor_release(s, conjugated);
    vram__tensor_release(s, factor);
  }
  for (i = 0; i < 2; i++)
    if (vram__input_wanted(f, i)) {
      const vram_dims *d = vram__input_dims(s, f, i, NULL);
      const vram__tensor part = vram__complex_real(s, of[i]);
      to[i] = part.d->numel == d->numel ? vram__tensor_retain(s, part)
                                        : vram__tensor_sum_to(s, part, d);
      vram__tensor_release(s, part);
    } else
      vram__tensor_release(s, of[i]);
}

static void vram__forward_angle(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 1);
  vram__tensor whole = vram__tensor_none();
  if (f)
    vram__save_tensor(s, f, x[0]);
  if (vram__is_complex(x[0].dt)) /* the kernel gives complex numbers */
    whole = vram__pointwise_empty1(s, x[0]);
  y[0] =
      vram__tensor_empty(s, vram__dims_pointwise1(s, x[0].d),
                         whole.d ? vram__real_of(x[0].dt) : vram__step_dtype(s, n->out[0].dtype));
  vram__tensor_release(s, whole);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* angle_backward: where(x == 0, 0, grad x / |x|^2 i); of real numbers zeros */
static void vram__backward_angle(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const vram__tensor g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__tensor t[7];
  uint32_t n = 0;
  if (!vram__is_complex(x.dt)) {
    to[0] = vram__tensor_empty(s, vram__dims_dense(s, x.d), x.dt);
    return;
  }
  t[n++] = vram__tensor_empty(s, vram__dims_pointwise1(s, x.d), g.dt);
  vram__tensor_release(s, vram__pointwise_empty1(s, x));
  t[n++] = vram__pointwise_empty1(s, t[0]);
  t[n++] = vram__pointwise_empty2(s, g, x);
  t[n++] = vram__pointwise_empty2(s, t[2], t[1]);
  t[n++] = vram__pointwise_empty_number(s, t[3]);
  t[n++] = vram__tensor_empty(s, s->scalar, x.dt);
  t[n++] = vram__tensor_empty(s, vram__dims_pointwise_number(s, x.d), VRAM_BOOL);
  to[0] = vram__pointwise_empty1(s, t[4]);
  while (n--)
    vram__tensor_release(s, t[n]);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(fft, "", 1, 1, fft, SAME, none, fft, fft, each, NONE, VRAM__FFT_C2C, 0, "dim size");
VRAM__OP(rfft, "", 1, 1, fft, SAME, none, fft, fft, each, NONE, VRAM__FFT_R2C, 0,
         "dim size onesided");
VRAM__OP(irfft, "", 1, 1, fft, SAME, none, fft, fft, each, NONE, VRAM__FFT_C2R, 0, "dim size");
VRAM__OP(complex, "complex: x imag", 2, 2, complex, SAME, none, complex, complex, each, NONE, 0, 0,
         "");
VRAM__OP(view_as_real, "view_as_real", 1, 1, complex_part, SAME, none, complex_part, complex_part,
         none, NONE, VRAM__PART_VIEW_AS_REAL, 0, "");
VRAM__OP(view_as_complex, "view_as_complex", 1, 1, complex_part, SAME, none, complex_part,
         complex_part, none, NONE, VRAM__PART_VIEW_AS_COMPLEX, 0, "");
VRAM__OP(polar, "polar: x angle", 2, 2, complex, SAME, none, polar, polar, each, NONE, 0, 0, "");
VRAM__OP(angle, "angle: x", 1, 1, angle, SAME, none, angle, angle, each, NONE, 0, 0, "");
