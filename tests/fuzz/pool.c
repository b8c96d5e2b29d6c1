/* Bytes -> a pool and calls on it (tests/pool_calls.h); bytes -> the text of its options.
   clang -g -O1 -fsanitize=fuzzer,address,undefined tests/fuzz/pool.c \
     build/fuzz/tool.a -ldl -o build/fuzz-pool */
#include "../../vram.h"

#include "fuzz.h"

#include "../pool_calls.h"

static void config(const uint8_t *data, size_t size) {
  vram_pool_options o = VRAM_ZERO_INIT;
  vram_error e;
  char *text = (char *)malloc(size + 1);
  vram_result r;
  if (!text)
    abort();
  memcpy(text, data, size);
  text[size] = 0;
  o.total_bytes = UINT64_C(80) << 30;
  r = vram_pool_config(text, &o, &e);
  if (r ? e.code != r || !e.text[0] || e.line != 1 || e.column > size + 1 || o.limit_bytes ||
              o.max_split_size || o.expandable_segments
        : e.code != VRAM_OK || o.streams || o.event)
    FAIL("options are read, or it is said why not");
  free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size && data[0] == 255)
    config(data + 1, size - 1);
  else
    calls_run(data, size, 0);
  if (test_failed)
    abort();
  return 0;
}
