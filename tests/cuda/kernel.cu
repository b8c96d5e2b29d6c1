/* Kernels that allocate, rerouted, built with -rdc=true: what they do is the device's affair, what
   the host does is counted. */
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#include <stdio.h>

struct node {
  node *next;
  __host__ __device__ explicit node(size_t n) : next(nullptr) {
    if (cudaMalloc(&next, n) != cudaSuccess)
      next = nullptr;
  }
  __host__ __device__ ~node() { cudaFree(next); }
};

__device__ float *room(size_t n) {
  float *p = nullptr;
  return cudaMalloc((void **)&p, n) == cudaSuccess ? p : nullptr;
}

template <class T> __global__ void fill(T *to, int n) {
  T *mine;
  cudaMalloc(&mine, sizeof(T));
  if (room(4) && to)
    to[threadIdx.x % n] = T(1);
  cudaFree(mine);
}

int main() {
  float *p;
  if (cudaMalloc(&p, 1000) != cudaSuccess)
    return 1;
  uint64_t before = vram_cuda_memory_allocated(nullptr, 0), inside;
  if (before == 0)
    fill<<<1, 32>>>(p, 4);
  {
    node n(500);
    inside = vram_cuda_memory_allocated(nullptr, 0);
  }
  cudaFree(p);
  const int good = before == 1000 && inside == 1500 && vram_cuda_memory_allocated(nullptr, 0) == 0;
  printf("%s\n", good ? "counted" : "failed");
  return !good;
}
