/* vram replay of what is a state, not a stream: what is alive, of what kind, who asked. */
#ifndef VRAM_STATE_H
#define VRAM_STATE_H

#include "vram_trace.h"

/* top: rows of a table, 0: all. The exit status. */
int state_report(const trace *t, int json, uint32_t top);

#endif
