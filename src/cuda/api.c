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

#if !defined(VRAM_CUDA_LINKED) && !defined(VRAM_CUDA_DLOPEN) && defined(__CUDA_RUNTIME_API_H__)
#define VRAM_CUDA_LINKED
#endif

#ifdef VRAM_CUDA_LINKED
#include <cuda_runtime_api.h>

/* Each function of the runtime behind the types of the table. The parentheses keep
   VRAM_CUDA_REROUTE's macros away. */
#define VRAM__LINK(field, arguments, call)                                                         \
  static int vram__link_##field arguments { return (int)call; }
VRAM__LINK(cuda_Malloc, (void **p, size_t n), (cudaMalloc)(p, n))
VRAM__LINK(cuda_MallocPitch, (void **p, size_t *pitch, size_t width, size_t height),
           (cudaMallocPitch)(p, pitch, width, height))
static struct cudaExtent vram__link_extent(vram_cuda_extent e) {
  struct cudaExtent to;
  to.width = e.width;
  to.height = e.height;
  to.depth = e.depth;
  return to;
}
static struct cudaChannelFormatDesc vram__link_channel(const vram_cuda_channel *c) {
  struct cudaChannelFormatDesc to;
  to.x = c->x;
  to.y = c->y;
  to.z = c->z;
  to.w = c->w;
  to.f = (enum cudaChannelFormatKind)c->format;
  return to;
}
static int vram__link_cuda_Malloc3D(vram_cuda_pitched *p, vram_cuda_extent extent) {
  struct cudaPitchedPtr at;
  int r = (int)(cudaMalloc3D)(&at, vram__link_extent(extent));
  if (!r) {
    p->ptr = at.ptr;
    p->pitch = at.pitch;
    p->xsize = at.xsize;
    p->ysize = at.ysize;
  }
  return r;
}
static int vram__link_cuda_MallocArray(void **array, const vram_cuda_channel *channel, size_t width,
                                       size_t height, unsigned flags) {
  const struct cudaChannelFormatDesc c = vram__link_channel(channel);
  return (int)(cudaMallocArray)((cudaArray_t *)(void *)array, &c, width, height, flags);
}
static int vram__link_cuda_Malloc3DArray(void **array, const vram_cuda_channel *channel,
                                         vram_cuda_extent extent, unsigned flags) {
  const struct cudaChannelFormatDesc c = vram__link_channel(channel);
  return (int)(cudaMalloc3DArray)((cudaArray_t *)(void *)array, &c, vram__link_extent(extent),
                                  flags);
}
static int vram__link_cuda_MallocMipmappedArray(void **array, const vram_cuda_channel *channel,
                                                vram_cuda_extent extent, unsigned levels,
                                                unsigned flags) {
  const struct cudaChannelFormatDesc c = vram__link_channel(channel);
  return (int)(cudaMallocMipmappedArray)((cudaMipmappedArray_t *)(void *)array, &c,
                                         vram__link_extent(extent), levels, flags);
}
static int vram__link_cuda_IpcOpenMemHandle(void **p, vram_cuda_ipc handle, unsigned flags) {
  cudaIpcMemHandle_t h;
  memcpy(&h, &handle, sizeof h);
  return (int)(cudaIpcOpenMemHandle)(p, h, flags);
}
VRAM__LINK(cuda_MallocManaged, (void **p, size_t n, unsigned flags),
           (cudaMallocManaged)(p, n, flags))
VRAM__LINK(cuda_MallocHost, (void **p, size_t n), (cudaMallocHost)(p, n))
VRAM__LINK(cuda_HostAlloc, (void **p, size_t n, unsigned flags), (cudaHostAlloc)(p, n, flags))
VRAM__LINK(cuda_HostRegister, (void *p, size_t n, unsigned flags), (cudaHostRegister)(p, n, flags))
VRAM__LINK(cuda_HostUnregister, (void *p), (cudaHostUnregister)(p))
VRAM__LINK(cuda_Free, (void *p), (cudaFree)(p))
VRAM__LINK(cuda_FreeArray, (void *array), (cudaFreeArray)((cudaArray_t)array))
VRAM__LINK(cuda_FreeMipmappedArray, (void *array),
           (cudaFreeMipmappedArray)((cudaMipmappedArray_t)array))
VRAM__LINK(cuda_FreeHost, (void *p), (cudaFreeHost)(p))
VRAM__LINK(cuda_IpcCloseMemHandle, (void *p), (cudaIpcCloseMemHandle)(p))
VRAM__LINK(cuda_DeviceReset, (void), (cudaDeviceReset)())
VRAM__LINK(cuda_DeviceGetPCIBusId, (char *id, int n, int device),
           (cudaDeviceGetPCIBusId)(id, n, device))
VRAM__LINK(cuda_GetDevice, (int *device), (cudaGetDevice)(device))
VRAM__LINK(cuda_SetDevice, (int device), (cudaSetDevice)(device))
VRAM__LINK(cuda_GetDeviceCount, (int *n), (cudaGetDeviceCount)(n))
VRAM__LINK(cuda_GetLastError, (void), (cudaGetLastError)())
VRAM__LINK(cuda_MemGetInfo, (size_t * left, size_t *total), (cudaMemGetInfo)(left, total))
VRAM__LINK(cuda_RuntimeGetVersion, (int *version), (cudaRuntimeGetVersion)(version))
VRAM__LINK(cuda_DriverGetVersion, (int *version), (cudaDriverGetVersion)(version))
VRAM__LINK(cuda_EventCreateWithFlags, (void **event, unsigned flags),
           (cudaEventCreateWithFlags)((cudaEvent_t *)(void *)event, flags))
VRAM__LINK(cuda_EventRecord, (void *event, void *stream),
           (cudaEventRecord)((cudaEvent_t)event, (cudaStream_t)stream))
VRAM__LINK(cuda_EventQuery, (void *event), (cudaEventQuery)((cudaEvent_t)event))
VRAM__LINK(cuda_EventSynchronize, (void *event), (cudaEventSynchronize)((cudaEvent_t)event))
VRAM__LINK(cuda_EventDestroy, (void *event), (cudaEventDestroy)((cudaEvent_t)event))
VRAM__LINK(cuda_StreamCreateWithFlags, (void **stream, unsigned flags),
           (cudaStreamCreateWithFlags)((cudaStream_t *)(void *)stream, flags))
VRAM__LINK(cuda_StreamDestroy, (void *stream), (cudaStreamDestroy)((cudaStream_t)stream))
VRAM__LINK(cuda_StreamSynchronize, (void *stream), (cudaStreamSynchronize)((cudaStream_t)stream))
VRAM__LINK(cuda_StreamWaitEvent, (void *stream, void *event, unsigned flags),
           (cudaStreamWaitEvent)((cudaStream_t)stream, (cudaEvent_t)event, flags))
VRAM__LINK(cuda_MemcpyAsync, (void *to, const void *from, size_t n, int kind, void *stream),
           (cudaMemcpyAsync)(to, from, n, (enum cudaMemcpyKind)kind, (cudaStream_t)stream))
static int vram__link_cuda_StreamIsCapturing(void *stream, int *status) {
  enum cudaStreamCaptureStatus s = cudaStreamCaptureStatusNone;
  int r = (int)(cudaStreamIsCapturing)((cudaStream_t)stream, &s);
  *status = (int)s;
  return r;
}
#define VRAM__CUDA_OLD_LINKS(X)                                                                    \
  X(cuda_Malloc)                                                                                   \
  X(cuda_MallocPitch)                                                                              \
  X(cuda_Malloc3D)                                                                                 \
  X(cuda_MallocArray)                                                                              \
  X(cuda_Malloc3DArray)                                                                            \
  X(cuda_MallocMipmappedArray)                                                                     \
  X(cuda_MallocManaged)                                                                            \
  X(cuda_MallocHost)                                                                               \
  X(cuda_HostAlloc)                                                                                \
  X(cuda_HostRegister)                                                                             \
  X(cuda_HostUnregister)                                                                           \
  X(cuda_Free)                                                                                     \
  X(cuda_FreeArray)                                                                                \
  X(cuda_FreeMipmappedArray)                                                                       \
  X(cuda_FreeHost)                                                                                 \
  X(cuda_IpcOpenMemHandle)                                                                         \
  X(cuda_IpcCloseMemHandle)                                                                        \
  X(cuda_DeviceReset)                                                                              \
  X(cuda_DeviceGetPCIBusId)                                                                        \
  X(cuda_GetDevice)                                                                                \
  X(cuda_SetDevice)                                                                                \
  X(cuda_GetDeviceCount)                                                                           \
  X(cuda_GetLastError)                                                                             \
  X(cuda_MemGetInfo)                                                                               \
  X(cuda_RuntimeGetVersion)                                                                        \
  X(cuda_DriverGetVersion)                                                                         \
  X(cuda_EventCreateWithFlags)                                                                     \
  X(cuda_EventRecord)                                                                              \
  X(cuda_EventQuery)                                                                               \
  X(cuda_EventSynchronize)                                                                         \
  X(cuda_EventDestroy)                                                                             \
  X(cuda_StreamCreateWithFlags)                                                                    \
  X(cuda_StreamDestroy)                                                                            \
  X(cuda_StreamSynchronize)                                                                        \
  X(cuda_StreamWaitEvent)                                                                          \
  X(cuda_MemcpyAsync)                                                                              \
  X(cuda_StreamIsCapturing)
#if CUDART_VERSION >= 11020
VRAM__LINK(cuda_MallocAsync, (void **p, size_t n, void *stream),
           (cudaMallocAsync)(p, n, (cudaStream_t)stream))
VRAM__LINK(cuda_MallocFromPoolAsync, (void **p, size_t n, void *pool, void *stream),
           (cudaMallocFromPoolAsync)(p, n, (cudaMemPool_t)pool, (cudaStream_t)stream))
VRAM__LINK(cuda_FreeAsync, (void *p, void *stream), (cudaFreeAsync)(p, (cudaStream_t)stream))
VRAM__LINK(cuda_MemPoolCreate, (void **pool, const void *prop),
           (cudaMemPoolCreate)((cudaMemPool_t *)(void *)pool,
                               (const struct cudaMemPoolProps *)prop))
VRAM__LINK(cuda_MemPoolDestroy, (void *pool), (cudaMemPoolDestroy)((cudaMemPool_t)pool))
VRAM__LINK(cuda_MemPoolTrimTo, (void *pool, size_t keep),
           (cudaMemPoolTrimTo)((cudaMemPool_t)pool, keep))
VRAM__LINK(cuda_MemPoolGetAttribute, (void *pool, int what, void *value),
           (cudaMemPoolGetAttribute)((cudaMemPool_t)pool, (enum cudaMemPoolAttr)what, value))
VRAM__LINK(cuda_MemPoolSetAttribute, (void *pool, int what, void *value),
           (cudaMemPoolSetAttribute)((cudaMemPool_t)pool, (enum cudaMemPoolAttr)what, value))
VRAM__LINK(cuda_DeviceGetMemPool, (void **pool, int device),
           (cudaDeviceGetMemPool)((cudaMemPool_t *)(void *)pool, device))
#define VRAM__CUDA_LINKS(X)                                                                        \
  VRAM__CUDA_OLD_LINKS(X)                                                                          \
  X(cuda_MallocAsync)                                                                              \
  X(cuda_MallocFromPoolAsync)                                                                      \
  X(cuda_FreeAsync)                                                                                \
  X(cuda_MemPoolCreate)                                                                            \
  X(cuda_MemPoolDestroy)                                                                           \
  X(cuda_MemPoolTrimTo)                                                                            \
  X(cuda_MemPoolGetAttribute)                                                                      \
  X(cuda_MemPoolSetAttribute)                                                                      \
  X(cuda_DeviceGetMemPool)
#else
#define VRAM__CUDA_LINKS(X) VRAM__CUDA_OLD_LINKS(X)
#endif
#endif /* VRAM_CUDA_LINKED */

VRAM_API vram_result vram_cuda_api_linked(vram_cuda_api *api, vram_error *err) {
#ifdef VRAM_CUDA_LINKED
  void *lib[3];
  lib[VRAM_CUDA_LIB_RUNTIME] = NULL;
  vram__cuda_drivers(lib);
  vram_cuda_api_fill(api, vram__cuda_find, lib, 1);
#define VRAM__X(field) api->field = vram__link_##field;
  VRAM__CUDA_LINKS(VRAM__X)
#undef VRAM__X
  vram__cuda_api_ask(api);
  return vram__cuda_api_check(api, err);
#else
  return vram_cuda_api_dlopen(api, err);
#endif
}
