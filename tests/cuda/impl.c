#define VRAM_IMPLEMENTATION
#define VRAM_CUDA_IMPLEMENTATION
#include "../../vram_cuda.h"
