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
