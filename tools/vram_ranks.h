/* Ranks of a world: classes of equal ones, each played once. */
#ifndef VRAM_RANKS_H
#define VRAM_RANKS_H

#include "vram_job.h"

typedef struct rank_row { /* a class of equal ranks */
  vram_rank_class of;
  vram_report report; /* its nodes are NULL */
  vram_parameters parameters;
  char peak_node[MAX_NODE_NAME];
  int fits;
} rank_row;

typedef struct rank_table {
  rank_row *row;
  uint32_t count, room, fullest;
  loaded l;       /* of the class that was played last */
  uint32_t place; /* 1 + the rank that its graph is of; 0: none */
} rank_table;

/* Every class of the world of j, whose text it is, of `len` bytes; j is as of its fullest then. Not
   FITS: message printed. ranks_end in any case. */
int ranks_play(job *j, const char *text, size_t len, rank_table *t);
void ranks_end(rank_table *t);
/* The same, for the fullest alone: *rank becomes the first of it. */
int ranks_fullest(const job *j, const char *text, size_t len, uint32_t *rank);
/* "0-6", "7", "0-14/2" of the class. */
void ranks_text(const job *j, const rank_row *r, char *to, size_t cap);
/* vram estimate --rank all: the text is freed. The exit status. */
int ranks_command(job *j, char *text, size_t len);

#endif
