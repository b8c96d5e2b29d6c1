/* cc -o ledger examples/ledger.c && ./ledger
   At ledger.c line 42: load                         total 63.0 MiB (+63.0 MiB), peak 63.0 MiB
   + |      7 *   9.00 MiB |   63.0 MiB | ledger.c:31 load, weights
   At ledger.c line 45: step                         total 59.0 MiB (-4.00 MiB), peak 68.0 MiB
   - |      1 *   9.00 MiB |   9.00 MiB | ledger.c:31 load, weights
   + |      1 *   5.00 MiB |   5.00 MiB | ledger.c:31 step, cache
   in step: 5.00 MiB at most above its beginning, -4.00 MiB at its end

   A ledger beside an allocator of your own: counters, call sites, a log of what was added and
   removed between two lines, and a file for pytorch.org/memory_viz. */
#define VRAM_IMPLEMENTATION
#include "../vram.h"
#include <stdio.h>
#include <stdlib.h>

static vram_ledger ledger;

static int to_file(void *file, const char *text, size_t n) {
  return fwrite(text, 1, n, (FILE *)file) != n;
}

/* what an allocator calls after it has allocated, and before it frees */
static void took(uint64_t address, uint64_t bytes, const char *function, const char *tag) {
  vram_event e = VRAM_ZERO_INIT;
  e.action = VRAM_ACTION_ALLOC;
  e.address = address;
  e.bytes = bytes;
  e.whole = 1; /* straight from the device */
  e.owner = vram_ledger_owner(&ledger, "ledger.c", 31, function, tag);
  vram_ledger_event(&ledger, &e);
}

int main(void) {
  vram_ledger_options o = VRAM_ZERO_INIT;
  vram_sink out = {to_file, stdout};
  vram_change changes[10];
  vram_region step;
  void *memory;
  uint64_t i;
  o.groups = 100; /* for the log */
  o.trace = 1000; /* for the snapshot */
  memory = malloc((size_t)vram_ledger_bytes(&o));
  if (!memory || vram_ledger_init(&ledger, &o, memory, vram_ledger_bytes(&o), NULL))
    return 1;
  for (i = 1; i <= 7; i++)
    took(i << 24, 9 << 20, "load", "weights");
  vram_write_log(&ledger, "ledger.c", 42, "load", changes, 10, &out);
  vram_region_begin(&ledger, &step, "step");
  took(100 << 24, 5 << 20, "step", "cache");
  vram_ledger_take(&ledger, 3 << 24, NULL);
  vram_region_end(&ledger, &step);
  vram_write_log(&ledger, "ledger.c", 45, "step", changes, 10, &out);
  printf("in step: %.2f MiB at most above its beginning, %.2f MiB at its end\n",
         (double)step.peak / 1048576, (double)step.bytes / 1048576);
  out.user = fopen("snapshot.pickle", "wb");
  if (!out.user || vram_write_snapshot(&ledger, NULL, &out) || fclose((FILE *)out.user))
    return 1;
  free(memory);
  return 0;
}
