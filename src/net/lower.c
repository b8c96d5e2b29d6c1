/* ---- lowering: a model as lines ----

    First every node that the outputs need becomes a step on tensors (`vram__low_`
   + what it is); then the steps become lines one after the other, with KEEP and FROM where values
   wait.

   A value's place in memory: `vram__layout` lists its axes, or parts of them, from the outermost to
   the innermost. Views of the graph (reshape, permute, ...) only change what the list means; a
   TRANSPOSE is made where a step needs another order than there is. */

enum { VRAM__LOW_ATOMS = 16, VRAM__LOW_NAME = 40, VRAM__LOW_TEXT = 56 };
enum { VRAM__LOW_NONE, VRAM__LOW_TENSOR, VRAM__LOW_CONSTANT };
enum { VRAM__LOW_ONE, VRAM__LOW_BOTH, VRAM__LOW_JOIN, VRAM__LOW_MANY };
#define VRAM__LOW_NO UINT32_MAX

typedef struct vram__layout {
  uint32_t n;     /* atoms, in the order of memory */
  uint32_t batch; /* 1: the first one is the batch */
  uint32_t loose; /* bit i: atom i may change places with others: nobody has read it yet */
  uint8_t axis[VRAM__LOW_ATOMS];
  uint8_t place[VRAM__LOW_ATOMS]; /* in the order of the axes */
  int64_t size[VRAM__LOW_ATOMS];  /* more than 1 */
} vram__layout;

typedef struct vram__low_value { /* of the graph */
  uint8_t kind, need, noise, like_input;
  uint32_t at;               /* tensor; of a constant: the value that holds the next two */
  uint64_t params, elements; /* of a constant: not counted yet, not stored yet */
  vram__layout lay;
} vram__low_value;

typedef struct vram__low_tensor {
  int64_t h, w, c;     /* as the line that makes it has them */
  uint32_t step, uses; /* the step that makes it, steps that read it */
  uint32_t instead;    /* the tensor that overwrote it; itself: none */
  uint32_t kept;       /* the KEEP line that holds it, 0: none */
  uint32_t line;       /* that made it */
  uint8_t output, fixed;
} vram__low_tensor;

typedef struct vram__low_in {
  uint32_t tensor;
  int64_t h, w, c; /* as the step reads it; c 0: as it is */
} vram__low_in;

typedef struct vram__low_step {
  vram_net_line line; /* kind and arguments */
  const vram_node *node;
  const char *suffix; /* of the name */
  uint32_t how, first, count, out;
  uint32_t behind; /* the step that is fused behind it */
  int fused;
} vram__low_step;

typedef struct vram__low {
  const vram_graph *g;
  vram_net_lower_options o;
  vram_net *net;
  vram_error *err;
  uint8_t *mem;
  uint64_t used, cap;
  vram__low_value *value;
  uint8_t *claimed; /* parameters that a line has counted */
  vram__low_tensor *tensor;
  vram__low_step *step;
  vram__low_in *in;
  uint32_t *hash; /* of the names of lines */
  uint32_t ntensor, nstep, nin, max_in, current;
  int64_t n, h, w, c; /* batch; the value in hand */
  uint8_t out_of[VRAM_FORMAT_COUNT];
} vram__low;

static int vram__low_fail(vram__low *l, const vram_node *n, vram_result code, const char *what) {
  char name[VRAM_MAX_NAME + 1];
  vram__chain_error(l->err, code, n ? n->line : 0, "");
  if (l->err && n) {
    l->err->column = n->line ? 1 : 0;
    vram_node_name(n, name, 100);
    vram__chain_say(l->err, name);
    vram__chain_say(l->err, " (");
    vram__chain_say(l->err, vram_op_name(n->op));
    vram__chain_say(l->err, "): ");
  }
  vram__chain_say(l->err, what);
  return 0;
}

static int vram__low_not(vram__low *l, const vram_node *n, const char *what) {
  return vram__low_fail(l, n, VRAM_ERR_UNSUPPORTED, what);
}

/* ---- layouts ---- */

static void vram__layout_drop(vram__layout *y, uint32_t i) {
  const uint32_t low = (UINT32_C(1) << i) - 1;
  uint32_t k;
  y->loose = (y->loose & low) | (y->loose >> 1 & ~low);
  for (k = i; k + 1 < y->n; k++) {
    y->axis[k] = y->axis[k + 1];
    y->place[k] = y->place[k + 1];
    y->size[k] = y->size[k + 1];
  }
  if (!i && y->n)
    y->batch = 0;
  y->n--;
}

/* Room for an atom before atom i; 0: there are too many. */
static int vram__layout_room(vram__layout *y, uint32_t i) {
  const uint32_t low = (UINT32_C(1) << i) - 1;
  uint32_t k;
  if (y->n == VRAM__LOW_ATOMS)
    return 0;
  y->loose = (y->loose & low) | (y->loose & ~low) << 1;
  for (k = y->n++; k > i; k--) {
    y->axis[k] = y->axis[k - 1];
    y->place[k] = y->place[k - 1];
    y->size[k] = y->size[k - 1];
  }
  return 1;
}

/* The atom that is number `place` in the order of the axes. */
static uint32_t vram__layout_at(const vram__layout *y, uint32_t place) {
  uint32_t i = 0;
  while (i < y->n && y->place[i] != place)
    i++;
  return i;
}

/* Numbers the places again, by axis and old place. */
static void vram__layout_number(vram__layout *y) {
  uint8_t old[VRAM__LOW_ATOMS];
  uint32_t i, k;
  for (i = 0; i < y->n; i++)
    old[i] = y->place[i];
  for (i = 0; i < y->n; i++)
    for (k = 0, y->place[i] = 0; k < y->n; k++)
      y->place[i] = (uint8_t)(y->place[i] + (y->axis[k] < y->axis[i] ||
                                             (y->axis[k] == y->axis[i] && old[k] < old[i])));
}

/* Atoms that are next to each other in memory and in the order of the axes are one. */
static void vram__layout_merge(vram__layout *y) {
  uint32_t i = y->batch;
  while (i + 1 < y->n) {
    if (y->place[i] + 1 == y->place[i + 1] && (y->loose >> i & 1) == (y->loose >> (i + 1) & 1)) {
      const uint8_t gone = y->place[i + 1];
      uint32_t k;
      y->size[i] *= y->size[i + 1];
      vram__layout_drop(y, i + 1);
      for (k = 0; k < y->n; k++)
        y->place[k] = (uint8_t)(y->place[k] - (y->place[k] > gone));
    } else
      i++;
  }
}

/* Splits atom i: `outer` of it comes first. */
static int vram__layout_split(vram__layout *y, uint32_t i, int64_t outer) {
  uint32_t k;
  if (!vram__layout_room(y, i))
    return 0;
  if (y->loose >> (i + 1) & 1)
    y->loose |= UINT32_C(1) << i;
  for (k = 0; k < y->n; k++)
    if (k != i && y->place[k] > y->place[i + 1])
      y->place[k]++;
  y->axis[i] = y->axis[i + 1];
  y->place[i] = y->place[i + 1];
  y->place[i + 1]++;
  y->size[i] = outer;
  y->size[i + 1] /= outer;
  return 1;
}

/* The same memory with other axes; 0: the atoms do not divide like that. */
static int vram__layout_view(vram__layout *y, const vram_dims *d) {
  uint32_t a, at = 0;
  vram__layout_merge(y);
  for (a = 0; a < d->ndim; a++) {
    int64_t left = d->v[a];
    while (left > 1) {
      const uint32_t i = vram__layout_at(y, at);
      if (i == y->n)
        return 0;
      if (left % y->size[i]) {
        if (y->size[i] % left || (y->batch && !i) || !vram__layout_split(y, i, left))
          return 0;
      }
      left /= y->size[i];
      y->axis[i] = (uint8_t)a;
      at++;
    }
  }
  return 1;
}

/* The layout of a tensor of these axes: memory has them in this order. */
static void vram__layout_make(vram__layout *y, const vram_dims *d, const uint32_t *order,
                              uint32_t batch_axis, int has_batch) {
  uint32_t i;
  vram__zero(y, sizeof *y);
  for (i = 0; i < d->ndim; i++)
    if (d->v[order[i]] > 1) {
      y->axis[y->n] = y->place[y->n] = (uint8_t)order[i];
      y->size[y->n++] = d->v[order[i]];
    }
  vram__layout_number(y);
  y->batch = has_batch && y->n && y->axis[0] == batch_axis;
}

/* Elements of the atoms of these axes (bits); the batch is none of them. */
static int64_t vram__layout_of(const vram__layout *y, uint32_t axes) {
  int64_t z = 1;
  uint32_t i;
  for (i = y->batch; i < y->n; i++)
    if (axes >> y->axis[i] & 1)
      z *= y->size[i];
  return z;
}

/* Axis a gets another size, as one atom where its first one was. */
static int vram__layout_resize(vram__layout *y, uint32_t a, int64_t size) {
  uint32_t i = y->batch, where = VRAM__LOW_NO, loose = 0;
  while (i < y->n)
    if (y->axis[i] == a) {
      where = where < i ? where : i;
      loose = y->loose >> i & 1;
      vram__layout_drop(y, i);
    } else
      i++;
  if (size > 1) {
    if (where == VRAM__LOW_NO)
      for (where = y->batch; where < y->n && y->axis[where] < a;)
        where++;
    if (!vram__layout_room(y, where))
      return 0;
    y->loose |= loose << where;
    y->axis[where] = (uint8_t)a;
    y->place[where] = 0;
    y->size[where] = size;
  }
  vram__layout_number(y);
  return 1;
}

/* Where memory is cut into h, w and c: 1, *i and *k are the first atoms of w and of c. */
static int vram__layout_cuts(const vram__layout *y, int64_t h, int64_t w, uint32_t *i,
                             uint32_t *k) {
  for (*i = y->batch; *i < y->n && h > 1 && h % y->size[*i] == 0; ++*i)
    h /= y->size[*i];
  for (*k = *i; *k < y->n && w > 1 && w % y->size[*k] == 0; ++*k)
    w /= y->size[*k];
  return h == 1 && w == 1;
}

/* ---- tensors and steps ---- */

static vram__low_value *vram__low_of(vram__low *l, const vram_value *v) {
  vram__low_value *x = l->value + v->index;
  if (x->kind == VRAM__LOW_TENSOR)
    while (l->tensor[x->at].instead != x->at)
      x->at = l->tensor[x->at].instead;
  return x;
}

static uint32_t vram__low_tensor_new(vram__low *l, int64_t h, int64_t w, int64_t c) {
  vram__low_tensor *t = l->tensor + l->ntensor;
  vram__zero(t, sizeof *t);
  t->h = h, t->w = w, t->c = c;
  t->step = l->nstep - 1;
  t->instead = l->ntensor;
  return l->ntensor++;
}

/* A step with a new tensor of this shape; NULL: an error. */
static vram__low_step *vram__low_step_new(vram__low *l, const vram_node *n, vram_line_kind kind,
                                          int64_t h, int64_t w, int64_t c) {
  vram__low_step *s = l->step + l->nstep;
  if (l->nstep + 2 >= VRAM_MAX_NET_LINES) {
    vram__low_fail(l, n, VRAM_ERR_LIMIT, "more than 4096 lines");
    return NULL;
  }
  vram__zero(s, sizeof *s);
  l->nstep++;
  s->line.kind = kind;
  s->line.format = l->o.format;
  s->node = n;
  s->first = l->nin;
  s->behind = VRAM__LOW_NO;
  s->out = vram__low_tensor_new(l, h, w, c);
  return s;
}

static int vram__low_read(vram__low *l, vram__low_step *s, uint32_t tensor, int64_t h, int64_t w,
                          int64_t c) {
  vram__low_in *in = l->in + l->nin;
  uint32_t i;
  if (l->nin == l->max_in)
    return vram__low_fail(l, s->node, VRAM_ERR_LIMIT, "too many inputs in all");
  for (i = 0; i < s->count; i++)
    if (l->in[s->first + i].tensor == tensor)
      return 1; /* once is enough */
  in->tensor = tensor;
  in->h = h, in->w = w, in->c = c;
  l->nin++;
  s->count++;
  l->tensor[tensor].uses++;
  return 1;
}

/* What v becomes: the step's tensor with that layout. */
static int vram__low_gives(vram__low *l, const vram__low_step *s, const vram_value *v,
                           const vram__layout *lay) {
  vram__low_value *y = l->value + v->index;
  y->kind = VRAM__LOW_TENSOR;
  y->at = s->out;
  y->lay = *lay;
  return 1;
}

/* v is x. */
static int vram__low_same(vram__low *l, const vram_value *v, const vram__low_value *x) {
  vram__low_value *y = l->value + v->index;
  y->kind = x->kind;
  y->at = x->at;
  y->lay = x->lay;
  return 1;
}

/* The atoms of x in this order: as they are, by changing places that nobody has looked at, or by a
   copy of that shape. */
static int vram__low_order(vram__low *l, const vram_node *n, vram__low_value *x,
                           const uint8_t *order, int64_t h, int64_t w, int64_t c) {
  const vram__layout old = x->lay;
  vram__low_step *s;
  uint32_t i, moved = 0;
  for (i = 0; i < old.n; i++)
    if (order[i] != i)
      moved |= UINT32_C(1) << i;
  if (!moved)
    return 1;
  for (i = 0; i < old.n; i++) {
    x->lay.axis[i] = old.axis[order[i]];
    x->lay.place[i] = old.place[order[i]];
    x->lay.size[i] = old.size[order[i]];
  }
  if ((moved & ~old.loose) == 0 && !l->tensor[x->at].uses && !l->tensor[x->at].fixed) {
    l->tensor[x->at].fixed = 1;
    return 1;
  }
  x->lay.loose = 0;
  s = vram__low_step_new(l, n, VRAM_LINE_TRANSPOSE, h, w, c);
  if (!s || !vram__low_read(l, s, x->at, 0, 0, 0))
    return 0;
  s->suffix = "_order";
  s->line.arg[0] = h, s->line.arg[1] = w, s->line.arg[2] = c;
  x->at = s->out;
  return 1;
}

/* Memory of x: the batch, the atoms of these axes one axis after the other. `any`: those of the
   last one in whatever order they are. h, w, c: the shape of a copy. */
static int vram__low_axes_order(vram__low *l, const vram_node *n, vram__low_value *x,
                                const uint32_t *axes, uint32_t naxes, int any, int64_t h, int64_t w,
                                int64_t c) {
  uint8_t order[VRAM__LOW_ATOMS];
  uint32_t m = 0, a, p, i;
  if (x->lay.batch)
    order[m++] = 0;
  for (a = 0; a < naxes; a++)
    for (p = 0; p < x->lay.n; p++) {
      i = any && a + 1 == naxes ? p : vram__layout_at(&x->lay, p);
      if (i >= x->lay.batch && x->lay.axis[i] == axes[a])
        order[m++] = (uint8_t)i;
    }
  if (m != x->lay.n)
    return vram__low_not(l, n, "its batch axis is not the batch of the network");
  return vram__low_order(l, n, x, order, h, w, c);
}

/* The atoms of these axes (bits) come last; *h, *w, *c: a shape with them as c. */
static int vram__low_last(vram__low *l, const vram_node *n, vram__low_value *x, uint32_t axes,
                          int strict, int64_t *h, int64_t *w, int64_t *c) {
  uint8_t order[VRAM__LOW_ATOMS];
  const int64_t last = vram__layout_of(&x->lay, axes), rest = vram__layout_of(&x->lay, ~axes);
  uint32_t m = 0, p, i;
  if (x->lay.batch && (axes >> x->lay.axis[0] & 1))
    return vram__low_not(l, n, "it works across the batch");
  for (i = 0; i < x->lay.n; i++)
    if (!(axes >> x->lay.axis[i] & 1))
      order[m++] = (uint8_t)i;
  for (p = 0; p < x->lay.n; p++) {
    i = strict ? vram__layout_at(&x->lay, p) : p;
    if (axes >> x->lay.axis[i] & 1)
      order[m++] = (uint8_t)i;
  }
  if (!vram__low_order(l, n, x, order, rest, 1, last))
    return 0;
  *h = l->tensor[x->at].h, *w = l->tensor[x->at].w, *c = last;
  if (l->tensor[x->at].c != last)
    *h = rest, *w = 1;
  return 1;
}

/* ---- weights ---- */

static const struct {
  uint8_t activation, weight, bias, scales;
} vram__low_format[] = {
#define VRAM__X(id, activation, weight, bias, scales) {activation, weight, bias, scales},
    VRAM_NET_FORMATS(VRAM__X)
#undef VRAM__X
};

static uint64_t vram__low_weight_bytes(const vram__low *l, uint64_t elements) {
  const vram_dtype_info *d = &vram__dtype_rows[vram__low_format[l->o.format].weight];
  return (elements * d->block_bytes + d->block_elements - 1) / d->block_elements;
}

static uint64_t vram__low_bias_bytes(const vram__low *l, uint64_t count) {
  return count * vram__low_format[l->o.format].bias;
}

/* Of so many matrices; channels: of a convolution, 0: none. */
static uint64_t vram__low_scale_bytes(const vram__low *l, uint64_t matrices, uint64_t channels) {
  const uint8_t how = vram__low_format[l->o.format].scales;
  return how == 0 ? 0 : 8 * (how > 1 && channels ? channels : matrices);
}

static uint64_t vram__low_bytes(const vram__low *l, uint64_t elements) { /* of activations */
  const vram_dtype_info *d = &vram__dtype_rows[vram__low_format[l->o.format].activation];
  return (elements * d->block_bytes + d->block_elements - 1) / d->block_elements;
}

/* 1: no line has counted the parameters of n, which owns them; from now on one has. */
static int vram__low_claim(vram__low *l, const vram_node *n) {
  uint32_t i, mine = 1;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && l->claimed[n->param[i]->index]++)
      mine = 0;
  return (int)mine;
}

/* The constant that v is, and what of it a line must still store. */
static vram__low_value *vram__low_constant(vram__low *l, const vram_value *v) {
  vram__low_value *x = l->value + v->index;
  return x->kind == VRAM__LOW_CONSTANT ? l->value + x->at : NULL;
}

/* The step's constants are its weights. */
static void vram__low_store(vram__low *l, const vram_node *n, vram__low_step *s) {
  uint64_t params = (uint64_t)s->line.arg[3], bytes = (uint64_t)s->line.arg[4];
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    vram__low_value *k = vram__low_constant(l, n->in[i]);
    if (k && !k->noise) {
      params += k->params;
      bytes += vram__low_weight_bytes(l, k->elements);
      k->params = k->elements = 0;
    }
  }
  s->line.arg[3] = (int64_t)params;
  s->line.arg[4] = (int64_t)bytes;
}

/* ---- nodes ---- */

/* A key with one value, or one for each of k axes. */
static void vram__low_key(const vram_node *n, uint32_t key, uint32_t k, int64_t def, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__list(n, key, &c);
  for (i = 0; i < k; i++)
    to[i] = v ? v[c == 1 ? 0 : i] : def;
}

/* A CUSTOM step that reads all tensors among n's inputs, and keeps its constants. */
static vram__low_step *vram__low_custom(vram__low *l, const vram_node *n, int64_t h, int64_t w,
                                        int64_t c) {
  vram__low_step *s = vram__low_step_new(l, n, VRAM_LINE_CUSTOM, h, w, c);
  uint32_t i;
  if (!s)
    return NULL;
  s->how = VRAM__LOW_MANY;
  s->line.arg[0] = h, s->line.arg[1] = w, s->line.arg[2] = c;
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *x = vram__low_of(l, n->in[i]);
    if (x->kind == VRAM__LOW_TENSOR && !vram__low_read(l, s, x->at, 0, 0, 0))
      return NULL;
  }
  vram__low_store(l, n, s);
  return s;
}

/* Anything that reads its inputs and writes one new tensor: laid out as its first input where that
   has as many axes, else as its axes stand. */
static int vram__low_any(vram__low *l, const vram_node *n, uint64_t params, uint64_t bytes,
                         uint64_t macs, uint64_t scratch) {
  const vram_dims *d = n->out[0].d;
  const vram__low_value *x = NULL;
  vram__layout y;
  vram__low_step *s;
  uint32_t order[VRAM_MAX_AXES], i, k;
  const int64_t all = (int64_t)d->numel / l->n;
  int64_t h, w, c;
  const int batch = l->n > 1;
  int same = 0, changed = 0;
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_not(l, n, "its result is not floating point: no line has such values");
  if (!d->numel)
    return vram__low_not(l, n, "a value of no elements");
  for (i = 0; i < n->nin && !x; i++)
    if (vram__low_of(l, n->in[i])->kind == VRAM__LOW_TENSOR) {
      x = vram__low_of(l, n->in[i]);
      same = n->in[i]->d->ndim == d->ndim;
    }
  if (!x)
    return vram__low_not(l, n, "it has no input");
  y = x->lay;
  h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c;
  for (i = 0; i < d->ndim && same; i++) {
    const int64_t was =
        vram__layout_of(&y, UINT32_C(1) << i) * (y.batch && y.axis[0] == i ? l->n : 1);
    if (was == d->v[i])
      continue;
    changed = 1;
    same = !(y.batch && y.axis[0] == i) && vram__layout_resize(&y, i, d->v[i]);
  }
  if (!same) {
    for (i = 0; i < d->ndim; i++)
      order[i] = i;
    if (batch && (!d->ndim || d->v[0] % l->n))
      return vram__low_not(l, n, "its result has not the batch of the network as its first axis");
    vram__layout_make(&y, d, order, 0, batch && d->v[0] == l->n);
    if (batch && d->v[0] != l->n) { /* the batch and more in one axis */
      if (!vram__layout_split(&y, 0, l->n))
        return vram__low_not(l, n, "too many axes");
      y.batch = 1;
    }
  }
  if (!same || changed) {
    for (c = 1, k = y.n; k > y.batch && y.axis[k - 1] == y.axis[y.n - 1]; k--)
      c *= y.size[k - 1];
    h = all / c, w = 1;
  }
  y.loose = 0;
  s = vram__low_custom(l, n, h, w, c);
  if (!s)
    return 0;
  s->line.arg[3] += (int64_t)params;
  s->line.arg[4] += (int64_t)bytes;
  s->line.arg[5] = (int64_t)macs;
  s->line.arg[6] = (int64_t)scratch;
  return vram__low_gives(l, s, n->out, &y);
}

/* One input, one output of the same shape; in place where that is possible. */
static int vram__low_pointwise(vram__low *l, const vram_node *n, vram__low_value *x,
                               vram_line_kind kind) {
  vram__low_step *s =
      vram__low_step_new(l, n, kind, l->tensor[x->at].h, l->tensor[x->at].w, l->tensor[x->at].c);
  return s && vram__low_read(l, s, x->at, 0, 0, 0) && vram__low_gives(l, s, n->out, &x->lay);
}

static int vram__low_norm(vram__low *l, const vram_node *n, vram__low_value *x) {
  const uint64_t c =
      n->op == VRAM_OP_batch_norm || n->op == VRAM_OP_group_norm || n->op == VRAM_OP_instance_norm
          ? (uint64_t)n->in[0]->d->v[1]
          : 0;
  uint64_t elements = 0, count;
  uint32_t i, axes = 2, bn = n->op == VRAM_OP_batch_norm, own = 0;
  int mine = vram__low_claim(l, n);
  int64_t h, w, z;
  vram__low_step *s;
  if (!bn && !c) {
    vram__list(n, VRAM__KEY_normalized_shape, &own);
    for (i = 0, axes = 0; i < own; i++)
      axes |= UINT32_C(1) << (n->in[0]->d->ndim - 1 - i);
  }
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      elements += n->param[i]->d->ndim ? n->param[i]->d->numel : 0;
  if (n->op == VRAM_OP_group_norm || n->op == VRAM_OP_instance_norm)
    return vram__low_any(l, n, mine ? elements : 0, mine ? vram__low_bias_bytes(l, elements) : 0, 0,
                         0);
  if (!vram__low_last(l, n, x, axes, 0, &h, &w, &z))
    return 0;
  count = (uint64_t)z * (bn ? 4 : n->op == VRAM_OP_layer_norm ? 2 : 1);
  if (!mine || elements != count || n->nin > 1)
    return vram__low_any(l, n, mine ? elements : 0, mine ? vram__low_bias_bytes(l, elements) : 0, 0,
                         0);
  s = vram__low_step_new(l, n,
                         bn                            ? VRAM_LINE_BATCH_NORM
                         : n->op == VRAM_OP_layer_norm ? VRAM_LINE_LAYER_NORM
                                                       : VRAM_LINE_RMS_NORM,
                         h, w, z);
  return s && vram__low_read(l, s, x->at, h, w, z) && vram__low_gives(l, s, n->out, &x->lay);
}

/* A constant as the weight of a linear or convolution: 1: nobody has stored it; now this has. */
static int vram__low_take(vram__low *l, const vram_value *v, uint64_t elements) {
  vram__low_value *k = vram__low_constant(l, v);
  if (!k || k->params != elements || k->elements != elements)
    return 0;
  k->params = k->elements = 0;
  return 1;
}

static int vram__low_conv(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *y = n->out[0].d;
  const uint32_t k = vram__spatial(n->op), lead = d->ndim - k;
  const int transposed = vram__is_transposed(n->op);
  const int64_t c = d->v[lead - 1], oc = y->v[lead - 1], groups = VRAM__INT(n, groups, 1),
                mode = VRAM__INT(n, padding_mode, VRAM__WORD("zeros"));
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dil[3] = {1, 1, 1},
          more[3] = {0, 0, 0}, h, w, z;
  int bias = n->nin > 2 || (n->nin == 1 && VRAM__INT(n, bias, 1)), mine, full, depthwise;
  const int same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  const uint64_t elements = (uint64_t)(transposed ? c * (oc / groups) : oc * (c / groups));
  uint64_t weights;
  uint32_t axes[3], i, batch = lead == 2;
  vram__low_step *s;
  vram__low_value padded;
  vram__layout out;
  if (k == 3)
    return vram__low_not(l, n, "no line has three axes beside the channels (possible: 1d and 2d)");
  vram__low_key(n, VRAM__KEY_kernel_size, k, 1, kernel);
  vram__low_key(n, VRAM__KEY_stride, k, 1, stride);
  vram__low_key(n, VRAM__KEY_dilation, k, 1, dil);
  vram__low_key(n, VRAM__KEY_output_padding, k, 0, more);
  if (!same)
    vram__low_key(n, VRAM__KEY_padding, k, 0, pad);
  weights = elements * (uint64_t)(kernel[0] * kernel[1]);
  if (n->nin == 1)
    mine = vram__low_claim(l, n);
  else {
    if (!vram__low_constant(l, n->in[1]))
      return vram__low_not(l, n, "its weight is computed from the input");
    mine = vram__low_take(l, n->in[1], weights) &&
           (n->nin == 2 || vram__low_take(l, n->in[2], (uint64_t)oc));
  }
  if (batch && d->v[0] != l->n)
    return vram__low_not(l, n, "its batch axis is not the batch of the network");
  h = d->v[lead], w = k == 2 ? d->v[lead + 1] : 1;
  axes[0] = lead, axes[1] = k == 2 ? lead + 1 : lead - 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, groups == 1 || groups == c, h, w, c))
    return 0;
  if (mode != VRAM__WORD("zeros") && (pad[0] || pad[1] || same)) {
    int64_t low[2], high[2];
    for (i = 0; i < 2; i++) {
      const int64_t all = dil[i] * (kernel[i] - 1);
      low[i] = same ? all / 2 : pad[i], high[i] = same ? all - all / 2 : pad[i];
    }
    s = vram__low_step_new(l, n, VRAM_LINE_PAD, h + low[0] + high[0], w + low[1] + high[1], c);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->suffix = "_pad";
    s->line.arg[0] = low[0], s->line.arg[1] = high[0];
    s->line.arg[2] = low[1], s->line.arg[3] = high[1];
    h += low[0] + high[0], w += low[1] + high[1];
    padded = *x; /* others read x as it was */
    padded.at = s->out;
    x = &padded;
    pad[0] = pad[1] = 0;
    out = x->lay;
    vram__layout_resize(&out, lead, h);
    if (k == 2)
      vram__layout_resize(&out, lead + 1, w);
  } else
    out = x->lay;
  for (i = 0; i < k; i++)
    vram__layout_resize(&out, lead + i, y->v[lead + i]);
  depthwise = groups > 1 && groups == c && !transposed;
  if (!depthwise) {
    vram__layout_resize(&out, lead - 1, 1);
    out.loose = 0;
  }
  /* the new channels lie innermost */
  if (depthwise ? oc != c : oc > 1) {
    vram__layout_resize(&out, lead - 1, 1);
    if (!vram__layout_room(&out, out.n))
      return vram__low_not(l, n, "too many axes");
    out.axis[out.n - 1] = (uint8_t)(lead - 1);
    out.place[out.n - 1] = 0;
    out.size[out.n - 1] = oc;
    vram__layout_number(&out);
  }
  z = k == 2 ? y->v[lead + 1] : 1;
  full = dil[0] != 1 || dil[1] != 1;
  if (!mine || (transposed && (full || groups != 1))) {
    const uint64_t bytes = vram__low_weight_bytes(l, weights) +
                           vram__low_bias_bytes(l, bias ? (uint64_t)oc : 0) +
                           vram__low_scale_bytes(l, 1, (uint64_t)oc);
    s = vram__low_custom(l, n, y->v[lead], z, oc);
    if (!s)
      return 0;
    if (mine) {
      s->line.arg[3] += (int64_t)(weights + (uint64_t)(bias ? oc : 0));
      s->line.arg[4] += (int64_t)bytes;
    }
    s->line.arg[5] = (int64_t)(vram_node_flops(n) / 2);
    return vram__low_gives(l, s, n->out, &out);
  }
  s = vram__low_step_new(l, n,
                         transposed            ? VRAM_LINE_CONV_TRANSPOSE2D
                         : depthwise && full   ? VRAM_LINE_DEPTHWISE_CONV2D_FULL
                         : depthwise           ? VRAM_LINE_DEPTHWISE_CONV2D
                         : full || groups != 1 ? VRAM_LINE_CONV2D_FULL
                                               : VRAM_LINE_CONV2D,
                         y->v[lead], z, oc);
  if (!s || !vram__low_read(l, s, x->at, h, w, c))
    return 0;
  i = 0;
  s->line.arg[i++] = depthwise ? oc / c : oc;
  s->line.arg[i++] = kernel[0], s->line.arg[i++] = kernel[1];
  s->line.arg[i++] = stride[0], s->line.arg[i++] = stride[1];
  if (full || s->line.kind == VRAM_LINE_CONV2D_FULL)
    s->line.arg[i++] = dil[0], s->line.arg[i++] = dil[1];
  if (s->line.kind == VRAM_LINE_CONV2D_FULL)
    s->line.arg[i++] = groups;
  if (transposed)
    s->line.arg[i++] = more[0], s->line.arg[i++] = more[1];
  s->line.arg[i] = bias;
  s->line.padding = same               ? VRAM_PADDING_SAME
                    : pad[0] || pad[1] ? VRAM_PADDING_PAD
                                       : VRAM_PADDING_VALID;
  s->line.pad_h = pad[0], s->line.pad_w = pad[1];
  return vram__low_gives(l, s, n->out, &out);
}

/* y = x w (+ b): linear, or a product with a constant matrix. */
static int vram__low_linear(vram__low *l, const vram_node *n, vram__low_value *x, int mine,
                            uint64_t bias) {
  const vram_dims *d = n->out[0].d;
  const uint32_t a = n->in[n->op == VRAM_OP_addmm ? 1 : 0]->d->ndim - 1u;
  const int64_t out = d->v[d->ndim - 1];
  int64_t h, w, c;
  vram__layout y;
  vram__low_step *s;
  if (!vram__low_last(l, n, x, UINT32_C(1) << a, 0, &h, &w, &c))
    return 0;
  y = x->lay;
  vram__layout_resize(&y, a, 1);
  y.loose = 0;
  if (out > 1) {
    if (!vram__layout_room(&y, y.n))
      return vram__low_not(l, n, "too many axes");
    y.axis[y.n - 1] = (uint8_t)a;
    y.place[y.n - 1] = 0;
    y.size[y.n - 1] = out;
    y.loose = UINT32_C(1) << (y.n - 1);
    vram__layout_number(&y);
  }
  if (mine) {
    s = vram__low_step_new(l, n, VRAM_LINE_LINEAR, h, w, out);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->line.arg[0] = out, s->line.arg[1] = bias != 0;
  } else { /* the weights are another line's */
    s = vram__low_step_new(l, n, VRAM_LINE_CUSTOM, h, w, out);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    s->how = VRAM__LOW_MANY;
    s->line.arg[0] = h, s->line.arg[1] = w, s->line.arg[2] = out;
    s->line.arg[3] = (int64_t)bias;
    s->line.arg[4] = (int64_t)vram__low_bias_bytes(l, bias);
    s->line.arg[5] = (int64_t)(vram_node_flops(n) / 2);
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* linear, with its own parameters or given ones */
static int vram__low_linear_node(vram__low *l, const vram_node *n, vram__low_value *x) {
  const uint64_t out = (uint64_t)n->out[0].d->v[n->out[0].d->ndim - 1];
  uint64_t bias = 0;
  int mine = 1;
  if (n->nin > 1) {
    const vram__low_value *w = vram__low_constant(l, n->in[1]);
    if (!w)
      return vram__low_not(l, n, "its weight is computed from the input");
    mine = vram__low_take(l, n->in[1], n->in[1]->d->numel);
    if (n->nin > 2 && vram__low_take(l, n->in[2], out))
      bias = out;
    return vram__low_linear(l, n, x, mine, bias);
  }
  /* of tied weights the bias may be its own */
  if (n->nparam > 1 && n->param[1] && !l->claimed[n->param[1]->index])
    bias = out;
  mine = vram__low_claim(l, n);
  return vram__low_linear(l, n, x, mine, bias);
}

static int vram__low_pool(vram__low *l, const vram_node *n, vram__low_value *x, int max) {
  const vram_dims *d = n->in[0]->d, *y = n->out[0].d;
  const uint32_t k = vram__spatial(n->op), lead = d->ndim - k;
  const int adaptive = n->op >= VRAM_OP_adaptive_avg_pool1d && n->op <= VRAM_OP_adaptive_max_pool3d;
  int64_t kernel[3] = {1, 1, 1}, stride[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, dil[3] = {1, 1, 1},
          in[2] = {1, 1}, out[2] = {1, 1}, c = d->v[lead - 1];
  uint32_t axes[3], i;
  vram__layout lay;
  vram__low_step *s;
  if (k == 3)
    return vram__low_not(l, n, "no line has three axes beside the channels (possible: 1d and 2d)");
  for (i = 0; i < k; i++)
    in[i] = d->v[lead + i], out[i] = y->v[lead + i];
  axes[0] = lead, axes[1] = k == 2 ? lead + 1 : lead - 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, 1, in[0], in[1], c))
    return 0;
  lay = x->lay;
  lay.loose = 0;
  for (i = 0; i < k; i++)
    vram__layout_resize(&lay, lead + i, out[i]);
  if (adaptive && out[0] == in[0] && out[1] == in[1]) {
    return vram__low_same(l, n->out, x);
  }
  if (adaptive && out[0] == 1 && out[1] == 1) {
    s = vram__low_step_new(l, n, max ? VRAM_LINE_GLOBAL_MAX_POOL2D : VRAM_LINE_GLOBAL_AVG_POOL2D, 1,
                           1, c);
    return s && vram__low_read(l, s, x->at, in[0], in[1], c) && vram__low_gives(l, s, n->out, &lay);
  }
  if (adaptive) {
    for (i = 0; i < 2; i++)
      kernel[i] = stride[i] = in[i] / out[i];
  } else {
    vram__low_key(n, VRAM__KEY_kernel_size, k, 1, kernel);
    for (i = 0; i < k; i++)
      stride[i] = kernel[i];
    if (vram__list(n, VRAM__KEY_stride, NULL))
      vram__low_key(n, VRAM__KEY_stride, k, 1, stride);
    vram__low_key(n, VRAM__KEY_padding, k, 0, pad);
    vram__low_key(n, VRAM__KEY_dilation, k, 1, dil);
  }
  if (dil[0] != 1 || dil[1] != 1 || (adaptive && (in[0] % out[0] || in[1] % out[1]))) {
    s = vram__low_custom(l, n, out[0], out[1], c);
    return s && vram__low_gives(l, s, n->out, &lay);
  }
  s = vram__low_step_new(l, n, max ? VRAM_LINE_MAX_POOL2D : VRAM_LINE_AVG_POOL2D, out[0], out[1],
                         c);
  if (!s || !vram__low_read(l, s, x->at, in[0], in[1], c))
    return 0;
  s->line.arg[0] = kernel[0], s->line.arg[1] = kernel[1];
  s->line.arg[2] = stride[0], s->line.arg[3] = stride[1];
  s->line.padding = VRAM__INT(n, ceil_mode, 0) ? VRAM_PADDING_PAD_CEIL
                    : pad[0] || pad[1]         ? VRAM_PADDING_PAD
                                               : VRAM_PADDING_VALID;
  s->line.pad_h = pad[0], s->line.pad_w = pad[1];
  return vram__low_gives(l, s, n->out, &lay);
}

/* mean, amax and the like: over all but the channels a global pool, else CUSTOM. */
static int vram__low_reduce(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d;
  const int64_t *v;
  uint32_t count, i, axes = 0, kept = 0, keep = VRAM__INT(n, keepdim, 0) != 0;
  vram__layout y;
  vram__low_step *s;
  int64_t h, w, c;
  v = vram__list(n, VRAM__KEY_dim, &count);
  for (i = 0; i < count; i++)
    axes |= UINT32_C(1) << (v[i] < 0 ? v[i] + d->ndim : v[i]);
  if (!v)
    axes = (UINT32_C(1) << d->ndim) - 1;
  if (x->lay.batch && (axes >> x->lay.axis[0] & 1))
    return vram__low_not(l, n, "it works across the batch");
  if (vram__kind_rank(n->out[0].dtype) != 2)
    return vram__low_not(l, n, "its result is not floating point: no line has such values");
  for (i = 0; i < d->ndim; i++)
    if (!(axes >> i & 1) && !(x->lay.batch && x->lay.axis[0] == i))
      kept |= UINT32_C(1) << i;
  if ((n->op == VRAM_OP_mean || n->op == VRAM_OP_amax || n->op == VRAM_OP_max) &&
      vram__layout_of(&x->lay, axes) > 1 && vram__layout_of(&x->lay, kept) > 1 && n->nout == 1) {
    if (!vram__low_last(l, n, x, kept, 0, &h, &w, &c))
      return 0;
    s = vram__low_step_new(
        l, n, n->op == VRAM_OP_mean ? VRAM_LINE_GLOBAL_AVG_POOL2D : VRAM_LINE_GLOBAL_MAX_POOL2D, 1,
        1, c);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
  } else {
    for (i = 1; i < n->nout; i++)
      if (l->value[n->out[i].index].need)
        return vram__low_not(l, n, "its second output (possible: the values alone)");
    c = vram__layout_of(&x->lay, kept);
    h = l->tensor[x->at].h, w = l->tensor[x->at].w;
    if (h * w != c)
      h = 1, w = 1;
    else
      c = 1;
    s = vram__low_custom(l, n, h, w, c);
    if (!s)
      return 0;
  }
  y = x->lay;
  y.loose = 0;
  for (i = 0; i < d->ndim; i++)
    if (axes >> i & 1)
      vram__layout_resize(&y, i, 1);
  if (!keep)
    for (i = 0; i < y.n; i++) {
      uint32_t a, less = 0;
      for (a = 0; a < y.axis[i]; a++)
        less += axes >> a & 1;
      y.axis[i] = (uint8_t)(y.axis[i] - less);
    }
  return vram__low_gives(l, s, n->out, &y);
}

/* Axis a of both in the same pieces; 0: that cannot be. */
static int vram__low_refine(vram__layout *x, vram__layout *y, uint32_t a) {
  uint32_t i, k, p = 0, q = 0;
  for (;;) {
    for (i = x->n; p < x->n && ((i = vram__layout_at(x, p)) == x->n || x->axis[i] != a); p++)
      i = x->n;
    for (k = y->n; q < y->n && ((k = vram__layout_at(y, q)) == y->n || y->axis[k] != a); q++)
      k = y->n;
    if (i == x->n || k == y->n)
      return i == x->n && k == y->n;
    if (x->size[i] > y->size[k]) {
      if (x->size[i] % y->size[k] || !vram__layout_split(x, i, y->size[k]))
        return 0;
    } else if (x->size[i] < y->size[k]) {
      if (y->size[k] % x->size[i] || !vram__layout_split(y, k, x->size[i]))
        return 0;
    }
    p++, q++;
  }
}

/* The atom of y that is the same piece of the same axis as atom i of x. */
static uint32_t vram__low_match(const vram__layout *x, uint32_t i, const vram__layout *y) {
  uint32_t before = 0, k, p;
  for (k = 0; k < x->n; k++)
    before += x->axis[k] == x->axis[i] && x->place[k] < x->place[i];
  for (p = 0; p < y->n; p++) {
    k = vram__layout_at(y, p);
    if (y->axis[k] == x->axis[i] && !before--)
      return k;
  }
  return y->n;
}

/* Two tensors, pointwise: ADD or MUL where h, w and c are each equal or 1, else CUSTOM. */
static int vram__low_binary(vram__low *l, const vram_node *n, vram_line_kind kind) {
  vram__low_value *x = vram__low_of(l, n->in[0]), *y = vram__low_of(l, n->in[1]);
  const vram_dims *d = n->out[0].d;
  vram__layout a, b;
  uint8_t order[VRAM__LOW_ATOMS];
  uint32_t i, k, m = 0, runs = 0, cut[2], swapped = 0;
  int64_t size[3] = {1, 1, 1}, other[3] = {1, 1, 1};
  int there[3] = {0, 0, 0}, fits;
  vram__low_step *s;
  if (n->in[0]->d->numel != d->numel ||
      (n->in[1]->d->numel == d->numel && n->in[0]->d->ndim < n->in[1]->d->ndim)) {
    vram__low_value *t = x;
    x = y, y = t;
    swapped = 1;
  }
  if (n->in[swapped]->d->numel != d->numel)
    return vram__low_any(l, n, 0, 0, 0, 0);
  a = x->lay, b = y->lay;
  for (i = 0; i < a.n; i++)
    a.axis[i] = (uint8_t)(a.axis[i] + d->ndim - n->in[swapped]->d->ndim);
  for (i = 0; i < b.n; i++)
    b.axis[i] = (uint8_t)(b.axis[i] + d->ndim - n->in[!swapped]->d->ndim);
  for (i = 0; i < d->ndim; i++) {
    uint32_t has = 0;
    for (k = 0; k < b.n; k++)
      has |= b.axis[k] == i;
    if (has && !vram__low_refine(&a, &b, i))
      return vram__low_any(l, n, 0, 0, 0, 0);
  }
  if (a.batch != b.batch)
    return vram__low_any(l, n, 0, 0, 0, 0);
  /* y in the order of x */
  for (i = 0; i < a.n; i++)
    if ((k = vram__low_match(&a, i, &b)) < b.n)
      order[m++] = (uint8_t)k;
  if (m != b.n)
    return vram__low_any(l, n, 0, 0, 0, 0);
  {
    vram__low_value sorted = *y;
    sorted.lay = b;
    if (!vram__low_order(l, n, &sorted, order, l->tensor[y->at].h, l->tensor[y->at].w,
                         l->tensor[y->at].c))
      return 0;
    b = sorted.lay;
    for (i = 0; i < b.n; i++)
      sorted.lay.axis[i] = (uint8_t)(b.axis[i] + n->in[!swapped]->d->ndim - d->ndim);
    *y = sorted;
  }
  /* as h, w and c */
  fits = vram__layout_cuts(&a, l->tensor[x->at].h, l->tensor[x->at].w, cut, cut + 1);
  for (i = a.batch; i < a.n; i++) {
    const uint32_t part = fits ? (uint32_t)(i >= cut[0]) + (uint32_t)(i >= cut[1]) : 0;
    const int has = vram__low_match(&a, i, &b) < b.n;
    if (size[part] > 1 && there[part] != has)
      fits = 0;
    there[part] = has;
    size[part] *= a.size[i];
  }
  if (!fits) { /* runs of atoms that y has, or has not */
    int last = -1;
    for (i = 0; i < 3; i++)
      size[i] = 1, there[i] = 0;
    for (i = a.batch; i < a.n; i++) {
      const int has = vram__low_match(&a, i, &b) < b.n;
      if (has != last && ++runs > 3)
        return vram__low_any(l, n, 0, 0, 0, 0);
      last = has;
      size[runs - 1] *= a.size[i];
      there[runs - 1] = has;
    }
    if (runs == 2) {
      size[2] = size[1], there[2] = there[1];
      size[1] = 1;
    } else if (runs == 1) {
      size[2] = size[0], there[2] = there[0];
      size[0] = 1;
    }
  } else
    size[0] = l->tensor[x->at].h, size[1] = l->tensor[x->at].w, size[2] = l->tensor[x->at].c;
  for (i = 0; i < 3; i++)
    if (there[i])
      other[i] = size[i];
  s = vram__low_step_new(l, n, x->at == y->at ? VRAM_LINE_ACTIVATION : kind, size[0], size[1],
                         size[2]);
  if (!s || !vram__low_read(l, s, x->at, size[0], size[1], size[2]) ||
      !vram__low_read(l, s, y->at, other[0], other[1], other[2]))
    return 0;
  s->how = x->at == y->at ? VRAM__LOW_ONE : VRAM__LOW_BOTH;
  a.loose = 0;
  return vram__low_gives(l, s, n->out, &a);
}

static int vram__low_cat(vram__low *l, const vram_node *n) {
  const vram_dims *d = n->out[0].d;
  const int64_t dim = VRAM__INT(n, dim, 0);
  const uint32_t a = (uint32_t)(dim < 0 ? dim + d->ndim : dim);
  vram__low_value *x = NULL;
  vram__layout y;
  vram__low_step *s;
  uint32_t i, k, tensors = 0;
  int join = n->op == VRAM_OP_cat, once = 1;
  int64_t h, w, c;
  for (i = 0; i < n->nin; i++) {
    vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind != VRAM__LOW_TENSOR) {
      join = 0;
      continue;
    }
    x = x ? x : v;
    tensors++;
    for (k = 0; k < i; k++)
      once &= vram__low_of(l, n->in[k])->at != v->at;
    if (v->lay.batch && n->op == VRAM_OP_cat && v->lay.axis[0] == a)
      return vram__low_not(l, n, "it works across the batch");
    /* the same order in all, the axis innermost */
    for (k = 0; k < v->lay.n && join; k++) {
      if (v->lay.axis[k] == a)
        join = k + 1 == v->lay.n;
      else
        join = k < x->lay.n && v->lay.axis[k] == x->lay.axis[k] && v->lay.size[k] == x->lay.size[k];
    }
    join = join && v->lay.n + (x->lay.n && x->lay.axis[x->lay.n - 1] == a) ==
                       x->lay.n + (v->lay.n && v->lay.axis[v->lay.n - 1] == a);
  }
  if (n->op != VRAM_OP_cat || !x)
    return vram__low_any(l, n, 0, 0, 0, 0);
  y = x->lay;
  y.loose = 0;
  if (!vram__layout_resize(&y, a, d->v[a]))
    return vram__low_not(l, n, "too many axes");
  if (vram__layout_of(&x->lay, UINT32_C(1) << a) == 1 && y.n && y.axis[y.n - 1] != a)
    join = 0; /* of single channels that lie somewhere */
  c = vram__layout_of(&x->lay, UINT32_C(1) << a);
  h = l->tensor[x->at].h, w = l->tensor[x->at].w;
  if (l->tensor[x->at].c != c)
    h = vram__layout_of(&x->lay, ~(UINT32_C(1) << a)), w = 1;
  if (!join || !once || tensors < 2 || tensors > 4) {
    if (y.n && y.axis[y.n - 1] == a)
      c = d->v[a];
    else
      c = (int64_t)d->numel / l->n, h = 1, w = 1;
    s = vram__low_custom(l, n, h, w, c);
    return s && vram__low_gives(l, s, n->out, &y);
  }
  s = vram__low_step_new(l, n,
                         tensors == 2   ? VRAM_LINE_CONCAT
                         : tensors == 3 ? VRAM_LINE_CONCAT3
                                        : VRAM_LINE_CONCAT4,
                         h, w, d->v[a]);
  if (!s)
    return 0;
  s->how = VRAM__LOW_JOIN;
  for (i = 0; i < n->nin; i++) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (!vram__low_read(l, s, v->at, h, w, n->in[i]->d->v[a]))
      return 0;
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* Output i is a part of x: axis a has that size then; gone: no such axis any more. */
static int vram__low_slice(vram__low *l, const vram_node *n, uint32_t i, uint32_t a, int64_t size,
                           int gone) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const int64_t was = n->in[0]->d->v[a];
  int64_t h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c, to[3];
  uint32_t k, at = VRAM__LOW_NO, atoms = 0, cut[2];
  vram__layout y = x->lay;
  vram__low_step *s = NULL;
  if (y.batch && y.axis[0] == a && size != was)
    return vram__low_not(l, n, "it works across the batch");
  if (size == 0)
    return vram__low_not(l, n, "a value of no elements");
  for (k = y.batch; k < y.n; k++)
    if (y.axis[k] == a)
      at = k, atoms++;
  if (size != was && !vram__layout_resize(&y, a, size))
    return vram__low_not(l, n, "too many axes");
  for (k = 0; k < y.n && gone; k++)
    y.axis[k] = (uint8_t)(y.axis[k] - (y.axis[k] > a));
  if (size == was) {
    vram__low_value *v = l->value + n->out[i].index;
    v->kind = VRAM__LOW_TENSOR, v->at = x->at, v->lay = y;
    return 1;
  }
  y.loose = 0;
  if (atoms == 1) {
    if (!vram__layout_cuts(&x->lay, h, w, cut, cut + 1) ||
        (at < cut[0]   ? cut[0] != x->lay.batch + 1u
         : at < cut[1] ? cut[1] - cut[0] != 1
                       : x->lay.n - cut[1] != 1)) {
      h = w = c = 1;
      for (k = x->lay.batch; k < x->lay.n; k++)
        *(k < at ? &h : k == at ? &w : &c) *= x->lay.size[k];
      if (c == 1)
        c = w, w = 1;
      vram__layout_cuts(&x->lay, h, w, cut, cut + 1);
    }
    to[0] = h, to[1] = w, to[2] = c;
    to[at < cut[0] ? 0 : at < cut[1] ? 1 : 2] = size;
    s = vram__low_step_new(l, n, VRAM_LINE_SLICE, to[0], to[1], to[2]);
    if (!s || !vram__low_read(l, s, x->at, h, w, c))
      return 0;
    for (k = 0; k < 3; k++)
      s->line.arg[k] = to[k];
  } else {
    s = vram__low_custom(l, n, 1, 1, (int64_t)n->out[i].d->numel / l->n);
    if (!s)
      return 0;
  }
  return vram__low_gives(l, s, n->out + i, &y);
}

/* slice, narrow, select, split, chunk, unbind */
static int vram__low_slices(vram__low *l, const vram_node *n) {
  const int64_t dim = VRAM__INT(n, dim, 0);
  const uint32_t a = (uint32_t)(dim < 0 ? dim + n->in[0]->d->ndim : dim);
  const int gone = n->op == VRAM_OP_select || n->op == VRAM_OP_unbind;
  uint32_t i;
  for (i = 0; i < n->nout; i++)
    if (l->value[n->out[i].index].need &&
        !vram__low_slice(l, n, i, a, gone ? 1 : n->out[i].d->v[a], gone))
      return 0;
  return 1;
}

static int vram__low_view(vram__low *l, const vram_node *n, vram__low_value *x) {
  vram__low_value *y = l->value + n->out[0].index;
  const vram_dims *d = n->out[0].d, *from = n->in[0]->d;
  vram__layout lay = x->lay;
  uint32_t i, k, count;
  const int64_t *v;
  if (n->op == VRAM_OP_transpose || n->op == VRAM_OP_t || n->op == VRAM_OP_permute) {
    uint8_t to[VRAM_MAX_AXES];
    for (i = 0; i < from->ndim; i++)
      to[i] = (uint8_t)i;
    if (n->op == VRAM_OP_permute) {
      v = vram__list(n, VRAM__KEY_dims, &count);
      for (i = 0; i < count; i++)
        to[v[i] < 0 ? v[i] + from->ndim : v[i]] = (uint8_t)i;
    } else if (from->ndim > 1) {
      int64_t a = VRAM__INT(n, dim0, 0), b = VRAM__INT(n, dim1, 1);
      a += a < 0 ? from->ndim : 0, b += b < 0 ? from->ndim : 0;
      to[a] = (uint8_t)b, to[b] = (uint8_t)a;
    }
    for (k = 0; k < lay.n; k++)
      lay.axis[k] = to[lay.axis[k]];
    vram__layout_number(&lay);
  } else if (!vram__layout_view(&lay, d)) {
    uint8_t order[VRAM__LOW_ATOMS];
    uint32_t m = 0;
    if (x->lay.batch)
      order[m++] = 0;
    for (i = 0; i < x->lay.n; i++)
      if ((k = vram__layout_at(&x->lay, i)) >= x->lay.batch)
        order[m++] = (uint8_t)k;
    if (!vram__low_order(l, n, x, order, l->tensor[x->at].h, l->tensor[x->at].w,
                         l->tensor[x->at].c))
      return 0;
    lay = x->lay;
    if (!vram__layout_view(&lay, d))
      return vram__low_not(l, n, "its shape mixes the batch with other axes");
  }
  y->kind = VRAM__LOW_TENSOR;
  y->at = x->at;
  y->lay = lay;
  return 1;
}

static int vram__low_pad(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  uint32_t count, i, k, cut[2], at[2] = {VRAM__LOW_NO, VRAM__LOW_NO};
  const int64_t *v = vram__list(n, VRAM__KEY_pad, &count);
  int64_t h = l->tensor[x->at].h, w = l->tensor[x->at].w, c = l->tensor[x->at].c,
          arg[4] = {0, 0, 0, 0};
  int plain = vram__layout_cuts(&x->lay, h, w, cut, cut + 1);
  vram__layout y = x->lay;
  vram__low_step *s;
  y.loose = 0;
  for (i = 0; i < count; i++)
    if (v[i])
      break;
  if (i == count) {
    return vram__low_same(l, n->out, x);
  }
  if (plain && cut[0] - x->lay.batch == 1)
    at[0] = x->lay.axis[x->lay.batch];
  if (plain && cut[1] - cut[0] == 1)
    at[1] = x->lay.axis[cut[0]];
  for (i = 0; i < count / 2; i++) {
    const uint32_t a = d->ndim - 1u - i;
    uint32_t atoms = 0;
    const int64_t low = v[0], high = v[1];
    v += 2;
    if (!low && !high)
      continue;
    if (x->lay.batch && x->lay.axis[0] == a)
      return vram__low_not(l, n, "it works across the batch");
    for (k = 0; k < x->lay.n; k++)
      atoms += x->lay.axis[k] == a;
    for (k = 0; k < 2 && at[k] != a; k++)
      ;
    if (k == 2 || atoms != 1 || low < 0 || high < 0)
      plain = 0;
    else if (k)
      arg[2] = low, arg[3] = high;
    else
      arg[0] = low, arg[1] = high;
    if (!vram__layout_resize(&y, a, to->v[a]))
      return vram__low_not(l, n, "too many axes");
  }
  if (!plain) {
    s = vram__low_custom(l, n, 1, 1, (int64_t)to->numel / l->n);
    return s && vram__low_gives(l, s, n->out, &y);
  }
  s = vram__low_step_new(l, n, VRAM_LINE_PAD, h + arg[0] + arg[1], w + arg[2] + arg[3], c);
  if (!s || !vram__low_read(l, s, x->at, h, w, c))
    return 0;
  for (i = 0; i < 4; i++)
    s->line.arg[i] = arg[i];
  return vram__low_gives(l, s, n->out, &y);
}

static int vram__low_interpolate(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  const uint32_t k = d->ndim - 2u;
  const int64_t mode = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  int64_t in[2] = {1, 1}, out[2] = {1, 1}, c = d->v[1];
  uint32_t axes[3] = {2, 3, 1}, i;
  vram__layout y;
  vram__low_step *s;
  if (k > 2)
    return vram__low_not(l, n, "no line has three axes beside the channels (possible: 1d and 2d)");
  for (i = 0; i < k; i++)
    in[i] = d->v[2 + i], out[i] = to->v[2 + i];
  if (k == 1)
    axes[1] = 1;
  if (!vram__low_axes_order(l, n, x, axes, k + 1, 1, in[0], in[1], c))
    return 0;
  y = x->lay;
  y.loose = 0;
  for (i = 0; i < k; i++)
    vram__layout_resize(&y, 2 + i, out[i]);
  if ((mode == VRAM__WORD("nearest") || mode == VRAM__WORD("nearest-exact")) &&
      out[0] % in[0] == 0 && out[1] % in[1] == 0) {
    s = vram__low_step_new(l, n, VRAM_LINE_UPSAMPLE2D, out[0], out[1], c);
    if (!s || !vram__low_read(l, s, x->at, in[0], in[1], c))
      return 0;
    s->line.arg[0] = out[0] / in[0], s->line.arg[1] = out[1] / in[1];
  } else {
    s = vram__low_custom(l, n, out[0], out[1], c);
    if (!s)
      return 0;
  }
  return vram__low_gives(l, s, n->out, &y);
}

/* [.., C r r, H, W] to [.., C, H r, W r]: a copy in another order. */
static int vram__low_shuffle(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d, *to = n->out[0].d;
  const uint32_t lead = d->ndim - 2u;
  uint32_t axes[3], i;
  vram__layout y;
  vram__low_step *s;
  axes[0] = lead, axes[1] = lead + 1, axes[2] = lead - 1;
  if (!vram__low_axes_order(l, n, x, axes, 3, 0, d->v[lead], d->v[lead + 1], d->v[lead - 1]))
    return 0;
  y = x->lay;
  y.loose = 0;
  for (i = lead - 1; i < lead + 2; i++)
    if (!vram__layout_resize(&y, i, to->v[i]))
      return vram__low_not(l, n, "too many axes");
  s = vram__low_step_new(l, n, VRAM_LINE_TRANSPOSE, to->v[lead], to->v[lead + 1], to->v[lead - 1]);
  if (!s || !vram__low_read(l, s, x->at, d->v[lead], d->v[lead + 1], d->v[lead - 1]))
    return 0;
  for (i = 0; i < 3; i++)
    s->line.arg[i] = to->v[i == 2 ? lead - 1 : lead + i];
  return vram__low_gives(l, s, n->out, &y);
}

/* One layer and direction: the sequence, or its last step. */
static vram__low_step *vram__low_rnn_layer(vram__low *l, const vram_node *n, uint32_t x, int64_t t,
                                           int64_t width, int64_t hidden, int bias, int sequence,
                                           const char *suffix) {
  const int cell = n->op >= VRAM_OP_lstm_cell;
  const uint32_t op = n->op - (uint32_t)(cell ? VRAM_OP_lstm_cell : VRAM_OP_lstm);
  vram__low_step *s = vram__low_step_new(l, n,
                                         op == 0   ? VRAM_LINE_LSTM
                                         : op == 1 ? VRAM_LINE_GRU
                                                   : VRAM_LINE_RNN,
                                         sequence ? t : 1, 1, hidden);
  if (!s || !vram__low_read(l, s, x, t, 1, width))
    return NULL;
  s->suffix = suffix;
  s->line.arg[0] = hidden, s->line.arg[1] = bias ? 2 : 0, s->line.arg[2] = sequence;
  return s;
}

static int vram__low_rnn(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->in[0]->d;
  const int cell = n->op >= VRAM_OP_lstm_cell, batched = d->ndim == (cell ? 2 : 3);
  const uint32_t last = d->ndim - 1u,
                 time = cell                                      ? last
                        : batched && VRAM__INT(n, batch_first, 0) ? 1
                                                                  : 0,
                 batch_axis = cell || time ? 0 : 1;
  const int64_t hidden = VRAM__INT(n, hidden_size, 1), layers = VRAM__INT(n, num_layers, 1),
                steps = cell ? 1 : d->v[time];
  const int both = VRAM__INT(n, bidirectional, 0) != 0, bias = VRAM__INT(n, bias, 1) != 0;
  const int lstm = n->op == VRAM_OP_lstm || n->op == VRAM_OP_lstm_cell;
  const int y = l->value[n->out[0].index].need,
            hn = !cell && n->nout > 1 && l->value[n->out[1].index].need;
  vram__low_step *s = NULL, *back;
  uint32_t axes[2], i, in;
  int64_t layer, width = d->v[last];
  vram__layout lay;
  if (VRAM__INT(n, proj_size, 0))
    return vram__low_not(l, n, "proj_size: no line has projections");
  if (n->nout > 1 && (cell || n->nout > 2) && l->value[n->out[lstm && !cell ? 2 : 1].index].need)
    return vram__low_not(l, n,
                         "its cell state is used (possible: the output, or the hidden state)");
  for (i = 1; i < n->nin; i++)
    if (!vram__low_constant(l, n->in[i]))
      return vram__low_not(l, n,
                           "its first state is computed (possible: the state stays by itself)");
  if (hn && (layers > 1 || both))
    return vram__low_not(l, n, "its hidden state is used (possible: of one layer and direction)");
  if (batched && d->v[batch_axis] != l->n)
    return vram__low_not(l, n, "its batch axis is not the batch of the network");
  if (!vram__low_claim(l, n))
    return vram__low_not(l, n, "its weights are another node's: no line shares them");
  axes[0] = time, axes[1] = last;
  if (!vram__low_axes_order(l, n, x, axes + cell, cell ? 1 : 2, 1, steps, 1, width))
    return 0;
  in = x->at;
  for (layer = 0; layer < layers; layer++) {
    const int sequence = y && !cell;
    const uint32_t from = in;
    s = vram__low_rnn_layer(l, n, from, steps, width, hidden, bias, sequence,
                            both ? "_forward" : "");
    if (!s)
      return 0;
    in = s->out;
    if (both) {
      back = vram__low_rnn_layer(l, n, from, steps, width, hidden, bias, sequence, "_backward");
      if (!back)
        return 0;
      s = vram__low_step_new(l, n, VRAM_LINE_CONCAT, steps, 1, 2 * hidden);
      if (!s || !vram__low_read(l, s, in, steps, 1, hidden) ||
          !vram__low_read(l, s, back->out, steps, 1, hidden))
        return 0;
      s->how = VRAM__LOW_JOIN;
      in = s->out;
    }
    width = both ? 2 * hidden : hidden;
  }
  lay = x->lay;
  lay.loose = 0;
  vram__layout_resize(&lay, last, 1);
  if (width > 1) {
    if (!vram__layout_room(&lay, lay.n))
      return vram__low_not(l, n, "too many axes");
    lay.axis[lay.n - 1] = (uint8_t)last;
    lay.place[lay.n - 1] = 0;
    lay.size[lay.n - 1] = width;
    vram__layout_number(&lay);
  }
  if (y)
    vram__low_gives(l, s, n->out, &lay);
  if (hn) {
    vram__layout h = lay;
    vram__layout_resize(&h, time, 1);
    for (i = 0; i < h.n; i++)
      h.axis[i] = (uint8_t)(h.axis[i] == last ? n->out[1].d->ndim - 1u : 1u);
    vram__layout_number(&h);
    if (y) {
      s = vram__low_step_new(l, n, VRAM_LINE_SLICE, 1, 1, hidden);
      if (!s || !vram__low_read(l, s, in, steps, 1, hidden))
        return 0;
      s->suffix = "_last";
      s->line.arg[0] = s->line.arg[1] = 1, s->line.arg[2] = hidden;
    }
    vram__low_gives(l, s, n->out + 1, &h);
  }
  return 1;
}

static int vram__low_mha(vram__low *l, const vram_node *n) {
  vram__low_value *x = vram__low_of(l, n->in[0]);
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d;
  const int batched = q->ndim == 3;
  const uint32_t time = batched && VRAM__INT(n, batch_first, 0) ? 1 : 0;
  const int64_t heads = VRAM__INT(n, num_heads, 1), e = q->v[q->ndim - 1], steps = q->v[time],
                keys = k->v[time];
  const int bias = VRAM__INT(n, bias, 1) != 0;
  uint32_t axes[2];
  vram__low_step *s;
  uint64_t params = 0, bytes = 0;
  uint32_t i;
  if (n->nout > 1 && l->value[n->out[1].index].need)
    return vram__low_not(l, n, "its weights of attention are used");
  if (VRAM__INT(n, add_bias_kv, 0) || VRAM__INT(n, add_zero_attn, 0))
    return vram__low_not(l, n, "add_bias_kv, add_zero_attn: no line has such keys");
  if (batched && q->v[!time] != l->n)
    return vram__low_not(l, n, "its batch axis is not the batch of the network");
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      params += n->param[i]->d->numel;
  axes[0] = time, axes[1] = q->ndim - 1u;
  if (x->kind == VRAM__LOW_TENSOR && !vram__low_axes_order(l, n, x, axes, 2, 0, steps, 1, e))
    return 0;
  if (!vram__low_claim(l, n))
    return vram__low_not(l, n, "its weights are another node's: no line shares them");
  if (n->in[0] == n->in[1] && n->in[0] == n->in[2] && n->nin == 3) {
    vram__layout y = x->lay;
    s = vram__low_step_new(l, n, VRAM_LINE_ATTENTION, steps, 1, e);
    if (!s || !vram__low_read(l, s, x->at, steps, 1, e))
      return 0;
    s->line.arg[0] = s->line.arg[1] = heads, s->line.arg[2] = e / heads;
    s->line.arg[3] = steps, s->line.arg[4] = bias;
    y.loose = 0;
    return vram__low_gives(l, s, n->out, &y);
  }
  for (i = 0; i < n->nparam; i++)
    if (n->param[i])
      bytes += n->param[i]->d->ndim > 1 ? vram__low_weight_bytes(l, n->param[i]->d->numel)
                                        : vram__low_bias_bytes(l, n->param[i]->d->numel);
  bytes += vram__low_scale_bytes(l, 4, 0);
  return vram__low_any(l, n, params, bytes, vram_node_flops(n) / 2,
                       vram__low_bytes(l, (uint64_t)(l->n * e * (2 * steps + 2 * keys) +
                                                     l->n * heads * steps * keys)));
}

static int vram__low_embedding(vram__low *l, const vram_node *n, vram__low_value *x) {
  const vram_dims *d = n->out[0].d;
  const int64_t width = d->v[d->ndim - 1];
  const int64_t rows = n->in[0]->d->ndim ? (int64_t)n->in[0]->d->numel / l->n : 1;
  vram__layout y = x->lay;
  vram__low_step *s;
  const int mine =
      n->nin > 1 ? vram__low_take(l, n->in[1], n->in[1]->d->numel) : vram__low_claim(l, n);
  if (!mine)
    return vram__low_not(l, n, "its weights are another node's: no line shares them");
  if (width > 1) {
    if (!vram__layout_room(&y, y.n))
      return vram__low_not(l, n, "too many axes");
    y.axis[y.n - 1] = (uint8_t)(d->ndim - 1);
    y.place[y.n - 1] = 0;
    y.size[y.n - 1] = width;
    vram__layout_number(&y);
  }
  s = vram__low_step_new(l, n, VRAM_LINE_EMBEDDING, rows, 1, width);
  if (!s || !vram__low_read(l, s, x->at, rows, 1, 1))
    return 0;
  s->line.arg[0] = n->nin > 1 ? n->in[1]->d->v[0] : VRAM__INT(n, num_embeddings, 1);
  s->line.arg[1] = width;
  return vram__low_gives(l, s, n->out, &y);
}

/* Nothing of it depends on the input: its result is a constant. Views are the same one. */
static int vram__low_fold(vram__low *l, const vram_node *n) {
  uint64_t params = 0;
  uint8_t noise = n->op == VRAM_OP_empty || n->op == VRAM_OP_rand || n->op == VRAM_OP_randn ||
                  n->op == VRAM_OP_bernoulli;
  uint32_t i;
  const int own = vram__low_claim(l, n);
  for (i = 0; i < n->nparam && own; i++)
    if (n->param[i] && n->param[i]->kind != VRAM__BUFFER)
      params += n->param[i]->d->numel;
  for (i = 0; i < n->nin; i++)
    if (vram__low_constant(l, n->in[i]))
      noise |= vram__low_constant(l, n->in[i])->noise;
  if (n->nin == 1 && n->nout == 1 &&
      ((n->op >= VRAM_OP_reshape && n->op <= VRAM_OP_expand) || n->op == VRAM_OP_detach ||
       (n->op >= VRAM_OP_contiguous && n->op <= VRAM_OP_to))) {
    l->value[n->out[0].index].kind = VRAM__LOW_CONSTANT;
    l->value[n->out[0].index].at = l->value[n->in[0]->index].at;
    l->value[l->value[n->in[0]->index].at].noise |= noise;
    return 1;
  }
  for (i = 0; i < n->nin; i++) {
    vram__low_value *k = vram__low_constant(l, n->in[i]);
    if (k) {
      params += k->params;
      k->params = 0;
    }
  }
  for (i = 0; i < n->nout; i++) {
    vram__low_value *y = l->value + n->out[i].index;
    y->kind = VRAM__LOW_CONSTANT;
    y->at = n->out[i].index;
    y->noise = noise;
    y->params = i ? 0 : params;
    y->elements = n->out[i].d->numel;
  }
  return 1;
}

/* One node; 0: an error. */
static int vram__low_node(vram__low *l, const vram_node *n) {
  vram__low_value *x = n->nin ? vram__low_of(l, n->in[0]) : NULL, *k;
  uint32_t i, tensors = 0, first = 0;
  uint64_t keys;
  for (i = n->nin; i-- > 0;) {
    const vram__low_value *v = vram__low_of(l, n->in[i]);
    if (v->kind == VRAM__LOW_TENSOR)
      tensors++, first = i;
    else if (v->kind == VRAM__LOW_NONE)
      return vram__low_not(l, n, "an input that no line has");
  }
  if (!tensors || (n->op >= VRAM_OP_zeros && n->op <= VRAM_OP_randn)) /* made like its input */
    return vram__low_fold(l, n);
  if (vram__kind_rank(n->in[first]->dtype) != 2 && n->op != VRAM_OP_embedding &&
      n->op != VRAM_OP_to && !(n->op >= VRAM_OP_reshape && n->op <= VRAM_OP_unsqueeze) &&
      !(n->op >= VRAM_OP_detach && n->op <= VRAM_OP_to))
    return vram__low_not(l, n, "it works with integers of the input (possible: embedding)");
  switch (n->op) {
  case VRAM_OP_conv1d:
  case VRAM_OP_conv2d:
  case VRAM_OP_conv3d:
  case VRAM_OP_conv_transpose1d:
  case VRAM_OP_conv_transpose2d:
  case VRAM_OP_conv_transpose3d:
    return first ? vram__low_not(l, n, "its input is a constant") : vram__low_conv(l, n, x);
  case VRAM_OP_linear:
    return first ? vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2, 0)
                 : vram__low_linear_node(l, n, x);
  case VRAM_OP_embedding:
    return first ? vram__low_not(l, n, "its weight is computed from the input")
                 : vram__low_embedding(l, n, x);
  case VRAM_OP_addmm:
    if (first == 1 && tensors == 1 && n->in[2]->d->ndim == 2 &&
        n->in[0]->d->numel == (uint64_t)n->in[2]->d->v[1] &&
        vram__low_constant(l, n->in[0])->elements == n->in[0]->d->numel &&
        vram__low_take(l, n->in[2], n->in[2]->d->numel)) {
      k = vram__low_constant(l, n->in[0]);
      k->params = k->elements = 0;
      return vram__low_linear(l, n, vram__low_of(l, n->in[1]), 1, n->in[0]->d->numel);
    }
    return vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2, 0);
  case VRAM_OP_matmul:
  case VRAM_OP_mm:
    if (!first && tensors == 1 && n->in[1]->d->ndim == 2 && n->in[0]->d->ndim &&
        vram__low_take(l, n->in[1], n->in[1]->d->numel))
      return vram__low_linear(l, n, x, 1, 0);
    return vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2, 0);
  case VRAM_OP_bmm:
  case VRAM_OP_baddbmm:
  case VRAM_OP_einsum:
    return vram__low_any(l, n, 0, 0, vram_node_flops(n) / 2, 0);
  case VRAM_OP_scaled_dot_product_attention:
    keys = (uint64_t)n->in[1]->d->v[n->in[1]->d->ndim - 2u];
    return vram__low_any(
        l, n, 0, 0, vram_node_flops(n) / 2,
        vram__low_bytes(
            l, vram__mul(n->in[0]->d->numel / (uint64_t)n->in[0]->d->v[n->in[0]->d->ndim - 1u],
                         keys)));
  case VRAM_OP_multi_head_attention:
    return vram__low_mha(l, n);
  case VRAM_OP_lstm:
  case VRAM_OP_gru:
  case VRAM_OP_rnn:
  case VRAM_OP_lstm_cell:
  case VRAM_OP_gru_cell:
  case VRAM_OP_rnn_cell:
    return first ? vram__low_not(l, n, "its input is a constant") : vram__low_rnn(l, n, x);
  case VRAM_OP_batch_norm:
  case VRAM_OP_instance_norm:
  case VRAM_OP_layer_norm:
  case VRAM_OP_rms_norm:
  case VRAM_OP_group_norm:
    return first ? vram__low_not(l, n, "its input is a constant") : vram__low_norm(l, n, x);
  case VRAM_OP_softmax:
  case VRAM_OP_log_softmax: {
    const int64_t a = VRAM__INT(n, dim, 0);
    int64_t h, w, c;
    vram__low_step *s;
    if (!vram__low_last(l, n, x, UINT32_C(1) << (a < 0 ? a + n->in[0]->d->ndim : a), 0, &h, &w, &c))
      return 0;
    s = vram__low_step_new(l, n, VRAM_LINE_SOFTMAX, h, w, c);
    return s && vram__low_read(l, s, x->at, h, w, c) && vram__low_gives(l, s, n->out, &x->lay);
  }
  case VRAM_OP_max_pool1d:
  case VRAM_OP_max_pool2d:
  case VRAM_OP_max_pool3d:
  case VRAM_OP_adaptive_max_pool1d:
  case VRAM_OP_adaptive_max_pool2d:
  case VRAM_OP_adaptive_max_pool3d:
  case VRAM_OP_avg_pool1d:
  case VRAM_OP_avg_pool2d:
  case VRAM_OP_avg_pool3d:
  case VRAM_OP_adaptive_avg_pool1d:
  case VRAM_OP_adaptive_avg_pool2d:
  case VRAM_OP_adaptive_avg_pool3d:
    if (n->nout > 1 && l->value[n->out[1].index].need)
      return vram__low_not(l, n, "its indices are used");
    return vram__low_pool(l, n, x,
                          n->op <= VRAM_OP_max_pool3d || (n->op >= VRAM_OP_adaptive_max_pool1d &&
                                                          n->op <= VRAM_OP_adaptive_max_pool3d));
  case VRAM_OP_sum:
  case VRAM_OP_mean:
  case VRAM_OP_amax:
  case VRAM_OP_amin:
  case VRAM_OP_max:
  case VRAM_OP_min:
  case VRAM_OP_prod:
  case VRAM_OP_var:
  case VRAM_OP_std:
  case VRAM_OP_norm:
  case VRAM_OP_logsumexp:
    return vram__low_reduce(l, n, x);
  case VRAM_OP_cat:
  case VRAM_OP_stack:
    return vram__low_cat(l, n);
  case VRAM_OP_slice:
  case VRAM_OP_narrow:
  case VRAM_OP_select:
  case VRAM_OP_split:
  case VRAM_OP_chunk:
  case VRAM_OP_unbind:
    return vram__low_slices(l, n);
  case VRAM_OP_expand:
  case VRAM_OP_repeat:
  case VRAM_OP_tile:
    if (n->out[0].d->numel != n->in[0]->d->numel)
      return vram__low_any(l, n, 0, 0, 0, 0);
    return vram__low_view(l, n, x);
  case VRAM_OP_reshape:
  case VRAM_OP_view:
  case VRAM_OP_flatten:
  case VRAM_OP_unflatten:
  case VRAM_OP_transpose:
  case VRAM_OP_permute:
  case VRAM_OP_t:
  case VRAM_OP_squeeze:
  case VRAM_OP_unsqueeze:
    return vram__low_view(l, n, x);
  case VRAM_OP_pad:
    return vram__low_pad(l, n, x);
  case VRAM_OP_interpolate:
    return vram__low_interpolate(l, n, x);
  case VRAM_OP_pixel_shuffle:
  case VRAM_OP_pixel_unshuffle:
    return vram__low_shuffle(l, n, x);
  case VRAM_OP_dropout:
  case VRAM_OP_dropout1d:
  case VRAM_OP_dropout2d:
  case VRAM_OP_dropout3d:
  case VRAM_OP_alpha_dropout:
  case VRAM_OP_feature_alpha_dropout:
  case VRAM_OP_detach:
  case VRAM_OP_contiguous:
  case VRAM_OP_clone:
  case VRAM_OP_to:
  case VRAM_OP_type_as:
    if ((vram__kind_rank(n->out[0].dtype) == 2) != (vram__kind_rank(n->in[0]->dtype) == 2))
      return vram__low_not(l, n, "between integers and floating point: no line does that");
    if (first)
      return vram__low_fold(l, n);
    return vram__low_same(l, n->out, x);
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_div:
  case VRAM_OP_pow:
  case VRAM_OP_maximum:
  case VRAM_OP_minimum:
    if (tensors == 2)
      return vram__low_binary(l, n,
                              n->op == VRAM_OP_mul || n->op == VRAM_OP_div || n->op == VRAM_OP_pow
                                  ? VRAM_LINE_MUL
                                  : VRAM_LINE_ADD);
    if (n->nin == 2) { /* with a constant */
      k = vram__low_constant(l, n->in[!first]);
      if (n->out[0].d->numel != n->in[first]->d->numel ||
          (!k->noise && (k->params || n->in[!first]->d->numel > 1)))
        return vram__low_any(l, n, 0, 0, 0, 0);
      if (k->noise) { /* stochastic depth: of training */
        return vram__low_same(l, n->out, vram__low_of(l, n->in[first]));
      }
    }
    return vram__low_pointwise(l, n, vram__low_of(l, n->in[first]), VRAM_LINE_ACTIVATION);
  case VRAM_OP_prelu:
    keys = n->nparam && n->param[0] ? n->param[0]->d->numel : 0;
    if (!vram__low_claim(l, n))
      keys = 0;
    return vram__low_any(l, n, keys, vram__low_weight_bytes(l, keys), 0, 0);
  case VRAM_OP_local_response_norm:
  case VRAM_OP_glu:
  case VRAM_OP_where:
  case VRAM_OP_masked_fill:
  case VRAM_OP_lerp:
  case VRAM_OP_addcmul:
  case VRAM_OP_roll:
  case VRAM_OP_flip:
  case VRAM_OP_cumsum:
  case VRAM_OP_repeat_interleave:
  case VRAM_OP_grid_sample:
    return vram__low_any(l, n, 0, 0, 0, 0);
  case VRAM_OP_custom: {
    const uint64_t params = (uint64_t)VRAM__INT(n, params, 0);
    const int mine = vram__low_claim(l, n);
    return vram__low_any(l, n, mine ? params : 0, mine ? vram__low_weight_bytes(l, params) : 0, 0,
                         (uint64_t)VRAM__INT(n, workspace, 0));
  }
  default:
    break;
  }
  if (n->nin == 1 && n->nout == 1 && n->in[0]->d->numel == n->out[0].d->numel &&
      ((n->op >= VRAM_OP_relu && n->op <= VRAM_OP_logsigmoid) ||
       (n->op >= VRAM_OP_exp && n->op <= VRAM_OP_clamp)))
    return vram__low_pointwise(l, n, x, VRAM_LINE_ACTIVATION);
  return vram__low_not(l, n, "no line does that");
}

/* ---- what is needed, and the input ---- */

/* A loss, or what stands for one: the output is the sum or mean of all there is. */
static int vram__low_is_loss(const vram_node *n) {
  return (n->flags & VRAM__LOSS) ||
         ((n->op == VRAM_OP_sum || n->op == VRAM_OP_mean) && !n->out[0].d->ndim);
}

static void vram__low_need(vram__low *l) {
  enum { NEED = 1, KEPT = 2, LOSS = 4 };
  const vram_graph *g = l->g;
  const vram_node *n;
  uint32_t i;
  for (n = g->first; n; n = n->next) {
    uint8_t loss = vram__low_is_loss(n) ? LOSS : 0;
    for (i = 0; i < n->nin && !loss; i++)
      loss |= l->value[n->in[i]->index].need & LOSS;
    for (i = 0; i < n->nout; i++)
      l->value[n->out[i].index].need =
          (uint8_t)(loss |
                    ((n->out[i].flags & VRAM__OUTPUT) || &n->out[i] == g->root ? NEED | KEPT : 0));
  }
  for (n = g->last; n; n = n->prev) {
    uint8_t need = 0;
    for (i = 0; i < n->nout; i++)
      need |= l->value[n->out[i].index].need;
    if (!(need & NEED) || n->op >= VRAM_OP_COUNT)
      continue;
    for (i = 0; i < n->nin; i++) {
      vram__low_value *v = l->value + n->in[i]->index;
      if (!(need & LOSS) || (v->need & LOSS)) /* on to the losses that one is made of */
        v->need |= NEED;
      else if (vram__low_is_loss(n) && !i)
        v->need |= NEED | KEPT;
    }
    for (i = 0; i < n->nout && (need & LOSS); i++)
      l->value[n->out[i].index].need &= (uint8_t)~NEED;
  }
  for (i = 0; i < g->nvalue; i++) { /* 1: needed, 3: an output */
    const uint8_t need = l->value[i].need;
    l->value[i].need = need & LOSS ? 0 : need & (NEED | KEPT);
  }
}

/* The first node that reads v, or what pointwise nodes made of it, and cares for its axes; else the
   last of those; NULL: nobody reads it. */
static const vram_node *vram__low_reader(vram__low *l, const vram_value *v) {
  const vram_node *n, *found = NULL;
  uint32_t i, k;
  l->value[v->index].like_input = 1;
  for (n = l->g->first; n; n = n->next) {
    int reads = 0, needed = 0;
    for (i = 0; i < n->nin; i++)
      reads |= l->value[n->in[i]->index].like_input;
    for (k = 0; k < n->nout; k++)
      needed |= l->value[n->out[k].index].need;
    if (!reads || !needed)
      continue;
    found = n;
    if (!((n->op >= VRAM_OP_relu && n->op <= VRAM_OP_logsigmoid) ||
          (n->op >= VRAM_OP_exp && n->op <= VRAM_OP_clamp) ||
          (n->op >= VRAM_OP_dropout && n->op <= VRAM_OP_feature_alpha_dropout) ||
          n->op == VRAM_OP_detach || (n->op >= VRAM_OP_contiguous && n->op <= VRAM_OP_to)))
      break;
    l->value[n->out[0].index].like_input = 1;
  }
  return found;
}

static int vram__low_input(vram__low *l) {
  const vram_value *v = NULL;
  const vram_node *n;
  const vram_dims *d;
  vram__low_value *x;
  vram__low_step s;
  uint32_t order[VRAM_MAX_AXES], i, batch = 0, last;
  int has_batch;
  int64_t h = 1, w = 1, c;
  for (i = 0; i < l->g->ninput; i++) {
    if (!l->value[l->g->input[i]->index].need)
      continue;
    if (v) {
      char name[100];
      uint32_t len = 0;
      vram__put(name, sizeof name, &len, l->g->input[i]->name, l->g->input[i]->name_len);
      vram__low_fail(l, NULL, VRAM_ERR_UNSUPPORTED, "a second input, ");
      vram__chain_say(l->err, name);
      vram__chain_say(l->err, ": a network of lines has one");
      return 0;
    }
    v = l->g->input[i];
  }
  if (!v)
    return vram__low_fail(l, NULL, VRAM_ERR_UNSUPPORTED, "nothing of the model needs its input");
  n = vram__low_reader(l, v);
  d = v->d;
  if (!d->ndim || !d->numel || !n)
    return vram__low_fail(l, n, VRAM_ERR_UNSUPPORTED,
                          "the input has no axes, no elements or no reader");
  last = d->ndim - 1u;
  has_batch = d->ndim > 1;
  for (i = 0; i < d->ndim; i++)
    order[i] = i;
  if (n->op <= VRAM_OP_conv_transpose3d && d->ndim == vram__spatial(n->op) + 1) {
    has_batch = 0;
    for (i = 0; i < last; i++)
      order[i] = i + 1;
    order[last] = 0;
  } else if (d->ndim == 2 && ((n->op >= VRAM_OP_lstm && n->op <= VRAM_OP_rnn) ||
                              n->op == VRAM_OP_multi_head_attention))
    has_batch = 0;
  else if (d->ndim == 4 ||
           (d->ndim == 3 &&
            (n->op <= VRAM_OP_conv_transpose3d || n->op == VRAM_OP_batch_norm ||
             n->op == VRAM_OP_interpolate ||
             (n->op >= VRAM_OP_max_pool1d && n->op <= VRAM_OP_adaptive_max_pool3d)))) {
    for (i = 1; i < last; i++)
      order[i] = i + 1;
    order[last] = 1;
  } else if (d->ndim == 3 &&
             ((n->op >= VRAM_OP_lstm && n->op <= VRAM_OP_rnn) ||
              n->op == VRAM_OP_multi_head_attention) &&
             !VRAM__INT(n, batch_first, 0)) {
    batch = 1;
    order[0] = 1, order[1] = 0;
  }
  l->n = has_batch ? d->v[batch] : 1;
  vram__zero(&s, sizeof s);
  s.line.kind = l->o.align == 16 && l->o.kernels == VRAM_KERNELS_NONE ? VRAM_LINE_BEGIN
                                                                      : VRAM_LINE_BEGIN_WITH;
  s.line.format = l->o.format;
  if (vram__kind_rank(v->dtype) == 1) {
    const uint32_t bytes = vram__dtype_rows[v->dtype].block_bytes;
    s.line.format = bytes == 1   ? VRAM_FORMAT_IDS8
                    : bytes == 2 ? VRAM_FORMAT_IDS16
                                 : VRAM_FORMAT_IDS32;
    h = (int64_t)d->numel / l->n, c = 1;
  } else if (vram__kind_rank(v->dtype) != 2)
    return vram__low_fail(l, n, VRAM_ERR_UNSUPPORTED,
                          "the input is neither floating point nor ids");
  else {
    c = d->v[order[last]];
    i = d->ndim > 1 && has_batch;
    if (d->ndim - i == 3)
      h = d->v[order[i]], w = d->v[order[i + 1]];
    else
      h = (int64_t)d->numel / l->n / c;
  }
  x = l->value + v->index;
  x->kind = VRAM__LOW_TENSOR;
  x->at = vram__low_tensor_new(l, h, w, c);
  l->tensor[x->at].step = VRAM__LOW_NO;
  vram__layout_make(&x->lay, d, order, batch, has_batch);
  s.line.arg[0] = l->n, s.line.arg[1] = h, s.line.arg[2] = w, s.line.arg[3] = c;
  s.line.arg[4] = (int64_t)l->o.align;
  s.line.kernels = l->o.kernels;
  s.line.y = "input";
  l->net->line[0] = s.line;
  l->net->nline = 1;
  l->current = x->at;
  l->h = h, l->w = w, l->c = c;
  return 1;
}

/* ---- batch norms into the layer before them, activations behind it ---- */

static uint32_t vram__low_bias(vram_line_kind kind) { /* which argument it is; 0: it has none */
  switch (kind) {
  case VRAM_LINE_CONV2D:
  case VRAM_LINE_DEPTHWISE_CONV2D:
    return 5;
  case VRAM_LINE_CONV2D_FULL:
    return 8;
  case VRAM_LINE_DEPTHWISE_CONV2D_FULL:
  case VRAM_LINE_CONV_TRANSPOSE2D:
    return 7;
  case VRAM_LINE_LINEAR:
    return 1;
  default:
    return 0;
  }
}

static void vram__low_fuse(vram__low *l) {
  uint32_t i;
  for (i = 0; i < l->nstep; i++) {
    vram__low_step *s = l->step + i, *p;
    const vram__low_tensor *t = s->count == 1 ? l->tensor + l->in[s->first].tensor : NULL;
    if (!t || t->uses != 1 || t->output || t->step == VRAM__LOW_NO)
      continue;
    p = l->step + t->step;
    if (p->behind != VRAM__LOW_NO)
      continue;
    if (s->line.kind == VRAM_LINE_BATCH_NORM && !l->o.no_fold && !p->fused &&
        vram__low_bias(p->line.kind) && l->in[s->first].c == t->c) {
      p->line.arg[vram__low_bias(p->line.kind)] = 1;
      s->line.kind = VRAM_LINE_BATCH_NORM_FOLDED;
    } else if (s->line.kind == VRAM_LINE_ACTIVATION && !l->o.no_fuse && s->node &&
               (s->node->op == VRAM_OP_relu || s->node->op == VRAM_OP_relu6 ||
                s->node->op == VRAM_OP_hardtanh || s->node->op == VRAM_OP_clamp) &&
               (vram__low_bias(p->line.kind) || p->line.kind == VRAM_LINE_ADD ||
                p->line.kind == VRAM_LINE_BATCH_NORM ||
                p->line.kind == VRAM_LINE_BATCH_NORM_FOLDED ||
                p->line.kind == VRAM_LINE_MAX_POOL2D || p->line.kind == VRAM_LINE_AVG_POOL2D))
      s->line.kind = VRAM_LINE_ACTIVATION_FUSED;
    else
      continue;
    s->fused = 1;
    p->behind = i;
  }
}

/* ---- lines ---- */

static char vram__low_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

/* A name for line i: letters, digits and _ of the node's name and the suffix, of no other line in
   whatever case. */
static int vram__low_name(vram__low *l, uint32_t i, const char *from, const char *suffix) {
  static const char *const taken[] = {
      "weight", "flash", "state", "live", "arena", "sram", "pingpong", "scratch", "storage",
      "input",  "net",   "linux", "unix", "i386",  "mips", "sparc",    "vax",     "near",
      "far",    "small", "huge",  "min",  "max",   "sun",  NULL};
  char *to = (char *)vram__bump(l->mem, &l->used, l->cap, VRAM__LOW_TEXT);
  uint32_t n = 0, k, hash, number = 1, end, last, skip = vram__len(from);
  if (!to)
    return vram__low_fail(l, NULL, VRAM_ERR_MEMORY, "the memory given is too small");
  for (skip = skip > VRAM__LOW_NAME ? skip - VRAM__LOW_NAME : 0; from[skip]; skip++) {
    const char c = from[skip];
    const int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'),
              digit = c >= '0' && c <= '9';
    if (letter || (n && digit))
      to[n++] = c;
    else if (digit)
      to[n++] = 'n', to[n++] = c;
    else if (n && to[n - 1] != '_')
      to[n++] = '_';
  }
  while (n && to[n - 1] == '_')
    n--;
  to[n] = 0;
  if (!n)
    vram__puts(to, VRAM__LOW_TEXT, &n, "line");
  vram__puts(to, VRAM__LOW_TEXT, &n, suffix);
  for (end = n;;) {
    for (k = 0, hash = 5381; to[k]; k++)
      hash = hash * 33 ^ (uint8_t)vram__low_lower(to[k]);
    for (k = 0; taken[k]; k++) /* as the last word, too: c1_weight, so that c1 has WEIGHT_BYTES */
      if ((last = vram__len(taken[k])) <= n && vram__same(to + n - last, last, taken[k]) &&
          (last == n || (k < 9 && to[n - last - 1] == '_')))
        break;
    if (!taken[k])
      for (k = i ? 1 : 0; k < i; k++) { /* line 0 is the input */
        uint32_t c = 0;
        if (l->hash[k] != hash)
          continue;
        while (to[c] && vram__low_lower(to[c]) == vram__low_lower(l->net->line[k].y[c]))
          c++;
        if (!to[c] && !l->net->line[k].y[c])
          break;
      }
    else
      k = VRAM_MAX_NET_LINES;
    if (k == i)
      break;
    n = end;
    vram__puts(to, VRAM__LOW_TEXT, &n, "_");
    vram__putu(to, VRAM__LOW_TEXT, &n, ++number);
  }
  l->hash[i] = hash;
  l->net->line[i].y = to;
  return 1;
}

/* A new line; its name is that of `from` and a suffix. NULL: an error. */
static vram_net_line *vram__low_line(vram__low *l, vram_line_kind kind, const char *from,
                                     const char *suffix) {
  const uint32_t i = l->net->nline;
  vram_net_line *line = l->net->line + i;
  if (i + 1 >= VRAM_MAX_NET_LINES) {
    vram__low_fail(l, NULL, VRAM_ERR_LIMIT, "more than 4096 lines");
    return NULL;
  }
  vram__zero(line, sizeof *line);
  line->kind = kind;
  line->x = l->net->line[i - 1].y;
  if (!vram__low_name(l, i, from, suffix))
    return NULL;
  l->net->nline++;
  return line;
}

static const char *vram__low_name_of(const vram__low *l, uint32_t tensor) {
  return l->net->line[l->tensor[tensor].line].y;
}

/* The value in hand waits, if anybody wants it: `times` steps still do. */
static int vram__low_keep(vram__low *l, uint32_t times) {
  vram__low_tensor *t = l->tensor + l->current;
  if (t->kept || (!times && !t->output))
    return 1;
  if (times) {
    if (!vram__low_line(l, VRAM_LINE_KEEP, vram__low_name_of(l, l->current), "_kept"))
      return 0;
    t->kept = l->net->nline - 1;
    t->h = l->h, t->w = l->w, t->c = l->c;
  } else
    return vram__low_line(l, VRAM_LINE_OUTPUT, vram__low_name_of(l, l->current), "_output") != NULL;
  return 1;
}

/* Tensor t becomes the value in hand. */
static int vram__low_from(vram__low *l, uint32_t t) {
  vram_net_line *line;
  if (l->current == t && !l->tensor[t].kept)
    return 1;
  if (!vram__low_keep(l, l->tensor[l->current].uses))
    return 0;
  line = vram__low_line(l, VRAM_LINE_FROM, vram__low_name_of(l, t), "_back");
  if (!line)
    return 0;
  line->kept[0] = l->net->line[l->tensor[t].kept].y;
  l->tensor[t].kept = 0;
  l->current = t;
  l->h = l->tensor[t].h, l->w = l->tensor[t].w, l->c = l->tensor[t].c;
  return 1;
}

/* The value in hand in that shape; c 0: as it is. */
static int vram__low_shape(vram__low *l, int64_t h, int64_t w, int64_t c) {
  vram_net_line *line;
  if (!c || (l->h == h && l->w == w && l->c == c))
    return 1;
  line = vram__low_line(l, h == 1 && w == 1 ? VRAM_LINE_FLATTEN : VRAM_LINE_RESHAPE,
                        vram__low_name_of(l, l->current), "_view");
  if (!line)
    return 0;
  if (line->kind == VRAM_LINE_RESHAPE)
    line->arg[0] = h, line->arg[1] = w, line->arg[2] = c;
  l->h = h, l->w = w, l->c = c;
  return 1;
}

/* Tensor t waits, in that shape. */
static int vram__low_hold(vram__low *l, uint32_t t, int64_t h, int64_t w, int64_t c) {
  const vram__low_tensor *x = l->tensor + t;
  if (x->kept && (!c || (x->h == h && x->w == w && x->c == c)))
    return 1;
  return vram__low_from(l, t) && vram__low_shape(l, h, w, c) && vram__low_keep(l, 1);
}

/* A step as lines. */
static int vram__low_write(vram__low *l, vram__low_step *s) {
  const vram__low_in *in = l->in + s->first;
  uint32_t i, main = 0, stay = 0, k = 0;
  vram_net_line *line;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  int64_t h, w, c;
  int survives;
#define VRAM__STAYS(i) (l->tensor[in[i].tensor].uses > 1 || l->tensor[in[i].tensor].output)
  for (i = 0; i < s->count; i++)
    if (VRAM__STAYS(i))
      stay++, main = i;
  if (s->how != VRAM__LOW_ONE && s->how != VRAM__LOW_MANY &&
      stay > 1) { /* a line takes all but one */
    int64_t size[3] = {0, 0, 0};
    size[0] = l->tensor[s->out].h, size[1] = l->tensor[s->out].w, size[2] = l->tensor[s->out].c;
    for (i = 0; i < VRAM_NET_ARGS; i++)
      s->line.arg[i] = i < 3 ? size[i] : 0;
    s->line.kind = VRAM_LINE_CUSTOM;
    s->how = VRAM__LOW_MANY;
  }
  if (s->how == VRAM__LOW_BOTH &&
      !stay) /* the one as large as the result, so that it is in place */
    main = in[0].c == in[1].c && in[0].h == in[1].h && in[0].w == in[1].w &&
           in[1].tensor == l->current;
  else if (s->how == VRAM__LOW_JOIN && !stay)
    for (i = 0; i < s->count; i++)
      main = in[i].tensor == l->current ? i : main;
  else if (s->how == VRAM__LOW_MANY)
    for (i = 0, main = 0; i < s->count; i++)
      main = in[i].tensor == l->current ? i : main;
  for (i = 0; i < s->count; i++)
    if (i != main && !vram__low_hold(l, in[i].tensor, s->how == VRAM__LOW_MANY ? 0 : in[i].h,
                                     s->how == VRAM__LOW_MANY ? 0 : in[i].w,
                                     s->how == VRAM__LOW_MANY ? 0 : in[i].c))
      return 0;
  survives = VRAM__STAYS(main);
  if (!vram__low_from(l, in[main].tensor) ||
      !vram__low_keep(l, l->tensor[in[main].tensor].uses - 1) ||
      !vram__low_shape(l, in[main].h, in[main].w, in[main].c))
    return 0;
#undef VRAM__STAYS
  h = l->tensor[s->out].h, w = l->tensor[s->out].w, c = l->tensor[s->out].c;
  if (!in[main].c && s->line.kind != VRAM_LINE_CUSTOM && s->line.kind != VRAM_LINE_TRANSPOSE)
    h = l->h, w = l->w, c = l->c;
  switch (s->line.kind) {
  case VRAM_LINE_ADD:
  case VRAM_LINE_MUL:
    if (!survives && l->h == h && l->w == w && l->c == c)
      s->line.kind = s->line.kind == VRAM_LINE_ADD ? VRAM_LINE_ADD_INPLACE : VRAM_LINE_MUL_INPLACE;
    break;
  case VRAM_LINE_ACTIVATION:
  case VRAM_LINE_SOFTMAX:
  case VRAM_LINE_BATCH_NORM:
  case VRAM_LINE_LAYER_NORM:
  case VRAM_LINE_RMS_NORM:
    if (!survives)
      s->line.kind = (vram_line_kind)(s->line.kind + 1);
    break;
  default:
    break;
  }
  vram_node_name(s->node, name, sizeof name);
  line = vram__low_line(l, s->line.kind, name, s->suffix ? s->suffix : "");
  if (!line)
    return 0;
  vram__copy(line->arg, s->line.arg, sizeof line->arg);
  line->format = s->line.format;
  line->padding = s->line.padding;
  line->pad_h = s->line.pad_h, line->pad_w = s->line.pad_w;
  line->node = s->node;
  for (i = 0; i < s->count; i++) {
    vram__low_tensor *t = l->tensor + in[i].tensor;
    t->uses--;
    if (i == main || s->how == VRAM__LOW_MANY)
      continue;
    line->kept[k++] = l->net->line[t->kept].y;
    t->kept = 0;
  }
  l->current = s->out;
  l->tensor[s->out].line = l->net->nline - 1;
  l->tensor[s->out].h = l->h = h;
  l->tensor[s->out].w = l->w = w;
  l->tensor[s->out].c = l->c = c;
  /* what it read last, and no argument names, goes */
  if (s->how == VRAM__LOW_MANY) {
    const uint32_t out = s->out;
    for (i = 0; i < s->count; i++) {
      const uint32_t t = in[i].tensor;
      if (i == main || l->tensor[t].uses)
        continue;
      if (l->current == out && !vram__low_keep(l, 1))
        return 0;
      if (!vram__low_from(l, t))
        return 0;
    }
    return vram__low_from(l, out);
  }
  while (s->behind != VRAM__LOW_NO) {
    s = l->step + s->behind;
    vram_node_name(s->node, name, sizeof name);
    line = vram__low_line(l, s->line.kind, name, "");
    if (!line)
      return 0;
    line->node = s->node;
    l->tensor[s->out].line = l->net->nline - 1;
    l->tensor[s->out].h = h, l->tensor[s->out].w = w, l->tensor[s->out].c = c;
    l->current = s->out;
  }
  return 1;
}

static uint64_t vram__low_inputs(const vram_graph *g) {
  const vram_node *n;
  uint64_t sum = UINT64_C(4) * VRAM_MAX_NET_LINES;
  for (n = g->first; n; n = n->next)
    sum += n->nin;
  return sum;
}

/* Shares out the memory; in NULL only counts. */
static uint64_t vram__low_share(vram__low *l, const vram_graph *g, uint8_t *mem) {
  const uint64_t value = (uint64_t)g->nvalue * sizeof(vram__low_value),
                 in = vram__low_inputs(g) * sizeof(vram__low_in), lines = VRAM_MAX_NET_LINES;
  uint64_t at = 0;
#define VRAM__LOW_PART(field, type, bytes)                                                         \
  do {                                                                                             \
    if (l)                                                                                         \
      l->field = (type *)(void *)(mem + at);                                                       \
    at += ((bytes) + 15) & ~(uint64_t)15;                                                          \
  } while (0)
  if (value / sizeof(vram__low_value) != g->nvalue)
    return VRAM_OVERFLOW;
  VRAM__LOW_PART(value, vram__low_value, value);
  VRAM__LOW_PART(claimed, uint8_t, (uint64_t)g->nparam);
  VRAM__LOW_PART(tensor, vram__low_tensor, (lines + 1) * sizeof(vram__low_tensor));
  VRAM__LOW_PART(step, vram__low_step, lines * sizeof(vram__low_step));
  VRAM__LOW_PART(in, vram__low_in, in);
  VRAM__LOW_PART(hash, uint32_t, lines * sizeof(uint32_t));
  if (l) {
    vram__zero(l->value, value);
    vram__zero(l->claimed, g->nparam);
    l->net->line = (vram_net_line *)(void *)(mem + at);
  }
#undef VRAM__LOW_PART
  return at + lines * (sizeof(vram_net_line) + VRAM__LOW_TEXT);
}

VRAM_API uint64_t vram_net_lower_bytes(const vram_graph *g) {
  return vram__low_share(NULL, g, NULL) + 16;
}

VRAM_API vram_result vram_net_lower(const vram_graph *g, const vram_net_lower_options *o, void *mem,
                                    uint64_t bytes, vram_net *net, vram_error *err) {
  vram__low l;
  const vram_node *n;
  vram_error own;
  uint64_t all = vram_net_lower_bytes(g);
  uint8_t *base = (uint8_t *)mem;
  uint32_t i, k;
  vram__zero(&l, sizeof l);
  vram__zero(net, sizeof *net);
  err = err ? err : &own;
  vram__zero(err, sizeof *err);
  l.g = g;
  l.net = net;
  l.err = err;
  if (o)
    l.o = *o;
  l.o.align = l.o.align ? l.o.align : 16;
  if (bytes < all || all < 16)
    return vram__chain_error(err, VRAM_ERR_MEMORY, 0, "the memory given is too small");
  base += (16 - ((uintptr_t)base & 15)) & 15;
  vram__low_share(&l, g, base);
  l.max_in = (uint32_t)vram__low_inputs(g);
  l.mem = base + (all - 16 - VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT); /* names come last */
  l.cap = VRAM_MAX_NET_LINES * (uint64_t)VRAM__LOW_TEXT;
  net->name = l.o.name;
  vram__low_need(&l);
  if (!vram__low_input(&l))
    return err->code;
  for (n = g->first; n; n = n->next) {
    int need = 0;
    for (i = 0; i < n->nout; i++)
      need |= l.value[n->out[i].index].need;
    if (!need || n->op >= VRAM_OP_COUNT)
      continue;
    if (!vram__low_node(&l, n))
      return err->code;
    if (n->flags & VRAM__INPLACE) { /* who reads the old value reads the new one */
      vram__low_value *x = vram__low_of(&l, n->in[0]), *y = l.value + n->out[0].index;
      if (x->kind == VRAM__LOW_TENSOR && y->kind == VRAM__LOW_TENSOR && x->at != y->at)
        l.tensor[x->at].instead = y->at;
    }
  }
  for (n = g->first; n; n = n->next)
    for (i = 0; i < n->nout; i++)
      if (l.value[n->out[i].index].need > 1) {
        const vram__low_value *y = vram__low_of(&l, n->out + i);
        if (y->kind != VRAM__LOW_TENSOR || l.tensor[y->at].step == VRAM__LOW_NO) {
          vram__low_not(&l, n, "the output is the input: no line makes it");
          return err->code;
        }
        l.tensor[y->at].output = 1;
      }
  vram__low_fuse(&l);
  for (k = 0; k < l.nstep; k++)
    if (!l.step[k].fused && !vram__low_write(&l, l.step + k))
      return err->code;
  if (!vram__low_line(&l, VRAM_LINE_END, "", ""))
    return err->code;
  return VRAM_OK;
}

