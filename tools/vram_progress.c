/* A line on the terminal for what takes longer than a second: what it does, and for how long. It is
   written by a signal, so that nothing has to ask what time it is. */
#include "vram_command.h"

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>

static const char *volatile doing; /* NULL: nothing */
static volatile sig_atomic_t seconds, limit, is_shown;

/* n in decimal, from where the result points on. */
static char *digits(char *end, unsigned n) {
  do
    *--end = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  return end;
}

static void put(const char *s, size_t n) {
  if (write(STDERR_FILENO, s, n) < 0)
    is_shown = 0; /* nobody looks */
}

static void tick(int number) {
  const int keep = errno;
  char text[24], *at;
  const char *what = doing;
  (void)number;
  if (!what)
    return;
  ++seconds;
  is_shown = 1;
  put("\r\033[K", 4);
  put(what, strlen(what));
  put(", ", 2);
  at = digits(text + sizeof text, (unsigned)seconds);
  put(at, (size_t)(text + sizeof text - at));
  if (limit) {
    put(" of ", 4);
    at = digits(text + sizeof text, (unsigned)limit);
    put(at, (size_t)(text + sizeof text - at));
  }
  put(" s", 2);
  alarm(1);
  errno = keep;
}

void cmd_progress(const char *what, uint64_t most) {
  struct sigaction action;
  if (!IS_TERMINAL(stderr))
    return;
  memset(&action, 0, sizeof action);
  action.sa_handler = tick;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, NULL);
  seconds = 0;
  limit = (sig_atomic_t)(most < 1000000 ? most : 0);
  doing = what;
  alarm(1);
}

void cmd_progress_end(void) {
  if (!doing)
    return;
  doing = NULL;
  alarm(0);
  if (is_shown)
    put("\r\033[K", 4);
  is_shown = 0;
}

#else

void cmd_progress(const char *what, uint64_t most) { (void)what, (void)most; }
void cmd_progress_end(void) {}

#endif
