/* Names of files on standard input -> what vram.h's reader says of each, a line: "ok VERSION KEYS
   TENSORS ALIGNMENT DATA" or "bad OFFSET: WHY". For tests/measured/verdicts.py. */
#define VRAM_IMPLEMENTATION
#include "../../vram.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  enum { MOST = 1 << 24 };
  static char path[4096], data[MOST], memory[MOST];
  while (fgets(path, sizeof path, stdin)) {
    vram_file_source s = VRAM_ZERO_INIT;
    vram_file f;
    vram_error e;
    vram_result r;
    FILE *from;
    path[strcspn(path, "\n")] = 0;
    from = fopen(path, "rb");
    if (!from)
      return 1;
    s.data = data;
    s.bytes = fread(data, 1, sizeof data, from);
    fclose(from);
    vram_file_init(&f, memory, sizeof memory);
    r = vram_file_read(&f, &s, &e);
    f.split_count = 0; /* a part alone is sound */
    if (!r)
      r = vram_file_finish(&f, &e);
    if (r)
      printf("bad %" PRIu64 ": %s\n", e.offset, e.text);
    else
      printf("ok %" PRIu32 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", f.version,
             f.nvalue, f.ntensor, f.alignment, f.part_first->header_bytes);
    fflush(stdout);
  }
  return 0;
}
