/* the header between macros that other headers define, and a macro that names the dtype */
#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define near
#define far
#define small char
#define I (1.0i)
#define N 10
#ifndef __cplusplus
#define bool int
#endif
#ifdef VRAM_MACROS_ONLY
#define n 7
#define t F64
#define k 9
#define s 9
#define p 9
#define d 9
#define h 9
#define bias 3
#define hidden 3
#define layers 3
#define in 3
#endif
#define MODEL_DTYPE BF16
#include "vram.h"
VRAM_STATIC_ASSERT(VRAM_BYTES(MODEL_DTYPE, 3) == 6, dtype_by_macro);
VRAM_STATIC_ASSERT(VRAM_CONV2D_OUT(2, 3, 20, 20, 3, 1, 1, 1) == 2400, conv);
VRAM_STATIC_ASSERT(VRAM_LSTM_PARAMS(96, 48, 3, 1, 2) == 168192, lstm);
VRAM_STATIC_ASSERT(VRAM_KV_CACHE_BYTES(MODEL_DTYPE, 2, 2, 64, 10, 1) == 10240, kv);
