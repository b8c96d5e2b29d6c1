/* As much of CUDA's header as the rerouting tests need, for machines without CUDA: its functions,
   and in C++ its templates and overloads, which call them. */
#ifndef __CUDA_RUNTIME_API_H__
#define __CUDA_RUNTIME_API_H__
#include <stddef.h>

#define CUDART_VERSION 13000
typedef enum cudaError { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 } cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUmemPoolHandle_st *cudaMemPool_t;
typedef struct cudaArray *cudaArray_t;
typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
enum cudaChannelFormatKind { cudaChannelFormatKindFloat = 2 };
struct cudaChannelFormatDesc {
  int x, y, z, w;
  enum cudaChannelFormatKind f;
};
struct cudaExtent {
  size_t width, height, depth;
};
struct cudaPitchedPtr {
  void *ptr;
  size_t pitch, xsize, ysize;
};
struct cudaMemPoolProps {
  int type, handle_types, location_type, location_id;
  unsigned char reserved[72];
};
typedef struct cudaIpcMemHandle_st {
  char reserved[64];
} cudaIpcMemHandle_t;

#ifdef __cplusplus
extern "C" {
#define CUDA__ELSE(value) = value
#else
#define CUDA__ELSE(value)
#endif
extern cudaError_t cudaPeekAtLastError(void);
extern cudaError_t cudaMalloc(void **p, size_t n);
extern cudaError_t cudaMallocPitch(void **p, size_t *pitch, size_t width, size_t height);
extern cudaError_t cudaMalloc3D(struct cudaPitchedPtr *p, struct cudaExtent extent);
extern cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                   size_t width, size_t height CUDA__ELSE(0),
                                   unsigned flags CUDA__ELSE(0));
extern cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned flags CUDA__ELSE(0));
extern cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *array,
                                            const struct cudaChannelFormatDesc *desc,
                                            struct cudaExtent extent, unsigned levels,
                                            unsigned flags CUDA__ELSE(0));
extern cudaError_t cudaMallocManaged(void **p, size_t n, unsigned flags CUDA__ELSE(1));
extern cudaError_t cudaMallocHost(void **p, size_t n);
extern cudaError_t cudaHostAlloc(void **p, size_t n, unsigned flags);
extern cudaError_t cudaHostRegister(void *p, size_t n, unsigned flags);
extern cudaError_t cudaIpcOpenMemHandle(void **p, cudaIpcMemHandle_t handle, unsigned flags);
extern cudaError_t cudaFree(void *p);
extern cudaError_t cudaFreeHost(void *p);
extern cudaError_t cudaHostUnregister(void *p);
extern cudaError_t cudaFreeArray(cudaArray_t array);
extern cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t array);
extern cudaError_t cudaIpcCloseMemHandle(void *p);
extern cudaError_t cudaDeviceReset(void);
extern cudaError_t cudaMallocAsync(void **p, size_t n, cudaStream_t stream);
extern cudaError_t cudaMallocFromPoolAsync(void **p, size_t n, cudaMemPool_t pool,
                                           cudaStream_t stream);
extern cudaError_t cudaFreeAsync(void *p, cudaStream_t stream);
extern cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *prop);
extern cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool);
extern cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep);
#ifdef __cplusplus
}
static inline cudaError_t cudaMallocHost(void **p, size_t n, unsigned flags) {
  return ::cudaHostAlloc(p, n, flags);
}
template <class T> static inline cudaError_t cudaMalloc(T **p, size_t n) {
  return ::cudaMalloc((void **)(void *)p, n);
}
template <class T>
static inline cudaError_t cudaMallocPitch(T **p, size_t *pitch, size_t width, size_t height) {
  return ::cudaMallocPitch((void **)(void *)p, pitch, width, height);
}
template <class T>
static inline cudaError_t cudaMallocManaged(T **p, size_t n, unsigned flags = 1) {
  return ::cudaMallocManaged((void **)(void *)p, n, flags);
}
template <class T> static inline cudaError_t cudaHostAlloc(T **p, size_t n, unsigned flags) {
  return ::cudaHostAlloc((void **)(void *)p, n, flags);
}
template <class T> static inline cudaError_t cudaMallocHost(T **p, size_t n, unsigned flags = 0) {
  return cudaMallocHost((void **)(void *)p, n, flags);
}
template <class T> static inline cudaError_t cudaMallocAsync(T **p, size_t n, cudaStream_t stream) {
  return ::cudaMallocAsync((void **)(void *)p, n, stream);
}
static inline cudaError_t cudaMallocAsync(void **p, size_t n, cudaMemPool_t pool,
                                          cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync(p, n, pool, stream);
}
template <class T>
static inline cudaError_t cudaMallocAsync(T **p, size_t n, cudaMemPool_t pool,
                                          cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void **)(void *)p, n, pool, stream);
}
template <class T>
static inline cudaError_t cudaMallocFromPoolAsync(T **p, size_t n, cudaMemPool_t pool,
                                                  cudaStream_t stream) {
  return ::cudaMallocFromPoolAsync((void **)(void *)p, n, pool, stream);
}
#endif
#endif
