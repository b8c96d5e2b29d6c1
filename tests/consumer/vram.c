/* what the program needs of it */
#define VRAM_NO_PLAN
#define VRAM_NO_WRITE
#define VRAM_IMPLEMENTATION
#include <vram.h>
