/* >>backend (Implementation) ------------------------------------------------------------------- */

static uint64_t vram__cuda_segment(void *user, uint64_t bytes, uint64_t stream) {
  const vram_cuda_pool *p = (const vram_cuda_pool *)user;
  void *segment = NULL;
  const int was = bytes > SIZE_MAX ? -2 : vram__cuda_device_set(p->api, p->options.device);
  int r;
  if (was == -2)
    return 0;
  r = p->options.source == VRAM_CUDA_FROM_ASYNC
          ? p->api->cuda_MallocAsync(&segment, (size_t)bytes, (void *)(uintptr_t)stream)
          : p->api->cuda_Malloc(&segment, (size_t)bytes);
  if (r == VRAM__CUDA_NO_MEMORY && p->api->cuda_GetLastError)
    (void)p->api->cuda_GetLastError(); /* the program is not to find it */
  vram__cuda_device_back(p->api, was);
  return r ? 0 : (uint64_t)(uintptr_t)segment;
}

/* a call that gives back is tried twice */
#define VRAM__CUDA_GIVE(p, call) ((p)->failures += VRAM__CUDA_TWICE(call) != 0)

static void vram__cuda_segment_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  void *segment = (void *)(uintptr_t)address, *on = (void *)(uintptr_t)stream;
  int was = vram__cuda_device_set(p->api, p->options.device);
  (void)bytes;
  if (p->options.source == VRAM_CUDA_FROM_ASYNC)
    VRAM__CUDA_GIVE(p, p->api->cuda_FreeAsync(segment, on));
  else
    VRAM__CUDA_GIVE(p, p->api->cuda_Free(segment));
  vram__cuda_device_back(p->api, was);
}

static vram_cuda_prop vram__cuda_prop(uint32_t device) {
  vram_cuda_prop prop;
  memset(&prop, 0, sizeof prop);
  prop.type = 1; /* pinned, on a device */
  prop.location_type = 1;
  prop.location_id = (int)device;
  return prop;
}

static uint64_t vram__cuda_reserve(void *user, uint64_t bytes) {
  const vram_cuda_pool *p = (const vram_cuda_pool *)user;
  unsigned long long at = 0;
  return bytes > SIZE_MAX || p->api->cu_MemAddressReserve(&at, (size_t)bytes, 0, 0, 0) ? 0 : at;
}

static void vram__cuda_unreserve(void *user, uint64_t address, uint64_t bytes) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  VRAM__CUDA_GIVE(p, p->api->cu_MemAddressFree(address, (size_t)bytes));
}

static void vram__cuda_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  (void)granule;
  VRAM__CUDA_GIVE(p, p->api->cu_MemUnmap(address, (size_t)bytes));
}

/* A handle is released as soon as it is mapped: its memory lives until the unmap. */
static int vram__cuda_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  const vram_cuda_prop prop = vram__cuda_prop(p->options.device);
  vram_cuda_access access;
  unsigned long long handle;
  uint64_t done;
  int failed = 0;
  for (done = 0; done < bytes && !failed; done += failed ? 0 : granule) {
    failed = p->api->cu_MemCreate(&handle, (size_t)granule, &prop, 0);
    if (failed)
      break;
    failed = p->api->cu_MemMap(address + done, (size_t)granule, 0, handle, 0);
    VRAM__CUDA_GIVE(p, p->api->cu_MemRelease(handle));
  }
  access.location_type = 1;
  access.location_id = (int)p->options.device;
  access.flags = 3; /* read and write */
  if (!failed)
    failed = p->api->cu_MemSetAccess(address, (size_t)bytes, &access, 1);
  if (failed && done)
    vram__cuda_unmap(user, address, done, granule);
  return !failed;
}

static void vram__cuda_event_keep(vram_cuda_pool *p, void *event) {
  if (p->nevent < VRAM_CUDA_EVENTS)
    p->event[p->nevent++] = event;
  else
    VRAM__CUDA_GIVE(p, p->api->cuda_EventDestroy(event));
}

static uint64_t vram__cuda_record(void *user, uint64_t stream) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  void *event = NULL;
  int was = vram__cuda_device_set(p->api, p->options.device), failed = was == -2;
  if (failed)
    return 0;
  if (p->nevent)
    event = p->event[--p->nevent];
  else
    failed = p->api->cuda_EventCreateWithFlags(&event, 2); /* without times */
  if (!failed && p->api->cuda_EventRecord(event, (void *)(uintptr_t)stream)) {
    vram__cuda_event_keep(p, event);
    failed = 1;
  }
  vram__cuda_device_back(p->api, was);
  return failed ? 0 : (uint64_t)(uintptr_t)event;
}

/* An event that cannot be asked is not done; one that cannot be waited for twice is given up: the
   device has failed. */
static int vram__cuda_done(void *user, uint64_t of, int wait) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  void *event = (void *)(uintptr_t)of;
  if (wait)
    VRAM__CUDA_GIVE(p, p->api->cuda_EventSynchronize(event));
  else if (p->api->cuda_EventQuery(event)) {
    if (p->api->cuda_GetLastError)
      (void)p->api->cuda_GetLastError();
    return 0;
  }
  vram__cuda_event_keep(p, event);
  return 1;
}

static void vram__cuda_pool_event(void *user, const vram_event *e) {
  vram_cuda_pool *p = (vram_cuda_pool *)user;
  if (e->action == VRAM_ACTION_OOM)
    p->asked = e->bytes;
  if (vram__cuda_open(p->options.tracker))
    vram_ledger_event(&p->options.tracker->ledger, e);
}

#define VRAM__CUDA_MUTEX ((sizeof(pthread_mutex_t) + 15) / 16 * 16)
#define VRAM__CUDA_BLOCKS 16384

VRAM_API uint64_t vram_cuda_pool_bytes(const vram_cuda_pool_options *o) {
  const uint32_t blocks = o && o->blocks ? o->blocks : VRAM__CUDA_BLOCKS;
  return VRAM__CUDA_MUTEX + vram_pool_bytes(blocks, o ? o->pool.streams : 0);
}

static vram_result vram__cuda_pool_refuse(vram_error *err, vram_result code, const char *text) {
  if (err) {
    memset(err, 0, sizeof *err);
    err->code = code;
    vram__cuda_put(err->text, err->text + sizeof err->text - 1, text);
  }
  return code;
}

VRAM_API vram_result vram_cuda_pool_init(vram_cuda_pool *p, const vram_cuda_api *api,
                                         const vram_cuda_pool_options *o, void *mem, uint64_t bytes,
                                         vram_error *err) {
  vram_cuda_prop prop;
  vram_backend backend = VRAM_ZERO_INIT;
  vram_result result;
  size_t left = 0, total = 0, granularity = 0;
  void *pool = NULL;
  int was, failed;
  memset(p, 0, sizeof *p);
  if (o)
    p->options = *o;
  p->options.blocks = p->options.blocks ? p->options.blocks : VRAM__CUDA_BLOCKS;
  p->api = api;
  p->process = vram__cuda_process;
  if (!mem || bytes < vram_cuda_pool_bytes(o))
    return vram__cuda_pool_refuse(err, VRAM_ERR_MEMORY,
                                  "the pool's memory is smaller than vram_cuda_pool_bytes");
  result = vram__cuda_api_check(api, err);
  if (result)
    return result;
  if (!api->cuda_GetDevice || !api->cuda_SetDevice || !api->cuda_MemGetInfo)
    return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED, "this CUDA has no cudaSetDevice");
  if (p->options.source == VRAM_CUDA_FROM_ASYNC && (!api->cuda_MallocAsync || !api->cuda_FreeAsync))
    return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED,
                                  "this CUDA has no cudaMallocAsync (it came with 11.2)");
  if (p->options.device >= (uint32_t)api->devices)
    return vram__cuda_pool_refuse(err, VRAM_ERR_VALUE, "no such device");
  was = vram__cuda_device_set(api, p->options.device);
  failed = was == -2 || api->cuda_MemGetInfo(&left, &total);
  vram__cuda_device_back(p->api, was);
  if (failed)
    return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED, "cudaMemGetInfo does not answer");
  if (p->options.release_threshold &&
      (!api->cuda_DeviceGetMemPool || !api->cuda_MemPoolSetAttribute ||
       api->cuda_DeviceGetMemPool(&pool, (int)p->options.device) ||
       api->cuda_MemPoolSetAttribute(pool, 4, &p->options.release_threshold)))
    return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED,
                                  "the release threshold of the memory pool cannot be set");
  backend.alloc = vram__cuda_segment;
  backend.free = vram__cuda_segment_free;
  if (p->options.pool.expandable_segments) {
    prop = vram__cuda_prop(p->options.device);
    if (!api->cu_MemCreate || !api->cu_MemRelease || !api->cu_MemMap || !api->cu_MemUnmap ||
        !api->cu_MemSetAccess || !api->cu_MemAddressReserve || !api->cu_MemAddressFree ||
        !api->cu_MemGetAllocationGranularity ||
        api->cu_MemGetAllocationGranularity(&granularity, &prop, 0) || !granularity ||
        2097152 % granularity)
      return vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED,
                                    "expandable segments: this CUDA cannot map 2 MiB of memory");
    backend.reserve = vram__cuda_reserve;
    backend.unreserve = vram__cuda_unreserve;
    backend.map = vram__cuda_map;
    backend.unmap = vram__cuda_unmap;
  }
  if (api->cuda_EventCreateWithFlags && api->cuda_EventRecord && api->cuda_EventQuery &&
      api->cuda_EventSynchronize && api->cuda_EventDestroy) {
    backend.record = vram__cuda_record;
    backend.done = vram__cuda_done;
  }
  backend.user = p;
  p->options.pool.total_bytes = total;
  p->options.pool.device = (uint8_t)p->options.device;
  p->options.pool.event = vram__cuda_pool_event;
  p->options.pool.user = p;
  result = vram_pool_init(&p->pool, &p->options.pool, &backend, (char *)mem + VRAM__CUDA_MUTEX,
                          bytes - VRAM__CUDA_MUTEX, err);
  if (!result && pthread_mutex_init((pthread_mutex_t *)mem, NULL))
    result = vram__cuda_pool_refuse(err, VRAM_ERR_UNSUPPORTED, "no mutex can be had");
  if (!result)
    p->lock = mem;
  return result;
}

/* 0: it may be used */
static int vram__cuda_pool_lock(vram_cuda_pool *p) {
  return p->process != vram__cuda_process || !p->lock ||
         pthread_mutex_lock((pthread_mutex_t *)p->lock);
}

static void vram__cuda_pool_unlock(vram_cuda_pool *p) {
  (void)pthread_mutex_unlock((pthread_mutex_t *)p->lock);
}

/* The ledger has the event from the pool; the device is asked before the pool is locked. */
static void vram__cuda_pool_report(vram_cuda_pool *p, uint64_t bytes, uint64_t segment,
                                   uint64_t stream, uint32_t owner) {
  vram_cuda_tracker *t = p->options.tracker;
  vram_cuda_view view;
  vram_sink sink;
  vram_oom o;
  if (!vram__cuda_open(t) || t->options.quiet)
    return;
  sink = vram__cuda_sink(t);
  o = vram__cuda_oom(t, &view, p->options.device, bytes, stream, owner);
  o.call = p->pool.options.expandable_segments         ? "cuMemCreate"
           : p->options.source == VRAM_CUDA_FROM_ASYNC ? "cudaMallocAsync"
                                                       : "cudaMalloc";
  o.device_bytes = segment;
  o.limit_bytes = p->pool.options.limit_bytes;
  o.pool = &p->pool;
  if (vram__cuda_pool_lock(p))
    return;
  (void)vram_write_oom(&t->ledger, &o, &sink);
  vram__cuda_pool_unlock(p);
}

VRAM_API vram_result vram_cuda_pool_alloc_at(vram_cuda_pool *p, const char *file, uint32_t line,
                                             const char *function, void **ptr, uint64_t bytes,
                                             void *stream) {
  const uint32_t d = vram__cuda_top();
  uint64_t address = 0, segment;
  uint32_t owner;
  vram_result result;
  if (p->process != vram__cuda_process)
    return VRAM_ERR_UNSUPPORTED;
  owner = vram_cuda_site(p->options.tracker, file, line, function);
  if (vram__cuda_pool_lock(p))
    return VRAM_ERR_UNSUPPORTED;
  p->pool.as.owner = owner;
  p->pool.as.category = d ? (vram_category)vram__cuda_thread.category[d - 1] : VRAM_CATEGORY_OTHER;
  p->asked = 0;
  result = vram_pool_alloc(&p->pool, bytes, (uint64_t)(uintptr_t)stream, &address);
  segment = p->asked;
  vram__cuda_pool_unlock(p);
  if (!result)
    *ptr = (void *)(uintptr_t)address;
  else if (result == VRAM_ERR_MEMORY)
    vram__cuda_pool_report(p, bytes, segment, (uint64_t)(uintptr_t)stream, owner);
  return result;
}

VRAM_API vram_result vram_cuda_pool_free(vram_cuda_pool *p, void *ptr) {
  vram_result result;
  if (!ptr)
    return VRAM_OK;
  if (vram__cuda_pool_lock(p))
    return VRAM_ERR_UNSUPPORTED;
  result = vram_pool_free(&p->pool, (uint64_t)(uintptr_t)ptr);
  vram__cuda_pool_unlock(p);
  return result;
}

VRAM_API vram_result vram_cuda_pool_record_stream(vram_cuda_pool *p, void *ptr, void *stream) {
  vram_result result;
  if (vram__cuda_pool_lock(p))
    return VRAM_ERR_UNSUPPORTED;
  result = vram_pool_record_stream(&p->pool, (uint64_t)(uintptr_t)ptr, (uint64_t)(uintptr_t)stream);
  vram__cuda_pool_unlock(p);
  return result;
}

VRAM_API void vram_cuda_pool_empty_cache(vram_cuda_pool *p) {
  if (vram__cuda_pool_lock(p))
    return;
  vram_pool_empty_cache(&p->pool);
  vram__cuda_pool_unlock(p);
}

VRAM_API void vram_cuda_pool_stats(vram_cuda_pool *p, vram_memory_stats *stats) {
  memset(stats, 0, sizeof *stats);
  if (vram__cuda_pool_lock(p))
    return;
  *stats = p->pool.stats;
  vram__cuda_pool_unlock(p);
}

VRAM_API uint64_t vram_cuda_pool_end(vram_cuda_pool *p) {
  uint64_t left;
  if (vram__cuda_pool_lock(p))
    return 0;
  vram_pool_empty_cache(&p->pool);
  while (p->nevent) {
    void *event = p->event[--p->nevent];
    VRAM__CUDA_GIVE(p, p->api->cuda_EventDestroy(event));
  }
  left = p->pool.stats.active_bytes[VRAM_POOL_ALL].current;
  vram__cuda_pool_unlock(p);
  (void)pthread_mutex_destroy((pthread_mutex_t *)p->lock);
  p->lock = NULL;
  return left;
}
