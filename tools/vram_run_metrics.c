/* vram run --metrics: a page in the text form of Prometheus, as the textfile collector of
   node_exporter reads it. It is there whole or not at all; processes that have ended are not in it,
   as they have no memory any more. */
#include "vram_run.h"

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

enum { METRIC_DEVICES = 18 };

/* Of a process that runs. */
typedef struct metric_process {
  run_part part;
  vram_memory_stats stats[METRIC_DEVICES];
  uint32_t device[METRIC_DEVICES], n;
  run_group *group;
  uint32_t groups;
} metric_process;

static void metric_text(FILE *f, const char *name, const char *text) {
  fprintf(f, "%s=\"", name);
  while (*text) {
    const char *const from = text;
    const unsigned c = cmd_next_char(&text);
    if (c == '\\' || c == '"')
      putc('\\', f);
    if (c == '\n')
      fputs("\\n", f);
    else if (c == 0xfffd) /* one that is wrong has the whole page refused */
      fputs("\357\277\275", f);
    else
      fwrite(from, 1, (size_t)(text - from), f);
  }
  putc('"', f);
}

static void metric_head(FILE *f, const char *name, const char *type, const char *help) {
  fprintf(f, "# HELP vram_%s %s\n# TYPE vram_%s %s\n", name, help, name, type);
}

static void metric_sample(FILE *f, const char *name, const metric_process *p, uint32_t device,
                          uint64_t value) {
  fprintf(f, "vram_%s{pid=\"%d\",", name, (int)p->part.section->pid);
  metric_text(f, "command", p->part.section->command);
  fprintf(f, ",device=\"%s\"} %" PRIu64 "\n", run_device(device), value);
}

/* X(name, type, of vram_memory_stats m, what it is) */
#define METRICS(X)                                                                                 \
  X("allocated_bytes", "gauge", m->allocated_bytes[0].current, "Bytes that are allocated.")        \
  X("allocated_peak_bytes", "gauge", m->allocated_bytes[0].peak,                                   \
    "Most bytes that were allocated at a time.")                                                   \
  X("reserved_bytes", "gauge", m->reserved_bytes[0].current, "Bytes that the device has given.")   \
  X("reserved_peak_bytes", "gauge", m->reserved_bytes[0].peak,                                     \
    "Most bytes that the device had given at a time.")                                             \
  X("live_allocations", "gauge", m->allocation[0].current, "Allocations that are alive.")          \
  X("allocations_total", "counter", m->allocation[0].allocated, "Allocations.")                    \
  X("frees_total", "counter", m->allocation[0].freed, "Allocations that were freed.")              \
  X("bytes_allocated_total", "counter", m->allocated_bytes[0].allocated,                           \
    "Bytes that were allocated.")                                                                  \
  X("bytes_freed_total", "counter", m->allocated_bytes[0].freed, "Bytes that were freed.")         \
  X("allocation_failures_total", "counter", m->num_ooms,                                           \
    "Allocations that failed for want of memory.")

static uint64_t metric_value(const vram_memory_stats *m, size_t which) {
  const uint64_t value[] = {
#define X(name, type, field, help) field,
      METRICS(X)
#undef X
  };
  return value[which];
}

static const struct {
  const char *name, *type, *help;
} metric[] = {
#define X(name, type, field, help) {name, type, help},
    METRICS(X)
#undef X
};

/* Do their samples have the same labels? Of a place's file the page has the last part only. */
static int metric_same(const vram_ledger *l, const run_group *a, const run_group *b) {
  const vram_owner *v = run_owner(l, a->owner), *w = run_owner(l, b->owner);
  return a->device == b->device && a->kind == b->kind && !strcmp(run_place(v), run_place(w)) &&
         !strcmp(v->function ? v->function : "", w->function ? w->function : "") &&
         !strcmp(v->tag ? v->tag : "", w->tag ? w->tag : "");
}

/* The groups whose samples would be the same become one. */
static uint32_t metric_merge(const vram_ledger *l, run_group *g, uint32_t n) {
  uint32_t i, k, used = 0;
  for (i = 0; i < n; i++) {
    for (k = 0; k < used && k < RUN_TOP && !metric_same(l, &g[k], &g[i]); k++)
      ;
    if (k < used && k < RUN_TOP) {
      g[k].bytes += g[i].bytes;
      g[k].count += g[i].count;
    } else
      g[used++] = g[i];
  }
  return used;
}

static void metric_callers(FILE *f, const metric_process *p, uint32_t processes) {
  static const char *const name[] = {"caller_bytes", "caller_allocations"};
  uint32_t i, k, which;
  for (which = 0; which < 2; which++) {
    metric_head(f, name[which], "gauge",
                which ? "Allocations that are alive, of the callers that have most bytes."
                      : "Bytes requested and alive, of the callers that have most.");
    for (i = 0; i < processes; i++)
      for (k = 0; k < p[i].groups && k < RUN_TOP; k++) {
        const run_group *g = &p[i].group[k];
        const vram_owner *w = run_owner(&p[i].part.section->tracker.ledger, g->owner);
        fprintf(f, "vram_%s{pid=\"%d\",device=\"%s\",call=\"%s\",", name[which],
                (int)p[i].part.section->pid, run_device(g->device), vram_cuda_kind_name(g->kind));
        metric_text(f, "place", run_place(w));
        putc(',', f);
        metric_text(f, "function", w->function ? w->function : "");
        if (w->tag) {
          putc(',', f);
          metric_text(f, "tag", w->tag);
        }
        fprintf(f, "} %" PRIu64 "\n", which ? g->count : g->bytes);
      }
  }
}

static void metric_write(FILE *f, const run_state *s, const metric_process *p, uint32_t n) {
  uint32_t i, k;
  size_t which;
  metric_head(f, "processes", "gauge", "Processes under vram run that have called CUDA and run.");
  fprintf(f, "vram_processes %" PRIu32 "\n", n);
  metric_head(f, "run_seconds", "gauge", "Seconds since the program began.");
  fprintf(f, "vram_run_seconds %.3f\n", s->seconds);
  for (which = 0; n && which < sizeof metric / sizeof *metric; which++) {
    metric_head(f, metric[which].name, metric[which].type, metric[which].help);
    for (i = 0; i < n; i++)
      for (k = 0; k < p[i].n; k++)
        metric_sample(f, metric[which].name, &p[i], p[i].device[k],
                      metric_value(&p[i].stats[k], which));
  }
  if (n)
    metric_callers(f, p, n);
}

static void metric_look(metric_process *p) {
  vram_ledger *l = &p->part.section->tracker.ledger;
  uint32_t i;
  for (i = 0; i <= l->options.devices && p->n < METRIC_DEVICES; i++) {
    p->device[p->n] = run_device_at(i, l->options.devices);
    vram_ledger_stats(l, p->device[p->n], &p->stats[p->n]);
    p->n += run_used(&p->stats[p->n]) != 0;
  }
  p->group = run_groups(l, &p->groups);
  p->groups = metric_merge(l, p->group, p->groups);
}

int run_metrics(const run_state *s) {
  const uint32_t parts = run_parts(s);
  metric_process *p = (metric_process *)calloc(parts ? parts : 1, sizeof *p);
  uint32_t i, n = 0;
  cmd_output out;
  int status = FITS, opened;
  if (!p)
    return cmd_no_memory();
  for (i = 0; i < parts; i++)
    if (run_open(s, i, &p[n].part, &status)) {
      if (p[n].part.running)
        metric_look(&p[n++]);
      else
        run_close(&p[n].part);
    }
  opened = cmd_output_open(&out, s->metrics);
  if (opened == FITS) {
    metric_write(out.file, s, p, n);
    opened = cmd_output_commit(&out, ferror(out.file) != 0);
  }
  for (i = 0; i < n; i++) {
    free(p[i].group);
    run_close(&p[i].part);
  }
  free(p);
  return opened != FITS ? opened : status;
}

#else
typedef int run_metrics_is_of_linux;
#endif
