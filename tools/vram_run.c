/* vram run: a program with the library of tools/preload.c in front of CUDA, and the report of what
   it allocated, from the memory that both share (tools/preload.h). */
#include "vram_command.h"

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
    "\n"
    "The program runs as it is. Calls of the CUDA runtime and driver are counted,\n"
    "also those of a static runtime, through dlsym and cuGetProcAddress, and of the\n"
    "processes that it starts; each process has its own part of the report, which is\n"
    "there however it ended. Counters have PyTorch's names: reserved_bytes is what\n"
    "the device had to give. MODULE+0xOFFSET is the caller (addr2line -e MODULE).\n"
    "Memory of the CUDA context, of kernels and libraries is not allocated by calls:\n"
    "the device shows more.\n"
    "Environment: VRAM_PRELOAD, the library (default: libvram_preload.so beside this\n"
    "command or in ../lib/vram).\n"
    "Exit status: the program's, 128 + N if signal N ended it; 127, 126: it cannot be\n"
    "run; 2 usage; 1 other.\n",
    NULL};

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#define VRAM_CUDA_IMPLEMENTATION
#define VRAM_CUDA_DLOPEN
#include "preload.h"

#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

int memfd_create(const char *name, unsigned flags); /* POSIX has none */

enum { RUN_NOT_FOUND = 127, RUN_NOT_RUN = 126, RUN_SIGNAL = 128, RUN_TOP = 20 };

typedef struct run_state {
  const char *report, *snapshot, *program;
  char *const *argv;
  char library[4096];
  int json;
  uint32_t stack;
  int fd;
  struct sigaction children; /* what SIGCHLD did before: the program has it so */
  run_file file;
  int status; /* as waitpid gives it */
  double seconds;
} run_state;

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
      run_before("ASAN_OPTIONS", "verify_asan_link_order=0") && !setenv(RUN_VARIABLE, file, 1))
    execvp(s->program, s->argv);
  why = errno;
  if (write(tell, &why, sizeof why) < 0)
    why = 0;
  _exit(why == ENOENT ? RUN_NOT_FOUND : RUN_NOT_RUN);
}

static const int run_passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
enum { RUN_PASSED = sizeof run_passed / sizeof *run_passed };

/* They are passed on, or do what they do by themselves; those that are ignored stay so. */
static void run_passing(int on) {
  struct sigaction action, old;
  size_t i;
  memset(&action, 0, sizeof action);
  action.sa_handler = SIG_DFL;
  if (on) {
    action.sa_sigaction = run_pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
  }
  for (i = 0; i < RUN_PASSED; i++)
    if (!sigaction(run_passed[i], NULL, &old) && old.sa_handler != SIG_IGN)
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

/* Runs it to its end; not FITS: it was not run, error printed. */
static int run_wait(run_state *s) {
  sigset_t block, keep;
  struct timeval from, to;
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
  sigprocmask(SIG_BLOCK, &block, &keep);
  gettimeofday(&from, NULL);
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
  run_passing(1);
  sigprocmask(SIG_SETMASK, &keep, NULL);
  n = read(ends[0], &why, sizeof why);
  close(ends[0]);
  ended = run_end_of(child, &s->status);
  gettimeofday(&to, NULL);
  s->seconds = (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_usec - from.tv_usec);
  if (!ended)
    return cmd_cannot("wait for", s->program, OTHER);
  if (n != (ssize_t)sizeof why)
    return FITS;
  errno = why;
  return cmd_cannot("run", s->program, WEXITSTATUS(s->status));
}

/* ---- the report */

/* What the processes left is read as bytes and looked at before it is used: a program may write
   over anything that it has mapped. Some may be running still. */

static int run_get(const run_state *s, void *to, uint64_t n, uint64_t from) {
  return pread(s->fd, to, n, (off_t)from) == (ssize_t)n;
}

/* What `vram run` wrote there, and how many processes came; not FITS: error printed. */
static int run_again(run_state *s) {
  run_file now;
  if (!run_get(s, &now, sizeof now, 0) || now.magic != s->file.magic ||
      now.layout != s->file.layout || now.trace != s->file.trace || now.stack != s->file.stack) {
    cmd_say("vram: no report: the program wrote over the shared memory");
    return OTHER;
  }
  s->file = now;
  return FITS;
}

static uint32_t run_parts(const run_state *s) {
  return s->file.section < RUN_SECTIONS ? s->file.section : (uint32_t)RUN_SECTIONS;
}

static int run_is_device(const vram_ledger *l, uint32_t device) {
  return device < l->options.devices || device == VRAM_DEVICE_HOST;
}

/* A pointer into the process's texts becomes one into ours; 0: it points to somewhere else. */
static int run_text(run_section *r, const char **text) {
  const uint64_t texts = run_texts_at(),
                 at = (uint64_t)(uintptr_t)*text - r->address - texts;
  if (*text && at >= RUN_TEXTS)
    return 0;
  if (*text)
    *text = (const char *)r + texts + at;
  return 1;
}

/* What would bring a terminal out of step. */
static void run_clean(char *text, size_t n) {
  size_t i;
  for (i = 0; i < n; i++)
    if (((unsigned char)text[i] < 32 && text[i] && text[i] != '\n') || text[i] == 127)
      text[i] = '?';
}

/* 0: something is in the tables that no process writes there. */
static int run_tables(run_section *r) {
  vram_ledger *l = &r->tracker.ledger;
  const uint32_t events =
      l->trace_count < l->options.trace ? (uint32_t)l->trace_count : l->options.trace;
  uint32_t i;
  if (!l->nowner || l->nowner > l->options.owners + 1)
    return 0;
  for (i = 0; i <= l->options.owners; i++) {
    vram_owner *w = &l->owner[i];
    if (w->number > l->options.owners || !run_text(r, &w->file) || !run_text(r, &w->function) ||
        !run_text(r, &w->tag))
      return 0;
  }
  for (i = l->nlive = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = &l->live[i];
    l->nlive += a->address != 0;
    if (a->node || a->owner > l->options.owners || a->category >= VRAM_CATEGORY_COUNT ||
        a->kind >= VRAM_CUDA_KIND_COUNT || !run_is_device(l, a->device))
      return 0;
  }
  for (i = 0; i < events; i++) {
    const vram_event *e = &l->trace[i];
    if (e->node || e->owner > l->options.owners || (uint32_t)e->action >= VRAM_ACTION_COUNT ||
        (uint32_t)e->category >= VRAM_CATEGORY_COUNT || (uint32_t)e->was >= VRAM_CATEGORY_COUNT ||
        e->kind >= VRAM_CUDA_KIND_COUNT || !run_is_device(l, e->device))
      return 0;
  }
  return 1;
}

/* The sums of the process's tracker; pointers, sizes and locks are our own. */
static void run_sums(vram_cuda_tracker *t, const vram_cuda_tracker *from) {
  const vram_ledger *f = &from->ledger;
  vram_ledger *l = &t->ledger;
  memcpy(l->kind, f->kind, sizeof l->kind);
  l->nowner = f->nowner;
  l->serial = f->serial;
  l->unknown_frees = f->unknown_frees;
  l->lost = f->lost;
  l->lost_bytes = f->lost_bytes;
  l->bytes = f->bytes;
  l->peak_bytes = f->peak_bytes;
  l->peak_serial = f->peak_serial;
  l->trace_count = f->trace_count;
  t->ipc_bytes = from->ipc_bytes;
  t->graph_nodes = from->graph_nodes;
  t->graph_bytes = from->graph_bytes;
  t->lost = from->lost;
  t->lost_bytes = from->lost_bytes;
}

/* A copy of what is in section i, laid out as it is there; 0: it is not what a process writes. */
static int run_read(const run_state *s, uint32_t i, run_section *r, const vram_cuda_options *o) {
  static const vram_cuda_api none;
  const uint64_t from = RUN_HEAD + i * RUN_SPAN, texts = run_texts_at();
  char *at = (char *)r;
  vram_cuda_tracker theirs;
  vram_error err;
  if (!run_get(s, r, sizeof *r, from) || r->magic != RUN_MAGIC || r->texts > RUN_TEXTS)
    return 0;
  memcpy(&theirs, &r->tracker, sizeof theirs);
  if (vram_cuda_tracker_init(&r->tracker, &none, o, at + run_tracker_at(),
                             vram_cuda_tracker_bytes(o), &err))
    return 0;
  run_sums(&r->tracker, &theirs);
  if (!run_get(s, at + run_tracker_at(), vram_ledger_bytes(&r->tracker.ledger.options),
               from + run_tracker_at()) ||
      !run_get(s, at + texts, RUN_TEXTS, from + texts) || !run_tables(r))
    return 0;
  at[texts + RUN_TEXTS - 1] = 0;
  run_clean(at + texts, RUN_TEXTS);
  r->command[sizeof r->command - 1] = r->report[sizeof r->report - 1] = 0;
  run_clean(r->command, sizeof r->command);
  run_clean(r->report, sizeof r->report);
  return 1;
}

/* What the process of section i left, for free(); NULL: nothing, or an error, which is printed and
   sets *status. */
static run_section *run_open(const run_state *s, uint32_t i, int *status) {
  const vram_cuda_options o = run_options(&s->file);
  run_section *r;
  uint32_t ready;
  if (run_get(s, &ready, sizeof ready, RUN_HEAD + i * RUN_SPAN + offsetof(run_section, ready)) &&
      !ready)
    return NULL;
  r = (run_section *)malloc(run_tracker_at() + vram_cuda_tracker_bytes(&o));
  if (!r) {
    *status = cmd_no_memory();
    return NULL;
  }
  if (run_read(s, i, r, &o))
    return r;
  free(r);
  cmd_say("vram: no report of process %" PRIu32 " of %" PRIu32
          ": its part of the shared memory was written over",
          i + 1, s->file.section);
  *status = OTHER;
  return NULL;
}

/* Allocations that are alive, of one caller, by one call, on one device. */
typedef struct run_group {
  uint32_t owner, count;
  uint8_t device, kind;
  uint64_t bytes;
} run_group;

static int run_by_key(const void *a, const void *b) {
  const vram_allocation *x = (const vram_allocation *)a, *y = (const vram_allocation *)b;
  if (x->owner != y->owner)
    return x->owner < y->owner ? -1 : 1;
  if (x->device != y->device)
    return x->device < y->device ? -1 : 1;
  return (x->kind > y->kind) - (x->kind < y->kind);
}

static int run_by_bytes(const void *a, const void *b) {
  const run_group *x = (const run_group *)a, *y = (const run_group *)b;
  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? 1 : -1;
  return (x->owner > y->owner) - (x->owner < y->owner);
}

/* Largest first; NULL and *n 0: none, or out of memory. */
static run_group *run_groups(vram_ledger *l, uint32_t *n) {
  uint32_t all = vram_ledger_live(l, NULL, 0), i, used = 0, found;
  vram_allocation *list = (vram_allocation *)calloc(all ? all : 1, sizeof *list);
  run_group *group = (run_group *)calloc(all ? all : 1, sizeof *group);
  *n = 0;
  if (!list || !group) {
    free(list);
    free(group);
    return NULL;
  }
  found = vram_ledger_live(l, list, all);
  all = found < all ? found : all; /* a process that is killed may leave a count behind */
  qsort(list, all, sizeof *list, run_by_key);
  for (i = 0; i < all; i++) {
    if (!i || run_by_key(&list[i - 1], &list[i]))
      used++;
    group[used - 1].owner = list[i].owner;
    group[used - 1].device = list[i].device;
    group[used - 1].kind = list[i].kind;
    group[used - 1].bytes += list[i].bytes;
    group[used - 1].count++;
  }
  free(list);
  qsort(group, used, sizeof *group, run_by_bytes);
  *n = used;
  return group;
}

/* The callers by what they had when most was allocated, largest first. */
static vram_owner *run_peak(vram_ledger *l, uint32_t *n) {
  const uint32_t all = vram_ledger_owners(l, 1, NULL, 0);
  vram_owner *list = (vram_owner *)calloc(all ? all : 1, sizeof *list);
  *n = list ? vram_ledger_owners(l, 1, list, all) : 0;
  *n = *n < all ? *n : all;
  return list;
}

static const vram_owner *run_owner(const vram_ledger *l, uint32_t owner) {
  return &l->owner[owner <= l->options.owners ? owner : 0];
}
static const char *run_place(const vram_owner *o) { return o->file ? o->file : "?"; }
static const char *run_function(const vram_owner *o) { return o->function ? o->function : ""; }

static const char *run_device(uint32_t device) {
  static char text[16];
  if (device == VRAM_DEVICE_HOST)
    return "host";
  snprintf(text, sizeof text, "%u", device);
  return text;
}

static const char *const run_stat_name[] = {
#define X(name) #name,
    VRAM_STATS(X)
#undef X
};
static const vram_stat *run_stat(const vram_memory_stats *m, size_t i) {
  const vram_stat *const all[] = {
#define X(name) m->name,
      VRAM_STATS(X)
#undef X
  };
  return all[i];
}

static int run_used(const vram_memory_stats *m) {
  return m->allocation[0].allocated || m->reserved_bytes[0].allocated || m->num_ooms;
}

/* The devices, then the host. */
static uint32_t run_device_at(uint32_t i, uint32_t devices) {
  return i < devices ? i : VRAM_DEVICE_HOST;
}

static void run_text_process(FILE *f, run_section *r) {
  vram_ledger *l = &r->tracker.ledger;
  vram_memory_stats m;
  run_group *group;
  vram_owner *peak;
  uint32_t i, k, n;
  uint64_t ooms = 0;
  fprintf(f, "\nprocess %d  %s\n", (int)r->pid, r->command);
  for (i = 0; i <= l->options.devices; i++) {
    const uint32_t device = run_device_at(i, l->options.devices);
    vram_ledger_stats(l, device, &m);
    if (!run_used(&m))
      continue;
    ooms += m.num_ooms;
    fprintf(f, "  %-6s %-20s%14s%14s%14s%14s\n", device == VRAM_DEVICE_HOST ? "host" : "device",
            device == VRAM_DEVICE_HOST ? "" : run_device(device), "at the end", "peak", "allocated",
            "freed");
    for (k = 0; k < sizeof run_stat_name / sizeof *run_stat_name; k++) {
      const vram_stat *s = run_stat(&m, k);
      const int bytes = strstr(run_stat_name[k], "bytes") != NULL;
      if (!s[0].allocated || !strncmp(run_stat_name[k], "active", 6))
        continue;
      fprintf(f, "    %-25s", run_stat_name[k]);
      if (bytes)
        fprintf(f, "%14s%14s%14s%14s\n", cmd_human(s[0].current), cmd_human(s[0].peak),
                cmd_human(s[0].allocated), cmd_human(s[0].freed));
      else
        fprintf(f, "%14" PRIu64 "%14" PRIu64 "%14" PRIu64 "%14" PRIu64 "\n", s[0].current,
                s[0].peak, s[0].allocated, s[0].freed);
    }
  }
  fprintf(f, "  by call (requested)\n");
  for (i = 0; i < VRAM_CUDA_KIND_COUNT; i++)
    if (l->kind[i].allocated)
      fprintf(f, "    %-25s%14s%14s%14s%14s\n", vram_cuda_kind_name(i),
              cmd_human(l->kind[i].current), cmd_human(l->kind[i].peak),
              cmd_human(l->kind[i].allocated), cmd_human(l->kind[i].freed));
  peak = run_peak(l, &n);
  if (n)
    fprintf(f, "  at the peak, %s\n", cmd_human(l->peak_bytes));
  for (i = 0; i < n && i < RUN_TOP / 2; i++)
    fprintf(f, "    %12s  %s  %s\n", cmd_human(peak[i].at_peak), run_place(&peak[i]),
            run_function(&peak[i]));
  free(peak);
  group = run_groups(l, &n);
  if (n)
    fprintf(f, "  not freed at the end\n");
  else
    fprintf(f, "  all was freed at the end\n");
  for (i = 0; i < n && i < RUN_TOP; i++)
    fprintf(f, "    %12s %7" PRIu32 " x %-18s %-4s  %s  %s\n", cmd_human(group[i].bytes),
            group[i].count, vram_cuda_kind_name(group[i].kind), run_device(group[i].device),
            run_place(run_owner(l, group[i].owner)), run_function(run_owner(l, group[i].owner)));
  if (n > RUN_TOP)
    fprintf(f, "    and %" PRIu32 " callers more\n", n - RUN_TOP);
  free(group);
  if (r->tracker.ipc_bytes)
    fprintf(f, "  memory of other processes, opened here: %s\n", cmd_human(r->tracker.ipc_bytes));
  if (r->tracker.graph_nodes)
    fprintf(f, "  captured into graphs, not counted: %" PRIu64 " allocations, %s\n",
            r->tracker.graph_nodes, cmd_human(r->tracker.graph_bytes));
  if (l->lost || r->tracker.lost)
    fprintf(f, "  found no place in the tables: %" PRIu64 " allocations, %s\n",
            l->lost + r->tracker.lost, cmd_human(l->lost_bytes + r->tracker.lost_bytes));
  if (ooms) {
    fprintf(f, "  failed for want of memory: %" PRIu64 " allocations", ooms);
    fprintf(f, "%s%s\n", *r->report ? "; the last:\n" : "", r->report);
  }
}

static void run_json_stat(FILE *f, const vram_stat *s) {
  fprintf(f,
          "\"current\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"allocated\":%" PRIu64
          ",\"freed\":%" PRIu64,
          s->current, s->peak, s->allocated, s->freed);
}

static void run_json_owner(FILE *f, const vram_owner *o) {
  fputs("\"place\":", f);
  cmd_json_text(f, run_place(o));
  fputs(",\"function\":", f);
  cmd_json_text(f, run_function(o));
}

static void run_json_process(FILE *f, run_section *r) {
  static const char *const pool[] = {"all", "small_pool", "large_pool"};
  vram_ledger *l = &r->tracker.ledger;
  vram_memory_stats m;
  run_group *group;
  vram_owner *peak;
  uint32_t i, k, p, n;
  int comma = 0;
  fprintf(f, "{\"pid\":%d,\"parent\":%d,\"exited\":%s,\"command\":", (int)r->pid, (int)r->parent,
          r->ended ? "true" : "false");
  cmd_json_text(f, r->command);
  fputs(",\"devices\":[", f);
  for (i = 0; i <= l->options.devices; i++) {
    const uint32_t device = run_device_at(i, l->options.devices);
    vram_ledger_stats(l, device, &m);
    if (!run_used(&m))
      continue;
    fprintf(f, "%s{\"device\":", comma ? "," : "");
    comma = 1;
    if (device == VRAM_DEVICE_HOST)
      fputs("\"host\"", f);
    else
      fprintf(f, "%" PRIu32, device);
    for (k = 0; k < sizeof run_stat_name / sizeof *run_stat_name; k++)
      for (p = 0; p < 3; p++) {
        const vram_stat *s = &run_stat(&m, k)[p];
        fprintf(f, ",\"%s.%s.current\":%" PRIu64 ",\"%s.%s.peak\":%" PRIu64, run_stat_name[k],
                pool[p], s->current, run_stat_name[k], pool[p], s->peak);
        fprintf(f, ",\"%s.%s.allocated\":%" PRIu64 ",\"%s.%s.freed\":%" PRIu64, run_stat_name[k],
                pool[p], s->allocated, run_stat_name[k], pool[p], s->freed);
      }
    fprintf(f,
            ",\"num_ooms\":%" PRIu64 ",\"num_device_alloc\":%" PRIu64
            ",\"num_device_free\":%" PRIu64 "}",
            m.num_ooms, m.num_device_alloc, m.num_device_free);
  }
  fputs("],\"calls\":[", f);
  comma = 0;
  for (i = 0; i < VRAM_CUDA_KIND_COUNT; i++)
    if (l->kind[i].allocated) {
      fprintf(f, "%s{\"call\":\"%s\",", comma ? "," : "", vram_cuda_kind_name(i));
      comma = 1;
      run_json_stat(f, &l->kind[i]);
      putc('}', f);
    }
  fprintf(f, "],\"peak_bytes\":%" PRIu64 ",\"at_peak\":[", l->peak_bytes);
  peak = run_peak(l, &n);
  for (i = 0; i < n; i++) {
    fprintf(f, "%s{\"bytes\":%" PRIu64 ",", i ? "," : "", peak[i].at_peak);
    run_json_owner(f, &peak[i]);
    putc('}', f);
  }
  free(peak);
  fputs("],\"not_freed\":[", f);
  group = run_groups(l, &n);
  for (i = 0; i < n; i++) {
    fprintf(f, "%s{\"bytes\":%" PRIu64 ",\"count\":%" PRIu32 ",\"call\":\"%s\",\"device\":",
            i ? "," : "", group[i].bytes, group[i].count, vram_cuda_kind_name(group[i].kind));
    if (group[i].device == VRAM_DEVICE_HOST)
      fputs("\"host\",", f);
    else
      fprintf(f, "%u,", group[i].device);
    run_json_owner(f, run_owner(l, group[i].owner));
    putc('}', f);
  }
  free(group);
  fprintf(f, "],\"ipc_bytes\":%" PRIu64 ",\"graph_nodes\":%" PRIu64 ",\"graph_bytes\":%" PRIu64,
          r->tracker.ipc_bytes, r->tracker.graph_nodes, r->tracker.graph_bytes);
  fprintf(f, ",\"unknown_frees\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"lost_bytes\":%" PRIu64,
          l->unknown_frees, l->lost + r->tracker.lost, l->lost_bytes + r->tracker.lost_bytes);
  fputs(",\"oom_report\":", f);
  if (*r->report)
    cmd_json_text(f, r->report);
  else
    fputs("null", f);
  putc('}', f);
}

/* FITS, or what kept a process out of it, which has been printed. */
static int run_write(const run_state *s, FILE *f) {
  const uint32_t n = run_parts(s);
  uint32_t i, shown = 0;
  int status = FITS;
  if (s->json) {
    fputs("{\"program\":[", f);
    for (i = 0; s->argv[i]; i++) {
      fputs(i ? "," : "", f);
      cmd_json_text(f, s->argv[i]);
    }
    fprintf(f, "],\"exit_status\":");
    if (WIFEXITED(s->status))
      fprintf(f, "%d,\"signal\":null", WEXITSTATUS(s->status));
    else
      fprintf(f, "null,\"signal\":%d", WTERMSIG(s->status));
    fprintf(f, ",\"seconds\":%.3f,\"loaded\":%" PRIu32 ",\"processes\":[", s->seconds,
            s->file.loaded);
  } else {
    fprintf(f, "vram: %s", s->program);
    if (WIFEXITED(s->status))
      fprintf(f, " ended with status %d", WEXITSTATUS(s->status));
    else
      fprintf(f, " was ended by signal %d", WTERMSIG(s->status));
    fprintf(f, " after %.1f s\n", s->seconds);
  }
  for (i = 0; i < n; i++) {
    run_section *r = run_open(s, i, &status);
    if (!r)
      continue;
    if (s->json)
      fputs(shown ? "," : "", f), run_json_process(f, r);
    else
      run_text_process(f, r);
    shown++;
    free(r);
  }
  if (s->json)
    fputs("]}\n", f);
  else if (!s->file.loaded)
    fprintf(f,
            "no call was seen: the library did not get in front of it (a static program, one with "
            "more rights than you, or it did not start)\n");
  else if (!shown && status == FITS)
    fprintf(f, "no call that allocates CUDA memory was seen\n");
  if (!s->json && s->file.section > shown)
    fprintf(f, "%" PRIu32 " processes more, without a report\n", s->file.section - shown);
  return status;
}

static int run_report(const run_state *s) {
  const int is_stream = !s->report || cmd_is_output(s->report);
  FILE *stream = s->report ? stdout : stderr;
  cmd_output out;
  int status, written;
  if (is_stream) {
    status = run_write(s, stream);
    if (!fflush(stream) && !ferror(stream))
      return status;
    return cmd_cannot("write", s->report ? "standard output" : "standard error", OTHER);
  }
  status = cmd_output_open(&out, s->report);
  if (status != FITS)
    return status;
  status = run_write(s, out.file);
  written = cmd_output_commit(&out, 0);
  return written != FITS ? written : status;
}

/* Of the process that had most. */
static int run_snapshot(const run_state *s) {
  const uint32_t n = run_parts(s);
  const size_t len = strlen(s->snapshot);
  vram_snapshot_options o = VRAM_ZERO_INIT;
  uint64_t most = 0;
  vram_sink sink;
  uint32_t i;
  run_section *r = NULL, *other;
  cmd_output out;
  int status = FITS;
  for (i = 0; i < n; i++) {
    other = run_open(s, i, &status);
    if (other && other->tracker.ledger.peak_bytes >= most) {
      most = other->tracker.ledger.peak_bytes;
      free(r);
      r = other;
    } else
      free(other);
  }
  if (status != FITS) {
    free(r);
    return status;
  }
  if (!r) {
    cmd_say("vram: no snapshot: no call that allocates CUDA memory was seen");
    return OTHER;
  }
  o.json = len > 5 && !strcmp(s->snapshot + len - 5, ".json");
  status = cmd_output_open(&out, s->snapshot);
  if (status == FITS) {
    sink.write = cmd_to_file;
    sink.user = out.file;
    status = cmd_output_commit(&out, vram_write_snapshot(&r->tracker.ledger, &o, &sink) != VRAM_OK);
  }
  free(r);
  return status;
}

/* In a process of its own: whatever comes between, the program's status is known. */
static int run_tell(run_state *s) {
  int status;
  pid_t child;
  fflush(NULL);
  child = fork();
  if (child < 0)
    return cmd_cannot("start", "the report", OTHER);
  if (!child) {
    run_passing(0);
    cmd_writes();
    status = run_again(s);
    if (status == FITS)
      status = run_report(s);
    if (s->snapshot && status == FITS)
      status = run_snapshot(s);
    if (cmd_is_output(s->snapshot) && fflush(stdout))
      status = cmd_cannot("write", "standard output", OTHER);
    _exit(status);
  }
  run_child = (sig_atomic_t)child;
  if (!run_end_of(child, &status))
    return cmd_cannot("wait for", "the report", OTHER);
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  cmd_say("vram: the report was ended by signal %d", WTERMSIG(status));
  return OTHER;
}

/* ---- the command */

static int run_options_of(run_state *s, int argc, char **argv) {
  int64_t n;
  int i;
  s->stack = 1;
  for (i = 0; i < argc && argv[i][0] == '-' && strcmp(argv[i], "--"); i++) {
    const char *a = argv[i], *v = i + 1 < argc ? argv[i + 1] : NULL;
    if (!strcmp(a, "--json")) {
      s->json = 1;
      continue;
    }
    if (!cmd_in(a, "--report --snapshot --stack --units"))
      return cmd_unknown_option(a, "run", NULL, ""), USAGE;
    if (!v || !strncmp(v, "--", 2))
      return cmd_bad("no value behind", a, NULL);
    i++;
    if (!strcmp(a, "--report"))
      s->report = v;
    else if (!strcmp(a, "--snapshot"))
      s->snapshot = v;
    else if (!strcmp(a, "--units")) {
      if (!cmd_set_units(v))
        return USAGE;
    } else if (!cmd_parse_count(v, 1, 32, &n))
      return cmd_bad("not a number of return addresses", v, "1 to 32");
    else
      s->stack = (uint32_t)n;
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
  said = run_tell(&s);
  status = WIFEXITED(s.status) ? WEXITSTATUS(s.status) : RUN_SIGNAL + WTERMSIG(s.status);
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
