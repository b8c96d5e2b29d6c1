#endif /* VRAM_MACROS_ONLY */
#ifdef __clang__
#pragma clang diagnostic pop
#endif
#endif /* VRAM_H_INCLUDED */

#if defined(VRAM_IMPLEMENTATION) && !defined(VRAM_IMPLEMENTATION_INCLUDED)
#define VRAM_IMPLEMENTATION_INCLUDED
