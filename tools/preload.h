/* What `vram run` and the library that it puts before a program share: a file in memory. At its
   beginning stands run_file, behind it a section for every process that calls CUDA. A section holds
   all that its report needs, texts included, and is mapped at the same address by both, so that it
   can be read after the process has ended in whatever way. */
#ifndef PRELOAD_H
#define PRELOAD_H

#include "../vram_cuda.h"

#define RUN_VARIABLE "VRAM_RUN" /* the file's path */
#define RUN_MAGIC UINT64_C(0x316e75724d415256)

enum {
  RUN_SECTIONS = 64,
  RUN_HEAD = 65536,
  RUN_TEXTS = 1 << 22,
  RUN_LIVE = 1 << 16,
  RUN_OWNERS = 1 << 12,
  RUN_OBJECTS = 1 << 16,
  RUN_TRACE = 1 << 17,
  RUN_REPORT = 8192
};
#define RUN_SPAN                                                                                   \
  (UINT64_C(1) << 28) /* bytes of a section in the file, most of them never touched */
#define RUN_ADDRESS UINT64_C(0x4b0000000000) /* where the first one is mapped, if that is free */

typedef struct run_file {
  uint64_t magic;
  uint64_t layout;  /* bytes of the structures: both sides are of one version */
  uint32_t trace;   /* set by `vram run`: keep the events */
  uint32_t stack;   /* return addresses of an owner, 1 or more */
  uint32_t loaded;  /* processes that loaded the library */
  uint32_t section; /* sections taken, of RUN_SECTIONS; more: processes without one */
} run_file;

typedef struct run_section {
  uint64_t magic;
  uint64_t address; /* where it is mapped */
  int32_t pid, parent;
  uint32_t ready; /* 1: the tracker is there */
  uint32_t ended; /* 1: by exit() */
  char command[512];
  uint32_t texts, reports, last;
  char report[RUN_REPORT]; /* the last report of a failed allocation */
  vram_cuda_tracker tracker;
} run_section;

#define RUN_LAYOUT                                                                                 \
  (sizeof(run_section) * 65536 + sizeof(vram_event) * 256 + sizeof(vram_allocation))

/* The tracker's options in a section. */
static inline vram_cuda_options run_options(const run_file *f) {
  vram_cuda_options o = VRAM_ZERO_INIT;
  o.ledger.live = RUN_LIVE;
  o.ledger.owners = RUN_OWNERS;
  o.ledger.trace = f->trace ? RUN_TRACE : 0;
  o.objects = RUN_OBJECTS;
  o.places = RUN_LIVE;
  return o;
}

static inline uint64_t run_tracker_at(void) { /* in a section, behind the texts */
  return (sizeof(run_section) + 4095) / 4096 * 4096 + RUN_TEXTS;
}

#endif
