#define VRAM_IMPLEMENTATION
#include <vram.h>
