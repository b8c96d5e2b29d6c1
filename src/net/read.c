/* >>net/read    VRAM_NET_ lines read from C
   As much of C as it takes to find VRAM_NET_kind(...) outside comments, strings and directives,
   and to know what the integers in it are. */
#include "net/net.h"

typedef struct vram__net_define {
  const char *name;
  uint32_t len;
  int known; /* it is an integer: */
  int64_t value;
} vram__net_define;

typedef struct vram__net_place {
  const char *file; /* that of the text's first line marker; NULL: there was none */
  uint32_t len, line;
  int away; /* in another, which it includes */
} vram__net_place;

typedef struct vram__net_reader {
  const char *text, *p, *end;
  const char *row; /* where the line begins */
  vram__net_place at;
  int fresh;          /* nothing but blanks so far on the line */
  int directive;      /* the end of the line is the end */
  const char *wanted; /* the name of the net, */
  uint32_t wanted_len;
  int named; /* which the caller gave */
  vram_net *net;
  vram__net_define *define;
  uint32_t *slot; /* 1 + the define, by hash */
  uint32_t ndefine, mask, cap;
  char *names;
  vram_error e;
} vram__net_reader;

static int vram__net_letter(char c) { return vram__name_start(c) || vram__digit(c); }

/* A row that is a preprocessor's line marker, # 12 "net.h": what the row after it is called. All of
   a file that the first one includes is the line that includes it. */
static void vram__net_marker(vram__net_place *at, const char *s, const char *end) {
  uint32_t line = 0, len = 0;
  if (end - s < 4 || s[0] != '#' || s[1] != ' ' || !vram__digit(s[2]))
    return;
  for (s += 2; s < end && vram__digit(*s) && line < UINT32_MAX / 10 - 1; s++)
    line = 10 * line + (uint32_t)(*s - '0');
  if (end - s < 2 || s[0] != ' ' || s[1] != '"')
    return;
  for (s += 2; s + len < end && s[len] != '"' && s[len] != '\n' && len < UINT32_MAX; len++)
    ;
  if (!at->file) {
    at->file = s;
    at->len = len;
  }
  at->away = len != at->len || !vram__text_equal(s, at->file, len);
  if (!at->away)
    at->line = line - 1; /* the marker's own */
}

/* An error at a place of the text; what else there is to say is appended to it. NULL: there was one
   before, which stays. */
static vram_error *vram__net_read_error(vram__net_reader *r, const char *at, vram_result code,
                                        const char *what) {
  vram__net_place place;
  const char *s, *row = r->text;
  if (r->e.code)
    return NULL;
  vram__memory_zero(&place, sizeof place);
  place.line = 1;
  for (s = r->text; s < at; s++) {
    if (s == row)
      vram__net_marker(&place, s, r->end);
    if (*s == '\n') {
      place.line += !place.away;
      row = s + 1;
    }
  }
  vram__error_begin(&r->e, code, place.line, what);
  r->e.column = (uint32_t)(at - row) + 1;
  return &r->e;
}

static int vram__net_refuse(vram__net_reader *r, const char *at, vram_result code,
                            const char *what) {
  (void)vram__net_read_error(r, at, code, what);
  return 0;
}

/* "what (found this": a piece of the text, where the error is. */
static vram_error *vram__net_read_found(vram__net_reader *r, vram_result code, const char *what,
                                        const char *found, uint32_t len) {
  vram_error *e = vram__net_read_error(r, found, code, what);
  vram__error_text(e, len ? " (found " : " (found nothing");
  vram__error_quote(e, found, len);
  return e;
}

/* "what (found this, expected that)"; expected NULL: nothing of it. */
static int vram__net_refuse_piece(vram__net_reader *r, vram_result code, const char *what,
                                  const char *found, uint32_t len, const char *expected) {
  vram_error *e = vram__net_read_found(r, code, what, found, len);
  vram__error_text(e, expected ? ", expected " : "");
  vram__error_text(e, expected ? expected : "");
  vram__error_text(e, ")");
  return 0;
}

/* From `begin` to the place. */
static int vram__net_refuse_integer(vram__net_reader *r, const char *begin) {
  return vram__net_refuse_piece(r, VRAM_ERR_VALUE, "not an integer below 2^63", begin,
                                (uint32_t)(r->p - begin), NULL);
}

/* What stands at the place, for an error: a word, or one character. */
static uint32_t vram__net_piece(const vram__net_reader *r) {
  uint32_t n = 0;
  while (n < 64 && r->p + n < r->end && vram__net_letter(r->p[n]))
    n++;
  return n ? n : r->p < r->end && *r->p != '\n';
}

static int vram__net_expected(vram__net_reader *r, const char *what, const char *expected) {
  return vram__net_refuse_piece(r, VRAM_ERR_SYNTAX, what, r->p, vram__net_piece(r), expected);
}

static void vram__net_newline(vram__net_reader *r) {
  r->row = ++r->p;
  r->at.line += !r->at.away;
  r->fresh = 1;
}

/* Past blanks, comments and ends of lines (in a directive: only those behind a backslash). */
static int vram__net_blank(vram__net_reader *r) {
  while (r->p < r->end) {
    const uint64_t left = (uint64_t)(r->end - r->p);
    const char c = *r->p, next = (char)(left > 1 ? r->p[1] : 0);
    if (c == '\n') {
      if (r->directive)
        break;
      vram__net_newline(r);
    } else if (c == '\\' && (next == '\n' || (next == '\r' && left > 2 && r->p[2] == '\n'))) {
      const int fresh = r->fresh;
      r->p += next == '\n' ? 1 : 2;
      vram__net_newline(r);
      r->fresh = fresh;
    } else if (c == ' ' || (c >= 9 && c <= 13))
      r->p++;
    else if (c == '/' && next == '/') {
      while (r->p < r->end && *r->p != '\n') {
        if (*r->p == '\\' && r->end - r->p > 1 && r->p[1] == '\n') {
          r->p++;
          vram__net_newline(r);
        } else
          r->p++;
      }
    } else if (c == '/' && next == '*') {
      const char *begin = r->p;
      const int fresh = r->fresh;
      for (r->p += 2; r->end - r->p >= 2 && (r->p[0] != '*' || r->p[1] != '/');)
        if (*r->p == '\n')
          vram__net_newline(r);
        else
          r->p++;
      if (r->end - r->p < 2)
        return vram__net_refuse(r, begin, VRAM_ERR_SYNTAX, "a comment that does not end");
      r->p += 2;
      r->fresh = fresh;
    } else
      break;
  }
  return 1;
}

/* A string or a character: to its end, or that of the line. */
static void vram__net_string(vram__net_reader *r) {
  const char quote = *r->p++;
  while (r->p < r->end && *r->p != quote && *r->p != '\n') {
    if (*r->p == '\\' && r->end - r->p > 1 && r->p[1] != '\n')
      r->p++;
    r->p++;
  }
  if (r->p < r->end && *r->p == quote)
    r->p++;
}

/* An identifier; its length, 0: there is none. */
static uint32_t vram__net_identifier(vram__net_reader *r, const char **to) {
  *to = r->p;
  if (r->p < r->end && vram__name_start(*r->p))
    while (r->p < r->end && vram__net_letter(*r->p))
      r->p++;
  return (uint32_t)(r->p - *to);
}

/* Where a name is, or may go, among the slots. */
static uint32_t *vram__net_slot(const vram__net_reader *r, const char *s, uint32_t len) {
  uint32_t i = vram__hash(s, len) & r->mask;
  for (; r->slot[i]; i = (i + 1) & r->mask) {
    const vram__net_define *d = r->define + r->slot[i] - 1;
    if (d->len == len && vram__text_equal(d->name, s, len))
      break;
  }
  return r->slot + i;
}

/* A number as C has it; 0: none, or beyond 63 bits. */
static int vram__net_number(vram__net_reader *r, int64_t *to) {
  const char *s = r->p, *end = r->p;
  uint64_t base = 10, v = 0;
  while (end < r->end && vram__net_letter(*end))
    end++;
  r->p = end;
  if (end - s > 1 && *s == '0') {
    base = (s[1] | 32) == 'x' ? 16 : 8;
    s += base == 16 ? 2 : 1;
    if (base == 16 && s == end)
      return 0;
  }
  for (; s < end && (*s | 32) != 'u' && (*s | 32) != 'l'; s++) {
    const uint64_t digit = vram__digit(*s)                        ? (uint64_t)(*s - '0')
                           : (*s | 32) >= 'a' && (*s | 32) <= 'f' ? (uint64_t)((*s | 32) - 'a') + 10
                                                                  : 16;
    if (digit >= base || v > ((uint64_t)INT64_MAX - digit) / base)
      return 0;
    v = v * base + digit;
  }
  for (; s < end; s++)
    if ((*s | 32) != 'u' && (*s | 32) != 'l')
      return 0;
  *to = (int64_t)v;
  return 1;
}

/* a op b in 63 bits; 0: it does not fit, or there is no such quotient */
static int vram__net_apply(char op, int64_t a, int64_t b, int64_t *to) {
  const uint64_t ua = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
  const uint64_t ub = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  switch (op) {
  case '+':
    if (b > 0 ? a > INT64_MAX - b : a < -INT64_MAX - b)
      return 0;
    *to = a + b;
    return 1;
  case '*':
    if (ua && ub > (uint64_t)INT64_MAX / ua)
      return 0;
    *to = a * b;
    return 1;
  default:
    if (!b)
      return 0;
    *to = op == '/' ? a / b : a % b;
    return 1;
  }
}

enum { VRAM__NET_DEPTH = 32 };

/* An expression as it is read: values, and the operators that wait for their right side. A minus
   in front of a value is 'n', one between two 's'. */
typedef struct vram__net_stack {
  int64_t value[VRAM__NET_DEPTH];
  char op[2 * VRAM__NET_DEPTH];
  uint32_t values, ops, open; /* open: parentheses */
  int ready;                  /* a value was read, an operator may come */
} vram__net_stack;

static const char vram__net_integer[] =
    "an integer: numbers, + - * / % ( ), names #defined as such";

/* The operator on top of the stack. */
static int vram__net_reduce(vram__net_stack *e) {
  const char op = e->op[--e->ops];
  int64_t *a = e->value + e->values - 1;
  if (op == 'n') {
    *a = -*a;
    return 1;
  }
  e->values--;
  return op == 's' ? vram__net_apply('+', a[-1], -*a, a - 1)
                   : vram__net_apply(op, a[-1], *a, a - 1);
}

static uint32_t vram__net_binds(char op) {
  return op == '(' ? 0 : op == '+' || op == 's' ? 1 : op == 'n' ? 3 : 2;
}

/* A number, or the name of one. */
static int vram__net_operand(vram__net_reader *r, vram__net_stack *e) {
  const char *word = r->p;
  int64_t *to = e->value + e->values++;
  uint32_t len;
  e->ready = 1;
  if (r->p < r->end && vram__digit(*r->p))
    return vram__net_number(r, to) ? 1 : vram__net_refuse_integer(r, word);
  len = vram__net_identifier(r, &word);
  if (len) {
    const uint32_t *slot = vram__net_slot(r, word, len);
    if (!*slot || !r->define[*slot - 1].known)
      return vram__net_refuse_piece(r, VRAM_ERR_NAME,
                                    *slot ? "a name that is no integer" : "an unknown name", word,
                                    len, vram__net_integer);
    *to = r->define[*slot - 1].value;
    return 1;
  }
  return vram__net_expected(r, "not an integer", vram__net_integer);
}

/* An operator between two values, or a parenthesis that closes. */
static int vram__net_operator(vram__net_stack *e, char c) {
  const char op = (char)(c == '-' ? 's' : c);
  while (e->ops && e->op[e->ops - 1] != '(' &&
         (c == ')' || vram__net_binds(e->op[e->ops - 1]) >= vram__net_binds(op)))
    if (!vram__net_reduce(e))
      return 0;
  if (c == ')') {
    e->ops--;
    e->open--;
  } else {
    e->op[e->ops++] = op;
    e->ready = 0;
  }
  return 1;
}

/* An integer expression: *to becomes its value, the place is behind it. */
static int vram__net_expression(vram__net_reader *r, int64_t *to) {
  vram__net_stack e;
  const char *begin;
  e.values = 0;
  e.ops = 0;
  e.open = 0;
  e.ready = 0;
  if (!vram__net_blank(r))
    return 0;
  begin = r->p;
  for (;;) {
    char c;
    if (!vram__net_blank(r))
      return 0;
    c = (char)(r->p < r->end ? *r->p : ',');
    if (e.values == VRAM__NET_DEPTH || e.ops == 2 * VRAM__NET_DEPTH)
      return vram__net_refuse(r, r->p, VRAM_ERR_LIMIT, "an expression that is too deep");
    if (!e.ready && (c == '(' || c == '-' || c == '+')) {
      if (c != '+')
        e.op[e.ops++] = (char)(c == '-' ? 'n' : '(');
      e.open += c == '(';
      r->p++;
    } else if (!e.ready) {
      if (!vram__net_operand(r, &e))
        return 0;
    } else if (c == '+' || c == '-' || c == '*' || c == '/' || c == '%' || (c == ')' && e.open)) {
      if (!vram__net_operator(&e, c))
        return vram__net_refuse_integer(r, begin);
      r->p++;
    } else
      break;
  }
  if (e.open)
    return vram__net_expected(r, "a parenthesis that is not closed", ")");
  while (e.ops)
    if (!vram__net_reduce(&e))
      return vram__net_refuse_integer(r, begin);
  *to = e.value[0];
  return 1;
}

/* A directive, the place behind its #. #define of an integer counts; the place is at its end. */
static int vram__net_directive(vram__net_reader *r) {
  const char *word, *name;
  uint32_t len;
  int defines;
  r->directive = 1;
  if (!vram__net_blank(r))
    return 0;
  len = vram__net_identifier(r, &word);
  defines = vram__text_is(word, len, "define");
  if ((defines || vram__text_is(word, len, "undef")) && vram__net_blank(r) &&
      (len = vram__net_identifier(r, &name)) != 0) {
    uint32_t *slot = vram__net_slot(r, name, len);
    vram__net_define *d;
    if (!*slot)
      *slot = ++r->ndefine;
    d = r->define + *slot - 1;
    d->name = name;
    d->len = len;
    d->known = 0;
    if (defines && (r->p == r->end || *r->p != '(')) {
      const vram__net_reader before = *r;
      d->known = vram__net_expression(r, &d->value) && (r->p == r->end || *r->p == '\n');
      if (r->e.code) /* it is something else */
        *r = before;
    }
  }
  for (;;) {
    if (!vram__net_blank(r))
      return 0;
    if (r->p == r->end || *r->p == '\n')
      break;
    if (*r->p == '"' || *r->p == '\'')
      vram__net_string(r);
    else
      r->p++;
  }
  r->directive = 0;
  return 1;
}

static char *vram__net_copy(vram__net_reader *r, const char *s, uint32_t len) {
  char *to = r->names;
  vram__memory_copy(to, s, len);
  to[len] = 0;
  r->names += len + 1;
  return to;
}

/* A word of a list: its index, or `count` */
static uint32_t vram__net_token(vram__net_reader *r, const char *(*name)(uint32_t), uint32_t count,
                                const char *what) {
  const char *word;
  const uint32_t len = vram__net_identifier(r, &word);
  vram_error *e;
  uint32_t i;
  for (i = 0; i < count && !vram__text_is(word, len, name(i)); i++)
    ;
  if (i == count) {
    r->p = word;
    e = vram__net_read_found(r, VRAM_ERR_NAME, what, word, vram__net_piece(r));
    vram__error_text(e, ", expected ");
    for (i = 0; i < count; i++) {
      vram__error_text(e, i ? ", " : "");
      vram__error_text(e, name(i));
    }
    vram__error_text(e, ")");
  }
  return i;
}

/* The argument `word` of a line. */
static int vram__net_read_arg(vram__net_reader *r, vram_net_line *l, int arg, uint32_t *integers,
                              uint32_t *kept) {
  const char *word;
  uint32_t len, i;
  switch (arg) {
  case VRAM__ARG_Y:
  case VRAM__ARG_X:
  case VRAM__ARG_KEPT:
    len = vram__net_identifier(r, &word);
    if (!len || len > VRAM_MAX_NAME)
      return vram__net_expected(r, len ? "a name that is too long" : "no name",
                                arg == VRAM__ARG_Y   ? "a name for the line"
                                : arg == VRAM__ARG_X ? "the name of the line before"
                                                     : "the name of a KEEP line");
    if (arg == VRAM__ARG_Y)
      l->y = vram__net_copy(r, word, len);
    else if (arg == VRAM__ARG_X)
      l->x = vram__net_copy(r, word, len);
    else
      l->kept[(*kept)++] = vram__net_copy(r, word, len);
    return 1;
  case VRAM__ARG_FORMAT:
    i = vram__net_token(r, vram_format_name, VRAM_FORMAT_COUNT, "an unknown format");
    l->format = (vram_net_format)i;
    return i < VRAM_FORMAT_COUNT;
  case VRAM__ARG_KERNELS:
    i = vram__net_token(r, vram_kernels_name, VRAM_KERNELS_COUNT, "unknown kernels");
    l->kernels = (vram_net_kernels)i;
    return i < VRAM_KERNELS_COUNT;
  case VRAM__ARG_PADDING:
    i = vram__net_token(r, vram_padding_name, VRAM_PADDING_COUNT, "an unknown padding");
    l->padding = (vram_net_padding)i;
    if (i < VRAM_PADDING_PAD || i == VRAM_PADDING_COUNT)
      return i < VRAM_PADDING_COUNT;
    if (!vram__net_blank(r))
      return 0;
    if (r->p == r->end || *r->p != '(')
      return vram__net_expected(r, "padding without its sizes", "(top_and_bottom, left_and_right)");
    r->p++;
    if (!vram__net_expression(r, &l->pad_h))
      return 0;
    if (r->p == r->end || *r->p != ',')
      return vram__net_expected(r, "padding without its second size", ",");
    r->p++;
    if (!vram__net_expression(r, &l->pad_w))
      return 0;
    if (r->p == r->end || *r->p != ')')
      return vram__net_expected(r, "padding that is not closed", ")");
    r->p++;
    return 1;
  default:
    return vram__net_expression(r, l->arg + (*integers)++);
  }
}

/* Which line a macro is; VRAM_LINE_COUNT: none, but one that takes no part (accessors). */
static int vram__net_kind_of(vram__net_reader *r, const char *word, uint32_t len) {
  static const char *const other[] = {
      "GET",         "OF",           "OFFSET",         "PARAMS",
      "MACS",        "WEIGHT_BYTES", "SCRATCH_OFFSET", "FLASH_BYTES",
      "STATE_BYTES", "LIVE_BYTES",   "ARENA_BYTES",    "PINGPONG_BYTES",
      "SRAM_BYTES",  "LINE",         "FIRST",          "LAST"};
  uint32_t i;
  for (i = 0; i < VRAM_LINE_COUNT; i++)
    if (vram__text_is(word + 9, len - 9, vram_line_name(i)))
      return (int)i;
  for (i = 0; i < sizeof other / sizeof *other; i++)
    if (vram__text_is(word + 9, len - 9, other[i]))
      return VRAM_LINE_COUNT;
  vram__net_refuse_piece(r, VRAM_ERR_NAME, "no such line", word, len,
                         "VRAM_NET_CONV2D, ..., as vram.h has them");
  return -1;
}

static int vram__net_too_few(vram__net_reader *r, vram_line_kind kind, int few) {
  vram_error *e = vram__net_read_error(r, r->p, VRAM_ERR_SYNTAX,
                                       few ? "too few arguments" : "too many arguments");
  const char *at = vram_line_args(kind), *word;
  uint32_t len;
  vram__error_text(e, " (expected VRAM_NET_");
  vram__error_text(e, vram_line_name(kind));
  vram__error_text(e, "(net");
  while (vram__net_word(&at, &word, &len)) {
    vram__error_text(e, ", ");
    vram__error_letters(e, word, len);
  }
  vram__error_text(e, "))");
  return 0;
}

/* VRAM_NET_kind(, the place behind it. A line of another net is ignored. */
static int vram__net_read_line(vram__net_reader *r, vram_line_kind kind, uint32_t line,
                               uint32_t column) {
  const char *at = vram_line_args(kind), *word, *name;
  uint32_t len, integers = 0, kept = 0;
  vram_net_line *l = r->net->line + r->net->nline;
  if (!vram__net_blank(r))
    return 0;
  len = vram__net_identifier(r, &name);
  if (!len || len > VRAM_MAX_NAME)
    return vram__net_expected(r, len ? "a name that is too long" : "no name",
                              "the name of the network");
  if (!r->wanted) {
    r->wanted = name;
    r->wanted_len = len;
  }
  if (len != r->wanted_len || !vram__text_equal(name, r->wanted, len))
    return r->named || vram__net_refuse_piece(r, VRAM_ERR_NAME, "a second network", name, len,
                                              "to be told which one");
  if (r->net->nline == VRAM_MAX_NET_LINES)
    return vram__net_refuse(r, name, VRAM_ERR_LIMIT, "more than 4096 lines");
  vram__memory_zero(l, sizeof *l);
  l->kind = kind;
  l->text_line = line;
  l->text_column = column;
  if (kind == VRAM_LINE_BEGIN || kind == VRAM_LINE_BEGIN_WITH)
    l->y = "input";
  while (vram__net_word(&at, &word, &len)) {
    if (!vram__net_blank(r))
      return 0;
    if (r->p == r->end || *r->p != ',')
      return r->p < r->end && *r->p == ')' ? vram__net_too_few(r, kind, 1)
                                           : vram__net_expected(r, "no comma", "a comma");
    r->p++;
    if (!vram__net_blank(r) ||
        !vram__net_read_arg(r, l, vram__net_arg(word, len), &integers, &kept))
      return 0;
  }
  if (!vram__net_blank(r))
    return 0;
  if (r->p < r->end && *r->p == ',')
    return vram__net_too_few(r, kind, 0);
  if (r->p == r->end || *r->p != ')')
    return vram__net_expected(r, "a line that is not closed", ")");
  r->p++;
  r->net->nline++;
  return 1;
}

/* Past a number, or one character. */
static void vram__net_skip(vram__net_reader *r) {
  const int number = vram__digit(*r->p);
  for (r->p++; number && r->p < r->end; r->p++)
    if (!vram__net_letter(*r->p) &&
        (*r->p != '\'' || r->end - r->p < 2 || !vram__net_letter(r->p[1])))
      break;
}

static int vram__net_read_all(vram__net_reader *r) {
  while (vram__net_blank(r) && r->p < r->end) {
    const char *word;
    const uint32_t column = (uint32_t)(r->p - r->row) + 1;
    uint32_t len;
    if (*r->p == '#' && r->fresh) {
      vram__net_marker(&r->at, r->p, r->end);
      r->p++;
      if (!vram__net_directive(r))
        return 0;
      continue;
    }
    r->fresh = 0;
    if (*r->p == '"' || *r->p == '\'') {
      vram__net_string(r);
      continue;
    }
    len = vram__net_identifier(r, &word);
    if (len > 9 && vram__text_is(word, 9, "VRAM_NET_")) {
      const uint32_t line = r->at.line;
      int kind;
      if (!vram__net_blank(r))
        return 0;
      if (r->p == r->end || *r->p != '(')
        continue;
      r->p++;
      kind = vram__net_kind_of(r, word, len);
      if (kind < 0 ||
          (kind < VRAM_LINE_COUNT && !vram__net_read_line(r, (vram_line_kind)kind, line, column)))
        return 0;
    } else if (!len)
      vram__net_skip(r);
  }
  return !r->e.code;
}

#define VRAM__NET_TEXT (UINT64_C(1) << 28)

/* Memory: the lines, the names, then what defines need. mem NULL: only how much. */
static uint64_t vram__net_lay(vram__net_reader *r, const char *text, uint64_t len, uint8_t *mem) {
  uint64_t i, lines = 0, slots = 2, used = 0;
  uint32_t defines = 0;
  if (len > VRAM__NET_TEXT)
    return VRAM_OVERFLOW;
  for (i = 0; i < len; i++) {
    defines += text[i] == '#';
    lines += text[i] == '(';
  }
  lines = lines < VRAM_MAX_NET_LINES ? lines : VRAM_MAX_NET_LINES;
  while (slots <= 2 * (uint64_t)defines)
    slots *= 2;
  r->net->line =
      (vram_net_line *)vram__planning_round_up(mem, &used, lines + 1, sizeof(vram_net_line));
  r->names = (char *)vram__planning_round_up(mem, &used, 2 * len + 2, 1);
  r->define = (vram__net_define *)vram__planning_round_up(mem, &used, (uint64_t)defines + 1,
                                                          sizeof *r->define);
  r->slot = (uint32_t *)vram__planning_round_up(mem, &used, slots, sizeof *r->slot);
  r->mask = (uint32_t)slots - 1;
  return used > (uint64_t)SIZE_MAX ? VRAM_OVERFLOW : used;
}

VRAM_API uint64_t vram_net_read_bytes(const char *text, uint64_t len) {
  vram__net_reader r;
  vram_net net;
  vram__memory_zero(&r, sizeof r);
  r.net = &net;
  return vram__net_lay(&r, text, len, NULL);
}

VRAM_API vram_result vram_net_read(const char *text, uint64_t len, const char *name, void *mem,
                                   uint64_t bytes, vram_net *net, vram_error *err) {
  vram__net_reader r;
  const uint64_t need = vram_net_read_bytes(text, len);
  vram__memory_zero(&r, sizeof r);
  vram__memory_zero(net, sizeof *net);
  if (need == VRAM_OVERFLOW)
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "a text of more than 256 MiB");
  if (!mem || bytes < need) {
    vram__error_begin(err, VRAM_ERR_MEMORY, 0, "");
    vram__error_number(err, "the memory is too small (found ", mem ? bytes : 0);
    vram__error_number(err, " bytes, expected ", need);
    vram__error_text(err, ")");
    return VRAM_ERR_MEMORY;
  }
  r.net = net;
  vram__net_lay(&r, text, len, (uint8_t *)mem);
  vram__memory_zero(r.slot, ((uint64_t)r.mask + 1) * sizeof *r.slot);
  r.text = r.p = r.row = text;
  r.end = text + len;
  r.at.line = 1;
  r.fresh = 1;
  if (name) {
    r.wanted = name;
    r.wanted_len = vram__text_len(name);
    r.named = 1;
  }
  if (vram__net_read_all(&r) && !net->nline) {
    if (name) {
      vram__net_refuse(&r, text, VRAM_ERR_NAME, "no lines of that network");
      vram__error_text(&r.e, r.wanted_len ? " (found " : " (found nothing");
      vram__error_quote(&r.e, name, r.wanted_len);
      vram__error_text(&r.e, ")");
    } else
      vram__net_refuse(&r, text, VRAM_ERR_SYNTAX, "no network (expected VRAM_NET_BEGIN(...))");
  }
  if (!r.e.code)
    net->name = vram__net_copy(&r, r.wanted, r.wanted_len);
  if (err)
    *err = r.e;
  return r.e.code;
}
