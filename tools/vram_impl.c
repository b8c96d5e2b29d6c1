/* The library, for the units of the command. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
