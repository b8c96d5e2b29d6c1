/* vram run: what the processes left in the memory that they share with it, and the names of its
   places. */
#define VRAM_CUDA_IMPLEMENTATION
#define VRAM_CUDA_DLOPEN
#include "vram_run.h"

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu

#include "vram_symbols.h"
#include <stddef.h>
#include <time.h>
#include <unistd.h>

/* What the processes left is read as bytes and looked at before it is used: a program may write
   over anything that it has mapped. Some may be running still. */

static int run_get(const run_state *s, void *to, uint64_t n, uint64_t from) {
  return pread(s->fd, to, n, (off_t)from) == (ssize_t)n;
}

int run_again(run_state *s) {
  run_file now;
  if (!run_get(s, &now, sizeof now, 0) || now.magic != s->file.magic ||
      now.layout != s->file.layout || now.trace != s->file.trace || now.stack != s->file.stack) {
    cmd_say("vram: no report: the program wrote over the shared memory");
    return OTHER;
  }
  s->file = now;
  return FITS;
}

uint32_t run_parts(const run_state *s) {
  return s->file.section < RUN_SECTIONS ? s->file.section : (uint32_t)RUN_SECTIONS;
}

static int run_is_device(const vram_ledger *l, uint32_t device) {
  return device < l->options.devices || device == VRAM_DEVICE_HOST;
}

/* A pointer into the process's texts becomes one into ours; 0: it points to somewhere else. */
static int run_text(run_section *r, const char **text) {
  const uint64_t texts = run_texts_at(), at = (uint64_t)(uintptr_t)*text - r->address - texts;
  if (*text && at >= RUN_TEXTS)
    return 0;
  if (*text)
    *text = (const char *)r + texts + at;
  return 1;
}

/* What would bring a terminal out of step; only reports have lines. */
static void run_clean(char *text, size_t n, int lines) {
  size_t i;
  for (i = 0; i < n; i++)
    if (((unsigned char)text[i] < 32 && text[i] && !(lines && text[i] == '\n')) || text[i] == 127)
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

/* The frames of owners: numbers and places of texts. */
static int run_frames(const run_section *r, const run_places *p) {
  const uint32_t texts = r->texts;
  uint32_t i;
  if (p->modules > RUN_MODULES || p->frames > RUN_FRAMES)
    return 0;
  for (i = 0; i <= RUN_OWNERS; i++)
    if (p->owner[i].n > p->frames || p->owner[i].first > p->frames - p->owner[i].n)
      return 0;
  for (i = 0; i < p->modules; i++)
    if (p->module[i].path > texts || p->module[i].id_bytes > RUN_ID)
      return 0;
  for (i = 0; i < p->frames; i++)
    if (p->frame[i].file > texts || p->frame[i].name > texts ||
        (p->frame[i].module > RUN_MODULES && p->frame[i].module != RUN_PYTHON))
      return 0;
  return 1;
}

/* A copy of what is in section i, laid out as it is there; 0: it is not what a process writes. */
static int run_read(const run_state *s, uint32_t i, run_section *r, const vram_cuda_options *o) {
  static const vram_cuda_api none;
  const uint64_t from = RUN_HEAD + i * RUN_SPAN, texts = run_texts_at(), places = run_places_at();
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
      !run_get(s, at + texts, RUN_TEXTS, from + texts) ||
      !run_get(s, at + places, sizeof(run_places), from + places) || !run_tables(r) ||
      !run_frames(r, (const run_places *)(const void *)(at + places)))
    return 0;
  at[texts + RUN_TEXTS - 1] = 0;
  run_clean(at + texts, RUN_TEXTS, 0);
  r->command[sizeof r->command - 1] = r->report[sizeof r->report - 1] = 0;
  run_clean(r->command, sizeof r->command, 0);
  run_clean(r->report, sizeof r->report, 1);
  return 1;
}

/* ---- names */

static const char *run_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash && slash[1] ? slash + 1 : path;
}

const char *run_place(const vram_owner *o) {
  static char text[4][300];
  static int next;
  if (!o->file)
    return "?";
  if (!o->line)
    return o->file;
  next = (next + 1) % 4;
  snprintf(text[next], sizeof text[next], "%.280s:%" PRIu32, run_base(o->file), o->line);
  return text[next];
}

static const char *run_text_at(const run_section *r, uint32_t at) {
  return at ? (const char *)r + run_texts_at() + at - 1 : NULL;
}

static symbol_module *run_module_of(const run_section *r, const run_places *p, const run_frame *f) {
  const run_module *m = &p->module[f->module < p->modules ? f->module : 0];
  const char *path = f->module < p->modules ? run_text_at(r, m->path) : NULL;
  return path ? symbols_of(path, m->id, m->id_bytes) : NULL;
}

/* What one frame is: more than one step where something was inlined. NULL: no memory. */
static run_step *run_steps(const run_section *r, const run_places *p, const run_frame *f) {
  const char *name = run_text_at(r, f->name), *file = run_text_at(r, f->file);
  const symbol *is = NULL;
  run_step *first = NULL, **end = &first, *step;
  if (f->module != RUN_PYTHON)
    is = symbols_at(run_module_of(r, p, f), f->at, name);
  do {
    step = (run_step *)calloc(1, sizeof *step);
    if (!step)
      return first;
    *end = step;
    end = &step->outer;
    if (f->module == RUN_PYTHON) {
      step->function = name ? symbols_keep(name) : NULL;
      step->file = file ? symbols_keep(file) : NULL;
      step->line = (uint32_t)f->at;
      break;
    }
    file = f->module < p->modules ? run_text_at(r, p->module[f->module].path) : NULL;
    step->module = symbols_keep(file ? file : "");
    step->at = f->at;
    if (is) {
      step->function = is->function;
      step->file = is->file;
      step->line = is->line;
      is = is->outer;
    }
  } while (is);
  return first;
}

/* Is it the CUDA runtime's, as one that is linked statically has it, or a template of its header,
   `cudaError cudaMalloc<float>`? */
static int run_of_runtime(const run_step *s) {
  static const char *const names[] = {
      "cudaMalloc",        "cudaMallocPitch",   "cudaMalloc3D",
      "cudaMallocArray",   "cudaMalloc3DArray", "cudaMallocMipmappedArray",
      "cudaMallocManaged", "cudaMallocHost",    "cudaHostAlloc",
      "cudaHostRegister",  "cudaMallocAsync",   "cudaMallocFromPoolAsync"};
  const char *name = s->function;
  size_t n, i;
  if (s->file && !strcmp(run_base(s->file), "cuda_runtime.h"))
    return 1;
  if (!name || !s->module)
    return 0;
  if (!strncmp(name, "libcudart_static_", 17))
    return 1;
  name += strncmp(name, "cudaError ", 10) ? 0 : 10;
  n = strcspn(name, "<");
  if (name[n] && name[strlen(name) - 1] != '>')
    return 0;
  n -= n > 5 && !strncmp(name + n - 5, "_ptsz", 5) ? 5 : 0;
  for (i = 0; i < sizeof names / sizeof *names; i++)
    if (n == strlen(names[i]) && !strncmp(name, names[i], n))
      return 1;
  return 0;
}

/* Of the headers of thrust and CUB? Who used them is meant. */
static int run_of_headers(const run_step *s) {
  return s->file && (strstr(s->file, "/thrust/") || strstr(s->file, "/cub/"));
}

static int run_of_allocator(const run_step *s) {
  return s->function && symbols_passing(s->function, strlen(s->function));
}

static void run_free_steps(run_step *s) {
  while (s) {
    run_step *next = s->outer;
    free(s);
    s = next;
  }
}

/* Who called: the frames of Python, and of the others as many as are wanted, from the first that is
   neither the runtime's nor, if there is one, of thrust or PyTorch's allocator. NULL: no memory, or
   no frames. */
static run_step *run_steps_of(const run_section *r, const run_places *p, const run_frame *f,
                              uint32_t n, uint32_t wanted) {
  run_step *first = NULL, **end = &first, **native, *from, *s;
  uint32_t k;
  for (k = 0; k < n; k++) {
    *end = run_steps(r, p, &f[k]);
    for (; *end; end = &(*end)->outer)
      (*end)->frame = k;
  }
  for (native = &first; *native && !(*native)->module; native = &(*native)->outer)
    ;
  for (from = *native; from && run_of_runtime(from); from = from->outer)
    ;
  for (s = from; s && (run_of_runtime(s) || run_of_headers(s) || run_of_allocator(s)); s = s->outer)
    ;
  from = s ? s : from;
  while (from && *native != from) {
    s = *native;
    *native = s->outer;
    free(s);
  }
  for (end = native; *end && (*end)->frame - (*native)->frame < wanted; end = &(*end)->outer)
    ;
  run_free_steps(*end);
  *end = NULL;
  return first;
}

typedef struct run_line {
  char text[2048];
  size_t n;
} run_line;

static void run_put(run_line *l, const char *text) {
  const size_t n = strlen(text), left = sizeof l->text - 1 - l->n;
  memcpy(l->text + l->n, text, n < left ? n : left);
  l->n += n < left ? n : left;
  l->text[l->n] = 0;
}

/* server.c:80, or what else is known of where it is */
static void run_put_place(run_line *l, const run_step *s) {
  char number[32];
  if (s->file && s->line) {
    run_put(l, run_base(s->file));
    snprintf(number, sizeof number, ":%" PRIu32, s->line);
  } else {
    if (s->module && *s->module) {
      run_put(l, run_base(s->module));
      run_put(l, "+");
    }
    snprintf(number, sizeof number, "0x%" PRIx64, s->at);
  }
  run_put(l, number);
}

/* In the text, functions of the C++ library and of thrust say nothing about who called. */
static int run_of_library(const run_step *s) {
  return run_of_headers(s) || (s->file && strstr(s->file, "/include/c++/"));
}

/* The function, then its callers: those of Python, or where none is the others. */
static const char *run_callers(const run_step *s) {
  static run_line l;
  const int python = s && !s->module;
  const run_step *c;
  l.n = 0;
  l.text[0] = 0;
  if (s && s->function)
    run_put(&l, s->function);
  for (c = s ? s->outer : NULL; c && (c->module == NULL) == python; c = c->outer) {
    if (run_of_library(c))
      continue;
    run_put(&l, " < ");
    if ((c->file && c->line) || !c->function) {
      run_put_place(&l, c);
      run_put(&l, c->function ? " " : "");
    }
    if (c->function)
      run_put(&l, c->function);
  }
  return l.n ? symbols_keep(l.text) : NULL;
}

/* A place that the report of a failed allocation names otherwise. */
typedef struct run_rename {
  const char *was, *is;
} run_rename;

/* The report with the names that are known now. */
static const char *run_renamed(const char *report, const run_rename *name, uint32_t n) {
  const size_t room = (size_t)4 * RUN_REPORT;
  char *text = (char *)malloc(room), *to = text;
  const char *kept, *from = report;
  size_t most, len, put;
  uint32_t i, best;
  if (!text)
    return report;
  while (*from && to < text + room - 2) {
    for (i = 0, best = n, most = 0; i < n && (from == report || from[-1] == ' '); i++) {
      len = strlen(name[i].was);
      if (len > most && !strncmp(from, name[i].was, len) &&
          (!from[len] || strchr(" \n,:(", from[len])))
        most = len, best = i;
    }
    if (best == n) {
      *to++ = *from++;
      continue;
    }
    put = strlen(name[best].is);
    if (put > (size_t)(text + room - 2 - to))
      break;
    memcpy(to, name[best].is, put);
    to += put;
    from += most;
  }
  *to = 0;
  kept = symbols_keep(text);
  free(text);
  return kept ? kept : report;
}

/* By owner: the files of its callers, of which the text has the last part only. qsort hands nothing
   on. */
static const char *run_files[RUN_OWNERS + 1];
static const vram_owner *run_first;

static const char *run_files_of(const vram_owner *w) {
  const ptrdiff_t i = w - run_first;
  return i <= RUN_OWNERS && run_files[i] ? run_files[i] : "";
}

static const char *run_caller_files(const run_step *s) {
  static run_line l;
  const run_step *c;
  l.n = 0;
  l.text[0] = 0;
  for (c = s->outer; c && (c->module == NULL) == (s->module == NULL); c = c->outer) {
    if (run_of_library(c))
      continue;
    run_put(&l, c->file ? c->file : "");
    run_put(&l, "\n");
  }
  return symbols_keep(l.text);
}

static int run_by_name(const void *a, const void *b) {
  const vram_owner *x = *(const vram_owner *const *)a, *y = *(const vram_owner *const *)b;
  const char *f = x->file ? x->file : "", *g = y->file ? y->file : "";
  int order = strcmp(f, g);
  if (!order && x->line != y->line)
    order = x->line < y->line ? -1 : 1;
  f = x->function ? x->function : "";
  g = y->function ? y->function : "";
  order = order ? order : strcmp(f, g);
  f = x->tag ? x->tag : "";
  g = y->tag ? y->tag : "";
  order = order ? order : strcmp(f, g);
  order = order ? order : strcmp(run_files_of(x), run_files_of(y));
  return order ? order : (x > y) - (x < y);
}

/* Owners that have come to the same place and function, with the same tag, are one. */
static void run_merge(vram_ledger *l) {
  const uint32_t owners = l->options.owners + 1;
  const vram_owner **list = (const vram_owner **)calloc(owners, sizeof *list);
  uint32_t *same = (uint32_t *)calloc(owners, sizeof *same), i, first = 0;
  const uint32_t events =
      l->trace_count < l->options.trace ? (uint32_t)l->trace_count : l->options.trace;
  for (i = 0; list && same && i < owners; i++)
    list[i] = &l->owner[i];
  if (list && same)
    qsort(list, owners, sizeof *list, run_by_name);
  for (i = 0; list && same && i < owners; i++) {
    vram_owner *w = &l->owner[list[i] - l->owner], *one = &l->owner[list[first] - l->owner];
    if (!w->file || !one->file || strcmp(w->file, one->file) != 0 || w->line != one->line ||
        strcmp(w->function ? w->function : "", one->function ? one->function : "") != 0 ||
        strcmp(w->tag ? w->tag : "", one->tag ? one->tag : "") != 0 ||
        strcmp(run_files_of(w), run_files_of(one)) != 0)
      first = i;
    else if (w != one) {
      one->at_peak = vram_ledger_owner_at_peak(l, (uint32_t)(one - l->owner)) +
                     vram_ledger_owner_at_peak(l, (uint32_t)(w - l->owner));
      w->at_peak = 0;
      one->serial = w->serial = l->peak_serial; /* else it is what they have now that counts */
    }
    same[list[i] - l->owner] = (uint32_t)(list[first] - l->owner);
  }
  for (i = 0; list && same && i <= l->live_mask; i++)
    l->live[i].owner = same[l->live[i].owner];
  for (i = 0; list && same && i < events; i++)
    l->trace[i].owner = same[l->trace[i].owner];
  free(list);
  free(same);
}

/* Owners get the names of their places, of as many callers as are wanted; the report of a failed
   allocation, too. */
static void run_names(run_part *part, uint32_t wanted) {
  run_section *r = part->section;
  const run_places *p = (const run_places *)(const void *)((char *)r + run_places_at());
  vram_ledger *l = &r->tracker.ledger;
  run_rename *name = (run_rename *)calloc(RUN_OWNERS + 1, sizeof *name);
  run_line line;
  uint32_t i, n = 0;
  memset(run_files, 0, sizeof run_files);
  run_first = l->owner;
  part->report = r->report;
  part->step = (run_step **)calloc(RUN_OWNERS + 1, sizeof *part->step);
  for (i = 0; i < p->frames; i++)
    if (p->frame[i].module < p->modules)
      symbols_ask(run_module_of(r, p, &p->frame[i]), p->frame[i].at);
  for (i = 1; name && part->step && i <= RUN_OWNERS && i <= l->options.owners; i++) {
    vram_owner *w = &l->owner[i];
    run_step *first = run_steps_of(r, p, &p->frame[p->owner[i].first], p->owner[i].n, wanted);
    part->step[i] = first;
    if (!first || !w->file)
      continue;
    line.n = 0;
    run_put(&line, w->file);
    if (w->function) {
      run_put(&line, " ");
      run_put(&line, w->function);
    }
    name[n].was = symbols_keep(line.text);
    if (first->file && first->line) {
      w->file = first->file;
      w->line = first->line;
    } else if (first->module && first->at != p->frame[p->owner[i].first].at) {
      line.n = 0;
      run_put_place(&line, first);
      w->file = symbols_keep(line.text);
    }
    w->function = run_callers(first);
    run_files[i] = run_caller_files(first);
    line.n = 0;
    run_put(&line, run_place(w));
    if (w->function) {
      run_put(&line, " ");
      run_put(&line, w->function);
    }
    name[n].is = symbols_keep(line.text);
    n += name[n].was && name[n].is;
  }
  if (name && *r->report)
    part->report = run_renamed(r->report, name, n);
  free(name);
  run_merge(l);
}

/* ---- parts */

uint32_t run_failures(const run_state *s, uint32_t i) {
  uint32_t n = 0;
  return run_get(s, &n, sizeof n, RUN_HEAD + i * RUN_SPAN + offsetof(run_section, reports)) ? n : 0;
}

/* Does the process that has this part still run it? Not one that has become another program. */
static int run_alive(const run_state *s, uint32_t i, const run_section *r) {
  char path[64], state[512], *at;
  int32_t pid = 0;
  size_t n;
  FILE *f;
  if (s->reason == RUN_END || r->ended)
    return 0;
  for (i++; i < run_parts(s); i++)
    if (run_get(s, &pid, sizeof pid, RUN_HEAD + i * RUN_SPAN + offsetof(run_section, pid)) &&
        pid == r->pid)
      return 0;
  snprintf(path, sizeof path, "/proc/%d/stat", (int)r->pid);
  f = fopen(path, "r");
  if (!f)
    return 0;
  n = fread(state, 1, sizeof state - 1, f);
  fclose(f);
  state[n] = 0;
  at = strrchr(state, ')'); /* 12 (name) S ... */
  return at && at[1] == ' ' && at[2] != 'Z' && at[2] != 'X';
}

int run_open(const run_state *s, uint32_t i, run_part *p, int *status) {
  const vram_cuda_options o = run_options(&s->file);
  const struct timespec moment = {0, 2000000};
  run_section *r;
  uint32_t ready;
  int again;
  memset(p, 0, sizeof *p);
  if (run_get(s, &ready, sizeof ready, RUN_HEAD + i * RUN_SPAN + offsetof(run_section, ready)) &&
      !ready)
    return 0;
  r = (run_section *)malloc(run_tracker_at() + vram_cuda_tracker_bytes(&o));
  if (!r) {
    *status = cmd_no_memory();
    return 0;
  }
  /* what runs may be in the middle of a change */
  for (again = s->reason == RUN_END ? 1 : 5; again; again--) {
    if (run_read(s, i, r, &o)) {
      p->section = r;
      p->running = run_alive(s, i, r);
      run_names(p, s->file.stack);
      return 1;
    }
    (void)nanosleep(&moment, NULL);
  }
  free(r);
  cmd_say("vram: no report of process %" PRIu32 " of %" PRIu32
          ": its part of the shared memory was written over",
          i + 1, s->file.section);
  *status = OTHER;
  return 0;
}

void run_close(run_part *p) {
  uint32_t i;
  for (i = 0; p->step && i <= RUN_OWNERS; i++)
    run_free_steps(p->step[i]);
  free(p->step);
  free(p->section);
  memset(p, 0, sizeof *p);
}

#else
typedef int run_read_is_of_linux;
#endif
