// Allocations whose callers have names of every sort, each on a line that says which: the test
// finds the lines by these words.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

extern "C" int cudaMalloc(void **p, size_t n);
extern "C" int cudaFree(void *p);

#define NOINLINE __attribute__((noinline))
#define KEPT __asm__ volatile("" ::: "memory")

namespace net {
template <class T> struct Tensor {
  void *at = nullptr;
  NOINLINE explicit Tensor(size_t n) {
    cudaMalloc(&at, n * sizeof(T)); // a template
    KEPT;
  }
};
static inline __attribute__((always_inline)) void *take(size_t n) {
  void *p = nullptr;
  cudaMalloc(&p, n); // inlined
  return p;
}
NOINLINE void *load(size_t n) {
  void *p = take(n); // around it
  KEPT;
  return p;
}
} // namespace net

namespace {
NOINLINE void *hidden(size_t n) {
  void *p = nullptr;
  cudaMalloc(&p, n); // not exported
  KEPT;
  return p;
}
} // namespace

int main(int argc, char **argv) {
  void *p = nullptr;
  net::Tensor<float> t(1 << 18);
  net::load(2 << 20);
  hidden(3 << 20);
  for (int i = 1; i < argc; i++)
    if (!strcmp(argv[i], "fail"))
      cudaMalloc(&p, size_t(1) << 40); // too much
    else if (!strncmp(argv[i], "two", 3)) {
      void *q = nullptr;
      cudaMalloc(&p, 5 << 20), cudaMalloc(&q, 7 << 20); // on one line
      cudaFree(argv[i][3] ? q : p);
    } else if (!strcmp(argv[i], "wait"))
      printf("ready\n"), fflush(stdout), pause();
    else
      usleep(useconds_t(atoi(argv[i])) * 1000);
  return 0;
}
