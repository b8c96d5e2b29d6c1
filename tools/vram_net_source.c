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

/* Does a condition that is no guard decide about lines, or are there lines in a macro? */
static int source_decides(const char *text, size_t len) {
  const char *s = text, *end = text + len;
  while (s < end) {
    const char *row = s;
    while (row < end && (*row == ' ' || *row == '\t'))
      row++;
    if (row < end && *row == '#') {
      if (source_has(row, end, "else") || source_has(row, end, "elif"))
        return 1;
      if (source_has(row, end, "if") && !source_has(row, end, "endif") &&
          !source_has(row, end, "ifndef") && !source_has(row, end, "!defined"))
        return 1;
      if (source_has(row, end, "define") && source_has(row, end, "VRAM_NET_"))
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

/* All of what a command says; NULL: it failed. */
static char *source_output(const char *command, size_t *len) {
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
  if (f && pclose(f) && text) {
    free(text);
    text = NULL;
  }
  if (!f) {
    free(text);
    return NULL;
  }
  return text;
}

/* The header behind the preprocessor, which leaves the lines: vram.h counts as included. NULL:
   there is no compiler, or it does not take the header. */
static char *source_preprocessed(const char *path, size_t *len) {
  static const char *const unit[] = {"KIB", "1024ULL", "MIB", "1048576ULL", "GIB", "1073741824ULL",
                                     "KB",  "1000ULL", "MB",  "1000000ULL", "GB",  "1000000000ULL"};
  char *command = NULL, *text = NULL;
  size_t size = 0, i;
  FILE *f = strcmp(path, "-") ? open_memstream(&command, &size) : NULL;
  if (!f)
    return NULL;
  fprintf(f, "${CC:-cc} -E -x c -DVRAM_H_INCLUDED -DVRAM_MACROS_ONLY");
  for (i = 0; i < sizeof unit / sizeof *unit; i += 2)
    fprintf(f, " '-DVRAM_%s(x)=(%s*(x))'", unit[i], unit[i + 1]);
  fprintf(f, " $CPPFLAGS %s", *path == '-' ? "./" : "");
  source_quote(f, path);
  fprintf(f, " 2>/dev/null");
  if (!fclose(f))
    text = source_output(command, len);
  free(command);
  return text;
}
#else
static char *source_preprocessed(const char *path, size_t *len) {
  (void)path;
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

int net_of_lines(const char *path, const char *text, size_t len, const char *name, void **mem,
                 vram_net *net) {
  const int decides = source_decides(text, len);
  vram_error e, as_it_stands;
  char *made = NULL;
  int status = source_read(text, len, name, mem, net, &as_it_stands);
  if (status || (!as_it_stands.code && !decides))
    return status;
  made = source_preprocessed(path, &len);
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
  cmd_say(
      "%s: macros or conditions decide about its lines, and no compiler reads it (CC, CPPFLAGS; "
      "or make net-report NET=%s)",
      path, path);
  return USAGE;
}
