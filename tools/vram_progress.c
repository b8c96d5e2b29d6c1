/* A line on the terminal for what takes longer than a second: what it does, and for how long. It is
   written by a signal, so that nothing has to ask what time it is. */
#include "vram_command.h"

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>

static const char *volatile doing; /* NULL: nothing */
static volatile sig_atomic_t seconds, limit, is_shown, is_stopped;
static int doing_depth, stop_depth; /* begun inside one that has not ended */

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
  if (is_stopped)
    put(", ending", 8);
  alarm(1);
  errno = keep;
}

void cmd_progress(const char *what, uint64_t most) {
  struct sigaction action;
  if (!IS_TERMINAL(stderr))
    return;
  if (doing) {
    doing_depth++;
    return;
  }
  doing_depth = 0;
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
  if (doing && doing_depth)
    doing_depth--;
  else
    cmd_progress_over();
}

void cmd_progress_over(void) {
  if (!doing)
    return;
  doing = NULL;
  alarm(0);
  if (is_shown)
    put("\r\033[K", 4);
  is_shown = 0;
}

static void stop(int number) {
  (void)number;
  is_stopped = 1;
}

void cmd_stop_begin(void) {
  struct sigaction action, before;
  if (stop_depth++ || is_stopped || sigaction(SIGINT, NULL, &before) ||
      before.sa_handler == SIG_IGN)
    return; /* ignored: in the background */
  memset(&action, 0, sizeof action);
  action.sa_handler = stop;
  action.sa_flags = (int)(SA_RESTART | SA_RESETHAND); /* the second one ends it */
  sigaction(SIGINT, &action, NULL);
}

void cmd_stop_end(void) {
  struct sigaction now;
  if (!--stop_depth && !sigaction(SIGINT, NULL, &now) && now.sa_handler == stop)
    signal(SIGINT, SIG_DFL);
}

int cmd_stopped(void) { return is_stopped; }

#else

void cmd_stop_begin(void) {}
void cmd_stop_end(void) {}
int cmd_stopped(void) { return 0; }
void cmd_progress(const char *what, uint64_t most) { (void)what, (void)most; }
void cmd_progress_end(void) {}
void cmd_progress_over(void) {}

#endif

int cmd_stop(void *user) {
  (void)user;
  return cmd_stopped();
}
