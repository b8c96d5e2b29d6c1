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

/* Lower: a convolution without workspace always runs. Expected: what the heuristics take most
   often. In fp32 filters of 3x3 go through Winograd's transforms (kernels of VGG-16 in
   pytorch/pytorch#49207; reserved bytes of VGG-16 and Inception v3 on an A100), others through
   tensor cores if the device has them for the dtype, what remains needs next to nothing
   (IMPLICIT_PRECOMP_GEMM). Upper: the largest of all, at least each tensor once in fp32, as kernels
   that split a sum add up in it. */
VRAM__FN vram_bounds vram__cudnn_workspace(const vram__device *d, const vram__cudnn_conv *c) {
  const uint64_t winograd = vram__conv_winograd(d->rules, c);
  const uint64_t fft = vram__conv_fft(d->rules, c);
  vram_bounds w;
  w.lower = 0;
  w.expected =
      c->dt == VRAM_F32 && !c->channels_last && winograd ? winograd : vram__conv_copies(d, c);
  w.upper = vram__product_or_overflow(c->elements, 4);
  if (w.upper < winograd)
    w.upper = winograd;
  if (w.upper < fft)
    w.upper = fft;
  if (w.upper < w.expected)
    w.upper = w.expected;
  return w;
}
