/* The library as the tests of one translation unit more have it: it checks its own results. */
#include <assert.h>
#ifdef VRAM_TEST_HURRIED /* whose clearing is memset */
#include <string.h>
#endif
#define VRAM_ASSERT(x) assert(x)
#define VRAM_IMPLEMENTATION
#ifdef __clang__ /* tests/hurry.sed marks what is not optimised */
#define VRAM_TEST_COLD _Pragma("clang optimize off")
#define VRAM_TEST_HOT _Pragma("clang optimize on")
#else
#define VRAM_TEST_COLD _Pragma("GCC optimize(\"O0\")")
#define VRAM_TEST_HOT _Pragma("GCC reset_options")
#endif
#ifdef VRAM_TEST_HURRIED
#include VRAM_TEST_HURRIED
#else
#include "../vram.h"
#endif
