/* Work that falls into parts, on all processors; without POSIX's threads, one part after the other.
 */
#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE /* sched_getaffinity, NOLINT(bugprone-reserved-identifier) */
#endif
#include "vram_command.h"

#include "vram_threads.h"

#if (defined(__unix__) || defined(__APPLE__)) && !defined(VRAM_NO_THREADS)
#include <pthread.h>
#ifdef __linux__
#include <sched.h>
#endif

/* A step's frames are small, but a thread's stack may be smaller (128 KiB in musl). */
#define THREADS_STACK ((size_t)4 << 20)

typedef struct work {
  int (*one)(void *user, uint32_t k, uint32_t i);
  void *user;
  uint32_t parts, next; /* of all; that nobody has begun */
  pthread_mutex_t lock;
} work;

typedef struct worker {
  work *w;
  uint32_t k;
} worker;

/* The next part; ended: the one before was the last. */
static uint32_t work_take(work *w, int ended) {
  uint32_t i;
  pthread_mutex_lock(&w->lock);
  if (ended)
    w->next = w->parts;
  i = w->next;
  w->next += i < w->parts;
  pthread_mutex_unlock(&w->lock);
  return i;
}

static void *work_on(void *at) {
  const worker *x = (const worker *)at;
  uint32_t i;
  int ended = 0;
  while ((i = work_take(x->w, ended)) < x->w->parts)
    ended = x->w->one(x->w->user, x->k, i);
  return NULL;
}

/* Those that this process may run on. */
static long processors(void) {
#ifdef CPU_COUNT
  cpu_set_t set;
  if (!sched_getaffinity(0, sizeof set, &set))
    return CPU_COUNT(&set);
#endif
  return sysconf(_SC_NPROCESSORS_ONLN);
}

uint32_t threads_for(uint32_t parts) {
  const char *asked = getenv("VRAM_THREADS");
  char *end = NULL;
  const long number = asked ? strtol(asked, &end, 10) : 0;
  const int given = number > 0 && !*end; /* what is no number does not ask */
  const long all = given ? number : processors();
  const uint32_t n = all < 1 ? 1 : all > THREADS_MOST ? (uint32_t)THREADS_MOST : (uint32_t)all;
  return parts < n ? parts : n;
}

void threads_run(uint32_t parts, int (*one)(void *user, uint32_t k, uint32_t i), void *user) {
  const uint32_t n = threads_for(parts);
  pthread_t thread[THREADS_MOST];
  worker x[THREADS_MOST];
  pthread_attr_t stack;
  uint32_t k, begun = 1; /* this one is the first */
  work w;
  w.one = one;
  w.user = user;
  w.parts = parts;
  w.next = 0;
  pthread_mutex_init(&w.lock, NULL);
  pthread_attr_init(&stack);
  pthread_attr_setstacksize(&stack, THREADS_STACK);
  for (k = 0; k < n; k++) {
    x[k].w = &w;
    x[k].k = k;
  }
  while (begun < n && !pthread_create(thread + begun, &stack, work_on, x + begun))
    begun++;
  if (n)
    work_on(x);
  for (k = 1; k < begun; k++)
    pthread_join(thread[k], NULL);
  pthread_attr_destroy(&stack);
  pthread_mutex_destroy(&w.lock);
}

#else

uint32_t threads_for(uint32_t parts) { return parts != 0; }

void threads_run(uint32_t parts, int (*one)(void *user, uint32_t k, uint32_t i), void *user) {
  uint32_t i;
  for (i = 0; i < parts && !one(user, 0, i); i++)
    ;
}

#endif
