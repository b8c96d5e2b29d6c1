/* Ranges of NVTX, by its own headers, as tags: of the default domain and of others, in C and C++,
   wide and registered names; a tag of vram_cuda.h before them. */
#define VRAM_CUDA_REROUTE
#include "../../vram_cuda.h"
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvtx3.hpp>
#include <stdio.h>
#include <string.h>
#include <string>

static int failed;
static void is(int ok, const char *what, int line) {
  if (!ok) {
    printf("line %d: %s\n", line, what);
    failed = 1;
  }
}
#define IS(x) is(x, #x, __LINE__)

/* what the owner of the one allocation has as its tag */
static std::string tag(void) {
  vram_owner o[4];
  float *p = nullptr;
  IS(cudaMalloc(&p, 1000) == cudaSuccess);
  const uint32_t n = vram_ledger_owners(&vram_cuda_default()->ledger, 0, o, 4);
  const std::string s = n == 1 && o[0].tag ? o[0].tag : "-";
  IS(n == 1);
  IS(cudaFree(p) == cudaSuccess);
  return s;
}

struct library {
  static constexpr char const *name{"library"};
};
struct known {
  static constexpr char const *message{"registered"};
};

int main() {
  IS(tag() == "-");
  {
    char name[] = "step";
    nvtxRangePushA(name);
    memset(name, '?', 4);
    IS(tag() == "step");
    nvtxRangePushW(L"\u00e9tape \U0001f680");
    IS(tag() == "\xc3\xa9tape \xf0\x9f\x9a\x80");
    nvtxRangePop();
    IS(tag() == "step");
    {
      const nvtx3::scoped_range a{"attention"};
      IS(tag() == "attention");
      const nvtx3::scoped_range_in<library> b{"in a library"};
      IS(tag() == "in a library");
      nvtxRangePop(); /* "attention", of the default domain */
      IS(tag() == "in a library");
      nvtxRangePushA("again");
      const nvtx3::scoped_range_in<library> c{nvtx3::registered_string_in<library>::get<known>()};
      IS(tag() == "registered");
      VRAM_CUDA_TAG("mine");
      IS(tag() == "mine");
      nvtxRangePushA("below");
      IS(tag() == "mine");
      nvtxRangePop();
    }
    IS(tag() == "step");
    nvtxRangePop();
    nvtxRangePop(); /* one too many */
  }
  IS(tag() == "-");
  for (int i = 0; i < 40; i++)
    nvtxRangePushA(std::to_string(i).c_str());
  IS(tag() == "31");
  for (int i = 0; i < 39; i++)
    nvtxRangePop();
  IS(tag() == "0");
  nvtxRangePop();
  IS(tag() == "-");
  printf("%s\n", failed ? "failed" : "counted");
  return failed;
}
