#endif /* VRAM_CUDA_IMPLEMENTATION */

/* >>reroute ====================================================================================
   From here on the calls of the file that defines VRAM_CUDA_REROUTE are counted: for the linker,
   CUDA's functions have other names, those of >>route. The program keeps its own: functions and
   members that are called cudaFree, too, pointers to it and templates over it are what they were.
   Macros only tell the lines of what allocates. Nothing is done where code for a device is made.
 */
#if defined(VRAM_CUDA_REROUTE) && !defined(VRAM_CUDA_REROUTED)
#define VRAM_CUDA_REROUTED

#if defined(__has_include)
#if __has_include(<cuda_runtime.h>)
#include <cuda_runtime.h>
#endif
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#if !defined(__CUDA_RUNTIME_API_H__) && !defined(__cuda_cuda_h__)
#error                                                                                             \
    "VRAM_CUDA_REROUTE: include cuda_runtime.h or cuda.h first, or give the compiler their folder"
#endif
#ifdef VRAM_STATIC
#error "VRAM_CUDA_REROUTE: the linker has to see the implementation, not VRAM_STATIC"
#endif

#ifndef __CUDA_ARCH__
/* GCC and Clang rename what is declared again. nvcc forgets such a name, and Clang refuses it where
   CUDA's templates have used the function: there the assembler makes one symbol of the two. */
#if defined(__CUDACC__) || (defined(__clang__) && defined(__cplusplus))
#define VRAM__REROUTE_SET
#define VRAM__NAME(type, name, to, parameters)                                                     \
  __asm__(".set " VRAM__CUDA_TEXT(name) ", " VRAM__CUDA_TEXT(to));
#elif defined(__cplusplus)
#define VRAM__NAME(type, name, to, parameters)                                                     \
  extern "C" type name parameters __asm__(VRAM__CUDA_TEXT(to));
#else
#define VRAM__NAME(type, name, to, parameters)                                                     \
  extern type name parameters __asm__(VRAM__CUDA_TEXT(to));
#endif
#define VRAM__R(name, parameters)                                                                  \
  VRAM__NAME(cudaError_t, name, VRAM__ROUTED(vram_routed_##name), parameters)
#define VRAM__D(name, parameters)                                                                  \
  VRAM__NAME(CUresult, name, VRAM__ROUTED(vram_routed_##name), parameters)

#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wredundant-decls"
#endif
#ifdef __CUDA_RUNTIME_API_H__
VRAM__CUDA_NEEDED
VRAM__R(cudaMalloc, (void **p, size_t n))
VRAM__R(cudaMallocPitch, (void **p, size_t *pitch, size_t width, size_t height))
VRAM__R(cudaMalloc3D, (struct cudaPitchedPtr * p, struct cudaExtent extent))
VRAM__R(cudaMallocArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                          size_t width, size_t height, unsigned flags))
VRAM__R(cudaMalloc3DArray, (cudaArray_t * array, const struct cudaChannelFormatDesc *desc,
                            struct cudaExtent extent, unsigned flags))
VRAM__R(cudaMallocMipmappedArray,
        (cudaMipmappedArray_t * array, const struct cudaChannelFormatDesc *desc,
         struct cudaExtent extent, unsigned levels, unsigned flags))
VRAM__R(cudaMallocManaged, (void **p, size_t n, unsigned flags))
VRAM__R(cudaMallocHost, (void **p, size_t n))
VRAM__R(cudaHostAlloc, (void **p, size_t n, unsigned flags))
VRAM__R(cudaHostRegister, (void *p, size_t n, unsigned flags))
VRAM__R(cudaIpcOpenMemHandle, (void **p, cudaIpcMemHandle_t handle, unsigned flags))
VRAM__R(cudaFree, (void *p))
VRAM__R(cudaFreeHost, (void *p))
VRAM__R(cudaHostUnregister, (void *p))
VRAM__R(cudaFreeArray, (cudaArray_t array))
VRAM__R(cudaFreeMipmappedArray, (cudaMipmappedArray_t array))
VRAM__R(cudaIpcCloseMemHandle, (void *p))
VRAM__R(cudaDeviceReset, (void))
#if CUDART_VERSION >= 11020
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define VRAM__OF_STREAM(name, parameters)                                                          \
  VRAM__NAME(cudaError_t, name, VRAM__ROUTED(vram_routed_##name##_ptsz), parameters)
#else
#define VRAM__OF_STREAM(name, parameters) VRAM__R(name, parameters)
#endif
VRAM__OF_STREAM(cudaMallocAsync, (void **p, size_t n, cudaStream_t stream))
VRAM__OF_STREAM(cudaMallocFromPoolAsync,
                (void **p, size_t n, cudaMemPool_t pool, cudaStream_t stream))
VRAM__OF_STREAM(cudaFreeAsync, (void *p, cudaStream_t stream))
VRAM__R(cudaMemPoolCreate, (cudaMemPool_t * pool, const struct cudaMemPoolProps *prop))
VRAM__R(cudaMemPoolDestroy, (cudaMemPool_t pool))
VRAM__R(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t keep))
#endif
#endif /* __CUDA_RUNTIME_API_H__ */
#ifdef __cuda_cuda_h__
VRAM__D(cuMemAlloc, (CUdeviceptr * p, size_t n))
VRAM__D(cuMemFree, (CUdeviceptr p))
#if CUDA_VERSION >= 10020
VRAM__D(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t n,
                      const CUmemAllocationProp *prop, unsigned long long flags))
VRAM__D(cuMemRelease, (CUmemGenericAllocationHandle handle))
VRAM__D(cuMemMap, (CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle handle,
                   unsigned long long flags))
VRAM__D(cuMemUnmap, (CUdeviceptr p, size_t n))
#endif
#if CUDA_VERSION >= 11000
VRAM__D(cuMemRetainAllocationHandle, (CUmemGenericAllocationHandle * handle, void *p))
#endif
#endif /* __cuda_cuda_h__ */
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

/* The first argument of a call, told as this line's on its way. */
#ifdef __cplusplus
#ifdef __CUDACC__ /* a kernel may call cudaMalloc: nothing of that runs here */
#define VRAM__ANYWHERE __host__ __device__
#ifdef __NVCC__
#pragma nv_exec_check_disable
#endif
#else
#define VRAM__ANYWHERE
#endif
struct vram__literal { /* 0 or NULL, which are pointers, too */
  long value;
  VRAM__ANYWHERE explicit vram__literal(long x) : value(x) {}
  VRAM__ANYWHERE operator long() const { return value; }
  template <class vram__any> VRAM__ANYWHERE operator vram__any *() const {
    return reinterpret_cast<vram__any *>(static_cast<uintptr_t>(value));
  }
};
template <class vram__any> struct vram__passed { typedef vram__any &&type; };
template <> struct vram__passed<int> { typedef vram__literal type; };
template <> struct vram__passed<long> { typedef vram__literal type; };
struct vram__here {
  vram_cuda_tracker *t;
  const char *file, *function;
  uint32_t line;
  VRAM__ANYWHERE vram__here(vram_cuda_tracker *of, const char *in, uint32_t at, const char *by)
      : t(of), file(in), function(by), line(at) {}
  /* binds looser than all that may stand in an argument */
#ifdef __NVCC__
#pragma nv_exec_check_disable
#endif
  template <class vram__any>
  VRAM__ANYWHERE typename vram__passed<vram__any>::type operator|=(vram__any &&x) const {
    (void)vram_cuda_here(t, file, line, function, address(x, 0));
    return static_cast<typename vram__passed<vram__any>::type>(x);
  }

private:
  /* a pointer or what becomes one, a number, else nothing that CUDA knows */
  template <class vram__any>
  static auto address(const vram__any &x, int)
      -> decltype(reinterpret_cast<uintptr_t>(static_cast<const volatile void *>(x))) {
    return reinterpret_cast<uintptr_t>(static_cast<const volatile void *>(x));
  }
  template <class vram__any>
  static auto address(const vram__any &x, long) -> decltype(static_cast<uintptr_t>(x)) {
    return static_cast<uintptr_t>(x);
  }
  template <class vram__any> static uintptr_t address(const vram__any &, ...) { return 0; }
};
/* only before it: a comma in an argument may be a template's */
#define VRAM__FIRST(...) ::vram__here(VRAM_CUDA_HERE) |= __VA_ARGS__
#define VRAM__ONLY(...) VRAM__FIRST(__VA_ARGS__)
#else
/* 0 is a pointer only as it stands */
#define VRAM__ONLY(first)                                                                          \
  __builtin_choose_expr(                                                                           \
      __builtin_types_compatible_p(__typeof__(first), int) && __builtin_constant_p(first), first,  \
      (__typeof__(1 ? (first) : (first)))vram_cuda_here(VRAM_CUDA_HERE, (uintptr_t)(first)))
#define VRAM__FIRST(first, ...) VRAM__ONLY(first), __VA_ARGS__
#endif

#ifndef VRAM_CUDA_NO_LINES
/* thrust declares a cudaMallocManaged of its own: calls of that one in headers have no line */
#define VRAM__LEVEL_0 ~, VRAM__FIRST
#define VRAM__AS_IT_IS(...) __VA_ARGS__
#define VRAM__REROUTE_SECOND(first, second, ...) second
#define VRAM__REROUTE_PICK(...) VRAM__REROUTE_SECOND(__VA_ARGS__)
#define VRAM__FIRST_HERE                                                                           \
  VRAM__REROUTE_PICK(VRAM__CUDA_PASTE(VRAM__LEVEL_, __INCLUDE_LEVEL__), VRAM__AS_IT_IS, ~)
#define cudaMalloc(...) cudaMalloc(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocPitch(...) cudaMallocPitch(VRAM__FIRST(__VA_ARGS__))
#define cudaMalloc3D(...) cudaMalloc3D(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocArray(...) cudaMallocArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMalloc3DArray(...) cudaMalloc3DArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocMipmappedArray(...) cudaMallocMipmappedArray(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocManaged(...) cudaMallocManaged(VRAM__FIRST_HERE(__VA_ARGS__))
#define cudaMallocHost(...) cudaMallocHost(VRAM__FIRST(__VA_ARGS__))
#define cudaHostAlloc(...) cudaHostAlloc(VRAM__FIRST(__VA_ARGS__))
#define cudaHostRegister(...) cudaHostRegister(VRAM__FIRST(__VA_ARGS__))
/* under the names that CUDA's own macros give: of streams per thread, of the second version */
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaMallocAsync_ptsz(...) cudaMallocAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocFromPoolAsync_ptsz(...) cudaMallocFromPoolAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#else
#define cudaMallocAsync(...) cudaMallocAsync(VRAM__FIRST(__VA_ARGS__))
#define cudaMallocFromPoolAsync(...) cudaMallocFromPoolAsync(VRAM__FIRST(__VA_ARGS__))
#endif
#define cuMemAlloc_v2(...) cuMemAlloc_v2(VRAM__FIRST(__VA_ARGS__))
#define cuMemCreate(...) cuMemCreate(VRAM__FIRST(__VA_ARGS__))
#endif
/* into a tracker of the file's own, frees by pointer into the default one */
#ifdef VRAM__OWN_TRACKER
#define cudaIpcOpenMemHandle(...) cudaIpcOpenMemHandle(VRAM__FIRST(__VA_ARGS__))
#define cudaMemPoolCreate(...) cudaMemPoolCreate(VRAM__FIRST(__VA_ARGS__))
#define cudaMemPoolTrimTo(...) cudaMemPoolTrimTo(VRAM__FIRST(__VA_ARGS__))
#define cuMemRetainAllocationHandle(...) cuMemRetainAllocationHandle(VRAM__FIRST(__VA_ARGS__))
#define cuMemMap(...) cuMemMap(VRAM__FIRST(__VA_ARGS__))
#define cuMemUnmap(...) cuMemUnmap(VRAM__FIRST(__VA_ARGS__))
#define cudaFree(...) cudaFree(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeHost(...) cudaFreeHost(VRAM__ONLY(__VA_ARGS__))
#define cudaHostUnregister(...) cudaHostUnregister(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeArray(...) cudaFreeArray(VRAM__ONLY(__VA_ARGS__))
#define cudaFreeMipmappedArray(...) cudaFreeMipmappedArray(VRAM__ONLY(__VA_ARGS__))
#define cudaIpcCloseMemHandle(...) cudaIpcCloseMemHandle(VRAM__ONLY(__VA_ARGS__))
#define cudaMemPoolDestroy(...) cudaMemPoolDestroy(VRAM__ONLY(__VA_ARGS__))
#define cuMemFree_v2(...) cuMemFree_v2(VRAM__ONLY(__VA_ARGS__))
#define cuMemRelease(...) cuMemRelease(VRAM__ONLY(__VA_ARGS__))
#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM) || defined(__CUDART_API_PER_THREAD_DEFAULT_STREAM)
#define cudaFreeAsync_ptsz(...) cudaFreeAsync_ptsz(VRAM__FIRST(__VA_ARGS__))
#else
#define cudaFreeAsync(...) cudaFreeAsync(VRAM__FIRST(__VA_ARGS__))
#endif
#endif
#endif /* __CUDA_ARCH__ */
#endif /* VRAM_CUDA_REROUTE */

#if defined(VRAM__REROUTE_SET) && defined(VRAM_CUDA_IMPLEMENTATION_INCLUDED)
#error                                                                                             \
    "VRAM_CUDA_REROUTE with nvcc or clang++: the implementation goes into a .c file (docs/cuda.md)"
#endif
