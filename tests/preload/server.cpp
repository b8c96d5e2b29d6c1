// The server of docs/cuda.md that loses memory, and with -DLIBRARY the CUDA runtime that it runs on: one that counts nothing.
#include <signal.h>
#include <stdlib.h>

#ifdef LIBRARY
extern "C" int cudaMalloc(void **p, size_t n) { return !(*p = malloc(n)); }
extern "C" int cudaMallocManaged(void **p, size_t n, unsigned) { return !(*p = malloc(n)); }
extern "C" int cudaFree(void *p) { return free(p), 0; }
#else
extern "C" int cudaMalloc(void **, size_t), cudaMallocManaged(void **, size_t, unsigned), cudaFree(void *);

namespace net {
void *tables;
#line 88 "tables.cpp"
int load_tables() { return cudaMallocManaged(&tables, 5 << 20, 1); }
} // namespace net

#line 36 "server.cpp"
static int answer(void *scratch) {
  return cudaMalloc(&scratch, 50 << 20) || cudaFree(scratch);
}
int main() {
  void *weights;
  return cudaMalloc(&weights, 3 << 20) || net::load_tables() || answer(NULL) || raise(SIGKILL);
}
#endif
