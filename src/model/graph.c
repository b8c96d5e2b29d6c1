/* >>model/graph    nodes, values and parameters in the caller's memory; a graph built by calls */
#include "model/model.h"

VRAM__FN void *vram__graph_take(vram_graph *g, uint64_t n) {
  void *p = vram__memory_take(g->mem, &g->used, g->cap, n);
  if (!p)
    vram__graph_fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return p;
}

/* The values of a key; NULL: there is none. */
VRAM__FN const int64_t *vram__attr_find(const int64_t *attr, uint32_t key, uint32_t *count) {
  while (attr && *attr) {
    const uint32_t values = (uint32_t)(*attr >> 8) & 0xffffu;
    if ((uint32_t)(*attr & 0xff) == key) {
      if (count)
        *count = values;
      return attr + 1;
    }
    attr += 1 + values;
  }
  if (count)
    *count = 0;
  return NULL;
}

VRAM__FN const int64_t *vram__node_list(const vram_node *n, uint32_t key, uint32_t *count) {
  return vram__attr_find(n->attr, key, count);
}

VRAM__FN int64_t vram__node_int(const vram_node *n, uint32_t key, int64_t def) {
  const int64_t *v = vram__node_list(n, key, NULL);
  return v ? *v : def;
}

/* A dtype of the text in a run in the model's own dtype. */
VRAM__FN vram_dtype vram__graph_own_dtype(const vram_graph *g, vram_dtype dt) {
  if (dt != VRAM_DTYPE_MODEL)
    return dt;
  return g->dtype ? g->dtype : VRAM_F32;
}

/* What torch.get_default_dtype() stands for: where f32 is the model's dtype it cannot be told. */
VRAM__FN vram_dtype vram__graph_default_dtype(const vram_graph *g) {
  return g->dtype ? VRAM_F32 : VRAM_DTYPE_MODEL;
}

/* What the node's key dtype= says for such a run, or `def`. */
VRAM__FN vram_dtype vram__graph_key_dtype(const vram_graph *g, const vram_node *n, vram_dtype def) {
  return vram__graph_own_dtype(g, (vram_dtype)VRAM__INT(n, dtype, def));
}

VRAM__FN const vram_dims *vram__graph_dims(vram_graph *g, uint32_t n, const int64_t *size) {
  uint64_t z = 16; /* bytes of the widest element */
  uint32_t i;
  const vram_dims *d;
  for (i = 0; i < n; i++) {
    if (size[i] < 0) {
      vram__graph_fail(g, VRAM_ERR_SHAPE, "a size is negative");
      return NULL;
    }
    z = vram__product_or_overflow(z, (uint64_t)(size[i] ? size[i] : 1));
  }
  if (z == VRAM_OVERFLOW) {
    vram__graph_fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
    return NULL;
  }
  d = vram__dims_get(g->mem, &g->used, g->cap, g->cache, n, size, NULL);
  if (!d)
    vram__graph_fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return d;
}

VRAM__FN int vram__node_out_dims(vram_node *n, uint32_t i, const vram_dims *d, vram_dtype dtype) {
  if (!d)
    return 0;
  if (i < n->nout)
    n->out[i].d = d, n->out[i].dtype = dtype;
  return 1;
}

VRAM__FN int vram__node_out(vram_graph *g, vram_node *n, uint32_t i, uint32_t ndim,
                            const int64_t *size, vram_dtype dtype) {
  return vram__node_out_dims(n, i, vram__graph_dims(g, ndim, size), dtype);
}

VRAM__FN int vram__node_error(vram_graph *g, const vram_node *n, const char *what) {
  uint32_t i;
  vram__graph_fail(g, VRAM_ERR_SHAPE, what);
  for (i = 0; i < n->nin && i < 4; i++) {
    vram__error_more(g, i ? ", " : " (found ");
    vram__error_more_dims(g, n->in[i]->d);
  }
  if (n->nin)
    vram__error_more(g, ")");
  return 0;
}

/* The recurrent node whose weights came last is complete. */
VRAM__FN void vram__owned_flat(vram__owned *o) {
  if (o->flat)
    vram__total_add(&o->all[0], o->flat);
  o->flat = 0;
}

/* Elements that the storage of a rank's part has beyond it: all ranks' are equal. */
VRAM__FN uint64_t vram__param_padding(const vram_param *p) {
  const vram_node *n = p->node;
  const int64_t ranks = VRAM__INT(n, ranks, 1) < 1 ? 1 : VRAM__INT(n, ranks, 1),
                rows = p->d->ndim ? p->d->v[0] : 0,
                each = (VRAM__INT(n, whole, 0) + ranks - 1) / ranks;
  if (!rows || each <= rows)
    return 0;
  return vram__product_or_overflow((uint64_t)(each - rows), p->d->numel / (uint64_t)rows);
}

/* p takes so many bytes. */
VRAM__FN void vram__owned_add(vram__owned *o, const vram_param *p, uint64_t bytes) {
  const int buffer = p->kind == VRAM__BUFFER;
  uint64_t *sum = buffer ? &o->buffers_bytes : &o->params_bytes;
  const uint32_t traits = vram__op_traits(p->node);
  if (*sum > (uint64_t)VRAM_MAX_BYTES)
    return;
  *sum += bytes;
  if (o->flat_node != p->node)
    vram__owned_flat(o);
  if (traits & VRAM__OP_FLAT)
    o->flat += bytes, o->flat_node = p->node;
  else if (!(traits & VRAM__OP_PARAM))
    vram__total_add(&o->all[buffer], bytes);
  if (p->kind == VRAM__PARAM) /* what is beside them does not learn */
    vram__total_add(&o->trainable,
                    p->is_dtensor && p->d->numel
                        ? bytes / (p->d->numel + vram__param_padding(p)) * p->d->numel
                        : bytes);
}

/* 1: a row of such a tensor ends where a block of its dtype ends. */
VRAM__FN int vram__whole_blocks(vram_graph *g, const vram_dims *d, vram_dtype dtype) {
  const int64_t row = d->ndim ? d->v[d->ndim - 1] : 1, each = vram__dtype_rows[dtype].row_multiple;
  if (row % each == 0)
    return 1;
  vram__graph_fail(g, VRAM_ERR_BLOCK, "a row that does not divide into blocks of ");
  vram__error_more(g, vram__dtype_rows[dtype].name);
  vram__error_more(g, " (found ");
  vram__error_more_i(g, row);
  vram__error_more(g, ", expected a multiple of ");
  vram__error_more_i(g, each);
  vram__error_more(g, ")");
  return 0;
}

static int vram__dims_same_sizes(const vram_dims *a, const vram_dims *b) {
  uint32_t i;
  if (a->ndim != b->ndim)
    return 0;
  for (i = 0; a != b && i < a->ndim; i++)
    if (a->v[i] != b->v[i])
      return 0;
  return 1;
}

/* Slot i becomes the weight or buffer of that role that `weights=` lends; 0: an error, 2: it lends
   none. */
static int vram__node_borrow(vram_graph *g, vram_node *n, uint32_t i, const char *role,
                             const vram_dims *d, int buffer) {
  const int64_t *from = vram__node_list(n, VRAM__KEY_weights, NULL);
  const vram_node *lender;
  uint32_t k;
  if (!from)
    return 2;
  lender = (const vram_node *)(uintptr_t)*from;
  for (k = 0; k < lender->nparam; k++) {
    vram_param *p = lender->param[k];
    if (!p || (p->kind == VRAM__BUFFER) != buffer ||
        !vram__text_is(role, vram__text_len(role), p->role))
      continue;
    if (vram__dims_same_sizes(p->d, d)) {
      n->param[i] = p;
      return 1;
    }
    vram__graph_fail(g, VRAM_ERR_SHAPE, "weights= names a node whose ");
    vram__error_more(g, role);
    vram__error_more(g, " has another shape (found ");
    vram__error_more_dims(g, p->d);
    vram__error_more(g, ", expected ");
    vram__error_more_dims(g, d);
    vram__error_more(g, ")");
    return 0;
  }
  if (i)
    return 2;
  vram__graph_fail(g, VRAM_ERR_NAME, "weights= names a node without a weight");
  return 0;
}

/* The dtype of a parameter that would have `dtype`, where the node's key asks for another one.
   Block dtypes are for matrices: as in GGUF, a bias or a norm keeps its own. Of a custom op the key
   is the output's: numbers that are not floating point are no weights. */
static vram_dtype vram__weight_dtype(const vram_graph *g, const vram_node *n, uint32_t ndim,
                                     vram_dtype dtype) {
  const vram_dtype asked = (vram_dtype)VRAM__INT(n, dtype, dtype),
                   own = vram__graph_own_dtype(g, asked);
  if (n->op == VRAM_OP_custom)
    return vram__kind_rank(own) == 2 ? asked : dtype;
  return ndim > 1 || vram__dtype_rows[own].row_multiple == 1 ? asked : dtype;
}

/* The same of a buffer: where the model's dtype is named the key holds for it, too, as a module
   that is converted converts its running statistics. */
static vram_dtype vram__buffer_dtype(const vram_graph *g, const vram_node *n, vram_dtype dtype) {
  const vram_dtype asked = (vram_dtype)VRAM__INT(n, dtype, dtype);
  const int floats = vram__kind_rank(vram__graph_own_dtype(g, asked)) == 2 &&
                     vram__kind_rank(vram__graph_own_dtype(g, dtype)) == 2;
  return g->dtype && n->op != VRAM_OP_custom && floats ? asked : dtype;
}

/* The next parameter, all zero; NULL: no memory. They lie one behind the other, so that a step that
   goes over them does not read all of the graph: when there is no room, it is taken for as many as
   there are. */
static vram_param *vram__param_take(vram_graph *g) {
  vram_param *p = g->param_room ? g->param_last + 1 : NULL;
  if (!p) {
    const uint32_t room = g->nparam < 32 ? g->nparam + !g->nparam : 32;
    p = (vram_param *)vram__graph_take(g, room * sizeof *p);
    if (!p)
      return NULL;
    g->param_room = room;
  }
  g->param_room--;
  vram__memory_zero(p, sizeof *p);
  return p;
}

/* An adapter learns in place of what it is added to. */
VRAM__FN int vram__param_is_frozen(const vram_graph *g, const vram_node *n) {
  return VRAM__INT(n, frozen, 0) || vram__node_list(n, VRAM__KEY_lora, NULL) != NULL ||
         (vram__adapt_freezes(g) && !vram__adapt_saves(g));
}

/* What a rank has of a weight is a DTensor. */
static void vram__param_shard(vram_graph *g, vram_param *p) {
  const vram_node *n = p->node;
  const int64_t *how;
  if (p->kind == VRAM__BUFFER)
    return;
  how = vram__node_list(n, VRAM__KEY_parallel, NULL);
  if (how) {
    p->is_expert = *how == VRAM__WORD(expert);
    p->is_partial = *how == VRAM__WORD(sequence);
  }
  p->is_dtensor = n->op == VRAM_OP_embedding_shard || (how && !p->is_expert);
  g->is_cut |= p->is_dtensor | p->is_expert;
}

/* One more parameter of the node, of these sizes; NULL: no memory, or part of a block. */
static vram_param *vram__param_add(vram_graph *g, vram_node *n, const char *role,
                                   const vram_dims *d, vram_dtype dtype, uint8_t kind) {
  vram_param *p = vram__param_take(g);
  if (!p)
    return NULL;
  p->d = d;
  p->node = n;
  p->role = role;
  p->index = g->nparam++;
  p->dtype = vram__graph_own_dtype(g, dtype);
  p->is_model = dtype == VRAM_DTYPE_MODEL;
  p->kind = kind;
  p->is_value = (vram__op_traits(n) & VRAM__OP_PARAM) != 0;
  vram__param_shard(g, p);
  if (kind == VRAM__PARAM && vram__kind_rank(p->dtype) < 2)
    p->kind = VRAM__FROZEN; /* only floating point and complex tensors can want a gradient */
  if (!vram__whole_blocks(g, d, p->dtype))
    return NULL;
  if (g->param_last)
    g->param_last->next = p;
  else
    g->param_first = p;
  g->param_last = p;
  vram__owned_add(g->owned, p, vram__param_bytes(p, p->dtype));
  return p;
}

/* A parameter of its own for slot i of the node, or the one that `weights=` lends. */
VRAM__FN int vram__node_own(vram_graph *g, vram_node *n, uint32_t i, const char *role,
                            uint32_t ndim, const int64_t *size, vram_dtype dtype, uint8_t kind) {
  const vram_dims *d = vram__graph_dims(g, ndim, size);
  const int as_is = (kind & VRAM__AS_IS) != 0;
  vram_param *p;
  int lent;
  if (!d)
    return 0;
  kind &= (uint8_t)~VRAM__AS_IS;
  lent = vram__node_borrow(g, n, i, role, d, kind == VRAM__BUFFER);
  if (lent != 2)
    return lent;
  if (!g->owned) { /* the first parameter */
    g->owned = (vram__owned *)vram__graph_take(g, sizeof *g->owned);
    if (!g->owned)
      return 0;
    vram__memory_zero(g->owned, sizeof *g->owned);
  }
  if (!as_is)
    dtype = kind == VRAM__BUFFER ? vram__buffer_dtype(g, n, dtype)
                                 : vram__weight_dtype(g, n, ndim, dtype);
  if (kind == VRAM__PARAM && !as_is && vram__param_is_frozen(g, n) &&
      !vram__adapt_learns_bias(g, n, role))
    kind = VRAM__FROZEN;
  if (kind != VRAM__FROZEN && vram__adapt_saves(g) &&
      !vram__param_add(g, n, role, d, dtype, kind == VRAM__PARAM ? (uint8_t)VRAM__FROZEN : kind))
    return 0;
  p = vram__param_add(g, n, role, d, dtype, kind);
  if (!p)
    return 0;
  n->param[i] = p;
  return 1;
}

VRAM_API vram_result vram_graph_init(vram_graph *g, void *mem, uint64_t bytes) {
  uint64_t skip = (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  vram__memory_zero(g, sizeof *g);
  if (mem && bytes > skip) {
    g->mem = (uint8_t *)mem + skip;
    g->cap = bytes - skip;
  }
  return VRAM_OK;
}

VRAM_API vram_result vram_graph_dtype(vram_graph *g, vram_dtype dtype) {
  if (!g->error.code && !vram__dtype_of_models(dtype))
    vram__graph_fail(g, VRAM_ERR_VALUE, "the model's dtype is none of f32, bf16, f16 and f64");
  if (!g->error.code && (g->ninput || g->nnode))
    vram__graph_fail(g, VRAM_ERR_VALUE, "the model's dtype behind inputs or nodes");
  if (!g->error.code)
    g->dtype = dtype;
  return g->error.code;
}

VRAM_API vram_value *vram_graph_input(vram_graph *g, const char *name, vram_dtype dtype,
                                      uint32_t ndim, const int64_t *size, int grad) {
  const vram__span label = vram__span_all(name);
  vram_value *v;
  if (g->error.code)
    return NULL;
  if (!g->dtype && dtype == VRAM_F32)
    dtype = VRAM_DTYPE_MODEL;
  else if (!g->dtype && dtype == VRAM_DTYPE_MODEL)
    dtype = VRAM_DTYPE_NONE;
  if (!vram__span_is_name(label) || dtype <= VRAM_DTYPE_NONE ||
      (dtype >= VRAM_DTYPE_COUNT && dtype != VRAM_DTYPE_MODEL) || ndim > VRAM_MAX_AXES) {
    vram__graph_fail(g, VRAM_ERR_VALUE, "an input without a proper name, dtype or number of axes");
    return NULL;
  }
  v = vram__graph_input(g, label, dtype, ndim, size);
  if (v && grad && vram__kind_rank(v->dtype) < 2) {
    vram__graph_fail(g, VRAM_ERR_VALUE, "a gradient for an input that is not floating point");
    return NULL;
  }
  if (v && grad)
    v->flags |= VRAM__GRAD;
  return v;
}

/* The keys of a call, written as in a text; 0: an error. */
static int vram__apply_keys(vram__parser *p, uint32_t op, vram__keys *keys) {
  while (vram__parse_token(p)) {
    if (!vram__text_holds(p->token.text, p->token.len, '='))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a key", p->token, "KEY=VALUE");
    if (!vram__key_read(p, op, p->token, keys))
      return 0;
  }
  return 1;
}

VRAM_API vram_node *vram_graph_apply(vram_graph *g, vram_op op, const char *names,
                                     vram_value *const *in, uint32_t nin, const char *keys) {
  vram__parser p;
  vram__request r;
  vram__keys given;
  int64_t words[1024];
  vram_value *few[VRAM__FEW_INPUTS], **x = few;
  vram_node *n;
  if (g->error.code)
    return NULL;
  if ((uint32_t)op >= VRAM_OP_COUNT || nin > VRAM__MAX_INPUTS || !names) {
    vram__graph_fail(g, VRAM_ERR_VALUE,
                     names ? "an unknown op, or more than 4096 inputs" : "a node without a name");
    return NULL;
  }
  if (nin > VRAM__FEW_INPUTS)
    x = (vram_value **)vram__graph_take(g, nin * (uint64_t)sizeof *x);
  if (!x)
    return NULL;
  for (r.nin = 0; r.nin < nin; r.nin++) {
    x[r.nin] = in[r.nin];
    if (!x[r.nin]) {
      vram__graph_fail(g, VRAM_ERR_VALUE, "an input that is NULL");
      return NULL;
    }
  }
  vram__memory_zero(&p, sizeof p);
  p.g = g;
  p.tabs = 1; /* perhaps */
  p.start = p.at = keys ? keys : "";
  p.end = p.text_end = p.start + vram__text_len(p.start);
  words[0] = 0;
  given.words = words;
  given.count = 0;
  given.room = 1000;
  r.op = (uint32_t)op;
  r.in = x;
  r.keys = &given;
  if (!vram__apply_keys(&p, r.op, &given) ||
      !vram__parse_node(&p, &r, vram__span_all(names), p.start, &n))
    return NULL;
  return n;
}

/* The node's name without its rounds. The values that an op is written out to have all the name of
   the last one, and a node without outputs ends with one of them. */
VRAM__FN vram__span vram__node_label(const vram_node *n) {
  const vram_value *v;
  vram__span label;
  if (n->flags & VRAM__DROPS)
    return vram__span_all(vram_op_name(n->op));
  v = n->nout ? n->out : n->in[n->nin - 1];
  label.text = v->name;
  label.len = v->name_len;
  return label;
}

/* Do both belong to one line of the text, in one round of its loops? */
VRAM__FN int vram__node_same_line(const vram_node *a, const vram_node *b) {
  return a->round == b->round && vram__node_label(a).text == vram__node_label(b).text;
}

VRAM_API uint32_t vram_node_name(const vram_node *n, char *to, uint32_t cap) {
  const vram__round *r, *round[VRAM_MAX_LOOPS];
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t k = 0, len = 0, copied = 0;
  name[0] = 0;
  if (n) {
    const vram__span own = vram__node_label(n);
    vram__text_put(name, sizeof name, &len, own.text, own.len);
  }
  for (r = n ? n->round : NULL; r && k < VRAM_MAX_LOOPS; r = r->up)
    round[k++] = r;
  while (k) {
    vram__text_puts(name, sizeof name, &len, "[");
    vram__text_puti(name, sizeof name, &len, round[--k]->round);
    vram__text_puts(name, sizeof name, &len, "]");
  }
  if (cap)
    vram__text_put(to, cap, &copied, name, len);
  return len;
}

VRAM_API vram_value *vram_node_output(vram_node *n, uint32_t i) {
  return n && i < n->nout ? n->out + i : NULL;
}

VRAM_API vram_result vram_graph_outputs(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  if (!g->error.code && (g->noutput || !n))
    vram__graph_fail(g, VRAM_ERR_VALUE, n ? "outputs named twice" : "no output");
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__graph_fail(g, VRAM_ERR_VALUE, "an output that is NULL");
  if (g->error.code)
    return g->error.code;
  g->root = v[0];
  g->noutput = n;
  while (n--)
    v[n]->flags |= VRAM__OUTPUT, v[n]->last = UINT32_MAX;
  return VRAM_OK;
}

VRAM__FN void vram__graph_infer(vram_graph *g, vram_value *const *v, uint32_t n) {
  g->inferred = v[0];
  while (n--)
    v[n]->flags |= VRAM__INFERRED;
}

VRAM_API vram_result vram_graph_infer(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  if (!g->error.code && (g->inferred || !n))
    vram__graph_fail(g, VRAM_ERR_VALUE, n ? "results of inference named twice" : "no result");
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__graph_fail(g, VRAM_ERR_VALUE, "a result that is NULL");
  if (!g->error.code)
    vram__graph_infer(g, v, n);
  return g->error.code;
}

/* The values of a call as lines of that op, of 64 each at most. */
static vram_result vram__graph_lifetimes(vram_graph *g, uint32_t op, vram_value *const *v,
                                         uint32_t n, const char *missing) {
  vram_value *in[64];
  uint32_t i, count;
  for (; n && !g->error.code; v += count, n -= count) {
    count = n < 64 ? n : 64;
    for (i = 0; i < count; i++) {
      in[i] = v[i];
      if (!in[i])
        vram__graph_fail(g, VRAM_ERR_VALUE, missing);
    }
    if (g->error.code || !vram__node_lifetime(g, op, in, count))
      break;
  }
  return g->error.code;
}

VRAM_API vram_result vram_graph_drop(vram_graph *g, vram_value *const *v, uint32_t n) {
  return vram__graph_lifetimes(g, VRAM__OP_drop, v, n, "a dropped value that is NULL");
}

VRAM_API vram_result vram_graph_store(vram_graph *g, vram_value *cache, vram_value *v) {
  vram_value *both[2];
  both[0] = cache;
  both[1] = v;
  return vram__graph_lifetimes(g, VRAM__OP_store, both, v ? 2 : 1, "a cache that is NULL");
}

VRAM_API vram_result vram_graph_requires_grad(vram_graph *g, vram_value *const *v, uint32_t n) {
  return vram__graph_lifetimes(g, VRAM__OP_requires_grad, v, n,
                               "a value that is to want a gradient is NULL");
}

VRAM_API vram_result vram_graph_keep(vram_graph *g, vram_value *const *v, uint32_t n) {
  return vram__graph_lifetimes(g, VRAM__OP_keep, v, n, "a kept value that is NULL");
}
