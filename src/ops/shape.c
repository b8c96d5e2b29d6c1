/* >>graph (Implementation) --------------------------------------------------------------------- */

#define VRAM__INPLACE 1u /* node: the output is the first input's storage */
#define VRAM__LOSS 4u    /* node: a loss */
#define VRAM__USUAL 8u   /* node: no key asks for one of the op's rare ways */
#define VRAM__GRAD 1u    /* value: an input that wants a gradient */
#define VRAM__OUTPUT 2u  /* value: named by `output` */
#define VRAM__ISPARAM 4u /* value: a parameter or buffer itself */

enum { VRAM__PARAM, VRAM__FROZEN, VRAM__BUFFER };
enum { VRAM__AC_none, VRAM__AC_low, VRAM__AC_fp32, VRAM__AC_opt32, VRAM__AC_widest };

typedef struct vram__round { /* one round of a loop */
  const struct vram__round *up;
  uint32_t round;
} vram__round;

static const struct {
  const char *name;
  char kind;
} vram__key_table[VRAM__KEY_COUNT] = {{"", 0},
#define VRAM__X(name, kind) {#name, #kind[0]},
                                      VRAM_KEYS(VRAM__X)
#undef VRAM__X
};

static void *vram__take(vram_graph *g, uint64_t n) {
  void *p = vram__bump(g->mem, &g->used, g->cap, n);
  if (!p)
    vram__fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return p;
}

/* The values of a node's key; NULL: it has none. */
static const int64_t *vram__list(const vram_node *n, uint32_t key, uint32_t *count) {
  const int64_t *a = n->attr;
  while (a && *a) {
    uint32_t c = (uint32_t)(*a >> 8) & 0xffffu;
    if ((uint32_t)(*a & 0xff) == key) {
      if (count)
        *count = c;
      return a + 1;
    }
    a += 1 + c;
  }
  if (count)
    *count = 0;
  return NULL;
}

static int64_t vram__int(const vram_node *n, uint32_t key, int64_t def) {
  const int64_t *v = vram__list(n, key, NULL);
  return v ? *v : def;
}

#define VRAM__INT(n, key, def) vram__int(n, VRAM__KEY_##key, def)

/* Decimal numbers are kept in units of 10^-9. */
#define VRAM__ONE INT64_C(1000000000)

/* Words are kept as up to eight letters of a number (the values of `mode=`, `reduction=`, ...). */
static int64_t vram__word(const char *s, uint32_t n) {
  uint64_t w = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    w = w * 131 + (uint8_t)s[i];
  return (int64_t)(w >> 1);
}
#define VRAM__WORD(z) vram__word(z, (uint32_t)sizeof(z) - 1)
#define VRAM__SAME INT64_MIN /* padding=same; no number of a text is that */

static const vram_dims *vram__dims_of(vram_graph *g, uint32_t n, const int64_t *size) {
  uint64_t z = 16; /* bytes of the widest element */
  uint32_t i;
  const vram_dims *d;
  for (i = 0; i < n; i++) {
    if (size[i] < 0) {
      vram__fail(g, VRAM_ERR_SHAPE, "a size is negative");
      return NULL;
    }
    z = vram__mul(z, (uint64_t)(size[i] ? size[i] : 1));
  }
  if (z == VRAM_OVERFLOW) {
    vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
    return NULL;
  }
  d = vram__dims_get(g->mem, &g->used, g->cap, g->cache, n, size, NULL);
  if (!d)
    vram__fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return d;
}

static int vram__out_d(vram_node *n, uint32_t i, const vram_dims *d, uint8_t dtype) {
  if (!d)
    return 0;
  if (i < n->nout)
    n->out[i].d = d, n->out[i].dtype = dtype;
  return 1;
}

static int vram__out(vram_graph *g, vram_node *n, uint32_t i, uint32_t ndim, const int64_t *size,
                     uint8_t dtype) {
  return vram__out_d(n, i, vram__dims_of(g, ndim, size), dtype);
}

static int vram__bad(vram_graph *g, const vram_node *n, const char *what) {
  uint32_t i;
  vram__fail(g, VRAM_ERR_SHAPE, what);
  for (i = 0; i < n->nin && i < 4; i++) {
    vram__more(g, i ? ", " : " (found ");
    vram__more_dims(g, n->in[i]->d);
  }
  if (n->nin)
    vram__more(g, ")");
  return 0;
}

/* The recurrent node whose weights came last is complete. */
static void vram__owned_flat(vram__owned *o) {
  if (o->flat)
    vram__total_add(&o->all[0], o->flat);
  o->flat = 0;
}

/* p takes so many bytes. */
static void vram__owned_add(vram__owned *o, const vram_param *p, uint64_t bytes) {
  const int buffer = p->kind == VRAM__BUFFER;
  uint64_t *sum = buffer ? &o->buffers_bytes : &o->params_bytes;
  const uint32_t op = p->node->op;
  if (*sum > (uint64_t)VRAM_MAX_BYTES)
    return;
  *sum += bytes;
  if (o->flat_node != p->node)
    vram__owned_flat(o);
  if (op >= VRAM_OP_lstm && op <= VRAM_OP_rnn)
    o->flat += bytes, o->flat_node = p->node;
  else if (op != VRAM_OP_parameter && op != VRAM_OP_buffer)
    vram__total_add(&o->all[buffer], bytes);
  if (p->kind == VRAM__PARAM)
    vram__total_add(&o->trainable, bytes);
}

static uint32_t vram__kind_rank(uint8_t dt);

/* 1: a row of such a tensor ends where a block of its dtype ends. */
static int vram__whole_blocks(vram_graph *g, const vram_dims *d, uint8_t dtype) {
  const int64_t row = d->ndim ? d->v[d->ndim - 1] : 1, each = vram__dtype_rows[dtype].row_multiple;
  if (row % each == 0)
    return 1;
  vram__fail(g, VRAM_ERR_BLOCK, "a row that does not divide into blocks of ");
  vram__more(g, vram__dtype_rows[dtype].name);
  vram__more(g, " (found ");
  vram__more_i(g, row);
  vram__more(g, ", expected a multiple of ");
  vram__more_i(g, each);
  vram__more(g, ")");
  return 0;
}

/* A parameter of its own for slot i of the node, or the one that `weights=` lends. */
static int vram__own(vram_graph *g, vram_node *n, uint32_t i, const char *role, uint32_t ndim,
                     const int64_t *size, uint8_t dtype, uint8_t kind) {
  vram_param *p;
  const int64_t *w = vram__list(n, VRAM__KEY_weights, NULL);
  const vram_dims *d = vram__dims_of(g, ndim, size);
  if (!d)
    return 0;
  if (w && kind != VRAM__BUFFER) {
    const vram_node *o = (const vram_node *)(uintptr_t)*w;
    uint32_t k;
    for (k = 0; k < o->nparam; k++)
      if (o->param[k] && o->param[k]->kind != VRAM__BUFFER &&
          vram__same(role, vram__len(role), o->param[k]->role)) {
        if (o->param[k]->d != d) {
          uint32_t a;
          int same = o->param[k]->d->ndim == d->ndim;
          for (a = 0; same && a < d->ndim; a++)
            same = o->param[k]->d->v[a] == d->v[a];
          if (!same) {
            vram__fail(g, VRAM_ERR_SHAPE, "weights= names a node whose ");
            vram__more(g, role);
            vram__more(g, " has another shape (found ");
            vram__more_dims(g, o->param[k]->d);
            vram__more(g, ", expected ");
            vram__more_dims(g, d);
            vram__more(g, ")");
            return 0;
          }
        }
        n->param[i] = o->param[k];
        return 1;
      }
    if (!i) {
      vram__fail(g, VRAM_ERR_NAME, "weights= names a node without a weight");
      return 0;
    }
  }
  p = (vram_param *)vram__take(g, sizeof *p);
  if (!p)
    return 0;
  vram__zero(p, sizeof *p);
  p->d = d;
  p->node = n;
  p->role = role;
  p->index = g->nparam++;
  p->dtype = dtype;
  p->kind = kind;
  /* block dtypes are for matrices: as in GGUF, a bias or a norm keeps its own */
  if (kind != VRAM__BUFFER && vram__list(n, VRAM__KEY_dtype, NULL)) {
    uint8_t other = (uint8_t)VRAM__INT(n, dtype, dtype);
    /* of a custom op it is the output's: numbers that are not floating point are no weights */
    if (n->op == VRAM_OP_custom ? vram__kind_rank(other) == 2
                                : ndim > 1 || vram__dtype_rows[other].row_multiple == 1)
      p->dtype = other;
  }
  /* only floating point and complex tensors can want a gradient */
  if (kind == VRAM__PARAM && (VRAM__INT(n, frozen, 0) || vram__kind_rank(p->dtype) < 2))
    p->kind = VRAM__FROZEN;
  if (!vram__whole_blocks(g, d, p->dtype))
    return 0;
  if (g->param_last)
    g->param_last->next = p;
  else
    g->param_first = p;
  g->param_last = p;
  vram__owned_add(&g->owned, p, vram__bytes_of(p->d, p->dtype));
  n->param[i] = p;
  return 1;
}

/* An axis key: the value for each of n axes; one value stands for all. */
static int vram__axes(vram_graph *g, const vram_node *n, uint32_t key, uint32_t naxes, int64_t def,
                      int64_t least, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__list(n, key, &c);
  for (i = 0; i < naxes; i++)
    to[i] = v ? (c == 1 ? v[0] : i < c ? v[i] : def) : def;
  if (v && c != 1 && c != naxes) {
    vram__fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
    vram__more(g, " has ");
    vram__more_i(g, c);
    vram__more(g, " values (expected 1 or ");
    vram__more_i(g, naxes);
    vram__more(g, ")");
    return 0;
  }
  for (i = 0; i < naxes; i++)
    if (to[i] < least || to[i] > INT64_C(0x7fffffffffff)) {
      vram__fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
      vram__more(g, " is out of range (found ");
      vram__more_i(g, to[i]);
      vram__more(g, ", expected at least ");
      vram__more_i(g, least);
      vram__more(g, ")");
      return 0;
    }
  return 1;
}

/* An axis number, negative ones counted from the end; -1 and an error if there is none. */
static int vram__axis(vram_graph *g, int64_t a, uint32_t ndim, uint32_t *to) {
  int64_t n = ndim ? ndim : 1;
  if (a < -n || a >= n) {
    vram__fail(g, VRAM_ERR_VALUE, "axis out of range (found ");
    vram__more_i(g, a);
    vram__more(g, ", expected ");
    vram__more_i(g, -n);
    vram__more(g, " to ");
    vram__more_i(g, n - 1);
    vram__more(g, ")");
    return 0;
  }
  *to = (uint32_t)(a < 0 ? a + n : a);
  return 1;
}

/* ---- shape rules: one function each, named in the op table ---- */

/* at::result_type: a tensor without axes counts only where its kind is the higher one. */
typedef struct vram__promote {
  uint8_t dim, zero;
  uint8_t has_dim, has_zero;
} vram__promote;

static void vram__promote_add(vram__promote *p, uint8_t dt, uint32_t ndim);
static uint8_t vram__result_dtype(uint32_t op, uint32_t nin, const vram__promote *p);

static int vram__shape_same(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t dt = n->in[0]->dtype;
  uint32_t i, c = 0, a;
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; v && i < c; i++)
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
  if (n->op == VRAM_OP_type_as)
    dt = n->in[1]->dtype;
  else if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  if (vram__kind_rank(dt) < 2 && !(n->flags & VRAM__INPLACE)) {
    vram__promote p;
    vram__zero(&p, sizeof p);
    vram__promote_add(&p, dt, n->in[0]->d->ndim);
    dt = vram__result_dtype(n->op, 1, &p);
  }
  vram__out_d(n, 0, x, dt);
  return 1;
}

/* Broadcasts b onto the shape of n axes in size; 0: does not fit. */
static int vram__bcast(uint32_t *ndim, int64_t *size, const vram_dims *b) {
  uint32_t n = *ndim, i;
  if (b->ndim > n) {
    uint32_t k = b->ndim - n;
    for (i = n; i-- > 0;)
      size[i + k] = size[i];
    for (i = 0; i < k; i++)
      size[i] = 1;
    *ndim = n = b->ndim;
  }
  for (i = 0; i < b->ndim; i++) {
    int64_t *s = size + (n - b->ndim + i), t = b->v[i];
    if (t == 1 || *s == t)
      continue;
    if (*s != 1)
      return 0;
    *s = t;
  }
  return 1;
}

/* The same for n sizes. */
static int vram__bcast_lead(uint32_t *ndim, int64_t *size, uint32_t n, const int64_t *from) {
  vram_dims d;
  uint32_t i;
  vram__zero(&d, sizeof d);
  d.ndim = (uint8_t)n;
  for (i = 0; i < n; i++)
    d.v[i] = from[i];
  return vram__bcast(ndim, size, &d);
}

static int vram__bcast_all(vram_graph *g, vram_node *n, uint32_t first, uint32_t *ndim,
                           int64_t *size) {
  uint32_t i;
  *ndim = 0;
  for (i = first; i < n->nin; i++)
    if (!vram__bcast(ndim, size, n->in[i]->d))
      return vram__bad(g, n, "shapes do not broadcast");
  return 1;
}

static int vram__is_float(uint8_t dt) { return vram__dtype_rows[dt].kind == VRAM_KIND_FLOAT; }

static int vram__is_complex(uint8_t dt) { return vram__dtype_rows[dt].kind == VRAM_KIND_COMPLEX; }

/* The dtype of a complex number's parts, and back. */
static uint8_t vram__real_of(uint8_t dt) {
  return dt == VRAM_C128   ? (uint8_t)VRAM_F64
         : dt == VRAM_C64  ? (uint8_t)VRAM_F32
         : dt == VRAM_C32  ? (uint8_t)VRAM_F16
         : dt == VRAM_CB32 ? (uint8_t)VRAM_BF16
                           : dt;
}

static uint8_t vram__complex_of(uint8_t dt) {
  return (uint8_t)(dt == VRAM_F64    ? VRAM_C128
                   : dt == VRAM_F16  ? VRAM_C32
                   : dt == VRAM_BF16 ? VRAM_CB32
                                     : VRAM_C64);
}

static uint32_t vram__kind_rank(uint8_t dt) {
  return dt == VRAM_BOOL ? 0 : vram__is_complex(dt) ? 3 : vram__is_float(dt) ? 2 : 1;
}

/* c10/core/ScalarType.cpp, promoteTypes: bool < integers < floats < complex. */
static uint8_t vram__promote2(uint8_t a, uint8_t b) {
  const uint8_t ra = vram__real_of(a), rb = vram__real_of(b);
  const uint32_t ka = vram__kind_rank(ra), kb = vram__kind_rank(rb);
  const uint32_t za = vram__dtype_rows[ra].block_bytes, zb = vram__dtype_rows[rb].block_bytes;
  uint8_t dt = za >= zb ? ra : rb;
  if (a == b)
    return a;
  if (ka != kb)
    return ka > kb ? a : b;
  if (za == zb && ra != rb) /* f16 with bf16 gives f32, u8 with i8 i16 */
    dt = (uint8_t)(ka == 2 ? VRAM_F32 : VRAM_I16);
  return vram__is_complex(a) || vram__is_complex(b) ? vram__complex_of(dt) : dt;
}

static void vram__promote_add(vram__promote *p, uint8_t dt, uint32_t ndim) {
  if (ndim) {
    p->dim = p->has_dim ? vram__promote2(p->dim, dt) : dt;
    p->has_dim = 1;
  } else {
    p->zero = p->has_zero ? vram__promote2(p->zero, dt) : dt;
    p->has_zero = 1;
  }
}

static uint8_t vram__promote_get(const vram__promote *p) {
  if (!p->has_dim)
    return p->zero;
  if (!p->has_zero || vram__kind_rank(p->zero) <= vram__kind_rank(p->dim))
    return p->dim;
  if (vram__kind_rank(p->dim) == 2) /* complex now, as wide as it was */
    return vram__complex_of(p->dim);
  return p->zero;
}

/* The dtype of a pointwise op's result; nin 1: with a number, an integer where the tensor is. */
static uint8_t vram__result_dtype(uint32_t op, uint32_t nin, const vram__promote *p) {
  uint8_t dt = vram__promote_get(p);
  switch (op) {
  case VRAM_OP_eq:
  case VRAM_OP_ne:
  case VRAM_OP_lt:
  case VRAM_OP_le:
  case VRAM_OP_gt:
  case VRAM_OP_ge:
  case VRAM_OP_logical_and:
  case VRAM_OP_logical_or:
  case VRAM_OP_logical_not:
    return VRAM_BOOL;
  case VRAM_OP_div:
  case VRAM_OP_exp:
  case VRAM_OP_log:
  case VRAM_OP_sqrt:
  case VRAM_OP_rsqrt:
  case VRAM_OP_sin:
  case VRAM_OP_cos:
  case VRAM_OP_erf:
  case VRAM_OP_sigmoid:
  case VRAM_OP_tanh:
    return vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
  case VRAM_OP_pow:
    return nin == 1 && vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_floor_divide:
  case VRAM_OP_square:
    return nin == 1 && dt == VRAM_BOOL ? (uint8_t)VRAM_I64 : dt;
  default:
    return dt;
  }
}

/* Inputs of an op that promotes: all, but for a condition or mask. */
static uint8_t vram__promote_all(const vram_node *n, uint32_t first, uint32_t count) {
  vram__promote p;
  uint32_t i;
  vram__zero(&p, sizeof p);
  for (i = first; i < first + count; i++)
    vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
  return vram__result_dtype(n->op, n->nin, &p);
}

static int vram__shape_bcast(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim, i, first = 0, count = n->nin;
  const vram_dims *x = n->in[0]->d;
  int number = VRAM__INT(n, scalar, 0) != 0,
      rounded = vram__list(n, VRAM__KEY_rounding_mode, NULL) != NULL;
  uint8_t dt = n->in[0]->dtype;
  switch (n->op) {
  case VRAM_OP_where:
    if (dt != VRAM_BOOL && dt != VRAM_U8)
      return vram__bad(g, n, "the condition is not bool");
    first = 1, count--;
    break;
  case VRAM_OP_masked_fill:
    if (n->in[1]->dtype != VRAM_BOOL)
      return vram__bad(g, n, "the mask is not bool");
    if (n->nin > 2 && n->in[2]->d->ndim)
      return vram__bad(g, n, "the value is not a number");
    count = 1;
    break;
  case VRAM_OP_lerp:
    for (i = 1; i < n->nin; i++)
      if (n->in[i]->dtype != dt)
        return vram__bad(g, n, "lerp of different dtypes");
    break;
  case VRAM_OP_logical_not:
    break;
  case VRAM_OP_sub:
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->dtype == VRAM_BOOL)
        return vram__bad(g, n, "sub of a bool tensor");
    /* fall through */
  default:
    if (n->nin == 1 && !number)
      return vram__bad(g, n, "one tensor where two are needed (the other one a number: scalar=1)");
  }
  dt = vram__promote_all(n, first, count);
  if (rounded && n->op == VRAM_OP_div) {
    vram__promote p;
    vram__zero(&p, sizeof p);
    for (i = 0; i < n->nin; i++)
      vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
    dt = vram__promote_get(&p);
  }
  if ((n->flags & VRAM__INPLACE) && vram__kind_rank(dt) > vram__kind_rank(n->in[0]->dtype))
    return vram__bad(g, n, "in place, but the result has a higher dtype");
  if (n->nin == 1 || (n->nin == 2 && x == n->in[1]->d))
    return vram__out_d(n, 0, x, n->flags & VRAM__INPLACE ? n->in[0]->dtype : dt);
  if (!vram__bcast_all(g, n, 0, &ndim, size))
    return 0;
  if (n->flags & VRAM__INPLACE) {
    if (ndim != x->ndim)
      return vram__bad(g, n, "in place, but the result has another shape");
    for (i = 0; i < ndim; i++)
      if (size[i] != x->v[i])
        return vram__bad(g, n, "in place, but the result has another shape");
    dt = n->in[0]->dtype;
  }
  return vram__out(g, n, 0, ndim, size, dt);
}

VRAM__ONCE_BEGIN

static const char *vram__op_name(uint32_t op);

/* The axes that an op is named after: 1 for conv1d, 3 for max_pool3d. */
static uint32_t vram__spatial(uint32_t op) {
  const char *z = vram__op_name(op);
  return (uint32_t)(z[vram__len(z) - 2] - '0');
}

static int vram__is_transposed(uint32_t op) {
  return op >= VRAM_OP_conv_transpose1d; /* of a convolution: they come last */
}

/* A key with a value for each of k axes, small enough that sizes made of it cannot overflow. */
static int vram__window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k, int64_t def,
                        int64_t least, int64_t *to) {
  uint32_t i;
  if (!vram__axes(g, n, key, k, def, least, to))
    return 0;
  for (i = 0; i < k; i++)
    if (to[i] > INT32_MAX)
      return vram__bad(g, n, "a window beyond 31 bits");
  return 1;
}

static int vram__shape_conv(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, same = 0, lead;
  int transposed = vram__is_transposed(n->op);
  int64_t c = VRAM__INT(n, out_channels, 0), groups = VRAM__INT(n, groups, 1), in;
  int64_t size[VRAM_MAX_AXES], w[5], kernel[3], stride[3], pad[3] = {0, 0, 0}, dil[3],
                                                           opad[3] = {0, 0, 0};
  int64_t word = VRAM__INT(n, padding_mode, VRAM__WORD("zeros"));
  if (x->ndim != k + 2 && x->ndim != k + 1)
    return vram__bad(g, n, "a convolution of another number of axes");
  lead = x->ndim - k; /* 1: no batch axis */
  in = x->v[lead - 1];
  if (groups < 1 || c < 1 || c % groups || in % groups)
    return vram__bad(g, n, "channels that groups does not divide");
  if (word != VRAM__WORD("zeros") && word != VRAM__WORD("reflect") &&
      word != VRAM__WORD("replicate") && word != VRAM__WORD("circular"))
    return vram__bad(g, n, "padding_mode must be zeros, reflect, replicate or circular");
  if (!vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel) ||
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride) ||
      !vram__window(g, n, VRAM__KEY_dilation, k, 1, 1, dil))
    return 0;
  if (VRAM__INT(n, padding, 0) == VRAM__SAME)
    same = 1;
  else if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad))
    return 0;
  if (transposed && !vram__window(g, n, VRAM__KEY_output_padding, k, 0, 0, opad))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  size[lead - 1] = c;
  for (i = 0; i < k; i++) {
    int64_t reach = dil[i] * (kernel[i] - 1), z = x->v[lead + i], p = same ? reach : 2 * pad[i];
    if (!z && in && (lead == 1 || x->v[0])) /* Convolution.cpp, _select_conv_backend */
      return vram__bad(g, n, "an empty input may only lack samples or channels");
    if (same && stride[i] != 1)
      return vram__bad(g, n, "padding=same needs stride=1");
    if (word == VRAM__WORD("reflect") && (same ? reach - reach / 2 : pad[i]) >= z)
      return vram__bad(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD("circular") && (same ? reach - reach / 2 : pad[i]) > z)
      return vram__bad(g, n, "circular padding larger than the input");
    if (transposed) {
      uint64_t most = vram__mul((uint64_t)(z ? z - 1 : 0), (uint64_t)stride[i]);
      if (opad[i] >= stride[i] && opad[i] >= dil[i])
        return vram__bad(g, n, "output_padding must be smaller than stride or dilation");
      if (most > (uint64_t)INT64_MAX / 4)
        return vram__bad(g, n, "a result beyond 63 bits");
      z = (int64_t)most - p + reach + opad[i] + 1;
    } else
      z = z + p - reach < 1 ? 0 : (z + p - reach - 1) / stride[i] + 1;
    if (z < 1)
      return vram__bad(g, n, "a kernel larger than its padded input");
    size[lead + i] = z;
  }
  if (!transposed && !same && groups == 1 && word == VRAM__WORD("zeros") && n->nin == 1 && k > 1)
    n->flags |= VRAM__USUAL;
  w[0] = transposed ? in : c;
  w[1] = (transposed ? c : in) / groups;
  for (i = 0; i < k; i++)
    w[2 + i] = kernel[i];
  if (n->nin == 1) {
    if (!vram__own(g, n, 0, "weight", k + 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
    if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, &c, VRAM_F32, VRAM__PARAM))
      return 0;
  } else {
    for (i = 0; i < k + 2; i++)
      if (n->in[1]->d->ndim != k + 2 || n->in[1]->d->v[i] != w[i])
        return vram__bad(g, n, "a weight of another shape");
    if (n->nin > 2 && (n->in[2]->d->ndim != 1 || n->in[2]->d->v[0] != c))
      return vram__bad(g, n, "a bias of another shape");
  }
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_linear(vram_graph *g, vram_node *n) {
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

/* Room for so many parameters and buffers of the node, for ops whose number of them varies. */
static int vram__params(vram_graph *g, vram_node *n, uint32_t count) {
  n->param = (vram_param **)vram__take(g, count * sizeof *n->param);
  if (!n->param)
    return 0;
  vram__zero(n->param, count * sizeof *n->param);
  n->nparam = count;
  return 1;
}

static int vram__shape_bilinear(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES], w[3];
  uint32_t i, r = a->ndim;
  if (!r || b->ndim != r)
    return vram__bad(g, n, "inputs of different numbers of axes");
  for (i = 0; i + 1 < r; i++)
    if ((size[i] = a->v[i]) != b->v[i])
      return vram__bad(g, n, "inputs that differ before their last axis");
  w[0] = VRAM__INT(n, out_features, 0), w[1] = a->v[r - 1], w[2] = b->v[r - 1];
  if (w[0] < 1)
    return vram__bad(g, n, "out_features must be at least 1");
  if (!vram__params(g, n, 2) || !vram__own(g, n, 0, "weight", 3, w, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, w, VRAM_F32, VRAM__PARAM))
    return 0;
  size[r - 1] = w[0];
  return vram__out(g, n, 0, r, size, n->in[0]->dtype);
}

static int vram__shape_embedding(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  w[0] = VRAM__INT(n, num_embeddings, 0), w[1] = VRAM__INT(n, embedding_dim, 0);
  if (n->nin > 1) {
    if (n->in[1]->d->ndim != 2)
      return vram__bad(g, n, "an embedding table without two axes");
    w[0] = n->in[1]->d->v[0], w[1] = n->in[1]->d->v[1];
  } else {
    if (w[0] < 1 || w[1] < 1)
      return vram__bad(g, n, "num_embeddings and embedding_dim must be at least 1");
    if (!vram__own(g, n, 0, "weight", 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[x->ndim] = w[1];
  return vram__out(g, n, 0, x->ndim + 1u, size, n->nin > 1 ? n->in[1]->dtype : n->param[0]->dtype);
}

static int vram__shape_matmul(vram_graph *g, vram_node *n) {
  uint32_t first = n->nin - 2, ndim = 0, i;
  const vram_dims *a = n->in[first]->d, *b = n->in[first + 1]->d;
  int64_t size[VRAM_MAX_AXES + 2], ka, kb, dims[VRAM_MAX_AXES];
  static const struct {
    uint16_t op;
    uint8_t ndim;
  } fixed[] = {{VRAM_OP_mm, 2}, {VRAM_OP_addmm, 2}, {VRAM_OP_bmm, 3}, {VRAM_OP_baddbmm, 3}};
  for (i = 0; i < 4; i++)
    if (n->op == fixed[i].op && (a->ndim != fixed[i].ndim || b->ndim != fixed[i].ndim ||
                                 (a->ndim == 3 && a->v[0] != b->v[0])))
      return vram__bad(g, n, "matrices of another number of axes");
  if (!a->ndim || !b->ndim)
    return vram__bad(g, n, "a product of a tensor without axes");
  ka = a->v[a->ndim - 1];
  kb = b->v[b->ndim > 1 ? b->ndim - 2 : 0];
  if (ka != kb)
    return vram__bad(g, n, "inner sizes differ");
  for (i = 0; i + 2 < a->ndim; i++)
    size[ndim++] = a->v[i];
  if (b->ndim > 2) {
    vram_dims t = *b;
    t.ndim = (uint8_t)(b->ndim - 2);
    if (!vram__bcast(&ndim, size, &t))
      return vram__bad(g, n, "batches do not broadcast");
  }
  if (a->ndim > 1)
    size[ndim++] = a->v[a->ndim - 2];
  if (b->ndim > 1)
    size[ndim++] = b->v[b->ndim - 1];
  if (n->nin == 3) {
    for (i = 0; i < ndim; i++)
      dims[i] = size[i];
    i = ndim;
    if (!vram__bcast(&i, dims, n->in[0]->d) || i != ndim)
      return vram__bad(g, n, "the added tensor does not broadcast");
  }
  if (ndim > 2)
    g->extra += 2048;
  return vram__out(g, n, 0, ndim, size, n->in[first]->dtype);
}

static int vram__shape_norm(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t c, size[VRAM_MAX_AXES];
  uint32_t i, k = 1, own = 1, bias = 1;
  int64_t zero = 0;
  if (vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "a norm of a tensor that is not floating point");
  if (n->op == VRAM_OP_layer_norm || n->op == VRAM_OP_rms_norm) {
    const int64_t *v = vram__list(n, VRAM__KEY_normalized_shape, &k);
    if (k > x->ndim)
      return vram__bad(g, n, "normalized_shape has more axes than the input");
    for (i = 0; i < k; i++)
      if ((size[i] = v[i]) != x->v[x->ndim - k + i])
        return vram__bad(g, n, "normalized_shape is not the end of the input's shape");
    own = (uint32_t)VRAM__INT(n, elementwise_affine, 1);
    bias = n->op == VRAM_OP_layer_norm && VRAM__INT(n, bias, 1);
  } else {
    if (x->ndim < (n->op == VRAM_OP_instance_norm ? 3u : 2u))
      return vram__bad(g, n, "a tensor of too few axes");
    size[0] = c = x->v[1];
    own = (uint32_t)VRAM__INT(n, affine, n->op != VRAM_OP_instance_norm);
    if (n->op == VRAM_OP_group_norm &&
        (VRAM__INT(n, num_groups, 0) < 1 || c % VRAM__INT(n, num_groups, 1)))
      return vram__bad(g, n, "channels that num_groups does not divide");
  }
  if (n->nin > 1)
    own = 0;
  for (i = 1; i < n->nin; i++) {
    const vram_dims *w = n->in[i]->d;
    uint32_t j = 0;
    while (j < k && w->ndim == k && w->v[j] == size[j])
      j++;
    if (w->ndim != k || j < k)
      return vram__bad(g, n, "a weight of another shape");
  }
  if (own && !vram__own(g, n, 0, "weight", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (own && bias && !vram__own(g, n, 1, "bias", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if ((n->op == VRAM_OP_batch_norm && VRAM__INT(n, track_running_stats, 1)) ||
      (n->op == VRAM_OP_instance_norm && VRAM__INT(n, track_running_stats, 0))) {
    if (!vram__own(g, n, 2, "running_mean", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__own(g, n, 3, "running_var", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__own(g, n, 4, "num_batches_tracked", 0, &zero, VRAM_I64, VRAM__BUFFER))
      return 0;
  }
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_lrn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_size, &c);
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (x->ndim < 3 || !x->numel || vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "local_response_norm takes [N,C,...] of floating point");
  if (c != 1 || *v < 1 || *v > INT32_MAX)
    return vram__bad(g, n, "size must be one number of at least 1");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i] + (i == 1 ? *v - 1 : 0);
  if (!vram__dims_of(g, i, size)) /* the padded squares must fit as well */
    return 0;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

/* Values of as many axes as the input has, and where they were found. */
static int vram__out_indexed(vram_graph *g, vram_node *n, const int64_t *size) {
  const vram_dims *d = vram__dims_of(g, n->in[0]->d->ndim, size);
  vram__out_d(n, 1, d, VRAM_I64);
  return vram__out_d(n, 0, d, n->in[0]->dtype);
}

/* The input of a pooling has k axes behind channels, and a batch or none: how many lead them. */
static uint32_t vram__lead(vram_graph *g, const vram_node *n, uint32_t k) {
  const vram_dims *x = n->in[0]->d;
  if (x->ndim == k + 1 || x->ndim == k + 2)
    return x->ndim - k;
  vram__bad(g, n, "a tensor of another number of axes");
  return 0;
}

static int vram__shape_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t size[VRAM_MAX_AXES], kernel[3], stride[3], pad[3], dil[3];
  int ceil = VRAM__INT(n, ceil_mode, 0) != 0;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__list(n, VRAM__KEY_stride, NULL) &&
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride))
    return 0;
  if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad) ||
      !vram__window(g, n, VRAM__KEY_dilation, k, 1, 1, dil))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i], r, *to = size + lead + i;
    if (pad[i] > kernel[i] / 2)
      return vram__bad(g, n, "padding of more than half the kernel");
    if (n->op == VRAM_OP_avg_pool3d && in < kernel[i]) /* pool3d_shape_check */
      return vram__bad(g, n, "a kernel larger than its input");
    r = in + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0 && !(ceil && r > -stride[i]))
      return vram__bad(g, n, "a kernel larger than its padded input");
    *to = (r + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
    if (ceil && (*to - 1) * stride[i] >= in + pad[i])
      --*to; /* the last window must begin inside */
    if (*to < 1)
      return vram__bad(g, n, "a kernel larger than its padded input");
  }
  return vram__out_indexed(g, n, size);
}

/* The input's leading axes, then k sizes that a key gives. */
static int vram__resize(vram_graph *g, vram_node *n, uint32_t k, const int64_t *to) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x->ndim; i++)
    size[i] = i < x->ndim - k ? x->v[i] : to[i - (x->ndim - k)];
  return vram__out_indexed(g, n, size);
}

static int vram__shape_adaptive_pool(vram_graph *g, vram_node *n) {
  uint32_t k = vram__spatial(n->op);
  int64_t to[3];
  return vram__lead(g, n, k) && vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to) &&
         vram__resize(g, n, k, to);
}

/* in * factor, rounded down; factor in units of 10^-9; -1: too large */
static int64_t vram__times(int64_t in, int64_t factor) {
  int64_t whole = factor / VRAM__ONE, part = factor % VRAM__ONE, z;
  if (factor < 0 || in > INT64_C(0xffffffff) || whole > INT32_MAX)
    return -1;
  z = in * whole;
  return z + in * part / VRAM__ONE;
}

static int vram__shape_fractional_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t to[3], kernel[3];
  int by_size = vram__list(n, VRAM__KEY_output_size, NULL) != NULL;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  if (by_size == (vram__list(n, VRAM__KEY_output_ratio, NULL) != NULL))
    return vram__bad(g, n, "one of output_size and output_ratio is needed");
  if (by_size && !vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
    return 0;
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i];
    if (!by_size)
      to[i] = vram__times(in, VRAM__INT(n, output_ratio, 0));
    if (to[i] < 1 || to[i] + kernel[i] - 1 > in)
      return vram__bad(g, n, "a kernel and a result larger than the input");
  }
  return vram__resize(g, n, k, to);
}

static int vram__shape_max_unpool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t to[3], kernel[3], stride[3], pad[3];
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  for (i = 0; i < x->ndim; i++)
    if (n->in[1]->d->ndim != x->ndim || n->in[1]->d->v[i] != x->v[i])
      return vram__bad(g, n, "indices of another shape");
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__list(n, VRAM__KEY_stride, NULL) &&
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride))
    return 0;
  if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad))
    return 0;
  for (i = 0; i < k; i++) {
    uint64_t most = vram__mul((uint64_t)x->v[lead + i], (uint64_t)stride[i]);
    if (most > (uint64_t)INT64_MAX / 4)
      return vram__bad(g, n, "a result beyond 63 bits");
    to[i] = (int64_t)most - stride[i] - 2 * pad[i] + kernel[i];
  }
  if (vram__list(n, VRAM__KEY_output_size, NULL)) {
    int64_t def[3];
    for (i = 0; i < k; i++)
      def[i] = to[i];
    if (!vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
      return 0;
    for (i = 0; i < k; i++)
      if (to[i] <= def[i] - stride[i] || to[i] >= def[i] + stride[i])
        return vram__bad(g, n, "an output_size that does not fit the windows");
  }
  for (i = 0; i < k; i++)
    if (to[i] < 1)
      return vram__bad(g, n, "a result without elements");
  return vram__resize(g, n, k, to);
}

static int vram__shape_interpolate(vram_graph *g, vram_node *n) {
  static const struct {
    const char *name;
    uint8_t least, most, aa;
  } modes[] = {{"nearest", 3, 5, 0},  {"nearest-exact", 3, 5, 0}, {"linear", 3, 3, 0},
               {"bilinear", 4, 4, 1}, {"bicubic", 4, 4, 1},       {"trilinear", 5, 5, 0},
               {"area", 3, 5, 0}};
  const vram_dims *x = n->in[0]->d;
  uint32_t k = x->ndim - 2u, i, c;
  int64_t to[3], word = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  const int64_t *v = vram__list(n, VRAM__KEY_scale_factor, &c);
  if (x->ndim < 3 || x->ndim > 5)
    return vram__bad(g, n, "interpolate of a tensor that has not 3, 4 or 5 axes");
  for (i = 0; i < 7; i++)
    if (word == vram__word(modes[i].name, vram__len(modes[i].name)))
      break;
  if (i == 7)
    return vram__bad(g, n,
                     "an unknown mode (nearest, nearest-exact, linear, bilinear, bicubic, "
                     "trilinear, area)");
  if (x->ndim < modes[i].least || x->ndim > modes[i].most)
    return vram__bad(g, n, "a mode for another number of axes");
  if (VRAM__INT(n, antialias, 0) && !modes[i].aa)
    return vram__bad(g, n, "antialias needs mode bilinear or bicubic");
  if (!v == !vram__list(n, VRAM__KEY_size, NULL))
    return vram__bad(g, n, "one of size and scale_factor is needed");
  if (!v)
    return vram__axes(g, n, VRAM__KEY_size, k, 1, 1, to) && vram__resize(g, n, k, to);
  if (c != 1 && c != k)
    return vram__bad(g, n, "scale_factor has another number of axes");
  for (i = 0; i < k; i++) {
    to[i] = vram__times(x->v[2 + i], v[c == 1 ? 0 : i]);
    if (to[i] < 1)
      return vram__bad(g, n, "a result without elements, or one beyond 63 bits");
  }
  return vram__resize(g, n, k, to);
}

static int vram__shape_pixel(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int up = n->op == VRAM_OP_pixel_shuffle;
  int64_t r = up ? VRAM__INT(n, upscale_factor, 0) : VRAM__INT(n, downscale_factor, 0), to[3];
  if (x->ndim < 3)
    return vram__bad(g, n, "a tensor of fewer than 3 axes");
  to[0] = x->v[x->ndim - 3], to[1] = x->v[x->ndim - 2], to[2] = x->v[x->ndim - 1];
  if (r < 1 || r > 65535 || (up ? to[0] % (r * r) : to[1] % r || to[2] % r))
    return vram__bad(g, n, "sizes that the factor does not divide");
  if (up ? to[1] > INT64_MAX / r || to[2] > INT64_MAX / r : to[0] > INT64_MAX / (r * r))
    return vram__bad(g, n, "a result beyond 63 bits");
  if (up)
    to[0] /= r * r, to[1] *= r, to[2] *= r;
  else
    to[0] *= r * r, to[1] /= r, to[2] /= r;
  return vram__resize(g, n, 3, to);
}

static int vram__shape_pad(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i;
  const int64_t *v = vram__list(n, VRAM__KEY_pad, &c);
  int64_t word = VRAM__INT(n, mode, VRAM__WORD("constant")), size[VRAM_MAX_AXES];
  if (word != VRAM__WORD("constant") && word != VRAM__WORD("reflect") &&
      word != VRAM__WORD("replicate") && word != VRAM__WORD("circular"))
    return vram__bad(g, n, "mode must be constant, reflect, replicate or circular");
  if (c % 2 || c / 2 > x->ndim)
    return vram__bad(g, n, "pad needs two values for an axis, and not more axes than the input");
  if (word != VRAM__WORD("constant") &&
      (c / 2 > 3 || (x->ndim != c / 2 + 2 && (x->ndim != c / 2 + 1))))
    return vram__bad(g, n, "a mode for another number of axes");
  if (word == VRAM__WORD("circular") && x->ndim != c / 2 + 2)
    return vram__bad(g, n, "circular padding needs a batch axis");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (i = 0; i < c; i++) {
    uint32_t a = x->ndim - 1u - i / 2;
    if (v[i] > INT32_MAX || v[i] < -INT64_C(0x7fffffff))
      return vram__bad(g, n, "a pad beyond 31 bits");
    if (word == VRAM__WORD("reflect") && v[i] >= x->v[a])
      return vram__bad(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD("circular") && v[i] > x->v[a])
      return vram__bad(g, n, "circular padding larger than the input");
    size[a] += v[i];
  }
  for (i = 0; i < x->ndim; i++)
    if (size[i] < (word == VRAM__WORD("constant") ? 0 : 1))
      return vram__bad(g, n, "a pad that leaves nothing");
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* unfold: [N, C, H, W] to [N, C kh kw, L]; fold: back. */
static int vram__shape_fold(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int back = n->op == VRAM_OP_fold;
  uint32_t i, lead = vram__lead(g, n, back ? 1 : 2);
  int64_t kernel[2], stride[2], pad[2], dil[2], hw[2], size[4], windows = 1, area;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, 2, 1, 1, kernel) ||
      !vram__window(g, n, VRAM__KEY_stride, 2, 1, 1, stride) ||
      !vram__window(g, n, VRAM__KEY_padding, 2, 0, 0, pad) ||
      !vram__window(g, n, VRAM__KEY_dilation, 2, 1, 1, dil))
    return 0;
  if (back && !vram__window(g, n, VRAM__KEY_output_size, 2, 1, 1, hw))
    return 0;
  if (kernel[0] > 65535 || kernel[1] > 65535)
    return vram__bad(g, n, "a window beyond 16 bits");
  area = kernel[0] * kernel[1];
  for (i = 0; i < 2; i++) {
    int64_t r;
    if (!back)
      hw[i] = x->v[lead + i];
    r = hw[i] + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0)
      return vram__bad(g, n, "a kernel larger than its padded input");
    if (windows > INT64_MAX / (r / stride[i] + 1))
      return vram__bad(g, n, "a result beyond 63 bits");
    windows *= r / stride[i] + 1;
  }
  size[0] = x->v[0];
  if (back) {
    if (x->v[lead] != windows || x->v[lead - 1] % area)
      return vram__bad(g, n, "windows that do not make up output_size");
    size[lead - 1] = x->v[lead - 1] / area;
    size[lead] = hw[0], size[lead + 1] = hw[1];
    return vram__out(g, n, 0, lead + 2, size, n->in[0]->dtype);
  }
  if (x->v[lead - 1] > INT64_MAX / area)
    return vram__bad(g, n, "a result beyond 63 bits");
  size[lead - 1] = x->v[lead - 1] * area;
  size[lead] = windows;
  return vram__out(g, n, 0, lead + 1, size, n->in[0]->dtype);
}

static int vram__shape_grid_sample(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k = x->ndim - 2u;
  if (x->ndim < 4 || x->ndim > 5 || d->ndim != x->ndim || d->v[0] != x->v[0] ||
      d->v[d->ndim - 1] != k)
    return vram__bad(g, n, "grid_sample needs [N,C,H,W] and [N,h,w,2], or an axis more and 3");
  for (i = 0; i < x->ndim; i++)
    size[i] = i < 2 ? x->v[i] : d->v[i - 1];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_glu(vram_graph *g, vram_node *n) {
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

static int vram__shape_prelu(vram_graph *g, vram_node *n) {
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

/* Everything that attention allocates in bytes, kernels' workspaces included, must fit. */
static int vram__att_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                          int64_t width) {
  uint64_t a = (uint64_t)rows + 256, b = (uint64_t)keys + 256, d = (uint64_t)width + 512;
  uint64_t most = a > b ? a : b;
  if (vram__mul(vram__mul(heads, 64), vram__mul(a > d && b > d ? a < b ? a : b : d, most)) !=
      VRAM_OVERFLOW)
    return 1;
  vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
  return 0;
}

/* attention.cpp, validate_sdpa_input */
static int vram__shape_sdpa(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  int64_t size[VRAM_MAX_AXES], all[VRAM_MAX_AXES];
  uint32_t i, j, r = q->ndim, m = 0;
  const int gqa = VRAM__INT(n, enable_gqa, 0) != 0;
  uint64_t heads = 1;
  if (r < 2 || k->ndim != r || v->ndim != r)
    return vram__bad(g, n, "attention of tensors of different axes");
  if (q->v[r - 1] != k->v[r - 1])
    return vram__bad(g, n, "query and key of different width");
  if (k->v[r - 2] != v->v[r - 2])
    return vram__bad(g, n, "key and value of different length");
  for (i = 0; i < 3; i++)
    if (vram__kind_rank(n->in[i]->dtype) != 2)
      return vram__bad(g, n, "attention of tensors that are not floating point");
  if (gqa && (r < 3 || k->v[r - 3] < 1 || v->v[r - 3] < 1 || q->v[r - 3] % k->v[r - 3] ||
              q->v[r - 3] % v->v[r - 3]))
    return vram__bad(g, n, "heads of key and value must divide those of the query");
  for (i = 0; i < 3; i++) { /* what stands in front broadcasts */
    int64_t lead[VRAM_MAX_AXES];
    for (j = 0; j + 2 < r; j++)
      lead[j] = gqa && j == r - 3 ? q->v[j] : n->in[i]->d->v[j];
    if (!vram__bcast_lead(&m, size, r - 2, lead))
      return vram__bad(g, n, "query, key and value of different batch or heads");
  }
  for (i = 0; i < m; i++)
    heads = vram__mul(heads, (uint64_t)(size[i] ? size[i] : 1));
  size[m] = q->v[r - 2], size[m + 1] = v->v[r - 1];
  if (n->nin > 3) {
    const vram_dims *mask = n->in[3]->d;
    if (VRAM__INT(n, is_causal, 0))
      return vram__bad(g, n, "is_causal=1 together with a mask");
    if (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2)
      return vram__bad(g, n, "a mask must be of bool or floating point");
    for (i = 0; i < m; i++)
      all[i] = size[i];
    all[m] = q->v[r - 2], all[m + 1] = k->v[r - 2];
    for (i = 0; i < mask->ndim && mask->ndim <= r; i++)
      if (mask->v[i] != 1 && mask->v[i] != all[r - mask->ndim + i])
        break;
    if (!mask->ndim || mask->ndim > r || i < mask->ndim)
      return vram__bad(g, n, "a mask that does not broadcast to [.., queries, keys]");
  }
  if (!vram__att_fits(g, heads, q->v[r - 2], k->v[r - 2],
                      q->v[r - 1] > v->v[r - 1] ? q->v[r - 1] : v->v[r - 1]))
    return 0;
  return vram__out(g, n, 0, r, size, n->in[0]->dtype);
}

/* The slots of torch.nn.MultiheadAttention's parameters. */
enum {
  VRAM__MHA_IN,   /* of query, key and value together, or of the query */
  VRAM__MHA_BIAS, /* of all three */
  VRAM__MHA_OUT,
  VRAM__MHA_OUT_BIAS,
  VRAM__MHA_KEY,
  VRAM__MHA_VALUE,
  VRAM__MHA_BIAS_K,
  VRAM__MHA_BIAS_V,
  VRAM__MHA_PARAMS
};

/* torch.nn.MultiheadAttention: query, key, value, a mask; outputs: the result, the weights. The
   parameters stand in the order in which the module registers them. */
static int vram__shape_mha(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d,
                  *m = n->nin > 3 ? n->in[3]->d : NULL;
  const int batched = q->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0);
  const int64_t h = VRAM__INT(n, num_heads, 0);
  int64_t E, L, S, B, kd, vd, size[VRAM_MAX_AXES];
  uint32_t i;
  if ((!batched && q->ndim != 2) || k->ndim != q->ndim || v->ndim != q->ndim)
    return vram__bad(g, n, "query, key and value must have two or three axes");
  E = q->v[q->ndim - 1u];
  kd = VRAM__INT(n, kdim, E), vd = VRAM__INT(n, vdim, E);
  L = q->v[first ? 1 : 0], S = k->v[first ? 1 : 0];
  B = batched ? q->v[first ? 0 : 1] : 1;
  if (E < 1 || h < 1 || E % h)
    return vram__bad(g, n, "num_heads must divide the width of the query");
  if (k->v[q->ndim - 1u] != kd || v->v[q->ndim - 1u] != vd)
    return vram__bad(g, n, "key or value of another width (kdim=, vdim=)");
  for (i = 0; i + 1u < q->ndim; i++)
    if (k->v[i] != v->v[i] || (batched && i == (first ? 0u : 1u) && k->v[i] != q->v[i]))
      return vram__bad(g, n, "query, key and value of different batch or length");
  if (n->in[1]->dtype != n->in[0]->dtype || n->in[2]->dtype != n->in[0]->dtype ||
      vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "query, key and value must be of one floating point dtype");
  if (n->nout > 1 && !VRAM__INT(n, need_weights, 1))
    return vram__bad(g, n, "need_weights=0 gives no second output");
  if (m) {
    int fits = m->ndim == 2 ? m->v[0] == L && m->v[1] == S
                            : m->ndim == 3 && m->v[0] == B * h && m->v[1] == L && m->v[2] == S;
    if (!fits || (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2))
      return vram__bad(g, n, "the mask must be [L,S] or [N*heads,L,S] of bool or floating point");
  }
  if (!vram__params(g, n, VRAM__MHA_PARAMS))
    return 0;
  size[0] = kd == E && vd == E ? 3 * E : E, size[1] = E;
  if (!vram__own(g, n, VRAM__MHA_IN, kd == E && vd == E ? "in_proj_weight" : "q_proj_weight", 2,
                 size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = E, size[1] = kd;
  if ((kd != E || vd != E) &&
      !vram__own(g, n, VRAM__MHA_KEY, "k_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[1] = vd;
  if ((kd != E || vd != E) &&
      !vram__own(g, n, VRAM__MHA_VALUE, "v_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = 3 * E;
  if (VRAM__INT(n, bias, 1) &&
      !vram__own(g, n, VRAM__MHA_BIAS, "in_proj_bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = size[1] = 1, size[2] = E;
  for (i = 0; i < 2 && VRAM__INT(n, add_bias_kv, 0); i++)
    if (!vram__own(g, n, VRAM__MHA_BIAS_K + i, i ? "bias_v" : "bias_k", 3, size, VRAM_F32,
                   VRAM__PARAM))
      return 0;
  size[0] = size[1] = E;
  if (!vram__own(g, n, VRAM__MHA_OUT, "out_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) &&
      !vram__own(g, n, VRAM__MHA_OUT_BIAS, "out_proj.bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  S += (VRAM__INT(n, add_bias_kv, 0) != 0) + (VRAM__INT(n, add_zero_attn, 0) != 0);
  if (!vram__att_fits(g, (uint64_t)(B * h), L, S, E))
    return 0;
  if (n->nout > 1) {
    size[0] = B, size[1] = L, size[2] = S;
    if (!vram__out(g, n, 1, batched ? 3 : 2, size + !batched, n->in[0]->dtype))
      return 0;
  }
  return vram__out_d(n, 0, q, n->in[0]->dtype);
}

static int vram__shape_reduce(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c = 0, i, a, mask = 0, m = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  int keep = VRAM__INT(n, keepdim, 0) != 0;
  uint8_t dt = n->in[0]->dtype;
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    if (mask >> a & 1)
      return vram__bad(g, n, "an axis that is named twice");
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x->v[i];
    else if (keep)
      size[m++] = 1;
  switch (n->op) {
  case VRAM_OP_sum:
  case VRAM_OP_prod:
    dt = vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_I64 : dt;
    break;
  case VRAM_OP_amax:
  case VRAM_OP_amin:
    break;
  case VRAM_OP_argmax:
  case VRAM_OP_argmin:
    if (c > 1)
      return vram__bad(g, n, "argmax and argmin of more than one axis");
    if (dt == VRAM_BOOL)
      return vram__bad(g, n, "argmax and argmin of bool");
    break;
  case VRAM_OP_max:
  case VRAM_OP_min:
    if (c > 1)
      return vram__bad(g, n, "max and min of more than one axis");
    if (n->nout > (v ? 2u : 1u))
      return vram__bad(g, n, "two outputs need dim=");
    if (n->nout > 1 && !vram__out(g, n, 1, m, size, VRAM_I64))
      return 0;
    break;
  case VRAM_OP_logsumexp:
    dt = vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
    break;
  default:
    if (vram__kind_rank(dt) < 2 && !vram__list(n, VRAM__KEY_dtype, NULL))
      return vram__bad(g, n, "this reduction needs a floating-point tensor");
  }
  if (n->op == VRAM_OP_prod && c > 1)
    return vram__bad(g, n, "prod of more than one axis");
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  return vram__out(g, n, 0, m, size, dt);
}

/* roll and flip: the axes must be there */
static int vram__shape_roll(vram_graph *g, vram_node *n) {
  uint32_t c, k, i, a;
  const int64_t *v = vram__list(n, VRAM__KEY_dims, &c);
  if (n->op == VRAM_OP_roll) {
    vram__list(n, VRAM__KEY_shifts, &k);
    if (v ? k != c : k != 1)
      return vram__bad(g, n, "as many shifts as dims are needed");
  }
  for (i = 0; i < c; i++)
    if (!vram__axis(g, v[i], n->in[0]->d->ndim, &a))
      return 0;
  return vram__out_d(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* How often each axis of the result repeats x (axes that x lacks come first). */
static uint32_t vram__repeats(const vram_node *n, uint32_t ndim, int64_t *to) {
  uint32_t c, i, k;
  const int64_t *v = vram__list(n, n->op == VRAM_OP_tile ? VRAM__KEY_dims : VRAM__KEY_repeats, &c);
  k = c > ndim ? c : ndim;
  for (i = 0; i < k; i++)
    to[i] = i < k - c ? 1 : v[i - (k - c)];
  return k;
}

static int vram__shape_repeat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r[VRAM_MAX_AXES];
  uint32_t c, i, k = vram__repeats(n, x->ndim, r);
  vram__list(n, VRAM__KEY_repeats, &c);
  if (n->op == VRAM_OP_repeat && c < x->ndim)
    return vram__bad(g, n, "fewer repeats than axes");
  for (i = 0; i < k; i++) {
    uint64_t z = i < k - x->ndim ? 1 : (uint64_t)x->v[i - (k - x->ndim)];
    if (r[i] < 0 || (z = vram__mul(z, (uint64_t)r[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "repeats out of range");
    size[i] = (int64_t)z;
  }
  return vram__out(g, n, 0, k, size, n->in[0]->dtype);
}

/* Is input i of the node a list of integers? Else an error. */
static int vram__index_dtype(vram_graph *g, const vram_node *n, uint32_t i) {
  uint8_t dt = n->in[i]->dtype;
  if (dt == VRAM_I64 || dt == VRAM_I32)
    return 1;
  return vram__bad(g, n, "an index that is not i64 or i32");
}

/* EmbeddingBag: rows of indices, or one list and the offsets where its bags begin; a table can
   stand behind them. */
static int vram__shape_embedding_bag(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *w = NULL, *o = NULL;
  int64_t size[2], z[2];
  uint32_t i;
  uint8_t dt;
  for (i = 1; i < n->nin; i++)
    if (n->in[i]->d->ndim == 2)
      w = n->in[i]->d;
    else if (n->in[i]->d->ndim == 1)
      o = n->in[i]->d;
  if (n->nin != 1u + (w != NULL) + (o != NULL) || (x->ndim != 2 && !(x->ndim == 1 && o)) ||
      (x->ndim == 2 && o))
    return vram__bad(g, n, "inputs other than [bags,indices], or [indices] and [offsets]");
  if (!vram__index_dtype(g, n, 0))
    return 0;
  z[0] = VRAM__INT(n, num_embeddings, 0), z[1] = VRAM__INT(n, embedding_dim, 0);
  if (z[0] < 1 || z[1] < 1)
    return vram__bad(g, n, "num_embeddings and embedding_dim must be at least 1");
  if (w ? w->v[0] != z[0] || w->v[1] != z[1]
        : !vram__params(g, n, 1) || !vram__own(g, n, 0, "weight", 2, z, VRAM_F32, VRAM__PARAM))
    return w ? vram__bad(g, n, "a table of another shape") : 0;
  dt = w ? n->in[n->nin - 1]->dtype : n->param[0]->dtype;
  if (w && n->nin == 3 && n->in[1]->d->ndim == 2)
    return vram__bad(g, n, "offsets behind the table");
  size[0] = x->ndim == 2 ? x->v[0] : o->v[0], size[1] = z[1];
  return vram__out(g, n, 0, 2, size, dt);
}

static int vram__shape_gather(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
    return vram__bad(g, n, "an index that is not i64 or i32");
  if (d->ndim != x->ndim)
    return vram__bad(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__bad(g, n, "an index that is larger than the tensor");
  return vram__out_d(n, 0, d, n->in[0]->dtype);
}

/* Dropout.cpp, make_feature_noise; torch.nn.functional.dropout1d */
static int vram__shape_dropout(vram_graph *g, vram_node *n) {
  uint32_t k = n->in[0]->d->ndim;
  if (VRAM__INT(n, p, 0) < 0 || VRAM__INT(n, p, 0) > VRAM__ONE)
    return vram__bad(g, n, "p must be 0 to 1");
  if (n->op == VRAM_OP_dropout || n->op == VRAM_OP_alpha_dropout)
    return vram__shape_same(g, n);
  if (n->op == VRAM_OP_dropout1d && k != 2 && k != 3)
    return vram__bad(g, n, "dropout1d of a tensor that has not two or three axes");
  if (k + (n->op == VRAM_OP_dropout3d && k != 5) < 2)
    return vram__bad(g, n, "dropout of channels of a tensor without channels");
  return vram__shape_same(g, n);
}

static int vram__shape_scatter(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->nin > 2 && VRAM__INT(n, scalar, 0))
    return vram__bad(g, n, "a source beside a number");
  if (d->ndim != x->ndim)
    return vram__bad(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__bad(g, n, "an index that is larger than the tensor");
  if (n->nin > 2) {
    if (n->in[2]->dtype != n->in[0]->dtype || n->in[2]->d->ndim != d->ndim)
      return vram__bad(g, n, "a source of another dtype or number of axes");
    for (i = 0; i < d->ndim; i++)
      if (n->in[2]->d->v[i] < d->v[i])
        return vram__bad(g, n, "an index that is larger than the source");
  }
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_index_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->in[1]->d->ndim > 1)
    return vram__bad(g, n, "an index of more than one axis");
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? (int64_t)n->in[1]->d->numel : x->v[i];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* The sizes of x[.., i, j, ..]: `count` index tensors from input 1 on stand for the axes from `dim`
   on; a mask of several axes stands for as many. A mask counts as all its elements: what it selects
   depends on the data, this is the upper bound. */
static int vram__index_sizes(vram_graph *g, const vram_node *n, uint32_t count, uint32_t *ndim,
                             int64_t *size) {
  const vram_dims *x = n->in[0]->d;
  int64_t idx[VRAM_MAX_AXES];
  uint32_t i, a = 0, m = 0, k = 0, used = count;
  const vram_dims *d = n->in[1]->d;
  if (!x->ndim)
    return vram__bad(g, n, "an index into a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype == VRAM_BOOL || n->in[1]->dtype == VRAM_U8) {
    if (count != 1)
      return vram__bad(g, n, "a mask beside another index");
    used = d->ndim;
    for (i = 0; i < d->ndim; i++)
      if (a + i >= x->ndim || d->v[i] != x->v[a + i])
        return vram__bad(g, n, "a mask of another shape");
    idx[m++] = (int64_t)d->numel;
  } else
    for (i = 1; i <= count; i++) {
      if (!vram__index_dtype(g, n, i))
        return 0;
      if (!vram__bcast(&m, idx, n->in[i]->d))
        return vram__bad(g, n, "index tensors that do not broadcast");
    }
  if (a + used > x->ndim)
    return vram__bad(g, n, "more index tensors than axes");
  if (x->ndim - used + m > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[k++] = x->v[i];
  for (i = 0; i < m; i++)
    size[k++] = idx[i];
  for (i = a + used; i < x->ndim; i++)
    size[k++] = x->v[i];
  *ndim = k;
  return 1;
}

static int vram__shape_index(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t k;
  if (!vram__index_sizes(g, n, n->nin - 1, &k, size))
    return 0;
  g->extra += (uint64_t)n->nin * 256;
  return vram__out(g, n, 0, k, size, n->in[0]->dtype);
}

static int vram__shape_index_put(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t k, m;
  if (!vram__index_sizes(g, n, n->nin - 2, &k, size))
    return 0;
  m = k;
  if (!vram__bcast(&k, size, n->in[n->nin - 1]->d) || k != m)
    return vram__bad(g, n, "values that do not broadcast to what is written");
  if (n->in[n->nin - 1]->dtype != n->in[0]->dtype)
    return vram__bad(g, n, "values of another dtype");
  g->extra += (uint64_t)n->nin * 512;
  return vram__out_d(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* What a mask selects depends on the data: all elements, the upper bound. */
static int vram__shape_masked_select(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES], z = 1;
  uint32_t k, i;
  if (n->in[1]->dtype != VRAM_BOOL)
    return vram__bad(g, n, "a mask that is not bool");
  if (!vram__bcast_all(g, n, 0, &k, size))
    return 0;
  for (i = 0; i < k; i++)
    if ((uint64_t)(z = (int64_t)vram__mul((uint64_t)z, (uint64_t)size[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "a size out of range");
  return vram__out(g, n, 0, 1, &z, n->in[0]->dtype);
}

static int vram__shape_topk(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], k;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (n->op == VRAM_OP_topk) {
    k = VRAM__INT(n, k, 0);
    if (k < 0 || k > (x->ndim ? x->v[a] : 1))
      return vram__bad(g, n, "k must be 0 to the size of the axis");
    if (x->ndim)
      size[a] = k;
  }
  return vram__out_indexed(g, n, size);
}

static int vram__shape_argmax(vram_graph *g, vram_node *n) {
  if (!vram__shape_reduce(g, n))
    return 0;
  n->out[0].dtype = VRAM_I64;
  return 1;
}

static int vram__shape_one_hot(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES + 1];
  uint32_t i;
  if (n->in[0]->dtype != VRAM_I64)
    return vram__bad(g, n, "one_hot of another dtype than i64");
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[i] = VRAM__INT(n, num_classes, 0);
  if (size[i] < 1)
    return vram__bad(g, n, "num_classes must be at least 1");
  return vram__out(g, n, 0, x->ndim + 1u, size, VRAM_I64);
}

static int vram__shape_cumsum(vram_graph *g, vram_node *n) {
  uint32_t a;
  uint8_t dt = n->in[0]->dtype;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a))
    return 0;
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  else if (vram__kind_rank(dt) < 2)
    dt = VRAM_I64;
  return vram__out_d(n, 0, n->in[0]->d, dt);
}

static int vram__shape_histc(vram_graph *g, vram_node *n) {
  int64_t bins = VRAM__INT(n, bins, 100);
  if (bins < 1)
    return vram__bad(g, n, "bins must be at least 1");
  return vram__out(g, n, 0, 1, &bins, n->in[0]->dtype);
}

static int vram__shape_diff(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, a;
  vram__promote p;
  if (!x->ndim)
    return vram__bad(g, n, "diff of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  vram__zero(&p, sizeof p);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, n->in[i]->dtype, x->ndim);
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (d->ndim != x->ndim)
      return vram__bad(g, n, "diff with a prefix of other axes");
    for (i = 0; i < x->ndim; i++)
      if (i != a && d->v[i] != x->v[i])
        return vram__bad(g, n, "diff with a prefix of other sizes");
    size[a] += d->v[a]; /* both below 2^59: vram__dims_of */
  }
  if (size[a])
    size[a]--;
  return vram__out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

static int vram__shape_repeat_interleave(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r = vram__int(n, VRAM__KEY_repeats, 1);
  uint32_t c, i, a = 0, ndim = x->ndim;
  uint64_t z;
  vram__list(n, VRAM__KEY_repeats, &c);
  if (c != 1 || r < 0)
    return vram__bad(g, n, "repeats must be one number");
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    if (!x->ndim || x->ndim >= VRAM_MAX_AXES)
      return vram__bad(g, n, "repeat_interleave of a tensor without axes or of 8");
    if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
      return 0;
    for (i = 0; i < ndim; i++)
      size[i] = x->v[i];
  } else
    ndim = 1, size[0] = (int64_t)x->numel;
  if ((z = vram__mul((uint64_t)size[a], (uint64_t)r)) == VRAM_OVERFLOW)
    return vram__bad(g, n, "repeats out of range");
  size[a] = (int64_t)z;
  return vram__out(g, n, 0, ndim, size, n->in[0]->dtype);
}

static const char *vram__keep(vram_graph *g, const char *s, uint32_t n);

/* What nn.LSTM, nn.GRU and nn.RNN are made of. */
typedef struct vram__rnn {
  int64_t T, B, width, H,
      P;               /* steps, batch, input, hidden units, units that go on (proj_size or H) */
  int64_t L, D, gates; /* layers, directions */
  int lstm, bias, proj, first; /* first: the batch is the first axis */
  uint32_t params;             /* of one layer and direction */
} vram__rnn;

static void vram__rnn_of(const vram_node *n, const vram_dims *x, vram__rnn *r) {
  int batch = x->ndim == 3;
  r->lstm = n->op == VRAM_OP_lstm;
  r->gates = r->lstm ? 4 : n->op == VRAM_OP_gru ? 3 : 1;
  r->first = batch && VRAM__INT(n, batch_first, 0);
  r->T = x->v[r->first];
  r->B = batch ? x->v[!r->first] : 1;
  r->width = x->v[x->ndim - 1u];
  r->H = VRAM__INT(n, hidden_size, 0);
  r->P = VRAM__INT(n, proj_size, 0);
  r->proj = r->P > 0;
  if (!r->proj)
    r->P = r->H;
  r->L = VRAM__INT(n, num_layers, 1);
  r->D = VRAM__INT(n, bidirectional, 0) ? 2 : 1;
  r->bias = VRAM__INT(n, bias, 1) != 0;
  r->params = 2u + 2u * (uint32_t)r->bias + (uint32_t)r->proj;
}

/* Elements of the flat weights: cuDNN's has room for both biases in any case. */
static uint64_t vram__rnn_flat(const vram__rnn *r) {
  uint64_t g = (uint64_t)(r->gates * r->H), n = 0;
  n = g * (uint64_t)(r->width + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0);
  n += (uint64_t)(r->L - 1) *
       (g * (uint64_t)(r->P * r->D + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0));
  return n * (uint64_t)r->D;
}

/* "weight_ih_l0", "bias_hh_l1_reverse": the name of a parameter as torch.nn gives it */
static const char *vram__rnn_role(vram_graph *g, const char *what, int64_t layer, int reverse) {
  char t[64];
  uint32_t k = 0;
  t[0] = 0;
  vram__puts(t, sizeof t, &k, what);
  if (layer >= 0) {
    vram__puts(t, sizeof t, &k, "_l");
    vram__puti(t, sizeof t, &k, layer);
    if (reverse)
      vram__puts(t, sizeof t, &k, "_reverse");
  }
  return vram__keep(g, t, k + 1);
}

/* The parameters of one layer and direction (layer -1: a cell) from slot `at` on. */
static int vram__rnn_own(vram_graph *g, vram_node *n, uint32_t at, const vram__rnn *r,
                         int64_t layer, int reverse, int64_t in) {
  static const char *const name[5] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
  int64_t size[2];
  uint32_t k;
  for (k = 0; k < 5; k++) {
    const char *role;
    if ((k == 2 || k == 3) && !r->bias)
      continue;
    if (k == 4 && !r->proj)
      continue;
    role = vram__rnn_role(g, name[k], layer, reverse);
    size[0] = k < 4 ? r->gates * r->H : r->P;
    size[1] = k == 0 ? in : k == 1 ? r->P : r->H;
    if (!role ||
        !vram__own(g, n, at++, role, k == 2 || k == 3 ? 1 : 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  return 1;
}

/* Input i, the state before the first step, has these sizes. */
static int vram__rnn_state(vram_graph *g, const vram_node *n, uint32_t i, uint32_t ndim,
                           const int64_t *size) {
  const vram_dims *d;
  uint32_t a;
  if (i >= n->nin)
    return 1;
  d = n->in[i]->d;
  for (a = 0; a < ndim; a++)
    if (d->ndim != ndim || d->v[a] != size[a])
      return vram__bad(g, n, "a state of another shape");
  return 1;
}

#define VRAM__MAX_UNITS INT64_C(0x7fffffff)
#define VRAM__MAX_RNN_LAYERS 4096

static int vram__shape_rnn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[3], layer;
  uint32_t m, k, at = 0;
  uint8_t dt = n->in[0]->dtype;
  if (x->ndim != 2 && x->ndim != 3)
    return vram__bad(g, n, "an input of other than two or three axes");
  vram__rnn_of(n, x, &r);
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__bad(g, n, "hidden_size must be at least 1");
  if (VRAM__INT(n, proj_size, 0) < 0 || (r.proj && r.P >= r.H))
    return vram__bad(g, n, "proj_size must be smaller than hidden_size");
  if (r.L < 1 || r.L > VRAM__MAX_RNN_LAYERS)
    return vram__bad(g, n, "num_layers must be 1 to 4096");
  if (r.T < 1 || r.width < 1 || r.width > VRAM__MAX_UNITS)
    return vram__bad(g, n, "a sequence of no steps or no values");
  if (n->nin == 2 && r.lstm)
    return vram__bad(g, n, "lstm with a hidden state and no cell state");
  if (VRAM__INT(n, dropout, 0) < 0 || VRAM__INT(n, dropout, 0) > VRAM__ONE)
    return vram__bad(g, n, "dropout must be 0 to 1");
  if (!vram__params(g, n, (uint32_t)(r.L * r.D) * r.params))
    return 0;
  for (layer = 0; layer < r.L; layer++)
    for (k = 0; k < (uint32_t)r.D; k++, at += r.params)
      if (!vram__rnn_own(g, n, at, &r, layer, k == 1, layer ? r.P * r.D : r.width))
        return 0;
  if (!r.bias && !vram__list(n, VRAM__KEY_weights, NULL))
    g->flat_pad += (uint64_t)(2 * r.gates * r.H * r.L * r.D);
  if (VRAM__INT(n, dropout, 0))
    g->rnn_dropout++;
  g->extra += (uint64_t)n->nparam * 512 + 4096;
  m = 0;
  size[m++] = r.L * r.D;
  if (x->ndim == 3)
    size[m++] = r.B;
  size[m++] = r.P;
  if (!vram__rnn_state(g, n, 1, m, size))
    return 0;
  if (n->nout > 1 && !vram__out(g, n, 1, m, size, dt))
    return 0;
  size[m - 1] = r.H;
  if (!vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 2 && r.lstm && !vram__out(g, n, 2, m, size, dt))
    return 0;
  for (m = 0; m + 1 < x->ndim; m++)
    size[m] = x->v[m];
  size[m] = r.P * r.D;
  return vram__out(g, n, 0, m + 1, size, dt);
}

static int vram__shape_rnn_cell(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[2];
  uint32_t m = 0;
  if (x->ndim != 1 && x->ndim != 2)
    return vram__bad(g, n, "an input of other than one or two axes");
  vram__zero(&r, sizeof r);
  r.width = x->v[x->ndim - 1];
  r.H = r.P = VRAM__INT(n, hidden_size, 0);
  r.gates = n->op == VRAM_OP_lstm_cell ? 4 : n->op == VRAM_OP_gru_cell ? 3 : 1;
  r.bias = VRAM__INT(n, bias, 1) != 0;
  r.params = r.bias ? 4 : 2;
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__bad(g, n, "hidden_size must be at least 1");
  if (n->op == VRAM_OP_lstm_cell && n->nin == 2)
    return vram__bad(g, n, "lstm_cell with a hidden state and no cell state");
  if (!vram__params(g, n, r.params) || !vram__rnn_own(g, n, 0, &r, -1, 0, r.width))
    return 0;
  if (x->ndim == 2)
    size[m++] = x->v[0];
  size[m++] = r.H;
  g->extra += 4096;
  if (!vram__rnn_state(g, n, 1, m, size) || !vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 1 && n->op == VRAM_OP_lstm_cell && !vram__out(g, n, 1, m, size, n->in[0]->dtype))
    return 0;
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

/* Routed feed-forward: parameters of the router, of all experts and of the shared one, no biases;
   gated: a gate beside up, as SwiGLU has */
static int vram__shape_moe(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t e = VRAM__INT(n, num_experts, 0), k = VRAM__INT(n, top_k, 0),
          i = VRAM__INT(n, intermediate_size, 0),
          shared = VRAM__INT(n, shared_intermediate_size, 0), size[3];
  int gated = VRAM__INT(n, gated, 1) != 0;
  if (x->ndim < 1 || x->v[x->ndim - 1] < 1)
    return vram__bad(g, n, "an input without values");
  if (e < 1 || k < 1 || k > e)
    return vram__bad(g, n, "top_k must be 1 to num_experts");
  if (i < 1 || i > VRAM__MAX_UNITS || shared < 0 || shared > VRAM__MAX_UNITS)
    return vram__bad(g, n, "intermediate_size must be at least 1");
  if (x->numel / (uint64_t)x->v[x->ndim - 1] > (uint64_t)(INT64_MAX / 16) / (uint64_t)k)
    return vram__bad(g, n, "a size out of range");
  if (!vram__params(g, n, 6))
    return 0;
  size[0] = e, size[1] = x->v[x->ndim - 1];
  if (!vram__own(g, n, 0, "gate.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[2] = size[1], size[1] = gated ? 2 * i : i;
  if (!vram__own(g, n, 1, gated ? "experts.gate_up_proj" : "experts.up_proj", 3, size, VRAM_F32,
                 VRAM__PARAM))
    return 0;
  size[1] = size[2], size[2] = i;
  if (!vram__own(g, n, 2, "experts.down_proj", 3, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (shared) {
    size[0] = shared, size[1] = x->v[x->ndim - 1];
    if (gated &&
        !vram__own(g, n, 3, "shared_expert.gate_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    if (!vram__own(g, n, 4, "shared_expert.up_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    size[0] = size[1], size[1] = shared;
    if (!vram__own(g, n, 5, "shared_expert.down_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  g->extra += 16384;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_custom(vram_graph *g, vram_node *n) {
  uint32_t c, i;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t params = VRAM__INT(n, params, 0), buffers = VRAM__INT(n, buffers, 0);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, n->nin ? n->in[0]->dtype : (uint8_t)VRAM_F32);
  if (params < 0 || buffers < 0 || VRAM__INT(n, saved, 0) < 0 || VRAM__INT(n, workspace, 0) < 0)
    return vram__bad(g, n, "params, buffers, saved and workspace must not be negative");
  if (!vram__params(g, n, 2))
    return 0;
  if (params && !vram__own(g, n, 0, "params", 1, &params, VRAM_F32, VRAM__PARAM))
    return 0;
  if (buffers && !vram__own(g, n, 1, "buffers", 1, &buffers, VRAM_F32, VRAM__BUFFER))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!vram__out(g, n, i, c, v, dt))
      return 0;
  return 1;
}

/* Products of groups: [rows,k] x [groups,k,n] with the rows split by the offsets, or the other
   operand or the inner size split. */
static int vram__shape_grouped_mm(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d, *o = n->in[2]->d;
  int64_t size[3];
  uint32_t m = 0;
  if (a->ndim < 2 || a->ndim > 3 || b->ndim < 2 || b->ndim > 3)
    return vram__bad(g, n, "operands of other than two or three axes");
  if (o->ndim != 1 || n->in[2]->dtype != VRAM_I32)
    return vram__bad(g, n, "offsets that are no list of i32");
  if (a->v[a->ndim - 1] != b->v[b->ndim - 2])
    return vram__bad(g, n, "inner sizes differ");
  if (a->ndim == 3 && b->ndim == 3)
    return vram__bad(g, n, "offsets where nothing is split: two operands of three axes");
  if (a->ndim != b->ndim && o->v[0] != (a->ndim == 3 ? a : b)->v[0])
    return vram__bad(g, n, "other offsets than groups");
  if (n->in[0]->dtype != n->in[1]->dtype || !vram__is_float(n->in[0]->dtype))
    return vram__bad(g, n, "operands of different dtypes");
  if (a->ndim == b->ndim)
    size[m++] = o->v[0];
  size[m++] = a->v[a->ndim - 2];
  size[m++] = b->v[b->ndim - 1];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_reshape(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, free = VRAM_MAX_AXES;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  uint64_t z = 1;
  for (i = 0; i < c; i++) {
    size[i] = v[i];
    if (v[i] == -1) {
      if (free != VRAM_MAX_AXES)
        return vram__bad(g, n, "more than one -1");
      free = i;
    } else if (v[i] < 0 || (z = vram__mul(z, (uint64_t)v[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "a size out of range");
  }
  if (free != VRAM_MAX_AXES) {
    if (!z || x->numel % z)
      return vram__bad(g, n, "-1 does not divide");
    size[free] = (int64_t)(x->numel / z);
    z *= x->numel / z;
  }
  if (z != x->numel)
    return vram__bad(g, n, "a shape of another number of elements");
  return vram__out(g, n, 0, c, size, n->in[0]->dtype);
}

static int vram__shape_flatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, b, i, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!vram__axis(g, VRAM__INT(n, start_dim, 0), x->ndim, &a))
    return 0;
  if (!vram__axis(g, VRAM__INT(n, end_dim, -1), x->ndim, &b))
    return 0;
  if (a > b)
    return vram__bad(g, n, "start_dim is behind end_dim");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  size[m] = 1;
  for (i = a; i <= b && i < x->ndim; i++)
    size[m] *= x->v[i];
  m++;
  for (i = b + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unflatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, c, i, m = 0, free = 99;
  int64_t size[2 * VRAM_MAX_AXES], z = 1;
  const int64_t *v = vram__list(n, VRAM__KEY_sizes, &c);
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (!x->ndim)
    return vram__bad(g, n, "unflatten of a tensor without axes");
  if (x->ndim - 1 + c > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  for (i = 0; i < c; i++) {
    if (v[i] == -1 && free == 99)
      free = m;
    else if (v[i] < 1 || v[i] > x->v[a] || z > x->v[a])
      return vram__bad(g, n, "sizes that do not divide the axis");
    else
      z *= v[i];
    size[m++] = v[i];
  }
  if (free != 99) {
    if (x->v[a] % z)
      return vram__bad(g, n, "sizes that do not divide the axis");
    size[free] = x->v[a] / z;
    z *= size[free];
  }
  if (z != x->v[a])
    return vram__bad(g, n, "sizes that do not make up the axis");
  for (i = a + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

/* The order of axes that a transposing node asks for. */
static int vram__order(vram_graph *g, const vram_node *n, uint32_t ndim, uint8_t *to) {
  uint32_t i, a, b, c, seen = 0;
  const int64_t *v;
  for (i = 0; i < ndim; i++)
    to[i] = (uint8_t)i;
  if (n->op == VRAM_OP_t) {
    if (ndim == 2)
      to[0] = 1, to[1] = 0;
  } else if (n->op == VRAM_OP_transpose) {
    if (!vram__axis(g, VRAM__INT(n, dim0, 0), ndim, &a) ||
        !vram__axis(g, VRAM__INT(n, dim1, 0), ndim, &b))
      return 0;
    if (ndim)
      to[a] = (uint8_t)b, to[b] = (uint8_t)a;
  } else {
    v = vram__list(n, VRAM__KEY_dims, &c);
    if (c != ndim)
      return vram__bad(g, n, "dims must name every axis once");
    for (i = 0; i < c; i++) {
      if (!vram__axis(g, v[i], ndim, &a))
        return 0;
      if (seen >> a & 1)
        return vram__bad(g, n, "dims must name every axis once");
      seen |= 1u << a;
      to[i] = (uint8_t)a;
    }
  }
  return 1;
}

static int vram__shape_permute(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (n->op == VRAM_OP_t && x->ndim > 2)
    return vram__bad(g, n, "t of more than two axes");
  if (!vram__order(g, n, x->ndim, order))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[order[i]];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}
#define vram__shape_transpose vram__shape_permute
#define vram__shape_t vram__shape_permute

static int vram__shape_squeeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c, m = 0, mask = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (x->v[i] != 1 || !(mask >> i & 1))
      size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unsqueeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? 1 : x->v[m++];
  return vram__out(g, n, 0, x->ndim + 1u, size, n->in[0]->dtype);
}

static int vram__shape_expand(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, k;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  if (c < x->ndim)
    return vram__bad(g, n, "expand to fewer axes");
  k = c - x->ndim;
  for (i = 0; i < c; i++) {
    int64_t have = i < k ? 1 : x->v[i - k];
    size[i] = v[i] == -1 && i >= k ? have : v[i];
    if (size[i] < 0 || (have != 1 && have != size[i]))
      return vram__bad(g, n, "expand of an axis that is not 1");
  }
  return vram__out(g, n, 0, c, size, n->in[0]->dtype);
}

/* start, step and length of a slice of an axis of size z */
static void vram__slice_of(const vram_node *n, int64_t z, int64_t *start, int64_t *step,
                           int64_t *len) {
  int64_t a = VRAM__INT(n, start, 0), b = VRAM__INT(n, end, INT64_MAX);
  *step = VRAM__INT(n, step, 1);
  if (n->op == VRAM_OP_narrow)
    b = (a < 0 ? a + z : a) + VRAM__INT(n, length, 0);
  if (a < 0)
    a += z;
  if (b < 0)
    b += z;
  if (a < 0)
    a = 0;
  if (a > z)
    a = z;
  if (b < a)
    b = a;
  if (b > z)
    b = z;
  *start = a;
  *len = (b - a) / *step + ((b - a) % *step != 0);
}

static int vram__shape_slice(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a;
  int64_t size[VRAM_MAX_AXES], start, step, len;
  if (!x->ndim)
    return vram__bad(g, n, "a slice of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (VRAM__INT(n, step, 1) < 1)
    return vram__bad(g, n, "step must be at least 1");
  if (n->op == VRAM_OP_narrow) {
    start = VRAM__INT(n, start, 0), len = VRAM__INT(n, length, 0);
    if (start < -x->v[a] || start > x->v[a] || len < 0 ||
        len > x->v[a] - (start < 0 ? start + x->v[a] : start))
      return vram__bad(g, n, "start and length beyond the axis");
  }
  vram__slice_of(n, x->v[a], &start, &step, &len);
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? len : x->v[i];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}
#define vram__shape_narrow vram__shape_slice

static int vram__shape_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES], at = VRAM__INT(n, index, 0);
  if (!x->ndim)
    return vram__bad(g, n, "select of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (at < -x->v[a] || at >= x->v[a])
    return vram__bad(g, n, "index out of range");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_split(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c = 0, k, pieces;
  int64_t size[VRAM_MAX_AXES], left, per;
  const int64_t *v = vram__list(n, VRAM__KEY_split_size_or_sections, &c);
  if (!x->ndim)
    return vram__bad(g, n, "a split of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  left = x->v[a];
  if (!v) {
    int64_t chunks = VRAM__INT(n, chunks, 1);
    if (chunks < 1)
      return vram__bad(g, n, "chunks must be at least 1");
    per = left / chunks + (left % chunks != 0);
    c = 1;
  } else
    per = v[0];
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (pieces = 0; left > 0 || !pieces; pieces++) {
    int64_t z = c > 1 ? (pieces < c ? v[pieces] : 0) : per < left ? per : left;
    if (z < 0 || z > left || (!z && left))
      return vram__bad(g, n, "sections that do not make up the axis");
    size[a] = z;
    left -= z;
    if (pieces < n->nout && !vram__out(g, n, pieces, x->ndim, size, n->in[0]->dtype))
      return 0;
    if (pieces >= 65535)
      return vram__bad(g, n, "too many pieces");
  }
  if (c > 1 && pieces != c)
    return vram__bad(g, n, "sections that do not make up the axis");
  k = n->nout;
  if (pieces != k) {
    vram__fail(g, VRAM_ERR_SHAPE, "other outputs than pieces (found ");
    vram__more_i(g, k);
    vram__more(g, " names, expected ");
    vram__more_i(g, pieces);
    vram__more(g, ")");
    return 0;
  }
  return 1;
}

static int vram__shape_unbind(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!x->ndim)
    return vram__bad(g, n, "unbind of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (x->v[a] != (int64_t)n->nout)
    return vram__bad(g, n, "other outputs than the axis has");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  for (i = 0; i < n->nout; i++)
    if (!vram__out(g, n, i, m, size, n->in[0]->dtype))
      return 0;
  return 1;
}

/* TensorShape.h, cat_should_skip_tensor: an empty list is left out whatever the others are */
static int vram__cat_skips(const vram_dims *d) { return d->ndim == 1 && !d->v[0]; }

static int vram__shape_cat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  for (k = 1; k < n->nin && vram__cat_skips(x); k++)
    x = n->in[k]->d;
  if (!x->ndim)
    return vram__bad(g, n, "cat of tensors without axes");
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
      return vram__bad(g, n, "cat of tensors of different axes");
    for (i = 0; i < x->ndim; i++)
      if (i == a) {
        if (d->v[i] > INT64_MAX / 2 - size[a])
          return vram__bad(g, n, "a size out of range");
        size[a] += d->v[i];
      } else if (d->v[i] != size[i])
        return vram__bad(g, n, "cat of tensors of different sizes");
  }
  return vram__out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

static int vram__shape_stack(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k, m = 0;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    for (i = 0; i < x->ndim; i++)
      if (d->ndim != x->ndim || d->v[i] != x->v[i])
        return vram__bad(g, n, "stack of tensors of different sizes");
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
  }
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? (int64_t)n->nin : x->v[m++];
  return vram__out(g, n, 0, x->ndim + 1u, size, vram__promote_get(&p));
}

static int vram__shape_create(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  uint8_t dt = n->nin ? n->in[0]->dtype : (uint8_t)VRAM__INT(n, dtype, VRAM_F32);
  return vram__out(g, n, 0, c, v, dt);
}

static int vram__shape_parameter(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, VRAM_F32);
  int buffer = n->op == VRAM_OP_buffer;
  if (!vram__own(g, n, 0, buffer ? "buffer" : "parameter", c, v, dt,
                 buffer ? VRAM__BUFFER : VRAM__PARAM))
    return 0;
  n->out[0].flags |= VRAM__ISPARAM;
  return vram__out_d(n, 0, n->param[0]->d, n->param[0]->dtype);
}

/* Losses. cross_entropy and nll_loss: classes along axis 1; ctc_loss: [T,N,C]; the others element
   by element, cosine_embedding_loss and triplet_margin_loss along the last axis. */
static int vram__shape_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *t = n->nin > 1 ? n->in[1]->d : NULL;
  int64_t size[VRAM_MAX_AXES], red = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  uint32_t i, m = 0, k;
  const int none = red == VRAM__WORD("none"),
            last = n->op == VRAM_OP_cosine_embedding_loss || n->op == VRAM_OP_triplet_margin_loss;
  uint8_t dt = n->in[0]->dtype;
  if (!none && red != VRAM__WORD("mean") && red != VRAM__WORD("sum") &&
      !(red == VRAM__WORD("batchmean") && n->op == VRAM_OP_kl_div))
    return vram__bad(g, n, "reduction must be none, mean or sum");
  if (vram__kind_rank(dt) != 2)
    return vram__bad(g, n, "a loss of a tensor that is not floating point");
  for (i = 0; i < n->nin; i++)
    if (!n->in[i]->d->numel)
      return vram__bad(g, n, "a loss of an empty tensor");
  switch (n->op) {
  case VRAM_OP_cross_entropy:
  case VRAM_OP_nll_loss:
    if (!x->ndim)
      return vram__bad(g, n, "a loss of a tensor without axes");
    k = x->ndim > 1;
    for (i = 0; i < x->ndim; i++)
      if (i != k)
        size[m++] = x->v[i];
    if (t && vram__is_float(n->in[1]->dtype)) { /* probabilities */
      for (i = 0; i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
        i++;
      if (n->op == VRAM_OP_nll_loss || i < x->ndim)
        return vram__bad(g, n, "a target of another shape");
    } else if (t) {
      for (i = 0; i < m && t->ndim == m && t->v[i] == size[i];)
        i++;
      if (t->ndim != m || i < m)
        return vram__bad(g, n, "a target of another shape");
      if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_U8)
        return vram__bad(g, n, "a target of class numbers must be i64");
    }
    break;
  case VRAM_OP_ctc_loss:
    if (x->ndim != 2 && x->ndim != 3)
      return vram__bad(g, n, "log-probabilities must be [T,N,C] or [T,C]");
    if (x->ndim == 3)
      size[m++] = x->v[1];
    if (t && (t->ndim < 1 || t->ndim > 2 || (t->ndim == 2 && (!m || t->v[0] != size[0]))))
      return vram__bad(g, n, "targets must be [N,S] or [S]");
    if (t && n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
      return vram__bad(g, n, "targets must be i64");
    k = t ? (uint32_t)(t->ndim == 2) : 0;
    if (vram__mul(vram__mul((uint64_t)x->v[0], m ? (uint64_t)size[0] : 1),
                  vram__mul(16, 2 * (t ? (uint64_t)t->v[k] : (uint64_t)x->v[0]) + 1)) ==
        VRAM_OVERFLOW) {
      vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
      return 0;
    }
    break;
  case VRAM_OP_binary_cross_entropy:
  case VRAM_OP_binary_cross_entropy_with_logits:
    for (i = 0; t && i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
      i++;
    if (t && (t->ndim != x->ndim || i < x->ndim))
      return vram__bad(g, n, "a target of another shape");
    for (; m < x->ndim; m++)
      size[m] = x->v[m];
    break;
  default:
    if (last && !x->ndim)
      return vram__bad(g, n, "a loss of a tensor without axes");
    k = n->op == VRAM_OP_cosine_embedding_loss ? 2 : n->nin;
    for (i = 0; i < n->nin && i < k; i++)
      if (!vram__bcast(&m, size, n->in[i]->d))
        return vram__bad(g, n, "shapes do not broadcast");
    if (last)
      m--;
    if (n->op == VRAM_OP_cosine_embedding_loss) {
      t = n->nin > 2 ? n->in[2]->d : NULL;
      if (m > 1 || (t && (t->ndim != m || (m && t->v[0] != size[0]))))
        return vram__bad(g, n, "cosine_embedding_loss takes [N,D], [N,D] and [N]");
    }
    if (!vram__dims_of(g, m + (uint32_t)last, size)) /* the broadcast shape must fit as well */
      return 0;
  }
  if (n->op != VRAM_OP_cross_entropy && n->op != VRAM_OP_nll_loss && n->op != VRAM_OP_ctc_loss)
    for (i = 1; i < n->nin && i < (n->op == VRAM_OP_cosine_embedding_loss ? 2 : 3); i++)
      dt = vram__promote2(dt, n->in[i]->dtype);
  return vram__out(g, n, 0, none ? m : 0, size, dt);
}

/* An equation of einsum: every label gets a position, those of the result first (Linear.cpp). */
#define VRAM__MAX_LABELS 60u /* 52 letters and the axes of an ellipsis */

typedef struct vram__labels {
  const char *text;
  uint32_t len, nout, n; /* positions of the result, and in all */
  uint32_t dots;         /* axes of the ellipsis; their first position: */
  uint32_t dots_at;
  uint8_t at[52];    /* label -> position + 1 */
  uint8_t count[60]; /* operands whose axis at this position is not 1 */
  int64_t size[60];
} vram__labels;

static int vram__label(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* The positions of the axes of the operand whose labels begin at *p, which moves behind them and
   their comma. -1: they do not fit the operand. A position can come twice: a diagonal. */
static int vram__label_axes(const vram__labels *l, const char **p, uint32_t ndim, uint8_t *to) {
  const char *q = *p, *end = l->text + l->len;
  uint32_t letters = 0, m = 0, i;
  int dots = 0;
  for (; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.')
      dots = 1;
    else
      letters++;
  if (letters > ndim || (!dots && letters != ndim) || ndim - letters > l->dots)
    return -1;
  for (q = *p; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.') {
      for (i = l->dots - (ndim - letters); i < l->dots; i++)
        to[m++] = (uint8_t)(l->dots_at + i);
      q += 2;
    } else
      to[m++] = (uint8_t)(l->at[vram__label(*q)] - 1);
  *p = q < end && *q == ',' ? q + 1 : q;
  return 0;
}

/* Gives every label its position, and the sizes. 0: an equation that PyTorch rejects (*what). */
static int vram__label_all(vram__labels *l, const vram_node *n, const char **what) {
  uint32_t c, i, k, letters, used[52], dots_out = 0;
  const int64_t *v = vram__list(n, VRAM__KEY_equation, &c);
  const char *p, *end, *arrow = NULL;
  uint8_t axis[VRAM_MAX_AXES];
  vram__zero(l, sizeof *l);
  vram__zero(used, sizeof used);
  l->text = (const char *)(uintptr_t)v[0];
  l->len = (uint32_t)v[1];
  p = l->text, end = p + l->len;
  *what = "an equation with other signs than letters, commas, ... and ->";
  for (k = 0; k < n->nin; k++) { /* letters of the operands */
    int dots = 0;
    for (letters = 0; p < end && *p != ',' && *p != '-'; p++)
      if (*p == '.') {
        if (dots || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        dots = 1;
        p += 2;
      } else {
        if (vram__label(*p) < 0)
          return 0;
        used[vram__label(*p)]++;
        letters++;
      }
    if (dots && n->in[k]->d->ndim >= letters && n->in[k]->d->ndim - letters > l->dots)
      l->dots = n->in[k]->d->ndim - letters;
    if (k + 1 < n->nin) {
      *what = "other operands than the equation has";
      if (p == end || *p != ',')
        return 0;
      *what = "an equation with other signs than letters, commas, ... and ->";
      p++;
    }
  }
  if (p < end && *p == ',') {
    *what = "other operands than the equation has";
    return 0;
  }
  if (p < end) {
    if (end - p < 2 || p[1] != '>')
      return 0;
    arrow = p + 2;
  }
  if (arrow) {
    for (p = arrow; p < end; p++)
      if (*p == '.') {
        if (dots_out || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        p += 2;
        l->dots_at = l->n, l->n += l->dots, dots_out = 1;
      } else {
        int a = vram__label(*p);
        if (a < 0)
          return 0;
        *what = "a label of the result that is there twice or in no operand";
        if (l->at[a] || !used[a])
          return 0;
        *what = "an equation with other signs than letters, commas, ... and ->";
        l->at[a] = (uint8_t)++l->n;
      }
  } else { /* the ellipsis, then every label that is there once, in alphabetical order */
    l->n = l->dots, dots_out = 1;
    for (i = 0; i < 52; i++)
      if (used[i] == 1)
        l->at[i] = (uint8_t)++l->n;
  }
  l->nout = l->n;
  if (!dots_out)
    l->dots_at = l->n, l->n += l->dots;
  for (i = 0; i < 52; i++)
    if (used[i] && !l->at[i])
      l->at[i] = (uint8_t)++l->n;
  for (i = 0; i < l->n; i++)
    l->size[i] = 1;
  for (p = l->text, k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    uint64_t mine = 0;
    *what = "an operand of another number of axes than its labels";
    if (vram__label_axes(l, &p, d->ndim, axis))
      return 0;
    *what = "sizes that differ for one label";
    for (i = 0; i < d->ndim; i++) {
      int64_t *z = l->size + axis[i];
      if (d->v[i] != 1 && *z != 1 && *z != d->v[i])
        return 0;
      if (d->v[i] == 1)
        continue;
      *z = d->v[i];
      if (!(mine >> axis[i] & 1))
        l->count[axis[i]]++;
      mine |= UINT64_C(1) << axis[i];
    }
  }
  return 1;
}

static int vram__shape_einsum(vram_graph *g, vram_node *n) {
  vram__labels l;
  const char *what, *p;
  uint8_t axis[VRAM_MAX_AXES];
  uint64_t all = 0, mine;
  uint32_t k, i, wide;
  vram__promote pr;
  if (!vram__label_all(&l, n, &what))
    return vram__bad(g, n, what);
  vram__zero(&pr, sizeof pr);
  for (p = l.text, k = 0; k < n->nin; k++) { /* the widest tensor on the way */
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&pr, n->in[k]->dtype, d->ndim);
    vram__label_axes(&l, &p, d->ndim, axis);
    for (mine = 0, i = 0; i < d->ndim; i++)
      if (d->v[i] != 1)
        mine |= UINT64_C(1) << axis[i];
    all |= mine;
    for (wide = 0, i = 0; i < l.n; i++)
      wide += (uint32_t)(all >> i & 1);
    if (wide > VRAM_MAX_AXES)
      return vram__bad(g, n, "an intermediate result of more than 8 axes");
    for (i = l.nout; k && i < l.n; i++)
      if ((all >> i & 1) && (l.count[i] == 1 || ((mine >> i & 1) && --l.count[i] == 1)))
        all &= ~(UINT64_C(1) << i);
  }
  if (l.nout > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  g->extra += (uint64_t)n->nin * 4096;
  return vram__out(g, n, 0, l.nout, l.size, vram__promote_get(&pr));
}

typedef struct vram__s vram__s;
typedef struct vram__run vram__run;
typedef struct vram__t vram__t;
typedef int (*vram__shape_fn)(vram_graph *, vram_node *);

VRAM__ONCE_END

typedef struct vram__op_row {
  const char *name, *recipe, *keys;
  vram__shape_fn shape;
  uint16_t lo, hi;
  uint8_t autocast;
} vram__op_row;
