/* What NCCL takes of a device, beside what others saw of it; equal ranks beside every rank played.
   usage: test_ranks */
#include "play.h"

static void nccl_published(void) {
  FILE *f = fopen("tests/golden/parallel/nccl.txt", "rb");
  char line[300], calls[8];
  int rows = 0;
  CHECK(f != NULL);
  if (!f)
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
  EQUAL(both.expected, a.expected + b.expected - 373293056); /* kernels are loaded once */
  CHECK(both.upper > a.upper + b.upper);
  o.cc = 89; /* no NVLink: buffers may lie on the host */
  EQUAL(vram_nccl_bytes(&o).lower, 0);
  CHECK(vram_nccl_bytes(&o).upper < both.upper);
  p.pp = 4000000000u;
  p.ep = 4000000000u;
  CHECK(vram_nccl_bytes(&o).upper > both.upper);
}

/* ---- classes of equal ranks, beside every rank played ---- */

static const char odd[] = "dim N=3\n"
                          "input x f32 [N,50]\n"
                          "linear a x out_features=13\n"
                          "relu b a inplace=1\n"
                          "linear c b out_features=29\n"
                          "relu d c inplace=1\n"
                          "linear e d out_features=7\n"
                          "cross_entropy loss e\n";

static int same_report(const vram_report *a, const vram_report *b) {
  return !memcmp(a->phase, b->phase, sizeof a->phase) && a->params_bytes == b->params_bytes &&
         a->gradients_bytes == b->gradients_bytes && a->optimizer_bytes == b->optimizer_bytes &&
         a->peak_requested_bytes == b->peak_requested_bytes &&
         a->peak_reserved_bytes == b->peak_reserved_bytes &&
         !memcmp(a->communication, b->communication, sizeof a->communication);
}

/* Each rank of the world is in one class alone and takes what the class's first one takes; ranks of
   two classes need not differ. Returns the number of classes; 0: such a world is not played. */
static uint32_t every_rank(const char *text, const char *spec) {
  vram_rank_class *list = NULL;
  vram_report *report;
  vram_step_options o;
  vram_pool_options pool;
  vram_parallel p;
  vram_graph g;
  vram_error e;
  const uint64_t need = vram_graph_parse_bytes(text, strlen(text), NULL, 0);
  void *mem = malloc((size_t)need), *scratch;
  uint64_t bytes, sum = 0;
  uint32_t n = 0, m = 0, i, rank, world;
  snprintf(test_where, sizeof test_where, "%s", spec);
  vram_graph_init(&g, mem, need);
  CHECK(!vram_graph_parse(&g, text, strlen(text), NULL, 0, &e) &&
        !vram_parallel_parse(spec, &p, &e));
  memset(&o, 0, sizeof o);
  memset(&pool, 0, sizeof pool);
  o.train = 1;
  o.optimizer = VRAM_OPTIM_adamw;
  o.parallel = &p;
  o.replay = &pool;
  bytes = vram_parallel_classes_bytes(&g, &p);
  scratch = test_scratch(bytes);
  EQUAL(vram_parallel_classes(&g, &p, scratch, bytes - 1, NULL, 0, &n), VRAM_ERR_MEMORY);
  EQUAL(vram_parallel_classes(&g, &p, scratch, bytes, NULL, 0, &n), VRAM_OK);
  list = (vram_rank_class *)malloc(n * sizeof *list);
  EQUAL(vram_parallel_classes(&g, &p, scratch, bytes, list, n, &m), VRAM_OK);
  EQUAL(m, n);
  free(scratch);
  world = (uint32_t)vram_parallel_world(&p);
  report = (vram_report *)malloc(world * sizeof *report);
  bytes = vram_step_bytes(&g, &o);
  scratch = test_scratch(bytes);
  for (rank = 0; rank < world; rank++) {
    p.rank = rank;
    if (!CHECK(!vram_step(&g, &o, scratch, bytes, report + rank, &e)))
      printf("%s\n", e.text);
  }
  for (i = 0; i < n; i++) {
    uint64_t alike = 0;
    sum += list[i].ranks;
    CHECK(list[i].rank <= list[i].last && (!i || list[i].rank > list[i - 1].rank));
    for (rank = 0; rank < world; rank++)
      alike += same_report(report + rank, report + list[i].rank) != 0 ? 1u : 0u;
    CHECK(alike >= list[i].ranks);
    CHECK(same_report(report + list[i].rank, report + list[i].last));
    for (m = 0; m < i; m++) /* as many classes as differ, but for what no figure shows */
      CHECK(!same_report(report + list[i].rank, report + list[m].rank) ||
            p.wrapper != VRAM_WRAPPER_ZERO1);
  }
  EQUAL(sum, world);
  *test_where = 0;
  free(list);
  free(report);
  free(scratch);
  free(mem);
  return n;
}

static void classes_of_worlds(void) {
  EQUAL(every_rank(odd, "fsdp2=1"), 1);
  EQUAL(every_rank(odd, "fsdp2=2"), 2);
  EQUAL(every_rank(odd, "fsdp2=5"), 3); /* 13: 3 3 3 3 1, 29: 6 6 6 6 5, 7: 2 2 2 1 0 */
  EQUAL(every_rank(odd, "fsdp2=7"), 3); /* 2 ... 2 1, 5 5 5 5 5 4 0 */
  EQUAL(every_rank(odd, "fsdp2=64"), 4);
  EQUAL(every_rank(odd, "hsdp=3x5"), 3);
  EQUAL(every_rank(odd, "ddp=6"), 1);
  EQUAL(every_rank(odd, "zero1=2"), 2);
  EQUAL(every_rank(odd, "zero1=4"), 4);
  EQUAL(every_rank(odd, "zero1=9"), 7); /* six parameters, and ranks without any */
  every_rank(odd, "ds1=3");
  every_rank(odd, "ds2=7");
  every_rank(odd, "ds1=5,round_robin_gradients=1");
  EQUAL(every_rank(odd, "ds3=5"), 1);
}

/* A step in scratch of its own; *node: where its peak is, which may be a node of that scratch. */
static void step_alone(const vram_graph *g, const vram_step_options *o, vram_report *r,
                       char *node) {
  const uint64_t bytes = vram_step_bytes(g, o);
  void *scratch = malloc((size_t)bytes);
  memset(r, 0, sizeof *r);
  *node = 0;
  CHECK(scratch && !vram_step(g, o, scratch, bytes, r, NULL));
  vram_node_name(r->peak_node, node, 64);
  r->peak_node = NULL;
  free(scratch);
}

/* With less scratch than that the step says so; in `parts` parts. */
static void too_little_scratch(const vram_graph *g, const vram_step_options *o, uint64_t needed,
                               uint64_t parts) {
  vram_report r;
  uint64_t i;
  for (i = 0; i < parts; i++) {
    const uint64_t bytes = needed / parts * i + i % 8;
    void *scratch = malloc((size_t)bytes + 1);
    CHECK(scratch && vram_step(g, o, scratch, bytes, &r, NULL) == VRAM_ERR_MEMORY);
    free(scratch);
  }
}

/* The same options with and without layers_once; 1: the same report, in less memory. */
static int once_is_the_same(const vram_graph *g, vram_step_options *o) {
  vram_report r[2];
  const void *const every = r, *const once = r + 1;
  uint64_t used[2];
  char node[2][64];
  int i;
  for (i = 0; i < 2; i++) {
    o->layers_once = i;
    step_alone(g, o, r + i, node[i]);
    used[i] = r[i].scratch_used;
    too_little_scratch(g, o, used[i], 7);
    r[i].scratch_used = 0;
  }
  CHECK(!strcmp(node[0], node[1]));
  return CHECK(!memcmp(every, once, sizeof *r)) && used[1] < used[0];
}

/* Layers that are alike are counted as they are when each is played. */
static void layers_once(void) {
  static const char *const spec[] = {"", "ddp=3", "zero1=4", "fsdp2=5,mp=bf16,reduce=f32",
                                     "hsdp=2x4,reshard=0"};
  const uint32_t room = 4u << 20;
  void *mem = malloc(room);
  vram_graph g;
  vram_parallel p;
  size_t i;
  int k;
  char *text = play_file("examples/models/bert_base.vram", NULL);
  if (CHECK(mem && text)) {
    vram_graph_init(&g, mem, room);
    CHECK(!vram_graph_parse(&g, text, strlen(text), NULL, 0, NULL));
  }
  for (i = 0; mem && text && i < sizeof spec / sizeof *spec; i++)
    for (k = 0; k < 4; k++) {
      vram_range range[16];
      vram_step_options o;
      memset(&o, 0, sizeof o);
      o.train = 1;
      o.optimizer = VRAM_OPTIM_adamw;
      o.amp = k & 1 ? VRAM_BF16 : VRAM_DTYPE_NONE;
      o.accumulate = k & 2 ? 5 : 1;
      snprintf(test_where, sizeof test_where, "layers_once %s %d", spec[i], k);
      if (*spec[i]) {
        CHECK(!vram_parallel_parse(spec[i], &p, NULL));
        o.parallel = &p;
      }
      CHECK(once_is_the_same(&g, &o));
      CHECK(!vram_graph_ranges(&g, "layers", range, 16, &o.ncheckpoint, NULL));
      o.checkpoint = range;
      CHECK(once_is_the_same(&g, &o));
    }
  *test_where = 0;
  free(text);
  free(mem);
}

/* So are microbatches of a pipeline. again: layers run again under autocast, of which that leaves
   out so many less one: behind a forward pass of those its copies of weights live on. */
static void microbatches_of(const char *file, const char *const *spec, uint32_t nspec,
                            uint32_t again) {
  const uint32_t room = 4u << 20;
  void *mem = malloc(room);
  vram_graph g;
  uint32_t i, k, folded = 0;
  char *text = play_file(file, NULL);
  if (CHECK(mem && text)) {
    vram_graph_init(&g, mem, room);
    CHECK(!vram_graph_parse(&g, text, strlen(text), NULL, 0, NULL));
  }
  for (i = 0; mem && text && i < nspec; i++) {
    vram_range range[16];
    vram_parallel p;
    vram_step_options o;
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.optimizer = VRAM_OPTIM_adamw;
    o.amp = again || i & 1 ? VRAM_BF16 : VRAM_DTYPE_NONE;
    CHECK(!vram_parallel_parse(spec[i], &p, NULL));
    o.parallel = &p;
    if (again) {
      CHECK(!vram_graph_ranges(&g, "layers", range, 16, &o.ncheckpoint, NULL));
      o.first_step = 1;
      o.checkpoint = range + (again - 1);
      o.ncheckpoint -= again - 1;
    }
    for (k = 0; k < p.pp; k += p.pp == 12 ? 5 : 1) {
      snprintf(test_where, sizeof test_where, "microbatches_once %s, stage %u", spec[i],
               (unsigned)k);
      p.rank = k * (uint32_t)(vram_parallel_world(&p) / p.pp);
      folded += (uint32_t)once_is_the_same(&g, &o);
    }
  }
  CHECK(folded > nspec);
  *test_where = 0;
  free(text);
  free(mem);
}

static void microbatches_once(void) {
  static const char *const bert[] = {"pp=2,microbatches=40",
                                     "pp=3,microbatches=17+ddp=2",
                                     "pp=12,microbatches=12+ddp=3",
                                     "pp=12,microbatches=50+zero1=2",
                                     "pp=4,microbatches=9+fsdp2=3,mp=bf16",
                                     "pp=2,microbatches=30+hsdp=2x2,reshard=0"};
  static const char *const llama[] = {"pp=2,microbatches=40", "pp=8,microbatches=20+ddp=2",
                                      "pp=4,microbatches=35+fsdp2=2"};
  uint32_t k;
  microbatches_of("examples/models/bert_base.vram", bert, 6, 0);
  for (k = 1; k < 3; k++)
    microbatches_of("tests/golden/parallel/llama8.vram", llama, 3, k);
}

/* A stage that was played is known to other wrappers of its kind, and to no other stage. */
static void stage_known(void) {
  static const char *const spec[][2] = {
      {"pp=4,microbatches=9+ddp=2", "pp=4,microbatches=9+zero1=2"},
      {"pp=4,microbatches=9+fsdp2=6", "pp=4,microbatches=9+hsdp=3x2"},
      {"pp=4,microbatches=9+hsdp=2x3,reshard=0", "pp=4,microbatches=9+fsdp2=6,reshard=0"}};
  const uint32_t room = 4u << 20;
  void *mem = malloc(room);
  vram_graph g;
  size_t i;
  char *text = play_file("examples/models/bert_base.vram", NULL);
  if (CHECK(mem && text)) {
    vram_graph_init(&g, mem, room);
    CHECK(!vram_graph_parse(&g, text, strlen(text), NULL, 0, NULL));
  }
  for (i = 0; mem && text && i < sizeof spec / sizeof *spec; i++) {
    const void *alone, *known;
    vram_parallel p[2];
    vram_report r[2];
    vram_step_options o;
    vram_error err;
    uint64_t bytes;
    char node[64];
    void *scratch;
    uint32_t k;
    memset(&o, 0, sizeof o);
    o.train = 1;
    o.amp = VRAM_BF16;
    for (k = 0; k < 2; k++) {
      CHECK(!vram_parallel_parse(spec[i][k], p + k, NULL));
      p[k].rank = (uint32_t)(vram_parallel_world(p + k) / 2);
    }
    o.parallel = p + 1;
    bytes = vram_step_bytes(&g, &o) + 65536;
    step_alone(&g, &o, r, node);
    o.parallel = p;
    scratch = malloc((size_t)bytes);
    CHECK(scratch && !vram_step(&g, &o, scratch, bytes, r + 1, NULL));
    o.stage_known = 1;
    o.parallel = p + 1;
    memset(r + 1, 0, sizeof *r);
    CHECK(scratch && !vram_step(&g, &o, scratch, bytes, r + 1, NULL));
    r[1].peak_node = NULL;
    r[0].scratch_used = r[1].scratch_used = 0;
    alone = r;
    known = r + 1;
    CHECK(!memcmp(alone, known, sizeof *r));
    EQUAL(vram_step(&g, &o, scratch, 16384, r + 1, &err), VRAM_ERR_MEMORY);
    p[1].schedule = VRAM_PIPELINE_GPIPE;
    EQUAL(vram_step(&g, &o, scratch, bytes, r + 1, &err), VRAM_ERR_VALUE);
    p[1].schedule = p->schedule;
    p[1].rank = 0;
    EQUAL(vram_step(&g, &o, scratch, bytes, r + 1, &err), VRAM_ERR_VALUE);
    o.stage_known = 0; /* none that has been played */
    EQUAL(vram_step(&g, &o, scratch, bytes / 512, r + 1, &err), VRAM_ERR_MEMORY);
    o.stage_known = 1;
    EQUAL(vram_step(&g, &o, scratch, bytes, r + 1, &err), VRAM_ERR_VALUE);
    free(scratch);
  }
  free(text);
  free(mem);
}

int main(void) {
  layers_once();
  stage_known();
  microbatches_once();
  nccl_published();
  nccl_of_meshes();
  classes_of_worlds();
  return test_done("test_ranks");
}
