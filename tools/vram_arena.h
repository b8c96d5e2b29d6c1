/* Buffers of vram arena, and where they come from. */
#ifndef VRAM_ARENA_H
#define VRAM_ARENA_H

#include "vram_estimate.h"

typedef struct arena_set { /* buffers and their names */
  const char *path;
  vram_buffer *b;
  char **name;
  uint8_t *stays; /* of a model: from step to step */
  uint32_t n, cap;
  int aligned;          /* the file has alignments other than 1 */
  int banked;           /* it says banks */
  uint64_t recorded;    /* height of the plan that the file has; 0: it has none */
  uint64_t other_bytes; /* of further heaps that the file has, which are not looked at */
  uint32_t other_heaps;
} arena_set;

/* One more buffer, all zero but its name; NULL: no memory. */
vram_buffer *arena_set_add(arena_set *s, const char *name, size_t len);

void arena_set_end(arena_set *s);

/* A picture: time across, offsets up, in so many banks. */
void arena_picture(FILE *f, const arena_set *s, const vram_arena *r, uint32_t nbank);

/* The largest heap of temporary values in XLA's buffer assignment; *align: that of its offsets. */
int arena_of_xla(arena_set *s, const char *text, size_t len, uint64_t *align);

/* The values between the operators of a TFLite or ONNX file, as they lie in it, with the dims of j
   where it leaves sizes open (*is_open); *graphs: how many a TFLite file has, of which the first is
   looked at. CMD_ABSENT: an ONNX file that does not say the size of each, or with inner graphs. */
int arena_of_file(arena_set *s, const job *j, uint64_t *graphs, int *is_open);

#endif
