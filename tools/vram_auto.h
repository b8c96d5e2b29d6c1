/* vram fit --parallel auto: what the search has found, and what is shown of it. */
#ifndef VRAM_AUTO_H
#define VRAM_AUTO_H

#include "vram_ranks.h"
#include "vram_threads.h"

enum {
  AUTO_SPEC = 192,             /* words of a combination */
  AUTO_REASONS = 8,            /* that are told apart */
  AUTO_SHOWN = 20,             /* lines, where --top does not say how many */
  AUTO_MICRO_BATCHES = 1000000 /* at most, as of --accumulate */
};

/* Which ranks of a combination were played: a rank that does not fit ends it, and another
   combination's may say that one of this one does not. */
typedef enum { AUTO_ALL, AUTO_PARTLY, AUTO_NONE } auto_played;

/* Does a combination fit? A replay may say something else than the step's bounds do, if they lie
   on both sides of the budget. */
typedef enum { AUTO_REFUSED, AUTO_NO, AUTO_OPEN, AUTO_FITS } auto_verdict;

/* Wrappers whose ranks do the same with other numbers of bytes. */
typedef enum { AUTO_ALONE, AUTO_DDP, AUTO_GATHERED, AUTO_STAYS } auto_family;

typedef struct auto_line { /* a combination */
  char spec[AUTO_SPEC];
  int64_t batch;          /* of a micro-batch */
  uint32_t micro_batches; /* AUTO_MICRO_BATCHES + 1: more than that */
  uint32_t pp, tp, cp, ep, rank, group;
  int checkpoint; /* 1: of layers */
  auto_family family;
  vram_report report;
  auto_verdict verdict;
  int replayed, pareto;
  auto_played played;
  uint64_t sent;                     /* by the rank that sends most */
  double part_again;                 /* of the operations of its forward pass */
  double flops, again, bubble, cost; /* flops: of a rank and step, forward and backward */
} auto_line;

typedef struct auto_reason {       /* why combinations are not played */
  char text[176], spec[AUTO_SPEC]; /* the first that it was said of */
  uint32_t count;
} auto_reason;

typedef struct auto_place { /* what all ranks at one place along tp have in common */
  vram_graph g;
  void *mem;
  uint32_t rank;
  vram_range *layer, *unit; /* what is checkpointed: layers, in units of fully_shard */
  uint32_t nlayer, nunit;
  double own_again, layers_again, units_again; /* the part of its operations that runs again */
  int alike;                                   /* the units between the first and the last are */
} auto_place;

typedef struct auto_places { /* all that differ; of ranks along cp and ep, which are alike, one */
  auto_place *at;
  uint32_t count;
  vram_error err; /* it cannot be cut so */
} auto_places;

typedef struct auto_group { /* combinations that cut the model the same way */
  vram_parallel cut;
  uint32_t batch;             /* of auto_search.batch */
  auto_places plain, sharded; /* for fully_shard, whose units are where values are waited for */
} auto_group;

typedef struct auto_scratch { /* of steps */
  void *mem;
  uint64_t bytes;
} auto_scratch;

typedef struct auto_search {
  job *j;
  const char *text;
  size_t len;
  uint32_t devices;
  int64_t global_batch;
  int has_dims, has_experts; /* has_dims: the batch is one */
  auto_line *line;
  uint32_t count, room;
  auto_group *group;
  uint32_t ngroup, group_room;
  loaded *batch; /* by micro-batch */
  uint32_t nbatch;
  auto_reason *reason;
  uint32_t nreason, reason_room, refused;
  int lost;                   /* a reason, for which there was no memory */
  uint32_t decided, unplayed; /* combinations that are not refused; of these not played */
  uint32_t no, open, fits;
  auto_scratch *scratch; /* of this thread */
} auto_search;

/* Lines that are shown: the cheapest that fit, or the nearest; with --top all every one. */
uint32_t auto_shown(const auto_search *a);
void auto_print(const auto_search *a);
void auto_json(const auto_search *a);
void auto_csv(const auto_search *a, int head);

#endif
