#pragma once
#include "api/event.h"
/* >>arena =====================================================================================
   Offsets for buffers whose sizes and lifetimes are known: buffers that live at the same time do
   not overlap, and the arena is as small as can be found.

     vram_buffer b[3] = {{1000, 0, 2}, {500, 1, 3}, {1000, 2, 4}};      bytes, begin, end
     vram_arena a;
     uint64_t n = vram_arena_bytes(3, NULL);
     vram_arena_plan(b, 3, NULL, malloc(n), n, &a, &err);
     b[0].offset, ..., a.height_bytes, a.lower_bound_bytes, a.proven

   Time is any count that grows (a move of a schedule, an op): a buffer lives in [begin, end), end
   excluded. Two buffers overlap in time if each begins before the other ends.

   Some greedy orders come first; if none reaches the bound, a search follows that ends with a
   proof, after so many nodes or when `stop` says so. The search is for up to 1,536 buffers at a
   time: where no buffer lives across a moment, it begins anew. The greedy orders place 60,000
   buffers in a second. Where the first order takes too long, as with hundreds of thousands of
   buffers that live at once, each buffer is stacked on those below it, without a search for gaps.
 */

typedef struct vram_buffer {
  uint64_t bytes;      /* 0: allowed, its offset is 0 or what is pinned */
  uint64_t begin, end; /* begin < end */
  uint64_t align;      /* of the offset, a power of two; 0: vram_arena_options.align */
  uint64_t offset;     /* in bytes from the start of its bank: the result, or given with `pinned` */
  uint32_t bank;       /* the result, or given with `pinned` */
  uint32_t banks;      /* bit i: bank i is allowed; 0: any */
  uint8_t pinned;
} vram_buffer;

#define VRAM_ARENA_BANKS 8

/* The greedy orders: what is placed first, and into which gap, the first that holds it or the
   smallest (_best). `tflm` is what TensorFlow Lite Micro's planner does: sizes rounded up to the
   alignment, the larger first, of equal ones the later. The letters: T the most bytes that live at
   one time while the buffer does, S its size, B its begin, E its end, W how long it lives in
   sections (from one begin after an end to the next), A size times W, R the size rounded up, I the
   later buffer; the larger, the earlier B first; where one letter is equal the next decides. */
#define VRAM_ARENA_ORDERS(X)                                                                       \
  X(load, "TSB", FIRST, 0)                                                                         \
  X(start_best, "BS", BEST, 1)                                                                     \
  X(load_width_best, "TW", BEST, 0)                                                                \
  X(start, "BS", FIRST, 1)                                                                         \
  X(size, "SB", FIRST, 0)                                                                          \
  X(area, "A", FIRST, 0)                                                                           \
  X(width, "W", FIRST, 0)                                                                          \
  X(start_end_best, "BES", BEST, 1)                                                                \
  X(start_end, "BES", FIRST, 1)                                                                    \
  X(size_width, "SW", FIRST, 0)                                                                    \
  X(size_width_best, "SW", BEST, 0)                                                                \
  X(load_width, "TW", FIRST, 0)                                                                    \
  X(width_best, "W", BEST, 0)                                                                      \
  X(area_best, "A", BEST, 0)                                                                       \
  X(load_best, "TSB", BEST, 0)                                                                     \
  X(size_best, "SB", BEST, 0)                                                                      \
  X(tflm, "RI", FIRST, 0)

typedef enum vram_arena_order {
  VRAM_ARENA_ORDER_all,
#define VRAM__X(id, letters, fit, in_order) VRAM_ARENA_ORDER_##id,
  VRAM_ARENA_ORDERS(VRAM__X)
#undef VRAM__X
      VRAM_ARENA_ORDER_COUNT
} vram_arena_order;

#ifndef VRAM_NO_PLAN
VRAM_API const char *vram_arena_order_name(uint32_t order); /* "tflm"; "?" */
#endif

/* All zero: one bank without a limit, offsets multiples of 1, a search of a million nodes (some
   seconds). With banks: a buffer goes to the first bank (the fastest) that has room for it, what is
   pinned first, then what may be in no later one. */
typedef struct vram_arena_options {
  uint64_t align;                      /* of every offset, a power of two; 0: 1 */
  uint64_t capacity[VRAM_ARENA_BANKS]; /* bytes of every bank; 0: no limit */
  uint32_t nbank;                      /* 0: one */
  uint64_t nodes;                      /* of the search at most; 0: a million */
  int greedy;                          /* no search: less scratch, too */
  vram_arena_order order;              /* the plan of this greedy order only, without a search */
  uint64_t enough_bytes;               /* a height that is good enough to stop; 0: the bound */
  int (*stop)(void *user); /* asked now and then; not 0: stop with what there is. NULL: never */
  void *user;
} vram_arena_options;

typedef struct vram_arena {
  uint64_t height_bytes;      /* bank 0; the plan needs so many bytes */
  uint64_t lower_bound_bytes; /* no plan needs less: the largest sum of what lives at one time,
                                 or what the search proved; of bank 0 with what is in it */
  uint64_t bank_bytes[VRAM_ARENA_BANKS]; /* height of every bank */
  int proven;                            /* no plan is lower; with banks: each holds all that may
                                            be there, and is as low as it can be */
  uint64_t nodes;                        /* of the search */
} vram_arena;

#ifndef VRAM_NO_PLAN
/* Scratch for n buffers; o NULL: all zero. VRAM_OVERFLOW: too many. */
VRAM_API uint64_t vram_arena_bytes(uint32_t n, const vram_arena_options *o);

/* Gives every buffer its offset (and bank). The same input gives the same plan on every machine,
   unless `stop` stops it. On an error no buffer is changed; err->line is 1 + the buffer, 0: none:
     VRAM_ERR_VALUE     lifetimes that end before they begin, alignments that are no powers of two,
                        pins where nothing can be or over one another, no such order or bank
     VRAM_ERR_OVERFLOW  sizes and alignments that add up to more than VRAM_MAX_BYTES
     VRAM_ERR_LIMIT     they do not fit into the banks; *arena says the height that was found. Or
                        the one order that is asked for takes too long for so many buffers
     VRAM_ERR_MEMORY    scratch is too small */
VRAM_API vram_result vram_arena_plan(vram_buffer *b, uint32_t n, const vram_arena_options *o,
                                     void *scratch, uint64_t scratch_bytes, vram_arena *arena,
                                     vram_error *err);

/* Checks a plan, whoever made it, without any part of the planner: alignment, banks, capacities, no
   two buffers that live at the same time overlap. VRAM_OK: *arena says its heights and the bound.
   VRAM_ERR_VALUE: err says which two buffers. Scratch as vram_arena_bytes. */
VRAM_API vram_result vram_arena_verify(const vram_buffer *b, uint32_t n,
                                       const vram_arena_options *o, void *scratch,
                                       uint64_t scratch_bytes, vram_arena *arena, vram_error *err);

/* Which bank each buffer is in, and where: of several memories, the fastest first, each takes the
   buffers with the most accesses that fit together (accesses[i]: bytes of buffer i that are read
   and written), what is spilled goes to the next; the last one, or one without a limit, takes what
   is left. Exact where arena->proven says so: no other set for the first bank has more accesses,
   nor one for the second of what is then left, and so on; and the last bank is as low as it can be.
   Nothing may be pinned. Then vram_arena_verify holds.
     VRAM_ERR_LIMIT   what is left does not fit the last bank, whose bank_bytes is what it would
                      take; or buffer err->line - 1 fits no bank
     VRAM_ERR_VALUE   a buffer that is pinned or has no lifetime, no banks
     VRAM_ERR_MEMORY  scratch is too small */
VRAM_API uint64_t vram_arena_spill_bytes(uint32_t n, const vram_arena_options *o);
VRAM_API vram_result vram_arena_spill(vram_buffer *b, const uint64_t *accesses, uint32_t n,
                                      const vram_arena_options *o, void *scratch,
                                      uint64_t scratch_bytes, vram_arena *arena, vram_error *err);

/* Which memory each of n constants is read from: of several, the fastest first, each takes those
   with the most accesses that fit (accesses[i]: bytes of constant i that are read), as long as the
   later ones can hold what is left. All constants are there all the time. Exact where rom->proven
   says so: no other choice has more accesses in the first memory, nor one for the second of what is
   then left, and so on. Sizes are rounded up, and it is not, where there are more than 2^24 sums of
   bytes (64 MiB of multiples of 4), or sums times constants are more than 2^29; and where next to
   nothing is left free, the search for a way to fit them at all may end before.
     VRAM_ERR_LIMIT     they do not fit, by rom->over_bytes: all of them, or constant err->line - 1
                        alone; 0: there are bytes enough, but not for whole constants. Or they are
                        more than 1,536
     VRAM_ERR_OVERFLOW  bytes or accesses that add up to more than VRAM_MAX_BYTES
     VRAM_ERR_VALUE     no memories, an image that is in none, or in one before
     VRAM_ERR_MEMORY    scratch is too small */
typedef struct vram_rom_options {
  uint64_t capacity[VRAM_ARENA_BANKS]; /* bytes; VRAM_MAX_BYTES: without a limit */
  uint32_t image[VRAM_ARENA_BANKS]; /* RAM that is filled at start: 1 + the memory that keeps what
                                       is in it, a later one. 0: it keeps that itself */
  uint32_t nbank;
} vram_rom_options;

typedef struct vram_rom {
  uint64_t bytes[VRAM_ARENA_BANKS];       /* of constants that are read from there */
  uint64_t image_bytes[VRAM_ARENA_BANKS]; /* kept there for other memories */
  uint64_t accesses[VRAM_ARENA_BANKS];
  uint64_t over_bytes;
  int proven;
} vram_rom;

VRAM_API uint64_t vram_rom_bytes(const uint64_t *bytes, uint32_t n); /* of scratch */
VRAM_API vram_result vram_rom_place(const uint64_t *bytes, const uint64_t *accesses, uint32_t n,
                                    const vram_rom_options *o, void *scratch,
                                    uint64_t scratch_bytes, uint32_t *memory, vram_rom *rom,
                                    vram_error *err);
#endif
