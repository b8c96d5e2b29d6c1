/* >>core/text    small functions that replace libc
   Small helpers that replace libc. */
#include "core/core.h"

VRAM__FN void vram__memory_zero(void *p, uint64_t n) {
  uint8_t *b = (uint8_t *)p;
  while (n--)
    *b++ = 0;
}

VRAM__FN void vram__memory_copy(void *to, const void *from, uint64_t n) {
  uint8_t *a = (uint8_t *)to;
  const uint8_t *b = (const uint8_t *)from;
  while (n--)
    *a++ = *b++;
}

VRAM__FN int vram__text_is(const char *a, uint32_t na, const char *z) {
  uint32_t i;
  for (i = 0; i < na; i++)
    if (z[i] == 0 || z[i] != a[i])
      return 0;
  return z[na] == 0;
}

VRAM__FN int vram__text_holds(const char *s, uint32_t n, char c) {
  for (; n >= 8; s += 8, n -= 8)
    if (VRAM__HOLDS(vram__text_eight(s), (uint64_t)(uint8_t)c))
      return 1;
  for (; n; n--)
    if (*s++ == c)
      return 1;
  return 0;
}

VRAM__FN int vram__text_equal(const char *a, const char *b, uint32_t n) {
  for (; n >= 8; a += 8, b += 8, n -= 8)
    if (vram__text_eight(a) != vram__text_eight(b))
      return 0;
  while (n--)
    if (*a++ != *b++)
      return 0;
  return 1;
}

VRAM__FN void vram__text_put(char *to, uint32_t cap, uint32_t *n, const char *s, uint32_t len) {
  uint32_t i;
  for (i = 0; i < len && *n + 1 < cap; i++)
    to[(*n)++] = s[i];
  to[*n] = 0;
}

VRAM__FN uint32_t vram__text_len(const char *z) {
  uint32_t n = 0;
  while (z[n])
    n++;
  return n;
}

VRAM__FN void vram__text_puts(char *to, uint32_t cap, uint32_t *n, const char *z) {
  vram__text_put(to, cap, n, z, vram__text_len(z));
}

VRAM__FN void vram__text_putu(char *to, uint32_t cap, uint32_t *n, uint64_t u) {
  char t[24];
  uint32_t i = sizeof t;
  do
    t[--i] = (char)('0' + (char)(u % 10)), u /= 10;
  while (u);
  vram__text_put(to, cap, n, t + i, (uint32_t)sizeof t - i);
}

VRAM__FN void vram__text_puti(char *to, uint32_t cap, uint32_t *n, int64_t v) {
  if (v < 0)
    vram__text_put(to, cap, n, "-", 1);
  vram__text_putu(to, cap, n, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

/* a * b, or VRAM_OVERFLOW. */
VRAM__FN uint64_t vram__product_or_overflow(uint64_t a, uint64_t b) {
  if ((a | b) <= UINT32_MAX / 2) /* most are: no division */
    return a * b;
  if (a == VRAM_OVERFLOW || b == VRAM_OVERFLOW || (a && b > (uint64_t)VRAM_MAX_BYTES / a))
    return VRAM_OVERFLOW;
  return a * b;
}

/* a + b, or VRAM_OVERFLOW. */
VRAM__FN uint64_t vram__sum_or_overflow(uint64_t a, uint64_t b) {
  return a > VRAM_OVERFLOW - b ? VRAM_OVERFLOW : a + b;
}

VRAM__FN int vram__name_start(char c) { return (uint8_t)((c | 32) - 'a') < 26 || c == '_'; }

VRAM__FN int vram__digit(char c) { return c >= '0' && c <= '9'; }

VRAM__FN uint32_t vram__hash(const char *s, uint32_t n) {
  uint64_t h = n;
  for (; n >= 8; s += 8, n -= 8)
    h = (h ^ vram__text_eight(s)) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
  for (; n; s++, n--)
    h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
  h = (h ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  return (uint32_t)(h >> 32);
}

VRAM_API const char *vram_result_text(vram_result r) {
  static const char *const text[VRAM_RESULT_COUNT] = {
#define VRAM__X(id, what) what,
      VRAM_RESULTS(VRAM__X)
#undef VRAM__X
  };
  return (uint32_t)r < VRAM_RESULT_COUNT ? text[r] : "?";
}

/* The end of the atom at p of a pattern of names (parallel/units.c). */
VRAM__FN const char *vram__pattern_atom_end(const char *p, const char *end) {
  if (*p == '[') {
    while (p < end && *p != ']')
      p++;
    return p < end ? p + 1 : end;
  }
  return p + 1 < end && *p == '\\' ? p + 2 : p + 1;
}
