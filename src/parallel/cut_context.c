/* >>parallel/cut_context    the graph of one rank of context parallelism: what is at a part of the
   sequence, and attention around the ring */
#include "parallel/cut.h"

/* The sequence: what attention's queries have along their third axis, in every layer. 0: an error.
 */
VRAM__FN int64_t vram__context_length(vram__rank_cut *c) {
  const vram_node *n;
  int64_t length = 0;
  for (n = c->from->first; n; n = n->next) {
    const vram_dims *q;
    if (n->op != VRAM_OP_scaled_dot_product_attention)
      continue;
    q = n->in[0]->d;
    if (n->nin > 3)
      return vram__rank_refuse(c, n, "attn_bias is not supported yet (attention with a mask)");
    if (q->ndim != 4)
      return vram__rank_refuse(c, n,
                               "context parallelism cuts query, key and value "
                               "[batch, heads, sequence, width]");
    if (length && length != q->v[2])
      return vram__rank_refuse(c, n, "attention of another sequence than the layers before");
    length = q->v[2];
  }
  if (!length)
    vram__graph_fail(c->g, VRAM_ERR_UNSUPPORTED,
                     "context parallelism knows no attention in this model (expected "
                     "scaled_dot_product_attention)");
  else if (length % c->ranks) {
    vram__graph_fail(c->g, VRAM_ERR_UNSUPPORTED, "a sequence that the ranks do not divide: ");
    vram__error_more_i(c->g, length);
    vram__error_more(c->g, " by cp=");
    vram__error_more_i(c->g, c->ranks);
  }
  return c->g->error.code ? 0 : length;
}

/* create_default_load_balancer: the head-tail one, where two chunks a rank divide the sequence. */
static int vram__context_balances(const vram__rank_cut *c) {
  return c->p->enable_load_balance && c->length % (2 * c->ranks) == 0;
}

/* Which axis of a buffer is the sequence: the one behind the batch, or the first that is so long;
   0: none. */
static uint8_t vram__context_axis(const vram__rank_cut *c, const vram_dims *d) {
  uint32_t i;
  if (d->ndim > 1 && d->v[1] == c->length)
    return 2;
  for (i = 0; i < d->ndim; i++)
    if (d->v[i] == c->length)
      return (uint8_t)(i + 1);
  return 0;
}

/* Is a buffer one that has the sequence? Frequencies of positions are no positions. */
static int vram__context_has(const vram__rank_cut *c, const vram_value *v) {
  return (v->d->ndim > 1 || vram__kind_rank(v->dtype) < 2) && vram__context_axis(c, v->d);
}

/* One of the tensors that the context has. */
static int vram__context_add(vram__rank_cut *c, const vram_value *whole, vram_value *own,
                             const vram_value **list, vram_value **in, int64_t *dims,
                             uint32_t *count) {
  const uint8_t axis = vram__context_axis(c, whole->d);
  c->value[whole->index].own = own;
  if (!axis)
    return 1;
  if (*count == VRAM__CONTEXT_MOST) {
    vram__graph_fail(c->g, VRAM_ERR_LIMIT, "more than 64 inputs and buffers with a sequence");
    return 0;
  }
  list[*count] = whole;
  in[*count] = own;
  dims[(*count)++] = axis - 1;
  return 1;
}

/* In front of the model: its inputs, and buffers that have the sequence, are cut. */
VRAM__FN int vram__context_begin(vram__rank_cut *c) {
  const vram_value *list[VRAM__CONTEXT_MOST];
  vram_value *in[VRAM__CONTEXT_MOST];
  int64_t dims[VRAM__CONTEXT_MOST];
  char name[VRAM_MAX_NAME + 1];
  const vram_node *n;
  vram_node *y;
  vram__request r;
  uint32_t i, count = 0, len;
  for (i = 0; i < c->from->ninput; i++) {
    const vram_value *v = c->from->input[i];
    if (!vram__context_add(c, v, c->value[v->index].own, list, in, dims, &count))
      return 0;
  }
  for (n = c->from->first; n; n = n->next) {
    if (n->op != VRAM_OP_buffer || !vram__context_has(c, n->out))
      continue;
    vram__rank_keys(c, n);
    y = vram__rank_emit(c, n, n->op, NULL, 0);
    if (!y)
      return 0;
    c->node[n->index] = y;
    if (!vram__context_add(c, n->out, y->out, list, in, dims, &count))
      return 0;
  }
  if (!count)
    return vram__graph_fail(c->g, VRAM_ERR_UNSUPPORTED, "no input has the sequence"), 0;
  c->words[0] = (int64_t)(VRAM__KEY_dims | count << 8);
  for (i = 0; i < count; i++)
    c->words[1 + i] = dims[i];
  c->words[1 + count] = 0;
  c->keys.words = c->words;
  c->keys.count = 1 + count;
  c->keys.room = 1000;
  vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
  if (vram__context_balances(c))
    vram__rank_key_set(c, VRAM__KEY_load_balance, 1);
  vram__memory_zero(&r, sizeof r);
  r.op = VRAM_OP_context_parallel;
  r.in = in;
  r.nin = r.nout = count;
  r.keys = &c->keys;
  c->g->autocast = 0;
  c->g->no_grad = 1;
  if (!vram__node_emit(&c->parser, &r, &y))
    return 0;
  c->g->no_grad = 0;
  for (i = 0; i < count; i++) {
    vram__rank_value *v = c->value + list[i]->index;
    len = 0;
    vram__text_put(name, VRAM_MAX_NAME, &len, list[i]->name, list[i]->name_len);
    vram__text_puts(name, VRAM_MAX_NAME, &len, ".context");
    y->out[i].name = vram__graph_keep_text(c->g, name, len);
    y->out[i].name_len = (uint8_t)len;
    if (!y->out[i].name)
      return 0;
    v->own = y->out + i;
    v->cut = (uint8_t)(dims[i] + 1);
    v->constant = list[i]->node != NULL;
  }
  return 1;
}

/* ---- sizes */

/* Which of the axes a to b of a new shape the cut one of x becomes, where axes of x come together
   or go apart: the sequence, or a multiple of it (tokens of all samples), else the innermost that
   the ranks divide (tokens of an expert). UINT32_MAX: none. */
static uint32_t vram__context_axis_of(const vram__rank_cut *c, const int64_t *v, uint32_t a,
                                      uint32_t b) {
  uint32_t i, only = UINT32_MAX, several = 0;
  for (i = a; i < b; i++)
    if (v[i] != 1) {
      several |= only != UINT32_MAX;
      only = i;
    }
  if (!several)
    return only == UINT32_MAX && a < b ? a : only;
  for (i = b; i-- > a;)
    if (v[i] == c->length)
      return i;
  for (i = a; i < b; i++)
    if (v[i] && v[i] % c->length == 0)
      return i;
  for (i = b; i-- > a;)
    if (v[i] != 1 && v[i] % c->ranks == 0)
      return i;
  return UINT32_MAX;
}

/* Axes of x and y that have as many elements, from axis *i of x and *k of y up to where both end.
 */
static void vram__context_group(const vram_dims *x, const vram_dims *y, uint32_t *i, uint32_t *k) {
  int64_t a = x->v[(*i)++], b = *k < y->ndim ? y->v[(*k)++] : 1;
  while (a != b && (*i < x->ndim || *k < y->ndim))
    if ((a < b && *i < x->ndim) || *k == y->ndim)
      a *= x->v[(*i)++];
    else
      b *= y->v[(*k)++];
  while (*i == x->ndim && *k < y->ndim)
    b *= y->v[(*k)++];
}

/* The sizes v of a view. */
static int vram__context_reshape(vram__rank_cut *c, const vram_node *n, int64_t *v,
                                 uint32_t count) {
  const vram_dims *x = n->in[0]->d, *y = n->out[0].d;
  const vram__rank_value *from = c->value + n->in[0]->index;
  const uint32_t cut = from->cut - 1u;
  const int64_t whole = x->v[cut], local = from->own->d->v[cut];
  const int64_t common = (int64_t)vram__gcd((uint64_t)whole, (uint64_t)local);
  uint32_t i = 0, k = 0, first = 0, at;
  while (i <= cut) {
    first = k;
    vram__context_group(x, y, &i, &k);
  }
  at = vram__context_axis_of(c, y->v, first, k);
  if (at >= count || !common || y->v[at] % (whole / common))
    return vram__rank_refuse(c, n, "a shape of which no axis is a part of the sequence");
  if (v[at] >= 0)
    v[at] = y->v[at] / (whole / common) * (local / common);
  return 1;
}

/* Sizes that are as long as the sequence are as long as this rank's part: what the program has read
   from a tensor's shape. */
static void vram__context_sizes(const vram__rank_cut *c, int64_t *v, uint32_t count) {
  uint32_t i;
  for (i = 0; v && i < count; i++)
    if (v[i] == c->length)
      v[i] /= c->ranks;
}

/* Sizes of an expansion, aligned at the last axis: what x has stays, what is new may be the
 * sequence.
 */
static void vram__context_expand(const vram__rank_cut *c, const vram_node *n, int64_t *v,
                                 uint32_t count) {
  const vram_dims *x = n->in[0]->d, *own = c->value[n->in[0]->index].own->d;
  uint32_t i;
  for (i = 0; i < count; i++) {
    const uint32_t front = count - x->ndim;
    if (i >= front && x->v[i - front] == v[i])
      v[i] = own->v[i - front];
    else
      vram__context_sizes(c, v + i, 1);
  }
}

/* x[:length] of what is cut, or of a table. */
static void vram__context_slice(vram__rank_cut *c, const vram_node *n) {
  const vram__rank_value *from = c->value + n->in[0]->index;
  uint32_t a, count;
  int64_t *end = (int64_t *)(uintptr_t)vram__attr_find(c->words, VRAM__KEY_end, &count);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a);
  if (end && (from->cut == a + 1 || from->constant))
    vram__context_sizes(c, end, 1);
}

/* The sizes that node n's line says. */
static int vram__context_keys(vram__rank_cut *c, const vram_node *n) {
  const uint8_t cut = n->nin ? c->value[n->in[0]->index].cut : 0;
  uint32_t count = 0;
  int64_t *v = (int64_t *)(uintptr_t)vram__attr_find(c->words, VRAM__KEY_shape, &count);
  if (n->op == VRAM_OP_slice)
    vram__context_slice(c, n);
  if (v && (n->op == VRAM_OP_view || n->op == VRAM_OP_reshape))
    return !cut || vram__context_reshape(c, n, v, count);
  if (v && n->op == VRAM_OP_expand) {
    vram__context_expand(c, n, v, count);
    return 1;
  }
  if (v && cut && count == n->in[0]->d->ndim) /* zeros_like */
    v[cut - 1] = c->value[n->in[0]->index].own->d->v[cut - 1];
  else if (v && !n->nparam)
    vram__context_sizes(c, v, count);
  v = (int64_t *)(uintptr_t)vram__attr_find(c->words, VRAM__KEY_sizes, &count);
  vram__context_sizes(c, v, count);
  return 1;
}

/* Which axis is shorter than in the whole graph; 0: none. */
static uint8_t vram__context_cut_of(const vram_dims *whole, const vram_dims *y) {
  uint32_t i;
  for (i = 0; i < y->ndim && whole->ndim == y->ndim; i++)
    if (whole->v[i] != y->v[i])
      return (uint8_t)(i + 1);
  return 0;
}

/* A node on what this rank has of its inputs: op is another one for attention. */
static int vram__context_copy(vram__rank_cut *c, const vram_node *n, uint32_t op) {
  vram_value *in[VRAM__MAX_INPUTS];
  vram_node *y;
  uint8_t constant = 1;
  uint32_t i;
  for (i = 0; i < n->nin; i++) {
    in[i] = c->value[n->in[i]->index].own;
    if (!in[i])
      return vram__rank_refuse(c, n, "a value that is not there");
    constant &= c->value[n->in[i]->index].constant;
  }
  vram__rank_keys(c, n);
  if (op != n->op) {
    vram__rank_key_set(c, VRAM__KEY_ranks, c->ranks);
    vram__rank_key_set(c, VRAM__KEY_rank, c->rank);
    if (vram__context_balances(c))
      vram__rank_key_set(c, VRAM__KEY_load_balance, 1);
    if (c->p->alltoall)
      vram__rank_key_set(c, VRAM__KEY_rotate, VRAM__WORD(alltoall));
    c->ncut++;
  } else if (!vram__context_keys(c, n))
    return 0;
  y = vram__rank_emit(c, n, op, in, n->nin);
  if (!y)
    return 0;
  c->node[n->index] = y;
  for (i = 0; i < n->nout; i++) {
    vram__rank_value *v = c->value + n->out[i].index;
    v->own = y->out + i;
    v->cut = vram__context_cut_of(n->out[i].d, y->out[i].d);
    v->constant = constant;
  }
  return 1;
}

VRAM__FN int vram__context_node(vram__rank_cut *c, const vram_node *n) {
  if (n->op == VRAM_OP_buffer && c->node[n->index])
    return 1; /* it stands in front of the context */
  if (n->op == VRAM_OP_multi_head_attention)
    return vram__rank_refuse(c, n,
                             "context parallelism cuts scaled_dot_product_attention, and "
                             "this layer calls another function");
  return vram__context_copy(
      c, n,
      n->op == VRAM_OP_scaled_dot_product_attention ? (uint32_t)VRAM_OP_ring_attention : n->op);
}
