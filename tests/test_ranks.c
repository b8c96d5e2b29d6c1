/* What NCCL takes of a device, beside what others saw of it; equal ranks beside every rank played.
   usage: test_ranks */
#include "play.h"

static void nccl_published(void) {
  FILE *f = fopen("tests/golden/parallel/nccl.txt", "rb");
  char line[300], calls[8];
  int rows = 0;
  if (!CHECK(f != NULL))
    return;
  while (fgets(line, sizeof line, f)) {
    vram_step_options o;
    vram_bounds nccl, context;
    unsigned long cc, ranks, n, with_context;
    unsigned long long low, high;
    int uses;
    if (*line == '#')
      continue;
    snprintf(test_where, sizeof test_where, "%.80s", line);
    if (!CHECK(sscanf(line, "%lu %lu %7s %lu %llu %llu %lu", &cc, &ranks, calls, &n, &low, &high,
                      &with_context) == 7))
      continue;
    memset(&o, 0, sizeof o);
    o.cc = (uint32_t)cc;
    uses = VRAM_NCCL_COLLECTIVES | (strchr(calls, 'a') ? VRAM_NCCL_ALL_TO_ALL : 0);
    nccl = vram_nccl_communicator_bytes(o.cc, ranks, uses);
    context = vram_context_bytes(&o, 0);
    CHECK(nccl.lower <= nccl.expected && nccl.expected <= nccl.upper);
    CHECK(n * nccl.lower + (with_context ? context.lower : 0) <= low);
    CHECK(n * nccl.upper + (with_context ? context.upper : 0) >= high);
    if (getenv("VERBOSE"))
      printf("%s  context %.0f %.0f %.0f, NCCL %.0f %.0f %.0f MB\n", line,
             (double)context.lower / 1e6, (double)context.expected / 1e6,
             (double)context.upper / 1e6, (double)nccl.lower / 1e6, (double)nccl.expected / 1e6,
             (double)nccl.upper / 1e6);
    rows++;
  }
  fclose(f);
  *test_where = 0;
  EQUAL(rows, 7);
}

/* One communicator for each dim of the mesh that is used; nothing of a world of one. */
static void nccl_of_meshes(void) {
  static const char *const none[] = {"ddp=1", "fsdp2=1+tp=1", "pp=1"};
  vram_step_options o;
  vram_parallel p;
  vram_bounds a, b, both;
  size_t i;
  memset(&o, 0, sizeof o);
  EQUAL(vram_nccl_bytes(&o).upper, 0);
  o.parallel = &p;
  for (i = 0; i < sizeof none / sizeof *none; i++) {
    CHECK(!vram_parallel_parse(none[i], &p, NULL));
    EQUAL(vram_nccl_bytes(&o).upper, 0);
  }
  CHECK(!vram_parallel_parse("fsdp2=8", &p, NULL));
  a = vram_nccl_bytes(&o);
  CHECK(!vram_parallel_parse("tp=2", &p, NULL));
  b = vram_nccl_bytes(&o);
  CHECK(!vram_parallel_parse("fsdp2=8+tp=2", &p, NULL));
  both = vram_nccl_bytes(&o);
  EQUAL(both.lower, a.lower + b.lower);
  EQUAL(both.expected, a.expected + b.expected);
  CHECK(both.upper > a.upper + b.upper);
  o.cc = 89; /* no NVLink: buffers may lie on the host */
  EQUAL(vram_nccl_bytes(&o).lower, 0);
  CHECK(vram_nccl_bytes(&o).upper < both.upper);
  p.pp = 4000000000u;
  p.ep = 4000000000u;
  CHECK(vram_nccl_bytes(&o).upper > both.upper);
}

int main(void) {
  nccl_published();
  nccl_of_meshes();
  return test_done("test_ranks");
}
