/* libFuzzer: hostile names and random events; every page of the ledger is written, and its JSON is
   JSON. Bytes: a kind, three names, then what happens. */
#include "../scene.h"

#include "fuzz.h"

static const char *value(const char *s, int depth);

static const char *text(const char *s) {
  if (*s++ != '"')
    abort();
  for (; *s != '"'; s++) {
    if ((uint8_t)*s < 32 || *s == 127 || (*s == '\\' && s[1] != '"' && s[1] != '\\'))
      abort();
    s += *s == '\\';
  }
  return s + 1;
}

static const char *space(const char *s) {
  while (*s == '\n' || *s == ' ')
    s++;
  return s;
}

/* What stands behind the value at s; stops the program if there is none. */
static const char *value(const char *s, int depth) {
  const char end = *s == '{' ? '}' : ']';
  if (depth > 10)
    abort();
  if (*s == '"')
    return text(s);
  if (*s == '{' || *s == '[') {
    s = space(s + 1);
    while (*s != end) {
      if (end == '}') {
        s = text(s);
        if (*s++ != ':')
          abort();
      }
      s = space(value(s, depth + 1));
      if (*s == ',' && s[1] != end)
        s = space(s + 1);
      else if (*s != end)
        abort();
    }
    return s + 1;
  }
  if (!strncmp(s, "true", 4))
    return s + 4;
  if (!strncmp(s, "false", 5))
    return s + 5;
  if (*s == '-')
    s++;
  if (*s < '0' || *s > '9')
    abort();
  while (*s >= '0' && *s <= '9')
    s++;
  return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static scene s;
  static page p;
  const char *name[3];
  char names[3][17];
  size_t i;
  int what;
  if (size < 1 + 3 * 16)
    return 0;
  for (i = 0; i < 3; i++) {
    memcpy(names[i], data + 1 + 16 * i, 16);
    names[i][16] = 0;
    name[i] = names[i];
  }
  p.most = (size_t)-1;
  scene_begin(&s, data[0] % 7, name, 3);
  for (i = 1 + 3 * 16; i + 4 <= size; i += 4)
    scene_step(&s, data + i);
  for (what = 0; what < PAGES; what++) {
    if (scene_write(&s, what, &p) != VRAM_OK)
      abort();
    if ((what == PAGE_JSON || what == PAGE_TRACE) && *space(value(p.text, 0)))
      abort();
  }
  scene_end(&s);
  return 0;
}
