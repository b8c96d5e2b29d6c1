#pragma once
#include "ct/bytes.h"
/* >>types =====================================================================================
   Results, errors, memory. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef VRAM_API
#ifdef VRAM_STATIC
#if defined(__GNUC__) || defined(__clang__)
#define VRAM_API static __attribute__((unused))
#else
#define VRAM_API static
#endif
#elif defined(__cplusplus)
#define VRAM_API extern "C"
#else
#define VRAM_API extern
#endif
#endif

/* vram_step_options o = VRAM_ZERO_INIT; every field has its default, in C and in C++ */
#ifdef __cplusplus
#define VRAM_ZERO_INIT                                                                             \
  {}
#else
#define VRAM_ZERO_INIT                                                                             \
  { 0 }
#endif

#define VRAM_MAX_AXES 8            /* axes of a tensor */
#define VRAM_MAX_DIMS 64           /* symbolic dimensions of a model */
#define VRAM_MAX_NAME 255          /* bytes of a name */
#define VRAM_MAX_NODES 16777216u   /* nodes of a model, loops written out */
#define VRAM_MAX_BYTES (INT64_MAX) /* any total, in bytes */
#define VRAM_MAX_LOOPS 16          /* loops inside one another */
#define VRAM_MAX_NESTED 128        /* checkpointed ranges inside one another */
#define VRAM_OVERFLOW UINT64_MAX   /* what a byte count becomes that does not fit */

#define VRAM_RESULTS(X)                                                                            \
  X(OK, "ok")                                                                                      \
  X(ERR_SYNTAX, "the text form is malformed")                                                      \
  X(ERR_NAME, "a name is unknown or defined twice")                                                \
  X(ERR_SHAPE, "shapes do not fit")                                                                \
  X(ERR_VALUE, "a value is out of range")                                                          \
  X(ERR_LIMIT, "a limit of the library is exceeded")                                               \
  X(ERR_OVERFLOW, "a size does not fit into 63 bits")                                              \
  X(ERR_MEMORY, "the caller's memory is too small")                                                \
  X(ERR_UNSUPPORTED, "not possible with these options")                                            \
  X(ERR_DTYPE, "no such dtype")                                                                    \
  X(ERR_BLOCK, "a row that does not divide into blocks")                                           \
  X(ERR_WRITE, "the sink takes no more")                                                           \
  X(ERR_CALL, "a function of the caller failed")

typedef enum vram_result {
#define VRAM__X(id, text) VRAM_##id,
  VRAM_RESULTS(VRAM__X)
#undef VRAM__X
      VRAM_RESULT_COUNT
} vram_result;

/* What went wrong and where. `line` and `column` count from 1; 0: not from a text. */
typedef struct vram_error {
  vram_result code;
  uint32_t line, column;
  char text[240];  /* one line, without the position; always terminated */
  uint64_t offset; /* of a byte in a file, if has_offset */
  uint8_t has_offset;
} vram_error;

/* What a result means, in a few words. Never NULL. */
VRAM_API const char *vram_result_text(vram_result r);

/* Memory from the caller, for functions that cannot know beforehand how much they need. */
typedef struct vram_allocator {
  void *(*alloc)(void *user, uint64_t bytes); /* aligned for any type; NULL: there is no more */
  void (*free)(void *user, void *memory, uint64_t bytes); /* bytes as asked for; never of NULL */
  void *user;
} vram_allocator;
