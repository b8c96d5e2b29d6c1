// A program with a static CUDA runtime. On a real driver it allocates, and that is all. A pretended
// one the runtime refuses after it has asked it for all its functions (error 103: integrity checks
// failed): then the calls that its cudaMalloc and cudaFree would make are made through the
// runtime's own pointers, wherever in memory it keeps them.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned long long dptr;

// The places in memory that hold this pointer, but not the stack.
static void **keeper(void *pointer) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  void **found = nullptr;
  while (fgets(line, sizeof line, maps)) {
    unsigned long from, to;
    char mode[8] = "";
    if (sscanf(line, "%lx-%lx %7s", &from, &to, mode) != 3 || strncmp(mode, "rw-p", 4) ||
        strstr(line, "[stack]") || to - from > 1ul << 26)
      continue;
    for (void **at = (void **)from; at < (void **)to; at++)
      if (*at == pointer)
        found = at;
  }
  fclose(maps);
  return found;
}

int main() {
  void *p = nullptr;
  cudaError_t e = cudaMalloc(&p, 5 << 20);
  if (e == cudaSuccess) {
    void *q = nullptr;
    if (cudaMalloc(&q, 3 << 20) || cudaFree(p))
      return 2;
    printf("real driver\n");
    return 0;
  }
  if (e != 103)
    return printf("cudaMalloc: %d\n", (int)e), 3;
  int (*find)(const char *, void **, int, dptr, int *);
  void *lib = dlopen("libcuda.so.1", RTLD_NOW), *alloc, *release;
  *(void **)&find = dlsym(lib, "cuGetProcAddress_v2");
  if (find("cuMemAlloc", &alloc, 3020, 0, nullptr) || find("cuMemFree", &release, 3020, 0, nullptr))
    return 4;
  void **kept_alloc = keeper(alloc), **kept_release = keeper(release);
  if (!kept_alloc || !kept_release)
    return 5; // the runtime was given something else
  dptr a, b;
  if ((*(int (**)(dptr *, size_t))kept_alloc)(&a, 5 << 20) ||
      (*(int (**)(dptr *, size_t))kept_alloc)(&b, 3 << 20) || (*(int (**)(dptr))kept_release)(a))
    return 6;
  printf("pretended driver\n");
  return 0;
}
