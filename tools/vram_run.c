/* vram run: a program with the library of tools/preload.c in front of CUDA, and the report of what
   it allocated, from the memory that both share (tools/preload.h), at its end and on the way. */
#include "vram_run.h"

cmd_text help_run = {
    "vram run [options] -- PROGRAM [ARGUMENTS]   what an unmodified program allocates\n"
    "\n"
    "  --report FILE         the report goes there (default: standard error)\n"
    "  --json                the report is one JSON object\n"
    "  --snapshot FILE       the last 131,072 events and what is left, for\n"
    "                        pytorch.org/memory_viz (JSON if it ends with .json); of\n"
    "                        the process that had most\n"
    "  --stack N             callers by N return addresses (default 1, up to 32)\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "while it runs\n"
    "  --every SECONDS       a report every so often\n"
    "  --on-signal SIGNAL    a report when this command gets the signal: USR1, USR2,\n"
    "                        HUP or QUIT (the program does not get it)\n"
    "  --on-failure          a report when an allocation fails\n"
    "  --metrics FILE        a page for Prometheus (the textfile collector of\n"
    "                        node_exporter: FILE.prom), there whole at any time\n"
    "  --metrics-every SECONDS\n"
    "                        how often (default 15)\n"
    "With --report FILE a report takes the place of the one before; %n in FILE is its\n"
    "number, and each is kept.\n"
    "\n"
    "The program runs as it is. Calls of the CUDA runtime and driver are counted,\n"
    "also those of a static runtime, through dlsym and cuGetProcAddress, and of the\n"
    "processes that it starts; each process has its own part of the report, which is\n"
    "there however it ended. Counters have PyTorch's names: reserved_bytes is what\n"
    "the device had to give. A caller is FILE:LINE of the Python program, or of the\n"
    "source where debug information and addr2line or llvm-symbolizer are there, else\n"
    "MODULE+0xOFFSET; functions are those of symbols, also of separate debug files.\n"
    "Behind them stands the range of NVTX that the thread is in\n"
    "(NVTX_INJECTION64_PATH is set, if it is not).\n"
    "Memory of the CUDA context, of kernels and libraries is not allocated by calls:\n"
    "the device shows more.\n"
    "Environment: VRAM_PRELOAD, the library (default: libvram_preload.so beside this\n"
    "command or in ../lib/vram).\n"
    "Exit status: the program's, 128 + N if signal N ended it; 127, 126: it cannot be\n"
    "run; 2 usage; 1 other.\n",
    NULL};

const char *const run_signal_name[] = {"USR1", "USR2", "HUP", "QUIT", NULL};

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#include "vram_symbols.h"
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int memfd_create(const char *name, unsigned flags); /* POSIX has none */

enum { RUN_NOT_FOUND = 127, RUN_NOT_RUN = 126, RUN_SIGNALLED = 128 };

static volatile sig_atomic_t run_child;

/* What the terminal sends, the program gets itself. */
static void run_pass_on(int number, siginfo_t *info, void *context) {
  const int keep = errno;
  (void)context;
  if (run_child > 0 && info->si_code <= 0)
    (void)kill((pid_t)run_child, number);
  errno = keep;
}

/* The folder of this command. */
static int run_here(char *to, size_t cap) {
  const ssize_t n = readlink("/proc/self/exe", to, cap - 1);
  char *slash;
  if (n <= 0)
    return 0;
  to[n] = 0;
  slash = strrchr(to, '/');
  if (slash)
    *slash = 0;
  return slash != NULL;
}

/* Where the library is; not FITS: error printed. */
static int run_library(run_state *s) {
  const char *asked = getenv("VRAM_PRELOAD");
  static const char *const place[] = {"%s/libvram_preload.so", "%s/../lib/vram/libvram_preload.so"};
  char here[3072];
  size_t i;
  int found;
  if (asked && *asked) { /* the program may go to another folder */
    snprintf(s->library, sizeof s->library, "%s%s%s",
             *asked != '/' && getcwd(here, sizeof here) ? here : "", *asked != '/' ? "/" : "",
             asked);
    errno = 0;
    if (access(s->library, R_OK))
      return cmd_cannot("open", s->library, OTHER);
  } else {
    found = 0;
    for (i = 0; !found && run_here(here, sizeof here) && i < sizeof place / sizeof *place; i++) {
      snprintf(s->library, sizeof s->library, place[i], here);
      found = !access(s->library, R_OK);
    }
    if (!found) {
      cmd_say("vram: no libvram_preload.so beside this command or in ../lib/vram (make builds it; "
              "or VRAM_PRELOAD=FILE)");
      return OTHER;
    }
  }
  if (strpbrk(s->library, " :")) {
    cmd_say("vram: '%s' has a blank or a colon, which LD_PRELOAD cannot take (VRAM_PRELOAD="
            "FILE names a copy)",
            s->library);
    return OTHER;
  }
  return FITS;
}

/* Who calls may have closed 0, 1 or 2. The program finds them so; here something stands there that
   can be neither read nor written, or a file of ours would get what is meant for standard error. */
static int run_above(int fd) {
  int above;
  if (fd < 0 || fd > 2)
    return fd;
  above = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  close(fd);
  return above;
}

static void run_hold_low(void) {
  int fd;
  do
    fd = open("/", O_CLOEXEC); /* to read */
  while (fd >= 0 && fd <= 2);
  if (fd >= 0)
    close(fd);
}

/* Makes the file as long as it must be, and for ever: nobody who maps it can be surprised by its
   end. 0: errno says why. */
static int run_extend(int fd) {
  enum { ADD_SEALS = 1033, SEAL_SEAL = 1, SEAL_SHRINK = 2, SEAL_GROW = 4 };
  const off_t bytes = (off_t)(RUN_HEAD + RUN_SECTIONS * RUN_SPAN);
  struct sigaction ignore, old;
  int done;
  memset(&ignore, 0, sizeof ignore);
  ignore.sa_handler = SIG_IGN; /* a limit for files is an error like others */
  sigaction(SIGXFSZ, &ignore, &old);
  done = !ftruncate(fd, bytes);
  sigaction(SIGXFSZ, &old, NULL);
  if (done) /* a file of another sort cannot be sealed */
    (void)fcntl(fd, ADD_SEALS, SEAL_SEAL | SEAL_SHRINK | SEAL_GROW);
  return done;
}

/* The shared file, empty; not FITS: error printed. */
static int run_share(run_state *s) {
  enum { CLOSED_BY_EXEC = 1, CAN_BE_SEALED = 2 };
  FILE *other;
  errno = 0;
  s->fd = run_above(memfd_create("vram-run", CLOSED_BY_EXEC | CAN_BE_SEALED));
  if (s->fd < 0) { /* before Linux 3.17 */
    other = tmpfile();
    s->fd = other ? fcntl(fileno(other), F_DUPFD_CLOEXEC, 3) : -1;
    if (other)
      fclose(other);
  }
  s->file.magic = RUN_MAGIC;
  s->file.layout = RUN_LAYOUT;
  s->file.trace = s->snapshot != NULL;
  s->file.stack = s->stack;
  if (s->fd < 0 || !run_extend(s->fd) ||
      pwrite(s->fd, &s->file, sizeof s->file, 0) != (ssize_t)sizeof s->file)
    return cmd_cannot("make", "shared memory", OTHER);
  return FITS;
}

/* Puts a word before what the variable has; 0: no memory. */
static int run_before(const char *variable, const char *word) {
  const char *old = getenv(variable);
  const size_t n = strlen(word) + (old ? strlen(old) : 0) + 2;
  char *text = (char *)malloc(n);
  int done;
  if (!text)
    return 0;
  snprintf(text, n, "%s%s%s", word, old && *old ? ":" : "", old ? old : "");
  done = !setenv(variable, text, 1);
  free(text);
  return done;
}

static void run_become(const run_state *s, const char *file, int tell) {
  int why;
  (void)sigaction(SIGCHLD, &s->children, NULL);
  /* a shared ASan would be first of all libraries; it can be second, the library has none of its
     functions */
  if (run_before("LD_PRELOAD", s->library) &&
      run_before("ASAN_OPTIONS", "verify_asan_link_order=0") && !setenv(RUN_VARIABLE, file, 1) &&
      !setenv("NVTX_INJECTION64_PATH", s->library, 0)) /* whose it is already, it stays */
    execvp(s->program, s->argv);
  why = errno;
  if (write(tell, &why, sizeof why) < 0)
    why = 0;
  _exit(why == ENOENT ? RUN_NOT_FOUND : RUN_NOT_RUN);
}

static const int run_passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { RUN_PASSED = sizeof run_passed / sizeof *run_passed };

/* They are passed on, or do what they do by themselves; those that are ignored, and the one that
   asks for a report, stay so. */
static void run_passing(const run_state *s, int on) {
  struct sigaction action, old;
  size_t i;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  if (on) {
    action.sa_sigaction = run_pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
  }
  for (i = 0; i < RUN_PASSED; i++)
    if (run_passed[i] != s->on_signal && !sigaction(run_passed[i], NULL, &old) &&
        old.sa_handler != SIG_IGN)
      (void)sigaction(run_passed[i], &action, NULL);
}

/* 0: it cannot be waited for, errno says why. */
static int run_end_of(pid_t child, int *status) {
  pid_t ended;
  do
    ended = waitpid(child, status, 0);
  while (ended < 0 && errno == EINTR);
  run_child = 0;
  return ended == child;
}

enum { RUN_PAGE = RUN_FAILURE + 1 }; /* asked for: not a report, but the page of --metrics */
static int run_tell(run_state *s, int what);

static double run_clock(void) {
  struct timespec now = {0, 0};
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* When the program was seen to have ended, which may be during a report; 0: it runs. */
static double run_ended;

static void run_see_end(void) {
  siginfo_t info;
  memset(&info, 0, sizeof info);
  if (!(run_ended > 0) && run_child > 0 &&
      !waitid(P_PID, (id_t)run_child, &info, WEXITED | WNOHANG | WNOWAIT) &&
      info.si_pid == (pid_t)run_child)
    run_ended = run_clock();
}

/* Of all processes, failed allocations whose report is there. */
static uint32_t run_all_failures(const run_state *s) {
  uint32_t i, n = 0;
  for (i = 0; i < run_parts(s); i++)
    n += run_failures(s, i);
  return n;
}

/* Reports while the program runs, until it ends. What goes wrong with one is said; the program goes
   on. SIGCHLD and the signal that asks are blocked. */
static void run_attend(run_state *s, double from) {
  const struct timespec moment = {0, 100000000};
  double now = from, report_at = from, page_at = from;
  uint32_t failures = 0, seen;
  sigset_t wanted;
  int number = 0;
  sigemptyset(&wanted);
  sigaddset(&wanted, SIGCHLD);
  if (s->on_signal)
    sigaddset(&wanted, s->on_signal);
  for (;;) {
    run_see_end();
    if (run_ended > 0)
      return;
    now = run_clock();
    s->seconds = now - from;
    if (s->on_signal && number == s->on_signal)
      (void)run_tell(s, RUN_SIGNAL);
    if (s->on_failure) {
      const int heard = cmd_hush(1); /* what is wrong is said where a report is written */
      const int is_there = run_again(s) == FITS;
      cmd_hush(heard);
      seen = is_there ? run_all_failures(s) : failures;
      if (seen != failures)
        (void)run_tell(s, RUN_FAILURE);
      failures = seen;
    }
    if (s->every && now - report_at >= (double)s->every) {
      report_at = now;
      (void)run_tell(s, RUN_EVERY);
    }
    if (s->metrics && now >= page_at) {
      page_at = now + (double)s->metrics_every;
      (void)run_tell(s, RUN_PAGE);
    }
    number = sigtimedwait(&wanted, NULL, &moment);
  }
}

/* Runs it to its end; not FITS: it was not run, error printed. */
static int run_wait(run_state *s) {
  const int attended = s->every || s->metrics || s->on_signal || s->on_failure;
  sigset_t block, keep;
  double from;
  char file[64];
  int ends[2], why = 0, ended;
  size_t i;
  ssize_t n;
  pid_t child;
  snprintf(file, sizeof file, "/proc/%ld/fd/%d", (long)getpid(), s->fd);
  if (pipe(ends))
    return cmd_cannot("make", "a pipe", OTHER);
  ends[0] = run_above(ends[0]);
  ends[1] = run_above(ends[1]);
  if (ends[0] < 0 || ends[1] < 0)
    return cmd_cannot("make", "a pipe", OTHER);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  fflush(NULL);
  sigemptyset(&block);
  for (i = 0; i < RUN_PASSED; i++)
    sigaddset(&block, run_passed[i]);
  if (attended)
    sigaddset(&block, SIGCHLD);
  if (s->on_signal)
    sigaddset(&block, s->on_signal);
  sigprocmask(SIG_BLOCK, &block, &keep);
  s->mask = keep;
  from = run_clock();
  child = fork();
  if (!child) {
    close(ends[0]);
    sigprocmask(SIG_SETMASK, &keep, NULL);
    run_become(s, file, ends[1]);
  }
  run_hold_low();
  close(ends[1]);
  if (child < 0)
    return cmd_cannot("start", s->program, OTHER);
  run_child = (sig_atomic_t)child;
  run_passing(s, 1);
  if (attended)
    sigaddset(&keep, SIGCHLD);
  if (s->on_signal)
    sigaddset(&keep, s->on_signal);
  sigprocmask(SIG_SETMASK, &keep, NULL);
  n = read(ends[0], &why, sizeof why);
  close(ends[0]);
  if (attended && n != (ssize_t)sizeof why)
    run_attend(s, from);
  ended = run_end_of(child, &s->status);
  s->seconds = (run_ended > 0 ? run_ended : run_clock()) - from;
  if (!ended)
    return cmd_cannot("wait for", s->program, OTHER);
  if (n != (ssize_t)sizeof why)
    return FITS;
  errno = why;
  return cmd_cannot("run", s->program, WEXITSTATUS(s->status));
}

/* ---- reports: by a process of its own, which knows the names that it has looked up. Whatever
   comes between, the program's status is known. */

typedef struct run_order {
  int what, status;
  uint32_t number;
  double seconds;
} run_order;

static int run_do(run_state *s, const run_order *o) {
  static int page; /* how the last one ended: the same error is said once, and at the end */
  int status;
  s->reason = o->what == RUN_PAGE ? RUN_EVERY : (run_reason)o->what;
  s->status = o->status;
  s->seconds = o->seconds;
  s->number = o->number;
  symbols_begin();
  status = run_again(s);
  if (status == FITS && o->what != RUN_PAGE)
    status = run_report(s);
  if (status == FITS && s->snapshot && o->what == RUN_END)
    status = run_snapshot(s);
  if (s->metrics && (o->what == RUN_PAGE || o->what == RUN_END)) {
    const int heard = cmd_hush(page != FITS && o->what != RUN_END);
    page = run_metrics(s);
    cmd_hush(heard);
    status = status != FITS ? status : page;
  }
  if (cmd_is_output(s->snapshot) && fflush(stdout))
    status = cmd_cannot("write", "standard output", OTHER);
  return status;
}

static void run_reporter(run_state *s, int orders, int answers) {
  run_order o;
  int status;
  run_passing(s, 0);
  sigprocmask(SIG_SETMASK, &s->mask, NULL);
  cmd_writes();
  while (read(orders, &o, sizeof o) == (ssize_t)sizeof o) {
    status = run_do(s, &o);
    fflush(NULL);
    if (write(answers, &status, sizeof status) != (ssize_t)sizeof status)
      break;
  }
  _exit(FITS);
}

static struct {
  pid_t process;
  int orders, answers;
} run_teller;

/* Starts the process; not FITS: error printed. */
static int run_start_teller(run_state *s) {
  int to[2] = {-1, -1}, back[2] = {-1, -1};
  if (pipe(to) || pipe(back))
    return cmd_cannot("make", "a pipe", OTHER);
  fflush(NULL);
  run_teller.process = fork();
  if (run_teller.process < 0) {
    run_teller.process = 0;
    return cmd_cannot("start", "the report", OTHER);
  }
  if (!run_teller.process) {
    close(to[1]);
    close(back[0]);
    run_reporter(s, to[0], back[1]);
  }
  close(to[0]);
  close(back[1]);
  run_teller.orders = to[1];
  run_teller.answers = back[0];
  return FITS;
}

/* Its end; how, as waitpid gives it. */
static int run_stop_teller(void) {
  int status = 0;
  close(run_teller.orders);
  close(run_teller.answers);
  while (waitpid(run_teller.process, &status, 0) < 0 && errno == EINTR)
    ;
  run_teller.process = 0;
  return status;
}

/* Asks for one; 0: that process has ended, and nothing can be said about the order. */
static int run_ask(const run_order *o, int *status) {
  struct sigaction ignore, old;
  struct pollfd answer;
  ssize_t n;
  int told;
  memset(&ignore, 0, sizeof ignore);
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &old);
  told = write(run_teller.orders, o, sizeof *o) == (ssize_t)sizeof *o;
  sigaction(SIGPIPE, &old, NULL);
  answer.fd = run_teller.answers;
  answer.events = POLLIN;
  while (told && poll(&answer, 1, 100) <= 0)
    run_see_end();
  do
    n = told ? read(run_teller.answers, status, sizeof *status) : 0;
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof *status;
}

/* One report, or the page. Whoever interrupts the program at a terminal ends the process that
   reports, too: the last report has another one. Not FITS: error printed. */
static int run_tell(run_state *s, int what) {
  run_order o;
  int status = OTHER, how = 0, tries, done = 0;
  memset(&o, 0, sizeof o);
  o.what = what;
  o.status = s->status;
  o.seconds = s->seconds;
  o.number = what == RUN_PAGE ? 0 : ++s->number;
  for (tries = 0; !done && tries < 2; tries++) {
    if (!run_teller.process && run_start_teller(s) != FITS)
      return OTHER;
    if (what == RUN_END)
      run_child = (sig_atomic_t)run_teller.process;
    done = run_ask(&o, &status);
    if (!done || what == RUN_END) {
      run_child = what == RUN_END ? 0 : run_child;
      how = run_stop_teller();
    }
  }
  if (!done)
    cmd_say("vram: the report was ended by signal %d", WIFSIGNALED(how) ? WTERMSIG(how) : 0);
  return status;
}

/* ---- the command */

static const int run_signal[] = {SIGUSR1, SIGUSR2, SIGHUP, SIGQUIT};

/* USR1, SIGUSR1; 0: it is none of them. */
static int run_signal_of(const char *name) {
  size_t i;
  name += strncmp(name, "SIG", 3) ? 0 : 3;
  for (i = 0; i < sizeof run_signal / sizeof *run_signal; i++)
    if (!strcmp(name, run_signal_name[i]))
      return run_signal[i];
  return 0;
}

/* An option with a value. */
static int run_option(run_state *s, const char *a, const char *v) {
  const int64_t day = 86400;
  int64_t n;
  if (!strcmp(a, "--report"))
    s->report = v;
  else if (!strcmp(a, "--snapshot"))
    s->snapshot = v;
  else if (!strcmp(a, "--metrics"))
    s->metrics = v;
  else if (!strcmp(a, "--units"))
    return cmd_set_units(v) ? FITS : USAGE;
  else if (!strcmp(a, "--every") || !strcmp(a, "--metrics-every")) {
    if (!cmd_parse_count(v, 1, day, &n))
      return cmd_bad("not a number of seconds", v, "1 to 86400");
    *(a[2] == 'e' ? &s->every : &s->metrics_every) = n;
  } else if (!strcmp(a, "--on-signal")) {
    s->on_signal = run_signal_of(v);
    if (!s->on_signal)
      return cmd_bad("not a signal that may ask", v, "USR1, USR2, HUP or QUIT");
  } else if (!cmd_parse_count(v, 1, 32, &n))
    return cmd_bad("not a number of return addresses", v, "1 to 32");
  else
    s->stack = (uint32_t)n;
  return FITS;
}

static int run_options_of(run_state *s, int argc, char **argv) {
  int i;
  s->stack = 1;
  s->metrics_every = 15;
  for (i = 0; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--"); i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(a, "--json") || !strcmp(a, "--on-failure")) {
      *(a[2] == 'j' ? &s->json : &s->on_failure) = 1;
      continue;
    }
    if (!cmd_in(a, "--report --snapshot --stack --units --metrics --every --metrics-every "
                   "--on-signal"))
      return cmd_unknown_option(a, "run", NULL, ""), USAGE;
    if (!v || !strncmp(v, "--", 2))
      return cmd_bad("no value behind", a, NULL);
    i++;
    if (run_option(s, a, v) != FITS)
      return USAGE;
  }
  if (i < argc && !strcmp(argv[i], "--"))
    i++;
  if (i >= argc)
    return cmd_bad("no program", NULL, "vram run [options] -- PROGRAM");
  s->program = argv[i];
  s->argv = argv + i;
  return FITS;
}

int run_command(int argc, char **argv) {
  static run_state s;
  struct sigaction usual;
  int status, said;
  memset(&s, 0, sizeof s);
  memset(&usual, 0, sizeof usual);
  usual.sa_handler = SIG_DFL;
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return cmd_help(help_run, stdout), FITS;
  status = run_options_of(&s, argc, argv);
  if (status == FITS)
    status = run_library(&s);
  if (status == FITS)
    status = run_share(&s);
  if (status == FITS && sigaction(SIGCHLD, &usual, &s.children))
    status = cmd_cannot("wait for", s.program, OTHER);
  if (status == FITS)
    status = run_wait(&s);
  if (status != FITS)
    return status;
  said = run_tell(&s, RUN_END);
  status = WIFEXITED(s.status) ? WEXITSTATUS(s.status) : RUN_SIGNALLED + WTERMSIG(s.status);
  return status ? status : said;
}

#else

int run_command(int argc, char **argv) {
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return cmd_help(help_run, stdout), FITS;
  cmd_say("vram: run is not on this system (it needs Linux with 64 bit)");
  return OTHER;
}

#endif
