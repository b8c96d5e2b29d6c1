/* Threads on one ledger: every one allocates, frees, also what another one allocated, and reads.
   At the end nothing is alive and the sums are what the threads did. For -fsanitize=thread. */
#include "../../vram.h"
#include "../test.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 3000, SHARED = 64 };

static pthread_mutex_t ledger_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t box_mutex = PTHREAD_MUTEX_INITIALIZER;
static vram_ledger ledger;
static uint64_t box[SHARED]; /* addresses that anyone may free */

typedef struct worker {
  uint64_t bytes, count, seed;
  uint32_t number;
  pthread_t thread;
} worker;

static void lock(void *user) { pthread_mutex_lock((pthread_mutex_t *)user); }
static void unlock(void *user) { pthread_mutex_unlock((pthread_mutex_t *)user); }

static uint32_t below(worker *w, uint32_t n) {
  w->seed = w->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(w->seed >> 33) % n;
}

static int nowhere(void *user, const char *bytes, size_t n) {
  *(size_t *)user += n;
  return bytes == NULL;
}

/* Puts an address into the box, takes another one out. */
static uint64_t swap(uint32_t at, uint64_t address) {
  uint64_t old;
  pthread_mutex_lock(&box_mutex);
  old = box[at];
  box[at] = address;
  pthread_mutex_unlock(&box_mutex);
  return old;
}

static void *work(void *user) {
  worker *w = (worker *)user;
  uint32_t i;
  for (i = 0; i < ROUNDS; i++) {
    vram_event e;
    vram_allocation was;
    vram_region region;
    uint64_t old;
    memset(&e, 0, sizeof e);
    vram_region_begin(&ledger, &region, "round");
    e.owner = vram_ledger_owner(&ledger, __FILE__, below(w, 40), "work", NULL);
    e.address = ((uint64_t)w->number + 1) << 40 | (uint64_t)(i + 1) << 9;
    e.bytes = below(w, 5000);
    e.whole = 1;
    w->bytes += e.bytes;
    w->count++;
    vram_ledger_event(&ledger, &e);
    old = swap(below(w, SHARED), e.address);
    if (old && !vram_ledger_take(&ledger, old, &was))
      abort();
    if (below(w, 50) == 0) {
      vram_change list[8];
      vram_allocation top[4];
      vram_memory_stats stats;
      size_t n = 0;
      vram_sink sink;
      vram_oom oom;
      memset(&oom, 0, sizeof oom);
      sink.write = nowhere;
      sink.user = &n;
      vram_ledger_stats(&ledger, 0, &stats);
      if (stats.requested_bytes[0].current > stats.requested_bytes[0].peak)
        abort();
      vram_ledger_live(&ledger, top, 4);
      vram_ledger_find(&ledger, e.address, &was);
      vram_write_log(&ledger, __FILE__, i, NULL, list, 8, &sink);
      vram_write_oom(&ledger, &oom, &sink);
      if (below(w, 10) == 0) {
        vram_write_snapshot(&ledger, NULL, &sink);
        vram_write_trace(&ledger, 0, &sink);
        vram_write_csv(&ledger, &sink);
      }
    }
    if (!vram_region_end(&ledger, &region))
      abort();
  }
  return NULL;
}

int main(void) {
  static worker w[THREADS];
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_memory_stats s;
  uint64_t bytes = 0, count = 0, n;
  uint32_t i;
  void *mem;
  o.lock = lock;
  o.unlock = unlock;
  o.user = &ledger_mutex;
  o.groups = 256;
  o.trace = 100;
  n = vram_ledger_bytes(&o);
  mem = malloc((size_t)n);
  if (!mem || vram_ledger_init(&ledger, &o, mem, n, NULL))
    return 1;
  for (i = 0; i < THREADS; i++) {
    w[i].number = w[i].seed = i;
    if (pthread_create(&w[i].thread, NULL, work, &w[i]))
      return 1;
  }
  for (i = 0; i < THREADS; i++) {
    pthread_join(w[i].thread, NULL);
    bytes += w[i].bytes;
    count += w[i].count;
  }
  for (i = 0; i < SHARED; i++)
    if (box[i]) {
      CHECK(vram_ledger_take(&ledger, box[i], NULL));
    }
  vram_ledger_stats(&ledger, 0, &s);
  EQUAL(s.requested_bytes[0].current, 0);
  EQUAL(s.requested_bytes[0].allocated, bytes);
  EQUAL(s.requested_bytes[0].freed, bytes);
  EQUAL(s.segment[0].allocated, count);
  EQUAL(s.allocation[0].freed, count);
  EQUAL(ledger.bytes, 0);
  EQUAL(ledger.unknown_frees + ledger.missed_frees + ledger.lost, 0);
  EQUAL(ledger.nlive, 0);
  CHECK(ledger.region == NULL);
  free(mem);
  return test_done("threads");
}
