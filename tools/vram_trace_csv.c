/* A trace from a CSV: columns by their names. */
#include "vram_trace.h"

#define CSV_COLUMNS(X)                                                                             \
  X(ACTION, "action")                                                                              \
  X(ID, "id")                                                                                      \
  X(SIZE, "size bytes")                                                                            \
  X(STREAM, "stream")                                                                              \
  X(ADDRESS, "addr address pointer")                                                               \
  X(CATEGORY, "category")                                                                          \
  X(NODE, "node layer name")                                                                       \
  X(PHASE, "phase")                                                                                \
  X(TIME, "time_us")                                                                               \
  X(RESULT, "result")
enum {
#define X(id, names) CSV_##id,
  CSV_COLUMNS(X)
#undef X
      CSV_COUNT
};

enum { CSV_MOST = 64 }; /* columns */

typedef struct csv_file { /* a place in it, and what its columns are */
  trace *t;
  char *text;
  size_t len, at;
  uint64_t line;
  int column[CSV_MOST], ncolumn;
} csv_file;

/* The next field of the line; 0: error printed. *last: of its line, c->at is behind that. */
static int csv_field(csv_file *c, field *f, int *last) {
  char *const text = c->text, *to;
  const size_t len = c->len;
  size_t i = c->at;
  f->s = to = text + i;
  if (i < len && text[i] == '"') {
    const uint64_t from = c->line;
    for (i++;; i++) {
      if (i == len)
        return trace_bad(c->t, from, "a quoted field that does not end", NULL, 0), 0;
      if (text[i] == '"' && (++i == len || text[i] != '"'))
        break;
      c->line += text[i] == '\n';
      *to++ = text[i];
    }
    f->n = (size_t)(to - f->s);
    if (i < len && text[i] != ',' && text[i] != '\n' && text[i] != '\r')
      return trace_bad(c->t, c->line, "expected a comma behind a quoted field", NULL, 0), 0;
  } else {
    while (i < len && text[i] != ',' && text[i] != '\n')
      i++;
    f->n = i - c->at;
  }
  *last = i == len || text[i] != ',';
  if (*last) {
    while (i < len && text[i] != '\n')
      i++;
    while (f->n && f->s[f->n - 1] == '\r')
      f->n--;
  }
  c->at = i < len ? i + 1 : len;
  return 1;
}

/* a decimal or 0x number; 0: it is none */
static int csv_number(const field *f, uint64_t *to) {
  uint64_t v = 0;
  size_t i = 0;
  unsigned base = 10;
  if (f->n > 2 && f->s[0] == '0' && (f->s[1] | 32) == 'x')
    base = 16, i = 2;
  if (i == f->n)
    return 0;
  for (; i < f->n; i++) {
    const char c = cmd_lower(f->s[i]);
    const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                                  : 99;
    if (digit >= base || v > ((uint64_t)INT64_MAX - digit) / base)
      return 0;
    v = v * base + digit;
  }
  *to = v;
  return 1;
}

/* Any text as a number: of two texts that differ the numbers do. */
static uint64_t csv_key(trace *t, const field *f) {
  uint64_t v;
  return csv_number(f, &v) ? v : UINT64_C(1) << 63 | trace_text(t, f->s, f->n);
}

static const char *const csv_name[] = {
#define X(id, names) names,
    CSV_COLUMNS(X)
#undef X
};

/* What the line does; 0: nothing that is known. */
static int csv_action(const field *f, vram_event *e) {
  int i;
  if (cmd_field_is(f, "alloc allocate malloc"))
    e->action = VRAM_ACTION_ALLOC;
  else if (cmd_field_is(f, "free free_completed deallocate"))
    e->action = VRAM_ACTION_FREE;
  else if (cmd_field_is(f, "free_requested"))
    e->action = VRAM_ACTION_FREE_REQUESTED;
  else if (cmd_field_is(f, "empty_cache"))
    e->action = VRAM_ACTION_MARK, e->kind = EMPTY_CACHE;
  else if (f->n == 16 && !memcmp(f->s, "allocate failure", 16))
    e->action = VRAM_ACTION_ALLOC, e->kind = FAILED; /* RMM's log */
  else {
    for (i = VRAM_ACTION_SEGMENT_ALLOC; i <= VRAM_ACTION_SEGMENT_UNMAP; i++)
      if (cmd_field_is(f, vram_action_name((vram_action)i)))
        return e->action = (vram_action)i, 1;
    return 0;
  }
  return 1;
}

/* Address, size, stream, time; not FITS: message printed. */
static int csv_numbers(trace *t, const field *f, uint64_t line, vram_event *e) {
  if (f[CSV_ADDRESS].n && !csv_number(f + CSV_ADDRESS, &e->address))
    return trace_bad(t, line, "not an address", f[CSV_ADDRESS].s, f[CSV_ADDRESS].n);
  if (f[CSV_SIZE].n && !csv_number(f + CSV_SIZE, &e->bytes))
    return trace_bad(t, line, "not a number of bytes", f[CSV_SIZE].s, f[CSV_SIZE].n);
  if (!f[CSV_SIZE].n && (e->action == VRAM_ACTION_ALLOC || e->action > VRAM_ACTION_FREE_REQUESTED))
    return trace_bad(t, line, "no size", NULL, 0);
  if (f[CSV_STREAM].n && !cmd_field_is(f + CSV_STREAM, "(nil)") &&
      !csv_number(f + CSV_STREAM, &e->stream))
    return trace_bad(t, line, "not a stream", f[CSV_STREAM].s, f[CSV_STREAM].n);
  if (f[CSV_TIME].n)
    csv_number(f + CSV_TIME, &e->time);
  return FITS;
}

static void csv_names(trace *t, const field *f, vram_event *e, trace_note *note) {
  int i;
  if (cmd_field_is(f + CSV_RESULT, "oom failed"))
    e->kind = FAILED;
  t->has_addresses |= e->address != 0;
  note->node = trace_text(t, f[CSV_NODE].s, f[CSV_NODE].n);
  note->phase = trace_text(t, f[CSV_PHASE].s, f[CSV_PHASE].n);
  note->category = trace_text(t, f[CSV_CATEGORY].s, f[CSV_CATEGORY].n);
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (cmd_field_is(f + CSV_PHASE, vram_phase_name((vram_phase)i)))
      e->phase = (vram_phase)i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (cmd_field_is(f + CSV_CATEGORY, vram_category_name((vram_category)i)))
      e->category = (vram_category)i;
}

/* What an alloc and its free have in common; not FITS: message printed. */
static int csv_identity(trace *t, field *f, uint64_t line, const vram_event *e, uint64_t *key) {
  const int of = f[CSV_ID].n ? BY_ID : BY_ADDRESS;
  const uint64_t alone = UINT64_C(1) << 62 | (uint64_t)t->n; /* as no other line */
  if (of == BY_ADDRESS && !f[CSV_ADDRESS].n)
    return trace_bad(t, line, "neither id nor address", NULL, 0);
  if (of == BY_ID && f[CSV_ID].n == 2 && !memcmp(f[CSV_ID].s, "-1", 2)) {
    /* allocated before: every such line is another one */
    if (e->action == VRAM_ACTION_ALLOC)
      return trace_bad(t, line, "id -1 is for what was allocated before: no alloc has it", NULL, 0);
    *key = alone;
  } else
    *key = of == BY_ID ? csv_key(t, f + CSV_ID) : e->address;
  if (e->kind == FAILED && e->action == VRAM_ACTION_ALLOC && of == BY_ADDRESS)
    *key = alone; /* it has no address */
  return t->status;
}

static int csv_line(trace *t, field *f, uint64_t line) {
  vram_event e;
  trace_note note;
  uint64_t key = 0;
  memset(&e, 0, sizeof e);
  memset(&note, 0, sizeof note);
  note.line = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
  e.category = VRAM_CATEGORY_OTHER;
  if (!csv_action(f + CSV_ACTION, &e))
    return t->ignored++, FITS;
  if (e.action == VRAM_ACTION_MARK)
    return trace_add(t, &e, &note, 0, BY_ID);
  if (csv_numbers(t, f, line, &e))
    return t->status;
  csv_names(t, f, &e, &note);
  if (e.action < VRAM_ACTION_SEGMENT_ALLOC && csv_identity(t, f, line, &e, &key))
    return t->status;
  if (t->status)
    return t->status;
  if (e.bytes > (uint64_t)INT64_MAX / 4)
    return trace_bad(t, line, "more bytes than any device has", NULL, 0);
  return trace_add(t, &e, &note, key, f[CSV_ID].n ? BY_ID : BY_ADDRESS);
}

/* The first line names the columns; not FITS: message printed. */
static int csv_head(csv_file *c) {
  trace *t = c->t;
  int has = 0, last = 0, k;
  field f;
  while (!last) {
    if (!csv_field(c, &f, &last))
      return t->status;
    if (c->ncolumn == CSV_MOST)
      return trace_bad(t, c->line, "more than 64 columns", NULL, 0);
    for (k = 0; k < CSV_COUNT && (!cmd_field_is(&f, csv_name[k]) || has >> k & 1); k++)
      ;
    c->column[c->ncolumn++] = k;
    has |= 1 << k;
  }
  if (!(has >> CSV_ACTION & 1))
    return trace_bad(t, 1,
                     "no trace: neither columns that the first line names (at least action, size "
                     "and id or addr), nor a snapshot, profile or log that is known",
                     NULL, 0);
  if (!(has >> CSV_SIZE & 1) || !(has >> CSV_ID & 1 || has >> CSV_ADDRESS & 1))
    return trace_bad(
        t, 1, "no trace: the first line names the columns, at least action, size and id or addr",
        NULL, 0);
  t->has_phases = has >> CSV_PHASE & 1;
  t->has_categories = has >> CSV_CATEGORY & 1;
  t->has_nodes = has >> CSV_NODE & 1;
  return FITS;
}

/* The fields of a line, by column; all are empty where there is none. */
static int csv_row(csv_file *c, field row[CSV_COUNT + 1]) {
  const uint64_t here = c->line;
  int last = 0, i;
  field f;
  memset(row, 0, (CSV_COUNT + 1) * sizeof *row);
  for (i = 0; !last; i++) {
    const size_t from = c->at;
    if (!csv_field(c, &f, &last))
      return c->t->status;
    if (i < c->ncolumn)
      row[c->column[i]] = f;
    else if (c->column[c->ncolumn - 1] == CSV_NODE) /* the last column takes what is left */
      row[CSV_NODE].n = (size_t)(f.s + f.n - row[CSV_NODE].s);
    else
      return trace_bad(c->t, here, "more fields than columns:", c->text + from, f.n);
    if (!i && last && !f.n)
      break;
  }
  return FITS;
}

int trace_read_csv(trace *t, char *text, size_t len) {
  csv_file c;
  field row[CSV_COUNT + 1];
  memset(&c, 0, sizeof c);
  c.t = t;
  c.text = text;
  c.len = len;
  c.at = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
  c.line = 1;
  if (csv_head(&c))
    return t->status;
  while (c.at < len) {
    const uint64_t here = ++c.line;
    if (csv_row(&c, row) || (row[CSV_ACTION].n && csv_line(t, row, here)))
      return t->status;
  }
  return trace_order(t);
}
