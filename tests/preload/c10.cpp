// PyTorch's error of too little memory, as libc10.so has it (c10/util/Exception.h), thrown by the
// allocator of libvram_preload.so through a std::function as torch::cuda::CUDAPluggableAllocator
// calls it. OWN: OutOfMemoryError has a constructor that is exported (2.15), else only its base
// has.
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace c10 {
struct SourceLocation {
  const char *function, *file;
  uint32_t line;
};
class Error : public std::exception {
  std::string text;
  std::vector<std::string> context;
  std::shared_ptr<int> backtrace;
  const void *caller = nullptr;

public:
  static int alive;
  Error(SourceLocation where, std::string message);
  Error(const Error &other) : std::exception(other), text(other.text) { alive++; }
  ~Error() override { alive--; }
  const char *what() const noexcept override { return text.c_str(); }
};
int Error::alive;
Error::Error(SourceLocation where, std::string message)
    : text(std::move(message)), backtrace(new int(1)) {
  alive++;
  if (strcmp(where.function, "vram_torch_malloc") != 0)
    text = "another function";
}
class OutOfMemoryError : public Error {
#ifdef OWN
public:
  OutOfMemoryError(SourceLocation where, std::string message);
};
OutOfMemoryError::OutOfMemoryError(SourceLocation where, std::string message)
    : Error(where, std::move(message)) {}
#else
  using Error::Error;
};
#endif
} // namespace c10

// somebody throws one: its table and type are there
void throw_one(bool now) {
  if (now)
    throw c10::OutOfMemoryError({"", "", 0}, "");
}

int main(int argc, char **argv) {
  if (argc < 2 || !dlopen("libcudart.so.13", RTLD_NOW | RTLD_LOCAL))
    return 90;
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return 91;
  std::function<void *(size_t, int, void *)> alloc =
      reinterpret_cast<void *(*)(size_t, int, void *)>(dlsym(library, "vram_torch_malloc"));
  throw_one(argc > 9);
  void *p = alloc(1000, 0, nullptr);
  int caught = 0;
  for (int i = 0; i < 100; i++)
    try {
      alloc(size_t(1) << 40, 0, nullptr);
    } catch (const c10::OutOfMemoryError &e) {
      caught += !strncmp(e.what(), "CUDA out of memory. Tried to allocate 1024.00 GiB", 49);
      if (!i)
        puts(e.what());
    }
  try {
    alloc(8, 63, nullptr); // no such device
  } catch (const c10::OutOfMemoryError &e) {
    fprintf(stderr, "%s\n", e.what());
  } catch (const c10::Error &e) {
    caught += strstr(e.what(), "no pool on device 63") != nullptr;
  }
  fprintf(stderr, "%d caught, %d alive\n", caught, c10::Error::alive);
  return !(p && caught == 101 && c10::Error::alive == 0 && alloc(1000, 0, nullptr));
}
