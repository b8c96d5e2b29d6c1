/* What tools/vram_*.c ask of C's library, in WebAssembly: memory, words, numbers and files, all but
   what vram.mjs gives: the bytes of files, and doubles of text. Each run of the command begins with
   the memory as it was loaded: nothing is left of the one before. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define IMPORT(name) __attribute__((import_module("vram"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))

/* a file's number, or less than 0: -errno */
IMPORT(open) int web_open(const char *path, size_t n, int writes);
IMPORT(size) double web_size(int file);
IMPORT(read) int web_read(int file, double at, void *to, size_t n); /* bytes; or -errno */
IMPORT(write) int web_write(int file, const void *from, size_t n);  /* 0, or -errno */
IMPORT(close) void web_close(int file);
IMPORT(number) double web_number(const char *s, size_t n);
IMPORT(now) double web_now(void); /* milliseconds since 1970 */
IMPORT(exit) _Noreturn void web_exit(int status);

int errno;

/* ---- memory ----
   Blocks of 16 bytes and more, four sizes to each power of two; what is freed is kept by its size.
   The header of a block is its size class. */

enum { PAGE = 65536, CLASSES = 4 * 29, HEADER = 16 };
extern unsigned char __heap_base;
static unsigned char *heap_end;
static void *heap_free[CLASSES];

static size_t class_bytes(unsigned k) { return (size_t)(4 + k % 4) << (k / 4 + 2); }

static unsigned class_of(size_t n) {
  unsigned k = 0;
  if (n > 16) {
    const unsigned top = 31U - (unsigned)__builtin_clz((unsigned)n - 1); /* 4 and more */
    k = 4 * (top - 4) + (unsigned)((n - 1) >> (top - 2) & 3) + 1;
  }
  return k;
}

void *malloc(size_t n) {
  const unsigned k = n <= (size_t)1 << 30 ? class_of(n) : 0;
  const size_t bytes = (HEADER + class_bytes(k) + 15) & ~(size_t)15;
  unsigned char *p;
  if (n > (size_t)1 << 30) {
    errno = ENOMEM;
    return NULL;
  }
  if (heap_free[k]) {
    p = (unsigned char *)heap_free[k];
    heap_free[k] = *(void **)p;
    return p;
  }
  if (!heap_end)
    heap_end = (unsigned char *)(((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15);
  {
    const size_t have = __builtin_wasm_memory_size(0) * (size_t)PAGE - (uintptr_t)heap_end;
    if (have < bytes) {
      /* by a sixteenth at least: each growth of the memory costs its caller new views of it */
      const size_t pages = (bytes - have + PAGE - 1) / PAGE,
                   more = __builtin_wasm_memory_size(0) / 16 + 16;
      if ((pages > more || __builtin_wasm_memory_grow(0, more) == (size_t)-1) &&
          __builtin_wasm_memory_grow(0, pages) == (size_t)-1) {
        errno = ENOMEM;
        return NULL;
      }
    }
  }
  p = heap_end + HEADER;
  heap_end += bytes;
  *(unsigned *)(void *)(p - HEADER) = k;
  return p;
}

void free(void *p) {
  if (p) {
    const unsigned k = *(unsigned *)(void *)((unsigned char *)p - HEADER);
    *(void **)p = heap_free[k];
    heap_free[k] = p;
  }
}

void *calloc(size_t n, size_t size) {
  void *const p = size && n > SIZE_MAX / size ? NULL : malloc(n * size);
  if (p)
    memset(p, 0, n * size);
  else
    errno = ENOMEM;
  return p;
}

void *realloc(void *old, size_t n) {
  const size_t had = old ? class_bytes(*(unsigned *)(void *)((unsigned char *)old - HEADER)) : 0;
  void *p = old;
  if (old && n <= had && n > had / 4)
    return old;
  p = malloc(n);
  if (p && old) {
    memcpy(p, old, n < had ? n : had);
    free(old);
  }
  return p;
}

/* ---- bytes and words ---- */

void *memcpy(void *to, const void *from, size_t n) {
  return __builtin_memcpy(to, from, n); /* one instruction, as are the next two */
}
void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }
void *memset(void *to, int c, size_t n) { return __builtin_memset(to, c, n); }

int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
  for (; n; n--, x++, y++)
    if (*x != *y)
      return *x - *y;
  return 0;
}

void *memchr(const void *s, int c, size_t n) {
  const unsigned char *x = (const unsigned char *)s;
  for (; n; n--, x++)
    if (*x == (unsigned char)c)
      return (void *)(uintptr_t)x;
  return NULL;
}

size_t strlen(const char *s) {
  const char *end = s;
  while (*end)
    end++;
  return (size_t)(end - s);
}

int strncmp(const char *a, const char *b, size_t n) {
  for (; n; n--, a++, b++)
    if (*a != *b || !*a)
      return (unsigned char)*a - (unsigned char)*b;
  return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

char *strcpy(char *to, const char *from) { return (char *)memcpy(to, from, strlen(from) + 1); }

char *strchr(const char *s, int c) {
  for (; *s != (char)c; s++)
    if (!*s)
      return NULL;
  return (char *)(uintptr_t)s;
}

char *strrchr(const char *s, int c) {
  const char *last = NULL;
  do
    if (*s == (char)c)
      last = s;
  while (*s++);
  return (char *)(uintptr_t)last;
}

char *strstr(const char *s, const char *word) {
  const size_t n = strlen(word);
  for (; (s = n ? strchr(s, *word) : s) != NULL; s++)
    if (!strncmp(s, word, n))
      return (char *)(uintptr_t)s;
  return NULL;
}

size_t strcspn(const char *s, const char *set) {
  size_t n = 0;
  while (s[n] && !strchr(set, s[n]))
    n++;
  return n;
}

size_t strspn(const char *s, const char *set) {
  size_t n = 0;
  while (s[n] && strchr(set, s[n]))
    n++;
  return n;
}

char *strpbrk(const char *s, const char *set) {
  s += strcspn(s, set);
  return *s ? (char *)(uintptr_t)s : NULL;
}

char *strerror(int number) {
  static const struct {
    int number;
    const char *text;
  } list[] = {{ENOENT, "No such file or directory"},
              {EIO, "Input/output error"},
              {ENOMEM, "Cannot allocate memory"},
              {EACCES, "Permission denied"},
              {EISDIR, "Is a directory"},
              {ENFILE, "Too many open files in system"},
              {EMFILE, "Too many open files"}};
  size_t i;
  for (i = 0; i < sizeof list / sizeof *list; i++)
    if (list[i].number == number)
      return (char *)(uintptr_t)list[i].text;
  return (char *)(uintptr_t) "Unknown error";
}

/* ---- order: equal ones stay in theirs, as the C library of Linux has it ---- */

static void merge(unsigned char *a, unsigned char *b, size_t n, size_t size,
                  int (*order)(const void *, const void *)) {
  const size_t half = n / 2;
  size_t i = 0, j = half, k;
  if (n < 2)
    return;
  merge(a, b, half, size, order);
  merge(a + half * size, b, n - half, size, order);
  memcpy(b, a, half * size);
  for (k = 0; i < half; k++)
    if (j < n && order(b + i * size, a + j * size) > 0)
      memcpy(a + k * size, a + j++ * size, size);
    else
      memcpy(a + k * size, b + i++ * size, size);
}

void qsort(void *base, size_t n, size_t size, int (*order)(const void *, const void *)) {
  void *const beside = n > 1 ? malloc((n / 2) * size) : NULL;
  if (n > 1 && !beside)
    abort();
  merge((unsigned char *)base, (unsigned char *)beside, n, size, order);
  free(beside);
}

/* ---- numbers ---- */

long long strtoll(const char *s, char **end, int base) {
  const char *const begin = s, *digits;
  unsigned long long n = 0;
  int minus;
  while (*s == ' ' || (*s >= '\t' && *s <= '\r'))
    s++;
  minus = *s == '-';
  if (*s == '-' || *s == '+')
    s++;
  for (digits = s; *s >= '0' && *s < '0' + base; s++) /* base: 10 at most */
    n = n > (unsigned long long)(INT64_MAX / 10) - 1 ? INT64_MAX : n * 10 + (unsigned)(*s - '0');
  if (end)
    *end = (char *)(uintptr_t)(s == digits ? begin : s);
  return minus ? -(long long)n : (long long)n;
}

long strtol(const char *s, char **end, int base) {
  const long long n = strtoll(s, end, base);
  return n > INT32_MAX ? INT32_MAX : n < INT32_MIN ? INT32_MIN : (long)n;
}

static const char *digits_end(const char *s) {
  while (*s >= '0' && *s <= '9')
    s++;
  return s;
}

double strtod(const char *s, char **end) {
  const char *const begin = s, *from, *to, *more;
  while (*s == ' ' || (*s >= '\t' && *s <= '\r'))
    s++;
  from = s;
  if (*s == '-' || *s == '+')
    s++;
  to = digits_end(s);
  if (*to == '.') {
    more = digits_end(to + 1);
    to = more - 1 > to || to > s ? more : s;
  }
  if (to == s) {
    if (end)
      *end = (char *)(uintptr_t)begin;
    return 0;
  }
  if (*to == 'e' || *to == 'E') {
    more = to + 1 + (to[1] == '-' || to[1] == '+');
    if (digits_end(more) > more)
      to = digits_end(more);
  }
  if (end)
    *end = (char *)(uintptr_t)to;
  return web_number(from, (size_t)(to - from));
}

double frexp(double x, int *exponent) {
  union {
    double x;
    uint64_t bits;
  } u = {x};
  const int e = (int)(u.bits >> 52 & 0x7ff);
  *exponent = 0;
  if (x == 0 || e == 0x7ff)
    return x;
  if (!e) {
    x = frexp(x * 0x1p64, exponent);
    *exponent -= 64;
    return x;
  }
  *exponent = e - 1022;
  u.bits = (u.bits & ~((uint64_t)0x7ff << 52)) | (uint64_t)1022 << 52;
  return u.x;
}

/* What the compiler calls for products whose overflow is asked for. */
typedef unsigned __int128 wide;
wide __multi3(wide a, wide b);
wide __multi3(wide a, wide b) {
  const uint64_t x = (uint64_t)a, y = (uint64_t)b, low = 0xffffffffU;
  const uint64_t ll = (x & low) * (y & low), lh = (x & low) * (y >> 32), hl = (x >> 32) * (y & low);
  const uint64_t middle = (ll >> 32) + (lh & low) + (hl & low);
  const uint64_t high = (x >> 32) * (y >> 32) + (lh >> 32) + (hl >> 32) + (middle >> 32) +
                        x * (uint64_t)(b >> 64) + (uint64_t)(a >> 64) * y;
  return (wide)high << 64 | ((ll & low) | middle << 32);
}

/* ---- time, the process ---- */

time_t time(time_t *to) {
  const time_t t = (time_t)(web_now() / 1000);
  if (to)
    *to = t;
  return t;
}

int clock_gettime(int which, struct timespec *to) {
  const double now = web_now();
  (void)which;
  to->tv_sec = (time_t)(now / 1000);
  to->tv_nsec = (long)((now - (double)to->tv_sec * 1000) * 1e6);
  return 0;
}

char *getenv(const char *name) {
  (void)name;
  return NULL;
}

void exit(int status) {
  fflush(NULL);
  web_exit(status);
}

void abort(void) { __builtin_trap(); }

/* ---- files ---- */

enum { FILES = 16, BUFFER = 16384 };
struct web_file {
  int is_open, number, writes, failed;
  off_t at;         /* of the next byte to be read */
  size_t have, use; /* of the buffer: bytes, those that are read; or that wait to be written */
  unsigned char buffer[BUFFER];
};
static FILE file[FILES] = {{.is_open = 1},
                           {.is_open = 1, .number = 1, .writes = 1},
                           {.is_open = 1, .number = 2, .writes = 1}};
FILE *const stdin = &file[0], *const stdout = &file[1], *const stderr = &file[2];

FILE *fopen(const char *path, const char *mode) {
  FILE *f = file;
  while (f < file + FILES && f->is_open)
    f++;
  if (f == file + FILES) {
    errno = EMFILE;
    return NULL;
  }
  memset(f, 0, offsetof(FILE, buffer));
  f->writes = *mode != 'r';
  f->number = web_open(path, strlen(path), f->writes);
  if (f->number < 0) {
    errno = -f->number;
    return NULL;
  }
  f->is_open = 1;
  return f;
}

int fflush(FILE *f) {
  if (!f) {
    int failed = 0;
    for (f = file; f < file + FILES; f++)
      failed |= f->is_open && fflush(f);
    return failed ? EOF : 0;
  }
  if (f->writes && f->have) {
    const int status = web_write(f->number, f->buffer, f->have);
    f->have = 0;
    if (status < 0) {
      errno = -status;
      f->failed = 1;
    }
  }
  return f->failed ? EOF : 0;
}

int fclose(FILE *f) {
  const int failed = f->writes ? fflush(f) : 0;
  web_close(f->number);
  f->is_open = 0;
  return failed;
}

int ferror(FILE *f) { return f->failed; }

int setvbuf(FILE *f, char *buffer, int mode, size_t bytes) {
  (void)f, (void)buffer, (void)mode, (void)bytes;
  return 0;
}

/* Bytes that the host has from f->at on; 0 at the end. */
static size_t read_more(FILE *f, void *to, size_t n) {
  const int got = web_read(f->number, (double)f->at, to, n < INT32_MAX ? n : INT32_MAX);
  if (got < 0) {
    errno = -got;
    f->failed = 1;
    return 0;
  }
  f->at += got;
  return (size_t)got;
}

size_t fread(void *to, size_t size, size_t n, FILE *f) {
  const size_t want = size * n;
  size_t done = 0;
  while (done < want) {
    size_t some = f->have - f->use;
    if (!some && want - done >= BUFFER) { /* large: past the buffer */
      some = read_more(f, (char *)to + done, want - done);
      done += some;
    } else if (some) {
      some = some < want - done ? some : want - done;
      memcpy((char *)to + done, f->buffer + f->use, some);
      f->use += some;
      done += some;
    } else {
      f->use = 0;
      some = f->have = read_more(f, f->buffer, BUFFER);
    }
    if (!some)
      break;
  }
  return size ? done / size : 0;
}

size_t fwrite(const void *from, size_t size, size_t n, FILE *f) {
  const char *s = (const char *)from;
  size_t left = size * n;
  while (left) {
    const size_t room = BUFFER - f->have, some = left < room ? left : room;
    memcpy(f->buffer + f->have, s, some);
    f->have += some;
    s += some;
    left -= some;
    if (f->have == BUFFER && fflush(f))
      return 0;
  }
  return f == stderr && fflush(f) ? 0 : n;
}

int fseeko(FILE *f, off_t offset, int from) {
  const off_t now = f->at - (off_t)(f->have - f->use);
  off_t to = offset + (from == SEEK_END ? (off_t)web_size(f->number) : from == SEEK_CUR ? now : 0);
  if (f->writes || to < 0 || f == stdin)
    return -1;
  if (to >= f->at - (off_t)f->have && to <= f->at) {
    f->use = f->have - (size_t)(f->at - to);
    return 0;
  }
  f->have = f->use = 0;
  f->at = to;
  return 0;
}

int fseek(FILE *f, long offset, int from) { return fseeko(f, offset, from); }
off_t ftello(FILE *f) { return f->at - (off_t)(f->have - f->use); }
long ftell(FILE *f) { return ftello(f) > INT32_MAX ? -1 : (long)ftello(f); }

char *fgets(char *to, int n, FILE *f) {
  int i = 0;
  while (i < n - 1 && fread(to + i, 1, 1, f) == 1)
    if (to[i++] == '\n')
      break;
  to[i] = 0;
  return i ? to : NULL;
}

int fputc(int c, FILE *f) {
  const unsigned char byte = (unsigned char)c;
  return fwrite(&byte, 1, 1, f) == 1 ? byte : EOF;
}
int putc(int c, FILE *f) { return fputc(c, f); }
int putchar(int c) { return fputc(c, stdout); }
int fputs(const char *s, FILE *f) {
  const size_t n = strlen(s);
  return fwrite(s, 1, n, f) == n ? 0 : EOF;
}
int puts(const char *s) { return fputs(s, stdout) || fputc('\n', stdout) == EOF ? EOF : 0; }

/* ---- the command ---- */

int main(int argc, char **argv);

/* Room for n bytes of the caller, before the command runs. */
EXPORT(room) void *web_room(size_t n) { return malloc(n); }

/* argc words, each with its end, in one room. */
EXPORT(run) int web_run(int argc, char *words) {
  char **argv = (char **)malloc(((size_t)argc + 1) * sizeof *argv);
  int i, status;
  if (!argv)
    return 1;
  for (i = 0; i < argc; i++, words += strlen(words) + 1)
    argv[i] = words;
  argv[argc] = NULL;
  status = main(argc, argv);
  fflush(NULL);
  return status;
}
