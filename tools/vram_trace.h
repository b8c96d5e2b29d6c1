/* Recorded allocations as one array of vram_event: CSV by column names (also RMM's log), PyTorch's
   memory snapshots, pickled or as JSON, XLA's buffer assignment, the log of the BFC allocator of
   JAX and TensorFlow, and profiles of JAX; all of them packed by gzip, too. */
#ifndef VRAM_TRACE_H
#define VRAM_TRACE_H

#include "vram_values.h"

enum { EMPTY_CACHE = 1 }; /* vram_event.kind of a VRAM_ACTION_MARK: torch.cuda.empty_cache() */
enum { FAILED = 1 }; /* vram_event.kind of a VRAM_ACTION_ALLOC: it failed when it was recorded */
enum { BY_ID, BY_ADDRESS };

typedef struct trace_note {       /* what the file says of the event with the same index */
  uint32_t node, phase, category; /* texts: trace.text[0] is "" */
  uint32_t line;                  /* of a CSV; else which entry, from 0 on */
  uint64_t blocks; /* of a state: so many together have these bytes; phase: their device */
} trace_note;

typedef struct trace_key { /* an id or address, and what it stands for */
  uint64_t key;
  int64_t id; /* of the allocation */
  uint8_t used, state, of;
} trace_key;

typedef struct trace {
  const char *path;
  vram_event *event; /* ids count allocations from 0 on; what was alive before comes first */
  trace_note *note;
  size_t n, cap, most;
  char **text;
  uint32_t *text_hash;
  uint32_t ntext, text_cap;
  trace_key *key;
  size_t nkey, key_cap;
  int64_t ids;
  size_t before;            /* the first so many events: alive when recording began */
  uint64_t ignored;         /* lines with other actions */
  uint64_t unmatched;       /* frees of what was never allocated */
  uint64_t host_bytes;      /* of XLA: in the host's memory, no events */
  uint64_t recorded_peak;   /* of bytes in use, as the BFC allocator's log says; 0: it does not */
  uint64_t reserved_at_end; /* of a snapshot: its segments */
  uint64_t steps;           /* of looking into values */
  size_t ncalls;            /* alloc, free, empty_cache */
  int has_segments, has_addresses, has_phases, has_categories, has_nodes, is_snapshot;
  int has_entries; /* of JSON, but no snapshot */
  int is_state;    /* what is alive, in no order: nothing is freed */
  int is_profile;  /* lines are samples */
  int is_dump;     /* what the BFC allocator printed: its regions, and what is free in them */
  uint64_t pool_bytes, free_bytes, largest_free, free_chunks; /* of a dump */
  int is_bfc;     /* of a program that has the BFC allocator, not PyTorch's */
  char conf[400]; /* allocator options that a snapshot names; "": none */
  int status;
} trace;

/* An empty trace; len: of the file. */
int trace_begin(trace *t, const char *path, size_t len);
void trace_end(trace *t);
/* What `line` of a note counts: "line", "entry", "sample" */
const char *trace_unit(const trace *t);
/* Bad input at a line of a CSV or an entry of a snapshot: what 'found' */
int trace_bad(trace *t, uint64_t line, const char *what, const char *found, size_t len);
/* What a dict says of a key, counted in t->steps. */
const datum *trace_get(trace *t, const datum *v, const char *key);
/* More steps than a file of this length needs: a pickle names large parts of itself again and
   again. Not FITS: message printed. */
int trace_enough(trace *t, uint64_t line);
/* The number of a text, the same for the same texts; 0: "" */
uint32_t trace_text(trace *t, const char *s, size_t n);

/* ---- events: one after the other, then trace_order ---- */

enum { DEAD, ALIVE, WAITS }; /* trace_key.state; WAITS: free_requested */

/* The place of a key; NULL: no memory. used is 0 where it is new. */
trace_key *trace_find(trace *t, uint64_t key, int of);
/* One line or entry. key: what alloc and free have in common; of: BY_ID, BY_ADDRESS. */
int trace_add(trace *t, vram_event *e, const trace_note *note, uint64_t key, int of);
/* What was allocated before the file begins: e->bytes of it are freed, or alive at the end. Moved
   to the front by trace_order(). */
int trace_before(trace *t, const vram_event *e, const trace_note *note, int64_t *id);
/* What was alive before comes first, in the order in which the file names it. */
int trace_order(trace *t);

/* ---- files ---- */

enum { NOTHING, CSV, JSON, PICKLE, XLA, BFC, PPROF };

/* What a file begins as. */
int trace_kind(const char *bytes, size_t len);
document trace_document(const trace *t, char *bytes, size_t len);
/* Of a kind; the bytes change. */
int trace_read_csv(trace *t, char *text, size_t len);
int trace_read_xla(trace *t, const char *text, size_t len);
/* device -1: the first allocator of a GPU, or the first */
int trace_read_bfc(trace *t, const char *text, size_t len, int64_t device);
int trace_is_pprof(const char *bytes, size_t len);
/* device -1: of all */
int trace_read_pprof(trace *t, const char *bytes, size_t len, int64_t device);
/* One of the texts above; NOTHING is refused. */
int trace_read_text(trace *t, int kind, char *text, size_t len, int64_t device);
/* device -1: the first one with events, else with segments */
int trace_read_snapshot(trace *t, const datum *root, int64_t device);
/* The root says that it is of torch.profiler: a chrome trace, or a memory timeline. */
int trace_is_profiler(const datum *root);
/* device -1: of a chrome trace the first that is not the CPU, or that */
int trace_read_profiler(trace *t, const datum *root, int64_t device);
/* Either of the two. */
int trace_read_values(trace *t, const datum *root, int64_t device);
/* What gzip packed, if it did, in place of the bytes, which came from malloc(). */
int trace_unpack(const char *path, char **bytes, size_t *len);
/* Of any, unpacked; the bytes change. t->status: not FITS, message printed */
int trace_from(trace *t, const char *path, char *bytes, size_t len, int64_t device);
int trace_read(trace *t, const char *path, int64_t device);

/* What is in the trace and not played, or was not as it is played; nothing where there is none. */
void trace_print_notes(const trace *t);

#endif
