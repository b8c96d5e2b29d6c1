#include "vram_trace.h"
#include "vram_gzip.h"
#include "vram_model.h"
#include "vram_xla.h"

void trace_end(trace *t) {
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

const char *trace_unit(const trace *t) {
  return t->is_snapshot || t->has_entries ? "entry" : t->is_profile ? "sample" : "line";
}

int trace_bad(trace *t, uint64_t line, const char *what, const char *found, size_t len) {
  const char *const unit = t->is_snapshot || t->has_entries || t->is_profile ? trace_unit(t) : "";
  if (t->status)
    return t->status;
  cmd_say("%s:%s%s%s%lu: %s%s", t->path, *unit ? " " : "", unit, *unit ? " " : "",
          (unsigned long)line, what, cmd_found(found, len));
  return t->status = USAGE;
}

const datum *trace_get(trace *t, const datum *v, const char *key) {
  t->steps += v && v->type == V_DICT ? v->as.box->n / 2 : 0;
  return datum_get(v, key);
}

int trace_enough(trace *t, uint64_t line) {
  uint64_t most = t->most;
  most = most > UINT64_MAX / 64 ? UINT64_MAX : most * 32 + (1 << 20);
  if (t->steps <= most)
    return t->status;
  return trace_bad(t, line, "the same large parts again and again", NULL, 0);
}

static uint64_t mix(uint64_t h) {
  h ^= h >> 32;
  h *= UINT64_C(0x9e3779b97f4a7c15);
  return h ^ h >> 29;
}

static uint64_t text_hash(const char *s, size_t n) {
  uint64_t h = n;
  size_t i;
  for (i = 0; i < n; i++)
    h = mix(h + (unsigned char)s[i]);
  return h;
}

/* Twice the room for texts, the first of which is ""; not FITS: no memory. */
static int text_room(trace *t) {
  const uint32_t cap = t->text_cap ? 2 * t->text_cap : 256;
  char **text = (char **)realloc(t->text, cap / 2 * sizeof *text);
  uint32_t *hash = text ? (uint32_t *)calloc(cap, sizeof *hash) : NULL, i, at;
  if (text)
    t->text = text;
  if (hash && !t->ntext) {
    t->text[0] = (char *)calloc(1, 1);
    t->ntext = t->text[0] != NULL;
  }
  if (!hash || !t->ntext) {
    free(hash);
    return t->status = cmd_no_memory();
  }
  for (i = 1; i < t->ntext; i++) {
    at = (uint32_t)text_hash(t->text[i], strlen(t->text[i])) & (cap - 1);
    while (hash[at])
      at = (at + 1) & (cap - 1);
    hash[at] = i;
  }
  free(t->text_hash);
  t->text_hash = hash;
  t->text_cap = cap;
  return FITS;
}

uint32_t trace_text(trace *t, const char *s, size_t n) {
  const char *end = n ? (const char *)memchr(s, 0, n) : NULL;
  uint32_t at;
  if (t->ntext + 2 > t->text_cap / 2 && text_room(t))
    return 0;
  if (end) /* no text holds a 0 */
    n = (size_t)(end - s);
  if (!n)
    return 0;
  at = (uint32_t)text_hash(s, n) & (t->text_cap - 1);
  for (; t->text_hash[at]; at = (at + 1) & (t->text_cap - 1)) {
    const char *known = t->text[t->text_hash[at]];
    if (!strncmp(known, s, n) && !known[n])
      return t->text_hash[at];
  }
  t->text[t->ntext] = (char *)malloc(n + 1);
  if (!t->text[t->ntext]) {
    t->status = cmd_no_memory();
    return 0;
  }
  memcpy(t->text[t->ntext], s, n);
  t->text[t->ntext][n] = 0;
  t->text_hash[at] = t->ntext;
  return t->ntext++;
}

trace_key *trace_find(trace *t, uint64_t key, int of) {
  size_t at, i;
  if (t->nkey + 1 > t->key_cap / 2) {
    const size_t cap = t->key_cap ? 2 * t->key_cap : 1024;
    trace_key *bigger = (trace_key *)calloc(cap, sizeof *bigger);
    if (!bigger) {
      t->status = cmd_no_memory();
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
      return t->status = cmd_no_memory();
    t->note = notes;
    t->cap = cap;
  }
  if (t->n >= t->most)
    return trace_bad(t, note->line, "more events than the file has bytes", NULL, 0);
  t->event[t->n] = *e;
  t->note[t->n++] = *note;
  t->ncalls += e->action == VRAM_ACTION_ALLOC || e->action == VRAM_ACTION_FREE ||
               e->action == VRAM_ACTION_MARK;
  return FITS;
}

int trace_before(trace *t, const vram_event *e, const trace_note *note, int64_t *id) {
  vram_event a = *e;
  a.action = VRAM_ACTION_ALLOC;
  a.id = *id = t->ids++;
  a.kind = 0;
  a.whole = 1; /* the mark for trace_order */
  t->before++;
  return trace_push(t, &a, note);
}

int trace_add(trace *t, vram_event *e, const trace_note *note, uint64_t key, int of) {
  trace_key *k;
  e->id = -1;
  if (e->action == VRAM_ACTION_MARK)
    return trace_push(t, e, note);
  if (e->action >= VRAM_ACTION_SEGMENT_ALLOC && e->action <= VRAM_ACTION_SEGMENT_UNMAP) {
    t->has_segments = 1;
    return trace_push(t, e, note);
  }
  k = trace_find(t, key, of);
  if (!k)
    return t->status;
  if (e->action == VRAM_ACTION_BECOMES) {
    if (!k->used || k->state == DEAD)
      return FITS;
    e->id = k->id;
    return trace_push(t, e, note);
  }
  if (e->action == VRAM_ACTION_ALLOC) {
    if (k->used && k->state != DEAD) {
      vram_event gone = *e;
      if (of == BY_ID)
        return trace_bad(t, note->line, "allocated twice without a free in between", NULL, 0);
      gone.action = VRAM_ACTION_FREE; /* its free was not recorded */
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
  if (!k->used || k->state == DEAD ||
      (k->state == WAITS && e->action == VRAM_ACTION_FREE_REQUESTED)) {
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
  k->state = (uint8_t)(e->action == VRAM_ACTION_FREE ? DEAD : WAITS);
  return trace_push(t, e, note);
}

int trace_order(trace *t) {
  vram_event *event;
  trace_note *note;
  size_t i, at[2];
  if (!t->before)
    return FITS;
  event = (vram_event *)malloc(t->n * sizeof *event);
  note = event ? (trace_note *)malloc(t->n * sizeof *note) : NULL;
  if (!note) {
    free(event);
    return t->status = cmd_no_memory();
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

/* ---- any of them ---- */

int trace_begin(trace *t, const char *path, size_t len) {
  memset(t, 0, sizeof *t);
  t->path = strcmp(path, "-") ? path : "standard input";
  t->most = len;
  trace_text(t, "", 0);
  return t->status;
}

document trace_document(const trace *t, char *bytes, size_t len) {
  document d;
  memset(&d, 0, sizeof d);
  d.path = t->path;
  d.s = bytes;
  d.len = len;
  return d;
}

/* A word of small letters in a text, in whatever case */
static int has_word(const char *s, size_t n, const char *word) {
  const size_t len = strlen(word);
  size_t i, k;
  for (i = 0; i + len <= n; i++) {
    for (k = 0; k < len && cmd_lower(s[i + k]) == word[k]; k++)
      ;
    if (k == len)
      return 1;
  }
  return 0;
}

/* The first line of a CSV names its columns, one of which is `action`. */
static int is_csv(const char *s, size_t n) {
  const char *const to = (const char *)memchr(s, '\n', n);
  return has_word(s, to ? (size_t)(to - s) : n, "action");
}

/* What a file begins as: pickles of protocols 2 to 5 with 0x80, of 0 and 1 with what no CSV does.
   The log of the BFC allocator stands somewhere among what else a program says. */
int trace_kind(const char *bytes, size_t len) {
  size_t i = 0;
  if (trace_is_pprof(bytes, len))
    return PPROF;
  while (i < len && (unsigned char)bytes[i] <= ' ')
    i++;
  if (i == len)
    return NOTHING;
  if (bytes[i] == '{' || bytes[i] == '[')
    return JSON;
  if ((unsigned char)bytes[0] == 0x80 || strchr("(]}", bytes[0]))
    return PICKLE;
  if (xla_is(bytes, len))
    return XLA;
  return !is_csv(bytes, len) && has_word(bytes, len, "bfc_allocator.cc:") ? BFC : CSV;
}

int trace_read_text(trace *t, int kind, char *text, size_t len, int64_t device) {
  switch (kind) {
  case XLA:
    return trace_read_xla(t, text, len);
  case BFC:
    return trace_read_bfc(t, text, len, device);
  case CSV:
    return trace_read_csv(t, text, len);
  case PPROF:
    return trace_read_pprof(t, text, len, device);
  default:
    return trace_bad(t, 1, "nothing in it", NULL, 0);
  }
}

int trace_read_values(trace *t, const datum *root, int64_t device) {
  return trace_is_profiler(root) ? trace_read_profiler(t, root, device)
                                 : trace_read_snapshot(t, root, device);
}

int trace_unpack(const char *path, char **bytes, size_t *len) {
  return gzip_is(*bytes, *len) ? gzip_unpack(path, bytes, len) : FITS;
}

int trace_from(trace *t, const char *path, char *bytes, size_t len, int64_t device) {
  const int kind = trace_kind(bytes, len);
  document d;
  datum root;
  if (trace_begin(t, path, len))
    return t->status;
  if (device >= 0 && (kind == XLA || kind == CSV))
    return trace_bad(t, 1, "--device is for snapshots, profiles and logs: here is no second device",
                     NULL, 0);
  if (kind != JSON && kind != PICKLE)
    return trace_read_text(t, kind, bytes, len, device);
  d = trace_document(t, bytes, len);
  t->status = kind == JSON ? document_read_json(&d, &root) : document_read_pickle(&d, &root);
  if (!t->status)
    trace_read_values(t, &root, device);
  document_end(&d);
  return t->status;
}

int trace_read(trace *t, const char *path, int64_t device) {
  char *bytes = NULL;
  size_t len = 0;
  const vram_file_format format = model_sniff(path);
  int status = format && format != VRAM_FILE_CONFIG ? kind_refuse_model(path, format, "a trace")
                                                    : kind_refuse(path, "replay");
  memset(t, 0, sizeof *t);
  cmd_progress("vram: reading a trace", 0);
  if (!status)
    status = cmd_read(path, &bytes, &len);
  if (!status)
    status = trace_unpack(path, &bytes, &len);
  if (!status)
    status = trace_from(t, path, bytes, len, device);
  cmd_progress_end();
  free(bytes);
  return status;
}

void trace_print_notes(const trace *t) {
  char number[32];
  if (t->host_bytes)
    printf("%snot played, in the host's memory: %s%s\n", cmd_dim, cmd_human(t->host_bytes),
           cmd_plain);
  if (t->before)
    printf("%salive when it was recorded, and allocated first: %s%s\n", cmd_dim,
           cmd_grouped(t->before, number), cmd_plain);
  if (t->unmatched)
    printf("%sfreed, but never allocated in it: %s%s\n", cmd_dim, cmd_grouped(t->unmatched, number),
           cmd_plain);
}
