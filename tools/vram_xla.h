/* What XLA says of the memory of one compiled program: the text of its buffer assignment
   (`*-buffer-assignment.txt`, by XLA_FLAGS=--xla_dump_to=FOLDER), with the live ranges and the
   operators that stand in the files beside it. */
#ifndef VRAM_XLA_H
#define VRAM_XLA_H

#include "vram_command.h"

typedef enum xla_kind {
  XLA_PARAMETER,
  XLA_CONSTANT,
  XLA_OUTPUT, /* live out, in memory of its own */
  XLA_LOCAL,  /* of a computation that is part of an operator: XLA counts it */
  XLA_TEMP,
  XLA_HOST /* any of these in the host's memory */
} xla_kind;

typedef struct xla_allocation {
  uint64_t bytes;
  const char *name, *op; /* of its first value */
  uint32_t len, op_len;
  uint32_t line;
  xla_kind kind;
} xla_allocation;

typedef struct xla_value {
  const char *name; /* "custom-call.2{0}"; into the text, as op is */
  const char *op;   /* op_name of its instruction; NULL: none */
  uint64_t bytes, offset;
  uint64_t begin, end; /* places in the schedule: from begin on, before end */
  uint32_t len, op_len;
  uint32_t allocation, line;
} xla_value;

typedef struct xla_program {
  const char *path;
  char *text[3];   /* the file, its live ranges, its values: where these are other files */
  char *beside[3]; /* their paths */
  size_t len[3];
  xla_allocation *allocation;
  xla_value *value;
  uint32_t nallocation, nvalue, allocation_cap, value_cap;
  uint64_t moments; /* of the schedule */
  int status;
} xla_program;

/* The file begins as a buffer assignment does. */
int xla_is(const char *text, size_t len);

/* A buffer assignment; it looks into text, which stays the caller's. Not FITS: message printed.
   xla_end() in any case. */
int xla_read(xla_program *x, const char *path, const char *text, size_t len);
void xla_end(xla_program *x);

/* "argument", "temp", ... as XLA's memory analysis names them */
const char *xla_kind_name(xla_kind kind);
/* Leaves the values of temporary allocations only, sorted by place: values of one place whose lives
   touch share it (an operator writes over what it reads) and become one buffer. */
void xla_heap(xla_program *x);
/* The largest power of two that all offsets of an allocation are multiples of, at most 4096. */
uint64_t xla_alignment(const xla_program *x, uint32_t allocation);

#endif
