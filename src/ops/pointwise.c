/* >>ops/pointwise    ops of one kernel without neighbours, played from recipes; comparisons,
   where, masked_fill */
#include "ops/ops.h"

VRAM__FN int vram__shape_same(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram_dtype dt = n->in[0]->dtype;
  uint32_t i, c = 0, a;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &c);
  for (i = 0; v && i < c; i++)
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
  if (n->nin > 1) /* type_as, softmax */
    dt = n->in[1]->dtype;
  else if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = vram__graph_key_dtype(g, n, dt);
  if (vram__kind_rank(dt) < 2 || n->op == VRAM_OP_abs) {
    vram__promote p;
    vram__memory_zero(&p, sizeof p);
    vram__promote_add(&p, dt, n->in[0]->d->ndim);
    dt = vram__promote_result(n->op, 1, &p);
    if ((n->flags & VRAM__INPLACE) && dt != n->in[0]->dtype)
      return vram__node_error(g, n, "in place, but the result has another dtype");
  }
  vram__node_out_dims(n, 0, x, dt);
  return 1;
}

/* What an op asks of the inputs that are broadcast. Inputs [*first, *first + *count) decide about
   the dtype. */
static int vram__bcast_fits(vram_graph *g, const vram_node *n, uint32_t *first, uint32_t *count) {
  const vram_dtype dt = n->in[0]->dtype;
  uint32_t i;
  switch (n->op) {
  case VRAM_OP_where:
    if (dt != VRAM_BOOL && dt != VRAM_U8)
      return vram__node_error(g, n, "the condition is not bool");
    *first = 1;
    --*count;
    return 1;
  case VRAM_OP_masked_fill:
    if (n->in[1]->dtype != VRAM_BOOL)
      return vram__node_error(g, n, "the mask is not bool");
    if (n->nin > 2 && n->in[2]->d->ndim)
      return vram__node_error(g, n, "the value is not a number");
    *count = 1;
    return 1;
  case VRAM_OP_lerp:
    for (i = 1; i < n->nin; i++)
      if (n->in[i]->dtype != dt)
        return vram__node_error(g, n, "lerp of different dtypes");
    return 1;
  case VRAM_OP_addcdiv:
    if (vram__kind_rank(n->in[1]->dtype) < 2 && vram__kind_rank(n->in[2]->dtype) < 2)
      return vram__node_error(g, n, "a quotient of integers");
    break;
  case VRAM_OP_logical_not:
    return 1;
  case VRAM_OP_sub:
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->dtype == VRAM_BOOL)
        return vram__node_error(g, n, "sub of a bool tensor");
    break;
  default:
    break;
  }
  if (n->nin == 1 && !VRAM__INT(n, scalar, 0))
    return vram__node_error(g, n,
                            "one tensor where two are needed (the other one a number: scalar=1)");
  return 1;
}

static int vram__any_float(const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    if (vram__kind_rank(n->in[i]->dtype) >= 2)
      return 1;
  return 0;
}

static vram_dtype vram__bcast_dtype(const vram_node *n, uint32_t first, uint32_t count) {
  vram__promote p;
  uint32_t i;
  if (!vram__node_list(n, VRAM__KEY_rounding_mode, NULL))
    return vram__promote_all(n, first, count);
  vram__memory_zero(&p, sizeof p); /* div that rounds stays with integers */
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
  return vram__promote_get(&p);
}

VRAM__FN int vram__shape_bcast(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  const int inplace = (n->flags & VRAM__INPLACE) != 0;
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim, i, first = 0, count = n->nin;
  vram_dtype dt;
  if (!vram__bcast_fits(g, n, &first, &count))
    return 0;
  dt = vram__bcast_dtype(n, first, count);
  if (dt == VRAM_BOOL &&
      (n->op == VRAM_OP_pow || n->op == VRAM_OP_floor_divide || n->op == VRAM_OP_remainder ||
       vram__node_list(n, VRAM__KEY_rounding_mode, NULL)))
    return vram__node_error(g, n, "a tensor of bools");
  if (vram__kind_rank(dt) < 2 && n->op == VRAM_OP_where && n->nin < 3)
    dt = VRAM_F32; /* the other one is 0.0 */
  if ((n->op == VRAM_OP_hypot || n->op == VRAM_OP_logaddexp || n->op == VRAM_OP_addcdiv) &&
      !vram__any_float(n))
    return vram__node_error(g, n, "tensors that are not floating point");
  if (vram__kind_rank(dt) == 3 && vram__node_list(n, VRAM__KEY_rounding_mode, NULL))
    return vram__node_error(g, n, "complex numbers are not rounded");
  if (inplace && vram__kind_rank(dt) > vram__kind_rank(n->in[0]->dtype))
    return vram__node_error(g, n, "in place, but the result has a higher dtype");
  if (inplace)
    dt = n->in[0]->dtype;
  if (n->op != VRAM_OP_cross && (n->nin == 1 || (n->nin == 2 && x == n->in[1]->d)))
    return vram__node_out_dims(n, 0, x, dt);
  if (!vram__dims_broadcast_all(g, n, 0, &ndim, size))
    return 0;
  if (n->op == VRAM_OP_cross &&
      (!vram__axis(g, VRAM__INT(n, dim, -1), ndim, &i) || (ndim && size[i] != 3)))
    return vram__node_error(g, n, "an axis of cross that has not three elements");
  for (i = 0; inplace && i < ndim; i++)
    if (ndim != x->ndim || size[i] != x->v[i])
      return vram__node_error(g, n, "in place, but the result has another shape");
  return vram__node_out(g, n, 0, ndim, size, dt);
}

#ifndef VRAM_NO_STEP

typedef struct vram__args {
  vram__tensor *x;
  vram__tensor w, b; /* weight and bias; d NULL: none */
  uint32_t own;      /* which of x, w, b are the op's own copies (autocast): bits */
} vram__args;

/* Inputs and parameters of a node, cast where autocast's list says so, the last one first. */
VRAM__FN void vram__node_weights(vram__step *s, const vram_node *n, vram__tensor *w,
                                 vram__tensor *b) {
  *w = *b = vram__tensor_none();
  if (n->nin > 1) {
    *w = s->variable[s->name_of[n->in[1]->index]].t;
    if (n->nin > 2)
      *b = s->variable[s->name_of[n->in[2]->index]].t;
    return;
  }
  if (n->param[0])
    *w = s->param[n->param[0]->index];
  if (n->param[1])
    *b = s->param[n->param[1]->index];
}

/* A pointwise op with autograd; nin 1: of one tensor, or of one and a number. */
VRAM__FN vram__tensor vram__torch_pointwise(vram__step *s, uint32_t kind, const vram__tensor *in,
                                            uint32_t nin) {
  const uint32_t plan = vram__recipe_plan(s, kind, 0);
  vram__grad_fn *f = (plan & VRAM__PLAN_GRADIENT) || kind == VRAM_OP_floor_divide
                         ? vram__tape_record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan))
                         : NULL;
  const vram_dims *d[3] = {NULL, NULL, NULL};
  uint32_t i, op = kind == VRAM__K_pow_tensor ? (uint32_t)VRAM_OP_pow : kind;
  vram_dtype dt = in[0].dt;
  int same = dt == VRAM_F32 || vram__kind_rank(dt) >= 2;
  vram__tensor y, cast = vram__tensor_none();
  for (i = 0; i < nin; i++) {
    d[i] = in[i].d;
    if (in[i].dt != dt)
      same = 0;
  }
  if (!same) {
    vram__promote pr;
    vram__memory_zero(&pr, sizeof pr);
    for (i = 0; i < nin; i++)
      vram__promote_add(&pr, in[i].dt, in[i].d->ndim);
    dt = vram__promote_result(op, nin, &pr);
    if (vram__kind_rank(in[0].dt) < 2 && dt == VRAM_F32)
      dt = vram__step_dtype(s, vram__graph_default_dtype(s->g));
  }
  switch (nin == 1 ? op : (uint32_t)VRAM_OP_COUNT) {
  case VRAM_OP_abs:
    d[0] = vram__dims_pointwise(s, d, nin);
    if (vram__is_complex(dt))
      dt = vram__real_of(dt);
    break;
  case VRAM_OP_pow: /* Pow.cpp: base.to(common_dtype) */
  case VRAM_OP_square:
    d[0] = vram__dims_pointwise1(s, d[0]);
    if (dt != in[0].dt)
      cast = vram__tensor_to(s, in[0], dt);
    break;
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_div:
  case VRAM_OP_floor_divide:
    d[0] = vram__dims_pointwise_number(s, d[0]);
    break;
  default:
    d[0] = vram__dims_pointwise(s, d, nin);
  }
  y = vram__tensor_empty(s, d[0], dt);
  if (op == VRAM_OP_abs && dt != in[0].dt) /* the kernel gives complex numbers */
    vram__tensor_release(s, vram__tensor_empty(s, d[0], in[0].dt));
  if (op == VRAM_OP_rpow) /* Pow.cpp: the number becomes a tensor */
    vram__workspace_use(s, 8);
  vram__tensor_release(s, cast);
  if (f)
    vram__recipe_save(s, f, vram__recipe_letters(plan, f), in, nin, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The op and its arguments choose the recipe. */
static uint32_t vram__pointwise_kind(const vram__step *s, const vram_node *n) {
  switch (n->op) {
  case VRAM_OP_add:
  case VRAM_OP_sub:
    if (n->nin > 1 && VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE)
      return n->op == VRAM_OP_add ? (uint32_t)VRAM__K_add_alpha : (uint32_t)VRAM__K_sub_alpha;
    break;
  case VRAM_OP_div:
    if (vram__node_list(n, VRAM__KEY_rounding_mode, NULL))
      return VRAM__K_div_rounded;
    break;
  case VRAM_OP_pow:
    if (n->nin > 1)
      return VRAM__K_pow_tensor;
    break;
  case VRAM_OP_maximum:
  case VRAM_OP_minimum:
    if ((s->device.rules->does & VRAM__MASK_LAST))
      return VRAM__K_extremum;
    break;
  case VRAM_OP_lerp:
    if (n->nin > 2)
      return VRAM__K_lerp_tensor;
    break;
  case VRAM_OP_clamp:
    if (vram__node_list(n, VRAM__KEY_min, NULL) && vram__node_list(n, VRAM__KEY_max, NULL))
      return VRAM__K_clamp_both;
    break;
  default:
    break;
  }
  return n->op;
}

/* A record that saves what it overwrites itself never runs. If it saves the very tensor that it
   makes, that one holds it for ever. */
static void vram__pointwise_hold_itself(vram__step *s, vram__grad_fn *f, uint32_t need,
                                        const vram__tensor *in, uint32_t nin) {
  uint32_t i;
  for (i = 1; i < nin; i++) {
    if (!(need >> i & 1) || !in[i].st || !in[0].st ||
        vram__slot_at(s, in[i].st)->base != vram__slot_at(s, in[0].st)->base)
      continue;
    f->aux |= VRAM__AUX_STALE;
    if (in[i].st == in[0].st)
      f->refs++;
  }
}

/* lerp takes tensors of one dtype; what div and its like do in place keeps the kind of number. */
static void vram__pointwise_refuse(vram__step *s, uint32_t kind, const vram__tensor *in,
                                   uint32_t nin) {
  if (kind == VRAM_OP_lerp || kind == VRAM__K_lerp_tensor)
    vram__refuse_unlike(s, in, nin);
}

VRAM__FN vram__tensor vram__pointwise_inplace(vram__step *s, uint32_t kind, const vram__tensor *in,
                                              uint32_t nin) {
  const uint32_t plan = vram__recipe_plan(s, kind, 1);
  vram__grad_fn *f = (plan & VRAM__PLAN_GRADIENT) || kind == VRAM_OP_floor_divide
                         ? vram__tape_record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan))
                         : NULL;
  const vram__tensor y = vram__tensor_retain(s, in[0]);
  if (f) {
    const uint32_t need = vram__recipe_letters(plan, f);
    if (need & 1) { /* what is overwritten is cloned before */
      vram__tensor old[3];
      uint32_t i;
      for (i = 1; i < nin; i++)
        old[i] = in[i];
      old[0] = vram__tensor_empty(s, vram__dims_dense(s, in[0].d), in[0].dt);
      vram__recipe_save(s, f, need, old, nin, y);
      vram__tensor_release(s, old[0]);
    } else
      vram__recipe_save(s, f, need, in, nin, y);
    f->aux |= VRAM__AUX_INPLACE;
    vram__pointwise_hold_itself(s, f, need, in, nin);
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* Autocast of an op on the `fp32` or the `widest` list: in[i] become handles of their own where
   bits of the result say so. */
VRAM__FN uint32_t vram__autocast_list(vram__step *s, uint32_t list, vram__tensor *in,
                                      uint32_t nin) {
  uint32_t i, own = 0;
  vram_dtype to = list == VRAM__AUTOCAST_fp32 ? VRAM_F32 : s->amp;
  if (!s->amp || (list != VRAM__AUTOCAST_fp32 && list != VRAM__AUTOCAST_widest))
    return 0;
  if (list == VRAM__AUTOCAST_widest)
    for (i = 0; i < nin; i++) { /* autocast_mode.h, prioritize */
      if (in[i].dt == VRAM_F32)
        to = VRAM_F32;
      else if (to != VRAM_F32 && in[i].dt != s->amp && vram__is_half(in[i].dt))
        vram__step_refuse(s, VRAM_ERR_UNSUPPORTED, s->node,
                          "a tensor of autocast's other 16 bit dtype: PyTorch refuses");
    }
  for (i = nin; i-- > 0;)
    if (in[i].dt != to) {
      in[i] = vram__autocast_cast(s, in[i], to);
      own |= 1u << i;
    }
  return own;
}

/* The op is done: what vram__autocast_list made for it goes. */
VRAM__FN void vram__autocast_release(vram__step *s, vram__tensor *in, uint32_t own) {
  uint32_t i;
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__tensor_release(s, in[i]);
}

VRAM__FN void vram__forward_pointwise(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  const uint32_t kind = vram__pointwise_kind(s, n);
  uint32_t i, own;
  vram__tensor in[3];
  vram__pointwise_refuse(s, kind, x, n->nin);
  if (n->flags & VRAM__INPLACE) {
    y[0] = vram__pointwise_inplace(s, kind, x, n->nin);
    return;
  }
  if (!s->amp) {
    y[0] = vram__torch_pointwise(s, kind, x, n->nin);
    return;
  }
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  own = vram__autocast_list(s, vram__op_at(n->op)->autocast, in, n->nin);
  y[0] = vram__torch_pointwise(s, kind, in, n->nin);
  vram__autocast_release(s, in, own);
}

/* Comparisons have no gradient. */
static void vram__forward_compare(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const vram_dims *d[2];
  d[0] = x[0].d;
  d[1] = n->nin > 1 ? x[1].d : NULL;
  y[0] = vram__tensor_empty(s,
                            n->nin > 1                     ? vram__dims_pointwise(s, d, 2)
                            : n->op == VRAM_OP_logical_not ? vram__dims_pointwise1(s, d[0])
                                                           : vram__dims_pointwise_number(s, d[0]),
                            VRAM_BOOL);
}

/* TensorCompare.cpp, where: operands of another dtype than the result are converted first; a number
   becomes a tensor. */
static void vram__forward_where(vram__step *s, const vram_node *n, vram__tensor *x,
                                vram__tensor *y) {
  vram__tensor a = x[1], b, ca = vram__tensor_none(), cb = vram__tensor_none(),
               number = vram__tensor_none();
  const vram_dims *d[3];
  vram__grad_fn *f;
  vram_dtype dt;
  if (n->nin < 3) /* 0.0: an integer becomes a floating-point number */
    b = number = vram__tensor_empty(
        s, s->scalar,
        vram__kind_rank(a.dt) < 2 ? vram__step_dtype(s, vram__graph_default_dtype(s->g)) : a.dt);
  else
    b = x[2];
  {
    vram__tensor in[2];
    in[0] = a;
    in[1] = b;
    f = vram__tape_record(s, n->op, in, 2, 1, 1);
  }
  if (f)
    vram__save_tensor(s, f, x[0]);
  dt = vram__promote_pair(a, b);
  if (a.dt != dt)
    a = ca = vram__tensor_to(s, a, dt);
  if (b.dt != dt)
    b = cb = vram__tensor_to(s, b, dt);
  d[0] = x[0].d;
  d[1] = a.d;
  d[2] = b.d;
  y[0] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 3), dt);
  vram__tensor_release(s, cb);
  vram__tensor_release(s, ca);
  vram__tensor_release(s, number);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_where(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g, c = VRAM__SAVED(f)[0];
  const vram_dims *d[3];
  uint32_t i;
  for (i = 2; i-- > 0;) {
    vram__tensor zero;
    if (!vram__input_wanted(f, i))
      continue;
    zero = vram__tensor_empty(s, s->scalar, g.dt);
    d[0] = c.d;
    d[1] = i ? zero.d : g.d;
    d[2] = i ? g.d : zero.d;
    to[i] = vram__tensor_empty(s, vram__dims_pointwise(s, d, 3), g.dt);
    vram__tensor_release(s, zero);
  }
}

/* Indexing.cpp, masked_fill: a contiguous copy of x, expanded to the mask's shape */
static vram__tensor vram__masked_dims(vram__step *s, vram__tensor x, const vram_dims *mask) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, ndim = x.d->ndim;
  for (i = 0; i < ndim; i++)
    size[i] = x.d->v[i];
  vram__dims_broadcast(&ndim, size, mask);
  return vram__tensor_empty(s, vram__dims_in(s, ndim, size, NULL), x.dt);
}

static void vram__forward_masked_fill(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  vram__tensor in[2];
  vram__grad_fn *f;
  in[0] = x[0];
  if (n->nin > 2)
    in[1] = x[2];
  f = vram__tape_record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save_tensor(s, f, x[1]);
  if (n->flags & VRAM__INPLACE) {
    y[0] = vram__tensor_retain(s, x[0]);
    vram__grad_fn_set_output(s, f, 0, &y[0]);
    return;
  }
  y[0] = vram__masked_dims(s, x[0], x[1].d);
  vram__grad_fn_set_output(s, f, 0, &y[0]);
}

static void vram__backward_masked_fill(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor g = VRAM__SLOTS(f)[0].g;
  if (vram__input_wanted(f, 0))
    to[0] = vram__masked_dims(s, g, VRAM__SAVED(f)[0].d);
  if (f->nin > 1 &&
      vram__input_wanted(f, 1)) { /* masked_fill_backward: the sum of what was filled */
    const int64_t all = (int64_t)g.d->numel;
    const vram_dims *d = vram__dims_in(s, 1, &all, NULL);
    vram__tensor t = vram__torch_masked_select(s, g, VRAM__SAVED(f)[0], d, d);
    to[1] = vram__tensor_sum(s, t, 1, 0, t.dt);
    vram__tensor_release(s, t);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP_POINTWISE(add, "add", 1, 2, bcast, NUMBER, none, ADD, 0, "scalar inplace alpha",
                   "x1: grad; x0: grad");
VRAM__OP_POINTWISE(sub, "sub subtract", 1, 2, bcast, NUMBER, none, ADD, VRAM__OP_NUMBERS,
                   "scalar inplace alpha", "x1: neg(grad); x0: grad");
VRAM__OP_POINTWISE(mul, "mul multiply ~lshift ~rshift ~bitwise_left_shift ~bitwise_right_shift", 1,
                   2, bcast, NUMBER, none, MUL, 0, "scalar inplace",
                   "x1: mul(grad, x0); x0: mul(grad, x1)");
VRAM__OP_POINTWISE(div, "div divide true_divide truediv", 1, 2, bcast, FLOAT, none, MUL, 0,
                   "scalar inplace rounding_mode",
                   "x1: mul_rtl(neg(grad), div(div(x0, x1), x1)); x0: div(grad, x1)");
VRAM__OP_POINTWISE(floor_divide, "floor_divide floordiv", 1, 2, bcast, NUMBER, none, ADD,
                   VRAM__OP_REAL, "scalar inplace", "");
VRAM__OP_POINTWISE(pow, "pow", 1, 2, bcast, POW, fp32, MUL, 0, "scalar inplace",
                   "x0: mul(grad, scaled(powered(x0)))");
VRAM__OP_POINTWISE(maximum, "maximum", 2, 2, bcast, SAME, none, ADD, VRAM__OP_REAL, "",
                   "x1: with(compare(x0, x1), where_rtl(compare(x0, x1), scaled(grad), grad)); x0: "
                   "with(compare(x0, x1), where_rtl(compare(x0, x1), scaled(grad), grad))");
VRAM__OP_POINTWISE(minimum, "minimum", 2, 2, bcast, SAME, none, ADD, VRAM__OP_REAL, "",
                   "x1: with(compare(x0, x1), where_rtl(compare(x0, x1), scaled(grad), grad)); x0: "
                   "with(compare(x0, x1), where_rtl(compare(x0, x1), scaled(grad), grad))");
VRAM__OP(where, "", 2, 3, bcast, SAME, none, where, where, each, ANY, 0, 0, "scalar");
VRAM__OP(masked_fill, "", 2, 3, bcast, SAME, none, masked_fill, masked_fill, each, ANY, 0, 0,
         "inplace scalar");
VRAM__OP_POINTWISE(lerp, "", 2, 3, bcast, SAME, none, ANY, VRAM__OP_FLOATS, "scalar inplace",
                   "x1: scaled(grad); x0: scaled(grad)");
VRAM__OP_POINTWISE(addcmul, "addcmul: x a b", 3, 3, bcast, SAME, widest, ANY, 0, "inplace",
                   "x0: grad; x1: mul(grad, scaled(x2)); x2: mul(grad, scaled(x1))");
VRAM__OP_POINTWISE(exp, "exp", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: mul(grad, y)");
VRAM__OP_POINTWISE(log, "log", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: div(grad, x0)");
VRAM__OP_POINTWISE(sqrt, "sqrt", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: div(grad, scaled(y))");
VRAM__OP_POINTWISE(rsqrt, "rsqrt", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(scaled(grad), powered(y))");
VRAM__OP_POINTWISE(abs, "abs absolute", 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, sign(x0))");
VRAM__OP_POINTWISE(neg, "neg negative", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS, "inplace", "x0: neg(grad)");
VRAM__OP_POINTWISE(square, "square", 1, 1, same, NUMBER, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "inplace", "x0: mul(grad, scaled(powered(x0)))");
VRAM__OP_POINTWISE(sin, "sin", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: mul(grad, cos(x0))");
VRAM__OP_POINTWISE(cos, "cos", 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: mul(grad, neg(sin(x0)))");
VRAM__OP_POINTWISE(erf, "erf", 1, 1, same, FLOAT, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace",
                   "x0: mul(scaled(exp(neg(powered(x0)))), grad)");
VRAM__OP_POINTWISE(sign, "sign", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL, "inplace", "x0: zeros_like(grad)");
VRAM__OP_POINTWISE(round, "round floor ceil trunc fix", 1, 1, same, SAME, none, ACTIVATION,
                   VRAM__OP_ANY_LAYOUT | VRAM__OP_NUMBERS | VRAM__OP_REAL, "inplace",
                   "x0: zeros_like(grad)");
VRAM__OP_POINTWISE(clamp, "", 1, 1, same, SAME, none, CLAMP, VRAM__OP_ANY_LAYOUT | VRAM__OP_REAL,
                   "min max inplace", "x0: where_rtl(compare_number(x0), grad, zero)");
VRAM__OP(eq, "eq", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(ne, "ne not_equal", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(lt, "lt less", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, VRAM__OP_REAL,
         "scalar");
VRAM__OP(le, "le less_equal", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, VRAM__OP_REAL,
         "scalar");
VRAM__OP(gt, "gt greater", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, VRAM__OP_REAL,
         "scalar");
VRAM__OP(ge, "ge greater_equal", 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0,
         VRAM__OP_REAL, "scalar");
VRAM__OP(logical_and, "logical_and bitwise_and and ~logical_xor ~bitwise_xor ~xor", 2, 2, bcast,
         BOOL, none, compare, none, each, NONE, 0, 0, "");
VRAM__OP(logical_or, "logical_or bitwise_or or", 2, 2, bcast, BOOL, none, compare, none, each, NONE,
         0, 0, "");
VRAM__OP(logical_not, "logical_not ~bitwise_not ~invert ~isnan ~signbit ~isposinf ~isneginf", 1, 1,
         bcast, BOOL, none, compare, none, each, NONE, 0, 0, "");
VRAM__OP_POINTWISE(
    logaddexp, "logaddexp logaddexp2", 2, 2, bcast, FLOAT, none, NONE, 0, "",
    "x1: div(grad, shifted(exp(sub(x0, x1)))); x0: div(grad, shifted(exp(sub(x1, x0))))");
VRAM__OP_POINTWISE(tan, "tan", 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x0: mul(grad, shifted(powered(y)))");
