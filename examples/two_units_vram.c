/* the implementation for two_units.c: one file of a program defines VRAM_IMPLEMENTATION */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
