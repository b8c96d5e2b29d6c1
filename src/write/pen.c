/* >>write/pen    text on its way to a sink */
#include "write/write.h"

/* The name of a node, of its op; without the model part there are none. */
VRAM__FN uint32_t vram__node_text(const vram_node *n, char *to, uint32_t cap) {
#ifndef VRAM_NO_MODEL
  return vram_node_name(n, to, cap);
#else
  (void)n;
  if (cap)
    to[0] = 0;
  return 0;
#endif
}

VRAM__FN const char *vram__op_text(uint32_t op) {
#ifndef VRAM_NO_MODEL
  return vram_op_name(op);
#else
  (void)op;
  return "?";
#endif
}

VRAM__FN void vram__pen_flush(vram__pen *p) {
  if (p->n && p->sink && !p->failed && p->sink->write(p->sink->user, p->text, p->n))
    p->failed = 1;
  p->n = 0;
}

VRAM__FN void vram__pen_put(vram__pen *p, const char *s, uint32_t len) {
  while (len--) {
    if (p->n == sizeof p->text)
      vram__pen_flush(p);
    p->text[p->n++] = *s++;
  }
}

VRAM__FN void vram__pen_puts(vram__pen *p, const char *z) {
  vram__pen_put(p, z, vram__text_len(z));
}

static void vram__pen_puti(vram__pen *p, int64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__text_puti(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

static void vram__pen_putu(vram__pen *p, uint64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__text_putu(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

/* How many bytes the character at s has; 0: it is none that XML takes, in UTF-8. */
VRAM__FN uint32_t vram__utf8(const char *s, uint32_t len) {
  const uint32_t a = (uint8_t)s[0];
  const uint32_t n = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
  uint32_t i, c = n > 1 ? a & (0xffu >> (n + 1)) : a;
  if (n > len || (n == 1 && (a < 32 || a == 127)))
    return 0;
  for (i = 1; i < n; i++) {
    if (((uint8_t)s[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | ((uint8_t)s[i] & 0x3fu);
  }
  if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000) || c > 0xfffd)) ||
      (n == 4 && (c < 0x10000 || c > 0x10ffff)))
    return 0;
  return n;
}

/* As text or in an attribute; what is no character becomes '?'. */
VRAM__FN void vram__pen_xml(vram__pen *p, const char *s, uint32_t len) {
  while (len) {
    uint32_t n = vram__utf8(s, len);
    if (!n) {
      vram__pen_puts(p, "?");
      n = 1;
    } else if (*s == '&')
      vram__pen_puts(p, "&amp;");
    else if (*s == '<')
      vram__pen_puts(p, "&lt;");
    else if (*s == '>')
      vram__pen_puts(p, "&gt;");
    else if (*s == '"')
      vram__pen_puts(p, "&quot;");
    else
      vram__pen_put(p, s, n);
    s += n;
    len -= n;
  }
}

/* %d an int in tenths, %i an int, %u a uint64_t, %r text as it is, %s text escaped, %% */
VRAM__FN void vram__pen_f(vram__pen *p, const char *format, ...) {
  va_list list;
  va_start(list, format);
  for (; *format; format++)
    if (*format != '%')
      vram__pen_put(p, format, 1);
    else
      switch (*++format) {
      case 'd': {
        const int v = va_arg(list, int), size = v < 0 ? -v : v;
        if (v < 0)
          vram__pen_puts(p, "-");
        vram__pen_puti(p, size / 10);
        if (size % 10) {
          vram__pen_puts(p, ".");
          vram__pen_puti(p, size % 10);
        }
        break;
      }
      case 'i':
        vram__pen_puti(p, va_arg(list, int));
        break;
      case 'u':
        vram__pen_putu(p, va_arg(list, uint64_t));
        break;
      case 'r':
        vram__pen_puts(p, va_arg(list, const char *));
        break;
      case '%':
        vram__pen_puts(p, "%");
        break;
      default: {
        const char *z = va_arg(list, const char *);
        vram__pen_xml(p, z, vram__text_len(z));
      }
      }
  va_end(list);
}

/* How wide a text is at most: the widest of the usual fonts decides. `size`: of the font. */
VRAM__FN int vram__text_width(const char *s, uint32_t len, int size) {
  static const char *const group[] = {"ijl", "ft ,.!|'", "rI:;/\\()[]-\"",
                                      "ABCDEFGHJKLNOPQRSTUVXYZ&w", "mMW%@+=<>~^#"};
  static const int em[] = {300, 400, 460, 820, 1080, 645};
  int64_t sum = 0;
  for (; len; s++, len--) {
    uint32_t i, k = 0;
    if (((uint8_t)*s & 0xc0) == 0x80) /* within a character */
      continue;
    for (i = (uint8_t)*s < 0x80 ? 0 : 4; i < 5; i++) {
      for (k = 0; group[i][k] && group[i][k] != *s; k++)
        ;
      if (group[i][k] || (uint8_t)*s >= 0x80)
        break;
    }
    sum += em[i];
  }
  sum = sum * size / 1000;
  return (int)(sum < 30000 ? sum : 30000);
}

/* A text of at most so many tenths; of a longer one the end (tail: else the beginning). */
VRAM__FN void vram__pen_fit(vram__pen *p, const char *s, uint32_t len, int size, int room,
                            int tail) {
  const int dots = size * 11 / 10;
  if (vram__text_width(s, len, size) <= room) {
    vram__pen_xml(p, s, len);
    return;
  }
  while (len && vram__text_width(s, len, size) + dots > room) {
    do {
      len--;
      s += tail != 0;
    } while (len && ((uint8_t)(tail ? *s : s[len]) & 0xc0) == 0x80);
  }
  if (tail)
    vram__pen_puts(p, "&#8230;");
  vram__pen_xml(p, s, len);
  if (!tail)
    vram__pen_puts(p, "&#8230;");
}

/* ---- text for people ---- */

/* Text as it is; what is no character becomes '?'. */
VRAM__FN void vram__pen_label(vram__pen *p, const char *z) {
  uint32_t len = vram__text_len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

/* Inside the quotes of JSON. */
VRAM__FN void vram__pen_json(vram__pen *p, const char *z) {
  uint32_t len = vram__text_len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    if (*z == '"' || *z == '\\')
      vram__pen_puts(p, "\\");
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

VRAM__FN void vram__pen_spaces(vram__pen *p, uint32_t n) {
  while (n--)
    vram__pen_puts(p, " ");
}

/* A text of n bytes to the right, to the left of a column. */
VRAM__FN void vram__pen_right(vram__pen *p, const char *z, uint32_t width) {
  const uint32_t n = vram__text_len(z);
  vram__pen_spaces(p, n < width ? width - n : 0);
  vram__pen_puts(p, z);
}

VRAM__FN void vram__pen_left(vram__pen *p, const char *z, uint32_t width) {
  const uint32_t n = vram__text_len(z);
  vram__pen_puts(p, z);
  vram__pen_spaces(p, n < width ? width - n : 0);
}

VRAM__FN void vram__pen_bytes(vram__pen *p, uint64_t bytes, uint32_t width) {
  char text[24];
  vram_bytes_text(bytes, VRAM_UNITS_IEC, text, sizeof text);
  vram__pen_right(p, text, width);
}

VRAM__FN void vram__pen_number(vram__pen *p, uint64_t v, uint32_t width) {
  char text[24];
  vram_bytes_text(v, VRAM_UNITS_BYTES, text, sizeof text);
  vram__pen_right(p, text, width);
}

/* As PyTorch's messages have sizes: "512 bytes", "20.00 MiB"; nothing above GiB. */
VRAM__FN void vram__pen_size(vram__pen *p, uint64_t bytes) {
  static const char *const name[] = {" KiB", " MiB", " GiB"};
  uint64_t rest, hundredths;
  uint32_t u = 0;
  char digit[3];
  if (bytes <= 1024) {
    vram__pen_number(p, bytes, 0);
    vram__pen_puts(p, " bytes");
    return;
  }
  while (u < 2 && bytes > UINT64_C(1024) << 10 * (u + 1))
    u++;
  rest = bytes % (UINT64_C(1024) << 10 * u);
  hundredths = rest * 100 >> 10 * (u + 1);
  rest = rest * 100 - (hundredths << 10 * (u + 1));
  hundredths += (bytes >> 10 * (u + 1)) * 100;
  if (rest > UINT64_C(512) << 10 * u || (rest == UINT64_C(512) << 10 * u && (hundredths & 1)))
    hundredths++; /* half to even, as printf */
  vram__pen_number(p, hundredths / 100, 0);
  digit[0] = (char)('0' + (char)(hundredths / 10 % 10));
  digit[1] = (char)('0' + (char)(hundredths % 10));
  digit[2] = 0;
  vram__pen_puts(p, ".");
  vram__pen_puts(p, digit);
  vram__pen_puts(p, name[u]);
}

/* ":88" behind a file; a module has no lines */
VRAM__FN void vram__pen_line(vram__pen *p, const vram_owner *w) {
  if (!w->line)
    return;
  vram__pen_puts(p, ":");
  vram__pen_number(p, w->line, 0);
}

/* "train.c:88 forward, weights" */
VRAM__FN void vram__pen_owner(vram__pen *p, const vram_owner *w) {
  if (w->file) {
    vram__pen_label(p, w->file);
    vram__pen_line(p, w);
  }
  if (w->function) {
    vram__pen_puts(p, w->file ? " " : "");
    vram__pen_label(p, w->function);
  }
  if (w->tag) {
    vram__pen_puts(p, w->file || w->function ? ", " : "");
    vram__pen_label(p, w->tag);
  }
  if (!w->file && !w->function && !w->tag)
    vram__pen_puts(p, "place not known");
}

VRAM__FN vram_result vram__pen_end(vram__pen *p) {
  vram__pen_flush(p);
  return p->failed ? VRAM_ERR_WRITE : VRAM_OK;
}

VRAM__FN void vram__pen_begin(vram__pen *p, const vram_sink *sink) {
  p->sink = sink;
  p->n = 0;
  p->failed = 0;
}
