/* vram diff: two steps beside each other, predicted and measured, by phase, category and layer. */
#include "vram_job.h"
#include "vram_trace.h"

cmd_text help_diff = {
    "vram diff PREDICTED MEASURED [options]     what the first does not account for\n"
    "\n"
    "Either may be a MODEL (with the options of vram estimate), a CSV of allocations\n"
    "(vram estimate --events; phase, action, id, size, node), a memory snapshot of\n"
    "PyTorch, or the object of vram estimate, replay or run --json:\n"
    "  vram diff resnet50.vram measured.csv --train adamw\n"
    "\n"
    "What both sides have is compared: the peak, the phases, and by category and by\n"
    "layer what is alive at the peak and what is allocated in all. unaccounted is\n"
    "measured less predicted. Allocations are paired by phase, layer and size; then\n"
    "by phase and size, if one side does not know the other's layer; then by phase\n"
    "and layer. A measured one without a category has that of its pair.\n"
    "\n"
    "  --tolerance SIZE|P%   differences up to there are none (default: 0)\n"
    "  --top N               lines of a table, largest difference first (default:\n"
    "                        12; 0: all)\n"
    "  --device N            of a snapshot (default: the first with events)\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --csv                 every line as CSV\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Exit status 0: no difference, 3: some. The options of a model: vram estimate -h.\n",
    NULL};

typedef struct item { /* one allocation */
  uint64_t bytes;
  uint32_t phase, node, category; /* texts of diff.names */
  uint32_t pair;                  /* 1 + the index on the other side; 0: none */
} item;

typedef struct items {
  item *v;
  size_t n, cap;
  int known;
} items;

enum { REQUESTED, ALLOCATED, RESERVED, COUNTERS };
static const char *const counter_name[] = {"requested", "allocated", "reserved"};
static const char *const counter_key[] = {"peak_requested_bytes", "peak_allocated_bytes",
                                          "peak_reserved_bytes"};

enum { MAX_PHASES = 32 };

typedef struct side {
  const char *path;
  trace t;
  uint64_t counter[COUNTERS], category[VRAM_CATEGORY_COUNT];
  int has_counter[COUNTERS], has_category_sums, has_categories;
  struct {
    uint32_t name;
    uint64_t end, peak;
  } phase[MAX_PHASES];
  uint32_t nphase;
  items live, all; /* at the peak; in the step */
  uint8_t *knows;  /* by text: a layer of this side */
} side;

typedef struct diff_row {
  const char *what;
  uint32_t name;
  uint64_t bytes[2];
} diff_row;

typedef struct diff {
  job j;
  const char *path[2];
  side s[2];
  trace names;
  diff_row *row;
  size_t nrow, row_cap;
  int64_t top, device;
  uint64_t tolerance;
  double percent; /* of what is predicted; in place of tolerance if above 0 */
  size_t matched[3], left[2];
  int json, csv;
} diff;

static int add_item(items *l, uint64_t bytes, uint32_t phase, uint32_t node, uint32_t category) {
  if (l->n == l->cap) {
    const size_t cap = l->cap ? 2 * l->cap : 256;
    item *bigger = (item *)realloc(l->v, cap * sizeof *bigger);
    if (!bigger)
      return cmd_no_memory();
    l->v = bigger;
    l->cap = cap;
  }
  l->v[l->n].bytes = bytes;
  l->v[l->n].phase = phase;
  l->v[l->n].node = node;
  l->v[l->n].category = category;
  l->v[l->n++].pair = 0;
  l->known = 1;
  return FITS;
}

static uint32_t name_of(diff *d, const char *text) {
  return trace_text(&d->names, text, strlen(text));
}

/* The layer in the name of an autograd node: "AddmmBackward0 fc", "AddmmBackward0 of fc" are of fc.
 */
static uint32_t layer_name(diff *d, const char *text) {
  const char *blank = strchr(text, ' '), *s = text;
  int node = blank && !strncmp(text, "torch::autograd::", 17);
  for (; blank && !node && s + 8 < blank; s++)
    node = !memcmp(s, "Backward", 8) && s[8] >= '0' && s[8] <= '9';
  if (node)
    text = blank + (strncmp(blank, " of ", 4) ? 1 : 4);
  return name_of(d, text);
}

/* ---- a side from its events ---- */

/* An event of a phase: what is alive before and after it. */
static void phase_at(side *s, uint32_t name, uint64_t before, uint64_t bytes) {
  uint32_t i;
  for (i = 0; i < s->nphase && s->phase[i].name != name; i++)
    ;
  if (i == s->nphase) {
    if (i == MAX_PHASES)
      return;
    s->phase[i].name = name;
    s->phase[s->nphase++].peak = before;
  }
  s->phase[i].end = bytes;
  if (bytes > s->phase[i].peak)
    s->phase[i].peak = bytes;
}

typedef struct played_side { /* a side's events, one after the other */
  diff *d;
  side *s;
  uint32_t *category;      /* by id */
  size_t *by, peak_at;     /* by id: 1 + the event that allocated it */
  uint64_t live, reserved; /* now */
  int again;               /* the second time, up to the peak: only what is alive */
} played_side;

/* One event; not FITS: message printed. */
static int side_event(played_side *p, size_t i) {
  side *s = p->s;
  const trace *t = &s->t;
  const vram_event *e = t->event + i;
  const trace_note *n = t->note + i;
  const uint32_t phase = name_of(p->d, t->text[n->phase]);
  const uint64_t start = p->live;
  const int counts = !p->again && i >= t->before && t->has_phases;
  int status = FITS;
  if (e->action == VRAM_ACTION_SEGMENT_ALLOC || e->action == VRAM_ACTION_SEGMENT_MAP)
    p->reserved += e->bytes;
  if (e->action == VRAM_ACTION_SEGMENT_FREE || e->action == VRAM_ACTION_SEGMENT_UNMAP)
    p->reserved -= e->bytes;
  if (!p->again && (int64_t)(p->reserved - s->counter[RESERVED]) > 0)
    s->counter[RESERVED] = p->reserved;
  if (e->action == VRAM_ACTION_ALLOC && e->kind != FAILED) {
    p->live += e->bytes;
    p->by[e->id] = i + 1;
    p->category[e->id] = name_of(p->d, t->text[n->category]);
    if (counts)
      status = add_item(&s->all, e->bytes, phase, layer_name(p->d, t->text[n->node]),
                        p->category[e->id]);
  } else if (e->action == VRAM_ACTION_BECOMES)
    p->category[e->id] = name_of(p->d, vram_category_name(e->category));
  else if (e->action == VRAM_ACTION_FREE && p->by[e->id]) {
    p->live -= t->event[p->by[e->id] - 1].bytes;
    p->by[e->id] = 0;
  } else
    return FITS;
  if (!p->again && p->live > s->counter[REQUESTED]) {
    s->counter[REQUESTED] = p->live;
    p->peak_at = i;
  }
  if (counts)
    phase_at(s, phase, start, p->live);
  return status;
}

/* Peak, phases, what is alive at the peak, what is allocated. */
static int side_from_trace(diff *d, side *s) {
  const trace *t = &s->t;
  const size_t ids = (size_t)t->ids;
  played_side p;
  size_t i;
  int status;
  memset(&p, 0, sizeof p);
  p.d = d;
  p.s = s;
  p.category = (uint32_t *)calloc(ids + 1, sizeof *p.category);
  p.by = (size_t *)calloc(ids + 1, sizeof *p.by);
  status = p.category && p.by ? FITS : cmd_no_memory();
  s->has_categories = t->has_categories;
  s->live.known = 1;
  s->all.known = t->has_phases;
  for (i = 0; i < t->n && !status; i++)
    status = side_event(&p, i);
  if (!status && p.by) {
    if (t->is_snapshot)
      s->counter[RESERVED] += t->reserved_at_end - p.reserved;
    memset(p.by, 0, ids * sizeof *p.by);
    p.live = p.reserved = 0;
    p.again = 1;
  }
  for (i = 0; i < t->n && i <= p.peak_at && !status; i++)
    status = side_event(&p, i);
  for (i = 0; i < ids && !status; i++)
    if (p.by[i])
      status = add_item(&s->live, t->event[p.by[i] - 1].bytes, 0,
                        layer_name(d, t->text[t->note[p.by[i] - 1].node]), p.category[i]);
  s->has_counter[REQUESTED] = 1;
  s->has_counter[RESERVED] = t->has_segments && (t->is_snapshot || !t->before);
  free(p.category);
  free(p.by);
  return status ? status : d->names.status;
}

/* ---- a side from a model ---- */

static void diff_event(void *user, const vram_event *e) {
  trace *t = (trace *)user;
  vram_event copy = *e;
  trace_note note;
  char name[MAX_NODE_NAME];
  memset(&note, 0, sizeof note);
  if (t->status || (e->id < 0 && e->action != VRAM_ACTION_FREE))
    return;
  vram_node_name(e->node, name, sizeof name);
  note.node = trace_text(t, name, strlen(name));
  note.phase = trace_text(t, vram_phase_name(e->phase), strlen(vram_phase_name(e->phase)));
  note.category =
      trace_text(t, vram_category_name(e->category), strlen(vram_category_name(e->category)));
  trace_add(t, &copy, &note, e->id < 0 ? UINT64_C(1) << 62 | (uint64_t)t->n : (uint64_t)e->id,
            BY_ID);
}

/* What the allocator of a replayed run does: model, inputs, steps. */
static void run_event(void *user, const vram_event *e) {
  trace *t = (trace *)user;
  vram_event copy = *e;
  trace_note note;
  memset(&note, 0, sizeof note);
  if (!t->status)
    trace_add(t, &copy, &note, e->address, BY_ADDRESS);
}

static int larger_first(const void *a, const void *b) {
  const uint64_t x = ((const item *)a)->bytes, y = ((const item *)b)->bytes;
  return (x < y) - (x > y);
}

/* The run knows sizes, the step what they are: l gets names and categories from `named`, in which
   one entry may stand for several (the optimizer's state). 0: they are not the same bytes. */
static int name_items(items *l, items *named) {
  size_t i, k = 0, lump = named->n;
  uint64_t rest = 0;
  if (l->n)
    qsort(l->v, l->n, sizeof *l->v, larger_first);
  if (named->n)
    qsort(named->v, named->n, sizeof *named->v, larger_first);
  for (i = 0; i < l->n; i++) {
    for (; k < named->n && named->v[k].bytes > l->v[i].bytes; k++) {
      if (lump < named->n)
        return 0;
      lump = k;
    }
    l->v[i].pair = k < named->n && named->v[k].bytes == l->v[i].bytes;
    if (l->v[i].pair) {
      l->v[i].node = named->v[k].node;
      l->v[i].category = named->v[k++].category;
    } else
      rest += l->v[i].bytes;
  }
  if (k < named->n || (rest && lump == named->n) ||
      (lump < named->n && named->v[lump].bytes != rest))
    return 0;
  for (i = 0; i < l->n; i++) {
    if (!l->v[i].pair) {
      l->v[i].node = named->v[lump].node;
      l->v[i].category = named->v[lump].category;
    }
    l->v[i].pair = 0;
  }
  return 1;
}

/* The step as a CSV has it. */
static int side_from_step(diff *d, side *s, const job *j, loaded *l) {
  vram_step_options o = j->o;
  vram_report r;
  int status;
  o.event = diff_event;
  o.user = &s->t;
  o.replay = NULL;
  status = model_step(l, &o, &r);
  if (!status)
    status = s->t.status ? s->t.status : trace_order(&s->t);
  s->t.has_phases = s->t.has_categories = 1;
  return status ? status : side_from_trace(d, s);
}

/* The whole run, as a recording of a program has it. */
static int side_from_run(diff *d, side *s, job *j, loaded *l) {
  vram_step_options o = j->o;
  vram_report r;
  vram_live *list = NULL;
  items named;
  uint32_t i, n = 0;
  int status;
  memset(&named, 0, sizeof named);
  j->pool.event = run_event;
  j->pool.user = &s->t;
  o.replay = &j->pool;
  status = model_step(l, &o, &r);
  if (!status)
    status = s->t.status ? s->t.status : side_from_trace(d, s);
  o.replay = NULL;
  if (!status) {
    vram_step_live(&l->g, &o, l->scratch, l->bytes, &r, NULL, 0, &n);
    list = (vram_live *)malloc(((size_t)n + 1) * sizeof *list);
    status = list ? FITS : cmd_no_memory();
  }
  if (!status)
    vram_step_live(&l->g, &o, l->scratch, l->bytes, &r, list, n, &n);
  for (i = 0; i < n && !status; i++) {
    char name[MAX_NODE_NAME];
    vram_node_name(list[i].node, name, sizeof name);
    status = add_item(&named, list[i].bytes, 0, name_of(d, name),
                      name_of(d, vram_category_name(list[i].category)));
  }
  if (!status && !name_items(&s->live, &named)) {
    free(s->live.v);
    s->live = named;
    memset(&named, 0, sizeof named);
  }
  s->has_categories = s->has_category_sums = 1;
  s->has_counter[ALLOCATED] = s->has_counter[RESERVED] = 1;
  s->counter[REQUESTED] = r.peak_requested_bytes;
  s->counter[ALLOCATED] = r.peak_allocated_bytes.expected;
  s->counter[RESERVED] = r.peak_reserved_bytes;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    s->category[i] = r.peak_category_bytes[i];
  for (i = VRAM_PHASE_FORWARD; i <= VRAM_PHASE_OPTIMIZER && (i == VRAM_PHASE_FORWARD || o.train);
       i++) {
    s->phase[s->nphase].name = name_of(d, vram_phase_name((vram_phase)i));
    s->phase[s->nphase].end = r.phase[i].requested_bytes;
    s->phase[s->nphase++].peak = r.phase[i].requested_peak_bytes;
  }
  free(named.v);
  free(list);
  return status;
}

/* events: as a CSV has them. */
static int side_from_model(diff *d, side *s, char *text, size_t len, int events) {
  job j = d->j;
  loaded l;
  int status;
  j.model = s->path;
  j.o.replay = &j.pool; /* its scratch is larger */
  s->t.most = (size_t)-1;
  status = model_load(&l, &j, text, len);
  if (!status)
    status = events ? side_from_step(d, s, &j, &l) : side_from_run(d, s, &j, &l);
  model_unload(&l);
  return status;
}

/* ---- a side from the object of --json ---- */

/* A number, or "expected" of bounds. */
static int bytes_of(const datum *v, uint64_t *to) {
  if (v && v->type == V_DICT)
    v = datum_get(v, "expected");
  if (!v || v->type != V_INT || v->as.i < 0)
    return 0;
  *to = (uint64_t)v->as.i;
  return 1;
}

static int side_from_json(diff *d, side *s, const datum *root) {
  const datum *phases = datum_get(root, "phases"), *categories = datum_get(root, "peak_categories"),
              *processes = datum_get(root, "processes"), *v;
  uint32_t i, k;
  int found = 0;
  for (i = 0; i < COUNTERS; i++)
    found |= s->has_counter[i] = bytes_of(datum_get(root, counter_key[i]), s->counter + i);
  for (i = 0; i < datum_items(processes); i++) { /* vram run: the most of any process and device */
    const datum *devices = trace_get(&s->t, datum_item(processes, i), "devices");
    for (k = 0; k < datum_items(devices); k++) {
      uint64_t peak;
      v = datum_item(devices, k);
      if (trace_enough(&s->t, 0))
        return s->t.status;
      if (datum_is(trace_get(&s->t, v, "device"), "host") ||
          !bytes_of(trace_get(&s->t, v, "reserved_bytes.all.peak"), &peak))
        continue;
      found = s->has_counter[RESERVED] = 1;
      s->counter[RESERVED] = peak > s->counter[RESERVED] ? peak : s->counter[RESERVED];
    }
  }
  for (i = 0; i < VRAM_PHASE_COUNT; i++) {
    v = datum_get(phases, vram_phase_name((vram_phase)i));
    if (bytes_of(datum_get(v, "requested_bytes"), &s->phase[s->nphase].end) &&
        bytes_of(datum_get(v, "requested_peak_bytes"), &s->phase[s->nphase].peak))
      s->phase[s->nphase++].name = name_of(d, vram_phase_name((vram_phase)i));
  }
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    s->has_category_sums |=
        bytes_of(datum_get(categories, vram_category_name((vram_category)i)), s->category + i);
  return found ? d->names.status
               : trace_bad(&s->t, 0,
                           "none of peak_requested_bytes, peak_allocated_bytes, "
                           "peak_reserved_bytes, processes in it",
                           NULL, 0);
}

/* ---- pairs ---- */

typedef struct candidate {
  uint64_t bytes;
  uint32_t phase, node, of, index;
} candidate;

static int by_key(const void *a, const void *b) {
  const candidate *x = (const candidate *)a, *y = (const candidate *)b;
  if (x->phase != y->phase)
    return x->phase < y->phase ? -1 : 1;
  if (x->node != y->node)
    return x->node < y->node ? -1 : 1;
  if (x->bytes != y->bytes)
    return x->bytes < y->bytes ? -1 : 1;
  if (x->of != y->of)
    return x->of < y->of ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static int same_key(const candidate *x, const candidate *y) {
  return x->phase == y->phase && x->node == y->node && x->bytes == y->bytes;
}

/* Pairs what has no pair yet and is equal in what counts, the k-th of one side with the k-th of the
   other. strange: of this side only layers that the other one does not know; -1: of both all. */
static size_t pair_up(const diff *d, items *a[2], candidate *list, int node, int bytes,
                      int strange) {
  size_t n = 0, i, k, pairs = 0;
  uint32_t of;
  for (of = 0; of < 2; of++)
    for (i = 0; i < a[of]->n; i++) {
      const item *v = a[of]->v + i;
      if (v->pair || (strange == (int)of && v->node && d->s[!of].knows[v->node]))
        continue;
      list[n].phase = v->phase;
      list[n].node = node ? v->node : 0;
      list[n].bytes = bytes ? v->bytes : 0;
      list[n].of = of;
      list[n++].index = (uint32_t)i;
    }
  qsort(list, n, sizeof *list, by_key);
  for (i = 0; i < n;) {
    size_t second = i, end;
    while (second < n && same_key(list + i, list + second) && !list[second].of)
      second++;
    for (end = second; end < n && same_key(list + i, list + end);)
      end++;
    for (k = 0; i + k < second && second + k < end; k++, pairs++) {
      a[0]->v[list[i + k].index].pair = list[second + k].index + 1;
      a[1]->v[list[second + k].index].pair = list[i + k].index + 1;
    }
    i = end;
  }
  return pairs;
}

static int pair_all(diff *d, items *p, items *m) {
  items *a[2];
  candidate *list = (candidate *)malloc((p->n + m->n + 1) * sizeof *list);
  size_t i, k;
  if (!list)
    return cmd_no_memory();
  a[0] = p, a[1] = m;
  for (k = 0; k < 2; k++) {
    d->s[k].knows = (uint8_t *)calloc(d->names.ntext + 1u, 1);
    if (!d->s[k].knows)
      break;
    for (i = 0; i < a[k]->n; i++)
      d->s[k].knows[a[k]->v[i].node] = 1;
  }
  if (k == 2) {
    d->matched[0] = pair_up(d, a, list, 1, 1, -1);
    d->matched[1] = pair_up(d, a, list, 0, 1, 0);
    d->matched[1] += pair_up(d, a, list, 0, 1, 1);
    d->matched[2] = pair_up(d, a, list, 1, 0, -1);
    d->left[0] = p->n - d->matched[0] - d->matched[1] - d->matched[2];
    d->left[1] = m->n - (p->n - d->left[0]);
  }
  for (i = 0; i < 2; i++) {
    free(d->s[i].knows);
    d->s[i].knows = NULL;
  }
  free(list);
  return k == 2 ? FITS : cmd_no_memory();
}

/* ---- rows ---- */

static int add_row(diff *d, const char *what, uint32_t name, uint64_t predicted,
                   uint64_t measured) {
  if (d->nrow == d->row_cap) {
    const size_t cap = d->row_cap ? 2 * d->row_cap : 128;
    diff_row *bigger = (diff_row *)realloc(d->row, cap * sizeof *bigger);
    if (!bigger)
      return cmd_no_memory();
    d->row = bigger;
    d->row_cap = cap;
  }
  d->row[d->nrow].what = what;
  d->row[d->nrow].name = name;
  d->row[d->nrow].bytes[0] = predicted;
  d->row[d->nrow++].bytes[1] = measured;
  return FITS;
}

static uint64_t away(const diff_row *r) {
  return r->bytes[1] > r->bytes[0] ? r->bytes[1] - r->bytes[0] : r->bytes[0] - r->bytes[1];
}

static int by_difference(const void *a, const void *b) {
  const diff_row *x = (const diff_row *)a, *y = (const diff_row *)b;
  const uint64_t p = away(x), q = away(y);
  if (p != q)
    return p > q ? -1 : 1;
  if (x->bytes[0] != y->bytes[0])
    return x->bytes[0] > y->bytes[0] ? -1 : 1;
  return x->name < y->name ? -1 : x->name > y->name;
}

/* Sums of two lists of allocations by name: that of a pair's first, so that both count in one row.
   by_category 0: layers, with the phase before the name if there are phases. */
static int add_sums(diff *d, const char *what, const items *p, const items *m, int by_category) {
  const items *a[2];
  const size_t from = d->nrow;
  size_t i, k, at;
  uint32_t *place = NULL, places = 0; /* by text: 1 + the row */
  int of, status = FITS;
  a[0] = p, a[1] = m;
  for (of = 0; of < 2 && !status; of++)
    for (i = 0; i < a[of]->n && !status; i++) {
      const item *v = a[of]->v + i, *pair = v->pair ? a[!of]->v + v->pair - 1 : NULL;
      uint32_t name;
      if (by_category) {
        name = v->category;
        if (!d->s[of].has_categories)
          name = pair && d->s[!of].has_categories ? pair->category : name_of(d, "(not paired)");
      } else {
        name = of && pair ? pair->node : v->node;
        if (v->phase || !d->names.text[name][0]) {
          char text[2 * MAX_NODE_NAME];
          snprintf(text, sizeof text, "%s%s%s", d->names.text[v->phase], v->phase ? " " : "",
                   d->names.text[name][0] ? d->names.text[name] : "(no layer)");
          name = name_of(d, text);
        }
      }
      if (name >= places) {
        const uint32_t bigger = d->names.text_cap;
        uint32_t *more = (uint32_t *)realloc(place, bigger * sizeof *more);
        if (!more) {
          status = cmd_no_memory();
          break;
        }
        memset(more + places, 0, (bigger - places) * sizeof *more);
        place = more;
        places = bigger;
      }
      at = place[name];
      if (!at) {
        status = add_row(d, what, name, 0, 0);
        at = place[name] = (uint32_t)d->nrow;
      }
      if (!status)
        d->row[at - 1].bytes[of] += v->bytes;
    }
  free(place);
  k = d->nrow - from;
  if (k)
    qsort(d->row + from, k, sizeof *d->row, by_difference);
  return status;
}

static const char peak_row[] = "peak", phase_peak_row[] = "phase_peak",
                  phase_end_row[] = "phase_end", category_peak_row[] = "category_at_peak",
                  category_row[] = "category_allocated", layer_peak_row[] = "layer_at_peak",
                  layer_row[] = "layer_allocated";

/* All rows that both sides have figures for. */
static int compare(diff *d) {
  side *p = d->s, *m = d->s + 1;
  uint32_t i, k;
  int status = FITS, end;
  for (i = 0; i < COUNTERS && !status; i++)
    if (p->has_counter[i] && m->has_counter[i])
      status = add_row(d, peak_row, name_of(d, counter_name[i]), p->counter[i], m->counter[i]);
  for (end = 0; end < 2; end++)
    for (i = 0; i < p->nphase; i++)
      for (k = 0; k < m->nphase && !status; k++)
        if (p->phase[i].name == m->phase[k].name)
          status = add_row(d, end ? phase_end_row : phase_peak_row, p->phase[i].name,
                           end ? p->phase[i].end : p->phase[i].peak,
                           end ? m->phase[k].end : m->phase[k].peak);
  if (!status && p->live.known && m->live.known) {
    status = pair_all(d, &p->live, &m->live);
    if (!status && (p->has_categories || m->has_categories))
      status = add_sums(d, category_peak_row, &p->live, &m->live, 1);
    if (!status)
      status = add_sums(d, layer_peak_row, &p->live, &m->live, 0);
  } else if (!status && p->has_category_sums && m->has_category_sums)
    for (i = 0; i < VRAM_CATEGORY_COUNT && !status; i++)
      if (p->category[i] || m->category[i])
        status = add_row(d, category_peak_row, name_of(d, vram_category_name((vram_category)i)),
                         p->category[i], m->category[i]);
  if (!status && p->all.known && m->all.known) {
    status = pair_all(d, &p->all, &m->all);
    if (!status && (p->has_categories || m->has_categories))
      status = add_sums(d, category_row, &p->all, &m->all, 1);
    if (!status)
      status = add_sums(d, layer_row, &p->all, &m->all, 0);
  }
  if (!status && !d->nrow)
    return cmd_bad("nothing that both sides have figures for:", d->path[1], NULL);
  return status ? status : d->names.status;
}

static int differs(const diff *d, const diff_row *r) {
  return d->percent > 0 ? (double)away(r) * 100 > d->percent * (double)r->bytes[0]
                        : away(r) > d->tolerance;
}

/* -1.50 MiB, 0 */
static const char *signed_text(const diff_row *r, char to[32]) {
  if (!away(r))
    return "0";
  snprintf(to, 32, "%c%s", r->bytes[1] < r->bytes[0] ? '-' : '+', cmd_human(away(r)));
  return to;
}

static void diff_text(const diff *d) {
  static const struct {
    const char *what, *title;
  } section[] = {{peak_row, "peak"},
                 {phase_peak_row, "peak of the phase"},
                 {phase_end_row, "end of the phase"},
                 {category_peak_row, "alive at the peak, by category"},
                 {layer_peak_row, "alive at the peak, by layer"},
                 {category_row, "allocated, by category"},
                 {layer_row, "allocated, by phase and layer"}};
  size_t k, i, wrong = 0;
  printf("%s%s%s predicted, %s%s%s measured\n", cmd_bold, d->s[0].t.path, cmd_plain, cmd_bold,
         d->s[1].t.path, cmd_plain);
  for (k = 0; k < 2; k++)
    if (d->s[k].t.host_bytes)
      printf("%sin the host's memory of %s, not compared: %s%s\n", cmd_dim, d->s[k].t.path,
             cmd_human(d->s[k].t.host_bytes), cmd_plain);
  for (k = 0; k < sizeof section / sizeof *section; k++) {
    size_t shown = 0, more = 0, more_differ = 0;
    const size_t most = section[k].what == peak_row || section[k].what == phase_peak_row ||
                                section[k].what == phase_end_row || !d->top
                            ? (size_t)-1
                            : (size_t)d->top;
    for (i = 0; i < d->nrow; i++) {
      const diff_row *r = d->row + i;
      char text[32];
      if (r->what != section[k].what)
        continue;
      wrong += (size_t)differs(d, r);
      if (!shown && !more)
        printf("\n%s%-44s %12s %12s %12s%s\n", cmd_bold, section[k].title, "predicted", "measured",
               "unaccounted", cmd_plain);
      if (shown == most) {
        more++;
        more_differ += (size_t)differs(d, r);
        continue;
      }
      shown++;
      printf("%s%-44.44s %12s %12s %12s%s\n", away(r) ? "" : cmd_dim, d->names.text[r->name],
             cmd_human(r->bytes[0]), cmd_human(r->bytes[1]), signed_text(r, text),
             away(r) ? "" : cmd_plain);
    }
    if (more)
      printf("%s... and %lu more, %lu of them different (--top 0)%s\n", cmd_dim,
             (unsigned long)more, (unsigned long)more_differ, cmd_plain);
  }
  if (d->matched[0] || d->matched[1] || d->matched[2] || d->left[0] || d->left[1])
    printf(
        "\npaired %lu by layer and size, %lu by size, %lu by layer; %lu predicted and %lu measured "
        "left\n",
        (unsigned long)d->matched[0], (unsigned long)d->matched[1], (unsigned long)d->matched[2],
        (unsigned long)d->left[0], (unsigned long)d->left[1]);
  printf("%s%s%s\n", cmd_bold, wrong ? "DIFFERENT" : "no difference", cmd_plain);
}

static void diff_rows(const diff *d) {
  size_t i;
  if (d->csv)
    printf("what,name,predicted,measured,unaccounted\n");
  else {
    printf("{\"predicted\":");
    cmd_json_text(stdout, d->s[0].t.path);
    printf(",\"measured\":");
    cmd_json_text(stdout, d->s[1].t.path);
    printf(",\"rows\":[");
  }
  for (i = 0; i < d->nrow; i++) {
    const diff_row *r = d->row + i;
    const char *sign = r->bytes[1] < r->bytes[0] ? "-" : "", *c;
    if (d->csv) {
      printf("%s,\"", r->what);
      for (c = d->names.text[r->name]; *c; c++)
        printf(*c == '"' ? "\"\"" : "%c", *c);
      printf("\",%" PRIu64 ",%" PRIu64 ",%s%" PRIu64 "\n", r->bytes[0], r->bytes[1], sign, away(r));
    } else {
      printf("%s{\"what\":\"%s\",\"name\":", i ? "," : "", r->what);
      cmd_json_text(stdout, d->names.text[r->name]);
      printf(",\"predicted_bytes\":%" PRIu64 ",\"measured_bytes\":%" PRIu64
             ",\"unaccounted_bytes\":%s%" PRIu64 "}",
             r->bytes[0], r->bytes[1], sign, away(r));
    }
  }
}

/* ---- the command ---- */

/* The first line names the columns of a trace. */
static int is_csv_trace(const char *s, size_t n) {
  const char *end = (const char *)memchr(s, '\n', n);
  const size_t len = end ? (size_t)(end - s) : n;
  size_t i;
  int comma = 0, action = 0;
  for (i = 0; i < len; i++) {
    comma |= s[i] == ',';
    action |= len - i >= 6 && cmd_lower(s[i]) == 'a' && cmd_lower(s[i + 1]) == 'c' &&
              cmd_lower(s[i + 2]) == 't';
  }
  return comma && action;
}

/* The texts of both sides; models come last, since what they are compared with decides. */
static int read_sides(diff *d) {
  char *bytes[2] = {NULL, NULL};
  size_t len[2] = {0, 0};
  int model[2] = {0, 0}, i, k, status = FITS;
  for (i = 0; i < 2 && !status; i++) {
    job own = d->j; /* the other side has its dims, too */
    side *s = d->s + i;
    s->path = d->path[i];
    status = model_read(s->path, &own, bytes + i, len + i);
    if (!status)
      status = trace_unpack(s->path, bytes + i, len + i);
    if (!status)
      status = trace_begin(&s->t, s->path, len[i]);
    if (!status)
      model[i] = trace_kind(bytes[i], len[i]) == NOTHING ||
                 (trace_kind(bytes[i], len[i]) == CSV && !is_csv_trace(bytes[i], len[i]));
  }
  for (k = 0; k < 4 && !status; k++) {
    side *s = d->s + k % 2, *other = d->s + !(k % 2);
    i = k % 2;
    if (model[i] != k / 2)
      continue;
    if (model[i]) {
      const int events = model[!i] || other->t.has_phases;
      char *text = bytes[i];
      bytes[i] = NULL; /* it owns it now */
      status = side_from_model(d, s, text, len[i], events);
    } else if (trace_kind(bytes[i], len[i]) != JSON && trace_kind(bytes[i], len[i]) != PICKLE) {
      status = trace_read_text(&s->t, trace_kind(bytes[i], len[i]), bytes[i], len[i], d->device);
      if (!status)
        status = side_from_trace(d, s);
    } else {
      document doc = trace_document(&s->t, bytes[i], len[i]);
      datum root;
      status = trace_kind(bytes[i], len[i]) == JSON ? document_read_json(&doc, &root)
                                                    : document_read_pickle(&doc, &root);
      if (!status && (root.type == V_LIST || datum_items(datum_get(&root, "segments")) ||
                      datum_get(&root, "device_traces") || trace_is_profiler(&root))) {
        status = trace_read_values(&s->t, &root, d->device);
        if (!status)
          status = side_from_trace(d, s);
      } else if (!status)
        status = side_from_json(d, s, &root);
      document_end(&doc);
    }
  }
  free(bytes[0]);
  free(bytes[1]);
  return status;
}

/* One option; returns how many arguments it took, 0: error printed. */
static int diff_option(diff *d, const char *a, const char *v) {
  size_t n;
  if (!strcmp(a, "--json"))
    return d->json = 1;
  if (!strcmp(a, "--csv"))
    return d->csv = 1;
  if (!cmd_in(a, "--tolerance --top --device"))
    return job_option(&d->j, a, v);
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  n = strlen(v);
  if (!strcmp(a, "--top")) {
    if (!cmd_parse_count(v, 0, MAX_ITEMS, &d->top))
      return cmd_bad("not a number of lines", v, "0 or more"), 0;
  } else if (!strcmp(a, "--device")) {
    if (!cmd_parse_count(v, 0, 1000000, &d->device))
      return cmd_bad("not a device", v, "0, 1, ..."), 0;
  } else if (n > 1 && v[n - 1] == '%') {
    char *end;
    d->percent = strtod(v, &end);
    if (end != v + n - 1 || !(d->percent > 0))
      return cmd_bad("not a tolerance", v, "a size, or a percentage like 2.5%"), 0;
  } else if (!cmd_parse_size(v, &d->tolerance))
    return cmd_bad("not a tolerance", v, "a size, or a percentage like 2.5%"), 0;
  return 2;
}

int diff_command(int argc, char **argv) {
  diff d;
  int i, n = 0, status;
  size_t k;
  memset(&d, 0, sizeof d);
  d.j.command = "diff";
  d.top = 12;
  d.device = -1;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help"))
      return cmd_help(help_diff, stdout), FITS;
    if (argv[i][0] == '-' && argv[i][1]) {
      const int taken = diff_option(&d, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!taken)
        return USAGE;
      i += taken;
    } else if (n == 2)
      return cmd_bad("a third side", argv[i], "two");
    else
      d.path[n++] = argv[i++];
  }
  if (n < 2)
    return cmd_bad("two sides are compared", NULL, "vram diff PREDICTED MEASURED; vram diff -h");
  if (d.json && d.csv)
    return cmd_bad("standard output takes one of --json and --csv", NULL, NULL);
  if (!strcmp(d.path[0], "-") && !strcmp(d.path[1], "-"))
    return cmd_bad("standard input is one side, not two", NULL, NULL);
  d.j.model = d.path[0];
  status = job_check(&d.j);
  if (!status)
    status = trace_begin(&d.names, "", 0);
  if (!status)
    status = read_sides(&d);
  if (!status)
    status = compare(&d);
  if (!status) {
    for (k = 0; k < d.nrow; k++)
      if (differs(&d, d.row + k))
        status = TOO_LARGE;
    if (d.json || d.csv)
      diff_rows(&d);
    else
      diff_text(&d);
    if (d.json)
      printf("],\"equal\":%s}\n", status ? "false" : "true");
  }
  for (i = 0; i < 2; i++) {
    trace_end(&d.s[i].t);
    free(d.s[i].live.v);
    free(d.s[i].all.v);
  }
  trace_end(&d.names);
  free(d.row);
  return status;
}
