/* The fake driver as a library to load before libcudart.so: programs that nvcc has built with
   -cudart shared run on it. */
#include "fake.c"

__attribute__((constructor)) static void begin(void) { fake_reset(); }

int cudaMalloc(void **p, size_t n);
int cudaFree(void *p);
int cudaGetDevice(int *d);
int cudaSetDevice(int d);
int cudaGetDeviceCount(int *n);
int cudaMemGetInfo(size_t *available, size_t *total);
int cudaDriverGetVersion(int *v);
int cudaDeviceGetPCIBusId(char *id, int n, int device);

int cudaMalloc(void **p, size_t n) { return Malloc(p, n); }
int cudaFree(void *p) { return Free(p); }
int cudaGetDevice(int *d) { return GetDevice(d); }
int cudaSetDevice(int d) { return SetDevice(d); }
int cudaGetDeviceCount(int *n) { return GetDeviceCount(n); }
int cudaMemGetInfo(size_t *available, size_t *total) { return MemGetInfo(available, total); }
int cudaDriverGetVersion(int *v) { return DriverGetVersion(v); }
int cudaDeviceGetPCIBusId(char *id, int n, int device) { return DeviceGetPCIBusId(id, n, device); }
