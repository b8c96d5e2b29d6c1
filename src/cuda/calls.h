/* >>calls ======================================================================================
   The calls with their places in the program. Each is made through the tracker's table, answers as
   CUDA's own does, and is counted. t NULL: vram_cuda_default(). By name:
     vram_cudaMalloc(&p, bytes);              is  vram_cudaMalloc_at(VRAM_CUDA_HERE, &p, bytes)

   vram_cuda_tag_push("kv cache"), ..._pop() name what the thread allocates in between, in a log or
   report; vram_cuda_category_push counts it in that category as well. */

#ifdef VRAM_CUDA_TRACKER
#define VRAM__OWN_TRACKER
#else
#ifdef __cplusplus
#define VRAM_CUDA_TRACKER nullptr
#else
#define VRAM_CUDA_TRACKER NULL
#endif
#endif
#define VRAM_CUDA_SITE vram_cuda_tracker *t, const char *file, uint32_t line, const char *function
#define VRAM__SITE t, file, line, function
#define VRAM_CUDA_HERE VRAM_CUDA_TRACKER, __FILE__, __LINE__, __func__

/* The tracker of programs that make none: begins with the first use, never ends. Its api is
   vram_cuda_api_linked's, or what vram_cuda_use has given before. */
VRAM_API vram_cuda_tracker *vram_cuda_default(void);
/* 1: from now on; 0: it has begun already, nothing happens. */
VRAM_API int vram_cuda_use(const vram_cuda_api *api);
/* What keeps CUDA calls from working; VRAM_OK: nothing. */
VRAM_API vram_result vram_cuda_check(vram_cuda_tracker *t, vram_error *err);

VRAM_API int vram_cudaMalloc_at(VRAM_CUDA_SITE, void **p, size_t n);
VRAM_API int vram_cudaMallocPitch_at(VRAM_CUDA_SITE, void **p, size_t *pitch, size_t width,
                                     size_t height);
VRAM_API int vram_cudaMalloc3D_at(VRAM_CUDA_SITE, vram_cuda_pitched *p, vram_cuda_extent extent);
VRAM_API int vram_cudaMallocArray_at(VRAM_CUDA_SITE, void **array, const vram_cuda_channel *channel,
                                     size_t width, size_t height, unsigned flags);
VRAM_API int vram_cudaMalloc3DArray_at(VRAM_CUDA_SITE, void **array,
                                       const vram_cuda_channel *channel, vram_cuda_extent extent,
                                       unsigned flags);
VRAM_API int vram_cudaMallocMipmappedArray_at(VRAM_CUDA_SITE, void **array,
                                              const vram_cuda_channel *channel,
                                              vram_cuda_extent extent, unsigned levels,
                                              unsigned flags);
VRAM_API int vram_cudaMallocManaged_at(VRAM_CUDA_SITE, void **p, size_t n, unsigned flags);
VRAM_API int vram_cudaMallocAsync_at(VRAM_CUDA_SITE, void **p, size_t n, void *stream);
VRAM_API int vram_cudaMallocFromPoolAsync_at(VRAM_CUDA_SITE, void **p, size_t n, void *pool,
                                             void *stream);
VRAM_API int vram_cudaMallocHost_at(VRAM_CUDA_SITE, void **p, size_t n);
VRAM_API int vram_cudaHostAlloc_at(VRAM_CUDA_SITE, void **p, size_t n, unsigned flags);
VRAM_API int vram_cudaHostRegister_at(VRAM_CUDA_SITE, void *p, size_t n, unsigned flags);
VRAM_API int vram_cudaIpcOpenMemHandle_at(VRAM_CUDA_SITE, void **p, vram_cuda_ipc handle,
                                          unsigned flags);
VRAM_API int vram_cudaMemPoolCreate_at(VRAM_CUDA_SITE, void **pool, const void *prop);
VRAM_API int vram_cuMemAlloc_at(VRAM_CUDA_SITE, unsigned long long *p, size_t n);
VRAM_API int vram_cuMemCreate_at(VRAM_CUDA_SITE, unsigned long long *handle, size_t n,
                                 const vram_cuda_prop *prop, unsigned long long flags);

/* what gives back needs no place */
VRAM_API int vram_cudaFree_in(vram_cuda_tracker *t, void *p);
VRAM_API int vram_cudaFreeAsync_in(vram_cuda_tracker *t, void *p, void *stream);
VRAM_API int vram_cudaFreeArray_in(vram_cuda_tracker *t, void *array);
VRAM_API int vram_cudaFreeMipmappedArray_in(vram_cuda_tracker *t, void *array);
VRAM_API int vram_cudaFreeHost_in(vram_cuda_tracker *t, void *p);
VRAM_API int vram_cudaHostUnregister_in(vram_cuda_tracker *t, void *p);
VRAM_API int vram_cudaIpcCloseMemHandle_in(vram_cuda_tracker *t, void *p);
VRAM_API int vram_cudaMemPoolDestroy_in(vram_cuda_tracker *t, void *pool);
VRAM_API int vram_cudaMemPoolTrimTo_in(vram_cuda_tracker *t, void *pool, size_t keep);
VRAM_API int vram_cudaDeviceReset_in(vram_cuda_tracker *t);
VRAM_API int vram_cuMemFree_in(vram_cuda_tracker *t, unsigned long long p);
VRAM_API int vram_cuMemRelease_in(vram_cuda_tracker *t, unsigned long long handle);
VRAM_API int vram_cuMemRetainAllocationHandle_in(vram_cuda_tracker *t, unsigned long long *handle,
                                                 void *p);
VRAM_API int vram_cuMemMap_in(vram_cuda_tracker *t, unsigned long long p, size_t n, size_t offset,
                              unsigned long long handle, unsigned long long flags);
VRAM_API int vram_cuMemUnmap_in(vram_cuda_tracker *t, unsigned long long p, size_t n);

#define vram_cudaMalloc(p, n) vram_cudaMalloc_at(VRAM_CUDA_HERE, p, n)
#define vram_cudaMallocPitch(p, pitch, width, height)                                              \
  vram_cudaMallocPitch_at(VRAM_CUDA_HERE, p, pitch, width, height)
#define vram_cudaMalloc3D(p, extent) vram_cudaMalloc3D_at(VRAM_CUDA_HERE, p, extent)
#define vram_cudaMallocArray(array, channel, width, height, flags)                                 \
  vram_cudaMallocArray_at(VRAM_CUDA_HERE, array, channel, width, height, flags)
#define vram_cudaMalloc3DArray(array, channel, extent, flags)                                      \
  vram_cudaMalloc3DArray_at(VRAM_CUDA_HERE, array, channel, extent, flags)
#define vram_cudaMallocMipmappedArray(array, channel, extent, levels, flags)                       \
  vram_cudaMallocMipmappedArray_at(VRAM_CUDA_HERE, array, channel, extent, levels, flags)
#define vram_cudaMallocManaged(p, n, flags) vram_cudaMallocManaged_at(VRAM_CUDA_HERE, p, n, flags)
#define vram_cudaMallocAsync(p, n, stream) vram_cudaMallocAsync_at(VRAM_CUDA_HERE, p, n, stream)
#define vram_cudaMallocFromPoolAsync(p, n, pool, stream)                                           \
  vram_cudaMallocFromPoolAsync_at(VRAM_CUDA_HERE, p, n, pool, stream)
#define vram_cudaMallocHost(p, n) vram_cudaMallocHost_at(VRAM_CUDA_HERE, p, n)
#define vram_cudaHostAlloc(p, n, flags) vram_cudaHostAlloc_at(VRAM_CUDA_HERE, p, n, flags)
#define vram_cudaHostRegister(p, n, flags) vram_cudaHostRegister_at(VRAM_CUDA_HERE, p, n, flags)
#define vram_cudaIpcOpenMemHandle(p, handle, flags)                                                \
  vram_cudaIpcOpenMemHandle_at(VRAM_CUDA_HERE, p, handle, flags)
#define vram_cudaMemPoolCreate(pool, prop) vram_cudaMemPoolCreate_at(VRAM_CUDA_HERE, pool, prop)
#define vram_cuMemAlloc(p, n) vram_cuMemAlloc_at(VRAM_CUDA_HERE, p, n)
#define vram_cuMemCreate(handle, n, prop, flags)                                                   \
  vram_cuMemCreate_at(VRAM_CUDA_HERE, handle, n, prop, flags)
#define vram_cudaFree(p) vram_cudaFree_in(VRAM_CUDA_TRACKER, p)
#define vram_cudaFreeAsync(p, stream) vram_cudaFreeAsync_in(VRAM_CUDA_TRACKER, p, stream)
#define vram_cudaFreeArray(array) vram_cudaFreeArray_in(VRAM_CUDA_TRACKER, array)
#define vram_cudaFreeMipmappedArray(array) vram_cudaFreeMipmappedArray_in(VRAM_CUDA_TRACKER, array)
#define vram_cudaFreeHost(p) vram_cudaFreeHost_in(VRAM_CUDA_TRACKER, p)
#define vram_cudaHostUnregister(p) vram_cudaHostUnregister_in(VRAM_CUDA_TRACKER, p)
#define vram_cudaIpcCloseMemHandle(p) vram_cudaIpcCloseMemHandle_in(VRAM_CUDA_TRACKER, p)
#define vram_cudaMemPoolDestroy(pool) vram_cudaMemPoolDestroy_in(VRAM_CUDA_TRACKER, pool)
#define vram_cudaMemPoolTrimTo(pool, keep) vram_cudaMemPoolTrimTo_in(VRAM_CUDA_TRACKER, pool, keep)
#define vram_cudaDeviceReset() vram_cudaDeviceReset_in(VRAM_CUDA_TRACKER)
#define vram_cuMemFree(p) vram_cuMemFree_in(VRAM_CUDA_TRACKER, p)
#define vram_cuMemRelease(handle) vram_cuMemRelease_in(VRAM_CUDA_TRACKER, handle)
#define vram_cuMemRetainAllocationHandle(handle, p)                                                \
  vram_cuMemRetainAllocationHandle_in(VRAM_CUDA_TRACKER, handle, p)
#define vram_cuMemMap(p, n, offset, handle, flags)                                                 \
  vram_cuMemMap_in(VRAM_CUDA_TRACKER, p, n, offset, handle, flags)
#define vram_cuMemUnmap(p, n) vram_cuMemUnmap_in(VRAM_CUDA_TRACKER, p, n)

/* What this thread allocates until the pop: up to 16 inside one another, deeper ones are not heard.
   The text must outlive the tracker. A pop too many: nothing happens. */
VRAM_API void vram_cuda_tag_push(const char *tag);
VRAM_API void vram_cuda_category_push(vram_category category, const char *tag);
VRAM_API void vram_cuda_tag_pop(void);

/* Where a thread has no tag of its own, the range of NVTX that it is in names what it allocates
   (nvtxRangePush, domains, nvtx3::scoped_range; not nvtxRangeStart, which no thread is in). A
   program whose NVTX headers are of 3.2 or later does so by itself, unless NVTX_INJECTION64_PATH
   names another tool (Nsight), or VRAM_CUDA_NO_NVTX is defined for the implementation. For others
   this is an InitializeInjectionNvtx2. 1: NVTX is heard; 0: not a table of NVTX. */
VRAM_API int vram_cuda_nvtx(const void *(*exported)(uint32_t));
/* How often the name of a range found no room in VRAM_CUDA_NVTX_BYTES: what is allocated there has
   the tag of the range around it, or none. */
VRAM_API uint32_t vram_cuda_nvtx_lost(void);

/* VRAM_CUDA_TAG("weights"); until the end of the scope (C++, and C with GCC or Clang) */
#define VRAM__CUDA_PASTE_(a, b) a##b
#define VRAM__CUDA_PASTE(a, b) VRAM__CUDA_PASTE_(a, b)
#ifdef __cplusplus
struct vram_cuda_scope {
  explicit vram_cuda_scope(const char *tag) { vram_cuda_tag_push(tag); }
  ~vram_cuda_scope() { vram_cuda_tag_pop(); }

private:
  vram_cuda_scope(const vram_cuda_scope &);
  vram_cuda_scope &operator=(const vram_cuda_scope &);
};
#define VRAM_CUDA_TAG(tag) const vram_cuda_scope VRAM__CUDA_PASTE(vram__tag_, __LINE__)(tag)
#else
VRAM_API int vram__cuda_scope(const char *tag);
VRAM_API void vram__cuda_scope_end(int *scope);
#define VRAM_CUDA_TAG(tag)                                                                         \
  int VRAM__CUDA_PASTE(vram__tag_, __LINE__)                                                       \
      __attribute__((cleanup(vram__cuda_scope_end), unused)) = vram__cuda_scope(tag)
#endif

/* Writes to the log what was added and removed since the last mark, and totals. */
#define VRAM_CUDA_MARK() vram_cuda_mark_at(VRAM_CUDA_HERE)
VRAM_API void vram_cuda_mark_at(VRAM_CUDA_SITE);
