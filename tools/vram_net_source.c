/* The lines of a network in a C header: as they stand there, or as a compiler's preprocessor has
   them where macros of the user's or conditions decide what they are. */
#include "vram_net.h"

int net_is_lines(const char *path, const char *text, size_t len) {
  static const char begin[] = "VRAM_NET_BEGIN";
  const char *dot = strrchr(path, '.');
  size_t i;
  if (dot && (!strcmp(dot, ".h") || !strcmp(dot, ".hpp")))
    return 1;
  for (i = 0; i + sizeof begin <= len; i++)
    if (!memcmp(text + i, begin, sizeof begin - 1))
      return 1;
  return 0;
}

/* Is word in the line that begins at s? */
static int source_has(const char *s, const char *end, const char *word) {
  const size_t n = strlen(word);
  for (; s < end && *s != '\n' && (size_t)(end - s) >= n; s++)
    if (!memcmp(s, word, n))
      return 1;
  return 0;
}

/* The directive in the line that begins at s; its length, 0: there is none. */
static size_t source_directive(const char *s, const char *end, char to[16]) {
  size_t n = 0;
  while (s < end && (*s == ' ' || *s == '\t'))
    s++;
  if (s == end || *s != '#')
    return 0;
  for (s++; s < end && (*s == ' ' || *s == '\t'); s++)
    ;
  while (s < end && n < 15 && cmd_is_word(*s))
    to[n++] = *s++;
  to[n] = 0;
  return n;
}

/* Does a condition that is no guard decide about lines, or are there lines in a macro? Whether it
   is C or C++ decides nothing. */
static int source_decides(const char *text, size_t len) {
  const char *s = text, *end = text + len;
  uint64_t languages = 0; /* a bit for each condition that is open: it asks for C++ */
  char word[16];
  while (s < end) {
    if (source_directive(s, end, word)) {
      if (!strncmp(word, "if", 2)) {
        const int language = source_has(s, end, "__cplusplus");
        languages = languages << 1 | (uint64_t)language;
        if (!language && strcmp(word, "ifndef") != 0 && !source_has(s, end, "!defined"))
          return 1;
      } else if (!strncmp(word, "el", 2)) { /* else, elif, elifdef */
        if (!(languages & 1))
          return 1;
      } else if (!strcmp(word, "endif"))
        languages >>= 1;
      else if (!strcmp(word, "define") && source_has(s, end, "VRAM_NET_"))
        return 1;
    }
    while (s < end && *s++ != '\n')
      ;
  }
  return 0;
}

#if defined(__unix__) || defined(__APPLE__)
/* What a shell takes as one word. */
static void source_quote(FILE *f, const char *s) {
  putc('\'', f);
  for (; *s; s++)
    if (*s == '\'')
      fputs("'\\''", f);
    else
      putc(*s, f);
  putc('\'', f);
}

/* All of what a command says, *failed: whether it failed; NULL: out of memory, or it cannot run. */
static char *source_output(const char *command, size_t *len, int *failed) {
  size_t cap = 1 << 16, got;
  char *text = (char *)malloc(cap), *more;
  FILE *f;
  fflush(NULL);
  /* CC and CPPFLAGS are words for a shell, as in make; the file's name is quoted */
  f = text ? popen(command, "r") : NULL; /* NOLINT(cert-env33-c) */
  *len = 0;
  while (f && text && (got = fread(text + *len, 1, cap - *len, f)) != 0) {
    *len += got;
    if (*len < cap)
      continue;
    more = cap < (size_t)1 << 28 ? (char *)realloc(text, cap *= 2) : NULL;
    if (!more)
      free(text);
    text = more;
  }
  *failed = f && pclose(f);
  if (!f) {
    free(text);
    return NULL;
  }
  return text;
}

/* The header behind the preprocessor, which leaves the lines: vram.h counts as included. With
   complaint: what the compiler says of it, instead. NULL: there is no compiler, or it does not take
   the header. */
static char *source_preprocessed(const char *path, int complaint, size_t *len) {
  static const char *const unit[] = {"KIB", "1024ULL", "MIB", "1048576ULL", "GIB", "1073741824ULL",
                                     "KB",  "1000ULL", "MB",  "1000000ULL", "GB",  "1000000000ULL"};
  char *command = NULL, *text = NULL;
  size_t size = 0, i;
  int failed = 0;
  FILE *f = strcmp(path, "-") ? open_memstream(&command, &size) : NULL;
  if (!f)
    return NULL;
  fprintf(f, "${CC:-cc} -E -x c -DVRAM_H_INCLUDED -DVRAM_MACROS_ONLY");
  for (i = 0; i < sizeof unit / sizeof *unit; i += 2)
    fprintf(f, " '-DVRAM_%s(x)=(%s*(x))'", unit[i], unit[i + 1]);
  fprintf(f, " $CPPFLAGS %s", *path == '-' ? "./" : "");
  source_quote(f, path);
  fprintf(f, complaint ? " 2>&1 >/dev/null" : " 2>/dev/null");
  if (!fclose(f))
    text = source_output(command, len, &failed);
  free(command);
  if (failed == !complaint) {
    free(text);
    text = NULL;
  }
  return text;
}
#else
static char *source_preprocessed(const char *path, int complaint, size_t *len) {
  (void)path;
  (void)complaint;
  *len = 0;
  return NULL;
}
#endif

/* The lines of a text, counted: what is wrong with them is e. Not FITS: out of memory. */
static int source_read(const char *text, size_t len, const char *name, void **mem, vram_net *net,
                       vram_error *e) {
  const uint64_t bytes = vram_net_read_bytes(text, len);
  *mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  if (!*mem)
    return cmd_no_memory();
  if (!vram_net_read(text, len, name, *mem, bytes, net, e))
    (void)vram_net_count(net, e);
  return FITS;
}

static void source_error(const char *path, const vram_error *e) {
  if (e->line && e->column)
    cmd_say("%s:%" PRIu32 ":%" PRIu32 ": %s", path, e->line, e->column, e->text);
  else
    cmd_say("%s: %s", path, e->text);
}

/* No compiler gave the lines: why. */
static int source_unread(const char *path) {
  size_t len, n = 0;
  char *text = source_preprocessed(path, 1, &len), *at = text;
  while (at && n < len) { /* the first line that speaks of an error, or the first */
    while (n < len && text[n] != '\n')
      n++;
    if (source_has(at, text + n, "error")) {
      len = n;
      break;
    }
    at = text + ++n;
  }
  if (at && at >= text + len)
    at = text;
  for (n = 0; at && at + n < text + len && at[n] != '\n' && n < 300; n++)
    ;
  cmd_say(
      "%s: macros or conditions decide about its lines, and no compiler reads it (CC, CPPFLAGS; "
      "or make net-report NET=%s)%s%.*s",
      path, path, n ? ": " : "", (int)n, n ? at : "");
  free(text);
  return USAGE;
}

int net_of_lines(const char *path, const char *text, size_t len, const char *name, void **mem,
                 vram_net *net) {
  const int decides = source_decides(text, len);
  vram_error e, as_it_stands;
  char *made = NULL;
  int status = source_read(text, len, name, mem, net, &as_it_stands);
  if (status || (!as_it_stands.code && !decides))
    return status;
  made = source_preprocessed(path, 0, &len);
  if (made) {
    free(*mem);
    status = source_read(made, len, name, mem, net, &e);
    free(made);
    if (status || !e.code)
      return status;
  }
  if (made || !decides) {
    source_error(path, decides ? &e : &as_it_stands);
    return USAGE;
  }
  return source_unread(path);
}
