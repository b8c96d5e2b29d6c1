#pragma once
#include "api/schedule.h"
/* >>runner ====================================================================================
   A schedule bound to one arena, and run with the caller's forward and backward functions.

     n = vram_schedule_bind_bytes(&chain, s.nmove, NULL);
     vram_schedule_bind(&chain, s.move, s.nmove, NULL, malloc(n), n, &b, &err);
     arena = malloc(b.arena_bytes);                    or cudaMalloc: all that the run will touch
     r.forward = ..., r.backward = ..., r.user = ...;
     n = vram_chain_run_bytes(&b, &r);
     memcpy(arena + b.input, x0, ...);
     vram_chain_run(&chain, &b, &r, arena, NULL, malloc(n), n, &err);
     the gradient of x0 is at arena + b.input_gradient

   Every buffer has one place for its whole life, so a second run (and a captured CUDA graph) uses
   the same addresses. */

#define VRAM_NOWHERE UINT64_MAX /* an offset of what has no bytes, or what a move does not have */

/* A move, and where in the arena its tensors are. What a buffer holds is valid from the move that
   writes it until the last that reads it; other buffers use its bytes before and after. */
typedef struct vram_bound_move {
  vram_move move;             /* BACKWARD: `way` is that of its SAVE */
  uint32_t run, runs;         /* forward: which run of its stage this is, from 0; of how many */
  uint32_t again;             /* not 0: which of the stages with runs > 1 it is, from 1 */
  uint64_t in, out;           /* xi, x(i+1) */
  uint64_t saved;             /* what the way saves beyond the output */
  uint64_t grad_out, grad_in; /* gradients of x(i+1), xi */
  uint64_t temp;
  /* Copies are numbered, those to the host first: OFFLOAD.. 0 to noffload - 1, FETCH.. from
     noffload on, both in the order in which they begin. */
  uint64_t host, bytes; /* OFFLOAD.., FETCH..: offset in the host's memory, how many bytes. The
                           device's are at `in` (the stage's input) or `saved` */
  uint32_t copy;        /* its number; bytes 0: it has none, nothing is copied */
  uint32_t offloads;    /* the first so many copies to the host must be done before this move, */
  uint32_t fetches;     /* and the first so many from there */
  uint32_t early;       /* FETCH..: begins when this move is done, so that it has time */
  uint32_t free;        /* private: what ends with this move */
} vram_bound_move;

/* What a buffer of the arena is. */
#define VRAM_HOLDS(X)                                                                              \
  X(INPUT, "input")           /* x0 */                                                             \
  X(ACTIVATION, "activation") /* x1, x2, ... */                                                    \
  X(SAVED, "saved")           /* what a way saves beyond the output */                             \
  X(GRADIENT, "gradient")     /* of x0, x1, ... */                                                 \
  X(TEMPORARY, "temporary")

typedef enum vram_hold {
#define VRAM__X(id, text) VRAM_HOLD_##id,
  VRAM_HOLDS(VRAM__X)
#undef VRAM__X
      VRAM_HOLD_COUNT
} vram_hold;

typedef struct vram_holding {
  uint8_t hold;   /* vram_hold */
  uint32_t stage; /* i of xi and its gradient; the stage that saves, whose temporary it is */
  uint32_t next;  /* private */
} vram_holding;

typedef struct vram_binding {
  vram_bound_move *move; /* all lists are in the caller's scratch */
  uint32_t nmove;
  uint64_t arena_bytes;           /* of device memory, without static_bytes */
  uint64_t peak_bytes;            /* of what lives at one time, without static_bytes */
  uint64_t host_bytes;            /* for what is offloaded */
  uint64_t input, input_gradient; /* offsets: written before the run, read after it. VRAM_NOWHERE:
                                     of no bytes */
  vram_arena arena;               /* whether arena_bytes is the least there is, and the bound */
  const vram_buffer *buffer;      /* device: begin and end are moves, end excluded; by begin */
  const vram_holding *holding;    /* what each is */
  uint32_t nbuffer;
  const vram_buffer *host; /* host: the copies, as the move that writes and the one that reads */
  const vram_holding *host_holding;
  uint32_t nhost;
  uint32_t noffload, nfetch; /* copies to the host, and back */
  uint32_t nagain;           /* stages that run forward more than once */
} vram_binding;

#ifndef VRAM_NO_PLAN
VRAM_API const char *vram_hold_name(uint32_t hold); /* "saved"; "?" for what is none */

/* Scratch for vram_schedule_bind, the binding in it. VRAM_OVERFLOW: too many moves. */
VRAM_API uint64_t vram_schedule_bind_bytes(const vram_chain *c, uint32_t nmove,
                                           const vram_arena_options *o);

/* Schedule -> lifetimes -> offsets. arena_bytes is peak_bytes wherever there is a plan so low and
   the arena planner finds it. o NULL: all zero.
     VRAM_ERR_VALUE, ...  as vram_schedule_verify, which looks at the moves first
     VRAM_ERR_UNSUPPORTED  more than one bank
     VRAM_ERR_LIMIT, VRAM_ERR_MEMORY  as vram_arena_plan */
VRAM_API vram_result vram_schedule_bind(const vram_chain *c, const vram_move *move, uint32_t nmove,
                                        const vram_arena_options *o, void *scratch,
                                        uint64_t scratch_bytes, vram_binding *binding,
                                        vram_error *err);

/* The binding as allocations and frees, in order: for vram_ledger_event, whose peak is the
   schedule's, and vram_timeline_add. Categories: inputs, activations (x and saved), temporaries
   (gradients), workspace (temporaries); phase backward begins with the first BACKWARD. arena, host:
   where they are, added to the offsets; 0: events without an address. */
VRAM_API void vram_binding_events(const vram_chain *c, const vram_binding *b, uint64_t arena,
                                  uint64_t host, void (*event)(void *user, const vram_event *e),
                                  void *user);
#endif

/* One call of a forward or backward function. Pointers are into the arena, NULL where there is
   nothing; sizes are the chain's. Forward reads `in`, writes `out`, and with `save` all of `saved`,
   too. Backward reads in, out, saved and grad_out, and writes grad_in. temp is anybody's before and
   after. */
typedef struct vram_call {
  uint32_t stage, way;
  int save;           /* forward: fill `saved`, too; `way` counts */
  uint32_t run, runs; /* forward: which run of its stage this is, from 0; of how many */
  uint64_t key; /* for random numbers: the same in every run of a stage, another in each stage */
  const void *in;
  void *out; /* backward: what forward gave, to be read */
  void *saved, *temp;
  const void *grad_out;
  void *grad_in;
  void *stream; /* vram_runner.stream */
} vram_call;

#define VRAM_NO_COPY UINT32_MAX

/* The caller's functions: 0 is success, anything else ends the run and comes back in the error.
   All zero but forward and backward: the rest is not needed. */
typedef struct vram_runner {
  int (*forward)(void *user, const vram_call *c);
  int (*backward)(void *user, const vram_call *c);
  /* random state, for functions that have one and do not use vram_call.key: taken before the first
     forward of a stage that will run again, put back before that, and what was there before
     afterwards. state: random_bytes of host memory. Both or none */
  int (*random_get)(void *user, void *state);
  int (*random_set)(void *user, const void *state);
  uint64_t random_bytes;
  /* a hash of an output; not NULL: a recomputed output must have the hash of the first.
     vram_chain_hash for memory that the host can read */
  int (*hash)(void *user, const void *data, uint64_t bytes, uint64_t *hash);
  void (*progress)(void *user, uint32_t done, uint32_t moves); /* after each move */
  void *user;
  void *stream;
  uint64_t seed; /* of vram_call.key: another one in each step */

  /* Copies between arena and host memory; all three, or none: memcpy, at once. A copy may go on
     after its function has come back: it reads what forward and backward have written so far, and
     copies of one direction are made in the order in which they begin. wait(copy): that copy and
     those before it in its direction must be done before the next forward or backward (`next`:
     VRAM_NO_COPY), or before copy `next` begins. vram_cuda.h has functions for CUDA streams. */
  int (*offload)(void *user, uint32_t copy, void *host, const void *device, uint64_t bytes);
  int (*fetch)(void *user, uint32_t copy, void *device, const void *host, uint64_t bytes);
  int (*wait)(void *user, uint32_t copy, uint32_t next);
  void *copy_user; /* the `user` of these three */
} vram_runner;

#ifndef VRAM_NO_PLAN
/* Memory (host) that a run needs beside the arena: random states and hashes of the stages that run
   more than once. */
VRAM_API uint64_t vram_chain_run_bytes(const vram_binding *b, const vram_runner *r);

/* Runs forward and backward. arena: binding.arena_bytes of memory that the functions can use (a
   device's or the host's), aligned as the chain says; host: binding.host_bytes; work: as
   vram_chain_run_bytes says. Nothing is allocated, nothing else is written.
     VRAM_ERR_VALUE   no forward or backward, half of a pair of functions, no arena, not aligned
     VRAM_ERR_MEMORY  work is too small
     VRAM_ERR_CALL    a function did not give 0, or a recomputed output has another hash: err says
                      which move of which stage and what it gave (err->line: the move + 1). Nothing
                      of the caller's runs after it, but: the random state that was replaced is put
                      back, and copies that go on are waited for */
VRAM_API vram_result vram_chain_run(const vram_chain *c, const vram_binding *b,
                                    const vram_runner *r, void *arena, void *host, void *work,
                                    uint64_t work_bytes, vram_error *err);

/* Costs by the clock: runs the stages one after the other, each alone, and *to becomes the chain
   with what they took; scratch (host memory of vram_chain_measure_bytes) holds it. Of `repeat` runs
   (0: 5) the shortest counts, so a first run that is slow does not. arena: vram_chain_measure_arena
   bytes, aligned as the chain says, x0 at its beginning; a stage reads what the one before it gave,
   and gradients are whatever is there. now: the time in any unit, when all that was given to the
   device is done (a CUDA stream must be waited for). Of r only forward, backward, user, stream and
   seed are used. Errors as vram_chain_run: err->line is the stage + 1. */
VRAM_API uint64_t vram_chain_measure_bytes(const vram_chain *c);
VRAM_API uint64_t vram_chain_measure_arena(const vram_chain *c);
VRAM_API vram_result vram_chain_measure(const vram_chain *c, const vram_runner *r,
                                        uint64_t (*now)(void *user), uint32_t repeat, void *arena,
                                        void *scratch, uint64_t scratch_bytes, vram_chain *to,
                                        vram_error *err);

/* vram_call.key of a stage. */
VRAM_API uint64_t vram_chain_key(uint64_t seed, uint32_t stage);

/* For vram_runner.hash: of bytes in memory that the host can read. The same on every machine. */
VRAM_API int vram_chain_hash(void *user, const void *data, uint64_t bytes, uint64_t *hash);
#endif
