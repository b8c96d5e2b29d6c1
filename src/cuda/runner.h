/* >>runner =====================================================================================
   vram_chain_run on a stream: forward and backward start their kernels there, and tensors that a
   schedule offloads are copied by two more streams, ordered by events.

     n = vram_cuda_runner_bytes(&binding);
     vram_cuda_runner_init(&q, &api, &binding, &o, malloc(n), n, &runner, &err)
     vram_chain_run(&chain, &binding, &runner, q.arena, q.host, work, work_bytes, &err)
     cudaStreamSynchronize(stream), vram_cuda_runner_end(&q)

   A run allocates nothing, waits for nothing on the host, and uses the same addresses each time: it
   may be captured into a graph (between cudaStreamBeginCapture and cudaStreamEndCapture of the
   stream), which then repeats it, with the same seed. */

/* All zero: the default stream, which cannot be captured; memory from cudaMalloc and
   cudaMallocHost. */
typedef struct vram_cuda_runner_options {
  void *stream; /* of forward and backward; comes to them as vram_call.stream */
  void *arena;  /* binding.arena_bytes of the current device, aligned as the chain says */
  void *host;   /* binding.host_bytes of pinned memory */
} vram_cuda_runner_options;

typedef struct vram_cuda_runner {
  const vram_cuda_api *api;
  void *stream;
  void *arena, *host; /* for vram_chain_run */
  uint64_t failures;  /* of calls that give back; each was tried twice */
  /* private */
  void *own_arena, *own_host;
  void *copies[2]; /* streams: to the host, back */
  void *ready;     /* event: what the stream has been given so far */
  void **event;    /* of every copy: it is done */
  uint32_t noffload, nevent;
} vram_cuda_runner;

/* Memory (host) for the events. */
VRAM_API uint64_t vram_cuda_runner_bytes(const vram_binding *b);

/* Makes streams and events, and memory that is not given, on the current device; sets stream,
   offload, fetch, wait and copy_user of *r. A binding without copies needs no streams and events.
     VRAM_ERR_MEMORY       mem is too small; no device or pinned memory
     VRAM_ERR_UNSUPPORTED  this CUDA lacks functions that it needs
     VRAM_ERR_CALL         a call failed: err says which and what it gave */
VRAM_API vram_result vram_cuda_runner_init(vram_cuda_runner *q, const vram_cuda_api *api,
                                           const vram_binding *b, const vram_cuda_runner_options *o,
                                           void *mem, uint64_t bytes, vram_runner *r,
                                           vram_error *err);
/* Waits for the streams and gives back what init made; also after an init that failed. Not while
   the stream is captured, and not before graphs of the run are gone. */
VRAM_API void vram_cuda_runner_end(vram_cuda_runner *q);
