/* >>torch/gpu    the table of GPUs */
#include "torch/torch.h"

VRAM_API const vram_gpu *vram_gpu_at(uint32_t i) {
  static const vram_gpu gpu[] = {
#define VRAM__X(name, cc, sm, sold, mib, source)                                                   \
  {name, cc, sm, sold, UINT64_C(1048576) * (mib), source},
      VRAM_GPUS(VRAM__X)
#undef VRAM__X
  };
  return i < sizeof gpu / sizeof *gpu ? &gpu[i] : NULL;
}
