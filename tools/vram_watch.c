/* vram watch: devices and the processes on them, as NVIDIA's management library (NVML) says, which
   is opened when it is asked: nothing of NVIDIA is needed to build this. */
#include "vram_command.h"

cmd_text help_watch = {
    "vram watch [options]     devices and processes, live\n"
    "\n"
    "  --once                once, then end\n"
    "  --interval SECONDS    how often (default: 2; from 0.1 on)\n"
    "  --json                one JSON object each time, a line each\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "On a terminal the picture is redrawn in place, else a line for each device is\n"
    "added each time. Used bytes are all that is not free: of every process, and\n"
    "what the driver keeps. '-' (null in JSON): the driver does not say.\n"
    "Keys of the JSON: time (seconds since 1970), driver, cuda, devices [index, mig,\n"
    "name, uuid, total_bytes, used_bytes, free_bytes, utilization_percent,\n"
    "temperature_celsius, power_watts, power_limit_watts, error, processes [pid,\n"
    "type, used_bytes, name, command, user]], error.\n"
    "Environment: VRAM_NVML, the library to open (default: libnvidia-ml.so.1).\n"
    "Exit status: 0 done, 1 there is no NVIDIA driver, or it fails.\n",
    NULL};

#if defined(__unix__) || defined(__APPLE__)

#include <dlfcn.h>
#include <pwd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>

enum {
  NVML_NOT_SUPPORTED = 3,
  NVML_INSUFFICIENT_SIZE = 7,
  NVML_NO_FUNCTION = 13, /* the library has no such function */
  WATCH_TRIES = 16,      /* processes come while they are counted */
  WATCH_PROCESSES = 1 << 20
};
#define WATCH_UNKNOWN UINT64_MAX /* NVML's own mark, too */

/* NVML's structures, as nvml.h lays them out. */
typedef struct nvml_memory {
  unsigned long long total, free, used;
} nvml_memory;
typedef struct nvml_memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
} nvml_memory_v2;
typedef struct nvml_utilization {
  unsigned gpu, memory;
} nvml_utilization;
typedef struct nvml_process_v1 {
  unsigned pid;
  unsigned long long used;
} nvml_process_v1;
typedef struct nvml_process {
  unsigned pid;
  unsigned long long used;
  unsigned gpu_instance, compute_instance;
} nvml_process;

typedef int (*nvml_plain)(void);
typedef int (*nvml_own_text)(char *, unsigned);
typedef int (*nvml_own_version)(int *);
typedef int (*nvml_pid_text)(unsigned, char *, unsigned);
typedef int (*nvml_own_number)(unsigned *);
typedef int (*nvml_find)(unsigned, void **);
typedef int (*nvml_text)(void *, char *, unsigned);
typedef int (*nvml_ask_memory_v2)(void *, nvml_memory_v2 *);
typedef int (*nvml_ask_memory)(void *, nvml_memory *);
typedef int (*nvml_ask_utilization)(void *, nvml_utilization *);
typedef int (*nvml_sensor)(void *, int, unsigned *);
typedef int (*nvml_number)(void *, unsigned *);
typedef int (*nvml_numbers)(void *, unsigned *, unsigned *);
typedef int (*nvml_part)(void *, unsigned, void **);
typedef int (*nvml_list)(void *, unsigned *, void *);

/* The functions: where it is kept, its type, its name. Any of them may be missing. */
#define NVML_FUNCTIONS(X)                                                                          \
  X(init_v2, nvml_plain, "nvmlInit_v2")                                                            \
  X(init, nvml_plain, "nvmlInit")                                                                  \
  X(shutdown, nvml_plain, "nvmlShutdown")                                                          \
  X(driver, nvml_own_text, "nvmlSystemGetDriverVersion")                                           \
  X(cuda, nvml_own_version, "nvmlSystemGetCudaDriverVersion_v2")                                   \
  X(process_name, nvml_pid_text, "nvmlSystemGetProcessName")                                       \
  X(count_v2, nvml_own_number, "nvmlDeviceGetCount_v2")                                            \
  X(count, nvml_own_number, "nvmlDeviceGetCount")                                                  \
  X(handle_v2, nvml_find, "nvmlDeviceGetHandleByIndex_v2")                                         \
  X(handle, nvml_find, "nvmlDeviceGetHandleByIndex")                                               \
  X(name, nvml_text, "nvmlDeviceGetName")                                                          \
  X(uuid, nvml_text, "nvmlDeviceGetUUID")                                                          \
  X(memory_v2, nvml_ask_memory_v2, "nvmlDeviceGetMemoryInfo_v2")                                   \
  X(memory, nvml_ask_memory, "nvmlDeviceGetMemoryInfo")                                            \
  X(utilization, nvml_ask_utilization, "nvmlDeviceGetUtilizationRates")                            \
  X(temperature, nvml_sensor, "nvmlDeviceGetTemperature")                                          \
  X(power, nvml_number, "nvmlDeviceGetPowerUsage")                                                 \
  X(power_limit, nvml_number, "nvmlDeviceGetEnforcedPowerLimit")                                   \
  X(mig_mode, nvml_numbers, "nvmlDeviceGetMigMode")                                                \
  X(mig_count, nvml_number, "nvmlDeviceGetMaxMigDeviceCount")                                      \
  X(mig_handle, nvml_part, "nvmlDeviceGetMigDeviceHandleByIndex")                                  \
  X(compute_v3, nvml_list, "nvmlDeviceGetComputeRunningProcesses_v3")                              \
  X(compute_v2, nvml_list, "nvmlDeviceGetComputeRunningProcesses_v2")                              \
  X(compute, nvml_list, "nvmlDeviceGetComputeRunningProcesses")                                    \
  X(graphics_v3, nvml_list, "nvmlDeviceGetGraphicsRunningProcesses_v3")                            \
  X(graphics_v2, nvml_list, "nvmlDeviceGetGraphicsRunningProcesses_v2")                            \
  X(graphics, nvml_list, "nvmlDeviceGetGraphicsRunningProcesses")                                  \
  X(mps_v3, nvml_list, "nvmlDeviceGetMPSComputeRunningProcesses_v3")                               \
  X(mps_v2, nvml_list, "nvmlDeviceGetMPSComputeRunningProcesses_v2")                               \
  X(mps, nvml_list, "nvmlDeviceGetMPSComputeRunningProcesses")

typedef struct nvml {
  void *lib;
  const char *(*error)(int);
#define X(field, type, symbol) type field;
  NVML_FUNCTIONS(X)
#undef X
} nvml;

/* Calls the first of two that the library has. */
#define NVML_EITHER(n, first, second, arguments)                                                   \
  ((n)->first ? (n)->first arguments : (n)->second ? (n)->second arguments : (int)NVML_NO_FUNCTION)
#define NVML_CALL(n, function, arguments)                                                          \
  ((n)->function ? (n)->function arguments : (int)NVML_NO_FUNCTION)

typedef struct watch_process {
  unsigned pid;
  unsigned types; /* bits: compute, graphics, mps */
  uint64_t used;
  char name[64], command[256], user[40];
} watch_process;

typedef struct watch_device {
  unsigned index;
  int mig; /* -1: a whole device */
  char name[96], uuid[96], error[96];
  uint64_t total, used, free, utilization, temperature, power, power_limit; /* milliwatts */
  watch_process *process;
  size_t nprocess;
} watch_device;

typedef struct watch_state {
  nvml n;
  int once, json;
  double interval;
  char driver[80], cuda[24], error[240];
  watch_device *device;
  size_t ndevice;
} watch_state;

static const char *nvml_says(const nvml *n, int status) {
  const char *text = status == NVML_NO_FUNCTION ? "the library has no such function"
                     : n->error                 ? n->error(status)
                                                : NULL;
  return text ? text : "no reason given";
}

/* Text of others: only what prints. */
static void watch_clean(char *s) {
  for (; *s; s++)
    if ((unsigned char)*s < 32 || *s == 127)
      *s = ' ';
}

/* 1: open and ready; 0: s->error says why not. */
static int nvml_open(watch_state *s) {
  static const char *const usual[] = {"libnvidia-ml.so.1", "libnvidia-ml.so",
                                      "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
  const char *asked = getenv("VRAM_NVML");
  nvml *n = &s->n;
  void *symbol;
  size_t i;
  int status;
  memset(n, 0, sizeof *n);
  if (asked && *asked)
    n->lib = dlopen(asked, RTLD_NOW);
  else
    for (i = 0; i < sizeof usual / sizeof *usual && !n->lib; i++)
      n->lib = dlopen(usual[i], RTLD_NOW);
  if (!n->lib) {
    if (asked && *asked)
      snprintf(s->error, sizeof s->error, "cannot open VRAM_NVML=%s", asked);
    else
      snprintf(s->error, sizeof s->error, "no NVIDIA driver here: %s cannot be opened", usual[0]);
    return 0;
  }
#define X(field, type, text)                                                                       \
  symbol = dlsym(n->lib, text);                                                                    \
  memcpy(&n->field, &symbol, sizeof symbol);
  NVML_FUNCTIONS(X)
#undef X
  symbol = dlsym(n->lib, "nvmlErrorString");
  memcpy(&n->error, &symbol, sizeof symbol);
  status = NVML_EITHER(n, init_v2, init, ());
  if (!status)
    return 1;
  snprintf(s->error, sizeof s->error, "the NVIDIA driver does not answer: %s (nvmlInit: %d)",
           nvml_says(n, status), status);
  dlclose(n->lib);
  n->lib = NULL;
  return 0;
}

static void nvml_close(nvml *n) {
  if (!n->lib)
    return;
  if (n->shutdown)
    n->shutdown();
  dlclose(n->lib);
  n->lib = NULL;
}

/* The first bytes of /proc/PID/FILE; words of a command line are parted by a blank. */
static size_t watch_proc(unsigned pid, const char *file, char *to, size_t cap) {
  char path[64];
  size_t n, i;
  FILE *f;
  snprintf(path, sizeof path, "/proc/%u/%s", pid, file);
  to[0] = 0;
  f = fopen(path, "rb");
  if (!f)
    return 0;
  n = fread(to, 1, cap - 1, f);
  fclose(f);
  while (n && (!to[n - 1] || to[n - 1] == '\n'))
    n--;
  for (i = 0; i < n; i++)
    if (!to[i])
      to[i] = ' ';
  to[n] = 0;
  watch_clean(to);
  return n;
}

/* Who a process is. It may be gone by now, or belong to another container: then NVML may know its
   name. */
static void watch_who(const nvml *n, watch_process *p) {
  char path[32], text[256] = "";
  const struct passwd *user;
  const char *base;
  struct stat st;
  watch_proc(p->pid, "comm", p->name, sizeof p->name);
  watch_proc(p->pid, "cmdline", p->command, sizeof p->command);
  p->user[0] = 0;
  snprintf(path, sizeof path, "/proc/%u", p->pid);
  if (!stat(path, &st)) {
    user = getpwuid(st.st_uid);
    if (user)
      snprintf(p->user, sizeof p->user, "%.39s", user->pw_name);
    else
      snprintf(p->user, sizeof p->user, "%lu", (unsigned long)st.st_uid);
  }
  if (!p->name[0] && !NVML_CALL(n, process_name, (p->pid, text, sizeof text))) {
    text[sizeof text - 1] = 0;
    base = strrchr(text, '/');
    snprintf(p->name, sizeof p->name, "%.63s", base ? base + 1 : text);
    watch_clean(p->name);
  }
}

/* Adds the processes of one type; a process may be of several. 0: out of memory. */
static int watch_list(const nvml *n, void *device, unsigned type, watch_device *d) {
  int (*const call[3][3])(void *, unsigned *,
                          void *) = {{n->compute_v3, n->compute_v2, n->compute},
                                     {n->graphics_v3, n->graphics_v2, n->graphics},
                                     {n->mps_v3, n->mps_v2, n->mps}};
  const int form = call[type][0] ? 0 : call[type][1] ? 1 : 2;
  const size_t each = form == 2 ? sizeof(nvml_process_v1) : sizeof(nvml_process);
  unsigned count = 0, cap = 0, i, tries;
  char *list = NULL;
  int status;
  if (!call[type][form])
    return 1;
  status = call[type][form](device, &count, NULL);
  for (tries = 0; status == NVML_INSUFFICIENT_SIZE && tries < WATCH_TRIES; tries++) {
    char *more;
    if (count > WATCH_PROCESSES)
      break;
    cap = count > cap ? count + 8 : cap + 8; /* more may come meanwhile */
    more = (char *)realloc(list, cap * each);
    if (!more)
      return free(list), 0;
    list = more;
    count = cap;
    status = call[type][form](device, &count, list);
  }
  if (status || !list || count > cap)
    return free(list), 1; /* none, or the driver does not say */
  for (i = 0; i < count; i++) {
    nvml_process_v1 p; /* what all forms begin with */
    size_t k;
    memcpy(&p, list + i * each, sizeof p);
    for (k = 0; k < d->nprocess && d->process[k].pid != p.pid; k++)
      ;
    if (k == d->nprocess) {
      watch_process *more =
          (watch_process *)realloc(d->process, (d->nprocess + 1) * sizeof *d->process);
      if (!more)
        return free(list), 0;
      d->process = more;
      memset(&more[k], 0, sizeof *more);
      more[k].pid = p.pid;
      more[k].used = WATCH_UNKNOWN;
      d->nprocess++;
      watch_who(n, &more[k]);
    }
    d->process[k].types |= 1U << type;
    if (p.used != WATCH_UNKNOWN &&
        (d->process[k].used == WATCH_UNKNOWN || p.used > d->process[k].used))
      d->process[k].used = p.used;
  }
  free(list);
  return 1;
}

static int watch_by_bytes(const void *a, const void *b) {
  const watch_process *x = (const watch_process *)a, *y = (const watch_process *)b;
  /* the unknown ones last */
  const uint64_t i = x->used + 1, k = y->used + 1;
  return i != k ? (i < k) - (i > k) : (x->pid > y->pid) - (x->pid < y->pid);
}

/* Where the device has no memory of its own (NVML says "not supported"), it uses the system's. */
static void watch_system_memory(watch_device *d) {
  char line[128];
  unsigned long long kib;
  FILE *f = fopen("/proc/meminfo", "r");
  if (!f)
    return;
  while (fgets(line, sizeof line, f))
    if (sscanf(line, "MemTotal: %llu kB", &kib) == 1)
      d->total = kib * 1024;
    else if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
      d->free = kib * 1024;
  fclose(f);
  if (d->total >= d->free)
    d->used = d->total - d->free;
}

/* 0: out of memory */
static int watch_device_fill(const nvml *n, void *handle, watch_device *d) {
  nvml_memory_v2 m2;
  nvml_memory m;
  nvml_utilization u;
  unsigned v;
  int status;
  if (NVML_CALL(n, name, (handle, d->name, sizeof d->name)))
    d->name[0] = 0;
  if (NVML_CALL(n, uuid, (handle, d->uuid, sizeof d->uuid)))
    d->uuid[0] = 0;
  d->name[sizeof d->name - 1] = d->uuid[sizeof d->uuid - 1] = 0;
  watch_clean(d->name), watch_clean(d->uuid);
  memset(&m2, 0, sizeof m2);
  memset(&m, 0, sizeof m);
  m2.version = (unsigned)sizeof m2 | 2U << 24;
  status = NVML_CALL(n, memory_v2, (handle, &m2));
  if (!status)
    m.total = m2.total, m.free = m2.free;
  else
    status = NVML_CALL(n, memory, (handle, &m));
  if (!status && m.free <= m.total) /* what one form counts as used leaves out the driver's own */
    d->total = m.total, d->free = m.free, d->used = m.total - m.free;
  else if (status == NVML_NOT_SUPPORTED)
    watch_system_memory(d);
  else if (status)
    snprintf(d->error, sizeof d->error, "%s", nvml_says(n, status));
  if (!NVML_CALL(n, utilization, (handle, &u)))
    d->utilization = u.gpu;
  if (!NVML_CALL(n, temperature, (handle, 0, &v)))
    d->temperature = v;
  if (!NVML_CALL(n, power, (handle, &v)))
    d->power = v;
  if (!NVML_CALL(n, power_limit, (handle, &v)))
    d->power_limit = v;
  for (v = 0; v < 3; v++)
    if (!watch_list(n, handle, v, d))
      return 0;
  if (d->nprocess)
    qsort(d->process, d->nprocess, sizeof *d->process, watch_by_bytes);
  return 1;
}

/* A place for one more device; NULL: out of memory. */
static watch_device *watch_add(watch_state *s, unsigned index, int mig) {
  watch_device *d = (watch_device *)realloc(s->device, (s->ndevice + 1) * sizeof *d);
  if (!d)
    return NULL;
  s->device = d;
  d += s->ndevice++;
  memset(d, 0, sizeof *d);
  d->index = index;
  d->mig = mig;
  d->total = d->used = d->free = WATCH_UNKNOWN;
  d->utilization = d->temperature = d->power = d->power_limit = WATCH_UNKNOWN;
  return d;
}

static void watch_clear(watch_state *s) {
  while (s->ndevice)
    free(s->device[--s->ndevice].process);
  free(s->device);
  s->device = NULL;
}

/* Everything anew; not FITS: s->error says why. */
static int watch_look(watch_state *s) {
  const nvml *n = &s->n;
  unsigned count = 0, i, parts, k, on, later;
  int status, version = 0;
  void *handle;
  watch_device *d;
  watch_clear(s);
  if (NVML_CALL(n, driver, (s->driver, sizeof s->driver)))
    s->driver[0] = 0;
  s->driver[sizeof s->driver - 1] = s->cuda[0] = 0;
  watch_clean(s->driver);
  if (!NVML_CALL(n, cuda, (&version)))
    snprintf(s->cuda, sizeof s->cuda, "%d.%d", version / 1000, version % 1000 / 10);
  status = NVML_EITHER(n, count_v2, count, (&count));
  if (status) {
    snprintf(s->error, sizeof s->error, "the NVIDIA driver does not count its devices: %s (%d)",
             nvml_says(n, status), status);
    return OTHER;
  }
  for (i = 0; i < count; i++) {
    d = watch_add(s, i, -1);
    if (!d)
      return cmd_no_memory();
    handle = NULL;
    status = NVML_EITHER(n, handle_v2, handle, (i, &handle));
    if (status) {
      snprintf(d->error, sizeof d->error, "%s", nvml_says(n, status));
      continue;
    }
    if (!watch_device_fill(n, handle, d))
      return cmd_no_memory();
    on = parts = later = 0;
    if (NVML_CALL(n, mig_mode, (handle, &on, &later)) || !on ||
        NVML_CALL(n, mig_count, (handle, &parts)))
      continue;
    for (k = 0; k < parts && k < 64; k++) {
      void *part = NULL;
      if (NVML_CALL(n, mig_handle, (handle, k, &part)))
        continue; /* no instance has this number */
      d = watch_add(s, i, (int)k);
      if (!d || !watch_device_fill(n, part, d))
        return cmd_no_memory();
    }
  }
  return FITS;
}

/* ---- output ---- */

static void watch_json_text(const char *key, const char *text) {
  printf("\"%s\":", key);
  if (*text)
    cmd_json_text(stdout, text);
  else
    fputs("null", stdout);
}

static void watch_json_number(const char *key, uint64_t v, unsigned per) {
  if (v == WATCH_UNKNOWN)
    printf("\"%s\":null,", key);
  else if (per == 1)
    printf("\"%s\":%" PRIu64 ",", key, v);
  else
    printf("\"%s\":%" PRIu64 ".%03u,", key, v / per, (unsigned)(v % per));
}

/* "compute+graphics", or as nvidia-smi has it: "C+G" */
static const char *watch_types(unsigned types, int brief) {
  static const char *const name[2][3] = {{"compute", "graphics", "mps"}, {"C", "G", "M"}};
  static char text[32];
  unsigned i;
  text[0] = 0;
  for (i = 0; i < 3; i++)
    if (types >> i & 1)
      snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", *text ? "+" : "",
               name[brief][i]);
  return text;
}

static void watch_json(const watch_state *s) {
  size_t i, k;
  printf("{\"time\":%lld,", (long long)time(NULL));
  watch_json_text("driver", s->driver), putchar(',');
  watch_json_text("cuda", s->cuda), fputs(",\"devices\":[", stdout);
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    printf("%s{\"index\":%u,", i ? "," : "", d->index);
    watch_json_number("mig", d->mig < 0 ? WATCH_UNKNOWN : (uint64_t)d->mig, 1);
    watch_json_text("name", d->name), putchar(',');
    watch_json_text("uuid", d->uuid), putchar(',');
    watch_json_number("total_bytes", d->total, 1);
    watch_json_number("used_bytes", d->used, 1);
    watch_json_number("free_bytes", d->free, 1);
    watch_json_number("utilization_percent", d->utilization, 1);
    watch_json_number("temperature_celsius", d->temperature, 1);
    watch_json_number("power_watts", d->power, 1000);
    watch_json_number("power_limit_watts", d->power_limit, 1000);
    watch_json_text("error", d->error), fputs(",\"processes\":[", stdout);
    for (k = 0; k < d->nprocess; k++) {
      const watch_process *p = &d->process[k];
      printf("%s{\"pid\":%u,", k ? "," : "", p->pid);
      watch_json_text("type", watch_types(p->types, 0)), putchar(',');
      watch_json_number("used_bytes", p->used, 1);
      watch_json_text("name", p->name), putchar(',');
      watch_json_text("command", p->command), putchar(',');
      watch_json_text("user", p->user), putchar('}');
    }
    fputs("]}", stdout);
  }
  fputs("],", stdout);
  watch_json_text("error", s->error), fputs("}\n", stdout);
}

static const char *watch_bytes(uint64_t b) { return b == WATCH_UNKNOWN ? "-" : cmd_human(b); }

/* "35 %", "41 C", "120 W"; three texts may live at once */
static const char *watch_value(uint64_t v, const char *unit) {
  static char text[3][32];
  static int at;
  char *t = text[at = (at + 1) % 3];
  if (v == WATCH_UNKNOWN)
    return "-";
  snprintf(t, sizeof *text, "%" PRIu64 " %s", v, unit);
  return t;
}

static const char *watch_index(const watch_device *d) {
  static char text[24];
  snprintf(text, sizeof text, d->mig < 0 ? "%u" : "%u:%d", d->index, d->mig);
  return text;
}

/* Lines that fit a terminal of so many columns and rows (0: any). */
typedef struct watch_page {
  size_t columns, rows, row;
} watch_page;

static void watch_line(watch_page *page, const char *before, const char *text) {
  size_t n = strlen(text);
  page->row++;
  if (page->rows && page->row >= page->rows) /* the cursor needs the last one */
    return;
  if (page->columns && n > page->columns)
    n = page->columns;
  printf("%s%.*s%s%s\n", before, (int)n, text, *before ? cmd_plain : "",
         page->rows ? "\033[K" : "");
}

static void watch_table(const watch_state *s, watch_page *page) {
  char line[512];
  size_t i, k;
  snprintf(line, sizeof line, "NVIDIA driver %s, CUDA %s", *s->driver ? s->driver : "-",
           *s->cuda ? s->cuda : "-");
  watch_line(page, cmd_dim, line);
  if (!s->ndevice)
    watch_line(page, "", "no device");
  else {
    snprintf(line, sizeof line, "%-6s%-28s%12s%12s%12s%7s%7s%8s", "gpu", "name", "used", "free",
             "total", "busy", "temp", "power");
    watch_line(page, cmd_bold, line);
  }
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    snprintf(line, sizeof line, "%-6s%-27.*s %12s%12s%12s%7s%7s%8s%s%s", watch_index(d), 27,
             *d->name ? d->name : "-", watch_bytes(d->used), watch_bytes(d->free),
             watch_bytes(d->total), watch_value(d->utilization, "%"),
             watch_value(d->temperature, "C"),
             watch_value(d->power == WATCH_UNKNOWN ? d->power : (d->power + 500) / 1000, "W"),
             *d->error ? "  " : "", d->error);
    watch_line(page, "", line);
    for (k = 0; k < d->nprocess; k++) {
      const watch_process *p = &d->process[k];
      snprintf(line, sizeof line, "      %-10u%-14.14s%-8s%12s  %s", p->pid,
               *p->user ? p->user : "-", watch_types(p->types, 1), watch_bytes(p->used),
               *p->command ? p->command
               : *p->name  ? p->name
                           : "-");
      watch_line(page, "", line);
    }
  }
}

/* What is appended where nothing can be redrawn: a line for each device. */
static void watch_lines(const watch_state *s) {
  const time_t now = time(NULL);
  const struct tm *local = localtime(&now);
  char at[32] = "";
  size_t i, k;
  if (local)
    strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%S", local);
  if (!s->ndevice)
    printf("%s no device\n", at);
  for (i = 0; i < s->ndevice; i++) {
    const watch_device *d = &s->device[i];
    printf("%s gpu %s used %s free %s total %s", at, watch_index(d), watch_bytes(d->used),
           watch_bytes(d->free), watch_bytes(d->total));
    printf(" busy %s temp %s power %s%s%s", watch_value(d->utilization, "%"),
           watch_value(d->temperature, "C"),
           watch_value(d->power == WATCH_UNKNOWN ? d->power : (d->power + 500) / 1000, "W"),
           *d->error ? " error " : "", d->error);
    for (k = 0; k < d->nprocess; k++)
      printf("; %u %s %s", d->process[k].pid, *d->process[k].name ? d->process[k].name : "-",
             watch_bytes(d->process[k].used));
    putchar('\n');
  }
}

static void watch_show(const watch_state *s, int first) {
  watch_page page = {0, 0, 0};
  if (s->json)
    watch_json(s);
  else if (s->once)
    watch_table(s, &page);
  else if (IS_TERMINAL(stdout)) {
#ifdef TIOCGWINSZ
    struct winsize w;
    if (!ioctl(fileno(stdout), TIOCGWINSZ, &w))
      page.columns = w.ws_col, page.rows = w.ws_row;
#endif
    fputs(first ? "\033[2J\033[H" : "\033[H", stdout);
    watch_table(s, &page);
    fputs("\033[J", stdout);
  } else
    watch_lines(s);
}

/* 1: it goes on; 0: error printed */
static int watch_option(watch_state *s, const char *a, const char *v, int *took) {
  char *end;
  *took = 1;
  if (!strcmp(a, "--once"))
    return s->once = 1;
  if (!strcmp(a, "--json"))
    return s->json = 1;
  if (strcmp(a, "--interval") && strcmp(a, "--units"))
    return cmd_unknown_option(a, "watch", NULL, "");
  *took = 2;
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "--interval")) {
    s->interval = *v >= '0' && *v <= '9' ? strtod(v, &end) : 0;
    if (s->interval < 0.1 || s->interval > 86400 || *end)
      return cmd_bad("not an interval", v, "seconds, from 0.1 to 86400"), 0;
    return 1;
  }
  return cmd_set_units(v);
}

int watch_command(int argc, char **argv) {
  static watch_state s;
  int i, took, status, first = 1;
  struct timespec pause;
  memset(&s, 0, sizeof s);
  s.interval = 2;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_watch, stdout), FITS;
  for (i = 0; i < argc; i += took)
    if (!watch_option(&s, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &took))
      return USAGE;
  pause.tv_sec = (time_t)s.interval;
  pause.tv_nsec = (long)((s.interval - (double)pause.tv_sec) * 1e9);
  status = nvml_open(&s) ? FITS : OTHER;
  while (status == FITS) {
    status = watch_look(&s);
    if (status != FITS)
      break;
    watch_show(&s, first);
    first = 0;
    if (fflush(stdout) || ferror(stdout) || s.once)
      break;
    nanosleep(&pause, NULL);
  }
  if (status != FITS && *s.error) {
    watch_clear(&s);
    if (s.json)
      watch_json(&s);
    else
      cmd_say("vram: %s", s.error);
  }
  watch_clear(&s);
  nvml_close(&s.n);
  return status;
}

#else

int watch_command(int argc, char **argv) {
  if (argc && (!strcmp(argv[0], "-h") || !strcmp(argv[0], "--help")))
    return cmd_help(help_watch, stdout), FITS;
  cmd_say("vram: watch is not on this system (it needs dlopen)");
  return OTHER;
}

#endif
