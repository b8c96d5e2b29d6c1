/* vram_cuda.h - v0.3 - where the memory of a CUDA program goes
   public domain or MIT-0, at your choice: see the end of vram.h, which this file needs beside it

   Do this:
     #define VRAM_IMPLEMENTATION
     #define VRAM_CUDA_IMPLEMENTATION
   before you include this file in *one* C or C++ file, to create the implementation. No CUDA header
   and no CUDA library is needed to build it; both may be there, in any order.

   Every call that takes or gives back memory is counted with the line that made it:
     #define VRAM_CUDA_REROUTE        cudaMalloc, cudaFree, ... of this file are counted: no other
     #include "vram_cuda.h"           change (it includes cuda_runtime.h and cuda.h). With nvcc and
                                      clang++ the implementation is in another file, best in C
   or, without the macro, call vram_cudaMalloc(&p, bytes), vram_cudaFree(p), ... by name.
     VRAM_CUDA_TAG("weights");        a name for what this scope allocates
     VRAM_CUDA_MARK();                what came and went since the last mark, line by line
     vram_cuda_memory_allocated(NULL, 0)   as torch.cuda.memory_allocated(0), and the others
     vram_cuda_view_of(NULL, 0, &v)        ours, other memory of this process, other processes, free
   An allocation that fails writes a report to standard error: who asked, who holds what, what would
   help.

   Before the first include:
     VRAM_CUDA_REROUTE       see above; for the file that defines it
     VRAM_CUDA_NO_LINES      with it: no macro at all, and no line of what allocates
     VRAM_CUDA_TRACKER t     which tracker the calls of a file count in; default vram_cuda_default()
   Before the include that makes the implementation:
     VRAM_CUDA_LINKED        the program is to be linked with a CUDA runtime; the default where
                             cuda_runtime.h was included (nvcc does so)
     VRAM_CUDA_DLOPEN        the runtime is opened when it is first needed; the default is to look
                             first for one that the program is linked with
     VRAM_CUDA_LIVE          allocations that the default tracker knows; default 32768
     VRAM_CUDA_OWNERS        call sites and tags of it; default 1023
     VRAM_CUDA_TRACE         events that it keeps for snapshots; default 0
     VRAM_CUDA_NO_NVTX       ranges of NVTX are not tags
     VRAM_CUDA_NVTX_BYTES    for names of such ranges; default 65536
     VRAM_CUDA_MEMORY(n)     where its memory comes from; default: static
   VRAM_STATIC and VRAM_NAMESPACE work as in vram.h.

   What counts as what
     cudaMalloc, pitched (pitch times height), 3D, arrays: allocated and reserved, on their device.
     cudaMallocAsync: allocated; what its memory pool holds from the device is reserved, once.
     cuMemCreate: allocated and reserved until the handle is released *and* mapped nowhere.
     cudaMallocManaged: allocated, not reserved: its pages are where they were used last.
     cudaMallocHost, cudaHostAlloc, cudaHostRegister: counters of the host.
     cudaIpcOpenMemHandle: another process's memory: vram_cuda_tracker.ipc_bytes, nothing else.
     Allocations that a stream capture turns into graph nodes: vram_cuda_tracker.graph_nodes and
     graph_bytes as they were captured; what a running graph holds is other memory of this process.

   Threads: every function may be called by any thread. No lock is held across a CUDA call but
   vram_cuda_pool's: see there. Nothing is per thread but tags: a thread that ends leaves its blocks
   to the others.

   Bad use, and what happens
     freed twice, never allocated   passed on, CUDA answers; vram_ledger.unknown_frees counts it
     freed on another stream        passed on; the block is gone from the counters at once
     a free that fails              the record comes back (in the sums since the beginning, `freed`
                                    and `allocated`, it counts twice)
     a table is full                counted in the sums and in `lost`, vram_ledger.lost_owners,
                                    never fatal
     no driver, no CUDA library     every call answers 35 (cudaErrorInsufficientDriver), driver
                                    calls 100 (CUDA_ERROR_NO_DEVICE); *p is not touched
     a function that this CUDA      801 (not supported)
     does not have
     after vram_cuda_tracker_end    calls are passed on and not counted; counters answer 0
     fork                           CUDA does not survive it: the child's tracker is empty; its
                                    pools answer VRAM_ERR_UNSUPPORTED

   Contents (search for the tags)
     >>api       the CUDA and NVML functions that are used, as a table of pointers
     >>tracker   what counts: for wrappers, and for libraries that see the calls otherwise
     >>calls     the calls with their places in the program; marks, tags, regions
     >>route     where CUDA's functions lead in files with VRAM_CUDA_REROUTE
     >>view      counters, and whose memory a device's memory is
     >>backend   pools over CUDA
     >>runner    a schedule of vram.h on a stream
     >>adaptors  allocators and memory resources for C++
     >>reroute   VRAM_CUDA_REROUTE
*/
#ifndef VRAM_CUDA_H_INCLUDED
#define VRAM_CUDA_H_INCLUDED

#include "vram.h"

/* clang-format off */
#ifdef VRAM_NAMESPACE
#define vram__cuda_scope VRAM__JOIN(VRAM_NAMESPACE, vram__cuda_scope)
#define vram__cuda_scope_end VRAM__JOIN(VRAM_NAMESPACE, vram__cuda_scope_end)
#define vram_cuMemAlloc_at VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemAlloc_at)
#define vram_cuMemCreate_at VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemCreate_at)
#define vram_cuMemFree_in VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemFree_in)
#define vram_cuMemMap_in VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemMap_in)
#define vram_cuMemRelease_in VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemRelease_in)
#define vram_cuMemRetainAllocationHandle_in VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemRetainAllocationHandle_in)
#define vram_cuMemUnmap_in VRAM__JOIN(VRAM_NAMESPACE, vram_cuMemUnmap_in)
#define vram_cudaDeviceReset_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaDeviceReset_in)
#define vram_cudaFreeArray_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaFreeArray_in)
#define vram_cudaFreeAsync_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaFreeAsync_in)
#define vram_cudaFreeHost_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaFreeHost_in)
#define vram_cudaFreeMipmappedArray_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaFreeMipmappedArray_in)
#define vram_cudaFree_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaFree_in)
#define vram_cudaHostAlloc_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaHostAlloc_at)
#define vram_cudaHostRegister_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaHostRegister_at)
#define vram_cudaHostUnregister_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaHostUnregister_in)
#define vram_cudaIpcCloseMemHandle_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaIpcCloseMemHandle_in)
#define vram_cudaIpcOpenMemHandle_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaIpcOpenMemHandle_at)
#define vram_cudaMalloc3DArray_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMalloc3DArray_at)
#define vram_cudaMalloc3D_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMalloc3D_at)
#define vram_cudaMallocArray_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocArray_at)
#define vram_cudaMallocAsync_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocAsync_at)
#define vram_cudaMallocFromPoolAsync_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocFromPoolAsync_at)
#define vram_cudaMallocHost_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocHost_at)
#define vram_cudaMallocManaged_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocManaged_at)
#define vram_cudaMallocMipmappedArray_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocMipmappedArray_at)
#define vram_cudaMallocPitch_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMallocPitch_at)
#define vram_cudaMalloc_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMalloc_at)
#define vram_cudaMemPoolCreate_at VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMemPoolCreate_at)
#define vram_cudaMemPoolDestroy_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMemPoolDestroy_in)
#define vram_cudaMemPoolTrimTo_in VRAM__JOIN(VRAM_NAMESPACE, vram_cudaMemPoolTrimTo_in)
#define vram_cuda_api_dlopen VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_api_dlopen)
#define vram_cuda_api_fill VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_api_fill)
#define vram_cuda_api_linked VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_api_linked)
#define vram_cuda_capturing VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_capturing)
#define vram_cuda_category_push VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_category_push)
#define vram_cuda_check VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_check)
#define vram_cuda_clock VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_clock)
#define vram_cuda_default VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_default)
#define vram_cuda_here VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_here)
#define vram_cuda_kind_name VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_kind_name)
#define vram_cuda_mark_at VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_mark_at)
#define vram_cuda_max_memory_allocated VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_max_memory_allocated)
#define vram_cuda_max_memory_reserved VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_max_memory_reserved)
#define vram_cuda_memory_allocated VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_memory_allocated)
#define vram_cuda_memory_reserved VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_memory_reserved)
#define vram_cuda_memory_stats VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_memory_stats)
#define vram_cuda_nvtx VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_nvtx)
#define vram_cuda_nvtx_lost VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_nvtx_lost)
#define vram_cuda_on_alloc VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_alloc)
#define vram_cuda_on_close VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_close)
#define vram_cuda_on_closed VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_closed)
#define vram_cuda_on_create VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_create)
#define vram_cuda_on_free VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_free)
#define vram_cuda_on_freed VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_freed)
#define vram_cuda_on_graph VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_graph)
#define vram_cuda_on_map VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_map)
#define vram_cuda_on_oom VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_oom)
#define vram_cuda_on_open VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_open)
#define vram_cuda_on_pool VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_pool)
#define vram_cuda_on_pool_alloc VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_pool_alloc)
#define vram_cuda_on_pool_destroy VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_pool_destroy)
#define vram_cuda_on_pool_destroyed VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_pool_destroyed)
#define vram_cuda_on_pool_read VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_pool_read)
#define vram_cuda_on_release VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_release)
#define vram_cuda_on_released VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_released)
#define vram_cuda_on_reset VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_reset)
#define vram_cuda_on_retain VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_retain)
#define vram_cuda_on_unmap VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_unmap)
#define vram_cuda_on_unmapped VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_on_unmapped)
#define vram_cuda_pool_alloc_at VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_alloc_at)
#define vram_cuda_pool_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_bytes)
#define vram_cuda_pool_empty_cache VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_empty_cache)
#define vram_cuda_pool_end VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_end)
#define vram_cuda_pool_free VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_free)
#define vram_cuda_pool_init VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_init)
#define vram_cuda_pool_record_stream VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_record_stream)
#define vram_cuda_pool_stats VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_pool_stats)
#define vram_cuda_reset_peak_memory_stats VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_reset_peak_memory_stats)
#define vram_cuda_runner_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_runner_bytes)
#define vram_cuda_runner_end VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_runner_end)
#define vram_cuda_runner_init VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_runner_init)
#define vram_cuda_site VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_site)
#define vram_cuda_tag_pop VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_tag_pop)
#define vram_cuda_tag_push VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_tag_push)
#define vram_cuda_tracker_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_tracker_bytes)
#define vram_cuda_tracker_end VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_tracker_end)
#define vram_cuda_tracker_init VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_tracker_init)
#define vram_cuda_use VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_use)
#define vram_cuda_view_of VRAM__JOIN(VRAM_NAMESPACE, vram_cuda_view_of)
#endif
/* clang-format on */

/* >>api ========================================================================================
   Functions of CUDA and NVML as pointers; those that are missing are NULL. CUDA's own types are
   spelled out: handles are void *, results int. */

/* as cudaExtent, cudaPitchedPtr, cudaChannelFormatDesc, cudaIpcMemHandle_t */
typedef struct vram_cuda_extent {
  size_t width, height, depth;
} vram_cuda_extent;
typedef struct vram_cuda_pitched {
  void *ptr;
  size_t pitch, xsize, ysize;
} vram_cuda_pitched;
typedef struct vram_cuda_channel {
  int x, y, z, w, format;
} vram_cuda_channel;
typedef struct vram_cuda_ipc {
  char reserved[64];
} vram_cuda_ipc;
/* as CUmemAllocationProp, CUmemAccessDesc */
typedef struct vram_cuda_prop {
  int type, handle_types, location_type, location_id;
  void *win32;
  unsigned char compression, rdma;
  unsigned short usage;
  unsigned char reserved[4];
} vram_cuda_prop;
typedef struct vram_cuda_access {
  int location_type, location_id, flags;
} vram_cuda_access;
/* as cudaMemPoolProps up to what is looked at */
typedef struct vram_cuda_pool_prop {
  int type, handle_types, location_type, location_id;
} vram_cuda_pool_prop;
/* as nvmlProcessInfo_v1_t, nvmlProcessInfo_t */
typedef struct vram_nvml_process1 {
  unsigned pid;
  unsigned long long bytes;
} vram_nvml_process1;
typedef struct vram_nvml_process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gi, ci;
} vram_nvml_process;

/* X(field, symbol, arguments); all return int */
#define VRAM_CUDA_RUNTIME(X)                                                                       \
  X(cuda_Malloc, cudaMalloc, (void **p, size_t n))                                                 \
  X(cuda_MallocPitch, cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height))     \
  X(cuda_Malloc3D, cudaMalloc3D, (vram_cuda_pitched * p, vram_cuda_extent extent))                 \
  X(cuda_MallocArray, cudaMallocArray,                                                             \
    (void **array, const vram_cuda_channel *channel, size_t width, size_t height, unsigned flags)) \
  X(cuda_Malloc3DArray, cudaMalloc3DArray,                                                         \
    (void **array, const vram_cuda_channel *channel, vram_cuda_extent extent, unsigned flags))     \
  X(cuda_MallocMipmappedArray, cudaMallocMipmappedArray,                                           \
    (void **array, const vram_cuda_channel *channel, vram_cuda_extent extent, unsigned levels,     \
     unsigned flags))                                                                              \
  X(cuda_MallocManaged, cudaMallocManaged, (void **p, size_t n, unsigned flags))                   \
  X(cuda_MallocAsync, cudaMallocAsync, (void **p, size_t n, void *stream))                         \
  X(cuda_MallocFromPoolAsync, cudaMallocFromPoolAsync,                                             \
    (void **p, size_t n, void *pool, void *stream))                                                \
  X(cuda_MallocHost, cudaMallocHost, (void **p, size_t n))                                         \
  X(cuda_HostAlloc, cudaHostAlloc, (void **p, size_t n, unsigned flags))                           \
  X(cuda_HostRegister, cudaHostRegister, (void *p, size_t n, unsigned flags))                      \
  X(cuda_HostUnregister, cudaHostUnregister, (void *p))                                            \
  X(cuda_Free, cudaFree, (void *p))                                                                \
  X(cuda_FreeAsync, cudaFreeAsync, (void *p, void *stream))                                        \
  X(cuda_FreeArray, cudaFreeArray, (void *array))                                                  \
  X(cuda_FreeMipmappedArray, cudaFreeMipmappedArray, (void *array))                                \
  X(cuda_FreeHost, cudaFreeHost, (void *p))                                                        \
  X(cuda_IpcOpenMemHandle, cudaIpcOpenMemHandle, (void **p, vram_cuda_ipc handle, unsigned flags)) \
  X(cuda_IpcCloseMemHandle, cudaIpcCloseMemHandle, (void *p))                                      \
  X(cuda_MemPoolCreate, cudaMemPoolCreate, (void **pool, const void *prop))                        \
  X(cuda_MemPoolDestroy, cudaMemPoolDestroy, (void *pool))                                         \
  X(cuda_MemPoolTrimTo, cudaMemPoolTrimTo, (void *pool, size_t keep))                              \
  X(cuda_MemPoolGetAttribute, cudaMemPoolGetAttribute, (void *pool, int what, void *value))        \
  X(cuda_MemPoolSetAttribute, cudaMemPoolSetAttribute, (void *pool, int what, void *value))        \
  X(cuda_DeviceGetMemPool, cudaDeviceGetMemPool, (void **pool, int device))                        \
  X(cuda_DeviceReset, cudaDeviceReset, (void))                                                     \
  X(cuda_DeviceGetPCIBusId, cudaDeviceGetPCIBusId, (char *id, int n, int device))                  \
  X(cuda_GetDevice, cudaGetDevice, (int *device))                                                  \
  X(cuda_SetDevice, cudaSetDevice, (int device))                                                   \
  X(cuda_GetDeviceCount, cudaGetDeviceCount, (int *n))                                             \
  X(cuda_GetLastError, cudaGetLastError, (void))                                                   \
  X(cuda_MemGetInfo, cudaMemGetInfo, (size_t * free, size_t * total))                              \
  X(cuda_RuntimeGetVersion, cudaRuntimeGetVersion, (int *version))                                 \
  X(cuda_DriverGetVersion, cudaDriverGetVersion, (int *version))                                   \
  X(cuda_StreamIsCapturing, cudaStreamIsCapturing, (void *stream, int *status))                    \
  X(cuda_EventCreateWithFlags, cudaEventCreateWithFlags, (void **event, unsigned flags))           \
  X(cuda_EventRecord, cudaEventRecord, (void *event, void *stream))                                \
  X(cuda_EventQuery, cudaEventQuery, (void *event))                                                \
  X(cuda_EventSynchronize, cudaEventSynchronize, (void *event))                                    \
  X(cuda_EventDestroy, cudaEventDestroy, (void *event))                                            \
  X(cuda_StreamCreateWithFlags, cudaStreamCreateWithFlags, (void **stream, unsigned flags))        \
  X(cuda_StreamDestroy, cudaStreamDestroy, (void *stream))                                         \
  X(cuda_StreamSynchronize, cudaStreamSynchronize, (void *stream))                                 \
  X(cuda_StreamWaitEvent, cudaStreamWaitEvent, (void *stream, void *event, unsigned flags))        \
  X(cuda_MemcpyAsync, cudaMemcpyAsync,                                                             \
    (void *to, const void *from, size_t n, int kind, void *stream))

#define VRAM_CUDA_DRIVER(X)                                                                        \
  X(cu_MemAlloc, cuMemAlloc_v2, (unsigned long long *p, size_t n))                                 \
  X(cu_MemFree, cuMemFree_v2, (unsigned long long p))                                              \
  X(cu_MemGetInfo, cuMemGetInfo_v2, (size_t * free, size_t * total))                               \
  X(cu_MemGetAddressRange, cuMemGetAddressRange_v2,                                                \
    (unsigned long long *base, size_t *n, unsigned long long p))                                   \
  X(cu_MemPoolGetAttribute, cuMemPoolGetAttribute, (void *pool, int what, void *value))            \
  X(cu_StreamIsCapturing, cuStreamIsCapturing, (void *stream, int *status))                        \
  X(cu_MemGetAllocationGranularity, cuMemGetAllocationGranularity,                                 \
    (size_t * n, const vram_cuda_prop *prop, int which))                                           \
  X(cu_MemCreate, cuMemCreate,                                                                     \
    (unsigned long long *handle, size_t n, const vram_cuda_prop *prop, unsigned long long flags))  \
  X(cu_MemRelease, cuMemRelease, (unsigned long long handle))                                      \
  X(cu_MemRetainAllocationHandle, cuMemRetainAllocationHandle,                                     \
    (unsigned long long *handle, void *p))                                                         \
  X(cu_MemAddressReserve, cuMemAddressReserve,                                                     \
    (unsigned long long *p, size_t n, size_t alignment, unsigned long long at,                     \
     unsigned long long flags))                                                                    \
  X(cu_MemAddressFree, cuMemAddressFree, (unsigned long long p, size_t n))                         \
  X(cu_MemMap, cuMemMap,                                                                           \
    (unsigned long long p, size_t n, size_t offset, unsigned long long handle,                     \
     unsigned long long flags))                                                                    \
  X(cu_MemUnmap, cuMemUnmap, (unsigned long long p, size_t n))                                     \
  X(cu_MemSetAccess, cuMemSetAccess,                                                               \
    (unsigned long long p, size_t n, const vram_cuda_access *access, size_t count))

#define VRAM_CUDA_NVML(X)                                                                          \
  X(nvml_Init, nvmlInit_v2, (void))                                                                \
  X(nvml_Shutdown, nvmlShutdown, (void))                                                           \
  X(nvml_DeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2,                              \
    (const char *id, void **device))                                                               \
  X(nvml_DeviceGetComputeRunningProcesses3, nvmlDeviceGetComputeRunningProcesses_v3,               \
    (void *device, unsigned *n, vram_nvml_process *p))                                             \
  X(nvml_DeviceGetComputeRunningProcesses2, nvmlDeviceGetComputeRunningProcesses_v2,               \
    (void *device, unsigned *n, vram_nvml_process *p))                                             \
  X(nvml_DeviceGetComputeRunningProcesses1, nvmlDeviceGetComputeRunningProcesses,                  \
    (void *device, unsigned *n, vram_nvml_process1 *p))                                            \
  X(nvml_DeviceGetGraphicsRunningProcesses3, nvmlDeviceGetGraphicsRunningProcesses_v3,             \
    (void *device, unsigned *n, vram_nvml_process *p))                                             \
  X(nvml_DeviceGetGraphicsRunningProcesses2, nvmlDeviceGetGraphicsRunningProcesses_v2,             \
    (void *device, unsigned *n, vram_nvml_process *p))                                             \
  X(nvml_DeviceGetGraphicsRunningProcesses1, nvmlDeviceGetGraphicsRunningProcesses,                \
    (void *device, unsigned *n, vram_nvml_process1 *p))

typedef struct vram_cuda_api {
/* NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration */
#define VRAM__X(field, symbol, arguments) int(*field) arguments;
  VRAM_CUDA_RUNTIME(VRAM__X)
  VRAM_CUDA_DRIVER(VRAM__X)
  VRAM_CUDA_NVML(VRAM__X)
#undef VRAM__X
  int runtime_version, driver_version; /* 13000 is 13.0; 0: there is none */
  int devices;
} vram_cuda_api;

typedef enum vram_cuda_library {
  VRAM_CUDA_LIB_RUNTIME,
  VRAM_CUDA_LIB_DRIVER,
  VRAM_CUDA_LIB_NVML
} vram_cuda_library;

/* Fills the table with what find gives for each symbol (NULL: it has none), and asks for versions
   and devices unless `quiet`. */
VRAM_API void vram_cuda_api_fill(vram_cuda_api *api,
                                 void *(*find)(void *user, vram_cuda_library lib,
                                               const char *symbol),
                                 void *user, int quiet);

/* Fills the table from libcudart.so, libcuda.so.1 and libnvidia-ml.so.1: those that the program has
   loaded, else those that are installed. VRAM_ERR_UNSUPPORTED: calls cannot work, *err says why
   (no library, no driver, a driver that is older than the runtime, no device); what was found is in
   the table, and nothing crashes. */
VRAM_API vram_result vram_cuda_api_dlopen(vram_cuda_api *api, vram_error *err);

/* The same with the CUDA runtime that the program was linked with, static or shared; as
   vram_cuda_api_dlopen where it was not, or with VRAM_CUDA_DLOPEN. */
VRAM_API vram_result vram_cuda_api_linked(vram_cuda_api *api, vram_error *err);

/* >>tracker ====================================================================================
   A ledger, and beside it what a ledger does not know: handles of physical memory with their
   mappings, memory pools, memory of other processes. Whoever sees CUDA calls reports them here;
   nothing here makes a CUDA call but vram_cuda_on_pool_read and what says so.

   Order of things: an allocation is reported after it was made, a free before it is made (another
   thread may get the same address at once), and again when it is known whether it has succeeded. */

#define VRAM_CUDA_KINDS(X)                                                                         \
  X(UNKNOWN, "unknown")                                                                            \
  X(DEVICE, "cudaMalloc")                                                                          \
  X(PITCH, "cudaMallocPitch") /* 3D, too */                                                        \
  X(ASYNC, "cudaMallocAsync") /* in a memory pool */                                               \
  X(ARRAY, "cudaMallocArray") /* 3D and mipmapped, too */                                          \
  X(MANAGED, "cudaMallocManaged")                                                                  \
  X(VMM, "cuMemCreate")                                                                            \
  X(PINNED, "cudaMallocHost") /* cudaHostAlloc, too */                                             \
  X(REGISTERED, "cudaHostRegister")

typedef enum vram_cuda_kind {
#define VRAM__X(id, text) VRAM_CUDA_##id,
  VRAM_CUDA_KINDS(VRAM__X)
#undef VRAM__X
      VRAM_CUDA_KIND_COUNT
} vram_cuda_kind;

/* "cudaMalloc", ...; never NULL. */
VRAM_API const char *vram_cuda_kind_name(uint32_t kind);

/* All zero: the ledger's defaults, but 16 devices; 4,096 handles and pools; as many mappings and
   allocations in pools as allocations. */
typedef struct vram_cuda_options {
  vram_ledger_options ledger; /* lock, unlock and user are the tracker's own; clock NULL: the
                                 system's, if there is a trace */
  uint32_t objects;           /* handles, pools, memory of other processes */
  uint32_t places;            /* mappings of handles, and allocations in pools */
  const vram_sink *log;       /* marks and out-of-memory reports; NULL: standard error */
  int quiet;                  /* 1: no report when an allocation fails */
} vram_cuda_options;

/* Private. */
typedef struct vram__cuda_object {
  uint64_t key, bytes, address; /* address: in the ledger; of a pool: bytes handed out */
  uint64_t ticket;              /* of the last reading that counted */
  uint32_t next, refs, uses, readers;
  uint32_t device;
  uint8_t type, gone;
} vram__cuda_object;
typedef struct vram__cuda_place {
  uint64_t address, bytes;
  uint32_t object, next, going;
} vram__cuda_place;

typedef struct vram_cuda_tracker {
  const vram_cuda_api *api;
  vram_ledger ledger; /* every function of vram.h on it may be called by any thread */
  vram_cuda_options options;
  /* read them under no lock: close enough */
  uint64_t ipc_bytes, ipc_count;     /* memory of other processes that is open here */
  uint64_t graph_nodes, graph_bytes; /* captured into graphs: not counted */
  uint64_t lost, lost_bytes;         /* handles, pools and mappings that found no place */
  uint64_t unknown;                  /* releases, unmaps, closes of what is not known */
  /* private */
  vram__cuda_object *object;
  vram__cuda_place *place;
  uint32_t *object_hash, *place_hash;
  uint32_t object_mask, place_mask, object_free, place_free, going;
  uint64_t next_address, ticket;
  uint32_t ledger_lock, table_lock;
  uint32_t ledger_process, table_process, open, nvml;
  void *memory;
} vram_cuda_tracker;

/* Memory for a tracker. o NULL: all zero. */
VRAM_API uint64_t vram_cuda_tracker_bytes(const vram_cuda_options *o);

/* An empty tracker in the caller's memory; api must outlive it. VRAM_ERR_MEMORY, VRAM_ERR_VALUE. */
VRAM_API vram_result vram_cuda_tracker_init(vram_cuda_tracker *t, const vram_cuda_api *api,
                                            const vram_cuda_options *o, void *mem, uint64_t bytes,
                                            vram_error *err);

/* The end of counting: all functions on it answer as if there were nothing. The caller may take the
   memory back when no call is running any more; *t itself must stay. */
VRAM_API void vram_cuda_tracker_end(vram_cuda_tracker *t);

/* The owner of an allocation made here by this thread: the place and the thread's tag. Texts as in
   vram_ledger_owner. */
VRAM_API uint32_t vram_cuda_site(vram_cuda_tracker *t, const char *file, uint32_t line,
                                 const char *function);

/* Memory by one of the calls in VRAM_CUDA_KINDS but ASYNC and VMM. device: the ordinal, also of
   host memory: that of the context. block_bytes: pitch times height and the like; 0: bytes. */
VRAM_API void vram_cuda_on_alloc(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                                 uint64_t address, uint64_t bytes, uint64_t block_bytes,
                                 uint32_t owner);

/* What was freed, for vram_cuda_on_freed. */
typedef struct vram_cuda_record {
  vram_allocation was;
  uint32_t place; /* private: in its pool; 0: none */
} vram_cuda_record;

/* A free of any kind: before it is made; 1: known, 0: not (address 0: nothing happens). Afterwards,
   if it was known: ok 0: it has failed, and what was there is there. Reads the pool's attribute. */
VRAM_API int vram_cuda_on_free(vram_cuda_tracker *t, uint64_t address, vram_cuda_record *r);
VRAM_API void vram_cuda_on_freed(vram_cuda_tracker *t, const vram_cuda_record *r, int ok);

/* A memory pool: created, or seen for the first time (again: nothing happens). */
VRAM_API void vram_cuda_on_pool(vram_cuda_tracker *t, uint64_t pool, uint32_t device);
/* An allocation in it. Reads its attribute afterwards. */
VRAM_API void vram_cuda_on_pool_alloc(vram_cuda_tracker *t, uint64_t pool, uint32_t device,
                                      uint64_t stream, uint64_t address, uint64_t bytes,
                                      uint32_t owner);
/* Asks CUDA what the pool holds (attribute 5) and counts it as reserved: after a trim, a
   synchronisation, or before a report (pool 0: all of them). */
VRAM_API void vram_cuda_on_pool_read(vram_cuda_tracker *t, uint64_t pool);
/* Its end: before it, then afterwards. What is still allocated in it is held until it is freed. */
VRAM_API int vram_cuda_on_pool_destroy(vram_cuda_tracker *t, uint64_t pool);
VRAM_API void vram_cuda_on_pool_destroyed(vram_cuda_tracker *t, uint64_t pool, int ok);

/* cuMemCreate (device VRAM_DEVICE_HOST: it is host memory); one more reference to the handle:
   cuMemRetainAllocationHandle of what is mapped at the address (0: not known). */
VRAM_API void vram_cuda_on_create(vram_cuda_tracker *t, uint64_t handle, uint32_t device,
                                  uint64_t bytes, uint32_t owner);
VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle, uint64_t address);
/* cuMemRelease: before it, then afterwards with what the first has given. */
VRAM_API uint32_t vram_cuda_on_release(vram_cuda_tracker *t, uint64_t handle);
VRAM_API void vram_cuda_on_released(vram_cuda_tracker *t, uint32_t object, int ok);
/* cuMemMap, after it. */
VRAM_API void vram_cuda_on_map(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                               uint64_t handle);
/* cuMemUnmap (of one or several mappings): before it, then afterwards with what the first gave. */
VRAM_API uint32_t vram_cuda_on_unmap(vram_cuda_tracker *t, uint64_t address, uint64_t bytes);
VRAM_API void vram_cuda_on_unmapped(vram_cuda_tracker *t, uint32_t unmap, uint64_t address,
                                    uint64_t bytes, int ok);

/* Memory of another process is opened here (bytes 0: not known); closed: before, then afterwards.
 */
VRAM_API void vram_cuda_on_open(vram_cuda_tracker *t, uint64_t address, uint64_t bytes);
VRAM_API uint32_t vram_cuda_on_close(vram_cuda_tracker *t, uint64_t address);
VRAM_API void vram_cuda_on_closed(vram_cuda_tracker *t, uint32_t object, int ok);

/* An allocation that became a node of a graph. */
VRAM_API void vram_cuda_on_graph(vram_cuda_tracker *t, uint64_t bytes);

/* cudaDeviceReset has succeeded: all of the device's memory is gone, pinned memory of its context
   as well; handles and pools, too. */
VRAM_API void vram_cuda_on_reset(vram_cuda_tracker *t, uint32_t device);

/* An allocation has failed for want of memory: counts it, and writes the report unless `quiet`.
   Asks CUDA and NVML whose memory it is. */
VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner);

/* Asks CUDA whether the stream is being captured: then allocations become nodes of a graph. */
VRAM_API int vram_cuda_capturing(const vram_cuda_api *api, void *stream);

/* Microseconds since 1970, a vram_ledger_options.clock. */
VRAM_API uint64_t vram_cuda_clock(void *user);

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

/* >>view =======================================================================================
   Counters with torch.cuda's names; and whose memory a device's memory is. t NULL:
   vram_cuda_default(). */

/* torch.cuda.memory_stats(device); VRAM_DEVICE_HOST: pinned and registered memory. What memory
   pools hold is asked first. After vram_cuda_tracker_end: all zero, as with no such device. */
VRAM_API void vram_cuda_memory_stats(vram_cuda_tracker *t, uint32_t device,
                                     vram_memory_stats *stats);
VRAM_API uint64_t vram_cuda_memory_allocated(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_max_memory_allocated(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_memory_reserved(vram_cuda_tracker *t, uint32_t device);
VRAM_API uint64_t vram_cuda_max_memory_reserved(vram_cuda_tracker *t, uint32_t device);
VRAM_API void vram_cuda_reset_peak_memory_stats(vram_cuda_tracker *t);

#define VRAM_CUDA_PROCESSES 64

/* Bytes that are not known are VRAM_UNKNOWN. */
typedef struct vram_cuda_view {
  uint64_t total, free;         /* of the device, as cudaMemGetInfo says */
  uint64_t allocated, reserved; /* counted by the tracker */
  uint64_t process;             /* of this process, all of it */
  uint64_t untracked;           /* process without reserved: context, modules, libraries */
  uint64_t others;              /* of other processes */
  uint32_t derived;             /* 1: NVML does not know this process: `process` is what is used
                                   without `others` */
  uint32_t nother;              /* processes in `other`, largest first */
  vram_process other[VRAM_CUDA_PROCESSES];
} vram_cuda_view;

/* VRAM_ERR_VALUE: no such device. VRAM_ERR_UNSUPPORTED: CUDA does not answer; what the tracker
   knows is in *v. Makes the device current for the time of the call. */
VRAM_API vram_result vram_cuda_view_of(vram_cuda_tracker *t, uint32_t device, vram_cuda_view *v);

/* >>backend ====================================================================================
   A vram_pool over CUDA, for use by any thread:

     n = vram_cuda_pool_bytes(&o);
     vram_cuda_pool_init(&p, api, &o, malloc(n), n, &err)
     vram_cuda_pool_alloc(&p, &ptr, bytes, stream), vram_cuda_pool_free(&p, ptr)

   One lock stands around every call, also while the pool asks CUDA for a segment or gives one back,
   as PyTorch does: two threads that find nothing free would else both take a segment where one is
   enough, and a thread might not find what another is about to give back. Blocks that are there
   are handed out without a CUDA call. While a stream is captured no segment can be had from
   cudaMalloc: run what is to be captured once before. */

typedef enum vram_cuda_source {
  VRAM_CUDA_FROM_MALLOC, /* segments by cudaMalloc */
  VRAM_CUDA_FROM_ASYNC   /* by cudaMallocAsync on the stream of the request: freeing one does not
                            wait for the device */
} vram_cuda_source;

/* All zero: device 0, segments by cudaMalloc, PyTorch's policy and defaults, 16,384 blocks. With
   pool.expandable_segments memory is mapped as segments grow. pool.event and pool.user, pool.device
   and pool.total_bytes are filled in. */
typedef struct vram_cuda_pool_options {
  vram_pool_options pool;
  uint32_t device, blocks;
  vram_cuda_source source;
  uint64_t release_threshold; /* FROM_ASYNC: what the device's memory pool keeps at most when it
                                 could give it back; 0: as it is set */
  vram_cuda_tracker *tracker; /* counts the pool's segments and blocks; NULL: nobody */
} vram_cuda_pool_options;

#define VRAM_CUDA_EVENTS 64

typedef struct vram_cuda_pool {
  vram_pool pool;
  const vram_cuda_api *api;
  vram_cuda_pool_options options;
  uint64_t failures; /* of calls that give back; each was tried twice */
  /* private */
  void *event[VRAM_CUDA_EVENTS];
  uint64_t asked; /* of the device, by the last request that failed */
  uint32_t nevent, process;
  void *lock;
} vram_cuda_pool;

/* Memory for a pool. o NULL: all zero. */
VRAM_API uint64_t vram_cuda_pool_bytes(const vram_cuda_pool_options *o);
/* VRAM_ERR_MEMORY: too little memory; VRAM_ERR_VALUE: options out of range, no such device;
   VRAM_ERR_UNSUPPORTED: this CUDA lacks functions that the options need */
VRAM_API vram_result vram_cuda_pool_init(vram_cuda_pool *p, const vram_cuda_api *api,
                                         const vram_cuda_pool_options *o, void *mem, uint64_t bytes,
                                         vram_error *err);
/* Waits for streams, gives back every segment that is free, and all events. Returns the bytes of
   blocks that are still handed out: their segments stay CUDA's to clean up. */
VRAM_API uint64_t vram_cuda_pool_end(vram_cuda_pool *p);

/* As vram_pool_alloc and its kin. When there is no more memory the tracker writes its report. */
#define vram_cuda_pool_alloc(p, ptr, bytes, stream)                                                \
  vram_cuda_pool_alloc_at(p, __FILE__, __LINE__, __func__, ptr, bytes, stream)
VRAM_API vram_result vram_cuda_pool_alloc_at(vram_cuda_pool *p, const char *file, uint32_t line,
                                             const char *function, void **ptr, uint64_t bytes,
                                             void *stream);
VRAM_API vram_result vram_cuda_pool_free(vram_cuda_pool *p, void *ptr);
VRAM_API vram_result vram_cuda_pool_record_stream(vram_cuda_pool *p, void *ptr, void *stream);
VRAM_API void vram_cuda_pool_empty_cache(vram_cuda_pool *p);
VRAM_API void vram_cuda_pool_stats(vram_cuda_pool *p, vram_memory_stats *stats);

/* >>runner =====================================================================================
   vram_chain_run on a stream: forward and backward start their kernels there, and tensors that a
   schedule offloads are copied by two more streams, ordered by events.

     n = vram_cuda_runner_bytes(&binding);
     vram_cuda_runner_init(&q, &api, &binding, &o, malloc(n), n, &runner, &err)
     vram_chain_run(&chain, &binding, &runner, q.arena, q.host, work, work_bytes, &err)
     cudaStreamSynchronize(stream), vram_cuda_runner_end(&q)

   A run allocates nothing, waits for nothing on the host, and uses the same addresses each time: it
   may be captured into a graph (between cudaStreamBeginCapture and cudaStreamEndCapture of the
   stream), which then repeats it, with the same seed. */

/* All zero: the default stream, which cannot be captured; memory from cudaMalloc and
   cudaMallocHost. */
typedef struct vram_cuda_runner_options {
  void *stream; /* of forward and backward; comes to them as vram_call.stream */
  void *arena;  /* binding.arena_bytes of the current device, aligned as the chain says */
  void *host;   /* binding.host_bytes of pinned memory */
} vram_cuda_runner_options;

typedef struct vram_cuda_runner {
  const vram_cuda_api *api;
  void *stream;
  void *arena, *host; /* for vram_chain_run */
  uint64_t failures;  /* of calls that give back; each was tried twice */
  /* private */
  void *own_arena, *own_host;
  void *copies[2]; /* streams: to the host, back */
  void *ready;     /* event: what the stream has been given so far */
  void **event;    /* of every copy: it is done */
  uint32_t noffload, nevent;
} vram_cuda_runner;

/* Memory (host) for the events. */
VRAM_API uint64_t vram_cuda_runner_bytes(const vram_binding *b);

/* Makes streams and events, and memory that is not given, on the current device; sets stream,
   offload, fetch, wait and copy_user of *r. A binding without copies needs no streams and events.
     VRAM_ERR_MEMORY       mem is too small; no device or pinned memory
     VRAM_ERR_UNSUPPORTED  this CUDA lacks functions that it needs
     VRAM_ERR_CALL         a call failed: err says which and what it gave */
VRAM_API vram_result vram_cuda_runner_init(vram_cuda_runner *q, const vram_cuda_api *api,
                                           const vram_binding *b, const vram_cuda_runner_options *o,
                                           void *mem, uint64_t bytes, vram_runner *r,
                                           vram_error *err);
/* Waits for the streams and gives back what init made; also after an init that failed. Not while
   the stream is captured, and not before graphs of the run are gone. */
VRAM_API void vram_cuda_runner_end(vram_cuda_runner *q);

/* >>adaptors ===================================================================================
   C++: what std::pmr, CCCL (cuda::mr), thrust and RMM call a memory resource or an allocator,
   counted. None of their headers is included here: a program gives their types as arguments.

     vram_cuda_allocator<T>
       std::vector (managed memory, which the host reads, too), thrust::cuda::par(allocator)
     vram_cuda_resource<P...>
       cuda::mr; each P is what may reach the memory: cuda::mr::device_accessible
     vram_cuda_memory_resource<std::pmr::memory_resource>
     vram_cuda_thrust_resource<thrust::mr::memory_resource<POINTER>>
     vram_cuda_stream_resource<rmm::mr::device_memory_resource, rmm::cuda_stream_view>

   Each is made as x(VRAM_CUDA_HERE): what it allocates is that line's, with the thread's tag. They
   throw std::bad_alloc. Alignments are CUDA's: 256 bytes; more is refused. */
#if defined(__cplusplus) && __cplusplus >= 201103L &&                                              \
    (defined(__EXCEPTIONS) || defined(__cpp_exceptions))
#include <new>

/* where, and by which call: DEVICE, MANAGED, PINNED; ASYNC: from the memory pool of a device */
struct vram_cuda_origin {
  vram_cuda_tracker *t;
  const char *file, *function;
  uint32_t line;
  vram_cuda_kind kind;

  vram_cuda_origin(vram_cuda_tracker *of, const char *in, uint32_t at, const char *by,
                   vram_cuda_kind k)
      : t(of), file(in), function(by), line(at), kind(k) {}
  void *take(size_t n, size_t alignment, void *stream) const {
    void *p = nullptr;
    const int r = alignment > 256             ? 1
                  : kind == VRAM_CUDA_ASYNC   ? vram_cudaMallocAsync_at(VRAM__SITE, &p, n, stream)
                  : kind == VRAM_CUDA_MANAGED ? vram_cudaMallocManaged_at(VRAM__SITE, &p, n, 1)
                  : kind == VRAM_CUDA_PINNED  ? vram_cudaMallocHost_at(VRAM__SITE, &p, n)
                                              : vram_cudaMalloc_at(VRAM__SITE, &p, n);
    if (r)
      throw std::bad_alloc();
    return p;
  }
  /* without a stream: for all of them, at once */
  void *take(size_t n, size_t alignment) const {
    void *const p = take(n, alignment, nullptr);
    const vram_cuda_api *const api = (t ? t : vram_cuda_default())->api;
    if (kind == VRAM_CUDA_ASYNC &&
        (!api->cuda_StreamSynchronize || api->cuda_StreamSynchronize(nullptr))) {
      give(p);
      throw std::bad_alloc();
    }
    return p;
  }
  void give(void *p) const noexcept { /* cudaFree waits for all streams, of ASYNC, too */
    if (kind == VRAM_CUDA_PINNED)
      (void)vram_cudaFreeHost_in(t, p);
    else
      (void)vram_cudaFree_in(t, p);
  }
  void give(void *p, void *stream) const noexcept {
    if (kind == VRAM_CUDA_ASYNC)
      (void)vram_cudaFreeAsync_in(t, p, stream);
    else
      give(p);
  }
  /* one may free what the other has allocated */
  bool same(const vram_cuda_origin &o) const noexcept { return t == o.t && kind == o.kind; }
};

template <class T> struct vram_cuda_allocator {
  typedef T value_type;
  vram_cuda_origin from;

  vram_cuda_allocator(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_MANAGED)
      : from(VRAM__SITE, kind) {}
  template <class U> vram_cuda_allocator(const vram_cuda_allocator<U> &o) : from(o.from) {}
  T *allocate(size_t n) {
    if (n > SIZE_MAX / sizeof(T))
      throw std::bad_alloc();
    return static_cast<T *>(from.take(n * sizeof(T), alignof(T)));
  }
  void deallocate(T *p, size_t) noexcept { from.give(p); }
  template <class U> bool operator==(const vram_cuda_allocator<U> &o) const noexcept {
    return from.same(o.from);
  }
  template <class U> bool operator!=(const vram_cuda_allocator<U> &o) const noexcept {
    return !from.same(o.from);
  }
};

/* a stream of any library: cudaStream_t, or what gives one */
template <class Stream> auto vram__cuda_stream(const Stream &s, int) -> decltype(s.get()) {
  return s.get();
}
template <class Stream> auto vram__cuda_stream(const Stream &s, long) -> decltype(s.value()) {
  return s.value();
}
template <class T> void *vram__cuda_stream(T *const &s, int) { return s; }

/* cuda::mr asks get_property(resource, P()) what it may do with the memory */
template <class Resource, class P> struct vram__cuda_property {
  friend void get_property(const Resource &, P) noexcept {}
};
template <class... P>
struct vram_cuda_resource : vram__cuda_property<vram_cuda_resource<P...>, P>... {
  vram_cuda_origin from;

  vram_cuda_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_DEVICE)
      : from(VRAM__SITE, kind) {}
  void *allocate(size_t n, size_t alignment = 256) { return from.take(n, alignment); }
  void deallocate(void *p, size_t, size_t = 256) noexcept { from.give(p); }
  template <class Stream> void *allocate_async(size_t n, size_t alignment, const Stream &s) {
    return from.take(n, alignment, vram__cuda_stream(s, 0));
  }
  template <class Stream> void *allocate_async(size_t n, const Stream &s) {
    return allocate_async(n, 256, s);
  }
  template <class Stream> void deallocate_async(void *p, size_t, size_t, const Stream &s) noexcept {
    from.give(p, vram__cuda_stream(s, 0));
  }
  template <class Stream> void deallocate_async(void *p, size_t, const Stream &s) noexcept {
    from.give(p, vram__cuda_stream(s, 0));
  }
  /* as CCCL 3.1 names them */
  void *allocate_sync(size_t n, size_t alignment = 256) { return allocate(n, alignment); }
  void deallocate_sync(void *p, size_t n, size_t = 256) noexcept { deallocate(p, n); }
  template <class Stream, class = decltype(vram__cuda_stream(*static_cast<Stream *>(nullptr), 0))>
  void *allocate(const Stream &s, size_t n, size_t alignment = 256) {
    return allocate_async(n, alignment, s);
  }
  template <class Stream, class = decltype(vram__cuda_stream(*static_cast<Stream *>(nullptr), 0))>
  void deallocate(const Stream &s, void *p, size_t n, size_t alignment = 256) noexcept {
    deallocate_async(p, n, alignment, s);
  }
  bool operator==(const vram_cuda_resource &o) const noexcept { return from.same(o.from); }
  bool operator!=(const vram_cuda_resource &o) const noexcept { return !from.same(o.from); }
};

/* std::pmr::memory_resource */
template <class Base> struct vram_cuda_memory_resource : Base {
  vram_cuda_origin from;

  vram_cuda_memory_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_MANAGED)
      : from(VRAM__SITE, kind) {}

private:
  void *do_allocate(size_t n, size_t alignment) override { return from.take(n, alignment); }
  void do_deallocate(void *p, size_t, size_t) override { from.give(p); }
  bool do_is_equal(const Base &o) const noexcept override { return this == &o; }
};

/* thrust::mr::memory_resource<POINTER>; which two are equal it knows itself */
template <class Base> struct vram_cuda_thrust_resource : Base {
  vram_cuda_origin from;

  vram_cuda_thrust_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_DEVICE)
      : from(VRAM__SITE, kind) {}
  typename Base::pointer do_allocate(size_t n, size_t alignment) override {
    return typename Base::pointer(from.take(n, alignment));
  }
  void do_deallocate(typename Base::pointer p, size_t, size_t) override { from.give(raw(p)); }

private:
  static void *raw(void *p) { return p; }
  template <class P> static auto raw(const P &p) -> decltype(p.get()) { return p.get(); }
};

/* rmm::mr::device_memory_resource */
template <class Base, class Stream> struct vram_cuda_stream_resource : Base {
  vram_cuda_origin from;

  vram_cuda_stream_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_ASYNC)
      : from(VRAM__SITE, kind) {}

private:
  void *do_allocate(size_t n, Stream s) override {
    return from.take(n, 256, vram__cuda_stream(s, 0));
  }
  /* NOLINTNEXTLINE: noexcept where the base wants it, and no harm where it does not */
  void do_deallocate(void *p, size_t, Stream s) noexcept override {
    from.give(p, vram__cuda_stream(s, 0));
  }
  bool do_is_equal(const Base &o) const noexcept override { return this == &o; }
};
#endif

#endif /* VRAM_CUDA_H_INCLUDED */

#if defined(VRAM_CUDA_IMPLEMENTATION) && !defined(VRAM_CUDA_IMPLEMENTATION_INCLUDED)
#define VRAM_CUDA_IMPLEMENTATION_INCLUDED

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__cplusplus)
#define VRAM__THREAD thread_local
#else
#define VRAM__THREAD __thread
#endif

/* >>api (Implementation) ----------------------------------------------------------------------- */

/* ISO C has no conversion from void * to a function pointer */
#define VRAM__FIND(lib, field, symbol)                                                             \
  found = find(user, lib, #symbol);                                                                \
  memcpy(&api->field, &found, sizeof found);
#define VRAM__FIND_RUNTIME(field, symbol, arguments)                                               \
  VRAM__FIND(VRAM_CUDA_LIB_RUNTIME, field, symbol)
#define VRAM__FIND_DRIVER(field, symbol, arguments) VRAM__FIND(VRAM_CUDA_LIB_DRIVER, field, symbol)
#define VRAM__FIND_NVML(field, symbol, arguments) VRAM__FIND(VRAM_CUDA_LIB_NVML, field, symbol)

static void vram__cuda_api_ask(vram_cuda_api *api) {
  if (!api->cuda_RuntimeGetVersion || api->cuda_RuntimeGetVersion(&api->runtime_version))
    api->runtime_version = 0;
  if (!api->cuda_DriverGetVersion || api->cuda_DriverGetVersion(&api->driver_version))
    api->driver_version = 0;
  if (!api->cuda_GetDeviceCount || api->cuda_GetDeviceCount(&api->devices)) {
    api->devices = 0;
    if (api->cuda_GetLastError)
      (void)api->cuda_GetLastError(); /* the program is not to find it */
  }
}

VRAM_API void vram_cuda_api_fill(vram_cuda_api *api,
                                 void *(*find)(void *user, vram_cuda_library lib,
                                               const char *symbol),
                                 void *user, int quiet) {
  void *found;
  memset(api, 0, sizeof *api);
  VRAM_CUDA_RUNTIME(VRAM__FIND_RUNTIME)
  VRAM_CUDA_DRIVER(VRAM__FIND_DRIVER)
  VRAM_CUDA_NVML(VRAM__FIND_NVML)
  if (!quiet)
    vram__cuda_api_ask(api);
}

static char *vram__cuda_put(char *to, const char *end, const char *text) {
  while (*text && to < end)
    *to++ = *text++;
  *to = 0;
  return to;
}

static char *vram__cuda_put_number(char *to, const char *end, uint64_t n) {
  char digits[24];
  uint32_t i = sizeof digits - 1;
  digits[i] = 0;
  do
    digits[--i] = (char)('0' + n % 10);
  while ((n /= 10) != 0);
  return vram__cuda_put(to, end, digits + i);
}

static char *vram__cuda_put_version(char *to, const char *end, int version) {
  uint64_t v = version < 0 ? 0 : (uint64_t)version;
  to = vram__cuda_put_number(to, end, v / 1000);
  to = vram__cuda_put(to, end, ".");
  return vram__cuda_put_number(to, end, v % 1000 / 10);
}

/* what stands in the way of calls that work */
static vram_result vram__cuda_api_check(const vram_cuda_api *api, vram_error *err) {
  char text[sizeof err->text], *p = text, *end = text + sizeof text - 1;
  memset(text, 0, sizeof text);
  if (!api->cuda_Malloc || !api->cuda_Free)
    p = vram__cuda_put(p, end, "no CUDA runtime: libcudart.so cannot be loaded");
  else if (!api->driver_version)
    p = vram__cuda_put(p, end, "no NVIDIA driver");
  else if (api->devices < 1 && api->driver_version / 1000 < api->runtime_version / 1000) {
    p = vram__cuda_put(p, end, "the NVIDIA driver knows CUDA ");
    p = vram__cuda_put_version(p, end, api->driver_version);
    p = vram__cuda_put(p, end, ", and the CUDA runtime is ");
    p = vram__cuda_put_version(p, end, api->runtime_version);
  } else if (api->devices < 1)
    p = vram__cuda_put(p, end, "no CUDA device");
  if (err) {
    memset(err, 0, sizeof *err);
    err->code = p == text ? VRAM_OK : VRAM_ERR_UNSUPPORTED;
    memcpy(err->text, text, sizeof text);
  }
  return p == text ? VRAM_OK : VRAM_ERR_UNSUPPORTED;
}

/* a library that the program has, else the first of the names (separated by spaces) that loads */
static void *vram__cuda_library(const char *names, const char *symbol) {
  static const int mode[2] = {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY};
  char name[64];
  int pass;
  void *self = dlopen(NULL, RTLD_LAZY), *lib;
  if (self && dlsym(self, symbol))
    return self;
  for (pass = 0; pass < 2; pass++) {
    const char *p = names;
    while (*p) {
      size_t n = strcspn(p, " ");
      memcpy(name, p, n);
      name[n] = 0;
      lib = dlopen(name, mode[pass]);
      if (lib)
        return lib;
      p += n;
      p += strspn(p, " ");
    }
  }
  return NULL;
}

static void *vram__cuda_find(void *user, vram_cuda_library lib, const char *symbol) {
  void **handle = (void **)user;
  return handle[lib] ? dlsym(handle[lib], symbol) : NULL;
}

static void vram__cuda_drivers(void **lib) {
  lib[VRAM_CUDA_LIB_DRIVER] = vram__cuda_library("libcuda.so.1 libcuda.so", "cuMemCreate");
  lib[VRAM_CUDA_LIB_NVML] =
      vram__cuda_library("libnvidia-ml.so.1 libnvidia-ml.so", "nvmlDeviceGetHandleByPciBusId_v2");
}

VRAM_API vram_result vram_cuda_api_dlopen(vram_cuda_api *api, vram_error *err) {
  void *lib[3];
  lib[VRAM_CUDA_LIB_RUNTIME] = vram__cuda_library(
      "libcudart.so.13 libcudart.so.12 libcudart.so.11.0 libcudart.so", "cudaMalloc");
  vram__cuda_drivers(lib);
  vram_cuda_api_fill(api, vram__cuda_find, lib, 0);
  return vram__cuda_api_check(api, err);
}

/* The runtime that the program is linked with: its functions under other names, with the types of
   the table, so that no header of CUDA is needed and VRAM_CUDA_REROUTE does not reach them. They
   are weak: a program without it gets NULL, and one with it has them, static or shared, if anything
   else refers to it; with VRAM_CUDA_LINKED this file does. */
#if !defined(VRAM_CUDA_LINKED) && !defined(VRAM_CUDA_DLOPEN) && defined(__CUDA_RUNTIME_API_H__)
#define VRAM_CUDA_LINKED
#endif
#if defined(__ELF__) && (!defined(VRAM_CUDA_DLOPEN) || defined(VRAM_CUDA_LINKED))
#define VRAM__CUDA_LINKS
/* the symbol is a macro where streams are per thread */
#define VRAM__CUDA_LINK(field, symbol, arguments)                                                  \
  extern int vram__link_##field arguments __asm__(VRAM__CUDA_TEXT(symbol)) __attribute__((weak));
VRAM_CUDA_RUNTIME(VRAM__CUDA_LINK)
#if defined(VRAM_CUDA_LINKED) && !defined(VRAM_CUDA_REROUTE)
VRAM__CUDA_NEEDED
#endif
#endif

VRAM_API vram_result vram_cuda_api_linked(vram_cuda_api *api, vram_error *err) {
#ifdef VRAM__CUDA_LINKS
  if (vram__link_cuda_Malloc != NULL) {
    void *lib[3];
    lib[VRAM_CUDA_LIB_RUNTIME] = NULL;
    vram__cuda_drivers(lib);
    vram_cuda_api_fill(api, vram__cuda_find, lib, 1);
#define VRAM__X(field, symbol, arguments) api->field = vram__link_##field;
    VRAM_CUDA_RUNTIME(VRAM__X)
#undef VRAM__X
    vram__cuda_api_ask(api);
    return vram__cuda_api_check(api, err);
  }
#endif
  return vram_cuda_api_dlopen(api, err);
}

/* >>nvtx (Implementation) ----------------------------------------------------------------------
   Ranges of NVTX as tags. An injection of NVTX fills in functions of its table; who it is says the
   environment (Nsight), else the program, in a pointer that NVTX's headers define from 3.2 on. No
   header of NVTX is needed: names, numbers and layout are those of nvtx3/nvtxDetail/nvtxTypes.h and
   nvToolsExt.h, version 3. */

#ifndef VRAM_CUDA_NVTX_BYTES
#define VRAM_CUDA_NVTX_BYTES 65536
#elif VRAM_CUDA_NVTX_BYTES < 1024
#error "VRAM_CUDA_NVTX_BYTES: at least 1024 (VRAM_CUDA_NO_NVTX: ranges are not tags)"
#endif

#define VRAM__NVTX_DEPTH 32         /* ranges whose names are kept, */
#define VRAM__NVTX_DOMAINS 256      /* and whose domains are */
#define VRAM__NVTX_NOT_TRACKED (-2) /* NVTX_NO_PUSH_POP_TRACKING */

typedef struct vram__nvtx_attributes { /* nvtxEventAttributes_t */
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;
  const void *message;
} vram__nvtx_attributes;

/* the ranges of this thread; each domain takes its own innermost back */
typedef struct vram__nvtx_ranges {
  const char *name[VRAM__NVTX_DEPTH];
  uint16_t domain[VRAM__NVTX_DOMAINS]; /* a library that is opened late has little room */
  uint32_t depth; /* may be more than there is room for: then the innermost are not heard */
} vram__nvtx_ranges;

static VRAM__THREAD vram__nvtx_ranges vram__nvtx_thread;

/* Names that were heard, one after the other, each once: the ledger tells texts by their address,
   and keeps them longer than a range has its name. */
static struct {
  char text[VRAM_CUDA_NVTX_BYTES];
  uint32_t bytes, n, slot[VRAM_CUDA_NVTX_BYTES / 8]; /* at most three quarters of them are taken */
  uint32_t lost;                                     /* names that found no room */
} vram__nvtx_names;
static pthread_mutex_t vram__nvtx_lock = PTHREAD_MUTEX_INITIALIZER;

static const char *vram__nvtx_keep(const char *name, size_t n) {
  const uint32_t slots = sizeof vram__nvtx_names.slot / sizeof vram__nvtx_names.slot[0];
  uint32_t h = 2166136261u, i;
  const char *kept = NULL;
  size_t k;
  for (k = 0; k < n; k++)
    h = (h ^ (unsigned char)name[k]) * 16777619u;
  (void)pthread_mutex_lock(&vram__nvtx_lock);
  i = h % slots;
  for (; vram__nvtx_names.slot[i]; i = (i + 1) % slots) {
    const char *const at = vram__nvtx_names.text + (vram__nvtx_names.slot[i] - 1);
    for (k = 0; k < n && at[k] == name[k]; k++)
      ;
    if (k == n && !at[n]) {
      kept = at;
      break;
    }
  }
  if (!kept && vram__nvtx_names.n < slots / 4 * 3 &&
      n < VRAM_CUDA_NVTX_BYTES - vram__nvtx_names.bytes) {
    kept = (char *)memcpy(vram__nvtx_names.text + vram__nvtx_names.bytes, name, n);
    vram__nvtx_names.slot[i] = vram__nvtx_names.bytes + 1;
    vram__nvtx_names.bytes += (uint32_t)n + 1; /* and a 0, which is there */
    vram__nvtx_names.n++;
  }
  if (!kept)
    (void)__atomic_fetch_add(&vram__nvtx_names.lost, 1, __ATOMIC_RELAXED);
  (void)pthread_mutex_unlock(&vram__nvtx_lock);
  return kept;
}

#define VRAM__NVTX_NAME 256 /* bytes of a name that are kept */

static const char *vram__nvtx_ascii(const char *name) {
  size_t n = 0;
  while (name && n < VRAM__NVTX_NAME && name[n])
    n++;
  if (n == VRAM__NVTX_NAME && ((unsigned char)name[n] & 0xC0) == 0x80) /* within a character */
    while (n && ((unsigned char)name[--n] & 0xC0) == 0x80)
      ;
  return n ? vram__nvtx_keep(name, n) : NULL;
}

/* as UTF-8 */
static const char *vram__nvtx_wide(const wchar_t *name) {
  char text[VRAM__NVTX_NAME];
  size_t n = 0;
  for (; name && *name && n + 4 <= sizeof text; name++) {
    const uint32_t c = (uint32_t)*name;
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    text[n++] = (char)(more ? (0xFF00u >> (more + 1) & 0xFF) | (c >> 6 * more & 0x3Fu >> more) : c);
    while (more-- > 0)
      text[n++] = (char)(0x80 | (c >> 6 * more & 0x3F));
  }
  return n ? vram__nvtx_keep(text, n) : NULL;
}

/* Names that are kept lie in one array: within so many bytes of it no two are the same number. */
static uint16_t vram__nvtx_number(const void *domain) {
  return (uint16_t)(domain ? 1 + (uintptr_t)domain % 65521 : 0);
}

static int vram__nvtx_push(const void *domain, const char *name) {
  vram__nvtx_ranges *r = &vram__nvtx_thread;
  if (r->depth < VRAM__NVTX_DEPTH)
    r->name[r->depth] = name;
  if (r->depth < VRAM__NVTX_DOMAINS)
    r->domain[r->depth] = vram__nvtx_number(domain);
  r->depth++;
  return VRAM__NVTX_NOT_TRACKED;
}

static int vram__nvtx_domain_pop(const void *domain) {
  vram__nvtx_ranges *r = &vram__nvtx_thread;
  const uint16_t number = vram__nvtx_number(domain);
  uint32_t i = r->depth;
  if (i > VRAM__NVTX_DOMAINS)
    r->depth--;
  else {
    while (i && r->domain[i - 1] != number)
      i--;
    if (i) {
      for (; i < r->depth; i++) {
        if (i <= VRAM__NVTX_DEPTH) /* of one too deep there is no name */
          r->name[i - 1] = i < VRAM__NVTX_DEPTH ? r->name[i] : NULL;
        r->domain[i - 1] = r->domain[i];
      }
      r->depth--;
    }
  }
  return VRAM__NVTX_NOT_TRACKED;
}

static int vram__nvtx_domain_push(const void *domain, const vram__nvtx_attributes *a) {
  const char *name = NULL;
  if (a && a->size >= sizeof *a) {
    if (a->message_type == 1)
      name = vram__nvtx_ascii((const char *)a->message);
    else if (a->message_type == 2)
      name = vram__nvtx_wide((const wchar_t *)a->message);
    else if (a->message_type == 3) /* registered: what was given for it */
      name = (const char *)a->message;
  }
  return vram__nvtx_push(domain, name);
}

static int vram__nvtx_push_ex(const vram__nvtx_attributes *a) {
  return vram__nvtx_domain_push(NULL, a);
}
static int vram__nvtx_push_a(const char *name) {
  return vram__nvtx_push(NULL, vram__nvtx_ascii(name));
}
static int vram__nvtx_push_w(const wchar_t *name) {
  return vram__nvtx_push(NULL, vram__nvtx_wide(name));
}
static int vram__nvtx_pop(void) { return vram__nvtx_domain_pop(NULL); }
static const char *vram__nvtx_register_a(const void *domain, const char *text) {
  (void)domain;
  return vram__nvtx_ascii(text);
}
static const char *vram__nvtx_register_w(const void *domain, const wchar_t *text) {
  (void)domain;
  return vram__nvtx_wide(text);
}
/* A domain is told from the others by its handle: that of its name. */
static const void *vram__nvtx_create_a(const char *name) { return vram__nvtx_ascii(name); }
static const void *vram__nvtx_create_w(const wchar_t *name) { return vram__nvtx_wide(name); }

/* the name of the innermost range that has one */
static const char *vram__nvtx_tag(void) {
  const vram__nvtx_ranges *r = &vram__nvtx_thread;
  uint32_t i = r->depth > VRAM__NVTX_DEPTH ? VRAM__NVTX_DEPTH : r->depth;
  while (i && !r->name[i - 1])
    i--;
  return i ? r->name[i - 1] : NULL;
}

typedef void (*vram__nvtx_function)(void);
typedef struct vram__nvtx_callbacks { /* NvtxExportTableCallbacks */
  size_t struct_size;
  int (*functions)(int module, vram__nvtx_function ***table, unsigned *size);
} vram__nvtx_callbacks;

static void vram__nvtx_set(vram__nvtx_function **table, unsigned size, unsigned i,
                           vram__nvtx_function f) {
  if (i < size && table[i])
    *table[i] = f;
}

VRAM_API uint32_t vram_cuda_nvtx_lost(void) {
  return __atomic_load_n(&vram__nvtx_names.lost, __ATOMIC_RELAXED);
}

VRAM_API int vram_cuda_nvtx(const void *(*exported)(uint32_t)) {
  const vram__nvtx_callbacks *c = exported ? (const vram__nvtx_callbacks *)exported(1) : NULL;
  vram__nvtx_function **table = NULL;
  unsigned size = 0;
  if (!c || c->struct_size < sizeof *c)
    return 0;
#define VRAM__NVTX(i, f) vram__nvtx_set(table, size, i, (vram__nvtx_function)(f))
  if (c->functions(1, &table, &size)) { /* NVTX_CB_MODULE_CORE */
    VRAM__NVTX(8, vram__nvtx_push_ex);
    VRAM__NVTX(9, vram__nvtx_push_a);
    VRAM__NVTX(10, vram__nvtx_push_w);
    VRAM__NVTX(11, vram__nvtx_pop);
  }
  if (c->functions(5, &table, &size)) { /* NVTX_CB_MODULE_CORE2 */
    VRAM__NVTX(4, vram__nvtx_domain_push);
    VRAM__NVTX(5, vram__nvtx_domain_pop);
    VRAM__NVTX(10, vram__nvtx_register_a);
    VRAM__NVTX(11, vram__nvtx_register_w);
    VRAM__NVTX(12, vram__nvtx_create_a);
    VRAM__NVTX(13, vram__nvtx_create_w);
  }
#undef VRAM__NVTX
  return 1;
}

#if defined(__ELF__) && defined(__GNUC__) && !defined(VRAM_CUDA_NO_NVTX)
/* NVTX of this program asks this pointer at its first call; a program without NVTX has none. */
extern int (*vram__nvtx_injection)(const void *(*)(uint32_t)) __asm__(
    "InitializeInjectionNvtx2_fnptr") __attribute__((weak));
__attribute__((constructor)) static void vram__nvtx_begin(void) {
  if (&vram__nvtx_injection && !vram__nvtx_injection)
    vram__nvtx_injection = vram_cuda_nvtx;
}
#endif

/* >>tracker (Implementation) ------------------------------------------------------------------- */

VRAM_API const char *vram_cuda_kind_name(uint32_t kind) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_CUDA_KINDS(VRAM__X)
#undef VRAM__X
  };
  return name[kind < (uint32_t)VRAM_CUDA_KIND_COUNT ? kind : 0];
}

VRAM_API uint64_t vram_cuda_clock(void *user) {
  struct timeval now;
  (void)user;
  gettimeofday(&now, NULL);
  return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_usec;
}

/* Number of the process, counted over its forks: a lock that a thread of the parent held is free in
   the child, and what the parent has allocated is not the child's. */
static uint32_t vram__cuda_process = 1;
static uint32_t vram__cuda_forks; /* 1: registered */

static void vram__cuda_child(void) { vram__cuda_process++; }

/* NOLINTBEGIN(readability-non-const-parameter): atomic functions write */
static void vram__cuda_enter(uint32_t *lock) {
  uint32_t seen, n = 0;
  for (;;) {
    seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
    if (seen != vram__cuda_process &&
        __atomic_compare_exchange_n(lock, &seen, vram__cuda_process, 1, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED))
      return;
    if (++n > 100)
      sched_yield();
  }
}

static void vram__cuda_leave(uint32_t *lock) { __atomic_store_n(lock, 0, __ATOMIC_RELEASE); }

static int vram__cuda_open(const vram_cuda_tracker *t) {
  return t && __atomic_load_n(&t->open, __ATOMIC_RELAXED);
}

static void vram__cuda_add(uint64_t *counter, uint64_t n) {
  __atomic_fetch_add(counter, n, __ATOMIC_RELAXED);
}
/* NOLINTEND(readability-non-const-parameter) */

static uint32_t vram__cuda_power(uint32_t n) { /* the power of 2 that is at least n */
  uint32_t p = 1;
  while (p < n && p < UINT32_C(1) << 31)
    p *= 2;
  return p;
}

/* what must be known is asked twice; what must be given back is tried twice */
#define VRAM__CUDA_TWICE(call) ((call) == 0 ? 0 : (call))

enum { VRAM__CUDA_HANDLE = 1, VRAM__CUDA_POOL, VRAM__CUDA_IPC };
enum { VRAM__CUDA_GOING = 1, VRAM__CUDA_GONE };      /* of a pool: being destroyed, destroyed */
#define VRAM__CUDA_FREEING 0xffffffffu               /* of a place in a pool */
#define VRAM__CUDA_FIRST_ADDRESS (UINT64_C(1) << 52) /* of handles: no device has memory there */

static void vram__cuda_lock_ledger(void *user);
static void vram__cuda_unlock_ledger(void *user);

static vram_cuda_options vram__cuda_resolve(const vram_cuda_options *o) {
  vram_cuda_options r = VRAM_ZERO_INIT;
  if (o)
    r = *o;
  r.ledger.devices = r.ledger.devices ? r.ledger.devices : 16;
  r.ledger.live = r.ledger.live ? r.ledger.live : 1024;
  r.objects = r.objects ? r.objects : 4096;
  r.places = r.places ? r.places : r.ledger.live;
  if (r.ledger.trace && !r.ledger.clock)
    r.ledger.clock = vram_cuda_clock;
  return r;
}

/* bytes of the tables behind the ledger's, which are aligned to 8 */
static uint64_t vram__cuda_tables(const vram_cuda_options *o) {
  return sizeof(vram__cuda_object) * ((uint64_t)o->objects + 1) +
         sizeof(vram__cuda_place) * ((uint64_t)o->places + 1) +
         4 * ((uint64_t)vram__cuda_power(o->objects) + vram__cuda_power(o->places)) + 8;
}

VRAM_API uint64_t vram_cuda_tracker_bytes(const vram_cuda_options *o) {
  vram_cuda_options r = vram__cuda_resolve(o);
  return ((vram_ledger_bytes(&r.ledger) + 7) & ~UINT64_C(7)) + vram__cuda_tables(&r);
}

static void vram__cuda_empty_tables(vram_cuda_tracker *t) {
  uint32_t i;
  memset(t->object_hash, 0, sizeof *t->object_hash * ((size_t)t->object_mask + 1));
  memset(t->place_hash, 0, sizeof *t->place_hash * ((size_t)t->place_mask + 1));
  for (i = 1; i <= t->options.objects; i++)
    t->object[i].next = i < t->options.objects ? i + 1 : 0, t->object[i].type = 0;
  for (i = 1; i <= t->options.places; i++)
    t->place[i].next = i < t->options.places ? i + 1 : 0, t->place[i].address = 0;
  t->object_free = t->place_free = 1;
  t->next_address = VRAM__CUDA_FIRST_ADDRESS;
  t->ipc_bytes = t->ipc_count = t->graph_nodes = t->graph_bytes = 0;
  t->lost = t->lost_bytes = t->unknown = 0;
  t->table_process = vram__cuda_process;
}

static vram_result vram__cuda_empty_ledger(vram_cuda_tracker *t, vram_error *err) {
  vram_ledger_options o = t->options.ledger;
  t->ledger_process = vram__cuda_process;
  o.lock = vram__cuda_lock_ledger;
  o.unlock = vram__cuda_unlock_ledger;
  o.user = t;
  return vram_ledger_init(&t->ledger, &o, t->memory, vram_ledger_bytes(&o), err);
}

static void vram__cuda_lock_ledger(void *user) {
  vram_cuda_tracker *t = (vram_cuda_tracker *)user;
  vram__cuda_enter(&t->ledger_lock);
  if (t->ledger_process != vram__cuda_process)
    (void)vram__cuda_empty_ledger(t, NULL);
}

static void vram__cuda_unlock_ledger(void *user) {
  vram__cuda_leave(&((vram_cuda_tracker *)user)->ledger_lock);
}

static void vram__cuda_lock(vram_cuda_tracker *t) {
  vram__cuda_enter(&t->table_lock);
  if (t->table_process != vram__cuda_process)
    vram__cuda_empty_tables(t);
}

static void vram__cuda_unlock(vram_cuda_tracker *t) { vram__cuda_leave(&t->table_lock); }

VRAM_API vram_result vram_cuda_tracker_init(vram_cuda_tracker *t, const vram_cuda_api *api,
                                            const vram_cuda_options *o, void *mem, uint64_t bytes,
                                            vram_error *err) {
  vram_result result;
  uint64_t ledger;
  char *at = (char *)mem;
  memset(t, 0, sizeof *t);
  if (!__atomic_exchange_n(&vram__cuda_forks, 1, __ATOMIC_RELAXED))
    (void)pthread_atfork(NULL, NULL, vram__cuda_child);
  t->api = api;
  t->options = vram__cuda_resolve(o);
  t->memory = mem;
  if (t->options.objects >> 30 || t->options.places >> 30 || !mem ||
      bytes < vram_cuda_tracker_bytes(o)) {
    int value = t->options.objects >> 30 || t->options.places >> 30;
    if (err) {
      memset(err, 0, sizeof *err);
      err->code = value ? VRAM_ERR_VALUE : VRAM_ERR_MEMORY;
      vram__cuda_put(err->text, err->text + sizeof err->text - 1,
                     value ? "objects and places: below 1073741824"
                           : "the tracker's memory is smaller than vram_cuda_tracker_bytes");
    }
    return value ? VRAM_ERR_VALUE : VRAM_ERR_MEMORY;
  }
  result = vram__cuda_empty_ledger(t, err);
  if (result)
    return result;
  ledger = (vram_ledger_bytes(&t->options.ledger) + 7) & ~UINT64_C(7);
  at += ledger;
  t->object = (vram__cuda_object *)(void *)at;
  at += sizeof *t->object * ((size_t)t->options.objects + 1);
  t->place = (vram__cuda_place *)(void *)at;
  at += sizeof *t->place * ((size_t)t->options.places + 1);
  t->object_mask = vram__cuda_power(t->options.objects) - 1;
  t->place_mask = vram__cuda_power(t->options.places) - 1;
  t->object_hash = (uint32_t *)(void *)at;
  t->place_hash = t->object_hash + t->object_mask + 1;
  vram__cuda_empty_tables(t);
  __atomic_store_n(&t->open, 1, __ATOMIC_RELEASE);
  return VRAM_OK;
}

VRAM_API void vram_cuda_tracker_end(vram_cuda_tracker *t) {
  __atomic_store_n(&t->open, 0, __ATOMIC_RELEASE);
  if (__atomic_exchange_n(&t->nvml, 0, __ATOMIC_ACQ_REL) == vram__cuda_process &&
      t->api->nvml_Shutdown)
    (void)t->api->nvml_Shutdown();
}

static uint32_t vram__cuda_hash(uint64_t key) {
  key = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(key >> 32);
}

/* The tables are looked at under the table lock. 0: there is none. */
static uint32_t vram__cuda_object_at(const vram_cuda_tracker *t, uint64_t key, uint32_t type) {
  uint32_t i = t->object_hash[vram__cuda_hash(key) & t->object_mask];
  while (i && (t->object[i].key != key || t->object[i].type != type || t->object[i].gone))
    i = t->object[i].next;
  return i;
}

static void vram__cuda_object_link(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *head = &t->object_hash[vram__cuda_hash(t->object[i].key) & t->object_mask];
  t->object[i].next = *head;
  *head = i;
}

static void vram__cuda_object_unlink(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *p = &t->object_hash[vram__cuda_hash(t->object[i].key) & t->object_mask];
  while (*p && *p != i)
    p = &t->object[*p].next;
  if (*p)
    *p = t->object[i].next;
}

static uint32_t vram__cuda_object_new(vram_cuda_tracker *t, uint64_t key, uint32_t type,
                                      uint32_t device, uint64_t bytes) {
  uint32_t i = t->object_free;
  vram__cuda_object *o = &t->object[i];
  if (!i) {
    vram__cuda_add(&t->lost, 1);
    vram__cuda_add(&t->lost_bytes, bytes);
    return 0;
  }
  t->object_free = o->next;
  memset(o, 0, sizeof *o);
  o->key = key;
  o->type = (uint8_t)type;
  o->device = device;
  o->bytes = bytes;
  vram__cuda_object_link(t, i);
  return i;
}

/* takes an object out that is in no list */
static void vram__cuda_object_drop(vram_cuda_tracker *t, uint32_t i) {
  t->object[i].type = 0;
  t->object[i].next = t->object_free;
  t->object_free = i;
}

/* going 0: not being unmapped; else by that unmap */
static uint32_t vram__cuda_place_at(const vram_cuda_tracker *t, uint64_t address, uint32_t going) {
  uint32_t i = t->place_hash[vram__cuda_hash(address) & t->place_mask];
  while (i && (t->place[i].address != address || t->place[i].going != going))
    i = t->place[i].next;
  return i;
}

static void vram__cuda_place_new(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                                 uint32_t object) {
  uint32_t i = t->place_free, *head = &t->place_hash[vram__cuda_hash(address) & t->place_mask];
  vram__cuda_place *p = &t->place[i];
  if (!i) {
    vram__cuda_add(&t->lost, 1);
    vram__cuda_add(&t->lost_bytes, bytes);
    return;
  }
  t->place_free = p->next;
  p->address = address;
  p->bytes = bytes;
  p->object = object;
  p->going = 0;
  p->next = *head;
  *head = i;
  t->object[object].uses++;
}

static void vram__cuda_place_drop(vram_cuda_tracker *t, uint32_t i) {
  uint32_t *p = &t->place_hash[vram__cuda_hash(t->place[i].address) & t->place_mask];
  while (*p && *p != i)
    p = &t->place[*p].next;
  if (*p)
    *p = t->place[i].next;
  t->object[t->place[i].object].uses--;
  t->place[i].address = 0;
  t->place[i].next = t->place_free;
  t->place_free = i;
}

/* ---- events */

#define VRAM__CUDA_DEPTH 16

/* what this thread says about its allocations */
typedef struct vram__cuda_said {
  const char *tag[VRAM__CUDA_DEPTH];
  uint8_t category[VRAM__CUDA_DEPTH];
  uint32_t depth; /* may be more than there is room for: then the innermost are not heard */
} vram__cuda_said;

static VRAM__THREAD vram__cuda_said vram__cuda_thread;

static uint32_t vram__cuda_top(void) {
  uint32_t d = vram__cuda_thread.depth;
  return d > VRAM__CUDA_DEPTH ? VRAM__CUDA_DEPTH : d;
}

VRAM_API uint32_t vram_cuda_site(vram_cuda_tracker *t, const char *file, uint32_t line,
                                 const char *function) {
  uint32_t d = vram__cuda_top();
  return vram__cuda_open(t) ? vram_ledger_owner(&t->ledger, file, line, function,
                                                d ? vram__cuda_thread.tag[d - 1] : vram__nvtx_tag())
                            : 0;
}

static vram_event vram__cuda_event(vram_action action, uint32_t device, uint64_t bytes) {
  uint32_t d = vram__cuda_top();
  vram_event e;
  memset(&e, 0, sizeof e);
  e.action = action;
  e.phase = VRAM_PHASE_END;
  e.category = e.was = d ? (vram_category)vram__cuda_thread.category[d - 1] : VRAM_CATEGORY_OTHER;
  e.id = -1;
  e.bytes = bytes;
  e.device = (uint8_t)device;
  return e;
}

VRAM_API void vram_cuda_on_alloc(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                                 uint64_t address, uint64_t bytes, uint64_t block_bytes,
                                 uint32_t owner) {
  vram_event e;
  if (!address || !vram__cuda_open(t))
    return;
  e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
  if (kind == VRAM_CUDA_PINNED || kind == VRAM_CUDA_REGISTERED) {
    e.stream = device; /* host memory has no stream: cudaDeviceReset wants to know */
    e.device = VRAM_DEVICE_HOST;
  }
  e.address = address;
  e.block_bytes = block_bytes ? block_bytes : bytes;
  e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
  e.whole = kind != VRAM_CUDA_MANAGED && kind != VRAM_CUDA_ASYNC && kind != VRAM_CUDA_REGISTERED;
  e.kind = (uint8_t)kind;
  e.owner = owner;
  vram_ledger_event(&t->ledger, &e);
}

static void vram__cuda_reserved(vram_cuda_tracker *t, uint32_t device, uint64_t was, uint64_t now) {
  vram_event e = vram__cuda_event(now > was ? VRAM_ACTION_SEGMENT_MAP : VRAM_ACTION_SEGMENT_UNMAP,
                                  device, now > was ? now - was : was - now);
  if (now == was)
    return;
  e.kind = VRAM_CUDA_ASYNC;
  vram_ledger_event(&t->ledger, &e);
}

/* Reads one pool. The ticket is drawn before the reading: of two readings that overtake each other
   the one that began later counts, so that after the last event the last state is known. While a
   pool is read it is not destroyed: vram_cuda_on_pool_destroy waits for readers. */
static void vram__cuda_read(vram_cuda_tracker *t, uint32_t i) { /* under the lock, which it opens */
  vram__cuda_object *o = &t->object[i];
  uint64_t ticket = ++t->ticket, held = 0;
  void *pool = (void *)(uintptr_t)o->key;
  int failed;
  o->readers++;
  vram__cuda_unlock(t);
  if (t->api->cuda_MemPoolGetAttribute)
    failed = t->api->cuda_MemPoolGetAttribute(pool, 5, &held);
  else
    failed = t->api->cu_MemPoolGetAttribute ? t->api->cu_MemPoolGetAttribute(pool, 5, &held) : 801;
  vram__cuda_lock(t);
  if (!o->readers)
    return; /* in the child of a fork */
  o->readers--;
  if (failed || ticket < o->ticket)
    return;
  o->ticket = ticket;
  vram__cuda_reserved(t, o->device, o->bytes, held);
  o->bytes = held;
}

VRAM_API int vram_cuda_on_free(vram_cuda_tracker *t, uint64_t address, vram_cuda_record *r) {
  memset(r, 0, sizeof *r);
  if (!address || !vram__cuda_open(t) || !vram_ledger_take(&t->ledger, address, &r->was))
    return 0;
  if (r->was.kind == VRAM_CUDA_ASYNC) {
    vram__cuda_lock(t);
    r->place = vram__cuda_place_at(t, address, 0);
    if (r->place) /* out of sight: another thread may get the address */
      t->place[r->place].going = VRAM__CUDA_FREEING;
    vram__cuda_unlock(t);
  }
  return 1;
}

static void vram__cuda_back(vram_cuda_tracker *t, const vram_allocation *was) {
  vram_event e = vram__cuda_event(VRAM_ACTION_ALLOC, was->device, was->bytes);
  e.category = e.was = (vram_category)was->category;
  e.address = was->address;
  e.block_bytes = was->block_bytes;
  e.stream = was->stream;
  e.time = was->time;
  e.owner = was->owner;
  e.kind = was->kind;
  e.small_pool = was->flags & 1;
  e.whole = was->flags >> 1 & 1;
  vram_ledger_event(&t->ledger, &e);
}

VRAM_API void vram_cuda_on_freed(vram_cuda_tracker *t, const vram_cuda_record *r, int ok) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  if (!ok)
    vram__cuda_back(t, &r->was);
  if (!r->place)
    return;
  vram__cuda_lock(t);
  if (t->place[r->place].going != VRAM__CUDA_FREEING) /* in the child of a fork, after a reset */
    ;
  else if (!ok)
    t->place[r->place].going = 0;
  else {
    vram__cuda_object *o = &t->object[i = t->place[r->place].object];
    o->address -= t->place[r->place].bytes;
    vram__cuda_place_drop(t, r->place);
    if (!o->gone)
      vram__cuda_read(t, i);
    else if (o->gone == VRAM__CUDA_GONE) {
      vram__cuda_reserved(t, o->device, o->bytes, o->address);
      o->bytes = o->address;
      if (!o->uses)
        vram__cuda_object_drop(t, i);
    }
  }
  vram__cuda_unlock(t);
}

/* ---- memory pools */

VRAM_API void vram_cuda_on_pool(vram_cuda_tracker *t, uint64_t pool, uint32_t device) {
  if (!pool || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  if (!vram__cuda_object_at(t, pool, VRAM__CUDA_POOL))
    vram__cuda_object_new(t, pool, VRAM__CUDA_POOL, device, 0);
  vram__cuda_unlock(t);
}

VRAM_API void vram_cuda_on_pool_alloc(vram_cuda_tracker *t, uint64_t pool, uint32_t device,
                                      uint64_t stream, uint64_t address, uint64_t bytes,
                                      uint32_t owner) {
  uint32_t i;
  vram_event e;
  if (!address || !vram__cuda_open(t))
    return;
  vram_cuda_on_pool(t, pool, device);
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
  if (i) {
    device = t->object[i].device;
    vram__cuda_place_new(t, address, bytes, i);
    t->object[i].address += bytes;
  }
  vram__cuda_unlock(t);
  e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
  e.address = address;
  e.stream = stream;
  e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
  e.kind = VRAM_CUDA_ASYNC;
  e.owner = owner;
  vram_ledger_event(&t->ledger, &e);
  if (i)
    vram_cuda_on_pool_read(t, pool);
}

VRAM_API void vram_cuda_on_pool_read(vram_cuda_tracker *t, uint64_t pool) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  if (pool) {
    i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
    if (i)
      vram__cuda_read(t, i);
  } else
    for (i = 1; i <= t->options.objects; i++)
      if (t->object[i].type == VRAM__CUDA_POOL && !t->object[i].gone)
        vram__cuda_read(t, i);
  vram__cuda_unlock(t);
}

VRAM_API int vram_cuda_on_pool_destroy(vram_cuda_tracker *t, uint64_t pool) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, pool, VRAM__CUDA_POOL);
  if (i) {
    t->object[i].gone = VRAM__CUDA_GOING;
    while (t->object[i].readers) {
      vram__cuda_unlock(t);
      sched_yield();
      vram__cuda_lock(t);
    }
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i != 0;
}

VRAM_API void vram_cuda_on_pool_destroyed(vram_cuda_tracker *t, uint64_t pool, int ok) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = t->object_hash[vram__cuda_hash(pool) & t->object_mask];
  while (i && (t->object[i].key != pool || t->object[i].type != VRAM__CUDA_POOL ||
               t->object[i].gone != VRAM__CUDA_GOING))
    i = t->object[i].next; /* another may have been created at that place meanwhile */
  if (i && !ok)
    t->object[i].gone = 0;
  else if (i) {
    vram__cuda_object *o = &t->object[i];
    vram__cuda_object_unlink(t, i);
    o->gone = VRAM__CUDA_GONE;
    vram__cuda_reserved(t, o->device, o->bytes, o->address);
    o->bytes = o->address;
    if (!o->uses)
      vram__cuda_object_drop(t, i);
  }
  vram__cuda_unlock(t);
}

/* ---- physical memory and its mappings */

VRAM_API void vram_cuda_on_create(vram_cuda_tracker *t, uint64_t handle, uint32_t device,
                                  uint64_t bytes, uint32_t owner) {
  uint64_t address;
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_new(t, handle, VRAM__CUDA_HANDLE, device, bytes);
  address = t->next_address;
  if (i) {
    t->object[i].address = address;
    t->object[i].refs = 1;
    t->next_address += (bytes + 0x1fffff) & ~UINT64_C(0x1fffff);
  }
  vram__cuda_unlock(t);
  if (i) {
    vram_event e = vram__cuda_event(VRAM_ACTION_ALLOC, device, bytes);
    e.address = address;
    e.block_bytes = bytes;
    e.small_pool = bytes <= VRAM_SMALL_POOL_BYTES;
    e.whole = 1;
    e.kind = VRAM_CUDA_VMM;
    e.owner = owner;
    vram_ledger_event(&t->ledger, &e);
  }
}

/* the mapping that has this address in it */
static uint32_t vram__cuda_mapping(const vram_cuda_tracker *t, uint64_t address) {
  uint32_t i = vram__cuda_place_at(t, address, 0);
  if (i)
    return i;
  for (i = 1; i <= t->options.places; i++)
    if (t->place[i].address && address - t->place[i].address < t->place[i].bytes &&
        !t->place[i].going)
      return i;
  return 0;
}

VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle, uint64_t address) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (!i && address) { /* released since, and a handle again */
    i = vram__cuda_mapping(t, address);
    i = i ? t->place[i].object : 0;
    i = t->object[i].type == VRAM__CUDA_HANDLE && !t->object[i].refs ? i : 0;
    if (i) {
      t->object[i].key = handle;
      vram__cuda_object_link(t, i);
    }
  }
  if (i)
    t->object[i].refs++;
  else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
}

/* nobody holds the object and it is mapped nowhere: the memory is the device's again, or another
   process's alone; under the lock */
static void vram__cuda_settle(vram_cuda_tracker *t, uint32_t i) {
  vram_allocation was;
  if (t->object[i].refs || t->object[i].uses || t->object[i].readers)
    return;
  if (t->object[i].type == VRAM__CUDA_IPC) {
    vram__cuda_add(&t->ipc_bytes, 0 - t->object[i].bytes);
    vram__cuda_add(&t->ipc_count, 0 - UINT64_C(1));
  } else
    (void)vram_ledger_take(&t->ledger, t->object[i].address, &was);
  vram__cuda_object_drop(t, i);
}

/* The last reference takes an object out of the table at once: another cuMemCreate may get the
   same handle. Until it is known whether the call has succeeded, `readers` keeps the object. */
static uint32_t vram__cuda_object_leave(vram_cuda_tracker *t, uint64_t key, uint8_t type) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, key, type);
  if (i) {
    t->object[i].readers++;
    if (!--t->object[i].refs)
      vram__cuda_object_unlink(t, i);
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i;
}

static void vram__cuda_object_left(vram_cuda_tracker *t, uint32_t object, uint8_t type, int ok) {
  vram__cuda_object *o;
  if (!object || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  o = &t->object[object];
  if (o->type == type && o->readers) { /* else: in the child of a fork, after a reset */
    o->readers--;
    if (!ok && !o->refs++)
      vram__cuda_object_link(t, object);
    vram__cuda_settle(t, object);
  }
  vram__cuda_unlock(t);
}

VRAM_API uint32_t vram_cuda_on_release(vram_cuda_tracker *t, uint64_t handle) {
  return vram__cuda_object_leave(t, handle, VRAM__CUDA_HANDLE);
}

VRAM_API void vram_cuda_on_released(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object_left(t, object, VRAM__CUDA_HANDLE, ok);
}

VRAM_API void vram_cuda_on_map(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                               uint64_t handle) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (i)
    vram__cuda_place_new(t, address, bytes, i);
  else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
}

/* The mappings in a range that the unmap `from` is taking (0: none is) become those of `to`, or
   with drop go. Mappings lie side by side, as a rule: they are found by their addresses. */
static uint32_t vram__cuda_range(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                                 uint32_t from, uint32_t to, int drop) {
  uint64_t at = address, end = address + bytes;
  uint32_t i, n = 0, k;
  for (;;) {
    i = at < end ? vram__cuda_place_at(t, at, from) : 0;
    if (!i)
      break;
    at += t->place[i].bytes;
    n++;
    t->place[i].going = to;
    if (drop) {
      k = t->place[i].object;
      vram__cuda_place_drop(t, i);
      vram__cuda_settle(t, k);
    }
  }
  for (i = 1; at < end && i <= t->options.places; i++)
    if (t->place[i].address >= at && t->place[i].address < end && t->place[i].going == from &&
        t->object[t->place[i].object].type == VRAM__CUDA_HANDLE) {
      n++;
      t->place[i].going = to;
      if (drop) {
        k = t->place[i].object;
        vram__cuda_place_drop(t, i);
        vram__cuda_settle(t, k);
      }
    }
  return n;
}

VRAM_API uint32_t vram_cuda_on_unmap(vram_cuda_tracker *t, uint64_t address, uint64_t bytes) {
  uint32_t going;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  if (++t->going == VRAM__CUDA_FREEING)
    t->going = 1;
  going = t->going;
  if (!vram__cuda_range(t, address, bytes, 0, going, 0)) {
    vram__cuda_add(&t->unknown, 1);
    going = 0;
  }
  vram__cuda_unlock(t);
  return going;
}

VRAM_API void vram_cuda_on_unmapped(vram_cuda_tracker *t, uint32_t unmap, uint64_t address,
                                    uint64_t bytes, int ok) {
  if (!unmap || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  (void)vram__cuda_range(t, address, bytes, unmap, 0, ok);
  vram__cuda_unlock(t);
}

/* ---- memory of other processes, graphs, resets */

VRAM_API void vram_cuda_on_open(vram_cuda_tracker *t, uint64_t address, uint64_t bytes) {
  uint32_t i;
  if (!address || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, address, VRAM__CUDA_IPC);
  if (i)
    t->object[i].refs++; /* CUDA gives the same address again */
  else {
    i = vram__cuda_object_new(t, address, VRAM__CUDA_IPC, 0, bytes);
    if (i) {
      t->object[i].refs = 1;
      vram__cuda_add(&t->ipc_bytes, bytes);
      vram__cuda_add(&t->ipc_count, 1);
    }
  }
  vram__cuda_unlock(t);
}

VRAM_API uint32_t vram_cuda_on_close(vram_cuda_tracker *t, uint64_t address) {
  return address ? vram__cuda_object_leave(t, address, VRAM__CUDA_IPC) : 0;
}

VRAM_API void vram_cuda_on_closed(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object_left(t, object, VRAM__CUDA_IPC, ok);
}

VRAM_API void vram_cuda_on_graph(vram_cuda_tracker *t, uint64_t bytes) {
  if (!vram__cuda_open(t))
    return;
  vram__cuda_add(&t->graph_nodes, 1);
  vram__cuda_add(&t->graph_bytes, bytes);
}

VRAM_API int vram_cuda_capturing(const vram_cuda_api *api, void *stream) {
  int status = 0;
  if (api->cuda_StreamIsCapturing)
    return !VRAM__CUDA_TWICE(api->cuda_StreamIsCapturing(stream, &status)) && status != 0;
  return api->cu_StreamIsCapturing &&
         !VRAM__CUDA_TWICE(api->cu_StreamIsCapturing(stream, &status)) && status != 0;
}

VRAM_API void vram_cuda_on_reset(vram_cuda_tracker *t, uint32_t device) {
  uint64_t list[128];
  uint32_t i, n;
  if (!vram__cuda_open(t))
    return;
  do {
    n = 0;
    vram__cuda_lock_ledger(t);
    for (i = 0; i <= t->ledger.live_mask && n < sizeof list / sizeof *list; i++) {
      const vram_allocation *a = t->ledger.live + i;
      if (a->address && (a->device == VRAM_DEVICE_HOST ? a->stream : a->device) == device)
        list[n++] = a->address;
    }
    vram__cuda_unlock_ledger(t);
    for (i = 0; i < n; i++)
      (void)vram_ledger_take(&t->ledger, list[i], NULL);
  } while (n);
  vram__cuda_lock(t);
  for (i = 1; i <= t->options.places; i++)
    if (t->place[i].address && t->object[t->place[i].object].device == device)
      vram__cuda_place_drop(t, i);
  for (i = 1; i <= t->options.objects; i++)
    if (t->object[i].type && t->object[i].device == device) {
      if (t->object[i].type == VRAM__CUDA_POOL)
        vram__cuda_reserved(t, device, t->object[i].bytes, 0);
      if (t->object[i].type == VRAM__CUDA_IPC) {
        vram__cuda_add(&t->ipc_bytes, 0 - t->object[i].bytes);
        vram__cuda_add(&t->ipc_count, 0 - UINT64_C(1));
      }
      vram__cuda_object_unlink(t, i); /* one that is in no list: nothing */
      vram__cuda_object_drop(t, i);
    }
  vram__cuda_unlock(t);
}

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

/* >>route (Implementation) --------------------------------------------------------------------- */

typedef struct vram__cuda_told {
  vram_cuda_tracker *t;
  const char *file, *function;
  uintptr_t first;
  uint32_t line;
} vram__cuda_told;

static VRAM__THREAD vram__cuda_told vram__cuda_last;

VRAM_API uintptr_t vram_cuda_here(VRAM_CUDA_SITE, uintptr_t first) {
  vram__cuda_told *l = &vram__cuda_last;
  l->t = t;
  l->file = file;
  l->line = line;
  l->function = function;
  l->first = first;
  return first;
}

/* what was told of a call with this argument, once */
static vram__cuda_told vram__cuda_listen(uintptr_t first, const char *call) {
  vram__cuda_told told = vram__cuda_last;
  if (!first || told.first != first) {
    told.t = NULL;
    told.file = NULL;
    told.function = call;
    told.line = 0;
  }
  vram__cuda_last.first = 0;
  return told;
}

static void *vram__cuda_of_thread(void *stream) {
  return stream ? stream : (void *)(uintptr_t)2; /* cudaStreamPerThread */
}

/* NOLINTBEGIN(bugprone-macro-parentheses): parameters of functions */
#define VRAM__X(name, parameters, call)                                                            \
  VRAM_API int VRAM__ROUTED(vram_routed_##name) parameters {                                       \
    const vram__cuda_told told = vram__cuda_listen((uintptr_t)p, #name " without a line");         \
    vram_cuda_tracker *const t = told.t;                                                           \
    const char *const file = told.file, *const function = told.function;                           \
    const uint32_t line = told.line;                                                               \
    (void)file, (void)function, (void)line;                                                        \
    return call;                                                                                   \
  }
VRAM_CUDA_ROUTES(VRAM__X)
#undef VRAM__X
/* NOLINTEND(bugprone-macro-parentheses) */

VRAM_API int VRAM__ROUTED(vram_routed_cudaDeviceReset)(void) {
  return vram_cudaDeviceReset_in(NULL);
}

/* >>view (Implementation) ---------------------------------------------------------------------- */

VRAM_API void vram_cuda_memory_stats(vram_cuda_tracker *t, uint32_t device,
                                     vram_memory_stats *stats) {
  t = vram__cuda_of(t);
  memset(stats, 0, sizeof *stats);
  if (!vram__cuda_open(t))
    return;
  vram_cuda_on_pool_read(t, 0);
  vram_ledger_stats(&t->ledger, device, stats);
}

VRAM_API uint64_t vram_cuda_memory_allocated(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.allocated_bytes[VRAM_POOL_ALL].current;
}

VRAM_API uint64_t vram_cuda_max_memory_allocated(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.allocated_bytes[VRAM_POOL_ALL].peak;
}

VRAM_API uint64_t vram_cuda_memory_reserved(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.reserved_bytes[VRAM_POOL_ALL].current;
}

VRAM_API uint64_t vram_cuda_max_memory_reserved(vram_cuda_tracker *t, uint32_t device) {
  vram_memory_stats s;
  vram_cuda_memory_stats(t, device, &s);
  return s.reserved_bytes[VRAM_POOL_ALL].peak;
}

VRAM_API void vram_cuda_reset_peak_memory_stats(vram_cuda_tracker *t) {
  t = vram__cuda_of(t);
  if (vram__cuda_open(t))
    vram_ledger_reset_peak(&t->ledger);
}

/* NVML is asked for the first time: 1: it answers */
static int vram__nvml_begin(vram_cuda_tracker *t) {
  uint32_t none = __atomic_load_n(&t->nvml, __ATOMIC_ACQUIRE), begun = vram__cuda_process;
  if (none == begun)
    return 1;
  if (!t->api->nvml_Init || t->api->nvml_Init())
    return 0;
  if (!__atomic_compare_exchange_n(&t->nvml, &none, begun, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED) &&
      t->api->nvml_Shutdown)
    (void)t->api->nvml_Shutdown(); /* another thread was faster: NVML counts */
  return 1;
}

/* One more process; the lists of compute and graphics may both have it. */
static void vram__cuda_process_add(vram_process *list, uint32_t *n, uint32_t cap, uint32_t pid,
                                   uint64_t bytes) {
  uint32_t i;
  for (i = 0; i < *n; i++)
    if (list[i].pid == pid) {
      if (list[i].bytes == VRAM_UNKNOWN || (bytes != VRAM_UNKNOWN && bytes > list[i].bytes))
        list[i].bytes = bytes;
      return;
    }
  if (*n == cap)
    return;
  list[*n].pid = pid;
  list[*n].name = NULL;
  list[(*n)++].bytes = bytes;
}

#define VRAM__NVML_PROCESSES 256

/* The processes on a device: 0: NVML does not tell them all. */
static int vram__nvml_processes(const vram_cuda_api *api, void *device, vram_process *list,
                                uint32_t *count) {
  vram_nvml_process p[VRAM__NVML_PROCESSES];
  vram_nvml_process1 *old = (vram_nvml_process1 *)(void *)p; /* each no larger */
  int (*newer[2])(void *, unsigned *, vram_nvml_process *);
  int (*older[2])(void *, unsigned *, vram_nvml_process1 *);
  int kind, failed = 0;
  unsigned i, n;
  newer[0] = api->nvml_DeviceGetComputeRunningProcesses3
                 ? api->nvml_DeviceGetComputeRunningProcesses3
                 : api->nvml_DeviceGetComputeRunningProcesses2;
  newer[1] = api->nvml_DeviceGetGraphicsRunningProcesses3
                 ? api->nvml_DeviceGetGraphicsRunningProcesses3
                 : api->nvml_DeviceGetGraphicsRunningProcesses2;
  older[0] = api->nvml_DeviceGetComputeRunningProcesses1;
  older[1] = api->nvml_DeviceGetGraphicsRunningProcesses1;
  *count = 0;
  for (kind = 0; kind < 2; kind++) {
    int result = 1;
    n = VRAM__NVML_PROCESSES;
    /* as many as there is room for at once: the list may grow between two questions */
    if (newer[kind])
      result = newer[kind](device, &n, p);
    else if (older[kind])
      result = older[kind](device, &n, old);
    if (result) { /* graphics: many devices have none */
      failed |= kind == 0 || result == 7;
      continue;
    }
    for (i = 0; i < n && i < VRAM__NVML_PROCESSES; i++)
      vram__cuda_process_add(list, count, VRAM__NVML_PROCESSES, newer[kind] ? p[i].pid : old[i].pid,
                             newer[kind] ? p[i].bytes : old[i].bytes);
  }
  return !failed;
}

/* whose memory it is, from what NVML says */
static void vram__cuda_view_processes(vram_cuda_view *v, vram_process *list, uint32_t n) {
  const uint32_t pid = (uint32_t)getpid();
  uint32_t i, k;
  int all = 1;
  uint64_t others = 0;
  for (i = 0; i < n; i++) {
    vram_process x = list[i];
    if (x.pid == pid) {
      v->process = x.bytes;
      continue;
    }
    if (x.bytes == VRAM_UNKNOWN)
      all = 0;
    else
      others += x.bytes;
    for (k = v->nother < VRAM_CUDA_PROCESSES ? v->nother++ : VRAM_CUDA_PROCESSES - 1;
         k && (v->other[k - 1].bytes == VRAM_UNKNOWN ||
               (v->other[k - 1].bytes < x.bytes && x.bytes != VRAM_UNKNOWN));
         k--)
      v->other[k] = v->other[k - 1];
    v->other[k] = x;
  }
  if (all)
    v->others = others;
  /* a driver that sees other numbers of processes (containers) does not know this one */
  if (v->process == VRAM_UNKNOWN && all && v->total != VRAM_UNKNOWN &&
      v->total - v->free >= others && v->total - v->free - others >= v->reserved) {
    v->process = v->total - v->free - others;
    v->derived = 1;
  }
}

/* Makes a device current; what was, for vram__cuda_device_back: -1: nothing is to be done, -2: it
   cannot be made current. */
static int vram__cuda_device_set(const vram_cuda_api *api, uint32_t device) {
  int was = -1;
  if (!api->cuda_GetDevice || VRAM__CUDA_TWICE(api->cuda_GetDevice(&was)))
    return -2;
  if (was == (int)device)
    return -1;
  return !api->cuda_SetDevice || VRAM__CUDA_TWICE(api->cuda_SetDevice((int)device)) ? -2 : was;
}

static void vram__cuda_device_back(const vram_cuda_api *api, int was) {
  if (was >= 0)
    (void)VRAM__CUDA_TWICE(api->cuda_SetDevice(was));
}

VRAM_API vram_result vram_cuda_view_of(vram_cuda_tracker *t, uint32_t device, vram_cuda_view *v) {
  vram_process list[VRAM__NVML_PROCESSES];
  const vram_cuda_api *api;
  vram_memory_stats s;
  char id[32];
  uint32_t n = 0;
  size_t left = 0, total = 0;
  void *handle = NULL;
  int was, answered;
  t = vram__cuda_of(t);
  api = t->api;
  memset(v, 0, sizeof *v);
  v->total = v->free = v->process = v->untracked = v->others = VRAM_UNKNOWN;
  if (device >= (uint32_t)VRAM_DEVICE_HOST ||
      (api->devices > 0 && device >= (uint32_t)api->devices))
    return VRAM_ERR_VALUE;
  vram_cuda_memory_stats(t, device, &s);
  v->allocated = s.allocated_bytes[VRAM_POOL_ALL].current;
  v->reserved = s.reserved_bytes[VRAM_POOL_ALL].current;
  was = api->cuda_MemGetInfo ? vram__cuda_device_set(api, device) : -2;
  if (was == -2)
    return VRAM_ERR_UNSUPPORTED;
  answered = !api->cuda_MemGetInfo(&left, &total);
  vram__cuda_device_back(api, was);
  if (!answered)
    return VRAM_ERR_UNSUPPORTED;
  v->total = total;
  v->free = left;
  /* CUDA and NVML number devices differently: the place on the bus is the same */
  memset(id, 0, sizeof id);
  if (api->cuda_DeviceGetPCIBusId && !api->cuda_DeviceGetPCIBusId(id, sizeof id, (int)device) &&
      api->nvml_DeviceGetHandleByPciBusId && vram__nvml_begin(t) &&
      !api->nvml_DeviceGetHandleByPciBusId(id, &handle) &&
      vram__nvml_processes(api, handle, list, &n))
    vram__cuda_view_processes(v, list, n);
  if (v->process != VRAM_UNKNOWN && v->process >= v->reserved)
    v->untracked = v->process - v->reserved;
  return VRAM_OK;
}

/* What vram_write_oom can know; v has the processes. */
static vram_oom vram__cuda_oom(vram_cuda_tracker *t, vram_cuda_view *v, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner) {
  vram_oom o = VRAM_ZERO_INIT;
  o.bytes = bytes;
  o.stream = stream;
  o.device = device;
  o.owner = owner;
  o.has_view = vram_cuda_view_of(t, device, v) == VRAM_OK;
  if (!o.has_view)
    return o;
  o.total_bytes = v->total;
  o.free_bytes = v->free;
  o.process_bytes = v->process;
  o.process = v->other;
  o.nprocess = v->nother;
  return o;
}

VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner) {
  vram_cuda_view view;
  vram_sink sink;
  vram_event e;
  vram_oom o;
  if (!vram__cuda_open(t))
    return;
  sink = vram__cuda_sink(t);
  o = vram__cuda_oom(t, &view, device, bytes, stream, owner);
  o.call = vram_cuda_kind_name((uint32_t)kind);
  e = vram__cuda_event(VRAM_ACTION_OOM, device, bytes);
  e.stream = stream;
  e.owner = owner;
  e.kind = (uint8_t)kind;
  e.device_free = o.has_view ? o.free_bytes : 0;
  vram_ledger_event(&t->ledger, &e);
  if (!t->options.quiet)
    (void)vram_write_oom(&t->ledger, &o, &sink);
}

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

#endif /* VRAM_CUDA_IMPLEMENTATION */

/* >>reroute ====================================================================================
   From here on the calls of the file that defines VRAM_CUDA_REROUTE are counted: for the linker,
   CUDA's functions have other names, those of >>route. The program keeps its own: functions and
   members that are called cudaFree, too, pointers to it and templates over it are what they were.
   Macros only tell the lines of what allocates. Nothing is done where code for a device is made.
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
#ifdef VRAM_STATIC
#error "VRAM_CUDA_REROUTE: the linker has to see the implementation, not VRAM_STATIC"
#endif

#ifndef __CUDA_ARCH__
/* GCC and Clang rename what is declared again. nvcc forgets such a name, and Clang refuses it where
   CUDA's templates have used the function: there the assembler makes one symbol of the two. */
#if defined(__CUDACC__) || (defined(__clang__) && defined(__cplusplus))
#define VRAM__REROUTE_SET
#define VRAM__NAME(type, name, to, parameters)                                                     \
  __asm__(".set " VRAM__CUDA_TEXT(name) ", " VRAM__CUDA_TEXT(to));
#elif defined(__cplusplus)
#define VRAM__NAME(type, name, to, parameters)                                                     \
  extern "C" type name parameters __asm__(VRAM__CUDA_TEXT(to));
#else
#define VRAM__NAME(type, name, to, parameters)                                                     \
  extern type name parameters __asm__(VRAM__CUDA_TEXT(to));
#endif
#define VRAM__R(name, parameters)                                                                  \
  VRAM__NAME(cudaError_t, name, VRAM__ROUTED(vram_routed_##name), parameters)
#define VRAM__D(name, parameters)                                                                  \
  VRAM__NAME(CUresult, name, VRAM__ROUTED(vram_routed_##name), parameters)

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#endif
#ifdef __CUDA_RUNTIME_API_H__
VRAM__CUDA_NEEDED
VRAM__R(cudaMalloc, (void **p, size_t n))
VRAM__R(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height))
VRAM__R(cudaMalloc3D, (struct cudaPitchedPtr * p, struct cudaExtent extent))
VRAM__R(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                          size_t width, size_t height, unsigned flags))
VRAM__R(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                            struct cudaExtent extent, unsigned flags))
VRAM__R(cudaMallocMipmappedArray,
        (cudaMipmappedArray_t * array, const struct cudaChannelFormatDesc *desc,
         struct cudaExtent extent, unsigned levels, unsigned flags))
VRAM__R(cudaMallocManaged, (void **p, size_t n, unsigned flags))
VRAM__R(cudaMallocHost, (void **p, size_t n))
VRAM__R(cudaHostAlloc, (void **p, size_t n, unsigned flags))
VRAM__R(cudaHostRegister, (void *p, size_t n, unsigned flags))
VRAM__R(cudaIpcOpenMemHandle, (void **p, cudaIpcMemHandle_t handle, unsigned flags))
VRAM__R(cudaFree, (void *p))
VRAM__R(cudaFreeHost, (void *p))
VRAM__R(cudaHostUnregister, (void *p))
VRAM__R(cudaFreeArray, (cudaArray_t array))
VRAM__R(cudaFreeMipmappedArray, (cudaMipmappedArray_t array))
VRAM__R(cudaIpcCloseMemHandle, (void *p))
VRAM__R(cudaDeviceReset, (void))
#if CUDART_VERSION >= 11020
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define VRAM__OF_STREAM(name, parameters)                                                          \
  VRAM__NAME(cudaError_t, name, VRAM__ROUTED(vram_routed_##name##_ptsz), parameters)
#else
#define VRAM__OF_STREAM(name, parameters) VRAM__R(name, parameters)
#endif
VRAM__OF_STREAM(cudaMallocAsync, (void **p, size_t n, cudaStream_t stream))
VRAM__OF_STREAM(cudaMallocFromPoolAsync,
                (void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream))
VRAM__OF_STREAM(cudaFreeAsync, (void *p, cudaStream_t stream))
VRAM__R(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *prop))
VRAM__R(cudaMemPoolDestroy, (cudaMemPool_t pool))
VRAM__R(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep))
#endif
#endif /* __CUDA_RUNTIME_API_H__ */
#ifdef __cuda_cuda_h__
VRAM__D(cuMemAlloc, (CUdeviceptr * p, size_t n))
VRAM__D(cuMemFree, (CUdeviceptr p))
#if CUDA_VERSION >= 10020
VRAM__D(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t n,
                      const CUmemAllocationProp *prop, unsigned long long flags))
VRAM__D(cuMemRelease, (CUmemGenericAllocationHandle handle))
VRAM__D(cuMemMap, (CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags))
VRAM__D(cuMemUnmap, (CUdeviceptr p, size_t n))
#endif
#if CUDA_VERSION >= 11000
VRAM__D(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *p))
#endif
#endif /* __cuda_cuda_h__ */
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

/* The first argument of a call, told as this line's on its way. */
#ifdef __cplusplus
#ifdef __CUDACC__ /* a kernel may call cudaMalloc: nothing of that runs here */
#define VRAM__ANYWHERE __host__ __device__
#ifdef __NVCC__
#pragma nv_exec_check_disable
#endif
#else
#define VRAM__ANYWHERE
#endif
struct vram__literal { /* 0 or NULL, which are pointers, too */
  long value;
  VRAM__ANYWHERE explicit vram__literal(long x) : value(x) {}
  VRAM__ANYWHERE operator long() const { return value; }
  template <class vram__any> VRAM__ANYWHERE operator vram__any *() const {
    return reinterpret_cast<vram__any *>(static_cast<uintptr_t>(value));
  }
};
template <class vram__any> struct vram__passed { typedef vram__any &&type; };
template <> struct vram__passed<int> { typedef vram__literal type; };
template <> struct vram__passed<long> { typedef vram__literal type; };
struct vram__here {
  vram_cuda_tracker *t;
  const char *file, *function;
  uint32_t line;
  VRAM__ANYWHERE vram__here(vram_cuda_tracker *of, const char *in, uint32_t at, const char *by)
      : t(of), file(in), function(by), line(at) {}
  /* binds looser than all that may stand in an argument */
#ifdef __NVCC__
#pragma nv_exec_check_disable
#endif
  template <class vram__any>
  VRAM__ANYWHERE typename vram__passed<vram__any>::type operator|=(vram__any &&x) const {
    (void)vram_cuda_here(t, file, line, function, address(x, 0));
    return static_cast<typename vram__passed<vram__any>::type>(x);
  }

private:
  /* a pointer or what becomes one, a number, else nothing that CUDA knows */
  template <class vram__any>
  static auto address(const vram__any &x, int)
      -> decltype(reinterpret_cast<uintptr_t>(static_cast<const volatile void *>(x))) {
    return reinterpret_cast<uintptr_t>(static_cast<const volatile void *>(x));
  }
  template <class vram__any>
  static auto address(const vram__any &x, long) -> decltype(static_cast<uintptr_t>(x)) {
    return static_cast<uintptr_t>(x);
  }
  template <class vram__any> static uintptr_t address(const vram__any &, ...) { return 0; }
};
/* only before it: a comma in an argument may be a template's */
#define VRAM__FIRST(...) ::vram__here(VRAM_CUDA_HERE) |= __VA_ARGS__
#define VRAM__ONLY(...) VRAM__FIRST(__VA_ARGS__)
#else
/* 0 is a pointer only as it stands */
#define VRAM__ONLY(first)                                                                          \
  __builtin_choose_expr(                                                                           \
      __builtin_types_compatible_p(__typeof__(first), int) && __builtin_constant_p(first), first,  \
      (__typeof__(1 ? (first) : (first)))vram_cuda_here(VRAM_CUDA_HERE, (uintptr_t)(first)))
#define VRAM__FIRST(first, ...) VRAM__ONLY(first), __VA_ARGS__
#endif

#ifndef VRAM_CUDA_NO_LINES
/* thrust declares a cudaMallocManaged of its own: calls of that one in headers have no line */
#define VRAM__LEVEL_0 ~, VRAM__FIRST
#define VRAM__AS_IT_IS(...) __VA_ARGS__
#define VRAM__REROUTE_SECOND(first, second, ...) second
#define VRAM__REROUTE_PICK(...) VRAM__REROUTE_SECOND(__VA_ARGS__)
#define VRAM__FIRST_HERE                                                                           \
  VRAM__REROUTE_PICK(VRAM__CUDA_PASTE(VRAM__LEVEL_, __INCLUDE_LEVEL__), VRAM__AS_IT_IS, ~)
#define cudaMalloc(...) cudaMalloc(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocPitch(...) cudaMallocPitch(VRAM__FIRST(__VA_ARGS__))
#define cudaMalloc3D(...) cudaMalloc3D(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocArray(...) cudaMallocArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMalloc3DArray(...) cudaMalloc3DArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocMipmappedArray(...) cudaMallocMipmappedArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocManaged(...) cudaMallocManaged(VRAM__FIRST_HERE(__VA_ARGS__))
#define cudaMallocHost(...) cudaMallocHost(VRAM__FIRST(__VA_ARGS__))
#define cudaHostAlloc(...) cudaHostAlloc(VRAM__FIRST(__VA_ARGS__))
#define cudaHostRegister(...) cudaHostRegister(VRAM__FIRST(__VA_ARGS__))
/* under the names that CUDA's own macros give: of streams per thread, of the second version */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaMallocAsync_ptsz(...) cudaMallocAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocFromPoolAsync_ptsz(...) cudaMallocFromPoolAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#else
#define cudaMallocAsync(...) cudaMallocAsync(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocFromPoolAsync(...) cudaMallocFromPoolAsync(VRAM__FIRST(__VA_ARGS__))
#endif
#define cuMemAlloc_v2(...) cuMemAlloc_v2(VRAM__FIRST(__VA_ARGS__))
#define cuMemCreate(...) cuMemCreate(VRAM__FIRST(__VA_ARGS__))
#endif
/* into a tracker of the file's own, frees by pointer into the default one */
#ifdef VRAM__OWN_TRACKER
#define cudaIpcOpenMemHandle(...) cudaIpcOpenMemHandle(VRAM__FIRST(__VA_ARGS__))
#define cudaMemPoolCreate(...) cudaMemPoolCreate(VRAM__FIRST(__VA_ARGS__))
#define cudaMemPoolTrimTo(...) cudaMemPoolTrimTo(VRAM__FIRST(__VA_ARGS__))
#define cuMemRetainAllocationHandle(...) cuMemRetainAllocationHandle(VRAM__FIRST(__VA_ARGS__))
#define cuMemMap(...) cuMemMap(VRAM__FIRST(__VA_ARGS__))
#define cuMemUnmap(...) cuMemUnmap(VRAM__FIRST(__VA_ARGS__))
#define cudaFree(...) cudaFree(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeHost(...) cudaFreeHost(VRAM__ONLY(__VA_ARGS__))
#define cudaHostUnregister(...) cudaHostUnregister(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeArray(...) cudaFreeArray(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeMipmappedArray(...) cudaFreeMipmappedArray(VRAM__ONLY(__VA_ARGS__))
#define cudaIpcCloseMemHandle(...) cudaIpcCloseMemHandle(VRAM__ONLY(__VA_ARGS__))
#define cudaMemPoolDestroy(...) cudaMemPoolDestroy(VRAM__ONLY(__VA_ARGS__))
#define cuMemFree_v2(...) cuMemFree_v2(VRAM__ONLY(__VA_ARGS__))
#define cuMemRelease(...) cuMemRelease(VRAM__ONLY(__VA_ARGS__))
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaFreeAsync_ptsz(...) cudaFreeAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#else
#define cudaFreeAsync(...) cudaFreeAsync(VRAM__FIRST(__VA_ARGS__))
#endif
#endif
#endif /* __CUDA_ARCH__ */
#endif /* VRAM_CUDA_REROUTE */

#if defined(VRAM__REROUTE_SET) && defined(VRAM_CUDA_IMPLEMENTATION_INCLUDED)
#error                                                                                             \
    "VRAM_CUDA_REROUTE with nvcc or clang++: the implementation goes into a .c file (docs/cuda.md)"
#endif
