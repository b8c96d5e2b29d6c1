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
  vram_timeline timeline; /* with --html: of its step, */
  void *columns;          /* in this memory; NULL: none */
} rank_row;

typedef struct rank_way { /* the step with some of the strategies of --parallel */
  char name[256];         /* of the last one */
  uint64_t ranks;
  vram_report report; /* of the fullest */
} rank_way;

enum { MOST_WAYS = 6 };

typedef struct rank_table { /* all classes of a world */
  rank_row *row;
  uint32_t count, room, fullest;
  loaded l;                /* of the class that was played last */
  uint32_t place;          /* 1 + the rank that its graph is of; 0: none */
  rank_way way[MOST_WAYS]; /* with --html: one device, and a strategy more in each */
  uint32_t nway, micro;    /* micro-batches of all of them */
} rank_table;

/* Every class of the world of j, whose text it is, of `len` bytes; j is as of its fullest then. Not
   FITS: message printed. ranks_end in any case. */
int ranks_play(job *j, const char *text, size_t len, rank_table *t);
void ranks_end(rank_table *t);
/* The same, for the fullest alone: *rank becomes the first of it. */
int ranks_fullest(const job *j, const char *text, size_t len, uint32_t *rank);
/* The same of a step on one device, as the only row. */
int ranks_play_one(job *j, const char *text, size_t len, rank_table *t);
/* What each strategy of j's adds, for the page; not FITS: message printed. */
int ranks_ways(const job *j, const char *text, size_t len, rank_table *t);
/* The picture of a row, whose graph is t's; not FITS: message printed. */
int ranks_picture(const job *j, const rank_table *t, rank_row *row);
/* A part of the page of --html: all pictures, and a table; not 0: it was not written. */
int ranks_html(FILE *f, const job *j, const rank_table *t);
/* What a rank sends in a step. */
uint64_t ranks_sent(const vram_report *r);
/* "0-6", "7", "0-14/2" of the class. */
void ranks_text(const job *j, const rank_row *r, char *to, size_t cap);
/* "pp 0 dp 3": where a rank is in the mesh. */
void ranks_place(const vram_parallel *p, uint32_t rank, char *to, size_t cap);
/* The library's classes of equal ranks: of what is cut, or of a wrapper. *list is to be freed,
   where it is not NULL; not FITS: message printed. */
int ranks_classes(const vram_graph *g, const vram_parallel *p, int cut, vram_rank_class **list,
                  uint32_t *count);
/* vram plan --parallel: the text is freed. The exit status. */
int plan_ranks_command(job *j, char *text, size_t len);
/* vram fit --parallel auto. The exit status. */
int auto_command(job *j, const char *text, size_t len);
/* vram estimate --rank all: the text is freed. The exit status. */
int ranks_command(job *j, char *text, size_t len);

#endif
