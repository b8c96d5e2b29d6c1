/* vram replay: a recorded or predicted stream of allocations, played through vram_pool over a
   device that has addresses only. */
#include "vram_bfc.h"
#include "vram_state.h"

cmd_text help_replay = {
    "vram replay TRACE [options]     a stream of allocations through an allocator\n"
    "\n"
    "TRACE is a CSV whose first line names the columns (at least action,id,size or\n"
    "action,addr,size; stream, phase, node, category if there), RMM's log, a memory\n"
    "snapshot of PyTorch (pickle or JSON), what torch.profiler wrote with\n"
    "profile_memory=True (chrome trace, memory timeline as .raw.json.gz), XLA's\n"
    "*-buffer-assignment.txt, the log of the BFC allocator of JAX and TensorFlow\n"
    "(TF_CPP_VMODULE=bfc_allocator=3), a profile of JAX (save_device_memory_profile;\n"
    "or another program's of pprof); as it is or packed by gzip; or - for standard\n"
    "input:\n"
    "  vram estimate resnet50 --train adamw --events - | vram replay -\n"
    "\n"
    "allocator\n"
    "  --policy torch|best|both|bfc\n"
    "                        PyTorch's caching allocator (default), the one of\n"
    "                        vram.h, or the two side by side; or that of JAX and\n"
    "                        TensorFlow (default for its log and for XLA's text).\n"
    "                        A profile, and what that allocator prints when it finds\n"
    "                        no place, are states without an order: not played if no\n"
    "                        policy is named, but said what is alive, by kind,\n"
    "                        device and who asked\n"
    "  --alloc-conf K:V,...  as PYTORCH_CUDA_ALLOC_CONF (default: that of the\n"
    "                        snapshot, or none); of bfc: preallocate:True,\n"
    "                        garbage_collection:True\n"
    "  --total-bytes SIZE    memory of the device (default: 80GiB)\n"
    "  --gpu NAME            its usable memory (vram list gpus)\n"
    "  --memory-fraction F   torch.cuda.set_per_process_memory_fraction(F)\n"
    "  --device N            of a snapshot (default: the first with events), of a\n"
    "                        chrome trace (the first that is no CPU), of a profile\n"
    "                        (default: all)\n"
    "output\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --csv                 a line for every call: what it left allocated, reserved,\n"
    "                        requested, and the number of segments\n"
    "  --snapshot FILE       what was played as a memory snapshot of PyTorch, for\n"
    "                        pytorch.org/memory_viz; .json: as JSON, else a pickle\n"
    "  --top N               of a state: rows of a table (default: 12; 0: all)\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Exit status 3: an allocation failed; the replay goes on without it.\n",
    NULL};

typedef struct replay_job {
  const char *path, *alloc_conf, *policy, *snapshot;
  uint64_t total_bytes;
  double fraction; /* 0: none */
  int64_t device, top;
  int json, csv;
} replay_job;

/* Segments by ascending address. */
typedef struct segment_list {
  struct {
    uint64_t address, bytes;
  } * at;
  size_t n, cap;
  int no_memory;
} segment_list;

enum { FREED_FOR_STREAMS = 1, FINISHED }; /* replay.state: streams use it still, or no more */

/* A device without memory: addresses only rise, by multiples of 2 MiB. */
typedef struct simulated_device {
  uint64_t total, used, next;
  segment_list segments;
  const uint8_t *state; /* by id */
  uint64_t waiting;     /* 1 + the id that is given back now */
} simulated_device;

static size_t segment_index(const segment_list *l, uint64_t address) {
  size_t low = 0, high = l->n;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (l->at[middle].address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low; /* the first one above */
}

static void segment_add(segment_list *l, uint64_t address, uint64_t bytes) {
  const size_t i = segment_index(l, address);
  if (l->n == l->cap) {
    const size_t cap = l->cap ? 2 * l->cap : 64;
    void *bigger = realloc(l->at, cap * sizeof *l->at);
    if (!bigger) {
      l->no_memory = 1;
      return;
    }
    l->at = bigger;
    l->cap = cap;
  }
  memmove(l->at + i + 1, l->at + i, (l->n - i) * sizeof *l->at);
  l->at[i].address = address;
  l->at[i].bytes = bytes;
  l->n++;
}

static void segment_drop(segment_list *l, uint64_t address) {
  const size_t i = segment_index(l, address);
  if (!i || l->at[i - 1].address != address)
    return;
  l->n--;
  memmove(l->at + i - 1, l->at + i, (l->n - (i - 1)) * sizeof *l->at);
}

/* How far into its segment an address is; UINT64_MAX: it is in none. */
static uint64_t segment_offset(const segment_list *l, uint64_t address) {
  const size_t i = segment_index(l, address);
  if (!i || address - l->at[i - 1].address >= l->at[i - 1].bytes)
    return UINT64_MAX;
  return address - l->at[i - 1].address;
}

static uint64_t device_alloc(void *user, uint64_t bytes, uint64_t stream) {
  simulated_device *d = (simulated_device *)user;
  const uint64_t at = d->next, unit = UINT64_C(2) << 20;
  (void)stream;
  if (bytes > d->total - d->used)
    return 0;
  segment_add(&d->segments, at, bytes);
  d->used += bytes;
  d->next += (bytes + unit - 1) / unit * unit;
  return at;
}

static void device_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  simulated_device *d = (simulated_device *)user;
  (void)stream;
  segment_drop(&d->segments, address);
  d->used -= bytes;
}

static uint64_t device_reserve(void *user, uint64_t bytes) {
  simulated_device *d = (simulated_device *)user;
  const uint64_t unit = UINT64_C(20) << 20, at = (d->next + unit - 1) / unit * unit;
  d->next = at + bytes;
  return at;
}

static void device_unreserve(void *user, uint64_t address, uint64_t bytes) {
  (void)user, (void)address, (void)bytes;
}

static int device_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  simulated_device *d = (simulated_device *)user;
  (void)address, (void)granule;
  if (bytes > d->total - d->used)
    return 0;
  d->used += bytes;
  return 1;
}

static void device_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  (void)address, (void)granule;
  ((simulated_device *)user)->used -= bytes;
}

static uint64_t device_record(void *user, uint64_t stream) {
  (void)stream;
  return ((simulated_device *)user)->waiting;
}

static int device_done(void *user, uint64_t event, int wait) {
  return wait || ((simulated_device *)user)->state[event - 1] == FINISHED;
}

typedef struct played {
  vram_memory_stats stats;
  size_t peak_at; /* event: the first that reached the peak of allocated bytes */
  size_t oom_at;  /* event: the first allocation that failed; trace.n: none */
  uint64_t oom_allocated, oom_reserved, oom_largest;
  size_t
      reserved_differs;   /* event: the first call after which recorded reserved bytes are others */
  size_t address_differs; /* event: the first that lies elsewhere in its segment */
} played;

/* What a trace is played with, for all policies. */
typedef struct replay {
  const trace *t;
  vram_pool_options options;
  uint64_t *address; /* by id; 0: not allocated */
  uint8_t *state;    /* by id */
  uint64_t streams[VRAM_POOL_STREAMS];
  uint32_t nstream;
  uint64_t other_stream; /* stands for those that a block still waits for */
  uint32_t blocks;
  uint64_t live, events; /* allocations at a time, at most; what the pool reported */
} replay;

static void count_event(void *user, const vram_event *e) {
  (void)e;
  ++*(uint64_t *)user;
}

/* A ledger that hears of everything; NULL: no memory. Its memory is free()d with it. */
static vram_ledger *new_ledger(const replay *r) {
  vram_ledger_options o;
  vram_ledger *l;
  uint64_t bytes;
  memset(&o, 0, sizeof o);
  o.live = (uint32_t)r->live + 1;
  o.owners = r->t->ntext;
  o.trace = (uint32_t)r->events + 1;
  bytes = vram_ledger_bytes(&o);
  if (r->live >= UINT32_MAX || r->events >= UINT32_MAX || bytes > ((size_t)-1) - sizeof *l)
    return NULL;
  l = (vram_ledger *)malloc(sizeof *l + (size_t)bytes);
  if (l && vram_ledger_init(l, &o, l + 1, bytes, NULL)) {
    free(l);
    l = NULL;
  }
  return l;
}

static int write_snapshot(const char *path, vram_ledger *l, const vram_pool *pool) {
  const size_t n = strlen(path);
  vram_snapshot_options o;
  vram_sink sink;
  cmd_output out;
  const int status = cmd_output_open(&out, path);
  if (status)
    return status;
  memset(&o, 0, sizeof o);
  o.json = n > 5 && !strcmp(path + n - 5, ".json");
  o.pool = &pool;
  o.npool = 1;
  sink.write = cmd_to_file;
  sink.user = out.file;
  return cmd_output_commit(&out, vram_write_snapshot(l, &o, &sink) != VRAM_OK);
}

static void print_call(const vram_pool *p, const vram_event *e, int ok) {
  if (e->action == VRAM_ACTION_ALLOC)
    printf("alloc,%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%s", e->id, e->bytes, e->stream,
           ok ? "ok" : "oom");
  else if (e->action == VRAM_ACTION_MARK)
    printf("empty_cache,,,,ok");
  else
    printf("free,%" PRId64 ",,,ok", e->id);
  printf(",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", p->stats.allocated_bytes[0].current,
         p->stats.reserved_bytes[0].current, p->stats.requested_bytes[0].current,
         p->stats.segment[0].current);
}

/* A run of segment_free from event i on: nobody but empty_cache() can have asked for it, because
   the next allocation had place on the device (or none follows). */
static int cache_was_emptied(const replay *r, size_t i, uint64_t reserved, uint64_t limit) {
  const trace *t = r->t;
  uint64_t need = 0;
  if (r->options.garbage_collection_threshold)
    return 0;
  for (; i < t->n; i++) {
    const vram_event *e = t->event + i;
    if (e->action == VRAM_ACTION_SEGMENT_ALLOC || e->action == VRAM_ACTION_SEGMENT_MAP)
      need += e->bytes;
    else if (e->action != VRAM_ACTION_SEGMENT_FREE && e->action != VRAM_ACTION_SEGMENT_UNMAP)
      break;
  }
  return i == t->n || t->event[i].action != VRAM_ACTION_ALLOC ||
         (t->event[i].kind != FAILED && (need <= limit && reserved <= limit - need));
}

enum { MORE_BLOCKS = -1 }; /* the pool's memory was too small */

typedef struct playing { /* a trace on its way through a pool */
  replay *r;
  played *to;
  simulated_device device;
  segment_list recorded;
  vram_pool pool;
  vram_ledger *ledger;      /* NULL: no snapshot is wanted */
  uint64_t reserved, limit; /* as recorded */
  int in_frees;             /* of segments */
  int status;
} playing;

/* The pool over an empty device; not FITS: message printed. */
static int play_begin(playing *p, vram_pool_policy policy, void *mem, uint64_t bytes) {
  replay *r = p->r;
  vram_backend backend;
  vram_error err;
  p->device.total = r->options.total_bytes;
  p->device.next = UINT64_C(0x200000000000);
  p->device.state = r->state;
  backend.alloc = device_alloc;
  backend.free = device_free;
  backend.reserve = device_reserve;
  backend.unreserve = device_unreserve;
  backend.map = device_map;
  backend.unmap = device_unmap;
  backend.record = device_record;
  backend.done = device_done;
  backend.user = &p->device;
  r->options.policy = policy;
  r->options.streams = r->nstream + 1;
  p->limit = r->options.limit_bytes ? r->options.limit_bytes : p->device.total;
  r->options.event = p->ledger ? vram_ledger_event : count_event;
  r->options.user = p->ledger ? (void *)p->ledger : (void *)&r->events;
  r->events = 0;
  memset(r->address, 0, (size_t)r->t->ids * sizeof *r->address);
  memset(r->state, 0, (size_t)r->t->ids);
  p->to->oom_at = p->to->reserved_differs = p->to->address_differs = r->t->n;
  return vram_pool_init(&p->pool, &r->options, &backend, mem, bytes, &err)
             ? cmd_bad(err.text, NULL, NULL)
             : FITS;
}

/* A segment of the recording. */
static void play_segment(playing *p, size_t i) {
  const vram_event *e = p->r->t->event + i;
  if (e->action == VRAM_ACTION_SEGMENT_ALLOC || e->action == VRAM_ACTION_SEGMENT_MAP) {
    p->reserved += e->bytes;
    if (e->action == VRAM_ACTION_SEGMENT_ALLOC)
      segment_add(&p->recorded, e->address, e->bytes);
    return;
  }
  if (!p->in_frees && cache_was_emptied(p->r, i, p->reserved, p->limit))
    vram_pool_empty_cache(&p->pool);
  p->in_frees = 1;
  p->reserved -= e->bytes < p->reserved ? e->bytes : p->reserved;
  if (e->action == VRAM_ACTION_SEGMENT_FREE)
    segment_drop(&p->recorded, e->address);
}

/* 0: it failed. */
static int play_alloc(playing *p, size_t i) {
  replay *r = p->r;
  const vram_event *e = r->t->event + i;
  const vram_result result = vram_pool_alloc(&p->pool, e->bytes, e->stream, r->address + e->id);
  const int ok = result == VRAM_OK;
  if (result == VRAM_ERR_LIMIT)
    p->status = MORE_BLOCKS;
  if (!ok && p->to->oom_at == r->t->n) {
    p->to->oom_at = i;
    p->to->oom_allocated = p->pool.stats.allocated_bytes[0].current;
    p->to->oom_reserved = p->pool.stats.reserved_bytes[0].current;
    p->to->oom_largest = vram_pool_largest_free(&p->pool, &e->stream);
  }
  if (ok && e->kind == FAILED) { /* nobody will free it */
    vram_pool_free(&p->pool, r->address[e->id]);
    r->address[e->id] = 0;
  } else if (ok && e->address && p->to->address_differs == r->t->n) {
    const uint64_t offset = segment_offset(&p->recorded, e->address);
    if (offset != UINT64_MAX && offset != segment_offset(&p->device.segments, r->address[e->id]))
      p->to->address_differs = i;
  }
  return ok;
}

/* Given back while streams still use it; 0: that makes no difference. */
static int play_free_requested(playing *p, size_t i) {
  replay *r = p->r;
  const vram_event *e = r->t->event + i;
  if (i + 1 < r->t->n && e[1].action == VRAM_ACTION_FREE && e[1].id == e->id)
    return 0;
  if (!r->address[e->id] || vram_pool_record_stream(&p->pool, r->address[e->id], r->other_stream))
    return 0;
  p->device.waiting = (uint64_t)e->id + 1;
  vram_pool_free(&p->pool, r->address[e->id]);
  r->address[e->id] = 0;
  r->state[e->id] = FREED_FOR_STREAMS;
  return 1;
}

/* One event; 0: it is no call. *ok: it did not fail. */
static int play_event(playing *p, size_t i, int *ok) {
  replay *r = p->r;
  const vram_event *e = r->t->event + i;
  *ok = 1;
  switch (e->action) {
  case VRAM_ACTION_SEGMENT_ALLOC:
  case VRAM_ACTION_SEGMENT_MAP:
  case VRAM_ACTION_SEGMENT_FREE:
  case VRAM_ACTION_SEGMENT_UNMAP:
    play_segment(p, i);
    return 0;
  case VRAM_ACTION_ALLOC:
    *ok = play_alloc(p, i);
    return 1;
  case VRAM_ACTION_FREE_REQUESTED:
    return play_free_requested(p, i);
  case VRAM_ACTION_FREE:
    if (r->state[e->id]) { /* the call came before */
      r->state[e->id] = FINISHED;
      return 0;
    }
    if (r->address[e->id])
      vram_pool_free(&p->pool, r->address[e->id]);
    r->address[e->id] = 0;
    return 1;
  case VRAM_ACTION_MARK:
    vram_pool_empty_cache(&p->pool);
    return 1;
  default:
    return 0;
  }
}

/* Every event; out NULL: nothing is written. */
static void play_events(playing *p, const replay_job *out) {
  const trace *t = p->r->t;
  size_t i;
  for (i = 0; i < t->n && !p->status; i++) {
    const vram_event *e = t->event + i;
    const uint64_t peak = p->pool.stats.allocated_bytes[0].peak;
    int ok;
    if (p->ledger) {
      const char *node = t->text[t->note[i].node];
      p->pool.as.owner = *node ? vram_ledger_owner(p->ledger, NULL, 0, NULL, node) : 0;
      p->pool.as.category = e->category;
      p->pool.as.phase = e->phase;
      p->pool.as.time = e->time ? e->time : i + 1;
    }
    if (!play_event(p, i, &ok))
      continue;
    p->in_frees = 0;
    if (p->pool.stats.allocated_bytes[0].peak > peak)
      p->to->peak_at = i;
    if (t->has_segments && p->to->reserved_differs == t->n &&
        p->pool.stats.reserved_bytes[0].current != p->reserved)
      p->to->reserved_differs = i;
    if (out && out->csv)
      print_call(&p->pool, e, ok);
  }
}

/* From the beginning to the end; MORE_BLOCKS: the pool's memory was too small. out NULL: nothing is
   written. */
static int play(replay *r, vram_pool_policy policy, const replay_job *out, played *to) {
  const uint64_t bytes = vram_pool_bytes(r->blocks, r->nstream + 1);
  void *mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  playing p;
  memset(&p, 0, sizeof p);
  memset(to, 0, sizeof *to);
  p.r = r;
  p.to = to;
  if (!mem)
    return cmd_no_memory();
  if (out && out->snapshot) {
    p.ledger = new_ledger(r);
    p.status = p.ledger ? FITS : cmd_no_memory();
  }
  if (!p.status)
    p.status = play_begin(&p, policy, mem, bytes);
  if (!p.status) {
    if (out && out->csv)
      printf("action,id,size,stream,result,allocated,reserved,requested,segments\n");
    play_events(&p, out);
    to->stats = p.pool.stats;
    if (p.recorded.no_memory || p.device.segments.no_memory)
      p.status = cmd_no_memory();
    if (!p.status && p.ledger)
      p.status = write_snapshot(out->snapshot, p.ledger, &p.pool);
  }
  free(p.ledger);
  free(p.recorded.at);
  free(p.device.segments.at);
  free(mem);
  return p.status;
}

/* Streams and the most blocks at a time. */
static int replay_begin(replay *r, const trace *t) {
  uint64_t live = 0, most = 0;
  size_t i;
  uint32_t k;
  r->t = t;
  for (i = 0; i < t->n; i++) {
    const vram_event *e = t->event + i;
    live += e->action == VRAM_ACTION_ALLOC;
    live -= e->action == VRAM_ACTION_FREE;
    most = live > most ? live : most;
    if (e->action != VRAM_ACTION_ALLOC)
      continue;
    for (k = 0; k < r->nstream && r->streams[k] != e->stream; k++)
      ;
    if (k == VRAM_POOL_STREAMS - 1) {
      char most_streams[64];
      snprintf(most_streams, sizeof most_streams, "at most %d", VRAM_POOL_STREAMS - 1);
      return cmd_bad("too many streams in", t->path, most_streams);
    }
    if (k == r->nstream)
      r->streams[r->nstream++] = e->stream;
    r->other_stream = e->stream >= r->other_stream ? e->stream + 1 : r->other_stream;
  }
  r->live = most;
  r->blocks = most > UINT32_MAX / 8 ? UINT32_MAX / 4 : (uint32_t)most * 2 + 1024;
  r->address = (uint64_t *)malloc(((size_t)t->ids + 1) * sizeof *r->address);
  r->state = (uint8_t *)malloc((size_t)t->ids + 1);
  return r->address && r->state ? FITS : cmd_no_memory();
}

static int play_all(replay *r, vram_pool_policy policy, const replay_job *out, played *to) {
  int status;
  while ((status = play(r, policy, NULL, to)) == MORE_BLOCKS && r->blocks < UINT32_MAX / 2)
    r->blocks *= 2;
  if (!status && (out->csv || out->snapshot))
    status = play(r, policy, out, to);
  return status == MORE_BLOCKS ? cmd_bad("too many blocks at a time in", r->t->path, NULL) : status;
}

/* 1 - peak active / peak reserved */
static double fragmentation(const played *p) {
  const uint64_t reserved = p->stats.reserved_bytes[0].peak;
  return reserved ? 1 - (double)p->stats.active_bytes[0].peak / (double)reserved : 0;
}

/* Where an event stands: "line 12, backward, conv1" */
static const char *place_text(const trace *t, size_t i, char *to, size_t cap) {
  const trace_note *n = t->note + i;
  snprintf(to, cap, "%s %" PRIu32 "%s%s%s%s", trace_unit(t), n->line, n->phase ? ", " : "",
           t->text[n->phase], n->node ? ", " : "", t->text[n->node]);
  return to;
}

/* The trace says what PyTorch reserved, from its beginning on. */
static int is_comparable(const trace *t) { return t->has_segments && !t->before && !t->is_bfc; }

static void replay_text(const replay_job *j, const replay *r, const played *p,
                        const vram_pool_policy *policy, int n) {
  static const char *const name[] = {"torch", "best"};
  const trace *t = r->t;
  char place[400], number[32];
  int i;
#define ROW(text, value)                                                                           \
  printf("%-14s", text);                                                                           \
  for (i = 0; i < n; i++)                                                                          \
    printf(" %12s %12s", cmd_human(p[i].stats.value[0].peak),                                      \
           cmd_human(p[i].stats.value[0].current));                                                \
  printf("\n")
  printf("%s%s%s  %s call%s", cmd_bold, t->path, cmd_plain, cmd_grouped(t->ncalls, number),
         t->ncalls == 1 ? "" : "s");
  printf(", device %s", cmd_human(r->options.total_bytes));
  if (r->options.limit_bytes)
    printf(", at most %s of it", cmd_human(r->options.limit_bytes));
  if (j->alloc_conf && *j->alloc_conf)
    printf(", %s", j->alloc_conf);
  printf("\n");
  trace_print_notes(t);
  printf("\n%s%-14s", cmd_bold, "policy");
  for (i = 0; i < n; i++)
    printf(" %7s peak %12s", name[policy[i]], "end");
  printf("%s\n", cmd_plain);
  ROW("requested", requested_bytes);
  ROW("allocated", allocated_bytes);
  ROW("reserved", reserved_bytes);
#undef ROW
  printf("%-14s", "segments");
  for (i = 0; i < n; i++)
    printf(" %12" PRIu64 " %12" PRIu64, p[i].stats.segment[0].peak, p[i].stats.segment[0].current);
  printf("\n%-14s", "fragmentation");
  for (i = 0; i < n; i++)
    printf(" %11.1f%% %12s", 100 * fragmentation(p + i), "");
  printf("  %s1 - peak active / peak reserved%s\n", cmd_dim, cmd_plain);
  printf("%-14s", "device calls");
  for (i = 0; i < n; i++)
    printf("%*" PRIu64, i ? 26 : 13, p[i].stats.num_device_alloc + p[i].stats.num_device_free);
  printf("\n%-14s", "retries, ooms");
  for (i = 0; i < n; i++)
    printf(" %12" PRIu64 " %12" PRIu64, p[i].stats.num_alloc_retries, p[i].stats.num_ooms);
  printf("\n\n");
  if (t->n && p->stats.allocated_bytes[0].peak)
    printf("peak of allocated: an alloc of %s, %s\n", cmd_human(t->event[p->peak_at].bytes),
           place_text(t, p->peak_at, place, sizeof place));
  for (i = 0; i < n; i++)
    if (p[i].oom_at < t->n) {
      printf("%sDOES NOT FIT%s %s: %s, an alloc of %s", cmd_bold, cmd_plain, name[policy[i]],
             place_text(t, p[i].oom_at, place, sizeof place),
             cmd_human(t->event[p[i].oom_at].bytes));
      printf(" with %s allocated, ", cmd_human(p[i].oom_allocated));
      printf("%s reserved; the largest free block has %s\n", cmd_human(p[i].oom_reserved),
             cmd_human(p[i].oom_largest));
    }
  if (t->is_snapshot)
    printf("reserved at the end of the recording: %s\n", cmd_human(t->reserved_at_end));
  if (is_comparable(t) && *policy == VRAM_POOL_TORCH) {
    if (p->reserved_differs == t->n)
      printf("as recorded: reserved bytes after every call\n");
    else
      printf("reserved bytes are not those of the recording from %s on\n",
             place_text(t, p->reserved_differs, place, sizeof place));
    if (t->has_addresses && p->address_differs == t->n)
      printf("as recorded: the place of every block in its segment\n");
    else if (t->has_addresses)
      printf("blocks lie elsewhere in their segments than in the recording from %s on\n",
             place_text(t, p->address_differs, place, sizeof place));
  }
}

static void replay_figures(const trace *t, const played *p) {
  const vram_memory_stats *s = &p->stats;
#define NUMBER(key, value) printf(",\"" key "\":%" PRIu64, (uint64_t)(value))
#define PAIR(key) NUMBER("peak_" #key, s->key[0].peak), NUMBER(#key, s->key[0].current)
  printf("\"events\":%lu", (unsigned long)t->ncalls);
  PAIR(requested_bytes);
  PAIR(allocated_bytes);
  PAIR(active_bytes);
  PAIR(reserved_bytes);
  NUMBER("peak_segments", s->segment[0].peak);
  NUMBER("segments", s->segment[0].current);
  NUMBER("num_alloc_retries", s->num_alloc_retries);
  NUMBER("num_ooms", s->num_ooms);
  NUMBER("num_device_alloc", s->num_device_alloc);
  NUMBER("num_device_free", s->num_device_free);
  printf(",\"fragmentation\":%.6f", fragmentation(p));
  if (t->n) {
    const trace_note *n = t->note + p->peak_at;
    printf(",\"peak_%s\":%" PRIu32 ",\"peak_phase\":", trace_unit(t), n->line);
    cmd_json_text(stdout, t->text[n->phase]);
    printf(",\"peak_node\":");
    cmd_json_text(stdout, t->text[n->node]);
  }
#undef PAIR
#undef NUMBER
}

static void replay_json(const replay_job *j, const replay *r, const played *p, int n) {
  const trace *t = r->t;
  int i, fits = 1;
  printf("{\"trace\":");
  cmd_json_text(stdout, t->path);
  printf(",\"policy\":\"%s\",\"alloc_conf\":", j->policy);
  cmd_json_text(stdout, j->alloc_conf ? j->alloc_conf : "");
  printf(",\"total_bytes\":%" PRIu64 ",\"limit_bytes\":", r->options.total_bytes);
  if (r->options.limit_bytes)
    printf("%" PRIu64, r->options.limit_bytes);
  else
    printf("null");
  printf(",\"before\":%lu,\"ignored\":%" PRIu64 ",\"unmatched\":%" PRIu64 ",",
         (unsigned long)t->before, t->ignored, t->unmatched);
  if (t->host_bytes)
    printf("\"host_bytes\":%" PRIu64 ",", t->host_bytes);
  for (i = 0; i < n; i++) {
    if (n > 1)
      printf("%s\"%s\":{", i ? "," : "", i ? "best" : "torch");
    replay_figures(t, p + i);
    if (n > 1)
      printf("}");
    fits &= p[i].oom_at == t->n;
  }
  if (t->is_snapshot)
    printf(",\"recorded_reserved_bytes\":%" PRIu64, t->reserved_at_end);
  if (is_comparable(t) && strcmp(j->policy, "best"))
    printf(",\"as_recorded\":{\"reserved\":%s,\"addresses\":%s}",
           p->reserved_differs == t->n ? "true" : "false",
           !t->has_addresses            ? "null"
           : p->address_differs == t->n ? "true"
                                        : "false");
  printf(",\"fits\":%s}\n", fits ? "true" : "false");
}

/* One option; returns how many arguments it took, 0: error printed. */
static int replay_option(replay_job *j, const char *a, const char *v) {
  if (!strcmp(a, "--json"))
    return j->json = 1;
  if (!strcmp(a, "--csv"))
    return j->csv = 1;
  if (!cmd_in(a, "--policy --alloc-conf --total-bytes --gpu --memory-fraction --device --snapshot "
                 "--top --units"))
    return cmd_unknown_option(a, "replay", NULL, "");
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "--policy")) {
    if (!cmd_in(v, "torch best both bfc"))
      return cmd_bad("unknown policy", v, "torch, best, both or bfc"), 0;
    j->policy = v;
  } else if (!strcmp(a, "--alloc-conf"))
    j->alloc_conf = v;
  else if (!strcmp(a, "--snapshot"))
    j->snapshot = v;
  else if (!strcmp(a, "--total-bytes")) {
    if (!cmd_parse_size(v, &j->total_bytes) || !j->total_bytes)
      return cmd_bad_size(v), 0;
  } else if (!strcmp(a, "--gpu")) {
    const vram_gpu *g = cmd_find_gpu(v);
    if (!g)
      return 0;
    j->total_bytes = g->bytes;
  } else if (!strcmp(a, "--memory-fraction")) {
    char *end;
    j->fraction = strtod(v, &end);
    if (*end || end == v || !(j->fraction > 0 && j->fraction <= 1))
      return cmd_bad("not a fraction", v, "above 0, at most 1"), 0;
  } else if (!strcmp(a, "--device")) {
    if (!cmd_parse_count(v, 0, 1000000, &j->device))
      return cmd_bad("not a device", v, "0, 1, ..."), 0;
  } else if (!strcmp(a, "--top")) {
    if (!cmd_parse_count(v, 0, MAX_ITEMS, &j->top))
      return cmd_bad("not a number of rows", v, "0 or more"), 0;
  } else if (!cmd_set_units(v))
    return 0;
  return 2;
}

/* All arguments; FITS: go on, or help was printed (j->path is NULL then). */
static int replay_arguments(replay_job *j, int argc, char **argv) {
  int i, n;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      j->path = NULL;
      return cmd_help(help_replay, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      n = replay_option(j, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (j->path)
      return cmd_bad("a second trace", argv[i], "one");
    else
      j->path = argv[i++];
  }
  if (!j->path)
    return cmd_bad("no trace", NULL, "vram replay TRACE; vram replay -h");
  if (j->json + j->csv + cmd_is_output(j->snapshot) > 1)
    return cmd_bad("standard output takes one of --json, --csv and FILE -", NULL, NULL);
  if (!strcmp(j->policy, "bfc") && j->snapshot)
    return cmd_bad("--snapshot is of PyTorch's allocator or of vram.h's, not of", "bfc",
                   "torch or best");
  if (!strcmp(j->policy, "both") && (j->csv || j->snapshot))
    return cmd_bad(j->csv ? "--csv is of one policy, not" : "--snapshot is of one policy, not",
                   "both", j->csv ? "torch, best or bfc" : "torch or best");
  return FITS;
}

static int replay_bfc(const replay_job *j, const trace *t) {
  bfc_job b;
  memset(&b, 0, sizeof b);
  b.conf = j->alloc_conf;
  b.total_bytes = j->total_bytes;
  b.fraction = j->fraction;
  b.json = j->json;
  b.csv = j->csv;
  return bfc_replay(&b, t);
}

/* The trace through every policy that was asked for. */
static int replay_trace(replay_job *j, const trace *t) {
  vram_pool_policy policy[2];
  const int n = strcmp(j->policy, "both") ? 1 : 2;
  int i, status;
  played p[2];
  replay r;
  vram_error err;
  if (t->is_state && !*j->policy && !j->snapshot && !j->csv)
    return state_report(t, j->json, (uint32_t)j->top);
  if (!*j->policy)
    j->policy = t->is_bfc && !j->snapshot ? "bfc" : "torch";
  if (!strcmp(j->policy, "bfc"))
    return replay_bfc(j, t);
  memset(&r, 0, sizeof r);
  policy[0] = strcmp(j->policy, "best") ? VRAM_POOL_TORCH : VRAM_POOL_BEST;
  policy[1] = VRAM_POOL_BEST;
  if (!j->alloc_conf)
    j->alloc_conf = t->conf;
  if (vram_pool_config(j->alloc_conf, &r.options, &err))
    return cmd_bad(err.text, NULL, NULL);
  r.options.total_bytes = j->total_bytes;
  r.options.limit_bytes = (uint64_t)(j->fraction * (double)j->total_bytes);
  status = replay_begin(&r, t);
  if (!j->csv)
    cmd_progress("vram replay: playing", 0);
  for (i = 0; i < n && !status; i++)
    status = play_all(&r, policy[i], j, p + i);
  cmd_progress_end();
  if (!status) {
    if (j->json)
      replay_json(j, &r, p, n);
    else if (!j->csv && !cmd_is_output(j->snapshot))
      replay_text(j, &r, p, policy, n);
    for (i = 0; i < n; i++)
      if (p[i].oom_at < t->n)
        status = TOO_LARGE;
  }
  free(r.address);
  free(r.state);
  return status;
}

int replay_command(int argc, char **argv) {
  replay_job j;
  trace t;
  int status;
  memset(&j, 0, sizeof j);
  j.policy = "";
  j.total_bytes = UINT64_C(80) << 30;
  j.device = -1;
  j.top = 12;
  status = replay_arguments(&j, argc, argv);
  if (status || !j.path)
    return status;
  status = trace_read(&t, j.path, j.device);
  if (!status)
    status = replay_trace(&j, &t);
  trace_end(&t);
  return status;
}
