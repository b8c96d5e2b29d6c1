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
  RUN_REPORT = 8192,
  RUN_MODULES = 1024,
  RUN_FRAMES = 1 << 16,
  RUN_ID = 32,
  RUN_RUNTIME = 9,    /* frames of a runtime that is linked statically, and of its templates */
  RUN_ALLOCATOR = 16, /* frames of PyTorch's allocator, and of what makes tensors */
  RUN_PYTHON = 0xffff /* the module of a frame of Python */
};
#define RUN_SPAN                                                                                   \
  (UINT64_C(1) << 28) /* bytes of a section in the file, most of them never touched */
#define RUN_ADDRESS UINT64_C(0x4b0000000000) /* where the first one is mapped, if that is free */

typedef struct run_file {
  uint64_t magic;
  uint64_t layout;  /* bytes of the structures: both sides are of one version */
  uint32_t trace;   /* set by `vram run`: keep the events */
  uint32_t stack;   /* return addresses of an owner that are shown, 1 or more */
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
  uint32_t names_lost, tags_lost; /* of ranges: no room for the name, for a caller in it */
  char report[RUN_REPORT];        /* the last report of a failed allocation */
  vram_cuda_tracker tracker;
} run_section;

/* Where the owners are: their frames, innermost first, those of Python before the others. Texts are
   offsets of the section's, + 1; 0: none. */
typedef struct run_module {
  uint32_t path, id_bytes;
  unsigned char id[RUN_ID]; /* as the linker gave it: is the file still the same? */
} run_module;
typedef struct run_frame {
  uint64_t at; /* the address in the module's file that the call returns to; the line */
  uint32_t module, file, name; /* name: as the module exports it, of Python's function */
} run_frame;
typedef struct run_places {
  uint32_t modules, frames;
  struct {
    uint32_t first, n;
  } owner[RUN_OWNERS + 1];
  run_module module[RUN_MODULES];
  run_frame frame[RUN_FRAMES];
} run_places;

#define RUN_LAYOUT                                                                                 \
  (sizeof(run_section) * 65536 + sizeof(vram_event) * 256 + sizeof(vram_allocation) +              \
   sizeof(run_places))

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

/* in a section */
static inline uint64_t run_places_at(void) { return (sizeof(run_section) + 4095) / 4096 * 4096; }
static inline uint64_t run_texts_at(void) {
  return run_places_at() + (sizeof(run_places) + 4095) / 4096 * 4096;
}
static inline uint64_t run_tracker_at(void) { return run_texts_at() + RUN_TEXTS; }

#endif
