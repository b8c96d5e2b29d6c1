/* >>backend ====================================================================================
   A vram_pool over CUDA, for use by any thread:

     n = vram_cuda_pool_bytes(&o);
     vram_cuda_pool_init(&p, api, &o, malloc(n), n, &err)
     vram_cuda_pool_alloc(&p, &ptr, bytes, stream), vram_cuda_pool_free(&p, ptr)

   One lock stands around every call, also while the pool asks CUDA for a segment or gives one back,
   as PyTorch does: two threads that find nothing free would else both take a segment where one is
   enough, and a thread might not find what another is about to give back. Blocks that are there
   are handed out without a CUDA call. While a stream is captured no segment can be had from
   cudaMalloc: run what is to be captured once before. */

typedef enum vram_cuda_source {
  VRAM_CUDA_FROM_MALLOC, /* segments by cudaMalloc */
  VRAM_CUDA_FROM_ASYNC   /* by cudaMallocAsync on the stream of the request: freeing one does not
                            wait for the device */
} vram_cuda_source;

/* All zero: device 0, segments by cudaMalloc, PyTorch's policy and defaults, 16,384 blocks. With
   pool.expandable_segments memory is mapped as segments grow. pool.event and pool.user, pool.device
   and pool.total_bytes are filled in. */
typedef struct vram_cuda_pool_options {
  vram_pool_options pool;
  uint32_t device, blocks;
  vram_cuda_source source;
  uint64_t release_threshold; /* FROM_ASYNC: what the device's memory pool keeps at most when it
                                 could give it back; 0: as it is set */
  vram_cuda_tracker *tracker; /* counts the pool's segments and blocks; NULL: nobody */
} vram_cuda_pool_options;

#define VRAM_CUDA_EVENTS 64

typedef struct vram_cuda_pool {
  vram_pool pool;
  const vram_cuda_api *api;
  vram_cuda_pool_options options;
  uint64_t failures; /* of calls that give back; each was tried twice */
  /* private */
  void *event[VRAM_CUDA_EVENTS];
  uint64_t asked; /* of the device, by the last request that failed */
  uint32_t nevent, process;
  void *lock;
} vram_cuda_pool;

/* Memory for a pool. o NULL: all zero. */
VRAM_API uint64_t vram_cuda_pool_bytes(const vram_cuda_pool_options *o);
/* VRAM_ERR_MEMORY: too little memory; VRAM_ERR_VALUE: options out of range, no such device;
   VRAM_ERR_UNSUPPORTED: this CUDA lacks functions that the options need */
VRAM_API vram_result vram_cuda_pool_init(vram_cuda_pool *p, const vram_cuda_api *api,
                                         const vram_cuda_pool_options *o, void *mem, uint64_t bytes,
                                         vram_error *err);
/* Waits for streams, gives back every segment that is free, and all events. Returns the bytes of
   blocks that are still handed out: their segments stay CUDA's to clean up. */
VRAM_API uint64_t vram_cuda_pool_end(vram_cuda_pool *p);

/* As vram_pool_alloc and its kin. When there is no more memory the tracker writes its report. */
#define vram_cuda_pool_alloc(p, ptr, bytes, stream)                                                \
  vram_cuda_pool_alloc_at(p, __FILE__, __LINE__, __func__, ptr, bytes, stream)
VRAM_API vram_result vram_cuda_pool_alloc_at(vram_cuda_pool *p, const char *file, uint32_t line,
                                             const char *function, void **ptr, uint64_t bytes,
                                             void *stream);
VRAM_API vram_result vram_cuda_pool_free(vram_cuda_pool *p, void *ptr);
VRAM_API vram_result vram_cuda_pool_record_stream(vram_cuda_pool *p, void *ptr, void *stream);
VRAM_API void vram_cuda_pool_empty_cache(vram_cuda_pool *p);
VRAM_API void vram_cuda_pool_stats(vram_cuda_pool *p, vram_memory_stats *stats);
