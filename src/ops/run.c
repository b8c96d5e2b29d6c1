/* ---- how ops run: one function each, named in the op table; x the inputs, then weight, bias ----
 */

typedef struct vram__args {
  vram__t *x;
  vram__t w, b; /* weight and bias; d NULL: none */
  uint32_t own; /* which of x, w, b are the op's own copies (autocast): bits */
} vram__args;

/* Inputs and parameters of a node, cast where autocast's list says so, the last one first. */
static void vram__weights(vram__s *s, const vram_node *n, vram__t *w, vram__t *b) {
  *w = *b = vram__none();
  if (n->nin > 1) {
    *w = s->obj[s->name_of[n->in[1]->index]].t;
    if (n->nin > 2)
      *b = s->obj[s->name_of[n->in[2]->index]].t;
    return;
  }
  if (n->param[0])
    *w = s->param[n->param[0]->index];
  if (n->param[1])
    *b = s->param[n->param[1]->index];
}

/* ---- pointwise ops: see the comment at the table ---- */

static const char *vram__recipe(uint32_t kind, int inplace) {
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

static uint32_t vram__letter(char c) {
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

VRAM__RARE uint32_t vram__plan_of(uint32_t kind, int inplace) {
  const char *p = vram__recipe(kind, inplace), *from = p;
  uint32_t plan = VRAM__PLAN_KNOWN, here = 0, seen = 0, at = 0, n = 0, pass = 1, parts = 0;
  if (*p)
    plan |= VRAM__PLAN_GRADIENT;
  for (; *p; p++) {
    uint32_t bit = vram__letter(*p);
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

static inline uint32_t vram__plan(vram__s *s, uint32_t kind, int inplace) {
  uint32_t *plan = &s->plan[kind][inplace];
  if (!*plan)
    *plan = vram__plan_of(kind, inplace);
  return *plan;
}

/* Which letters f saves: x w b y m as bits 0..4. */
static uint32_t vram__letters(uint32_t plan, vram__fn *f) {
  uint32_t need = plan >> 15, i;
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i))
      need |= plan >> 5 * i;
  return need & 31;
}

static void vram__save_letters(vram__s *s, vram__fn *f, uint32_t need, const vram__t *in,
                               uint32_t nin, vram__t y) {
  uint32_t i;
  vram__t m;
  f->aux = 0;
  for (i = need & 7 ? 0 : 3; need >> i; i++) {
    const vram__t *t = i < 3 ? in + i : i == 3 ? &y : &m;
    if (!(need >> i & 1) || (i < 3 && i >= nin))
      continue;
    if (i == 4) {
      const int64_t zero = 0;
      m = y;
      m.st = 0;
      m.d = vram__dims_in(s, 1, &zero, NULL);
    }
    f->aux |= (uint64_t)(f->nsaved + 1u) << (4 * i);
    vram__save(s, f, *t);
  }
}

#define VRAM__AUX_INPLACE (UINT64_C(1) << 63)

/* A tensor of dims d: t itself if nobody else has it, else a fresh one. */
static vram__t vram__over(vram__s *s, vram__t t, const vram_dims *d, uint8_t dt) {
  if (t.st && t.dt == dt && t.d->numel == d->numel && (s->top - t.st)->refs == 1 &&
      (s->top - (s->top - t.st)->base)->srefs == 1) {
    t.fn = 0;
    return vram__keep_t(s, t);
  }
  return vram__empty(s, vram__dense(s, d), dt);
}

VRAM__SELDOM_BEGIN

static void vram__bw_recipe(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t stack[12], own[16], g = VRAM__SLOTS(f)[0].g, t;
  uint32_t n = 0, nown = 0, at = 0, on = 0, k;
  const vram_dims *d[3];
  const char *p = vram__recipe(f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  for (;; p++) {
    uint32_t bit = vram__letter(*p);
    if (bit < 3 && p[1] == ':') {
      at = bit;
      on = bit < f->nin && vram__wants(f, bit);
      p++;
      continue;
    }
    if (*p == ';' || !*p) {
      if (on && nown) {
        to[at] = own[--nown];
        while (nown)
          vram__let(s, own[--nown]);
        s->registers = 0;
        if (s->ideal && !to[at].st) /* one kernel, which writes over g where it can */
          to[at] = vram__over(s, g, to[at].d, to[at].dt);
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
        stack[n] = vram__none(), stack[n++].dt = 0xff; /* a number */
      continue;
    case 'g':
      stack[n++] = g;
      continue;
    case '0':
      stack[n++] = own[nown++] = vram__empty(s, s->scalar, g.dt);
      continue;
    case 'z':
      t = g;
      vram__in_dims(s, f, at, &t.dt);
      stack[n++] = own[nown++] = vram__ti1(s, t);
      continue;
    case '>':
      t = stack[n - 1];
      if (t.dt != VRAM__SLOTS(f)[0].dt)
        stack[n - 1] = own[nown++] = vram__to(s, t, VRAM__SLOTS(f)[0].dt);
      continue;
    case '~':
    case '%':
    case '!':
      if (stack[n - 1].dt == 0xff)
        continue;
      t = stack[n - 1];
      t.d = *p == '~' ? vram__unary(s, t.d) : vram__with_number(s, t.d);
      stack[n - 1] = own[nown++] = vram__empty(s, t.d, *p == '!' ? (uint8_t)VRAM_BOOL : t.dt);
      continue;
    case '*':
    case '?':
      t = stack[--n];
      if (t.dt == 0xff || stack[n - 1].dt == 0xff)
        t = vram__ti_number(s, t.dt == 0xff ? stack[n - 1] : t);
      else if (*p == '*')
        t = vram__ti2(s, stack[n - 1], t);
      else {
        d[0] = stack[n - 1].d, d[1] = t.d;
        t = vram__empty(s, vram__ti(s, d, 2), VRAM_BOOL);
      }
      stack[n - 1] = own[nown++] = t;
      continue;
    case '3': {
      vram__t *a = stack + (n -= 2) - 1;
      k = a[2].dt == VRAM_BOOL ? 2 : a[1].dt == VRAM_BOOL ? 1 : 0; /* at::where: condition first */
      d[0] = a[k].d, d[1] = a[k ? 0 : 1].d, d[2] = a[k == 2 ? 1 : 2].d;
      *a = own[nown++] = vram__empty(s, vram__ti(s, d, 3), vram__result2(a[1], a[2]));
      continue;
    }
    case '=':
      t = stack[n - 1];
      t.fn = 0;
      own[nown++] = vram__keep_t(s, t);
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
        vram__let(s, own[nown - 2]);
        own[nown - 2] = own[nown - 1];
        nown--;
      }
      continue;
    default:
      continue;
    }
  }
}

VRAM__SELDOM_END

static void vram__bw_pointwise(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t plan = vram__plan(s, f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  const vram__t *g = &VRAM__SLOTS(f)[0].g;
  uint32_t i;
  if ((plan & VRAM__PLAN_PRODUCT) && !s->ideal) {
    const vram__t *t = VRAM__SAVED(f); /* the only one */
    to[0] = plan & VRAM__PLAN_SWAP ? vram__ti2(s, *t, *g) : vram__ti2(s, *g, *t);
  } else if (plan & VRAM__PLAN_PASS) {
    for (i = f->nin; i-- > 0;)
      if (vram__wants(f, i)) {
        to[i] = *g;
        to[i].fn = 0;
        vram__keep_store(s, g->st);
      }
  } else
    vram__bw_recipe(s, f, to);
}

/* A pointwise op with autograd; nin 1: of one tensor, or of one and a number. */
static vram__t vram__t_pointwise(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin) {
  const uint32_t plan = vram__plan(s, kind, 0);
  vram__fn *f =
      plan & VRAM__PLAN_GRADIENT ? vram__record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan)) : NULL;
  const vram_dims *d[3];
  uint32_t i, op = kind == VRAM__K_pow_tensor ? (uint32_t)VRAM_OP_pow : kind;
  uint8_t dt = in[0].dt;
  int same = dt == VRAM_F32 || vram__kind_rank(dt) >= 2;
  vram__t y, cast = vram__none();
  for (i = 0; i < nin; i++) {
    d[i] = in[i].d;
    if (in[i].dt != dt)
      same = 0;
  }
  if (!same) {
    vram__promote pr;
    vram__zero(&pr, sizeof pr);
    for (i = 0; i < nin; i++)
      vram__promote_add(&pr, in[i].dt, in[i].d->ndim);
    dt = vram__result_dtype(op, nin, &pr);
    if (vram__kind_rank(in[0].dt) < 2 && dt == VRAM_F32)
      dt = s->low ? s->low : dt; /* the default dtype */
  }
  switch (nin == 1 ? op : (uint32_t)VRAM_OP_COUNT) {
  case VRAM_OP_pow: /* Pow.cpp: base.to(common_dtype) */
  case VRAM_OP_square:
    d[0] = vram__unary(s, d[0]);
    if (dt != in[0].dt)
      cast = vram__to(s, in[0], dt);
    break;
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_div:
  case VRAM_OP_floor_divide:
    d[0] = vram__with_number(s, d[0]);
    break;
  default:
    d[0] = vram__ti(s, d, nin);
  }
  y = vram__empty(s, d[0], dt);
  vram__let(s, cast);
  if (f)
    vram__save_letters(s, f, vram__letters(plan, f), in, nin, y);
  vram__made(s, f, 0, &y);
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
    if (vram__list(n, VRAM__KEY_rounding_mode, NULL))
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
    if (vram__list(n, VRAM__KEY_min, NULL) && vram__list(n, VRAM__KEY_max, NULL))
      return VRAM__K_clamp_both;
    break;
  default:
    break;
  }
  return n->op;
}

static vram__t vram__pointwise_inplace(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin) {
  const uint32_t plan = vram__plan(s, kind, 1);
  vram__fn *f =
      plan & VRAM__PLAN_GRADIENT ? vram__record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan)) : NULL;
  vram__t y = in[0];
  y.fn = 0;
  vram__keep_t(s, y);
  if (f) {
    const uint32_t need = vram__letters(plan, f);
    if (need & 1) { /* what is overwritten is cloned before */
      vram__t old[3];
      uint32_t i;
      for (i = 1; i < nin; i++)
        old[i] = in[i];
      old[0] = vram__empty(s, vram__dense(s, in[0].d), in[0].dt);
      vram__save_letters(s, f, need, old, nin, y);
      vram__let(s, old[0]);
    } else
      vram__save_letters(s, f, need, in, nin, y);
    f->aux |= VRAM__AUX_INPLACE;
  }
  vram__made(s, f, 0, &y);
  return y;
}

/* Autocast of an op on the `fp32` or the `widest` list: in[i] become handles of their own where
   bits of the result say so. */
static uint32_t vram__autocast_list(vram__s *s, uint32_t list, vram__t *in, uint32_t nin) {
  uint32_t i, own = 0;
  uint8_t to = list == VRAM__AC_fp32 ? (uint8_t)VRAM_F32 : s->amp;
  if (!s->amp || (list != VRAM__AC_fp32 && list != VRAM__AC_widest))
    return 0;
  if (list == VRAM__AC_widest)
    for (i = 0; i < nin; i++)
      if (in[i].dt == VRAM_F32)
        to = VRAM_F32;
  for (i = nin; i-- > 0;)
    if (in[i].dt != to)
      in[i] = vram__autocast(s, in[i], to), own |= 1u << i;
  return own;
}

static void vram__run_pointwise(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t i, own = 0, kind = vram__pointwise_kind(n);
  vram__t in[3];
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->flags & VRAM__INPLACE) {
    y[0] = vram__pointwise_inplace(s, kind, in, n->nin);
    return;
  }
  if (s->amp)
    own = vram__autocast_list(s, vram__op_at(n->op)->autocast, in, n->nin);
  y[0] = vram__t_pointwise(s, kind, in, n->nin);
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__let(s, in[i]);
}

VRAM__SELDOM_BEGIN

/* Comparisons have no gradient. */
static void vram__run_compare(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d[2];
  d[0] = x[0].d, d[1] = n->nin > 1 ? x[1].d : NULL;
  y[0] = vram__empty(s,
                     n->nin > 1                     ? vram__ti(s, d, 2)
                     : n->op == VRAM_OP_logical_not ? vram__unary(s, d[0])
                                                    : vram__with_number(s, d[0]),
                     VRAM_BOOL);
}

/* TensorCompare.cpp, where: operands of another dtype than the result are converted first; a number
   becomes a tensor. */
static void vram__run_where(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = x[1], b, ca = vram__none(), cb = vram__none(), number = vram__none();
  const vram_dims *d[3];
  vram__fn *f;
  uint8_t dt;
  if (n->nin < 3)
    b = number = vram__empty(s, s->scalar, a.dt);
  else
    b = x[2];
  {
    vram__t in[2];
    in[0] = a, in[1] = b;
    f = vram__record(s, n->op, in, 2, 1, 1);
  }
  if (f)
    vram__save(s, f, x[0]);
  dt = vram__result2(a, b);
  if (a.dt != dt)
    a = ca = vram__to(s, a, dt);
  if (b.dt != dt)
    b = cb = vram__to(s, b, dt);
  d[0] = x[0].d, d[1] = a.d, d[2] = b.d;
  y[0] = vram__empty(s, vram__ti(s, d, 3), dt);
  vram__let(s, cb);
  vram__let(s, ca);
  vram__let(s, number);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_where(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c = VRAM__SAVED(f)[0];
  const vram_dims *d[3];
  uint32_t i;
  for (i = 2; i-- > 0;) {
    vram__t zero;
    if (!vram__wants(f, i))
      continue;
    zero = vram__empty(s, s->scalar, g.dt);
    d[0] = c.d, d[1] = i ? zero.d : g.d, d[2] = i ? g.d : zero.d;
    to[i] = vram__empty(s, vram__ti(s, d, 3), g.dt);
    vram__let(s, zero);
  }
}

/* Indexing.cpp, masked_fill: a contiguous copy of x, expanded to the mask's shape */
static vram__t vram__masked(vram__s *s, vram__t x, const vram_dims *mask) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, ndim = x.d->ndim;
  for (i = 0; i < ndim; i++)
    size[i] = x.d->v[i];
  vram__bcast(&ndim, size, mask);
  return vram__empty(s, vram__dims_in(s, ndim, size, NULL), x.dt);
}

static void vram__run_masked_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2];
  vram__fn *f;
  in[0] = x[0];
  if (n->nin > 2)
    in[1] = x[2];
  f = vram__record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  if (n->flags & VRAM__INPLACE) {
    y[0] = x[0];
    y[0].fn = 0;
    vram__keep_t(s, y[0]);
    vram__made(s, f, 0, &y[0]);
    return;
  }
  y[0] = vram__masked(s, x[0], x[1].d);
  vram__made(s, f, 0, &y[0]);
}

static vram__t vram__t_masked_select(vram__s *s, vram__t x, vram__t mask, const vram_dims *d);

static void vram__bw_masked_fill(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 0))
    to[0] = vram__masked(s, g, VRAM__SAVED(f)[0].d);
  if (f->nin > 1 && vram__wants(f, 1)) { /* masked_fill_backward: the sum of what was filled */
    const int64_t all = (int64_t)g.d->numel;
    vram__t t = vram__t_masked_select(s, g, VRAM__SAVED(f)[0], vram__dims_in(s, 1, &all, NULL));
    to[1] = vram__sum(s, t, 1, 0, t.dt);
    vram__let(s, t);
  }
}

/* ---- memory formats ---- */

/* The sizes of d, channels last or contiguous. */
static const vram_dims *vram__formatted(vram__s *s, const vram_dims *d, int cl) {
  int64_t st[5], z;
  uint32_t i;
  if (!cl || d->ndim < 4 || d->ndim > 5)
    return vram__contig(s, d);
  for (st[1] = 1, z = d->v[1], i = d->ndim - 1u; i >= 2; i--)
    st[i] = z, z *= d->v[i];
  st[0] = z;
  return vram__dims_in(s, d->ndim, d->v, st);
}

/* x.contiguous(format): a copy, or x itself; a handle more either way */
static vram__t vram__in_format(vram__s *s, vram__t x, int cl) {
  if ((x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG)) || s->ideal) {
    x.d = vram__formatted(s, x.d, cl);
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__formatted(s, x.d, cl), x.dt);
}

/* ---- padding ---- */

enum { VRAM__PAD_CONSTANT, VRAM__PAD_REFLECT, VRAM__PAD_REPLICATE, VRAM__PAD_CIRCULAR };

static uint32_t vram__pad_mode(int64_t word) {
  return word == VRAM__WORD("reflect")     ? VRAM__PAD_REFLECT
         : word == VRAM__WORD("replicate") ? VRAM__PAD_REPLICATE
         : word == VRAM__WORD("circular")  ? VRAM__PAD_CIRCULAR
                                           : VRAM__PAD_CONSTANT;
}

/* x[start:start + size] along an axis, with autograd */
static vram__t vram__t_narrow(vram__s *s, vram__t x, uint32_t axis, int64_t size) {
  int64_t z[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    z[i] = x.d->v[i];
  z[axis] = size;
  return vram__view(s, x, vram__dims_in(s, x.d->ndim, z, VRAM__STRIDE(x.d)), VRAM__K_slice, 0);
}

/* a.copy_(b) where a is a view of *base; takes both */
static void vram__t_copy(vram__s *s, vram__t a, vram__t b, vram__t *base) {
  vram__t in[2], y = a;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM__K_copy, in, 2, 1, 0);
  if (f) {
    y.fn = 0;
    vram__keep_t(s, y);
    vram__made(s, f, 0, &y);
    vram__rebase(s, a, &y);
    vram__let(s, a);
    a = y;
    vram__refresh(s, base);
  }
  vram__let(s, a);
  vram__let(s, b);
}

/* PadNd.cpp, _pad_circular: the middle, then the two ends of each axis, the last axis first */
static vram__t vram__pad_circular(vram__s *s, vram__t x, const vram_dims *d, const int64_t *pad,
                                  uint32_t k) {
  vram__t y = vram__empty(s, d, x.dt), to = vram__keep_t(s, y), from = vram__keep_t(s, x), t;
  uint32_t i;
  for (i = 0; i < k; i++) {
    uint32_t a = d->ndim - 1u - i;
    int64_t l = pad[2 * (size_t)i], r = pad[2 * (size_t)i + 1];
    t = vram__t_narrow(s, to, a, d->v[a] - (l > 0 ? l : 0) - (r > 0 ? r : 0));
    vram__let(s, to);
    to = t;
    t = vram__t_narrow(s, from, a, x.d->v[a] + (l < 0 ? l : 0) + (r < 0 ? r : 0));
    vram__let(s, from);
    from = t;
  }
  vram__t_copy(s, to, from, &y);
  for (i = 0; i < 2 * k; i++)
    if (pad[i] > 0) {
      uint32_t a = d->ndim - 1u - i / 2;
      to = vram__t_narrow(s, y, a, pad[i]);
      from = vram__t_narrow(s, y, a, pad[i]);
      vram__t_copy(s, to, from, &y);
    }
  return y;
}

/* F.pad: pairs of pads from the last axis on, k of them */
static vram__t vram__t_pad(vram__s *s, vram__t x, const int64_t *pad, uint32_t k, uint32_t mode) {
  int64_t size[VRAM_MAX_AXES], part[VRAM_MAX_AXES];
  uint32_t i, grows = 0, shrinks = 0, n = x.d->ndim;
  const vram_dims *d;
  vram__fn *f;
  vram__t y, c;
  for (i = 0; i < n; i++)
    size[i] = part[i] = x.d->v[i];
  for (i = 0; i < 2 * k; i++) {
    uint32_t a = n - 1 - i / 2;
    size[a] += pad[i];
    if (pad[i] > 0)
      grows = 1;
    else
      part[a] += pad[i];
    if (pad[i] < 0)
      shrinks = 1;
  }
  d = vram__dims_in(s, n, size, NULL);
  if (mode == VRAM__PAD_CIRCULAR)
    return vram__pad_circular(s, x, d, pad, k);
  f = vram__record(s, VRAM_OP_pad, &x, 1, 1, 1);
  if (f) {
    f->aux = mode | shrinks << 4 | k << 8;
    if (mode != VRAM__PAD_CONSTANT)
      vram__save(s, f, x);
  }
  if (mode == VRAM__PAD_CONSTANT) {
    if (grows)
      d = vram__formatted(s, d, vram__suggests_cl(x.d));
    else
      d = vram__dense(s, vram__dims_in(s, n, part, VRAM__STRIDE(x.d)));
  }
  y = vram__empty(s, d, x.dt);
  if (mode == VRAM__PAD_REFLECT) {
    c = vram__contiguous(s, x);
    vram__let(s, c);
  }
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_pad(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_pad, &c);
  y[0] = vram__t_pad(s, x[0], v, c / 2, vram__pad_mode(VRAM__INT(n, mode, 0)));
}

static void vram__bw_pad(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  if ((f->aux & 15) != VRAM__PAD_CONSTANT)
    d = vram__contig(s, d);
  else if (f->aux >> 4 & 15)
    d = vram__formatted(s, d, vram__suggests_cl(g.d));
  else
    d = vram__dense(s, vram__dims_in(s, d->ndim, d->v, VRAM__STRIDE(g.d)));
  to[0] = vram__empty(s, d, g.dt);
  if ((f->aux & 15) == VRAM__PAD_REFLECT && f->aux >> 8 < 3) { /* of fewer than 3 axes */
    vram__t c = vram__contiguous(s, g);
    vram__let(s, c);
  }
}

/* ---- convolutions: aten/src/ATen/native/Convolution.cpp and cudnn/ConvShared.cpp ---- */

/* ConvUtils.h, cudnn_conv_suggest_memory_format: 1 = channels last */
static int vram__conv_cl(vram__t a, vram__t b) {
  return a.dt != VRAM_F64 && b.dt != VRAM_F64 && (vram__suggests_cl(a.d) || vram__suggests_cl(b.d));
}

/* Is it a depthwise convolution that PyTorch runs with kernels of its own, not with cuDNN? 2 or 3:
   its axes (ConvParams::use_cudnn_depthwise, check_cudnn_depthwise_workload_with_filter). */
static int vram__conv_native(const vram_node *n, vram__t x, vram__t w, int cl) {
  int64_t stride[3], dil[3], width, k, c;
  uint32_t axes = x.d->ndim - 2u;
  c = x.d->v[1];
  if (VRAM__INT(n, groups, 1) != c || c < 2 || cl || vram__is_transposed(n->op))
    return 0;
  if (x.dt != VRAM_F16 || c < 32 || axes == 3)
    return (int)axes;
  axes = vram__spatial(n->op); /* a 1-D convolution runs with a height of 1 */
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  if (axes == 1)
    stride[1] = stride[0], dil[1] = dil[0], stride[0] = dil[0] = 1;
  if ((stride[0] != stride[1] && x.d->v[2] != 1) || dil[0] != 1 || dil[1] != 1)
    return 2;
  if (x.d->v[2] == 1 && stride[1] == 1)
    return 0;
  width = x.d->v[3], k = w.d->v[3];
  if (w.d->v[2] != k || (k != 1 && k != 3 && k != 5) || width < 7)
    return 2;
  if (stride[1] != 2)
    return stride[1] == 1 ? 0 : 2;
  if (x.d->v[0] == 1)
    return k == 1 && width > 28 ? 2 : 0;
  if (k == 1)
    return x.d->v[0] > 16 || c < 128 || width > 7 ? 2 : 0;
  return c < 512 && (c < 256 || width < 28) ? 2 : 0;
}

/* the dims of t with an axis of height 1: how 1-D convolutions run */
static vram__t vram__as_2d(vram__s *s, vram__t t) {
  if (t.d->ndim == 3)
    t.d = vram__unsqueezed(s, t.d, 2);
  return t;
}

/* What F.conv does with padding before it convolves: padding_mode of the module, and the odd part
   of padding=same, which goes to the right. One handle more. */
static vram__t vram__conv_pad(vram__s *s, const vram_node *n, vram__t x, vram__t w) {
  int64_t pad[6], p[3], dil[3];
  uint32_t i, k = vram__spatial(n->op), any = 0;
  uint32_t mode = vram__pad_mode(VRAM__INT(n, padding_mode, 0));
  int same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  if (!same && mode == VRAM__PAD_CONSTANT)
    return vram__keep_t(s, x);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, k, 1, 1, dil);
  if (!same)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, k, 0, 0, p);
  for (i = 0; i < k; i++) {
    int64_t total = dil[i] * (w.d->v[w.d->ndim - k + i] - 1), *to = pad + 2 * (size_t)(k - 1 - i);
    if (mode != VRAM__PAD_CONSTANT)
      to[0] = same ? total / 2 : p[i], to[1] = same ? total - total / 2 : p[i];
    else
      to[0] = 0, to[1] = total % 2;
    if (to[1])
      any = 1;
  }
  if (!any && mode == VRAM__PAD_CONSTANT)
    return vram__keep_t(s, x);
  return vram__t_pad(s, x, pad, k, mode);
}

/* ---- convolutions without cuDNN: aten/src/ATen/native/cuda/ConvolutionMM2d.cu,
   NaiveDilatedConvolution.cu, NaiveConvolutionTranspose2d.cu and 3d.cu ---- */

typedef struct vram__slow {
  int transposed, dilated; /* dilated: the form that also runs 3-D convolutions */
  int plain;               /* a kernel of 1, stride 1, no padding: mostly no columns */
  int64_t groups, samples;
  uint64_t columns; /* bytes of the columns of one sample and group */
} vram__slow;

/* ConvParams::is_output_padding_big: not for cuDNN */
static int vram__pads_output_much(const vram_node *n) {
  int64_t stride[3], more[3];
  uint32_t i, axes = vram__spatial(n->op);
  if (!vram__is_transposed(n->op))
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_output_padding, axes, 0, 0, more);
  for (i = 0; i < axes; i++)
    if (more[i] >= stride[i])
      return 1;
  return 0;
}

/* cuDNN takes bf16 from compute capability 8.0 on. Below, all but depthwise convolutions multiply
   columns of one sample after the other (ConvParams::use_cudnn). y: dims of the result. */
static int vram__slow_of(const vram__s *s, const vram_node *n, vram__t x, vram__t w,
                         const vram_dims *y, vram__slow *k) {
  int64_t stride[3], dil[3], pad[3];
  uint32_t i, axes = vram__spatial(n->op);
  const vram_dims *area;
  if (s->ideal || !x.d->numel || ((x.dt != VRAM_BF16 || s->cc >= 80) && !vram__pads_output_much(n)))
    return 0;
  k->groups = VRAM__INT(n, groups, 1);
  k->samples = x.d->v[0];
  k->transposed = vram__is_transposed(n->op);
  if (k->groups == x.d->v[1] && k->groups > 1 && !k->transposed)
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  pad[0] = pad[1] = pad[2] = 0; /* other modes pad before; same pads no kernel of 1 */
  if (VRAM__INT(n, padding, 0) != VRAM__SAME &&
      vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, axes, 0, 0, pad);
  k->plain = 1;
  k->dilated = axes == 3;
  for (i = 0; i < axes; i++) {
    if (dil[i] != 1)
      k->dilated = 1, k->plain = 0;
    if (w.d->v[w.d->ndim - axes + i] != 1 || stride[i] != 1 || pad[i])
      k->plain = 0;
  }
  area = k->transposed ? x.d : y;
  k->columns = vram__mul4((int64_t)(w.d->numel / (uint64_t)w.d->v[0]), area->v[2],
                          area->ndim > 3 ? area->v[3] : 1, area->ndim > 4 ? area->v[4] : 1);
  k->columns = vram__mul(k->columns, vram__size_of(x.dt));
  return 1;
}

/* one product for each sample, `times` of them; more than 2^16 samples change no figure */
static void vram__slow_products(vram__s *s, const vram__slow *k, int times) {
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  for (i = 0; i < n * times && !s->failed; i++)
    vram__workspace(s, s->ws);
}

/* one group: x and w contiguous, d the contiguous dims of the result */
static vram__t vram__slow_forward(vram__s *s, const vram__slow *k, vram__t x, int bias,
                                  const vram_dims *d) {
  vram__t y, columns = vram__none(), ones = columns;
  if (k->transposed && d->ndim == 5) { /* empty_like(input), resized: storages only grow */
    vram__t old = vram__empty(s, x.d, x.dt);
    y = old;
    y.d = d;
    if (d->numel > x.d->numel) {
      y = vram__empty(s, d, x.dt);
      vram__let(s, old);
    } else if (y.st)
      (s->top - y.st)->d = d;
  } else
    y = vram__empty(s, d, x.dt);
  if (!k->plain || k->transposed || k->dilated)
    columns = vram__raw(s, k->columns);
  if (bias && k->transposed) { /* the bias is a product with ones */
    ones = vram__raw(s, vram__size_of(x.dt) * d->numel / (uint64_t)(d->v[0] * d->v[1]));
    vram__slow_products(s, k, 2);
  } else
    vram__slow_products(s, k, 1);
  vram__let(s, ones);
  vram__let(s, columns);
  return y;
}

/* one group; want: a bit for each of the gradients of input, weight and bias */
static void vram__slow_backward(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                                uint32_t want, vram__t *to) {
  vram__t c, columns = vram__none(), t;
  uint32_t mask = ((1u << g.d->ndim) - 1) & ~2u;
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  if (k->transposed) {
    if (want & 1) {
      c = vram__contiguous(s, g);
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = k->plain ? columns : vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
      vram__let(s, columns);
      vram__let(s, c);
    }
    if (!(want & 6))
      return;
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, mask, 0, g.dt);
    c = vram__contiguous(s, g);
    columns = k->plain ? vram__none() : vram__raw(s, k->columns);
    if (want & 2)
      vram__slow_products(s, k, 1);
    if (want & 4)
      vram__reduce(s, c, mask, c.dt, 4, 4);
  } else if (k->dilated) {
    c = vram__contiguous(s, g);
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, c, mask, 0, c.dt);
    if (want & 3)
      columns = vram__raw(s, k->columns);
    g = c;
    g.d = vram__without_axis(s, c.d, 0);
    for (i = 0; i < n && !s->failed; i++) {
      if (want & 1)
        vram__workspace(s, s->ws);
      if (want & 2)
        vram__workspace(s, s->ws);
      if (want & 4) {
        t = vram__sum(s, g, mask >> 1, 0, g.dt);
        vram__let(s, t);
      }
    }
  } else {
    c = vram__contiguous(s, g);
    if (want & 1) {
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
    if (want & 4)
      to[2] = vram__sum(s, c, mask, 0, c.dt);
    if (want & 2) {
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
      if (!(want & 1))
        columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
  }
  vram__let(s, columns);
  vram__let(s, c);
}

/* the part of t that belongs to one group */
static const vram_dims *vram__slow_part(vram__s *s, const vram_dims *d, uint32_t axis,
                                        int64_t groups) {
  int64_t size[5];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[i];
  size[axis] /= groups;
  return vram__dims_in(s, d->ndim, size, VRAM__STRIDE(d));
}

/* subtensor(t, 1, groups, g): a copy unless it is dense */
static vram__t vram__slow_sub(vram__s *s, vram__t t, const vram_dims *d) {
  t.d = d;
  return vram__in_format(s, t, vram__suggests_cl(d));
}

/* Tensors of the groups that wait for cat, linked by their slots: nothing else counts writes to
   them. */
typedef struct vram__queue {
  uint32_t first, last;
} vram__queue;

static void vram__queue_add(vram__s *s, vram__queue *q, vram__t t) {
  if (!t.st)
    return;
  (s->top - t.st)->ver = 0;
  if (q->last)
    (s->top - q->last)->ver = t.st;
  else
    q->first = t.st;
  q->last = t.st;
}

static void vram__queue_let(vram__s *s, const vram__queue *q) {
  uint32_t i, next;
  for (i = q->first; i; i = next) {
    next = (s->top - i)->ver;
    (s->top - i)->ver = 0;
    vram__drop_store(s, i);
  }
}

/* y: dims of the result */
static vram__t vram__slow_run(vram__s *s, const vram__slow *k, vram__t x, vram__t w, int bias,
                              const vram_dims *y) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), r, t;
  vram__queue q = {0, 0};
  int64_t i;
  y = vram__contig(s, y);
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dy = vram__contig(s, vram__slow_part(s, y, 1, k->groups));
    for (i = 0; i < k->groups && !s->failed; i++) {
      t = vram__slow_sub(s, cx, dx);
      vram__queue_add(s, &q, vram__slow_forward(s, k, t, bias, dy));
      vram__let(s, t);
    }
    r = vram__empty(s, y, x.dt);
    vram__queue_let(s, &q);
  } else
    r = vram__slow_forward(s, k, cx, bias, y);
  vram__let(s, cw);
  vram__let(s, cx);
  return r;
}

static void vram__slow_bw(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                          uint32_t want, vram__t *to) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), part[3], gi, xi, wi;
  vram__queue q[3] = {{0, 0}, {0, 0}, {0, 0}};
  int64_t i;
  uint32_t j;
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dg = vram__slow_part(s, g.d, 1, k->groups);
    wi = cw;
    wi.d = vram__slow_part(s, cw.d, 0, k->groups);
    for (i = 0; i < k->groups && !s->failed; i++) {
      for (j = 0; j < 3; j++)
        part[j] = vram__none();
      gi = vram__slow_sub(s, g, dg);
      xi = vram__slow_sub(s, cx, dx);
      vram__slow_backward(s, k, gi, xi, wi, want, part);
      vram__let(s, xi);
      vram__let(s, gi);
      for (j = 0; j < 3; j++)
        vram__queue_add(s, q + j, part[j]);
    }
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, ((1u << g.d->ndim) - 1) & ~2u, 0, g.dt);
    for (j = 3; j-- > 0;)
      vram__queue_let(s, q + j);
  } else
    vram__slow_backward(s, k, g, cx, cw, want, to);
  vram__let(s, cw);
  vram__let(s, cx);
}

/* Any convolution. */
static void vram__run_any_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], c, cx, cw, cf, p;
  vram__fn *f;
  int cl, batched = x[0].d->ndim == vram__spatial(n->op) + 2;
  uint32_t i, done = 3; /* from there on cast */
  const vram_dims *d = n->out[0].d;
  vram__slow slow;
  vram__weights(s, n, &a[1], &a[2]);
  if (!batched) { /* autocast comes before the batch axis, the module's padding before both */
    const int zeros = vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT;
    for (done = s->amp && zeros ? 1 : 3, i = 3; i-- > done;)
      if (a[i].d)
        a[i] = vram__autocast(s, a[i], s->amp);
    p = done == 1 ? vram__autocast(s, x[0], s->amp)
        : zeros   ? vram__keep_t(s, x[0])
                  : vram__conv_pad(s, n, x[0], a[1]);
    c = vram__t_unsqueeze(s, p, 0);
    vram__let(s, p);
    p = zeros ? vram__conv_pad(s, n, c, a[1]) : vram__keep_t(s, c);
    vram__let(s, c);
    d = vram__unsqueezed(s, d, 0);
  } else
    p = vram__conv_pad(s, n, x[0], a[1]);
  a[0] = p;
  for (i = done; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  f = vram__record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  c = a[0].d->ndim == 3 ? vram__contiguous(s, a[0]) : vram__none();
  cx = vram__as_2d(s, c.d ? c : a[0]);
  cw = vram__as_2d(s, a[1]);
  if (vram__slow_of(s, n, cx, cw, d->ndim == 3 ? vram__unsqueezed(s, d, 2) : d, &slow)) {
    y[0] = vram__slow_run(s, &slow, cx, cw, a[2].d != NULL,
                          d->ndim == 3 ? vram__unsqueezed(s, d, 2) : d);
    y[0].d = d->ndim == 3 ? vram__without_axis(s, y[0].d, 2) : y[0].d;
  } else {
    cl = vram__conv_cl(cx, cw);
    cx = vram__in_format(s, cx, cl);
    if (d->ndim == 3)
      d = vram__without_axis(s, vram__formatted(s, vram__unsqueezed(s, d, 2), cl), 2);
    else
      d = vram__formatted(s, d, cl);
    if (vram__conv_native(n, cx, cw, cl) == 2)
      cw = vram__in_format(s, cw, 0);
    else
      vram__keep_t(s, cw);
    y[0] = vram__empty(s, d, a[0].dt);
    cf = vram__in_format(s, cw, cl);
    vram__may_need(s, cx.d->numel + cw.d->numel + d->numel);
    vram__let(s, cf);
    vram__let(s, cw);
    vram__let(s, cx);
  }
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  for (i = 0; i < 3; i++)
    vram__let(s, a[i]);
  vram__let(s, p);
  if (!batched) {
    c = vram__t_squeeze1(s, y[0], 0);
    vram__let(s, y[0]);
    y[0] = c;
  }
}

/* cudnn_convolution_forward and _backward_input: the result, then copies of the operands */
static vram__t vram__conv_product(vram__s *s, vram__t a, vram__t w, const vram_dims *d) {
  int cl = vram__conv_cl(a, w);
  vram__t y = vram__empty(s, vram__formatted(s, d, cl), a.dt), cw, ca;
  cw = vram__in_format(s, w, cl);
  ca = vram__in_format(s, a, cl);
  vram__may_need(s, ca.d->numel + cw.d->numel + d->numel);
  vram__let(s, ca);
  vram__let(s, cw);
  return y;
}

/* cudnn_convolution_backward_weight */
static vram__t vram__conv_weight(vram__s *s, vram__t x, vram__t g, const vram_dims *d) {
  int cl = vram__conv_cl(x, g);
  vram__t cg = vram__in_format(s, g, cl), cx = vram__in_format(s, x, cl), y;
  y = vram__empty(s, vram__formatted(s, d, cl), g.dt);
  vram__may_need(s, cx.d->numel + cg.d->numel + d->numel);
  vram__let(s, cx);
  vram__let(s, cg);
  return y;
}

static void vram__bw_any_conv(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g0 = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], w = VRAM__SAVED(f)[1], c, g, xi, gi, wi,
          held = vram__none();
  int cl, native, want0 = vram__wants(f, 0), want1 = vram__wants(f, 1), flat = x.d->ndim == 3;
  int transposed = vram__is_transposed(f->node->op), want2 = f->nin > 2 && vram__wants(f, 2);
  vram__slow slow;
  c = flat ? vram__contiguous(s, x) : vram__none();
  x = vram__as_2d(s, flat ? c : x);
  w = vram__as_2d(s, w);
  g = vram__as_2d(s, g0);
  cl = vram__conv_cl(x, w);
  native = vram__conv_native(f->node, x, w, cl);
  if (vram__slow_of(s, f->node, x, w, g.d, &slow)) {
    vram__slow_bw(s, &slow, g, x, w, (uint32_t)(want0 | want1 << 1 | want2 << 2), to);
    want2 = 0;
  } else if (native == 3) { /* DepthwiseConv3d.cu */
    if (want0)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want1)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    gi = vram__contiguous(s, g);
    xi = vram__contiguous(s, x);
    wi = vram__contiguous(s, w);
    vram__let(s, wi);
    vram__let(s, xi);
    held = gi;         /* the bias's gradient is made in there too */
  } else if (native) { /* DepthwiseConv2d.cu */
    gi = vram__contiguous(s, g);
    if (want1) {
      xi = vram__contiguous(s, x);
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
      vram__let(s, xi);
    }
    if (want0) {
      wi = vram__contiguous(s, w);
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      vram__let(s, wi);
    }
    vram__let(s, gi);
  } else { /* ConvShared.cpp; the gradient changes its format even if only the bias wants one */
    xi = vram__none();
    if (want1)
      x = xi = vram__in_format(s, x, cl);
    gi = vram__none();
    if (transposed)
      g = gi = vram__in_format(s, g, vram__suggests_cl(x.d));
    else if (vram__suggests_cl(g.d) != vram__suggests_cl(x.d))
      g = gi = vram__empty(s, vram__formatted(s, g.d, vram__suggests_cl(x.d)), g.dt);
    if (want0)
      to[0] = vram__conv_product(s, g, w, x.d);
    if (want1)
      to[1] = transposed ? vram__conv_weight(s, g, x, w.d) : vram__conv_weight(s, x, g, w.d);
    vram__let(s, gi);
    vram__let(s, xi);
  }
  if (flat && want0)
    to[0].d = vram__without_axis(s, to[0].d, 2);
  if (flat && want1)
    to[1].d = vram__without_axis(s, to[1].d, 2);
  if (want2)
    to[2] = vram__sum(s, g0, ((1u << g0.d->ndim) - 1) & ~2u, 0, g0.dt);
  vram__let(s, held);
  vram__let(s, c);
}

VRAM__SELDOM_END

/* Contiguous, and not like channels last either: most convolutions take no copies. */
static int vram__usual_conv(const vram__s *s, const vram_node *n, const vram_dims *x) {
  return (n->flags & VRAM__USUAL) && x->ndim == n->param[0]->d->ndim && s->cc >= 80 &&
         (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN &&
         !vram__suggests_cl(n->param[0]->d);
}

static void vram__run_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3];
  vram__fn *f;
  uint32_t i;
  if (!vram__usual_conv(s, n, x->d)) {
    vram__run_any_conv(s, n, x, y);
    return;
  }
  a[0] = *x;
  vram__weights(s, n, &a[1], &a[2]);
  for (i = s->amp ? 3 : 0; i-- > 0;)
    if (a[i].d)
      a[i] = vram__autocast(s, a[i], s->amp);
  f = vram__record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__empty(s, n->out[0].d, a[0].dt);
  vram__may_need(s, a[0].d->numel + a[1].d->numel + y[0].d->numel);
  vram__made(s, f, 0, &y[0]);
  for (i = 0; s->amp && i < 3; i++)
    vram__let(s, a[i]);
}

static void vram__bw_conv(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const vram__t *g = &VRAM__SLOTS(f)[0].g;
  const uint64_t numel = x->numel + w->numel + g->d->numel;
  if (!vram__usual_conv(s, f->node, x) || vram__suggests_cl(w) ||
      (g->d->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) != VRAM__PLAIN) {
    vram__bw_any_conv(s, f, to);
    return;
  }
  if (vram__wants(f, 0)) {
    to[0] = vram__empty(s, x, g->dt);
    vram__may_need(s, numel);
  }
  if (vram__wants(f, 1)) {
    to[1] = vram__empty(s, w, g->dt);
    vram__may_need(s, numel);
  }
  if (f->nin > 2 && vram__wants(f, 2))
    to[2] = vram__sum(s, *g, ((1u << g->d->ndim) - 1) & ~2u, 0, g->dt);
}

VRAM__SELDOM_BEGIN

/* ---- dropout: aten/src/ATen/native/Dropout.cpp ---- */

/* x * noise, in place or not: what all dropouts but the fused one come to; takes noise */
static vram__t vram__t_noise(vram__s *s, vram__t x, vram__t noise, int inplace) {
  vram__fn *f = vram__record(s, VRAM__K_noise, &x, 1, 1, 1);
  vram__t y = x;
  if (inplace) {
    y.fn = 0;
    vram__keep_t(s, y);
  } else
    y = vram__ti2(s, x, noise);
  if (f)
    vram__save(s, f, noise);
  vram__made(s, f, 0, &y);
  vram__let(s, noise);
  return y;
}

static void vram__bw_noise(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

/* one number for each channel: sizes [N, C, 1, ...], with 1 kept axis [C, 1, ...] */
static vram__t vram__channel_noise(vram__s *s, vram__t x, uint32_t kept) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i < kept ? x.d->v[i] : 1;
  return vram__empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
}

static void vram__run_dropout(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t p = VRAM__INT(n, p, VRAM__ONE / 2);
  int inplace = (n->flags & VRAM__INPLACE) != 0, alpha = 0, feature = 0;
  uint32_t axes = 0;
  vram__fn *f;
  vram__t m, b, c;
  if (n->op == VRAM_OP_dropout1d || n->op == VRAM_OP_dropout3d)
    axes = n->op == VRAM_OP_dropout1d ? 1 : 3;
  if (!s->train || p == 0 || !x[0].d->numel) {
    if (!axes || inplace || x[0].d->ndim == axes + 2) {
      y[0] = vram__keep_t(s, x[0]);
      return;
    }
    c = vram__t_unsqueeze(s, x[0], 0);
    y[0] = vram__t_squeeze1(s, c, 0);
    vram__let(s, c);
    return;
  }
  switch (n->op) {
  case VRAM_OP_alpha_dropout:
    alpha = 1;
    break;
  case VRAM_OP_feature_alpha_dropout:
    alpha = feature = 1;
    break;
  case VRAM_OP_dropout:
    break;
  default:
    feature = 1;
  }
  if (n->op == VRAM_OP_dropout && !inplace && p < VRAM__ONE) { /* native_dropout */
    f = vram__record(s, n->op, x, 1, 1, 1);
    if (s->ideal) { /* a counter-based generator makes the same mask again */
      y[0] = vram__ti1(s, x[0]);
      vram__made(s, f, 0, &y[0]);
      return;
    }
    m = vram__empty(s, vram__dense(s, x[0].d), VRAM_BOOL);
    y[0] = vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
    if (f)
      vram__save(s, f, m);
    vram__let(s, m);
    vram__made(s, f, 0, &y[0]);
    return;
  }
  c = axes && x[0].d->ndim != axes + 2 && !inplace ? vram__t_unsqueeze(s, x[0], 0)
                                                   : vram__keep_t(s, x[0]);
  if (p >= VRAM__ONE) {
    y[0] = vram__t_noise(s, c, vram__empty(s, s->scalar, c.dt), inplace);
  } else {
    /* in place unsqueeze_ and squeeze_ stand around it */
    m = feature ? vram__channel_noise(s, c, inplace && axes && c.d->ndim != axes + 2 ? 1 : 2)
                : vram__ti1(s, c);
    b = alpha ? vram__ti1(s, m) : vram__none();
    y[0] = vram__t_noise(s, c, m, inplace);
    if (alpha && inplace && y[0].fn) /* add_ of b */
      vram__rebase(s, c, &y[0]);
    if (alpha) {
      vram__fn *add = vram__record(s, VRAM__K_clone, &y[0], 1, 1, 0);
      uint32_t old = y[0].fn;
      vram__made(s, add, 0, &y[0]);
      if (add)
        vram__fn_unref(s, old);
    }
    vram__let(s, b);
  }
  if (c.d->ndim != x[0].d->ndim) {
    m = vram__t_squeeze1(s, y[0], 0);
    vram__let(s, y[0]);
    y[0] = m;
  }
  vram__let(s, c);
}

static void vram__bw_dropout(vram__s *s, vram__fn *f, vram__t *to) {
  if (s->ideal && !f->nsaved) {
    vram__t g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__over(s, g, g.d, g.dt);
    return;
  }
  { /* Dropout.cu: empty_like in the format that the gradient suggests */
    vram__t g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__empty(s, vram__formatted(s, g.d, vram__suggests_cl(g.d)), g.dt);
  }
}

/* ---- pooling ---- */

/* op(x) where the 1-D form runs the 2-D one on x.unsqueeze(-2): x as that one sees it, and the
   results back; vram__unflat takes y. */
static vram__t vram__flat(vram__s *s, const vram_node *n, vram__t x) {
  if (vram__spatial(n->op) == 1)
    return vram__t_unsqueeze(s, x, x.d->ndim - 1u);
  return vram__keep_t(s, x);
}

static vram__t vram__unflat(vram__s *s, const vram_node *n, vram__t y) {
  vram__t z;
  if (y.d->ndim == n->out[0].d->ndim)
    return y;
  z = vram__t_squeeze1(s, y, y.d->ndim - 2u);
  vram__let(s, y);
  return z;
}

/* the dims of output i as the 2-D form sees them */
static const vram_dims *vram__pool_dims(vram__s *s, const vram_node *n, uint32_t ndim) {
  const vram_dims *d = n->out[0].d;
  return d->ndim == ndim ? d : vram__unsqueezed(s, d, d->ndim - 1u);
}

/* DilatedMaxPool2d.cu, DilatedMaxPool3d.cu */
/* DilatedMaxPool3d.cu: one sample alone is channels last if it is so as a batch of one. */
static int vram__max_pool_cl(vram__s *s, uint32_t op, const vram_dims **d) {
  if (op != VRAM_OP_max_pool3d || (*d)->ndim != 4)
    return vram__suggests_cl(*d);
  *d = vram__unsqueezed(s, *d, 0);
  return ((*d)->flags & (VRAM__CONTIG | VRAM__CL)) == VRAM__CL;
}

static void vram__run_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), b = a, c, m;
  const vram_dims *d = vram__pool_dims(s, n, a.d->ndim);
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 2);
  const int cl = vram__max_pool_cl(s, n->op, &b.d), alone = b.d != a.d;
  if (f)
    vram__save(s, f, a);
  d = vram__formatted(s, alone ? vram__unsqueezed(s, d, 0) : d, cl);
  if (alone)
    d = vram__without_axis(s, d, 0);
  y[0] = vram__empty(s, d, a.dt);
  m = vram__empty(s, d, VRAM_I64);
  c = vram__in_format(s, b, cl);
  vram__let(s, c);
  if (f)
    vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__unflat(s, n, m);
  else
    vram__let(s, m);
  vram__let(s, a);
}

static void vram__bw_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx = vram__none();
  const vram_dims *own = x.d;
  const int cl = vram__max_pool_cl(s, f->kind, &x.d), alone = x.d != own;
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  if (f->kind != VRAM_OP_max_pool3d)
    cx = vram__in_format(s, x, cl);
  if (alone)
    g.d = vram__unsqueezed(s, g.d, 0);
  cg = vram__in_format(s, g, cl);
  vram__let(s, cg);
  vram__let(s, cx);
  if (!alone)
    return;
  if (cl) { /* and back */
    cx = to[0];
    to[0] = vram__empty(s, vram__contig(s, own), g.dt);
    vram__let(s, cx);
  }
  to[0].d = vram__contig(s, own);
}

/* AveragePool2d.cu; AveragePool3d.cu knows no channels-last */
static void vram__run_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c;
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 1);
  int cl = n->op != VRAM_OP_avg_pool3d && vram__suggests_cl(a.d);
  if (f)
    vram__save(s, f, a);
  y[0] = vram__empty(s, vram__formatted(s, vram__pool_dims(s, n, a.d->ndim), cl), a.dt);
  c = vram__in_format(s, a, cl);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_avg_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx;
  int cl = f->kind != VRAM_OP_avg_pool3d && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  cx = f->kind == VRAM_OP_avg_pool3d ? vram__none() : vram__in_format(s, x, cl);
  cg = vram__in_format(s, g, cl);
  vram__let(s, cg);
  vram__let(s, cx);
}

/* AdaptiveAveragePooling.cpp: to sizes of 1 it is a mean, else a kernel */
static vram__t vram__t_adaptive_avg(vram__s *s, vram__t x, const vram_dims *d, uint32_t k) {
  uint32_t i, mask = 0, n = d->ndim;
  vram__fn *f;
  vram__t y, c;
  int cl = vram__suggests_cl(x.d);
  for (i = n - k; i < n; i++)
    if (d->v[i] == 1)
      mask |= 1u << i;
  if (mask == ((1u << k) - 1) << (n - k)) {
    f = vram__record(s, VRAM__K_mean, &x, 1, 1, 0);
    if (f)
      f->aux = mask;
    y = vram__sum(s, x, mask, 1, x.dt);
    vram__made(s, f, 0, &y);
    if (cl) { /* as_strided_ in place */
      uint32_t old = y.fn;
      f = vram__record(s, VRAM__K_as_strided, &y, 1, 1, 0);
      y.d = vram__as_cl(s, y.d);
      vram__made(s, f, 0, &y);
      if (f)
        vram__fn_unref(s, old);
    }
    return y;
  }
  cl = cl && k == 2; /* AdaptiveAveragePooling3d.cu knows no channels-last */
  f = vram__record(s, VRAM_OP_adaptive_avg_pool2d, &x, 1, 1, 1);
  if (f)
    vram__save(s, f, x);
  c = cl || n == k + 1 ? vram__none() : vram__contiguous(s, x); /* one sample: by its strides */
  y = vram__empty(s, vram__formatted(s, d, cl), x.dt);
  vram__let(s, c);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_adaptive_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]);
  y[0] = vram__t_adaptive_avg(s, a, vram__pool_dims(s, n, a.d->ndim),
                              n->op == VRAM_OP_adaptive_avg_pool3d ? 3 : 2);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_adaptive_avg_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  c = cl ? vram__none() : vram__contiguous(s, g);
  vram__let(s, c);
}

/* AdaptiveMaxPooling2d.cu, AdaptiveMaxPooling3d.cu: the kernels know no channels-last */
static void vram__run_adaptive_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c, m, t = vram__none(), u = vram__none();
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 2);
  int cl = n->op != VRAM_OP_adaptive_max_pool3d && vram__suggests_cl(a.d);
  const vram_dims *d = vram__formatted(s, vram__pool_dims(s, n, a.d->ndim), cl);
  if (f)
    vram__save(s, f, a);
  y[0] = vram__empty(s, d, a.dt);
  m = vram__empty(s, d, VRAM_I64);
  if (!(d->flags & VRAM__CONTIG)) {
    t = vram__contiguous(s, y[0]);
    u = vram__contiguous(s, m);
  }
  c = a.d->ndim == (n->op == VRAM_OP_adaptive_max_pool3d ? 4 : 3) ? vram__none()
                                                                  : vram__contiguous(s, a);
  vram__let(s, c);
  vram__let(s, u);
  vram__let(s, t);
  if (f)
    vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__unflat(s, n, m);
  else
    vram__let(s, m);
  vram__let(s, a);
}

static void vram__bw_adaptive_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cm, cx;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  cg = vram__contiguous(s, g);
  cm = vram__contiguous(s, VRAM__SAVED(f)[1]);
  cx = vram__contiguous(s, to[0]);
  vram__let(s, cx);
  vram__let(s, cm);
  vram__let(s, cg);
}

/* FractionalMaxPool2d.cpp: random samples [N, C, axes] first */
static void vram__run_fractional_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t k = n->op == VRAM_OP_fractional_max_pool2d ? 2 : 3;
  int64_t size[3];
  vram__t r, m;
  vram__fn *f;
  size[0] = x[0].d->ndim == k + 2 ? x[0].d->v[0] : 1;
  size[1] = x[0].d->v[x[0].d->ndim - k - 1];
  size[2] = k;
  r = vram__empty(s, vram__dims_in(s, 3, size, NULL), x[0].dt);
  f = vram__record(s, n->op, x, 1, 1, 2);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  m = vram__empty(s, n->out[0].d, VRAM_I64);
  if (f)
    vram__save(s, f, x[0]), vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, r);
  if (n->nout > 1)
    y[1] = m;
  else
    vram__let(s, m);
}

static void vram__bw_fractional_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c = vram__none();
  if (f->kind == VRAM_OP_fractional_max_pool2d)
    c = vram__contiguous(s, g);
  to[0] = vram__empty(s, vram__contig(s, VRAM__SAVED(f)[0].d), g.dt);
  vram__let(s, c);
}

static void vram__run_max_unpool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c, i;
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  c = vram__contiguous(s, a);
  i = vram__contiguous(s, x[1]);
  y[0] = vram__empty(s, vram__pool_dims(s, n, a.d->ndim), a.dt);
  vram__let(s, i);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_max_unpool(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* ---- resampling ---- */

enum {
  VRAM__UP_NEAREST,
  VRAM__UP_LINEAR, /* linear, bilinear, trilinear */
  VRAM__UP_BICUBIC,
  VRAM__UP_AREA,
  VRAM__UP_AA,  /* with antialias=1 */
  VRAM__UP_COPY /* to the size that it has */
};

static uint32_t vram__up_mode(const vram_node *n) {
  int64_t w = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  if (VRAM__INT(n, antialias, 0))
    return VRAM__UP_AA;
  return w == VRAM__WORD("nearest") || w == VRAM__WORD("nearest-exact") ? VRAM__UP_NEAREST
         : w == VRAM__WORD("area")                                      ? VRAM__UP_AREA
         : w == VRAM__WORD("bicubic")                                   ? VRAM__UP_BICUBIC
                                                                        : VRAM__UP_LINEAR;
}

static void vram__run_interpolate(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mode = vram__up_mode(n), k = x[0].d->ndim - 2u;
  const vram_dims *d = n->out[0].d;
  int cl = vram__suggests_cl(x[0].d);
  vram__t a, c, t = vram__none();
  vram__fn *f;
  if (mode == VRAM__UP_AREA) {
    a = x[0];
    if (k == 1)
      a = vram__t_unsqueeze(s, a, 2), d = vram__unsqueezed(s, d, 2);
    y[0] = vram__t_adaptive_avg(s, a, d, k == 3 ? 3 : 2);
    if (k == 1) {
      vram__let(s, a);
      c = vram__t_squeeze1(s, y[0], 2);
      vram__let(s, y[0]);
      y[0] = c;
    }
    return;
  }
  a = s->amp ? vram__autocast(s, x[0], VRAM_F32) : vram__keep_t(s, x[0]); /* fp32 list */
  f = vram__record(s, n->op, &a, 1, 1, 0);
  if (f)
    f->aux = mode;
  y[0] = vram__empty(s, vram__formatted(s, d, cl), a.dt);
  if (k == 2 && (mode == VRAM__UP_NEAREST || mode == VRAM__UP_LINEAR) && a.d->v[2] == d->v[2] &&
      a.d->v[3] == d->v[3]) { /* UpSampleNearest2d.cu, UpSampleBilinear2d.cu: copy_ */
    if (f)
      f->aux = VRAM__UP_COPY;
  } else if (mode == VRAM__UP_NEAREST || mode == VRAM__UP_AA) {
    int native = cl && k == 2 && mode == VRAM__UP_NEAREST && x[0].d->v[1] >= 4;
    if (cl && !native)
      t = vram__contiguous(s, y[0]);
    c = vram__in_format(s, a, native);
    vram__let(s, c);
    vram__let(s, t);
  } else if (mode == VRAM__UP_LINEAR && k == 2 && cl && x[0].d->v[1] >= 16) {
    c = vram__in_format(s, a, 1); /* UpSampleBilinear2d.cu: fewer channels are read by strides */
    vram__let(s, c);
  }
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a);
}

static void vram__bw_interpolate(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c, t = vram__none();
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int cl = vram__suggests_cl(g.d), native = cl && d->ndim == 4 && d->v[1] >= 4;
  if (f->aux == VRAM__UP_BICUBIC || f->aux == VRAM__UP_AA ||
      (f->aux == VRAM__UP_NEAREST && d->ndim == 5))
    cl = native = 0;
  to[0] = vram__empty(s, vram__formatted(s, d, cl), g.dt);
  if (f->aux == VRAM__UP_COPY)
    return;
  if (cl && !native && d->ndim == 4)
    t = vram__contiguous(s, to[0]);
  c = vram__in_format(s, g, native);
  if (cl && d->ndim == 5) { /* UpSampleTrilinear3d.cu: the other way round */
    t = vram__contiguous(s, to[0]);
    vram__let(s, t);
    t = vram__none();
  }
  vram__let(s, c);
  vram__let(s, t);
}

/* PixelShuffle.cpp: views and a contiguous clone */
static void vram__run_pixel(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_pixel(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* GridSampler.cpp; the grid's gradient is made whether it is wanted or not */
static void vram__run_grid_sample(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[2];
  vram__fn *f;
  uint32_t i;
  uint8_t dt = x[0].dt;
  if (s->amp) /* autocast: the widest */
    dt = vram__promote2(x[0].dt, x[1].dt);
  for (i = 0; i < 2; i++)
    a[i] = s->amp ? vram__autocast(s, x[i], dt) : vram__keep_t(s, x[i]);
  f = vram__record(s, n->op, a, 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__empty(s, n->out[0].d, a[0].dt);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a[0]);
  vram__let(s, a[1]);
}

static void vram__bw_grid_sample(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t x = VRAM__SAVED(f)[0], grid = VRAM__SAVED(f)[1], t;
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  t = vram__empty(s, vram__contig(s, grid.d), grid.dt);
  if (vram__wants(f, 1))
    to[1] = t;
  else
    vram__let(s, t);
}

/* Im2Col.cu, Col2Im.cu: the result begins as a tensor like x and is resized; a storage never
   shrinks. */
static vram__t vram__resized(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t y = vram__empty(s, vram__dense(s, x.d), x.dt), c = vram__contiguous(s, x), z;
  uint64_t have = vram__bytes_of(x.d, x.dt), need = vram__bytes_of(d, x.dt);
  if (need > have) {
    z = vram__empty(s, d, x.dt);
    vram__let(s, y);
    y = z;
  } else
    y.d = d;
  vram__let(s, c);
  return y;
}

static void vram__run_fold(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__resized(s, x[0], n->out[0].d);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_fold(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__resized(s, VRAM__SLOTS(f)[0].g, vram__contig(s, vram__in_dims(s, f, 0, NULL)));
}

/* ---- activations with more than a pointwise kernel ---- */

static void vram__run_glu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  const vram_dims *half[2];
  half[0] = half[1] = vram__dims_in(s, x[0].d->ndim, n->out[0].d->v, VRAM__STRIDE(x[0].d));
  if (f)
    vram__save(s, f, x[0]);
  y[0] = vram__empty(s, vram__ti(s, half, 2), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_glu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, VRAM__SAVED(f)[0].d), VRAM__SLOTS(f)[0].g.dt);
}

/* PReLU: the weight as [1, C, 1, ...] */
static void vram__run_prelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
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

static void vram__bw_prelu(vram__s *s, vram__fn *f, vram__t *to) {
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
static void vram__run_rrelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
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

static void vram__bw_rrelu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SAVED(f)[1], VRAM__SLOTS(f)[0].g);
}

/* y.add_(b) */
static void vram__t_add_(vram__s *s, vram__t *y, vram__t b) {
  vram__t in[2];
  vram__fn *f;
  in[0] = *y, in[1] = b;
  f = vram__record(s, VRAM_OP_add, in, 2, 1, 0);
  if (f) {
    uint32_t old = y->fn;
    vram__made(s, f, 0, y);
    if (old && !(old & VRAM__LEAF))
      vram__fn_at(s, old)->refs--;
  }
}

VRAM__SELDOM_END

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

/* Where gradients for this leaf arrive now. */
static inline vram__task *vram__task_of(const vram__s *s, vram__leaf *l) {
  return s->depth ? s->inner + (l - s->leaf) : &l->task;
}

/* Where a gradient that goes along this edge arrives. */
static inline vram__t *vram__end_of(vram__s *s, vram__edge e) {
  return e.fn & VRAM__LEAF ? &vram__task_of(s, s->leaf + (e.fn & ~VRAM__LEAF))->in
                           : &VRAM__SLOTS(vram__fn_at(s, e.fn))[e.out].g;
}

VRAM__RARE void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to);

/* g is no plain matrix: ViewBackward, AddmmBackward, TBackward */
static void vram__bw_linear_view(vram__s *s, vram__fn *f, vram__t *to) {
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

static void vram__bw_linear(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f), *w = edge + f->nin - 1;
  if (VRAM__SLOTS(f)[0].g.d->flags & VRAM__PLAIN)
    vram__bw_plain_linear(s, f, to);
  else
    vram__bw_linear_view(s, f, to);
  if ((w->fn && vram__end_of(s, *w)->d) || (f->nin > 2 && edge->fn && vram__end_of(s, *edge)->d))
    vram__linear_shared(s, f, to);
}

VRAM__SELDOM_BEGIN

/* Linear.cpp, linear; b.d NULL: without bias */
static vram__t vram__t_linear(vram__s *s, vram__t x, vram__t w, vram__t b) {
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

VRAM__SELDOM_END

static void vram__run_linear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[3]; /* bias, input, weight */
  in[1] = x[0];
  vram__weights(s, n, &in[2], &in[0]);
  if (!s->amp && vram__usual_linear(s, &in[1], &in[2], &in[0]))
    y[0] = vram__linear(s, in, n->out[0].d);
  else
    y[0] = vram__t_linear(s, in[1], in[2], in[0]);
}

VRAM__SELDOM_BEGIN

static void vram__run_product(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3];
  uint32_t i, factors = 0;
  if (VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__ALPHA;
  if (VRAM__INT(n, beta, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__BETA;
  for (i = n->nin; i-- > 0;)
    a[i] = s->amp ? vram__autocast(s, x[i], s->amp) : vram__keep_t(s, x[i]);
  switch (n->op) {
  case VRAM_OP_bmm:
    y[0] = vram__t_product(s, VRAM__K_bmm, a[0], a[1]);
    break;
  case VRAM_OP_mm:
    y[0] = vram__t_product(s, VRAM__K_mm, a[0], a[1]);
    break;
  case VRAM_OP_addmm:
    y[0] = vram__t_addmm(s, a[0], a[1], a[2], factors);
    break;
  case VRAM_OP_baddbmm:
    y[0] = vram__t_baddbmm(s, a[0], a[1], a[2], factors);
    break;
  default:
    y[0] = vram__t_matmul(s, a[0], a[1]);
    break;
  }
  for (i = 0; i < n->nin; i++)
    vram__let(s, a[i]);
}

static void vram__run_view(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = n->out[0].d;
  int64_t stride[VRAM_MAX_AXES];
  if (n->op == VRAM_OP_flatten && d->ndim == x[0].d->ndim) /* of one axis: x itself */
    y[0] = vram__keep_t(s, x[0]);
  else if (x[0].d->flags & VRAM__PLAIN)
    y[0] = vram__view(s, x[0], d, VRAM__K_view, 0);
  else {
    if (n->op == VRAM_OP_view && !vram__view_strides(x[0].d, d->ndim, d->v, stride))
      vram__no_step(s, VRAM_ERR_UNSUPPORTED, n,
                    "a view that the strides do not allow: PyTorch stops with an error (reshape "
                    "copies)");
    y[0] = vram__t_reshape(s, x[0], d->ndim, d->v);
  }
}

static void vram__bw_view(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int64_t stride[VRAM_MAX_AXES];
  if (f->aux && vram__view_strides(g.d, d->ndim, d->v, stride)) {
    stride[d->ndim - 1u] = 1;
    to[0] = vram__alias(s, g, vram__dims_in(s, d->ndim, d->v, stride));
  } else
    to[0] = vram__reshape(s, g, d->ndim, d->v);
}

static void vram__run_permute(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t order[VRAM_MAX_AXES];
  vram__order((vram_graph *)0, n, x[0].d->ndim, order);
  y[0] = vram__t_permute(s, x[0], order);
}

static void vram__bw_permute(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < g.d->ndim; i++)
    order[(f->aux >> (8 * i)) & 7] = (uint8_t)i;
  to[0] = vram__alias(s, g, vram__permuted(s, g.d, order));
}

static uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim);

static void vram__run_squeeze(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t a;
  if (n->op == VRAM_OP_unsqueeze) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim + 1u, &a);
    y[0] = vram__t_unsqueeze(s, x[0], a);
    return;
  }
  y[0] = vram__t_squeeze(
      s, x[0], vram__list(n, VRAM__KEY_dim, NULL) ? vram__dim_mask(n, x[0].d->ndim) : 0xff);
}

/* squeeze: unsqueeze_to, g itself where nothing was squeezed; unsqueeze: squeeze */
static void vram__bw_squeeze(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = g.d;
  uint32_t i;
  g.fn = 0;
  if (f->kind == VRAM_OP_unsqueeze)
    d = vram__without_axis(s, d, (uint32_t)f->aux);
  else if (!f->aux) {
    to[0] = vram__keep_t(s, g);
    return;
  } else
    for (i = 0; i < VRAM_MAX_AXES; i++)
      if (f->aux >> i & 1)
        d = vram__unsqueezed(s, d, i);
  to[0] = vram__alias(s, g, d);
}

static void vram__run_expand(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__t_expand(s, x[0], n->out[0].d->ndim, n->out[0].d->v);
}

static void vram__bw_expand(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__sum_to(s, VRAM__SLOTS(f)[0].g, vram__in_dims(s, f, 0, NULL));
}

/* Where a view begins that leaves out the first `start` along an axis. */
static uint8_t vram__at(vram__t x, uint32_t axis, int64_t start) {
  return (uint8_t)((x.off + (uint64_t)start * (uint64_t)VRAM__STRIDE(x.d)[axis]) % 16);
}

/* slice, narrow and select: the gradient is written into zeros of the input's size */
static void vram__run_slice(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES], start, step, len;
  uint32_t a, i, m = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (n->op != VRAM_OP_select)
    vram__slice_of(n, x[0].d->v[a], &start, &step, &len);
  for (i = 0; i < x[0].d->ndim; i++) {
    if (i == a && n->op == VRAM_OP_select)
      continue;
    size[m] = x[0].d->v[i], stride[m] = VRAM__STRIDE(x[0].d)[i];
    if (i == a)
      size[m] = len, stride[m] *= step;
    m++;
  }
  if (n->op == VRAM_OP_select) {
    start = VRAM__INT(n, index, 0);
    if (start < 0)
      start += x[0].d->v[a];
  }
  y[0] = vram__view(s, x[0], vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
  y[0].off = vram__at(x[0], a, start);
}

static void vram__bw_slice(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

static void vram__run_split(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t a, i, j;
  int64_t at = 0;
  vram__fn *f;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  f = vram__record(s, n->op, x, 1, n->nout, 0);
  if (f)
    f->aux = a;
  for (i = 0; i < n->nout; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    for (j = 0; j < x[0].d->ndim; j++) {
      if (j == a && n->op == VRAM_OP_unbind)
        continue;
      size[m] = j == a ? n->out[i].d->v[a] : x[0].d->v[j];
      stride[m++] = VRAM__STRIDE(x[0].d)[j];
    }
    y[i] = vram__alias(s, x[0], vram__dims_in(s, m, size, stride));
    y[i].off = vram__at(x[0], a, at);
    at += n->op == VRAM_OP_unbind ? 1 : n->out[i].d->v[a];
    y[i].req = x[0].req; /* as vram__view */
    vram__made(s, f, i, &y[i]);
  }
}

/* The result of at::cat: channels-last if all pieces are stored so. d: contiguous dims. */
static const vram_dims *vram__cat_dims(vram__s *s, const vram_dims *d, int cl) {
  return cl && (d->ndim == 4 || d->ndim == 5) ? vram__as_cl(s, d) : d;
}

/* split: cat of the pieces, zeros stand in for those without a gradient; unbind: stack of them,
   one zero expanded for each */
static void vram__bw_split(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  uint8_t dt = 0;
  int cl = 1;
  vram__slot *slot = VRAM__SLOTS(f);
  const vram_dims *d = vram__contig(s, vram__in_dims(s, f, 0, &dt)), *p;
  for (i = 0; i < f->nout; i++)
    if (!slot[i].g.d) {
      p = f->kind == VRAM_OP_unbind ? s->scalar : vram__contig(s, slot[i].d);
      slot[i].g = vram__empty(s, p, dt);
      slot[i].g.req = 2; /* ours */
      if (f->kind == VRAM_OP_unbind)
        slot[i].g.d = vram__expanded(s, p, slot[i].d->ndim, slot[i].d->v);
    }
  for (i = 0; cl && i < f->nout; i++) {
    p = slot[i].g.d;
    if (f->kind == VRAM_OP_unbind)
      p = vram__unsqueezed(s, p, (uint32_t)f->aux);
    cl = vram__suggests_cl(p);
  }
  to[0] = vram__empty(s, vram__cat_dims(s, vram__dims_in(s, d->ndim, d->v, NULL), cl), dt);
  for (i = 0; i < f->nout; i++)
    if (slot[i].g.req == 2) {
      vram__let(s, slot[i].g);
      slot[i].g = vram__none();
    }
}

static void vram__run_detach(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__alias_only(s, x[0], x[0].d);
}

static void vram__run_cat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t i, a;
  int cl = 1;
  vram__promote p;
  vram__fn *f;
  vram__zero(&p, sizeof p);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->out[0].d->ndim, &a);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, x[i].dt, x[i].d->ndim);
  for (i = 0; cl && i < n->nin; i++)
    cl = n->out[0].d->ndim > 3 &&
         vram__suggests_cl(n->op == VRAM_OP_stack ? vram__unsqueezed(s, x[i].d, a) : x[i].d);
  f = vram__record(s, n->op, x, n->nin, 1, 0);
  if (f) {
    f->aux = a;
    for (i = 0; i < n->nin; i++)
      if (!vram__wants(f, i)) /* where the next piece begins */
        VRAM__EDGES(f)
    [i].out = n->op == VRAM_OP_cat && !vram__cat_skips(x[i].d) ? (uint32_t)x[i].d->v[a] : 0;
  }
  y[0] = vram__empty(s, vram__cat_dims(s, n->out[0].d, cl), vram__promote_get(&p));
  vram__made(s, f, 0, &y[0]);
}

/* the gradients are views of g */
static void vram__bw_cat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i, j, a = (uint32_t)f->aux;
  int stack = f->kind == VRAM_OP_stack;
  int64_t at = 0;
  for (i = 0; i < f->nin; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    const vram_dims *d;
    if (!vram__wants(f, i)) {
      at += VRAM__EDGES(f)[i].out;
      continue;
    }
    d = vram__in_dims(s, f, i, NULL);
    if (!stack && vram__cat_skips(d)) {
      to[i] = vram__empty(s, d, g.dt);
      continue;
    }
    for (j = 0; j < g.d->ndim; j++) {
      if (stack && j == a)
        continue;
      size[m] = d->v[m];
      stride[m++] = VRAM__STRIDE(g.d)[j];
    }
    to[i] = vram__alias(s, g, vram__dims_in(s, m, size, stride));
    to[i].off = vram__at(g, a, stack ? (int64_t)i : at);
    at += stack ? 0 : d->v[a];
  }
}

/* roll_cuda: one axis after the other, each a contiguous tensor */
static vram__t vram__rolled(vram__s *s, vram__t x, uint32_t times) {
  vram__t t = vram__none(), c, y;
  vram__t mid[2 * VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < times; i++) {
    c = t.d ? t : x;
    c = c.d->flags & VRAM__CONTIG ? vram__none() : vram__contiguous(s, c);
    y = vram__empty(s, vram__dims_in(s, x.d->ndim, x.d->v, NULL), x.dt);
    vram__let(s, c);
    if (t.d)
      mid[i - 1] = t;
    t = y;
  }
  for (i = times - 1; i-- > 0;)
    vram__let(s, mid[i]);
  return t;
}

static void vram__run_roll(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t c;
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  vram__list(n, VRAM__KEY_dims, &c);
  if (!c)
    c = 1;
  if (f)
    f->aux = c;
  y[0] = vram__rolled(s, x[0], c);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_roll(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__rolled(s, VRAM__SLOTS(f)[0].g, (uint32_t)f->aux);
}

static void vram__run_flip(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_flip(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__dense(s, g.d), g.dt);
}

static void vram__run_repeat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, VRAM_OP_repeat, x, 1, 1, 0);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

/* repeat_backward: new axes are summed one by one, the others in one go */
static void vram__bw_repeat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int64_t size[2 * VRAM_MAX_AXES];
  uint32_t i, m = 0, mask = 0, k = g.d->ndim - (uint32_t)d->ndim;
  g.fn = 0;
  t = vram__keep_t(s, g);
  for (i = 0; i < k; i++) {
    vram__t sum = vram__sum(s, t, 1, 0, t.dt);
    vram__let(s, t);
    t = sum;
  }
  for (i = 0; i < d->ndim; i++) {
    int64_t r = d->v[i] ? t.d->v[i] / d->v[i] : 1;
    if (r != 1)
      mask |= 1u << m, size[m++] = r;
    size[m++] = d->v[i];
  }
  if (m > VRAM_MAX_AXES) {
    vram__let(s, t);
    t = vram__empty(s, vram__contig(s, d), g.dt);
  } else if (mask) {
    vram__t u = vram__reshape(s, t, m, size), sum;
    sum = vram__sum(s, u, mask, 0, t.dt);
    vram__let(s, u);
    vram__let(s, t);
    t = sum;
  }
  to[0] = t;
}

/* TensorFactories: unsqueeze, expand, clone, flatten */
static void vram__run_repeat_interleave(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t a = 0, i, ndim;
  vram__t t, u;
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
    t = vram__keep_t(s, x[0]);
  } else {
    size[0] = (int64_t)x[0].d->numel;
    t = vram__t_reshape(s, x[0], 1, size);
  }
  ndim = t.d->ndim;
  u = vram__t_unsqueeze(s, t, a + 1);
  vram__let(s, t);
  for (i = 0; i <= ndim; i++)
    size[i] = i == a + 1 ? vram__int(n, VRAM__KEY_repeats, 1) : u.d->v[i];
  t = vram__t_expand(s, u, ndim + 1, size);
  vram__let(s, u);
  u = vram__t_clone(s, t, vram__dims_in(s, ndim + 1, size, NULL));
  vram__let(s, t);
  y[0] = vram__view(s, u, n->out[0].d, VRAM__K_view, 0);
  vram__let(s, u);
}
#define vram__bw_repeat_interleave vram__bw_none

static void vram__run_contiguous(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_contiguous(s, x[0]);
}

static void vram__run_clone(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_clone(s, x[0], vram__dense(s, x[0].d));
}

static void vram__bw_clone(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  g.fn = 0;
  to[0] = vram__keep_t(s, g);
}

static void vram__run_to(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = n->op == VRAM_OP_to ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : x[1].dt;
  if (n->op == VRAM_OP_to && s->low && dt == VRAM_F32)
    dt = s->low;
  y[0] = vram__t_cast(s, x[0], dt);
}

static void vram__bw_cast(vram__s *s, vram__fn *f, vram__t *to) {
  uint8_t dt;
  vram__in_dims(s, f, 0, &dt);
  to[0] = vram__to(s, VRAM__SLOTS(f)[0].g, dt);
}

static void vram__run_create(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = n->nin ? x[0].dt : n->out[0].dtype;
  if (!n->nin && s->low && dt == VRAM_F32)
    dt = s->low;
  y[0] = vram__empty(s, n->out[0].d, dt);
}

static void vram__run_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__pointwise_inplace(s, VRAM__K_zeros_like, x, 1);
  (void)n;
}

static void vram__run_parameter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)x;
  y[0] = vram__keep_t(s, s->param[n->param[0]->index]);
}

static uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim) {
  uint32_t c, i, a, mask = 0;
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    vram__axis((vram_graph *)0, v[i], ndim, &a);
    mask |= 1u << a;
  }
  return v && c ? mask : ndim ? (1u << ndim) - 1 : 0;
}

/* The dtype argument of a reduction, given or set by autocast (fp32_set_opt_dtype); else 0. */
static uint8_t vram__opt_dtype(const vram__s *s, const vram_node *n, uint8_t dt) {
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    return vram__run_dtype(s, (uint8_t)VRAM__INT(n, dtype, dt));
  if (s->amp && vram__op_at(n->op)->autocast == VRAM__AC_opt32 && vram__is_float(dt) &&
      dt != VRAM_F64)
    return VRAM_F32;
  return 0;
}

static int vram__keepdim(const vram_node *n) { return VRAM__INT(n, keepdim, 0) != 0; }

/* Half precision is read as it is for a result in fp32; other dtypes are converted before. */
static vram__t vram__reduced_as(vram__s *s, vram__t x, uint8_t dt) {
  return x.dt == dt || (dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16))
             ? vram__none()
             : vram__to(s, x, dt);
}

static void vram__run_reduce(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = dt && !vram__is_float(dt) ? NULL : vram__record(s, n->op, x, 1, 1, 0);
  if (f)
    f->aux = mask | (vram__list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
  if (!dt)
    dt = n->op == VRAM_OP_sum && vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  y[0] = vram__sum(s, x[0], mask, vram__keepdim(n), dt);
  vram__made(s, f, 0, &y[0]);
}

/* the gradient of a sum is a view of g, that of a mean one more tensor */
static void vram__bw_reduce(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  t = f->aux & 256 ? vram__kept(s, g, d, (uint32_t)f->aux) : g;
  t = vram__alias(s, g, vram__expanded(s, t.d, d->ndim, d->v));
  if (f->kind == VRAM_OP_sum) {
    to[0] = t;
    return;
  }
  to[0] = vram__ti_number(s, t);
  vram__let(s, t);
}

static vram__t vram__compared(vram__s *s, vram__t a, vram__t b) {
  const vram_dims *d[2];
  d[0] = a.d, d[1] = b.d;
  return vram__empty(s, vram__ti(s, d, 2), VRAM_BOOL);
}

/* amax, amin; max, min of an axis (with indices) or of all */
static void vram__run_extreme(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  int pair = (n->op == VRAM_OP_max || n->op == VRAM_OP_min) && vram__list(n, VRAM__KEY_dim, NULL);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t i = vram__none();
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), x[0].dt);
  if (pair) {
    i = vram__reduced(s, x[0], mask, vram__keepdim(n), VRAM_I64);
    vram__reduce(s, x[0], mask, x[0].dt, 16, 4);
  } else if (n->op == VRAM_OP_max || n->op == VRAM_OP_min) { /* ReduceAllOps.cpp: contiguous */
    vram__t c = vram__contiguous(s, x[0]);
    vram__reduce(s, c, mask, x[0].dt, vram__size_of(x[0].dt), 4);
    vram__let(s, c);
  } else
    vram__reduce(s, x[0], mask, x[0].dt, vram__size_of(x[0].dt), 4);
  if (f) {
    f->aux = mask;
    if (pair)
      vram__save(s, f, i);
    else
      vram__save(s, f, x[0]), vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
  if (n->nout > 1)
    y[1] = i;
  else
    vram__let(s, i);
}

static void vram__bw_extreme(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, m, q, count, t;
  uint32_t mask = (uint32_t)f->aux, all = x.d->ndim ? (1u << x.d->ndim) - 1 : 0;
  if (f->nsaved == 1) { /* value_selecting_reduction_backward */
    const vram_dims *d = vram__in_dims(s, f, 0, NULL);
    to[0] = vram__empty(s, vram__contig(s, d), g.dt);
    return;
  }
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, mask);
  g = vram__kept(s, g, x.d, mask);
  if (f->kind == VRAM_OP_max || f->kind == VRAM_OP_min) { /* evenly_distribute_backward */
    vram__t nan = vram__compared(s, x, x),
            one = vram__compared(s, VRAM__SAVED(f)[1], VRAM__SAVED(f)[1]);
    m = vram__compared(s, x, VRAM__SAVED(f)[1]);
    count = vram__sum(s, nan, all, 0, VRAM_I64);
    q = vram__ti2(s, VRAM__SLOTS(f)[0].g, count);
    to[0] = vram__ti2(s, nan, q);
    vram__let(s, q);
    vram__let(s, count);
    vram__let(s, m);
    vram__let(s, one);
    vram__let(s, nan);
    return;
  }
  m = vram__compared(s, y, x); /* scale_grad_by_count */
  count = vram__sum(s, m, mask, 1, VRAM_I64);
  q = vram__ti2(s, g, count);
  t = vram__ti2(s, q, m);
  vram__let(s, q);
  vram__let(s, count);
  vram__let(s, m);
  to[0] = t;
}

static void vram__run_prod(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t c, a = x[0];
  if (!dt)
    dt = vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  y[0] = vram__reduced(s, a, mask, vram__keepdim(n), dt);
  c = vram__reduced_as(s, a, dt);
  vram__reduce(s, c.d ? c : a, mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  if (f) {
    f->aux = mask | (vram__list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
    vram__save(s, f, a);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

/* ---- cub ---- */

static uint64_t vram__up256(uint64_t n) { return (n + 255) & ~UINT64_C(255); }
static uint64_t vram__tiles(uint64_t n, uint64_t tile) { return (n + tile - 1) / tile; }

/* Scratch that stays for a while: its storage. */
static uint32_t vram__held(vram__s *s, uint64_t bytes) {
  uint8_t cat = s->cat;
  uint32_t i;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  i = s->ideal ? 0 : vram__new(s, bytes);
  s->cat = cat;
  return i;
}

static void vram__held_gone(vram__s *s, uint32_t i) {
  if (i)
    vram__drop_store(s, i);
}

/* cub::DeviceRadixSort::SortPairs of n keys and values of so many bytes over `bits` of the key; key
   0: numbers of segments */
static uint64_t vram__cub_sort(const vram__s *s, uint64_t n, uint32_t key, uint32_t value,
                               uint32_t bits) {
  uint32_t passes = (bits + 7) / 8;
  uint64_t tile = vram__cub_sort_tile[s->cc < 80   ? 0
                                      : s->cc < 90 ? 1
                                                   : 2][key == 0     ? 5
                                                        : value == 4 ? 4
                                                        : key == 1   ? 0
                                                        : key == 2   ? 1
                                                        : key == 4   ? 2
                                                                     : 3];
  uint64_t second = vram__up256(n * key) + vram__up256(n * value);
  if (n <= (value == 4 ? VRAM__CUB_ONE_TILE_4 : VRAM__CUB_ONE_TILE_8) && key)
    return 1;
  if (!tile)
    return 255 + second +
           4 * ((key == 1 ? 128u : 256u) * UINT64_C(5) * s->sm * (s->threads / 256) +
                VRAM__CUB_SPINE);
  return VRAM__CUB_PARTS + VRAM__CUB_SORT_PASS * passes +
         VRAM__CUB_SORT_TILE * vram__tiles(n, tile) + (passes > 1 ? second : 0);
}

/* kind 0, 1: unique_by_key with keys of 8, of 4 bytes; 2: a selection */
static uint64_t vram__cub_select(const vram__s *s, uint64_t n, uint32_t kind) {
  uint64_t tile = vram__cub_select_tile[s->cc >= 90 ? 2 : s->cc == 80 ? 1 : 0][kind];
  return VRAM__CUB_PARTS + (kind < 2 ? 256 : 0) +
         vram__up256(8 * (vram__tiles(n, tile) + VRAM__CUB_SCAN_PAD));
}

static uint64_t vram__cub_scan(uint64_t n, uint32_t esize) {
  uint64_t t = vram__tiles(n, esize == 8   ? VRAM__CUB_SCAN_TILE_8
                              : esize == 4 ? VRAM__CUB_SCAN_TILE_4
                                           : VRAM__CUB_SCAN_TILE_2) +
               VRAM__CUB_SCAN_PAD;
  if (esize == 2)
    return VRAM__CUB_PARTS + vram__up256(4 * t) + 512 * vram__tiles(t, 128);
  return VRAM__CUB_PARTS + vram__up256((esize == 8 ? 16 : 8) * t);
}

/* cub::DeviceScan::InclusiveSumByKey with keys of so many bytes */
static uint64_t vram__cub_by_key(const vram__s *s, uint64_t n, uint32_t key) {
  uint64_t t = vram__tiles(n, vram__cub_by_key_tile[s->cc >= 90   ? 2
                                                    : s->cc == 80 ? 1
                                                                  : 0][key == 4]);
  return VRAM__CUB_PARTS + vram__up256(8 * (t + VRAM__CUB_SCAN_PAD)) +
         vram__up256(key / 2 * (t + 2));
}

/* The positions where a mask of n elements is set, `ndim` numbers each: all of them, as an upper
   bound; ndim 0: none. Gives their storage (Nonzero.cu). */
static uint32_t vram__nonzero(vram__s *s, uint64_t n, uint32_t ndim) {
  uint32_t count = vram__held(s, 4), out;
  vram__workspace(s, n <= VRAM__CUB_ONE_REDUCE
                         ? 1
                         : 255 + vram__up256(UINT64_C(20) * s->sm * (s->threads / 256)));
  out = vram__held(s, vram__mul(vram__mul(n, ndim), 8));
  vram__workspace(s, vram__cub_select(s, n, 2));
  vram__held_gone(s, count);
  return out;
}

/* prod_backward where no value is zero */
static void vram__bw_prod(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = vram__to(s, VRAM__SAVED(f)[0], g.dt), y = VRAM__SAVED(f)[1],
          m, count, q;
  uint32_t mask = (uint32_t)f->aux & 255;
  if (!x.d->ndim) {
    vram__let(s, x);
    g.fn = 0;
    to[0] = vram__keep_t(s, g);
    return;
  }
  m = vram__empty(s, vram__with_number(s, x.d), VRAM_BOOL);
  if (f->aux & 256) {
    g = vram__kept(s, g, x.d, mask);
    y = vram__kept(s, y, x.d, mask);
    count = vram__sum(s, m, mask, 1, VRAM_I64);
    vram__let(s, vram__sum(s, count, (1u << x.d->ndim) - 1, 0, VRAM_I64));
    q = vram__ti2(s, y, x);
    to[0] = vram__ti2(s, g, q);
    vram__let(s, q);
    vram__let(s, count);
    vram__let(s, m);
  } else {
    count = vram__contiguous(s, m);
    vram__nonzero(s, x.d->numel, 0);
    vram__let(s, count);
    vram__let(s, m);
    q = vram__ti2(s, y, x);
    to[0] = vram__ti2(s, g, q);
    vram__let(s, q);
  }
  vram__let(s, x);
}

static void vram__run_var(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), x[0].dt);
  /* WelfordData: mean, m2, int32 n, nf */
  vram__reduce(s, x[0], mask, x[0].dt, x[0].dt == VRAM_F64 ? 32 : 16, 2);
  if (f) {
    f->aux = mask;
    vram__save(s, f, x[0]);
    if (n->op == VRAM_OP_std)
      vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_var(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], own = vram__none(), mean, d, c, a, b;
  uint32_t mask = (uint32_t)f->aux;
  if (f->kind == VRAM_OP_std) { /* std_backward */
    vram__t y = VRAM__SAVED(f)[1], m;
    a = vram__ti_number(s, y);
    own = vram__ti2(s, g, a);
    m = vram__empty(s, vram__with_number(s, y.d), VRAM_BOOL);
    vram__let(s, m);
    vram__let(s, a);
    g = own;
  }
  if ((!x.d->ndim || !vram__list(f->node, VRAM__KEY_dim, NULL)) &&
      (int64_t)x.d->numel <= VRAM__INT(f->node, correction, VRAM__INT(f->node, unbiased, 1))) {
    /* var_backward of too few values: g * where(x == mean, NaN, infinity) */
    mean = vram__sum(s, x, mask, 0, x.dt);
    c = vram__empty(s, vram__dense(s, x.d), VRAM_BOOL);
    a = vram__empty(s, s->scalar, VRAM_F32), b = vram__empty(s, s->scalar, VRAM_F32);
    d = vram__empty(s, c.d, VRAM_F32);
    vram__let(s, b);
    vram__let(s, a);
    to[0] = vram__ti2(s, g, d);
  } else {
    g = vram__kept(s, g, x.d, mask);
    mean = vram__sum(s, x, mask, 1, x.dt);
    d = vram__ti2(s, x, mean);
    c = vram__ti_number(s, g);
    to[0] = vram__ti2(s, c, d);
  }
  vram__let(s, c);
  vram__let(s, d);
  vram__let(s, mean);
  vram__let(s, own);
}

/* torch.linalg.vector_norm with ord 2 */
static void vram__run_vector_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t c;
  if (!dt)
    dt = x[0].dt;
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), dt);
  c = vram__reduced_as(s, x[0], dt);
  if (y[0].d->numel == x[0].d->numel) { /* LinearAlgebra.cpp: abs, in the result's dtype */
    if (!c.d && x[0].dt != dt)
      c = vram__to(s, x[0], dt);
  } else
    vram__reduce(s, c.d ? c : x[0], mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  if (f) {
    f->aux =
        vram__list(n, VRAM__KEY_dim, NULL) ? mask : 0; /* no dim: a scalar, no axes to put back */
    vram__save(s, f, x[0]);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

/* norm_backward */
static void vram__bw_vector_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, q, m;
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, (uint32_t)f->aux);
  g = vram__kept(s, g, x.d, (uint32_t)f->aux);
  q = vram__ti2(s, x, y);
  m = vram__empty(s, vram__with_number(s, y.d), VRAM_BOOL);
  to[0] = vram__ti2(s, g, q);
  vram__let(s, m);
  vram__let(s, q);
}

/* ReduceOps.cpp, logsumexp_out_impl */
static void vram__run_logsumexp(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__t a = s->amp ? vram__autocast(s, x[0], VRAM_F32) : vram__keep_t(s, x[0]), max, e, m;
  vram__fn *f;
  if (vram__kind_rank(a.dt) < 2) {
    e = a;
    a = vram__to(s, e, vram__run_dtype(s, VRAM_F32));
    vram__let(s, e);
  }
  f = vram__record(s, n->op, &a, 1, 1, 2);
  max = vram__reduced(s, a, mask, 1, a.dt);
  vram__reduce(s, a, mask, a.dt, vram__size_of(a.dt), 4);
  e = vram__ti1(s, max);
  m = vram__empty(s, max.d, VRAM_BOOL);
  vram__let(s, m);
  vram__let(s, e);
  e = vram__ti2(s, a, max);
  y[0] = vram__sum(s, e, mask, vram__keepdim(n), a.dt);
  vram__let(s, e);
  vram__let(s, max);
  if (f) {
    f->aux = mask;
    vram__save(s, f, a);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a);
}

static void vram__bw_logsumexp(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, d, e;
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, (uint32_t)f->aux);
  g = vram__kept(s, g, x.d, (uint32_t)f->aux);
  d = vram__ti2(s, x, y);
  e = vram__ti1(s, d);
  to[0] = vram__ti2(s, g, e);
  vram__let(s, e);
  vram__let(s, d);
}

/* Another op of the table, as PyTorch's composite functions call it. b.d NULL: a number; out: the
   result's sizes, for ops that take them from the graph. */
static void vram__run_op(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

static vram__t vram__call_n(vram__s *s, uint32_t op, uint32_t flags, const vram__t *in,
                            uint32_t nin, const int64_t *attr, const vram_dims *out) {
  vram_node n;
  vram_value v;
  vram__t x[3], y;
  uint32_t i;
  vram__zero(&n, sizeof n);
  n.op = (uint16_t)op;
  n.flags = (uint8_t)flags;
  n.nin = nin;
  n.nout = 1;
  n.attr = attr;
  n.out = &v;
  vram__zero(&v, sizeof v);
  v.d = out;
  for (i = 0; i < nin; i++)
    x[i] = in[i];
  vram__run_op(s, &n, x, &y);
  return y;
}

static vram__t vram__call(vram__s *s, uint32_t op, vram__t a, vram__t b, const int64_t *attr) {
  vram__t in[2];
  in[0] = a, in[1] = b;
  return vram__call_n(s, op, 0, in, b.d ? 2 : 1, attr, NULL);
}

/* The same in place. */
static void vram__call_in_place(vram__s *s, uint32_t op, vram__t *a, vram__t b) {
  vram__t in[2], y;
  in[0] = *a, in[1] = b;
  y = vram__call_n(s, op, VRAM__INPLACE, in, b.d ? 2 : 1, NULL, NULL);
  vram__let(s, *a);
  *a = y;
}

/* ---- attention (ATen/native/transformers) ---- */

enum { VRAM__SDPA_NONE, VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT, VRAM__SDPA_MATH };

static int64_t vram__div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t vram__round_up(int64_t a, int64_t b) { return vram__div_up(a, b) * b; }
static int64_t vram__least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t vram__most(int64_t a, int64_t b) { return a > b ? a : b; }

static int vram__is_half(uint8_t dt) { return dt == VRAM_F16 || dt == VRAM_BF16; }

/* [b,h,len,d], stored as [b,len,h,d] */
static const vram_dims *vram__bshd(vram__s *s, int64_t b, int64_t h, int64_t len, int64_t d) {
  int64_t size[4], stride[4];
  size[0] = b, size[1] = h, size[2] = len, size[3] = d;
  stride[3] = 1, stride[1] = d, stride[2] = h * d, stride[0] = len * h * d;
  return vram__dims_in(s, 4, size, stride);
}

static int vram__is_bshd(vram__s *s, const vram_dims *d) {
  return (vram__swapped(s, d, 1, 2)->flags & VRAM__CONTIG) != 0;
}

/* empty_like of the [b,len,h,d] view of d */
static const vram_dims *vram__like_bshd(vram__s *s, const vram_dims *d) {
  if (d->flags & VRAM__DENSE)
    return d;
  return vram__swapped(s, vram__dense(s, vram__swapped(s, d, 1, 2)), 1, 2);
}

/* Does this backend take it? sdp_utils.cpp; measured over thousands of cases on seven devices. */
static int vram__sdpa_fits(const vram__s *s, int backend, const vram__t *a, int64_t p, int causal,
                           int gqa) {
  const vram_dims *q = a[0].d, *k = a[1].d, *v = a[2].d, *m = a[3].d;
  const uint8_t dt = a[0].dt;
  const int half = vram__is_half(dt), grad = s->grad && (a[0].req || a[1].req || a[2].req);
  int64_t h, hk, hv, d, dv, sq, sk;
  int grid; /* batch and heads are axes of a kernel's grid */
  uint32_t i;
  if (backend == VRAM__SDPA_MATH)
    return 1;
  if (q->ndim != 4 || q->v[0] != k->v[0] || q->v[0] != v->v[0])
    return 0;
  h = q->v[1], hk = k->v[1], hv = v->v[1];
  sq = q->v[2], sk = k->v[2], d = q->v[3], dv = v->v[3];
  grid = q->v[0] <= 65535 && h <= 65535;
  if (!sq || !sk)
    return 0;
  for (i = 0; i < 3; i++)
    if (VRAM__STRIDE(a[i].d)[3] != 1 && (backend == VRAM__SDPA_EFFICIENT || a[i].d->v[3] != 1))
      return 0;
  if (m && VRAM__STRIDE(m)[m->ndim - 1] != 1)
    return 0;
  if (gqa) {
    if (backend != VRAM__SDPA_CUDNN && hv != hk)
      return 0;
  } else if (!(hk == hv && (hk == h || hk == 1)))
    return 0;
  switch (backend) {
  case VRAM__SDPA_FLASH:
    if (m || d != dv || d > 256 || s->cc < 80 || !half || (causal && sq != sk) || !grid)
      return 0;
    /* too little shared memory for the backward kernel */
    return !((s->cc == 86 || s->cc == 89 || s->cc >= 120) && grad) || d <= 192 ||
           (d > 224 && p == 0);
  case VRAM__SDPA_CUDNN: {
    const int64_t most = s->cc / 10 == 9 || s->cc / 10 == 10 ? 256 : 128;
    if (s->cc < 80 || !half || (uint64_t)p * 16 % (uint64_t)VRAM__ONE || d % 8 || dv % 8 ||
        d > most || dv > most || sk == 1 || (p && sq == 1) || !grid)
      return 0;
    if (most == 256 && grad && !(d <= 128 && dv <= 128) && !(d == 192 && dv == 128) &&
        !(d == 256 && dv == 256))
      return 0;
    return !m || (!a[3].req && (m->ndim == 2 || m->ndim == 4));
  }
  default: {
    const int64_t align = half ? 8 : s->cc >= 80 ? 4 : 1;
    if (dt != VRAM_F32 && dt != VRAM_F16 && !(dt == VRAM_BF16 && s->cc >= 80))
      return 0;
    for (i = 0; i < 3 && s->cc >= 80; i++)
      if (a[i].off % align)
        return 0;
    return d % align == 0 && dv % align == 0;
  }
  }
}

static int vram__sdpa_pick(const vram__s *s, const vram__t *a, int64_t p, int causal, int gqa) {
  static const uint8_t order[] = {VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT,
                                  VRAM__SDPA_MATH};
  /* cuDNN goes first on Hopper and Blackwell, nowhere else unasked */
  uint32_t i = s->cc / 10 == 9 || s->cc / 10 == 10 ? 0 : 1;
  while (!vram__sdpa_fits(s, order[i], a, p, causal, gqa))
    i++;
  return order[i];
}

/* attention.cpp, convert_boolean_attn_mask */
static vram__t vram__float_mask(vram__s *s, vram__t m, uint8_t dt) {
  vram__t inf = vram__empty(s, s->scalar, dt), zero = vram__empty(s, s->scalar, dt);
  vram__t y = vram__empty(s, vram__dense(s, m.d), dt);
  vram__let(s, inf);
  vram__let(s, zero);
  return y;
}

/* The first `len` elements of the last axis. */
static vram__t vram__t_first(vram__s *s, vram__t x, int64_t len) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = len;
  return vram__view(s, x, vram__dims_in(s, i, size, VRAM__STRIDE(x.d)), VRAM__K_slice, 0);
}

/* attention.cpp, preprocess_mask and pad_bias: rows that do not begin at multiples of 8 elements
   are copied into wider ones, then the mask is expanded. Takes m. */
static vram__t vram__efficient_mask(vram__s *s, vram__t m, const vram__t *a) {
  int64_t size[4], len = m.d->v[m.d->ndim - 1], pad[2] = {0, 0};
  uint32_t i;
  vram__t t;
  for (i = 0; i + 1 < m.d->ndim; i++)
    if (VRAM__STRIDE(m.d)[i] % 8) {
      pad[1] = 8 - len % 8;
      t = vram__t_pad(s, m, pad, 1, VRAM__PAD_CONSTANT);
      vram__let(s, m);
      m = vram__t_first(s, t, len);
      vram__let(s, t);
      break;
    }
  size[0] = a[0].d->v[0], size[1] = a[0].d->v[1], size[2] = a[0].d->v[2], size[3] = a[1].d->v[2];
  t = vram__t_expand(s, m, 4, size);
  vram__let(s, m);
  return t;
}

/* What a fused kernel's backward needs besides its tensors: bit 0 a mask was saved, bit 1 dropout
 */
static vram__t vram__sdpa_efficient(vram__s *s, vram__t *a, int64_t p) {
  const vram_dims *q = a[0].d;
  const int64_t b = q->v[0], h = q->v[1], sq = q->v[2], d = q->v[3], dv = a[2].d->v[3];
  const uint64_t heads = (uint64_t)(b * h);
  vram__t seed = vram__none(), off = seed, lse = seed, acc = seed, y;
  vram__fn *f;
  if (a[3].d)
    a[3] = vram__efficient_mask(s, a[3], a);
  f = vram__record(s, VRAM__K_sdpa_efficient, a, a[3].d ? 4 : 3, 1, 8);
  if (!p) /* with dropout they are the generator's, on the host */
    seed = vram__raw(s, 8), off = vram__raw(s, 8);
  y = vram__empty(s, vram__bshd(s, b, h, sq, dv), a[0].dt);
  if (f)
    lse = vram__raw(s, 4 * heads * (uint64_t)vram__round_up(sq, 32));
  if (vram__is_half(a[0].dt) && vram__most(d, dv) > 128)
    acc = vram__raw(s, vram__mul4(4, b * h, sq, dv));
  if (f) {
    f->aux = (a[3].d ? 1 : 0) | (p ? 2 : 0);
    if (a[3].d)
      vram__save(s, f, a[3]);
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, lse), vram__save(s, f, off), vram__save(s, f, seed), vram__save(s, f, y);
  }
  vram__let(s, acc);
  vram__let(s, lse);
  vram__let(s, off);
  vram__let(s, seed);
  vram__made(s, f, 0, &y);
  return y;
}

/* mem_eff_attention/kernel_backward.h: workspace of the backward kernel by its block sizes */
static uint64_t vram__efficient_workspace(const vram__s *s, const vram_dims *q, int64_t sk,
                                          int64_t dv, int half, int dropout) {
  const int64_t heads = q->v[0] * q->v[1], d = q->v[3], k = vram__most(d, dv);
  int64_t bi = 128, bj = 64, gq, gkv = 0;
  int registers = 0; /* the gradients of key and value stay in registers */
  const int big = s->cc == 80 || s->cc == 90 || s->cc / 10 == 10;
  if (!half) {
    if (!big || k <= 64)
      bi = 64;
  } else if (k <= 64)
    bi = 64, registers = 1;
  else if (k <= 128) {
    if (big)
      bj = 128, registers = 1;
    else if (s->cc == 75 || ((s->cc == 86 || s->cc == 89) && k <= 96 && !dropout))
      registers = 1;
    else
      bi = 64;
  }
  gq = vram__div_up(q->v[2], bi) * vram__div_up(d, bj) * (4 * bi * bj + 16);
  if (half && !registers) {
    int64_t split = vram__div_up(sk, bj);
    if (heads >= 256 && sk <= 2 * bj)
      split = 1;
    split = vram__most(1, vram__least(split, heads ? 200 / heads : 1));
    gkv = 4 * split * bj * (vram__round_up(d, bi) + vram__round_up(dv, bi));
  }
  return vram__mul((uint64_t)heads, (uint64_t)vram__round_up(gq + gkv, 16));
}

/* the gradient of a key or value head that `group` query heads share: a sum over them */
static void vram__group_sum(vram__s *s, vram__t x, int64_t group) {
  const vram_dims *d = x.d;
  int64_t size[5];
  size[0] = d->v[0], size[1] = d->v[2], size[2] = d->v[1], size[3] = group, size[4] = d->v[3];
  x.d = vram__dims_in(s, 5, size, NULL);
  vram__reduce(s, x, 1u << 3, x.dt, 4, 4);
}

static void vram__drop_unwanted(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (to[i].d && !vram__wants(f, i)) {
      vram__let(s, to[i]);
      to[i] = vram__none();
    }
}

static void vram__bw_sdpa_efficient(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram__t k = sv[0], q = sv[1], v = sv[2];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], sk = k.d->v[2], d = q.d->v[3],
                dv = v.d->v[3], hk = k.d->v[1];
  const uint8_t dt = q.dt;
  const int half = vram__is_half(dt);
  vram__t cg = vram__none(), ek = cg, ev = cg, delta, ws;
  if (!vram__is_bshd(s, g.d))
    cg = vram__empty(s, vram__bshd(s, b, h, sq, dv), dt);
  to[0] = vram__empty(s, vram__bshd(s, b, h, sq, d), dt);
  to[1] = vram__empty(s, vram__bshd(s, b, hk, sk, d), dt);
  to[2] = vram__empty(s, vram__bshd(s, b, hk, sk, dv), dt);
  if (h != hk) {
    ek = vram__raw(s, vram__mul4(b * h, sk, d, vram__size_of(dt)));
    ev = vram__raw(s, vram__mul4(b * h, sk, dv, vram__size_of(dt)));
  }
  if (f->nin > 3 && vram__wants(f, 3)) { /* rows padded, a slice of them handed on */
    int64_t size[4];
    vram__t t;
    size[0] = b, size[1] = h, size[2] = sq, size[3] = vram__round_up(sk, 16);
    t = vram__empty(s, vram__dims_in(s, 4, size, NULL), dt);
    size[3] = sk;
    to[3] = vram__alias(s, t, vram__dims_in(s, 4, size, VRAM__STRIDE(t.d)));
    vram__let(s, t);
  }
  if (half)
    delta = vram__raw(s, vram__mul4(4, b, h, sq));
  else { /* (g * y).sum(-1), transposed */
    int64_t size[4];
    vram__t prod, sum;
    size[0] = b, size[1] = sq, size[2] = h, size[3] = dv;
    prod = vram__empty(s, vram__dims_in(s, 4, size, NULL), VRAM_F32);
    sum = vram__sum(s, prod, 8, 0, VRAM_F32);
    if (h > 1 && sq > 1) {
      delta = vram__empty(s, vram__contig(s, vram__swapped(s, sum.d, 1, 2)), VRAM_F32);
      vram__let(s, sum);
    } else
      delta = sum;
    vram__let(s, prod);
  }
  ws = vram__raw(s, vram__efficient_workspace(s, q.d, sk, dv, half, (f->aux & 2) != 0));
  vram__let(s, delta);
  vram__let(s, ws);
  if (h != hk) {
    vram__group_sum(s, k, h / hk);
    vram__group_sum(s, v, h / hk);
    vram__let(s, ev);
    vram__let(s, ek);
  }
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

/* flash_api.cpp, num_splits_heuristic: the fewest splits that fill 85 % of the best */
static int64_t vram__flash_splits(int64_t blocks, int64_t sm, int64_t n) {
  int64_t most = vram__least(128, vram__least(sm, n)), i, best = 0, best_of = 1;
  if (blocks * 10 >= sm * 8)
    return 1;
    /* efficiency of i splits: waves / ceil(waves), waves = blocks * i / sm; as a fraction */
#define VRAM__WAVES(i) (blocks * (i))
#define VRAM__FULL(i) (vram__div_up(blocks * (i), sm) * sm)
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of > best * VRAM__FULL(i))
      best = VRAM__WAVES(i), best_of = VRAM__FULL(i);
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of * 100 >= best * VRAM__FULL(i) * 85)
      return i;
#undef VRAM__WAVES
#undef VRAM__FULL
  return 1;
}

static int64_t vram__flash_width(int64_t d) {
  return d <= 128 ? vram__round_up(d, 32) : d <= 192 ? 192 : 256;
}

static vram__t vram__sdpa_flash(vram__s *s, vram__t *a, int64_t p) {
  const int64_t d = a[0].d->v[3];
  int64_t b, h, hk, sq, sk, wide = vram__round_up(d, 8), rows, heads, split, pad[2] = {0, 0};
  uint32_t i;
  vram__fn *f;
  vram__t y, lse, part = vram__none(), parts = part, rng, unused, t;
  pad[1] = wide - d;
  for (i = 0; i < 3 && d != wide; i++) {
    t = vram__t_pad(s, a[i], pad, 1, VRAM__PAD_CONSTANT);
    vram__let(s, a[i]);
    a[i] = t;
  }
  b = a[0].d->v[0], h = a[0].d->v[1], sq = a[0].d->v[2], hk = a[1].d->v[1], sk = a[1].d->v[2];
  f = vram__record(s, VRAM__K_sdpa_flash, a, 3, 1, 7);
  rows = sq, heads = h;
  if (sq == 1 && h > hk && !p) /* the query heads of a group become rows */
    rows = h / hk, heads = hk;
  y = vram__empty(s, rows != sq ? vram__bshd(s, b, h, sq, wide) : vram__like_bshd(s, a[0].d),
                  a[0].dt);
  lse = vram__raw(s, vram__mul4(4, b, h, sq));
  split = p ? 1
            : vram__flash_splits(b * heads * vram__div_up(rows, 64), 2 * (int64_t)s->sm,
                                 vram__div_up(sk, wide <= 64    ? 256
                                                  : wide <= 128 ? 128
                                                                : 64));
  if (split > 1) {
    part = vram__raw(s, vram__mul4(4 * split, b, heads, rows));
    parts = vram__raw(s, vram__mul4(4 * split, b, heads, rows * vram__flash_width(wide)));
  }
  rng = vram__raw(s, 16);
  unused = vram__raw(s, 8);
  if (p) {
    t = vram__raw(s, 16);
    vram__let(s, rng);
    rng = t;
  }
  if (f) {
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, y), vram__save(s, f, lse), vram__save(s, f, rng), vram__save(s, f, unused);
  }
  vram__let(s, parts);
  vram__let(s, part);
  vram__let(s, unused);
  vram__let(s, rng);
  vram__let(s, lse);
  vram__made(s, f, 0, &y);
  if (d != wide) {
    t = vram__t_first(s, y, d);
    vram__let(s, y);
    y = t;
  }
  return y;
}

static void vram__bw_sdpa_flash(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f);
  const vram__t k = sv[0], q = sv[1], v = sv[2], y = sv[3];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], d = q.d->v[3], hk = k.d->v[1],
                rows = vram__round_up(sq, 128);
  vram__t cg = vram__none(), cy = cg, ek, ev, sums, acc;
  if (!vram__is_bshd(s, g.d))
    cg = vram__empty(s, vram__bshd(s, b, h, sq, d), g.dt);
  if (!vram__is_bshd(s, y.d))
    cy = vram__empty(s, vram__bshd(s, b, h, sq, d), y.dt);
  to[0] = vram__empty(s, vram__like_bshd(s, q.d), q.dt);
  to[1] = vram__empty(s, vram__like_bshd(s, k.d), k.dt);
  to[2] = vram__empty(s, vram__like_bshd(s, v.d), v.dt);
  sums = vram__raw(s, vram__mul4(4, b, h, rows));
  acc = vram__raw(s, vram__mul4(4 * vram__flash_width(d), b, h, rows));
  if (h != hk) {
    ek = vram__raw(s, vram__mul4(b * h, k.d->v[2], d, vram__size_of(k.dt)));
    ev = vram__raw(s, vram__mul4(b * h, k.d->v[2], d, vram__size_of(k.dt)));
    vram__group_sum(s, k, h / hk);
    vram__group_sum(s, v, h / hk);
    vram__let(s, ev);
    vram__let(s, ek);
  }
  vram__let(s, acc);
  vram__let(s, sums);
  vram__let(s, cy);
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

static vram__t vram__sdpa_cudnn(vram__s *s, vram__t *a) {
  const vram_dims *q = a[0].d, *d = vram__dense(s, q);
  vram__fn *f = vram__record(s, VRAM__K_sdpa_cudnn, a, 3, 1, 8);
  vram__t seed = vram__raw(s, 8), off = vram__raw(s, 8), lse = vram__none(), y;
  if (q->v[3] != a[2].d->v[3]) { /* another width: the axes in the order of the query's strides */
    int64_t size[4], stride[4], z = 1;
    uint32_t i, j, order[4];
    for (i = 0; i < 4; i++) {
      for (j = i; j > 0 && VRAM__STRIDE(q)[order[j - 1]] > VRAM__STRIDE(q)[i]; j--)
        order[j] = order[j - 1];
      order[j] = i;
      size[i] = i < 3 ? q->v[i] : a[2].d->v[3];
    }
    for (i = 0; i < 4; i++)
      stride[order[i]] = z, z *= size[order[i]];
    d = vram__dims_in(s, 4, size, stride);
  }
  y = vram__empty(s, d, a[0].dt);
  if (f) {
    lse = vram__raw(s, vram__mul4(4, q->v[0], q->v[1], q->v[2]));
    if (a[3].d)
      vram__save(s, f, a[3]), f->aux = 1;
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, lse), vram__save(s, f, off), vram__save(s, f, seed), vram__save(s, f, y);
  }
  vram__let(s, lse);
  vram__let(s, off);
  vram__let(s, seed);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_sdpa_cudnn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram_dims *q = sv[1].d;
  vram__t cg = vram__none(), ws;
  to[0] = vram__ti1(s, sv[1]);
  to[1] = vram__ti1(s, sv[0]);
  to[2] = vram__ti1(s, sv[2]);
  if (VRAM__STRIDE(g.d)[3] != 1)
    cg = vram__empty(s, vram__contig(s, g.d), g.dt);
  ws = vram__raw(s, vram__mul4(q->v[0], q->v[1], q->v[2], 4 * q->v[3] + 4));
  vram__may_need(s, q->numel + sv[0].d->numel + sv[2].d->numel);
  vram__let(s, ws);
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

/* _safe_softmax over the last axis: rows that are all -inf become zeros */
static vram__t vram__t_safe_softmax(vram__s *s, vram__t x) {
  vram__fn *f = vram__record(s, VRAM__K_safe_softmax, &x, 1, 1, 1);
  vram__t y = vram__empty(s, vram__contig(s, x.d), x.dt), inf, all, zero;
  inf = vram__empty(s, y.d, VRAM_BOOL);
  all = vram__reduced(s, inf, 1u << (x.d->ndim - 1), 1, VRAM_BOOL);
  vram__reduce(s, inf, 1u << (x.d->ndim - 1), VRAM_BOOL, 1, 4);
  zero = vram__empty(s, s->scalar, x.dt);
  vram__let(s, zero);
  vram__let(s, all);
  vram__let(s, inf);
  if (f)
    vram__save(s, f, y);
  vram__made(s, f, 0, &y);
  return y;
}

static vram__t vram__heads_repeated(vram__s *s, vram__t x, int64_t h) {
  const vram_dims *d = x.d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t n = d->ndim, i;
  vram__t t, u;
  for (i = 0; i < n - 2; i++)
    size[i] = d->v[i];
  size[n - 2] = h / d->v[n - 3];
  size[n - 1] = d->v[n - 2], size[n] = d->v[n - 1];
  t = vram__t_unsqueeze(s, x, n - 2);
  u = vram__t_expand(s, t, n + 1, size);
  vram__let(s, t);
  t = vram__t_clone(s, u, vram__contig(s, u.d));
  vram__let(s, u);
  size[n - 3] = h;
  for (i = n - 2; i < n; i++)
    size[i] = size[i + 1];
  u = vram__view(s, t, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  return u;
}

/* attention.cpp, _scaled_dot_product_attention_math: ordinary ops; half runs in fp32 */
static vram__t vram__sdpa_math(vram__s *s, vram__t *a, int64_t p, int causal, int gqa) {
  const uint8_t dt = a[0].dt;
  const uint32_t n = a[0].d->ndim;
  vram__t x[3], q, k, v, m = vram__none(), t, u, att, extra = m;
  uint8_t train;
  uint32_t i;
  for (i = 0; i < 3; i++)
    x[i] = vram__is_half(dt) ? vram__t_cast(s, a[i], VRAM_F32) : vram__keep_t(s, a[i]);
  q = vram__call(s, VRAM_OP_mul, x[0], vram__none(), NULL);
  k = vram__keep_t(s, x[1]), v = vram__keep_t(s, x[2]);
  if (a[3].d)
    m = vram__keep_t(s, a[3]);
  if (causal) {
    int64_t size[2];
    vram__t ones;
    size[0] = a[0].d->v[n - 2], size[1] = a[1].d->v[n - 2];
    ones = vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_BOOL);
    t = vram__empty(s, ones.d, VRAM_BOOL);
    vram__let(s, ones);
    m = vram__float_mask(s, t, q.dt);
    vram__let(s, t);
  }
  if (gqa && n > 2) {
    int64_t h = a[0].d->v[n - 3];
    if (k.d->v[n - 3] != h || v.d->v[n - 3] != h) {
      t = vram__heads_repeated(s, k, h);
      vram__let(s, k);
      k = t;
      t = vram__heads_repeated(s, v, h);
      vram__let(s, v);
      v = t;
    }
  }
  att = vram__t_swap(s, k, n - 2, n - 1);
  u = vram__call(s, VRAM_OP_mul, att, vram__none(), NULL);
  vram__let(s, att);
  t = vram__t_matmul(s, q, u);
  vram__let(s, u);
  if (m.d)
    vram__call_in_place(s, VRAM_OP_add, &t, m);
  att = vram__t_safe_softmax(s, t);
  vram__let(s, t);
  if (p) {
    int64_t attr[3];
    attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
    train = s->train, s->train = 1; /* at::dropout(attn, p, true) */
    t = vram__call(s, VRAM_OP_dropout, att, vram__none(), attr);
    s->train = train;
    vram__let(s, att);
    att = t;
  }
  if (vram__is_half(dt))
    extra = vram__empty(s, att.d, dt); /* the second result, which nobody takes */
  t = vram__t_matmul(s, att, v);
  if (vram__is_half(dt)) {
    u = vram__t_cast(s, t, dt);
    vram__let(s, t);
    t = u;
  }
  vram__let(s, extra);
  vram__let(s, att);
  vram__let(s, m);
  vram__let(s, v);
  vram__let(s, k);
  vram__let(s, q);
  for (i = 0; i < 3; i++)
    vram__let(s, x[i]);
  return t;
}

/* Attention of nothing: zeros, and 0 times the sums of q, k and v, so that they have gradients. */
static vram__t vram__sdpa_nothing(vram__s *s, const vram__t *a) {
  const uint8_t amp = s->amp;
  const uint32_t k = a[0].d->ndim;
  int64_t size[VRAM_MAX_AXES];
  vram__t t[7], y;
  uint32_t i;
  for (i = 0; i < k; i++)
    size[i] = a[0].d->v[i];
  size[k - 1] = a[2].d->v[a[2].d->ndim - 1u];
  s->amp = 0; /* below autocast */
  t[0] = vram__empty(s, vram__dims_in(s, k, size, NULL), a[0].dt);
  for (i = 0; i < 3; i++)
    t[1 + i] = vram__call(s, VRAM_OP_sum, a[i], vram__none(), NULL);
  t[4] = vram__call(s, VRAM_OP_add, t[1], t[2], NULL);
  t[5] = vram__call(s, VRAM_OP_add, t[4], t[3], NULL);
  t[6] = vram__call(s, VRAM_OP_mul, t[5], vram__none(), NULL);
  y = vram__call(s, VRAM_OP_add, t[0], t[6], NULL);
  for (i = 7; i-- > 0;)
    vram__let(s, t[i]);
  s->amp = amp;
  return y;
}

static vram__t vram__t_sdpa(vram__s *s, const vram_node *n, vram__t *a, int64_t p, int causal,
                            int gqa) {
  int64_t word = VRAM__INT(n, backend, 0);
  int pick;
  vram__t y, t;
  uint32_t i, flat = a[0].d->ndim == 3;
  if (a[1].dt != a[0].dt || a[2].dt != a[0].dt) /* attention.cpp, validate_sdpa_input */
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node, "query, key and value of different dtypes");
  if (flat)
    for (i = 0; i < 4; i++) {
      if (!a[i].d || a[i].d->ndim != 3)
        continue;
      t = vram__t_unsqueeze(s, a[i], 0);
      vram__let(s, a[i]);
      a[i] = t;
    }
  pick = word == VRAM__WORD("flash")       ? VRAM__SDPA_FLASH
         : word == VRAM__WORD("efficient") ? VRAM__SDPA_EFFICIENT
         : word == VRAM__WORD("cudnn")     ? VRAM__SDPA_CUDNN
         : word == VRAM__WORD("math")      ? VRAM__SDPA_MATH
                                           : VRAM__SDPA_NONE;
  if (!pick)
    pick = vram__sdpa_pick(s, a, p, causal, gqa);
  else if (!vram__sdpa_fits(s, pick, a, p, causal, gqa)) {
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node,
                  "this attention backend does not take these tensors");
    pick = VRAM__SDPA_MATH;
  }
  if (a[3].d && a[3].dt == VRAM_BOOL) {
    t = vram__float_mask(s, a[3], a[0].dt);
    vram__let(s, a[3]);
    a[3] = t;
  }
  y = pick == VRAM__SDPA_CUDNN       ? vram__sdpa_cudnn(s, a)
      : pick == VRAM__SDPA_FLASH     ? vram__sdpa_flash(s, a, p)
      : pick == VRAM__SDPA_EFFICIENT ? vram__sdpa_efficient(s, a, p)
                                     : vram__sdpa_math(s, a, p, causal, gqa);
  if (flat) {
    t = vram__t_squeeze1(s, y, 0);
    vram__let(s, y);
    y = t;
  }
  for (i = 0; i < 4; i++)
    vram__let(s, a[i]);
  return y;
}

static void vram__run_sdpa(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[4], held[4];
  uint32_t i;
  a[3] = vram__none();
  for (i = n->nin; i-- > 0;) { /* autocast casts the last argument first, and holds them all */
    a[i] = s->amp ? vram__autocast(s, x[i], s->amp) : vram__keep_t(s, x[i]);
    held[i] = vram__keep_t(s, a[i]);
  }
  if (a[0].d->numel && a[1].d->numel && a[2].d->numel)
    y[0] = vram__t_sdpa(s, n, a, VRAM__INT(n, dropout_p, 0), VRAM__INT(n, is_causal, 0) != 0,
                        VRAM__INT(n, enable_gqa, 0) != 0);
  else {
    y[0] = vram__sdpa_nothing(s, a);
    for (i = n->nin; i-- > 0;)
      vram__let(s, a[i]);
  }
  for (i = 0; i < n->nin; i++)
    vram__let(s, held[i]);
}

/* ---- normalisation ---- */

/* x in channels-last order or contiguous; a copy, or nothing */
static vram__t vram__format_copy(vram__s *s, vram__t x, int cl) {
  if (x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG))
    return vram__none();
  return vram__empty(s, vram__formatted(s, x.d, cl), x.dt);
}

/* x's layout as these kernels keep it: channels-last or contiguous */
static const vram_dims *vram__format(vram__s *s, const vram_dims *d, int cl) {
  return d->flags & (cl ? VRAM__CL : VRAM__CONTIG) ? d : vram__formatted(s, d, cl);
}

static vram__t vram__vec(vram__s *s, int64_t n, uint8_t dt) {
  if (!s->vec || s->vec->v[0] != n)
    s->vec = vram__dims_in(s, 1, &n, NULL);
  return vram__empty(s, s->vec, dt);
}

/* Inputs of a norm on autocast's fp32 list, the last one cast first; owned. */
static void vram__norm_args(vram__s *s, const vram_node *n, vram__t *x, int fp32, vram__t *a) {
  uint32_t i;
  a[0] = x[0];
  vram__weights(s, n, &a[1], &a[2]);
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp && fp32 ? vram__autocast(s, a[i], VRAM_F32) : vram__keep_t(s, a[i]);
}

static void vram__let3(vram__s *s, vram__t *a) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    vram__let(s, a[i]);
}

/* rms_norm as its composite form: channels-last inputs, a weight of another dtype */
static vram__t vram__rms_composite(vram__s *s, vram__t x, vram__t w, uint32_t naxes) {
  int64_t attr[16];
  uint32_t i, n = 0;
  uint8_t dt = vram__is_half(x.dt) ? (uint8_t)VRAM_F32 : x.dt;
  vram__t up = vram__t_cast(s, x, dt), pow, t, u;
  attr[n++] = VRAM__KEY_dim | (int64_t)naxes << 8;
  for (i = 0; i < naxes; i++)
    attr[n++] = x.d->ndim - 1 - (int64_t)i;
  attr[n++] = VRAM__KEY_keepdim | 1 << 8;
  attr[n++] = 1;
  attr[n] = 0;
  pow = vram__call(s, VRAM_OP_pow, up, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_mean, pow, vram__none(), attr);
  vram__call_in_place(s, VRAM_OP_add, &u, vram__none());
  t = vram__call(s, VRAM_OP_rsqrt, u, vram__none(), NULL);
  vram__let(s, u);
  vram__let(s, pow);
  u = vram__call(s, VRAM_OP_mul, up, t, NULL);
  if (w.d) {
    vram__t v = vram__call(s, VRAM_OP_mul, u, w, NULL);
    vram__let(s, u);
    u = v;
  }
  vram__let(s, up);
  up = vram__t_cast(s, u, x.dt);
  vram__let(s, u);
  vram__let(s, t);
  return up;
}

/* layer_norm.cu, layer_norm_cuda and _fused_rms_norm_cuda */
static void vram__run_layer_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], c, st[2];
  vram__fn *f;
  uint32_t i, k, na = 1, stats = n->op == VRAM_OP_layer_norm ? 2 : 1;
  int64_t rows[VRAM_MAX_AXES];
  uint8_t acc;
  vram__norm_args(s, n, x, 1, a);
  vram__list(n, VRAM__KEY_normalized_shape, &na);
  if (stats == 1 && ((a[1].d && a[1].dt != a[0].dt) || vram__suggests_cl(a[0].d))) {
    y[0] = vram__rms_composite(s, a[0], a[1], na);
    vram__let3(s, a);
    return;
  }
  k = a[2].d ? 3 : a[1].d ? 2 : 1;
  f = vram__record(s, n->op, a, k, 1, 4);
  c = vram__format_copy(s, a[0], 0);
  y[0] = vram__empty(s, vram__contig(s, a[0].d), a[0].dt);
  for (i = 0; i < a[0].d->ndim; i++)
    rows[i] = i < a[0].d->ndim - na ? a[0].d->v[i] : 1;
  acc = a[0].dt == VRAM_F64 ? (uint8_t)VRAM_F64 : (uint8_t)VRAM_F32;
  for (i = 0; i < stats; i++)
    st[i] = vram__empty(s, vram__dims_in(s, a[0].d->ndim, rows, NULL), acc);
  vram__let(s, c);
  if (f) {
    vram__save(s, f, a[0]);
    for (i = 0; i < stats; i++)
      vram__save(s, f, st[i]);
    if (a[1].d)
      vram__save(s, f, a[1]);
  }
  for (i = 0; i < stats; i++)
    vram__let(s, st[i]);
  vram__made(s, f, 0, &y[0]);
  vram__let3(s, a);
}

/* layer_norm_kernel.cu: the sums for weight and bias of very many rows go through partial ones */
static void vram__partial_sums(vram__s *s, int64_t rows, const vram_dims *wd, uint8_t dt,
                               vram__t *gw, vram__t *gb) {
  int64_t size[2], n = (int64_t)wd->numel, parts;
  vram__t p[2], *to[2], t;
  uint32_t i;
  if ((!gw->d && !gb->d) || rows <= 65536 || !n || n / 32 >= (int64_t)s->sm / 2)
    return;
  parts = vram__least(vram__div_up(rows, 32), 32768 / vram__div_up(n, 32));
  size[0] = parts, size[1] = n;
  to[0] = gw, to[1] = gb;
  for (i = 0; i < 2; i++)
    p[i] = to[i]->d ? vram__empty(s, vram__dims_in(s, 2, size, NULL), dt) : vram__none();
  for (i = 0; i < 2; i++)
    if (p[i].d) {
      t = vram__empty(s, wd, dt);
      vram__reduce(s, p[i], 1, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
      vram__let(s, *to[i]);
      *to[i] = t;
    }
  vram__let(s, p[1]);
  vram__let(s, p[0]);
}

static void vram__bw_layer_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], none = vram__none(), cg, cx;
  const vram_dims *wd = NULL;
  cx = vram__format_copy(s, x, 0);
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  if (f->nin > 1 && vram__wants(f, 1))
    to[1] = vram__empty(s, wd = vram__contig(s, vram__in_dims(s, f, 1, NULL)), x.dt);
  if (f->nin > 2 && vram__wants(f, 2))
    to[2] = vram__empty(s, wd = vram__contig(s, vram__in_dims(s, f, 2, NULL)), x.dt);
  cg = vram__format_copy(s, g, 0);
  if (wd)
    vram__partial_sums(s, (int64_t)(x.d->numel / (wd->numel ? wd->numel : 1)), wd, x.dt, &to[1],
                       f->nin > 2 ? &to[2] : &none);
  vram__let(s, cg);
  vram__let(s, cx);
  vram__drop_unwanted(s, f, to);
}

/* torch.nn.functional, _verify_batch_size and _verify_spatial_size */
VRAM__RARE void vram__one_value(vram__s *s, const vram_node *n) {
  vram__no_step(s, VRAM_ERR_UNSUPPORTED, n,
                "a norm over one value: PyTorch stops with an error (expected more than 1 value)");
}

/* group_norm.cpp, native_group_norm. aux: groups */
static void vram__run_group_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], st[2], half[2], sc[2], c;
  vram__fn *f;
  int64_t groups = VRAM__INT(n, num_groups, 1), size[2], nc[2], hw = 1;
  uint32_t i;
  int cl, one;
  vram__norm_args(s, n, x, 1, a);
  f = vram__record(s, n->op, a, a[2].d ? 3 : a[1].d ? 2 : 1, 1, 4);
  cl = vram__suggests_cl(a[0].d);
  for (i = 2; i < a[0].d->ndim; i++)
    hw *= a[0].d->v[i];
  size[0] = nc[0] = a[0].d->v[0], size[1] = groups, nc[1] = a[0].d->v[1];
  if (nc[0] * nc[1] / groups * hw == 1)
    vram__one_value(s, n);
  y[0] = vram__empty(s, vram__format(s, a[0].d, cl), a[0].dt);
  for (i = 0; i < 2; i++)
    st[i] = vram__empty(s, vram__dims_in(s, 2, size, NULL), a[0].dt);
  c = vram__format_copy(s, a[0], cl);
  cl = ((c.d ? c : a[0]).d->flags & VRAM__CL) != 0; /* also if all axes behind C are 1 */
  one = hw == 1 && !cl && a[0].d->ndim < 4;
  for (i = 0; i < 2; i++)
    half[i] = vram__is_half(a[0].dt) ? vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_F32)
                                     : vram__none();
  for (i = 0; i < 2; i++)
    sc[i] = !one && (a[1].d || a[2].d || cl)
                ? vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32)
                : vram__none();
  for (i = 2; i-- > 0;)
    vram__let(s, sc[i]);
  for (i = 2; i-- > 0;)
    vram__let(s, half[i]);
  if (f) {
    f->aux = (uint64_t)groups << 1 | (a[1].d != NULL);
    vram__save(s, f, a[0]);
    for (i = 0; i < 2; i++)
      vram__save(s, f, st[i]);
    if (a[1].d)
      vram__save(s, f, a[1]);
  }
  vram__let(s, c);
  for (i = 0; i < 2; i++)
    vram__let(s, st[i]);
  vram__made(s, f, 0, &y[0]);
  vram__let3(s, a);
}

static void vram__bw_group_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c, cx, ds[2], st[2], w = vram__none();
  const vram_dims *dx;
  int64_t nc[2], ng[2], hw = 1;
  uint32_t i;
  int cl = vram__suggests_cl(x.d), one, affine = (int)(f->aux & 1);
  c = vram__format_copy(s, g, cl);
  cx = vram__format_copy(s, x, cl);
  dx = vram__format(s, x.d, cl);
  cl = ((cx.d ? cx : x).d->flags & VRAM__CL) != 0;
  for (i = 2; i < x.d->ndim; i++)
    hw *= x.d->v[i];
  one = hw == 1 && !cl && x.d->ndim < 4;
  nc[0] = ng[0] = x.d->v[0], nc[1] = x.d->v[1], ng[1] = (int64_t)(f->aux >> 1);
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, dx, x.dt);
  for (i = 1; i < f->nin; i++)
    if (vram__wants(f, i))
      to[i] = vram__vec(s, nc[1], x.dt);
  if (!one)
    for (i = 0; i < 2; i++)
      ds[i] = vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
  if (vram__wants(f, 0)) {
    for (i = 0; i < 2; i++)
      st[i] = vram__empty(s, vram__dims_in(s, 2, ng, NULL), VRAM_F32);
    if (!one && affine && !cl)
      w = vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
    vram__let(s, st[1]), vram__let(s, st[0]);
    vram__let(s, w);
  }
  if (!one)
    vram__let(s, ds[1]), vram__let(s, ds[0]);
  vram__let(s, cx);
  vram__let(s, c);
}

/* batch_norm: aux of its record */
enum { VRAM__BN_CUDNN = 1, VRAM__BN_TRAIN = 2, VRAM__BN_STATS = 4 };

/* Normalization.cu, batch_norm_choose_impl */
enum { VRAM__BN_CONTIG, VRAM__BN_CL, VRAM__BN_GENERAL };

static int vram__bn_kernel(const vram_dims *d) {
  if (d->numel > INT32_MAX) /* canUse32BitIndexMath */
    return VRAM__BN_GENERAL;
  if (d->flags & VRAM__CONTIG)
    return VRAM__STRIDE(d)[1] == 1 ? VRAM__BN_CL : VRAM__BN_CONTIG;
  return d->ndim == 4 && (d->flags & VRAM__CL) ? VRAM__BN_CL : VRAM__BN_GENERAL;
}

/* batch_norm_use_channels_last_kernels */
static int vram__bn_cl(const vram_dims *d) {
  return (d->flags & VRAM__CL) || ((d->flags & VRAM__CONTIG) && VRAM__STRIDE(d)[1] == 1);
}

/* Normalization.cuh, flexible_launch_configs: partial results of the channels-last kernels that
   are split over thread blocks, so many values of 4 bytes for each channel, and semaphores */
static void vram__bn_staging(vram__s *s, const vram_dims *d, int64_t values) {
  int64_t c = d->v[1], rows = c ? (int64_t)d->numel / c : 0, bx, by, gy;
  vram__t stage, sem;
  if (!rows)
    return;
  bx = vram__least(vram__pow2(c, 512), 32);
  by = vram__least(vram__pow2(vram__div_up(rows, 16), 512), 512 / bx);
  if (bx * by != 512)
    bx = vram__least(vram__pow2(c, 512), 512 / by);
  gy = vram__least(vram__div_up(rows, by * 16), 128);
  if (gy < 8)
    return;
  stage = vram__raw(s, vram__mul4(4, values, c, gy));
  sem = vram__raw(s, 4 * (uint64_t)vram__div_up(c, bx));
  vram__let(s, stage);
  vram__let(s, sem);
}

/* Does cuDNN take them? (use_cudnn in Normalization.cpp; in evaluation fewer samples) */
static int vram__cudnn_bn(const vram__t *x, const vram__t *w, const vram__t *b) {
  return (x->dt == VRAM_F32 || x->dt == VRAM_F16) && w->dt == VRAM_F32 && b->dt == VRAM_F32 &&
         x->d->ndim >= 3 && x->d->v[0] <= 880801;
}

/* Normalization.cpp, _batch_norm_impl_index. w, b, running mean and variance: d NULL if none */
static vram__t vram__t_batch_norm(vram__s *s, vram__t x, vram__t w, vram__t b, vram__t rm,
                                  vram__t rv, int train) {
  vram__t in[3], st[2], y;
  vram__fn *f;
  const int64_t c = x.d->v[1];
  int cudnn, kernel;
  uint32_t i;
  cudnn = w.d && b.d && (rm.d ? rv.d != NULL : train) && vram__cudnn_bn(&x, &w, &b) &&
          (train || x.d->v[0] <= 65535);
  in[0] = x, in[1] = w, in[2] = b;
  if (cudnn && !(x.d->flags & (vram__suggests_cl(x.d) ? VRAM__CL : VRAM__CONTIG)))
    in[0] = x = vram__t_clone(s, x, vram__format(s, x.d, vram__suggests_cl(x.d)));
  else
    x = vram__keep_t(s, x);
  f = vram__record(s, VRAM__K_bn, in, b.d ? 3 : w.d ? 2 : 1, 1, 6);
  kernel = vram__bn_kernel(x.d);
  st[0] = st[1] = vram__none();
  y = vram__empty(s, cudnn ? vram__format(s, x.d, vram__suggests_cl(x.d)) : vram__dense(s, x.d),
                  x.dt);
  if (train || !cudnn)
    st[0] = vram__vec(s, c, VRAM_F32), st[1] = vram__vec(s, c, VRAM_F32);
  if (!cudnn && train && kernel == VRAM__BN_CL)
    vram__bn_staging(s, x.d, 4);
  if (!cudnn && kernel == VRAM__BN_GENERAL) {
    if (train) { /* var_mean, into fp32: halves it reads as they are */
      vram__t up = vram__none();
      if (x.dt == VRAM_BF16)
        up = vram__empty(s, vram__dense(s, x.d), VRAM_F32);
      vram__reduce(s, up.d ? up : x, ((1u << x.d->ndim) - 1) & ~2u, VRAM_F32, 16, 2);
      vram__let(s, up);
    }
    if (!w.d) { /* scalars for weight and bias */
      vram__t one = vram__empty(s, s->scalar, VRAM_F32), zero = vram__empty(s, s->scalar, VRAM_F32);
      vram__let(s, one);
      vram__let(s, zero);
    }
  }
  if (f) {
    f->aux = (cudnn ? VRAM__BN_CUDNN : 0) | (train ? VRAM__BN_TRAIN : 0);
    vram__save(s, f, x);
    for (i = 0; i < 2; i++)
      vram__save(s, f, st[i]);
    if (w.d)
      vram__save(s, f, w);
    if (rm.d)
      vram__save(s, f, rm);
    if (rv.d)
      vram__save(s, f, rv);
  }
  vram__let(s, st[0]), vram__let(s, st[1]);
  vram__made(s, f, 0, &y);
  vram__let(s, x);
  return y;
}

/* x.reshape({N, C, -1}): a copy, or nothing */
static vram__t vram__bn_copy(vram__s *s, vram__t x) {
  int64_t size[3], stride[3];
  size[0] = x.d->v[0], size[1] = x.d->v[1];
  size[2] = size[0] && size[1] ? (int64_t)x.d->numel / (size[0] * size[1]) : 0;
  if (vram__view_strides(x.d, 3, size, stride))
    return vram__none();
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* cudnn_batch_norm_backward and Normalization.cu, batch_norm_backward_cuda */
static void vram__bw_any_bn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  const int64_t c = x.d->v[1];
  const int train = (f->aux & VRAM__BN_TRAIN) != 0, affine = f->nin > 1, want = vram__wants(f, 0),
            gw = affine && vram__wants(f, 1), gb = f->nin > 2 && vram__wants(f, 2),
            reduce = train || gw || gb, xcl = vram__bn_cl(x.d);
  const uint8_t wdt = affine ? VRAM__SAVED(f)[3].dt : (uint8_t)VRAM_F32;
  vram__t std, sum[2], cx, cg, t;
  if ((f->aux & VRAM__BN_CUDNN) && train) { /* always all three */
    const int cl = vram__suggests_cl(x.d);
    t = vram__format_copy(s, g, cl);
    to[0] = vram__empty(s, vram__format(s, x.d, cl), x.dt);
    to[1] = vram__vec(s, c, wdt), to[2] = vram__vec(s, c, wdt);
    vram__let(s, t);
    vram__drop_unwanted(s, f, to);
    return;
  }
  std = cx = cg = vram__none();
  if (reduce && want && !xcl && x.d->numel <= INT32_MAX) { /* one kernel for everything */
    cx = vram__bn_copy(s, x);
    cg = vram__bn_copy(s, g);
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (gw)
      to[1] = vram__vec(s, c, wdt);
    if (gb)
      to[2] = vram__vec(s, c, wdt);
    vram__let(s, cg), vram__let(s, cx);
    return;
  }
  sum[0] = sum[1] = vram__none();
  if (f->aux & VRAM__BN_CUDNN) /* cuDNN saves nothing in eval */
    std = vram__vec(s, c, VRAM_F32);
  if (reduce) {
    const int cl = xcl && vram__bn_cl(g.d) && x.d->numel <= INT32_MAX;
    if (!cl)
      cx = vram__bn_copy(s, x), cg = vram__bn_copy(s, g);
    if (cl || want)
      sum[0] = vram__vec(s, c, VRAM_F32), sum[1] = vram__vec(s, c, VRAM_F32);
    if (affine && (cl || gw))
      to[1] = vram__vec(s, c, wdt);
    if (f->nin > 2 && (cl || gb))
      to[2] = vram__vec(s, c, wdt);
    if (cl)
      vram__bn_staging(s, x.d, 2);
    vram__let(s, cg), vram__let(s, cx);
  }
  if (want && train) {
    const int kernel = vram__bn_kernel(x.d);
    if ((kernel == VRAM__BN_GENERAL || vram__bn_kernel(g.d) != kernel) && !affine) {
      t = vram__empty(s, s->scalar, VRAM_F32);
      to[0] = vram__empty(s, vram__format(s, x.d, vram__suggests_cl(x.d)), x.dt);
      vram__let(s, t);
    } else
      to[0] = vram__empty(s, vram__format(s, x.d, vram__suggests_cl(x.d)), x.dt);
  } else if (want)
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  vram__let(s, sum[1]), vram__let(s, sum[0]);
  vram__let(s, std);
  vram__drop_unwanted(s, f, to);
}

VRAM__SELDOM_END

/* A contiguous input, a weight whose dims the statistics can have: nearly always. */
static int vram__usual_bn(const vram_dims *x, const vram_dims *w) {
  return (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN && (w->flags & VRAM__PLAIN);
}

static void vram__run_batch_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[3], st[2], rm = vram__none(), rv = rm;
  vram__fn *f;
  int train;
  in[0] = x[0];
  vram__weights(s, n, &in[1], &in[2]);
  if (n->param[2])
    rm = s->param[n->param[2]->index], rv = s->param[n->param[3]->index];
  train = (s->train || !rm.d) && VRAM__INT(n, training, 1);
  if (train && x[0].d->numel == (uint64_t)x[0].d->v[1])
    vram__one_value(s, n);
  if (!train || !rm.d || !in[2].d || !vram__usual_bn(x->d, in[1].d) ||
      !vram__cudnn_bn(x, &in[1], &in[2])) {
    y[0] = vram__t_batch_norm(s, in[0], in[1], in[2], rm, rv, train);
    return;
  }
  f = vram__record(s, VRAM__K_bn, in, 3, 1, 6);
  y[0] = vram__empty(s, x->d, x->dt);
  st[0] = vram__empty(s, in[1].d, VRAM_F32), st[1] = vram__empty(s, in[1].d, VRAM_F32);
  if (f) {
    f->aux = VRAM__BN_CUDNN | VRAM__BN_TRAIN;
    vram__save(s, f, in[0]);
  }
  vram__save_last(s, f, &st[0]), vram__save_last(s, f, &st[1]);
  if (f) {
    vram__save(s, f, in[1]);
    if (s->frame) /* where it counts how many there are */
      vram__save(s, f, rm), vram__save(s, f, rv);
  }
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_bn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t *x = VRAM__SAVED(f), *w = x + 3;
  if (f->aux != (VRAM__BN_CUDNN | VRAM__BN_TRAIN) || !vram__usual_bn(x->d, w->d) ||
      !(VRAM__SLOTS(f)[0].g.d->flags & VRAM__CONTIG)) {
    vram__bw_any_bn(s, f, to);
    return;
  }
  to[0] = vram__empty(s, x->d, x->dt);
  to[1] = vram__empty(s, w->d, w->dt), to[2] = vram__empty(s, w->d, w->dt);
  vram__drop_unwanted(s, f, to);
}

VRAM__SELDOM_BEGIN

/* Normalization.cpp, repeat_if_defined: [C] -> [N*C] */
static vram__t vram__t_tiled(vram__s *s, vram__t x, int64_t n) {
  vram__fn *f;
  vram__t y;
  if (!x.d)
    return vram__none();
  f = vram__record(s, VRAM_OP_repeat, &x, 1, 1, 0);
  y = vram__vec(s, n * (int64_t)x.d->numel, x.dt);
  vram__made(s, f, 0, &y);
  return y;
}

/* Normalization.cpp, instance_norm: batch_norm of [1,N*C,...] */
static void vram__run_instance_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w, b, rm = vram__none(), rv = rm, v, t;
  int64_t size[VRAM_MAX_AXES], nc[2];
  uint32_t i, one = 1;
  int train;
  vram__weights(s, n, &w, &b);
  w = vram__t_tiled(s, w, x[0].d->v[0]);
  b = vram__t_tiled(s, b, x[0].d->v[0]);
  if (n->param[2]) {
    rm = vram__t_tiled(s, s->param[n->param[2]->index], x[0].d->v[0]);
    rv = vram__t_tiled(s, s->param[n->param[3]->index], x[0].d->v[0]);
  }
  train = s->train || !rm.d;
  nc[0] = x[0].d->v[0], nc[1] = x[0].d->v[1];
  size[0] = 1, size[1] = nc[0] * nc[1];
  for (i = 2; i < x[0].d->ndim; i++)
    size[i] = x[0].d->v[i], one &= size[i] == 1;
  if (train && one)
    vram__one_value(s, n);
  t = vram__t_contiguous(s, x[0]);
  v = vram__view(s, t, vram__dims_in(s, x[0].d->ndim, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  t = vram__t_batch_norm(s, v, w, b, rm, rv, train);
  for (i = 0; train && rm.d && i < 2; i++) { /* means of the running statistics */
    vram__t r = i ? rv : rm, m;
    r.d = vram__dims_in(s, 2, nc, NULL);
    m = vram__sum(s, r, 1, 0, r.dt);
    vram__let(s, m);
  }
  y[0] = vram__view(s, t, vram__contig(s, x[0].d), VRAM__K_view, 0);
  vram__let(s, t);
  vram__let(s, v);
  vram__let(s, rv);
  vram__let(s, rm);
  vram__let(s, b);
  vram__let(s, w);
}

/* torch.nn.functional.local_response_norm: x / (alpha * mean of x^2 over channels + k)^beta */
static void vram__run_lrn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t size = *vram__list(n, VRAM__KEY_size, NULL);
  const vram_dims *d = x[0].d;
  const uint32_t flat = d->ndim == 3, k = flat ? 2 : 3;
  int64_t pad[6] = {0, 0, 0, 0, 0, 0}, v[5], attr[8];
  uint32_t i, m = 0;
  vram__t t, u;
  t = vram__call(s, VRAM_OP_mul, x[0], x[0], NULL);
  v[0] = d->v[0], v[1] = 1, v[2] = d->v[1], v[3] = d->v[2], v[4] = 1;
  for (i = 3; i < d->ndim; i++)
    v[4] *= d->v[i]; /* [N,1,C,H,the rest] */
  u = flat ? vram__t_unsqueeze(s, t, 1) : vram__t_reshape(s, t, 5, v);
  vram__let(s, t);
  pad[2 * k - 2] = size / 2, pad[2 * k - 1] = (size - 1) / 2;
  t = vram__t_pad(s, u, pad, k, VRAM__PAD_CONSTANT);
  attr[m++] = VRAM__KEY_kernel_size | (int64_t)k << 8;
  for (i = 0; i < k; i++)
    attr[m++] = i ? 1 : size;
  attr[m++] = VRAM__KEY_stride | 1 << 8;
  attr[m++] = 1;
  attr[m] = 0;
  {
    const vram_dims *out = vram__contig(s, u.d);
    vram__let(s, u);
    u = vram__call_n(s, flat ? VRAM_OP_avg_pool2d : VRAM_OP_avg_pool3d, 0, &t, 1, attr, out);
  }
  vram__let(s, t);
  t = vram__t_squeeze1(s, u, 1);
  vram__let(s, u);
  if (!flat) {
    u = vram__view(s, t, vram__contig(s, d), VRAM__K_view, 0);
    vram__let(s, t);
    t = u;
  }
  u = vram__call(s, VRAM_OP_mul, t, vram__none(), NULL);
  y[0] = vram__call(s, VRAM_OP_add, u, vram__none(), NULL);
  vram__let(s, u);
  u = vram__call(s, VRAM_OP_pow, y[0], vram__none(), NULL);
  vram__let(s, y[0]);
  vram__let(s, t);
  y[0] = vram__call(s, VRAM_OP_div, x[0], u, NULL);
  vram__let(s, u);
}

/* ---- softmax ---- */

/* SoftMax.cu, host_softmax and host_softmax_backward */
static vram__t vram__t_softmax(vram__s *s, uint32_t op, vram__t x, uint8_t dt) {
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

static void vram__run_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = vram__list(n, VRAM__KEY_dtype, NULL) ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : 0;
  if (s->low && dt == VRAM_F32)
    dt = s->low;
  if (!dt)
    dt = s->amp && vram__is_half(x[0].dt) ? (uint8_t)VRAM_F32 : x[0].dt;
  y[0] = vram__t_softmax(s, n->op, x[0], dt);
}

static void vram__bw_softmax(vram__s *s, vram__fn *f, vram__t *to) {
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
#define vram__bw_safe_softmax vram__bw_softmax

/* ---- torch.nn.MultiheadAttention ---- */

static vram__t vram__mha_param(const vram__s *s, const vram_node *n, uint32_t i) {
  return n->param[i] ? s->param[n->param[i]->index] : vram__none();
}

/* x.split along its first axis into pieces of these sizes */
static void vram__t_split(vram__s *s, vram__t x, uint32_t count, const int64_t *sizes, vram__t *y) {
  static const int64_t attr[] = {VRAM__KEY_dim | 1 << 8, 0, 0};
  vram_node n;
  vram_value v[3];
  uint32_t i;
  int64_t d[VRAM_MAX_AXES];
  for (i = 0; i < x.d->ndim; i++)
    d[i] = x.d->v[i];
  vram__zero(&n, sizeof n);
  vram__zero(v, sizeof v);
  n.op = VRAM_OP_split;
  n.nin = 1, n.nout = count;
  n.attr = attr;
  n.out = v;
  for (i = 0; i < count; i++) {
    d[0] = sizes[i];
    v[i].d = vram__dims_in(s, x.d->ndim, d, NULL);
  }
  vram__run_op(s, &n, &x, y);
}

/* x[i] */
static vram__t vram__t_select(vram__s *s, vram__t x, int64_t i) {
  int64_t attr[5];
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = 0;
  attr[2] = VRAM__KEY_index | 1 << 8, attr[3] = i, attr[4] = 0;
  return vram__call_n(s, VRAM_OP_select, 0, &x, 1, attr, NULL);
}

/* torch.cat of two along an axis; takes both */
static vram__t vram__t_cat2(vram__s *s, vram__t a, vram__t b, uint32_t axis) {
  vram__t in[2], y;
  int64_t size[VRAM_MAX_AXES], attr[3];
  uint32_t i;
  in[0] = a, in[1] = b;
  for (i = 0; i < a.d->ndim; i++)
    size[i] = a.d->v[i] + (i == axis ? b.d->v[i] : 0);
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = axis, attr[2] = 0;
  y = vram__call_n(s, VRAM_OP_cat, 0, in, 2, attr, vram__dims_in(s, i, size, NULL));
  vram__let(s, b);
  vram__let(s, a);
  return y;
}

/* linear(x, w, b) and the parts of its last axis in front: [parts, ..., E] */
static vram__t vram__mha_packed(vram__s *s, vram__t x, vram__t w, vram__t b, int64_t parts) {
  vram__t p = vram__t_linear(s, x, w, b), t, u;
  const uint32_t n = p.d->ndim;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < n; i++)
    size[i] = p.d->v[i];
  size[n - 1] = parts, size[n] = p.d->v[n - 1] / parts;
  t = vram__view(s, p, vram__dims_in(s, n + 1, size, NULL), VRAM__K_view, 0);
  vram__let(s, p);
  order[0] = (uint8_t)(n - 1);
  for (i = 1; i < n; i++)
    order[i] = (uint8_t)(i - 1);
  order[n] = (uint8_t)n;
  u = vram__t_permute(s, t, order);
  vram__let(s, t);
  t = vram__t_contiguous(s, u);
  vram__let(s, u);
  return t;
}

/* [L,B,E] as heads: [B*h,L,D]. Takes x. */
static vram__t vram__mha_heads(vram__s *s, vram__t x, int64_t h) {
  int64_t size[3];
  vram__t t, y;
  size[0] = x.d->v[0], size[1] = x.d->v[1] * h, size[2] = x.d->v[2] / h;
  t = vram__t_reshape(s, x, 3, size);
  vram__let(s, x);
  y = vram__t_swap(s, t, 0, 1);
  vram__let(s, t);
  return y;
}

/* native/transformers/cuda/attention.cu, native_multi_head_attention: what eager inference of
   self-attention takes where it can (batch first, an even number of heads, biases, no autocast) */
static void vram__mha_native(vram__s *s, const vram_node *n, vram__t x, vram__t mask, vram__t *y) {
  const int64_t B = x.d->v[0], L = x.d->v[1], E = x.d->v[2], h = VRAM__INT(n, num_heads, 1);
  const int weights = VRAM__INT(n, need_weights, 1) != 0;
  vram__t a[4], t, u, att, in[3];
  int64_t size[4], part[3];
  uint32_t i;
  in[0] = vram__mha_param(s, n, VRAM__MHA_IN), in[1] = vram__mha_param(s, n, VRAM__MHA_BIAS);
  for (i = 0; i < 3; i++) { /* which backend would take query, key and value as they are? */
    a[i] = x;
    a[i].d = vram__bshd(s, B, h, L, E / h);
  }
  a[3] = vram__none();
  i = (uint32_t)vram__sdpa_pick(s, a, 0, 0, 0);
  if (!weights && !mask.d && (i == VRAM__SDPA_FLASH || i == VRAM__SDPA_EFFICIENT)) {
    t = vram__t_linear(s, x, in[0], in[1]);
    for (i = 0; i < 3; i++) { /* chunks of the last axis as heads */
      int64_t stride[4];
      size[0] = B, size[1] = h, size[2] = L, size[3] = E / h;
      stride[0] = L * 3 * E, stride[1] = E / h, stride[2] = 3 * E, stride[3] = 1;
      a[i] = vram__alias(s, t, vram__dims_in(s, 4, size, stride));
      a[i].off = (uint8_t)(((int64_t)i * E) & 15);
    }
    y[0] = vram__t_sdpa(s, n, a, 0, 0, 0);
    u = vram__t_swap(s, y[0], 1, 2);
    vram__let(s, y[0]);
    size[1] = L, size[2] = E;
    y[0] = vram__t_reshape(s, u, 3, size);
    vram__let(s, u);
    u = vram__t_linear(s, y[0], vram__mha_param(s, n, VRAM__MHA_OUT),
                       vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
    vram__let(s, y[0]);
    vram__let(s, t);
    y[0] = u;
    return;
  }
  t = vram__t_linear(s, x, in[0], vram__none());
  part[0] = 3 * B * h, part[1] = L, part[2] = E / h; /* biases added, heads in front */
  u = vram__empty(s, vram__dims_in(s, 3, part, NULL), t.dt);
  vram__let(s, t);
  size[0] = B * h, size[1] = size[2] = L;
  att = vram__empty(s, vram__dims_in(s, 3, size, NULL), u.dt);
  vram__workspace(s, s->ws);
  if (mask.d) { /* _masked_softmax */
    vram__t m = vram__empty(s, att.d, VRAM_BOOL);
    t = vram__empty(s, att.d, att.dt);
    vram__let(s, att);
    vram__let(s, m);
    att = t;
  }
  vram__workspace(s, s->ws); /* into the storage of the query */
  if (!weights) {
    vram__let(s, att);
    att = vram__none();
  }
  size[0] = B * L, size[1] = E;
  t = L == 1 ? vram__alias(s, u, vram__dims_in(s, 2, size, NULL)) /* the heads lie together */
             : vram__empty(s, vram__dims_in(s, 2, size, NULL), u.dt);
  y[0] = vram__t_linear(s, t, vram__mha_param(s, n, VRAM__MHA_OUT),
                        vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__let(s, t);
  size[0] = B, size[1] = L, size[2] = E;
  t = vram__view(s, y[0], vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__let(s, y[0]);
  y[0] = t;
  if (weights) {
    size[0] = B, size[1] = h, size[2] = size[3] = L;
    att.d = vram__dims_in(s, 4, size, NULL);
    y[1] = vram__sum(s, att, 2, 0, att.dt);
    vram__let(s, att);
  }
  vram__let(s, u);
}

static vram__t vram__mha_sdpa(vram__s *s, const vram_node *n, const vram__t *in, vram__t mask,
                              int64_t B, int64_t h, int64_t p) {
  vram__t a[4], t;
  int64_t size[4];
  uint32_t i;
  a[3] = mask;
  if (mask.d && mask.d->v[0] == 1)
    a[3] = vram__t_unsqueeze(s, mask, 0);
  else if (mask.d) {
    size[0] = B, size[1] = h, size[2] = mask.d->v[1], size[3] = mask.d->v[2];
    a[3] = vram__t_reshape(s, mask, 4, size);
  }
  for (i = 0; i < 3; i++) {
    size[0] = B, size[1] = h, size[2] = in[i].d->v[1], size[3] = in[i].d->v[2];
    a[i] = vram__t_reshape(s, in[i], 4, size);
  }
  for (i = s->amp ? 4 : 0; i-- > 0;)
    if (a[i].d) {
      t = vram__autocast(s, a[i], s->amp);
      vram__let(s, a[i]);
      a[i] = t;
    }
  return vram__t_sdpa(s, n, a, p, 0, 0);
}

/* torch.nn.functional.multi_head_attention_forward */
static void vram__run_mha(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t h = VRAM__INT(n, num_heads, 1), p = s->train ? VRAM__INT(n, dropout, 0) : 0;
  const int batched = x[0].d->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0),
            weights = VRAM__INT(n, need_weights, 1) != 0;
  const int same_kv = s->name_of[n->in[1]->index] == s->name_of[n->in[2]->index],
            same = same_kv && s->name_of[n->in[0]->index] == s->name_of[n->in[1]->index];
  const vram__t w = vram__mha_param(s, n, VRAM__MHA_IN), b = vram__mha_param(s, n, VRAM__MHA_BIAS);
  vram__t in[3], v[3], mask = vram__none(), given, q = mask, t, u, pw[3], pb[3];
  int64_t L, S, B, E, part[3], size[4], row[2] = {0, 1};
  uint32_t i, k;
  y[1] = vram__none();
  if (n->nin > 3) { /* F._canonical_mask: a bool mask as numbers */
    mask = x[3].dt == VRAM_BOOL ? vram__empty(s, vram__dense(s, x[3].d), x[0].dt)
                                : vram__keep_t(s, x[3]);
  }
  if (!s->grad && !s->train && !s->amp && first && same && h % 2 == 0 && b.d && w.d &&
      b.dt == x[0].dt && w.dt == x[0].dt && !n->param[VRAM__MHA_KEY] &&
      !n->param[VRAM__MHA_BIAS_K] && !VRAM__INT(n, add_zero_attn, 0) &&
      !(n->nin > 3 && vram__is_float(x[3].dt))) {
    vram__mha_native(s, n, x[0], mask, y);
    vram__let(s, mask);
    if (n->nout < 2) {
      vram__let(s, y[1]);
      y[1] = vram__none();
    }
    return;
  }
  given = vram__keep_t(s, mask); /* the module's forward holds it while that is padded */
  for (i = 0; i < 3; i++)
    if (batched && ((i == 1 && same) || (i == 2 && same_kv)))
      in[i] = vram__keep_t(s, in[i - 1]);
    else if (!batched)
      in[i] = vram__t_unsqueeze(s, x[i], 1);
    else
      in[i] = first ? vram__t_swap(s, x[i], 0, 1) : vram__keep_t(s, x[i]);
  L = in[0].d->v[0], B = in[0].d->v[1], E = in[0].d->v[2], S = in[1].d->v[0];
  if (batched && same && !n->param[VRAM__MHA_KEY]) {
    t = vram__mha_packed(s, in[0], w, b, 3);
    for (i = 0; i < 3; i++)
      v[i] = vram__t_select(s, t, i);
    vram__let(s, t);
  } else if (batched && same_kv && !n->param[VRAM__MHA_KEY]) {
    part[0] = E, part[1] = 2 * E;
    vram__t_split(s, w, 2, part, pw);
    pb[0] = pb[1] = vram__none();
    if (b.d)
      vram__t_split(s, b, 2, part, pb);
    v[0] = vram__t_linear(s, in[0], pw[0], pb[0]);
    t = vram__mha_packed(s, in[1], pw[1], pb[1], 2);
    v[1] = vram__t_select(s, t, 0), v[2] = vram__t_select(s, t, 1);
    vram__let(s, t);
    for (i = 0; i < 2; i++)
      vram__let(s, pw[i]), vram__let(s, pb[i]);
  } else {
    part[0] = part[1] = part[2] = E;
    if (n->param[VRAM__MHA_KEY]) {
      pw[0] = vram__keep_t(s, w);
      pw[1] = vram__keep_t(s, vram__mha_param(s, n, VRAM__MHA_KEY));
      pw[2] = vram__keep_t(s, vram__mha_param(s, n, VRAM__MHA_VALUE));
    } else
      vram__t_split(s, w, 3, part, pw);
    pb[0] = pb[1] = pb[2] = vram__none();
    if (b.d)
      vram__t_split(s, b, 3, part, pb);
    for (i = 0; i < 3; i++)
      v[i] = vram__t_linear(s, in[i], pw[i], pb[i]);
    for (i = 0; i < 3; i++)
      vram__let(s, pw[i]), vram__let(s, pb[i]);
  }
  if (mask.d && mask.d->ndim == 2) {
    t = vram__t_unsqueeze(s, mask, 0);
    vram__let(s, mask);
    mask = t;
  }
  for (k = 0; k < 2; k++) { /* bias_k and bias_v, then zeros, behind key and value */
    if (k ? !VRAM__INT(n, add_zero_attn, 0) : !n->param[VRAM__MHA_BIAS_K]) {
      for (i = 0; i < 3 && !k; i++)
        v[i] = vram__mha_heads(s, v[i], h);
      continue;
    }
    for (i = 1; i < 3; i++) {
      if (k) {
        size[0] = B * h, size[1] = 1, size[2] = E / h;
        t = vram__empty(s, vram__dims_in(s, 3, size, NULL), v[i].dt);
      } else {
        u = vram__mha_param(s, n, i == 1 ? VRAM__MHA_BIAS_K : VRAM__MHA_BIAS_V);
        size[0] = 1, size[1] = B, size[2] = E;
        t = vram__call_n(s, VRAM_OP_repeat, 0, &u, 1, NULL, vram__dims_in(s, 3, size, NULL));
      }
      v[i] = vram__t_cat2(s, v[i], t, k);
    }
    if (mask.d) {
      t = vram__t_pad(s, mask, row, 1, VRAM__PAD_CONSTANT);
      vram__let(s, mask);
      mask = t;
    }
    S++;
    for (i = 0; i < 3 && !k; i++)
      v[i] = vram__mha_heads(s, v[i], h);
  }
  if (weights) {
    vram__t f[3];
    q = v[0]; /* the variable q lives on */
    t = vram__call(s, VRAM_OP_mul, q, vram__none(), NULL);
    u = vram__t_swap(s, v[1], 1, 2);
    vram__let(s, v[1]);
    f[0] = mask, f[1] = t, f[2] = u;
    v[0] = mask.d ? vram__call_n(s, VRAM_OP_baddbmm, 0, f, 3, NULL, NULL)
                  : vram__call_n(s, VRAM_OP_bmm, 0, f + 1, 2, NULL, NULL);
    vram__let(s, u);
    vram__let(s, t);
    t = vram__t_softmax(s, VRAM_OP_softmax, v[0],
                        s->amp && vram__is_half(v[0].dt) ? (uint8_t)VRAM_F32 : v[0].dt);
    vram__let(s, v[0]);
    if (p) {
      int64_t attr[3];
      attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
      u = vram__call(s, VRAM_OP_dropout, t, vram__none(), attr);
      vram__let(s, t);
      t = u;
    }
    f[0] = t, f[1] = v[2];
    u = vram__call_n(s, VRAM_OP_bmm, 0, f, 2, NULL, NULL);
    vram__let(s, v[2]);
    y[1] = t;
    t = vram__t_swap(s, u, 0, 1);
  } else {
    static const uint8_t order[] = {2, 0, 1, 3};
    u = vram__mha_sdpa(s, n, v, mask, B, h, p);
    for (i = 0; i < 3; i++)
      vram__let(s, v[i]);
    t = vram__t_permute(s, u, order);
  }
  vram__let(s, u);
  size[0] = L * B, size[1] = E;
  u = vram__t_reshape(s, t, 2, size);
  vram__let(s, t);
  t = vram__t_linear(s, u, vram__mha_param(s, n, VRAM__MHA_OUT),
                     vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__let(s, u);
  size[0] = L, size[1] = B, size[2] = E;
  y[0] = vram__view(s, t, vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  if (weights) { /* averaged over the heads */
    static const int64_t mean[] = {VRAM__KEY_dim | 1 << 8, 1, 0};
    size[0] = B, size[1] = h, size[2] = L, size[3] = S;
    t = vram__view(s, y[1], vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__let(s, y[1]);
    y[1] = vram__call(s, VRAM_OP_mean, t, vram__none(), mean);
    vram__let(s, t);
  }
  vram__let(s, given);
  vram__let(s, mask);
  vram__let(s, q);
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  if (!batched) {
    t = vram__t_squeeze1(s, y[0], 1);
    vram__let(s, y[0]);
    y[0] = t;
    if (weights) {
      t = vram__t_squeeze1(s, y[1], 0);
      vram__let(s, y[1]);
      y[1] = t;
    }
  }
  if (first) {
    t = vram__t_swap(s, y[0], 0, 1);
    vram__let(s, y[0]);
    y[0] = t;
  }
  if (n->nout < 2) {
    vram__let(s, y[1]);
    y[1] = vram__none();
  }
}

/* ---- losses ---- */

enum { VRAM__RED_NONE, VRAM__RED_MEAN, VRAM__RED_SUM, VRAM__RED_BATCHMEAN };

static int vram__reduction(const vram_node *n) {
  int64_t w = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  return w == VRAM__WORD("none")        ? VRAM__RED_NONE
         : w == VRAM__WORD("sum")       ? VRAM__RED_SUM
         : w == VRAM__WORD("batchmean") ? VRAM__RED_BATCHMEAN
                                        : VRAM__RED_MEAN;
}

/* nll_loss_nd: rows of two axes or images; others are viewed as images of one line */
static vram__t vram__t_nll(vram__s *s, vram__t x, vram__t target, int red) {
  vram__t p = vram__keep_t(s, x), t, y, w;
  const vram_dims *d = x.d, *out = s->scalar;
  vram__fn *f;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0, n = d->ndim, image = n > 2;
  if (image && n != 4) {
    size[0] = d->v[0], size[1] = d->v[1], size[2] = size[3] = 1;
    for (i = 2; i < n; i++)
      size[3] *= d->v[i];
    vram__let(s, p);
    t = vram__t_contiguous(s, x);
    p = vram__view(s, t, vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__let(s, t);
  }
  if (s->amp) {
    t = vram__autocast(s, p, VRAM_F32);
    vram__let(s, p);
    p = t;
  }
  if (red == VRAM__RED_NONE) {
    for (i = 0; i < p.d->ndim; i++)
      if (i != 1 && n > 1)
        size[m++] = p.d->v[i];
    out = vram__dims_in(s, m, size, NULL);
  }
  f = vram__record(s, VRAM__K_nll, &p, 1, 1, 3);
  if (image)
    w = vram__empty(s, s->scalar, p.dt), y = vram__empty(s, out, p.dt);
  else
    y = vram__empty(s, out, p.dt), w = vram__empty(s, s->scalar, p.dt);
  if (!image || red != VRAM__RED_NONE) {
    t = vram__format_copy(s, p, 0);
    vram__let(s, t);
  }
  if (f)
    vram__save(s, f, p), vram__save(s, f, target), vram__save(s, f, w);
  vram__let(s, w);
  vram__made(s, f, 0, &y);
  vram__let(s, p);
  if (image && n != 4 && red == VRAM__RED_NONE) {
    for (i = 0, m = 0; i < n; i++)
      if (i != 1)
        size[m++] = d->v[i];
    t = vram__view(s, y, vram__dims_in(s, m, size, NULL), VRAM__K_view, 0);
    vram__let(s, y);
    y = t;
  }
  return y;
}

static void vram__bw_nll(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t p = VRAM__SAVED(f)[0], c;
  to[0] = vram__empty(s, vram__contig(s, p.d), p.dt);
  c = vram__format_copy(s, p, 0);
  vram__let(s, c);
}

/* Loss.cpp, apply_loss_reduction; takes t */
static vram__t vram__t_reduced(vram__s *s, vram__t t, int red) {
  vram__t y;
  if (red == VRAM__RED_NONE)
    return t;
  y = vram__call(s, red == VRAM__RED_MEAN ? VRAM_OP_mean : VRAM_OP_sum, t, vram__none(), NULL);
  vram__let(s, t);
  if (red == VRAM__RED_BATCHMEAN) {
    t = y;
    y = vram__call(s, VRAM_OP_div, t, vram__none(), NULL);
    vram__let(s, t);
  }
  return y;
}

/* A target of the op's own: zeros like x. Inputs of a loss, expanded to each other as
   torch.broadcast_tensors does, on autocast's fp32 list: the last one cast first. Owned; behind
   them what the Python function's variables hold of the op's own targets. */
static void vram__loss_args(vram__s *s, const vram_node *n, vram__t *x, uint32_t count, int expand,
                            vram__t *a) {
  uint32_t i, k;
  for (i = 0; i < count; i++)
    a[i] = i < n->nin ? vram__keep_t(s, x[i]) : vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
  for (i = 0; i < count; i++)
    a[count + i] = i < n->nin ? vram__none() : vram__keep_t(s, a[i]);
  for (k = 0; expand && k < count; k++) {
    int64_t size[VRAM_MAX_AXES];
    uint32_t nd = 0, j;
    vram__t t;
    for (i = 0; i < count; i++)
      vram__bcast(&nd, size, a[i].d);
    for (j = 0; a[k].d->ndim == nd && j < nd && a[k].d->v[j] == size[j];)
      j++;
    if (j == nd)
      continue;
    t = vram__t_expand(s, a[k], nd, size);
    vram__let(s, a[k]);
    a[k] = t;
  }
  for (i = count; s->amp && i-- > 0;) {
    vram__t t = vram__autocast(s, a[i], VRAM_F32);
    vram__let(s, a[i]);
    a[i] = t;
  }
}

/* Distance.cpp, pairwise_distance */
static vram__t vram__t_distance(vram__s *s, vram__t a, vram__t b) {
  static const int64_t last[] = {VRAM__KEY_dim | 1 << 8, -1, 0};
  vram__t t = vram__call(s, VRAM_OP_sub, a, b, NULL), u, y;
  u = vram__call(s, VRAM_OP_add, t, vram__none(), NULL);
  y = vram__call(s, VRAM_OP_norm, u, vram__none(), last);
  vram__let(s, t);
  vram__let(s, u);
  return y;
}

/* Loss.cpp, triplet_margin_loss */
static void vram__run_triplet(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[6], pos, neg, t, u;
  const uint8_t amp = s->amp;
  uint32_t i;
  vram__loss_args(s, n, x, 3, 0, a);
  s->amp = 0;
  pos = vram__t_distance(s, a[0], a[1]);
  neg = vram__t_distance(s, a[0], a[2]);
  if (VRAM__INT(n, swap, 0)) {
    t = vram__t_distance(s, a[1], a[2]);
    u = vram__call(s, VRAM_OP_minimum, neg, t, NULL);
    vram__let(s, neg);
    vram__let(s, t);
    neg = u;
  }
  t = vram__call(s, VRAM_OP_add, pos, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_sub, t, neg, NULL);
  y[0] = vram__call(s, VRAM_OP_clamp, u, vram__none(), NULL);
  vram__let(s, u);
  vram__let(s, t);
  y[0] = vram__t_reduced(s, y[0], vram__reduction(n));
  vram__let(s, neg);
  vram__let(s, pos);
  s->amp = amp;
  for (i = 6; i-- > 0;)
    vram__let(s, a[i]);
}

/* Loss.cpp, cosine_embedding_loss */
static void vram__run_cosine(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], held[3], m[3], cos, zeros, pos, neg, t, u, b[3], w[2];
  const uint8_t amp = s->amp;
  const uint32_t nd = x[0].d->ndim;
  int64_t attr[3];
  uint32_t i;
  for (i = 0; i < 3; i++) { /* inputs or targets of the op's own, which the caller holds */
    a[i] = i < n->nin ? vram__keep_t(s, x[i])
           : i == 1   ? vram__empty(s, vram__dense(s, x[0].d), x[0].dt)
                      : vram__empty(s, vram__dims_in(s, nd - 1, x[0].d->v, NULL), x[0].dt);
    held[i] = vram__keep_t(s, a[i]);
  }
  if (s->amp)
    for (i = 3; i-- > 0;) {
      vram__let(s, a[i]);
      a[i] = vram__autocast(s, held[i], VRAM_F32);
    }
  s->amp = 0;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = (int64_t)nd - 1, attr[2] = 0;
  for (i = 0; i < 3; i++) { /* a.b, a.a, b.b */
    t = vram__call(s, VRAM_OP_mul, a[i == 2], a[i != 1], NULL);
    m[i] = vram__call(s, VRAM_OP_sum, t, vram__none(), attr);
    if (i) {
      u = vram__call(s, VRAM_OP_add, m[i], vram__none(), NULL);
      vram__let(s, m[i]);
      m[i] = u;
    }
    vram__let(s, t);
  }
  t = vram__call(s, VRAM_OP_mul, m[1], m[2], NULL);
  vram__call_in_place(s, VRAM_OP_sqrt, &t, vram__none());
  cos = vram__call(s, VRAM_OP_div, m[0], t, NULL);
  zeros = vram__ti1(s, cos);
  pos = vram__ti1(s, cos); /* ones, cos subtracted in place */
  vram__call_in_place(s, VRAM_OP_sub, &pos, cos);
  neg = vram__call(s, VRAM_OP_sub, cos, vram__none(), NULL);
  vram__call_in_place(s, VRAM_OP_clamp, &neg, vram__none());
  for (i = 0; i < 2; i++) { /* where(target == 1 or -1, pos or neg, zeros) */
    b[0] = vram__empty(s, vram__dense(s, a[2].d), VRAM_BOOL);
    b[1] = i ? neg : pos, b[2] = zeros;
    w[i] = vram__call_n(s, VRAM_OP_where, 0, b, 3, NULL, NULL);
    vram__let(s, b[0]);
  }
  y[0] = vram__call(s, VRAM_OP_add, w[0], w[1], NULL);
  y[0] = vram__t_reduced(s, y[0], vram__reduction(n));
  vram__let(s, w[1]), vram__let(s, w[0]);
  vram__let(s, neg);
  vram__let(s, pos);
  vram__let(s, zeros);
  vram__let(s, cos);
  vram__let(s, t);
  for (i = 3; i-- > 0;)
    vram__let(s, m[i]);
  s->amp = amp;
  for (i = 3; i-- > 0;)
    vram__let(s, a[i]), vram__let(s, held[i]);
}

/* xlogy(x, x) */
static vram__t vram__t_xlogx(vram__s *s, vram__t x) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = in[1] = x;
  f = vram__record(s, VRAM__K_xlogx, in, 2, 1, 1);
  y = vram__ti1(s, x);
  if (f)
    vram__save(s, f, x);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_xlogx(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__t t = vram__ti2(s, g, x), m[3];
  uint32_t i;
  to[1] = vram__ti2(s, t, x);
  vram__let(s, t);
  t = vram__ti2(s, g, x);
  for (i = 0; i < 3; i++) /* x == 0, x <= 0, both */
    m[i] = vram__empty(s, vram__dense(s, x.d), VRAM_BOOL);
  to[0] = vram__ti1(s, t);
  while (i-- > 0)
    vram__let(s, m[i]);
  vram__let(s, t);
}

static vram__t vram__sum_all(vram__s *s, vram__t x) {
  return vram__sum(s, x, x.d->ndim ? (1u << x.d->ndim) - 1 : 0, 0, x.dt);
}

/* Loss.cpp, PointwiseOps: losses of two tensors */
static void vram__run_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int red = vram__reduction(n), none = red == VRAM__RED_NONE;
  const uint8_t amp = s->amp;
  const vram_dims *d[2];
  vram__t a[4], t, u, v;
  uint32_t i;
  vram__fn *f;
  vram__loss_args(s, n, x, 2,
                  n->op != VRAM_OP_kl_div && n->op != VRAM_OP_binary_cross_entropy &&
                      n->op != VRAM_OP_binary_cross_entropy_with_logits,
                  a);
  s->amp = 0; /* inside, autocast is off */
  switch (n->op) {
  case VRAM_OP_l1_loss:
    t = vram__call(s, VRAM_OP_sub, a[0], a[1], NULL);
    u = vram__call(s, VRAM_OP_abs, t, vram__none(), NULL);
    y[0] = vram__t_reduced(s, u, red); /* one C++ expression: temporaries go at its end */
    vram__let(s, t);
    break;
  case VRAM_OP_kl_div:
    if (VRAM__INT(n, log_target, 0)) {
      t = vram__call(s, VRAM_OP_sub, a[1], a[0], NULL);
      u = vram__call(s, VRAM_OP_exp, a[1], vram__none(), NULL);
      v = vram__call(s, VRAM_OP_mul, u, t, NULL);
    } else {
      t = vram__call(s, VRAM_OP_mul, a[1], a[0], NULL);
      u = vram__t_xlogx(s, a[1]);
      v = vram__call(s, VRAM_OP_sub, u, t, NULL);
    }
    vram__let(s, u);
    vram__let(s, t);
    y[0] = vram__t_reduced(s, v, red);
    break;
  default: /* one kernel for all elements; some reductions leave the scalar in its storage */
    if (amp && n->op == VRAM_OP_binary_cross_entropy) {
      s->problem = "binary_cross_entropy does not run under autocast (expected "
                   "binary_cross_entropy_with_logits)";
      s->failed = VRAM_ERR_UNSUPPORTED;
    }
    f = vram__record(s, n->op, a, 2, 1, 2);
    d[0] = a[0].d, d[1] = a[1].d;
    t = vram__empty(s, vram__ti(s, d, 2),
                    n->op == VRAM_OP_binary_cross_entropy_with_logits || n->op == VRAM_OP_huber_loss
                        ? a[0].dt
                        : vram__result2(a[0], a[1]));
    switch (n->op) {
    case VRAM_OP_binary_cross_entropy_with_logits:
      u = vram__empty(s, t.d, vram__result2(a[0], a[1]));
      v = none ? vram__keep_t(s, u) : vram__sum_all(s, u);
      vram__let(s, u);
      vram__let(s, t);
      t = v;
      break;
    case VRAM_OP_huber_loss:
      if (none)
        break;
      u = vram__sum_all(s, t);
      vram__let(s, t);
      t = u;
      break;
    case VRAM_OP_binary_cross_entropy:
      if (none)
        break;
      u = vram__sum_all(s, t);
      vram__let(s, u);
      t.d = s->scalar;
      break;
    default:
      if (none)
        break;
      u = vram__empty(s, t.d, t.dt);
      vram__reduce(s, u, u.d->ndim ? (1u << u.d->ndim) - 1 : 0, u.dt,
                   vram__size_of(u.dt) < 4 ? 4 : vram__size_of(u.dt), 4);
      vram__let(s, u);
      t.d = s->scalar;
    }
    if (f)
      vram__save(s, f, a[0]), vram__save(s, f, a[1]);
    vram__made(s, f, 0, &t);
    y[0] = t;
  }
  s->amp = amp;
  for (i = 4; i-- > 0;)
    vram__let(s, a[i]);
}

static void vram__bw_loss(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram__t x = VRAM__SAVED(f)[i];
    vram__t t = vram__none();
    if (!vram__wants(f, i))
      continue;
    if (f->kind == VRAM_OP_binary_cross_entropy_with_logits && i) {
      t = vram__ti1(s, VRAM__SAVED(f)[0]); /* -input, times the gradient */
      to[i] = vram__ti2(s, t, VRAM__SLOTS(f)[0].g);
    } else if (f->kind == VRAM_OP_binary_cross_entropy ||
               f->kind == VRAM_OP_binary_cross_entropy_with_logits)
      to[i] = vram__empty(s, vram__dense(s, VRAM__SAVED(f)[0].d), x.dt);
    else
      to[i] = vram__empty(s, vram__contig(s, x.d), x.dt);
    vram__let(s, t);
  }
}

/* LossNLL.cpp, cross_entropy_loss_label_smoothing: what is added to the loss y of log-softmax p */
static vram__t vram__t_smoothed(vram__s *s, vram__t p, vram__t target, vram__t y, int red) {
  int64_t attr[3];
  vram__t smooth, mask, t, u, r, count, a;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  t = vram__call(s, VRAM_OP_sum, p, vram__none(), attr);
  smooth = vram__call(s, VRAM_OP_neg, t, vram__none(), NULL);
  vram__let(s, t);
  mask = vram__empty(s, vram__dense(s, target.d), VRAM_BOOL);
  vram__call_in_place(s, VRAM_OP_masked_fill, &smooth, mask);
  if (red == VRAM__RED_MEAN) {
    t = vram__ti1(s, mask);
    count = vram__sum(s, t, t.d->ndim ? (1u << t.d->ndim) - 1 : 0, 0, VRAM_I64);
    u = vram__call(s, VRAM_OP_sum, smooth, vram__none(), NULL);
    r = vram__call(s, VRAM_OP_div, u, count, NULL);
    vram__let(s, u);
    vram__let(s, count);
    vram__let(s, t);
  } else
    r = red == VRAM__RED_SUM ? vram__call(s, VRAM_OP_sum, smooth, vram__none(), NULL)
                             : vram__keep_t(s, smooth);
  t = vram__call(s, VRAM_OP_mul, r, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_mul, y, vram__none(), NULL);
  a = vram__call(s, VRAM_OP_add, u, t, NULL);
  vram__let(s, u);
  vram__let(s, t);
  vram__let(s, r);
  vram__let(s, mask);
  vram__let(s, smooth);
  return a;
}

/* LossNLL.cpp, cross_entropy_loss_prob_target */
static vram__t vram__t_prob_loss(vram__s *s, vram__t p, vram__t target, int smoothing, int red) {
  int64_t attr[3];
  vram__t t = vram__keep_t(s, target), u, sum, neg;
  if (smoothing) {
    vram__let(s, t);
    u = vram__call(s, VRAM_OP_mul, target, vram__none(), NULL);
    t = vram__call(s, VRAM_OP_add, u, vram__none(), NULL);
    vram__let(s, u);
  }
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  u = vram__call(s, VRAM_OP_mul, p, t, NULL);
  sum = vram__call(s, VRAM_OP_sum, u, vram__none(), red == VRAM__RED_NONE ? attr : NULL);
  neg = vram__call(s, VRAM_OP_neg, sum, vram__none(), NULL);
  if (red == VRAM__RED_MEAN) {
    vram__t d = vram__call(s, VRAM_OP_div, neg, vram__none(), NULL);
    vram__let(s, neg);
    neg = d;
  }
  vram__let(s, sum);
  vram__let(s, u);
  vram__let(s, t);
  return neg;
}

/* Class numbers for x, if the model does not give any. */
static vram__t vram__classes(vram__s *s, const vram_dims *d) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != (d->ndim > 1))
      size[m++] = d->v[i];
  return vram__empty(s, vram__dims_in(s, m, size, NULL), VRAM_I64);
}

/* LossNLL.cpp, cross_entropy_loss and nll_loss */
static void vram__run_cross_entropy(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t t = n->nin > 1 ? vram__keep_t(s, x[1]) : vram__classes(s, x[0].d), p, u;
  const int red = vram__reduction(n), smoothing = VRAM__INT(n, label_smoothing, 0) > 0;
  if (n->op == VRAM_OP_cross_entropy)
    p = vram__t_softmax(s, VRAM_OP_log_softmax, x[0], x[0].dt);
  else
    p = vram__keep_t(s, x[0]);
  if (vram__is_float(t.dt))
    y[0] = vram__t_prob_loss(s, p, t, smoothing, red);
  else {
    y[0] = vram__t_nll(s, p, t, red);
    if (smoothing && n->op == VRAM_OP_cross_entropy) {
      u = vram__t_smoothed(s, p, t, y[0], red);
      vram__let(s, y[0]);
      y[0] = u;
    }
  }
  vram__let(s, p);
  vram__let(s, t);
}

/* LossCTC.cu. Lengths are on the host, all as long as the tensors allow. */
static void vram__run_ctc_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = x[0].d;
  const int64_t batch = d->ndim > 2 ? d->v[1] : 1, steps = d->v[0];
  const int red = vram__reduction(n);
  const uint64_t lengths = vram__mul(8, (uint64_t)batch);
  int64_t size[2], most;
  vram__t target, h[3], alpha, t, u;
  vram__fn *f;
  uint32_t i;
  size[0] = batch, size[1] = steps;
  target = n->nin > 1 ? vram__to(s, x[1], VRAM_I64) /* LossCTC.cpp, ctc_loss */
                      : vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_I64);
  most = target.d->ndim > 1 ? target.d->v[1]
                            : vram__div_up((int64_t)target.d->numel, batch ? batch : 1);
  f = vram__record(s, VRAM__K_ctc, x, 1, 1, 4);
  for (i = 0; i < 3; i++)
    h[i] = vram__raw(s, lengths);
  alpha = vram__raw(s, vram__mul4(batch, steps, 2 * most + 1, vram__size_of(x[0].dt)));
  y[0] = vram__empty(s, d->ndim > 2 ? vram__dims_in(s, 1, &batch, NULL) : s->scalar, x[0].dt);
  vram__let(s, h[1]), vram__let(s, h[0]), vram__let(s, h[2]);
  if (f) {
    f->aux = alpha.st ? (s->top - alpha.st)->bytes : 0;
    vram__save(s, f, x[0]), vram__save(s, f, y[0]), vram__save(s, f, alpha);
    vram__save(s, f, target);
  }
  vram__let(s, alpha);
  vram__let(s, target);
  vram__made(s, f, 0, &y[0]);
  if (VRAM__INT(n, zero_infinity, 0)) {
    u = vram__empty(s, s->scalar, y[0].dt);
    h[0] = vram__empty(s, y[0].d, VRAM_BOOL);
    h[1] = u, h[2] = y[0];
    t = vram__call_n(s, VRAM_OP_where, 0, h, 3, NULL, NULL);
    vram__let(s, h[0]);
    vram__let(s, u);
    vram__let(s, y[0]);
    y[0] = t;
  }
  if (red == VRAM__RED_MEAN) {
    t = vram__empty(s, y[0].d, y[0].dt); /* the lengths of the targets, and at least 1 */
    u = vram__ti1(s, t);
    vram__let(s, t);
    t = vram__call(s, VRAM_OP_div, y[0], u, NULL);
    vram__let(s, u);
    vram__let(s, y[0]);
    y[0] = t;
  }
  y[0] = vram__t_reduced(s, y[0], red);
}

static void vram__bw_ctc(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t x = VRAM__SAVED(f)[0];
  const uint64_t lengths = vram__mul(8, x.d->ndim > 2 ? (uint64_t)x.d->v[1] : 1);
  vram__t h[3], beta;
  uint32_t i;
  for (i = 0; i < 3; i++)
    h[i] = vram__raw(s, lengths);
  beta = vram__raw(s, f->aux);
  to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  vram__let(s, beta);
  vram__let(s, h[1]), vram__let(s, h[0]), vram__let(s, h[2]);
}

/* torch.nn.functional.gumbel_softmax */
static void vram__run_gumbel_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
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

/* An operand of a contraction: the axes of t stand at these positions, ascending; all others are 1.
 */
typedef struct vram__operand {
  vram__t t;
  uint8_t at[VRAM_MAX_AXES];
  int64_t
      one[VRAM__MAX_LABELS]; /* strides of positions of size 1: BLAS looks at the last of them */
} vram__operand;

static uint64_t vram__places(const vram__operand *o) {
  uint64_t m = 0;
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    m |= UINT64_C(1) << o->at[i];
  return m;
}

static int64_t vram__size_at(const vram__operand *o, uint32_t at) {
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    if (o->at[i] == at)
      return o->t.d->v[i];
  return 1;
}

static int vram__top_bit(uint64_t m) {
  int i = -1;
  for (; m; m >>= 1)
    i++;
  return i;
}

/* o is contiguous, its positions in the order of these groups: the strides of those of size 1 */
static void vram__ones(vram__operand *o, const uint64_t *group, uint32_t groups) {
  int64_t z = 1;
  uint32_t g, i;
  for (g = groups; g-- > 0;)
    for (i = VRAM__MAX_LABELS; i-- > 0;)
      if (group[g] >> i & 1)
        o->one[i] = z, z *= vram__size_at(o, i);
}

/* o.sum over these positions of n; takes the old tensor */
static void vram__sum_places(vram__s *s, vram__operand *o, uint64_t places, uint32_t n) {
  uint64_t all = (UINT64_C(1) << n) - 1;
  uint32_t i, m = 0, mask = 0;
  vram__fn *f;
  vram__t y;
  for (i = 0; i < o->t.d->ndim; i++)
    if (places >> o->at[i] & 1)
      mask |= 1u << i;
    else
      o->at[m++] = o->at[i];
  if (!mask)
    return;
  f = vram__record(s, VRAM_OP_sum, &o->t, 1, 1, 0);
  if (f)
    f->aux = mask;
  y = vram__sum(s, o->t, mask, 0, o->t.dt);
  vram__made(s, f, 0, &y);
  vram__let(s, o->t);
  o->t = y;
  vram__ones(o, &all, 1);
}

/* o as a view with all these positions as axes, for a product with broadcasting */
static vram__t vram__spread(vram__s *s, const vram__operand *o, uint64_t places) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, k = 0, m = 0;
  for (i = 0; i < VRAM__MAX_LABELS && m < VRAM_MAX_AXES; i++)
    if (places >> i & 1) {
      if (k < o->t.d->ndim && o->at[k] == i)
        size[m] = o->t.d->v[k], stride[m++] = VRAM__STRIDE(o->t.d)[k++];
      else
        size[m] = 1, stride[m++] = k < o->t.d->ndim ? o->t.d->v[k] * VRAM__STRIDE(o->t.d)[k] : 1;
    }
  return vram__view(s, o->t, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
}

/* o permuted to three groups of positions and each group made one axis; `last`: the position that
   comes last of all, also if it is of size 1 */
static vram__t vram__grouped(vram__s *s, const vram__operand *o, const uint64_t *group, int last) {
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[3], stride[VRAM_MAX_AXES];
  uint32_t i, k, m = 0;
  vram__t p, q;
  for (k = 0; k < 3; k++)
    for (size[k] = 1, i = 0; i < o->t.d->ndim; i++)
      if (group[k] >> o->at[i] & 1)
        order[m++] = (uint8_t)i, size[k] *= o->t.d->v[i];
  p = vram__t_permute(s, o->t, order);
  if (size[2] == 1 && last >= 0 && vram__size_at(o, (uint32_t)last) == 1 && !s->ideal &&
      vram__view_strides(p.d, 3, size, stride)) { /* computeStride takes the last axis' stride */
    stride[2] = o->one[last];
    q = vram__view(s, p, vram__dims_in(s, 3, size, stride), VRAM__K_view, 0);
  } else
    q = vram__t_reshape(s, p, 3, size);
  vram__let(s, p);
  return q;
}

static vram__t vram__t_mul(vram__s *s, vram__t a, vram__t b) {
  vram__t in[2];
  in[0] = a, in[1] = b;
  return vram__t_pointwise(s, VRAM_OP_mul, in, 2);
}

/* Linear.cpp, sumproduct_pair: the product of a and b summed over the positions `sum` of n; takes
   both. It is a batched product of (both, only a, sum) and (both, sum, only b), or a pointwise one.
 */
static vram__operand vram__pair(vram__s *s, vram__operand a, vram__operand b, uint64_t sum,
                                uint32_t n, int nout) {
  uint64_t pa, pb, both, la, lb, group[4], m, all = (UINT64_C(1) << n) - 1;
  int last[2];
  int64_t size[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES], at[VRAM_MAX_AXES];
  uint32_t i, j, k = 0;
  vram__operand y;
  vram__t p, q;
  if (!sum) {
    pa = vram__places(&a) | vram__places(&b);
    p = vram__spread(s, &a, pa);
    vram__let(s, a.t);
    q = vram__spread(s, &b, pa);
    vram__let(s, b.t);
    y.t = vram__t_mul(s, p, q);
    vram__let(s, p);
    vram__let(s, q);
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (pa >> i & 1)
        y.at[k++] = (uint8_t)i;
    vram__ones(&y, &all, 1);
    return y;
  }
  m = vram__places(&a) ^ vram__places(&b);
  vram__sum_places(s, &a, m & sum, n);
  vram__sum_places(s, &b, m & sum, n);
  pa = vram__places(&a), pb = vram__places(&b);
  both = pa & pb & ~sum, la = pa & ~pb & ~sum, lb = pb & ~pa & ~sum;
  /* positions that are 1 in both count as b's; if all of b's are in front of those of a, the other
     way round the result needs no transposing */
  pa = la, pb = all & ~sum & ~both & ~la;
  if (la && pb && pb < (la & (0 - la))) {
    vram__operand t = a;
    a = b, b = t;
    m = la, la = lb, lb = m;
    m = pa, pa = pb, pb = m;
  }
  last[0] = vram__top_bit(pb ? pb : sum ? sum : pa ? pa : both);
  last[1] = vram__top_bit(pa ? pa : pb ? pb : sum ? sum : both);
  group[0] = both, group[1] = la, group[2] = sum;
  p = vram__grouped(s, &a, group, last[0]);
  group[1] = sum, group[2] = lb;
  q = vram__grouped(s, &b, group, last[1]);
  y.t = vram__t_product(s, VRAM__K_bmm, p, q);
  group[1] = la;
  for (j = 0; j < 3; j++)
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (group[j] >> i & 1) {
        at[k] = (uint8_t)i;
        size[k++] = vram__size_at(j < 2 ? &a : &b, i);
      }
  vram__let(s, a.t);
  vram__let(s, b.t);
  vram__let(s, p);
  vram__let(s, q);
  /* einsum squeezes what was summed at the end: backward's unsqueeze gives it stride 1 */
  p = vram__view(s, y.t, vram__dims_in(s, k, size, NULL), VRAM__K_view, !lb && last[0] >= nout);
  vram__let(s, y.t);
  for (m = both | la | lb, j = 0, i = 0; i < n && j < k; i++)
    if (m >> i & 1) {
      uint32_t o = 0;
      while (at[o] != i)
        o++;
      y.at[j] = (uint8_t)i;
      order[j++] = (uint8_t)o;
    }
  y.t = vram__t_permute(s, p, order);
  vram__let(s, p);
  group[0] = both, group[1] = pa, group[2] = sum, group[3] = pb;
  vram__ones(&y, group, 4);
  return y;
}

/* An operand of einsum: diagonals of labels that come twice, axes of size 1 left out, in order of
   their positions. Takes x. */
static vram__operand vram__einsum_operand(vram__s *s, vram__t x, uint8_t *at,
                                          const vram__labels *l) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i, j, k, m;
  vram__operand o;
  vram__t t;
  for (i = 0; i < VRAM__MAX_LABELS; i++)
    o.one[i] = 1;
  for (i = 0; i < x.d->ndim;
       i++) /* axes that the ellipsis lacks here stand in front of its others */
    if (at[i] >= l->dots_at && at[i] < l->dots_at + l->dots)
      for (j = l->dots_at; j < at[i]; j++)
        o.one[j] = x.d->v[i] * VRAM__STRIDE(x.d)[i], i = x.d->ndim - 1;
  for (j = 1; j < x.d->ndim; j++)
    for (i = 0; i < j; i++)
      if (at[i] == at[j]) {
        for (m = 0, k = 0; k < x.d->ndim; k++)
          if (k != j)
            size[m] = x.d->v[k],
            stride[m++] = VRAM__STRIDE(x.d)[k] + (k == i ? VRAM__STRIDE(x.d)[j] : 0);
        for (k = j; k < m; k++)
          at[k] = at[k + 1];
        t = vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
        vram__let(s, x);
        x = t;
        j--;
        break;
      }
  for (m = 0, i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] == 1)
      o.one[at[i]] = VRAM__STRIDE(x.d)[i];
    else
      at[m] = at[i], size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
  if (m < x.d->ndim) {
    t = vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
    vram__let(s, x);
    x = t;
  }
  for (i = 0; i < m; i++) {
    for (j = i; j > 0 && at[order[j - 1]] > at[i]; j--)
      order[j] = order[j - 1];
    order[j] = (uint8_t)i;
  }
  for (i = 0; i < m; i++)
    o.at[i] = at[order[i]];
  o.t = vram__t_permute(s, x, order);
  vram__let(s, x);
  return o;
}

/* Operands from left to right; a label is summed as soon as no later operand has it. */
static void vram__run_einsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__labels l;
  const char *what, *p;
  uint8_t at[VRAM_MAX_AXES];
  int64_t stride[VRAM_MAX_AXES];
  uint64_t sum, sa, sb;
  uint32_t i, k, m;
  vram__operand a, b;
  vram__label_all(&l, n, &what);
  p = l.text;
  for (k = 0; k < n->nin; k++)
    x[k] = s->amp ? vram__autocast(s, x[k], s->amp) : vram__keep_t(s, x[k]);
  vram__label_axes(&l, &p, x[0].d->ndim, at); /* autocast's list of casts stays until the end */
  a = vram__einsum_operand(s, vram__keep_t(s, x[0]), at, &l);
  for (k = 1; k < n->nin; k++) {
    vram__label_axes(&l, &p, x[k].d->ndim, at);
    b = vram__einsum_operand(s, vram__keep_t(s, x[k]), at, &l);
    sum = sa = sb = 0;
    for (i = l.nout; i < l.n; i++) {
      int in_a = (int)(vram__places(&a) >> i & 1), in_b = (int)(vram__places(&b) >> i & 1);
      uint64_t bit = UINT64_C(1) << i;
      if (in_a && in_b) {
        if (--l.count[i] == 1)
          sum |= bit;
      } else if (l.count[i] == 1)
        sa |= in_a ? bit : 0, sb |= in_b ? bit : 0;
    }
    vram__sum_places(s, &a, sa, l.n);
    vram__sum_places(s, &b, sb, l.n);
    a = vram__pair(s, a, b, sum, l.n, (int)l.nout);
  }
  vram__sum_places(s, &a, ~((UINT64_C(1) << l.nout) - 1), l.n);
  for (m = 0, i = 0; i < l.nout; i++) /* the axes of size 1 come back */
    if (m < a.t.d->ndim && a.at[m] == i)
      stride[i] = VRAM__STRIDE(a.t.d)[m++];
    else
      stride[i] = m < a.t.d->ndim ? a.t.d->v[m] * VRAM__STRIDE(a.t.d)[m] : 1;
  if (l.nout == a.t.d->ndim)
    y[0] = a.t;
  else {
    y[0] = vram__view(s, a.t, vram__dims_in(s, l.nout, n->out[0].d->v, stride), VRAM__K_view, 0);
    vram__let(s, a.t);
  }
  for (k = 0; k < n->nin; k++)
    vram__let(s, x[k]);
}

/* Linear.cpp, _trilinear: three tensors over the positions 0..3 (each lacks those of its mask
   `without`), multiplied and summed over the positions `sum`, one index of position 1 after the
   other. */
static vram__t vram__trilinear(vram__s *s, const vram__t *in, const uint32_t *without,
                               uint32_t sum) {
  vram__operand o[3], p;
  int64_t size[4], stride[4], rounds = 1, full[4];
  uint32_t i, j, a, m;
  uint64_t first = sum & without[2] & ~2u, rest = sum & ~without[2] & ~2u, used;
  vram__t y;
  for (j = 0; j < 4; j++)
    full[j] = 1;
  for (i = 0; i < 3; i++) {
    for (m = 0, a = 0, j = 0; j < 4; j++) {
      if (without[i] >> j & 1) {
        o[i].one[j] = a < in[i].d->ndim ? in[i].d->v[a] * VRAM__STRIDE(in[i].d)[a] : 1;
        continue;
      }
      o[i].one[j] = VRAM__STRIDE(in[i].d)[a];
      if (in[i].d->v[a] != 1)
        full[j] = in[i].d->v[a];
      if (in[i].d->v[a] != 1 && j != 1)
        size[m] = in[i].d->v[a], stride[m] = VRAM__STRIDE(in[i].d)[a], o[i].at[m++] = (uint8_t)j;
      a++;
    }
    o[i].t = in[i];
    o[i].t.fn = 0, o[i].t.req = 0;
    o[i].t.d = vram__dims_in(s, m, size, stride);
  }
  rounds = full[1];
  for (m = 0, j = 0; j < 4; j++)
    if (!(sum >> j & 1))
      size[m++] = full[j];
  y = vram__empty(s, vram__dims_in(s, m, size, NULL), in[0].dt);
  if (!in[0].d->numel || !in[1].d->numel || !in[2].d->numel) /* Linear.cpp: zeros */
    rounds = 0;
  for (used = s->used; rounds-- && !s->failed;) {
    for (i = 0; i < 3; i++)
      vram__keep_t(s, o[i].t);
    p = vram__pair(s, o[0], o[1], first, 4, 4);
    p = vram__pair(s, p, o[2], rest, 4, 4);
    vram__let(s, p.t);
    for (i = 0; i < 64; i++) /* the sizes of a round are those of the next */
      if ((const uint8_t *)s->cache[i] >= s->mem + used &&
          (const uint8_t *)s->cache[i] < s->mem + s->cap)
        s->cache[i] = NULL;
    s->used = used;
  }
  return y;
}

/* Which positions (batch, output, left, right) the tensors of bilinear do not have. */
enum { VRAM__BI_LEFT = 2 | 8, VRAM__BI_WEIGHT = 1, VRAM__BI_RIGHT = 2 | 4, VRAM__BI_OUT = 4 | 8 };

static void vram__run_bilinear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  vram__t in[3], t, add[2], a[4];
  const uint8_t amp = s->amp;
  vram__fn *f;
  int64_t rows[2];
  uint32_t i, own, k = x[0].d->ndim, count = n->param[1] ? 4 : 3;
  a[0] = x[0], a[1] = x[1];
  for (i = 2; i < count; i++)
    a[i] = s->param[n->param[i - 2]->index];
  own = vram__autocast_list(s, VRAM__AC_widest, a, count);
  s->amp = 0; /* nothing is cast inside */
  for (i = 0; i < 3; i += 2) {
    t = a[i / 2];
    rows[1] = t.d->v[k - 1], rows[0] = rows[1] ? (int64_t)t.d->numel / rows[1] : 0;
    in[i] = vram__t_reshape(s, t, 2, rows);
  }
  in[1] = a[2];
  f = vram__record(s, n->op, in, 3, 1, 3);
  for (i = 0; f && i < 3; i++)
    if (vram__wants(f, (i + 1) % 3) || vram__wants(f, (i + 2) % 3))
      f->aux |= (uint64_t)(f->nsaved + 1) << (4 * i), vram__save(s, f, in[i]);
  t = vram__trilinear(s, in, without, VRAM__BI_OUT);
  vram__made(s, f, 0, &t);
  y[0] = vram__t_reshape(s, t, k, n->out[0].d->v);
  vram__let(s, t);
  vram__let(s, in[0]);
  vram__let(s, in[2]);
  if (n->param[1]) {
    add[0] = y[0], add[1] = a[3];
    f = vram__record(s, VRAM_OP_add, add, 2, 1, 0);
    y[0] = vram__ti2(s, add[0], add[1]);
    vram__made(s, f, 0, &y[0]);
    vram__let(s, add[0]);
  }
  s->amp = amp;
  for (i = 0; i < count; i++)
    if (own >> i & 1)
      vram__let(s, a[i]);
}

static void vram__bw_bilinear(vram__s *s, vram__fn *f, vram__t *to) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  uint32_t i, k, w[3];
  vram__t in[3];
  for (i = 0; i < 3; i++) {
    if (!vram__wants(f, i))
      continue;
    for (k = 0; k < 3; k++) {
      w[k] = k == i ? (uint32_t)VRAM__BI_OUT : without[k];
      in[k] = k == i ? VRAM__SLOTS(f)[0].g : VRAM__SAVED(f)[((f->aux >> (4 * k)) & 15) - 1];
    }
    to[i] = vram__trilinear(s, in, w, without[i]);
  }
}

/* ---- indexing ---- */

/* EmbeddingBackwardKernel.cu: the gradient of a table of dims w from n sorted indices of ie bytes.
   `fuse`: the partial sums of few rows are added up without a tensor of them. */
static vram__t vram__sorted_rows(vram__s *s, uint64_t n, uint32_t ie, const vram_dims *w,
                                 uint8_t dt, int by_freq, int fuse) {
  uint64_t rows = (uint64_t)w->v[0], cols = (uint64_t)w->v[1], seg = n < rows ? n : rows,
           parts = n / 10 + seg, warps = vram__tiles(cols, 32) * 32,
           grid = vram__tiles(seg * warps, warps < 1024 ? warps : 1024);
  uint32_t bits = 1, kind = ie == 8 ? 0 : 1, t[10], count = 0, i;
  vram__t y;
  while (rows >> bits)
    bits++;
  fuse = fuse && grid < UINT64_C(4) * s->sm && parts > 4 * grid;
  t[0] = vram__held(s, n * ie); /* sorted indices, their places, the range that gives those */
  t[1] = vram__held(s, n * ie);
  t[2] = vram__held(s, n * ie);
  vram__workspace(s, vram__cub_sort(s, n, ie, ie, bits));
  vram__held_gone(s, t[2]);
  if (by_freq) { /* how often each index comes: two scans by key */
    count = vram__held(s, n * ie);
    vram__workspace(s, vram__cub_by_key(s, n, ie));
    vram__workspace(s, vram__cub_by_key(s, n, ie));
  }
  y = vram__empty(s, vram__contig(s, w), dt);
  t[2] = vram__held(s, n * ie); /* where the segments of equal indices begin, and how many */
  t[3] = vram__held(s, 8);
  i = vram__held(s, n * ie);
  vram__workspace(s, vram__cub_select(s, n, kind));
  vram__held_gone(s, i);
  t[4] = vram__held(s, seg * ie); /* the segments' parts, and where they begin */
  t[5] = vram__held(s, seg * ie);
  vram__workspace(s, vram__cub_scan(seg, ie));
  t[6] = vram__held(s, 8);
  t[7] = vram__held(s, parts * ie);
  t[8] =
      vram__held(s, fuse ? parts * ie : vram__mul(vram__mul(parts, cols), dt == VRAM_F64 ? 8 : 4));
  if (fuse && vram__size_of(dt) < 4)
    vram__workspace(s, rows * cols * 4);
  for (i = 9; i-- > 2;)
    vram__held_gone(s, t[i]);
  vram__held_gone(s, count);
  vram__held_gone(s, t[1]);
  vram__held_gone(s, t[0]);
  return y;
}

static void vram__run_embedding(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w = n->nin > 1 ? x[1] : s->param[n->param[0]->index], c = vram__none();
  vram__fn *f = vram__record(s, n->op, &w, 1, 1, 1);
  if (f)
    vram__save(s, f, x[0]);
  if (!(x[0].d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, x[0]);
  y[0] = vram__empty(s, n->out[0].d, w.dt);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
}

/* embedding_dense_backward: few indices are added one by one */
static void vram__bw_embedding(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t i = vram__contiguous(s, VRAM__SAVED(f)[0]);
  vram__t g = vram__contiguous(s, VRAM__SLOTS(f)[0].g);
  uint8_t dt;
  const vram_dims *w = vram__in_dims(s, f, 0, &dt);
  int by_freq = VRAM__INT(f->node, scale_grad_by_freq, 0) != 0;
  if (i.d->numel <= VRAM__RULE_EMBEDDING_SORTED && !by_freq)
    to[0] = vram__empty(s, vram__contig(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, vram__size_of(i.dt), w, dt, by_freq, 1);
  vram__let(s, g);
  vram__let(s, i);
}

static int vram__bag_is_max(const vram_node *n) {
  return VRAM__INT(n, mode, 0) == VRAM__WORD("max");
}

/* EmbeddingBag.cpp, promoteIndicesAndOffsets: a copy of the one whose dtype is the narrower */
static vram__t vram__bag_wide(vram__s *s, vram__t i, vram__t offsets) {
  if (i.dt == offsets.dt)
    return vram__none();
  return vram__to(s, i.dt == VRAM_I64 ? offsets : i, VRAM_I64);
}

/* EmbeddingBag.cu. Rows of indices are bags of one length: their offsets are made. */
static void vram__run_embedding_bag(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int given = n->nin > 1 && n->in[1]->d->ndim == 1, max = vram__bag_is_max(n);
  vram__t w = n->nparam ? s->param[n->param[0]->index] : x[n->nin - 1], offsets, size, bag, wide,
          in, t, idx = vram__none();
  int64_t bags = n->out[0].d->v[0], all = (int64_t)x[0].d->numel;
  uint8_t it = x[0].dt;
  vram__fn *f = vram__record(s, n->op, &w, 1, 1, 5);
  offsets = given ? vram__keep_t(s, x[1]) : vram__empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  in = x[0].d->ndim == 2 ? vram__t_reshape(s, x[0], 1, &all) : vram__keep_t(s, x[0]);
  t = vram__contiguous(s, offsets), vram__let(s, offsets), offsets = t; /* embedding_bag */
  t = vram__contiguous(s, in), vram__let(s, in), in = t;
  wide = vram__bag_wide(s, in, offsets);
  if (wide.d)
    it = VRAM_I64;
  size = vram__empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  bag = vram__empty(s, vram__dims_in(s, 1, &all, NULL), it);
  y[0] = vram__empty(s, n->out[0].d, w.dt);
  if (max)
    idx = vram__empty(s, n->out[0].d, it);
  if (f) {
    vram__save(s, f, in);
    vram__save(s, f, offsets);
    vram__save(s, f, bag);
    vram__save(s, f, size);
    if (max)
      vram__save(s, f, idx);
  }
  vram__let(s, idx);
  vram__let(s, bag);
  vram__let(s, size);
  vram__let(s, wide);
  vram__let(s, in);
  vram__let(s, offsets);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_embedding_bag(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t i = VRAM__SAVED(f)[0], wide = vram__bag_wide(s, i, VRAM__SAVED(f)[1]),
          g = vram__contiguous(s, VRAM__SLOTS(f)[0].g);
  uint8_t dt;
  const vram_dims *w = vram__in_dims(s, f, 0, &dt);
  if (vram__bag_is_max(f->node))
    to[0] = vram__empty(s, vram__contig(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, wide.d ? 8 : vram__size_of(i.dt), w, dt, 0, 0);
  vram__let(s, g);
  vram__let(s, wide);
}

/* gather and index_select: backward adds into zeros */
static void vram__run_gather(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int gather = n->op == VRAM_OP_gather; /* gather_backward gets the tensor itself */
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (f && gather)
    vram__save(s, f, x[0]);
  if (f)
    vram__save(s, f, x[1]);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_gather(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

static void vram__run_scatter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2];
  vram__fn *f;
  in[0] = x[0], in[1] = n->nin > 2 ? x[2] : vram__none();
  f = vram__record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  if (n->flags & VRAM__INPLACE)
    y[0] = x[0], y[0].fn = 0, vram__keep_t(s, y[0]);
  else
    y[0] = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

/* g with what was written set to zero, and what of g was written */
static void vram__bw_scatter(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *index = VRAM__SAVED(f)[0].d;
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, g.d), g.dt);
  if (f->nin > 1 && vram__wants(f, 1)) {
    const vram_dims *source = vram__in_dims(s, f, 1, NULL);
    uint32_t i;
    for (i = 0; i < index->ndim; i++)
      if (index->v[i] != source->v[i]) {
        vram__no_step(s, VRAM_ERR_UNSUPPORTED, f->node,
                      "scatter of a source that is larger than the index: PyTorch gives its "
                      "gradient a wrong shape and stops with an error");
        return;
      }
    to[1] = vram__empty(s, vram__contig(s, index), g.dt);
  }
}

/* Index tensors of x[.., i, j, ..]: i64 and broadcast to dims d. The tensors that the op makes of
   them go in vram__index_gone. */
typedef struct vram__index {
  vram__t t[VRAM_MAX_AXES];
  uint32_t n, own; /* bits: t[i] is a tensor of the op's own */
  uint32_t mask;   /* storage of the positions that a mask selects */
  const vram_dims *d;
} vram__index;

static void vram__index_begin(vram__s *s, const vram__t *idx, uint32_t count, vram__index *x,
                              int late) {
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, k = 0;
  x->n = count;
  x->own = x->mask = 0;
  if (idx[0].dt == VRAM_BOOL || idx[0].dt == VRAM_U8) {
    int64_t all = (int64_t)idx[0].d->numel;
    vram__t c = vram__contiguous(s, idx[0]);
    x->n = idx[0].d->ndim;
    x->d = vram__dims_in(s, 1, &all, NULL);
    x->mask = vram__nonzero(s, idx[0].d->numel, x->n);
    vram__let(s, c);
    for (i = 0; i < x->n; i++)
      x->t[i] = vram__none(), x->t[i].d = x->d, x->t[i].dt = VRAM_I64;
    return;
  }
  for (i = 0; i < count; i++)
    vram__bcast(&k, size, idx[i].d);
  x->d = vram__dims_in(s, k, size, NULL);
  for (i = 0; i < count; i++) {
    x->t[i] = idx[i];
    if (!late && idx[i].dt != VRAM_I64)
      x->t[i] = vram__to(s, idx[i], VRAM_I64), x->own |= 1u << i;
    if (x->t[i].d->ndim != k || x->t[i].d->numel != x->d->numel)
      x->t[i].d = vram__expanded(s, x->t[i].d, k, size);
  }
  for (i = 0; late && i < count; i++)
    if (idx[i].dt != VRAM_I64)
      x->t[i] = vram__to(s, x->t[i], VRAM_I64), x->own |= 1u << i;
}

static void vram__index_gone(vram__s *s, vram__index *x, int last_first) {
  uint32_t i, k;
  for (k = 0; k < x->n; k++) {
    i = last_first ? x->n - 1 - k : k;
    if (x->own >> i & 1)
      vram__let(s, x->t[i]);
  }
  vram__held_gone(s, x->mask);
}

/* x[.., idx, ..] with the first index tensor at axis `dim`: the kernel wants all index tensors in
   the same strides (TensorAdvancedIndexing.cpp, AdvancedIndex) */
static vram__t vram__indexed(vram__s *s, vram__t x, const vram__t *idx, uint32_t count,
                             uint32_t dim) {
  vram__index ix;
  int64_t size[VRAM_MAX_AXES], st[2][VRAM_MAX_AXES];
  const vram_dims *op[2], *d;
  uint32_t i, a, m = 0;
  vram__t y;
  int same = 1;
  vram__index_begin(s, idx, count, &ix, 1);
  for (i = 1; i < ix.n; i++)
    for (a = 0; a < ix.d->ndim; a++)
      if (VRAM__STRIDE(ix.t[i].d)[a] != VRAM__STRIDE(ix.t[0].d)[a])
        same = 0;
  for (i = 0; !same && !s->ideal && i < ix.n; i++)
    if (!(ix.t[i].d->flags & VRAM__CONTIG)) {
      ix.t[i] = vram__empty(s, ix.d, VRAM_I64);
      ix.own |= 1u << i;
    }
  for (a = 0; a < x.d->ndim; a++) {
    if (a == dim)
      for (i = 0; i < ix.d->ndim; i++)
        size[m] = ix.d->v[i], st[0][m] = 0, st[1][m++] = VRAM__STRIDE(ix.t[0].d)[i];
    if (a < dim || a >= dim + ix.n)
      size[m] = x.d->v[a], st[0][m] = VRAM__STRIDE(x.d)[a], st[1][m++] = 0;
  }
  if ((x.d->flags & VRAM__CONTIG) && (ix.t[0].d->flags & VRAM__CONTIG))
    d = vram__dims_in(s, m, size, NULL);
  else {
    op[0] = vram__dims_in(s, m, size, st[0]);
    op[1] = vram__dims_in(s, m, size, st[1]);
    d = vram__ti(s, op, 2);
  }
  y = vram__empty(s, d, x.dt);
  vram__index_gone(s, &ix, 1);
  return y;
}

/* Indexing.cu, index_put_with_sort_kernel: adds `value` into a tensor of the sizes of self
   (contiguous) at these places: linear indices, sorted. check: that they are in range. */
static void vram__index_add(vram__s *s, const vram_dims *self, vram__t value, const vram__t *idx,
                            uint32_t count, uint32_t dim, int check) {
  vram__index ix;
  vram__t lin = vram__none(), w, t[3], c = vram__none();
  uint32_t i, bits = 1;
  uint64_t slice = 1, key, n;
  if (s->ideal)
    return;
  vram__index_begin(s, idx, count, &ix, 0);
  n = ix.d->numel;
  for (i = dim + ix.n; i < self->ndim; i++)
    slice *= (uint64_t)self->v[i];
  for (i = 0; i < ix.n; i++) {
    if (check) { /* the largest and the smallest index come to the host */
      const vram__t one = vram__empty(s, s->scalar, VRAM_I64);
      vram__t two;
      w = ix.t[i];
      vram__reduce(s, w, (1u << w.d->ndim) - 1, VRAM_I64, 8, 4);
      two = vram__empty(s, s->scalar, VRAM_I64);
      t[0] = vram__contiguous(s, w);
      vram__let(s, t[0]);
      vram__reduce(s, w, (1u << w.d->ndim) - 1, VRAM_I64, 8, 4);
      vram__workspace(s, 1);
      vram__workspace(s, 1);
      vram__let(s, one);
      vram__let(s, two);
    }
    w = vram__ti1(s, ix.t[i]);
    t[0] = vram__ti1(s, w);
    vram__let(s, w);
    if (i)
      vram__let(s, t[0]);
    else
      lin = t[0];
  }
  vram__index_gone(s, &ix, 0);
  if (!(value.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, value);
  if (n && slice) {
    if (!(lin.d->flags & VRAM__CONTIG)) {
      w = vram__contiguous(s, lin);
      vram__let(s, lin);
      lin = w;
    }
    key = self->numel ? (self->numel - 1) / slice : 0;
    while (key >> bits)
      bits++;
    for (i = 0; i < 3; i++)
      t[i] = vram__empty(s, ix.d, VRAM_I64);
    vram__workspace(s, vram__cub_sort(s, n, 8, 8, bits));
    for (i = 3; i-- > 0;)
      vram__let(s, t[i]);
  }
  vram__let(s, c);
  vram__let(s, lin);
}

static uint32_t vram__index_dim(const vram_node *n) {
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a);
  return a;
}

static void vram__run_index(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, n->nin - 1);
  uint32_t i;
  for (i = 1; f && i < n->nin; i++)
    vram__save(s, f, x[i]);
  y[0] = vram__indexed(s, x[0], x + 1, n->nin - 1, vram__index_dim(n));
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_index(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
  vram__index_add(s, to[0].d, g, VRAM__SAVED(f), f->nsaved, vram__index_dim(f->node), 0);
}

static void vram__run_index_put(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2], v, c;
  vram__fn *f;
  uint32_t i, count = n->nin - 2, own = 0;
  in[0] = x[0], in[1] = x[n->nin - 1];
  if (!(n->flags & VRAM__INPLACE))
    own = vram__autocast_list(s, VRAM__AC_widest, in, 2);
  f = vram__record(s, n->op, in, 2, 1, count);
  for (i = 0; f && i < count; i++)
    vram__save(s, f, x[1 + i]);
  if (n->flags & VRAM__INPLACE)
    y[0] = x[0], y[0].fn = 0, vram__keep_t(s, y[0]);
  else
    y[0] = vram__empty(s, vram__dense(s, in[0].d), in[0].dt);
  if (VRAM__INT(n, accumulate, 0)) {
    int64_t size[VRAM_MAX_AXES] = {0}, stride[VRAM_MAX_AXES];
    uint32_t k = 0, lead;
    v = in[1];
    vram__index_sizes((vram_graph *)0, n, count, &k, size);
    for (lead = k - v.d->ndim, i = 0; i < k; i++)
      stride[i] =
          i < lead || (v.d->v[i - lead] == 1 && size[i] != 1) ? 0 : VRAM__STRIDE(v.d)[i - lead];
    v.d = vram__dims_in(s, k, size, stride);
    c = vram__contiguous(s, y[0]);
    vram__index_add(s, x[0].d, v, x + 1, count, 0, 1);
    vram__let(s, c);
  } else { /* the indices as the kernel wants them; the values broadcast in it */
    vram__index ix;
    vram__index_begin(s, x + 1, count, &ix, 1);
    vram__index_gone(s, &ix, 0);
  }
  vram__made(s, f, 0, &y[0]);
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__let(s, in[i]);
}

/* What was overwritten gets no gradient; the values get g at their places. */
static void vram__bw_index_put(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, zero;
  const vram_node *n = f->node;
  vram__index ix;
  if (vram__wants(f, 0) && VRAM__INT(n, accumulate, 0))
    g.fn = 0, to[0] = vram__keep_t(s, g);
  else if (vram__wants(f, 0)) {
    zero = vram__empty(s, n->in[n->nin - 1]->d, g.dt);
    to[0] = vram__empty(s, vram__dense(s, g.d), g.dt);
    vram__index_begin(s, VRAM__SAVED(f), f->nsaved, &ix, 1);
    vram__index_gone(s, &ix, 0);
    vram__let(s, zero);
  }
  if (vram__wants(f, 1))
    to[1] = vram__indexed(s, g, VRAM__SAVED(f), f->nsaved, 0);
}

/* masked_select is nonzero and index; what it selects is bounded by all elements. */
/* d: of as many elements as x and the mask have when they are broadcast */
static vram__t vram__t_masked_select(vram__s *s, vram__t x, vram__t mask, const vram_dims *d) {
  vram__t copy = vram__none(), y;
  uint32_t nz, k = x.d->ndim > mask.d->ndim ? x.d->ndim : mask.d->ndim;
  if (mask.d->numel != d->numel || !(mask.d->flags & VRAM__CONTIG))
    copy = vram__empty(s, d, VRAM_BOOL);
  nz = vram__nonzero(s, d->numel, k ? k : 1);
  y = vram__empty(s, d, x.dt);
  vram__held_gone(s, nz);
  vram__let(s, copy);
  return y;
}

static void vram__run_masked_select(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (f)
    vram__save(s, f, x[0]), vram__save(s, f, x[1]);
  y[0] = vram__t_masked_select(s, x[0], x[1], n->out[0].d);
  vram__made(s, f, 0, &y[0]);
}

/* masked_scatter into zeros */
static void vram__bw_masked_select(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], m = VRAM__SAVED(f)[1], sum, copy, c;
  int64_t size[VRAM_MAX_AXES];
  uint32_t k = 0;
  const vram_dims *d;
  copy = c = vram__none();
  vram__bcast(&k, size, x.d);
  vram__bcast(&k, size, m.d);
  d = vram__dims_in(s, k, size, NULL);
  to[0] = vram__empty(s, d, g.dt);
  sum = vram__empty(s, d, VRAM_I64);
  if (m.d->numel != d->numel || !(m.d->flags & VRAM__CONTIG))
    copy = vram__empty(s, d, VRAM_BOOL);
  vram__workspace(s, vram__cub_scan(d->numel, 8));
  if (!(g.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, g);
  vram__let(s, c);
  vram__let(s, copy);
  vram__let(s, sum);
}

/* Sort.cu: what sorting x (dims xd, e bytes a value) along an axis into results of dims d needs.
   Short rows are sorted in place, long ones by cub. */
static void vram__sort_rows(vram__s *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                            uint32_t e) {
  uint32_t i, own[3] = {0, 0, 0}, t[3];
  uint64_t z, all = d->numel, r;
  if (!all || !d->ndim) /* Sorting.cpp: a number is sorted */
    return;
  z = (uint64_t)d->v[a], r = all / z;
  if (z <= VRAM__RULE_SMALL_SORT) {
    vram__workspace(s, 8 * z); /* the numbers 0, 1, .. */
    return;
  }
  if (!(xd->flags & VRAM__DENSE) || VRAM__STRIDE(xd)[a] != 1) {
    /* a copy with the axis innermost, and results like it */
    int64_t stride[VRAM_MAX_AXES], w = (int64_t)z;
    uint8_t order[VRAM_MAX_AXES];
    uint32_t j;
    for (i = 0; i < d->ndim; i++) {
      for (j = i; j > 0 && VRAM__STRIDE(d)[order[j - 1]] > VRAM__STRIDE(d)[i]; j--)
        order[j] = order[j - 1];
      order[j] = (uint8_t)i;
    }
    stride[a] = 1;
    for (i = 0; i < d->ndim; i++)
      if (order[i] != a)
        stride[order[i]] = w, w *= d->v[order[i]];
    own[0] = vram__held(s, all * e);
    for (i = 0; i < d->ndim; i++)
      if (d->v[i] != 1 && stride[i] != VRAM__STRIDE(d)[i])
        break;
    if (i < d->ndim)
      own[1] = vram__held(s, all * e), own[2] = vram__held(s, all * 8);
  }
  if (r == 1 || z >= VRAM__RULE_LARGE_ROW) {
    t[0] = vram__held(s, 8 * z);
    for (; r-- && !s->failed;)
      vram__workspace(s, vram__cub_sort(s, z, e, 8, 8 * e));
    vram__held_gone(s, t[0]);
  } else if (r < VRAM__RULE_SEGMENTS) { /* all rows at once, then back into their segments */
    t[0] = vram__held(s, 8 * all);
    t[1] = vram__held(s, 8 * all);
    t[2] = vram__held(s, e * all);
    vram__workspace(s, vram__cub_sort(s, all, e, 8, 8 * e));
    vram__held_gone(s, t[2]);
    vram__workspace(s, vram__cub_sort(s, all, 0, 8, 8));
    vram__held_gone(s, t[1]);
    vram__held_gone(s, t[0]);
  } else {
    t[0] = vram__held(s, 8 * all);
    vram__workspace(s, 255 + vram__up256(e * all) + vram__up256(8 * all));
    vram__held_gone(s, t[0]);
  }
  for (i = 3; i-- > 0;)
    vram__held_gone(s, own[i]);
}

static void vram__run_sort(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  const vram_dims *d = vram__dense(s, x[0].d);
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__empty(s, d, x[0].dt);
  y[1] = vram__empty(s, d, VRAM_I64);
  vram__sort_rows(s, x[0].d, d, a, vram__size_of(x[0].dt));
  if (f)
    vram__save(s, f, y[1]);
  vram__made(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__let(s, y[1]);
}

/* TensorTopK.cu, should_use_multi_block: are r rows of n values split over thread blocks? */
static int vram__topk_split(uint64_t r, uint64_t n) {
  return n >= (r <= 20     ? 20000u
               : r <= 40   ? 10000u
               : r <= 80   ? 8000u
               : r < 200   ? 5000u
               : r < 800   ? 3000u
               : r <= 4000 ? 800u
                           : 400u);
}

/* What topk of x along axis a needs for a moment. */
static void vram__topk_scratch(vram__s *s, const vram_dims *x, uint32_t a) {
  uint64_t z = x->ndim ? (uint64_t)x->v[a] : 1, r = z ? x->numel / z : 0, b, each;
  uint32_t i, t[7];
  if (!r || !vram__topk_split(r, z))
    return;
  each = vram__tiles(r * z, VRAM__RULE_TOPK_BLOCKS * 256 * s->sm);
  each = each < 4 ? 4 : each > 64 ? 64 : each;
  b = r * vram__tiles(z, 256 * each);
  t[0] = vram__held(s, 4 * r); /* ranks to find, digits, counters of the blocks, ... */
  t[1] = vram__held(s, 8 * r);
  t[2] = vram__held(s, 8 * r);
  t[3] = vram__held(s, 512 * b);
  t[4] = vram__held(s, 1024 * r);
  t[5] = vram__held(s, 4 * b);
  t[6] = vram__held(s, 4 * b);
  vram__workspace(s, vram__cub_by_key(s, b, 4));
  vram__workspace(s, vram__cub_by_key(s, b, 4));
  for (i = 7; i-- > 0;)
    vram__held_gone(s, t[i]);
}

static void vram__run_topk(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  vram__t c;
  uint32_t a = 0, t[2];
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  y[1] = vram__empty(s, n->out[0].d, VRAM_I64);
  c = vram__contiguous(s, x[0]);
  vram__topk_scratch(s, x[0].d, a);
  vram__let(s, c);
  if (VRAM__INT(n, sorted, 1) && x[0].d->ndim && y[0].d->v[a] > VRAM__RULE_SMALL_SORT) {
    t[0] = vram__held(s, 8 * y[0].d->numel);
    t[1] = vram__held(s, vram__bytes_of(y[0].d, y[0].dt));
    vram__sort_rows(s, y[0].d, y[0].d, a, vram__size_of(y[0].dt));
    vram__workspace(s, 8 * y[0].d->numel);
    vram__held_gone(s, t[1]);
    vram__held_gone(s, t[0]);
  }
  if (f)
    vram__save(s, f, y[1]);
  vram__made(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__let(s, y[1]);
}

/* topk, sort: the gradient is written into zeros at the places of the values */
static void vram__bw_topk(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* argmax and argmin: a thread keeps value and index, 16 bytes */
static void vram__run_argmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  int all = !vram__list(n, VRAM__KEY_dim, NULL);
  vram__t c;
  y[0] = vram__reduced(s, x[0], mask, VRAM__INT(n, keepdim, 0) != 0, VRAM_I64);
  c = all ? vram__contiguous(s, x[0]) : vram__keep_t(s, x[0]);
  vram__reduce(s, c, mask, VRAM_I64, 16, 4);
  vram__let(s, c);
}

static void vram__run_one_hot(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)x;
  y[0] = vram__empty(s, n->out[0].d, VRAM_I64);
}

/* A running sum along an axis: cub's for one row alone. */
static vram__t vram__scan(vram__s *s, vram__t x, uint32_t axis, uint8_t dt) {
  vram__t y = vram__empty(s, vram__contig(s, x.d), dt), a = vram__to(s, x, dt),
          c = vram__contiguous(s, a);
  if (x.d->ndim && x.d->numel && x.d->numel == (uint64_t)x.d->v[axis])
    vram__workspace(s, vram__cub_scan(x.d->numel, vram__size_of(dt)));
  vram__let(s, c);
  vram__let(s, a);
  return y;
}

static void vram__run_cumsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  uint32_t a = 0;
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (!dt)
    dt = vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  if (f)
    f->aux = a;
  y[0] = vram__scan(s, x[0], a, dt);
  vram__made(s, f, 0, &y[0]);
}

/* cumsum_backward: flip, cumsum, flip */
static void vram__bw_cumsum(vram__s *s, vram__fn *f, vram__t *to) {
  uint8_t dt;
  const vram_dims *d = vram__in_dims(s, f, 0, &dt);
  vram__t g = vram__to(s, VRAM__SLOTS(f)[0].g, dt), a, b;
  if (d->numel <= 1 || d->v[f->aux] == 1) {
    to[0] = g;
    return;
  }
  a = vram__ti1(s, g);
  b = vram__scan(s, a, (uint32_t)f->aux, dt);
  to[0] = vram__ti1(s, b);
  vram__let(s, b);
  vram__let(s, a);
  vram__let(s, g);
}

/* The range of values is given: by default 0 to bins - 1. min = max: it is found first. */
static void vram__run_histc(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t *lo = vram__list(n, VRAM__KEY_min, NULL), *hi = vram__list(n, VRAM__KEY_max, NULL);
  vram__t a, b;
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  if (!lo || !hi || *lo != *hi)
    return;
  a = vram__empty(s, s->scalar, x[0].dt);
  b = vram__empty(s, s->scalar, x[0].dt);
  vram__let(s, b);
  vram__let(s, a);
}

static void vram__run_diff(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2], all;
  vram__fn *f;
  uint32_t a = 0;
  int64_t len;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  if (n->nin > 1) { /* the prefix in front of x */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i;
    in[0] = x[1], in[1] = x[0];
    f = vram__record(s, VRAM_OP_cat, in, 2, 1, 0);
    if (f)
      f->aux = a;
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = x[0].d->v[i] + (i == a ? x[1].d->v[i] : 0);
    all = vram__empty(s, vram__dims_in(s, i, size, NULL), vram__result2(x[0], x[1]));
    vram__made(s, f, 0, &all);
  } else
    all = vram__keep_t(s, x[0]);
  len = n->out[0].d->v[a];
  in[1] = vram__t_narrow(s, all, a, len);
  in[0] = vram__t_narrow(s, all, a, len);
  f = vram__record(s, VRAM_OP_sub, in, 2, 1, 0);
  y[0] = vram__ti2(s, in[0], in[1]);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, in[0]);
  vram__let(s, in[1]);
  vram__let(s, all);
}

/* One grouped product into y: a CUTLASS kernel with its list of problems (GroupMM.cu: three lists
   of pointers, three of strides, the sizes), or one product a group where there is none. The
   offsets are data: whether a group has rows, and its product a workspace, only the upper bound
   can say. */
static void vram__group_products(vram__s *s, vram__t a, int64_t groups) {
  uint32_t list, work;
  if (a.dt == VRAM_BF16 && s->cc >= 90 && s->cc < 120) {
    uint64_t g = (uint64_t)groups;
    list = vram__held(s, 3 * ((8 * g + 15) & ~UINT64_C(15)) + 3 * (8 * g) + 3 * (4 * g));
    work = vram__held(s, (uint64_t)s->sm *
                             (s->cc == 90 ? VRAM__RULE_GROUPED_SM90 : VRAM__RULE_GROUPED_SM100));
    vram__held_gone(s, work);
    vram__held_gone(s, list);
    return;
  }
  if (groups)
    vram__may_need(s, s->ws / 4);
}

static vram__t vram__t_grouped(vram__s *s, vram__t a, vram__t b, vram__t offsets,
                               const vram_dims *d) {
  vram__t in[2], y;
  vram__fn *f;
  int64_t groups = a.d->ndim == 3 ? a.d->v[0] : b.d->ndim == 3 ? b.d->v[0] : offsets.d->v[0];
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM_OP_grouped_mm, in, 2, 1, 3);
  vram__save_factors(s, f, 0, a, 1, b);
  if (f) {
    vram__save(s, f, offsets);
    f->aux |= (uint64_t)groups << 2;
  }
  y = vram__empty(s, d, a.dt);
  vram__group_products(s, a, groups);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_grouped_mm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__t_grouped(s, x[0], x[1], x[2], n->out[0].d);
}

/* the gradient of an operand that is stored by columns is stored so, too */
static void vram__bw_grouped_mm(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 2; i-- > 0;) {
    const vram_dims *d;
    const int64_t *st;
    if (!vram__wants(f, i))
      continue;
    d = vram__in_dims(s, f, i, NULL);
    st = VRAM__STRIDE(d) + d->ndim - 2;
    if (st[0] == 1 && st[1] == d->v[d->ndim - 2])
      to[i] = vram__empty(s, vram__dense(s, d), g.dt);
    else
      to[i] = vram__empty(s, vram__contig(s, d), g.dt);
    vram__group_products(s, g, (int64_t)(f->aux >> 2));
  }
}

/* ---- recurrent ---- */

static const vram_dims *vram__rnn_state_dims(vram__s *s) {
  int64_t bytes = VRAM__RNN_DROPOUT_STATE;
  return vram__dims_in(s, 1, &bytes, NULL);
}

/* Bytes of the workspace and, with reserve, of what one step keeps for backward: guesses, see the
   rules */
static uint64_t vram__rnn_bytes(const vram__rnn *r, uint8_t dt, int reserve) {
  uint64_t n = vram__mul(vram__mul((uint64_t)r->T, (uint64_t)r->B),
                         vram__mul((uint64_t)(r->H * r->D), vram__size_of(dt)));
  if (!reserve)
    return vram__mul(n, (uint64_t)r->gates);
  return vram__mul(vram__mul(n, (uint64_t)r->L), r->lstm         ? VRAM__RNN_RESERVE_LSTM
                                                 : r->gates == 3 ? VRAM__RNN_RESERVE_GRU
                                                                 : VRAM__RNN_RESERVE_RNN);
}

/* dims of y: [T,B,D*P], by steps in memory also where the batch is the first axis */
static const vram_dims *vram__rnn_out(vram__s *s, const vram__rnn *r) {
  int64_t size[3];
  const vram_dims *d;
  size[0] = r->T, size[1] = r->B, size[2] = r->D * r->P;
  d = vram__dims_in(s, 3, size, NULL);
  return r->first ? vram__swapped(s, d, 0, 1) : d;
}

/* RNN.cpp, _cudnn_rnn. Under autocast everything runs in f16, from weights that are copied into a
   new flat buffer; bf16 weights are no flat buffer to begin with. */
static void vram__run_rnn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__rnn r;
  vram__t in[3], own[2], out[3], flat = vram__none(), *w, c = vram__none(), t, reserve = c;
  const vram_dims *state[2];
  vram__fn *f = NULL;
  int64_t size[3], *dims = size;
  uint32_t i, k, wants = 0, states;
  uint8_t dt = x[0].dt, cat = s->cat;
  int flat2 = x[0].d->ndim == 2, drop = s->train && VRAM__INT(n, dropout, 0) != 0;
  vram__rnn_of(n, x[0].d, &r);
  states = r.lstm ? 2 : 1;
  own[0] = own[1] = vram__none();
  size[0] = r.L * r.D, size[1] = r.B, size[2] = r.P;
  state[0] = vram__dims_in(s, 3, dims, NULL);
  size[2] = r.H;
  state[1] = vram__dims_in(s, 3, dims, NULL);
  in[0] = flat2 ? vram__t_unsqueeze(s, x[0], 1) : vram__keep_t(s, x[0]);
  in[1] = in[2] = vram__none();
  for (i = 0; i < states; i++) /* zeros where the caller gives no state */
    if (n->nin == 1)
      own[i] = vram__empty(s, state[i], dt), in[1 + i] = vram__keep_t(s, own[i]);
    else
      in[1 + i] = flat2 ? vram__t_unsqueeze(s, x[1 + i], 1) : vram__keep_t(s, x[1 + i]);
  /* RNN.cpp, get_dropout_state: made by the first call, from a random seed */
  if (drop && (!s->rnn_dropout.d || s->rnn_reset)) {
    vram__t old = s->rnn_dropout;
    vram__workspace(s, 8);
    s->cat = VRAM_CATEGORY_WORKSPACE;
    s->rnn_dropout = vram__empty(s, vram__rnn_state_dims(s), VRAM_U8);
    s->rnn_reset = 0;
    vram__let(s, old);
    s->cat = cat;
  }
  w = (vram__t *)vram__bump(s->mem, &s->used, s->cap, n->nparam * (uint64_t)sizeof *w);
  if (!w) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  size[0] = (int64_t)vram__rnn_flat(&r);
  for (i = 0; i < n->nparam; i++)
    w[i] = s->param[n->param[i]->index];
  if (s->amp) {
    dt = VRAM_F16;
    s->cat = VRAM_CATEGORY_AUTOCAST;
    flat = vram__empty(s, vram__dims_in(s, 1, size, NULL), dt);
    s->cat = cat;
    for (i = 0; i < n->nparam; i++) { /* copied one by one */
      vram__fn *g = vram__record(s, VRAM__K_cast, &w[i], 1, 1, 0);
      w[i] = vram__alias_only(s, flat, w[i].d);
      w[i].dt = dt;
      vram__made(s, g, 0, &w[i]);
    }
    for (k = 3; k-- > 0;) { /* cell state, state, input */
      i = k == 2 ? 2 : k == 1 ? 1 : 0;
      if (!in[i].d)
        continue;
      t = vram__t_cast(s, in[i], dt);
      vram__let(s, in[i]);
      in[i] = t;
    }
  }
  for (i = 0; i < 3; i++)
    wants |= in[i].d && in[i].req;
  for (i = 0; i < n->nparam; i++)
    wants |= w[i].req;
  if (s->grad && wants)
    f = vram__record_raw(s, n->op, 3 + n->nparam, 3, 7);
  if (f) {
    for (i = 0; i < 3; i++)
      vram__edge_to(s, f, i, in[i].d && in[i].req ? in[i].fn : 0, in[i].d ? in[i].out : 0);
    for (i = 0; i < n->nparam; i++)
      vram__edge_to(s, f, 3 + i, w[i].req ? w[i].fn : 0, w[i].out);
  }
  t = in[0];
  if (r.first)
    t.d = vram__swapped(s, t.d, 0, 1);
  if (!(t.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, t);
  out[0] = vram__empty(s, vram__rnn_out(s, &r), dt);
  out[1] = vram__empty(s, state[0], dt);
  out[2] = r.lstm ? vram__empty(s, state[1], dt) : vram__none();
  if (!s->amp && w[0].dt == VRAM_BF16)
    flat = vram__empty(s, vram__dims_in(s, 1, size, NULL), dt);
  k = vram__held(s, vram__rnn_bytes(&r, dt, 0));
  if (s->train) {
    size[0] = (int64_t)vram__rnn_bytes(&r, VRAM_U8, 1);
    reserve.d = vram__dims_in(s, 1, size, NULL);
    reserve.dt = dt;
    reserve.st = vram__new(s, vram__rnn_bytes(&r, dt, 1));
  }
  vram__held_gone(s, k);
  vram__let(s, c);
  if (f) {
    f->aux = (uint64_t)(in[2].d != NULL) | (uint64_t)(flat.d != NULL) << 1;
    if (in[2].d)
      vram__save(s, f, in[2]);
    vram__save(s, f, in[1]);
    vram__save(s, f, in[0]);
    vram__save(s, f, out[0]);
    vram__save(s, f, reserve);
    if (drop)
      vram__save(s, f, s->rnn_dropout);
    if (flat.d)
      vram__save(s, f, flat);
  }
  for (i = 0; i < 3; i++)
    if (out[i].d)
      vram__made(s, f, i, &out[i]);
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  vram__let(s, reserve);
  if (s->amp)
    for (i = 0; i < n->nparam; i++)
      vram__let(s, w[i]);
  vram__let(s, flat);
  for (i = 0; i < 2; i++)
    vram__let(s, own[i]);
  for (i = 3; i-- > 0;) {
    if (flat2 && out[i].d) {
      t = vram__t_squeeze1(s, out[i], 1);
      vram__let(s, out[i]);
      out[i] = t;
    }
    if (i < n->nout)
      y[i] = out[i];
    else
      vram__let(s, out[i]);
  }
}

static void vram__bw_rnn(vram__s *s, vram__fn *f, vram__t *to) {
  vram__rnn r;
  const vram_node *n = f->node;
  const vram__t *saved = VRAM__SAVED(f) + (f->aux & 1);
  vram__t cx = f->aux & 1 ? VRAM__SAVED(f)[0] : vram__none(), hx = saved[0], x = saved[1], g[3],
          zero[3], dense[3], c = vram__none(), d[3], flat;
  uint32_t i, wants = 0, work;
  uint8_t dt = x.dt;
  uint64_t ws;
  int64_t size;
  vram__rnn_of(n, x.d, &r);
  ws = vram__rnn_bytes(&r, dt, 0);
  for (i = 0; i < 3; i++) { /* zeros stand in for outputs that nothing came back for */
    g[i] = VRAM__SLOTS(f)[i].g;
    zero[i] = dense[i] = vram__none();
    if (!g[i].d && (i < 2 || cx.d))
      g[i] = zero[i] = vram__empty(s,
                                   i == 0   ? vram__contig(s, vram__rnn_out(s, &r))
                                   : i == 1 ? hx.d
                                            : cx.d,
                                   dt);
  }
  if (r.first)
    x.d = vram__swapped(s, x.d, 0, 1), g[0].d = vram__swapped(s, g[0].d, 0, 1);
  if (!(x.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, x);
  if (!(g[0].d->flags & VRAM__CONTIG))
    dense[0] = vram__contiguous(s, g[0]);
  d[0] = vram__empty(s, vram__contig(s, x.d), dt);
  if (r.first)
    d[0].d = vram__swapped(s, d[0].d, 0, 1);
  for (i = 1; i < 3; i++)
    if (g[i].d && !(g[i].d->flags & VRAM__CONTIG))
      dense[i] = vram__contiguous(s, g[i]);
  d[1] = vram__empty(s, hx.d, dt);
  d[2] = cx.d ? vram__empty(s, cx.d, dt) : vram__none();
  vram__workspace(s, ws);
  for (i = 3; i-- > 0;)
    vram__let(s, dense[i]);
  vram__let(s, c);
  for (i = 3; i < f->nin; i++)
    wants |= (uint32_t)vram__wants(f, i);
  if (wants) { /* gradients of the parameters are views of one buffer like the weights */
    c = vram__none();
    if (!(x.d->flags & VRAM__CONTIG))
      c = vram__contiguous(s, x);
    size = (int64_t)vram__rnn_flat(&r);
    flat = vram__empty(s, vram__dims_in(s, 1, &size, NULL), dt);
    work = vram__held(s, ws);
    for (i = 3; i < f->nin; i++)
      if (vram__wants(f, i)) {
        const vram_dims *w = n->param[i - 3]->d;
        to[i] = r.bias ? vram__alias(s, flat, w) : vram__empty(s, w, dt);
      }
    vram__held_gone(s, work);
    vram__let(s, flat);
    vram__let(s, c);
  }
  for (i = 3; i-- > 0;)
    vram__let(s, zero[i]);
  for (i = 0; i < 3; i++)
    if (d[i].d && vram__wants(f, i))
      to[i] = d[i];
    else
      vram__let(s, d[i]);
}

/* Weights of a cell: w_ih w_hh b_ih b_hh */
static void vram__cell_weights(const vram__s *s, const vram_node *n, vram__t *w) {
  uint32_t i;
  for (i = 0; i < 4; i++)
    w[i] = i < n->nparam ? s->param[n->param[i]->index] : vram__none();
}

/* x w^T (+ b), of matrices */
static vram__t vram__t_linear2(vram__s *s, vram__t x, vram__t w, vram__t b) {
  vram__t wt = vram__t_swap(s, w, 0, 1),
          y = b.d ? vram__t_addmm(s, b, x, wt, 0) : vram__t_product(s, VRAM__K_mm, x, wt);
  vram__let(s, wt);
  return y;
}

/* RNN.cpp, RNN.cu: lstm_cell and gru_cell add two products in one kernel of their own, rnn_cell
   adds and applies its function */
static void vram__run_rnn_cell(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w[4], in[3], hx, zero = vram__none(), a, b, ws, f_in[5], t;
  vram__fn *f;
  int64_t H = VRAM__INT(n, hidden_size, 0), size[2];
  int lstm = n->op == VRAM_OP_lstm_cell, gru = n->op == VRAM_OP_gru_cell, one = x[0].d->ndim == 1;
  uint32_t i;
  vram__cell_weights(s, n, w);
  in[0] = one ? vram__t_unsqueeze(s, x[0], 0) : vram__keep_t(s, x[0]);
  size[0] = in[0].d->v[0], size[1] = H;
  in[1] = in[2] = vram__none();
  if (n->nin == 1) {
    zero = vram__empty(s, vram__dims_in(s, 2, size, NULL), x[0].dt);
    in[1] = vram__keep_t(s, zero);
    if (lstm)
      in[2] = vram__keep_t(s, zero);
  } else
    for (i = 1; i < n->nin; i++)
      in[i] = one ? vram__t_unsqueeze(s, x[i], 0) : vram__keep_t(s, x[i]);
  for (i = 4; i-- > 0;)
    if (w[i].d)
      w[i] = s->amp ? vram__autocast(s, w[i], s->amp) : vram__keep_t(s, w[i]);
  for (i = 1; s->amp && i <= 3; i++) { /* state, cell state, input */
    uint32_t k = i % 3;
    if (!in[k].d)
      continue;
    t = vram__autocast(s, in[k], s->amp);
    vram__let(s, in[k]);
    in[k] = t;
  }
  hx = in[1];
  if (lstm || gru) {
    a = vram__t_linear2(s, in[0], w[0], vram__none());
    b = vram__t_linear2(s, hx, w[1], vram__none());
    f_in[0] = a, f_in[1] = b, f_in[2] = lstm ? in[2] : hx;
    f_in[3] = w[2].d ? w[2] : a, f_in[4] = w[2].d ? w[3] : a;
    f = vram__record(s, lstm ? VRAM__K_lstm_gates : VRAM__K_gru_gates, f_in, w[2].d ? 5 : 3,
                     lstm ? 2 : 1, 7);
    size[1] = H * (lstm ? 4 : 5);
    ws = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    size[1] = H;
    y[0] = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    if (lstm)
      y[1] = vram__empty(s, y[0].d, a.dt);
    if (f) {
      if (lstm)
        vram__save(s, f, in[2]);
      if (w[2].d)
        vram__save(s, f, w[3]);
      vram__save(s, f, b);
      if (gru)
        vram__save(s, f, hx);
      if (w[2].d)
        vram__save(s, f, w[2]);
      vram__save(s, f, a);
      if (lstm)
        vram__save(s, f, y[1]);
      vram__save(s, f, ws);
    }
    vram__let(s, ws);
    vram__made(s, f, 0, &y[0]);
    if (lstm)
      vram__made(s, f, 1, &y[1]);
    vram__let(s, b);
    vram__let(s, a);
  } else {
    uint32_t kind =
        VRAM__INT(n, nonlinearity, 0) == VRAM__WORD("relu") ? VRAM_OP_relu : VRAM_OP_tanh;
    a = vram__t_linear2(s, hx, w[1], w[3]);
    b = vram__t_linear2(s, in[0], w[0], w[2]);
    vram__t_add_(s, &a, b);
    f = vram__record(s, kind, &a, 1, 1, 1);
    y[0] = vram__ti1(s, a);
    if (f)
      vram__save_letters(s, f, vram__letters(vram__plan(s, kind, 0), f), &a, 1, y[0]);
    vram__made(s, f, 0, &y[0]);
    vram__let(s, b);
    vram__let(s, a);
  }
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  for (i = 0; i < 4; i++)
    vram__let(s, w[i]);
  vram__let(s, zero);
  for (i = 0; i < (lstm ? 2u : 1u); i++) {
    if (one) {
      t = vram__t_squeeze1(s, y[i], 0);
      vram__let(s, y[i]);
      y[i] = t;
    }
    if (i >= n->nout)
      vram__let(s, y[i]);
  }
}

/* _thnn_fused_lstm_cell_backward_impl: one gradient for both products, one for both biases */
static void vram__bw_lstm_gates(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t cx = VRAM__SAVED(f)[0], g, c, b = vram__none();
  uint32_t i;
  int64_t size[2];
  size[0] = cx.d->v[0], size[1] = 4 * cx.d->v[1];
  g = vram__empty(s, vram__dims_in(s, 2, size, NULL), cx.dt);
  c = vram__empty(s, vram__contig(s, cx.d), cx.dt);
  if (f->nin > 3)
    b = vram__sum(s, g, 1, 0, cx.dt);
  if (vram__wants(f, 2))
    to[2] = c;
  else
    vram__let(s, c);
  for (i = 0; i < f->nin; i++)
    if (i != 2 && vram__wants(f, i))
      to[i] = vram__keep_t(s, i < 2 ? g : b);
  vram__let(s, b);
  vram__let(s, g);
}

static void vram__bw_gru_gates(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  vram__t t[5];
  uint32_t i;
  uint8_t dt = VRAM__SLOTS(f)[0].dt;
  int64_t size[2];
  size[0] = d->v[0], size[1] = 3 * d->v[1];
  for (i = 0; i < 2; i++)
    t[i] = vram__empty(s, vram__dims_in(s, 2, size, NULL), dt);
  t[2] = vram__empty(s, d, dt);
  for (i = 3; i < f->nin; i++)
    t[i] = vram__sum(s, t[i - 3], 1, 0, dt);
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i))
      to[i] = t[i];
    else
      vram__let(s, t[i]);
}

/* ---- composite, anything else ---- */

/* zeros.index_add_(0, index, source): the gradient of the source is picked from g */
static void vram__bw_index_add(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
}

/* x[index] along axis 0 */
static vram__t vram__t_rows(vram__s *s, vram__t x, vram__t index) {
  vram__fn *f = vram__record(s, VRAM_OP_index, &x, 1, 1, 1);
  vram__t y;
  if (f)
    vram__save(s, f, index);
  y = vram__indexed(s, x, &index, 1, 0);
  vram__made(s, f, 0, &y);
  return y;
}

/* act(gate) * up of a [rows, 2i] product of both, or act(up); takes x. act: silu with a gate, else
   gelu */
static vram__t vram__t_gated(vram__s *s, vram__t x, int gated) {
  vram__t part[2], a, y;
  vram__fn *f;
  int64_t size[2];
  uint32_t i;
  if (!gated) {
    y = vram__t_pointwise(s, VRAM_OP_gelu, &x, 1);
    vram__let(s, x);
    return y;
  }
  f = vram__record(s, VRAM_OP_chunk, &x, 1, 2, 0);
  if (f)
    f->aux = 1;
  size[0] = x.d->v[0], size[1] = x.d->v[1] / 2;
  for (i = 0; i < 2; i++) {
    part[i] = vram__alias(s, x, vram__dims_in(s, 2, size, VRAM__STRIDE(x.d)));
    vram__made(s, f, i, &part[i]);
  }
  a = vram__t_pointwise(s, VRAM_OP_silu, &part[0], 1);
  y = vram__t_mul(s, a, part[1]);
  vram__let(s, a);
  vram__let(s, part[0]);
  vram__let(s, part[1]);
  vram__let(s, x);
  return y;
}

/* The shared expert: a feed-forward of its own for every token */
static vram__t vram__moe_shared(vram__s *s, vram__t x, const vram__t *w) {
  vram__t a, b = vram__t_linear2(s, x, w[1], vram__none()), t;
  if (w[0].d) {
    t = vram__t_linear2(s, x, w[0], vram__none());
    a = vram__t_pointwise(s, VRAM_OP_silu, &t, 1);
    vram__let(s, t);
    t = vram__t_mul(s, a, b);
    vram__let(s, a);
  } else
    t = vram__t_pointwise(s, VRAM_OP_gelu, &b, 1);
  vram__let(s, b);
  b = vram__t_linear2(s, t, w[2], vram__none());
  vram__let(s, t);
  return b;
}

/* Routed feed-forward: every token goes through top_k experts. Tokens are grouped by expert and go
   through grouped products, so that nothing but the groups' sizes depends on the data: what stands
   here holds for any routing where the groups' sum counts, and expects tokens that are spread
   evenly where a group's own size would count (one product a group on older devices). */
static void vram__run_moe(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = x[0].d;
  int64_t h = d->v[d->ndim - 1], k = VRAM__INT(n, top_k, 1), size[3], i;
  int gated = VRAM__INT(n, gated, 1) != 0;
  uint8_t dt;
  uint32_t j;
  vram__t w[6], xf, p, q, t, top, idx, perm, back, rows, weight, offsets, out, turned;
  vram__fn *f;
  for (j = 6; j-- > 0;) {
    w[j] = n->param[j] ? s->param[n->param[j]->index] : vram__none();
    if (w[j].d)
      w[j] = s->amp ? vram__autocast(s, w[j], s->amp) : vram__keep_t(s, w[j]);
  }
  t = s->amp ? vram__autocast(s, x[0], s->amp) : vram__keep_t(s, x[0]);
  dt = t.dt;
  size[0] = h ? (int64_t)(d->numel / (uint64_t)h) : 0, size[1] = h;
  xf = vram__t_reshape(s, t, 2, size);
  vram__let(s, t);
  /* the router: probabilities in f32, the k largest, made to add up to 1 */
  p = vram__t_linear2(s, xf, w[0], vram__none());
  q = vram__t_softmax(s, VRAM_OP_softmax, p, VRAM_F32);
  vram__let(s, p);
  size[1] = k;
  f = vram__record(s, VRAM_OP_topk, &q, 1, 1, 1);
  top = vram__empty(s, vram__dims_in(s, 2, size, NULL), q.dt);
  idx = vram__empty(s, top.d, VRAM_I64);
  vram__topk_scratch(s, q.d, 1);
  if (f)
    vram__save(s, f, idx);
  vram__made(s, f, 0, &top);
  vram__let(s, q);
  f = vram__record(s, VRAM_OP_sum, &top, 1, 1, 0);
  if (f)
    f->aux = 2;
  {
    vram__t in[2];
    in[0] = top;
    in[1] = vram__sum(s, top, 2, 1, top.dt);
    vram__made(s, f, 0, &in[1]);
    p = vram__t_pointwise(s, VRAM_OP_div, in, 2);
    vram__let(s, in[1]);
    vram__let(s, top);
  }
  top = vram__t_cast(s, p, dt);
  vram__let(s, p);
  /* tokens in the order of their experts: argsort, which sorts the values, too */
  i = size[0] * k;
  size[0] = i;
  q = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I64);
  perm = vram__empty(s, q.d, VRAM_I64);
  vram__sort_rows(s, q.d, q.d, 0, 8);
  vram__let(s, q);
  vram__let(s, idx);
  back = vram__empty(s, perm.d, VRAM_I64); /* the token of every row */
  rows = vram__t_rows(s, xf, back);
  p = vram__t_reshape(s, top, 1, size);
  vram__let(s, top);
  weight = vram__t_rows(s, p, perm);
  vram__let(s, p);
  vram__let(s, perm);
  size[0] = VRAM__INT(n, num_experts, 1);
  offsets = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I32);
  size[0] = i, size[1] = w[1].d->v[1];
  turned = vram__t_swap(s, w[1], 1, 2);
  p = vram__t_grouped(s, rows, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, rows);
  p = vram__t_gated(s, p, gated);
  size[1] = h;
  turned = vram__t_swap(s, w[2], 1, 2);
  q = vram__t_grouped(s, p, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, p);
  vram__let(s, offsets);
  t = vram__t_unsqueeze(s, weight, 1);
  vram__let(s, weight);
  p = vram__t_mul(s, q, t);
  vram__let(s, t);
  vram__let(s, q);
  f = vram__record(s, VRAM__K_index_add, &p, 1, 1, 2);
  if (f)
    vram__save(s, f, back), vram__save(s, f, p); /* the source for its sizes */
  out = vram__empty(s, xf.d->flags & VRAM__CONTIG ? xf.d : vram__contig(s, xf.d), dt);
  vram__made(s, f, 0, &out);
  vram__let(s, p);
  vram__let(s, back);
  if (w[4].d) {
    vram__t in[2];
    in[0] = out, in[1] = vram__moe_shared(s, xf, w + 3);
    t = vram__t_pointwise(s, VRAM_OP_add, in, 2);
    vram__let(s, in[1]);
    vram__let(s, out);
    out = t;
  }
  vram__let(s, xf);
  for (j = 0; j < 6; j++)
    vram__let(s, w[j]);
  y[0] = vram__view(s, out, vram__dims_in(s, d->ndim, d->v, NULL), VRAM__K_view, 0);
  vram__let(s, out);
}

/* An op that the table does not know: what its node says. Backward needs the workspace once more
   and makes gradients of the inputs and of the parameters. */
static void vram__run_custom(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[17], keep = vram__none();
  vram__fn *f;
  uint32_t i;
  int64_t saved = VRAM__INT(n, saved, 0);
  uint8_t dt = vram__run_dtype(s, n->out[0].dtype);
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->param[0])
    in[i++] = s->param[n->param[0]->index];
  if (n->nin && !vram__list(n, VRAM__KEY_dtype, NULL))
    dt = x[0].dt;
  f = vram__kind_rank(dt) >= 2 ? vram__record(s, n->op, in, i, n->nout, 1) : NULL;
  for (i = 0; i < n->nout; i++)
    y[i] = vram__empty(s, n->out[i].d, dt);
  if (saved) {
    keep = vram__empty(s, vram__dims_in(s, 1, &saved, NULL), VRAM_U8);
    if (f)
      vram__save(s, f, keep);
  }
  vram__workspace(s, (uint64_t)VRAM__INT(n, workspace, 0));
  if (s->amp || s->low) { /* the bytes are those of a run in fp32: half of them in 16 bits */
    s->custom = vram__plus(s->custom, (uint64_t)saved / 2);
    if (s->custom_most < (uint64_t)VRAM__INT(n, workspace, 0) / 2)
      s->custom_most = (uint64_t)VRAM__INT(n, workspace, 0) / 2;
  }
  vram__let(s, keep);
  for (i = 0; i < n->nout; i++)
    vram__made(s, f, i, &y[i]);
}

static void vram__bw_custom(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i)) {
      uint8_t dt;
      const vram_dims *d = vram__in_dims(s, f, i, &dt);
      to[i] = vram__empty(s, vram__dense(s, d), dt);
    }
  vram__workspace(s, (uint64_t)VRAM__INT(f->node, workspace, 0));
}

/* ops written out to lines run as those; ops made of other autograd nodes have no backward of their
 * own */
static void vram__run_lines(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)s, (void)n, (void)x, (void)y;
}

static void vram__bw_scale(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

static void vram__bw_checkpoint(vram__s *s, vram__fn *f, vram__t *to);

static void vram__bw_none(vram__s *s, vram__fn *f, vram__t *to) { (void)s, (void)f, (void)to; }
#define vram__bw_inputs vram__bw_none
#define vram__bw_lines vram__bw_none
#define vram__bw_moe vram__bw_none
#define vram__bw_rnn_cell vram__bw_none
#define vram__bw_compare vram__bw_none
#define vram__bw_index_select vram__bw_gather
#define vram__bw_argmax vram__bw_none
#define vram__bw_one_hot vram__bw_none
#define vram__bw_histc vram__bw_none
#define vram__bw_diff vram__bw_none
#define vram__bw_sort vram__bw_topk
#define vram__bw_product vram__bw_none
#define vram__bw_detach vram__bw_none
#define vram__bw_contiguous vram__bw_none
#define vram__bw_to vram__bw_none
#define vram__bw_create vram__bw_none
#define vram__bw_fill vram__bw_none
#define vram__bw_parameter vram__bw_none
#define vram__bw_cross_entropy vram__bw_none
#define vram__bw_ctc_loss vram__bw_none
#define vram__bw_cosine vram__bw_none
#define vram__bw_triplet vram__bw_none
#define vram__bw_gumbel_softmax vram__bw_none
#define vram__bw_mha vram__bw_none
#define vram__bw_lrn vram__bw_none
#define vram__bw_einsum vram__bw_none
#define vram__bw_sdpa vram__bw_none
#define vram__bw_batch_norm vram__bw_none
#define vram__bw_instance_norm vram__bw_none
#define vram__bw_mean vram__bw_reduce

typedef void (*vram__run_fn)(vram__s *, const vram_node *, vram__t *, vram__t *);
typedef void (*vram__bw_fn)(vram__s *, vram__fn *, vram__t *);

static const vram__op_row vram__op_table[VRAM__OP_end + 1] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys)                                          \
  {#id, recipe, keys, vram__shape_##shape, lo, hi, VRAM__AC_##ac},
    VRAM_OPS(VRAM__X)
#undef VRAM__X
        {"drop", "", "", NULL, 0, 0, VRAM__AC_none},
    {"end", "", "", NULL, 0, 0, VRAM__AC_none}};

static const vram__op_row *vram__op_at(uint32_t op) { return &vram__op_table[op]; }

static const char *vram__op_name(uint32_t op) { return vram__op_table[op].name; }

static const vram__run_fn vram__run_table[VRAM_OP_COUNT] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys) vram__run_##run,
    VRAM_OPS(VRAM__X)
#undef VRAM__X
};

static void vram__run_op(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__run_table[n->op](s, n, x, y);
}
static int vram__is_lines(uint32_t op) { return vram__run_table[op] == vram__run_lines; }

/* by the kind of a record: ops, then primitives */
static const vram__bw_fn vram__bw_table[VRAM__K_COUNT] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys) vram__bw_##run,
    VRAM_OPS(VRAM__X)
#undef VRAM__X
#define VRAM__X(name) vram__bw_##name,
        VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
#define VRAM__X(name, recipe) vram__bw_pointwise,
            VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
};

static void vram__recompute(vram__s *s, vram__frame *c);

/* A checkpointed call is recomputed when the first of its tensors is wanted. */
static void vram__unpack(vram__s *s, vram__fn *f) {
  if (f->frame && f->nsaved && !vram__frame_at(s, f->frame)->done)
    vram__recompute(s, vram__frame_at(s, f->frame));
}

/* Recomputed tensors go when the record has run, not when it is released. */
/* SavedVariable::unpack: has what f saved been overwritten since? */
static int vram__is_stale(vram__s *s, vram__fn *f) {
  const uint32_t at = vram__fn_index(s, f);
  uint32_t i;
  if (f->frame || f->kind == VRAM__K_checkpoint) /* look themselves */
    return 0;
  for (i = 0; i < f->nsaved; i++)
    if (VRAM__SAVED(f)[i].st && (s->top - VRAM__SAVED(f)[i].st)->writes > at) {
      vram__no_step(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "what backward needs was overwritten in place: PyTorch stops with an error "
                    "(modified by an inplace operation)");
      return 1;
    }
  return 0;
}

static void vram__bw_any(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  if (s->stale && vram__is_stale(s, f))
    return;
  vram__unpack(s, f);
  if (s->failed)
    return;
  vram__bw_table[f->kind](s, f, to);
  for (i = 0; f->frame && i < f->nsaved; i++)
    if (VRAM__SAVED(f)[i].st) {
      vram__drop_storage(s, VRAM__SAVED(f)[i].st);
      VRAM__SAVED(f)[i].st = 0;
    }
}

