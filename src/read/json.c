/* >>read/json    JSON (RFC 8259), one token after the other */
#include "read/read.h"

VRAM__FN void vram__json_begin(vram__json *j, vram__reader *r, vram_file *f) {
  vram__memory_zero(j, sizeof *j);
  j->r = r;
  j->f = f;
}

VRAM__FN vram_result vram__json_fail(vram__json *j, vram_result code, const char *text) {
  j->kind = VRAM__JSON_END;
  return vram__reader_fail(j->r, code, j->offset, text);
}

static vram__json_kind vram__json_bad(vram__json *j, const char *text) {
  j->offset = vram__reader_offset(j->r);
  vram__json_fail(j, VRAM_ERR_SYNTAX, text);
  return VRAM__JSON_END;
}

/* The next letter that is no blank; 0: there is none, or an error: it is a byte 0. */
static uint8_t vram__json_letter(vram__json *j) {
  vram__reader *const r = j->r;
  for (;; r->at++) {
    if (r->at == r->end && (!vram__reader_left(r) || vram__reader_fill(r, 1, "JSON")))
      return 0;
    if (!*r->at)
      return vram__json_bad(j, "no JSON: a byte 0"), 0;
    if (*r->at != ' ' && *r->at != '\n' && *r->at != '\r' && *r->at != '\t')
      return *r->at;
  }
}

/* ---- text ---- */

static int vram__json_hex(uint8_t c) {
  if (c >= '0' && c <= '9')
    return c - '0';
  c |= 32;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The four digits behind \u; -1: they are none. */
static int32_t vram__json_unit(vram__json *j) {
  vram__reader *const r = j->r;
  int32_t v = 0, i;
  if (!vram__reader_has(r, 4, "a text"))
    return -1;
  for (i = 0; i < 4; i++) {
    const int digit = vram__json_hex(*r->at++);
    if (digit < 0)
      return -1;
    v = v * 16 + digit;
  }
  return v;
}

/* The code point behind \u, which may be two halves; -1: it is none. */
static int32_t vram__json_code(vram__json *j) {
  vram__reader *const r = j->r;
  const int32_t high = vram__json_unit(j);
  int32_t low;
  if (high < 0xD800 || high > 0xDFFF)
    return high;
  if (high > 0xDBFF || !vram__reader_has(r, 2, "a text") || r->at[0] != '\\' || r->at[1] != 'u')
    return -1;
  r->at += 2;
  low = vram__json_unit(j);
  if (low < 0xDC00 || low > 0xDFFF)
    return -1;
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

static uint32_t vram__json_utf8(int32_t code, uint8_t *to) {
  const uint32_t c = (uint32_t)code;
  if (c < 0x80) {
    to[0] = (uint8_t)c;
    return 1;
  }
  if (c < 0x800) {
    to[0] = (uint8_t)(0xC0 | c >> 6);
    to[1] = (uint8_t)(0x80 | (c & 63));
    return 2;
  }
  if (c < 0x10000) {
    to[0] = (uint8_t)(0xE0 | c >> 12);
    to[1] = (uint8_t)(0x80 | (c >> 6 & 63));
    to[2] = (uint8_t)(0x80 | (c & 63));
    return 3;
  }
  to[0] = (uint8_t)(0xF0 | c >> 18);
  to[1] = (uint8_t)(0x80 | (c >> 12 & 63));
  to[2] = (uint8_t)(0x80 | (c >> 6 & 63));
  to[3] = (uint8_t)(0x80 | (c & 63));
  return 4;
}

/* Bytes of one letter of UTF-8 at the reader (RFC 3629: no overlong forms, no halves); 0: it is
   none. */
static uint32_t vram__json_sequence(vram__reader *r) {
  const uint8_t first = *r->at;
  const uint32_t n = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
  uint32_t i;
  if (!n || vram__reader_left(r) < n || !vram__reader_has(r, n, "a text"))
    return 0;
  for (i = 1; i < n; i++)
    if ((r->at[i] & 0xC0) != 0x80)
      return 0;
  if ((first == 0xE0 && r->at[1] < 0xA0) || (first == 0xED && r->at[1] > 0x9F) ||
      (first == 0xF0 && r->at[1] < 0x90) || (first == 0xF4 && r->at[1] > 0x8F))
    return 0;
  return n;
}

/* What stands behind a backslash, unescaped; 0: nothing that may stand there. */
static uint32_t vram__json_escape(vram__json *j, uint8_t *to) {
  static const char letter[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
  vram__reader *const r = j->r;
  uint32_t i;
  int32_t code;
  if (!vram__reader_has(r, 1, "a text"))
    return 0;
  if (*r->at == 'u') {
    r->at++;
    code = vram__json_code(j);
    return code < 0 ? 0 : vram__json_utf8(code, to);
  }
  for (i = 0; letter[i]; i++)
    if (*r->at == (uint8_t)letter[i]) {
      r->at++;
      to[0] = (uint8_t)means[i];
      return 1;
    }
  return 0;
}

/* Copies plain letters of a text, eight at a time; how many. */
static uint64_t vram__json_plain(vram__reader *r, char *to, uint64_t room) {
  const uint8_t *const begin = r->at;
  const uint64_t n = (uint64_t)(r->end - r->at), most = n < room ? n : room;
  uint64_t i = 0, k;
  for (; most - i >= 8; i += 8) {
    const uint64_t w = vram__bytes_u64(begin + i);
    if ((w & VRAM__HIGH) | VRAM__BELOW(w, 32) | VRAM__HOLDS(w, (uint64_t)'"') |
        VRAM__HOLDS(w, (uint64_t)'\\'))
      break;
    for (k = 0; k < 8; k++)
      to[i + k] = (char)begin[i + k];
  }
  for (; i < most; i++) {
    const uint8_t c = begin[i];
    if (c < 32 || c > 127 || c == '"' || c == '\\')
      break;
    to[i] = (char)c;
  }
  r->at += i;
  return i;
}

/* The text behind a quotation mark, into the memory that is free. */
static int vram__json_text(vram__json *j) {
  vram__reader *const r = j->r;
  vram_file *const f = j->f;
  char *const to = (char *)f->mem + f->used;
  const uint64_t room = f->cap - f->used;
  j->text = to;
  j->len = 0;
  for (;;) {
    uint8_t some[4];
    uint32_t n, i;
    if (!vram__reader_has(r, 1, "a text"))
      return 0;
    j->len += vram__json_plain(r, to + j->len, room - j->len);
    if (r->at == r->end)
      continue;
    if (*r->at == '"') {
      r->at++;
      return 1;
    }
    if (room - j->len < 4) {
      vram__reader_fail(r, VRAM_ERR_MEMORY, j->offset, "the caller's memory is too small");
      return 0;
    }
    if (*r->at < 32)
      return vram__json_bad(j, "a control character in a text"), 0;
    if (*r->at == '\\') {
      r->at++;
      n = vram__json_escape(j, some);
      if (!n)
        return vram__json_bad(j, "no such escape in a text"), 0;
    } else {
      n = *r->at < 128 ? 1 : vram__json_sequence(r);
      if (!n)
        return vram__json_bad(j, "a text that is not UTF-8"), 0;
      for (i = 0; i < n; i++)
        some[i] = *r->at++;
    }
    for (i = 0; i < n; i++)
      to[j->len++] = (char)some[i];
  }
}

/* The text of this token stays. */
VRAM__FN vram_result vram__json_keep(vram__json *j) {
  if (!j->r->result)
    j->f->used += j->len;
  return j->r->result;
}

/* ---- numbers ---- */

/* 10^n by squares: a few units in the last place are lost for large n, which no byte count is. */
static double vram__json_power(int64_t n) {
  double base = n < 0 ? 0.1 : 10, power = 1;
  uint64_t k = n < 0 ? (uint64_t)-n : (uint64_t)n;
  while (k) {
    if (k & 1)
      power *= base;
    k >>= 1;
    base *= base;
  }
  return power;
}

static int vram__json_peek(vram__reader *r) {
  if (r->at == r->end && (!vram__reader_left(r) || vram__reader_fill(r, 1, "a number")))
    return -1;
  return *r->at;
}

/* Digits, which may be none; their value goes on in *v, VRAM_OVERFLOW: too large. */
static uint64_t vram__json_digits(vram__json *j, uint64_t *v, double *d) {
  uint64_t n = 0;
  int c;
  for (; (c = vram__json_peek(j->r)) >= '0' && c <= '9'; j->r->at++, n++) {
    const uint64_t digit = (uint64_t)(c - '0');
    *v = *v > (VRAM_OVERFLOW - 1 - digit) / 10 ? VRAM_OVERFLOW : *v * 10 + digit;
    *d = *d * 10 + (double)digit;
  }
  return n;
}

static int vram__json_word(vram__json *j, const char *word) {
  vram__reader *const r = j->r;
  for (; *word; word++) {
    if (vram__json_peek(r) != *word)
      return vram__json_bad(j, "no JSON: a value was expected"), 0;
    r->at++;
  }
  return !r->result;
}

/* NaN or Infinity: no number that anything is counted with. */
static int vram__json_beyond(vram__json *j) {
  const double infinity = vram__json_power(1000000); /* also where a double has 32 bits */
  const int is_nan = vram__json_peek(j->r) == 'N';
  j->is_integer = 0;
  j->number = is_nan ? infinity - infinity : j->is_negative ? -infinity : infinity;
  return vram__json_word(j, is_nan ? "NaN" : "Infinity");
}

static int vram__json_number(vram__json *j) {
  vram__reader *const r = j->r;
  uint64_t v = 0, exponent = 0, n;
  int64_t scale = 0;
  double d = 0, ignored = 0;
  j->is_negative = *r->at == '-';
  r->at += j->is_negative;
  if (j->has_infinity && vram__json_peek(r) == 'I')
    return vram__json_beyond(j);
  if (vram__json_peek(r) == '0')
    n = 1, r->at++;
  else
    n = vram__json_digits(j, &v, &d);
  j->is_integer = n > 0 && v != VRAM_OVERFLOW;
  if (n && vram__json_peek(r) == '.') {
    r->at++;
    j->is_integer = 0;
    n = vram__json_digits(j, &v, &d);
    scale = n > 1000000 ? -1000000 : -(int64_t)n;
  }
  if (n && (vram__json_peek(r) | 32) == 'e') {
    int minus;
    r->at++;
    minus = vram__json_peek(r) == '-';
    r->at += minus || vram__json_peek(r) == '+';
    j->is_integer = 0;
    n = vram__json_digits(j, &exponent, &ignored);
    exponent = exponent > 1000000 ? 1000000 : exponent;
    scale += minus ? -(int64_t)exponent : (int64_t)exponent;
  }
  if (!n)
    return vram__json_bad(j, "a malformed number"), 0;
  j->integer = v;
  j->number = (d > 0 ? d * vram__json_power(scale) : 0) * (j->is_negative ? -1 : 1);
  return !r->result;
}

/* ---- structure ---- */

static vram__json_kind vram__json_open(vram__json *j, int is_array) {
  if (j->depth == VRAM__JSON_DEPTH)
    return vram__json_bad(j, "JSON that is nested more than 128 deep");
  j->r->at++;
  j->is_array[j->depth++] = (uint8_t)is_array;
  j->after = 0;
  return is_array ? VRAM__JSON_ARRAY : VRAM__JSON_OBJECT;
}

static vram__json_kind vram__json_close(vram__json *j, int is_array) {
  if (!j->depth || j->is_array[j->depth - 1] != is_array)
    return vram__json_bad(j, "a bracket that nothing opens");
  j->r->at++;
  j->depth--;
  j->after = 1;
  return is_array ? VRAM__JSON_ARRAY_END : VRAM__JSON_OBJECT_END;
}

/* A value that begins with c. */
static vram__json_kind vram__json_value(vram__json *j, uint8_t c) {
  j->after = 1;
  switch (c) {
  case '{':
    return vram__json_open(j, 0);
  case '[':
    return vram__json_open(j, 1);
  case '"':
    j->r->at++;
    return vram__json_text(j) ? VRAM__JSON_TEXT : VRAM__JSON_END;
  case 't':
    return vram__json_word(j, "true") ? VRAM__JSON_TRUE : VRAM__JSON_END;
  case 'f':
    return vram__json_word(j, "false") ? VRAM__JSON_FALSE : VRAM__JSON_END;
  case 'n':
    return vram__json_word(j, "null") ? VRAM__JSON_NULL : VRAM__JSON_END;
  default:
    break;
  }
  if (c == '-' || (c >= '0' && c <= '9'))
    return vram__json_number(j) ? VRAM__JSON_NUMBER : VRAM__JSON_END;
  if (j->has_infinity && (c == 'N' || c == 'I')) {
    j->is_negative = 0;
    return vram__json_beyond(j) ? VRAM__JSON_NUMBER : VRAM__JSON_END;
  }
  return vram__json_bad(j, c ? "no JSON: a value was expected" : "the file ends in JSON");
}

/* A key and its colon. */
static vram__json_kind vram__json_key(vram__json *j, uint8_t c) {
  if (c != '"')
    return vram__json_bad(j, c ? "no JSON: a key was expected" : "the file ends in JSON");
  j->r->at++;
  if (!vram__json_text(j))
    return VRAM__JSON_END;
  if (vram__json_letter(j) != ':')
    return vram__json_bad(j, "no JSON: a colon was expected");
  j->r->at++;
  return VRAM__JSON_KEY;
}

static vram__json_kind vram__json_token(vram__json *j) {
  const int was_key = j->kind == VRAM__JSON_KEY;
  uint8_t c = vram__json_letter(j);
  int is_array;
  j->offset = vram__reader_offset(j->r);
  if (was_key || (!j->depth && !j->after))
    return vram__json_value(j, c);
  if (!j->depth)
    return c ? vram__json_bad(j, "something behind the end of JSON") : VRAM__JSON_END;
  is_array = j->is_array[j->depth - 1];
  if (c == (is_array ? ']' : '}') &&
      (j->after || j->kind == VRAM__JSON_OBJECT || j->kind == VRAM__JSON_ARRAY))
    return vram__json_close(j, is_array);
  if (j->after) {
    if (c != ',')
      return vram__json_bad(j, c ? "no JSON: a comma was expected" : "the file ends in JSON");
    j->r->at++;
    c = vram__json_letter(j);
    j->offset = vram__reader_offset(j->r);
  }
  return is_array ? vram__json_value(j, c) : vram__json_key(j, c);
}

/* The next token; VRAM__JSON_END behind the document and after an error. */
VRAM__FN vram__json_kind vram__json_next(vram__json *j) {
  j->kind = j->r->result ? VRAM__JSON_END : vram__json_token(j);
  return j->kind;
}

/* The rest of the value whose first token this is. */
VRAM__FN vram_result vram__json_skip(vram__json *j) {
  const uint32_t depth = j->depth;
  if (j->kind == VRAM__JSON_OBJECT || j->kind == VRAM__JSON_ARRAY)
    while (j->depth >= depth && vram__json_next(j) != VRAM__JSON_END)
      ;
  return j->r->result;
}

/* Nothing but blanks follows. */
VRAM__FN vram_result vram__json_finish(vram__json *j) {
  if (!j->r->result && vram__json_next(j) != VRAM__JSON_END)
    vram__json_bad(j, "something behind the end of JSON");
  return j->r->result;
}
