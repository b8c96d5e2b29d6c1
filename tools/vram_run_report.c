/* vram run: the report, as text and as JSON, and the snapshot. */
#include "vram_run.h"

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#include <sys/wait.h>

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

run_group *run_groups(vram_ledger *l, uint32_t *n) {
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
  *n = 0;
  if (!list)
    return NULL;
  *n = vram_ledger_owners(l, 1, list, all);
  *n = *n < all ? *n : all;
  return list;
}

const vram_owner *run_owner(const vram_ledger *l, uint32_t owner) {
  return &l->owner[owner <= l->options.owners ? owner : 0];
}
static const char *run_function(const vram_owner *o) { return o->function ? o->function : ""; }

/* server.cpp:41  net::load, weights */
static void run_text_owner(FILE *f, const vram_owner *o) {
  fprintf(f, "  %s%s%s%s%s\n", run_place(o), o->function ? "  " : "", run_function(o),
          o->tag ? ", " : "", o->tag ? o->tag : "");
}

const char *run_device(uint32_t device) {
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

int run_used(const vram_memory_stats *m) {
  return m->allocation[0].allocated || m->reserved_bytes[0].allocated || m->num_ooms;
}

uint32_t run_device_at(uint32_t i, uint32_t devices) { return i < devices ? i : VRAM_DEVICE_HOST; }

static void run_text_process(FILE *f, const run_part *p) {
  run_section *r = p->section;
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
            device == VRAM_DEVICE_HOST ? "" : run_device(device), p->running ? "now" : "at the end",
            "peak", "allocated", "freed");
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
  if (n || !peak)
    fprintf(f, "  at the peak, %s%s\n", cmd_human(l->peak_bytes), peak ? "" : ": out of memory");
  for (i = 0; i < n && i < RUN_TOP / 2; i++) {
    fprintf(f, "    %12s", cmd_human(peak[i].at_peak));
    run_text_owner(f, &peak[i]);
  }
  if (n > RUN_TOP / 2)
    fprintf(f, "    and %" PRIu32 " callers more\n", n - RUN_TOP / 2);
  free(peak);
  group = run_groups(l, &n);
  if (n)
    fprintf(f, "  not freed %s\n", p->running ? "now" : "at the end");
  else if (!group)
    fprintf(f, "  what is not freed: out of memory\n");
  else
    fprintf(f, "  all %s\n", p->running ? "is freed now" : "was freed at the end");
  for (i = 0; i < n && i < RUN_TOP; i++) {
    fprintf(f, "    %12s %7" PRIu32 " x %-18s %-4s", cmd_human(group[i].bytes), group[i].count,
            vram_cuda_kind_name(group[i].kind), run_device(group[i].device));
    run_text_owner(f, run_owner(l, group[i].owner));
  }
  if (n > RUN_TOP)
    fprintf(f, "    and %" PRIu32 " callers more\n", n - RUN_TOP);
  free(group);
  if (r->tracker.ipc_bytes)
    fprintf(f, "  memory of other processes, opened here: %s\n", cmd_human(r->tracker.ipc_bytes));
  if (r->tracker.graph_nodes)
    fprintf(f, "  captured into graphs, not counted: %" PRIu64 " allocations, %s\n",
            r->tracker.graph_nodes, cmd_human(r->tracker.graph_bytes));
  if (r->names_lost || r->tags_lost)
    fprintf(f,
            "  ranges of NVTX: %" PRIu32 " names found no room, %" PRIu32
            " callers are not told apart by range\n",
            r->names_lost, r->tags_lost);
  if (l->lost || r->tracker.lost)
    fprintf(f, "  found no place in the tables: %" PRIu64 " allocations, %s\n",
            l->lost + r->tracker.lost, cmd_human(l->lost_bytes + r->tracker.lost_bytes));
  if (ooms) {
    fprintf(f, "  failed for want of memory: %" PRIu64 " allocations", ooms);
    fprintf(f, "%s%s\n", *p->report ? "; the last:\n" : "", p->report);
  }
}

static void run_json_stat(FILE *f, const vram_stat *s) {
  fprintf(f,
          "\"current\":%" PRIu64 ",\"peak\":%" PRIu64 ",\"allocated\":%" PRIu64
          ",\"freed\":%" PRIu64,
          s->current, s->peak, s->allocated, s->freed);
}

static void run_json_field(FILE *f, int *comma, const char *name, const char *text) {
  if (!text)
    return;
  fprintf(f, "%s\"%s\":", (*comma)++ ? "," : "", name);
  cmd_json_text(f, text);
}

/* The place as the text has it, and all that is known of it and its callers. */
static void run_json_owner(FILE *f, const run_part *p, const vram_owner *o) {
  const ptrdiff_t owner = o->number;
  const run_step *s = p->step && owner <= RUN_OWNERS ? p->step[owner] : NULL;
  int comma;
  fputs("\"place\":", f);
  cmd_json_text(f, run_place(o));
  fputs(",\"function\":", f);
  cmd_json_text(f, run_function(o));
  fputs(",\"tag\":", f);
  cmd_json_text(f, o->tag ? o->tag : "");
  fputs(",\"frames\":[", f);
  for (; s; s = s->outer) {
    comma = 0;
    putc('{', f);
    run_json_field(f, &comma, "function", s->function);
    run_json_field(f, &comma, "file", s->file);
    if (s->line)
      fprintf(f, "%s\"line\":%" PRIu32, comma++ ? "," : "", s->line);
    run_json_field(f, &comma, "module", s->module);
    if (s->module)
      fprintf(f, ",\"offset\":%" PRIu64, s->at);
    fprintf(f, "}%s", s->outer ? "," : "");
  }
  putc(']', f);
}

static void run_json_process(FILE *f, const run_part *p) {
  run_section *r = p->section;
  static const char *const pool[] = {"all", "small_pool", "large_pool"};
  vram_ledger *l = &r->tracker.ledger;
  vram_memory_stats m;
  run_group *group;
  vram_owner *peak;
  uint32_t i, k, sub, n;
  int comma = 0;
  fprintf(f, "{\"pid\":%d,\"parent\":%d,\"exited\":%s,\"running\":%s,\"command\":", (int)r->pid,
          (int)r->parent, r->ended ? "true" : "false", p->running ? "true" : "false");
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
      for (sub = 0; sub < 3; sub++) {
        const vram_stat *s = &run_stat(&m, k)[sub];
        fprintf(f, ",\"%s.%s.current\":%" PRIu64 ",\"%s.%s.peak\":%" PRIu64, run_stat_name[k],
                pool[sub], s->current, run_stat_name[k], pool[sub], s->peak);
        fprintf(f, ",\"%s.%s.allocated\":%" PRIu64 ",\"%s.%s.freed\":%" PRIu64, run_stat_name[k],
                pool[sub], s->allocated, run_stat_name[k], pool[sub], s->freed);
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
    run_json_owner(f, p, &peak[i]);
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
    run_json_owner(f, p, run_owner(l, group[i].owner));
    putc('}', f);
  }
  free(group);
  fprintf(f, "],\"ipc_bytes\":%" PRIu64 ",\"graph_nodes\":%" PRIu64 ",\"graph_bytes\":%" PRIu64,
          r->tracker.ipc_bytes, r->tracker.graph_nodes, r->tracker.graph_bytes);
  fprintf(f, ",\"unknown_frees\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"lost_bytes\":%" PRIu64,
          l->unknown_frees, l->lost + r->tracker.lost, l->lost_bytes + r->tracker.lost_bytes);
  fprintf(f, ",\"range_names_lost\":%" PRIu32 ",\"range_callers_lost\":%" PRIu32, r->names_lost,
          r->tags_lost);
  fputs(",\"oom_report\":", f);
  if (*p->report)
    cmd_json_text(f, p->report);
  else
    fputs("null", f);
  putc('}', f);
}

static const char *const run_reason_name[] = {
#define X(id, text) text,
    RUN_REASONS(X)
#undef X
};
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
    fprintf(f, "],\"report\":%" PRIu32 ",\"reason\":\"%s\",\"exit_status\":", s->number,
            run_reason_name[s->reason]);
    if (s->reason != RUN_END)
      fputs("null,\"signal\":null", f);
    else if (WIFEXITED(s->status))
      fprintf(f, "%d,\"signal\":null", WEXITSTATUS(s->status));
    else
      fprintf(f, "null,\"signal\":%d", WTERMSIG(s->status));
    fprintf(f, ",\"seconds\":%.3f,\"loaded\":%" PRIu32 ",\"processes\":[", s->seconds,
            s->file.loaded);
  } else {
    fprintf(f, "vram: %s", s->program);
    if (s->reason != RUN_END)
      fprintf(f, " is running (%s)", run_reason_name[s->reason]);
    else if (WIFEXITED(s->status))
      fprintf(f, " ended with status %d", WEXITSTATUS(s->status));
    else
      fprintf(f, " was ended by signal %d", WTERMSIG(s->status));
    fprintf(f, " after %.1f s\n", s->seconds);
  }
  for (i = 0; i < n; i++) {
    run_part p;
    if (!run_open(s, i, &p, &status))
      continue;
    if (s->json)
      fputs(shown ? "," : "", f), run_json_process(f, &p);
    else
      run_text_process(f, &p);
    shown++;
    run_close(&p);
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

/* The report's file: %n in its name is the report's number. */
static const char *run_report_path(const run_state *s) {
  static char path[4096];
  const char *at = strstr(s->report, "%n");
  if (!at)
    return s->report;
  snprintf(path, sizeof path, "%.*s%" PRIu32 "%s", (int)(at - s->report), s->report, s->number,
           at + 2);
  return path;
}

int run_report(const run_state *s) {
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
  status = cmd_output_open(&out, run_report_path(s));
  if (status != FITS)
    return status;
  status = run_write(s, out.file);
  written = cmd_output_commit(&out, 0);
  return written != FITS ? written : status;
}

/* Of the process that had most. */
int run_snapshot(const run_state *s) {
  const uint32_t n = run_parts(s);
  const size_t len = strlen(s->snapshot);
  vram_snapshot_options o = VRAM_ZERO_INIT;
  uint64_t most = 0;
  vram_sink sink;
  uint32_t i;
  run_part most_of, other;
  cmd_output out;
  int status = FITS;
  memset(&most_of, 0, sizeof most_of);
  for (i = 0; i < n; i++) {
    if (!run_open(s, i, &other, &status))
      continue;
    if (other.section->tracker.ledger.peak_bytes >= most) {
      most = other.section->tracker.ledger.peak_bytes;
      run_close(&most_of);
      most_of = other;
    } else
      run_close(&other);
  }
  if (status != FITS) {
    run_close(&most_of);
    return status;
  }
  if (!most_of.section) {
    cmd_say("vram: no snapshot: no call that allocates CUDA memory was seen");
    return OTHER;
  }
  o.json = len > 5 && !strcmp(s->snapshot + len - 5, ".json");
  status = cmd_output_open(&out, s->snapshot);
  if (status == FITS) {
    sink.write = cmd_to_file;
    sink.user = out.file;
    status = cmd_output_commit(
        &out, vram_write_snapshot(&most_of.section->tracker.ledger, &o, &sink) != VRAM_OK);
  }
  run_close(&most_of);
  return status;
}

#else
typedef int run_report_is_of_linux;
#endif
