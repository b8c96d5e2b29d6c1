/* A profile in the format of pprof (profile.proto): JAX's device_memory_profile, and of any other
   program that counts bytes by call stacks. It is a state: what is alive, without an order. */
#include "vram_proto.h"
#include "vram_trace.h"

/* Fields of profile.proto */
enum {
  PROFILE_TYPE = PROTO_B(1),
  PROFILE_SAMPLE = PROTO_B(2),
  PROFILE_LOCATION = PROTO_B(4),
  PROFILE_FUNCTION = PROTO_B(5),
  PROFILE_STRING = PROTO_B(6),
  TYPE_UNIT = PROTO_V(2),
  SAMPLE_LABEL = PROTO_B(3),
  LABEL_KEY = PROTO_V(1),
  LABEL_STRING = PROTO_V(2),
  ID = PROTO_V(1), /* of a location, of a function */
  LOCATION_LINE = PROTO_B(4),
  LINE_FUNCTION = PROTO_V(1),
  LINE_LINE = PROTO_V(2),
  FUNCTION_NAME = PROTO_V(2),
  FUNCTION_FILE = PROTO_V(4)
};

typedef struct piece { /* of the file; id: what others name it by; of a text: 1 + what a frame with
                          this file says, 0: not looked at */
  const char *s;
  size_t len;
  uint64_t id;
} piece;

typedef struct pieces {
  piece *v;
  size_t n, cap;
} pieces;

typedef struct profile {
  trace *t;
  pieces string, location, function;
  size_t bytes_at, count_at; /* which value of a sample: the last that has bytes, its count */
  uint32_t types, sample;
} profile;

typedef struct frame { /* of a stack */
  const piece *name;
  piece *file;
  uint64_t line;
} frame;

static int put(profile *p, pieces *l, const proto *f, uint64_t id) {
  if (l->n == l->cap) {
    const size_t cap = l->cap ? 2 * l->cap : 64;
    piece *const bigger = (piece *)realloc(l->v, cap * sizeof *bigger);
    if (!bigger)
      return p->t->status = cmd_no_memory();
    l->v = bigger;
    l->cap = cap;
  }
  l->v[l->n].s = f->s;
  l->v[l->n].len = f->len;
  l->v[l->n++].id = id;
  return FITS;
}

/* The first number of that field in a message; 0: it has none, or that is it. */
static uint64_t number_in(const char *s, size_t len, uint32_t tag) {
  proto f;
  proto_begin(&f, s, len);
  while (proto_next(&f))
    if (f.tag == tag)
      return f.value;
  return 0;
}

static int by_id(const void *a, const void *b) {
  const piece *const x = (const piece *)a, *const y = (const piece *)b;
  if (x->id != y->id)
    return x->id < y->id ? -1 : 1;
  return x->s < y->s ? -1 : x->s > y->s;
}

static const piece *find(const pieces *l, uint64_t id) {
  size_t low = 0, high = l->n;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (l->v[middle].id < id)
      low = middle + 1;
    else
      high = middle;
  }
  return low < l->n && l->v[low].id == id ? l->v + low : NULL;
}

/* A text by its number; that of one that is not there is the first, which is "". */
static piece *string(const profile *p, uint64_t i) {
  return p->string.v + (i < p->string.n ? i : 0);
}

static int is(const piece *s, const char *text) {
  return s->len == strlen(text) && !memcmp(s->s, text, s->len);
}

static int holds(const piece *s, const char *part) {
  const size_t n = strlen(part);
  size_t i;
  for (i = 0; i + n <= s->len; i++)
    if (!memcmp(s->s + i, part, n))
      return 1;
  return 0;
}

/* Texts, locations and functions, in whatever order the file has them. */
static int read_tables(profile *p, const char *bytes, size_t len) {
  proto f;
  proto_begin(&f, bytes, len);
  while (!p->t->status && proto_next(&f)) {
    if (f.tag == PROFILE_STRING)
      put(p, &p->string, &f, 0);
    else if (f.tag == PROFILE_LOCATION)
      put(p, &p->location, &f, number_in(f.s, f.len, ID));
    else if (f.tag == PROFILE_FUNCTION)
      put(p, &p->function, &f, number_in(f.s, f.len, ID));
  }
  if (f.broken)
    trace_bad(p->t, 0, "a profile of pprof with a field that is longer than the file", NULL, 0);
  else if (!p->string.n || p->string.v->len)
    trace_bad(p->t, 0, "a profile of pprof whose first text is not the empty one", NULL, 0);
  if (p->location.n)
    qsort(p->location.v, p->location.n, sizeof *p->location.v, by_id);
  if (p->function.n)
    qsort(p->function.v, p->function.n, sizeof *p->function.v, by_id);
  return p->t->status;
}

/* Which values count: the last that are bytes (of several, those in use), and the count before. */
static int read_types(profile *p, const char *bytes, size_t len) {
  size_t count = (size_t)-1;
  proto f;
  p->bytes_at = p->count_at = (size_t)-1;
  proto_begin(&f, bytes, len);
  for (; proto_next(&f); p->types += f.tag == PROFILE_TYPE) {
    const piece *unit;
    if (f.tag != PROFILE_TYPE)
      continue;
    unit = string(p, number_in(f.s, f.len, TYPE_UNIT));
    if (is(unit, "count"))
      count = p->types;
    if (is(unit, "bytes"))
      p->bytes_at = p->types, p->count_at = count;
  }
  return p->bytes_at == (size_t)-1
             ? trace_bad(p->t, 0, "a profile of pprof that counts no bytes", NULL, 0)
             : FITS;
}

/* How much a frame says of who asked: a file of the program, one of a package, one of JAX. */
static int rank(piece *file) {
  if (!file->id)
    file->id = !file->len || *file->s == '<' ? 1
               : !holds(file, "/site-packages/") && !holds(file, "/dist-packages/")
                   ? 4
                   : (uint64_t)(holds(file, "-packages/jax/") ? 2 : 3);
  return (int)file->id - 1;
}

/* "train.py:26 main" */
static uint32_t frame_text(trace *t, const frame *f) {
  char text[300];
  size_t skip = f->file->len, n = 0;
  while (skip && f->file->s[skip - 1] != '/')
    skip--;
  if (f->file->len > skip)
    n = (size_t)snprintf(text, sizeof text, "%.*s:%" PRIu64,
                         (int)(f->file->len - skip < 120 ? f->file->len - skip : 120),
                         f->file->s + skip, f->line);
  if (f->name->len)
    n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s", n ? " " : "",
                          (int)(f->name->len < 120 ? f->name->len : 120), f->name->s);
  return n ? trace_text(t, text, n) : 0;
}

/* Who asked: the innermost frame of the program's own files, else of a package that is not JAX. */
static uint32_t caller(profile *p, const char *sample, size_t len) {
  frame best, f;
  proto s, ids, l;
  uint64_t id;
  int most = -1;
  memset(&best, 0, sizeof best);
  proto_begin(&s, sample, len);
  while (most < 3 && proto_next(&s)) {
    if (s.tag != PROTO_V(1) && s.tag != PROTO_B(1))
      continue;
    proto_numbers(&s, &ids);
    while (most < 3 && proto_number(&ids, &id)) {
      const piece *const at = find(&p->location, id);
      if (!at)
        continue;
      proto_begin(&l, at->s, at->len);
      while (
          proto_next(&l)) { /* of a function that is inlined there are several, innermost first */
        const piece *of;
        p->t->steps += 1 + l.len / 8;
        if (l.tag != LOCATION_LINE || trace_enough(p->t, p->sample))
          continue;
        of = find(&p->function, number_in(l.s, l.len, LINE_FUNCTION));
        f.line = number_in(l.s, l.len, LINE_LINE);
        f.name = string(p, of ? number_in(of->s, of->len, FUNCTION_NAME) : UINT64_MAX);
        f.file = string(p, of ? number_in(of->s, of->len, FUNCTION_FILE) : UINT64_MAX);
        p->t->steps += of ? of->len / 8 : 0;
        if (rank(f.file) > most)
          best = f, most = rank(f.file);
      }
      if (p->t->status)
        return 0;
    }
  }
  return most < 0 ? 0 : frame_text(p->t, &best);
}

/* A number behind the last colon of "cuda:0"; -1: none */
static int64_t ordinal(const piece *device) {
  size_t i = device->len;
  int64_t v = 0, ten = 1;
  for (; i && device->s[i - 1] >= '0' && device->s[i - 1] <= '9' && ten < 1000000; i--, ten *= 10)
    v += ten * (device->s[i - 1] - '0');
  return i < device->len ? v : -1;
}

static int read_sample(profile *p, const char *sample, size_t len, int64_t device) {
  uint64_t bytes = 0, count = 1, value;
  size_t at = 0;
  trace_note note;
  vram_event e;
  proto s, values;
  memset(&note, 0, sizeof note);
  memset(&e, 0, sizeof e);
  proto_begin(&s, sample, len);
  while (proto_next(&s)) {
    if (s.tag == PROTO_V(2) || s.tag == PROTO_B(2)) {
      proto_numbers(&s, &values);
      for (; proto_number(&values, &value); at++) {
        if (at == p->bytes_at)
          bytes = value;
        if (at == p->count_at)
          count = value;
      }
    } else if (s.tag == SAMPLE_LABEL) {
      const piece *const key = string(p, number_in(s.s, s.len, LABEL_KEY)),
                         *const is_what = string(p, number_in(s.s, s.len, LABEL_STRING));
      if (is(key, "kind"))
        note.category = trace_text(p->t, is_what->s, is_what->len < 120 ? is_what->len : 120);
      if (is(key, "device")) {
        if (device >= 0 && ordinal(is_what) != device)
          return FITS;
        note.phase = trace_text(p->t, is_what->s, is_what->len < 120 ? is_what->len : 120);
      }
    }
  }
  note.line = p->sample;
  if (s.broken)
    return trace_bad(p->t, p->sample, "a field that is longer than the sample", NULL, 0);
  if (bytes > (uint64_t)INT64_MAX / 4 || count > (uint64_t)INT64_MAX / 4)
    return trace_bad(p->t, p->sample, "more bytes than any device has", NULL, 0);
  note.node = caller(p, sample, len);
  note.blocks = count;
  e.action = VRAM_ACTION_ALLOC;
  e.bytes = bytes;
  e.category = VRAM_CATEGORY_OTHER;
  return p->t->status || !count ? p->t->status : trace_add(p->t, &e, &note, p->sample, BY_ID);
}

/* The first type of value: two numbers of texts. */
int trace_is_pprof(const char *bytes, size_t len) {
  proto f, type;
  proto_begin(&f, bytes, len);
  if (!proto_next(&f) || f.tag != PROFILE_TYPE || f.len > 22)
    return 0;
  proto_begin(&type, f.s, f.len);
  if (!proto_next(&type) || type.tag != PROTO_V(1))
    return 0;
  while (proto_next(&type))
    if (type.tag != TYPE_UNIT)
      return 0;
  return !type.broken;
}

int trace_read_pprof(trace *t, const char *bytes, size_t len, int64_t device) {
  profile p;
  proto f;
  memset(&p, 0, sizeof p);
  p.t = t;
  t->is_profile = t->is_state = t->has_nodes = t->has_categories = 1;
  if (!read_tables(&p, bytes, len) && !read_types(&p, bytes, len)) {
    proto_begin(&f, bytes, len);
    while (!t->status && proto_next(&f))
      if (f.tag == PROFILE_SAMPLE) {
        read_sample(&p, f.s, f.len, device);
        p.sample++;
      }
  }
  free(p.string.v);
  free(p.location.v);
  free(p.function.v);
  return t->status ? t->status : trace_order(t);
}
