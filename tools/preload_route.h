/* The functions of CUDA that stand in the library of tools/preload.c, and where calls of them go
   on: each caller has its own, as two of them may use two runtimes. */
#ifndef PRELOAD_ROUTE_H
#define PRELOAD_ROUTE_H

#include <stdint.h>

/* X(name) */
#define NAMES(X)                                                                                   \
  X(cudaMalloc)                                                                                    \
  X(cudaMallocPitch)                                                                               \
  X(cudaMalloc3D)                                                                                  \
  X(cudaMallocArray)                                                                               \
  X(cudaMalloc3DArray)                                                                             \
  X(cudaMallocMipmappedArray)                                                                      \
  X(cudaMallocManaged)                                                                             \
  X(cudaMallocAsync)                                                                               \
  X(cudaMallocAsync_ptsz)                                                                          \
  X(cudaMallocFromPoolAsync)                                                                       \
  X(cudaMallocFromPoolAsync_ptsz)                                                                  \
  X(cudaMallocHost)                                                                                \
  X(cudaHostAlloc)                                                                                 \
  X(cudaHostRegister)                                                                              \
  X(cudaHostUnregister)                                                                            \
  X(cudaFree)                                                                                      \
  X(cudaFreeAsync)                                                                                 \
  X(cudaFreeAsync_ptsz)                                                                            \
  X(cudaFreeArray)                                                                                 \
  X(cudaFreeMipmappedArray)                                                                        \
  X(cudaFreeHost)                                                                                  \
  X(cudaIpcOpenMemHandle)                                                                          \
  X(cudaIpcCloseMemHandle)                                                                         \
  X(cudaMemPoolCreate)                                                                             \
  X(cudaMemPoolDestroy)                                                                            \
  X(cudaMemPoolTrimTo)                                                                             \
  X(cudaDeviceReset)                                                                               \
  X(cudaDeviceSynchronize)                                                                         \
  X(cudaStreamSynchronize)                                                                         \
  X(cudaStreamSynchronize_ptsz)                                                                    \
  X(cudaGraphAddMemAllocNode)                                                                      \
  X(cudaGetDriverEntryPoint)                                                                       \
  X(cudaGetDriverEntryPoint_ptsz)                                                                  \
  X(cudaGetDriverEntryPointByVersion)                                                              \
  X(cudaGetDriverEntryPointByVersion_ptsz)                                                         \
  X(cuMemAlloc_v2)                                                                                 \
  X(cuMemAllocPitch_v2)                                                                            \
  X(cuMemAllocManaged)                                                                             \
  X(cuMemAllocAsync)                                                                               \
  X(cuMemAllocAsync_ptsz)                                                                          \
  X(cuMemAllocFromPoolAsync)                                                                       \
  X(cuMemAllocFromPoolAsync_ptsz)                                                                  \
  X(cuMemFree_v2)                                                                                  \
  X(cuMemFreeAsync)                                                                                \
  X(cuMemFreeAsync_ptsz)                                                                           \
  X(cuMemHostAlloc)                                                                                \
  X(cuMemAllocHost_v2)                                                                             \
  X(cuMemFreeHost)                                                                                 \
  X(cuMemHostRegister)                                                                             \
  X(cuMemHostRegister_v2)                                                                          \
  X(cuMemHostUnregister)                                                                           \
  X(cuArrayCreate_v2)                                                                              \
  X(cuArray3DCreate_v2)                                                                            \
  X(cuArrayDestroy)                                                                                \
  X(cuMipmappedArrayCreate)                                                                        \
  X(cuMipmappedArrayDestroy)                                                                       \
  X(cuMemCreate)                                                                                   \
  X(cuMemRelease)                                                                                  \
  X(cuMemMap)                                                                                      \
  X(cuMemUnmap)                                                                                    \
  X(cuMemRetainAllocationHandle)                                                                   \
  X(cuMemImportFromShareableHandle)                                                                \
  X(cuMemPoolCreate)                                                                               \
  X(cuMemPoolDestroy)                                                                              \
  X(cuMemPoolTrimTo)                                                                               \
  X(cuIpcOpenMemHandle)                                                                            \
  X(cuIpcOpenMemHandle_v2)                                                                         \
  X(cuIpcCloseMemHandle)                                                                           \
  X(cuDevicePrimaryCtxReset)                                                                       \
  X(cuDevicePrimaryCtxReset_v2)                                                                    \
  X(cuCtxDestroy)                                                                                  \
  X(cuCtxDestroy_v2)                                                                               \
  X(cuCtxSynchronize)                                                                              \
  X(cuCtxSynchronize_v2)                                                                           \
  X(cuStreamSynchronize)                                                                           \
  X(cuStreamSynchronize_ptsz)                                                                      \
  X(cuGraphAddMemAllocNode)                                                                        \
  X(cuGetProcAddress)                                                                              \
  X(cuGetProcAddress_v2)

enum {
#define X(name) AT_##name,
  NAMES(X)
#undef X
      NAME_COUNT
};
extern const char *const name_of[NAME_COUNT];

/* The number of the function with that name; with that name and end. -1: it is not here. */
int number_of(const char *name);
int number_with(const char *name, const char *end);

/* Where a call by this caller goes on; NULL: nowhere. */
void *real_of(int which, const void *caller);

/* Calls by this caller go on there. */
void set_route(int which, const void *caller, void *real);

/* Is that function in this library? Is that address in the program itself? */
int is_ours(const void *function);
int is_program(const void *address);

/* The object that has that address: its file ("": the program itself, or nobody knows), what is
   added to addresses of the file, and the name that the linker gave it. 0: none has it. */
typedef struct object_place {
  const char *path;
  uintptr_t base;
  const unsigned char *id;
  uint32_t id_bytes;
} object_place;
int place_in_object(object_place *o, const void *address);

/* The object of a function that calls go on to stays loaded to the end: some of them are kept, as
   they are needed where nothing can be looked for. */
void keep_loaded(const void *function);

/* After an object was unloaded: another one may come to its place, and call something else. */
void forget_routes(void);

/* In the child of a fork: no thread has the lock. */
void forget_lock(void);

/* The one that stands behind this library's. */
int real_dlclose(void *handle);

/* 1: a handler of signals with a stack of its own, which may be small. */
int on_small_stack(void);

#endif
