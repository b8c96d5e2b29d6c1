/* A library that stands in front of CUDA, too, behind vram's, and reaches what comes next as such
   libraries do. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static int calls;
int cudaMalloc(void **p, size_t n) {
  static int (*real)(void **, size_t);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "cudaMalloc");
  calls++;
  return real(p, n);
}
/* a function that vram has nothing to do with: what is next must not be this one */
char *getenv(const char *name) {
  static char *(*real)(const char *);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "getenv");
  return real(name);
}
__attribute__((destructor)) static void end(void) { fprintf(stderr, "other: %d calls\n", calls); }
