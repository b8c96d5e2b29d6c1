/* What the units of vram run share: the program that runs (vram_run.c), what its processes leave in
   shared memory (vram_run_read.c), the report (vram_run_report.c), the page for Prometheus
   (vram_run_metrics.c). */
#ifndef VRAM_RUN_H
#define VRAM_RUN_H

#include "vram_command.h"

#if defined(__linux__) && UINTPTR_MAX > 0xffffffffu
#include "preload.h"
#include <signal.h>

enum { RUN_TOP = 20 };

/* Why a report is written. */
#define RUN_REASONS(X)                                                                             \
  X(END, "end")                                                                                    \
  X(EVERY, "every")                                                                                \
  X(SIGNAL, "signal")                                                                              \
  X(FAILURE, "failure")
typedef enum run_reason {
#define X(id, text) RUN_##id,
  RUN_REASONS(X)
#undef X
} run_reason;

typedef struct run_state {
  const char *report, *snapshot, *metrics, *program;
  char *const *argv;
  char library[4096];
  int json;
  uint32_t stack;
  int64_t every, metrics_every; /* seconds; 0: not so */
  int on_signal, on_failure;    /* 0: none */
  int fd;
  struct sigaction children; /* what SIGCHLD did before: the program has it so */
  sigset_t mask;             /* of signals, as it was */
  run_file file;
  int status; /* as waitpid gives it */
  double seconds;
  run_reason reason; /* of this report; RUN_END: the program has ended */
  uint32_t number;   /* of this report, from 1 */
} run_state;

/* ---- vram_run_read.c */

typedef struct run_part { /* of a process */
  run_section *section;
  int running;
  const char *report; /* of a failed allocation; "": none */
  /* by owner: the places of its frames, what is inlined before what it is in; NULL: none */
  struct run_step **step;
} run_part;

typedef struct run_step {
  const char *function, *file; /* NULL: not known */
  const char *module;          /* NULL: of Python */
  uint64_t at;                 /* in the module */
  uint32_t line;
  uint32_t frame; /* of its owner's, from 0 */
  struct run_step *outer;
} run_step;

/* What `vram run` wrote there, and how many processes came; not FITS: error printed. */
int run_again(run_state *s);
/* How many processes have a part. */
uint32_t run_parts(const run_state *s);
/* What the process of part i left; 0: nothing, or an error, which is printed and sets *status. */
int run_open(const run_state *s, uint32_t i, run_part *p, int *status);
void run_close(run_part *p);
/* Of part i: failed allocations whose report is there. */
uint32_t run_failures(const run_state *s, uint32_t i);

/* train.py:41, or MODULE+0x12ab; four texts may live at once */
const char *run_place(const vram_owner *o);

/* ---- vram_run_report.c */

/* Allocations that are alive, of one caller, by one call, on one device. */
typedef struct run_group {
  uint32_t owner, count;
  uint8_t device, kind;
  uint64_t bytes;
} run_group;

/* Largest first, for free(); NULL and *n 0: none, or out of memory. */
run_group *run_groups(vram_ledger *l, uint32_t *n);
const char *run_device(uint32_t device); /* "0", ..., "host" */
const vram_owner *run_owner(const vram_ledger *l, uint32_t owner);
/* The devices, then the host. */
uint32_t run_device_at(uint32_t i, uint32_t devices);
int run_used(const vram_memory_stats *m);

/* FITS, or what kept it from being whole, which has been printed. */
int run_report(const run_state *s);
int run_snapshot(const run_state *s);

/* ---- vram_run_metrics.c */

int run_metrics(const run_state *s);

#endif
#endif
