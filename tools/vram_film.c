/* vram estimate --snapshot and --trace: the predicted run as files that a profiler would write. The
   run's allocator is heard twice: to count, then beside a pool and a ledger that do the same. */
#include "vram_estimate.h"

enum { FILM_QUEUE = 64 };

typedef struct film {
  vram_ledger ledger;
  vram_pool pool;
  uint64_t heard, step, alive, most; /* events in all, before the step; allocations */
  uint64_t room;                     /* of the device */
  uint64_t queue[FILM_QUEUE];        /* addresses of segments that the pool will ask for */
  uint32_t queued;
  int steps, differs;
} film;

static void film_count(void *user, const vram_event *e) {
  film *f = (film *)user;
  f->heard++;
  if (e->action == VRAM_ACTION_ALLOC && ++f->alive > f->most)
    f->most = f->alive;
  if (e->action == VRAM_ACTION_FREE)
    f->alive--;
}

static void film_step(void *user, const vram_event *e) {
  film *f = (film *)user;
  if (!f->steps++) /* this one was counted if it is of a block */
    f->step = f->heard - (e->action <= VRAM_ACTION_FREE && e->bytes ? 1 : 0);
}

static uint64_t film_next(film *f) {
  uint64_t address;
  if (!f->queued) {
    f->differs = 1;
    return 0;
  }
  address = f->queue[0];
  memmove(f->queue, f->queue + 1, --f->queued * sizeof *f->queue);
  return address;
}

static uint64_t film_alloc(void *user, uint64_t bytes, uint64_t stream) {
  film *f = (film *)user;
  (void)stream;
  if (bytes > f->room)
    return 0;
  f->room -= bytes;
  return film_next(f);
}

static void film_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)address, (void)stream;
  ((film *)user)->room += bytes;
}

/* The first stretch is mapped at once, at its beginning. */
static uint64_t film_reserve(void *user, uint64_t bytes) {
  film *f = (film *)user;
  (void)bytes;
  f->differs |= !f->queued;
  return f->queued ? f->queue[0] : 0;
}

static void film_unreserve(void *user, uint64_t address, uint64_t bytes) {
  (void)user, (void)address, (void)bytes;
}

static int film_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  film *f = (film *)user;
  (void)granule;
  if (bytes > f->room)
    return 0;
  f->room -= bytes;
  f->differs |= film_next(f) != address;
  return 1;
}

static void film_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  (void)address, (void)granule;
  ((film *)user)->room += bytes;
}

static void film_play(void *user, const vram_event *e) {
  film *f = (film *)user;
  uint64_t address = 0;
  switch (e->action) {
  case VRAM_ACTION_SEGMENT_ALLOC:
  case VRAM_ACTION_SEGMENT_MAP:
    if (f->queued == FILM_QUEUE)
      f->differs = 1;
    else
      f->queue[f->queued++] = e->address;
    break;
  case VRAM_ACTION_ALLOC:
    f->pool.as = *e;
    f->pool.as.small_pool = 0;
    f->differs |= vram_pool_alloc(&f->pool, e->bytes, 0, &address) || address != e->address;
    break;
  case VRAM_ACTION_FREE:
    f->pool.as.phase = e->phase;
    f->differs |= vram_pool_free(&f->pool, e->address) != VRAM_OK;
    break;
  case VRAM_ACTION_BECOMES:
    vram_ledger_event(&f->ledger, e);
    break;
  default:
    break;
  }
}

static int film_write(film *f, const char *path, int is_trace) {
  const vram_pool *shown = &f->pool;
  const size_t n = strlen(path);
  vram_snapshot_options o;
  vram_sink sink;
  cmd_output out;
  const int status = cmd_output_open(&out, path);
  if (status)
    return status;
  memset(&o, 0, sizeof o);
  o.pool = &shown;
  o.npool = 1;
  o.json = n > 5 && !strcmp(path + n - 5, ".json");
  sink.write = cmd_to_file;
  sink.user = out.file;
  return cmd_output_commit(&out,
                           (is_trace ? vram_write_trace(&f->ledger, 0, &sink)
                                     : vram_write_snapshot(&f->ledger, &o, &sink)) != VRAM_OK);
}

int film_write_all(const job *j, const vram_graph *g, void *scratch, uint64_t bytes) {
  vram_pool_options heard = j->pool, played = j->pool, same = j->pool;
  vram_step_options o = j->o;
  vram_ledger_options lo;
  vram_backend device;
  vram_report r;
  film f;
  uint64_t pool_bytes, ledger_bytes;
  void *memory = NULL, *ledger = NULL;
  int status = FITS;
  memset(&f, 0, sizeof f);
  memset(&lo, 0, sizeof lo);
  memset(&device, 0, sizeof device);
  o.replay = &heard;
  o.budget_bytes = 0;
  o.nodes = NULL;
  o.user = heard.user = played.user = &f;
  o.event = film_step;
  heard.event = film_count;
  played.event = film_play;
  if (vram_step(g, &o, scratch, bytes, &r, NULL) || !r.replayed || r.num_ooms)
    return cmd_bad("no snapshot of a run that", r.replayed ? "finds no memory" : "is too large",
                   NULL);
  if (!f.steps)
    f.step = f.heard;
  o.event = NULL;
  o.replay = &played;
  f.room = same.total_bytes ? same.total_bytes : (uint64_t)VRAM_MAX_BYTES;
  lo.live = (uint32_t)f.most + 1;
  lo.owners = 1;
  lo.trace = (uint32_t)(f.heard - f.step) + 1;
  device.alloc = film_alloc, device.free = film_free;
  device.reserve = film_reserve, device.unreserve = film_unreserve;
  device.map = film_map, device.unmap = film_unmap;
  device.user = &f;
  ledger_bytes = vram_ledger_bytes(&lo);
  pool_bytes = vram_pool_bytes(lo.live * 4 + 1000, 1);
  memory = malloc((size_t)pool_bytes);
  ledger = malloc((size_t)ledger_bytes);
  if (!memory || !ledger || vram_ledger_init(&f.ledger, &lo, ledger, ledger_bytes, NULL))
    status = cmd_no_memory();
  else {
    same.streams = 1;
    same.total_bytes = same.total_bytes ? same.total_bytes : UINT64_C(1) << 40;
    same.event = vram_ledger_event;
    same.user = &f.ledger;
    if (vram_pool_init(&f.pool, &same, &device, memory, pool_bytes, NULL))
      status = cmd_no_memory();
    else if (vram_step(g, &o, scratch, bytes, &r, NULL) || f.differs)
      status = cmd_bad("no snapshot: two replays of the run differ", NULL, NULL);
  }
  if (!status && j->snapshot)
    status = film_write(&f, j->snapshot, 0);
  if (!status && j->trace)
    status = film_write(&f, j->trace, 1);
  free(memory);
  free(ledger);
  return status;
}
