/* >>ops/copy    ops that copy what they are given: cat, stack, roll, flip, repeat, clone, to */
#include "ops/ops.h"

/* kind of a row here, where a function has several ops */
enum { VRAM__COPY_ROLL = 1, VRAM__COPY_TILE, VRAM__COPY_REPEAT, VRAM__COPY_STACK };

/* roll and flip: the axes must be there */
static int vram__shape_roll(vram_graph *g, vram_node *n) {
  uint32_t c, k, i, a;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dims, &c);
  if (vram__op_at(n->op)->kind == VRAM__COPY_ROLL) {
    vram__node_list(n, VRAM__KEY_shifts, &k);
    if (v ? k != c : k != 1)
      return vram__node_error(g, n, "as many shifts as dims are needed");
    if (v && !n->in[0]->d->ndim)
      return vram__node_error(g, n, "dims of a tensor without axes");
  }
  for (i = 0; i < c; i++)
    if (!vram__axis(g, v[i], n->in[0]->d->ndim, &a))
      return 0;
  return vram__node_out_dims(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* How often each axis of the result repeats x (axes that x lacks come first). */
static uint32_t vram__shape_repeats(const vram_node *n, uint32_t ndim, int64_t *to) {
  uint32_t c, i, k;
  const int64_t *v = vram__node_list(
      n, vram__op_at(n->op)->kind == VRAM__COPY_TILE ? VRAM__KEY_dims : VRAM__KEY_repeats, &c);
  k = c > ndim ? c : ndim;
  for (i = 0; i < k; i++)
    to[i] = i < k - c ? 1 : v[i - (k - c)];
  return k;
}

/* rot90: two axes, which change places at odd times */
static int vram__shape_rot90(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t c, i, a, b;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dims, &c);
  if (c != 2 || VRAM__INT(n, k, 1) < 0)
    return vram__node_error(g, n, "two dims, and k from 0 on");
  if (!vram__axis(g, v[0], x->ndim, &a) || !vram__axis(g, v[1], x->ndim, &b))
    return 0;
  if (a == b)
    return vram__node_error(g, n, "an axis that is named twice");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[VRAM__INT(n, k, 1) % 2 == 0 ? i : i == a ? b : i == b ? a : i];
  return vram__node_out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_repeat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r[VRAM_MAX_AXES];
  uint32_t c, i, k = vram__shape_repeats(n, x->ndim, r);
  vram__node_list(n, VRAM__KEY_repeats, &c);
  if (vram__op_at(n->op)->kind == VRAM__COPY_REPEAT && c < x->ndim)
    return vram__node_error(g, n, "fewer repeats than axes");
  for (i = 0; i < k; i++) {
    uint64_t z = i < k - x->ndim ? 1 : (uint64_t)x->v[i - (k - x->ndim)];
    if (r[i] < 0 || (z = vram__product_or_overflow(z, (uint64_t)r[i])) == VRAM_OVERFLOW)
      return vram__node_error(g, n, "repeats out of range");
    size[i] = (int64_t)z;
  }
  return vram__node_out(g, n, 0, k, size, n->in[0]->dtype);
}

static int vram__shape_repeat_interleave(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r = vram__node_int(n, VRAM__KEY_repeats, 1);
  uint32_t c, i, a = 0, ndim = x->ndim;
  uint64_t z;
  vram__node_list(n, VRAM__KEY_repeats, &c);
  if (c != 1 || r < 0)
    return vram__node_error(g, n, "repeats must be one number");
  if (vram__node_list(n, VRAM__KEY_dim, NULL)) {
    if (!x->ndim || x->ndim >= VRAM_MAX_AXES)
      return vram__node_error(g, n, "repeat_interleave of a tensor without axes or of 8");
    if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
      return 0;
    for (i = 0; i < ndim; i++)
      size[i] = x->v[i];
  } else {
    ndim = 1;
    size[0] = (int64_t)x->numel;
  }
  if ((z = vram__product_or_overflow((uint64_t)size[a], (uint64_t)r)) == VRAM_OVERFLOW)
    return vram__node_error(g, n, "repeats out of range");
  size[a] = (int64_t)z;
  return vram__node_out(g, n, 0, ndim, size, n->in[0]->dtype);
}

/* TensorShape.h, cat_should_skip_tensor: an empty list is left out whatever the others are */
static int vram__cat_skips(const vram_dims *d) { return d->ndim == 1 && !d->v[0]; }

static int vram__shape_cat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__memory_zero(&p, sizeof p);
  for (k = 1; k < n->nin && vram__cat_skips(x); k++)
    x = n->in[k]->d;
  if (!x->ndim)
    return vram__node_error(g, n, "cat of tensors without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[a] = 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
    if (vram__cat_skips(d))
      continue;
    if (d->ndim != x->ndim)
      return vram__node_error(g, n, "cat of tensors of different axes");
    for (i = 0; i < x->ndim; i++)
      if (i == a) {
        if (d->v[i] > INT64_MAX / 2 - size[a])
          return vram__node_error(g, n, "a size out of range");
        size[a] += d->v[i];
      } else if (d->v[i] != size[i])
        return vram__node_error(g, n, "cat of tensors of different sizes");
  }
  return vram__node_out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

static int vram__shape_stack(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k, m = 0;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__memory_zero(&p, sizeof p);
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__node_error(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    for (i = 0; i < x->ndim; i++)
      if (d->ndim != x->ndim || d->v[i] != x->v[i])
        return vram__node_error(g, n, "stack of tensors of different sizes");
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
  }
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? (int64_t)n->nin : x->v[m++];
  return vram__node_out(g, n, 0, x->ndim + 1u, size, vram__promote_get(&p));
}

/* To a dtype, or with autocast=1 to autocast's where it is on: torch.amp's _cast. */
static int vram__shape_to(vram_graph *g, vram_node *n) {
  if (!vram__node_list(n, VRAM__KEY_dtype, NULL) == !VRAM__INT(n, autocast, 0))
    return vram__node_error(g, n, "to takes dtype= or autocast=1");
  return vram__shape_same(g, n);
}

#ifndef VRAM_NO_STEP

/* The result of at::cat: channels-last if all pieces are stored so. d: contiguous dims. */
VRAM__FN const vram_dims *vram__cat_dims(vram__step *s, const vram_dims *d, int cl) {
  return cl && (d->ndim == 4 || d->ndim == 5) ? vram__dims_channels_last(s, d) : d;
}

static void vram__forward_cat(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int stack = vram__op_at(n->op)->kind == VRAM__COPY_STACK;
  uint32_t i, a;
  int cl = 1;
  vram__promote p;
  vram__grad_fn *f;
  vram__memory_zero(&p, sizeof p);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->out[0].d->ndim, &a);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, x[i].dt, x[i].d->ndim);
  for (i = 0; cl && i < n->nin; i++)
    cl = n->out[0].d->ndim > 3 &&
         vram__suggests_cl(stack ? vram__dims_unsqueezed(s, x[i].d, a) : x[i].d);
  f = vram__tape_record(s, n->op, x, n->nin, 1, 0);
  if (f) {
    f->aux = a;
    for (i = 0; i < n->nin; i++)
      if (!vram__input_wanted(f, i)) /* where the next piece begins */
        VRAM__EDGES(f)[i].out = !stack && !vram__cat_skips(x[i].d) ? (uint32_t)x[i].d->v[a] : 0;
  }
  y[0] = vram__tensor_empty(s, vram__cat_dims(s, n->out[0].d, cl), vram__promote_get(&p));
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* the gradients are views of g */
static void vram__backward_cat(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  uint32_t i, j, a = (uint32_t)f->aux;
  int stack = vram__op_at(f->kind)->kind == VRAM__COPY_STACK;
  int64_t at = 0;
  for (i = 0; i < f->nin; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    const vram_dims *d;
    if (!vram__input_wanted(f, i)) {
      at += VRAM__EDGES(f)[i].out;
      continue;
    }
    d = vram__input_dims(s, f, i, NULL);
    if (!stack && vram__cat_skips(d)) {
      to[i] = vram__tensor_empty(s, d, g.dt);
      continue;
    }
    for (j = 0; j < g.d->ndim; j++) {
      if (stack && j == a)
        continue;
      size[m] = d->v[m];
      stride[m++] = VRAM__STRIDE(g.d)[j];
    }
    to[i] = vram__tensor_view(s, g, vram__dims_in(s, m, size, stride));
    vram__tensor_begin_at(s, to[i], vram__view_at(s, g, a, stack ? (int64_t)i : at));
    at += stack ? 0 : d->v[a];
  }
}

/* roll_cuda: one axis after the other, each a contiguous tensor */
static vram__tensor vram__dims_rolled(vram__step *s, vram__tensor x, uint32_t times) {
  vram__tensor t = vram__tensor_none(), c, y;
  vram__tensor mid[2 * VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < times; i++) {
    c = t.d ? t : x;
    c = c.d->flags & VRAM__CONTIG ? vram__tensor_none() : vram__tensor_contiguous(s, c);
    y = vram__tensor_empty(s, vram__dims_in(s, x.d->ndim, x.d->v, NULL), x.dt);
    vram__tensor_release(s, c);
    if (t.d)
      mid[i - 1] = t;
    t = y;
  }
  for (i = times - 1; i-- > 0;)
    vram__tensor_release(s, mid[i]);
  return t;
}

static void vram__forward_roll(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  uint32_t c;
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  vram__node_list(n, VRAM__KEY_dims, &c);
  if (!c)
    c = 1;
  if (f)
    f->aux = c;
  y[0] = vram__dims_rolled(s, x[0], c);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_roll(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__dims_rolled(s, VRAM__SLOTS(f)[0].g, (uint32_t)f->aux);
}

static void vram__forward_flip(vram__step *s, const vram_node *n, vram__tensor *x,
                               vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__tensor_empty(s, vram__dims_dense(s, x[0].d), x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_flip(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__tensor_empty(s, vram__dims_dense(s, g.d), g.dt);
}

/* A copy of x that is turned: flipped, and seen with two axes in each other's place. */
static vram__tensor vram__rotated(vram__step *s, const vram_node *n, vram__tensor x) {
  const int64_t k = VRAM__INT(n, k, 1) % 4, *v = vram__node_list(n, VRAM__KEY_dims, NULL);
  const vram_dims *d = k ? vram__dims_dense(s, x.d) : vram__dims_contiguous(s, x.d);
  uint32_t a, b;
  vram__axis((vram_graph *)0, v[0], d->ndim, &a);
  vram__axis((vram_graph *)0, v[1], d->ndim, &b);
  return vram__tensor_empty(s, k % 2 ? vram__dims_swapped(s, d, a, b) : d, x.dt);
}

static void vram__forward_rot90(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, n->op, x, 1, 1, 0);
  y[0] = vram__rotated(s, n, x[0]);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_rot90(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__rotated(s, f->node, VRAM__SLOTS(f)[0].g);
}

static void vram__forward_repeat(vram__step *s, const vram_node *n, vram__tensor *x,
                                 vram__tensor *y) {
  vram__grad_fn *f = vram__tape_record(s, VRAM_OP_repeat, x, 1, 1, 0);
  y[0] = vram__tensor_empty(s, n->out[0].d, x[0].dt);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

/* repeat_backward: new axes are summed one by one, the others in one go */
static void vram__backward_repeat(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__input_dims(s, f, 0, NULL);
  int64_t size[2 * VRAM_MAX_AXES];
  uint32_t i, m = 0, mask = 0, k = g.d->ndim - (uint32_t)d->ndim;
  if (!g.d->numel && d->numel) { /* repeated not once */
    to[0] = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
    return;
  }
  t = vram__tensor_retain(s, g);
  for (i = 0; i < k; i++) {
    vram__tensor sum = vram__tensor_sum(s, t, 1, 0, t.dt);
    vram__tensor_release(s, t);
    t = sum;
  }
  for (i = 0; i < d->ndim; i++) {
    int64_t r = d->v[i] ? t.d->v[i] / d->v[i] : 1;
    if (r != 1) {
      mask |= 1u << m;
      size[m++] = r;
    }
    size[m++] = d->v[i];
  }
  if (m > VRAM_MAX_AXES) {
    vram__tensor_release(s, t);
    t = vram__tensor_empty(s, vram__dims_contiguous(s, d), g.dt);
  } else if (mask) {
    vram__tensor u = vram__tensor_reshape(s, t, m, size), sum;
    sum = vram__tensor_sum(s, u, mask, 0, t.dt);
    vram__tensor_release(s, u);
    vram__tensor_release(s, t);
    t = sum;
  }
  to[0] = t;
}

/* TensorFactories: unsqueeze, expand, clone, flatten */
static void vram__forward_repeat_interleave(vram__step *s, const vram_node *n, vram__tensor *x,
                                            vram__tensor *y) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t a = 0, i, ndim;
  vram__tensor t, u;
  if (vram__node_list(n, VRAM__KEY_dim, NULL)) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
    t = vram__tensor_retain(s, x[0]);
  } else {
    size[0] = (int64_t)x[0].d->numel;
    t = vram__torch_reshape(s, x[0], 1, size);
  }
  ndim = t.d->ndim;
  u = vram__torch_unsqueeze(s, t, a + 1);
  vram__tensor_release(s, t);
  for (i = 0; i <= ndim; i++)
    size[i] = i == a + 1 ? vram__node_int(n, VRAM__KEY_repeats, 1) : u.d->v[i];
  t = vram__torch_expand(s, u, ndim + 1, size);
  vram__tensor_release(s, u);
  u = vram__torch_clone(s, t, vram__dims_in(s, ndim + 1, size, NULL));
  vram__tensor_release(s, t);
  y[0] = vram__torch_view_as(s, u, n->out[0].d, VRAM__K_view, 0);
  vram__tensor_release(s, u);
}

static void vram__forward_contiguous(vram__step *s, const vram_node *n, vram__tensor *x,
                                     vram__tensor *y) {
  (void)n;
  y[0] = vram__torch_contiguous(s, x[0]);
}

static void vram__forward_clone(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  (void)n;
  y[0] = vram__torch_clone(s, x[0], vram__dims_dense(s, x[0].d));
}

VRAM__FN void vram__backward_clone(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  to[0] = vram__tensor_retain(s, VRAM__SLOTS(f)[0].g);
}

/* autocast=0: the program converts only where autocast is off, =1: to the dtype of autocast. */
static void vram__forward_to(vram__step *s, const vram_node *n, vram__tensor *x, vram__tensor *y) {
  const int where = (int)VRAM__INT(n, autocast, -1);
  vram_dtype dt = n->nin == 1 ? vram__step_key_dtype(s, n, x[0].dt) : x[1].dt;
  if (s->amp && where == 0)
    dt = x[0].dt;
  else if (s->amp && where == 1 && vram__dtype_is_float(dt) && dt != VRAM_F64)
    dt = s->amp;
  y[0] = vram__torch_cast(s, x[0], dt);
}

/* FunctionsManual.cpp, _to_copy_backward: of complex numbers the real parts, a view */
VRAM__FN void vram__backward_cast(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = vram__tensor_retain(s, VRAM__SLOTS(f)[0].g);
  vram_dtype dt;
  vram__input_dims(s, f, 0, &dt);
  if (vram__is_complex(g.dt) && !vram__is_complex(dt))
    g = vram__complex_real(s, g);
  to[0] = vram__tensor_to(s, g, dt);
  vram__tensor_release(s, g);
}

#endif /* VRAM_NO_STEP */

VRAM__OP(cat, "cat concat concatenate: xs dim?", 1, 65535, cat, SAME, none, cat, cat, each, CAT, 0,
         VRAM__OP_ANY_DTYPE, "dim");
VRAM__OP(stack, "stack: xs dim?", 1, 65535, stack, SAME, none, cat, cat, each, ANY,
         VRAM__COPY_STACK, VRAM__OP_ANY_DTYPE, "dim");
VRAM__OP(roll, "roll: x shifts dims", 1, 1, roll, SAME, none, roll, roll, each, ANY,
         VRAM__COPY_ROLL, VRAM__OP_ANY_DTYPE, "shifts! dims");
VRAM__OP(flip, "flip: x *dims", 1, 1, roll, SAME, none, flip, flip, each, ANY, 0,
         VRAM__OP_ANY_DTYPE, "dims!");
VRAM__OP(rot90, "", 1, 1, rot90, SAME, none, rot90, rot90, each, NONE, 0, 0, "k dims!");
VRAM__OP(repeat, "", 1, 1, repeat, SAME, none, repeat, repeat, each, EXPAND, VRAM__COPY_REPEAT,
         VRAM__OP_ANY_DTYPE, "repeats!");
VRAM__OP(tile, "", 1, 1, repeat, SAME, none, repeat, repeat, each, EXPAND, VRAM__COPY_TILE,
         VRAM__OP_ANY_DTYPE, "dims!");
VRAM__OP(repeat_interleave, "", 1, 1, repeat_interleave, SAME, none, repeat_interleave, none, each,
         ANY, 0, VRAM__OP_ANY_DTYPE, "repeats! dim");
VRAM__OP(contiguous, "", 1, 1, same, SAME, none, contiguous, none, each, SAME, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE | VRAM__OP_ANY_LAYOUT, "");
VRAM__OP(clone, "clone", 1, 1, same, SAME, none, clone, clone, each, SAME, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE | VRAM__OP_ANY_LAYOUT, "");
VRAM__OP(to, "", 1, 1, to, SAME, none, to, none, each, SAME, 0,
         VRAM__OP_ALIAS | VRAM__OP_ANY_DTYPE | VRAM__OP_ANY_LAYOUT, "dtype autocast");
VRAM__OP(type_as, "", 2, 2, same, SAME, none, to, none, each, SAME, 0, 0, "");
