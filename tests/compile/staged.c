/* Enumerators as arguments: a network in which every line takes constants from the line before. In
 * C++20 arithmetic between two enumerations is deprecated: the macros must not do any. */
#include "vram.h"

enum { C0 = 1, H0 = 28, W0 = 28 };
enum { C1 = 8, H1 = VRAM_CONV_OUT(H0, 3, 1, 1, 1), W1 = VRAM_CONV_OUT(W0, 3, 1, 1, 1) };
enum { P1 = VRAM_CONV2D_PARAMS(C0, C1, 3, 3, 1, 1), Y1 = VRAM_SHAPE3(C1, H1, W1) };
enum { H2 = VRAM_POOL_OUT(H1, 2, 2, 0, 1), W2 = VRAM_POOL_OUT_CEIL(W1, 2, 2, 0, 1) };
enum { Y2 = VRAM_SHAPE3(C1, H2, W2) };
enum { C3 = 10, P3 = VRAM_LINEAR_PARAMS(Y2, C3, 1), Y3 = VRAM_LINEAR_OUT(1, C3) };
enum { FLASH = VRAM_BYTES(I8, VRAM_U(0) + P1 + P3) };
enum {
  PEAK12 =
      VRAM_MAX(VRAM_BYTES(I8, VRAM_U(1) * C0 * H0 * W0 + Y1), VRAM_BYTES(I8, VRAM_U(0) + Y1 + Y2))
};
enum { PEAK = VRAM_MAX(PEAK12, VRAM_BYTES(I8, VRAM_U(0) + Y2 + Y3)) };
enum { STATE = VRAM_LSTM_PARAMS(C0, C1, C3, 1, 2), KEPT = VRAM_SAVED_BYTES(MAX_POOL, I8, Y1, Y2) };
enum { ROWS = VRAM_ROWS_BYTES(QUINT4X2, C3, H0), GQA = VRAM_GQA_PARAMS(C3, C1, C0, H0, 1) };
enum { NORM = VRAM_INSTANCE_NORM_SAVED_BYTES(I8, Y1, C0, C1, C0, C0) };
enum {
  MOE = VRAM_MOE_PARAMS(C3, C1, H0, C0, W0),
  MLA = VRAM_MLA_KV_PARAMS(C3, C1, H0, C0, W0, C1)
};
enum { KV = VRAM_KV_CACHE2_BYTES(I8, I4, C3, C1, H0, W0, C0, C1) };
enum { ADA = VRAM_ADAFACTOR_ELEMS(Y1, H1, W1), BITS = VRAM_ADAM8BIT_BYTES(Y1, H1) };
enum {
  SSM = VRAM_SSM_STATE_ELEMS(C1, H0, W0, C0),
  ATT = VRAM_ATTENTION_SAVED_BYTES(I8, C0, C1, H0, W0, C3, C0)
};

VRAM_STATIC_ASSERT(FLASH == 80 + 15690, flash_bytes);
VRAM_STATIC_ASSERT(PEAK == 6272 + 1568, sram_bytes);
VRAM_STATIC_ASSERT(FLASH <= VRAM_KIB(16) && PEAK <= VRAM_KIB(8), model_fits);

/* lines whose names are another line's and a word */
VRAM_NET_BEGIN(names, I8, 1, 8, 8, 4);
VRAM_NET_CONV2D(names, c, input, 8, 3, 3, 1, 1, SAME, 1);
VRAM_NET_ACTIVATION(names, c_total, c);
VRAM_NET_KEEP(names, c_peak, c_total);
VRAM_NET_ACTIVATION(names, c_low, c_peak);
VRAM_NET_ADD(names, c_before, c_low, c_peak);
VRAM_NET_CONV2D(names, C, c_before, 8, 1, 1, 1, 1, VALID, 1);
VRAM_NET_ACTIVATION(names, c_bias, C);
VRAM_NET_END(names, c_bias);
VRAM_STATIC_ASSERT(VRAM_NET_PARAMS(names) == 8 * 37 + 8 * 9, two_convolutions);

int staged(int layer);
int staged(int layer) {
  VRAM_STATIC_ASSERT(VRAM_U(0) + PEAK >= PEAK12, inside_a_function);
  switch (layer) {
  case Y1:
    return P1;
  case Y2:
    return P3;
  default:
    return 0;
  }
}
