/* Words, numbers, and texts for people and programs. */
#include "vram_command.h"

int cmd_parse_size(const char *s, uint64_t *to) {
  static const struct {
    const char *name;
    uint64_t factor;
  } unit[] = {{"", 1},
              {"B", 1},
              {"KB", 1000},
              {"MB", 1000000},
              {"GB", 1000000000},
              {"TB", UINT64_C(1000000000000)},
              {"KiB", 1024},
              {"MiB", 1048576},
              {"GiB", 1073741824},
              {"TiB", UINT64_C(1099511627776)}};
  uint64_t v = 0, frac = 0, scale = 1;
  size_t i;
  if (*s < '0' || *s > '9')
    return 0;
  for (; *s >= '0' && *s <= '9'; s++) {
    if (v > (UINT64_MAX - 9) / 10)
      return 0;
    v = v * 10 + (uint64_t)(*s - '0');
  }
  if (*s == '.')
    for (s++; *s >= '0' && *s <= '9'; s++)
      if (scale < 1000000)
        frac = frac * 10 + (uint64_t)(*s - '0'), scale *= 10;
  for (i = 0; i < sizeof unit / sizeof *unit; i++)
    if (!strcmp(s, unit[i].name)) {
      if (v && unit[i].factor > (uint64_t)INT64_MAX / v)
        return 0;
      *to = v * unit[i].factor + frac * unit[i].factor / scale;
      return *to <= (uint64_t)INT64_MAX;
    }
  return 0;
}

int cmd_bad_size(const char *v) {
  const size_t digits = strspn(v, "0123456789.");
  char meant[96] = "a number with B KB MB GB TB KiB MiB GiB TiB";
  const char *const unit = v + digits + strspn(v + digits, " ");
  const int is_letter = digits && *unit && strlen(unit) <= 3 && strchr("kmgtKMGT", *unit) != NULL;
  const char letter = (char)(is_letter && *unit > 'Z' ? *unit - 'a' + 'A' : *unit);
  if (is_letter && !cmd_in(v + digits, "KB MB GB TB KiB MiB GiB TiB") &&
      (!unit[1] || cmd_in(unit + 1, "b B i ib iB I IB")))
    snprintf(meant, sizeof meant, "%.*s%cB? %.*s%ciB", (int)(digits < 20 ? digits : 20), v, letter,
             (int)(digits < 20 ? digits : 20), v, letter);
  return cmd_bad("not a size", v, meant);
}

int cmd_take_size(const char *a, const char *v, uint64_t *to) {
  const int is_parsed = cmd_parse_size(v, to);
  char what[96], meant[96];
  if (is_parsed && (strspn(v, "0123456789.") < strlen(v) || !*to || *to >= 1048576))
    return 1;
  if (!is_parsed)
    return cmd_bad_size(v), 0;
  snprintf(what, sizeof what, "%s %.20s is %" PRIu64 " byte%s", a, v, *to, *to == 1 ? "" : "s");
  snprintf(meant, sizeof meant,
           *to <= 1024 && strcmp(a, "--context") ? "%.20sGB? %.20sGiB" : "%.20sMB? %.20sMiB", v, v);
  return cmd_bad(what, NULL, meant), 0;
}

void *cmd_room(void *array, uint32_t n, uint32_t *cap, size_t size) {
  const uint32_t more = *cap ? 2 * *cap : 64;
  if (n < *cap)
    return array;
  if (*cap > UINT32_MAX / 2 || more > (size_t)-1 / size)
    return NULL;
  array = realloc(array, more * size);
  *cap = array ? more : *cap;
  return array;
}

int cmd_digits(const char **s, const char *end, unsigned base, uint64_t most, uint64_t *to) {
  const char *const from = *s;
  uint64_t v = 0;
  for (; *s < end; ++*s) {
    const char c = cmd_lower(**s);
    const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                  : 99;
    if (digit >= base)
      break;
    if (v > (most - digit) / base)
      return 0;
    v = v * base + digit;
  }
  *to = v;
  return *s > from;
}

int cmd_parse_count(const char *s, int64_t least, int64_t most, int64_t *to) {
  int64_t v = 0;
  if (!*s)
    return 0;
  for (; *s; s++) {
    if (*s < '0' || *s > '9' || v > (INT64_MAX - (*s - '0')) / 10)
      return 0;
    v = v * 10 + (*s - '0');
  }
  *to = v;
  return v >= least && v <= most;
}

uint32_t cmd_parse_cc(const char *s) {
  uint32_t major = 0;
  size_t i = 0;
  for (; s[i] >= '0' && s[i] <= '9' && i < 2; i++)
    major = major * 10 + (uint32_t)(s[i] - '0');
  if (major < 5 || major > 12 || s[i] != '.' || s[i + 1] < '0' || s[i + 1] > '9' || s[i + 2])
    return cmd_bad("not a compute capability", s, "7.5, 8.0, 9.0, ..."), 0;
  return major * 10 + (uint32_t)(s[i + 1] - '0');
}

vram_units cmd_units = VRAM_UNITS_IEC;

const char *cmd_human(uint64_t b) {
  static char text[4][24];
  static int at;
  char *t = text[at++ & 3];
  vram_bytes_text(b, cmd_units, t, sizeof *text);
  return t;
}

int cmd_set_units(const char *v) {
  if (!strcmp(v, "iec"))
    cmd_units = VRAM_UNITS_IEC;
  else if (!strcmp(v, "si"))
    cmd_units = VRAM_UNITS_SI;
  else if (!strcmp(v, "bytes"))
    cmd_units = VRAM_UNITS_BYTES;
  else
    return cmd_bad("unknown units", v, "iec, si or bytes"), 0;
  return 1;
}

const char *cmd_bold = "", *cmd_dim = "", *cmd_plain = "";

unsigned cmd_next_char(const char **s) {
  const unsigned char *at = (const unsigned char *)*s;
  const unsigned n = *at < 0x80   ? 1
                     : *at < 0xc2 ? 0
                     : *at < 0xe0 ? 2
                     : *at < 0xf0 ? 3
                     : *at < 0xf5 ? 4
                                  : 0;
  unsigned c = n > 1 ? *at & (0xffu >> (n + 1)) : *at, i;
  for (i = 1; i < n && (at[i] & 0xc0) == 0x80; i++)
    c = c << 6 | (at[i] & 0x3fu);
  if (!n || i < n || (n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
      (n == 4 && (c < 0x10000 || c > 0x10ffff)))
    return ++*s, 0xfffd;
  *s += n;
  return c;
}

void cmd_json_text(FILE *f, const char *s) {
  putc('"', f);
  while (*s) {
    const unsigned c = cmd_next_char(&s);
    if (c == '"' || c == '\\')
      fprintf(f, "\\%c", (int)c);
    else if (c >= 0x10000)
      fprintf(f, "\\u%04x\\u%04x", 0xd800 + ((c - 0x10000) >> 10),
              0xdc00 + ((c - 0x10000) & 0x3ff));
    else if (c < 32 || c > 126 || c == '<')
      fprintf(f, "\\u%04x", c);
    else
      putc((int)c, f);
  }
  putc('"', f);
}

int cmd_in(const char *word, const char *list) {
  size_t n = strlen(word);
  const char *at;
  for (at = n ? strstr(list, word) : NULL; at; at = strstr(at + 1, word))
    if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' '))
      return 1;
  return 0;
}

int cmd_field_is(const field *f, const char *list) {
  char word[24];
  size_t i;
  if (!f->n || f->n >= sizeof word)
    return 0;
  for (i = 0; i < f->n; i++)
    word[i] = cmd_lower(f->s[i]);
  word[f->n] = 0;
  return cmd_in(word, list);
}

char cmd_lower(char c) { return (char)(c >= 'A' && c <= 'Z' ? c + 32 : c); }

void cmd_upper(const char *s, char *to) {
  for (; *s; s++)
    *to++ = (char)(*s >= 'a' && *s <= 'z' ? *s - 32 : *s);
  *to = 0;
}

int cmd_is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

void cmd_identifier(const char *s, char *to, size_t cap) {
  size_t n = 0;
  for (; *s && n + 1 < cap; s++)
    if (cmd_is_word(*s))
      to[n++] = *s;
    else if (n && to[n - 1] != '_')
      to[n++] = '_';
  while (n && to[n - 1] == '_')
    n--;
  to[n] = 0;
}

const char *cmd_grouped(uint64_t n, char to[32]) {
  char digits[24];
  const int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
  int i, at = 0;
  for (i = 0; i < len; i++) {
    if (i && (len - i) % 3 == 0)
      to[at++] = ',';
    to[at++] = digits[i];
  }
  to[at] = 0;
  return to;
}

const char *cmd_count_text(uint64_t n, char *to, size_t cap) {
  static const char unit[] = " KMBT";
  int u = 0;
  double v = (double)n;
  while (v >= 999.5 && u < 4)
    v /= 1000, u++;
  snprintf(to, cap,
           u == 0    ? "%.0f"
           : v < 10  ? "%.2f %c"
           : v < 100 ? "%.1f %c"
                     : "%.0f %c",
           v, unit[u]);
  return to;
}
