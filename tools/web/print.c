/* printf for WebAssembly. A double is printed from all of its decimal digits, of which each has no
   more than 1,100: what is rounded is right, as C asks for it, ties to the even digit. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct print {
  FILE *file; /* or, if NULL: */
  char *to;
  size_t cap, n;
  int failed;
} print;

static void put(print *p, const char *s, size_t n) {
  if (p->file) {
    p->failed |= fwrite(s, 1, n, p->file) != n;
  } else if (p->n < p->cap) {
    const size_t room = p->cap - p->n;
    memcpy(p->to + p->n, s, n < room ? n : room);
  }
  p->n += n;
}

static void pad(print *p, char c, int n) {
  for (; n > 0; n--)
    put(p, &c, 1);
}

typedef struct form {
  int left, plus, blank, other, zero, width, precision; /* precision: less than 0 is none */
} form;

/* sign or prefix, zeros, a body: in the width */
static void field(print *p, const form *f, const char *before, int zeros, const char *body, int n,
                  int may_zero) {
  const int nbefore = (int)strlen(before), fill = f->width - nbefore - zeros - n;
  if (!f->left && !(f->zero && may_zero))
    pad(p, ' ', fill);
  put(p, before, (size_t)nbefore);
  if (!f->left && f->zero && may_zero)
    pad(p, '0', fill);
  pad(p, '0', zeros);
  put(p, body, (size_t)n);
  if (f->left)
    pad(p, ' ', fill);
}

static const char *sign(const form *f, int minus) {
  return minus ? "-" : f->plus ? "+" : f->blank ? " " : "";
}

static void whole(print *p, const form *f, char kind, unsigned long long n, int minus) {
  const unsigned base = kind == 'o' ? 8 : kind == 'x' || kind == 'X' ? 16 : 10;
  const char *const digit = kind == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
  const char *before = kind == 'd' ? sign(f, minus) : "";
  char text[24], *s = text + sizeof text;
  int len;
  if (f->other && n && base == 16)
    before = kind == 'X' ? "0X" : "0x";
  for (; n; n /= base)
    *--s = digit[n % base];
  len = (int)(text + sizeof text - s);
  if (!len && f->precision)
    *--s = '0', len = 1;
  field(p, f, before, f->precision > len ? f->precision - len : 0, s, len, f->precision < 0);
}

/* ---- doubles ---- */

enum { LIMBS = 130, DIGITS = 9 * LIMBS };

typedef struct decimal {
  char digit[DIGITS + 1];
  int n, point; /* 0.DIGITS times 10 to the point */
} decimal;

static int times(uint32_t *limb, int n, uint32_t by) {
  uint64_t carry = 0;
  int i;
  for (i = 0; i < n; i++) {
    carry += (uint64_t)limb[i] * by;
    limb[i] = (uint32_t)(carry % 1000000000);
    carry /= 1000000000;
  }
  if (carry)
    limb[n++] = (uint32_t)carry;
  return n;
}

/* m times 2 to the e, all its digits */
static void decimal_of(decimal *d, uint64_t m, int e) {
  uint32_t limb[LIMBS] = {0};
  int n, i, k;
  for (; m && !(m & 1); e++)
    m >>= 1;
  limb[0] = (uint32_t)(m % 1000000000);
  limb[1] = (uint32_t)(m / 1000000000);
  n = 2;
  for (k = e; k > 0; k -= k < 29 ? k : 29)
    n = times(limb, n, (uint32_t)1 << (k < 29 ? k : 29));
  for (k = -e; k >= 12; k -= 12) /* m / 2^k: m * 5^k / 10^k */
    n = times(limb, n, 244140625);
  for (; k > 0; k--)
    n = times(limb, n, 5);
  d->n = 0;
  for (i = n; i-- > 0;)
    for (k = 100000000; k; k /= 10) {
      const char c = (char)('0' + limb[i] / (uint32_t)k % 10);
      if (d->n || c != '0')
        d->digit[d->n++] = c;
    }
  d->point = d->n + (e < 0 ? e : 0);
  while (d->n && d->digit[d->n - 1] == '0')
    d->n--;
}

/* The first n digits are left, rounded. */
static void decimal_round(decimal *d, int n) {
  int up;
  if (n >= d->n)
    return;
  if (n < 0) {
    d->n = 0;
    return;
  }
  /* no zeros at the end: a 5 with nothing behind it lies in the middle */
  up = d->digit[n] > '5' || (d->digit[n] == '5' && (d->n > n + 1 || (n && (d->digit[n - 1] & 1))));
  d->n = n;
  while (up && n && d->digit[n - 1] == '9')
    d->digit[--n] = '0';
  if (up && n) {
    d->digit[n - 1]++;
  } else if (up) {
    memmove(d->digit + 1, d->digit, (size_t)d->n);
    d->digit[0] = '1';
    d->n++;
    d->point++;
  }
}

/* The digit at place i from the point on: 0 is the first behind it, -1 that before it. */
static char decimal_at(const decimal *d, int i) {
  const int at = i + d->point;
  return at >= 0 && at < d->n ? d->digit[at] : '0';
}

static void real(print *p, const form *f, char kind, double x) {
  union {
    double x;
    uint64_t bits;
  } u = {x};
  const int minus = (int)(u.bits >> 63), e = (int)(u.bits >> 52 & 0x7ff);
  const uint64_t fraction = u.bits & (((uint64_t)1 << 52) - 1);
  static decimal d; /* large: not on the stack */
  static char text[DIGITS + 400];
  int precision = f->precision < 0 ? 6 : f->precision, exponent = 0, n = 0, i, strip = 0;
  if (e == 0x7ff) {
    field(p, f, sign(f, minus), 0, fraction ? "nan" : "inf", 3, 0);
    return;
  }
  if (precision > 350)
    precision = 350;
  decimal_of(&d, e ? fraction | (uint64_t)1 << 52 : fraction, (e ? e : 1) - 1075);
  if (kind == 'g') {
    precision = precision ? precision : 1;
    decimal_round(&d, precision);
    strip = !f->other;
    exponent = d.n ? d.point - 1 : 0;
    kind = exponent < -4 || exponent >= precision ? 'e' : 'f';
    precision -= kind == 'e' ? 1 : 1 + exponent;
  } else {
    decimal_round(&d, kind == 'e' ? precision + 1 : d.point + precision);
  }
  if (kind == 'e') {
    exponent = d.n ? d.point - 1 : 0;
    d.point = 1;
  }
  for (i = d.n && d.point > 1 ? -d.point : -1; i < 0; i++)
    text[n++] = decimal_at(&d, i);
  if (precision || f->other)
    text[n++] = '.';
  for (i = 0; i < precision; i++)
    text[n++] = decimal_at(&d, i);
  while (strip && precision && (text[n - 1] == '0' || text[n - 1] == '.'))
    if (text[--n] == '.')
      break;
  if (kind == 'e') {
    const int size = exponent < 0 ? -exponent : exponent;
    text[n++] = 'e';
    text[n++] = exponent < 0 ? '-' : '+';
    if (size >= 100)
      text[n++] = (char)('0' + size / 100);
    text[n++] = (char)('0' + size / 10 % 10);
    text[n++] = (char)('0' + size % 10);
  }
  field(p, f, sign(f, minus), 0, text, n, 1);
}

/* ---- formats ---- */

static void print_all(print *p, const char *s, va_list words) {
  va_list w;
  va_copy(w, words);
  for (; *s; s++) {
    form f = {0, 0, 0, 0, 0, 0, -1};
    size_t n = strcspn(s, "%");
    int longs = 0, is_flag = 1;
    if (n) {
      put(p, s, n);
      s += n;
      if (!*s)
        break;
    }
    while (is_flag)
      switch (*++s) {
      case '-':
        f.left = 1;
        break;
      case '+':
        f.plus = 1;
        break;
      case ' ':
        f.blank = 1;
        break;
      case '#':
        f.other = 1;
        break;
      case '0':
        f.zero = 1;
        break;
      default:
        is_flag = 0;
      }
    if (*s == '*') {
      f.width = va_arg(w, int), s++;
      if (f.width < 0)
        f.left = 1, f.width = -f.width;
    }
    while (*s >= '0' && *s <= '9')
      f.width = f.width * 10 + *s++ - '0';
    if (*s == '.') {
      f.precision = 0;
      if (*++s == '*')
        f.precision = va_arg(w, int), s++;
      while (*s >= '0' && *s <= '9')
        f.precision = f.precision * 10 + *s++ - '0';
    }
    for (; *s == 'l' || *s == 'h' || *s == 'z' || *s == 't' || *s == 'j'; s++)
      longs += *s == 'l' ? 1 : *s == 'j' ? 2 : 0; /* size_t has 32 bits, as int and long have */
    switch (*s) {
    case 'd':
    case 'i': {
      const long long v = longs > 1 ? va_arg(w, long long) : va_arg(w, int);
      whole(p, &f, 'd', v < 0 ? 0 - (unsigned long long)v : (unsigned long long)v, v < 0);
      break;
    }
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      whole(p, &f, *s, longs > 1 ? va_arg(w, unsigned long long) : va_arg(w, unsigned), 0);
      break;
    case 'p':
      f.other = 1;
      whole(p, &f, 'x', (uintptr_t)va_arg(w, void *), 0);
      break;
    case 'c': {
      const char c = (char)va_arg(w, int);
      field(p, &f, "", 0, &c, 1, 0);
      break;
    }
    case 's': {
      const char *const text = va_arg(w, const char *);
      const char *const end =
          f.precision < 0 ? NULL : (const char *)memchr(text, 0, (size_t)f.precision);
      n = end ? (size_t)(end - text) : f.precision < 0 ? strlen(text) : (size_t)f.precision;
      field(p, &f, "", 0, text, (int)n, 0);
      break;
    }
    case 'e':
    case 'f':
    case 'g':
      real(p, &f, *s, va_arg(w, double));
      break;
    case '%':
      put(p, "%", 1);
      break;
    default: /* which the command does not use: tests would see it */
      __builtin_trap();
    }
  }
  va_end(w);
}

int vfprintf(FILE *f, const char *format, va_list words) {
  print p = {f, NULL, 0, 0, 0};
  print_all(&p, format, words);
  return p.failed ? -1 : (int)p.n;
}

int vsnprintf(char *to, size_t n, const char *format, va_list words) {
  print p = {NULL, to, n ? n - 1 : 0, 0, 0};
  print_all(&p, format, words);
  if (n)
    to[p.n < n ? p.n : n - 1] = 0;
  return (int)p.n;
}

#define WORDS(call)                                                                                \
  va_list words;                                                                                   \
  int n;                                                                                           \
  va_start(words, format);                                                                         \
  n = call;                                                                                        \
  va_end(words);                                                                                   \
  return n

int printf(const char *format, ...) { WORDS(vfprintf(stdout, format, words)); }
int fprintf(FILE *f, const char *format, ...) { WORDS(vfprintf(f, format, words)); }
int snprintf(char *to, size_t size, const char *format, ...) {
  WORDS(vsnprintf(to, size, format, words));
}
int sprintf(char *to, const char *format, ...) {
  WORDS(vsnprintf(to, (size_t)INT32_MAX, format, words));
}
