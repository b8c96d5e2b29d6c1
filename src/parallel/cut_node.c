/* >>parallel/cut_node    nodes of one rank's graph: copies with local sizes, collectives */
#include "parallel/cut.h"

/* Rows of rank `rank` as torch.chunk deals them. */
VRAM__FN int64_t vram__rank_part(int64_t whole, int64_t ranks, int64_t rank) {
  const int64_t each = (whole + ranks - 1) / ranks, from = each * rank;
  return from >= whole ? 0 : whole - from < each ? whole - from : each;
}

/* An error about a node of the whole graph; always 0. */
VRAM__FN int vram__rank_refuse(vram__rank_cut *c, const vram_node *n, const char *what) {
  const vram__span label = vram__node_label(n);
  if (c->g->error.code)
    return 0;
  vram__graph_fail(c->g, VRAM_ERR_UNSUPPORTED, what);
  vram__error_more(c->g, " (");
  vram__error_more_n(c->g, label.text, label.len);
  if (n->nparam && n->param[0]) {
    vram__error_more(c->g, ", weight ");
    vram__error_more_dims(c->g, n->param[0]->d);
  }
  vram__error_more(c->g, ")");
  c->g->error.line = n->line;
  c->g->error.column = n->line != 0;
  return 0;
}

/* No keys: those of a node that is made. */
VRAM__FN void vram__rank_keys_none(vram__rank_cut *c) {
  c->keys.words = c->words;
  c->keys.room = 1000;
  c->keys.count = 0;
  c->words[0] = 0;
}

/* The keys of a node of the whole graph, to be changed. */
VRAM__FN void vram__rank_keys(vram__rank_cut *c, const vram_node *n) {
  uint32_t k = 0, i;
  for (i = 0; n->attr && n->attr[k] && k < 960; i = 0) {
    const uint32_t values = (uint32_t)(n->attr[k] >> 8) & 0xffffu;
    if (k + 1 + values > 960)
      break;
    for (; i <= values; i++)
      c->words[k + i] = n->attr[k + i];
    k += 1 + values;
  }
  c->words[k] = 0;
  c->keys.words = c->words;
  c->keys.count = k;
  c->keys.room = 1000;
}

VRAM__FN void vram__rank_key_drop(vram__rank_cut *c, uint32_t key) {
  uint32_t at = 0, i;
  while (at < c->keys.count) {
    const uint32_t n = 1 + ((uint32_t)(c->words[at] >> 8) & 0xffffu);
    if ((uint32_t)(c->words[at] & 0xff) != key) {
      at += n;
      continue;
    }
    for (i = at; i + n <= c->keys.count; i++)
      c->words[i] = c->words[i + n];
    c->keys.count -= n;
  }
}

/* key=to, in the place of what it was. */
VRAM__FN void vram__rank_key_set(vram__rank_cut *c, uint32_t key, int64_t to) {
  int64_t *v;
  uint32_t count;
  v = (int64_t *)(uintptr_t)vram__attr_find(c->words, key, &count);
  if (v && count == 1) {
    *v = to;
    return;
  }
  vram__rank_key_drop(c, key);
  c->words[c->keys.count++] = (int64_t)(key | 1u << 8);
  c->words[c->keys.count++] = to;
  c->words[c->keys.count] = 0;
}

/* The lender that `weights=` names is another node here. */
static int vram__rank_key_nodes(vram__rank_cut *c) {
  int64_t *v = (int64_t *)(uintptr_t)vram__attr_find(c->words, VRAM__KEY_weights, NULL);
  if (!v)
    return 1;
  *v = (int64_t)(uintptr_t)c->node[((const vram_node *)(uintptr_t)*v)->index];
  return *v != 0;
}

/* A node with the keys that there are, in the place of node n of the whole graph; NULL: an error.
 */
VRAM__FN vram_node *vram__rank_emit(vram__rank_cut *c, const vram_node *n, uint32_t op,
                                    vram_value **in, uint32_t nin) {
  vram__request r;
  vram_node *y;
  uint32_t i;
  vram__memory_zero(&r, sizeof r);
  r.op = op;
  r.in = in;
  r.nin = nin;
  r.nout = n->nout;
  r.keys = &c->keys;
  c->g->autocast = n->autocast;
  c->g->no_grad = n->flags & VRAM__NO_GRAD ? 1 : 0;
  if (!vram__rank_key_nodes(c))
    return NULL;
  if (!vram__node_emit(&c->parser, &r, &y)) {
    c->g->error.line = n->line;
    return NULL;
  }
  for (i = 0; i < n->nout; i++) {
    y->out[i].name = n->out[i].name;
    y->out[i].name_len = n->out[i].name_len;
  }
  y->flags |= n->flags & (VRAM__LOSS | VRAM_NODE_INNER | VRAM__CHECKPOINTED);
  y->line = n->line;
  y->round = n->round;
  return y;
}

/* A collective on x behind or before node n: ranks= and what else c->keys have. Its name is that of
   the value, or c->name where there is one, and what it does behind a point. */
VRAM__FN vram_node *vram__rank_collective(vram__rank_cut *c, const vram_node *n, uint32_t op,
                                          vram_value *x, const char *suffix) {
  char name[VRAM_MAX_NAME + 1];
  const int is_of_node = c->name.len != 0;
  const vram__span of = is_of_node ? c->name : vram__span_of(x->name, x->name + x->name_len);
  vram__request r;
  vram_node *y;
  uint32_t i, len = 0;
  c->name.len = 0;
  vram__memory_zero(&r, sizeof r);
  r.op = op;
  r.in = &x;
  r.nin = 1;
  r.nout = op == VRAM_OP_reduce_scatter || op == VRAM_OP_all_to_all ? 2 : 1;
  r.keys = &c->keys;
  if (!(vram__op_at(op)->traits & VRAM__OP_ALIAS) && op != VRAM_OP_from_local)
    vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  c->g->autocast = n->autocast;
  c->g->no_grad = n->flags & VRAM__NO_GRAD ? 1 : 0;
  if (!vram__node_emit(&c->parser, &r, &y)) {
    c->g->error.line = n->line;
    return NULL;
  }
  for (i = 0; i < y->nout; i++) {
    len = 0;
    vram__text_put(name, VRAM_MAX_NAME, &len, of.text, of.len);
    vram__text_puts(name, VRAM_MAX_NAME, &len, i ? ".flight" : suffix);
    y->out[i].name = vram__graph_keep_text(c->g, name, len);
    y->out[i].name_len = (uint8_t)len;
    if (!y->out[i].name)
      return NULL;
  }
  y->line = n->line;
  y->round = is_of_node ? n->round : x->node ? x->node->round : NULL;
  return y;
}

/* What node n reads of v as it was made: who reads it first waits for it. NULL: an error. */
VRAM__FN vram_value *vram__rank_own(vram__rank_cut *c, const vram_node *n, const vram_value *v) {
  vram__rank_value *at = c->value + v->index;
  vram_value *both[2];
  vram__request r;
  vram__span label;
  vram_node *y;
  char name[VRAM_MAX_NAME + 1];
  uint32_t len = 0;
  int unit;
  if (!at->own || !at->flight)
    return at->own;
  vram__memory_zero(&r, sizeof r);
  both[0] = at->own;
  both[1] = at->flight;
  r.op = VRAM_OP_wait;
  r.in = both;
  r.nin = 2;
  r.nout = 1;
  c->g->autocast = n->autocast;
  c->g->no_grad = n->flags & VRAM__NO_GRAD ? 1 : 0;
  if (!vram__node_emit(&c->parser, &r, &y))
    return NULL;
  /* where modules are units the reader's module waits, else the node is one of the collective's, as
     calls of checkpoint() hold what their nodes read */
  unit = c->p->wrapper == VRAM_WRAPPER_FSDP2 || c->p->wrapper == VRAM_WRAPPER_FSDP1;
  label = unit || !v->node ? vram__node_label(n) : vram__node_label(v->node);
  vram__text_put(name, VRAM_MAX_NAME, &len, label.text, label.len);
  vram__text_puts(name, VRAM_MAX_NAME, &len, ".wait");
  y->out[0].name = vram__graph_keep_text(c->g, name, len);
  y->out[0].name_len = (uint8_t)len;
  y->line = n->line;
  y->round = unit || !v->node ? n->round : v->node->round;
  at->flight = NULL;
  at->own = y->out;
  return y->out[0].name ? at->own : NULL;
}

/* ---- sizes in keys */

/* The axis of a shape that the cut axis of x becomes: it begins where as many elements lie before
   it. */
static uint32_t vram__rank_axis_in(const vram_dims *x, uint32_t cut, const int64_t *shape,
                                   uint32_t count) {
  int64_t before = 1, at = 1;
  uint32_t i;
  for (i = 0; i < cut; i++)
    before *= x->v[i];
  for (i = 0; i + 1 < count && at * shape[i] <= before; i++)
    at *= shape[i];
  return i;
}

/* shape=, sizes= of a view, an expansion: the axis that is cut gets this rank's size. */
static int vram__rank_sizes(vram__rank_cut *c, const vram_node *n, uint32_t key, uint32_t cut) {
  const vram_dims *x = n->in[0]->d, *y = n->out[0].d;
  const int64_t local = c->value[n->in[0]->index].own->d->v[cut];
  uint32_t count, a;
  int64_t *v = (int64_t *)(uintptr_t)vram__attr_find(c->words, key, &count), inner;
  if (!v)
    return 1;
  if (n->op == VRAM_OP_expand) { /* aligned at the last axis */
    a = cut + count - x->ndim;
    if (v[a] == x->v[cut])
      v[a] = local;
    return 1;
  }
  if (n->op != VRAM_OP_view && n->op != VRAM_OP_reshape)
    return 1;
  a = vram__rank_axis_in(x, cut, y->v, y->ndim);
  if (a >= count || v[a] < 0)
    return 1;
  /* what of the axis stays whole: features of a head */
  inner = v[a] ? x->v[cut] / v[a] : 1;
  if (v[a] > x->v[cut]) /* other axes come together with it */
    v[a] = x->v[cut] ? v[a] / x->v[cut] * local : v[a];
  else if (inner && local % inner == 0 && x->v[cut] % v[a] == 0)
    v[a] = local / inner;
  else {
    vram__rank_refuse(c, n, "shape");
    vram__error_more(c->g, ": ");
    vram__error_more_dims(c->g, y);
    vram__error_more(c->g, " is invalid for input of size ");
    vram__error_more_i(c->g, (int64_t)c->value[n->in[0]->index].own->d->numel);
    vram__error_more(c->g, ": ");
    vram__error_more_i(c->g, v[a]);
    vram__error_more(c->g, " do not divide by tp=");
    vram__error_more_i(c->g, c->ranks);
    return 0;
  }
  return 1;
}

/* Which axis of y is another size than in the whole graph; 0: none, UINT8_MAX: several. */
static uint8_t vram__rank_axis_of(const vram_dims *whole, const vram_dims *y) {
  uint8_t cut = 0;
  uint32_t i;
  if (whole->ndim != y->ndim)
    return UINT8_MAX;
  for (i = 0; i < y->ndim; i++)
    if (whole->v[i] != y->v[i])
      cut = cut ? UINT8_MAX : (uint8_t)(i + 1);
  return cut;
}

/* Ops that look at all of an axis: it must not be the one that is cut. */
static int vram__rank_needs_axis(const vram_node *n, uint32_t cut) {
  static const uint16_t ops[] = {VRAM_OP_softmax,      VRAM_OP_log_softmax, VRAM_OP_cumsum,
                                 VRAM_OP_cumprod,      VRAM_OP_sort,        VRAM_OP_topk,
                                 VRAM_OP_flip,         VRAM_OP_roll,        VRAM_OP_logsumexp,
                                 VRAM_OP_cross_entropy};
  uint32_t i, a;
  for (i = 0; i < sizeof ops / sizeof *ops && ops[i] != n->op;)
    i++;
  if (i == sizeof ops / sizeof *ops)
    return 0;
  if (n->op == VRAM_OP_cross_entropy)
    return cut == (n->in[0]->d->ndim > 1 ? 1u : 0u);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a);
  return a == cut;
}

/* Weights that would be cut, which nobody asked for. */
static int vram__rank_keeps_params(const vram_node *n, const vram_node *y) {
  uint32_t i;
  for (i = 0; i < n->nparam && i < y->nparam; i++)
    if (n->param[i] && y->param[i] && vram__rank_axis_of(n->param[i]->d, y->param[i]->d))
      return 0;
  return 1;
}

/* Does node n read a part of a sequence? */
static int vram__rank_reads_part(const vram__rank_cut *c, const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    if (c->value[n->in[i]->index].is_sequence)
      return 1;
  return 0;
}

/* Is m a line of the module whose name, with the point, are the first len letters of n's? */
static int vram__rank_is_beside(const vram_node *m, const vram_node *n, uint32_t len) {
  const vram__span a = vram__node_label(m), b = vram__node_label(n);
  uint32_t i;
  if (a.len <= len || m->round != n->round || !vram__text_equal(a.text, b.text, len))
    return 0;
  for (i = len; i < a.len && a.text[i] != '.';)
    i++;
  return i == a.len;
}

/* The norm that is written out around node n: lines of one module, a reciprocal root and weights
   among them. Of no length: there is none. */
static vram__span vram__rank_norm_around(const vram_node *n) {
  const vram__span label = vram__node_label(n);
  const vram_node *m, *first = n;
  uint32_t len = label.len;
  int norm = 0, weights = 0;
  while (len && label.text[len - 1] != '.')
    len--;
  for (m = len ? n : NULL; m; m = vram__node_before(m)) {
    if (m->op < VRAM_OP_COUNT && !vram__rank_is_beside(m, n, len))
      break;
    first = m;
  }
  for (m = len ? first : NULL; m; m = m->next) {
    if (m->op < VRAM_OP_COUNT && !vram__rank_is_beside(m, n, len))
      break;
    norm |= m->op == VRAM_OP_rsqrt;
    weights |= m->op == VRAM_OP_parameter;
  }
  return vram__span_of(label.text, label.text + (norm && weights ? len - 1 : 0));
}

/* The SequenceParallel module around node n: a `sequence` line, or a norm that the usual plan
   takes. Of no length: there is none. */
static vram__span vram__rank_sequence(const vram__rank_cut *c, const vram_node *n) {
  vram__span module = vram__span_of("", "");
  if (c->plan && vram__plan_around(c, n, VRAM__TP_SEQUENCE, &module))
    return module;
  module.len = 0;
  return c->p->sp && c->p->ep <= 1 && c->is_usual ? vram__rank_norm_around(n) : module;
}

/* Are these the weights of a norm on a part of the sequence? */
static int vram__rank_is_sequence(const vram__rank_cut *c, const vram_node *n) {
  const vram_node *m;
  vram__span module;
  if (n->nparam && vram__op_at(n->op)->lower == VRAM__LOWER_NORM)
    return c->p->ep <= 1 && ((c->p->sp && c->is_usual && vram__rank_reads_part(c, n)) ||
                             (c->plan && vram__plan_around(c, n, VRAM__TP_SEQUENCE, &module)));
  if (n->op != VRAM_OP_parameter)
    return 0;
  module = vram__rank_sequence(c, n);
  for (m = vram__node_before(n); module.len && m; m = vram__node_before(m))
    if (m->op < VRAM_OP_COUNT) {
      if (!vram__output_is_inside(m, module))
        break;
      if (vram__rank_reads_part(c, m))
        return 1;
    }
  return 0;
}

/* What node n reads of x where a SequenceParallel module is written out around it; NULL: nothing
   else than it has, or an error. */
static vram_value *vram__rank_from_local(vram__rank_cut *c, const vram_node *n,
                                         const vram_value *x) {
  vram__rank_value *v = c->value + x->index;
  vram_value *own;
  vram__span module;
  vram_node *y;
  if (!v->is_sequence || n->nparam)
    return NULL;
  module = vram__rank_sequence(c, n);
  if (!module.len || (x->node && vram__output_is_inside(x->node, module)))
    return NULL;
  if (v->local && v->local_of.len == module.len &&
      vram__text_equal(v->local_of.text, module.text, module.len))
    return v->local;
  own = vram__rank_own(c, n, x);
  if (!own)
    return NULL;
  vram__rank_keys_none(c);
  c->name = module;
  y = vram__rank_collective(c, n, VRAM_OP_from_local, own, ".from_local");
  v->local = y ? y->out : NULL;
  v->local_of = module;
  return v->local;
}

/* Has n the weights of a node that has a part of them here? */
static int vram__rank_lender_is_cut(const vram__rank_cut *c, const vram_node *n) {
  const int64_t *of = vram__node_list(n, VRAM__KEY_weights, NULL);
  const vram_node *lender = of ? (const vram_node *)(uintptr_t)*of : NULL, *y;
  y = lender ? c->node[lender->index] : NULL;
  return y && (y->op != lender->op || !vram__rank_keeps_params(lender, y));
}

/* Node n as it is, on what this rank has of its inputs. 0: an error. */
VRAM__FN int vram__rank_copy(vram__rank_cut *c, const vram_node *n) {
  vram_value *in[VRAM__MAX_INPUTS];
  vram_node *y;
  vram__span module;
  uint32_t i, cut = 0;
  uint8_t sequence = 0;
  const uint8_t dtensor = c->plan && vram__plan_around(c, n, VRAM__TP_SEQUENCE, &module) ? 1 : 0;
  for (i = 0; i < n->nin; i++) {
    const vram__rank_value *v = c->value + n->in[i]->index;
    in[i] = vram__rank_prepared(c, n, n->in[i]);
    if (in[i])
      continue;
    sequence |= v->is_sequence;
    in[i] = c->g->error.code ? NULL : vram__rank_from_local(c, n, n->in[i]);
    if (!in[i])
      in[i] = c->g->error.code ? NULL : vram__rank_own(c, n, n->in[i]);
    if (!in[i])
      return c->g->error.code ? 0 : vram__rank_refuse(c, n, "a value that is not there");
    if (v->cut) {
      cut = 1;
      if (vram__rank_needs_axis(n, v->cut - 1u))
        return vram__rank_refuse(c, n,
                                 "an op that needs all of the axis that tensor parallelism "
                                 "cuts");
    }
  }
  vram__rank_keys(c, n);
  if (vram__rank_lender_is_cut(c, n))
    vram__rank_untie(c);
  if (cut && n->nin && c->value[n->in[0]->index].cut) {
    const uint32_t a = c->value[n->in[0]->index].cut - 1u;
    if (!vram__rank_sizes(c, n, VRAM__KEY_shape, a) || !vram__rank_sizes(c, n, VRAM__KEY_sizes, a))
      return 0;
  }
  if (vram__rank_is_sequence(c, n))
    vram__rank_key_set(c, VRAM__KEY_parallel, VRAM__WORD(sequence));
  y = vram__rank_emit(c, n, n->op, in, n->nin);
  if (!y)
    return 0;
  c->node[n->index] = y;
  if (!vram__rank_keeps_params(n, y))
    return vram__rank_refuse(c, n, "the plan does not say how this layer is cut");
  for (i = 0; i < n->nout; i++) {
    vram__rank_value *v = c->value + n->out[i].index;
    v->own = y->out + i;
    v->is_dtensor = dtensor;
    v->is_sequence = sequence;
    v->cut = vram__rank_axis_of(n->out[i].d, y->out[i].d);
    if (v->cut == UINT8_MAX || (v->cut && !cut))
      return vram__rank_refuse(c, n, "a value that would be cut along several axes");
  }
  return 1;
}
