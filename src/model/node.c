/* >>model/node    a node with its keys, checked against its op's row */
#include "model/model.h"

/* Where the graph keeps keys like these; NULL: one of them is an address, which no other node has,
   and how much memory a graph takes must not depend on addresses. */
static const int64_t **vram__keys_place(vram_graph *g, const vram__keys *keys) {
  uint64_t hash = 0;
  uint32_t i, end = 0; /* of a key's values */
  for (i = 0; i < keys->count; i++) {
    const uint64_t word = (uint64_t)keys->words[i];
    if (i == end) {
      const char kind = vram__key_table[word & 0xff].kind;
      if (kind == 'N' || kind == 'Q')
        return NULL;
      end += 1 + (uint32_t)(word >> 8 & 0xffff);
    }
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
  }
  return g->attr_cache + (hash >> 58);
}

/* The graph's own copy of these keys, which nodes with equal ones share; NULL: no memory. */
static const int64_t *vram__graph_keys(vram_graph *g, const vram__keys *keys) {
  const uint32_t count = keys->count + 1; /* with the 0 that ends them */
  const int64_t **known = vram__keys_place(g, keys);
  int64_t *words;
  uint32_t i;
  for (i = 0; known && *known && (*known)[i] == keys->words[i];)
    if (++i == count)
      return *known;
  words = (int64_t *)vram__graph_take(g, count * sizeof *words);
  if (!words)
    return NULL;
  for (i = 0; i < count; i++)
    words[i] = keys->words[i];
  if (known)
    *known = words;
  return words;
}

/* The node, its outputs and its lists in one piece, all zero but for what r has; NULL: no memory.
 */
static vram_node *vram__node_take(vram_graph *g, const vram__request *r) {
  const uint32_t traits = vram__op_at(r->op)->traits;
  const uint32_t slots = (traits & VRAM__OP_OWNS ? 2u : 0) + (traits & VRAM__OP_RUNNING ? 3u : 0);
  const uint64_t bytes = sizeof(vram_node) + r->nout * (uint64_t)sizeof(vram_value) +
                         ((uint64_t)r->nin + slots) * sizeof(void *);
  vram_node *n = (vram_node *)vram__graph_take(g, bytes);
  uint32_t i;
  if (!n)
    return NULL;
  vram__memory_zero(n, bytes);
  n->op = (uint16_t)r->op;
  n->nin = (uint16_t)r->nin;
  n->nout = r->nout;
  n->nparam = (uint16_t)slots;
  n->out = (vram_value *)(n + 1);
  n->in = (vram_value **)(n->out + n->nout);
  n->param = (vram_param **)(n->in + n->nin);
  for (i = 0; i < n->nin; i++)
    n->in[i] = r->in[i];
  if (r->keys && r->keys->count) {
    n->attr = vram__graph_keys(g, r->keys);
    if (!n->attr)
      return NULL;
  }
  return n;
}

/* Puts the node behind all others; 0: there is no room for it. */
static int vram__node_append(vram_graph *g, vram_node *n) {
  const uint64_t back = g->last ? (uint64_t)((uint8_t *)n - (uint8_t *)g->last) / 8 : 0;
  if (g->nnode >= VRAM_MAX_NODES || back > UINT32_MAX) {
    vram__graph_fail(g, VRAM_ERR_LIMIT,
                     back > UINT32_MAX ? "a node of more than 32 GiB" : "more than 2^24 nodes");
    return 0;
  }
  n->index = g->nnode++;
  n->back = (uint32_t)back;
  if (g->last)
    g->last->next = n;
  else
    g->first = n;
  g->last = n;
  return 1;
}

/* The cache of a `store` line with a value: that it is named is no use of what it had before. */
static int vram__node_only_names(const vram_node *n, uint32_t i) {
  return n->op == VRAM__OP_store && !i && n->nin > 1 && n->in[0] != n->in[1];
}

/* A node with these inputs and keys, its outputs still without shapes. */
VRAM__FN vram_node *vram__node_new(vram_graph *g, const vram__request *r) {
  vram_node *n = vram__node_take(g, r);
  uint32_t i;
  if (!n || !vram__node_append(g, n))
    return NULL;
  n->block = g->checkpoint_open;
  if (n->nin > g->max_in)
    g->max_in = n->nin;
  if (n->nout > g->max_out)
    g->max_out = n->nout;
  for (i = 0; i < n->nin; i++)
    if (n->in[i]->last < n->index && !vram__node_only_names(n, i))
      n->in[i]->last = n->index; /* UINT32_MAX stays */
  for (i = 0; i < n->nout; i++) {
    n->out[i].node = n;
    n->out[i].index = g->nvalue++;
    n->out[i].last = n->index;
  }
  if (n->nout && !g->noutput)
    g->root = &n->out[0];
  if (g->no_grad)
    n->flags |= VRAM__NO_GRAD;
  if (VRAM__INT(n, inplace, 0))
    n->flags |= VRAM__INPLACE | VRAM__WRITES;
  if (vram__op_traits(n) & VRAM__OP_WRITES)
    n->flags |= VRAM__WRITES;
  n->autocast = g->autocast;
  return n;
}

/* A node that makes nothing: these values live until here (a `drop` line, the end of lines). */
VRAM__FN vram_node *vram__node_drop(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin) {
  vram__request r;
  vram__memory_zero(&r, sizeof r);
  r.op = op;
  r.in = in;
  r.nin = nin;
  return vram__node_new(g, &r);
}

/* May a `requires_grad` line name v? */
static int vram__value_may_want(vram_graph *g, const vram_value *v) {
  if (!v->node)
    vram__graph_fail(g, VRAM_ERR_VALUE, "requires_grad of an input (expected grad=1 behind it)");
  else if (vram__op_traits(v->node) & VRAM__OP_PARAM)
    vram__graph_fail(g, VRAM_ERR_VALUE, "requires_grad of a parameter or buffer");
  else if (vram__kind_rank(v->dtype) < 2)
    vram__graph_fail(g, VRAM_ERR_VALUE, "requires_grad of a value that is not floating point");
  return !g->error.code;
}

/* May a `store` line name these values? */
static int vram__values_may_stay(vram_graph *g, vram_value **in, uint32_t nin) {
  if (nin > 2)
    vram__graph_fail(g, VRAM_ERR_VALUE, "a store line of more than a cache and a value");
  else if (!in[0]->node || in[0]->node->op != VRAM_OP_cache)
    vram__graph_fail(g, VRAM_ERR_VALUE, "a store line whose first name is none of a cache line");
  else if (!in[nin - 1]->node || (vram__op_traits(in[nin - 1]->node) & VRAM__OP_PARAM))
    vram__graph_fail(g, VRAM_ERR_VALUE, "store of an input, a parameter or a buffer");
  return !g->error.code;
}

/* A `drop`, `keep`, `store` or `requires_grad` line. */
VRAM__FN vram_node *vram__node_lifetime(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin) {
  vram_node *n;
  uint32_t i;
  for (i = 0; op == VRAM__OP_requires_grad && i < nin; i++)
    if (!vram__value_may_want(g, in[i]))
      return NULL;
  if (op == VRAM__OP_store && !vram__values_may_stay(g, in, nin))
    return NULL;
  n = vram__node_drop(g, op, in, nin);
  if (n)
    n->flags |= VRAM__DROPS;
  if (n && op == VRAM__OP_keep)
    g->nkept += nin;
  if (n && op == VRAM__OP_requires_grad)
    g->nmade += nin;
  return n;
}

/* The op takes so many inputs, and has one output where it is written out to lines. */
VRAM__FN int vram__request_fits(vram_graph *g, const vram__request *r) {
  const vram__op_row *row = vram__op_at(r->op);
  const int countable = r->nin >= row->least && r->nin <= row->most;
  if (row->lines ? countable && r->nout == 1 : countable)
    return 1;
  if (row->lines) {
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs or outputs");
    return 0;
  }
  vram__graph_fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs (found ");
  vram__error_more_i(g, r->nin);
  vram__error_more(g, ", expected ");
  vram__error_more_i(g, row->least);
  if (row->most != row->least) {
    vram__error_more(g, " to ");
    vram__error_more_i(g, row->most);
  }
  vram__error_more(g, ")");
  return 0;
}

/* Integers of 8 bits are those of quantised networks. */
static int vram__node_takes(vram_graph *g, const vram_node *n) {
  const uint32_t traits = vram__op_traits(n);
  uint32_t i;
  const uint32_t limits = VRAM__OP_FLOATS | VRAM__OP_NUMBERS | VRAM__OP_REAL | VRAM__OP_OWNS;
  if (!(traits & limits))
    return 1;
  for (i = 0; i < n->nin; i++) {
    const vram_dtype dt = n->in[i]->dtype;
    if (vram__kind_rank(dt) == 3 && ((traits & VRAM__OP_REAL) || n->nparam))
      return vram__node_error(g, n, "a tensor of complex numbers");
    if (dt == VRAM_BOOL && (traits & VRAM__OP_NUMBERS))
      return vram__node_error(g, n, "a tensor of bools");
    if ((dt == VRAM_BOOL || dt == VRAM_I16 || dt == VRAM_I32 || dt == VRAM_I64) &&
        (traits & VRAM__OP_FLOATS) && !vram__node_list(n, VRAM__KEY_dtype, NULL))
      return vram__node_error(g, n, "a tensor that is not floating point");
  }
  return 1;
}

/* What is made of a DTensor is one, up to where it goes to another layout or back to a tensor. */
static void vram__node_dtensor(vram_node *n) {
  uint8_t is = n->op == VRAM_OP_from_local;
  uint32_t i;
  for (i = 0; i < n->nin; i++)
    is |= n->in[i]->flags & VRAM__DTENSOR;
  if (n->op == VRAM_OP_linear || n->op == VRAM_OP_all_gather || n->op == VRAM_OP_all_reduce ||
      n->op == VRAM_OP_reduce_scatter || n->op == VRAM_OP_shard || n->op == VRAM_OP_wait)
    return;
  for (i = 0; is && i < n->nout; i++)
    n->out[i].flags |= VRAM__DTENSOR;
}

static int vram__node_infer(vram_graph *g, vram_node *n) {
  uint32_t i;
  if (!vram__op_at(n->op)->shape(g, n))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!n->out[i].d) {
      vram__graph_fail(g, VRAM_ERR_SYNTAX, "the op has fewer outputs than names");
      return 0;
    }
  if (g->is_cut)
    vram__node_dtensor(n);
  return vram__node_takes(g, n);
}

/* An op that is written out: its lines are one after the other, ended by ; */
enum { VRAM__LINE_WORDS = 16, VRAM__LINE_INPUTS = 8, VRAM__LINE_KEYS = 64 };

typedef struct vram__lines {
  const vram__request *outer; /* inputs x0 x1 .., keys for key=@ */
  vram__span word[VRAM__LINE_WORDS];
  uint32_t nword;
  char name[VRAM__LINE_WORDS]; /* of the values that live: one letter */
  vram_value *value[VRAM__LINE_WORDS];
  uint32_t nvalue;
} vram__lines;

/* The words of the line at `at`; gives where the next line begins. */
static const char *vram__lines_split(vram__lines *lines, const char *at) {
  lines->nword = 0;
  while (*at == ' ' || *at == ';')
    at++;
  while (*at && *at != ';') {
    const char *const begin = at;
    while (*at && *at != ' ' && *at != ';')
      at++;
    lines->word[lines->nword++] = vram__span_of(begin, at);
    while (*at == ' ')
      at++;
  }
  return at;
}

static uint32_t vram__lines_find(const vram__lines *lines, char name) {
  uint32_t i = 0;
  while (i + 1 < lines->nvalue && lines->name[i] != name)
    i++;
  return i;
}

/* `drop`: temporaries that go before the op returns. */
static int vram__lines_drop(vram_graph *g, vram__lines *lines) {
  uint32_t i;
  for (i = 1; i < lines->nword; i++) {
    const uint32_t k = vram__lines_find(lines, *lines->word[i].text);
    if (!vram__node_drop(g, VRAM__OP_drop, &lines->value[k], 1))
      return 0;
    lines->nvalue--;
    lines->name[k] = lines->name[lines->nvalue];
    lines->value[k] = lines->value[lines->nvalue];
  }
  return 1;
}

/* key=@: the outer node's key of that name, if it has one. */
static void vram__lines_hand_on(const vram__lines *lines, vram__span name, vram__keys *keys) {
  uint32_t key = 1, count, i;
  const int64_t *value;
  while (!vram__text_is(name.text, name.len, vram__key_table[key].name))
    key++;
  value = vram__attr_find(lines->outer->keys->words, key, &count);
  if (!value)
    return;
  keys->words[keys->count++] = (int64_t)(key | count << 8);
  for (i = 0; i < count; i++)
    keys->words[keys->count++] = value[i];
  keys->words[keys->count] = 0;
}

/* A line OP NAME INPUTS KEY=VALUE as a node. */
static int vram__lines_node(vram__parser *p, vram__lines *lines, vram_node **node) {
  vram_value *in[VRAM__LINE_INPUTS];
  int64_t words[VRAM__LINE_KEYS];
  vram__keys keys;
  vram__request r;
  uint32_t i;
  vram__memory_zero(&r, sizeof r);
  words[0] = 0;
  keys.words = words;
  keys.count = 0;
  keys.room = VRAM__LINE_KEYS;
  r.in = in;
  r.nout = 1;
  r.keys = &keys;
  while (!vram__text_is(lines->word[0].text, lines->word[0].len, vram__op_at(r.op)->name))
    r.op++;
  for (i = 2; i < lines->nword; i++) {
    const vram__span word = lines->word[i];
    const char *equals = word.text, *const end = word.text + word.len;
    while (equals < end && *equals != '=')
      equals++;
    if (equals < end && equals[1] == '@')
      vram__lines_hand_on(lines, vram__span_of(word.text, equals), &keys);
    else if (equals < end)
      vram__key_read(p, r.op, word, &keys); /* scalar=1: nothing that could fail */
    else if (*word.text == 'x')
      in[r.nin++] = lines->outer->in[word.text[1] - '0'];
    else
      in[r.nin++] = lines->value[vram__lines_find(lines, *word.text)];
  }
  if (!vram__node_emit(p, &r, node))
    return 0;
  (*node)->flags |= VRAM_NODE_INNER;
  lines->name[lines->nvalue] = *lines->word[1].text;
  lines->value[lines->nvalue++] = &(*node)->out[0];
  return 1;
}

/* One inner node a line, and an end node that lets the temporaries go. */
static int vram__node_write_out(vram__parser *p, const vram__request *r, vram_node **node) {
  const char *at = vram__op_at(r->op)->recipe;
  vram_value *all[VRAM__LINE_INPUTS + VRAM__LINE_WORDS];
  vram__lines lines;
  uint32_t i, count = 0;
  lines.outer = r;
  lines.nvalue = 0;
  while (*at) {
    at = vram__lines_split(&lines, at);
    if (vram__text_is(lines.word[0].text, lines.word[0].len, "drop")
            ? !vram__lines_drop(p->g, &lines)
            : !vram__lines_node(p, &lines, node))
      return 0;
  }
  for (i = 0; i + 1 < lines.nvalue; i++)
    all[count++] = lines.value[i];
  for (i = 0; i < r->nin; i++)
    all[count++] = r->in[i];
  all[count++] = lines.value[lines.nvalue - 1]; /* what the last line gives */
  return vram__node_drop(p->g, VRAM__OP_end, all, count) != NULL;
}

/* Adds the node that r asks for, or the last one of the lines that its op is written out to. */
VRAM__FN int vram__node_emit(vram__parser *p, const vram__request *r, vram_node **node) {
  if (vram__op_at(r->op)->lines)
    return vram__request_fits(p->g, r) && vram__node_write_out(p, r, node);
  *node = vram__node_new(p->g, r);
  return *node && vram__request_fits(p->g, r) && vram__node_infer(p->g, *node);
}
