/* >>model/parse    the text form */
#include "model/model.h"

VRAM__FN int vram__parse_error(vram__parse *q, const char *at, vram_result code, const char *what,
                               const char *found, uint32_t found_len, const char *expected) {
  vram_graph *g = q->g;
  if (!g->error.code) {
    vram__graph_fail(g, code, what);
    if (found || expected) {
      vram__error_more(g, " (");
      if (found) {
        vram__error_more(g, "found ");
        if (!found_len)
          vram__error_more(g, "nothing");
        vram__error_more_n(g, found, found_len);
        if (expected)
          vram__error_more(g, ", ");
      }
      if (expected)
        vram__error_more(g, "expected "), vram__error_more(g, expected);
      vram__error_more(g, ")");
    }
  }
  if (!g->error.line) {
    g->error.line = q->line;
    g->error.column = at >= q->start && at <= q->text_end ? (uint32_t)(at - q->start) + 1 : 1;
  }
  return 0;
}

VRAM__FN vram_node *vram__parse_error_null(vram__parse *q, const char *at, vram_result code,
                                           const char *what, const char *found, uint32_t found_len,
                                           const char *expected) {
  vram__parse_error(q, at, code, what, found, found_len, expected);
  return NULL;
}

/* size = product of integers and dims with * and exact / ; a leading minus where `neg` */
static int vram__parse_size(vram__parse *q, const char *s, const char *e, int neg, int64_t *to) {
  const char *from = s;
  int minus = 0, divide = 0;
  uint64_t num = 1;
  if (neg && s < e && *s == '-')
    minus = 1, s++;
  for (;;) {
    uint64_t v = 0;
    const char *t = s;
    if (s < e && vram__digit(*s)) {
      for (; s < e && vram__digit(*s); s++)
        if ((v = vram__product_or_overflow(v, 10)) == VRAM_OVERFLOW ||
            (v += (uint64_t)(*s - '0')) > (uint64_t)VRAM_MAX_BYTES)
          return vram__parse_error(q, t, VRAM_ERR_OVERFLOW, "a number of more than 63 bits", from,
                                   (uint32_t)(e - from), NULL);
    } else if (s < e && vram__name_start(*s)) {
      uint32_t i;
      while (s < e && (vram__name_start(*s) || vram__digit(*s) || *s == '.'))
        s++;
      for (i = 0; i < q->g->ndim; i++)
        if (q->g->dim[i].len == (uint32_t)(s - t)) {
          uint32_t k = 0;
          while (k < q->g->dim[i].len && q->g->dim[i].name[k] == t[k])
            k++;
          if (k == q->g->dim[i].len)
            break;
        }
      if (i == q->g->ndim)
        return vram__parse_error(q, t, VRAM_ERR_NAME, "an unknown dim", t, (uint32_t)(s - t),
                                 "a name of a dim line");
      v = (uint64_t)q->g->dim[i].value;
    } else
      return vram__parse_error(q, s, VRAM_ERR_SYNTAX, "not a size", from, (uint32_t)(e - from),
                               "integers and dims with * and /");
    if (divide) {
      if (!v || num % v)
        return vram__parse_error(q, t, VRAM_ERR_VALUE, "a division that leaves a rest", from,
                                 (uint32_t)(e - from), "an exact one");
      num /= v;
    } else if ((num = vram__product_or_overflow(num, v)) == VRAM_OVERFLOW)
      return vram__parse_error(q, t, VRAM_ERR_OVERFLOW, "a product of more than 63 bits", from,
                               (uint32_t)(e - from), NULL);
    if (s == e)
      break;
    if (*s != '*' && *s != '/')
      return vram__parse_error(q, s, VRAM_ERR_SYNTAX, "not a size", from, (uint32_t)(e - from),
                               "integers and dims with * and /");
    divide = *s++ == '/';
  }
  *to = minus ? -(int64_t)num : (int64_t)num;
  return 1;
}

/* A list of sizes, with or without brackets, into v[0..cap). */
static int vram__parse_sizes(vram__parse *q, const char *s, const char *e, uint32_t cap, int64_t *v,
                             uint32_t *count) {
  const char *from = s;
  *count = 0;
  if (s < e && *s == '[') {
    if (e[-1] != ']')
      return vram__parse_error(q, s, VRAM_ERR_SYNTAX, "a shape that is not closed", s,
                               (uint32_t)(e - s), "[size,size,...]");
    s++, e--;
    if (s == e)
      return 1;
  }
  for (;;) {
    const char *t = s;
    while (s < e && *s != ',')
      s++;
    if (*count == cap)
      return vram__parse_error(q, from, VRAM_ERR_LIMIT, "too many values", from,
                               (uint32_t)(e - from), NULL);
    if (!vram__parse_size(q, t, s, 1, v + (*count)++))
      return 0;
    if (s == e)
      return 1;
    s++;
  }
}

/* decimal number in units of 10^-9 */
static int vram__parse_decimal(vram__parse *q, const char *s, const char *e, int64_t *to) {
  const char *from = s;
  int minus = 0, exp = 0, dot = 0, digits = 0, eneg = 0;
  uint64_t m = 0;
  if (s < e && (*s == '-' || *s == '+'))
    minus = *s++ == '-';
  for (; s < e && (vram__digit(*s) || (*s == '.' && !dot)); s++) {
    if (*s == '.') {
      dot = 1;
      continue;
    }
    digits++;
    if (m > UINT64_C(99999999999999999)) {
      if (!dot)
        exp++;
      continue;
    }
    m = m * 10 + (uint64_t)(*s - '0');
    if (dot)
      exp--;
  }
  if (digits && s < e && (*s == 'e' || *s == 'E')) {
    int x = 0;
    s++;
    if (s < e && (*s == '-' || *s == '+'))
      eneg = *s++ == '-';
    if (s == e)
      digits = 0;
    for (; s < e && vram__digit(*s); s++)
      x = x < 1000 ? x * 10 + (*s - '0') : x;
    exp += eneg ? -x : x;
  }
  if (!digits || s != e)
    return vram__parse_error(q, from, VRAM_ERR_SYNTAX, "not a number", from, (uint32_t)(e - from),
                             "a decimal number");
  exp += 9;
  while (exp > 0 && m && m < UINT64_C(900000000000000000))
    m *= 10, exp--;
  while (exp < 0 && m)
    m /= 10, exp++;
  if ((exp > 0 && m) || m > (uint64_t)INT64_MAX)
    m = (uint64_t)INT64_MAX;
  *to = minus ? -(int64_t)m : (int64_t)m;
  return 1;
}

static int vram__dtype_of(vram__parse *q, const char *s, uint32_t n, int64_t *to) {
  uint32_t i;
  for (i = VRAM_DTYPE_NONE + 1; i < VRAM_DTYPE_COUNT; i++)
    if (vram__text_is(s, n, vram__dtype_rows[i].name)) {
      *to = i;
      return 1;
    }
  *to = vram_dtype_from_name_n(s, n); /* float32, f8e4m3, Q4_K, ... */
  return *to != VRAM_DTYPE_NONE || vram__parse_error(q, s, VRAM_ERR_NAME, "an unknown dtype", s, n,
                                                     "f32, bf16, i64, ... (vram list dtypes)");
}

/* Is `name` in the list of keys of an op? 2: and required */
static int vram__op_has_key(const char *keys, const char *name) {
  const char *k = keys;
  while (*k) {
    const char *n = name;
    while (*n && *k == *n)
      k++, n++;
    if (!*n && (*k == ' ' || *k == 0 || *k == '!'))
      return *k == '!' ? 2 : 1;
    while (*k && *k != ' ')
      k++;
    while (*k == ' ')
      k++;
  }
  return 0;
}

/* The key of that name, as vram__op_named. */
static uint32_t vram__key_named(vram__parse *q, const char *s, uint32_t n) {
  uint16_t *known = q->key + (vram__hash(s, n) & 63);
  uint32_t k = *known;
  if (k && vram__text_is(s, n, vram__key_table[k].name))
    return k;
  for (k = 1; k < VRAM__KEY_COUNT; k++)
    if (vram__text_is(s, n, vram__key_table[k].name))
      break;
  *known = (uint16_t)(k < VRAM__KEY_COUNT ? k : 0);
  return k;
}

/* One `key=value` of op row r into attr at *na. */
VRAM__FN int vram__key_value(vram__parse *q, const vram__op_row *r, const char *s, const char *e,
                             int64_t *attr, uint32_t cap, uint32_t *na) {
  const char *v = s;
  uint32_t k, count = 1, i;
  int64_t *to = attr + *na + 1;
  while (*v != '=')
    v++;
  k = vram__key_named(q, s, (uint32_t)(v - s));
  if (k == VRAM__KEY_COUNT || !vram__op_has_key(r->keys, vram__key_table[k].name))
    return vram__parse_error(q, s, VRAM_ERR_NAME, "the op has no such key", s, (uint32_t)(v - s),
                             *r->keys ? r->keys : "none");
  for (i = 0; i < *na; i += 1 + ((uint32_t)(attr[i] >> 8) & 0xffffu))
    if ((uint32_t)(attr[i] & 0xff) == k)
      return vram__parse_error(q, s, VRAM_ERR_NAME, "a key given twice", s, (uint32_t)(v - s),
                               NULL);
  v++;
  if (cap - *na < 1 + VRAM_MAX_AXES * 2)
    return vram__parse_error(q, s, VRAM_ERR_LIMIT, "too many keys", NULL, 0, NULL);
  if (v == e)
    return vram__parse_error(q, v, VRAM_ERR_SYNTAX, "a key without a value", v, 0, "key=value");
  switch (vram__key_table[k].kind) {
  case 'B':
    if (e - v != 1 || (*v != '0' && *v != '1'))
      return vram__parse_error(q, v, VRAM_ERR_VALUE, "not a boolean", v, (uint32_t)(e - v),
                               "0 or 1");
    *to = *v - '0';
    break;
  case 'I':
    if (!vram__parse_size(q, v, e, 1, to))
      return 0;
    break;
  case 'L':
  case 'S':
    if (k == VRAM__KEY_padding && vram__op_has_key(r->keys, "padding_mode")) { /* convNd */
      const int same = vram__text_is(v, (uint32_t)(e - v), "same");
      if (same || vram__text_is(v, (uint32_t)(e - v), "valid")) {
        *to = same ? VRAM__SAME : 0;
        break;
      }
    }
    if (k == VRAM__KEY_split_size_or_sections || k == VRAM__KEY_pad) {
      if (!vram__parse_sizes(q, v, e, cap - *na - 2, to, &count))
        return 0;
    } else if (!vram__parse_sizes(q, v, e, VRAM_MAX_AXES, to, &count))
      return 0;
    if (!count && vram__key_table[k].kind == 'L' && k != VRAM__KEY_dim)
      return vram__parse_error(q, v, VRAM_ERR_VALUE, "an empty list", NULL, 0,
                               "at least one value");
    break;
  case 'F':
    for (count = 0;; v += i + 1) { /* a list where a key is one for each axis */
      for (i = 0; v + i < e && v[i] != ','; i++)
        ;
      if (count == (k == VRAM__KEY_scale_factor ? 3 : 1))
        return vram__parse_error(q, v, VRAM_ERR_VALUE, "too many values", NULL, 0, NULL);
      if (!vram__parse_decimal(q, v, v + i, to + count++))
        return 0;
      if (v + i == e)
        break;
    }
    break;
  case 'W':
    *to = vram__word(v, (uint32_t)(e - v));
    break;
  case 'D':
    if (!vram__dtype_of(q, v, (uint32_t)(e - v), to))
      return 0;
    break;
  case 'N': {
    vram__sym *y = vram__symbol_find(q, v, (uint32_t)(e - v));
    const vram_node *m = y ? y->value->node : NULL, *o;
    if (!q->table) /* built by calls: the latest node of that name */
      for (o = q->g->first; o; o = o->next)
        if (o->name_len == (uint32_t)(e - v) && vram__text_equal(o->name, v, o->name_len))
          m = o;
    if (!m)
      return vram__parse_error(q, v, VRAM_ERR_NAME, "an unknown node", v, (uint32_t)(e - v),
                               "a node defined before");
    *to = (int64_t)(uintptr_t)m;
    break;
  }
  default: { /* Q: the text itself */
    const char *t = vram__graph_keep_text(q->g, v, (uint32_t)(e - v));
    if (!t)
      return vram__parse_error(q, v, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    to[0] = (int64_t)(uintptr_t)t;
    to[1] = e - v;
    count = 2;
  }
  }
  attr[*na] = (int64_t)(k | count << 8);
  *na += 1 + count;
  return 1;
}

static const char *vram__line_end(const char *p, const char *end) {
  while (end - p >= 8 && !VRAM__HOLDS(vram__text_eight(p), '\n'))
    p += 8;
  while (p < end && *p != '\n')
    p++;
  return p;
}

/* Sets q up for the line that begins at s. */
static void vram__parse_line(vram__parse *q, const char *s) {
  const char *const end = q->text_end;
  q->start = q->p = s;
  q->odd = NULL;
  q->tabs = 0;
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
    q->tabs |= *s == '\t';
    if (((uint8_t)*s < 32 ? *s != '\t' : (uint8_t)*s > 126) && !q->odd)
      q->odd = s;
  }
  q->end = s;
  q->next = s < end && *s == '#' ? vram__line_end(s, end) : s;
  while (q->end > q->start && (q->end[-1] == ' ' || q->end[-1] == '\t' || q->end[-1] == '\r'))
    q->end--;
  if (q->odd && q->odd >= q->end)
    q->odd = NULL;
  if (q->next < end)
    q->next++;
}

static vram_value *vram__parse_value(vram__parse *q, const char *s, uint32_t n) {
  vram__sym *y = vram__symbol_find(q, s, n);
  if (!y) {
    vram__parse_error(q, s, VRAM_ERR_NAME, "an undefined name", s, n,
                      "an input or the output of a node above");
    return NULL;
  }
  return y->value;
}

VRAM__FN vram_value *vram__graph_input(vram_graph *g, const char *name, uint32_t len, uint8_t dtype,
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
  v->name = vram__graph_keep_text(g, name, len);
  if (!v->d || !v->name || !vram__whole_blocks(g, v->d, dtype))
    return NULL;
  v->name_len = (uint8_t)len;
  v->index = g->nvalue++;
  v->last = UINT32_MAX;
  v->dtype = dtype;
  for (i = 0; list != g->input && i < g->ninput; i++)
    list[i] = g->input[i];
  list[g->ninput++] = v;
  g->input = list;
  return v;
}

static int vram__input_line(vram__parse *q) {
  vram_graph *g = q->g;
  const char *name;
  uint32_t nlen, c;
  int64_t dt, size[VRAM_MAX_AXES];
  vram_value *v;
  if (q->depth)
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "input inside a loop", NULL, 0, NULL);
  if (!vram__parse_token(q) || !vram__is_name(q->tok, q->len))
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "not a name", q->tok, q->len,
                             "input NAME DTYPE SHAPE");
  name = q->tok, nlen = q->len;
  if (!vram__parse_token(q))
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "an input without dtype", q->tok, 0,
                             "a dtype");
  if (!vram__dtype_of(q, q->tok, q->len, &dt))
    return 0;
  if (!vram__parse_token(q) || *q->tok != '[')
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "an input without shape", q->tok, q->len,
                             "[size,size,...]");
  if (!vram__parse_sizes(q, q->tok, q->tok + q->len, VRAM_MAX_AXES, size, &c))
    return 0;
  v = vram__graph_input(g, name, nlen, (uint8_t)dt, c, size);
  if (!v)
    return vram__parse_error(q, q->tok, VRAM_ERR_SHAPE, "", NULL, 0, NULL);
  while (vram__parse_token(q)) {
    if (vram__text_is(q->tok, q->len, "grad=1"))
      v->flags |= VRAM__GRAD;
    else if (!vram__text_is(q->tok, q->len, "grad=0"))
      return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "an unknown word", q->tok, q->len,
                               "grad=1 or nothing");
  }
  if ((v->flags & VRAM__GRAD) && vram__kind_rank(v->dtype) < 2)
    return vram__parse_error(q, q->start, VRAM_ERR_VALUE,
                             "grad=1 on an input that is not floating point", NULL, 0, NULL);
  return vram__symbol_define(q, name, nlen, v, 0);
}

static int vram__dim_line(vram__parse *q) {
  vram_graph *g = q->g;
  while (vram__parse_token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    uint32_t i;
    int64_t v;
    while (e < end && *e != '=')
      e++;
    if (!vram__is_name(q->tok, (uint32_t)(e - q->tok)) || e == end || e + 1 == end)
      return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "not a dim", q->tok, q->len,
                               "NAME=INTEGER");
    if (!vram__parse_size(q, e + 1, end, 0, &v))
      return 0;
    for (i = 0; i < g->ndim; i++)
      if (g->dim[i].len == (uint32_t)(e - q->tok)) {
        uint32_t k = 0;
        while (k < g->dim[i].len && g->dim[i].name[k] == q->tok[k])
          k++;
        if (k == g->dim[i].len)
          return vram__parse_error(q, q->tok, VRAM_ERR_NAME, "a dim defined twice", q->tok,
                                   g->dim[i].len, "a new name");
      }
    if (g->ndim == VRAM_MAX_DIMS)
      return vram__parse_error(q, q->tok, VRAM_ERR_LIMIT, "more than 64 dims", NULL, 0, NULL);
    for (i = 0; i < q->nset; i++) {
      const char *z = q->set[i].name;
      if (z ? vram__text_is(q->tok, (uint32_t)(e - q->tok), z) : !g->ndim) {
        v = q->set[i].value;
        q->used[i] = 1;
      }
    }
    if (v < 0)
      return vram__parse_error(q, q->tok, VRAM_ERR_VALUE, "a dim below 0", q->tok, q->len, NULL);
    g->dim[g->ndim].name = vram__graph_keep_text(g, q->tok, (uint32_t)(e - q->tok));
    if (!g->dim[g->ndim].name)
      return vram__parse_error(q, q->tok, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    g->dim[g->ndim].len = (uint32_t)(e - q->tok);
    g->dim[g->ndim++].value = v;
  }
  return 1;
}

/* A node of op `op` with these names, inputs and keys; at: where errors point to. */
/* The keys marked ! in a row, ended by 0; looked up once for each op of a text. */
static const uint8_t *vram__op_required(vram__parse *q, uint32_t op, const char *k) {
  uint8_t *known = q->required[op];
  uint32_t n = 1;
  if (*known)
    return known + 1;
  *known = 1;
  while (*k) {
    const char *e = k;
    while (*e && *e != ' ' && *e != '!')
      e++;
    if (*e == '!' && n < VRAM__REQUIRED)
      known[n++] = (uint8_t)vram__key_named(q, k, (uint32_t)(e - k));
    while (*e && *e != ' ')
      e++;
    while (*e == ' ')
      e++;
    k = e;
  }
  return known + 1;
}

VRAM__FN vram_node *vram__parse_add(vram__parse *q, uint32_t op, const char *names,
                                    const char *names_end, vram_value **in, uint32_t nin,
                                    const int64_t *attr, uint32_t na, const char *at) {
  vram_graph *g = q->g;
  const vram__op_row *r = vram__op_at(op);
  vram_node *n, *before = g->last;
  uint32_t i, nout = 0;
  const char *s;
  for (s = names; s <= names_end; s++) {
    const char *t = s;
    while (names_end - s >= 8 && vram__name_eight(vram__text_eight(s)))
      s += 8;
    while (s < names_end && vram__name_char(*s))
      s++;
    if ((s < names_end && *s != ',') || t == s || !vram__name_start(*t) || s - t > VRAM_MAX_NAME) {
      while (s < names_end && *s != ',')
        s++;
      vram__parse_error(q, t, VRAM_ERR_SYNTAX, "not a name", t, (uint32_t)(s - t),
                        "letters, digits, _ . /, at most 255");
      return NULL;
    }
    nout++;
  }
  /* a weight given as an input stands for the required keys */
  if (nin < 2 || !(r->traits & VRAM__OP_WEIGHT_INPUT)) {
    const uint8_t *need = vram__op_required(q, op, r->keys);
    for (; *need; need++) {
      for (i = 0; i < na; i += 1 + ((uint32_t)(attr[i] >> 8) & 0xffffu))
        if ((uint32_t)(attr[i] & 0xff) == *need)
          break;
      if (i >= na)
        return vram__parse_error_null(q, at, VRAM_ERR_SYNTAX, "a required key is missing", NULL, 0,
                                      vram__key_table[*need].name);
    }
  }
  if (!vram__node_emit(q, op, in, nin, nout, attr, na, &n))
    return vram__parse_error_null(q, at, VRAM_ERR_SHAPE, "", NULL, 0, NULL);
  for (i = 0, s = names; i < nout; i++, s++) {
    const char *t = s;
    vram_value *v = &n->out[i];
    if (nout == 1)
      s = names_end;
    while (s < names_end && *s != ',')
      s++;
    v->name = vram__graph_keep_text(g, t, (uint32_t)(s - t));
    v->name_len = (uint8_t)(s - t);
    if (!v->name || (q->table && !vram__symbol_define(q, t, (uint32_t)(s - t), v, 0)))
      return vram__parse_error_null(q, t, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  }
  for (before = before ? before->next : g->first; before; before = before->next) {
    if (r->traits & VRAM__OP_LOSS)
      before->flags |= VRAM__LOSS;
    before->name = n->out[0].name;
    before->name_len = n->out[0].name_len;
    before->line = q->line;
    before->round = q->depth ? q->loop[q->depth - 1].scope : NULL;
  }
  return n;
}

/* The op of that name; VRAM_OP_COUNT: there is none. A model has few ops: where each of them was
   found is remembered. */
static uint32_t vram__op_named(vram__parse *q, const char *s, uint32_t n) {
  uint16_t *known = q->op + (vram__hash(s, n) & 63);
  uint32_t op = *known;
  if (vram__text_is(s, n, vram__op_at(op)->name))
    return op;
  for (op = 0; op < VRAM_OP_COUNT; op++)
    if (vram__op_at(op)->name[0] == *s && vram__text_is(s, n, vram__op_at(op)->name))
      break;
  *known = (uint16_t)(op < VRAM_OP_COUNT ? op : 0);
  return op;
}

static int vram__op_line(vram__parse *q) {
  uint32_t nin = 0, na = 0;
  const char *names, *names_end, *at = q->tok;
  const vram__op_row *r;
  int64_t attr[1024];
  vram_value *in[1024];
  const uint32_t op = vram__op_named(q, at, q->len);
  if (op == VRAM_OP_COUNT)
    return vram__parse_error(q, at, VRAM_ERR_NAME, "an unknown op", at, q->len,
                             "an op of `vram list ops`");
  r = vram__op_at(op);
  if (!vram__parse_token(q))
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "a node without a name", q->tok, 0,
                             "OP NAME INPUTS KEY=VALUE");
  names = q->tok, names_end = q->tok + q->len;
  while (vram__parse_token(q)) {
    if (vram__text_holds(q->tok, q->len, '=')) {
      if (!vram__key_value(q, r, q->tok, q->tok + q->len, attr, 1000, &na))
        return 0;
    } else {
      if (na)
        return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "an input behind a key", q->tok,
                                 q->len, "KEY=VALUE");
      if (nin == 1024)
        return vram__parse_error(q, q->tok, VRAM_ERR_LIMIT, "more than 1024 inputs", NULL, 0, NULL);
      if (!(in[nin++] = vram__parse_value(q, q->tok, q->len)))
        return 0;
    }
  }
  return vram__parse_add(q, op, names, names_end, in, nin, attr, na, at) != NULL;
}

/* `output` and `drop` lines */
static int vram__names_line(vram__parse *q, int drop) {
  vram_value *in[1024];
  uint32_t n = 0;
  const char *at = q->tok;
  while (vram__parse_token(q)) {
    if (n == 1024)
      return vram__parse_error(q, q->tok, VRAM_ERR_LIMIT, "more than 1024 names", NULL, 0, NULL);
    if (!(in[n++] = vram__parse_value(q, q->tok, q->len)))
      return 0;
  }
  if (!n)
    return vram__parse_error(q, at, VRAM_ERR_SYNTAX, "a line without names", NULL, 0,
                             "at least one");
  if (drop) {
    vram_node *m = vram__node_new(q->g, VRAM__OP_drop, in, n, 0, NULL, 0);
    if (!m)
      return vram__parse_error(q, at, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    m->name = "drop", m->name_len = 4, m->line = q->line;
    return 1;
  }
  if (q->g->noutput)
    return vram__parse_error(q, at, VRAM_ERR_SYNTAX, "a second output line", NULL, 0, NULL);
  q->g->noutput = n;
  q->g->root = in[0];
  while (n--)
    in[n]->flags |= VRAM__OUTPUT, in[n]->last = UINT32_MAX;
  return 1;
}

static int vram__begin_round(vram__parse *q, vram__loop *l) {
  vram__round *r = (vram__round *)vram__graph_take(q->g, sizeof *r);
  if (!r)
    return vram__parse_error(q, q->start, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  if (++q->rounds > VRAM_MAX_NODES)
    return vram__parse_error(q, q->start, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", NULL, 0,
                             NULL);
  r->up = q->depth > 1 ? q->loop[q->depth - 2].scope : NULL;
  r->round = (uint32_t)l->round;
  l->scope = r;
  return 1;
}

static int vram__loop_line(vram__parse *q) {
  vram__loop *l;
  int64_t size;
  uint64_t rounds;
  vram_value *v[64];
  const char *name[64];
  uint32_t len[64], n = 0, i;
  const char *at = q->tok;
  if (!vram__parse_token(q))
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "a loop without a count", q->tok, 0,
                             "loop SIZE NAME=NAME ...");
  if (!vram__parse_size(q, q->tok, q->tok + q->len, 0, &size))
    return 0;
  rounds = (uint64_t)size;
  for (i = 0; i < q->depth; i++)
    rounds = vram__product_or_overflow(rounds, (uint64_t)q->loop[i].left);
  if (rounds > VRAM_MAX_NODES)
    return vram__parse_error(q, q->tok, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", q->tok,
                             q->len, NULL);
  if (q->depth == VRAM_MAX_LOOPS)
    return vram__parse_error(q, at, VRAM_ERR_LIMIT, "more than 16 loops inside one another", NULL,
                             0, NULL);
  while (vram__parse_token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    while (e < end && *e != '=')
      e++;
    if (n == 64)
      return vram__parse_error(q, q->tok, VRAM_ERR_LIMIT, "more than 64 carried names", NULL, 0,
                               NULL);
    if (e == end || !vram__is_name(q->tok, (uint32_t)(e - q->tok)))
      return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "not a carried name", q->tok, q->len,
                               "NAME=NAME");
    name[n] = q->tok, len[n] = (uint32_t)(e - q->tok);
    if (!(v[n++] = vram__parse_value(q, e + 1, (uint32_t)(end - e - 1))))
      return 0;
  }
  l = &q->loop[q->depth++];
  l->left = size;
  l->round = 0;
  l->line = q->line;
  l->head = q->start;
  l->mark = q->top;
  l->npair = n;
  for (i = 0; i < n; i++) {
    l->pair[i].name = name[i], l->pair[i].len = len[i], l->pair[i].value = v[i];
    if (!vram__symbol_define(q, name[i], len[i], v[i], 1))
      return 0;
  }
  l->body = NULL;
  return vram__begin_round(q, l);
}

/* `next` ends a round: the carried names take their new values, and the body begins again or the
   block ends. `*again`: where to go on, NULL: behind this line. */
static int vram__parse_next_line(vram__parse *q, const char **again) {
  vram__loop *l;
  vram_value *v[64];
  uint32_t i, seen = 0;
  *again = NULL;
  if (!q->depth)
    return vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "next without loop", NULL, 0, NULL);
  l = &q->loop[q->depth - 1];
  for (i = 0; i < l->npair; i++)
    v[i] = l->pair[i].value;
  while (vram__parse_token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    while (e < end && *e != '=')
      e++;
    for (i = 0; i < l->npair; i++)
      if (l->pair[i].len == (uint32_t)(e - q->tok)) {
        uint32_t k = 0;
        while (k < l->pair[i].len && l->pair[i].name[k] == q->tok[k])
          k++;
        if (k == l->pair[i].len)
          break;
      }
    if (e == end || i == l->npair)
      return vram__parse_error(q, q->tok, VRAM_ERR_NAME, "not a carried name of the loop", q->tok,
                               (uint32_t)(e - q->tok), "NAME=NAME, the first one of the loop line");
    if (!(v[i] = vram__parse_value(q, e + 1, (uint32_t)(end - e - 1))))
      return 0;
    seen++;
  }
  if (seen < l->npair)
    return vram__parse_error(q, q->start, VRAM_ERR_SYNTAX, "a carried name without its next value",
                             l->pair[0].name, l->pair[0].len, NULL);
  vram__symbol_forget(q, l->mark);
  l->round++;
  for (i = 0; i < l->npair; i++)
    l->pair[i].value = v[i];
  if (l->round < l->left) {
    for (i = 0; i < l->npair; i++)
      if (!vram__symbol_define(q, l->pair[i].name, l->pair[i].len, v[i], 1))
        return 0;
    *again = l->body;
    return vram__begin_round(q, l);
  }
  q->depth--;
  for (i = 0; i < l->npair; i++)
    if (!vram__symbol_define(q, l->pair[i].name, l->pair[i].len, v[i], 1))
      return 0;
  return 1;
}

/* Goes behind the `next` that belongs to a loop of no rounds. */
static const char *vram__parse_skip_block(vram__parse *q, const char *s) {
  uint32_t depth = 1;
  while (s < q->text_end) {
    vram__parse_line(q, s);
    q->line++;
    if (vram__parse_token(q)) {
      if (vram__text_is(q->tok, q->len, "loop"))
        depth++;
      if (vram__text_is(q->tok, q->len, "next") && --depth == 0)
        return s;
    }
    s = q->next;
  }
  return NULL;
}

static int vram__parse_lines(vram__parse *q, const char *text, uint64_t len) {
  vram_graph *g = q->g;
  const char *s = text, *again;
  q->text_end = text + len;
  q->line = 0;
  while (s < q->text_end) {
    vram__parse_line(q, s);
    q->line++;
    if (q->odd)
      return vram__parse_error(q, q->odd, VRAM_ERR_SYNTAX, "a byte that is not printable ASCII",
                               NULL, 0, "text");
    if (vram__parse_token(q)) {
      int ok = 1;
      again = NULL;
      if (vram__text_is(q->tok, q->len, "model")) {
        if (g->name)
          ok = vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "a second model line", NULL, 0, NULL);
        else if (!vram__parse_token(q) || q->len > VRAM_MAX_NAME)
          ok = vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "not a name", q->tok, q->len,
                                 "model NAME");
        else {
          g->name = vram__graph_keep_text(g, q->tok, q->len), g->name_len = q->len;
          if (vram__parse_token(q))
            ok = vram__parse_error(q, q->tok, VRAM_ERR_SYNTAX, "an unknown word", q->tok, q->len,
                                   "the end of the line");
        }
      } else if (vram__text_is(q->tok, q->len, "dim"))
        ok = vram__dim_line(q);
      else if (vram__text_is(q->tok, q->len, "input"))
        ok = vram__input_line(q);
      else if (vram__text_is(q->tok, q->len, "output"))
        ok = vram__names_line(q, 0);
      else if (vram__text_is(q->tok, q->len, "drop"))
        ok = vram__names_line(q, 1);
      else if (vram__text_is(q->tok, q->len, "loop")) {
        ok = vram__loop_line(q);
        if (ok) {
          vram__loop *l = &q->loop[q->depth - 1];
          l->body = q->next;
          l->body_line = q->line;
          if (!l->left) {
            s = vram__parse_skip_block(q, l->body);
            if (!s) {
              q->line = l->line, q->start = l->head;
              return vram__parse_error(q, l->head, VRAM_ERR_SYNTAX, "a loop without next", NULL, 0,
                                       NULL);
            }
            q->depth--;
          }
        }
      } else if (vram__text_is(q->tok, q->len, "next")) {
        vram__loop *l = q->depth ? &q->loop[q->depth - 1] : NULL;
        ok = vram__parse_next_line(q, &again);
        if (ok && again) {
          s = again;
          q->line = l->body_line;
          continue;
        }
      } else
        ok = vram__op_line(q);
      if (!ok || g->error.code)
        return vram__parse_error(q, q->tok, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    }
    s = q->next;
  }
  if (q->depth) {
    q->line = q->loop[q->depth - 1].line;
    q->start = q->loop[q->depth - 1].head;
    return vram__parse_error(q, q->start, VRAM_ERR_SYNTAX, "a loop without next", NULL, 0, NULL);
  }
  return 1;
}

/* Goes over the lines once, dims and loop counts alone are read; a node costs at most so much. */
VRAM_API uint64_t vram_parse_bytes(const char *text, uint64_t len, const vram_dim *set,
                                   uint32_t nset) {
  uint64_t mem[VRAM_MAX_DIMS * (VRAM_MAX_NAME + 9) / 8];
  uint8_t used[VRAM_MAX_DIMS];
  uint64_t total = 65536, times[VRAM_MAX_LOOPS + 1], depth = 0;
  uint64_t skipped = 0; /* depth of a loop of no rounds around the line, 0: none */
  const char *s = text, *c;
  vram_graph g;
  vram__parse q;
  vram_graph_init(&g, mem, sizeof mem);
  vram__memory_zero(&q, sizeof q);
  q.g = &g;
  q.set = set;
  q.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS;
  q.used = used;
  q.text_end = text + len;
  times[0] = 1;
  while (s < q.text_end && !g.error.code) {
    vram__parse_line(&q, s);
    if (vram__parse_token(&q)) {
      uint64_t cost = 2048 + 40 * (uint64_t)(q.end - q.start);
      int64_t count = 1;
      if (vram__text_is(q.tok, q.len, "next") && depth) {
        if (depth-- == skipped)
          skipped = 0;
      } else if (vram__text_is(q.tok, q.len, "loop")) {
        depth++;
        if (!skipped) {
          if (depth > VRAM_MAX_LOOPS)
            break; /* here vram_parse stops, too */
          if (vram__parse_token(&q))
            vram__parse_size(&q, q.tok, q.tok + q.len, 0, &count);
          times[depth] = vram__product_or_overflow(times[depth - 1], (uint64_t)count);
          if (times[depth] > VRAM_MAX_NODES)
            break;
          if (!count)
            skipped = depth;
        }
      } else if (vram__text_is(q.tok, q.len, "dim") && !skipped)
        vram__dim_line(&q);
      for (c = q.start; c < q.end && !skipped; c++)
        if (*c == ',')
          cost += 512;
      cost = skipped ? 0 : vram__product_or_overflow(cost, times[depth]);
      if (cost > (uint64_t)VRAM_MAX_BYTES - total)
        return 0;
      total += cost;
    }
    s = q.next;
  }
  return vram__sum_or_overflow(total, len); /* the table of names */
}

VRAM_API vram_result vram_parse(vram_graph *g, const char *text, uint64_t len, const vram_dim *set,
                                uint32_t nset, vram_error *err) {
  vram__parse q;
  uint64_t i, size;
  uint8_t used[VRAM_MAX_DIMS];
  int ok;
  vram__memory_zero(&q, sizeof q);
  vram__memory_zero(used, sizeof used);
  q.g = g;
  q.start = text;
  q.set = set, q.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS, q.used = used;
  if (nset > VRAM_MAX_DIMS)
    vram__graph_fail(g, VRAM_ERR_LIMIT, "more than 64 dims");
  for (size = 16; size < len / 32;) /* names: a line has about so many bytes */
    size *= 2;
  q.mask = (uint32_t)size - 1;
  q.table = (vram__sym **)vram__graph_take(g, size * sizeof *q.table);
  ok = q.table != NULL && !g->error.code;
  if (ok)
    vram__memory_zero(q.table, size * sizeof *q.table);
  ok = ok && vram__parse_lines(&q, text, len);
  for (i = 0; ok && i < q.nset; i++)
    if (!used[i]) {
      vram__error_no_dim(g, set[i].name ? set[i].name : "(batch)");
      ok = 0;
    }
  if (ok && !g->root) {
    vram__graph_fail(g, VRAM_ERR_SYNTAX,
                     "a model without nodes (expected OP OUTPUTS INPUTS ... lines)");
    g->error.line = q.line ? q.line : 1;
    g->error.column = 1;
  }
  if (err)
    *err = g->error;
  return g->error.code;
}
/* >>event (Implementation) --------------------------------------------------------------------- */
