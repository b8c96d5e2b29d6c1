/* A management library of pretended devices. NVML_DEVICES: how many; NVML_PID: the first process of
   each; NVML_MODE: words of
     fail:FUNCTION:CODE    that function fails
     na                    the driver does not say how much a process uses
     churn                 processes come and go between two calls
     grow                  one more at every call
     lost                  device 1 does not answer
     mig                   device 0 is divided in two
     soc                   no memory of its own
     idle                  no process was busy of late
     stale                 the driver has old samples alone, and some that were never written
     foreign               the samples are of processes that nobody lists
     wave                  a device is a tenth fuller at every call, to nine of them, and then empty
     dirty                 names with control characters, not ended
   Compiled with -DOLD it has the first forms of the calls only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
  unsigned long long total, free, used;
} memory_v1;
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} memory_v2;
typedef struct {
  unsigned pid;
  unsigned long long used;
#ifndef OLD
  unsigned gpu_instance, compute_instance;
#endif
} process;
#define GIB (1ULL << 30)
#define RESERVED (GIB / 2)

static unsigned calls, waves;
static char device[64][4]; /* a device's handle, and of its parts */

static int fails(const char *name) {
  char text[96];
  const char *mode = getenv("NVML_MODE"), *at;
  snprintf(text, sizeof text, "fail:%s:", name);
  at = mode ? strstr(mode, text) : NULL;
  return at ? atoi(at + strlen(text)) : 0;
}
static int mode(const char *word) {
  const char *mode = getenv("NVML_MODE");
  return mode && strstr(mode, word) != NULL;
}
static unsigned devices(void) {
  const char *n = getenv("NVML_DEVICES");
  return n ? (unsigned)atoi(n) : 1;
}
static unsigned number(void *handle) { return (unsigned)(((char *)handle - device[0]) / 4); }
static int part(void *handle) { return (int)(((char *)handle - device[0]) % 4); } /* 0: whole */

#ifdef OLD
#define V2(name) name
#define V3(name) name
#else
#define V2(name) name##_v2
#define V3(name) name##_v3
#endif
#define FAIL(name)                                                                                 \
  do {                                                                                             \
    int code = fails(#name);                                                                       \
    if (code)                                                                                      \
      return code;                                                                                 \
  } while (0)

const char *nvmlErrorString(int code) {
  return code == 999 ? NULL : code == 15 ? "GPU is lost" : "Some Error";
}
int V2(nvmlInit)(void) {
  FAIL(nvmlInit);
  return 0;
}
int nvmlShutdown(void) { return 0; }
static int text(char *to, unsigned n, const char *s) {
  if (mode("dirty"))
    memset(to, '\033', n);
  else
    snprintf(to, n, "%s", s);
  return 0;
}
int nvmlSystemGetDriverVersion(char *to, unsigned n) {
  FAIL(nvmlSystemGetDriverVersion);
  return text(to, n, "595.00");
}
int nvmlSystemGetCudaDriverVersion_v2(int *v) {
  FAIL(nvmlSystemGetCudaDriverVersion);
  *v = 13020;
  return 0;
}
int nvmlSystemGetProcessName(unsigned pid, char *to, unsigned n) {
  FAIL(nvmlSystemGetProcessName);
  return text(to, n, pid % 2 ? "/opt/a program" : "one");
}
int V2(nvmlDeviceGetCount)(unsigned *n) {
  FAIL(nvmlDeviceGetCount);
  *n = devices();
  return 0;
}
int V2(nvmlDeviceGetHandleByIndex)(unsigned i, void **handle) {
  FAIL(nvmlDeviceGetHandleByIndex);
  if (i >= devices() || i > 63)
    return 2;
  if (i == 1 && mode("lost"))
    return 15;
  *handle = device[i];
  return 0;
}
int nvmlDeviceGetName(void *handle, char *to, unsigned n) {
  FAIL(nvmlDeviceGetName);
  return text(to, n, part(handle) ? "Pretended MIG 1g.10gb" : "Pretended GPU 80GB");
}
int nvmlDeviceGetUUID(void *handle, char *to, unsigned n) {
  char s[32];
  FAIL(nvmlDeviceGetUUID);
  snprintf(s, sizeof s, "%s-%u-%d", part(handle) ? "MIG" : "GPU", number(handle), part(handle));
  return text(to, n, s);
}
int nvmlDeviceGetMemoryInfo(void *handle, memory_v1 *m) {
  FAIL(nvmlDeviceGetMemoryInfo);
  if (mode("soc"))
    return 3;
  m->total = (part(handle) ? 10 : 80) * GIB;
  m->free = m->total - RESERVED - (number(handle) + 1) * GIB;
  if (mode("wave"))
    m->free = m->total - waves++ % 10 * (m->total / 10);
  m->used = m->total - m->free;
  return 0;
}
#ifndef OLD
int nvmlDeviceGetMemoryInfo_v2(void *handle, memory_v2 *m) {
  memory_v1 one;
  int status;
  FAIL(nvmlDeviceGetMemoryInfo_v2);
  if (m->version != (40U | 2U << 24))
    return 25;
  status = nvmlDeviceGetMemoryInfo(handle, &one);
  m->total = one.total, m->free = one.free, m->reserved = RESERVED;
  m->used = one.used - RESERVED;
  return status;
}
#endif
int nvmlDeviceGetUtilizationRates(void *handle, unsigned *u) {
  FAIL(nvmlDeviceGetUtilizationRates);
  u[0] = 35 + number(handle), u[1] = 7;
  return part(handle) ? 3 : 0;
}
int nvmlDeviceGetTemperature(void *handle, int sensor, unsigned *v) {
  FAIL(nvmlDeviceGetTemperature);
  *v = 41 + number(handle);
  return part(handle) ? 3 : sensor;
}
int nvmlDeviceGetPowerUsage(void *handle, unsigned *v) {
  FAIL(nvmlDeviceGetPowerUsage);
  *v = 120499;
  return part(handle) ? 3 : 0;
}
int nvmlDeviceGetEnforcedPowerLimit(void *handle, unsigned *v) {
  FAIL(nvmlDeviceGetEnforcedPowerLimit);
  *v = 700000;
  return part(handle) ? 3 : 0;
}
int nvmlDeviceGetMigMode(void *handle, unsigned *now, unsigned *later) {
  FAIL(nvmlDeviceGetMigMode);
  *now = *later = mode("mig") && !number(handle);
  return 0;
}
int nvmlDeviceGetMaxMigDeviceCount(void *handle, unsigned *n) {
  FAIL(nvmlDeviceGetMaxMigDeviceCount);
  *n = part(handle) ? 0 : 7;
  return 0;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void *handle, unsigned k, void **to) {
  FAIL(nvmlDeviceGetMigDeviceHandleByIndex);
  if (k != 0 && k != 2)
    return 6;
  *to = (char *)handle + (k ? 2 : 1);
  return 0;
}
/* The first process is NVML_PID, the others are of nobody here. Of a divided device each part has
   one of them, and the whole device all. */
static int list(void *handle, unsigned *n, process *p, unsigned have) {
  const char *first = getenv("NVML_PID");
  unsigned i, cap = *n, from = 0;
  calls++;
  if (mode("churn"))
    have = calls * 7 % 5;
  if (mode("grow"))
    have = calls * 100; /* more than any room for more */
  if (part(handle))
    from = (unsigned)part(handle), have = have > from ? 1 : 0;
  *n = have;
  if (have > cap)
    return 7;
  for (i = from; i < from + have; i++, p++) {
    memset(p, 0, sizeof *p);
    p->pid = !i && first ? (unsigned)atoi(first) : 4194400 + i + number(handle);
    p->used = mode("na") ? ~0ULL : (i + 1) * (GIB / 4);
  }
  return 0;
}

/* A ring of samples: two of each process, the newer one first; of the third there is none. */
typedef struct {
  unsigned pid;
  unsigned long long time;
  unsigned use[4];
} sample;
static int samples(void *handle, sample *to, unsigned cap, unsigned *n, unsigned long long since) {
  const char *first = getenv("NVML_PID");
  const unsigned long long now = (unsigned long long)time(NULL) * 1000000;
  unsigned have = 0, i;
  if (part(handle) || (mode("mig") && !number(handle)))
    return 3;
  if (mode("idle"))
    return 6;
  for (i = 0; i < 4; i++) {
    sample s = {0, now - (i >= 2) * 500000, {40 + 5 * (i & 1) - i / 2, 7, i & 1, 3 * (i & 1)}};
    s.pid = mode("foreign")   ? 99 + i
            : i % 2 || !first ? 4194401 + number(handle)
                              : (unsigned)atoi(first);
    if (mode("stale"))
      s.time = i & 1 ? now : 5, s.use[0] = i & 1 ? 4000000000U : 99;
    else if (s.time <= since)
      continue;
    if (have < cap)
      to[have] = s;
    have++;
  }
  *n = have;
  return have > cap ? 7 : have ? 0 : 6;
}
typedef struct {
  unsigned pid;
  unsigned long long time;
  unsigned busy, memory, encoder, decoder;
} sample_v1;
int nvmlDeviceGetProcessUtilization(void *handle, sample_v1 *to, unsigned *n,
                                    unsigned long long since) {
  sample s[8];
  unsigned i;
  int status;
  FAIL(nvmlDeviceGetProcessUtilization);
  status = samples(handle, s, to ? *n : 0, n, since);
  for (i = 0; !status && i < *n; i++)
    to[i].pid = s[i].pid, to[i].time = s[i].time, memcpy(&to[i].busy, s[i].use, sizeof s[i].use);
  return status;
}
#ifndef OLD
typedef struct {
  unsigned long long time;
  unsigned pid, busy, memory, encoder, decoder, jpeg, flow;
} sample_v2;
typedef struct {
  unsigned version, n;
  unsigned long long since;
  sample_v2 *to;
} sample_list;
int nvmlDeviceGetProcessesUtilizationInfo(void *handle, sample_list *list) {
  sample s[8];
  unsigned i;
  int status;
  FAIL(nvmlDeviceGetProcessesUtilizationInfo);
  if (list->version != (sizeof *list | 1U << 24))
    return 25;
  status = samples(handle, s, list->to ? list->n : 0, &list->n, list->since);
  for (i = 0; !status && i < list->n; i++) {
    memset(&list->to[i], 0, sizeof *list->to);
    list->to[i].pid = s[i].pid, list->to[i].time = s[i].time;
    memcpy(&list->to[i].busy, s[i].use, sizeof s[i].use);
  }
  return status;
}
#endif
int V3(nvmlDeviceGetComputeRunningProcesses)(void *handle, unsigned *n, process *p) {
  FAIL(nvmlDeviceGetComputeRunningProcesses);
  return list(handle, n, p, number(handle) < 3 ? 3 : 0);
}
int V3(nvmlDeviceGetGraphicsRunningProcesses)(void *handle, unsigned *n, process *p) {
  FAIL(nvmlDeviceGetGraphicsRunningProcesses);
  return list(handle, n, p, number(handle) < 1 ? 1 : 0);
}
