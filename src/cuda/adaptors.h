/* >>adaptors ===================================================================================
   C++: what std::pmr, CCCL (cuda::mr), thrust and RMM call a memory resource or an allocator,
   counted. None of their headers is included here: a program gives their types as arguments.

     vram_cuda_allocator<T>
       std::vector (managed memory, which the host reads, too), thrust::cuda::par(allocator)
     vram_cuda_resource<P...>
       cuda::mr; each P is what may reach the memory: cuda::mr::device_accessible
     vram_cuda_memory_resource<std::pmr::memory_resource>
     vram_cuda_thrust_resource<thrust::mr::memory_resource<POINTER>>
     vram_cuda_stream_resource<rmm::mr::device_memory_resource, rmm::cuda_stream_view>

   Each is made as x(VRAM_CUDA_HERE): what it allocates is that line's, with the thread's tag. They
   throw std::bad_alloc. Alignments are CUDA's: 256 bytes; more is refused. */
#if defined(__cplusplus) && __cplusplus >= 201103L &&                                              \
    (defined(__EXCEPTIONS) || defined(__cpp_exceptions))
#include <new>

/* where, and by which call: DEVICE, MANAGED, PINNED; ASYNC: from the memory pool of a device */
struct vram_cuda_origin {
  vram_cuda_tracker *t;
  const char *file, *function;
  uint32_t line;
  vram_cuda_kind kind;

  vram_cuda_origin(vram_cuda_tracker *of, const char *in, uint32_t at, const char *by,
                   vram_cuda_kind k)
      : t(of), file(in), function(by), line(at), kind(k) {}
  void *take(size_t n, size_t alignment, void *stream) const {
    void *p = nullptr;
    const int r = alignment > 256             ? 1
                  : kind == VRAM_CUDA_ASYNC   ? vram_cudaMallocAsync_at(VRAM__SITE, &p, n, stream)
                  : kind == VRAM_CUDA_MANAGED ? vram_cudaMallocManaged_at(VRAM__SITE, &p, n, 1)
                  : kind == VRAM_CUDA_PINNED  ? vram_cudaMallocHost_at(VRAM__SITE, &p, n)
                                              : vram_cudaMalloc_at(VRAM__SITE, &p, n);
    if (r)
      throw std::bad_alloc();
    return p;
  }
  /* without a stream: for all of them, at once */
  void *take(size_t n, size_t alignment) const {
    void *const p = take(n, alignment, nullptr);
    const vram_cuda_api *const api = (t ? t : vram_cuda_default())->api;
    if (kind == VRAM_CUDA_ASYNC &&
        (!api->cuda_StreamSynchronize || api->cuda_StreamSynchronize(nullptr))) {
      give(p);
      throw std::bad_alloc();
    }
    return p;
  }
  void give(void *p) const noexcept { /* cudaFree waits for all streams, of ASYNC, too */
    if (kind == VRAM_CUDA_PINNED)
      (void)vram_cudaFreeHost_in(t, p);
    else
      (void)vram_cudaFree_in(t, p);
  }
  void give(void *p, void *stream) const noexcept {
    if (kind == VRAM_CUDA_ASYNC)
      (void)vram_cudaFreeAsync_in(t, p, stream);
    else
      give(p);
  }
  /* one may free what the other has allocated */
  bool same(const vram_cuda_origin &o) const noexcept { return t == o.t && kind == o.kind; }
};

template <class T> struct vram_cuda_allocator {
  typedef T value_type;
  vram_cuda_origin from;

  vram_cuda_allocator(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_MANAGED)
      : from(VRAM__SITE, kind) {}
  template <class U> vram_cuda_allocator(const vram_cuda_allocator<U> &o) : from(o.from) {}
  T *allocate(size_t n) {
    if (n > SIZE_MAX / sizeof(T))
      throw std::bad_alloc();
    return static_cast<T *>(from.take(n * sizeof(T), alignof(T)));
  }
  void deallocate(T *p, size_t) noexcept { from.give(p); }
  template <class U> bool operator==(const vram_cuda_allocator<U> &o) const noexcept {
    return from.same(o.from);
  }
  template <class U> bool operator!=(const vram_cuda_allocator<U> &o) const noexcept {
    return !from.same(o.from);
  }
};

/* a stream of any library: cudaStream_t, or what gives one */
template <class Stream> auto vram__cuda_stream(const Stream &s, int) -> decltype(s.get()) {
  return s.get();
}
template <class Stream> auto vram__cuda_stream(const Stream &s, long) -> decltype(s.value()) {
  return s.value();
}
template <class T> void *vram__cuda_stream(T *const &s, int) { return s; }

/* cuda::mr asks get_property(resource, P()) what it may do with the memory */
template <class Resource, class P> struct vram__cuda_property {
  friend void get_property(const Resource &, P) noexcept {}
};
template <class... P>
struct vram_cuda_resource : vram__cuda_property<vram_cuda_resource<P...>, P>... {
  vram_cuda_origin from;

  vram_cuda_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_DEVICE)
      : from(VRAM__SITE, kind) {}
  void *allocate(size_t n, size_t alignment = 256) { return from.take(n, alignment); }
  void deallocate(void *p, size_t, size_t = 256) noexcept { from.give(p); }
  template <class Stream> void *allocate_async(size_t n, size_t alignment, const Stream &s) {
    return from.take(n, alignment, vram__cuda_stream(s, 0));
  }
  template <class Stream> void *allocate_async(size_t n, const Stream &s) {
    return allocate_async(n, 256, s);
  }
  template <class Stream> void deallocate_async(void *p, size_t, size_t, const Stream &s) noexcept {
    from.give(p, vram__cuda_stream(s, 0));
  }
  template <class Stream> void deallocate_async(void *p, size_t, const Stream &s) noexcept {
    from.give(p, vram__cuda_stream(s, 0));
  }
  /* as CCCL 3.1 names them */
  void *allocate_sync(size_t n, size_t alignment = 256) { return allocate(n, alignment); }
  void deallocate_sync(void *p, size_t n, size_t = 256) noexcept { deallocate(p, n); }
  template <class Stream, class = decltype(vram__cuda_stream(*static_cast<Stream *>(nullptr), 0))>
  void *allocate(const Stream &s, size_t n, size_t alignment = 256) {
    return allocate_async(n, alignment, s);
  }
  template <class Stream, class = decltype(vram__cuda_stream(*static_cast<Stream *>(nullptr), 0))>
  void deallocate(const Stream &s, void *p, size_t n, size_t alignment = 256) noexcept {
    deallocate_async(p, n, alignment, s);
  }
  bool operator==(const vram_cuda_resource &o) const noexcept { return from.same(o.from); }
  bool operator!=(const vram_cuda_resource &o) const noexcept { return !from.same(o.from); }
};

/* std::pmr::memory_resource */
template <class Base> struct vram_cuda_memory_resource : Base {
  vram_cuda_origin from;

  vram_cuda_memory_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_MANAGED)
      : from(VRAM__SITE, kind) {}

private:
  void *do_allocate(size_t n, size_t alignment) override { return from.take(n, alignment); }
  void do_deallocate(void *p, size_t, size_t) override { from.give(p); }
  bool do_is_equal(const Base &o) const noexcept override { return this == &o; }
};

/* thrust::mr::memory_resource<POINTER>; which two are equal it knows itself */
template <class Base> struct vram_cuda_thrust_resource : Base {
  vram_cuda_origin from;

  vram_cuda_thrust_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_DEVICE)
      : from(VRAM__SITE, kind) {}
  typename Base::pointer do_allocate(size_t n, size_t alignment) override {
    return typename Base::pointer(from.take(n, alignment));
  }
  void do_deallocate(typename Base::pointer p, size_t, size_t) override { from.give(raw(p)); }

private:
  static void *raw(void *p) { return p; }
  template <class P> static auto raw(const P &p) -> decltype(p.get()) { return p.get(); }
};

/* rmm::mr::device_memory_resource */
template <class Base, class Stream> struct vram_cuda_stream_resource : Base {
  vram_cuda_origin from;

  vram_cuda_stream_resource(VRAM_CUDA_SITE, vram_cuda_kind kind = VRAM_CUDA_ASYNC)
      : from(VRAM__SITE, kind) {}

private:
  void *do_allocate(size_t n, Stream s) override {
    return from.take(n, 256, vram__cuda_stream(s, 0));
  }
  /* NOLINTNEXTLINE: noexcept where the base wants it, and no harm where it does not */
  void do_deallocate(void *p, size_t, Stream s) noexcept override {
    from.give(p, vram__cuda_stream(s, 0));
  }
  bool do_is_equal(const Base &o) const noexcept override { return this == &o; }
};
#endif
