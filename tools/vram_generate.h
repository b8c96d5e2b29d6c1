/* A generation that is played: for `vram estimate --generate` and `vram fit --generate`. */
#ifndef VRAM_GENERATE_H
#define VRAM_GENERATE_H

#include "vram_job.h"

typedef struct step_figures {
  uint64_t before, after, requested_peak, allocated_peak, reserved_peak, cache;
} step_figures;

/* One part of the text, as it is read for each step. */
typedef struct part {
  const char *text;
  size_t len;
  void *mem, *scratch; /* of graph and step; they grow */
  uint64_t mem_bytes, scratch_bytes;
  int64_t from; /* tokens before its first step; is_step: its number */
  int is_step;
  vram_graph g;
} part;

enum { MAX_PARTS = 8, STEP_DIMS = 8 };

/* What a generation took so far. */
typedef struct generated_peaks {
  vram_bounds device, allocated;
  uint64_t requested, cache;
  uint32_t peak_step;
} generated_peaks;

typedef struct generated {
  job *j;
  char *text;
  part part[MAX_PARTS]; /* the prompt's, and those of further tokens */
  uint32_t parts;
  void *mem;
  vram_generation gen;
  step_figures *step;
  vram_report first, last; /* reports of those steps */
  vram_bounds device;
  generated_peaks peaks; /* before the last step */
  int fits;              /* the budget, if there is one */
  int knows_new;         /* sizes follow how many tokens will be generated */
} generated;

/* Plays the text, of `len` bytes, which the generation keeps until generate_close(). most: so many
   steps, and not beyond the first one that does not fit; 0: all. The exit status. */
int generate_play(generated *t, job *j, char *text, size_t len, uint32_t most);
void generate_close(generated *t);
void generate_peaks(const generated *t, generated_peaks *p);

/* vram fit --generate: the largest batch, prompt or number of new tokens. */
int generate_fit(job *j);

#endif
