/* >>torch/cudnn    workspaces that cuDNN's convolutions ask for on a real device
   What cuDNN chooses is known where it runs only; which algorithms there are, and what they need,
   its guide says. PyTorch asks cuDNN's heuristics and takes the first plan whose workspace can be
   allocated (Conv_v8.cpp, try_plans; Conv_v7.cpp, AlgoIterator): no limit, but none of them is
   needed to run. With cudnn.benchmark it first allocates the largest workspace of all that cuDNN
   names and times them in it (Conv_v8.cpp, get_plans_from_find and generate_and_filter_plans). */
#include "torch/torch.h"

/* Positions along an axis in steps of `tile`, from 1 on. */
static uint64_t vram__tiles(int64_t positions, int64_t tile) {
  return (uint64_t)((positions + tile - 1) / tile);
}

/* A spectrum of so many values for each of a number of planes: images, filters, results. */
static uint64_t vram__conv_transforms(const vram__cudnn_conv *c, uint64_t tiles, uint64_t filters,
                                      uint64_t bytes) {
  const uint64_t planes = vram__product_or_overflow(c->samples, c->channels[0] + c->channels[1]);
  return vram__product_or_overflow(
      vram__sum_or_overflow(vram__product_or_overflow(planes, tiles), filters), bytes);
}

/* WINOGRAD_NONFUSED: F(4x4, 3x3) in fp32. Tiles of 6x6 values of the images, of the results and the
   filters are transformed into matrices that are multiplied. 0: not for this convolution. */
static uint64_t vram__conv_winograd(const vram__rules *rules, const vram__cudnn_conv *c) {
  const int64_t tile = rules->cudnn_conv.winograd_tile, points = tile + 2;
  if (c->axes != 2 || !c->dense || c->kernel[0] != 3 || c->kernel[1] != 3)
    return 0;
  return vram__conv_transforms(
      c, vram__product_or_overflow(vram__tiles(c->made[0], tile), vram__tiles(c->made[1], tile)),
      vram__product_or_overflow(c->channels[0], c->channels[1]), (uint64_t)(4 * points * points));
}

/* FFT_TILING: half of the spectrum of each tile of 32x32, complex. FFT of a whole image takes about
   as much. Only where there is more to transform of images than of filters: else the spectra of the
   filters alone are more work than the convolution. */
static uint64_t vram__conv_fft(const vram__rules *rules, const vram__cudnn_conv *c) {
  const int64_t tile = rules->cudnn_conv.fft_tile;
  const uint64_t filters = vram__product_or_overflow(c->channels[0], c->channels[1]);
  uint64_t tiles;
  if (c->axes != 2 || !c->dense || c->kernel[0] < 2 || c->kernel[1] < 2 ||
      c->kernel[0] > tile / 2 || c->kernel[1] > tile / 2)
    return 0;
  tiles = vram__product_or_overflow(vram__tiles(c->made[0], tile - c->kernel[0] + 1),
                                    vram__tiles(c->made[1], tile - c->kernel[1] + 1));
  if (vram__conv_transforms(c, tiles, 0, 1) < filters)
    return 0;
  return vram__conv_transforms(c, tiles, filters, (uint64_t)(8 * tile * (tile / 2 + 1)));
}

/* Channels in whole groups of 16 bytes, of values of 2, 4 or 8 bytes. */
static uint64_t vram__conv_even(uint64_t channels, uint64_t size) {
  const uint64_t rest = size == 2 ? 7 : size == 4 ? 3 : 1;
  return (channels + rest) & ~rest;
}

/* The weight's gradient has few tiles for the multiprocessors, so that several sum up a part of
   the positions each, in fp32. w: its values. */
static uint64_t vram__conv_split(const vram__device *d, const vram__cudnn_conv *c, uint64_t w) {
  const uint64_t tile = d->rules->cudnn_conv.split_tile;
  const uint64_t rows = (c->channels[1] + tile - 1) / tile;
  const uint64_t tiles = rows * ((c->in * c->window + tile - 1) / tile);
  const uint64_t most = c->places[1] / d->rules->cudnn_conv.split_least;
  uint64_t parts = d->sm / (tiles ? tiles : 1);
  if (parts > most)
    parts = most;
  return parts < 2 ? 0 : vram__product_or_overflow(parts, vram__product_or_overflow(w, 4));
}

/* Kernels for tensor cores read and write channels-last, in groups of 16 bytes: copies of all
   tensors that are stored otherwise. Before cc 9.0 those of fp32 take what is rounded to TF32, but
   write the result where it belongs. */
static uint64_t vram__conv_copies(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t size = vram__dtype_size(c->dt),
                 in = c->grouped ? c->in : vram__conv_even(c->in, size);
  const uint64_t even[2] = {vram__conv_even(c->channels[0], size),
                            vram__conv_even(c->channels[1], size)};
  const uint64_t w = vram__product_or_overflow(even[1], vram__product_or_overflow(in, c->window));
  const int rounded = c->dt == VRAM_F32 && d->cc < 90;
  int x = !c->channels_last || even[0] != c->channels[0];
  int y = !c->channels_last || even[1] != c->channels[1];
  uint64_t all = 0;
  if (rounded && c->makes == VRAM__CONV_RESULT) {
    x = 1;
    y = even[1] != c->channels[1];
  } else if (rounded) {
    x |= c->makes == VRAM__CONV_WEIGHT;
    y = 1;
  }
  if (x)
    all = vram__product_or_overflow(even[0], c->places[0]);
  if (y)
    all = vram__sum_or_overflow(all, vram__product_or_overflow(even[1], c->places[1]));
  if (x | y)
    all = vram__sum_or_overflow(all, w);
  all = vram__product_or_overflow(all, size);
  return c->makes == VRAM__CONV_WEIGHT ? vram__sum_or_overflow(all, vram__conv_split(d, c, w))
                                       : all;
}

/* C*K / (C + K) up to which a convolution does not go through tensor cores, as there is little to
   multiply for each value that is read. */
static uint64_t vram__conv_narrow(const vram__device *d, const vram__cudnn_conv *c) {
  const vram__rules *r = d->rules;
  if (c->window == 1)
    return r->cudnn_conv.narrow_point[d->cc % 10 != 0][c->dt != VRAM_F32][c->makes];
  return c->dt == VRAM_F32 && c->dense && c->window == 9 && d->cc < 90
             ? r->cudnn_conv.narrow_3x3[c->makes]
             : 0;
}

/* Do tensor cores compute it? Not the few channels of an image, and not what is narrow. */
static int vram__conv_on_tensor_cores(const vram__device *d, const vram__cudnn_conv *c) {
  const vram__rules *r = d->rules;
  const uint64_t *n = c->channels;
  if (!(c->dt == VRAM_F32 && d->cc >= 80) && !(c->dt == VRAM_F16 && d->cc >= 70) &&
      !(c->dt == VRAM_BF16 && d->cc >= 80))
    return 0;
  if (n[0] <= r->cudnn_conv.image_channels && c->in * c->window < r->cudnn_conv.image_filter &&
      (c->dt == VRAM_F32 || c->makes != VRAM__CONV_WEIGHT))
    return 0;
  return vram__product_or_overflow(n[0], n[1]) >
         vram__product_or_overflow(n[0] + n[1], vram__conv_narrow(d, c));
}

/* Without tensor cores fp32 goes through Winograd's form of 3x3, from 9.8 on the fused one, which
   has the filters in its workspace; before, larger filters went through FFT. */
static uint64_t vram__conv_plain(const vram__rules *r, const vram__cudnn_conv *c, uint64_t winograd,
                                 uint64_t fft) {
  const int64_t least = r->cudnn_conv.fft_least;
  if (c->dt != VRAM_F32 || c->channels_last || c->channels[0] <= r->cudnn_conv.image_channels ||
      c->channels[1] <= r->cudnn_conv.image_channels)
    return 0;
  if (r->does & VRAM__CUDNN_9_8)
    return !winograd || c->makes == VRAM__CONV_WEIGHT
               ? 0
               : vram__product_or_overflow(
                     vram__product_or_overflow(c->channels[0], c->channels[1]),
                     4 * r->cudnn_conv.fused_filter);
  return winograd ? winograd : c->kernel[0] >= least && c->kernel[1] >= least ? fft : 0;
}

/* What the heuristics take first. Filters of one value were products without a workspace before
   9.8 (MobileNetV2 and EfficientNet on an A100). */
static uint64_t vram__conv_expected(const vram__device *d, const vram__cudnn_conv *c,
                                    uint64_t winograd, uint64_t fft) {
  const int newer = (d->rules->does & VRAM__CUDNN_9_8) != 0;
  if (!newer &&
      (c->grouped || (c->dt == VRAM_F32 && c->window == 1 && c->places[0] == c->places[1])))
    return 0;
  if (vram__conv_on_tensor_cores(d, c))
    return vram__conv_copies(d, c);
  return d->cc < 80 ? vram__conv_plain(d->rules, c, winograd, fft) : 0;
}

/* Values of x, y and the filters with channels in groups of 16 bytes of `size` each. */
static inline void vram__conv_padded(const vram__cudnn_conv *c, uint64_t size, uint64_t xyw[3]) {
  const uint64_t in = c->grouped ? c->in : vram__conv_even(c->in, size);
  const uint64_t out = vram__conv_even(c->channels[1], size);
  xyw[0] = vram__product_or_overflow(vram__conv_even(c->channels[0], size), c->places[0]);
  xyw[1] = vram__product_or_overflow(out, c->places[1]);
  xyw[2] = vram__product_or_overflow(out, vram__product_or_overflow(in, c->window));
}

static inline uint64_t vram__conv_sum(const uint64_t xyw[3]) {
  return vram__sum_or_overflow(xyw[0], vram__sum_or_overflow(xyw[1], xyw[2]));
}

/* Each tensor once in fp32, with channels in groups of 8, as kernels that split a sum add up in it;
   for the weight's gradient a tile for every multiprocessor and the weight once more. */
static uint64_t vram__conv_partial(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t tile = d->rules->cudnn_conv.split_tile;
  uint64_t xyw[3], all;
  vram__conv_padded(c, 2, xyw);
  all = vram__conv_sum(xyw);
  if (c->makes == VRAM__CONV_WEIGHT)
    all = vram__sum_or_overflow(all, vram__sum_or_overflow(d->sm * tile * tile, xyw[2]));
  return vram__product_or_overflow(all, 4);
}

/* Lower: a convolution without workspace always runs. Upper: the largest of all. */
VRAM__FN vram_bounds vram__cudnn_workspace(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t winograd = vram__conv_winograd(d->rules, c);
  const uint64_t fft = vram__conv_fft(d->rules, c);
  vram_bounds w;
  w.lower = 0;
  w.expected = vram__conv_expected(d, c, winograd, fft);
  w.upper = vram__conv_partial(d, c);
  if (w.upper < winograd)
    w.upper = winograd;
  if (w.upper < fft)
    w.upper = fft;
  if (w.upper < w.expected)
    w.upper = w.expected;
  return w;
}

/* What of x, y and the filters is made. */
static uint32_t vram__conv_made(const vram__cudnn_conv *c) {
  return c->makes == VRAM__CONV_RESULT ? 1 : c->makes == VRAM__CONV_INPUT ? 0 : 2;
}

/* The largest workspace of all plans: copies of all three tensors, and what is made once more in
   fp32, by kernels that split a sum. Not on Hopper, whose kernels read and write channels-last in
   16 bits as it is and split only sums of TF32; not without tensor cores, where only forward and
   filters of one value are converted. */
static uint64_t vram__conv_largest(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t size = vram__dtype_size(c->dt);
  const int half = c->dt != VRAM_F32, point = c->window == 1;
  const int hopper = d->cc >= 90 && (half || c->makes == VRAM__CONV_INPUT);
  uint64_t xyw[3], copies, sum;
  vram__conv_padded(c, size, xyw);
  copies =
      half && point && c->channels_last ? 0 : vram__product_or_overflow(vram__conv_sum(xyw), size);
  sum = vram__product_or_overflow(xyw[vram__conv_made(c)], 4);
  if (!half && d->cc < 80)
    return c->makes == VRAM__CONV_RESULT || (c->makes == VRAM__CONV_INPUT && point) ? copies : 0;
  if (c->makes == VRAM__CONV_WEIGHT)
    sum = vram__sum_or_overflow(sum, vram__conv_split(d, c, xyw[2]));
  return hopper && c->makes != VRAM__CONV_WEIGHT ? copies : vram__sum_or_overflow(copies, sum);
}

/* What cudnn.benchmark takes before it runs a convolution for the first time. w: the bounds of the
   workspace; each way is tried, so that none is smaller. Upper: a sum in so many parts. */
VRAM__APART VRAM__FN vram_bounds vram__cudnn_search(const vram__device *d,
                                                    const vram__cudnn_conv *c,
                                                    const vram_bounds *w) {
  const uint64_t tile = d->rules->cudnn_conv.split_tile, parts = d->rules->cudnn_conv.search_parts;
  vram_bounds b = *w;
  uint64_t xyw[3], sum;
  b.expected = vram__conv_largest(d, c);
  if (!(d->rules->does & VRAM__CUDNN_9_8)) {
    const uint64_t winograd = vram__conv_winograd(d->rules, c);
    const uint64_t fft = vram__conv_fft(d->rules, c);
    b.expected = b.expected < winograd ? winograd : b.expected;
    b.expected = b.expected < fft ? fft : b.expected;
  }
  if (b.expected < w->expected)
    b.expected = w->expected;
  vram__conv_padded(c, 2, xyw);
  sum = xyw[vram__conv_made(c)];
  if (c->makes == VRAM__CONV_WEIGHT)
    sum = vram__sum_or_overflow(sum, d->sm * tile * tile);
  sum = vram__sum_or_overflow(vram__conv_sum(xyw), vram__product_or_overflow(sum, parts));
  sum = vram__product_or_overflow(sum, 4);
  if (b.upper < sum)
    b.upper = sum;
  if (b.upper < b.expected)
    b.upper = b.expected;
  return b;
}
