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

