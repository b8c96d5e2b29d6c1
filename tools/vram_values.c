#include "vram_values.h"

enum { MAX_DEPTH = 100 };

static int document_bad(document *d, size_t at, const char *what, const char *found, size_t len) {
  if (d->status)
    return d->status;
  if (d->line)
    cmd_say("%s:%lu:%lu: %s%s", d->path, (unsigned long)d->line, (unsigned long)(at - d->begin) + 1,
            what, cmd_found(found, len));
  else
    cmd_say("%s: byte %lu: %s%s", d->path, (unsigned long)at, what, cmd_found(found, len));
  return d->status = USAGE;
}

void document_end(document *d) {
  while (d->boxes) {
    box *b = d->boxes;
    d->boxes = b->made_before;
    free(b->v);
    free(b);
  }
  free(d->stack);
  free(d->memo);
  d->stack = d->memo = NULL;
}

/* Room for n values more in an array that grows; 0: there is none. */
static int more_values(datum **v, size_t have, size_t n, size_t *cap) {
  datum *bigger;
  size_t want = *cap ? *cap : 8;
  if (n <= *cap - have)
    return 1;
  if (n > (size_t)MAX_ITEMS - have)
    return 0;
  while (want < have + n)
    want *= 2;
  if (n >= 8 && !have)
    want = n; /* all at once: no more will come */
  bigger = want > (size_t)-1 / sizeof **v ? NULL : (datum *)realloc(*v, want * sizeof **v);
  if (!bigger)
    return 0;
  *v = bigger;
  *cap = want;
  return 1;
}

static int push(document *d, datum v) {
  if (!more_values(&d->stack, d->nstack, 1, &d->stack_cap))
    return d->status ? d->status : (d->status = cmd_no_memory());
  d->stack[d->nstack++] = v;
  return FITS;
}

static datum plain_value(int type, int64_t i) {
  datum v;
  memset(&v, 0, sizeof v);
  v.type = (uint8_t)type;
  v.as.i = i;
  return v;
}

static datum text_value(const char *s, size_t n) {
  datum v = plain_value(V_TEXT, 0);
  v.as.s = s;
  v.len = (uint32_t)n;
  return v;
}

static datum new_box(document *d, int type) {
  datum v = plain_value(type, 0);
  v.as.box = (box *)calloc(1, sizeof *v.as.box);
  if (!v.as.box) {
    d->status = cmd_no_memory();
    return plain_value(V_NONE, 0);
  }
  v.as.box->made_before = d->boxes;
  d->boxes = v.as.box;
  return v;
}

static int into_box(document *d, box *b, const datum *v, size_t n) {
  size_t cap = b->cap;
  if (!more_values(&b->v, b->n, n, &cap))
    return d->status = cmd_no_memory();
  b->cap = (uint32_t)cap;
  memcpy(b->v + b->n, v, n * sizeof *v);
  b->n += (uint32_t)n;
  return FITS;
}

const datum *datum_get(const datum *v, const char *key) {
  uint32_t i, len = (uint32_t)strlen(key);
  if (v && v->type == V_DICT)
    for (i = v->as.box->n; i > 1; i -= 2) {
      const datum *k = v->as.box->v + i - 2;
      if (k->type == V_TEXT && k->len == len && !memcmp(k->as.s, key, len))
        return k + 1;
    }
  return NULL;
}

int datum_is(const datum *v, const char *text) {
  return v && v->type == V_TEXT && v->len == strlen(text) && !memcmp(v->as.s, text, v->len);
}

const datum *datum_item(const datum *list, uint32_t i) {
  return list && list->type == V_LIST && i < list->as.box->n ? list->as.box->v + i : NULL;
}

uint32_t datum_items(const datum *list) {
  return list && list->type == V_LIST ? list->as.box->n : 0;
}

const char *datum_kind(const datum *v) {
  static const char *const name[] = {"null",     "true or false", "an integer",
                                     "a number", "a number",      "a text",
                                     "a list",   "an object",     "a mark"};
  return name[v->type];
}

static size_t put_utf8(char *to, uint32_t c) {
  if (c < 0x80)
    return to[0] = (char)c, 1;
  if (c < 0x800)
    return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
  if (c < 0x10000)
    return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)),
           to[2] = (char)(0x80 | (c & 63)), 3;
  return to[0] = (char)(0xf0 | c >> 18), to[1] = (char)(0x80 | (c >> 12 & 63)),
         to[2] = (char)(0x80 | (c >> 6 & 63)), to[3] = (char)(0x80 | (c & 63)), 4;
}

/* n hexadecimal digits; 0: they are none */
static int hex_digits(const char *s, size_t n, uint32_t *to) {
  uint32_t v = 0;
  for (; n; n--, s++) {
    const char c = cmd_lower(*s);
    if ((c < '0' || c > '9') && (c < 'a' || c > 'f'))
      return 0;
    v = v << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  *to = v;
  return 1;
}

/* An integer of n characters; V_HUGE where 64 bits do not hold it, V_NONE: it is none */
static datum integer(const char *s, size_t n) {
  const int minus = n && *s == '-';
  size_t i = (size_t)minus;
  uint64_t v = 0;
  if (i == n)
    return plain_value(V_NONE, 0);
  for (; i < n; i++) {
    if (s[i] < '0' || s[i] > '9')
      return plain_value(V_NONE, 0);
    if (v > ((uint64_t)INT64_MAX - (uint64_t)(s[i] - '0')) / 10) {
      for (; i < n; i++)
        if (s[i] < '0' || s[i] > '9')
          return plain_value(V_NONE, 0);
      return plain_value(V_HUGE, 0);
    }
    v = v * 10 + (uint64_t)(s[i] - '0');
  }
  return plain_value(V_INT, minus ? -(int64_t)v : (int64_t)v);
}

/* A number with a point or an exponent; V_NONE: it is none */
static datum decimal(const char *s, size_t n) {
  char copy[64], *end;
  datum v = plain_value(V_FLOAT, 0);
  if (!n || n >= sizeof copy)
    return plain_value(V_NONE, 0);
  memcpy(copy, s, n);
  copy[n] = 0;
  v.as.f = strtod(copy, &end);
  return end == copy + n ? v : plain_value(V_NONE, 0);
}

/* ---- JSON ---- */

/* Lines end here only: no string has one in it, until its escapes are decoded where they stand. */
static void json_space(document *d) {
  for (; d->at < d->len; d->at++) {
    const char c = d->s[d->at];
    if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
      return;
    if (c == '\n')
      d->line++, d->begin = d->at + 1;
  }
}

/* The character that the escape behind the backslash at d->at - 1 means; 0: it is none. */
static int json_escape(document *d, char **to) {
  static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
  const char *known = NULL;
  char e = 0;
  uint32_t u, low;
  if (d->at < d->len)
    e = d->s[d->at];
  if (e)
    known = strchr(from, e);
  if (known) {
    *(*to)++ = into[known - from];
    d->at++;
    return 1;
  }
  if (e != 'u' || d->len - d->at < 5 || !hex_digits(d->s + d->at + 1, 4, &u))
    return 0;
  d->at += 5;
  if (u >> 10 == 0x36 && d->len - d->at >= 6 && d->s[d->at] == '\\' && d->s[d->at + 1] == 'u' &&
      hex_digits(d->s + d->at + 2, 4, &low) && low >> 10 == 0x37) {
    u = 0x10000 + ((u & 0x3ff) << 10) + (low & 0x3ff);
    d->at += 6;
  }
  *to += put_utf8(*to, u);
  return 1;
}

/* The string that begins at the quote d->at; not FITS: message printed. */
static int json_string(document *d, datum *v) {
  const size_t start = ++d->at;
  char *to = d->s + start;
  while (d->at < d->len && d->s[d->at] != '"') {
    const char c = d->s[d->at++];
    if ((unsigned char)c < 32)
      return document_bad(d, d->at - 1, "a control character in a string", NULL, 0);
    if (c != '\\')
      *to++ = c;
    else if (!json_escape(d, &to))
      return document_bad(d, d->at - 1, "not an escape of JSON", NULL, 0);
  }
  if (d->at == d->len)
    return document_bad(d, start - 1, "a string that does not end", NULL, 0);
  d->at++;
  if (to - (d->s + start) > MAX_ITEMS)
    return document_bad(d, start - 1, "a string of more than 2^31 bytes", NULL, 0);
  *v = text_value(d->s + start, (size_t)(to - (d->s + start)));
  return FITS;
}

static int json_read(document *d, datum *to, int depth);

/* A key and its colon. */
static int json_key(document *d, datum *key) {
  if (d->at == d->len || d->s[d->at] != '"')
    return document_bad(d, d->at, "expected a key in quotes", NULL, 0);
  if (json_string(d, key))
    return d->status;
  json_space(d);
  if (d->at == d->len || d->s[d->at] != ':')
    return document_bad(d, d->at, "expected a colon behind the key", key->as.s, key->len);
  d->at++;
  return FITS;
}

/* The list or object that begins at d->at. */
static int json_items(document *d, datum *to, int depth) {
  const size_t start = d->at, line = d->line, begin = d->begin;
  const int dict = d->s[start] == '{';
  const char close = dict ? '}' : ']';
  *to = new_box(d, dict ? V_DICT : V_LIST);
  if (d->status)
    return d->status;
  d->at++;
  json_space(d);
  if (d->at < d->len && d->s[d->at] == close)
    return d->at++, FITS;
  for (;;) {
    datum pair[2];
    json_space(d);
    if ((dict && json_key(d, pair)) || json_read(d, pair + dict, depth + 1) ||
        into_box(d, to->as.box, pair, dict ? 2 : 1))
      return d->status;
    json_space(d);
    if (d->at == d->len) {
      d->line = line, d->begin = begin;
      return document_bad(
          d, start, dict ? "an object that does not end" : "a list that does not end", NULL, 0);
    }
    if (d->s[d->at] == close)
      return d->at++, FITS;
    if (d->s[d->at++] != ',')
      return document_bad(d, d->at - 1, dict ? "expected , or }" : "expected , or ]", NULL, 0);
  }
}

static int json_read(document *d, datum *to, int depth) {
  static const struct {
    const char *text;
    uint8_t type, i;
  } word[] = {{"true", V_BOOL, 1}, {"false", V_BOOL, 0}, {"null", V_NONE, 0}};
  size_t start, i;
  json_space(d);
  start = d->at;
  *to = plain_value(V_NONE, 0);
  if (d->at == d->len)
    return document_bad(d, start, "the file ends in the middle of a value", NULL, 0);
  if (depth > MAX_DEPTH)
    return document_bad(d, start, "values inside one another more than 100 deep", NULL, 0);
  if (d->s[start] == '"')
    return json_string(d, to);
  if (d->s[start] == '{' || d->s[start] == '[')
    return json_items(d, to, depth);
  for (i = 0; i < sizeof word / sizeof *word; i++)
    if (d->len - start >= strlen(word[i].text) &&
        !memcmp(d->s + start, word[i].text, strlen(word[i].text))) {
      d->at += strlen(word[i].text);
      return *to = plain_value(word[i].type, word[i].i), FITS;
    }
  while (d->at < d->len && d->s[d->at] && strchr("+-.0123456789eE", d->s[d->at]))
    d->at++;
  *to = integer(d->s + start, d->at - start);
  if (to->type == V_NONE)
    *to = decimal(d->s + start, d->at - start);
  if (to->type == V_NONE)
    return document_bad(d, start, "not a value of JSON", NULL, 0);
  return FITS;
}

int document_read_json(document *d, datum *root) {
  d->line = 1;
  if (json_read(d, root, 0))
    return d->status;
  json_space(d);
  return d->at == d->len ? FITS
                         : document_bad(d, d->at, "more behind the value of the file", NULL, 0);
}

/* ---- pickle: what Python's pickle writes of plain values, protocols 0 to 5 ---- */

static const struct {
  unsigned char code;
  const char *name;
} pickle_refused[] = {{'c', "GLOBAL"},
                      {'R', "REDUCE"},
                      {'b', "BUILD"},
                      {'i', "INST"},
                      {'o', "OBJ"},
                      {'P', "PERSID"},
                      {'Q', "BINPERSID"},
                      {0x81, "NEWOBJ"},
                      {0x82, "EXT1"},
                      {0x83, "EXT2"},
                      {0x84, "EXT4"},
                      {0x92, "NEWOBJ_EX"},
                      {0x93, "STACK_GLOBAL"},
                      {'B', "BINBYTES"},
                      {'C', "SHORT_BINBYTES"},
                      {0x8e, "BINBYTES8"},
                      {0x96, "BYTEARRAY8"},
                      {0x8f, "EMPTY_SET"},
                      {0x90, "ADDITEMS"},
                      {0x91, "FROZENSET"},
                      {0x97, "NEXT_BUFFER"},
                      {0x98, "READONLY_BUFFER"},
                      {'S', "STRING"},
                      {'T', "BINSTRING"},
                      {'U', "SHORT_BINSTRING"},
                      {'2', "DUP"}};

/* n bytes as a number, the low one first */
static uint64_t little(const char *s, size_t n) {
  uint64_t v = 0;
  while (n--)
    v = v << 8 | (unsigned char)s[n];
  return v;
}

/* n bytes from d->at on, which goes behind them; NULL: the file ends before */
static const char *take(document *d, uint64_t n) {
  const char *s = d->s + d->at;
  if (n > d->len - d->at) {
    document_bad(d, d->at, "the pickle ends in the middle of a value", NULL, 0);
    return NULL;
  }
  d->at += (size_t)n;
  return s;
}

/* The rest of a line, without its end. */
static char *take_line(document *d, size_t *len) {
  char *s = d->s + d->at;
  const char *end = (const char *)memchr(s, '\n', d->len - d->at);
  if (!end) {
    document_bad(d, d->at, "the pickle ends in the middle of a line", NULL, 0);
    return NULL;
  }
  *len = (size_t)(end - s);
  d->at += *len + 1;
  return s;
}

/* raw-unicode-escape, in place: \uXXXX and \UXXXXXXXX, else bytes of Latin-1, which become two; ?
   where those have no room. */
static datum unescape_line(char *s, size_t n) {
  size_t i = 0, len = 0;
  while (i < n) {
    uint32_t u = (unsigned char)s[i];
    const size_t digits = s[i] != '\\' || i + 1 == n ? 0
                          : s[i + 1] == 'u'          ? 4
                          : s[i + 1] == 'U'          ? 8
                                                     : 0;
    if (digits && n - i >= digits + 2 && hex_digits(s + i + 2, digits, &u) && u < 0x110000)
      i += digits + 2;
    else
      u = (unsigned char)s[i++];
    len += put_utf8(s + len, u < 0x80 || len + 2 <= i ? u : '?');
  }
  return text_value(s, len);
}

static int memo_put(document *d, uint64_t at) {
  if (!d->nstack || d->stack[d->nstack - 1].type == V_MARK)
    return document_bad(d, d->op, "nothing there to remember", NULL, 0);
  if (at > d->len)
    return document_bad(d, d->op, "a place in the memo beyond the size of the file", NULL, 0);
  if (at >= d->nmemo) {
    if (!more_values(&d->memo, d->nmemo, (size_t)at + 1 - d->nmemo, &d->memo_cap))
      return d->status = cmd_no_memory();
    for (; d->nmemo <= at; d->nmemo++)
      d->memo[d->nmemo] = plain_value(V_MARK, 0);
  }
  d->memo[at] = d->stack[d->nstack - 1];
  return FITS;
}

static int memo_get(document *d, uint64_t at) {
  if (at >= d->nmemo || d->memo[at].type == V_MARK)
    return document_bad(d, d->op, "a place in the memo that nothing was put in", NULL, 0);
  return push(d, d->memo[at]);
}

/* Values above the last mark, which goes; -1: there is no mark. */
static int64_t to_mark(document *d) {
  size_t i = d->nstack;
  while (i && d->stack[i - 1].type != V_MARK)
    i--;
  if (!i) {
    document_bad(d, d->op, "no mark on the stack", NULL, 0);
    return -1;
  }
  d->nstack = i - 1;
  return (int64_t)i; /* they lie there still */
}

/* The top n values, in a list or dict of their own. */
static int pickle_group(document *d, int type, size_t from, size_t n) {
  const datum v = new_box(d, type);
  if (d->status || (n && into_box(d, v.as.box, d->stack + from, n)))
    return d->status;
  return push(d, v);
}

/* n values from `from` on go into the list or dict below them. */
static int pickle_into(document *d, int type, size_t base, size_t from, size_t n) {
  if (!base || d->stack[base - 1].type != type)
    return document_bad(d, d->op,
                        type == V_DICT ? "items for what is no dict" : "items for what is no list",
                        NULL, 0);
  if (type == V_DICT && n % 2)
    return document_bad(d, d->op, "a key without a value", NULL, 0);
  d->nstack = base;
  return n ? into_box(d, d->stack[base - 1].as.box, d->stack + from, n) : FITS;
}

/* LONG1, LONG4: two's complement, n bytes */
static int push_long(document *d, const char *s, uint64_t n) {
  uint64_t v;
  if (!s)
    return d->status;
  while (n > 8 && (s[n - 1] == 0 ? !(s[n - 2] & 0x80) : s[n - 1] == (char)0xff && s[n - 2] & 0x80))
    n--; /* only the sign again */
  if (n > 8)
    return push(d, plain_value(V_HUGE, 0));
  v = little(s, (size_t)n);
  if (n && n < 8 && s[n - 1] & 0x80)
    v |= ~UINT64_C(0) << 8 * n;
  return push(d, plain_value(V_INT, (int64_t)v));
}

static int push_text(document *d, uint64_t n) {
  const char *s;
  if (n > MAX_ITEMS)
    return document_bad(d, d->op, "a string of more than 2^31 bytes", NULL, 0);
  s = take(d, n);
  return s ? push(d, text_value(s, (size_t)n)) : d->status;
}

static int push_float(document *d, const char *s) {
  datum v = plain_value(V_FLOAT, 0);
  uint64_t bits = 0;
  int i;
  if (!s)
    return d->status;
  for (i = 0; i < 8; i++)
    bits = bits << 8 | (unsigned char)s[i];
  memcpy(&v.as.f, &bits, sizeof bits);
  return push(d, v);
}

static int pickle_line(document *d, char code) {
  size_t n = 0;
  char *s = take_line(d, &n);
  datum v;
  if (!s)
    return d->status;
  if (code == 'V' && n <= MAX_ITEMS)
    return push(d, unescape_line(s, n));
  if (code == 'I' && n == 2 && s[0] == '0' && (s[1] == '0' || s[1] == '1'))
    return push(d, plain_value(V_BOOL, s[1] - '0'));
  if (code == 'L' && n && s[n - 1] == 'L')
    n--;
  v = code == 'F' ? decimal(s, n) : integer(s, n);
  if (v.type == V_NONE || ((code == 'p' || code == 'g') && (v.type != V_INT || v.as.i < 0)))
    return document_bad(d, (size_t)(s - d->s), "not a number", s, n);
  return code == 'p'   ? memo_put(d, (uint64_t)v.as.i)
         : code == 'g' ? memo_get(d, (uint64_t)v.as.i)
                       : push(d, v);
}

static int pickle_refuse(document *d, unsigned char code) {
  char what[120];
  size_t i;
  const char *name = NULL;
  for (i = 0; i < sizeof pickle_refused / sizeof *pickle_refused; i++)
    if (pickle_refused[i].code == code)
      name = pickle_refused[i].name;
  if (name)
    snprintf(what, sizeof what,
             "pickle opcode %s (only plain dicts, lists, tuples, texts and numbers are read)",
             name);
  else
    snprintf(what, sizeof what, "no pickle opcode: 0x%02x", code);
  return document_bad(d, d->op, what, NULL, 0);
}

/* None, bool, numbers; 0: it is no opcode of those. */
static int pickle_plain(document *d, unsigned char code) {
  const size_t n = code == 'K' || code == 0x8a ? 1 : code == 'M' ? 2 : 4;
  const char *s;
  switch (code) {
  case 'N':
    push(d, plain_value(V_NONE, 0));
    return 1;
  case 0x88:
  case 0x89:
    push(d, plain_value(V_BOOL, code == 0x88));
    return 1;
  case 'K':
  case 'M': /* BININT1, BININT2 */
    s = take(d, n);
    if (s)
      push(d, plain_value(V_INT, (int64_t)little(s, n)));
    return 1;
  case 'J': /* BININT */
    s = take(d, n);
    if (s)
      push(d, plain_value(V_INT, (int32_t)(uint32_t)little(s, n)));
    return 1;
  case 0x8a:
  case 0x8b: /* LONG1, LONG4 */
    s = take(d, n);
    if (s) {
      const uint64_t bytes = little(s, n);
      push_long(d, take(d, bytes), bytes);
    }
    return 1;
  case 'G':
    push_float(d, take(d, 8));
    return 1;
  default:
    return 0;
  }
}

/* Texts, what stands in a line, the memo; 0: it is no opcode of those. */
static int pickle_text(document *d, unsigned char code) {
  const size_t n = code == 0x8d ? 8 : code == 'X' || code == 'r' || code == 'j' ? 4 : 1;
  const char *s;
  if (code && strchr("ILFVpg", code))
    return pickle_line(d, (char)code), 1;
  switch (code) {
  case 0x8c:
  case 'X':
  case 0x8d: /* SHORT_BINUNICODE, BINUNICODE, BINUNICODE8 */
    s = take(d, n);
    if (s)
      push_text(d, little(s, n));
    return 1;
  case 'q':
  case 'r': /* BINPUT, LONG_BINPUT */
    s = take(d, n);
    if (s)
      memo_put(d, little(s, n));
    return 1;
  case 'h':
  case 'j': /* BINGET, LONG_BINGET */
    s = take(d, n);
    if (s)
      memo_get(d, little(s, n));
    return 1;
  case 0x94: /* MEMOIZE */
    memo_put(d, d->nmemo);
    return 1;
  default:
    return 0;
  }
}

/* What lies above the last mark, in a list or dict of its own, or in the one below the mark. */
static void pickle_marked(document *d, int type, int into) {
  const size_t top = d->nstack;
  const int64_t from = to_mark(d);
  const size_t n = top - (size_t)from;
  if (from < 0)
    return;
  if (into)
    pickle_into(d, type, (size_t)from - 1, (size_t)from, n);
  else if (type == V_DICT && n % 2)
    document_bad(d, d->op, "a key without a value", NULL, 0);
  else
    pickle_group(d, type, (size_t)from, n);
}

/* Lists, tuples, dicts, the stack; 0: it is no opcode of those. */
static int pickle_items(document *d, unsigned char code) {
  const size_t n = code == 's' ? 2 : code == 'a' ? 1 : code - 0x84u;
  switch (code) {
  case '(':
    push(d, plain_value(V_MARK, 0));
    return 1;
  case ']':
  case ')':
  case '}':
    pickle_group(d, code == '}' ? V_DICT : V_LIST, 0, 0);
    return 1;
  case 0x85:
  case 0x86:
  case 0x87: /* TUPLE1 to TUPLE3 */
    if (d->nstack < n)
      document_bad(d, d->op, "too few values for a tuple", NULL, 0);
    else
      d->nstack -= n, pickle_group(d, V_LIST, d->nstack, n);
    return 1;
  case 'l':
  case 't':
  case 'd': /* LIST, TUPLE, DICT */
    pickle_marked(d, code == 'd' ? V_DICT : V_LIST, 0);
    return 1;
  case 'e':
  case 'u': /* APPENDS, SETITEMS */
    pickle_marked(d, code == 'u' ? V_DICT : V_LIST, 1);
    return 1;
  case 'a':
  case 's': /* APPEND, SETITEM */
    pickle_into(d, code == 's' ? V_DICT : V_LIST, d->nstack > n ? d->nstack - n : 0,
                d->nstack > n ? d->nstack - n : 0, n);
    return 1;
  case '0': /* POP, POP_MARK: of a tuple that holds itself */
    if (!d->nstack)
      document_bad(d, d->op, "nothing there to take away", NULL, 0);
    else
      d->nstack--;
    return 1;
  case '1':
    to_mark(d);
    return 1;
  default:
    return 0;
  }
}

int document_read_pickle(document *d, datum *root) {
  while (!d->status) {
    const char *s = (d->op = d->at, take(d, 1));
    const unsigned char code = s ? (unsigned char)*s : 0;
    if (!s)
      break;
    if (code == '.') { /* STOP */
      if (d->nstack != 1 || d->stack[0].type == V_MARK)
        return document_bad(d, d->op, "the pickle ends with other than one value", NULL, 0);
      *root = d->stack[0];
      return FITS;
    }
    if (code == 0x80) { /* PROTO */
      s = take(d, 1);
      if (s && (unsigned char)*s > 5)
        document_bad(d, d->op, "a pickle protocol above 5", NULL, 0);
    } else if (code == 0x95) /* FRAME */
      take(d, 8);
    else if (!pickle_plain(d, code) && !pickle_text(d, code) && !pickle_items(d, code))
      pickle_refuse(d, code);
  }
  return d->status;
}
