#pragma once
#include "api/ledger.h"
/* >>pool ======================================================================================
   A caching allocator over a backend of two functions: blocks are cut from segments, freed blocks
   wait in their segments for the next request of that stream. It handles addresses only and touches
   no memory but its own, so the backend may be a device, the host, or a simulation.

     uint64_t n = vram_pool_bytes(1000, 4);               1000 blocks, free ones included; 4 streams
     vram_pool p;
     vram_pool_init(&p, NULL, &backend, malloc(n), n, &err);
     if (vram_pool_alloc(&p, bytes, stream, &address) == VRAM_OK) ...
     vram_pool_free(&p, address);

   Not thread-safe: one lock around the calls on one pool. */

typedef enum vram_pool_policy {
  /* PyTorch's CUDACachingAllocator, 2.15: the same segments, the same blocks at the same offsets,
     the same counters, call for call */
  VRAM_POOL_TORCH,
  /* never more reserved than that, mostly less: blocks are placed as PyTorch would place them, but
     before more than ever would be reserved, segments that are all free go back to the device; one
     comes back when a block is placed in it. What is reserved is thus at any time a part of what
     PyTorch would have reserved (with segments at ascending addresses, until the device has no
     more). To free memory stops a device for a moment: it is done at most once for 16 requests,
     after the first 256; what the device's limit forces comes on top */
  VRAM_POOL_BEST
} vram_pool_policy;

/* Where segments come from. Addresses are multiples of 512 and never 0. */
typedef struct vram_backend {
  uint64_t (*alloc)(void *user, uint64_t bytes, uint64_t stream); /* 0: there is no more */
  void (*free)(void *user, uint64_t address, uint64_t bytes, uint64_t stream);
  /* for expandable segments; NULL: there are none. reserve gives addresses without memory,
     multiples of the granule; map puts memory behind them, granule by granule of the same size:
     0: there is no more */
  uint64_t (*reserve)(void *user, uint64_t bytes);
  void (*unreserve)(void *user, uint64_t address, uint64_t bytes);
  int (*map)(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
  void (*unmap)(void *user, uint64_t address, uint64_t bytes, uint64_t granule);
  /* for vram_pool_record_stream; NULL: there are no other streams. record marks what was given to
     the stream so far (0: it cannot: the block waits for vram_pool_empty_cache, which records
     again), done asks, or with `wait` waits, until that has run; what is done is asked once */
  uint64_t (*record)(void *user, uint64_t stream);
  int (*done)(void *user, uint64_t event, int wait);
  void *user;
} vram_backend;

/* All zero: PyTorch's defaults. */
typedef struct vram_pool_options {
  vram_pool_policy policy;
  uint64_t max_split_size;         /* bytes; blocks of so many and more are not split; 0: none */
  uint64_t max_non_split_rounding; /* bytes that such a block may be larger; 0: 20 MiB */
  uint64_t large_segment_size;     /* bytes for requests below 10 MiB; 0: 20 MiB */
  uint64_t limit_bytes;            /* memory fraction times the device's memory; 0: none */
  uint64_t total_bytes;            /* of the device: addresses of an expandable segment */
  uint32_t garbage_collection_threshold; /* millionths of limit_bytes; 0: off */
  int expandable_segments;
  uint16_t roundup_power2_divisions[16]; /* of requests below 2 MiB, 4 MiB, ... 32 GiB, above */
  uint32_t streams;                      /* how many may use it, VRAM_POOL_STREAMS at most; 0: 16 */
  uint8_t device;
  void (*event)(void *user, const vram_event *e); /* NULL: nobody listens */
  void *user;
} vram_pool_options;

/* Reads PYTORCH_CUDA_ALLOC_CONF's form: "max_split_size_mb:64,expandable_segments:True". What it
   does not name stays; what does not change which segments there are (pinned memory, locks, logs)
   is passed over. VRAM_ERR_SYNTAX, VRAM_ERR_NAME, VRAM_ERR_VALUE: *err says where, *o is as before.
 */
VRAM_API vram_result vram_pool_config(const char *text, vram_pool_options *o, vram_error *err);

#define VRAM_POOL_STREAMS 64

typedef struct vram_pool {
  vram_pool_options options; /* resolved: no zeros that mean a default */
  vram_backend backend;
  vram_memory_stats stats;
  vram_event as; /* owner, category, kind, phase, node, time of the events that the pool emits */
  /* private */
  struct vram__block *block; /* [0] is none */
  uint64_t *handed;          /* a bit of each block: it is handed out */
  uint32_t *hash;            /* of the addresses that are handed out */
  struct vram__bins *bins;   /* [stream][class]: 0 large, 1 small */
  uint8_t terse;             /* of stats only segments, allocated and reserved bytes are kept */
  uint32_t nblock, cap, unused, nunused, mask;
  uint32_t waiting; /* entries of all queues */
  uint32_t stuck;   /* blocks that wait for a stream that could not be recorded */
  uint32_t serial;  /* policy BEST: segments so far */
  uint32_t credit;  /* and 16 times the segments that may go back now */
  uint64_t highest; /* and reserved bytes so far */
  uint32_t requests[2];
  uint32_t nstream;
  uint64_t stream[VRAM_POOL_STREAMS];
  uint8_t order[VRAM_POOL_STREAMS]; /* of the stream's numbers, ascending */
  uint32_t first[VRAM_POOL_STREAMS], last[VRAM_POOL_STREAMS]; /* queue of what waits for it */
} vram_pool;

/* A piece of a segment, as vram_pool_walk shows it. */
typedef struct vram_piece {
  uint64_t segment, segment_bytes; /* of a growing one: the mapped stretch that the piece is in */
  uint64_t address, bytes, requested, stream;
  int state; /* 0: free, 1: handed out, 2: given back, and streams still use it */
  int small_pool, expandable;
} vram_piece;

/* Memory for so many blocks (handed out and free, and one more for each stream that a block that
   was given back waits for) and streams (0: 16). */
VRAM_API uint64_t vram_pool_bytes(uint32_t blocks, uint32_t streams);

/* An empty pool in the caller's memory; o NULL: all zero. VRAM_ERR_VALUE, VRAM_ERR_MEMORY. */
VRAM_API vram_result vram_pool_init(vram_pool *p, const vram_pool_options *o,
                                    const vram_backend *backend, void *mem, uint64_t bytes,
                                    vram_error *err);

/* *address becomes that of a block of at least so many bytes (0 bytes: a block, too), 0 if it
   fails:
     VRAM_ERR_MEMORY  the backend has no more, also after all that is cached went back
     VRAM_ERR_LIMIT   no room for one more block or stream in the pool's own memory */
VRAM_API vram_result vram_pool_alloc(vram_pool *p, uint64_t bytes, uint64_t stream,
                                     uint64_t *address);

/* VRAM_ERR_VALUE: nothing is handed out at that address; nothing happens. */
VRAM_API vram_result vram_pool_free(vram_pool *p, uint64_t address);

/* Tensor.record_stream: another stream uses it, too; after its free it waits for what that stream
   was given until then. VRAM_ERR_VALUE: nothing is handed out at that address; VRAM_ERR_LIMIT: more
   streams than the pool has room for; VRAM_ERR_UNSUPPORTED: the backend cannot record. */
VRAM_API vram_result vram_pool_record_stream(vram_pool *p, uint64_t address, uint64_t stream);

/* torch.cuda.empty_cache: waits for all streams; whole free segments go back. */
VRAM_API void vram_pool_empty_cache(vram_pool *p);

/* The block at this address: 1, or 0: nothing is handed out there. */
VRAM_API int vram_pool_find(const vram_pool *p, uint64_t address, vram_piece *piece);

/* Bytes of the largest free block that a request of this stream may use (`stream` NULL: of any):
   what a report on too little memory says about fragmentation. */
VRAM_API uint64_t vram_pool_largest_free(const vram_pool *p, const uint64_t *stream);

/* Every piece of every segment, segment by segment, ascending addresses in each. What visit returns
   ends the walk if it is not 0, and is returned. visit must not change the pool. */
VRAM_API int vram_pool_walk(const vram_pool *p, int (*visit)(void *user, const vram_piece *piece),
                            void *user);
