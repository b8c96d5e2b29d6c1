/* >>ops/linear    the linear layer */
#include "ops/ops.h"

VRAM__FN int vram__shape_linear(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (!x->ndim)
    return vram__bad(g, n, "linear of a tensor without axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  w[1] = x->v[x->ndim - 1];
  w[0] = VRAM__INT(n, out_features, 0);
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (d->ndim != 2 || d->v[1] != w[1])
      return vram__bad(g, n, "a weight of another shape");
    if (vram__list(n, VRAM__KEY_out_features, NULL) && d->v[0] != w[0])
      return vram__bad(g, n, "a weight of other out_features");
    w[0] = d->v[0];
  } else {
    if (w[0] < 1)
      return vram__bad(g, n, "out_features must be at least 1");
    if (!vram__own(g, n, 0, "weight", 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
    if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, w, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  size[x->ndim - 1] = w[0];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

#ifndef VRAM_NO_STEP

/* Plain matrices of more than one row and column each: BLAS takes them as they are, and the views
   that F.linear and its backward make of them come to nothing. */
static int vram__usual_linear(const vram__s *s, const vram__t *x, const vram__t *w,
                              const vram__t *b) {
  return (x->d->flags & w->d->flags & VRAM__PLAIN) && w->req && w->d->ndim == 2 && w->d->v[0] > 1 &&
         w->d->v[1] > 1 && x->d->numel > (uint64_t)w->d->v[1] && x->dt == w->dt && !s->ideal &&
         !s->nrange &&
         (!b->d || ((b->d->flags & VRAM__PLAIN) && b->d->ndim == 1 && b->dt == x->dt));
}

/* in: bias, x, weight; out: dims of the result */
static vram__t vram__linear(vram__s *s, const vram__t *in, const vram_dims *out) {
  const uint32_t x = in[0].d != NULL;
  vram__fn *f = vram__record(s, VRAM_OP_linear, in + 1 - x, 2 + x, 1, 2);
  vram__t y;
  vram__save_factors(s, f, x, in[1], x + 1, in[2]);
  y = vram__empty(s, out, in[1].dt);
  vram__workspace(s, x ? VRAM__RULE_CUBLASLT_WORKSPACE : s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

/* g is no plain matrix: ViewBackward, AddmmBackward, TBackward */
VRAM__FN void vram__bw_linear_view(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t x = f->nin - 2u;
  vram__t *g = &VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d;
  uint32_t i;
  const int64_t n = g->d->v[g->d->ndim - 1];
  int64_t fold[2];
  fold[0] = (int64_t)g->d->numel / n, fold[1] = n;
  if (g->d->ndim > 2) {
    t = vram__reshape(s, *g, 2, fold);
    vram__let(s, *g);
    *g = t;
  }
  for (i = 0; i < 2; i++) {
    const uint32_t k = x + (i == x);
    if (!vram__wants(f, k))
      continue;
    d = vram__in_dims(s, f, k, NULL);
    if (k == x)
      t = vram__mm(s, *g, vram__factor(f, 1));
    else {
      t = vram__factor(f, 0);
      fold[1] = d->v[1];
      t.d = vram__dims_in(s, 2, fold, NULL);
      t = vram__mm(s, vram__turned(s, *g), t);
    }
    to[k] = k > x || d->ndim > 2 ? vram__alias(s, t, d) : vram__keep_t(s, t);
    vram__let(s, t);
  }
  if (x && vram__wants(f, 0)) {
    t = vram__sum(s, *g, 1, 0, g->dt);
    to[0] = vram__alias(s, t, t.d);
    vram__let(s, t);
  }
}

static inline void vram__bw_plain_linear(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t x = f->nin - 2u;
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2;
       i++) { /* AddmmBackward begins with the first factor, MmBackward with the second */
    const uint32_t k = x + (i == x);
    if (vram__wants(f, k)) {
      to[k] = vram__empty(s, vram__in_dims(s, f, k, NULL), g.dt);
      if (to[k].st)
        (s->top - to[k].st)->shown = k > x || g.d->ndim > 2;
      vram__workspace(s, s->ws);
    }
  }
  if (x && vram__wants(f, 0)) {
    if (g.d->ndim > 2) {
      int64_t fold[2];
      fold[1] = g.d->v[g.d->ndim - 1], fold[0] = (int64_t)g.d->numel / fold[1];
      g.d = vram__dims_in(s, 2, fold, NULL);
    }
    to[0] = vram__empty(s, vram__in_dims(s, f, 0, NULL), g.dt);
    vram__reduce(s, g, 1, g.dt, g.dt == VRAM_F64 ? 8 : 4, 4);
    if (to[0].st)
      (s->top - to[0].st)->shown = 1;
  }
}

static VRAM__COLD void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to);

VRAM__FN void vram__bw_linear(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f), *w = edge + f->nin - 1;
  if (VRAM__SLOTS(f)[0].g.d->flags & VRAM__PLAIN)
    vram__bw_plain_linear(s, f, to);
  else
    vram__bw_linear_view(s, f, to);
  if ((w->fn && vram__end_of(s, *w)->d) || (f->nin > 2 && edge->fn && vram__end_of(s, *edge)->d))
    vram__linear_shared(s, f, to);
}

/* Linear.cpp, linear; b.d NULL: without bias */
VRAM__FN vram__t vram__t_linear(vram__s *s, vram__t x, vram__t w, vram__t b) {
  vram__t a[3], wt, p, q, y;
  uint32_t i, k = x.d->ndim;
  int64_t fold[2], size[VRAM_MAX_AXES];
  a[0] = x, a[1] = w, a[2] = b;
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  if (vram__usual_linear(s, &a[0], &a[1], &a[2])) {
    vram__t in[3];
    in[0] = a[2], in[1] = a[0], in[2] = a[1];
    for (i = 0; i + 1 < k; i++)
      size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    y = vram__linear(s, in, vram__dims_in(s, k, size, NULL));
  } else if (a[2].d && k == 2) {
    wt = vram__t_swap(s, a[1], 0, 1);
    y = vram__t_addmm(s, a[2], a[0], wt, 0);
    vram__let(s, wt);
  } else if (a[2].d && (a[0].d->flags & VRAM__CONTIG)) {
    fold[0] = 1, fold[1] = a[0].d->v[k - 1];
    for (i = 0; i + 1 < k; i++)
      fold[0] *= size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    p = vram__t_reshape(s, a[0], 2, fold);
    wt = vram__t_swap(s, a[1], 0, 1);
    q = vram__t_addmm(s, a[2], p, wt, 0);
    vram__let(s, wt);
    y = vram__unsafe_view(s, q, vram__dims_in(s, k, size, NULL));
    vram__let(s, p);
  } else {
    wt = vram__t_swap(s, a[1], 0, 1);
    y = vram__t_matmul(s, a[0], wt);
    vram__let(s, wt);
    if (a[2].d)
      vram__t_add_(s, &y, a[2]);
  }
  for (i = 0; i < 3; i++)
    if (a[i].d)
      vram__let(s, a[i]);
  return y;
}

VRAM__FN void vram__run_linear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[3]; /* bias, input, weight */
  in[1] = x[0];
  vram__weights(s, n, &in[2], &in[0]);
  if (!s->amp && vram__usual_linear(s, &in[1], &in[2], &in[0]))
    y[0] = vram__linear(s, in, n->out[0].d);
  else
    y[0] = vram__t_linear(s, in[1], in[2], in[0]);
}

/* A linear layer whose weight or bias has a gradient already: AddmmBackward hands on those of the
   bias and of x, TBackward that of the weight; folded axes of x are ViewBackward's, which is older
   than TBackward with a bias and younger without (Linear.cpp). What was added goes with each. */
static VRAM__COLD void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f);
  vram__t *g = &VRAM__SLOTS(f)[0].g;
  const uint32_t x = f->nin - 2u, folds = g->d->ndim > 2;
  uint32_t i, k, order[3];
  order[0] = 0, order[1] = x && folds ? 2 : 1, order[2] = 3 - order[1];
  for (i = 0; i < f->nin; i++)
    if (to[i].d)
      vram__fit(s, edge[i], to + i);
  vram__let(s, *g);
  g->d = NULL;
  vram__release_saved(s, f);
  for (k = 0; k < f->nin; k++) {
    vram__t *t = to + order[k];
    if (t->d)
      vram__arrive(s, vram__end_of(s, edge[order[k]]), t);
    if (!k && x && !folds)
      continue; /* the bias goes with x */
    for (i = 0; i <= k; i++)
      if (to[order[i]].d) {
        vram__let(s, to[order[i]]);
        to[order[i]].d = NULL;
      }
  }
}

#endif /* VRAM_NO_STEP */
