#endif /* VRAM_CUDA_IMPLEMENTATION */

/* >>reroute ====================================================================================
   From here on the calls of the file that defines VRAM_CUDA_REROUTE are counted. CUDA's headers
   come first: afterwards their names are macros. Functions whose address is taken are CUDA's own.
 */
#if defined(VRAM_CUDA_REROUTE) && !defined(VRAM_CUDA_REROUTED)
#define VRAM_CUDA_REROUTED

#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#if !defined(__CUDA_RUNTIME_API_H__) && !defined(__cuda_cuda_h__)
#error                                                                                             \
    "VRAM_CUDA_REROUTE: include cuda_runtime.h or cuda.h first, or give the compiler their folder"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define VRAM__REROUTE_FN static inline __attribute__((unused))
#else
#define VRAM__REROUTE_FN static inline
#endif
#ifdef __cplusplus
#define VRAM__ELSE(value) = value
#define VRAM__AS(type, p) reinterpret_cast<type>(p)
#define VRAM__ENUM(type, n) static_cast<type>(n)
#else
#define VRAM__ELSE(value)
#define VRAM__AS(type, p) ((type)(p))
#define VRAM__ENUM(type, n) ((type)(n))
#endif

#ifdef __CUDA_RUNTIME_API_H__
/* With a default stream for each thread (nvcc --default-stream per-thread) stream 0 is another. */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define VRAM__STREAM(stream) ((stream) ? (stream) : cudaStreamPerThread)
#else
#define VRAM__STREAM(stream) (stream)
#endif

/* CUDA's types and default values around vram_cuda..._at; C++ has overloads for T ** as CUDA has */
#define VRAM__R(name, parameters, call)                                                            \
  VRAM__REROUTE_FN cudaError_t vram__r_##name parameters { return VRAM__ENUM(cudaError_t, call); }
#define VRAM__S VRAM_CUDA_SITE
#define VRAM__T vram_cuda_tracker *t
VRAM__R(cudaMalloc, (VRAM__S, void **p, size_t n), vram_cudaMalloc_at(VRAM__SITE, p, n))
VRAM__R(cudaMallocPitch, (VRAM__S, void **p, size_t *pitch, size_t width, size_t height),
        vram_cudaMallocPitch_at(VRAM__SITE, p, pitch, width, height))
VRAM__R(cudaMallocManaged, (VRAM__S, void **p, size_t n, unsigned flags VRAM__ELSE(1)),
        vram_cudaMallocManaged_at(VRAM__SITE, p, n, flags))
VRAM__R(cudaHostAlloc, (VRAM__S, void **p, size_t n, unsigned flags),
        vram_cudaHostAlloc_at(VRAM__SITE, p, n, flags))
VRAM__R(cudaMallocHost, (VRAM__S, void **p, size_t n), vram_cudaMallocHost_at(VRAM__SITE, p, n))
VRAM__R(cudaHostRegister, (VRAM__S, void *p, size_t n, unsigned flags),
        vram_cudaHostRegister_at(VRAM__SITE, p, n, flags))
VRAM__REROUTE_FN vram_cuda_extent vram__r_extent(struct cudaExtent e) {
  vram_cuda_extent to;
  to.width = e.width;
  to.height = e.height;
  to.depth = e.depth;
  return to;
}
VRAM__REROUTE_FN cudaError_t vram__r_cudaMalloc3D(VRAM__S, struct cudaPitchedPtr *p,
                                                  struct cudaExtent e) {
  vram_cuda_pitched at;
  const int r = vram_cudaMalloc3D_at(VRAM__SITE, &at, vram__r_extent(e));
  if (!r) {
    p->ptr = at.ptr;
    p->pitch = at.pitch;
    p->xsize = at.xsize;
    p->ysize = at.ysize;
  }
  return VRAM__ENUM(cudaError_t, r);
}
VRAM__REROUTE_FN vram_cuda_channel vram__r_channel(const struct cudaChannelFormatDesc *c) {
  vram_cuda_channel to;
  to.x = c->x;
  to.y = c->y;
  to.z = c->z;
  to.w = c->w;
  to.format = VRAM__ENUM(int, c->f);
  return to;
}
VRAM__REROUTE_FN cudaError_t vram__r_cudaMallocArray(VRAM__S, cudaArray_t *array,
                                                     const struct cudaChannelFormatDesc *desc,
                                                     size_t width, size_t height VRAM__ELSE(0),
                                                     unsigned flags VRAM__ELSE(0)) {
  const vram_cuda_channel c = vram__r_channel(desc);
  return VRAM__ENUM(cudaError_t, vram_cudaMallocArray_at(VRAM__SITE, VRAM__AS(void **, array), &c,
                                                         width, height, flags));
}
VRAM__REROUTE_FN cudaError_t vram__r_cudaMalloc3DArray(VRAM__S, cudaArray_t *array,
                                                       const struct cudaChannelFormatDesc *desc,
                                                       struct cudaExtent e,
                                                       unsigned flags VRAM__ELSE(0)) {
  const vram_cuda_channel c = vram__r_channel(desc);
  return VRAM__ENUM(cudaError_t, vram_cudaMalloc3DArray_at(VRAM__SITE, VRAM__AS(void **, array), &c,
                                                           vram__r_extent(e), flags));
}
VRAM__REROUTE_FN cudaError_t vram__r_cudaMallocMipmappedArray(
    VRAM__S, cudaMipmappedArray_t *array, const struct cudaChannelFormatDesc *desc,
    struct cudaExtent e, unsigned levels, unsigned flags VRAM__ELSE(0)) {
  const vram_cuda_channel c = vram__r_channel(desc);
  return VRAM__ENUM(cudaError_t,
                    vram_cudaMallocMipmappedArray_at(VRAM__SITE, VRAM__AS(void **, array), &c,
                                                     vram__r_extent(e), levels, flags));
}
VRAM__REROUTE_FN cudaError_t vram__r_cudaIpcOpenMemHandle(VRAM__S, void **p,
                                                          cudaIpcMemHandle_t handle,
                                                          unsigned flags) {
  vram_cuda_ipc h;
  size_t i;
  for (i = 0; i < sizeof h.reserved; i++)
    h.reserved[i] = handle.reserved[i];
  return VRAM__ENUM(cudaError_t, vram_cudaIpcOpenMemHandle_at(VRAM__SITE, p, h, flags));
}
VRAM__R(cudaFree, (VRAM__T, void *p), vram_cudaFree_in(t, p))
VRAM__R(cudaFreeHost, (VRAM__T, void *p), vram_cudaFreeHost_in(t, p))
VRAM__R(cudaHostUnregister, (VRAM__T, void *p), vram_cudaHostUnregister_in(t, p))
VRAM__R(cudaFreeArray, (VRAM__T, cudaArray_t array), vram_cudaFreeArray_in(t, array))
VRAM__R(cudaFreeMipmappedArray, (VRAM__T, cudaMipmappedArray_t array),
        vram_cudaFreeMipmappedArray_in(t, array))
VRAM__R(cudaIpcCloseMemHandle, (VRAM__T, void *p), vram_cudaIpcCloseMemHandle_in(t, p))
VRAM__R(cudaDeviceReset, (VRAM__T), vram_cudaDeviceReset_in(t))
#if CUDART_VERSION >= 11020
VRAM__R(cudaMallocAsync, (VRAM__S, void **p, size_t n, cudaStream_t stream),
        vram_cudaMallocAsync_at(VRAM__SITE, p, n, VRAM__STREAM(stream)))
VRAM__R(cudaMallocFromPoolAsync,
        (VRAM__S, void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream),
        vram_cudaMallocFromPoolAsync_at(VRAM__SITE, p, n, pool, VRAM__STREAM(stream)))
VRAM__R(cudaFreeAsync, (VRAM__T, void *p, cudaStream_t stream),
        vram_cudaFreeAsync_in(t, p, VRAM__STREAM(stream)))
VRAM__R(cudaMemPoolCreate, (VRAM__S, cudaMemPool_t *pool, const struct cudaMemPoolProps *prop),
        vram_cudaMemPoolCreate_at(VRAM__SITE, VRAM__AS(void **, pool), prop))
VRAM__R(cudaMemPoolDestroy, (VRAM__T, cudaMemPool_t pool), vram_cudaMemPoolDestroy_in(t, pool))
VRAM__R(cudaMemPoolTrimTo, (VRAM__T, cudaMemPool_t pool, size_t keep),
        vram_cudaMemPoolTrimTo_in(t, pool, keep))
#endif
#ifdef __cplusplus
VRAM__R(cudaMallocHost, (VRAM__S, void **p, size_t n, unsigned flags),
        vram_cudaHostAlloc_at(VRAM__SITE, p, n, flags))
template <class T> cudaError_t vram__r_cudaMalloc(VRAM__S, T **p, size_t n) {
  return vram__r_cudaMalloc(VRAM__SITE, VRAM__AS(void **, p), n);
}
template <class T>
cudaError_t vram__r_cudaMallocPitch(VRAM__S, T **p, size_t *pitch, size_t width, size_t height) {
  return vram__r_cudaMallocPitch(VRAM__SITE, VRAM__AS(void **, p), pitch, width, height);
}
template <class T>
cudaError_t vram__r_cudaMallocManaged(VRAM__S, T **p, size_t n, unsigned flags = 1) {
  return vram__r_cudaMallocManaged(VRAM__SITE, VRAM__AS(void **, p), n, flags);
}
template <class T> cudaError_t vram__r_cudaHostAlloc(VRAM__S, T **p, size_t n, unsigned flags) {
  return vram__r_cudaHostAlloc(VRAM__SITE, VRAM__AS(void **, p), n, flags);
}
template <class T>
cudaError_t vram__r_cudaMallocHost(VRAM__S, T **p, size_t n, unsigned flags = 0) {
  return vram__r_cudaMallocHost(VRAM__SITE, VRAM__AS(void **, p), n, flags);
}
#if CUDART_VERSION >= 11020
template <class T>
cudaError_t vram__r_cudaMallocAsync(VRAM__S, T **p, size_t n, cudaStream_t stream) {
  return vram__r_cudaMallocAsync(VRAM__SITE, VRAM__AS(void **, p), n, stream);
}
template <class T>
cudaError_t vram__r_cudaMallocFromPoolAsync(VRAM__S, T **p, size_t n, cudaMemPool_t pool,
                                            cudaStream_t stream) {
  return vram__r_cudaMallocFromPoolAsync(VRAM__SITE, VRAM__AS(void **, p), n, pool, stream);
}
template <class T>
cudaError_t vram__r_cudaMallocAsync(VRAM__S, T **p, size_t n, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  return vram__r_cudaMallocFromPoolAsync(VRAM__SITE, VRAM__AS(void **, p), n, pool, stream);
}
#endif
#endif

#define cudaMalloc(...) vram__r_cudaMalloc(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocPitch(...) vram__r_cudaMallocPitch(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMalloc3D(...) vram__r_cudaMalloc3D(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocArray(...) vram__r_cudaMallocArray(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMalloc3DArray(...) vram__r_cudaMalloc3DArray(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocMipmappedArray(...) vram__r_cudaMallocMipmappedArray(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocManaged(...) vram__r_cudaMallocManaged(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocHost(...) vram__r_cudaMallocHost(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaHostAlloc(...) vram__r_cudaHostAlloc(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaHostRegister(...) vram__r_cudaHostRegister(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaIpcOpenMemHandle(...) vram__r_cudaIpcOpenMemHandle(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaFree(...) vram__r_cudaFree(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaFreeArray(...) vram__r_cudaFreeArray(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaFreeMipmappedArray(...) vram__r_cudaFreeMipmappedArray(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaFreeHost(...) vram__r_cudaFreeHost(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaHostUnregister(...) vram__r_cudaHostUnregister(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaIpcCloseMemHandle(...) vram__r_cudaIpcCloseMemHandle(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaDeviceReset() vram__r_cudaDeviceReset(VRAM_CUDA_TRACKER)
#if CUDART_VERSION >= 11020
#undef cudaMallocAsync /* of streams per thread */
#undef cudaMallocFromPoolAsync
#undef cudaFreeAsync
#define cudaMallocAsync(...) vram__r_cudaMallocAsync(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMallocFromPoolAsync(...) vram__r_cudaMallocFromPoolAsync(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaFreeAsync(...) vram__r_cudaFreeAsync(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaMemPoolCreate(...) vram__r_cudaMemPoolCreate(VRAM_CUDA_HERE, __VA_ARGS__)
#define cudaMemPoolDestroy(...) vram__r_cudaMemPoolDestroy(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cudaMemPoolTrimTo(...) vram__r_cudaMemPoolTrimTo(VRAM_CUDA_TRACKER, __VA_ARGS__)
#endif
#endif /* __CUDA_RUNTIME_API_H__ */

#ifdef __cuda_cuda_h__
#define VRAM__D(name, parameters, call)                                                            \
  VRAM__REROUTE_FN CUresult vram__r_##name parameters { return VRAM__ENUM(CUresult, call); }
VRAM__D(cuMemAlloc, (VRAM_CUDA_SITE, CUdeviceptr *p, size_t n),
        vram_cuMemAlloc_at(VRAM__SITE, p, n))
VRAM__D(cuMemFree, (vram_cuda_tracker * t, CUdeviceptr p), vram_cuMemFree_in(t, p))
#if CUDA_VERSION >= 10020
VRAM__REROUTE_FN CUresult vram__r_cuMemCreate(VRAM_CUDA_SITE, CUmemGenericAllocationHandle *handle,
                                              size_t n, const CUmemAllocationProp *prop,
                                              unsigned long long flags) {
  return VRAM__ENUM(CUresult, vram_cuMemCreate_at(VRAM__SITE, handle, n,
                                                  VRAM__AS(const vram_cuda_prop *, prop), flags));
}
VRAM__D(cuMemRelease, (vram_cuda_tracker * t, CUmemGenericAllocationHandle handle),
        vram_cuMemRelease_in(t, handle))
VRAM__D(cuMemMap,
        (vram_cuda_tracker * t, CUdeviceptr p, size_t n, size_t offset,
         CUmemGenericAllocationHandle handle, unsigned long long flags),
        vram_cuMemMap_in(t, p, n, offset, handle, flags))
VRAM__D(cuMemUnmap, (vram_cuda_tracker * t, CUdeviceptr p, size_t n), vram_cuMemUnmap_in(t, p, n))
#define cuMemCreate(...) vram__r_cuMemCreate(VRAM_CUDA_HERE, __VA_ARGS__)
#define cuMemRelease(...) vram__r_cuMemRelease(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cuMemMap(...) vram__r_cuMemMap(VRAM_CUDA_TRACKER, __VA_ARGS__)
#define cuMemUnmap(...) vram__r_cuMemUnmap(VRAM_CUDA_TRACKER, __VA_ARGS__)
#endif
#if CUDA_VERSION >= 11000
VRAM__D(cuMemRetainAllocationHandle,
        (vram_cuda_tracker * t, CUmemGenericAllocationHandle *handle, void *p),
        vram_cuMemRetainAllocationHandle_in(t, handle, p))
#define cuMemRetainAllocationHandle(...)                                                           \
  vram__r_cuMemRetainAllocationHandle(VRAM_CUDA_TRACKER, __VA_ARGS__)
#endif
#undef cuMemAlloc
#undef cuMemFree
#define cuMemAlloc(...) vram__r_cuMemAlloc(VRAM_CUDA_HERE, __VA_ARGS__)
#define cuMemFree(...) vram__r_cuMemFree(VRAM_CUDA_TRACKER, __VA_ARGS__)
#endif /* __cuda_cuda_h__ */
#endif /* VRAM_CUDA_REROUTE */
