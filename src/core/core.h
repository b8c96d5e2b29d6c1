/* >>core    what every room may use */
#pragma once
#include "api/api.h"

/* What parts share is static in vram.h, and extern where each part is compiled alone
   (-DVRAM__FN=). Where parts are left out, not all of it is used. */
#ifndef VRAM__FN
#if defined(__GNUC__) && (defined(VRAM_NO_MODEL) || defined(VRAM_NO_STEP) ||                       \
                          defined(VRAM_NO_PLAN) || defined(VRAM_NO_NET) ||                         \
                          defined(VRAM_NO_WRITE) || defined(VRAM_NO_READ) || defined(VRAM_NO_KV))
#define VRAM__FN static __attribute__((unused))
#else
#define VRAM__FN static
#endif
#define VRAM__ROW static
#else
#define VRAM__ROW
#endif

/* What the library expects of its own results. */
#ifndef VRAM_ASSERT
#define VRAM_ASSERT(x) ((void)(0 && (x)))
#endif

/* a function that is seldom called: out of the way of those that are */
#if defined(__GNUC__)
#define VRAM__COLD __attribute__((noinline, cold))
#else
#define VRAM__COLD
#endif

/* a function of many calls, none of which is worth a copy of it */
#if defined(__GNUC__)
#define VRAM__APART __attribute__((noinline))
#else
#define VRAM__APART
#endif

#define VRAM__CONTIG 1u     /* contiguous */
#define VRAM__DENSE 2u      /* non-overlapping and dense, in any order of axes */
#define VRAM__CL_STRIDES 8u /* strides as channels-last has them (c10 is_channels_last_strides) */
#define VRAM__CL 4u         /* 4-D or 5-D, contiguous in channels-last order */
#define VRAM__PLAIN 16u     /* contiguous, and axes of size 1 have the usual strides too */

#define VRAM__SIZE(d) ((d)->v)
#define VRAM__STRIDE(d) ((d)->v + (d)->ndim)

static const vram_dtype_info vram__dtype_rows[VRAM_DTYPE_COUNT] = {
    {VRAM_DTYPE_NONE, "none", NULL, NULL, 0, 0, 0, 0, 0, VRAM_KIND_FLOAT, -1, -1, -1},
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

/* context.c */
VRAM__FN uint32_t vram__device_threads(uint32_t cc);
VRAM__FN uint32_t vram__device_usual_sm(uint32_t cc);
VRAM__FN vram_bounds vram__context_bare(uint32_t cc, uint64_t sm);
/* Kernels of cuBLAS and cuDNN that a step on a T4 loads, one by one when they first run (CUDA 11.7
   and newer). */
#define VRAM__CONTEXT_LAZY_KERNELS UINT64_C(31326208)

/* text.c */
VRAM__FN void vram__memory_zero(void *p, uint64_t n);
VRAM__FN void vram__memory_copy(void *to, const void *from, uint64_t n);
VRAM__FN int vram__text_is(const char *a, uint32_t na, const char *z);
VRAM__FN int vram__text_holds(const char *s, uint32_t n, char c);
VRAM__FN int vram__text_equal(const char *a, const char *b, uint32_t n);
VRAM__APART VRAM__FN void vram__text_put(char *to, uint32_t cap, uint32_t *n, const char *s,
                                         uint32_t len);
VRAM__FN uint32_t vram__text_len(const char *z);
VRAM__APART VRAM__FN void vram__text_puts(char *to, uint32_t cap, uint32_t *n, const char *z);
VRAM__APART VRAM__FN void vram__text_putu(char *to, uint32_t cap, uint32_t *n, uint64_t u);
VRAM__APART VRAM__FN void vram__text_puti(char *to, uint32_t cap, uint32_t *n, int64_t v);
VRAM__FN uint64_t vram__product_or_overflow(uint64_t a, uint64_t b);
VRAM__FN uint64_t vram__sum_or_overflow(uint64_t a, uint64_t b);
VRAM__FN int vram__name_start(char c);
VRAM__FN int vram__digit(char c);
VRAM__FN const char *vram__pattern_atom_end(const char *p, const char *end);
VRAM__FN uint32_t vram__hash(const char *s, uint32_t n);

/* error.c */
VRAM__APART VRAM__FN void vram__error_clear(vram_error *e);
VRAM__COLD VRAM__FN vram_result vram__error_begin(vram_error *e, vram_result code, uint64_t line,
                                                  const char *text);
VRAM__COLD VRAM__FN void vram__error_letters(vram_error *e, const char *s, uint32_t len);
VRAM__COLD VRAM__FN void vram__error_text(vram_error *e, const char *text);
VRAM__COLD VRAM__FN void vram__error_number(vram_error *e, const char *before, uint64_t v);
VRAM__COLD VRAM__FN void vram__error_integer(vram_error *e, const char *before, int64_t v);
VRAM__COLD VRAM__FN void vram__error_quote(vram_error *e, const char *s, uint32_t len);
VRAM__COLD VRAM__FN void vram__error_shape(vram_error *e, const uint64_t *size, uint32_t count);

/* dims.c */
VRAM__FN int vram__suggests_cl(const vram_dims *d);
VRAM__FN void *vram__memory_take(uint8_t *mem, uint64_t *used, uint64_t cap, uint64_t n);
VRAM__FN uint64_t vram__dims_bytes(uint32_t ndim);
VRAM__FN int vram__dims_fit(uint32_t n, const int64_t *size);
VRAM__FN const vram_dims *vram__dims_get(uint8_t *mem, uint64_t *used, uint64_t cap,
                                         const vram_dims **cache, uint32_t n, const int64_t *size,
                                         const int64_t *stride);

/* dtype.c */
VRAM__FN uint64_t vram__dims_bytes_of(const vram_dims *d, vram_dtype dt);

/* Eight bytes in the order of a little-endian machine: one load on those. */
static inline uint64_t vram__text_eight(const char *p) {
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
static inline uint32_t vram__lowest_byte(uint64_t mask) {
#if defined(__GNUC__)
  return (uint32_t)__builtin_ctzll(mask) >> 3;
#else
  uint32_t i = 0;
  for (; !(mask & 0x80); mask >>= 8)
    i++;
  return i;
#endif
}

/* c10/core/AllocatorConfig.h: blocks are multiples of 512 bytes; one of more than 1 MiB may hold up
   to 1 MiB more than asked for, because a smaller rest is not split off. */
#define VRAM__MIN_BLOCK UINT64_C(512) /* kMinBlockSize */

static inline uint64_t vram__block_bytes(uint64_t bytes) {
  return (bytes + VRAM__MIN_BLOCK - 1) & ~(VRAM__MIN_BLOCK - 1);
}

static inline int64_t vram__min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t vram__max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* a / b and a, each rounded up to a whole number of b. */
static inline int64_t vram__div_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static inline int64_t vram__round_up(int64_t a, int64_t b) { return vram__div_up(a, b) * b; }
static inline uint64_t vram__div_up_u64(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
static inline uint64_t vram__round_up_u64(uint64_t a, uint64_t b) {
  return vram__div_up_u64(a, b) * b;
}

/* The greatest number that divides both. */
static inline uint64_t vram__gcd(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static inline uint64_t vram__mix(uint64_t x) {
  x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
  x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
  return x ^ x >> 33;
}
