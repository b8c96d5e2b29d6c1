/* make -C examples/embedded run
   == m0: qemu-system-arm -M microbit
   bytes              predicted  measured
   arena                  12000     12000
   guards                     0         0
   weights in flash        8344      8344
   stack, at most           224       220
   scores -109 -128 -128 -128 -120   38 -127  -87 -111 -128 -123 -128
   digest 2821661873
   as predicted
   linked: 8344 bytes of weights, 4536 of code; 12356 of SRAM

   and the same for m4, rv32 and the host: the network of kws.h, in int8 kernels as TFLite defines
   them, with all activations in one array. Its size, the offsets in it and the sizes of all weights
   are constants of the staged network, and kws.h does not compile when they exceed the budget.

   Measured: before inference the arena, guards on its two sides and the free stack are painted;
   what has another colour afterwards was written to. The arena's mark is the highest such byte + 1.
   Twice with different colours, so that no value passes for one. The stack's prediction, which the
   linker reserves, is the deepest chain of calls by gcc's frame sizes (stack.awk). The weights are
   a section of their own, measured by the linker. SRAM in all: arena, guards (128), stack, and the
   digest (4) of all activations. */
#include "kws.h"
#include "board.h"

struct scale { /* a factor of multiplier / 2^31 * 2^shift */
  int32_t multiplier, shift;
};
#include "weights.h"

/* what a trained model would say beside its arrays: zero points and the scales of two layers */
enum {
  input_zero = 83,
  c1_zero = -128,
  d1_zero = -128,
  p1_zero = -100,
  d2_zero = -128,
  p2_zero = 4,
  a1_zero = -120,
  d3_zero = -128,
  p3_zero = -128,
  g1_zero = p3_zero, /* a mean has the scale of its input */
  l1_zero = -8,
  s1_zero = -128
};
static const struct scale a1_left = {1610612736, -1}, a1_right = {1073741824, 0},
                          a1_sum = {1073741824, -19}, s1_beta = {1610612736, 23};

#define GUARD 64
static struct { /* the arena with a guard on each side */
  uint8_t below[GUARD], arena[VRAM_NET_ARENA_BYTES(kws)], above[GUARD];
} sram;

struct layer {
  int8_t *out;
  int32_t height, width, channels, zero, lowest; /* lowest: a fused ReLU ends at the zero point */
  const int8_t *weights;
  const int32_t *bias;
  const struct scale *scale;
  int32_t kernel_height, kernel_width, stride;
};
#define GET(y, what) ((int32_t)VRAM_NET_GET(kws, y, what))
#define LAYER(y, lowest, ...)                                                                      \
  static const struct layer y = {(int8_t *)sram.arena + VRAM_NET_OFFSET(kws, y),                   \
                                 GET(y, height),                                                   \
                                 GET(y, width),                                                    \
                                 GET(y, channels),                                                 \
                                 y##_zero,                                                         \
                                 lowest,                                                           \
                                 __VA_ARGS__}
/* with arrays: as many elements as the kernel takes, as many bytes as were counted */
#define STORED(y, taps, lowest, ...)                                                               \
  VRAM_STATIC_ASSERT(GET(y, params) == GET(y, channels) * ((taps) + 1), kws_##y##_kernel);         \
  VRAM_STATIC_ASSERT(sizeof y##_weights + sizeof y##_bias + sizeof y##_scale ==                    \
                         VRAM_NET_GET(kws, y, flash_bytes),                                        \
                     kws_##y##_arrays);                                                            \
  LAYER(y, lowest, y##_weights, y##_bias, y##_scale, __VA_ARGS__)

LAYER(input, INT8_MIN, 0, 0, 0, 0, 0, 0);
STORED(c1, 10 * 4 * GET(input, channels), c1_zero, 10, 4, 2);
STORED(d1, 3 * 3, d1_zero, 3, 3, 1);
STORED(p1, GET(d1, channels), p1_zero, 1, 1, 1);
STORED(d2, 3 * 3, d2_zero, 3, 3, 1);
STORED(p2, GET(d2, channels), INT8_MIN, 1, 1, 1);
LAYER(a1, a1_zero, 0, 0, 0, 0, 0, 0);
STORED(d3, 3 * 3, d3_zero, 3, 3, 1);
STORED(p3, GET(d3, channels), p3_zero, 1, 1, 1);
LAYER(g1, INT8_MIN, 0, 0, 0, 0, 0, 0);
STORED(l1, GET(g1, channels), INT8_MIN, 1, 1, 1);
LAYER(s1, INT8_MIN, 0, 0, 0, 0, 0, 0);

/* ---- arithmetic */

/* round(x y / 2^31), a half goes up */
static int32_t multiply(int32_t x, int32_t y) {
  int64_t product = (int64_t)x * y;
  if (x == INT32_MIN && y == INT32_MIN)
    return INT32_MAX;
  product += product >= 0 ? INT64_C(1) << 30 : 1 - (INT64_C(1) << 30);
  return (int32_t)(product / (INT64_C(1) << 31));
}

/* round(x / 2^n), a half goes away from 0 */
static int32_t divide(int32_t x, int32_t n) {
  uint32_t magnitude = x < 0 ? 0 - (uint32_t)x : (uint32_t)x;
  if (n == 0)
    return x;
  magnitude = (magnitude + (UINT32_C(1) << (n - 1))) >> n;
  return x < 0 ? -(int32_t)magnitude : (int32_t)magnitude;
}

static int32_t rescale(int32_t x, struct scale s) {
  return s.shift > 0 ? multiply(x * (INT32_C(1) << s.shift), s.multiplier)
                     : divide(multiply(x, s.multiplier), -s.shift);
}

static int8_t clamp(int32_t x, int32_t lowest) {
  return (int8_t)(x < lowest ? lowest : x > INT8_MAX ? INT8_MAX : x);
}

/* x 2^n, held at the ends of the range */
static int32_t saturate(int32_t x, int32_t n) {
  if (x > INT32_MAX >> n)
    return INT32_MAX;
  return x < -(INT32_MAX >> n) - 1 ? INT32_MIN : x * (INT32_C(1) << n);
}

/* ---- kernels */

static uint32_t digest; /* FNV-1a of every activation of every layer: scores hide a lot */

static void done(const struct layer *y) {
  const int32_t n = y->height * y->width * y->channels;
  int32_t i;
  for (i = 0; i < n; i++)
    digest = (digest ^ (uint8_t)y->out[i]) * 16777619;
}

static int32_t padding(int32_t in, int32_t out, int32_t kernel, int32_t stride) { /* SAME, before */
  const int32_t total = (out - 1) * stride + kernel - in;
  return total > 0 ? total / 2 : 0;
}

/* weights [out channels][height][width][in channels], depthwise [height][width][channels] */
static void convolve(const struct layer *y, const struct layer *x, int depthwise) {
  const int32_t top = padding(x->height, y->height, y->kernel_height, y->stride);
  const int32_t left = padding(x->width, y->width, y->kernel_width, y->stride);
  const int32_t taps = y->kernel_height * y->kernel_width;
  int8_t *out = y->out;
  int32_t row, column, oc, tap, c;
  for (row = 0; row < y->height; row++)
    for (column = 0; column < y->width; column++)
      for (oc = 0; oc < y->channels; oc++) {
        int32_t sum = y->bias[oc];
        for (tap = 0; tap < taps; tap++) {
          const int32_t h = row * y->stride - top + tap / y->kernel_width;
          const int32_t w = column * y->stride - left + tap % y->kernel_width;
          const int8_t *in = x->out + (h * x->width + w) * x->channels;
          if (h < 0 || h >= x->height || w < 0 || w >= x->width)
            continue;
          if (depthwise)
            sum += (in[oc] - x->zero) * y->weights[tap * y->channels + oc];
          else
            for (c = 0; c < x->channels; c++)
              sum += (in[c] - x->zero) * y->weights[(oc * taps + tap) * x->channels + c];
        }
        *out++ = clamp(rescale(sum, y->scale[oc]) + y->zero, y->lowest);
      }
  done(y);
}
static void conv2d(const struct layer *y, const struct layer *x) { convolve(y, x, 0); }
static void depthwise_conv2d(const struct layer *y, const struct layer *x) { convolve(y, x, 1); }

static void linear(const struct layer *y, const struct layer *x) {
  int32_t i, c;
  for (i = 0; i < y->channels; i++) {
    int32_t sum = y->bias[i];
    for (c = 0; c < x->channels; c++)
      sum += (x->out[c] - x->zero) * y->weights[i * x->channels + c];
    y->out[i] = clamp(rescale(sum, y->scale[0]) + y->zero, y->lowest);
  }
  done(y);
}

static void add(const struct layer *y, const struct layer *a, const struct layer *b) {
  const int32_t n = y->height * y->width * y->channels;
  int32_t i;
  for (i = 0; i < n; i++) {
    const int32_t sum = rescale((a->out[i] - a->zero) * (INT32_C(1) << 20), a1_left) +
                        rescale((b->out[i] - b->zero) * (INT32_C(1) << 20), a1_right);
    y->out[i] = clamp(rescale(sum, a1_sum) + y->zero, y->lowest);
  }
  done(y);
}

static void global_avg_pool2d(const struct layer *y, const struct layer *x) {
  const int32_t n = x->height * x->width;
  int32_t i, c;
  for (c = 0; c < x->channels; c++) {
    int32_t sum = 0;
    for (i = 0; i < n; i++)
      sum += x->out[i * x->channels + c];
    y->out[c] = clamp((sum > 0 ? sum + n / 2 : sum - n / 2) / n, y->lowest);
  }
  done(y);
}

/* exp(x) for x <= 0 with 26 fraction bits; the result has 31. A Taylor series around -1/8 for the
 * part in [-1/4, 0), factors exp(-1/4), exp(-1/2), ... exp(-16) for the bits of the rest */
static int32_t exponential(int32_t x) {
  static const int32_t factor[7] = {1672461947, 1302514674, 790015084, 290630308,
                                    39332535,   720401,     242};
  const int32_t quarter = INT32_C(1) << 24;
  const int32_t part = (int32_t)((uint32_t)x & (uint32_t)(quarter - 1)) - quarter;
  const int32_t t = part * 32 + (INT32_C(1) << 28); /* 31 fraction bits, in [-1/8, 1/8) */
  const int32_t t2 = multiply(t, t), t3 = multiply(t2, t), t4 = multiply(t2, t2);
  const int32_t series = divide(multiply(divide(t4, 2) + t3, 715827883) + t2, 1);
  int32_t result = 1895147668 + multiply(1895147668, t + series), i;
  if (x == 0)
    return INT32_MAX;
  for (i = 0; i < 7; i++)
    if ((part - x) >> (24 + i) & 1)
      result = multiply(result, factor[i]);
  return result;
}

/* 1 / (1 + x), x in [0, 1) and the result with 31 fraction bits: Newton's steps */
static int32_t reciprocal(int32_t x) {
  const int32_t half = (int32_t)(((int64_t)x + INT32_MAX + 1) / 2);
  int32_t y = 1515870810 + multiply(half, -1010580540), i; /* 48/17 - 32/17 half, 29 bits */
  for (i = 0; i < 3; i++)
    y += saturate(multiply(y, (INT32_C(1) << 29) - multiply(half, y)), 2);
  return saturate(y, 1);
}

static void softmax(const struct layer *y, const struct layer *x) {
  const int32_t least =
      -(int32_t)(INT64_C(31) * (INT32_C(1) << 26) / (INT32_C(1) << s1_beta.shift));
  int32_t highest = INT8_MIN, sum = 0, bits = 0, factor, i;
  for (i = 0; i < x->channels; i++)
    if (x->out[i] > highest)
      highest = x->out[i];
  for (i = 0; i < x->channels; i++)
    if (x->out[i] - highest >= least)
      sum += divide(exponential(rescale(x->out[i] - highest, s1_beta)), 12);
  while (!((uint32_t)sum << bits >> 31))
    bits++;
  factor = reciprocal((int32_t)(((uint32_t)sum << bits) - (UINT32_C(1) << 31)));
  for (i = 0; i < x->channels; i++) {
    const int32_t d = x->out[i] - highest;
    int32_t share = 0;
    if (d >= least)
      share = divide(multiply(factor, exponential(rescale(d, s1_beta))), 12 - bits + 31 - 8);
    y->out[i] = clamp(share + y->zero, y->lowest);
  }
  done(y);
}

static void infer(void) {
  digest = 2166136261;
  conv2d(&c1, &input);
  depthwise_conv2d(&d1, &c1);
  conv2d(&p1, &d1);
  depthwise_conv2d(&d2, &p1);
  conv2d(&p2, &d2);
  add(&a1, &p2, &p1);
  depthwise_conv2d(&d3, &a1);
  conv2d(&p3, &d3);
  global_avg_pool2d(&g1, &p3);
  linear(&l1, &g1);
  softmax(&s1, &l1);
}

/* ---- predicted and measured */

static void print_number(int64_t n, int32_t width) {
  char text[16];
  int32_t at = sizeof text - 1;
  uint32_t rest = n < 0 ? 0 - (uint32_t)n : (uint32_t)n;
  text[at] = 0;
  do
    text[--at] = (char)('0' + rest % 10);
  while (rest /= 10);
  if (n < 0)
    text[--at] = '-';
  while (at > (int32_t)sizeof text - 1 - width)
    text[--at] = ' ';
  board_print(text + at);
}

static void row(const char *what, uint32_t predicted, uint32_t measured) {
  board_print(what);
  print_number(predicted, 10);
  print_number(measured, 10);
  board_print("\n");
}

/* the highest byte of n that is no longer as it was painted, + 1 */
static uint32_t touched(const volatile uint8_t *p, uint32_t n, uint8_t pattern) {
  while (n && p[n - 1] == pattern)
    n--;
  return n;
}

static void highest(uint32_t *mark, uint32_t n) {
  if (n > *mark)
    *mark = n;
}

int run(void) {
  /* twice: a value that equals one pattern differs from the other */
  static const uint8_t patterns[2] = {0xa5, 0x5a};
  uint32_t arena = 0, guards = 0, stack = 0, weights, i, j;
  int ok;
  for (i = 0; i < 2; i++) {
    const uint8_t pattern = patterns[i];
    volatile uint8_t *all = (volatile uint8_t *)&sram;
    for (j = 0; j < sizeof sram; j++)
      all[j] = pattern;
    for (j = 0; j < sizeof features; j++)
      input.out[j] = features[j];
    board_paint(pattern);
    infer();
    highest(&stack, board_painted(pattern));
    highest(&arena, touched(sram.arena, sizeof sram.arena, pattern));
    highest(&guards, touched(sram.below, GUARD, pattern));
    highest(&guards, touched(sram.above, GUARD, pattern));
  }
  weights = (uint32_t)((uintptr_t)__stop_vram_weights - (uintptr_t)__start_vram_weights);
  board_print("bytes              predicted  measured\n");
  row("arena             ", VRAM_NET_ARENA_BYTES(kws), arena);
  row("guards            ", 0, guards);
  row("weights in flash  ", VRAM_NET_FLASH_BYTES(kws), weights);
  if (board_stack())
    row("stack, at most    ", board_stack(), stack);
  board_print("scores");
  for (i = 0; i < (uint32_t)s1.channels; i++)
    print_number(s1.out[i], 5);
  board_print("\ndigest");
  print_number(digest, 11);
  ok = arena == VRAM_NET_ARENA_BYTES(kws) && !guards && weights == VRAM_NET_FLASH_BYTES(kws) &&
       stack <= board_stack();
  board_print(ok ? "\nas predicted\n" : "\nNOT as predicted\n");
  return !ok;
}
