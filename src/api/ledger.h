#pragma once
#include "api/event.h"
/* >>ledger ====================================================================================
   Counts events: current, peak, total allocated and freed; by pool, device, category, owner (call
   site and tag) and region; knows what is alive, and what was added and removed since a mark.
   Every event takes constant time and allocates nothing.

     vram_ledger_options o = VRAM_ZERO_INIT;
     vram_ledger l;
     o.live = 10000;
     n = vram_ledger_bytes(&o);
     vram_ledger_init(&l, &o, malloc(n), n, &err);
     step.event = vram_ledger_event, step.user = &l;      or as calls are observed

   Addresses are unique over all devices and the host, as CUDA's are. An event without an address
   and with id -1 is about memory from before the step: it changes sums by its bytes, no counts.

   Bad use is counted and never fatal:
   - freed twice, or never allocated: nothing changes but `unknown_frees`;
   - allocated again without a free: the old one is freed first, and counts in `missed_frees`;
   - more alive than there is room for: counts in the sums of its device and in `lost`, in no
     category, kind and owner, and is not in the trace. As long as something is lost, a free of an
     unknown address is taken for one of those;
   - a device without counters: nothing changes but `unknown_devices`. */

/* A counter as torch.cuda.memory_stats() has it: ".current", ".peak", ".allocated", ".freed". */
typedef struct vram_stat {
  uint64_t current, peak;
  uint64_t allocated, freed; /* since the beginning */
} vram_stat;

typedef enum vram_pool_class { VRAM_POOL_ALL, VRAM_POOL_SMALL, VRAM_POOL_LARGE } vram_pool_class;

/* PyTorch's names. Counts: allocation: blocks handed out; segment: from the device, growing ones
   not counted; active: handed out or waiting for a stream; inactive_split: free pieces of segments
   that are partly in use (growing ones not counted). allocated_bytes: blocks; requested_bytes:
   before rounding; reserved_bytes: held from the device. */
#define VRAM_STATS(X)                                                                              \
  X(allocation)                                                                                    \
  X(segment)                                                                                       \
  X(active)                                                                                        \
  X(inactive_split)                                                                                \
  X(allocated_bytes)                                                                               \
  X(reserved_bytes)                                                                                \
  X(active_bytes)                                                                                  \
  X(inactive_split_bytes)                                                                          \
  X(requested_bytes)

typedef struct vram_memory_stats {
#define VRAM__X(name) vram_stat name[3]; /* by vram_pool_class */
  VRAM_STATS(VRAM__X)
#undef VRAM__X
  vram_stat oversize_allocations, oversize_segments; /* of max_split_size and more */
  uint64_t num_alloc_retries, num_ooms, num_device_alloc, num_device_free;
} vram_memory_stats;

/* Who asks: a line of a program, or a name. The texts are the caller's and must outlive the ledger;
   equal pointers are one owner. Devices only; host memory is in vram_owner.host_bytes. */
typedef struct vram_owner {
  const char *file, *function, *tag; /* NULL: none */
  uint32_t line, number;             /* number: vram_event.owner */
  vram_stat bytes, count;            /* requested; of allocations */
  uint64_t host_bytes;               /* requested of the host now */
  uint64_t at_peak;                  /* see vram_ledger_owners */
  uint64_t serial;                   /* private */
} vram_owner;

#define VRAM_LIVE_SMALL 1u
#define VRAM_LIVE_WHOLE 2u
#define VRAM_LIVE_WAITS 4u /* given back; streams still use it */

/* What is alive. */
typedef struct vram_allocation {
  uint64_t address; /* or 1 + the id of an event without an address */
  uint64_t bytes, block_bytes, stream, time;
  uint64_t serial; /* number of its event, from 1 */
  const vram_node *node;
  uint32_t owner;
  uint8_t category, device, kind;
  uint8_t flags; /* VRAM_LIVE_..., a sum */
} vram_allocation;

/* What happened between begin and end: changes, so a region that frees older memory is negative.
   The caller's memory, at the same place until it ends. */
typedef struct vram_region {
  const char *name;
  int64_t bytes, peak;       /* requested of devices, against the beginning; peak >= 0 */
  uint64_t allocated, freed; /* bytes in all */
  uint64_t allocations, frees;
  struct vram_region *outer; /* private */
} vram_region;

/* What one line of the log says: allocations of one owner and size, more (count > 0) or fewer than
   at the mark before. */
typedef struct vram_change {
  uint32_t owner;
  uint8_t device;
  uint8_t various; /* 1: what vram_ledger_options.groups has no room for; owner, device, bytes: 0 */
  int64_t count;
  uint64_t bytes; /* of each, requested */
  int64_t sum;    /* count * bytes */
} vram_change;

#define VRAM_KINDS_MAX 16

/* All zero: 1,024 live allocations and 255 owners, one device, no log, no trace. */
typedef struct vram_ledger_options {
  uint32_t live;    /* allocations that may be alive at a time */
  uint32_t owners;  /* call sites and tags */
  uint32_t devices; /* 0: one. Host memory has counters of its own */
  uint32_t groups;  /* triples of owner, size and device that the log tells apart; 0: no log */
  uint32_t trace;   /* the last so many events are kept; 0: none */
  uint64_t oversize_bytes; /* PyTorch's max_split_size, for the oversize counters; 0: none */
  /* called around every call, for use by threads; NULL: one thread */
  void (*lock)(void *user);
  void (*unlock)(void *user);
  uint64_t (*clock)(void *user); /* microseconds since 1970, for events whose time is 0; or NULL */
  void *user;
} vram_ledger_options;

typedef struct vram_ledger {
  vram_ledger_options options;             /* resolved */
  vram_memory_stats *device;               /* options.devices of them, then host memory */
  vram_stat category[VRAM_CATEGORY_COUNT]; /* requested bytes, all devices, without the host */
  vram_stat kind[VRAM_KINDS_MAX];          /* requested bytes */
  vram_owner *owner;                       /* [0]: whose owner is not known or finds no place */
  uint32_t nowner;
  uint32_t nlive;
  uint64_t serial; /* events so far */
  uint64_t unknown_frees, missed_frees, unknown_devices;
  uint64_t lost, lost_bytes;  /* alive and in no table */
  uint64_t lost_owners;       /* how often there was no place for one more */
  uint64_t bytes, peak_bytes; /* requested over all devices, now and highest */
  /* private */
  vram_region *region; /* the innermost */
  uint32_t *owner_hash;
  vram_allocation *live;
  struct vram__group *group;
  struct vram__lost *lost_of; /* [device][small_pool + 2 * whole] */
  vram_event *trace;
  uint64_t trace_count;
  uint64_t peak_serial;
  uint64_t category_peak[VRAM_CATEGORY_COUNT], category_serial[VRAM_CATEGORY_COUNT];
  int64_t various[4];  /* what finds no place in `group`: count and bytes, now and at the mark */
  uint64_t mark_bytes; /* `bytes` at the mark */
  uint32_t live_mask, owner_mask, group_mask, ngroup;
} vram_ledger;

/* Memory for a ledger. o NULL: all zero. VRAM_OVERFLOW: options out of range. */
VRAM_API uint64_t vram_ledger_bytes(const vram_ledger_options *o);

/* An empty ledger in the caller's memory. VRAM_ERR_MEMORY: less than vram_ledger_bytes.
   VRAM_ERR_VALUE: options out of range (2^28 of anything, 254 devices), one of lock and unlock. The
   fields of a ledger that threads use are to be read inside its lock. */
VRAM_API vram_result vram_ledger_init(vram_ledger *l, const vram_ledger_options *o, void *mem,
                                      uint64_t bytes, vram_error *err);

/* One event more; ledger is a vram_ledger. May be given as vram_step_options.event and
   vram_pool_options.event. */
VRAM_API void vram_ledger_event(void *ledger, const vram_event *e);

/* The number of an owner for vram_event.owner; a new one gets the next place. 0: no place left. */
VRAM_API uint32_t vram_ledger_owner(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, const char *tag);

/* Takes the allocation out as VRAM_ACTION_FREE does and says what it was: 1, or 0: there is none.
   Before the memory is really freed, since another thread may get the same address at once. */
VRAM_API int vram_ledger_take(vram_ledger *l, uint64_t address, vram_allocation *was);

/* What is alive at this address (its first byte): 1, or 0: nothing. */
VRAM_API int vram_ledger_find(vram_ledger *l, uint64_t address, vram_allocation *a);

/* Writes what is alive, largest first, at most cap; returns how many there are. */
VRAM_API uint32_t vram_ledger_live(vram_ledger *l, vram_allocation *list, uint32_t cap);

/* Requested bytes of an owner and of a category when l->peak_bytes was reached, for the first time
   in case of several. */
VRAM_API uint64_t vram_ledger_owner_at_peak(vram_ledger *l, uint32_t owner);
VRAM_API uint64_t vram_ledger_category_at_peak(vram_ledger *l, vram_category category);

/* Writes owners with bytes on devices now, or at the peak (at_peak 1), largest first, at most cap;
   returns how many there are. In these copies at_peak holds. */
VRAM_API uint32_t vram_ledger_owners(vram_ledger *l, int at_peak, vram_owner *list, uint32_t cap);

/* A consistent copy of a device's counters (VRAM_DEVICE_HOST: host memory); all zero: no such
 * device. */
VRAM_API void vram_ledger_stats(vram_ledger *l, uint32_t device, vram_memory_stats *stats);

/* torch.cuda.reset_peak_memory_stats, reset_accumulated_memory_stats: of everything. */
VRAM_API void vram_ledger_reset_peak(vram_ledger *l);
VRAM_API void vram_ledger_reset_accumulated(vram_ledger *l);

/* Regions may lie in one another and count all threads. They may end in any order: *r has then what
   happened in it and in those inside it. vram_region_end of a region that is not open: 0. */
VRAM_API void vram_region_begin(vram_ledger *l, vram_region *r, const char *name);
VRAM_API int vram_region_end(vram_ledger *l, vram_region *r);

/* What was added and removed since the last mark, largest sums first, at most cap; returns how many
   changes there are, and sets the mark. */
VRAM_API uint32_t vram_ledger_mark(vram_ledger *l, vram_change *list, uint32_t cap);
