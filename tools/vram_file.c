/* Files that commands read and write. */
#include "vram_command.h"

#if defined(__unix__) || defined(__APPLE__)
#define HAS_POSIX 1
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

/* ---- input ---- */

#ifdef HAS_POSIX
enum { INPUTS = 4 }; /* a command reads two at most */
static struct stat input[INPUTS];
static int ninput;

static int is_same(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}
#endif

void cmd_files_forget(void) {
#ifdef HAS_POSIX
  ninput = 0;
#endif
}

/* What the user can put right is bad input, what the system lacks is not. */
static int input_error(const char *what, const char *path) {
  const int lacks = errno == ENOMEM || errno == EMFILE || errno == ENFILE || errno == EIO;
  return cmd_cannot(what, path, lacks ? OTHER : USAGE);
}

static int too_large(const char *path) {
  cmd_say("vram: '%s' has more than 1 GiB, which is the most that is read", path);
  return USAGE;
}

/* What the system knows of an input before it is read. */
static int input_begin(FILE *f, const char *path) {
#ifdef HAS_POSIX
  struct stat st;
  if (fstat(fileno(f), &st))
    return FITS;
  if (S_ISREG(st.st_mode) && st.st_size > (off_t)CMD_MAX_INPUT)
    return too_large(path);
  if (ninput < INPUTS)
    input[ninput++] = st;
#else
  (void)f, (void)path;
#endif
  return FITS;
}

/* All that f has. */
static int read_stream(FILE *f, const char *path, char **to, size_t *len) {
  size_t cap = (size_t)1 << 16, n = 0;
  char *text = NULL;
  int status = input_begin(f, path);
  while (!status) {
    char *more = (char *)realloc(text, cap);
    if (!more) {
      status = cmd_no_memory();
      break;
    }
    text = more;
    errno = 0;
    n += fread(text + n, 1, cap - n, f);
    if (n < cap) {
      if (ferror(f))
        status = input_error("read", path);
      break;
    }
    if (n > CMD_MAX_INPUT)
      status = too_large(path);
    cap = cap < CMD_MAX_INPUT / 2 ? cap * 2 : CMD_MAX_INPUT + 1;
  }
  if (!status && n >= 3 && !memcmp(text, "\357\273\277", 3))
    memmove(text, text + 3, n -= 3); /* a mark of UTF-8, as editors of Windows set it */
  if (status)
    free(text);
  else
    *to = text, *len = n;
  return status;
}

int cmd_try_read(const char *path, char **to, size_t *len) {
  FILE *f;
  int status;
  if (!strcmp(path, "-"))
    return read_stream(stdin, "standard input", to, len);
  errno = 0;
  f = fopen(path, "rb");
  if (!f)
    return errno == ENOENT ? CMD_ABSENT : input_error("open", path);
  status = read_stream(f, path, to, len);
  fclose(f);
  return status;
}

int cmd_read(const char *path, char **to, size_t *len) {
  const int status = cmd_try_read(path, to, len);
  return status == CMD_ABSENT ? input_error("open", path) : status;
}

/* ---- output ---- */

int cmd_is_output(const char *path) { return path && !strcmp(path, "-"); }

int cmd_to_file(void *user, const char *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)user) != n;
}

void cmd_writes(void) {
#ifdef SIGXFSZ
  if (!cmd_is_guest())
    signal(SIGXFSZ, SIG_IGN); /* a file that grows too large is an error like others */
#endif
}

#ifdef HAS_POSIX
/* The folder of a path, and a name in it that is free; NULL: no memory. */
static char *name_beside(const char *path) {
  static const char name[] = ".vram-XXXXXX";
  const char *slash = strrchr(path, '/');
  const size_t n = slash ? (size_t)(slash - path) + 1 : 0;
  char *to = (char *)malloc(n + sizeof name);
  if (to) {
    memcpy(to, path, n);
    memcpy(to + n, name, sizeof name);
  }
  return to;
}

/* The file o->temp, which may take the name of o->target; 0: it cannot be, errno says why. */
static int open_beside(cmd_output *o, const struct stat *old) {
  const mode_t mask = umask(0);
  const int fd = (umask(mask), mkstemp(o->temp));
  int why = errno;
  if (fd >= 0) {
    /* the owner of what is there stays if we may say so */
    if (old && fchown(fd, old->st_uid, old->st_gid))
      errno = 0;
    if (!fchmod(fd, old ? old->st_mode & 07777 : 0666 & ~mask))
      o->file = fdopen(fd, "wb");
    if (o->file) {
      cmd_half(o->temp, NULL);
      return 1;
    }
    why = errno;
    close(fd);
    unlink(o->temp);
  }
  free(o->temp);
  o->temp = NULL;
  errno = why;
  return 0;
}

/* A regular file, there already or not yet. Not FITS: message printed. */
static int open_regular(cmd_output *o, const struct stat *old) {
  int i;
  for (i = 0; old && i < ninput; i++)
    if (is_same(old, &input[i]))
      return cmd_bad("the output is the input:", o->path, "another file");
  if (old && access(o->path, W_OK))
    return cmd_cannot("write", o->path, OTHER);
  errno = 0;
  o->target = old ? realpath(o->path, NULL) : strdup(o->path); /* a link stays one */
  if (!o->target && errno && errno != ENOMEM)
    return cmd_cannot("write", o->path, OTHER);
  o->temp = o->target ? name_beside(o->target) : NULL;
  if (!o->temp)
    return cmd_no_memory();
  if (open_beside(o, old))
    return FITS;
  if (old && (errno == EACCES || errno == EPERM || errno == EROFS)) /* of the folder */
    o->file = fopen(o->path, "wb");
  return o->file ? FITS : cmd_cannot("write", o->path, OTHER);
}
#endif

int cmd_output_open(cmd_output *o, const char *path) {
  memset(o, 0, sizeof *o);
  o->path = path;
  cmd_writes();
  if (cmd_is_output(path)) {
    o->file = stdout;
    return FITS;
  }
#ifdef HAS_POSIX
  {
    struct stat old, link;
    const int is = !stat(path, &old), nowhere = !is && !lstat(path, &link); /* a link to nothing */
    /* /dev/stdout is a link to what may be a regular file */
    if (!nowhere && (!is || S_ISREG(old.st_mode)) && strncmp(path, "/dev/", 5) &&
        strncmp(path, "/proc/", 6)) {
      const int status = open_regular(o, is ? &old : NULL);
      if (status)
        free(o->target);
      return status;
    }
  }
#endif
  errno = 0;
  o->file = fopen(path, "wb");
  return o->file ? FITS : cmd_cannot("write", path, OTHER);
}

/* The file ends; keep: it gets its name. 0: it is written, else errno says why not. */
static int output_end(cmd_output *o, int keep) {
  int failed = fflush(o->file) || ferror(o->file), why = errno;
  if (fclose(o->file) && !failed)
    failed = 1, why = errno;
#ifdef HAS_POSIX
  if (o->temp) {
    if (keep && !failed && rename(o->temp, o->target))
      failed = 1, why = errno;
    if (!keep || failed)
      unlink(o->temp);
    cmd_half(NULL, o->temp);
  }
#endif
  free(o->temp);
  free(o->target);
  errno = why;
  return failed;
}

int cmd_output_commit(cmd_output *o, int failed) {
  if (o->file != stdout)
    return output_end(o, !failed) || failed ? cmd_cannot("write", o->path, OTHER) : FITS;
  if (!failed)
    return FITS;
  return ferror(stdout) ? OTHER /* which main tells */
                        : cmd_cannot("write", "standard output", OTHER);
}

void cmd_output_drop(cmd_output *o) {
  if (o->file != stdout)
    output_end(o, 0);
}
