/* >>ops/activation    activations with more than a pointwise kernel: glu, prelu, rrelu */
#include "ops/ops.h"

VRAM__FN int vram__shape_glu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t a, i;
  if (!x->ndim)
    return vram__bad(g, n, "glu of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (size[a] % 2)
    return vram__bad(g, n, "an axis that cannot be halved");
  size[a] /= 2;
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

VRAM__FN int vram__shape_prelu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t c = VRAM__INT(n, num_parameters, 1);
  if (n->nin > 1)
    c = (int64_t)n->in[1]->d->numel;
  if (c < 1 || (c != 1 && (x->ndim < 2 || x->v[1] != c)))
    return vram__bad(g, n, "num_parameters must be 1 or the number of channels");
  if (n->nin == 1 &&
      (!vram__params(g, n, 2) || !vram__own(g, n, 0, "weight", 1, &c, VRAM_F32, VRAM__PARAM)))
    return 0;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* ---- activations with more than a pointwise kernel ---- */

VRAM__FN void vram__run_glu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  const vram_dims *half[2];
  half[0] = half[1] = vram__dims_in(s, x[0].d->ndim, n->out[0].d->v, VRAM__STRIDE(x[0].d));
  if (f)
    vram__save(s, f, x[0]);
  y[0] = vram__empty(s, vram__ti(s, half, 2), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

VRAM__FN void vram__bw_glu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, VRAM__SAVED(f)[0].d), VRAM__SLOTS(f)[0].g.dt);
}

/* PReLU: the weight as [1, C, 1, ...] */
VRAM__FN void vram__run_prelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[2], b, w;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k = x[0].d->ndim;
  vram__fn *f;
  vram__weights(s, n, &a[1], &b);
  a[0] = x[0];
  for (i = 2; i-- > 0;)
    a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  if (a[1].d->ndim != k) {
    for (i = 0; i < k; i++)
      size[i] = 1;
    if (k > 1)
      size[1] = (int64_t)a[1].d->numel;
    w = vram__t_reshape(s, a[1], k, size);
    vram__let(s, a[1]);
    a[1] = w;
  }
  f = vram__record(s, n->op, a, 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__ti2(s, a[0], a[1]);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a[0]);
  vram__let(s, a[1]);
}

VRAM__FN void vram__bw_prelu(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *d[3];
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], t, u;
  d[0] = x.d, d[1] = VRAM__SAVED(f)[1].d, d[2] = g.d;
  t = vram__empty(s, vram__ti(s, d, 3), x.dt);
  u = vram__empty(s, t.d, x.dt);
  if (vram__wants(f, 0))
    to[0] = t;
  else
    vram__let(s, t);
  if (vram__wants(f, 1))
    to[1] = u;
  else
    vram__let(s, u);
}

/* RReLU: the noise is there in evaluation too */
/* native/cuda/RreluWithNoise.cu: contiguous noise and result, the input as a contiguous copy; in
   place on a tensor that is not contiguous the result, too */
VRAM__FN void vram__run_rrelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t noise = vram__empty(s, vram__contig(s, x[0].d), x[0].dt), a, b = vram__none();
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (n->flags & VRAM__INPLACE) {
    y[0] = x[0];
    y[0].fn = 0;
    vram__keep_t(s, y[0]);
  } else
    y[0] = vram__empty(s, noise.d, x[0].dt);
  a = vram__contiguous(s, x[0]);
  if (n->flags & VRAM__INPLACE)
    b = vram__contiguous(s, y[0]);
  vram__let(s, b);
  vram__let(s, a);
  if (f)
    vram__save(s, f, n->flags & VRAM__INPLACE ? y[0] : x[0]), vram__save(s, f, noise);
  vram__let(s, noise);
  vram__made(s, f, 0, &y[0]);
}

VRAM__FN void vram__bw_rrelu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SAVED(f)[1], VRAM__SLOTS(f)[0].g);
}

#endif /* VRAM_NO_STEP */
