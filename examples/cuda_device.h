/* For examples on machines without a GPU: a pretended device of 64 MiB behind the few functions
   that they call. Returns 1 and says so if there is no device; else nothing changes. */
#include <stdio.h>
#include <stdlib.h>

#define PRETENDED (UINT64_C(64) << 20)
static uint64_t pretended_used;

static int pretended_malloc(void **p, size_t n) {
  char *m;
  if (n > PRETENDED - pretended_used)
    return 2; /* cudaErrorMemoryAllocation */
  m = (char *)malloc(n + 512);
  if (!m)
    return 2;
  pretended_used += n;
  *p = m + 512 - (uintptr_t)m % 512;
  ((void **)*p)[-1] = m;
  ((size_t *)*p)[-2] = n;
  return 0;
}

static int pretended_free(void *p) {
  if (!p)
    return 0;
  pretended_used -= ((size_t *)p)[-2];
  free(((void **)p)[-1]);
  return 0;
}

static int pretended_device(int *d) {
  *d = 0;
  return 0;
}
static int pretended_set(int d) { return d != 0; }
static int pretended_info(size_t *left, size_t *total) {
  *total = (size_t)PRETENDED;
  *left = (size_t)(PRETENDED - pretended_used);
  return 0;
}

/* streams on which everything is over at once */
static int pretended_stream(void **stream, unsigned flags) {
  *stream = flags ? stream : NULL;
  return 0;
}
static int pretended_event(void *event) { return event == NULL; }
static int pretended_done(void *stream) { return (void)stream, 0; }
static int pretended_record(void *event, void *stream) {
  (void)stream;
  return event == NULL;
}
static int pretended_wait(void *stream, void *event, unsigned flags) {
  (void)stream, (void)flags;
  return event == NULL;
}
static int pretended_copy(void *to, const void *from, size_t n, int kind, void *stream) {
  (void)kind, (void)stream;
  memcpy(to, from, n);
  return 0;
}
static int pretended_pinned(void **p, size_t n) {
  *p = malloc(n);
  return *p ? 0 : 2;
}
static int pretended_unpin(void *p) {
  free(p);
  return 0;
}

/* why NULL: only if there is no device */
static int pretend(vram_cuda_api *api, const char *why) {
  vram_error e;
  if (!why && vram_cuda_api_linked(api, &e) == VRAM_OK)
    return 0;
  why = why ? why : e.text;
  printf("no CUDA device (%s): a pretended one of 64 MiB\n", why);
  (void)fflush(stdout);
  memset(api, 0, sizeof *api);
  api->cuda_Malloc = pretended_malloc;
  api->cuda_Free = pretended_free;
  api->cuda_GetDevice = pretended_device;
  api->cuda_SetDevice = pretended_set;
  api->cuda_MemGetInfo = pretended_info;
  api->cuda_MallocHost = pretended_pinned;
  api->cuda_FreeHost = pretended_unpin;
  api->cuda_StreamCreateWithFlags = pretended_stream;
  api->cuda_StreamDestroy = pretended_done;
  api->cuda_StreamSynchronize = pretended_done;
  api->cuda_StreamWaitEvent = pretended_wait;
  api->cuda_MemcpyAsync = pretended_copy;
  api->cuda_EventCreateWithFlags = pretended_stream;
  api->cuda_EventRecord = pretended_record;
  api->cuda_EventDestroy = pretended_event;
  api->runtime_version = api->driver_version = 13000;
  api->devices = 1;
  return 1;
}
