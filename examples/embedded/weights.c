/* cc -o weights examples/embedded/weights.c && ./weights >weights.h
   Writes the weights of kws.h: numbers of a generator where a trained network's would stand, so
   many of them as the staged network says, scaled so that activations fill the range of int8. */
#include "kws.h"
#include <stdio.h>

static uint32_t state = 2463534242u;

static int32_t draw(int32_t low, int32_t high) { /* both included */
  state = (uint32_t)(state * UINT64_C(1664525) + 1013904223u);
  return low + (int32_t)((uint64_t)state * (uint64_t)(high - low + 1) >> 32);
}

static void array(const char *type, const char *layer, const char *what) {
  printf("static const %s %s_%s[] WEIGHTS = {", type, layer, what);
}

/* values: elements of the array; each array is padded to 4 bytes */
static void layer(const char *name, unsigned values, unsigned channels, unsigned scales, int taps,
                  int shift) {
  unsigned i;
  array("int8_t", name, "weights");
  for (i = 0; i < (values + 3) / 4 * 4; i++)
    printf("%s%d,", i % 24 ? "" : "\n", i < values ? (int)draw(-127, 127) : 0);
  printf("};\n");
  array("int32_t", name, "bias");
  for (i = 0; i < channels; i++)
    printf("%s%ld,", i % 12 ? "" : "\n", (long)draw(-taps * 1000, taps * 1000));
  printf("};\n");
  array("struct scale", name, "scale");
  for (i = 0; i < scales; i++)
    printf("%s{%ld, %d},", i % 6 ? "" : "\n", (long)draw(1 << 21, (1 << 22) - 1) * 512, shift);
  printf("};\n\n");
}

#define GET(y, what) ((unsigned)VRAM_NET_GET(kws, y, what))
#define LAYER(y, taps, shift)                                                                      \
  layer(#y, GET(y, params) - GET(y, channels), GET(y, channels), GET(y, channels), taps, shift)

int main(void) {
  unsigned i;
  LAYER(c1, 40, -8);
  LAYER(d1, 9, -7);
  LAYER(p1, 32, -8);
  LAYER(d2, 9, -7);
  LAYER(p2, 32, -8);
  LAYER(d3, 9, -7);
  LAYER(p3, 32, -8);
  layer("l1", GET(l1, params) - GET(l1, channels), GET(l1, channels), 1, 32, -9);
  printf("static const int8_t features[] = {");
  for (i = 0; i < GET(input, out_bytes); i++)
    printf("%s%d,", i % 24 ? "" : "\n", (int)draw(-128, 127));
  printf("};\n");
  return 0;
}
