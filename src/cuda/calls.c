/* >>calls (Implementation) --------------------------------------------------------------------- */

#ifndef VRAM_CUDA_LIVE
#define VRAM_CUDA_LIVE 32768
#endif
#ifndef VRAM_CUDA_OWNERS
#define VRAM_CUDA_OWNERS 1023
#endif
#ifndef VRAM_CUDA_TRACE
#define VRAM_CUDA_TRACE 0
#endif

static vram_cuda_api vram__cuda_api;
static vram_cuda_tracker vram__cuda_tracker;
static uint32_t vram__cuda_begun; /* 1: somebody begins it, 2: it is there */

static int vram__cuda_begin(const vram_cuda_api *api) {
  static vram_cuda_options o;
  uint32_t zero = 0;
  uint64_t n;
  void *memory;
  if (__atomic_load_n(&vram__cuda_begun, __ATOMIC_ACQUIRE) == 2)
    return 0;
  if (!__atomic_compare_exchange_n(&vram__cuda_begun, &zero, 1, 0, __ATOMIC_ACQUIRE,
                                   __ATOMIC_ACQUIRE)) {
    while (__atomic_load_n(&vram__cuda_begun, __ATOMIC_ACQUIRE) != 2)
      sched_yield();
    return 0;
  }
  if (api)
    vram__cuda_api = *api;
  else
    (void)vram_cuda_api_linked(&vram__cuda_api, NULL);
  o.ledger.live = VRAM_CUDA_LIVE;
  o.ledger.owners = VRAM_CUDA_OWNERS;
  o.ledger.groups = VRAM_CUDA_LIVE;
  o.ledger.trace = VRAM_CUDA_TRACE;
  n = vram_cuda_tracker_bytes(&o);
#ifdef VRAM_CUDA_MEMORY
  memory = VRAM_CUDA_MEMORY((size_t)n);
#else
  { /* what is never touched costs nothing */
    static uint64_t room[60000 + UINT64_C(48) * VRAM_CUDA_LIVE + UINT64_C(32) * VRAM_CUDA_OWNERS +
                         UINT64_C(24) * VRAM_CUDA_TRACE];
    memory = room;
    n = n < sizeof room ? n : sizeof room;
  }
#endif
  (void)vram_cuda_tracker_init(&vram__cuda_tracker, &vram__cuda_api, &o, memory, memory ? n : 0,
                               NULL);
  __atomic_store_n(&vram__cuda_begun, 2, __ATOMIC_RELEASE);
  return 1;
}

VRAM_API int vram_cuda_use(const vram_cuda_api *api) { return vram__cuda_begin(api); }

VRAM_API vram_cuda_tracker *vram_cuda_default(void) {
  (void)vram__cuda_begin(NULL);
  return &vram__cuda_tracker;
}

static vram_cuda_tracker *vram__cuda_of(vram_cuda_tracker *t) {
  return t ? t : vram_cuda_default();
}

VRAM_API vram_result vram_cuda_check(vram_cuda_tracker *t, vram_error *err) {
  return vram__cuda_api_check(vram__cuda_of(t)->api, err);
}

#define VRAM__CUDA_NO_DRIVER 35 /* cudaErrorInsufficientDriver */
#define VRAM__CU_NO_DEVICE 100
#define VRAM__CUDA_NOT_SUPPORTED 801
#define VRAM__CUDA_NO_MEMORY 2 /* of both APIs */

static int vram__cuda_missing(const vram_cuda_api *api) {
  return api->cuda_Malloc ? VRAM__CUDA_NOT_SUPPORTED : VRAM__CUDA_NO_DRIVER;
}

static int vram__cu_missing(const vram_cuda_api *api) {
  return api->cu_MemAlloc || api->cu_MemGetInfo ? VRAM__CUDA_NOT_SUPPORTED : VRAM__CU_NO_DEVICE;
}

static uint32_t vram__cuda_device(const vram_cuda_api *api) {
  int d = 0;
  if (!api->cuda_GetDevice || VRAM__CUDA_TWICE(api->cuda_GetDevice(&d)))
    d = 0;
  return d > 0 && d < (int)VRAM_DEVICE_HOST ? (uint32_t)d : 0;
}

/* after a call that allocates */
static int vram__cuda_allocated(VRAM_CUDA_SITE, int result, vram_cuda_kind kind, const void *p,
                                uint64_t bytes, uint64_t block_bytes) {
  if ((result && result != VRAM__CUDA_NO_MEMORY) || !vram__cuda_open(t))
    return result;
  if (result)
    vram_cuda_on_oom(t, kind,
                     kind == VRAM_CUDA_PINNED || kind == VRAM_CUDA_REGISTERED
                         ? VRAM_DEVICE_HOST
                         : vram__cuda_device(t->api),
                     bytes, 0, vram_cuda_site(t, file, line, function));
  else
    vram_cuda_on_alloc(t, kind, vram__cuda_device(t->api), (uint64_t)(uintptr_t)p, bytes,
                       block_bytes, vram_cuda_site(t, file, line, function));
  return result;
}

/* t->api's function, or return that it is missing */
#define VRAM__CUDA_NEEDS(name)                                                                     \
  t = vram__cuda_of(t);                                                                            \
  if (!t->api->name)                                                                               \
  return vram__cuda_missing(t->api)
#define VRAM__CU_NEEDS(name)                                                                       \
  t = vram__cuda_of(t);                                                                            \
  if (!t->api->name)                                                                               \
  return vram__cu_missing(t->api)
VRAM_API int vram_cudaMalloc_at(VRAM_CUDA_SITE, void **p, size_t n) {
  int r;
  VRAM__CUDA_NEEDS(cuda_Malloc);
  r = t->api->cuda_Malloc(p, n);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_DEVICE, r ? NULL : *p, n, 0);
}

VRAM_API int vram_cudaMallocPitch_at(VRAM_CUDA_SITE, void **p, size_t *pitch, size_t width,
                                     size_t height) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocPitch);
  r = t->api->cuda_MallocPitch(p, pitch, width, height);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_PITCH, r ? NULL : *p,
                              (uint64_t)width * height, r ? 0 : (uint64_t)*pitch * height);
}

VRAM_API int vram_cudaMalloc3D_at(VRAM_CUDA_SITE, vram_cuda_pitched *p, vram_cuda_extent extent) {
  uint64_t rows = (uint64_t)extent.height * extent.depth;
  int r;
  VRAM__CUDA_NEEDS(cuda_Malloc3D);
  r = t->api->cuda_Malloc3D(p, extent);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_PITCH, r ? NULL : p->ptr,
                              extent.width * rows, r ? 0 : p->pitch * rows);
}

/* Bytes of an array: 4x4 blocks of the compressed formats, else texels; an extent of 0 is none. */
static uint64_t vram__cuda_array_bytes(const vram_cuda_channel *c, uint64_t width, uint64_t height,
                                       uint64_t depth) {
  uint64_t bits;
  height = height ? height : 1;
  depth = depth ? depth : 1;
  if (!c)
    return 0;
  bits = (uint64_t)((int64_t)c->x + c->y + c->z + c->w);
  if (c->format >= 17 && c->format <= 30) /* cudaChannelFormatKindUnsignedBlockCompressed1 ... 7 */
    return (width + 3) / 4 * ((height + 3) / 4) * depth *
           (c->format <= 18 || c->format == 23 || c->format == 24 ? 8 : 16);
  return (width * height * depth * bits + 7) / 8;
}

VRAM_API int vram_cudaMallocArray_at(VRAM_CUDA_SITE, void **array, const vram_cuda_channel *channel,
                                     size_t width, size_t height, unsigned flags) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocArray);
  r = t->api->cuda_MallocArray(array, channel, width, height, flags);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_ARRAY, r ? NULL : *array,
                              vram__cuda_array_bytes(channel, width, height, 0), 0);
}

VRAM_API int vram_cudaMalloc3DArray_at(VRAM_CUDA_SITE, void **array,
                                       const vram_cuda_channel *channel, vram_cuda_extent extent,
                                       unsigned flags) {
  int r;
  VRAM__CUDA_NEEDS(cuda_Malloc3DArray);
  r = t->api->cuda_Malloc3DArray(array, channel, extent, flags);
  return vram__cuda_allocated(
      VRAM__SITE, r, VRAM_CUDA_ARRAY, r ? NULL : *array,
      vram__cuda_array_bytes(channel, extent.width, extent.height, extent.depth), 0);
}

VRAM_API int vram_cudaMallocMipmappedArray_at(VRAM_CUDA_SITE, void **array,
                                              const vram_cuda_channel *channel,
                                              vram_cuda_extent extent, unsigned levels,
                                              unsigned flags) {
  const int layered = (flags & 5) != 0; /* layers and faces of cubes do not become fewer */
  uint64_t bytes = 0, w = extent.width, h = extent.height, d = extent.depth;
  unsigned i;
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocMipmappedArray);
  r = t->api->cuda_MallocMipmappedArray(array, channel, extent, levels, flags);
  for (i = 0; i < levels && i < 32; i++) {
    bytes += vram__cuda_array_bytes(channel, w, h, d);
    w = w > 1 ? w / 2 : w;
    h = h > 1 ? h / 2 : h;
    d = d > 1 && !layered ? d / 2 : d;
  }
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_ARRAY, r ? NULL : *array, bytes, 0);
}

VRAM_API int vram_cudaMallocManaged_at(VRAM_CUDA_SITE, void **p, size_t n, unsigned flags) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocManaged);
  r = t->api->cuda_MallocManaged(p, n, flags);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_MANAGED, r ? NULL : *p, n, 0);
}

/* after an allocation on a stream; pool NULL: the current one of the device */
static int vram__cuda_allocated_async(VRAM_CUDA_SITE, int result, void *pool, void *stream,
                                      const void *p, uint64_t bytes) {
  uint32_t device;
  if ((result && result != VRAM__CUDA_NO_MEMORY) || !vram__cuda_open(t))
    return result;
  device = vram__cuda_device(t->api);
  if (result)
    vram_cuda_on_oom(t, VRAM_CUDA_ASYNC, device, bytes, (uint64_t)(uintptr_t)stream,
                     vram_cuda_site(t, file, line, function));
  else if (vram_cuda_capturing(t->api, stream))
    vram_cuda_on_graph(t, bytes);
  else {
    if (!pool && (!t->api->cuda_DeviceGetMemPool ||
                  VRAM__CUDA_TWICE(t->api->cuda_DeviceGetMemPool(&pool, (int)device))))
      pool = NULL;
    vram_cuda_on_pool_alloc(t, (uint64_t)(uintptr_t)pool, device, (uint64_t)(uintptr_t)stream,
                            (uint64_t)(uintptr_t)p, bytes, vram_cuda_site(t, file, line, function));
  }
  return result;
}

VRAM_API int vram_cudaMallocAsync_at(VRAM_CUDA_SITE, void **p, size_t n, void *stream) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocAsync);
  r = t->api->cuda_MallocAsync(p, n, stream);
  return vram__cuda_allocated_async(VRAM__SITE, r, NULL, stream, r ? NULL : *p, n);
}

VRAM_API int vram_cudaMallocFromPoolAsync_at(VRAM_CUDA_SITE, void **p, size_t n, void *pool,
                                             void *stream) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocFromPoolAsync);
  r = t->api->cuda_MallocFromPoolAsync(p, n, pool, stream);
  return vram__cuda_allocated_async(VRAM__SITE, r, pool, stream, r ? NULL : *p, n);
}

VRAM_API int vram_cudaMallocHost_at(VRAM_CUDA_SITE, void **p, size_t n) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MallocHost);
  r = t->api->cuda_MallocHost(p, n);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_PINNED, r ? NULL : *p, n, 0);
}

VRAM_API int vram_cudaHostAlloc_at(VRAM_CUDA_SITE, void **p, size_t n, unsigned flags) {
  int r;
  VRAM__CUDA_NEEDS(cuda_HostAlloc);
  r = t->api->cuda_HostAlloc(p, n, flags);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_PINNED, r ? NULL : *p, n, 0);
}

VRAM_API int vram_cudaHostRegister_at(VRAM_CUDA_SITE, void *p, size_t n, unsigned flags) {
  int r;
  VRAM__CUDA_NEEDS(cuda_HostRegister);
  r = t->api->cuda_HostRegister(p, n, flags);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_REGISTERED, p, n, 0);
}

/* memory is given back, or CUDA itself is: 4, cudaErrorCudartUnloading, at the process's end */
#define VRAM__CUDA_GONE_BY(result) ((result) == 0 || (result) == 4)

/* calls that give back: before, CUDA's answer, after */
#define VRAM__CUDA_FREES(name, call, address)                                                      \
  vram_cuda_record was;                                                                            \
  int known, r;                                                                                    \
  name;                                                                                            \
  known = vram_cuda_on_free(t, (uint64_t)(uintptr_t)(address), &was);                              \
  r = t->api->call;                                                                                \
  if (known)                                                                                       \
    vram_cuda_on_freed(t, &was, VRAM__CUDA_GONE_BY(r));                                            \
  return r

VRAM_API int vram_cudaFree_in(vram_cuda_tracker *t, void *p) {
  VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_Free), cuda_Free(p), p);
}

VRAM_API int vram_cudaFreeAsync_in(vram_cuda_tracker *t, void *p, void *stream) {
  t = vram__cuda_of(t);
  if (t->api->cuda_FreeAsync && vram_cuda_capturing(t->api, stream))
    return t->api->cuda_FreeAsync(p, stream); /* a node of a graph */
  { VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_FreeAsync), cuda_FreeAsync(p, stream), p); }
}

VRAM_API int vram_cudaFreeArray_in(vram_cuda_tracker *t, void *array) {
  VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_FreeArray), cuda_FreeArray(array), array);
}

VRAM_API int vram_cudaFreeMipmappedArray_in(vram_cuda_tracker *t, void *array) {
  VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_FreeMipmappedArray), cuda_FreeMipmappedArray(array),
                   array);
}

VRAM_API int vram_cudaFreeHost_in(vram_cuda_tracker *t, void *p) {
  VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_FreeHost), cuda_FreeHost(p), p);
}

VRAM_API int vram_cudaHostUnregister_in(vram_cuda_tracker *t, void *p) {
  VRAM__CUDA_FREES(VRAM__CUDA_NEEDS(cuda_HostUnregister), cuda_HostUnregister(p), p);
}

VRAM_API int vram_cuMemFree_in(vram_cuda_tracker *t, unsigned long long p) {
  VRAM__CUDA_FREES(VRAM__CU_NEEDS(cu_MemFree), cu_MemFree(p), p);
}

VRAM_API int vram_cuMemAlloc_at(VRAM_CUDA_SITE, unsigned long long *p, size_t n) {
  int r;
  VRAM__CU_NEEDS(cu_MemAlloc);
  r = t->api->cu_MemAlloc(p, n);
  return vram__cuda_allocated(VRAM__SITE, r, VRAM_CUDA_DEVICE,
                              r ? NULL : (const void *)(uintptr_t)*p, n, 0);
}

VRAM_API int vram_cudaIpcOpenMemHandle_at(VRAM_CUDA_SITE, void **p, vram_cuda_ipc handle,
                                          unsigned flags) {
  unsigned long long base = 0;
  size_t n = 0;
  int r;
  (void)file, (void)line, (void)function;
  VRAM__CUDA_NEEDS(cuda_IpcOpenMemHandle);
  r = t->api->cuda_IpcOpenMemHandle(p, handle, flags);
  if (r)
    return r;
  if (!t->api->cu_MemGetAddressRange ||
      VRAM__CUDA_TWICE(t->api->cu_MemGetAddressRange(&base, &n, (unsigned long long)(uintptr_t)*p)))
    n = 0;
  vram_cuda_on_open(t, (uint64_t)(uintptr_t)*p, n);
  return 0;
}

VRAM_API int vram_cudaIpcCloseMemHandle_in(vram_cuda_tracker *t, void *p) {
  uint32_t object;
  int r;
  VRAM__CUDA_NEEDS(cuda_IpcCloseMemHandle);
  object = vram_cuda_on_close(t, (uint64_t)(uintptr_t)p);
  r = t->api->cuda_IpcCloseMemHandle(p);
  vram_cuda_on_closed(t, object, VRAM__CUDA_GONE_BY(r));
  return r;
}

VRAM_API int vram_cudaMemPoolCreate_at(VRAM_CUDA_SITE, void **pool, const void *prop) {
  const vram_cuda_pool_prop *of = (const vram_cuda_pool_prop *)prop;
  int r;
  (void)file, (void)line, (void)function;
  VRAM__CUDA_NEEDS(cuda_MemPoolCreate);
  r = t->api->cuda_MemPoolCreate(pool, prop);
  if (!r)
    vram_cuda_on_pool(t, (uint64_t)(uintptr_t)*pool,
                      of->location_type == 1 ? (uint32_t)of->location_id : VRAM_DEVICE_HOST);
  return r;
}

VRAM_API int vram_cudaMemPoolDestroy_in(vram_cuda_tracker *t, void *pool) {
  int known, r;
  VRAM__CUDA_NEEDS(cuda_MemPoolDestroy);
  known = vram_cuda_on_pool_destroy(t, (uint64_t)(uintptr_t)pool);
  r = t->api->cuda_MemPoolDestroy(pool);
  if (known)
    vram_cuda_on_pool_destroyed(t, (uint64_t)(uintptr_t)pool, VRAM__CUDA_GONE_BY(r));
  return r;
}

VRAM_API int vram_cudaMemPoolTrimTo_in(vram_cuda_tracker *t, void *pool, size_t keep) {
  int r;
  VRAM__CUDA_NEEDS(cuda_MemPoolTrimTo);
  r = t->api->cuda_MemPoolTrimTo(pool, keep);
  if (!r)
    vram_cuda_on_pool_read(t, (uint64_t)(uintptr_t)pool);
  return r;
}

VRAM_API int vram_cudaDeviceReset_in(vram_cuda_tracker *t) {
  uint32_t device;
  int r;
  VRAM__CUDA_NEEDS(cuda_DeviceReset);
  device = vram__cuda_device(t->api);
  r = t->api->cuda_DeviceReset();
  if (!r)
    vram_cuda_on_reset(t, device);
  return r;
}

VRAM_API int vram_cuMemCreate_at(VRAM_CUDA_SITE, unsigned long long *handle, size_t n,
                                 const vram_cuda_prop *prop, unsigned long long flags) {
  uint32_t device;
  int r;
  VRAM__CU_NEEDS(cu_MemCreate);
  r = t->api->cu_MemCreate(handle, n, prop, flags);
  if ((r && r != VRAM__CUDA_NO_MEMORY) || !vram__cuda_open(t))
    return r;
  device = prop->location_type == 1 ? (uint32_t)prop->location_id : VRAM_DEVICE_HOST;
  if (r)
    vram_cuda_on_oom(t, VRAM_CUDA_VMM, device, n, 0, vram_cuda_site(t, file, line, function));
  else
    vram_cuda_on_create(t, *handle, device, n, vram_cuda_site(t, file, line, function));
  return r;
}

VRAM_API int vram_cuMemRelease_in(vram_cuda_tracker *t, unsigned long long handle) {
  uint32_t object;
  int r;
  VRAM__CU_NEEDS(cu_MemRelease);
  object = vram_cuda_on_release(t, handle);
  r = t->api->cu_MemRelease(handle);
  vram_cuda_on_released(t, object, VRAM__CUDA_GONE_BY(r));
  return r;
}

VRAM_API int vram_cuMemRetainAllocationHandle_in(vram_cuda_tracker *t, unsigned long long *handle,
                                                 void *p) {
  int r;
  VRAM__CU_NEEDS(cu_MemRetainAllocationHandle);
  r = t->api->cu_MemRetainAllocationHandle(handle, p);
  if (!r)
    vram_cuda_on_retain(t, *handle, (uint64_t)(uintptr_t)p);
  return r;
}

VRAM_API int vram_cuMemMap_in(vram_cuda_tracker *t, unsigned long long p, size_t n, size_t offset,
                              unsigned long long handle, unsigned long long flags) {
  int r;
  VRAM__CU_NEEDS(cu_MemMap);
  r = t->api->cu_MemMap(p, n, offset, handle, flags);
  if (!r)
    vram_cuda_on_map(t, p, n, handle);
  return r;
}

VRAM_API int vram_cuMemUnmap_in(vram_cuda_tracker *t, unsigned long long p, size_t n) {
  uint32_t unmap;
  int r;
  VRAM__CU_NEEDS(cu_MemUnmap);
  unmap = vram_cuda_on_unmap(t, p, n);
  r = t->api->cu_MemUnmap(p, n);
  vram_cuda_on_unmapped(t, unmap, p, n, VRAM__CUDA_GONE_BY(r));
  return r;
}

/* ---- tags, marks */

VRAM_API void vram_cuda_category_push(vram_category category, const char *tag) {
  vram__cuda_said *s = &vram__cuda_thread;
  if (s->depth < VRAM__CUDA_DEPTH) {
    s->category[s->depth] = (uint8_t)category;
    s->tag[s->depth] = tag;
  }
  s->depth++;
}

VRAM_API void vram_cuda_tag_push(const char *tag) {
  uint32_t d = vram__cuda_top();
  vram_cuda_category_push(
      d ? (vram_category)vram__cuda_thread.category[d - 1] : VRAM_CATEGORY_OTHER, tag);
}

VRAM_API void vram_cuda_tag_pop(void) {
  if (vram__cuda_thread.depth)
    vram__cuda_thread.depth--;
}

#ifndef __cplusplus
VRAM_API int vram__cuda_scope(const char *tag) {
  vram_cuda_tag_push(tag);
  return 1;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): as cleanup wants it */
VRAM_API void vram__cuda_scope_end(int *scope) {
  (void)scope;
  vram_cuda_tag_pop();
}
#endif

static int vram__cuda_to_stderr(void *user, const char *bytes, size_t n) {
  (void)user;
  while (n) {
    ssize_t done = write(2, bytes, n);
    if (done <= 0)
      return 1;
    bytes += done;
    n -= (size_t)done;
  }
  return 0;
}

static vram_sink vram__cuda_sink(const vram_cuda_tracker *t) {
  vram_sink s;
  s.write = vram__cuda_to_stderr;
  s.user = NULL;
  return t->options.log ? *t->options.log : s;
}

#define VRAM__CUDA_CHANGES 64

VRAM_API void vram_cuda_mark_at(VRAM_CUDA_SITE) {
  vram_change list[VRAM__CUDA_CHANGES];
  vram_sink sink;
  t = vram__cuda_of(t);
  if (!vram__cuda_open(t))
    return;
  sink = vram__cuda_sink(t);
  vram_cuda_on_pool_read(t, 0);
  (void)vram_write_log(&t->ledger, file, line, function, list, VRAM__CUDA_CHANGES, &sink);
}
