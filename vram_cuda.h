/* vram_cuda.h - v0.1 - where the memory of a CUDA program goes
   public domain or MIT-0, at your choice: see the end of vram.h, which this file needs beside it

   Do this:
     #define VRAM_IMPLEMENTATION
     #define VRAM_CUDA_IMPLEMENTATION
   before you include this file in *one* C or C++ file, to create the implementation. No CUDA header
   and no CUDA library is needed to build it; both may be there, in any order.

   Every call that takes or gives back memory is counted with the line that made it:
     #define VRAM_CUDA_REROUTE        cudaMalloc, cudaFree, ... of this file are counted: no other
     #include "vram_cuda.h"           change (it includes cuda_runtime.h and cuda.h)
   or, without the macro, call vram_cudaMalloc(&p, bytes), vram_cudaFree(p), ... by name.
     VRAM_CUDA_TAG("weights");        a name for what this scope allocates
     VRAM_CUDA_MARK();                what came and went since the last mark, line by line
     vram_cuda_memory_allocated(0)    as torch.cuda.memory_allocated(0), and the others
     vram_cuda_view_of(NULL, 0, &v)   ours, other memory of this process, other processes, free
   An allocation that fails writes a report to standard error: who asked, who holds what, what would
   help.

   Before the first include:
     VRAM_CUDA_REROUTE       see above; for the file that defines it
     VRAM_CUDA_TRACKER t     which tracker the calls of a file count in; default vram_cuda_default()
   Before the include that makes the implementation:
     VRAM_CUDA_LINKED        calls go to the CUDA runtime that the program is linked with; the
   default where cuda_runtime.h was included (nvcc does so). VRAM_CUDA_DLOPEN: not VRAM_CUDA_LIVE
   allocations that the default tracker knows; default 32768 VRAM_CUDA_OWNERS        call sites and
   tags of it; default 1023 VRAM_CUDA_TRACE         events that it keeps for snapshots; default 0
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
     a free that fails              the record comes back
     a table is full                counted in the sums and in `lost`, vram_ledger.lost_owners,
                                    never fatal
     no driver, no CUDA library     every call answers 35 (cudaErrorInsufficientDriver), driver
   calls 100 (CUDA_ERROR_NO_DEVICE); *p is not touched a function that this CUDA does not have   801
   (not supported) after vram_cuda_tracker_end    calls are passed on and not counted; counters
   answer 0 fork                           CUDA does not survive it: the child's tracker is empty;
   its pools answer VRAM_ERR_UNSUPPORTED

   Contents (search for the tags)
     >>api       the CUDA and NVML functions that are used, as a table of pointers
     >>tracker   what counts: for wrappers, and for libraries that see the calls otherwise
     >>calls     the calls with their places in the program; marks, tags, regions
     >>view      counters, and whose memory a device's memory is
     >>backend   pools over CUDA
     >>reroute   VRAM_CUDA_REROUTE
*/
#ifndef VRAM_CUDA_H_INCLUDED
#define VRAM_CUDA_H_INCLUDED

#include "vram.h"

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
/* as nvmlMemory_t, nvmlMemory_v2_t, nvmlProcessInfo_v1_t, nvmlProcessInfo_t */
typedef struct vram_nvml_memory {
  unsigned long long total, free, used;
} vram_nvml_memory;
typedef struct vram_nvml_memory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
} vram_nvml_memory2;
typedef struct vram_nvml_process1 {
  unsigned pid;
  unsigned long long bytes;
} vram_nvml_process1;
typedef struct vram_nvml_process {
  unsigned pid;
  unsigned long long bytes;
  unsigned gi, ci;
} vram_nvml_process;
typedef struct vram_nvml_utilization {
  unsigned gpu, memory;
} vram_nvml_utilization;

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
  X(cuda_DeviceSynchronize, cudaDeviceSynchronize, (void))                                         \
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
  X(cuda_EventDestroy, cudaEventDestroy, (void *event))

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
  X(nvml_SystemGetDriverVersion, nvmlSystemGetDriverVersion, (char *text, unsigned n))             \
  X(nvml_DeviceGetCount, nvmlDeviceGetCount_v2, (unsigned *n))                                     \
  X(nvml_DeviceGetHandleByIndex, nvmlDeviceGetHandleByIndex_v2, (unsigned i, void **device))       \
  X(nvml_DeviceGetHandleByPciBusId, nvmlDeviceGetHandleByPciBusId_v2,                              \
    (const char *id, void **device))                                                               \
  X(nvml_DeviceGetName, nvmlDeviceGetName, (void *device, char *name, unsigned n))                 \
  X(nvml_DeviceGetMemoryInfo, nvmlDeviceGetMemoryInfo, (void *device, vram_nvml_memory *m))        \
  X(nvml_DeviceGetMemoryInfo2, nvmlDeviceGetMemoryInfo_v2, (void *device, vram_nvml_memory2 *m))   \
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
    (void *device, unsigned *n, vram_nvml_process1 *p))                                            \
  X(nvml_DeviceGetUtilizationRates, nvmlDeviceGetUtilizationRates,                                 \
    (void *device, vram_nvml_utilization *u))                                                      \
  X(nvml_DeviceGetTemperature, nvmlDeviceGetTemperature, (void *device, int what, unsigned *c))    \
  X(nvml_DeviceGetPowerUsage, nvmlDeviceGetPowerUsage, (void *device, unsigned *mw))

typedef struct vram_cuda_api {
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

/* The same with the CUDA runtime that the implementation was linked with (VRAM_CUDA_LINKED); as
   vram_cuda_api_dlopen where it was not. */
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
  uint32_t ledger_process, table_process, open;
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

/* cuMemCreate (device VRAM_HOST: it is host memory); one more reference to the handle
   (cuMemRetainAllocationHandle, cuMemImportFromShareableHandle of what is known). */
VRAM_API void vram_cuda_on_create(vram_cuda_tracker *t, uint64_t handle, uint32_t device,
                                  uint64_t bytes, uint32_t owner);
VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle);
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

/* An allocation has failed for want of memory: counts it, and writes the report unless `quiet`. */
VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, uint32_t device, uint64_t bytes,
                               uint64_t stream, uint32_t owner);

/* Asks CUDA whether the stream is being captured: then allocations become nodes of a graph. */
VRAM_API int vram_cuda_capturing(const vram_cuda_api *api, void *stream);

/* Microseconds since 1970, a vram_ledger_options.clock. */
VRAM_API uint64_t vram_cuda_clock(void *user);

#endif /* VRAM_CUDA_H_INCLUDED */

#if defined(VRAM_CUDA_IMPLEMENTATION) && !defined(VRAM_CUDA_IMPLEMENTATION_INCLUDED)
#define VRAM_CUDA_IMPLEMENTATION_INCLUDED

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/time.h>

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

VRAM_API vram_result vram_cuda_api_dlopen(vram_cuda_api *api, vram_error *err) {
  void *lib[3];
  lib[VRAM_CUDA_LIB_RUNTIME] = vram__cuda_library(
      "libcudart.so.13 libcudart.so.12 libcudart.so.11.0 libcudart.so", "cudaMalloc");
  lib[VRAM_CUDA_LIB_DRIVER] = vram__cuda_library("libcuda.so.1 libcuda.so", "cuMemCreate");
  lib[VRAM_CUDA_LIB_NVML] =
      vram__cuda_library("libnvidia-ml.so.1 libnvidia-ml.so", "nvmlDeviceGetMemoryInfo");
  vram_cuda_api_fill(api, vram__cuda_find, lib, 0);
  return vram__cuda_api_check(api, err);
}

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

/* The how manieth process it is, counted over its forks: a lock that a thread of the parent held is
   free in the child, and what the parent has allocated is not the child's. */
static uint32_t vram__cuda_process = 1;
static uint32_t vram__cuda_forks; /* 1: registered */

static void vram__cuda_child(void) { vram__cuda_process++; }

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

static uint32_t vram__cuda_power(uint32_t n) { /* the power of 2 that is at least n */
  uint32_t p = 1;
  while (p < n && p < UINT32_C(1) << 31)
    p *= 2;
  return p;
}

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
  if (t->options.objects >> 30 || t->options.places >> 30 || bytes < vram_cuda_tracker_bytes(o)) {
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
                                                d ? vram__cuda_thread.tag[d - 1] : NULL)
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

#define VRAM__CUDA_SMALL 1048576u

VRAM_API void vram_cuda_on_alloc(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                                 uint64_t address, uint64_t bytes, uint64_t block_bytes,
                                 uint32_t owner) {
  vram_event e;
  if (!address || !vram__cuda_open(t))
    return;
  e = vram__cuda_event(VRAM_ALLOC, device, bytes);
  if (kind == VRAM_CUDA_PINNED || kind == VRAM_CUDA_REGISTERED) {
    e.stream = device; /* host memory has no stream: cudaDeviceReset wants to know */
    e.device = VRAM_HOST;
  }
  e.address = address;
  e.block_bytes = block_bytes ? block_bytes : bytes;
  e.small_pool = bytes <= VRAM__CUDA_SMALL;
  e.whole = kind != VRAM_CUDA_MANAGED && kind != VRAM_CUDA_ASYNC && kind != VRAM_CUDA_REGISTERED;
  e.kind = (uint8_t)kind;
  e.owner = owner;
  vram_ledger_event(&t->ledger, &e);
}

static void vram__cuda_reserved(vram_cuda_tracker *t, uint32_t device, uint64_t was, uint64_t now) {
  vram_event e = vram__cuda_event(now > was ? VRAM_SEGMENT_MAP : VRAM_SEGMENT_UNMAP, device,
                                  now > was ? now - was : was - now);
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
  vram_event e = vram__cuda_event(VRAM_ALLOC, was->device, was->bytes);
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
  e = vram__cuda_event(VRAM_ALLOC, device, bytes);
  e.address = address;
  e.stream = stream;
  e.small_pool = bytes <= VRAM__CUDA_SMALL;
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
    vram_event e = vram__cuda_event(VRAM_ALLOC, device, bytes);
    e.address = address;
    e.block_bytes = bytes;
    e.small_pool = bytes <= VRAM__CUDA_SMALL;
    e.whole = 1;
    e.kind = VRAM_CUDA_VMM;
    e.owner = owner;
    vram_ledger_event(&t->ledger, &e);
  }
}

VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (i)
    t->object[i].refs++;
  else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
}

/* nobody holds the handle and it is mapped nowhere: the memory is the device's again; under the
   lock */
static void vram__cuda_settle(vram_cuda_tracker *t, uint32_t i) {
  vram_allocation was;
  if (t->object[i].refs || t->object[i].uses || t->object[i].readers)
    return;
  (void)vram_ledger_take(&t->ledger, t->object[i].address, &was);
  vram__cuda_object_drop(t, i);
}

/* The last reference takes the handle out of the table at once: another cuMemCreate may get the
   same. Until it is known whether the release has succeeded, `readers` keeps the object. */
VRAM_API uint32_t vram_cuda_on_release(vram_cuda_tracker *t, uint64_t handle) {
  uint32_t i;
  if (!vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, handle, VRAM__CUDA_HANDLE);
  if (i) {
    t->object[i].readers++;
    if (!--t->object[i].refs)
      vram__cuda_object_unlink(t, i);
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i;
}

VRAM_API void vram_cuda_on_released(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object *o;
  if (!object || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  o = &t->object[object];
  if (o->type == VRAM__CUDA_HANDLE &&
      o->readers) { /* else: in the child of a fork, after a reset */
    o->readers--;
    if (!ok && !o->refs++)
      vram__cuda_object_link(t, object);
    vram__cuda_settle(t, object);
  }
  vram__cuda_unlock(t);
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
  uint32_t i;
  if (!address || !vram__cuda_open(t))
    return 0;
  vram__cuda_lock(t);
  i = vram__cuda_object_at(t, address, VRAM__CUDA_IPC);
  if (i) {
    t->object[i].readers++;
    if (!--t->object[i].refs)
      vram__cuda_object_unlink(t, i);
  } else
    vram__cuda_add(&t->unknown, 1);
  vram__cuda_unlock(t);
  return i;
}

VRAM_API void vram_cuda_on_closed(vram_cuda_tracker *t, uint32_t object, int ok) {
  vram__cuda_object *o;
  if (!object || !vram__cuda_open(t))
    return;
  vram__cuda_lock(t);
  o = &t->object[object];
  if (o->type == VRAM__CUDA_IPC && o->readers) {
    o->readers--;
    if (!ok && !o->refs++)
      vram__cuda_object_link(t, object);
    if (!o->refs && !o->readers) {
      vram__cuda_add(&t->ipc_bytes, 0 - o->bytes);
      vram__cuda_add(&t->ipc_count, 0 - UINT64_C(1));
      vram__cuda_object_drop(t, object);
    }
  }
  vram__cuda_unlock(t);
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
    return !api->cuda_StreamIsCapturing(stream, &status) && status != 0;
  return api->cu_StreamIsCapturing && !api->cu_StreamIsCapturing(stream, &status) && status != 0;
}

VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, uint32_t device, uint64_t bytes,
                               uint64_t stream, uint32_t owner) {
  size_t left = 0, total = 0;
  vram_event e;
  if (!vram__cuda_open(t))
    return;
  e = vram__cuda_event(VRAM_OOM, device, bytes);
  e.stream = stream;
  e.owner = owner;
  if (t->api->cuda_MemGetInfo && !t->api->cuda_MemGetInfo(&left, &total))
    e.device_free = left;
  vram_ledger_event(&t->ledger, &e);
}

#endif /* VRAM_CUDA_IMPLEMENTATION */
