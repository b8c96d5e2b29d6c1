/* >>torch/cudnn    workspaces that cuDNN's convolutions ask for on a real device
   What cuDNN chooses is known where it runs only; which algorithms there are, and what they need,
   its guide says. PyTorch asks cuDNN's heuristics and takes the first plan whose workspace can be
   allocated (Conv_v8.cpp, try_plans; Conv_v7.cpp, AlgoIterator): no limit, but none of them is
   needed to run. */
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

/* Kernels for tensor cores read and write channels-last: copies of all three tensors that are
   stored otherwise. Of fp32 they round to TF32 on the way. */
static uint64_t vram__conv_copies(const vram__device *d, const vram__cudnn_conv *c) {
  const int low = c->dt == VRAM_F16 ? d->cc >= 70 : c->dt == VRAM_BF16 ? d->cc >= 80 : 0;
  if (c->channels_last || c->grouped || !(low || (c->dt == VRAM_F32 && d->cc >= 80)))
    return 0;
  return vram__product_or_overflow(c->elements, vram__dtype_size(c->dt));
}

/* Winograd's form multiplies a quarter as often, but not on tensor cores. Those of the cc that end
   in 0 multiply TF32 more than four times as fast (A100: 156 to 19.5 TFLOP/s), so there it remains
   for narrow filters, which wait for memory; others' do not (RTX 3090: both 35.6). An image's
   few channels are not worth transforming. */
static int vram__conv_prefers_winograd(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t few = d->rules->cudnn_conv.image_channels, *n = c->channels;
  if (n[0] <= few || n[1] <= few)
    return 0;
  return d->cc < 80 || d->cc % 10 ||
         vram__product_or_overflow(n[0], n[1]) <=
             vram__product_or_overflow(n[0] + n[1], d->rules->cudnn_conv.narrow_channels);
}

/* What the heuristics take most often. In fp32: a filter of one value is a matrix product, which
   needs none (MobileNetV2 and EfficientNet on an A100), filters of 3x3 go through Winograd's
   transforms (reserved bytes of VGG-16 and Inception v3 on an A100) or through tensor cores,
   larger ones through FFT (kernels of AlexNet on an A100: 3x3 with 192 to 384 channels ran on
   tensor cores behind conversions to channels-last, 5x5 through tiles of 32x32). */
static uint64_t vram__conv_expected(const vram__device *d, const vram__cudnn_conv *c,
                                    uint64_t winograd, uint64_t fft) {
  const int64_t least = d->rules->cudnn_conv.fft_least;
  if (c->dt != VRAM_F32 || c->channels_last)
    return vram__conv_copies(d, c);
  if (c->pointwise)
    return 0;
  if (winograd && vram__conv_prefers_winograd(d, c))
    return winograd;
  if (fft && c->kernel[0] >= least && c->kernel[1] >= least)
    return fft;
  return vram__conv_copies(d, c);
}

/* Lower: a convolution without workspace always runs. Upper: the largest of all, at least each
   tensor once in fp32, as kernels that split a sum add up in it. */
VRAM__FN vram_bounds vram__cudnn_workspace(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t winograd = vram__conv_winograd(d->rules, c);
  const uint64_t fft = vram__conv_fft(d->rules, c);
  vram_bounds w;
  w.lower = 0;
  w.expected = vram__conv_expected(d, c, winograd, fft);
  w.upper = vram__product_or_overflow(c->elements, 4);
  if (w.upper < winograd)
    w.upper = winograd;
  if (w.upper < fft)
    w.upper = fft;
  if (w.upper < w.expected)
    w.upper = w.expected;
  return w;
}
