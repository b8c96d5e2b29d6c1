/* What the fuzz targets have in common. */
#ifndef VRAM_FUZZ_H
#define VRAM_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Stops at what must hold, with its place. */
#define MUST(ok)                                                                                   \
  do                                                                                               \
    if (!(ok)) {                                                                                   \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #ok);                                     \
      abort();                                                                                     \
    }                                                                                              \
  while (0)

#endif
