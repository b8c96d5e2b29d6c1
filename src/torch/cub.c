/* >>torch/cub    temporary storage of cub's device algorithms */
#include "torch/torch.h"

VRAM__FN uint64_t vram__cub_round_up(uint64_t n) { return (n + 255) & ~UINT64_C(255); }
VRAM__FN uint64_t vram__cub_tiles(uint64_t n, uint64_t tile) { return (n + tile - 1) / tile; }

/* Scratch that stays for a while: its storage. */
VRAM__FN uint32_t vram__cub_hold(vram__step *s, uint64_t bytes) {
  uint8_t cat = s->cat;
  uint32_t i;
  s->cat = VRAM_CATEGORY_WORKSPACE;
  i = s->ideal ? 0 : vram__storage_new(s, bytes);
  s->cat = cat;
  return i;
}

VRAM__FN void vram__cub_release(vram__step *s, uint32_t i) {
  if (i)
    vram__slot_release(s, i);
}

/* cub::DeviceRadixSort::SortPairs of n keys and values of so many bytes over `bits` of the key; key
   0: numbers of segments */
VRAM__FN uint64_t vram__cub_sort(const vram__step *s, uint64_t n, uint32_t key, uint32_t value,
                                 uint32_t bits) {
  uint32_t passes = (bits + 7) / 8;
  uint64_t tile = vram__cub_sort_tile[s->device.cc < 80   ? 0
                                      : s->device.cc < 90 ? 1
                                                          : 2][key == 0     ? 5
                                                               : value == 4 ? 4
                                                               : key == 1   ? 0
                                                               : key == 2   ? 1
                                                               : key == 4   ? 2
                                                                            : 3];
  uint64_t second = vram__cub_round_up(n * key) + vram__cub_round_up(n * value);
  if (n <= (value == 4 ? VRAM__CUB_ONE_TILE_4 : VRAM__CUB_ONE_TILE_8) && key)
    return 1;
  if (!tile)
    return 255 + second +
           4 * ((key == 1 ? 128u : 256u) * UINT64_C(5) * s->device.sm * (s->device.threads / 256) +
                VRAM__CUB_SPINE);
  return VRAM__CUB_PARTS + VRAM__CUB_SORT_PASS * passes +
         VRAM__CUB_SORT_TILE * vram__cub_tiles(n, tile) + (passes > 1 ? second : 0);
}

/* kind 0, 1: unique_by_key with keys of 8, of 4 bytes; 2: a selection */
VRAM__FN uint64_t vram__cub_select(const vram__step *s, uint64_t n, uint32_t kind) {
  uint64_t tile = vram__cub_select_tile[s->device.cc >= 90 ? 2 : s->device.cc == 80 ? 1 : 0][kind];
  return VRAM__CUB_PARTS + (kind < 2 ? 256 : 0) +
         vram__cub_round_up(8 * (vram__cub_tiles(n, tile) + VRAM__CUB_SCAN_PAD));
}

VRAM__FN uint64_t vram__cub_scan(uint64_t n, uint32_t esize) {
  uint64_t t = vram__cub_tiles(n, esize == 8   ? VRAM__CUB_SCAN_TILE_8
                                  : esize == 4 ? VRAM__CUB_SCAN_TILE_4
                                               : VRAM__CUB_SCAN_TILE_2) +
               VRAM__CUB_SCAN_PAD;
  if (esize == 2)
    return VRAM__CUB_PARTS + vram__cub_round_up(4 * t) + 512 * vram__cub_tiles(t, 128);
  return VRAM__CUB_PARTS + vram__cub_round_up((esize == 8 ? 16 : 8) * t);
}

/* cub::DeviceScan::InclusiveSumByKey with keys of so many bytes */
VRAM__FN uint64_t vram__cub_by_key(const vram__step *s, uint64_t n, uint32_t key) {
  uint64_t t = vram__cub_tiles(n, vram__cub_by_key_tile[s->device.cc >= 90   ? 2
                                                        : s->device.cc == 80 ? 1
                                                                             : 0][key == 4]);
  return VRAM__CUB_PARTS + vram__cub_round_up(8 * (t + VRAM__CUB_SCAN_PAD)) +
         vram__cub_round_up(key / 2 * (t + 2));
}

/* The positions where a mask of n elements is set, `ndim` numbers each: all of them, as an upper
   bound; ndim 0: none. Gives their storage (Nonzero.cu). */
VRAM__FN uint32_t vram__cub_nonzero(vram__step *s, uint64_t n, uint32_t ndim) {
  uint32_t count = vram__cub_hold(s, 4), out;
  vram__workspace_use(
      s, n <= VRAM__CUB_ONE_REDUCE
             ? 1
             : 255 + vram__cub_round_up(UINT64_C(20) * s->device.sm * (s->device.threads / 256)));
  out = vram__cub_hold(s, vram__product_or_overflow(vram__product_or_overflow(n, ndim), 8));
  vram__workspace_use(s, vram__cub_select(s, n, 2));
  vram__cub_release(s, count);
  return out;
}
