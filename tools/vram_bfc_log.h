/* Lines that the BFC allocator writes (bfc_allocator.cc of TensorFlow and XLA), among what else a
   program says. */
#ifndef VRAM_BFC_LOG_H
#define VRAM_BFC_LOG_H

#include "vram_trace.h"

typedef struct cursor {
  const char *s, *end;
} cursor;

/* What follows "bfc_allocator.cc:NNN] " in the next line that has it; 0: there is none. */
int bfc_next(const char **at, const char *end, uint32_t *line, cursor *c);
/* 1: the text stands there, and the cursor behind it. */
int bfc_take(cursor *c, const char *what);
/* A name up to a space or a comma; its length. */
size_t bfc_take_name(cursor *c, const char **name);
/* decimal, 0x..., (nil); base 16: with or without 0x. 0: none of them */
int bfc_take_number(cursor *c, unsigned base, uint64_t *to);

/* What the allocator printed when it found no place (the last time): its regions, chunks that are
   in use and those that are free. device -1: the first allocator of a GPU, or the first.
   CMD_ABSENT: nothing of it is there. */
int trace_read_bfc_dump(trace *t, const char *text, size_t len, int64_t device);

#endif
