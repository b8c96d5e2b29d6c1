/* The library as the tests of one translation unit more have it: it checks its own results. */
#include <assert.h>
#define VRAM_ASSERT(x) assert(x)
#define VRAM_IMPLEMENTATION
#include "../vram.h"
