/* Calls two users of the header; both must see the same peak. */
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif
uint64_t use_a(void);
uint64_t use_b(void);
#ifdef __cplusplus
}
#endif

int main(void) {
  uint64_t a = use_a(), b = use_b();
  printf("%lu %lu\n", (unsigned long)a, (unsigned long)b);
  return a == 0 || a != b;
}
