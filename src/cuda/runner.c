/* >>runner (Implementation) -------------------------------------------------------------------- */

VRAM_API uint64_t vram_cuda_runner_bytes(const vram_binding *b) {
  return ((uint64_t)b->noffload + b->nfetch) * sizeof(void *) + sizeof(void *) - 1;
}

/* Copy `copy` begins when the stream has done what it has been given so far. */
static int vram__cuda_copy(vram_cuda_runner *q, uint32_t copy, void *to, const void *from,
                           uint64_t bytes) {
  const int fetch = copy >= q->noffload;
  int r = q->api->cuda_EventRecord(q->ready, q->stream);
  if (!r)
    r = q->api->cuda_StreamWaitEvent(q->copies[fetch], q->ready, 0);
  if (!r) /* cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost */
    r = q->api->cuda_MemcpyAsync(to, from, (size_t)bytes, fetch ? 1 : 2, q->copies[fetch]);
  if (!r)
    r = q->api->cuda_EventRecord(q->event[copy], q->copies[fetch]);
  return r;
}

static int vram__cuda_offload(void *user, uint32_t copy, void *host, const void *device,
                              uint64_t bytes) {
  return vram__cuda_copy((vram_cuda_runner *)user, copy, host, device, bytes);
}

static int vram__cuda_fetch(void *user, uint32_t copy, void *device, const void *host,
                            uint64_t bytes) {
  return vram__cuda_copy((vram_cuda_runner *)user, copy, device, host, bytes);
}

static int vram__cuda_wait(void *user, uint32_t copy, uint32_t next) {
  const vram_cuda_runner *q = (const vram_cuda_runner *)user;
  return q->api->cuda_StreamWaitEvent(
      next == VRAM_NO_COPY ? q->stream : q->copies[next >= q->noffload], q->event[copy], 0);
}

static vram_result vram__cuda_runner_fail(vram_cuda_runner *q, vram_error *err, const char *call,
                                          int gave, uint64_t bytes) {
  char *p, *end;
  vram_cuda_runner_end(q);
  if (err) {
    memset(err, 0, sizeof *err);
    err->code = bytes ? VRAM_ERR_MEMORY : VRAM_ERR_CALL;
    end = err->text + sizeof err->text - 1;
    p = vram__cuda_put(err->text, end, call);
    if (bytes) {
      p = vram__cuda_put(p, end, " of ");
      p = vram__cuda_put_number(p, end, bytes);
      p = vram__cuda_put(p, end, " bytes");
    }
    p = vram__cuda_put(p, end, " gave ");
    p = vram__cuda_put_number(p, end, (uint64_t)gave);
    (void)vram__cuda_put(p, end, " (expected 0)");
  }
  return bytes ? VRAM_ERR_MEMORY : VRAM_ERR_CALL;
}

VRAM_API vram_result vram_cuda_runner_init(vram_cuda_runner *q, const vram_cuda_api *api,
                                           const vram_binding *b, const vram_cuda_runner_options *o,
                                           void *mem, uint64_t bytes, vram_runner *r,
                                           vram_error *err) {
  const uint32_t ncopy = b->noffload + b->nfetch;
  const vram_result result = vram__cuda_api_check(api, err);
  uint32_t i;
  int gave;
  memset(q, 0, sizeof *q);
  q->api = api;
  if (result)
    return result;
  if (!mem || bytes < vram_cuda_runner_bytes(b))
    return vram__cuda_pool_refuse(err, VRAM_ERR_MEMORY,
                                  "the runner's memory is smaller than vram_cuda_runner_bytes");
  if (!api->cuda_StreamCreateWithFlags || !api->cuda_StreamDestroy ||
      !api->cuda_StreamSynchronize || !api->cuda_StreamWaitEvent || !api->cuda_MemcpyAsync ||
      !api->cuda_EventCreateWithFlags || !api->cuda_EventRecord || !api->cuda_EventDestroy ||
      !api->cuda_MallocHost || !api->cuda_FreeHost)
    return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED,
                                  "this CUDA lacks functions of streams, events or pinned memory");
  q->stream = o ? o->stream : NULL;
  q->arena = o ? o->arena : NULL;
  q->host = o ? o->host : NULL;
  q->noffload = b->noffload;
  q->event = (void **)(void *)((char *)mem +
                               (sizeof(void *) - (uintptr_t)mem % sizeof(void *)) % sizeof(void *));
  if (!q->arena && b->arena_bytes) {
    gave = api->cuda_Malloc(&q->own_arena, (size_t)b->arena_bytes);
    if (gave)
      return vram__cuda_runner_fail(q, err, "cudaMalloc", gave, b->arena_bytes);
    q->arena = q->own_arena;
  }
  if (!q->host && b->host_bytes) {
    gave = api->cuda_MallocHost(&q->own_host, (size_t)b->host_bytes);
    if (gave)
      return vram__cuda_runner_fail(q, err, "cudaMallocHost", gave, b->host_bytes);
    q->host = q->own_host;
  }
  for (i = 0; i < 2 && ncopy; i++) { /* cudaStreamNonBlocking */
    gave = api->cuda_StreamCreateWithFlags(&q->copies[i], 1);
    if (gave) {
      q->copies[i] = NULL;
      return vram__cuda_runner_fail(q, err, "cudaStreamCreateWithFlags", gave, 0);
    }
  }
  for (i = 0; i <= ncopy && ncopy; i++) { /* cudaEventDisableTiming */
    void *event = NULL;
    gave = api->cuda_EventCreateWithFlags(&event, 2);
    if (gave)
      return vram__cuda_runner_fail(q, err, "cudaEventCreateWithFlags", gave, 0);
    if (i < ncopy)
      q->event[q->nevent++] = event;
    else
      q->ready = event;
  }
  r->stream = q->stream;
  r->offload = ncopy ? vram__cuda_offload : NULL;
  r->fetch = ncopy ? vram__cuda_fetch : NULL;
  r->wait = ncopy ? vram__cuda_wait : NULL;
  r->copy_user = q;
  return VRAM_OK;
}

VRAM_API void vram_cuda_runner_end(vram_cuda_runner *q) {
  const vram_cuda_api *api = q->api;
  uint32_t i;
  if (q->ready)
    VRAM__CUDA_GIVE(q, api->cuda_StreamSynchronize(q->stream));
  for (i = 0; i < 2; i++)
    if (q->copies[i]) {
      VRAM__CUDA_GIVE(q, api->cuda_StreamSynchronize(q->copies[i]));
      VRAM__CUDA_GIVE(q, api->cuda_StreamDestroy(q->copies[i]));
    }
  for (i = 0; i < q->nevent; i++)
    VRAM__CUDA_GIVE(q, api->cuda_EventDestroy(q->event[i]));
  if (q->ready)
    VRAM__CUDA_GIVE(q, api->cuda_EventDestroy(q->ready));
  if (q->own_host)
    VRAM__CUDA_GIVE(q, api->cuda_FreeHost(q->own_host));
  if (q->own_arena)
    VRAM__CUDA_GIVE(q, api->cuda_Free(q->own_arena));
  q->own_arena = q->own_host = q->copies[0] = q->copies[1] = q->ready = NULL;
  q->nevent = 0;
}
