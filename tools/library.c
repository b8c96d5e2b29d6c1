/* vram_cuda.h, for libvram.a; vram_impl.c has vram.h. */
#define VRAM_CUDA_IMPLEMENTATION
#include "../vram_cuda.h"
