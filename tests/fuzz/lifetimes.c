/* Bytes -> lifetimes -> a plan, under options that the last byte chooses -> its check and every
   output.
   clang -g -O1 -fsanitize=fuzzer,address,undefined -Ibuild tests/fuzz/lifetimes.c \
     build/fuzz/tool.a -o build/fuzz-l -ldl
   build/fuzz-l -close_fd_mask=3 build/corpus tests/fuzz/corpus/lifetimes */
#include "../../tools/vram_arena.c"

#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const unsigned choice = size ? data[size - 1] : 0;
  static FILE *nowhere;
  char *text = (char *)malloc(size + 1);
  uint32_t *lines = NULL;
  arena_set s;
  arena_job a;
  nowhere = nowhere ? nowhere : fopen("/dev/null", "w");
  MUST(nowhere);
  memset(&s, 0, sizeof s);
  memset(&a, 0, sizeof a);
  s.path = "input";
  if (!text)
    return 0;
  memcpy(text, data, size);
  a.o.nodes = 300;
  a.o.align = choice & 1 ? 64 : 0;
  a.o.greedy = (choice & 2) != 0;
  a.o.nbank = choice >> 2 & 3;
  a.o.capacity[0] = choice & 16 ? 1000 : 0;
  a.o.order = (vram_arena_order)(choice >> 5 == 7 ? VRAM_ARENA_ORDER_tflm : choice >> 5);
  if (!read_lifetimes(&s, text, size, &lines)) {
    const uint64_t bytes = vram_arena_bytes(s.n, &a.o);
    void *scratch = malloc((size_t)bytes);
    vram_arena r, v;
    vram_error e;
    uint32_t i;
    MUST(scratch);
    for (i = 0; i < s.n; i++)
      MUST(lines[i] > 1 && (!i || lines[i] > lines[i - 1]));
    if (!vram_arena_plan(s.b, s.n, &a.o, scratch, bytes, &r, &e)) {
      MUST(!vram_arena_verify(s.b, s.n, &a.o, scratch, bytes, &v, &e));
      MUST(v.height_bytes == r.height_bytes && r.lower_bound_bytes <= r.height_bytes);
      MUST(a.o.nbank > 1 || v.lower_bound_bytes <= r.lower_bound_bytes);
      MUST(!arena_header(nowhere, &a, &s, &r));
      arena_picture(nowhere, &s, &r, arena_banks(&a));
      a.offsets = 1;
      arena_json(&a, &s, &r, 1, 0);
      arena_csv(&a, &s);
      arena_text(&a, &s, &r, 1, 0);
    } else
      MUST(e.code && *e.text && e.line <= s.n);
    free(scratch);
  }
  arena_set_end(&s);
  free(lines);
  free(text);
  return 0;
}
