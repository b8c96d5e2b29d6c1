/* vram run: a program with the library of tools/preload.c in front of CUDA, and the report of what
   it allocated, from the memory that both share (tools/preload.h). */
#include "vram_command.h"

const char help_run[] =
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
    "run; 2 usage; 1 other.\n";

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#define VRAM_CUDA_IMPLEMENTATION
#include "preload.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
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
  run_file *file;
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
      fprintf(stderr,
              "vram: no libvram_preload.so beside this command or in ../lib/vram (make builds it; "
              "or VRAM_PRELOAD=FILE)\n");
      return OTHER;
    }
  }
  if (strpbrk(s->library, " :")) {
    fprintf(stderr,
            "vram: '%s' has a blank or a colon, which LD_PRELOAD cannot take (VRAM_PRELOAD="
            "FILE names a copy)\n",
            s->library);
    return OTHER;
  }
  return FITS;
}

/* The shared file, empty; not FITS: error printed. */
static int run_share(run_state *s) {
  FILE *other;
  void *at;
  errno = 0;
  s->fd = memfd_create("vram-run", 1 /* closed by exec */);
  if (s->fd < 0) { /* before Linux 3.17 */
    other = tmpfile();
    s->fd = other ? fileno(other) : -1;
  }
  if (s->fd < 0 || ftruncate(s->fd, (off_t)(RUN_HEAD + RUN_SECTIONS * RUN_SPAN)))
    return cmd_cannot("make", "shared memory", OTHER);
  at = mmap(NULL, RUN_HEAD, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
  if (at == MAP_FAILED)
    return cmd_cannot("map", "shared memory", OTHER);
  s->file = (run_file *)at;
  s->file->layout = RUN_LAYOUT;
  s->file->trace = s->snapshot != NULL;
  s->file->stack = s->stack;
  s->file->magic = RUN_MAGIC;
  return FITS;
}

static void run_become(const run_state *s, const char *file, int tell) {
  const char *before = getenv("LD_PRELOAD");
  char text[16384];
  int why;
  snprintf(text, sizeof text, "%s%s%s", s->library, before && *before ? ":" : "",
           before ? before : "");
  if (!setenv("LD_PRELOAD", text, 1) && !setenv(RUN_VARIABLE, file, 1))
    execvp(s->program, s->argv);
  why = errno;
  if (write(tell, &why, sizeof why) < 0)
    why = 0;
  _exit(why == ENOENT ? RUN_NOT_FOUND : RUN_NOT_RUN);
}

/* Runs it to its end; not FITS: it was not run, error printed. */
static int run_wait(run_state *s) {
  static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  struct sigaction action, old;
  sigset_t block, keep;
  struct timeval from, to;
  char file[64];
  int ends[2], why = 0;
  size_t i;
  ssize_t n;
  pid_t child;
  snprintf(file, sizeof file, "/proc/%ld/fd/%d", (long)getpid(), s->fd);
  if (pipe(ends))
    return cmd_cannot("make", "a pipe", OTHER);
  (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
  fflush(NULL);
  sigemptyset(&block);
  for (i = 0; i < sizeof passed / sizeof *passed; i++)
    sigaddset(&block, passed[i]);
  sigprocmask(SIG_BLOCK, &block, &keep);
  gettimeofday(&from, NULL);
  child = fork();
  if (!child) {
    close(ends[0]);
    sigprocmask(SIG_SETMASK, &keep, NULL);
    run_become(s, file, ends[1]);
  }
  close(ends[1]);
  if (child < 0)
    return cmd_cannot("start", s->program, OTHER);
  run_child = (sig_atomic_t)child;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = run_pass_on;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (i = 0; i < sizeof passed / sizeof *passed; i++)
    if (!sigaction(passed[i], NULL, &old) && old.sa_handler != SIG_IGN)
      (void)sigaction(passed[i], &action, NULL);
  sigprocmask(SIG_SETMASK, &keep, NULL);
  n = read(ends[0], &why, sizeof why);
  close(ends[0]);
  while (waitpid(child, &s->status, 0) < 0 && errno == EINTR)
    ;
  run_child = 0;
  gettimeofday(&to, NULL);
  s->seconds = (double)(to.tv_sec - from.tv_sec) + 1e-6 * (double)(to.tv_usec - from.tv_usec);
  if (n != (ssize_t)sizeof why)
    return FITS;
  errno = why;
  return cmd_cannot("run", s->program, WEXITSTATUS(s->status));
}

/* ---- the report */

/* A text that ends in the section, or NULL. */
static const char *run_text(const run_section *r, const char *text) {
  const char *from = (const char *)r + run_tracker_at() - RUN_TEXTS, *to = from + RUN_TEXTS;
  return text >= from && text < to && memchr(text, 0, (size_t)(to - text)) ? text : NULL;
}

/* A section, mapped where its process had it; NULL: it cannot be read. A copy: nobody else sees
   what is changed in it. */
static run_section *run_open(const run_state *s, uint32_t i) {
  static vram_cuda_api none;
  const off_t at = (off_t)(RUN_HEAD + i * RUN_SPAN);
  void *first = mmap(NULL, sizeof(run_section), PROT_READ, MAP_SHARED, s->fd, at), *all;
  run_section *r;
  vram_ledger *l;
  uint32_t owner;
  void *where;
  if (first == MAP_FAILED)
    return NULL;
  r = (run_section *)first;
  where = r->ready && r->magic == RUN_MAGIC ? (void *)(uintptr_t)r->address : NULL;
  munmap(first, sizeof(run_section));
  if (!where)
    return NULL;
  all = mmap(where, RUN_SPAN, PROT_READ | PROT_WRITE, MAP_PRIVATE, s->fd, at);
  if (all == MAP_FAILED)
    return NULL;
  if (all != where) {
    munmap(all, RUN_SPAN);
    return NULL;
  }
  r = (run_section *)all;
  r->tracker.api = &none;
  l = &r->tracker.ledger;
  l->options.lock = NULL; /* they are functions of the other process */
  l->options.unlock = NULL;
  l->options.clock = NULL;
  l->options.user = NULL;
  for (owner = 0; owner <= l->options.owners; owner++) {
    l->owner[owner].file = run_text(r, l->owner[owner].file);
    l->owner[owner].function = run_text(r, l->owner[owner].function);
    l->owner[owner].tag = run_text(r, l->owner[owner].tag);
  }
  r->command[sizeof r->command - 1] = r->report[sizeof r->report - 1] = 0;
  return r;
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
  if (device == VRAM_HOST)
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
static uint32_t run_device_at(uint32_t i, uint32_t devices) { return i < devices ? i : VRAM_HOST; }

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
    fprintf(f, "  %-6s %-20s%14s%14s%14s%14s\n", device == VRAM_HOST ? "host" : "device",
            device == VRAM_HOST ? "" : run_device(device), "at the end", "peak", "allocated",
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
    if (device == VRAM_HOST)
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
    if (group[i].device == VRAM_HOST)
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

static void run_write(const run_state *s, FILE *f) {
  const uint32_t n = s->file->section < RUN_SECTIONS ? s->file->section : (uint32_t)RUN_SECTIONS;
  uint32_t i, shown = 0;
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
            s->file->loaded);
  } else {
    fprintf(f, "vram: %s", s->program);
    if (WIFEXITED(s->status))
      fprintf(f, " ended with status %d", WEXITSTATUS(s->status));
    else
      fprintf(f, " was ended by signal %d", WTERMSIG(s->status));
    fprintf(f, " after %.1f s\n", s->seconds);
  }
  for (i = 0; i < n; i++) {
    run_section *r = run_open(s, i);
    if (!r)
      continue;
    if (s->json)
      fputs(shown ? "," : "", f), run_json_process(f, r);
    else
      run_text_process(f, r);
    shown++;
    munmap(r, RUN_SPAN);
  }
  if (s->json)
    fputs("]}\n", f);
  else if (!s->file->loaded)
    fprintf(f,
            "no call was seen: the library did not get in front of it (a static program, one with "
            "more rights than you, or it did not start)\n");
  else if (!shown)
    fprintf(f, "no call that allocates CUDA memory was seen\n");
  if (!s->json && s->file->section > shown)
    fprintf(f, "%" PRIu32 " processes more, without a report\n", s->file->section - shown);
}

static int run_report(const run_state *s) {
  FILE *f = stderr;
  int failed;
  if (s->report) {
    errno = 0;
    f = strcmp(s->report, "-") ? fopen(s->report, "w") : stdout;
    if (!f)
      return cmd_cannot("write", s->report, OTHER);
  }
  run_write(s, f);
  failed = fflush(f) || ferror(f);
  if (f != stderr && f != stdout)
    failed = fclose(f) || failed;
  return failed ? cmd_cannot("write", s->report ? s->report : "standard error", OTHER) : FITS;
}

static int run_put(void *user, const char *bytes, size_t n) {
  return fwrite(bytes, 1, n, (FILE *)user) != n;
}

/* Of the process that had most. */
static int run_snapshot(const run_state *s) {
  const uint32_t n = s->file->section < RUN_SECTIONS ? s->file->section : (uint32_t)RUN_SECTIONS;
  const size_t len = strlen(s->snapshot);
  vram_snapshot_options o = VRAM_ZERO_INIT;
  uint64_t most = 0;
  vram_sink sink;
  uint32_t i, of = n;
  run_section *r;
  FILE *f;
  int failed;
  for (i = 0; i < n; i++) {
    r = run_open(s, i);
    if (!r)
      continue;
    if (r->tracker.ledger.peak_bytes >= most)
      most = r->tracker.ledger.peak_bytes, of = i;
    munmap(r, RUN_SPAN);
  }
  r = of < n ? run_open(s, of) : NULL;
  if (!r) {
    fprintf(stderr, "vram: no snapshot: no call that allocates CUDA memory was seen\n");
    return OTHER;
  }
  errno = 0;
  f = fopen(s->snapshot, "wb");
  o.json = len > 5 && !strcmp(s->snapshot + len - 5, ".json");
  sink.write = run_put;
  sink.user = f;
  failed = !f || vram_write_snapshot(&r->tracker.ledger, &o, &sink);
  if (f)
    failed = fclose(f) || failed;
  munmap(r, RUN_SPAN);
  return failed ? cmd_cannot("write", s->snapshot, OTHER) : FITS;
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
  int status, said;
  memset(&s, 0, sizeof s);
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return fputs(help_run, stdout), FITS;
  status = run_options_of(&s, argc, argv);
  if (status == FITS)
    status = run_library(&s);
  if (status == FITS)
    status = run_share(&s);
  if (status == FITS)
    status = run_wait(&s);
  if (status != FITS)
    return status;
  said = run_report(&s);
  if (s.snapshot && said == FITS)
    said = run_snapshot(&s);
  status = WIFEXITED(s.status) ? WEXITSTATUS(s.status) : RUN_SIGNAL + WTERMSIG(s.status);
  return status ? status : said;
}

#else

int run_command(int argc, char **argv) {
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return fputs(help_run, stdout), FITS;
  fprintf(stderr, "vram: run is not on this system (it needs Linux with 64 bit)\n");
  return OTHER;
}

#endif
