/* What NVIDIA's management library (NVML) says of devices and processes. It is opened when it is
   asked: nothing of NVIDIA is needed to build this. */
#include "vram_watch.h"

#if defined(__unix__) || defined(__APPLE__)

#include <dlfcn.h>
#include <pwd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
  NVML_NOT_SUPPORTED = 3,
  NVML_NOT_FOUND = 6,
  NVML_INSUFFICIENT_SIZE = 7,
  NVML_NO_FUNCTION = 13, /* the library has no such function */
  WATCH_TRIES = 16,      /* processes come while they are counted */
  WATCH_PROCESSES = 1 << 20,
  WATCH_RECENT = 2 /* seconds: the driver samples processes once in a second or more often */
};

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
/* How busy a process was: one sample of the driver's ring. */
typedef struct nvml_sample_v1 {
  unsigned pid;
  unsigned long long time; /* microseconds since 1970 */
  unsigned busy, bandwidth, encoder, decoder;
} nvml_sample_v1;
typedef struct nvml_sample {
  unsigned long long time;
  unsigned pid, busy, bandwidth, encoder, decoder, jpeg, flow;
} nvml_sample;
typedef struct nvml_samples {
  unsigned version, count;
  unsigned long long since;
  void *list;
} nvml_samples;

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
typedef int (*nvml_ask_samples)(void *, nvml_samples *);
typedef int (*nvml_ask_samples_v1)(void *, void *, unsigned *, unsigned long long);

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
  X(mps, nvml_list, "nvmlDeviceGetMPSComputeRunningProcesses")                                     \
  X(samples, nvml_ask_samples, "nvmlDeviceGetProcessesUtilizationInfo")                            \
  X(samples_v1, nvml_ask_samples_v1, "nvmlDeviceGetProcessUtilization")

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

static nvml library;

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

int watch_open(watch_state *s) {
  static const char *const usual[] = {"libnvidia-ml.so.1", "libnvidia-ml.so",
                                      "/usr/lib/wsl/lib/libnvidia-ml.so.1"};
  const char *asked = getenv("VRAM_NVML");
  nvml *n = &library;
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

void watch_close(void) {
  nvml *n = &library;
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

/* What a process has used of the processors, and of the machine's memory. */
static void watch_host(watch_process *p) {
  char text[1024];
  const char *end;
  unsigned long long user, kernel, pages;
  p->ticks = p->host = WATCH_UNKNOWN;
  watch_proc(p->pid, "stat", text, sizeof text);
  end = strrchr(text, ')'); /* of its name, which may be anything */
  if (end && sscanf(end + 1,
                    " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d "
                    "%*d %*u %*u %llu",
                    &user, &kernel, &pages) == 3) {
    p->ticks = user + kernel;
    p->host = pages * (unsigned long long)sysconf(_SC_PAGESIZE);
  }
}

/* Who a process is. It may be gone by now, or belong to another container: then NVML may know its
   name. */
static void watch_who(const nvml *n, watch_process *p) {
  char path[32], text[256] = "";
  static char last[sizeof p->user]; /* its name may be asked for over a network */
  static uid_t last_id;
  const struct passwd *user;
  const char *base;
  struct stat st;
  watch_proc(p->pid, "comm", p->name, sizeof p->name);
  watch_proc(p->pid, "cmdline", p->command, sizeof p->command);
  watch_host(p);
  p->user[0] = 0;
  snprintf(path, sizeof path, "/proc/%u", p->pid);
  if (!stat(path, &st)) {
    if (!*last || last_id != st.st_uid) {
      user = getpwuid(st.st_uid);
      if (user)
        snprintf(last, sizeof last, "%.39s", user->pw_name);
      else
        snprintf(last, sizeof last, "%lu", (unsigned long)st.st_uid);
      last_id = st.st_uid;
    }
    memcpy(p->user, last, sizeof last);
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
      more[k].cpu = WATCH_UNKNOWN;
      more[k].busy = more[k].bandwidth = more[k].encoder = more[k].decoder = WATCH_UNKNOWN;
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

/* Samples newer than that, in the newest form (0) or the first one (1); NULL: *status says why, or
   NVML_NOT_FOUND, there are none. */
static char *watch_samples(const nvml *n, void *device, int form, unsigned long long since,
                           unsigned *count, int *status) {
  const size_t each = form ? sizeof(nvml_sample_v1) : sizeof(nvml_sample);
  unsigned cap = 0, tries;
  char *list = NULL;
  for (tries = 0; tries < WATCH_TRIES; tries++) {
    char *more;
    nvml_samples s;
    s.version = (unsigned)sizeof s | 1U << 24;
    s.count = cap;
    s.since = since;
    s.list = list;
    if (form)
      *status = NVML_CALL(n, samples_v1, (device, list, &s.count, since));
    else
      *status = NVML_CALL(n, samples, (device, &s));
    *count = s.count;
    if (*status != NVML_INSUFFICIENT_SIZE || s.count > WATCH_PROCESSES)
      break;
    cap = s.count > cap ? s.count + 8 : cap + 8;
    more = (char *)realloc(list, cap * each);
    if (!more)
      break;
    list = more;
    memset(list, 0, cap * each); /* some drivers write fewer than they count */
  }
  if (!*status && (!list || !*count))
    *status = NVML_NOT_FOUND;
  if (!*status && *count <= cap)
    return list;
  free(list);
  return NULL;
}

/* The newest sample of each process. One without any was not busy, unless nobody's sample belongs
   here: then the driver's numbers of processes are others (of another container). */
static void watch_busy(const nvml *n, void *device, watch_device *d) {
  const unsigned long long now = (unsigned long long)time(NULL);
  const unsigned long long since = (now > WATCH_RECENT ? now - WATCH_RECENT : 0) * 1000000;
  unsigned count = 0, i;
  int form = 0, status, is_known;
  char *list;
  size_t k;
  if (!d->nprocess)
    return;
  list = watch_samples(n, device, 0, since, &count, &status);
  if (status && status != NVML_NOT_FOUND) {
    form = 1;
    list = watch_samples(n, device, 1, since, &count, &status);
  }
  is_known = status == NVML_NOT_FOUND;
  for (k = 0; k < d->nprocess; k++) {
    watch_process *p = &d->process[k];
    unsigned long long newest = since;
    for (i = 0; list && i < count; i++) {
      nvml_sample s;
      nvml_sample_v1 first;
      if (form) {
        memcpy(&first, list + i * sizeof first, sizeof first);
        s.time = first.time, s.pid = first.pid, s.busy = first.busy;
        s.bandwidth = first.bandwidth, s.encoder = first.encoder, s.decoder = first.decoder;
      } else
        memcpy(&s, list + i * sizeof s, sizeof s);
      if (s.pid != p->pid)
        continue;
      is_known = 1;
      if (s.time <= newest || s.busy > 100 || s.bandwidth > 100 || s.encoder > 100 ||
          s.decoder > 100)
        continue; /* older than asked for, or never written */
      newest = s.time;
      p->busy = s.busy, p->bandwidth = s.bandwidth, p->encoder = s.encoder, p->decoder = s.decoder;
    }
  }
  free(list);
  for (k = 0; k < d->nprocess && is_known; k++)
    if (d->process[k].busy == WATCH_UNKNOWN) {
      watch_process *p = &d->process[k];
      p->busy = p->bandwidth = p->encoder = p->decoder = 0;
    }
}

/* What a whole device says of the processes of its parts is said there. */
static void watch_once_each(watch_state *s, size_t whole) {
  watch_device *d = &s->device[whole];
  size_t i, k, part, n = 0;
  for (i = 0; i < d->nprocess; i++) {
    int is_there = 0;
    for (part = whole + 1; part < s->ndevice; part++)
      for (k = 0; k < s->device[part].nprocess; k++)
        is_there |= s->device[part].process[k].pid == d->process[i].pid;
    if (!is_there)
      d->process[n++] = d->process[i];
  }
  d->nprocess = n;
}

int watch_has(const char *list, const char *word) {
  const size_t n = strlen(word);
  size_t k;
  if (!list)
    return 1;
  for (; *list; list += k + (list[k] == ',')) {
    k = strcspn(list, ",");
    if (k == n && !memcmp(list, word, n))
      return 1;
  }
  return 0;
}

/* Only those that were asked for stay. */
static void watch_filter(const watch_state *s, watch_device *d) {
  size_t i, n = 0;
  char pid[16];
  for (i = 0; i < d->nprocess; i++) {
    snprintf(pid, sizeof pid, "%u", d->process[i].pid);
    if (watch_has(s->pids, pid) && watch_has(s->users, d->process[i].user))
      d->process[n++] = d->process[i];
  }
  d->nprocess = n;
}

const char *const watch_order_name[WATCH_ORDERS] = {"memory",  "gpu",  "pid", "user",
                                                    "command", "busy", "cpu"};

int watch_compare(watch_order order, const watch_device *da, const watch_process *a,
                  const watch_device *db, const watch_process *b) {
  const int by = order == WATCH_BY_BUSY ? 1 : order == WATCH_BY_CPU ? 2 : 0;
  /* the unknown ones last */
  const uint64_t i = (by == 1 ? a->busy : by ? a->cpu : a->used) + 1;
  const uint64_t k = (by == 1 ? b->busy : by ? b->cpu : b->used) + 1;
  int c = 0;
  if (order == WATCH_BY_USER)
    c = strcmp(*a->user ? a->user : "~", *b->user ? b->user : "~");
  else if (order == WATCH_BY_COMMAND)
    c = strcmp(watch_what(a, 0), watch_what(b, 0));
  else if (order == WATCH_BY_GPU && da->index != db->index)
    c = da->index < db->index ? -1 : 1;
  else if (order == WATCH_BY_GPU)
    c = (da->mig > db->mig) - (da->mig < db->mig);
  if (!c && order != WATCH_BY_PID)
    c = (i < k) - (i > k);
  if (!c && by)
    return watch_compare(WATCH_BY_MEMORY, da, a, db, b);
  if (!c)
    c = (a->pid > b->pid) - (a->pid < b->pid);
  return c;
}

static const watch_state *sorted_for; /* qsort hands nothing on */
static const watch_device *sorted_on;

static int by_order(const void *a, const void *b) {
  const int c = watch_compare(sorted_for->order, sorted_on, (const watch_process *)a, sorted_on,
                              (const watch_process *)b);
  return sorted_for->reverse ? -c : c;
}

static void watch_sort(const watch_state *s, watch_device *d) {
  sorted_for = s;
  sorted_on = d;
  if (d->nprocess)
    qsort(d->process, d->nprocess, sizeof *d->process, by_order);
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
static int watch_device_fill(const watch_state *s, const nvml *n, void *handle, watch_device *d) {
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
    m.total = m2.total, m.free = m2.free, d->reserved = m2.reserved;
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
  watch_busy(n, handle, d);
  watch_filter(s, d);
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
  d->total = d->used = d->free = d->reserved = WATCH_UNKNOWN;
  d->utilization = d->temperature = d->power = d->power_limit = WATCH_UNKNOWN;
  return d;
}

void watch_clear(watch_state *s) {
  while (s->ndevice)
    free(s->device[--s->ndevice].process);
  free(s->device);
  s->device = NULL;
}

int watch_no_memory(watch_state *s) {
  snprintf(s->error, sizeof s->error, "out of memory");
  return OTHER;
}

double watch_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* How much of a processor each had since the look before. */
static void watch_cpu(watch_state *s, const watch_state *before) {
  const double ticks = (s->at - before->at) * (double)sysconf(_SC_CLK_TCK);
  size_t i, k, j, m;
  for (i = 0; i < s->ndevice && ticks >= 1; i++)
    for (k = 0; k < s->device[i].nprocess; k++) {
      watch_process *p = &s->device[i].process[k];
      for (j = 0; j < before->ndevice; j++)
        for (m = 0; m < before->device[j].nprocess; m++) {
          const watch_process *q = &before->device[j].process[m];
          if (q->pid == p->pid && q->ticks != WATCH_UNKNOWN && p->ticks != WATCH_UNKNOWN &&
              p->ticks >= q->ticks)
            p->cpu = (uint64_t)((double)(p->ticks - q->ticks) * 100 / ticks + 0.5);
        }
    }
}

static int watch_devices(watch_state *s) {
  const nvml *n = &library;
  unsigned count = 0, i, parts, k, on, later;
  int status, version = 0;
  void *handle;
  watch_device *d;
  size_t whole;
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
      return watch_no_memory(s);
    handle = NULL;
    status = NVML_EITHER(n, handle_v2, handle, (i, &handle));
    if (status) {
      snprintf(d->error, sizeof d->error, "%s", nvml_says(n, status));
      continue;
    }
    if (!watch_device_fill(s, n, handle, d))
      return watch_no_memory(s);
    on = parts = later = 0;
    whole = s->ndevice - 1;
    if (NVML_CALL(n, mig_mode, (handle, &on, &later)) || !on ||
        NVML_CALL(n, mig_count, (handle, &parts)))
      continue;
    for (k = 0; k < parts && k < 64; k++) {
      void *part = NULL;
      if (NVML_CALL(n, mig_handle, (handle, k, &part)))
        continue; /* no instance has this number */
      d = watch_add(s, i, (int)k);
      if (!d || !watch_device_fill(s, n, part, d))
        return watch_no_memory(s);
    }
    watch_once_each(s, whole);
  }
  return FITS;
}

int watch_look(watch_state *s) {
  watch_state before = *s;
  size_t i;
  int status;
  s->device = NULL;
  s->ndevice = 0;
  s->at = watch_seconds();
  status = watch_devices(s);
  watch_cpu(s, &before);
  for (i = 0; i < s->ndevice; i++)
    watch_sort(s, &s->device[i]);
  watch_clear(&before);
  return status;
}

#endif
