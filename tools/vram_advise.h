/* vram advise: its arguments, and what is printed. */
#ifndef VRAM_ADVISE_H
#define VRAM_ADVISE_H

#include "vram_job.h"
#include "vram_threads.h"

enum { ADVISE_SHOWN = 8, ADVISE_WORDS = 96 };

typedef struct advise_job {
  job j;
  const char *message;             /* --message */
  const char *word[ADVISE_WORDS];  /* of the command for the step as it is: options */
  const char *value[ADVISE_WORDS]; /* and their values; NULL: none */
  uint32_t nword;
  int64_t most;    /* --tries */
  char budget[32]; /* --budget of the message */
} advise_job;

void advise_print(const advise_job *a, const vram_advice *v);
/* Only the members: the object is the caller's. */
void advise_json(const advise_job *a, const vram_advice *v);
void message_print(const advise_job *a, const vram_message *m);
void message_json(const vram_message *m);

#endif
