/* >>ops/softmax    softmax, log_softmax, gumbel_softmax */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* SoftMax.cu, host_softmax and host_softmax_backward */
VRAM__FN vram__t vram__t_softmax(vram__s *s, uint32_t op, vram__t x, uint8_t dt) {
  vram__fn *f;
  vram__t y, c, a;
  if (dt != x.dt && !(x.dt == VRAM_F16 && dt == VRAM_F32))
    a = vram__t_cast(s, x, dt);
  else
    a = vram__keep_t(s, x);
  f = vram__record(s, op, &a, 1, 1, 1);
  y = vram__empty(s, vram__contig(s, a.d), dt);
  c = vram__format_copy(s, a, 0);
  vram__let(s, c);
  if (f)
    vram__save(s, f, y);
  vram__made(s, f, 0, &y);
  vram__let(s, a);
  return y;
}

VRAM__FN void vram__run_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = vram__list(n, VRAM__KEY_dtype, NULL) ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : 0;
  if (s->low && dt == VRAM_F32)
    dt = s->low;
  if (!dt)
    dt = s->amp && vram__is_half(x[0].dt) ? (uint8_t)VRAM_F32 : x[0].dt;
  y[0] = vram__t_softmax(s, n->op, x[0], dt);
}

VRAM__FN void vram__bw_softmax(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, y = VRAM__SAVED(f)[0], c, t = vram__none();
  uint8_t dt;
  vram__in_dims(s, f, 0, &dt);
  to[0] = vram__empty(s, vram__contig(s, y.d), dt);
  if (f->kind != VRAM_OP_log_softmax)
    t = vram__ti2(s, g, y);
  c = vram__format_copy(s, t.d ? t : g, 0);
  vram__let(s, c);
  vram__let(s, t);
}

/* torch.nn.functional.gumbel_softmax */
VRAM__FN void vram__run_gumbel_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t t, u, g, soft;
  t = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
  u = vram__call(s, VRAM_OP_log, t, vram__none(), NULL);
  vram__let(s, t);
  g = vram__call(s, VRAM_OP_neg, u, vram__none(), NULL);
  vram__let(s, u);
  t = vram__call(s, VRAM_OP_add, x[0], g, NULL);
  u = vram__call(s, VRAM_OP_div, t, vram__none(), NULL);
  vram__let(s, t);
  vram__let(s, g);
  soft = vram__t_softmax(s, VRAM_OP_softmax, u,
                         s->amp && vram__is_half(u.dt) ? (uint8_t)VRAM_F32 : u.dt);
  if (!VRAM__INT(n, hard, 0))
    y[0] = soft;
  else { /* the largest of each row, as a one, minus soft without its gradient, plus soft */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i, a = 0;
    vram__t max, index, one;
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = i == a ? 1 : x[0].d->v[i];
    max = vram__empty(s, vram__dims_in(s, i, size, NULL), soft.dt);
    index = vram__empty(s, max.d, VRAM_I64);
    vram__let(s, max);
    one = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
    t = soft;
    t.req = 0, t.fn = 0;
    t = vram__call(s, VRAM_OP_sub, one, t, NULL);
    y[0] = vram__call(s, VRAM_OP_add, t, soft, NULL);
    vram__let(s, t);
    vram__let(s, index);
    vram__let(s, one);
    vram__let(s, soft);
  }
  vram__let(s, u);
}

#endif /* VRAM_NO_STEP */
