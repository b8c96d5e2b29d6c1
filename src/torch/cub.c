/* >>torch/cub    temporary storage of cub's device algorithms */
#include "torch/torch.h"

/* A part of temporary storage. */
VRAM__FN uint64_t vram__cub_part(const vram__step *s, uint64_t bytes) {
  return vram__round_up_u64(bytes, s->device.rules->cub.align);
}

/* To align the first part, and so many small parts. */
static uint64_t vram__cub_least(const vram__step *s, uint32_t parts) {
  return (parts + 1) * s->device.rules->cub.align - 1;
}

/* Which row of the tables of tiles it is, for a selection or a scan by key. */
static uint32_t vram__cub_device(const vram__step *s) {
  return s->device.cc >= 90 ? 2 : s->device.cc == 80 ? 1 : 0;
}

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
   0: numbers of segments; value 0: SortKeys */
VRAM__FN uint64_t vram__cub_sort(const vram__step *s, uint64_t n, uint32_t key, uint32_t value,
                                 uint32_t bits) {
  const vram__rules *rules = s->device.rules;
  const uint32_t passes = (bits + 7) / 8;
  const uint32_t device = s->device.cc < 80 ? 0 : s->device.cc < 90 ? 1 : 2;
  const uint32_t keys = key == 1 ? 6 : key == 2 ? 7 : key == 4 ? 8 : 9;
  const uint32_t pair = key == 0     ? 5
                        : !value     ? keys
                        : value == 4 ? 4
                        : key == 1   ? 0
                        : key == 2   ? 1
                        : key == 4   ? 2
                                     : 3;
  const uint64_t tile = rules->cub.sort_tile[device][pair];
  const uint64_t second = vram__cub_part(s, n * key) + vram__cub_part(s, n * value);
  if (n <= (value == 4 || (!value && key < 8) ? rules->cub.one_tile_4 : rules->cub.one_tile_8) &&
      key)
    return 1;
  if (!tile)
    return rules->cub.align - 1 + second +
           4 * ((key == 1 ? 128u : 256u) * UINT64_C(5) * s->device.sm * (s->device.threads / 256) +
                rules->cub.sort_spine);
  return vram__cub_least(s, 1) + rules->cub.sort_pass * passes +
         rules->cub.sort_look * vram__div_up_u64(n, tile) + (passes > 1 ? second : 0);
}

/* kind 0, 1: unique_by_key with keys of 8, of 4 bytes; 2: a selection */
VRAM__FN uint64_t vram__cub_select(const vram__step *s, uint64_t n, uint32_t kind) {
  const vram__rules *rules = s->device.rules;
  const uint64_t tile = rules->cub.select_tile[vram__cub_device(s)][kind];
  return vram__cub_least(s, kind < 2 ? rules->cub.unique_parts : 1) +
         vram__cub_part(s, 8 * (vram__div_up_u64(n, tile) + rules->cub.scan_pad));
}

VRAM__FN uint64_t vram__cub_scan(const vram__step *s, uint64_t n, vram_dtype dt) {
  const vram__rules *rules = s->device.rules;
  const uint32_t esize = vram__dtype_size(dt);
  const int pair = dt == VRAM_C64 || dt == VRAM_C128;
  const uint64_t tile = pair         ? rules->cub.scan_block * (rules->cub.scan_items * 4 / esize)
                        : esize == 8 ? rules->cub.scan_tile_8
                        : esize == 4 ? rules->cub.scan_tile_4
                                     : rules->cub.scan_tile_2;
  const uint64_t tiles = vram__div_up_u64(n, tile) + rules->cub.scan_pad;
  const uint64_t least = vram__cub_least(s, rules->cub.scan_parts);
  if (esize == 2 || pair) /* a tile's state, its sum, and that of all before it */
    return least + vram__cub_part(s, 4 * tiles) + 2 * vram__cub_part(s, esize * tiles);
  return least + vram__cub_part(s, (esize == 8 ? 16 : 8) * tiles);
}

/* cub::DeviceScan::InclusiveSumByKey with keys of so many bytes */
VRAM__FN uint64_t vram__cub_by_key(const vram__step *s, uint64_t n, uint32_t key) {
  const vram__rules *rules = s->device.rules;
  const uint64_t tile = rules->cub.by_key_tile[vram__cub_device(s)][key == 4];
  const uint64_t tiles = vram__div_up_u64(n, tile);
  return vram__cub_least(s, 1) + vram__cub_part(s, 8 * (tiles + rules->cub.scan_pad)) +
         vram__cub_part(s, key / 2 * (tiles + 2));
}

/* cub::DeviceReduce::Sum of n numbers */
VRAM__FN void vram__cub_sum(vram__step *s, uint64_t n) {
  const vram__rules *rules = s->device.rules;
  vram__workspace_use(
      s, n <= rules->cub.one_reduce
             ? 1
             : rules->cub.align - 1 +
                   vram__cub_part(s, UINT64_C(20) * s->device.sm * (s->device.threads / 256)));
}

/* The positions where a mask of n elements is set, `ndim` numbers each, `most` of them; ndim 0:
   none. Gives their storage (Nonzero.cu). */
VRAM__FN uint32_t vram__cub_nonzero_some(vram__step *s, uint64_t n, uint64_t most, uint32_t ndim) {
  uint32_t count = vram__cub_hold(s, 4), out;
  vram__cub_sum(s, n);
  out = vram__cub_hold(s, vram__product_or_overflow(vram__product_or_overflow(most, ndim), 8));
  vram__workspace_use(s, vram__cub_select(s, n, 2));
  vram__cub_release(s, count);
  return out;
}

/* The same of all elements, as an upper bound. */
VRAM__FN uint32_t vram__cub_nonzero(vram__step *s, uint64_t n, uint32_t ndim) {
  return vram__cub_nonzero_some(s, n, n, ndim);
}
