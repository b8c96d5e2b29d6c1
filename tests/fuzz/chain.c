/* Bytes -> a chain -> schedules under options that the last byte chooses -> their check and every
   output.
   clang -g -O1 -fsanitize=fuzzer,address,undefined -Ibuild tests/fuzz/chain.c \
     build/fuzz/tool.a -o build/fuzz-c -ldl
   build/fuzz-c -close_fd_mask=3 build/corpus tests/fuzz/corpus/chain */
#include "../../tools/vram_plan.c"

#include "fuzz.h"

static int into_nothing(void *user, const char *bytes, size_t n) {
  (void)bytes;
  *(size_t *)user += n;
  return 0;
}

static void write_picture(const planned *d) {
  const vram_chain *c = &d->chain->c;
  const vram_schedule *s = &d->plan.s;
  const uint64_t bytes = vram_schedule_svg_bytes(c, s->nmove);
  void *scratch = malloc((size_t)bytes);
  size_t written = 0;
  vram_sink sink;
  MUST(scratch);
  sink.write = into_nothing;
  sink.user = &written;
  MUST(!vram_write_schedule_svg(c, s->move, s->nmove, NULL, scratch, bytes, &sink) && written);
  free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const unsigned choice = size ? data[size - 1] : 0;
  char *text = (char *)malloc(size + 1);
  char name[] = "input";
  plan_job p;
  plan_chain c;
  planned d;
  if (!text)
    return 0;
  memcpy(text, data, size);
  memset(&p, 0, sizeof p);
  memset(&d, 0, sizeof d);
  p.j.model = name;
  p.j.has_budget = 1;
  p.o.planner = (vram_planner)(choice % VRAM_PLANNER_COUNT);
  p.o.offload = !p.o.planner && (choice & 64);
  d.p = &p;
  d.chain = &c;
  if (!chain_read(name, text, size, &c) && c.c.nstage <= 12) {
    c.c.align = choice & 128 ? 64 : 0;
    p.j.budget = p.o.budget_bytes = 1 + c.c.input_bytes * (choice / 8 % 8);
    if (!plan_all(&d)) {
      const vram_schedule *s = &d.plan.s;
      MUST(s->nmove >= 2 * c.c.nstage);
      MUST(!s->feasible || s->peak_bytes <= p.j.budget);
      MUST(d.binding.arena_bytes + c.c.static_bytes >= s->peak_bytes);
      print_plan(&d);
      print_plan_json(&d);
      print_moves_csv(&d);
      print_stages(&d);
      write_picture(&d);
    }
  }
  planned_end(&d);
  chain_end(&c);
  free(text);
  return 0;
}
