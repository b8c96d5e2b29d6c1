/* The printf of tools/web/print.c, beside that of the C library: doubles, numbers, words. */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define vfprintf web_vfprintf
#define vsnprintf web_vsnprintf
#define printf web_printf
#define fprintf web_fprintf
#define snprintf web_snprintf
#define sprintf web_sprintf
int web_vfprintf(FILE *f, const char *format, va_list words);
int web_vsnprintf(char *to, size_t n, const char *format, va_list words);
int web_printf(const char *format, ...);
int web_fprintf(FILE *f, const char *format, ...);
int web_snprintf(char *to, size_t n, const char *format, ...);
int web_sprintf(char *to, const char *format, ...);
#include "../../tools/web/print.c"
#undef printf
#undef snprintf
#undef fprintf

static uint64_t seed = 88172645463325252u;
static uint64_t next(void) {
  seed ^= seed << 13;
  seed ^= seed >> 7;
  return seed ^= seed << 17;
}

static unsigned long passed, failed;
#define SAME(...)                                                                                  \
  do {                                                                                             \
    char a[1200], b[1200];                                                                         \
    const int na = snprintf(a, sizeof a, __VA_ARGS__);                                             \
    const int nb = web_snprintf(b, sizeof b, __VA_ARGS__);                                         \
    if (na == nb && !strcmp(a, b))                                                                 \
      passed++;                                                                                    \
    else if (failed++ < 10)                                                                        \
      printf("FAIL '%s', '%s'\n", a, b);                                                           \
  } while (0)

int main(void) {
  static const char *const real_forms[] = {
      "%e",     "%f",    "%g",    "%.0f", "%.1f",  "%.2f",     "%.3f",  "%.4f",    "%.6f", "%.9g",
      "%11.1f", "%6.1f", "%8.2f", "%.0e", "%.17g", "%-12.3f|", "%+.3g", "%012.4f", "% .2e"};
  int i;
  size_t k;
  for (i = 0; i < 20000; i++) {
    const uint64_t bits = next();
    double x;
    if (i % 4 == 0)
      memcpy(&x, &bits, sizeof x); /* any bits */
    else if (i % 4 == 1)
      x = (double)(int64_t)(next() % 2000001) / 8 - 125000; /* many ties */
    else if (i % 4 == 2)
      x = (double)(next() % 100000) / 1000;
    else
      x = (double)(next() >> (next() % 64));
    if (x != x)
      continue; /* what sign a NaN has is not printed everywhere */
    for (k = 0; k < sizeof real_forms / sizeof *real_forms; k++)
      if ((x < 1e300 && x > -1e300) || !strchr(real_forms[k], 'f'))
        SAME(real_forms[k], x);
  }
  for (i = 0; i < 2000; i++) {
    const uint64_t n = next() >> (next() % 64);
    SAME("%llu %20llu %-20llu| %020llx", (unsigned long long)n, (unsigned long long)n,
         (unsigned long long)n, (unsigned long long)n);
    SAME("%lld %+d % d %5d %-5d| %05d %.3d", (long long)n, (int)n, (int)n, (int)n % 100,
         (int)n % 100, (int)n % 100, (int)n % 100);
    SAME("%*s|%-*s|%.*s|%c%%%s", (int)(n % 20), "word", (int)(n % 20), "word", (int)(n % 6), "word",
         (char)('a' + n % 26), "");
    SAME("%x %X %#x %o %hu", (unsigned)n, (unsigned)n, (unsigned)n, (unsigned)n, (unsigned short)n);
  }
  printf("test_print: %lu passed, %lu failed\n", passed, failed);
  return failed != 0;
}
