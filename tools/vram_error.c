/* What goes to standard error: one line for each error, whatever the input holds. */
#include "vram_command.h"

#include <stdarg.h>

/* Can a terminal be told something by it: C0, C1, line separators, marks of direction. */
static int is_control(unsigned c) {
  return c < 32 || (c >= 127 && c < 160) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

/* s with such characters, and bytes that are none in UTF-8, as \xHH. */
static void escape(const char *s, char *to, size_t cap) {
  size_t n = 0;
  while (*s && n + 24 < cap) {
    const char *from = s;
    const unsigned c = cmd_next_char(&s);
    if (is_control(c) || (c == 0xfffd && s - from == 1))
      for (; from < s; from++)
        n += (size_t)snprintf(to + n, cap - n, "\\x%02x", (unsigned char)*from);
    else
      while (from < s)
        to[n++] = *from++;
  }
  to[n] = 0;
}

const char *cmd_shown(const char *s, size_t n) {
  static char text[4 * 60 + 32];
  char part[61];
  size_t i, at = 0;
  if (n > 60) /* no part of a character */
    for (n = 60; n > 56 && ((unsigned char)s[n] & 0xc0) == 0x80;)
      n--;
  for (i = 0; i < n;) { /* a 0 ends no text here */
    size_t k = 0;
    while (i < n && s[i])
      part[k++] = s[i++];
    part[k] = 0;
    escape(part, text + at, sizeof text - at);
    at += strlen(text + at);
    for (; i < n && !s[i]; i++)
      at += (size_t)snprintf(text + at, sizeof text - at, "\\x00");
  }
  text[at] = 0;
  return text;
}

const char *cmd_found(const char *s, size_t n) {
  static char text[4 * 60 + 40];
  if (!s)
    return "";
  snprintf(text, sizeof text, " '%s'", cmd_shown(s, n));
  return text;
}

const char *cmd_expected(const char *what) {
  static char text[1024];
  if (!what)
    return "";
  snprintf(text, sizeof text, " (expected %s)", what);
  return text;
}

static int hushed;

int cmd_hush(int hush) {
  const int before = hushed;
  hushed = hush;
  return before;
}

void cmd_say(const char *format, ...) {
  char line[8192], shown[4 * sizeof line];
  va_list list;
  if (hushed)
    return;
  va_start(list, format);
  vsnprintf(line, sizeof line, format, list); /* NOLINT(clang-analyzer-valist.Uninitialized) */
  va_end(list);
  escape(line, shown, sizeof shown);
  cmd_progress_over();
  fflush(stdout); /* what was said before */
  fprintf(stderr, "%s\n", shown);
}

int cmd_bad(const char *what, const char *found, const char *expected) {
  if (found)
    cmd_say("vram: %s '%s'%s", what, found, cmd_expected(expected));
  else
    cmd_say("vram: %s%s", what, cmd_expected(expected));
  return USAGE;
}

int cmd_cannot(const char *what, const char *path, int status) {
  cmd_say("vram: cannot %s '%s'%s%s", what, path, errno ? ": " : "", errno ? strerror(errno) : "");
  return status;
}

int cmd_no_memory(void) {
  cmd_say("vram: out of memory");
  return OTHER;
}
