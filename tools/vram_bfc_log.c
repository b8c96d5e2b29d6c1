#include "vram_bfc_log.h"

static const char in_file[] = "bfc_allocator.cc:";

int bfc_take(cursor *c, const char *what) {
  const size_t n = strlen(what);
  if ((size_t)(c->end - c->s) < n || memcmp(c->s, what, n) != 0)
    return 0;
  c->s += n;
  return 1;
}

size_t bfc_take_name(cursor *c, const char **name) {
  *name = c->s;
  while (c->s < c->end && *c->s != ' ' && *c->s != ',')
    c->s++;
  return (size_t)(c->s - *name);
}

int bfc_take_number(cursor *c, unsigned base, uint64_t *to) {
  if (bfc_take(c, "(nil)"))
    return *to = 0, 1;
  return cmd_digits(&c->s, c->end, bfc_take(c, "0x") ? 16 : base, (uint64_t)INT64_MAX, to);
}

int bfc_next(const char **at, const char *end, uint32_t *line, cursor *c) {
  while (*at < end) {
    const char *to = (const char *)memchr(*at, '\n', (size_t)(end - *at)), *s;
    const char *const from = *at;
    to = to ? to : end;
    *at = to < end ? to + 1 : end;
    ++*line;
    for (s = from; s + sizeof in_file <= to; s++) {
      uint64_t where;
      if (*s != *in_file || memcmp(s, in_file, sizeof in_file - 1) != 0)
        continue;
      c->s = s + sizeof in_file - 1;
      c->end = to - (to > s && to[-1] == '\r');
      if (bfc_take_number(c, 10, &where) && bfc_take(c, "] "))
        return 1;
    }
  }
  return 0;
}
