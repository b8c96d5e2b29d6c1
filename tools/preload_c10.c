/* Throwing PyTorch's error of too little memory: tools/preload_c10.h.

   CUDAPluggableAllocator calls an allocator through a std::function and does not look at what it
   gives back: NULL becomes a tensor at address 0. An exception goes through it to whoever asked, as
   that of PyTorch's own allocator does, and torch/csrc/Exceptions.h makes torch.OutOfMemoryError of
   c10::OutOfMemoryError. This library is C and is linked with neither, so the error is made as a
   compiler would make it (the Itanium C++ ABI), of what libc10.so and libstdc++.so export: its
   constructor (2.15), or c10::Error's (2.11), whose table of virtual functions
   is then changed for the class's (it adds no members: c10/util/Exception.h); std::string by the
   constructor that libstdc++ has, in the form of the ABI that this PyTorch was built with (before
   2.6: the old one). */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* tools/preload_libc.c */
#undef _FILE_OFFSET_BITS
#include "preload_c10.h"
#include "preload_libc.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct source_location { /* c10::SourceLocation */
  const char *function, *file;
  uint32_t line;
} source_location;

typedef union std_string { /* 32 bytes in the new ABI, 8 in the old one */
  uint64_t align[8];
} std_string;

enum { ERROR_BYTES = 1024 }; /* c10::Error has some 200 */

typedef struct string_abi {
  const char *error, *base, *make, *drop;
} string_abi;
#define CXX11 "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
static const string_abi abi[] = {
    {"_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationE" CXX11 "E",
     "_ZN3c105ErrorC1ENS_14SourceLocationE" CXX11 "E", "_Z" CXX11 "C1EPKcRKS3_", "_Z" CXX11 "D1Ev"},
    {"_ZN3c1016OutOfMemoryErrorC1ENS_14SourceLocationESs", "_ZN3c105ErrorC1ENS_14SourceLocationESs",
     "_ZNSsC1EPKcRKSaIcE", "_ZNSsD1Ev"}};

void raise_error(const char *text, int of_memory) {
  const source_location here = {"vram_torch_malloc", "vram", 0};
  const char allocator = 0; /* std::allocator, which is empty */
  void (*make_string)(void *, const char *, const void *), (*drop_string)(void *);
  void (*make_error)(void *, source_location, void *), (*drop_error)(void *);
  void *(*allocate)(size_t), (*throw_it)(void *, void *, void (*)(void *));
  void *type, *error;
  void **table = NULL;
  std_string message;
  size_t i;
  type = find_anywhere(of_memory ? "_ZTIN3c1016OutOfMemoryErrorE" : "_ZTIN3c105ErrorE");
  if (!type || !find_function(&allocate, "__cxa_allocate_exception") ||
      !find_function(&throw_it, "__cxa_throw"))
    return;
  for (i = 0; i < sizeof abi / sizeof *abi; i++) {
    if (!of_memory) {
      if (!find_function(&make_error, abi[i].base))
        continue;
    } else if (!find_function(&make_error, abi[i].error)) {
      table = (void **)find_anywhere("_ZTVN3c1016OutOfMemoryErrorE");
      if (!table || !find_function(&make_error, abi[i].base))
        continue;
    }
    if (find_function(&make_string, abi[i].make) && find_function(&drop_string, abi[i].drop))
      break;
  }
  if (i == sizeof abi / sizeof *abi)
    return;
  error = allocate(ERROR_BYTES);
  make_string(&message, text, &allocator);
  make_error(error, here, &message);
  drop_string(&message);
  if (table) /* behind the distance to the top and the type */
    *(void ***)error = table + 2;
  memcpy(&drop_error, *(void ***)error, sizeof(void *)); /* the first one is the destructor */
  throw_it(error, type, drop_error);
}
