/* The fake driver as a library to load before libcudart.so: programs that nvcc has built with
   -cudart shared run on it. */
#include "fake.c"

__attribute__((constructor)) static void begin(void) { fake_reset(); }

#define REAL(name, parameters, call)                                                               \
  int cuda##name parameters;                                                                       \
  int cuda##name parameters { return call; }
REAL(Malloc, (void **p, size_t n), Malloc(p, n))
REAL(MallocPitch, (void **p, size_t *pitch, size_t width, size_t height),
     MallocPitch(p, pitch, width, height))
REAL(MallocManaged, (void **p, size_t n, unsigned flags), MallocManaged(p, n, flags))
REAL(MallocHost, (void **p, size_t n), MallocHost(p, n))
REAL(HostAlloc, (void **p, size_t n, unsigned flags), HostAlloc(p, n, flags))
REAL(MallocAsync, (void **p, size_t n, void *stream), MallocAsync(p, n, stream))
REAL(MallocFromPoolAsync, (void **p, size_t n, void *pool, void *stream),
     MallocFromPoolAsync(p, n, pool, stream))
REAL(Free, (void *p), Free(p))
REAL(FreeHost, (void *p), FreeHost(p))
REAL(FreeAsync, (void *p, void *stream), FreeAsync(p, stream))
REAL(MemPoolCreate, (void **pool, const void *prop), MemPoolCreate(pool, prop))
REAL(MemPoolDestroy, (void *pool), MemPoolDestroy(pool))
REAL(MemPoolGetAttribute, (void *pool, int what, void *value),
     MemPoolGetAttribute(pool, what, value))
REAL(DeviceGetMemPool, (void **pool, int device), DeviceGetMemPool(pool, device))
REAL(DeviceReset, (void), DeviceReset())
REAL(StreamIsCapturing, (void *stream, int *status), StreamIsCapturing(stream, status))
REAL(StreamSynchronize, (void *stream), StreamSynchronize(stream))
REAL(GetDevice, (int *d), GetDevice(d))
REAL(SetDevice, (int d), SetDevice(d))
REAL(GetDeviceCount, (int *n), GetDeviceCount(n))
REAL(GetLastError, (void), GetLastError())
REAL(PeekAtLastError, (void), 0)
REAL(MemGetInfo, (size_t * available, size_t *total), MemGetInfo(available, total))
REAL(DriverGetVersion, (int *v), DriverGetVersion(v))
REAL(RuntimeGetVersion, (int *v), RuntimeGetVersion(v))
REAL(DeviceGetPCIBusId, (char *id, int n, int device), DeviceGetPCIBusId(id, n, device))
