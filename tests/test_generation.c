/* Generations, step by step, against what transformers' generate() took.
   usage: test_generation GOLDEN.txt, whose texts lie in the folder generate beside it */
#include "play.h"

typedef struct row {
  char text[64], dtype[8], allocated[24], reserved[24];
  long long batch, prompt, room, step;
  unsigned long long before, peak;
} row;

typedef struct generation {
  vram_generation gen;
  vram_pool_options pool;
  vram_step_options o;
  char *text;
  size_t len;
  void *mem;
  uint64_t after; /* requested bytes where the step before ended */
} generation;

static void generation_end(generation *t) {
  free(t->text);
  free(t->mem);
  memset(t, 0, sizeof *t);
}

/* The graph of a step, in memory that the caller frees; NULL: message printed. */
static void *graph_of(generation *t, const row *r, vram_graph *g) {
  const int64_t past = r->step ? r->prompt + r->step - 1 : 0, tokens = r->step ? 1 : r->prompt;
  const vram_dim dims[] = {{"N", r->batch},      {"S", tokens},  {"P", past},
                           {"T", past + tokens}, {"M", r->room}, {"Q", r->prompt},
                           {"R", r->batch > 1}};
  const uint64_t second = vram_text_decode(t->text, t->len);
  const char *text = r->step ? t->text + second : t->text;
  const size_t len = r->step ? t->len - (size_t)second : t->len;
  const uint64_t bytes = vram_graph_parse_bytes(text, len, dims, 7);
  vram_error err;
  void *mem = malloc((size_t)bytes);
  vram_graph_init(g, mem, bytes);
  if (!vram_graph_parse(g, text, len, dims, 7, &err))
    return mem;
  printf("%s:%u: %s\n", r->text, (unsigned)err.line, err.text);
  free(mem);
  return NULL;
}

static int generation_begin(generation *t, const vram_graph *g) {
  const uint64_t bytes = vram_generation_bytes(g, &t->o);
  t->mem = malloc((size_t)bytes);
  return t->mem && !vram_generation_begin(&t->gen, g, &t->o, t->mem, bytes);
}

static void same(const row *r, const char *what, unsigned long long want, uint64_t got) {
  if (want != got)
    printf("%s %s batch %lld prompt %lld step %lld: %s %llu, measured %llu\n", r->text, r->dtype,
           r->batch, r->prompt, r->step, what, (unsigned long long)got, want);
  CHECK(want == got);
}

/* Plays the row's step and compares. */
static void play_row(generation *t, const char *folder, const row *r) {
  char path[512];
  vram_graph g;
  vram_report report;
  vram_error err;
  uint64_t bytes, room;
  void *mem, *scratch;
  if (!r->step) {
    generation_end(t);
    snprintf(path, sizeof path, "%s/generate/%s.vram", folder, r->text);
    t->text = play_file(path, &t->len);
    t->o.replay = &t->pool;
    t->o.dtype = vram_dtype_from_name(r->dtype);
  }
  mem = t->text ? graph_of(t, r, &g) : NULL;
  CHECK(mem != NULL);
  if (!mem)
    return;
  if (!r->step)
    CHECK(generation_begin(t, &g));
  bytes = vram_step_bytes(&g, &t->o);
  scratch = malloc((size_t)bytes);
  CHECK(!vram_generation_step(&t->gen, &g, &t->o, scratch, bytes, &report, &err));
  CHECK(t->gen.replayed && report.scratch_used <= bytes);
  if (r->step)
    same(r, "before", r->before, t->after);
  same(r, "requested peak", r->peak, report.peak_requested_bytes);
  if (*r->allocated != '-') {
    same(r, "allocated peak", strtoull(r->allocated, NULL, 10),
         report.peak_allocated_bytes.expected);
    same(r, "reserved peak", strtoull(r->reserved, NULL, 10), report.peak_reserved_bytes);
  }
  room = report.peak_allocated_bytes.upper;
  CHECK(*r->allocated == '-' || strtoull(r->allocated, NULL, 10) <= room);
  t->after = report.phase[VRAM_PHASE_FORWARD].requested_bytes;
  free(scratch);
  free(mem);
}

/* What a generation refuses. */
static void refusals(void) {
  static const char first[] = "dim S=2 P=0\ninput x f32 [S,4]\ncache k shape=[P,4] dtype=f32\n"
                              "cat y k x dim=0\nstore k y\n";
  static const char none[] = "input x f32 [2,4]\nrelu y x\n";
  const vram_dim more = {"P", 3};
  static uint8_t mem[1 << 16], other[1 << 16], scratch[1 << 20], state[1 << 20];
  vram_generation gen;
  vram_graph g, h;
  vram_report report;
  vram_error err;
  vram_step_options o;
  memset(&o, 0, sizeof o);
  vram_graph_init(&g, mem, sizeof mem);
  CHECK(!vram_graph_parse(&g, first, strlen(first), NULL, 0, &err));
  CHECK(vram_generation_begin(&gen, &g, NULL, state, 8) == VRAM_ERR_MEMORY);
  CHECK(!vram_generation_begin(&gen, &g, NULL, state, sizeof state));
  CHECK(!vram_generation_step(&gen, &g, NULL, scratch, sizeof scratch, &report, &err));
  CHECK(gen.steps == 1 && gen.cache_bytes == 32 && report.kv_cache_bytes == 32);
  vram_graph_init(&h, other, sizeof other);
  CHECK(!vram_graph_parse(&h, first, strlen(first), &more, 1, &err));
  CHECK(vram_generation_step(&gen, &h, NULL, scratch, sizeof scratch, &report, &err) ==
        VRAM_ERR_SHAPE);
  CHECK(strstr(err.text, "a cache is larger than what the step before stored (node k)") != NULL);
  vram_graph_init(&h, other, sizeof other);
  CHECK(!vram_graph_parse(&h, none, strlen(none), NULL, 0, &err));
  CHECK(vram_generation_step(&gen, &h, NULL, scratch, sizeof scratch, &report, &err) ==
        VRAM_ERR_VALUE);
  o.train = 1;
  CHECK(vram_generation_step(&gen, &g, &o, scratch, sizeof scratch, &report, &err) ==
        VRAM_ERR_VALUE);
}

int main(int argc, char **argv) {
  generation t;
  char line[256], folder[256] = ".";
  FILE *f = argc > 1 ? fopen(argv[1], "r") : NULL;
  const char *slash;
  row r;
  if (!f || strlen(argv[1]) >= sizeof folder)
    return printf("usage: test_generation GOLDEN.txt\n"), 2;
  slash = strrchr(argv[1], '/');
  if (slash)
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - argv[1]), argv[1]);
  memset(&t, 0, sizeof t);
  while (fgets(line, sizeof line, f))
    if (*line != '#' &&
        sscanf(line, "%63s %7s %lld %lld %lld %lld %llu %llu %23s %23s", r.text, r.dtype, &r.batch,
               &r.prompt, &r.room, &r.step, &r.before, &r.peak, r.allocated, r.reserved) == 10)
      play_row(&t, folder, &r);
  fclose(f);
  generation_end(&t);
  refusals();
  return test_done("test_generation");
}
