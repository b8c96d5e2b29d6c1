/* Recorded allocations as one array of vram_event: CSV by column names (also RMM's log), and
   PyTorch's memory snapshots, pickled or as JSON. Part of vram.c. */

#include "vram_values.h"

enum { EMPTY_CACHE = 1 }; /* vram_event.kind of a VRAM_MARK: torch.cuda.empty_cache() */
enum { FAILED = 1 };      /* vram_event.kind of a VRAM_ALLOC: it failed when it was recorded */
enum { BY_ID, BY_ADDRESS };

typedef struct trace_note {       /* what the file says of the event with the same index */
  uint32_t node, phase, category; /* texts: trace.text[0] is "" */
  uint32_t line;                  /* of a CSV; else which entry, from 0 on */
} trace_note;

typedef struct trace_key { /* an id or address, and what it stands for */
  uint64_t key;
  int64_t id; /* of the allocation */
  uint8_t used, state, of;
} trace_key;

typedef struct trace {
  const char *path;
  vram_event *event; /* ids count allocations from 0 on; what was alive before comes first */
  trace_note *note;
  size_t n, cap, most;
  char **text;
  uint32_t *text_hash;
  uint32_t ntext, text_cap;
  trace_key *key;
  size_t nkey, key_cap;
  int64_t ids;
  size_t before;            /* the first so many events: alive when recording began */
  uint64_t ignored;         /* lines with other actions */
  uint64_t unmatched;       /* frees of what was never allocated */
  uint64_t reserved_at_end; /* of a snapshot: its segments */
  size_t ncalls;            /* alloc, free, empty_cache */
  int has_segments, has_addresses, has_phases, has_categories, has_nodes, is_snapshot;
  char conf[400]; /* allocator options that a snapshot names; "": none */
  int status;
} trace;

static void trace_end(trace *t) {
  uint32_t i;
  for (i = 0; i < t->ntext; i++)
    free(t->text[i]);
  free(t->text);
  free(t->text_hash);
  free(t->event);
  free(t->note);
  free(t->key);
  memset(t, 0, sizeof *t);
}

/* Bad input at a line of a CSV or an entry of a snapshot. */
static int trace_bad(trace *t, uint64_t line, const char *what, const char *found, size_t len) {
  if (t->status)
    return t->status;
  fflush(stdout);
  fprintf(stderr, t->is_snapshot ? "%s: entry %lu: %s" : "%s:%lu: %s", t->path, (unsigned long)line,
          what);
  if (found)
    fprintf(stderr, " '%.*s'", (int)(len < 60 ? len : 60), found);
  fprintf(stderr, "\n");
  return t->status = USAGE;
}

static uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

/* The number of a text, the same for the same texts; 0: "" */
static uint32_t trace_text(trace *t, const char *s, size_t n) {
  uint64_t h = n;
  size_t i;
  uint32_t at;
  if (t->ntext + 2 > t->text_cap / 2) {
    const uint32_t cap = t->text_cap ? 2 * t->text_cap : 256;
    char **text = (char **)realloc(t->text, cap / 2 * sizeof *text);
    uint32_t *hash = text ? (uint32_t *)calloc(cap, sizeof *hash) : NULL;
    if (text)
      t->text = text;
    if (!hash) {
      t->status = out_of_memory();
      return 0;
    }
    if (!t->ntext) {
      t->text[0] = (char *)calloc(1, 1);
      if (!t->text[0]) {
        free(hash);
        t->status = out_of_memory();
        return 0;
      }
      t->ntext = 1;
    }
    for (i = 1; i < t->ntext; i++) {
      const char *c;
      for (h = strlen(t->text[i]), c = t->text[i]; *c; c++)
        h = mix(h + (unsigned char)*c);
      for (at = (uint32_t)h & (cap - 1); hash[at]; at = (at + 1) & (cap - 1))
        ;
      hash[at] = (uint32_t)i;
    }
    free(t->text_hash);
    t->text_hash = hash;
    t->text_cap = cap;
    h = n;
  }
  while (n && memchr(s, 0, n)) /* no text holds a 0 */
    h = n = (size_t)((const char *)memchr(s, 0, n) - s);
  if (!n)
    return 0;
  for (i = 0; i < n; i++)
    h = mix(h + (unsigned char)s[i]);
  for (at = (uint32_t)h & (t->text_cap - 1); t->text_hash[at]; at = (at + 1) & (t->text_cap - 1)) {
    const char *known = t->text[t->text_hash[at]];
    if (!strncmp(known, s, n) && !known[n])
      return t->text_hash[at];
  }
  t->text[t->ntext] = (char *)malloc(n + 1);
  if (!t->text[t->ntext]) {
    t->status = out_of_memory();
    return 0;
  }
  memcpy(t->text[t->ntext], s, n);
  t->text[t->ntext][n] = 0;
  t->text_hash[at] = t->ntext;
  return t->ntext++;
}

/* The place of a key; NULL: no memory. used is 0 where it is new. */
static trace_key *trace_find(trace *t, uint64_t key, int of) {
  size_t at, i;
  if (t->nkey + 1 > t->key_cap / 2) {
    const size_t cap = t->key_cap ? 2 * t->key_cap : 1024;
    trace_key *bigger = (trace_key *)calloc(cap, sizeof *bigger);
    if (!bigger) {
      t->status = out_of_memory();
      return NULL;
    }
    for (i = 0; i < t->key_cap; i++)
      if (t->key[i].used) {
        at = (size_t)mix(t->key[i].key) & (cap - 1);
        while (bigger[at].used)
          at = (at + 1) & (cap - 1);
        bigger[at] = t->key[i];
      }
    free(t->key);
    t->key = bigger;
    t->key_cap = cap;
  }
  at = (size_t)mix(key) & (t->key_cap - 1);
  while (t->key[at].used && (t->key[at].key != key || t->key[at].of != of))
    at = (at + 1) & (t->key_cap - 1);
  t->key[at].key = key;
  t->key[at].of = (uint8_t)of;
  return t->key + at;
}

static int trace_push(trace *t, const vram_event *e, const trace_note *note) {
  if (t->n == t->cap) {
    const size_t cap = t->cap ? 2 * t->cap : 1024;
    vram_event *event = (vram_event *)realloc(t->event, cap * sizeof *event);
    trace_note *notes;
    if (event)
      t->event = event;
    notes = event ? (trace_note *)realloc(t->note, cap * sizeof *notes) : NULL;
    if (!notes)
      return t->status = out_of_memory();
    t->note = notes;
    t->cap = cap;
  }
  if (t->n >= t->most)
    return trace_bad(t, note->line, "more events than the file has bytes", NULL, 0);
  t->event[t->n] = *e;
  t->note[t->n++] = *note;
  t->ncalls += e->action == VRAM_ALLOC || e->action == VRAM_FREE || e->action == VRAM_MARK;
  return FITS;
}

enum { DEAD, ALIVE, WAITS }; /* trace_key.state; WAITS: free_requested */

/* What was allocated before the file begins: e->bytes of it are freed, or alive at the end. Moved
   to the front by trace_order(). */
static int trace_before(trace *t, const vram_event *e, const trace_note *note, int64_t *id) {
  vram_event a = *e;
  a.action = VRAM_ALLOC;
  a.id = *id = t->ids++;
  a.kind = 0;
  a.whole = 1; /* the mark for trace_order */
  t->before++;
  return trace_push(t, &a, note);
}

/* One line or entry. key: what alloc and free have in common; of: BY_ID, BY_ADDRESS. */
static int trace_add(trace *t, vram_event *e, const trace_note *note, uint64_t key, int of) {
  trace_key *k;
  e->id = -1;
  if (e->action == VRAM_MARK)
    return trace_push(t, e, note);
  if (e->action >= VRAM_SEGMENT_ALLOC && e->action <= VRAM_SEGMENT_UNMAP) {
    t->has_segments = 1;
    return trace_push(t, e, note);
  }
  k = trace_find(t, key, of);
  if (!k)
    return t->status;
  if (e->action == VRAM_BECOMES) {
    if (!k->used || k->state == DEAD)
      return FITS;
    e->id = k->id;
    return trace_push(t, e, note);
  }
  if (e->action == VRAM_ALLOC) {
    if (k->used && k->state != DEAD) {
      vram_event gone = *e;
      if (of == BY_ID)
        return trace_bad(t, note->line, "allocated twice without a free in between", NULL, 0);
      gone.action = VRAM_FREE; /* its free was not recorded */
      gone.id = k->id;
      if (trace_push(t, &gone, note))
        return t->status;
    }
    t->nkey += !k->used;
    k->used = 1;
    k->state = (uint8_t)(e->kind == FAILED ? DEAD : ALIVE);
    e->id = k->id = t->ids++;
    return trace_push(t, e, note);
  }
  if (!k->used || k->state == DEAD || (k->state == WAITS && e->action == VRAM_FREE_REQUESTED)) {
    if (k->used && of == BY_ID)
      return trace_bad(t, note->line, "freed twice", NULL, 0);
    if (!e->bytes || k->state == WAITS) {
      t->unmatched++;
      return FITS;
    }
    if (trace_before(t, e, note, &e->id))
      return t->status;
    t->nkey += !k->used;
    k->used = 1;
    k->id = e->id;
  }
  e->id = k->id;
  k->state = (uint8_t)(e->action == VRAM_FREE ? DEAD : WAITS);
  return trace_push(t, e, note);
}

/* What was alive before comes first, in the order in which the file names it. */
static int trace_order(trace *t) {
  vram_event *event;
  trace_note *note;
  size_t i, at[2];
  if (!t->before)
    return FITS;
  event = (vram_event *)malloc(t->n * sizeof *event);
  note = event ? (trace_note *)malloc(t->n * sizeof *note) : NULL;
  if (!note) {
    free(event);
    return t->status = out_of_memory();
  }
  at[0] = t->before, at[1] = 0;
  for (i = 0; i < t->n; i++) {
    const size_t to = at[t->event[i].whole]++;
    event[to] = t->event[i];
    event[to].whole = 0;
    note[to] = t->note[i];
  }
  free(t->event);
  free(t->note);
  t->event = event;
  t->note = note;
  t->cap = t->n;
  return FITS;
}

/* ---- CSV ---- */

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

typedef struct field {
  char *s;
  size_t n;
} field;

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
    const char c = lower(f->s[i]);
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

static int field_is(const field *f, const char *list) {
  char word[24];
  size_t i;
  if (!f->n || f->n >= sizeof word)
    return 0;
  for (i = 0; i < f->n; i++)
    word[i] = lower(f->s[i]);
  word[f->n] = 0;
  return in(word, list);
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
  if (field_is(f + CSV_ACTION, "alloc allocate malloc"))
    e.action = VRAM_ALLOC;
  else if (field_is(f + CSV_ACTION, "free free_completed deallocate"))
    e.action = VRAM_FREE;
  else if (field_is(f + CSV_ACTION, "free_requested"))
    e.action = VRAM_FREE_REQUESTED;
  else if (field_is(f + CSV_ACTION, "empty_cache"))
    e.action = VRAM_MARK, e.kind = EMPTY_CACHE;
  else if (f[CSV_ACTION].n == 16 && !memcmp(f[CSV_ACTION].s, "allocate failure", 16))
    e.action = VRAM_ALLOC, e.kind = FAILED; /* RMM's log */
  else {
    for (known = 0, i = VRAM_SEGMENT_ALLOC; i <= VRAM_SEGMENT_UNMAP; i++)
      if (field_is(f + CSV_ACTION, action_name[i]))
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
  if (f[CSV_STREAM].n && !field_is(f + CSV_STREAM, "(nil)") &&
      !csv_number(f + CSV_STREAM, &e.stream))
    return trace_bad(t, line, "not a stream", f[CSV_STREAM].s, f[CSV_STREAM].n);
  if (f[CSV_TIME].n)
    csv_number(f + CSV_TIME, &e.time);
  if (field_is(f + CSV_RESULT, "oom"))
    e.kind = FAILED;
  t->has_addresses |= e.address != 0;
  note.node = trace_text(t, f[CSV_NODE].s, f[CSV_NODE].n);
  note.phase = trace_text(t, f[CSV_PHASE].s, f[CSV_PHASE].n);
  note.category = trace_text(t, f[CSV_CATEGORY].s, f[CSV_CATEGORY].n);
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (field_is(f + CSV_PHASE, phase_name[i]))
      e.phase = (vram_phase)i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (field_is(f + CSV_CATEGORY, category_name[i]))
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

static int read_csv(trace *t, char *text, size_t len) {
  int column[64], ncolumn = 0, has = 0, last = 0, i, k;
  size_t at = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;
  uint64_t line = 1;
  field f, row[CSV_COUNT + 1];
  while (!last) {
    if (!csv_field(t, text, len, &at, &f, &last, &line))
      return t->status;
    if (ncolumn == 64)
      return trace_bad(t, line, "more than 64 columns", NULL, 0);
    for (k = 0; k < CSV_COUNT && (!field_is(&f, csv_name[k]) || has >> k & 1); k++)
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

/* ---- memory snapshots ---- */

static int64_t int_of(const datum *v, int64_t otherwise) {
  return v && v->type == V_INT ? v->as.i : otherwise;
}

/* A number of bytes, an address; not FITS: message printed. */
static int number_of(trace *t, const datum *entry, const char *key, uint32_t line, uint64_t *to) {
  const datum *v = value_of(entry, key);
  char what[120];
  if (v && v->type == V_INT && v->as.i >= 0) {
    *to = (uint64_t)v->as.i;
    return FITS;
  }
  snprintf(what, sizeof what, "%s '%s' (expected an integer of 0 or more, found %s)",
           v ? "a wrong" : "no", key,
           v ? v->type == V_INT ? "less" : value_name[v->type] : "nothing");
  return trace_bad(t, line, what, NULL, 0);
}

static const datum *item_of(const datum *list, uint32_t i) {
  return list && list->type == V_LIST && i < list->as.box->n ? list->as.box->v + i : NULL;
}

static uint32_t items_of(const datum *list) {
  return list && list->type == V_LIST ? list->as.box->n : 0;
}

static int ends(const datum *text, const char *with) {
  const size_t n = strlen(with);
  return text && text->type == V_TEXT && text->len >= n &&
         !memcmp(text->as.s + text->len - n, with, n);
}

static int holds(const datum *text, const char *part) {
  const size_t n = strlen(part);
  uint32_t i;
  for (i = 0; text && text->type == V_TEXT && i + n <= text->len; i++)
    if (!memcmp(text->as.s + i, part, n))
      return 1;
  return 0;
}

/* Who asked: what user_metadata says, else the innermost frame of a Python file outside of torch,
   else the innermost frame. */
static uint32_t snapshot_node(trace *t, const datum *entry) {
  const datum *name = value_of(entry, "user_metadata"), *frames = value_of(entry, "frames"),
              *file = NULL, *frame = item_of(frames, 0);
  char text[300];
  uint32_t i;
  size_t n, skip;
  if (name && name->type == V_TEXT && name->len)
    return trace_text(t, name->as.s, name->len);
  for (i = 0; i < items_of(frames); i++) {
    file = value_of(item_of(frames, i), "filename");
    if (ends(file, ".py") && !holds(file, "/torch/")) {
      frame = item_of(frames, i);
      break;
    }
  }
  file = value_of(frame, "filename");
  name = value_of(frame, "name");
  if (!file || file->type != V_TEXT)
    return 0;
  for (skip = file->len; skip && file->as.s[skip - 1] != '/';)
    skip--;
  n = (size_t)snprintf(text, sizeof text, "%.*s:%" PRId64,
                       (int)(file->len - skip < 120 ? file->len - skip : 120), file->as.s + skip,
                       int_of(value_of(frame, "line"), 0));
  if (name && name->type == V_TEXT && name->len)
    n += (size_t)snprintf(text + n, sizeof text - n, " %.*s",
                          (int)(name->len < 120 ? name->len : 120), name->as.s);
  return trace_text(t, text, n);
}

static void snapshot_settings(trace *t, const datum *settings) {
  const datum *v = value_of(settings, "PYTORCH_CUDA_ALLOC_CONF");
  if (v && v->type == V_TEXT && v->len < sizeof t->conf) {
    memcpy(t->conf, v->as.s, v->len);
    t->conf[v->len] = 0;
  }
}

static int snapshot_entry(trace *t, const datum *entry, uint32_t line) {
  const datum *action = value_of(entry, "action");
  vram_event e;
  trace_note note;
  int i;
  memset(&e, 0, sizeof e);
  memset(&note, 0, sizeof note);
  note.line = line;
  e.category = VRAM_CATEGORY_OTHER;
  if (is_text(action, "free_completed"))
    e.action = VRAM_FREE;
  else if (is_text(action, "oom"))
    e.action = VRAM_ALLOC, e.kind = FAILED;
  else {
    for (i = 0; i < VRAM_ACTION_COUNT && !is_text(action, action_name[i]); i++)
      ;
    if (i > VRAM_SEGMENT_UNMAP || i == VRAM_FREE || i == VRAM_BECOMES) {
      if (!action || action->type != V_TEXT)
        return trace_bad(t, line, "a trace entry without 'action'", NULL, 0);
      return t->ignored++, FITS;
    }
    e.action = (vram_action)i;
  }
  if (number_of(t, entry, "size", line, &e.bytes) ||
      (e.kind != FAILED && number_of(t, entry, "addr", line, &e.address)))
    return t->status;
  if (e.bytes > (uint64_t)INT64_MAX / 4)
    return trace_bad(t, line, "more bytes than any device has", NULL, 0);
  e.stream = (uint64_t)int_of(value_of(entry, "stream"), 0);
  e.time = (uint64_t)int_of(value_of(entry, "time_us"), 0);
  if (e.action == VRAM_ALLOC)
    note.node = snapshot_node(t, entry);
  return t->status ? t->status
                   : trace_add(t, &e, &note,
                               e.kind == FAILED ? UINT64_C(1) << 63 | line : e.address, BY_ADDRESS);
}

/* Blocks that are in use at the end and that no entry allocated: there before. */
static int snapshot_blocks(trace *t, const datum *segment, uint32_t line) {
  const datum *blocks = value_of(segment, "blocks");
  uint32_t i;
  uint64_t next = 0;
  if (items_of(blocks) && number_of(t, segment, "address", line, &next))
    return t->status;
  for (i = 0; i < items_of(blocks); i++) {
    const datum *b = item_of(blocks, i), *state = value_of(b, "state");
    vram_event e;
    trace_note note;
    trace_key *k;
    uint64_t size;
    int64_t id;
    memset(&e, 0, sizeof e);
    memset(&note, 0, sizeof note);
    note.line = line;
    if (number_of(t, b, "size", line, &size))
      return t->status;
    if (size > (uint64_t)INT64_MAX / 4)
      return trace_bad(t, line, "more bytes than any device has", NULL, 0);
    e.address = next; /* older ones do not say where a block is: they lie side by side */
    if (value_of(b, "address") && number_of(t, b, "address", line, &e.address))
      return t->status;
    next = e.address + size;
    if (is_text(state, "inactive"))
      continue;
    k = trace_find(t, e.address, BY_ADDRESS);
    if (!k)
      return t->status;
    if (k->used && k->state != DEAD)
      continue;
    e.bytes = (uint64_t)int_of(value_of(b, "requested_size"), (int64_t)size);
    if (!e.bytes || e.bytes > size)
      e.bytes = size;
    e.category = VRAM_CATEGORY_OTHER;
    e.stream = (uint64_t)int_of(value_of(segment, "stream"), 0);
    note.node = snapshot_node(t, b);
    if (t->status || trace_before(t, &e, &note, &id))
      return t->status;
    t->nkey += !k->used;
    k->used = 1;
    k->state = ALIVE;
    k->id = id;
  }
  return FITS;
}

/* device -1: the first one with events, else with segments */
static int read_snapshot(trace *t, const datum *root, int64_t device) {
  const datum *traces = value_of(root, "device_traces"),
              *segments = root->type == V_LIST ? root : value_of(root, "segments"), *list;
  uint32_t i;
  t->is_snapshot = 1;
  if (!segments || segments->type != V_LIST || (traces && traces->type != V_LIST))
    return trace_bad(t, 0, "no memory snapshot: expected 'segments' and 'device_traces'", NULL, 0);
  if (device < 0) {
    for (i = 0; i < items_of(traces) && device < 0; i++)
      if (items_of(item_of(traces, i)))
        device = i;
    if (device < 0)
      device = int_of(value_of(item_of(segments, 0), "device"), 0);
  }
  list = device < MAX_ITEMS ? item_of(traces, (uint32_t)device) : NULL;
  if (list && list->type != V_LIST)
    return trace_bad(t, 0, "a device's trace that is no list", NULL, 0);
  snapshot_settings(t, value_of(root, "allocator_settings"));
  t->has_addresses = t->has_nodes = 1;
  for (i = 0; i < items_of(list); i++)
    if (snapshot_entry(t, item_of(list, i), i))
      return t->status;
  for (i = 0; i < items_of(segments); i++) {
    const datum *segment = item_of(segments, i);
    uint64_t size;
    if (int_of(value_of(segment, "device"), 0) != device)
      continue;
    if (number_of(t, segment, "total_size", i, &size) || snapshot_blocks(t, segment, i))
      return t->status;
    t->reserved_at_end += size;
  }
  return trace_order(t);
}

/* ---- any of them ---- */

/* An empty trace; len: of the file. */
static int trace_begin(trace *t, const char *path, size_t len) {
  memset(t, 0, sizeof *t);
  t->path = strcmp(path, "-") ? path : "standard input";
  t->most = len;
  trace_text(t, "", 0);
  return t->status;
}

static document document_of(const trace *t, char *bytes, size_t len) {
  document d;
  memset(&d, 0, sizeof d);
  d.path = t->path;
  d.s = bytes;
  d.len = len;
  return d;
}

enum { NOTHING, CSV, JSON, PICKLE };

/* What a file begins as: pickles of protocols 2 to 5 with 0x80, of 0 and 1 with what no CSV does.
 */
static int kind_of(const char *bytes, size_t len) {
  size_t i = 0;
  while (i < len && (unsigned char)bytes[i] <= ' ')
    i++;
  if (i == len)
    return NOTHING;
  if (bytes[i] == '{' || bytes[i] == '[')
    return JSON;
  return (unsigned char)bytes[0] == 0x80 || strchr("(]}", bytes[0]) ? PICKLE : CSV;
}

/* bytes change; t->status: not FITS, message printed */
static int trace_from(trace *t, const char *path, char *bytes, size_t len, int64_t device) {
  const int kind = kind_of(bytes, len);
  document d;
  datum root;
  if (trace_begin(t, path, len))
    return t->status;
  if (kind == NOTHING)
    return trace_bad(t, 1, "nothing in it", NULL, 0);
  if (kind == CSV)
    return read_csv(t, bytes, len);
  d = document_of(t, bytes, len);
  t->status = kind == JSON ? read_json(&d, &root) : read_pickle(&d, &root);
  if (!t->status)
    read_snapshot(t, &root, device);
  document_end(&d);
  return t->status;
}

static int read_trace(trace *t, const char *path, int64_t device) {
  char *bytes = NULL;
  size_t len = 0;
  int status = read_all(path, &bytes, &len);
  memset(t, 0, sizeof *t);
  if (!status)
    status = trace_from(t, path, bytes, len, device);
  free(bytes);
  return status;
}
