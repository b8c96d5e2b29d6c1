/* Declarations, implementation, declarations again: in this order and in one file. */
#include "vram.h"
#define VRAM_IMPLEMENTATION
#include "vram.h"
