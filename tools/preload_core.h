/* What the units of the library of tools/preload.c share. */
#ifndef PRELOAD_CORE_H
#define PRELOAD_CORE_H

/* The implementation is in preload_cuda.c. */
#define VRAM_CUDA_DLOPEN
#define VRAM_CUDA_NO_NVTX /* by InitializeInjectionNvtx2 */
#define VRAM_CUDA_NVTX_BYTES 65536
#define VRAM_NO_KV
#define VRAM_NO_MODEL
#define VRAM_NO_NET
#define VRAM_NO_PLAN
#define VRAM_NO_READ
#define VRAM_NO_STEP
#include "preload.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- preload.c */

extern __thread int inside; /* this thread is in a call that counts, or must not */

void *find_real(void *user, vram_cuda_library lib, const char *symbol);

/* NULL: nothing counts */
vram_cuda_tracker *track(void);

/* That text in the section, or as it is where nothing counts; NULL: no room. */
const char *text_of_section(const char *text);

/* The name of the innermost range of NVTX that this thread is in, as a text of the section; NULL:
   it is in none, or nothing counts. */
const char *tag_here(void);

/* What failed allocations say goes into the section, or, where this thread wants it, is kept for
   the error that it raises. */
extern const vram_sink report_sink;
enum { TOLD = 8192 };
void keep_told(int on);
/* What was kept, and is no more; 0: nothing. */
uint32_t take_told(char to[TOLD]);
/* The last report of this process, if it counts. */
void set_report(const char *text);

/* ---- preload_cuda.c */

enum { RANGE_NAMES = VRAM_CUDA_NVTX_BYTES / 2 };
/* The name of the innermost range that this thread is in, and a number of this name alone, below
   RANGE_NAMES; NULL: it is in none. */
const char *range_now(uint32_t *number);

/* In the child of a fork: no thread has the lock. */
void forget_range_lock(void);

#endif
