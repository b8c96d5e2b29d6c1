/* vram fit --parallel auto: every way to cut and wrap a model for so many devices, a step of its
   fullest rank played for each. */
#include "vram_ranks.h"

enum {
  AUTO_WRAPPERS = 64, /* ways to wrap the ranks that are left beside tp and pp */
  AUTO_SPEC = 160,
  AUTO_SHOWN = 20, /* lines for people */
  AUTO_TP = 8      /* ranks of tensor parallelism at most: those of a node */
};

typedef struct auto_line { /* a combination */
  char spec[AUTO_SPEC];
  int64_t batch; /* of a micro-batch */
  uint32_t micro_batches, pp, tp, rank, classes;
  int checkpoint; /* 1: of layers */
  vram_report report;
  int played, fits;
  uint64_t sent;
  double flops, again, bubble, cost; /* flops: of a rank and step, forward and backward */
} auto_line;

typedef struct auto_search {
  job *j;
  const char *text;
  size_t len;
  uint32_t devices;
  int64_t global_batch;
  auto_line *line;
  uint32_t count, room;
  int has_dims;            /* the batch is one */
  char tp_spec[AUTO_SPEC]; /* tp=1 with the options that it has */
  char why[200];           /* why some were not played: the first reason, */
  uint32_t refused;
  void *scratch; /* of steps */
  uint64_t scratch_bytes;
} auto_search;

/* ---- one graph, many wrappers ---- */

static auto_line *line_new(auto_search *a) {
  if (a->count == a->room) {
    const uint32_t room = a->room ? a->room * 2 : 256;
    auto_line *line = (auto_line *)realloc(a->line, room * sizeof *line);
    if (!line)
      return NULL;
    a->line = line;
    a->room = room;
  }
  memset(a->line + a->count, 0, sizeof *a->line);
  return a->line + a->count++;
}

/* "fsdp2=8" and the options behind auto that it has: each is tried alone. 0: it is too long. */
static int spec_add(const auto_search *a, char *spec, const char *part) {
  const char *option = a->j->spec + 4; /* behind "auto" */
  size_t n = strlen(spec);
  if (n + strlen(part) + 2 >= AUTO_SPEC)
    return 0;
  n += (size_t)sprintf(spec + n, "%s%s", n ? "+" : "", part);
  while (*option == ',') {
    const size_t len = strcspn(option + 1, ",") + 1;
    char alone[AUTO_SPEC];
    vram_parallel p;
    if (strlen(part) + len + 1 >= sizeof alone || n + len + 1 >= AUTO_SPEC)
      return 0;
    sprintf(alone, "%s%.*s", part, (int)len, option);
    if (!vram_parallel_parse(alone, &p, NULL))
      n += (size_t)sprintf(spec + n, "%.*s", (int)len, option);
    option += len;
  }
  return 1;
}

/* Ways to wrap so many ranks, as words of --parallel; how many. */
static uint32_t wrappers_of(uint32_t ranks, uint32_t tp, char (*to)[40]) {
  static const char *const plain[] = {"ddp", "zero1", "fsdp2"};
  uint32_t n = 0, i;
  if (ranks == 1) {
    **to = 0;
    return 1;
  }
  for (i = tp > 1 ? 2 : 0; i < 3; i++) /* DistributedDataParallel refuses DTensors */
    snprintf(to[n++], sizeof *to, "%s=%" PRIu32, plain[i], ranks);
  for (i = 2; i < ranks && n < AUTO_WRAPPERS; i++)
    if (ranks % i == 0)
      snprintf(to[n++], sizeof *to, "hsdp=%" PRIu32 "x%" PRIu32, ranks / i, i);
  return n;
}

/* ---- what a combination costs ---- */

/* Operations of the whole model's forward pass on a micro-batch, and of those that run again. */
static void count_flops(const vram_graph *g, const vram_range *range, uint32_t nrange,
                        double *forward, double *again) {
  const vram_node *n;
  uint32_t k = 0;
  *forward = *again = 0;
  for (n = g->first; n; n = n->next) {
    const double flops = (double)vram_node_flops(n);
    uint32_t times = vram_node_recomputed(n);
    if (n->op >= VRAM_OP_COUNT)
      continue;
    while (k < nrange && range[k].last->index < n->index)
      k++;
    times += k < nrange && n->index >= range[k].first->index;
    *forward += flops;
    *again += flops * times;
  }
}

/* The part of a pipeline's time in which a rank waits: of M microbatches and P ranks (P - 1) / (M +
   P - 1) (Narayanan et al. 2021, section 2.2: (P - 1) / M of the others' time). */
static double bubble_of(uint32_t ranks, uint32_t microbatches) {
  return (double)(ranks - 1) / (double)(microbatches + ranks - 1);
}

static void line_cost(const auto_search *a, auto_line *x, double forward, double again) {
  const double share = (double)x->micro_batches / ((double)x->tp * x->pp);
  int i;
  x->sent = 0;
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    x->sent += x->report.communication[i].sent;
  x->flops = 3 * forward * share;
  x->again = again * share;
  x->bubble = bubble_of(x->pp, x->micro_batches);
  x->cost = (x->flops + x->again) / (1 - x->bubble) + (double)x->sent * (double)a->j->flop_per_byte;
}

/* ---- playing ---- */

static int step_on(auto_search *a, const vram_graph *g, const vram_step_options *o, vram_report *r,
                   vram_error *err) {
  const uint64_t need = vram_step_bytes(g, o);
  if (need > a->scratch_bytes) {
    free(a->scratch);
    a->scratch = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
    a->scratch_bytes = a->scratch ? need : 0;
    if (!a->scratch)
      return cmd_no_memory();
  }
  vram_step(g, o, a->scratch, a->scratch_bytes, r, err);
  return err->code == VRAM_ERR_MEMORY ? cmd_no_memory() : FITS;
}

/* Neither is what is allocated more than the budget has room for, nor twice that and 64 MiB less: a
   replay may say something else (as vram_solve decides). */
static int is_doubtful(const vram_report *r, uint64_t budget) {
  const uint64_t beside = r->context_bytes.expected + r->nccl_bytes.expected;
  const uint64_t room = budget > beside ? budget - beside : 0;
  return r->peak_allocated_bytes.lower <= room &&
         r->peak_allocated_bytes.upper >= room / 2 - (room < 67108864 ? room / 2 : 33554432);
}

static void refuse(auto_search *a, auto_line *x, const char *why) {
  if (!a->refused++)
    snprintf(a->why, sizeof a->why, "%s: %s", x->spec, why);
  x->played = -1;
}

/* The rank of the wrapper that has the most elements, of the place of p->rank. */
static int fullest_shard(const vram_graph *g, vram_parallel *p, uint32_t *classes) {
  vram_rank_class *list;
  uint32_t n, i, k = 0;
  const int status = ranks_classes(g, p, 0, &list, &n);
  if (!status) {
    for (i = 1; i < n; i++)
      if (list[i].elements > list[k].elements)
        k = i;
    p->rank = list[k].rank;
    *classes += n;
  }
  free(list);
  return status;
}

/* A line on a graph of one place of pp and tp: it is what the fullest place takes. */
static int line_play(auto_search *a, auto_line *x, const vram_graph *g, uint32_t rank,
                     const vram_step_options *step) {
  vram_step_options o = *step;
  vram_parallel p;
  vram_report r;
  vram_error err;
  int status;
  if (x->played < 0)
    return FITS;
  if (vram_parallel_parse(x->spec, &p, &err)) {
    refuse(a, x, err.text);
    return FITS;
  }
  p.rank = rank;
  p.step = a->j->nth_step;
  o.parallel = &p;
  o.replay = NULL;
  status = fullest_shard(g, &p, &x->classes);
  if (!status)
    status = step_on(a, g, &o, &r, &err);
  if (!status && !err.code && is_doubtful(&r, a->j->budget)) {
    o.replay = &a->j->pool;
    status = step_on(a, g, &o, &r, &err);
  }
  if (status)
    return status;
  if (err.code && err.code != VRAM_ERR_OVERFLOW) {
    refuse(a, x, err.text);
    return FITS;
  }
  if (err.code) { /* beyond all devices */
    memset(&r, 0, sizeof r);
    r.device_bytes.lower = r.device_bytes.expected = r.device_bytes.upper = UINT64_MAX;
  }
  r.peak_node = NULL;
  x->fits = (!x->played || x->fits) && r.fits;
  if (!x->played || r.device_bytes.expected > x->report.device_bytes.expected) {
    x->report = r;
    x->rank = p.rank;
  }
  x->played = 1;
  return FITS;
}

/* The text with so many samples in a micro-batch. *l is to be unloaded in any case. */
static int whole_load(auto_search *a, int64_t batch, loaded *l) {
  job at = *a->j;
  char *copy = (char *)malloc(a->len + 1);
  memset(l, 0, sizeof *l);
  if (!copy)
    return cmd_no_memory();
  memcpy(copy, a->text, a->len);
  copy[a->len] = 0;
  if (a->has_dims && at.ndims < VRAM_MAX_DIMS) {
    at.dims[at.ndims].name = NULL;
    at.dims[at.ndims++].value = batch;
  }
  at.spec = NULL;
  at.o.parallel = NULL;
  at.checkpoint = NULL;
  return model_load(l, &at, copy, a->len);
}

/* Layers to be checkpointed; how many. *range is to be freed. */
static uint32_t layers_of(const vram_graph *g, vram_range **range) {
  uint32_t n = 0;
  *range = NULL;
  if (vram_graph_ranges(g, "layers", NULL, 0, &n, NULL))
    return 0;
  *range = (vram_range *)malloc((n + (size_t)1) * sizeof **range);
  if (!*range)
    return 0;
  vram_graph_ranges(g, "layers", *range, n, &n, NULL);
  return n;
}

/* The lines from `from` on, on the graph of one place along tp: the stages that may be the fullest
   (the first have most micro-batches in flight, the last has the loss). */
static int lines_play(auto_search *a, uint32_t from, const vram_graph *g, uint32_t place) {
  vram_range *range;
  const uint32_t n = layers_of(g, &range);
  vram_step_options o = a->j->o;
  uint32_t i, k;
  int status = FITS;
  o.budget_bytes = a->j->budget;
  for (i = from; i < a->count && !status; i++) {
    auto_line *x = a->line + i;
    const uint32_t inner = a->devices / x->pp;
    const uint32_t stage[3] = {0, 1, x->pp - 1};
    o.checkpoint = x->checkpoint ? range : NULL;
    o.ncheckpoint = x->checkpoint ? n : 0;
    o.by_keyword = x->checkpoint;
    o.accumulate = x->pp > 1 ? 1 : x->micro_batches;
    if (x->checkpoint && !n)
      x->played = -1;
    for (k = 0; k < 3 && stage[k] < x->pp && !status; k++)
      if (!k || stage[k] > stage[k - 1])
        status = line_play(a, x, g, stage[k] * inner + place, &o);
  }
  free(range);
  return status;
}

static int line_add(auto_search *a, const auto_line *like, const char *wrapper) {
  auto_line *x = line_new(a);
  char part[64];
  int good = 1;
  if (!x)
    return cmd_no_memory();
  *x = *like;
  if (x->pp > 1) {
    snprintf(part, sizeof part, "pp=%" PRIu32 ",microbatches=%" PRIu32, x->pp, x->micro_batches);
    good = spec_add(a, x->spec, part);
  }
  if (*wrapper)
    good &= spec_add(a, x->spec, wrapper);
  if (x->tp > 1 || !*x->spec) {
    snprintf(part, sizeof part, "tp=%" PRIu32, x->tp);
    good &= spec_add(a, x->spec, part);
  }
  return good ? FITS : cmd_bad("options of --parallel auto are too long:", a->j->spec, NULL);
}

/* What tp and a micro-batch leave: pipelines, wrappers, with layers checkpointed and without. */
static int lines_add(auto_search *a, uint32_t tp, int64_t batch) {
  char way[AUTO_WRAPPERS][40];
  auto_line like;
  uint32_t pp, i, n;
  int status = FITS;
  memset(&like, 0, sizeof like);
  like.batch = batch;
  like.tp = tp;
  for (pp = 1; pp <= a->devices / tp && !status; pp++) {
    const uint32_t dp = a->devices / tp / pp;
    if (a->devices % (pp * tp) || a->global_batch % dp || a->global_batch / dp % batch)
      continue;
    like.pp = pp;
    like.micro_batches = (uint32_t)(a->global_batch / dp / batch);
    if (pp > 1 && like.micro_batches < pp) /* as Schedule1F1B wants it */
      continue;
    n = wrappers_of(dp, tp, way);
    for (i = 0; i < n && !status; i++)
      for (like.checkpoint = 0; like.checkpoint < 2 && !status; like.checkpoint++)
        status = line_add(a, &like, way[i]);
  }
  return status;
}

/* The places along tp, each with the graph cut for it. */
static int places_play(auto_search *a, uint32_t from, uint32_t tp, const vram_graph *whole) {
  vram_rank_class *place = NULL;
  vram_parallel p;
  uint32_t n = 0, i;
  int status;
  if (tp == 1)
    return lines_play(a, from, whole, 0);
  vram_parallel_parse("tp=1", &p, NULL);
  p.tp = tp;
  status = ranks_classes(whole, &p, 1, &place, &n);
  for (i = 0; i < n && !status; i++) {
    vram_graph g;
    vram_error err;
    const uint64_t bytes = vram_parallel_cut_bytes(whole);
    void *mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
    uint32_t k;
    vram_parallel_parse(a->tp_spec, &p, NULL);
    p.tp = tp;
    p.rank = place[i].rank;
    if (!mem)
      status = cmd_no_memory();
    else if (!vram_parallel_cut(whole, &p, &g, mem, bytes, &err))
      status = lines_play(a, from, &g, place[i].rank);
    else
      for (k = from; k < a->count; k++)
        refuse(a, a->line + k, err.text);
    free(mem);
  }
  free(place);
  return status;
}

/* All combinations with so many samples in a micro-batch; *fit becomes how many fit. */
static int search_batch(auto_search *a, int64_t batch, uint32_t *fit) {
  double forward[2], again[2];
  vram_range *range;
  loaded l;
  uint32_t tp, i, n;
  int status = whole_load(a, batch, &l);
  *fit = 0;
  if (status) {
    model_unload(&l);
    return status;
  }
  n = layers_of(&l.g, &range);
  count_flops(&l.g, NULL, 0, forward, again);
  count_flops(&l.g, range, n, forward + 1, again + 1);
  for (tp = 1; tp <= AUTO_TP && tp <= a->devices && !status; tp *= 2) {
    const uint32_t from = a->count;
    if (a->devices % tp)
      continue;
    status = lines_add(a, tp, batch);
    if (!status && from < a->count)
      status = places_play(a, from, tp, &l.g);
    for (i = from; i < a->count; i++)
      if (a->line[i].played > 0) {
        line_cost(a, a->line + i, forward[a->line[i].checkpoint], again[a->line[i].checkpoint]);
        *fit += a->line[i].fits != 0;
      }
  }
  free(range);
  model_unload(&l);
  return status;
}

/* The model's own batch, or --batch: the samples of each device, where no global batch is given. */
static int begin(auto_search *a) {
  job *j = a->j;
  loaded l;
  int status = whole_load(a, 0, &l);
  uint32_t i, n = 0;
  a->devices = j->devices;
  if (!status && l.g.ndim) {
    a->has_dims = 1;
    a->global_batch = l.g.dim[0].value * j->devices;
  } else
    a->global_batch = j->devices;
  if (j->global_batch)
    a->global_batch = j->global_batch;
  model_unload(&l);
  for (i = 0; i < j->ndims; i++) /* it is what changes */
    if (j->dims[i].name)
      j->dims[n++] = j->dims[i];
  j->ndims = n;
  return status;
}

static int by_cost(const void *a, const void *b) {
  const auto_line *x = (const auto_line *)a, *y = (const auto_line *)b;
  const int p = x->played > 0 ? x->fits ? 2 : 1 : 0, q = y->played > 0 ? y->fits ? 2 : 1 : 0;
  if (p != q)
    return q - p;
  if (p == 1 && x->report.device_bytes.expected != y->report.device_bytes.expected)
    return x->report.device_bytes.expected < y->report.device_bytes.expected ? -1 : 1;
  if (x->cost < y->cost || x->cost > y->cost)
    return x->cost < y->cost ? -1 : 1;
  return x->report.device_bytes.expected < y->report.device_bytes.expected ? -1
         : x->report.device_bytes.expected > y->report.device_bytes.expected
             ? 1
             : strcmp(x->spec, y->spec);
}

/* ---- what is shown ---- */

static void print_line(const auto_line *x, double least) {
  printf("%-38s %5" PRId64 " %5" PRIu32 " %-6s %10s %10s %6.1f%% %6.1f%% %6.2f\n", x->spec,
         x->batch, x->micro_batches, x->checkpoint ? "layers" : "-",
         cmd_human(x->report.device_bytes.expected), cmd_human(x->sent),
         x->flops > 0 ? 100 * x->again / x->flops : 0.0, 100 * x->bubble,
         least > 0 ? x->cost / least : 1.0);
}

static void print_lines(const auto_search *a, uint32_t played, uint32_t fit) {
  const job *j = a->j;
  char mode[256];
  uint32_t i, n = fit ? fit < AUTO_SHOWN ? fit : AUTO_SHOWN : played < 3 ? played : 3;
  job_mode(j, mode, sizeof mode);
  printf("%s%s%s  %s  %" PRIu32 " devices, global batch %" PRId64 ", budget %s%s%s\n\n", cmd_bold,
         j->model, cmd_plain, mode, a->devices, a->global_batch, cmd_human(j->budget),
         j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  printf("%" PRIu32 " combinations played, %" PRIu32 " fit", played, fit);
  if (a->refused)
    printf("; %" PRIu32 " are not played (%s)", a->refused, a->why);
  printf("\n\n%s%s%-38s %5s %5s %-6s %10s %10s %7s %7s %6s%s\n", cmd_bold,
         fit ? "" : "nothing fits; the nearest\n", "--parallel", "batch", "times", "again",
         "device", "sent", "again", "bubble", "cost", cmd_plain);
  for (i = 0; i < n; i++)
    print_line(a->line + i, a->line->cost);
  if (n < fit)
    printf("and %" PRIu32 " more that fit (--csv, --json)\n", fit - n);
  printf(
      "\ncost: operations of a rank with those that run again, over the time that the pipeline is "
      "not idle,\nand %" PRId64 " for each byte sent; the least is 1\n",
      j->flop_per_byte);
}

static void json_line(const auto_line *x) {
  printf("{\"parallel\":");
  cmd_json_text(stdout, x->spec);
  printf(",\"rank\":%" PRIu32 ",\"batch\":%" PRId64 ",\"micro_batches\":%" PRIu32
         ",\"checkpoint_layers\":%s,\"fits\":%s,\"device_bytes\":%" PRIu64
         ",\"peak_requested_bytes\":%" PRIu64 ",\"peak_allocated_bytes\":%" PRIu64
         ",\"nccl_bytes\":%" PRIu64 ",\"replayed\":%s",
         x->rank, x->batch, x->micro_batches, x->checkpoint ? "true" : "false",
         x->fits ? "true" : "false", x->report.device_bytes.expected,
         x->report.peak_requested_bytes, x->report.peak_allocated_bytes.expected,
         x->report.nccl_bytes.expected, x->report.replayed ? "true" : "false");
  printf(",\"communication_bytes\":%" PRIu64 ",\"flops\":%.0f,\"recomputed_flops\":%.0f"
         ",\"bubble\":%.6f,\"cost\":%.0f}",
         x->sent, x->flops, x->again, x->bubble, x->cost);
}

static void json_lines(const auto_search *a, uint32_t played, uint32_t fit) {
  uint32_t i;
  printf("{\"model\":");
  cmd_json_text(stdout, a->j->model);
  printf(",\"devices\":%" PRIu32 ",\"global_batch\":%" PRId64 ",\"budget_bytes\":%" PRIu64
         ",\"flop_per_byte\":%" PRId64 ",\"played\":%" PRIu32 ",\"fit\":%" PRIu32
         ",\"refused\":%" PRIu32 ",\"lines\":[",
         a->devices, a->global_batch, a->j->budget, a->j->flop_per_byte, played, fit, a->refused);
  for (i = 0; i < played; i++) {
    printf("%s\n", i ? "," : "");
    json_line(a->line + i);
  }
  printf("]}\n");
}

static void csv_lines(const auto_search *a, uint32_t played) {
  uint32_t i;
  printf("parallel,rank,batch,micro_batches,checkpoint_layers,fits,device_bytes,"
         "peak_requested_bytes,communication_bytes,flops,recomputed_flops,bubble,cost\n");
  for (i = 0; i < played; i++) {
    const auto_line *x = a->line + i;
    printf("\"%s\",%" PRIu32 ",%" PRId64 ",%" PRIu32 ",%d,%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64
           ",%.0f,%.0f,%.6f,%.0f\n",
           x->spec, x->rank, x->batch, x->micro_batches, x->checkpoint, x->fits,
           x->report.device_bytes.expected, x->report.peak_requested_bytes, x->sent, x->flops,
           x->again, x->bubble, x->cost);
  }
}

int auto_command(job *j, const char *text, size_t len) {
  auto_search a;
  int64_t batch;
  uint32_t i, fit = 0, played = 0, found;
  int status;
  memset(&a, 0, sizeof a);
  a.j = j;
  a.text = text;
  a.len = len;
  j->flop_per_byte = j->flop_per_byte ? j->flop_per_byte : 2000;
  cmd_progress("vram fit: playing combinations", 0);
  status = spec_add(&a, a.tp_spec, "tp=1") ? begin(&a) : USAGE;
  for (batch = 1; batch <= a.global_batch && !status; batch++) {
    if (a.global_batch % batch || (!a.has_dims && batch > 1))
      continue;
    status = search_batch(&a, batch, &found);
    if (!found && batch > 1) /* larger ones take more */
      break;
  }
  cmd_progress_end();
  free(a.scratch);
  if (!status) {
    qsort(a.line, a.count, sizeof *a.line, by_cost);
    for (i = 0; i < a.count; i++) {
      played += a.line[i].played > 0;
      fit += a.line[i].played > 0 && a.line[i].fits;
    }
    if (j->json)
      json_lines(&a, played, fit);
    else if (j->csv)
      csv_lines(&a, played);
    else
      print_lines(&a, played, fit);
    status = fit ? FITS : TOO_LARGE;
  }
  free(a.line);
  return status;
}
