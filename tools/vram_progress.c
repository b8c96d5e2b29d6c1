/* A line on the terminal for what takes longer than a second: what it does, and for how long. It is
   written by a signal, so that nothing has to ask what time it is. */
#include "vram_command.h"

#if defined(__unix__) || defined(__APPLE__)
#include <signal.h>
static volatile sig_atomic_t is_stopped;
#else
static volatile int is_stopped;
#endif
static int is_guest;

int cmd_is_guest(void) { return is_guest; }

void cmd_guest(void) {
  is_guest = 1;
  is_stopped = 0;
}

void cmd_guest_stop(void) { is_stopped = 1; }

int cmd_stopped(void) { return is_stopped; }

int cmd_is_dumb(void) {
  const char *term = getenv("TERM");
  return !term || !strcmp(term, "dumb");
}

#if defined(__unix__) || defined(__APPLE__)

static const char *volatile doing; /* NULL: nothing */
static volatile sig_atomic_t seconds, limit, is_shown;
static int doing_depth; /* begun inside one that has not ended */
static int is_stoppable;
static const char *volatile stopping;
enum { HALF = 4 }; /* files that a command writes at a time, at most */
static const char *volatile half[HALF];

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
  if (!IS_TERMINAL(stderr) || cmd_is_dumb())
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

/* The program ends by the signal, as others do: what is half written goes, and it says so. */
static void end(int number) {
  int i;
  doing = NULL;
  if (is_shown)
    put("\r\033[K", 4);
  for (i = 0; i < HALF; i++)
    if (half[i])
      unlink(half[i]);
  put("vram ", 5);
  put(stopping, strlen(stopping));
  put(": ended before there was a result\n", 34);
  signal(number, SIG_DFL);
  raise(number);
}

static void stop(int number) {
  if (is_stopped) /* the second one */
    end(number);
  is_stopped = 1;
}

/* of the terminal, and of what limits a program's time; not if ignored, as in the background */
static const int interrupts[] = {SIGINT, SIGTERM};

static void on_interrupts(void (*handler)(int)) {
  struct sigaction action, before;
  size_t i;
  for (i = 0; i < sizeof interrupts / sizeof *interrupts; i++) {
    if (sigaction(interrupts[i], NULL, &before) || before.sa_handler == SIG_IGN)
      continue;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(interrupts[i], &action, NULL);
  }
}

void cmd_interrupts(const char *command) {
  stopping = command;
  if (!is_guest)
    on_interrupts(end);
}

void cmd_half(const char *path, const char *gone) {
  int i;
  for (i = 0; i < HALF && half[i] != gone; i++)
    ;
  if (i < HALF)
    half[i] = path;
}

/* From the first search on: when it has ended its result is still to be printed. */
void cmd_stoppable(void) {
  if (!is_stoppable && !is_guest)
    on_interrupts(stop);
  is_stoppable = 1;
}

#else

void cmd_interrupts(const char *command) { (void)command; }
void cmd_half(const char *path, const char *gone) { (void)path, (void)gone; }
void cmd_stoppable(void) {}

void cmd_progress(const char *what, uint64_t most) { (void)what, (void)most; }
void cmd_progress_end(void) {}
void cmd_progress_over(void) {}

#endif

int cmd_stop(void *user) {
  (void)user;
  return cmd_stopped();
}
