/* >>plan/rom    which memory each constant is read from
   Constants are there all the time, so that only their sizes count: for one memory after the other,
   the fastest first, the set with the most accesses that fits it and leaves no more than the later
   ones can store. It is a knapsack of exact sums: sizes are multiples of some bytes, and there is
   one value for each sum. Where what is left then fits no later memory, constant by constant, all
   ways are tried. */
#include "plan/plan.h"

#define VRAM__ROM_CELLS                                                                            \
  (UINT64_C(1) << 29) /* constants times sums; beyond, sums are rounded up                         \
                       */
#define VRAM__ROM_SUMS (UINT64_C(1) << 24)
#define VRAM__ROM_NODES (UINT64_C(1) << 22) /* of all ways */

typedef struct vram__roms {
  const uint64_t *bytes, *accesses;
  const vram_rom_options *o;
  uint64_t left[VRAM_ARENA_BANKS]; /* what may yet be stored there, or in RAM copied to */
  uint64_t most[VRAM_ARENA_BANKS], value[VRAM_ARENA_BANKS]; /* accesses of the best, of this way */
  uint64_t unit;                                            /* of sizes */
  uint64_t *sum, *taken; /* accesses of each sum; a bit for each sum of each constant */
  uint32_t *item;
  uint8_t *in, *now; /* memories, nbank: none yet */
  uint32_t n, count;
  int proven, has_best;
} vram__roms;

static uint64_t vram__rom_divisor(uint64_t a, uint64_t b) {
  while (b) {
    const uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}

/* The unit of sizes, and how many sums there are. */
static uint64_t vram__rom_sums(const uint64_t *bytes, uint32_t n, uint64_t total, uint64_t *unit,
                               int *exact) {
  uint64_t divisor = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    divisor = vram__rom_divisor(divisor, bytes[i]);
  *unit = divisor += !divisor;
  while (n && (total / *unit >= VRAM__ROM_CELLS / n || total / *unit >= VRAM__ROM_SUMS))
    *unit *= 2;
  *exact = *unit == divisor;
  return total / *unit + 1;
}

VRAM_API uint64_t vram_rom_bytes(const uint64_t *bytes, uint32_t n) {
  uint64_t total = 0, unit, sums;
  uint32_t i;
  int exact;
  if (n > VRAM__ARENA_EXACT)
    return VRAM_OVERFLOW;
  for (i = 0; i < n; i++)
    total = vram__sum_or_overflow(total, bytes[i]);
  if (total > (uint64_t)VRAM_MAX_BYTES)
    return VRAM_OVERFLOW;
  sums = vram__rom_sums(bytes, n, total, &unit, &exact);
  return sums * 8 + (uint64_t)n * (sums / 64 + 1) * 8 + (uint64_t)n * 6 + 64;
}

/* Those that are in no memory yet and could be in one of so many bytes. */
static void vram__rom_candidates(vram__roms *r, uint64_t room) {
  uint32_t i;
  r->count = 0;
  for (i = 0; i < r->n; i++)
    if (r->in[i] == r->o->nbank && r->bytes[i] <= room)
      r->item[r->count++] = i;
}

/* The best sum from `least` to `room`, in units; `none`: there is none. */
static uint64_t vram__rom_best(const vram__roms *r, uint64_t sums, uint64_t least) {
  uint64_t s, best = sums;
  for (s = least; s < sums; s++)
    if (r->sum[s] != VRAM_NOWHERE && (best == sums || r->sum[s] > r->sum[best]))
      best = s;
  return best;
}

/* Puts into a memory what has most accesses there, `least` to `room` bytes; 0: no set is such. */
static int vram__rom_pick(vram__roms *r, uint32_t bank, uint64_t least, uint64_t room) {
  const uint64_t unit = r->unit, sums = room / unit + 1, words = sums / 64 + 1;
  uint64_t s, best;
  uint32_t i;
  vram__rom_candidates(r, room);
  vram__memory_zero(r->taken, r->count * words * sizeof *r->taken);
  for (s = 0; s < sums; s++)
    r->sum[s] = s ? VRAM_NOWHERE : 0;
  for (i = 0; i < r->count; i++) {
    const uint64_t more = r->accesses[r->item[i]];
    const uint64_t size = (r->bytes[r->item[i]] + unit - 1) / unit;
    uint64_t *const bit = r->taken + i * words;
    for (s = sums; s-- > size;) {
      const uint64_t without = r->sum[s], with = r->sum[s - size];
      if (with == VRAM_NOWHERE || (without != VRAM_NOWHERE && with + more <= without))
        continue;
      r->sum[s] = with + more;
      bit[s / 64] |= UINT64_C(1) << s % 64;
    }
  }
  best = vram__rom_best(r, sums, (least + unit - 1) / unit);
  if (best == sums)
    return 0;
  for (i = r->count; i-- > 0;)
    if (r->taken[i * words + best / 64] >> best % 64 & 1) {
      r->in[r->item[i]] = (uint8_t)bank;
      best -= (r->bytes[r->item[i]] + unit - 1) / unit;
    }
  return 1;
}

/* There is room for all: what is never read is not copied. */
static void vram__rom_all(vram__roms *r, uint32_t bank) {
  uint32_t i;
  for (i = 0; i < r->n; i++)
    if (r->in[i] == r->o->nbank && (r->accesses[i] || !r->o->image[bank]))
      r->in[i] = (uint8_t)bank;
}

/* What is in a memory takes room there, and where its image is. */
static uint64_t vram__rom_settle(vram__roms *r, uint32_t bank) {
  const uint32_t image = r->o->image[bank];
  uint64_t bytes = 0;
  uint32_t i;
  for (i = 0; i < r->n; i++)
    bytes += r->in[i] == bank ? r->bytes[i] : 0;
  r->left[bank] -= bytes;
  if (image)
    r->left[image - 1] -= bytes;
  return bytes;
}

/* Bytes that memories from `bank` on store for good. */
static uint64_t vram__rom_storage(const vram__roms *r, uint32_t bank) {
  uint64_t bytes = 0;
  for (; bank < r->o->nbank; bank++)
    if (!r->o->image[bank])
      bytes = vram__sum_or_overflow(bytes, r->left[bank]);
  return bytes;
}

/* Memory by memory; 0: what is left fits no later one. */
static int vram__rom_in_turn(vram__roms *r, uint64_t total) {
  uint32_t bank;
  for (bank = 0; bank < r->o->nbank && total; bank++) {
    const uint32_t image = r->o->image[bank];
    const uint64_t later = vram__rom_storage(r, bank + 1);
    uint64_t room = r->left[bank], least = total > later ? total - later : 0;
    if (image) {
      room = room < r->left[image - 1] ? room : r->left[image - 1];
      least = 0;
    }
    if (room >= total)
      vram__rom_all(r, bank);
    else if (!vram__rom_pick(r, bank, least, room))
      return 0;
    total -= vram__rom_settle(r, bank);
  }
  return !total;
}

static int vram__rom_fits(const vram__roms *r, uint32_t i, uint32_t bank) {
  const uint32_t image = r->o->image[bank];
  return r->bytes[i] <= r->left[bank] && (!image || r->bytes[i] <= r->left[image - 1]);
}

static void vram__rom_put(vram__roms *r, uint32_t i, uint32_t bank, int in) {
  const uint32_t image = r->o->image[bank];
  r->left[bank] += in ? 0 - r->bytes[i] : r->bytes[i];
  if (image)
    r->left[image - 1] += in ? 0 - r->bytes[i] : r->bytes[i];
  r->value[bank] += in ? r->accesses[i] : 0 - r->accesses[i];
}

/* All are somewhere: is it better than the best? */
static void vram__rom_keep(vram__roms *r) {
  uint32_t i, bank = 0;
  while (r->has_best && bank < r->o->nbank && r->value[bank] == r->most[bank])
    bank++;
  if (r->has_best && (bank == r->o->nbank || r->value[bank] < r->most[bank]))
    return;
  r->has_best = 1;
  for (bank = 0; bank < r->o->nbank; bank++)
    r->most[bank] = r->value[bank];
  for (i = 0; i < r->n; i++)
    r->in[i] = r->now[i];
}

/* Each constant into each memory; 0: nothing fits, or the search ended before. */
static int vram__rom_all_ways(vram__roms *r, uint64_t rest) {
  uint64_t nodes = 0;
  uint32_t at = 0, bank;
  for (bank = 0; bank < VRAM_ARENA_BANKS; bank++)
    r->value[bank] = 0;
  r->now[0] = 0;
  for (;;) {
    const int hopeless = r->has_best && r->value[0] + rest < r->most[0];
    if (at == r->n)
      vram__rom_keep(r);
    bank = at < r->n && !hopeless ? r->now[at] : r->o->nbank;
    while (bank < r->o->nbank && !vram__rom_fits(r, at, bank))
      bank++;
    if (bank < r->o->nbank && nodes++ < VRAM__ROM_NODES) {
      r->now[at] = (uint8_t)bank;
      vram__rom_put(r, at, bank, 1);
      rest -= r->accesses[at++];
      if (at < r->n)
        r->now[at] = 0;
      continue;
    }
    if (!at || nodes >= VRAM__ROM_NODES)
      break;
    rest += r->accesses[--at];
    vram__rom_put(r, at, r->now[at], 0);
    r->now[at]++;
  }
  r->proven = nodes < VRAM__ROM_NODES;
  return r->has_best;
}

static vram_result vram__rom_check(const vram_rom_options *o, vram_error *err) {
  uint32_t i;
  if (!o->nbank || o->nbank > VRAM_ARENA_BANKS)
    return vram__error_begin(err, VRAM_ERR_VALUE, 0, "no memories, or more than VRAM_ARENA_BANKS");
  for (i = 0; i < o->nbank; i++)
    if (o->image[i] &&
        (o->image[i] > o->nbank || o->image[i] <= i + 1 || o->image[o->image[i] - 1]))
      return vram__error_begin(err, VRAM_ERR_VALUE, (uint64_t)i + 1,
                               "a memory that is filled from no slower one that keeps it");
  return VRAM_OK;
}

static vram_result vram__rom_too_much(const vram__roms *r, vram_rom *rom, vram_error *err) {
  uint64_t most = 0;
  uint32_t i;
  for (i = 0; i < r->o->nbank; i++)
    if (!r->o->image[i] && r->o->capacity[i] > most)
      most = r->o->capacity[i];
  for (i = 0; i < r->n; i++)
    if (r->bytes[i] > most) {
      rom->over_bytes = r->bytes[i] - most;
      return vram__error_begin(err, VRAM_ERR_LIMIT, (uint64_t)i + 1, "a constant fits no memory");
    }
  return vram__error_begin(err, VRAM_ERR_LIMIT, 0,
                           r->proven ? "no choice of whole constants fits the memories"
                                     : "no choice of whole constants was found that fits");
}

static void vram__rom_begin(vram__roms *r, uint8_t *at, uint64_t sums) {
  uint32_t i;
  r->sum = (uint64_t *)(void *)at;
  r->taken = r->sum + sums;
  r->item = (uint32_t *)(void *)(r->taken + (uint64_t)r->n * (sums / 64 + 1));
  r->in = (uint8_t *)(r->item + r->n);
  r->now = r->in + r->n;
  for (i = 0; i < r->o->nbank; i++)
    r->left[i] = r->o->capacity[i];
  for (i = 0; i < r->n; i++)
    r->in[i] = (uint8_t)(r->bytes[i] ? r->o->nbank : 0);
}

VRAM_API vram_result vram_rom_place(const uint64_t *bytes, const uint64_t *accesses, uint32_t n,
                                    const vram_rom_options *o, void *scratch,
                                    uint64_t scratch_bytes, uint32_t *memory, vram_rom *rom,
                                    vram_error *err) {
  vram__roms r;
  uint64_t total = 0, rest = 0, storage, sums;
  uint32_t i;
  vram__error_clear(err);
  vram__memory_zero(rom, sizeof *rom);
  if (vram__rom_check(o, err))
    return VRAM_ERR_VALUE;
  for (i = 0; i < n; i++) {
    total = vram__sum_or_overflow(total, bytes[i]);
    rest = vram__sum_or_overflow(rest, accesses[i]);
  }
  if (total > (uint64_t)VRAM_MAX_BYTES || rest > (uint64_t)VRAM_MAX_BYTES)
    return vram__error_begin(err, VRAM_ERR_OVERFLOW, 0, "constants beyond 2^63-1 bytes");
  if (n > VRAM__ARENA_EXACT)
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "too many constants");
  if (scratch_bytes < vram_rom_bytes(bytes, n) || !scratch)
    return vram__error_begin(err, VRAM_ERR_MEMORY, 0, "scratch is too small");
  vram__memory_zero(&r, sizeof r);
  r.bytes = bytes;
  r.accesses = accesses;
  r.o = o;
  r.n = n;
  sums = vram__rom_sums(bytes, n, total, &r.unit, &r.proven);
  vram__rom_begin(&r, (uint8_t *)scratch, sums);
  storage = vram__rom_storage(&r, 0);
  if (total > storage) {
    rom->over_bytes = total - storage;
    return vram__error_begin(err, VRAM_ERR_LIMIT, 0, "constants that the memories do not hold");
  }
  if (!vram__rom_in_turn(&r, total)) {
    vram__rom_begin(&r, (uint8_t *)scratch, sums);
    if (!vram__rom_all_ways(&r, rest))
      return vram__rom_too_much(&r, rom, err);
  }
  for (i = 0; i < n; i++) {
    memory[i] = r.in[i];
    rom->bytes[memory[i]] += bytes[i];
    rom->accesses[memory[i]] += accesses[i];
    if (o->image[memory[i]])
      rom->image_bytes[o->image[memory[i]] - 1] += bytes[i];
  }
  rom->proven = r.proven;
  return VRAM_OK;
}
