/* PyTorch's pluggable allocator, in the library of tools/preload.c.

   torch.cuda.memory.CUDAPluggableAllocator(FILE, "vram_torch_malloc", "vram_torch_free"): a
   vram_pool of each device instead of PyTorch's own. Nothing of vram run is needed; under it the
   pools' segments and blocks are counted. Environment: VRAM_POOL=torch|best, the policy;
   VRAM_ALLOC_CONF, options as PYTORCH_ALLOC_CONF has them. */
#if __SIZEOF_POINTER__ < 8
typedef int preload_torch_needs_64_bit;
#else
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#include "preload_c10.h"
#include "preload_core.h"

#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { TORCH_DEVICES = 64, TORCH_BLOCKS = 1 << 18 };
static vram_cuda_pool torch_pool[TORCH_DEVICES];
static int torch_state[TORCH_DEVICES]; /* 0: not tried, 1: there, -1: cannot be */
static pthread_mutex_t torch_lock = PTHREAD_MUTEX_INITIALIZER;
static vram_cuda_api torch_api;
static vram_cuda_tracker torch_tracker; /* without vram run */
static vram_pool_options torch_options;

static void torch_say(const char *text, const char *more) {
  fprintf(stderr, "vram: %s%s%s\n", text, *more ? ": " : "", more);
}

static void *torch_memory(uint64_t bytes) {
  void *at =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

/* Once, under torch_lock. */
static void torch_begin(void) {
  const char *policy = secure_getenv("VRAM_POOL"), *conf = secure_getenv("VRAM_ALLOC_CONF");
  vram_cuda_options o = VRAM_ZERO_INIT;
  vram_error err;
  uint64_t bytes;
  if (policy && !strcmp(policy, "best"))
    torch_options.policy = VRAM_POOL_BEST;
  else if (policy && *policy && strcmp(policy, "torch"))
    torch_say("VRAM_POOL is neither torch nor best; torch is taken", policy);
  if (conf && vram_pool_config(conf, &torch_options, &err)) {
    torch_say("VRAM_ALLOC_CONF is not taken", err.text);
    memset(&torch_options.max_split_size, 0,
           sizeof torch_options - offsetof(vram_pool_options, max_split_size));
  }
  vram_cuda_api_fill(&torch_api, find_real, NULL, 0);
  if (track())
    return;
  o.ledger.live = TORCH_BLOCKS;
  o.log = &report_sink;
  bytes = vram_cuda_tracker_bytes(&o);
  (void)vram_cuda_tracker_init(&torch_tracker, &torch_api, &o, torch_memory(bytes), bytes, &err);
}

/* The pool of a device; NULL: there is none, and it has been said why. */
static vram_cuda_pool *torch_pool_of(int device) {
  static int begun;
  vram_cuda_pool_options o = VRAM_ZERO_INIT;
  vram_error err;
  uint64_t bytes;
  if (device < 0 || device >= TORCH_DEVICES)
    return NULL;
  if (__atomic_load_n(&torch_state[device], __ATOMIC_ACQUIRE) == 1)
    return &torch_pool[device];
  pthread_mutex_lock(&torch_lock);
  if (!begun)
    torch_begin();
  begun = 1;
  if (!torch_state[device]) {
    o.pool = torch_options;
    o.device = (uint32_t)device;
    o.blocks = TORCH_BLOCKS;
    o.tracker = track() ? track() : &torch_tracker;
    bytes = vram_cuda_pool_bytes(&o);
    err.text[0] = 0;
    if (vram_cuda_pool_init(&torch_pool[device], &torch_api, &o, torch_memory(bytes), bytes, &err))
      torch_say("no pool", err.text);
    torch_pool[device].pool.as.kind = VRAM_CUDA_DEVICE;
    __atomic_store_n(&torch_state[device], torch_pool[device].lock ? 1 : -1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&torch_lock);
  return torch_state[device] == 1 ? &torch_pool[device] : NULL;
}

/* The owner's name, in the section if there is one. */
static const char *torch_name(void) {
  static const char *name;
  if (!name)
    name = text_of_section("PyTorch");
  return name;
}

/* What was had without the pool: more streams or blocks than it has room for. */
enum { TORCH_OUTSIDE = 4096 };
static void *torch_outside[TORCH_OUTSIDE];

/* A place that holds `was` holds `now`; 0: there is none. */
static int torch_swap(const void *was, void *now) {
  int i, done = 0;
  pthread_mutex_lock(&torch_lock);
  for (i = 0; i < TORCH_OUTSIDE && !done; i++)
    if (torch_outside[i] == was)
      torch_outside[i] = now, done = 1;
  pthread_mutex_unlock(&torch_lock);
  return done;
}

/* There is no memory: what was kept is the report, and the text of an error that goes to whoever
   asked. Where none can be raised it is said on standard error, and NULL is given. */
static void *torch_none(size_t size) {
  char text[TOLD];
  uint32_t n = take_told(text);
  if (!n)
    snprintf(text, sizeof text, "CUDA out of memory. Tried to allocate %zu bytes.", size);
  for (; n && text[n - 1] == '\n'; n--)
    text[n - 1] = 0;
  set_report(text);
  raise_error(text, 1);
  fprintf(stderr, "%s\n", text);
  return NULL;
}

/* Something else than memory is missing: whoever asks for less would not get it, either. */
static void *torch_unable(int device) {
  char text[128];
  snprintf(text, sizeof text, "vram: no pool on device %d: it cannot be made, or not after a fork",
           device);
  raise_error(text, 0);
  fprintf(stderr, "%s\n", text);
  return NULL;
}

/* Raises PyTorch's error of too little memory, if there is a PyTorch; else NULL. */
EXPORT void *vram_torch_malloc(size_t size, int device, void *stream);
EXPORT void *vram_torch_malloc(size_t size, int device, void *stream) {
  vram_cuda_pool *p;
  void *at = NULL;
  int result = VRAM_ERR_UNSUPPORTED;
  if (!size)
    return NULL;
  inside++; /* what the pool asks for is counted by the pool */
  p = torch_pool_of(device);
  keep_told(1);
  if (track()) /* its texts are in the section */
    vram_cuda_tag_push(tag_here());
  if (p)
    result = vram_cuda_pool_alloc_at(p, torch_name(), 0, NULL, &at, size, stream);
  if (result == VRAM_ERR_LIMIT && !torch_api.cuda_Malloc(&at, size) && !torch_swap(NULL, at)) {
    (void)torch_api.cuda_Free(at);
    at = NULL;
  }
  if (track())
    vram_cuda_tag_pop();
  keep_told(0);
  inside--;
  if (!at && result == VRAM_ERR_UNSUPPORTED)
    return torch_unable(device);
  return at ? at : torch_none(size);
}

EXPORT void vram_torch_free(void *ptr, size_t size, int device, void *stream);
EXPORT void vram_torch_free(void *ptr, size_t size, int device, void *stream) {
  vram_cuda_pool *p;
  (void)size;
  (void)stream;
  inside++;
  p = torch_pool_of(device);
  if (p && ptr && vram_cuda_pool_free(p, ptr) == VRAM_ERR_VALUE && torch_swap(ptr, NULL))
    (void)torch_api.cuda_Free(ptr);
  inside--;
}

/* for set_record_stream_fn */
EXPORT void vram_torch_record_stream(void *ptr, void *stream);
EXPORT void vram_torch_record_stream(void *ptr, void *stream) {
  int i;
  inside++;
  for (i = 0; i < TORCH_DEVICES; i++)
    if (torch_state[i] == 1 && !vram_cuda_pool_record_stream(&torch_pool[i], ptr, stream))
      break;
  inside--;
}

/* for set_memory_fraction_fn */
EXPORT void vram_torch_memory_fraction(double fraction, int device);
EXPORT void vram_torch_memory_fraction(double fraction, int device) {
  vram_cuda_pool *p;
  inside++;
  p = torch_pool_of(device);
  if (p && fraction >= 0 && fraction <= 1)
    p->pool.options.limit_bytes = (uint64_t)(fraction * (double)p->options.pool.total_bytes);
  inside--;
}

/* torch.cuda.empty_cache; for set_reset_fn */
EXPORT void vram_torch_empty_cache(void);
EXPORT void vram_torch_empty_cache(void) {
  int i;
  inside++;
  for (i = 0; i < TORCH_DEVICES; i++)
    if (torch_state[i] == 1)
      vram_cuda_pool_empty_cache(&torch_pool[i]);
  inside--;
}

/* torch.cuda.memory_stats()[name], "reserved_bytes.all.peak" for instance; -1: no such name. */
EXPORT long long vram_torch_stat(int device, const char *name);
EXPORT long long vram_torch_stat(int device, const char *name) {
  static const char *const pool[] = {"all", "small_pool", "large_pool"};
  vram_memory_stats m;
  vram_cuda_pool *p;
  char text[80];
  int i;
  inside++;
  p = torch_pool_of(device);
  memset(&m, 0, sizeof m);
  if (p)
    vram_cuda_pool_stats(p, &m);
  inside--;
#define FIELD(stat, part)                                                                          \
  snprintf(text, sizeof text, #stat ".%s." #part, pool[i]);                                        \
  if (!strcmp(name, text))                                                                         \
    return (long long)m.stat[i].part;
#define X(stat)                                                                                    \
  for (i = 0; i < 3; i++) {                                                                        \
    FIELD(stat, current)                                                                           \
    FIELD(stat, peak)                                                                              \
    FIELD(stat, allocated)                                                                         \
    FIELD(stat, freed)                                                                             \
  }
  VRAM_STATS(X)
#undef X
#undef FIELD
  if (!strcmp(name, "num_ooms"))
    return (long long)m.num_ooms;
  if (!strcmp(name, "num_alloc_retries"))
    return (long long)m.num_alloc_retries;
  return -1;
}

#endif
