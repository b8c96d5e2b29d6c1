/* Work that falls into parts, on all processors. */
#ifndef VRAM_THREADS_H
#define VRAM_THREADS_H

#include <stdint.h>

enum { THREADS_MOST = 16 };

/* How many threads work on so many parts: as many as there are processors, or VRAM_THREADS of the
   environment. */
uint32_t threads_for(uint32_t parts);

/* one(user, k, i) for every i below `parts`, each begun behind those before, k of
   threads_for(parts) at a time: the number of the thread. Not 0: none is begun any more. */
void threads_run(uint32_t parts, int (*one)(void *user, uint32_t k, uint32_t i), void *user);

#endif
