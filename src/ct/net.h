#pragma once
#include "ct/bytes.h"
/* ---- networks, one line for each layer --------------------------------------------------------
 * Every line declares constants from those of the line before it: shape, parameters, bytes,
 * multiply-accumulates (MACs), totals so far and the bytes of activations that live at one time.
 *
 *   VRAM_NET_BEGIN(kws, I8, 1, 49, 10, 1);                          n, h, w, c; the line `input`
 *   VRAM_NET_CONV2D(kws, c1, input, 64, 10, 4, 2, 2, SAME, 1);      net, this line, the line before
 *   VRAM_NET_ACTIVATION_FUSED(kws, r1, c1);
 *   VRAM_NET_GLOBAL_AVG_POOL2D(kws, p1, r1);
 *   VRAM_NET_LINEAR(kws, y, p1, 12, 1);
 *   VRAM_NET_END(kws, y);
 *   VRAM_ASSERT_FITS(kws, VRAM_KIB(32), VRAM_KIB(16));
 *   static unsigned char arena[VRAM_NET_ARENA_BYTES(kws)];          c1 at VRAM_NET_OFFSET(kws, c1)
 *
 * The line before is the main input. A value that a later line needs is kept: KEEP names it, and
 * one line takes it (FROM, ADD, MUL, CONCAT). For a second reader, take it with FROM and keep it
 * again.
 *
 *   VRAM_NET_KEEP(kws, k1, r1);
 *   VRAM_NET_CONV2D(kws, c2, k1, ...);
 *   VRAM_NET_ADD(kws, a2, c2, k1);                                  c2 + k1
 *
 * Names of nets and lines are identifiers, pasted to kws_c1_...: a net has one `input`, no line
 * `net`, and no net's name begins with another's and an underscore. Formats, paddings and kernels
 * are words, or macros that expand to one. The lines are declarations at file scope (or in one
 * function). They are constants for array sizes, enumerators, case labels and static assertions;
 * the preprocessor does not see them: `vram emit` prints the same as #defines. Layouts are NHWC.
 * Numeric arguments are constant expressions, each is expanded once (CUSTOM's more often). Kernels,
 * strides, groups and heads are 1 to 32,767; a value or the weights of a line have less than 2^31
 * bytes, MACs are below 2^62.
 *
 * format: how activations and weights are stored
 *   F32, F16              as floats, biases too
 *   I8                    int8, int32 bias, and for each output channel of a convolution a
 *                         multiplier and a shift of 32 bits each; one pair for each other matrix
 *   I8_PER_TENSOR         one pair for each matrix; I8_PER_CHANNEL: pairs for LINEAR's outputs, too
 *   I8W4, I4              weights of 4 bits, activations of 8 or 4
 *   I16                   activations of 16 bits, weights of 8, biases of 64
 *   IDS8, IDS16, IDS32    indices, for EMBEDDING
 * padding: SAME (out = in / stride rounded up), VALID, PAD(h, w) (on each side, as in PyTorch),
 *   pools also PAD_CEIL(h, w) (ceil_mode=True)
 *
 * Sources: the int8, int16 and int4 tensors of TFLite's quantisation specification, multipliers and
 * shifts as CMSIS-NN's kernels take them. MACs count windows over padding in full. Weights are in
 * flash, each array from a multiple of 4 (of 8 with 64-bit biases); code is not counted. */

/* NOLINTBEGIN(bugprone-macro-parentheses): names are pasted, lists go from macro to macro */

/* The constants of a line: enumerators, of which no compiler makes object code, whatever it
   optimizes. Those of C hold an int, so that with 16 bits a figure is two of them. E declares one,
   V reads it, COPY declares one like another; E2, V2, COPY2: of up to 62 bits. */
#if defined(__cplusplus)
#define VRAM__NET_CONSTANTS(...) enum : unsigned long long { __VA_ARGS__ }
#define VRAM__E(name, v) name = v
#define VRAM__V(name) (VRAM_U(0) + name)
#define VRAM__COPY(name, from) name = from
#define VRAM__E2(name, v) name = v
#define VRAM__V2(name) (VRAM_U(0) + name)
#define VRAM__COPY2(name, from) name = from
#else
#define VRAM__NET_CONSTANTS(...) enum { __VA_ARGS__ }
#if (defined(__INT_MAX__) && __INT_MAX__ < 65536) || defined(__SDCC)
#define VRAM__E(name, v) name = (v) % VRAM_U(32768), name##_x = (v) / VRAM_U(32768)
#define VRAM__V(name) (VRAM_U(32768) * name##_x + name)
#define VRAM__COPY(name, from) name = from, name##_x = from##_x
#define VRAM__E2(name, v)                                                                          \
  name = (v) % VRAM_U(32768), name##_x = (v) / VRAM_U(32768) % VRAM_U(32768),                      \
  name##_z = (v) / VRAM_U(1073741824)
#define VRAM__V2(name) (VRAM_U(1073741824) * name##_z + VRAM_U(32768) * name##_x + name)
#define VRAM__COPY2(name, from) name = from, name##_x = from##_x, name##_z = from##_z
#else
#define VRAM__E(name, v) name = v
#define VRAM__V(name) (VRAM_U(0) + name)
#define VRAM__COPY(name, from) name = from
#define VRAM__E2(name, v) name = (v) % VRAM_U(2147483648), name##_x = (v) / VRAM_U(2147483648)
#define VRAM__V2(name) (VRAM_U(2147483648) * name##_x + name)
#define VRAM__COPY2(name, from) name = from, name##_x = from##_x
#endif
#endif

/* Words. A list begins with 0; behind it stands another one, of what is taken instead where there
   is no such word: then the first is an identifier that nobody declared, VRAM__FORMAT_I9, and the
   only thing that the compiler complains about. */
#define VRAM__NO_FORMAT VRAM_U(8), VRAM_U(8), VRAM_U(4), VRAM_U(2), 0
#define VRAM__NO_PADDING vram_s, 0, 0, 0

/* A format: bits of activations and of weights, bytes of each bias, and which scales there are: 0
   none, 1 one for each matrix, 2 one for each output of a convolution, 3 of LINEAR, too. */
#define VRAM__FORMAT_F32 0, VRAM_U(32), VRAM_U(32), VRAM_U(4), VRAM_U(0)
#define VRAM__FORMAT_F16 0, VRAM_U(16), VRAM_U(16), VRAM_U(2), VRAM_U(0)
#define VRAM__FORMAT_I8 0, VRAM_U(8), VRAM_U(8), VRAM_U(4), VRAM_U(2)
#define VRAM__FORMAT_I8_PER_TENSOR 0, VRAM_U(8), VRAM_U(8), VRAM_U(4), VRAM_U(1)
#define VRAM__FORMAT_I8_PER_CHANNEL 0, VRAM_U(8), VRAM_U(8), VRAM_U(4), VRAM_U(3)
#define VRAM__FORMAT_I8W4 0, VRAM_U(8), VRAM_U(4), VRAM_U(4), VRAM_U(2)
#define VRAM__FORMAT_I16 0, VRAM_U(16), VRAM_U(8), VRAM_U(8), VRAM_U(2)
#define VRAM__FORMAT_I4 0, VRAM_U(4), VRAM_U(4), VRAM_U(4), VRAM_U(2)
#define VRAM__FORMAT_IDS8 0, VRAM_U(8), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__FORMAT_IDS16 0, VRAM_U(16), VRAM_U(0), VRAM_U(0), VRAM_U(0)
#define VRAM__FORMAT_IDS32 0, VRAM_U(32), VRAM_U(0), VRAM_U(0), VRAM_U(0)

#define VRAM__KERNELS_NONE 0
#define VRAM__KERNELS_PLAIN 1
#define VRAM__KERNELS_DSP 2
#define VRAM__KERNELS_MVE 3

/* padding: its kind, and what is given for h and w. Words between macros are none that a program
   might define, as S for a stride or NONE. */
#define VRAM__PADDING_SAME 0, vram_s, 0, 0
#define VRAM__PADDING_VALID 0, vram_p, 0, 0
#define VRAM__PADDING_PAD(h, w) 0, vram_p, h, w
#define VRAM__PADDING_PAD_CEIL(h, w) 0, vram_c, h, w
#define VRAM__FITS_vram_s(in, k, s, p, d) 1
#define VRAM__FITS_vram_p(in, k, s, p, d) VRAM_CONV_OK(in, k, p, d)
#define VRAM__FITS_vram_c(in, k, s, p, d) (VRAM_CONV_OK(in, k, p, d) && VRAM_U(2) * (p) <= (k))
#define VRAM__SIZE_vram_s(in, k, s, p, d) VRAM_CONV_OUT_SAME(in, s)
#define VRAM__SIZE_vram_p(in, k, s, p, d) VRAM_CONV_OUT(in, k, s, p, d)
#define VRAM__SIZE_vram_c(in, k, s, p, d) VRAM_POOL_OUT_CEIL(in, k, s, p, d)
/* what stands before the input: SAME has half of what the last window lacks, rounded down */
#define VRAM__BEFORE_vram_p(in, out, k, s, p, d) (VRAM_U(0) + p)
#define VRAM__BEFORE_vram_c(in, out, k, s, p, d) (VRAM_U(0) + p)
#define VRAM__BEFORE_vram_s(in, out, k, s, p, d)                                                   \
  ((((out)-VRAM_U(1)) * (s) + VRAM_U(1) * (d) * ((k)-VRAM_U(1)) >= (in)                            \
        ? ((out)-VRAM_U(1)) * (s) + VRAM_U(1) * (d) * ((k)-VRAM_U(1)) + VRAM_U(1) - (in)           \
        : VRAM_U(0)) /                                                                             \
   VRAM_U(2))

/* clang-format off */
/* The constants of a line q after a line p (both with the net's name before theirs). What stands
   behind an underscore in one of them is the name of none: a net may have lines c1 and c1_low.
     is_no_line_after_BEGIN     it is there, or `lost`; p_is_followed_once: no other line follows p
     n align kernels            of the network
     format padding             0: there is such a word
     h w c                      its shape
     a_bits w_bits bias_each scales   its format, the four figures above
     bytes size                 of the value; the same in the arena, rounded up
     params macs                the line's own parameters and MACs,
     weights flash scratch state   its bytes of these,
     *_total                    and the sums so far
     bias                       1: a batch norm can be folded into it
   The arena is filled from both ends; a line writes to the end that its input is not at.
     end offset                 where the value is: 0 low, 1 high; its distance from that end
     low top                    what is kept at the low end and at the high end reaches so far
     room                       the low end is in use up to here while the line runs: its scratch
                                follows
     low_from low_to, top_*     a hole in that, [from, to): taken before what lies over it
     reach                      low or top of the value's own end, or the value's border if that
                                is further
     held                       the value itself is kept
     kept open                  bytes of all kept values; how many no line has taken yet
     live live_peak arena       bytes that live while the line runs, the most so far; of the arena
   Two buffers and a third one for kept values:
     buf buf0 buf1 side         which one the value is in; the sizes of the three
     scratch_peak               the largest scratch so far */
/* clang-format on */
#define VRAM__NET_MAX VRAM_U(2147483647)
#define VRAM__NET_SIZE_OK(x) ((x)-VRAM_U(1) < VRAM_U(32767))

#define VRAM__NET_SHAPE_OK(q)                                                                      \
  (q##_h - VRAM_U(1) >= VRAM__NET_MAX || q##_w - VRAM_U(1) >= VRAM__NET_MAX ||                     \
   q##_c - VRAM_U(1) >= VRAM__NET_MAX ||                                                           \
   (VRAM_U(1) * q##_h * q##_w <= VRAM__NET_MAX / q##_c &&                                          \
    VRAM_U(1) * q##_h * q##_w * q##_c <= VRAM__NET_MAX / VRAM_U(4) / q##_n))
#define VRAM__NET_ELEMS(q) (VRAM_U(1) * q##_n * q##_h * q##_w * q##_c)

/* A line, a BEGIN or an END that is not there is one mistake and shall be one message. NAMED
   declares a name, NEEDS asks for it.
   GCC: the name is a type. Where there is no such type, GCC says so and goes on behind the next
   semicolon or the next braces. What stands there has no effect where there is such a type, and is
   declared where not: in an attribute, whose words GCC skips (from version 10), or, in C, among
   parameters. What is made of that is `lost`, and not checked. clang stops; so does SDCC, which
   says what stands behind such a type: its name once more. Others tell the name first, and then
   what else they do not find. */
/* clang-format off */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__EDG__) && !defined(__CUDACC__) &&       \
    (__GNUC__ >= 10 || (__GNUC__ >= 5 && !defined(__cplusplus)))
#define VRAM__NET_NAMED(name) typedef char name __attribute__((__unused__))
#if defined(__cplusplus)
#define VRAM__NET_OF_TYPE(name, by, names, ...)                                                    \
  extern name by() [[vram::instead (; __VA_ARGS__; names;)]];
#elif __GNUC__ >= 10
#define VRAM__NET_OF_TYPE(name, by, names, ...)                                                    \
  _Pragma("GCC diagnostic ignored \"-Wnested-externs\"")                                           \
  __extension__ extern char by(name line) [[vram (; __VA_ARGS__; names;)]];
#else /* the last enumerator is this header's, and so are the warnings of it, which GCC keeps */
#define VRAM__NET_AMONG(by, ...)                                                                   \
  by##_instead(union { char line; }                                                                \
               vram__lost[sizeof(__VA_ARGS__) * sizeof(char (*)(enum { vram__last }))])
#define VRAM__NET_QUIET                                                                            \
  _Pragma("GCC diagnostic ignored \"-Wnested-externs\"")                                           \
  _Pragma("GCC diagnostic ignored \"-Wshadow\"") _Pragma("GCC diagnostic ignored \"-Wpedantic\"")  \
  _Pragma("GCC diagnostic ignored \"-Wunused-local-typedefs\"")
#define VRAM__NET_OF_TYPE(name, by, names, ...)                                                    \
  VRAM__NET_QUIET extern char by(name line), VRAM__NET_AMONG(by, __VA_ARGS__);                     \
  VRAM__NET_NAMED(name);
#endif
#define VRAM__NET_NEEDS(name, by, names, ...)                                                      \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wattributes\"")                \
  _Pragma("GCC diagnostic ignored \"-Wredundant-decls\"")                                          \
  VRAM__NET_OF_TYPE(name, by, names, __VA_ARGS__)                                                  \
  _Pragma("GCC diagnostic pop")
#elif defined(__SDCC)
#define VRAM__NET_NAMED(name) typedef char name
#define VRAM__NET_OF_TYPE(name, by) typedef char by(name name);
#define VRAM__NET_NEEDS(name, by, names, ...) VRAM__NET_OF_TYPE(name, by)
#elif defined(__clang__) && !defined(__cplusplus)
#define VRAM__NET_NAMED(name) struct name
#define VRAM__NET_NEEDS(name, by, names, ...)                                                      \
  _Pragma("clang diagnostic push") _Pragma("clang diagnostic fatal \"-Wvisibility\"")              \
  extern char by(struct name *);                                                                   \
  _Pragma("clang diagnostic pop")
#else
#define VRAM__NET_NAMED(name) struct vram__net
#define VRAM__NET_NEEDS(name, by, names, ...)
#endif
#if defined(VRAM__NET_OF_TYPE)
#define VRAM__NET_ASSERT(q, condition, name) VRAM_STATIC_ASSERT(q##_lost || (condition), name)
#define VRAM__NET_IS_LOST(q) q##_lost
#define VRAM__NET_BEGUN(q) q##_lost = 0
#define VRAM__NET_GOES_ON(q, p) q##_lost = 0 + p##_lost
#define VRAM__NET_ENDED(N, p) N##_lost = 0 + p##_lost
#else
#define VRAM__NET_ASSERT(q, condition, name) VRAM_STATIC_ASSERT(condition, name)
#define VRAM__NET_IS_LOST(q) 0
#define VRAM__NET_BEGUN(q) q##_is_no_line_after_BEGIN = 0
#define VRAM__NET_GOES_ON(q, p) q##_is_no_line_after_BEGIN = 0 + p##_is_no_line_after_BEGIN
#define VRAM__NET_ENDED(N, p) N##_lacks_its_VRAM_NET_END = 1, VRAM__NET_GOES_ON(N, p)
#endif
/* clang-format on */
/* q stands behind p in N, and takes k */
#define VRAM__NET_AFTER(q, p)                                                                      \
  VRAM__NET_NEEDS(p##_is_no_line_after_BEGIN, q##_follows, VRAM__NET_NAMES(p),                     \
                  VRAM__NET_CONSTANTS(VRAM__NET_LOST(p)))
#if defined(VRAM__NET_AMONG) /* one after the other: what is missing first is told alone */
#define VRAM__NET_NAMES(p) VRAM__NET_NAMED(p##_is_no_line_after_BEGIN)
#define VRAM__NET_LOST(p) VRAM__NET_LOST_LINE(p)
#define VRAM__NET_TAKES(q, k)                                                                      \
  _Pragma("GCC diagnostic push")                                                                   \
      VRAM__NET_QUIET extern char q##_takes_line(k##_is_no_line_after_BEGIN line),                 \
      VRAM__NET_AMONG(q##_takes_line, VRAM__NET_CONSTANTS(VRAM__NET_LOST(k))),                     \
      q##_takes(k##_is_no_kept_value line),                                                        \
      VRAM__NET_AMONG(q##_takes, VRAM__NET_CONSTANTS(VRAM__NET_NOT_KEPT(k)));                      \
  VRAM__NET_NAMES(k);                                                                              \
  _Pragma("GCC diagnostic pop")
#else
#define VRAM__NET_NAMES(p)                                                                         \
  VRAM__NET_NAMED(p##_is_no_kept_value);                                                           \
  VRAM__NET_NAMED(p##_is_no_line_after_BEGIN)
#define VRAM__NET_LOST(p) VRAM__NET_LOST_LINE(p), VRAM__NET_NOT_KEPT(p)
#define VRAM__NET_TAKES(q, k)                                                                      \
  VRAM__NET_NEEDS(k##_is_no_line_after_BEGIN, q##_takes_line, VRAM__NET_NAMES(k),                  \
                  VRAM__NET_CONSTANTS(VRAM__NET_LOST(k)))                                          \
  VRAM__NET_NEEDS(k##_is_no_kept_value, q##_takes, , VRAM__NET_CONSTANTS(VRAM__NET_NOT_KEPT(k)))
#endif
#define VRAM__NET_NOT_KEPT(k)                                                                      \
  VRAM__E(k##_kept_from, VRAM_U(0)), VRAM__E(k##_kept_to, VRAM_U(0)),                              \
      VRAM__E(k##_added, VRAM_U(0)), k##_held_before = 0, k##_opened = 1
/* a plan is for line q; without it the plan's figures of it are not checked */
#define VRAM__NET_PLANS(q)                                                                         \
  VRAM__NET_NEEDS(                                                                                 \
      q##_is_no_line_after_BEGIN, q##_is_planned, VRAM__NET_NAMES(q),                              \
      VRAM__NET_CONSTANTS(VRAM__E(q##_bytes, VRAM_U(1)), VRAM__E2(q##_macs, VRAM_U(1)),            \
                          VRAM__COPY(q##_params, q##_bytes), VRAM__COPY(q##_weights, q##_bytes),   \
                          VRAM__COPY(q##_flash, q##_bytes), VRAM__COPY(q##_scratch, q##_bytes),    \
                          VRAM__COPY(q##_state, q##_bytes), VRAM__COPY(q##_live, q##_bytes),       \
                          VRAM__NET_LOST(q)))
/* what a line reads of another one, as if that were one byte */
#define VRAM__NET_LOST_LINE(p)                                                                     \
  p##_lost = 1, p##_n = 1, p##_align = 1, p##_h = 1, p##_w = 1, p##_c = 1, p##_bias_each = 4,      \
  p##_a_bits = 8, p##_w_bits = 8, p##_kernels = 0, p##_scales = 1, p##_bias = 0, p##_end = 0,      \
  p##_held = 0, p##_open = 0, p##_buf = 0, VRAM__E(p##_size, VRAM_U(1)),                           \
  VRAM__E2(p##_macs_total, VRAM_U(1)), VRAM__COPY(p##_params_total, p##_size),                     \
  VRAM__COPY(p##_weights_total, p##_size), VRAM__COPY(p##_flash_total, p##_size),                  \
  VRAM__COPY(p##_state_total, p##_size), VRAM__COPY(p##_offset, p##_size),                         \
  VRAM__COPY(p##_low, p##_size), VRAM__COPY(p##_top, p##_size),                                    \
  VRAM__COPY(p##_low_from, p##_size), VRAM__COPY(p##_low_to, p##_size),                            \
  VRAM__COPY(p##_top_from, p##_size), VRAM__COPY(p##_top_to, p##_size),                            \
  VRAM__COPY(p##_reach, p##_size), VRAM__COPY(p##_live_peak, p##_size),                            \
  VRAM__COPY(p##_arena, p##_size), VRAM__COPY(p##_buf0, p##_size), VRAM__COPY(p##_buf1, p##_size), \
  VRAM__COPY(p##_side, p##_size), VRAM__COPY(p##_scratch_peak, p##_size),                          \
  VRAM__E(p##_kept, VRAM_U(1073741824))

/* All lines are this one: the values of the arguments, checks, the constants. A program that wants
   a table of a network includes the network a second time, inside a function and with a
   VRAM_NET_LINE of its own: line is kws_c1, name "c1", op "CONV2D" (see VRAM_NET_OF below). */
#define VRAM_NET_LINE(line, before, name, op, arguments, checks, constants)                        \
  VRAM__NET_CONSTANTS(VRAM__NET_GOES_ON(line, before), before##_is_followed_once = 1,              \
                      line##_n = 0 + before##_n, line##_align = 0 + before##_align,                \
                      line##_kernels = 0 + before##_kernels, arguments, constants);                \
  checks VRAM__NET_NAMED(line##_is_no_line_after_BEGIN)
/* takes the semicolon: a declaration that may stand there again and again */
#define VRAM__NET_DECLARED struct vram__net

/* checks; every name says line and fault */
#define VRAM__NET_CHECK_SHAPE(q)                                                                   \
  VRAM__NET_ASSERT(q,                                                                              \
                   q##_h - VRAM_U(1) < VRAM__NET_MAX && q##_w - VRAM_U(1) < VRAM__NET_MAX &&       \
                       q##_c - VRAM_U(1) < VRAM__NET_MAX,                                          \
                   q##_has_a_size_that_is_zero_negative_or_too_large);                             \
  VRAM__NET_ASSERT(q, VRAM__NET_SHAPE_OK(q), q##_is_too_large);
#define VRAM__NET_CHECK_OVER(p, q)                                                                 \
  VRAM__NET_ASSERT(q, p##_held == 0, q##_overwrites_a_value_that_is_kept);
#define VRAM__NET_CHECK_WEIGHTS(p, q, bias)                                                        \
  VRAM__NET_ASSERT(q, p##_w_bits > 0, q##_has_weights_but_its_input_is_indices);                   \
  VRAM__NET_ASSERT(q, q##bias == 0 || q##bias == 1, q##_bias_is_neither_0_nor_1);
#define VRAM__NET_CHECK_WIDTH1(p, q) VRAM__NET_ASSERT(q, p##_w == 1, q##_needs_an_input_of_width_1);
#define VRAM__NET_CHECK_ELEMS(p, q)                                                                \
  VRAM__NET_ASSERT(q, VRAM_U(1) * q##_h * q##_w * q##_c == VRAM_U(1) * p##_h * p##_w * p##_c,      \
                   q##_has_not_as_many_elements_as_its_input);
#define VRAM__NET_CHECK_DTYPE(p, q, k)                                                             \
  VRAM__NET_ASSERT(q,                                                                              \
                   VRAM__NET_IS_LOST(k) || (VRAM_U(0) + p##_a_bits == VRAM_U(0) + k##_a_bits &&    \
                                            (p##_w_bits > 0) == (k##_w_bits > 0) &&                \
                                            (p##_scales > 0) == (k##_scales > 0)),                 \
                   q##_input_and_##k##_differ_in_format);

/* the format of p goes on, or another one begins */
#define VRAM__NET_FORMAT(q, p)                                                                     \
  q##_a_bits = p##_a_bits, q##_w_bits = p##_w_bits, q##_bias_each = p##_bias_each,                 \
  q##_scales = p##_scales

/* parameters, MACs, bytes of weights and flash; scratch and state of so many bytes */
#define VRAM__NET_COUNT(q, p, params, macs, weights, flash, scratch, state)                        \
  VRAM__E(q##_params, params), VRAM__E2(q##_macs, macs), VRAM__E(q##_weights, weights),            \
      VRAM__E(q##_flash, flash), VRAM__E(q##_scratch, VRAM_ALIGN_UP(scratch, q##_align)),          \
      VRAM__E(q##_state, state),                                                                   \
      VRAM__E(q##_params_total, VRAM__V(p##_params_total) + VRAM__V(q##_params)),                  \
      VRAM__E2(q##_macs_total, VRAM__V2(p##_macs_total) + VRAM__V2(q##_macs)),                     \
      VRAM__E(q##_weights_total, VRAM__V(p##_weights_total) + VRAM__V(q##_weights)),               \
      VRAM__E(q##_flash_total, VRAM__V(p##_flash_total) + VRAM__V(q##_flash)),                     \
      VRAM__E(q##_state_total, VRAM__V(p##_state_total) + VRAM__V(q##_state))
/* no parameters: the sums as they were */
#define VRAM__NET_COUNT_NONE(q, p) VRAM__NET_COUNT_BYTES(q, p, VRAM_U(0))
#define VRAM__NET_COUNT_SCRATCH(q, p, scratch)                                                     \
  VRAM__NET_COUNT_BYTES(q, p, VRAM_ALIGN_UP(scratch, q##_align))
#define VRAM__NET_COUNT_BYTES(q, p, scratch)                                                       \
  VRAM__E(q##_params, VRAM_U(0)), VRAM__E2(q##_macs, VRAM_U(0)), VRAM__E(q##_weights, VRAM_U(0)),  \
      VRAM__E(q##_flash, VRAM_U(0)), VRAM__E(q##_scratch, scratch), VRAM__E(q##_state, VRAM_U(0)), \
      VRAM__COPY(q##_params_total, p##_params_total), VRAM__COPY2(q##_macs_total, p##_macs_total), \
      VRAM__COPY(q##_weights_total, p##_weights_total),                                            \
      VRAM__COPY(q##_flash_total, p##_flash_total), VRAM__COPY(q##_state_total, p##_state_total)
#define VRAM__NET_BITS(n, bits) ((VRAM_U(1) * (n) * (bits) + VRAM_U(7)) / VRAM_U(8))
/* in flash: the next multiple of 4, of 8 with biases of 8 bytes */
#define VRAM__NET_FLASH(p, bytes) VRAM_ALIGN_UP(bytes, (p##_bias_each == 8 ? VRAM_U(8) : VRAM_U(4)))
/* one array of weights, one of biases, one of pairs of 8 bytes */
#define VRAM__NET_COUNT_WEIGHTS(q, p, weights, biases, pairs, macs, scratch)                       \
  VRAM__E(q##_nweights, weights), VRAM__E(q##_nbiases, biases), VRAM__E(q##_nscales, pairs),       \
      VRAM__NET_COUNT(q, p, VRAM__V(q##_nweights) + VRAM__V(q##_nbiases), macs,                    \
                      VRAM__NET_BITS(VRAM__V(q##_nweights), q##_w_bits) +                          \
                          VRAM__V(q##_nbiases) * q##_bias_each + VRAM__V(q##_nscales) * VRAM_U(8), \
                      VRAM__NET_FLASH(q, VRAM__NET_BITS(VRAM__V(q##_nweights), q##_w_bits)) +      \
                          VRAM__NET_FLASH(q, VRAM__V(q##_nbiases) * q##_bias_each) +               \
                          VRAM__V(q##_nscales) * VRAM_U(8),                                        \
                      scratch, VRAM_U(0))

/* ---- memory of a line ---- */

#define VRAM__NET_BYTES(q)                                                                         \
  VRAM__E(q##_bytes, VRAM__NET_BITS(VRAM__NET_ELEMS(q), q##_a_bits)),                              \
      VRAM__E(q##_size, VRAM_ALIGN_UP(VRAM__V(q##_bytes), q##_align))
#define VRAM__NET_LIVE(q, p, written)                                                              \
  VRAM__E(q##_live, VRAM__V(p##_kept) + (p##_held != 0 ? VRAM_U(0) : VRAM__V(p##_size)) +          \
                        (written) + VRAM__V(q##_scratch)),                                         \
      VRAM__E(q##_live_peak, VRAM_MAX(VRAM__V(p##_live_peak), VRAM__V(q##_live))),                 \
      VRAM__E(q##_scratch_peak, VRAM_MAX(VRAM__V(p##_scratch_peak), VRAM__V(q##_scratch)))
#define VRAM__NET_HIGH(q, p, far_end)                                                              \
  VRAM__E(q##_arena,                                                                               \
          VRAM_MAX(VRAM__V(p##_arena), VRAM__V(p##_reach) + (far_end) + VRAM__V(q##_scratch)))
#define VRAM__NET_MARKS(q, p)                                                                      \
  VRAM__COPY(q##_low, p##_low), VRAM__COPY(q##_top, p##_top),                                      \
      VRAM__COPY(q##_low_from, p##_low_from), VRAM__COPY(q##_low_to, p##_low_to),                  \
      VRAM__COPY(q##_top_from, p##_top_from), VRAM__COPY(q##_top_to, p##_top_to),                  \
      VRAM__COPY(q##_kept, p##_kept), q##_open = p##_open
#define VRAM__NET_EXT(q)                                                                           \
  VRAM__E(q##_reach, q##_end                                                                       \
                         ? VRAM_MAX(VRAM__V(q##_top), VRAM__V(q##_offset) + VRAM__V(q##_size))     \
                         : VRAM_MAX(VRAM__V(q##_low), VRAM__V(q##_offset) + VRAM__V(q##_size)))
#define VRAM__NET_SIDE(q, p) VRAM__COPY(q##_side, p##_side)

/* A new value goes to the other end, into the hole there if that holds it. What is in use at that
   end then is `far`; the marks and what is kept come after this. */
#define VRAM__NET_WRITE(q, p)                                                                      \
  VRAM__NET_BYTES(q),                                                                              \
      q##_end = 1 - p##_end, q##_held = 0, q##_buf = 1 - p##_buf,                                  \
      VRAM__E(q##_offset, p##_end ? VRAM__NET_PLACE(q, p, _low, _low_from, _low_to)                \
                                  : VRAM__NET_PLACE(q, p, _top, _top_from, _top_to)),              \
      VRAM__E(q##_far, VRAM_MAX(VRAM__V(q##_offset) + VRAM__V(q##_size),                           \
                                (p##_end ? VRAM__V(p##_low) : VRAM__V(p##_top)))),                 \
      VRAM__NET_LIVE(q, p, VRAM__V(q##_size)), VRAM__NET_HIGH(q, p, VRAM__V(q##_far)),             \
      VRAM__E(q##_room, p##_end ? VRAM__V(q##_far) : VRAM__V(p##_reach)), VRAM__NET_BUFFERS(q, p)
#define VRAM__NET_PLACE(q, p, m, f, t)                                                             \
  (VRAM__V(p##t) - VRAM__V(p##f) >= VRAM__V(q##_size) ? VRAM__V(p##f) : VRAM__V(p##m))
#define VRAM__NET_BUFFERS(q, p)                                                                    \
  VRAM__E(q##_buf0, q##_buf ? VRAM__V(p##_buf0) : VRAM_MAX(VRAM__V(p##_buf0), VRAM__V(q##_size))), \
      VRAM__E(q##_buf1,                                                                            \
              q##_buf ? VRAM_MAX(VRAM__V(p##_buf1), VRAM__V(q##_size)) : VRAM__V(p##_buf1)),       \
      VRAM__NET_SIDE(q, p)
/* the value stays where its input is; held: whether that is kept */
#define VRAM__NET_STAY(q, p, held_)                                                                \
  VRAM__E(q##_bytes, VRAM__NET_BITS(VRAM__NET_ELEMS(q), q##_a_bits)),                              \
      VRAM__COPY(q##_size, p##_size),                                                              \
      q##_end = 0 + p##_end, q##_held = held_, q##_buf = 0 + p##_buf,                              \
      VRAM__COPY(q##_offset, p##_offset), VRAM__NET_LIVE(q, p, VRAM_U(0)),                         \
      VRAM__NET_HIGH(q, p, p##_end ? VRAM__V(p##_low) : VRAM__V(p##_top)),                         \
      VRAM__E(q##_room, p##_end ? VRAM__V(p##_low) : VRAM__V(p##_reach)),                          \
      VRAM__COPY(q##_buf0, p##_buf0), VRAM__COPY(q##_buf1, p##_buf1)

#define VRAM__NET_NEW(q, p) VRAM__NET_WRITE(q, p), VRAM__NET_MARKS(q, p), VRAM__NET_EXT(q)
#define VRAM__NET_SAME(q, p, held_)                                                                \
  VRAM__NET_STAY(q, p, held_), VRAM__NET_SIDE(q, p), VRAM__NET_MARKS(q, p), VRAM__NET_EXT(q)

/* Taking k at an end with the mark m and the hole [f, t): the mark falls to where it was before k
   if k is on top (through the hole, if that follows); else k becomes a hole. A second hole that
   does not touch the first one is lost until the net ends. */
#define VRAM__NET_TAKE_END(q, p, k, e, m, f, t)                                                    \
  VRAM__E(q##m, k##_end != e                              ? VRAM__V(p##m)                          \
                : VRAM__V(p##m) != VRAM__V(k##_kept_to)   ? VRAM__V(p##m)                          \
                : VRAM__V(k##_kept_from) == VRAM__V(p##t) ? VRAM__V(p##f)                          \
                                                          : VRAM__V(k##_kept_from)),               \
      VRAM__E(q##f, k##_end != e ? VRAM__V(p##f)                                                   \
                    : VRAM__V(p##m) == VRAM__V(k##_kept_to)                                        \
                        ? (VRAM__V(k##_kept_from) == VRAM__V(p##t) ? VRAM_U(0) : VRAM__V(p##f))    \
                    : VRAM__V(p##t) == VRAM_U(0) || VRAM__V(k##_kept_to) == VRAM__V(p##f)          \
                        ? VRAM__V(k##_kept_from)                                                   \
                        : VRAM__V(p##f)),                                                          \
      VRAM__E(q##t, k##_end != e ? VRAM__V(p##t)                                                   \
                    : VRAM__V(p##m) == VRAM__V(k##_kept_to)                                        \
                        ? (VRAM__V(k##_kept_from) == VRAM__V(p##t) ? VRAM_U(0) : VRAM__V(p##t))    \
                    : VRAM__V(p##t) == VRAM_U(0) || VRAM__V(k##_kept_from) == VRAM__V(p##t)        \
                        ? VRAM__V(k##_kept_to)                                                     \
                        : VRAM__V(p##t))
/* the marks of r are those of p without k, which is kept where p is, but for mistakes */
#define VRAM__NET_TAKE(r, p, k)                                                                    \
  k##_is_taken_once = 1, VRAM__NET_TAKE_END(r, p, k, 0, _low, _low_from, _low_to),                 \
  VRAM__NET_TAKE_END(r, p, k, 1, _top, _top_from, _top_to),                                        \
  VRAM__E(r##_kept, VRAM__V(p##_kept) - VRAM_MIN(VRAM__V(p##_kept), VRAM__V(k##_added))),          \
  r##_open = p##_open == 0 ? 0 : 0 + p##_open - k##_opened
#define VRAM__NET_NEW1(q, p, k) VRAM__NET_WRITE(q, p), VRAM__NET_TAKE(q, p, k), VRAM__NET_EXT(q)
#define VRAM__NET_NEW2(q, p, k, k2)                                                                \
  VRAM__NET_WRITE(q, p), VRAM__NET_TAKE(q##__a, p, k), VRAM__NET_TAKE(q, q##__a, k2),              \
      VRAM__NET_EXT(q)
#define VRAM__NET_NEW3(q, p, k, k2, k3)                                                            \
  VRAM__NET_WRITE(q, p), VRAM__NET_TAKE(q##__a, p, k), VRAM__NET_TAKE(q##__b, q##__a, k2),         \
      VRAM__NET_TAKE(q, q##__b, k3), VRAM__NET_EXT(q)
#define VRAM__NET_OVER1(q, p, k)                                                                   \
  VRAM__NET_STAY(q, p, 0), VRAM__NET_SIDE(q, p), VRAM__NET_TAKE(q, p, k), VRAM__NET_EXT(q)
/* the value of k, where it was kept */
#define VRAM__NET_BACK(q, p, k)                                                                    \
  VRAM__E(q##_bytes, VRAM__NET_BITS(VRAM__NET_ELEMS(q), q##_a_bits)),                              \
      VRAM__COPY(q##_size, k##_size),                                                              \
      q##_end = 0 + k##_end, q##_held = 0 + k##_held_before, q##_buf = 1 - p##_buf,                \
      VRAM__COPY(q##_offset, k##_offset), VRAM__NET_LIVE(q, p, VRAM_U(0)),                         \
      VRAM__E(q##_room, VRAM_U(0)), VRAM__COPY(q##_arena, p##_arena), VRAM__NET_BUFFERS(q, p),     \
      VRAM__NET_TAKE(q, p, k), VRAM__NET_EXT(q)
/* The value is kept: if it lies beyond the mark of its end, that moves past it, and what was
   between them becomes the hole (if there is none; else it is kept, too). A hole that it lies in is
   none any more. */
#define VRAM__NET_KEPT(q, p, held_, open_)                                                         \
  VRAM__NET_STAY(q, p, held_ > p##_held ? held_ : 0 + p##_held),                                   \
      q##_held_before = 0 + p##_held,                                                              \
      VRAM__E(q##_added, p##_held != 0 ? VRAM_U(0) : VRAM__V(p##_size)),                           \
      VRAM__E(q##_mark, q##_end ? VRAM__V(p##_top) : VRAM__V(p##_low)),                            \
      VRAM__E(q##_hole_from, q##_end ? VRAM__V(p##_top_from) : VRAM__V(p##_low_from)),             \
      VRAM__E(q##_hole_to, q##_end ? VRAM__V(p##_top_to) : VRAM__V(p##_low_to)),                   \
      q##_past = p##_held == 0 && VRAM__V(q##_offset) >= VRAM__V(q##_mark),                        \
      q##_inside = p##_held == 0 && !q##_past && VRAM__V(q##_hole_from) <= VRAM__V(q##_offset) &&  \
                   VRAM__V(q##_offset) + VRAM__V(q##_size) <= VRAM__V(q##_hole_to),                \
      q##_gap = q##_past && VRAM__V(q##_hole_to) == VRAM_U(0) &&                                   \
                VRAM__V(q##_offset) > VRAM__V(q##_mark),                                           \
      VRAM__E(q##_kept_from, q##_gap      ? VRAM__V(q##_offset)                                    \
                             : q##_past   ? VRAM__V(q##_mark)                                      \
                             : q##_inside ? VRAM__V(q##_hole_from)                                 \
                                          : VRAM_U(0)),                                            \
      VRAM__E(q##_kept_to, q##_past     ? VRAM__V(q##_offset) + VRAM__V(q##_size)                  \
                           : q##_inside ? VRAM__V(q##_hole_to)                                     \
                                        : VRAM_U(0)),                                              \
      VRAM__E(q##_low, q##_past && !q##_end ? VRAM__V(q##_kept_to) : VRAM__V(p##_low)),            \
      VRAM__E(q##_top, q##_past && q##_end ? VRAM__V(q##_kept_to) : VRAM__V(p##_top)),             \
      VRAM__E(q##_low_from,                                                                        \
              !q##_end ? VRAM__NET_HOLE(q, p, _low_from, _mark) : VRAM__V(p##_low_from)),          \
      VRAM__E(q##_low_to,                                                                          \
              !q##_end ? VRAM__NET_HOLE(q, p, _low_to, _offset) : VRAM__V(p##_low_to)),            \
      VRAM__E(q##_top_from,                                                                        \
              q##_end ? VRAM__NET_HOLE(q, p, _top_from, _mark) : VRAM__V(p##_top_from)),           \
      VRAM__E(q##_top_to, q##_end ? VRAM__NET_HOLE(q, p, _top_to, _offset) : VRAM__V(p##_top_to)), \
      VRAM__E(q##_kept, VRAM__V(p##_kept) + VRAM__V(q##_added)), q##_opened = open_,               \
      q##_open = 0 + p##_open + q##_opened,                                                        \
      VRAM__E(q##_side, VRAM_MAX(VRAM__V(p##_side), VRAM__V(q##_kept))), VRAM__NET_EXT(q)

#define VRAM__NET_HOLE(q, p, side, gap)                                                            \
  (q##_inside ? VRAM_U(0) : q##_gap ? VRAM__V(q##gap) : VRAM__V(p##side))

/* ---- lines ---- */

/* n h w c: of the input. align: what every buffer's offset and size are a multiple of, a power of
   two (default 16, as TFLite Micro); kernels: whose scratch is counted: NONE, or CMSIS-NN's on a
   target that is PLAIN, has DSP or MVE instructions. */
#define VRAM_NET_BEGIN(net, format, n, h, w, c)                                                    \
  VRAM__NET_BEGIN(net##__is_no_line_after_BEGIN, net##_input, n, h, w, c, 16, NONE, format)
#define VRAM_NET_BEGIN_WITH(net, format, n, h, w, c, align, kernels)                               \
  VRAM__NET_BEGIN(net##__is_no_line_after_BEGIN, net##_input, n, h, w, c, align, kernels, format)
#define VRAM__NET_BEGIN(unnamed, q, n, h, w, c, align, kernels, format)                            \
  VRAM__NET_BEGIN_(unnamed, q, n, h, w, c, align, VRAM__KERNELS_##kernels, VRAM__FORMAT_##format,  \
                   VRAM__NO_FORMAT)
#define VRAM__NET_BEGIN_(...) VRAM__NET_BEGIN__(__VA_ARGS__)
#define VRAM__NET_BEGIN__(unnamed, q, n, h, w, c, align, kernels, word, a_bits, w_bits, bias_each, \
                          scales, ...)                                                             \
  VRAM_NET_FIRST(q, VRAM__NET_FIRST(unnamed, q, word, a_bits, w_bits, bias_each, scales, kernels,  \
                                    n, h, w, c, align))
#define VRAM_NET_FIRST(line, constants) constants
#define VRAM__NET_FIRST(unnamed, q, word, a_bits, w_bits, bias_each, scales, kernels, n, h, w, c,  \
                        align)                                                                     \
  VRAM__NET_CONSTANTS(                                                                             \
      unnamed = 0, q##_format = word, q##_n = (n) | 0, q##_given = (align) | 0,                    \
      q##_align = VRAM__NET_SIZE_OK(q##_given) ? q##_given : 1, q##_kernels = kernels,             \
      q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0, q##_a_bits = a_bits, q##_w_bits = w_bits, \
      q##_bias_each = bias_each, q##_scales = scales, VRAM__NET_BEGUN(q), VRAM__NET_BYTES(q),      \
      q##_bias = 0, VRAM__E(q##_params, VRAM_U(0)), VRAM__E2(q##_macs, VRAM_U(0)),                 \
      VRAM__E(q##_weights, VRAM_U(0)), VRAM__E(q##_flash, VRAM_U(0)),                              \
      VRAM__E(q##_scratch, VRAM_U(0)), VRAM__E(q##_state, VRAM_U(0)),                              \
      VRAM__E(q##_params_total, VRAM_U(0)), VRAM__E2(q##_macs_total, VRAM_U(0)),                   \
      VRAM__E(q##_weights_total, VRAM_U(0)), VRAM__E(q##_flash_total, VRAM_U(0)),                  \
      VRAM__E(q##_state_total, VRAM_U(0)), VRAM__E(q##_offset, VRAM_U(0)),                         \
      VRAM__E(q##_low, VRAM_U(0)), VRAM__E(q##_top, VRAM_U(0)), VRAM__E(q##_low_from, VRAM_U(0)),  \
      VRAM__E(q##_low_to, VRAM_U(0)), VRAM__E(q##_top_from, VRAM_U(0)),                            \
      VRAM__E(q##_top_to, VRAM_U(0)), VRAM__E(q##_kept, VRAM_U(0)),                                \
      VRAM__COPY(q##_reach, q##_size), VRAM__COPY(q##_live, q##_size),                             \
      VRAM__COPY(q##_live_peak, q##_size), VRAM__COPY(q##_arena, q##_size),                        \
      VRAM__COPY(q##_buf0, q##_size), VRAM__E(q##_buf1, VRAM_U(0)), VRAM__E(q##_side, VRAM_U(0)),  \
      VRAM__E(q##_scratch_peak, VRAM_U(0)), q##_end = 0, q##_held = 0, q##_buf = 0, q##_open = 0); \
  VRAM__NET_ASSERT(q, VRAM__NET_SIZE_OK(q##_n), q##_has_a_batch_that_is_not_1_to_32767);           \
  VRAM__NET_ASSERT(q, VRAM__NET_SIZE_OK(q##_given) && (q##_align & (q##_align - 1)) == 0,          \
                   q##_has_an_alignment_that_is_no_power_of_two);                                  \
  VRAM__NET_CHECK_SHAPE(q)                                                                         \
  VRAM__NET_NAMED(q##_is_no_line_after_BEGIN)
/* A macro of a line pastes the names; then q is this line, p the line before. */
#define VRAM__ALL(...) __VA_ARGS__
#define VRAM__NET_SHAPE(q, p) q##_h = 0 + p##_h, q##_w = 0 + p##_w, q##_c = 0 + p##_c
#define VRAM__NET_PLAIN(q, p) VRAM__ALL(VRAM__NET_SHAPE(q, p), q##_bias = 0)

/* convolutions: y [n, h, w, out_channels]; _FULL: with dilation dh, dw and groups */
#define VRAM_NET_CONV2D(net, y, x, out_channels, kh, kw, sh, sw, padding, bias)                    \
  VRAM__NET_CONV(net##_##y, net##_##x, #y, "CONV2D", VRAM__NET_SCRATCH_CONV2D, padding,            \
                 out_channels, kh, kw, sh, sw, 1, 1, 1, bias)
#define VRAM_NET_CONV2D_FULL(net, y, x, out_channels, kh, kw, sh, sw, dh, dw, padding, groups,     \
                             bias)                                                                 \
  VRAM__NET_CONV(net##_##y, net##_##x, #y, "CONV2D_FULL", VRAM__NET_SCRATCH_CONV2D, padding,       \
                 out_channels, kh, kw, sh, sw, dh, dw, groups, bias)
/* y [n, h, w, c * multiplier] */
#define VRAM_NET_DEPTHWISE_CONV2D(net, y, x, multiplier, kh, kw, sh, sw, padding, bias)            \
  VRAM__NET_CONV(net##_##y, net##_##x, #y, "DEPTHWISE_CONV2D", VRAM__NET_SCRATCH_DEPTHWISE_CONV2D, \
                 padding, VRAM_U(1) * net##_##x##_c * (multiplier), kh, kw, sh, sw, 1, 1,          \
                 0 + net##_##x##_c, bias)
#define VRAM_NET_DEPTHWISE_CONV2D_FULL(net, y, x, multiplier, kh, kw, sh, sw, dh, dw, padding,     \
                                       bias)                                                       \
  VRAM__NET_CONV(net##_##y, net##_##x, #y, "DEPTHWISE_CONV2D_FULL",                                \
                 VRAM__NET_SCRATCH_DEPTHWISE_CONV2D, padding,                                      \
                 VRAM_U(1) * net##_##x##_c * (multiplier), kh, kw, sh, sw, dh, dw,                 \
                 0 + net##_##x##_c, bias)
#define VRAM__NET_CONV(q, p, name, op, scratch, padding, ...)                                      \
  VRAM__NET_CONV_(q, p, name, op, scratch, __VA_ARGS__, VRAM__PADDING_##padding, VRAM__NO_PADDING)
#define VRAM__NET_CONV_(...) VRAM__NET_CONV__(__VA_ARGS__)
#define VRAM__NET_CONV__(q, p, name, op, scratch, oc, kh, kw, sh, sw, dh, dw, groups, bias, word,  \
                         kind, ph, pw, ...)                                                        \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op,                                                                              \
      VRAM__ALL(q##_padding = word, VRAM__NET_WINDOW(q, p, kind, kh, kw, sh, sw, dh, dw, ph, pw),  \
                q##_c = (oc) | 0, q##_groups = (groups) | 0, q##_bias = (bias) | 0,                \
                q##_divides = q##_groups > 0 && p##_c % (q##_groups > 0 ? q##_groups : 1) == 0 &&  \
                              q##_c % (q##_groups > 0 ? q##_groups : 1) == 0,                      \
                VRAM__E(q##_window,                                                                \
                        VRAM_U(1) * p##_c / (q##_divides ? q##_groups : 1) * q##_kh * q##_kw),     \
                VRAM__E(q##_h_before,                                                              \
                        VRAM__BEFORE_##kind(p##_h, q##_h, q##_kh, q##_sh, q##_ph, q##_dh)),        \
                VRAM__E(q##_w_before,                                                              \
                        VRAM__BEFORE_##kind(p##_w, q##_w, q##_kw, q##_sw, q##_pw, q##_dw))),       \
      VRAM__NET_CHECK_WINDOW(q, q)                                                                 \
          VRAM__NET_ASSERT(q, q##_divides, q##_groups_do_not_divide_the_channels);                 \
      VRAM__NET_CHECK_KIND(q, kind) VRAM__NET_CHECK_WEIGHTS(p, q, _bias)                           \
          VRAM__NET_CHECK_MATRIX(q, VRAM__V(q##_window) + q##_bias) VRAM__NET_CHECK_SHAPE(q),      \
      VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                            \
                VRAM__NET_COUNT_WEIGHTS(q, p, VRAM__V(q##_window) * q##_c,                         \
                                        VRAM_U(1) * q##_bias * q##_c, VRAM__NET_PAIRS(p, q##_c),   \
                                        VRAM__V(q##_window) * VRAM__NET_ELEMS(q),                  \
                                        scratch(q, p, kind)),                                      \
                VRAM__NET_NEW(q, p)))
/* scratch of CMSIS-NN's kernels; 0 for what they do not cover */
#define VRAM__NET_SCRATCH_NONE(q, p, kind) VRAM_U(0)
#define VRAM__NET_SCRATCH_CONV2D(q, p, kind)                                                       \
  VRAM_CMSIS_CONV2D_BYTES(q##_kernels, p##_a_bits, p##_w_bits, p##_h, p##_w, p##_c, q##_kh,        \
                          q##_kw, q##_sh, q##_sw, q##_dh, q##_dw, VRAM__V(q##_h_before),           \
                          VRAM__V(q##_w_before), q##_groups)
#define VRAM__NET_SCRATCH_DEPTHWISE_CONV2D(q, p, kind)                                             \
  VRAM_CMSIS_DEPTHWISE_CONV2D_BYTES(q##_kernels, p##_a_bits, p##_w_bits, q##_n, p##_h, p##_w,      \
                                    p##_c, q##_c, q##_kh, q##_kw, q##_sw, q##_dh, q##_dw,          \
                                    VRAM__V(q##_h_before), VRAM__V(q##_w_before))
#define VRAM__NET_SCRATCH_CONV_TRANSPOSE2D(q, p, kind)                                             \
  VRAM_CMSIS_CONV_TRANSPOSE2D_BYTES(q##_kernels, p##_a_bits, p##_w_bits, p##_w, p##_c, q##_c,      \
                                    q##_kh, q##_kw, q##_sh, q##_sw)
#define VRAM__NET_SCRATCH_LINEAR(q, p)                                                             \
  VRAM_CMSIS_LINEAR_BYTES(q##_kernels, p##_a_bits, p##_w_bits, q##_c)
#define VRAM__NET_SCRATCH_AVG_POOL2D(q, p, kind)                                                   \
  VRAM_CMSIS_AVG_POOL2D_BYTES(q##_kernels, p##_a_bits, p##_w_bits, p##_c)
/* pairs of multiplier and shift: for one matrix of so many outputs, of a convolution */
#define VRAM__NET_PAIRS(p, outputs)                                                                \
  (p##_scales >= 2 ? VRAM_U(1) * (outputs) : VRAM_U(0) + p##_scales)
#define VRAM__NET_WINDOW(q, p, kind, kh, kw, sh, sw, dh, dw, ph, pw)                               \
  VRAM__NET_GEOMETRY(q, p, kh, kw, sh, sw, dh, dw, ph, pw),                                        \
      q##_fits = q##_sized && VRAM__FITS_##kind(p##_h, q##_kh, q##_sh, q##_ph, q##_dh) &&          \
                 VRAM__FITS_##kind(p##_w, q##_kw, q##_sw, q##_pw, q##_dw),                         \
      q##_h = q##_fits                                                                             \
                  ? VRAM__SIZE_##kind(p##_h, q##_kh, (q##_sh != 0 ? q##_sh : 1), q##_ph, q##_dh)   \
                  : VRAM_U(1),                                                                     \
      q##_w = q##_fits                                                                             \
                  ? VRAM__SIZE_##kind(p##_w, q##_kw, (q##_sw != 0 ? q##_sw : 1), q##_pw, q##_dw)   \
                  : VRAM_U(1)
#define VRAM__NET_GEOMETRY(q, p, kh, kw, sh, sw, dh, dw, ph, pw)                                   \
  q##_kh = (kh) | 0, q##_kw = (kw) | 0, q##_sh = (sh) | 0, q##_sw = (sw) | 0, q##_dh = (dh) | 0,   \
  q##_dw = (dw) | 0, q##_ph = (ph) | 0, q##_pw = (pw) | 0,                                         \
  q##_sized = VRAM__NET_SIZE_OK(q##_kh) && VRAM__NET_SIZE_OK(q##_kw) &&                            \
              VRAM__NET_SIZE_OK(q##_sh) && VRAM__NET_SIZE_OK(q##_sw) &&                            \
              VRAM__NET_SIZE_OK(q##_dh) && VRAM__NET_SIZE_OK(q##_dw) &&                            \
              VRAM__NET_SIZE_OK(q##_ph + VRAM_U(1)) && VRAM__NET_SIZE_OK(q##_pw + VRAM_U(1))
/* convolutions have no ceil_mode */
#define VRAM__NET_CHECK_KIND(q, kind)                                                              \
  VRAM__NET_ASSERT(q, VRAM__CONV_##kind, q##_has_a_padding_that_is_for_pools);
#define VRAM__CONV_vram_s 1
#define VRAM__CONV_vram_p 1
#define VRAM__CONV_vram_c 0
#define VRAM__NET_CHECK_WINDOW(q, w)                                                               \
  VRAM__NET_ASSERT(q, w##_sized, w##_has_a_kernel_stride_or_padding_that_is_not_1_to_32767);       \
  VRAM__NET_ASSERT(q, !w##_sized || w##_fits, w##_kernel_is_larger_than_its_padded_input);
#define VRAM__NET_CHECK_MATRIX(q, inputs)                                                          \
  VRAM__NET_ASSERT(q, VRAM_U(1) * q##_c <= VRAM__NET_MAX / VRAM_U(8) / ((inputs) + VRAM_U(1)),     \
                   q##_has_too_many_weights);
/* size: (in - 1) stride + kernel - 2 padding + output_padding; SAME: in * stride, and none of that
 */
#define VRAM_NET_CONV_TRANSPOSE2D(net, y, x, out_channels, kh, kw, sh, sw, padding,                \
                                  output_padding_h, output_padding_w, bias)                        \
  VRAM__NET_CONV_TRANSPOSE(net##_##y, net##_##x, #y, padding, out_channels, kh, kw, sh, sw,        \
                           output_padding_h, output_padding_w, bias)
#define VRAM__NET_CONV_TRANSPOSE(q, p, name, padding, ...)                                         \
  VRAM__NET_CONV_TRANSPOSE_(q, p, name, __VA_ARGS__, VRAM__PADDING_##padding, VRAM__NO_PADDING)
#define VRAM__NET_CONV_TRANSPOSE_(...) VRAM__NET_CONV_TRANSPOSE__(__VA_ARGS__)
#define VRAM__NET_CONV_TRANSPOSE__(q, p, name, oc, kh, kw, sh, sw, oph, opw, bias, word, kind, ph, \
                                   pw, ...)                                                        \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "CONV_TRANSPOSE2D",                                                              \
      VRAM__ALL(q##_padding = word, VRAM__NET_GEOMETRY(q, p, kh, kw, sh, sw, 1, 1, ph, pw),        \
                q##_oph = (oph) | 0, q##_opw = (opw) | 0, q##_c = (oc) | 0, q##_bias = (bias) | 0, \
                q##_fits =                                                                         \
                    q##_sized &&                                                                   \
                    VRAM__LARGER_##kind(p##_h, q##_kh, q##_sh, q##_ph, q##_oph) > VRAM_U(0) &&     \
                    VRAM__LARGER_##kind(p##_w, q##_kw, q##_sw, q##_pw, q##_opw) > VRAM_U(0),       \
                q##_h = q##_fits ? VRAM__LARGER_##kind(p##_h, q##_kh, q##_sh, q##_ph, q##_oph)     \
                                 : VRAM_U(1),                                                      \
                q##_w = q##_fits ? VRAM__LARGER_##kind(p##_w, q##_kw, q##_sw, q##_pw, q##_opw)     \
                                 : VRAM_U(1),                                                      \
                VRAM__E(q##_window, VRAM_U(1) * p##_c * q##_kh * q##_kw)),                         \
      VRAM__NET_ASSERT(q,                                                                          \
                       q##_sized &&VRAM__NET_SIZE_OK(q##_oph + VRAM_U(1)) &&                       \
                           VRAM__NET_SIZE_OK(q##_opw + VRAM_U(1)),                                 \
                       q##_has_a_kernel_stride_or_padding_that_is_not_1_to_32767);                 \
      VRAM__NET_ASSERT(q,                                                                          \
                       !q##_sized || (VRAM__EXTRA_##kind(q##_oph, q##_sh) &&                       \
                                      VRAM__EXTRA_##kind(q##_opw, q##_sw)),                        \
                       q##_output_padding_is_not_below_its_stride);                                \
      VRAM__NET_ASSERT(q, !q##_sized || q##_fits, q##_padding_leaves_nothing);                     \
      VRAM__NET_CHECK_KIND(q, kind) VRAM__NET_CHECK_WEIGHTS(p, q, _bias)                           \
          VRAM__NET_CHECK_MATRIX(q, VRAM__V(q##_window) + q##_bias) VRAM__NET_CHECK_SHAPE(q),      \
      VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                            \
                VRAM__NET_COUNT_WEIGHTS(q, p, VRAM__V(q##_window) * q##_c,                         \
                                        VRAM_U(1) * q##_bias * q##_c, VRAM__NET_PAIRS(p, q##_c),   \
                                        VRAM__NET_ELEMS(p) * q##_c * q##_kh * q##_kw,              \
                                        VRAM__NET_SCRATCH_CONV_TRANSPOSE2D(q, p, kind)),           \
                VRAM__NET_NEW(q, p)))
/* output_padding that is possible: it tells which of the sizes that the stride allows is meant */
#define VRAM__EXTRA_vram_s(op, s) ((op) == 0)
#define VRAM__EXTRA_vram_p(op, s) ((op) < (s))
#define VRAM__EXTRA_vram_c(op, s) 1
#define VRAM__LARGER_vram_s(in, k, s, p, op) (VRAM_U(1) * (in) * (s))
#define VRAM__LARGER_vram_c(in, k, s, p, op) VRAM__LARGER_vram_p(in, k, s, p, op)
#define VRAM__LARGER_vram_p(in, k, s, p, op)                                                       \
  ((((in)-VRAM_U(1)) * (s) + (k) + (op)) > VRAM_U(2) * (p)                                         \
       ? (((in)-VRAM_U(1)) * (s) + (k) + (op)) - VRAM_U(2) * (p)                                   \
       : VRAM_U(0))
/* x [n, depth * rows, w, c], its planes one below the other -> y likewise; pd: padding of the depth
   with VALID and PAD, which pad rows and columns */
#define VRAM_NET_CONV3D(net, y, x, depth, out_channels, kd, kh, kw, sd, sh, sw, pd, padding, bias) \
  VRAM__NET_CONV3D(net##_##y, net##_##x, #y, padding, depth, out_channels, kd, kh, kw, sd, sh, sw, \
                   pd, bias)
#define VRAM__NET_CONV3D(q, p, name, padding, ...)                                                 \
  VRAM__NET_CONV3D_(q, p, name, __VA_ARGS__, VRAM__PADDING_##padding, VRAM__NO_PADDING)
#define VRAM__NET_CONV3D_(...) VRAM__NET_CONV3D__(__VA_ARGS__)
#define VRAM__NET_CONV3D__(q, p, name, depth, oc, kd, kh, kw, sd, sh, sw, pd, bias, word, kind,    \
                           ph, pw, ...)                                                            \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "CONV3D",                                                                        \
      VRAM__ALL(                                                                                   \
          q##_padding = word, q##_planes = (depth) | 0, q##_kd = (kd) | 0, q##_sd = (sd) | 0,      \
          q##_pd = (pd) | 0, q##_plane_c = 0 + p##_c, q##_plane_w = 0 + p##_w,                     \
          q##_sized = VRAM__NET_SIZE_OK(q##_planes) && VRAM__NET_SIZE_OK(q##_kd) &&                \
                      VRAM__NET_SIZE_OK(q##_sd) && VRAM__NET_SIZE_OK(q##_pd + VRAM_U(1)),          \
          q##_divides = q##_sized && p##_h % (q##_sized ? q##_planes : 1) == 0,                    \
          q##_plane_h = q##_divides ? p##_h / (q##_sized ? q##_planes : 1) : 0 + p##_h,            \
          VRAM__NET_WINDOW(q##_in, q##_plane, kind, kh, kw, sh, sw, 1, 1, ph, pw),                 \
          q##_fits =                                                                               \
              q##_sized && VRAM__FITS_##kind(q##_planes, q##_kd, q##_sd, q##_pd, 1) ? 1 : 0,       \
          q##_h = q##_in_h * (q##_fits ? VRAM__SIZE_##kind(q##_planes, q##_kd, q##_sd, q##_pd, 1)  \
                                       : VRAM_U(1)),                                               \
          q##_w = 0 + q##_in_w, q##_c = (oc) | 0, q##_bias = (bias) | 0,                           \
          VRAM__E(q##_window, VRAM_U(1) * p##_c * q##_kd * q##_in_kh * q##_in_kw)),                \
      VRAM__NET_ASSERT(q, q##_sized, q##_has_a_kernel_stride_or_padding_that_is_not_1_to_32767);   \
      VRAM__NET_CHECK_WINDOW(q, q##_in)                                                            \
          VRAM__NET_ASSERT(q, !q##_sized || q##_divides, q##_depth_does_not_divide_its_rows);      \
      VRAM__NET_ASSERT(q, !q##_sized || q##_fits, q##_kernel_is_larger_than_its_padded_input);     \
      VRAM__NET_ASSERT(q, VRAM__DEPTH_##kind(q##_pd), q##_has_a_padding_of_its_depth_with_SAME);   \
      VRAM__NET_CHECK_KIND(q, kind) VRAM__NET_CHECK_WEIGHTS(p, q, _bias)                           \
          VRAM__NET_CHECK_MATRIX(q, VRAM__V(q##_window) + q##_bias) VRAM__NET_CHECK_SHAPE(q),      \
      VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                            \
                VRAM__NET_COUNT_WEIGHTS(q, p, VRAM__V(q##_window) * q##_c,                         \
                                        VRAM_U(1) * q##_bias * q##_c, VRAM__NET_PAIRS(p, q##_c),   \
                                        VRAM__V(q##_window) * VRAM__NET_ELEMS(q), VRAM_U(0)),      \
                VRAM__NET_NEW(q, p)))
#define VRAM__DEPTH_vram_s(pd) ((pd) == 0)
#define VRAM__DEPTH_vram_p(pd) 1
#define VRAM__DEPTH_vram_c(pd) 1
/* y [n, h, w, out_features]: on the last axis */
#define VRAM_NET_LINEAR(net, y, x, out_features, bias)                                             \
  VRAM__NET_LINEAR(net##_##y, net##_##x, #y, out_features, bias)
#define VRAM__NET_LINEAR(q, p, name, out_features, bias_)                                          \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "LINEAR",                                                                        \
      VRAM__ALL(q##_h = 0 + p##_h, q##_w = 0 + p##_w, q##_c = (out_features) | 0,                  \
                q##_bias = (bias_) | 0),                                                           \
      VRAM__NET_CHECK_WEIGHTS(p, q, _bias) VRAM__NET_CHECK_MATRIX(q, VRAM_U(1) * p##_c + q##_bias) \
          VRAM__NET_CHECK_SHAPE(q),                                                                \
      VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                            \
                VRAM__NET_COUNT_WEIGHTS(                                                           \
                    q, p, VRAM_U(1) * p##_c * q##_c, VRAM_U(1) * q##_bias * q##_c,                 \
                    (p##_scales == 3 ? VRAM_U(1) * q##_c : VRAM_U(0) + (p##_scales > 0)),          \
                    VRAM_U(1) * p##_c * VRAM__NET_ELEMS(q), VRAM__NET_SCRATCH_LINEAR(q, p)),       \
                VRAM__NET_NEW(q, p)))

#define VRAM_NET_MAX_POOL2D(net, y, x, kh, kw, sh, sw, padding)                                    \
  VRAM__NET_POOL(net##_##y, net##_##x, #y, "MAX_POOL2D", VRAM__NET_SCRATCH_NONE, padding, kh, kw,  \
                 sh, sw)
#define VRAM_NET_AVG_POOL2D(net, y, x, kh, kw, sh, sw, padding)                                    \
  VRAM__NET_POOL(net##_##y, net##_##x, #y, "AVG_POOL2D", VRAM__NET_SCRATCH_AVG_POOL2D, padding,    \
                 kh, kw, sh, sw)
#define VRAM__NET_POOL(q, p, name, op, scratch, padding, ...)                                      \
  VRAM__NET_POOL_(q, p, name, op, scratch, __VA_ARGS__, VRAM__PADDING_##padding, VRAM__NO_PADDING)
#define VRAM__NET_POOL_(...) VRAM__NET_POOL__(__VA_ARGS__)
#define VRAM__NET_POOL__(q, p, name, op, scratch, kh, kw, sh, sw, word, kind, ph, pw, ...)         \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op,                                                                              \
      VRAM__ALL(q##_padding = word, VRAM__NET_WINDOW(q, p, kind, kh, kw, sh, sw, 1, 1, ph, pw),    \
                q##_c = 0 + p##_c, q##_bias = 0),                                                  \
      VRAM__NET_CHECK_WINDOW(q, q) VRAM__NET_ASSERT(                                               \
          q, !q##_sized || (VRAM_U(2) * q##_ph <= q##_kh && VRAM_U(2) * q##_pw <= q##_kw),         \
          q##_padding_is_more_than_half_its_kernel);                                               \
      VRAM__NET_CHECK_SHAPE(q),                                                                    \
      VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_SCRATCH(q, p, scratch(q, p, kind)),        \
                VRAM__NET_NEW(q, p)))
/* y [n, 1, 1, c]; TFLite's MEAN, which needs no scratch */
#define VRAM_NET_GLOBAL_AVG_POOL2D(net, y, x)                                                      \
  VRAM__NET_TO(net##_##y, net##_##x, #y, "GLOBAL_AVG_POOL2D", VRAM__NET_SCRATCH_NONE, 1, 1,        \
               0 + net##_##x##_c)
#define VRAM_NET_GLOBAL_MAX_POOL2D(net, y, x)                                                      \
  VRAM__NET_TO(net##_##y, net##_##x, #y, "GLOBAL_MAX_POOL2D", VRAM__NET_SCRATCH_NONE, 1, 1,        \
               0 + net##_##x##_c)
#define VRAM_NET_UPSAMPLE2D(net, y, x, factor_h, factor_w)                                         \
  VRAM__NET_TO(net##_##y, net##_##x, #y, "UPSAMPLE2D", VRAM__NET_SCRATCH_NONE,                     \
               VRAM_U(1) * net##_##x##_h * (factor_h), VRAM_U(1) * net##_##x##_w * (factor_w),     \
               0 + net##_##x##_c)
#define VRAM__NET_TO(q, p, name, op, scratch, h, w, c)                                             \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op, VRAM__ALL(q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0, q##_bias = 0),  \
      VRAM__NET_CHECK_SHAPE(q),                                                                    \
      VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_SCRATCH(q, p, scratch(q, p, vram_p)),      \
                VRAM__NET_NEW(q, p)))
/* zeros around: y [n, top + h + bottom, left + w + right, c] */
#define VRAM_NET_PAD(net, y, x, top, bottom, left, right)                                          \
  VRAM__NET_PAD(net##_##y, net##_##x, #y, top, bottom, left, right)
#define VRAM__NET_PAD(q, p, name, top, bottom, left, right)                                        \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "PAD",                                                                           \
      VRAM__ALL(                                                                                   \
          q##_above = (top) | 0, q##_below = (bottom) | 0, q##_left = (left) | 0,                  \
          q##_right = (right) | 0,                                                                 \
          q##_sized = VRAM__NET_SIZE_OK(q##_above + VRAM_U(1)) &&                                  \
                      VRAM__NET_SIZE_OK(q##_below + VRAM_U(1)) &&                                  \
                      VRAM__NET_SIZE_OK(q##_left + VRAM_U(1)) &&                                   \
                      VRAM__NET_SIZE_OK(q##_right + VRAM_U(1)),                                    \
          q##_h = VRAM_U(1) * p##_h + (q##_sized ? VRAM_U(0) + q##_above + q##_below : VRAM_U(0)), \
          q##_w = VRAM_U(1) * p##_w + (q##_sized ? VRAM_U(0) + q##_left + q##_right : VRAM_U(0)),  \
          q##_c = 0 + p##_c, q##_bias = 0),                                                        \
      VRAM__NET_ASSERT(q, q##_sized, q##_has_a_padding_that_is_negative_or_too_large);             \
      VRAM__NET_CHECK_SHAPE(q),                                                                    \
      VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p), VRAM__NET_NEW(q, p)))
/* a copy of a part of that shape */
#define VRAM_NET_SLICE(net, y, x, h, w, c) VRAM__NET_SLICE(net##_##y, net##_##x, #y, h, w, c)
#define VRAM__NET_SLICE(q, p, name, h, w, c)                                                       \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "SLICE",                                                                         \
      VRAM__ALL(q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0, q##_bias = 0),                  \
      VRAM__NET_CHECK_SHAPE(q) VRAM__NET_ASSERT(                                                   \
          q,                                                                                       \
          VRAM_U(0) + q##_h <= p##_h && VRAM_U(0) + q##_w <= p##_w && VRAM_U(0) + q##_c <= p##_c,  \
          q##_is_larger_than_its_input);                                                           \
      , VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p), VRAM__NET_NEW(q, p)))
/* the same bytes in another shape; TRANSPOSE: a copy in another order */
#define VRAM_NET_RESHAPE(net, y, x, h, w, c)                                                       \
  VRAM__NET_RESHAPE(net##_##y, net##_##x, #y, "RESHAPE", VIEW, h, w, c)
#define VRAM_NET_FLATTEN(net, y, x)                                                                \
  VRAM__NET_RESHAPE(net##_##y, net##_##x, #y, "FLATTEN", VIEW, 1, 1,                               \
                    VRAM_U(1) * net##_##x##_h * net##_##x##_w * net##_##x##_c)
#define VRAM_NET_TRANSPOSE(net, y, x, h, w, c)                                                     \
  VRAM__NET_RESHAPE(net##_##y, net##_##x, #y, "TRANSPOSE", NEW, h, w, c)
#define VRAM__NET_RESHAPE(q, p, name, op, where, h, w, c)                                          \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op, VRAM__ALL(q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0, q##_bias = 0),  \
      VRAM__NET_CHECK_SHAPE(q) VRAM__NET_CHECK_ELEMS(p, q),                                        \
      VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p), VRAM__NET_##where(q, p)))

/* Element by element: into a new tensor, or _INPLACE. _FUSED and _FOLDED: part of the line before,
   which has a bias then. ACTIVATION_TABLE: in place, by a table of so many bytes in flash. */
#define VRAM_NET_ACTIVATION(net, y, x)                                                             \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "ACTIVATION", NEW, 0, 0)
#define VRAM_NET_ACTIVATION_INPLACE(net, y, x)                                                     \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "ACTIVATION_INPLACE", OVER, 0, 0)
#define VRAM_NET_ACTIVATION_TABLE(net, y, x, table_bytes)                                          \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "ACTIVATION_TABLE", OVER, 0, table_bytes)
/* Nothing but so many bytes more in flash: zero points, the tables of a softmax (CMSIS-NN's of
   int16: two of 513 entries of 16 bits; of int8: a multiplier, a shift and a least difference, 12
   bytes). */
#define VRAM_NET_CONSTANTS(net, y, x, table_bytes)                                                 \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "CONSTANTS", VIEW, 0, table_bytes)
#define VRAM_NET_SOFTMAX(net, y, x) VRAM__NET_EACH(net##_##y, net##_##x, #y, "SOFTMAX", NEW, 0, 0)
#define VRAM_NET_SOFTMAX_INPLACE(net, y, x)                                                        \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "SOFTMAX_INPLACE", OVER, 0, 0)
/* weight, bias, running mean and variance: 4 c parameters; layer norm over c: 2 c, rms norm: c */
#define VRAM_NET_BATCH_NORM(net, y, x)                                                             \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "BATCH_NORM", NEW, 4, 0)
#define VRAM_NET_BATCH_NORM_INPLACE(net, y, x)                                                     \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "BATCH_NORM_INPLACE", OVER, 4, 0)
#define VRAM_NET_LAYER_NORM(net, y, x)                                                             \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "LAYER_NORM", NEW, 2, 0)
#define VRAM_NET_LAYER_NORM_INPLACE(net, y, x)                                                     \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "LAYER_NORM_INPLACE", OVER, 2, 0)
#define VRAM_NET_RMS_NORM(net, y, x) VRAM__NET_EACH(net##_##y, net##_##x, #y, "RMS_NORM", NEW, 1, 0)
#define VRAM_NET_RMS_NORM_INPLACE(net, y, x)                                                       \
  VRAM__NET_EACH(net##_##y, net##_##x, #y, "RMS_NORM_INPLACE", OVER, 1, 0)
#define VRAM__NET_EACH(q, p, name, op, where, each, table)                                         \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op,                                                                              \
      VRAM__ALL(VRAM__NET_SHAPE(q, p), q##_bias = 0, VRAM__E(q##_table, (table) | 0)),             \
      VRAM__NET_CHECK_##where(p, q) VRAM__NET_ASSERT(                                              \
          q, VRAM__NET_AMOUNT_OK(table), q##_has_an_amount_that_is_negative_or_too_large);         \
      VRAM__NET_ASSERT(q, each == 0 || p##_w_bits > 0, q##_has_weights_but_its_input_is_indices);  \
      , VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                          \
                  VRAM__E(q##_values, VRAM_U(each) * p##_c * VRAM__NET_VALUE(p)),                  \
                  VRAM__NET_COUNT(q, p, VRAM_U(each) * p##_c, VRAM_U(0),                           \
                                  VRAM__V(q##_values) + VRAM__V(q##_table),                        \
                                  VRAM__NET_FLASH(p, VRAM__V(q##_values)) +                        \
                                      VRAM__NET_FLASH(p, VRAM__V(q##_table)),                      \
                                  VRAM_U(0), VRAM_U(0)),                                           \
                  VRAM__NET_##where(q, p)))
/* bytes of a parameter of a norm: of a bias with integers, of a weight with floats */
#define VRAM__NET_VALUE(p) (p##_scales > 0 ? VRAM_U(0) + p##_bias_each : p##_w_bits / VRAM_U(8))
#define VRAM__NET_CHECK_NEW(p, q)
#define VRAM__NET_CHECK_VIEW(p, q)
#define VRAM__NET_OVER(q, p) VRAM__NET_SAME(q, p, 0)
#define VRAM__NET_VIEW(q, p) VRAM__NET_SAME(q, p, p##_held)
#define VRAM_NET_ACTIVATION_FUSED(net, y, x)                                                       \
  VRAM__NET_PART(net##_##y, net##_##x, #y, "ACTIVATION_FUSED", 1)
#define VRAM_NET_BATCH_NORM_FOLDED(net, y, x)                                                      \
  VRAM__NET_PART(net##_##y, net##_##x, #y, "BATCH_NORM_FOLDED", net##_##x##_bias)
#define VRAM__NET_PART(q, p, name, op, possible)                                                   \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op, VRAM__ALL(VRAM__NET_SHAPE(q, p), q##_bias = 0 + p##_bias),                   \
      VRAM__NET_CHECK_OVER(p, q)                                                                   \
          VRAM__NET_ASSERT(q, possible == 1, q##_has_no_bias_before_it_to_be_folded_into);         \
      , VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p), VRAM__NET_OVER(q, p)))

/* another input, in a format of its own: x is kept, and nothing else was written before it */
#define VRAM_NET_INPUT(net, y, x, format, h, w, c)                                                 \
  VRAM__NET_INPUT(net##_##y, net##_##x, #y, format, h, w, c)
#define VRAM__NET_INPUT(q, p, name, format, h, w, c)                                               \
  VRAM__NET_INPUT_(q, p, name, h, w, c, VRAM__FORMAT_##format, VRAM__NO_FORMAT)
#define VRAM__NET_INPUT_(...) VRAM__NET_INPUT__(__VA_ARGS__)
#define VRAM__NET_INPUT__(q, p, name, h, w, c, word, a_bits, w_bits, bias_each, scales, ...)       \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(q, p, name, "INPUT",                                                               \
                VRAM__ALL(q##_format = word, q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0,    \
                          q##_bias = 0),                                                           \
                VRAM__NET_ASSERT(q, VRAM__V(p##_live_peak) == VRAM__V(p##_kept),                   \
                                 q##_is_an_input_behind_a_value_that_is_not_kept);                 \
                VRAM__NET_CHECK_SHAPE(q),                                                          \
                VRAM__ALL(q##_a_bits = a_bits, q##_w_bits = w_bits, q##_bias_each = bias_each,     \
                          q##_scales = scales, VRAM__NET_COUNT_NONE(q, p), VRAM__NET_NEW(q, p)))

/* KEEP: x stays until one line takes y. OUTPUT: to the end. FROM: y is the value that was kept. */
#define VRAM_NET_KEEP(net, y, x) VRAM__NET_KEEP(net##_##y, net##_##x, #y, "KEEP", 1, 1)
#define VRAM_NET_OUTPUT(net, y, x) VRAM__NET_KEEP(net##_##y, net##_##x, #y, "OUTPUT", 2, 0)
#define VRAM__NET_KEEP(q, p, name, op, held_, open_)                                               \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(q, p, name, op, VRAM__NET_PLAIN(q, p),                                             \
                VRAM__NET_ASSERT(q, p##_held == 0 || (open_ && p##_held == 2),                     \
                                 q##_keeps_a_value_that_is_kept);                                  \
                VRAM__NET_NAMED(q##_is_no_kept_value);                                             \
                , VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p),                    \
                            VRAM__NET_KEPT(q, p, held_, open_)))
#define VRAM_NET_FROM(net, y, x, kept) VRAM__NET_FROM(net##_##y, net##_##x, #y, net##_##kept)
#define VRAM__NET_FROM(q, p, name, k)                                                              \
  VRAM__NET_TAKES(q, k)                                                                            \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "FROM", VRAM__NET_PLAIN(q, k), ,                                                 \
      VRAM__ALL(VRAM__NET_FORMAT(q, k), VRAM__NET_COUNT_NONE(q, p), VRAM__NET_BACK(q, p, k)))
/* x and a kept value; every axis is equal in both or 1 in one; in place: over x */
#define VRAM_NET_ADD(net, y, x, kept)                                                              \
  VRAM__NET_BOTH(net##_##y, net##_##x, #y, "ADD", NEW, net##_##kept)
#define VRAM_NET_ADD_INPLACE(net, y, x, kept)                                                      \
  VRAM__NET_BOTH(net##_##y, net##_##x, #y, "ADD_INPLACE", OVER, net##_##kept)
#define VRAM_NET_MUL(net, y, x, kept)                                                              \
  VRAM__NET_BOTH(net##_##y, net##_##x, #y, "MUL", NEW, net##_##kept)
#define VRAM_NET_MUL_INPLACE(net, y, x, kept)                                                      \
  VRAM__NET_BOTH(net##_##y, net##_##x, #y, "MUL_INPLACE", OVER, net##_##kept)
#define VRAM__NET_AXIS(q, p, k, axis) q##axis = p##axis == 1 ? 0 + k##axis : 0 + p##axis
#define VRAM__NET_AXIS_OK(p, k, axis)                                                              \
  (VRAM_U(0) + p##axis == VRAM_U(0) + k##axis || p##axis == 1 || k##axis == 1)
#define VRAM__NET_BOTH(q, p, name, op, where, k)                                                   \
  VRAM__NET_TAKES(q, k)                                                                            \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(q, p, name, op,                                                                    \
                VRAM__ALL(VRAM__NET_AXIS(q, p, k, _h), VRAM__NET_AXIS(q, p, k, _w),                \
                          VRAM__NET_AXIS(q, p, k, _c), q##_bias = 0),                              \
                VRAM__NET_ASSERT(q,                                                                \
                                 VRAM__NET_AXIS_OK(p, k, _h) && VRAM__NET_AXIS_OK(p, k, _w) &&     \
                                     VRAM__NET_AXIS_OK(p, k, _c),                                  \
                                 q##_input_and_##k##_differ_in_shape);                             \
                VRAM__NET_CHECK_DTYPE(p, q, k) VRAM__NET_CHECK_SHAPE(q)                            \
                    VRAM__NET_CHECK_BOTH_##where(p, q),                                            \
                VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p),                      \
                          VRAM__NET_##where##1(q, p, k)))
#define VRAM__NET_CHECK_BOTH_NEW(p, q)
#define VRAM__NET_CHECK_BOTH_OVER(p, q)                                                            \
  VRAM__NET_CHECK_OVER(p, q)                                                                       \
  VRAM__NET_ASSERT(q,                                                                              \
                   VRAM_U(0) + q##_h == VRAM_U(0) + p##_h &&                                       \
                       VRAM_U(0) + q##_w == VRAM_U(0) + p##_w &&                                   \
                       VRAM_U(0) + q##_c == VRAM_U(0) + p##_c,                                     \
                   q##_is_larger_than_what_it_overwrites);
/* x and kept values along c */
#define VRAM_NET_CONCAT(net, y, x, kept) VRAM__NET_CONCAT(net##_##y, net##_##x, #y, net##_##kept)
#define VRAM_NET_CONCAT3(net, y, x, kept, kept2)                                                   \
  VRAM__NET_CONCAT3(net##_##y, net##_##x, #y, net##_##kept, net##_##kept2)
#define VRAM_NET_CONCAT4(net, y, x, kept, kept2, kept3)                                            \
  VRAM__NET_CONCAT4(net##_##y, net##_##x, #y, net##_##kept, net##_##kept2, net##_##kept3)
#define VRAM__NET_CHECK_SIDES(p, q, k)                                                             \
  VRAM__NET_ASSERT(                                                                                \
      q, VRAM_U(0) + p##_h == VRAM_U(0) + k##_h && VRAM_U(0) + p##_w == VRAM_U(0) + k##_w,         \
      q##_input_and_##k##_differ_in_shape);                                                        \
  VRAM__NET_CHECK_DTYPE(p, q, k)
#define VRAM__NET_JOIN(q, p, name, op, channels, checks, memory)                                   \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(q, p, name, op,                                                                    \
                VRAM__ALL(q##_h = 0 + p##_h, q##_w = 0 + p##_w, q##_c = channels, q##_bias = 0),   \
                checks VRAM__NET_CHECK_SHAPE(q),                                                   \
                VRAM__ALL(VRAM__NET_FORMAT(q, p), VRAM__NET_COUNT_NONE(q, p), memory))
#define VRAM__NET_CONCAT(q, p, name, k)                                                            \
  VRAM__NET_TAKES(q, k)                                                                            \
  VRAM__NET_JOIN(q, p, name, "CONCAT", VRAM_U(0) + p##_c + k##_c, VRAM__NET_CHECK_SIDES(p, q, k),  \
                 VRAM__NET_NEW1(q, p, k))
#define VRAM__NET_CONCAT3(q, p, name, k, k2)                                                       \
  VRAM__NET_TAKES(q, k)                                                                            \
  VRAM__NET_TAKES(q##__a, k2)                                                                      \
  VRAM__NET_JOIN(q, p, name, "CONCAT3", VRAM_U(0) + p##_c + k##_c + k2##_c,                        \
                 VRAM__NET_CHECK_SIDES(p, q, k) VRAM__NET_CHECK_SIDES(p, q, k2),                   \
                 VRAM__NET_NEW2(q, p, k, k2))
#define VRAM__NET_CONCAT4(q, p, name, k, k2, k3)                                                   \
  VRAM__NET_TAKES(q, k)                                                                            \
  VRAM__NET_TAKES(q##__a, k2)                                                                      \
  VRAM__NET_TAKES(q##__b, k3)                                                                      \
  VRAM__NET_JOIN(q, p, name, "CONCAT4", VRAM_U(0) + p##_c + k##_c + k2##_c + k3##_c,               \
                 VRAM__NET_CHECK_SIDES(p, q, k) VRAM__NET_CHECK_SIDES(p, q, k2)                    \
                     VRAM__NET_CHECK_SIDES(p, q, k3),                                              \
                 VRAM__NET_NEW3(q, p, k, k2, k3))

/* x [n, steps, 1, c] -> y [n, steps, 1, hidden_size], with sequence = 0 [n, 1, 1, hidden_size].
   biases: vectors for each gate, 1 (TFLite, Keras), 2 (PyTorch) or 0. The state (LSTM: of 16 bits
   for c with integer formats) stays between calls; scratch: a buffer for each gate, at least 16
   bits wide. Pairs: 2 for each gate. _BIDIRECTIONAL: weights and states for each way, one after the
   other; y [n, steps, 1, 2 hidden_size]. */
#define VRAM_NET_LSTM(net, y, x, hidden_size, biases, sequence)                                    \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "LSTM", 4, 1, 1, hidden_size, biases, sequence)
#define VRAM_NET_LSTM_BIDIRECTIONAL(net, y, x, hidden_size, biases, sequence)                      \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "LSTM_BIDIRECTIONAL", 4, 1, 2, hidden_size, biases,      \
                sequence)
#define VRAM_NET_GRU(net, y, x, hidden_size, biases, sequence)                                     \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "GRU", 3, 0, 1, hidden_size, biases, sequence)
#define VRAM_NET_GRU_BIDIRECTIONAL(net, y, x, hidden_size, biases, sequence)                       \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "GRU_BIDIRECTIONAL", 3, 0, 2, hidden_size, biases,       \
                sequence)
#define VRAM_NET_RNN(net, y, x, hidden_size, biases, sequence)                                     \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "RNN", 1, 0, 1, hidden_size, biases, sequence)
#define VRAM_NET_RNN_BIDIRECTIONAL(net, y, x, hidden_size, biases, sequence)                       \
  VRAM__NET_RNN(net##_##y, net##_##x, #y, "RNN_BIDIRECTIONAL", 1, 0, 2, hidden_size, biases,       \
                sequence)
#define VRAM__NET_RNN(q, p, name, op, gates, cell, ways, hidden_size, biases, sequence)            \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op,                                                                              \
      VRAM__ALL(q##_hidden = (hidden_size) | 0, q##_c = VRAM_U(ways) * q##_hidden,                 \
                q##_biases = (biases) | 0, q##_sequence = (sequence) | 0,                          \
                q##_h = q##_sequence != 0 ? 0 + p##_h : 1, q##_w = 1, q##_bias = 0),               \
      VRAM__NET_CHECK_WIDTH1(p, q) VRAM__NET_ASSERT(                                               \
          q, q##_biases >= 0 && q##_biases <= 2 && (q##_sequence == 0 || q##_sequence == 1),       \
          q##_has_biases_that_are_not_0_to_2_or_a_sequence_that_is_not_0_or_1);                    \
      VRAM__NET_CHECK_WEIGHTS(p, q, _bias) VRAM__NET_CHECK_SHAPE(q)                                \
          VRAM__NET_CHECK_MATRIX(q, VRAM_U(gates) * (VRAM_U(2) + p##_c + q##_hidden)),             \
      VRAM__ALL(                                                                                   \
          VRAM__NET_FORMAT(q, p),                                                                  \
          VRAM__E(q##_weights_ih, VRAM__NET_BITS(VRAM_U(gates) * p##_c * q##_hidden, p##_w_bits)), \
          VRAM__E(q##_weights_hh,                                                                  \
                  VRAM__NET_BITS(VRAM_U(gates) * q##_hidden * q##_hidden, p##_w_bits)),            \
          VRAM__E(q##_nbiases, VRAM_U(gates) * q##_biases * q##_hidden),                           \
          VRAM__NET_COUNT(                                                                         \
              q, p,                                                                                \
              VRAM_U(ways) * (VRAM_U(gates) * q##_hidden * (VRAM_U(1) * p##_c + q##_hidden) +      \
                              VRAM__V(q##_nbiases)),                                               \
              VRAM_U(ways) * gates * q##_n * p##_h * q##_hidden *                                  \
                  (VRAM_U(1) * p##_c + q##_hidden),                                                \
              VRAM_U(ways) *                                                                       \
                  (VRAM__V(q##_weights_ih) + VRAM__V(q##_weights_hh) +                             \
                   VRAM__V(q##_nbiases) * p##_bias_each + VRAM_U(16) * (p##_scales > 0) * gates),  \
              VRAM_U(ways) * (VRAM__NET_FLASH(p, VRAM__V(q##_weights_ih)) +                        \
                              VRAM__NET_FLASH(p, VRAM__V(q##_weights_hh)) +                        \
                              VRAM__NET_FLASH(p, VRAM__V(q##_nbiases) * p##_bias_each) +           \
                              VRAM_U(16) * (p##_scales > 0) * gates),                              \
              gates * VRAM_ALIGN_UP(                                                               \
                          VRAM__NET_BITS(VRAM_U(1) * q##_n * q##_hidden,                           \
                                         (p##_a_bits < 16 ? VRAM_U(16) : VRAM_U(0) + p##_a_bits)), \
                          q##_align),                                                              \
              VRAM_U(ways) *                                                                       \
                  (VRAM_ALIGN_UP(VRAM__NET_BITS(VRAM_U(1) * q##_n * q##_hidden, p##_a_bits),       \
                                 q##_align) +                                                      \
                   cell * VRAM_ALIGN_UP(VRAM__NET_BITS(VRAM_U(1) * q##_n * q##_hidden,             \
                                                       (p##_scales > 0 ? VRAM_U(16)                \
                                                                       : VRAM_U(0) + p##_a_bits)), \
                                        q##_align))),                                              \
          VRAM__NET_NEW(q, p)))
/* x [n, tokens, 1, c] -> the same shape: projections to num_heads queries and num_kv_heads keys and
   values of head_dim and back to c. The keys and values of `context` tokens stay between calls.
   Scratch: the queries and the scores. SELF_ATTENTION: of the tokens of this call alone; keys and
   values are scratch, too. */
#define VRAM_NET_ATTENTION(net, y, x, num_heads, num_kv_heads, head_dim, context, bias)            \
  VRAM__NET_ATTENTION(net##_##y, net##_##x, #y, "ATTENTION", 1, num_heads, num_kv_heads, head_dim, \
                      context, bias)
#define VRAM_NET_SELF_ATTENTION(net, y, x, num_heads, num_kv_heads, head_dim, bias)                \
  VRAM__NET_ATTENTION(net##_##y, net##_##x, #y, "SELF_ATTENTION", 0, num_heads, num_kv_heads,      \
                      head_dim, 0 + net##_##x##_h, bias)
#define VRAM__NET_ATTENTION(q, p, name, op, cached, num_heads, num_kv_heads, head_dim, context,    \
                            bias_)                                                                 \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, op,                                                                              \
      VRAM__ALL(VRAM__NET_SHAPE(q, p), q##_heads = (num_heads) | 0,                                \
                q##_groups = (num_kv_heads) | 0, q##_dim = (head_dim) | 0,                         \
                q##_context = (context) | 0, q##_biases = (bias_) | 0, q##_bias = 0,               \
                q##_sized = VRAM__NET_SIZE_OK(q##_heads) && VRAM__NET_SIZE_OK(q##_groups) &&       \
                            VRAM__NET_SIZE_OK(q##_dim) && VRAM__NET_SIZE_OK(q##_context),          \
                q##_divides = q##_sized && q##_heads % (q##_sized ? q##_groups : 1) == 0,          \
                VRAM__E(q##_queries, VRAM_U(1) * q##_heads * q##_dim),                             \
                VRAM__E(q##_keys, VRAM_U(1) * q##_groups * q##_dim)),                              \
      VRAM__NET_CHECK_WIDTH1(p, q)                                                                 \
          VRAM__NET_ASSERT(q, q##_sized, q##_has_heads_or_a_context_that_are_not_1_to_32767);      \
      VRAM__NET_ASSERT(q, !q##_sized || q##_divides, q##_kv_heads_do_not_divide_the_heads);        \
      VRAM__NET_ASSERT(q, VRAM_U(0) + q##_context >= p##_h,                                        \
                       q##_context_is_shorter_than_its_input);                                     \
      VRAM__NET_CHECK_WEIGHTS(p, q, _biases) VRAM__NET_CHECK_MATRIX(                               \
          q, VRAM_U(2) * (VRAM__V(q##_queries) + VRAM__V(q##_keys)))                               \
          VRAM__NET_ASSERT(q,                                                                      \
                           VRAM_U(1) * q##_heads * q##_context <=                                  \
                                   VRAM__NET_MAX / VRAM_U(8) / (VRAM_U(1) * q##_n * p##_h) &&      \
                               VRAM_U(1) * q##_groups * q##_dim <=                                 \
                                   VRAM__NET_MAX / VRAM_U(8) / (VRAM_U(1) * q##_n * q##_context),  \
                           q##_is_too_large);                                                      \
      ,                                                                                            \
      VRAM__ALL(                                                                                   \
          VRAM__NET_FORMAT(q, p),                                                                  \
          VRAM__E(q##_weights_q, VRAM__NET_BITS(VRAM__V(q##_queries) * p##_c, p##_w_bits)),        \
          VRAM__E(q##_weights_k, VRAM__NET_BITS(VRAM__V(q##_keys) * p##_c, p##_w_bits)),           \
          VRAM__E(q##_nbiases, q##_biases                                                          \
                                   ? VRAM__V(q##_queries) + VRAM_U(2) * VRAM__V(q##_keys) + p##_c  \
                                   : VRAM_U(0)),                                                   \
          VRAM__E(q##_cache, VRAM_ALIGN_UP(VRAM__NET_BITS(VRAM_U(2) * q##_n * q##_context *        \
                                                              VRAM__V(q##_keys),                   \
                                                          p##_a_bits),                             \
                                           q##_align)),                                            \
          VRAM__NET_COUNT(                                                                         \
              q, p,                                                                                \
              VRAM_U(2) * p##_c * (VRAM__V(q##_queries) + VRAM__V(q##_keys)) +                     \
                  VRAM__V(q##_nbiases),                                                            \
              VRAM_U(2) * q##_n * p##_h *                                                          \
                  (p##_c * (VRAM__V(q##_queries) + VRAM__V(q##_keys)) +                            \
                   VRAM__V(q##_queries) * q##_context),                                            \
              VRAM_U(2) * (VRAM__V(q##_weights_q) + VRAM__V(q##_weights_k)) +                      \
                  VRAM__V(q##_nbiases) * p##_bias_each + VRAM_U(32) * (p##_scales > 0),            \
              VRAM_U(2) * (VRAM__NET_FLASH(p, VRAM__V(q##_weights_q)) +                            \
                           VRAM__NET_FLASH(p, VRAM__V(q##_weights_k))) +                           \
                  VRAM__NET_FLASH(p, VRAM__V(q##_nbiases) * p##_bias_each) +                       \
                  VRAM_U(32) * (p##_scales > 0),                                                   \
              VRAM_ALIGN_UP(                                                                       \
                  VRAM__NET_BITS(VRAM_U(1) * q##_n * p##_h * VRAM__V(q##_queries), p##_a_bits),    \
                  q##_align) +                                                                     \
                  (1 - cached) * VRAM__V(q##_cache) +                                              \
                  VRAM__NET_BITS(VRAM_U(1) * q##_n * q##_heads * p##_h * q##_context, p##_a_bits), \
              cached * VRAM__V(q##_cache)),                                                        \
          VRAM__NET_NEW(q, p)))
/* x [n, tokens, 1, 1] of indices -> [n, tokens, 1, embedding_dim] in format, which holds from here
 */
#define VRAM_NET_EMBEDDING(net, y, x, format, num_embeddings, embedding_dim)                       \
  VRAM__NET_EMBEDDING(net##_##y, net##_##x, #y, format, num_embeddings, embedding_dim)
#define VRAM__NET_EMBEDDING(q, p, name, format, num, dim)                                          \
  VRAM__NET_EMBEDDING_(q, p, name, num, dim, VRAM__FORMAT_##format, VRAM__NO_FORMAT)
#define VRAM__NET_EMBEDDING_(...) VRAM__NET_EMBEDDING__(__VA_ARGS__)
#define VRAM__NET_EMBEDDING__(q, p, name, num, dim, word, a_bits, w_bits, bias_each, scales, ...)  \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(q, p, name, "EMBEDDING",                                                           \
                VRAM__ALL(q##_h = 0 + p##_h, q##_w = 0 + p##_w, q##_c = (dim) | 0,                 \
                          q##_format = word, VRAM__E(q##_rows, num), q##_bias = 0),                \
                VRAM__NET_ASSERT(q, p##_w_bits == 0 && q##_w_bits > 0 && p##_c == 1,               \
                                 q##_needs_an_input_of_indices_and_a_format_of_weights);           \
                VRAM__NET_CHECK_SHAPE(q)                                                           \
                    VRAM__NET_ASSERT(q,                                                            \
                                     VRAM__V(q##_rows) > VRAM_U(0) &&                              \
                                         VRAM__V(q##_rows) <= VRAM__NET_MAX / VRAM_U(8) / q##_c,   \
                                     q##_has_no_or_too_many_weights);                              \
                , VRAM__ALL(q##_a_bits = a_bits, q##_w_bits = w_bits, q##_bias_each = bias_each,   \
                            q##_scales = scales,                                                   \
                            VRAM__NET_COUNT_WEIGHTS(q, p, VRAM__V(q##_rows) * q##_c, VRAM_U(0),    \
                                                    VRAM_U(0), VRAM_U(0), VRAM_U(0)),              \
                            VRAM__NET_NEW(q, p)))
/* a copy in another format, which holds from here */
#define VRAM_NET_QUANTIZE(net, y, x, format) VRAM__NET_QUANTIZE(net##_##y, net##_##x, #y, format)
#define VRAM__NET_QUANTIZE(q, p, name, format)                                                     \
  VRAM__NET_QUANTIZE_(q, p, name, VRAM__FORMAT_##format, VRAM__NO_FORMAT)
#define VRAM__NET_QUANTIZE_(...) VRAM__NET_QUANTIZE__(__VA_ARGS__)
#define VRAM__NET_QUANTIZE__(q, p, name, word, a_bits, w_bits, bias_each, scales, ...)             \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "QUANTIZE", VRAM__ALL(q##_format = word, VRAM__NET_PLAIN(q, p)),                 \
      VRAM__NET_ASSERT(q, p##_w_bits > 0 && q##_w_bits > 0, q##_quantizes_from_or_to_indices);     \
      , VRAM__ALL(q##_a_bits = a_bits, q##_w_bits = w_bits, q##_bias_each = bias_each,             \
                  q##_scales = scales, VRAM__NET_COUNT_NONE(q, p), VRAM__NET_NEW(q, p)))
/* anything else: a new tensor of that shape, from x */
#define VRAM_NET_CUSTOM(net, y, x, h, w, c, params, weight_bytes, macs, scratch_bytes,             \
                        state_bytes)                                                               \
  VRAM__NET_CUSTOM(net##_##y, net##_##x, #y, h, w, c, params, weight_bytes, macs, scratch_bytes,   \
                   state_bytes)
#define VRAM__NET_CUSTOM(q, p, name, h, w, c, params, weight_bytes, macs, scratch_bytes,           \
                         state_bytes)                                                              \
  VRAM__NET_AFTER(q, p)                                                                            \
  VRAM_NET_LINE(                                                                                   \
      q, p, name, "CUSTOM",                                                                        \
      VRAM__ALL(q##_h = (h) | 0, q##_w = (w) | 0, q##_c = (c) | 0, q##_bias = 0),                  \
      VRAM__NET_CHECK_SHAPE(q) VRAM__NET_ASSERT(                                                   \
          q,                                                                                       \
          VRAM__NET_AMOUNT_OK(params) && VRAM__NET_AMOUNT_OK(weight_bytes) &&                      \
              VRAM__NET_AMOUNT_OK(scratch_bytes) && VRAM__NET_AMOUNT_OK(state_bytes) &&            \
              VRAM_U(1) * (macs) < VRAM_U(4611686018427387904),                                    \
          q##_has_an_amount_that_is_negative_or_too_large);                                        \
      , VRAM__ALL(VRAM__NET_FORMAT(q, p),                                                          \
                  VRAM__NET_COUNT(q, p, VRAM_U(1) * (params), VRAM_U(1) * (macs),                  \
                                  VRAM_U(1) * (weight_bytes), VRAM__NET_FLASH(p, weight_bytes),    \
                                  VRAM_U(1) * (scratch_bytes),                                     \
                                  VRAM_ALIGN_UP(state_bytes, q##_align)),                          \
                  VRAM__NET_NEW(q, p)))
#define VRAM__NET_AMOUNT_OK(x) (VRAM_U(1) * (x) <= VRAM__NET_MAX)

/* the last line: the value of x is the network's */
#define VRAM_NET_END(net, x) VRAM_NET_LAST(net##_##x, VRAM__NET_LAST(net##_net, net##_##x))
#define VRAM_NET_LAST(before, constants) constants
#define VRAM__NET_LAST(N, p)                                                                       \
  VRAM__NET_AFTER(N, p)                                                                            \
  VRAM__NET_CONSTANTS(                                                                             \
      p##_is_followed_once = 1, VRAM__NET_ENDED(N, p), VRAM__COPY(N##_params, p##_params_total),   \
      VRAM__COPY2(N##_macs, p##_macs_total), VRAM__COPY(N##_weights, p##_weights_total),           \
      VRAM__COPY(N##_flash, p##_flash_total), VRAM__COPY(N##_state, p##_state_total),              \
      VRAM__COPY(N##_live, p##_live_peak), VRAM__COPY(N##_arena, p##_arena),                       \
      VRAM__E(N##_pingpong, VRAM__V(p##_buf0) + VRAM__V(p##_buf1) + VRAM__V(p##_side) +            \
                                VRAM__V(p##_scratch_peak)));                                       \
  VRAM__NET_ASSERT(p, p##_open == 0, N##_has_a_kept_value_that_no_line_takes);                     \
  VRAM__NET_NAMED(N##_lacks_its_VRAM_NET_END)

/* ---- figures of a line and of a network, checks ---- */

/* what: height width channels, out_bytes, params, macs, weight_bytes, flash_bytes, scratch_bytes,
   state_bytes, live_bytes (all that lives in the arena while the line runs), and the sums and peaks
   so far: total_params, total_macs, total_weight_bytes, total_flash_bytes, total_state_bytes,
   peak_live_bytes, arena_bytes, pingpong_bytes. VRAM_NET_OF: by the joined name (kws_c1). */
#define VRAM_NET_GET(net, y, what) VRAM__OF_##what(net##_##y)
#define VRAM_NET_OF(line, what) VRAM__OF_##what(line)
#define VRAM__OF_height(q) (VRAM_U(0) + q##_h)
#define VRAM__OF_width(q) (VRAM_U(0) + q##_w)
#define VRAM__OF_channels(q) (VRAM_U(0) + q##_c)
#define VRAM__OF_out_bytes(q) VRAM__V(q##_bytes)
#define VRAM__OF_params(q) VRAM__V(q##_params)
#define VRAM__OF_macs(q) VRAM__V2(q##_macs)
#define VRAM__OF_weight_bytes(q) VRAM__V(q##_weights)
#define VRAM__OF_flash_bytes(q) VRAM__V(q##_flash)
#define VRAM__OF_scratch_bytes(q) VRAM__V(q##_scratch)
#define VRAM__OF_state_bytes(q) VRAM__V(q##_state)
#define VRAM__OF_live_bytes(q) VRAM__V(q##_live)
#define VRAM__OF_total_params(q) VRAM__V(q##_params_total)
#define VRAM__OF_total_macs(q) VRAM__V2(q##_macs_total)
#define VRAM__OF_total_weight_bytes(q) VRAM__V(q##_weights_total)
#define VRAM__OF_total_flash_bytes(q) VRAM__V(q##_flash_total)
#define VRAM__OF_total_state_bytes(q) VRAM__V(q##_state_total)
#define VRAM__OF_peak_live_bytes(q) VRAM__V(q##_live_peak)
#define VRAM__OF_arena_bytes(q) VRAM__V(q##_arena)
#define VRAM__OF_pingpong_bytes(q)                                                                 \
  (VRAM__V(q##_buf0) + VRAM__V(q##_buf1) + VRAM__V(q##_side) + VRAM__V(q##_scratch_peak))

/* After END. LIVE: the most that lives at one time, below which no arena can be; ARENA: one arena
   with every value at VRAM_NET_OFFSET, as the lines place them or as `vram emit` did; PINGPONG: two
   buffers in turns, with copies of kept values and scratch beside them. STATE: what stays between
   calls. SRAM: ARENA and STATE. */
#define VRAM_NET_PARAMS(net) VRAM__V(net##_net_params)
#define VRAM_NET_MACS(net) VRAM__V2(net##_net_macs)
#define VRAM_NET_WEIGHT_BYTES(net) VRAM__V(net##_net_weights)
#define VRAM_NET_FLASH_BYTES(net) VRAM__V(net##_net_flash)
#define VRAM_NET_STATE_BYTES(net) VRAM__V(net##_net_state)
#define VRAM_NET_LIVE_BYTES(net) VRAM__V(net##_net_live)
#define VRAM_NET_ARENA_BYTES(net) VRAM__NET_PLANNED(net##_net__at, VRAM__V(net##_net_arena), )
#define VRAM_NET_PINGPONG_BYTES(net) VRAM__V(net##_net_pingpong)
#define VRAM_NET_SRAM_BYTES(net) (VRAM_NET_ARENA_BYTES(net) + VRAM__V(net##_net_state))
/* bytes from the start of the arena to the value of line y; to its scratch, between the two ends */
#define VRAM_NET_SCRATCH_OFFSET(net, y)                                                            \
  VRAM__NET_PLANNED(net##_##y##__scratch_at, VRAM__V(net##_##y##_room), )
#define VRAM_NET_OFFSET(net, y)                                                                    \
  VRAM__NET_PLANNED(net##_##y##__at,                                                               \
                    (net##_##y##_end ? VRAM__V(net##_net_arena) - VRAM__V(net##_##y##_offset) -    \
                                           VRAM__V(net##_##y##_size)                               \
                                     : VRAM__V(net##_##y##_offset)), )
/* which of several memories it is in, of those that `vram emit --bank` was told: the offset counts
   from its start */
#define VRAM_NET_BANK(net, y) VRAM__NET_PLANNED(net##_##y##__in, 0, )
#define VRAM_NET_SCRATCH_BANK(net, y) VRAM__NET_PLANNED(net##_##y##__scratch_in, 0, )
/* Where there is a better plan, `vram emit` defines these names: kws_c1__at as 0, 128ULL. Then the
   second is what is planned; else the name is one word, and the second what the lines have. */
#define VRAM__NET_PLANNED(...) VRAM__NET_PLANNED_(__VA_ARGS__)
#define VRAM__NET_PLANNED_(name, bytes, ...) bytes

/* too much: a type that is declared as two, one of the size of what is over */
#define VRAM__NET_OVER_BY(need, budget) ((need) > (budget) ? (need) - (budget) : VRAM_U(1))
#if defined(__SDCC)
#define VRAM__NET_BUDGET(name, need, budget)                                                       \
  VRAM_STATIC_ASSERT((need) <= VRAM_U(1) * (budget), name)
#elif defined(__cplusplus) || (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L)
#define VRAM__NET_BUDGET(name, need, budget)                                                       \
  typedef char name[1];                                                                            \
  typedef char name[VRAM__NET_OVER_BY(need, VRAM_U(1) * (budget))];                                \
  VRAM_STATIC_ASSERT((need) <= VRAM_U(1) * (budget), name)
#else
#define VRAM__NET_BUDGET(name, need, budget)                                                       \
  enum { name = VRAM__NET_OVER_BY(need, VRAM_U(1) * (budget)) };                                   \
  struct name##_bytes {                                                                            \
    unsigned name##_bytes_ : (need) <= VRAM_U(1) * (budget) ? 1 : -name;                           \
  }
#endif
/* said first where it is so */
#if defined(VRAM__NET_OF_TYPE) || (defined(__clang__) && !defined(__cplusplus))
#define VRAM__NET_ENDS(N)                                                                          \
  VRAM__NET_NEEDS(                                                                                 \
      N##_lacks_its_VRAM_NET_END, N##_is_to_fit, ,                                                 \
      VRAM__NET_CONSTANTS(VRAM__E(N##_flash, VRAM_U(0)), VRAM__E(N##_state, VRAM_U(0)),            \
                          VRAM__E(N##_arena, VRAM_U(0)), VRAM__E(N##_pingpong, VRAM_U(0))))
#else
#define VRAM__NET_ENDS(N) typedef char N##_is_to_fit[N##_lacks_its_VRAM_NET_END];
#endif
/* Do not compile when the network needs more; the message names the network, flash or SRAM, and
   by how many bytes too much (C11, C++; in C99 with clang). At file scope, once for a network. */
#define VRAM_ASSERT_FITS(net, flash_bytes, sram_bytes)                                             \
  VRAM__NET_ENDS(net##_net)                                                                        \
  VRAM__NET_BUDGET(net##_flash_is_over_budget_by, VRAM_NET_FLASH_BYTES(net), flash_bytes);         \
  VRAM__NET_BUDGET(net##_sram_is_over_budget_by, VRAM_NET_SRAM_BYTES(net), sram_bytes)
#define VRAM_ASSERT_FITS_PINGPONG(net, flash_bytes, sram_bytes)                                    \
  VRAM__NET_ENDS(net##_net)                                                                        \
  VRAM__NET_BUDGET(net##_flash_is_over_budget_by, VRAM_NET_FLASH_BYTES(net), flash_bytes);         \
  VRAM__NET_BUDGET(net##_sram_is_over_budget_by,                                                   \
                   VRAM_NET_PINGPONG_BYTES(net) + VRAM_NET_STATE_BYTES(net), sram_bytes)
/* with an arena of another plan (`vram emit` has one) */
#define VRAM_ASSERT_FITS_ARENA(net, arena_bytes, flash_bytes, sram_bytes)                          \
  VRAM__NET_ENDS(net##_net)                                                                        \
  VRAM__NET_BUDGET(net##_flash_is_over_budget_by, VRAM_NET_FLASH_BYTES(net), flash_bytes);         \
  VRAM__NET_BUDGET(net##_sram_is_over_budget_by,                                                   \
                   VRAM_U(0) + (arena_bytes) + VRAM_NET_STATE_BYTES(net), sram_bytes)
/* one line: its weights, and all that lives while it runs */
#define VRAM_ASSERT_LAYER_FITS(net, y, flash, sram)                                                \
  VRAM__NET_BUDGET(net##_##y##_flash_is_over_budget_by, VRAM__V(net##_##y##_flash), flash);        \
  VRAM__NET_BUDGET(net##_##y##_sram_is_over_budget_by, VRAM__V(net##_##y##_live), sram)

/* NOLINTEND(bugprone-macro-parentheses) */
