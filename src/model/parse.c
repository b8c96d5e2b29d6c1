/* >>model/parse    the lines of the text form */
#include "model/model.h"

static const char *vram__line_end(const char *p, const char *end) {
  while (end - p >= 8 && !VRAM__HOLDS(vram__text_eight(p), '\n'))
    p += 8;
  while (p < end && *p != '\n')
    p++;
  return p;
}

/* Sets p up for the line that begins at s. */
static void vram__parse_line(vram__parser *p, const char *s) {
  const char *const end = p->text_end;
  p->start = p->at = s;
  p->odd = NULL;
  p->tabs = 0;
  for (;; s++) {
    while (end - s >= 8) {
      const uint64_t w = vram__text_eight(s), special = (((w + VRAM__EACH(1)) | w) & VRAM__HIGH) |
                                                        VRAM__BELOW(w, 32) | VRAM__HOLDS(w, '#');
      if (special) {
        s += vram__lowest_byte(special);
        break;
      }
      s += 8;
    }
    if (s == end || *s == '\n' || *s == '#')
      break;
    p->tabs |= *s == '\t';
    if (((uint8_t)*s < 32 ? *s != '\t' : (uint8_t)*s > 126) && !p->odd)
      p->odd = s;
  }
  p->end = s;
  p->next_line = s < end && *s == '#' ? vram__line_end(s, end) : s;
  while (p->end > p->start && (p->end[-1] == ' ' || p->end[-1] == '\t' || p->end[-1] == '\r'))
    p->end--;
  if (p->odd && p->odd >= p->end)
    p->odd = NULL;
  if (p->next_line < end)
    p->next_line++;
}

static int vram__parse_word_is(const vram__parser *p, const char *word) {
  return vram__text_is(p->token.text, p->token.len, word);
}

/* The value of that name; NULL: an error. */
static vram_value *vram__parse_value(vram__parser *p, vram__span name) {
  vram_value *value = vram__symbol_find(p, name);
  if (value)
    return value;
  vram__parse_error(p, VRAM_ERR_NAME, "an undefined name", name,
                    "an input or the output of a node above");
  return NULL;
}

/* Cuts a token NAME=REST; 0: it is none. */
static int vram__parse_pair(vram__span token, vram__span *name, vram__span *rest) {
  const char *equals = token.text, *const end = token.text + token.len;
  while (equals < end && *equals != '=')
    equals++;
  *name = vram__span_of(token.text, equals);
  *rest = vram__span_of(equals < end ? equals + 1 : end, end);
  return equals < end;
}

/* ---- model, dim and input lines ---- */

/* dtype=DTYPE behind the model's name */
static int vram__model_key(vram__parser *p) {
  const vram__span word = p->token;
  vram__span name, value;
  int64_t dtype;
  if (!vram__parse_pair(word, &name, &value) || !vram__text_is(name.text, name.len, "dtype") ||
      p->g->dtype)
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", word,
                             p->g->dtype ? "the end of the line" : "dtype=DTYPE or nothing");
  if (!vram__dtype_named(p, value, &dtype))
    return 0;
  if (!vram__dtype_of_models((vram_dtype)dtype))
    return vram__parse_error(p, VRAM_ERR_VALUE, "not a model's dtype", value,
                             "f32, bf16, f16 or f64");
  if (p->g->ninput || p->g->nnode)
    return vram__parse_refuse(p, word.text, VRAM_ERR_SYNTAX,
                              "the model's dtype behind inputs or nodes", NULL);
  p->g->dtype = (vram_dtype)dtype;
  return 1;
}

static int vram__model_line(vram__parser *p) {
  vram_graph *g = p->g;
  if (g->name)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX, "a second model line", NULL);
  if (!vram__parse_token(p) || p->token.len > VRAM_MAX_NAME)
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a name", p->token, "model NAME");
  g->name = vram__graph_keep_text(g, p->token.text, p->token.len);
  g->name_len = p->token.len;
  if (!g->name)
    return vram__parse_located(p, p->token.text);
  while (vram__parse_token(p))
    if (!vram__model_key(p))
      return 0;
  return 1;
}

/* The version of PyTorch that the text was made with. */
static int vram__rules_line(vram__parser *p) {
  const vram__span word = p->token;
  vram_rules rules;
  if (p->g->rules)
    return vram__parse_refuse(p, word.text, VRAM_ERR_SYNTAX, "a second rules line", NULL);
  if (!vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "no rules", word, "rules torch-2.15");
  rules = vram_rules_find(p->token.text, p->token.len);
  if (rules == VRAM_RULES_COUNT || rules <= VRAM_RULES_IDEAL)
    return vram__parse_error(p, VRAM_ERR_VALUE, "unknown rules", p->token, VRAM_TORCH_RANGE);
  p->g->rules = rules;
  if (vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", p->token,
                             "the end of the line");
  return 1;
}

/* A dim's value: that of the text, or the one that takes its place. */
static int vram__dim_value(vram__parser *p, vram__span token, vram__span name, int64_t *value) {
  uint32_t i;
  for (i = 0; i < p->nset; i++) {
    const char *set = p->set[i].name;
    if (set ? vram__text_is(name.text, name.len, set) : !p->g->ndim) {
      *value = p->set[i].value;
      p->used[i] = 1;
    }
  }
  if (*value < 0)
    return vram__parse_error(p, VRAM_ERR_VALUE, "a dim below 0", token, NULL);
  return 1;
}

static int vram__dim_line(vram__parser *p) {
  vram_graph *g = p->g;
  while (vram__parse_token(p)) {
    vram__span name, size;
    int64_t value;
    if (!vram__parse_pair(p->token, &name, &size) || !vram__span_is_name(name) || !size.len)
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a dim", p->token, "NAME=INTEGER");
    if (!vram__parse_size(p, size, 0, &value))
      return 0;
    if (vram__dim_find(g, name) < g->ndim)
      return vram__parse_error(p, VRAM_ERR_NAME, "a dim defined twice", name, "a new name");
    if (g->ndim == VRAM_MAX_DIMS)
      return vram__parse_refuse(p, name.text, VRAM_ERR_LIMIT, "more than 64 dims", NULL);
    if (!vram__dim_value(p, p->token, name, &value))
      return 0;
    g->dim[g->ndim].name = vram__graph_keep_text(g, name.text, name.len);
    if (!g->dim[g->ndim].name)
      return vram__parse_located(p, name.text);
    g->dim[g->ndim].len = name.len;
    g->dim[g->ndim++].value = value;
  }
  return 1;
}

VRAM__FN vram_value *vram__graph_input(vram_graph *g, vram__span name, vram_dtype dtype,
                                       uint32_t ndim, const int64_t *size) {
  vram_value *v = (vram_value *)vram__graph_take(g, sizeof *v);
  vram_value **list = g->input;
  uint32_t i;
  if (!(g->ninput & (g->ninput - 1))) /* full: twice as long */
    list = (vram_value **)vram__graph_take(g, (g->ninput ? 2 * (uint64_t)g->ninput : 1) *
                                                  sizeof *list);
  if (!v || !list)
    return NULL;
  vram__memory_zero(v, sizeof *v);
  v->d = vram__graph_dims(g, ndim, size);
  v->name = vram__graph_keep_text(g, name.text, name.len);
  v->flags = dtype == VRAM_DTYPE_MODEL ? VRAM__OF_MODEL : 0;
  dtype = vram__graph_own_dtype(g, dtype);
  if (!v->d || !v->name || !vram__whole_blocks(g, v->d, dtype))
    return NULL;
  v->name_len = (uint8_t)name.len;
  v->index = g->nvalue++;
  v->last = UINT32_MAX;
  v->dtype = dtype;
  for (i = 0; list != g->input && i < g->ninput; i++)
    list[i] = g->input[i];
  list[g->ninput++] = v;
  g->input = list;
  return v;
}

static int vram__input_line(vram__parser *p) {
  vram__span name;
  uint32_t ndim;
  int64_t dtype, size[VRAM_MAX_AXES];
  vram_value *v;
  if (p->depth)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX, "input inside a loop", NULL);
  if (!vram__parse_token(p) || !vram__span_is_name(p->token))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a name", p->token, "input NAME DTYPE SHAPE");
  name = p->token;
  if (!vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an input without dtype", p->token, "a dtype");
  if (!vram__parse_dtype(p, p->token, &dtype))
    return 0;
  if (!vram__parse_token(p) || *p->token.text != '[')
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an input without shape", p->token,
                             "[size,size,...]");
  if (!vram__parse_sizes(p, p->token, VRAM_MAX_AXES, size, &ndim))
    return 0;
  v = vram__graph_input(p->g, name, (vram_dtype)dtype, ndim, size);
  if (!v)
    return vram__parse_located(p, p->token.text);
  while (vram__parse_token(p)) {
    if (vram__parse_word_is(p, "grad=1"))
      v->flags |= VRAM__GRAD;
    else if (!vram__parse_word_is(p, "grad=0"))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", p->token,
                               "grad=1 or nothing");
  }
  if ((v->flags & VRAM__GRAD) && vram__kind_rank(v->dtype) < 2)
    return vram__parse_refuse(p, p->start, VRAM_ERR_VALUE,
                              "grad=1 on an input that is not floating point", NULL);
  return vram__symbol_define(p, name, v, 0);
}

/* ---- nodes ---- */

/* How many names `y` or `values,indices` are; 0: an error. */
static uint32_t vram__names_count(vram__parser *p, vram__span names) {
  const char *at = names.text, *const end = names.text + names.len;
  uint32_t count = 0;
  for (; at <= end; at++) {
    const char *const begin = at;
    while (end - at >= 8 && vram__name_eight(vram__text_eight(at)))
      at += 8;
    while (at < end && vram__name_char(*at))
      at++;
    if ((at < end && *at != ',') || begin == at || !vram__name_start(*begin) ||
        at - begin > VRAM_MAX_NAME) {
      while (at < end && *at != ',')
        at++;
      vram__parse_error(p, VRAM_ERR_SYNTAX, "not a name", vram__span_of(begin, at),
                        "letters, digits, _ . /, at most 255");
      return 0;
    }
    count++;
  }
  return count;
}

/* The outputs get their names; in a text the names become theirs. */
static inline int vram__names_give(vram__parser *p, vram__span names, vram_value *out,
                                   uint32_t nout) {
  const char *at = names.text, *const end = names.text + names.len;
  uint32_t i;
  for (i = 0; i < nout; i++, at++) {
    const char *const begin = at;
    vram__span name;
    if (nout == 1)
      at = end;
    while (at < end && *at != ',')
      at++;
    name = vram__span_of(begin, at);
    out[i].name = vram__symbol_keep_name(p, name);
    out[i].name_len = (uint8_t)name.len;
    if (!out[i].name)
      return vram__parse_located(p, begin);
    if (p->table && !vram__symbol_define(p, name, &out[i], 0))
      return 0;
  }
  return 1;
}

/* Values without a node for these names. */
static VRAM__COLD int vram__names_only(vram__parser *p, const vram__request *r, vram__span names,
                                       const char *at) {
  vram_value *out;
  if (!vram__request_fits(p->g, r))
    return vram__parse_located(p, at);
  out = (vram_value *)vram__graph_take(p->g, r->nout * sizeof *out);
  if (!out)
    return vram__parse_located(p, at);
  vram__memory_zero(out, r->nout * sizeof *out);
  p->g->root = out;
  return vram__names_give(p, names, out, r->nout);
}

/* The node that r asks for, but for the number of its outputs, which are these names. at: where
   errors point to. */
VRAM__FN int vram__parse_node(vram__parser *p, vram__request *r, vram__span names, const char *at,
                              vram_node **node) {
  vram_graph *g = p->g;
  vram_node *n = NULL, *before;
  uint32_t missing;
  r->nout = vram__names_count(p, names);
  if (!r->nout)
    return 0;
  missing = vram__key_missing(p, r);
  if (missing)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "a required key is missing",
                              vram__key_table[missing].name);
  if (p->names_only)
    return vram__names_only(p, r, names, at);
  if (!vram__adapt_line(g, r, names))
    return vram__parse_refuse(p, at, VRAM_ERR_LIMIT, "too many keys", NULL);
  if (!vram__adapt_embedded(g, names))
    return vram__parse_located(p, at);
  before = g->last;
  if (!vram__node_emit(p, r, &n))
    return vram__parse_located(p, at);
  if (!vram__names_give(p, names, n->out, r->nout))
    return 0;
  vram__adapt_embedding(g, n, names);
  for (before = before ? before->next : g->first; before; before = before->next) {
    if (vram__op_at(r->op)->traits & VRAM__OP_LOSS)
      before->flags |= VRAM__LOSS;
    if (before->nout) {
      before->out[0].name = n->out[0].name;
      before->out[0].name_len = n->out[0].name_len;
    }
    before->line = p->line;
    before->round = p->depth ? p->loop[p->depth - 1].scope : NULL;
  }
  *node = n;
  return 1;
}

/* A model has few ops: where each of them was found is remembered, by the hash of its name. */
static inline uint16_t *vram__op_found(vram__parser *p, vram__span name) {
  return p->found_op + (vram__hash(name.text, name.len) & 63);
}

/* The op of that name; VRAM_OP_COUNT: there is none. */
static uint32_t vram__op_named(vram__parser *p, vram__span name) {
  uint16_t *const found = vram__op_found(p, name);
  uint32_t op = *found;
  if (vram__text_is(name.text, name.len, vram__op_at(op)->name))
    return op;
  for (op = 0; op < VRAM_OP_COUNT; op++)
    if (vram__op_at(op)->name[0] == *name.text &&
        vram__text_is(name.text, name.len, vram__op_at(op)->name))
      break;
  *found = (uint16_t)(op < VRAM_OP_COUNT ? op : 0);
  return op;
}

/* How many words there may be behind the current one. */
static uint64_t vram__words_left(const vram__parser *p) {
  uint64_t n = 1;
  const char *at;
  for (at = p->at; at < p->end; at++)
    n += *at == ' ' || *at == '\t';
  return n;
}

/* Inputs are more than a few: their list goes to the graph's memory. */
static int vram__inputs_move(vram__parser *p, vram__request *r) {
  const uint64_t left = vram__words_left(p), most = VRAM__MAX_INPUTS;
  const uint64_t room = left < most - r->nin ? r->nin + left : most;
  vram_value **const all = (vram_value **)vram__graph_take(p->g, room * sizeof *all);
  if (!all)
    return vram__parse_located(p, p->token.text);
  vram__memory_copy(all, r->in, r->nin * sizeof *all);
  r->in = all;
  return 1;
}

/* OP OUTPUTS INPUTS KEY=VALUE ... */
static int vram__op_line(vram__parser *p, uint32_t op) {
  const vram__span name = p->token;
  int64_t words[1024];
  vram_value *few[VRAM__FEW_INPUTS];
  vram_node *n;
  vram__keys keys;
  vram__request r;
  vram__span names;
  words[0] = 0;
  keys.words = words;
  keys.count = 0;
  keys.room = 1000;
  r.op = op;
  r.in = few;
  r.nin = 0;
  r.keys = &keys;
  if (r.op == VRAM_OP_COUNT)
    return vram__parse_error(p, VRAM_ERR_NAME, "an unknown op", name, "an op of `vram list ops`");
  if (!vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "a node without a name", p->token,
                             "OP NAME INPUTS KEY=VALUE");
  names = p->token;
  while (vram__parse_token(p)) {
    if (vram__text_holds(p->token.text, p->token.len, '=')) {
      if (!vram__key_read(p, r.op, p->token, &keys))
        return 0;
      continue;
    }
    if (keys.count)
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "an input behind a key", p->token, "KEY=VALUE");
    if (r.nin == VRAM__MAX_INPUTS)
      return vram__parse_refuse(p, p->token.text, VRAM_ERR_LIMIT, "more than 4096 inputs", NULL);
    if (r.nin == VRAM__FEW_INPUTS && !vram__inputs_move(p, &r))
      return 0;
    r.in[r.nin] = vram__parse_value(p, p->token);
    if (!r.in[r.nin++])
      return 0;
  }
  return vram__parse_node(p, &r, names, name.text, &n);
}

/* The names of an `output`, `drop`, `keep`, `store` or `requires_grad` line; 0: an error. */
static uint32_t vram__values_line(vram__parser *p, vram_value **in) {
  const char *const at = p->token.text;
  uint32_t n = 0;
  while (vram__parse_token(p)) {
    if (n == 1024) {
      vram__parse_refuse(p, p->token.text, VRAM_ERR_LIMIT, "more than 1024 names", NULL);
      return 0;
    }
    in[n] = vram__parse_value(p, p->token);
    if (!in[n++])
      return 0;
  }
  if (!n)
    vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "a line without names", "at least one");
  return n;
}

/* A `drop`, `keep`, `store` or `requires_grad` line. */
static int vram__lifetime_line(vram__parser *p, uint32_t op) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  const uint32_t count = vram__values_line(p, in);
  vram_node *n;
  if (!count || p->names_only)
    return count != 0;
  n = vram__node_lifetime(p->g, op, in, count);
  if (!n)
    return vram__parse_located(p, at);
  n->line = p->line;
  return 1;
}

static int vram__output_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  const uint32_t count = vram__values_line(p, in);
  uint32_t i;
  if (!count)
    return 0;
  if (p->g->noutput)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "a second output line", NULL);
  p->g->noutput = count;
  p->g->root = in[0];
  for (i = 0; i < count; i++) {
    in[i]->flags |= VRAM__OUTPUT;
    in[i]->last = UINT32_MAX;
  }
  return 1;
}

/* `no_grad` and `enable_grad`: how the lines behind them run. */
static int vram__grad_line(vram__parser *p, uint32_t no_grad) {
  if (vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", p->token,
                             "the end of the line");
  p->g->no_grad = no_grad;
  return 1;
}

/* Is it KEY=VALUE? */
static int vram__parse_is_pair(vram__span w) {
  uint32_t i = 0;
  while (i < w.len && w.text[i] != '=')
    i++;
  return i < w.len;
}

/* `backward NAME ... retain=1 scale=1` */
static int vram__backward_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *v[64];
  vram_node *n;
  uint32_t nv = 1;
  int how = 0;
  if (p->blocks)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "backward inside a checkpoint block", NULL);
  if (!vram__parse_token(p))
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "backward of nothing", "a value");
  *v = vram__parse_value(p, p->token);
  if (!*v)
    return 0;
  while (vram__parse_token(p))
    if (vram__parse_word_is(p, "retain=1"))
      how |= VRAM_BACKWARD_RETAIN;
    else if (vram__parse_word_is(p, "scale=1"))
      how |= VRAM_BACKWARD_SCALE;
    else if (vram__parse_word_is(p, "retain=0") || vram__parse_word_is(p, "scale=0"))
      continue;
    else if (vram__parse_is_pair(p->token))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", p->token,
                               "retain=1, scale=1 or another value");
    else if (nv == sizeof v / sizeof *v)
      return vram__parse_refuse(p, at, VRAM_ERR_LIMIT, "backward of more than 64 values", NULL);
    else if (!(v[nv++] = vram__parse_value(p, p->token)))
      return 0;
  if (nv > 1 && (how & VRAM_BACKWARD_SCALE))
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "scale=1 of several values", "one loss");
  if (p->names_only)
    return 1;
  n = vram__training_backward(p->g, v, nv, how);
  if (!n)
    return vram__parse_located(p, at);
  n->line = p->line;
  return 1;
}

static int vram__parse_update(vram__parser *p) {
  const char *const at = p->token.text;
  vram_node *n;
  if (vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "an unknown word", p->token, "nothing");
  if (p->names_only)
    return 1;
  n = vram__training_update(p->g);
  if (!n)
    return vram__parse_located(p, at);
  n->line = p->line;
  return 1;
}

/* A `zero_grad`, `step`, `freeze` or `unfreeze` line. */
static int vram__parameters_line(vram__parser *p, uint32_t op) {
  const char *const at = p->token.text;
  vram__span name[64];
  vram_node *node;
  uint32_t n = 0;
  while (vram__parse_token(p)) {
    if (!vram__span_is_name(p->token))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a name", p->token,
                               "names of modules or parameters, or nothing: all");
    if (n == 64)
      return vram__parse_refuse(p, p->token.text, VRAM_ERR_LIMIT, "more than 64 names", NULL);
    name[n++] = p->token;
  }
  if (p->names_only)
    return 1;
  node = vram__training_names_line(p->g, op, name, n);
  if (!node)
    return vram__parse_located(p, at);
  node->line = p->line;
  return 1;
}

/* An `order` line. */
static int vram__order_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  const uint32_t count = vram__values_line(p, in);
  uint32_t i;
  for (i = 0; i < count && !p->names_only; i++)
    if (!vram__graph_order(p->g, in[i]))
      return vram__parse_located(p, at);
  return count != 0;
}

static int vram__infer_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  const uint32_t count = vram__values_line(p, in);
  if (!count)
    return 0;
  if (p->g->inferred)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "a second infer line", NULL);
  vram__graph_infer(p->g, in, count);
  return 1;
}

/* A `unit` or `stage` line. */
static int vram__modules_line(vram__parser *p, int stage) {
  const char *const at = p->token.text;
  int none = 1;
  if (p->depth || p->blocks)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX,
                              stage ? "stage inside a block" : "unit inside a block", NULL);
  while (vram__parse_token(p)) {
    if (!vram__span_is_name(p->token))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a name", p->token, "names of modules");
    if (!p->names_only && !vram__unit_add(p->g, p->token, stage))
      return 0;
    none = 0;
  }
  return !none || vram__parse_refuse(p, at, VRAM_ERR_SYNTAX,
                                     stage ? "a stage line without the name of a module"
                                           : "a unit line without the name of a module",
                                     NULL);
}

static int vram__unit_line(vram__parser *p) { return vram__modules_line(p, 0); }

static int vram__stage_line(vram__parser *p) { return vram__modules_line(p, 1); }

/* A `tp` line. */
static int vram__tp_line(vram__parser *p) {
  const char *const at = p->token.text;
  if (p->depth || p->blocks)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "tp inside a block", NULL);
  return p->names_only || vram__tp_add(p->g, vram__span_of(p->at, p->end), ' ') ||
         vram__parse_located(p, at);
}

/* A `return` line. */
static int vram__return_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  const uint32_t count = vram__values_line(p, in);
  if (count && (p->depth || p->blocks))
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "return inside a block", NULL);
  if (!count || p->names_only)
    return count != 0;
  return !vram_graph_return(p->g, in, count) || vram__parse_located(p, at);
}

/* ---- loops ---- */

/* One more round: nodes and names from here on belong to it. */
static int vram__round_begin(vram__parser *p, vram__loop *loop) {
  vram__round *round = (vram__round *)vram__graph_take(p->g, sizeof *round);
  uint32_t i;
  if (!round)
    return vram__parse_located(p, p->start);
  if (++p->rounds > VRAM_MAX_NODES)
    return vram__parse_refuse(p, p->start, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", NULL);
  round->up = p->depth > 1 ? p->loop[p->depth - 2].scope : NULL;
  round->round = (uint32_t)loop->round;
  loop->scope = round;
  for (i = 0; i < loop->ncarried; i++)
    if (!vram__symbol_define(p, loop->carried[i].name, loop->carried[i].value, 1))
      return 0;
  return 1;
}

/* A size, or `SIZE-INTEGER`: rounds of a depth of which some layers are written out. */
static int vram__parse_rounds(vram__parser *p, vram__span size, int64_t *rounds) {
  const char *minus = size.text + 1, *const end = size.text + size.len;
  int64_t all, less = 0;
  while (minus < end && *minus != '-')
    minus++;
  if (!vram__parse_size(p, vram__span_of(size.text, minus), 0, &all) ||
      (minus < end && !vram__parse_size(p, vram__span_of(minus + 1, end), 0, &less)))
    return 0;
  if (all < less)
    return vram__parse_error(p, VRAM_ERR_VALUE, "less than no rounds", size, NULL);
  *rounds = all - less;
  return 1;
}

/* How many rounds a `loop` line asks for; 0: an error. */
static int vram__loop_rounds(vram__parser *p, int64_t *rounds) {
  const char *const at = p->token.text;
  uint64_t all;
  uint32_t i;
  if (!vram__parse_token(p))
    return vram__parse_error(p, VRAM_ERR_SYNTAX, "a loop without a count", p->token,
                             "loop SIZE NAME=NAME ...");
  if (!vram__parse_rounds(p, p->token, rounds))
    return 0;
  all = (uint64_t)*rounds;
  for (i = 0; i < p->depth; i++)
    all = vram__product_or_overflow(all, (uint64_t)p->loop[i].rounds);
  if (all > VRAM_MAX_NODES)
    return vram__parse_error(p, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", p->token, NULL);
  if (p->depth == VRAM_MAX_LOOPS)
    return vram__parse_refuse(p, at, VRAM_ERR_LIMIT, "more than 16 loops inside one another", NULL);
  return 1;
}

/* Goes behind the `next` that belongs to a loop of no rounds. */
static int vram__loop_skip(vram__parser *p, const vram__loop *loop) {
  uint32_t depth = 1;
  while (p->next_line < p->text_end) {
    vram__parse_line(p, p->next_line);
    p->line++;
    if (!vram__parse_token(p))
      continue;
    if (vram__parse_word_is(p, "loop"))
      depth++;
    if (vram__parse_word_is(p, "next") && --depth == 0) {
      p->depth--;
      return 1;
    }
  }
  p->line = loop->head_line;
  p->start = loop->head;
  return vram__parse_refuse(p, loop->head, VRAM_ERR_SYNTAX, "a loop without next", NULL);
}

static int vram__loop_line(vram__parser *p) {
  vram__loop *loop;
  int64_t rounds;
  if (!vram__loop_rounds(p, &rounds))
    return 0;
  loop = &p->loop[p->depth];
  loop->head = p->start;
  loop->head_line = p->line;
  loop->body = p->next_line;
  loop->body_line = p->line;
  loop->rounds = rounds;
  loop->round = 0;
  loop->outside = p->nsymbol;
  loop->ncarried = 0;
  loop->blocks = p->blocks;
  loop->autocast = p->g->autocast;
  loop->no_grad = p->g->no_grad != 0;
  while (vram__parse_token(p)) {
    vram__span name, from;
    const int pair = vram__parse_pair(p->token, &name, &from);
    if (loop->ncarried == 64)
      return vram__parse_refuse(p, name.text, VRAM_ERR_LIMIT, "more than 64 carried names", NULL);
    if (!pair || !vram__span_is_name(name))
      return vram__parse_error(p, VRAM_ERR_SYNTAX, "not a carried name", p->token, "NAME=NAME");
    loop->carried[loop->ncarried].name = name;
    loop->carried[loop->ncarried].value = vram__parse_value(p, from);
    if (!loop->carried[loop->ncarried++].value)
      return 0;
  }
  p->depth++;
  return vram__round_begin(p, loop) && (rounds || vram__loop_skip(p, loop));
}

/* The values that a `next` line hands on to the carried names. */
static int vram__next_values(vram__parser *p, const vram__loop *loop, vram_value **to) {
  uint32_t i, seen = 0;
  for (i = 0; i < loop->ncarried; i++)
    to[i] = loop->carried[i].value;
  for (; vram__parse_token(p); seen++) {
    vram__span name, from;
    const int pair = vram__parse_pair(p->token, &name, &from);
    for (i = 0; i < loop->ncarried; i++)
      if (loop->carried[i].name.len == name.len &&
          vram__text_equal(loop->carried[i].name.text, name.text, name.len))
        break;
    if (!pair || i == loop->ncarried)
      return vram__parse_error(p, VRAM_ERR_NAME, "not a carried name of the loop", name,
                               "NAME=NAME, the first one of the loop line");
    to[i] = vram__parse_value(p, from);
    if (!to[i])
      return 0;
  }
  if (seen < loop->ncarried)
    return vram__parse_error_in(p, p->start, VRAM_ERR_SYNTAX,
                                "a carried name without its next value", loop->carried[0].name,
                                NULL);
  return 1;
}

/* `next` ends a round: the carried names take their new values, and the body begins again or the
   block ends. */
static int vram__next_line(vram__parser *p) {
  vram__loop *loop;
  vram_value *value[64];
  uint32_t i;
  if (!p->depth)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX, "next without loop", NULL);
  loop = &p->loop[p->depth - 1];
  if (p->blocks != loop->blocks)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX,
                              "next inside a checkpoint block that began in the loop", "end");
  if (p->g->autocast != loop->autocast)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX,
                              "autocast is not as it was where the loop began", NULL);
  if (p->g->no_grad != loop->no_grad)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX,
                              "no_grad is not as it was where the loop began",
                              loop->no_grad ? "no_grad" : "enable_grad");
  if (!vram__next_values(p, loop, value))
    return 0;
  vram__symbol_forget(p, loop->outside);
  for (i = 0; i < loop->ncarried; i++)
    loop->carried[i].value = value[i];
  loop->round++;
  if (loop->round < loop->rounds && !p->names_only) {
    p->next_line = loop->body;
    p->line = loop->body_line;
    return vram__round_begin(p, loop);
  }
  p->depth--;
  for (i = 0; i < loop->ncarried; i++)
    if (!vram__symbol_define(p, loop->carried[i].name, value[i], 1))
      return 0;
  return 1;
}

/* ---- checkpoint blocks ---- */

/* One more value of a block's line. */
static int vram__block_value(vram__parser *p, vram__span name, vram_value **to, uint32_t *n) {
  if (*n == 1024)
    return vram__parse_refuse(p, name.text, VRAM_ERR_LIMIT, "more than 1024 names", NULL);
  to[*n] = vram__parse_value(p, name);
  return to[(*n)++] != NULL;
}

/* The names of `holds=NAME,NAME`. */
static int vram__block_holds(vram__parser *p, vram__span list, vram_checkpoint *b) {
  const char *at = list.text, *const end = list.text + list.len;
  const uint32_t before = b->narg;
  while (at <= end) {
    const char *const from = at;
    while (at < end && *at != ',')
      at++;
    if (!vram__block_value(p, vram__span_of(from, at), b->arg, &b->narg))
      return 0;
    at++;
  }
  b->nheld += b->narg - before;
  return 1;
}

static int vram__checkpoint_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_value *in[1024];
  vram_checkpoint b;
  vram__span name, list;
  vram__memory_zero(&b, sizeof b);
  b.arg = in;
  while (vram__parse_token(p)) {
    if (!vram__parse_pair(p->token, &name, &list)) {
      if (b.nheld)
        return vram__parse_error(p, VRAM_ERR_SYNTAX, "an argument behind a key", p->token,
                                 "KEY=VALUE");
      if (!vram__block_value(p, p->token, in, &b.narg))
        return 0;
    } else if (vram__text_is(name.text, name.len, "holds")) {
      if (!vram__block_holds(p, list, &b))
        return 0;
    } else if (!vram__block_key(p->token, &b.flags))
      return vram__parse_error(p, VRAM_ERR_NAME, "an unknown key of a checkpoint block", p->token,
                               "holds=, reentrant=1, preserve_rng_state=0, early_stop=0");
  }
  if (!p->blocks++) {
    p->block_at = p->start;
    p->block_line = p->line;
  }
  return p->names_only || vram__block_begin(p->g, &b) || vram__parse_located(p, at);
}

static int vram__end_line(vram__parser *p) {
  const char *const at = p->token.text;
  vram_node *drop = p->g->last;
  vram_value *out[1024];
  uint32_t n = 0;
  if (p->blocks == (p->depth ? p->loop[p->depth - 1].blocks : 0))
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "end without checkpoint", NULL);
  while (vram__parse_token(p))
    if (!vram__block_value(p, p->token, out, &n))
      return 0;
  p->blocks--;
  if (p->names_only)
    return 1;
  if (!vram__block_end(p->g, out, n))
    return vram__parse_located(p, at);
  for (drop = drop ? drop->next : NULL; drop; drop = drop->next)
    drop->line = p->line;
  return 1;
}

/* ---- autocast ---- */

/* `autocast off`, `autocast bf16` or `fp16`, `autocast on`: what lines behind run with; `on` is
   what the step asks for. */
static int vram__autocast_line(vram__parser *p) {
  static const struct {
    const char *word;
    uint8_t autocast;
  } known[] = {
      {"on", 0}, {"off", VRAM__AUTOCAST_OFF}, {"bf16", VRAM_BF16}, {"fp16", VRAM_F16}, {NULL, 0}};
  const char *const at = p->token.text;
  const int word = vram__parse_token(p);
  uint32_t i;
  for (i = 0; known[i].word && !(word && vram__parse_word_is(p, known[i].word));)
    i++;
  if (!known[i].word)
    return vram__parse_refuse(p, word ? p->token.text : at, VRAM_ERR_SYNTAX,
                              "not a way that autocast is", "autocast off, on, bf16 or fp16");
  if (known[i].autocast == p->g->autocast)
    return vram__parse_refuse(p, at, VRAM_ERR_SYNTAX, "autocast is so already", NULL);
  if (vram__parse_token(p))
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX, "more than one word", NULL);
  p->g->autocast = known[i].autocast;
  if (p->g->autocast && p->g->autocast != VRAM__AUTOCAST_OFF)
    p->g->autocast_own = 1;
  return 1;
}

/* ---- a text ---- */

static int vram__parse_drop(vram__parser *p) { return vram__lifetime_line(p, VRAM__OP_drop); }
static int vram__parse_keep(vram__parser *p) { return vram__lifetime_line(p, VRAM__OP_keep); }
static int vram__parse_store(vram__parser *p) { return vram__lifetime_line(p, VRAM__OP_store); }
static int vram__parse_requires_grad(vram__parser *p) {
  return vram__lifetime_line(p, VRAM__OP_requires_grad);
}
static int vram__parse_zero_grad(vram__parser *p) {
  return vram__parameters_line(p, VRAM__OP_zero_grad);
}
static int vram__parse_step(vram__parser *p) { return vram__parameters_line(p, VRAM__OP_step); }
static int vram__parse_freeze(vram__parser *p) { return vram__parameters_line(p, VRAM__OP_freeze); }
static int vram__parse_unfreeze(vram__parser *p) {
  return vram__parameters_line(p, VRAM__OP_unfreeze);
}
static int vram__parse_no_grad(vram__parser *p) { return vram__grad_line(p, 1); }
static int vram__parse_enable_grad(vram__parser *p) { return vram__grad_line(p, 0); }

/* A `decode` line: what lies behind it is another text. */
static int vram__parse_decode(vram__parser *p) {
  if (p->depth || p->blocks)
    return vram__parse_refuse(p, p->token.text, VRAM_ERR_SYNTAX, "decode inside a block", NULL);
  p->text_end = p->next_line;
  return 1;
}

/* Lines that are no ops. */
static const struct {
  char word[16];
  int (*line)(vram__parser *p);
} vram__statements[] = {
    {"backward", vram__backward_line},
    {"zero_grad", vram__parse_zero_grad},
    {"step", vram__parse_step},
    {"decode", vram__parse_decode},
    {"update", vram__parse_update},
    {"freeze", vram__parse_freeze},
    {"unfreeze", vram__parse_unfreeze},
    {"model", vram__model_line},
    {"rules", vram__rules_line},
    {"dim", vram__dim_line},
    {"input", vram__input_line},
    {"output", vram__output_line},
    {"infer", vram__infer_line},
    {"return", vram__return_line},
    {"unit", vram__unit_line},
    {"stage", vram__stage_line},
    {"tp", vram__tp_line},
    {"drop", vram__parse_drop},
    {"keep", vram__parse_keep},
    {"store", vram__parse_store},
    {"requires_grad", vram__parse_requires_grad},
    {"order", vram__order_line},
    {"no_grad", vram__parse_no_grad},
    {"enable_grad", vram__parse_enable_grad},
    {"loop", vram__loop_line},
    {"next", vram__next_line},
    {"checkpoint", vram__checkpoint_line},
    {"end", vram__end_line},
    {"autocast", vram__autocast_line},
};

static int vram__parse_statement(vram__parser *p) {
  const uint32_t found = *vram__op_found(p, p->token);
  uint32_t i;
  if (vram__text_is(p->token.text, p->token.len, vram__op_at(found)->name))
    return vram__op_line(p, found); /* most lines are ops that were there before */
  for (i = 0; i < sizeof vram__statements / sizeof *vram__statements; i++)
    if (*vram__statements[i].word == *p->token.text &&
        vram__parse_word_is(p, vram__statements[i].word))
      return vram__statements[i].line(p);
  return vram__op_line(p, vram__op_named(p, p->token));
}

static int vram__parse_lines(vram__parser *p) {
  while (p->next_line < p->text_end) {
    vram__parse_line(p, p->next_line);
    p->line++;
    if (p->odd)
      return vram__parse_refuse(p, p->odd, VRAM_ERR_SYNTAX, "a byte that is not printable ASCII",
                                "text");
    if (vram__parse_token(p) && (!vram__parse_statement(p) || p->g->error.code))
      return vram__parse_located(p, p->token.text);
  }
  if (p->depth) {
    const vram__loop *loop = &p->loop[p->depth - 1];
    p->line = loop->head_line;
    p->start = loop->head;
    return vram__parse_refuse(p, p->start, VRAM_ERR_SYNTAX, "a loop without next", NULL);
  }
  if (p->blocks) {
    p->line = p->block_line;
    p->start = p->block_at;
    return vram__parse_refuse(p, p->start, VRAM_ERR_SYNTAX, "a checkpoint block without end", NULL);
  }
  return 1;
}

/* Every dim of `set` is in the text, and there is a node. */
static int vram__parse_complete(vram__parser *p) {
  vram_graph *g = p->g;
  uint32_t i;
  for (i = 0; i < p->nset; i++)
    if (!p->used[i]) {
      vram__error_no_dim(g, p->set[i].name ? p->set[i].name : "(batch)");
      return 0;
    }
  if (g->root) {
    vram__graph_reorder(g);
    return vram__adapt_complete(g);
  }
  vram__graph_fail(g, VRAM_ERR_SYNTAX,
                   "a model without nodes (expected OP OUTPUTS INPUTS ... lines)");
  g->error.line = p->line ? p->line : 1;
  g->error.column = 1;
  return 0;
}

static void vram__parser_begin(vram__parser *p, vram_graph *g, const char *text, uint64_t len) {
  vram__memory_zero(p, sizeof *p);
  p->g = g;
  p->start = p->next_line = p->text_end = len ? text : ""; /* no text may be NULL */
  p->text_end += len;
}

/* Reads a text into g; names_only: as vram__parser has it. */
static void vram__parse_text(vram_graph *g, const char *text, uint64_t len, const vram_dim *set,
                             uint32_t nset, int names_only) {
  vram__parser p;
  uint8_t used[VRAM_MAX_DIMS];
  const uint64_t cap = g->cap;
  uint64_t size = 16;
  vram__parser_begin(&p, g, text, len);
  vram__memory_zero(used, sizeof used);
  p.set = set;
  p.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS;
  p.used = used;
  p.names_only = names_only;
  if (nset > VRAM_MAX_DIMS)
    vram__graph_fail(g, VRAM_ERR_LIMIT, "more than 64 dims");
  while (size < len / 32) /* names: a line has about so many bytes */
    size *= 2;
  g->cap &= ~(uint64_t)7;
  p.mask = (uint32_t)size - 1;
  p.table = (uint32_t *)vram__parser_take(&p, size * sizeof *p.table);
  p.symbol = (vram__symbol *)(void *)p.table;
  if (p.table && !g->error.code) {
    vram__memory_zero(p.table, size * sizeof *p.table);
    if (vram__parse_lines(&p))
      vram__parse_complete(&p);
  }
  g->cap = cap;
}

/* A graph of so many nodes ends at the memory or at a limit before the last line was read. An error
   of the text matters more, so the lines are read once more for their names and keys alone. */
static void vram__parse_names(vram_graph *g, const char *text, uint64_t len, const vram_dim *set,
                              uint32_t nset) {
  const vram_error before = g->error;
  vram_graph_init(g, g->mem, g->cap);
  vram__parse_text(g, text, len, set, nset, 1);
  if (g->error.code == VRAM_OK || g->error.code == VRAM_ERR_MEMORY)
    g->error = before;
}

VRAM_API vram_result vram_graph_parse(vram_graph *g, const char *text, uint64_t len,
                                      const vram_dim *set, uint32_t nset, vram_error *err) {
  vram__adapt_begin(g, text, len);
  vram__parse_text(g, text, len, set, nset, 0);
  if (g->error.code == VRAM_ERR_MEMORY || g->error.code == VRAM_ERR_LIMIT)
    vram__parse_names(g, text, len, set, nset);
  if (err)
    *err = g->error;
  return g->error.code;
}

/* ---- bytes of a graph ---- */

/* Loops around the line, for vram_graph_parse_bytes. */
typedef struct vram__nest {
  uint64_t times[VRAM_MAX_LOOPS + 1]; /* rounds of all loops up to each depth */
  uint32_t depth;
  uint32_t skipped; /* depth of a loop of no rounds, 0: none */
} vram__nest;

/* A `loop` line; 0: here vram_graph_parse stops, too. */
static int vram__nest_enter(vram__parser *p, vram__nest *nest) {
  int64_t rounds = 1;
  nest->depth++;
  if (nest->skipped)
    return 1;
  if (nest->depth > VRAM_MAX_LOOPS)
    return 0;
  if (vram__parse_token(p))
    vram__parse_rounds(p, p->token, &rounds);
  nest->times[nest->depth] =
      vram__product_or_overflow(nest->times[nest->depth - 1], (uint64_t)rounds);
  if (!rounds)
    nest->skipped = nest->depth;
  return nest->times[nest->depth] <= VRAM_MAX_NODES;
}

/* How often a line here is read. */
static uint64_t vram__nest_times(const vram__nest *nest) {
  return nest->skipped ? 0 : nest->times[nest->depth];
}

static void vram__nest_leave(vram__nest *nest) {
  if (nest->depth == nest->skipped)
    nest->skipped = 0;
  nest->depth -= nest->depth != 0;
}

/* Does a linear line say that its weight is quantised or that it has an adapter? */
static int vram__line_adapts(const vram__parser *p) {
  const char *at;
  for (at = p->start; at + 6 < p->end; at++)
    if (vram__text_equal(at, " lora=", 6) || vram__text_equal(at, " quant", 6))
      return 1;
  return p->adapted;
}

/* What a node of that op takes at most, beside its names, inputs and keys. Of a recurrent net it is
   the parameters, so many for each of `num_layers`. */
static uint64_t vram__op_bytes(vram__parser *p, uint32_t op) {
  const vram__op_row *row = vram__op_at(op);
  int64_t layers = 1;
  if (op == VRAM_OP_linear && vram__line_adapts(p))
    return 4096;
  if (!(row->traits & VRAM__OP_FLAT))
    return (row->lines ? 2048u : 512u) + (p->adapted ? 512u : 0u);
  while (vram__parse_token(p)) {
    vram__span name, value;
    if (vram__parse_pair(p->token, &name, &value) &&
        vram__text_is(name.text, name.len, vram__key_table[VRAM__KEY_num_layers].name))
      vram__parse_size(p, value, 1, &layers);
  }
  return 512 + 1280 * (uint64_t)(layers > 0 && layers <= VRAM__MAX_RNN_LAYERS ? layers : 1);
}

/* What a line that begins with this word takes of the memory at most in one round. */
static uint64_t vram__line_bytes(vram__parser *p, vram__span word) {
  uint64_t bytes = 16 * (uint64_t)(p->end - p->start);
  const char *c;
  for (c = p->start; c < p->end; c++)
    if (*c == ',') /* one more output, perhaps */
      bytes += 256;
  return bytes + vram__op_bytes(p, vram__op_named(p, word));
}

/* Goes over the lines once; dims, counts of loops and `num_layers` alone are read. */
static uint64_t vram__text_bytes(const char *text, uint64_t len, const vram_dim *set, uint32_t nset,
                                 int adapted) {
  uint64_t mem[VRAM_MAX_DIMS * (VRAM_MAX_NAME + 9) / 8];
  uint8_t used[VRAM_MAX_DIMS];
  uint64_t total = adapted ? 16384 : 4096;
  vram__nest nest;
  vram_graph g;
  vram__parser p;
  vram_graph_init(&g, mem, sizeof mem);
  vram__parser_begin(&p, &g, text, len);
  p.set = set;
  p.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS;
  p.used = used;
  p.adapted = adapted;
  nest.times[0] = 1;
  nest.depth = nest.skipped = 0;
  while (p.next_line < p.text_end && !g.error.code) {
    uint64_t bytes, times = vram__nest_times(&nest);
    vram__span word;
    vram__parse_line(&p, p.next_line);
    if (!vram__parse_token(&p))
      continue;
    word = p.token;
    if (vram__parse_word_is(&p, "next"))
      vram__nest_leave(&nest);
    else if (vram__parse_word_is(&p, "loop")) {
      if (!vram__nest_enter(&p, &nest))
        break;
    } else if (vram__parse_word_is(&p, "dim") && !nest.skipped)
      vram__dim_line(&p);
    if (times < vram__nest_times(&nest))
      times = vram__nest_times(&nest);
    bytes = times ? vram__product_or_overflow(vram__line_bytes(&p, word), times) : 0;
    if (bytes > (uint64_t)VRAM_MAX_BYTES - total)
      return 0;
    total += bytes;
  }
  return vram__sum_or_overflow(total, len); /* the table of names */
}

VRAM_API uint64_t vram_graph_parse_bytes(const char *text, uint64_t len, const vram_dim *set,
                                         uint32_t nset) {
  return vram__text_bytes(text, len, set, nset, 0);
}

VRAM_API uint64_t vram_graph_adapted_bytes(const char *text, uint64_t len, const vram_dim *set,
                                           uint32_t nset) {
  return vram__text_bytes(text, len, set, nset, 1);
}

VRAM_API uint64_t vram_text_decode(const char *text, uint64_t len) {
  static const char word[] = "decode";
  uint64_t i = 0, k;
  while (i < len) {
    while (i < len && (text[i] == ' ' || text[i] == '\t'))
      i++;
    for (k = 0; k < 6 && i + k < len && text[i + k] == word[k];)
      k++;
    k = k == 6 && (i + k == len || text[i + k] == ' ' || text[i + k] == '#' ||
                   text[i + k] == '\r' || text[i + k] == '\n');
    while (i < len && text[i] != '\n')
      i++;
    i += i < len;
    if (k)
      return i;
  }
  return 0;
}
