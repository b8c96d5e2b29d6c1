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

/* The next field of the line from *at on; 0: the line ends. *at is then at the next line. */
static int csv_field(trace *t, char *text, size_t len, size_t *at, field *f, int *last,
                     uint64_t *line) {
  char *to;
  size_t i = *at;
  f->s = to = text + i;
  if (i < len && text[i] == '"') {
    const uint64_t from = *line;
    for (i++;; i++) {
      if (i == len)
        return trace_bad(t, from, "a quoted field that does not end", NULL, 0), 0;
      if (text[i] == '"' && (++i == len || text[i] != '"'))
        break;
      *line += text[i] == '\n';
      *to++ = text[i];
    }
    f->n = (size_t)(to - f->s);
    if (i < len && text[i] != ',' && text[i] != '\n' && text[i] != '\r')
      return trace_bad(t, *line, "expected a comma behind a quoted field", NULL, 0), 0;
  } else {
    while (i < len && text[i] != ',' && text[i] != '\n')
      i++;
    f->n = i - *at;
  }
  *last = i == len || text[i] != ',';
  if (*last) {
    while (i < len && text[i] != '\n')
      i++;
    while (f->n && f->s[f->n - 1] == '\r')
      f->n--;
  }
  *at = i < len ? i + 1 : len;
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

static int csv_line(trace *t, field *f, uint64_t line) {
  vram_event e;
  trace_note note;
  uint64_t key = 0, p;
  int of = f[CSV_ID].n ? BY_ID : BY_ADDRESS, known = 1, i;
  memset(&e, 0, sizeof e);
  memset(&note, 0, sizeof note);
  note.line = line < UINT32_MAX ? (uint32_t)line : UINT32_MAX;
  e.category = VRAM_CATEGORY_OTHER;
  if (cmd_field_is(f + CSV_ACTION, "alloc allocate malloc"))
    e.action = VRAM_ALLOC;
  else if (cmd_field_is(f + CSV_ACTION, "free free_completed deallocate"))
    e.action = VRAM_FREE;
  else if (cmd_field_is(f + CSV_ACTION, "free_requested"))
    e.action = VRAM_FREE_REQUESTED;
  else if (cmd_field_is(f + CSV_ACTION, "empty_cache"))
    e.action = VRAM_MARK, e.kind = EMPTY_CACHE;
  else if (f[CSV_ACTION].n == 16 && !memcmp(f[CSV_ACTION].s, "allocate failure", 16))
    e.action = VRAM_ALLOC, e.kind = FAILED; /* RMM's log */
  else {
    for (known = 0, i = VRAM_SEGMENT_ALLOC; i <= VRAM_SEGMENT_UNMAP; i++)
      if (cmd_field_is(f + CSV_ACTION, vram_action_name((vram_action)i)))
        e.action = (vram_action)i, known = 1;
    if (!known)
      return t->ignored++, FITS;
  }
  if (e.action == VRAM_MARK)
    return trace_add(t, &e, &note, 0, BY_ID);
  if (f[CSV_ADDRESS].n && !csv_number(f + CSV_ADDRESS, &e.address))
    return trace_bad(t, line, "not an address", f[CSV_ADDRESS].s, f[CSV_ADDRESS].n);
  if (f[CSV_SIZE].n && !csv_number(f + CSV_SIZE, &e.bytes))
    return trace_bad(t, line, "not a number of bytes", f[CSV_SIZE].s, f[CSV_SIZE].n);
  if (!f[CSV_SIZE].n && (e.action == VRAM_ALLOC || e.action > VRAM_FREE_REQUESTED))
    return trace_bad(t, line, "no size", NULL, 0);
  if (f[CSV_STREAM].n && !cmd_field_is(f + CSV_STREAM, "(nil)") &&
      !csv_number(f + CSV_STREAM, &e.stream))
    return trace_bad(t, line, "not a stream", f[CSV_STREAM].s, f[CSV_STREAM].n);
  if (f[CSV_TIME].n)
    csv_number(f + CSV_TIME, &e.time);
  if (cmd_field_is(f + CSV_RESULT, "oom"))
    e.kind = FAILED;
  t->has_addresses |= e.address != 0;
  note.node = trace_text(t, f[CSV_NODE].s, f[CSV_NODE].n);
  note.phase = trace_text(t, f[CSV_PHASE].s, f[CSV_PHASE].n);
  note.category = trace_text(t, f[CSV_CATEGORY].s, f[CSV_CATEGORY].n);
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (cmd_field_is(f + CSV_PHASE, vram_phase_name((vram_phase)i)))
      e.phase = (vram_phase)i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (cmd_field_is(f + CSV_CATEGORY, vram_category_name((vram_category)i)))
      e.category = (vram_category)i;
  if (e.action < VRAM_SEGMENT_ALLOC) {
    if (of == BY_ADDRESS && !f[CSV_ADDRESS].n)
      return trace_bad(t, line, "neither id nor address", NULL, 0);
    if (of == BY_ID && f[CSV_ID].n == 2 && !memcmp(f[CSV_ID].s, "-1", 2)) {
      /* allocated before: every such line is another one */
      if (e.action == VRAM_ALLOC)
        return trace_bad(t, line, "id -1 is for what was allocated before: no alloc has it", NULL,
                         0);
      key = UINT64_C(1) << 62 | (uint64_t)t->n;
    } else
      key = of == BY_ID ? csv_key(t, f + CSV_ID) : e.address;
    if (e.kind == FAILED && e.action == VRAM_ALLOC && of == BY_ADDRESS)
      key = UINT64_C(1) << 62 | (uint64_t)t->n; /* it has no address */
  }
  if (t->status)
    return t->status;
  p = e.bytes;
  return p > (uint64_t)INT64_MAX / 4 ? trace_bad(t, line, "more bytes than any device has", NULL, 0)
                                     : trace_add(t, &e, &note, key, of);
}

int trace_read_csv(trace *t, char *text, size_t len) {
  int column[64], ncolumn = 0, has = 0, last = 0, i, k;
  size_t at = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
  uint64_t line = 1;
  field f, row[CSV_COUNT + 1];
  while (!last) {
    if (!csv_field(t, text, len, &at, &f, &last, &line))
      return t->status;
    if (ncolumn == 64)
      return trace_bad(t, line, "more than 64 columns", NULL, 0);
    for (k = 0; k < CSV_COUNT && (!cmd_field_is(&f, csv_name[k]) || has >> k & 1); k++)
      ;
    column[ncolumn++] = k;
    has |= 1 << k;
  }
  if (!(has >> CSV_ACTION & 1) || !(has >> CSV_SIZE & 1) ||
      !(has >> CSV_ID & 1 || has >> CSV_ADDRESS & 1))
    return trace_bad(
        t, 1, "no trace: the first line names the columns, at least action, size and id or addr",
        NULL, 0);
  t->has_phases = has >> CSV_PHASE & 1;
  t->has_categories = has >> CSV_CATEGORY & 1;
  t->has_nodes = has >> CSV_NODE & 1;
  while (at < len) {
    const uint64_t here = ++line;
    memset(row, 0, sizeof row);
    for (last = 0, i = 0; !last; i++) {
      const size_t from = at;
      if (!csv_field(t, text, len, &at, &f, &last, &line))
        return t->status;
      if (i < ncolumn)
        row[column[i]] = f;
      else if (column[ncolumn - 1] == CSV_NODE) /* the last column takes what is left */
        row[CSV_NODE].n = (size_t)(f.s + f.n - row[CSV_NODE].s);
      else
        return trace_bad(t, here, "more fields than columns:", text + from, f.n);
      if (!i && last && !f.n)
        break;
    }
    if (i == 1 && last && !row[column[0]].n)
      continue;
    if (row[CSV_ACTION].n && csv_line(t, row, here))
      return t->status;
  }
  return trace_order(t);
}
