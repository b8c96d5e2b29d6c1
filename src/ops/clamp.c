/* >>ops/clamp    clamp with bounds that are tensors */
#include "ops/ops.h"

#ifndef VRAM_NO_STEP

/* What gradients of clamp make: x and its bounds, the gradient, then what goes at the end of a
   scope, the last one first. */
typedef struct vram__clamp {
  vram__step *s;
  vram__tensor v[20];
  uint32_t n;
} vram__clamp;

enum { VRAM__CLAMP_X, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX, VRAM__CLAMP_GRAD, VRAM__CLAMP_OWN };

static uint32_t vram__clamp_put(vram__clamp *c, vram__tensor t) {
  c->v[c->n] = t;
  return c->n++;
}

/* A comparison of a and b, or the and or the or of two. */
static uint32_t vram__clamp_mask(vram__clamp *c, uint32_t a, uint32_t b) {
  const vram_dims *d[2];
  d[0] = c->v[a].d;
  d[1] = c->v[b].d;
  return vram__clamp_put(c, vram__tensor_empty(c->s, vram__dims_pointwise(c->s, d, 2), VRAM_BOOL));
}

static uint32_t vram__clamp_half(vram__clamp *c) {
  return vram__clamp_put(c, vram__pointwise_empty_number(c->s, c->v[VRAM__CLAMP_GRAD]));
}

static uint32_t vram__clamp_zero(vram__clamp *c) {
  return vram__clamp_put(c, vram__tensor_empty(c->s, c->s->scalar, c->v[VRAM__CLAMP_GRAD].dt));
}

/* where(mask, grad, other): the gradient itself */
static vram__tensor vram__clamp_where(vram__clamp *c, uint32_t mask, uint32_t other) {
  const vram_dims *d[3];
  d[0] = c->v[mask].d;
  d[1] = c->v[VRAM__CLAMP_GRAD].d;
  d[2] = c->v[other].d;
  return vram__tensor_empty(c->s, vram__dims_pointwise(c->s, d, 3), c->v[VRAM__CLAMP_GRAD].dt);
}

/* What was made since n goes; the last of it stays where `last` says so. */
static void vram__clamp_leave(vram__clamp *c, uint32_t n, int last) {
  vram__tensor t = c->v[c->n - 1];
  c->n -= (uint32_t)last;
  while (c->n > n)
    vram__tensor_release(c->s, c->v[--c->n]);
  if (last)
    vram__clamp_put(c, t);
}

/* One bound: either gradient is that of maximum. */
static vram__tensor vram__clamp_one(vram__clamp *c) {
  const uint32_t n = c->n;
  const int halves = !(c->s->device.rules->does & VRAM__MASK_LAST);
  uint32_t other;
  vram__tensor y;
  if (halves)
    vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN);
  other = halves ? vram__clamp_half(c) : vram__clamp_zero(c);
  y = vram__clamp_where(c, vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN), other);
  vram__clamp_leave(c, n, 0);
  return y;
}

/* x < min and min < max, or x equal to min; half of the gradient where equal */
static vram__tensor vram__clamp_min_grad(vram__clamp *c, uint32_t order, uint32_t equal) {
  const uint32_t n = c->n;
  uint32_t below, at, half;
  vram__tensor y;
  below = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN);
  below = vram__clamp_mask(c, below, order);
  at = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN);
  at = vram__clamp_mask(c, at, equal);
  vram__clamp_mask(c, below, at);
  vram__clamp_leave(c, n, 1);
  vram__clamp_mask(c, n, n);
  half = vram__clamp_half(c);
  vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN);
  y = vram__clamp_where(c, n, half);
  vram__clamp_leave(c, n, 0);
  return y;
}

/* The other bound counts also where it is the lower one. */
static vram__tensor vram__clamp_max_grad(vram__clamp *c) {
  const uint32_t n = c->n;
  uint32_t order, above, at, half;
  vram__tensor y;
  order = vram__clamp_mask(c, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX);
  above = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MAX);
  above = vram__clamp_mask(c, above, order);
  above = vram__clamp_mask(c, above, order);
  at = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MAX);
  at = vram__clamp_mask(c, at, order);
  vram__clamp_mask(c, above, at);
  vram__clamp_leave(c, n + 1, 1);
  vram__clamp_mask(c, n + 1, n + 1);
  half = vram__clamp_half(c);
  at = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MAX);
  at = vram__clamp_mask(c, at, order);
  y = vram__clamp_where(c, at, half);
  vram__clamp_leave(c, n, 0);
  return y;
}

static vram__tensor vram__clamp_x_grad(vram__clamp *c) {
  const uint32_t n = c->n;
  const uint32_t order = vram__clamp_mask(c, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX);
  uint32_t i, low, high, half;
  vram__tensor y;
  for (i = 0; i < 2; i++) { /* inside, and at a bound */
    low = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MIN);
    high = vram__clamp_mask(c, VRAM__CLAMP_X, VRAM__CLAMP_MAX);
    high = vram__clamp_mask(c, low, high);
    if (!i)
      vram__clamp_mask(c, high, order);
    vram__clamp_leave(c, n + 1 + i, 1);
  }
  half = vram__clamp_half(c);
  y = vram__clamp_where(c, n + 1, half);
  vram__clamp_leave(c, n, 0);
  return y;
}

/* Two bounds before 2.14: all of the gradient or nothing. The second comparison is written into
   the first one with logical_and_. */
static vram__tensor vram__clamp_either(vram__clamp *c, uint32_t bound, uint32_t zero) {
  const uint32_t n = c->n, mask = vram__clamp_mask(c, VRAM__CLAMP_X, bound);
  vram__tensor y;
  vram__clamp_mask(c, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX);
  y = vram__clamp_where(c, mask, zero);
  vram__clamp_leave(c, n, 0);
  return y;
}

static void vram__forward_clamp_tensor(vram__step *s, const vram_node *n, vram__tensor *x,
                                       vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, n->nin, 1, 3);
  const vram_dims *d[3];
  uint32_t i;
  for (i = n->nin; i-- > 0;) {
    d[i] = x[i].d;
    if (f)
      vram__save_tensor(s, f, x[i]);
  }
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, n->nin), n->out[0].dtype);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* FunctionsManual.cpp, clamp_backward and clamp_backward_min_max; in 2.14 and later as measured. */
static void vram__backward_clamp_tensor(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const int old = (s->device.rules->does & VRAM__MASK_LAST) != 0;
  uint32_t i, first = 0, second = 0;
  vram__clamp c;
  c.s = s;
  c.n = VRAM__CLAMP_OWN;
  for (i = 0; i < f->nin; i++)
    c.v[i] = VRAM__SAVED(f)[f->nin - 1u - i];
  c.v[VRAM__CLAMP_GRAD] = VRAM__SLOTS(f)[0].g;
  if (f->nin == 2) {
    for (i = 2; i-- > 0;)
      if (vram__input_wanted(f, i))
        to[i] = vram__clamp_one(&c);
    return;
  }
  if (vram__input_wanted(f, 1) || vram__input_wanted(f, 2)) {
    first = old ? vram__clamp_zero(&c) : vram__clamp_mask(&c, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX);
    second = old ? 0 : vram__clamp_mask(&c, VRAM__CLAMP_MIN, VRAM__CLAMP_MAX);
    if (vram__input_wanted(f, 1))
      to[1] = old ? vram__clamp_either(&c, VRAM__CLAMP_MIN, first)
                  : vram__clamp_min_grad(&c, first, second);
    if (vram__input_wanted(f, 2))
      to[2] = old ? vram__clamp_either(&c, VRAM__CLAMP_MAX, first) : vram__clamp_max_grad(&c);
    vram__clamp_leave(&c, VRAM__CLAMP_OWN, 0);
  }
  if (!vram__input_wanted(f, 0))
    return;
  if (old) {
    const uint32_t zero = vram__clamp_zero(&c), low = vram__clamp_mask(&c, 0, VRAM__CLAMP_MIN);
    vram__clamp_mask(&c, 0, VRAM__CLAMP_MAX);
    to[0] = vram__clamp_where(&c, low, zero);
    vram__clamp_leave(&c, VRAM__CLAMP_OWN, 0);
  } else
    to[0] = vram__clamp_x_grad(&c);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(clamp_tensor, "", 2, 3, bcast, SAME, none, clamp_tensor, clamp_tensor, each, NONE, 0,
         VRAM__OP_REAL, "");
