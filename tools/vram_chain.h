/* A chain of stages in a file: CHAIN.csv of vram plan. */
#ifndef VRAM_CHAIN_H
#define VRAM_CHAIN_H

#include "vram_command.h"

/* A number as written: digits * 10^exponent, exact. */
typedef struct exact {
  uint64_t digits;
  int exponent;
} exact;

typedef struct plan_chain {
  vram_chain c;
  vram_stage *stage;
  vram_way *way;
  char *names;
  int exponent; /* of the costs, at most 0: a cost of 1 is 10^exponent of the file's unit */
} plan_chain;

/* 1: digits, perhaps with a point and an exponent; -1: more than it can hold, 0: not one */
int exact_parse(const char *s, size_t n, exact *to);
/* The integer that d is in units of 10^exponent; 0: it is not one below 2^63. */
int exact_scaled(exact d, int exponent, uint64_t *to);

/* The first line names columns of a chain: so it is no model. */
int chain_is(const char *path, char *text, size_t len);
/* A chain from its text; not FITS: message printed. chain_end() in any case. */
int chain_read(const char *path, char *text, size_t len, plan_chain *p);
void chain_end(plan_chain *p);
/* A cost in the unit of the file, all of its digits; four texts may live at once. */
const char *chain_cost_text(const plan_chain *c, uint64_t cost);

#endif
