/* Files that commands read and write. */
#include "vram_command.h"

int cmd_read(const char *path, char **to, size_t *len) {
  FILE *f = stdin, *opened = NULL;
  size_t cap = (size_t)1 << 16, n = 0;
  char *text = NULL;
  errno = 0;
  if (strcmp(path, "-")) {
    opened = fopen(path, "rb");
    if (!opened)
      return cmd_cannot("open", path, USAGE);
    f = opened;
  }
  for (;;) {
    char *t = (char *)realloc(text, cap);
    if (!t)
      break;
    text = t;
    n += fread(text + n, 1, cap - n, f);
    if (n < cap) {
      if (ferror(f)) {
        int status = cmd_cannot("read", path, USAGE);
        if (opened)
          fclose(opened);
        free(text);
        return status;
      }
      if (opened)
        fclose(opened);
      *to = text;
      *len = n;
      return FITS;
    }
    if (cap > ((size_t)-1) / 2)
      break;
    cap *= 2;
  }
  free(text);
  if (opened)
    fclose(opened);
  return cmd_no_memory();
}

int cmd_is_output(const char *path) { return path && !strcmp(path, "-"); }

int cmd_to_file(void *user, const char *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)user) != n;
}
