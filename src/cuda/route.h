/* >>route ======================================================================================
   Where CUDA's functions lead in files with VRAM_CUDA_REROUTE: the linker's names are changed, not
   the program's, so that pointers to cudaFree, templates and libraries of headers are seen as well.
   The line of a call is told beforehand, by a macro around its first argument. */

/* X(function, its parameters, what is called); p: the first of them, t and VRAM__SITE: what was
   told. _ptsz: with a default stream for each thread (nvcc --default-stream per-thread), where
   stream 0 is another. */
#define VRAM_CUDA_ROUTES(X)                                                                        \
  X(cudaMalloc, (void **p, size_t n), vram_cudaMalloc_at(VRAM__SITE, p, n))                        \
  X(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height),                       \
    vram_cudaMallocPitch_at(VRAM__SITE, p, pitch, width, height))                                  \
  X(cudaMalloc3D, (vram_cuda_pitched * p, vram_cuda_extent extent),                                \
    vram_cudaMalloc3D_at(VRAM__SITE, p, extent))                                                   \
  X(cudaMallocArray,                                                                               \
    (void **p, const vram_cuda_channel *channel, size_t width, size_t height, unsigned flags),     \
    vram_cudaMallocArray_at(VRAM__SITE, p, channel, width, height, flags))                         \
  X(cudaMalloc3DArray,                                                                             \
    (void **p, const vram_cuda_channel *channel, vram_cuda_extent extent, unsigned flags),         \
    vram_cudaMalloc3DArray_at(VRAM__SITE, p, channel, extent, flags))                              \
  X(cudaMallocMipmappedArray,                                                                      \
    (void **p, const vram_cuda_channel *channel, vram_cuda_extent extent, unsigned levels,         \
     unsigned flags),                                                                              \
    vram_cudaMallocMipmappedArray_at(VRAM__SITE, p, channel, extent, levels, flags))               \
  X(cudaMallocManaged, (void **p, size_t n, unsigned flags),                                       \
    vram_cudaMallocManaged_at(VRAM__SITE, p, n, flags))                                            \
  X(cudaMallocAsync, (void **p, size_t n, void *stream),                                           \
    vram_cudaMallocAsync_at(VRAM__SITE, p, n, stream))                                             \
  X(cudaMallocAsync_ptsz, (void **p, size_t n, void *stream),                                      \
    vram_cudaMallocAsync_at(VRAM__SITE, p, n, vram__cuda_of_thread(stream)))                       \
  X(cudaMallocFromPoolAsync, (void **p, size_t n, void *pool, void *stream),                       \
    vram_cudaMallocFromPoolAsync_at(VRAM__SITE, p, n, pool, stream))                               \
  X(cudaMallocFromPoolAsync_ptsz, (void **p, size_t n, void *pool, void *stream),                  \
    vram_cudaMallocFromPoolAsync_at(VRAM__SITE, p, n, pool, vram__cuda_of_thread(stream)))         \
  X(cudaMallocHost, (void **p, size_t n), vram_cudaMallocHost_at(VRAM__SITE, p, n))                \
  X(cudaHostAlloc, (void **p, size_t n, unsigned flags),                                           \
    vram_cudaHostAlloc_at(VRAM__SITE, p, n, flags))                                                \
  X(cudaHostRegister, (void *p, size_t n, unsigned flags),                                         \
    vram_cudaHostRegister_at(VRAM__SITE, p, n, flags))                                             \
  X(cudaIpcOpenMemHandle, (void **p, vram_cuda_ipc handle, unsigned flags),                        \
    vram_cudaIpcOpenMemHandle_at(VRAM__SITE, p, handle, flags))                                    \
  X(cudaMemPoolCreate, (void **p, const void *prop),                                               \
    vram_cudaMemPoolCreate_at(VRAM__SITE, p, prop))                                                \
  X(cudaFree, (void *p), vram_cudaFree_in(t, p))                                                   \
  X(cudaFreeAsync, (void *p, void *stream), vram_cudaFreeAsync_in(t, p, stream))                   \
  X(cudaFreeAsync_ptsz, (void *p, void *stream),                                                   \
    vram_cudaFreeAsync_in(t, p, vram__cuda_of_thread(stream)))                                     \
  X(cudaFreeArray, (void *p), vram_cudaFreeArray_in(t, p))                                         \
  X(cudaFreeMipmappedArray, (void *p), vram_cudaFreeMipmappedArray_in(t, p))                       \
  X(cudaFreeHost, (void *p), vram_cudaFreeHost_in(t, p))                                           \
  X(cudaHostUnregister, (void *p), vram_cudaHostUnregister_in(t, p))                               \
  X(cudaIpcCloseMemHandle, (void *p), vram_cudaIpcCloseMemHandle_in(t, p))                         \
  X(cudaMemPoolDestroy, (void *p), vram_cudaMemPoolDestroy_in(t, p))                               \
  X(cudaMemPoolTrimTo, (void *p, size_t keep), vram_cudaMemPoolTrimTo_in(t, p, keep))              \
  X(cuMemAlloc, (unsigned long long *p, size_t n), vram_cuMemAlloc_at(VRAM__SITE, p, n))           \
  X(cuMemCreate,                                                                                   \
    (unsigned long long *p, size_t n, const vram_cuda_prop *prop, unsigned long long flags),       \
    vram_cuMemCreate_at(VRAM__SITE, p, n, prop, flags))                                            \
  X(cuMemFree, (unsigned long long p), vram_cuMemFree_in(t, p))                                    \
  X(cuMemRelease, (unsigned long long p), vram_cuMemRelease_in(t, p))                              \
  X(cuMemRetainAllocationHandle, (unsigned long long *p, void *at),                                \
    vram_cuMemRetainAllocationHandle_in(t, p, at))                                                 \
  X(cuMemMap,                                                                                      \
    (unsigned long long p, size_t n, size_t offset, unsigned long long handle,                     \
     unsigned long long flags),                                                                    \
    vram_cuMemMap_in(t, p, n, offset, handle, flags))                                              \
  X(cuMemUnmap, (unsigned long long p, size_t n), vram_cuMemUnmap_in(t, p, n))

/* of vram_routed_ ## function, so that the macros that CUDA makes of some names are not followed */
#ifdef VRAM_NAMESPACE
#define VRAM__ROUTED(name) VRAM__JOIN(VRAM_NAMESPACE, name)
#else
#define VRAM__ROUTED(name) name
#endif
#define VRAM__CUDA_TEXT_(x) #x
#define VRAM__CUDA_TEXT(x) VRAM__CUDA_TEXT_(x)

/* The next call by this thread whose first argument is `first` stands here. Gives it back. No
   pointer: a compiler would think that what it points to is read. */
VRAM_API uintptr_t vram_cuda_here(VRAM_CUDA_SITE, uintptr_t first);
VRAM_API int VRAM__ROUTED(vram_routed_cudaDeviceReset)(void);
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define VRAM__X(name, parameters, call) VRAM_API int VRAM__ROUTED(vram_routed_##name) parameters;
VRAM_CUDA_ROUTES(VRAM__X)
#undef VRAM__X

/* a reference that brings the runtime into the program; weak ones do not */
#define VRAM__CUDA_NEEDED                                                                          \
  extern int vram__cuda_peek(void) __asm__("cudaPeekAtLastError");                                 \
  static int (*const vram__cuda_needed)(void) __attribute__((used)) = vram__cuda_peek;
