/* What the library of tools/preload.c needs of the C library.

   The runtime of a sanitizer, in the program or in a library, stands before many functions of the C
   library. It calls dlsym, which is ours, when it is not ready for one of them, and believes that
   memory which this library has written was never written, or by two threads at once. So the
   functions here have names of the C library and are hidden: calls from this library come here.
   What is short is done here, the rest goes on to the C library itself, whoever stands before it.
 */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE   /* it would put functions of other names in their places */
#undef _FILE_OFFSET_BITS /* so would this */
#include "preload_libc.h"

#include <link.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>

/* ---- texts and memory. A loop with something in it that nobody knows is not made a call of the
   very function that it stands in. */
#define STEP __asm__ volatile("")

void *memcpy(void *restrict to, const void *restrict from, size_t n);
void *memmove(void *to, const void *from, size_t n);
void *memset(void *to, int value, size_t n);
int memcmp(const void *a, const void *b, size_t n);
size_t strlen(const char *text);
int strcmp(const char *a, const char *b);
char *strrchr(const char *text, int c);
size_t strspn(const char *text, const char *of);
size_t strcspn(const char *text, const char *of);

typedef uint64_t __attribute__((may_alias, aligned(1))) word;

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  char *t = (char *)to;
  const char *f = (const char *)from;
  for (; n >= sizeof(word); n -= sizeof(word), t += sizeof(word), f += sizeof(word)) {
    STEP;
    *(word *)(void *)t = *(const word *)(const void *)f;
  }
  for (; n; n--) {
    STEP;
    *t++ = *f++;
  }
  return to;
}

void *memmove(void *to, const void *from, size_t n) {
  char *t = (char *)to;
  const char *f = (const char *)from;
  if ((uintptr_t)t - (uintptr_t)f >= n)
    return memcpy(to, from, n);
  for (; n; n--) {
    STEP;
    t[n - 1] = f[n - 1];
  }
  return to;
}

void *memset(void *to, int value, size_t n) {
  const word all = UINT64_C(0x0101010101010101) * (unsigned char)value;
  char *t = (char *)to;
  for (; n >= sizeof(word); n -= sizeof(word), t += sizeof(word)) {
    STEP;
    *(word *)(void *)t = all;
  }
  for (; n; n--) {
    STEP;
    *t++ = (char)value;
  }
  return to;
}

int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
  for (; n && *x == *y; n--, x++, y++)
    STEP;
  return n ? *x - *y : 0;
}

size_t strlen(const char *text) {
  size_t n = 0;
  for (; text[n]; n++)
    STEP;
  return n;
}

int strcmp(const char *a, const char *b) {
  for (; *a && *a == *b; a++, b++)
    STEP;
  return (unsigned char)*a - (unsigned char)*b;
}

char *strrchr(const char *text, int c) {
  const char *found = NULL;
  for (;; text++) {
    STEP;
    if (*text == (char)c)
      found = text;
    if (!*text)
      return (char *)(uintptr_t)found;
  }
}

/* Characters at the beginning of the text that are (in 1) or are not among those. */
static size_t span(const char *text, const char *of, int in) {
  size_t n = 0, i;
  for (; text[n]; n++) {
    for (i = 0; of[i] && of[i] != text[n]; i++)
      STEP;
    if ((of[i] != 0) != in)
      break;
  }
  return n;
}

size_t strspn(const char *text, const char *of) { return span(text, of, 1); }
size_t strcspn(const char *text, const char *of) { return span(text, of, 0); }

/* ---- functions and variables that objects export */

typedef struct object_names {
  ElfW(Addr) base;
  const ElfW(Sym) * symbol;
  const char *text, *name; /* its own name, or "" */
  const uint32_t *gnu, *sysv;
} object_names;

/* 0: this library, or an object that has no names. */
static int names_of(object_names *o, ElfW(Addr) base, const ElfW(Dyn) * d) {
  ElfW(Xword) name = 0;
  o->base = base;
  o->symbol = NULL;
  o->text = NULL;
  o->gnu = o->sysv = NULL;
  if (!d || d == _DYNAMIC)
    return 0;
  for (; d->d_tag != DT_NULL; d++) {
    /* some loaders have added the base by now, others leave it as it is in the file */
    const ElfW(Addr) at = d->d_un.d_ptr < base ? d->d_un.d_ptr + base : d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB)
      o->symbol = (const ElfW(Sym) *)(uintptr_t)at;
    else if (d->d_tag == DT_STRTAB)
      o->text = (const char *)(uintptr_t)at;
    else if (d->d_tag == DT_GNU_HASH)
      o->gnu = (const uint32_t *)(uintptr_t)at;
    else if (d->d_tag == DT_HASH)
      o->sysv = (const uint32_t *)(uintptr_t)at;
    else if (d->d_tag == DT_SONAME)
      name = d->d_un.d_val;
  }
  if (!o->symbol || !o->text)
    return 0;
  o->name = name ? o->text + name : "";
  return 1;
}

static uint32_t gnu_hash(const char *name) {
  uint32_t h = 5381;
  while (*name)
    h = h * 33 + (unsigned char)*name++;
  return h;
}

static void *symbol_at(const object_names *o, uint32_t i, const char *name) {
  const ElfW(Sym) *s = &o->symbol[i];
  if (s->st_shndx == SHN_UNDEF || !s->st_value ||
      (ELF64_ST_TYPE(s->st_info) != STT_FUNC && ELF64_ST_TYPE(s->st_info) != STT_OBJECT) ||
      strcmp(o->text + s->st_name, name) != 0)
    return NULL;
  return (void *)(uintptr_t)(o->base + s->st_value);
}

static void *find_in(const object_names *o, const char *name) {
  const uint32_t *gnu = o->gnu, *bucket, *chain, hash = gnu_hash(name);
  void *found = NULL;
  uint32_t i;
  if (!gnu) {
    for (i = 0; o->sysv && i < o->sysv[1] && !found; i++)
      found = symbol_at(o, i, name);
    return found;
  }
  bucket = gnu + 4 + gnu[2] * (sizeof(ElfW(Addr)) / 4);
  chain = bucket + gnu[0];
  i = gnu[0] ? bucket[hash % gnu[0]] : 0;
  for (; i >= gnu[1] && i && !found; i++) {
    if ((chain[i - gnu[1]] | 1) == (hash | 1))
      found = symbol_at(o, i, name);
    if (chain[i - gnu[1]] & 1)
      break;
  }
  return found;
}

/* ---- the C library's own, whoever stands before them */

#define PASSED_ON(X)                                                                               \
  X(dl_iterate_phdr)                                                                               \
  X(secure_getenv)                                                                                 \
  X(clock_gettime)                                                                                 \
  X(open)                                                                                          \
  X(close)                                                                                         \
  X(read)                                                                                          \
  X(write)                                                                                         \
  X(readlink)                                                                                      \
  X(mmap)                                                                                          \
  X(munmap)                                                                                        \
  X(pthread_mutex_init)                                                                            \
  X(pthread_mutex_lock)                                                                            \
  X(pthread_mutex_unlock)                                                                          \
  X(swapcontext)                                                                                   \
  X(makecontext)

enum {
#define X(name) AT_##name,
  PASSED_ON(X)
#undef X
      PASSED_COUNT
};
static void *passed[PASSED_COUNT];
static dlsym_function next_dlsym;
static dlvsym_function next_dlvsym;
static int looked; /* 1: all these are set */

/* It has been in one library since 2.34, in three before. */
static int is_libc(const char *name) {
  static const char *const part[] = {"libc.so.", "libdl.so.", "libpthread.so."};
  size_t i, k;
  for (i = 0; i < sizeof part / sizeof *part; i++) {
    for (k = 0; part[i][k] && name[k] == part[i][k]; k++)
      ;
    if (!part[i][k])
      return 1;
  }
  return 0;
}

/* At the first call, which comes when the program begins: the list of objects is read without the
   loader's lock, as dl_iterate_phdr is not known yet. Two threads find the same. */
static void look(void) {
  static const char *const name[] = {
#define X(name) #name,
      PASSED_ON(X)
#undef X
  };
  const struct link_map *m;
  void *dlsym_at = NULL, *dlvsym_at = NULL;
  object_names o;
  size_t i;
  for (m = _r_debug.r_map; m; m = m->l_next) {
    if (!names_of(&o, m->l_addr, m->l_ld))
      continue;
    dlsym_at = dlsym_at ? dlsym_at : find_in(&o, "dlsym");
    dlvsym_at = dlvsym_at ? dlvsym_at : find_in(&o, "dlvsym");
    for (i = 0; i < PASSED_COUNT && is_libc(o.name); i++)
      if (!passed[i])
        passed[i] = find_in(&o, name[i]);
  }
  memcpy(&next_dlsym, &dlsym_at, sizeof dlsym_at);
  memcpy(&next_dlvsym, &dlvsym_at, sizeof dlvsym_at);
  __atomic_store_n(&looked, 1, __ATOMIC_RELEASE);
}

dlsym_function real_dlsym(void) {
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
    look();
  return next_dlsym;
}

dlvsym_function real_dlvsym(void) {
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
    look();
  return next_dlvsym;
}

/* NOLINTBEGIN(bugprone-macro-parentheses,readability-inconsistent-declaration-parameter-name):
   parameters of functions are no expressions, and the C library's have reserved names */
#define PASS(type, name, parameters, arguments)                                                    \
  type name parameters;                                                                            \
  type name parameters {                                                                           \
    type(*real) parameters;                                                                        \
    if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE))                                               \
      look();                                                                                      \
    memcpy(&real, &passed[AT_##name], sizeof real);                                                \
    return real arguments;                                                                         \
  }
typedef int phdr_function(struct dl_phdr_info *info, size_t size, void *user);
PASS(int, dl_iterate_phdr, (phdr_function * visit, void *user), (visit, user))
PASS(char *, secure_getenv, (const char *name), (name))
PASS(int, clock_gettime, (clockid_t clock, struct timespec *to), (clock, to))
PASS(int, open, (const char *path, int flags, ...), (path, flags)) /* no file is made here */
PASS(int, close, (int fd), (fd))
PASS(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
PASS(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
PASS(ssize_t, readlink, (const char *path, char *to, size_t n), (path, to, n))
PASS(void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t from),
     (at, n, prot, flags, fd, from))
PASS(int, munmap, (void *at, size_t n), (at, n))
PASS(int, pthread_mutex_init, (pthread_mutex_t * m, const pthread_mutexattr_t *a), (m, a))
PASS(int, pthread_mutex_lock, (pthread_mutex_t * m), (m))
PASS(int, pthread_mutex_unlock, (pthread_mutex_t * m), (m))
PASS(int, swapcontext, (ucontext_t * from, const ucontext_t *to), (from, to))

typedef void entry(void);
void makecontext(ucontext_t *c, entry *f, int n, ...) { /* of a function without parameters */
  void (*real)(ucontext_t *, entry *, int, ...);
  (void)n;
  if (!__atomic_load_n(&looked, __ATOMIC_ACQUIRE))
    look();
  memcpy(&real, &passed[AT_makecontext], sizeof real);
  real(c, f, 0);
}

/* The C library's own is found in another way than the rest: it is chosen by the machine. */
int gettimeofday(struct timeval *restrict to, void *restrict zone) {
  struct timespec now;
  (void)zone;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  to->tv_sec = now.tv_sec;
  to->tv_usec = now.tv_nsec / 1000;
  return 0;
}
/* NOLINTEND(bugprone-macro-parentheses,readability-inconsistent-declaration-parameter-name) */

/* ---- those of whoever has them */

typedef struct lookup {
  const char *name;
  void *found;
} lookup;

static int look_in(struct dl_phdr_info *info, size_t size, void *user) {
  lookup *l = (lookup *)user;
  const ElfW(Dyn) *d = NULL;
  object_names o;
  ElfW(Half) i;
  (void)size;
  for (i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
      d = (const ElfW(Dyn) *)(uintptr_t)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
  l->found = names_of(&o, info->dlpi_addr, d) ? find_in(&o, l->name) : NULL;
  return l->found != NULL;
}

void *find_anywhere(const char *name) {
  lookup l;
  l.name = name;
  l.found = NULL;
  dl_iterate_phdr(look_in, &l);
  return l.found;
}

int find_function(void *pointer, const char *name) {
  void *found = find_anywhere(name);
  memcpy(pointer, &found, sizeof found);
  return found != NULL;
}
