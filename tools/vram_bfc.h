/* The best-fit allocator with coalescing of TensorFlow and XLA (bfc_allocator.cc of tsl): what JAX
   and TensorFlow place their device memory with. Requests are rounded up to 256 bytes; the smallest
   free chunk that holds one is taken, of equal ones that at the lowest address; it is split where
   twice the request fits, or 128 MiB would be left over; neighbours that are free become one. */
#ifndef VRAM_BFC_H
#define VRAM_BFC_H

#include "vram_trace.h"

typedef struct bfc_chunk {
  uint64_t address, bytes, requested; /* requested 0: free */
  uint32_t before, after;             /* neighbours in the region; unused: after is the next one */
} bfc_chunk;

typedef struct bfc_stats { /* names as in jax.Device.memory_stats() */
  uint64_t num_allocs, bytes_in_use, peak_bytes_in_use, largest_alloc_size, bytes_limit, pool_bytes,
      peak_pool_bytes;
  uint64_t requested, peak_requested, regions, peak_regions, failed;
} bfc_stats;

typedef struct bfc {
  bfc_stats stats;
  bfc_chunk *chunk;
  uint32_t *free; /* chunks by size, then address */
  uint32_t nchunk, chunk_cap, nfree, unused;
  uint64_t region_bytes;     /* of the next region, if that is enough */
  uint64_t next;             /* address of the next region */
  uint64_t hint, hint_bytes; /* where a region of that size was; 0: nowhere */
  uint64_t extended;         /* the region that the last allocation took; 0: none */
  int garbage_collection, no_memory;
} bfc;

#define BFC_NONE UINT32_MAX

/* limit: of all regions; preallocate: the first region is all of it. */
void bfc_begin(bfc *b, uint64_t limit, int preallocate, int garbage_collection);
/* The chunk, BFC_NONE: no place (or b->no_memory); bytes > 0 */
uint32_t bfc_alloc(bfc *b, uint64_t bytes);
void bfc_free(bfc *b, uint32_t at); /* a chunk in use */
uint64_t bfc_largest_free(const bfc *b);
void bfc_end(bfc *b);

typedef struct bfc_job {
  const char *conf; /* preallocate:True,garbage_collection:True */
  uint64_t total_bytes;
  double fraction;
  int json, csv;
} bfc_job;

/* vram replay --policy bfc */
int bfc_replay(const bfc_job *j, const trace *t);

#endif
