#ifndef VRAM_MACROS_ONLY /* to have the compile-time region alone, without any include */

/* What depends on a part that is left out is left out, too. */
#if defined(VRAM_NO_MODEL) && !defined(VRAM_NO_STEP)
#define VRAM_NO_STEP
#endif
#if defined(VRAM_NO_PLAN) && !defined(VRAM_NO_NET)
#define VRAM_NO_NET
#endif
#if defined(VRAM_NO_KV) && !defined(VRAM_NO_READ)
#define VRAM_NO_READ
#endif
