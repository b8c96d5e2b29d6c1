/* A trace from XLA's buffer assignment: arguments, outputs and constants are there from the
   beginning, a temporary value from the operator that makes it to the last that uses it. */
#include "vram_trace.h"
#include "vram_xla.h"

typedef struct xla_moment { /* a value begins or ends */
  uint64_t time;
  uint32_t value;
  uint8_t is_alloc;
} xla_moment;

static int by_time(const void *a, const void *b) {
  const xla_moment *const x = (const xla_moment *)a, *const y = (const xla_moment *)b;
  if (x->time != y->time)
    return x->time < y->time ? -1 : 1;
  if (x->is_alloc != y->is_alloc)
    return x->is_alloc - y->is_alloc;
  return x->value < y->value ? -1 : x->value > y->value;
}

/* A name of HLO's text, in which quotes stand behind a backslash. */
static uint32_t name_text(trace *t, const char *name, uint32_t len) {
  char plain[1024];
  size_t n = 0;
  uint32_t i;
  for (i = 0; i < len && n < sizeof plain; i++) {
    i += name[i] == '\\' && i + 1 < len;
    plain[n++] = name[i];
  }
  return trace_text(t, plain, n);
}

static int add_event(trace *t, vram_event *e, xla_kind kind, uint32_t line, const char *name,
                     uint32_t len, uint64_t key) {
  const char *const category = xla_kind_name(kind);
  trace_note note;
  memset(&note, 0, sizeof note);
  note.line = line;
  note.node = name_text(t, name, name ? len : 0);
  note.category = trace_text(t, category, strlen(category));
  e->category = VRAM_CATEGORY_OTHER;
  return t->status ? t->status : trace_add(t, e, &note, key, BY_ID);
}

/* What one allocation is for; that of an operator's own computation is in no memory of its own, and
   what is in the host's memory is only counted. */
static int add_allocations(trace *t, const xla_program *x) {
  uint32_t i;
  for (i = 0; i < x->nallocation && !t->status; i++) {
    const xla_allocation *const a = x->allocation + i;
    vram_event e;
    memset(&e, 0, sizeof e);
    e.action = VRAM_ACTION_ALLOC;
    e.bytes = a->bytes;
    if (a->kind == XLA_HOST)
      t->host_bytes += a->bytes;
    if (a->kind == XLA_TEMP || a->kind == XLA_LOCAL || a->kind == XLA_HOST || !a->bytes)
      continue;
    add_event(t, &e, a->kind, a->line, a->op ? a->op : a->name, a->op ? a->op_len : a->len,
              UINT64_C(1) << 40 | i);
  }
  return t->status;
}

static int add_values(trace *t, const xla_program *x) {
  xla_moment *const moment = (xla_moment *)malloc((2 * (size_t)x->nvalue + 1) * sizeof *moment);
  uint32_t i;
  if (!moment)
    return t->status = cmd_no_memory();
  for (i = 0; i < x->nvalue; i++) {
    xla_moment *const begin = moment + 2 * (size_t)i, *const end = begin + 1;
    begin->time = x->value[i].begin;
    end->time = x->value[i].end;
    begin->value = end->value = i;
    begin->is_alloc = 1;
    end->is_alloc = 0;
  }
  if (x->nvalue)
    qsort(moment, 2 * (size_t)x->nvalue, sizeof *moment, by_time);
  for (i = 0; i < 2 * x->nvalue && !t->status; i++) {
    const xla_value *const v = x->value + moment[i].value;
    vram_event e;
    memset(&e, 0, sizeof e);
    e.action = moment[i].is_alloc ? VRAM_ACTION_ALLOC : VRAM_ACTION_FREE;
    e.bytes = moment[i].is_alloc ? v->bytes : 0;
    e.time = moment[i].time;
    add_event(t, &e, XLA_TEMP, v->line, v->op ? v->op : v->name, v->op ? v->op_len : v->len,
              moment[i].value);
  }
  free(moment);
  return t->status;
}

int trace_read_xla(trace *t, const char *text, size_t len) {
  xla_program x;
  t->status = xla_read(&x, t->path, text, len);
  t->has_nodes = t->has_categories = t->is_bfc = 1;
  if (!t->status) {
    xla_heap(&x);
    if (!add_allocations(t, &x) && !add_values(t, &x))
      trace_order(t);
  }
  xla_end(&x);
  return t->status;
}
