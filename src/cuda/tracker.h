/* >>tracker ====================================================================================
   A ledger, and beside it what a ledger does not know: handles of physical memory with their
   mappings, memory pools, memory of other processes. Whoever sees CUDA calls reports them here;
   nothing here makes a CUDA call but vram_cuda_on_pool_read and what says so.

   Order of things: an allocation is reported after it was made, a free before it is made (another
   thread may get the same address at once), and again when it is known whether it has succeeded. */

#define VRAM_CUDA_KINDS(X)                                                                         \
  X(UNKNOWN, "unknown")                                                                            \
  X(DEVICE, "cudaMalloc")                                                                          \
  X(PITCH, "cudaMallocPitch") /* 3D, too */                                                        \
  X(ASYNC, "cudaMallocAsync") /* in a memory pool */                                               \
  X(ARRAY, "cudaMallocArray") /* 3D and mipmapped, too */                                          \
  X(MANAGED, "cudaMallocManaged")                                                                  \
  X(VMM, "cuMemCreate")                                                                            \
  X(PINNED, "cudaMallocHost") /* cudaHostAlloc, too */                                             \
  X(REGISTERED, "cudaHostRegister")

typedef enum vram_cuda_kind {
#define VRAM__X(id, text) VRAM_CUDA_##id,
  VRAM_CUDA_KINDS(VRAM__X)
#undef VRAM__X
      VRAM_CUDA_KIND_COUNT
} vram_cuda_kind;

/* "cudaMalloc", ...; never NULL. */
VRAM_API const char *vram_cuda_kind_name(uint32_t kind);

/* All zero: the ledger's defaults, but 16 devices; 4,096 handles and pools; as many mappings and
   allocations in pools as allocations. */
typedef struct vram_cuda_options {
  vram_ledger_options ledger; /* lock, unlock and user are the tracker's own; clock NULL: the
                                 system's, if there is a trace */
  uint32_t objects;           /* handles, pools, memory of other processes */
  uint32_t places;            /* mappings of handles, and allocations in pools */
  const vram_sink *log;       /* marks and out-of-memory reports; NULL: standard error */
  int quiet;                  /* 1: no report when an allocation fails */
} vram_cuda_options;

/* Private. */
typedef struct vram__cuda_object {
  uint64_t key, bytes, address; /* address: in the ledger; of a pool: bytes handed out */
  uint64_t ticket;              /* of the last reading that counted */
  uint32_t next, refs, uses, readers;
  uint32_t device;
  uint8_t type, gone;
} vram__cuda_object;
typedef struct vram__cuda_place {
  uint64_t address, bytes;
  uint32_t object, next, going;
} vram__cuda_place;

typedef struct vram_cuda_tracker {
  const vram_cuda_api *api;
  vram_ledger ledger; /* every function of vram.h on it may be called by any thread */
  vram_cuda_options options;
  /* read them under no lock: close enough */
  uint64_t ipc_bytes, ipc_count;     /* memory of other processes that is open here */
  uint64_t graph_nodes, graph_bytes; /* captured into graphs: not counted */
  uint64_t lost, lost_bytes;         /* handles, pools and mappings that found no place */
  uint64_t unknown;                  /* releases, unmaps, closes of what is not known */
  /* private */
  vram__cuda_object *object;
  vram__cuda_place *place;
  uint32_t *object_hash, *place_hash;
  uint32_t object_mask, place_mask, object_free, place_free, going;
  uint64_t next_address, ticket;
  uint32_t ledger_lock, table_lock;
  uint32_t ledger_process, table_process, open, nvml;
  void *memory;
} vram_cuda_tracker;

/* Memory for a tracker. o NULL: all zero. */
VRAM_API uint64_t vram_cuda_tracker_bytes(const vram_cuda_options *o);

/* An empty tracker in the caller's memory; api must outlive it. VRAM_ERR_MEMORY, VRAM_ERR_VALUE. */
VRAM_API vram_result vram_cuda_tracker_init(vram_cuda_tracker *t, const vram_cuda_api *api,
                                            const vram_cuda_options *o, void *mem, uint64_t bytes,
                                            vram_error *err);

/* The end of counting: all functions on it answer as if there were nothing. The caller may take the
   memory back when no call is running any more; *t itself must stay. */
VRAM_API void vram_cuda_tracker_end(vram_cuda_tracker *t);

/* The owner of an allocation made here by this thread: the place and the thread's tag. Texts as in
   vram_ledger_owner. */
VRAM_API uint32_t vram_cuda_site(vram_cuda_tracker *t, const char *file, uint32_t line,
                                 const char *function);

/* Memory by one of the calls in VRAM_CUDA_KINDS but ASYNC and VMM. device: the ordinal, also of
   host memory: that of the context. block_bytes: pitch times height and the like; 0: bytes. */
VRAM_API void vram_cuda_on_alloc(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                                 uint64_t address, uint64_t bytes, uint64_t block_bytes,
                                 uint32_t owner);

/* What was freed, for vram_cuda_on_freed. */
typedef struct vram_cuda_record {
  vram_allocation was;
  uint32_t place; /* private: in its pool; 0: none */
} vram_cuda_record;

/* A free of any kind: before it is made; 1: known, 0: not (address 0: nothing happens). Afterwards,
   if it was known: ok 0: it has failed, and what was there is there. Reads the pool's attribute. */
VRAM_API int vram_cuda_on_free(vram_cuda_tracker *t, uint64_t address, vram_cuda_record *r);
VRAM_API void vram_cuda_on_freed(vram_cuda_tracker *t, const vram_cuda_record *r, int ok);

/* A memory pool: created, or seen for the first time (again: nothing happens). */
VRAM_API void vram_cuda_on_pool(vram_cuda_tracker *t, uint64_t pool, uint32_t device);
/* An allocation in it. Reads its attribute afterwards. */
VRAM_API void vram_cuda_on_pool_alloc(vram_cuda_tracker *t, uint64_t pool, uint32_t device,
                                      uint64_t stream, uint64_t address, uint64_t bytes,
                                      uint32_t owner);
/* Asks CUDA what the pool holds (attribute 5) and counts it as reserved: after a trim, a
   synchronisation, or before a report (pool 0: all of them). */
VRAM_API void vram_cuda_on_pool_read(vram_cuda_tracker *t, uint64_t pool);
/* Its end: before it, then afterwards. What is still allocated in it is held until it is freed. */
VRAM_API int vram_cuda_on_pool_destroy(vram_cuda_tracker *t, uint64_t pool);
VRAM_API void vram_cuda_on_pool_destroyed(vram_cuda_tracker *t, uint64_t pool, int ok);

/* cuMemCreate (device VRAM_DEVICE_HOST: it is host memory); one more reference to the handle:
   cuMemRetainAllocationHandle of what is mapped at the address (0: not known). */
VRAM_API void vram_cuda_on_create(vram_cuda_tracker *t, uint64_t handle, uint32_t device,
                                  uint64_t bytes, uint32_t owner);
VRAM_API void vram_cuda_on_retain(vram_cuda_tracker *t, uint64_t handle, uint64_t address);
/* cuMemRelease: before it, then afterwards with what the first has given. */
VRAM_API uint32_t vram_cuda_on_release(vram_cuda_tracker *t, uint64_t handle);
VRAM_API void vram_cuda_on_released(vram_cuda_tracker *t, uint32_t object, int ok);
/* cuMemMap, after it. */
VRAM_API void vram_cuda_on_map(vram_cuda_tracker *t, uint64_t address, uint64_t bytes,
                               uint64_t handle);
/* cuMemUnmap (of one or several mappings): before it, then afterwards with what the first gave. */
VRAM_API uint32_t vram_cuda_on_unmap(vram_cuda_tracker *t, uint64_t address, uint64_t bytes);
VRAM_API void vram_cuda_on_unmapped(vram_cuda_tracker *t, uint32_t unmap, uint64_t address,
                                    uint64_t bytes, int ok);

/* Memory of another process is opened here (bytes 0: not known); closed: before, then afterwards.
 */
VRAM_API void vram_cuda_on_open(vram_cuda_tracker *t, uint64_t address, uint64_t bytes);
VRAM_API uint32_t vram_cuda_on_close(vram_cuda_tracker *t, uint64_t address);
VRAM_API void vram_cuda_on_closed(vram_cuda_tracker *t, uint32_t object, int ok);

/* An allocation that became a node of a graph. */
VRAM_API void vram_cuda_on_graph(vram_cuda_tracker *t, uint64_t bytes);

/* cudaDeviceReset has succeeded: all of the device's memory is gone, pinned memory of its context
   as well; handles and pools, too. */
VRAM_API void vram_cuda_on_reset(vram_cuda_tracker *t, uint32_t device);

/* An allocation has failed for want of memory: counts it, and writes the report unless `quiet`.
   Asks CUDA and NVML whose memory it is. */
VRAM_API void vram_cuda_on_oom(vram_cuda_tracker *t, vram_cuda_kind kind, uint32_t device,
                               uint64_t bytes, uint64_t stream, uint32_t owner);

/* Asks CUDA whether the stream is being captured: then allocations become nodes of a graph. */
VRAM_API int vram_cuda_capturing(const vram_cuda_api *api, void *stream);

/* Microseconds since 1970, a vram_ledger_options.clock. */
VRAM_API uint64_t vram_cuda_clock(void *user);
