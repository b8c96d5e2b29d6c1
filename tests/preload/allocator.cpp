// Callers behind PyTorch's caching allocator: -DLIBRARY is its library (libc10_cuda.so), the rest
// what asks it in a thread without Python, as backward does. Lines are found by the words behind
// them.
#include <cstddef>

namespace c10 {
namespace cuda {
namespace CUDACachingAllocator {
void *allocate(size_t n);
}
} // namespace cuda
} // namespace c10

#ifdef LIBRARY
#include <cuda_runtime.h>
namespace c10 {
namespace cuda {
namespace CUDACachingAllocator {
static __attribute__((noinline)) void *alloc_block(size_t n) {
  void *p = nullptr;
  cudaMalloc(&p, n);
  return p;
}
__attribute__((noinline)) void *allocate(size_t n) {
  void *volatile p = alloc_block(n);
  return p;
}
} // namespace CUDACachingAllocator
} // namespace cuda
} // namespace c10
#else
namespace at {
namespace detail {
__attribute__((noinline)) void *empty_generic(size_t n) {
  void *volatile p = c10::cuda::CUDACachingAllocator::allocate(n);
  return p;
}
} // namespace detail
namespace native {
__attribute__((noinline)) void *convolution_backward(size_t n) {
  void *volatile p = detail::empty_generic(n); // gradient
  return p;
}
} // namespace native
} // namespace at

int main() {
  at::native::convolution_backward(1 << 20);
  return !at::detail::empty_generic(2 << 20); // workspace
}
#endif
