/* A trace from what torch.profiler writes: the chrome trace of a run with profile_memory=True
   (export_chrome_trace), and the raw memory timeline (export_memory_timeline(".raw.json.gz")). */
#include "vram_trace.h"

/* ---- the chrome trace ---- */

typedef struct span { /* of an operator or a Python function */
  double from, to;
  int64_t thread;
  const datum *name;
  uint32_t index; /* in the file */
} span;

typedef struct moment { /* an allocation or a free */
  double at;
  int64_t thread;
  const datum *args;
  uint32_t index, node;
} moment;

typedef struct chrome {
  trace *t;
  const datum *events;
  span *span;
  moment *moment;
  uint32_t nspan, nmoment;
  int64_t type, device; /* of the allocator: 0 is the CPU, others are accelerators */
} chrome;

static double number(const datum *v) {
  return v && v->type == V_FLOAT ? v->as.f : v && v->type == V_INT ? (double)v->as.i : 0;
}

static int64_t whole(const datum *v) { return v && v->type == V_INT ? v->as.i : -1; }

static int begins(const char *s, size_t n, const char *with) {
  return n >= strlen(with) && !memcmp(s, with, strlen(with));
}

static int by_span(const void *a, const void *b) {
  const span *const x = (const span *)a, *const y = (const span *)b;
  if (x->thread != y->thread)
    return x->thread < y->thread ? -1 : 1;
  if (x->from < y->from || y->from < x->from)
    return x->from < y->from ? -1 : 1;
  if (x->to < y->to || y->to < x->to) /* who is around another comes first */
    return x->to > y->to ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int by_thread(const void *a, const void *b) {
  const moment *const x = (const moment *)a, *const y = (const moment *)b;
  if (x->thread != y->thread)
    return x->thread < y->thread ? -1 : 1;
  if (x->at < y->at || y->at < x->at)
    return x->at < y->at ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int by_time(const void *a, const void *b) {
  const moment *const x = (const moment *)a, *const y = (const moment *)b;
  if (x->at < y->at || y->at < x->at)
    return x->at < y->at ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* "train.py(26): step", outside of torch: where the number is, 0: it is no such frame. */
static size_t own_frame(const datum *name) {
  const char *const s = name->as.s;
  size_t i;
  if (begins(s, name->len, "torch/") || begins(s, name->len, "<"))
    return 0;
  for (i = 0; i + 4 < name->len; i++) {
    if (begins(s + i, name->len - i, "/torch/"))
      return 0;
    if (begins(s + i, name->len - i, ".py("))
      return i + 4;
  }
  return 0;
}

/* An operator that says something: those that make an empty tensor are called by one that does. */
static int is_operator(const datum *name) {
  static const char *const passing[] = {"aten::empty", "aten::new_empty", "aten::resize",
                                        "aten::set_"};
  size_t i;
  for (i = 0; i < sizeof passing / sizeof *passing; i++)
    if (begins(name->as.s, name->len, passing[i]))
      return 0;
  return 1;
}

/* "train.py:26 step" of "train.py(26): step", where the number is at `at`; bytes written, < cap */
static size_t frame_text(const datum *name, size_t at, char *to, size_t cap) {
  const size_t len = name->len < cap - 1 ? name->len : cap - 1;
  size_t n = at - 1, i;
  if (at >= len)
    return 0;
  memcpy(to, name->as.s, n);
  to[n++] = ':';
  for (i = at; i < len && name->as.s[i] != ')'; i++)
    to[n++] = name->as.s[i];
  if (begins(name->as.s + i, len - i, "): "))
    for (to[n++] = ' ', i += 3; i < len; i++)
      to[n++] = name->as.s[i];
  return n;
}

/* Who asked: of what is around a moment on its thread the innermost module, or function of a Python
   file outside of torch, and the innermost operator that says something. The stack is `open`. */
static uint32_t caller(const chrome *c, const uint32_t *open, uint32_t n) {
  static const char module[] = "nn.Module: ";
  const datum *op = NULL;
  char text[400];
  size_t len = 0;
  while (n-- && !len) {
    const datum *const name = c->span[open[n]].name;
    const size_t at = own_frame(name);
    c->t->steps += 1 + name->len / 8;
    if (begins(name->as.s, name->len, module)) {
      const size_t skip = sizeof module - 1;
      len = name->len - skip < 160 ? name->len - skip : 160;
      memcpy(text, name->as.s + skip, len);
    } else if (at)
      len = frame_text(name, at, text, 160);
    else if (!op && is_operator(name) && !memchr(name->as.s, '(', name->len) &&
             !begins(name->as.s, name->len, "<"))
      op = name;
  }
  if (op)
    len += (size_t)snprintf(text + len, sizeof text - len, "%s%.*s", len ? " " : "",
                            (int)(op->len < 200 ? op->len : 200), op->as.s);
  return trace_text(c->t, text, len);
}

static int name_moments(chrome *c) {
  uint32_t *const open = (uint32_t *)malloc(((size_t)c->nspan + 1) * sizeof *open);
  uint32_t i, at = 0, n = 0;
  if (!open)
    return c->t->status = cmd_no_memory();
  if (c->nspan)
    qsort(c->span, c->nspan, sizeof *c->span, by_span);
  if (c->nmoment)
    qsort(c->moment, c->nmoment, sizeof *c->moment, by_thread);
  for (i = 0; i < c->nmoment && !trace_enough(c->t, c->moment[i].index); i++) {
    moment *const m = c->moment + i;
    for (; at < c->nspan && (c->span[at].thread < m->thread ||
                             (c->span[at].thread == m->thread && c->span[at].from <= m->at));
         at++) {
      while (n && (c->span[open[n - 1]].thread != c->span[at].thread ||
                   c->span[open[n - 1]].to < c->span[at].from))
        n--;
      open[n++] = at;
    }
    while (n && (c->span[open[n - 1]].thread != m->thread || c->span[open[n - 1]].to < m->at))
      n--;
    m->node = caller(c, open, n);
  }
  free(open);
  return c->t->status;
}

static int is_own(const chrome *c, const datum *args) {
  return whole(trace_get(c->t, args, "Device Type")) == c->type &&
         (c->type == 0 || whole(trace_get(c->t, args, "Device Id")) == c->device);
}

/* device -1: the first that is not the CPU, or that */
static int find_device(chrome *c, int64_t device) {
  uint32_t i;
  c->type = -1;
  for (i = 0; i < datum_items(c->events); i++) {
    const datum *const e = datum_item(c->events, i);
    const datum *const args = trace_get(c->t, e, "args");
    int64_t type, id;
    if (trace_enough(c->t, i))
      return c->t->status;
    if (!datum_is(trace_get(c->t, e, "name"), "[memory]"))
      continue;
    type = whole(trace_get(c->t, args, "Device Type"));
    id = whole(trace_get(c->t, args, "Device Id"));
    if (type < 0 || (device >= 0 && (!type || id != device)) || c->type > 0)
      continue;
    c->type = type;
    c->device = id;
  }
  if (c->type >= 0)
    return FITS;
  return trace_bad(c->t, 0,
                   device < 0 ? "a chrome trace without [memory] events (expected "
                                "torch.profiler.profile(profile_memory=True))"
                              : "a chrome trace without [memory] events of this device",
                   NULL, 0);
}

static int collect(chrome *c) {
  const uint32_t n = datum_items(c->events);
  uint32_t i;
  c->span = (span *)malloc(((size_t)n + 1) * sizeof *c->span);
  c->moment = (moment *)malloc(((size_t)n + 1) * sizeof *c->moment);
  if (!c->span || !c->moment)
    return c->t->status = cmd_no_memory();
  for (i = 0; i < n && !trace_enough(c->t, i); i++) {
    const datum *const e = datum_item(c->events, i), *const name = trace_get(c->t, e, "name"),
                       *const kind = trace_get(c->t, e, "cat"),
                       *const args = trace_get(c->t, e, "args");
    const double at = number(trace_get(c->t, e, "ts"));
    if (!name || name->type != V_TEXT)
      continue;
    if (datum_is(name, "[memory]") && is_own(c, args)) {
      moment *const m = c->moment + c->nmoment++;
      m->at = at;
      m->thread = whole(trace_get(c->t, e, "tid"));
      m->args = args;
      m->index = i;
      m->node = 0;
    } else if (datum_is(trace_get(c->t, e, "ph"), "X") &&
               (datum_is(kind, "cpu_op") || datum_is(kind, "python_function"))) {
      span *const s = c->span + c->nspan++;
      s->from = at;
      s->to = at + number(trace_get(c->t, e, "dur"));
      s->thread = whole(trace_get(c->t, e, "tid"));
      s->name = name;
      s->index = i;
    }
  }
  return c->t->status;
}

/* One moment; Bytes are less than 0 where they are freed. */
static int add_moment(chrome *c, const moment *m) {
  const datum *const bytes = trace_get(c->t, m->args, "Bytes"), *const address = trace_get(
                                                                    c->t, m->args, "Addr");
  const int64_t limit = INT64_MAX / 8;
  trace_note note;
  vram_event e;
  memset(&note, 0, sizeof note);
  memset(&e, 0, sizeof e);
  if (!bytes || bytes->type != V_INT || bytes->as.i > limit || bytes->as.i < -limit)
    return trace_bad(c->t, m->index, "no 'Bytes', or more than any device has", NULL, 0);
  if (!address || address->type != V_INT)
    return trace_bad(c->t, m->index, "no 'Addr'", NULL, 0);
  note.line = m->index;
  e.time = m->at > 0 && m->at < 9e18 ? (uint64_t)m->at : 0;
  e.category = VRAM_CATEGORY_OTHER;
  e.action = bytes->as.i < 0 ? VRAM_ACTION_FREE : VRAM_ACTION_ALLOC;
  e.bytes = (uint64_t)(bytes->as.i < 0 ? -bytes->as.i : bytes->as.i);
  e.address = (uint64_t)address->as.i;
  note.node = m->node;
  return trace_add(c->t, &e, &note, e.address, BY_ADDRESS);
}

/* What the counter says of the first moment, less what the trace frees without having allocated. */
static int add_unseen(chrome *c) {
  const datum *const args = c->moment->args, *const bytes = trace_get(c->t, args, "Bytes");
  int64_t unseen = whole(trace_get(c->t, args, "Total Allocated"));
  trace_note note;
  vram_event e;
  int64_t id;
  size_t i;
  if (unseen < 0 || unseen > INT64_MAX / 8)
    return FITS; /* no counter */
  unseen -= bytes->as.i;
  for (i = 0; i < c->t->n && unseen > 0; i++)
    if (c->t->event[i].whole)
      unseen -= (int64_t)c->t->event[i].bytes;
  if (unseen <= 0)
    return FITS;
  memset(&note, 0, sizeof note);
  memset(&e, 0, sizeof e);
  note.line = c->moment->index;
  note.node = trace_text(c->t, "(not freed in it)", 17);
  e.bytes = (uint64_t)unseen;
  e.category = VRAM_CATEGORY_OTHER;
  return trace_before(c->t, &e, &note, &id);
}

static int read_chrome(trace *t, const datum *events, int64_t device) {
  chrome c;
  uint32_t i;
  memset(&c, 0, sizeof c);
  c.t = t;
  c.events = events;
  t->has_addresses = t->has_nodes = 1;
  if (!find_device(&c, device) && !collect(&c) && !name_moments(&c)) {
    qsort(c.moment, c.nmoment, sizeof *c.moment, by_time);
    for (i = 0; i < c.nmoment && !t->status; i++)
      add_moment(&c, c.moment + i);
    if (!t->status && !add_unseen(&c))
      trace_order(t);
  }
  free(c.span);
  free(c.moment);
  return t->status;
}

/* ---- the raw memory timeline: time, action, bytes, category ---- */

enum { PREEXISTING = 1, CREATE, INCREMENT_VERSION, DESTROY, UNKNOWN = 7, KINDS };

/* _CATEGORY_TO_INDEX of torch/profiler/_memory_profiler.py */
static const vram_category category_of[KINDS] = {
    VRAM_CATEGORY_PARAMS,      VRAM_CATEGORY_OPTIMIZER,   VRAM_CATEGORY_INPUTS,
    VRAM_CATEGORY_TEMPORARIES, VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_GRADIENTS,
    VRAM_CATEGORY_TEMPORARIES, /* AUTOGRAD_DETAIL */
    VRAM_CATEGORY_OTHER};

typedef struct timeline {
  trace *t;
  trace
      first; /* of it only the table of keys: bytes and category, and the last live block of them */
  uint32_t *before; /* by block: 1 + the live one of the same bytes and category before it */
  uint32_t blocks;
  uint32_t changing; /* the block whose category the next entry tells; UINT32_MAX: none */
} timeline;

static trace_key *of_size(timeline *l, uint64_t bytes, int64_t category) {
  trace_key *const k = trace_find(&l->first, bytes << 3 | (uint64_t)category, BY_ID);
  if (!k)
    l->t->status = l->first.status;
  else if (!k->used) {
    l->first.nkey++;
    k->used = 1;
    k->id = 0;
  }
  return k;
}

static void put(timeline *l, trace_key *k, uint32_t block) {
  l->before[block] = (uint32_t)k->id;
  k->id = (int64_t)block + 1;
}

/* A live block of these bytes, rather one of this category; UINT32_MAX: none, or no memory. Which
   of equal ones it is makes no difference to any sum. */
static uint32_t taken(timeline *l, uint64_t bytes, int64_t category) {
  int i;
  for (i = -1; i < KINDS; i++) {
    trace_key *const k = of_size(l, bytes, i < 0 ? category : i);
    if (k && k->id) {
      const uint32_t block = (uint32_t)k->id - 1;
      k->id = l->before[block];
      return block;
    }
  }
  return UINT32_MAX;
}

static int add_entry(timeline *l, const datum *entry, uint32_t line) {
  int64_t v[4], bytes;
  uint32_t i, block;
  trace_note note;
  vram_event e;
  for (i = 0; i < 4; i++) {
    const datum *const d = datum_item(entry, i);
    if (!d || d->type != V_INT || datum_items(entry) != 4)
      return trace_bad(l->t, line,
                       "no entry of a raw memory timeline: expected time, action, bytes, category",
                       NULL, 0);
    v[i] = d->as.i;
  }
  if (v[1] < PREEXISTING || v[1] > DESTROY || v[3] < 0 || v[3] >= KINDS)
    return trace_bad(l->t, line, "an action or a category that is not known", NULL, 0);
  if (v[2] > INT64_MAX / 64 || v[2] < -INT64_MAX / 64)
    return trace_bad(l->t, line, "more bytes than any device has", NULL, 0);
  bytes = v[2] < 0 ? -v[2] : v[2];
  memset(&note, 0, sizeof note);
  memset(&e, 0, sizeof e);
  note.line = line;
  e.category = category_of[v[3]];
  e.time = v[0] > 0 ? (uint64_t)v[0] / 1000 : 0;
  e.bytes = (uint64_t)bytes;
  note.category =
      trace_text(l->t, vram_category_name(e.category), strlen(vram_category_name(e.category)));
  if (v[1] == PREEXISTING || v[1] == CREATE) {
    e.action = VRAM_ACTION_ALLOC;
    block = l->blocks++;
  } else if (v[1] == INCREMENT_VERSION && v[2] > 0) { /* the second of two: what it is now */
    e.action = VRAM_ACTION_BECOMES;
    block = l->changing;
    l->changing = UINT32_MAX;
  } else {
    e.action = VRAM_ACTION_FREE;
    block = taken(l, e.bytes, v[3]);
    l->t->unmatched += block == UINT32_MAX;
  }
  if (l->t->status || block == UINT32_MAX)
    return l->t->status;
  if (v[1] == INCREMENT_VERSION && v[2] <= 0) {
    l->changing = block;
    return FITS;
  }
  if (e.action != VRAM_ACTION_FREE) {
    trace_key *const k = of_size(l, e.bytes, v[3]);
    if (!k)
      return l->t->status;
    put(l, k, block);
  }
  return trace_add(l->t, &e, &note, block, BY_ID);
}

static int read_timeline(trace *t, const datum *entries) {
  const uint32_t n = datum_items(entries);
  uint32_t i;
  timeline l;
  memset(&l, 0, sizeof l);
  l.t = t;
  l.changing = UINT32_MAX;
  l.before = (uint32_t *)malloc(((size_t)n + 1) * sizeof *l.before);
  t->has_categories = 1;
  if (!l.before)
    t->status = cmd_no_memory();
  for (i = 0; i < n && !t->status; i++)
    add_entry(&l, datum_item(entries, i), i);
  free(l.before);
  free(l.first.key);
  return t->status ? t->status : trace_order(t);
}

/* ---- which of them ---- */

int trace_is_profiler(const datum *root) {
  const datum *const first = datum_item(root, 0);
  return root->type == V_DICT ? datum_get(root, "traceEvents") != NULL
                              : root->type == V_LIST && first && first->type == V_LIST;
}

int trace_read_profiler(trace *t, const datum *root, int64_t device) {
  const datum *const events = datum_get(root, "traceEvents"), *const first = datum_item(root, 0),
                     *const sums = datum_item(datum_item(root, 1), 0);
  t->has_entries = 1;
  if (events)
    return events->type == V_LIST ? read_chrome(t, events, device)
                                  : trace_bad(t, 0, "'traceEvents' that is no list", NULL, 0);
  if (datum_items(root) == 2 && datum_items(first) && sums && sums->type == V_LIST)
    return trace_bad(t, 0,
                     "a memory timeline of sums only (expected the raw one: "
                     "export_memory_timeline(\"FILE.raw.json.gz\"))",
                     NULL, 0);
  return read_timeline(t, root);
}
