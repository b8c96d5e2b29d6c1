#pragma once
#include "api/schedule.h"
/* >>writer ====================================================================================
   A step as a picture; what a ledger knows as files and text. Events, predicted or observed, are
   gathered in a timeline of as many columns as the caller has memory for; what is written goes to
   the caller's sink, piece by piece.

     uint64_t n = vram_timeline_bytes(512);
     vram_timeline t;
     vram_timeline_init(&t, malloc(n), n, r.before_category_bytes);
     o.event = vram_timeline_add, o.user = &t;
     vram_step(&g, &o, ...);                             r is the report of a step before
     vram_write_svg(&t, &r, list, count, NULL, malloc(vram_svg_bytes(count)),
                    vram_svg_bytes(count), &sink);       list: what vram_step_live gave          */

typedef enum vram_units { VRAM_UNITS_IEC, VRAM_UNITS_SI, VRAM_UNITS_BYTES } vram_units;

#ifndef VRAM_NO_WRITE
/* Bytes for people, three digits ("1.61 GiB", "1.73 GB"; VRAM_UNITS_BYTES: all of them): at most
   cap - 1 bytes and a zero byte go to `to`. Returns the length of the whole text, at most 23. */
VRAM_API uint32_t vram_bytes_text(uint64_t bytes, vram_units units, char *to, uint32_t cap);
#endif

/* What is allocated at one moment. */
typedef struct vram_moment {
  uint64_t bytes[VRAM_CATEGORY_COUNT];
  uint64_t total;
  uint64_t event;        /* after so many events; 0: before the first */
  const vram_node *node; /* of that event */
  vram_phase phase;
} vram_moment;

/* A phase as it comes by; with micro-batches forward and backward come more than once. */
typedef struct vram_phase_span {
  vram_phase phase;    /* VRAM_PHASE_COUNT: observed, not predicted */
  uint64_t first;      /* the moment after its first event; 0 for the first phase */
  uint64_t peak_bytes; /* highest within it, its beginning included */
  uint64_t end_bytes;  /* after its last event */
} vram_phase_span;

#define VRAM_TIMELINE_SPANS 32

typedef struct vram_timeline {
  vram_moment *column; /* the highest (the first of equals) of each `width` moments in a row */
  uint32_t ncolumn, cap;
  uint64_t width;
  uint64_t events;
  uint64_t forwards;                         /* how many times the forward pass began */
  vram_moment now, peak;                     /* peak: the first of the highest */
  vram_phase_span span[VRAM_TIMELINE_SPANS]; /* what would be too many is part of one before */
  uint32_t nspan;
} vram_timeline;

#ifndef VRAM_NO_WRITE
/* Memory for a timeline of so many columns. When they are used up, each becomes twice as wide. */
VRAM_API uint64_t vram_timeline_bytes(uint32_t columns);

/* A timeline in the caller's memory, which must outlive it. `before`: bytes by category that are
   there before the first event (vram_report.before_category_bytes); NULL: none.
   VRAM_ERR_MEMORY: no room for one column; then events are not counted. */
VRAM_API vram_result vram_timeline_init(vram_timeline *t, void *mem, uint64_t bytes,
                                        const uint64_t *before);

/* One event more; timeline is a vram_timeline. May be given as vram_step_options.event. Events
   of host memory, of a wrapper's constructor (VRAM_PHASE_WRAP: it is there before the step), and
   what is no alloc, free or becomes, are ignored. A free counts by its own bytes and category. */
VRAM_API void vram_timeline_add(void *timeline, const vram_event *e);

/* A timeline of the events that a ledger's trace keeps, of all devices; vram_write_svg draws it
   without a report. VRAM_ERR_MEMORY as vram_timeline_init. */
VRAM_API vram_result vram_timeline_ledger(vram_timeline *t, void *mem, uint64_t bytes,
                                          vram_ledger *l);
#endif

/* Takes n bytes; what is not 0 ends the writing. */
typedef struct vram_sink {
  int (*write)(void *user, const char *bytes, size_t n);
  void *user;
} vram_sink;

/* All zero: no title, no budget, MiB. Texts are UTF-8. */
typedef struct vram_svg_options {
  const char *title, *subtitle; /* NULL: none */
  const char *budget_name;      /* of the device, NULL: none */
  uint64_t budget_bytes;
  int has_budget; /* a line at the budget, and whether the step fits */
  vram_units units;
  /* Not 0: the plot of the step alone, half as wide, without words, of so many bytes (its peak, if
     that is more) from its lower edge to below the upper one: for several steps side by side. */
  uint64_t plot_bytes;
} vram_svg_options;

#ifndef VRAM_NO_WRITE
/* Scratch that vram_write_svg needs for so many tensors. */
VRAM_API uint64_t vram_svg_bytes(uint32_t nlive);

/* Writes a picture: the memory over the step by category (timeline NULL: not), and the live set at
   the peak as areas (live NULL: not). One SVG file in portrait form, without width and height; for
   light and dark surroundings; plain ASCII but for what is not in names and titles. In HTML it may
   stand as it is. With a budget, report tells what the device needs; NULL: the peak must fit.
     VRAM_ERR_MEMORY   scratch is too small; nothing is written
     VRAM_ERR_WRITE    the sink has ended it */
VRAM_API vram_result vram_write_svg(const vram_timeline *timeline, const vram_report *report,
                                    const vram_live *live, uint32_t nlive,
                                    const vram_svg_options *options, void *scratch,
                                    uint64_t scratch_bytes, const vram_sink *sink);

/* Writes a schedule as a picture of the same kind: memory over its moves, and below it the stage
   that each move is of. The moves must be ones that vram_schedule_verify takes. NULL options: all
   zero; has_budget: a line at the budget, and whether the peak fits.
     VRAM_ERR_VALUE    no moves, or moves that are none of this chain
     VRAM_ERR_MEMORY   scratch is too small; nothing is written
     VRAM_ERR_WRITE    the sink has ended it */
VRAM_API uint64_t vram_schedule_svg_bytes(const vram_chain *c, uint32_t nmove);
VRAM_API vram_result vram_write_schedule_svg(const vram_chain *c, const vram_move *move,
                                             uint32_t nmove, const vram_svg_options *options,
                                             void *scratch, uint64_t scratch_bytes,
                                             const vram_sink *sink);
#endif

/* ---- what a ledger knows, as files and as text ----
   These need no memory but some KiB of stack. They hold the ledger's lock while they write, so the
   sink must not call the ledger. VRAM_ERR_WRITE: the sink has ended it. */

/* All zero: a pickle; every allocation is a segment of its own. */
typedef struct vram_snapshot_options {
  int json;                     /* 0: pickle, protocol 2 */
  const vram_pool *const *pool; /* whose segments are shown; nobody else may call them meanwhile */
  uint32_t npool;
  uint32_t kinds; /* a bit (1 << vram_event.kind) for each kind that lies in the pools; 0: all that
                     is not `whole` on a device that has a pool here */
} vram_snapshot_options;

#ifndef VRAM_NO_WRITE
/* What torch.cuda.memory._snapshot() gives, for pytorch.org/memory_viz and torch.cuda._memory_viz:
   segments and blocks as they are now and, with vram_ledger_options.trace, the last events. The
   call site of an owner is a frame; the name of a node is one, too. NULL options: all zero. */
VRAM_API vram_result vram_write_snapshot(vram_ledger *l, const vram_snapshot_options *o,
                                         const vram_sink *sink);

/* The events of the trace for ui.perfetto.dev and chrome://tracing: counters of allocated and
   reserved bytes and of the categories, a span for each allocation of `least` bytes and more,
   marks. Without a clock an event takes a microsecond. */
VRAM_API vram_result vram_write_trace(vram_ledger *l, uint64_t least, const vram_sink *sink);

/* The events of the trace as CSV with the columns action, id, size, stream, address, time_us,
   device, category, phase, node, owner, tag: `vram replay` reads it. id: of the allocation, used
   once; -1: memory from before the step. */
VRAM_API vram_result vram_write_csv(vram_ledger *l, const vram_sink *sink);

/* Counters as torch.cuda.memory_summary() prints them; abbreviated: without the two pools. */
VRAM_API vram_result vram_write_summary(const vram_memory_stats *stats, uint32_t device,
                                        int abbreviated, const vram_sink *sink);

/* A mark (vram_ledger_mark, with the caller's list of cap changes) as lines of a log:
     At train.c line 88: step                          total 76.4 MiB (+63.0 MiB), peak 80.1 MiB
     + |      7 *  9.00 MiB |  63.0 MiB | model.c:12 layer weights
   A change beyond the list is counted in a last line. Any of file, function may be NULL. */
VRAM_API vram_result vram_write_log(vram_ledger *l, const char *file, uint32_t line,
                                    const char *function, vram_change *list, uint32_t cap,
                                    const vram_sink *sink);
#endif

#define VRAM_UNKNOWN UINT64_MAX

/* Another process that uses the device. */
typedef struct vram_process {
  uint64_t pid;
  uint64_t bytes;   /* VRAM_UNKNOWN: the driver does not say */
  const char *name; /* NULL: not known */
} vram_process;

/* A request that failed. All zero but `bytes`: nothing else is known. */
typedef struct vram_oom {
  uint64_t bytes;        /* that the caller asked for */
  uint64_t device_bytes; /* that the device was asked for; 0: the same */
  uint64_t stream;
  uint32_t device, owner;
  const char *call;      /* "cudaMalloc"; NULL: not known */
  const vram_pool *pool; /* that was asked; NULL: none */
  uint64_t limit_bytes;  /* that may be reserved; 0: all */
  /* the device, from the driver; 0 and VRAM_UNKNOWN: not known. has_view 0: none of it */
  int has_view;
  uint64_t total_bytes;
  uint64_t free_bytes;         /* VRAM_UNKNOWN: not known; 0 is 0 */
  uint64_t process_bytes;      /* of this process in all */
  const vram_process *process; /* others */
  uint32_t nprocess;
} vram_oom;

#ifndef VRAM_NO_WRITE
/* Why there was no memory. It begins as PyTorch's message does, and says who asked for how much,
   who holds what, whose memory the rest is, why no free block could be used, and what would help
   here. It cannot fail but by the sink. */
VRAM_API vram_result vram_write_oom(vram_ledger *l, const vram_oom *oom, const vram_sink *sink);
#endif
