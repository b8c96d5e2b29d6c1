#pragma once
/* ============================================================================================
 * >>ct    compile-time arithmetic
 *
 * Plain integer macros: no cast, no sizeof, no include. They are valid in #if, _Static_assert,
 * static_assert, array sizes, enumerators and case labels, in C99..C23 and C++11..C++20, and give
 * the same figures with 16, 32 and 64 bit int.
 *
 *   #define HIDDEN VRAM_LINEAR_PARAMS(784, 128, 1)
 *   VRAM_STATIC_ASSERT(VRAM_BYTES(F32, HIDDEN) <= VRAM_KIB(512), weights_fit_flash);
 *   static float weights[HIDDEN];
 *
 * Words
 *   elements   a count of tensor elements (no unit)
 *   bytes      always 8 bit
 *   t          a dtype token without prefix: F32, BF16, Q4_K (or a macro that expands to one)
 *   n, c       batch, channels;  k, s, p, d  kernel size, stride, padding on each side, dilation
 *   bias, ...  flags are 0 or 1
 *   nx, ny     elements of a layer's input and of its output
 *   "saved"    what PyTorch's autograd keeps from forward to backward, beyond parameters and
 *              buffers. A tensor that two layers keep (relu's y is the next convolution's x) is one
 *              storage: count it once.
 *
 * Every figure is an unsigned 64-bit constant. Macros do not check overflow: a product beyond
 * 2^64-1 wraps. Guard what comes from outside with VRAM_DIM_OK and VRAM_MUL_OK; the vram_*
 * functions check everything. Arguments must not be negative. An impossible geometry (a kernel
 * larger than the padded input) gives 0 or a huge number, and products of that mean nothing:
 * VRAM_DIM_OK of a size, or VRAM_CONV_OK of its arguments, is 0 then. Assert it.
 * Each argument is expanded once or twice, by some macros up to six times (VRAM_CMSIS_*: eight):
 * the text grows with every nested call, so name a large expression before it goes into another
 * macro. Arguments must have no side effects.
 * ============================================================================================ */

/* VRAM_U(literal): the literal as an unsigned 64-bit constant. Literals only, no macro, no sum. */
#define VRAM_U(x) x##ULL

/* ---- sizes ---------------------------------------------------------------------------------- */

/* bytes in binary and decimal units */
#define VRAM_KIB(x) (VRAM_U(1024) * (x))
#define VRAM_MIB(x) (VRAM_U(1048576) * (x))
#define VRAM_GIB(x) (VRAM_U(1073741824) * (x))
#define VRAM_KB(x) (VRAM_U(1000) * (x))
#define VRAM_MB(x) (VRAM_U(1000000) * (x))
#define VRAM_GB(x) (VRAM_U(1000000000) * (x))

/* a / b rounded up; b > 0 (b = 0 does not compile). a + b must stay below 2^64. */
#define VRAM_CEIL_DIV(a, b) ((VRAM_U(0) + (a) + (b)-VRAM_U(1)) / (b))
/* x rounded up / down to a multiple of a; a > 0, any value. */
#define VRAM_ALIGN_UP(x, a) (VRAM_CEIL_DIV(x, a) * (a))
#define VRAM_ALIGN_DOWN(x, a) (VRAM_U(1) * (x) / (a) * (a))
/* Nesting these doubles the text at each level: for a maximum over layers use a chain of
   enumerators or constants, one line for each layer, never nested calls. */
#define VRAM_MAX(a, b) ((VRAM_U(0) + (a)) > (b) ? (VRAM_U(0) + (a)) : (VRAM_U(0) + (b)))
#define VRAM_MIN(a, b) ((VRAM_U(0) + (a)) < (b) ? (VRAM_U(0) + (a)) : (VRAM_U(0) + (b)))

/* ---- checks --------------------------------------------------------------------------------- */

/* 1 when x is a size that formulas accept: 1 <= x < 2^32. 0 for a negative x. */
#define VRAM_DIM_OK(x) ((x)-VRAM_U(1) < VRAM_U(4294967295))
/* 1 when a * b fits 64 bits */
#define VRAM_MUL_OK(a, b) ((b) == VRAM_U(0) || (a) <= VRAM_U(18446744073709551615) / (b))

/* VRAM_STATIC_ASSERT(condition, name): does not compile when the condition is 0, nor when it is not
 * constant; name is an identifier and stands in the compiler's message ("static assertion failed:
 * sram_budget"; in C99 "negative width in bit-field 'sram_budget_is_violated'"). Allowed at file
 * scope and inside functions; in C99 once for each name on a line. Declares no object. */
#define VRAM__TAG_(a, b) vram__sa_##a##_##b
#define VRAM__TAG(a, b) VRAM__TAG_(a, b)
#if defined(__cplusplus)
#define VRAM_STATIC_ASSERT(condition, name) static_assert((condition), #name)
#elif defined(__SDCC) /* whose _Static_assert is a warning, and a negative width nothing at all */
#define VRAM_STATIC_ASSERT(condition, name)                                                        \
  struct VRAM__TAG(name, __LINE__) {                                                               \
    char name[(condition) ? 1 : -1];                                                               \
  }
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define VRAM_STATIC_ASSERT(condition, name) _Static_assert((condition), #name)
#else
#define VRAM_STATIC_ASSERT(condition, name)                                                        \
  struct VRAM__TAG(name, __LINE__) {                                                               \
    unsigned name##_is_violated : (condition) ? 1 : -1;                                            \
  }
#endif

/* ---- dtypes ---------------------------------------------------------------------------------
 * One line for each stored type: elements in a block, bytes of a block, what a row must be a
 * multiple of, 1 if every row is padded to a byte (else the tensor as a whole is). These figures
 * are the only copy: the run-time table (>>dtype) reads them from here.
 *
 * Sources: the formats' own headers and schemas, compared by tests/compile/check_dtypes.py with
 * the packages torch, safetensors, onnx, ml_dtypes, tflite and gguf.
 *   packed across rows, the tensor rounded up to a byte: I4 I2 U4 U2 U1 F4E2M1 F6E2M3 F6E3M2
 *     (ONNX raw_data and TFLite; safetensors takes only whole bytes, see VRAM_ROW_OK)
 *   every row rounded up to a byte: QUINT4X2 QUINT2X4 (PyTorch)
 *   blocks, a row must divide: all ggml types
 */
/*                        elements      bytes         row multiple  row padded */
#define VRAM__DT_F64 VRAM_U(1), VRAM_U(8), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_TF32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0) /* 19 bits used, 32 stored */
#define VRAM__DT_F16 VRAM_U(1), VRAM_U(2), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_BF16 VRAM_U(1), VRAM_U(2), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F8E4M3FN VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F8E5M2 VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F8E4M3FNUZ VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F8E5M2FNUZ VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F8E8M0FNU VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F6E2M3 VRAM_U(4), VRAM_U(3), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F6E3M2 VRAM_U(4), VRAM_U(3), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_F4E2M1 VRAM_U(2), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I64 VRAM_U(1), VRAM_U(8), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I16 VRAM_U(1), VRAM_U(2), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I8 VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I4 VRAM_U(2), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_I2 VRAM_U(4), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U64 VRAM_U(1), VRAM_U(8), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U16 VRAM_U(1), VRAM_U(2), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U8 VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U4 VRAM_U(2), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U2 VRAM_U(4), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_U1 VRAM_U(8), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_BOOL VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_C32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0)  /* two f16 */
#define VRAM__DT_CB32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0) /* two bf16 */
#define VRAM__DT_C64 VRAM_U(1), VRAM_U(8), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_C128 VRAM_U(1), VRAM_U(16), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_QINT8 VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_QUINT8 VRAM_U(1), VRAM_U(1), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_QINT32 VRAM_U(1), VRAM_U(4), VRAM_U(1), VRAM_U(0)
#define VRAM__DT_QUINT4X2 VRAM_U(2), VRAM_U(1), VRAM_U(1), VRAM_U(1)
#define VRAM__DT_QUINT2X4 VRAM_U(4), VRAM_U(1), VRAM_U(1), VRAM_U(1)
#define VRAM__DT_Q4_0 VRAM_U(32), VRAM_U(18), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q4_1 VRAM_U(32), VRAM_U(20), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q5_0 VRAM_U(32), VRAM_U(22), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q5_1 VRAM_U(32), VRAM_U(24), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q8_0 VRAM_U(32), VRAM_U(34), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q8_1 VRAM_U(32), VRAM_U(36), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_Q2_K VRAM_U(256), VRAM_U(84), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_Q3_K VRAM_U(256), VRAM_U(110), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_Q4_K VRAM_U(256), VRAM_U(144), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_Q5_K VRAM_U(256), VRAM_U(176), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_Q6_K VRAM_U(256), VRAM_U(210), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_Q8_K VRAM_U(256), VRAM_U(292), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ2_XXS VRAM_U(256), VRAM_U(66), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ2_XS VRAM_U(256), VRAM_U(74), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ3_XXS VRAM_U(256), VRAM_U(98), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ1_S VRAM_U(256), VRAM_U(50), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ4_NL VRAM_U(32), VRAM_U(18), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_IQ3_S VRAM_U(256), VRAM_U(110), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ2_S VRAM_U(256), VRAM_U(82), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ4_XS VRAM_U(256), VRAM_U(136), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ1_M VRAM_U(256), VRAM_U(56), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_IQ2_NL VRAM_U(32), VRAM_U(10), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_IQ3_NL VRAM_U(32), VRAM_U(14), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_TQ1_0 VRAM_U(256), VRAM_U(54), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_TQ2_0 VRAM_U(256), VRAM_U(66), VRAM_U(256), VRAM_U(0)
#define VRAM__DT_MXFP4 VRAM_U(32), VRAM_U(17), VRAM_U(32), VRAM_U(0)
#define VRAM__DT_NVFP4 VRAM_U(64), VRAM_U(36), VRAM_U(64), VRAM_U(0)
#define VRAM__DT_Q1_0 VRAM_U(128), VRAM_U(18), VRAM_U(128), VRAM_U(0)
#define VRAM__DT_Q2_0 VRAM_U(64), VRAM_U(18), VRAM_U(64), VRAM_U(0)

#define VRAM__DT(t) VRAM__DT_##t
#define VRAM__AT0_(a, b, c, d) (a)
#define VRAM__AT1_(a, b, c, d) (b)
#define VRAM__AT2_(a, b, c, d) (c)
#define VRAM__AT3_(a, b, c, d) (d)
#define VRAM__AT0(list) VRAM__AT0_(list)
#define VRAM__AT1(list) VRAM__AT1_(list)
#define VRAM__AT2(list) VRAM__AT2_(list)
#define VRAM__AT3(list) VRAM__AT3_(list)

/* elements and bytes of one block of dtype t. An unknown t does not compile: "VRAM__AT0_ requires
   4 arguments" beside the name that was given. */
#define VRAM_BLOCK_ELEMS(t) VRAM__AT0(VRAM__DT(t))
#define VRAM_BLOCK_BYTES(t) VRAM__AT1(VRAM__DT(t))
/* a row of dtype t must be a multiple of this: the block of a ggml type, else 1 */
#define VRAM_ROW_MULTIPLE(t) VRAM__AT2(VRAM__DT(t))
/* 1 when a row of n elements ends where a block or a byte ends */
#define VRAM_ROW_OK(t, n) ((n) % VRAM_BLOCK_ELEMS(t) == VRAM_U(0))

/* VRAM_BYTES(t, n): bytes of n elements of dtype t in one row or one packed tensor; sub-byte types
 * are rounded up to a whole byte. n that a ggml block does not divide does not compile (division
 * by zero). n * bytes of a block must stay below 2^64.
 *   VRAM_BYTES(F32, 10) 40   VRAM_BYTES(I4, 3) 2   VRAM_BYTES(F6E2M3, 5) 4
 *   VRAM_BYTES(Q4_K, 512) 288 */
#define VRAM_BYTES(t, n)                                                                           \
  ((VRAM_BLOCK_BYTES(t) * (n) + VRAM_BLOCK_ELEMS(t) - VRAM_U(1)) /                                 \
   ((n) % VRAM_ROW_MULTIPLE(t) == VRAM_U(0) ? VRAM_BLOCK_ELEMS(t) : VRAM_U(0)))
/* Bytes of rows x columns elements: QUINT4X2 and QUINT2X4 pad every row to a byte, a ggml block
   must divide the columns (else it does not compile), everything else is
   VRAM_BYTES(t, rows * columns). */
#define VRAM_ROWS_BYTES(t, rows, columns)                                                          \
  (VRAM__AT3(VRAM__DT(t)) == VRAM_U(1)                                                             \
       ? VRAM_U(1) * (rows)*VRAM_CEIL_DIV(columns, VRAM_BLOCK_ELEMS(t))                            \
       : (VRAM_BLOCK_BYTES(t) * (rows) * (columns) + VRAM_BLOCK_ELEMS(t) - VRAM_U(1)) /            \
             ((columns) % VRAM_ROW_MULTIPLE(t) == VRAM_U(0) ? VRAM_BLOCK_ELEMS(t) : VRAM_U(0)))

/* ---- shapes: elements ------------------------------------------------------------------------ */

#define VRAM_SHAPE1(a) (VRAM_U(1) * (a))
#define VRAM_SHAPE2(a, b) (VRAM_U(1) * (a) * (b))
#define VRAM_SHAPE3(a, b, c) (VRAM_U(1) * (a) * (b) * (c))
#define VRAM_SHAPE4(a, b, c, d) (VRAM_U(1) * (a) * (b) * (c) * (d))
#define VRAM_SHAPE5(a, b, c, d, e) (VRAM_U(1) * (a) * (b) * (c) * (d) * (e))

/* ---- one axis of convolutions and pools: size of the output axis ----------------------------- */

/* 1 when the padded input holds the dilated kernel. The sizes below are right only then (except
   VRAM_POOL_OUT_CEIL, which as PyTorch takes a last window that is not full); otherwise they are 0
   or beyond 2^32, so that VRAM_DIM_OK(VRAM_CONV_OUT(...)) tells as well. */
#define VRAM_CONV_OK(in, k, p, d)                                                                  \
  (VRAM_U(1) * (in) + VRAM_U(2) * (p) > VRAM_U(1) * (d) * ((k)-VRAM_U(1)))
/* torch.nn.ConvNd: floor((in + 2p - d(k-1) - 1) / s) + 1 */
#define VRAM_CONV_OUT(in, k, s, p, d)                                                              \
  ((VRAM_U(1) * (in) + VRAM_U(2) * (p)-VRAM_U(1) * (d) * ((k)-VRAM_U(1)) - VRAM_U(1)) / (s) +      \
   VRAM_U(1))
/* "same" padding of TFLite and Keras: ceil(in / s). PyTorch's padding="same" has s = 1. */
#define VRAM_CONV_OUT_SAME(in, s) VRAM_CEIL_DIV(in, s)
/* torch.nn.ConvTransposeNd: (in-1)s - 2p + d(k-1) + output_padding + 1 */
#define VRAM_CONV_TRANSPOSE_OUT(in, k, s, p, output_padding, d)                                    \
  (((in)-VRAM_U(1)) * (s) + VRAM_U(1) * (d) * ((k)-VRAM_U(1)) + (output_padding) + VRAM_U(1) -     \
   VRAM_U(2) * (p))
/* torch max_pool / avg_pool (d = 1) / lp_pool, ceil_mode=False */
#define VRAM_POOL_OUT(in, k, s, p, d) VRAM_CONV_OUT(in, k, s, p, d)
/* ceil_mode=True: rounded up, and a window must not begin right of the left padding plus the input.
   Both rules in one quotient: ceil((in + p - max(d(k-1) + 1 - p - s, 0)) / s).
   Needs 2p <= k, as PyTorch does. */
#define VRAM_POOL_OUT_CEIL(in, k, s, p, d)                                                         \
  VRAM_CEIL_DIV((VRAM_U(1) * (in) + (p) -                                                          \
                 (VRAM_U(1) * (d) * ((k)-VRAM_U(1)) + VRAM_U(1) > VRAM_U(1) * (p) + (s)            \
                      ? VRAM_U(1) * (d) * ((k)-VRAM_U(1)) + VRAM_U(1) - (p) - (s)                  \
                      : VRAM_U(0))),                                                               \
                (s))

/* ---- output elements -------------------------------------------------------------------------
 * Square geometry; for others multiply VRAM_CONV_OUT of each axis with VRAM_SHAPEn. k, s, p, d are
 * expanded once for each axis. */
#define VRAM_CONV1D_OUT(n, cout, l, k, s, p, d) VRAM_SHAPE3(n, cout, VRAM_CONV_OUT(l, k, s, p, d))
#define VRAM_CONV2D_OUT(n, cout, h, w, k, s, p, d)                                                 \
  VRAM_SHAPE4(n, cout, VRAM_CONV_OUT(h, k, s, p, d), VRAM_CONV_OUT(w, k, s, p, d))
#define VRAM_CONV3D_OUT(n, cout, z, h, w, k, s, p, d)                                              \
  VRAM_SHAPE5(n, cout, VRAM_CONV_OUT(z, k, s, p, d), VRAM_CONV_OUT(h, k, s, p, d),                 \
              VRAM_CONV_OUT(w, k, s, p, d))
#define VRAM_CONV_TRANSPOSE1D_OUT(n, cout, l, k, s, p, output_padding, d)                          \
  VRAM_SHAPE3(n, cout, VRAM_CONV_TRANSPOSE_OUT(l, k, s, p, output_padding, d))
#define VRAM_CONV_TRANSPOSE2D_OUT(n, cout, h, w, k, s, p, output_padding, d)                       \
  VRAM_SHAPE4(n, cout, VRAM_CONV_TRANSPOSE_OUT(h, k, s, p, output_padding, d),                     \
              VRAM_CONV_TRANSPOSE_OUT(w, k, s, p, output_padding, d))
#define VRAM_CONV_TRANSPOSE3D_OUT(n, cout, z, h, w, k, s, p, output_padding, d)                    \
  VRAM_SHAPE5(n, cout, VRAM_CONV_TRANSPOSE_OUT(z, k, s, p, output_padding, d),                     \
              VRAM_CONV_TRANSPOSE_OUT(h, k, s, p, output_padding, d),                              \
              VRAM_CONV_TRANSPOSE_OUT(w, k, s, p, output_padding, d))
#define VRAM_POOL1D_OUT(n, c, l, k, s, p, d) VRAM_SHAPE3(n, c, VRAM_POOL_OUT(l, k, s, p, d))
#define VRAM_POOL2D_OUT(n, c, h, w, k, s, p, d)                                                    \
  VRAM_SHAPE4(n, c, VRAM_POOL_OUT(h, k, s, p, d), VRAM_POOL_OUT(w, k, s, p, d))
#define VRAM_POOL3D_OUT(n, c, z, h, w, k, s, p, d)                                                 \
  VRAM_SHAPE5(n, c, VRAM_POOL_OUT(z, k, s, p, d), VRAM_POOL_OUT(h, k, s, p, d),                    \
              VRAM_POOL_OUT(w, k, s, p, d))
/* rows: product of all axes but the last */
#define VRAM_LINEAR_OUT(rows, out) VRAM_SHAPE2(rows, out)
#define VRAM_BILINEAR_OUT(rows, out) VRAM_SHAPE2(rows, out)
#define VRAM_EMBEDDING_OUT(tokens, dim) VRAM_SHAPE2(tokens, dim)
/* lstm, gru, rnn: [batch, seq, directions * hidden]; hidden is proj_size if that is set */
#define VRAM_RNN_OUT(batch, seq, hidden, directions) VRAM_SHAPE4(batch, seq, directions, hidden)
/* final hidden state h (lstm's c: the same with hidden in place of proj_size) */
#define VRAM_RNN_STATE(batch, hidden, layers, directions)                                          \
  VRAM_SHAPE4(layers, directions, batch, hidden)
/* attention: [batch, heads, sq, head_dim_v]; scores, where they are materialised (math path) */
#define VRAM_ATTENTION_OUT(batch, heads, sq, head_dim_v) VRAM_SHAPE4(batch, heads, sq, head_dim_v)
#define VRAM_ATTENTION_SCORES(batch, heads, sq, sk) VRAM_SHAPE4(batch, heads, sq, sk)
/* batch/layer/group/instance/rms norm, activations, dropout: as the input. glu: half of it. */
#define VRAM_GLU_OUT(nx) (VRAM_U(1) * (nx) / VRAM_U(2))

/* ---- parameters: elements -------------------------------------------------------------------- */

/* cout * (cin / groups) * kernel (+ cout); groups divides cin and cout */
#define VRAM_CONV1D_PARAMS(cin, cout, k, groups, bias)                                             \
  (VRAM_U(1) * (cout) * (VRAM_U(1) * (cin) / (groups) * (k) + (bias)))
#define VRAM_CONV2D_PARAMS(cin, cout, kh, kw, groups, bias)                                        \
  (VRAM_U(1) * (cout) * (VRAM_U(1) * (cin) / (groups) * (kh) * (kw) + (bias)))
#define VRAM_CONV3D_PARAMS(cin, cout, kz, kh, kw, groups, bias)                                    \
  (VRAM_U(1) * (cout) * (VRAM_U(1) * (cin) / (groups) * (kz) * (kh) * (kw) + (bias)))
/* cin * (cout / groups) * kernel (+ cout): the same count as the convolution's */
#define VRAM_CONV_TRANSPOSE1D_PARAMS(cin, cout, k, groups, bias)                                   \
  VRAM_CONV1D_PARAMS(cin, cout, k, groups, bias)
#define VRAM_CONV_TRANSPOSE2D_PARAMS(cin, cout, kh, kw, groups, bias)                              \
  VRAM_CONV2D_PARAMS(cin, cout, kh, kw, groups, bias)
#define VRAM_CONV_TRANSPOSE3D_PARAMS(cin, cout, kz, kh, kw, groups, bias)                          \
  VRAM_CONV3D_PARAMS(cin, cout, kz, kh, kw, groups, bias)
#define VRAM_LINEAR_PARAMS(in, out, bias) (VRAM_U(1) * (out) * (VRAM_U(1) * (in) + (bias)))
#define VRAM_BILINEAR_PARAMS(in1, in2, out, bias)                                                  \
  (VRAM_U(1) * (out) * (VRAM_U(1) * (in1) * (in2) + (bias)))
#define VRAM_EMBEDDING_PARAMS(num, dim) VRAM_SHAPE2(num, dim)
#define VRAM_PRELU_PARAMS(num_parameters) VRAM_SHAPE1(num_parameters)
/* affine: weight and bias of c elements */
#define VRAM_BATCH_NORM_PARAMS(c, affine) (VRAM_U(2) * (c) * (affine))
#define VRAM_INSTANCE_NORM_PARAMS(c, affine) (VRAM_U(2) * (c) * (affine))
#define VRAM_GROUP_NORM_PARAMS(c, affine) (VRAM_U(2) * (c) * (affine))
/* size: product of normalized_shape */
#define VRAM_LAYER_NORM_PARAMS(size, affine, bias)                                                 \
  (VRAM_U(1) * (size) * (affine) * (VRAM_U(1) + (bias)))
#define VRAM_RMS_NORM_PARAMS(size, affine) (VRAM_U(1) * (size) * (affine))
/* bytes of buffers: running_mean and running_var of c elements, num_batches_tracked (int64) */
#define VRAM_BATCH_NORM_BUFFER_BYTES(t, c) (VRAM_BYTES(t, VRAM_U(2) * (c)) + VRAM_U(8))

/* one layer, one direction of a recurrent net with g gates: w_ih [gH, in], w_hh [gH, rec],
   two biases [gH]; rec = H */
#define VRAM__RNN_CELL(g, in, hidden, rec, bias)                                                   \
  (VRAM_U(g) * (hidden) * (VRAM_U(1) * (in) + (rec) + VRAM_U(2) * (bias)))
#define VRAM__RNN(g, in, hidden, layers, bias, dirs)                                               \
  ((dirs) * (VRAM__RNN_CELL(g, in, hidden, hidden, bias) +                                         \
             ((layers)-VRAM_U(1)) *                                                                \
                 VRAM__RNN_CELL(g, VRAM_U(1) * (hidden) * (dirs), hidden, hidden, bias)))
/* torch.nn.LSTM / GRU / RNN; directions 1 or 2. */
#define VRAM_LSTM_PARAMS(in, hidden, layers, bias, directions)                                     \
  VRAM__RNN(4, in, hidden, layers, bias, directions)
#define VRAM_GRU_PARAMS(in, hidden, layers, bias, directions)                                      \
  VRAM__RNN(3, in, hidden, layers, bias, directions)
#define VRAM_RNN_PARAMS(in, hidden, layers, bias, directions)                                      \
  VRAM__RNN(1, in, hidden, layers, bias, directions)
/* torch.nn.LSTM with proj_size > 0: the recurrent input and every output has proj elements, and
   each layer and direction has w_hr [proj, hidden] */
#define VRAM_LSTM_PROJ_PARAMS(in, hidden, proj, layers, bias, directions)                          \
  ((directions) *                                                                                  \
   (VRAM__RNN_CELL(4, in, hidden, proj, bias) + VRAM_U(1) * (layers) * (hidden) * (proj) +         \
    ((layers)-VRAM_U(1)) *                                                                         \
        VRAM__RNN_CELL(4, VRAM_U(1) * (proj) * (directions), hidden, proj, bias)))
/* torch.nn.LSTMCell / GRUCell / RNNCell */
#define VRAM_LSTM_CELL_PARAMS(in, hidden, bias) VRAM__RNN_CELL(4, in, hidden, hidden, bias)
#define VRAM_GRU_CELL_PARAMS(in, hidden, bias) VRAM__RNN_CELL(3, in, hidden, hidden, bias)
#define VRAM_RNN_CELL_PARAMS(in, hidden, bias) VRAM__RNN_CELL(1, in, hidden, hidden, bias)

/* torch.nn.MultiheadAttention: q, k, v and output projection, whatever the number of heads */
#define VRAM_MHA_PARAMS(embed, bias) (VRAM_U(4) * (embed) * (VRAM_U(1) * (embed) + (bias)))
/* the same with kdim, vdim */
#define VRAM_MHA_KV_PARAMS(embed, kdim, vdim, bias)                                                \
  (VRAM_U(1) * (embed) * (VRAM_U(2) * (embed) + (kdim) + (vdim) + VRAM_U(4) * (bias)))
/* grouped-query attention: wq, wo [hidden, heads * head_dim], wk, wv [hidden, kv_heads * head_dim];
   qkv_bias: biases of q, k, v but not of the output (Qwen2) */
#define VRAM_GQA_PARAMS(hidden, heads, kv_heads, head_dim, qkv_bias)                               \
  (VRAM_U(1) * (head_dim) *                                                                        \
   (VRAM_U(2) * (hidden) * (VRAM_U(1) * (heads) + (kv_heads)) +                                    \
    (VRAM_U(1) * (heads) + VRAM_U(2) * (kv_heads)) * (qkv_bias)))
/* multi-head latent attention (DeepSeek): q without low rank, or with q_lora and its norm;
   kv_lora with its norm, d_nope + d_rope of a query head, d_v of a value head */
#define VRAM_MLA_Q_PARAMS(hidden, heads, d_nope, d_rope)                                           \
  (VRAM_U(1) * (hidden) * (heads) * (VRAM_U(1) * (d_nope) + (d_rope)))
#define VRAM_MLA_Q_LORA_PARAMS(hidden, heads, q_lora, d_nope, d_rope)                              \
  (VRAM_U(1) * (q_lora) *                                                                          \
   (VRAM_U(1) * (hidden) + VRAM_U(1) * (heads) * (VRAM_U(1) * (d_nope) + (d_rope)) + VRAM_U(1)))
#define VRAM_MLA_KV_PARAMS(hidden, heads, kv_lora, d_nope, d_rope, d_v)                            \
  (VRAM_U(1) * (kv_lora) *                                                                         \
       (VRAM_U(1) * (hidden) + VRAM_U(1) * (heads) * (VRAM_U(1) * (d_nope) + (d_v)) + VRAM_U(1)) + \
   VRAM_U(1) * (hidden) * (d_rope) + VRAM_U(1) * (heads) * (d_v) * (hidden))
/* feed-forward without biases: gated (SwiGLU: gate, up, down) or plain (up, down) */
#define VRAM_MLP_PARAMS(hidden, ffn, gated) (VRAM_U(1) * (hidden) * (ffn) * (VRAM_U(2) + (gated)))
/* mixture of experts: router, experts, shared expert of width shared_ffn (0: none), no biases.
   Resident parameters, and those that one token uses. */
#define VRAM_MOE_PARAMS(hidden, experts, ffn, gated, shared_ffn)                                   \
  (VRAM_U(1) * (hidden) *                                                                          \
   ((experts) + (VRAM_U(1) * (experts) * (ffn) + (shared_ffn)) * (VRAM_U(2) + (gated))))
#define VRAM_MOE_ACTIVE_PARAMS(hidden, experts, top_k, ffn, gated, shared_ffn)                     \
  (VRAM_U(1) * (hidden) *                                                                          \
   ((experts) + (VRAM_U(1) * (top_k) * (ffn) + (shared_ffn)) * (VRAM_U(2) + (gated))))
/* Llama-like decoder without biases: embedding, layers (GQA, gated MLP, two RMS norms), last norm,
   output matrix unless tied = 1 */
#define VRAM_LLAMA_PARAMS(vocab, hidden, layers, ffn, heads, kv_heads, head_dim, tied)             \
  (VRAM_U(1) * (vocab) * (hidden) * (VRAM_U(2) - (tied)) +                                         \
   (layers) * (VRAM_GQA_PARAMS(hidden, heads, kv_heads, head_dim, 0) +                             \
               VRAM_MLP_PARAMS(hidden, ffn, 1) + VRAM_U(2) * (hidden)) +                           \
   (hidden))
/* GPT-2-like decoder with biases, tied output matrix: token and position tables, layers (attention,
   4h MLP, two layer norms), last norm. */
#define VRAM_GPT2_PARAMS(vocab, context, hidden, layers)                                           \
  (VRAM_U(1) * (hidden) * (VRAM_U(1) * (vocab) + (context) + VRAM_U(2)) +                          \
   VRAM_U(1) * (layers) * (hidden) * (VRAM_U(12) * (hidden) + VRAM_U(13)))

/* ---- saved for backward ----------------------------------------------------------------------
 * PyTorch 2.15 eager on CUDA, measured. One line for each op: how many tensors of the input's size
 * and dtype it keeps (its inputs), whether it keeps its output, further tensors of the output's
 * size and dtype, further bytes for each output element (masks 1, int64 indices 8).
 * _INPLACE: y is x's storage; where a row has a further tensor it is the copy that PyTorch makes of
 * the overwritten input, so that the in-place form saves no memory.
 */
/*                                inputs     output     further    bytes for each output element */
#define VRAM__SAVES_CONV VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_LINEAR VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RELU VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RELU_INPLACE VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RELU6 VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RELU6_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_HARDTANH VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_HARDTANH_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_LEAKY_RELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_LEAKY_RELU_INPLACE VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RRELU VRAM_U(1), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_PRELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_ELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_ELU_INPLACE VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_CELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_CELU_INPLACE VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SELU_INPLACE VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_GELU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SILU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SILU_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_MISH VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MISH_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_SIGMOID VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_TANH VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_HARDSIGMOID VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_HARDSIGMOID_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_HARDSWISH VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_HARDSWISH_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_SOFTPLUS VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SOFTSIGN VRAM_U(1), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_TANHSHRINK VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_SOFTSHRINK VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_HARDSHRINK VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_THRESHOLD VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_LOGSIGMOID VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_GLU VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SOFTMAX VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_LOG_SOFTMAX VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_DROPOUT VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(1)
#define VRAM__SAVES_DROPOUT_INPLACE VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_ALPHA_DROPOUT VRAM_U(0), VRAM_U(0), VRAM_U(1), VRAM_U(0)
#define VRAM__SAVES_MAX_POOL VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(8)
#define VRAM__SAVES_ADAPTIVE_MAX_POOL VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(8)
#define VRAM__SAVES_AVG_POOL VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_ADAPTIVE_AVG_POOL VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_GLOBAL_AVG_POOL VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0) /* output_size=1 */
#define VRAM__SAVES_ADD VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SUB VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MUL VRAM_U(2), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_DIV VRAM_U(2), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MAXIMUM VRAM_U(2), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MINIMUM VRAM_U(2), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MUL_SCALAR VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_NEG VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_ABS VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_EXP VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_LOG VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SQRT VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_RSQRT VRAM_U(0), VRAM_U(1), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SQUARE VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SIN VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_COS VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_ERF VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_CLAMP VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_CAT VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_INTERPOLATE VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_PIXEL_SHUFFLE VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_PAD_CONSTANT VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_PAD_REFLECT VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_PAD_REPLICATE VRAM_U(1), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_SUM VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__SAVES_MEAN VRAM_U(0), VRAM_U(0), VRAM_U(0), VRAM_U(0)

#define VRAM__SAVES(op) VRAM__SAVES_##op
/* Does op keep its input (how many of them: 0, 1, 2) and its output (0, 1)? For chains, where one
   layer's y is the next one's x. op is a token: RELU, MAX_POOL, SILU_INPLACE. */
#define VRAM_SAVES_INPUT(op) VRAM__AT0(VRAM__SAVES(op))
#define VRAM_SAVES_OUTPUT(op) VRAM__AT1(VRAM__SAVES(op))
/* bytes that op keeps besides its inputs and its output; t: dtype of the output, ny its elements */
#define VRAM_SAVES_EXTRA_BYTES(op, t, ny)                                                          \
  (VRAM_BYTES(t, VRAM__AT2(VRAM__SAVES(op)) * (ny)) + VRAM__AT3(VRAM__SAVES(op)) * (ny))
/* everything that op keeps, inputs and output included: bytes of a layer on its own */
#define VRAM_SAVED_BYTES(op, t, nx, ny)                                                            \
  (VRAM_BYTES(t, VRAM_SAVES_INPUT(op) * (nx)) +                                                    \
   VRAM_BYTES(t, (VRAM_SAVES_OUTPUT(op) + VRAM__AT2(VRAM__SAVES(op))) * (ny)) +                    \
   VRAM__AT3(VRAM__SAVES(op)) * (ny))

/* Ops whose extra tensors have a shape of their own; statistics are fp32 whatever t is. */
/* x, mean[c], invstd[c] (training) */
#define VRAM_BATCH_NORM_SAVED_BYTES(t, nx, c) (VRAM_BYTES(t, nx) + VRAM_U(8) * (c))
/* x, mean[n c], invstd[n c]; with affine the weight, with track_running_stats both running
   statistics, each repeated n times */
#define VRAM_INSTANCE_NORM_SAVED_BYTES(t, nx, n, c, affine, track)                                 \
  (VRAM_BYTES(t, nx) + VRAM_U(4) * (n) * (c) * (VRAM_U(2) + (affine) + VRAM_U(2) * (track)))
/* x, mean[rows], rstd[rows]; rows = nx / size of normalized_shape */
#define VRAM_LAYER_NORM_SAVED_BYTES(t, nx, rows) (VRAM_BYTES(t, nx) + VRAM_U(8) * (rows))
/* x, mean[n, groups], rstd[n, groups] */
#define VRAM_GROUP_NORM_SAVED_BYTES(t, nx, n, groups)                                              \
  (VRAM_BYTES(t, nx) + VRAM_U(8) * (n) * (groups))
/* x, rstd[rows] */
#define VRAM_RMS_NORM_SAVED_BYTES(t, nx, rows) (VRAM_BYTES(t, nx) + VRAM_U(4) * (rows))
/* both operands of a product of two activations (matmul, bmm) */
#define VRAM_MATMUL_SAVED_BYTES(t, na, nb) (VRAM_BYTES(t, na) + VRAM_BYTES(t, nb))
#define VRAM_BILINEAR_SAVED_BYTES(t, nx1, nx2) VRAM_MATMUL_SAVED_BYTES(t, nx1, nx2)
/* int64 indices */
#define VRAM_EMBEDDING_SAVED_BYTES(tokens) (VRAM_U(8) * (tokens))
/* fp32 log-probabilities, total weight; int64 targets not counted (an input). Autocast with half
   precision logits: the half log-probabilities as well, 6 bytes for each logit. */
#define VRAM_CROSS_ENTROPY_SAVED_BYTES(rows, classes) (VRAM_U(4) * (rows) * (classes) + VRAM_U(4))
#define VRAM_CROSS_ENTROPY_AMP_SAVED_BYTES(rows, classes)                                          \
  (VRAM_U(6) * (rows) * (classes) + VRAM_U(4))
/* scaled_dot_product_attention without dropout and mask: q, k, v, output; the fp32 log-sum-exp of a
   query row; random state. b batch, h heads, hkv key/value heads, sq, sk lengths, e head size. */
#define VRAM__SDPA_QKVO(b, h, hkv, sq, sk, e)                                                      \
  (VRAM_U(2) * (b) * (e) * (VRAM_U(1) * (h) * (sq) + VRAM_U(1) * (hkv) * (sk)))
/* flash: random state 16 bytes and 8 unused. The head size must be a multiple of 8. */
#define VRAM_SDPA_FLASH_SAVED_BYTES(t, b, h, hkv, sq, sk, e)                                       \
  (VRAM_BYTES(t, VRAM__SDPA_QKVO(b, h, hkv, sq, sk, e)) + VRAM_U(4) * (b) * (h) * (sq) + VRAM_U(24))
/* memory-efficient: log-sum-exp rows padded to 32; seed and offset 16 bytes (0 with dropout) */
#define VRAM_SDPA_EFFICIENT_SAVED_BYTES(t, b, h, hkv, sq, sk, e)                                   \
  (VRAM_BYTES(t, VRAM__SDPA_QKVO(b, h, hkv, sq, sk, e)) +                                          \
   VRAM_U(4) * (b) * (h)*VRAM_ALIGN_UP(sq, 32) + VRAM_U(16))
/* cuDNN: log-sum-exp, seed and offset 16 bytes */
#define VRAM_SDPA_CUDNN_SAVED_BYTES(t, b, h, hkv, sq, sk, e)                                       \
  (VRAM_BYTES(t, VRAM__SDPA_QKVO(b, h, hkv, sq, sk, e)) + VRAM_U(4) * (b) * (h) * (sq) + VRAM_U(16))
/* written out (softmax(q k^T) v): q, k, v and the scores after softmax; with dropout (1) also its
   byte mask and its output. The output is not kept. h = hkv. */
#define VRAM_ATTENTION_SAVED_BYTES(t, b, h, sq, sk, e, dropout)                                    \
  (VRAM_BYTES(t, VRAM_U(1) * (b) * (h) * (e) * (VRAM_U(1) * (sq) + VRAM_U(2) * (sk))) +            \
   VRAM_BYTES(t, VRAM_U(1) * (b) * (h) * (sq) * (sk) * (VRAM_U(1) + (dropout))) +                  \
   VRAM_U(1) * (b) * (h) * (sq) * (sk) * (dropout))
/* torch.nn.MultiheadAttention on itself, no dropout: x, q k v packed, attention's output and its
   copy for the output projection. need_weights=False with the memory-efficient kernel (fp32);
   _WEIGHTS: need_weights=True, which writes the scores out and keeps the scaled q. */
#define VRAM_MHA_SAVED_BYTES(t, batch, seq, embed, heads)                                          \
  (VRAM_BYTES(t, VRAM_U(6) * (batch) * (seq) * (embed)) +                                          \
   VRAM_U(4) * (batch) * (heads)*VRAM_ALIGN_UP(seq, 32) + VRAM_U(16))
#define VRAM_MHA_WEIGHTS_SAVED_BYTES(t, batch, seq, embed, heads)                                  \
  VRAM_BYTES(t, VRAM_U(1) * (batch) * (seq) * (VRAM_U(6) * (embed) + VRAM_U(1) * (heads) * (seq)))
/* cuDNN lstm, gru, rnn: x, y, the states that were given or made (states: 2 for lstm, 1 for gru and
   rnn), and cuDNN's reserve, whose size only cuDNN knows: pass it. */
#define VRAM_RNN_SAVED_BYTES(t, nx, ny, nh, states, reserve_bytes)                                 \
  (VRAM_BYTES(t, nx) + VRAM_BYTES(t, ny) + VRAM_BYTES(t, VRAM_U(1) * (nh) * (states)) +            \
   (reserve_bytes))
/* lower bound of that reserve: per_step values of every unit and step (lstm 5, gru 4, rnn 1:
   gates, for lstm the cell). From the algorithm, not measured. */
#define VRAM_RNN_RESERVE_FLOOR(t, batch, seq, hidden, layers, directions, per_step)                \
  VRAM_BYTES(t, VRAM_U(1) * (batch) * (seq) * (hidden) * (layers) * (directions) * (per_step))
/* one transformer layer with 2-byte activations, bytes: s sequence, b batch, h hidden, a heads,
   4h feed-forward, dropout, attention written out: sbh (34 + 5 a s / h). Korthikanti et al.,
   arXiv 2205.05198. _FLASH: without the scores. */
#define VRAM_TRANSFORMER_SAVED_BYTES(s, b, h, a)                                                   \
  (VRAM_U(1) * (s) * (b) * (VRAM_U(34) * (h) + VRAM_U(5) * (a) * (s)))
#define VRAM_TRANSFORMER_FLASH_SAVED_BYTES(s, b, h) (VRAM_U(34) * (s) * (b) * (h))

/* ---- optimizer state -------------------------------------------------------------------------
 * State tensors as large as the parameter, and bytes for each parameter tensor on the device
 * (torch.optim of PyTorch 2.15, default implementation; the steady step). Values in the dtype of
 * the parameters. "step" lives in host memory unless fused or capturable.
 */
/*                              copies     bytes for each tensor */
#define VRAM__OPT_SGD VRAM_U(0), VRAM_U(0)
#define VRAM__OPT_SGD_MOMENTUM VRAM_U(1), VRAM_U(0)
#define VRAM__OPT_ADAM VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_ADAM_FUSED VRAM_U(2), VRAM_U(4)
#define VRAM__OPT_ADAM_AMSGRAD VRAM_U(3), VRAM_U(0)
#define VRAM__OPT_ADAM_AMSGRAD_FUSED VRAM_U(3), VRAM_U(4)
#define VRAM__OPT_ADAMW VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_ADAMW_FUSED VRAM_U(2), VRAM_U(4)
#define VRAM__OPT_ADAMW_AMSGRAD VRAM_U(3), VRAM_U(0)
#define VRAM__OPT_ADAMW_AMSGRAD_FUSED VRAM_U(3), VRAM_U(4)
#define VRAM__OPT_ADAGRAD VRAM_U(1), VRAM_U(0)
#define VRAM__OPT_ADAGRAD_FUSED VRAM_U(1), VRAM_U(4)
#define VRAM__OPT_RMSPROP VRAM_U(1), VRAM_U(0)
#define VRAM__OPT_RMSPROP_MOMENTUM VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_RMSPROP_CENTERED VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_RMSPROP_CENTERED_MOMENTUM VRAM_U(3), VRAM_U(0)
#define VRAM__OPT_ADADELTA VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_ADAMAX VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_NADAM VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_RADAM VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_ASGD VRAM_U(1), VRAM_U(12) /* step, eta, mu */
#define VRAM__OPT_RPROP VRAM_U(2), VRAM_U(0)
#define VRAM__OPT_MUON VRAM_U(1), VRAM_U(0) /* matrices only */
#define VRAM__OPT_LION VRAM_U(1), VRAM_U(0)
#define VRAM__OPT_LAMB VRAM_U(2), VRAM_U(0)

#define VRAM__OPT(o) VRAM__OPT_##o
#define VRAM__PAIR0_(a, b) (a)
#define VRAM__PAIR1_(a, b) (b)
#define VRAM__PAIR0(list) VRAM__PAIR0_(list)
#define VRAM__PAIR1(list) VRAM__PAIR1_(list)
/* bytes of optimizer o's state for params elements of dtype t in tensors parameter tensors */
#define VRAM_OPTIMIZER_BYTES(o, t, params, tensors)                                                \
  (VRAM_BYTES(t, VRAM__PAIR0(VRAM__OPT(o)) * (params)) + VRAM__PAIR1(VRAM__OPT(o)) * (tensors))
/* torch.optim.Adafactor, elements: a parameter [.., r, c] of n elements keeps n / c and n / r; one
   of fewer than two axes keeps a copy */
#define VRAM_ADAFACTOR_ELEMS(n, r, c) (VRAM_U(1) * (n) / (c) + VRAM_U(1) * (n) / (r))
#define VRAM_ADAFACTOR_MATRIX_ELEMS(rows, columns) (VRAM_U(1) * (rows) + (columns))
#define VRAM_ADAFACTOR_VECTOR_ELEMS(n) VRAM_SHAPE1(n)
/* bitsandbytes blockwise 8-bit state of one parameter tensor of n elements, bytes: states copies (2
   adam, 1 lion, momentum, rmsprop, adagrad) of one byte, an fp32 maximum for each block (256 in new
   releases, 2048 in old ones); tensors of fewer than 4096 elements stay fp32. The 1 KiB tables
   (one for each state, shared by all tensors) come on top: VRAM_8BIT_TABLE_BYTES. */
#define VRAM_8BIT_STATE_BYTES(states, n, block)                                                    \
  (VRAM_U(1) * (states) *                                                                          \
   (VRAM_U(1) * (n) < VRAM_U(4096) ? VRAM_U(4) * (n)                                               \
                                   : VRAM_U(1) * (n) + VRAM_U(4) * VRAM_CEIL_DIV(n, block)))
#define VRAM_ADAM8BIT_BYTES(n, block) VRAM_8BIT_STATE_BYTES(2, n, block)
#define VRAM_LION8BIT_BYTES(n, block) VRAM_8BIT_STATE_BYTES(1, n, block)
#define VRAM_8BIT_TABLE_BYTES(states) (VRAM_U(1024) * (states))

/* ---- KV caches: bytes ------------------------------------------------------------------------
 * context: length as the engine pads it (VRAM_ALIGN_UP(context, 256)), for each of the sequences.
 * A ggml block must divide the row of one token, else it does not compile. */
/* keys and values of one width (multi-head, grouped-query) */
#define VRAM_KV_CACHE_BYTES(t, layers, kv_heads, head_dim, context, sequences)                     \
  (VRAM_U(2) *                                                                                     \
   (layers)*VRAM_ROWS_BYTES(t, VRAM_SHAPE2(context, sequences), VRAM_SHAPE2(kv_heads, head_dim)))
/* keys and values of two dtypes tk, tv and widths dk, dv */
#define VRAM_KV_CACHE2_BYTES(tk, tv, layers, kv_heads, dk, dv, context, sequences)                 \
  ((layers) * (VRAM_ROWS_BYTES(tk, VRAM_SHAPE2(context, sequences), VRAM_SHAPE2(kv_heads, dk)) +   \
               VRAM_ROWS_BYTES(tv, VRAM_SHAPE2(context, sequences), VRAM_SHAPE2(kv_heads, dv))))
/* latent attention (absorbed): one tensor of kv_lora + d_rope for each token */
#define VRAM_MLA_CACHE_BYTES(t, layers, kv_lora, d_rope, context, sequences)                       \
  (VRAM_U(1) *                                                                                     \
   (layers)*VRAM_ROWS_BYTES(t, VRAM_SHAPE2(context, sequences), VRAM_U(1) * (kv_lora) + (d_rope)))
/* tokens that pages of block tokens hold */
#define VRAM_KV_PAGED_TOKENS(tokens, block) VRAM_ALIGN_UP(tokens, block)
/* tokens that a layer with a window (sliding or chunked) holds of a sequence, ahead tokens of one
   batch beside it, in pages of block tokens: the context of
   VRAM_KV_CACHE_BYTES for these layers */
#define VRAM_KV_WINDOW_TOKENS(tokens, window, ahead, block)                                        \
  VRAM_ALIGN_UP(VRAM_U(1) * (tokens) < VRAM_U(1) * (window) + (ahead)                              \
                    ? VRAM_U(1) * (tokens)                                                         \
                    : VRAM_U(1) * (window) + (ahead),                                              \
                block)
/* heads of keys and values on each of tp ranks: fewer than ranks are copied */
#define VRAM_KV_RANK_HEADS(kv_heads, tp)                                                           \
  (VRAM_U(1) * (kv_heads) < VRAM_U(1) * (tp) ? VRAM_U(1) : VRAM_U(1) * (kv_heads) / (tp))
/* one page of one layer, and whole pages in so many bytes */
#define VRAM_KV_PAGE_BYTES(t, block, kv_heads, dk, dv)                                             \
  VRAM_KV_CACHE2_BYTES(t, t, VRAM_U(1), kv_heads, dk, dv, block, VRAM_U(1))
#define VRAM_KV_PAGES(bytes, layers, page_bytes)                                                   \
  (VRAM_U(1) * (bytes) / (VRAM_U(1) * (layers) * (page_bytes)))
/* state-space (Mamba) state, elements for each layer and sequence: (conv-1)(inner + 2 groups state)
   and state * inner */
#define VRAM_SSM_STATE_ELEMS(d_conv, d_inner, d_state, n_group)                                    \
  (((d_conv)-VRAM_U(1)) * (VRAM_U(1) * (d_inner) + VRAM_U(2) * (n_group) * (d_state)) +            \
   VRAM_U(1) * (d_state) * (d_inner))
