/* Texts and calls: what is read, and every error with line, column and message.
   usage: test_graph errors.txt [--write]
   errors.txt: blocks of `=== LINE:COLUMN: message`, then the text; `=== ok`: no error. */
#include "play.h"

/* {NNN*WORD} in a text stands for NNN times WORD, {NNN+LINE} for NNN lines of LINE, in both with #
   as the number 0, 1, ...; {xHH} for a byte. Returns the length. */
static size_t expand(const char *from, size_t n, char **to) {
  size_t cap = 4096, len = 0, i;
  char *text = (char *)malloc(cap);
  for (i = 0; i < n; i++) {
    unsigned long count = 0, k;
    char *end = NULL;
    const char *close = from[i] == '{' ? strchr(from + i, '}') : NULL;
    size_t body, j, room;
    if (close && from[i + 1] == 'x')
      count = strtoul(from + i + 2, &end, 16);
    else if (close)
      count = strtoul(from + i + 1, &end, 10);
    body = close ? (size_t)(close - from) : 0;
    room = len + 64 + (close ? count * (body - i + 8) : 0);
    if (room > cap)
      text = (char *)realloc(text, cap = 2 * room);
    if (!text)
      abort();
    if (!close || end == from + i + 1 || end == from + i + 2) {
      text[len++] = from[i];
      continue;
    }
    if (from[i + 1] == 'x')
      text[len++] = (char)count;
    else
      for (k = 0; k < count; k++) {
        for (j = (size_t)(end - from) + 1; j < body; j++)
          if (from[j] == '#')
            len += (size_t)sprintf(text + len, "%lu", k);
          else
            text[len++] = from[j];
        if (*end == '+' && k + 1 < count)
          text[len++] = '\n';
      }
    i = body;
  }
  text[len] = 0;
  *to = text;
  return len;
}

static void error_text(char *to, size_t cap, vram_result r, const vram_error *e) {
  if (!r)
    snprintf(to, cap, "ok");
  else if (e->line)
    snprintf(to, cap, "%lu:%lu: %s", (unsigned long)e->line, (unsigned long)e->column, e->text);
  else
    snprintf(to, cap, "%s", e->text);
}

static void errors(const char *path, int write) {
  char *file = play_file(path, NULL), *at = file, got[400], want[400];
  unsigned line = 1;
  if (!NEED(file != NULL))
    return;
  while (*at) {
    size_t n = strcspn(at, "\n"), len;
    char *text, *body = at + n + (at[n] == '\n'), *end = strstr(at + 1, "\n===");
    play p;
    vram_result r;
    if (!end)
      end = body + strlen(body);
    else
      end++;
    if (strncmp(at, "===", 3)) { /* the head of the file */
      if (write)
        printf("%.*s", (int)(end - at), at);
    } else {
      memset(&p, 0, sizeof p);
      len = expand(body, (size_t)(end - body), &text);
      r = play_parse(&p, text, len, NULL, 0);
      error_text(got, sizeof got, r, &p.error);
      if (write)
        printf("=== %s\n%.*s", got, (int)(end - body), body);
      else {
        snprintf(want, sizeof want, "%.*s", (int)(n > 4 ? n - 4 : 0), at + 4);
        snprintf(test_where, sizeof test_where, "%s:%u", path, line);
        TEXT(got, want);
        if (r && (r != p.error.code || r != p.graph.error.code))
          FAIL("the codes agree");
        if (strlen(p.error.text) + 1 >= sizeof p.error.text)
          FAIL("the message fits");
      }
      free(text);
      play_end(&p);
    }
    for (; at < end; at++)
      line += *at == '\n';
  }
  *test_where = 0;
  free(file);
}

int main(int argc, char **argv) {
  if (argc < 2)
    return 2;
  if (argc > 2) {
    errors(argv[1], 1);
    return 0;
  }
  errors(argv[1], 0);
  return test_done("test_graph");
}
