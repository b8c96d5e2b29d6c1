/* the deepest expressions that a model makes by nesting; the preprocessed text is measured */
#include "vram.h"
#define C(x) VRAM_CONV_OUT(x, 3, 2, 1, 1)
#define U(x) VRAM_CONV_TRANSPOSE_OUT(x, 2, 2, 0, 0, 1)
#define P(x) VRAM_POOL_OUT_CEIL(x, 3, 2, 1, 1)
#define C8(x) C(C(C(C(C(C(C(C(x))))))))
#define U8(x) U(U(U(U(U(U(U(U(x))))))))
#define P8(x) P(P(P(P(P(P(P(P(x))))))))
/* 48 nested axes, twice in one shape, in bytes */
VRAM_STATIC_ASSERT(VRAM_BYTES(F32, VRAM_SHAPE4(1, 64, U8(C8(U8(C8(U8(P8(4096)))))),
                                               U8(C8(U8(C8(U8(P8(4096)))))))) > 0,
                   deep);
VRAM_STATIC_ASSERT(VRAM_KV_CACHE2_BYTES(Q8_0, Q4_0, 32, 8, 128, 128, VRAM_ALIGN_UP(8000, 256), 4) >
                       0,
                   kv);
VRAM_STATIC_ASSERT(VRAM_BYTES(F32, VRAM_LSTM_PROJ_PARAMS(96, 48, 20, 3, 1, 2)) > 0, lstm);
