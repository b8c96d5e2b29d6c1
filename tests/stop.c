/* LD_PRELOAD: the terminal interrupts (STOP_AT: so many calls of free() later) where the program
   has said that it would then end with the best so far; STOP_BY: the number of another signal. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

static long left = -1;
static int handlers; /* the first one is of what has no best so far */

/* what runs in the background inherits that interrupts are ignored */
__attribute__((constructor)) static void heard(void) { signal(SIGINT, SIG_DFL); }

static void due(void) {
  const char *by = getenv("STOP_BY");
  if (left >= 0 && left-- == 0)
    raise(by ? atoi(by) : SIGINT);
}

int sigaction(int number, const struct sigaction *action, struct sigaction *before) {
  int (*real)(int, const struct sigaction *, struct sigaction *);
  const char *at = getenv("STOP_AT");
  int r;
  *(void **)&real = dlsym(RTLD_NEXT, "sigaction");
  r = real(number, action, before);
  if (number == SIGTERM && action && action->sa_handler != SIG_DFL && handlers++ == 1) {
    left = at ? atol(at) : 0;
    if (!left)
      due();
  }
  return r;
}

void free(void *p) {
  static void (*real)(void *);
  if (!real)
    *(void **)&real = dlsym(RTLD_NEXT, "free");
  due();
  real(p);
}
