/* vram.h - v0.1 - bytes of neural networks: at compile time, before a run and during it
   public domain or MIT-0, at your choice: see the end of this file

   Do this:
     #define VRAM_IMPLEMENTATION
   before you include this file in *one* C or C++ file, to create the implementation.

   A model in the text form, and what a step of it takes (memory is the caller's, nothing else is
   allocated; there is no global state, so any thread may call on its own graph):
     vram_graph g;
     vram_report r;
     vram_error e;
     vram_step_options o = VRAM_ZERO_INIT;
     uint64_t n = vram_parse_bytes(text, len, NULL, 0);
     vram_graph_init(&g, malloc(n), n);
     if (vram_parse(&g, text, len, NULL, 0, &e)) ...        e.line, e.column, e.text
     o.train = 1;
     n = vram_step_bytes(&g, &o);
     if (vram_step(&g, &o, malloc(n), n, &r, &e)) ...       e.text
     r.params_bytes, r.saved_bytes, r.peak_requested_bytes, ...

   Before the first include:
     VRAM_STATIC          the implementation is private to this file
     VRAM_NAMESPACE x_    vram_parse is linked as x_vram_parse, and so on
     VRAM_MACROS_ONLY     nothing but >>ct

   Contents (search for the tags; each has its declarations here and its implementation below, in
   the same order)
     >>ct        compile-time arithmetic: macros, no implementation needed
     >>types     results, errors, limits
     >>dtype     stored types
     >>op        the table of ops: one row each
     >>graph     a model: built by calls or read from the text form
     >>optim     the table of optimizers: one row each
     >>event     an allocation, predicted or observed
     >>ledger    what counts events
     >>pool      a caching allocator
     >>step      one step as a stream of events, and the report
     >>solve     the largest value of a dim that fits a budget
     >>writer    steps and ledgers as pictures, files and text
   and in the implementation only
     >>text      what replaces libc        >>dims    sizes and strides
     >>rules     constants of PyTorch and the libraries that it calls
*/
#ifndef VRAM_H_INCLUDED
#define VRAM_H_INCLUDED

#define VRAM_VERSION "0.1.0"

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
 * Each argument is expanded once or twice, by some macros up to six times: the text grows with
 * every nested call, so name a large expression before it goes into another macro. Arguments must
 * have no side effects.
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
/* state-space (Mamba) state, elements for each layer and sequence: (conv-1)(inner + 2 groups state)
   and state * inner */
#define VRAM_SSM_STATE_ELEMS(d_conv, d_inner, d_state, n_group)                                    \
  (((d_conv)-VRAM_U(1)) * (VRAM_U(1) * (d_inner) + VRAM_U(2) * (n_group) * (d_state)) +            \
   VRAM_U(1) * (d_state) * (d_inner))

#ifndef VRAM_MACROS_ONLY /* to have the compile-time region alone, without any include */

/* >>types =====================================================================================
   Results, errors, memory. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef VRAM_API
#ifdef VRAM_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define VRAM_API static __attribute__((unused))
#else
#define VRAM_API static
#endif
#elif defined(__cplusplus)
#define VRAM_API extern "C"
#else
#define VRAM_API extern
#endif
#endif

/* vram_step_options o = VRAM_ZERO_INIT; every field has its default, in C and in C++ */
#ifdef __cplusplus
#define VRAM_ZERO_INIT                                                                             \
  {}
#else
#define VRAM_ZERO_INIT                                                                             \
  { 0 }
#endif

/* A prefix for every function, so that copies of different versions live in one program: with
     #define VRAM_NAMESPACE mylib_
   before every include, vram_parse is written as ever and linked as mylib_vram_parse. */
#ifdef VRAM_NAMESPACE
#define VRAM__JOIN_(a, b) a##b
#define VRAM__JOIN(a, b) VRAM__JOIN_(a, b)
#define vram_bytes_text VRAM__JOIN(VRAM_NAMESPACE, vram_bytes_text)
#define vram_dtype_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_bytes)
#define vram_dtype_from_ggml_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_ggml_id)
#define vram_dtype_from_name VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_name)
#define vram_dtype_from_name_n VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_name_n)
#define vram_dtype_from_onnx_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_onnx_id)
#define vram_dtype_from_tflite_id VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_from_tflite_id)
#define vram_dtype_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_get_info)
#define vram_dtype_name VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_name)
#define vram_dtype_rows_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_dtype_rows_bytes)
#define vram_gpu_at VRAM__JOIN(VRAM_NAMESPACE, vram_gpu_at)
#define vram_graph_init VRAM__JOIN(VRAM_NAMESPACE, vram_graph_init)
#define vram_drop VRAM__JOIN(VRAM_NAMESPACE, vram_drop)
#define vram_node_name VRAM__JOIN(VRAM_NAMESPACE, vram_node_name)
#define vram_out VRAM__JOIN(VRAM_NAMESPACE, vram_out)
#define vram_output VRAM__JOIN(VRAM_NAMESPACE, vram_output)
#define vram_apply VRAM__JOIN(VRAM_NAMESPACE, vram_apply)
#define vram_input VRAM__JOIN(VRAM_NAMESPACE, vram_input)
#define vram_action_name VRAM__JOIN(VRAM_NAMESPACE, vram_action_name)
#define vram_category_name VRAM__JOIN(VRAM_NAMESPACE, vram_category_name)
#define vram_phase_name VRAM__JOIN(VRAM_NAMESPACE, vram_phase_name)
#define vram_ledger_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_bytes)
#define vram_ledger_category_at_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_category_at_peak)
#define vram_ledger_event VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_event)
#define vram_ledger_find VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_find)
#define vram_ledger_init VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_init)
#define vram_ledger_live VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_live)
#define vram_ledger_mark VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_mark)
#define vram_ledger_owner VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owner)
#define vram_ledger_owner_at_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owner_at_peak)
#define vram_ledger_owners VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_owners)
#define vram_ledger_reset_accumulated VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_reset_accumulated)
#define vram_ledger_reset_peak VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_reset_peak)
#define vram_ledger_stats VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_stats)
#define vram_ledger_take VRAM__JOIN(VRAM_NAMESPACE, vram_ledger_take)
#define vram_pool_alloc VRAM__JOIN(VRAM_NAMESPACE, vram_pool_alloc)
#define vram_pool_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_pool_bytes)
#define vram_pool_config VRAM__JOIN(VRAM_NAMESPACE, vram_pool_config)
#define vram_pool_empty_cache VRAM__JOIN(VRAM_NAMESPACE, vram_pool_empty_cache)
#define vram_pool_find VRAM__JOIN(VRAM_NAMESPACE, vram_pool_find)
#define vram_pool_free VRAM__JOIN(VRAM_NAMESPACE, vram_pool_free)
#define vram_pool_init VRAM__JOIN(VRAM_NAMESPACE, vram_pool_init)
#define vram_pool_largest_free VRAM__JOIN(VRAM_NAMESPACE, vram_pool_largest_free)
#define vram_pool_record_stream VRAM__JOIN(VRAM_NAMESPACE, vram_pool_record_stream)
#define vram_pool_walk VRAM__JOIN(VRAM_NAMESPACE, vram_pool_walk)
#define vram_region_begin VRAM__JOIN(VRAM_NAMESPACE, vram_region_begin)
#define vram_region_end VRAM__JOIN(VRAM_NAMESPACE, vram_region_end)
#define vram_op_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_op_get_info)
#define vram_op_name VRAM__JOIN(VRAM_NAMESPACE, vram_op_name)
#define vram_optimizer_from_name VRAM__JOIN(VRAM_NAMESPACE, vram_optimizer_from_name)
#define vram_optimizer_get_info VRAM__JOIN(VRAM_NAMESPACE, vram_optimizer_get_info)
#define vram_parse VRAM__JOIN(VRAM_NAMESPACE, vram_parse)
#define vram_parse_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_parse_bytes)
#define vram_ranges VRAM__JOIN(VRAM_NAMESPACE, vram_ranges)
#define vram_report_term VRAM__JOIN(VRAM_NAMESPACE, vram_report_term)
#define vram_result_text VRAM__JOIN(VRAM_NAMESPACE, vram_result_text)
#define vram_solve VRAM__JOIN(VRAM_NAMESPACE, vram_solve)
#define vram_source_name VRAM__JOIN(VRAM_NAMESPACE, vram_source_name)
#define vram_step VRAM__JOIN(VRAM_NAMESPACE, vram_step)
#define vram_step_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_step_bytes)
#define vram_step_live VRAM__JOIN(VRAM_NAMESPACE, vram_step_live)
#define vram_svg_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_svg_bytes)
#define vram_timeline_add VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_add)
#define vram_timeline_bytes VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_bytes)
#define vram_timeline_init VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_init)
#define vram_timeline_ledger VRAM__JOIN(VRAM_NAMESPACE, vram_timeline_ledger)
#define vram_write_csv VRAM__JOIN(VRAM_NAMESPACE, vram_write_csv)
#define vram_write_log VRAM__JOIN(VRAM_NAMESPACE, vram_write_log)
#define vram_write_oom VRAM__JOIN(VRAM_NAMESPACE, vram_write_oom)
#define vram_write_snapshot VRAM__JOIN(VRAM_NAMESPACE, vram_write_snapshot)
#define vram_write_summary VRAM__JOIN(VRAM_NAMESPACE, vram_write_summary)
#define vram_write_svg VRAM__JOIN(VRAM_NAMESPACE, vram_write_svg)
#define vram_write_trace VRAM__JOIN(VRAM_NAMESPACE, vram_write_trace)
#endif

#define VRAM_MAX_AXES 8            /* axes of a tensor */
#define VRAM_MAX_DIMS 64           /* symbolic dimensions of a model */
#define VRAM_MAX_NAME 255          /* bytes of a name */
#define VRAM_MAX_NODES 16777216u   /* nodes of a model, loops written out */
#define VRAM_MAX_BYTES (INT64_MAX) /* any total, in bytes */
#define VRAM_MAX_LOOPS 16          /* loops inside one another */
#define VRAM_OVERFLOW UINT64_MAX   /* what a byte count becomes that does not fit */

#define VRAM_RESULTS(X)                                                                            \
  X(OK, "ok")                                                                                      \
  X(ERR_SYNTAX, "the text form is malformed")                                                      \
  X(ERR_NAME, "a name is unknown or defined twice")                                                \
  X(ERR_SHAPE, "shapes do not fit")                                                                \
  X(ERR_VALUE, "a value is out of range")                                                          \
  X(ERR_LIMIT, "a limit of the library is exceeded")                                               \
  X(ERR_OVERFLOW, "a size does not fit into 63 bits")                                              \
  X(ERR_MEMORY, "the caller's memory is too small")                                                \
  X(ERR_UNSUPPORTED, "not possible with these options")                                            \
  X(ERR_DTYPE, "no such dtype")                                                                    \
  X(ERR_BLOCK, "a row that does not divide into blocks")                                           \
  X(ERR_WRITE, "the sink takes no more")

typedef enum vram_result {
#define VRAM__X(id, text) VRAM_##id,
  VRAM_RESULTS(VRAM__X)
#undef VRAM__X
      VRAM_RESULT_COUNT
} vram_result;

/* What went wrong and where. `line` and `column` count from 1; 0: not from a text. */
typedef struct vram_error {
  vram_result code;
  uint32_t line, column;
  char text[240]; /* one line, without the position; always terminated */
} vram_error;

/* What a result means, in a few words. Never NULL. */
VRAM_API const char *vram_result_text(vram_result r);

/* ============================================================================================
 * >>dtype    stored types at run time
 *
 * Every type that PyTorch, safetensors, ONNX, TFLite and ggml store tensors in (ONNX and TFLite
 * strings and TFLite's resource and variant excepted). VRAM_DTYPES is the table: the enum, the
 * names, the ids of the other formats and the tests come from it; elements and bytes of a block
 * come from the compile-time region, where they stand once.
 *
 *   X(token, name, kind, PyTorch name, safetensors name, ONNX id, TFLite id, ggml id, values)
 *     name     as in the model text and in every output
 *     NULL/-1  the format does not have the type
 *     values   values in one element as PyTorch counts elements: 2 for float4_e2m1fn_x2, whose
 *              shape counts bytes. All functions here count values.
 *
 * ONNX ids: TensorProto.DataType (IR version 14). TFLite ids: TensorType of the schema. ggml ids:
 * enum ggml_type; removed ids (4, 5, 31-33, 36-38) have no row; IQ2_NL and IQ3_NL have a block but
 * no id. ggml's file types (Q4_K_M, ...) are mixtures, not dtypes.
 * PyTorch's int1..int7, uint1..uint7 and bits types take a whole byte for each element: with the
 * prefix "torch." their names mean i8 and u8, without it the packed i4, u4, i2, ...
 * ============================================================================================ */

/* clang-format off */
#define VRAM_DTYPES(X)                                                                             \
  X(F64, "f64", FLOAT, "float64", "F64", 11, 10, 28, 1)                                            \
  X(F32, "f32", FLOAT, "float32", "F32", 1, 0, 0, 1)                                               \
  X(TF32, "tf32", FLOAT, NULL, NULL, -1, -1, -1, 1)                                                \
  X(F16, "f16", FLOAT, "float16", "F16", 10, 1, 1, 1)                                              \
  X(BF16, "bf16", FLOAT, "bfloat16", "BF16", 16, 18, 30, 1)                                        \
  X(F8E4M3FN, "f8e4m3fn", FLOAT, "float8_e4m3fn", "F8_E4M3", 17, 21, -1, 1)                        \
  X(F8E5M2, "f8e5m2", FLOAT, "float8_e5m2", "F8_E5M2", 19, 22, -1, 1)                              \
  X(F8E4M3FNUZ, "f8e4m3fnuz", FLOAT, "float8_e4m3fnuz", "F8_E4M3FNUZ", 18, -1, -1, 1)              \
  X(F8E5M2FNUZ, "f8e5m2fnuz", FLOAT, "float8_e5m2fnuz", "F8_E5M2FNUZ", 20, -1, -1, 1)              \
  X(F8E8M0FNU, "f8e8m0fnu", FLOAT, "float8_e8m0fnu", "F8_E8M0", 24, -1, -1, 1)                     \
  X(F6E2M3, "f6e2m3", FLOAT, NULL, "F6_E2M3", 27, -1, -1, 1)                                       \
  X(F6E3M2, "f6e3m2", FLOAT, NULL, "F6_E3M2", 28, -1, -1, 1)                                       \
  X(F4E2M1, "f4e2m1", FLOAT, "float4_e2m1fn_x2", "F4", 23, -1, -1, 2)                              \
  X(I64, "i64", INT, "int64", "I64", 7, 4, 27, 1)                                                  \
  X(I32, "i32", INT, "int32", "I32", 6, 2, 26, 1)                                                  \
  X(I16, "i16", INT, "int16", "I16", 5, 7, 25, 1)                                                  \
  X(I8, "i8", INT, "int8", "I8", 3, 9, 24, 1)                                                      \
  X(I4, "i4", INT, NULL, NULL, 22, 17, -1, 1)                                                      \
  X(I2, "i2", INT, NULL, NULL, 26, 19, -1, 1)                                                      \
  X(U64, "u64", INT, "uint64", "U64", 13, 12, -1, 1)                                               \
  X(U32, "u32", INT, "uint32", "U32", 12, 15, -1, 1)                                               \
  X(U16, "u16", INT, "uint16", "U16", 4, 16, -1, 1)                                                \
  X(U8, "u8", INT, "uint8", "U8", 2, 3, -1, 1)                                                     \
  X(U4, "u4", INT, NULL, NULL, 21, 20, -1, 1)                                                      \
  X(U2, "u2", INT, NULL, NULL, 25, -1, -1, 1)                                                      \
  X(U1, "u1", INT, NULL, NULL, -1, -1, -1, 1)                                                      \
  X(BOOL, "bool", BOOL, "bool", "BOOL", 9, 6, -1, 1)                                               \
  X(C32, "c32", COMPLEX, "complex32", NULL, -1, -1, -1, 1)                                         \
  X(CB32, "cb32", COMPLEX, "bcomplex32", NULL, -1, -1, -1, 1)                                      \
  X(C64, "c64", COMPLEX, "complex64", "C64", 14, 8, -1, 1)                                         \
  X(C128, "c128", COMPLEX, "complex128", NULL, 15, 11, -1, 1)                                      \
  X(QINT8, "qint8", QUANT, "qint8", NULL, -1, -1, -1, 1)                                           \
  X(QUINT8, "quint8", QUANT, "quint8", NULL, -1, -1, -1, 1)                                        \
  X(QINT32, "qint32", QUANT, "qint32", NULL, -1, -1, -1, 1)                                        \
  X(QUINT4X2, "quint4x2", QUANT, "quint4x2", NULL, -1, -1, -1, 1)                                  \
  X(QUINT2X4, "quint2x4", QUANT, "quint2x4", NULL, -1, -1, -1, 1)                                  \
  X(Q4_0, "q4_0", QUANT, NULL, NULL, -1, -1, 2, 1)                                                 \
  X(Q4_1, "q4_1", QUANT, NULL, NULL, -1, -1, 3, 1)                                                 \
  X(Q5_0, "q5_0", QUANT, NULL, NULL, -1, -1, 6, 1)                                                 \
  X(Q5_1, "q5_1", QUANT, NULL, NULL, -1, -1, 7, 1)                                                 \
  X(Q8_0, "q8_0", QUANT, NULL, NULL, -1, -1, 8, 1)                                                 \
  X(Q8_1, "q8_1", QUANT, NULL, NULL, -1, -1, 9, 1)                                                 \
  X(Q2_K, "q2_k", QUANT, NULL, NULL, -1, -1, 10, 1)                                                \
  X(Q3_K, "q3_k", QUANT, NULL, NULL, -1, -1, 11, 1)                                                \
  X(Q4_K, "q4_k", QUANT, NULL, NULL, -1, -1, 12, 1)                                                \
  X(Q5_K, "q5_k", QUANT, NULL, NULL, -1, -1, 13, 1)                                                \
  X(Q6_K, "q6_k", QUANT, NULL, NULL, -1, -1, 14, 1)                                                \
  X(Q8_K, "q8_k", QUANT, NULL, NULL, -1, -1, 15, 1)                                                \
  X(IQ2_XXS, "iq2_xxs", QUANT, NULL, NULL, -1, -1, 16, 1)                                          \
  X(IQ2_XS, "iq2_xs", QUANT, NULL, NULL, -1, -1, 17, 1)                                            \
  X(IQ3_XXS, "iq3_xxs", QUANT, NULL, NULL, -1, -1, 18, 1)                                          \
  X(IQ1_S, "iq1_s", QUANT, NULL, NULL, -1, -1, 19, 1)                                              \
  X(IQ4_NL, "iq4_nl", QUANT, NULL, NULL, -1, -1, 20, 1)                                            \
  X(IQ3_S, "iq3_s", QUANT, NULL, NULL, -1, -1, 21, 1)                                              \
  X(IQ2_S, "iq2_s", QUANT, NULL, NULL, -1, -1, 22, 1)                                              \
  X(IQ4_XS, "iq4_xs", QUANT, NULL, NULL, -1, -1, 23, 1)                                            \
  X(IQ1_M, "iq1_m", QUANT, NULL, NULL, -1, -1, 29, 1)                                              \
  X(IQ2_NL, "iq2_nl", QUANT, NULL, NULL, -1, -1, -1, 1)                                            \
  X(IQ3_NL, "iq3_nl", QUANT, NULL, NULL, -1, -1, -1, 1)                                            \
  X(TQ1_0, "tq1_0", QUANT, NULL, NULL, -1, -1, 34, 1)                                              \
  X(TQ2_0, "tq2_0", QUANT, NULL, NULL, -1, -1, 35, 1)                                              \
  X(MXFP4, "mxfp4", QUANT, NULL, NULL, -1, -1, 39, 1)                                              \
  X(NVFP4, "nvfp4", QUANT, NULL, NULL, -1, -1, 40, 1)                                              \
  X(Q1_0, "q1_0", QUANT, NULL, NULL, -1, -1, 41, 1)                                                \
  X(Q2_0, "q2_0", QUANT, NULL, NULL, -1, -1, 42, 1)

/* Further names. Compared without case; "torch.", "TensorProto.", "TensorType." and "GGML_TYPE_" in
   front of any name are skipped, but a name that is written here in full goes first. */
#define VRAM_DTYPE_ALIASES(X)                                                                      \
  X("double", F64)                                                                                 \
  X("fp64", F64)                                                                                   \
  X("float", F32)                                                                                  \
  X("fp32", F32)                                                                                   \
  X("tensorfloat32", TF32)                                                                         \
  X("half", F16)                                                                                   \
  X("fp16", F16)                                                                                   \
  X("f8e4m3", F8E4M3FN)                                                                            \
  X("float8_e4m3", F8E4M3FN)                                                                       \
  X("float8e4m3fn", F8E4M3FN)                                                                      \
  X("float8e5m2", F8E5M2)                                                                          \
  X("float8e4m3fnuz", F8E4M3FNUZ)                                                                  \
  X("float8e5m2fnuz", F8E5M2FNUZ)                                                                  \
  X("f8e8m0", F8E8M0FNU)                                                                           \
  X("float8_e8m0", F8E8M0FNU)                                                                      \
  X("float8e8m0", F8E8M0FNU)                                                                       \
  X("float6_e2m3fn", F6E2M3)                                                                       \
  X("float6e2m3", F6E2M3)                                                                          \
  X("float6_e3m2fn", F6E3M2)                                                                       \
  X("float6e3m2", F6E3M2)                                                                          \
  X("float4_e2m1fn", F4E2M1)                                                                       \
  X("float4e2m1", F4E2M1)                                                                          \
  X("long", I64)                                                                                   \
  X("int", I32)                                                                                    \
  X("short", I16)                                                                                  \
  X("int4", I4)                                                                                    \
  X("int2", I2)                                                                                    \
  X("uint4", U4)                                                                                   \
  X("uint2", U2)                                                                                   \
  X("uint1", U1)                                                                                   \
  X("chalf", C32)                                                                                  \
  X("cfloat", C64)                                                                                 \
  X("cdouble", C128)                                                                               \
  X("torch.int1", I8)                                                                              \
  X("torch.int2", I8)                                                                              \
  X("torch.int3", I8)                                                                              \
  X("torch.int4", I8)                                                                              \
  X("torch.int5", I8)                                                                              \
  X("torch.int6", I8)                                                                              \
  X("torch.int7", I8)                                                                              \
  X("torch.uint1", U8)                                                                             \
  X("torch.uint2", U8)                                                                             \
  X("torch.uint3", U8)                                                                             \
  X("torch.uint4", U8)                                                                             \
  X("torch.uint5", U8)                                                                             \
  X("torch.uint6", U8)                                                                             \
  X("torch.uint7", U8)                                                                             \
  X("torch.bit", U8)                                                                               \
  X("torch.bits8", U8)                                                                             \
  X("torch.bits1x8", U8)                                                                           \
  X("torch.bits2x4", U8)                                                                           \
  X("torch.bits4x2", U8)                                                                           \
  X("torch.bits16", U16)
/* clang-format on */

/* VRAM_F32, VRAM_Q4_K, ...; 0 is no dtype: in a struct that configures, the default. */
typedef enum vram_dtype {
  VRAM_DTYPE_NONE = 0,
#define VRAM__X(token, name, kind, torch, safetensors, onnx, tflite, ggml, values) VRAM_##token,
  VRAM_DTYPES(VRAM__X)
#undef VRAM__X
      VRAM_DTYPE_COUNT
} vram_dtype;

typedef enum vram_dtype_kind {
  VRAM_KIND_FLOAT,
  VRAM_KIND_INT, /* signed and unsigned */
  VRAM_KIND_BOOL,
  VRAM_KIND_COMPLEX,
  VRAM_KIND_QUANT /* stored integers or blocks that stand for floats */
} vram_dtype_kind;

/* One row of the table. Strings are static or NULL, ids -1 where the format lacks the type. */
typedef struct vram_dtype_info {
  vram_dtype dtype;
  const char *name;
  const char *torch_name;
  const char *safetensors_name;
  uint16_t block_elements; /* values in one block ... */
  uint16_t block_bytes;    /* ... and its bytes */
  uint16_t row_multiple;   /* a row must be a multiple of this: a ggml block, else 1 */
  uint8_t row_padded;      /* 1: every row ends on a byte (quint4x2, quint2x4) */
  uint8_t torch_values;    /* values in one PyTorch element */
  uint8_t kind;            /* vram_dtype_kind */
  int16_t onnx_id, tflite_id, ggml_id;
} vram_dtype_info;

/* The row of dtype; NULL for VRAM_DTYPE_NONE and what is no dtype. Never freed, any thread. */
VRAM_API const vram_dtype_info *vram_dtype_get_info(vram_dtype dtype);

/* The name ("f32", "q4_k"); "none" for VRAM_DTYPE_NONE, "?" for what is no dtype. Never NULL. */
VRAM_API const char *vram_dtype_name(vram_dtype dtype);

/* The dtype of a name of any ecosystem: "f32", "torch.float32", "F8_E4M3", "FLOAT", "Q4_K"; case
   does not matter. VRAM_DTYPE_NONE if there is none, or name is NULL. _n: the first length bytes of
   text, which need not end in a zero byte. */
VRAM_API vram_dtype vram_dtype_from_name(const char *name);
VRAM_API vram_dtype vram_dtype_from_name_n(const char *text, size_t length);

/* The dtype of an id in a file; VRAM_DTYPE_NONE for unknown, removed and string ids. */
VRAM_API vram_dtype vram_dtype_from_onnx_id(int64_t id);
VRAM_API vram_dtype vram_dtype_from_tflite_id(int64_t id);
VRAM_API vram_dtype vram_dtype_from_ggml_id(int64_t id);

/* Bytes of elements values in one row or one packed tensor: exact; sub-byte types are rounded up to
 * a whole byte at the end of the tensor. 0 elements are 0 bytes. *bytes is VRAM_OVERFLOW after
 * every error, so that a sum over tensors does not look small. bytes may not be NULL.
 *   VRAM_ERR_DTYPE      dtype is no dtype
 *   VRAM_ERR_BLOCK      a ggml block does not divide elements
 *   VRAM_ERR_OVERFLOW   more than 2^64-2 bytes, or (rows) more than 2^64-1 values */
VRAM_API vram_result vram_dtype_bytes(vram_dtype dtype, uint64_t elements, uint64_t *bytes);

/* The same for rows x columns values. A ggml block must divide the columns (no block spans two
 * rows); quint4x2 and quint2x4 pad every row to a byte; every other sub-byte type packs across rows
 * and is padded once. A scalar is 1 x 1. */
VRAM_API vram_result vram_dtype_rows_bytes(vram_dtype dtype, uint64_t rows, uint64_t columns,
                                           uint64_t *bytes);

/* >>op ========================================================================================
   The keys of the text form: name and kind.
     I integer or size   L list of sizes, one for every axis or one per axis   S shape   B 0 or 1
     F decimal number    W word    D dtype    N node    Q equation                              */
/* clang-format off */
#define VRAM_KEYS(X)                                                                             \
  X(out_channels, I) X(kernel_size, L) X(stride, L) X(padding, L) X(dilation, L) X(groups, I)    \
  X(bias, B) X(padding_mode, W) X(output_padding, L) X(out_features, I) X(num_embeddings, I)     \
  X(embedding_dim, I) X(mode, W) X(equation, Q) X(affine, B) X(track_running_stats, B)           \
  X(training, B) X(normalized_shape, L) X(elementwise_affine, B) X(num_groups, I) X(size, L)     \
  X(inplace, B) X(num_parameters, I) X(dim, L) X(dtype, D) X(p, F) X(ceil_mode, B)               \
  X(return_indices, B) X(norm_type, F) X(output_size, L) X(scale_factor, F)                      \
  X(upscale_factor, I) X(downscale_factor, I) X(pad, L) X(dropout_p, F) X(is_causal, B)          \
  X(enable_gqa, B) X(backend, W) X(num_heads, I) X(need_weights, B) X(batch_first, B)            \
  X(hidden_size, I) X(num_layers, I) X(dropout, F) X(bidirectional, B) X(proj_size, I)           \
  X(scalar, B) X(rounding_mode, W) X(k, I) X(num_classes, I) X(bins, I) X(keepdim, B)            \
  X(shape, S) X(start_dim, I) X(end_dim, I) X(dim0, I) X(dim1, I) X(dims, L) X(sizes, L)         \
  X(start, I) X(end, I) X(step, I) X(index, I) X(length, I) X(split_size_or_sections, L)         \
  X(chunks, I) X(shifts, L) X(repeats, L) X(reduction, W) X(frozen, B) X(weights, N)             \
  X(num_experts, I) X(top_k, I) X(intermediate_size, I) X(gated, B)                              \
  X(shared_intermediate_size, I) X(params, I) X(buffers, I) X(saved, I) X(workspace, I)          \
  X(approximate, W) X(align_corners, B) X(eps, F) X(momentum, F) X(negative_slope, F)            \
  X(alpha, F) X(beta, F) X(threshold, F) X(value, F) X(lambd, F) X(min_val, F) X(max_val, F)     \
  X(min, F) X(max, F) X(scale, F) X(count_include_pad, B) X(divisor_override, I)                 \
  X(padding_idx, I) X(largest, B) X(sorted, B) X(descending, B) X(stable, B) X(correction, I)    \
  X(unbiased, B) X(ord, F) X(margin, F) X(delta, F) X(log_target, B) X(label_smoothing, F)       \
  X(ignore_index, I) X(blank, I) X(zero_infinity, B) X(nonlinearity, W) X(lower, F) X(upper, F)  \
  X(hard, B) X(tau, F) X(swap, B) X(antialias, B) X(accumulate, B) X(output_ratio, F)            \
  X(add_bias_kv, B) X(add_zero_attn, B) X(kdim, I) X(vdim, I) X(scale_grad_by_freq, B)

/* clang-format on */

typedef enum vram__key {
  VRAM__KEY_NONE,
#define VRAM__X(name, kind) VRAM__KEY_##name,
  VRAM_KEYS(VRAM__X)
#undef VRAM__X
      VRAM__KEY_COUNT
} vram__key;

/* The ops. One row each:
     name, least and most inputs, shape rule, how it runs, autocast list, recipe, keys

   Autocast lists (torch/csrc, autocast_mode.h): `none`, `low` (lower precision), `fp32`, `opt32`
   (fp32 by the dtype argument: no cast node), `widest` (promote to the widest input).
   Keys: `!` required. `inplace` stands only where PyTorch has it.

   Recipes. How it runs = `pointwise`: the output is allocated like the inputs, and the recipe says
   what backward does for each input that wants a gradient, in PyTorch's order (alphabetical in the
   names of its arguments). Reverse Polish, one letter a step:
     x w b    the inputs, saved        y   the output, saved       m   an empty extra output, saved
     g        gradient of the output   =   hand on, nothing allocated
     ~ %      a new tensor like the top: a kernel of it alone, of it and a number
     * 3      a new tensor from the top two / three, broadcast
     ? !      bools: the top two compared, the top compared with a number
     ^        the top two change places: arguments are worked out from the last to the first
     0        a number that is a tensor of g's dtype       '   the top is not needed
     z        zeros like g in the dtype of that input      >   the top in the output's dtype
     /        temporaries below the top go now, not at the end of this gradient
   An input that only one gradient needs is saved if that gradient is wanted, one that several need
   always (gen_variable_type.py, guard_for). The second input may be a number: then its letter
   is one, and nothing is saved or allocated for it.
     `inplace:` gives the recipe of the in-place form where it differs; `copy:` there says that x is
   cloned before it is overwritten.
   How it runs = `lines`: the recipe is written in the text form itself, `x0 x1 ..` the inputs, `y`
   the output, other names (one letter) temporaries, `key=@` hands a key on. Temporaries live until
   the op returns, or until a `drop`. */
/* clang-format off */
#define VRAM_OPS(X)                                                                              \
  /* convolution */                                                                              \
  X(conv1d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv2d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv3d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding dilation groups bias padding_mode frozen weights dtype") \
  X(conv_transpose1d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  X(conv_transpose2d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  X(conv_transpose3d, 1, 3, conv, conv, low, "", "out_channels! kernel_size! stride padding output_padding dilation groups bias frozen weights dtype") \
  /* linear and embedding */                                                                     \
  X(linear, 1, 3, linear, linear, low, "", "out_features! bias frozen weights dtype")            \
  X(embedding, 1, 2, embedding, embedding, none, "", "num_embeddings! embedding_dim! padding_idx scale_grad_by_freq frozen weights dtype") \
  X(embedding_bag, 1, 3, embedding_bag, embedding_bag, none, "", "num_embeddings! embedding_dim! mode padding_idx frozen weights dtype") \
  X(bilinear, 2, 2, bilinear, bilinear, none, "", "out_features! bias frozen weights dtype")     \
  /* products */                                                                                 \
  X(matmul, 2, 2, matmul, product, low, "", "")                                                   \
  X(bmm, 2, 2, matmul, product, low, "", "")                                                         \
  X(mm, 2, 2, matmul, product, low, "", "")                                                           \
  X(addmm, 3, 3, matmul, product, low, "", "alpha beta")                                                     \
  X(baddbmm, 3, 3, matmul, product, low, "", "alpha beta")                                                 \
  X(einsum, 1, 64, einsum, einsum, low, "", "equation!")                                         \
  X(grouped_mm, 3, 3, grouped_mm, grouped_mm, none, "", "")                                      \
  /* index */                                                                                    \
  X(gather, 2, 2, gather, gather, none, "", "dim!")                                              \
  X(index_select, 2, 2, index_select, gather, none, "", "dim!")                                  \
  X(index, 2, 9, index, index, none, "", "dim")                                                  \
  X(index_put, 3, 10, index_put, index_put, none, "", "inplace accumulate")                      \
  X(scatter, 2, 3, scatter, scatter, none, "", "dim! scalar inplace")                            \
  X(masked_select, 2, 2, masked_select, masked_select, none, "", "")                             \
  X(topk, 1, 1, topk, topk, none, "", "k! dim largest sorted")                                   \
  X(sort, 1, 1, topk, sort, none, "", "dim descending stable")                                   \
  X(argmax, 1, 1, argmax, argmax, none, "", "dim keepdim")                                       \
  X(argmin, 1, 1, argmax, argmax, none, "", "dim keepdim")                                       \
  X(one_hot, 1, 1, one_hot, one_hot, none, "", "num_classes!")                                   \
  X(cumsum, 1, 1, cumsum, cumsum, opt32, "", "dim! dtype")                                       \
  X(histc, 1, 1, histc, histc, none, "", "bins min max")                                         \
  X(diff, 1, 2, diff, diff, none, "", "dim")                                                     \
  /* composite, anything else */                                                                 \
  X(moe, 1, 1, moe, moe, low, "", "num_experts! top_k! intermediate_size! gated shared_intermediate_size frozen weights dtype") \
  X(custom, 0, 16, custom, custom, none, "", "shape! dtype params buffers saved workspace frozen weights") \
  /* recurrent */                                                                                \
  X(lstm, 1, 3, rnn, rnn, none, "", "hidden_size! num_layers bias batch_first dropout bidirectional proj_size frozen weights dtype") \
  X(gru, 1, 2, rnn, rnn, none, "", "hidden_size! num_layers bias batch_first dropout bidirectional frozen weights dtype") \
  X(rnn, 1, 2, rnn, rnn, none, "", "hidden_size! num_layers nonlinearity bias batch_first dropout bidirectional frozen weights dtype") \
  X(lstm_cell, 1, 3, rnn_cell, rnn_cell, none, "", "hidden_size! bias frozen weights dtype")      \
  X(gru_cell, 1, 2, rnn_cell, rnn_cell, none, "", "hidden_size! bias frozen weights dtype")       \
  X(rnn_cell, 1, 2, rnn_cell, rnn_cell, none, "", "hidden_size! bias nonlinearity frozen weights dtype") \
  /* normalisation */                                                                            \
  X(batch_norm, 1, 3, norm, batch_norm, none, "", "affine track_running_stats training momentum eps frozen weights dtype") \
  X(instance_norm, 1, 1, norm, instance_norm, none, "", "affine track_running_stats momentum eps frozen weights dtype") \
  X(layer_norm, 1, 3, norm, layer_norm, fp32, "", "normalized_shape! elementwise_affine bias eps frozen weights dtype") \
  X(rms_norm, 1, 2, norm, layer_norm, fp32, "", "normalized_shape! elementwise_affine eps frozen weights dtype") \
  X(group_norm, 1, 3, norm, group_norm, fp32, "", "num_groups! affine eps frozen weights dtype") \
  X(local_response_norm, 1, 1, lrn, lrn, none, "", "size! alpha beta k")                         \
  /* activation */                                                                               \
  X(relu, 1, 1, same, pointwise, none, "x: y g *", "inplace")                                    \
  X(relu6, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace")                    \
  X(hardtanh, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace min_val max_val") \
  X(leaky_relu, 1, 1, same, pointwise, none, "x: x g *; inplace: x: y g *", "inplace negative_slope") \
  X(elu, 1, 1, same, pointwise, none, "x: g x *; inplace: x: g y *", "inplace alpha")            \
  X(celu, 1, 1, same, pointwise, none, "x: g x *; inplace: x: g y *", "inplace alpha")           \
  X(selu, 1, 1, same, pointwise, none, "x: g x *; inplace: x: g y *", "inplace")                 \
  X(gelu, 1, 1, same, pointwise, none, "x: g x *", "approximate")                                \
  X(silu, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace")                     \
  X(mish, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace")                     \
  X(sigmoid, 1, 1, same, pointwise, none, "x: g y *", "inplace")                                 \
  X(tanh, 1, 1, same, pointwise, none, "x: g y *", "inplace")                                    \
  X(hardsigmoid, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace")              \
  X(hardswish, 1, 1, same, pointwise, none, "x: g x *; inplace: copy", "inplace")                \
  X(softplus, 1, 1, same, pointwise, fp32, "x: g x *", "beta threshold")                         \
  X(softsign, 1, 1, same, lines, none, "abs a x0; add b a scalar=1; drop a; div y x0 b", "")             \
  X(tanhshrink, 1, 1, same, lines, none, "tanh a x0; sub y x0 a", "")                            \
  X(softshrink, 1, 1, same, pointwise, none, "x: g x *", "lambd")                                \
  X(hardshrink, 1, 1, same, pointwise, none, "x: g x *", "lambd")                                \
  X(threshold, 1, 1, same, pointwise, none, "x: x g *; inplace: copy", "inplace threshold value") \
  X(logsigmoid, 1, 1, same, pointwise, none, "x: m ' g x *", "")                                     \
  X(glu, 1, 1, glu, glu, none, "", "dim")                                                        \
  X(prelu, 1, 2, prelu, prelu, low, "", "num_parameters frozen weights dtype")                   \
  X(rrelu, 1, 1, same, rrelu, none, "", "lower upper inplace")                                   \
  /* softmax */                                                                                  \
  X(softmax, 1, 1, same, softmax, none, "", "dim! dtype")                                        \
  X(log_softmax, 1, 1, same, softmax, none, "", "dim! dtype")                                    \
  X(gumbel_softmax, 1, 1, same, gumbel_softmax, none, "", "tau hard dim eps")                      \
  X(softmin, 1, 1, same, lines, none, "neg a x0; softmax y a dim=@ dtype=@", "dim! dtype")       \
  /* dropout */                                                                                  \
  X(dropout, 1, 1, dropout, dropout, none, "", "p inplace")                                         \
  X(dropout1d, 1, 1, dropout, dropout, none, "", "p inplace")                                       \
  X(dropout2d, 1, 1, dropout, dropout, none, "", "p inplace")                                       \
  X(dropout3d, 1, 1, dropout, dropout, none, "", "p inplace")                                       \
  X(alpha_dropout, 1, 1, dropout, dropout, none, "", "p inplace")                                   \
  X(feature_alpha_dropout, 1, 1, dropout, dropout, none, "", "p inplace")                           \
  /* pooling */                                                                                  \
  X(max_pool1d, 1, 1, pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(max_pool2d, 1, 1, pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(max_pool3d, 1, 1, pool, max_pool, none, "", "kernel_size! stride padding dilation ceil_mode return_indices") \
  X(avg_pool1d, 1, 1, pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad") \
  X(avg_pool2d, 1, 1, pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad divisor_override") \
  X(avg_pool3d, 1, 1, pool, avg_pool, none, "", "kernel_size! stride padding ceil_mode count_include_pad divisor_override") \
  X(adaptive_avg_pool1d, 1, 1, adaptive_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_avg_pool2d, 1, 1, adaptive_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_avg_pool3d, 1, 1, adaptive_pool, adaptive_avg_pool, none, "", "output_size!")       \
  X(adaptive_max_pool1d, 1, 1, adaptive_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  X(adaptive_max_pool2d, 1, 1, adaptive_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  X(adaptive_max_pool3d, 1, 1, adaptive_pool, adaptive_max_pool, none, "", "output_size! return_indices") \
  X(lp_pool1d, 1, 1, same, lines, none, "pow a x0 scalar=1; avg_pool1d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  X(lp_pool2d, 1, 1, same, lines, none, "pow a x0 scalar=1; avg_pool2d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  X(lp_pool3d, 1, 1, same, lines, none, "pow a x0 scalar=1; avg_pool3d b a kernel_size=@ stride=@ ceil_mode=@; drop a; sign c b; abs d b; relu e d; drop d; mul f c e; drop c e; mul g f scalar=1; drop f; pow y g scalar=1", "norm_type! kernel_size! stride ceil_mode") \
  X(fractional_max_pool2d, 1, 1, fractional_pool, fractional_max_pool, none, "", "kernel_size! output_size output_ratio return_indices") \
  X(fractional_max_pool3d, 1, 1, fractional_pool, fractional_max_pool, none, "", "kernel_size! output_size output_ratio return_indices") \
  X(max_unpool1d, 2, 2, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  X(max_unpool2d, 2, 2, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  X(max_unpool3d, 2, 2, max_unpool, max_unpool, none, "", "kernel_size! stride padding output_size") \
  /* resampling */                                                                               \
  X(interpolate, 1, 1, interpolate, interpolate, none, "", "size scale_factor mode align_corners antialias") \
  X(pixel_shuffle, 1, 1, pixel, pixel, none, "", "upscale_factor!")                              \
  X(pixel_unshuffle, 1, 1, pixel, pixel, none, "", "downscale_factor!")                          \
  X(grid_sample, 2, 2, grid_sample, grid_sample, widest, "", "mode padding_mode align_corners")  \
  X(pad, 1, 1, pad, pad, none, "", "pad! mode value")                                            \
  X(unfold, 1, 1, fold, fold, none, "", "kernel_size! dilation padding stride")                  \
  X(fold, 1, 1, fold, fold, none, "", "output_size! kernel_size! dilation padding stride")       \
  /* attention */                                                                                \
  X(scaled_dot_product_attention, 3, 4, sdpa, sdpa, low, "", "dropout_p is_causal enable_gqa backend scale") \
  X(multi_head_attention, 3, 4, mha, mha, none, "", "num_heads! bias dropout need_weights batch_first add_bias_kv add_zero_attn kdim vdim frozen weights dtype") \
  /* pointwise */                                                                                \
  X(add, 1, 2, bcast, pointwise, none, "w: g =; x: g =", "scalar inplace alpha")                 \
  X(sub, 1, 2, bcast, pointwise, none, "w: g ~; x: g =", "scalar inplace alpha")                 \
  X(mul, 1, 2, bcast, pointwise, none, "w: g x *; x: g w *", "scalar inplace")                   \
  X(div, 1, 2, bcast, pointwise, none, "w: x w * w * g ~ ^ *; x: g w *", "scalar inplace rounding_mode") \
  X(floor_divide, 1, 2, bcast, pointwise, none, "", "scalar inplace")                            \
  X(pow, 1, 2, bcast, pointwise, fp32, "x: g x ~ % *", "scalar inplace")                         \
  X(maximum, 2, 2, bcast, pointwise, none, "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3", "") \
  X(minimum, 2, 2, bcast, pointwise, none, "w: x w ? g % x w ? g 3; x: x w ? g % x w ? g 3", "") \
  X(where, 2, 3, bcast, where, none, "", "scalar")                                               \
  X(masked_fill, 2, 3, bcast, masked_fill, none, "", "inplace scalar")                           \
  X(lerp, 2, 3, bcast, pointwise, none, "w: g %; x: g %", "scalar inplace")                      \
  X(addcmul, 3, 3, bcast, pointwise, widest, "x: g =; w: g b % *; b: g w % *", "inplace")        \
  X(exp, 1, 1, same, pointwise, fp32, "x: g y *", "inplace")                                     \
  X(log, 1, 1, same, pointwise, fp32, "x: g x *; inplace: copy", "inplace")                      \
  X(sqrt, 1, 1, same, pointwise, none, "x: g y % *", "inplace")                                  \
  X(rsqrt, 1, 1, same, pointwise, fp32, "x: g % y ~ *", "inplace")                               \
  X(abs, 1, 1, same, pointwise, none, "x: g x ~ *; inplace: copy", "inplace")                    \
  X(neg, 1, 1, same, pointwise, none, "x: g ~", "inplace")                                       \
  X(square, 1, 1, same, pointwise, fp32, "x: g x ~ % *; inplace: copy", "inplace")               \
  X(sin, 1, 1, same, pointwise, none, "x: g x ~ *; inplace: copy", "inplace")                    \
  X(cos, 1, 1, same, pointwise, none, "x: g x ~ ~ *; inplace: copy", "inplace")                  \
  X(erf, 1, 1, same, pointwise, none, "x: x ~ ~ ~ % g *; inplace: copy", "inplace")              \
  X(sign, 1, 1, same, pointwise, none, "x: g ~", "inplace")                                      \
  X(round, 1, 1, same, pointwise, none, "x: g ~", "inplace")                                     \
  X(clamp, 1, 1, same, pointwise, none, "x: 0 x ! g 3; inplace: copy", "min max inplace")        \
  /* comparison */                                                                               \
  X(eq, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(ne, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(lt, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(le, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(gt, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(ge, 1, 2, bcast, compare, none, "", "scalar")                                                \
  X(logical_and, 2, 2, bcast, compare, none, "", "")                                             \
  X(logical_or, 2, 2, bcast, compare, none, "", "")                                              \
  X(logical_not, 1, 1, bcast, compare, none, "", "")                                             \
  /* reduction */                                                                                \
  X(sum, 1, 1, reduce, reduce, opt32, "", "dim keepdim dtype")                                   \
  X(mean, 1, 1, reduce, reduce, none, "", "dim keepdim dtype")                                   \
  X(amax, 1, 1, reduce, extreme, none, "", "dim keepdim")                                        \
  X(amin, 1, 1, reduce, extreme, none, "", "dim keepdim")                                        \
  X(max, 1, 1, reduce, extreme, none, "", "dim keepdim")                                         \
  X(min, 1, 1, reduce, extreme, none, "", "dim keepdim")                                         \
  X(prod, 1, 1, reduce, prod, opt32, "", "dim keepdim dtype")                                    \
  X(var, 1, 1, reduce, var, none, "", "dim keepdim correction unbiased")                         \
  X(std, 1, 1, reduce, var, none, "", "dim keepdim correction unbiased")                         \
  X(norm, 1, 1, reduce, vector_norm, opt32, "", "dim keepdim dtype")                             \
  X(logsumexp, 1, 1, reduce, logsumexp, fp32, "", "dim! keepdim")                                \
  /* shape */                                                                                    \
  X(reshape, 1, 1, reshape, view, none, "", "shape!")                                            \
  X(view, 1, 1, reshape, view, none, "", "shape!")                                               \
  X(flatten, 1, 1, flatten, view, none, "", "start_dim end_dim")                                 \
  X(unflatten, 1, 1, unflatten, view, none, "", "dim! sizes!")                                   \
  X(transpose, 1, 1, transpose, permute, none, "", "dim0! dim1!")                                \
  X(permute, 1, 1, permute, permute, none, "", "dims!")                                          \
  X(t, 1, 1, t, permute, none, "", "")                                                           \
  X(squeeze, 1, 1, squeeze, squeeze, none, "", "dim")                                            \
  X(unsqueeze, 1, 1, unsqueeze, squeeze, none, "", "dim!")                                       \
  X(expand, 1, 1, expand, expand, none, "", "shape!")                                            \
  X(slice, 1, 1, slice, slice, none, "", "dim! start end step")                                  \
  X(narrow, 1, 1, narrow, slice, none, "", "dim! start! length!")                                \
  X(select, 1, 1, select, slice, none, "", "dim! index!")                                       \
  X(split, 1, 1, split, split, none, "", "split_size_or_sections! dim")                          \
  X(chunk, 1, 1, split, split, none, "", "chunks! dim")                                          \
  X(unbind, 1, 1, unbind, split, none, "", "dim")                                               \
  X(detach, 1, 1, same, detach, none, "", "")                                                    \
  X(cat, 1, 65535, cat, cat, none, "", "dim")                                                    \
  X(stack, 1, 65535, stack, cat, none, "", "dim")                                                \
  X(roll, 1, 1, roll, roll, none, "", "shifts! dims")                                            \
  X(flip, 1, 1, roll, flip, none, "", "dims!")                                                   \
  X(repeat, 1, 1, repeat, repeat, none, "", "repeats!")                                          \
  X(tile, 1, 1, repeat, repeat, none, "", "dims!")                                               \
  X(repeat_interleave, 1, 1, repeat_interleave, repeat_interleave, none, "", "repeats! dim")     \
  X(contiguous, 1, 1, same, contiguous, none, "", "")                                            \
  X(clone, 1, 1, same, clone, none, "", "")                                                      \
  X(to, 1, 1, same, to, none, "", "dtype!")                                                      \
  X(type_as, 2, 2, same, to, none, "", "")                                                       \
  /* create */                                                                                   \
  X(zeros, 0, 1, create, create, none, "", "shape! dtype")                                       \
  X(ones, 0, 1, create, create, none, "", "shape! dtype")                                        \
  X(full, 0, 1, create, create, none, "", "shape! dtype")                                        \
  X(arange, 0, 1, create, create, none, "", "shape! dtype")                                      \
  X(empty, 0, 1, create, create, none, "", "shape! dtype")                                       \
  X(rand, 0, 1, create, create, none, "", "shape! dtype")                                        \
  X(randn, 0, 1, create, create, none, "", "shape! dtype")                                       \
  X(fill, 1, 1, same, fill, none, "", "inplace")                                                 \
  X(bernoulli, 1, 1, same, fill, none, "", "inplace")                                            \
  /* loss */                                                                                     \
  X(cross_entropy, 1, 2, loss, cross_entropy, fp32, "", "reduction label_smoothing ignore_index") \
  X(nll_loss, 1, 2, loss, cross_entropy, fp32, "", "reduction ignore_index")                     \
  X(mse_loss, 1, 2, loss, loss, fp32, "", "reduction")                                           \
  X(l1_loss, 1, 2, loss, loss, fp32, "", "reduction")                                            \
  X(smooth_l1_loss, 1, 2, loss, loss, fp32, "", "reduction beta")                                \
  X(huber_loss, 1, 2, loss, loss, fp32, "", "reduction delta")                                   \
  X(binary_cross_entropy, 1, 2, loss, loss, none, "", "reduction")                               \
  X(binary_cross_entropy_with_logits, 1, 2, loss, loss, fp32, "", "reduction")                   \
  X(kl_div, 1, 2, loss, loss, fp32, "", "reduction log_target")                                  \
  X(ctc_loss, 1, 2, loss, ctc_loss, none, "", "reduction blank zero_infinity")                   \
  X(cosine_embedding_loss, 1, 3, loss, cosine, fp32, "", "reduction margin")                     \
  X(triplet_margin_loss, 1, 3, loss, triplet, fp32, "", "reduction margin p eps swap")           \
  /* parameters */                                                                               \
  X(parameter, 0, 0, parameter, parameter, none, "", "shape! dtype frozen")                      \
  X(buffer, 0, 0, parameter, parameter, none, "", "shape! dtype")

/* clang-format on */

typedef enum vram_op {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys) VRAM_OP_##id,
  VRAM_OPS(VRAM__X)
#undef VRAM__X
      VRAM_OP_COUNT,
  VRAM__OP_drop = VRAM_OP_COUNT, /* the `drop` line */
  VRAM__OP_end                   /* closes the lines that an op was written out to */
} vram_op;
/* >>graph =====================================================================================
   A model: nodes in execution order. Built by calls or read from the text form, in the caller's
   memory. Shapes and dtypes are those of an fp32 run; what autocast or a low-precision run makes
   of them is the step's affair. */

/* A row of VRAM_OPS, as text. */
typedef struct vram_op_info {
  const char *name, *keys, *recipe, *autocast;
  uint32_t least, most; /* inputs */
} vram_op_info;

/* All zero for what is no op. */
VRAM_API void vram_op_get_info(vram_op op, vram_op_info *info);

/* The name ("conv2d"); "?" for what is no op. Never NULL. */
VRAM_API const char *vram_op_name(uint32_t op);

/* Sizes and strides in elements; `v` holds ndim sizes, then ndim strides. Shared: many values may
   point to one. */
typedef struct vram_dims {
  uint64_t numel;
  uint8_t ndim, flags;
  int64_t v[2 * VRAM_MAX_AXES];
} vram_dims;

#define VRAM_NODE_INNER                                                                            \
  2u /* vram_node.flags: a line that an op was written out to, not the last                        \
      */

typedef struct vram_node vram_node;
typedef struct vram_value vram_value;
typedef struct vram_param vram_param;

/* A node's keys: [key | count << 8 | kind << 32, values...]..., 0 ends. */
struct vram_node {
  vram_node *next, *prev;
  const char *name;                /* of the first output, not terminated */
  const struct vram__round *round; /* loop rounds around it, NULL: none */
  vram_value **in;
  vram_value *out; /* nout values, one after the other */
  const int64_t *attr;
  vram_param **param; /* weights, then buffers; NULL where the op has none there */
  uint32_t nin, nout, nparam;
  uint32_t index; /* 0, 1, ... in execution order */
  uint32_t line;  /* of the text, 0: built by calls */
  uint16_t op;    /* vram_op; VRAM_OP_COUNT and above: no op, nothing is allocated */
  uint8_t flags;
  uint8_t name_len;
};

/* A value: what a node gives, or an input of the model. */
struct vram_value {
  const vram_dims *d;
  vram_node *node; /* NULL: an input */
  const char *name;
  uint32_t index; /* 0, 1, ... */
  uint32_t last;  /* node index of the last use; UINT32_MAX: lives to the end */
  uint8_t dtype;  /* vram_dtype in an fp32 run */
  uint8_t flags;
  uint8_t name_len;
};

/* A parameter or buffer. */
struct vram_param {
  vram_param *next;
  const vram_dims *d;
  vram_node *node;
  const char *role; /* "weight", "bias", "running_mean", ... */
  uint32_t index;
  uint8_t dtype;
  uint8_t kind; /* 0 gets a gradient, 1 is frozen, 2 is a buffer */
};

typedef struct vram__total {     /* of a list of tensors */
  uint64_t bytes, blocks, large; /* large: how many of more than 1 MiB */
  uint64_t last;                 /* bytes of its last one, */
  uint32_t count;                /* and how many there are; without those of no bytes */
} vram__total;

typedef struct vram__owned { /* what modules own */
  vram__total all[2];        /* parameters, buffers; without those that are a value of the graph */
  vram__total trainable;
  uint64_t params_bytes, buffers_bytes; /* all of them; more than VRAM_MAX_BYTES: too many */
  uint64_t flat;                        /* weights of a recurrent node, which are one tensor */
  const vram_node *flat_node;
} vram__owned;

typedef struct vram_graph {
  uint8_t *mem;
  uint64_t used, cap;
  const char *name; /* of the model */
  uint32_t name_len;
  vram_node *first, *last;
  vram_param *param_first, *param_last;
  vram_value **input; /* the model's inputs */
  uint32_t ninput, nnode, nvalue, nparam, noutput;
  uint32_t ndim;
  struct {
    const char *name;
    uint32_t len, set;
    int64_t value;
  } dim[VRAM_MAX_DIMS];
  const vram_dims *cache[64];
  uint32_t max_in, max_out; /* most inputs and outputs of one node */
  uint64_t extra;           /* scratch of the step that nodes need beyond the usual */
  uint64_t flat_pad; /* elements that flat weights of recurrent nets have beyond their parameters */
  vram__owned owned;
  uint32_t rnn_dropout; /* recurrent nets with dropout */
  vram_value *root;     /* the first output: what backward starts from */
  vram_error error;     /* the first error; sticky */
} vram_graph;

/* A dim's value from outside; name NULL: the first dim of the model (the batch). */
typedef struct vram_dim {
  const char *name;
  int64_t value;
} vram_dim;

/* A new graph in the caller's memory, which must outlive it. Building and reading take from it;
   when it is used up they fail with VRAM_ERR_MEMORY. */
VRAM_API vram_result vram_graph_init(vram_graph *g, void *mem, uint64_t bytes);

/* Building by calls. The first error stays in g->error and makes every later call return NULL.
     vram_value *x = vram_input(&g, "x", VRAM_F32, 4, size, 0);
     vram_node *c = vram_apply(&g, VRAM_OP_conv2d, "c1", &x, 1, "out_channels=64 kernel_size=3");
     x = vram_out(c, 0); ...                                                                    */

/* The name of a node with its rounds of loops ("fc[3][0]"), as in every output of the command: at
   most cap - 1 bytes and a zero byte go to `to`. Returns the bytes of the whole name; 0 for NULL.
 */
VRAM_API uint32_t vram_node_name(const vram_node *n, char *to, uint32_t cap);

/* Output i of a node; NULL: the node is NULL (a call that failed) or has no such output. */
VRAM_API vram_value *vram_out(vram_node *n, uint32_t i);

/* An input of the model; grad: it wants a gradient. */
VRAM_API vram_value *vram_input(vram_graph *g, const char *name, vram_dtype dtype, uint32_t ndim,
                                const int64_t *size, int grad);

/* A node: names of its outputs ("y", or "values,indices"), its inputs, and its keys as in the text
   form (NULL: none; `weights=` names a node that is there). Names are labels, not looked up. */
VRAM_API vram_node *vram_apply(vram_graph *g, vram_op op, const char *names, vram_value *const *in,
                               uint32_t nin, const char *keys);

/* What the caller keeps after the forward pass; backward starts from the first. Without it: the
   last node. */
VRAM_API vram_result vram_output(vram_graph *g, vram_value *const *v, uint32_t n);

/* These values live until here although nothing uses them any more. */
VRAM_API vram_result vram_drop(vram_graph *g, vram_value *const *v, uint32_t n);

/* Bytes of memory that vram_parse needs for this text at most (0: text too large). */
VRAM_API uint64_t vram_parse_bytes(const char *text, uint64_t len, const vram_dim *set,
                                   uint32_t nset);

/* Reads the text form into g, which must be fresh from vram_graph_init. The values in `set` take
   the place of the text's. The text is not needed afterwards. Errors: every vram_result; *err, if
   not NULL, says where and what, and nothing of g may be used then. */
VRAM_API vram_result vram_parse(vram_graph *g, const char *text, uint64_t len, const vram_dim *set,
                                uint32_t nset, vram_error *err);

/* -----------------------------------------------------------------------------------------------
   >>optim   what an optimizer allocates and frees in its constructor and in one step

   One row of VRAM_OPTIMIZERS is one optimizer. Its memory behaviour is data: short recipes, played
   by vram__optim_play. `init` makes the state (once per parameter, in the optimizer's order);
   `foreach`, `loop` and `fused` are the body of one step and, behind '|', what the function's local
   variables still hold when it returns. The body runs once per group of equal dtype (foreach; the
   dtype seen last comes first), once per parameter (loop), or once (fused). Registers live on from
   one round to the next, as Python's local variables do.

   A recipe acts on its scope, the group or the one parameter:
     !S    state of size S, for every parameter of the scope; it stays
     +rS   a temporary of size S for every parameter of the scope, appended to register r (a to z)
     -r    frees register r, its last one first; nothing if it is empty
     =rs   frees register r, then r takes what s holds (an assignment: the new value exists first)
     ^rs   frees all of s but its last one, which goes to the empty register r (the variable of a
           `for` loop keeps its last value)
     .S    allocated and freed at once
     *x    workspace of a matrix product, allocated and freed at once: w cuBLAS; l cuBLASLt, unless
           the matrix has one row or column; t as l, but cuBLAS where the matrix is used transposed
     %x    workspace of a reduction (buffer, counters): N over the whole tensor, B the same for a
           bf16 copy, R over the last axis, C over the last but one, O mean of the row factors
     (..)  once for each parameter of the scope
     X[..] only if X: W weight decay, not decoupled (w: without), F first step, L sixth
           step or later (l: before), C capturable (c: not), D step counter on the device (fused or
           capturable), 2 two axes or more (1: fewer), B 4096 elements or more (b: fewer), Q before
           the first 8-bit state
   Sizes: p as the parameter, e one element of its dtype; P, E the same, but f32 where PyTorch
     promotes (capturable: no axes, with an f32 scalar); b one byte per element, h two, f four;
     s one f32, n one bf16, 1 and 8 so many bytes; r, c row and column factors, o their mean;
     g Gram matrix in bf16; a one f32 per block of elements, k code table of 8-bit states;
     F f32 copy of a low-precision parameter (nothing for others)
   ---------------------------------------------------------------------------------------------- */

typedef enum vram_optim_impl { /* the default: what PyTorch picks on CUDA */
                               VRAM_OPTIM_IMPL_DEFAULT,
                               VRAM_OPTIM_IMPL_FOREACH,
                               VRAM_OPTIM_IMPL_LOOP,
                               VRAM_OPTIM_IMPL_FUSED
} vram_optim_impl;

/* flags of a row */
enum {
  VRAM__OPTIM_CTOR = 1,       /* the constructor makes the state, for all parameters, used or not */
  VRAM__OPTIM_MATRIX = 2,     /* takes only parameters of two axes; the others are left out */
  VRAM__OPTIM_SPLIT = 4,      /* foreach: a group is split into matrices and vectors */
  VRAM__OPTIM_CAPTURE = 8,    /* has the option `capturable` */
  VRAM__OPTIM_DECOUPLED = 16, /* weight decay is decoupled: no temporaries */
  VRAM__OPTIM_DERIVED = 32    /* temporaries derived, not measured */
};

/* Adam: exp_avg_sq.sqrt() -> denom */
#define VRAM__OPTIM_ADAM "W[+gp-g]C[+xs+ys=ax=by]+xp=dx|-a-b-d"
#define VRAM__OPTIM_POW "+xs.8+ys-x" /* 1 - beta ** step on the device, left in y */
#define VRAM__OPTIM_ADAM_LOOP(max)                                                                 \
  "W[+gp]c[+xp+yp-x=dy]C[" VRAM__OPTIM_POW "=ay" VRAM__OPTIM_POW "=by+xs+ys-x=cy+xs=ex+xs=fx" max  \
  "+xp+ys+zP-x-y+xs+ys-x-y=dz]W[-g]|-a-b-c-e-f-d"
#define VRAM__OPTIM_RMS_LOOP "W[+gp]+xp=axW[-g]|-a"
#define VRAM__OPTIM_WHERE "+xb+ye+zp-y-x-z" /* x.copy_(torch.where(mask, number, x)) */
#define VRAM__OPTIM_NADAM_LOOP                                                                     \
  "C[" VRAM__OPTIM_POW "=ay]W[+gp]c[+xp+yp-x=dy]C[+xs+ys.8-x+xs-y+ys-x+xs-y=mx+xs+ys-x+xs.8-y"     \
  "+ys-x+xs-y+ys-x=ky+xP+yP-x=dy+xP=dx+xs=qx+xs+ys-x+xs+zs-y-x+yP-z=gy+zs+ws+vs-z-w+zP-v]-g-z"     \
  "|-a-m-k-d-q"
#define VRAM__OPTIM_RADAM                                                                          \
  "C[+xs=ax+xs=bx]W[+gp-g]C[+ns+ys-y+ys-y(+x1+ys+rs-y-x)-n(+x1+ys+zs+vs-z-y-x)=uv+xs=ax+xs=bx"     \
  "-r-a]+xp=dx|-b-u-d"
#define VRAM__OPTIM_RADAM_LOOP                                                                     \
  "W[+gp]C[" VRAM__OPTIM_POW "=ay" VRAM__OPTIM_POW "=by]+xP=cx"                                    \
  "c[l[+xp-x]L[+tp+up+vp+wp-v-u+vp-t-w+tp-v-t]]"                                                   \
  "C[+xs+ys.8+zs-x-y+xs-z+ys-x=ry+m1+xs+ys+zs-x-y+xs-z+ys+zs-x-y+xs-z+yp+zs+vP-z-y+yP-x-v+xE+zP"   \
  "-x-m-y=uz+xP+yP-x-y]W[-g]|-a-c-u-b-r"
#define VRAM__OPTIM_ASGD "+xp-x+xp-xc[(+xs+ys-x+zs-y+xs+vs-x-z)=ev+xs=mx]C[+xs-x+xs=ex]|-m-e"
#define VRAM__OPTIM_ASGD_LOOP                                                                      \
  "W[+gp]C[+xs+ys-x-y]+xp-xC[+xs+ys-x+zs-y+xs+ys-x-z-y+xs+ys+zs-x-y+xs+ys-x-z-y]W[-g]|"
#define VRAM__OPTIM_RPROP                                                                          \
  "+gp-k(c[.b.b.b]C[" VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE                        \
  "])(" VRAM__OPTIM_WHERE ")^kg+xp=sx|-k-s"
#define VRAM__OPTIM_RPROP_LOOP                                                                     \
  "+xp+yp-x=ayc[.b.b.b]C[" VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE VRAM__OPTIM_WHERE                   \
  "]+gpc[.b]C[" VRAM__OPTIM_WHERE "].p-g|-a"
#define VRAM__OPTIM_ADAFACTOR                                                                      \
  "(+xe%N-x)2[(+xr%R)-x(+xc%C)-x(+xp*w)(+yo%O)-y=vx]1[+xp-x+xp=vx](+xe%N-x)|-v"
#define VRAM__OPTIM_ADAFACTOR_LOOP                                                                 \
  "+xe%N-x2[+xr%R=ax+xc%C=bx+xp*w+yo%O-y=vx]1[+xp=qx+xp=vx]+xe%N-x|-a-b-q-v"
#define VRAM__OPTIM_MUON(t) "+yg*w=ay+yg*l=by+zh*" t "=xz" /* one Newton-Schulz step */
#define VRAM__OPTIM_MUON_LOOP                                                                      \
  "+up-k+xh+yn%B+zn-y-z" VRAM__OPTIM_MUON("t") VRAM__OPTIM_MUON("l") VRAM__OPTIM_MUON("l")         \
      VRAM__OPTIM_MUON("l") VRAM__OPTIM_MUON("l") "-a-b-u=kx|-k"
#define VRAM__OPTIM_8BIT_1 "B[Q[!k]!b!a]b[!f]"
#define VRAM__OPTIM_8BIT_2 "B[Q[!k!k]!b!b!a!a]b[!f!f]"

/* X(name, what the state is, default, flags, init, foreach, loop, fused); 0: no such one.
   Measured: torch.optim of PyTorch 2.15; lion with lion-pytorch 0.2.5 (foreach:
   timm 1.0.31, one chunk); *_8bit with bitsandbytes 0.50.2. Derived, not measured: lamb (after
   timm 1.0.31). */
#define VRAM_OPTIMIZERS(X)                                                                         \
  X(sgd, "", FOREACH, 0, "", "-gW[+gp]|-g", "-gW[+gp]|-g", "")                                     \
  X(sgd_momentum, "momentum_buffer", FOREACH, 0, "", "-gW[+gp]F[!p]|-g", "-gW[+gp]F[!p]|-g",       \
    "F[!p]")                                                                                       \
  X(sgd_nesterov, "momentum_buffer", FOREACH, 0, "", "-gW[+gp]F[!p]|-g", "-gW[+gp]F[!p]+np=gn|-g", \
    "F[!p]")                                                                                       \
  X(adam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_ADAM,       \
    VRAM__OPTIM_ADAM_LOOP(""), "")                                                                 \
  X(adam_amsgrad, "exp_avg exp_avg_sq max_exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE,               \
    "D[!s]!p!p!p", VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(".p"), "")                              \
  X(adamw, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE | VRAM__OPTIM_DECOUPLED,             \
    "D[!s]!p!p", VRAM__OPTIM_ADAM, VRAM__OPTIM_ADAM_LOOP(""), "")                                  \
  X(adamw_amsgrad, "exp_avg exp_avg_sq max_exp_avg_sq", FOREACH,                                   \
    VRAM__OPTIM_CAPTURE | VRAM__OPTIM_DECOUPLED, "D[!s]!p!p!p", VRAM__OPTIM_ADAM,                  \
    VRAM__OPTIM_ADAM_LOOP(".p"), "")                                                               \
  X(adagrad, "sum", FOREACH, VRAM__OPTIM_CTOR, "D[!s]!p", "W[+yp]+xp=axw[+yp]=gy|-a-g",            \
    VRAM__OPTIM_RMS_LOOP, "")                                                                      \
  X(rmsprop, "square_avg", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p", "-gW[+gp]+xp=ax|-g-a",         \
    VRAM__OPTIM_RMS_LOOP, 0)                                                                       \
  X(rmsprop_momentum, "square_avg momentum_buffer", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",     \
    "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)                                                \
  X(rmsprop_centered, "square_avg grad_avg", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",            \
    "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)                                                \
  X(rmsprop_centered_momentum, "square_avg momentum_buffer grad_avg", FOREACH,                     \
    VRAM__OPTIM_CAPTURE, "D[!s]!p!p!p", "-gW[+gp]+xp=ax|-g-a", VRAM__OPTIM_RMS_LOOP, 0)            \
  X(adadelta, "square_avg acc_delta", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",                   \
    "-gW[+gp]+xp=ax+xp=bx|-g-a-b", "W[+gp]+xp=ax+xp=bxW[-g]|-a-b", 0)                              \
  X(adamax, "exp_avg exp_inf", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p",                          \
    "-g+gpC[+xs=bx+xP=dx]|-g-b-d", "W[+gp].pC[+xs.8+ys-x=by+xP=dx]W[-g]|-b-d", 0)                  \
  X(nadam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s!s]!p!p",                      \
    "-gW[+gp]+xp=dxC[+xs+us+vs-x+ys-y+ys=mu-y+ys=kv-y+xP=nx]|-g-d-m-k-n", VRAM__OPTIM_NADAM_LOOP,  \
    0)                                                                                             \
  X(radam, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_RADAM,     \
    VRAM__OPTIM_RADAM_LOOP, 0)                                                                     \
  X(asgd, "step eta mu ax", FOREACH, VRAM__OPTIM_CAPTURE, "!s+xs!s-x!s!p", VRAM__OPTIM_ASGD,       \
    VRAM__OPTIM_ASGD_LOOP, 0)                                                                      \
  X(rprop, "prev step_size", FOREACH, VRAM__OPTIM_CAPTURE, "D[!s]!p!p", VRAM__OPTIM_RPROP,         \
    VRAM__OPTIM_RPROP_LOOP, 0)                                                                     \
  X(adafactor, "row_var col_var or variance", LOOP, VRAM__OPTIM_SPLIT, "2[!r!c]1[!p]",             \
    VRAM__OPTIM_ADAFACTOR, VRAM__OPTIM_ADAFACTOR_LOOP, 0)                                          \
  X(muon, "momentum_buffer", LOOP, VRAM__OPTIM_MATRIX, "!p", 0, VRAM__OPTIM_MUON_LOOP, 0)          \
  X(lion, "exp_avg", LOOP, 0, "", "F[!p]+xp=ax|-a", "F[!p]+xp+yp-x-y", 0)                          \
  X(lamb, "exp_avg exp_avg_sq", FOREACH, VRAM__OPTIM_DERIVED, "!p!p", "-g+gp+xp=dx+xp=ux|-g-d-u",  \
    "+gp+xp+yp-x=dy+xp=ux-g|-d-u", "")                                                             \
  X(adam_8bit, "state1 state2 absmax1 absmax2", LOOP, 0, VRAM__OPTIM_8BIT_2, 0, "", 0)             \
  X(adamw_8bit, "state1 state2 absmax1 absmax2", LOOP, 0, VRAM__OPTIM_8BIT_2, 0, "", 0)            \
  X(sgd_momentum_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                    \
  X(rmsprop_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                         \
  X(adagrad_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)                         \
  X(lion_8bit, "state1 absmax1", LOOP, 0, VRAM__OPTIM_8BIT_1, 0, "", 0)

typedef enum vram_optimizer {
#define VRAM__OPTIM_ROW(name, state, def, flags, init, foreach, loop, fused) VRAM_OPTIM_##name,
  VRAM_OPTIMIZERS(VRAM__OPTIM_ROW)
#undef VRAM__OPTIM_ROW
      VRAM_OPTIM_COUNT
} vram_optimizer;

typedef struct vram_optimizer_info {
  const char *name;
  const char *state;           /* the names of its state tensors, as in PyTorch */
  const char *implementations; /* the first is the default */
} vram_optimizer_info;

/* The row of an optimizer; 0: there is none. */
VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info);

/* The optimizer of a name ("adamw"; a suffix "_wd" asks for L2 weight decay that is added to the
   gradient), VRAM_OPTIM_COUNT: there is none. *weight_decay, if not NULL, becomes 0 or 1. */
VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay);

/* >>event =====================================================================================
   What is predicted and what is observed are the same stream of events. */

#define VRAM_CATEGORIES(X)                                                                         \
  X(PARAMS, "params")                                                                              \
  X(BUFFERS, "buffers")                                                                            \
  X(INPUTS, "inputs")                                                                              \
  X(ACTIVATIONS, "activations")                                                                    \
  X(AUTOCAST, "autocast")                                                                          \
  X(TEMPORARIES, "temporaries")                                                                    \
  X(WORKSPACE, "workspace")                                                                        \
  X(GRADIENTS, "gradients")                                                                        \
  X(OPTIMIZER, "optimizer")                                                                        \
  X(OTHER, "other")

typedef enum vram_category {
#define VRAM__X(id, text) VRAM_CATEGORY_##id,
  VRAM_CATEGORIES(VRAM__X)
#undef VRAM__X
      VRAM_CATEGORY_COUNT
} vram_category;

#define VRAM_PHASES(X)                                                                             \
  X(ZERO_GRAD, "zero_grad")                                                                        \
  X(FORWARD, "forward")                                                                            \
  X(BACKWARD, "backward")                                                                          \
  X(OPTIMIZER, "optimizer")                                                                        \
  X(END, "end")

typedef enum vram_phase {
#define VRAM__X(id, text) VRAM_PHASE_##id,
  VRAM_PHASES(VRAM__X)
#undef VRAM__X
      VRAM_PHASE_COUNT
} vram_phase;

#define VRAM_ACTIONS(X)                                                                            \
  X(ALLOC, "alloc")                                                                                \
  X(FREE, "free")       /* nobody uses it any more: PyTorch's free_completed */                    \
  X(BECOMES, "becomes") /* what is allocated counts in another category from now on: a gradient    \
                           that backward leaves behind was a temporary; not in                     \
                           vram_report.events */                                                   \
  X(FREE_REQUESTED, "free_requested") /* given back; streams still use it. FREE follows */         \
  X(SEGMENT_ALLOC, "segment_alloc")   /* memory comes from the device: reserved */                 \
  X(SEGMENT_FREE, "segment_free")                                                                  \
  X(SEGMENT_MAP, "segment_map") /* the same for growing segments */                                \
  X(SEGMENT_UNMAP, "segment_unmap")                                                                \
  X(RETRY, "retry") /* nothing left: what is cached went back, and the device was asked again */   \
  X(OOM, "oom")     /* that failed, too */                                                         \
  X(MARK, "mark")   /* a place in the program; no memory changes */

typedef enum vram_action {
#define VRAM__X(id, text) VRAM_##id,
  VRAM_ACTIONS(VRAM__X)
#undef VRAM__X
      VRAM_ACTION_COUNT
} vram_action;

#define VRAM_HOST 0xffu /* vram_event.device: host memory */

/* One allocation or free. A predicted one knows action, phase, category, was, id, bytes and node;
   the rest is 0. An observed one has an address, and no id. */
typedef struct vram_event {
  vram_action action;
  vram_phase phase;
  vram_category category;
  vram_category was;     /* VRAM_BECOMES: the category until now; else as category */
  int64_t id;            /* 0, 1, ... in order of allocation; -1: allocated before the step, or
                            known by its address */
  uint64_t bytes;        /* requested; of a segment: its size; OOM: what was asked of the device */
  const vram_node *node; /* NULL: none */
  uint64_t address;      /* 0: it has none */
  uint64_t block_bytes;  /* what the allocator set aside for it; 0: `bytes` */
  uint64_t stream;
  uint64_t time;        /* microseconds since 1970; 0: there is no clock */
  uint64_t device_free; /* OOM: bytes that the device says are free */
  int64_t split_bytes;  /* by so much this event changes what is free in segments that are */
  int32_t split;        /* partly in use (PyTorch's inactive_split), and the number of pieces */
  uint32_t owner;       /* who asked, as vram_ledger_owner numbers them; 0: not known */
  uint8_t device;       /* ordinal, VRAM_HOST */
  uint8_t small_pool;   /* 1: of the pool for requests up to 1 MiB */
  uint8_t whole;        /* 1: a segment of its own, no pool in between: counts as reserved, too */
  uint8_t kind;         /* the caller's: by which call; counted by kind */
  uint8_t waited;       /* FREE: FREE_REQUESTED came before; a ledger knows by itself */
} vram_event;

/* Names as they stand in files ("free_requested", "activations", "backward"); "?" for what is none.
   Never NULL. */
VRAM_API const char *vram_action_name(vram_action action);
VRAM_API const char *vram_category_name(vram_category category);
VRAM_API const char *vram_phase_name(vram_phase phase);

/* >>ledger ====================================================================================
   Counts events: current, peak, total allocated and freed; by pool, device, category, owner (call
   site and tag) and region; knows what is alive, and what was added and removed since a mark.
   Every event takes constant time and allocates nothing.

     vram_ledger_options o = VRAM_ZERO_INIT;
     vram_ledger l;
     o.live = 10000;
     n = vram_ledger_bytes(&o);
     vram_ledger_init(&l, &o, malloc(n), n, &err);
     step.event = vram_ledger_event, step.user = &l;      or as calls are observed

   Addresses are unique over all devices and the host, as CUDA's are. An event without an address
   and with id -1 is about memory from before the step: it changes sums by its bytes, no counts.

   Bad use is counted and never fatal:
   - freed twice, or never allocated: nothing changes but `unknown_frees`;
   - allocated again without a free: the old one is freed first, and counts in `missed_frees`;
   - more alive than there is room for: counts in the sums of its device and in `lost`, in no
     category, kind and owner, and is not in the trace. As long as something is lost, a free of an
     unknown address is taken for one of those;
   - a device without counters: nothing changes but `unknown_devices`. */

/* A counter as torch.cuda.memory_stats() has it: ".current", ".peak", ".allocated", ".freed". */
typedef struct vram_stat {
  uint64_t current, peak;
  uint64_t allocated, freed; /* since the beginning */
} vram_stat;

typedef enum vram_pool_class { VRAM_POOL_ALL, VRAM_POOL_SMALL, VRAM_POOL_LARGE } vram_pool_class;

/* PyTorch's names. Counts: allocation: blocks handed out; segment: from the device, growing ones
   not counted; active: handed out or waiting for a stream; inactive_split: free pieces of segments
   that are partly in use (growing ones not counted). allocated_bytes: blocks; requested_bytes:
   before rounding; reserved_bytes: held from the device. */
#define VRAM_STATS(X)                                                                              \
  X(allocation)                                                                                    \
  X(segment)                                                                                       \
  X(active)                                                                                        \
  X(inactive_split)                                                                                \
  X(allocated_bytes)                                                                               \
  X(reserved_bytes)                                                                                \
  X(active_bytes)                                                                                  \
  X(inactive_split_bytes)                                                                          \
  X(requested_bytes)

typedef struct vram_memory_stats {
#define VRAM__X(name) vram_stat name[3]; /* by vram_pool_class */
  VRAM_STATS(VRAM__X)
#undef VRAM__X
  vram_stat oversize_allocations, oversize_segments; /* of max_split_size and more */
  uint64_t num_alloc_retries, num_ooms, num_device_alloc, num_device_free;
} vram_memory_stats;

/* Who asks: a line of a program, or a name. The texts are the caller's and must outlive the ledger;
   equal pointers are one owner. Devices only; host memory is in vram_owner.host_bytes. */
typedef struct vram_owner {
  const char *file, *function, *tag; /* NULL: none */
  uint32_t line, number;             /* number: vram_event.owner */
  vram_stat bytes, count;            /* requested; of allocations */
  uint64_t host_bytes;               /* requested of the host now */
  uint64_t at_peak;                  /* see vram_ledger_owners */
  uint64_t serial;                   /* private */
} vram_owner;

#define VRAM_LIVE_SMALL 1u
#define VRAM_LIVE_WHOLE 2u
#define VRAM_LIVE_WAITS 4u /* given back; streams still use it */

/* What is alive. */
typedef struct vram_allocation {
  uint64_t address; /* or 1 + the id of an event without an address */
  uint64_t bytes, block_bytes, stream, time;
  uint64_t serial; /* the how manieth event it was */
  const vram_node *node;
  uint32_t owner;
  uint8_t category, device, kind;
  uint8_t flags; /* VRAM_LIVE_..., a sum */
} vram_allocation;

/* What happened between begin and end: changes, so a region that frees older memory is negative.
   The caller's memory, at the same place until it ends. */
typedef struct vram_region {
  const char *name;
  int64_t bytes, peak;       /* requested of devices, against the beginning; peak >= 0 */
  uint64_t allocated, freed; /* bytes in all */
  uint64_t allocations, frees;
  struct vram_region *outer; /* private */
} vram_region;

/* What one line of the log says: allocations of one owner and size, more (count > 0) or fewer than
   at the mark before. */
typedef struct vram_change {
  uint32_t owner;
  uint8_t device;
  uint8_t various; /* 1: what vram_ledger_options.groups has no room for; owner, device, bytes: 0 */
  int64_t count;
  uint64_t bytes; /* of each, requested */
  int64_t sum;    /* count * bytes */
} vram_change;

#define VRAM_KINDS_MAX 16

/* All zero: 1,024 live allocations and 255 owners, one device, no log, no trace. */
typedef struct vram_ledger_options {
  uint32_t live;    /* allocations that may be alive at a time */
  uint32_t owners;  /* call sites and tags */
  uint32_t devices; /* 0: one. Host memory has counters of its own */
  uint32_t groups;  /* triples of owner, size and device that the log tells apart; 0: no log */
  uint32_t trace;   /* the last so many events are kept; 0: none */
  uint64_t oversize_bytes; /* PyTorch's max_split_size, for the oversize counters; 0: none */
  /* called around every call, for use by threads; NULL: one thread */
  void (*lock)(void *user);
  void (*unlock)(void *user);
  uint64_t (*clock)(void *user); /* microseconds since 1970, for events whose time is 0; or NULL */
  void *user;
} vram_ledger_options;

typedef struct vram_ledger {
  vram_ledger_options options;             /* resolved */
  vram_memory_stats *device;               /* options.devices of them, then host memory */
  vram_stat category[VRAM_CATEGORY_COUNT]; /* requested bytes, all devices, without the host */
  vram_stat kind[VRAM_KINDS_MAX];          /* requested bytes */
  vram_owner *owner;                       /* [0]: whose owner is not known or finds no place */
  uint32_t nowner;
  uint32_t nlive;
  uint64_t serial; /* events so far */
  uint64_t unknown_frees, missed_frees, unknown_devices;
  uint64_t lost, lost_bytes;  /* alive and in no table */
  uint64_t lost_owners;       /* how often there was no place for one more */
  uint64_t bytes, peak_bytes; /* requested over all devices, now and highest */
  /* private */
  vram_region *region; /* the innermost */
  uint32_t *owner_hash;
  vram_allocation *live;
  struct vram__group *group;
  struct vram__lost *lost_of; /* [device][small_pool + 2 * whole] */
  vram_event *trace;
  uint64_t trace_count;
  uint64_t peak_serial;
  uint64_t category_peak[VRAM_CATEGORY_COUNT], category_serial[VRAM_CATEGORY_COUNT];
  int64_t various[4];  /* what finds no place in `group`: count and bytes, now and at the mark */
  uint64_t mark_bytes; /* `bytes` at the mark */
  uint32_t live_mask, owner_mask, group_mask, ngroup;
} vram_ledger;

/* Memory for a ledger. o NULL: all zero. VRAM_OVERFLOW: options out of range. */
VRAM_API uint64_t vram_ledger_bytes(const vram_ledger_options *o);

/* An empty ledger in the caller's memory. VRAM_ERR_MEMORY: less than vram_ledger_bytes.
   VRAM_ERR_VALUE: options out of range (2^28 of anything, 254 devices), one of lock and unlock. The
   fields of a ledger that threads use are to be read inside its lock. */
VRAM_API vram_result vram_ledger_init(vram_ledger *l, const vram_ledger_options *o, void *mem,
                                      uint64_t bytes, vram_error *err);

/* One event more; ledger is a vram_ledger. May be given as vram_step_options.event and
   vram_pool_options.event. */
VRAM_API void vram_ledger_event(void *ledger, const vram_event *e);

/* The number of an owner for vram_event.owner; a new one gets the next place. 0: no place left. */
VRAM_API uint32_t vram_ledger_owner(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, const char *tag);

/* Takes the allocation out as VRAM_FREE does and says what it was: 1, or 0: there is none. Before
   the memory is really freed, since another thread may get the same address at once. */
VRAM_API int vram_ledger_take(vram_ledger *l, uint64_t address, vram_allocation *was);

/* What is alive at this address (its first byte): 1, or 0: nothing. */
VRAM_API int vram_ledger_find(vram_ledger *l, uint64_t address, vram_allocation *a);

/* Writes what is alive, largest first, at most cap; returns how many there are. */
VRAM_API uint32_t vram_ledger_live(vram_ledger *l, vram_allocation *list, uint32_t cap);

/* Requested bytes of an owner and of a category when l->peak_bytes was reached, for the first time
   in case of several. */
VRAM_API uint64_t vram_ledger_owner_at_peak(vram_ledger *l, uint32_t owner);
VRAM_API uint64_t vram_ledger_category_at_peak(vram_ledger *l, vram_category category);

/* Writes owners with bytes on devices now, or at the peak (at_peak 1), largest first, at most cap;
   returns how many there are. In these copies at_peak holds. */
VRAM_API uint32_t vram_ledger_owners(vram_ledger *l, int at_peak, vram_owner *list, uint32_t cap);

/* A consistent copy of a device's counters (VRAM_HOST: host memory); all zero: no such device. */
VRAM_API void vram_ledger_stats(vram_ledger *l, uint32_t device, vram_memory_stats *stats);

/* torch.cuda.reset_peak_memory_stats, reset_accumulated_memory_stats: of everything. */
VRAM_API void vram_ledger_reset_peak(vram_ledger *l);
VRAM_API void vram_ledger_reset_accumulated(vram_ledger *l);

/* Regions may lie in one another and count all threads. They may end in any order: *r has then what
   happened in it and in those inside it. vram_region_end of a region that is not open: 0. */
VRAM_API void vram_region_begin(vram_ledger *l, vram_region *r, const char *name);
VRAM_API int vram_region_end(vram_ledger *l, vram_region *r);

/* What was added and removed since the last mark, largest sums first, at most cap; returns how many
   changes there are, and sets the mark. */
VRAM_API uint32_t vram_ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap);

/* >>pool ======================================================================================
   A caching allocator over a backend of two functions: blocks are cut from segments, freed blocks
   wait in their segments for the next request of that stream. It handles addresses only and touches
   no memory but its own, so the backend may be a device, the host, or a simulation.

     uint64_t n = vram_pool_bytes(1000, 4);               1000 blocks, free ones included; 4 streams
     vram_pool p;
     vram_pool_init(&p, NULL, &backend, malloc(n), n, &err);
     if (vram_pool_alloc(&p, bytes, stream, &address) == VRAM_OK) ...
     vram_pool_free(&p, address);

   Not thread-safe: one lock around the calls on one pool. */

typedef enum vram_pool_policy {
  /* PyTorch's CUDACachingAllocator, 2.15: the same segments, the same blocks at the same offsets,
     the same counters, call for call */
  VRAM_POOL_TORCH,
  /* never more reserved than that, mostly less: blocks are placed as PyTorch would place them, but
     before more than ever would be reserved, segments that are all free go back to the device; one
     comes back when a block is placed in it. What is reserved is thus at any time a part of what
     PyTorch would have reserved (with segments at ascending addresses, until the device has no
     more). To free memory stops a device for a moment: it is done at most once for 16 requests,
     after the first 256; what the device's limit forces comes on top */
  VRAM_POOL_BEST
} vram_pool_policy;

/* Where segments come from. Addresses are multiples of 512 and never 0. */
typedef struct vram_backend {
  uint64_t (*alloc)(void *user, uint64_t bytes, uint64_t stream); /* 0: there is no more */
  void (*free)(void *user, uint64_t address, uint64_t bytes, uint64_t stream);
  /* for expandable segments; NULL: there are none. reserve gives addresses without memory,
     multiples of the granule; map puts memory behind them, granule by granule of the same size:
     0: there is no more */
  uint64_t (*reserve)(void *user, uint64_t bytes);
  void (*unreserve)(void *user, uint64_t address, uint64_t bytes);
  int (*map)(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
  void (*unmap)(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
  /* for vram_pool_record_stream; NULL: there are no other streams. record marks what was given to
     the stream so far (0: it cannot: the block waits for vram_pool_empty_cache, which records
     again), done asks, or with `wait` waits, until that has run; what is done is asked once */
  uint64_t (*record)(void *user, uint64_t stream);
  int (*done)(void *user, uint64_t event, int wait);
  void *user;
} vram_backend;

/* All zero: PyTorch's defaults. */
typedef struct vram_pool_options {
  vram_pool_policy policy;
  uint64_t max_split_size;         /* bytes; blocks of so many and more are not split; 0: none */
  uint64_t max_non_split_rounding; /* bytes that such a block may be larger; 0: 20 MiB */
  uint64_t large_segment_size;     /* bytes for requests below 10 MiB; 0: 20 MiB */
  uint64_t limit_bytes;            /* memory fraction times the device's memory; 0: none */
  uint64_t total_bytes;            /* of the device: addresses of an expandable segment */
  uint32_t garbage_collection_threshold; /* millionths of limit_bytes; 0: off */
  int expandable_segments;
  uint16_t roundup_power2_divisions[16]; /* of requests below 2 MiB, 4 MiB, ... 32 GiB, above */
  uint32_t streams;                      /* how many may use it, VRAM_POOL_STREAMS at most; 0: 16 */
  uint8_t device;
  void (*event)(void *user, const vram_event *e); /* NULL: nobody listens */
  void *user;
} vram_pool_options;

/* Reads PYTORCH_CUDA_ALLOC_CONF's form: "max_split_size_mb:64,expandable_segments:True". What it
   does not name stays; what does not change which segments there are (pinned memory, locks, logs)
   is read over. VRAM_ERR_SYNTAX, VRAM_ERR_NAME, VRAM_ERR_VALUE: *err says where, *o is as before.
 */
VRAM_API vram_result vram_pool_config(const char *text, vram_pool_options *o, vram_error *err);

#define VRAM_POOL_BINS 8192
#define VRAM_POOL_STREAMS 64

/* A piece of a segment: handed out, or free. Private. */
typedef struct vram__block {
  uint64_t address, size, requested;
  uint64_t streams;    /* others that use it, one bit each */
  uint32_t prev, next; /* in the segment; 0: none */
  uint32_t child[2];   /* in the tree of its bin, or of unmapped ones */
  uint32_t serial;     /* policy BEST: of its segment */
  uint32_t link;       /* handed out: the next of the same hash; given back: entries of queues
                          that it waits for; free: requests of the class when it was freed */
  uint32_t skew;       /* of an expandable segment: its address modulo the granule */
  uint16_t bin;
  uint8_t stream, flags;
} vram__block;

/* The free blocks of one stream and class by size. Private. */
typedef struct vram__bins {
  uint64_t filled[VRAM_POOL_BINS / 64];
  uint32_t root[VRAM_POOL_BINS];
  uint64_t words[VRAM_POOL_BINS / 4096]; /* which of filled are not 0 */
  uint32_t unmapped;
} vram__bins;

typedef struct vram_pool {
  vram_pool_options options; /* resolved: no zeros that mean a default */
  vram_backend backend;
  vram_memory_stats stats;
  vram_event as; /* owner, category, kind, phase, node, time of the events that the pool emits */
  /* private */
  vram__block *block; /* [0] is none */
  uint32_t *hash;     /* of the addresses that are handed out */
  vram__bins *bins;   /* [stream][class]: 0 large, 1 small */
  uint8_t terse;      /* of stats only segments, allocated and reserved bytes are kept */
  uint32_t nblock, cap, unused, nunused, mask;
  uint32_t waiting; /* entries of all queues */
  uint32_t stuck;   /* blocks that wait for a stream that could not be recorded */
  uint32_t serial;  /* policy BEST: segments so far */
  uint32_t credit;  /* and 16 times the segments that may go back now */
  uint64_t highest; /* and reserved bytes so far */
  uint32_t requests[2];
  uint32_t nstream;
  uint64_t stream[VRAM_POOL_STREAMS];
  uint8_t order[VRAM_POOL_STREAMS]; /* of the stream's numbers, ascending */
  uint32_t first[VRAM_POOL_STREAMS], last[VRAM_POOL_STREAMS]; /* queue of what waits for it */
} vram_pool;

/* A piece of a segment, as vram_pool_walk shows it. */
typedef struct vram_piece {
  uint64_t segment, segment_bytes; /* of a growing one: the mapped stretch that the piece is in */
  uint64_t address, bytes, requested, stream;
  int state; /* 0: free, 1: handed out, 2: given back, and streams still use it */
  int small_pool, expandable;
} vram_piece;

/* Memory for so many blocks (handed out and free, and one more for each stream that a block that
   was given back waits for) and streams (0: 16). */
VRAM_API uint64_t vram_pool_bytes(uint32_t blocks, uint32_t streams);

/* An empty pool in the caller's memory; o NULL: all zero. VRAM_ERR_VALUE, VRAM_ERR_MEMORY. */
VRAM_API vram_result vram_pool_init(vram_pool *p, const vram_pool_options *o,
                                    const vram_backend *backend, void *mem, uint64_t bytes,
                                    vram_error *err);

/* *address becomes that of a block of at least so many bytes (0 bytes: a block, too), 0 if it
   fails:
     VRAM_ERR_MEMORY  the backend has no more, also after all that is cached went back
     VRAM_ERR_LIMIT   no room for one more block or stream in the pool's own memory */
VRAM_API vram_result vram_pool_alloc(vram_pool *p, uint64_t bytes, uint64_t stream,
                                     uint64_t *address);

/* VRAM_ERR_VALUE: nothing is handed out at that address; nothing happens. */
VRAM_API vram_result vram_pool_free(vram_pool *p, uint64_t address);

/* Tensor.record_stream: another stream uses it, too; after its free it waits for what that stream
   was given until then. VRAM_ERR_VALUE: nothing is handed out at that address; VRAM_ERR_LIMIT: more
   streams than the pool has room for; VRAM_ERR_UNSUPPORTED: the backend cannot record. */
VRAM_API vram_result vram_pool_record_stream(vram_pool *p, uint64_t address, uint64_t stream);

/* torch.cuda.empty_cache: waits for all streams; whole free segments go back. */
VRAM_API void vram_pool_empty_cache(vram_pool *p);

/* The block at this address: 1, or 0: nothing is handed out there. */
VRAM_API int vram_pool_find(const vram_pool *p, uint64_t address, vram_piece *piece);

/* Bytes of the largest free block that a request of this stream may use (`stream` NULL: of any):
   what a report on too little memory says about fragmentation. */
VRAM_API uint64_t vram_pool_largest_free(const vram_pool *p, const uint64_t *stream);

/* Every piece of every segment, segment by segment, ascending addresses in each. What visit returns
   ends the walk if it is not 0, and is returned. visit must not change the pool. */
VRAM_API int vram_pool_walk(const vram_pool *p, int (*visit)(void *user, const vram_piece *piece),
                            void *user);

/* >>step ======================================================================================
   One step of a model as a stream of events, and the report that counts them. */

/* One tensor or workspace that is allocated at the peak. */
typedef struct vram_live {
  uint64_t bytes;
  vram_category category;
  const vram_node *node; /* that allocated it; NULL: there before the step */
} vram_live;

/* What one node of the forward pass did. */
typedef struct vram_node_report {
  uint64_t params;       /* elements of its own parameters */
  uint64_t output_bytes; /* of its outputs' storages that are its own (0 for views and in place) */
  uint64_t saved_bytes;  /* first kept for backward by it */
  uint64_t live_bytes;   /* requested in all when it has returned */
  uint8_t dtype;         /* of the first output in this run */
} vram_node_report;

typedef enum vram_rules {
  VRAM_RULES_TORCH, /* PyTorch eager, 2.15 */
  VRAM_RULES_IDEAL  /* a hand-written program: keeps what the formulas need and no dropout masks,
                       writes pointwise gradients over the ones that arrive, no workspaces, no
                       copies for layout, fused optimizer */
} vram_rules;

/* Nodes from first to last, in execution order. */
typedef struct vram_range {
  const vram_node *first, *last;
} vram_range;

#define VRAM_NO_CONTEXT UINT64_MAX /* vram_step_options.context_bytes: count none */

/* All zero: inference in fp32 on a device of compute capability 9.0. */
typedef struct vram_step_options {
  int train; /* 0: forward under no_grad */
  vram_rules rules;
  vram_optimizer optimizer; /* with train */
  vram_optim_impl optim_impl;
  int weight_decay;             /* L2 weight decay that is added to the gradient */
  int first_step;               /* 0: steady step, optimizer state exists */
  int amp;                      /* 0, VRAM_BF16 or VRAM_F16: autocast; F16 with GradScaler */
  int dtype;                    /* 0 or VRAM_F32, VRAM_BF16, VRAM_F16: the whole model's */
  int master_weights;           /* the optimizer works on fp32 copies of low-precision parameters */
  uint32_t accumulate;          /* micro-batches, 0 or 1: one */
  int keep_grads;               /* zero_grad(set_to_none=False) */
  uint32_t checkpoint_segments; /* torch.utils.checkpoint.checkpoint_sequential with so many
                                   segments; a function is what lies between two points where one
                                   value is handed on, the last line is the loss */
  const vram_range *checkpoint; /* nodes that run in torch.utils.checkpoint.checkpoint, ranges in */
  uint32_t ncheckpoint;         /* execution order; their inputs are what they use from outside */
  int reentrant;                /* use_reentrant=True */
  uint32_t prefetch;            /* further batches of the inputs that wait on the device */
  uint32_t pinned;              /* batches of the inputs that wait in pinned host memory */
  uint32_t cc;                  /* compute capability times ten; 0: 90 */
  uint32_t sm;                  /* multiprocessors; 0: those of the usual device of that cc */
  uint64_t context_bytes;       /* CUDA context and libraries; 0: not known, usually 512 MiB */
  /* NULL: no replay. Else the whole run goes through this allocator: model, optimizer and inputs to
     the device, then two steps (none for first_step; without train one whose results are gone),
     then the step that the report tells of.
     total_bytes: what the device has for this process; 0: as much as it takes. event: hears of
     every block and segment of the run, with phase, category and node (not with budget_bytes: a
     run that does not fit is played once more) */
  const vram_pool_options *replay;
  uint64_t budget_bytes;                          /* of the device, for vram_report.fits; 0: none */
  void (*event)(void *user, const vram_event *e); /* NULL: nobody listens */
  void *user;
  struct vram_node_report *nodes; /* NULL, or one for each node of the graph */
} vram_step_options;

typedef struct vram_phase_report {
  uint64_t requested_bytes;      /* at its end */
  uint64_t requested_peak_bytes; /* highest within it */
  uint64_t allocated_bytes; /* the same in blocks: with `replay` what the caching allocator's */
  uint64_t allocated_peak_bytes; /* memory_allocated() says, else at least: blocks of 512 bytes */
  uint64_t reserved_bytes, reserved_peak_bytes; /* with `replay`: memory_reserved(); else 0 */
} vram_phase_report;

/* lower <= what a device shows <= upper */
typedef struct vram_bounds {
  uint64_t lower, expected, upper;
} vram_bounds;

typedef struct vram_report {
  uint64_t params_bytes, buffers_bytes, inputs_bytes, gradients_bytes, optimizer_bytes;
  uint64_t saved_bytes; /* kept for backward: distinct storages that are no parameters, buffers,
                           inputs */
  uint64_t autocast_cache_bytes; /* low-precision copies of weights */
  uint64_t workspace_bytes;      /* the largest one */
  uint64_t kv_cache_bytes;       /* 0: the text form has no cache */
  uint64_t pinned_bytes;         /* host memory */
  vram_phase_report phase[VRAM_PHASE_COUNT];
  uint64_t peak_requested_bytes;
  uint64_t peak_blocks_bytes; /* the highest sum of requests, each rounded up to 512 bytes */
  vram_bounds peak_allocated_bytes;
  uint64_t peak_reserved_bytes; /* with `replay`: max_memory_reserved() of the step; else at least:
                                   whole segments */
  int replayed;                 /* 0: no replay was asked for, or it became too large */
  /* With budget_bytes. 1: device_bytes.expected is within the budget. With `replay` also where that
     is not so, but in a replay with what the budget leaves beside the context every request finds
     memory: now and then all that is cached goes back to the device */
  int fits;
  uint64_t
      num_alloc_retries; /* of such a replay: how many times that happens; else of the replay */
  uint64_t num_ooms; /* 1: a request of the replay found no memory; what came then is not played */
  vram_bounds context_bytes; /* of CUDA and the libraries */
  vram_bounds device_bytes;  /* without context_bytes: what is reserved */
  vram_phase peak_phase;
  const vram_node *peak_node;
  uint64_t peak_category_bytes[VRAM_CATEGORY_COUNT];
  uint64_t before_category_bytes[VRAM_CATEGORY_COUNT]; /* there before the first event */
  uint64_t events;
  uint64_t peak_event;   /* the how manieth of them reached the peak; 0: before the first;
                            UINT64_MAX: one of the optimizer's */
  uint64_t scratch_used; /* bytes */
} vram_report;

/* Where a figure comes from. */
#define VRAM_SOURCES(X)                                                                            \
  X(DERIVED, "derived") /* follows from the model, the options and PyTorch's host code */          \
  X(RULES, "rules")     /* a constant of the rules version: workspaces, block sizes */             \
  X(BOUND, "bound")     /* only lower and upper hold; expected is the usual figure */

typedef enum vram_source {
#define VRAM__X(id, text) VRAM_SOURCE_##id,
  VRAM_SOURCES(VRAM__X)
#undef VRAM__X
      VRAM_SOURCE_COUNT
} vram_source;

/* The terms of a report: a field of vram_report (ONE figure, or THREE: vram_bounds), its source,
   and what it is made of. */
/* clang-format off */
#define VRAM_TERMS(ONE, THREE)                                                                   \
  ONE(params_bytes, DERIVED, "shapes and dtypes of the parameters")                              \
  ONE(buffers_bytes, DERIVED, "shapes and dtypes of the buffers")                                \
  ONE(inputs_bytes, DERIVED, "shapes and dtypes of the inputs")                                  \
  ONE(gradients_bytes, DERIVED, "parameters that backward reaches")                              \
  ONE(optimizer_bytes, DERIVED, "state tensors of the optimizer's recipe")                       \
  ONE(saved_bytes, DERIVED, "what autograd keeps of each op")                                    \
  ONE(autocast_cache_bytes, DERIVED, "weights that autocast casts")                              \
  ONE(workspace_bytes, RULES, "the largest; cuBLAS: its default for the compute capability") \
  ONE(kv_cache_bytes, DERIVED, "none: the text form has no cache")                               \
  ONE(pinned_bytes, DERIVED, "batches of the inputs in host memory")                             \
  ONE(peak_requested_bytes, DERIVED, "every request of the step in order")                       \
  THREE(peak_allocated_bytes, BOUND, "blocks of the caching allocator; rests not split off, workspaces of the device") \
  ONE(peak_reserved_bytes, BOUND, "replayed: segments of the caching allocator; else at least: whole ones of 2 MiB")                           \
  THREE(context_bytes, BOUND, "CUDA context and libraries: given, or 105 MiB to 1 GiB")        \
  THREE(device_bytes, BOUND, "segments, which keep what is free; the CUDA context")

/* clang-format on */

typedef struct vram_term {
  const char *name; /* of the field: "params_bytes" */
  vram_source source;
  const char *from; /* what the figure is made of */
  vram_bounds bytes;
} vram_term;

/* Term i of a report, in the order of the table; 0: there is none. */
VRAM_API int vram_report_term(const vram_report *report, uint32_t i, vram_term *term);

/* The name of a source ("derived"); "?" for what is none. Never NULL. */
VRAM_API const char *vram_source_name(vram_source source);

/* Devices: name, compute capability times ten, multiprocessors (both: NVIDIA's data sheets and the
   CUDA programming guide), memory in GB as sold, usable memory in MiB and its source. Usable is
   what CUDA reports as the total of a device (totalGlobalMem, the "total capacity" of PyTorch's
   message): the smallest found in public reports that name the device. What is missing is kept by
   ECC and the driver, and a driver of another version keeps more or less: titanrtx, rtx3080,
   rtx3080ti, rtx4070ti and rtx4080 are from before 2025, drivers since then kept 100 to 200 MiB
   more on other GeForce. Of a figure in rounded GiB the least that rounds to it is taken. A source
   is a thread on GitHub (owner/repository#number), a file there, or the words of the report. */
#define VRAM_GPUS(X)                                                                               \
  X("p100-16", 60, 56, 16, 16269, "Tesla P100-PCIE-16GB, 16269MiB")                                \
  X("v100-16", 70, 80, 16, 16130, "Tesla V100-SXM2-16GB, 16130MB")                                 \
  X("v100-32", 70, 80, 32, 32494, "Tesla V100-SXM2-32GB, VRAM: 32494 MiB")                         \
  X("t4", 75, 40, 16, 14912, "Tesla T4, VRAM: 14912 MiB")                                          \
  X("rtx2060", 75, 30, 6, 5735, "RTX 2060, 5735/5735 MB")                                          \
  X("rtx2080ti", 75, 68, 11, 10825, "RTX 2080 Ti, 10825MiB")                                       \
  X("titanrtx", 75, 72, 24, 24212, "TITAN RTX, 24212MiB")                                          \
  X("a30", 80, 56, 24, 24089, "google/RB-Modulation#5")                                            \
  X("a100-40", 80, 108, 40, 40339, "bottlerocket-os/bottlerocket#3873")                            \
  X("a100-80", 80, 108, 80, 81038, "A100-SXM4-80GB, 81038MiB")                                     \
  X("rtx3060", 86, 28, 12, 11906, "RTX 3060, VRAM: 11906 MiB")                                     \
  X("rtx3070", 86, 46, 8, 7819, "RTX 3070, VRAM: 7819 MiB")                                        \
  X("rtx3080", 86, 68, 10, 10009, "zai-org/CogVideo#34")                                           \
  X("rtx3080ti", 86, 80, 12, 12031, "RTX 3080 Ti, 12031.3125MB")                                   \
  X("rtx3090", 86, 82, 24, 24123, "RTX 3090, VRAM: 24123 MiB")                                     \
  X("rtx3090ti", 86, 84, 24, 24142, "RTX 3090 Ti, VRAM: 24142 MiB")                                \
  X("a4000", 86, 48, 16, 15979, "RTX A4000, total capacity of 15.61 GiB")                          \
  X("a5000", 86, 64, 24, 24114, "RTX A5000, total_memory=24114MB")                                 \
  X("a6000", 86, 84, 48, 48532, "ContextLab/giblet-responses#30")                                  \
  X("a10", 86, 72, 24, 22512, "zai-org/CogVLM#236")                                                \
  X("a10g", 86, 80, 24, 22476, "NVIDIA A10G, 22.0 GiB")                                            \
  X("a40", 86, 84, 48, 45416, "NVIDIA A40, total_memory=45416MB")                                  \
  X("rtx4060", 89, 24, 8, 7807, "RTX 4060, 7807MiB")                                               \
  X("rtx4060ti", 89, 34, 16, 15918, "boson-ai/higgs-audio#48")                                     \
  X("rtx4070", 89, 46, 12, 11866, "RTX 4070, VRAM: 11866 MiB")                                     \
  X("rtx4070ti", 89, 60, 12, 12007, "RTX 4070 Ti, 12007MiB")                                       \
  X("rtx4080", 89, 76, 16, 15945, "RTX 4080, 15701/15945 MB")                                      \
  X("rtx4090", 89, 128, 24, 24079, "pytorch/torchchat#1341")                                       \
  X("rtx6000ada", 89, 142, 48, 45491, "RTX 6000 Ada, total capacity of 44.43 GiB")                 \
  X("l4", 89, 58, 24, 22563, "NVIDIA L4, 22563MiB")                                                \
  X("l40", 89, 142, 48, 45460, "QwenLM/Qwen3-VL#2097")                                             \
  X("l40s", 89, 142, 48, 45467, "NVIDIA L40S, VRAM: 45467 MiB")                                    \
  X("h20", 90, 78, 96, 97285, "NVIDIA H20, total_memory=97285MB")                                  \
  X("h100-80", 90, 132, 80, 81007, "openxla/xla: h100_sxm.txtpb")                                  \
  X("h100-94", 90, 132, 94, 95226, "ali-vilab/VACE#56")                                            \
  X("h100-pcie", 90, 114, 80, 81007, "openxla/xla: h100_pcie.txtpb")                               \
  X("h200", 90, 132, 141, 143156, "NVIDIA H200, 143156MiB")                                        \
  X("gh200", 90, 132, 96, 96768, "NVIDIA GH200 480GB, total_memory=96768MB")                       \
  X("b200", 100, 148, 180, 182625, "pytorch/ao#4002")                                              \
  X("gb200", 100, 152, 186, 188729, "openxla/xla: gb200.txtpb")                                    \
  X("b300", 103, 148, 288, 274073, "flashinfer-ai/flashinfer#5301")                                \
  X("gb300", 103, 152, 288, 283261, "openxla/xla: gb300.txtpb")                                    \
  X("rtx5060ti", 120, 36, 16, 15841, "RTX 5060 Ti, VRAM: 15841 MiB")                               \
  X("rtx5070", 120, 48, 12, 11760, "RTX 5070, total capacity of 11.49 GiB")                        \
  X("rtx5070ti", 120, 70, 16, 15808, "RTX 5070 Ti, VRAM: 15808 MiB")                               \
  X("rtx5080", 120, 84, 16, 15840, "RTX 5080, 15840MiB")                                           \
  X("rtx5090", 120, 170, 32, 32109, "RTX 5090, VRAM: 32109 MiB")                                   \
  X("rtxpro6000", 120, 188, 96, 97244, "RTX PRO 6000, total=94.97 GiB")

typedef struct vram_gpu {
  const char *name;
  uint32_t cc, sm;
  uint32_t sold_gb; /* as sold */
  uint64_t bytes;   /* usable: what CUDA reports */
  const char *source;
} vram_gpu;

/* Device i, NULL behind the last one. */
VRAM_API const vram_gpu *vram_gpu_at(uint32_t i);

/* Reads "A..B,C..D": names of nodes (of any output). A range is from an A to the next B; a name
   inside loops means every round, unless rounds stand behind it: "A[0][2]..B[0][2]". *count becomes
   the number of ranges; at most cap are written. */
VRAM_API vram_result vram_ranges(const vram_graph *g, const char *text, vram_range *list,
                                 uint32_t cap, uint32_t *count, vram_error *err);

/* Bytes of scratch that vram_step needs for this graph: an upper bound; vram_report.scratch_used
   says what it took. o NULL: all zero. */
VRAM_API uint64_t vram_step_bytes(const vram_graph *g, const vram_step_options *o);

/* Plays one step: zero_grad, forward, and with `train` backward and optimizer. *report becomes what
   it took; events go to o->event as they come. o NULL: all zero. *err, if not NULL, says why not:
     VRAM_ERR_MEMORY       scratch is too small
     VRAM_ERR_OVERFLOW     more than VRAM_MAX_BYTES in all
     VRAM_ERR_UNSUPPORTED  PyTorch refuses such a step, too: the text says why
     VRAM_ERR_VALUE        options that exclude each other, or are out of range
     VRAM_ERR_LIMIT        a limit of the library */
VRAM_API vram_result vram_step(const vram_graph *g, const vram_step_options *o, void *scratch,
                               uint64_t scratch_bytes, vram_report *report, vram_error *err);

/* The live set at the peak: plays the step once more up to there. *count becomes the number of
   entries that there are; at most cap are written. report is what vram_step gave for the same
   graph and options. */
VRAM_API vram_result vram_step_live(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, const vram_report *report,
                                    vram_live *list, uint32_t cap, uint32_t *count);

/* >>solve =====================================================================================
   The largest value of a dim that fits a budget. */

/* Memory from the caller, for functions that cannot know beforehand how much they need. */
typedef struct vram_allocator {
  void *(*alloc)(void *user, uint64_t bytes); /* aligned for any type; NULL: there is no more */
  void (*free)(void *user, void *memory, uint64_t bytes); /* bytes as asked for; never of NULL */
  void *user;
} vram_allocator;

/* All zero but the budget: the largest batch for inference. A value fits if the step's
   report.fits, with step.replay: the whole run finds its memory within the budget. */
typedef struct vram_solve_options {
  uint64_t budget_bytes;
  const char *dim;     /* NULL: the first dim of the model (the batch) */
  int segments;        /* instead of a dim: the fewest step.checkpoint_segments */
  int64_t most;        /* the largest value tried; 0: 2^31-1 */
  const vram_dim *set; /* other dims */
  uint32_t nset;
  const char *checkpoint_nodes; /* ranges for vram_ranges; NULL: none (step.checkpoint is unused) */
  vram_step_options step;
} vram_solve_options;

/* A value that was tried; value 0: there is none. */
typedef struct vram_trial {
  int64_t value;
  vram_report report; /* of that step; all zero: more than VRAM_MAX_BYTES. Its peak_node is NULL */
} vram_trial;

typedef struct vram_solution {
  vram_trial fits;   /* the largest dim that fits; the fewest segments that fit */
  vram_trial next;   /* the next larger dim that the model allows, the next smaller number of
                        segments: it does not fit. 0: there is none up to `most` */
  vram_trial eights; /* the largest multiple of eight that fits, up to fits.value */
  vram_trial power;  /* the same for powers of two */
  vram_trial least;  /* segments: the number that takes the fewest bytes */
  int64_t larger;    /* not 0: not monotone. This value takes fewer bytes than the smaller one */
  int64_t smaller;   /* here: both were tried */
  int limit;         /* `next` is beyond a limit of this library, not of the budget */
  uint32_t tried;    /* how many values */
} vram_solution;

/* Searches by trying: every figure comes from a step that was played. Values that the model does
   not allow (sizes that do not divide) are passed over. Between fits and next every value was
   tried or is not allowed. *err, if not NULL, says why not:
     VRAM_ERR_NAME    the model has no such dim
     VRAM_ERR_VALUE   options that exclude each other
     VRAM_ERR_MEMORY  the allocator gave none
     and what vram_parse and vram_step say of the text and the options as they stand
   Nothing fits: VRAM_OK, solution->fits.value is 0 and next is the smallest value. */
VRAM_API vram_result vram_solve(const char *text, uint64_t len, const vram_solve_options *o,
                                const vram_allocator *allocator, vram_solution *solution,
                                vram_error *err);

/* >>writer ====================================================================================
   A step as a picture; what a ledger knows as files and text. Events, predicted or observed, are
   gathered in a timeline of as many columns as the caller has memory for; what is written goes to
   the caller's sink, piece by piece.

     uint64_t n = vram_timeline_bytes(512);
     vram_timeline t;
     vram_timeline_init(&t, malloc(n), n, r.before_category_bytes);
     o.event = vram_timeline_add, o.user = &t;
     vram_step(&g, &o, ...);                             r is the report of a step before
     vram_write_svg(&t, &r, list, count, NULL, malloc(vram_svg_bytes(count)),
                    vram_svg_bytes(count), &sink);       list: what vram_step_live gave          */

typedef enum vram_units { VRAM_UNITS_IEC, VRAM_UNITS_SI, VRAM_UNITS_BYTES } vram_units;

/* Bytes for people, three digits ("1.61 GiB", "1.73 GB"; VRAM_UNITS_BYTES: all of them): at most
   cap - 1 bytes and a zero byte go to `to`. Returns the length of the whole text, at most 23. */
VRAM_API uint32_t vram_bytes_text(uint64_t bytes, vram_units units, char *to, uint32_t cap);

/* What is allocated at one moment. */
typedef struct vram_moment {
  uint64_t bytes[VRAM_CATEGORY_COUNT];
  uint64_t total;
  uint64_t event;        /* after so many events; 0: before the first */
  const vram_node *node; /* of that event */
  vram_phase phase;
} vram_moment;

/* A phase as it comes by; with micro-batches forward and backward come more than once. */
typedef struct vram_phase_span {
  vram_phase phase;    /* VRAM_PHASE_COUNT: observed, not predicted */
  uint64_t first;      /* the moment after its first event; 0 for the first phase */
  uint64_t peak_bytes; /* highest within it, its beginning included */
  uint64_t end_bytes;  /* after its last event */
} vram_phase_span;

#define VRAM_TIMELINE_SPANS 32

typedef struct vram_timeline {
  vram_moment *column; /* the highest (the first of equals) of each `width` moments in a row */
  uint32_t ncolumn, cap;
  uint64_t width;
  uint64_t events;
  uint64_t forwards;                         /* how many times the forward pass began */
  vram_moment now, peak;                     /* peak: the first of the highest */
  vram_phase_span span[VRAM_TIMELINE_SPANS]; /* what would be too many is part of one before */
  uint32_t nspan;
} vram_timeline;

/* Memory for a timeline of so many columns. When they are used up, each becomes twice as wide. */
VRAM_API uint64_t vram_timeline_bytes(uint32_t columns);

/* A timeline in the caller's memory, which must outlive it. `before`: bytes by category that are
   there before the first event (vram_report.before_category_bytes); NULL: none.
   VRAM_ERR_MEMORY: no room for one column; then events are not counted. */
VRAM_API vram_result vram_timeline_init(vram_timeline *t, void *mem, uint64_t bytes,
                                        const uint64_t *before);

/* One event more; timeline is a vram_timeline. May be given as vram_step_options.event. What is no
   alloc, free or becomes, and what is about host memory is passed over. A free counts by its own
   bytes and category. */
VRAM_API void vram_timeline_add(void *timeline, const vram_event *e);

/* A timeline of the events that a ledger's trace keeps, of all devices; vram_write_svg draws it
   without a report. VRAM_ERR_MEMORY as vram_timeline_init. */
VRAM_API vram_result vram_timeline_ledger(vram_timeline *t, void *mem, uint64_t bytes,
                                          vram_ledger *l);

/* Takes n bytes; what is not 0 ends the writing. */
typedef struct vram_sink {
  int (*write)(void *user, const char *bytes, size_t n);
  void *user;
} vram_sink;

/* All zero: no title, no budget, MiB. Texts are UTF-8. */
typedef struct vram_svg_options {
  const char *title, *subtitle; /* NULL: none */
  const char *budget_name;      /* of the device, NULL: none */
  uint64_t budget_bytes;
  int has_budget; /* a line at the budget, and whether the step fits */
  vram_units units;
} vram_svg_options;

/* Scratch that vram_write_svg needs for so many tensors. */
VRAM_API uint64_t vram_svg_bytes(uint32_t nlive);

/* Writes a picture: the memory over the step by category (timeline NULL: not), and the live set at
   the peak as areas (live NULL: not). One SVG file in portrait form, without width and height; for
   light and dark surroundings; plain ASCII but for what is not in names and titles. In HTML it may
   stand as it is. With a budget, report tells what the device needs; NULL: the peak must fit.
     VRAM_ERR_MEMORY   scratch is too small; nothing is written
     VRAM_ERR_WRITE    the sink has ended it */
VRAM_API vram_result vram_write_svg(const vram_timeline *timeline, const vram_report *report,
                                    const vram_live *live, uint32_t nlive,
                                    const vram_svg_options *options, void *scratch,
                                    uint64_t scratch_bytes, const vram_sink *sink);

/* ---- what a ledger knows, as files and as text ----
   These need no memory but some KiB of stack. They hold the ledger's lock while they write, so the
   sink must not call the ledger. VRAM_ERR_WRITE: the sink has ended it. */

/* All zero: a pickle; every allocation is a segment of its own. */
typedef struct vram_snapshot_options {
  int json;                     /* 0: pickle, protocol 2 */
  const vram_pool *const *pool; /* whose segments are shown; nobody else may call them meanwhile */
  uint32_t npool;
  uint32_t kinds; /* a bit (1 << vram_event.kind) for each kind that lies in the pools; 0: all that
                     is not `whole` on a device that has a pool here */
} vram_snapshot_options;

/* What torch.cuda.memory._snapshot() gives, for pytorch.org/memory_viz and torch.cuda._memory_viz:
   segments and blocks as they are now and, with vram_ledger_options.trace, the last events. The
   call site of an owner is a frame; the name of a node is one, too. NULL options: all zero. */
VRAM_API vram_result vram_write_snapshot(vram_ledger *l, const vram_snapshot_options *o,
                                         const vram_sink *sink);

/* The events of the trace for ui.perfetto.dev and chrome://tracing: counters of allocated and
   reserved bytes and of the categories, a span for each allocation of `least` bytes and more,
   marks. Without a clock an event takes a microsecond. */
VRAM_API vram_result vram_write_trace(vram_ledger *l, uint64_t least, const vram_sink *sink);

/* The events of the trace as CSV with the columns action, id, size, stream, address, time_us,
   device, category, phase, node, owner, tag: `vram replay` reads it. id: of the allocation, used
   once; -1: memory from before the step. */
VRAM_API vram_result vram_write_csv(vram_ledger *l, const vram_sink *sink);

/* Counters as torch.cuda.memory_summary() prints them; abbreviated: without the two pools. */
VRAM_API vram_result vram_write_summary(const vram_memory_stats *stats, uint32_t device,
                                        int abbreviated, const vram_sink *sink);

/* A mark (vram_ledger_mark, with the caller's list of cap changes) as lines of a log:
     At train.c line 88: step                          total 76.4 MiB (+63.0 MiB), peak 80.1 MiB
     + |      7 *  9.00 MiB |  63.0 MiB | model.c:12 layer weights
   A change beyond the list is counted in a last line. Any of file, function may be NULL. */
VRAM_API vram_result vram_write_log(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, vram_change *list, uint32_t cap,
                                    const vram_sink *sink);

#define VRAM_UNKNOWN UINT64_MAX

/* Another process that uses the device. */
typedef struct vram_process {
  uint64_t pid;
  uint64_t bytes;   /* VRAM_UNKNOWN: the driver does not say */
  const char *name; /* NULL: not known */
} vram_process;

/* A request that failed. All zero but `bytes`: nothing else is known. */
typedef struct vram_oom {
  uint64_t bytes;        /* that the caller asked for */
  uint64_t device_bytes; /* that the device was asked for; 0: the same */
  uint64_t stream;
  uint32_t device, owner;
  const char *call;      /* "cudaMalloc"; NULL: not known */
  const vram_pool *pool; /* that was asked; NULL: none */
  uint64_t limit_bytes;  /* that may be reserved; 0: all */
  /* the device, from the driver; 0 and VRAM_UNKNOWN: not known. has_view 0: none of it */
  int has_view;
  uint64_t total_bytes;
  uint64_t free_bytes;         /* VRAM_UNKNOWN: not known; 0 is 0 */
  uint64_t process_bytes;      /* of this process in all */
  const vram_process *process; /* others */
  uint32_t nprocess;
} vram_oom;

/* Why there was no memory. It begins as PyTorch's message does, and says who asked for how much,
   who holds what, whose memory the rest is, why no free block could be used, and what would help
   here. It cannot fail but by the sink. */
VRAM_API vram_result vram_write_oom(vram_ledger *l, const vram_oom *oom, const vram_sink *sink);

#endif /* VRAM_MACROS_ONLY */
#endif /* VRAM_H_INCLUDED */

#if defined(VRAM_IMPLEMENTATION) && !defined(VRAM_IMPLEMENTATION_INCLUDED)
#define VRAM_IMPLEMENTATION_INCLUDED

/* a function that is seldom called: out of the way of those that are */
#if defined(__GNUC__) || defined(__clang__)
#define VRAM__RARE static __attribute__((noinline, cold))
#define VRAM__PART static inline __attribute__((always_inline)) /* of its few callers */
#else
#define VRAM__RARE static
#define VRAM__PART static inline
#endif

/* What does not run for every node of every step is compiled for a short build: it is most of the
   code and takes little of the time. What runs once, when a graph is built, still more so. */
#if defined(__OPTIMIZE__) && defined(__clang__)
#define VRAM__SELDOM_BEGIN _Pragma("clang optimize off")
#define VRAM__SELDOM_END _Pragma("clang optimize on")
#define VRAM__ONCE_BEGIN VRAM__SELDOM_BEGIN
#define VRAM__ONCE_END VRAM__SELDOM_END
#elif defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__OPTIMIZE_SIZE__)
#define VRAM__SELDOM_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"Og\")")
#define VRAM__SELDOM_END _Pragma("GCC pop_options")
#define VRAM__ONCE_BEGIN _Pragma("GCC push_options") _Pragma("GCC optimize(\"O0\")")
#define VRAM__ONCE_END VRAM__SELDOM_END
#else
#define VRAM__SELDOM_BEGIN
#define VRAM__SELDOM_END
#define VRAM__ONCE_BEGIN
#define VRAM__ONCE_END
#endif

/* >>text (Implementation) ----------------------------------------------------------------------
   Small helpers that replace libc. */

static void vram__zero(void *p, uint64_t n) {
  uint8_t *b = (uint8_t *)p;
  while (n--)
    *b++ = 0;
}

static void vram__copy(void *to, const void *from, uint64_t n) {
  uint8_t *a = (uint8_t *)to;
  const uint8_t *b = (const uint8_t *)from;
  while (n--)
    *a++ = *b++;
}

static int vram__same(const char *a, uint32_t na, const char *z) {
  uint32_t i;
  for (i = 0; i < na; i++)
    if (z[i] == 0 || z[i] != a[i])
      return 0;
  return z[na] == 0;
}

/* Eight bytes in the order of a little-endian machine: one load on those. */
static inline uint64_t vram__eight(const char *p) {
  const uint8_t *b = (const uint8_t *)p;
  return (uint64_t)b[0] | (uint64_t)b[1] << 8 | (uint64_t)b[2] << 16 | (uint64_t)b[3] << 24 |
         (uint64_t)b[4] << 32 | (uint64_t)b[5] << 40 | (uint64_t)b[6] << 48 | (uint64_t)b[7] << 56;
}
#define VRAM__EACH(byte) (UINT64_C(0x0101010101010101) * (byte))
#define VRAM__HIGH VRAM__EACH(0x80)
/* not 0: one of the eight is below n (up to 128), is c */
#define VRAM__BELOW(w, n) (((w)-VRAM__EACH(n)) & ~(w)&VRAM__HIGH)
#define VRAM__HOLDS(w, c) VRAM__BELOW((w) ^ VRAM__EACH(c), 1)
/* high bit of each of eight bytes below 128: it is n or more */
#define VRAM__FROM(w, n) ((w) + VRAM__EACH(128 - (n)))

/* Which of the eight bytes has the lowest bit of a mask: 0 to 7. */
static inline uint32_t vram__lowest(uint64_t mask) {
#if defined(__GNUC__)
  return (uint32_t)__builtin_ctzll(mask) >> 3;
#else
  uint32_t i = 0;
  for (; !(mask & 0x80); mask >>= 8)
    i++;
  return i;
#endif
}

static int vram__holds(const char *s, uint32_t n, char c) {
  for (; n >= 8; s += 8, n -= 8)
    if (VRAM__HOLDS(vram__eight(s), (uint64_t)(uint8_t)c))
      return 1;
  for (; n; n--)
    if (*s++ == c)
      return 1;
  return 0;
}

static int vram__same_n(const char *a, const char *b, uint32_t n) {
  for (; n >= 8; a += 8, b += 8, n -= 8)
    if (vram__eight(a) != vram__eight(b))
      return 0;
  while (n--)
    if (*a++ != *b++)
      return 0;
  return 1;
}

static void vram__put(char *to, uint32_t cap, uint32_t *n, const char *s, uint32_t len) {
  uint32_t i;
  for (i = 0; i < len && *n + 1 < cap; i++)
    to[(*n)++] = s[i];
  to[*n] = 0;
}

static uint32_t vram__len(const char *z) {
  uint32_t n = 0;
  while (z[n])
    n++;
  return n;
}

static void vram__puts(char *to, uint32_t cap, uint32_t *n, const char *z) {
  vram__put(to, cap, n, z, vram__len(z));
}

static void vram__putu(char *to, uint32_t cap, uint32_t *n, uint64_t u) {
  char t[24];
  uint32_t i = sizeof t;
  do
    t[--i] = (char)('0' + (char)(u % 10)), u /= 10;
  while (u);
  vram__put(to, cap, n, t + i, (uint32_t)sizeof t - i);
}

static void vram__puti(char *to, uint32_t cap, uint32_t *n, int64_t v) {
  if (v < 0)
    vram__put(to, cap, n, "-", 1);
  vram__putu(to, cap, n, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* a * b, or VRAM_OVERFLOW. */
static uint64_t vram__mul(uint64_t a, uint64_t b) {
  if (a == VRAM_OVERFLOW || b == VRAM_OVERFLOW || (a && b > (uint64_t)VRAM_MAX_BYTES / a))
    return VRAM_OVERFLOW;
  return a * b;
}

/* a + b, or VRAM_OVERFLOW. */
static uint64_t vram__plus(uint64_t a, uint64_t b) {
  return a > VRAM_OVERFLOW - b ? VRAM_OVERFLOW : a + b;
}

/* An error's text is put together from pieces; the first error of a graph stays. */
static void vram__fail(vram_graph *g, vram_result code, const char *what) {
  uint32_t n = 0;
  if (g->error.code)
    return;
  g->error.code = code;
  vram__puts(g->error.text, sizeof g->error.text, &n, what);
}

static void vram__more(vram_graph *g, const char *z) {
  uint32_t n = vram__len(g->error.text);
  vram__puts(g->error.text, sizeof g->error.text, &n, z);
}

static void vram__more_n(vram_graph *g, const char *z, uint32_t len) {
  uint32_t n = vram__len(g->error.text), i;
  for (i = 0; i < len && i < 64; i++) {
    char c = '?';
    if (z[i] >= 32 && z[i] < 127)
      c = z[i];
    vram__put(g->error.text, sizeof g->error.text, &n, &c, 1);
  }
}

static void vram__no_dim(vram_graph *g, const char *name) {
  uint32_t i;
  vram__fail(g, VRAM_ERR_NAME, "the model has no dim ");
  vram__more(g, name);
  for (i = 0; i < g->ndim; i++) {
    vram__more(g, i ? ", " : " (expected ");
    vram__more_n(g, g->dim[i].name, g->dim[i].len);
  }
  vram__more(g, g->ndim ? ")" : "");
}

static void vram__more_i(vram_graph *g, int64_t v) {
  uint32_t n = vram__len(g->error.text);
  vram__puti(g->error.text, sizeof g->error.text, &n, v);
}

static void vram__more_dims(vram_graph *g, const vram_dims *d) {
  uint32_t i;
  vram__more(g, "[");
  for (i = 0; i < d->ndim; i++) {
    if (i)
      vram__more(g, ",");
    vram__more_i(g, d->v[i]);
  }
  vram__more(g, "]");
}

/* >>dims (Implementation) ----------------------------------------------------------------------
   Sizes and strides. Equal ones are usually the same object, so that comparing pointers answers
   most questions. */

#define VRAM__CONTIG 1u     /* contiguous */
#define VRAM__DENSE 2u      /* non-overlapping and dense, in any order of axes */
#define VRAM__CL_STRIDES 8u /* strides as channels-last has them (c10 is_channels_last_strides) */
#define VRAM__CL 4u         /* 4-D or 5-D, contiguous in channels-last order */
#define VRAM__PLAIN 16u     /* contiguous, and axes of size 1 have the usual strides too */

#define VRAM__SIZE(d) ((d)->v)
#define VRAM__STRIDE(d) ((d)->v + (d)->ndim)

/* Tensor::suggest_memory_format: channels last? */
static int vram__suggests_cl(const vram_dims *d) { return (d->flags & VRAM__CL_STRIDES) != 0; }

static void *vram__bump(uint8_t *mem, uint64_t *used, uint64_t cap, uint64_t n) {
  uint64_t at = (*used + 7) & ~(uint64_t)7;
  if (n > cap || at > cap - n)
    return NULL;
  *used = at + n;
  return mem + at;
}

static uint64_t vram__dims_bytes(uint32_t ndim) {
  return offsetof(vram_dims, v) + 2 * (uint64_t)ndim * sizeof(int64_t);
}

/* c10/core/MemoryFormat.h, is_channels_last_strides_2d and _3d */
static int vram__like_channels_last(uint32_t n, const int64_t *size, const int64_t *stride) {
  static const uint8_t order[2][5] = {{1, 3, 2, 0, 0}, {1, 4, 3, 2, 0}};
  int64_t min = 0;
  uint32_t i;
  if ((n != 4 && n != 5) || stride[1] == 0)
    return 0;
  for (i = 0; i < n; i++) {
    uint32_t a = order[n - 4][i];
    if (size[a] == 0 || stride[a] < min || (a == 0 && min == stride[1]))
      return 0;
    min = stride[a];
    if (size[a] > 1)
      min *= size[a];
  }
  return 1;
}

static uint8_t vram__dims_flags(uint32_t n, const int64_t *size, const int64_t *stride) {
  uint32_t i, j, flags = VRAM__PLAIN;
  int64_t z = 1;
  int ok = 1;
  uint8_t order[VRAM_MAX_AXES];
  for (i = n; i-- > 0;) {
    if (size[i] == 0)
      return VRAM__CONTIG | VRAM__DENSE;
    if (stride[i] != z) {
      flags = 0;
      if (size[i] != 1)
        ok = 0;
    }
    z *= size[i];
  }
  if (ok)
    flags |= VRAM__CONTIG | VRAM__DENSE;
  if (!ok) { /* dense: sorted by stride they are contiguous */
    uint32_t m = 0;
    for (i = 0; i < n; i++) {
      if (size[i] == 1)
        continue;
      for (j = m; j > 0 && stride[order[j - 1]] > stride[i]; j--)
        order[j] = order[j - 1];
      order[j] = (uint8_t)i;
      m++;
    }
    for (z = 1, ok = 1, i = 0; i < m; i++) {
      if (stride[order[i]] != z)
        ok = 0;
      z *= size[order[i]];
    }
    if (ok)
      flags |= VRAM__DENSE;
  }
  if (n == 4 || n == 5) {
    static const uint8_t at[2][5] = {{1, 3, 2, 0, 0}, {1, 4, 3, 2, 0}};
    for (z = 1, ok = 1, i = 0; i < n; i++) {
      j = at[n - 4][i];
      if (size[j] != 1 && stride[j] != z)
        ok = 0;
      z *= size[j];
    }
    if (ok)
      flags |= VRAM__CL;
  }
  if (vram__like_channels_last(n, size, stride))
    flags |= VRAM__CL_STRIDES;
  return (uint8_t)flags;
}

/* 1 if a tensor of these sizes has at most 2^63-1 bytes in every dtype; a size of 0 counts as 1. */
static int vram__dims_fit(uint32_t n, const int64_t *size) {
  uint64_t z = 16;
  uint32_t i;
  for (i = 0; i < n; i++)
    z = vram__mul(z, size[i] > 1 ? (uint64_t)size[i] : 1);
  return z != VRAM_OVERFLOW;
}

/* The dims object of these sizes and strides (NULL: contiguous); NULL: no memory, or too large. */
static const vram_dims *vram__dims_get(uint8_t *mem, uint64_t *used, uint64_t cap,
                                       const vram_dims **cache, uint32_t n, const int64_t *size,
                                       const int64_t *stride) {
  int64_t own[VRAM_MAX_AXES];
  uint64_t h = n, numel = 1;
  uint32_t i;
  const vram_dims *c;
  vram_dims *d;
  if (!stride) {
    uint64_t z = 1;
    for (i = n; i-- > 0;)
      own[i] = (int64_t)z, z *= size[i] > 1 ? (uint64_t)size[i] : 1;
    stride = own;
  }
  for (i = 0; i < n; i++) {
    h = (h ^ (uint64_t)size[i]) * UINT64_C(0x9E3779B97F4A7C15);
    h = (h ^ (uint64_t)stride[i]) * UINT64_C(0xD6E8FEB86659FD93);
    numel *= (uint64_t)size[i];
  }
  h >>= 58;
  c = cache[h];
  if (c && c->ndim == n) {
    for (i = 0; i < n; i++)
      if (c->v[i] != size[i] || c->v[n + i] != stride[i])
        break;
    if (i == n)
      return c;
  }
  if (!vram__dims_fit(n, size))
    return NULL;
  d = (vram_dims *)vram__bump(mem, used, cap, vram__dims_bytes(n));
  if (!d)
    return NULL;
  d->numel = numel;
  d->ndim = (uint8_t)n;
  d->flags = vram__dims_flags(n, size, stride);
  for (i = 0; i < n; i++)
    d->v[i] = size[i], d->v[n + i] = stride[i];
  cache[h] = d;
  return d;
}

/* ============================================================================================
 * >>dtype
 * ============================================================================================ */

static const vram_dtype_info vram__dtype_rows[VRAM_DTYPE_COUNT] = {
    {VRAM_DTYPE_NONE, "none", NULL, NULL, 0, 0, 0, 0, 0, 0, -1, -1, -1},
#define VRAM__X(token, name, kind, torch, safetensors, onnx, tflite, ggml, values)                 \
  {VRAM_##token,                                                                                   \
   name,                                                                                           \
   torch,                                                                                          \
   safetensors,                                                                                    \
   VRAM__AT0(VRAM__DT_##token),                                                                    \
   VRAM__AT1(VRAM__DT_##token),                                                                    \
   VRAM__AT2(VRAM__DT_##token),                                                                    \
   VRAM__AT3(VRAM__DT_##token),                                                                    \
   values,                                                                                         \
   VRAM_KIND_##kind,                                                                               \
   onnx,                                                                                           \
   tflite,                                                                                         \
   ggml},
    VRAM_DTYPES(VRAM__X)
#undef VRAM__X
};

/* bytes of one element; 0: it comes in blocks */
static const uint8_t vram__item_bytes[VRAM_DTYPE_COUNT] = {0,
#define VRAM__X(token, name, kind, torch, safetensors, onnx, tflite, ggml, values)                 \
  (uint8_t)(VRAM__AT0(VRAM__DT_##token) == 1 ? VRAM__AT1(VRAM__DT_##token) : 0),
                                                           VRAM_DTYPES(VRAM__X)
#undef VRAM__X
};

/* c10/core/AllocatorConfig.h: blocks are multiples of 512 bytes; one of more than 1 MiB may hold up
   to 1 MiB more than asked for, because a smaller rest is not split off. */
#define VRAM__SMALL UINT64_C(1048576)
static uint64_t vram__blocks(uint64_t bytes) { return (bytes + 511) & ~(uint64_t)511; }

VRAM__RARE uint64_t vram__packed_bytes(const vram_dims *d, uint8_t dt) {
  const uint64_t row = d->ndim ? (uint64_t)d->v[d->ndim - 1] : 1;
  uint64_t bytes;
  vram_dtype_rows_bytes((vram_dtype)dt, row ? d->numel / row : 0, row, &bytes);
  return bytes;
}

static uint64_t vram__bytes_of(const vram_dims *d, uint8_t dt) {
  return vram__item_bytes[dt] ? d->numel * vram__item_bytes[dt] : vram__packed_bytes(d, dt);
}

/* One more tensor of so many bytes in a list. */
static inline void vram__total_add(vram__total *t, uint64_t bytes) {
  t->bytes += bytes;
  t->blocks += vram__blocks(bytes);
  t->large += bytes > VRAM__SMALL;
  if (bytes)
    t->count++, t->last = bytes;
}

typedef struct vram__dtype_alias {
  const char *name;
  vram_dtype dtype;
} vram__dtype_alias;

static const vram__dtype_alias vram__dtype_aliases[] = {
#define VRAM__X(name, token) {name, VRAM_##token},
    VRAM_DTYPE_ALIASES(VRAM__X)
#undef VRAM__X
};

VRAM_API const vram_dtype_info *vram_dtype_get_info(vram_dtype dtype) {
  if (dtype <= VRAM_DTYPE_NONE || dtype >= VRAM_DTYPE_COUNT)
    return NULL;
  return &vram__dtype_rows[dtype];
}

VRAM_API const char *vram_dtype_name(vram_dtype dtype) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  if (info)
    return info->name;
  return dtype == VRAM_DTYPE_NONE ? "none" : "?";
}

/* ASCII only: no locale */
static char vram__dtype_lower(char c) {
  static const char upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  static const char lower[] = "abcdefghijklmnopqrstuvwxyz";
  unsigned i;
  for (i = 0; i < 26; i++)
    if (upper[i] == c)
      return lower[i];
  return c;
}

/* length of name if text (of length bytes) begins with it, else 0 */
static size_t vram__dtype_prefix(const char *text, size_t length, const char *name) {
  size_t i;
  for (i = 0; name[i]; i++)
    if (i == length || vram__dtype_lower(text[i]) != vram__dtype_lower(name[i]))
      return 0;
  return i;
}

static int vram__dtype_equal(const char *text, size_t length, const char *name) {
  return name && length && vram__dtype_prefix(text, length, name) == length;
}

/* by full name: rows first, then aliases */
static vram_dtype vram__dtype_find(const char *text, size_t length) {
  size_t i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++) {
    const vram_dtype_info *row = &vram__dtype_rows[i];
    if (vram__dtype_equal(text, length, row->name) ||
        vram__dtype_equal(text, length, row->torch_name) ||
        vram__dtype_equal(text, length, row->safetensors_name))
      return row->dtype;
  }
  for (i = 0; i < sizeof vram__dtype_aliases / sizeof vram__dtype_aliases[0]; i++)
    if (vram__dtype_equal(text, length, vram__dtype_aliases[i].name))
      return vram__dtype_aliases[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_name_n(const char *text, size_t length) {
  static const char *const prefixes[] = {"torch.", "tensorproto.", "tensortype.", "ggml_type_"};
  size_t i;
  vram_dtype dtype;
  if (!text)
    return VRAM_DTYPE_NONE;
  dtype = vram__dtype_find(text, length);
  for (i = 0; dtype == VRAM_DTYPE_NONE && i < sizeof prefixes / sizeof prefixes[0]; i++) {
    size_t skip = vram__dtype_prefix(text, length, prefixes[i]);
    if (skip)
      dtype = vram__dtype_find(text + skip, length - skip);
  }
  return dtype;
}

VRAM_API vram_dtype vram_dtype_from_name(const char *name) {
  size_t length = 0;
  if (!name)
    return VRAM_DTYPE_NONE;
  while (name[length])
    length++;
  return vram_dtype_from_name_n(name, length);
}

VRAM_API vram_dtype vram_dtype_from_onnx_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].onnx_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_tflite_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].tflite_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_dtype vram_dtype_from_ggml_id(int64_t id) {
  unsigned i;
  for (i = 1; i < VRAM_DTYPE_COUNT; i++)
    if (id >= 0 && vram__dtype_rows[i].ggml_id == id)
      return vram__dtype_rows[i].dtype;
  return VRAM_DTYPE_NONE;
}

VRAM_API vram_result vram_dtype_bytes(vram_dtype dtype, uint64_t elements, uint64_t *bytes) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  uint64_t blocks, tail;
  *bytes = VRAM_OVERFLOW;
  if (!info)
    return VRAM_ERR_DTYPE;
  if (elements % info->row_multiple)
    return VRAM_ERR_BLOCK;
  blocks = elements / info->block_elements;
  tail = elements % info->block_elements * info->block_bytes;
  tail = tail / info->block_elements + (tail % info->block_elements != 0);
  if (blocks > (VRAM_OVERFLOW - 1 - tail) / info->block_bytes)
    return VRAM_ERR_OVERFLOW;
  *bytes = blocks * info->block_bytes + tail;
  return VRAM_OK;
}

VRAM_API vram_result vram_dtype_rows_bytes(vram_dtype dtype, uint64_t rows, uint64_t columns,
                                           uint64_t *bytes) {
  const vram_dtype_info *info = vram_dtype_get_info(dtype);
  uint64_t row;
  vram_result result;
  *bytes = VRAM_OVERFLOW;
  if (!info)
    return VRAM_ERR_DTYPE;
  if (columns % info->row_multiple)
    return VRAM_ERR_BLOCK;
  if (rows == 0 || columns == 0) {
    *bytes = 0;
    return VRAM_OK;
  }
  if (!info->row_padded) {
    if (columns > UINT64_MAX / rows)
      return VRAM_ERR_OVERFLOW;
    return vram_dtype_bytes(dtype, rows * columns, bytes);
  }
  result = vram_dtype_bytes(dtype, columns, &row);
  if (result != VRAM_OK)
    return result;
  if (row > (VRAM_OVERFLOW - 1) / rows)
    return VRAM_ERR_OVERFLOW;
  *bytes = row * rows;
  return VRAM_OK;
}

/* >>graph (Implementation) --------------------------------------------------------------------- */

#define VRAM__INPLACE 1u /* node: the output is the first input's storage */
#define VRAM__LOSS 4u    /* node: a loss */
#define VRAM__USUAL 8u   /* node: no key asks for one of the op's rare ways */
#define VRAM__GRAD 1u    /* value: an input that wants a gradient */
#define VRAM__OUTPUT 2u  /* value: named by `output` */
#define VRAM__ISPARAM 4u /* value: a parameter or buffer itself */

enum { VRAM__PARAM, VRAM__FROZEN, VRAM__BUFFER };
enum { VRAM__AC_none, VRAM__AC_low, VRAM__AC_fp32, VRAM__AC_opt32, VRAM__AC_widest };

typedef struct vram__round { /* one round of a loop */
  const struct vram__round *up;
  uint32_t round;
} vram__round;

static const struct {
  const char *name;
  char kind;
} vram__key_table[VRAM__KEY_COUNT] = {{"", 0},
#define VRAM__X(name, kind) {#name, #kind[0]},
                                      VRAM_KEYS(VRAM__X)
#undef VRAM__X
};

static void *vram__take(vram_graph *g, uint64_t n) {
  void *p = vram__bump(g->mem, &g->used, g->cap, n);
  if (!p)
    vram__fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return p;
}

/* The values of a node's key; NULL: it has none. */
static const int64_t *vram__list(const vram_node *n, uint32_t key, uint32_t *count) {
  const int64_t *a = n->attr;
  while (a && *a) {
    uint32_t c = (uint32_t)(*a >> 8) & 0xffffu;
    if ((uint32_t)(*a & 0xff) == key) {
      if (count)
        *count = c;
      return a + 1;
    }
    a += 1 + c;
  }
  if (count)
    *count = 0;
  return NULL;
}

static int64_t vram__int(const vram_node *n, uint32_t key, int64_t def) {
  const int64_t *v = vram__list(n, key, NULL);
  return v ? *v : def;
}

#define VRAM__INT(n, key, def) vram__int(n, VRAM__KEY_##key, def)

/* Decimal numbers are kept in units of 10^-9. */
#define VRAM__ONE INT64_C(1000000000)

/* Words are kept as up to eight letters of a number (the values of `mode=`, `reduction=`, ...). */
static int64_t vram__word(const char *s, uint32_t n) {
  uint64_t w = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    w = w * 131 + (uint8_t)s[i];
  return (int64_t)(w >> 1);
}
#define VRAM__WORD(z) vram__word(z, (uint32_t)sizeof(z) - 1)
#define VRAM__SAME INT64_MIN /* padding=same; no number of a text is that */

static const vram_dims *vram__dims_of(vram_graph *g, uint32_t n, const int64_t *size) {
  uint64_t z = 16; /* bytes of the widest element */
  uint32_t i;
  const vram_dims *d;
  for (i = 0; i < n; i++) {
    if (size[i] < 0) {
      vram__fail(g, VRAM_ERR_SHAPE, "a size is negative");
      return NULL;
    }
    z = vram__mul(z, (uint64_t)(size[i] ? size[i] : 1));
  }
  if (z == VRAM_OVERFLOW) {
    vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
    return NULL;
  }
  d = vram__dims_get(g->mem, &g->used, g->cap, g->cache, n, size, NULL);
  if (!d)
    vram__fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
  return d;
}

static int vram__out_d(vram_node *n, uint32_t i, const vram_dims *d, uint8_t dtype) {
  if (!d)
    return 0;
  if (i < n->nout)
    n->out[i].d = d, n->out[i].dtype = dtype;
  return 1;
}

static int vram__out(vram_graph *g, vram_node *n, uint32_t i, uint32_t ndim, const int64_t *size,
                     uint8_t dtype) {
  return vram__out_d(n, i, vram__dims_of(g, ndim, size), dtype);
}

static int vram__bad(vram_graph *g, const vram_node *n, const char *what) {
  uint32_t i;
  vram__fail(g, VRAM_ERR_SHAPE, what);
  for (i = 0; i < n->nin && i < 4; i++) {
    vram__more(g, i ? ", " : " (found ");
    vram__more_dims(g, n->in[i]->d);
  }
  if (n->nin)
    vram__more(g, ")");
  return 0;
}

/* The recurrent node whose weights came last is complete. */
static void vram__owned_flat(vram__owned *o) {
  if (o->flat)
    vram__total_add(&o->all[0], o->flat);
  o->flat = 0;
}

/* p takes so many bytes. */
static void vram__owned_add(vram__owned *o, const vram_param *p, uint64_t bytes) {
  const int buffer = p->kind == VRAM__BUFFER;
  uint64_t *sum = buffer ? &o->buffers_bytes : &o->params_bytes;
  const uint32_t op = p->node->op;
  if (*sum > (uint64_t)VRAM_MAX_BYTES)
    return;
  *sum += bytes;
  if (o->flat_node != p->node)
    vram__owned_flat(o);
  if (op >= VRAM_OP_lstm && op <= VRAM_OP_rnn)
    o->flat += bytes, o->flat_node = p->node;
  else if (op != VRAM_OP_parameter && op != VRAM_OP_buffer)
    vram__total_add(&o->all[buffer], bytes);
  if (p->kind == VRAM__PARAM)
    vram__total_add(&o->trainable, bytes);
}

static uint32_t vram__kind_rank(uint8_t dt);

/* 1: a row of such a tensor ends where a block of its dtype ends. */
static int vram__whole_blocks(vram_graph *g, const vram_dims *d, uint8_t dtype) {
  const int64_t row = d->ndim ? d->v[d->ndim - 1] : 1, each = vram__dtype_rows[dtype].row_multiple;
  if (row % each == 0)
    return 1;
  vram__fail(g, VRAM_ERR_BLOCK, "a row that does not divide into blocks of ");
  vram__more(g, vram__dtype_rows[dtype].name);
  vram__more(g, " (found ");
  vram__more_i(g, row);
  vram__more(g, ", expected a multiple of ");
  vram__more_i(g, each);
  vram__more(g, ")");
  return 0;
}

/* A parameter of its own for slot i of the node, or the one that `weights=` lends. */
static int vram__own(vram_graph *g, vram_node *n, uint32_t i, const char *role, uint32_t ndim,
                     const int64_t *size, uint8_t dtype, uint8_t kind) {
  vram_param *p;
  const int64_t *w = vram__list(n, VRAM__KEY_weights, NULL);
  const vram_dims *d = vram__dims_of(g, ndim, size);
  if (!d)
    return 0;
  if (w && kind != VRAM__BUFFER) {
    const vram_node *o = (const vram_node *)(uintptr_t)*w;
    uint32_t k;
    for (k = 0; k < o->nparam; k++)
      if (o->param[k] && o->param[k]->kind != VRAM__BUFFER &&
          vram__same(role, vram__len(role), o->param[k]->role)) {
        if (o->param[k]->d != d) {
          uint32_t a;
          int same = o->param[k]->d->ndim == d->ndim;
          for (a = 0; same && a < d->ndim; a++)
            same = o->param[k]->d->v[a] == d->v[a];
          if (!same) {
            vram__fail(g, VRAM_ERR_SHAPE, "weights= names a node whose ");
            vram__more(g, role);
            vram__more(g, " has another shape (found ");
            vram__more_dims(g, o->param[k]->d);
            vram__more(g, ", expected ");
            vram__more_dims(g, d);
            vram__more(g, ")");
            return 0;
          }
        }
        n->param[i] = o->param[k];
        return 1;
      }
    if (!i) {
      vram__fail(g, VRAM_ERR_NAME, "weights= names a node without a weight");
      return 0;
    }
  }
  p = (vram_param *)vram__take(g, sizeof *p);
  if (!p)
    return 0;
  vram__zero(p, sizeof *p);
  p->d = d;
  p->node = n;
  p->role = role;
  p->index = g->nparam++;
  p->dtype = dtype;
  p->kind = kind;
  /* block dtypes are for matrices: as in GGUF, a bias or a norm keeps its own */
  if (kind != VRAM__BUFFER && vram__list(n, VRAM__KEY_dtype, NULL)) {
    uint8_t other = (uint8_t)VRAM__INT(n, dtype, dtype);
    /* of a custom op it is the output's: numbers that are not floating point are no weights */
    if (n->op == VRAM_OP_custom ? vram__kind_rank(other) == 2
                                : ndim > 1 || vram__dtype_rows[other].row_multiple == 1)
      p->dtype = other;
  }
  /* only floating point and complex tensors can want a gradient */
  if (kind == VRAM__PARAM && (VRAM__INT(n, frozen, 0) || vram__kind_rank(p->dtype) < 2))
    p->kind = VRAM__FROZEN;
  if (!vram__whole_blocks(g, d, p->dtype))
    return 0;
  if (g->param_last)
    g->param_last->next = p;
  else
    g->param_first = p;
  g->param_last = p;
  vram__owned_add(&g->owned, p, vram__bytes_of(p->d, p->dtype));
  n->param[i] = p;
  return 1;
}

/* An axis key: the value for each of n axes; one value stands for all. */
static int vram__axes(vram_graph *g, const vram_node *n, uint32_t key, uint32_t naxes, int64_t def,
                      int64_t least, int64_t *to) {
  uint32_t c = 0, i;
  const int64_t *v = vram__list(n, key, &c);
  for (i = 0; i < naxes; i++)
    to[i] = v ? (c == 1 ? v[0] : i < c ? v[i] : def) : def;
  if (v && c != 1 && c != naxes) {
    vram__fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
    vram__more(g, " has ");
    vram__more_i(g, c);
    vram__more(g, " values (expected 1 or ");
    vram__more_i(g, naxes);
    vram__more(g, ")");
    return 0;
  }
  for (i = 0; i < naxes; i++)
    if (to[i] < least || to[i] > INT64_C(0x7fffffffffff)) {
      vram__fail(g, VRAM_ERR_VALUE, vram__key_table[key].name);
      vram__more(g, " is out of range (found ");
      vram__more_i(g, to[i]);
      vram__more(g, ", expected at least ");
      vram__more_i(g, least);
      vram__more(g, ")");
      return 0;
    }
  return 1;
}

/* An axis number, negative ones counted from the end; -1 and an error if there is none. */
static int vram__axis(vram_graph *g, int64_t a, uint32_t ndim, uint32_t *to) {
  int64_t n = ndim ? ndim : 1;
  if (a < -n || a >= n) {
    vram__fail(g, VRAM_ERR_VALUE, "axis out of range (found ");
    vram__more_i(g, a);
    vram__more(g, ", expected ");
    vram__more_i(g, -n);
    vram__more(g, " to ");
    vram__more_i(g, n - 1);
    vram__more(g, ")");
    return 0;
  }
  *to = (uint32_t)(a < 0 ? a + n : a);
  return 1;
}

/* ---- shape rules: one function each, named in the op table ---- */

/* at::result_type: a tensor without axes counts only where its kind is the higher one. */
typedef struct vram__promote {
  uint8_t dim, zero;
  uint8_t has_dim, has_zero;
} vram__promote;

static void vram__promote_add(vram__promote *p, uint8_t dt, uint32_t ndim);
static uint8_t vram__result_dtype(uint32_t op, uint32_t nin, const vram__promote *p);

static int vram__shape_same(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t dt = n->in[0]->dtype;
  uint32_t i, c = 0, a;
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; v && i < c; i++)
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
  if (n->op == VRAM_OP_type_as)
    dt = n->in[1]->dtype;
  else if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  if (vram__kind_rank(dt) < 2 && !(n->flags & VRAM__INPLACE)) {
    vram__promote p;
    vram__zero(&p, sizeof p);
    vram__promote_add(&p, dt, n->in[0]->d->ndim);
    dt = vram__result_dtype(n->op, 1, &p);
  }
  vram__out_d(n, 0, x, dt);
  return 1;
}

/* Broadcasts b onto the shape of n axes in size; 0: does not fit. */
static int vram__bcast(uint32_t *ndim, int64_t *size, const vram_dims *b) {
  uint32_t n = *ndim, i;
  if (b->ndim > n) {
    uint32_t k = b->ndim - n;
    for (i = n; i-- > 0;)
      size[i + k] = size[i];
    for (i = 0; i < k; i++)
      size[i] = 1;
    *ndim = n = b->ndim;
  }
  for (i = 0; i < b->ndim; i++) {
    int64_t *s = size + (n - b->ndim + i), t = b->v[i];
    if (t == 1 || *s == t)
      continue;
    if (*s != 1)
      return 0;
    *s = t;
  }
  return 1;
}

/* The same for n sizes. */
static int vram__bcast_lead(uint32_t *ndim, int64_t *size, uint32_t n, const int64_t *from) {
  vram_dims d;
  uint32_t i;
  vram__zero(&d, sizeof d);
  d.ndim = (uint8_t)n;
  for (i = 0; i < n; i++)
    d.v[i] = from[i];
  return vram__bcast(ndim, size, &d);
}

static int vram__bcast_all(vram_graph *g, vram_node *n, uint32_t first, uint32_t *ndim,
                           int64_t *size) {
  uint32_t i;
  *ndim = 0;
  for (i = first; i < n->nin; i++)
    if (!vram__bcast(ndim, size, n->in[i]->d))
      return vram__bad(g, n, "shapes do not broadcast");
  return 1;
}

static int vram__is_float(uint8_t dt) { return vram__dtype_rows[dt].kind == VRAM_KIND_FLOAT; }

static int vram__is_complex(uint8_t dt) { return vram__dtype_rows[dt].kind == VRAM_KIND_COMPLEX; }

/* The dtype of a complex number's parts, and back. */
static uint8_t vram__real_of(uint8_t dt) {
  return dt == VRAM_C128   ? (uint8_t)VRAM_F64
         : dt == VRAM_C64  ? (uint8_t)VRAM_F32
         : dt == VRAM_C32  ? (uint8_t)VRAM_F16
         : dt == VRAM_CB32 ? (uint8_t)VRAM_BF16
                           : dt;
}

static uint8_t vram__complex_of(uint8_t dt) {
  return (uint8_t)(dt == VRAM_F64    ? VRAM_C128
                   : dt == VRAM_F16  ? VRAM_C32
                   : dt == VRAM_BF16 ? VRAM_CB32
                                     : VRAM_C64);
}

static uint32_t vram__kind_rank(uint8_t dt) {
  return dt == VRAM_BOOL ? 0 : vram__is_complex(dt) ? 3 : vram__is_float(dt) ? 2 : 1;
}

/* c10/core/ScalarType.cpp, promoteTypes: bool < integers < floats < complex. */
static uint8_t vram__promote2(uint8_t a, uint8_t b) {
  const uint8_t ra = vram__real_of(a), rb = vram__real_of(b);
  const uint32_t ka = vram__kind_rank(ra), kb = vram__kind_rank(rb);
  const uint32_t za = vram__dtype_rows[ra].block_bytes, zb = vram__dtype_rows[rb].block_bytes;
  uint8_t dt = za >= zb ? ra : rb;
  if (a == b)
    return a;
  if (ka != kb)
    return ka > kb ? a : b;
  if (za == zb && ra != rb) /* f16 with bf16 gives f32, u8 with i8 i16 */
    dt = (uint8_t)(ka == 2 ? VRAM_F32 : VRAM_I16);
  return vram__is_complex(a) || vram__is_complex(b) ? vram__complex_of(dt) : dt;
}

static void vram__promote_add(vram__promote *p, uint8_t dt, uint32_t ndim) {
  if (ndim) {
    p->dim = p->has_dim ? vram__promote2(p->dim, dt) : dt;
    p->has_dim = 1;
  } else {
    p->zero = p->has_zero ? vram__promote2(p->zero, dt) : dt;
    p->has_zero = 1;
  }
}

static uint8_t vram__promote_get(const vram__promote *p) {
  if (!p->has_dim)
    return p->zero;
  if (!p->has_zero || vram__kind_rank(p->zero) <= vram__kind_rank(p->dim))
    return p->dim;
  if (vram__kind_rank(p->dim) == 2) /* complex now, as wide as it was */
    return vram__complex_of(p->dim);
  return p->zero;
}

/* The dtype of a pointwise op's result; nin 1: with a number, an integer where the tensor is. */
static uint8_t vram__result_dtype(uint32_t op, uint32_t nin, const vram__promote *p) {
  uint8_t dt = vram__promote_get(p);
  switch (op) {
  case VRAM_OP_eq:
  case VRAM_OP_ne:
  case VRAM_OP_lt:
  case VRAM_OP_le:
  case VRAM_OP_gt:
  case VRAM_OP_ge:
  case VRAM_OP_logical_and:
  case VRAM_OP_logical_or:
  case VRAM_OP_logical_not:
    return VRAM_BOOL;
  case VRAM_OP_div:
  case VRAM_OP_exp:
  case VRAM_OP_log:
  case VRAM_OP_sqrt:
  case VRAM_OP_rsqrt:
  case VRAM_OP_sin:
  case VRAM_OP_cos:
  case VRAM_OP_erf:
  case VRAM_OP_sigmoid:
  case VRAM_OP_tanh:
    return vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
  case VRAM_OP_pow:
    return nin == 1 && vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_floor_divide:
  case VRAM_OP_square:
    return nin == 1 && dt == VRAM_BOOL ? (uint8_t)VRAM_I64 : dt;
  default:
    return dt;
  }
}

/* Inputs of an op that promotes: all, but for a condition or mask. */
static uint8_t vram__promote_all(const vram_node *n, uint32_t first, uint32_t count) {
  vram__promote p;
  uint32_t i;
  vram__zero(&p, sizeof p);
  for (i = first; i < first + count; i++)
    vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
  return vram__result_dtype(n->op, n->nin, &p);
}

static int vram__shape_bcast(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t ndim, i, first = 0, count = n->nin;
  const vram_dims *x = n->in[0]->d;
  int number = VRAM__INT(n, scalar, 0) != 0,
      rounded = vram__list(n, VRAM__KEY_rounding_mode, NULL) != NULL;
  uint8_t dt = n->in[0]->dtype;
  switch (n->op) {
  case VRAM_OP_where:
    if (dt != VRAM_BOOL && dt != VRAM_U8)
      return vram__bad(g, n, "the condition is not bool");
    first = 1, count--;
    break;
  case VRAM_OP_masked_fill:
    if (n->in[1]->dtype != VRAM_BOOL)
      return vram__bad(g, n, "the mask is not bool");
    if (n->nin > 2 && n->in[2]->d->ndim)
      return vram__bad(g, n, "the value is not a number");
    count = 1;
    break;
  case VRAM_OP_lerp:
    for (i = 1; i < n->nin; i++)
      if (n->in[i]->dtype != dt)
        return vram__bad(g, n, "lerp of different dtypes");
    break;
  case VRAM_OP_logical_not:
    break;
  case VRAM_OP_sub:
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->dtype == VRAM_BOOL)
        return vram__bad(g, n, "sub of a bool tensor");
    /* fall through */
  default:
    if (n->nin == 1 && !number)
      return vram__bad(g, n, "one tensor where two are needed (the other one a number: scalar=1)");
  }
  dt = vram__promote_all(n, first, count);
  if (rounded && n->op == VRAM_OP_div) {
    vram__promote p;
    vram__zero(&p, sizeof p);
    for (i = 0; i < n->nin; i++)
      vram__promote_add(&p, n->in[i]->dtype, n->in[i]->d->ndim);
    dt = vram__promote_get(&p);
  }
  if ((n->flags & VRAM__INPLACE) && vram__kind_rank(dt) > vram__kind_rank(n->in[0]->dtype))
    return vram__bad(g, n, "in place, but the result has a higher dtype");
  if (n->nin == 1 || (n->nin == 2 && x == n->in[1]->d))
    return vram__out_d(n, 0, x, n->flags & VRAM__INPLACE ? n->in[0]->dtype : dt);
  if (!vram__bcast_all(g, n, 0, &ndim, size))
    return 0;
  if (n->flags & VRAM__INPLACE) {
    if (ndim != x->ndim)
      return vram__bad(g, n, "in place, but the result has another shape");
    for (i = 0; i < ndim; i++)
      if (size[i] != x->v[i])
        return vram__bad(g, n, "in place, but the result has another shape");
    dt = n->in[0]->dtype;
  }
  return vram__out(g, n, 0, ndim, size, dt);
}

VRAM__ONCE_BEGIN

static const char *vram__op_name(uint32_t op);

/* The axes that an op is named after: 1 for conv1d, 3 for max_pool3d. */
static uint32_t vram__spatial(uint32_t op) {
  const char *z = vram__op_name(op);
  return (uint32_t)(z[vram__len(z) - 2] - '0');
}

static int vram__is_transposed(uint32_t op) {
  return op >= VRAM_OP_conv_transpose1d; /* of a convolution: they come last */
}

/* A key with a value for each of k axes, small enough that sizes made of it cannot overflow. */
static int vram__window(vram_graph *g, const vram_node *n, uint32_t key, uint32_t k, int64_t def,
                        int64_t least, int64_t *to) {
  uint32_t i;
  if (!vram__axes(g, n, key, k, def, least, to))
    return 0;
  for (i = 0; i < k; i++)
    if (to[i] > INT32_MAX)
      return vram__bad(g, n, "a window beyond 31 bits");
  return 1;
}

static int vram__shape_conv(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, same = 0, lead;
  int transposed = vram__is_transposed(n->op);
  int64_t c = VRAM__INT(n, out_channels, 0), groups = VRAM__INT(n, groups, 1), in;
  int64_t size[VRAM_MAX_AXES], w[5], kernel[3], stride[3], pad[3] = {0, 0, 0}, dil[3],
                                                           opad[3] = {0, 0, 0};
  int64_t word = VRAM__INT(n, padding_mode, VRAM__WORD("zeros"));
  if (x->ndim != k + 2 && x->ndim != k + 1)
    return vram__bad(g, n, "a convolution of another number of axes");
  lead = x->ndim - k; /* 1: no batch axis */
  in = x->v[lead - 1];
  if (groups < 1 || c < 1 || c % groups || in % groups)
    return vram__bad(g, n, "channels that groups does not divide");
  if (word != VRAM__WORD("zeros") && word != VRAM__WORD("reflect") &&
      word != VRAM__WORD("replicate") && word != VRAM__WORD("circular"))
    return vram__bad(g, n, "padding_mode must be zeros, reflect, replicate or circular");
  if (!vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel) ||
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride) ||
      !vram__window(g, n, VRAM__KEY_dilation, k, 1, 1, dil))
    return 0;
  if (VRAM__INT(n, padding, 0) == VRAM__SAME)
    same = 1;
  else if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad))
    return 0;
  if (transposed && !vram__window(g, n, VRAM__KEY_output_padding, k, 0, 0, opad))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  size[lead - 1] = c;
  for (i = 0; i < k; i++) {
    int64_t reach = dil[i] * (kernel[i] - 1), z = x->v[lead + i], p = same ? reach : 2 * pad[i];
    if (!z && in && (lead == 1 || x->v[0])) /* Convolution.cpp, _select_conv_backend */
      return vram__bad(g, n, "an empty input may only lack samples or channels");
    if (same && stride[i] != 1)
      return vram__bad(g, n, "padding=same needs stride=1");
    if (word == VRAM__WORD("reflect") && (same ? reach - reach / 2 : pad[i]) >= z)
      return vram__bad(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD("circular") && (same ? reach - reach / 2 : pad[i]) > z)
      return vram__bad(g, n, "circular padding larger than the input");
    if (transposed) {
      uint64_t most = vram__mul((uint64_t)(z ? z - 1 : 0), (uint64_t)stride[i]);
      if (opad[i] >= stride[i] && opad[i] >= dil[i])
        return vram__bad(g, n, "output_padding must be smaller than stride or dilation");
      if (most > (uint64_t)INT64_MAX / 4)
        return vram__bad(g, n, "a result beyond 63 bits");
      z = (int64_t)most - p + reach + opad[i] + 1;
    } else
      z = z + p - reach < 1 ? 0 : (z + p - reach - 1) / stride[i] + 1;
    if (z < 1)
      return vram__bad(g, n, "a kernel larger than its padded input");
    size[lead + i] = z;
  }
  if (!transposed && !same && groups == 1 && word == VRAM__WORD("zeros") && n->nin == 1 && k > 1)
    n->flags |= VRAM__USUAL;
  w[0] = transposed ? in : c;
  w[1] = (transposed ? c : in) / groups;
  for (i = 0; i < k; i++)
    w[2 + i] = kernel[i];
  if (n->nin == 1) {
    if (!vram__own(g, n, 0, "weight", k + 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
    if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, &c, VRAM_F32, VRAM__PARAM))
      return 0;
  } else {
    for (i = 0; i < k + 2; i++)
      if (n->in[1]->d->ndim != k + 2 || n->in[1]->d->v[i] != w[i])
        return vram__bad(g, n, "a weight of another shape");
    if (n->nin > 2 && (n->in[2]->d->ndim != 1 || n->in[2]->d->v[0] != c))
      return vram__bad(g, n, "a bias of another shape");
  }
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_linear(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (!x->ndim)
    return vram__bad(g, n, "linear of a tensor without axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  w[1] = x->v[x->ndim - 1];
  w[0] = VRAM__INT(n, out_features, 0);
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (d->ndim != 2 || d->v[1] != w[1])
      return vram__bad(g, n, "a weight of another shape");
    if (vram__list(n, VRAM__KEY_out_features, NULL) && d->v[0] != w[0])
      return vram__bad(g, n, "a weight of other out_features");
    w[0] = d->v[0];
  } else {
    if (w[0] < 1)
      return vram__bad(g, n, "out_features must be at least 1");
    if (!vram__own(g, n, 0, "weight", 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
    if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, w, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  size[x->ndim - 1] = w[0];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* Room for so many parameters and buffers of the node, for ops whose number of them varies. */
static int vram__params(vram_graph *g, vram_node *n, uint32_t count) {
  n->param = (vram_param **)vram__take(g, count * sizeof *n->param);
  if (!n->param)
    return 0;
  vram__zero(n->param, count * sizeof *n->param);
  n->nparam = count;
  return 1;
}

static int vram__shape_bilinear(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES], w[3];
  uint32_t i, r = a->ndim;
  if (!r || b->ndim != r)
    return vram__bad(g, n, "inputs of different numbers of axes");
  for (i = 0; i + 1 < r; i++)
    if ((size[i] = a->v[i]) != b->v[i])
      return vram__bad(g, n, "inputs that differ before their last axis");
  w[0] = VRAM__INT(n, out_features, 0), w[1] = a->v[r - 1], w[2] = b->v[r - 1];
  if (w[0] < 1)
    return vram__bad(g, n, "out_features must be at least 1");
  if (!vram__params(g, n, 2) || !vram__own(g, n, 0, "weight", 3, w, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) && !vram__own(g, n, 1, "bias", 1, w, VRAM_F32, VRAM__PARAM))
    return 0;
  size[r - 1] = w[0];
  return vram__out(g, n, 0, r, size, n->in[0]->dtype);
}

static int vram__shape_embedding(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], w[2];
  uint32_t i;
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  w[0] = VRAM__INT(n, num_embeddings, 0), w[1] = VRAM__INT(n, embedding_dim, 0);
  if (n->nin > 1) {
    if (n->in[1]->d->ndim != 2)
      return vram__bad(g, n, "an embedding table without two axes");
    w[0] = n->in[1]->d->v[0], w[1] = n->in[1]->d->v[1];
  } else {
    if (w[0] < 1 || w[1] < 1)
      return vram__bad(g, n, "num_embeddings and embedding_dim must be at least 1");
    if (!vram__own(g, n, 0, "weight", 2, w, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[x->ndim] = w[1];
  return vram__out(g, n, 0, x->ndim + 1u, size, n->nin > 1 ? n->in[1]->dtype : n->param[0]->dtype);
}

static int vram__shape_matmul(vram_graph *g, vram_node *n) {
  uint32_t first = n->nin - 2, ndim = 0, i;
  const vram_dims *a = n->in[first]->d, *b = n->in[first + 1]->d;
  int64_t size[VRAM_MAX_AXES + 2], ka, kb, dims[VRAM_MAX_AXES];
  static const struct {
    uint16_t op;
    uint8_t ndim;
  } fixed[] = {{VRAM_OP_mm, 2}, {VRAM_OP_addmm, 2}, {VRAM_OP_bmm, 3}, {VRAM_OP_baddbmm, 3}};
  for (i = 0; i < 4; i++)
    if (n->op == fixed[i].op && (a->ndim != fixed[i].ndim || b->ndim != fixed[i].ndim ||
                                 (a->ndim == 3 && a->v[0] != b->v[0])))
      return vram__bad(g, n, "matrices of another number of axes");
  if (!a->ndim || !b->ndim)
    return vram__bad(g, n, "a product of a tensor without axes");
  ka = a->v[a->ndim - 1];
  kb = b->v[b->ndim > 1 ? b->ndim - 2 : 0];
  if (ka != kb)
    return vram__bad(g, n, "inner sizes differ");
  for (i = 0; i + 2 < a->ndim; i++)
    size[ndim++] = a->v[i];
  if (b->ndim > 2) {
    vram_dims t = *b;
    t.ndim = (uint8_t)(b->ndim - 2);
    if (!vram__bcast(&ndim, size, &t))
      return vram__bad(g, n, "batches do not broadcast");
  }
  if (a->ndim > 1)
    size[ndim++] = a->v[a->ndim - 2];
  if (b->ndim > 1)
    size[ndim++] = b->v[b->ndim - 1];
  if (n->nin == 3) {
    for (i = 0; i < ndim; i++)
      dims[i] = size[i];
    i = ndim;
    if (!vram__bcast(&i, dims, n->in[0]->d) || i != ndim)
      return vram__bad(g, n, "the added tensor does not broadcast");
  }
  if (ndim > 2)
    g->extra += 2048;
  return vram__out(g, n, 0, ndim, size, n->in[first]->dtype);
}

static int vram__shape_norm(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t c, size[VRAM_MAX_AXES];
  uint32_t i, k = 1, own = 1, bias = 1;
  int64_t zero = 0;
  if (vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "a norm of a tensor that is not floating point");
  if (n->op == VRAM_OP_layer_norm || n->op == VRAM_OP_rms_norm) {
    const int64_t *v = vram__list(n, VRAM__KEY_normalized_shape, &k);
    if (k > x->ndim)
      return vram__bad(g, n, "normalized_shape has more axes than the input");
    for (i = 0; i < k; i++)
      if ((size[i] = v[i]) != x->v[x->ndim - k + i])
        return vram__bad(g, n, "normalized_shape is not the end of the input's shape");
    own = (uint32_t)VRAM__INT(n, elementwise_affine, 1);
    bias = n->op == VRAM_OP_layer_norm && VRAM__INT(n, bias, 1);
  } else {
    if (x->ndim < (n->op == VRAM_OP_instance_norm ? 3u : 2u))
      return vram__bad(g, n, "a tensor of too few axes");
    size[0] = c = x->v[1];
    own = (uint32_t)VRAM__INT(n, affine, n->op != VRAM_OP_instance_norm);
    if (n->op == VRAM_OP_group_norm &&
        (VRAM__INT(n, num_groups, 0) < 1 || c % VRAM__INT(n, num_groups, 1)))
      return vram__bad(g, n, "channels that num_groups does not divide");
  }
  if (n->nin > 1)
    own = 0;
  for (i = 1; i < n->nin; i++) {
    const vram_dims *w = n->in[i]->d;
    uint32_t j = 0;
    while (j < k && w->ndim == k && w->v[j] == size[j])
      j++;
    if (w->ndim != k || j < k)
      return vram__bad(g, n, "a weight of another shape");
  }
  if (own && !vram__own(g, n, 0, "weight", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (own && bias && !vram__own(g, n, 1, "bias", k, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if ((n->op == VRAM_OP_batch_norm && VRAM__INT(n, track_running_stats, 1)) ||
      (n->op == VRAM_OP_instance_norm && VRAM__INT(n, track_running_stats, 0))) {
    if (!vram__own(g, n, 2, "running_mean", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__own(g, n, 3, "running_var", 1, size, VRAM_F32, VRAM__BUFFER))
      return 0;
    if (!vram__own(g, n, 4, "num_batches_tracked", 0, &zero, VRAM_I64, VRAM__BUFFER))
      return 0;
  }
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_lrn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_size, &c);
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (x->ndim < 3 || !x->numel || vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "local_response_norm takes [N,C,...] of floating point");
  if (c != 1 || *v < 1 || *v > INT32_MAX)
    return vram__bad(g, n, "size must be one number of at least 1");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i] + (i == 1 ? *v - 1 : 0);
  if (!vram__dims_of(g, i, size)) /* the padded squares must fit as well */
    return 0;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

/* Values of as many axes as the input has, and where they were found. */
static int vram__out_indexed(vram_graph *g, vram_node *n, const int64_t *size) {
  const vram_dims *d = vram__dims_of(g, n->in[0]->d->ndim, size);
  vram__out_d(n, 1, d, VRAM_I64);
  return vram__out_d(n, 0, d, n->in[0]->dtype);
}

/* The input of a pooling has k axes behind channels, and a batch or none: how many lead them. */
static uint32_t vram__lead(vram_graph *g, const vram_node *n, uint32_t k) {
  const vram_dims *x = n->in[0]->d;
  if (x->ndim == k + 1 || x->ndim == k + 2)
    return x->ndim - k;
  vram__bad(g, n, "a tensor of another number of axes");
  return 0;
}

static int vram__shape_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t size[VRAM_MAX_AXES], kernel[3], stride[3], pad[3], dil[3];
  int ceil = VRAM__INT(n, ceil_mode, 0) != 0;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__list(n, VRAM__KEY_stride, NULL) &&
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride))
    return 0;
  if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad) ||
      !vram__window(g, n, VRAM__KEY_dilation, k, 1, 1, dil))
    return 0;
  for (i = 0; i < lead; i++)
    size[i] = x->v[i];
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i], r, *to = size + lead + i;
    if (pad[i] > kernel[i] / 2)
      return vram__bad(g, n, "padding of more than half the kernel");
    if (n->op == VRAM_OP_avg_pool3d && in < kernel[i]) /* pool3d_shape_check */
      return vram__bad(g, n, "a kernel larger than its input");
    r = in + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0 && !(ceil && r > -stride[i]))
      return vram__bad(g, n, "a kernel larger than its padded input");
    *to = (r + (ceil ? stride[i] - 1 : 0)) / stride[i] + 1;
    if (ceil && (*to - 1) * stride[i] >= in + pad[i])
      --*to; /* the last window must begin inside */
    if (*to < 1)
      return vram__bad(g, n, "a kernel larger than its padded input");
  }
  return vram__out_indexed(g, n, size);
}

/* The input's leading axes, then k sizes that a key gives. */
static int vram__resize(vram_graph *g, vram_node *n, uint32_t k, const int64_t *to) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x->ndim; i++)
    size[i] = i < x->ndim - k ? x->v[i] : to[i - (x->ndim - k)];
  return vram__out_indexed(g, n, size);
}

static int vram__shape_adaptive_pool(vram_graph *g, vram_node *n) {
  uint32_t k = vram__spatial(n->op);
  int64_t to[3];
  return vram__lead(g, n, k) && vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to) &&
         vram__resize(g, n, k, to);
}

/* in * factor, rounded down; factor in units of 10^-9; -1: too large */
static int64_t vram__times(int64_t in, int64_t factor) {
  int64_t whole = factor / VRAM__ONE, part = factor % VRAM__ONE, z;
  if (factor < 0 || in > INT64_C(0xffffffff) || whole > INT32_MAX)
    return -1;
  z = in * whole;
  return z + in * part / VRAM__ONE;
}

static int vram__shape_fractional_pool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t to[3], kernel[3];
  int by_size = vram__list(n, VRAM__KEY_output_size, NULL) != NULL;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  if (by_size == (vram__list(n, VRAM__KEY_output_ratio, NULL) != NULL))
    return vram__bad(g, n, "one of output_size and output_ratio is needed");
  if (by_size && !vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
    return 0;
  for (i = 0; i < k; i++) {
    int64_t in = x->v[lead + i];
    if (!by_size)
      to[i] = vram__times(in, VRAM__INT(n, output_ratio, 0));
    if (to[i] < 1 || to[i] + kernel[i] - 1 > in)
      return vram__bad(g, n, "a kernel and a result larger than the input");
  }
  return vram__resize(g, n, k, to);
}

static int vram__shape_max_unpool(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t k = vram__spatial(n->op), i, lead = vram__lead(g, n, k);
  int64_t to[3], kernel[3], stride[3], pad[3];
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, k, 1, 1, kernel))
    return 0;
  for (i = 0; i < x->ndim; i++)
    if (n->in[1]->d->ndim != x->ndim || n->in[1]->d->v[i] != x->v[i])
      return vram__bad(g, n, "indices of another shape");
  for (i = 0; i < k; i++)
    stride[i] = kernel[i];
  if (vram__list(n, VRAM__KEY_stride, NULL) &&
      !vram__window(g, n, VRAM__KEY_stride, k, 1, 1, stride))
    return 0;
  if (!vram__window(g, n, VRAM__KEY_padding, k, 0, 0, pad))
    return 0;
  for (i = 0; i < k; i++) {
    uint64_t most = vram__mul((uint64_t)x->v[lead + i], (uint64_t)stride[i]);
    if (most > (uint64_t)INT64_MAX / 4)
      return vram__bad(g, n, "a result beyond 63 bits");
    to[i] = (int64_t)most - stride[i] - 2 * pad[i] + kernel[i];
  }
  if (vram__list(n, VRAM__KEY_output_size, NULL)) {
    int64_t def[3];
    for (i = 0; i < k; i++)
      def[i] = to[i];
    if (!vram__axes(g, n, VRAM__KEY_output_size, k, 1, 1, to))
      return 0;
    for (i = 0; i < k; i++)
      if (to[i] <= def[i] - stride[i] || to[i] >= def[i] + stride[i])
        return vram__bad(g, n, "an output_size that does not fit the windows");
  }
  for (i = 0; i < k; i++)
    if (to[i] < 1)
      return vram__bad(g, n, "a result without elements");
  return vram__resize(g, n, k, to);
}

static int vram__shape_interpolate(vram_graph *g, vram_node *n) {
  static const struct {
    const char *name;
    uint8_t least, most, aa;
  } modes[] = {{"nearest", 3, 5, 0},  {"nearest-exact", 3, 5, 0}, {"linear", 3, 3, 0},
               {"bilinear", 4, 4, 1}, {"bicubic", 4, 4, 1},       {"trilinear", 5, 5, 0},
               {"area", 3, 5, 0}};
  const vram_dims *x = n->in[0]->d;
  uint32_t k = x->ndim - 2u, i, c;
  int64_t to[3], word = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  const int64_t *v = vram__list(n, VRAM__KEY_scale_factor, &c);
  if (x->ndim < 3 || x->ndim > 5)
    return vram__bad(g, n, "interpolate of a tensor that has not 3, 4 or 5 axes");
  for (i = 0; i < 7; i++)
    if (word == vram__word(modes[i].name, vram__len(modes[i].name)))
      break;
  if (i == 7)
    return vram__bad(g, n,
                     "an unknown mode (nearest, nearest-exact, linear, bilinear, bicubic, "
                     "trilinear, area)");
  if (x->ndim < modes[i].least || x->ndim > modes[i].most)
    return vram__bad(g, n, "a mode for another number of axes");
  if (VRAM__INT(n, antialias, 0) && !modes[i].aa)
    return vram__bad(g, n, "antialias needs mode bilinear or bicubic");
  if (!v == !vram__list(n, VRAM__KEY_size, NULL))
    return vram__bad(g, n, "one of size and scale_factor is needed");
  if (!v)
    return vram__axes(g, n, VRAM__KEY_size, k, 1, 1, to) && vram__resize(g, n, k, to);
  if (c != 1 && c != k)
    return vram__bad(g, n, "scale_factor has another number of axes");
  for (i = 0; i < k; i++) {
    to[i] = vram__times(x->v[2 + i], v[c == 1 ? 0 : i]);
    if (to[i] < 1)
      return vram__bad(g, n, "a result without elements, or one beyond 63 bits");
  }
  return vram__resize(g, n, k, to);
}

static int vram__shape_pixel(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int up = n->op == VRAM_OP_pixel_shuffle;
  int64_t r = up ? VRAM__INT(n, upscale_factor, 0) : VRAM__INT(n, downscale_factor, 0), to[3];
  if (x->ndim < 3)
    return vram__bad(g, n, "a tensor of fewer than 3 axes");
  to[0] = x->v[x->ndim - 3], to[1] = x->v[x->ndim - 2], to[2] = x->v[x->ndim - 1];
  if (r < 1 || r > 65535 || (up ? to[0] % (r * r) : to[1] % r || to[2] % r))
    return vram__bad(g, n, "sizes that the factor does not divide");
  if (up ? to[1] > INT64_MAX / r || to[2] > INT64_MAX / r : to[0] > INT64_MAX / (r * r))
    return vram__bad(g, n, "a result beyond 63 bits");
  if (up)
    to[0] /= r * r, to[1] *= r, to[2] *= r;
  else
    to[0] *= r * r, to[1] /= r, to[2] /= r;
  return vram__resize(g, n, 3, to);
}

static int vram__shape_pad(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i;
  const int64_t *v = vram__list(n, VRAM__KEY_pad, &c);
  int64_t word = VRAM__INT(n, mode, VRAM__WORD("constant")), size[VRAM_MAX_AXES];
  if (word != VRAM__WORD("constant") && word != VRAM__WORD("reflect") &&
      word != VRAM__WORD("replicate") && word != VRAM__WORD("circular"))
    return vram__bad(g, n, "mode must be constant, reflect, replicate or circular");
  if (c % 2 || c / 2 > x->ndim)
    return vram__bad(g, n, "pad needs two values for an axis, and not more axes than the input");
  if (word != VRAM__WORD("constant") &&
      (c / 2 > 3 || (x->ndim != c / 2 + 2 && (x->ndim != c / 2 + 1))))
    return vram__bad(g, n, "a mode for another number of axes");
  if (word == VRAM__WORD("circular") && x->ndim != c / 2 + 2)
    return vram__bad(g, n, "circular padding needs a batch axis");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (i = 0; i < c; i++) {
    uint32_t a = x->ndim - 1u - i / 2;
    if (v[i] > INT32_MAX || v[i] < -INT64_C(0x7fffffff))
      return vram__bad(g, n, "a pad beyond 31 bits");
    if (word == VRAM__WORD("reflect") && v[i] >= x->v[a])
      return vram__bad(g, n, "reflected padding as large as the input");
    if (word == VRAM__WORD("circular") && v[i] > x->v[a])
      return vram__bad(g, n, "circular padding larger than the input");
    size[a] += v[i];
  }
  for (i = 0; i < x->ndim; i++)
    if (size[i] < (word == VRAM__WORD("constant") ? 0 : 1))
      return vram__bad(g, n, "a pad that leaves nothing");
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* unfold: [N, C, H, W] to [N, C kh kw, L]; fold: back. */
static int vram__shape_fold(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int back = n->op == VRAM_OP_fold;
  uint32_t i, lead = vram__lead(g, n, back ? 1 : 2);
  int64_t kernel[2], stride[2], pad[2], dil[2], hw[2], size[4], windows = 1, area;
  if (!lead || !vram__window(g, n, VRAM__KEY_kernel_size, 2, 1, 1, kernel) ||
      !vram__window(g, n, VRAM__KEY_stride, 2, 1, 1, stride) ||
      !vram__window(g, n, VRAM__KEY_padding, 2, 0, 0, pad) ||
      !vram__window(g, n, VRAM__KEY_dilation, 2, 1, 1, dil))
    return 0;
  if (back && !vram__window(g, n, VRAM__KEY_output_size, 2, 1, 1, hw))
    return 0;
  if (kernel[0] > 65535 || kernel[1] > 65535)
    return vram__bad(g, n, "a window beyond 16 bits");
  area = kernel[0] * kernel[1];
  for (i = 0; i < 2; i++) {
    int64_t r;
    if (!back)
      hw[i] = x->v[lead + i];
    r = hw[i] + 2 * pad[i] - dil[i] * (kernel[i] - 1) - 1;
    if (r < 0)
      return vram__bad(g, n, "a kernel larger than its padded input");
    if (windows > INT64_MAX / (r / stride[i] + 1))
      return vram__bad(g, n, "a result beyond 63 bits");
    windows *= r / stride[i] + 1;
  }
  size[0] = x->v[0];
  if (back) {
    if (x->v[lead] != windows || x->v[lead - 1] % area)
      return vram__bad(g, n, "windows that do not make up output_size");
    size[lead - 1] = x->v[lead - 1] / area;
    size[lead] = hw[0], size[lead + 1] = hw[1];
    return vram__out(g, n, 0, lead + 2, size, n->in[0]->dtype);
  }
  if (x->v[lead - 1] > INT64_MAX / area)
    return vram__bad(g, n, "a result beyond 63 bits");
  size[lead - 1] = x->v[lead - 1] * area;
  size[lead] = windows;
  return vram__out(g, n, 0, lead + 1, size, n->in[0]->dtype);
}

static int vram__shape_grid_sample(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k = x->ndim - 2u;
  if (x->ndim < 4 || x->ndim > 5 || d->ndim != x->ndim || d->v[0] != x->v[0] ||
      d->v[d->ndim - 1] != k)
    return vram__bad(g, n, "grid_sample needs [N,C,H,W] and [N,h,w,2], or an axis more and 3");
  for (i = 0; i < x->ndim; i++)
    size[i] = i < 2 ? x->v[i] : d->v[i - 1];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_glu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t a, i;
  if (!x->ndim)
    return vram__bad(g, n, "glu of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (size[a] % 2)
    return vram__bad(g, n, "an axis that cannot be halved");
  size[a] /= 2;
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

static int vram__shape_prelu(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t c = VRAM__INT(n, num_parameters, 1);
  if (n->nin > 1)
    c = (int64_t)n->in[1]->d->numel;
  if (c < 1 || (c != 1 && (x->ndim < 2 || x->v[1] != c)))
    return vram__bad(g, n, "num_parameters must be 1 or the number of channels");
  if (n->nin == 1 &&
      (!vram__params(g, n, 2) || !vram__own(g, n, 0, "weight", 1, &c, VRAM_F32, VRAM__PARAM)))
    return 0;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

/* Everything that attention allocates in bytes, kernels' workspaces included, must fit. */
static int vram__att_fits(vram_graph *g, uint64_t heads, int64_t rows, int64_t keys,
                          int64_t width) {
  uint64_t a = (uint64_t)rows + 256, b = (uint64_t)keys + 256, d = (uint64_t)width + 512;
  uint64_t most = a > b ? a : b;
  if (vram__mul(vram__mul(heads, 64), vram__mul(a > d && b > d ? a < b ? a : b : d, most)) !=
      VRAM_OVERFLOW)
    return 1;
  vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
  return 0;
}

/* attention.cpp, validate_sdpa_input */
static int vram__shape_sdpa(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d;
  int64_t size[VRAM_MAX_AXES], all[VRAM_MAX_AXES];
  uint32_t i, j, r = q->ndim, m = 0;
  const int gqa = VRAM__INT(n, enable_gqa, 0) != 0;
  uint64_t heads = 1;
  if (r < 2 || k->ndim != r || v->ndim != r)
    return vram__bad(g, n, "attention of tensors of different axes");
  if (q->v[r - 1] != k->v[r - 1])
    return vram__bad(g, n, "query and key of different width");
  if (k->v[r - 2] != v->v[r - 2])
    return vram__bad(g, n, "key and value of different length");
  for (i = 0; i < 3; i++)
    if (vram__kind_rank(n->in[i]->dtype) != 2)
      return vram__bad(g, n, "attention of tensors that are not floating point");
  if (gqa && (r < 3 || k->v[r - 3] < 1 || v->v[r - 3] < 1 || q->v[r - 3] % k->v[r - 3] ||
              q->v[r - 3] % v->v[r - 3]))
    return vram__bad(g, n, "heads of key and value must divide those of the query");
  for (i = 0; i < 3; i++) { /* what stands in front broadcasts */
    int64_t lead[VRAM_MAX_AXES];
    for (j = 0; j + 2 < r; j++)
      lead[j] = gqa && j == r - 3 ? q->v[j] : n->in[i]->d->v[j];
    if (!vram__bcast_lead(&m, size, r - 2, lead))
      return vram__bad(g, n, "query, key and value of different batch or heads");
  }
  for (i = 0; i < m; i++)
    heads = vram__mul(heads, (uint64_t)(size[i] ? size[i] : 1));
  size[m] = q->v[r - 2], size[m + 1] = v->v[r - 1];
  if (n->nin > 3) {
    const vram_dims *mask = n->in[3]->d;
    if (VRAM__INT(n, is_causal, 0))
      return vram__bad(g, n, "is_causal=1 together with a mask");
    if (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2)
      return vram__bad(g, n, "a mask must be of bool or floating point");
    for (i = 0; i < m; i++)
      all[i] = size[i];
    all[m] = q->v[r - 2], all[m + 1] = k->v[r - 2];
    for (i = 0; i < mask->ndim && mask->ndim <= r; i++)
      if (mask->v[i] != 1 && mask->v[i] != all[r - mask->ndim + i])
        break;
    if (!mask->ndim || mask->ndim > r || i < mask->ndim)
      return vram__bad(g, n, "a mask that does not broadcast to [.., queries, keys]");
  }
  if (!vram__att_fits(g, heads, q->v[r - 2], k->v[r - 2],
                      q->v[r - 1] > v->v[r - 1] ? q->v[r - 1] : v->v[r - 1]))
    return 0;
  return vram__out(g, n, 0, r, size, n->in[0]->dtype);
}

/* The slots of torch.nn.MultiheadAttention's parameters. */
enum {
  VRAM__MHA_IN,   /* of query, key and value together, or of the query */
  VRAM__MHA_BIAS, /* of all three */
  VRAM__MHA_OUT,
  VRAM__MHA_OUT_BIAS,
  VRAM__MHA_KEY,
  VRAM__MHA_VALUE,
  VRAM__MHA_BIAS_K,
  VRAM__MHA_BIAS_V,
  VRAM__MHA_PARAMS
};

/* torch.nn.MultiheadAttention: query, key, value, a mask; outputs: the result, the weights. The
   parameters stand in the order in which the module registers them. */
static int vram__shape_mha(vram_graph *g, vram_node *n) {
  const vram_dims *q = n->in[0]->d, *k = n->in[1]->d, *v = n->in[2]->d,
                  *m = n->nin > 3 ? n->in[3]->d : NULL;
  const int batched = q->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0);
  const int64_t h = VRAM__INT(n, num_heads, 0);
  int64_t E, L, S, B, kd, vd, size[VRAM_MAX_AXES];
  uint32_t i;
  if ((!batched && q->ndim != 2) || k->ndim != q->ndim || v->ndim != q->ndim)
    return vram__bad(g, n, "query, key and value must have two or three axes");
  E = q->v[q->ndim - 1u];
  kd = VRAM__INT(n, kdim, E), vd = VRAM__INT(n, vdim, E);
  L = q->v[first ? 1 : 0], S = k->v[first ? 1 : 0];
  B = batched ? q->v[first ? 0 : 1] : 1;
  if (E < 1 || h < 1 || E % h)
    return vram__bad(g, n, "num_heads must divide the width of the query");
  if (k->v[q->ndim - 1u] != kd || v->v[q->ndim - 1u] != vd)
    return vram__bad(g, n, "key or value of another width (kdim=, vdim=)");
  for (i = 0; i + 1u < q->ndim; i++)
    if (k->v[i] != v->v[i] || (batched && i == (first ? 0u : 1u) && k->v[i] != q->v[i]))
      return vram__bad(g, n, "query, key and value of different batch or length");
  if (n->in[1]->dtype != n->in[0]->dtype || n->in[2]->dtype != n->in[0]->dtype ||
      vram__kind_rank(n->in[0]->dtype) != 2)
    return vram__bad(g, n, "query, key and value must be of one floating point dtype");
  if (n->nout > 1 && !VRAM__INT(n, need_weights, 1))
    return vram__bad(g, n, "need_weights=0 gives no second output");
  if (m) {
    int fits = m->ndim == 2 ? m->v[0] == L && m->v[1] == S
                            : m->ndim == 3 && m->v[0] == B * h && m->v[1] == L && m->v[2] == S;
    if (!fits || (n->in[3]->dtype != VRAM_BOOL && vram__kind_rank(n->in[3]->dtype) != 2))
      return vram__bad(g, n, "the mask must be [L,S] or [N*heads,L,S] of bool or floating point");
  }
  if (!vram__params(g, n, VRAM__MHA_PARAMS))
    return 0;
  size[0] = kd == E && vd == E ? 3 * E : E, size[1] = E;
  if (!vram__own(g, n, VRAM__MHA_IN, kd == E && vd == E ? "in_proj_weight" : "q_proj_weight", 2,
                 size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = E, size[1] = kd;
  if ((kd != E || vd != E) &&
      !vram__own(g, n, VRAM__MHA_KEY, "k_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[1] = vd;
  if ((kd != E || vd != E) &&
      !vram__own(g, n, VRAM__MHA_VALUE, "v_proj_weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = 3 * E;
  if (VRAM__INT(n, bias, 1) &&
      !vram__own(g, n, VRAM__MHA_BIAS, "in_proj_bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[0] = size[1] = 1, size[2] = E;
  for (i = 0; i < 2 && VRAM__INT(n, add_bias_kv, 0); i++)
    if (!vram__own(g, n, VRAM__MHA_BIAS_K + i, i ? "bias_v" : "bias_k", 3, size, VRAM_F32,
                   VRAM__PARAM))
      return 0;
  size[0] = size[1] = E;
  if (!vram__own(g, n, VRAM__MHA_OUT, "out_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (VRAM__INT(n, bias, 1) &&
      !vram__own(g, n, VRAM__MHA_OUT_BIAS, "out_proj.bias", 1, size, VRAM_F32, VRAM__PARAM))
    return 0;
  S += (VRAM__INT(n, add_bias_kv, 0) != 0) + (VRAM__INT(n, add_zero_attn, 0) != 0);
  if (!vram__att_fits(g, (uint64_t)(B * h), L, S, E))
    return 0;
  if (n->nout > 1) {
    size[0] = B, size[1] = L, size[2] = S;
    if (!vram__out(g, n, 1, batched ? 3 : 2, size + !batched, n->in[0]->dtype))
      return 0;
  }
  return vram__out_d(n, 0, q, n->in[0]->dtype);
}

static int vram__shape_reduce(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c = 0, i, a, mask = 0, m = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  int keep = VRAM__INT(n, keepdim, 0) != 0;
  uint8_t dt = n->in[0]->dtype;
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    if (mask >> a & 1)
      return vram__bad(g, n, "an axis that is named twice");
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x->v[i];
    else if (keep)
      size[m++] = 1;
  switch (n->op) {
  case VRAM_OP_sum:
  case VRAM_OP_prod:
    dt = vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_I64 : dt;
    break;
  case VRAM_OP_amax:
  case VRAM_OP_amin:
    break;
  case VRAM_OP_argmax:
  case VRAM_OP_argmin:
    if (c > 1)
      return vram__bad(g, n, "argmax and argmin of more than one axis");
    if (dt == VRAM_BOOL)
      return vram__bad(g, n, "argmax and argmin of bool");
    break;
  case VRAM_OP_max:
  case VRAM_OP_min:
    if (c > 1)
      return vram__bad(g, n, "max and min of more than one axis");
    if (n->nout > (v ? 2u : 1u))
      return vram__bad(g, n, "two outputs need dim=");
    if (n->nout > 1 && !vram__out(g, n, 1, m, size, VRAM_I64))
      return 0;
    break;
  case VRAM_OP_logsumexp:
    dt = vram__kind_rank(dt) < 2 ? (uint8_t)VRAM_F32 : dt;
    break;
  default:
    if (vram__kind_rank(dt) < 2 && !vram__list(n, VRAM__KEY_dtype, NULL))
      return vram__bad(g, n, "this reduction needs a floating-point tensor");
  }
  if (n->op == VRAM_OP_prod && c > 1)
    return vram__bad(g, n, "prod of more than one axis");
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  return vram__out(g, n, 0, m, size, dt);
}

/* roll and flip: the axes must be there */
static int vram__shape_roll(vram_graph *g, vram_node *n) {
  uint32_t c, k, i, a;
  const int64_t *v = vram__list(n, VRAM__KEY_dims, &c);
  if (n->op == VRAM_OP_roll) {
    vram__list(n, VRAM__KEY_shifts, &k);
    if (v ? k != c : k != 1)
      return vram__bad(g, n, "as many shifts as dims are needed");
  }
  for (i = 0; i < c; i++)
    if (!vram__axis(g, v[i], n->in[0]->d->ndim, &a))
      return 0;
  return vram__out_d(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* How often each axis of the result repeats x (axes that x lacks come first). */
static uint32_t vram__repeats(const vram_node *n, uint32_t ndim, int64_t *to) {
  uint32_t c, i, k;
  const int64_t *v = vram__list(n, n->op == VRAM_OP_tile ? VRAM__KEY_dims : VRAM__KEY_repeats, &c);
  k = c > ndim ? c : ndim;
  for (i = 0; i < k; i++)
    to[i] = i < k - c ? 1 : v[i - (k - c)];
  return k;
}

static int vram__shape_repeat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r[VRAM_MAX_AXES];
  uint32_t c, i, k = vram__repeats(n, x->ndim, r);
  vram__list(n, VRAM__KEY_repeats, &c);
  if (n->op == VRAM_OP_repeat && c < x->ndim)
    return vram__bad(g, n, "fewer repeats than axes");
  for (i = 0; i < k; i++) {
    uint64_t z = i < k - x->ndim ? 1 : (uint64_t)x->v[i - (k - x->ndim)];
    if (r[i] < 0 || (z = vram__mul(z, (uint64_t)r[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "repeats out of range");
    size[i] = (int64_t)z;
  }
  return vram__out(g, n, 0, k, size, n->in[0]->dtype);
}

/* Is input i of the node a list of integers? Else an error. */
static int vram__index_dtype(vram_graph *g, const vram_node *n, uint32_t i) {
  uint8_t dt = n->in[i]->dtype;
  if (dt == VRAM_I64 || dt == VRAM_I32)
    return 1;
  return vram__bad(g, n, "an index that is not i64 or i32");
}

/* EmbeddingBag: rows of indices, or one list and the offsets where its bags begin; a table can
   stand behind them. */
static int vram__shape_embedding_bag(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *w = NULL, *o = NULL;
  int64_t size[2], z[2];
  uint32_t i;
  uint8_t dt;
  for (i = 1; i < n->nin; i++)
    if (n->in[i]->d->ndim == 2)
      w = n->in[i]->d;
    else if (n->in[i]->d->ndim == 1)
      o = n->in[i]->d;
  if (n->nin != 1u + (w != NULL) + (o != NULL) || (x->ndim != 2 && !(x->ndim == 1 && o)) ||
      (x->ndim == 2 && o))
    return vram__bad(g, n, "inputs other than [bags,indices], or [indices] and [offsets]");
  if (!vram__index_dtype(g, n, 0))
    return 0;
  z[0] = VRAM__INT(n, num_embeddings, 0), z[1] = VRAM__INT(n, embedding_dim, 0);
  if (z[0] < 1 || z[1] < 1)
    return vram__bad(g, n, "num_embeddings and embedding_dim must be at least 1");
  if (w ? w->v[0] != z[0] || w->v[1] != z[1]
        : !vram__params(g, n, 1) || !vram__own(g, n, 0, "weight", 2, z, VRAM_F32, VRAM__PARAM))
    return w ? vram__bad(g, n, "a table of another shape") : 0;
  dt = w ? n->in[n->nin - 1]->dtype : n->param[0]->dtype;
  if (w && n->nin == 3 && n->in[1]->d->ndim == 2)
    return vram__bad(g, n, "offsets behind the table");
  size[0] = x->ndim == 2 ? x->v[0] : o->v[0], size[1] = z[1];
  return vram__out(g, n, 0, 2, size, dt);
}

static int vram__shape_gather(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
    return vram__bad(g, n, "an index that is not i64 or i32");
  if (d->ndim != x->ndim)
    return vram__bad(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__bad(g, n, "an index that is larger than the tensor");
  return vram__out_d(n, 0, d, n->in[0]->dtype);
}

/* Dropout.cpp, make_feature_noise; torch.nn.functional.dropout1d */
static int vram__shape_dropout(vram_graph *g, vram_node *n) {
  uint32_t k = n->in[0]->d->ndim;
  if (VRAM__INT(n, p, 0) < 0 || VRAM__INT(n, p, 0) > VRAM__ONE)
    return vram__bad(g, n, "p must be 0 to 1");
  if (n->op == VRAM_OP_dropout || n->op == VRAM_OP_alpha_dropout)
    return vram__shape_same(g, n);
  if (n->op == VRAM_OP_dropout1d && k != 2 && k != 3)
    return vram__bad(g, n, "dropout1d of a tensor that has not two or three axes");
  if (k + (n->op == VRAM_OP_dropout3d && k != 5) < 2)
    return vram__bad(g, n, "dropout of channels of a tensor without channels");
  return vram__shape_same(g, n);
}

static int vram__shape_scatter(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *d = n->in[1]->d;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->nin > 2 && VRAM__INT(n, scalar, 0))
    return vram__bad(g, n, "a source beside a number");
  if (d->ndim != x->ndim)
    return vram__bad(g, n, "an index of another number of axes");
  for (i = 0; i < d->ndim; i++)
    if (i != a && d->v[i] > x->v[i])
      return vram__bad(g, n, "an index that is larger than the tensor");
  if (n->nin > 2) {
    if (n->in[2]->dtype != n->in[0]->dtype || n->in[2]->d->ndim != d->ndim)
      return vram__bad(g, n, "a source of another dtype or number of axes");
    for (i = 0; i < d->ndim; i++)
      if (n->in[2]->d->v[i] < d->v[i])
        return vram__bad(g, n, "an index that is larger than the source");
  }
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_index_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a) || !vram__index_dtype(g, n, 1))
    return 0;
  if (n->in[1]->d->ndim > 1)
    return vram__bad(g, n, "an index of more than one axis");
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? (int64_t)n->in[1]->d->numel : x->v[i];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}

/* The sizes of x[.., i, j, ..]: `count` index tensors from input 1 on stand for the axes from `dim`
   on; a mask of several axes stands for as many. A mask counts as all its elements: what it selects
   depends on the data, this is the upper bound. */
static int vram__index_sizes(vram_graph *g, const vram_node *n, uint32_t count, uint32_t *ndim,
                             int64_t *size) {
  const vram_dims *x = n->in[0]->d;
  int64_t idx[VRAM_MAX_AXES];
  uint32_t i, a = 0, m = 0, k = 0, used = count;
  const vram_dims *d = n->in[1]->d;
  if (!x->ndim)
    return vram__bad(g, n, "an index into a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (n->in[1]->dtype == VRAM_BOOL || n->in[1]->dtype == VRAM_U8) {
    if (count != 1)
      return vram__bad(g, n, "a mask beside another index");
    used = d->ndim;
    for (i = 0; i < d->ndim; i++)
      if (a + i >= x->ndim || d->v[i] != x->v[a + i])
        return vram__bad(g, n, "a mask of another shape");
    idx[m++] = (int64_t)d->numel;
  } else
    for (i = 1; i <= count; i++) {
      if (!vram__index_dtype(g, n, i))
        return 0;
      if (!vram__bcast(&m, idx, n->in[i]->d))
        return vram__bad(g, n, "index tensors that do not broadcast");
    }
  if (a + used > x->ndim)
    return vram__bad(g, n, "more index tensors than axes");
  if (x->ndim - used + m > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[k++] = x->v[i];
  for (i = 0; i < m; i++)
    size[k++] = idx[i];
  for (i = a + used; i < x->ndim; i++)
    size[k++] = x->v[i];
  *ndim = k;
  return 1;
}

static int vram__shape_index(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t k;
  if (!vram__index_sizes(g, n, n->nin - 1, &k, size))
    return 0;
  g->extra += (uint64_t)n->nin * 256;
  return vram__out(g, n, 0, k, size, n->in[0]->dtype);
}

static int vram__shape_index_put(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t k, m;
  if (!vram__index_sizes(g, n, n->nin - 2, &k, size))
    return 0;
  m = k;
  if (!vram__bcast(&k, size, n->in[n->nin - 1]->d) || k != m)
    return vram__bad(g, n, "values that do not broadcast to what is written");
  if (n->in[n->nin - 1]->dtype != n->in[0]->dtype)
    return vram__bad(g, n, "values of another dtype");
  g->extra += (uint64_t)n->nin * 512;
  return vram__out_d(n, 0, n->in[0]->d, n->in[0]->dtype);
}

/* What a mask selects depends on the data: all elements, the upper bound. */
static int vram__shape_masked_select(vram_graph *g, vram_node *n) {
  int64_t size[VRAM_MAX_AXES], z = 1;
  uint32_t k, i;
  if (n->in[1]->dtype != VRAM_BOOL)
    return vram__bad(g, n, "a mask that is not bool");
  if (!vram__bcast_all(g, n, 0, &k, size))
    return 0;
  for (i = 0; i < k; i++)
    if ((uint64_t)(z = (int64_t)vram__mul((uint64_t)z, (uint64_t)size[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "a size out of range");
  return vram__out(g, n, 0, 1, &z, n->in[0]->dtype);
}

static int vram__shape_topk(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], k;
  uint32_t i, a;
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (n->op == VRAM_OP_topk) {
    k = VRAM__INT(n, k, 0);
    if (k < 0 || k > (x->ndim ? x->v[a] : 1))
      return vram__bad(g, n, "k must be 0 to the size of the axis");
    if (x->ndim)
      size[a] = k;
  }
  return vram__out_indexed(g, n, size);
}

static int vram__shape_argmax(vram_graph *g, vram_node *n) {
  if (!vram__shape_reduce(g, n))
    return 0;
  n->out[0].dtype = VRAM_I64;
  return 1;
}

static int vram__shape_one_hot(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES + 1];
  uint32_t i;
  if (n->in[0]->dtype != VRAM_I64)
    return vram__bad(g, n, "one_hot of another dtype than i64");
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[i] = VRAM__INT(n, num_classes, 0);
  if (size[i] < 1)
    return vram__bad(g, n, "num_classes must be at least 1");
  return vram__out(g, n, 0, x->ndim + 1u, size, VRAM_I64);
}

static int vram__shape_cumsum(vram_graph *g, vram_node *n) {
  uint32_t a;
  uint8_t dt = n->in[0]->dtype;
  if (!vram__axis(g, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a))
    return 0;
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    dt = (uint8_t)VRAM__INT(n, dtype, dt);
  else if (vram__kind_rank(dt) < 2)
    dt = VRAM_I64;
  return vram__out_d(n, 0, n->in[0]->d, dt);
}

static int vram__shape_histc(vram_graph *g, vram_node *n) {
  int64_t bins = VRAM__INT(n, bins, 100);
  if (bins < 1)
    return vram__bad(g, n, "bins must be at least 1");
  return vram__out(g, n, 0, 1, &bins, n->in[0]->dtype);
}

static int vram__shape_diff(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, a;
  vram__promote p;
  if (!x->ndim)
    return vram__bad(g, n, "diff of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, -1), x->ndim, &a))
    return 0;
  vram__zero(&p, sizeof p);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, n->in[i]->dtype, x->ndim);
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  if (n->nin > 1) {
    const vram_dims *d = n->in[1]->d;
    if (d->ndim != x->ndim)
      return vram__bad(g, n, "diff with a prefix of other axes");
    for (i = 0; i < x->ndim; i++)
      if (i != a && d->v[i] != x->v[i])
        return vram__bad(g, n, "diff with a prefix of other sizes");
    size[a] += d->v[a]; /* both below 2^59: vram__dims_of */
  }
  if (size[a])
    size[a]--;
  return vram__out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

static int vram__shape_repeat_interleave(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t size[VRAM_MAX_AXES], r = vram__int(n, VRAM__KEY_repeats, 1);
  uint32_t c, i, a = 0, ndim = x->ndim;
  uint64_t z;
  vram__list(n, VRAM__KEY_repeats, &c);
  if (c != 1 || r < 0)
    return vram__bad(g, n, "repeats must be one number");
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    if (!x->ndim || x->ndim >= VRAM_MAX_AXES)
      return vram__bad(g, n, "repeat_interleave of a tensor without axes or of 8");
    if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
      return 0;
    for (i = 0; i < ndim; i++)
      size[i] = x->v[i];
  } else
    ndim = 1, size[0] = (int64_t)x->numel;
  if ((z = vram__mul((uint64_t)size[a], (uint64_t)r)) == VRAM_OVERFLOW)
    return vram__bad(g, n, "repeats out of range");
  size[a] = (int64_t)z;
  return vram__out(g, n, 0, ndim, size, n->in[0]->dtype);
}

static const char *vram__keep(vram_graph *g, const char *s, uint32_t n);

/* What nn.LSTM, nn.GRU and nn.RNN are made of. */
typedef struct vram__rnn {
  int64_t T, B, width, H,
      P;               /* steps, batch, input, hidden units, units that go on (proj_size or H) */
  int64_t L, D, gates; /* layers, directions */
  int lstm, bias, proj, first; /* first: the batch is the first axis */
  uint32_t params;             /* of one layer and direction */
} vram__rnn;

static void vram__rnn_of(const vram_node *n, const vram_dims *x, vram__rnn *r) {
  int batch = x->ndim == 3;
  r->lstm = n->op == VRAM_OP_lstm;
  r->gates = r->lstm ? 4 : n->op == VRAM_OP_gru ? 3 : 1;
  r->first = batch && VRAM__INT(n, batch_first, 0);
  r->T = x->v[r->first];
  r->B = batch ? x->v[!r->first] : 1;
  r->width = x->v[x->ndim - 1u];
  r->H = VRAM__INT(n, hidden_size, 0);
  r->P = VRAM__INT(n, proj_size, 0);
  r->proj = r->P > 0;
  if (!r->proj)
    r->P = r->H;
  r->L = VRAM__INT(n, num_layers, 1);
  r->D = VRAM__INT(n, bidirectional, 0) ? 2 : 1;
  r->bias = VRAM__INT(n, bias, 1) != 0;
  r->params = 2u + 2u * (uint32_t)r->bias + (uint32_t)r->proj;
}

/* Elements of the flat weights: cuDNN's has room for both biases in any case. */
static uint64_t vram__rnn_flat(const vram__rnn *r) {
  uint64_t g = (uint64_t)(r->gates * r->H), n = 0;
  n = g * (uint64_t)(r->width + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0);
  n += (uint64_t)(r->L - 1) *
       (g * (uint64_t)(r->P * r->D + r->P + 2) + (uint64_t)(r->proj ? r->P * r->H : 0));
  return n * (uint64_t)r->D;
}

/* "weight_ih_l0", "bias_hh_l1_reverse": the name of a parameter as torch.nn gives it */
static const char *vram__rnn_role(vram_graph *g, const char *what, int64_t layer, int reverse) {
  char t[64];
  uint32_t k = 0;
  t[0] = 0;
  vram__puts(t, sizeof t, &k, what);
  if (layer >= 0) {
    vram__puts(t, sizeof t, &k, "_l");
    vram__puti(t, sizeof t, &k, layer);
    if (reverse)
      vram__puts(t, sizeof t, &k, "_reverse");
  }
  return vram__keep(g, t, k + 1);
}

/* The parameters of one layer and direction (layer -1: a cell) from slot `at` on. */
static int vram__rnn_own(vram_graph *g, vram_node *n, uint32_t at, const vram__rnn *r,
                         int64_t layer, int reverse, int64_t in) {
  static const char *const name[5] = {"weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr"};
  int64_t size[2];
  uint32_t k;
  for (k = 0; k < 5; k++) {
    const char *role;
    if ((k == 2 || k == 3) && !r->bias)
      continue;
    if (k == 4 && !r->proj)
      continue;
    role = vram__rnn_role(g, name[k], layer, reverse);
    size[0] = k < 4 ? r->gates * r->H : r->P;
    size[1] = k == 0 ? in : k == 1 ? r->P : r->H;
    if (!role ||
        !vram__own(g, n, at++, role, k == 2 || k == 3 ? 1 : 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  return 1;
}

/* Input i, the state before the first step, has these sizes. */
static int vram__rnn_state(vram_graph *g, const vram_node *n, uint32_t i, uint32_t ndim,
                           const int64_t *size) {
  const vram_dims *d;
  uint32_t a;
  if (i >= n->nin)
    return 1;
  d = n->in[i]->d;
  for (a = 0; a < ndim; a++)
    if (d->ndim != ndim || d->v[a] != size[a])
      return vram__bad(g, n, "a state of another shape");
  return 1;
}

#define VRAM__MAX_UNITS INT64_C(0x7fffffff)
#define VRAM__MAX_RNN_LAYERS 4096

static int vram__shape_rnn(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[3], layer;
  uint32_t m, k, at = 0;
  uint8_t dt = n->in[0]->dtype;
  if (x->ndim != 2 && x->ndim != 3)
    return vram__bad(g, n, "an input of other than two or three axes");
  vram__rnn_of(n, x, &r);
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__bad(g, n, "hidden_size must be at least 1");
  if (VRAM__INT(n, proj_size, 0) < 0 || (r.proj && r.P >= r.H))
    return vram__bad(g, n, "proj_size must be smaller than hidden_size");
  if (r.L < 1 || r.L > VRAM__MAX_RNN_LAYERS)
    return vram__bad(g, n, "num_layers must be 1 to 4096");
  if (r.T < 1 || r.width < 1 || r.width > VRAM__MAX_UNITS)
    return vram__bad(g, n, "a sequence of no steps or no values");
  if (n->nin == 2 && r.lstm)
    return vram__bad(g, n, "lstm with a hidden state and no cell state");
  if (VRAM__INT(n, dropout, 0) < 0 || VRAM__INT(n, dropout, 0) > VRAM__ONE)
    return vram__bad(g, n, "dropout must be 0 to 1");
  if (!vram__params(g, n, (uint32_t)(r.L * r.D) * r.params))
    return 0;
  for (layer = 0; layer < r.L; layer++)
    for (k = 0; k < (uint32_t)r.D; k++, at += r.params)
      if (!vram__rnn_own(g, n, at, &r, layer, k == 1, layer ? r.P * r.D : r.width))
        return 0;
  if (!r.bias && !vram__list(n, VRAM__KEY_weights, NULL))
    g->flat_pad += (uint64_t)(2 * r.gates * r.H * r.L * r.D);
  if (VRAM__INT(n, dropout, 0))
    g->rnn_dropout++;
  g->extra += (uint64_t)n->nparam * 512 + 4096;
  m = 0;
  size[m++] = r.L * r.D;
  if (x->ndim == 3)
    size[m++] = r.B;
  size[m++] = r.P;
  if (!vram__rnn_state(g, n, 1, m, size))
    return 0;
  if (n->nout > 1 && !vram__out(g, n, 1, m, size, dt))
    return 0;
  size[m - 1] = r.H;
  if (!vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 2 && r.lstm && !vram__out(g, n, 2, m, size, dt))
    return 0;
  for (m = 0; m + 1 < x->ndim; m++)
    size[m] = x->v[m];
  size[m] = r.P * r.D;
  return vram__out(g, n, 0, m + 1, size, dt);
}

static int vram__shape_rnn_cell(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  vram__rnn r;
  int64_t size[2];
  uint32_t m = 0;
  if (x->ndim != 1 && x->ndim != 2)
    return vram__bad(g, n, "an input of other than one or two axes");
  vram__zero(&r, sizeof r);
  r.width = x->v[x->ndim - 1];
  r.H = r.P = VRAM__INT(n, hidden_size, 0);
  r.gates = n->op == VRAM_OP_lstm_cell ? 4 : n->op == VRAM_OP_gru_cell ? 3 : 1;
  r.bias = VRAM__INT(n, bias, 1) != 0;
  r.params = r.bias ? 4 : 2;
  if (r.H < 1 || r.H > VRAM__MAX_UNITS)
    return vram__bad(g, n, "hidden_size must be at least 1");
  if (n->op == VRAM_OP_lstm_cell && n->nin == 2)
    return vram__bad(g, n, "lstm_cell with a hidden state and no cell state");
  if (!vram__params(g, n, r.params) || !vram__rnn_own(g, n, 0, &r, -1, 0, r.width))
    return 0;
  if (x->ndim == 2)
    size[m++] = x->v[0];
  size[m++] = r.H;
  g->extra += 4096;
  if (!vram__rnn_state(g, n, 1, m, size) || !vram__rnn_state(g, n, 2, m, size))
    return 0;
  if (n->nout > 1 && n->op == VRAM_OP_lstm_cell && !vram__out(g, n, 1, m, size, n->in[0]->dtype))
    return 0;
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

/* Routed feed-forward: parameters of the router, of all experts and of the shared one, no biases;
   gated: a gate beside up, as SwiGLU has */
static int vram__shape_moe(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  int64_t e = VRAM__INT(n, num_experts, 0), k = VRAM__INT(n, top_k, 0),
          i = VRAM__INT(n, intermediate_size, 0),
          shared = VRAM__INT(n, shared_intermediate_size, 0), size[3];
  int gated = VRAM__INT(n, gated, 1) != 0;
  if (x->ndim < 1 || x->v[x->ndim - 1] < 1)
    return vram__bad(g, n, "an input without values");
  if (e < 1 || k < 1 || k > e)
    return vram__bad(g, n, "top_k must be 1 to num_experts");
  if (i < 1 || i > VRAM__MAX_UNITS || shared < 0 || shared > VRAM__MAX_UNITS)
    return vram__bad(g, n, "intermediate_size must be at least 1");
  if (x->numel / (uint64_t)x->v[x->ndim - 1] > (uint64_t)(INT64_MAX / 16) / (uint64_t)k)
    return vram__bad(g, n, "a size out of range");
  if (!vram__params(g, n, 6))
    return 0;
  size[0] = e, size[1] = x->v[x->ndim - 1];
  if (!vram__own(g, n, 0, "gate.weight", 2, size, VRAM_F32, VRAM__PARAM))
    return 0;
  size[2] = size[1], size[1] = gated ? 2 * i : i;
  if (!vram__own(g, n, 1, gated ? "experts.gate_up_proj" : "experts.up_proj", 3, size, VRAM_F32,
                 VRAM__PARAM))
    return 0;
  size[1] = size[2], size[2] = i;
  if (!vram__own(g, n, 2, "experts.down_proj", 3, size, VRAM_F32, VRAM__PARAM))
    return 0;
  if (shared) {
    size[0] = shared, size[1] = x->v[x->ndim - 1];
    if (gated &&
        !vram__own(g, n, 3, "shared_expert.gate_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    if (!vram__own(g, n, 4, "shared_expert.up_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
    size[0] = size[1], size[1] = shared;
    if (!vram__own(g, n, 5, "shared_expert.down_proj.weight", 2, size, VRAM_F32, VRAM__PARAM))
      return 0;
  }
  g->extra += 16384;
  return vram__out_d(n, 0, x, n->in[0]->dtype);
}

static int vram__shape_custom(vram_graph *g, vram_node *n) {
  uint32_t c, i;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t params = VRAM__INT(n, params, 0), buffers = VRAM__INT(n, buffers, 0);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, n->nin ? n->in[0]->dtype : (uint8_t)VRAM_F32);
  if (params < 0 || buffers < 0 || VRAM__INT(n, saved, 0) < 0 || VRAM__INT(n, workspace, 0) < 0)
    return vram__bad(g, n, "params, buffers, saved and workspace must not be negative");
  if (!vram__params(g, n, 2))
    return 0;
  if (params && !vram__own(g, n, 0, "params", 1, &params, VRAM_F32, VRAM__PARAM))
    return 0;
  if (buffers && !vram__own(g, n, 1, "buffers", 1, &buffers, VRAM_F32, VRAM__BUFFER))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!vram__out(g, n, i, c, v, dt))
      return 0;
  return 1;
}

/* Products of groups: [rows,k] x [groups,k,n] with the rows split by the offsets, or the other
   operand or the inner size split. */
static int vram__shape_grouped_mm(vram_graph *g, vram_node *n) {
  const vram_dims *a = n->in[0]->d, *b = n->in[1]->d, *o = n->in[2]->d;
  int64_t size[3];
  uint32_t m = 0;
  if (a->ndim < 2 || a->ndim > 3 || b->ndim < 2 || b->ndim > 3)
    return vram__bad(g, n, "operands of other than two or three axes");
  if (o->ndim != 1 || n->in[2]->dtype != VRAM_I32)
    return vram__bad(g, n, "offsets that are no list of i32");
  if (a->v[a->ndim - 1] != b->v[b->ndim - 2])
    return vram__bad(g, n, "inner sizes differ");
  if (a->ndim == 3 && b->ndim == 3)
    return vram__bad(g, n, "offsets where nothing is split: two operands of three axes");
  if (a->ndim != b->ndim && o->v[0] != (a->ndim == 3 ? a : b)->v[0])
    return vram__bad(g, n, "other offsets than groups");
  if (n->in[0]->dtype != n->in[1]->dtype || !vram__is_float(n->in[0]->dtype))
    return vram__bad(g, n, "operands of different dtypes");
  if (a->ndim == b->ndim)
    size[m++] = o->v[0];
  size[m++] = a->v[a->ndim - 2];
  size[m++] = b->v[b->ndim - 1];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_reshape(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, free = VRAM_MAX_AXES;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  uint64_t z = 1;
  for (i = 0; i < c; i++) {
    size[i] = v[i];
    if (v[i] == -1) {
      if (free != VRAM_MAX_AXES)
        return vram__bad(g, n, "more than one -1");
      free = i;
    } else if (v[i] < 0 || (z = vram__mul(z, (uint64_t)v[i])) == VRAM_OVERFLOW)
      return vram__bad(g, n, "a size out of range");
  }
  if (free != VRAM_MAX_AXES) {
    if (!z || x->numel % z)
      return vram__bad(g, n, "-1 does not divide");
    size[free] = (int64_t)(x->numel / z);
    z *= x->numel / z;
  }
  if (z != x->numel)
    return vram__bad(g, n, "a shape of another number of elements");
  return vram__out(g, n, 0, c, size, n->in[0]->dtype);
}

static int vram__shape_flatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, b, i, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!vram__axis(g, VRAM__INT(n, start_dim, 0), x->ndim, &a))
    return 0;
  if (!vram__axis(g, VRAM__INT(n, end_dim, -1), x->ndim, &b))
    return 0;
  if (a > b)
    return vram__bad(g, n, "start_dim is behind end_dim");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  size[m] = 1;
  for (i = a; i <= b && i < x->ndim; i++)
    size[m] *= x->v[i];
  m++;
  for (i = b + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unflatten(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t a, c, i, m = 0, free = 99;
  int64_t size[2 * VRAM_MAX_AXES], z = 1;
  const int64_t *v = vram__list(n, VRAM__KEY_sizes, &c);
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (!x->ndim)
    return vram__bad(g, n, "unflatten of a tensor without axes");
  if (x->ndim - 1 + c > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  for (i = 0; i < a; i++)
    size[m++] = x->v[i];
  for (i = 0; i < c; i++) {
    if (v[i] == -1 && free == 99)
      free = m;
    else if (v[i] < 1 || v[i] > x->v[a] || z > x->v[a])
      return vram__bad(g, n, "sizes that do not divide the axis");
    else
      z *= v[i];
    size[m++] = v[i];
  }
  if (free != 99) {
    if (x->v[a] % z)
      return vram__bad(g, n, "sizes that do not divide the axis");
    size[free] = x->v[a] / z;
    z *= size[free];
  }
  if (z != x->v[a])
    return vram__bad(g, n, "sizes that do not make up the axis");
  for (i = a + 1; i < x->ndim; i++)
    size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

/* The order of axes that a transposing node asks for. */
static int vram__order(vram_graph *g, const vram_node *n, uint32_t ndim, uint8_t *to) {
  uint32_t i, a, b, c, seen = 0;
  const int64_t *v;
  for (i = 0; i < ndim; i++)
    to[i] = (uint8_t)i;
  if (n->op == VRAM_OP_t) {
    if (ndim == 2)
      to[0] = 1, to[1] = 0;
  } else if (n->op == VRAM_OP_transpose) {
    if (!vram__axis(g, VRAM__INT(n, dim0, 0), ndim, &a) ||
        !vram__axis(g, VRAM__INT(n, dim1, 0), ndim, &b))
      return 0;
    if (ndim)
      to[a] = (uint8_t)b, to[b] = (uint8_t)a;
  } else {
    v = vram__list(n, VRAM__KEY_dims, &c);
    if (c != ndim)
      return vram__bad(g, n, "dims must name every axis once");
    for (i = 0; i < c; i++) {
      if (!vram__axis(g, v[i], ndim, &a))
        return 0;
      if (seen >> a & 1)
        return vram__bad(g, n, "dims must name every axis once");
      seen |= 1u << a;
      to[i] = (uint8_t)a;
    }
  }
  return 1;
}

static int vram__shape_permute(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  if (n->op == VRAM_OP_t && x->ndim > 2)
    return vram__bad(g, n, "t of more than two axes");
  if (!vram__order(g, n, x->ndim, order))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[order[i]];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}
#define vram__shape_transpose vram__shape_permute
#define vram__shape_t vram__shape_permute

static int vram__shape_squeeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c, m = 0, mask = 0;
  int64_t size[VRAM_MAX_AXES];
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    if (!vram__axis(g, v[i], x->ndim, &a))
      return 0;
    mask |= 1u << a;
  }
  if (!v)
    mask = 0xff;
  for (i = 0; i < x->ndim; i++)
    if (x->v[i] != 1 || !(mask >> i & 1))
      size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_unsqueeze(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? 1 : x->v[m++];
  return vram__out(g, n, 0, x->ndim + 1u, size, n->in[0]->dtype);
}

static int vram__shape_expand(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t c, i, k;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  int64_t size[VRAM_MAX_AXES];
  if (c < x->ndim)
    return vram__bad(g, n, "expand to fewer axes");
  k = c - x->ndim;
  for (i = 0; i < c; i++) {
    int64_t have = i < k ? 1 : x->v[i - k];
    size[i] = v[i] == -1 && i >= k ? have : v[i];
    if (size[i] < 0 || (have != 1 && have != size[i]))
      return vram__bad(g, n, "expand of an axis that is not 1");
  }
  return vram__out(g, n, 0, c, size, n->in[0]->dtype);
}

/* start, step and length of a slice of an axis of size z */
static void vram__slice_of(const vram_node *n, int64_t z, int64_t *start, int64_t *step,
                           int64_t *len) {
  int64_t a = VRAM__INT(n, start, 0), b = VRAM__INT(n, end, INT64_MAX);
  *step = VRAM__INT(n, step, 1);
  if (n->op == VRAM_OP_narrow)
    b = (a < 0 ? a + z : a) + VRAM__INT(n, length, 0);
  if (a < 0)
    a += z;
  if (b < 0)
    b += z;
  if (a < 0)
    a = 0;
  if (a > z)
    a = z;
  if (b < a)
    b = a;
  if (b > z)
    b = z;
  *start = a;
  *len = (b - a) / *step + ((b - a) % *step != 0);
}

static int vram__shape_slice(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a;
  int64_t size[VRAM_MAX_AXES], start, step, len;
  if (!x->ndim)
    return vram__bad(g, n, "a slice of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (VRAM__INT(n, step, 1) < 1)
    return vram__bad(g, n, "step must be at least 1");
  if (n->op == VRAM_OP_narrow) {
    start = VRAM__INT(n, start, 0), len = VRAM__INT(n, length, 0);
    if (start < -x->v[a] || start > x->v[a] || len < 0 ||
        len > x->v[a] - (start < 0 ? start + x->v[a] : start))
      return vram__bad(g, n, "start and length beyond the axis");
  }
  vram__slice_of(n, x->v[a], &start, &step, &len);
  for (i = 0; i < x->ndim; i++)
    size[i] = i == a ? len : x->v[i];
  return vram__out(g, n, 0, x->ndim, size, n->in[0]->dtype);
}
#define vram__shape_narrow vram__shape_slice

static int vram__shape_select(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES], at = VRAM__INT(n, index, 0);
  if (!x->ndim)
    return vram__bad(g, n, "select of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (at < -x->v[a] || at >= x->v[a])
    return vram__bad(g, n, "index out of range");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  return vram__out(g, n, 0, m, size, n->in[0]->dtype);
}

static int vram__shape_split(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, c = 0, k, pieces;
  int64_t size[VRAM_MAX_AXES], left, per;
  const int64_t *v = vram__list(n, VRAM__KEY_split_size_or_sections, &c);
  if (!x->ndim)
    return vram__bad(g, n, "a split of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  left = x->v[a];
  if (!v) {
    int64_t chunks = VRAM__INT(n, chunks, 1);
    if (chunks < 1)
      return vram__bad(g, n, "chunks must be at least 1");
    per = left / chunks + (left % chunks != 0);
    c = 1;
  } else
    per = v[0];
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  for (pieces = 0; left > 0 || !pieces; pieces++) {
    int64_t z = c > 1 ? (pieces < c ? v[pieces] : 0) : per < left ? per : left;
    if (z < 0 || z > left || (!z && left))
      return vram__bad(g, n, "sections that do not make up the axis");
    size[a] = z;
    left -= z;
    if (pieces < n->nout && !vram__out(g, n, pieces, x->ndim, size, n->in[0]->dtype))
      return 0;
    if (pieces >= 65535)
      return vram__bad(g, n, "too many pieces");
  }
  if (c > 1 && pieces != c)
    return vram__bad(g, n, "sections that do not make up the axis");
  k = n->nout;
  if (pieces != k) {
    vram__fail(g, VRAM_ERR_SHAPE, "other outputs than pieces (found ");
    vram__more_i(g, k);
    vram__more(g, " names, expected ");
    vram__more_i(g, pieces);
    vram__more(g, ")");
    return 0;
  }
  return 1;
}

static int vram__shape_unbind(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, m = 0;
  int64_t size[VRAM_MAX_AXES];
  if (!x->ndim)
    return vram__bad(g, n, "unbind of a tensor without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  if (x->v[a] != (int64_t)n->nout)
    return vram__bad(g, n, "other outputs than the axis has");
  for (i = 0; i < x->ndim; i++)
    if (i != a)
      size[m++] = x->v[i];
  for (i = 0; i < n->nout; i++)
    if (!vram__out(g, n, i, m, size, n->in[0]->dtype))
      return 0;
  return 1;
}

/* TensorShape.h, cat_should_skip_tensor: an empty list is left out whatever the others are */
static int vram__cat_skips(const vram_dims *d) { return d->ndim == 1 && !d->v[0]; }

static int vram__shape_cat(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  for (k = 1; k < n->nin && vram__cat_skips(x); k++)
    x = n->in[k]->d;
  if (!x->ndim)
    return vram__bad(g, n, "cat of tensors without axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim, &a))
    return 0;
  for (i = 0; i < x->ndim; i++)
    size[i] = x->v[i];
  size[a] = 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
    if (vram__cat_skips(d))
      continue;
    if (d->ndim != x->ndim)
      return vram__bad(g, n, "cat of tensors of different axes");
    for (i = 0; i < x->ndim; i++)
      if (i == a) {
        if (d->v[i] > INT64_MAX / 2 - size[a])
          return vram__bad(g, n, "a size out of range");
        size[a] += d->v[i];
      } else if (d->v[i] != size[i])
        return vram__bad(g, n, "cat of tensors of different sizes");
  }
  return vram__out(g, n, 0, x->ndim, size, vram__promote_get(&p));
}

static int vram__shape_stack(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d;
  uint32_t i, a, k, m = 0;
  int64_t size[VRAM_MAX_AXES];
  vram__promote p;
  vram__zero(&p, sizeof p);
  if (x->ndim >= VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  if (!vram__axis(g, VRAM__INT(n, dim, 0), x->ndim + 1u, &a))
    return 0;
  for (k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    for (i = 0; i < x->ndim; i++)
      if (d->ndim != x->ndim || d->v[i] != x->v[i])
        return vram__bad(g, n, "stack of tensors of different sizes");
    vram__promote_add(&p, n->in[k]->dtype, d->ndim);
  }
  for (i = 0; i <= x->ndim; i++)
    size[i] = i == a ? (int64_t)n->nin : x->v[m++];
  return vram__out(g, n, 0, x->ndim + 1u, size, vram__promote_get(&p));
}

static int vram__shape_create(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  uint8_t dt = n->nin ? n->in[0]->dtype : (uint8_t)VRAM__INT(n, dtype, VRAM_F32);
  return vram__out(g, n, 0, c, v, dt);
}

static int vram__shape_parameter(vram_graph *g, vram_node *n) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_shape, &c);
  uint8_t dt = (uint8_t)VRAM__INT(n, dtype, VRAM_F32);
  int buffer = n->op == VRAM_OP_buffer;
  if (!vram__own(g, n, 0, buffer ? "buffer" : "parameter", c, v, dt,
                 buffer ? VRAM__BUFFER : VRAM__PARAM))
    return 0;
  n->out[0].flags |= VRAM__ISPARAM;
  return vram__out_d(n, 0, n->param[0]->d, n->param[0]->dtype);
}

/* Losses. cross_entropy and nll_loss: classes along axis 1; ctc_loss: [T,N,C]; the others element
   by element, cosine_embedding_loss and triplet_margin_loss along the last axis. */
static int vram__shape_loss(vram_graph *g, vram_node *n) {
  const vram_dims *x = n->in[0]->d, *t = n->nin > 1 ? n->in[1]->d : NULL;
  int64_t size[VRAM_MAX_AXES], red = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  uint32_t i, m = 0, k;
  const int none = red == VRAM__WORD("none"),
            last = n->op == VRAM_OP_cosine_embedding_loss || n->op == VRAM_OP_triplet_margin_loss;
  uint8_t dt = n->in[0]->dtype;
  if (!none && red != VRAM__WORD("mean") && red != VRAM__WORD("sum") &&
      !(red == VRAM__WORD("batchmean") && n->op == VRAM_OP_kl_div))
    return vram__bad(g, n, "reduction must be none, mean or sum");
  if (vram__kind_rank(dt) != 2)
    return vram__bad(g, n, "a loss of a tensor that is not floating point");
  for (i = 0; i < n->nin; i++)
    if (!n->in[i]->d->numel)
      return vram__bad(g, n, "a loss of an empty tensor");
  switch (n->op) {
  case VRAM_OP_cross_entropy:
  case VRAM_OP_nll_loss:
    if (!x->ndim)
      return vram__bad(g, n, "a loss of a tensor without axes");
    k = x->ndim > 1;
    for (i = 0; i < x->ndim; i++)
      if (i != k)
        size[m++] = x->v[i];
    if (t && vram__is_float(n->in[1]->dtype)) { /* probabilities */
      for (i = 0; i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
        i++;
      if (n->op == VRAM_OP_nll_loss || i < x->ndim)
        return vram__bad(g, n, "a target of another shape");
    } else if (t) {
      for (i = 0; i < m && t->ndim == m && t->v[i] == size[i];)
        i++;
      if (t->ndim != m || i < m)
        return vram__bad(g, n, "a target of another shape");
      if (n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_U8)
        return vram__bad(g, n, "a target of class numbers must be i64");
    }
    break;
  case VRAM_OP_ctc_loss:
    if (x->ndim != 2 && x->ndim != 3)
      return vram__bad(g, n, "log-probabilities must be [T,N,C] or [T,C]");
    if (x->ndim == 3)
      size[m++] = x->v[1];
    if (t && (t->ndim < 1 || t->ndim > 2 || (t->ndim == 2 && (!m || t->v[0] != size[0]))))
      return vram__bad(g, n, "targets must be [N,S] or [S]");
    if (t && n->in[1]->dtype != VRAM_I64 && n->in[1]->dtype != VRAM_I32)
      return vram__bad(g, n, "targets must be i64");
    k = t ? (uint32_t)(t->ndim == 2) : 0;
    if (vram__mul(vram__mul((uint64_t)x->v[0], m ? (uint64_t)size[0] : 1),
                  vram__mul(16, 2 * (t ? (uint64_t)t->v[k] : (uint64_t)x->v[0]) + 1)) ==
        VRAM_OVERFLOW) {
      vram__fail(g, VRAM_ERR_OVERFLOW, "a tensor of more than 2^63-1 bytes");
      return 0;
    }
    break;
  case VRAM_OP_binary_cross_entropy:
  case VRAM_OP_binary_cross_entropy_with_logits:
    for (i = 0; t && i < x->ndim && t->ndim == x->ndim && t->v[i] == x->v[i];)
      i++;
    if (t && (t->ndim != x->ndim || i < x->ndim))
      return vram__bad(g, n, "a target of another shape");
    for (; m < x->ndim; m++)
      size[m] = x->v[m];
    break;
  default:
    if (last && !x->ndim)
      return vram__bad(g, n, "a loss of a tensor without axes");
    k = n->op == VRAM_OP_cosine_embedding_loss ? 2 : n->nin;
    for (i = 0; i < n->nin && i < k; i++)
      if (!vram__bcast(&m, size, n->in[i]->d))
        return vram__bad(g, n, "shapes do not broadcast");
    if (last)
      m--;
    if (n->op == VRAM_OP_cosine_embedding_loss) {
      t = n->nin > 2 ? n->in[2]->d : NULL;
      if (m > 1 || (t && (t->ndim != m || (m && t->v[0] != size[0]))))
        return vram__bad(g, n, "cosine_embedding_loss takes [N,D], [N,D] and [N]");
    }
    if (!vram__dims_of(g, m + (uint32_t)last, size)) /* the broadcast shape must fit as well */
      return 0;
  }
  if (n->op != VRAM_OP_cross_entropy && n->op != VRAM_OP_nll_loss && n->op != VRAM_OP_ctc_loss)
    for (i = 1; i < n->nin && i < (n->op == VRAM_OP_cosine_embedding_loss ? 2 : 3); i++)
      dt = vram__promote2(dt, n->in[i]->dtype);
  return vram__out(g, n, 0, none ? m : 0, size, dt);
}

/* An equation of einsum: every label gets a position, those of the result first (Linear.cpp). */
#define VRAM__MAX_LABELS 60u /* 52 letters and the axes of an ellipsis */

typedef struct vram__labels {
  const char *text;
  uint32_t len, nout, n; /* positions of the result, and in all */
  uint32_t dots;         /* axes of the ellipsis; their first position: */
  uint32_t dots_at;
  uint8_t at[52];    /* label -> position + 1 */
  uint8_t count[60]; /* operands whose axis at this position is not 1 */
  int64_t size[60];
} vram__labels;

static int vram__label(char c) {
  return c >= 'A' && c <= 'Z' ? c - 'A' : c >= 'a' && c <= 'z' ? c - 'a' + 26 : -1;
}

/* The positions of the axes of the operand whose labels begin at *p, which moves behind them and
   their comma. -1: they do not fit the operand. A position can come twice: a diagonal. */
static int vram__label_axes(const vram__labels *l, const char **p, uint32_t ndim, uint8_t *to) {
  const char *q = *p, *end = l->text + l->len;
  uint32_t letters = 0, m = 0, i;
  int dots = 0;
  for (; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.')
      dots = 1;
    else
      letters++;
  if (letters > ndim || (!dots && letters != ndim) || ndim - letters > l->dots)
    return -1;
  for (q = *p; q < end && *q != ',' && *q != '-'; q++)
    if (*q == '.') {
      for (i = l->dots - (ndim - letters); i < l->dots; i++)
        to[m++] = (uint8_t)(l->dots_at + i);
      q += 2;
    } else
      to[m++] = (uint8_t)(l->at[vram__label(*q)] - 1);
  *p = q < end && *q == ',' ? q + 1 : q;
  return 0;
}

/* Gives every label its position, and the sizes. 0: an equation that PyTorch rejects (*what). */
static int vram__label_all(vram__labels *l, const vram_node *n, const char **what) {
  uint32_t c, i, k, letters, used[52], dots_out = 0;
  const int64_t *v = vram__list(n, VRAM__KEY_equation, &c);
  const char *p, *end, *arrow = NULL;
  uint8_t axis[VRAM_MAX_AXES];
  vram__zero(l, sizeof *l);
  vram__zero(used, sizeof used);
  l->text = (const char *)(uintptr_t)v[0];
  l->len = (uint32_t)v[1];
  p = l->text, end = p + l->len;
  *what = "an equation with other signs than letters, commas, ... and ->";
  for (k = 0; k < n->nin; k++) { /* letters of the operands */
    int dots = 0;
    for (letters = 0; p < end && *p != ',' && *p != '-'; p++)
      if (*p == '.') {
        if (dots || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        dots = 1;
        p += 2;
      } else {
        if (vram__label(*p) < 0)
          return 0;
        used[vram__label(*p)]++;
        letters++;
      }
    if (dots && n->in[k]->d->ndim >= letters && n->in[k]->d->ndim - letters > l->dots)
      l->dots = n->in[k]->d->ndim - letters;
    if (k + 1 < n->nin) {
      *what = "other operands than the equation has";
      if (p == end || *p != ',')
        return 0;
      *what = "an equation with other signs than letters, commas, ... and ->";
      p++;
    }
  }
  if (p < end && *p == ',') {
    *what = "other operands than the equation has";
    return 0;
  }
  if (p < end) {
    if (end - p < 2 || p[1] != '>')
      return 0;
    arrow = p + 2;
  }
  if (arrow) {
    for (p = arrow; p < end; p++)
      if (*p == '.') {
        if (dots_out || end - p < 3 || p[1] != '.' || p[2] != '.')
          return 0;
        p += 2;
        l->dots_at = l->n, l->n += l->dots, dots_out = 1;
      } else {
        int a = vram__label(*p);
        if (a < 0)
          return 0;
        *what = "a label of the result that is there twice or in no operand";
        if (l->at[a] || !used[a])
          return 0;
        *what = "an equation with other signs than letters, commas, ... and ->";
        l->at[a] = (uint8_t)++l->n;
      }
  } else { /* the ellipsis, then every label that is there once, in alphabetical order */
    l->n = l->dots, dots_out = 1;
    for (i = 0; i < 52; i++)
      if (used[i] == 1)
        l->at[i] = (uint8_t)++l->n;
  }
  l->nout = l->n;
  if (!dots_out)
    l->dots_at = l->n, l->n += l->dots;
  for (i = 0; i < 52; i++)
    if (used[i] && !l->at[i])
      l->at[i] = (uint8_t)++l->n;
  for (i = 0; i < l->n; i++)
    l->size[i] = 1;
  for (p = l->text, k = 0; k < n->nin; k++) {
    const vram_dims *d = n->in[k]->d;
    uint64_t mine = 0;
    *what = "an operand of another number of axes than its labels";
    if (vram__label_axes(l, &p, d->ndim, axis))
      return 0;
    *what = "sizes that differ for one label";
    for (i = 0; i < d->ndim; i++) {
      int64_t *z = l->size + axis[i];
      if (d->v[i] != 1 && *z != 1 && *z != d->v[i])
        return 0;
      if (d->v[i] == 1)
        continue;
      *z = d->v[i];
      if (!(mine >> axis[i] & 1))
        l->count[axis[i]]++;
      mine |= UINT64_C(1) << axis[i];
    }
  }
  return 1;
}

static int vram__shape_einsum(vram_graph *g, vram_node *n) {
  vram__labels l;
  const char *what, *p;
  uint8_t axis[VRAM_MAX_AXES];
  uint64_t all = 0, mine;
  uint32_t k, i, wide;
  vram__promote pr;
  if (!vram__label_all(&l, n, &what))
    return vram__bad(g, n, what);
  vram__zero(&pr, sizeof pr);
  for (p = l.text, k = 0; k < n->nin; k++) { /* the widest tensor on the way */
    const vram_dims *d = n->in[k]->d;
    vram__promote_add(&pr, n->in[k]->dtype, d->ndim);
    vram__label_axes(&l, &p, d->ndim, axis);
    for (mine = 0, i = 0; i < d->ndim; i++)
      if (d->v[i] != 1)
        mine |= UINT64_C(1) << axis[i];
    all |= mine;
    for (wide = 0, i = 0; i < l.n; i++)
      wide += (uint32_t)(all >> i & 1);
    if (wide > VRAM_MAX_AXES)
      return vram__bad(g, n, "an intermediate result of more than 8 axes");
    for (i = l.nout; k && i < l.n; i++)
      if ((all >> i & 1) && (l.count[i] == 1 || ((mine >> i & 1) && --l.count[i] == 1)))
        all &= ~(UINT64_C(1) << i);
  }
  if (l.nout > VRAM_MAX_AXES)
    return vram__bad(g, n, "more than 8 axes");
  g->extra += (uint64_t)n->nin * 4096;
  return vram__out(g, n, 0, l.nout, l.size, vram__promote_get(&pr));
}

typedef struct vram__s vram__s;
typedef struct vram__run vram__run;
typedef struct vram__t vram__t;
typedef int (*vram__shape_fn)(vram_graph *, vram_node *);

VRAM__ONCE_END

typedef struct vram__op_row {
  const char *name, *recipe, *keys;
  vram__shape_fn shape;
  uint16_t lo, hi;
  uint8_t autocast;
} vram__op_row;
/* >>text form (Implementation) -----------------------------------------------------------------
   Lines are read in order. A loop's body is read once a round: the reader goes back to its first
   line. Names live in a hash table whose chains run through the caller's memory. */

typedef struct vram__sym {
  struct vram__sym *next; /* in its hash chain */
  const char *name;
  uint32_t len, hash;
  uint32_t depth; /* of the loop that it was defined in */
  vram_value *value;
  struct vram__sym *below; /* defined before this one in the same block */
} vram__sym;

typedef struct vram__loop {
  const char *body; /* first line of the block */
  uint32_t line;
  int64_t left, round;
  uint32_t body_line;
  vram__sym *mark; /* names defined before the block */
  vram__round *scope;
  const char *head; /* the `loop` line */
  uint32_t npair;
  struct {
    const char *name;
    uint32_t len;
    vram_value *value;
  } pair[64];
} vram__loop;

enum { VRAM__REQUIRED = 4 }; /* keys that a row requires are fewer */

typedef struct vram__parse {
  vram_graph *g;
  const char *p, *end; /* the current line, without its comment */
  const char *next;    /* the line behind it */
  const char *odd;     /* its first byte that is not printable, NULL: none */
  int tabs;            /* it has some */
  const char *start, *text_end;
  uint32_t line;
  vram__sym **table;
  uint32_t mask;
  vram__sym *top; /* last defined */
  vram__loop loop[VRAM_MAX_LOOPS];
  uint32_t depth;
  const char *tok;
  uint32_t len;
  const vram_dim *set;
  uint32_t nset;
  uint32_t rounds; /* of all loops so far */
  uint8_t *used;
  uint16_t op[64], key[64]; /* by hash: where a name was found */
  /* of each op that was looked up: 1, its required keys, 0 */
  uint8_t required[VRAM_OP_COUNT][VRAM__REQUIRED + 1];
} vram__parse;

static int vram__perr(vram__parse *q, const char *at, vram_result code, const char *what,
                      const char *found, uint32_t found_len, const char *expected) {
  vram_graph *g = q->g;
  if (!g->error.code) {
    vram__fail(g, code, what);
    if (found || expected) {
      vram__more(g, " (");
      if (found) {
        vram__more(g, "found ");
        if (!found_len)
          vram__more(g, "nothing");
        vram__more_n(g, found, found_len);
        if (expected)
          vram__more(g, ", ");
      }
      if (expected)
        vram__more(g, "expected "), vram__more(g, expected);
      vram__more(g, ")");
    }
  }
  if (!g->error.line) {
    g->error.line = q->line;
    g->error.column = at >= q->start && at <= q->text_end ? (uint32_t)(at - q->start) + 1 : 1;
  }
  return 0;
}

static vram_node *vram__perr_null(vram__parse *q, const char *at, vram_result code,
                                  const char *what, const char *found, uint32_t found_len,
                                  const char *expected) {
  vram__perr(q, at, code, what, found, found_len, expected);
  return NULL;
}

static int vram__name_start(char c) { return (uint8_t)((c | 32) - 'a') < 26 || c == '_'; }
static int vram__digit(char c) { return c >= '0' && c <= '9'; }
static int vram__name_char(char c) {
  return vram__name_start(c) || vram__digit(c) || c == '.' || c == '/';
}

/* The next word of the line; 0 at its end. */
static int vram__token(vram__parse *q) {
  while (q->p < q->end && (*q->p == ' ' || *q->p == '\t'))
    q->p++;
  q->tok = q->p;
  while (!q->tabs && q->end - q->p >= 8) {
    const uint64_t w = vram__eight(q->p), blank = VRAM__HOLDS(w, ' ');
    if (blank) {
      q->p += vram__lowest(blank);
      q->len = (uint32_t)(q->p - q->tok);
      return q->len != 0;
    }
    q->p += 8;
  }
  while (q->p < q->end && *q->p != ' ' && *q->p != '\t')
    q->p++;
  q->len = (uint32_t)(q->p - q->tok);
  return q->len != 0;
}

/* Eight bytes that a name may have behind its first. With bit 5 set letters are small, _ is 127. */
static inline int vram__name_eight(uint64_t w) {
  const uint64_t x = w | VRAM__EACH(32);
  const uint64_t ok = (VRAM__FROM(x, '.') & ~VRAM__FROM(x, '9' + 1)) |
                      (VRAM__FROM(x, 'a') & ~VRAM__FROM(x, 'z' + 1)) | VRAM__FROM(x, 127);
  return (ok & VRAM__FROM(w, '.') & ~VRAM__FROM(w, 127) & ~w & VRAM__HIGH) == VRAM__HIGH;
}

static int vram__is_name(const char *s, uint32_t n) {
  uint32_t i;
  if (!n || n > VRAM_MAX_NAME || !vram__name_start(s[0]))
    return 0;
  for (i = 1; i < n; i++)
    if (!vram__name_char(s[i]))
      return 0;
  return 1;
}

static uint32_t vram__hash(const char *s, uint32_t n) {
  uint64_t h = n;
  for (; n >= 8; s += 8, n -= 8)
    h = (h ^ vram__eight(s)) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
  for (; n; s++, n--)
    h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
  h = (h ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(h >> 32);
}

static vram__sym *vram__find_hashed(vram__parse *q, const char *s, uint32_t n, uint32_t h) {
  vram__sym *y = q->table ? q->table[h & q->mask] : NULL;
  for (; y; y = y->next) {
    if (y->hash != h || y->len != n)
      continue;
    if (vram__same_n(y->name, s, n))
      return y;
  }
  return NULL;
}

static const char *vram__keep(vram_graph *g, const char *s, uint32_t n) {
  char *t = (char *)vram__take(g, n);
  if (t)
    vram__copy(t, s, n);
  return t;
}

static vram__sym *vram__find(vram__parse *q, const char *s, uint32_t n) {
  return vram__find_hashed(q, s, n, vram__hash(s, n));
}

static int vram__define(vram__parse *q, const char *s, uint32_t n, vram_value *v, int carried) {
  const uint32_t h = vram__hash(s, n);
  vram__sym *old = vram__find_hashed(q, s, n, h), *y;
  if (old && !carried && old->depth == q->depth)
    return vram__perr(q, s, VRAM_ERR_NAME, "a name defined twice", s, n, "a new name");
  if (old && !carried)
    return vram__perr(q, s, VRAM_ERR_NAME, "a name defined outside the loop", s, n, "a new name");
  y = (vram__sym *)vram__take(q->g, sizeof *y);
  if (!y)
    return vram__perr(q, s, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  y->name = v->name_len == n && vram__same_n(v->name, s, n) ? v->name : vram__keep(q->g, s, n);
  if (!y->name)
    return vram__perr(q, s, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  y->len = n;
  y->hash = h;
  y->depth = q->depth;
  y->value = v;
  y->below = q->top;
  q->top = y;
  y->next = q->table[h & q->mask];
  q->table[h & q->mask] = y;
  return 1;
}

/* Forgets the names defined after `mark`. Chains are last in, first out. */
static void vram__forget(vram__parse *q, vram__sym *mark) {
  while (q->top != mark) {
    vram__sym *y = q->top;
    q->table[y->hash & q->mask] = y->next;
    q->top = y->below;
  }
}

/* size = product of integers and dims with * and exact / ; a leading minus where `neg` */
static int vram__size(vram__parse *q, const char *s, const char *e, int neg, int64_t *to) {
  const char *from = s;
  int minus = 0, divide = 0;
  uint64_t num = 1;
  if (neg && s < e && *s == '-')
    minus = 1, s++;
  for (;;) {
    uint64_t v = 0;
    const char *t = s;
    if (s < e && vram__digit(*s)) {
      for (; s < e && vram__digit(*s); s++)
        if ((v = vram__mul(v, 10)) == VRAM_OVERFLOW ||
            (v += (uint64_t)(*s - '0')) > (uint64_t)VRAM_MAX_BYTES)
          return vram__perr(q, t, VRAM_ERR_OVERFLOW, "a number of more than 63 bits", from,
                            (uint32_t)(e - from), NULL);
    } else if (s < e && vram__name_start(*s)) {
      uint32_t i;
      while (s < e && (vram__name_start(*s) || vram__digit(*s) || *s == '.'))
        s++;
      for (i = 0; i < q->g->ndim; i++)
        if (q->g->dim[i].len == (uint32_t)(s - t)) {
          uint32_t k = 0;
          while (k < q->g->dim[i].len && q->g->dim[i].name[k] == t[k])
            k++;
          if (k == q->g->dim[i].len)
            break;
        }
      if (i == q->g->ndim)
        return vram__perr(q, t, VRAM_ERR_NAME, "an unknown dim", t, (uint32_t)(s - t),
                          "a name of a dim line");
      v = (uint64_t)q->g->dim[i].value;
    } else
      return vram__perr(q, s, VRAM_ERR_SYNTAX, "not a size", from, (uint32_t)(e - from),
                        "integers and dims with * and /");
    if (divide) {
      if (!v || num % v)
        return vram__perr(q, t, VRAM_ERR_VALUE, "a division that leaves a rest", from,
                          (uint32_t)(e - from), "an exact one");
      num /= v;
    } else if ((num = vram__mul(num, v)) == VRAM_OVERFLOW)
      return vram__perr(q, t, VRAM_ERR_OVERFLOW, "a product of more than 63 bits", from,
                        (uint32_t)(e - from), NULL);
    if (s == e)
      break;
    if (*s != '*' && *s != '/')
      return vram__perr(q, s, VRAM_ERR_SYNTAX, "not a size", from, (uint32_t)(e - from),
                        "integers and dims with * and /");
    divide = *s++ == '/';
  }
  *to = minus ? -(int64_t)num : (int64_t)num;
  return 1;
}

/* A list of sizes, with or without brackets, into v[0..cap). */
static int vram__sizes(vram__parse *q, const char *s, const char *e, uint32_t cap, int64_t *v,
                       uint32_t *count) {
  const char *from = s;
  *count = 0;
  if (s < e && *s == '[') {
    if (e[-1] != ']')
      return vram__perr(q, s, VRAM_ERR_SYNTAX, "a shape that is not closed", s, (uint32_t)(e - s),
                        "[size,size,...]");
    s++, e--;
    if (s == e)
      return 1;
  }
  for (;;) {
    const char *t = s;
    while (s < e && *s != ',')
      s++;
    if (*count == cap)
      return vram__perr(q, from, VRAM_ERR_LIMIT, "too many values", from, (uint32_t)(e - from),
                        NULL);
    if (!vram__size(q, t, s, 1, v + (*count)++))
      return 0;
    if (s == e)
      return 1;
    s++;
  }
}

/* decimal number in units of 10^-9 */
static int vram__decimal(vram__parse *q, const char *s, const char *e, int64_t *to) {
  const char *from = s;
  int minus = 0, exp = 0, dot = 0, digits = 0, eneg = 0;
  uint64_t m = 0;
  if (s < e && (*s == '-' || *s == '+'))
    minus = *s++ == '-';
  for (; s < e && (vram__digit(*s) || (*s == '.' && !dot)); s++) {
    if (*s == '.') {
      dot = 1;
      continue;
    }
    digits++;
    if (m > UINT64_C(99999999999999999)) {
      if (!dot)
        exp++;
      continue;
    }
    m = m * 10 + (uint64_t)(*s - '0');
    if (dot)
      exp--;
  }
  if (digits && s < e && (*s == 'e' || *s == 'E')) {
    int x = 0;
    s++;
    if (s < e && (*s == '-' || *s == '+'))
      eneg = *s++ == '-';
    if (s == e)
      digits = 0;
    for (; s < e && vram__digit(*s); s++)
      x = x < 1000 ? x * 10 + (*s - '0') : x;
    exp += eneg ? -x : x;
  }
  if (!digits || s != e)
    return vram__perr(q, from, VRAM_ERR_SYNTAX, "not a number", from, (uint32_t)(e - from),
                      "a decimal number");
  exp += 9;
  while (exp > 0 && m && m < UINT64_C(900000000000000000))
    m *= 10, exp--;
  while (exp < 0 && m)
    m /= 10, exp++;
  if ((exp > 0 && m) || m > (uint64_t)INT64_MAX)
    m = (uint64_t)INT64_MAX;
  *to = minus ? -(int64_t)m : (int64_t)m;
  return 1;
}

static int vram__dtype_of(vram__parse *q, const char *s, uint32_t n, int64_t *to) {
  uint32_t i;
  for (i = VRAM_DTYPE_NONE + 1; i < VRAM_DTYPE_COUNT; i++)
    if (vram__same(s, n, vram__dtype_rows[i].name)) {
      *to = i;
      return 1;
    }
  *to = vram_dtype_from_name_n(s, n); /* float32, f8e4m3, Q4_K, ... */
  return *to != VRAM_DTYPE_NONE || vram__perr(q, s, VRAM_ERR_NAME, "an unknown dtype", s, n,
                                              "f32, bf16, i64, ... (vram list dtypes)");
}

/* Is `name` in the list of keys of an op? 2: and required */
static int vram__has_key(const char *keys, const char *name) {
  const char *k = keys;
  while (*k) {
    const char *n = name;
    while (*n && *k == *n)
      k++, n++;
    if (!*n && (*k == ' ' || *k == 0 || *k == '!'))
      return *k == '!' ? 2 : 1;
    while (*k && *k != ' ')
      k++;
    while (*k == ' ')
      k++;
  }
  return 0;
}

static const vram__op_row *vram__op_at(uint32_t op);
static int vram__is_lines(uint32_t op);

/* The key of that name, as vram__op_named. */
static uint32_t vram__key_named(vram__parse *q, const char *s, uint32_t n) {
  uint16_t *known = q->key + (vram__hash(s, n) & 63);
  uint32_t k = *known;
  if (k && vram__same(s, n, vram__key_table[k].name))
    return k;
  for (k = 1; k < VRAM__KEY_COUNT; k++)
    if (vram__same(s, n, vram__key_table[k].name))
      break;
  *known = (uint16_t)(k < VRAM__KEY_COUNT ? k : 0);
  return k;
}

/* One `key=value` of op row r into attr at *na. */
static int vram__key_value(vram__parse *q, const vram__op_row *r, const char *s, const char *e,
                           int64_t *attr, uint32_t cap, uint32_t *na) {
  const char *v = s;
  uint32_t k, count = 1, i;
  int64_t *to = attr + *na + 1;
  while (*v != '=')
    v++;
  k = vram__key_named(q, s, (uint32_t)(v - s));
  if (k == VRAM__KEY_COUNT || !vram__has_key(r->keys, vram__key_table[k].name))
    return vram__perr(q, s, VRAM_ERR_NAME, "the op has no such key", s, (uint32_t)(v - s),
                      *r->keys ? r->keys : "none");
  for (i = 0; i < *na; i += 1 + ((uint32_t)(attr[i] >> 8) & 0xffffu))
    if ((uint32_t)(attr[i] & 0xff) == k)
      return vram__perr(q, s, VRAM_ERR_NAME, "a key given twice", s, (uint32_t)(v - s), NULL);
  v++;
  if (cap - *na < 1 + VRAM_MAX_AXES * 2)
    return vram__perr(q, s, VRAM_ERR_LIMIT, "too many keys", NULL, 0, NULL);
  if (v == e)
    return vram__perr(q, v, VRAM_ERR_SYNTAX, "a key without a value", v, 0, "key=value");
  switch (vram__key_table[k].kind) {
  case 'B':
    if (e - v != 1 || (*v != '0' && *v != '1'))
      return vram__perr(q, v, VRAM_ERR_VALUE, "not a boolean", v, (uint32_t)(e - v), "0 or 1");
    *to = *v - '0';
    break;
  case 'I':
    if (!vram__size(q, v, e, 1, to))
      return 0;
    break;
  case 'L':
  case 'S':
    if (k == VRAM__KEY_padding && vram__has_key(r->keys, "padding_mode")) { /* convNd */
      const int same = vram__same(v, (uint32_t)(e - v), "same");
      if (same || vram__same(v, (uint32_t)(e - v), "valid")) {
        *to = same ? VRAM__SAME : 0;
        break;
      }
    }
    if (k == VRAM__KEY_split_size_or_sections || k == VRAM__KEY_pad) {
      if (!vram__sizes(q, v, e, cap - *na - 2, to, &count))
        return 0;
    } else if (!vram__sizes(q, v, e, VRAM_MAX_AXES, to, &count))
      return 0;
    if (!count && vram__key_table[k].kind == 'L' && k != VRAM__KEY_dim)
      return vram__perr(q, v, VRAM_ERR_VALUE, "an empty list", NULL, 0, "at least one value");
    break;
  case 'F':
    for (count = 0;; v += i + 1) { /* a list where a key is one for each axis */
      for (i = 0; v + i < e && v[i] != ','; i++)
        ;
      if (count == (k == VRAM__KEY_scale_factor ? 3 : 1))
        return vram__perr(q, v, VRAM_ERR_VALUE, "too many values", NULL, 0, NULL);
      if (!vram__decimal(q, v, v + i, to + count++))
        return 0;
      if (v + i == e)
        break;
    }
    break;
  case 'W':
    *to = vram__word(v, (uint32_t)(e - v));
    break;
  case 'D':
    if (!vram__dtype_of(q, v, (uint32_t)(e - v), to))
      return 0;
    break;
  case 'N': {
    vram__sym *y = vram__find(q, v, (uint32_t)(e - v));
    const vram_node *m = y ? y->value->node : NULL, *o;
    if (!q->table) /* built by calls: the latest node of that name */
      for (o = q->g->first; o; o = o->next)
        if (o->name_len == (uint32_t)(e - v) && vram__same_n(o->name, v, o->name_len))
          m = o;
    if (!m)
      return vram__perr(q, v, VRAM_ERR_NAME, "an unknown node", v, (uint32_t)(e - v),
                        "a node defined before");
    *to = (int64_t)(uintptr_t)m;
    break;
  }
  default: { /* Q: the text itself */
    const char *t = vram__keep(q->g, v, (uint32_t)(e - v));
    if (!t)
      return vram__perr(q, v, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    to[0] = (int64_t)(uintptr_t)t;
    to[1] = e - v;
    count = 2;
  }
  }
  attr[*na] = (int64_t)(k | count << 8);
  *na += 1 + count;
  return 1;
}

/* A node of op row `op` with these inputs and keys, its outputs still without shapes. */
static vram_node *vram__node(vram_graph *g, uint32_t op, vram_value **in, uint32_t nin,
                             uint32_t nout, const int64_t *attr, uint32_t na) {
  vram_node *n = (vram_node *)vram__take(g, sizeof *n);
  uint32_t i;
  if (!n)
    return NULL;
  if (g->nnode >= VRAM_MAX_NODES) {
    vram__fail(g, VRAM_ERR_LIMIT, "more than 2^24 nodes");
    return NULL;
  }
  vram__zero(n, sizeof *n);
  n->op = (uint16_t)op;
  n->nin = nin;
  n->nout = nout;
  n->nparam = op < VRAM_OP_COUNT &&
                      (op <= VRAM_OP_embedding || op == VRAM_OP_parameter || op == VRAM_OP_buffer ||
                       (op >= VRAM_OP_batch_norm && op <= VRAM_OP_group_norm))
                  ? 5
                  : 0;
  n->in = (vram_value **)vram__take(g, nin * sizeof *n->in);
  n->out = (vram_value *)vram__take(g, nout * sizeof *n->out);
  n->param = (vram_param **)vram__take(g, n->nparam * sizeof *n->param);
  if (!n->in || !n->out || !n->param)
    return NULL;
  vram__zero(n->param, n->nparam * sizeof *n->param);
  vram__zero(n->out, nout * sizeof *n->out);
  for (i = 0; i < nin; i++)
    n->in[i] = in[i];
  if (na) {
    int64_t *a = (int64_t *)vram__take(g, (na + 1) * sizeof *a);
    if (!a)
      return NULL;
    for (i = 0; i < na; i++)
      a[i] = attr[i];
    a[na] = 0;
    n->attr = a;
  }
  n->index = g->nnode++;
  if (nin > g->max_in)
    g->max_in = nin;
  if (nout > g->max_out)
    g->max_out = nout;
  for (i = 0; i < nin; i++)
    if (in[i]->last < n->index)
      in[i]->last = n->index; /* UINT32_MAX stays */
  for (i = 0; i < nout; i++) {
    n->out[i].node = n;
    n->out[i].index = g->nvalue++;
    n->out[i].last = n->index;
  }
  if (nout && !g->noutput)
    g->root = &n->out[0];
  if (VRAM__INT(n, inplace, 0))
    n->flags |= VRAM__INPLACE;
  n->prev = g->last;
  if (g->last)
    g->last->next = n;
  else
    g->first = n;
  g->last = n;
  return n;
}

static int vram__check(vram_graph *g, vram_node *n) {
  const vram__op_row *r = vram__op_at(n->op);
  uint32_t i;
  if (n->nin < r->lo || n->nin > r->hi) {
    vram__fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs (found ");
    vram__more_i(g, n->nin);
    vram__more(g, ", expected ");
    vram__more_i(g, r->lo);
    if (r->hi != r->lo)
      vram__more(g, " to "), vram__more_i(g, r->hi);
    vram__more(g, ")");
    return 0;
  }
  if (!r->shape(g, n))
    return 0;
  for (i = 0; i < n->nout; i++)
    if (!n->out[i].d) {
      vram__fail(g, VRAM_ERR_SYNTAX, "the op has fewer outputs than names");
      return 0;
    }
  return 1;
}

/* Adds a node of op `op`; outs[i] become its values. An op whose recipe is written in lines becomes
   one inner node a line and an end node that lets the temporaries go. */
static int vram__emit(vram__parse *q, uint32_t op, vram_value **in, uint32_t nin, uint32_t nout,
                      const int64_t *attr, uint32_t na, vram_node **node) {
  vram_graph *g = q->g;
  const vram__op_row *r = vram__op_at(op);
  const char *p = r->recipe, *name[16];
  vram_value *val[16], *all[40];
  uint32_t nn = 0, i, k;
  vram_node outer, *m = NULL;
  if (!vram__is_lines(op)) {
    *node = m = vram__node(g, op, in, nin, nout, attr, na);
    return m && vram__check(g, m);
  }
  vram__zero(&outer, sizeof outer);
  {
    int64_t *a = (int64_t *)vram__take(g, (na + 1) * sizeof *a);
    if (!a)
      return 0;
    for (i = 0; i < na; i++)
      a[i] = attr[i];
    a[na] = 0;
    outer.attr = a;
  }
  if (nin < r->lo || nin > r->hi || nout != 1) {
    vram__fail(g, VRAM_ERR_SYNTAX, "wrong number of inputs or outputs");
    return 0;
  }
  while (*p) {
    const char *w[16], *e;
    uint32_t wl[16], nw = 0, nk = 0, ni = 0, o, j, c;
    int64_t kv[64];
    vram_value *x[8];
    while (*p == ' ' || *p == ';')
      p++;
    w[0] = p, wl[0] = 0;
    while (*p && *p != ';') {
      w[nw] = p;
      while (*p && *p != ' ' && *p != ';')
        p++;
      wl[nw] = (uint32_t)(p - w[nw]);
      nw++;
      while (*p == ' ')
        p++;
    }
    if (vram__same(w[0], wl[0], "drop")) { /* a temporary that goes before the op returns */
      for (i = 1; i < nw; i++) {
        for (k = 0; *name[k] != *w[i];)
          k++;
        if (!vram__node(g, VRAM__OP_drop, &val[k], 1, 0, NULL, 0))
          return 0;
        nn--;
        name[k] = name[nn], val[k] = val[nn];
      }
      continue;
    }
    for (o = 0; !vram__same(w[0], wl[0], vram__op_at(o)->name);)
      o++;
    for (i = 2; i < nw; i++) {
      for (e = w[i]; e < w[i] + wl[i] && *e != '=';)
        e++;
      if (e == w[i] + wl[i]) {
        if (*w[i] == 'x')
          x[ni++] = in[w[i][1] - '0'];
        else
          for (k = 0; k < nn; k++)
            if (*name[k] == *w[i])
              x[ni++] = val[k];
      } else if (e[1] == '@') {
        const int64_t *v;
        for (k = 1; !vram__same(w[i], (uint32_t)(e - w[i]), vram__key_table[k].name);)
          k++;
        v = vram__list(&outer, k, &c);
        if (v) {
          kv[nk++] = (int64_t)(k | c << 8);
          for (j = 0; j < c; j++)
            kv[nk++] = v[j];
        }
      } else /* scalar=1: nothing that could fail */
        vram__key_value(q, vram__op_at(o), w[i], w[i] + wl[i], kv, 64, &nk);
    }
    if (!vram__emit(q, o, x, ni, 1, kv, nk, &m))
      return 0;
    m->flags |= VRAM_NODE_INNER;
    name[nn] = w[1], val[nn] = &m->out[0], nn++;
  }
  for (k = 0; k < nin; k++)
    all[k] = in[k];
  for (i = 0; i < nn; i++)
    all[k++] = val[i];
  *node = m;
  return vram__node(g, VRAM__OP_end, all, k, 0, NULL, 0) != NULL;
}

static const char *vram__line_end(const char *p, const char *end) {
  while (end - p >= 8 && !VRAM__HOLDS(vram__eight(p), '\n'))
    p += 8;
  while (p < end && *p != '\n')
    p++;
  return p;
}

/* Sets q up for the line that begins at s. */
static void vram__at_line(vram__parse *q, const char *s) {
  const char *const end = q->text_end;
  q->start = q->p = s;
  q->odd = NULL;
  q->tabs = 0;
  for (;; s++) {
    while (end - s >= 8) {
      const uint64_t w = vram__eight(s), special = (((w + VRAM__EACH(1)) | w) & VRAM__HIGH) |
                                                   VRAM__BELOW(w, 32) | VRAM__HOLDS(w, '#');
      if (special) {
        s += vram__lowest(special);
        break;
      }
      s += 8;
    }
    if (s == end || *s == '\n' || *s == '#')
      break;
    q->tabs |= *s == '\t';
    if (((uint8_t)*s < 32 ? *s != '\t' : (uint8_t)*s > 126) && !q->odd)
      q->odd = s;
  }
  q->end = s;
  q->next = s < end && *s == '#' ? vram__line_end(s, end) : s;
  while (q->end > q->start && (q->end[-1] == ' ' || q->end[-1] == '\t' || q->end[-1] == '\r'))
    q->end--;
  if (q->odd && q->odd >= q->end)
    q->odd = NULL;
  if (q->next < end)
    q->next++;
}

static vram_value *vram__value_of(vram__parse *q, const char *s, uint32_t n) {
  vram__sym *y = vram__find(q, s, n);
  if (!y) {
    vram__perr(q, s, VRAM_ERR_NAME, "an undefined name", s, n,
               "an input or the output of a node above");
    return NULL;
  }
  return y->value;
}

static vram_value *vram__new_input(vram_graph *g, const char *name, uint32_t len, uint8_t dtype,
                                   uint32_t ndim, const int64_t *size) {
  vram_value *v = (vram_value *)vram__take(g, sizeof *v);
  vram_value **list = g->input;
  uint32_t i;
  if (!(g->ninput & (g->ninput - 1))) /* full: twice as long */
    list = (vram_value **)vram__take(g, (g->ninput ? 2 * (uint64_t)g->ninput : 1) * sizeof *list);
  if (!v || !list)
    return NULL;
  vram__zero(v, sizeof *v);
  v->d = vram__dims_of(g, ndim, size);
  v->name = vram__keep(g, name, len);
  if (!v->d || !v->name || !vram__whole_blocks(g, v->d, dtype))
    return NULL;
  v->name_len = (uint8_t)len;
  v->index = g->nvalue++;
  v->last = UINT32_MAX;
  v->dtype = dtype;
  for (i = 0; list != g->input && i < g->ninput; i++)
    list[i] = g->input[i];
  list[g->ninput++] = v;
  g->input = list;
  return v;
}

static int vram__input_line(vram__parse *q) {
  vram_graph *g = q->g;
  const char *name;
  uint32_t nlen, c;
  int64_t dt, size[VRAM_MAX_AXES];
  vram_value *v;
  if (q->depth)
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "input inside a loop", NULL, 0, NULL);
  if (!vram__token(q) || !vram__is_name(q->tok, q->len))
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "not a name", q->tok, q->len,
                      "input NAME DTYPE SHAPE");
  name = q->tok, nlen = q->len;
  if (!vram__token(q))
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "an input without dtype", q->tok, 0, "a dtype");
  if (!vram__dtype_of(q, q->tok, q->len, &dt))
    return 0;
  if (!vram__token(q) || *q->tok != '[')
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "an input without shape", q->tok, q->len,
                      "[size,size,...]");
  if (!vram__sizes(q, q->tok, q->tok + q->len, VRAM_MAX_AXES, size, &c))
    return 0;
  v = vram__new_input(g, name, nlen, (uint8_t)dt, c, size);
  if (!v)
    return vram__perr(q, q->tok, VRAM_ERR_SHAPE, "", NULL, 0, NULL);
  while (vram__token(q)) {
    if (vram__same(q->tok, q->len, "grad=1"))
      v->flags |= VRAM__GRAD;
    else if (!vram__same(q->tok, q->len, "grad=0"))
      return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "an unknown word", q->tok, q->len,
                        "grad=1 or nothing");
  }
  if ((v->flags & VRAM__GRAD) && vram__kind_rank(v->dtype) < 2)
    return vram__perr(q, q->start, VRAM_ERR_VALUE, "grad=1 on an input that is not floating point",
                      NULL, 0, NULL);
  return vram__define(q, name, nlen, v, 0);
}

static int vram__dim_line(vram__parse *q) {
  vram_graph *g = q->g;
  while (vram__token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    uint32_t i;
    int64_t v;
    while (e < end && *e != '=')
      e++;
    if (!vram__is_name(q->tok, (uint32_t)(e - q->tok)) || e == end || e + 1 == end)
      return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "not a dim", q->tok, q->len, "NAME=INTEGER");
    if (!vram__size(q, e + 1, end, 0, &v))
      return 0;
    for (i = 0; i < g->ndim; i++)
      if (g->dim[i].len == (uint32_t)(e - q->tok)) {
        uint32_t k = 0;
        while (k < g->dim[i].len && g->dim[i].name[k] == q->tok[k])
          k++;
        if (k == g->dim[i].len)
          return vram__perr(q, q->tok, VRAM_ERR_NAME, "a dim defined twice", q->tok, g->dim[i].len,
                            "a new name");
      }
    if (g->ndim == VRAM_MAX_DIMS)
      return vram__perr(q, q->tok, VRAM_ERR_LIMIT, "more than 64 dims", NULL, 0, NULL);
    for (i = 0; i < q->nset; i++) {
      const char *z = q->set[i].name;
      if (z ? vram__same(q->tok, (uint32_t)(e - q->tok), z) : !g->ndim) {
        v = q->set[i].value;
        q->used[i] = 1;
      }
    }
    if (v < 0)
      return vram__perr(q, q->tok, VRAM_ERR_VALUE, "a dim below 0", q->tok, q->len, NULL);
    g->dim[g->ndim].name = vram__keep(g, q->tok, (uint32_t)(e - q->tok));
    if (!g->dim[g->ndim].name)
      return vram__perr(q, q->tok, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    g->dim[g->ndim].len = (uint32_t)(e - q->tok);
    g->dim[g->ndim++].value = v;
  }
  return 1;
}

/* A node of op `op` with these names, inputs and keys; at: where errors point to. */
/* The keys marked ! in a row, ended by 0; looked up once for each op of a text. */
static const uint8_t *vram__required(vram__parse *q, uint32_t op, const char *k) {
  uint8_t *known = q->required[op];
  uint32_t n = 1;
  if (*known)
    return known + 1;
  *known = 1;
  while (*k) {
    const char *e = k;
    while (*e && *e != ' ' && *e != '!')
      e++;
    if (*e == '!' && n < VRAM__REQUIRED)
      known[n++] = (uint8_t)vram__key_named(q, k, (uint32_t)(e - k));
    while (*e && *e != ' ')
      e++;
    while (*e == ' ')
      e++;
    k = e;
  }
  return known + 1;
}

static vram_node *vram__add(vram__parse *q, uint32_t op, const char *names, const char *names_end,
                            vram_value **in, uint32_t nin, const int64_t *attr, uint32_t na,
                            const char *at) {
  vram_graph *g = q->g;
  const vram__op_row *r = vram__op_at(op);
  vram_node *n, *before = g->last;
  uint32_t i, nout = 0;
  const char *s;
  for (s = names; s <= names_end; s++) {
    const char *t = s;
    while (names_end - s >= 8 && vram__name_eight(vram__eight(s)))
      s += 8;
    while (s < names_end && vram__name_char(*s))
      s++;
    if ((s < names_end && *s != ',') || t == s || !vram__name_start(*t) || s - t > VRAM_MAX_NAME) {
      while (s < names_end && *s != ',')
        s++;
      vram__perr(q, t, VRAM_ERR_SYNTAX, "not a name", t, (uint32_t)(s - t),
                 "letters, digits, _ . /, at most 255");
      return NULL;
    }
    nout++;
  }
  /* a weight given as an input stands for the required keys */
  if (!(nin > 1 && (op == VRAM_OP_linear || op == VRAM_OP_embedding))) {
    const uint8_t *need = vram__required(q, op, r->keys);
    for (; *need; need++) {
      for (i = 0; i < na; i += 1 + ((uint32_t)(attr[i] >> 8) & 0xffffu))
        if ((uint32_t)(attr[i] & 0xff) == *need)
          break;
      if (i >= na)
        return vram__perr_null(q, at, VRAM_ERR_SYNTAX, "a required key is missing", NULL, 0,
                               vram__key_table[*need].name);
    }
  }
  if (!vram__emit(q, op, in, nin, nout, attr, na, &n))
    return vram__perr_null(q, at, VRAM_ERR_SHAPE, "", NULL, 0, NULL);
  for (i = 0, s = names; i < nout; i++, s++) {
    const char *t = s;
    vram_value *v = &n->out[i];
    if (nout == 1)
      s = names_end;
    while (s < names_end && *s != ',')
      s++;
    v->name = vram__keep(g, t, (uint32_t)(s - t));
    v->name_len = (uint8_t)(s - t);
    if (!v->name || (q->table && !vram__define(q, t, (uint32_t)(s - t), v, 0)))
      return vram__perr_null(q, t, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  }
  for (before = before ? before->next : g->first; before; before = before->next) {
    if (r->shape == vram__shape_loss)
      before->flags |= VRAM__LOSS;
    before->name = n->out[0].name;
    before->name_len = n->out[0].name_len;
    before->line = q->line;
    before->round = q->depth ? q->loop[q->depth - 1].scope : NULL;
  }
  return n;
}

/* The op of that name; VRAM_OP_COUNT: there is none. A model has few ops: where each of them was
   found is remembered. */
static uint32_t vram__op_named(vram__parse *q, const char *s, uint32_t n) {
  uint16_t *known = q->op + (vram__hash(s, n) & 63);
  uint32_t op = *known;
  if (vram__same(s, n, vram__op_at(op)->name))
    return op;
  for (op = 0; op < VRAM_OP_COUNT; op++)
    if (vram__op_at(op)->name[0] == *s && vram__same(s, n, vram__op_at(op)->name))
      break;
  *known = (uint16_t)(op < VRAM_OP_COUNT ? op : 0);
  return op;
}

static int vram__op_line(vram__parse *q) {
  uint32_t nin = 0, na = 0;
  const char *names, *names_end, *at = q->tok;
  const vram__op_row *r;
  int64_t attr[1024];
  vram_value *in[1024];
  const uint32_t op = vram__op_named(q, at, q->len);
  if (op == VRAM_OP_COUNT)
    return vram__perr(q, at, VRAM_ERR_NAME, "an unknown op", at, q->len,
                      "an op of `vram list ops`");
  r = vram__op_at(op);
  if (!vram__token(q))
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "a node without a name", q->tok, 0,
                      "OP NAME INPUTS KEY=VALUE");
  names = q->tok, names_end = q->tok + q->len;
  while (vram__token(q)) {
    if (vram__holds(q->tok, q->len, '=')) {
      if (!vram__key_value(q, r, q->tok, q->tok + q->len, attr, 1000, &na))
        return 0;
    } else {
      if (na)
        return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "an input behind a key", q->tok, q->len,
                          "KEY=VALUE");
      if (nin == 1024)
        return vram__perr(q, q->tok, VRAM_ERR_LIMIT, "more than 1024 inputs", NULL, 0, NULL);
      if (!(in[nin++] = vram__value_of(q, q->tok, q->len)))
        return 0;
    }
  }
  return vram__add(q, op, names, names_end, in, nin, attr, na, at) != NULL;
}

/* `output` and `drop` lines */
static int vram__names_line(vram__parse *q, int drop) {
  vram_value *in[1024];
  uint32_t n = 0;
  const char *at = q->tok;
  while (vram__token(q)) {
    if (n == 1024)
      return vram__perr(q, q->tok, VRAM_ERR_LIMIT, "more than 1024 names", NULL, 0, NULL);
    if (!(in[n++] = vram__value_of(q, q->tok, q->len)))
      return 0;
  }
  if (!n)
    return vram__perr(q, at, VRAM_ERR_SYNTAX, "a line without names", NULL, 0, "at least one");
  if (drop) {
    vram_node *m = vram__node(q->g, VRAM__OP_drop, in, n, 0, NULL, 0);
    if (!m)
      return vram__perr(q, at, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    m->name = "drop", m->name_len = 4, m->line = q->line;
    return 1;
  }
  if (q->g->noutput)
    return vram__perr(q, at, VRAM_ERR_SYNTAX, "a second output line", NULL, 0, NULL);
  q->g->noutput = n;
  q->g->root = in[0];
  while (n--)
    in[n]->flags |= VRAM__OUTPUT, in[n]->last = UINT32_MAX;
  return 1;
}

static int vram__begin_round(vram__parse *q, vram__loop *l) {
  vram__round *r = (vram__round *)vram__take(q->g, sizeof *r);
  if (!r)
    return vram__perr(q, q->start, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  if (++q->rounds > VRAM_MAX_NODES)
    return vram__perr(q, q->start, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", NULL, 0, NULL);
  r->up = q->depth > 1 ? q->loop[q->depth - 2].scope : NULL;
  r->round = (uint32_t)l->round;
  l->scope = r;
  return 1;
}

static int vram__loop_line(vram__parse *q) {
  vram__loop *l;
  int64_t size;
  uint64_t rounds;
  vram_value *v[64];
  const char *name[64];
  uint32_t len[64], n = 0, i;
  const char *at = q->tok;
  if (!vram__token(q))
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "a loop without a count", q->tok, 0,
                      "loop SIZE NAME=NAME ...");
  if (!vram__size(q, q->tok, q->tok + q->len, 0, &size))
    return 0;
  rounds = (uint64_t)size;
  for (i = 0; i < q->depth; i++)
    rounds = vram__mul(rounds, (uint64_t)q->loop[i].left);
  if (rounds > VRAM_MAX_NODES)
    return vram__perr(q, q->tok, VRAM_ERR_LIMIT, "more than 2^24 rounds of loops", q->tok, q->len,
                      NULL);
  if (q->depth == VRAM_MAX_LOOPS)
    return vram__perr(q, at, VRAM_ERR_LIMIT, "more than 16 loops inside one another", NULL, 0,
                      NULL);
  while (vram__token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    while (e < end && *e != '=')
      e++;
    if (n == 64)
      return vram__perr(q, q->tok, VRAM_ERR_LIMIT, "more than 64 carried names", NULL, 0, NULL);
    if (e == end || !vram__is_name(q->tok, (uint32_t)(e - q->tok)))
      return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "not a carried name", q->tok, q->len,
                        "NAME=NAME");
    name[n] = q->tok, len[n] = (uint32_t)(e - q->tok);
    if (!(v[n++] = vram__value_of(q, e + 1, (uint32_t)(end - e - 1))))
      return 0;
  }
  l = &q->loop[q->depth++];
  l->left = size;
  l->round = 0;
  l->line = q->line;
  l->head = q->start;
  l->mark = q->top;
  l->npair = n;
  for (i = 0; i < n; i++) {
    l->pair[i].name = name[i], l->pair[i].len = len[i], l->pair[i].value = v[i];
    if (!vram__define(q, name[i], len[i], v[i], 1))
      return 0;
  }
  l->body = NULL;
  return vram__begin_round(q, l);
}

/* `next` ends a round: the carried names take their new values, and the body begins again or the
   block ends. `*again`: where to go on, NULL: behind this line. */
static int vram__next_line(vram__parse *q, const char **again) {
  vram__loop *l;
  vram_value *v[64];
  uint32_t i, seen = 0;
  *again = NULL;
  if (!q->depth)
    return vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "next without loop", NULL, 0, NULL);
  l = &q->loop[q->depth - 1];
  for (i = 0; i < l->npair; i++)
    v[i] = l->pair[i].value;
  while (vram__token(q)) {
    const char *e = q->tok, *end = q->tok + q->len;
    while (e < end && *e != '=')
      e++;
    for (i = 0; i < l->npair; i++)
      if (l->pair[i].len == (uint32_t)(e - q->tok)) {
        uint32_t k = 0;
        while (k < l->pair[i].len && l->pair[i].name[k] == q->tok[k])
          k++;
        if (k == l->pair[i].len)
          break;
      }
    if (e == end || i == l->npair)
      return vram__perr(q, q->tok, VRAM_ERR_NAME, "not a carried name of the loop", q->tok,
                        (uint32_t)(e - q->tok), "NAME=NAME, the first one of the loop line");
    if (!(v[i] = vram__value_of(q, e + 1, (uint32_t)(end - e - 1))))
      return 0;
    seen++;
  }
  if (seen < l->npair)
    return vram__perr(q, q->start, VRAM_ERR_SYNTAX, "a carried name without its next value",
                      l->pair[0].name, l->pair[0].len, NULL);
  vram__forget(q, l->mark);
  l->round++;
  for (i = 0; i < l->npair; i++)
    l->pair[i].value = v[i];
  if (l->round < l->left) {
    for (i = 0; i < l->npair; i++)
      if (!vram__define(q, l->pair[i].name, l->pair[i].len, v[i], 1))
        return 0;
    *again = l->body;
    return vram__begin_round(q, l);
  }
  q->depth--;
  for (i = 0; i < l->npair; i++)
    if (!vram__define(q, l->pair[i].name, l->pair[i].len, v[i], 1))
      return 0;
  return 1;
}

/* Goes behind the `next` that belongs to a loop of no rounds. */
static const char *vram__skip_block(vram__parse *q, const char *s) {
  uint32_t depth = 1;
  while (s < q->text_end) {
    vram__at_line(q, s);
    q->line++;
    if (vram__token(q)) {
      if (vram__same(q->tok, q->len, "loop"))
        depth++;
      if (vram__same(q->tok, q->len, "next") && --depth == 0)
        return s;
    }
    s = q->next;
  }
  return NULL;
}

static int vram__lines(vram__parse *q, const char *text, uint64_t len) {
  vram_graph *g = q->g;
  const char *s = text, *again;
  q->text_end = text + len;
  q->line = 0;
  while (s < q->text_end) {
    vram__at_line(q, s);
    q->line++;
    if (q->odd)
      return vram__perr(q, q->odd, VRAM_ERR_SYNTAX, "a byte that is not printable ASCII", NULL, 0,
                        "text");
    if (vram__token(q)) {
      int ok = 1;
      again = NULL;
      if (vram__same(q->tok, q->len, "model")) {
        if (g->name)
          ok = vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "a second model line", NULL, 0, NULL);
        else if (!vram__token(q) || q->len > VRAM_MAX_NAME)
          ok = vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "not a name", q->tok, q->len, "model NAME");
        else {
          g->name = vram__keep(g, q->tok, q->len), g->name_len = q->len;
          if (vram__token(q))
            ok = vram__perr(q, q->tok, VRAM_ERR_SYNTAX, "an unknown word", q->tok, q->len,
                            "the end of the line");
        }
      } else if (vram__same(q->tok, q->len, "dim"))
        ok = vram__dim_line(q);
      else if (vram__same(q->tok, q->len, "input"))
        ok = vram__input_line(q);
      else if (vram__same(q->tok, q->len, "output"))
        ok = vram__names_line(q, 0);
      else if (vram__same(q->tok, q->len, "drop"))
        ok = vram__names_line(q, 1);
      else if (vram__same(q->tok, q->len, "loop")) {
        ok = vram__loop_line(q);
        if (ok) {
          vram__loop *l = &q->loop[q->depth - 1];
          l->body = q->next;
          l->body_line = q->line;
          if (!l->left) {
            s = vram__skip_block(q, l->body);
            if (!s) {
              q->line = l->line, q->start = l->head;
              return vram__perr(q, l->head, VRAM_ERR_SYNTAX, "a loop without next", NULL, 0, NULL);
            }
            q->depth--;
          }
        }
      } else if (vram__same(q->tok, q->len, "next")) {
        vram__loop *l = q->depth ? &q->loop[q->depth - 1] : NULL;
        ok = vram__next_line(q, &again);
        if (ok && again) {
          s = again;
          q->line = l->body_line;
          continue;
        }
      } else
        ok = vram__op_line(q);
      if (!ok || g->error.code)
        return vram__perr(q, q->tok, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
    }
    s = q->next;
  }
  if (q->depth) {
    q->line = q->loop[q->depth - 1].line;
    q->start = q->loop[q->depth - 1].head;
    return vram__perr(q, q->start, VRAM_ERR_SYNTAX, "a loop without next", NULL, 0, NULL);
  }
  return 1;
}

VRAM_API const char *vram_result_text(vram_result r) {
  static const char *const text[VRAM_RESULT_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_RESULTS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)r < VRAM_RESULT_COUNT ? text[r] : "?";
}

VRAM_API vram_result vram_graph_init(vram_graph *g, void *mem, uint64_t bytes) {
  uint64_t skip = (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  vram__zero(g, sizeof *g);
  if (mem && bytes > skip) {
    g->mem = (uint8_t *)mem + skip;
    g->cap = bytes - skip;
  }
  return VRAM_OK;
}

VRAM_API vram_value *vram_input(vram_graph *g, const char *name, vram_dtype dtype, uint32_t ndim,
                                const int64_t *size, int grad) {
  vram_value *v;
  if (g->error.code)
    return NULL;
  if (!name || !vram__is_name(name, vram__len(name)) || dtype <= VRAM_DTYPE_NONE ||
      dtype >= VRAM_DTYPE_COUNT || ndim > VRAM_MAX_AXES) {
    vram__fail(g, VRAM_ERR_VALUE, "an input without a proper name, dtype or number of axes");
    return NULL;
  }
  v = vram__new_input(g, name, vram__len(name), (uint8_t)dtype, ndim, size);
  if (v && grad && vram__kind_rank(v->dtype) < 2) {
    vram__fail(g, VRAM_ERR_VALUE, "a gradient for an input that is not floating point");
    return NULL;
  }
  if (v && grad)
    v->flags |= VRAM__GRAD;
  return v;
}

VRAM_API vram_node *vram_apply(vram_graph *g, vram_op op, const char *names, vram_value *const *in,
                               uint32_t nin, const char *keys) {
  vram__parse q;
  int64_t attr[1024];
  vram_value *x[1024];
  uint32_t na = 0, i;
  if (g->error.code)
    return NULL;
  vram__zero(&q, sizeof q);
  q.g = g;
  q.tabs = 1; /* perhaps */
  q.start = q.p = keys ? keys : "";
  q.end = q.text_end = q.start + vram__len(q.start);
  if ((uint32_t)op >= VRAM_OP_COUNT || nin > 1024 || !names) {
    vram__fail(g, VRAM_ERR_VALUE,
               names ? "an unknown op, or more than 1024 inputs" : "a node without a name");
    return NULL;
  }
  for (i = 0; i < nin; i++) {
    x[i] = in[i];
    if (!x[i]) {
      vram__fail(g, VRAM_ERR_VALUE, "an input that is NULL");
      return NULL;
    }
  }
  while (vram__token(&q)) {
    uint32_t k = 0;
    while (k < q.len && q.tok[k] != '=')
      k++;
    if (k == q.len)
      return vram__perr_null(&q, q.tok, VRAM_ERR_SYNTAX, "not a key", q.tok, q.len, "KEY=VALUE");
    if (!vram__key_value(&q, vram__op_at(op), q.tok, q.tok + q.len, attr, 1000, &na))
      return NULL;
  }
  return vram__add(&q, op, names, names + vram__len(names), x, nin, attr, na, q.start);
}

VRAM_API uint32_t vram_node_name(const vram_node *n, char *to, uint32_t cap) {
  const vram__round *r, *round[VRAM_MAX_LOOPS];
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t k = 0, len = 0, copied = 0;
  name[0] = 0;
  if (n)
    vram__put(name, sizeof name, &len, n->name, n->name_len);
  for (r = n ? n->round : NULL; r && k < VRAM_MAX_LOOPS; r = r->up)
    round[k++] = r;
  while (k) {
    vram__puts(name, sizeof name, &len, "[");
    vram__puti(name, sizeof name, &len, round[--k]->round);
    vram__puts(name, sizeof name, &len, "]");
  }
  if (cap)
    vram__put(to, cap, &copied, name, len);
  return len;
}

VRAM_API vram_value *vram_out(vram_node *n, uint32_t i) {
  return n && i < n->nout ? n->out + i : NULL;
}

VRAM_API vram_result vram_output(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  if (!g->error.code && (g->noutput || !n))
    vram__fail(g, VRAM_ERR_VALUE, n ? "outputs named twice" : "no output");
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__fail(g, VRAM_ERR_VALUE, "an output that is NULL");
  if (g->error.code)
    return g->error.code;
  g->root = v[0];
  g->noutput = n;
  while (n--)
    v[n]->flags |= VRAM__OUTPUT, v[n]->last = UINT32_MAX;
  return VRAM_OK;
}

VRAM_API vram_result vram_drop(vram_graph *g, vram_value *const *v, uint32_t n) {
  vram_value *in[64];
  vram_node *m;
  uint32_t i;
  while (n && !g->error.code) {
    for (i = 0; i < n && i < 64; i++)
      if (!(in[i] = v[i]))
        vram__fail(g, VRAM_ERR_VALUE, "a dropped value that is NULL");
    if (g->error.code)
      break;
    m = vram__node(g, VRAM__OP_drop, in, i, 0, NULL, 0);
    if (m)
      m->name = "drop", m->name_len = 4;
    v += i, n -= i;
  }
  return g->error.code;
}

/* Goes over the lines once, dims and loop counts alone are read; a node costs at most so much. */
VRAM_API uint64_t vram_parse_bytes(const char *text, uint64_t len, const vram_dim *set,
                                   uint32_t nset) {
  uint64_t mem[VRAM_MAX_DIMS * (VRAM_MAX_NAME + 9) / 8];
  uint8_t used[VRAM_MAX_DIMS];
  uint64_t total = 65536, times[VRAM_MAX_LOOPS + 1], depth = 0;
  uint64_t skipped = 0; /* depth of a loop of no rounds around the line, 0: none */
  const char *s = text, *c;
  vram_graph g;
  vram__parse q;
  vram_graph_init(&g, mem, sizeof mem);
  vram__zero(&q, sizeof q);
  q.g = &g;
  q.set = set;
  q.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS;
  q.used = used;
  q.text_end = text + len;
  times[0] = 1;
  while (s < q.text_end && !g.error.code) {
    vram__at_line(&q, s);
    if (vram__token(&q)) {
      uint64_t cost = 2048 + 40 * (uint64_t)(q.end - q.start);
      int64_t count = 1;
      if (vram__same(q.tok, q.len, "next") && depth) {
        if (depth-- == skipped)
          skipped = 0;
      } else if (vram__same(q.tok, q.len, "loop")) {
        depth++;
        if (!skipped) {
          if (depth > VRAM_MAX_LOOPS)
            break; /* here vram_parse stops, too */
          if (vram__token(&q))
            vram__size(&q, q.tok, q.tok + q.len, 0, &count);
          times[depth] = vram__mul(times[depth - 1], (uint64_t)count);
          if (times[depth] > VRAM_MAX_NODES)
            break;
          if (!count)
            skipped = depth;
        }
      } else if (vram__same(q.tok, q.len, "dim") && !skipped)
        vram__dim_line(&q);
      for (c = q.start; c < q.end && !skipped; c++)
        if (*c == ',')
          cost += 512;
      cost = skipped ? 0 : vram__mul(cost, times[depth]);
      if (cost > (uint64_t)VRAM_MAX_BYTES - total)
        return 0;
      total += cost;
    }
    s = q.next;
  }
  return vram__plus(total, len); /* the table of names */
}

VRAM_API vram_result vram_parse(vram_graph *g, const char *text, uint64_t len, const vram_dim *set,
                                uint32_t nset, vram_error *err) {
  vram__parse q;
  uint64_t i, size;
  uint8_t used[VRAM_MAX_DIMS];
  int ok;
  vram__zero(&q, sizeof q);
  vram__zero(used, sizeof used);
  q.g = g;
  q.start = text;
  q.set = set, q.nset = nset < VRAM_MAX_DIMS ? nset : VRAM_MAX_DIMS, q.used = used;
  if (nset > VRAM_MAX_DIMS)
    vram__fail(g, VRAM_ERR_LIMIT, "more than 64 dims");
  for (size = 16; size < len / 32;) /* names: a line has about so many bytes */
    size *= 2;
  q.mask = (uint32_t)size - 1;
  q.table = (vram__sym **)vram__take(g, size * sizeof *q.table);
  ok = q.table != NULL && !g->error.code;
  if (ok)
    vram__zero(q.table, size * sizeof *q.table);
  ok = ok && vram__lines(&q, text, len);
  for (i = 0; ok && i < q.nset; i++)
    if (!used[i]) {
      vram__no_dim(g, set[i].name ? set[i].name : "(batch)");
      ok = 0;
    }
  if (ok && !g->root) {
    vram__fail(g, VRAM_ERR_SYNTAX, "a model without nodes (expected OP OUTPUTS INPUTS ... lines)");
    g->error.line = q.line ? q.line : 1;
    g->error.column = 1;
  }
  if (err)
    *err = g->error;
  return g->error.code;
}
/* >>event (Implementation) --------------------------------------------------------------------- */

VRAM_API const char *vram_action_name(vram_action action) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_ACTIONS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)action < VRAM_ACTION_COUNT ? name[action] : "?";
}

VRAM_API const char *vram_category_name(vram_category category) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_CATEGORIES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)category < VRAM_CATEGORY_COUNT ? name[category] : "?";
}

VRAM_API const char *vram_phase_name(vram_phase phase) {
  static const char *const name[] = {
#define VRAM__X(id, text) text,
      VRAM_PHASES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)phase < VRAM_PHASE_COUNT ? name[phase] : "?";
}

static uint32_t vram__category_of(vram_category category) {
  return (uint32_t)category < VRAM_CATEGORY_COUNT ? (uint32_t)category
                                                  : (uint32_t)VRAM_CATEGORY_OTHER;
}

/* >>ledger (Implementation) --------------------------------------------------------------------
   Tables are open: the next free place from where the hash points. What is taken out is filled from
   behind, so that a search ends at the first empty place. */

#define VRAM__LEDGER_MOST (UINT32_C(1) << 28) /* of anything that options count */

/* Allocations of one owner and size on one device. */
typedef struct vram__group {
  uint64_t bytes;
  int64_t now, then; /* how many, now and at the mark */
  uint32_t owner;
  uint32_t device; /* and 1; 0: an empty place */
} vram__group;

/* What is alive and in no table. */
typedef struct vram__lost {
  uint64_t count, bytes, block_bytes;
} vram__lost;

#define VRAM__LIVE_VARIOUS 8u /* counted in vram_ledger.various */
#define VRAM__LIVE_BY_ID 16u  /* it has no address */

static void vram__ledger_lock(vram_ledger *l) {
  if (l->options.lock)
    l->options.lock(l->options.user);
}

static void vram__ledger_unlock(vram_ledger *l) {
  if (l->options.unlock)
    l->options.unlock(l->options.user);
}

static inline uint64_t vram__mix(uint64_t x) {
  x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
  x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ x >> 33;
}

/* Places of a table for n: a power of two, a quarter empty. */
static uint32_t vram__table_size(uint32_t n) {
  uint32_t places = 4;
  while (places - places / 4 < n)
    places *= 2;
  return places;
}

static vram_result vram__ledger_resolve(const vram_ledger_options *o, vram_ledger_options *to) {
  vram__zero(to, sizeof *to);
  if (o)
    *to = *o;
  to->live = to->live ? to->live : 1024;
  to->owners = to->owners ? to->owners : 255;
  to->devices = to->devices ? to->devices : 1;
  if (to->live > VRAM__LEDGER_MOST || to->owners > VRAM__LEDGER_MOST ||
      to->groups > VRAM__LEDGER_MOST || to->trace > VRAM__LEDGER_MOST || to->devices >= VRAM_HOST ||
      !to->lock != !to->unlock)
    return VRAM_ERR_VALUE;
  return VRAM_OK;
}

/* Places the tables from `at` on (0: only counts); returns the bytes. */
static uint64_t vram__ledger_layout(vram_ledger *l, const vram_ledger_options *o, uint8_t *at) {
  const uint64_t devices = (uint64_t)o->devices + 1, live = vram__table_size(o->live),
                 owners = vram__table_size(o->owners),
                 groups = o->groups ? vram__table_size(o->groups) : 0;
  uint64_t n = 0;
#define VRAM__TABLE(field, type, count)                                                            \
  if (at)                                                                                          \
    l->field = (type *)(void *)(at + n);                                                           \
  n += ((uint64_t)(count) * sizeof(type) + 7) / 8 * 8
  VRAM__TABLE(device, vram_memory_stats, devices);
  VRAM__TABLE(lost_of, vram__lost, devices * 4);
  VRAM__TABLE(owner, vram_owner, (uint64_t)o->owners + 1);
  VRAM__TABLE(owner_hash, uint32_t, owners);
  VRAM__TABLE(live, vram_allocation, live);
  VRAM__TABLE(group, vram__group, groups);
  VRAM__TABLE(trace, vram_event, o->trace);
#undef VRAM__TABLE
  if (at) {
    l->live_mask = (uint32_t)live - 1;
    l->owner_mask = (uint32_t)owners - 1;
    l->group_mask = groups ? (uint32_t)groups - 1 : 0;
  }
  return n;
}

VRAM_API uint64_t vram_ledger_bytes(const vram_ledger_options *o) {
  vram_ledger_options r;
  if (vram__ledger_resolve(o, &r))
    return VRAM_OVERFLOW;
  return vram__ledger_layout(NULL, &r, NULL) + 7; /* 7: the memory may begin anywhere */
}

VRAM_API vram_result vram_ledger_init(vram_ledger *l, const vram_ledger_options *o, void *mem,
                                      uint64_t bytes, vram_error *err) {
  vram_result result;
  uint32_t n = 0;
  vram__zero(l, sizeof *l);
  if (err)
    vram__zero(err, sizeof *err);
  result = vram__ledger_resolve(o, &l->options);
  if (!result && (!mem || bytes < vram_ledger_bytes(o)))
    result = VRAM_ERR_MEMORY;
  if (!result) {
    uint8_t *at = (uint8_t *)mem + (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
    vram__zero(at, vram__ledger_layout(l, &l->options, at));
    l->nowner = 1;
  } else if (err) {
    err->code = result;
    vram__puts(err->text, sizeof err->text, &n,
               result == VRAM_ERR_MEMORY ? "the ledger needs more memory: see vram_ledger_bytes"
               : !l->options.lock != !l->options.unlock
                   ? "a ledger has both lock and unlock, or none"
                   : "a ledger has up to 268435456 of anything and 254 devices");
  }
  return result;
}

/* ---- sums ---- */

static inline void vram__tally_up(vram_stat *s, uint64_t n) {
  s->current += n;
  s->allocated += n;
  if (s->current > s->peak)
    s->peak = s->current;
}

static inline void vram__tally_down(vram_stat *s, uint64_t n) {
  if (n > s->current) /* more than ever came: an observer that began late */
    n = s->current;
  s->current -= n;
  s->freed += n;
}

static inline void vram__tally_by(vram_stat *s, int64_t n) {
  if (n > 0)
    vram__tally_up(s, (uint64_t)n);
  else if (n < 0)
    vram__tally_down(s, 0 - (uint64_t)n);
}

/* Of all pools, and of the small or the large one. */
#define VRAM__BOTH(stat, how, n)                                                                   \
  (vram__tally_##how(&m->stat[VRAM_POOL_ALL], n), vram__tally_##how(&m->stat[pool], n))

static uint32_t vram__pool_class(uint32_t small_pool) {
  return small_pool ? VRAM_POOL_SMALL : VRAM_POOL_LARGE;
}

static void vram__count_segment(vram_memory_stats *m, uint32_t pool, uint64_t bytes, int grows,
                                uint64_t oversize) {
  VRAM__BOTH(reserved_bytes, up, bytes);
  m->num_device_alloc++;
  if (grows)
    return;
  VRAM__BOTH(segment, up, 1);
  if (oversize && bytes >= oversize)
    vram__tally_up(&m->oversize_segments, 1);
}

static void vram__uncount_segment(vram_memory_stats *m, uint32_t pool, uint64_t bytes, int grows,
                                  uint64_t oversize) {
  VRAM__BOTH(reserved_bytes, down, bytes);
  m->num_device_free++;
  if (grows)
    return;
  VRAM__BOTH(segment, down, 1);
  if (oversize && bytes >= oversize)
    vram__tally_down(&m->oversize_segments, 1);
}

/* The highest sum yet: whoever changes from now on saves what he has. */
static inline void vram__sum_up(vram_ledger *l, uint64_t bytes) {
  vram_region *r = l->region;
  l->bytes += bytes;
  if (l->bytes > l->peak_bytes) {
    l->peak_bytes = l->bytes;
    l->peak_serial++;
  }
  if (!r)
    return;
  r->bytes = (int64_t)((uint64_t)r->bytes + bytes);
  r->allocated += bytes;
  r->allocations++;
  if (r->bytes > r->peak)
    r->peak = r->bytes;
}

static inline void vram__sum_down(vram_ledger *l, uint64_t bytes) {
  vram_region *r = l->region;
  l->bytes -= bytes;
  if (!r)
    return;
  r->bytes = (int64_t)((uint64_t)r->bytes - bytes);
  r->freed += bytes;
  r->frees++;
}

static inline void vram__save_category(vram_ledger *l, uint32_t c) {
  if (l->category_serial[c] != l->peak_serial) {
    l->category_serial[c] = l->peak_serial;
    l->category_peak[c] = l->category[c].current;
  }
}

static inline void vram__save_owner(const vram_ledger *l, vram_owner *w) {
  if (w->serial != l->peak_serial) {
    w->serial = l->peak_serial;
    w->at_peak = w->bytes.current;
  }
}

/* An allocation goes into the counters of its device. */
static void vram__count(vram_memory_stats *m, uint32_t pool, int whole, uint64_t bytes,
                        uint64_t block, uint64_t oversize) {
  VRAM__BOTH(allocation, up, 1);
  VRAM__BOTH(active, up, 1);
  VRAM__BOTH(allocated_bytes, up, block);
  VRAM__BOTH(active_bytes, up, block);
  VRAM__BOTH(requested_bytes, up, bytes);
  if (oversize && block >= oversize)
    vram__tally_up(&m->oversize_allocations, 1);
  if (whole)
    vram__count_segment(m, pool, block, 0, oversize);
}

static void vram__uncount_requested(vram_memory_stats *m, uint32_t pool, uint64_t block,
                                    uint64_t oversize) {
  VRAM__BOTH(allocation, down, 1);
  VRAM__BOTH(allocated_bytes, down, block);
  if (oversize && block >= oversize)
    vram__tally_down(&m->oversize_allocations, 1);
}

static void vram__uncount(vram_memory_stats *m, uint32_t pool, int whole, uint64_t bytes,
                          uint64_t block, uint64_t oversize) {
  VRAM__BOTH(active, down, 1);
  VRAM__BOTH(active_bytes, down, block);
  VRAM__BOTH(requested_bytes, down, bytes);
  if (whole)
    vram__uncount_segment(m, pool, block, 0, oversize);
}

/* Counters of a device; NULL: it has none. */
static vram_memory_stats *vram__stats_of(const vram_ledger *l, uint32_t device) {
  if (device == VRAM_HOST)
    return l->device + l->options.devices;
  return device < l->options.devices ? l->device + device : NULL;
}

/* ---- tables ---- */

static inline uint32_t vram__live_at(const vram_ledger *l, uint64_t key) {
  uint32_t i = (uint32_t)vram__mix(key) & l->live_mask;
  while (l->live[i].address && l->live[i].address != key)
    i = (i + 1) & l->live_mask;
  return i;
}

static void vram__live_remove(vram_ledger *l, uint32_t hole) {
  const uint32_t mask = l->live_mask;
  uint32_t i = hole;
  for (;;) {
    i = (i + 1) & mask;
    if (!l->live[i].address)
      break;
    /* it may move when the hole is not before where its search begins */
    if (((i - (uint32_t)vram__mix(l->live[i].address)) & mask) >= ((i - hole) & mask)) {
      l->live[hole] = l->live[i];
      hole = i;
    }
  }
  l->live[hole].address = 0;
  l->nlive--;
}

static uint32_t vram__group_hash(const vram__group *g) {
  return (uint32_t)vram__mix(g->bytes ^ (uint64_t)g->owner << 40 ^ (uint64_t)g->device << 32);
}

static vram__group *vram__group_at(const vram_ledger *l, uint32_t owner, uint32_t device,
                                   uint64_t bytes) {
  vram__group g;
  uint32_t i;
  g.bytes = bytes;
  g.owner = owner;
  g.device = device + 1;
  i = vram__group_hash(&g) & l->group_mask;
  while (l->group[i].device && (l->group[i].bytes != bytes || l->group[i].owner != owner ||
                                l->group[i].device != g.device))
    i = (i + 1) & l->group_mask;
  return l->group + i;
}

static void vram__group_remove(vram_ledger *l, uint32_t hole) {
  const uint32_t mask = l->group_mask;
  uint32_t i = hole;
  for (;;) {
    i = (i + 1) & mask;
    if (!l->group[i].device)
      break;
    if (((i - vram__group_hash(l->group + i)) & mask) >= ((i - hole) & mask)) {
      l->group[hole] = l->group[i];
      hole = i;
    }
  }
  l->group[hole].device = 0;
  l->ngroup--;
}

static void vram__group_count(vram_ledger *l, vram_allocation *a, int way) {
  vram__group *g;
  if (!l->options.groups)
    return;
  if (!(a->flags & VRAM__LIVE_VARIOUS)) {
    g = vram__group_at(l, a->owner, a->device, a->bytes);
    if (g->device || l->ngroup < l->options.groups) {
      if (!g->device) {
        l->ngroup++;
        g->device = a->device + 1u;
        g->owner = a->owner;
        g->bytes = a->bytes;
        g->now = g->then = 0;
      }
      g->now += way;
      if (!g->now && !g->then) /* came and went between two marks */
        vram__group_remove(l, (uint32_t)(g - l->group));
      return;
    }
    a->flags |= VRAM__LIVE_VARIOUS;
  }
  l->various[0] += way;
  l->various[1] = (int64_t)((uint64_t)l->various[1] + (way > 0 ? a->bytes : 0 - a->bytes));
}

/* What is kept of an event: its id is the allocation's serial; -1: memory from before the step, or
   no allocation. */
static vram_event *vram__trace(vram_ledger *l, const vram_event *e, uint64_t time) {
  vram_event *to = l->trace + l->trace_count++ % l->options.trace;
  *to = *e;
  to->time = time;
  to->category = (vram_category)vram__category_of(e->category);
  to->owner = e->owner < l->nowner ? e->owner : 0;
  to->id = -1;
  return to;
}

static void vram__trace_as(vram_event *e, const vram_allocation *a) {
  e->address = a->flags & VRAM__LIVE_BY_ID ? 0 : a->address;
  e->id = (int64_t)a->serial;
  e->bytes = a->bytes;
  e->block_bytes = a->block_bytes;
  e->stream = a->stream;
  e->owner = a->owner;
  e->device = a->device;
  e->kind = a->kind;
  e->small_pool = (a->flags & VRAM_LIVE_SMALL) != 0;
  e->whole = (a->flags & VRAM_LIVE_WHOLE) != 0;
}

/* ---- events ---- */

/* A free in the trace; the event, if there is one, knows less than the table. */
static void vram__trace_free(vram_ledger *l, const vram_allocation *a, const vram_event *of,
                             uint64_t time, vram_action action) {
  vram_event e, *to;
  vram__zero(&e, sizeof e);
  if (of)
    e = *of;
  e.action = action;
  e.node = a->node;
  to = vram__trace(l, &e, time);
  vram__trace_as(to, a);
  to->category = to->was = (vram_category)a->category;
  to->waited = action == VRAM_FREE && (a->flags & VRAM_LIVE_WAITS);
}

static void vram__ledger_remove(vram_ledger *l, uint32_t i, const vram_event *e, uint64_t time) {
  vram_allocation *a = l->live + i;
  vram_owner *w = l->owner + a->owner;
  vram_memory_stats *m = vram__stats_of(l, a->device);
  const uint32_t pool = vram__pool_class(a->flags & VRAM_LIVE_SMALL);
  if (l->options.trace)
    vram__trace_free(l, a, e, time, VRAM_FREE);
  if (!(a->flags & VRAM_LIVE_WAITS))
    vram__uncount_requested(m, pool, a->block_bytes, l->options.oversize_bytes);
  vram__uncount(m, pool, (a->flags & VRAM_LIVE_WHOLE) != 0, a->bytes, a->block_bytes,
                l->options.oversize_bytes);
  vram__tally_down(&l->kind[a->kind], a->bytes);
  if (a->device == VRAM_HOST)
    w->host_bytes -= a->bytes;
  else {
    vram__save_category(l, a->category);
    vram__tally_down(&l->category[a->category], a->bytes);
    vram__save_owner(l, w);
    vram__tally_down(&w->bytes, a->bytes);
    vram__tally_down(&w->count, 1);
    vram__sum_down(l, a->bytes);
  }
  vram__group_count(l, a, -1);
  vram__live_remove(l, i);
}

/* A free of what is in no table: 1 if something lost may be it. */
static int vram__ledger_free_lost(vram_ledger *l, const vram_event *e) {
  uint32_t d, k;
  uint64_t bytes, block;
  vram__lost *of;
  vram_memory_stats *m;
  if (!l->lost)
    return 0;
  d = !e ? 0 : e->device == VRAM_HOST ? l->options.devices : e->device;
  k = !e ? 2 : (e->small_pool ? 1u : 0u) + (e->whole ? 2u : 0u);
  if (d > l->options.devices)
    d = 0;
  /* as it says; else any of the device; else any */
  of = l->lost_of + (uint64_t)d * 4 + k;
  for (k = 0; k < 4 && !of->count; k++)
    of = l->lost_of + (uint64_t)d * 4 + k;
  for (k = 0; !of->count; k++)
    of = l->lost_of + k;
  k = (uint32_t)(of - l->lost_of) % 4;
  d = (uint32_t)(of - l->lost_of) / 4;
  bytes = of->bytes / of->count;
  block = of->block_bytes / of->count;
  if (e && e->bytes) {
    bytes = e->bytes;
    block = e->block_bytes ? e->block_bytes : e->bytes;
  }
  if (of->count == 1 || bytes > of->bytes)
    bytes = of->bytes;
  if (of->count == 1 || block > of->block_bytes)
    block = of->block_bytes;
  m = l->device + d;
  vram__uncount_requested(m, vram__pool_class(k & 1), block, l->options.oversize_bytes);
  vram__uncount(m, vram__pool_class(k & 1), k > 1, bytes, block, l->options.oversize_bytes);
  of->count--;
  of->bytes -= bytes;
  of->block_bytes -= block;
  l->lost--;
  l->lost_bytes -= bytes;
  if (d < l->options.devices)
    vram__sum_down(l, bytes);
  return 1;
}

static void vram__ledger_alloc(vram_ledger *l, const vram_event *e, uint64_t key, uint64_t time) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint64_t bytes = e->bytes, block = e->block_bytes ? e->block_bytes : e->bytes;
  vram_allocation *a;
  vram_owner *w;
  uint32_t i;
  if (!m) {
    l->unknown_devices++;
    return;
  }
  i = vram__live_at(l, key);
  if (l->live[i].address) {
    l->missed_frees++;
    vram__ledger_remove(l, i, NULL, time);
    i = vram__live_at(l, key);
  }
  vram__count(m, vram__pool_class(e->small_pool), e->whole, bytes, block,
              l->options.oversize_bytes);
  if (l->nlive == l->options.live) {
    vram__lost *of =
        l->lost_of + (uint64_t)(m - l->device) * 4 + (e->small_pool ? 1 : 0) + (e->whole ? 2 : 0);
    of->count++;
    of->bytes += bytes;
    of->block_bytes += block;
    l->lost++;
    l->lost_bytes += bytes;
    if (e->device != VRAM_HOST)
      vram__sum_up(l, bytes);
    return;
  }
  a = l->live + i;
  l->nlive++;
  a->address = key;
  a->bytes = bytes;
  a->block_bytes = block;
  a->stream = e->stream;
  a->time = time;
  a->serial = l->serial;
  a->node = e->node;
  a->owner = e->owner < l->nowner ? e->owner : 0;
  a->category = (uint8_t)vram__category_of(e->category);
  a->device = e->device;
  a->kind = e->kind < VRAM_KINDS_MAX ? e->kind : VRAM_KINDS_MAX - 1;
  a->flags = (uint8_t)((e->small_pool ? VRAM_LIVE_SMALL : 0) | (e->whole ? VRAM_LIVE_WHOLE : 0) |
                       (e->address ? 0 : VRAM__LIVE_BY_ID));
  w = l->owner + a->owner;
  vram__tally_up(&l->kind[a->kind], bytes);
  if (e->device == VRAM_HOST)
    w->host_bytes += bytes;
  else {
    vram__save_category(l, a->category);
    vram__tally_up(&l->category[a->category], bytes);
    vram__save_owner(l, w);
    vram__tally_up(&w->bytes, bytes);
    vram__tally_up(&w->count, 1);
    vram__sum_up(l, bytes);
  }
  vram__group_count(l, a, 1);
  if (l->options.trace)
    vram__trace_as(vram__trace(l, e, time), a);
}

static void vram__ledger_becomes(vram_ledger *l, const vram_event *e, uint32_t i, uint64_t time) {
  const uint32_t to = vram__category_of(e->category);
  uint32_t from = vram__category_of(e->was);
  uint64_t bytes = e->bytes;
  if (l->live[i].address) {
    from = l->live[i].category;
    bytes = l->live[i].bytes;
    l->live[i].category = (uint8_t)to;
    if (l->live[i].device == VRAM_HOST)
      return;
  }
  if (from == to)
    return;
  if (bytes > l->category[from].current)
    bytes = l->category[from].current;
  if (l->options.trace) {
    vram_event *kept = vram__trace(l, e, time);
    kept->was = (vram_category)from;
    kept->bytes = bytes;
    if (l->live[i].address)
      vram__trace_as(kept, l->live + i);
  }
  vram__save_category(l, from);
  vram__tally_down(&l->category[from], bytes);
  vram__save_category(l, to);
  vram__tally_up(&l->category[to], bytes);
}

/* What was there before the step: its bytes, no counts, no owner. */
static void vram__ledger_before(vram_ledger *l, const vram_event *e, uint64_t time) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint32_t c = vram__category_of(e->category), pool = vram__pool_class(e->small_pool);
  const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
  if (!m) {
    l->unknown_devices++;
  } else if (e->action == VRAM_ALLOC) {
    VRAM__BOTH(allocated_bytes, up, block);
    VRAM__BOTH(active_bytes, up, block);
    VRAM__BOTH(requested_bytes, up, e->bytes);
    if (e->device == VRAM_HOST)
      return;
    vram__save_category(l, c);
    vram__tally_up(&l->category[c], e->bytes);
    vram__sum_up(l, e->bytes);
    if (l->options.trace)
      vram__trace(l, e, time);
  } else if (e->action == VRAM_FREE) {
    if (m->requested_bytes[0].current < e->bytes ||
        (e->device != VRAM_HOST && l->category[c].current < e->bytes)) {
      l->unknown_frees++;
      return;
    }
    VRAM__BOTH(allocated_bytes, down, block);
    VRAM__BOTH(active_bytes, down, block);
    VRAM__BOTH(requested_bytes, down, e->bytes);
    if (e->device == VRAM_HOST)
      return;
    vram__save_category(l, c);
    vram__tally_down(&l->category[c], e->bytes);
    vram__sum_down(l, e->bytes);
    if (l->options.trace)
      vram__trace(l, e, time);
  }
}

static void vram__ledger_other(vram_ledger *l, const vram_event *e) {
  vram_memory_stats *m = vram__stats_of(l, e->device);
  const uint32_t pool = vram__pool_class(e->small_pool);
  const uint64_t oversize = l->options.oversize_bytes;
  if (!m) {
    l->unknown_devices++;
    return;
  }
  switch (e->action) {
  case VRAM_SEGMENT_ALLOC:
  case VRAM_SEGMENT_MAP:
    vram__count_segment(m, pool, e->bytes, e->action == VRAM_SEGMENT_MAP, oversize);
    break;
  case VRAM_SEGMENT_FREE:
  case VRAM_SEGMENT_UNMAP:
    vram__uncount_segment(m, pool, e->bytes, e->action == VRAM_SEGMENT_UNMAP, oversize);
    break;
  case VRAM_RETRY:
    m->num_alloc_retries++;
    break;
  case VRAM_OOM:
    m->num_ooms++;
    break;
  default:
    break;
  }
}

static void vram__ledger_add(vram_ledger *l, const vram_event *e) {
  const uint64_t key = e->address ? e->address : (uint64_t)e->id + 1;
  const uint64_t time = e->time || !l->options.clock ? e->time : l->options.clock(l->options.user);
  vram_memory_stats *m;
  uint32_t i;
  l->serial++;
  switch (e->action) {
  case VRAM_ALLOC:
    if (key)
      vram__ledger_alloc(l, e, key, time);
    else
      vram__ledger_before(l, e, time);
    break;
  case VRAM_FREE:
    i = vram__live_at(l, key);
    if (!key)
      vram__ledger_before(l, e, time);
    else if (l->live[i].address)
      vram__ledger_remove(l, i, e, time);
    else if (!vram__ledger_free_lost(l, e))
      l->unknown_frees++;
    break;
  case VRAM_FREE_REQUESTED:
    i = vram__live_at(l, key);
    if (key && l->live[i].address && !(l->live[i].flags & VRAM_LIVE_WAITS)) {
      vram__uncount_requested(vram__stats_of(l, l->live[i].device),
                              vram__pool_class(l->live[i].flags & VRAM_LIVE_SMALL),
                              l->live[i].block_bytes, l->options.oversize_bytes);
      l->live[i].flags |= VRAM_LIVE_WAITS;
      if (l->options.trace)
        vram__trace_free(l, l->live + i, e, time, VRAM_FREE_REQUESTED);
    } else if (!key || l->live[i].address || !l->lost) /* what is lost goes with its FREE */
      l->unknown_frees++;
    break;
  case VRAM_BECOMES:
    i = vram__live_at(l, key);
    if (key && !l->live[i].address)
      break; /* lost: in no category */
    if (key || e->device != VRAM_HOST)
      vram__ledger_becomes(l, e, key ? i : vram__live_at(l, 0), time);
    break;
  default:
    vram__ledger_other(l, e);
    if (l->options.trace && vram__stats_of(l, e->device))
      vram__trace(l, e, time);
    break;
  }
  m = vram__stats_of(l, e->device);
  if (m && (e->split || e->split_bytes)) {
    const uint32_t pool = vram__pool_class(e->small_pool);
    VRAM__BOTH(inactive_split, by, e->split);
    VRAM__BOTH(inactive_split_bytes, by, e->split_bytes);
  }
}
#undef VRAM__BOTH

VRAM_API void vram_ledger_event(void *ledger, const vram_event *e) {
  vram_ledger *l = (vram_ledger *)ledger;
  vram__ledger_lock(l);
  vram__ledger_add(l, e);
  vram__ledger_unlock(l);
}

VRAM_API uint32_t vram_ledger_owner(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, const char *tag) {
  uint64_t h = vram__mix((uint64_t)(uintptr_t)file + line);
  uint32_t i, n;
  h = vram__mix(h ^ (uint64_t)(uintptr_t)function);
  h = vram__mix(h ^ (uint64_t)(uintptr_t)tag);
  vram__ledger_lock(l);
  for (i = (uint32_t)h & l->owner_mask; (n = l->owner_hash[i]) != 0; i = (i + 1) & l->owner_mask) {
    const vram_owner *w = l->owner + n;
    if (w->file == file && w->line == line && w->function == function && w->tag == tag)
      break;
  }
  if (!n && l->nowner <= l->options.owners) {
    vram_owner *w = l->owner + l->nowner;
    w->file = file;
    w->line = line;
    w->function = function;
    w->tag = tag;
    w->serial = l->peak_serial; /* at the peak it had nothing */
    n = w->number = l->owner_hash[i] = l->nowner++;
  } else if (!n)
    l->lost_owners++;
  vram__ledger_unlock(l);
  return n;
}

VRAM_API int vram_ledger_take(vram_ledger *l, uint64_t address, vram_allocation *was) {
  uint32_t i;
  int found;
  vram__ledger_lock(l);
  l->serial++;
  i = vram__live_at(l, address);
  found = address && l->live[i].address;
  if (found) {
    if (was)
      *was = l->live[i];
    vram__ledger_remove(l, i, NULL, l->options.clock ? l->options.clock(l->options.user) : 0);
  } else if (!vram__ledger_free_lost(l, NULL))
    l->unknown_frees++;
  vram__ledger_unlock(l);
  return found;
}

VRAM_API int vram_ledger_find(vram_ledger *l, uint64_t address, vram_allocation *a) {
  uint32_t i;
  int found;
  vram__ledger_lock(l);
  i = vram__live_at(l, address);
  found = address && l->live[i].address;
  if (found && a)
    *a = l->live[i];
  vram__ledger_unlock(l);
  return found;
}

/* ---- the largest of many, in the caller's list ----
   A heap whose first entry is the one that goes next; at the end it is taken apart. */

typedef int vram__stands_before(const void *a, const void *b); /* a stands before b in the list */

typedef struct vram__top {
  uint8_t *list;
  uint32_t n, cap, size;
  vram__stands_before *before;
} vram__top;

static void vram__top_swap(const vram__top *t, uint32_t i, uint32_t k) {
  uint8_t *a = t->list + (uint64_t)i * t->size, *b = t->list + (uint64_t)k * t->size;
  uint32_t j;
  for (j = 0; j < t->size; j++) {
    const uint8_t x = a[j];
    a[j] = b[j];
    b[j] = x;
  }
}

static int vram__top_before(const vram__top *t, uint32_t i, uint32_t k) {
  return t->before(t->list + (uint64_t)i * t->size, t->list + (uint64_t)k * t->size);
}

static void vram__top_sift(const vram__top *t, uint32_t n) {
  uint32_t i = 0, last;
  while (2 * i + 1 < n) {
    last = 2 * i + 1;
    if (last + 1 < n && vram__top_before(t, last, last + 1))
      last++;
    if (!vram__top_before(t, i, last))
      return;
    vram__top_swap(t, i, last);
    i = last;
  }
}

static void vram__top_add(vram__top *t, const void *item) {
  uint32_t i = t->n;
  if (t->n == t->cap) {
    if (!t->cap || !t->before(item, t->list))
      return;
    vram__copy(t->list, item, t->size);
    vram__top_sift(t, t->n);
    return;
  }
  vram__copy(t->list + (uint64_t)t->n++ * t->size, item, t->size);
  for (; i && vram__top_before(t, (i - 1) / 2, i); i = (i - 1) / 2)
    vram__top_swap(t, i, (i - 1) / 2);
}

static void vram__top_sort(const vram__top *t) {
  uint32_t n = t->n;
  while (n > 1) {
    vram__top_swap(t, 0, --n);
    vram__top_sift(t, n);
  }
}

static vram__top vram__top_of(void *list, uint32_t cap, uint32_t size,
                              vram__stands_before *before) {
  vram__top t;
  t.list = (uint8_t *)list;
  t.n = 0;
  t.cap = list ? cap : 0;
  t.size = size;
  t.before = before;
  return t;
}

static int vram__larger_allocation(const void *a, const void *b) {
  const vram_allocation *x = (const vram_allocation *)a, *y = (const vram_allocation *)b;
  return x->bytes != y->bytes ? x->bytes > y->bytes : x->serial < y->serial;
}

VRAM_API uint32_t vram_ledger_live(vram_ledger *l, vram_allocation *list, uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list, vram__larger_allocation);
  uint32_t i, n;
  vram__ledger_lock(l);
  n = l->nlive;
  for (i = 0; top.cap && i <= l->live_mask; i++)
    if (l->live[i].address)
      vram__top_add(&top, l->live + i);
  vram__ledger_unlock(l);
  vram__top_sort(&top);
  return n;
}

static uint64_t vram__owner_at_peak(const vram_ledger *l, const vram_owner *w) {
  return w->serial == l->peak_serial ? w->at_peak : w->bytes.current;
}

VRAM_API uint64_t vram_ledger_owner_at_peak(vram_ledger *l, uint32_t owner) {
  uint64_t bytes = 0;
  vram__ledger_lock(l);
  if (owner < l->nowner)
    bytes = vram__owner_at_peak(l, l->owner + owner);
  vram__ledger_unlock(l);
  return bytes;
}

VRAM_API uint64_t vram_ledger_category_at_peak(vram_ledger *l, vram_category category) {
  const uint32_t c = vram__category_of(category);
  uint64_t bytes;
  vram__ledger_lock(l);
  bytes = l->category_serial[c] == l->peak_serial ? l->category_peak[c] : l->category[c].current;
  vram__ledger_unlock(l);
  return bytes;
}

static int vram__larger_owner(const void *a, const void *b) {
  const vram_owner *x = (const vram_owner *)a, *y = (const vram_owner *)b;
  return x->bytes.current != y->bytes.current ? x->bytes.current > y->bytes.current
                                              : x->number < y->number;
}

static int vram__larger_owner_at_peak(const void *a, const void *b) {
  const vram_owner *x = (const vram_owner *)a, *y = (const vram_owner *)b;
  return x->at_peak != y->at_peak ? x->at_peak > y->at_peak : x->number < y->number;
}

static uint32_t vram__ledger_owners(const vram_ledger *l, int at_peak, vram_owner *list,
                                    uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list,
                               at_peak ? vram__larger_owner_at_peak : vram__larger_owner);
  uint32_t i, n = 0;
  for (i = 0; i < l->nowner; i++) {
    vram_owner w = l->owner[i];
    w.at_peak = vram__owner_at_peak(l, &w);
    if (at_peak ? w.at_peak : w.bytes.current)
      vram__top_add(&top, &w), n++;
  }
  vram__top_sort(&top);
  return n;
}

VRAM_API uint32_t vram_ledger_owners(vram_ledger *l, int at_peak, vram_owner *list, uint32_t cap) {
  uint32_t n;
  vram__ledger_lock(l);
  n = vram__ledger_owners(l, at_peak, list, cap);
  vram__ledger_unlock(l);
  return n;
}

VRAM_API void vram_ledger_stats(vram_ledger *l, uint32_t device, vram_memory_stats *stats) {
  const vram_memory_stats *m = vram__stats_of(l, device);
  vram__zero(stats, sizeof *stats);
  vram__ledger_lock(l);
  if (m)
    *stats = *m;
  vram__ledger_unlock(l);
}

static void vram__reset_stat(vram_stat *s, int peak) {
  if (peak)
    s->peak = s->current;
  else
    s->allocated = s->freed = 0;
}

static void vram__ledger_reset(vram_ledger *l, int peak) {
  uint32_t i, k;
  for (i = 0; i <= l->options.devices; i++) {
    vram_memory_stats *m = l->device + i;
    for (k = 0; k < 3; k++) {
#define VRAM__X(name) vram__reset_stat(&m->name[k], peak);
      VRAM_STATS(VRAM__X)
#undef VRAM__X
    }
    vram__reset_stat(&m->oversize_allocations, peak);
    vram__reset_stat(&m->oversize_segments, peak);
    if (!peak)
      m->num_alloc_retries = m->num_ooms = 0; /* as PyTorch: not num_device_alloc and _free */
  }
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    vram__reset_stat(&l->category[i], peak);
  for (i = 0; i < VRAM_KINDS_MAX; i++)
    vram__reset_stat(&l->kind[i], peak);
  for (i = 0; i < l->nowner; i++) {
    vram__reset_stat(&l->owner[i].bytes, peak);
    vram__reset_stat(&l->owner[i].count, peak);
  }
  if (peak) {
    l->peak_bytes = l->bytes;
    l->peak_serial++;
  }
}

VRAM_API void vram_ledger_reset_peak(vram_ledger *l) {
  vram__ledger_lock(l);
  vram__ledger_reset(l, 1);
  vram__ledger_unlock(l);
}

VRAM_API void vram_ledger_reset_accumulated(vram_ledger *l) {
  vram__ledger_lock(l);
  vram__ledger_reset(l, 0);
  vram__ledger_unlock(l);
}

/* ---- regions ----
   Each holds what happened while it was the innermost, until it takes over what ended inside it. */

static void vram__region_fold(vram_region *to, const vram_region *inner) {
  const int64_t peak = (int64_t)((uint64_t)to->bytes + (uint64_t)inner->peak);
  if (peak > to->peak)
    to->peak = peak;
  to->bytes = (int64_t)((uint64_t)to->bytes + (uint64_t)inner->bytes);
  to->allocated += inner->allocated;
  to->freed += inner->freed;
  to->allocations += inner->allocations;
  to->frees += inner->frees;
}

VRAM_API void vram_region_begin(vram_ledger *l, vram_region *r, const char *name) {
  vram__zero(r, sizeof *r);
  r->name = name;
  vram__ledger_lock(l);
  r->outer = l->region;
  l->region = r;
  vram__ledger_unlock(l);
}

/* What is still open inside r began after all that r holds: it is added from the outermost to the
   innermost. The list has one direction, so the next one is searched again from its beginning. */
static void vram__region_add_open(vram_ledger *l, vram_region *r, const vram_region *last) {
  const vram_region *c;
  while (l->region != last) {
    for (c = l->region; c->outer != last; c = c->outer)
      ;
    vram__region_fold(r, c);
    last = c;
  }
}

VRAM_API int vram_region_end(vram_ledger *l, vram_region *r) {
  vram_region **at;
  int found;
  vram__ledger_lock(l);
  for (at = &l->region; *at && *at != r; at = &(*at)->outer)
    ;
  found = *at != NULL;
  if (found) {
    if (r->outer)
      vram__region_fold(r->outer, r);
    vram__region_add_open(l, r, r);
    *at = r->outer;
    r->outer = NULL;
  }
  vram__ledger_unlock(l);
  return found;
}

/* ---- marks ---- */

static int vram__larger_change(const void *a, const void *b) {
  const vram_change *x = (const vram_change *)a, *y = (const vram_change *)b;
  const uint64_t p = x->sum < 0 ? 0 - (uint64_t)x->sum : (uint64_t)x->sum;
  const uint64_t q = y->sum < 0 ? 0 - (uint64_t)y->sum : (uint64_t)y->sum;
  return p != q                   ? p > q
         : x->owner != y->owner   ? x->owner < y->owner
         : x->bytes != y->bytes   ? x->bytes > y->bytes
         : x->device != y->device ? x->device < y->device
                                  : x->various < y->various;
}

static uint32_t vram__ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap) {
  vram__top top = vram__top_of(list, cap, sizeof *list, vram__larger_change);
  vram_change c;
  uint32_t i, n = 0;
  l->mark_bytes = l->bytes;
  if (!l->options.groups)
    return 0;
  vram__zero(&c, sizeof c);
  for (i = 0; i <= l->group_mask; i++) {
    vram__group *g = l->group + i;
    if (!g->device || g->now == g->then)
      continue;
    c.owner = g->owner;
    c.device = (uint8_t)(g->device - 1);
    c.count = g->now - g->then;
    c.bytes = g->bytes;
    c.sum = (int64_t)((uint64_t)c.count * c.bytes);
    vram__top_add(&top, &c);
    n++;
    g->then = g->now;
  }
  for (i = 0; i <= l->group_mask; i++)
    while (l->group[i].device && !l->group[i].now)
      vram__group_remove(l, i);
  if (l->various[0] != l->various[2] || l->various[1] != l->various[3]) {
    vram__zero(&c, sizeof c);
    c.various = 1;
    c.count = l->various[0] - l->various[2];
    c.sum = (int64_t)((uint64_t)l->various[1] - (uint64_t)l->various[3]);
    vram__top_add(&top, &c);
    n++;
    l->various[2] = l->various[0];
    l->various[3] = l->various[1];
  }
  vram__top_sort(&top);
  return n;
}

VRAM_API uint32_t vram_ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap) {
  uint32_t n;
  vram__ledger_lock(l);
  n = vram__ledger_mark(l, list, cap);
  vram__ledger_unlock(l);
  return n;
}

/* >>rules (Implementation) ---------------------------------------------------------------------
   Constants of PyTorch 2.15 and the libraries that it calls. */

/* cuDNN's recurrent nets. What cuDNN asks for is known at run time only (cudnnGetRNNTempSpaceSizes,
   cudnnDropoutGetStatesSize): these are guesses. Values of every step and unit: the workspace has
   the gates; the reserve has what backward needs at least, the gates, the cell state and the hidden
   state of every layer, one more for the gru; a real cuDNN may take more. */
#define VRAM__RNN_RESERVE_LSTM 6u
#define VRAM__RNN_RESERVE_GRU 5u
#define VRAM__RNN_RESERVE_RNN 2u
#define VRAM__RNN_DROPOUT_STATE 4194304u /* a state for every thread of the device */

#define VRAM__RULE_CUBLASLT_WORKSPACE 1048576u /* of a product with a bias, Blas.cpp */

/* cub's temporary storage (measured; the sizes follow from the tiles of cub's tuning policies): a
   sum of parts that are rounded up to 256 bytes, and 255 to align the first. */
#define VRAM__CUB_PARTS UINT64_C(511)      /* alignment and one small part */
#define VRAM__CUB_SORT_PASS UINT64_C(2048) /* radix sort: histograms of 8 bits */
#define VRAM__CUB_SORT_TILE UINT64_C(1024) /* and look-back of one tile */
#define VRAM__CUB_SPINE UINT64_C(11264)    /* counters of the older radix sort beside its digits */
#define VRAM__CUB_SCAN_PAD 32u             /* tiles of look-back before the first */
/* values in one tile of a radix sort of pairs: keys of 1, 2, 4, 8 bytes with values of 8, keys of 4
   with values of 4, numbers of segments with values of 8; 0: the older sort. Devices of
   cc 7.5; 8.x; 9.0 and newer */
static const uint16_t vram__cub_sort_tile[3][6] = {{0, 0, 2816, 2816, 11776, 2816},
                                                   {0, 0, 3072, 3840, 6528, 3840},
                                                   {3456, 5632, 5376, 4608, 6528, 5760}};
/* pairs that one block sorts without storage: keys and values of 8 bytes, of 4 */
#define VRAM__CUB_ONE_TILE_8 2304u
#define VRAM__CUB_ONE_TILE_4 4864u
/* values in one tile of unique_by_key with keys of 8 and of 4 bytes, and of a selection: devices of
   cc 7.5, 8.6 and 8.9; 8.0; 9.0 and newer */
static const uint16_t vram__cub_select_tile[3][3] = {
    {160, 352, 640}, {672, 1408, 2304}, {2464, 3584, 4224}};
/* values in one tile of a scan by keys of 8 and of 4 bytes, devices as above */
static const uint16_t vram__cub_by_key_tile[3][2] = {{1152, 1152}, {1120, 1920}, {1232, 2016}};
/* values in one tile of a scan of 2, 4 and 8 bytes */
#define VRAM__CUB_SCAN_TILE_2 3840u
#define VRAM__CUB_SCAN_TILE_4 1920u
#define VRAM__CUB_SCAN_TILE_8 896u
#define VRAM__CUB_ONE_REDUCE 4096u /* values that one block reduces without storage */

#define VRAM__RULE_EMBEDDING_SORTED 3072u /* Embedding.cu: more indices than this are sorted */
#define VRAM__RULE_SMALL_SORT 4096        /* Sort.cu: rows up to this are sorted in place */
#define VRAM__RULE_SEGMENTS 128           /* Sort.cu: so many rows are sorted as segments */
#define VRAM__RULE_LARGE_ROW 1000000      /* Sort.cu: rows from this on one after the other */
/* CUTLASS workspace of a grouped product, bytes a multiprocessor (cc 9.0; 10.0, where larger tiles
   take 5888) */
#define VRAM__RULE_GROUPED_SM90 512u
#define VRAM__RULE_GROUPED_SM100 5376u
#define VRAM__RULE_TOPK_BLOCKS                                                                     \
  UINT64_C(6) /* TensorTopK.cu: blocks of 256 threads a multiprocessor */

/* >>pool (Implementation) ----------------------------------------------------------------------
   PyTorch 2.15, c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h. Its free blocks
   are a set ordered by stream, size and address; here each stream and class has bins by size, and
   in each bin a tree ordered by size and address. */

#define VRAM__MIN_BLOCK UINT64_C(512)             /* kMinBlockSize */
#define VRAM__SMALL_REQUEST UINT64_C(1048576)     /* kSmallSize */
#define VRAM__SMALL_SEGMENT UINT64_C(2097152)     /* kSmallBuffer, kRoundLarge */
#define VRAM__LARGE_REQUEST UINT64_C(10485760)    /* kMinLargeAlloc */
#define VRAM__LARGE_SEGMENT UINT64_C(20971520)    /* kLargeBuffer */
#define VRAM__LARGEST_REQUEST (UINT64_C(1) << 60) /* one_exa_bytes */

enum {
  VRAM__HANDED = 1,
  VRAM__PENDING = 2, /* given back, and streams still use it; VRAM__HANDED, too */
  VRAM__MAPPED = 4,
  VRAM__SMALL_CLASS = 8,
  VRAM__EXPANDABLE = 16,
  VRAM__PIECE = 32, /* of a segment; else unused, or an entry of a queue */
  VRAM__AWAY = 64   /* a segment that is all free and went back to the device: policy BEST */
};
#define VRAM__CREDIT 16u /* requests for which one segment may go back */
#define VRAM__CREDIT_MOST 4096u
#define VRAM__POOL_SPARE 4u /* blocks that one call may need at a time */

/* x > 0 */
static inline uint32_t vram__log2(uint64_t x) {
#if defined(__GNUC__)
  return 63u - (uint32_t)__builtin_clzll(x);
#else
  uint32_t n = 0;
  while (x >>= 1)
    n++;
  return n;
#endif
}

/* of all and of the class */
static inline void vram__stat_up(vram_stat *s, int small_pool, uint64_t n) {
  vram__tally_up(s + VRAM_POOL_ALL, n);
  vram__tally_up(s + VRAM_POOL_LARGE - small_pool, n);
}

static inline void vram__stat_down(vram_stat *s, int small_pool, uint64_t n) {
  vram__tally_down(s + VRAM_POOL_ALL, n);
  vram__tally_down(s + VRAM_POOL_LARGE - small_pool, n);
}

/* the same of what a replay does not ask for */
static inline void vram__count_up(const vram_pool *p, vram_stat *s, int small_pool, uint64_t n) {
  if (!p->terse)
    vram__stat_up(s, small_pool, n);
}

static inline void vram__count_down(const vram_pool *p, vram_stat *s, int small_pool, uint64_t n) {
  if (!p->terse)
    vram__stat_down(s, small_pool, n);
}

static inline int vram__is_small(const vram__block *b) {
  return (b->flags & VRAM__SMALL_CLASS) != 0;
}

static inline vram__bins *vram__bins_of(const vram_pool *p, uint32_t stream, int small_pool) {
  return p->bins + ((size_t)stream * 2 + (uint32_t)small_pool);
}

/* ---- trees: heaps by a hash of the index. Free blocks by size and address, unmapped ones by
   address. */

static inline uint32_t vram__rank(uint32_t i) {
  i *= UINT32_C(2654435761);
  return i ^ i >> 15;
}

/* Which child of b leads to a. */
static inline uint32_t vram__side(const vram__block *a, const vram__block *b) {
  const uint32_t later = a->serial == b->serial ? a->address > b->address : a->serial > b->serial;
  if (!(a->flags & VRAM__MAPPED))
    return later;
  return (a->size > b->size) | ((a->size == b->size) & later);
}

static inline void vram__tree_add(vram__block *b, uint32_t *root, uint32_t x) {
  const uint32_t rank = vram__rank(x);
  uint32_t *end[2], y;
  while (*root && vram__rank(*root) < rank)
    root = &b[*root].child[vram__side(b + x, b + *root)];
  y = *root;
  *root = x;
  end[0] = &b[x].child[0];
  end[1] = &b[x].child[1];
  while (y) { /* what was there goes to both sides */
    const uint32_t side = vram__side(b + x, b + y);
    *end[!side] = y;
    end[!side] = &b[y].child[side];
    y = *end[!side];
  }
  *end[0] = *end[1] = 0;
}

static inline void vram__tree_remove(vram__block *b, uint32_t *root, uint32_t x) {
  uint32_t l, r;
  while (*root != x)
    root = &b[*root].child[vram__side(b + x, b + *root)];
  l = b[x].child[0];
  r = b[x].child[1];
  while (l && r) {
    const uint32_t side = vram__rank(l) < vram__rank(r);
    uint32_t *top = side ? &l : &r;
    *root = *top;
    root = &b[*top].child[side];
    *top = *root;
  }
  *root = l | r;
}

static inline uint32_t vram__tree_end(const vram__block *b, uint32_t x, int side) {
  while (x && b[x].child[side])
    x = b[x].child[side];
  return x;
}

/* The one before (side 0) or behind (1) x; 0: x is the last. */
static uint32_t vram__tree_beside(const vram__block *b, uint32_t root, uint32_t x, uint32_t side) {
  uint32_t best = 0;
  while (root != x) {
    const uint32_t way = vram__side(b + x, b + root);
    if (way != side)
      best = root;
    root = b[root].child[way];
  }
  return b[x].child[side] ? vram__tree_end(b, b[x].child[side], !side) : best;
}

/* ---- bins: 256 to each doubling of the size, so that few blocks share one */

static inline uint32_t vram__bin_of(uint64_t size) {
  const uint64_t k = size / VRAM__MIN_BLOCK;
  const uint32_t shift = vram__log2(k | 256) - 8;
  const uint64_t bin = (uint64_t)shift * 256 + (k >> shift);
  return bin < VRAM_POOL_BINS ? (uint32_t)bin : VRAM_POOL_BINS - 1;
}

/* The first bin from this one on that is not empty; VRAM_POOL_BINS: there is none. */
static inline uint32_t vram__bins_filled(const vram__bins *n, uint32_t bin) {
  uint32_t word = bin / 64, top = (word + 1) / 64;
  uint64_t found = n->filled[word] & ~UINT64_C(0) << bin % 64;
  if (found)
    return word * 64 + vram__log2(found & (0u - found));
  if (top == VRAM_POOL_BINS / 4096)
    return VRAM_POOL_BINS;
  found = n->words[top] & ~UINT64_C(0) << (word + 1) % 64;
  while (!found) {
    if (++top == VRAM_POOL_BINS / 4096)
      return VRAM_POOL_BINS;
    found = n->words[top];
  }
  word = top * 64 + vram__log2(found & (0u - found));
  found = n->filled[word];
  return word * 64 + vram__log2(found & (0u - found));
}

/* The first free block of this bin or a later one; 0: none. */
static uint32_t vram__bins_from(const vram_pool *p, const vram__bins *n, uint32_t bin) {
  if (bin < VRAM_POOL_BINS)
    bin = vram__bins_filled(n, bin);
  return bin < VRAM_POOL_BINS ? vram__tree_end(p->block, n->root[bin], 0) : 0;
}

static void vram__bins_add(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t bin = vram__bin_of(b->size);
  b->bin = (uint16_t)bin;
  b->link = p->requests[vram__is_small(b)];
  n->filled[bin / 64] |= UINT64_C(1) << bin % 64;
  n->words[bin / 4096] |= UINT64_C(1) << bin / 64 % 64;
  vram__tree_add(p->block, n->root + bin, x);
}

static void vram__bins_remove(vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t bin = b->bin;
  vram__tree_remove(p->block, n->root + bin, x);
  if (n->root[bin])
    return;
  n->filled[bin / 64] &= ~(UINT64_C(1) << bin % 64);
  if (!n->filled[bin / 64])
    n->words[bin / 4096] &= ~(UINT64_C(1) << bin / 64 % 64);
}

/* std::set::lower_bound on that stream; 0: end. */
static uint32_t vram__bins_at_least(const vram_pool *p, const vram__bins *n, uint64_t size) {
  const vram__block *b = p->block;
  const uint32_t bin = vram__bin_of(size);
  uint32_t x = n->root[bin], best = 0;
  while (x) {
    const uint32_t less = b[x].size < size;
    best = less ? best : x;
    x = b[x].child[less];
  }
  return best ? best : vram__bins_from(p, n, bin + 1);
}

static uint32_t vram__bins_next(const vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t y = vram__tree_beside(p->block, n->root[b->bin], x, 1);
  return y ? y : vram__bins_from(p, n, b->bin + 1u);
}

/* The last block of this bin or an earlier one; 0: none. */
static uint32_t vram__bins_back(const vram_pool *p, const vram__bins *n, uint32_t bin) {
  uint32_t x;
  for (;;) {
    x = n->root[bin];
    if (x || !bin)
      break;
    bin = n->filled[bin / 64] ? bin - 1 : bin / 64 * 64 - (bin > 63);
  }
  return vram__tree_end(p->block, x, 1);
}

static uint32_t vram__bins_last(const vram_pool *p, const vram__bins *n) {
  return vram__bins_back(p, n, VRAM_POOL_BINS - 1);
}

static uint32_t vram__bins_previous(const vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const vram__bins *n = vram__bins_of(p, b->stream, vram__is_small(b));
  const uint32_t y = vram__tree_beside(p->block, n->root[b->bin], x, 0);
  return y || !b->bin ? y : vram__bins_back(p, n, b->bin - 1u);
}

/* ---- blocks */

static inline uint32_t vram__block_room(const vram_pool *p) {
  return p->nunused + (p->cap - p->nblock);
}

/* The caller has asked vram__block_room. */
static uint32_t vram__block_new(vram_pool *p) {
  const uint32_t x = p->unused;
  if (!x)
    return p->nblock++;
  p->unused = p->block[x].next;
  p->nunused--;
  return x;
}

static void vram__block_gone(vram_pool *p, uint32_t x) {
  p->block[x].flags = 0;
  p->block[x].next = p->unused;
  p->unused = x;
  p->nunused++;
}

static inline uint32_t vram__hash_slot(const vram_pool *p, uint64_t address) {
  return (uint32_t)((address >> 9) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & p->mask;
}

static void vram__hash_in(vram_pool *p, uint32_t x) {
  uint32_t *head = p->hash + vram__hash_slot(p, p->block[x].address);
  p->block[x].link = *head;
  *head = x;
}

/* The block that was handed out there; 0: none. */
static uint32_t vram__handed(const vram_pool *p, uint64_t address) {
  uint32_t x = p->hash[vram__hash_slot(p, address)];
  while (x && p->block[x].address != address)
    x = p->block[x].link;
  return x;
}

static void vram__unhash(vram_pool *p, uint32_t x) {
  uint32_t *link = p->hash + vram__hash_slot(p, p->block[x].address);
  while (*link != x)
    link = &p->block[*link].link;
  *link = p->block[x].link;
}

static inline int vram__is_split(const vram__block *b) { return b->prev || b->next; }

/* x keeps its first bytes; y, fresh, becomes the rest behind it. */
static void vram__cut(vram_pool *p, uint32_t x, uint32_t y, uint64_t bytes) {
  vram__block *b = p->block + x, *rest = p->block + y;
  *rest = *b;
  rest->address += bytes;
  rest->size -= bytes;
  rest->prev = x;
  if (b->next)
    p->block[b->next].prev = y;
  b->next = y;
  b->size = bytes;
}

static uint32_t *vram__unmapped_of(vram_pool *p, const vram__block *b) {
  return &vram__bins_of(p, b->stream, vram__is_small(b))->unmapped;
}

/* A free neighbour of the same kind becomes part of x; its bytes, 0: there is none. */
static uint64_t vram__merge(vram_pool *p, uint32_t x, uint32_t neighbour) {
  vram__block *b = p->block + x, *n = p->block + neighbour;
  uint64_t bytes;
  if (!neighbour || (n->flags & VRAM__HANDED) || ((n->flags ^ b->flags) & VRAM__MAPPED))
    return 0;
  if (n->flags & VRAM__MAPPED)
    vram__bins_remove(p, neighbour);
  else
    vram__tree_remove(p->block, vram__unmapped_of(p, n), neighbour);
  bytes = n->size;
  if (b->prev == neighbour) {
    b->address = n->address;
    b->prev = n->prev;
    if (b->prev)
      p->block[b->prev].next = x;
  } else {
    b->next = n->next;
    if (b->next)
      p->block[b->next].prev = x;
  }
  b->size += bytes;
  vram__block_gone(p, neighbour);
  return bytes;
}

/* An event that the pool emits: what p->as says, and this. */
static void vram__pool_event(const vram_pool *p, vram_action action, const vram__block *b,
                             uint64_t bytes, int64_t split_bytes, int32_t split) {
  vram_event e = p->as;
  e.action = action;
  e.was = e.category;
  e.id = -1;
  e.bytes = bytes;
  e.address = b->address;
  e.block_bytes = b->size;
  e.stream = p->stream[b->stream];
  e.device = p->options.device;
  e.small_pool = (uint8_t)vram__is_small(b);
  e.split_bytes = split_bytes;
  e.split = split;
  p->options.event(p->options.user, &e);
}

static inline void vram__pool_tell(const vram_pool *p, vram_action action, const vram__block *b,
                                   uint64_t bytes, int64_t split_bytes, int32_t split) {
  if (p->options.event)
    vram__pool_event(p, action, b, bytes, split_bytes, split);
}

/* ---- segments */

static void vram__reserve_more(vram_pool *p, int small_pool, uint64_t bytes) {
  vram__stat_up(p->stats.reserved_bytes, small_pool, bytes);
  p->stats.num_device_alloc++;
}

static void vram__reserve_less(vram_pool *p, int small_pool, uint64_t bytes) {
  vram__stat_down(p->stats.reserved_bytes, small_pool, bytes);
  p->stats.num_device_free++;
}

static void vram__piece_new(vram_pool *p, uint32_t x, uint64_t address, uint64_t bytes,
                            uint32_t stream, int small_pool, uint32_t flags) {
  vram__block *b = p->block + x;
  vram__zero(b, sizeof *b);
  b->address = address;
  b->size = bytes;
  b->stream = (uint8_t)stream;
  b->flags = (uint8_t)(VRAM__PIECE | flags | (small_pool ? (uint32_t)VRAM__SMALL_CLASS : 0u));
}

/* A segment that is one free block goes back to the device. */
static void vram__segment_leave(vram_pool *p, uint32_t x) {
  const vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  p->backend.free(p->backend.user, b->address, b->size, p->stream[b->stream]);
  vram__reserve_less(p, small_pool, b->size);
  vram__stat_down(p->stats.segment, small_pool, 1);
  if (b->size >= p->options.max_split_size)
    vram__tally_down(&p->stats.oversize_segments, 1);
  vram__pool_tell(p, VRAM_SEGMENT_FREE, b, b->size, 0, 0);
}

/* The device's memory for a segment that is one block; 0: there is none. */
static int vram__segment_come(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t *reserved = &p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  const uint64_t address = p->backend.alloc(p->backend.user, b->size, p->stream[b->stream]);
  if (!address)
    return 0;
  b->address = address;
  b->flags &= (uint8_t)~VRAM__AWAY;
  vram__reserve_more(p, small_pool, b->size);
  p->highest = *reserved > p->highest ? *reserved : p->highest;
  vram__stat_up(p->stats.segment, small_pool, 1);
  if (b->size >= p->options.max_split_size)
    vram__tally_up(&p->stats.oversize_segments, 1);
  vram__pool_tell(p, VRAM_SEGMENT_ALLOC, b, b->size, 0, 0);
  return 1;
}

/* release_block: it is forgotten, too. */
static void vram__segment_free(vram_pool *p, uint32_t x) {
  vram__bins_remove(p, x);
  if (!(p->block[x].flags & VRAM__AWAY))
    vram__segment_leave(p, x);
  vram__block_gone(p, x);
}

static inline uint64_t vram__granule(const vram_pool *p, int small_pool) {
  return small_pool ? VRAM__SMALL_SEGMENT : p->options.large_segment_size;
}

/* map_block: the first bytes of an unmapped block get memory, in whole granules; it is free then,
   merged with its neighbours. Returns the free block, 0: no memory. */
static uint32_t vram__map(vram_pool *p, uint32_t x, uint64_t bytes) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t mapped = (bytes + granule - 1) / granule * granule;
  uint32_t rest;
  if (!p->backend.map(p->backend.user, b->address, mapped, granule))
    return 0;
  vram__tree_remove(p->block, vram__unmapped_of(p, b), x);
  if (mapped < b->size) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, mapped);
    vram__tree_add(p->block, vram__unmapped_of(p, b), rest);
  }
  b->flags |= VRAM__MAPPED;
  vram__reserve_more(p, small_pool, mapped);
  vram__pool_tell(p, VRAM_SEGMENT_MAP, b, mapped, 0, 0);
  vram__merge(p, x, b->prev);
  vram__merge(p, x, b->next);
  vram__bins_add(p, x);
  return x;
}

/* unmap_block: what a free block covers of whole granules goes back; the ends stay. */
static void vram__unmap(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t from = (b->address - b->skew + granule - 1) / granule * granule + b->skew;
  const uint64_t to = (b->address + b->size - b->skew) / granule * granule + b->skew;
  uint32_t rest;
  if (from >= to || vram__block_room(p) < VRAM__POOL_SPARE + 2)
    return;
  vram__bins_remove(p, x);
  if (from > b->address) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, from - b->address);
    vram__bins_add(p, x);
    x = rest;
    b = p->block + x;
  }
  if (to < b->address + b->size) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, to - from);
    vram__bins_add(p, rest);
  }
  p->backend.unmap(p->backend.user, b->address, b->size, granule);
  vram__reserve_less(p, small_pool, b->size);
  vram__pool_tell(p, VRAM_SEGMENT_UNMAP, b, b->size, 0, 0);
  b->flags &= (uint8_t)~VRAM__MAPPED;
  vram__merge(p, x, b->prev);
  vram__merge(p, x, b->next);
  vram__tree_add(p->block, vram__unmapped_of(p, b), x);
}

/* ---- what waits for streams */

/* free_block: nobody uses it any more. */
static void vram__block_free(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  const uint64_t address = b->address, size = b->size;
  uint64_t merged, bytes = 0, count = 0;
  int64_t split_bytes = 0;
  int32_t split = 0;
  int side;
  vram__count_down(p, p->stats.active, small_pool, 1);
  vram__count_down(p, p->stats.active_bytes, small_pool, b->size);
  vram__count_down(p, p->stats.requested_bytes, small_pool, b->requested);
  b->flags &= (uint8_t) ~(VRAM__HANDED | VRAM__PENDING);
  for (side = 0; side < 2; side++) {
    merged = vram__merge(p, x, side ? b->next : b->prev);
    count += merged != 0;
    bytes += merged;
  }
  vram__bins_add(p, x);
  if (!(b->flags & VRAM__EXPANDABLE)) {
    if (count) {
      vram__count_down(p, p->stats.inactive_split, small_pool, count);
      vram__count_down(p, p->stats.inactive_split_bytes, small_pool, bytes);
    }
    split = -(int32_t)count;
    split_bytes = -(int64_t)bytes;
    if (vram__is_split(b)) {
      vram__count_up(p, p->stats.inactive_split, small_pool, 1);
      vram__count_up(p, p->stats.inactive_split_bytes, small_pool, b->size);
      split++;
      split_bytes += (int64_t)b->size;
    }
  }
  if (p->options.event) { /* as it was */
    vram__block was = *b;
    was.address = address;
    was.size = size;
    vram__pool_event(p, VRAM_FREE, &was, b->requested, split_bytes, split);
  }
}

/* insert_events: an entry in the queue of each stream that uses the block. */
static void vram__block_wait(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  uint32_t i, entry;
  b->link = 0;
  for (i = 0; i < p->nstream; i++) {
    uint64_t event;
    if (!(b->streams >> i & 1))
      continue;
    event = p->backend.record(p->backend.user, p->stream[i]);
    if (!event)
      continue;                                    /* its bit stays */
    if (vram__block_room(p) <= VRAM__POOL_SPARE) { /* no place for an entry: it waits here */
      if (p->backend.done(p->backend.user, event, 1))
        b->streams &= ~(UINT64_C(1) << i);
      continue;
    }
    entry = vram__block_new(p);
    p->block[entry].flags = 0;
    p->block[entry].address = event;
    p->block[entry].link = x;
    p->block[entry].next = 0;
    if (p->last[i])
      p->block[p->last[i]].next = entry;
    else
      p->first[i] = entry;
    p->last[i] = entry;
    p->waiting++;
    b->streams &= ~(UINT64_C(1) << i);
    b->link++;
  }
  if (b->streams)
    p->stuck++;
  else if (!b->link)
    vram__block_free(p, x);
}

/* process_events: each queue up to the first event that is not done. With `wait`
   (synchronize_and_free_events) all of them, and what could not be recorded. */
static void vram__poll(vram_pool *p, int wait) {
  uint32_t i, x;
  for (i = 0; p->waiting && i < p->nstream; i++)
    while (p->first[i]) {
      const uint32_t entry = p->first[i];
      x = p->block[entry].link;
      if (!p->backend.done(p->backend.user, p->block[entry].address, wait))
        break;
      p->first[i] = p->block[entry].next;
      if (!p->first[i])
        p->last[i] = 0;
      vram__block_gone(p, entry);
      p->waiting--;
      if (!--p->block[x].link && !p->block[x].streams)
        vram__block_free(p, x);
    }
  for (x = 1; wait && p->stuck && x < p->nblock; x++) {
    vram__block *b = p->block + x;
    if (!(b->flags & VRAM__PENDING) || !b->streams)
      continue;
    for (i = 0; i < p->nstream; i++)
      if (b->streams >> i & 1) {
        const uint64_t event = p->backend.record(p->backend.user, p->stream[i]);
        if (event && p->backend.done(p->backend.user, event, 1))
          b->streams &= ~(UINT64_C(1) << i);
      }
    if (!b->streams) {
      p->stuck--;
      if (!b->link)
        vram__block_free(p, x);
    }
  }
}

/* ---- PyTorch's policy */

static uint64_t vram__round_request(const vram_pool *p, uint64_t bytes) {
  uint32_t i, divisions;
  uint64_t power, step;
  if (bytes < VRAM__MIN_BLOCK)
    return VRAM__MIN_BLOCK;
  i = vram__log2(bytes);
  i = i < 20 ? 0 : i > 35 ? 15 : i - 20; /* roundup_power2_divisions(size): from 1 MiB to 32 GiB */
  divisions = p->options.roundup_power2_divisions[i];
  if (divisions < 2 || bytes <= VRAM__MIN_BLOCK * divisions)
    return (bytes + VRAM__MIN_BLOCK - 1) / VRAM__MIN_BLOCK * VRAM__MIN_BLOCK;
  if (!(bytes & (bytes - 1)))
    return bytes;
  power = UINT64_C(1) << vram__log2(bytes);
  step = power >> vram__log2(divisions);
  return (bytes + step - 1) / step * step;
}

static uint64_t vram__segment_size(const vram_pool *p, uint64_t size) { /* get_allocation_size */
  return size <= VRAM__SMALL_REQUEST ? VRAM__SMALL_SEGMENT
         : size < VRAM__LARGE_REQUEST
             ? p->options.large_segment_size
             : (size + VRAM__SMALL_SEGMENT - 1) / VRAM__SMALL_SEGMENT * VRAM__SMALL_SEGMENT;
}

/* What a block of an expandable segment can grow to. */
static uint64_t vram__grown(const vram__block *b, uint32_t x) {
  const uint32_t next = b[x].next;
  return b[x].size + (next && !(b[next].flags & VRAM__MAPPED) ? b[next].size : 0);
}

/* get_free_block: the best fit of this stream and class, taken out; 0: none. */
static uint32_t vram__find_free(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const vram_pool_options *o = &p->options;
  const vram__block *b = p->block;
  uint32_t x, y;
  p->requests[small_pool]++;
  x = vram__bins_at_least(p, vram__bins_of(p, stream, small_pool), size);
  if (!x)
    return 0;
  if (o->expandable_segments)
    for (y = vram__bins_next(p, x); y && vram__grown(b, y) < vram__grown(b, x);
         y = vram__bins_next(p, y))
      x = y;
  if (size < o->max_split_size ? b[x].size >= o->max_split_size
                               : b[x].size >= size + o->max_non_split_rounding)
    return 0;
  vram__bins_remove(p, x);
  return x;
}

/* find_expandable_block: where `size` bytes of free and unmapped addresses lie in a row. */
static uint32_t vram__find_expandable(vram_pool *p, uint32_t stream, int small_pool,
                                      uint64_t size) {
  const uint64_t granule = vram__granule(p, small_pool);
  const uint64_t total = p->options.total_bytes + p->options.total_bytes / 8;
  const uint64_t room = (total + granule - 1) / granule * granule;
  uint32_t *unmapped = &vram__bins_of(p, stream, small_pool)->unmapped;
  vram__block *b = p->block;
  uint64_t address;
  uint32_t x, y;
  for (x = vram__tree_end(b, *unmapped, 0); x; x = vram__tree_beside(b, *unmapped, x, 1)) {
    const uint32_t first = b[x].prev && !(b[b[x].prev].flags & VRAM__HANDED) ? b[x].prev : x;
    uint64_t free = 0;
    for (y = first; y && free < size && !(b[y].flags & VRAM__HANDED); y = b[y].next)
      free += b[y].size;
    if (free >= size)
      return first;
  }
  if (size > room)
    return 0;
  address = p->backend.reserve(p->backend.user, room);
  if (!address)
    return 0;
  x = vram__block_new(p);
  vram__piece_new(p, x, address, room, stream, small_pool, VRAM__EXPANDABLE);
  b[x].skew = (uint32_t)(address % granule);
  vram__tree_add(b, unmapped, x);
  return x;
}

static int vram__whole(const vram__block *b) {
  return !vram__is_split(b) && !(b->flags & VRAM__AWAY);
}

/* The smallest segment of at least so many bytes that is all free, else the largest; 0: none. */
static uint32_t vram__whole_segment(const vram_pool *p, uint64_t bytes) {
  const vram__block *b = p->block;
  uint32_t i, x, best = 0;
  for (i = 0; i < 2 * p->nstream; i++) {
    x = vram__bins_at_least(p, p->bins + i, bytes);
    while (x && !vram__whole(b + x))
      x = vram__bins_next(p, x);
    if (x && (!best || b[x].size < b[best].size))
      best = x;
  }
  if (best)
    return best;
  for (i = 0; i < 2 * p->nstream; i++) {
    x = vram__bins_last(p, p->bins + i);
    while (x && !vram__whole(b + x))
      x = b[x].size >= VRAM__SMALL_SEGMENT ? vram__bins_previous(p, x) : 0;
    if (x && (!best || b[x].size > b[best].size))
      best = x;
  }
  return best;
}

/* Before so many bytes come from the device. Policy BEST gives some back first, if more than ever
   would be reserved. */
static int vram__may_grow(vram_pool *p, uint64_t bytes) {
  const uint64_t *reserved = &p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  while (p->options.policy == VRAM_POOL_BEST && *reserved + bytes > p->highest &&
         p->credit >= VRAM__CREDIT) {
    const uint32_t x = vram__whole_segment(p, *reserved + bytes - p->highest);
    if (!x)
      break;
    vram__segment_leave(p, x);
    p->block[x].flags |= VRAM__AWAY;
    p->credit -= VRAM__CREDIT;
  }
  return !p->options.limit_bytes || *reserved + bytes <= p->options.limit_bytes;
}

/* Policy BEST: segments that are away are forgotten, to make room for blocks. */
static void vram__forget_away(vram_pool *p) {
  uint32_t i, x, next;
  for (i = 0; i < 2 * p->nstream; i++)
    for (x = vram__bins_from(p, p->bins + i, 0); x; x = next) {
      next = vram__bins_next(p, x);
      if (p->block[x].flags & VRAM__AWAY)
        vram__segment_free(p, x);
    }
}

/* alloc_block: more memory from the backend, in no bin; 0: there is none. */
static uint32_t vram__more_memory(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const uint64_t bytes = vram__segment_size(p, size);
  vram__block *b = p->block;
  uint32_t x;
  if (!vram__may_grow(p, bytes))
    return 0;
  if (p->options.expandable_segments) {
    x = vram__find_expandable(p, stream, small_pool, size);
    if (x && !(b[x].flags & VRAM__MAPPED))
      x = vram__map(p, x, b[x].size < size ? b[x].size : size);
    while (x && b[x].size < size) {
      const uint32_t next = b[x].next;
      const uint64_t rest = size - b[x].size;
      x = vram__map(p, next, b[next].size < rest ? b[next].size : rest);
    }
    if (x)
      vram__bins_remove(p, x);
    return x;
  }
  x = vram__block_new(p);
  vram__piece_new(p, x, 0, bytes, stream, small_pool, VRAM__MAPPED);
  if (p->options.policy == VRAM_POOL_BEST)
    b[x].serial = ++p->serial;
  if (vram__segment_come(p, x))
    return x;
  vram__block_gone(p, x);
  return 0;
}

/* garbage_collect_cached_blocks: whole large segments that are older than the average go until
   the threshold is met. */
static void vram__collect(vram_pool *p) {
  const uint64_t limit = p->options.limit_bytes, part = p->options.garbage_collection_threshold;
  const uint64_t threshold = limit / 1000000 * part + limit % 1000000 * part / 1000000;
  const uint64_t reserved = p->stats.reserved_bytes[VRAM_POOL_ALL].current;
  const vram__block *b = p->block;
  uint64_t age = 0, count = 0, got = 0;
  uint32_t i, x, next;
  int any = 1;
  if (reserved <= threshold)
    return;
  for (i = 0; i < p->nstream; i++)
    for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], 0), 0); x; x = vram__bins_next(p, x))
      if (vram__whole(b + x))
        age += p->requests[0] - b[x].link, count++;
  while (got < reserved - threshold && any && count) {
    const uint64_t total = age, of = count; /* older than total / of */
    any = 0;
    for (i = 0; i < p->nstream; i++)
      for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], 0), 0); x; x = next) {
        next = vram__bins_next(p, x);
        if (!vram__whole(b + x) || (b[x].flags & VRAM__EXPANDABLE) ||
            (p->requests[0] - b[x].link) * of < total)
          continue;
        any = 1;
        got += b[x].size;
        age -= p->requests[0] - b[x].link;
        count--;
        vram__segment_free(p, x);
      }
  }
}

/* release_available_cached_blocks: a block too large to split that is large enough, or the largest
   of them until they are. */
static int vram__release_some(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  const uint64_t most = p->options.max_split_size, want = size < most ? most : size;
  const vram__bins *n = vram__bins_of(p, stream, small_pool);
  const vram__block *b = p->block;
  uint64_t got = 0;
  uint32_t x, next;
  if (most == UINT64_MAX || p->options.expandable_segments)
    return 0;
  x = vram__bins_at_least(p, n, want);
  while (x && !vram__whole(b + x)) /* PyTorch does not ask, and frees a piece of a segment */
    x = vram__bins_next(p, x);
  if (x) {
    vram__segment_free(p, x);
    return 1;
  }
  for (x = vram__bins_last(p, n); x && got < want && b[x].size >= most; x = next) {
    next = vram__bins_previous(p, x);
    if (!vram__whole(b + x))
      continue;
    got += b[x].size;
    vram__segment_free(p, x);
  }
  return got >= want;
}

/* release_cached_blocks: every segment that is one free block, every free granule. */
static void vram__release_all(vram_pool *p) {
  vram__block *b = p->block;
  int small_pool;
  uint32_t i, x, next, list;
  vram__poll(p, 1);
  for (small_pool = 0; small_pool < 2; small_pool++) { /* the large ones first */
    for (i = 0; i < p->nstream; i++)
      for (x = vram__bins_from(p, vram__bins_of(p, p->order[i], small_pool), 0); x; x = next) {
        next = vram__bins_next(p, x);
        if (!(b[x].flags & VRAM__EXPANDABLE) && !vram__is_split(b + x))
          vram__segment_free(p, x);
      }
    for (i = 0; p->options.expandable_segments && i < p->nstream; i++) {
      vram__bins *n = vram__bins_of(p, p->order[i], small_pool);
      uint32_t *end = &list;
      list = 0; /* unmapping changes the bins */
      for (x = vram__bins_from(p, n, 0); x; x = vram__bins_next(p, x)) {
        *end = x;
        end = &b[x].link;
      }
      *end = 0;
      for (x = list; x; x = next) {
        next = b[x].link;
        vram__unmap(p, x);
      }
      for (x = vram__tree_end(b, n->unmapped, 0); x; x = next) {
        next = vram__tree_beside(b, n->unmapped, x, 1);
        if (vram__is_split(b + x))
          continue;
        vram__tree_remove(p->block, &n->unmapped, x);
        p->backend.unreserve(p->backend.user, b[x].address, b[x].size);
        vram__block_gone(p, x);
      }
    }
  }
}

/* Which of the pool's streams it is; a new one gets the next place. UINT32_MAX: too many. */
static uint32_t vram__stream_at(vram_pool *p, uint64_t stream) {
  uint32_t i, k;
  for (i = 0; i < p->nstream; i++)
    if (p->stream[i] == stream)
      return i;
  if (i == p->options.streams)
    return UINT32_MAX;
  p->stream[i] = stream;
  vram__zero(p->bins + (size_t)2 * i, 2 * sizeof *p->bins);
  for (k = p->nstream++; k && p->stream[p->order[k - 1]] > stream; k--)
    p->order[k] = p->order[k - 1];
  p->order[k] = (uint8_t)i;
  return i;
}

/* A block of this size, in no bin; 0: there is no memory. */
static uint32_t vram__get_block(vram_pool *p, uint32_t stream, int small_pool, uint64_t size) {
  uint32_t x = vram__find_free(p, stream, small_pool, size);
  vram__block asked;
  if (x && (p->block[x].flags & VRAM__AWAY) &&
      !(vram__may_grow(p, p->block[x].size) && vram__segment_come(p, x))) {
    vram__bins_add(p, x);
    x = 0;
  }
  if (x)
    return x;
  if (p->options.limit_bytes && p->options.garbage_collection_threshold)
    vram__collect(p);
  x = vram__more_memory(p, stream, small_pool, size);
  if (!x && vram__release_some(p, stream, small_pool, size))
    x = vram__more_memory(p, stream, small_pool, size);
  if (x)
    return x;
  vram__release_all(p);
  p->stats.num_alloc_retries++;
  vram__zero(&asked, sizeof asked);
  asked.size = vram__segment_size(p, size);
  asked.stream = (uint8_t)stream;
  asked.flags = small_pool ? VRAM__SMALL_CLASS : 0;
  vram__pool_tell(p, VRAM_RETRY, &asked, asked.size, 0, 0);
  x = vram__more_memory(p, stream, small_pool, size);
  if (!x) {
    p->stats.num_ooms++;
    vram__pool_tell(p, VRAM_OOM, &asked, asked.size, 0, 0);
  }
  return x;
}

/* vram_pool_alloc, known by its block. */
static vram_result vram__pool_get(vram_pool *p, uint64_t bytes, uint64_t stream, uint32_t *block) {
  vram__block *b = p->block;
  uint64_t size;
  int64_t split_bytes = 0;
  int32_t split = 0;
  uint32_t at, x, rest = 0;
  int small_pool, was_split;
  if (p->waiting)
    vram__poll(p, 0);
  if (bytes >= VRAM__LARGEST_REQUEST)
    return VRAM_ERR_MEMORY;
  at = vram__stream_at(p, stream);
  if (p->options.policy == VRAM_POOL_BEST) {
    p->credit += p->credit < VRAM__CREDIT_MOST;
    if (vram__block_room(p) < VRAM__POOL_SPARE)
      vram__forget_away(p);
  }
  if (at == UINT32_MAX || vram__block_room(p) < VRAM__POOL_SPARE)
    return VRAM_ERR_LIMIT;
  size = vram__round_request(p, bytes);
  small_pool = size <= VRAM__SMALL_REQUEST;
  x = vram__get_block(p, at, small_pool, size);
  if (!x)
    return VRAM_ERR_MEMORY;
  was_split = vram__is_split(b + x);
  if (small_pool || p->options.expandable_segments
          ? b[x].size - size >= VRAM__MIN_BLOCK
          : size < p->options.max_split_size && b[x].size - size > VRAM__SMALL_REQUEST) {
    rest = vram__block_new(p);
    vram__cut(p, x, rest, size);
    vram__bins_add(p, rest);
  }
  if (!(b[x].flags & VRAM__EXPANDABLE)) {
    if (was_split) {
      vram__count_down(p, p->stats.inactive_split_bytes, small_pool, b[x].size);
      split_bytes = -(int64_t)b[x].size;
      if (!rest) {
        vram__count_down(p, p->stats.inactive_split, small_pool, 1);
        split = -1;
      }
    } else if (rest) {
      vram__count_up(p, p->stats.inactive_split_bytes, small_pool, b[rest].size);
      vram__count_up(p, p->stats.inactive_split, small_pool, 1);
      split_bytes = (int64_t)b[rest].size;
      split = 1;
    }
  }
  b[x].requested = bytes;
  b[x].streams = 0;
  b[x].flags |= VRAM__HANDED;
  vram__count_up(p, p->stats.allocation, small_pool, 1);
  vram__stat_up(p->stats.allocated_bytes, small_pool, b[x].size);
  vram__count_up(p, p->stats.active, small_pool, 1);
  vram__count_up(p, p->stats.active_bytes, small_pool, b[x].size);
  vram__count_up(p, p->stats.requested_bytes, small_pool, bytes);
  if (b[x].size >= p->options.max_split_size)
    vram__tally_up(&p->stats.oversize_allocations, 1);
  vram__pool_tell(p, VRAM_ALLOC, b + x, bytes, split_bytes, split);
  *block = x;
  return VRAM_OK;
}

/* vram_pool_free of what vram__pool_get gave. */
static void vram__pool_put(vram_pool *p, uint32_t x) {
  vram__block *b = p->block + x;
  const int small_pool = vram__is_small(b);
  vram__count_down(p, p->stats.allocation, small_pool, 1);
  vram__stat_down(p->stats.allocated_bytes, small_pool, b->size);
  if (b->size >= p->options.max_split_size)
    vram__tally_down(&p->stats.oversize_allocations, 1);
  vram__pool_tell(p, VRAM_FREE_REQUESTED, b, b->requested, 0, 0);
  if (b->streams) {
    b->flags |= VRAM__PENDING;
    vram__block_wait(p, x);
  } else
    vram__block_free(p, x);
}

VRAM_API vram_result vram_pool_alloc(vram_pool *p, uint64_t bytes, uint64_t stream,
                                     uint64_t *address) {
  uint32_t x;
  const vram_result r = vram__pool_get(p, bytes, stream, &x);
  *address = 0;
  if (r)
    return r;
  vram__hash_in(p, x);
  *address = p->block[x].address;
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_free(vram_pool *p, uint64_t address) {
  const uint32_t x = vram__handed(p, address);
  if (!x)
    return VRAM_ERR_VALUE;
  vram__unhash(p, x);
  vram__pool_put(p, x);
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_record_stream(vram_pool *p, uint64_t address, uint64_t stream) {
  const uint32_t x = vram__handed(p, address);
  uint32_t at;
  if (!x)
    return VRAM_ERR_VALUE;
  if (p->stream[p->block[x].stream] == stream)
    return VRAM_OK;
  if (!p->backend.record || !p->backend.done)
    return VRAM_ERR_UNSUPPORTED;
  at = vram__stream_at(p, stream);
  if (at == UINT32_MAX)
    return VRAM_ERR_LIMIT;
  p->block[x].streams |= UINT64_C(1) << at;
  return VRAM_OK;
}

VRAM_API void vram_pool_empty_cache(vram_pool *p) { vram__release_all(p); }

/* ---- what there is */

/* The mapped stretch of a segment that the block lies in; returns its first block. */
static uint32_t vram__stretch(const vram_pool *p, uint32_t x, uint64_t *bytes) {
  const vram__block *b = p->block;
  uint32_t first = x;
  while (b[first].prev && (b[b[first].prev].flags & VRAM__MAPPED))
    first = b[first].prev;
  *bytes = 0;
  for (x = first; x && (b[x].flags & VRAM__MAPPED); x = b[x].next)
    *bytes += b[x].size;
  return first;
}

static void vram__piece_of(const vram_pool *p, uint32_t x, vram_piece *piece) {
  const vram__block *b = p->block + x;
  piece->address = b->address;
  piece->bytes = b->size;
  piece->state = b->flags & VRAM__PENDING ? 2 : b->flags & VRAM__HANDED ? 1 : 0;
  piece->requested = piece->state ? b->requested : 0;
  piece->stream = p->stream[b->stream];
  piece->small_pool = vram__is_small(b);
  piece->expandable = (b->flags & VRAM__EXPANDABLE) != 0;
}

VRAM_API int vram_pool_find(const vram_pool *p, uint64_t address, vram_piece *piece) {
  const uint32_t x = vram__handed(p, address);
  vram__zero(piece, sizeof *piece);
  if (!x)
    return 0;
  piece->segment = p->block[vram__stretch(p, x, &piece->segment_bytes)].address;
  vram__piece_of(p, x, piece);
  return 1;
}

VRAM_API uint64_t vram_pool_largest_free(const vram_pool *p, const uint64_t *stream) {
  uint64_t most = 0;
  uint32_t i, x;
  int small_pool;
  for (i = 0; i < p->nstream; i++)
    for (small_pool = 0; small_pool < 2 && (!stream || *stream == p->stream[i]); small_pool++) {
      x = vram__bins_last(p, vram__bins_of(p, i, small_pool));
      while (x && (p->block[x].flags & VRAM__AWAY))
        x = vram__bins_previous(p, x);
      if (x && p->block[x].size > most)
        most = p->block[x].size;
    }
  return most;
}

VRAM_API int vram_pool_walk(const vram_pool *p, int (*visit)(void *user, const vram_piece *piece),
                            void *user) {
  const vram__block *b = p->block;
  vram_piece piece;
  uint32_t head, x;
  int end;
  for (head = 1; head < p->nblock; head++) {
    if (!(b[head].flags & VRAM__PIECE) || (b[head].flags & VRAM__AWAY) || b[head].prev)
      continue;
    for (x = head; x; x = b[x].next) {
      if (!(b[x].flags & VRAM__MAPPED))
        continue;
      if (x == head || !(b[b[x].prev].flags & VRAM__MAPPED)) {
        piece.segment = b[x].address;
        vram__stretch(p, x, &piece.segment_bytes);
      }
      vram__piece_of(p, x, &piece);
      end = visit(user, &piece);
      if (end)
        return end;
    }
  }
  return 0;
}

/* ---- options and memory */

/* PYTORCH_CUDA_ALLOC_CONF, ConfigTokenizer: words between , : [ and ]; spaces count for nothing. */
typedef struct vram__config {
  const char *text, *at; /* at: the word that was read last */
  uint32_t len;          /* of it; 0: the end */
  vram_error *err;
} vram__config;

static int vram__config_stops(char c) { return !c || c == ',' || c == ':' || c == '[' || c == ']'; }

static void vram__config_next(vram__config *c) {
  const char *p = c->at + c->len;
  while (*p == ' ')
    p++;
  c->at = p;
  c->len = 0;
  if (*p && vram__config_stops(*p))
    c->len = 1;
  else
    while (!vram__config_stops(p[c->len]) && p[c->len] != ' ')
      c->len++;
}

static int vram__config_is(const vram__config *c, const char *word) {
  return vram__same(c->at, c->len, word);
}

static vram_result vram__config_fail(vram__config *c, vram_result code, const char *what) {
  vram_error *e = c->err;
  uint32_t n = 0, i;
  if (!e)
    return code;
  vram__zero(e, sizeof *e);
  e->code = code;
  e->line = 1;
  e->column = (uint32_t)(c->at - c->text) + 1;
  vram__puts(e->text, sizeof e->text, &n, what);
  vram__puts(e->text, sizeof e->text, &n, " (found ");
  for (i = 0; i < c->len && i < 64; i++) {
    char letter = '?';
    if (c->at[i] >= 32 && c->at[i] < 127)
      letter = c->at[i];
    vram__put(e->text, sizeof e->text, &n, &letter, 1);
  }
  vram__puts(e->text, sizeof e->text, &n, c->len ? ")" : "the end)");
  return code;
}

/* The word as an integer up to `most`. */
static int vram__config_int(const vram__config *c, uint64_t most, uint64_t *v) {
  uint32_t i;
  *v = 0;
  for (i = 0; i < c->len; i++) {
    const uint64_t digit = (uint64_t)(uint8_t)c->at[i] - '0';
    if (digit > 9 || *v > (most - digit) / 10)
      return 0;
    *v = *v * 10 + digit;
  }
  return c->len != 0;
}

/* The word as a fraction, in millionths: digits with a point. */
static int vram__config_fraction(const vram__config *c, uint32_t *millionths) {
  uint32_t i, unit = 0;
  int digits = 0;
  *millionths = 0;
  for (i = 0; i < c->len; i++)
    if (c->at[i] == '.' && !unit)
      unit = 1000000;
    else if (c->at[i] < '0' || c->at[i] > '9')
      return 0;
    else if (unit) {
      unit /= 10;
      *millionths += unit * (uint32_t)(c->at[i] - '0');
      unit = unit ? unit : 1; /* beyond millionths */
      digits = 1;
    } else {
      if (*millionths > 1000000)
        return 0;
      *millionths = *millionths * 10 + (uint32_t)(c->at[i] - '0') * 1000000;
      digits = 1;
    }
  return digits;
}

static int vram__config_divisions(vram__config *c, uint64_t least, uint16_t *divisions) {
  uint64_t v;
  if (!vram__config_int(c, 32768, &v) || v < least || (v & (v - (v > 0))))
    return 0;
  *divisions = (uint16_t)v;
  return 1;
}

#define VRAM__DIVISIONS "roundup_power2_divisions must be a power of 2 up to 32768"

/* One number of divisions for all sizes, or [SIZE:DIVISIONS,...,>:DIVISIONS] with sizes in MiB: the
   first holds for smaller ones, too. */
static vram_result vram__config_roundup(vram__config *c, uint16_t *divisions) {
  uint64_t mib = 0;
  uint32_t i, last = 0;
  uint16_t v;
  int first = 1;
  if (!vram__config_is(c, "[")) {
    if (!vram__config_divisions(c, 1, &v))
      return vram__config_fail(c, VRAM_ERR_VALUE, VRAM__DIVISIONS);
    for (i = 0; i < 16; i++)
      divisions[i] = v;
    return VRAM_OK;
  }
  for (vram__config_next(c); !vram__config_is(c, "]"); first = 0) {
    const int rest = vram__config_is(c, ">");
    if (!rest && (!vram__config_int(c, UINT64_MAX, &mib) || !mib || (mib & (mib - 1))))
      return vram__config_fail(
          c, VRAM_ERR_VALUE,
          "a size in roundup_power2_divisions must be a power of 2, in MiB, or >");
    vram__config_next(c);
    if (!vram__config_is(c, ":"))
      return vram__config_fail(c, VRAM_ERR_SYNTAX, "a : must follow the size");
    vram__config_next(c);
    if (!vram__config_divisions(c, 0, &v))
      return vram__config_fail(c, VRAM_ERR_VALUE, VRAM__DIVISIONS " or 0");
    if (rest) {
      for (i = last + 1; i < 16; i++)
        divisions[i] = v;
    } else {
      last = vram__log2(mib) < 15 ? vram__log2(mib) : 15;
      for (i = first ? 0 : last; i <= last; i++)
        divisions[i] = v;
    }
    vram__config_next(c);
    if (vram__config_is(c, ","))
      vram__config_next(c);
    else if (!vram__config_is(c, "]"))
      return vram__config_fail(c, VRAM_ERR_SYNTAX, "a , or ] must follow the divisions");
  }
  return VRAM_OK;
}

/* Keys of PyTorch that change nothing here. */
static int vram__config_skips(const vram__config *c) {
  static const char *const name[] = {
      "release_lock_on_cudamalloc",     "release_lock_on_hipmalloc",
      "pinned_use_cuda_host_register",  "pinned_use_hip_host_register",
      "pinned_num_register_threads",    "pinned_use_background_threads",
      "pinned_reserve_segment_size_mb", "graph_capture_record_stream_reuse",
      "throw_on_cudamalloc_oom"};
  uint32_t i;
  for (i = 0; i < sizeof name / sizeof *name; i++)
    if (vram__config_is(c, name[i]))
      return 1;
  return 0;
}

static vram_result vram__config_value(vram__config *c, const vram__config *key,
                                      vram_pool_options *o) {
  uint64_t mib = 0;
  uint32_t part;
  const int number = vram__config_int(c, UINT64_MAX >> 20, &mib);
  if (vram__config_is(key, "max_split_size_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20)
      return vram__config_fail(c, VRAM_ERR_VALUE, "max_split_size_mb must be a number from 20 on");
    o->max_split_size = mib << 20;
  } else if (vram__config_is(key, "max_non_split_rounding_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "max_non_split_rounding_mb must be a number from 20 on");
    o->max_non_split_rounding = mib << 20;
  } else if (vram__config_is(key, "large_segment_size_mb")) {
    if (!number || mib < VRAM__LARGE_SEGMENT >> 20 || mib > 2048 || mib % 2)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "large_segment_size_mb must be an even number from 20 to 2048");
    o->large_segment_size = mib << 20;
  } else if (vram__config_is(key, "garbage_collection_threshold")) {
    if (!vram__config_fraction(c, &part) || !part || part >= 1000000)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "garbage_collection_threshold must be above 0 and below 1");
    o->garbage_collection_threshold = part;
  } else if (vram__config_is(key, "per_process_memory_fraction")) {
    if (!vram__config_fraction(c, &part) || part > 1000000)
      return vram__config_fail(c, VRAM_ERR_VALUE,
                               "per_process_memory_fraction must be from 0 to 1");
    o->limit_bytes = o->total_bytes / 1000000 * part + o->total_bytes % 1000000 * part / 1000000;
  } else if (vram__config_is(key, "expandable_segments")) {
    if (!vram__config_is(c, "True") && !vram__config_is(c, "False"))
      return vram__config_fail(c, VRAM_ERR_VALUE, "expandable_segments must be True or False");
    o->expandable_segments = vram__config_is(c, "True");
  } else if (vram__config_is(key, "backend")) {
    if (!vram__config_is(c, "native"))
      return vram__config_fail(c, VRAM_ERR_VALUE, "backend must be native");
  } else if (vram__config_is(key, "roundup_power2_divisions"))
    return vram__config_roundup(c, o->roundup_power2_divisions);
  else if (!c->len || vram__config_stops(*c->at))
    return vram__config_fail(c, VRAM_ERR_SYNTAX, "a value must follow the :");
  return VRAM_OK;
}

VRAM_API vram_result vram_pool_config(const char *text, vram_pool_options *o, vram_error *err) {
  static const char *const name[] = {"max_split_size_mb",
                                     "max_non_split_rounding_mb",
                                     "large_segment_size_mb",
                                     "garbage_collection_threshold",
                                     "per_process_memory_fraction",
                                     "expandable_segments",
                                     "backend",
                                     "roundup_power2_divisions"};
  vram_pool_options now = *o;
  vram__config c, key;
  vram_result r;
  uint32_t i, known;
  if (err)
    vram__zero(err, sizeof *err);
  c.text = c.at = text;
  c.len = 0;
  c.err = err;
  for (vram__config_next(&c); c.len;) {
    key = c;
    known = (uint32_t)vram__config_skips(&key);
    for (i = 0; i < sizeof name / sizeof *name; i++)
      known |= (uint32_t)vram__config_is(&key, name[i]);
    if (!known)
      return vram__config_fail(&c, VRAM_ERR_NAME,
                               "no key of PYTORCH_CUDA_ALLOC_CONF that is known here");
    vram__config_next(&c);
    if (!vram__config_is(&c, ":"))
      return vram__config_fail(&c, VRAM_ERR_SYNTAX, "a : must follow the key");
    vram__config_next(&c);
    r = vram__config_value(&c, &key, &now);
    if (r)
      return r;
    vram__config_next(&c);
    if (vram__config_is(&c, ","))
      vram__config_next(&c);
    else if (c.len)
      return vram__config_fail(&c, VRAM_ERR_SYNTAX, "a , must follow the value");
  }
  *o = now;
  return VRAM_OK;
}

static uint32_t vram__pool_streams(uint32_t streams) { return streams ? streams : 16; }

static uint64_t vram__pool_slots(uint64_t blocks) {
  uint64_t slots = 16;
  while (slots < blocks)
    slots *= 2;
  return slots;
}

VRAM_API uint64_t vram_pool_bytes(uint32_t blocks, uint32_t streams) {
  const uint64_t all = (uint64_t)blocks + VRAM__POOL_SPARE + 1;
  return 63 + all * sizeof(vram__block) + vram__pool_slots(blocks) * sizeof(uint32_t) +
         (uint64_t)vram__pool_streams(streams) * 2 * sizeof(vram__bins);
}

static vram_result vram__pool_refuse(vram_error *err, vram_result code, const char *what) {
  uint32_t n = 0;
  if (err) {
    vram__zero(err, sizeof *err);
    err->code = code;
    vram__puts(err->text, sizeof err->text, &n, what);
  }
  return code;
}

static const char *vram__pool_options_bad(const vram_pool_options *o, const vram_backend *b) {
  uint32_t i;
  if (o->policy != VRAM_POOL_TORCH && o->policy != VRAM_POOL_BEST)
    return "no such policy";
  if (!b->alloc != !b->free || (!b->alloc && !o->expandable_segments))
    return "the backend needs alloc and free";
  if (o->expandable_segments && (!b->reserve || !b->unreserve || !b->map || !b->unmap))
    return "expandable_segments: the backend needs reserve, unreserve, map and unmap";
  if (o->expandable_segments && o->policy == VRAM_POOL_BEST)
    return "policy BEST has no expandable_segments";
  if (o->expandable_segments && !o->total_bytes)
    return "expandable_segments: total_bytes must be the device's memory";
  if (!b->record != !b->done)
    return "the backend needs both record and done, or neither";
  if (o->streams > VRAM_POOL_STREAMS)
    return "streams must be 64 at most";
  if (o->max_split_size && o->max_split_size < VRAM__LARGE_SEGMENT)
    return "max_split_size must be 20 MiB or more";
  if (o->large_segment_size &&
      (o->large_segment_size < VRAM__LARGE_SEGMENT || o->large_segment_size > UINT32_MAX ||
       o->large_segment_size % VRAM__SMALL_SEGMENT))
    return "large_segment_size must be a multiple of 2 MiB from 20 MiB to 4 GiB";
  if (o->garbage_collection_threshold >= 1000000)
    return "garbage_collection_threshold must be below 1000000 millionths";
  if (o->limit_bytes > (uint64_t)VRAM_MAX_BYTES || o->total_bytes > (uint64_t)VRAM_MAX_BYTES)
    return "limit_bytes and total_bytes must be below 2^63";
  for (i = 0; i < 16; i++)
    if (o->roundup_power2_divisions[i] & (o->roundup_power2_divisions[i] - 1))
      return "roundup_power2_divisions must be powers of 2";
  return NULL;
}

VRAM_API vram_result vram_pool_init(vram_pool *p, const vram_pool_options *o,
                                    const vram_backend *backend, void *mem, uint64_t bytes,
                                    vram_error *err) {
  const uint64_t skip = (64 - (uint64_t)(uintptr_t)mem % 64) % 64;
  const uint64_t max = UINT32_MAX - 2 * VRAM__POOL_SPARE;
  const char *bad;
  uint8_t *at = (uint8_t *)mem + skip;
  uint64_t blocks, slots;
  if (err)
    vram__zero(err, sizeof *err);
  vram__zero(p, sizeof *p);
  if (o)
    p->options = *o;
  o = &p->options;
  bad = vram__pool_options_bad(o, backend);
  if (bad)
    return vram__pool_refuse(err, VRAM_ERR_VALUE, bad);
  p->backend = *backend;
  p->options.streams = vram__pool_streams(o->streams);
  if (!o->max_split_size)
    p->options.max_split_size = UINT64_MAX;
  if (!o->max_non_split_rounding)
    p->options.max_non_split_rounding = VRAM__LARGE_SEGMENT;
  if (!o->large_segment_size)
    p->options.large_segment_size = VRAM__LARGE_SEGMENT;
  if (!mem || bytes < vram_pool_bytes(1, o->streams))
    return vram__pool_refuse(err, VRAM_ERR_MEMORY, "less memory than vram_pool_bytes says");
  /* as many blocks as fit: slots are a power of two */
  blocks = bytes / sizeof(vram__block);
  blocks = blocks < max ? blocks : max;
  while (vram_pool_bytes((uint32_t)blocks, o->streams) > bytes)
    blocks -= (vram_pool_bytes((uint32_t)blocks, o->streams) - bytes) / 128 + 1;
  slots = vram__pool_slots(blocks);
  p->block = (vram__block *)(void *)at;
  at += (blocks + VRAM__POOL_SPARE + 1) * sizeof(vram__block);
  p->bins = (vram__bins *)(void *)at;
  at += (uint64_t)o->streams * 2 * sizeof(vram__bins);
  p->hash = (uint32_t *)(void *)at;
  p->mask = (uint32_t)(slots - 1);
  vram__zero(p->hash, slots * sizeof *p->hash);
  vram__zero(p->block, sizeof *p->block);
  p->cap = (uint32_t)blocks + VRAM__POOL_SPARE + 1;
  p->nblock = 1;
  p->credit = VRAM__CREDIT_MOST;
  return VRAM_OK;
}

/* >>step (Implementation) ----------------------------------------------------------------------
   A small PyTorch without numbers: tensors are views of storages, ops allocate and free storages,
   autograd's nodes are records on a tape, backward walks the tape from its end. A storage goes when
   the last tensor, saved tensor or gradient that refers to it goes, as in PyTorch. */

/* A storage, or one more tensor on it (a view). */
typedef struct vram__store {
  uint64_t bytes;
  uint32_t refs;  /* handles of this tensor, and views of it */
  uint32_t srefs; /* tensors on this storage that have handles, and saved ones (owner's slot) */
  uint32_t base;  /* slot of the owner; itself if it owns */
  uint32_t id;    /* of the event; or the next free slot */
  const vram_node *node;
  uint8_t cat;
  uint8_t saved : 1;
  uint8_t held : 1;  /* this slot is what keeps fn */
  uint8_t shown : 1; /* stands for a view of itself, which would hold the storage once more */
  uint16_t out;      /* which output of fn */
  uint32_t block;    /* in the pool of the replay; 0: none */
  uint32_t fn;       /* autograd's node that made the tensor, or leaf; 0: none */
  uint32_t of;       /* a view: slot of the tensor that it is a view of; 0: no view for autograd */
  uint32_t ver;      /* in-place operations on it and its views; those that a view's fn knows of */
  uint32_t writes;   /* the last in-place operation on the storage (owner's slot): the newest record
                        before it, + 1 */
  const vram_dims *d;
} vram__store;

#define VRAM__LEAF 0x80000000u /* an autograd edge to a leaf: the rest is its index */

struct vram__t {
  const vram_dims *d;
  uint32_t st;  /* slot, 0: none */
  uint32_t fn;  /* tape record that made it, or leaf; 0: none */
  uint16_t out; /* which output of fn */
  uint8_t dt;
  uint8_t req; /* requires_grad */
  uint8_t off; /* elements before it in its storage, modulo 16 */
};

typedef struct vram__slot { /* an output of an autograd node: where its gradient arrives */
  vram__t g;
  const vram_dims *d;
  uint8_t dt;
} vram__slot;

typedef struct vram__edge {
  uint32_t fn;
  uint32_t out;
} vram__edge;

typedef struct vram__fn {
  const vram_node *node;
  uint32_t prev;  /* record before it on the tape */
  uint32_t refs;  /* tensors and later records that lead here */
  uint32_t deps;  /* the next allocation's id when it was made; the next one to go */
  uint32_t next;  /* of a checkpointed call: the next record that saves */
  uint32_t frame; /* checkpointed call that it belongs to, 0: none */
  uint16_t kind, nin, nout, nsaved;
  uint8_t done, flag, inner; /* inner: aux is the record of an operation inside this one */
  uint64_t aux;
} vram__fn;

#define VRAM__OWN 2 /* slots of what modules own: all weights, all buffers */

#define VRAM__EDGES(f) ((vram__edge *)(void *)((f) + 1))
#define VRAM__SLOTS(f) ((vram__slot *)(void *)(VRAM__EDGES(f) + (f)->nin))
#define VRAM__SAVED(f) ((vram__t *)(void *)(VRAM__SLOTS(f) + (f)->nout))

typedef struct vram__task { /* gradients that arrive at a leaf in one backward */
  vram__t in;
  uint32_t deps; /* how many are still to come */
} vram__task;

typedef struct vram__leaf {
  const vram_dims *d;
  vram__t grad; /* .grad */
  vram__task task;
  uint64_t had_bytes; /* the step before left a gradient on a storage so large, */
  uint32_t had_with;  /* on that of leaf had_with - 1; 0: on its own */
  uint32_t next_cast; /* next leaf with a cached copy, + 1 */
  uint8_t dt, had;
} vram__leaf;

typedef struct vram__obj { /* a Python variable's tensor */
  vram__t t;
  uint32_t refs;
} vram__obj;

#define VRAM__SPARE 64 /* more than one operation needs at a time */

typedef struct vram__range { /* nodes that are checkpointed */
  const vram_node *first, *last;
  const vram_node *hold;         /* the output is held until this one has run, too */
  const vram_value **arg, **out; /* what it uses from outside, what is used outside */
  uint32_t narg, nout;
} vram__range;

/* A call of checkpoint() without reentrance (_CheckpointFrame). Its records save nothing until the
   first of them runs backward; then the nodes run once more. */
typedef struct vram__frame {
  const vram__range *range;
  vram__t *arg;         /* what went in */
  uint32_t *writes;     /* in-place operations on those at that time */
  uint32_t alive;       /* records that have not released what they save, and the call itself */
  uint32_t saves;       /* tensors saved */
  uint32_t first, tail; /* records that save */
  uint32_t final;       /* record that saved last: recomputation ends there, */
  uint32_t before;      /* after so many, */
  uint8_t late;         /* and what it saved it had allocated itself */
  uint8_t done;         /* recomputed */
} vram__frame;

/* Autograd nodes that are not an op of the text form; each has a function vram__bw_NAME. */
/* clang-format off */
#define VRAM__PRIMITIVES(X)                                                                      \
  X(view) X(permute) X(expand) X(slice) X(clone) X(cast)                                         \
  X(addmm) X(baddbmm) X(mm) X(bmm) X(mv) X(dot)                                                  \
  X(nll) X(mean) X(lstm_gates) X(gru_gates) X(index_add)                                                      \
  X(as_strided) X(copy_slices) X(copy) X(noise) X(scale) X(checkpoint)                           \
  X(sdpa_cudnn) X(sdpa_flash) X(sdpa_efficient) X(safe_softmax) X(bn)           \
  X(xlogx) X(ctc)
/* clang-format on */

/* Pointwise ops that save or give other things with other arguments: recipes as in the op table. */
#define VRAM__VARIANTS(X)                                                                          \
  X(add_alpha, "w: g %; x: g =")                                                                   \
  X(sub_alpha, "w: g ~ %; x: g =")                                                                 \
  X(div_rounded, "w: x ' w ' z; x: w ' z")                                                         \
  X(pow_tensor, "w: g w ! x ! ? / y x > ~ * 0 3 *; x: g w x w % * * * 0 w ! 3")                    \
  X(lerp_tensor, "w: g b *; x: g b % *; b: g w x * *")                                             \
  X(clamp_both, "x: 0 x ! x ! g 3; inplace: copy")                                                 \
  X(zeros_like, "x: g ~")

enum {
  VRAM__K_FIRST = VRAM_OP_COUNT - 1,
#define VRAM__X(name) VRAM__K_##name,
  VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
      VRAM__K_VARIANTS, /* the first of them */
  VRAM__K_BEFORE = VRAM__K_VARIANTS - 1,
#define VRAM__X(name, recipe) VRAM__K_##name,
  VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
      VRAM__K_COUNT
};

typedef struct vram__cats { /* bytes by category */
  uint64_t of[VRAM_CATEGORY_COUNT];
} vram__cats;

struct vram__s {
  const vram_graph *g;
  vram__t rnn_dropout; /* cuDNN's random numbers, one for the process */
  uint8_t rnn_reset;   /* made anew by the next call: the generator's state was set */
  const vram_step_options *o;
  uint8_t *mem;
  uint64_t used, cap; /* the tape grows up to there, */
  vram__store *top;   /* slots grow down: slot i is top - i; slot 0 stands for none */
  vram_dims *spare;   /* when the memory is used up */
  uint32_t nspare;
  uint32_t nstore, free;
  uint32_t last_fn, max_fn_in;
  uint32_t gone; /* records that are about to go */
  uint8_t going;
  uint32_t casts;     /* leaves with a cached copy */
  vram__range *range; /* what is checkpointed, in order */
  uint32_t nrange;
  vram__frame *frame; /* the checkpointed call that runs, */
  uint8_t stale;      /* something that may be saved was overwritten in place */
  uint8_t again;      /* in its recomputation: */
  uint8_t mute;       /* it has all it needs, nothing is allocated any more */
  uint32_t count;     /* tensors saved so far */
  uint32_t cursor;    /* record of the call whose saved tensors come next */
  uint32_t full;      /* record that saved the last of them */
  uint32_t depth;     /* backward inside backward */
  uint64_t most_used;
  uint32_t most_args; /* of one range */
  vram__obj *obj;
  uint32_t *name_of; /* value index -> object */
  vram__t *param;
  vram__leaf *leaf;
  vram__t *cast;     /* of each leaf autocast's cached copy; NULL: no autocast */
  vram__task *inner; /* of each leaf in the backward inside backward; NULL: there is none */
  uint32_t nleaf, nparam_leaf;
  vram__t *gin;           /* gradients for the inputs of the running backward node */
  vram__t *args;          /* inputs and outputs of the running node */
  vram__t loss, scale;    /* the scale of GradScaler */
  const vram_value *root; /* what backward starts from, or the caller keeps */
  uint8_t *skip;          /* nodes that inference leaves out; NULL: none */
  struct vram__optim_param *optim;
  const char *problem; /* why these options are impossible */
  const vram_node *problem_node;
  uint64_t optim_held;             /* optimizer state from before the step */
  vram__total optim_all;           /* a list like all trainable parameters */
  vram__total had;                 /* the storages of all gradients */
  uint8_t scaler;                  /* GradScaler takes part */
  uint8_t ideal;                   /* VRAM_RULES_IDEAL */
  uint8_t registers;               /* results stay in registers: nothing is allocated */
  uint8_t known;                   /* leaf.had is known from a step before */
  uint8_t all_had;                 /* every trainable parameter got a gradient, */
  uint8_t missing;                 /* or one did not, so it has no optimizer state */
  uint32_t plan[VRAM__K_COUNT][2]; /* recipes in short, of the op and in place; 0: not yet */
  const vram_dims *cache[64];
  const vram_dims *scalar;
  const vram_dims *vec; /* the last one of one axis that vram__vec made */
  const vram_node *node;
  vram_phase phase;
  uint8_t grad, train, amp, failed, low;
  uint8_t watched; /* single events matter: somebody listens, or the live set is wanted */
  uint8_t cat;     /* category of what is allocated now */
  uint32_t cc, sm, threads;
  uint64_t ws;
  uint64_t cur, peak, total_peak, next_id, events;
  uint64_t blocks, blocks_peak; /* in blocks of the caching allocator, */
  uint64_t most_blocks;         /* of all phases, */
  uint64_t upper, upper_peak;   /* and what they take at most */
  uint64_t custom, custom_most; /* that custom ops may save less, take less for a moment */
  uint64_t stop_at;             /* 1 + the event at which the live set is wanted, 0: none */
  vram_live *live;
  uint32_t live_cap, live_count;
  uint64_t peak_event;
  vram__cats cats, peak_cats;
  const vram_node *peak_node;
  vram_phase peak_phase;
  uint8_t fresh; /* the highest point so far is now */
  vram_report *r;
  vram__run *run; /* NULL: no replay */
};

/* ---- the replay of a run: the model goes to the device, then its inputs; two steps, and the one
   that is reported. What a step leaves behind keeps its block. */

struct vram__run {
  vram_pool pool;
  uint64_t room, next;  /* of the simulated device: bytes left, the next address */
  uint32_t *gradient;   /* blocks of the leaves' gradients */
  uint32_t rnn_dropout; /* block of its state */
  uint8_t fresh;        /* nothing is on the device yet */
  uint8_t full;         /* the pool's own memory was too small, */
  uint8_t oom;          /* or that of the device: nothing more is played, */
  uint8_t tight;        /* and nobody asks about the rest */
  /* a step on tape: see vram__play_tape */
  uint64_t *tape;
  uint32_t *block; /* of each id */
  uint32_t ntape, tape_cap, ids;
  uint32_t body, optim, after; /* where the step begins, its optimizer, what follows that */
  uint8_t taping;              /* events go on the tape, not into the pool */
  uint8_t untold;              /* what happens once more is not the same, or the tape is full */
};

enum { VRAM__TAPE_ALLOC, VRAM__TAPE_FREE, VRAM__TAPE_OWN, VRAM__TAPE_PHASE };

static inline void vram__tape(vram__run *run, uint32_t kind, uint64_t value) {
  if (run->ntape < run->tape_cap)
    run->tape[run->ntape++] = value << 2 | kind;
  else
    run->untold = 1;
}

static uint64_t vram__run_alloc(void *user, uint64_t bytes, uint64_t stream) {
  vram__run *run = (vram__run *)user;
  const uint64_t at = run->next;
  (void)stream;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  run->next += (bytes + VRAM__SMALL_SEGMENT - 1) / VRAM__SMALL_SEGMENT * VRAM__SMALL_SEGMENT;
  return at;
}

static void vram__run_free(void *user, uint64_t address, uint64_t bytes, uint64_t stream) {
  (void)address, (void)stream;
  ((vram__run *)user)->room += bytes;
}

static uint64_t vram__run_reserve(void *user, uint64_t bytes) {
  vram__run *run = (vram__run *)user;
  const uint64_t granule = VRAM__LARGE_SEGMENT;
  const uint64_t at = (run->next + granule - 1) / granule * granule;
  run->next = at + bytes;
  return at;
}

static void vram__run_unreserve(void *user, uint64_t address, uint64_t bytes) {
  (void)user, (void)address, (void)bytes;
}

static int vram__run_map(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  vram__run *run = (vram__run *)user;
  (void)address, (void)granule;
  if (bytes > run->room)
    return 0;
  run->room -= bytes;
  return 1;
}

static void vram__run_unmap(void *user, uint64_t address, uint64_t bytes, uint64_t granule) {
  (void)address, (void)granule;
  ((vram__run *)user)->room += bytes;
}

static uint32_t vram__run_get(vram__s *s, uint64_t bytes) {
  vram__run *run = s->run;
  uint32_t x = 0;
  vram_result r;
  if (!bytes || run->full || run->oom)
    return 0;
  r = vram__pool_get(&run->pool, bytes, 0, &x);
  run->full = r == VRAM_ERR_LIMIT;
  run->oom = r == VRAM_ERR_MEMORY;
  if (run->oom && run->tight)
    s->failed = VRAM_ERR_LIMIT; /* the quickest way out */
  return x;
}

static void vram__run_put(vram__run *run, uint32_t x) {
  if (x && !run->full && !run->oom)
    vram__pool_put(&run->pool, x);
}

/* Whoever listens to the allocator (vram_pool_options.event) hears what it is for, and when. */
static inline void vram__run_as(vram__s *s, uint8_t cat, const vram_node *node) {
  vram_event *as = &s->run->pool.as;
  as->category = as->was = (vram_category)cat;
  as->node = node;
  as->phase = s->phase;
}

static void vram__emit_event(vram__s *s, vram_action a, const vram__store *st) {
  vram_event e;
  vram__zero(&e, sizeof e);
  e.action = a;
  e.phase = s->phase;
  e.category = e.was = (vram_category)st->cat;
  e.id = st->id == UINT32_MAX ? -1 : (int64_t)st->id;
  e.bytes = st->bytes;
  e.node = a == VRAM_ALLOC ? s->node : st->node;
  s->o->event(s->o->user, &e);
}

static void vram__at_peak(vram__s *s) {
  s->peak_cats = s->cats;
  s->fresh = 0;
}

static void vram__live_one(vram__s *s, uint64_t bytes, uint8_t cat, const vram_node *node) {
  if (bytes && s->live_count < s->live_cap) {
    vram_live *l = s->live + s->live_count;
    l->bytes = bytes;
    l->category = (vram_category)cat;
    l->node = node;
  }
  s->live_count += bytes != 0;
}

/* What is allocated now, for vram_step_live. */
static void vram__live_set(vram__s *s) {
  const vram_param *p;
  uint32_t i;
  for (p = s->g->param_first; p; p = p->next)
    if (p->node->op != VRAM_OP_parameter && p->node->op != VRAM_OP_buffer)
      vram__live_one(s, vram__bytes_of(p->d, s->param[p->index].dt),
                     p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS,
                     p->node);
  for (i = 1; i <= s->nstore; i++) {
    const vram__store *st = s->top - i;
    if (st->base == i && st->srefs)
      vram__live_one(s, st->bytes, st->cat, st->node);
  }
  vram__live_one(s, s->optim_held, VRAM_CATEGORY_OPTIMIZER, NULL);
}

static inline void vram__tape_event(vram__run *run, vram_action a, const vram__store *st) {
  if (a == VRAM_FREE)
    vram__tape(run, VRAM__TAPE_FREE, st->id);
  else
    vram__tape(run, VRAM__TAPE_ALLOC, st->bytes);
  run->untold |= a == VRAM_FREE ? st->id >= run->ids : st->id != run->ids++;
}

static void vram__watch(vram__s *s, vram_action a, vram__store *st) {
  if (s->run && s->run->taping)
    vram__tape_event(s->run, a, st);
  else if (s->run) {
    vram__run_as(s, st->cat, a == VRAM_ALLOC ? s->node : st->node);
    if (a == VRAM_ALLOC)
      st->block = vram__run_get(s, st->bytes);
    else
      vram__run_put(s->run, st->block);
  }
  if (s->o->event)
    vram__emit_event(s, a, st);
  if (a == VRAM_ALLOC && s->events + 1 == s->stop_at)
    vram__live_set(s);
}

/* What vram__s counts: so many bytes more. */
static inline void vram__grow(vram__s *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__blocks(bytes);
  s->cur += bytes;
  s->cats.of[cat] += bytes;
  s->blocks += block;
  s->upper += block + (bytes > VRAM__SMALL ? VRAM__SMALL : 0);
  if (s->blocks > s->blocks_peak)
    s->blocks_peak = s->blocks;
  if (s->upper > s->upper_peak)
    s->upper_peak = s->upper;
  if (s->cur > s->peak) {
    s->peak = s->cur;
    if (s->cur > s->total_peak) {
      s->total_peak = s->cur;
      s->peak_event = s->events;
      s->peak_node = s->node;
      s->peak_phase = s->phase;
      s->fresh = 1;
    }
  }
}

static inline void vram__shrink(vram__s *s, uint64_t bytes, uint8_t cat) {
  const uint64_t block = vram__blocks(bytes);
  if (s->fresh)
    vram__at_peak(s);
  s->cur -= bytes;
  s->cats.of[cat] -= bytes;
  s->blocks -= block;
  s->upper -= block + (bytes > VRAM__SMALL ? VRAM__SMALL : 0);
}

/* So many bytes can be added up, or the step fails. */
static inline int vram__countable(vram__s *s, uint64_t bytes) {
  if (bytes <= (uint64_t)VRAM_MAX_BYTES - s->cur)
    return 1;
  s->failed = VRAM_ERR_OVERFLOW;
  return 0;
}

/* A slot that nobody uses; 0: the scratch memory is used up. */
static inline uint32_t vram__slot_new(vram__s *s) {
  const uint32_t i = s->free;
  if (i) {
    s->free = (s->top - i)->id;
    return i;
  }
  if (s->used + sizeof(vram__store) > s->cap) {
    s->failed = VRAM_ERR_MEMORY;
    return 0;
  }
  s->cap -= sizeof(vram__store);
  return ++s->nstore;
}

/* A new storage of so many bytes for a tensor of dims d: its slot (no bytes: PyTorch allocates
   nothing). */
VRAM__PART uint32_t vram__new_of(vram__s *s, uint64_t bytes, const vram_dims *d) {
  uint32_t i = s->free;
  vram__store *st = s->top - i;
  if (s->mute)
    return 0;
  if (i)
    s->free = st->id;
  else {
    i = vram__slot_new(s);
    if (!i)
      return 0;
    st = s->top - i;
  }
  if (bytes > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    bytes = 0;
  }
  st->bytes = bytes;
  st->refs = st->srefs = 1;
  st->base = i;
  st->node = s->node;
  st->cat = s->cat;
  st->saved = st->held = st->shown = 0;
  st->block = 0;
  st->fn = st->of = st->ver = st->writes = 0;
  st->d = d;
  st->id = UINT32_MAX;
  if (bytes) {
    st->id = (uint32_t)s->next_id++;
    s->events++;
    vram__grow(s, bytes, s->cat);
    if (s->watched)
      vram__watch(s, VRAM_ALLOC, st);
  }
  return i;
}

/* One whose shape nobody asks for. */
static uint32_t vram__new(vram__s *s, uint64_t bytes) { return vram__new_of(s, bytes, NULL); }

static void vram__fn_unref(vram__s *s, uint32_t fn);

/* Slot i and the storage that it owns go. */
VRAM__PART void vram__storage_gone(vram__s *s, uint32_t i) {
  vram__store *b = s->top - i;
  if (b->bytes) {
    s->events++;
    if (b->saved && s->phase == VRAM_PHASE_FORWARD) /* a branch that leads nowhere is given up */
      s->r->saved_bytes -= b->bytes;
    vram__shrink(s, b->bytes, b->cat);
    if (s->watched)
      vram__watch(s, VRAM_FREE, b);
  }
  b->id = s->free;
  s->free = i;
}

/* One tensor or saved tensor less on the storage that slot i owns. */
static inline void vram__drop_storage(vram__s *s, uint32_t i) {
  if (--(s->top - i)->srefs == 0)
    vram__storage_gone(s, i);
}

/* The same of a tensor that is a view or keeps a record; what it is a view of may go with it. */
VRAM__RARE void vram__view_gone(vram__s *s, uint32_t i) {
  vram__store *st = s->top - i;
  for (;;) {
    const uint32_t base = st->base, of = st->of;
    if (st->held) { /* does not come back here: what is saved holds storages, not tensors */
      st->held = 0;
      vram__fn_unref(s, st->fn);
    }
    if (base != i) {
      st->id = s->free;
      st->base = i;
      st->srefs = 0;
      s->free = i;
    }
    vram__drop_storage(s, base);
    i = of;
    st = s->top - i;
    if (!i || --st->refs)
      return;
  }
}

/* The last handle of a tensor goes. */
static void vram__tensor_gone(vram__s *s, uint32_t i) {
  const vram__store *st = s->top - i;
  if (st->base == i && !st->of && !st->held)
    vram__drop_storage(s, i);
  else
    vram__view_gone(s, i);
}

/* One handle of a tensor goes. */
static inline void vram__drop_store(vram__s *s, uint32_t i) {
  if (i && --(s->top - i)->refs == 0)
    vram__tensor_gone(s, i);
}

/* A workspace that cuDNN chooses at run time: nothing derives it, so only the upper bound takes it
   in. cuDNN's kernels that run channels-last convert what is stored otherwise, and those that split
   a sum add up in fp32: at most once each tensor that takes part, in fp32 (developer guide of
   cuDNN: conversion of tensor formats, deterministic split-k). */
static void vram__may_need(vram__s *s, uint64_t elements) {
  uint64_t n = s->upper + VRAM__SMALL + 4 * elements; /* below 2^64 */
  if (n > (uint64_t)VRAM_MAX_BYTES)
    n = (uint64_t)VRAM_MAX_BYTES;
  if (!s->ideal && n > s->upper_peak)
    s->upper_peak = n;
}

/* Bytes that are asked for and given back at once. */
static void vram__brief(vram__s *s, uint64_t bytes) {
  if (s->watched)
    vram__drop_store(s, vram__new(s, bytes));
  else if (bytes && !s->mute && vram__countable(s, bytes)) {
    s->next_id++;
    s->events++;
    vram__grow(s, bytes, s->cat);
    s->events++;
    vram__shrink(s, bytes, s->cat);
  }
}

static void vram__workspace(vram__s *s, uint64_t bytes) {
  const uint8_t cat = s->cat;
  if (s->ideal)
    return;
  if (bytes > s->r->workspace_bytes)
    s->r->workspace_bytes = bytes;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  vram__brief(s, bytes);
  s->cat = cat;
}

/* ---- tensors ---- */

static vram__fn *vram__fn_at(const vram__s *s, uint32_t f) {
  return (vram__fn *)(void *)(s->mem + (uint64_t)f * 8);
}

static void vram__fn_gone(vram__s *s, uint32_t f);

/* Is it a record, neither nothing nor a leaf? */
static inline int vram__is_fn(uint32_t fn) { return fn - 1 < VRAM__LEAF - 1; }

static inline void vram__fn_unref(vram__s *s, uint32_t fn) {
  if (vram__is_fn(fn) && --vram__fn_at(s, fn)->refs == 0)
    vram__fn_gone(s, fn);
}

static void vram__keep_store(vram__s *s, uint32_t i) {
  vram__store *st = s->top - i;
  if (st->refs++ == 0) /* so far it was only saved */
    (s->top - st->base)->srefs++;
}

static vram__t vram__keep_t(vram__s *s, vram__t t) {
  if (t.st)
    vram__keep_store(s, t.st);
  if (vram__is_fn(t.fn))
    vram__fn_at(s, t.fn)->refs++;
  return t;
}

static void vram__let(vram__s *s, vram__t t) {
  if (vram__is_fn(t.fn) && --vram__fn_at(s, t.fn)->refs == 0)
    vram__fn_gone(s, t.fn);
  vram__drop_store(s, t.st);
}

static const vram_dims *vram__dims_in(vram__s *s, uint32_t n, const int64_t *size,
                                      const int64_t *stride) {
  const vram_dims *d = vram__dims_get(s->mem, &s->used, s->cap, s->cache, n, size, stride);
  if (!d) { /* what is left of this operation works with spare ones */
    uint64_t own = 0;
    int64_t one[VRAM_MAX_AXES];
    uint32_t i;
    int fits = vram__dims_fit(n, size);
    for (i = 0; i < n; i++)
      one[i] = size[i] != 0;
    s->failed = fits ? VRAM_ERR_MEMORY : VRAM_ERR_OVERFLOW;
    d = vram__dims_get((uint8_t *)(s->spare + s->nspare++ % VRAM__SPARE), &own, sizeof *s->spare,
                       s->cache, n, fits ? size : one, fits ? stride : NULL);
  }
  return d;
}

/* fp32 of the text in a run of another dtype */
static uint8_t vram__run_dtype(const vram__s *s, uint8_t dt) {
  return s->low && dt == VRAM_F32 ? s->low : dt;
}

static uint32_t vram__size_of(uint8_t dt) { return vram__dtype_rows[dt].block_bytes; }

static vram__t vram__none(void) {
  vram__t t;
  t.d = NULL;
  t.st = t.fn = 0;
  t.out = 0;
  t.dt = t.req = t.off = 0;
  return t;
}

/* A fresh tensor of dims d, which are dense. */
static vram__t vram__empty(vram__s *s, const vram_dims *d, uint8_t dt) {
  vram__t t;
  t.d = d;
  t.st = s->registers ? 0 : vram__new_of(s, vram__bytes_of(d, dt), d);
  t.fn = 0;
  t.out = 0;
  t.dt = dt;
  t.req = t.off = 0;
  return t;
}

/* a * b * c * e, VRAM_OVERFLOW if it does not fit */
static uint64_t vram__mul4(int64_t a, int64_t b, int64_t c, int64_t e) {
  return vram__mul(vram__mul((uint64_t)a, (uint64_t)b), vram__mul((uint64_t)c, (uint64_t)e));
}

/* A storage of so many bytes whose shape nobody asks for. */
static vram__t vram__raw(vram__s *s, uint64_t bytes) {
  vram__t t = vram__none();
  t.d = s->scalar;
  t.dt = VRAM_U8;
  t.st = vram__new(s, bytes);
  return t;
}

/* The dims of a fresh contiguous tensor of d's sizes. */
static const vram_dims *vram__contig(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__dims_in(s, d->ndim, d->v, NULL);
}

/* One more tensor on x's storage that autograd does not know as a view (detach, _unsafe_view). */
static vram__t vram__alias_only(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t t = x;
  vram__store *st, *b;
  t.d = d;
  t.fn = 0;
  t.out = 0;
  t.req = 0;
  if (x.st)
    t.st = vram__slot_new(s);
  if (!t.st)
    return t;
  st = s->top - t.st;
  st->base = (s->top - x.st)->base;
  st->bytes = 0;
  st->refs = 1;
  st->held = 0;
  st->fn = st->of = st->ver = 0;
  st->d = d;
  b = s->top - st->base;
  b->srefs++;
  return t;
}

/* A view of x. It keeps the tensor that it is a view of, also in backward (ViewInfo::base_). */
static vram__t vram__alias(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t t = vram__alias_only(s, x, d);
  if (t.st) {
    uint32_t of = (s->top - x.st)->of;
    if (!of)
      of = x.st;
    (s->top - t.st)->of = of;
    (s->top - t.st)->ver = (s->top - (s->top - of)->base)->ver;
    vram__keep_store(s, of);
  }
  return t;
}

/* A dense tensor of d's sizes with its axes in the order of d's strides (at::infer_dense_strides).
 */
static const vram_dims *vram__sorted(vram__s *s, const vram_dims *d) {
  uint8_t perm[VRAM_MAX_AXES];
  int64_t stride[VRAM_MAX_AXES], z = 1;
  const int64_t *st = VRAM__STRIDE(d);
  int i, j, n = d->ndim;
  for (i = 0; i < VRAM_MAX_AXES; i++)
    perm[i] = (uint8_t)(n - 1 - i);
  for (i = 1; i < n; i++) {
    int k = i;
    for (j = i - 1; j >= 0; j--) {
      int a = perm[j], b = perm[k], c = 0;
      if (st[a] && st[b])
        c = st[a] < st[b] ? -1 : st[a] > st[b] ? 1 : d->v[a] > d->v[b] ? 1 : 0;
      if (c > 0) {
        uint8_t t = perm[j];
        perm[j] = perm[k], perm[k] = t;
        k = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++)
    stride[perm[i]] = z, z *= d->v[perm[i]] > 1 ? d->v[perm[i]] : 1;
  return vram__dims_in(s, (uint32_t)n, d->v, stride);
}

/* empty_like: d's own strides if it is dense. */
static const vram_dims *vram__dense(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__DENSE ? d : vram__sorted(s, d);
}

/* Channels-last strides for d's sizes (4 or 5 axes). */
static const vram_dims *vram__as_cl(vram__s *s, const vram_dims *d) {
  int64_t st[5], z;
  uint32_t i, n = d->ndim;
  for (st[1] = 1, z = d->v[1] > 1 ? d->v[1] : 1, i = n - 1; i >= 2; i--)
    st[i] = z, z *= d->v[i] > 1 ? d->v[i] : 1;
  st[0] = z;
  return vram__dims_in(s, n, d->v, st);
}

/* The result of a pointwise kernel of one tensor (TensorIteratorBase::fast_set_up). */
static const vram_dims *vram__unary(vram__s *s, const vram_dims *d) {
  if (d->flags & VRAM__PLAIN)
    return d;
  if (d->flags & VRAM__CONTIG)
    return vram__dims_in(s, d->ndim, d->v, NULL);
  if (d->ndim == 4 && (d->flags & VRAM__CL))
    return vram__as_cl(s, d);
  return vram__dense(s, d);
}

/* The same of a tensor and a number, which is a tensor without axes: there is no fast set-up. */
static const vram_dims *vram__with_number(vram__s *s, const vram_dims *d) {
  return d->flags & VRAM__PLAIN ? d : vram__sorted(s, d);
}

/* TensorIterator's output for these operands: broadcast sizes, strides in the operands' order. */
static const vram_dims *vram__ti(vram__s *s, const vram_dims *const *op, uint32_t nop) {
  const vram_dims *a = op[0];
  uint8_t perm[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES], stride[3][VRAM_MAX_AXES], out[VRAM_MAX_AXES], z = 1;
  uint32_t k, ndim = a->ndim, all = a->flags;
  int i, j, n, same = 1;
  for (k = 1; k < nop; k++) {
    if (op[k] != a)
      same = 0;
    all &= op[k]->flags;
  }
  if (same)
    return vram__unary(s, a);
  if (all & VRAM__PLAIN) { /* the widest operand often is the answer */
    for (k = 0; k < nop; k++)
      if (op[k]->numel > a->numel || (op[k]->numel == a->numel && op[k]->ndim > a->ndim))
        a = op[k];
    for (k = 0; k < nop; k++)
      if (op[k] != a && (op[k]->numel != 1 || op[k]->ndim > a->ndim))
        break;
    if (k == nop)
      return a;
  }
  for (i = 0; i < (int)ndim; i++)
    size[i] = op[0]->v[i];
  for (k = 1; k < nop; k++)
    vram__bcast(&ndim, size, op[k]);
  n = (int)ndim;
  if (all & VRAM__PLAIN)
    return vram__dims_in(s, ndim, size, NULL);
  for (same = 1, k = 0; k < nop; k++) { /* fast set-up: all of one shape */
    if (op[k]->ndim != ndim)
      same = 0;
    for (i = 0; same && i < n; i++)
      same = op[k]->v[i] == size[i];
  }
  if (same && (all & VRAM__CONTIG))
    return vram__dims_in(s, ndim, size, NULL);
  if (same && n == 4 && (all & VRAM__CL))
    return vram__as_cl(s, op[0]);
  if (same && (all & VRAM__DENSE)) {
    for (k = 1; k < nop; k++)
      for (i = 0; same && i < n; i++)
        same = VRAM__STRIDE(op[k])[i] == VRAM__STRIDE(op[0])[i];
    if (same)
      return op[0];
  }
  for (k = 0; k < nop && k < 3; k++) {
    int shift = n - op[k]->ndim;
    for (i = 0; i < n; i++)
      stride[k][i] = i < shift || (op[k]->v[i - shift] == 1 && size[i] != 1)
                         ? 0
                         : VRAM__STRIDE(op[k])[i - shift];
  }
  for (i = 0; i < VRAM_MAX_AXES; i++)
    perm[i] = (uint8_t)(n - 1 - i);
  for (i = 1; i < n; i++) {
    int m = i;
    for (j = i - 1; j >= 0; j--) {
      int x = perm[j], y = perm[m], c = 0;
      for (k = 0; k < nop && k < 3 && !c; k++) {
        int64_t p = stride[k][x], q = stride[k][y];
        if (!p || !q)
          continue;
        c = p < q ? -1 : p > q ? 1 : size[x] > size[y] ? 1 : 0;
      }
      if (c > 0) {
        uint8_t t = perm[j];
        perm[j] = perm[m], perm[m] = t;
        m = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++)
    out[perm[i]] = z, z *= size[perm[i]] > 1 ? size[perm[i]] : 1;
  return vram__dims_in(s, ndim, size, out);
}

static vram__t vram__ti1(vram__s *s, vram__t a) {
  return vram__empty(s, vram__unary(s, a.d), a.dt);
}

static vram__t vram__ti_number(vram__s *s, vram__t a) {
  return vram__empty(s, vram__with_number(s, a.d), a.dt);
}

static uint8_t vram__result2(vram__t a, vram__t b) {
  vram__promote p;
  if (a.dt == b.dt)
    return a.dt;
  vram__zero(&p, sizeof p);
  vram__promote_add(&p, a.dt, a.d->ndim);
  vram__promote_add(&p, b.dt, b.d->ndim);
  return vram__promote_get(&p);
}

static vram__t vram__ti2(vram__s *s, vram__t a, vram__t b) {
  const vram_dims *op[2];
  if (a.d == b.d && a.dt == b.dt && (a.d->flags & VRAM__PLAIN))
    return vram__empty(s, a.d, a.dt);
  op[0] = a.d, op[1] = b.d;
  return vram__empty(s, vram__ti(s, op, 2), vram__result2(a, b));
}

/* A contiguous copy, or the tensor itself; either way one handle more. */
static vram__t vram__contiguous(vram__s *s, vram__t x) {
  if ((x.d->flags & VRAM__CONTIG) || s->ideal) {
    x.d = vram__contig(s, x.d);
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* x.to(dtype): one handle more. */
static vram__t vram__to(vram__s *s, vram__t x, uint8_t dt) {
  if (x.dt == dt) {
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__dense(s, x.d), dt);
}

/* at::detail::computeStride: the strides of a view of x with these sizes, if there is one. */
static int vram__view_strides(const vram_dims *x, uint32_t n, const int64_t *size,
                              int64_t *stride) {
  int i, v = (int)n - 1, last = x->ndim - 1;
  int64_t chunk, tensor_numel = 1, view_numel = 1;
  const int64_t *xs = VRAM__STRIDE(x);
  if (x->flags & VRAM__PLAIN) {
    int64_t z = 1;
    for (i = (int)n - 1; i >= 0; i--)
      stride[i] = z, z *= size[i] > 1 ? size[i] : 1;
    return 1;
  }
  if (x->ndim == 0) {
    for (i = 0; i < (int)n; i++)
      stride[i] = 1;
    return 1;
  }
  chunk = xs[last];
  for (i = last; i >= 0; i--) {
    tensor_numel *= x->v[i];
    if (i == 0 || (x->v[i - 1] != 1 && xs[i - 1] != tensor_numel * chunk)) {
      while (v >= 0 && (view_numel < tensor_numel || size[v] == 1)) {
        stride[v] = (int64_t)((uint64_t)view_numel * (uint64_t)chunk);
        view_numel *= size[v--];
      }
      if (view_numel != tensor_numel)
        return 0;
      if (i > 0)
        chunk = xs[i - 1], tensor_numel = view_numel = 1;
    }
  }
  return v == -1;
}

/* x.reshape without autograd: a view, or a contiguous copy; one handle more. */
static vram__t vram__reshape(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__view_strides(x.d, n, size, stride))
    return vram__alias(s, x, vram__dims_in(s, n, size, stride));
  if (s->ideal)
    return vram__alias(s, x, vram__dims_in(s, n, size, NULL));
  return vram__empty(s, vram__dims_in(s, n, size, NULL), x.dt);
}

/* The dims of x with its axes in this order. */
static const vram_dims *vram__permuted(vram__s *s, const vram_dims *d, const uint8_t *order) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[order[i]], stride[i] = VRAM__STRIDE(d)[order[i]];
  return vram__dims_in(s, d->ndim, size, stride);
}

static const vram_dims *vram__swapped(vram__s *s, const vram_dims *d, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b, order[b] = (uint8_t)a;
  return vram__permuted(s, d, order);
}

VRAM__SELDOM_BEGIN

/* ---- reductions ---- */

static int64_t vram__pow2(int64_t v, int64_t most) {
  int64_t p = 1;
  if (v > most)
    return most;
  while (p * 2 <= v)
    p *= 2;
  return p;
}

/* A reduction as TensorIterator sees it: axes in the order of the kernel, the reduced ones first.
 */
typedef struct vram__iter {
  int64_t size[VRAM_MAX_AXES], in[VRAM_MAX_AXES], out[VRAM_MAX_AXES]; /* sizes, strides */
  uint32_t n, off;
} vram__iter;

/* What a reduction of x over the axes of mask iterates (TensorIterator.cpp, reorder_dimensions and
   coalesce_dimensions with a contiguous result). */
static void vram__reduce_iter(vram__t x, uint32_t mask, vram__iter *it) {
  int64_t out[VRAM_MAX_AXES], z = 1;
  uint8_t perm[VRAM_MAX_AXES];
  const int64_t *in = VRAM__STRIDE(x.d), *size = x.d->v;
  int i, j, n = x.d->ndim;
  uint32_t m = 0;
  for (i = n - 1; i >= 0; i--) {
    perm[n - 1 - i] = (uint8_t)i;
    out[i] = mask >> i & 1 ? 0 : z;
    if (!(mask >> i & 1))
      z *= size[i];
  }
  for (i = 1; i < n; i++) {
    int k = i;
    for (j = i - 1; j >= 0; j--) {
      int a = perm[j], b = perm[k], c = 0;
      if (!out[a] != !out[b])
        c = out[b] ? -1 : 1;
      else if (out[a])
        c = out[a] < out[b] ? -1 : out[a] > out[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (!c && in[a] && in[b])
        c = in[a] < in[b] ? -1 : in[a] > in[b] ? 1 : size[a] > size[b] ? 1 : 0;
      if (c > 0) {
        perm[j] = (uint8_t)b, perm[k] = (uint8_t)a;
        k = j;
      } else if (c < 0)
        break;
    }
  }
  for (i = 0; i < n; i++) {
    int a = perm[i];
    if (m && (it->size[m - 1] == 1 || size[a] == 1 ||
              (it->size[m - 1] * it->in[m - 1] == in[a] &&
               it->size[m - 1] * it->out[m - 1] == out[a]))) {
      if (it->size[m - 1] == 1)
        it->in[m - 1] = in[a], it->out[m - 1] = out[a];
      it->size[m - 1] *= size[a];
      continue;
    }
    it->size[m] = size[a], it->in[m] = in[a], it->out[m++] = out[a];
  }
  it->n = m;
  it->off = x.off;
}

/* ATen/native/cuda/Reduce.cuh, setReduceConfig: what is needed for a moment where the reduction is
   split over thread blocks. acc: bytes that a thread accumulates in; vt: values that it reads at
   once. */
static void vram__reduce_split(vram__s *s, const vram__iter *it, uint32_t acc, uint32_t vt) {
  int64_t out = 1, in = 1, d0 = 1, d1 = 1, fast = 1, v = 1, M, p0, p1, w, h, step_in = 1,
          step_out = 1, n, grid, c, lo, hi, target;
  uint32_t nr = 0, i, buf, sem;
  int along = 1, split = 0;
  for (i = 0; i < it->n; i++)
    if (it->out[i])
      out *= it->size[i];
    else
      in *= it->size[i], nr++;
  if (in < 256)
    return; /* too few values for one thread to split */
  if (it->n) {
    along = nr == it->n || it->in[0] < it->in[nr];
    d0 = along ? in : out, d1 = along ? out : in;
    fast = it->in[along ? 0 : nr];
  }
  if (fast == 1) {
    if (along && d0 >= 128 && nr == 1)
      d0 /= vt;
    else if (!along) {
      for (v = 4; it->off % v || it->size[nr] % v;)
        v /= 2;
      for (i = 0; i < it->n; i++)
        if (i != nr)
          while (it->in[i] % v)
            v /= 2;
      d0 /= v;
    }
  }
  M = 512 / v;
  p0 = vram__pow2(d0, M), p1 = vram__pow2(d1, M);
  w = p0 < 32 ? p0 : 32;
  h = p1 < M / w ? p1 : M / w;
  w = p0 < M / h ? p0 : M / h;
  *(along ? &step_in : &step_out) *= w;
  n = (in + step_in - 1) / step_in;
  if (n >= (16 * h < 256 ? 16 * h : 256))
    step_in *= h, split = 1;
  else
    step_out *= h;
  grid = (out / v + step_out - 1) / step_out;
  n = (in + step_in - 1) / step_in;
  target = (int64_t)s->sm * ((int64_t)s->threads / (w * h));
  if (!split || n < 256 || grid > target)
    return;
  c = (target + grid - 1) / grid;
  lo = (n + 255) / 256, hi = (n + 15) / 16;
  if (c < lo)
    c = lo;
  else if (c > hi)
    c = hi;
  if (c <= 1)
    return;
  buf = vram__new(s, (uint64_t)(acc * out * c) * (along ? 1u : (uint64_t)(w * v)));
  sem = vram__new(s, (uint64_t)(4 * grid));
  vram__drop_store(s, sem);
  vram__drop_store(s, buf);
}

/* TensorIteratorBase::can_use_32bit_indexing; else the axis to split. */
static int vram__iter_small(const vram__iter *it, uint32_t ein, uint32_t eout, uint32_t *axis) {
  int64_t in = 1, out = 1, numel = 1, most = -1;
  uint32_t i;
  for (i = it->n; i-- > 0;) {
    int64_t a = (it->size[i] - 1) * it->in[i] * ein, b = (it->size[i] - 1) * it->out[i] * eout;
    numel *= it->size[i];
    in += a, out += b;
    if (a > most)
      most = a, *axis = i;
    if (b > most)
      most = b, *axis = i;
  }
  return numel <= INT32_MAX && in <= INT32_MAX && out <= INT32_MAX;
}

/* A reduction beyond 32-bit offsets runs in halves of halves (TensorIteratorBase::split). */
static void vram__reduce_large(vram__s *s, const vram__iter *it, uint32_t ein, uint32_t eout,
                               uint32_t acc, uint32_t vt) {
  vram__iter stack[48];
  uint32_t n = 1, axis = 0;
  stack[0] = *it;
  while (n) {
    vram__iter *top = &stack[n - 1];
    if (n < 48 && !vram__iter_small(top, ein, eout, &axis)) {
      stack[n] = *top;
      stack[n].size[axis] = top->size[axis] / 2;
      top->size[axis] -= stack[n].size[axis];
      top->off =
          (uint32_t)(top->off + (uint64_t)stack[n].size[axis] * (uint64_t)top->in[axis]) % 16;
      n++;
    } else {
      vram__reduce_split(s, top, acc, vt);
      n--;
    }
  }
}

/* gpu_reduce_kernel: what a reduction of x over the axes of mask into dtype dt needs for a moment.
   Other accumulators than a number (Welford's, a value with its index) have 16 bytes or more. */
static void vram__reduce(vram__s *s, vram__t x, uint32_t mask, uint8_t dt, uint32_t acc,
                         uint32_t vt) {
  vram__iter it;
  uint32_t ein = vram__size_of(x.dt), eout = vram__size_of(dt), axis = 0, i, buf = 0;
  if (s->ideal)
    return;
  if (x.d->numel < 256)
    return;
  vram__reduce_iter(x, mask, &it);
  if (x.d->numel < INT32_MAX / 16 && (x.d->flags & VRAM__DENSE)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (vram__iter_small(&it, ein, eout, &axis)) {
    vram__reduce_split(s, &it, acc, vt);
    return;
  }
  if (acc > eout && (acc >= 16 || (x.dt == dt && (dt == VRAM_F16 || dt == VRAM_BF16)))) {
    int64_t n = 1; /* AccumulationBuffer: halves cannot be added up in the result */
    for (i = 0; i < it.n; i++)
      if (it.size[i] * it.out[i] > n)
        n = it.size[i] * it.out[i];
    buf = vram__new(s, (uint64_t)n * acc);
  }
  if (x.d->numel < UINT64_C(1) << 40) /* no device holds more */
    vram__reduce_large(s, &it, ein, eout, acc, vt);
  if (buf)
    vram__drop_store(s, buf);
}

/* The empty result of a reduction of x over the axes of mask. */
static vram__t vram__reduced(vram__s *s, vram__t x, uint32_t mask, int keepdim, uint8_t dt) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (!(mask >> i & 1))
      size[m++] = x.d->v[i];
    else if (keepdim)
      size[m++] = 1;
  return vram__empty(s, vram__dims_in(s, m, size, NULL), dt);
}

/* x.sum over the axes of mask into dtype dt, and what the kernel needs for a moment. Half
   precision is read as it is, other dtypes are converted first (ReduceOpsUtils.h). */
static vram__t vram__sum(vram__s *s, vram__t x, uint32_t mask, int keepdim, uint8_t dt) {
  vram__t y = vram__reduced(s, x, mask, keepdim, dt), c = vram__none();
  if (x.dt != dt && !(dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16)))
    x = c = vram__to(s, x, dt);
  vram__reduce(s, x, mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  return y;
}

/* at::sum_to: x reduced to sizes it was broadcast from; one handle more. */
static vram__t vram__sum_to(vram__s *s, vram__t x, const vram_dims *to) {
  uint32_t i, k = (uint32_t)x.d->ndim - to->ndim, mask = (1u << k) - 1;
  vram__t y, z;
  if (!to->ndim) /* summed also if it has no axes itself */
    return vram__sum(s, x, mask, 0, x.dt);
  for (i = k; i < x.d->ndim; i++)
    if (to->v[i - k] == 1 && x.d->v[i] != 1)
      mask |= 1u << i;
  if (!mask) {
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  y = vram__sum(s, x, mask, 1, x.dt);
  if (!k)
    return y;
  z = vram__alias(s, y, vram__dims_in(s, to->ndim, to->v, NULL));
  vram__let(s, y);
  return z;
}

/* ---- checkpoint() without reentrance: what its records save (torch/utils/checkpoint.py) ---- */

static inline uint32_t vram__fn_index(const vram__s *s, vram__fn *f) {
  return (uint32_t)((uint64_t)((const uint8_t *)f - s->mem) / 8);
}

static vram__frame *vram__frame_at(const vram__s *s, uint32_t f) {
  return (vram__frame *)(void *)(s->mem + (uint64_t)f * 8);
}

/* One thing less that holds the call; the last one lets its inputs go. */
VRAM__RARE void vram__frame_less(vram__s *s, vram__frame *c) {
  uint32_t i;
  if (--c->alive == 0)
    for (i = 0; i < c->range->narg; i++)
      vram__let(s, c->arg[i]);
}

/* f saves a tensor on st. In forward nothing is kept (pack_hook); in the recomputation it goes to
   the record that f repeats, if that still waits for it. Returns the storage that f itself keeps.
 */
VRAM__RARE uint32_t vram__pack(vram__s *s, vram__fn *f, const vram_dims *d, uint32_t st) {
  vram__frame *c = s->frame;
  uint32_t me = vram__fn_index(s, f);
  if (!s->again) {
    const vram__store *b = s->top - st;
    if (!f->frame) {
      f->frame = (uint32_t)((uint64_t)((const uint8_t *)c - s->mem) / 8);
      c->alive++;
      if (c->tail)
        vram__fn_at(s, c->tail)->next = me;
      else
        c->first = me;
      c->tail = me;
    }
    if (c->final != me) {
      c->final = me;
      c->before = c->saves;
      c->late = 0;
    }
    if (st ? b->id != UINT32_MAX && b->id >= f->deps : d && !d->numel)
      c->late = 1; /* an output of the operation */
    c->saves++;
    return 0;
  }
  if (!f->next) {
    f->next = s->cursor;
    s->cursor = vram__fn_at(s, s->cursor)->next;
  }
  if (st) {
    vram__fn *o = vram__fn_at(s, f->next);
    if (f->nsaved < o->nsaved) {
      VRAM__SAVED(o)[f->nsaved].st = st;
      (s->top - st)->srefs++;
    }
  }
  if (++s->count == c->saves) {
    s->full = me;
    if (!c->late || VRAM__SLOTS(f)[0].d)
      s->mute = 1;
  }
  return st;
}

/* Recomputation ends with the last tensor saved (_StopRecomputationError). Autograd saves inputs
   before the operation runs: if the last record saves only those, it allocates nothing. */
VRAM__RARE void vram__early_stop(vram__s *s, const vram__fn *f) {
  const vram__frame *c = s->frame;
  const vram__fn *o = vram__fn_at(s, c->final);
  if (s->count == c->before && !c->late && f->node == o->node && f->kind == o->kind)
    s->mute = 1;
}

VRAM__SELDOM_END

/* ---- autograd's records ---- */

VRAM__PART vram__fn *vram__record_raw(vram__s *s, uint32_t kind, uint32_t nin, uint32_t nout,
                                      uint32_t room) {
  vram__slot *slot, *end;
  vram__fn *f = (vram__fn *)vram__bump(s->mem, &s->used, s->cap,
                                       sizeof *f + nin * sizeof(vram__edge) +
                                           nout * sizeof(vram__slot) + room * sizeof(vram__t));
  if (!f) {
    s->failed = VRAM_ERR_MEMORY;
    return NULL;
  }
  if (nin > s->max_fn_in)
    s->max_fn_in = nin;
  f->node = s->node;
  f->prev = s->last_fn;
  f->refs = f->next = f->frame = 0;
  f->deps = (uint32_t)s->next_id;
  f->kind = (uint16_t)kind;
  f->nin = (uint16_t)nin;
  f->nout = (uint16_t)nout;
  f->nsaved = 0;
  f->done = f->flag = f->inner = 0;
  f->aux = 0;
  s->last_fn = vram__fn_index(s, f);
  for (slot = VRAM__SLOTS(f), end = slot + nout; slot != end; slot++)
    slot->g.d = slot->d = NULL;
  return f;
}

static inline void vram__edge_to(vram__s *s, vram__fn *f, uint32_t i, uint32_t fn, uint32_t out) {
  vram__edge *e = VRAM__EDGES(f) + i;
  e->fn = fn;
  e->out = out;
  if (vram__is_fn(fn))
    vram__fn_at(s, fn)->refs++;
}

/* A record of an operation on these inputs with room for saved tensors; NULL: none is needed. */
static vram__fn *vram__record(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin,
                              uint32_t nout, uint32_t room) {
  uint32_t i;
  vram__fn *f;
  if (!s->grad)
    return NULL;
  for (i = 0; i < nin; i++)
    if (in[i].req)
      break;
  if (i == nin)
    return NULL;
  f = vram__record_raw(s, kind, nin, nout, room);
  for (i = 0; f && i < nin; i++)
    vram__edge_to(s, f, i, in[i].req ? in[i].fn : 0, in[i].out);
  if (f && s->again)
    vram__early_stop(s, f);
  return f;
}

/* A storage is kept for backward, perhaps for the first time. */
static inline void vram__count_saved(vram__s *s, vram__store *b) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  if (b->saved || (own >> b->cat & 1) || s->phase != VRAM_PHASE_FORWARD)
    return;
  b->saved = 1;
  s->r->saved_bytes += b->bytes;
  if (s->o->nodes && s->node)
    s->o->nodes[s->node->index].saved_bytes += b->bytes;
}

VRAM__PART void vram__save_on(vram__s *s, vram__fn *f, const vram__t *t, uint32_t st) {
  vram__t *to = VRAM__SAVED(f) + f->nsaved++;
  *to = *t;
  to->st = st, to->fn = 0, to->out = 0;
  if (st) {
    vram__store *b = s->top - st;
    b->srefs++;
    if (!b->saved)
      vram__count_saved(s, b);
  }
}

VRAM__RARE void vram__save_packed(vram__s *s, vram__fn *f, const vram__t *t) {
  vram__save_on(s, f, t, vram__pack(s, f, t->d, t->st ? (s->top - t->st)->base : 0));
}

/* f keeps t for backward. What a module owns lives to the end anyway. */
static void vram__save(vram__s *s, vram__fn *f, vram__t t) {
  if (s->frame)
    vram__save_packed(s, f, &t);
  else
    vram__save_on(s, f, &t, t.st > VRAM__OWN ? (s->top - t.st)->base : 0);
}

/* f keeps t, which is fresh; the caller's handle goes. */
static void vram__save_last(vram__s *s, vram__fn *f, const vram__t *t) {
  if (f && !s->frame && t->st) {
    vram__store *st = s->top - t->st;
    st->refs = 0, st->srefs = 0;
    vram__save_on(s, f, t, t->st);
    return;
  }
  if (f)
    vram__save(s, f, *t);
  vram__let(s, *t);
}

/* y is output i of record f. */
static void vram__made(vram__s *s, vram__fn *f, uint32_t i, vram__t *y) {
  if (!f)
    return;
  y->fn = vram__fn_index(s, f);
  y->out = (uint16_t)i;
  y->req = 1;
  f->refs++;
  if (y->st) {
    vram__store *st = s->top - y->st;
    if (st->held) {
      st->held = 0;
      vram__fn_unref(s, st->fn);
    }
    st->fn = y->fn, st->out = y->out;
  }
  VRAM__SLOTS(f)[i].d = y->d;
  VRAM__SLOTS(f)[i].dt = y->dt;
  if (s->again && s->full == y->fn)
    s->mute = 1;
}

static void vram__release_saved(vram__s *s, vram__fn *f) {
  for (;; f = vram__fn_at(s, (uint32_t)f->aux)) {
    const vram__t *t = VRAM__SAVED(f);
    const uint32_t n = f->nsaved;
    for (; f->nsaved; f->nsaved--, t++)
      if (t->st)
        vram__drop_storage(s, t->st);
    if (n && f->frame)
      vram__frame_less(s, vram__frame_at(s, f->frame));
    if (!f->inner)
      return;
  }
}

/* Nothing leads to f any more: what it saved goes, and records that only it led to. */
static void vram__fn_gone(vram__s *s, uint32_t first) {
  vram__fn_at(s, first)->deps = s->gone;
  s->gone = first;
  if (s->going)
    return; /* what a record holds leads here again: no recursion */
  s->going = 1;
  while (s->gone) {
    vram__fn *f = vram__fn_at(s, s->gone);
    uint32_t i;
    s->gone = f->deps;
    if (f->done)
      continue;
    vram__release_saved(s, f);
    for (i = 0; i <= f->nin; i++) {
      uint32_t e = i < f->nin ? VRAM__EDGES(f)[i].fn : f->inner ? (uint32_t)f->aux : 0;
      if (!e || (e & VRAM__LEAF))
        continue;
      if (--vram__fn_at(s, e)->refs == 0) {
        vram__fn_at(s, e)->deps = s->gone;
        s->gone = e;
      }
    }
  }
  s->going = 0;
}

/* View of x with record k. */
static vram__t vram__view(vram__s *s, vram__t x, const vram_dims *d, uint32_t k, uint64_t aux) {
  vram__fn *f = vram__record(s, k, &x, 1, 1, 0);
  vram__t y = vram__alias(s, x, d);
  if (f)
    f->aux = aux;
  y.req = x.req; /* under no_grad too: matmul asks for it */
  vram__made(s, f, 0, &y);
  return y;
}

/* at::_unsafe_view of x, which goes: for autograd the result is no view. */
static vram__t vram__unsafe_view(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_view, &x, 1, 1, 0);
  vram__t y = vram__alias_only(s, x, d);
  vram__made(s, f, 0, &y);
  vram__let(s, x);
  return y;
}

VRAM__SELDOM_BEGIN

/* ---- in-place operations and views: torch/csrc/autograd/variable.cpp ---- */

static void vram__no_step(vram__s *s, vram_result code, const vram_node *n, const char *what) {
  s->failed = (uint8_t)code;
  s->problem = what;
  s->problem_node = n;
}

/* A view that a reentrant checkpoint() gave must stay as it is (CreationMeta::IN_CUSTOM_FUNCTION).
 */
static int vram__view_of_checkpoint(vram__s *s, uint32_t fn) {
  if (!fn || (fn & VRAM__LEAF) || vram__fn_at(s, fn)->kind != VRAM__K_checkpoint)
    return 0;
  vram__no_step(
      s, VRAM_ERR_UNSUPPORTED, s->node,
      "an output of a reentrant checkpoint is a view that is overwritten in place: PyTorch "
      "stops with an error");
  return 1;
}

/* A view whose base was written to: its history is as_strided of the base. */
static void vram__look_again(vram__s *s, vram__t *t) {
  vram__store *st = s->top - t->st;
  const vram__store *b = s->top - st->of;
  vram__t base = *t;
  if (vram__view_of_checkpoint(s, t->fn))
    return;
  base.d = b->d, base.fn = b->fn, base.out = b->out, base.req = b->fn != 0;
  t->fn = t->out = t->req = 0;
  vram__made(s, vram__record(s, VRAM__K_as_strided, &base, 1, 1, 0), 0, t);
  st->ver = (s->top - st->base)->ver;
}

/* t's storage was written to through another tensor: t gets its history. */
VRAM__RARE void vram__new_history(vram__s *s, vram__t *t) {
  vram__store *st = s->top - t->st;
  vram__fn_unref(s, t->fn);
  if (st->of)
    vram__look_again(s, t);
  else {
    t->fn = st->fn, t->out = st->out, t->req = 1;
    vram__fn_at(s, t->fn)->refs++;
  }
}

/* t's storage may have been written to through another tensor since t got its history. */
static inline void vram__refresh(vram__s *s, vram__t *t) {
  const vram__store *st = s->top - t->st;
  if (t->st &&
      (st->of ? st->ver != (s->top - st->base)->ver : st->fn != t->fn && !(t->fn & VRAM__LEAF)))
    vram__new_history(s, t);
}

/* x was overwritten by an operation whose record made y. If x is a view, its base gets that
   history: a copy_slices around the record (rebase_history). */
static void vram__rebase(vram__s *s, vram__t x, vram__t *y) {
  vram__store *st = s->top - x.st, *b = st->of ? s->top - st->of : st;
  uint32_t old = b->held ? b->fn : 0, i;
  if (x.fn &
      VRAM__LEAF) { /* "a leaf Variable that requires grad is used in an in-place operation" */
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node,
                  "a parameter or input that needs a gradient is overwritten in place: PyTorch "
                  "refuses");
    return;
  }
  if (st->of) {
    vram__fn *f = vram__fn_at(s, y->fn), *c;
    if (vram__view_of_checkpoint(s, x.fn))
      return;
    c = vram__record_raw(s, VRAM__K_copy_slices, f->nin, 1, 0);
    if (!c)
      return;
    vram__edge_to(s, c, 0, b->fn, b->out);
    for (i = 1; i < f->nin; i++)
      vram__edge_to(s, c, i, VRAM__EDGES(f)[i].fn, VRAM__EDGES(f)[i].out);
    c->inner = 1;
    c->aux = y->fn; /* and with it y's hold on that record */
    VRAM__SLOTS(c)[0].d = b->d;
    VRAM__SLOTS(c)[0].dt = x.dt;
    b->fn = vram__fn_index(s, c);
    b->out = 0;
  } else if (st->refs == 2)
    return; /* x and y: no view to tell */
  b->held = 1;
  vram__fn_at(s, b->fn)->refs++;
  vram__fn_unref(s, old);
  if (st->of)
    vram__look_again(s, y);
}

static vram__t vram__t_clone(vram__s *s, vram__t x, const vram_dims *d) {
  vram__fn *f = vram__record(s, VRAM__K_clone, &x, 1, 1, 0);
  vram__t y = vram__empty(s, d, x.dt);
  vram__made(s, f, 0, &y);
  return y;
}

static uint64_t vram__pack_order(uint32_t n, const uint8_t *order) {
  uint64_t v = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    v |= (uint64_t)order[i] << (8 * i);
  return v;
}

static vram__t vram__t_permute(vram__s *s, vram__t x, const uint8_t *order) {
  return vram__view(s, x, vram__permuted(s, x.d, order), VRAM__K_permute,
                    vram__pack_order(x.d->ndim, order));
}

static vram__t vram__t_swap(vram__s *s, vram__t x, uint32_t a, uint32_t b) {
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    order[i] = (uint8_t)i;
  order[a] = (uint8_t)b, order[b] = (uint8_t)a;
  return vram__t_permute(s, x, order);
}

/* Tensor.reshape with autograd. */
static vram__t vram__t_reshape(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  if (vram__view_strides(x.d, n, size, stride))
    return vram__view(s, x, vram__dims_in(s, n, size, stride), VRAM__K_view, 0);
  if (s->ideal)
    return vram__view(s, x, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  return vram__unsafe_view(s, vram__t_clone(s, x, vram__contig(s, x.d)),
                           vram__dims_in(s, n, size, NULL));
}

/* at::inferExpandGeometry: x's dims expanded to n sizes. */
static const vram_dims *vram__expanded(vram__s *s, const vram_dims *x, uint32_t n,
                                       const int64_t *size) {
  int64_t stride[VRAM_MAX_AXES];
  uint32_t i, k = n - x->ndim;
  for (i = n; i-- > 0;) {
    int64_t z = i < k ? 1 : x->v[i - k];
    stride[i] = i >= k                 ? VRAM__STRIDE(x)[i - k]
                : i + 1 < n && x->ndim ? size[i + 1] * stride[i + 1]
                                       : 0;
    if (z != size[i])
      stride[i] = 0;
  }
  return vram__dims_in(s, n, size, stride);
}

/* Tensor.expand with autograd. */
static vram__t vram__t_expand(vram__s *s, vram__t x, uint32_t n, const int64_t *size) {
  return vram__view(s, x, vram__expanded(s, x.d, n, size), VRAM__K_expand, 0);
}

/* x.to(dt) with autograd; x itself where it has that dtype. One handle more. */
static vram__t vram__t_cast(vram__s *s, vram__t x, uint8_t dt) {
  vram__fn *f;
  vram__t y;
  if (x.dt == dt)
    return vram__keep_t(s, x);
  f = vram__record(s, VRAM__K_cast, &x, 1, 1, 0);
  y = vram__empty(s, vram__dense(s, x.d), dt);
  vram__made(s, f, 0, &y);
  return y;
}

/* at::autocast::cached_cast */
static vram__t vram__autocast(vram__s *s, vram__t x, uint8_t dt) {
  if (!vram__is_float(x.dt) || x.dt == VRAM_F64 || x.dt == dt)
    return vram__keep_t(s, x);
  if (dt == s->amp && x.dt == VRAM_F32 && (x.fn & VRAM__LEAF)) {
    vram__leaf *l = s->leaf + (x.fn & ~VRAM__LEAF);
    vram__t *c = s->cast + (l - s->leaf);
    if (!c->d) {
      uint8_t cat = s->cat, grad = s->grad;
      s->cat = VRAM_CATEGORY_AUTOCAST;
      s->grad = s->train;
      *c = vram__t_cast(s, x, dt);
      c->req = 1; /* the cached copy is made with grad mode on, under no_grad too */
      s->grad = grad;
      l->next_cast = s->casts;
      s->casts = (uint32_t)(l - s->leaf) + 1;
      s->cat = cat;
    }
    return vram__keep_t(s, *c);
  }
  return vram__t_cast(s, x, dt);
}

/* Autocast's context ends, and with it the cache. Gives the bytes that were in it. */
static uint64_t vram__leave_autocast(vram__s *s) {
  uint64_t n = 0;
  while (s->casts) {
    vram__t *c = s->cast + s->casts - 1;
    s->casts = s->leaf[s->casts - 1].next_cast;
    n += vram__bytes_of(c->d, c->dt);
    vram__let(s, *c);
    *c = vram__none();
  }
  return n;
}

/* ---- products ---- */

/* Can BLAS read this matrix as it is, or must it be copied? (Blas.cpp, prepare_matrix_for_cublas)
 */
static int vram__blas_able(const vram_dims *d) {
  uint32_t r = d->ndim - 2u;
  const int64_t *st = VRAM__STRIDE(d) + r, *z = d->v + r;
  return (st[1] == 1 && st[0] >= (z[1] > 1 ? z[1] : 1)) ||
         (st[0] == 1 && st[1] >= (z[0] > 1 ? z[0] : 1));
}

/* a copy for BLAS, or nothing */
static vram__t vram__blas_copy(vram__s *s, vram__t x) {
  const int64_t *st = VRAM__STRIDE(x.d) + x.d->ndim - 2;
  if (vram__blas_able(x.d) ||
      (s->ideal || x.d->ndim == 2 ? x.d->flags & VRAM__DENSE
                                  : (x.d->flags & VRAM__CONTIG) && st[0] && st[1]))
    return vram__none();
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* The copies that BLAS needs, its workspace, and all gone. cuBLAS computes the transposed product,
   so that the second operand goes first; a batched product of one column stays as it is (Blas.cpp).
 */
static void vram__gemm(vram__s *s, vram__t a, vram__t b, uint64_t workspace) {
  int plain = b.d->ndim == 3 && b.d->v[2] == 1;
  vram__t p, q;
  if (!a.d->numel || !b.d->numel) /* cuBLAS is not called */
    return;
  p = vram__blas_copy(s, plain ? a : b);
  q = vram__blas_copy(s, plain ? b : a);
  vram__workspace(s, workspace);
  vram__let(s, p);
  vram__let(s, q);
}

/* a [m,k] x b [k,n] into a fresh [m,n] */
static vram__t vram__mm(vram__s *s, vram__t a, vram__t b) {
  int64_t size[2];
  vram__t y;
  size[0] = a.d->v[0], size[1] = b.d->v[1];
  y = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__gemm(s, a, b, s->ws);
  return y;
}

static vram__t vram__bmm(vram__s *s, vram__t a, vram__t b) {
  int64_t size[3];
  vram__t y;
  size[0] = a.d->v[0], size[1] = a.d->v[1], size[2] = b.d->v[2];
  y = vram__empty(s, vram__dims_in(s, 3, size, NULL), a.dt);
  vram__gemm(s, a, b, s->ws);
  return y;
}

/* matrix x vector: a vector of stride 0 is copied, then the matrix if BLAS cannot read it */
static vram__t vram__mv(vram__s *s, vram__t a, vram__t v) {
  vram__t y = vram__empty(s, vram__dims_in(s, 1, a.d->v, NULL), a.dt), p = vram__none(), q = p;
  if (!a.d->numel)
    return y;
  if (VRAM__STRIDE(v.d)[0] == 0 && !s->ideal)
    p = vram__empty(s, vram__contig(s, v.d), v.dt);
  if (!vram__blas_able(a.d) && !s->ideal)
    q = vram__empty(s, vram__contig(s, a.d), a.dt);
  vram__workspace(s, s->ws);
  vram__let(s, q);
  vram__let(s, p);
  return y;
}

/* x with its last two axes swapped, borrowed */
static vram__t vram__turned(vram__s *s, vram__t x) {
  x.d = vram__swapped(s, x.d, x.d->ndim - 2u, x.d->ndim - 1u);
  return x;
}

/* Is the matrix stored by columns? Then autograd gives its gradient that way. */
static int vram__by_columns(const vram_dims *d) {
  return VRAM__STRIDE(d)[0] == 1 && VRAM__STRIDE(d)[1] == d->v[0];
}

/* The transposed view of a product that nobody else holds. */
static vram__t vram__turn(vram__s *s, vram__t y) {
  vram__t t = vram__alias(s, y, vram__swapped(s, y.d, 0, 1));
  vram__let(s, y);
  return t;
}

/* FunctionsManual.cpp, mm_mat1_grad and mm_mat2_grad: `d` the operand's dims */
static vram__t vram__mm_grad1(vram__s *s, vram__t g, vram__t b, const vram_dims *d) {
  if (!vram__by_columns(d))
    return vram__mm(s, g, vram__turned(s, b));
  return vram__turn(s, vram__mm(s, b, vram__turned(s, g)));
}

static vram__t vram__mm_grad2(vram__s *s, vram__t g, vram__t a, const vram_dims *d) {
  if (!vram__by_columns(d))
    return vram__mm(s, vram__turned(s, a), g);
  return vram__turn(s, vram__mm(s, vram__turned(s, g), a));
}

/* maybe_multiply: a factor that is not 1 costs one more tensor */
static vram__t vram__scaled(vram__s *s, vram__t t, int is) {
  vram__t y;
  if (!is)
    return t;
  y = vram__ti1(s, t);
  vram__let(s, t);
  return y;
}

/* The sizes that autograd remembers of input i of f, and its dtype. */
static const vram_dims *vram__in_dims(const vram__s *s, vram__fn *f, uint32_t i, uint8_t *dt) {
  const vram__edge *e = VRAM__EDGES(f) + i;
  if (e->fn & VRAM__LEAF) {
    if (dt)
      *dt = s->leaf[e->fn & ~VRAM__LEAF].dt;
    return s->leaf[e->fn & ~VRAM__LEAF].d;
  }
  if (dt)
    *dt = VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].dt;
  return VRAM__SLOTS(vram__fn_at(s, e->fn))[e->out].d;
}

static inline int vram__wants(const vram__fn *f, uint32_t i) {
  return ((const vram__edge *)(const void *)(f + 1))[i].fn != 0;
}

/* Bytes from the first to the last element. */
static uint64_t vram__span(const vram_dims *d, uint8_t dt) {
  uint64_t n = 1;
  uint32_t i;
  if (d->flags & VRAM__DENSE)
    return vram__bytes_of(d, dt);
  for (i = 0; i < d->ndim; i++)
    n += (uint64_t)(d->v[i] - 1) * (uint64_t)VRAM__STRIDE(d)[i];
  return n * vram__size_of(dt);
}

/* A fresh tensor of dims d in a storage of so many bytes (empty_strided, or resized). */
static vram__t vram__empty_in(vram__s *s, const vram_dims *d, uint8_t dt, uint64_t bytes) {
  vram__t t = vram__none();
  t.d = d;
  t.st = vram__new(s, bytes);
  if (t.st)
    (s->top - t.st)->d = d;
  t.dt = dt;
  return t;
}

/* FunctionsManual.cpp, as_strided_backward, where the input does not overlap itself: expanded axes
   are summed, then the gradient is written into a storage of zeros; the result is a view of it */
static void vram__bw_as_strided(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t = vram__none(), whole;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL), *out = VRAM__SLOTS(f)[0].d;
  uint32_t i;
  for (i = out->ndim; i-- > 0;)
    if (out->v[i] != 1 && !VRAM__STRIDE(out)[i]) {
      vram__t sum = vram__sum(s, t.d ? t : g, 1u << i, 1, g.dt);
      vram__let(s, t);
      t = sum;
    }
  whole = vram__empty_in(s, d, g.dt, vram__span(d, g.dt));
  to[0] = vram__alias(s, whole, d);
  vram__let(s, whole);
  vram__let(s, t);
}

static void vram__bw_any(vram__s *s, vram__fn *f, vram__t *to);

/* torch/csrc/autograd/functions/tensor.cpp, CopySlices and CopyBackwards */
static void vram__bw_copy_slices(vram__s *s, vram__fn *f, vram__t *to) {
  vram__fn *in = vram__fn_at(s, (uint32_t)f->aux);
  vram__slot *o = VRAM__SLOTS(in);
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  uint8_t dt = VRAM__SLOTS(f)[0].g.dt;
  vram__t all = vram__empty_in(s, d, dt, vram__span(d, dt));
  o->g = vram__empty(s, vram__contig(s, o->d), dt); /* a contiguous clone of the part overwritten */
  vram__bw_any(s, in, to);
  vram__let(s, o->g);
  o->g = vram__none();
  if (vram__wants(f, 0) && to[0].d) {
    vram__let(s, to[0]);
    to[0] = all;
  } else
    vram__let(s, all);
}

static void vram__bw_copy(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  g.fn = 0;
  if (vram__wants(f, 0)) /* zeros */
    to[0] = vram__ti1(s, g);
  if (vram__wants(f, 1)) {
    uint8_t dt;
    vram__in_dims(s, f, 1, &dt);
    to[1] = vram__to(s, g, dt);
  }
}

/* Saves what two factors keep: each only if the other wants a gradient; aux says which. */
static void vram__save_factors(vram__s *s, vram__fn *f, uint32_t ia, vram__t a, uint32_t ib,
                               vram__t b) {
  if (!f)
    return;
  if (vram__wants(f, ib))
    vram__save(s, f, a), f->aux |= 1;
  if (vram__wants(f, ia))
    vram__save(s, f, b), f->aux |= 2;
}

static vram__t vram__factor(vram__fn *f, uint32_t which) {
  return VRAM__SAVED(f)[which && (f->aux & 1) ? 1 : 0];
}

/* A product with autograd: of matrices, of batches of them, of a matrix and a vector. */
static vram__t vram__t_product(vram__s *s, uint32_t kind, vram__t a, vram__t b) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, kind, in, 2, 1, 2);
  vram__save_factors(s, f, 0, a, 1, b);
  y = kind == VRAM__K_mm    ? vram__mm(s, a, b)
      : kind == VRAM__K_bmm ? vram__bmm(s, a, b)
                            : vram__mv(s, a, b);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_mm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 1))
    to[1] = vram__mm_grad2(s, g, vram__factor(f, 0), vram__in_dims(s, f, 1, NULL));
  if (vram__wants(f, 0))
    to[0] = vram__mm_grad1(s, g, vram__factor(f, 1), vram__in_dims(s, f, 0, NULL));
}

static void vram__bw_bmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 1))
    to[1] = vram__bmm(s, vram__turned(s, vram__factor(f, 0)), g);
  if (vram__wants(f, 0))
    to[0] = vram__bmm(s, g, vram__turned(s, vram__factor(f, 1)));
}

#define VRAM__ALPHA 4u /* aux of a product that adds: alpha is not 1 */
#define VRAM__BETA 8u

/* Is the added tensor c of a [m,k] x [k,n] product one that cuBLASLt adds itself? One value a
   column, and in 16 bits also a matrix of the result's shape stored by rows (Blas.cpp; measured).
 */
static int vram__lt_bias(vram__t c, int64_t m, int64_t n, int64_t k, uint32_t factors) {
  const int64_t *st = VRAM__STRIDE(c.d), *z = c.d->v;
  if (n <= 1 || k <= 1)
    return 0;
  if (c.d->ndim == 2 && z[0] == m && z[1] == n && vram__size_of(c.dt) == 2 && st[1] == 1 &&
      st[0] >= n)
    return 1;
  return (c.d->ndim == 1 || (c.d->ndim == 2 && z[0] == 1)) && c.d->numel == (uint64_t)n &&
         (c.d->flags & VRAM__CONTIG) && !(factors & VRAM__BETA);
}

/* beta c + alpha a b. What cuBLASLt does not add is first written into the result. */
static vram__t vram__t_addmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors) {
  vram__t in[3], y;
  vram__fn *f;
  int64_t size[2];
  size[0] = a.d->v[0], size[1] = b.d->v[1];
  in[0] = c, in[1] = a, in[2] = b;
  f = vram__record(s, VRAM__K_addmm, in, 3, 1, 2);
  vram__save_factors(s, f, 1, a, 2, b);
  if (f)
    f->aux |= factors;
  y = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
  vram__gemm(s, a, b,
             vram__lt_bias(c, size[0], size[1], a.d->v[1], factors) ? VRAM__RULE_CUBLASLT_WORKSPACE
                                                                    : s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

static vram__t vram__added_grad(vram__s *s, vram__t g, uint64_t aux) {
  g.fn = 0;
  return aux & VRAM__BETA ? vram__ti1(s, g) : vram__keep_t(s, g);
}

static void vram__bw_addmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__wants(f, 1))
    to[1] = vram__scaled(s, vram__mm_grad1(s, g, vram__factor(f, 1), vram__in_dims(s, f, 1, NULL)),
                         scale);
  if (vram__wants(f, 2))
    to[2] = vram__scaled(s, vram__mm_grad2(s, g, vram__factor(f, 0), vram__in_dims(s, f, 2, NULL)),
                         scale);
  if (vram__wants(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

static vram__t vram__t_baddbmm(vram__s *s, vram__t c, vram__t a, vram__t b, uint32_t factors) {
  vram__t in[3], y;
  vram__fn *f;
  in[0] = c, in[1] = a, in[2] = b;
  f = vram__record(s, VRAM__K_baddbmm, in, 3, 1, 2);
  vram__save_factors(s, f, 1, a, 2, b);
  if (f)
    f->aux |= factors;
  y = vram__bmm(s, a, b);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_baddbmm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  int scale = (f->aux & VRAM__ALPHA) != 0;
  if (vram__wants(f, 1))
    to[1] = vram__scaled(s, vram__bmm(s, g, vram__turned(s, vram__factor(f, 1))), scale);
  if (vram__wants(f, 2))
    to[2] = vram__scaled(s, vram__bmm(s, vram__turned(s, vram__factor(f, 0)), g), scale);
  if (vram__wants(f, 0))
    to[0] = vram__added_grad(s, g, f->aux);
}

static void vram__bw_mv(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 0)) /* the outer product is a pointwise one */
    to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
  if (vram__wants(f, 1))
    to[1] = vram__mv(s, vram__turned(s, vram__factor(f, 0)), g);
}

static vram__t vram__t_dot(vram__s *s, vram__t a, vram__t b) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM__K_dot, in, 2, 1, 2);
  vram__save_factors(s, f, 0, a, 1, b);
  y = vram__empty(s, s->scalar, a.dt);
  vram__workspace(s, s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_dot(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2; i++)
    if (vram__wants(f, i))
      to[i] = vram__ti2(s, g, vram__factor(f, !i));
}

/* LinearAlgebra.cpp, should_fold */
static int vram__should_fold(vram__t a, vram__t b) {
  int larger = a.d->ndim >= b.d->ndim;
  const vram_dims *d = larger ? a.d : b.d;
  uint32_t other = larger ? b.d->ndim : a.d->ndim, i, n = d->ndim;
  int64_t st[VRAM_MAX_AXES], z[VRAM_MAX_AXES];
  if (n < 3 || other > 2)
    return 0;
  if (larger ? b.req : a.req)
    return 1;
  if (a.d->ndim == 2)
    return 0;
  if (!d->numel)
    return 1;
  for (i = 0; i < n; i++)
    st[i] = VRAM__STRIDE(d)[i], z[i] = d->v[i];
  if (!larger) {
    int64_t t = st[n - 1];
    st[n - 1] = st[n - 2], st[n - 2] = t;
    t = z[n - 1], z[n - 1] = z[n - 2], z[n - 2] = t;
  }
  for (i = 0; i + 2 < n; i++)
    if (st[i] != st[i + 1] * z[i + 1])
      return 0;
  return 1;
}

/* The axes of mask that are 1 go. */
static vram__t vram__t_squeeze(vram__s *s, vram__t x, uint32_t mask) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] != 1 || !(mask >> i & 1)) {
      mask &= ~(1u << i);
      size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
    }
  return vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM_OP_squeeze,
                    mask & ((1u << x.d->ndim) - 1));
}

static vram__t vram__t_squeeze1(vram__s *s, vram__t x, uint32_t axis) {
  return vram__t_squeeze(s, x, 1u << axis);
}

static const vram_dims *vram__unsqueezed(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES + 1], stride[VRAM_MAX_AXES + 1];
  uint32_t i, m = 0, n = d->ndim;
  for (i = 0; i <= n; i++)
    if (i == axis)
      size[i] = 1, stride[i] = m < n ? d->v[m] * VRAM__STRIDE(d)[m] : 1;
    else
      size[i] = d->v[m], stride[i] = VRAM__STRIDE(d)[m++];
  return vram__dims_in(s, n + 1, size, stride);
}

static vram__t vram__t_unsqueeze(vram__s *s, vram__t x, uint32_t axis) {
  return vram__view(s, x, vram__unsqueezed(s, x.d, axis), VRAM_OP_unsqueeze, axis);
}

/* The dims of d without an axis (squeeze). */
static const vram_dims *vram__without_axis(vram__s *s, const vram_dims *d, uint32_t axis) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != axis)
      size[m] = d->v[i], stride[m++] = VRAM__STRIDE(d)[i];
  return vram__dims_in(s, m, size, stride);
}

/* unsqueeze_multiple: the reduced axes of mask are back in t, which is borrowed */
static vram__t vram__kept(vram__s *s, vram__t t, const vram_dims *x, uint32_t mask) {
  uint32_t i;
  if (t.d->ndim != x->ndim)
    for (i = 0; i < x->ndim; i++)
      if (mask >> i & 1)
        t.d = vram__unsqueezed(s, t.d, i);
  return t;
}

static vram__t vram__t_contiguous(vram__s *s, vram__t x) {
  if (x.d->flags & VRAM__CONTIG)
    return vram__keep_t(s, x);
  if (s->ideal)
    return vram__view(s, x, vram__contig(s, x.d), VRAM__K_view, 0);
  return vram__t_clone(s, x, vram__contig(s, x.d));
}

/* LinearAlgebra.cpp, _matmul_impl */
static vram__t vram__t_matmul(vram__s *s, vram__t a, vram__t b) {
  uint32_t na = a.d->ndim, nb = b.d->ndim, i, n = 0;
  int64_t size[VRAM_MAX_AXES + 2], ea[VRAM_MAX_AXES + 2], eb[VRAM_MAX_AXES + 2], batch = 1;
  vram__t y, p, q, t;
  if (nb == 1 && na <= 2)
    return na == 1 ? vram__t_dot(s, a, b) : vram__t_product(s, VRAM__K_mv, a, b);
  if (na == 1 && nb == 2) { /* as a row */
    t = vram__t_unsqueeze(s, a, 0);
    y = vram__t_product(s, VRAM__K_mm, t, b);
    vram__let(s, t);
    t = vram__t_squeeze1(s, y, 0);
    vram__let(s, y);
    return t;
  }
  if (na == 2 && nb == 2)
    return vram__t_product(s, VRAM__K_mm, a, b);
  if (vram__should_fold(a, b)) {
    int turn = nb > na, matrix;
    vram__t big = turn ? vram__t_swap(s, b, nb - 2, nb - 1) : vram__keep_t(s, a);
    vram__t second = turn && na == 2 ? vram__t_swap(s, a, 0, 1) : vram__keep_t(s, turn ? a : b);
    int64_t fold[2];
    matrix = second.d->ndim == 2;
    n = big.d->ndim;
    fold[0] = 1, fold[1] = big.d->v[n - 1];
    for (i = 0; i + 1 < n; i++)
      fold[0] *= size[i] = big.d->v[i];
    if (matrix)
      size[i] = second.d->v[1];
    else
      n--;
    p = vram__t_reshape(s, big, 2, fold);
    q = matrix ? vram__t_product(s, VRAM__K_mm, p, second)
               : vram__t_product(s, VRAM__K_mv, p, second);
    vram__let(s, p);
    y = vram__unsafe_view(s, q, vram__dims_in(s, n, size, NULL));
    vram__let(s, second);
    vram__let(s, big);
    if (turn && matrix) {
      t = vram__t_swap(s, y, n - 2, n - 1);
      vram__let(s, y);
      y = vram__t_contiguous(s, t);
      vram__let(s, t);
    }
    return y;
  }
  if (na == 3 && nb == 3 && a.d->v[0] != b.d->v[0]) {
    if (a.d->v[0] == 1 && a.req) {
      t = vram__t_squeeze1(s, a, 0);
      y = vram__t_matmul(s, t, b);
      vram__let(s, t);
      return y;
    }
    if (b.d->v[0] == 1 && b.req) {
      t = vram__t_squeeze1(s, b, 0);
      y = vram__t_matmul(s, a, t);
      vram__let(s, t);
      return y;
    }
  }
  { /* both expanded to all batches; a vector counts as one row or one column */
    vram_dims da, db;
    vram__copy(&da, a.d, vram__dims_bytes(na));
    vram__copy(&db, b.d, vram__dims_bytes(nb));
    da.ndim = (uint8_t)(na > 2 ? na - 2 : 0), db.ndim = (uint8_t)(nb > 2 ? nb - 2 : 0);
    vram__bcast(&n, size, &da);
    vram__bcast(&n, size, &db);
  }
  for (i = 0; i < n; i++)
    ea[i] = eb[i] = size[i], batch *= size[i];
  ea[n] = na > 1 ? a.d->v[na - 2] : 1, ea[n + 1] = a.d->v[na - 1];
  eb[n] = b.d->v[nb > 1 ? nb - 2 : 0], eb[n + 1] = nb > 1 ? b.d->v[nb - 1] : 1;
  t = vram__t_expand(s, a, n + 2, ea);
  ea[n - 1] = batch;
  p = vram__t_reshape(s, t, 3, ea + n - 1);
  vram__let(s, t);
  t = vram__t_expand(s, b, nb > 1 ? n + 2 : n + 1, eb);
  eb[n - 1] = batch;
  q = vram__t_reshape(s, t, nb > 1 ? 3 : 2, eb + n - 1);
  vram__let(s, t);
  if (nb == 1) {
    t = vram__t_unsqueeze(s, q, 2);
    vram__let(s, q);
    q = t;
  }
  t = vram__t_product(s, VRAM__K_bmm, p, q);
  vram__let(s, p);
  vram__let(s, q);
  if (na > 1)
    size[n++] = a.d->v[na - 2];
  if (nb > 1)
    size[n++] = b.d->v[nb - 1];
  return vram__unsafe_view(s, t, vram__dims_in(s, n, size, NULL));
}

VRAM__SELDOM_END

/* ---- how ops run: one function each, named in the op table; x the inputs, then weight, bias ----
 */

typedef struct vram__args {
  vram__t *x;
  vram__t w, b; /* weight and bias; d NULL: none */
  uint32_t own; /* which of x, w, b are the op's own copies (autocast): bits */
} vram__args;

/* Inputs and parameters of a node, cast where autocast's list says so, the last one first. */
static void vram__weights(vram__s *s, const vram_node *n, vram__t *w, vram__t *b) {
  *w = *b = vram__none();
  if (n->nin > 1) {
    *w = s->obj[s->name_of[n->in[1]->index]].t;
    if (n->nin > 2)
      *b = s->obj[s->name_of[n->in[2]->index]].t;
    return;
  }
  if (n->param[0])
    *w = s->param[n->param[0]->index];
  if (n->param[1])
    *b = s->param[n->param[1]->index];
}

/* ---- pointwise ops: see the comment at the table ---- */

static const char *vram__recipe(uint32_t kind, int inplace) {
  static const char *const variant[] = {
#define VRAM__X(name, recipe) recipe,
      VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
  };
  const char *p = kind < VRAM_OP_COUNT ? vram__op_at(kind)->recipe
                                       : variant[kind - VRAM__K_VARIANTS],
             *q;
  for (q = p; inplace && *q; q++)
    if (*q == ';' && q[1] == ' ' && q[2] == 'i') {
      q += 11; /* behind "; inplace: " */
      return *q == 'c' ? p : q;
    }
  return p;
}

static uint32_t vram__letter(char c) {
  switch (c) {
  case 'x':
    return 0;
  case 'w':
    return 1;
  case 'b':
    return 2;
  case 'y':
    return 3;
  case 'm':
    return 4;
  default:
    return 9;
  }
}

/* A recipe in short. Bits 5i..5i+4: the letters that the gradient of input i needs (x w b y
   m), 15..19: those that are saved in any case. */
#define VRAM__PLAN_KNOWN 0x100000u
#define VRAM__PLAN_GRADIENT 0x200000u        /* there is one */
#define VRAM__PLAN_PASS 0x400000u            /* each gradient is g itself */
#define VRAM__PLAN_PRODUCT 0x800000u         /* of one input: g times letter 24..26, */
#define VRAM__PLAN_SWAP 0x8000000u           /* which comes first */
#define VRAM__PLAN_ROOM(plan) ((plan) >> 28) /* how many letters there are */

VRAM__RARE uint32_t vram__plan_of(uint32_t kind, int inplace) {
  const char *p = vram__recipe(kind, inplace), *from = p;
  uint32_t plan = VRAM__PLAN_KNOWN, here = 0, seen = 0, at = 0, n = 0, pass = 1, parts = 0;
  if (*p)
    plan |= VRAM__PLAN_GRADIENT;
  for (; *p; p++) {
    uint32_t bit = vram__letter(*p);
    if (bit < 3 && p[1] == ':') {
      at = bit;
      p++;
    } else if (bit < 9)
      here |= 1u << bit;
    else if (*p == '*' || *p == 'g' || *p == '=')
      n++;
    else if (*p != ' ' && *p != ';')
      n += 100;
    if (p[1] == ';' || !p[1]) { /* the end of one gradient */
      plan |= here << 5 * at | ((seen & here) | (here & 24)) << 15;
      pass &= !here && n == 2;
      parts++;
      seen |= here;
      if (p[1] && p[3] == 'i')
        break;
      if (p[1])
        n = here = 0;
    }
  }
  if (pass)
    plan |= VRAM__PLAN_PASS;
  else if (parts == 1 && n == 2 && !at && (here == 1 || here == 8)) {
    plan |= VRAM__PLAN_PRODUCT | (uint32_t)(here == 8 ? 3 : 0) << 24;
    plan |= from[3] == 'g' ? 0 : VRAM__PLAN_SWAP;
  }
  for (n = 0; n < 5; n++)
    plan += (seen >> n & 1) << 28;
  return plan;
}

static inline uint32_t vram__plan(vram__s *s, uint32_t kind, int inplace) {
  uint32_t *plan = &s->plan[kind][inplace];
  if (!*plan)
    *plan = vram__plan_of(kind, inplace);
  return *plan;
}

/* Which letters f saves: x w b y m as bits 0..4. */
static uint32_t vram__letters(uint32_t plan, vram__fn *f) {
  uint32_t need = plan >> 15, i;
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i))
      need |= plan >> 5 * i;
  return need & 31;
}

static void vram__save_letters(vram__s *s, vram__fn *f, uint32_t need, const vram__t *in,
                               uint32_t nin, vram__t y) {
  uint32_t i;
  vram__t m;
  f->aux = 0;
  for (i = need & 7 ? 0 : 3; need >> i; i++) {
    const vram__t *t = i < 3 ? in + i : i == 3 ? &y : &m;
    if (!(need >> i & 1) || (i < 3 && i >= nin))
      continue;
    if (i == 4) {
      const int64_t zero = 0;
      m = y;
      m.st = 0;
      m.d = vram__dims_in(s, 1, &zero, NULL);
    }
    f->aux |= (uint64_t)(f->nsaved + 1u) << (4 * i);
    vram__save(s, f, *t);
  }
}

#define VRAM__AUX_INPLACE (UINT64_C(1) << 63)

/* A tensor of dims d: t itself if nobody else has it, else a fresh one. */
static vram__t vram__over(vram__s *s, vram__t t, const vram_dims *d, uint8_t dt) {
  if (t.st && t.dt == dt && t.d->numel == d->numel && (s->top - t.st)->refs == 1 &&
      (s->top - (s->top - t.st)->base)->srefs == 1) {
    t.fn = 0;
    return vram__keep_t(s, t);
  }
  return vram__empty(s, vram__dense(s, d), dt);
}

VRAM__SELDOM_BEGIN

static void vram__bw_recipe(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t stack[12], own[16], g = VRAM__SLOTS(f)[0].g, t;
  uint32_t n = 0, nown = 0, at = 0, on = 0, k;
  const vram_dims *d[3];
  const char *p = vram__recipe(f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  for (;; p++) {
    uint32_t bit = vram__letter(*p);
    if (bit < 3 && p[1] == ':') {
      at = bit;
      on = bit < f->nin && vram__wants(f, bit);
      p++;
      continue;
    }
    if (*p == ';' || !*p) {
      if (on && nown) {
        to[at] = own[--nown];
        while (nown)
          vram__let(s, own[--nown]);
        s->registers = 0;
        if (s->ideal && !to[at].st) /* one kernel, which writes over g where it can */
          to[at] = vram__over(s, g, to[at].d, to[at].dt);
      }
      n = nown = on = 0;
      s->registers = 0;
      if (!*p || p[2] == 'i')
        return;
    }
    if (!on)
      continue;
    s->registers = s->ideal;
    switch (*p) {
    case 'x':
    case 'w':
    case 'b':
    case 'y':
    case 'm':
      k = (uint32_t)(f->aux >> (4 * bit)) & 15;
      if (k)
        stack[n++] = VRAM__SAVED(f)[k - 1];
      else
        stack[n] = vram__none(), stack[n++].dt = 0xff; /* a number */
      continue;
    case 'g':
      stack[n++] = g;
      continue;
    case '0':
      stack[n++] = own[nown++] = vram__empty(s, s->scalar, g.dt);
      continue;
    case 'z':
      t = g;
      vram__in_dims(s, f, at, &t.dt);
      stack[n++] = own[nown++] = vram__ti1(s, t);
      continue;
    case '>':
      t = stack[n - 1];
      if (t.dt != VRAM__SLOTS(f)[0].dt)
        stack[n - 1] = own[nown++] = vram__to(s, t, VRAM__SLOTS(f)[0].dt);
      continue;
    case '~':
    case '%':
    case '!':
      if (stack[n - 1].dt == 0xff)
        continue;
      t = stack[n - 1];
      t.d = *p == '~' ? vram__unary(s, t.d) : vram__with_number(s, t.d);
      stack[n - 1] = own[nown++] = vram__empty(s, t.d, *p == '!' ? (uint8_t)VRAM_BOOL : t.dt);
      continue;
    case '*':
    case '?':
      t = stack[--n];
      if (t.dt == 0xff || stack[n - 1].dt == 0xff)
        t = vram__ti_number(s, t.dt == 0xff ? stack[n - 1] : t);
      else if (*p == '*')
        t = vram__ti2(s, stack[n - 1], t);
      else {
        d[0] = stack[n - 1].d, d[1] = t.d;
        t = vram__empty(s, vram__ti(s, d, 2), VRAM_BOOL);
      }
      stack[n - 1] = own[nown++] = t;
      continue;
    case '3': {
      vram__t *a = stack + (n -= 2) - 1;
      k = a[2].dt == VRAM_BOOL ? 2 : a[1].dt == VRAM_BOOL ? 1 : 0; /* at::where: condition first */
      d[0] = a[k].d, d[1] = a[k ? 0 : 1].d, d[2] = a[k == 2 ? 1 : 2].d;
      *a = own[nown++] = vram__empty(s, vram__ti(s, d, 3), vram__result2(a[1], a[2]));
      continue;
    }
    case '=':
      t = stack[n - 1];
      t.fn = 0;
      own[nown++] = vram__keep_t(s, t);
      continue;
    case '\'':
      n--;
      continue;
    case '^':
      t = stack[n - 1];
      stack[n - 1] = stack[n - 2];
      stack[n - 2] = t;
      continue;
    case '/':
      while (nown > 1) {
        vram__let(s, own[nown - 2]);
        own[nown - 2] = own[nown - 1];
        nown--;
      }
      continue;
    default:
      continue;
    }
  }
}

VRAM__SELDOM_END

static void vram__bw_pointwise(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t plan = vram__plan(s, f->kind, (f->aux & VRAM__AUX_INPLACE) != 0);
  const vram__t *g = &VRAM__SLOTS(f)[0].g;
  uint32_t i;
  if ((plan & VRAM__PLAN_PRODUCT) && !s->ideal) {
    const vram__t *t = VRAM__SAVED(f); /* the only one */
    to[0] = plan & VRAM__PLAN_SWAP ? vram__ti2(s, *t, *g) : vram__ti2(s, *g, *t);
  } else if (plan & VRAM__PLAN_PASS) {
    for (i = f->nin; i-- > 0;)
      if (vram__wants(f, i)) {
        to[i] = *g;
        to[i].fn = 0;
        vram__keep_store(s, g->st);
      }
  } else
    vram__bw_recipe(s, f, to);
}

/* A pointwise op with autograd; nin 1: of one tensor, or of one and a number. */
static vram__t vram__t_pointwise(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin) {
  const uint32_t plan = vram__plan(s, kind, 0);
  vram__fn *f =
      plan & VRAM__PLAN_GRADIENT ? vram__record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan)) : NULL;
  const vram_dims *d[3];
  uint32_t i, op = kind == VRAM__K_pow_tensor ? (uint32_t)VRAM_OP_pow : kind;
  uint8_t dt = in[0].dt;
  int same = dt == VRAM_F32 || vram__kind_rank(dt) >= 2;
  vram__t y, cast = vram__none();
  for (i = 0; i < nin; i++) {
    d[i] = in[i].d;
    if (in[i].dt != dt)
      same = 0;
  }
  if (!same) {
    vram__promote pr;
    vram__zero(&pr, sizeof pr);
    for (i = 0; i < nin; i++)
      vram__promote_add(&pr, in[i].dt, in[i].d->ndim);
    dt = vram__result_dtype(op, nin, &pr);
    if (vram__kind_rank(in[0].dt) < 2 && dt == VRAM_F32)
      dt = s->low ? s->low : dt; /* the default dtype */
  }
  switch (nin == 1 ? op : (uint32_t)VRAM_OP_COUNT) {
  case VRAM_OP_pow: /* Pow.cpp: base.to(common_dtype) */
  case VRAM_OP_square:
    d[0] = vram__unary(s, d[0]);
    if (dt != in[0].dt)
      cast = vram__to(s, in[0], dt);
    break;
  case VRAM_OP_add:
  case VRAM_OP_sub:
  case VRAM_OP_mul:
  case VRAM_OP_div:
  case VRAM_OP_floor_divide:
    d[0] = vram__with_number(s, d[0]);
    break;
  default:
    d[0] = vram__ti(s, d, nin);
  }
  y = vram__empty(s, d[0], dt);
  vram__let(s, cast);
  if (f)
    vram__save_letters(s, f, vram__letters(plan, f), in, nin, y);
  vram__made(s, f, 0, &y);
  return y;
}

/* The op and its arguments choose the recipe. */
static uint32_t vram__pointwise_kind(const vram_node *n) {
  switch (n->op) {
  case VRAM_OP_add:
  case VRAM_OP_sub:
    if (n->nin > 1 && VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE)
      return n->op == VRAM_OP_add ? (uint32_t)VRAM__K_add_alpha : (uint32_t)VRAM__K_sub_alpha;
    break;
  case VRAM_OP_div:
    if (vram__list(n, VRAM__KEY_rounding_mode, NULL))
      return VRAM__K_div_rounded;
    break;
  case VRAM_OP_pow:
    if (n->nin > 1)
      return VRAM__K_pow_tensor;
    break;
  case VRAM_OP_lerp:
    if (n->nin > 2)
      return VRAM__K_lerp_tensor;
    break;
  case VRAM_OP_clamp:
    if (vram__list(n, VRAM__KEY_min, NULL) && vram__list(n, VRAM__KEY_max, NULL))
      return VRAM__K_clamp_both;
    break;
  default:
    break;
  }
  return n->op;
}

static vram__t vram__pointwise_inplace(vram__s *s, uint32_t kind, const vram__t *in, uint32_t nin) {
  const uint32_t plan = vram__plan(s, kind, 1);
  vram__fn *f =
      plan & VRAM__PLAN_GRADIENT ? vram__record(s, kind, in, nin, 1, VRAM__PLAN_ROOM(plan)) : NULL;
  vram__t y = in[0];
  y.fn = 0;
  vram__keep_t(s, y);
  if (f) {
    const uint32_t need = vram__letters(plan, f);
    if (need & 1) { /* what is overwritten is cloned before */
      vram__t old[3];
      uint32_t i;
      for (i = 1; i < nin; i++)
        old[i] = in[i];
      old[0] = vram__empty(s, vram__dense(s, in[0].d), in[0].dt);
      vram__save_letters(s, f, need, old, nin, y);
      vram__let(s, old[0]);
    } else
      vram__save_letters(s, f, need, in, nin, y);
    f->aux |= VRAM__AUX_INPLACE;
  }
  vram__made(s, f, 0, &y);
  return y;
}

/* Autocast of an op on the `fp32` or the `widest` list: in[i] become handles of their own where
   bits of the result say so. */
static uint32_t vram__autocast_list(vram__s *s, uint32_t list, vram__t *in, uint32_t nin) {
  uint32_t i, own = 0;
  uint8_t to = list == VRAM__AC_fp32 ? (uint8_t)VRAM_F32 : s->amp;
  if (!s->amp || (list != VRAM__AC_fp32 && list != VRAM__AC_widest))
    return 0;
  if (list == VRAM__AC_widest)
    for (i = 0; i < nin; i++)
      if (in[i].dt == VRAM_F32)
        to = VRAM_F32;
  for (i = nin; i-- > 0;)
    if (in[i].dt != to)
      in[i] = vram__autocast(s, in[i], to), own |= 1u << i;
  return own;
}

static void vram__run_pointwise(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t i, own = 0, kind = vram__pointwise_kind(n);
  vram__t in[3];
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->flags & VRAM__INPLACE) {
    y[0] = vram__pointwise_inplace(s, kind, in, n->nin);
    return;
  }
  if (s->amp)
    own = vram__autocast_list(s, vram__op_at(n->op)->autocast, in, n->nin);
  y[0] = vram__t_pointwise(s, kind, in, n->nin);
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__let(s, in[i]);
}

VRAM__SELDOM_BEGIN

/* Comparisons have no gradient. */
static void vram__run_compare(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d[2];
  d[0] = x[0].d, d[1] = n->nin > 1 ? x[1].d : NULL;
  y[0] = vram__empty(s,
                     n->nin > 1                     ? vram__ti(s, d, 2)
                     : n->op == VRAM_OP_logical_not ? vram__unary(s, d[0])
                                                    : vram__with_number(s, d[0]),
                     VRAM_BOOL);
}

/* TensorCompare.cpp, where: operands of another dtype than the result are converted first; a number
   becomes a tensor. */
static void vram__run_where(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = x[1], b, ca = vram__none(), cb = vram__none(), number = vram__none();
  const vram_dims *d[3];
  vram__fn *f;
  uint8_t dt;
  if (n->nin < 3)
    b = number = vram__empty(s, s->scalar, a.dt);
  else
    b = x[2];
  {
    vram__t in[2];
    in[0] = a, in[1] = b;
    f = vram__record(s, n->op, in, 2, 1, 1);
  }
  if (f)
    vram__save(s, f, x[0]);
  dt = vram__result2(a, b);
  if (a.dt != dt)
    a = ca = vram__to(s, a, dt);
  if (b.dt != dt)
    b = cb = vram__to(s, b, dt);
  d[0] = x[0].d, d[1] = a.d, d[2] = b.d;
  y[0] = vram__empty(s, vram__ti(s, d, 3), dt);
  vram__let(s, cb);
  vram__let(s, ca);
  vram__let(s, number);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_where(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c = VRAM__SAVED(f)[0];
  const vram_dims *d[3];
  uint32_t i;
  for (i = 2; i-- > 0;) {
    vram__t zero;
    if (!vram__wants(f, i))
      continue;
    zero = vram__empty(s, s->scalar, g.dt);
    d[0] = c.d, d[1] = i ? zero.d : g.d, d[2] = i ? g.d : zero.d;
    to[i] = vram__empty(s, vram__ti(s, d, 3), g.dt);
    vram__let(s, zero);
  }
}

/* Indexing.cpp, masked_fill: a contiguous copy of x, expanded to the mask's shape */
static vram__t vram__masked(vram__s *s, vram__t x, const vram_dims *mask) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, ndim = x.d->ndim;
  for (i = 0; i < ndim; i++)
    size[i] = x.d->v[i];
  vram__bcast(&ndim, size, mask);
  return vram__empty(s, vram__dims_in(s, ndim, size, NULL), x.dt);
}

static void vram__run_masked_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2];
  vram__fn *f;
  in[0] = x[0];
  if (n->nin > 2)
    in[1] = x[2];
  f = vram__record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  if (n->flags & VRAM__INPLACE) {
    y[0] = x[0];
    y[0].fn = 0;
    vram__keep_t(s, y[0]);
    vram__made(s, f, 0, &y[0]);
    return;
  }
  y[0] = vram__masked(s, x[0], x[1].d);
  vram__made(s, f, 0, &y[0]);
}

static vram__t vram__t_masked_select(vram__s *s, vram__t x, vram__t mask, const vram_dims *d);

static void vram__bw_masked_fill(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  if (vram__wants(f, 0))
    to[0] = vram__masked(s, g, VRAM__SAVED(f)[0].d);
  if (f->nin > 1 && vram__wants(f, 1)) { /* masked_fill_backward: the sum of what was filled */
    const int64_t all = (int64_t)g.d->numel;
    vram__t t = vram__t_masked_select(s, g, VRAM__SAVED(f)[0], vram__dims_in(s, 1, &all, NULL));
    to[1] = vram__sum(s, t, 1, 0, t.dt);
    vram__let(s, t);
  }
}

/* ---- memory formats ---- */

/* The sizes of d, channels last or contiguous. */
static const vram_dims *vram__formatted(vram__s *s, const vram_dims *d, int cl) {
  int64_t st[5], z;
  uint32_t i;
  if (!cl || d->ndim < 4 || d->ndim > 5)
    return vram__contig(s, d);
  for (st[1] = 1, z = d->v[1], i = d->ndim - 1u; i >= 2; i--)
    st[i] = z, z *= d->v[i];
  st[0] = z;
  return vram__dims_in(s, d->ndim, d->v, st);
}

/* x.contiguous(format): a copy, or x itself; a handle more either way */
static vram__t vram__in_format(vram__s *s, vram__t x, int cl) {
  if ((x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG)) || s->ideal) {
    x.d = vram__formatted(s, x.d, cl);
    x.fn = 0;
    return vram__keep_t(s, x);
  }
  return vram__empty(s, vram__formatted(s, x.d, cl), x.dt);
}

/* ---- padding ---- */

enum { VRAM__PAD_CONSTANT, VRAM__PAD_REFLECT, VRAM__PAD_REPLICATE, VRAM__PAD_CIRCULAR };

static uint32_t vram__pad_mode(int64_t word) {
  return word == VRAM__WORD("reflect")     ? VRAM__PAD_REFLECT
         : word == VRAM__WORD("replicate") ? VRAM__PAD_REPLICATE
         : word == VRAM__WORD("circular")  ? VRAM__PAD_CIRCULAR
                                           : VRAM__PAD_CONSTANT;
}

/* x[start:start + size] along an axis, with autograd */
static vram__t vram__t_narrow(vram__s *s, vram__t x, uint32_t axis, int64_t size) {
  int64_t z[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    z[i] = x.d->v[i];
  z[axis] = size;
  return vram__view(s, x, vram__dims_in(s, x.d->ndim, z, VRAM__STRIDE(x.d)), VRAM__K_slice, 0);
}

/* a.copy_(b) where a is a view of *base; takes both */
static void vram__t_copy(vram__s *s, vram__t a, vram__t b, vram__t *base) {
  vram__t in[2], y = a;
  vram__fn *f;
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM__K_copy, in, 2, 1, 0);
  if (f) {
    y.fn = 0;
    vram__keep_t(s, y);
    vram__made(s, f, 0, &y);
    vram__rebase(s, a, &y);
    vram__let(s, a);
    a = y;
    vram__refresh(s, base);
  }
  vram__let(s, a);
  vram__let(s, b);
}

/* PadNd.cpp, _pad_circular: the middle, then the two ends of each axis, the last axis first */
static vram__t vram__pad_circular(vram__s *s, vram__t x, const vram_dims *d, const int64_t *pad,
                                  uint32_t k) {
  vram__t y = vram__empty(s, d, x.dt), to = vram__keep_t(s, y), from = vram__keep_t(s, x), t;
  uint32_t i;
  for (i = 0; i < k; i++) {
    uint32_t a = d->ndim - 1u - i;
    int64_t l = pad[2 * (size_t)i], r = pad[2 * (size_t)i + 1];
    t = vram__t_narrow(s, to, a, d->v[a] - (l > 0 ? l : 0) - (r > 0 ? r : 0));
    vram__let(s, to);
    to = t;
    t = vram__t_narrow(s, from, a, x.d->v[a] + (l < 0 ? l : 0) + (r < 0 ? r : 0));
    vram__let(s, from);
    from = t;
  }
  vram__t_copy(s, to, from, &y);
  for (i = 0; i < 2 * k; i++)
    if (pad[i] > 0) {
      uint32_t a = d->ndim - 1u - i / 2;
      to = vram__t_narrow(s, y, a, pad[i]);
      from = vram__t_narrow(s, y, a, pad[i]);
      vram__t_copy(s, to, from, &y);
    }
  return y;
}

/* F.pad: pairs of pads from the last axis on, k of them */
static vram__t vram__t_pad(vram__s *s, vram__t x, const int64_t *pad, uint32_t k, uint32_t mode) {
  int64_t size[VRAM_MAX_AXES], part[VRAM_MAX_AXES];
  uint32_t i, grows = 0, shrinks = 0, n = x.d->ndim;
  const vram_dims *d;
  vram__fn *f;
  vram__t y, c;
  for (i = 0; i < n; i++)
    size[i] = part[i] = x.d->v[i];
  for (i = 0; i < 2 * k; i++) {
    uint32_t a = n - 1 - i / 2;
    size[a] += pad[i];
    if (pad[i] > 0)
      grows = 1;
    else
      part[a] += pad[i];
    if (pad[i] < 0)
      shrinks = 1;
  }
  d = vram__dims_in(s, n, size, NULL);
  if (mode == VRAM__PAD_CIRCULAR)
    return vram__pad_circular(s, x, d, pad, k);
  f = vram__record(s, VRAM_OP_pad, &x, 1, 1, 1);
  if (f) {
    f->aux = mode | shrinks << 4 | k << 8;
    if (mode != VRAM__PAD_CONSTANT)
      vram__save(s, f, x);
  }
  if (mode == VRAM__PAD_CONSTANT) {
    if (grows)
      d = vram__formatted(s, d, vram__suggests_cl(x.d));
    else
      d = vram__dense(s, vram__dims_in(s, n, part, VRAM__STRIDE(x.d)));
  }
  y = vram__empty(s, d, x.dt);
  if (mode == VRAM__PAD_REFLECT) {
    c = vram__contiguous(s, x);
    vram__let(s, c);
  }
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_pad(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t c;
  const int64_t *v = vram__list(n, VRAM__KEY_pad, &c);
  y[0] = vram__t_pad(s, x[0], v, c / 2, vram__pad_mode(VRAM__INT(n, mode, 0)));
}

static void vram__bw_pad(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  if ((f->aux & 15) != VRAM__PAD_CONSTANT)
    d = vram__contig(s, d);
  else if (f->aux >> 4 & 15)
    d = vram__formatted(s, d, vram__suggests_cl(g.d));
  else
    d = vram__dense(s, vram__dims_in(s, d->ndim, d->v, VRAM__STRIDE(g.d)));
  to[0] = vram__empty(s, d, g.dt);
  if ((f->aux & 15) == VRAM__PAD_REFLECT && f->aux >> 8 < 3) { /* of fewer than 3 axes */
    vram__t c = vram__contiguous(s, g);
    vram__let(s, c);
  }
}

/* ---- convolutions: aten/src/ATen/native/Convolution.cpp and cudnn/ConvShared.cpp ---- */

/* ConvUtils.h, cudnn_conv_suggest_memory_format: 1 = channels last */
static int vram__conv_cl(vram__t a, vram__t b) {
  return a.dt != VRAM_F64 && b.dt != VRAM_F64 && (vram__suggests_cl(a.d) || vram__suggests_cl(b.d));
}

/* Is it a depthwise convolution that PyTorch runs with kernels of its own, not with cuDNN? 2 or 3:
   its axes (ConvParams::use_cudnn_depthwise, check_cudnn_depthwise_workload_with_filter). */
static int vram__conv_native(const vram_node *n, vram__t x, vram__t w, int cl) {
  int64_t stride[3], dil[3], width, k, c;
  uint32_t axes = x.d->ndim - 2u;
  c = x.d->v[1];
  if (VRAM__INT(n, groups, 1) != c || c < 2 || cl || vram__is_transposed(n->op))
    return 0;
  if (x.dt != VRAM_F16 || c < 32 || axes == 3)
    return (int)axes;
  axes = vram__spatial(n->op); /* a 1-D convolution runs with a height of 1 */
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  if (axes == 1)
    stride[1] = stride[0], dil[1] = dil[0], stride[0] = dil[0] = 1;
  if ((stride[0] != stride[1] && x.d->v[2] != 1) || dil[0] != 1 || dil[1] != 1)
    return 2;
  if (x.d->v[2] == 1 && stride[1] == 1)
    return 0;
  width = x.d->v[3], k = w.d->v[3];
  if (w.d->v[2] != k || (k != 1 && k != 3 && k != 5) || width < 7)
    return 2;
  if (stride[1] != 2)
    return stride[1] == 1 ? 0 : 2;
  if (x.d->v[0] == 1)
    return k == 1 && width > 28 ? 2 : 0;
  if (k == 1)
    return x.d->v[0] > 16 || c < 128 || width > 7 ? 2 : 0;
  return c < 512 && (c < 256 || width < 28) ? 2 : 0;
}

/* the dims of t with an axis of height 1: how 1-D convolutions run */
static vram__t vram__as_2d(vram__s *s, vram__t t) {
  if (t.d->ndim == 3)
    t.d = vram__unsqueezed(s, t.d, 2);
  return t;
}

/* What F.conv does with padding before it convolves: padding_mode of the module, and the odd part
   of padding=same, which goes to the right. One handle more. */
static vram__t vram__conv_pad(vram__s *s, const vram_node *n, vram__t x, vram__t w) {
  int64_t pad[6], p[3], dil[3];
  uint32_t i, k = vram__spatial(n->op), any = 0;
  uint32_t mode = vram__pad_mode(VRAM__INT(n, padding_mode, 0));
  int same = VRAM__INT(n, padding, 0) == VRAM__SAME;
  if (!same && mode == VRAM__PAD_CONSTANT)
    return vram__keep_t(s, x);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, k, 1, 1, dil);
  if (!same)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, k, 0, 0, p);
  for (i = 0; i < k; i++) {
    int64_t total = dil[i] * (w.d->v[w.d->ndim - k + i] - 1), *to = pad + 2 * (size_t)(k - 1 - i);
    if (mode != VRAM__PAD_CONSTANT)
      to[0] = same ? total / 2 : p[i], to[1] = same ? total - total / 2 : p[i];
    else
      to[0] = 0, to[1] = total % 2;
    if (to[1])
      any = 1;
  }
  if (!any && mode == VRAM__PAD_CONSTANT)
    return vram__keep_t(s, x);
  return vram__t_pad(s, x, pad, k, mode);
}

/* ---- convolutions without cuDNN: aten/src/ATen/native/cuda/ConvolutionMM2d.cu,
   NaiveDilatedConvolution.cu, NaiveConvolutionTranspose2d.cu and 3d.cu ---- */

typedef struct vram__slow {
  int transposed, dilated; /* dilated: the form that also runs 3-D convolutions */
  int plain;               /* a kernel of 1, stride 1, no padding: mostly no columns */
  int64_t groups, samples;
  uint64_t columns; /* bytes of the columns of one sample and group */
} vram__slow;

/* ConvParams::is_output_padding_big: not for cuDNN */
static int vram__pads_output_much(const vram_node *n) {
  int64_t stride[3], more[3];
  uint32_t i, axes = vram__spatial(n->op);
  if (!vram__is_transposed(n->op))
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_output_padding, axes, 0, 0, more);
  for (i = 0; i < axes; i++)
    if (more[i] >= stride[i])
      return 1;
  return 0;
}

/* cuDNN takes bf16 from compute capability 8.0 on. Below, all but depthwise convolutions multiply
   columns of one sample after the other (ConvParams::use_cudnn). y: dims of the result. */
static int vram__slow_of(const vram__s *s, const vram_node *n, vram__t x, vram__t w,
                         const vram_dims *y, vram__slow *k) {
  int64_t stride[3], dil[3], pad[3];
  uint32_t i, axes = vram__spatial(n->op);
  const vram_dims *area;
  if (s->ideal || !x.d->numel || ((x.dt != VRAM_BF16 || s->cc >= 80) && !vram__pads_output_much(n)))
    return 0;
  k->groups = VRAM__INT(n, groups, 1);
  k->samples = x.d->v[0];
  k->transposed = vram__is_transposed(n->op);
  if (k->groups == x.d->v[1] && k->groups > 1 && !k->transposed)
    return 0;
  vram__axes((vram_graph *)0, n, VRAM__KEY_stride, axes, 1, 1, stride);
  vram__axes((vram_graph *)0, n, VRAM__KEY_dilation, axes, 1, 1, dil);
  pad[0] = pad[1] = pad[2] = 0; /* other modes pad before; same pads no kernel of 1 */
  if (VRAM__INT(n, padding, 0) != VRAM__SAME &&
      vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT)
    vram__axes((vram_graph *)0, n, VRAM__KEY_padding, axes, 0, 0, pad);
  k->plain = 1;
  k->dilated = axes == 3;
  for (i = 0; i < axes; i++) {
    if (dil[i] != 1)
      k->dilated = 1, k->plain = 0;
    if (w.d->v[w.d->ndim - axes + i] != 1 || stride[i] != 1 || pad[i])
      k->plain = 0;
  }
  area = k->transposed ? x.d : y;
  k->columns = vram__mul4((int64_t)(w.d->numel / (uint64_t)w.d->v[0]), area->v[2],
                          area->ndim > 3 ? area->v[3] : 1, area->ndim > 4 ? area->v[4] : 1);
  k->columns = vram__mul(k->columns, vram__size_of(x.dt));
  return 1;
}

/* one product for each sample, `times` of them; more than 2^16 samples change no figure */
static void vram__slow_products(vram__s *s, const vram__slow *k, int times) {
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  for (i = 0; i < n * times && !s->failed; i++)
    vram__workspace(s, s->ws);
}

/* one group: x and w contiguous, d the contiguous dims of the result */
static vram__t vram__slow_forward(vram__s *s, const vram__slow *k, vram__t x, int bias,
                                  const vram_dims *d) {
  vram__t y, columns = vram__none(), ones = columns;
  if (k->transposed && d->ndim == 5) { /* empty_like(input), resized: storages only grow */
    vram__t old = vram__empty(s, x.d, x.dt);
    y = old;
    y.d = d;
    if (d->numel > x.d->numel) {
      y = vram__empty(s, d, x.dt);
      vram__let(s, old);
    } else if (y.st)
      (s->top - y.st)->d = d;
  } else
    y = vram__empty(s, d, x.dt);
  if (!k->plain || k->transposed || k->dilated)
    columns = vram__raw(s, k->columns);
  if (bias && k->transposed) { /* the bias is a product with ones */
    ones = vram__raw(s, vram__size_of(x.dt) * d->numel / (uint64_t)(d->v[0] * d->v[1]));
    vram__slow_products(s, k, 2);
  } else
    vram__slow_products(s, k, 1);
  vram__let(s, ones);
  vram__let(s, columns);
  return y;
}

/* one group; want: a bit for each of the gradients of input, weight and bias */
static void vram__slow_backward(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                                uint32_t want, vram__t *to) {
  vram__t c, columns = vram__none(), t;
  uint32_t mask = ((1u << g.d->ndim) - 1) & ~2u;
  int64_t i, n = k->samples < 65536 ? k->samples : 65536;
  if (k->transposed) {
    if (want & 1) {
      c = vram__contiguous(s, g);
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = k->plain ? columns : vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
      vram__let(s, columns);
      vram__let(s, c);
    }
    if (!(want & 6))
      return;
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, mask, 0, g.dt);
    c = vram__contiguous(s, g);
    columns = k->plain ? vram__none() : vram__raw(s, k->columns);
    if (want & 2)
      vram__slow_products(s, k, 1);
    if (want & 4)
      vram__reduce(s, c, mask, c.dt, 4, 4);
  } else if (k->dilated) {
    c = vram__contiguous(s, g);
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, c, mask, 0, c.dt);
    if (want & 3)
      columns = vram__raw(s, k->columns);
    g = c;
    g.d = vram__without_axis(s, c.d, 0);
    for (i = 0; i < n && !s->failed; i++) {
      if (want & 1)
        vram__workspace(s, s->ws);
      if (want & 2)
        vram__workspace(s, s->ws);
      if (want & 4) {
        t = vram__sum(s, g, mask >> 1, 0, g.dt);
        vram__let(s, t);
      }
    }
  } else {
    c = vram__contiguous(s, g);
    if (want & 1) {
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
    if (want & 4)
      to[2] = vram__sum(s, c, mask, 0, c.dt);
    if (want & 2) {
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
      if (!(want & 1))
        columns = vram__raw(s, k->columns);
      vram__slow_products(s, k, 1);
    }
  }
  vram__let(s, columns);
  vram__let(s, c);
}

/* the part of t that belongs to one group */
static const vram_dims *vram__slow_part(vram__s *s, const vram_dims *d, uint32_t axis,
                                        int64_t groups) {
  int64_t size[5];
  uint32_t i;
  for (i = 0; i < d->ndim; i++)
    size[i] = d->v[i];
  size[axis] /= groups;
  return vram__dims_in(s, d->ndim, size, VRAM__STRIDE(d));
}

/* subtensor(t, 1, groups, g): a copy unless it is dense */
static vram__t vram__slow_sub(vram__s *s, vram__t t, const vram_dims *d) {
  t.d = d;
  return vram__in_format(s, t, vram__suggests_cl(d));
}

/* Tensors of the groups that wait for cat, linked by their slots: nothing else counts writes to
   them. */
typedef struct vram__queue {
  uint32_t first, last;
} vram__queue;

static void vram__queue_add(vram__s *s, vram__queue *q, vram__t t) {
  if (!t.st)
    return;
  (s->top - t.st)->ver = 0;
  if (q->last)
    (s->top - q->last)->ver = t.st;
  else
    q->first = t.st;
  q->last = t.st;
}

static void vram__queue_let(vram__s *s, const vram__queue *q) {
  uint32_t i, next;
  for (i = q->first; i; i = next) {
    next = (s->top - i)->ver;
    (s->top - i)->ver = 0;
    vram__drop_store(s, i);
  }
}

/* y: dims of the result */
static vram__t vram__slow_run(vram__s *s, const vram__slow *k, vram__t x, vram__t w, int bias,
                              const vram_dims *y) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), r, t;
  vram__queue q = {0, 0};
  int64_t i;
  y = vram__contig(s, y);
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dy = vram__contig(s, vram__slow_part(s, y, 1, k->groups));
    for (i = 0; i < k->groups && !s->failed; i++) {
      t = vram__slow_sub(s, cx, dx);
      vram__queue_add(s, &q, vram__slow_forward(s, k, t, bias, dy));
      vram__let(s, t);
    }
    r = vram__empty(s, y, x.dt);
    vram__queue_let(s, &q);
  } else
    r = vram__slow_forward(s, k, cx, bias, y);
  vram__let(s, cw);
  vram__let(s, cx);
  return r;
}

static void vram__slow_bw(vram__s *s, const vram__slow *k, vram__t g, vram__t x, vram__t w,
                          uint32_t want, vram__t *to) {
  vram__t cx = vram__contiguous(s, x), cw = vram__contiguous(s, w), part[3], gi, xi, wi;
  vram__queue q[3] = {{0, 0}, {0, 0}, {0, 0}};
  int64_t i;
  uint32_t j;
  if (k->groups > 1) {
    const vram_dims *dx = vram__slow_part(s, cx.d, 1, k->groups);
    const vram_dims *dg = vram__slow_part(s, g.d, 1, k->groups);
    wi = cw;
    wi.d = vram__slow_part(s, cw.d, 0, k->groups);
    for (i = 0; i < k->groups && !s->failed; i++) {
      for (j = 0; j < 3; j++)
        part[j] = vram__none();
      gi = vram__slow_sub(s, g, dg);
      xi = vram__slow_sub(s, cx, dx);
      vram__slow_backward(s, k, gi, xi, wi, want, part);
      vram__let(s, xi);
      vram__let(s, gi);
      for (j = 0; j < 3; j++)
        vram__queue_add(s, q + j, part[j]);
    }
    if (want & 1)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want & 2)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    if (want & 4)
      to[2] = vram__reduced(s, g, ((1u << g.d->ndim) - 1) & ~2u, 0, g.dt);
    for (j = 3; j-- > 0;)
      vram__queue_let(s, q + j);
  } else
    vram__slow_backward(s, k, g, cx, cw, want, to);
  vram__let(s, cw);
  vram__let(s, cx);
}

/* Any convolution. */
static void vram__run_any_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], c, cx, cw, cf, p;
  vram__fn *f;
  int cl, batched = x[0].d->ndim == vram__spatial(n->op) + 2;
  uint32_t i, done = 3; /* from there on cast */
  const vram_dims *d = n->out[0].d;
  vram__slow slow;
  vram__weights(s, n, &a[1], &a[2]);
  if (!batched) { /* autocast comes before the batch axis, the module's padding before both */
    const int zeros = vram__pad_mode(VRAM__INT(n, padding_mode, 0)) == VRAM__PAD_CONSTANT;
    for (done = s->amp && zeros ? 1 : 3, i = 3; i-- > done;)
      if (a[i].d)
        a[i] = vram__autocast(s, a[i], s->amp);
    p = done == 1 ? vram__autocast(s, x[0], s->amp)
        : zeros   ? vram__keep_t(s, x[0])
                  : vram__conv_pad(s, n, x[0], a[1]);
    c = vram__t_unsqueeze(s, p, 0);
    vram__let(s, p);
    p = zeros ? vram__conv_pad(s, n, c, a[1]) : vram__keep_t(s, c);
    vram__let(s, c);
    d = vram__unsqueezed(s, d, 0);
  } else
    p = vram__conv_pad(s, n, x[0], a[1]);
  a[0] = p;
  for (i = done; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  f = vram__record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  c = a[0].d->ndim == 3 ? vram__contiguous(s, a[0]) : vram__none();
  cx = vram__as_2d(s, c.d ? c : a[0]);
  cw = vram__as_2d(s, a[1]);
  if (vram__slow_of(s, n, cx, cw, d->ndim == 3 ? vram__unsqueezed(s, d, 2) : d, &slow)) {
    y[0] = vram__slow_run(s, &slow, cx, cw, a[2].d != NULL,
                          d->ndim == 3 ? vram__unsqueezed(s, d, 2) : d);
    y[0].d = d->ndim == 3 ? vram__without_axis(s, y[0].d, 2) : y[0].d;
  } else {
    cl = vram__conv_cl(cx, cw);
    cx = vram__in_format(s, cx, cl);
    if (d->ndim == 3)
      d = vram__without_axis(s, vram__formatted(s, vram__unsqueezed(s, d, 2), cl), 2);
    else
      d = vram__formatted(s, d, cl);
    if (vram__conv_native(n, cx, cw, cl) == 2)
      cw = vram__in_format(s, cw, 0);
    else
      vram__keep_t(s, cw);
    y[0] = vram__empty(s, d, a[0].dt);
    cf = vram__in_format(s, cw, cl);
    vram__may_need(s, cx.d->numel + cw.d->numel + d->numel);
    vram__let(s, cf);
    vram__let(s, cw);
    vram__let(s, cx);
  }
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  for (i = 0; i < 3; i++)
    vram__let(s, a[i]);
  vram__let(s, p);
  if (!batched) {
    c = vram__t_squeeze1(s, y[0], 0);
    vram__let(s, y[0]);
    y[0] = c;
  }
}

/* cudnn_convolution_forward and _backward_input: the result, then copies of the operands */
static vram__t vram__conv_product(vram__s *s, vram__t a, vram__t w, const vram_dims *d) {
  int cl = vram__conv_cl(a, w);
  vram__t y = vram__empty(s, vram__formatted(s, d, cl), a.dt), cw, ca;
  cw = vram__in_format(s, w, cl);
  ca = vram__in_format(s, a, cl);
  vram__may_need(s, ca.d->numel + cw.d->numel + d->numel);
  vram__let(s, ca);
  vram__let(s, cw);
  return y;
}

/* cudnn_convolution_backward_weight */
static vram__t vram__conv_weight(vram__s *s, vram__t x, vram__t g, const vram_dims *d) {
  int cl = vram__conv_cl(x, g);
  vram__t cg = vram__in_format(s, g, cl), cx = vram__in_format(s, x, cl), y;
  y = vram__empty(s, vram__formatted(s, d, cl), g.dt);
  vram__may_need(s, cx.d->numel + cg.d->numel + d->numel);
  vram__let(s, cx);
  vram__let(s, cg);
  return y;
}

static void vram__bw_any_conv(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g0 = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], w = VRAM__SAVED(f)[1], c, g, xi, gi, wi,
          held = vram__none();
  int cl, native, want0 = vram__wants(f, 0), want1 = vram__wants(f, 1), flat = x.d->ndim == 3;
  int transposed = vram__is_transposed(f->node->op), want2 = f->nin > 2 && vram__wants(f, 2);
  vram__slow slow;
  c = flat ? vram__contiguous(s, x) : vram__none();
  x = vram__as_2d(s, flat ? c : x);
  w = vram__as_2d(s, w);
  g = vram__as_2d(s, g0);
  cl = vram__conv_cl(x, w);
  native = vram__conv_native(f->node, x, w, cl);
  if (vram__slow_of(s, f->node, x, w, g.d, &slow)) {
    vram__slow_bw(s, &slow, g, x, w, (uint32_t)(want0 | want1 << 1 | want2 << 2), to);
    want2 = 0;
  } else if (native == 3) { /* DepthwiseConv3d.cu */
    if (want0)
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (want1)
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
    gi = vram__contiguous(s, g);
    xi = vram__contiguous(s, x);
    wi = vram__contiguous(s, w);
    vram__let(s, wi);
    vram__let(s, xi);
    held = gi;         /* the bias's gradient is made in there too */
  } else if (native) { /* DepthwiseConv2d.cu */
    gi = vram__contiguous(s, g);
    if (want1) {
      xi = vram__contiguous(s, x);
      to[1] = vram__empty(s, vram__contig(s, w.d), w.dt);
      vram__let(s, xi);
    }
    if (want0) {
      wi = vram__contiguous(s, w);
      to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
      vram__let(s, wi);
    }
    vram__let(s, gi);
  } else { /* ConvShared.cpp; the gradient changes its format even if only the bias wants one */
    xi = vram__none();
    if (want1)
      x = xi = vram__in_format(s, x, cl);
    gi = vram__none();
    if (transposed)
      g = gi = vram__in_format(s, g, vram__suggests_cl(x.d));
    else if (vram__suggests_cl(g.d) != vram__suggests_cl(x.d))
      g = gi = vram__empty(s, vram__formatted(s, g.d, vram__suggests_cl(x.d)), g.dt);
    if (want0)
      to[0] = vram__conv_product(s, g, w, x.d);
    if (want1)
      to[1] = transposed ? vram__conv_weight(s, g, x, w.d) : vram__conv_weight(s, x, g, w.d);
    vram__let(s, gi);
    vram__let(s, xi);
  }
  if (flat && want0)
    to[0].d = vram__without_axis(s, to[0].d, 2);
  if (flat && want1)
    to[1].d = vram__without_axis(s, to[1].d, 2);
  if (want2)
    to[2] = vram__sum(s, g0, ((1u << g0.d->ndim) - 1) & ~2u, 0, g0.dt);
  vram__let(s, held);
  vram__let(s, c);
}

VRAM__SELDOM_END

/* Contiguous, and not like channels last either: most convolutions take no copies. */
static int vram__usual_conv(const vram__s *s, const vram_node *n, const vram_dims *x) {
  return (n->flags & VRAM__USUAL) && x->ndim == n->param[0]->d->ndim && s->cc >= 80 &&
         (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN &&
         !vram__suggests_cl(n->param[0]->d);
}

static void vram__run_conv(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3];
  vram__fn *f;
  uint32_t i;
  if (!vram__usual_conv(s, n, x->d)) {
    vram__run_any_conv(s, n, x, y);
    return;
  }
  a[0] = *x;
  vram__weights(s, n, &a[1], &a[2]);
  for (i = s->amp ? 3 : 0; i-- > 0;)
    if (a[i].d)
      a[i] = vram__autocast(s, a[i], s->amp);
  f = vram__record(s, n->op, a, a[2].d ? 3 : 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__empty(s, n->out[0].d, a[0].dt);
  vram__may_need(s, a[0].d->numel + a[1].d->numel + y[0].d->numel);
  vram__made(s, f, 0, &y[0]);
  for (i = 0; s->amp && i < 3; i++)
    vram__let(s, a[i]);
}

static void vram__bw_conv(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *x = VRAM__SAVED(f)[0].d, *w = VRAM__SAVED(f)[1].d;
  const vram__t *g = &VRAM__SLOTS(f)[0].g;
  const uint64_t numel = x->numel + w->numel + g->d->numel;
  if (!vram__usual_conv(s, f->node, x) || vram__suggests_cl(w) ||
      (g->d->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) != VRAM__PLAIN) {
    vram__bw_any_conv(s, f, to);
    return;
  }
  if (vram__wants(f, 0)) {
    to[0] = vram__empty(s, x, g->dt);
    vram__may_need(s, numel);
  }
  if (vram__wants(f, 1)) {
    to[1] = vram__empty(s, w, g->dt);
    vram__may_need(s, numel);
  }
  if (f->nin > 2 && vram__wants(f, 2))
    to[2] = vram__sum(s, *g, ((1u << g->d->ndim) - 1) & ~2u, 0, g->dt);
}

VRAM__SELDOM_BEGIN

/* ---- dropout: aten/src/ATen/native/Dropout.cpp ---- */

/* x * noise, in place or not: what all dropouts but the fused one come to; takes noise */
static vram__t vram__t_noise(vram__s *s, vram__t x, vram__t noise, int inplace) {
  vram__fn *f = vram__record(s, VRAM__K_noise, &x, 1, 1, 1);
  vram__t y = x;
  if (inplace) {
    y.fn = 0;
    vram__keep_t(s, y);
  } else
    y = vram__ti2(s, x, noise);
  if (f)
    vram__save(s, f, noise);
  vram__made(s, f, 0, &y);
  vram__let(s, noise);
  return y;
}

static void vram__bw_noise(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

/* one number for each channel: sizes [N, C, 1, ...], with 1 kept axis [C, 1, ...] */
static vram__t vram__channel_noise(vram__s *s, vram__t x, uint32_t kept) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = i < kept ? x.d->v[i] : 1;
  return vram__empty(s, vram__dims_in(s, x.d->ndim, size, NULL), x.dt);
}

static void vram__run_dropout(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t p = VRAM__INT(n, p, VRAM__ONE / 2);
  int inplace = (n->flags & VRAM__INPLACE) != 0, alpha = 0, feature = 0;
  uint32_t axes = 0;
  vram__fn *f;
  vram__t m, b, c;
  if (n->op == VRAM_OP_dropout1d || n->op == VRAM_OP_dropout3d)
    axes = n->op == VRAM_OP_dropout1d ? 1 : 3;
  if (!s->train || p == 0 || !x[0].d->numel) {
    if (!axes || inplace || x[0].d->ndim == axes + 2) {
      y[0] = vram__keep_t(s, x[0]);
      return;
    }
    c = vram__t_unsqueeze(s, x[0], 0);
    y[0] = vram__t_squeeze1(s, c, 0);
    vram__let(s, c);
    return;
  }
  switch (n->op) {
  case VRAM_OP_alpha_dropout:
    alpha = 1;
    break;
  case VRAM_OP_feature_alpha_dropout:
    alpha = feature = 1;
    break;
  case VRAM_OP_dropout:
    break;
  default:
    feature = 1;
  }
  if (n->op == VRAM_OP_dropout && !inplace && p < VRAM__ONE) { /* native_dropout */
    f = vram__record(s, n->op, x, 1, 1, 1);
    if (s->ideal) { /* a counter-based generator makes the same mask again */
      y[0] = vram__ti1(s, x[0]);
      vram__made(s, f, 0, &y[0]);
      return;
    }
    m = vram__empty(s, vram__dense(s, x[0].d), VRAM_BOOL);
    y[0] = vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
    if (f)
      vram__save(s, f, m);
    vram__let(s, m);
    vram__made(s, f, 0, &y[0]);
    return;
  }
  c = axes && x[0].d->ndim != axes + 2 && !inplace ? vram__t_unsqueeze(s, x[0], 0)
                                                   : vram__keep_t(s, x[0]);
  if (p >= VRAM__ONE) {
    y[0] = vram__t_noise(s, c, vram__empty(s, s->scalar, c.dt), inplace);
  } else {
    /* in place unsqueeze_ and squeeze_ stand around it */
    m = feature ? vram__channel_noise(s, c, inplace && axes && c.d->ndim != axes + 2 ? 1 : 2)
                : vram__ti1(s, c);
    b = alpha ? vram__ti1(s, m) : vram__none();
    y[0] = vram__t_noise(s, c, m, inplace);
    if (alpha && inplace && y[0].fn) /* add_ of b */
      vram__rebase(s, c, &y[0]);
    if (alpha) {
      vram__fn *add = vram__record(s, VRAM__K_clone, &y[0], 1, 1, 0);
      uint32_t old = y[0].fn;
      vram__made(s, add, 0, &y[0]);
      if (add)
        vram__fn_unref(s, old);
    }
    vram__let(s, b);
  }
  if (c.d->ndim != x[0].d->ndim) {
    m = vram__t_squeeze1(s, y[0], 0);
    vram__let(s, y[0]);
    y[0] = m;
  }
  vram__let(s, c);
}

static void vram__bw_dropout(vram__s *s, vram__fn *f, vram__t *to) {
  if (s->ideal && !f->nsaved) {
    vram__t g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__over(s, g, g.d, g.dt);
    return;
  }
  { /* Dropout.cu: empty_like in the format that the gradient suggests */
    vram__t g = VRAM__SLOTS(f)[0].g;
    to[0] = vram__empty(s, vram__formatted(s, g.d, vram__suggests_cl(g.d)), g.dt);
  }
}

/* ---- pooling ---- */

/* op(x) where the 1-D form runs the 2-D one on x.unsqueeze(-2): x as that one sees it, and the
   results back; vram__unflat takes y. */
static vram__t vram__flat(vram__s *s, const vram_node *n, vram__t x) {
  if (vram__spatial(n->op) == 1)
    return vram__t_unsqueeze(s, x, x.d->ndim - 1u);
  return vram__keep_t(s, x);
}

static vram__t vram__unflat(vram__s *s, const vram_node *n, vram__t y) {
  vram__t z;
  if (y.d->ndim == n->out[0].d->ndim)
    return y;
  z = vram__t_squeeze1(s, y, y.d->ndim - 2u);
  vram__let(s, y);
  return z;
}

/* the dims of output i as the 2-D form sees them */
static const vram_dims *vram__pool_dims(vram__s *s, const vram_node *n, uint32_t ndim) {
  const vram_dims *d = n->out[0].d;
  return d->ndim == ndim ? d : vram__unsqueezed(s, d, d->ndim - 1u);
}

/* DilatedMaxPool2d.cu, DilatedMaxPool3d.cu */
/* DilatedMaxPool3d.cu: one sample alone is channels last if it is so as a batch of one. */
static int vram__max_pool_cl(vram__s *s, uint32_t op, const vram_dims **d) {
  if (op != VRAM_OP_max_pool3d || (*d)->ndim != 4)
    return vram__suggests_cl(*d);
  *d = vram__unsqueezed(s, *d, 0);
  return ((*d)->flags & (VRAM__CONTIG | VRAM__CL)) == VRAM__CL;
}

static void vram__run_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), b = a, c, m;
  const vram_dims *d = vram__pool_dims(s, n, a.d->ndim);
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 2);
  const int cl = vram__max_pool_cl(s, n->op, &b.d), alone = b.d != a.d;
  if (f)
    vram__save(s, f, a);
  d = vram__formatted(s, alone ? vram__unsqueezed(s, d, 0) : d, cl);
  if (alone)
    d = vram__without_axis(s, d, 0);
  y[0] = vram__empty(s, d, a.dt);
  m = vram__empty(s, d, VRAM_I64);
  c = vram__in_format(s, b, cl);
  vram__let(s, c);
  if (f)
    vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__unflat(s, n, m);
  else
    vram__let(s, m);
  vram__let(s, a);
}

static void vram__bw_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx = vram__none();
  const vram_dims *own = x.d;
  const int cl = vram__max_pool_cl(s, f->kind, &x.d), alone = x.d != own;
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  if (f->kind != VRAM_OP_max_pool3d)
    cx = vram__in_format(s, x, cl);
  if (alone)
    g.d = vram__unsqueezed(s, g.d, 0);
  cg = vram__in_format(s, g, cl);
  vram__let(s, cg);
  vram__let(s, cx);
  if (!alone)
    return;
  if (cl) { /* and back */
    cx = to[0];
    to[0] = vram__empty(s, vram__contig(s, own), g.dt);
    vram__let(s, cx);
  }
  to[0].d = vram__contig(s, own);
}

/* AveragePool2d.cu; AveragePool3d.cu knows no channels-last */
static void vram__run_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c;
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 1);
  int cl = n->op != VRAM_OP_avg_pool3d && vram__suggests_cl(a.d);
  if (f)
    vram__save(s, f, a);
  y[0] = vram__empty(s, vram__formatted(s, vram__pool_dims(s, n, a.d->ndim), cl), a.dt);
  c = vram__in_format(s, a, cl);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_avg_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cx;
  int cl = f->kind != VRAM_OP_avg_pool3d && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  cx = f->kind == VRAM_OP_avg_pool3d ? vram__none() : vram__in_format(s, x, cl);
  cg = vram__in_format(s, g, cl);
  vram__let(s, cg);
  vram__let(s, cx);
}

/* AdaptiveAveragePooling.cpp: to sizes of 1 it is a mean, else a kernel */
static vram__t vram__t_adaptive_avg(vram__s *s, vram__t x, const vram_dims *d, uint32_t k) {
  uint32_t i, mask = 0, n = d->ndim;
  vram__fn *f;
  vram__t y, c;
  int cl = vram__suggests_cl(x.d);
  for (i = n - k; i < n; i++)
    if (d->v[i] == 1)
      mask |= 1u << i;
  if (mask == ((1u << k) - 1) << (n - k)) {
    f = vram__record(s, VRAM__K_mean, &x, 1, 1, 0);
    if (f)
      f->aux = mask;
    y = vram__sum(s, x, mask, 1, x.dt);
    vram__made(s, f, 0, &y);
    if (cl) { /* as_strided_ in place */
      uint32_t old = y.fn;
      f = vram__record(s, VRAM__K_as_strided, &y, 1, 1, 0);
      y.d = vram__as_cl(s, y.d);
      vram__made(s, f, 0, &y);
      if (f)
        vram__fn_unref(s, old);
    }
    return y;
  }
  cl = cl && k == 2; /* AdaptiveAveragePooling3d.cu knows no channels-last */
  f = vram__record(s, VRAM_OP_adaptive_avg_pool2d, &x, 1, 1, 1);
  if (f)
    vram__save(s, f, x);
  c = cl || n == k + 1 ? vram__none() : vram__contiguous(s, x); /* one sample: by its strides */
  y = vram__empty(s, vram__formatted(s, d, cl), x.dt);
  vram__let(s, c);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_adaptive_avg_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]);
  y[0] = vram__t_adaptive_avg(s, a, vram__pool_dims(s, n, a.d->ndim),
                              n->op == VRAM_OP_adaptive_avg_pool3d ? 3 : 2);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_adaptive_avg_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  c = cl ? vram__none() : vram__contiguous(s, g);
  vram__let(s, c);
}

/* AdaptiveMaxPooling2d.cu, AdaptiveMaxPooling3d.cu: the kernels know no channels-last */
static void vram__run_adaptive_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c, m, t = vram__none(), u = vram__none();
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 2);
  int cl = n->op != VRAM_OP_adaptive_max_pool3d && vram__suggests_cl(a.d);
  const vram_dims *d = vram__formatted(s, vram__pool_dims(s, n, a.d->ndim), cl);
  if (f)
    vram__save(s, f, a);
  y[0] = vram__empty(s, d, a.dt);
  m = vram__empty(s, d, VRAM_I64);
  if (!(d->flags & VRAM__CONTIG)) {
    t = vram__contiguous(s, y[0]);
    u = vram__contiguous(s, m);
  }
  c = a.d->ndim == (n->op == VRAM_OP_adaptive_max_pool3d ? 4 : 3) ? vram__none()
                                                                  : vram__contiguous(s, a);
  vram__let(s, c);
  vram__let(s, u);
  vram__let(s, t);
  if (f)
    vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  if (n->nout > 1)
    y[1] = vram__unflat(s, n, m);
  else
    vram__let(s, m);
  vram__let(s, a);
}

static void vram__bw_adaptive_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], cg, cm, cx;
  int cl = x.d->ndim == 4 && vram__suggests_cl(x.d);
  to[0] = vram__empty(s, vram__formatted(s, x.d, cl), g.dt);
  cg = vram__contiguous(s, g);
  cm = vram__contiguous(s, VRAM__SAVED(f)[1]);
  cx = vram__contiguous(s, to[0]);
  vram__let(s, cx);
  vram__let(s, cm);
  vram__let(s, cg);
}

/* FractionalMaxPool2d.cpp: random samples [N, C, axes] first */
static void vram__run_fractional_max_pool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t k = n->op == VRAM_OP_fractional_max_pool2d ? 2 : 3;
  int64_t size[3];
  vram__t r, m;
  vram__fn *f;
  size[0] = x[0].d->ndim == k + 2 ? x[0].d->v[0] : 1;
  size[1] = x[0].d->v[x[0].d->ndim - k - 1];
  size[2] = k;
  r = vram__empty(s, vram__dims_in(s, 3, size, NULL), x[0].dt);
  f = vram__record(s, n->op, x, 1, 1, 2);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  m = vram__empty(s, n->out[0].d, VRAM_I64);
  if (f)
    vram__save(s, f, x[0]), vram__save(s, f, m);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, r);
  if (n->nout > 1)
    y[1] = m;
  else
    vram__let(s, m);
}

static void vram__bw_fractional_max_pool(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c = vram__none();
  if (f->kind == VRAM_OP_fractional_max_pool2d)
    c = vram__contiguous(s, g);
  to[0] = vram__empty(s, vram__contig(s, VRAM__SAVED(f)[0].d), g.dt);
  vram__let(s, c);
}

static void vram__run_max_unpool(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a = vram__flat(s, n, x[0]), c, i;
  vram__fn *f = vram__record(s, n->op, &a, 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  c = vram__contiguous(s, a);
  i = vram__contiguous(s, x[1]);
  y[0] = vram__empty(s, vram__pool_dims(s, n, a.d->ndim), a.dt);
  vram__let(s, i);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
  y[0] = vram__unflat(s, n, y[0]);
  vram__let(s, a);
}

static void vram__bw_max_unpool(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* ---- resampling ---- */

enum {
  VRAM__UP_NEAREST,
  VRAM__UP_LINEAR, /* linear, bilinear, trilinear */
  VRAM__UP_BICUBIC,
  VRAM__UP_AREA,
  VRAM__UP_AA,  /* with antialias=1 */
  VRAM__UP_COPY /* to the size that it has */
};

static uint32_t vram__up_mode(const vram_node *n) {
  int64_t w = VRAM__INT(n, mode, VRAM__WORD("nearest"));
  if (VRAM__INT(n, antialias, 0))
    return VRAM__UP_AA;
  return w == VRAM__WORD("nearest") || w == VRAM__WORD("nearest-exact") ? VRAM__UP_NEAREST
         : w == VRAM__WORD("area")                                      ? VRAM__UP_AREA
         : w == VRAM__WORD("bicubic")                                   ? VRAM__UP_BICUBIC
                                                                        : VRAM__UP_LINEAR;
}

static void vram__run_interpolate(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mode = vram__up_mode(n), k = x[0].d->ndim - 2u;
  const vram_dims *d = n->out[0].d;
  int cl = vram__suggests_cl(x[0].d);
  vram__t a, c, t = vram__none();
  vram__fn *f;
  if (mode == VRAM__UP_AREA) {
    a = x[0];
    if (k == 1)
      a = vram__t_unsqueeze(s, a, 2), d = vram__unsqueezed(s, d, 2);
    y[0] = vram__t_adaptive_avg(s, a, d, k == 3 ? 3 : 2);
    if (k == 1) {
      vram__let(s, a);
      c = vram__t_squeeze1(s, y[0], 2);
      vram__let(s, y[0]);
      y[0] = c;
    }
    return;
  }
  a = s->amp ? vram__autocast(s, x[0], VRAM_F32) : vram__keep_t(s, x[0]); /* fp32 list */
  f = vram__record(s, n->op, &a, 1, 1, 0);
  if (f)
    f->aux = mode;
  y[0] = vram__empty(s, vram__formatted(s, d, cl), a.dt);
  if (k == 2 && (mode == VRAM__UP_NEAREST || mode == VRAM__UP_LINEAR) && a.d->v[2] == d->v[2] &&
      a.d->v[3] == d->v[3]) { /* UpSampleNearest2d.cu, UpSampleBilinear2d.cu: copy_ */
    if (f)
      f->aux = VRAM__UP_COPY;
  } else if (mode == VRAM__UP_NEAREST || mode == VRAM__UP_AA) {
    int native = cl && k == 2 && mode == VRAM__UP_NEAREST && x[0].d->v[1] >= 4;
    if (cl && !native)
      t = vram__contiguous(s, y[0]);
    c = vram__in_format(s, a, native);
    vram__let(s, c);
    vram__let(s, t);
  } else if (mode == VRAM__UP_LINEAR && k == 2 && cl && x[0].d->v[1] >= 16) {
    c = vram__in_format(s, a, 1); /* UpSampleBilinear2d.cu: fewer channels are read by strides */
    vram__let(s, c);
  }
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a);
}

static void vram__bw_interpolate(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, c, t = vram__none();
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int cl = vram__suggests_cl(g.d), native = cl && d->ndim == 4 && d->v[1] >= 4;
  if (f->aux == VRAM__UP_BICUBIC || f->aux == VRAM__UP_AA ||
      (f->aux == VRAM__UP_NEAREST && d->ndim == 5))
    cl = native = 0;
  to[0] = vram__empty(s, vram__formatted(s, d, cl), g.dt);
  if (f->aux == VRAM__UP_COPY)
    return;
  if (cl && !native && d->ndim == 4)
    t = vram__contiguous(s, to[0]);
  c = vram__in_format(s, g, native);
  if (cl && d->ndim == 5) { /* UpSampleTrilinear3d.cu: the other way round */
    t = vram__contiguous(s, to[0]);
    vram__let(s, t);
    t = vram__none();
  }
  vram__let(s, c);
  vram__let(s, t);
}

/* PixelShuffle.cpp: views and a contiguous clone */
static void vram__run_pixel(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_pixel(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* GridSampler.cpp; the grid's gradient is made whether it is wanted or not */
static void vram__run_grid_sample(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[2];
  vram__fn *f;
  uint32_t i;
  uint8_t dt = x[0].dt;
  if (s->amp) /* autocast: the widest */
    dt = vram__promote2(x[0].dt, x[1].dt);
  for (i = 0; i < 2; i++)
    a[i] = s->amp ? vram__autocast(s, x[i], dt) : vram__keep_t(s, x[i]);
  f = vram__record(s, n->op, a, 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__empty(s, n->out[0].d, a[0].dt);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a[0]);
  vram__let(s, a[1]);
}

static void vram__bw_grid_sample(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t x = VRAM__SAVED(f)[0], grid = VRAM__SAVED(f)[1], t;
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  t = vram__empty(s, vram__contig(s, grid.d), grid.dt);
  if (vram__wants(f, 1))
    to[1] = t;
  else
    vram__let(s, t);
}

/* Im2Col.cu, Col2Im.cu: the result begins as a tensor like x and is resized; a storage never
   shrinks. */
static vram__t vram__resized(vram__s *s, vram__t x, const vram_dims *d) {
  vram__t y = vram__empty(s, vram__dense(s, x.d), x.dt), c = vram__contiguous(s, x), z;
  uint64_t have = vram__bytes_of(x.d, x.dt), need = vram__bytes_of(d, x.dt);
  if (need > have) {
    z = vram__empty(s, d, x.dt);
    vram__let(s, y);
    y = z;
  } else
    y.d = d;
  vram__let(s, c);
  return y;
}

static void vram__run_fold(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__resized(s, x[0], n->out[0].d);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_fold(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__resized(s, VRAM__SLOTS(f)[0].g, vram__contig(s, vram__in_dims(s, f, 0, NULL)));
}

/* ---- activations with more than a pointwise kernel ---- */

static void vram__run_glu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  const vram_dims *half[2];
  half[0] = half[1] = vram__dims_in(s, x[0].d->ndim, n->out[0].d->v, VRAM__STRIDE(x[0].d));
  if (f)
    vram__save(s, f, x[0]);
  y[0] = vram__empty(s, vram__ti(s, half, 2), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_glu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, VRAM__SAVED(f)[0].d), VRAM__SLOTS(f)[0].g.dt);
}

/* PReLU: the weight as [1, C, 1, ...] */
static void vram__run_prelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[2], b, w;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, k = x[0].d->ndim;
  vram__fn *f;
  vram__weights(s, n, &a[1], &b);
  a[0] = x[0];
  for (i = 2; i-- > 0;)
    a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  if (a[1].d->ndim != k) {
    for (i = 0; i < k; i++)
      size[i] = 1;
    if (k > 1)
      size[1] = (int64_t)a[1].d->numel;
    w = vram__t_reshape(s, a[1], k, size);
    vram__let(s, a[1]);
    a[1] = w;
  }
  f = vram__record(s, n->op, a, 2, 1, 2);
  if (f)
    vram__save(s, f, a[0]), vram__save(s, f, a[1]);
  y[0] = vram__ti2(s, a[0], a[1]);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a[0]);
  vram__let(s, a[1]);
}

static void vram__bw_prelu(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *d[3];
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], t, u;
  d[0] = x.d, d[1] = VRAM__SAVED(f)[1].d, d[2] = g.d;
  t = vram__empty(s, vram__ti(s, d, 3), x.dt);
  u = vram__empty(s, t.d, x.dt);
  if (vram__wants(f, 0))
    to[0] = t;
  else
    vram__let(s, t);
  if (vram__wants(f, 1))
    to[1] = u;
  else
    vram__let(s, u);
}

/* RReLU: the noise is there in evaluation too */
/* native/cuda/RreluWithNoise.cu: contiguous noise and result, the input as a contiguous copy; in
   place on a tensor that is not contiguous the result, too */
static void vram__run_rrelu(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t noise = vram__empty(s, vram__contig(s, x[0].d), x[0].dt), a, b = vram__none();
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (n->flags & VRAM__INPLACE) {
    y[0] = x[0];
    y[0].fn = 0;
    vram__keep_t(s, y[0]);
  } else
    y[0] = vram__empty(s, noise.d, x[0].dt);
  a = vram__contiguous(s, x[0]);
  if (n->flags & VRAM__INPLACE)
    b = vram__contiguous(s, y[0]);
  vram__let(s, b);
  vram__let(s, a);
  if (f)
    vram__save(s, f, n->flags & VRAM__INPLACE ? y[0] : x[0]), vram__save(s, f, noise);
  vram__let(s, noise);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_rrelu(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SAVED(f)[1], VRAM__SLOTS(f)[0].g);
}

/* y.add_(b) */
static void vram__t_add_(vram__s *s, vram__t *y, vram__t b) {
  vram__t in[2];
  vram__fn *f;
  in[0] = *y, in[1] = b;
  f = vram__record(s, VRAM_OP_add, in, 2, 1, 0);
  if (f) {
    uint32_t old = y->fn;
    vram__made(s, f, 0, y);
    if (old && !(old & VRAM__LEAF))
      vram__fn_at(s, old)->refs--;
  }
}

VRAM__SELDOM_END

/* Plain matrices of more than one row and column each: BLAS takes them as they are, and the views
   that F.linear and its backward make of them come to nothing. */
static int vram__usual_linear(const vram__s *s, const vram__t *x, const vram__t *w,
                              const vram__t *b) {
  return (x->d->flags & w->d->flags & VRAM__PLAIN) && w->req && w->d->ndim == 2 && w->d->v[0] > 1 &&
         w->d->v[1] > 1 && x->d->numel > (uint64_t)w->d->v[1] && x->dt == w->dt && !s->ideal &&
         !s->nrange &&
         (!b->d || ((b->d->flags & VRAM__PLAIN) && b->d->ndim == 1 && b->dt == x->dt));
}

/* in: bias, x, weight; out: dims of the result */
static vram__t vram__linear(vram__s *s, const vram__t *in, const vram_dims *out) {
  const uint32_t x = in[0].d != NULL;
  vram__fn *f = vram__record(s, VRAM_OP_linear, in + 1 - x, 2 + x, 1, 2);
  vram__t y;
  vram__save_factors(s, f, x, in[1], x + 1, in[2]);
  y = vram__empty(s, out, in[1].dt);
  vram__workspace(s, x ? VRAM__RULE_CUBLASLT_WORKSPACE : s->ws);
  vram__made(s, f, 0, &y);
  return y;
}

/* Where gradients for this leaf arrive now. */
static inline vram__task *vram__task_of(const vram__s *s, vram__leaf *l) {
  return s->depth ? s->inner + (l - s->leaf) : &l->task;
}

/* Where a gradient that goes along this edge arrives. */
static inline vram__t *vram__end_of(vram__s *s, vram__edge e) {
  return e.fn & VRAM__LEAF ? &vram__task_of(s, s->leaf + (e.fn & ~VRAM__LEAF))->in
                           : &VRAM__SLOTS(vram__fn_at(s, e.fn))[e.out].g;
}

VRAM__RARE void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to);

/* g is no plain matrix: ViewBackward, AddmmBackward, TBackward */
static void vram__bw_linear_view(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t x = f->nin - 2u;
  vram__t *g = &VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d;
  uint32_t i;
  const int64_t n = g->d->v[g->d->ndim - 1];
  int64_t fold[2];
  fold[0] = (int64_t)g->d->numel / n, fold[1] = n;
  if (g->d->ndim > 2) {
    t = vram__reshape(s, *g, 2, fold);
    vram__let(s, *g);
    *g = t;
  }
  for (i = 0; i < 2; i++) {
    const uint32_t k = x + (i == x);
    if (!vram__wants(f, k))
      continue;
    d = vram__in_dims(s, f, k, NULL);
    if (k == x)
      t = vram__mm(s, *g, vram__factor(f, 1));
    else {
      t = vram__factor(f, 0);
      fold[1] = d->v[1];
      t.d = vram__dims_in(s, 2, fold, NULL);
      t = vram__mm(s, vram__turned(s, *g), t);
    }
    to[k] = k > x || d->ndim > 2 ? vram__alias(s, t, d) : vram__keep_t(s, t);
    vram__let(s, t);
  }
  if (x && vram__wants(f, 0)) {
    t = vram__sum(s, *g, 1, 0, g->dt);
    to[0] = vram__alias(s, t, t.d);
    vram__let(s, t);
  }
}

static inline void vram__bw_plain_linear(vram__s *s, vram__fn *f, vram__t *to) {
  const uint32_t x = f->nin - 2u;
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 0; i < 2;
       i++) { /* AddmmBackward begins with the first factor, MmBackward with the second */
    const uint32_t k = x + (i == x);
    if (vram__wants(f, k)) {
      to[k] = vram__empty(s, vram__in_dims(s, f, k, NULL), g.dt);
      if (to[k].st)
        (s->top - to[k].st)->shown = k > x || g.d->ndim > 2;
      vram__workspace(s, s->ws);
    }
  }
  if (x && vram__wants(f, 0)) {
    if (g.d->ndim > 2) {
      int64_t fold[2];
      fold[1] = g.d->v[g.d->ndim - 1], fold[0] = (int64_t)g.d->numel / fold[1];
      g.d = vram__dims_in(s, 2, fold, NULL);
    }
    to[0] = vram__empty(s, vram__in_dims(s, f, 0, NULL), g.dt);
    vram__reduce(s, g, 1, g.dt, g.dt == VRAM_F64 ? 8 : 4, 4);
    if (to[0].st)
      (s->top - to[0].st)->shown = 1;
  }
}

static void vram__bw_linear(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f), *w = edge + f->nin - 1;
  if (VRAM__SLOTS(f)[0].g.d->flags & VRAM__PLAIN)
    vram__bw_plain_linear(s, f, to);
  else
    vram__bw_linear_view(s, f, to);
  if ((w->fn && vram__end_of(s, *w)->d) || (f->nin > 2 && edge->fn && vram__end_of(s, *edge)->d))
    vram__linear_shared(s, f, to);
}

VRAM__SELDOM_BEGIN

/* Linear.cpp, linear; b.d NULL: without bias */
static vram__t vram__t_linear(vram__s *s, vram__t x, vram__t w, vram__t b) {
  vram__t a[3], wt, p, q, y;
  uint32_t i, k = x.d->ndim;
  int64_t fold[2], size[VRAM_MAX_AXES];
  a[0] = x, a[1] = w, a[2] = b;
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp ? vram__autocast(s, a[i], s->amp) : vram__keep_t(s, a[i]);
  if (vram__usual_linear(s, &a[0], &a[1], &a[2])) {
    vram__t in[3];
    in[0] = a[2], in[1] = a[0], in[2] = a[1];
    for (i = 0; i + 1 < k; i++)
      size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    y = vram__linear(s, in, vram__dims_in(s, k, size, NULL));
  } else if (a[2].d && k == 2) {
    wt = vram__t_swap(s, a[1], 0, 1);
    y = vram__t_addmm(s, a[2], a[0], wt, 0);
    vram__let(s, wt);
  } else if (a[2].d && (a[0].d->flags & VRAM__CONTIG)) {
    fold[0] = 1, fold[1] = a[0].d->v[k - 1];
    for (i = 0; i + 1 < k; i++)
      fold[0] *= size[i] = a[0].d->v[i];
    size[i] = a[1].d->v[0];
    p = vram__t_reshape(s, a[0], 2, fold);
    wt = vram__t_swap(s, a[1], 0, 1);
    q = vram__t_addmm(s, a[2], p, wt, 0);
    vram__let(s, wt);
    y = vram__unsafe_view(s, q, vram__dims_in(s, k, size, NULL));
    vram__let(s, p);
  } else {
    wt = vram__t_swap(s, a[1], 0, 1);
    y = vram__t_matmul(s, a[0], wt);
    vram__let(s, wt);
    if (a[2].d)
      vram__t_add_(s, &y, a[2]);
  }
  for (i = 0; i < 3; i++)
    if (a[i].d)
      vram__let(s, a[i]);
  return y;
}

VRAM__SELDOM_END

static void vram__run_linear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[3]; /* bias, input, weight */
  in[1] = x[0];
  vram__weights(s, n, &in[2], &in[0]);
  if (!s->amp && vram__usual_linear(s, &in[1], &in[2], &in[0]))
    y[0] = vram__linear(s, in, n->out[0].d);
  else
    y[0] = vram__t_linear(s, in[1], in[2], in[0]);
}

VRAM__SELDOM_BEGIN

static void vram__run_product(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3];
  uint32_t i, factors = 0;
  if (VRAM__INT(n, alpha, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__ALPHA;
  if (VRAM__INT(n, beta, VRAM__ONE) != VRAM__ONE)
    factors |= VRAM__BETA;
  for (i = n->nin; i-- > 0;)
    a[i] = s->amp ? vram__autocast(s, x[i], s->amp) : vram__keep_t(s, x[i]);
  switch (n->op) {
  case VRAM_OP_bmm:
    y[0] = vram__t_product(s, VRAM__K_bmm, a[0], a[1]);
    break;
  case VRAM_OP_mm:
    y[0] = vram__t_product(s, VRAM__K_mm, a[0], a[1]);
    break;
  case VRAM_OP_addmm:
    y[0] = vram__t_addmm(s, a[0], a[1], a[2], factors);
    break;
  case VRAM_OP_baddbmm:
    y[0] = vram__t_baddbmm(s, a[0], a[1], a[2], factors);
    break;
  default:
    y[0] = vram__t_matmul(s, a[0], a[1]);
    break;
  }
  for (i = 0; i < n->nin; i++)
    vram__let(s, a[i]);
}

static void vram__run_view(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = n->out[0].d;
  int64_t stride[VRAM_MAX_AXES];
  if (n->op == VRAM_OP_flatten && d->ndim == x[0].d->ndim) /* of one axis: x itself */
    y[0] = vram__keep_t(s, x[0]);
  else if (x[0].d->flags & VRAM__PLAIN)
    y[0] = vram__view(s, x[0], d, VRAM__K_view, 0);
  else {
    if (n->op == VRAM_OP_view && !vram__view_strides(x[0].d, d->ndim, d->v, stride))
      vram__no_step(s, VRAM_ERR_UNSUPPORTED, n,
                    "a view that the strides do not allow: PyTorch stops with an error (reshape "
                    "copies)");
    y[0] = vram__t_reshape(s, x[0], d->ndim, d->v);
  }
}

static void vram__bw_view(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int64_t stride[VRAM_MAX_AXES];
  if (f->aux && vram__view_strides(g.d, d->ndim, d->v, stride)) {
    stride[d->ndim - 1u] = 1;
    to[0] = vram__alias(s, g, vram__dims_in(s, d->ndim, d->v, stride));
  } else
    to[0] = vram__reshape(s, g, d->ndim, d->v);
}

static void vram__run_permute(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t order[VRAM_MAX_AXES];
  vram__order((vram_graph *)0, n, x[0].d->ndim, order);
  y[0] = vram__t_permute(s, x[0], order);
}

static void vram__bw_permute(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < g.d->ndim; i++)
    order[(f->aux >> (8 * i)) & 7] = (uint8_t)i;
  to[0] = vram__alias(s, g, vram__permuted(s, g.d, order));
}

static uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim);

static void vram__run_squeeze(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t a;
  if (n->op == VRAM_OP_unsqueeze) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim + 1u, &a);
    y[0] = vram__t_unsqueeze(s, x[0], a);
    return;
  }
  y[0] = vram__t_squeeze(
      s, x[0], vram__list(n, VRAM__KEY_dim, NULL) ? vram__dim_mask(n, x[0].d->ndim) : 0xff);
}

/* squeeze: unsqueeze_to, g itself where nothing was squeezed; unsqueeze: squeeze */
static void vram__bw_squeeze(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *d = g.d;
  uint32_t i;
  g.fn = 0;
  if (f->kind == VRAM_OP_unsqueeze)
    d = vram__without_axis(s, d, (uint32_t)f->aux);
  else if (!f->aux) {
    to[0] = vram__keep_t(s, g);
    return;
  } else
    for (i = 0; i < VRAM_MAX_AXES; i++)
      if (f->aux >> i & 1)
        d = vram__unsqueezed(s, d, i);
  to[0] = vram__alias(s, g, d);
}

static void vram__run_expand(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__t_expand(s, x[0], n->out[0].d->ndim, n->out[0].d->v);
}

static void vram__bw_expand(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__sum_to(s, VRAM__SLOTS(f)[0].g, vram__in_dims(s, f, 0, NULL));
}

/* Where a view begins that leaves out the first `start` along an axis. */
static uint8_t vram__at(vram__t x, uint32_t axis, int64_t start) {
  return (uint8_t)((x.off + (uint64_t)start * (uint64_t)VRAM__STRIDE(x.d)[axis]) % 16);
}

/* slice, narrow and select: the gradient is written into zeros of the input's size */
static void vram__run_slice(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES], start, step, len;
  uint32_t a, i, m = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (n->op != VRAM_OP_select)
    vram__slice_of(n, x[0].d->v[a], &start, &step, &len);
  for (i = 0; i < x[0].d->ndim; i++) {
    if (i == a && n->op == VRAM_OP_select)
      continue;
    size[m] = x[0].d->v[i], stride[m] = VRAM__STRIDE(x[0].d)[i];
    if (i == a)
      size[m] = len, stride[m] *= step;
    m++;
  }
  if (n->op == VRAM_OP_select) {
    start = VRAM__INT(n, index, 0);
    if (start < 0)
      start += x[0].d->v[a];
  }
  y[0] = vram__view(s, x[0], vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
  y[0].off = vram__at(x[0], a, start);
}

static void vram__bw_slice(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

static void vram__run_split(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t a, i, j;
  int64_t at = 0;
  vram__fn *f;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  f = vram__record(s, n->op, x, 1, n->nout, 0);
  if (f)
    f->aux = a;
  for (i = 0; i < n->nout; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    for (j = 0; j < x[0].d->ndim; j++) {
      if (j == a && n->op == VRAM_OP_unbind)
        continue;
      size[m] = j == a ? n->out[i].d->v[a] : x[0].d->v[j];
      stride[m++] = VRAM__STRIDE(x[0].d)[j];
    }
    y[i] = vram__alias(s, x[0], vram__dims_in(s, m, size, stride));
    y[i].off = vram__at(x[0], a, at);
    at += n->op == VRAM_OP_unbind ? 1 : n->out[i].d->v[a];
    y[i].req = x[0].req; /* as vram__view */
    vram__made(s, f, i, &y[i]);
  }
}

/* The result of at::cat: channels-last if all pieces are stored so. d: contiguous dims. */
static const vram_dims *vram__cat_dims(vram__s *s, const vram_dims *d, int cl) {
  return cl && (d->ndim == 4 || d->ndim == 5) ? vram__as_cl(s, d) : d;
}

/* split: cat of the pieces, zeros stand in for those without a gradient; unbind: stack of them,
   one zero expanded for each */
static void vram__bw_split(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  uint8_t dt = 0;
  int cl = 1;
  vram__slot *slot = VRAM__SLOTS(f);
  const vram_dims *d = vram__contig(s, vram__in_dims(s, f, 0, &dt)), *p;
  for (i = 0; i < f->nout; i++)
    if (!slot[i].g.d) {
      p = f->kind == VRAM_OP_unbind ? s->scalar : vram__contig(s, slot[i].d);
      slot[i].g = vram__empty(s, p, dt);
      slot[i].g.req = 2; /* ours */
      if (f->kind == VRAM_OP_unbind)
        slot[i].g.d = vram__expanded(s, p, slot[i].d->ndim, slot[i].d->v);
    }
  for (i = 0; cl && i < f->nout; i++) {
    p = slot[i].g.d;
    if (f->kind == VRAM_OP_unbind)
      p = vram__unsqueezed(s, p, (uint32_t)f->aux);
    cl = vram__suggests_cl(p);
  }
  to[0] = vram__empty(s, vram__cat_dims(s, vram__dims_in(s, d->ndim, d->v, NULL), cl), dt);
  for (i = 0; i < f->nout; i++)
    if (slot[i].g.req == 2) {
      vram__let(s, slot[i].g);
      slot[i].g = vram__none();
    }
}

static void vram__run_detach(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__alias_only(s, x[0], x[0].d);
}

static void vram__run_cat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t i, a;
  int cl = 1;
  vram__promote p;
  vram__fn *f;
  vram__zero(&p, sizeof p);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->out[0].d->ndim, &a);
  for (i = 0; i < n->nin; i++)
    vram__promote_add(&p, x[i].dt, x[i].d->ndim);
  for (i = 0; cl && i < n->nin; i++)
    cl = n->out[0].d->ndim > 3 &&
         vram__suggests_cl(n->op == VRAM_OP_stack ? vram__unsqueezed(s, x[i].d, a) : x[i].d);
  f = vram__record(s, n->op, x, n->nin, 1, 0);
  if (f) {
    f->aux = a;
    for (i = 0; i < n->nin; i++)
      if (!vram__wants(f, i)) /* where the next piece begins */
        VRAM__EDGES(f)
    [i].out = n->op == VRAM_OP_cat && !vram__cat_skips(x[i].d) ? (uint32_t)x[i].d->v[a] : 0;
  }
  y[0] = vram__empty(s, vram__cat_dims(s, n->out[0].d, cl), vram__promote_get(&p));
  vram__made(s, f, 0, &y[0]);
}

/* the gradients are views of g */
static void vram__bw_cat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i, j, a = (uint32_t)f->aux;
  int stack = f->kind == VRAM_OP_stack;
  int64_t at = 0;
  for (i = 0; i < f->nin; i++) {
    int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
    uint32_t m = 0;
    const vram_dims *d;
    if (!vram__wants(f, i)) {
      at += VRAM__EDGES(f)[i].out;
      continue;
    }
    d = vram__in_dims(s, f, i, NULL);
    if (!stack && vram__cat_skips(d)) {
      to[i] = vram__empty(s, d, g.dt);
      continue;
    }
    for (j = 0; j < g.d->ndim; j++) {
      if (stack && j == a)
        continue;
      size[m] = d->v[m];
      stride[m++] = VRAM__STRIDE(g.d)[j];
    }
    to[i] = vram__alias(s, g, vram__dims_in(s, m, size, stride));
    to[i].off = vram__at(g, a, stack ? (int64_t)i : at);
    at += stack ? 0 : d->v[a];
  }
}

/* roll_cuda: one axis after the other, each a contiguous tensor */
static vram__t vram__rolled(vram__s *s, vram__t x, uint32_t times) {
  vram__t t = vram__none(), c, y;
  vram__t mid[2 * VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < times; i++) {
    c = t.d ? t : x;
    c = c.d->flags & VRAM__CONTIG ? vram__none() : vram__contiguous(s, c);
    y = vram__empty(s, vram__dims_in(s, x.d->ndim, x.d->v, NULL), x.dt);
    vram__let(s, c);
    if (t.d)
      mid[i - 1] = t;
    t = y;
  }
  for (i = times - 1; i-- > 0;)
    vram__let(s, mid[i]);
  return t;
}

static void vram__run_roll(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t c;
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  vram__list(n, VRAM__KEY_dims, &c);
  if (!c)
    c = 1;
  if (f)
    f->aux = c;
  y[0] = vram__rolled(s, x[0], c);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_roll(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__rolled(s, VRAM__SLOTS(f)[0].g, (uint32_t)f->aux);
}

static void vram__run_flip(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  y[0] = vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_flip(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__dense(s, g.d), g.dt);
}

static void vram__run_repeat(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, VRAM_OP_repeat, x, 1, 1, 0);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

/* repeat_backward: new axes are summed one by one, the others in one go */
static void vram__bw_repeat(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  int64_t size[2 * VRAM_MAX_AXES];
  uint32_t i, m = 0, mask = 0, k = g.d->ndim - (uint32_t)d->ndim;
  g.fn = 0;
  t = vram__keep_t(s, g);
  for (i = 0; i < k; i++) {
    vram__t sum = vram__sum(s, t, 1, 0, t.dt);
    vram__let(s, t);
    t = sum;
  }
  for (i = 0; i < d->ndim; i++) {
    int64_t r = d->v[i] ? t.d->v[i] / d->v[i] : 1;
    if (r != 1)
      mask |= 1u << m, size[m++] = r;
    size[m++] = d->v[i];
  }
  if (m > VRAM_MAX_AXES) {
    vram__let(s, t);
    t = vram__empty(s, vram__contig(s, d), g.dt);
  } else if (mask) {
    vram__t u = vram__reshape(s, t, m, size), sum;
    sum = vram__sum(s, u, mask, 0, t.dt);
    vram__let(s, u);
    vram__let(s, t);
    t = sum;
  }
  to[0] = t;
}

/* TensorFactories: unsqueeze, expand, clone, flatten */
static void vram__run_repeat_interleave(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t a = 0, i, ndim;
  vram__t t, u;
  if (vram__list(n, VRAM__KEY_dim, NULL)) {
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
    t = vram__keep_t(s, x[0]);
  } else {
    size[0] = (int64_t)x[0].d->numel;
    t = vram__t_reshape(s, x[0], 1, size);
  }
  ndim = t.d->ndim;
  u = vram__t_unsqueeze(s, t, a + 1);
  vram__let(s, t);
  for (i = 0; i <= ndim; i++)
    size[i] = i == a + 1 ? vram__int(n, VRAM__KEY_repeats, 1) : u.d->v[i];
  t = vram__t_expand(s, u, ndim + 1, size);
  vram__let(s, u);
  u = vram__t_clone(s, t, vram__dims_in(s, ndim + 1, size, NULL));
  vram__let(s, t);
  y[0] = vram__view(s, u, n->out[0].d, VRAM__K_view, 0);
  vram__let(s, u);
}
#define vram__bw_repeat_interleave vram__bw_none

static void vram__run_contiguous(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_contiguous(s, x[0]);
}

static void vram__run_clone(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)n;
  y[0] = vram__t_clone(s, x[0], vram__dense(s, x[0].d));
}

static void vram__bw_clone(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  g.fn = 0;
  to[0] = vram__keep_t(s, g);
}

static void vram__run_to(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = n->op == VRAM_OP_to ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : x[1].dt;
  if (n->op == VRAM_OP_to && s->low && dt == VRAM_F32)
    dt = s->low;
  y[0] = vram__t_cast(s, x[0], dt);
}

static void vram__bw_cast(vram__s *s, vram__fn *f, vram__t *to) {
  uint8_t dt;
  vram__in_dims(s, f, 0, &dt);
  to[0] = vram__to(s, VRAM__SLOTS(f)[0].g, dt);
}

static void vram__run_create(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = n->nin ? x[0].dt : n->out[0].dtype;
  if (!n->nin && s->low && dt == VRAM_F32)
    dt = s->low;
  y[0] = vram__empty(s, n->out[0].d, dt);
}

static void vram__run_fill(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__pointwise_inplace(s, VRAM__K_zeros_like, x, 1);
  (void)n;
}

static void vram__run_parameter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)x;
  y[0] = vram__keep_t(s, s->param[n->param[0]->index]);
}

static uint32_t vram__dim_mask(const vram_node *n, uint32_t ndim) {
  uint32_t c, i, a, mask = 0;
  const int64_t *v = vram__list(n, VRAM__KEY_dim, &c);
  for (i = 0; i < c; i++) {
    vram__axis((vram_graph *)0, v[i], ndim, &a);
    mask |= 1u << a;
  }
  return v && c ? mask : ndim ? (1u << ndim) - 1 : 0;
}

/* The dtype argument of a reduction, given or set by autocast (fp32_set_opt_dtype); else 0. */
static uint8_t vram__opt_dtype(const vram__s *s, const vram_node *n, uint8_t dt) {
  if (vram__list(n, VRAM__KEY_dtype, NULL))
    return vram__run_dtype(s, (uint8_t)VRAM__INT(n, dtype, dt));
  if (s->amp && vram__op_at(n->op)->autocast == VRAM__AC_opt32 && vram__is_float(dt) &&
      dt != VRAM_F64)
    return VRAM_F32;
  return 0;
}

static int vram__keepdim(const vram_node *n) { return VRAM__INT(n, keepdim, 0) != 0; }

/* Half precision is read as it is for a result in fp32; other dtypes are converted before. */
static vram__t vram__reduced_as(vram__s *s, vram__t x, uint8_t dt) {
  return x.dt == dt || (dt == VRAM_F32 && (x.dt == VRAM_F16 || x.dt == VRAM_BF16))
             ? vram__none()
             : vram__to(s, x, dt);
}

static void vram__run_reduce(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = dt && !vram__is_float(dt) ? NULL : vram__record(s, n->op, x, 1, 1, 0);
  if (f)
    f->aux = mask | (vram__list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
  if (!dt)
    dt = n->op == VRAM_OP_sum && vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  y[0] = vram__sum(s, x[0], mask, vram__keepdim(n), dt);
  vram__made(s, f, 0, &y[0]);
}

/* the gradient of a sum is a view of g, that of a mean one more tensor */
static void vram__bw_reduce(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, t;
  const vram_dims *d = vram__in_dims(s, f, 0, NULL);
  t = f->aux & 256 ? vram__kept(s, g, d, (uint32_t)f->aux) : g;
  t = vram__alias(s, g, vram__expanded(s, t.d, d->ndim, d->v));
  if (f->kind == VRAM_OP_sum) {
    to[0] = t;
    return;
  }
  to[0] = vram__ti_number(s, t);
  vram__let(s, t);
}

static vram__t vram__compared(vram__s *s, vram__t a, vram__t b) {
  const vram_dims *d[2];
  d[0] = a.d, d[1] = b.d;
  return vram__empty(s, vram__ti(s, d, 2), VRAM_BOOL);
}

/* amax, amin; max, min of an axis (with indices) or of all */
static void vram__run_extreme(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  int pair = (n->op == VRAM_OP_max || n->op == VRAM_OP_min) && vram__list(n, VRAM__KEY_dim, NULL);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t i = vram__none();
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), x[0].dt);
  if (pair) {
    i = vram__reduced(s, x[0], mask, vram__keepdim(n), VRAM_I64);
    vram__reduce(s, x[0], mask, x[0].dt, 16, 4);
  } else if (n->op == VRAM_OP_max || n->op == VRAM_OP_min) { /* ReduceAllOps.cpp: contiguous */
    vram__t c = vram__contiguous(s, x[0]);
    vram__reduce(s, c, mask, x[0].dt, vram__size_of(x[0].dt), 4);
    vram__let(s, c);
  } else
    vram__reduce(s, x[0], mask, x[0].dt, vram__size_of(x[0].dt), 4);
  if (f) {
    f->aux = mask;
    if (pair)
      vram__save(s, f, i);
    else
      vram__save(s, f, x[0]), vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
  if (n->nout > 1)
    y[1] = i;
  else
    vram__let(s, i);
}

static void vram__bw_extreme(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, m, q, count, t;
  uint32_t mask = (uint32_t)f->aux, all = x.d->ndim ? (1u << x.d->ndim) - 1 : 0;
  if (f->nsaved == 1) { /* value_selecting_reduction_backward */
    const vram_dims *d = vram__in_dims(s, f, 0, NULL);
    to[0] = vram__empty(s, vram__contig(s, d), g.dt);
    return;
  }
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, mask);
  g = vram__kept(s, g, x.d, mask);
  if (f->kind == VRAM_OP_max || f->kind == VRAM_OP_min) { /* evenly_distribute_backward */
    vram__t nan = vram__compared(s, x, x),
            one = vram__compared(s, VRAM__SAVED(f)[1], VRAM__SAVED(f)[1]);
    m = vram__compared(s, x, VRAM__SAVED(f)[1]);
    count = vram__sum(s, nan, all, 0, VRAM_I64);
    q = vram__ti2(s, VRAM__SLOTS(f)[0].g, count);
    to[0] = vram__ti2(s, nan, q);
    vram__let(s, q);
    vram__let(s, count);
    vram__let(s, m);
    vram__let(s, one);
    vram__let(s, nan);
    return;
  }
  m = vram__compared(s, y, x); /* scale_grad_by_count */
  count = vram__sum(s, m, mask, 1, VRAM_I64);
  q = vram__ti2(s, g, count);
  t = vram__ti2(s, q, m);
  vram__let(s, q);
  vram__let(s, count);
  vram__let(s, m);
  to[0] = t;
}

static void vram__run_prod(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t c, a = x[0];
  if (!dt)
    dt = vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  y[0] = vram__reduced(s, a, mask, vram__keepdim(n), dt);
  c = vram__reduced_as(s, a, dt);
  vram__reduce(s, c.d ? c : a, mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  if (f) {
    f->aux = mask | (vram__list(n, VRAM__KEY_dim, NULL) ? 256u : 0u);
    vram__save(s, f, a);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

/* ---- cub ---- */

static uint64_t vram__up256(uint64_t n) { return (n + 255) & ~UINT64_C(255); }
static uint64_t vram__tiles(uint64_t n, uint64_t tile) { return (n + tile - 1) / tile; }

/* Scratch that stays for a while: its storage. */
static uint32_t vram__held(vram__s *s, uint64_t bytes) {
  uint8_t cat = s->cat;
  uint32_t i;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  i = s->ideal ? 0 : vram__new(s, bytes);
  s->cat = cat;
  return i;
}

static void vram__held_gone(vram__s *s, uint32_t i) {
  if (i)
    vram__drop_store(s, i);
}

/* cub::DeviceRadixSort::SortPairs of n keys and values of so many bytes over `bits` of the key; key
   0: numbers of segments */
static uint64_t vram__cub_sort(const vram__s *s, uint64_t n, uint32_t key, uint32_t value,
                               uint32_t bits) {
  uint32_t passes = (bits + 7) / 8;
  uint64_t tile = vram__cub_sort_tile[s->cc < 80   ? 0
                                      : s->cc < 90 ? 1
                                                   : 2][key == 0     ? 5
                                                        : value == 4 ? 4
                                                        : key == 1   ? 0
                                                        : key == 2   ? 1
                                                        : key == 4   ? 2
                                                                     : 3];
  uint64_t second = vram__up256(n * key) + vram__up256(n * value);
  if (n <= (value == 4 ? VRAM__CUB_ONE_TILE_4 : VRAM__CUB_ONE_TILE_8) && key)
    return 1;
  if (!tile)
    return 255 + second +
           4 * ((key == 1 ? 128u : 256u) * UINT64_C(5) * s->sm * (s->threads / 256) +
                VRAM__CUB_SPINE);
  return VRAM__CUB_PARTS + VRAM__CUB_SORT_PASS * passes +
         VRAM__CUB_SORT_TILE * vram__tiles(n, tile) + (passes > 1 ? second : 0);
}

/* kind 0, 1: unique_by_key with keys of 8, of 4 bytes; 2: a selection */
static uint64_t vram__cub_select(const vram__s *s, uint64_t n, uint32_t kind) {
  uint64_t tile = vram__cub_select_tile[s->cc >= 90 ? 2 : s->cc == 80 ? 1 : 0][kind];
  return VRAM__CUB_PARTS + (kind < 2 ? 256 : 0) +
         vram__up256(8 * (vram__tiles(n, tile) + VRAM__CUB_SCAN_PAD));
}

static uint64_t vram__cub_scan(uint64_t n, uint32_t esize) {
  uint64_t t = vram__tiles(n, esize == 8   ? VRAM__CUB_SCAN_TILE_8
                              : esize == 4 ? VRAM__CUB_SCAN_TILE_4
                                           : VRAM__CUB_SCAN_TILE_2) +
               VRAM__CUB_SCAN_PAD;
  if (esize == 2)
    return VRAM__CUB_PARTS + vram__up256(4 * t) + 512 * vram__tiles(t, 128);
  return VRAM__CUB_PARTS + vram__up256((esize == 8 ? 16 : 8) * t);
}

/* cub::DeviceScan::InclusiveSumByKey with keys of so many bytes */
static uint64_t vram__cub_by_key(const vram__s *s, uint64_t n, uint32_t key) {
  uint64_t t = vram__tiles(n, vram__cub_by_key_tile[s->cc >= 90   ? 2
                                                    : s->cc == 80 ? 1
                                                                  : 0][key == 4]);
  return VRAM__CUB_PARTS + vram__up256(8 * (t + VRAM__CUB_SCAN_PAD)) +
         vram__up256(key / 2 * (t + 2));
}

/* The positions where a mask of n elements is set, `ndim` numbers each: all of them, as an upper
   bound; ndim 0: none. Gives their storage (Nonzero.cu). */
static uint32_t vram__nonzero(vram__s *s, uint64_t n, uint32_t ndim) {
  uint32_t count = vram__held(s, 4), out;
  vram__workspace(s, n <= VRAM__CUB_ONE_REDUCE
                         ? 1
                         : 255 + vram__up256(UINT64_C(20) * s->sm * (s->threads / 256)));
  out = vram__held(s, vram__mul(vram__mul(n, ndim), 8));
  vram__workspace(s, vram__cub_select(s, n, 2));
  vram__held_gone(s, count);
  return out;
}

/* prod_backward where no value is zero */
static void vram__bw_prod(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = vram__to(s, VRAM__SAVED(f)[0], g.dt), y = VRAM__SAVED(f)[1],
          m, count, q;
  uint32_t mask = (uint32_t)f->aux & 255;
  if (!x.d->ndim) {
    vram__let(s, x);
    g.fn = 0;
    to[0] = vram__keep_t(s, g);
    return;
  }
  m = vram__empty(s, vram__with_number(s, x.d), VRAM_BOOL);
  if (f->aux & 256) {
    g = vram__kept(s, g, x.d, mask);
    y = vram__kept(s, y, x.d, mask);
    count = vram__sum(s, m, mask, 1, VRAM_I64);
    vram__let(s, vram__sum(s, count, (1u << x.d->ndim) - 1, 0, VRAM_I64));
    q = vram__ti2(s, y, x);
    to[0] = vram__ti2(s, g, q);
    vram__let(s, q);
    vram__let(s, count);
    vram__let(s, m);
  } else {
    count = vram__contiguous(s, m);
    vram__nonzero(s, x.d->numel, 0);
    vram__let(s, count);
    vram__let(s, m);
    q = vram__ti2(s, y, x);
    to[0] = vram__ti2(s, g, q);
    vram__let(s, q);
  }
  vram__let(s, x);
}

static void vram__run_var(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), x[0].dt);
  /* WelfordData: mean, m2, int32 n, nf */
  vram__reduce(s, x[0], mask, x[0].dt, x[0].dt == VRAM_F64 ? 32 : 16, 2);
  if (f) {
    f->aux = mask;
    vram__save(s, f, x[0]);
    if (n->op == VRAM_OP_std)
      vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_var(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], own = vram__none(), mean, d, c, a, b;
  uint32_t mask = (uint32_t)f->aux;
  if (f->kind == VRAM_OP_std) { /* std_backward */
    vram__t y = VRAM__SAVED(f)[1], m;
    a = vram__ti_number(s, y);
    own = vram__ti2(s, g, a);
    m = vram__empty(s, vram__with_number(s, y.d), VRAM_BOOL);
    vram__let(s, m);
    vram__let(s, a);
    g = own;
  }
  if ((!x.d->ndim || !vram__list(f->node, VRAM__KEY_dim, NULL)) &&
      (int64_t)x.d->numel <= VRAM__INT(f->node, correction, VRAM__INT(f->node, unbiased, 1))) {
    /* var_backward of too few values: g * where(x == mean, NaN, infinity) */
    mean = vram__sum(s, x, mask, 0, x.dt);
    c = vram__empty(s, vram__dense(s, x.d), VRAM_BOOL);
    a = vram__empty(s, s->scalar, VRAM_F32), b = vram__empty(s, s->scalar, VRAM_F32);
    d = vram__empty(s, c.d, VRAM_F32);
    vram__let(s, b);
    vram__let(s, a);
    to[0] = vram__ti2(s, g, d);
  } else {
    g = vram__kept(s, g, x.d, mask);
    mean = vram__sum(s, x, mask, 1, x.dt);
    d = vram__ti2(s, x, mean);
    c = vram__ti_number(s, g);
    to[0] = vram__ti2(s, c, d);
  }
  vram__let(s, c);
  vram__let(s, d);
  vram__let(s, mean);
  vram__let(s, own);
}

/* torch.linalg.vector_norm with ord 2 */
static void vram__run_vector_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  vram__t c;
  if (!dt)
    dt = x[0].dt;
  y[0] = vram__reduced(s, x[0], mask, vram__keepdim(n), dt);
  c = vram__reduced_as(s, x[0], dt);
  if (y[0].d->numel == x[0].d->numel) { /* LinearAlgebra.cpp: abs, in the result's dtype */
    if (!c.d && x[0].dt != dt)
      c = vram__to(s, x[0], dt);
  } else
    vram__reduce(s, c.d ? c : x[0], mask, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
  vram__let(s, c);
  if (f) {
    f->aux =
        vram__list(n, VRAM__KEY_dim, NULL) ? mask : 0; /* no dim: a scalar, no axes to put back */
    vram__save(s, f, x[0]);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
}

/* norm_backward */
static void vram__bw_vector_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, q, m;
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, (uint32_t)f->aux);
  g = vram__kept(s, g, x.d, (uint32_t)f->aux);
  q = vram__ti2(s, x, y);
  m = vram__empty(s, vram__with_number(s, y.d), VRAM_BOOL);
  to[0] = vram__ti2(s, g, q);
  vram__let(s, m);
  vram__let(s, q);
}

/* ReduceOps.cpp, logsumexp_out_impl */
static void vram__run_logsumexp(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  vram__t a = s->amp ? vram__autocast(s, x[0], VRAM_F32) : vram__keep_t(s, x[0]), max, e, m;
  vram__fn *f;
  if (vram__kind_rank(a.dt) < 2) {
    e = a;
    a = vram__to(s, e, vram__run_dtype(s, VRAM_F32));
    vram__let(s, e);
  }
  f = vram__record(s, n->op, &a, 1, 1, 2);
  max = vram__reduced(s, a, mask, 1, a.dt);
  vram__reduce(s, a, mask, a.dt, vram__size_of(a.dt), 4);
  e = vram__ti1(s, max);
  m = vram__empty(s, max.d, VRAM_BOOL);
  vram__let(s, m);
  vram__let(s, e);
  e = vram__ti2(s, a, max);
  y[0] = vram__sum(s, e, mask, vram__keepdim(n), a.dt);
  vram__let(s, e);
  vram__let(s, max);
  if (f) {
    f->aux = mask;
    vram__save(s, f, a);
    vram__save(s, f, y[0]);
  }
  vram__made(s, f, 0, &y[0]);
  vram__let(s, a);
}

static void vram__bw_logsumexp(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], y, d, e;
  y = vram__kept(s, VRAM__SAVED(f)[1], x.d, (uint32_t)f->aux);
  g = vram__kept(s, g, x.d, (uint32_t)f->aux);
  d = vram__ti2(s, x, y);
  e = vram__ti1(s, d);
  to[0] = vram__ti2(s, g, e);
  vram__let(s, e);
  vram__let(s, d);
}

/* Another op of the table, as PyTorch's composite functions call it. b.d NULL: a number; out: the
   result's sizes, for ops that take them from the graph. */
static void vram__run_op(vram__s *s, const vram_node *n, vram__t *x, vram__t *y);

static vram__t vram__call_n(vram__s *s, uint32_t op, uint32_t flags, const vram__t *in,
                            uint32_t nin, const int64_t *attr, const vram_dims *out) {
  vram_node n;
  vram_value v;
  vram__t x[3], y;
  uint32_t i;
  vram__zero(&n, sizeof n);
  n.op = (uint16_t)op;
  n.flags = (uint8_t)flags;
  n.nin = nin;
  n.nout = 1;
  n.attr = attr;
  n.out = &v;
  vram__zero(&v, sizeof v);
  v.d = out;
  for (i = 0; i < nin; i++)
    x[i] = in[i];
  vram__run_op(s, &n, x, &y);
  return y;
}

static vram__t vram__call(vram__s *s, uint32_t op, vram__t a, vram__t b, const int64_t *attr) {
  vram__t in[2];
  in[0] = a, in[1] = b;
  return vram__call_n(s, op, 0, in, b.d ? 2 : 1, attr, NULL);
}

/* The same in place. */
static void vram__call_in_place(vram__s *s, uint32_t op, vram__t *a, vram__t b) {
  vram__t in[2], y;
  in[0] = *a, in[1] = b;
  y = vram__call_n(s, op, VRAM__INPLACE, in, b.d ? 2 : 1, NULL, NULL);
  vram__let(s, *a);
  *a = y;
}

/* ---- attention (ATen/native/transformers) ---- */

enum { VRAM__SDPA_NONE, VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT, VRAM__SDPA_MATH };

static int64_t vram__div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t vram__round_up(int64_t a, int64_t b) { return vram__div_up(a, b) * b; }
static int64_t vram__least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t vram__most(int64_t a, int64_t b) { return a > b ? a : b; }

static int vram__is_half(uint8_t dt) { return dt == VRAM_F16 || dt == VRAM_BF16; }

/* [b,h,len,d], stored as [b,len,h,d] */
static const vram_dims *vram__bshd(vram__s *s, int64_t b, int64_t h, int64_t len, int64_t d) {
  int64_t size[4], stride[4];
  size[0] = b, size[1] = h, size[2] = len, size[3] = d;
  stride[3] = 1, stride[1] = d, stride[2] = h * d, stride[0] = len * h * d;
  return vram__dims_in(s, 4, size, stride);
}

static int vram__is_bshd(vram__s *s, const vram_dims *d) {
  return (vram__swapped(s, d, 1, 2)->flags & VRAM__CONTIG) != 0;
}

/* empty_like of the [b,len,h,d] view of d */
static const vram_dims *vram__like_bshd(vram__s *s, const vram_dims *d) {
  if (d->flags & VRAM__DENSE)
    return d;
  return vram__swapped(s, vram__dense(s, vram__swapped(s, d, 1, 2)), 1, 2);
}

/* Does this backend take it? sdp_utils.cpp; measured over thousands of cases on seven devices. */
static int vram__sdpa_fits(const vram__s *s, int backend, const vram__t *a, int64_t p, int causal,
                           int gqa) {
  const vram_dims *q = a[0].d, *k = a[1].d, *v = a[2].d, *m = a[3].d;
  const uint8_t dt = a[0].dt;
  const int half = vram__is_half(dt), grad = s->grad && (a[0].req || a[1].req || a[2].req);
  int64_t h, hk, hv, d, dv, sq, sk;
  int grid; /* batch and heads are axes of a kernel's grid */
  uint32_t i;
  if (backend == VRAM__SDPA_MATH)
    return 1;
  if (q->ndim != 4 || q->v[0] != k->v[0] || q->v[0] != v->v[0])
    return 0;
  h = q->v[1], hk = k->v[1], hv = v->v[1];
  sq = q->v[2], sk = k->v[2], d = q->v[3], dv = v->v[3];
  grid = q->v[0] <= 65535 && h <= 65535;
  if (!sq || !sk)
    return 0;
  for (i = 0; i < 3; i++)
    if (VRAM__STRIDE(a[i].d)[3] != 1 && (backend == VRAM__SDPA_EFFICIENT || a[i].d->v[3] != 1))
      return 0;
  if (m && VRAM__STRIDE(m)[m->ndim - 1] != 1)
    return 0;
  if (gqa) {
    if (backend != VRAM__SDPA_CUDNN && hv != hk)
      return 0;
  } else if (!(hk == hv && (hk == h || hk == 1)))
    return 0;
  switch (backend) {
  case VRAM__SDPA_FLASH:
    if (m || d != dv || d > 256 || s->cc < 80 || !half || (causal && sq != sk) || !grid)
      return 0;
    /* too little shared memory for the backward kernel */
    return !((s->cc == 86 || s->cc == 89 || s->cc >= 120) && grad) || d <= 192 ||
           (d > 224 && p == 0);
  case VRAM__SDPA_CUDNN: {
    const int64_t most = s->cc / 10 == 9 || s->cc / 10 == 10 ? 256 : 128;
    if (s->cc < 80 || !half || (uint64_t)p * 16 % (uint64_t)VRAM__ONE || d % 8 || dv % 8 ||
        d > most || dv > most || sk == 1 || (p && sq == 1) || !grid)
      return 0;
    if (most == 256 && grad && !(d <= 128 && dv <= 128) && !(d == 192 && dv == 128) &&
        !(d == 256 && dv == 256))
      return 0;
    return !m || (!a[3].req && (m->ndim == 2 || m->ndim == 4));
  }
  default: {
    const int64_t align = half ? 8 : s->cc >= 80 ? 4 : 1;
    if (dt != VRAM_F32 && dt != VRAM_F16 && !(dt == VRAM_BF16 && s->cc >= 80))
      return 0;
    for (i = 0; i < 3 && s->cc >= 80; i++)
      if (a[i].off % align)
        return 0;
    return d % align == 0 && dv % align == 0;
  }
  }
}

static int vram__sdpa_pick(const vram__s *s, const vram__t *a, int64_t p, int causal, int gqa) {
  static const uint8_t order[] = {VRAM__SDPA_CUDNN, VRAM__SDPA_FLASH, VRAM__SDPA_EFFICIENT,
                                  VRAM__SDPA_MATH};
  /* cuDNN goes first on Hopper and Blackwell, nowhere else unasked */
  uint32_t i = s->cc / 10 == 9 || s->cc / 10 == 10 ? 0 : 1;
  while (!vram__sdpa_fits(s, order[i], a, p, causal, gqa))
    i++;
  return order[i];
}

/* attention.cpp, convert_boolean_attn_mask */
static vram__t vram__float_mask(vram__s *s, vram__t m, uint8_t dt) {
  vram__t inf = vram__empty(s, s->scalar, dt), zero = vram__empty(s, s->scalar, dt);
  vram__t y = vram__empty(s, vram__dense(s, m.d), dt);
  vram__let(s, inf);
  vram__let(s, zero);
  return y;
}

/* The first `len` elements of the last axis. */
static vram__t vram__t_first(vram__s *s, vram__t x, int64_t len) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < x.d->ndim; i++)
    size[i] = x.d->v[i];
  size[i - 1] = len;
  return vram__view(s, x, vram__dims_in(s, i, size, VRAM__STRIDE(x.d)), VRAM__K_slice, 0);
}

/* attention.cpp, preprocess_mask and pad_bias: rows that do not begin at multiples of 8 elements
   are copied into wider ones, then the mask is expanded. Takes m. */
static vram__t vram__efficient_mask(vram__s *s, vram__t m, const vram__t *a) {
  int64_t size[4], len = m.d->v[m.d->ndim - 1], pad[2] = {0, 0};
  uint32_t i;
  vram__t t;
  for (i = 0; i + 1 < m.d->ndim; i++)
    if (VRAM__STRIDE(m.d)[i] % 8) {
      pad[1] = 8 - len % 8;
      t = vram__t_pad(s, m, pad, 1, VRAM__PAD_CONSTANT);
      vram__let(s, m);
      m = vram__t_first(s, t, len);
      vram__let(s, t);
      break;
    }
  size[0] = a[0].d->v[0], size[1] = a[0].d->v[1], size[2] = a[0].d->v[2], size[3] = a[1].d->v[2];
  t = vram__t_expand(s, m, 4, size);
  vram__let(s, m);
  return t;
}

/* What a fused kernel's backward needs besides its tensors: bit 0 a mask was saved, bit 1 dropout
 */
static vram__t vram__sdpa_efficient(vram__s *s, vram__t *a, int64_t p) {
  const vram_dims *q = a[0].d;
  const int64_t b = q->v[0], h = q->v[1], sq = q->v[2], d = q->v[3], dv = a[2].d->v[3];
  const uint64_t heads = (uint64_t)(b * h);
  vram__t seed = vram__none(), off = seed, lse = seed, acc = seed, y;
  vram__fn *f;
  if (a[3].d)
    a[3] = vram__efficient_mask(s, a[3], a);
  f = vram__record(s, VRAM__K_sdpa_efficient, a, a[3].d ? 4 : 3, 1, 8);
  if (!p) /* with dropout they are the generator's, on the host */
    seed = vram__raw(s, 8), off = vram__raw(s, 8);
  y = vram__empty(s, vram__bshd(s, b, h, sq, dv), a[0].dt);
  if (f)
    lse = vram__raw(s, 4 * heads * (uint64_t)vram__round_up(sq, 32));
  if (vram__is_half(a[0].dt) && vram__most(d, dv) > 128)
    acc = vram__raw(s, vram__mul4(4, b * h, sq, dv));
  if (f) {
    f->aux = (a[3].d ? 1 : 0) | (p ? 2 : 0);
    if (a[3].d)
      vram__save(s, f, a[3]);
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, lse), vram__save(s, f, off), vram__save(s, f, seed), vram__save(s, f, y);
  }
  vram__let(s, acc);
  vram__let(s, lse);
  vram__let(s, off);
  vram__let(s, seed);
  vram__made(s, f, 0, &y);
  return y;
}

/* mem_eff_attention/kernel_backward.h: workspace of the backward kernel by its block sizes */
static uint64_t vram__efficient_workspace(const vram__s *s, const vram_dims *q, int64_t sk,
                                          int64_t dv, int half, int dropout) {
  const int64_t heads = q->v[0] * q->v[1], d = q->v[3], k = vram__most(d, dv);
  int64_t bi = 128, bj = 64, gq, gkv = 0;
  int registers = 0; /* the gradients of key and value stay in registers */
  const int big = s->cc == 80 || s->cc == 90 || s->cc / 10 == 10;
  if (!half) {
    if (!big || k <= 64)
      bi = 64;
  } else if (k <= 64)
    bi = 64, registers = 1;
  else if (k <= 128) {
    if (big)
      bj = 128, registers = 1;
    else if (s->cc == 75 || ((s->cc == 86 || s->cc == 89) && k <= 96 && !dropout))
      registers = 1;
    else
      bi = 64;
  }
  gq = vram__div_up(q->v[2], bi) * vram__div_up(d, bj) * (4 * bi * bj + 16);
  if (half && !registers) {
    int64_t split = vram__div_up(sk, bj);
    if (heads >= 256 && sk <= 2 * bj)
      split = 1;
    split = vram__most(1, vram__least(split, heads ? 200 / heads : 1));
    gkv = 4 * split * bj * (vram__round_up(d, bi) + vram__round_up(dv, bi));
  }
  return vram__mul((uint64_t)heads, (uint64_t)vram__round_up(gq + gkv, 16));
}

/* the gradient of a key or value head that `group` query heads share: a sum over them */
static void vram__group_sum(vram__s *s, vram__t x, int64_t group) {
  const vram_dims *d = x.d;
  int64_t size[5];
  size[0] = d->v[0], size[1] = d->v[2], size[2] = d->v[1], size[3] = group, size[4] = d->v[3];
  x.d = vram__dims_in(s, 5, size, NULL);
  vram__reduce(s, x, 1u << 3, x.dt, 4, 4);
}

static void vram__drop_unwanted(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (to[i].d && !vram__wants(f, i)) {
      vram__let(s, to[i]);
      to[i] = vram__none();
    }
}

static void vram__bw_sdpa_efficient(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram__t k = sv[0], q = sv[1], v = sv[2];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], sk = k.d->v[2], d = q.d->v[3],
                dv = v.d->v[3], hk = k.d->v[1];
  const uint8_t dt = q.dt;
  const int half = vram__is_half(dt);
  vram__t cg = vram__none(), ek = cg, ev = cg, delta, ws;
  if (!vram__is_bshd(s, g.d))
    cg = vram__empty(s, vram__bshd(s, b, h, sq, dv), dt);
  to[0] = vram__empty(s, vram__bshd(s, b, h, sq, d), dt);
  to[1] = vram__empty(s, vram__bshd(s, b, hk, sk, d), dt);
  to[2] = vram__empty(s, vram__bshd(s, b, hk, sk, dv), dt);
  if (h != hk) {
    ek = vram__raw(s, vram__mul4(b * h, sk, d, vram__size_of(dt)));
    ev = vram__raw(s, vram__mul4(b * h, sk, dv, vram__size_of(dt)));
  }
  if (f->nin > 3 && vram__wants(f, 3)) { /* rows padded, a slice of them handed on */
    int64_t size[4];
    vram__t t;
    size[0] = b, size[1] = h, size[2] = sq, size[3] = vram__round_up(sk, 16);
    t = vram__empty(s, vram__dims_in(s, 4, size, NULL), dt);
    size[3] = sk;
    to[3] = vram__alias(s, t, vram__dims_in(s, 4, size, VRAM__STRIDE(t.d)));
    vram__let(s, t);
  }
  if (half)
    delta = vram__raw(s, vram__mul4(4, b, h, sq));
  else { /* (g * y).sum(-1), transposed */
    int64_t size[4];
    vram__t prod, sum;
    size[0] = b, size[1] = sq, size[2] = h, size[3] = dv;
    prod = vram__empty(s, vram__dims_in(s, 4, size, NULL), VRAM_F32);
    sum = vram__sum(s, prod, 8, 0, VRAM_F32);
    if (h > 1 && sq > 1) {
      delta = vram__empty(s, vram__contig(s, vram__swapped(s, sum.d, 1, 2)), VRAM_F32);
      vram__let(s, sum);
    } else
      delta = sum;
    vram__let(s, prod);
  }
  ws = vram__raw(s, vram__efficient_workspace(s, q.d, sk, dv, half, (f->aux & 2) != 0));
  vram__let(s, delta);
  vram__let(s, ws);
  if (h != hk) {
    vram__group_sum(s, k, h / hk);
    vram__group_sum(s, v, h / hk);
    vram__let(s, ev);
    vram__let(s, ek);
  }
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

/* flash_api.cpp, num_splits_heuristic: the fewest splits that fill 85 % of the best */
static int64_t vram__flash_splits(int64_t blocks, int64_t sm, int64_t n) {
  int64_t most = vram__least(128, vram__least(sm, n)), i, best = 0, best_of = 1;
  if (blocks * 10 >= sm * 8)
    return 1;
    /* efficiency of i splits: waves / ceil(waves), waves = blocks * i / sm; as a fraction */
#define VRAM__WAVES(i) (blocks * (i))
#define VRAM__FULL(i) (vram__div_up(blocks * (i), sm) * sm)
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of > best * VRAM__FULL(i))
      best = VRAM__WAVES(i), best_of = VRAM__FULL(i);
  for (i = 1; i <= most; i++)
    if ((i == 1 || vram__div_up(n, i) != vram__div_up(n, i - 1)) &&
        VRAM__WAVES(i) * best_of * 100 >= best * VRAM__FULL(i) * 85)
      return i;
#undef VRAM__WAVES
#undef VRAM__FULL
  return 1;
}

static int64_t vram__flash_width(int64_t d) {
  return d <= 128 ? vram__round_up(d, 32) : d <= 192 ? 192 : 256;
}

static vram__t vram__sdpa_flash(vram__s *s, vram__t *a, int64_t p) {
  const int64_t d = a[0].d->v[3];
  int64_t b, h, hk, sq, sk, wide = vram__round_up(d, 8), rows, heads, split, pad[2] = {0, 0};
  uint32_t i;
  vram__fn *f;
  vram__t y, lse, part = vram__none(), parts = part, rng, unused, t;
  pad[1] = wide - d;
  for (i = 0; i < 3 && d != wide; i++) {
    t = vram__t_pad(s, a[i], pad, 1, VRAM__PAD_CONSTANT);
    vram__let(s, a[i]);
    a[i] = t;
  }
  b = a[0].d->v[0], h = a[0].d->v[1], sq = a[0].d->v[2], hk = a[1].d->v[1], sk = a[1].d->v[2];
  f = vram__record(s, VRAM__K_sdpa_flash, a, 3, 1, 7);
  rows = sq, heads = h;
  if (sq == 1 && h > hk && !p) /* the query heads of a group become rows */
    rows = h / hk, heads = hk;
  y = vram__empty(s, rows != sq ? vram__bshd(s, b, h, sq, wide) : vram__like_bshd(s, a[0].d),
                  a[0].dt);
  lse = vram__raw(s, vram__mul4(4, b, h, sq));
  split = p ? 1
            : vram__flash_splits(b * heads * vram__div_up(rows, 64), 2 * (int64_t)s->sm,
                                 vram__div_up(sk, wide <= 64    ? 256
                                                  : wide <= 128 ? 128
                                                                : 64));
  if (split > 1) {
    part = vram__raw(s, vram__mul4(4 * split, b, heads, rows));
    parts = vram__raw(s, vram__mul4(4 * split, b, heads, rows * vram__flash_width(wide)));
  }
  rng = vram__raw(s, 16);
  unused = vram__raw(s, 8);
  if (p) {
    t = vram__raw(s, 16);
    vram__let(s, rng);
    rng = t;
  }
  if (f) {
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, y), vram__save(s, f, lse), vram__save(s, f, rng), vram__save(s, f, unused);
  }
  vram__let(s, parts);
  vram__let(s, part);
  vram__let(s, unused);
  vram__let(s, rng);
  vram__let(s, lse);
  vram__made(s, f, 0, &y);
  if (d != wide) {
    t = vram__t_first(s, y, d);
    vram__let(s, y);
    y = t;
  }
  return y;
}

static void vram__bw_sdpa_flash(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f);
  const vram__t k = sv[0], q = sv[1], v = sv[2], y = sv[3];
  const int64_t b = q.d->v[0], h = q.d->v[1], sq = q.d->v[2], d = q.d->v[3], hk = k.d->v[1],
                rows = vram__round_up(sq, 128);
  vram__t cg = vram__none(), cy = cg, ek, ev, sums, acc;
  if (!vram__is_bshd(s, g.d))
    cg = vram__empty(s, vram__bshd(s, b, h, sq, d), g.dt);
  if (!vram__is_bshd(s, y.d))
    cy = vram__empty(s, vram__bshd(s, b, h, sq, d), y.dt);
  to[0] = vram__empty(s, vram__like_bshd(s, q.d), q.dt);
  to[1] = vram__empty(s, vram__like_bshd(s, k.d), k.dt);
  to[2] = vram__empty(s, vram__like_bshd(s, v.d), v.dt);
  sums = vram__raw(s, vram__mul4(4, b, h, rows));
  acc = vram__raw(s, vram__mul4(4 * vram__flash_width(d), b, h, rows));
  if (h != hk) {
    ek = vram__raw(s, vram__mul4(b * h, k.d->v[2], d, vram__size_of(k.dt)));
    ev = vram__raw(s, vram__mul4(b * h, k.d->v[2], d, vram__size_of(k.dt)));
    vram__group_sum(s, k, h / hk);
    vram__group_sum(s, v, h / hk);
    vram__let(s, ev);
    vram__let(s, ek);
  }
  vram__let(s, acc);
  vram__let(s, sums);
  vram__let(s, cy);
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

static vram__t vram__sdpa_cudnn(vram__s *s, vram__t *a) {
  const vram_dims *q = a[0].d, *d = vram__dense(s, q);
  vram__fn *f = vram__record(s, VRAM__K_sdpa_cudnn, a, 3, 1, 8);
  vram__t seed = vram__raw(s, 8), off = vram__raw(s, 8), lse = vram__none(), y;
  if (q->v[3] != a[2].d->v[3]) { /* another width: the axes in the order of the query's strides */
    int64_t size[4], stride[4], z = 1;
    uint32_t i, j, order[4];
    for (i = 0; i < 4; i++) {
      for (j = i; j > 0 && VRAM__STRIDE(q)[order[j - 1]] > VRAM__STRIDE(q)[i]; j--)
        order[j] = order[j - 1];
      order[j] = i;
      size[i] = i < 3 ? q->v[i] : a[2].d->v[3];
    }
    for (i = 0; i < 4; i++)
      stride[order[i]] = z, z *= size[order[i]];
    d = vram__dims_in(s, 4, size, stride);
  }
  y = vram__empty(s, d, a[0].dt);
  if (f) {
    lse = vram__raw(s, vram__mul4(4, q->v[0], q->v[1], q->v[2]));
    if (a[3].d)
      vram__save(s, f, a[3]), f->aux = 1;
    vram__save(s, f, a[1]), vram__save(s, f, a[0]), vram__save(s, f, a[2]);
    vram__save(s, f, lse), vram__save(s, f, off), vram__save(s, f, seed), vram__save(s, f, y);
  }
  vram__let(s, lse);
  vram__let(s, off);
  vram__let(s, seed);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_sdpa_cudnn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, *sv = VRAM__SAVED(f) + (f->aux & 1);
  const vram_dims *q = sv[1].d;
  vram__t cg = vram__none(), ws;
  to[0] = vram__ti1(s, sv[1]);
  to[1] = vram__ti1(s, sv[0]);
  to[2] = vram__ti1(s, sv[2]);
  if (VRAM__STRIDE(g.d)[3] != 1)
    cg = vram__empty(s, vram__contig(s, g.d), g.dt);
  ws = vram__raw(s, vram__mul4(q->v[0], q->v[1], q->v[2], 4 * q->v[3] + 4));
  vram__may_need(s, q->numel + sv[0].d->numel + sv[2].d->numel);
  vram__let(s, ws);
  vram__let(s, cg);
  vram__drop_unwanted(s, f, to);
}

/* _safe_softmax over the last axis: rows that are all -inf become zeros */
static vram__t vram__t_safe_softmax(vram__s *s, vram__t x) {
  vram__fn *f = vram__record(s, VRAM__K_safe_softmax, &x, 1, 1, 1);
  vram__t y = vram__empty(s, vram__contig(s, x.d), x.dt), inf, all, zero;
  inf = vram__empty(s, y.d, VRAM_BOOL);
  all = vram__reduced(s, inf, 1u << (x.d->ndim - 1), 1, VRAM_BOOL);
  vram__reduce(s, inf, 1u << (x.d->ndim - 1), VRAM_BOOL, 1, 4);
  zero = vram__empty(s, s->scalar, x.dt);
  vram__let(s, zero);
  vram__let(s, all);
  vram__let(s, inf);
  if (f)
    vram__save(s, f, y);
  vram__made(s, f, 0, &y);
  return y;
}

static vram__t vram__heads_repeated(vram__s *s, vram__t x, int64_t h) {
  const vram_dims *d = x.d;
  int64_t size[VRAM_MAX_AXES];
  uint32_t n = d->ndim, i;
  vram__t t, u;
  for (i = 0; i < n - 2; i++)
    size[i] = d->v[i];
  size[n - 2] = h / d->v[n - 3];
  size[n - 1] = d->v[n - 2], size[n] = d->v[n - 1];
  t = vram__t_unsqueeze(s, x, n - 2);
  u = vram__t_expand(s, t, n + 1, size);
  vram__let(s, t);
  t = vram__t_clone(s, u, vram__contig(s, u.d));
  vram__let(s, u);
  size[n - 3] = h;
  for (i = n - 2; i < n; i++)
    size[i] = size[i + 1];
  u = vram__view(s, t, vram__dims_in(s, n, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  return u;
}

/* attention.cpp, _scaled_dot_product_attention_math: ordinary ops; half runs in fp32 */
static vram__t vram__sdpa_math(vram__s *s, vram__t *a, int64_t p, int causal, int gqa) {
  const uint8_t dt = a[0].dt;
  const uint32_t n = a[0].d->ndim;
  vram__t x[3], q, k, v, m = vram__none(), t, u, att, extra = m;
  uint8_t train;
  uint32_t i;
  for (i = 0; i < 3; i++)
    x[i] = vram__is_half(dt) ? vram__t_cast(s, a[i], VRAM_F32) : vram__keep_t(s, a[i]);
  q = vram__call(s, VRAM_OP_mul, x[0], vram__none(), NULL);
  k = vram__keep_t(s, x[1]), v = vram__keep_t(s, x[2]);
  if (a[3].d)
    m = vram__keep_t(s, a[3]);
  if (causal) {
    int64_t size[2];
    vram__t ones;
    size[0] = a[0].d->v[n - 2], size[1] = a[1].d->v[n - 2];
    ones = vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_BOOL);
    t = vram__empty(s, ones.d, VRAM_BOOL);
    vram__let(s, ones);
    m = vram__float_mask(s, t, q.dt);
    vram__let(s, t);
  }
  if (gqa && n > 2) {
    int64_t h = a[0].d->v[n - 3];
    if (k.d->v[n - 3] != h || v.d->v[n - 3] != h) {
      t = vram__heads_repeated(s, k, h);
      vram__let(s, k);
      k = t;
      t = vram__heads_repeated(s, v, h);
      vram__let(s, v);
      v = t;
    }
  }
  att = vram__t_swap(s, k, n - 2, n - 1);
  u = vram__call(s, VRAM_OP_mul, att, vram__none(), NULL);
  vram__let(s, att);
  t = vram__t_matmul(s, q, u);
  vram__let(s, u);
  if (m.d)
    vram__call_in_place(s, VRAM_OP_add, &t, m);
  att = vram__t_safe_softmax(s, t);
  vram__let(s, t);
  if (p) {
    int64_t attr[3];
    attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
    train = s->train, s->train = 1; /* at::dropout(attn, p, true) */
    t = vram__call(s, VRAM_OP_dropout, att, vram__none(), attr);
    s->train = train;
    vram__let(s, att);
    att = t;
  }
  if (vram__is_half(dt))
    extra = vram__empty(s, att.d, dt); /* the second result, which nobody takes */
  t = vram__t_matmul(s, att, v);
  if (vram__is_half(dt)) {
    u = vram__t_cast(s, t, dt);
    vram__let(s, t);
    t = u;
  }
  vram__let(s, extra);
  vram__let(s, att);
  vram__let(s, m);
  vram__let(s, v);
  vram__let(s, k);
  vram__let(s, q);
  for (i = 0; i < 3; i++)
    vram__let(s, x[i]);
  return t;
}

/* Attention of nothing: zeros, and 0 times the sums of q, k and v, so that they have gradients. */
static vram__t vram__sdpa_nothing(vram__s *s, const vram__t *a) {
  const uint8_t amp = s->amp;
  const uint32_t k = a[0].d->ndim;
  int64_t size[VRAM_MAX_AXES];
  vram__t t[7], y;
  uint32_t i;
  for (i = 0; i < k; i++)
    size[i] = a[0].d->v[i];
  size[k - 1] = a[2].d->v[a[2].d->ndim - 1u];
  s->amp = 0; /* below autocast */
  t[0] = vram__empty(s, vram__dims_in(s, k, size, NULL), a[0].dt);
  for (i = 0; i < 3; i++)
    t[1 + i] = vram__call(s, VRAM_OP_sum, a[i], vram__none(), NULL);
  t[4] = vram__call(s, VRAM_OP_add, t[1], t[2], NULL);
  t[5] = vram__call(s, VRAM_OP_add, t[4], t[3], NULL);
  t[6] = vram__call(s, VRAM_OP_mul, t[5], vram__none(), NULL);
  y = vram__call(s, VRAM_OP_add, t[0], t[6], NULL);
  for (i = 7; i-- > 0;)
    vram__let(s, t[i]);
  s->amp = amp;
  return y;
}

static vram__t vram__t_sdpa(vram__s *s, const vram_node *n, vram__t *a, int64_t p, int causal,
                            int gqa) {
  int64_t word = VRAM__INT(n, backend, 0);
  int pick;
  vram__t y, t;
  uint32_t i, flat = a[0].d->ndim == 3;
  if (a[1].dt != a[0].dt || a[2].dt != a[0].dt) /* attention.cpp, validate_sdpa_input */
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node, "query, key and value of different dtypes");
  if (flat)
    for (i = 0; i < 4; i++) {
      if (!a[i].d || a[i].d->ndim != 3)
        continue;
      t = vram__t_unsqueeze(s, a[i], 0);
      vram__let(s, a[i]);
      a[i] = t;
    }
  pick = word == VRAM__WORD("flash")       ? VRAM__SDPA_FLASH
         : word == VRAM__WORD("efficient") ? VRAM__SDPA_EFFICIENT
         : word == VRAM__WORD("cudnn")     ? VRAM__SDPA_CUDNN
         : word == VRAM__WORD("math")      ? VRAM__SDPA_MATH
                                           : VRAM__SDPA_NONE;
  if (!pick)
    pick = vram__sdpa_pick(s, a, p, causal, gqa);
  else if (!vram__sdpa_fits(s, pick, a, p, causal, gqa)) {
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, s->node,
                  "this attention backend does not take these tensors");
    pick = VRAM__SDPA_MATH;
  }
  if (a[3].d && a[3].dt == VRAM_BOOL) {
    t = vram__float_mask(s, a[3], a[0].dt);
    vram__let(s, a[3]);
    a[3] = t;
  }
  y = pick == VRAM__SDPA_CUDNN       ? vram__sdpa_cudnn(s, a)
      : pick == VRAM__SDPA_FLASH     ? vram__sdpa_flash(s, a, p)
      : pick == VRAM__SDPA_EFFICIENT ? vram__sdpa_efficient(s, a, p)
                                     : vram__sdpa_math(s, a, p, causal, gqa);
  if (flat) {
    t = vram__t_squeeze1(s, y, 0);
    vram__let(s, y);
    y = t;
  }
  for (i = 0; i < 4; i++)
    vram__let(s, a[i]);
  return y;
}

static void vram__run_sdpa(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[4], held[4];
  uint32_t i;
  a[3] = vram__none();
  for (i = n->nin; i-- > 0;) { /* autocast casts the last argument first, and holds them all */
    a[i] = s->amp ? vram__autocast(s, x[i], s->amp) : vram__keep_t(s, x[i]);
    held[i] = vram__keep_t(s, a[i]);
  }
  if (a[0].d->numel && a[1].d->numel && a[2].d->numel)
    y[0] = vram__t_sdpa(s, n, a, VRAM__INT(n, dropout_p, 0), VRAM__INT(n, is_causal, 0) != 0,
                        VRAM__INT(n, enable_gqa, 0) != 0);
  else {
    y[0] = vram__sdpa_nothing(s, a);
    for (i = n->nin; i-- > 0;)
      vram__let(s, a[i]);
  }
  for (i = 0; i < n->nin; i++)
    vram__let(s, held[i]);
}

/* ---- normalisation ---- */

/* x in channels-last order or contiguous; a copy, or nothing */
static vram__t vram__format_copy(vram__s *s, vram__t x, int cl) {
  if (x.d->flags & (cl ? VRAM__CL : VRAM__CONTIG))
    return vram__none();
  return vram__empty(s, vram__formatted(s, x.d, cl), x.dt);
}

/* x's layout as these kernels keep it: channels-last or contiguous */
static const vram_dims *vram__format(vram__s *s, const vram_dims *d, int cl) {
  return d->flags & (cl ? VRAM__CL : VRAM__CONTIG) ? d : vram__formatted(s, d, cl);
}

static vram__t vram__vec(vram__s *s, int64_t n, uint8_t dt) {
  if (!s->vec || s->vec->v[0] != n)
    s->vec = vram__dims_in(s, 1, &n, NULL);
  return vram__empty(s, s->vec, dt);
}

/* Inputs of a norm on autocast's fp32 list, the last one cast first; owned. */
static void vram__norm_args(vram__s *s, const vram_node *n, vram__t *x, int fp32, vram__t *a) {
  uint32_t i;
  a[0] = x[0];
  vram__weights(s, n, &a[1], &a[2]);
  for (i = 3; i-- > 0;)
    if (a[i].d)
      a[i] = s->amp && fp32 ? vram__autocast(s, a[i], VRAM_F32) : vram__keep_t(s, a[i]);
}

static void vram__let3(vram__s *s, vram__t *a) {
  uint32_t i;
  for (i = 0; i < 3; i++)
    vram__let(s, a[i]);
}

/* rms_norm as its composite form: channels-last inputs, a weight of another dtype */
static vram__t vram__rms_composite(vram__s *s, vram__t x, vram__t w, uint32_t naxes) {
  int64_t attr[16];
  uint32_t i, n = 0;
  uint8_t dt = vram__is_half(x.dt) ? (uint8_t)VRAM_F32 : x.dt;
  vram__t up = vram__t_cast(s, x, dt), pow, t, u;
  attr[n++] = VRAM__KEY_dim | (int64_t)naxes << 8;
  for (i = 0; i < naxes; i++)
    attr[n++] = x.d->ndim - 1 - (int64_t)i;
  attr[n++] = VRAM__KEY_keepdim | 1 << 8;
  attr[n++] = 1;
  attr[n] = 0;
  pow = vram__call(s, VRAM_OP_pow, up, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_mean, pow, vram__none(), attr);
  vram__call_in_place(s, VRAM_OP_add, &u, vram__none());
  t = vram__call(s, VRAM_OP_rsqrt, u, vram__none(), NULL);
  vram__let(s, u);
  vram__let(s, pow);
  u = vram__call(s, VRAM_OP_mul, up, t, NULL);
  if (w.d) {
    vram__t v = vram__call(s, VRAM_OP_mul, u, w, NULL);
    vram__let(s, u);
    u = v;
  }
  vram__let(s, up);
  up = vram__t_cast(s, u, x.dt);
  vram__let(s, u);
  vram__let(s, t);
  return up;
}

/* layer_norm.cu, layer_norm_cuda and _fused_rms_norm_cuda */
static void vram__run_layer_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], c, st[2];
  vram__fn *f;
  uint32_t i, k, na = 1, stats = n->op == VRAM_OP_layer_norm ? 2 : 1;
  int64_t rows[VRAM_MAX_AXES];
  uint8_t acc;
  vram__norm_args(s, n, x, 1, a);
  vram__list(n, VRAM__KEY_normalized_shape, &na);
  if (stats == 1 && ((a[1].d && a[1].dt != a[0].dt) || vram__suggests_cl(a[0].d))) {
    y[0] = vram__rms_composite(s, a[0], a[1], na);
    vram__let3(s, a);
    return;
  }
  k = a[2].d ? 3 : a[1].d ? 2 : 1;
  f = vram__record(s, n->op, a, k, 1, 4);
  c = vram__format_copy(s, a[0], 0);
  y[0] = vram__empty(s, vram__contig(s, a[0].d), a[0].dt);
  for (i = 0; i < a[0].d->ndim; i++)
    rows[i] = i < a[0].d->ndim - na ? a[0].d->v[i] : 1;
  acc = a[0].dt == VRAM_F64 ? (uint8_t)VRAM_F64 : (uint8_t)VRAM_F32;
  for (i = 0; i < stats; i++)
    st[i] = vram__empty(s, vram__dims_in(s, a[0].d->ndim, rows, NULL), acc);
  vram__let(s, c);
  if (f) {
    vram__save(s, f, a[0]);
    for (i = 0; i < stats; i++)
      vram__save(s, f, st[i]);
    if (a[1].d)
      vram__save(s, f, a[1]);
  }
  for (i = 0; i < stats; i++)
    vram__let(s, st[i]);
  vram__made(s, f, 0, &y[0]);
  vram__let3(s, a);
}

/* layer_norm_kernel.cu: the sums for weight and bias of very many rows go through partial ones */
static void vram__partial_sums(vram__s *s, int64_t rows, const vram_dims *wd, uint8_t dt,
                               vram__t *gw, vram__t *gb) {
  int64_t size[2], n = (int64_t)wd->numel, parts;
  vram__t p[2], *to[2], t;
  uint32_t i;
  if ((!gw->d && !gb->d) || rows <= 65536 || !n || n / 32 >= (int64_t)s->sm / 2)
    return;
  parts = vram__least(vram__div_up(rows, 32), 32768 / vram__div_up(n, 32));
  size[0] = parts, size[1] = n;
  to[0] = gw, to[1] = gb;
  for (i = 0; i < 2; i++)
    p[i] = to[i]->d ? vram__empty(s, vram__dims_in(s, 2, size, NULL), dt) : vram__none();
  for (i = 0; i < 2; i++)
    if (p[i].d) {
      t = vram__empty(s, wd, dt);
      vram__reduce(s, p[i], 1, dt, vram__size_of(dt) < 4 ? 4 : vram__size_of(dt), 4);
      vram__let(s, *to[i]);
      *to[i] = t;
    }
  vram__let(s, p[1]);
  vram__let(s, p[0]);
}

static void vram__bw_layer_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], none = vram__none(), cg, cx;
  const vram_dims *wd = NULL;
  cx = vram__format_copy(s, x, 0);
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  if (f->nin > 1 && vram__wants(f, 1))
    to[1] = vram__empty(s, wd = vram__contig(s, vram__in_dims(s, f, 1, NULL)), x.dt);
  if (f->nin > 2 && vram__wants(f, 2))
    to[2] = vram__empty(s, wd = vram__contig(s, vram__in_dims(s, f, 2, NULL)), x.dt);
  cg = vram__format_copy(s, g, 0);
  if (wd)
    vram__partial_sums(s, (int64_t)(x.d->numel / (wd->numel ? wd->numel : 1)), wd, x.dt, &to[1],
                       f->nin > 2 ? &to[2] : &none);
  vram__let(s, cg);
  vram__let(s, cx);
  vram__drop_unwanted(s, f, to);
}

/* torch.nn.functional, _verify_batch_size and _verify_spatial_size */
VRAM__RARE void vram__one_value(vram__s *s, const vram_node *n) {
  vram__no_step(s, VRAM_ERR_UNSUPPORTED, n,
                "a norm over one value: PyTorch stops with an error (expected more than 1 value)");
}

/* group_norm.cpp, native_group_norm. aux: groups */
static void vram__run_group_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], st[2], half[2], sc[2], c;
  vram__fn *f;
  int64_t groups = VRAM__INT(n, num_groups, 1), size[2], nc[2], hw = 1;
  uint32_t i;
  int cl, one;
  vram__norm_args(s, n, x, 1, a);
  f = vram__record(s, n->op, a, a[2].d ? 3 : a[1].d ? 2 : 1, 1, 4);
  cl = vram__suggests_cl(a[0].d);
  for (i = 2; i < a[0].d->ndim; i++)
    hw *= a[0].d->v[i];
  size[0] = nc[0] = a[0].d->v[0], size[1] = groups, nc[1] = a[0].d->v[1];
  if (nc[0] * nc[1] / groups * hw == 1)
    vram__one_value(s, n);
  y[0] = vram__empty(s, vram__format(s, a[0].d, cl), a[0].dt);
  for (i = 0; i < 2; i++)
    st[i] = vram__empty(s, vram__dims_in(s, 2, size, NULL), a[0].dt);
  c = vram__format_copy(s, a[0], cl);
  cl = ((c.d ? c : a[0]).d->flags & VRAM__CL) != 0; /* also if all axes behind C are 1 */
  one = hw == 1 && !cl && a[0].d->ndim < 4;
  for (i = 0; i < 2; i++)
    half[i] = vram__is_half(a[0].dt) ? vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_F32)
                                     : vram__none();
  for (i = 0; i < 2; i++)
    sc[i] = !one && (a[1].d || a[2].d || cl)
                ? vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32)
                : vram__none();
  for (i = 2; i-- > 0;)
    vram__let(s, sc[i]);
  for (i = 2; i-- > 0;)
    vram__let(s, half[i]);
  if (f) {
    f->aux = (uint64_t)groups << 1 | (a[1].d != NULL);
    vram__save(s, f, a[0]);
    for (i = 0; i < 2; i++)
      vram__save(s, f, st[i]);
    if (a[1].d)
      vram__save(s, f, a[1]);
  }
  vram__let(s, c);
  for (i = 0; i < 2; i++)
    vram__let(s, st[i]);
  vram__made(s, f, 0, &y[0]);
  vram__let3(s, a);
}

static void vram__bw_group_norm(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], c, cx, ds[2], st[2], w = vram__none();
  const vram_dims *dx;
  int64_t nc[2], ng[2], hw = 1;
  uint32_t i;
  int cl = vram__suggests_cl(x.d), one, affine = (int)(f->aux & 1);
  c = vram__format_copy(s, g, cl);
  cx = vram__format_copy(s, x, cl);
  dx = vram__format(s, x.d, cl);
  cl = ((cx.d ? cx : x).d->flags & VRAM__CL) != 0;
  for (i = 2; i < x.d->ndim; i++)
    hw *= x.d->v[i];
  one = hw == 1 && !cl && x.d->ndim < 4;
  nc[0] = ng[0] = x.d->v[0], nc[1] = x.d->v[1], ng[1] = (int64_t)(f->aux >> 1);
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, dx, x.dt);
  for (i = 1; i < f->nin; i++)
    if (vram__wants(f, i))
      to[i] = vram__vec(s, nc[1], x.dt);
  if (!one)
    for (i = 0; i < 2; i++)
      ds[i] = vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
  if (vram__wants(f, 0)) {
    for (i = 0; i < 2; i++)
      st[i] = vram__empty(s, vram__dims_in(s, 2, ng, NULL), VRAM_F32);
    if (!one && affine && !cl)
      w = vram__empty(s, vram__dims_in(s, 2, nc, NULL), VRAM_F32);
    vram__let(s, st[1]), vram__let(s, st[0]);
    vram__let(s, w);
  }
  if (!one)
    vram__let(s, ds[1]), vram__let(s, ds[0]);
  vram__let(s, cx);
  vram__let(s, c);
}

/* batch_norm: aux of its record */
enum { VRAM__BN_CUDNN = 1, VRAM__BN_TRAIN = 2, VRAM__BN_STATS = 4 };

/* Normalization.cu, batch_norm_choose_impl */
enum { VRAM__BN_CONTIG, VRAM__BN_CL, VRAM__BN_GENERAL };

static int vram__bn_kernel(const vram_dims *d) {
  if (d->numel > INT32_MAX) /* canUse32BitIndexMath */
    return VRAM__BN_GENERAL;
  if (d->flags & VRAM__CONTIG)
    return VRAM__STRIDE(d)[1] == 1 ? VRAM__BN_CL : VRAM__BN_CONTIG;
  return d->ndim == 4 && (d->flags & VRAM__CL) ? VRAM__BN_CL : VRAM__BN_GENERAL;
}

/* batch_norm_use_channels_last_kernels */
static int vram__bn_cl(const vram_dims *d) {
  return (d->flags & VRAM__CL) || ((d->flags & VRAM__CONTIG) && VRAM__STRIDE(d)[1] == 1);
}

/* Normalization.cuh, flexible_launch_configs: partial results of the channels-last kernels that
   are split over thread blocks, so many values of 4 bytes for each channel, and semaphores */
static void vram__bn_staging(vram__s *s, const vram_dims *d, int64_t values) {
  int64_t c = d->v[1], rows = c ? (int64_t)d->numel / c : 0, bx, by, gy;
  vram__t stage, sem;
  if (!rows)
    return;
  bx = vram__least(vram__pow2(c, 512), 32);
  by = vram__least(vram__pow2(vram__div_up(rows, 16), 512), 512 / bx);
  if (bx * by != 512)
    bx = vram__least(vram__pow2(c, 512), 512 / by);
  gy = vram__least(vram__div_up(rows, by * 16), 128);
  if (gy < 8)
    return;
  stage = vram__raw(s, vram__mul4(4, values, c, gy));
  sem = vram__raw(s, 4 * (uint64_t)vram__div_up(c, bx));
  vram__let(s, stage);
  vram__let(s, sem);
}

/* Does cuDNN take them? (use_cudnn in Normalization.cpp; in evaluation fewer samples) */
static int vram__cudnn_bn(const vram__t *x, const vram__t *w, const vram__t *b) {
  return (x->dt == VRAM_F32 || x->dt == VRAM_F16) && w->dt == VRAM_F32 && b->dt == VRAM_F32 &&
         x->d->ndim >= 3 && x->d->v[0] <= 880801;
}

/* Normalization.cpp, _batch_norm_impl_index. w, b, running mean and variance: d NULL if none */
static vram__t vram__t_batch_norm(vram__s *s, vram__t x, vram__t w, vram__t b, vram__t rm,
                                  vram__t rv, int train) {
  vram__t in[3], st[2], y;
  vram__fn *f;
  const int64_t c = x.d->v[1];
  int cudnn, kernel;
  uint32_t i;
  cudnn = w.d && b.d && (rm.d ? rv.d != NULL : train) && vram__cudnn_bn(&x, &w, &b) &&
          (train || x.d->v[0] <= 65535);
  in[0] = x, in[1] = w, in[2] = b;
  if (cudnn && !(x.d->flags & (vram__suggests_cl(x.d) ? VRAM__CL : VRAM__CONTIG)))
    in[0] = x = vram__t_clone(s, x, vram__format(s, x.d, vram__suggests_cl(x.d)));
  else
    x = vram__keep_t(s, x);
  f = vram__record(s, VRAM__K_bn, in, b.d ? 3 : w.d ? 2 : 1, 1, 6);
  kernel = vram__bn_kernel(x.d);
  st[0] = st[1] = vram__none();
  y = vram__empty(s, cudnn ? vram__format(s, x.d, vram__suggests_cl(x.d)) : vram__dense(s, x.d),
                  x.dt);
  if (train || !cudnn)
    st[0] = vram__vec(s, c, VRAM_F32), st[1] = vram__vec(s, c, VRAM_F32);
  if (!cudnn && train && kernel == VRAM__BN_CL)
    vram__bn_staging(s, x.d, 4);
  if (!cudnn && kernel == VRAM__BN_GENERAL) {
    if (train) { /* var_mean, into fp32: halves it reads as they are */
      vram__t up = vram__none();
      if (x.dt == VRAM_BF16)
        up = vram__empty(s, vram__dense(s, x.d), VRAM_F32);
      vram__reduce(s, up.d ? up : x, ((1u << x.d->ndim) - 1) & ~2u, VRAM_F32, 16, 2);
      vram__let(s, up);
    }
    if (!w.d) { /* scalars for weight and bias */
      vram__t one = vram__empty(s, s->scalar, VRAM_F32), zero = vram__empty(s, s->scalar, VRAM_F32);
      vram__let(s, one);
      vram__let(s, zero);
    }
  }
  if (f) {
    f->aux = (cudnn ? VRAM__BN_CUDNN : 0) | (train ? VRAM__BN_TRAIN : 0);
    vram__save(s, f, x);
    for (i = 0; i < 2; i++)
      vram__save(s, f, st[i]);
    if (w.d)
      vram__save(s, f, w);
    if (rm.d)
      vram__save(s, f, rm);
    if (rv.d)
      vram__save(s, f, rv);
  }
  vram__let(s, st[0]), vram__let(s, st[1]);
  vram__made(s, f, 0, &y);
  vram__let(s, x);
  return y;
}

/* x.reshape({N, C, -1}): a copy, or nothing */
static vram__t vram__bn_copy(vram__s *s, vram__t x) {
  int64_t size[3], stride[3];
  size[0] = x.d->v[0], size[1] = x.d->v[1];
  size[2] = size[0] && size[1] ? (int64_t)x.d->numel / (size[0] * size[1]) : 0;
  if (vram__view_strides(x.d, 3, size, stride))
    return vram__none();
  return vram__empty(s, vram__contig(s, x.d), x.dt);
}

/* cudnn_batch_norm_backward and Normalization.cu, batch_norm_backward_cuda */
static void vram__bw_any_bn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  const int64_t c = x.d->v[1];
  const int train = (f->aux & VRAM__BN_TRAIN) != 0, affine = f->nin > 1, want = vram__wants(f, 0),
            gw = affine && vram__wants(f, 1), gb = f->nin > 2 && vram__wants(f, 2),
            reduce = train || gw || gb, xcl = vram__bn_cl(x.d);
  const uint8_t wdt = affine ? VRAM__SAVED(f)[3].dt : (uint8_t)VRAM_F32;
  vram__t std, sum[2], cx, cg, t;
  if ((f->aux & VRAM__BN_CUDNN) && train) { /* always all three */
    const int cl = vram__suggests_cl(x.d);
    t = vram__format_copy(s, g, cl);
    to[0] = vram__empty(s, vram__format(s, x.d, cl), x.dt);
    to[1] = vram__vec(s, c, wdt), to[2] = vram__vec(s, c, wdt);
    vram__let(s, t);
    vram__drop_unwanted(s, f, to);
    return;
  }
  std = cx = cg = vram__none();
  if (reduce && want && !xcl && x.d->numel <= INT32_MAX) { /* one kernel for everything */
    cx = vram__bn_copy(s, x);
    cg = vram__bn_copy(s, g);
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
    if (gw)
      to[1] = vram__vec(s, c, wdt);
    if (gb)
      to[2] = vram__vec(s, c, wdt);
    vram__let(s, cg), vram__let(s, cx);
    return;
  }
  sum[0] = sum[1] = vram__none();
  if (f->aux & VRAM__BN_CUDNN) /* cuDNN saves nothing in eval */
    std = vram__vec(s, c, VRAM_F32);
  if (reduce) {
    const int cl = xcl && vram__bn_cl(g.d) && x.d->numel <= INT32_MAX;
    if (!cl)
      cx = vram__bn_copy(s, x), cg = vram__bn_copy(s, g);
    if (cl || want)
      sum[0] = vram__vec(s, c, VRAM_F32), sum[1] = vram__vec(s, c, VRAM_F32);
    if (affine && (cl || gw))
      to[1] = vram__vec(s, c, wdt);
    if (f->nin > 2 && (cl || gb))
      to[2] = vram__vec(s, c, wdt);
    if (cl)
      vram__bn_staging(s, x.d, 2);
    vram__let(s, cg), vram__let(s, cx);
  }
  if (want && train) {
    const int kernel = vram__bn_kernel(x.d);
    if ((kernel == VRAM__BN_GENERAL || vram__bn_kernel(g.d) != kernel) && !affine) {
      t = vram__empty(s, s->scalar, VRAM_F32);
      to[0] = vram__empty(s, vram__format(s, x.d, vram__suggests_cl(x.d)), x.dt);
      vram__let(s, t);
    } else
      to[0] = vram__empty(s, vram__format(s, x.d, vram__suggests_cl(x.d)), x.dt);
  } else if (want)
    to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  vram__let(s, sum[1]), vram__let(s, sum[0]);
  vram__let(s, std);
  vram__drop_unwanted(s, f, to);
}

VRAM__SELDOM_END

/* A contiguous input, a weight whose dims the statistics can have: nearly always. */
static int vram__usual_bn(const vram_dims *x, const vram_dims *w) {
  return (x->flags & (VRAM__PLAIN | VRAM__CL_STRIDES)) == VRAM__PLAIN && (w->flags & VRAM__PLAIN);
}

static void vram__run_batch_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[3], st[2], rm = vram__none(), rv = rm;
  vram__fn *f;
  int train;
  in[0] = x[0];
  vram__weights(s, n, &in[1], &in[2]);
  if (n->param[2])
    rm = s->param[n->param[2]->index], rv = s->param[n->param[3]->index];
  train = (s->train || !rm.d) && VRAM__INT(n, training, 1);
  if (train && x[0].d->numel == (uint64_t)x[0].d->v[1])
    vram__one_value(s, n);
  if (!train || !rm.d || !in[2].d || !vram__usual_bn(x->d, in[1].d) ||
      !vram__cudnn_bn(x, &in[1], &in[2])) {
    y[0] = vram__t_batch_norm(s, in[0], in[1], in[2], rm, rv, train);
    return;
  }
  f = vram__record(s, VRAM__K_bn, in, 3, 1, 6);
  y[0] = vram__empty(s, x->d, x->dt);
  st[0] = vram__empty(s, in[1].d, VRAM_F32), st[1] = vram__empty(s, in[1].d, VRAM_F32);
  if (f) {
    f->aux = VRAM__BN_CUDNN | VRAM__BN_TRAIN;
    vram__save(s, f, in[0]);
  }
  vram__save_last(s, f, &st[0]), vram__save_last(s, f, &st[1]);
  if (f) {
    vram__save(s, f, in[1]);
    if (s->frame) /* where it counts how many there are */
      vram__save(s, f, rm), vram__save(s, f, rv);
  }
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_bn(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t *x = VRAM__SAVED(f), *w = x + 3;
  if (f->aux != (VRAM__BN_CUDNN | VRAM__BN_TRAIN) || !vram__usual_bn(x->d, w->d) ||
      !(VRAM__SLOTS(f)[0].g.d->flags & VRAM__CONTIG)) {
    vram__bw_any_bn(s, f, to);
    return;
  }
  to[0] = vram__empty(s, x->d, x->dt);
  to[1] = vram__empty(s, w->d, w->dt), to[2] = vram__empty(s, w->d, w->dt);
  vram__drop_unwanted(s, f, to);
}

VRAM__SELDOM_BEGIN

/* Normalization.cpp, repeat_if_defined: [C] -> [N*C] */
static vram__t vram__t_tiled(vram__s *s, vram__t x, int64_t n) {
  vram__fn *f;
  vram__t y;
  if (!x.d)
    return vram__none();
  f = vram__record(s, VRAM_OP_repeat, &x, 1, 1, 0);
  y = vram__vec(s, n * (int64_t)x.d->numel, x.dt);
  vram__made(s, f, 0, &y);
  return y;
}

/* Normalization.cpp, instance_norm: batch_norm of [1,N*C,...] */
static void vram__run_instance_norm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w, b, rm = vram__none(), rv = rm, v, t;
  int64_t size[VRAM_MAX_AXES], nc[2];
  uint32_t i, one = 1;
  int train;
  vram__weights(s, n, &w, &b);
  w = vram__t_tiled(s, w, x[0].d->v[0]);
  b = vram__t_tiled(s, b, x[0].d->v[0]);
  if (n->param[2]) {
    rm = vram__t_tiled(s, s->param[n->param[2]->index], x[0].d->v[0]);
    rv = vram__t_tiled(s, s->param[n->param[3]->index], x[0].d->v[0]);
  }
  train = s->train || !rm.d;
  nc[0] = x[0].d->v[0], nc[1] = x[0].d->v[1];
  size[0] = 1, size[1] = nc[0] * nc[1];
  for (i = 2; i < x[0].d->ndim; i++)
    size[i] = x[0].d->v[i], one &= size[i] == 1;
  if (train && one)
    vram__one_value(s, n);
  t = vram__t_contiguous(s, x[0]);
  v = vram__view(s, t, vram__dims_in(s, x[0].d->ndim, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  t = vram__t_batch_norm(s, v, w, b, rm, rv, train);
  for (i = 0; train && rm.d && i < 2; i++) { /* means of the running statistics */
    vram__t r = i ? rv : rm, m;
    r.d = vram__dims_in(s, 2, nc, NULL);
    m = vram__sum(s, r, 1, 0, r.dt);
    vram__let(s, m);
  }
  y[0] = vram__view(s, t, vram__contig(s, x[0].d), VRAM__K_view, 0);
  vram__let(s, t);
  vram__let(s, v);
  vram__let(s, rv);
  vram__let(s, rm);
  vram__let(s, b);
  vram__let(s, w);
}

/* torch.nn.functional.local_response_norm: x / (alpha * mean of x^2 over channels + k)^beta */
static void vram__run_lrn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t size = *vram__list(n, VRAM__KEY_size, NULL);
  const vram_dims *d = x[0].d;
  const uint32_t flat = d->ndim == 3, k = flat ? 2 : 3;
  int64_t pad[6] = {0, 0, 0, 0, 0, 0}, v[5], attr[8];
  uint32_t i, m = 0;
  vram__t t, u;
  t = vram__call(s, VRAM_OP_mul, x[0], x[0], NULL);
  v[0] = d->v[0], v[1] = 1, v[2] = d->v[1], v[3] = d->v[2], v[4] = 1;
  for (i = 3; i < d->ndim; i++)
    v[4] *= d->v[i]; /* [N,1,C,H,the rest] */
  u = flat ? vram__t_unsqueeze(s, t, 1) : vram__t_reshape(s, t, 5, v);
  vram__let(s, t);
  pad[2 * k - 2] = size / 2, pad[2 * k - 1] = (size - 1) / 2;
  t = vram__t_pad(s, u, pad, k, VRAM__PAD_CONSTANT);
  attr[m++] = VRAM__KEY_kernel_size | (int64_t)k << 8;
  for (i = 0; i < k; i++)
    attr[m++] = i ? 1 : size;
  attr[m++] = VRAM__KEY_stride | 1 << 8;
  attr[m++] = 1;
  attr[m] = 0;
  {
    const vram_dims *out = vram__contig(s, u.d);
    vram__let(s, u);
    u = vram__call_n(s, flat ? VRAM_OP_avg_pool2d : VRAM_OP_avg_pool3d, 0, &t, 1, attr, out);
  }
  vram__let(s, t);
  t = vram__t_squeeze1(s, u, 1);
  vram__let(s, u);
  if (!flat) {
    u = vram__view(s, t, vram__contig(s, d), VRAM__K_view, 0);
    vram__let(s, t);
    t = u;
  }
  u = vram__call(s, VRAM_OP_mul, t, vram__none(), NULL);
  y[0] = vram__call(s, VRAM_OP_add, u, vram__none(), NULL);
  vram__let(s, u);
  u = vram__call(s, VRAM_OP_pow, y[0], vram__none(), NULL);
  vram__let(s, y[0]);
  vram__let(s, t);
  y[0] = vram__call(s, VRAM_OP_div, x[0], u, NULL);
  vram__let(s, u);
}

/* ---- softmax ---- */

/* SoftMax.cu, host_softmax and host_softmax_backward */
static vram__t vram__t_softmax(vram__s *s, uint32_t op, vram__t x, uint8_t dt) {
  vram__fn *f;
  vram__t y, c, a;
  if (dt != x.dt && !(x.dt == VRAM_F16 && dt == VRAM_F32))
    a = vram__t_cast(s, x, dt);
  else
    a = vram__keep_t(s, x);
  f = vram__record(s, op, &a, 1, 1, 1);
  y = vram__empty(s, vram__contig(s, a.d), dt);
  c = vram__format_copy(s, a, 0);
  vram__let(s, c);
  if (f)
    vram__save(s, f, y);
  vram__made(s, f, 0, &y);
  vram__let(s, a);
  return y;
}

static void vram__run_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint8_t dt = vram__list(n, VRAM__KEY_dtype, NULL) ? (uint8_t)VRAM__INT(n, dtype, VRAM_F32) : 0;
  if (s->low && dt == VRAM_F32)
    dt = s->low;
  if (!dt)
    dt = s->amp && vram__is_half(x[0].dt) ? (uint8_t)VRAM_F32 : x[0].dt;
  y[0] = vram__t_softmax(s, n->op, x[0], dt);
}

static void vram__bw_softmax(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, y = VRAM__SAVED(f)[0], c, t = vram__none();
  uint8_t dt;
  vram__in_dims(s, f, 0, &dt);
  to[0] = vram__empty(s, vram__contig(s, y.d), dt);
  if (f->kind != VRAM_OP_log_softmax)
    t = vram__ti2(s, g, y);
  c = vram__format_copy(s, t.d ? t : g, 0);
  vram__let(s, c);
  vram__let(s, t);
}
#define vram__bw_safe_softmax vram__bw_softmax

/* ---- torch.nn.MultiheadAttention ---- */

static vram__t vram__mha_param(const vram__s *s, const vram_node *n, uint32_t i) {
  return n->param[i] ? s->param[n->param[i]->index] : vram__none();
}

/* x.split along its first axis into pieces of these sizes */
static void vram__t_split(vram__s *s, vram__t x, uint32_t count, const int64_t *sizes, vram__t *y) {
  static const int64_t attr[] = {VRAM__KEY_dim | 1 << 8, 0, 0};
  vram_node n;
  vram_value v[3];
  uint32_t i;
  int64_t d[VRAM_MAX_AXES];
  for (i = 0; i < x.d->ndim; i++)
    d[i] = x.d->v[i];
  vram__zero(&n, sizeof n);
  vram__zero(v, sizeof v);
  n.op = VRAM_OP_split;
  n.nin = 1, n.nout = count;
  n.attr = attr;
  n.out = v;
  for (i = 0; i < count; i++) {
    d[0] = sizes[i];
    v[i].d = vram__dims_in(s, x.d->ndim, d, NULL);
  }
  vram__run_op(s, &n, &x, y);
}

/* x[i] */
static vram__t vram__t_select(vram__s *s, vram__t x, int64_t i) {
  int64_t attr[5];
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = 0;
  attr[2] = VRAM__KEY_index | 1 << 8, attr[3] = i, attr[4] = 0;
  return vram__call_n(s, VRAM_OP_select, 0, &x, 1, attr, NULL);
}

/* torch.cat of two along an axis; takes both */
static vram__t vram__t_cat2(vram__s *s, vram__t a, vram__t b, uint32_t axis) {
  vram__t in[2], y;
  int64_t size[VRAM_MAX_AXES], attr[3];
  uint32_t i;
  in[0] = a, in[1] = b;
  for (i = 0; i < a.d->ndim; i++)
    size[i] = a.d->v[i] + (i == axis ? b.d->v[i] : 0);
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = axis, attr[2] = 0;
  y = vram__call_n(s, VRAM_OP_cat, 0, in, 2, attr, vram__dims_in(s, i, size, NULL));
  vram__let(s, b);
  vram__let(s, a);
  return y;
}

/* linear(x, w, b) and the parts of its last axis in front: [parts, ..., E] */
static vram__t vram__mha_packed(vram__s *s, vram__t x, vram__t w, vram__t b, int64_t parts) {
  vram__t p = vram__t_linear(s, x, w, b), t, u;
  const uint32_t n = p.d->ndim;
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[VRAM_MAX_AXES];
  uint32_t i;
  for (i = 0; i < n; i++)
    size[i] = p.d->v[i];
  size[n - 1] = parts, size[n] = p.d->v[n - 1] / parts;
  t = vram__view(s, p, vram__dims_in(s, n + 1, size, NULL), VRAM__K_view, 0);
  vram__let(s, p);
  order[0] = (uint8_t)(n - 1);
  for (i = 1; i < n; i++)
    order[i] = (uint8_t)(i - 1);
  order[n] = (uint8_t)n;
  u = vram__t_permute(s, t, order);
  vram__let(s, t);
  t = vram__t_contiguous(s, u);
  vram__let(s, u);
  return t;
}

/* [L,B,E] as heads: [B*h,L,D]. Takes x. */
static vram__t vram__mha_heads(vram__s *s, vram__t x, int64_t h) {
  int64_t size[3];
  vram__t t, y;
  size[0] = x.d->v[0], size[1] = x.d->v[1] * h, size[2] = x.d->v[2] / h;
  t = vram__t_reshape(s, x, 3, size);
  vram__let(s, x);
  y = vram__t_swap(s, t, 0, 1);
  vram__let(s, t);
  return y;
}

/* native/transformers/cuda/attention.cu, native_multi_head_attention: what eager inference of
   self-attention takes where it can (batch first, an even number of heads, biases, no autocast) */
static void vram__mha_native(vram__s *s, const vram_node *n, vram__t x, vram__t mask, vram__t *y) {
  const int64_t B = x.d->v[0], L = x.d->v[1], E = x.d->v[2], h = VRAM__INT(n, num_heads, 1);
  const int weights = VRAM__INT(n, need_weights, 1) != 0;
  vram__t a[4], t, u, att, in[3];
  int64_t size[4], part[3];
  uint32_t i;
  in[0] = vram__mha_param(s, n, VRAM__MHA_IN), in[1] = vram__mha_param(s, n, VRAM__MHA_BIAS);
  for (i = 0; i < 3; i++) { /* which backend would take query, key and value as they are? */
    a[i] = x;
    a[i].d = vram__bshd(s, B, h, L, E / h);
  }
  a[3] = vram__none();
  i = (uint32_t)vram__sdpa_pick(s, a, 0, 0, 0);
  if (!weights && !mask.d && (i == VRAM__SDPA_FLASH || i == VRAM__SDPA_EFFICIENT)) {
    t = vram__t_linear(s, x, in[0], in[1]);
    for (i = 0; i < 3; i++) { /* chunks of the last axis as heads */
      int64_t stride[4];
      size[0] = B, size[1] = h, size[2] = L, size[3] = E / h;
      stride[0] = L * 3 * E, stride[1] = E / h, stride[2] = 3 * E, stride[3] = 1;
      a[i] = vram__alias(s, t, vram__dims_in(s, 4, size, stride));
      a[i].off = (uint8_t)(((int64_t)i * E) & 15);
    }
    y[0] = vram__t_sdpa(s, n, a, 0, 0, 0);
    u = vram__t_swap(s, y[0], 1, 2);
    vram__let(s, y[0]);
    size[1] = L, size[2] = E;
    y[0] = vram__t_reshape(s, u, 3, size);
    vram__let(s, u);
    u = vram__t_linear(s, y[0], vram__mha_param(s, n, VRAM__MHA_OUT),
                       vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
    vram__let(s, y[0]);
    vram__let(s, t);
    y[0] = u;
    return;
  }
  t = vram__t_linear(s, x, in[0], vram__none());
  part[0] = 3 * B * h, part[1] = L, part[2] = E / h; /* biases added, heads in front */
  u = vram__empty(s, vram__dims_in(s, 3, part, NULL), t.dt);
  vram__let(s, t);
  size[0] = B * h, size[1] = size[2] = L;
  att = vram__empty(s, vram__dims_in(s, 3, size, NULL), u.dt);
  vram__workspace(s, s->ws);
  if (mask.d) { /* _masked_softmax */
    vram__t m = vram__empty(s, att.d, VRAM_BOOL);
    t = vram__empty(s, att.d, att.dt);
    vram__let(s, att);
    vram__let(s, m);
    att = t;
  }
  vram__workspace(s, s->ws); /* into the storage of the query */
  if (!weights) {
    vram__let(s, att);
    att = vram__none();
  }
  size[0] = B * L, size[1] = E;
  t = L == 1 ? vram__alias(s, u, vram__dims_in(s, 2, size, NULL)) /* the heads lie together */
             : vram__empty(s, vram__dims_in(s, 2, size, NULL), u.dt);
  y[0] = vram__t_linear(s, t, vram__mha_param(s, n, VRAM__MHA_OUT),
                        vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__let(s, t);
  size[0] = B, size[1] = L, size[2] = E;
  t = vram__view(s, y[0], vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__let(s, y[0]);
  y[0] = t;
  if (weights) {
    size[0] = B, size[1] = h, size[2] = size[3] = L;
    att.d = vram__dims_in(s, 4, size, NULL);
    y[1] = vram__sum(s, att, 2, 0, att.dt);
    vram__let(s, att);
  }
  vram__let(s, u);
}

static vram__t vram__mha_sdpa(vram__s *s, const vram_node *n, const vram__t *in, vram__t mask,
                              int64_t B, int64_t h, int64_t p) {
  vram__t a[4], t;
  int64_t size[4];
  uint32_t i;
  a[3] = mask;
  if (mask.d && mask.d->v[0] == 1)
    a[3] = vram__t_unsqueeze(s, mask, 0);
  else if (mask.d) {
    size[0] = B, size[1] = h, size[2] = mask.d->v[1], size[3] = mask.d->v[2];
    a[3] = vram__t_reshape(s, mask, 4, size);
  }
  for (i = 0; i < 3; i++) {
    size[0] = B, size[1] = h, size[2] = in[i].d->v[1], size[3] = in[i].d->v[2];
    a[i] = vram__t_reshape(s, in[i], 4, size);
  }
  for (i = s->amp ? 4 : 0; i-- > 0;)
    if (a[i].d) {
      t = vram__autocast(s, a[i], s->amp);
      vram__let(s, a[i]);
      a[i] = t;
    }
  return vram__t_sdpa(s, n, a, p, 0, 0);
}

/* torch.nn.functional.multi_head_attention_forward */
static void vram__run_mha(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t h = VRAM__INT(n, num_heads, 1), p = s->train ? VRAM__INT(n, dropout, 0) : 0;
  const int batched = x[0].d->ndim == 3, first = batched && VRAM__INT(n, batch_first, 0),
            weights = VRAM__INT(n, need_weights, 1) != 0;
  const int same_kv = s->name_of[n->in[1]->index] == s->name_of[n->in[2]->index],
            same = same_kv && s->name_of[n->in[0]->index] == s->name_of[n->in[1]->index];
  const vram__t w = vram__mha_param(s, n, VRAM__MHA_IN), b = vram__mha_param(s, n, VRAM__MHA_BIAS);
  vram__t in[3], v[3], mask = vram__none(), given, q = mask, t, u, pw[3], pb[3];
  int64_t L, S, B, E, part[3], size[4], row[2] = {0, 1};
  uint32_t i, k;
  y[1] = vram__none();
  if (n->nin > 3) { /* F._canonical_mask: a bool mask as numbers */
    mask = x[3].dt == VRAM_BOOL ? vram__empty(s, vram__dense(s, x[3].d), x[0].dt)
                                : vram__keep_t(s, x[3]);
  }
  if (!s->grad && !s->train && !s->amp && first && same && h % 2 == 0 && b.d && w.d &&
      b.dt == x[0].dt && w.dt == x[0].dt && !n->param[VRAM__MHA_KEY] &&
      !n->param[VRAM__MHA_BIAS_K] && !VRAM__INT(n, add_zero_attn, 0) &&
      !(n->nin > 3 && vram__is_float(x[3].dt))) {
    vram__mha_native(s, n, x[0], mask, y);
    vram__let(s, mask);
    if (n->nout < 2) {
      vram__let(s, y[1]);
      y[1] = vram__none();
    }
    return;
  }
  given = vram__keep_t(s, mask); /* the module's forward holds it while that is padded */
  for (i = 0; i < 3; i++)
    if (batched && ((i == 1 && same) || (i == 2 && same_kv)))
      in[i] = vram__keep_t(s, in[i - 1]);
    else if (!batched)
      in[i] = vram__t_unsqueeze(s, x[i], 1);
    else
      in[i] = first ? vram__t_swap(s, x[i], 0, 1) : vram__keep_t(s, x[i]);
  L = in[0].d->v[0], B = in[0].d->v[1], E = in[0].d->v[2], S = in[1].d->v[0];
  if (batched && same && !n->param[VRAM__MHA_KEY]) {
    t = vram__mha_packed(s, in[0], w, b, 3);
    for (i = 0; i < 3; i++)
      v[i] = vram__t_select(s, t, i);
    vram__let(s, t);
  } else if (batched && same_kv && !n->param[VRAM__MHA_KEY]) {
    part[0] = E, part[1] = 2 * E;
    vram__t_split(s, w, 2, part, pw);
    pb[0] = pb[1] = vram__none();
    if (b.d)
      vram__t_split(s, b, 2, part, pb);
    v[0] = vram__t_linear(s, in[0], pw[0], pb[0]);
    t = vram__mha_packed(s, in[1], pw[1], pb[1], 2);
    v[1] = vram__t_select(s, t, 0), v[2] = vram__t_select(s, t, 1);
    vram__let(s, t);
    for (i = 0; i < 2; i++)
      vram__let(s, pw[i]), vram__let(s, pb[i]);
  } else {
    part[0] = part[1] = part[2] = E;
    if (n->param[VRAM__MHA_KEY]) {
      pw[0] = vram__keep_t(s, w);
      pw[1] = vram__keep_t(s, vram__mha_param(s, n, VRAM__MHA_KEY));
      pw[2] = vram__keep_t(s, vram__mha_param(s, n, VRAM__MHA_VALUE));
    } else
      vram__t_split(s, w, 3, part, pw);
    pb[0] = pb[1] = pb[2] = vram__none();
    if (b.d)
      vram__t_split(s, b, 3, part, pb);
    for (i = 0; i < 3; i++)
      v[i] = vram__t_linear(s, in[i], pw[i], pb[i]);
    for (i = 0; i < 3; i++)
      vram__let(s, pw[i]), vram__let(s, pb[i]);
  }
  if (mask.d && mask.d->ndim == 2) {
    t = vram__t_unsqueeze(s, mask, 0);
    vram__let(s, mask);
    mask = t;
  }
  for (k = 0; k < 2; k++) { /* bias_k and bias_v, then zeros, behind key and value */
    if (k ? !VRAM__INT(n, add_zero_attn, 0) : !n->param[VRAM__MHA_BIAS_K]) {
      for (i = 0; i < 3 && !k; i++)
        v[i] = vram__mha_heads(s, v[i], h);
      continue;
    }
    for (i = 1; i < 3; i++) {
      if (k) {
        size[0] = B * h, size[1] = 1, size[2] = E / h;
        t = vram__empty(s, vram__dims_in(s, 3, size, NULL), v[i].dt);
      } else {
        u = vram__mha_param(s, n, i == 1 ? VRAM__MHA_BIAS_K : VRAM__MHA_BIAS_V);
        size[0] = 1, size[1] = B, size[2] = E;
        t = vram__call_n(s, VRAM_OP_repeat, 0, &u, 1, NULL, vram__dims_in(s, 3, size, NULL));
      }
      v[i] = vram__t_cat2(s, v[i], t, k);
    }
    if (mask.d) {
      t = vram__t_pad(s, mask, row, 1, VRAM__PAD_CONSTANT);
      vram__let(s, mask);
      mask = t;
    }
    S++;
    for (i = 0; i < 3 && !k; i++)
      v[i] = vram__mha_heads(s, v[i], h);
  }
  if (weights) {
    vram__t f[3];
    q = v[0]; /* the variable q lives on */
    t = vram__call(s, VRAM_OP_mul, q, vram__none(), NULL);
    u = vram__t_swap(s, v[1], 1, 2);
    vram__let(s, v[1]);
    f[0] = mask, f[1] = t, f[2] = u;
    v[0] = mask.d ? vram__call_n(s, VRAM_OP_baddbmm, 0, f, 3, NULL, NULL)
                  : vram__call_n(s, VRAM_OP_bmm, 0, f + 1, 2, NULL, NULL);
    vram__let(s, u);
    vram__let(s, t);
    t = vram__t_softmax(s, VRAM_OP_softmax, v[0],
                        s->amp && vram__is_half(v[0].dt) ? (uint8_t)VRAM_F32 : v[0].dt);
    vram__let(s, v[0]);
    if (p) {
      int64_t attr[3];
      attr[0] = VRAM__KEY_p | 1 << 8, attr[1] = p, attr[2] = 0;
      u = vram__call(s, VRAM_OP_dropout, t, vram__none(), attr);
      vram__let(s, t);
      t = u;
    }
    f[0] = t, f[1] = v[2];
    u = vram__call_n(s, VRAM_OP_bmm, 0, f, 2, NULL, NULL);
    vram__let(s, v[2]);
    y[1] = t;
    t = vram__t_swap(s, u, 0, 1);
  } else {
    static const uint8_t order[] = {2, 0, 1, 3};
    u = vram__mha_sdpa(s, n, v, mask, B, h, p);
    for (i = 0; i < 3; i++)
      vram__let(s, v[i]);
    t = vram__t_permute(s, u, order);
  }
  vram__let(s, u);
  size[0] = L * B, size[1] = E;
  u = vram__t_reshape(s, t, 2, size);
  vram__let(s, t);
  t = vram__t_linear(s, u, vram__mha_param(s, n, VRAM__MHA_OUT),
                     vram__mha_param(s, n, VRAM__MHA_OUT_BIAS));
  vram__let(s, u);
  size[0] = L, size[1] = B, size[2] = E;
  y[0] = vram__view(s, t, vram__dims_in(s, 3, size, NULL), VRAM__K_view, 0);
  vram__let(s, t);
  if (weights) { /* averaged over the heads */
    static const int64_t mean[] = {VRAM__KEY_dim | 1 << 8, 1, 0};
    size[0] = B, size[1] = h, size[2] = L, size[3] = S;
    t = vram__view(s, y[1], vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__let(s, y[1]);
    y[1] = vram__call(s, VRAM_OP_mean, t, vram__none(), mean);
    vram__let(s, t);
  }
  vram__let(s, given);
  vram__let(s, mask);
  vram__let(s, q);
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  if (!batched) {
    t = vram__t_squeeze1(s, y[0], 1);
    vram__let(s, y[0]);
    y[0] = t;
    if (weights) {
      t = vram__t_squeeze1(s, y[1], 0);
      vram__let(s, y[1]);
      y[1] = t;
    }
  }
  if (first) {
    t = vram__t_swap(s, y[0], 0, 1);
    vram__let(s, y[0]);
    y[0] = t;
  }
  if (n->nout < 2) {
    vram__let(s, y[1]);
    y[1] = vram__none();
  }
}

/* ---- losses ---- */

enum { VRAM__RED_NONE, VRAM__RED_MEAN, VRAM__RED_SUM, VRAM__RED_BATCHMEAN };

static int vram__reduction(const vram_node *n) {
  int64_t w = VRAM__INT(n, reduction, VRAM__WORD("mean"));
  return w == VRAM__WORD("none")        ? VRAM__RED_NONE
         : w == VRAM__WORD("sum")       ? VRAM__RED_SUM
         : w == VRAM__WORD("batchmean") ? VRAM__RED_BATCHMEAN
                                        : VRAM__RED_MEAN;
}

/* nll_loss_nd: rows of two axes or images; others are viewed as images of one line */
static vram__t vram__t_nll(vram__s *s, vram__t x, vram__t target, int red) {
  vram__t p = vram__keep_t(s, x), t, y, w;
  const vram_dims *d = x.d, *out = s->scalar;
  vram__fn *f;
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0, n = d->ndim, image = n > 2;
  if (image && n != 4) {
    size[0] = d->v[0], size[1] = d->v[1], size[2] = size[3] = 1;
    for (i = 2; i < n; i++)
      size[3] *= d->v[i];
    vram__let(s, p);
    t = vram__t_contiguous(s, x);
    p = vram__view(s, t, vram__dims_in(s, 4, size, NULL), VRAM__K_view, 0);
    vram__let(s, t);
  }
  if (s->amp) {
    t = vram__autocast(s, p, VRAM_F32);
    vram__let(s, p);
    p = t;
  }
  if (red == VRAM__RED_NONE) {
    for (i = 0; i < p.d->ndim; i++)
      if (i != 1 && n > 1)
        size[m++] = p.d->v[i];
    out = vram__dims_in(s, m, size, NULL);
  }
  f = vram__record(s, VRAM__K_nll, &p, 1, 1, 3);
  if (image)
    w = vram__empty(s, s->scalar, p.dt), y = vram__empty(s, out, p.dt);
  else
    y = vram__empty(s, out, p.dt), w = vram__empty(s, s->scalar, p.dt);
  if (!image || red != VRAM__RED_NONE) {
    t = vram__format_copy(s, p, 0);
    vram__let(s, t);
  }
  if (f)
    vram__save(s, f, p), vram__save(s, f, target), vram__save(s, f, w);
  vram__let(s, w);
  vram__made(s, f, 0, &y);
  vram__let(s, p);
  if (image && n != 4 && red == VRAM__RED_NONE) {
    for (i = 0, m = 0; i < n; i++)
      if (i != 1)
        size[m++] = d->v[i];
    t = vram__view(s, y, vram__dims_in(s, m, size, NULL), VRAM__K_view, 0);
    vram__let(s, y);
    y = t;
  }
  return y;
}

static void vram__bw_nll(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t p = VRAM__SAVED(f)[0], c;
  to[0] = vram__empty(s, vram__contig(s, p.d), p.dt);
  c = vram__format_copy(s, p, 0);
  vram__let(s, c);
}

/* Loss.cpp, apply_loss_reduction; takes t */
static vram__t vram__t_reduced(vram__s *s, vram__t t, int red) {
  vram__t y;
  if (red == VRAM__RED_NONE)
    return t;
  y = vram__call(s, red == VRAM__RED_MEAN ? VRAM_OP_mean : VRAM_OP_sum, t, vram__none(), NULL);
  vram__let(s, t);
  if (red == VRAM__RED_BATCHMEAN) {
    t = y;
    y = vram__call(s, VRAM_OP_div, t, vram__none(), NULL);
    vram__let(s, t);
  }
  return y;
}

/* A target of the op's own: zeros like x. Inputs of a loss, expanded to each other as
   torch.broadcast_tensors does, on autocast's fp32 list: the last one cast first. Owned; behind
   them what the Python function's variables hold of the op's own targets. */
static void vram__loss_args(vram__s *s, const vram_node *n, vram__t *x, uint32_t count, int expand,
                            vram__t *a) {
  uint32_t i, k;
  for (i = 0; i < count; i++)
    a[i] = i < n->nin ? vram__keep_t(s, x[i]) : vram__empty(s, vram__dense(s, x[0].d), x[0].dt);
  for (i = 0; i < count; i++)
    a[count + i] = i < n->nin ? vram__none() : vram__keep_t(s, a[i]);
  for (k = 0; expand && k < count; k++) {
    int64_t size[VRAM_MAX_AXES];
    uint32_t nd = 0, j;
    vram__t t;
    for (i = 0; i < count; i++)
      vram__bcast(&nd, size, a[i].d);
    for (j = 0; a[k].d->ndim == nd && j < nd && a[k].d->v[j] == size[j];)
      j++;
    if (j == nd)
      continue;
    t = vram__t_expand(s, a[k], nd, size);
    vram__let(s, a[k]);
    a[k] = t;
  }
  for (i = count; s->amp && i-- > 0;) {
    vram__t t = vram__autocast(s, a[i], VRAM_F32);
    vram__let(s, a[i]);
    a[i] = t;
  }
}

/* Distance.cpp, pairwise_distance */
static vram__t vram__t_distance(vram__s *s, vram__t a, vram__t b) {
  static const int64_t last[] = {VRAM__KEY_dim | 1 << 8, -1, 0};
  vram__t t = vram__call(s, VRAM_OP_sub, a, b, NULL), u, y;
  u = vram__call(s, VRAM_OP_add, t, vram__none(), NULL);
  y = vram__call(s, VRAM_OP_norm, u, vram__none(), last);
  vram__let(s, t);
  vram__let(s, u);
  return y;
}

/* Loss.cpp, triplet_margin_loss */
static void vram__run_triplet(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[6], pos, neg, t, u;
  const uint8_t amp = s->amp;
  uint32_t i;
  vram__loss_args(s, n, x, 3, 0, a);
  s->amp = 0;
  pos = vram__t_distance(s, a[0], a[1]);
  neg = vram__t_distance(s, a[0], a[2]);
  if (VRAM__INT(n, swap, 0)) {
    t = vram__t_distance(s, a[1], a[2]);
    u = vram__call(s, VRAM_OP_minimum, neg, t, NULL);
    vram__let(s, neg);
    vram__let(s, t);
    neg = u;
  }
  t = vram__call(s, VRAM_OP_add, pos, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_sub, t, neg, NULL);
  y[0] = vram__call(s, VRAM_OP_clamp, u, vram__none(), NULL);
  vram__let(s, u);
  vram__let(s, t);
  y[0] = vram__t_reduced(s, y[0], vram__reduction(n));
  vram__let(s, neg);
  vram__let(s, pos);
  s->amp = amp;
  for (i = 6; i-- > 0;)
    vram__let(s, a[i]);
}

/* Loss.cpp, cosine_embedding_loss */
static void vram__run_cosine(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t a[3], held[3], m[3], cos, zeros, pos, neg, t, u, b[3], w[2];
  const uint8_t amp = s->amp;
  const uint32_t nd = x[0].d->ndim;
  int64_t attr[3];
  uint32_t i;
  for (i = 0; i < 3; i++) { /* inputs or targets of the op's own, which the caller holds */
    a[i] = i < n->nin ? vram__keep_t(s, x[i])
           : i == 1   ? vram__empty(s, vram__dense(s, x[0].d), x[0].dt)
                      : vram__empty(s, vram__dims_in(s, nd - 1, x[0].d->v, NULL), x[0].dt);
    held[i] = vram__keep_t(s, a[i]);
  }
  if (s->amp)
    for (i = 3; i-- > 0;) {
      vram__let(s, a[i]);
      a[i] = vram__autocast(s, held[i], VRAM_F32);
    }
  s->amp = 0;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = (int64_t)nd - 1, attr[2] = 0;
  for (i = 0; i < 3; i++) { /* a.b, a.a, b.b */
    t = vram__call(s, VRAM_OP_mul, a[i == 2], a[i != 1], NULL);
    m[i] = vram__call(s, VRAM_OP_sum, t, vram__none(), attr);
    if (i) {
      u = vram__call(s, VRAM_OP_add, m[i], vram__none(), NULL);
      vram__let(s, m[i]);
      m[i] = u;
    }
    vram__let(s, t);
  }
  t = vram__call(s, VRAM_OP_mul, m[1], m[2], NULL);
  vram__call_in_place(s, VRAM_OP_sqrt, &t, vram__none());
  cos = vram__call(s, VRAM_OP_div, m[0], t, NULL);
  zeros = vram__ti1(s, cos);
  pos = vram__ti1(s, cos); /* ones, cos subtracted in place */
  vram__call_in_place(s, VRAM_OP_sub, &pos, cos);
  neg = vram__call(s, VRAM_OP_sub, cos, vram__none(), NULL);
  vram__call_in_place(s, VRAM_OP_clamp, &neg, vram__none());
  for (i = 0; i < 2; i++) { /* where(target == 1 or -1, pos or neg, zeros) */
    b[0] = vram__empty(s, vram__dense(s, a[2].d), VRAM_BOOL);
    b[1] = i ? neg : pos, b[2] = zeros;
    w[i] = vram__call_n(s, VRAM_OP_where, 0, b, 3, NULL, NULL);
    vram__let(s, b[0]);
  }
  y[0] = vram__call(s, VRAM_OP_add, w[0], w[1], NULL);
  y[0] = vram__t_reduced(s, y[0], vram__reduction(n));
  vram__let(s, w[1]), vram__let(s, w[0]);
  vram__let(s, neg);
  vram__let(s, pos);
  vram__let(s, zeros);
  vram__let(s, cos);
  vram__let(s, t);
  for (i = 3; i-- > 0;)
    vram__let(s, m[i]);
  s->amp = amp;
  for (i = 3; i-- > 0;)
    vram__let(s, a[i]), vram__let(s, held[i]);
}

/* xlogy(x, x) */
static vram__t vram__t_xlogx(vram__s *s, vram__t x) {
  vram__t in[2], y;
  vram__fn *f;
  in[0] = in[1] = x;
  f = vram__record(s, VRAM__K_xlogx, in, 2, 1, 1);
  y = vram__ti1(s, x);
  if (f)
    vram__save(s, f, x);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__bw_xlogx(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0];
  vram__t t = vram__ti2(s, g, x), m[3];
  uint32_t i;
  to[1] = vram__ti2(s, t, x);
  vram__let(s, t);
  t = vram__ti2(s, g, x);
  for (i = 0; i < 3; i++) /* x == 0, x <= 0, both */
    m[i] = vram__empty(s, vram__dense(s, x.d), VRAM_BOOL);
  to[0] = vram__ti1(s, t);
  while (i-- > 0)
    vram__let(s, m[i]);
  vram__let(s, t);
}

static vram__t vram__sum_all(vram__s *s, vram__t x) {
  return vram__sum(s, x, x.d->ndim ? (1u << x.d->ndim) - 1 : 0, 0, x.dt);
}

/* Loss.cpp, PointwiseOps: losses of two tensors */
static void vram__run_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int red = vram__reduction(n), none = red == VRAM__RED_NONE;
  const uint8_t amp = s->amp;
  const vram_dims *d[2];
  vram__t a[4], t, u, v;
  uint32_t i;
  vram__fn *f;
  vram__loss_args(s, n, x, 2,
                  n->op != VRAM_OP_kl_div && n->op != VRAM_OP_binary_cross_entropy &&
                      n->op != VRAM_OP_binary_cross_entropy_with_logits,
                  a);
  s->amp = 0; /* inside, autocast is off */
  switch (n->op) {
  case VRAM_OP_l1_loss:
    t = vram__call(s, VRAM_OP_sub, a[0], a[1], NULL);
    u = vram__call(s, VRAM_OP_abs, t, vram__none(), NULL);
    y[0] = vram__t_reduced(s, u, red); /* one C++ expression: temporaries go at its end */
    vram__let(s, t);
    break;
  case VRAM_OP_kl_div:
    if (VRAM__INT(n, log_target, 0)) {
      t = vram__call(s, VRAM_OP_sub, a[1], a[0], NULL);
      u = vram__call(s, VRAM_OP_exp, a[1], vram__none(), NULL);
      v = vram__call(s, VRAM_OP_mul, u, t, NULL);
    } else {
      t = vram__call(s, VRAM_OP_mul, a[1], a[0], NULL);
      u = vram__t_xlogx(s, a[1]);
      v = vram__call(s, VRAM_OP_sub, u, t, NULL);
    }
    vram__let(s, u);
    vram__let(s, t);
    y[0] = vram__t_reduced(s, v, red);
    break;
  default: /* one kernel for all elements; some reductions leave the scalar in its storage */
    if (amp && n->op == VRAM_OP_binary_cross_entropy) {
      s->problem = "binary_cross_entropy does not run under autocast (expected "
                   "binary_cross_entropy_with_logits)";
      s->failed = VRAM_ERR_UNSUPPORTED;
    }
    f = vram__record(s, n->op, a, 2, 1, 2);
    d[0] = a[0].d, d[1] = a[1].d;
    t = vram__empty(s, vram__ti(s, d, 2),
                    n->op == VRAM_OP_binary_cross_entropy_with_logits || n->op == VRAM_OP_huber_loss
                        ? a[0].dt
                        : vram__result2(a[0], a[1]));
    switch (n->op) {
    case VRAM_OP_binary_cross_entropy_with_logits:
      u = vram__empty(s, t.d, vram__result2(a[0], a[1]));
      v = none ? vram__keep_t(s, u) : vram__sum_all(s, u);
      vram__let(s, u);
      vram__let(s, t);
      t = v;
      break;
    case VRAM_OP_huber_loss:
      if (none)
        break;
      u = vram__sum_all(s, t);
      vram__let(s, t);
      t = u;
      break;
    case VRAM_OP_binary_cross_entropy:
      if (none)
        break;
      u = vram__sum_all(s, t);
      vram__let(s, u);
      t.d = s->scalar;
      break;
    default:
      if (none)
        break;
      u = vram__empty(s, t.d, t.dt);
      vram__reduce(s, u, u.d->ndim ? (1u << u.d->ndim) - 1 : 0, u.dt,
                   vram__size_of(u.dt) < 4 ? 4 : vram__size_of(u.dt), 4);
      vram__let(s, u);
      t.d = s->scalar;
    }
    if (f)
      vram__save(s, f, a[0]), vram__save(s, f, a[1]);
    vram__made(s, f, 0, &t);
    y[0] = t;
  }
  s->amp = amp;
  for (i = 4; i-- > 0;)
    vram__let(s, a[i]);
}

static void vram__bw_loss(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram__t x = VRAM__SAVED(f)[i];
    vram__t t = vram__none();
    if (!vram__wants(f, i))
      continue;
    if (f->kind == VRAM_OP_binary_cross_entropy_with_logits && i) {
      t = vram__ti1(s, VRAM__SAVED(f)[0]); /* -input, times the gradient */
      to[i] = vram__ti2(s, t, VRAM__SLOTS(f)[0].g);
    } else if (f->kind == VRAM_OP_binary_cross_entropy ||
               f->kind == VRAM_OP_binary_cross_entropy_with_logits)
      to[i] = vram__empty(s, vram__dense(s, VRAM__SAVED(f)[0].d), x.dt);
    else
      to[i] = vram__empty(s, vram__contig(s, x.d), x.dt);
    vram__let(s, t);
  }
}

/* LossNLL.cpp, cross_entropy_loss_label_smoothing: what is added to the loss y of log-softmax p */
static vram__t vram__t_smoothed(vram__s *s, vram__t p, vram__t target, vram__t y, int red) {
  int64_t attr[3];
  vram__t smooth, mask, t, u, r, count, a;
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  t = vram__call(s, VRAM_OP_sum, p, vram__none(), attr);
  smooth = vram__call(s, VRAM_OP_neg, t, vram__none(), NULL);
  vram__let(s, t);
  mask = vram__empty(s, vram__dense(s, target.d), VRAM_BOOL);
  vram__call_in_place(s, VRAM_OP_masked_fill, &smooth, mask);
  if (red == VRAM__RED_MEAN) {
    t = vram__ti1(s, mask);
    count = vram__sum(s, t, t.d->ndim ? (1u << t.d->ndim) - 1 : 0, 0, VRAM_I64);
    u = vram__call(s, VRAM_OP_sum, smooth, vram__none(), NULL);
    r = vram__call(s, VRAM_OP_div, u, count, NULL);
    vram__let(s, u);
    vram__let(s, count);
    vram__let(s, t);
  } else
    r = red == VRAM__RED_SUM ? vram__call(s, VRAM_OP_sum, smooth, vram__none(), NULL)
                             : vram__keep_t(s, smooth);
  t = vram__call(s, VRAM_OP_mul, r, vram__none(), NULL);
  u = vram__call(s, VRAM_OP_mul, y, vram__none(), NULL);
  a = vram__call(s, VRAM_OP_add, u, t, NULL);
  vram__let(s, u);
  vram__let(s, t);
  vram__let(s, r);
  vram__let(s, mask);
  vram__let(s, smooth);
  return a;
}

/* LossNLL.cpp, cross_entropy_loss_prob_target */
static vram__t vram__t_prob_loss(vram__s *s, vram__t p, vram__t target, int smoothing, int red) {
  int64_t attr[3];
  vram__t t = vram__keep_t(s, target), u, sum, neg;
  if (smoothing) {
    vram__let(s, t);
    u = vram__call(s, VRAM_OP_mul, target, vram__none(), NULL);
    t = vram__call(s, VRAM_OP_add, u, vram__none(), NULL);
    vram__let(s, u);
  }
  attr[0] = VRAM__KEY_dim | 1 << 8, attr[1] = p.d->ndim > 1, attr[2] = 0;
  u = vram__call(s, VRAM_OP_mul, p, t, NULL);
  sum = vram__call(s, VRAM_OP_sum, u, vram__none(), red == VRAM__RED_NONE ? attr : NULL);
  neg = vram__call(s, VRAM_OP_neg, sum, vram__none(), NULL);
  if (red == VRAM__RED_MEAN) {
    vram__t d = vram__call(s, VRAM_OP_div, neg, vram__none(), NULL);
    vram__let(s, neg);
    neg = d;
  }
  vram__let(s, sum);
  vram__let(s, u);
  vram__let(s, t);
  return neg;
}

/* Class numbers for x, if the model does not give any. */
static vram__t vram__classes(vram__s *s, const vram_dims *d) {
  int64_t size[VRAM_MAX_AXES];
  uint32_t i, m = 0;
  for (i = 0; i < d->ndim; i++)
    if (i != (d->ndim > 1))
      size[m++] = d->v[i];
  return vram__empty(s, vram__dims_in(s, m, size, NULL), VRAM_I64);
}

/* LossNLL.cpp, cross_entropy_loss and nll_loss */
static void vram__run_cross_entropy(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t t = n->nin > 1 ? vram__keep_t(s, x[1]) : vram__classes(s, x[0].d), p, u;
  const int red = vram__reduction(n), smoothing = VRAM__INT(n, label_smoothing, 0) > 0;
  if (n->op == VRAM_OP_cross_entropy)
    p = vram__t_softmax(s, VRAM_OP_log_softmax, x[0], x[0].dt);
  else
    p = vram__keep_t(s, x[0]);
  if (vram__is_float(t.dt))
    y[0] = vram__t_prob_loss(s, p, t, smoothing, red);
  else {
    y[0] = vram__t_nll(s, p, t, red);
    if (smoothing && n->op == VRAM_OP_cross_entropy) {
      u = vram__t_smoothed(s, p, t, y[0], red);
      vram__let(s, y[0]);
      y[0] = u;
    }
  }
  vram__let(s, p);
  vram__let(s, t);
}

/* LossCTC.cu. Lengths are on the host, all as long as the tensors allow. */
static void vram__run_ctc_loss(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = x[0].d;
  const int64_t batch = d->ndim > 2 ? d->v[1] : 1, steps = d->v[0];
  const int red = vram__reduction(n);
  const uint64_t lengths = vram__mul(8, (uint64_t)batch);
  int64_t size[2], most;
  vram__t target, h[3], alpha, t, u;
  vram__fn *f;
  uint32_t i;
  size[0] = batch, size[1] = steps;
  target = n->nin > 1 ? vram__to(s, x[1], VRAM_I64) /* LossCTC.cpp, ctc_loss */
                      : vram__empty(s, vram__dims_in(s, 2, size, NULL), VRAM_I64);
  most = target.d->ndim > 1 ? target.d->v[1]
                            : vram__div_up((int64_t)target.d->numel, batch ? batch : 1);
  f = vram__record(s, VRAM__K_ctc, x, 1, 1, 4);
  for (i = 0; i < 3; i++)
    h[i] = vram__raw(s, lengths);
  alpha = vram__raw(s, vram__mul4(batch, steps, 2 * most + 1, vram__size_of(x[0].dt)));
  y[0] = vram__empty(s, d->ndim > 2 ? vram__dims_in(s, 1, &batch, NULL) : s->scalar, x[0].dt);
  vram__let(s, h[1]), vram__let(s, h[0]), vram__let(s, h[2]);
  if (f) {
    f->aux = alpha.st ? (s->top - alpha.st)->bytes : 0;
    vram__save(s, f, x[0]), vram__save(s, f, y[0]), vram__save(s, f, alpha);
    vram__save(s, f, target);
  }
  vram__let(s, alpha);
  vram__let(s, target);
  vram__made(s, f, 0, &y[0]);
  if (VRAM__INT(n, zero_infinity, 0)) {
    u = vram__empty(s, s->scalar, y[0].dt);
    h[0] = vram__empty(s, y[0].d, VRAM_BOOL);
    h[1] = u, h[2] = y[0];
    t = vram__call_n(s, VRAM_OP_where, 0, h, 3, NULL, NULL);
    vram__let(s, h[0]);
    vram__let(s, u);
    vram__let(s, y[0]);
    y[0] = t;
  }
  if (red == VRAM__RED_MEAN) {
    t = vram__empty(s, y[0].d, y[0].dt); /* the lengths of the targets, and at least 1 */
    u = vram__ti1(s, t);
    vram__let(s, t);
    t = vram__call(s, VRAM_OP_div, y[0], u, NULL);
    vram__let(s, u);
    vram__let(s, y[0]);
    y[0] = t;
  }
  y[0] = vram__t_reduced(s, y[0], red);
}

static void vram__bw_ctc(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t x = VRAM__SAVED(f)[0];
  const uint64_t lengths = vram__mul(8, x.d->ndim > 2 ? (uint64_t)x.d->v[1] : 1);
  vram__t h[3], beta;
  uint32_t i;
  for (i = 0; i < 3; i++)
    h[i] = vram__raw(s, lengths);
  beta = vram__raw(s, f->aux);
  to[0] = vram__empty(s, vram__contig(s, x.d), x.dt);
  vram__let(s, beta);
  vram__let(s, h[1]), vram__let(s, h[0]), vram__let(s, h[2]);
}

/* torch.nn.functional.gumbel_softmax */
static void vram__run_gumbel_softmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t t, u, g, soft;
  t = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
  u = vram__call(s, VRAM_OP_log, t, vram__none(), NULL);
  vram__let(s, t);
  g = vram__call(s, VRAM_OP_neg, u, vram__none(), NULL);
  vram__let(s, u);
  t = vram__call(s, VRAM_OP_add, x[0], g, NULL);
  u = vram__call(s, VRAM_OP_div, t, vram__none(), NULL);
  vram__let(s, t);
  vram__let(s, g);
  soft = vram__t_softmax(s, VRAM_OP_softmax, u,
                         s->amp && vram__is_half(u.dt) ? (uint8_t)VRAM_F32 : u.dt);
  if (!VRAM__INT(n, hard, 0))
    y[0] = soft;
  else { /* the largest of each row, as a one, minus soft without its gradient, plus soft */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i, a = 0;
    vram__t max, index, one;
    vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = i == a ? 1 : x[0].d->v[i];
    max = vram__empty(s, vram__dims_in(s, i, size, NULL), soft.dt);
    index = vram__empty(s, max.d, VRAM_I64);
    vram__let(s, max);
    one = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
    t = soft;
    t.req = 0, t.fn = 0;
    t = vram__call(s, VRAM_OP_sub, one, t, NULL);
    y[0] = vram__call(s, VRAM_OP_add, t, soft, NULL);
    vram__let(s, t);
    vram__let(s, index);
    vram__let(s, one);
    vram__let(s, soft);
  }
  vram__let(s, u);
}

/* An operand of a contraction: the axes of t stand at these positions, ascending; all others are 1.
 */
typedef struct vram__operand {
  vram__t t;
  uint8_t at[VRAM_MAX_AXES];
  int64_t
      one[VRAM__MAX_LABELS]; /* strides of positions of size 1: BLAS looks at the last of them */
} vram__operand;

static uint64_t vram__places(const vram__operand *o) {
  uint64_t m = 0;
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    m |= UINT64_C(1) << o->at[i];
  return m;
}

static int64_t vram__size_at(const vram__operand *o, uint32_t at) {
  uint32_t i;
  for (i = 0; i < o->t.d->ndim; i++)
    if (o->at[i] == at)
      return o->t.d->v[i];
  return 1;
}

static int vram__top_bit(uint64_t m) {
  int i = -1;
  for (; m; m >>= 1)
    i++;
  return i;
}

/* o is contiguous, its positions in the order of these groups: the strides of those of size 1 */
static void vram__ones(vram__operand *o, const uint64_t *group, uint32_t groups) {
  int64_t z = 1;
  uint32_t g, i;
  for (g = groups; g-- > 0;)
    for (i = VRAM__MAX_LABELS; i-- > 0;)
      if (group[g] >> i & 1)
        o->one[i] = z, z *= vram__size_at(o, i);
}

/* o.sum over these positions of n; takes the old tensor */
static void vram__sum_places(vram__s *s, vram__operand *o, uint64_t places, uint32_t n) {
  uint64_t all = (UINT64_C(1) << n) - 1;
  uint32_t i, m = 0, mask = 0;
  vram__fn *f;
  vram__t y;
  for (i = 0; i < o->t.d->ndim; i++)
    if (places >> o->at[i] & 1)
      mask |= 1u << i;
    else
      o->at[m++] = o->at[i];
  if (!mask)
    return;
  f = vram__record(s, VRAM_OP_sum, &o->t, 1, 1, 0);
  if (f)
    f->aux = mask;
  y = vram__sum(s, o->t, mask, 0, o->t.dt);
  vram__made(s, f, 0, &y);
  vram__let(s, o->t);
  o->t = y;
  vram__ones(o, &all, 1);
}

/* o as a view with all these positions as axes, for a product with broadcasting */
static vram__t vram__spread(vram__s *s, const vram__operand *o, uint64_t places) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint32_t i, k = 0, m = 0;
  for (i = 0; i < VRAM__MAX_LABELS && m < VRAM_MAX_AXES; i++)
    if (places >> i & 1) {
      if (k < o->t.d->ndim && o->at[k] == i)
        size[m] = o->t.d->v[k], stride[m++] = VRAM__STRIDE(o->t.d)[k++];
      else
        size[m] = 1, stride[m++] = k < o->t.d->ndim ? o->t.d->v[k] * VRAM__STRIDE(o->t.d)[k] : 1;
    }
  return vram__view(s, o->t, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
}

/* o permuted to three groups of positions and each group made one axis; `last`: the position that
   comes last of all, also if it is of size 1 */
static vram__t vram__grouped(vram__s *s, const vram__operand *o, const uint64_t *group, int last) {
  uint8_t order[VRAM_MAX_AXES];
  int64_t size[3], stride[VRAM_MAX_AXES];
  uint32_t i, k, m = 0;
  vram__t p, q;
  for (k = 0; k < 3; k++)
    for (size[k] = 1, i = 0; i < o->t.d->ndim; i++)
      if (group[k] >> o->at[i] & 1)
        order[m++] = (uint8_t)i, size[k] *= o->t.d->v[i];
  p = vram__t_permute(s, o->t, order);
  if (size[2] == 1 && last >= 0 && vram__size_at(o, (uint32_t)last) == 1 && !s->ideal &&
      vram__view_strides(p.d, 3, size, stride)) { /* computeStride takes the last axis' stride */
    stride[2] = o->one[last];
    q = vram__view(s, p, vram__dims_in(s, 3, size, stride), VRAM__K_view, 0);
  } else
    q = vram__t_reshape(s, p, 3, size);
  vram__let(s, p);
  return q;
}

static vram__t vram__t_mul(vram__s *s, vram__t a, vram__t b) {
  vram__t in[2];
  in[0] = a, in[1] = b;
  return vram__t_pointwise(s, VRAM_OP_mul, in, 2);
}

/* Linear.cpp, sumproduct_pair: the product of a and b summed over the positions `sum` of n; takes
   both. It is a batched product of (both, only a, sum) and (both, sum, only b), or a pointwise one.
 */
static vram__operand vram__pair(vram__s *s, vram__operand a, vram__operand b, uint64_t sum,
                                uint32_t n, int nout) {
  uint64_t pa, pb, both, la, lb, group[4], m, all = (UINT64_C(1) << n) - 1;
  int last[2];
  int64_t size[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES], at[VRAM_MAX_AXES];
  uint32_t i, j, k = 0;
  vram__operand y;
  vram__t p, q;
  if (!sum) {
    pa = vram__places(&a) | vram__places(&b);
    p = vram__spread(s, &a, pa);
    vram__let(s, a.t);
    q = vram__spread(s, &b, pa);
    vram__let(s, b.t);
    y.t = vram__t_mul(s, p, q);
    vram__let(s, p);
    vram__let(s, q);
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (pa >> i & 1)
        y.at[k++] = (uint8_t)i;
    vram__ones(&y, &all, 1);
    return y;
  }
  m = vram__places(&a) ^ vram__places(&b);
  vram__sum_places(s, &a, m & sum, n);
  vram__sum_places(s, &b, m & sum, n);
  pa = vram__places(&a), pb = vram__places(&b);
  both = pa & pb & ~sum, la = pa & ~pb & ~sum, lb = pb & ~pa & ~sum;
  /* positions that are 1 in both count as b's; if all of b's are in front of those of a, the other
     way round the result needs no transposing */
  pa = la, pb = all & ~sum & ~both & ~la;
  if (la && pb && pb < (la & (0 - la))) {
    vram__operand t = a;
    a = b, b = t;
    m = la, la = lb, lb = m;
    m = pa, pa = pb, pb = m;
  }
  last[0] = vram__top_bit(pb ? pb : sum ? sum : pa ? pa : both);
  last[1] = vram__top_bit(pa ? pa : pb ? pb : sum ? sum : both);
  group[0] = both, group[1] = la, group[2] = sum;
  p = vram__grouped(s, &a, group, last[0]);
  group[1] = sum, group[2] = lb;
  q = vram__grouped(s, &b, group, last[1]);
  y.t = vram__t_product(s, VRAM__K_bmm, p, q);
  group[1] = la;
  for (j = 0; j < 3; j++)
    for (i = 0; i < n && k < VRAM_MAX_AXES; i++)
      if (group[j] >> i & 1) {
        at[k] = (uint8_t)i;
        size[k++] = vram__size_at(j < 2 ? &a : &b, i);
      }
  vram__let(s, a.t);
  vram__let(s, b.t);
  vram__let(s, p);
  vram__let(s, q);
  /* einsum squeezes what was summed at the end: backward's unsqueeze gives it stride 1 */
  p = vram__view(s, y.t, vram__dims_in(s, k, size, NULL), VRAM__K_view, !lb && last[0] >= nout);
  vram__let(s, y.t);
  for (m = both | la | lb, j = 0, i = 0; i < n && j < k; i++)
    if (m >> i & 1) {
      uint32_t o = 0;
      while (at[o] != i)
        o++;
      y.at[j] = (uint8_t)i;
      order[j++] = (uint8_t)o;
    }
  y.t = vram__t_permute(s, p, order);
  vram__let(s, p);
  group[0] = both, group[1] = pa, group[2] = sum, group[3] = pb;
  vram__ones(&y, group, 4);
  return y;
}

/* An operand of einsum: diagonals of labels that come twice, axes of size 1 left out, in order of
   their positions. Takes x. */
static vram__operand vram__einsum_operand(vram__s *s, vram__t x, uint8_t *at,
                                          const vram__labels *l) {
  int64_t size[VRAM_MAX_AXES], stride[VRAM_MAX_AXES];
  uint8_t order[VRAM_MAX_AXES];
  uint32_t i, j, k, m;
  vram__operand o;
  vram__t t;
  for (i = 0; i < VRAM__MAX_LABELS; i++)
    o.one[i] = 1;
  for (i = 0; i < x.d->ndim;
       i++) /* axes that the ellipsis lacks here stand in front of its others */
    if (at[i] >= l->dots_at && at[i] < l->dots_at + l->dots)
      for (j = l->dots_at; j < at[i]; j++)
        o.one[j] = x.d->v[i] * VRAM__STRIDE(x.d)[i], i = x.d->ndim - 1;
  for (j = 1; j < x.d->ndim; j++)
    for (i = 0; i < j; i++)
      if (at[i] == at[j]) {
        for (m = 0, k = 0; k < x.d->ndim; k++)
          if (k != j)
            size[m] = x.d->v[k],
            stride[m++] = VRAM__STRIDE(x.d)[k] + (k == i ? VRAM__STRIDE(x.d)[j] : 0);
        for (k = j; k < m; k++)
          at[k] = at[k + 1];
        t = vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM__K_slice, 0);
        vram__let(s, x);
        x = t;
        j--;
        break;
      }
  for (m = 0, i = 0; i < x.d->ndim; i++)
    if (x.d->v[i] == 1)
      o.one[at[i]] = VRAM__STRIDE(x.d)[i];
    else
      at[m] = at[i], size[m] = x.d->v[i], stride[m++] = VRAM__STRIDE(x.d)[i];
  if (m < x.d->ndim) {
    t = vram__view(s, x, vram__dims_in(s, m, size, stride), VRAM__K_view, 0);
    vram__let(s, x);
    x = t;
  }
  for (i = 0; i < m; i++) {
    for (j = i; j > 0 && at[order[j - 1]] > at[i]; j--)
      order[j] = order[j - 1];
    order[j] = (uint8_t)i;
  }
  for (i = 0; i < m; i++)
    o.at[i] = at[order[i]];
  o.t = vram__t_permute(s, x, order);
  vram__let(s, x);
  return o;
}

/* Operands from left to right; a label is summed as soon as no later operand has it. */
static void vram__run_einsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__labels l;
  const char *what, *p;
  uint8_t at[VRAM_MAX_AXES];
  int64_t stride[VRAM_MAX_AXES];
  uint64_t sum, sa, sb;
  uint32_t i, k, m;
  vram__operand a, b;
  vram__label_all(&l, n, &what);
  p = l.text;
  for (k = 0; k < n->nin; k++)
    x[k] = s->amp ? vram__autocast(s, x[k], s->amp) : vram__keep_t(s, x[k]);
  vram__label_axes(&l, &p, x[0].d->ndim, at); /* autocast's list of casts stays until the end */
  a = vram__einsum_operand(s, vram__keep_t(s, x[0]), at, &l);
  for (k = 1; k < n->nin; k++) {
    vram__label_axes(&l, &p, x[k].d->ndim, at);
    b = vram__einsum_operand(s, vram__keep_t(s, x[k]), at, &l);
    sum = sa = sb = 0;
    for (i = l.nout; i < l.n; i++) {
      int in_a = (int)(vram__places(&a) >> i & 1), in_b = (int)(vram__places(&b) >> i & 1);
      uint64_t bit = UINT64_C(1) << i;
      if (in_a && in_b) {
        if (--l.count[i] == 1)
          sum |= bit;
      } else if (l.count[i] == 1)
        sa |= in_a ? bit : 0, sb |= in_b ? bit : 0;
    }
    vram__sum_places(s, &a, sa, l.n);
    vram__sum_places(s, &b, sb, l.n);
    a = vram__pair(s, a, b, sum, l.n, (int)l.nout);
  }
  vram__sum_places(s, &a, ~((UINT64_C(1) << l.nout) - 1), l.n);
  for (m = 0, i = 0; i < l.nout; i++) /* the axes of size 1 come back */
    if (m < a.t.d->ndim && a.at[m] == i)
      stride[i] = VRAM__STRIDE(a.t.d)[m++];
    else
      stride[i] = m < a.t.d->ndim ? a.t.d->v[m] * VRAM__STRIDE(a.t.d)[m] : 1;
  if (l.nout == a.t.d->ndim)
    y[0] = a.t;
  else {
    y[0] = vram__view(s, a.t, vram__dims_in(s, l.nout, n->out[0].d->v, stride), VRAM__K_view, 0);
    vram__let(s, a.t);
  }
  for (k = 0; k < n->nin; k++)
    vram__let(s, x[k]);
}

/* Linear.cpp, _trilinear: three tensors over the positions 0..3 (each lacks those of its mask
   `without`), multiplied and summed over the positions `sum`, one index of position 1 after the
   other. */
static vram__t vram__trilinear(vram__s *s, const vram__t *in, const uint32_t *without,
                               uint32_t sum) {
  vram__operand o[3], p;
  int64_t size[4], stride[4], rounds = 1, full[4];
  uint32_t i, j, a, m;
  uint64_t first = sum & without[2] & ~2u, rest = sum & ~without[2] & ~2u, used;
  vram__t y;
  for (j = 0; j < 4; j++)
    full[j] = 1;
  for (i = 0; i < 3; i++) {
    for (m = 0, a = 0, j = 0; j < 4; j++) {
      if (without[i] >> j & 1) {
        o[i].one[j] = a < in[i].d->ndim ? in[i].d->v[a] * VRAM__STRIDE(in[i].d)[a] : 1;
        continue;
      }
      o[i].one[j] = VRAM__STRIDE(in[i].d)[a];
      if (in[i].d->v[a] != 1)
        full[j] = in[i].d->v[a];
      if (in[i].d->v[a] != 1 && j != 1)
        size[m] = in[i].d->v[a], stride[m] = VRAM__STRIDE(in[i].d)[a], o[i].at[m++] = (uint8_t)j;
      a++;
    }
    o[i].t = in[i];
    o[i].t.fn = 0, o[i].t.req = 0;
    o[i].t.d = vram__dims_in(s, m, size, stride);
  }
  rounds = full[1];
  for (m = 0, j = 0; j < 4; j++)
    if (!(sum >> j & 1))
      size[m++] = full[j];
  y = vram__empty(s, vram__dims_in(s, m, size, NULL), in[0].dt);
  if (!in[0].d->numel || !in[1].d->numel || !in[2].d->numel) /* Linear.cpp: zeros */
    rounds = 0;
  for (used = s->used; rounds-- && !s->failed;) {
    for (i = 0; i < 3; i++)
      vram__keep_t(s, o[i].t);
    p = vram__pair(s, o[0], o[1], first, 4, 4);
    p = vram__pair(s, p, o[2], rest, 4, 4);
    vram__let(s, p.t);
    for (i = 0; i < 64; i++) /* the sizes of a round are those of the next */
      if ((const uint8_t *)s->cache[i] >= s->mem + used &&
          (const uint8_t *)s->cache[i] < s->mem + s->cap)
        s->cache[i] = NULL;
    s->used = used;
  }
  return y;
}

/* Which positions (batch, output, left, right) the tensors of bilinear do not have. */
enum { VRAM__BI_LEFT = 2 | 8, VRAM__BI_WEIGHT = 1, VRAM__BI_RIGHT = 2 | 4, VRAM__BI_OUT = 4 | 8 };

static void vram__run_bilinear(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  vram__t in[3], t, add[2], a[4];
  const uint8_t amp = s->amp;
  vram__fn *f;
  int64_t rows[2];
  uint32_t i, own, k = x[0].d->ndim, count = n->param[1] ? 4 : 3;
  a[0] = x[0], a[1] = x[1];
  for (i = 2; i < count; i++)
    a[i] = s->param[n->param[i - 2]->index];
  own = vram__autocast_list(s, VRAM__AC_widest, a, count);
  s->amp = 0; /* nothing is cast inside */
  for (i = 0; i < 3; i += 2) {
    t = a[i / 2];
    rows[1] = t.d->v[k - 1], rows[0] = rows[1] ? (int64_t)t.d->numel / rows[1] : 0;
    in[i] = vram__t_reshape(s, t, 2, rows);
  }
  in[1] = a[2];
  f = vram__record(s, n->op, in, 3, 1, 3);
  for (i = 0; f && i < 3; i++)
    if (vram__wants(f, (i + 1) % 3) || vram__wants(f, (i + 2) % 3))
      f->aux |= (uint64_t)(f->nsaved + 1) << (4 * i), vram__save(s, f, in[i]);
  t = vram__trilinear(s, in, without, VRAM__BI_OUT);
  vram__made(s, f, 0, &t);
  y[0] = vram__t_reshape(s, t, k, n->out[0].d->v);
  vram__let(s, t);
  vram__let(s, in[0]);
  vram__let(s, in[2]);
  if (n->param[1]) {
    add[0] = y[0], add[1] = a[3];
    f = vram__record(s, VRAM_OP_add, add, 2, 1, 0);
    y[0] = vram__ti2(s, add[0], add[1]);
    vram__made(s, f, 0, &y[0]);
    vram__let(s, add[0]);
  }
  s->amp = amp;
  for (i = 0; i < count; i++)
    if (own >> i & 1)
      vram__let(s, a[i]);
}

static void vram__bw_bilinear(vram__s *s, vram__fn *f, vram__t *to) {
  static const uint32_t without[3] = {VRAM__BI_LEFT, VRAM__BI_WEIGHT, VRAM__BI_RIGHT};
  uint32_t i, k, w[3];
  vram__t in[3];
  for (i = 0; i < 3; i++) {
    if (!vram__wants(f, i))
      continue;
    for (k = 0; k < 3; k++) {
      w[k] = k == i ? (uint32_t)VRAM__BI_OUT : without[k];
      in[k] = k == i ? VRAM__SLOTS(f)[0].g : VRAM__SAVED(f)[((f->aux >> (4 * k)) & 15) - 1];
    }
    to[i] = vram__trilinear(s, in, w, without[i]);
  }
}

/* ---- indexing ---- */

/* EmbeddingBackwardKernel.cu: the gradient of a table of dims w from n sorted indices of ie bytes.
   `fuse`: the partial sums of few rows are added up without a tensor of them. */
static vram__t vram__sorted_rows(vram__s *s, uint64_t n, uint32_t ie, const vram_dims *w,
                                 uint8_t dt, int by_freq, int fuse) {
  uint64_t rows = (uint64_t)w->v[0], cols = (uint64_t)w->v[1], seg = n < rows ? n : rows,
           parts = n / 10 + seg, warps = vram__tiles(cols, 32) * 32,
           grid = vram__tiles(seg * warps, warps < 1024 ? warps : 1024);
  uint32_t bits = 1, kind = ie == 8 ? 0 : 1, t[10], count = 0, i;
  vram__t y;
  while (rows >> bits)
    bits++;
  fuse = fuse && grid < UINT64_C(4) * s->sm && parts > 4 * grid;
  t[0] = vram__held(s, n * ie); /* sorted indices, their places, the range that gives those */
  t[1] = vram__held(s, n * ie);
  t[2] = vram__held(s, n * ie);
  vram__workspace(s, vram__cub_sort(s, n, ie, ie, bits));
  vram__held_gone(s, t[2]);
  if (by_freq) { /* how often each index comes: two scans by key */
    count = vram__held(s, n * ie);
    vram__workspace(s, vram__cub_by_key(s, n, ie));
    vram__workspace(s, vram__cub_by_key(s, n, ie));
  }
  y = vram__empty(s, vram__contig(s, w), dt);
  t[2] = vram__held(s, n * ie); /* where the segments of equal indices begin, and how many */
  t[3] = vram__held(s, 8);
  i = vram__held(s, n * ie);
  vram__workspace(s, vram__cub_select(s, n, kind));
  vram__held_gone(s, i);
  t[4] = vram__held(s, seg * ie); /* the segments' parts, and where they begin */
  t[5] = vram__held(s, seg * ie);
  vram__workspace(s, vram__cub_scan(seg, ie));
  t[6] = vram__held(s, 8);
  t[7] = vram__held(s, parts * ie);
  t[8] =
      vram__held(s, fuse ? parts * ie : vram__mul(vram__mul(parts, cols), dt == VRAM_F64 ? 8 : 4));
  if (fuse && vram__size_of(dt) < 4)
    vram__workspace(s, rows * cols * 4);
  for (i = 9; i-- > 2;)
    vram__held_gone(s, t[i]);
  vram__held_gone(s, count);
  vram__held_gone(s, t[1]);
  vram__held_gone(s, t[0]);
  return y;
}

static void vram__run_embedding(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w = n->nin > 1 ? x[1] : s->param[n->param[0]->index], c = vram__none();
  vram__fn *f = vram__record(s, n->op, &w, 1, 1, 1);
  if (f)
    vram__save(s, f, x[0]);
  if (!(x[0].d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, x[0]);
  y[0] = vram__empty(s, n->out[0].d, w.dt);
  vram__let(s, c);
  vram__made(s, f, 0, &y[0]);
}

/* embedding_dense_backward: few indices are added one by one */
static void vram__bw_embedding(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t i = vram__contiguous(s, VRAM__SAVED(f)[0]);
  vram__t g = vram__contiguous(s, VRAM__SLOTS(f)[0].g);
  uint8_t dt;
  const vram_dims *w = vram__in_dims(s, f, 0, &dt);
  int by_freq = VRAM__INT(f->node, scale_grad_by_freq, 0) != 0;
  if (i.d->numel <= VRAM__RULE_EMBEDDING_SORTED && !by_freq)
    to[0] = vram__empty(s, vram__contig(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, vram__size_of(i.dt), w, dt, by_freq, 1);
  vram__let(s, g);
  vram__let(s, i);
}

static int vram__bag_is_max(const vram_node *n) {
  return VRAM__INT(n, mode, 0) == VRAM__WORD("max");
}

/* EmbeddingBag.cpp, promoteIndicesAndOffsets: a copy of the one whose dtype is the narrower */
static vram__t vram__bag_wide(vram__s *s, vram__t i, vram__t offsets) {
  if (i.dt == offsets.dt)
    return vram__none();
  return vram__to(s, i.dt == VRAM_I64 ? offsets : i, VRAM_I64);
}

/* EmbeddingBag.cu. Rows of indices are bags of one length: their offsets are made. */
static void vram__run_embedding_bag(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int given = n->nin > 1 && n->in[1]->d->ndim == 1, max = vram__bag_is_max(n);
  vram__t w = n->nparam ? s->param[n->param[0]->index] : x[n->nin - 1], offsets, size, bag, wide,
          in, t, idx = vram__none();
  int64_t bags = n->out[0].d->v[0], all = (int64_t)x[0].d->numel;
  uint8_t it = x[0].dt;
  vram__fn *f = vram__record(s, n->op, &w, 1, 1, 5);
  offsets = given ? vram__keep_t(s, x[1]) : vram__empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  in = x[0].d->ndim == 2 ? vram__t_reshape(s, x[0], 1, &all) : vram__keep_t(s, x[0]);
  t = vram__contiguous(s, offsets), vram__let(s, offsets), offsets = t; /* embedding_bag */
  t = vram__contiguous(s, in), vram__let(s, in), in = t;
  wide = vram__bag_wide(s, in, offsets);
  if (wide.d)
    it = VRAM_I64;
  size = vram__empty(s, vram__dims_in(s, 1, &bags, NULL), it);
  bag = vram__empty(s, vram__dims_in(s, 1, &all, NULL), it);
  y[0] = vram__empty(s, n->out[0].d, w.dt);
  if (max)
    idx = vram__empty(s, n->out[0].d, it);
  if (f) {
    vram__save(s, f, in);
    vram__save(s, f, offsets);
    vram__save(s, f, bag);
    vram__save(s, f, size);
    if (max)
      vram__save(s, f, idx);
  }
  vram__let(s, idx);
  vram__let(s, bag);
  vram__let(s, size);
  vram__let(s, wide);
  vram__let(s, in);
  vram__let(s, offsets);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_embedding_bag(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t i = VRAM__SAVED(f)[0], wide = vram__bag_wide(s, i, VRAM__SAVED(f)[1]),
          g = vram__contiguous(s, VRAM__SLOTS(f)[0].g);
  uint8_t dt;
  const vram_dims *w = vram__in_dims(s, f, 0, &dt);
  if (vram__bag_is_max(f->node))
    to[0] = vram__empty(s, vram__contig(s, w), dt);
  else
    to[0] = vram__sorted_rows(s, i.d->numel, wide.d ? 8 : vram__size_of(i.dt), w, dt, 0, 0);
  vram__let(s, g);
  vram__let(s, wide);
}

/* gather and index_select: backward adds into zeros */
static void vram__run_gather(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  int gather = n->op == VRAM_OP_gather; /* gather_backward gets the tensor itself */
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (f && gather)
    vram__save(s, f, x[0]);
  if (f)
    vram__save(s, f, x[1]);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_gather(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

static void vram__run_scatter(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2];
  vram__fn *f;
  in[0] = x[0], in[1] = n->nin > 2 ? x[2] : vram__none();
  f = vram__record(s, n->op, in, n->nin > 2 ? 2 : 1, 1, 1);
  if (f)
    vram__save(s, f, x[1]);
  if (n->flags & VRAM__INPLACE)
    y[0] = x[0], y[0].fn = 0, vram__keep_t(s, y[0]);
  else
    y[0] = vram__empty(s, vram__contig(s, x[0].d), x[0].dt);
  vram__made(s, f, 0, &y[0]);
}

/* g with what was written set to zero, and what of g was written */
static void vram__bw_scatter(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  const vram_dims *index = VRAM__SAVED(f)[0].d;
  if (vram__wants(f, 0))
    to[0] = vram__empty(s, vram__contig(s, g.d), g.dt);
  if (f->nin > 1 && vram__wants(f, 1)) {
    const vram_dims *source = vram__in_dims(s, f, 1, NULL);
    uint32_t i;
    for (i = 0; i < index->ndim; i++)
      if (index->v[i] != source->v[i]) {
        vram__no_step(s, VRAM_ERR_UNSUPPORTED, f->node,
                      "scatter of a source that is larger than the index: PyTorch gives its "
                      "gradient a wrong shape and stops with an error");
        return;
      }
    to[1] = vram__empty(s, vram__contig(s, index), g.dt);
  }
}

/* Index tensors of x[.., i, j, ..]: i64 and broadcast to dims d. The tensors that the op makes of
   them go in vram__index_gone. */
typedef struct vram__index {
  vram__t t[VRAM_MAX_AXES];
  uint32_t n, own; /* bits: t[i] is a tensor of the op's own */
  uint32_t mask;   /* storage of the positions that a mask selects */
  const vram_dims *d;
} vram__index;

static void vram__index_begin(vram__s *s, const vram__t *idx, uint32_t count, vram__index *x,
                              int late) {
  int64_t size[VRAM_MAX_AXES] = {0};
  uint32_t i, k = 0;
  x->n = count;
  x->own = x->mask = 0;
  if (idx[0].dt == VRAM_BOOL || idx[0].dt == VRAM_U8) {
    int64_t all = (int64_t)idx[0].d->numel;
    vram__t c = vram__contiguous(s, idx[0]);
    x->n = idx[0].d->ndim;
    x->d = vram__dims_in(s, 1, &all, NULL);
    x->mask = vram__nonzero(s, idx[0].d->numel, x->n);
    vram__let(s, c);
    for (i = 0; i < x->n; i++)
      x->t[i] = vram__none(), x->t[i].d = x->d, x->t[i].dt = VRAM_I64;
    return;
  }
  for (i = 0; i < count; i++)
    vram__bcast(&k, size, idx[i].d);
  x->d = vram__dims_in(s, k, size, NULL);
  for (i = 0; i < count; i++) {
    x->t[i] = idx[i];
    if (!late && idx[i].dt != VRAM_I64)
      x->t[i] = vram__to(s, idx[i], VRAM_I64), x->own |= 1u << i;
    if (x->t[i].d->ndim != k || x->t[i].d->numel != x->d->numel)
      x->t[i].d = vram__expanded(s, x->t[i].d, k, size);
  }
  for (i = 0; late && i < count; i++)
    if (idx[i].dt != VRAM_I64)
      x->t[i] = vram__to(s, x->t[i], VRAM_I64), x->own |= 1u << i;
}

static void vram__index_gone(vram__s *s, vram__index *x, int last_first) {
  uint32_t i, k;
  for (k = 0; k < x->n; k++) {
    i = last_first ? x->n - 1 - k : k;
    if (x->own >> i & 1)
      vram__let(s, x->t[i]);
  }
  vram__held_gone(s, x->mask);
}

/* x[.., idx, ..] with the first index tensor at axis `dim`: the kernel wants all index tensors in
   the same strides (TensorAdvancedIndexing.cpp, AdvancedIndex) */
static vram__t vram__indexed(vram__s *s, vram__t x, const vram__t *idx, uint32_t count,
                             uint32_t dim) {
  vram__index ix;
  int64_t size[VRAM_MAX_AXES], st[2][VRAM_MAX_AXES];
  const vram_dims *op[2], *d;
  uint32_t i, a, m = 0;
  vram__t y;
  int same = 1;
  vram__index_begin(s, idx, count, &ix, 1);
  for (i = 1; i < ix.n; i++)
    for (a = 0; a < ix.d->ndim; a++)
      if (VRAM__STRIDE(ix.t[i].d)[a] != VRAM__STRIDE(ix.t[0].d)[a])
        same = 0;
  for (i = 0; !same && !s->ideal && i < ix.n; i++)
    if (!(ix.t[i].d->flags & VRAM__CONTIG)) {
      ix.t[i] = vram__empty(s, ix.d, VRAM_I64);
      ix.own |= 1u << i;
    }
  for (a = 0; a < x.d->ndim; a++) {
    if (a == dim)
      for (i = 0; i < ix.d->ndim; i++)
        size[m] = ix.d->v[i], st[0][m] = 0, st[1][m++] = VRAM__STRIDE(ix.t[0].d)[i];
    if (a < dim || a >= dim + ix.n)
      size[m] = x.d->v[a], st[0][m] = VRAM__STRIDE(x.d)[a], st[1][m++] = 0;
  }
  if ((x.d->flags & VRAM__CONTIG) && (ix.t[0].d->flags & VRAM__CONTIG))
    d = vram__dims_in(s, m, size, NULL);
  else {
    op[0] = vram__dims_in(s, m, size, st[0]);
    op[1] = vram__dims_in(s, m, size, st[1]);
    d = vram__ti(s, op, 2);
  }
  y = vram__empty(s, d, x.dt);
  vram__index_gone(s, &ix, 1);
  return y;
}

/* Indexing.cu, index_put_with_sort_kernel: adds `value` into a tensor of the sizes of self
   (contiguous) at these places: linear indices, sorted. check: that they are in range. */
static void vram__index_add(vram__s *s, const vram_dims *self, vram__t value, const vram__t *idx,
                            uint32_t count, uint32_t dim, int check) {
  vram__index ix;
  vram__t lin = vram__none(), w, t[3], c = vram__none();
  uint32_t i, bits = 1;
  uint64_t slice = 1, key, n;
  if (s->ideal)
    return;
  vram__index_begin(s, idx, count, &ix, 0);
  n = ix.d->numel;
  for (i = dim + ix.n; i < self->ndim; i++)
    slice *= (uint64_t)self->v[i];
  for (i = 0; i < ix.n; i++) {
    if (check) { /* the largest and the smallest index come to the host */
      const vram__t one = vram__empty(s, s->scalar, VRAM_I64);
      vram__t two;
      w = ix.t[i];
      vram__reduce(s, w, (1u << w.d->ndim) - 1, VRAM_I64, 8, 4);
      two = vram__empty(s, s->scalar, VRAM_I64);
      t[0] = vram__contiguous(s, w);
      vram__let(s, t[0]);
      vram__reduce(s, w, (1u << w.d->ndim) - 1, VRAM_I64, 8, 4);
      vram__workspace(s, 1);
      vram__workspace(s, 1);
      vram__let(s, one);
      vram__let(s, two);
    }
    w = vram__ti1(s, ix.t[i]);
    t[0] = vram__ti1(s, w);
    vram__let(s, w);
    if (i)
      vram__let(s, t[0]);
    else
      lin = t[0];
  }
  vram__index_gone(s, &ix, 0);
  if (!(value.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, value);
  if (n && slice) {
    if (!(lin.d->flags & VRAM__CONTIG)) {
      w = vram__contiguous(s, lin);
      vram__let(s, lin);
      lin = w;
    }
    key = self->numel ? (self->numel - 1) / slice : 0;
    while (key >> bits)
      bits++;
    for (i = 0; i < 3; i++)
      t[i] = vram__empty(s, ix.d, VRAM_I64);
    vram__workspace(s, vram__cub_sort(s, n, 8, 8, bits));
    for (i = 3; i-- > 0;)
      vram__let(s, t[i]);
  }
  vram__let(s, c);
  vram__let(s, lin);
}

static uint32_t vram__index_dim(const vram_node *n) {
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), n->in[0]->d->ndim, &a);
  return a;
}

static void vram__run_index(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, n->nin - 1);
  uint32_t i;
  for (i = 1; f && i < n->nin; i++)
    vram__save(s, f, x[i]);
  y[0] = vram__indexed(s, x[0], x + 1, n->nin - 1, vram__index_dim(n));
  vram__made(s, f, 0, &y[0]);
}

static void vram__bw_index(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
  vram__index_add(s, to[0].d, g, VRAM__SAVED(f), f->nsaved, vram__index_dim(f->node), 0);
}

static void vram__run_index_put(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2], v, c;
  vram__fn *f;
  uint32_t i, count = n->nin - 2, own = 0;
  in[0] = x[0], in[1] = x[n->nin - 1];
  if (!(n->flags & VRAM__INPLACE))
    own = vram__autocast_list(s, VRAM__AC_widest, in, 2);
  f = vram__record(s, n->op, in, 2, 1, count);
  for (i = 0; f && i < count; i++)
    vram__save(s, f, x[1 + i]);
  if (n->flags & VRAM__INPLACE)
    y[0] = x[0], y[0].fn = 0, vram__keep_t(s, y[0]);
  else
    y[0] = vram__empty(s, vram__dense(s, in[0].d), in[0].dt);
  if (VRAM__INT(n, accumulate, 0)) {
    int64_t size[VRAM_MAX_AXES] = {0}, stride[VRAM_MAX_AXES];
    uint32_t k = 0, lead;
    v = in[1];
    vram__index_sizes((vram_graph *)0, n, count, &k, size);
    for (lead = k - v.d->ndim, i = 0; i < k; i++)
      stride[i] =
          i < lead || (v.d->v[i - lead] == 1 && size[i] != 1) ? 0 : VRAM__STRIDE(v.d)[i - lead];
    v.d = vram__dims_in(s, k, size, stride);
    c = vram__contiguous(s, y[0]);
    vram__index_add(s, x[0].d, v, x + 1, count, 0, 1);
    vram__let(s, c);
  } else { /* the indices as the kernel wants them; the values broadcast in it */
    vram__index ix;
    vram__index_begin(s, x + 1, count, &ix, 1);
    vram__index_gone(s, &ix, 0);
  }
  vram__made(s, f, 0, &y[0]);
  for (i = 0; own; i++, own >>= 1)
    if (own & 1)
      vram__let(s, in[i]);
}

/* What was overwritten gets no gradient; the values get g at their places. */
static void vram__bw_index_put(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, zero;
  const vram_node *n = f->node;
  vram__index ix;
  if (vram__wants(f, 0) && VRAM__INT(n, accumulate, 0))
    g.fn = 0, to[0] = vram__keep_t(s, g);
  else if (vram__wants(f, 0)) {
    zero = vram__empty(s, n->in[n->nin - 1]->d, g.dt);
    to[0] = vram__empty(s, vram__dense(s, g.d), g.dt);
    vram__index_begin(s, VRAM__SAVED(f), f->nsaved, &ix, 1);
    vram__index_gone(s, &ix, 0);
    vram__let(s, zero);
  }
  if (vram__wants(f, 1))
    to[1] = vram__indexed(s, g, VRAM__SAVED(f), f->nsaved, 0);
}

/* masked_select is nonzero and index; what it selects is bounded by all elements. */
/* d: of as many elements as x and the mask have when they are broadcast */
static vram__t vram__t_masked_select(vram__s *s, vram__t x, vram__t mask, const vram_dims *d) {
  vram__t copy = vram__none(), y;
  uint32_t nz, k = x.d->ndim > mask.d->ndim ? x.d->ndim : mask.d->ndim;
  if (mask.d->numel != d->numel || !(mask.d->flags & VRAM__CONTIG))
    copy = vram__empty(s, d, VRAM_BOOL);
  nz = vram__nonzero(s, d->numel, k ? k : 1);
  y = vram__empty(s, d, x.dt);
  vram__held_gone(s, nz);
  vram__let(s, copy);
  return y;
}

static void vram__run_masked_select(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 2);
  if (f)
    vram__save(s, f, x[0]), vram__save(s, f, x[1]);
  y[0] = vram__t_masked_select(s, x[0], x[1], n->out[0].d);
  vram__made(s, f, 0, &y[0]);
}

/* masked_scatter into zeros */
static void vram__bw_masked_select(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g, x = VRAM__SAVED(f)[0], m = VRAM__SAVED(f)[1], sum, copy, c;
  int64_t size[VRAM_MAX_AXES];
  uint32_t k = 0;
  const vram_dims *d;
  copy = c = vram__none();
  vram__bcast(&k, size, x.d);
  vram__bcast(&k, size, m.d);
  d = vram__dims_in(s, k, size, NULL);
  to[0] = vram__empty(s, d, g.dt);
  sum = vram__empty(s, d, VRAM_I64);
  if (m.d->numel != d->numel || !(m.d->flags & VRAM__CONTIG))
    copy = vram__empty(s, d, VRAM_BOOL);
  vram__workspace(s, vram__cub_scan(d->numel, 8));
  if (!(g.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, g);
  vram__let(s, c);
  vram__let(s, copy);
  vram__let(s, sum);
}

/* Sort.cu: what sorting x (dims xd, e bytes a value) along an axis into results of dims d needs.
   Short rows are sorted in place, long ones by cub. */
static void vram__sort_rows(vram__s *s, const vram_dims *xd, const vram_dims *d, uint32_t a,
                            uint32_t e) {
  uint32_t i, own[3] = {0, 0, 0}, t[3];
  uint64_t z, all = d->numel, r;
  if (!all || !d->ndim) /* Sorting.cpp: a number is sorted */
    return;
  z = (uint64_t)d->v[a], r = all / z;
  if (z <= VRAM__RULE_SMALL_SORT) {
    vram__workspace(s, 8 * z); /* the numbers 0, 1, .. */
    return;
  }
  if (!(xd->flags & VRAM__DENSE) || VRAM__STRIDE(xd)[a] != 1) {
    /* a copy with the axis innermost, and results like it */
    int64_t stride[VRAM_MAX_AXES], w = (int64_t)z;
    uint8_t order[VRAM_MAX_AXES];
    uint32_t j;
    for (i = 0; i < d->ndim; i++) {
      for (j = i; j > 0 && VRAM__STRIDE(d)[order[j - 1]] > VRAM__STRIDE(d)[i]; j--)
        order[j] = order[j - 1];
      order[j] = (uint8_t)i;
    }
    stride[a] = 1;
    for (i = 0; i < d->ndim; i++)
      if (order[i] != a)
        stride[order[i]] = w, w *= d->v[order[i]];
    own[0] = vram__held(s, all * e);
    for (i = 0; i < d->ndim; i++)
      if (d->v[i] != 1 && stride[i] != VRAM__STRIDE(d)[i])
        break;
    if (i < d->ndim)
      own[1] = vram__held(s, all * e), own[2] = vram__held(s, all * 8);
  }
  if (r == 1 || z >= VRAM__RULE_LARGE_ROW) {
    t[0] = vram__held(s, 8 * z);
    for (; r-- && !s->failed;)
      vram__workspace(s, vram__cub_sort(s, z, e, 8, 8 * e));
    vram__held_gone(s, t[0]);
  } else if (r < VRAM__RULE_SEGMENTS) { /* all rows at once, then back into their segments */
    t[0] = vram__held(s, 8 * all);
    t[1] = vram__held(s, 8 * all);
    t[2] = vram__held(s, e * all);
    vram__workspace(s, vram__cub_sort(s, all, e, 8, 8 * e));
    vram__held_gone(s, t[2]);
    vram__workspace(s, vram__cub_sort(s, all, 0, 8, 8));
    vram__held_gone(s, t[1]);
    vram__held_gone(s, t[0]);
  } else {
    t[0] = vram__held(s, 8 * all);
    vram__workspace(s, 255 + vram__up256(e * all) + vram__up256(8 * all));
    vram__held_gone(s, t[0]);
  }
  for (i = 3; i-- > 0;)
    vram__held_gone(s, own[i]);
}

static void vram__run_sort(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  const vram_dims *d = vram__dense(s, x[0].d);
  uint32_t a = 0;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__empty(s, d, x[0].dt);
  y[1] = vram__empty(s, d, VRAM_I64);
  vram__sort_rows(s, x[0].d, d, a, vram__size_of(x[0].dt));
  if (f)
    vram__save(s, f, y[1]);
  vram__made(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__let(s, y[1]);
}

/* TensorTopK.cu, should_use_multi_block: are r rows of n values split over thread blocks? */
static int vram__topk_split(uint64_t r, uint64_t n) {
  return n >= (r <= 20     ? 20000u
               : r <= 40   ? 10000u
               : r <= 80   ? 8000u
               : r < 200   ? 5000u
               : r < 800   ? 3000u
               : r <= 4000 ? 800u
                           : 400u);
}

/* What topk of x along axis a needs for a moment. */
static void vram__topk_scratch(vram__s *s, const vram_dims *x, uint32_t a) {
  uint64_t z = x->ndim ? (uint64_t)x->v[a] : 1, r = z ? x->numel / z : 0, b, each;
  uint32_t i, t[7];
  if (!r || !vram__topk_split(r, z))
    return;
  each = vram__tiles(r * z, VRAM__RULE_TOPK_BLOCKS * 256 * s->sm);
  each = each < 4 ? 4 : each > 64 ? 64 : each;
  b = r * vram__tiles(z, 256 * each);
  t[0] = vram__held(s, 4 * r); /* ranks to find, digits, counters of the blocks, ... */
  t[1] = vram__held(s, 8 * r);
  t[2] = vram__held(s, 8 * r);
  t[3] = vram__held(s, 512 * b);
  t[4] = vram__held(s, 1024 * r);
  t[5] = vram__held(s, 4 * b);
  t[6] = vram__held(s, 4 * b);
  vram__workspace(s, vram__cub_by_key(s, b, 4));
  vram__workspace(s, vram__cub_by_key(s, b, 4));
  for (i = 7; i-- > 0;)
    vram__held_gone(s, t[i]);
}

static void vram__run_topk(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 1);
  vram__t c;
  uint32_t a = 0, t[2];
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  y[1] = vram__empty(s, n->out[0].d, VRAM_I64);
  c = vram__contiguous(s, x[0]);
  vram__topk_scratch(s, x[0].d, a);
  vram__let(s, c);
  if (VRAM__INT(n, sorted, 1) && x[0].d->ndim && y[0].d->v[a] > VRAM__RULE_SMALL_SORT) {
    t[0] = vram__held(s, 8 * y[0].d->numel);
    t[1] = vram__held(s, vram__bytes_of(y[0].d, y[0].dt));
    vram__sort_rows(s, y[0].d, y[0].d, a, vram__size_of(y[0].dt));
    vram__workspace(s, 8 * y[0].d->numel);
    vram__held_gone(s, t[1]);
    vram__held_gone(s, t[0]);
  }
  if (f)
    vram__save(s, f, y[1]);
  vram__made(s, f, 0, &y[0]);
  if (n->nout < 2)
    vram__let(s, y[1]);
}

/* topk, sort: the gradient is written into zeros at the places of the values */
static void vram__bw_topk(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), VRAM__SLOTS(f)[0].g.dt);
}

/* argmax and argmin: a thread keeps value and index, 16 bytes */
static void vram__run_argmax(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  uint32_t mask = vram__dim_mask(n, x[0].d->ndim);
  int all = !vram__list(n, VRAM__KEY_dim, NULL);
  vram__t c;
  y[0] = vram__reduced(s, x[0], mask, VRAM__INT(n, keepdim, 0) != 0, VRAM_I64);
  c = all ? vram__contiguous(s, x[0]) : vram__keep_t(s, x[0]);
  vram__reduce(s, c, mask, VRAM_I64, 16, 4);
  vram__let(s, c);
}

static void vram__run_one_hot(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)x;
  y[0] = vram__empty(s, n->out[0].d, VRAM_I64);
}

/* A running sum along an axis: cub's for one row alone. */
static vram__t vram__scan(vram__s *s, vram__t x, uint32_t axis, uint8_t dt) {
  vram__t y = vram__empty(s, vram__contig(s, x.d), dt), a = vram__to(s, x, dt),
          c = vram__contiguous(s, a);
  if (x.d->ndim && x.d->numel && x.d->numel == (uint64_t)x.d->v[axis])
    vram__workspace(s, vram__cub_scan(x.d->numel, vram__size_of(dt)));
  vram__let(s, c);
  vram__let(s, a);
  return y;
}

static void vram__run_cumsum(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__fn *f = vram__record(s, n->op, x, 1, 1, 0);
  uint32_t a = 0;
  uint8_t dt = vram__opt_dtype(s, n, x[0].dt);
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, 0), x[0].d->ndim, &a);
  if (!dt)
    dt = vram__kind_rank(x[0].dt) < 2 ? (uint8_t)VRAM_I64 : x[0].dt;
  if (f)
    f->aux = a;
  y[0] = vram__scan(s, x[0], a, dt);
  vram__made(s, f, 0, &y[0]);
}

/* cumsum_backward: flip, cumsum, flip */
static void vram__bw_cumsum(vram__s *s, vram__fn *f, vram__t *to) {
  uint8_t dt;
  const vram_dims *d = vram__in_dims(s, f, 0, &dt);
  vram__t g = vram__to(s, VRAM__SLOTS(f)[0].g, dt), a, b;
  if (d->numel <= 1 || d->v[f->aux] == 1) {
    to[0] = g;
    return;
  }
  a = vram__ti1(s, g);
  b = vram__scan(s, a, (uint32_t)f->aux, dt);
  to[0] = vram__ti1(s, b);
  vram__let(s, b);
  vram__let(s, a);
  vram__let(s, g);
}

/* The range of values is given: by default 0 to bins - 1. min = max: it is found first. */
static void vram__run_histc(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const int64_t *lo = vram__list(n, VRAM__KEY_min, NULL), *hi = vram__list(n, VRAM__KEY_max, NULL);
  vram__t a, b;
  y[0] = vram__empty(s, n->out[0].d, x[0].dt);
  if (!lo || !hi || *lo != *hi)
    return;
  a = vram__empty(s, s->scalar, x[0].dt);
  b = vram__empty(s, s->scalar, x[0].dt);
  vram__let(s, b);
  vram__let(s, a);
}

static void vram__run_diff(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[2], all;
  vram__fn *f;
  uint32_t a = 0;
  int64_t len;
  vram__axis((vram_graph *)0, VRAM__INT(n, dim, -1), x[0].d->ndim, &a);
  if (n->nin > 1) { /* the prefix in front of x */
    int64_t size[VRAM_MAX_AXES];
    uint32_t i;
    in[0] = x[1], in[1] = x[0];
    f = vram__record(s, VRAM_OP_cat, in, 2, 1, 0);
    if (f)
      f->aux = a;
    for (i = 0; i < x[0].d->ndim; i++)
      size[i] = x[0].d->v[i] + (i == a ? x[1].d->v[i] : 0);
    all = vram__empty(s, vram__dims_in(s, i, size, NULL), vram__result2(x[0], x[1]));
    vram__made(s, f, 0, &all);
  } else
    all = vram__keep_t(s, x[0]);
  len = n->out[0].d->v[a];
  in[1] = vram__t_narrow(s, all, a, len);
  in[0] = vram__t_narrow(s, all, a, len);
  f = vram__record(s, VRAM_OP_sub, in, 2, 1, 0);
  y[0] = vram__ti2(s, in[0], in[1]);
  vram__made(s, f, 0, &y[0]);
  vram__let(s, in[0]);
  vram__let(s, in[1]);
  vram__let(s, all);
}

/* One grouped product into y: a CUTLASS kernel with its list of problems (GroupMM.cu: three lists
   of pointers, three of strides, the sizes), or one product a group where there is none. The
   offsets are data: whether a group has rows, and its product a workspace, only the upper bound
   can say. */
static void vram__group_products(vram__s *s, vram__t a, int64_t groups) {
  uint32_t list, work;
  if (a.dt == VRAM_BF16 && s->cc >= 90 && s->cc < 120) {
    uint64_t g = (uint64_t)groups;
    list = vram__held(s, 3 * ((8 * g + 15) & ~UINT64_C(15)) + 3 * (8 * g) + 3 * (4 * g));
    work = vram__held(s, (uint64_t)s->sm *
                             (s->cc == 90 ? VRAM__RULE_GROUPED_SM90 : VRAM__RULE_GROUPED_SM100));
    vram__held_gone(s, work);
    vram__held_gone(s, list);
    return;
  }
  if (groups)
    vram__may_need(s, s->ws / 4);
}

static vram__t vram__t_grouped(vram__s *s, vram__t a, vram__t b, vram__t offsets,
                               const vram_dims *d) {
  vram__t in[2], y;
  vram__fn *f;
  int64_t groups = a.d->ndim == 3 ? a.d->v[0] : b.d->ndim == 3 ? b.d->v[0] : offsets.d->v[0];
  in[0] = a, in[1] = b;
  f = vram__record(s, VRAM_OP_grouped_mm, in, 2, 1, 3);
  vram__save_factors(s, f, 0, a, 1, b);
  if (f) {
    vram__save(s, f, offsets);
    f->aux |= (uint64_t)groups << 2;
  }
  y = vram__empty(s, d, a.dt);
  vram__group_products(s, a, groups);
  vram__made(s, f, 0, &y);
  return y;
}

static void vram__run_grouped_mm(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  y[0] = vram__t_grouped(s, x[0], x[1], x[2], n->out[0].d);
}

/* the gradient of an operand that is stored by columns is stored so, too */
static void vram__bw_grouped_mm(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__t g = VRAM__SLOTS(f)[0].g;
  uint32_t i;
  for (i = 2; i-- > 0;) {
    const vram_dims *d;
    const int64_t *st;
    if (!vram__wants(f, i))
      continue;
    d = vram__in_dims(s, f, i, NULL);
    st = VRAM__STRIDE(d) + d->ndim - 2;
    if (st[0] == 1 && st[1] == d->v[d->ndim - 2])
      to[i] = vram__empty(s, vram__dense(s, d), g.dt);
    else
      to[i] = vram__empty(s, vram__contig(s, d), g.dt);
    vram__group_products(s, g, (int64_t)(f->aux >> 2));
  }
}

/* ---- recurrent ---- */

static const vram_dims *vram__rnn_state_dims(vram__s *s) {
  int64_t bytes = VRAM__RNN_DROPOUT_STATE;
  return vram__dims_in(s, 1, &bytes, NULL);
}

/* Bytes of the workspace and, with reserve, of what one step keeps for backward: guesses, see the
   rules */
static uint64_t vram__rnn_bytes(const vram__rnn *r, uint8_t dt, int reserve) {
  uint64_t n = vram__mul(vram__mul((uint64_t)r->T, (uint64_t)r->B),
                         vram__mul((uint64_t)(r->H * r->D), vram__size_of(dt)));
  if (!reserve)
    return vram__mul(n, (uint64_t)r->gates);
  return vram__mul(vram__mul(n, (uint64_t)r->L), r->lstm         ? VRAM__RNN_RESERVE_LSTM
                                                 : r->gates == 3 ? VRAM__RNN_RESERVE_GRU
                                                                 : VRAM__RNN_RESERVE_RNN);
}

/* dims of y: [T,B,D*P], by steps in memory also where the batch is the first axis */
static const vram_dims *vram__rnn_out(vram__s *s, const vram__rnn *r) {
  int64_t size[3];
  const vram_dims *d;
  size[0] = r->T, size[1] = r->B, size[2] = r->D * r->P;
  d = vram__dims_in(s, 3, size, NULL);
  return r->first ? vram__swapped(s, d, 0, 1) : d;
}

/* RNN.cpp, _cudnn_rnn. Under autocast everything runs in f16, from weights that are copied into a
   new flat buffer; bf16 weights are no flat buffer to begin with. */
static void vram__run_rnn(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__rnn r;
  vram__t in[3], own[2], out[3], flat = vram__none(), *w, c = vram__none(), t, reserve = c;
  const vram_dims *state[2];
  vram__fn *f = NULL;
  int64_t size[3], *dims = size;
  uint32_t i, k, wants = 0, states;
  uint8_t dt = x[0].dt, cat = s->cat;
  int flat2 = x[0].d->ndim == 2, drop = s->train && VRAM__INT(n, dropout, 0) != 0;
  vram__rnn_of(n, x[0].d, &r);
  states = r.lstm ? 2 : 1;
  own[0] = own[1] = vram__none();
  size[0] = r.L * r.D, size[1] = r.B, size[2] = r.P;
  state[0] = vram__dims_in(s, 3, dims, NULL);
  size[2] = r.H;
  state[1] = vram__dims_in(s, 3, dims, NULL);
  in[0] = flat2 ? vram__t_unsqueeze(s, x[0], 1) : vram__keep_t(s, x[0]);
  in[1] = in[2] = vram__none();
  for (i = 0; i < states; i++) /* zeros where the caller gives no state */
    if (n->nin == 1)
      own[i] = vram__empty(s, state[i], dt), in[1 + i] = vram__keep_t(s, own[i]);
    else
      in[1 + i] = flat2 ? vram__t_unsqueeze(s, x[1 + i], 1) : vram__keep_t(s, x[1 + i]);
  /* RNN.cpp, get_dropout_state: made by the first call, from a random seed */
  if (drop && (!s->rnn_dropout.d || s->rnn_reset)) {
    vram__t old = s->rnn_dropout;
    vram__workspace(s, 8);
    s->cat = VRAM_CATEGORY_WORKSPACE;
    s->rnn_dropout = vram__empty(s, vram__rnn_state_dims(s), VRAM_U8);
    s->rnn_reset = 0;
    vram__let(s, old);
    s->cat = cat;
  }
  w = (vram__t *)vram__bump(s->mem, &s->used, s->cap, n->nparam * (uint64_t)sizeof *w);
  if (!w) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  size[0] = (int64_t)vram__rnn_flat(&r);
  for (i = 0; i < n->nparam; i++)
    w[i] = s->param[n->param[i]->index];
  if (s->amp) {
    dt = VRAM_F16;
    s->cat = VRAM_CATEGORY_AUTOCAST;
    flat = vram__empty(s, vram__dims_in(s, 1, size, NULL), dt);
    s->cat = cat;
    for (i = 0; i < n->nparam; i++) { /* copied one by one */
      vram__fn *g = vram__record(s, VRAM__K_cast, &w[i], 1, 1, 0);
      w[i] = vram__alias_only(s, flat, w[i].d);
      w[i].dt = dt;
      vram__made(s, g, 0, &w[i]);
    }
    for (k = 3; k-- > 0;) { /* cell state, state, input */
      i = k == 2 ? 2 : k == 1 ? 1 : 0;
      if (!in[i].d)
        continue;
      t = vram__t_cast(s, in[i], dt);
      vram__let(s, in[i]);
      in[i] = t;
    }
  }
  for (i = 0; i < 3; i++)
    wants |= in[i].d && in[i].req;
  for (i = 0; i < n->nparam; i++)
    wants |= w[i].req;
  if (s->grad && wants)
    f = vram__record_raw(s, n->op, 3 + n->nparam, 3, 7);
  if (f) {
    for (i = 0; i < 3; i++)
      vram__edge_to(s, f, i, in[i].d && in[i].req ? in[i].fn : 0, in[i].d ? in[i].out : 0);
    for (i = 0; i < n->nparam; i++)
      vram__edge_to(s, f, 3 + i, w[i].req ? w[i].fn : 0, w[i].out);
  }
  t = in[0];
  if (r.first)
    t.d = vram__swapped(s, t.d, 0, 1);
  if (!(t.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, t);
  out[0] = vram__empty(s, vram__rnn_out(s, &r), dt);
  out[1] = vram__empty(s, state[0], dt);
  out[2] = r.lstm ? vram__empty(s, state[1], dt) : vram__none();
  if (!s->amp && w[0].dt == VRAM_BF16)
    flat = vram__empty(s, vram__dims_in(s, 1, size, NULL), dt);
  k = vram__held(s, vram__rnn_bytes(&r, dt, 0));
  if (s->train) {
    size[0] = (int64_t)vram__rnn_bytes(&r, VRAM_U8, 1);
    reserve.d = vram__dims_in(s, 1, size, NULL);
    reserve.dt = dt;
    reserve.st = vram__new(s, vram__rnn_bytes(&r, dt, 1));
  }
  vram__held_gone(s, k);
  vram__let(s, c);
  if (f) {
    f->aux = (uint64_t)(in[2].d != NULL) | (uint64_t)(flat.d != NULL) << 1;
    if (in[2].d)
      vram__save(s, f, in[2]);
    vram__save(s, f, in[1]);
    vram__save(s, f, in[0]);
    vram__save(s, f, out[0]);
    vram__save(s, f, reserve);
    if (drop)
      vram__save(s, f, s->rnn_dropout);
    if (flat.d)
      vram__save(s, f, flat);
  }
  for (i = 0; i < 3; i++)
    if (out[i].d)
      vram__made(s, f, i, &out[i]);
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  vram__let(s, reserve);
  if (s->amp)
    for (i = 0; i < n->nparam; i++)
      vram__let(s, w[i]);
  vram__let(s, flat);
  for (i = 0; i < 2; i++)
    vram__let(s, own[i]);
  for (i = 3; i-- > 0;) {
    if (flat2 && out[i].d) {
      t = vram__t_squeeze1(s, out[i], 1);
      vram__let(s, out[i]);
      out[i] = t;
    }
    if (i < n->nout)
      y[i] = out[i];
    else
      vram__let(s, out[i]);
  }
}

static void vram__bw_rnn(vram__s *s, vram__fn *f, vram__t *to) {
  vram__rnn r;
  const vram_node *n = f->node;
  const vram__t *saved = VRAM__SAVED(f) + (f->aux & 1);
  vram__t cx = f->aux & 1 ? VRAM__SAVED(f)[0] : vram__none(), hx = saved[0], x = saved[1], g[3],
          zero[3], dense[3], c = vram__none(), d[3], flat;
  uint32_t i, wants = 0, work;
  uint8_t dt = x.dt;
  uint64_t ws;
  int64_t size;
  vram__rnn_of(n, x.d, &r);
  ws = vram__rnn_bytes(&r, dt, 0);
  for (i = 0; i < 3; i++) { /* zeros stand in for outputs that nothing came back for */
    g[i] = VRAM__SLOTS(f)[i].g;
    zero[i] = dense[i] = vram__none();
    if (!g[i].d && (i < 2 || cx.d))
      g[i] = zero[i] = vram__empty(s,
                                   i == 0   ? vram__contig(s, vram__rnn_out(s, &r))
                                   : i == 1 ? hx.d
                                            : cx.d,
                                   dt);
  }
  if (r.first)
    x.d = vram__swapped(s, x.d, 0, 1), g[0].d = vram__swapped(s, g[0].d, 0, 1);
  if (!(x.d->flags & VRAM__CONTIG))
    c = vram__contiguous(s, x);
  if (!(g[0].d->flags & VRAM__CONTIG))
    dense[0] = vram__contiguous(s, g[0]);
  d[0] = vram__empty(s, vram__contig(s, x.d), dt);
  if (r.first)
    d[0].d = vram__swapped(s, d[0].d, 0, 1);
  for (i = 1; i < 3; i++)
    if (g[i].d && !(g[i].d->flags & VRAM__CONTIG))
      dense[i] = vram__contiguous(s, g[i]);
  d[1] = vram__empty(s, hx.d, dt);
  d[2] = cx.d ? vram__empty(s, cx.d, dt) : vram__none();
  vram__workspace(s, ws);
  for (i = 3; i-- > 0;)
    vram__let(s, dense[i]);
  vram__let(s, c);
  for (i = 3; i < f->nin; i++)
    wants |= (uint32_t)vram__wants(f, i);
  if (wants) { /* gradients of the parameters are views of one buffer like the weights */
    c = vram__none();
    if (!(x.d->flags & VRAM__CONTIG))
      c = vram__contiguous(s, x);
    size = (int64_t)vram__rnn_flat(&r);
    flat = vram__empty(s, vram__dims_in(s, 1, &size, NULL), dt);
    work = vram__held(s, ws);
    for (i = 3; i < f->nin; i++)
      if (vram__wants(f, i)) {
        const vram_dims *w = n->param[i - 3]->d;
        to[i] = r.bias ? vram__alias(s, flat, w) : vram__empty(s, w, dt);
      }
    vram__held_gone(s, work);
    vram__let(s, flat);
    vram__let(s, c);
  }
  for (i = 3; i-- > 0;)
    vram__let(s, zero[i]);
  for (i = 0; i < 3; i++)
    if (d[i].d && vram__wants(f, i))
      to[i] = d[i];
    else
      vram__let(s, d[i]);
}

/* Weights of a cell: w_ih w_hh b_ih b_hh */
static void vram__cell_weights(const vram__s *s, const vram_node *n, vram__t *w) {
  uint32_t i;
  for (i = 0; i < 4; i++)
    w[i] = i < n->nparam ? s->param[n->param[i]->index] : vram__none();
}

/* x w^T (+ b), of matrices */
static vram__t vram__t_linear2(vram__s *s, vram__t x, vram__t w, vram__t b) {
  vram__t wt = vram__t_swap(s, w, 0, 1),
          y = b.d ? vram__t_addmm(s, b, x, wt, 0) : vram__t_product(s, VRAM__K_mm, x, wt);
  vram__let(s, wt);
  return y;
}

/* RNN.cpp, RNN.cu: lstm_cell and gru_cell add two products in one kernel of their own, rnn_cell
   adds and applies its function */
static void vram__run_rnn_cell(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t w[4], in[3], hx, zero = vram__none(), a, b, ws, f_in[5], t;
  vram__fn *f;
  int64_t H = VRAM__INT(n, hidden_size, 0), size[2];
  int lstm = n->op == VRAM_OP_lstm_cell, gru = n->op == VRAM_OP_gru_cell, one = x[0].d->ndim == 1;
  uint32_t i;
  vram__cell_weights(s, n, w);
  in[0] = one ? vram__t_unsqueeze(s, x[0], 0) : vram__keep_t(s, x[0]);
  size[0] = in[0].d->v[0], size[1] = H;
  in[1] = in[2] = vram__none();
  if (n->nin == 1) {
    zero = vram__empty(s, vram__dims_in(s, 2, size, NULL), x[0].dt);
    in[1] = vram__keep_t(s, zero);
    if (lstm)
      in[2] = vram__keep_t(s, zero);
  } else
    for (i = 1; i < n->nin; i++)
      in[i] = one ? vram__t_unsqueeze(s, x[i], 0) : vram__keep_t(s, x[i]);
  for (i = 4; i-- > 0;)
    if (w[i].d)
      w[i] = s->amp ? vram__autocast(s, w[i], s->amp) : vram__keep_t(s, w[i]);
  for (i = 1; s->amp && i <= 3; i++) { /* state, cell state, input */
    uint32_t k = i % 3;
    if (!in[k].d)
      continue;
    t = vram__autocast(s, in[k], s->amp);
    vram__let(s, in[k]);
    in[k] = t;
  }
  hx = in[1];
  if (lstm || gru) {
    a = vram__t_linear2(s, in[0], w[0], vram__none());
    b = vram__t_linear2(s, hx, w[1], vram__none());
    f_in[0] = a, f_in[1] = b, f_in[2] = lstm ? in[2] : hx;
    f_in[3] = w[2].d ? w[2] : a, f_in[4] = w[2].d ? w[3] : a;
    f = vram__record(s, lstm ? VRAM__K_lstm_gates : VRAM__K_gru_gates, f_in, w[2].d ? 5 : 3,
                     lstm ? 2 : 1, 7);
    size[1] = H * (lstm ? 4 : 5);
    ws = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    size[1] = H;
    y[0] = vram__empty(s, vram__dims_in(s, 2, size, NULL), a.dt);
    if (lstm)
      y[1] = vram__empty(s, y[0].d, a.dt);
    if (f) {
      if (lstm)
        vram__save(s, f, in[2]);
      if (w[2].d)
        vram__save(s, f, w[3]);
      vram__save(s, f, b);
      if (gru)
        vram__save(s, f, hx);
      if (w[2].d)
        vram__save(s, f, w[2]);
      vram__save(s, f, a);
      if (lstm)
        vram__save(s, f, y[1]);
      vram__save(s, f, ws);
    }
    vram__let(s, ws);
    vram__made(s, f, 0, &y[0]);
    if (lstm)
      vram__made(s, f, 1, &y[1]);
    vram__let(s, b);
    vram__let(s, a);
  } else {
    uint32_t kind =
        VRAM__INT(n, nonlinearity, 0) == VRAM__WORD("relu") ? VRAM_OP_relu : VRAM_OP_tanh;
    a = vram__t_linear2(s, hx, w[1], w[3]);
    b = vram__t_linear2(s, in[0], w[0], w[2]);
    vram__t_add_(s, &a, b);
    f = vram__record(s, kind, &a, 1, 1, 1);
    y[0] = vram__ti1(s, a);
    if (f)
      vram__save_letters(s, f, vram__letters(vram__plan(s, kind, 0), f), &a, 1, y[0]);
    vram__made(s, f, 0, &y[0]);
    vram__let(s, b);
    vram__let(s, a);
  }
  for (i = 0; i < 3; i++)
    vram__let(s, in[i]);
  for (i = 0; i < 4; i++)
    vram__let(s, w[i]);
  vram__let(s, zero);
  for (i = 0; i < (lstm ? 2u : 1u); i++) {
    if (one) {
      t = vram__t_squeeze1(s, y[i], 0);
      vram__let(s, y[i]);
      y[i] = t;
    }
    if (i >= n->nout)
      vram__let(s, y[i]);
  }
}

/* _thnn_fused_lstm_cell_backward_impl: one gradient for both products, one for both biases */
static void vram__bw_lstm_gates(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t cx = VRAM__SAVED(f)[0], g, c, b = vram__none();
  uint32_t i;
  int64_t size[2];
  size[0] = cx.d->v[0], size[1] = 4 * cx.d->v[1];
  g = vram__empty(s, vram__dims_in(s, 2, size, NULL), cx.dt);
  c = vram__empty(s, vram__contig(s, cx.d), cx.dt);
  if (f->nin > 3)
    b = vram__sum(s, g, 1, 0, cx.dt);
  if (vram__wants(f, 2))
    to[2] = c;
  else
    vram__let(s, c);
  for (i = 0; i < f->nin; i++)
    if (i != 2 && vram__wants(f, i))
      to[i] = vram__keep_t(s, i < 2 ? g : b);
  vram__let(s, b);
  vram__let(s, g);
}

static void vram__bw_gru_gates(vram__s *s, vram__fn *f, vram__t *to) {
  const vram_dims *d = VRAM__SLOTS(f)[0].d;
  vram__t t[5];
  uint32_t i;
  uint8_t dt = VRAM__SLOTS(f)[0].dt;
  int64_t size[2];
  size[0] = d->v[0], size[1] = 3 * d->v[1];
  for (i = 0; i < 2; i++)
    t[i] = vram__empty(s, vram__dims_in(s, 2, size, NULL), dt);
  t[2] = vram__empty(s, d, dt);
  for (i = 3; i < f->nin; i++)
    t[i] = vram__sum(s, t[i - 3], 1, 0, dt);
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i))
      to[i] = t[i];
    else
      vram__let(s, t[i]);
}

/* ---- composite, anything else ---- */

/* zeros.index_add_(0, index, source): the gradient of the source is picked from g */
static void vram__bw_index_add(vram__s *s, vram__fn *f, vram__t *to) {
  vram__t g = VRAM__SLOTS(f)[0].g;
  to[0] = vram__empty(s, vram__contig(s, vram__in_dims(s, f, 0, NULL)), g.dt);
}

/* x[index] along axis 0 */
static vram__t vram__t_rows(vram__s *s, vram__t x, vram__t index) {
  vram__fn *f = vram__record(s, VRAM_OP_index, &x, 1, 1, 1);
  vram__t y;
  if (f)
    vram__save(s, f, index);
  y = vram__indexed(s, x, &index, 1, 0);
  vram__made(s, f, 0, &y);
  return y;
}

/* act(gate) * up of a [rows, 2i] product of both, or act(up); takes x. act: silu with a gate, else
   gelu */
static vram__t vram__t_gated(vram__s *s, vram__t x, int gated) {
  vram__t part[2], a, y;
  vram__fn *f;
  int64_t size[2];
  uint32_t i;
  if (!gated) {
    y = vram__t_pointwise(s, VRAM_OP_gelu, &x, 1);
    vram__let(s, x);
    return y;
  }
  f = vram__record(s, VRAM_OP_chunk, &x, 1, 2, 0);
  if (f)
    f->aux = 1;
  size[0] = x.d->v[0], size[1] = x.d->v[1] / 2;
  for (i = 0; i < 2; i++) {
    part[i] = vram__alias(s, x, vram__dims_in(s, 2, size, VRAM__STRIDE(x.d)));
    vram__made(s, f, i, &part[i]);
  }
  a = vram__t_pointwise(s, VRAM_OP_silu, &part[0], 1);
  y = vram__t_mul(s, a, part[1]);
  vram__let(s, a);
  vram__let(s, part[0]);
  vram__let(s, part[1]);
  vram__let(s, x);
  return y;
}

/* The shared expert: a feed-forward of its own for every token */
static vram__t vram__moe_shared(vram__s *s, vram__t x, const vram__t *w) {
  vram__t a, b = vram__t_linear2(s, x, w[1], vram__none()), t;
  if (w[0].d) {
    t = vram__t_linear2(s, x, w[0], vram__none());
    a = vram__t_pointwise(s, VRAM_OP_silu, &t, 1);
    vram__let(s, t);
    t = vram__t_mul(s, a, b);
    vram__let(s, a);
  } else
    t = vram__t_pointwise(s, VRAM_OP_gelu, &b, 1);
  vram__let(s, b);
  b = vram__t_linear2(s, t, w[2], vram__none());
  vram__let(s, t);
  return b;
}

/* Routed feed-forward: every token goes through top_k experts. Tokens are grouped by expert and go
   through grouped products, so that nothing but the groups' sizes depends on the data: what stands
   here holds for any routing where the groups' sum counts, and expects tokens that are spread
   evenly where a group's own size would count (one product a group on older devices). */
static void vram__run_moe(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  const vram_dims *d = x[0].d;
  int64_t h = d->v[d->ndim - 1], k = VRAM__INT(n, top_k, 1), size[3], i;
  int gated = VRAM__INT(n, gated, 1) != 0;
  uint8_t dt;
  uint32_t j;
  vram__t w[6], xf, p, q, t, top, idx, perm, back, rows, weight, offsets, out, turned;
  vram__fn *f;
  for (j = 6; j-- > 0;) {
    w[j] = n->param[j] ? s->param[n->param[j]->index] : vram__none();
    if (w[j].d)
      w[j] = s->amp ? vram__autocast(s, w[j], s->amp) : vram__keep_t(s, w[j]);
  }
  t = s->amp ? vram__autocast(s, x[0], s->amp) : vram__keep_t(s, x[0]);
  dt = t.dt;
  size[0] = h ? (int64_t)(d->numel / (uint64_t)h) : 0, size[1] = h;
  xf = vram__t_reshape(s, t, 2, size);
  vram__let(s, t);
  /* the router: probabilities in f32, the k largest, made to add up to 1 */
  p = vram__t_linear2(s, xf, w[0], vram__none());
  q = vram__t_softmax(s, VRAM_OP_softmax, p, VRAM_F32);
  vram__let(s, p);
  size[1] = k;
  f = vram__record(s, VRAM_OP_topk, &q, 1, 1, 1);
  top = vram__empty(s, vram__dims_in(s, 2, size, NULL), q.dt);
  idx = vram__empty(s, top.d, VRAM_I64);
  vram__topk_scratch(s, q.d, 1);
  if (f)
    vram__save(s, f, idx);
  vram__made(s, f, 0, &top);
  vram__let(s, q);
  f = vram__record(s, VRAM_OP_sum, &top, 1, 1, 0);
  if (f)
    f->aux = 2;
  {
    vram__t in[2];
    in[0] = top;
    in[1] = vram__sum(s, top, 2, 1, top.dt);
    vram__made(s, f, 0, &in[1]);
    p = vram__t_pointwise(s, VRAM_OP_div, in, 2);
    vram__let(s, in[1]);
    vram__let(s, top);
  }
  top = vram__t_cast(s, p, dt);
  vram__let(s, p);
  /* tokens in the order of their experts: argsort, which sorts the values, too */
  i = size[0] * k;
  size[0] = i;
  q = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I64);
  perm = vram__empty(s, q.d, VRAM_I64);
  vram__sort_rows(s, q.d, q.d, 0, 8);
  vram__let(s, q);
  vram__let(s, idx);
  back = vram__empty(s, perm.d, VRAM_I64); /* the token of every row */
  rows = vram__t_rows(s, xf, back);
  p = vram__t_reshape(s, top, 1, size);
  vram__let(s, top);
  weight = vram__t_rows(s, p, perm);
  vram__let(s, p);
  vram__let(s, perm);
  size[0] = VRAM__INT(n, num_experts, 1);
  offsets = vram__empty(s, vram__dims_in(s, 1, size, NULL), VRAM_I32);
  size[0] = i, size[1] = w[1].d->v[1];
  turned = vram__t_swap(s, w[1], 1, 2);
  p = vram__t_grouped(s, rows, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, rows);
  p = vram__t_gated(s, p, gated);
  size[1] = h;
  turned = vram__t_swap(s, w[2], 1, 2);
  q = vram__t_grouped(s, p, turned, offsets, vram__dims_in(s, 2, size, NULL));
  vram__let(s, turned);
  vram__let(s, p);
  vram__let(s, offsets);
  t = vram__t_unsqueeze(s, weight, 1);
  vram__let(s, weight);
  p = vram__t_mul(s, q, t);
  vram__let(s, t);
  vram__let(s, q);
  f = vram__record(s, VRAM__K_index_add, &p, 1, 1, 2);
  if (f)
    vram__save(s, f, back), vram__save(s, f, p); /* the source for its sizes */
  out = vram__empty(s, xf.d->flags & VRAM__CONTIG ? xf.d : vram__contig(s, xf.d), dt);
  vram__made(s, f, 0, &out);
  vram__let(s, p);
  vram__let(s, back);
  if (w[4].d) {
    vram__t in[2];
    in[0] = out, in[1] = vram__moe_shared(s, xf, w + 3);
    t = vram__t_pointwise(s, VRAM_OP_add, in, 2);
    vram__let(s, in[1]);
    vram__let(s, out);
    out = t;
  }
  vram__let(s, xf);
  for (j = 0; j < 6; j++)
    vram__let(s, w[j]);
  y[0] = vram__view(s, out, vram__dims_in(s, d->ndim, d->v, NULL), VRAM__K_view, 0);
  vram__let(s, out);
}

/* An op that the table does not know: what its node says. Backward needs the workspace once more
   and makes gradients of the inputs and of the parameters. */
static void vram__run_custom(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__t in[17], keep = vram__none();
  vram__fn *f;
  uint32_t i;
  int64_t saved = VRAM__INT(n, saved, 0);
  uint8_t dt = vram__run_dtype(s, n->out[0].dtype);
  for (i = 0; i < n->nin; i++)
    in[i] = x[i];
  if (n->param[0])
    in[i++] = s->param[n->param[0]->index];
  if (n->nin && !vram__list(n, VRAM__KEY_dtype, NULL))
    dt = x[0].dt;
  f = vram__kind_rank(dt) >= 2 ? vram__record(s, n->op, in, i, n->nout, 1) : NULL;
  for (i = 0; i < n->nout; i++)
    y[i] = vram__empty(s, n->out[i].d, dt);
  if (saved) {
    keep = vram__empty(s, vram__dims_in(s, 1, &saved, NULL), VRAM_U8);
    if (f)
      vram__save(s, f, keep);
  }
  vram__workspace(s, (uint64_t)VRAM__INT(n, workspace, 0));
  if (s->amp || s->low) { /* the bytes are those of a run in fp32: half of them in 16 bits */
    s->custom = vram__plus(s->custom, (uint64_t)saved / 2);
    if (s->custom_most < (uint64_t)VRAM__INT(n, workspace, 0) / 2)
      s->custom_most = (uint64_t)VRAM__INT(n, workspace, 0) / 2;
  }
  vram__let(s, keep);
  for (i = 0; i < n->nout; i++)
    vram__made(s, f, i, &y[i]);
}

static void vram__bw_custom(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  for (i = 0; i < f->nin; i++)
    if (vram__wants(f, i)) {
      uint8_t dt;
      const vram_dims *d = vram__in_dims(s, f, i, &dt);
      to[i] = vram__empty(s, vram__dense(s, d), dt);
    }
  vram__workspace(s, (uint64_t)VRAM__INT(f->node, workspace, 0));
}

/* ops written out to lines run as those; ops made of other autograd nodes have no backward of their
 * own */
static void vram__run_lines(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  (void)s, (void)n, (void)x, (void)y;
}

static void vram__bw_scale(vram__s *s, vram__fn *f, vram__t *to) {
  to[0] = vram__ti2(s, VRAM__SLOTS(f)[0].g, VRAM__SAVED(f)[0]);
}

static void vram__bw_checkpoint(vram__s *s, vram__fn *f, vram__t *to);

static void vram__bw_none(vram__s *s, vram__fn *f, vram__t *to) { (void)s, (void)f, (void)to; }
#define vram__bw_lines vram__bw_none
#define vram__bw_moe vram__bw_none
#define vram__bw_rnn_cell vram__bw_none
#define vram__bw_compare vram__bw_none
#define vram__bw_index_select vram__bw_gather
#define vram__bw_argmax vram__bw_none
#define vram__bw_one_hot vram__bw_none
#define vram__bw_histc vram__bw_none
#define vram__bw_diff vram__bw_none
#define vram__bw_sort vram__bw_topk
#define vram__bw_product vram__bw_none
#define vram__bw_detach vram__bw_none
#define vram__bw_contiguous vram__bw_none
#define vram__bw_to vram__bw_none
#define vram__bw_create vram__bw_none
#define vram__bw_fill vram__bw_none
#define vram__bw_parameter vram__bw_none
#define vram__bw_cross_entropy vram__bw_none
#define vram__bw_ctc_loss vram__bw_none
#define vram__bw_cosine vram__bw_none
#define vram__bw_triplet vram__bw_none
#define vram__bw_gumbel_softmax vram__bw_none
#define vram__bw_mha vram__bw_none
#define vram__bw_lrn vram__bw_none
#define vram__bw_einsum vram__bw_none
#define vram__bw_sdpa vram__bw_none
#define vram__bw_batch_norm vram__bw_none
#define vram__bw_instance_norm vram__bw_none
#define vram__bw_mean vram__bw_reduce

typedef void (*vram__run_fn)(vram__s *, const vram_node *, vram__t *, vram__t *);
typedef void (*vram__bw_fn)(vram__s *, vram__fn *, vram__t *);

static const vram__op_row vram__op_table[VRAM__OP_end + 1] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys)                                          \
  {#id, recipe, keys, vram__shape_##shape, lo, hi, VRAM__AC_##ac},
    VRAM_OPS(VRAM__X)
#undef VRAM__X
        {"drop", "", "", NULL, 0, 0, VRAM__AC_none},
    {"end", "", "", NULL, 0, 0, VRAM__AC_none}};

static const vram__op_row *vram__op_at(uint32_t op) { return &vram__op_table[op]; }

static const char *vram__op_name(uint32_t op) { return vram__op_table[op].name; }

static const vram__run_fn vram__run_table[VRAM_OP_COUNT] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys) vram__run_##run,
    VRAM_OPS(VRAM__X)
#undef VRAM__X
};

static void vram__run_op(vram__s *s, const vram_node *n, vram__t *x, vram__t *y) {
  vram__run_table[n->op](s, n, x, y);
}
static int vram__is_lines(uint32_t op) { return vram__run_table[op] == vram__run_lines; }

/* by the kind of a record: ops, then primitives */
static const vram__bw_fn vram__bw_table[VRAM__K_COUNT] = {
#define VRAM__X(id, lo, hi, shape, run, ac, recipe, keys) vram__bw_##run,
    VRAM_OPS(VRAM__X)
#undef VRAM__X
#define VRAM__X(name) vram__bw_##name,
        VRAM__PRIMITIVES(VRAM__X)
#undef VRAM__X
#define VRAM__X(name, recipe) vram__bw_pointwise,
            VRAM__VARIANTS(VRAM__X)
#undef VRAM__X
};

static void vram__recompute(vram__s *s, vram__frame *c);

/* A checkpointed call is recomputed when the first of its tensors is wanted. */
static void vram__unpack(vram__s *s, vram__fn *f) {
  if (f->frame && f->nsaved && !vram__frame_at(s, f->frame)->done)
    vram__recompute(s, vram__frame_at(s, f->frame));
}

/* Recomputed tensors go when the record has run, not when it is released. */
/* SavedVariable::unpack: has what f saved been overwritten since? */
static int vram__is_stale(vram__s *s, vram__fn *f) {
  const uint32_t at = vram__fn_index(s, f);
  uint32_t i;
  if (f->frame || f->kind == VRAM__K_checkpoint) /* look themselves */
    return 0;
  for (i = 0; i < f->nsaved; i++)
    if (VRAM__SAVED(f)[i].st && (s->top - VRAM__SAVED(f)[i].st)->writes > at) {
      vram__no_step(s, VRAM_ERR_UNSUPPORTED, f->node,
                    "what backward needs was overwritten in place: PyTorch stops with an error "
                    "(modified by an inplace operation)");
      return 1;
    }
  return 0;
}

static void vram__bw_any(vram__s *s, vram__fn *f, vram__t *to) {
  uint32_t i;
  if (s->stale && vram__is_stale(s, f))
    return;
  vram__unpack(s, f);
  if (s->failed)
    return;
  vram__bw_table[f->kind](s, f, to);
  for (i = 0; f->frame && i < f->nsaved; i++)
    if (VRAM__SAVED(f)[i].st) {
      vram__drop_storage(s, VRAM__SAVED(f)[i].st);
      VRAM__SAVED(f)[i].st = 0;
    }
}

/* >>optim (Implementation) --------------------------------------------------------------------- */

typedef struct vram__optim_param {
  uint64_t numel;
  uint32_t ndim;
  const int64_t *size;
  uint8_t dtype;
  uint64_t grad_handle; /* the caller's; not used here */
} vram__optim_param;

typedef struct vram__optim_row {
  const char *name, *state;
  uint8_t def, flags;
  const char *init, *body[4]; /* body: by VRAM_OPTIM_IMPL_FOREACH, ... */
} vram__optim_row;

static const vram__optim_row vram__optim_rows[VRAM_OPTIM_COUNT] = {
#define VRAM__OPTIM_ROW(name, state, def, flags, init, foreach, loop, fused)                       \
  {#name, state, VRAM_OPTIM_IMPL_##def, flags, init, {0, foreach, loop, fused}},
    VRAM_OPTIMIZERS(VRAM__OPTIM_ROW)
#undef VRAM__OPTIM_ROW
};

/* zero means the default everywhere */
typedef struct vram__optim_config {
  uint8_t optim;          /* VRAM_OPTIM_... */
  uint8_t impl;           /* VRAM__OPTIM_...; default: what the optimizer picks on CUDA by itself */
  uint8_t weight_decay;   /* weight_decay != 0 */
  uint8_t capturable;     /* the option of that name */
  uint8_t scaler;         /* GradScaler makes the step: scaler.step(optimizer), scaler.update() */
  uint8_t master;         /* f32 copies of low-precision parameters; the optimizer works on them */
  uint8_t events;         /* 1: vram__optim_alloc and _free for each allocation; needs ids */
  uint32_t step;          /* number of the step, the first is 1; 0: a late one */
  uint32_t block;         /* elements per scale of an 8-bit state; 0: 256 (old releases: 2048) */
  uint32_t sms;           /* multiprocessors; 0: 132 */
  uint32_t sm_threads;    /* threads that one holds; 0: 2048 */
  uint64_t blas_bytes;    /* cuBLAS workspace; 0: 32 MiB (compute capability below 9.0: 8519680) */
  uint64_t blaslt_bytes;  /* cuBLASLt workspace; 0: 1 MiB */
  void *ctx;              /* for vram__optim_alloc and _free */
  uint32_t *ids;          /* scratch of vram__optim_ids() numbers */
  const vram__total *all; /* a list like all parameters, if the caller has added it up */
} vram__optim_config;

/* above the bytes before the call; UINT64_MAX: overflow */
typedef struct vram__optim_bytes {
  uint64_t state, peak, end;                      /* as asked for */
  uint64_t state_blocks, peak_blocks, end_blocks; /* each allocation rounded up to 512 bytes */
  uint64_t state_large, peak_upper; /* blocks of more than 1 MiB; what blocks take at most */
  uint64_t peak_state;              /* state at the peak */
} vram__optim_bytes;

static uint32_t vram__optim_alloc(void *ctx, uint64_t bytes, int is_state);
static void vram__optim_free(void *ctx, uint32_t id);

#define VRAM__OPTIM_NIL 0xffffffffu

typedef struct vram__optim_reg {
  vram__total sum;
  uint32_t head; /* its last one; linked to the one before */
} vram__optim_reg;

typedef struct vram__optim_run {
  const vram__optim_config *c;
  const vram__optim_param *p;
  uint32_t n, nodes;
  uint8_t impl, flags, first, late, filter, dtype, matrix, tables, overflow;
  uint32_t unused, fresh; /* nodes of c->ids: given back (linked), and the first never used */
  uint64_t now, peak, state, now_blocks, peak_blocks, state_blocks;
  uint64_t now_large, state_large, peak_upper; /* each large block may be 1 MiB larger */
  uint64_t peak_state;
  vram__total all; /* of a list like all parameters, once it is known */
  uint8_t has_all;
  vram__optim_reg reg[26];
} vram__optim_run;

static const vram__optim_row *vram__optim_row_of(const vram__optim_config *c) {
  return &vram__optim_rows[c->optim < VRAM_OPTIM_COUNT ? c->optim : 0];
}

static uint8_t vram__optim_impl(const vram__optim_config *c) {
  return c->impl ? c->impl : vram__optim_row_of(c)->def;
}

/* numbers of c->ids for n parameters */
static size_t vram__optim_ids(uint32_t n) { return 2 * (10 * (size_t)n + 64); }

/* the row of a name (a suffix _wd asks for weight decay), or -1 */
static int vram__optim_find(const char *name, size_t len, uint8_t *weight_decay) {
  int tail;
  for (tail = 0; tail < 2; tail++) {
    int row;
    if (tail) {
      if (len < 4 || name[len - 3] != '_' || name[len - 2] != 'w' || name[len - 1] != 'd')
        break;
      len -= 3;
    }
    for (row = 0; row < VRAM_OPTIM_COUNT; row++) {
      const char *s = vram__optim_rows[row].name;
      size_t i = 0;
      while (i < len && s[i] && s[i] == name[i])
        i++;
      if (i == len && !s[i]) {
        if (tail && weight_decay)
          *weight_decay = 1;
        return row;
      }
    }
  }
  return -1;
}

/* why this combination does not exist, or 0 */
static const char *vram__optim_problem(const vram__optim_config *c, const vram__optim_param *p,
                                       uint32_t n) {
  const vram__optim_row *row = vram__optim_row_of(c);
  uint8_t impl = vram__optim_impl(c);
  uint32_t i;
  if (c->optim >= VRAM_OPTIM_COUNT)
    return "unknown optimizer";
  if (impl > VRAM_OPTIM_IMPL_FUSED || !row->body[impl])
    return impl == VRAM_OPTIM_IMPL_FUSED     ? "this optimizer has no fused implementation"
           : impl == VRAM_OPTIM_IMPL_FOREACH ? "this optimizer has no foreach implementation"
                                             : "this optimizer has no for-loop implementation";
  if (c->capturable && !(row->flags & VRAM__OPTIM_CAPTURE))
    return "this optimizer has no option capturable";
  if (c->scaler && !c->master)
    for (i = 0; i < n; i++)
      if (vram__size_of(p[i].dtype) < 4)
        return "GradScaler cannot unscale gradients of fp16 or bf16";
  return 0;
}

static uint64_t vram__optim_add(vram__optim_run *r, uint64_t a, uint64_t b) {
  if (a + b < a)
    r->overflow = 1;
  return a + b;
}

static uint64_t vram__optim_mul(vram__optim_run *r, uint64_t a, uint64_t b) {
  if (b && a > UINT64_MAX / b)
    r->overflow = 1;
  return a * b;
}

static inline uint8_t vram__optim_dtype(const vram__optim_run *r, uint32_t i) {
  uint8_t d = r->p[i].dtype;
  return r->c->master && vram__size_of(d) < 4 ? (uint8_t)VRAM_F32 : d;
}

/* product of the sizes of axes [0, ndim - tail) */
static uint64_t vram__optim_batch(vram__optim_run *r, const vram__optim_param *p, uint32_t tail) {
  uint64_t k = 1;
  uint32_t i;
  for (i = 0; i + tail < p->ndim; i++)
    k = vram__optim_mul(r, k, (uint64_t)p->size[i]);
  return k;
}

static uint64_t vram__optim_axis(const vram__optim_param *p, uint32_t tail) {
  return tail <= p->ndim ? (uint64_t)p->size[p->ndim - tail] : 1;
}

static uint64_t vram__optim_size(vram__optim_run *r, uint32_t i, char code) {
  const vram__optim_param *p = &r->p[i];
  uint64_t e = vram__size_of(vram__optim_dtype(r, i)), k, block;
  switch (code) {
  case 'p':
    return vram__optim_mul(r, p->numel, e);
  case 'P':
    return r->c->capturable && e < 4 && !p->ndim ? 4 : vram__optim_mul(r, p->numel, e);
  case 'E':
    return r->c->capturable && e < 4 && !p->ndim ? 4 : e;
  case 'b':
    return p->numel;
  case 'h':
    return vram__optim_mul(r, p->numel, 2);
  case 'f':
    return vram__optim_mul(r, p->numel, 4);
  case 'F':
    return vram__size_of(p->dtype) < 4 ? vram__optim_mul(r, p->numel, 4) : 0;
  case 'e':
    return e;
  case 's':
    return 4;
  case 'n':
    return 2;
  case '1':
    return 1;
  case '8':
    return 8;
  case 'k':
    return 1024;
  case 'a':
    block = r->c->block ? r->c->block : 256;
    return 4 * (p->numel / block + (p->numel % block != 0));
  case 'r':
    return vram__optim_mul(r, vram__optim_batch(r, p, 1), e);
  case 'c':
    return vram__optim_mul(r, vram__optim_mul(r, vram__optim_batch(r, p, 2), e),
                           vram__optim_axis(p, 1));
  case 'o':
    return vram__optim_mul(r, vram__optim_batch(r, p, 2), e);
  case 'g':
    k = vram__optim_axis(p, 1) < vram__optim_axis(p, 2) ? vram__optim_axis(p, 1)
                                                        : vram__optim_axis(p, 2);
    return vram__optim_mul(r, vram__optim_mul(r, k, k), 2);
  default:
    return 0;
  }
}

static uint64_t vram__optim_blocks(uint64_t bytes) {
  return bytes > UINT64_MAX - 511 ? UINT64_MAX : (bytes + 511) & ~(uint64_t)511;
}

/* One tensor more in a list; PyTorch allocates nothing for an empty one. */
static void vram__optim_one(vram__optim_run *r, vram__total *t, uint64_t bytes) {
  if (!bytes)
    return;
  t->bytes = vram__optim_add(r, t->bytes, bytes);
  t->blocks = vram__optim_add(r, t->blocks, vram__optim_blocks(bytes));
  t->large += bytes > VRAM__SMALL;
  t->last = bytes;
}

static void vram__optim_grow(vram__optim_run *r, const vram__total *t) {
  r->now = vram__optim_add(r, r->now, t->bytes);
  r->now_blocks = vram__optim_add(r, r->now_blocks, t->blocks);
  r->now_large += t->large;
  if (r->now > r->peak)
    r->peak = r->now, r->peak_state = r->state;
  if (r->now_blocks > r->peak_blocks)
    r->peak_blocks = r->now_blocks;
  if (r->now_blocks + r->now_large * VRAM__SMALL > r->peak_upper)
    r->peak_upper = r->now_blocks + r->now_large * VRAM__SMALL;
}

static void vram__optim_shrink(vram__optim_run *r, const vram__total *t) {
  r->now -= t->bytes;
  r->now_blocks -= t->blocks;
  r->now_large -= t->large;
}

static void vram__optim_into(vram__optim_run *r, vram__total *to, const vram__total *t) {
  if (!t->bytes)
    return;
  to->bytes = vram__optim_add(r, to->bytes, t->bytes);
  to->blocks = vram__optim_add(r, to->blocks, t->blocks);
  to->large += t->large;
  to->last = t->last;
}

static void vram__optim_push(vram__optim_run *r, vram__optim_reg *g, uint64_t bytes) {
  vram__total t;
  if (!bytes)
    return;
  t.bytes = t.blocks = t.large = t.last = 0;
  vram__optim_one(r, &t, bytes);
  vram__optim_grow(r, &t);
  vram__optim_into(r, &g->sum, &t);
  if (r->c->events) {
    uint32_t *pair, id = vram__optim_alloc(r->c->ctx, bytes, 0), node = r->unused;
    if (node != VRAM__OPTIM_NIL)
      r->unused = r->c->ids[2 * (size_t)node + 1];
    else if (r->fresh < r->nodes)
      node = r->fresh++;
    else {
      r->overflow = 1; /* not reached: no recipe holds ten lists */
      return;
    }
    pair = r->c->ids + 2 * (size_t)node;
    pair[0] = id;
    pair[1] = g->head;
    g->head = node;
  }
}

static int vram__optim_match(const vram__optim_run *r, uint32_t i);

/* The list of this size code over parameters [from, to). Most lists are like the parameters. */
static void vram__optim_list(vram__optim_run *r, char code, uint32_t from, uint32_t to,
                             vram__total *t) {
  int all = code == 'p' && !r->filter && !(r->flags & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_SPLIT)) &&
            from == 0 && to == r->n;
  uint32_t i;
  if (all && r->has_all) {
    *t = r->all;
    return;
  }
  t->bytes = t->blocks = t->large = t->last = 0;
  for (i = from; i < to; i++)
    if (vram__optim_match(r, i))
      vram__optim_one(r, t, vram__optim_size(r, i, code));
  if (all) {
    r->all = *t;
    r->has_all = 1;
  }
}

static void vram__optim_state(vram__optim_run *r, char code, uint32_t from, uint32_t to) {
  vram__total t;
  uint32_t i;
  vram__optim_list(r, code, from, to, &t);
  r->state = vram__optim_add(r, r->state, t.bytes);
  vram__optim_grow(r, &t);
  r->state_blocks = vram__optim_add(r, r->state_blocks, t.blocks);
  r->state_large += t.large;
  if (r->c->events)
    for (i = from; i < to; i++)
      if (vram__optim_match(r, i) && vram__optim_size(r, i, code))
        vram__optim_alloc(r->c->ctx, vram__optim_size(r, i, code), 1);
}

static void vram__optim_clear(vram__optim_reg *g) {
  g->sum.bytes = g->sum.blocks = g->sum.large = g->sum.last = 0;
  g->head = VRAM__OPTIM_NIL;
}

/* frees what a register holds, from `node` on */
static void vram__optim_drop(vram__optim_run *r, vram__optim_reg *g, uint32_t node) {
  vram__optim_shrink(r, &g->sum);
  while (node != VRAM__OPTIM_NIL) {
    uint32_t *pair = r->c->ids + 2 * (size_t)node, before = pair[1];
    vram__optim_free(r->c->ctx, pair[0]);
    pair[1] = r->unused;
    r->unused = node;
    node = before;
  }
  vram__optim_clear(g);
}

/* allocated and freed at once: first, then second, and back */
static void vram__optim_pulse(vram__optim_run *r, uint64_t first, uint64_t second) {
  vram__optim_reg g;
  vram__optim_clear(&g);
  vram__optim_push(r, &g, first);
  vram__optim_push(r, &g, second);
  vram__optim_drop(r, &g, g.head);
}

static uint64_t vram__optim_pow2(uint64_t n) { /* the largest power of two up to n */
  uint64_t k = 1;
  while (k <= n / 2)
    k *= 2;
  return k;
}

static uint64_t vram__optim_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }

/* Workspace of one of PyTorch's CUDA reductions: `inputs` elements to each of `outputs` results. A
   result that is too much work for one thread block is split over several, each of which leaves its
   part in a buffer. `row`: 0 where the reduced elements are neighbours, else the length of the last
   axis, which is kept. Right up to 2 GiB per tensor (PyTorch splits larger ones first). */
static void vram__optim_reduce(vram__optim_run *r, uint64_t outputs, uint64_t inputs, uint64_t row,
                               uint64_t bytes) {
  uint64_t sms = r->c->sms ? r->c->sms : 132;
  uint64_t sm_threads = r->c->sm_threads ? r->c->sm_threads : 2048;
  uint64_t vec = 1, d0 = row ? outputs : inputs, d1 = row ? inputs : outputs, most, width, height;
  uint64_t step_in = 1, step_out = 1, each, grid, parts, size;
  if (!outputs || !inputs)
    return;
  if (row) {
    for (vec = 4; row % vec; vec /= 2) {
    }
    d0 /= vec;
  } else if (d0 >= 128)
    d0 /= 4;
  most = 512 / vec;
  d0 = d0 < most ? vram__optim_pow2(d0) : most;
  d1 = d1 < most ? vram__optim_pow2(d1) : most;
  width = d0 < 32 ? d0 : 32;
  height = d1 < most / width ? d1 : most / width;
  width = d0 < most / height ? d0 : most / height;
  if (row)
    step_out = width;
  else
    step_in = width;
  each = vram__optim_up(inputs, step_in);
  if (each < (height * 16 < 256 ? height * 16 : 256))
    return; /* one warp does it */
  step_in *= height;
  each = vram__optim_up(inputs, step_in);
  grid = vram__optim_up(outputs / vec, step_out);
  sms *= sm_threads / (width * height);
  if (each < 256 || grid > sms)
    return;
  parts = vram__optim_up(sms, grid);
  if (parts > vram__optim_up(each, 16))
    parts = vram__optim_up(each, 16);
  if (parts < vram__optim_up(each, 256))
    parts = vram__optim_up(each, 256);
  if (parts < 2)
    return;
  size = vram__optim_mul(r, vram__optim_mul(r, outputs, parts), bytes);
  if (row)
    size = vram__optim_mul(r, size, width * vec);
  vram__optim_pulse(r, size, 4 * grid);
}

static void vram__optim_workspace(vram__optim_run *r, uint32_t i, char op, char code) {
  const vram__optim_param *p = &r->p[i];
  uint64_t bytes = vram__size_of(vram__optim_dtype(r, i)) > 4 ? 8 : 4;
  uint64_t cols = vram__optim_axis(p, 1), rows = vram__optim_axis(p, 2);
  if (op == '*') {
    if (code == 'w' || cols == 1 || rows == 1 || (code == 't' && rows > cols))
      vram__optim_pulse(r, r->c->blas_bytes ? r->c->blas_bytes : 33554432, 0);
    else
      vram__optim_pulse(r, r->c->blaslt_bytes ? r->c->blaslt_bytes : 1048576, 0);
    return;
  }
  switch (code) {
  case 'N':
    vram__optim_reduce(r, 1, p->numel, 0, bytes);
    break;
  case 'B':
    vram__optim_reduce(r, 1, p->numel, 0, 4);
    break;
  case 'R':
    vram__optim_reduce(r, vram__optim_batch(r, p, 1), cols, 0, bytes);
    break;
  case 'C':
    vram__optim_reduce(r, vram__optim_mul(r, vram__optim_batch(r, p, 2), cols), rows,
                       cols > 1 ? cols : 0, bytes);
    break;
  default:
    vram__optim_reduce(r, vram__optim_batch(r, p, 2), rows, 0, bytes);
    break;
  }
}

/* does parameter i take part in the current scope? */
static int vram__optim_match(const vram__optim_run *r, uint32_t i) {
  if ((r->flags & VRAM__OPTIM_MATRIX) && r->p[i].ndim != 2)
    return 0;
  if (!r->filter)
    return 1;
  if (vram__optim_dtype(r, i) != r->dtype)
    return 0;
  return !(r->flags & VRAM__OPTIM_SPLIT) || (r->p[i].ndim > 1) == r->matrix;
}

static int vram__optim_if(vram__optim_run *r, char x, uint32_t i) {
  switch (x) {
  case 'W':
  case 'w':
    return (r->c->weight_decay && !(r->flags & VRAM__OPTIM_DECOUPLED)) == (x == 'W');
  case 'F':
    return r->first;
  case 'L':
    return r->late;
  case 'l':
    return !r->late;
  case 'C':
    return r->c->capturable != 0;
  case 'c':
    return r->c->capturable == 0;
  case 'D':
    return r->c->capturable || r->impl == VRAM_OPTIM_IMPL_FUSED;
  case '2':
    return r->p[i].ndim > 1;
  case '1':
    return r->p[i].ndim < 2;
  case 'B':
    return r->p[i].numel >= 4096;
  case 'b':
    return r->p[i].numel < 4096;
  case 'Q':
    return !r->tables++;
  default:
    return 0;
  }
}

/* behind the bracket that closes the one at s */
static const char *vram__optim_close(const char *s) {
  int depth = 0;
  do {
    if (*s == '[' || *s == '(')
      depth++;
    if (*s == ']' || *s == ')')
      depth--;
    s++;
  } while (depth);
  return s;
}

/* plays a recipe up to its end, '|' or ')' on the parameters [from, to) that match; `from` does */
static void vram__optim_play(vram__optim_run *r, const char *s, uint32_t from, uint32_t to) {
  while (*s && *s != '|' && *s != ')') {
    vram__optim_reg *g, *h;
    vram__total t;
    uint32_t i, node;
    char op = *s++;
    switch (op) {
    case ']':
      break;
    case '+':
      g = &r->reg[*s - 'a'];
      if (r->c->events || to - from == 1) {
        for (i = from; i < to; i++)
          if (vram__optim_match(r, i))
            vram__optim_push(r, g, vram__optim_size(r, i, s[1]));
      } else { /* a list in one piece */
        vram__optim_list(r, s[1], from, to, &t);
        vram__optim_grow(r, &t);
        vram__optim_into(r, &g->sum, &t);
      }
      s += 2;
      break;
    case '!':
      vram__optim_state(r, *s, from, to);
      s++;
      break;
    case '.':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_pulse(r, vram__optim_size(r, i, *s), 0);
      s++;
      break;
    case '-':
      g = &r->reg[*s++ - 'a'];
      vram__optim_drop(r, g, g->head);
      break;
    case '=':
      g = &r->reg[*s - 'a'];
      h = &r->reg[s[1] - 'a'];
      vram__optim_drop(r, g, g->head);
      *g = *h;
      vram__optim_clear(h);
      s += 2;
      break;
    case '^':
      g = &r->reg[*s - 'a'];
      h = &r->reg[s[1] - 'a'];
      s += 2;
      t.bytes = t.blocks = t.large = t.last = 0;
      vram__optim_one(r, &t, h->sum.last);
      g->sum = t;
      g->head = h->head;
      h->sum.bytes -= t.bytes;
      h->sum.blocks -= t.blocks;
      h->sum.large -= t.large;
      node = h->head;
      if (node != VRAM__OPTIM_NIL) {
        node = r->c->ids[2 * (size_t)node + 1];
        r->c->ids[2 * (size_t)g->head + 1] = VRAM__OPTIM_NIL;
      }
      vram__optim_drop(r, h, node);
      break;
    case '*':
    case '%':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_workspace(r, i, op, *s);
      s++;
      break;
    case '(':
      for (i = from; i < to; i++)
        if (vram__optim_match(r, i))
          vram__optim_play(r, s, i, i + 1);
      s = vram__optim_close(s - 1);
      break;
    default: /* X[ */
      s = vram__optim_if(r, op, from) ? s + 1 : vram__optim_close(s);
      break;
    }
  }
}

/* the body on the scope's groups, or on each parameter, then its end */
static void vram__optim_body(vram__optim_run *r, const char *body) {
  uint8_t dtype[16], dtypes = 0, k;
  uint32_t i;
  if (r->impl == VRAM_OPTIM_IMPL_FUSED) {
    vram__optim_play(r, body, 0, r->n);
  } else if (r->impl == VRAM_OPTIM_IMPL_LOOP) {
    for (i = 0; i < r->n; i++)
      if (vram__optim_match(r, i))
        vram__optim_play(r, body, i, i + 1);
  } else {
    for (i = 0; i < r->n; i++) {
      uint8_t d = vram__optim_dtype(r, i);
      if (dtypes && d == dtype[dtypes - 1])
        continue;
      for (k = 0; k < dtypes && dtype[k] != d; k++) {
      }
      if (k == dtypes && k < 16)
        dtype[dtypes++] = d;
    }
    for (k = dtypes; k && k--;) {
      int half, halves = r->flags & VRAM__OPTIM_SPLIT ? 2 : 1, done = 2;
      r->dtype = dtype[k];
      for (half = 0; half < halves; half++) {
        r->filter = 0;
        for (i = 0; i < r->n; i++) /* the first of the group */
          if (vram__optim_dtype(r, i) == r->dtype && (r->p[i].ndim > 1) != done)
            break;
        if (i == r->n)
          continue;
        r->matrix = r->p[i].ndim > 1;
        done = r->matrix;
        r->filter = dtypes > 1 || halves > 1;
        vram__optim_play(r, body, i, r->n);
      }
    }
    r->filter = 0;
  }
  while (*body && *body != '|')
    body++;
  if (*body)
    vram__optim_play(r, body + 1, 0, 1);
}

static void vram__optim_begin(vram__optim_run *r, const vram__optim_config *c,
                              const vram__optim_param *p, uint32_t n) {
  uint8_t k;
  r->c = c;
  r->p = p;
  r->n = n;
  r->impl = vram__optim_impl(c);
  r->flags = vram__optim_row_of(c)->flags;
  r->first = c->step == 1;
  r->late = c->step == 0 || c->step > 5;
  r->filter = r->dtype = r->matrix = r->tables = r->overflow = 0;
  r->now = r->peak = r->state = r->now_blocks = r->peak_blocks = r->state_blocks = 0;
  r->now_large = r->state_large = r->peak_upper = r->peak_state = 0;
  for (k = 0; k < 26; k++)
    vram__optim_clear(&r->reg[k]);
  r->has_all = c->all != NULL;
  if (c->all)
    r->all = *c->all;
  r->unused = VRAM__OPTIM_NIL;
  r->fresh = 0;
  r->nodes = 10 * n + 64;
}

static void vram__optim_finish(const vram__optim_run *r, vram__optim_bytes *out) {
  out->state = r->state, out->peak = r->peak, out->end = r->now;
  out->state_blocks = r->state_blocks, out->peak_blocks = r->peak_blocks;
  out->end_blocks = r->now_blocks, out->peak_upper = r->peak_upper;
  out->state_large = r->state_large, out->peak_state = r->peak_state;
  if (r->overflow) /* more than any device has: vram__bulk refuses it */
    out->state = out->peak = out->end = UINT64_MAX;
}

/* What the constructor allocates: p are all parameters that the optimizer is given, used or not. */
static void vram__optim_construct(const vram__optim_config *c, const vram__optim_param *p,
                                  uint32_t n, vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  vram__optim_run r;
  uint32_t i;
  vram__optim_begin(&r, c, p, n);
  if (c->master && n)
    vram__optim_play(&r, "!F", 0, n);
  if ((row->flags & VRAM__OPTIM_CTOR) && n)
    for (i = 0; i < n; i++)
      if (vram__optim_match(&r, i))
        vram__optim_play(&r, row->init, i, i + 1);
  vram__optim_finish(&r, out);
}

/* What the first step adds to the state of these parameters, which have a gradient. */
static void vram__optim_kept(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                             vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  const char *q;
  vram__optim_run r;
  uint32_t i;
  int single = 0; /* the recipe asks about single parameters */
  vram__optim_begin(&r, c, p, n);
  for (q = row->init; *q; q++)
    if (q[1] == '[' && *q != 'C' && *q != 'c' && *q != 'D')
      single = 1;
  if (n && !(row->flags & VRAM__OPTIM_CTOR)) {
    if (!single && !(row->flags & (VRAM__OPTIM_MATRIX | VRAM__OPTIM_SPLIT)))
      vram__optim_play(&r, row->init, 0, n);
    else
      for (i = 0; i < n; i++)
        if (vram__optim_match(&r, i))
          vram__optim_play(&r, row->init, i, i + 1);
  }
  vram__optim_finish(&r, out);
}

/* One step: p are the parameters that have a gradient, in the optimizer's order. Nothing for n = 0.
   With several parameter groups: one call per group. */
static void vram__optim_step(const vram__optim_config *c, const vram__optim_param *p, uint32_t n,
                             vram__optim_bytes *out) {
  const vram__optim_row *row = vram__optim_row_of(c);
  vram__optim_run r;
  uint32_t i;
  vram__optim_begin(&r, c, p, n);
  if (n && r.impl <= VRAM_OPTIM_IMPL_FUSED && row->body[r.impl]) {
    int fused = r.impl == VRAM_OPTIM_IMPL_FUSED;
    if (c->master)
      vram__optim_play(&r, "+hF", 0, n); /* gradients in f32 */
    r.flags = 0;
    if (c->scaler) /* 1 / scale in f64 (fused: the scale), found_inf, a copy of each for the device
                    */
      vram__optim_play(&r, fused ? "+xs+ys+os+zs-z-x-y+is+js" : "+x8+y8-x+zs-y+ws+os+xs-x-z-w", 0,
                       1);
    r.flags = row->flags;
    if (r.first && !(row->flags & VRAM__OPTIM_CTOR))
      for (i = 0; i < n; i++)
        if (vram__optim_match(&r, i))
          vram__optim_play(&r, row->init, i, i + 1);
    vram__optim_body(&r, row->body[r.impl]);
    vram__optim_play(&r, "-j-i-o-h", 0, 1); /* found_inf's copy goes in scaler.update() */
  }
  vram__optim_finish(&r, out);
}

VRAM_API int vram_optimizer_get_info(uint32_t optimizer, vram_optimizer_info *info) {
  static const char *const text[8] = {"",      "foreach",       "loop",       "foreach loop",
                                      "fused", "foreach fused", "loop fused", "foreach loop fused"};
  const vram__optim_row *r;
  uint32_t i, has = 0;
  if (optimizer >= VRAM_OPTIM_COUNT)
    return 0;
  r = &vram__optim_rows[optimizer];
  for (i = VRAM_OPTIM_IMPL_FOREACH; i <= VRAM_OPTIM_IMPL_FUSED; i++)
    if (r->body[i])
      has |= 1u << (i - 1);
  info->name = r->name;
  info->state = r->state;
  info->implementations = r->def == VRAM_OPTIM_IMPL_LOOP && has == 3   ? "loop foreach"
                          : r->def == VRAM_OPTIM_IMPL_LOOP && has == 7 ? "loop foreach fused"
                                                                       : text[has];
  return 1;
}

VRAM_API vram_optimizer vram_optimizer_from_name(const char *name, int *weight_decay) {
  uint8_t wd = 0;
  int i = vram__optim_find(name, vram__len(name), &wd);
  if (weight_decay)
    *weight_decay = wd;
  return i < 0 ? VRAM_OPTIM_COUNT : (vram_optimizer)i;
}

VRAM__SELDOM_END

/* ---- the step ---- */

/* What is not in every run: leaf i has no cached copy, and nothing has arrived for it. */
static inline void vram__clear_leaf(vram__s *s, uint32_t i) {
  if (s->cast)
    s->cast[i] = vram__none();
  if (s->inner) {
    s->inner[i].in = vram__none();
    s->inner[i].deps = 0;
  }
}

/* InputBuffer::add: one more gradient for an input, which stays the caller's */
static void vram__one_more(vram__s *s, vram__t *at, const vram__t *t) {
  const vram__store *st = s->top - at->st;
  vram__t sum;
  if (at->st && st->refs == 1 && (s->top - st->base)->srefs == 1 && !st->shown &&
      (at->d->flags & VRAM__DENSE))
    return; /* added in place */
  sum = vram__ti2(s, *at, *t);
  vram__let(s, *at);
  *at = sum;
}

/* A gradient for an input; the first is taken. */
static inline void vram__arrive(vram__s *s, vram__t *at, vram__t *t) {
  if (at->d)
    vram__one_more(s, at, t);
  else {
    *at = *t;
    t->d = NULL;
  }
}

/* Can t become l's gradient as it is? (AccumulateGrad::accumulateGrad: nobody else has it, and its
   strides are the leaf's.) */
static int vram__takes_over(const vram__s *s, const vram__leaf *l, const vram__t *t) {
  uint32_t i;
  if (t->st && (s->top - t->st)->refs != 1)
    return 0;
  if (!(l->d->flags & VRAM__DENSE))
    return (t->d->flags & VRAM__CONTIG) != 0;
  for (i = 0; t->d != l->d && i < t->d->ndim; i++)
    if (t->d->v[i] != 1 ? VRAM__STRIDE(t->d)[i] != VRAM__STRIDE(l->d)[i] : !VRAM__STRIDE(t->d)[i])
      return 0;
  return 1;
}

VRAM__RARE void vram__emit_gradient(vram__s *s, const vram__store *b) {
  vram_event e;
  vram__zero(&e, sizeof e);
  e.action = VRAM_BECOMES;
  e.phase = s->phase;
  e.category = VRAM_CATEGORY_GRADIENTS;
  e.was = (vram_category)b->cat;
  e.id = b->id == UINT32_MAX ? -1 : (int64_t)b->id;
  e.bytes = b->bytes;
  e.node = b->node;
  if (s->o->event)
    s->o->event(s->o->user, &e);
  if (s->run && s->run->pool.options.event && b->block) {
    e.id = -1;
    e.address = s->run->pool.block[b->block].address;
    s->run->pool.options.event(s->run->pool.options.user, &e);
  }
}

/* A storage becomes a gradient. */
static inline void vram__is_gradient(vram__s *s, vram__store *b) {
  if (s->fresh)
    vram__at_peak(s);
  if ((s->o->event || s->run) && b->bytes && b->cat != VRAM_CATEGORY_GRADIENTS)
    vram__emit_gradient(s, b);
  s->cats.of[b->cat] -= b->bytes;
  b->cat = VRAM_CATEGORY_GRADIENTS;
  s->cats.of[VRAM_CATEGORY_GRADIENTS] += b->bytes;
}

static void vram__accumulate_any(vram__s *s, vram__leaf *l, vram__t *t) {
  if (t->d && l->grad.d)
    vram__let(s, *t);
  else if (t->d) {
    if (!vram__takes_over(s, l, t)) {
      l->grad = vram__empty(s, l->d->flags & VRAM__DENSE ? l->d : vram__contig(s, t->d), t->dt);
      vram__let(s, *t);
    } else if (t->st && (s->top - t->st)->of) { /* new_grad.detach() is no view */
      l->grad = vram__alias_only(s, *t, t->d);
      vram__let(s, *t);
    } else
      l->grad = *t;
    if (l->d->flags & VRAM__DENSE)
      l->grad.d = l->d; /* t's own may go with the tape */
    if (l->grad.st)
      (s->top - l->grad.st)->shown = 0;       /* detached, it is no view */
    if (l->grad.st && l < s->leaf + s->nleaf) /* no input of a call inside backward */
      vram__is_gradient(s, s->top - (s->top - l->grad.st)->base);
  }
  t->d = NULL;
}

/* AccumulateGrad. Nearly always it takes over what nobody else has. */
static void vram__accumulate(vram__s *s, vram__leaf *l) {
  vram__t *t = &l->task.in;
  vram__store *b = s->top - t->st;
  if (!s->depth && t->d == l->d && !l->grad.d && t->st && b->base == t->st && b->refs == 1 &&
      !b->of && (l->d->flags & VRAM__DENSE)) {
    l->grad = *t;
    t->d = NULL;
    b->shown = 0;
    vram__is_gradient(s, b);
  } else
    vram__accumulate_any(s, l, &vram__task_of(s, l)->in);
}

/* One gradient, or none, goes to where an edge leads. */
static inline void vram__deliver(vram__s *s, vram__edge e, vram__t *t) {
  if (e.fn & VRAM__LEAF) {
    vram__leaf *l = s->leaf + (e.fn & ~VRAM__LEAF);
    if (t->d)
      vram__arrive(s, &vram__task_of(s, l)->in, t);
    vram__task_of(s, l)->deps--;
  } else if (t->d)
    vram__arrive(s, &VRAM__SLOTS(vram__fn_at(s, e.fn))[e.out].g, t);
}

/* torch::autograd::validate_outputs: the gradient gets the shape and dtype of what it belongs to.
 */
static void vram__validate(vram__s *s, vram__t *t, const vram_dims *d, uint8_t dt) {
  vram__t u;
  if (t->d != d) {
    uint32_t k;
    int same = t->d->ndim == d->ndim;
    for (k = 0; same && k < d->ndim; k++)
      same = t->d->v[k] == d->v[k];
    if (!same) {
      u = vram__sum_to(s, *t, d);
      vram__let(s, *t);
      *t = u;
    }
  }
  if (t->dt != dt) {
    u = vram__to(s, *t, dt);
    vram__let(s, *t);
    *t = u;
  }
}

static inline void vram__fit(vram__s *s, vram__edge e, vram__t *t) {
  if (e.fn & VRAM__LEAF) {
    const vram__leaf *l = s->leaf + (e.fn & ~VRAM__LEAF);
    if (t->d != l->d || t->dt != l->dt)
      vram__validate(s, t, l->d, l->dt);
  } else {
    const vram__slot *o = VRAM__SLOTS(vram__fn_at(s, e.fn)) + e.out;
    if (t->d != o->d || t->dt != o->dt)
      vram__validate(s, t, o->d, o->dt);
  }
}

/* A linear layer whose weight or bias has a gradient already: AddmmBackward hands on those of the
   bias and of x, TBackward that of the weight; folded axes of x are ViewBackward's, which is older
   than TBackward with a bias and younger without (Linear.cpp). What was added goes with each. */
VRAM__RARE void vram__linear_shared(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__edge *edge = VRAM__EDGES(f);
  vram__t *g = &VRAM__SLOTS(f)[0].g;
  const uint32_t x = f->nin - 2u, folds = g->d->ndim > 2;
  uint32_t i, k, order[3];
  order[0] = 0, order[1] = x && folds ? 2 : 1, order[2] = 3 - order[1];
  for (i = 0; i < f->nin; i++)
    if (to[i].d)
      vram__fit(s, edge[i], to + i);
  vram__let(s, *g);
  g->d = NULL;
  vram__release_saved(s, f);
  for (k = 0; k < f->nin; k++) {
    vram__t *t = to + order[k];
    if (t->d)
      vram__arrive(s, vram__end_of(s, edge[order[k]]), t);
    if (!k && x && !folds)
      continue; /* the bias goes with x */
    for (i = 0; i <= k; i++)
      if (to[order[i]].d) {
        vram__let(s, to[order[i]]);
        to[order[i]].d = NULL;
      }
  }
}

/* Flags what the flagged records from `from` back to `end` lead to, and tells leaves how many
   gradients will come. */
static void vram__expect(vram__s *s, uint32_t from, uint32_t end) {
  uint32_t at, i;
  vram__fn *f;
  for (at = from; at != end; at = f->prev) {
    f = vram__fn_at(s, at);
    if (!f->flag)
      continue;
    for (i = 0; i < f->nin; i++) {
      uint32_t e = VRAM__EDGES(f)[i].fn;
      if (!e)
        continue;
      if (e & VRAM__LEAF)
        vram__task_of(s, s->leaf + (e & ~VRAM__LEAF))->deps++;
      else
        vram__fn_at(s, e)->flag = 1;
    }
  }
}

/* Where backward puts the gradients for the inputs of one record; between two records all are none.
 */
static vram__t *vram__room_for_inputs(vram__s *s) {
  uint32_t i;
  vram__t *t =
      (vram__t *)vram__bump(s->mem, &s->used, s->cap, (s->max_fn_in + 1) * (uint64_t)sizeof *t);
  if (!t)
    s->failed = VRAM_ERR_MEMORY;
  for (i = 0; t && i <= s->max_fn_in; i++)
    t[i].d = NULL;
  return t;
}

/* Runs them from the last to the first: each is ready then, and PyTorch's queue prefers the latest
   one that is ready. Leaves run as soon as their last gradient is there. */
static void vram__walk(vram__s *s, uint32_t from, uint32_t end) {
  vram__t *const gin = s->gin;
  uint32_t at, i;
  vram__fn *f;
  for (at = from; at != end && !s->failed; at = f->prev) {
    vram__edge *edge;
    vram__slot *slot;
    uint32_t leaves = 0;
    int any = 0, left = 0;
    f = vram__fn_at(s, at);
    if (!f->flag || f->done)
      continue;
    edge = VRAM__EDGES(f), slot = VRAM__SLOTS(f);
    f->done = 1;
    f->flag = 0;
    s->node = f->node;
    for (i = 0; i < f->nout; i++)
      any |= slot[i].g.d != NULL;
    if (any)
      vram__bw_any(s, f, gin);
    else
      vram__unpack(s, f);
    if (s->failed)
      return;
    for (i = 0; i < f->nin; i++)
      if (gin[i].d)
        vram__fit(s, edge[i], gin + i);
    for (i = 0; i < f->nout; i++)
      if (slot[i].g.d) {
        vram__let(s, slot[i].g);
        slot[i].g.d = NULL;
      }
    if (f->nsaved || f->inner)
      vram__release_saved(s, f);
    for (i = 0; i < f->nin; i++)
      if (edge[i].fn) {
        vram__deliver(s, edge[i], gin + i);
        leaves |= edge[i].fn & VRAM__LEAF;
        left |= gin[i].d != NULL;
      }
    for (i = 0; left && i < f->nin; i++) /* those that were added to others live up to here */
      if (gin[i].d) {
        vram__let(s, gin[i]);
        gin[i].d = NULL;
      }
    for (i = 0; leaves && i < f->nin; i++)
      if (edge[i].fn & VRAM__LEAF) {
        vram__leaf *l = s->leaf + (edge[i].fn & ~VRAM__LEAF);
        if (vram__task_of(s, l)->deps == 0)
          vram__accumulate(s, l);
      }
  }
}

static void vram__backward(vram__s *s, vram__t loss) {
  vram__t one;
  if (!loss.fn || (loss.fn & VRAM__LEAF))
    return;
  vram__fn_at(s, loss.fn)->flag = 1;
  one = vram__empty(s, vram__dense(s, loss.d), loss.dt); /* held by torch.autograd.backward */
  VRAM__SLOTS(vram__fn_at(s, loss.fn))[loss.out].g = vram__keep_t(s, one);
  vram__expect(s, loss.fn, 0);
  vram__walk(s, loss.fn, 0);
  vram__let(s, one);
}

/* What is there before the step: no event, id -1. */
static vram__t vram__existing(vram__s *s, const vram_dims *d, uint8_t dt, uint8_t cat) {
  const uint64_t events = s->events, next_id = s->next_id, peak_event = s->peak_event;
  const uint8_t old = s->cat, watched = s->watched;
  vram__t t;
  s->watched = 0;
  s->cat = cat;
  t = vram__empty(s, d, dt);
  if (t.st) {
    vram__store *st = s->top - t.st;
    st->id = UINT32_MAX;
    if (s->run && s->run->taping)
      vram__tape(s->run, VRAM__TAPE_OWN, st->bytes);
    else if (s->run && s->run->fresh) {
      vram__run_as(s, cat, NULL);
      st->block = vram__run_get(s, st->bytes);
    }
  }
  s->events = events, s->next_id = next_id, s->peak_event = peak_event;
  s->watched = watched;
  s->cat = old;
  return t;
}

static inline void vram__name(vram__s *s, const vram_value *v, vram__t t) {
  s->name_of[v->index] = v->index;
  s->obj[v->index].t = t;
  s->obj[v->index].refs = 1;
}

static inline void vram__unname(vram__s *s, const vram_value *v) {
  vram__obj *o = s->obj + s->name_of[v->index];
  if (v == s->root)
    return; /* the caller's */
  if (o->refs && --o->refs == 0)
    vram__let(s, o->t);
}

/* Inference leaves out a loss that `output` does not name, and what nothing but its targets needs.
   What the loss was made of is then what the caller keeps. */
static void vram__leave_out(vram__s *s) {
  enum { USED = 1, TARGET = 2 };
  const vram_graph *g = s->g;
  const vram_node *n;
  uint8_t *value;
  uint32_t i;
  for (n = g->first; n && !(n->flags & VRAM__LOSS);)
    n = n->next;
  if (s->train || !n)
    return;
  s->skip = (uint8_t *)vram__bump(s->mem, &s->used, s->cap, g->nnode);
  value = (uint8_t *)vram__bump(s->mem, &s->used, s->cap, g->nvalue);
  if (!s->skip || !value) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__zero(value, g->nvalue);
  for (n = g->last; n; n = n->prev) {
    int used = n->nout == 0, target = 0, skip;
    for (i = 0; i < n->nout; i++) {
      used |= (n->out[i].flags & VRAM__OUTPUT) || (value[n->out[i].index] & USED);
      target |= value[n->out[i].index] & TARGET;
    }
    skip = n->nout && !used && ((n->flags & VRAM__LOSS) || target);
    s->skip[n->index] = (uint8_t)skip;
    if (skip && s->root->node == n && n->nin)
      s->root = n->in[0];
    for (i = 0; i < n->nin && n->nout; i++)
      value[n->in[i]->index] |= skip ? (i || target ? TARGET : 0) : USED;
  }
  for (n = g->first; n; n = n->next) /* the end of lines that were left out */
    if (n->op == VRAM__OP_end)
      s->skip[n->index] = n->prev && s->skip[n->prev->index];
}

static void vram__report_node(vram__s *s, const vram_node *n) {
  vram_node_report *r = s->o->nodes + n->index;
  uint32_t i, own = 0;
  r->params = r->output_bytes = 0;
  r->dtype = 0;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n && n->param[i]->kind != VRAM__BUFFER)
      r->params += n->param[i]->d->numel;
  for (i = 0; i < n->nout; i++) {
    vram__t t = s->obj[s->name_of[n->out[i].index]].t;
    if (!i)
      r->dtype = t.dt;
    if (t.st) { /* a view of what the node made is its own too, once */
      t.st = (s->top - t.st)->base;
      if (t.st != own && (s->top - t.st)->node == n)
        r->output_bytes += (s->top - t.st)->bytes;
      own = t.st;
    }
  }
  r->live_bytes = s->cur;
}

/* Does n write to its first input? */
static int vram__writes(const vram_node *n) {
  if (n->op >= VRAM_OP_dropout && n->op <= VRAM_OP_feature_alpha_dropout &&
      !VRAM__INT(n, p, VRAM__ONE / 2))
    return 0;
  return (n->flags & VRAM__INPLACE) || n->op == VRAM_OP_fill || n->op == VRAM_OP_bernoulli;
}

/* b was written to by an operation that came after this record; saved: b was saved before it. */
static void vram__overwritten(vram__s *s, vram__store *b, uint32_t newest, uint8_t saved) {
  const uint32_t own = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_BUFFERS |
                       1u << VRAM_CATEGORY_INPUTS | 1u << VRAM_CATEGORY_OTHER;
  b->writes = newest + 1;
  if (saved || (own >> b->cat & 1)) /* own ones do not say whether they are saved */
    s->stale = 1;
}

/* Runs the nodes from n up to `end`; gives the node where it stopped. */
static const vram_node *vram__nodes(vram__s *s, const vram_node *n, const vram_node *end) {
  vram__t *x = s->args, *y = s->args + s->g->max_in + 8;
  vram_node_report *report = s->phase == VRAM_PHASE_FORWARD ? s->o->nodes : NULL;
  uint32_t i, first, newest;
  uint8_t saved;
  for (; n != end && !s->failed && !s->mute; n = n->next) {
    s->node = n;
    if (report)
      vram__zero(report + n->index, sizeof *report);
    if (s->skip && s->skip[n->index])
      continue;
    if (n->op < VRAM_OP_COUNT) {
      for (i = 0; i < n->nin; i++) {
        vram__t *t = &s->obj[s->name_of[n->in[i]->index]].t;
        if (s->grad)
          vram__refresh(s, t);
        x[i] = *t;
      }
      newest = s->last_fn;
      first = n->nin ? x[0].st : 0;
      saved = first ? (s->top - (s->top - first)->base)->saved : 0;
      vram__run_table[n->op](s, n, x, y);
      if (s->failed)
        return n; /* y may be anything */
      /* an op that hands its input on gives the same Python object one more name */
      if ((n->flags & VRAM__INPLACE) || (first && y[0].st == first)) {
        uint32_t r = s->name_of[n->in[0]->index];
        vram__obj *o = s->obj + r;
        vram__t old = o->t;
        int writes = y[0].st && vram__writes(n);
        if (writes && (n->flags & VRAM__INPLACE))
          (s->top - (s->top - y[0].st)->base)->ver++;
        if (y[0].fn && y[0].fn != old.fn && y[0].st == old.st)
          vram__rebase(s, old, &y[0]);
        if (writes)
          vram__overwritten(s, s->top - (s->top - y[0].st)->base, newest, saved);
        o->t = y[0];
        vram__let(s, old);
        o->refs++;
        s->name_of[n->out[0].index] = r;
        i = 1;
      } else
        i = 0;
      for (; i < n->nout; i++)
        vram__name(s, &n->out[i], y[i]);
    }
    if (report)
      vram__report_node(s, n);
    if (n->flags & VRAM_NODE_INNER)
      continue;
    for (i = 0; i < n->nin; i++)
      if (n->in[i]->last == n->index) {
        uint32_t j;
        for (j = 0; j < i; j++)
          if (n->in[j] == n->in[i])
            break;
        if (j == i)
          vram__unname(s, n->in[i]);
      }
    for (i = 0; i < n->nout; i++)
      if (n->out[i].last == n->index)
        vram__unname(s, &n->out[i]);
  }
  return n;
}

VRAM__SELDOM_BEGIN

/* ---- checkpointing: torch/utils/checkpoint.py ---- */

static uint32_t vram__writes_to(const vram__s *s, vram__t t) {
  return t.st ? (s->top - (s->top - t.st)->base)->writes : 0;
}

/* A saved input of the call must be what it was (SavedVariable::unpack looks at its version). */
static int vram__untouched(vram__s *s, const vram__range *r, vram__t t, uint32_t writes) {
  if (vram__writes_to(s, t) == writes)
    return 1;
  vram__no_step(s, VRAM_ERR_UNSUPPORTED, r->first,
                "an in-place operation overwrites an input of a checkpointed part: PyTorch cannot "
                "recompute it");
  return 0;
}

/* The tape before something is played for a moment. Afterwards nothing leads to what came behind
   it, so that the memory can be used again. */
typedef struct vram__mark {
  const vram_dims *cache[64], *vec;
  uint64_t used;
  uint32_t last_fn;
  const vram_node *node;
  vram__obj *old;
} vram__mark;

static void vram__reset_tape(vram__s *s, const vram__mark *m) {
  if (s->used > s->most_used)
    s->most_used = s->used;
  vram__copy(s->cache, m->cache, sizeof m->cache);
  s->vec = m->vec;
  s->used = m->used;
  s->last_fn = m->last_fn;
  s->node = m->node;
}

/* Runs the call's nodes once more on these inputs, with gradients, in an autocast context of its
   own; r->out[i] becomes out[i] if that is wanted. The inputs go in as the caller's handles. */
static void vram__again(vram__s *s, const vram__range *r, const vram__t *arg, vram__t *out,
                        vram__mark *m) {
  const vram_node *n, *end = r->last->next;
  uint8_t cat = s->cat;
  uint32_t i;
  for (n = r->first; n != end; n = n->next)
    for (i = 0; i < n->nout; i++)
      s->obj[n->out[i].index].refs = 0;
  for (i = 0; i < r->narg; i++) {
    m->old[i] = s->obj[r->arg[i]->index];
    vram__name(s, r->arg[i], vram__keep_t(s, arg[i]));
  }
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  s->grad = 1;
  s->rnn_reset |= r->narg != 0; /* set_device_states, for the devices of the inputs */
  end = vram__nodes(s, r->first, end);
  s->rnn_reset |= r->narg != 0; /* fork_rng ends */
  for (i = 0; out && i < r->nout && !s->failed; i++) {
    vram__t *t = &s->obj[s->name_of[r->out[i]->index]].t;
    vram__refresh(s, t);
    out[i] = vram__keep_t(s, *t);
  }
  s->grad = 0;
  s->mute = 0;
  s->cat = cat;
  vram__leave_autocast(s);
  for (n = r->first; n != end && !s->failed; n = n->next)
    for (i = 0; i < n->nout; i++) {
      vram__obj *o = s->obj + n->out[i].index;
      if (o->refs)
        vram__let(s, o->t);
      o->refs = 0;
    }
  for (i = 0; i < r->narg && !s->failed; i++) {
    vram__obj *o = s->obj + r->arg[i]->index;
    if (o->refs)
      vram__let(s, o->t);
    *o = m->old[i];
  }
}

static int vram__mark_tape(vram__s *s, const vram__range *r, vram__mark *m) {
  vram__copy(m->cache, s->cache, sizeof m->cache);
  m->vec = s->vec;
  m->used = s->used;
  m->last_fn = s->last_fn;
  m->node = s->node;
  m->old = (vram__obj *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *m->old);
  if (!m->old)
    s->failed = VRAM_ERR_MEMORY;
  return m->old != NULL;
}

/* unpack_hook of the first tensor that is wanted: every record of the call gets its own back. */
static void vram__recompute(vram__s *s, vram__frame *c) {
  const vram__range *r = c->range;
  vram__mark m;
  uint32_t i;
  c->done = 1;
  for (i = 0; i < r->narg; i++)
    if (!vram__untouched(s, r, c->arg[i], c->writes[i]))
      return;
  if (!vram__mark_tape(s, r, &m))
    return;
  s->frame = c;
  s->again = 1;
  s->count = s->full = 0;
  s->cursor = c->first;
  vram__again(s, r, c->arg, NULL, &m);
  s->frame = NULL;
  s->again = 0;
  vram__reset_tape(s, &m);
}

/* CheckpointFunction.backward: the call runs on detached inputs, then a backward of its own, whose
   gradients of those inputs are handed on. */
static void vram__bw_checkpoint(vram__s *s, vram__fn *f, vram__t *to) {
  const vram__range *r = &s->range[(uint32_t)f->aux];
  const uint32_t *writes = (const uint32_t *)(const void *)(s->mem + (uint64_t)(f->aux >> 32) * 8);
  vram__t *in, *out, *own, *gin = s->gin;
  vram_dims *keep;
  vram__mark m;
  uint32_t i, roots = 0;
  for (i = 0; i < r->narg; i++)
    if (!vram__untouched(s, r, VRAM__SAVED(f)[i], writes[i]))
      return;
  for (i = 0; i < r->nout; i++) { /* gradients that did not come are zeros */
    vram__slot *o = VRAM__SLOTS(f) + i;
    if (!o->g.d)
      o->g = vram__empty(s, vram__contig(s, o->d), o->dt);
  }
  keep = (vram_dims *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *keep);
  if (!vram__mark_tape(s, r, &m))
    return;
  in = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *in);
  out = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->nout * (uint64_t)sizeof *out);
  if (!keep || !in || !out) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0; i < r->narg; i++) {
    vram__leaf *l = s->leaf + s->nleaf + i;
    vram__zero(l, sizeof *l);
    vram__clear_leaf(s, s->nleaf + i);
    l->d = VRAM__SAVED(f)[i].d;
    l->dt = VRAM__SAVED(f)[i].dt;
    in[i] = vram__alias_only(s, VRAM__SAVED(f)[i], l->d);
    if (vram__wants(f, i))
      in[i].fn = VRAM__LEAF | (s->nleaf + i), in[i].req = 1;
  }
  vram__again(s, r, in, out, &m);
  own = vram__room_for_inputs(s);
  s->depth = 1;
  for (i = 0; i < r->nout && !s->failed; i++) {
    roots += out[i].req;
    if (out[i].req && !(out[i].fn & VRAM__LEAF))
      vram__fn_at(s, out[i].fn)->flag = 1;
  }
  if (!roots && !s->failed)
    vram__no_step(s, VRAM_ERR_UNSUPPORTED, r->first,
                  "no output of a checkpointed part requires a gradient: PyTorch stops with an "
                  "error in the reentrant form");
  if (s->failed)
    return;
  s->gin = own;
  vram__expect(s, s->last_fn, m.last_fn);
  for (i = 0; i < r->nout; i++)
    if (out[i].req) {
      vram__edge e;
      vram__t g;
      e.fn = out[i].fn, e.out = out[i].out;
      if (e.fn & VRAM__LEAF)
        s->inner[e.fn & ~VRAM__LEAF].deps++;
      g = vram__keep_t(s, VRAM__SLOTS(f)[i].g);
      vram__deliver(s, e, &g);
      if (g.d)
        vram__let(s, g);
      if ((e.fn & VRAM__LEAF) && !s->inner[e.fn & ~VRAM__LEAF].deps)
        vram__accumulate(s, s->leaf + (e.fn & ~VRAM__LEAF));
    }
  vram__walk(s, s->last_fn, m.last_fn);
  s->depth = 0;
  s->gin = gin;
  for (i = 0; i < r->nout; i++)
    vram__let(s, out[i]);
  for (i = 0; i < r->narg; i++) {
    vram__let(s, in[i]);
    if (!vram__wants(f, i))
      continue;
    to[i] = s->leaf[s->nleaf + i].grad;
    if (to[i].d && (const uint8_t *)to[i].d >= s->mem + m.used) {
      vram__copy(keep + i, to[i].d, vram__dims_bytes(to[i].d->ndim));
      to[i].d = keep + i;
    }
  }
  vram__reset_tape(s, &m);
}

static int vram__captured(const vram_value *v) { /* parameters and buffers are no arguments */
  return v->node && (v->node->op == VRAM_OP_parameter || v->node->op == VRAM_OP_buffer);
}

/* One call of checkpoint() in the forward pass. */
static void vram__checkpointed(vram__s *s, const vram__range *r) {
  const vram_node *n;
  vram__frame *c = (vram__frame *)vram__bump(s->mem, &s->used, s->cap, sizeof *c);
  vram__fn *f = NULL;
  uint32_t i, k;
  if (c) {
    vram__zero(c, sizeof *c);
    c->arg = (vram__t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *c->arg);
    c->writes =
        (uint32_t *)vram__bump(s->mem, &s->used, s->cap, r->narg * (uint64_t)sizeof *c->writes);
  }
  if (!c || !c->arg || !c->writes) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  c->range = r;
  c->alive = 1;
  for (i = 0; i < r->narg; i++) {
    vram__t *t = &s->obj[s->name_of[r->arg[i]->index]].t;
    vram__refresh(s, t);
    c->arg[i] = vram__keep_t(s, *t);
    c->writes[i] = vram__writes_to(s, *t);
  }
  s->node = r->first;
  if (s->o->reentrant) {
    f = vram__record(s, VRAM__K_checkpoint, c->arg, r->narg, r->nout, r->narg);
    for (i = 0; f && i < r->narg; i++)
      vram__save(s, f, c->arg[i]);
    if (f)
      f->aux = (uint64_t)(r - s->range) |
               (uint64_t)((const uint8_t *)(const void *)c->writes - s->mem) / 8 << 32;
    s->grad = 0;
  } else
    s->frame = c;
  vram__nodes(s, r->first, r->last->next);
  s->frame = NULL;
  s->grad = 1;
  if (s->failed)
    return;
  for (i = 0; i < r->nout && f; i++) {
    const vram_value *v = r->out[i];
    vram__t *t = &s->obj[s->name_of[v->index]].t;
    for (k = 0; k < r->narg; k++)
      if (s->name_of[v->index] == s->name_of[r->arg[k]->index]) { /* an input comes out: a view */
        vram__t y = vram__alias(s, *t, t->d);
        vram__unname(s, v);
        vram__name(s, v, y);
        t = &s->obj[v->index].t;
        break;
      }
    VRAM__SLOTS(f)[i].d = t->d;
    VRAM__SLOTS(f)[i].dt = t->dt;
    if (vram__kind_rank(t->dt) >= 2 && t->fn != vram__fn_index(s, f)) {
      vram__fn_unref(s, t->fn);
      vram__made(s, f, i, t);
    }
  }
  if (c->saves) /* its inputs are kept for backward */
    for (i = 0; i < r->narg; i++)
      if (c->arg[i].st)
        vram__count_saved(s, s->top - (s->top - c->arg[i].st)->base);
  for (n = r->first; n != r->last->next; n = n->next) /* what only a later `drop` names ends here */
    for (i = 0; i < n->nout; i++) {
      const vram_value *v = &n->out[i];
      if (v->last <= r->last->index || vram__captured(v))
        continue;
      for (k = 0; k < r->nout && r->out[k] != v;)
        k++;
      if (k == r->nout) {
        vram__unname(s, v);
        s->name_of[v->index] = s->g->nvalue; /* nobody's object */
      }
    }
  vram__frame_less(s, c);
}

static void vram__forward(vram__s *s) {
  const vram_node *n = s->g->first;
  uint32_t i;
  s->cat = VRAM_CATEGORY_ACTIVATIONS;
  for (i = 0; i < s->nrange && !s->failed; i++) {
    const vram__range *r = &s->range[i];
    vram__nodes(s, n, r->first);
    if (s->failed)
      return;
    vram__checkpointed(s, r);
    n = r->last->next;
    if (r->hold && r->nout && !s->failed) {
      vram__obj *o = s->obj + s->name_of[r->out[0]->index];
      o->refs++;
      vram__nodes(s, n, r->hold->next);
      n = r->hold->next;
      if (o->refs && --o->refs == 0)
        vram__let(s, o->t);
    }
  }
  vram__nodes(s, n, NULL);
}

/* The last node of the line that n begins. */
static const vram_node *vram__line_end_of(const vram_node *n) {
  while (n->next && n->next->name == n->name)
    n = n->next;
  return n;
}

#define VRAM__FEW_FUNCTIONS "more checkpoint segments than the chain has functions"

/* checkpoint_sequential. The chain ends before the line of the loss; one function of it ends where
   one value is handed on. All segments but the last are checkpointed, that one's input is a local
   variable until it has run. */
static void vram__segments(vram__s *s) {
  const vram_graph *g = s->g;
  const vram_node *n, *from, *end;
  uint32_t *last = s->name_of; /* by value: the node that uses it last */
  uint32_t i, j, live, functions, size = 0, k = s->o->checkpoint_segments - 1;
  const char *loss = g->root->node ? g->root->node->name : NULL;
  int pass;
  if (k >= g->nnode) {
    vram__no_step(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
    return;
  }
  for (i = 0; i < g->nvalue; i++)
    last[i] = 0;
  for (n = g->first; n; n = n->next) {
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++)
      if (last[n->in[i]->index] != UINT32_MAX)
        last[n->in[i]->index] = n->index;
    for (i = 0; i < n->nout; i++)
      if ((n->out[i].flags & VRAM__OUTPUT) || &n->out[i] == g->root)
        last[n->out[i].index] = UINT32_MAX;
  }
  s->range = (vram__range *)vram__bump(s->mem, &s->used, s->cap, k * (uint64_t)sizeof *s->range);
  if (!s->range) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (pass = 0; pass < 2; pass++) {
    functions = live = 0;
    for (from = n = g->first; n && n->name != loss; n = end->next) {
      end = vram__line_end_of(n);
      if (n->op == VRAM__OP_drop)
        continue;
      for (; n != end->next; n = n->next) {
        for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
          const vram_value *v = n->in[i];
          for (j = 0; j < i && n->in[j] != v;)
            j++;
          live -= j == i && v->node && !vram__captured(v) && last[v->index] == n->index;
        }
        for (i = 0; i < n->nout; i++)
          live += !vram__captured(&n->out[i]) && last[n->out[i].index] > n->index;
      }
      if (live != 1)
        continue;
      functions++;
      if (!pass)
        continue;
      if (s->nrange == k)
        s->range[k - 1].hold = end;
      else if (functions % size == 0) {
        s->range[s->nrange].first = from;
        s->range[s->nrange].last = end;
        s->range[s->nrange++].hold = NULL;
        from = end->next;
      }
    }
    size = functions / (k + 1);
    if (!size) {
      vram__no_step(s, VRAM_ERR_VALUE, NULL, VRAM__FEW_FUNCTIONS);
      return;
    }
  }
}

/* The caller's ranges, whole lines. */
static void vram__ranges(vram__s *s) {
  const vram_node *n, *end;
  uint32_t i, count = s->o->ncheckpoint;
  if (count > s->g->nnode)
    count = s->g->nnode + 1; /* too many: one of them is wrong */
  s->range =
      (vram__range *)vram__bump(s->mem, &s->used, s->cap, count * (uint64_t)sizeof *s->range);
  if (!s->range) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  for (i = 0, n = s->g->first; i < count && n; n = end->next) {
    const vram_range *r = s->o->checkpoint + i;
    vram__range *to = s->range + i;
    if (!r->first || !r->last)
      break;
    end = vram__line_end_of(n);
    if (s->nrange == i && n->index <= r->first->index && r->first->index <= end->index)
      to->first = n, to->hold = NULL, s->nrange++;
    if (s->nrange > i && n->index <= r->last->index && r->last->index <= end->index)
      to->last = end, i++;
  }
  if (i < count)
    vram__no_step(
        s, VRAM_ERR_VALUE, s->o->checkpoint[i].first,
        "a checkpointed range that ends before it begins, or begins before the range before "
        "it ends (they do not nest)");
}

/* What goes into every range and what comes out. */
static void vram__plan_ranges(vram__s *s) {
  const vram_graph *g = s->g;
  const vram_node *n;
  vram__range *r;
  uint32_t i, k, at = 0, in = 0, OUT = 0x80000000u;
  if (!s->train || !(s->o->checkpoint_segments > 1 || s->o->ncheckpoint))
    return;
  if (s->o->checkpoint_segments && s->o->ncheckpoint)
    vram__no_step(s, VRAM_ERR_VALUE, NULL, "checkpointed segments and ranges exclude each other");
  else if (s->o->ncheckpoint)
    vram__ranges(s);
  else
    vram__segments(s);
  for (i = 0; i < g->nvalue; i++)
    s->name_of[i] = s->obj[i].refs = 0; /* range that made it, range that it goes into */
  for (n = g->first; n && !s->failed; n = n->next) {
    if (at < s->nrange && s->range[at].first == n) {
      in = ++at;
      r = &s->range[in - 1];
      r->narg = r->nout = 0;
      r->arg = (const vram_value **)vram__bump(s->mem, &s->used, s->cap, 0);
    }
    for (i = 0; n->op < VRAM_OP_COUNT && i < n->nin; i++) {
      const vram_value *v = n->in[i];
      uint32_t made = s->name_of[v->index] & ~OUT;
      if (made == in || vram__captured(v))
        continue;
      if (made)
        s->name_of[v->index] |= OUT;
      if (in && s->obj[v->index].refs != in) {
        s->obj[v->index].refs = in;
        r = &s->range[in - 1];
        if (!vram__bump(s->mem, &s->used, s->cap, sizeof *r->arg))
          s->failed = VRAM_ERR_MEMORY;
        else
          r->arg[r->narg++] = v;
        if (s->failed || r->narg > 65535)
          break;
      }
    }
    for (i = 0; i < n->nout; i++)
      s->name_of[n->out[i].index] =
          in && ((n->out[i].flags & VRAM__OUTPUT) || &n->out[i] == g->root) ? in | OUT : in;
    if (in && s->range[in - 1].last == n) {
      if (s->range[in - 1].narg > s->most_args)
        s->most_args = s->range[in - 1].narg;
      in = 0;
    }
  }
  for (k = 0; k < s->nrange && !s->failed; k++) {
    r = &s->range[k];
    r->out = (const vram_value **)vram__bump(s->mem, &s->used, s->cap, 0);
    for (n = r->first; n != r->last->next && !s->failed; n = n->next)
      for (i = 0; i < n->nout; i++)
        if (s->name_of[n->out[i].index] & OUT) {
          if (!vram__bump(s->mem, &s->used, s->cap, sizeof *r->out)) {
            s->failed = VRAM_ERR_MEMORY;
            break;
          }
          r->out[r->nout++] = &n->out[i];
        }
    if (r->narg > 65535 || r->nout > 65535)
      vram__no_step(s, VRAM_ERR_LIMIT, r->first,
                    "a checkpointed part with more than 65535 inputs or outputs");
  }
}

static void vram__run_stat(vram_stat *all, uint64_t *end, uint64_t *peak) {
  *end = all->current;
  if (all->peak > *peak)
    *peak = all->peak;
  all->peak = all->current;
}

static void vram__run_phase(vram__run *run, vram_phase_report *r) {
  vram__run_stat(run->pool.stats.allocated_bytes, &r->allocated_bytes, &r->allocated_peak_bytes);
  vram__run_stat(run->pool.stats.reserved_bytes, &r->reserved_bytes, &r->reserved_peak_bytes);
}

/* Ends the running phase. Of micro-batches the last one's end counts and the highest peak. */
static void vram__phase(vram__s *s, vram_phase next) {
  vram_phase_report *r = &s->r->phase[s->phase];
  r->requested_bytes = s->cur;
  if (s->blocks_peak > s->most_blocks)
    s->most_blocks = s->blocks_peak;
  if (s->run && !s->run->taping)
    vram__run_phase(s->run, r);
  else {
    if (s->run)
      vram__tape(s->run, VRAM__TAPE_PHASE, (uint64_t)s->phase);
    r->allocated_bytes = s->blocks;
    if (s->blocks_peak > r->allocated_peak_bytes)
      r->allocated_peak_bytes = s->blocks_peak;
  }
  s->blocks_peak = s->blocks;
  if (s->peak > r->requested_peak_bytes)
    r->requested_peak_bytes = s->peak;
  s->phase = next;
  s->peak = s->cur;
  s->node = NULL;
}

static void vram__bulk(vram__s *s, uint64_t bytes, uint64_t blocks, uint64_t large, uint8_t cat);

VRAM__SELDOM_END

/* t, which wants a gradient, becomes the next leaf. */
VRAM__PART void vram__new_leaf(vram__s *s, vram__t *t) {
  vram__leaf *l = s->leaf + s->nleaf;
  l->d = t->d;
  l->dt = t->dt;
  l->grad = l->task.in = vram__none();
  l->task.deps = 0;
  vram__clear_leaf(s, s->nleaf);
  if (!s->known)
    l->had = 0, l->had_bytes = 0, l->had_with = 0;
  t->req = 1;
  t->fn = VRAM__LEAF | s->nleaf++;
  if (t->st)
    (s->top - t->st)->fn = t->fn;
}

/* Module.to(device): one tensor after the other; a recurrent net then lays its weights into one
   (flatten_parameters). */
static void vram__run_own(vram__s *s, const vram_param *p, uint8_t dt) {
  vram__run *run = s->run;
  const vram_node *n = p->node;
  uint64_t flat = 0;
  uint32_t i, last = 0;
  if (run->taping) {
    vram__tape(run, VRAM__TAPE_OWN, vram__bytes_of(p->d, dt));
    run->untold |= n->op >= VRAM_OP_lstm && n->op <= VRAM_OP_rnn;
    return;
  }
  vram__run_as(s, p->kind == VRAM__BUFFER ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS, n);
  run->gradient[p->index] = vram__run_get(s, vram__bytes_of(p->d, dt));
  if (n->op < VRAM_OP_lstm || n->op > VRAM_OP_rnn)
    return;
  for (i = 0; i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n)
      last = i;
  if (n->param[last] != p)
    return;
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      flat += vram__bytes_of(n->param[i]->d, vram__run_dtype(s, n->param[i]->dtype));
  vram__run_get(s, flat);
  for (i = 0; i <= last; i++)
    if (n->param[i] && n->param[i]->node == n)
      vram__run_put(run, run->gradient[n->param[i]->index]);
}

/* Parameters, buffers, inputs, and what a step before this one left. What a module owns is never a
   value of the graph and stays to the end: all weights share one slot, and so do all buffers. */
static void vram__before(vram__s *s) {
  const vram_graph *g = s->g;
  const vram_param *p;
  const int64_t none = 0;
  const vram_dims *nothing = vram__dims_in(s, 1, &none, NULL);
  vram__owned o = g->owned;
  uint32_t i, k;
  for (i = 0; i < VRAM__OWN; i++) /* the first two slots */
    vram__existing(s, nothing, VRAM_F32, i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  if (s->low) {
    vram__zero(&o, sizeof o);
    for (p = g->param_first; p; p = p->next)
      vram__owned_add(&o, p, vram__bytes_of(p->d, vram__run_dtype(s, p->dtype)));
  }
  vram__owned_flat(&o);
  if (o.params_bytes > (uint64_t)VRAM_MAX_BYTES || o.buffers_bytes > (uint64_t)VRAM_MAX_BYTES) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  for (p = g->param_first; p; p = p->next) {
    vram__t *t = s->param + p->index;
    t->d = p->d;
    t->st = p->kind == VRAM__BUFFER ? 2 : 1, t->fn = 0;
    t->out = 0, t->dt = vram__run_dtype(s, p->dtype), t->req = t->off = 0;
    if (p->node->op == VRAM_OP_parameter)
      *t = vram__existing(s, p->d, t->dt, VRAM_CATEGORY_PARAMS);
    else if (p->node->op == VRAM_OP_buffer)
      *t = vram__existing(s, p->d, t->dt, VRAM_CATEGORY_BUFFERS);
    else if (s->run && s->run->fresh)
      vram__run_own(s, p, t->dt);
    if (p->kind == VRAM__PARAM)
      vram__new_leaf(s, t);
  }
  s->optim_all = o.trainable;
  s->r->params_bytes = o.params_bytes, s->r->buffers_bytes = o.buffers_bytes;
  for (i = 0; i < VRAM__OWN; i++)
    vram__bulk(s, o.all[i].bytes, o.all[i].blocks, o.all[i].large,
               i ? VRAM_CATEGORY_BUFFERS : VRAM_CATEGORY_PARAMS);
  if (g->flat_pad && vram__run_dtype(s, VRAM_F32) != VRAM_BF16) {
    int64_t pad = (int64_t)g->flat_pad;
    vram__existing(s, vram__dims_in(s, 1, &pad, NULL), vram__run_dtype(s, VRAM_F32),
                   VRAM_CATEGORY_PARAMS);
  }
  if (g->rnn_dropout && s->train && !s->o->first_step)
    s->rnn_dropout = vram__existing(s, vram__rnn_state_dims(s), VRAM_U8, VRAM_CATEGORY_WORKSPACE);
  if (s->run && s->rnn_dropout.st)
    (s->top - s->rnn_dropout.st)->block = s->run->rnn_dropout;
  s->nparam_leaf = s->nleaf;
  for (i = 0; i < g->ninput; i++) {
    const vram_value *v = g->input[i];
    uint8_t dt = vram__run_dtype(s, v->dtype);
    vram__t t = vram__existing(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    s->r->inputs_bytes += vram__bytes_of(v->d, dt);
    for (k = 0; k < s->o->prefetch && !s->failed; k++)
      vram__existing(s, v->d, dt, VRAM_CATEGORY_INPUTS);
    if ((v->flags & VRAM__GRAD) && s->train) {
      vram__new_leaf(s, &t);
    }
    vram__name(s, v, t);
  }
}

VRAM__SELDOM_BEGIN

/* A steady step begins with the gradients of the step before. `had` says which leaves have one.
   Where nobody has said so yet, vram__had_gradients puts them in afterwards. */
static void vram__zero_grad(vram__s *s) {
  uint32_t i;
  if (!s->train || s->o->first_step)
    return;
  for (i = 0; s->known && i < s->nleaf; i++) {
    vram__leaf *l = &s->leaf[i];
    int64_t size = (int64_t)l->had_bytes;
    if (l->had && l->had_with)
      l->grad = vram__alias_only(s, s->leaf[l->had_with - 1].grad, l->d);
    else if (l->had && l->had_bytes == vram__bytes_of(l->d, l->dt))
      l->grad = vram__existing(s, l->d, l->dt, VRAM_CATEGORY_GRADIENTS);
    else if (l->had) {
      l->grad =
          vram__existing(s, vram__dims_in(s, 1, &size, NULL), VRAM_U8, VRAM_CATEGORY_GRADIENTS);
      l->grad.d = l->d, l->grad.dt = l->dt;
    }
    if (s->run && l->had && !l->had_with && l->grad.st)
      (s->top - l->grad.st)->block = s->run->gradient[i];
  }
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] = s->cats.of[VRAM_CATEGORY_GRADIENTS];
  s->peak = s->total_peak = s->cur;
  s->blocks_peak = s->blocks;
  if (s->upper > s->upper_peak)
    s->upper_peak = s->upper;
  s->fresh = 1;
  if (s->stop_at == 1)
    vram__live_set(s);
  if (!s->known)
    return;
  for (i = s->nparam_leaf; i < s->nleaf; i++) { /* the caller's inputs lose theirs first */
    vram__let(s, s->leaf[i].grad);
    s->leaf[i].grad = vram__none();
  }
  for (i = 0; i < s->nparam_leaf && !s->o->keep_grads; i++) {
    vram__let(s, s->leaf[i].grad);
    s->leaf[i].grad = vram__none();
  }
}

/* After the forward pass: autocast's cache goes with its context; a training loop lets go of what
   is not the loss, inference wanted all of it. */
static void vram__leave_forward(vram__s *s) {
  const vram_node *n;
  uint32_t i;
  s->r->autocast_cache_bytes = vram__leave_autocast(s);
  if (s->train && s->g->noutput > 1)
    for (n = s->g->first; n; n = n->next)
      for (i = 0; i < n->nout; i++)
        if ((n->out[i].flags & VRAM__OUTPUT) && &n->out[i] != s->root)
          vram__unname(s, &n->out[i]);
}

/* GradScaler.scale(loss).backward(): the loss times the scale, which the first call makes together
   with the growth tracker. */
static void vram__scaled_backward(vram__s *s, vram__t loss) {
  vram__t in[2], y;
  vram__fn *f;
  s->node = s->root->node;
  if (!s->scale.d) {
    s->cat = VRAM_CATEGORY_OTHER;
    s->scale = vram__empty(s, s->scalar, VRAM_F32);
    vram__empty(s, s->scalar, VRAM_I32);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
  }
  in[0] = loss;
  in[1] = s->scale;
  s->grad = 1;
  f = vram__record(s, VRAM__K_scale, in, 2, 1, 1);
  s->grad = 0;
  y = vram__ti2(s, loss, s->scale);
  if (f) {
    vram__save(s, f, s->scale);
    vram__made(s, f, 0, &y);
    vram__backward(s, y);
  }
  vram__let(s, y);
}

static void vram__micro_batches(vram__s *s) {
  uint32_t k, count = s->train && s->o->accumulate > 1 ? s->o->accumulate : 1, i;
  uint64_t tape = s->used;
  vram__t loss = vram__none();
  for (k = 0; k < count && !s->failed; k++) {
    vram__t old = loss;
    s->phase = VRAM_PHASE_FORWARD;
    s->cat = VRAM_CATEGORY_ACTIVATIONS;
    s->grad = s->train;
    if (k) {
      s->r->saved_bytes = 0;
      if (s->rnn_dropout.st)
        (s->top - s->rnn_dropout.st)->saved = 0;
    }
    vram__forward(s);
    if (s->failed)
      return;
    vram__leave_forward(s);
    if (s->grad)
      vram__refresh(s, &s->obj[s->name_of[s->root->index]].t);
    loss = s->obj[s->name_of[s->root->index]].t;
    if (old.d) { /* the variable `loss` takes its new value */
      old.fn = 0;
      vram__let(s, old);
    }
    s->grad = 0;
    vram__phase(s, VRAM_PHASE_BACKWARD);
    s->cat = VRAM_CATEGORY_TEMPORARIES;
    s->gin = vram__room_for_inputs(s);
    if (s->failed)
      return;
    if (s->scaler)
      vram__scaled_backward(s, loss);
    else if (s->train)
      vram__backward(s, loss);
    vram__phase(s, VRAM_PHASE_FORWARD);
    if (k + 1 < count) { /* the tape has been played and can go */
      s->used = tape;
      s->last_fn = 0;
      for (i = 0; i < 64; i++)
        s->cache[i] = s->g->cache[i];
      s->vec = NULL;
      for (i = 0; i < s->g->ninput; i++) {
        vram__obj *in = &s->obj[s->g->input[i]->index];
        vram__store *st = s->top - in->t.st;
        in->refs = 1;
        if (!(in->t.fn & VRAM__LEAF))
          in->t.fn = in->t.req = 0;
        if (in->t.st)
          st->fn = st->held = 0, st->writes = 0;
      }
      for (i = 0; i < s->g->nparam; i++)
        if (s->param[i].st)
          (s->top - s->param[i].st)->writes = 0;
      loss.d = s->scalar;
    }
  }
  s->loss = loss;
}

static uint32_t vram__optim_alloc(void *ctx, uint64_t bytes, int is_state) {
  vram__s *s = (vram__s *)ctx;
  s->cat = is_state ? VRAM_CATEGORY_OPTIMIZER : VRAM_CATEGORY_TEMPORARIES;
  return vram__new(s, bytes);
}

static void vram__optim_free(void *ctx, uint32_t id) {
  if (id)
    vram__drop_store((vram__s *)ctx, id);
}

/* Bytes that come and go without single events. */
static void vram__bulk(vram__s *s, uint64_t bytes, uint64_t blocks, uint64_t large, uint8_t cat) {
  if (bytes > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  s->cur += bytes;
  s->cats.of[cat] += bytes;
  s->blocks += blocks;
  s->upper += blocks + large * VRAM__SMALL;
}

static void vram__optim_config_of(const vram__s *s, vram__optim_config *c) {
  vram__zero(c, sizeof *c);
  c->optim = (uint8_t)s->o->optimizer;
  c->impl = (uint8_t)s->o->optim_impl;
  if (s->ideal)
    c->impl = VRAM_OPTIM_IMPL_LOOP; /* no step counters on the device */
  c->weight_decay = s->o->weight_decay != 0;
  c->scaler = s->scaler;
  c->master = s->o->master_weights != 0;
  c->sms = s->sm;
  c->sm_threads = s->threads;
  c->blas_bytes = s->ws;
  c->ctx = (void *)(uintptr_t)(const void *)s;
}

static uint32_t vram__optim_params(vram__s *s, vram__optim_param *p, int with_grad) {
  uint32_t i, n = 0;
  for (i = 0; i < s->nparam_leaf; i++) {
    const vram__leaf *l = s->leaf + i;
    if (with_grad && !(l->grad.d || l->had))
      continue;
    p[n].numel = l->d->numel;
    p[n].ndim = l->d->ndim;
    p[n].size = l->d->v;
    p[n++].dtype = l->dt;
  }
  return n;
}

/* What the optimizer holds before the step: what its constructor made and, in a steady step, the
   state that the first step made. */
static void vram__optim_before(vram__s *s) {
  vram__optim_config c;
  vram__optim_bytes made, state;
  uint32_t n;
  if (!s->train)
    return;
  s->optim = (vram__optim_param *)vram__bump(s->mem, &s->used, s->cap,
                                             (s->nparam_leaf + 1) * (uint64_t)sizeof *s->optim);
  if (!s->optim) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  vram__optim_config_of(s, &c);
  n = vram__optim_params(s, s->optim, 0);
  if (vram__optim_problem(&c, s->optim, n)) {
    s->failed = VRAM_ERR_UNSUPPORTED;
    s->problem = vram__optim_problem(&c, s->optim, n);
    return;
  }
  if (s->run && s->run->fresh && !s->run->taping) {
    const uint64_t used = s->used;
    c.events = 1;
    c.ids = (uint32_t *)vram__bump(s->mem, &s->used, s->cap,
                                   vram__optim_ids(n) * (uint64_t)sizeof *c.ids);
    if (!c.ids) {
      s->failed = VRAM_ERR_MEMORY;
      return;
    }
    vram__optim_construct(&c, s->optim, n, &made);
    s->used = used;
    s->r->optimizer_bytes = s->optim_held = made.end;
    return;
  }
  vram__optim_construct(&c, s->optim, n, &made);
  if (s->run && made.end)
    s->run->untold = 1;
  vram__bulk(s, made.end, made.end_blocks, made.state_large, VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes = s->optim_held = made.end;
  if (s->o->first_step)
    return;
  if (s->known) /* parameters that never get a gradient have no state */
    n = vram__optim_params(s, s->optim, 1);
  c.all = n == s->nparam_leaf && !c.master ? &s->optim_all : NULL;
  vram__optim_kept(&c, s->optim, n, &state);
  if (!*vram__optim_row_of(&c)->init) { /* the step's body makes it */
    c.step = 1;
    vram__optim_step(&c, s->optim, n, &state);
  }
  vram__bulk(s, state.state, state.state_blocks, state.state_large, VRAM_CATEGORY_OPTIMIZER);
  s->r->optimizer_bytes += state.state;
  s->optim_held = s->r->optimizer_bytes;
}

static void vram__optim_now(vram__s *s) {
  vram__optim_config c;
  vram__optim_bytes b;
  uint64_t used = s->used;
  uint32_t n;
  if (s->ideal && !s->o->first_step) /* one kernel, no temporaries */
    return;
  vram__optim_config_of(s, &c);
  n = s->all_had ? s->nparam_leaf : vram__optim_params(s, s->optim, 1);
  c.step = s->o->first_step ? 1 : 0;
  c.all = n == s->nparam_leaf && !c.master ? &s->optim_all : NULL;
  if (s->watched) {
    c.events = 1;
    c.ids = (uint32_t *)vram__bump(s->mem, &s->used, s->cap,
                                   vram__optim_ids(n) * (uint64_t)sizeof *c.ids);
    if (!c.ids) {
      s->failed = VRAM_ERR_MEMORY;
      return;
    }
    vram__optim_step(&c, s->optim, n, &b);
    if (s->o->first_step)
      s->r->optimizer_bytes += b.state;
    s->used = used;
    return;
  }
  vram__optim_step(&c, s->optim, n, &b);
  if (b.peak == UINT64_MAX || b.peak > (uint64_t)VRAM_MAX_BYTES - s->cur) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  if (s->fresh)
    vram__at_peak(s);
  if (s->cur + b.peak > s->peak)
    s->peak = s->cur + b.peak;
  if (s->peak > s->total_peak) {
    s->total_peak = s->peak;
    s->peak_node = NULL;
    s->peak_event = UINT64_MAX; /* somewhere in it: vram_step_live counts */
    s->peak_phase = VRAM_PHASE_OPTIMIZER;
    s->cats.of[VRAM_CATEGORY_OPTIMIZER] += b.peak_state;
    s->cats.of[VRAM_CATEGORY_TEMPORARIES] += b.peak - b.peak_state;
    vram__at_peak(s);
    s->cats.of[VRAM_CATEGORY_OPTIMIZER] -= b.peak_state;
    s->cats.of[VRAM_CATEGORY_TEMPORARIES] -= b.peak - b.peak_state;
  }
  if (s->blocks + b.peak_blocks > s->blocks_peak)
    s->blocks_peak = s->blocks + b.peak_blocks;
  if (s->upper + b.peak_upper > s->upper_peak)
    s->upper_peak = s->upper + b.peak_upper;
  vram__bulk(s, b.end, b.end_blocks, b.state_large, VRAM_CATEGORY_OPTIMIZER);
  if (s->o->first_step)
    s->r->optimizer_bytes += b.state;
}

VRAM_API int vram_report_term(const vram_report *report, uint32_t i, vram_term *term) {
  uint32_t k = 0;
#define VRAM__FIGURE(field, kind, text)                                                            \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes.lower = term->bytes.expected = term->bytes.upper = report->field;                  \
    return 1;                                                                                      \
  }
#define VRAM__FIGURES(field, kind, text)                                                           \
  if (k++ == i) {                                                                                  \
    term->name = #field;                                                                           \
    term->source = VRAM_SOURCE_##kind;                                                             \
    term->from = text;                                                                             \
    term->bytes = report->field;                                                                   \
    return 1;                                                                                      \
  }
  VRAM_TERMS(VRAM__FIGURE, VRAM__FIGURES)
#undef VRAM__FIGURE
#undef VRAM__FIGURES
  return 0;
}

VRAM_API const char *vram_source_name(vram_source source) {
  static const char *const text[VRAM_SOURCE_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_SOURCES(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)source < VRAM_SOURCE_COUNT ? text[source] : "?";
}

VRAM_API const vram_gpu *vram_gpu_at(uint32_t i) {
  static const vram_gpu gpu[] = {
#define VRAM__X(name, cc, sm, sold, mib, source)                                                   \
  {name, cc, sm, sold, UINT64_C(1048576) * (mib), source},
      VRAM_GPUS(VRAM__X)
#undef VRAM__X
  };
  return i < sizeof gpu / sizeof *gpu ? &gpu[i] : NULL;
}

VRAM_API const char *vram_op_name(uint32_t op) {
  return op <= VRAM__OP_end ? vram__op_at(op)->name : "?";
}

VRAM_API void vram_op_get_info(vram_op op, vram_op_info *info) {
  static const char *const list[] = {"", "low", "fp32", "fp32", "widest"};
  const vram__op_row *r;
  vram__zero(info, sizeof *info);
  if ((uint32_t)op >= VRAM_OP_COUNT)
    return;
  r = vram__op_at((uint32_t)op);
  info->name = r->name;
  info->keys = r->keys;
  info->recipe = r->recipe;
  info->autocast = list[r->autocast];
  info->least = r->lo;
  info->most = r->hi;
}

/* ---- vram_ranges ---- */

/* Is n, the first node of its line, the one that name[..len] means? Rounds stand behind the name,
   the outermost first. */
static int vram__is_named(const vram_node *n, const char *name, uint32_t len) {
  const vram_node *end = vram__line_end_of(n), *m;
  const vram__round *q;
  uint32_t depth = 0, rounds = 0, i, k, bare = 0;
  while (bare < len && name[bare] != '[')
    bare++;
  for (m = n;; m = m->next) {
    for (i = 0; i < m->nout; i++) {
      const vram_value *v = &m->out[i];
      for (k = 0; v->name && k < bare && k < v->name_len && v->name[k] == name[k];)
        k++;
      if (v->name && k == bare && k == v->name_len)
        break;
    }
    if (i < m->nout)
      break;
    if (m == end)
      return 0;
  }
  for (q = n->round; q; q = q->up)
    depth++;
  for (k = bare; k < len; k++)
    rounds += name[k] == '[';
  if (!rounds)
    return 1;
  if (rounds != depth)
    return 0;
  for (q = n->round; q; q = q->up) { /* from the innermost */
    uint32_t value = 0, at, open = 0;
    for (at = bare; name[at] != '[' || ++open < rounds; at++)
      ;
    for (at++; at < len && name[at] >= '0' && name[at] <= '9' && value < 100000000; at++)
      value = value * 10 + (uint32_t)(name[at] - '0');
    if (value != q->round)
      return 0;
    rounds--;
  }
  return 1;
}

static vram_result vram__range_error(vram_error *err, vram_result code, const char *what,
                                     const char *name, const char *end) {
  uint32_t n = 0, len = (uint32_t)(end - name);
  if (err) {
    vram__zero(err, sizeof *err);
    err->code = code;
    vram__puts(err->text, sizeof err->text, &n, what);
    vram__put(err->text, sizeof err->text, &n, name, len < 64 ? len : 64);
  }
  return code;
}

/* The end of the range at p; *dots: its two dots, or the end. */
static const char *vram__range_end(const char *p, const char **dots) {
  const char *end;
  for (*dots = p; **dots && **dots != ',' && !((*dots)[0] == '.' && (*dots)[1] == '.');)
    ++*dots;
  for (end = *dots; *end && *end != ',';)
    end++;
  return end;
}

VRAM_API vram_result vram_ranges(const vram_graph *g, const char *text, vram_range *list,
                                 uint32_t cap, uint32_t *count, vram_error *err) {
  const vram_node *n, *first = NULL;
  const char *p, *dots, *end, *open = NULL;
  *count = 0;
  for (p = text;; p = end + 1) { /* every name is one */
    int found = 0;
    end = vram__range_end(p, &dots);
    if (dots == p || end < dots + 3)
      return vram__range_error(err, VRAM_ERR_SYNTAX, "a range is A..B, names of nodes, found: ", p,
                               end);
    for (n = g->first; n; n = vram__line_end_of(n)->next)
      found |= vram__is_named(n, p, (uint32_t)(dots - p)) |
               vram__is_named(n, dots + 2, (uint32_t)(end - dots - 2)) << 1;
    if (!(found & 1))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", p, dots);
    if (!(found & 2))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", dots + 2, end);
    if (!*end)
      break;
  }
  for (n = g->first; n; n = vram__line_end_of(n)->next) {
    for (p = text;; p = end + 1) {
      end = vram__range_end(p, &dots);
      if (vram__is_named(n, p, (uint32_t)(dots - p))) {
        if (first)
          return vram__range_error(err, VRAM_ERR_VALUE, "a range begins inside another one: ", p,
                                   end);
        first = n;
        open = p;
      }
      if (!*end)
        break;
    }
    if (!first)
      continue;
    end = vram__range_end(open, &dots);
    if (!vram__is_named(n, dots + 2, (uint32_t)(end - dots - 2)))
      continue;
    if (*count < cap)
      list[*count].first = first, list[*count].last = n;
    ++*count;
    first = NULL;
  }
  if (first)
    return vram__range_error(err, VRAM_ERR_VALUE,
                             "a range whose end is not behind its beginning: ", open,
                             vram__range_end(open, &dots));
  if (err)
    vram__zero(err, sizeof *err);
  return VRAM_OK;
}

/* How many blocks the pool of a replay has room for: parameter, gradient, state and temporaries of
   the optimizer, what a node makes and keeps, and as many free ones. */
static uint32_t vram__run_blocks(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nparam * 12 + (uint64_t)g->nvalue * 6 + (uint64_t)g->nnode * 6;
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

/* Events of one step, and of the optimizer's first, that a tape has room for. */
static uint32_t vram__tape_events(const vram_graph *g) {
  const uint64_t n = (uint64_t)g->nparam * 24 + (uint64_t)g->nvalue * 8 + (uint64_t)g->nnode * 24;
  return n < UINT32_MAX / 64 ? 1024 + (uint32_t)n : UINT32_MAX / 64;
}

static uint64_t vram__run_bytes(const vram_graph *g) {
  return vram_pool_bytes(vram__run_blocks(g), 1) + 16 +
         vram__tape_events(g) * (uint64_t)(sizeof(uint64_t) + sizeof(uint32_t)) +
         ((uint64_t)g->nparam + g->ninput) * sizeof(uint32_t);
}

VRAM_API uint64_t vram_step_bytes(const vram_graph *g, const vram_step_options *o) {
  uint64_t n = 65536;
  const vram_node *m;
  if (o && o->train && (o->checkpoint_segments > 1 || o->ncheckpoint)) {
    /* ranges, what goes in and out, the recomputed part of the tape */
    uint32_t ranges = o->ncheckpoint ? o->ncheckpoint : o->checkpoint_segments;
    n += (uint64_t)(ranges < g->nnode ? ranges : g->nnode) * 256 + (uint64_t)g->nnode * 1200;
    for (m = g->first; m; m = m->next)
      n += (uint64_t)m->nin * 512 + (uint64_t)m->nout * 64;
  }
  n += (uint64_t)g->nnode * 1200 + (uint64_t)g->nvalue * 256 + (uint64_t)g->nparam * 512;
  n += (uint64_t)(g->max_in + g->max_out) * 256 + g->extra;
  if (o)
    n = vram__plus(n, vram__mul((uint64_t)o->prefetch * g->ninput, sizeof(vram__store)));
  if (o && o->replay)
    n += vram__run_bytes(g);
  for (m = o && o->cc && o->cc < 80 ? g->first : NULL; m; m = m->next)
    if (m->op <= VRAM_OP_conv_transpose3d) {    /* the first rows */
      int64_t groups = VRAM__INT(m, groups, 1); /* all at once in vram__slow_run and _bw */
      n += 1024 * (uint64_t)(groups < INT32_MAX ? groups : INT32_MAX);
    }
  return n;
}

/* Rules of the device: the smallest CUDA context seen (T4), the usual one and the largest with a
   recent runtime. The caching allocator reserves whole segments, at least what is allocated. What
   it keeps of freed blocks nothing bounds but a replay: half of what is allocated and 32 MiB are
   more than in any of 1,472 measured training steps (VGG-16: 44 %). */
#define VRAM__CONTEXT_LOWER UINT64_C(110100480)
#define VRAM__CONTEXT_USUAL UINT64_C(536870912)
#define VRAM__CONTEXT_UPPER UINT64_C(1073741824)

static void vram__device_bounds(vram_report *r, uint64_t context, uint64_t budget) {
  const uint64_t segment = VRAM__SMALL_SEGMENT;
  const uint64_t least = r->peak_allocated_bytes.lower, most = r->peak_allocated_bytes.upper;
  const uint64_t lower = (least + segment - 1) / segment * segment;
  const uint64_t usual = (most + segment - 1) / segment * segment;
  uint64_t c[3] = {VRAM__CONTEXT_LOWER, VRAM__CONTEXT_USUAL, VRAM__CONTEXT_UPPER};
  uint64_t upper = usual + usual / 2 + 16 * segment;
  uint32_t i;
  if (context)
    c[0] = c[1] = c[2] = context == VRAM_NO_CONTEXT ? 0 : context;
  r->peak_reserved_bytes = lower;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].reserved_peak_bytes > r->peak_reserved_bytes)
      r->peak_reserved_bytes = r->phase[i].reserved_peak_bytes;
  if (upper < r->peak_reserved_bytes)
    upper = r->peak_reserved_bytes;
  r->context_bytes.lower = c[0], r->context_bytes.expected = c[1], r->context_bytes.upper = c[2];
  r->device_bytes.lower = vram__plus(lower, c[0]);
  r->device_bytes.expected = vram__plus(r->replayed ? r->peak_reserved_bytes : usual, c[1]);
  r->device_bytes.upper = vram__plus(upper, c[2]);
  r->fits = r->device_bytes.expected <= budget && !r->num_ooms;
}

static void vram__had_gradients(vram__s *s, const vram__cats *before, uint64_t blocks,
                                uint64_t upper) {
  vram_phase_report *z = s->r->phase + VRAM_PHASE_ZERO_GRAD;
  const uint64_t bytes = s->had.bytes;
  if (bytes > (uint64_t)VRAM_MAX_BYTES - z->requested_peak_bytes) {
    s->failed = VRAM_ERR_OVERFLOW;
    return;
  }
  blocks += s->had.blocks;
  upper += s->had.blocks + s->had.large * VRAM__SMALL;
  s->events += s->had.count;
  s->peak_event += s->had.count;
  z->requested_peak_bytes += bytes;
  s->r->before_category_bytes[VRAM_CATEGORY_GRADIENTS] += bytes;
  z->allocated_peak_bytes = blocks;
  if (upper > s->upper_peak)
    s->upper_peak = upper;
  if (z->requested_peak_bytes < s->total_peak)
    return;
  s->total_peak = z->requested_peak_bytes;
  s->peak_event = 0;
  s->peak_node = NULL;
  s->peak_phase = VRAM_PHASE_ZERO_GRAD;
  s->fresh = 0;
  s->peak_cats = *before;
  s->peak_cats.of[VRAM_CATEGORY_GRADIENTS] += bytes;
}

VRAM__SELDOM_END

/* Notes on what storage leaf i's gradient lies. A gradient may be a view of more than it shows, and
   others be views of the same: `writes`, which backward is through with, leads to the first. */
static void vram__had(vram__s *s, uint32_t i) {
  vram__leaf *l = &s->leaf[i], *first;
  vram__store *b;
  l->had = 1;
  l->had_bytes = l->had_with = 0;
  if (!l->grad.st)
    return;
  b = s->top - (s->top - l->grad.st)->base;
  l->had_bytes = b->bytes;
  first = b->writes && b->writes <= i ? &s->leaf[b->writes - 1] : NULL;
  if (first && first->grad.st && s->top - (s->top - first->grad.st)->base == b)
    l->had_with = b->writes;
  else
    b->writes = i + 1;
}

/* Which leaves have a gradient after backward, and what those take. */
static void vram__count_gradients(vram__s *s) {
  uint32_t i, had = 0;
  for (i = 0; i < s->nleaf; i++) {
    const vram__leaf *l = s->leaf + i;
    if (!l->grad.d)
      continue;
    had += i < s->nparam_leaf;
    vram__had(s, i);
    if (!l->had_bytes || l->had_with)
      continue;
    if (l->had_bytes > (uint64_t)VRAM_MAX_BYTES - s->had.bytes) {
      s->failed = VRAM_ERR_OVERFLOW;
      return;
    }
    vram__total_add(&s->had, l->had_bytes);
  }
  s->all_had = had == s->nparam_leaf;
  s->missing = !s->all_had && s->train && !s->o->first_step;
  for (i = 0; !s->all_had && i < s->nparam_leaf; i++)
    if (s->leaf[i].grad.d)
      s->r->gradients_bytes += vram__bytes_of(s->leaf[i].d, s->leaf[i].dt);
  if (s->all_had)
    s->r->gradients_bytes = s->optim_all.bytes;
}

VRAM__SELDOM_BEGIN

/* The report's phases have their allocated and reserved bytes. */
static void vram__blocks_known(vram_report *r, const vram_step_options *o, const vram__run *run) {
  uint64_t peak = 0;
  uint32_t i;
  for (i = 0; i < VRAM_PHASE_COUNT; i++)
    if (r->phase[i].allocated_peak_bytes > peak)
      peak = r->phase[i].allocated_peak_bytes;
  r->peak_allocated_bytes.expected = peak;
  if (r->peak_allocated_bytes.upper < peak)
    r->peak_allocated_bytes.upper = peak;
  if (run) {
    r->replayed = !run->full;
    r->num_alloc_retries = run->pool.stats.num_alloc_retries;
    r->num_ooms = run->oom;
  }
  vram__device_bounds(r, o->context_bytes, o->budget_bytes);
}

static vram_result
vram__run_step(const vram_graph *g, const vram_step_options *o, void *scratch,
               uint64_t scratch_bytes, vram_report *report, vram__s *s,
               int known) { /* 2: rnn_reset, too; s->live...: as the caller has set them */
  uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  uint64_t leaves;
  uint32_t i;
  vram_live *live = s->live;
  vram__run *run = s->run;
  uint32_t live_cap = s->live_cap;
  uint64_t stop_at = s->stop_at, before_blocks, before_upper;
  vram__cats before;
  vram__zero(s, sizeof *s);
  vram__zero(report, sizeof *report);
  s->live = live;
  s->live_cap = live_cap;
  s->stop_at = stop_at;
  s->run = run;
  s->g = g;
  s->o = o;
  s->r = report;
  if (!scratch || scratch_bytes < skip + 64)
    return VRAM_ERR_MEMORY;
  s->mem = (uint8_t *)scratch + skip;
  s->cap = (scratch_bytes - skip) & ~(uint64_t)7;
  s->used = 8;
  if (s->cap < sizeof *s->top + sizeof *s->spare * VRAM__SPARE)
    return VRAM_ERR_MEMORY;
  s->cap -= sizeof *s->spare * VRAM__SPARE;
  s->spare = (vram_dims *)(void *)(s->mem + s->cap);
  s->cap -= sizeof *s->top;
  s->top = (vram__store *)(void *)(s->mem + s->cap);
  vram__zero(s->top, sizeof *s->top);
  s->watched = o->event || stop_at || run;
  s->train = o->train != 0;
  s->ideal = o->rules == VRAM_RULES_IDEAL;
  s->amp = (uint8_t)o->amp;
  s->low = (uint8_t)(o->dtype == VRAM_F32 ? 0 : o->dtype);
  s->cc = o->cc ? o->cc : 90;
  s->sm = o->sm         ? o->sm /* else T4, V100, A100, RTX 3090, RTX 4090, H100, B200, RTX 5090 */
          : s->cc == 75 ? 40
          : s->cc < 80  ? 80
          : s->cc == 80 ? 108
          : s->cc < 89  ? 82
          : s->cc == 89 ? 128
          : s->cc == 90 ? 132
          : s->cc < 120 ? 148
                        : 170;
  s->threads = s->cc == 75 ? 1024 : s->cc == 86 || s->cc == 89 || s->cc == 120 ? 1536 : 2048;
  s->ws = s->cc >= 90 ? 33554432 : 8519680;
  for (i = 0; i < 64; i++)
    s->cache[i] = g->cache[i];
#define VRAM__TAKE(to, type, count)                                                                \
  to = (type *)vram__bump(s->mem, &s->used, s->cap, (uint64_t)(count) * sizeof(type));             \
  if (!(to))                                                                                       \
  return VRAM_ERR_MEMORY
  VRAM__TAKE(s->obj, vram__obj, g->nvalue + 1);
  VRAM__TAKE(s->name_of, uint32_t, g->nvalue);
  vram__plan_ranges(s);
  if (s->failed)
    return (vram_result)s->failed;
  s->obj[g->nvalue].refs = 0;
  leaves = (uint64_t)g->nparam + g->ninput + s->most_args;
  VRAM__TAKE(s->leaf, vram__leaf, leaves); /* where they were, if `known` */
  if (s->amp) {
    VRAM__TAKE(s->cast, vram__t, leaves);
  }
  if (s->nrange && o->reentrant) {
    VRAM__TAKE(s->inner, vram__task, leaves);
  }
  VRAM__TAKE(s->param, vram__t, g->nparam);
  VRAM__TAKE(s->args, vram__t, g->max_in + g->max_out + 16);
#undef VRAM__TAKE
  s->scalar = vram__dims_get(s->mem, &s->used, s->cap, s->cache, 0, NULL, NULL);
  if (!s->scalar)
    return VRAM_ERR_MEMORY;
  s->phase = VRAM_PHASE_ZERO_GRAD;
  s->known = known != 0;
  s->rnn_reset = known > 1;
  s->root = g->root;
  vram__leave_out(s);
  if (s->failed)
    return (vram_result)s->failed;
  vram__before(s);
  s->scaler = s->train && s->amp == VRAM_F16 && s->nparam_leaf; /* it goes with an optimizer */
  vram__optim_before(s);
  if (s->scaler && !o->first_step) {
    s->scale = vram__existing(s, s->scalar, VRAM_F32, VRAM_CATEGORY_OTHER);
    vram__existing(s, s->scalar, VRAM_I32, VRAM_CATEGORY_OTHER);
  }
  if (s->failed)
    return (vram_result)s->failed;
  s->peak = s->total_peak = s->cur;
  s->blocks_peak = s->blocks;
  s->upper_peak = s->upper;
  vram__at_peak(s);
  before = s->cats;
  vram__copy(report->before_category_bytes, before.of, sizeof before.of);
  before_blocks = s->blocks, before_upper = s->upper;
  if (s->stop_at == 1 && (!s->train || o->first_step))
    vram__live_set(s);
  if (run)
    run->body = run->ntape;
  vram__zero_grad(s);
  vram__phase(s, VRAM_PHASE_FORWARD);
  vram__micro_batches(s);
  s->phase = VRAM_PHASE_OPTIMIZER;
  vram__count_gradients(s);
  if (!known && s->train && !o->first_step && !s->failed)
    vram__had_gradients(s, &before, before_blocks, before_upper);
  if (run)
    run->optim = run->ntape;
  if (s->train && !s->failed)
    vram__optim_now(s);
  if (run)
    run->after = run->ntape;
  vram__phase(s, VRAM_PHASE_END);
  if (s->train && s->loss.d) {
    s->loss.fn = 0;
    vram__let(s, s->loss);
  }
  vram__phase(s, VRAM_PHASE_END);
  if (s->fresh)
    vram__at_peak(s);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    report->peak_category_bytes[i] = s->peak_cats.of[i];
  report->peak_requested_bytes = s->total_peak;
  report->peak_blocks_bytes = s->most_blocks;
  if (report->phase[VRAM_PHASE_ZERO_GRAD].allocated_peak_bytes > s->most_blocks && !run)
    report->peak_blocks_bytes = report->phase[VRAM_PHASE_ZERO_GRAD].allocated_peak_bytes;
  report->peak_allocated_bytes.lower = report->peak_blocks_bytes;
  report->peak_allocated_bytes.upper = s->upper_peak;
  if (s->custom | s->custom_most) {
    const uint64_t less = vram__plus(s->custom, s->custom_most);
    uint64_t *lower = &report->peak_allocated_bytes.lower;
    *lower -= less < *lower ? less : *lower;
  }
  report->pinned_bytes = vram__mul(report->inputs_bytes, o->pinned);
  vram__blocks_known(report, o, run);
  report->peak_node = s->peak_node;
  report->peak_phase = s->peak_phase;
  report->events = s->events;
  report->peak_event = s->peak_event;
  report->scratch_used = skip + (s->used > s->most_used ? s->used : s->most_used) +
                         (s->nstore + (uint64_t)1) * sizeof(vram__store) +
                         sizeof *s->spare * VRAM__SPARE;
  return (vram_result)s->failed;
}

/* Which leaves get a gradient decides what a steady step begins with. Where that must be known at
   the beginning, a step that nobody sees finds it out. */
static vram_result vram__play(const vram_graph *g, const vram_step_options *o, void *scratch,
                              uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  vram_step_options quiet;
  vram_live *live = s->live;
  uint64_t stop_at = s->stop_at;
  vram_result r;
  if (!o->train || o->first_step || !(o->event || o->keep_grads || stop_at)) {
    r = vram__run_step(g, o, scratch, scratch_bytes, report, s, 0);
    if (r || o->first_step || (!s->missing && !(s->rnn_reset && s->rnn_dropout.d)))
      return r;
    s->live = live;
    s->stop_at = stop_at;
    return vram__run_step(g, o, scratch, scratch_bytes, report, s, 1 + s->rnn_reset);
  }
  quiet = *o;
  quiet.event = NULL;
  quiet.keep_grads = 0;
  quiet.accumulate = 1;
  s->stop_at = 0;
  r = vram__run_step(g, &quiet, scratch, scratch_bytes, report, s, 0);
  s->live = live;
  s->stop_at = stop_at;
  return r ? r : vram__run_step(g, o, scratch, scratch_bytes, report, s, 1 + s->rnn_reset);
}

/* One step more has been played: whose blocks stay. A forward pass's results go. */
static void vram__run_kept(vram__s *s) {
  uint32_t i;
  for (i = 1; i <= s->nstore && !s->train; i++) {
    const vram__store *st = s->top - i;
    if (st->base == i && st->srefs && st->id != UINT32_MAX)
      vram__run_put(s->run, st->block);
  }
  for (i = 0; i < s->nleaf && i < s->g->nparam + s->g->ninput; i++) {
    const uint32_t st = s->leaf[i].grad.st;
    s->run->gradient[i] = st ? (s->top - (s->top - st)->base)->block : 0;
  }
  s->run->rnn_dropout = s->rnn_dropout.st ? (s->top - s->rnn_dropout.st)->block : 0;
  s->run->fresh = 0;
}

static void vram__tape_part(vram__s *s, uint32_t from, uint32_t to, uint32_t *id,
                            vram_phase_report *phase) {
  vram__run *run = s->run;
  uint32_t i;
  for (i = from; i < to; i++) {
    const uint64_t value = run->tape[i] >> 2;
    switch (run->tape[i] & 3) {
    case VRAM__TAPE_ALLOC:
      run->block[(*id)++] = vram__run_get(s, value);
      break;
    case VRAM__TAPE_FREE:
      vram__run_put(run, run->block[value]);
      break;
    case VRAM__TAPE_OWN:
      vram__run_get(s, value);
      break;
    default:
      vram__run_phase(run, phase + value);
    }
  }
}

/* Steps of a run are alike but for zero_grad and the optimizer's first: one step is played onto a
   tape, and the tape into the pool, which takes less than playing every step. run->untold: this
   model's steps are not so much alike. */
static vram_result vram__play_tape(const vram_graph *g, const vram_step_options *o, void *scratch,
                                   uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  const uint32_t steps = o->train ? 3 : 2, room = g->nparam + g->ninput;
  vram__run *run = s->run;
  vram_step_options first = *o;
  vram_phase_report before[VRAM_PHASE_COUNT];
  uint64_t optimizer_bytes;
  uint32_t i, k, n = 0, end, id = 0, first_id;
  vram_result r;
  vram__zero(before, sizeof before);
  run->taping = 1;
  r = vram__run_step(g, o, scratch, scratch_bytes, report, s, 0);
  run->untold |= s->missing | s->rnn_reset;
  end = run->ntape;
  first_id = run->ids;
  if (r || run->untold) {
    run->taping = 0;
    return r;
  }
  if (o->train) { /* what zero_grad frees, inputs first */
    for (k = 0; k < s->nleaf; k++) {
      const uint32_t at = k + s->nparam_leaf;
      const vram__leaf *l = s->leaf + (at < s->nleaf ? at : at - s->nleaf);
      const uint32_t st = l->grad.st;
      run->untold |= (l->had_with != 0) | (st && n == room);
      if (st && n < room)
        run->gradient[n++] = (s->top - (s->top - st)->base)->id;
    }
    first.first_step = 1;
    s->o = &first;
    optimizer_bytes = report->optimizer_bytes;
    vram__optim_now(s);
    s->o = o;
    report->optimizer_bytes = optimizer_bytes;
    run->untold |= s->failed != 0;
  } else
    for (i = 1; i <= s->nstore; i++) { /* the results */
      const vram__store *st = s->top - i;
      if (st->base != i || !st->srefs || st->id == UINT32_MAX)
        continue;
      run->untold |= n == room;
      if (n < room)
        run->gradient[n++] = st->id;
    }
  for (k = 0; k < n; k++)
    run->untold |= run->gradient[k] >= run->ids;
  run->taping = 0;
  if (run->untold)
    return VRAM_OK;
  s->failed = VRAM_OK;
  vram__tape_part(s, 0, run->body, &id, NULL);
  for (i = 0; i < steps && !s->failed; i++) {
    vram_phase_report *phase = i + 1 < steps ? before : report->phase;
    for (k = 0; k < VRAM_PHASE_COUNT; k++)
      phase[k].allocated_peak_bytes = phase[k].reserved_peak_bytes = 0;
    for (k = 0; k < n && i; k++)
      vram__run_put(run, run->block[run->gradient[k]]);
    id = 0;
    vram__tape_part(s, run->body, run->optim, &id, phase);
    if (!i && o->train)
      vram__tape_part(s, end, run->ntape, &first_id, phase);
    else
      vram__tape_part(s, run->optim, run->after, &id, phase);
    vram__tape_part(s, run->after, end, &id, phase);
  }
  vram__blocks_known(report, o, run);
  return VRAM_OK;
}

/* The whole run on a device with so much room. */
static vram_result vram__play_on(const vram_graph *g, const vram_step_options *o, uint64_t room,
                                 int tight, void *scratch, uint64_t scratch_bytes,
                                 vram_report *report, vram__s *s) {
  const uint64_t pool_bytes = vram_pool_bytes(vram__run_blocks(g), 1);
  vram_pool_options options = *o->replay;
  vram_backend device;
  vram_step_options quiet = *o;
  uint32_t before = !o->train ? 1 : o->first_step ? 0 : 2; /* steps */
  vram__run run;
  vram_result r;
  uint32_t i;
  uint8_t *at = (uint8_t *)scratch + scratch_bytes;
  at += (8 - (uint64_t)(uintptr_t)at % 8) % 8;
  vram__zero(&run, sizeof run);
  vram__zero(&device, sizeof device);
  device.alloc = vram__run_alloc, device.free = vram__run_free;
  device.reserve = vram__run_reserve, device.unreserve = vram__run_unreserve;
  device.map = vram__run_map, device.unmap = vram__run_unmap;
  device.user = &run;
  run.room = room;
  run.next = VRAM__LARGE_SEGMENT;
  run.tape = (uint64_t *)(void *)(at + (pool_bytes + 7) / 8 * 8);
  run.tape_cap = vram__tape_events(g);
  run.block = (uint32_t *)(void *)(run.tape + run.tape_cap);
  run.gradient = run.block + run.tape_cap;
  run.fresh = 1;
  run.tight = tight != 0;
  options.streams = 1;
  if (tight)
    options.event = NULL;
  if (!options.total_bytes)
    options.total_bytes = UINT64_C(1) << 40;
  r = vram_pool_init(&run.pool, &options, &device, at, pool_bytes, NULL);
  if (r)
    return r;
  run.pool.terse = 1;
  s->run = &run;
  run.untold = o->event || options.event || o->first_step || o->keep_grads || g->rnn_dropout ||
               (o->train && o->amp == VRAM_F16);
  if (!run.untold)
    r = vram__play_tape(g, o, scratch, scratch_bytes, report, s);
  if (!run.untold || r)
    before = 0;
  quiet.event = NULL;
  quiet.nodes = NULL;
  quiet.first_step = 1;
  for (i = 0; i < before && !r; i++) {
    r = vram__run_step(g, &quiet, scratch, scratch_bytes, report, s, i ? 1 + s->rnn_reset : 0);
    if (!r)
      vram__run_kept(s);
    quiet.first_step = 0;
  }
  if (!r && run.untold)
    r = vram__run_step(g, o, scratch, scratch_bytes, report, s, before ? 1 + s->rnn_reset : 0);
  s->run = NULL;
  if (tight && run.oom)
    report->num_ooms = 1; /* the report is not complete */
  return tight && run.oom ? VRAM_OK : r;
}

/* 1: the whole run finds its memory in so much room. */
static int vram__runs_within(const vram_graph *g, const vram_step_options *o, uint64_t room,
                             void *scratch, uint64_t scratch_bytes, vram__s *s, uint64_t *retries) {
  vram_step_options quiet = *o;
  vram_report r;
  quiet.event = NULL;
  quiet.nodes = NULL;
  if (vram__play_on(g, &quiet, room, 1, scratch, scratch_bytes, &r, s) || !r.replayed || r.num_ooms)
    return 0;
  *retries = r.num_alloc_retries;
  return 1;
}

/* vram__play with o->replay. */
static vram_result vram__play_run(const vram_graph *g, const vram_step_options *o, void *scratch,
                                  uint64_t scratch_bytes, vram_report *report, vram__s *s) {
  const uint64_t room = o->replay->total_bytes;
  uint64_t context;
  vram_result r;
  if (scratch_bytes < vram__run_bytes(g))
    return VRAM_ERR_MEMORY;
  scratch_bytes -= vram__run_bytes(g);
  r = vram__play_on(g, o, room ? room : (uint64_t)VRAM_MAX_BYTES, 0, scratch, scratch_bytes, report,
                    s);
  if (!r && (!report->replayed || (report->num_ooms && !room))) /* beyond all addresses */
    r = vram__play(g, o, scratch, scratch_bytes, report, s);
  report->scratch_used += vram__run_bytes(g);
  context = report->context_bytes.expected;
  if (r || report->fits || !report->replayed || o->budget_bytes <= context ||
      report->peak_allocated_bytes.lower > o->budget_bytes - context)
    return r;
  report->fits = vram__runs_within(g, o, o->budget_bytes - context, scratch, scratch_bytes, s,
                                   &report->num_alloc_retries);
  return r;
}

/* What no step can begin with, or NULL. */
static const char *vram__misuse(const vram_graph *g, const vram_step_options *o, vram_result *why) {
  *why = g->error.code ? g->error.code : VRAM_ERR_VALUE;
  if (g->error.code)
    return g->error.text;
  if (!g->root)
    return "a model without nodes";
  if ((uint32_t)o->rules > VRAM_RULES_IDEAL)
    return "unknown rules";
  if ((uint32_t)o->optimizer >= VRAM_OPTIM_COUNT)
    return "unknown optimizer";
  if ((uint32_t)o->optim_impl > VRAM_OPTIM_IMPL_FUSED)
    return "unknown optimizer implementation";
  if (o->amp && o->amp != VRAM_BF16 && o->amp != VRAM_F16)
    return "amp is neither bf16 nor f16";
  if (o->dtype && o->dtype != VRAM_F32 && o->dtype != VRAM_BF16 && o->dtype != VRAM_F16)
    return "the model's dtype is neither f32 nor bf16 nor f16";
  if (o->cc && (o->cc < 50 || o->cc > 129))
    return "a compute capability out of range (expected 50 to 129: times ten)";
  if (o->ncheckpoint && !o->checkpoint)
    return "ncheckpoint without checkpoint";
  return NULL;
}

VRAM_API vram_result vram_step(const vram_graph *g, const vram_step_options *o, void *scratch,
                               uint64_t scratch_bytes, vram_report *report, vram_error *err) {
  vram__s s;
  vram_step_options none;
  vram_result r;
  vram__zero(&none, sizeof none);
  if (!o)
    o = &none;
  s.live = NULL;
  s.live_cap = 0;
  s.stop_at = 0;
  s.run = NULL;
  s.problem_node = NULL;
  s.problem = vram__misuse(g, o, &r);
  if (s.problem)
    vram__zero(report, sizeof *report);
  else if (o->replay)
    r = vram__play_run(g, o, scratch, scratch_bytes, report, &s);
  else
    r = vram__play(g, o, scratch, scratch_bytes, report, &s);
  if (err) {
    uint32_t n = 0;
    vram__zero(err, sizeof *err);
    err->code = r;
    if (r)
      vram__puts(err->text, sizeof err->text, &n, s.problem ? s.problem : vram_result_text(r));
    if (r && s.problem_node) {
      vram__puts(err->text, sizeof err->text, &n, " (node ");
      vram__put(err->text, sizeof err->text, &n, s.problem_node->name, s.problem_node->name_len);
      vram__puts(err->text, sizeof err->text, &n, ")");
      err->line = s.problem_node->line;
    }
  }
  return r;
}

VRAM_API vram_result vram_step_live(const vram_graph *g, const vram_step_options *o, void *scratch,
                                    uint64_t scratch_bytes, const vram_report *report,
                                    vram_live *list, uint32_t cap, uint32_t *count) {
  vram__s s;
  vram_step_options silent;
  vram_report again;
  vram_result r;
  *count = 0;
  if (o)
    silent = *o;
  else
    vram__zero(&silent, sizeof silent);
  silent.event = NULL;
  silent.nodes = NULL;
  silent.replay = NULL;
  s.run = NULL;
  if (vram__misuse(g, &silent, &r))
    return r;
  s.live = list;
  s.live_cap = cap;
  s.stop_at = report->peak_event + 1;
  if (!s.stop_at) { /* which event of the optimizer it was shows only where each is played */
    s.stop_at = UINT64_MAX;
    if ((r = vram__play(g, &silent, scratch, scratch_bytes, &again, &s)) != VRAM_OK)
      return r;
    s.live = list;
    s.live_cap = cap;
    s.stop_at = again.peak_event + 1;
  }
  r = vram__play(g, &silent, scratch, scratch_bytes, &again, &s);
  if (r == VRAM_OK)
    *count = s.live_count;
  return r;
}

VRAM__SELDOM_END
VRAM__ONCE_BEGIN

/* >>solve (Implementation) ---------------------------------------------------------------------
   Bytes grow with a dim nearly on a straight line, so the search interpolates; every answer is a
   step that was played. */

enum {
  VRAM__FITS,
  VRAM__TOO_LARGE,
  VRAM__BEYOND, /* a limit of the library */
  VRAM__NOT_ALLOWED,
  VRAM__FAILED /* the search ends: solver.error */
};

enum { VRAM__SEEN = 64, VRAM__NEAR = 4096, VRAM__REPLAYS = 128 };

typedef struct vram__point {
  int64_t value;
  uint64_t bytes;  /* on the device; UINT64_MAX: more than VRAM_MAX_BYTES */
  uint64_t blocks; /* allocated, at most */
} vram__point;

typedef struct vram__solver {
  const vram_solve_options *o;
  const vram_allocator *allocator;
  vram_solution *s;
  const char *text;
  uint64_t len;
  void *mem, *scratch;
  uint64_t mem_bytes, scratch_bytes;
  vram_range *range;
  uint64_t range_bytes;
  vram_graph g;
  vram_step_options step;
  vram_dim set[VRAM_MAX_DIMS + 1]; /* the last one is solved for */
  uint32_t nset;
  vram_trial low, high, now; /* the largest that fits, the smallest above it that does not */
  const vram_trial *side;    /* the one of them that was last found */
  int beyond;                /* high is of that kind */
  int64_t first, stride;     /* allowed values are thought to be first + k * stride; 0: not known */
  int64_t most;
  uint32_t streak; /* trials in a row that ended on the same side as the last one */
  uint32_t slow;   /* trials since low and high came half as near */
  int probes;      /* what comes now is tried at hazard */
  int64_t width;
  vram__point seen[VRAM__SEEN];
  uint32_t nseen;
  vram_error error;
} vram__solver;

static void vram__solve_error(vram__solver *v, vram_result code, const char *text,
                              const char *more) {
  uint32_t n = 0;
  vram__zero(&v->error, sizeof v->error);
  v->error.code = code;
  vram__puts(v->error.text, sizeof v->error.text, &n, text);
  vram__puts(v->error.text, sizeof v->error.text, &n, more);
}

/* Makes *mem at least `need` bytes; what was in it is lost. */
static int vram__solve_room(vram__solver *v, void **mem, uint64_t *have, uint64_t need) {
  const vram_allocator *a = v->allocator;
  if (need <= *have)
    return 1;
  if (*mem)
    a->free(a->user, *mem, *have);
  *mem = a->alloc(a->user, need);
  *have = *mem ? need : 0;
  if (!*mem)
    vram__solve_error(v, VRAM_ERR_MEMORY, "the allocator gave no memory", "");
  return *mem != NULL;
}

/* What a result of one value says about that value. */
static int vram__solve_kind(const vram__solver *v) {
  switch (v->error.code) {
  case VRAM_OK:
    return VRAM__FITS;
  case VRAM_ERR_OVERFLOW:
    return VRAM__TOO_LARGE;
  case VRAM_ERR_LIMIT:
    return VRAM__BEYOND;
  case VRAM_ERR_MEMORY:
    return VRAM__FAILED;
  default:
    return VRAM__NOT_ALLOWED;
  }
}

static int vram__solve_parse(vram__solver *v) {
  int again = 0;
  for (;;) {
    if (v->mem) {
      vram_graph_init(&v->g, v->mem, v->mem_bytes);
      if (vram_parse(&v->g, v->text, v->len, v->set, v->nset, &v->error) != VRAM_ERR_MEMORY ||
          again++)
        break;
    }
    again += !v->mem;
    { /* loops of more rounds */
      const uint64_t need = vram_parse_bytes(v->text, v->len, v->set, v->nset);
      if (!need) {
        vram__solve_error(v, VRAM_ERR_LIMIT, "a model that is too large", "");
        break;
      }
      if (!vram__solve_room(v, &v->mem, &v->mem_bytes, need))
        break;
    }
  }
  return vram__solve_kind(v);
}

/* A step of the graph as it stands, replayed or not; *report becomes all zero if it is too large.
 */
static int vram__solve_play(vram__solver *v, const vram_pool_options *replay, vram_report *report) {
  v->step.checkpoint = NULL;
  v->step.ncheckpoint = 0;
  v->step.replay = replay;
  if (v->o->checkpoint_nodes) {
    uint32_t n;
    void *mem = v->range;
    if (vram_ranges(&v->g, v->o->checkpoint_nodes, NULL, 0, &n, &v->error))
      return VRAM__NOT_ALLOWED;
    const int room =
        vram__solve_room(v, &mem, &v->range_bytes, (n + 1u) * (uint64_t)sizeof *v->range);
    v->range = (vram_range *)mem;
    if (!room)
      return VRAM__FAILED;
    vram_ranges(&v->g, v->o->checkpoint_nodes, v->range, n, &v->step.ncheckpoint, NULL);
    v->step.checkpoint = v->range;
  }
  if (!vram__solve_room(v, &v->scratch, &v->scratch_bytes, vram_step_bytes(&v->g, &v->step)))
    return VRAM__FAILED;
  vram_step(&v->g, &v->step, v->scratch, v->scratch_bytes, report, &v->error);
  report->peak_node = NULL;
  if (v->error.code)
    vram__zero(report, sizeof *report);
  return v->error.code ? vram__solve_kind(v) : report->fits ? VRAM__FITS : VRAM__TOO_LARGE;
}

/* v->now, played without replay, as its replay decides. That takes several times as long, so it is
   asked only where it may say something else: neither is what is allocated more than the budget has
   room for, nor twice that and 64 MiB less. */
static int vram__solve_verdict(vram__solver *v, int kind) {
  const vram_report *r = &v->now.report;
  const uint64_t context = r->context_bytes.expected, most = r->peak_allocated_bytes.upper;
  const uint64_t room = v->o->budget_bytes > context ? v->o->budget_bytes - context : 0;
  vram_step_options o = v->step;
  uint64_t retries;
  vram__s s;
  if (!v->o->step.replay || v->error.code || r->peak_allocated_bytes.lower > room ||
      most < room / 2 - (room < 67108864 ? room / 2 : 33554432) ||
      (v->probes && kind != VRAM__FITS))
    return kind;
  o.replay = v->o->step.replay;
  if (!vram__solve_room(v, &v->scratch, &v->scratch_bytes, vram_step_bytes(&v->g, &o)))
    return VRAM__FAILED;
  vram__zero(&s, sizeof s);
  return vram__runs_within(&v->g, &o, room, v->scratch, v->scratch_bytes - vram__run_bytes(&v->g),
                           &s, &retries)
             ? VRAM__FITS
             : VRAM__TOO_LARGE;
}

/* A step of the graph as it stands; v->now's report becomes its. */
static int vram__solve_step(vram__solver *v) {
  uint32_t i;
  uint64_t bytes;
  int kind = vram__solve_play(v, NULL, &v->now.report);
  if (v->error.code && v->error.code != VRAM_ERR_OVERFLOW)
    return kind;
  bytes = v->error.code ? UINT64_MAX : v->now.report.device_bytes.expected;
  for (i = 0; i < v->nseen && !v->s->larger; i++)
    if (v->seen[i].value < v->now.value
            ? v->seen[i].bytes > bytes
            : v->seen[i].value > v->now.value && v->seen[i].bytes < bytes) {
      const int64_t other = v->seen[i].value;
      v->s->larger = other > v->now.value ? other : v->now.value;
      v->s->smaller = other > v->now.value ? v->now.value : other;
    }
  if (v->nseen == VRAM__SEEN)
    v->nseen--;
  v->seen[v->nseen].value = v->now.value;
  v->seen[v->nseen].blocks = v->now.report.peak_allocated_bytes.upper;
  v->seen[v->nseen++].bytes = bytes;
  return vram__solve_verdict(v, kind);
}

/* The report of a trial that is part of the solution is that of its replay. */
static int vram__solve_report(vram__solver *v, vram_trial *t) {
  if (!v->o->step.replay || !t->value || !t->report.device_bytes.expected)
    return 1;
  if (v->o->segments)
    v->step.checkpoint_segments = (uint32_t)t->value;
  else {
    v->set[v->nset - 1].value = t->value;
    if (vram__solve_parse(v) != VRAM__FITS)
      return 0;
  }
  vram__solve_play(v, v->o->step.replay, &t->report);
  return !v->error.code;
}

/* One value of the dim; v->now becomes it. */
static int vram__solve_try(vram__solver *v, int64_t value) {
  int kind;
  v->s->tried++;
  v->now.value = value;
  vram__zero(&v->now.report, sizeof v->now.report);
  v->set[v->nset - 1].value = value;
  kind = vram__solve_parse(v);
  return kind == VRAM__FITS ? vram__solve_step(v) : kind;
}

/* range * a / b, about: a guess. At most 64 times the range. */
static int64_t vram__solve_share(int64_t range, uint64_t a, uint64_t b) {
  if (a / b >= 64)
    return range * 64;
  while (b >> 24)
    a >>= 1, b >>= 1;
  return range * (int64_t)a / (int64_t)b;
}

/* The highest peak of the allocator's blocks that this budget has room for, as this step tells. */
static uint64_t vram__solve_room_for(const vram__solver *v, const vram_report *r) {
  const uint64_t blocks = r->peak_allocated_bytes.upper, segment = VRAM__SMALL_SEGMENT;
  const uint64_t context = r->device_bytes.expected - (blocks + segment - 1) / segment * segment;
  return v->o->budget_bytes > context ? (v->o->budget_bytes - context) / segment * segment : 0;
}

/* The next value to try, between low and high: blocks are nearly a straight line. */
static int64_t vram__solve_guess(const vram__solver *v) {
  const int64_t low = v->low.value, high = v->high.value, stride = v->stride ? v->stride : 1;
  const vram__point *p = v->seen + (v->nseen > 1 ? v->nseen - 2 : 0), *q = v->seen + v->nseen - 1;
  const uint64_t fits = v->low.report.peak_allocated_bytes.upper;
  const uint64_t large = v->high.report.peak_allocated_bytes.upper;
  const uint64_t room = vram__solve_room_for(v, low ? &v->low.report : &v->high.report);
  const int64_t shift = v->streak ? stride << 2 * (v->streak < 10 ? v->streak - 1 : 9) : 0;
  int64_t g;
  if (p->value > q->value) {
    const vram__point *t = p;
    p = q;
    q = t;
  }
  if (low && high)
    g = v->slow > 3 || large <= fits || room < fits || room > large
            ? low + (high - low) / 2
            : low + vram__solve_share(high - low, room - fits, large - fits) +
                  (v->side == &v->low ? shift : -shift);
  else if (q->value == p->value || q->blocks <= p->blocks || !p->blocks)
    g = low ? low * 2 : high / 2; /* no slope to go by */
  else if (low)
    g = low + shift +
        (room > fits ? vram__solve_share(q->value - p->value, room - fits, q->blocks - p->blocks)
                     : 0);
  else
    g = high - shift -
        (large > room ? vram__solve_share(q->value - p->value, large - room, q->blocks - p->blocks)
                      : 0);
  if (g > v->most)
    g = v->most;
  g -= (g - v->first) % stride;
  if (high && g >= high)
    g = high - stride;
  if (g <= low)
    g = low ? low + stride : (v->first - 1) % stride + 1;
  return g;
}

/* v->now moves low or high. */
static void vram__solve_take(vram__solver *v, int kind) {
  vram_trial *side = kind == VRAM__FITS ? &v->low : &v->high;
  if (kind == VRAM__NOT_ALLOWED || kind == VRAM__FAILED)
    return;
  if (kind != VRAM__FITS)
    v->beyond = kind == VRAM__BEYOND;
  v->streak = side == v->side ? v->streak + 1 : 0;
  v->side = side;
  *side = v->now;
}

/* A value near the one that is not allowed. */
static int vram__solve_near(vram__solver *v, int64_t value) {
  const int64_t low = v->low.value, high = v->high.value ? v->high.value : v->most + 1;
  int64_t d;
  int kind = VRAM__NOT_ALLOWED;
  if (!v->stride) { /* what distance is allowed? */
    for (d = 1; kind == VRAM__NOT_ALLOWED && d <= VRAM__NEAR && v->first + d <= v->most; d++)
      kind = vram__solve_try(v, v->first + d);
    v->stride = kind == VRAM__NOT_ALLOWED ? 1 : d - 1;
    if (kind != VRAM__NOT_ALLOWED && (v->now.value <= low || v->now.value >= high))
      kind = vram__solve_try(v, vram__solve_guess(v));
    return kind;
  }
  for (d = v->stride; kind == VRAM__NOT_ALLOWED && d < 64 * v->stride; d += v->stride) {
    if (value + d < high)
      kind = vram__solve_try(v, value + d);
    if (kind == VRAM__NOT_ALLOWED && value - d > low)
      kind = vram__solve_try(v, value - d);
  }
  return kind;
}

/* Every value between low and high, from below; without high, as far as VRAM__NEAR. */
static int vram__solve_between(vram__solver *v) {
  int64_t c;
  int kind = VRAM__FITS;
  for (c = v->low.value + 1; kind == VRAM__FITS || kind == VRAM__NOT_ALLOWED; c++) {
    if (v->high.value ? c >= v->high.value : c > v->most)
      return VRAM__FITS;
    if (c > v->low.value + VRAM__NEAR) { /* nobody knows */
      v->high.value = 0;
      return VRAM__FITS;
    }
    kind = vram__solve_try(v, c);
    vram__solve_take(v, kind);
  }
  return kind;
}

static int vram__solve_bracket(vram__solver *v) {
  int kind;
  for (;;) {
    const int64_t stride = v->stride ? v->stride : 1;
    if (v->high.value ? v->high.value - v->low.value <= stride : v->low.value > v->most - stride)
      break;
    v->slow++;
    if (!v->high.value || (v->high.value - v->low.value) * 2 <= v->width || !v->width) {
      v->width = v->high.value ? v->high.value - v->low.value : 0;
      v->slow = 0;
    }
    kind = vram__solve_try(v, vram__solve_guess(v));
    if (kind == VRAM__NOT_ALLOWED)
      kind = vram__solve_near(v, v->now.value);
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__NOT_ALLOWED)
      break;
    vram__solve_take(v, kind);
  }
  return vram__solve_between(v);
}

/* The largest multiple of eight, or power of two, up to low. */
static int vram__solve_round(vram__solver *v, int power, vram_trial *to) {
  int64_t c = v->low.value - v->low.value % 8;
  int kind = VRAM__NOT_ALLOWED;
  uint32_t i;
  if (power)
    for (c = 1; c <= v->low.value / 2;)
      c *= 2;
  for (i = 0; i < 64 && c > 0 && kind != VRAM__FITS; i++, c = power ? c / 2 : c - 8) {
    if (c == v->low.value) {
      *to = v->low;
      return VRAM__FITS;
    }
    kind = vram__solve_try(v, c);
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__FITS)
      *to = v->now;
  }
  return VRAM__FITS;
}

/* 1: no replay of v->now can find its memory. */
static int vram__solve_hopeless(const vram__solver *v) {
  const vram_report *r = &v->now.report;
  const uint64_t context = r->context_bytes.expected;
  return v->error.code || v->o->budget_bytes <= context ||
         r->peak_allocated_bytes.lower > v->o->budget_bytes - context;
}

/* Does a larger value than high fit in a replay? How blocks lie in segments changes with every
   size, so one that is too large may lie below one that is not. The values below the first hopeless
   one, from above: all of them, or VRAM__REPLAYS that are spread evenly. */
static int vram__solve_lucky(vram__solver *v) {
  const int64_t stride = v->stride ? v->stride : 1, high = v->high.value;
  int64_t below = high, above = 0, c, step;
  int kind;
  while (!above || above - below > stride) {
    const int64_t ahead = below - high > stride ? 2 * (below - high) : 2 * stride;
    c = above ? below + (above - below) / 2 / stride * stride : high + ahead;
    if (c > v->most) {
      above = v->most + 1 - (v->most + 1 - v->first) % stride;
      continue;
    }
    v->probes = 1; /* not replayed */
    kind = vram__solve_try(v, c);
    v->probes = 0;
    if (kind == VRAM__FAILED)
      return kind;
    if (kind == VRAM__NOT_ALLOWED || kind == VRAM__BEYOND || vram__solve_hopeless(v))
      above = c;
    else
      below = c;
  }
  step = ((below - high) / stride / VRAM__REPLAYS + 1) * stride;
  for (c = below; c > high; c -= step) {
    kind = vram__solve_try(v, c);
    if (kind == VRAM__FITS || kind == VRAM__FAILED)
      return kind;
  }
  return VRAM__TOO_LARGE;
}

/* Does a larger value than high fit? Kernels look at multiples of small powers of two; where one
   value is known to take less than a smaller one, the next ones are all tried. */
static int vram__solve_probe(vram__solver *v) {
  const int64_t high = v->high.value,
                last = v->most < high + VRAM__NEAR ? v->most : high + VRAM__NEAR;
  int64_t c = high + (v->stride ? v->stride : 1);
  uint32_t left = VRAM__SEEN;
  int kind = VRAM__TOO_LARGE;
  if (!high || v->beyond)
    return kind;
  for (; c <= last && left; c = v->s->larger ? c + 1 : c % 8 ? (c | 3) + 1 : last + 1) {
    kind = vram__solve_try(v, c);
    left -= kind != VRAM__NOT_ALLOWED;
    if (kind == VRAM__FITS || kind == VRAM__FAILED)
      return kind;
  }
  return VRAM__TOO_LARGE;
}

/* The largest value of the dim; the graph in v->g has its first one. */
static vram_result vram__solve_dim(vram__solver *v) {
  int kind;
  v->now.value = v->first;
  v->s->tried++;
  kind = vram__solve_step(v);
  if (kind == VRAM__NOT_ALLOWED || kind == VRAM__FAILED || kind == VRAM__BEYOND)
    return v->error.code;
  vram__solve_take(v, kind);
  v->nset++;
  do {
    if (vram__solve_bracket(v) == VRAM__FAILED)
      return v->error.code;
    v->probes = 1;
    kind = vram__solve_probe(v);
    v->probes = 0;
    if (kind == VRAM__TOO_LARGE && v->o->step.replay && v->high.value && !v->beyond)
      kind = vram__solve_lucky(v);
    if (kind == VRAM__FAILED)
      return v->error.code;
    if (kind == VRAM__FITS) {
      v->high.value = 0;
      vram__solve_take(v, kind);
    }
  } while (kind == VRAM__FITS);
  if (vram__solve_round(v, 0, &v->s->eights) == VRAM__FAILED ||
      vram__solve_round(v, 1, &v->s->power) == VRAM__FAILED)
    return v->error.code;
  v->s->limit = v->high.value && v->beyond;
  v->s->fits = v->low;
  if (v->high.value && !v->beyond)
    v->s->next = v->high;
  return VRAM_OK;
}

/* The fewest segments: more of them keep more of their inputs, fewer recompute longer ranges, so
   the bytes have no order and every number is tried. */
static vram_result vram__solve_segments(vram__solver *v) {
  vram_trial before;
  uint64_t fewest = UINT64_MAX;
  int kind;
  vram__zero(&before, sizeof before);
  for (v->now.value = 1; v->now.value <= v->most; v->now.value++) {
    v->step.checkpoint_segments = (uint32_t)v->now.value;
    kind = vram__solve_step(v);
    if (kind == VRAM__FAILED || (v->now.value == 1 && kind == VRAM__NOT_ALLOWED))
      return v->error.code;
    if (kind == VRAM__NOT_ALLOWED && v->error.code != VRAM_ERR_UNSUPPORTED)
      break; /* more segments than functions */
    v->s->tried++;
    if (kind == VRAM__NOT_ALLOWED) /* an operation in place crosses an end */
      continue;
    if (v->seen[v->nseen - 1].bytes < fewest) {
      fewest = v->seen[v->nseen - 1].bytes;
      v->s->least = v->now;
    }
    if (kind == VRAM__FITS && !v->s->fits.value) {
      v->s->fits = v->now;
      v->s->next = before;
    }
    before = v->now;
  }
  if (!v->s->fits.value)
    v->s->next = v->s->least;
  return VRAM_OK;
}

/* The options, the text as it stands, and where its dim is. */
static vram_result vram__solve_begin(vram__solver *v) {
  const vram_solve_options *o = v->o;
  uint32_t i, k;
  if (o->nset > VRAM_MAX_DIMS || o->most < 0 || o->most > INT32_MAX ||
      (o->segments && (!o->step.train || o->dim || o->checkpoint_nodes))) {
    vram__solve_error(v, VRAM_ERR_VALUE,
                      o->nset > VRAM_MAX_DIMS              ? "more than 64 dims"
                      : o->most < 0 || o->most > INT32_MAX ? "most is not within 0 and 2^31-1"
                      : !o->step.train                     ? "segments are for training"
                                       : "segments exclude a dim and checkpointed nodes",
                      "");
    return v->error.code;
  }
  v->most = o->most ? o->most : INT32_MAX;
  v->step = o->step;
  v->step.event = NULL;
  v->step.nodes = NULL;
  v->step.budget_bytes = o->budget_bytes;
  for (i = 0; i < o->nset; i++)
    v->set[i] = o->set[i];
  v->nset = o->nset;
  if (vram__solve_parse(v) != VRAM__FITS || o->segments)
    return v->error.code;
  if (!v->g.ndim) {
    vram__solve_error(v, VRAM_ERR_NAME, "the model has no dims", "");
    return v->error.code;
  }
  for (i = 0; o->dim && i < v->g.ndim; i++)
    if (vram__same(v->g.dim[i].name, v->g.dim[i].len, o->dim))
      break;
  if (i == v->g.ndim) {
    vram__no_dim(&v->g, o->dim);
    v->error = v->g.error;
    return v->error.code;
  }
  for (k = 0; k < o->nset; k++)
    if (o->set[k].name ? vram__same(v->g.dim[i].name, v->g.dim[i].len, o->set[k].name) : !i) {
      vram__solve_error(v, VRAM_ERR_VALUE,
                        "the dim to solve for is set: ", o->dim ? o->dim : "batch");
      return v->error.code;
    }
  v->first = v->g.dim[i].value;
  if (v->first < 1 || v->first > v->most) {
    vram__solve_error(v, VRAM_ERR_VALUE,
                      "the model's own value of the dim is not within 1 and most", "");
    return v->error.code;
  }
  v->set[v->nset].name = o->dim;
  return VRAM_OK;
}

VRAM_API vram_result vram_solve(const char *text, uint64_t len, const vram_solve_options *o,
                                const vram_allocator *allocator, vram_solution *solution,
                                vram_error *err) {
  vram__solver v;
  vram_result r;
  vram__zero(&v, sizeof v);
  vram__zero(solution, sizeof *solution);
  v.o = o;
  v.allocator = allocator;
  v.s = solution;
  v.text = text;
  v.len = len;
  r = vram__solve_begin(&v);
  if (!r)
    r = o->segments ? vram__solve_segments(&v) : vram__solve_dim(&v);
  if (!r && !(vram__solve_report(&v, &solution->fits) && vram__solve_report(&v, &solution->next) &&
              vram__solve_report(&v, &solution->eights) &&
              vram__solve_report(&v, &solution->power) && vram__solve_report(&v, &solution->least)))
    r = v.error.code;
  if (v.range)
    allocator->free(allocator->user, v.range, v.range_bytes);
  if (v.scratch)
    allocator->free(allocator->user, v.scratch, v.scratch_bytes);
  if (v.mem)
    allocator->free(allocator->user, v.mem, v.mem_bytes);
  if (r)
    vram__zero(solution, sizeof *solution);
  if (err) {
    vram__zero(err, sizeof *err);
    if (r)
      *err = v.error;
  }
  return r;
}

/* >>writer (Implementation) --------------------------------------------------------------------
   All lengths in pictures are whole tenths of a unit; a picture is 500 units wide. */

VRAM_API uint32_t vram_bytes_text(uint64_t bytes, vram_units units, char *to, uint32_t cap) {
  static const char *const name[2][7] = {{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"},
                                         {"B", "KB", "MB", "GB", "TB", "PB", "EB"}};
  const uint64_t step = units == VRAM_UNITS_SI ? 1000 : 1024;
  uint64_t unit = 1, whole, rest, digits;
  uint32_t u = 0, n = 0, copied = 0, scale, place;
  char text[24], digit;
  text[0] = 0;
  if (units != VRAM_UNITS_BYTES)
    while (u < 6 && bytes / unit >= step)
      unit *= step, u++;
  whole = bytes / unit;
  rest = bytes % unit;
  scale = u && whole < 10 ? 100 : u && whole < 100 ? 10 : 1;
  while (unit > UINT64_C(1) << 50)
    rest /= step, unit /= step;
  digits = whole * scale + rest * scale / unit;
  rest = rest * scale % unit;
  digits += 2 * rest > unit || (2 * rest == unit && (digits & 1)); /* half to even, as printf */
  vram__putu(text, sizeof text, &n, digits / scale);
  if (scale > 1)
    vram__puts(text, sizeof text, &n, ".");
  for (place = scale / 10; place; place /= 10) {
    digit = (char)('0' + (char)(digits / place % 10));
    vram__put(text, sizeof text, &n, &digit, 1);
  }
  if (units != VRAM_UNITS_BYTES) {
    vram__puts(text, sizeof text, &n, " ");
    vram__puts(text, sizeof text, &n, name[units == VRAM_UNITS_SI][u]);
  }
  if (cap)
    vram__put(to, cap, &copied, text, n);
  return n;
}

VRAM_API uint64_t vram_timeline_bytes(uint32_t columns) {
  return (uint64_t)columns * sizeof(vram_moment) + 7; /* 7: the memory may begin anywhere */
}

VRAM_API vram_result vram_timeline_init(vram_timeline *t, void *mem, uint64_t bytes,
                                        const uint64_t *before) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)mem % 8) % 8;
  uint64_t room = mem && bytes > skip ? (bytes - skip) / sizeof *t->column : 0;
  uint32_t i;
  vram__zero(t, sizeof *t);
  if (!room)
    return VRAM_ERR_MEMORY;
  t->column = (vram_moment *)(void *)((uint8_t *)mem + skip);
  t->cap = room < UINT32_MAX ? (uint32_t)room : UINT32_MAX;
  for (i = 0; before && i < VRAM_CATEGORY_COUNT; i++) {
    t->now.bytes[i] = before[i];
    t->now.total = vram__plus(t->now.total, before[i]);
  }
  t->column[0] = t->peak = t->now;
  t->ncolumn = 1;
  t->width = 1;
  return VRAM_OK;
}

/* The phase of the next event. When there is no room for one more, the last two places are for
   phases behind backward; what else comes is part of the one before. */
static void vram__timeline_phase(vram_timeline *t, vram_phase phase) {
  vram_phase_span *last = t->nspan ? &t->span[t->nspan - 1] : NULL;
  const uint32_t room = VRAM_TIMELINE_SPANS - (phase <= VRAM_PHASE_BACKWARD ? 2 : 0);
  if (!last)
    t->now.phase = t->peak.phase = t->column[0].phase = phase;
  if (phase == VRAM_PHASE_FORWARD && (!last || t->now.phase != phase))
    t->forwards++;
  if (last && (last->phase == phase || t->nspan >= room))
    return;
  last = &t->span[t->nspan];
  last->phase = phase;
  last->first = t->nspan++ ? t->events + 1 : 0;
  last->peak_bytes = last->end_bytes = t->now.total;
}

VRAM_API void vram_timeline_add(void *timeline, const vram_event *e) {
  vram_timeline *t = (vram_timeline *)timeline;
  const vram_phase phase = (uint32_t)e->phase <= VRAM_PHASE_COUNT ? e->phase : VRAM_PHASE_END;
  const uint64_t at = t->events + 1;
  uint64_t *to = &t->now.bytes[vram__category_of(e->category)], *from = to, bytes = e->bytes;
  vram_phase_span *span;
  uint32_t i;
  if (!t->cap || e->device == VRAM_HOST ||
      (e->action != VRAM_ALLOC && e->action != VRAM_FREE && e->action != VRAM_BECOMES))
    return;
  if (e->action == VRAM_BECOMES)
    from = &t->now.bytes[vram__category_of(e->was)];
  if (e->action == VRAM_ALLOC && bytes > (uint64_t)VRAM_MAX_BYTES - t->now.total)
    bytes = (uint64_t)VRAM_MAX_BYTES - t->now.total;
  if (e->action != VRAM_ALLOC && bytes > *from)
    bytes = *from;
  if (e->action == VRAM_BECOMES) {
    *from -= bytes;
    *to += bytes;
    return;
  }
  vram__timeline_phase(t, phase);
  if (e->action == VRAM_ALLOC) {
    *to += bytes;
    t->now.total += bytes;
  } else {
    *to -= bytes;
    t->now.total -= bytes;
  }
  t->now.event = t->events = at;
  t->now.node = e->node;
  t->now.phase = phase;
  span = &t->span[t->nspan - 1];
  span->end_bytes = t->now.total;
  if (t->now.total > span->peak_bytes)
    span->peak_bytes = t->now.total;
  if (t->now.total > t->peak.total)
    t->peak = t->now;
  while (at / t->width >= t->cap) { /* two columns become one */
    for (i = 0; i < t->ncolumn - i; i++) {
      const vram_moment *pair = t->column + i + i;
      t->column[i] = pair[i + i + 1 < t->ncolumn && pair[1].total > pair[0].total];
    }
    t->ncolumn = i;
    t->width *= 2;
  }
  i = (uint32_t)(at / t->width);
  if (i == t->ncolumn)
    t->column[t->ncolumn++] = t->now;
  else if (t->now.total > t->column[i].total)
    t->column[i] = t->now;
}

VRAM_API vram_result vram_timeline_ledger(vram_timeline *t, void *mem, uint64_t bytes,
                                          vram_ledger *l) {
  uint64_t before[VRAM_CATEGORY_COUNT], k, n;
  vram_result result;
  uint32_t c;
  int predicted = 0;
  vram_event e;
  vram__ledger_lock(l);
  for (c = 0; c < VRAM_CATEGORY_COUNT; c++)
    before[c] = l->category[c].current;
  n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  for (k = l->trace_count; k > l->trace_count - n; k--) { /* back to the first one */
    const vram_event *kept = l->trace + (k - 1) % l->options.trace;
    if (kept->device == VRAM_HOST)
      continue;
    predicted |= kept->node || kept->phase;
    if (kept->action == VRAM_ALLOC || kept->action == VRAM_BECOMES)
      before[kept->category] -= kept->bytes;
    if (kept->action == VRAM_FREE || kept->action == VRAM_BECOMES)
      before[kept->action == VRAM_FREE ? kept->category : kept->was] += kept->bytes;
  }
  result = vram_timeline_init(t, mem, bytes, before);
  for (k = l->trace_count - n; !result && k < l->trace_count; k++) {
    e = l->trace[k % l->options.trace];
    if (!predicted)
      e.phase = VRAM_PHASE_COUNT;
    vram_timeline_add(t, &e);
  }
  vram__ledger_unlock(l);
  return result;
}

static const char *vram__span_name(vram_phase phase) {
  return phase == VRAM_PHASE_COUNT ? "observed" : vram_phase_name(phase);
}

/* ---- text that goes to a sink ---- */

typedef struct vram__pen {
  const vram_sink *sink; /* NULL: nothing is written, only measured */
  uint32_t n;
  uint8_t failed;
  char text[1024];
} vram__pen;

static void vram__pen_flush(vram__pen *p) {
  if (p->n && p->sink && !p->failed && p->sink->write(p->sink->user, p->text, p->n))
    p->failed = 1;
  p->n = 0;
}

static void vram__pen_put(vram__pen *p, const char *s, uint32_t len) {
  while (len--) {
    if (p->n == sizeof p->text)
      vram__pen_flush(p);
    p->text[p->n++] = *s++;
  }
}

static void vram__pen_puts(vram__pen *p, const char *z) { vram__pen_put(p, z, vram__len(z)); }

static void vram__pen_puti(vram__pen *p, int64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__puti(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

static void vram__pen_putu(vram__pen *p, uint64_t v) {
  char t[24];
  uint32_t n = 0;
  vram__putu(t, sizeof t, &n, v);
  vram__pen_put(p, t, n);
}

/* How many bytes the character at s has; 0: it is none that XML takes, in UTF-8. */
static uint32_t vram__utf8(const char *s, uint32_t len) {
  const uint32_t a = (uint8_t)s[0];
  const uint32_t n = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
  uint32_t i, c = n > 1 ? a & (0xffu >> (n + 1)) : a;
  if (n > len || (n == 1 && (a < 32 || a == 127)))
    return 0;
  for (i = 1; i < n; i++) {
    if (((uint8_t)s[i] & 0xc0) != 0x80)
      return 0;
    c = c << 6 | ((uint8_t)s[i] & 0x3fu);
  }
  if ((n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000) || c > 0xfffd)) ||
      (n == 4 && (c < 0x10000 || c > 0x10ffff)))
    return 0;
  return n;
}

/* As text or in an attribute; what is no character becomes '?'. */
static void vram__pen_xml(vram__pen *p, const char *s, uint32_t len) {
  while (len) {
    uint32_t n = vram__utf8(s, len);
    if (!n)
      vram__pen_puts(p, "?"), n = 1;
    else if (*s == '&')
      vram__pen_puts(p, "&amp;");
    else if (*s == '<')
      vram__pen_puts(p, "&lt;");
    else if (*s == '>')
      vram__pen_puts(p, "&gt;");
    else if (*s == '"')
      vram__pen_puts(p, "&quot;");
    else
      vram__pen_put(p, s, n);
    s += n;
    len -= n;
  }
}

/* %d an int in tenths, %i an int, %u a uint64_t, %r text as it is, %s text escaped, %% */
static void vram__pen_f(vram__pen *p, const char *format, ...) {
  va_list list;
  va_start(list, format);
  for (; *format; format++)
    if (*format != '%')
      vram__pen_put(p, format, 1);
    else
      switch (*++format) {
      case 'd': {
        const int v = va_arg(list, int), size = v < 0 ? -v : v;
        if (v < 0)
          vram__pen_puts(p, "-");
        vram__pen_puti(p, size / 10);
        if (size % 10)
          vram__pen_puts(p, "."), vram__pen_puti(p, size % 10);
        break;
      }
      case 'i':
        vram__pen_puti(p, va_arg(list, int));
        break;
      case 'u':
        vram__pen_putu(p, va_arg(list, uint64_t));
        break;
      case 'r':
        vram__pen_puts(p, va_arg(list, const char *));
        break;
      case '%':
        vram__pen_puts(p, "%");
        break;
      default: {
        const char *z = va_arg(list, const char *);
        vram__pen_xml(p, z, vram__len(z));
      }
      }
  va_end(list);
}

/* How wide a text is at most: the widest of the usual fonts decides. `size`: of the font. */
static int vram__text_width(const char *s, uint32_t len, int size) {
  static const char *const group[] = {"ijl", "ft ,.!|'", "rI:;/\\()[]-\"",
                                      "ABCDEFGHJKLNOPQRSTUVXYZ&w", "mMW%@+=<>~^#"};
  static const int em[] = {300, 400, 460, 820, 1080, 645};
  int64_t sum = 0;
  for (; len; s++, len--) {
    uint32_t i, k = 0;
    if (((uint8_t)*s & 0xc0) == 0x80) /* within a character */
      continue;
    for (i = (uint8_t)*s < 0x80 ? 0 : 4; i < 5; i++) {
      for (k = 0; group[i][k] && group[i][k] != *s; k++)
        ;
      if (group[i][k] || (uint8_t)*s >= 0x80)
        break;
    }
    sum += em[i];
  }
  sum = sum * size / 1000;
  return (int)(sum < 30000 ? sum : 30000);
}

/* A text of at most so many tenths; of a longer one the end (tail: else the beginning). */
static void vram__pen_fit(vram__pen *p, const char *s, uint32_t len, int size, int room, int tail) {
  const int dots = size * 11 / 10;
  if (vram__text_width(s, len, size) <= room) {
    vram__pen_xml(p, s, len);
    return;
  }
  while (len && vram__text_width(s, len, size) + dots > room) {
    do {
      len--;
      s += tail != 0;
    } while (len && ((uint8_t)(tail ? *s : s[len]) & 0xc0) == 0x80);
  }
  if (tail)
    vram__pen_puts(p, "&#8230;");
  vram__pen_xml(p, s, len);
  if (!tail)
    vram__pen_puts(p, "&#8230;");
}

/* ---- the live set: cells, each of one category ---- */

typedef struct vram__cell {
  uint64_t bytes, key;
  const vram_node *node;
  uint32_t count; /* tensors */
  uint16_t len;   /* of the node's name, as far as they share it */
  uint8_t cat, kind;
  int x, y, w, h;
} vram__cell;

enum { /* what the tensors of a cell have in common */
       VRAM__CELL_NODE,
       VRAM__CELL_PREFIX, /* a module: the name up to a dot or bracket */
       VRAM__CELL_OP,
       VRAM__CELL_REST /* the category only */
};

/* a * b / c, where a <= c and b < 2^25; bits beyond 38 are lost */
static uint64_t vram__share(uint64_t a, uint64_t b, uint64_t c) {
  while (c >> 38)
    a >>= 1, c >>= 1;
  return c ? a * b / c : 0;
}

/* by category and what they share */
static int vram__cell_by_key(const vram__cell *a, const vram__cell *b) {
  const uint32_t i = a->node ? a->node->index : 0, j = b->node ? b->node->index : 0;
  return a->cat != b->cat ? a->cat < b->cat : a->key != b->key ? a->key < b->key : i < j;
}

/* the largest first, the rest last */
static int vram__cell_by_size(const vram__cell *a, const vram__cell *b) {
  if (a->cat != b->cat)
    return a->cat < b->cat;
  if ((a->kind == VRAM__CELL_REST) != (b->kind == VRAM__CELL_REST))
    return b->kind == VRAM__CELL_REST;
  return a->bytes != b->bytes ? a->bytes > b->bytes : vram__cell_by_key(a, b);
}

/* Heap sort: needs no memory and no recursion. */
static void vram__cell_sort(vram__cell *c, uint32_t n,
                            int (*before)(const vram__cell *, const vram__cell *)) {
  uint32_t start = n / 2, end = n;
  while (end > 1) {
    uint32_t at, child;
    vram__cell x;
    if (start)
      x = c[--start];
    else {
      x = c[--end];
      c[end] = c[0];
    }
    for (at = start; (child = 2 * at + 1) < end; at = child) {
      child += child + 1 < end && before(&c[child], &c[child + 1]);
      if (!before(&x, &c[child]))
        break;
      c[at] = c[child];
    }
    c[at] = x;
  }
}

/* What tensors of a cell share at this level: 0 the whole name, 1 the op, d + 1 the first d parts
   of the name. Returns how many parts the name has. */
static uint32_t vram__cell_key(vram__cell *c, uint32_t level) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  uint32_t i, len, parts = 1;
  len = vram_node_name(c->node, name, sizeof name);
  for (i = 0; i < len; i++) {
    if (i && (name[i] == '.' || name[i] == '[') && ++parts == level)
      break;
    hash = (hash ^ (uint8_t)name[i]) * UINT64_C(0x100000001b3);
  }
  c->len = (uint16_t)i;
  c->key = level == 1 ? c->node ? c->node->op : UINT64_MAX : hash;
  return parts;
}

/* Groups what is live: nodes with large tensors stand alone, the small ones go together by module,
   then by op, then by category. Returns how many cells there are. */
static uint32_t vram__cells(vram__cell *c, const vram_live *live, uint32_t n, uint64_t least) {
  uint32_t done = 0, level = 0, parts = 1, i, k;
  for (i = 0; i < n; i++) {
    vram__zero(&c[i], sizeof c[i]);
    c[i].bytes = live[i].bytes;
    c[i].node = live[i].node;
    c[i].cat = (uint8_t)vram__category_of(live[i].category);
    c[i].count = 1;
  }
  for (;;) {
    for (i = done; i < n; i++) {
      k = vram__cell_key(&c[i], level);
      if (!level && k > parts)
        parts = k < 8 ? k : 8;
    }
    vram__cell_sort(c + done, n - done, vram__cell_by_key);
    for (i = done; i < n; i = k) {
      vram__cell sum = c[i];
      for (k = i + 1; k < n && c[k].cat == sum.cat && c[k].key == sum.key; k++) {
        sum.bytes = vram__plus(sum.bytes, c[k].bytes);
        sum.count++;
      }
      if (sum.bytes < least || (level == 1 && !sum.node))
        continue;
      sum.kind = (uint8_t)(level > 1    ? VRAM__CELL_PREFIX
                           : level == 1 ? VRAM__CELL_OP
                                        : VRAM__CELL_NODE);
      /* the cell stands where its first tensor was, the others go */
      c[i] = c[done];
      c[done++] = sum;
      {
        const uint32_t gone = k - i - 1;
        uint32_t m;
        for (m = k; m < n; m++)
          c[m - gone] = c[m];
        n -= gone;
        k -= gone;
      }
    }
    if (level == 1)
      break;
    level = level ? level - 1 : parts;
  }
  vram__cell_sort(c + done, n - done, vram__cell_by_key);
  for (i = k = done; i < n; i++)
    if (k > done && c[k - 1].cat == c[i].cat) {
      c[k - 1].bytes = vram__plus(c[k - 1].bytes, c[i].bytes);
      c[k - 1].count++;
      c[k - 1].kind = VRAM__CELL_REST;
    } else {
      c[k] = c[i];
      vram__cell_key(&c[k], 0);
      c[k++].kind = VRAM__CELL_NODE;
    }
  vram__cell_sort(c, k, vram__cell_by_size);
  return k;
}

/* Squarified areas (Bruls, Huizing, van Wijk): n cells, the largest first, fill the rectangle of
   `in`. Rows are laid along its shorter side, each as long as that makes its cells squarer. */
static void vram__squarify(vram__cell *c, uint32_t n, const vram__cell *in) {
  int x = in->x, y = in->y, w = in->w, h = in->h;
  uint64_t left = 0;
  uint32_t i, k, first = 0;
  for (i = 0; i < n; i++)
    left = vram__plus(left, c[i].bytes);
  while (first < n) {
    const int wide = w > h;
    const uint64_t side = (uint64_t)(wide ? h : w), area = (uint64_t)w * (uint64_t)h;
    const uint64_t most = vram__share(c[first].bytes, area, left);
    uint64_t sum = 0, bytes = 0, worst = UINT64_MAX;
    int at = 0, thick;
    for (k = first; k < n; k++) {
      const uint64_t one = vram__share(c[k].bytes, area, left), s = sum + one;
      uint64_t longest = UINT64_MAX, other;
      if (one && side) { /* the worse of the two extremes, in 1/1024 */
        longest = side * side * most / s * 1024 / s;
        other = s * 1024 / (side * side) * s / one;
        longest = longest > other ? longest : other;
      }
      if (k > first && longest >= worst)
        break;
      worst = longest;
      sum = s;
      bytes += c[k].bytes;
    }
    thick = side ? (int)((sum + side / 2) / side) : 0;
    if (k == n || thick > (wide ? w : h))
      thick = wide ? w : h;
    for (sum = 0; first < k; first++) {
      int to;
      sum += c[first].bytes;
      to = first + 1 == k ? (int)side : (int)vram__share(sum, side, bytes);
      c[first].x = wide ? x : x + at;
      c[first].y = wide ? y + at : y;
      c[first].w = wide ? thick : to - at;
      c[first].h = wide ? to - at : thick;
      at = to;
    }
    left -= bytes;
    *(wide ? &x : &y) += thick;
    *(wide ? &w : &h) -= thick;
  }
}

/* ---- the picture ---- */

enum {
  VRAM__SVG_WIDTH = 5000,
  VRAM__SVG_EDGE = 120,
  VRAM__SVG_ROOM = VRAM__SVG_WIDTH - 2 * VRAM__SVG_EDGE,
  VRAM__SVG_PLOT = 2300, /* heights */
  VRAM__SVG_AREAS = 3000,
  VRAM__SVG_FONT = 150,
  VRAM__SVG_FINE = 140,
  VRAM__SVG_CELLS = 32, /* a cell is at least so small a part */
  VRAM__SVG_STEPS = 960 /* columns at most */
};

/* what lasts lies at the bottom */
static const uint8_t vram__svg_order[VRAM_CATEGORY_COUNT] = {
    VRAM_CATEGORY_PARAMS,      VRAM_CATEGORY_OPTIMIZER, VRAM_CATEGORY_BUFFERS,
    VRAM_CATEGORY_INPUTS,      VRAM_CATEGORY_GRADIENTS, VRAM_CATEGORY_AUTOCAST,
    VRAM_CATEGORY_ACTIVATIONS, VRAM_CATEGORY_WORKSPACE, VRAM_CATEGORY_TEMPORARIES,
    VRAM_CATEGORY_OTHER};

typedef struct vram__box {
  int x, y, w, h;
} vram__box;

typedef struct vram__svg {
  vram__pen pen;
  const vram_timeline *t;
  const vram_report *r;
  const vram_svg_options *o;
  vram__cell *cell;
  uint32_t ncell, nlive;
  uint64_t total, bytes[VRAM_CATEGORY_COUNT]; /* at the peak */
  uint8_t seen[VRAM_CATEGORY_COUNT];          /* at any time */
  uint64_t need;                              /* of the device */
  uint64_t scale;                             /* bytes at the upper edge of the plot */
  vram__box plot, label[4];
  int line[2]; /* heights of lines across the plot */
  uint32_t nlabel, nline;
} vram__svg;

static const char *vram__svg_bytes(const vram__svg *d, uint64_t bytes, char to[24]) {
  vram_bytes_text(bytes, d->o->units, to, 24);
  return to;
}

/* The colours of categories are apart for everybody: CIE76 distance at least 29, in the dark 22,
   with normal vision, protanopia, deuteranopia and tritanopia. */
static void vram__svg_style(vram__pen *p) {
  vram__pen_puts(
      p, "<style>.vram text{font:15px system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',"
         "Arial,sans-serif;fill:#1b1b1f}.vram .t{font-size:20px;font-weight:600}"
         ".vram{background:#fff}.vram .b{font-weight:600}.vram .f{font-size:14px}.vram "
         ".g{fill:#55555c}"
         ".vram .m{text-anchor:middle}.vram .e{text-anchor:end}"
         ".vram .o{paint-order:stroke;stroke:#fff;stroke-width:4px;stroke-linejoin:round}"
         ".vram .p{fill:#fff}.vram .l{stroke:#c9c9d0;stroke-width:.8;fill:none}"
         ".vram .k{stroke:#1b1b1f;fill:none}.vram .d{fill:#1b1b1f;stroke:#fff;stroke-width:1.5}"
         ".vram .q0{fill:#ececf0}.vram .q1{fill:#dcdce2}.vram .a{stroke:#fff;stroke-width:5}"
         ".vram .x{fill:#000}.vram .w{fill:#fff}");
  vram__pen_puts(p, ".vram .v0{fill:#3100ac}.vram .v1{fill:#66919f}.vram .v2{fill:#ffc481}"
                    ".vram .v3{fill:#67cbfd}.vram .v4{fill:#8f930f}.vram .v5{fill:#11530f}"
                    ".vram .v6{fill:#6d114d}.vram .v7{fill:#c67461}.vram .v8{fill:#984bbd}"
                    ".vram .v9{fill:#d7d7d7}");
  vram__pen_puts(p, "@media screen and (prefers-color-scheme:dark){.vram{background:#17171b}.vram "
                    "text{fill:#ececf1}"
                    ".vram .g{fill:#b4b4be}.vram .o{stroke:#17171b}.vram .p{fill:#17171b}"
                    ".vram .l{stroke:#4a4a52}.vram .k{stroke:#ececf1}"
                    ".vram .d{fill:#ececf1;stroke:#17171b}.vram .q0{fill:#26262c}"
                    ".vram .q1{fill:#383840}.vram .a{stroke:#17171b}"
                    ".vram .x,.vram .w{fill:#000}");
  vram__pen_puts(p, ".vram .v0{fill:#7f69e6}.vram .v1{fill:#357daf}.vram .v2{fill:#eedb4a}"
                    ".vram .v3{fill:#8ab1f2}.vram .v4{fill:#97a71d}.vram .v5{fill:#3db959}"
                    ".vram .v6{fill:#b06162}.vram .v7{fill:#e99c9c}.vram .v8{fill:#c89bbe}"
                    ".vram .v9{fill:#e0e0e0}}</style>\n");
}

/* Words in as many lines as they need, three at most. Returns where the next line is. */
static int vram__svg_words(vram__svg *d, int y, const char *s) {
  uint32_t len = vram__len(s), line, k, end;
  for (line = 0; len && line < 3; line++) {
    for (k = end = 0; k < len; k++)
      if (s[k] == ' ' && vram__text_width(s, k, VRAM__SVG_FONT) <= VRAM__SVG_ROOM)
        end = k;
    if (!end || line == 2 || vram__text_width(s, len, VRAM__SVG_FONT) <= VRAM__SVG_ROOM)
      end = len;
    vram__pen_f(&d->pen, "<text class=\"g\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y);
    vram__pen_fit(&d->pen, s, end, VRAM__SVG_FONT, VRAM__SVG_ROOM, 0);
    vram__pen_puts(&d->pen, "</text>\n");
    y += 210;
    for (; end < len && s[end] == ' '; end++)
      ;
    s += end;
    len -= end;
  }
  return y;
}

/* A figure of the axis, exact: 1.5 GiB */
static void vram__tick_text(uint64_t v, vram_units units, char to[24]) {
  uint64_t unit = 1;
  const uint64_t step = units == VRAM_UNITS_SI ? 1000 : 1024;
  char name[24];
  uint32_t n = 0, k = 0;
  vram_bytes_text(v, units, name, sizeof name);
  while (name[k] && name[k] != ' ')
    k++;
  if (units != VRAM_UNITS_BYTES)
    while (v / unit >= step)
      unit *= step;
  vram__puti(to, 24, &n, (int64_t)(v / unit));
  if (unit > 1 && v % unit) {
    uint64_t rest = v % unit;
    vram__puts(to, 24, &n, ".");
    while (rest && n < 8) {
      char digit;
      while (unit > UINT64_C(1) << 59)
        rest >>= 1, unit >>= 1;
      digit = (char)('0' + (char)(rest * 10 / unit));
      rest = rest * 10 % unit;
      vram__put(to, 24, &n, &digit, 1);
    }
  }
  if (v)
    vram__puts(to, 24, &n, name + k);
}

/* A step of an axis so that there are at most `most` of them: a power of two, or 1, 2, 5 times a
   power of ten. */
static uint64_t vram__tick_step(uint64_t end, uint64_t most, int binary) {
  uint64_t step = 1;
  uint32_t k;
  for (k = 0; end / step > most; k++) /* 1 2 5 10 */
    step = !binary && k % 3 == 1 ? step / 2 * 5 : step * 2;
  return step;
}

static int vram__svg_y(const vram__svg *d, uint64_t bytes) {
  return d->plot.y + d->plot.h - (int)vram__share(bytes, (uint64_t)d->plot.h, d->scale);
}

/* Where a moment begins. */
static int vram__svg_x(const vram__svg *d, uint64_t moment) {
  const uint64_t all = d->t->events + 1;
  return d->plot.x + (int)vram__share(moment < all ? moment : all, (uint64_t)d->plot.w, all);
}

/* Writes a label at the first of these places that is free and inside the plot: above or below the
   point, in the middle, to its left or right; at the plot's ends for a line (x < 0). Lines may be
   crossed only where there is no other place. */
static void vram__svg_label(vram__svg *d, const char *s, int x, int y, const char *kind) {
  const int w = vram__text_width(s, vram__len(s), VRAM__SVG_FINE) * 9 / 8, pad = 60;
  const vram__box *p = &d->plot;
  int place;
  for (place = 0; place < 12; place++) {
    const int where = place % 3, below = place / 3 & 1;
    vram__box b;
    uint32_t i, k;
    b.w = w;
    b.h = 190;
    b.y = below ? y + pad : y - pad - b.h;
    if (x < 0)
      b.x = where == 0 ? p->x + p->w - w - pad : where == 1 ? p->x + pad : p->x + (p->w - w) / 2;
    else {
      b.x = where == 0 ? x - w / 2 : where == 1 ? x - w : x;
      if (b.x > p->x + p->w - pad - w)
        b.x = p->x + p->w - pad - w;
      if (b.x < p->x + pad)
        b.x = p->x + pad;
    }
    if (b.x < p->x || b.x + w > p->x + p->w || b.y < p->y || b.y + b.h > p->y + p->h)
      continue;
    for (i = 0; i < d->nlabel; i++) {
      const vram__box *o = &d->label[i];
      if (b.x < o->x + o->w && o->x < b.x + b.w && b.y < o->y + o->h && o->y < b.y + b.h)
        break;
    }
    for (k = 0; k < d->nline && place < 6; k++)
      if (d->line[k] >= b.y && d->line[k] <= b.y + b.h)
        break;
    if (i < d->nlabel || (k < d->nline && place < 6))
      continue;
    d->label[d->nlabel++] = b;
    vram__pen_f(&d->pen, "<text class=\"f o m %r\" x=\"%d\" y=\"%d\">%s</text>\n", kind,
                b.x + w / 2, b.y + 145, s);
    return;
  }
}

/* A phase as it is shown: its part of the band above the plot, and its name there or, where that
   is too narrow, above it. */
typedef struct vram__band {
  const char *name;
  uint64_t first;       /* moment */
  int from, to, x, row; /* x: middle of the name; row 0: in the band; -1: without a name */
} vram__band;

static int vram__band_fits(const vram__band *b) {
  return vram__text_width(b->name, vram__len(b->name), VRAM__SVG_FINE) + 40 < b->to - b->from;
}

/* `several`: room for the name of phases that repeat. */
static uint32_t vram__svg_bands(vram__svg *d, vram__band *band, char several[64], int *rows) {
  const vram_timeline *t = d->t;
  const uint32_t many = 12; /* more micro-batches are one band */
  uint32_t i, n = 0, at = 0, first = 0, last = 0;
  int end[4] = {0, 0, 0, 0}, w, fits = 1;
  vram__puti(several, 64, &at, (int64_t)t->forwards);
  vram__puts(several, 64, &at, " x forward, backward");
  for (i = 0; i < t->nspan; i++) {
    const int part = t->forwards > 1 && (t->span[i].phase == VRAM_PHASE_FORWARD ||
                                         t->span[i].phase == VRAM_PHASE_BACKWARD);
    if (part && last && t->forwards > many)
      continue;
    band[n].name = part && t->forwards > many ? several : vram__span_name(t->span[i].phase);
    band[n].first = t->span[i].first;
    band[n++].row = 0;
    if (part)
      first = last ? first : n, last = n; /* one more than the index */
  }
  for (i = 0; i < n; i++) {
    band[i].from = vram__svg_x(d, band[i].first);
    band[i].to = vram__svg_x(d, i + 1 < n ? band[i + 1].first : t->events + 1);
    fits &= i + 1 < first || i >= last || vram__band_fits(&band[i]);
  }
  *rows = 0;
  for (i = 0; i < n; i++) {
    vram__band *b = &band[i], whole;
    if (!fits && first < last && i + 1 >= first && i < last) { /* one name for all of them */
      b->row = -1;
      if (i + 1 != first)
        continue;
      whole = *b;
      whole.name = several;
      whole.to = band[last - 1].to;
      b->name = several;
      b->x = (whole.from + whole.to) / 2;
      if (vram__band_fits(&whole)) {
        b->row = 0;
        continue;
      }
    } else {
      b->x = (b->from + b->to) / 2;
      if (vram__band_fits(b))
        continue;
    }
    b->row = -1;
    if (t->events && b->first && d->t->span[t->nspan - 1].first == b->first &&
        t->span[t->nspan - 1].phase == VRAM_PHASE_END)
      continue;
    w = vram__text_width(b->name, vram__len(b->name), VRAM__SVG_FINE);
    if (b->x > d->plot.x + d->plot.w - w / 2)
      b->x = d->plot.x + d->plot.w - w / 2;
    if (b->x < VRAM__SVG_EDGE + w / 2)
      b->x = VRAM__SVG_EDGE + w / 2;
    for (at = 1; at < 4; at++)
      if (b->x - w / 2 >= end[at]) {
        b->row = (int)at;
        end[at] = b->x + w / 2 + 80;
        if (b->row > *rows)
          *rows = b->row;
        break;
      }
  }
  return n;
}

/* What is allocated over the step: one area for each category, drawn from the uppermost to the
   lowest, each over the one behind it. */
static void vram__svg_areas(vram__svg *d) {
  const vram_timeline *t = d->t;
  const uint32_t group = (t->ncolumn + VRAM__SVG_STEPS - 1) / VRAM__SVG_STEPS;
  uint32_t i, j, k, c;
  vram__pen *p = &d->pen;
  vram__pen_f(p, "<g class=\"a\" transform=\"translate(%d %d)scale(.1,-.1)\">\n", d->plot.x,
              d->plot.y + d->plot.h);
  for (k = VRAM_CATEGORY_COUNT; k--;) {
    const uint32_t cat = vram__svg_order[k];
    char text[24];
    int x = 0, y = 0;
    if (!d->seen[cat])
      continue;
    vram__pen_f(p, "<path class=\"v%i\" d=\"M0 0", (int)cat);
    for (i = 0; i < t->ncolumn; i += group) {
      const vram_moment *m = &t->column[i];
      const uint64_t next = i + group < t->ncolumn ? (i + group) * t->width : t->events + 1;
      uint64_t sum = 0;
      int to = vram__svg_x(d, next) - d->plot.x, high;
      for (j = i + 1; j < i + group && j < t->ncolumn; j++)
        if (t->column[j].total > m->total)
          m = &t->column[j];
      for (c = 0; c <= k; c++)
        sum += m->bytes[vram__svg_order[c]];
      high = d->plot.y + d->plot.h - vram__svg_y(d, sum);
      if (high != y) {
        if (i)
          vram__pen_f(p, "H%i", vram__svg_x(d, i * t->width) - d->plot.x);
        vram__pen_f(p, "v%i", high - y);
        y = high;
      }
      x = to;
    }
    vram__pen_f(p, "H%iV0\"><title>%s: %s at the peak</title></path>\n", x,
                vram_category_name((vram_category)cat), vram__svg_bytes(d, d->bytes[cat], text));
  }
  vram__pen_puts(p, "</g>\n");
}

/* Whether it fits, in two lines. */
static int vram__svg_fits(vram__svg *d, int y) {
  const vram_svg_options *o = d->o;
  const int fits = d->need <= o->budget_bytes;
  const uint64_t apart = fits ? o->budget_bytes - d->need : d->need - o->budget_bytes;
  vram__pen *p = &d->pen;
  char a[24], b[24];
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">%r %s", VRAM__SVG_EDGE, y,
              fits ? "Fits into" : "Does not fit into", vram__svg_bytes(d, o->budget_bytes, a));
  if (o->budget_name) {
    vram__pen_puts(p, ", ");
    vram__pen_fit(p, o->budget_name, vram__len(o->budget_name), VRAM__SVG_FONT, 2000, 0);
  }
  vram__pen_f(p, "</text>\n<text x=\"%d\" y=\"%d\">%s %r; %s %r</text>\n", VRAM__SVG_EDGE, y + 210,
              vram__svg_bytes(d, apart, a), fits ? "to spare" : "too much",
              vram__svg_bytes(d, d->need, b), d->r ? "expected on the device" : "at the peak");
  return y + 420;
}

static int vram__svg_peak(vram__svg *d, int y) {
  const vram_timeline *t = d->t;
  vram__pen *p = &d->pen;
  char line[64], bytes[24], name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t n = 0;
  vram__svg_bytes(d, t->peak.total, bytes);
  vram__puts(line, sizeof line, &n,
             !t->nspan                           ? ", nothing is allocated in the step"
             : t->peak.phase == VRAM_PHASE_COUNT ? ", "
                                                 : " in ");
  vram__puts(line, sizeof line, &n, t->nspan ? vram__span_name(t->peak.phase) : "");
  vram__pen_f(p, "<text x=\"%d\" y=\"%d\">Peak <tspan class=\"b\">%s</tspan>%s", VRAM__SVG_EDGE, y,
              bytes, line);
  if (t->peak.node) {
    const uint32_t len = vram_node_name(t->peak.node, name, sizeof name);
    vram__pen_puts(p, ", at ");
    vram__pen_fit(p, name, len, VRAM__SVG_FONT,
                  VRAM__SVG_ROOM - vram__text_width(line, n, VRAM__SVG_FONT) -
                      vram__text_width(bytes, vram__len(bytes), VRAM__SVG_FONT) * 11 / 10 -
                      vram__text_width("Peak , at ", 10, VRAM__SVG_FONT),
                  1);
  }
  vram__pen_puts(p, "</text>\n");
  return y + 210;
}

/* A line across the plot: the budget, or what the device needs. */
static void vram__svg_line(vram__svg *d, uint64_t bytes, const char *dashes) {
  d->line[d->nline] = vram__svg_y(d, bytes);
  vram__pen_f(&d->pen, "<path class=\"k\" stroke-dasharray=\"%r\" d=\"M%d %dH%d\"/>\n", dashes,
              d->plot.x, d->line[d->nline++], d->plot.x + d->plot.w);
}

static void vram__svg_mark(vram__svg *d, const char *what, uint64_t bytes, int x,
                           const char *kind) {
  char words[64], figure[24];
  uint32_t len = 0;
  vram__puts(words, sizeof words, &len, what);
  vram__puts(words, sizeof words, &len, vram__svg_bytes(d, bytes, figure));
  vram__svg_label(d, words, x, vram__svg_y(d, bytes), kind);
}

/* The lines and the peak, with their names. */
static void vram__svg_marks(vram__svg *d) {
  const vram_timeline *t = d->t;
  const vram_svg_options *o = d->o;
  const uint64_t column = t->peak.event / t->width;
  const int x = (vram__svg_x(d, column * t->width) + vram__svg_x(d, (column + 1) * t->width)) / 2;
  if (o->has_budget)
    vram__svg_line(d, o->budget_bytes, "6 4");
  if (o->has_budget && d->r)
    vram__svg_line(d, d->need, "1.5 3");
  vram__pen_f(&d->pen, "<circle class=\"d\" cx=\"%d\" cy=\"%d\" r=\"4\"/>\n", x,
              vram__svg_y(d, t->peak.total));
  vram__svg_mark(d, "peak ", t->peak.total, x, "b");
  if (o->has_budget)
    vram__svg_mark(d, "budget ", o->budget_bytes, -1, "b");
  if (o->has_budget && d->r)
    vram__svg_mark(d, "device ", d->need, -1, "");
}

static int vram__svg_step(vram__svg *d, int y) {
  const vram_timeline *t = d->t;
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  vram__band band[VRAM_TIMELINE_SPANS];
  char text[24], several[64];
  uint64_t most = t->peak.total, step, v;
  uint32_t i, n;
  int left = 0, rows;
  vram__pen_f(p, "<text class=\"b\" x=\"%d\" y=\"%d\">Requested memory over the step</text>\n",
              VRAM__SVG_EDGE, y);
  y = vram__svg_peak(d, y + 210);
  if (o->has_budget) {
    y = vram__svg_fits(d, y);
    most = most < o->budget_bytes ? o->budget_bytes : most;
    most = most < d->need ? d->need : most;
  }
  /* a seventh more, for the labels */
  d->scale = most > (uint64_t)VRAM_MAX_BYTES ? most : most + most / 7 + 1;
  step = vram__tick_step(d->scale, 6, o->units == VRAM_UNITS_IEC);
  for (v = 0; v <= d->scale; v += step) {
    int w;
    vram__tick_text(v, o->units, text);
    w = vram__text_width(text, vram__len(text), VRAM__SVG_FINE);
    left = w > left ? w : left;
    if (v > UINT64_MAX - step)
      break;
  }
  d->plot.x = VRAM__SVG_EDGE + left + 60;
  d->plot.w = VRAM__SVG_WIDTH - VRAM__SVG_EDGE - d->plot.x;
  d->plot.h = VRAM__SVG_PLOT;
  n = vram__svg_bands(d, band, several, &rows);
  y += rows * 190 + 20;
  d->plot.y = y + 220;
  d->nlabel = d->nline = 0;
  for (i = 0; i < n; i++)
    vram__pen_f(p, "<rect class=\"q%i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                (int)(i & 1), band[i].from, y, band[i].to - band[i].from, 220);
  for (i = 0; i < n; i++) {
    const int row = band[i].row;
    if (row > 0)
      vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", (band[i].from + band[i].to) / 2,
                  y - (row - 1) * 190 - 20, y + 40);
    if (row >= 0)
      vram__pen_f(p, "<text class=\"f m\" x=\"%d\" y=\"%d\">%s</text>\n", band[i].x,
                  row ? y - (row - 1) * 190 - 40 : y + 160, band[i].name);
  }
  for (v = 0; v <= d->scale; v += step) {
    const int at = vram__svg_y(d, v);
    vram__tick_text(v, o->units, text);
    vram__pen_f(p,
                "<path class=\"l\" d=\"M%d %dH%d\"/><text class=\"f g e\" x=\"%d\" y=\"%d\">%s"
                "</text>\n",
                d->plot.x, at, d->plot.x + d->plot.w, d->plot.x - 60, at + 50, text);
    if (v > UINT64_MAX - step)
      break;
  }
  vram__pen_f(p,
              "<rect class=\"plot\" fill=\"none\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
              d->plot.x, d->plot.y, d->plot.w, d->plot.h);
  vram__svg_areas(d);
  for (i = 1; i < n; i++)
    vram__pen_f(p, "<path class=\"l\" d=\"M%d %dV%d\"/>\n", band[i].from, y, d->plot.y + d->plot.h);
  vram__pen_f(p, "<path class=\"k\" d=\"M%d %dH%d\"/>\n", d->plot.x, d->plot.y + d->plot.h,
              d->plot.x + d->plot.w);
  /* the axis of events */
  y = d->plot.y + d->plot.h + 190;
  step = vram__tick_step(t->events, 5, 0);
  for (v = 0; v <= t->events && t->events; v += step) {
    const int at = vram__svg_x(d, v);
    const int w = vram__text_width("0000000000", v < 100000 ? 5 : 10, VRAM__SVG_FINE);
    vram__pen_f(p, "<text class=\"f g %r\" x=\"%d\" y=\"%d\">%u</text>\n",
                at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE ? "e" : "m",
                at + w / 2 > VRAM__SVG_WIDTH - VRAM__SVG_EDGE ? d->plot.x + d->plot.w : at, y, v);
  }
  y += 190;
  vram__pen_f(p, "<text class=\"f g m\" x=\"%d\" y=\"%d\">allocations and frees, in order</text>\n",
              d->plot.x + d->plot.w / 2, y);
  vram__svg_marks(d);
  return y + 100;
}

/* Categories that ever hold something, from the uppermost to the lowest, with their bytes at the
   peak. */
static int vram__svg_legend(vram__svg *d, int y) {
  const int columns = d->o->units == VRAM_UNITS_BYTES ? 1 : 2;
  vram__pen *p = &d->pen;
  uint32_t k;
  int n = 0, rows = 0;
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++)
    rows += d->seen[k];
  rows = (rows + columns - 1) / columns;
  for (k = VRAM_CATEGORY_COUNT; k--;) {
    const uint32_t cat = vram__svg_order[k];
    const uint64_t percent = vram__share(d->bytes[cat], 1000, d->total ? d->total : 1);
    const int x = VRAM__SVG_EDGE + n / (rows ? rows : 1) * 2460,
              at = y + n % (rows ? rows : 1) * 220;
    const int few = d->bytes[cat] && percent < 5;
    char text[24];
    if (!d->seen[cat])
      continue;
    vram__pen_f(p,
                "<rect class=\"v%i\" x=\"%d\" y=\"%d\" width=\"13\" height=\"13\" rx=\"2\"/>"
                "<text x=\"%d\" y=\"%d\">%s</text><text class=\"e\" x=\"%d\" y=\"%d\">%s"
                "</text><text class=\"e g\" x=\"%d\" y=\"%d\">%r%u%%</text>\n",
                (int)cat, x, at - 120, x + 185, at, vram_category_name((vram_category)cat),
                x + (columns == 1 ? 3800 : 1850), at, vram__svg_bytes(d, d->bytes[cat], text),
                x + (columns == 1 ? 4500 : 2300), at, few ? "&lt;" : "",
                few ? UINT64_C(1) : (percent + 5) / 10);
    n++;
  }
  return y + rows * 220;
}

/* What stands in a cell: "conv1", "layer1.*", "blocks[*]", "48 linear", "75 others". */
static uint32_t vram__cell_name(const vram__cell *c, char *to, uint32_t cap) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  uint32_t n = 0;
  to[0] = 0;
  if (c->kind >= VRAM__CELL_OP) {
    vram__puti(to, cap, &n, (int64_t)c->count);
    vram__puts(to, cap, &n, " ");
    vram__puts(to, cap, &n, c->kind == VRAM__CELL_OP ? vram_op_name(c->node->op) : "others");
  } else if (c->node) {
    vram_node_name(c->node, name, sizeof name);
    vram__put(to, cap, &n, name, c->len);
    if (c->kind == VRAM__CELL_PREFIX && name[c->len])
      vram__puts(to, cap, &n, name[c->len] == '.' ? ".*" : "[*]");
  } else
    vram__puts(to, cap, &n, vram_category_name((vram_category)c->cat));
  return n;
}

/* How much of a name goes on a line: all, or up to where it may be broken (0: nowhere). */
static uint32_t vram__name_line(const char *s, uint32_t len, int room) {
  uint32_t i, most = 0;
  if (vram__text_width(s, len, VRAM__SVG_FINE) <= room)
    return len;
  for (i = 1; i + 2 < len && vram__text_width(s, i, VRAM__SVG_FINE) <= room; i++)
    if (s[i - 1] == ' ' || s[i - 1] == '.' || s[i - 1] == '_' || s[i] == '[')
      most = i;
  return most;
}

/* The name and the bytes of a cell: in lines that are whole; on its side, if it is high and narrow;
   or the end of the name. */
static void vram__svg_cell_text(vram__svg *d, const vram__cell *c, const char *name, uint32_t len,
                                const char *bytes) {
  vram__pen *p = &d->pen;
  const int room = c->w - 80, tall = c->h - 80, own = vram__text_width(name, len, VRAM__SVG_FINE);
  const int figure = vram__text_width(bytes, vram__len(bytes), VRAM__SVG_FINE);
  const int bottom = c->y + c->h - 50;
  /* white on what is dark, where it is light around */
  const uint32_t dark = 1u << VRAM_CATEGORY_PARAMS | 1u << VRAM_CATEGORY_TEMPORARIES |
                        1u << VRAM_CATEGORY_WORKSPACE | 1u << VRAM_CATEGORY_OPTIMIZER;
  const char *ink = dark >> c->cat & 1 ? "w" : "x";
  uint32_t at = 0, n = 1, lines = 0;
  int y = c->y + 155;
  for (; at < len && n; at += n, lines++)
    n = vram__name_line(name + at, len - at, room);
  if (n && y + 170 * ((int)lines - 1) <= bottom)
    for (at = 0; at < len; at += n, y += 170) {
      n = vram__name_line(name + at, len - at, room);
      vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">", ink, c->x + 40, y);
      vram__pen_xml(p, name + at, n);
      vram__pen_puts(p, "</text>");
    }
  else if (own <= tall && c->w > 190) {
    vram__pen_f(p, "<text class=\"f %r\" transform=\"translate(%d %d)rotate(90)\">%s", ink,
                c->x + c->w / 2 - 50, c->y + 40, name);
    if (own + 80 + figure <= tall)
      vram__pen_f(p, " %s", bytes);
    vram__pen_puts(p, "</text>");
    return;
  } else if (c->kind < VRAM__CELL_OP && room > 600 && y <= bottom) {
    vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">", ink, c->x + 40, y);
    vram__pen_fit(p, name, len, VRAM__SVG_FINE, room, 1);
    vram__pen_puts(p, "</text>");
    y += 170;
  }
  if (y <= bottom && figure <= room)
    vram__pen_f(p, "<text class=\"f %r\" x=\"%d\" y=\"%d\">%s</text>", ink, c->x + 40, y, bytes);
}

static void vram__svg_cell(vram__svg *d, const vram__cell *c) {
  vram__pen *p = &d->pen;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 32], bytes[24];
  const uint32_t len = vram__cell_name(c, name, sizeof name);
  if (c->w < 14 || c->h < 14)
    return;
  vram__svg_bytes(d, c->bytes, bytes);
  vram__pen_f(p, "<g><title>%s: %s", vram_category_name((vram_category)c->cat), name);
  if (c->node && c->kind == VRAM__CELL_NODE)
    vram__pen_f(p, " (%s)", vram_op_name(c->node->op));
  if (c->kind == VRAM__CELL_PREFIX)
    vram__pen_f(p, ", %u tensors", (uint64_t)c->count);
  vram__pen_f(p, ", %s</title><rect class=\"v%i\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>",
              bytes, (int)c->cat, c->x, c->y, c->w - 8, c->h - 8);
  vram__svg_cell_text(d, c, name, len, bytes);
  vram__pen_puts(p, "</g>\n");
}

static int vram__svg_live(vram__svg *d, int y) {
  vram__cell all, cat[VRAM_CATEGORY_COUNT];
  vram__pen *p = &d->pen;
  uint32_t i, k, n = 0;
  char text[24];
  vram__pen_f(p,
              "<text class=\"b\" x=\"%d\" y=\"%d\">Allocated at the peak</text>\n"
              "<text class=\"g\" x=\"%d\" y=\"%d\">%u %r, %s; areas as bytes</text>\n",
              VRAM__SVG_EDGE, y, VRAM__SVG_EDGE, y + 210, (uint64_t)d->nlive,
              d->nlive == 1 ? "tensor" : "tensors", vram__svg_bytes(d, d->total, text));
  if (!d->ncell)
    return y + 320;
  vram__zero(&all, sizeof all);
  all.x = VRAM__SVG_EDGE, all.y = y + 310;
  all.w = VRAM__SVG_ROOM, all.h = VRAM__SVG_AREAS;
  for (i = 0; i < d->ncell; i = k) {
    vram__zero(&cat[n], sizeof cat[n]);
    cat[n].cat = d->cell[i].cat;
    cat[n].key = i;
    for (k = i; k < d->ncell && d->cell[k].cat == cat[n].cat; k++)
      cat[n].bytes += d->cell[k].bytes;
    cat[n++].count = k - i;
  }
  for (i = 1; i < n; i++) { /* the largest first */
    const vram__cell one = cat[i];
    for (k = i; k && cat[k - 1].bytes < one.bytes; k--)
      cat[k] = cat[k - 1];
    cat[k] = one;
  }
  vram__squarify(cat, n, &all);
  for (i = 0; i < n; i++) {
    vram__squarify(d->cell + cat[i].key, cat[i].count, &cat[i]);
    for (k = 0; k < cat[i].count; k++)
      vram__svg_cell(d, d->cell + cat[i].key + k);
  }
  return all.y + all.h + 100;
}

/* Everything from the title to the lower edge, which is returned. */
static int vram__svg_body(vram__svg *d) {
  const vram_svg_options *o = d->o;
  vram__pen *p = &d->pen;
  int y = 270;
  if (o->title) {
    vram__pen_f(p, "<text class=\"t\" x=\"%d\" y=\"%d\">", VRAM__SVG_EDGE, y + 30);
    vram__pen_fit(p, o->title, vram__len(o->title), 220, VRAM__SVG_ROOM, 0);
    vram__pen_puts(p, "</text>\n");
    y += 260;
  }
  if (o->subtitle)
    y = vram__svg_words(d, y, o->subtitle) + 120;
  if (d->t)
    y = vram__svg_step(d, y) + 220;
  if (d->t)
    y = vram__svg_legend(d, y) + 140;
  if (d->cell)
    y = vram__svg_live(d, y);
  if (!d->t)
    y = vram__svg_legend(d, y + 140) - 100;
  return y;
}

/* For those who do not see it. */
static void vram__svg_words_only(vram__svg *d) {
  vram__pen *p = &d->pen;
  char text[24];
  uint32_t i;
  const char *comma = "";
  vram__pen_f(p, "<title>%s%rmemory of one step</title>\n<desc>At the peak %s: ",
              d->o->title ? d->o->title : "", d->o->title ? ": " : "",
              vram__svg_bytes(d, d->total, text));
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (d->bytes[i]) {
      vram__pen_f(p, "%r%s %s", comma, vram_category_name((vram_category)i),
                  vram__svg_bytes(d, d->bytes[i], text));
      comma = ", ";
    }
  for (i = 0; d->t && i < d->t->nspan; i++)
    vram__pen_f(p, "; %s up to %s", vram__span_name(d->t->span[i].phase),
                vram__svg_bytes(d, d->t->span[i].peak_bytes, text));
  vram__pen_puts(p, ".</desc>\n");
}

VRAM_API uint64_t vram_svg_bytes(uint32_t nlive) {
  return (uint64_t)nlive * sizeof(vram__cell) + 7;
}

VRAM_API vram_result vram_write_svg(const vram_timeline *timeline, const vram_report *report,
                                    const vram_live *live, uint32_t nlive,
                                    const vram_svg_options *options, void *scratch,
                                    uint64_t scratch_bytes, const vram_sink *sink) {
  const uint64_t skip = (8 - (uint64_t)(uintptr_t)scratch % 8) % 8;
  vram_svg_options none;
  vram__svg d;
  uint32_t i, k;
  int height;
  vram__zero(&d, sizeof d);
  vram__zero(&none, sizeof none);
  d.o = options ? options : &none;
  d.t = timeline && timeline->cap ? timeline : NULL;
  d.r = report;
  for (i = 0; live && i < nlive; i++) {
    const uint32_t c = vram__category_of(live[i].category);
    d.bytes[c] = vram__plus(d.bytes[c], live[i].bytes);
    d.total = vram__plus(d.total, live[i].bytes);
    d.nlive += live[i].bytes != 0;
  }
  if (live) {
    if (!scratch || scratch_bytes < skip + nlive * (uint64_t)sizeof *d.cell)
      return VRAM_ERR_MEMORY;
    d.cell = (vram__cell *)(void *)((uint8_t *)scratch + skip);
    d.ncell = vram__cells(d.cell, live, nlive, d.total / VRAM__SVG_CELLS + 1);
  }
  for (k = 0; k < VRAM_CATEGORY_COUNT; k++) {
    if (d.t)
      d.bytes[k] = d.t->peak.bytes[k];
    d.seen[k] = d.bytes[k] != 0;
    for (i = 0; d.t && i < d.t->ncolumn; i++)
      d.seen[k] |= d.t->column[i].bytes[k] != 0;
  }
  if (d.t)
    d.total = d.t->peak.total;
  d.need = report ? report->device_bytes.expected : d.total;
  height = vram__svg_body(&d); /* without a sink: how high it is */
  d.pen.n = 0;
  d.pen.sink = sink;
  vram__pen_f(&d.pen,
              "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"vram\" viewBox=\"0 0 %d %d\" "
              "role=\"img\">\n",
              VRAM__SVG_WIDTH, height);
  vram__svg_words_only(&d);
  vram__svg_style(&d.pen);
  vram__pen_f(&d.pen, "<rect class=\"p\" width=\"%d\" height=\"%d\"/>\n", VRAM__SVG_WIDTH, height);
  vram__svg_body(&d);
  vram__pen_puts(&d.pen, "</svg>\n");
  vram__pen_flush(&d.pen);
  return d.pen.failed ? VRAM_ERR_WRITE : VRAM_OK;
}

/* ---- text for people ---- */

/* Text as it is; what is no character becomes '?'. */
static void vram__pen_label(vram__pen *p, const char *z) {
  uint32_t len = vram__len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

/* Inside the quotes of JSON. */
static void vram__pen_json(vram__pen *p, const char *z) {
  uint32_t len = vram__len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    if (*z == '"' || *z == '\\')
      vram__pen_puts(p, "\\");
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

static void vram__pen_spaces(vram__pen *p, uint32_t n) {
  while (n--)
    vram__pen_puts(p, " ");
}

/* A text of n bytes to the right, to the left of a column. */
static void vram__pen_right(vram__pen *p, const char *z, uint32_t width) {
  const uint32_t n = vram__len(z);
  vram__pen_spaces(p, n < width ? width - n : 0);
  vram__pen_puts(p, z);
}

static void vram__pen_left(vram__pen *p, const char *z, uint32_t width) {
  const uint32_t n = vram__len(z);
  vram__pen_puts(p, z);
  vram__pen_spaces(p, n < width ? width - n : 0);
}

static void vram__pen_bytes(vram__pen *p, uint64_t bytes, uint32_t width) {
  char text[24];
  vram_bytes_text(bytes, VRAM_UNITS_IEC, text, sizeof text);
  vram__pen_right(p, text, width);
}

static void vram__pen_number(vram__pen *p, uint64_t v, uint32_t width) {
  char text[24];
  vram_bytes_text(v, VRAM_UNITS_BYTES, text, sizeof text);
  vram__pen_right(p, text, width);
}

/* As PyTorch's messages have sizes: "512 bytes", "20.00 MiB"; nothing above GiB. */
static void vram__pen_size(vram__pen *p, uint64_t bytes) {
  static const char *const name[] = {" KiB", " MiB", " GiB"};
  uint64_t rest, hundredths;
  uint32_t u = 0;
  char digit[3];
  if (bytes <= 1024) {
    vram__pen_number(p, bytes, 0);
    vram__pen_puts(p, " bytes");
    return;
  }
  while (u < 2 && bytes > UINT64_C(1024) << 10 * (u + 1))
    u++;
  rest = bytes % (UINT64_C(1024) << 10 * u);
  hundredths = rest * 100 >> 10 * (u + 1);
  rest = rest * 100 - (hundredths << 10 * (u + 1));
  hundredths += (bytes >> 10 * (u + 1)) * 100;
  if (rest > UINT64_C(512) << 10 * u || (rest == UINT64_C(512) << 10 * u && (hundredths & 1)))
    hundredths++; /* half to even, as printf */
  vram__pen_number(p, hundredths / 100, 0);
  digit[0] = (char)('0' + (char)(hundredths / 10 % 10));
  digit[1] = (char)('0' + (char)(hundredths % 10));
  digit[2] = 0;
  vram__pen_puts(p, ".");
  vram__pen_puts(p, digit);
  vram__pen_puts(p, name[u]);
}

/* ":88" behind a file; a module has no lines */
static void vram__pen_line(vram__pen *p, const vram_owner *w) {
  if (!w->line)
    return;
  vram__pen_puts(p, ":");
  vram__pen_number(p, w->line, 0);
}

/* "train.c:88 forward, weights" */
static void vram__pen_owner(vram__pen *p, const vram_owner *w) {
  if (w->file) {
    vram__pen_label(p, w->file);
    vram__pen_line(p, w);
  }
  if (w->function) {
    vram__pen_puts(p, w->file ? " " : "");
    vram__pen_label(p, w->function);
  }
  if (w->tag) {
    vram__pen_puts(p, w->file || w->function ? ", " : "");
    vram__pen_label(p, w->tag);
  }
  if (!w->file && !w->function && !w->tag)
    vram__pen_puts(p, "place not known");
}

static vram_result vram__pen_end(vram__pen *p) {
  vram__pen_flush(p);
  return p->failed ? VRAM_ERR_WRITE : VRAM_OK;
}

static void vram__pen_begin(vram__pen *p, const vram_sink *sink) {
  p->sink = sink;
  p->n = 0;
  p->failed = 0;
}

/* ---- torch.cuda.memory_summary: 75 characters between bars */

static void vram__pen_rule(vram__pen *p, const char *of) {
  uint32_t i;
  vram__pen_puts(p, "|");
  for (i = 0; i < 75; i++)
    vram__pen_puts(p, of);
  vram__pen_puts(p, "|\n");
}

/* The unit of a row follows from its first line. */
static void vram__summary_size(vram__pen *p, uint64_t v, uint64_t of) {
  static const char *const name[] = {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"};
  uint32_t u = 0;
  while (u < 5 && of >> 10 * u >= 786432)
    u++;
  vram__pen_number(p, v >> 10 * u, 6);
  vram__pen_puts(p, " ");
  vram__pen_puts(p, name[u]);
}

static void vram__summary_count(vram__pen *p, uint64_t v, uint64_t of) {
  static const char *const name[] = {"  ", "K ", "M "};
  uint64_t unit = 1;
  uint32_t u = 0;
  while (u < 2 && of / unit >= 750000)
    u++, unit *= 1000;
  vram__pen_number(p, v / unit, 7);
  vram__pen_puts(p, " ");
  vram__pen_puts(p, name[u]);
}

static void vram__summary_row(vram__pen *p, const char *name, const vram_stat *v,
                              const vram_stat *of,
                              void (*number)(vram__pen *p, uint64_t v, uint64_t of)) {
  vram__pen_puts(p, "| ");
  vram__pen_left(p, name, 21);
  vram__pen_puts(p, " | ");
  number(p, v->current, of->current);
  vram__pen_puts(p, " | ");
  number(p, v->peak, of->peak);
  vram__pen_puts(p, " | ");
  number(p, v->allocated, of->allocated);
  vram__pen_puts(p, " | ");
  number(p, v->freed, of->freed);
  vram__pen_puts(p, " |\n");
}

VRAM_API vram_result vram_write_summary(const vram_memory_stats *stats, uint32_t device,
                                        int abbreviated, const vram_sink *sink) {
  const struct {
    const char *name;
    const vram_stat *of;
    void (*number)(vram__pen *p, uint64_t v, uint64_t of);
  } row[] = {{"Allocated memory", stats->allocated_bytes, vram__summary_size},
             {"Active memory", stats->active_bytes, vram__summary_size},
             {"Requested memory", stats->requested_bytes, vram__summary_size},
             {"GPU reserved memory", stats->reserved_bytes, vram__summary_size},
             {"Non-releasable memory", stats->inactive_split_bytes, vram__summary_size},
             {"Allocations", stats->allocation, vram__summary_count},
             {"Active allocs", stats->active, vram__summary_count},
             {"GPU reserved segments", stats->segment, vram__summary_count},
             {"Non-releasable allocs", stats->inactive_split, vram__summary_count}};
  vram__pen pen, *p = &pen;
  char number[24];
  uint32_t i, n = 0;
  vram__pen_begin(p, sink);
  vram__pen_rule(p, "=");
  vram__pen_puts(p, "|                     vram memory summary, ");
  if (device == VRAM_HOST) {
    vram__puts(number, sizeof number, &n, "host");
  } else {
    vram__puts(number, sizeof number, &n, "device ID ");
    vram__puti(number, sizeof number, &n, device);
  }
  vram__pen_left(p, number, 32);
  vram__pen_puts(p, " |\n");
  vram__pen_rule(p, "-");
  vram__pen_puts(p, "|            CUDA OOMs: ");
  vram_bytes_text(stats->num_ooms, VRAM_UNITS_BYTES, number, sizeof number);
  vram__pen_left(p, number, 12);
  vram__pen_puts(p, " |        cudaMalloc retries: ");
  vram_bytes_text(stats->num_alloc_retries, VRAM_UNITS_BYTES, number, sizeof number);
  vram__pen_left(p, number, 8);
  vram__pen_puts(p, "  |\n");
  vram__pen_rule(p, "=");
  vram__pen_puts(p,
                 "|        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  |\n");
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    const vram_stat *of = row[i].of;
    vram__pen_rule(p, "-");
    vram__summary_row(p, row[i].name, of, of, row[i].number);
    if (abbreviated)
      continue;
    vram__summary_row(p, "      from large pool", of + VRAM_POOL_LARGE, of, row[i].number);
    vram__summary_row(p, "      from small pool", of + VRAM_POOL_SMALL, of, row[i].number);
  }
  vram__pen_rule(p, "-");
  vram__summary_row(p, "Oversize allocations", &stats->oversize_allocations,
                    &stats->oversize_allocations, vram__summary_count);
  vram__pen_rule(p, "-");
  vram__summary_row(p, "Oversize GPU segments", &stats->oversize_segments,
                    &stats->oversize_segments, vram__summary_count);
  vram__pen_rule(p, "=");
  return vram__pen_end(p);
}

/* ---- the log */

static void vram__log_change(vram__pen *p, const vram_ledger *l, const vram_change *c) {
  const uint64_t count = c->count < 0 ? 0 - (uint64_t)c->count : (uint64_t)c->count;
  const uint64_t sum = c->sum < 0 ? 0 - (uint64_t)c->sum : (uint64_t)c->sum;
  const int less = c->sum < 0 || (!c->sum && c->count < 0);
  vram__pen_puts(p, less ? "- | " : "+ | ");
  if (c->various) {
    vram__pen_spaces(p, 8);
    vram__pen_right(p, "various", 11);
  } else {
    vram__pen_number(p, count, 6);
    vram__pen_puts(p, " *");
    vram__pen_bytes(p, c->bytes, 11);
  }
  vram__pen_puts(p, " | ");
  vram__pen_bytes(p, sum, 10);
  vram__pen_puts(p, " | ");
  if (c->various)
    vram__pen_puts(p, "more places and sizes than vram_ledger_options.groups");
  else
    vram__pen_owner(p, l->owner + c->owner);
  if (!c->various && c->device == VRAM_HOST)
    vram__pen_puts(p, " (host)");
  else if (c->device) {
    vram__pen_puts(p, " (GPU ");
    vram__pen_number(p, c->device, 0);
    vram__pen_puts(p, ")");
  }
  vram__pen_puts(p, "\n");
}

VRAM_API vram_result vram_write_log(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, vram_change *list, uint32_t cap,
                                    const vram_sink *sink) {
  vram__pen pen, *p = &pen;
  vram__pen head;
  uint32_t i, n;
  uint64_t was;
  vram__pen_begin(p, sink);
  vram__pen_begin(&head, NULL);
  vram__ledger_lock(l);
  was = l->mark_bytes;
  n = vram__ledger_mark(l, list, cap);
  for (i = 0; i < 2; i++) { /* once to measure */
    vram__pen *q = i ? p : &head;
    vram__pen_puts(q, "At ");
    vram__pen_label(q, file ? file : "?");
    vram__pen_puts(q, " line ");
    vram__pen_number(q, line, 0);
    vram__pen_puts(q, ": ");
    vram__pen_label(q, function ? function : "?");
  }
  vram__pen_spaces(p, head.n < 49 ? 49 - head.n : 0);
  vram__pen_puts(p, " total ");
  vram__pen_bytes(p, l->bytes, 0);
  vram__pen_puts(p, l->bytes < was ? " (-" : " (+");
  vram__pen_bytes(p, l->bytes < was ? was - l->bytes : l->bytes - was, 0);
  vram__pen_puts(p, "), peak ");
  vram__pen_bytes(p, l->peak_bytes, 0);
  vram__pen_puts(p, "\n");
  for (i = 0; list && i < n && i < cap; i++)
    vram__log_change(p, l, list + i);
  if (n > i) {
    vram__pen_puts(p, "  | ");
    vram__pen_number(p, n - i, 6);
    vram__pen_puts(p, " smaller changes more\n");
  }
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}

/* ---- the report on too little memory */

/* What is free in the segments of a pool, seen from one request. */
typedef struct vram__holes {
  uint64_t stream, need;
  int small_pool;
  uint64_t all, waits;                  /* free in all; given back and in use by streams */
  uint64_t sum, pieces, largest;        /* of the request's stream and pool */
  uint64_t elsewhere, elsewhere_stream; /* largest of the pool, other streams */
  uint64_t other;                       /* largest in the other pool */
} vram__holes;

static int vram__hole(void *user, const vram_piece *piece) {
  vram__holes *h = (vram__holes *)user;
  if (piece->state == 2)
    h->waits += piece->bytes;
  if (piece->state)
    return 0;
  h->all += piece->bytes;
  if (!piece->small_pool != !h->small_pool) {
    if (piece->bytes > h->other)
      h->other = piece->bytes;
  } else if (piece->stream != h->stream) {
    if (piece->bytes > h->elsewhere) {
      h->elsewhere = piece->bytes;
      h->elsewhere_stream = piece->stream;
    }
  } else {
    h->sum += piece->bytes;
    h->pieces++;
    if (piece->bytes > h->largest)
      h->largest = piece->bytes;
  }
  return 0;
}

static void vram__pen_hex(vram__pen *p, uint64_t v) {
  char text[17];
  uint32_t n = sizeof text - 1;
  text[n] = 0;
  do
    text[--n] = "0123456789abcdef"[v % 16], v /= 16;
  while (v);
  vram__pen_puts(p, "0x");
  vram__pen_puts(p, text + n);
}

static void vram__oom_request(vram__pen *p, const vram_ledger *l, const vram_oom *o, uint64_t ask) {
  vram__pen_puts(p, "  asked: ");
  vram__pen_size(p, o->bytes);
  if (o->stream) {
    vram__pen_puts(p, " on stream ");
    vram__pen_hex(p, o->stream);
  }
  vram__pen_puts(p, ", by ");
  vram__pen_owner(p, l->owner + (o->owner < l->nowner ? o->owner : 0));
  if (o->call || ask != o->bytes) {
    vram__pen_puts(p, " (");
    vram__pen_label(p, o->call ? o->call : "the device");
    if (ask != o->bytes) {
      vram__pen_puts(p, " was asked for ");
      vram__pen_size(p, ask);
    }
    vram__pen_puts(p, ")");
  }
  vram__pen_puts(p, "\n");
}

static void vram__oom_holders(vram__pen *p, const vram_memory_stats *m, const vram_ledger *l,
                              const vram_oom *o, uint64_t *others) {
  const uint64_t reserved = m->reserved_bytes[0].current, active = m->active_bytes[0].current,
                 ours = reserved > active ? reserved : active;
  uint32_t i, unknown = 0;
  vram__pen_puts(p, "  ours: ");
  vram__pen_size(p, ours);
  vram__pen_puts(p, " reserved in ");
  vram__pen_number(p, m->segment[0].current, 0);
  vram__pen_puts(p, " segments, ");
  vram__pen_size(p, m->allocated_bytes[0].current);
  vram__pen_puts(p, " of it allocated in ");
  vram__pen_number(p, m->allocation[0].current, 0);
  vram__pen_puts(p, " blocks (peak ");
  vram__pen_size(p, m->allocated_bytes[0].peak);
  vram__pen_puts(p, ")\n");
  if (l->lost) {
    vram__pen_puts(p, "  not told apart: ");
    vram__pen_size(p, l->lost_bytes);
    vram__pen_puts(p, " in ");
    vram__pen_number(p, l->lost, 0);
    vram__pen_puts(p, " allocations beyond vram_ledger_options.live\n");
  }
  *others = 0;
  if (!o->has_view)
    return;
  if (o->process_bytes && o->process_bytes != VRAM_UNKNOWN) {
    vram__pen_puts(p, "  this process in all: ");
    vram__pen_size(p, o->process_bytes);
    if (o->process_bytes > ours) {
      vram__pen_puts(p, ", so ");
      vram__pen_size(p, o->process_bytes - ours);
      vram__pen_puts(p, " is CUDA's context, libraries, other allocators");
    }
    vram__pen_puts(p, "\n");
  }
  for (i = 0; i < o->nprocess; i++) {
    const vram_process *q = o->process + i;
    const int known = q->bytes != VRAM_UNKNOWN;
    if (known && q->bytes <= VRAM_UNKNOWN - *others)
      *others += q->bytes;
    if (i >= 8) {
      unknown++;
      continue;
    }
    vram__pen_puts(p, "  process ");
    vram__pen_number(p, q->pid, 0);
    if (q->name) {
      vram__pen_puts(p, " (");
      vram__pen_label(p, q->name);
      vram__pen_puts(p, ")");
    }
    if (known) {
      vram__pen_puts(p, ": ");
      vram__pen_size(p, q->bytes);
    } else
      vram__pen_puts(p, ": the driver does not say how much");
    vram__pen_puts(p, "\n");
  }
  if (unknown) {
    vram__pen_puts(p, "  and ");
    vram__pen_number(p, unknown, 0);
    vram__pen_puts(p, " more processes\n");
  }
}

static void vram__oom_holes(vram__pen *p, const vram__holes *h) {
  const uint64_t most = h->largest > h->elsewhere ? h->largest : h->elsewhere;
  const uint64_t all = most > h->other ? most : h->other;
  vram__pen_puts(p, "  largest free block: ");
  if (!h->all) {
    vram__pen_puts(p, "none, all segments are full\n");
    return;
  }
  vram__pen_size(p, all);
  vram__pen_puts(p, " of ");
  vram__pen_size(p, h->all);
  vram__pen_puts(p, " that is free in segments: ");
  if (h->largest >= h->need)
    vram__pen_puts(p, "free by now, or kept for larger requests (max_split_size_mb)");
  else if (h->elsewhere >= h->need) {
    vram__pen_size(p, h->elsewhere);
    vram__pen_puts(p, " would do, but belongs to stream ");
    vram__pen_hex(p, h->elsewhere_stream);
  } else if (h->other >= h->need) {
    vram__pen_size(p, h->other);
    vram__pen_puts(p, " would do, but is for requests ");
    vram__pen_puts(p, h->small_pool ? "above 1 MiB" : "up to 1 MiB");
  } else if (h->sum >= h->need) {
    vram__pen_puts(p, "fragmented, ");
    vram__pen_number(p, h->pieces, 0);
    vram__pen_puts(p, " pieces of this stream have ");
    vram__pen_size(p, h->sum);
    vram__pen_puts(p, ", the largest ");
    vram__pen_size(p, h->largest);
  } else
    vram__pen_puts(p, "too small");
  vram__pen_puts(p, "\n");
}

#define VRAM__OOM_OWNERS 8

static void vram__oom_owners(vram__pen *p, const vram_owner *top, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n && i < VRAM__OOM_OWNERS; i++) {
    vram__pen_puts(p, i ? "    " : "  largest owners:\n    ");
    vram__pen_bytes(p, top[i].bytes.current, 10);
    vram__pen_puts(p, " in ");
    vram__pen_number(p, top[i].count.current, 0);
    vram__pen_puts(p, "  ");
    vram__pen_owner(p, top + i);
    vram__pen_puts(p, "\n");
  }
  if (n > i) {
    vram__pen_puts(p, "    and ");
    vram__pen_number(p, n - i, 0);
    vram__pen_puts(p, " more\n");
  }
}

/* What would help here: nothing that is done already, nothing that would not be enough. */
static void vram__oom_help(vram__pen *p, const vram_ledger *l, const vram_memory_stats *m,
                           const vram_oom *o, const vram__holes *h, uint64_t ask, uint64_t others,
                           const vram_owner *top, uint32_t n) {
  const int known = o->has_view && o->free_bytes != VRAM_UNKNOWN;
  const uint64_t missing = !known ? ask : ask > o->free_bytes ? ask - o->free_bytes : 0;
  const uint64_t activations = l->category[VRAM_CATEGORY_ACTIVATIONS].current;
  const int limited = o->limit_bytes &&
                      (o->limit_bytes < ask || m->reserved_bytes[0].current > o->limit_bytes - ask);
  uint32_t said = 0;
#define VRAM__HELP vram__pen_puts(p, said++ ? "  - " : "  what would help:\n  - ")
  if (o->has_view && o->total_bytes && o->total_bytes != VRAM_UNKNOWN && ask > o->total_bytes) {
    VRAM__HELP;
    vram__pen_puts(p, "ask for less at once: the whole device has ");
    vram__pen_size(p, o->total_bytes);
    vram__pen_puts(p, "\n");
  }
  if (limited) {
    VRAM__HELP;
    vram__pen_puts(p, "raise the limit: ");
    vram__pen_size(p, o->limit_bytes);
    vram__pen_puts(p, " allowed\n");
  }
  if (h && h->waits) {
    VRAM__HELP;
    vram__pen_puts(p, "wait for the streams: ");
    vram__pen_size(p, h->waits);
    vram__pen_puts(p, " is given back and still in use by them\n");
  }
  if (h && h->largest < h->need && h->elsewhere >= h->need) {
    VRAM__HELP;
    vram__pen_puts(p, "allocate on stream ");
    vram__pen_hex(p, h->elsewhere_stream);
    vram__pen_puts(p, ", or use fewer streams\n");
  }
  if (h && h->largest < h->need && h->sum >= h->need && !o->pool->options.expandable_segments &&
      o->pool->backend.map) {
    VRAM__HELP;
    vram__pen_puts(p, "expandable_segments:True, which joins free pieces\n");
  }
  if (h && h->largest < h->need && h->sum >= h->need && !o->pool->options.expandable_segments &&
      o->pool->options.max_split_size == UINT64_MAX) {
    VRAM__HELP;
    vram__pen_puts(p, "max_split_size_mb, which keeps large segments in one piece\n");
  }
  if (missing && others >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "another device, or the end of other processes: they hold ");
    vram__pen_size(p, others);
    vram__pen_puts(p, "\n");
  }
  if (missing && activations >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "a smaller batch, or recomputation: activations hold ");
    vram__pen_size(p, activations);
    vram__pen_puts(p, "\n");
  }
  if (missing && n && top->bytes.current >= missing) {
    VRAM__HELP;
    vram__pen_puts(p, "less, or an earlier free, at ");
    vram__pen_owner(p, top);
    vram__pen_puts(p, ": it holds ");
    vram__pen_size(p, top->bytes.current);
    vram__pen_puts(p, "\n");
  }
  if (known && !missing && !limited) {
    VRAM__HELP;
    vram__pen_puts(p, "smaller requests: the device has enough, but not in one piece, or another "
                      "process was faster\n");
  }
#undef VRAM__HELP
  if (!said) {
    vram__pen_puts(p, "  what would help: ");
    vram__pen_size(p, missing);
    vram__pen_puts(p, " less\n");
  }
}

VRAM_API vram_result vram_write_oom(vram_ledger *l, const vram_oom *o, const vram_sink *sink) {
  const uint64_t ask = o->device_bytes ? o->device_bytes : o->bytes;
  const vram_memory_stats *m;
  vram_memory_stats none;
  vram__holes holes;
  vram_owner top[VRAM__OOM_OWNERS];
  vram__pen pen, *p = &pen;
  uint64_t others;
  uint32_t n;
  vram__pen_begin(p, sink);
  vram__zero(&holes, sizeof holes);
  holes.stream = o->stream;
  holes.need = o->bytes < VRAM_UNKNOWN - 511 ? (o->bytes + 511) / 512 * 512 : o->bytes;
  holes.need = holes.need ? holes.need : 512;
  holes.small_pool = holes.need <= UINT64_C(1) << 20;
  if (o->pool)
    (void)vram_pool_walk(o->pool, vram__hole, &holes);
  vram__ledger_lock(l);
  m = vram__stats_of(l, o->device);
  if (!m) {
    vram__zero(&none, sizeof none);
    m = &none;
  }
  vram__pen_puts(p, "CUDA out of memory. Tried to allocate ");
  vram__pen_size(p, ask);
  vram__pen_puts(p, ".");
  if (o->has_view && o->total_bytes && o->total_bytes != VRAM_UNKNOWN) {
    vram__pen_puts(p, " GPU ");
    vram__pen_number(p, o->device, 0);
    vram__pen_puts(p, " has a total capacity of ");
    vram__pen_size(p, o->total_bytes);
    if (o->free_bytes != VRAM_UNKNOWN) {
      vram__pen_puts(p, " of which ");
      vram__pen_size(p, o->free_bytes);
      vram__pen_puts(p, " is free");
    }
    vram__pen_puts(p, ".");
  }
  vram__pen_puts(p, "\n");
  vram__oom_request(p, l, o, ask);
  vram__oom_holders(p, m, l, o, &others);
  if (o->pool)
    vram__oom_holes(p, &holes);
  n = vram__ledger_owners(l, 0, top, VRAM__OOM_OWNERS);
  vram__oom_owners(p, top, n);
  vram__oom_help(p, l, m, o, o->pool ? &holes : NULL, ask, others, top, n);
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}

/* ---- files: values as JSON, or as a pickle of protocol 2 ----
   Only opcodes that pytorch.org/memory_viz knows, at most 1,000 items in one of APPENDS: the page
   puts them on the stack. Words that come again are in the memo. */

#define VRAM__WORDS(X)                                                                             \
  X(segments)                                                                                      \
  X(device_traces)                                                                                 \
  X(allocator_settings)                                                                            \
  X(external_annotations)                                                                          \
  X(host_segments)                                                                                 \
  X(host_traces)                                                                                   \
  X(PYTORCH_CUDA_ALLOC_CONF)                                                                       \
  X(trace_alloc_max_entries)                                                                       \
  X(trace_alloc_overflowed)                                                                        \
  X(device)                                                                                        \
  X(address)                                                                                       \
  X(total_size)                                                                                    \
  X(allocated_size)                                                                                \
  X(active_size)                                                                                   \
  X(requested_size)                                                                                \
  X(stream)                                                                                        \
  X(segment_type)                                                                                  \
  X(large)                                                                                         \
  X(small)                                                                                         \
  X(segment_pool_id)                                                                               \
  X(is_expandable)                                                                                 \
  X(frames)                                                                                        \
  X(name)                                                                                          \
  X(filename)                                                                                      \
  X(line)                                                                                          \
  X(blocks)                                                                                        \
  X(size)                                                                                          \
  X(state)                                                                                         \
  X(active_allocated)                                                                              \
  X(active_pending_free)                                                                           \
  X(inactive)                                                                                      \
  X(action)                                                                                        \
  X(alloc)                                                                                         \
  X(free_requested)                                                                                \
  X(free_completed)                                                                                \
  X(segment_alloc)                                                                                 \
  X(segment_free)                                                                                  \
  X(segment_map)                                                                                   \
  X(segment_unmap)                                                                                 \
  X(oom)                                                                                           \
  X(snapshot)                                                                                      \
  X(addr)                                                                                          \
  X(device_free)                                                                                   \
  X(time_us)                                                                                       \
  X(pool_id)                                                                                       \
  X(category)                                                                                      \
  X(unknown)                                                                                       \
  X(user_metadata)

typedef enum vram__file_word {
#define VRAM__X(id) VRAM__WORD_##id,
  VRAM__WORDS(VRAM__X)
#undef VRAM__X
      VRAM__WORD_COUNT
} vram__file_word;

typedef struct vram__values {
  vram__pen pen;
  int json, comma;
  uint8_t known[VRAM__WORD_COUNT]; /* in the memo */
} vram__values;

static void vram__value_byte(vram__values *v, uint32_t byte) {
  const char c = (char)(uint8_t)byte;
  vram__pen_put(&v->pen, &c, 1);
}

/* The lowest n bytes, the lowest first. */
static void vram__value_bytes(vram__values *v, uint64_t bytes, uint32_t n) {
  while (n--) {
    vram__value_byte(v, (uint32_t)(bytes & 255));
    bytes >>= 8;
  }
}

static void vram__value_comma(vram__values *v) {
  if (v->json && v->comma)
    vram__pen_puts(&v->pen, ",");
  v->comma = 1;
}

static void vram__value_number(vram__values *v, uint64_t n) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_number(&v->pen, n, 0);
  else if (n < UINT32_C(1) << 31) {
    const uint32_t bytes = n < 256 ? 1 : n < 65536 ? 2 : 4;
    vram__value_byte(v, bytes == 1 ? 'K' : bytes == 2 ? 'M' : 'J');
    vram__value_bytes(v, n, bytes);
  } else { /* two's complement */
    vram__value_byte(v, 0x8a);
    vram__value_byte(v, n >> 63 ? 9 : 8);
    vram__value_bytes(v, n, n >> 63 ? 9 : 8);
  }
}

static void vram__value_bool(vram__values *v, int truth) {
  vram__value_comma(v);
  if (v->json)
    vram__pen_puts(&v->pen, truth ? "true" : "false");
  else
    vram__value_byte(v, truth ? 0x88 : 0x89);
}

/* What is no character becomes '?', which is as long in bytes. */
static void vram__value_text(vram__values *v, const char *z) {
  vram__value_comma(v);
  if (v->json) {
    vram__pen_puts(&v->pen, "\"");
    vram__pen_json(&v->pen, z);
    vram__pen_puts(&v->pen, "\"");
  } else {
    vram__value_byte(v, 'X');
    vram__value_bytes(v, vram__len(z), 4);
    vram__pen_label(&v->pen, z);
  }
}

static void vram__value_word(vram__values *v, vram__file_word word) {
  static const char *const text[] = {
#define VRAM__X(id) #id,
      VRAM__WORDS(VRAM__X)
#undef VRAM__X
  };
  if (v->json || !v->known[word])
    vram__value_text(v, text[word]);
  if (v->json)
    return;
  vram__value_byte(v, v->known[word] ? 'h' : 'q');
  vram__value_byte(v, (uint32_t)word);
  v->known[word] = 1;
}

static void vram__value_key(vram__values *v, vram__file_word word) {
  vram__value_word(v, word);
  if (v->json)
    vram__pen_puts(&v->pen, ":");
  v->comma = 0;
}

static void vram__value_open(vram__values *v, int dict) {
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? dict ? "{" : "[" : dict ? "}(" : "](");
  v->comma = 0;
}

static void vram__value_close(vram__values *v, int dict) {
  vram__pen_puts(&v->pen, v->json ? dict ? "}" : "]" : dict ? "u" : "e");
  v->comma = 1;
}

/* Before each item of a list that may be long; *n counts them. */
static void vram__value_item(vram__values *v, uint64_t *n) {
  if (++*n % 1000 == 0 && !v->json)
    vram__pen_puts(&v->pen, "e(");
}

static void vram__value_field(vram__values *v, vram__file_word word, uint64_t n) {
  vram__value_key(v, word);
  vram__value_number(v, n);
}

/* (0, 0): the pool that is not private. */
static void vram__value_pool_id(vram__values *v, vram__file_word word) {
  vram__value_key(v, word);
  vram__value_comma(v);
  vram__pen_puts(&v->pen, v->json ? "[0,0]" : "K");
  if (!v->json) {
    vram__value_byte(v, 0);
    vram__value_byte(v, 'K');
    vram__value_byte(v, 0);
    vram__value_byte(v, 0x86);
  }
}

/* ---- the memory snapshot */

typedef struct vram__snapshot {
  vram__values v;
  const vram_ledger *l;
  const vram_snapshot_options *o;
  uint64_t items, blocks; /* in the lists that are open */
  /* the segment that is open; 0: none */
  uint64_t segment, allocated, active, requested;
  uint8_t device;
} vram__snapshot;

/* What has no address has a place of its own all the same. */
static uint64_t vram__address_of(uint64_t address, uint64_t serial) {
  return address ? address : serial << 33;
}

/* The call site, and the node. */
static void vram__value_frames(vram__snapshot *s, uint32_t owner, const vram_node *node) {
  const vram_owner *w = s->l->owner + owner;
  vram__values *v = &s->v;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__value_key(v, VRAM__WORD_frames);
  vram__value_open(v, 0);
  if (node) {
    (void)vram_node_name(node, name, sizeof name);
    vram__value_open(v, 1);
    vram__value_key(v, VRAM__WORD_name);
    vram__value_text(v, vram_op_name(node->op));
    vram__value_key(v, VRAM__WORD_filename);
    vram__value_text(v, name);
    vram__value_field(v, VRAM__WORD_line, node->line);
    vram__value_close(v, 1);
  }
  if (w->file || w->function || w->tag) {
    vram__value_open(v, 1);
    vram__value_key(v, VRAM__WORD_name);
    vram__value_text(v, w->function ? w->function : w->tag ? w->tag : "");
    vram__value_key(v, VRAM__WORD_filename);
    vram__value_text(v, w->file ? w->file : "");
    vram__value_field(v, VRAM__WORD_line, w->line);
    vram__value_close(v, 1);
  }
  vram__value_close(v, 0);
}

static void vram__snapshot_segment(vram__snapshot *s, uint64_t address, uint64_t bytes,
                                   uint64_t stream, int small_pool, int expandable) {
  vram__values *v = &s->v;
  vram__value_item(v, &s->items);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_device);
  if (s->device == VRAM_HOST) { /* -1 */
    vram__value_comma(v);
    vram__pen_puts(&v->pen, v->json ? "-1" : "J\377\377\377\377");
  } else
    vram__value_number(v, s->device);
  vram__value_field(v, VRAM__WORD_address, address);
  vram__value_field(v, VRAM__WORD_total_size, bytes);
  vram__value_field(v, VRAM__WORD_stream, stream);
  vram__value_key(v, VRAM__WORD_segment_type);
  vram__value_word(v, small_pool ? VRAM__WORD_small : VRAM__WORD_large);
  vram__value_pool_id(v, VRAM__WORD_segment_pool_id);
  vram__value_key(v, VRAM__WORD_is_expandable);
  vram__value_bool(v, expandable);
  vram__value_frames(s, 0, NULL);
  vram__value_key(v, VRAM__WORD_blocks);
  vram__value_open(v, 0);
  s->blocks = 0;
  s->segment = address;
  s->allocated = s->active = s->requested = 0;
}

static void vram__snapshot_segment_end(vram__snapshot *s) {
  vram__values *v = &s->v;
  if (!s->segment)
    return;
  vram__value_close(v, 0);
  vram__value_field(v, VRAM__WORD_allocated_size, s->allocated);
  vram__value_field(v, VRAM__WORD_active_size, s->active);
  vram__value_field(v, VRAM__WORD_requested_size, s->requested);
  vram__value_close(v, 1);
  s->segment = 0;
}

/* state as vram_piece.state */
static void vram__snapshot_block(vram__snapshot *s, uint64_t address, uint64_t bytes,
                                 uint64_t requested, int state, const vram_allocation *a) {
  static const vram__file_word word[] = {VRAM__WORD_inactive, VRAM__WORD_active_allocated,
                                         VRAM__WORD_active_pending_free};
  vram__values *v = &s->v;
  vram__value_item(v, &s->blocks);
  vram__value_open(v, 1);
  vram__value_field(v, VRAM__WORD_address, address);
  vram__value_field(v, VRAM__WORD_size, bytes);
  vram__value_field(v, VRAM__WORD_requested_size, state ? requested : 0);
  vram__value_key(v, VRAM__WORD_state);
  vram__value_word(v, word[state]);
  vram__value_frames(s, a ? a->owner : 0, a ? a->node : NULL);
  if (a && s->l->owner[a->owner].tag) {
    vram__value_key(v, VRAM__WORD_user_metadata);
    vram__value_text(v, s->l->owner[a->owner].tag);
  }
  vram__value_close(v, 1);
  s->allocated += state == 1 ? bytes : 0;
  s->active += state ? bytes : 0;
  s->requested += state ? requested : 0;
}

static int vram__snapshot_piece(void *user, const vram_piece *piece) {
  vram__snapshot *s = (vram__snapshot *)user;
  const vram_allocation *a = s->l->live + vram__live_at(s->l, piece->address);
  if (piece->segment != s->segment) {
    vram__snapshot_segment_end(s);
    vram__snapshot_segment(s, piece->segment, piece->segment_bytes, piece->stream,
                           piece->small_pool, piece->expandable);
  }
  vram__snapshot_block(s, piece->address, piece->bytes, piece->requested, piece->state,
                       piece->state && a->address ? a : NULL);
  return 0;
}

/* Does it lie in a segment of one of the pools? */
static int vram__in_pool(const vram__snapshot *s, uint32_t device, int whole, uint32_t kind) {
  uint32_t i;
  for (i = 0; !whole && i < s->o->npool; i++)
    if (s->o->pool[i]->options.device == device)
      return !s->o->kinds || (s->o->kinds >> kind & 1);
  return 0;
}

/* All segments of devices, or of the host. */
static void vram__snapshot_segments(vram__snapshot *s, int host) {
  const vram_ledger *l = s->l;
  uint64_t address;
  uint32_t i;
  vram__value_open(&s->v, 0);
  s->items = 0;
  for (i = 0; i < s->o->npool; i++) {
    s->device = s->o->pool[i]->options.device;
    if ((s->device == VRAM_HOST) == host)
      (void)vram_pool_walk(s->o->pool[i], vram__snapshot_piece, s);
    vram__snapshot_segment_end(s);
  }
  for (i = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = l->live + i;
    if (!a->address || (a->device == VRAM_HOST) != host || !a->block_bytes ||
        vram__in_pool(s, a->device, (a->flags & VRAM_LIVE_WHOLE) != 0, a->kind))
      continue;
    s->device = a->device;
    address = vram__address_of(a->flags & VRAM__LIVE_BY_ID ? 0 : a->address, a->serial);
    vram__snapshot_segment(s, address, a->block_bytes, a->stream, (a->flags & VRAM_LIVE_SMALL) != 0,
                           0);
    vram__snapshot_block(s, address, a->block_bytes, a->bytes, a->flags & VRAM_LIVE_WAITS ? 2 : 1,
                         a);
    vram__snapshot_segment_end(s);
  }
  vram__value_close(&s->v, 0);
}

static void vram__snapshot_entry(vram__snapshot *s, const vram_event *e, uint64_t time,
                                 vram__file_word action, uint64_t bytes) {
  vram__values *v = &s->v;
  vram__value_item(v, &s->items);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_action);
  vram__value_word(v, action);
  if (action == VRAM__WORD_oom)
    vram__value_field(v, VRAM__WORD_device_free, e->device_free);
  else
    vram__value_field(v, VRAM__WORD_addr,
                      e->id < 0 ? e->address : vram__address_of(e->address, (uint64_t)e->id));
  vram__value_field(v, VRAM__WORD_size, bytes);
  vram__value_field(v, VRAM__WORD_stream, e->stream);
  vram__value_field(v, VRAM__WORD_time_us, time);
  vram__value_pool_id(v, VRAM__WORD_pool_id);
  vram__value_key(v, VRAM__WORD_category);
  if (e->category == VRAM_CATEGORY_OTHER || e->id < 0)
    vram__value_word(v, VRAM__WORD_unknown);
  else
    vram__value_text(v, vram_category_name(e->category));
  vram__value_key(v, VRAM__WORD_user_metadata);
  vram__value_text(v, s->l->owner[e->owner].tag ? s->l->owner[e->owner].tag : "");
  vram__value_frames(s, e->owner, e->node);
  vram__value_close(v, 1);
}

/* The events of a device. The page plays them backwards from the segments: what comes without a
   segment brings its own. */
static void vram__snapshot_trace(vram__snapshot *s, uint32_t device) {
  const vram_ledger *l = s->l;
  const uint64_t n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  const vram_memory_stats *m = vram__stats_of(l, device);
  uint64_t k, time = 0;
  vram_event last;
  vram__value_open(&s->v, 0);
  s->items = 0;
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const int pooled = vram__in_pool(s, e->device, e->whole, e->kind);
    const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
    if (e->device != device)
      continue;
    time = e->time ? e->time : k;
    if (e->id < 0) { /* segments, and what is no allocation */
      if (e->action == VRAM_OOM)
        vram__snapshot_entry(s, e, time, VRAM__WORD_oom, e->bytes);
      else if (e->action >= VRAM_SEGMENT_ALLOC && e->action <= VRAM_SEGMENT_UNMAP && pooled &&
               e->address)
        vram__snapshot_entry(s, e, time,
                             e->action == VRAM_SEGMENT_ALLOC  ? VRAM__WORD_segment_alloc
                             : e->action == VRAM_SEGMENT_FREE ? VRAM__WORD_segment_free
                             : e->action == VRAM_SEGMENT_MAP  ? VRAM__WORD_segment_map
                                                              : VRAM__WORD_segment_unmap,
                             e->bytes);
      continue;
    }
    if (!block)
      continue;
    if (e->action == VRAM_ALLOC) {
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_alloc, block);
      vram__snapshot_entry(s, e, time, VRAM__WORD_alloc, e->bytes);
    }
    if (e->action == VRAM_FREE_REQUESTED || (e->action == VRAM_FREE && !e->waited))
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_requested, e->bytes);
    if (e->action == VRAM_FREE) {
      vram__snapshot_entry(s, e, time, VRAM__WORD_free_completed, e->bytes);
      if (!pooled)
        vram__snapshot_entry(s, e, time, VRAM__WORD_segment_free, block);
    }
  }
  if (s->items) { /* one entry without a category: else some versions of the page stop */
    vram__zero(&last, sizeof last);
    last.id = -1;
    vram__snapshot_entry(s, &last, time, VRAM__WORD_snapshot, m->active_bytes[0].current);
  }
  vram__value_close(&s->v, 0);
}

static void vram__config_put(char *to, uint32_t cap, uint32_t *n, const char *name, uint64_t v) {
  vram__puts(to, cap, n, *n ? "," : "");
  vram__puts(to, cap, n, name);
  vram__putu(to, cap, n, v);
}

/* Resolved options as vram_pool_config reads them: what is not the default. */
static void vram__config_text(const vram_pool_options *o, char *to, uint32_t cap) {
  const uint64_t usual = UINT64_C(20) << 20;
  uint32_t n = 0, i, used = 0, place, rest = o->garbage_collection_threshold;
  vram__puts(to, cap, &n, o->expandable_segments ? "expandable_segments:True" : "");
  if (o->max_split_size != UINT64_MAX)
    vram__config_put(to, cap, &n, "max_split_size_mb:", o->max_split_size >> 20);
  if (o->max_non_split_rounding != usual)
    vram__config_put(to, cap, &n, "max_non_split_rounding_mb:", o->max_non_split_rounding >> 20);
  if (o->large_segment_size != usual)
    vram__config_put(to, cap, &n, "large_segment_size_mb:", o->large_segment_size >> 20);
  if (rest) {
    vram__config_put(to, cap, &n, "garbage_collection_threshold:", 0);
    vram__puts(to, cap, &n, ".");
    for (place = 100000; place; place /= 10) {
      vram__putu(to, cap, &n, rest / place);
      rest %= place;
    }
  }
  for (i = 0; i < 16; i++)
    used |= o->roundup_power2_divisions[i];
  for (i = 0; used && i < 16; i++) {
    if (!i) {
      vram__puts(to, cap, &n, n ? "," : "");
      vram__puts(to, cap, &n, "roundup_power2_divisions:[");
    }
    vram__puts(to, cap, &n, i ? "," : "");
    vram__putu(to, cap, &n, UINT64_C(1) << i);
    vram__puts(to, cap, &n, ":");
    vram__putu(to, cap, &n, o->roundup_power2_divisions[i]);
  }
  vram__puts(to, cap, &n, used ? "]" : "");
}

VRAM_API vram_result vram_write_snapshot(vram_ledger *l, const vram_snapshot_options *options,
                                         const vram_sink *sink) {
  vram_snapshot_options none;
  vram__snapshot snapshot, *s = &snapshot;
  vram__values *v = &s->v;
  char conf[400];
  uint32_t i, n = 0;
  uint64_t k;
  vram__zero(&none, sizeof none);
  vram__zero(s, sizeof *s);
  s->o = options ? options : &none;
  s->l = l;
  v->json = s->o->json;
  vram__pen_begin(&v->pen, sink);
  conf[0] = 0;
  if (s->o->npool)
    vram__config_text(&s->o->pool[0]->options, conf, sizeof conf);
  vram__ledger_lock(l);
  if (!v->json)
    vram__pen_puts(&v->pen, "\200\002"); /* PROTO 2 */
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_segments);
  vram__snapshot_segments(s, 0);
  vram__value_key(v, VRAM__WORD_device_traces);
  vram__value_open(v, 0);
  for (k = 0; k < l->options.trace && k < l->trace_count; k++)
    if (l->trace[k].device != VRAM_HOST && l->trace[k].device >= n)
      n = l->trace[k].device + 1u;
  for (i = 0; i <= l->live_mask; i++)
    if (l->live[i].address && l->live[i].device != VRAM_HOST && l->live[i].device >= n)
      n = l->live[i].device + 1u;
  for (i = 0; i < s->o->npool; i++)
    if (s->o->pool[i]->options.device != VRAM_HOST && s->o->pool[i]->options.device >= n)
      n = s->o->pool[i]->options.device + 1u;
  for (i = 0; i < n; i++)
    vram__snapshot_trace(s, i);
  vram__value_close(v, 0);
  vram__value_key(v, VRAM__WORD_allocator_settings);
  vram__value_open(v, 1);
  vram__value_key(v, VRAM__WORD_PYTORCH_CUDA_ALLOC_CONF);
  vram__value_text(v, conf);
  vram__value_field(v, VRAM__WORD_trace_alloc_max_entries, l->options.trace);
  vram__value_key(v, VRAM__WORD_trace_alloc_overflowed);
  vram__value_bool(v, l->trace_count > l->options.trace);
  vram__value_close(v, 1);
  vram__value_key(v, VRAM__WORD_external_annotations);
  vram__value_open(v, 0);
  vram__value_close(v, 0);
  vram__value_key(v, VRAM__WORD_host_segments);
  vram__snapshot_segments(s, 1);
  vram__value_key(v, VRAM__WORD_host_traces);
  vram__snapshot_trace(s, VRAM_HOST);
  vram__value_close(v, 1);
  vram__pen_puts(&v->pen, v->json ? "\n" : ".");
  vram__ledger_unlock(l);
  return vram__pen_end(&v->pen);
}

/* ---- the trace of a browser */

typedef struct vram__flow { /* of one device */
  uint64_t allocated, reserved, category[VRAM_CATEGORY_COUNT];
} vram__flow;

/* What an event adds (way 1) or, played backwards, takes (-1). */
static void vram__flow_by(vram__flow *f, const vram_event *e, int way) {
  const uint64_t block = e->block_bytes ? e->block_bytes : e->bytes;
  const int adds = (way > 0) == (e->action == VRAM_ALLOC || e->action == VRAM_SEGMENT_ALLOC ||
                                 e->action == VRAM_SEGMENT_MAP);
#define VRAM__BY(field, n) (f->field = adds ? f->field + (n) : f->field - (n))
  switch (e->action) {
  case VRAM_ALLOC:
  case VRAM_FREE:
    if (e->action == VRAM_ALLOC || !e->waited)
      VRAM__BY(allocated, block);
    if (e->whole)
      VRAM__BY(reserved, block);
    VRAM__BY(category[e->category], e->bytes);
    break;
  case VRAM_FREE_REQUESTED:
    VRAM__BY(allocated, block);
    break;
  case VRAM_SEGMENT_ALLOC:
  case VRAM_SEGMENT_MAP:
  case VRAM_SEGMENT_FREE:
  case VRAM_SEGMENT_UNMAP:
    VRAM__BY(reserved, e->bytes);
    break;
  case VRAM_BECOMES:
    f->category[way > 0 ? e->was : e->category] -= e->bytes;
    f->category[way > 0 ? e->category : e->was] += e->bytes;
    break;
  default:
    break;
  }
#undef VRAM__BY
}

/* As it is now, without what is lost: that is in no event. */
static vram__flow vram__flow_now(const vram_ledger *l, uint32_t device) {
  const vram_memory_stats *m = vram__stats_of(l, device);
  const vram__lost *lost = l->lost_of + (uint64_t)(m - l->device) * 4;
  vram__flow f;
  uint32_t i;
  vram__zero(&f, sizeof f);
  f.allocated = m->allocated_bytes[0].current;
  f.reserved = m->reserved_bytes[0].current;
  for (i = 0; i < 4; i++) {
    f.allocated -= lost[i].block_bytes;
    f.reserved -= i > 1 ? lost[i].block_bytes : 0;
  }
  for (i = 0; !device && i < VRAM_CATEGORY_COUNT; i++)
    f.category[i] = l->category[i].current;
  for (i = 0; i <= l->live_mask; i++) {
    const vram_allocation *a = l->live + i;
    if (!a->address)
      continue;
    if (device && a->device == device)
      f.category[a->category] += a->bytes;
    if (!device && a->device && a->device != VRAM_HOST) /* of device 0 is what is left */
      f.category[a->category] -= a->bytes;
  }
  return f;
}

typedef struct vram__tracer {
  vram__pen pen;
  const vram_ledger *l;
  uint64_t lines;
  uint32_t categories; /* which of them there are, a bit each */
} vram__tracer;

/* {"ph":...,"pid":...,"ts":... of one more line */
static void vram__tracer_line(vram__tracer *t, const char *ph, uint32_t device, uint64_t time) {
  vram__pen_f(&t->pen, "%r{\"ph\":\"%r\",\"pid\":%i,\"tid\":0,\"ts\":", t->lines++ ? ",\n" : "", ph,
              (int)device);
  vram__pen_number(&t->pen, time, 0);
}

static void vram__tracer_counters(vram__tracer *t, uint32_t device, uint64_t time,
                                  const vram__flow *f) {
  vram__pen *p = &t->pen;
  uint32_t i, k = 0;
  vram__tracer_line(t, "C", device, time);
  vram__pen_f(p, ",\"name\":\"memory\",\"args\":{\"allocated\":%u,\"reserved\":%u}}", f->allocated,
              f->reserved);
  if (!(t->categories & (t->categories - 1)))
    return;
  vram__tracer_line(t, "C", device, time);
  vram__pen_puts(p, ",\"name\":\"categories\",\"args\":{");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (t->categories >> i & 1)
      vram__pen_f(p, "%r\"%r\":%u", k++ ? "," : "", vram_category_name((vram_category)i),
                  f->category[i]);
  vram__pen_puts(p, "}}");
}

static void vram__tracer_name(vram__tracer *t, const vram_event *e) {
  const vram_owner *w = t->l->owner + e->owner;
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__pen *p = &t->pen;
  vram__pen_puts(p, ",\"name\":\"");
  if (e->node) {
    (void)vram_node_name(e->node, name, sizeof name);
    vram__pen_json(p, name);
  } else if (w->tag)
    vram__pen_json(p, w->tag);
  else if (w->function)
    vram__pen_json(p, w->function);
  else
    vram__pen_puts(p, vram_category_name(e->category));
  vram__pen_puts(p, "\"");
}

/* The life of an allocation: begins with its ALLOC, ends with its FREE. */
static void vram__tracer_span(vram__tracer *t, const vram_event *e, uint64_t time) {
  const vram_owner *w = t->l->owner + e->owner;
  vram__pen *p = &t->pen;
  vram__tracer_line(t, e->action == VRAM_ALLOC ? "b" : "e", e->device, time);
  vram__pen_puts(p, ",\"cat\":\"allocation\",\"id\":\"");
  vram__pen_number(p, (uint64_t)e->id, 0);
  vram__pen_puts(p, "\"");
  vram__tracer_name(t, e);
  if (e->action == VRAM_ALLOC) {
    vram__pen_f(p, ",\"args\":{\"bytes\":%u,\"category\":\"%r\"", e->bytes,
                vram_category_name(e->category));
    if (w->file) {
      vram__pen_puts(p, ",\"place\":\"");
      vram__pen_json(p, w->file);
      vram__pen_line(p, w);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, "}");
  }
  vram__pen_puts(p, "}");
}

static void vram__tracer_device(vram__tracer *t, uint32_t device, uint64_t least) {
  const vram_ledger *l = t->l;
  const uint64_t n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  uint64_t k, first = UINT64_MAX, events = 0;
  vram__flow f = vram__flow_now(l, device);
  vram__pen *p = &t->pen;
  uint32_t i;
  t->categories = 0;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    t->categories |= (f.category[i] ? 1u : 0u) << i;
  for (k = l->trace_count; k > l->trace_count - n; k--) { /* back to the first one */
    const vram_event *e = l->trace + (k - 1) % l->options.trace;
    if (e->device != device)
      continue;
    events++;
    if (e->action == VRAM_ALLOC && e->id >= 0)
      first = (uint64_t)e->id;
    if (e->action <= VRAM_BECOMES)
      t->categories |= 1u << e->category | 1u << e->was;
    vram__flow_by(&f, e, -1);
  }
  if (!events)
    return;
  vram__tracer_line(t, "M", device, 0);
  vram__pen_puts(p, ",\"name\":\"process_name\",\"args\":{\"name\":\"");
  if (device == VRAM_HOST)
    vram__pen_puts(p, "host memory");
  else
    vram__pen_f(p, "GPU %i", (int)device);
  vram__pen_puts(p, "\"}}");
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const uint64_t time = e->time ? e->time : k;
    if (e->device != device)
      continue;
    vram__flow_by(&f, e, 1);
    if (e->action >= VRAM_RETRY) {
      vram__tracer_line(t, "i", device, time);
      vram__pen_f(p, ",\"s\":\"p\",\"name\":\"%r", vram_action_name(e->action));
      if (l->owner[e->owner].tag) {
        vram__pen_puts(p, " ");
        vram__pen_json(p, l->owner[e->owner].tag);
      }
      vram__pen_puts(p, "\"}");
      continue;
    }
    vram__tracer_counters(t, device, time, &f);
    if (e->id >= 0 && e->bytes >= least &&
        (e->action == VRAM_ALLOC || (e->action == VRAM_FREE && (uint64_t)e->id >= first)))
      vram__tracer_span(t, e, time);
  }
}

VRAM_API vram_result vram_write_trace(vram_ledger *l, uint64_t least, const vram_sink *sink) {
  vram__tracer tracer, *t = &tracer;
  uint32_t i;
  vram__zero(t, sizeof *t);
  t->l = l;
  vram__pen_begin(&t->pen, sink);
  vram__ledger_lock(l);
  vram__pen_puts(&t->pen, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  for (i = 0; i < l->options.devices; i++)
    vram__tracer_device(t, i, least);
  vram__tracer_device(t, VRAM_HOST, least);
  vram__pen_puts(&t->pen, "\n]}\n");
  vram__ledger_unlock(l);
  return vram__pen_end(&t->pen);
}

/* ---- the events as CSV */

/* In quotes; inner ones are doubled. */
static void vram__pen_csv(vram__pen *p, const char *z) {
  uint32_t len = vram__len(z);
  while (len) {
    const uint32_t n = vram__utf8(z, len);
    if (*z == '"')
      vram__pen_puts(p, "\"");
    vram__pen_put(p, n ? z : "?", n ? n : 1);
    z += n ? n : 1;
    len -= n ? n : 1;
  }
}

VRAM_API vram_result vram_write_csv(vram_ledger *l, const vram_sink *sink) {
  char name[VRAM_MAX_NAME + 12 * VRAM_MAX_LOOPS + 1];
  vram__pen pen, *p = &pen;
  uint64_t k, n;
  vram__pen_begin(p, sink);
  vram__ledger_lock(l);
  n = l->trace_count < l->options.trace ? l->trace_count : l->options.trace;
  vram__pen_puts(p, "action,id,size,stream,address,time_us,device,category,phase,node,owner,tag\n");
  for (k = l->trace_count - n; k < l->trace_count; k++) {
    const vram_event *e = l->trace + k % l->options.trace;
    const vram_owner *w = l->owner + e->owner;
    vram__pen_puts(p, e->action == VRAM_FREE ? "free_completed" : vram_action_name(e->action));
    vram__pen_puts(p, ",");
    if (e->id >= 0)
      vram__pen_number(p, (uint64_t)e->id, 0);
    else if (!e->address && e->action <= VRAM_FREE_REQUESTED)
      vram__pen_puts(p, "-1");
    vram__pen_f(p, ",%u,%u,", e->bytes, e->stream);
    if (e->address)
      vram__pen_hex(p, e->address);
    vram__pen_puts(p, ",");
    if (e->time)
      vram__pen_number(p, e->time, 0);
    if (e->device == VRAM_HOST)
      vram__pen_puts(p, ",host,");
    else
      vram__pen_f(p, ",%i,", (int)e->device);
    vram__pen_f(p, "%r,%r,", vram_category_name(e->category),
                e->phase || e->node ? vram_phase_name(e->phase) : "");
    if (e->node) {
      (void)vram_node_name(e->node, name, sizeof name);
      vram__pen_puts(p, "\"");
      vram__pen_csv(p, name);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, ",");
    if (w->file || w->function) {
      vram__pen_puts(p, "\"");
      if (w->file) {
        vram__pen_csv(p, w->file);
        vram__pen_line(p, w);
      }
      vram__pen_puts(p, w->file && w->function ? " " : "");
      vram__pen_csv(p, w->function ? w->function : "");
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, ",");
    if (w->tag) {
      vram__pen_puts(p, "\"");
      vram__pen_csv(p, w->tag);
      vram__pen_puts(p, "\"");
    }
    vram__pen_puts(p, "\n");
  }
  vram__ledger_unlock(l);
  return vram__pen_end(p);
}

VRAM__ONCE_END

#endif /* VRAM_IMPLEMENTATION */

/* ============================================================================================
 * Licence: choose whichever of the two you prefer.
 *
 * A. Public domain (www.unlicense.org)
 * This is free and unencumbered software released into the public domain.
 * Anyone is free to copy, modify, publish, use, compile, sell, or distribute this software, either
 * in source code form or as a compiled binary, for any purpose, commercial or non-commercial, and
 * by any means.
 * In jurisdictions that recognize copyright laws, the author or authors of this software dedicate
 * any and all copyright interest in the software to the public domain. We make this dedication for
 * the benefit of the public at large and to the detriment of our heirs and successors. We intend
 * this dedication to be an overt act of relinquishment in perpetuity of all present and future
 * rights to this software under copyright law.
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
 * NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
 * LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
 * CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 *
 * B. MIT-0 (MIT No Attribution)
 * Copyright (c) 2026 the vram.h authors
 * Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
 * associated documentation files (the "Software"), to deal in the Software without restriction,
 * including without limitation the rights to use, copy, modify, merge, publish, distribute,
 * sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
 * furnished to do so.
 * THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
 * NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
 * NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
 * DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM,
 * OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
 * ============================================================================================ */
