/* what the program needs of it */
#define VRAM_NO_PLAN
#define VRAM_NO_WRITE
#define VRAM_NO_READ
#define VRAM_NO_KV
#define VRAM_IMPLEMENTATION
#include <vram.h>
