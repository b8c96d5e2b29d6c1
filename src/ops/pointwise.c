/* >>ops/pointwise    ops of one kernel without neighbours, played from recipes; comparisons,
   where, masked_fill */
#include "ops/ops.h"

VRAM__FN int vram__shape_same(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t dt = n->in[0]->dtype;
  uint32_t i, c = 0, a;
  const int64_t *v = vram__node_list(n, VRAM__KEY_dim, &c);
  for (i = 0; v && i < c; i++)
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
  if (n->op == VRAM_OP_type_as)
    dt = n->in[1]->dtype;
  else if (vram__node_list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  if (vram__kind_rank(dt) < 2 && !(n->flags & VRAM__INPLACE)) {
    vram__promote p;
    vram__memory_zero(&p, sizeof p);
    vram__promote_add(&p, dt, n->in[0]->d->ndim);
    dt = vram__promote_result(n->op, 1, &p);
  }
  vram__node_out_dims(n, 0, x, dt);
  return 1;
}

static int vram__shape_bcast(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim, i, first = 0, count = n->nin;
  const vram_dims *x = n->in[0]->d;
  int number = VRAM__INT(n, scalar, 0) != 0,
      rounded = vram__node_list(n, VRAM__KEY_rounding_mode, NULL) != NULL;
  uint8_t dt = n->in[0]->dtype;
  switch (n->op) {
  case VRAM_OP_where:
    if (dt != VRAM_BOOL && dt != VRAM_U8)
      return vram__node_error(g, n, "the condition is not bool");
    first = 1, count--;
    break;
  case VRAM_OP_masked_fill:
    if (n->in[1]->dtype != VRAM_BOOL)
      return vram__node_error(g, n, "the mask is not bool");
    if (n->nin > 2 && n->in[2]->d->ndim)
      return vram__node_error(g, n, "the value is not a number");
    count = 1;
    break;
  case VRAM_OP_lerp:
    for (i = 1; i < n->nin; i++)
      if (n->in[i]->dtype != dt)
        return vram__node_error(g, n, "lerp of different dtypes");
    break;
  case VRAM_OP_logical_not:
    break;
  case VRAM_OP_sub:
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->dtype == VRAM_BOOL)
        return vram__node_error(g, n, "sub of a bool tensor");
    /* fall through */
  default:
    if (n->nin == 1 && !number)
      return vram__node_error(g, n,
                              "one tensor where two are needed (the other one a number: scalar=1)");
  }
  dt = vram__promote_all(n, first, count);
  if (rounded && n->op == VRAM_OP_div) {
    vram__promote p;
    vram__memory_zero(&p, sizeof p);
    for (i = 0; i < n->nin; i++)
      vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
    dt = vram__promote_get(&p);
  }
  if ((n->flags & VRAM__INPLACE) && vram__kind_rank(dt) > vram__kind_rank(n->in[0]->dtype))
    return vram__node_error(g, n, "in place, but the result has a higher dtype");
  if (n->nin == 1 || (n->nin == 2 && x == n->in[1]->d))
    return vram__node_out_dims(n, 0, x, n->flags & VRAM__INPLACE ? n->in[0]->dtype : dt);
  if (!vram__dims_broadcast_all(g, n, 0, &ndim, size))
    return 0;
  if (n->flags & VRAM__INPLACE) {
    if (ndim != x->ndim)
      return vram__node_error(g, n, "in place, but the result has another shape");
    for (i = 0; i < ndim; i++)
      if (size[i] != x->v[i])
        return vram__node_error(g, n, "in place, but the result has another shape");
    dt = n->in[0]->dtype;
  }
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

/* ---- pointwise ops: see the comment at the table ---- */

static const char *vram__op_recipe(uint32_t kind, int inplace) {
  static const char *const variant[] = {
#define VRAM__X(name, recipe) recipe,
      VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
  };
  const char *p = kind < VRAM_OP_COUNT ? vram__op_at(kind)->recipe
                                       : variant[kind - VRAM__K_VARIANTS],
             *q;
  for (q = p; inplace && *q; q++)
    if (*q == ';' && q[1] == ' ' && q[2] == 'i') {
      q += 11; /* behind "; inplace: " */
      return *q == 'c' ? p : q;
    }
  return p;
}

static uint32_t vram__recipe_letter(char c) {
  switch (c) {
  case 'x':
    return 0;
  case 'w':
    return 1;
  case 'b':
    return 2;
  case 'y':
    return 3;
  case 'm':
    return 4;
  default:
    return 9;
  }
}

/* A recipe in short. Bits 5i..5i+4: the letters that the gradient of input i needs (x w b y
   m), 15..19: those that are saved in any case. */
#define VRAM__PLAN_KNOWN 0x100000u
#define VRAM__PLAN_GRADIENT 0x200000u        /* there is one */
#define VRAM__PLAN_PASS 0x400000u            /* each gradient is g itself */
#define VRAM__PLAN_PRODUCT 0x800000u         /* of one input: g times letter 24..26, */
#define VRAM__PLAN_SWAP 0x8000000u           /* which comes first */
#define VRAM__PLAN_ROOM(plan) ((plan) >> 28) /* how many letters there are */

VRAM__COLD VRAM__FN uint32_t vram__recipe_plan_make(uint32_t kind, int inplace) {
  const char *p = vram__op_recipe(kind, inplace), *from = p;
  uint32_t plan = VRAM__PLAN_KNOWN, here = 0, seen = 0, at = 0, n = 0, pass = 1, parts = 0;
  if (*p)
    plan |= VRAM__PLAN_GRADIENT;
  for (; *p; p++) {
    uint32_t bit = vram__recipe_letter(*p);
    if (bit < 3 && p[1] == ':') {
      at = bit;
      p++;
    } else if (bit < 9)
      here |= 1u << bit;
    else if (*p == '*' || *p == 'g' || *p == '=')
      n++;
    else if (*p != ' ' && *p != ';')
      n += 100;
    if (p[1] == ';' || !p[1]) { /* the end of one gradient */
      plan |= here << 5 * at | ((seen & here) | (here & 24)) << 15;
      pass &= !here && n == 2;
      parts++;
      seen |= here;
      if (p[1] && p[3] == 'i')
        break;
      if (p[1])
        n = here = 0;
    }
  }
  if (pass)
    plan |= VRAM__PLAN_PASS;
  else if (parts == 1 && n == 2 && !at && (here == 1 || here == 8)) {
    plan |= VRAM__PLAN_PRODUCT | (uint32_t)(here == 8 ? 3 : 0) << 24;
    plan |= from[3] == 'g' ? 0 : VRAM__PLAN_SWAP;
  }
  for (n = 0; n < 5; n++)
    plan += (seen >> n & 1) << 28;
  return plan;
}

/* Which letters f saves: x w b y m as bits 0..4. */
VRAM__FN uint32_t vram__recipe_letters(uint32_t plan, vram__grad_fn *f) {
  uint32_t need = plan >> 15, i;
  for (i = 0; i < f->nin; i++)
    if (vram__input_wanted(f, i))
      need |= plan >> 5 * i;
  return need & 31;
}

VRAM__FN void vram__recipe_save(vram__step *s, vram__grad_fn *f, uint32_t need,
                                const vram__tensor *in, uint32_t nin, vram__tensor y) {
  uint32_t i;
  vram__tensor m;
  f->aux = 0;
  for (i = need & 7 ? 0 : 3; need >> i; i++) {
    const vram__tensor *t = i < 3 ? in + i : i == 3 ? &y : &m;
    if (!(need >> i & 1) || (i < 3 && i >= nin))
      continue;
    if (i == 4) {
      const int64_t zero = 0;
      m = y;
      m.st = 0;
      m.d = vram__dims_in(s, 1, &zero, NULL);
    }
    f->aux |= (uint64_t)(f->nsaved + 1u) << (4 * i);
    vram__save_tensor(s, f, *t);
  }
}

#define VRAM__AUX_INPLACE (UINT64_C(1) << 63)

/* A tensor of dims d: t itself if nobody else has it, else a fresh one. */
VRAM__FN vram__tensor vram__recipe_cast_over(vram__step *s, vram__tensor t, const vram_dims *d,
                                             uint8_t dt) {
  if (t.st && t.dt == dt && t.d->numel == d->numel && (s->top - t.st)->refs == 1 &&
      (s->top - (s->top - t.st)->base)->srefs == 1) {
    t.fn = 0;
    return vram__tensor_retain(s, t);
  }
  return vram__tensor_empty(s, vram__dims_dense(s, d), dt);
}

static void vram__backward_recipe(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  vram__tensor stack[12], own[16], g = VRAM__SLOTS(f)[0].g, t;
  uint32_t n = 0, nown = 0, at = 0, on = 0, k;
  const vram_dims *d[3];
  const char *p = vram__op_recipe(f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  for (;; p++) {
    uint32_t bit = vram__recipe_letter(*p);
    if (bit < 3 && p[1] == ':') {
      at = bit;
      on = bit < f->nin && vram__input_wanted(f, bit);
      p++;
      continue;
    }
    if (*p == ';' || !*p) {
      if (on && nown) {
        to[at] = own[--nown];
        while (nown)
          vram__tensor_release(s, own[--nown]);
        s->registers = 0;
        if (s->ideal && !to[at].st) /* one kernel, which writes over g where it can */
          to[at] = vram__recipe_cast_over(s, g, to[at].d, to[at].dt);
      }
      n = nown = on = 0;
      s->registers = 0;
      if (!*p || p[2] == 'i')
        return;
    }
    if (!on)
      continue;
    s->registers = s->ideal;
    switch (*p) {
    case 'x':
    case 'w':
    case 'b':
    case 'y':
    case 'm':
      k = (uint32_t)(f->aux >> (4 * bit)) & 15;
      if (k)
        stack[n++] = VRAM__SAVED(f)[k - 1];
      else
        stack[n] = vram__tensor_none(), stack[n++].dt = 0xff; /* a number */
      continue;
    case 'g':
      stack[n++] = g;
      continue;
    case '0':
      stack[n++] = own[nown++] = vram__tensor_empty(s, s->scalar, g.dt);
      continue;
    case 'z':
      t = g;
      vram__input_dims(s, f, at, &t.dt);
      stack[n++] = own[nown++] = vram__pointwise_empty1(s, t);
      continue;
    case '>':
      t = stack[n - 1];
      if (t.dt != VRAM__SLOTS(f)[0].dt)
        stack[n - 1] = own[nown++] = vram__tensor_to(s, t, VRAM__SLOTS(f)[0].dt);
      continue;
    case '~':
    case '%':
    case '!':
      if (stack[n - 1].dt == 0xff)
        continue;
      t = stack[n - 1];
      t.d = *p == '~' ? vram__dims_pointwise1(s, t.d) : vram__dims_pointwise_number(s, t.d);
      stack[n - 1] = own[nown++] =
          vram__tensor_empty(s, t.d, *p == '!' ? (uint8_t)VRAM_BOOL : t.dt);
      continue;
    case '*':
    case '?':
      t = stack[--n];
      if (t.dt == 0xff || stack[n - 1].dt == 0xff)
        t = vram__pointwise_empty_number(s, t.dt == 0xff ? stack[n - 1] : t);
      else if (*p == '*')
        t = vram__pointwise_empty2(s, stack[n - 1], t);
      else {
        d[0] = stack[n - 1].d, d[1] = t.d;
        t = vram__tensor_empty(s, vram__dims_pointwise(s, d, 2), VRAM_BOOL);
      }
      stack[n - 1] = own[nown++] = t;
      continue;
    case '3': {
      vram__tensor *a = stack + (n -= 2) - 1;
      k = a[2].dt == VRAM_BOOL ? 2 : a[1].dt == VRAM_BOOL ? 1 : 0; /* at::where: condition first */
      d[0] = a[k].d, d[1] = a[k ? 0 : 1].d, d[2] = a[k == 2 ? 1 : 2].d;
      *a = own[nown++] =
          vram__tensor_empty(s, vram__dims_pointwise(s, d, 3), vram__promote_pair(a[1], a[2]));
      continue;
    }
    case '=':
      t = stack[n - 1];
      t.fn = 0;
      own[nown++] = vram__tensor_retain(s, t);
      continue;
    case '\'':
      n--;
      continue;
    case '^':
      t = stack[n - 1];
      stack[n - 1] = stack[n - 2];
      stack[n - 2] = t;
      continue;
    case '/':
      while (nown > 1) {
        vram__tensor_release(s, own[nown - 2]);
        own[nown - 2] = own[nown - 1];
        nown--;
      }
      continue;
    default:
      continue;
    }
  }
}

VRAM__FN void vram__backward_pointwise(vram__step *s, vram__grad_fn *f, vram__tensor *to) {
  const uint32_t plan = vram__recipe_plan(s, f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  const vram__tensor *g = &VRAM__SLOTS(f)[0].g;
  uint32_t i;
  if ((plan & VRAM__PLAN_PRODUCT) && !s->ideal) {
    const vram__tensor *t = VRAM__SAVED(f); /* the only one */
    to[0] = plan & VRAM__PLAN_SWAP ? vram__pointwise_empty2(s, *t, *g)
                                   : vram__pointwise_empty2(s, *g, *t);
  } else if (plan & VRAM__PLAN_PASS) {
    for (i = f->nin; i-- > 0;)
      if (vram__input_wanted(f, i)) {
        to[i] = *g;
        to[i].fn = 0;
        vram__slot_retain(s, g->st);
      }
  } else
    vram__backward_recipe(s, f, to);
}

/* A pointwise op with autograd; nin 1: of one tensor, or of one and a number. */
VRAM__FN vram__tensor vram__torch_pointwise(vram__step *s, uint32_t kind, const vram__tensor *in,
                                            uint32_t nin) {
  const uint32_t plan = vram__recipe_plan(s, kind, 0);
  vram__grad_fn *f = plan & VRAM__PLAN_GRADIENT
                         ? vram__tape_record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan))
                         : NULL;
  const vram_dims *d[3];
  uint32_t i, op = kind == VRAM__K_pow_tensor ? (uint32_t)VRAM_OP_pow : kind;
  uint8_t dt = in[0].dt;
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
      dt = s->low ? s->low : dt; /* the default dtype */
  }
  switch (nin == 1 ? op : (uint32_t)VRAM_OP_COUNT) {
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
  vram__tensor_release(s, cast);
  if (f)
    vram__recipe_save(s, f, vram__recipe_letters(plan, f), in, nin, y);
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* The op and its arguments choose the recipe. */
static uint32_t vram__pointwise_kind(const vram_node *n) {
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

VRAM__FN vram__tensor vram__pointwise_inplace(vram__step *s, uint32_t kind, const vram__tensor *in,
                                              uint32_t nin) {
  const uint32_t plan = vram__recipe_plan(s, kind, 1);
  vram__grad_fn *f = plan & VRAM__PLAN_GRADIENT
                         ? vram__tape_record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan))
                         : NULL;
  vram__tensor y = in[0];
  y.fn = 0;
  vram__tensor_retain(s, y);
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
  }
  vram__grad_fn_set_output(s, f, 0, &y);
  return y;
}

/* Autocast of an op on the `fp32` or the `widest` list: in[i] become handles of their own where
   bits of the result say so. */
VRAM__FN uint32_t vram__autocast_list(vram__step *s, uint32_t list, vram__tensor *in,
                                      uint32_t nin) {
  uint32_t i, own = 0;
  uint8_t to = list == VRAM__AUTOCAST_fp32 ? (uint8_t)VRAM_F32 : s->amp;
  if (!s->amp || (list != VRAM__AUTOCAST_fp32 && list != VRAM__AUTOCAST_widest))
    return 0;
  if (list == VRAM__AUTOCAST_widest)
    for (i = 0; i < nin; i++)
      if (in[i].dt == VRAM_F32)
        to = VRAM_F32;
  for (i = nin; i-- > 0;)
    if (in[i].dt != to)
      in[i] = vram__autocast_cast(s, in[i], to), own |= 1u << i;
  return own;
}

VRAM__FN void vram__forward_pointwise(vram__step *s, const vram_node *n, vram__tensor *x,
                                      vram__tensor *y) {
  uint32_t i, own = 0, kind = vram__pointwise_kind(n);
  vram__tensor in[3];
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->flags & VRAM__INPLACE) {
    y[0] = vram__pointwise_inplace(s, kind, in, n->nin);
    return;
  }
  if (s->amp)
    own = vram__autocast_list(s, vram__op_at(n->op)->autocast, in, n->nin);
  y[0] = vram__torch_pointwise(s, kind, in, n->nin);
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__tensor_release(s, in[i]);
}

/* Comparisons have no gradient. */
static void vram__forward_compare(vram__step *s, const vram_node *n, vram__tensor *x,
                                  vram__tensor *y) {
  const vram_dims *d[2];
  d[0] = x[0].d, d[1] = n->nin > 1 ? x[1].d : NULL;
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
  uint8_t dt;
  if (n->nin < 3)
    b = number = vram__tensor_empty(s, s->scalar, a.dt);
  else
    b = x[2];
  {
    vram__tensor in[2];
    in[0] = a, in[1] = b;
    f = vram__tape_record(s, n->op, in, 2, 1, 1);
  }
  if (f)
    vram__save_tensor(s, f, x[0]);
  dt = vram__promote_pair(a, b);
  if (a.dt != dt)
    a = ca = vram__tensor_to(s, a, dt);
  if (b.dt != dt)
    b = cb = vram__tensor_to(s, b, dt);
  d[0] = x[0].d, d[1] = a.d, d[2] = b.d;
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
    d[0] = c.d, d[1] = i ? zero.d : g.d, d[2] = i ? g.d : zero.d;
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
    y[0] = x[0];
    y[0].fn = 0;
    vram__tensor_retain(s, y[0]);
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
    vram__tensor t =
        vram__torch_masked_select(s, g, VRAM__SAVED(f)[0], vram__dims_in(s, 1, &all, NULL));
    to[1] = vram__tensor_sum(s, t, 1, 0, t.dt);
    vram__tensor_release(s, t);
  }
}

#endif /* VRAM_NO_STEP */

VRAM__OP_POINTWISE(add, 1, 2, bcast, NUMBER, none, ADD, 0, "scalar inplace alpha",
                   "w: g =; x: g =");
VRAM__OP_POINTWISE(sub, 1, 2, bcast, NUMBER, none, ADD, 0, "scalar inplace alpha",
                   "w: g ~; x: g =");
VRAM__OP_POINTWISE(mul, 1, 2, bcast, NUMBER, none, MUL, 0, "scalar inplace", "w: g x *; x: g w *");
VRAM__OP_POINTWISE(div, 1, 2, bcast, FLOAT, none, MUL, 0, "scalar inplace rounding_mode",
                   "w: x w * w * g ~ ^ *; x: g w *");
VRAM__OP_POINTWISE(floor_divide, 1, 2, bcast, NUMBER, none, NONE, 0, "scalar inplace", "");
VRAM__OP_POINTWISE(pow, 1, 2, bcast, POW, fp32, MUL, 0, "scalar inplace", "x: g x ~ % *");
VRAM__OP_POINTWISE(maximum, 2, 2, bcast, SAME, none, ADD, 0, "",
                   "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3");
VRAM__OP_POINTWISE(minimum, 2, 2, bcast, SAME, none, ADD, 0, "",
                   "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3");
VRAM__OP(where, 2, 3, bcast, SAME, none, where, where, each, ANY, 0, 0, "scalar");
VRAM__OP(masked_fill, 2, 3, bcast, SAME, none, masked_fill, masked_fill, each, ANY, 0, 0,
         "inplace scalar");
VRAM__OP_POINTWISE(lerp, 2, 3, bcast, SAME, none, ANY, 0, "scalar inplace", "w: g %; x: g %");
VRAM__OP_POINTWISE(addcmul, 3, 3, bcast, SAME, widest, ANY, 0, "inplace",
                   "x: g =; w: g b % *; b: g w % *");
VRAM__OP_POINTWISE(exp, 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g y *");
VRAM__OP_POINTWISE(log, 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g x *; inplace: copy");
VRAM__OP_POINTWISE(sqrt, 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g y % *");
VRAM__OP_POINTWISE(rsqrt, 1, 1, same, FLOAT, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g % y ~ *");
VRAM__OP_POINTWISE(abs, 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g x ~ *; inplace: copy");
VRAM__OP_POINTWISE(neg, 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g ~");
VRAM__OP_POINTWISE(square, 1, 1, same, NUMBER, fp32, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g x ~ % *; inplace: copy");
VRAM__OP_POINTWISE(sin, 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g x ~ *; inplace: copy");
VRAM__OP_POINTWISE(cos, 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g x ~ ~ *; inplace: copy");
VRAM__OP_POINTWISE(erf, 1, 1, same, FLOAT, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: x ~ ~ ~ % g *; inplace: copy");
VRAM__OP_POINTWISE(sign, 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g ~");
VRAM__OP_POINTWISE(round, 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT, "inplace",
                   "x: g ~");
VRAM__OP_POINTWISE(clamp, 1, 1, same, SAME, none, ACTIVATION, VRAM__OP_ANY_LAYOUT,
                   "min max inplace", "x: 0 x ! g 3; inplace: copy");
VRAM__OP(eq, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(ne, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(lt, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(le, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(gt, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(ge, 1, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "scalar");
VRAM__OP(logical_and, 2, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "");
VRAM__OP(logical_or, 2, 2, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "");
VRAM__OP(logical_not, 1, 1, bcast, BOOL, none, compare, none, each, NONE, 0, 0, "");
