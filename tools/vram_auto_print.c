/* vram fit --parallel auto: what is shown of the combinations. */
#include "vram_auto.h"

static void print_line(const auto_line *x, double least) {
  printf("%-38s %5" PRId64 " %5" PRIu32 " %-6s %10s %10s %6.1f%% %6.1f%% %6.2f%s\n", x->spec,
         x->batch, x->micro_batches, x->checkpoint ? "layers" : "-",
         cmd_human(x->report.device_bytes.expected), cmd_human(x->sent),
         x->flops > 0 ? 100 * x->again / x->flops : 0.0, 100 * x->bubble,
         least > 0 ? x->cost / least : 1.0, x->pareto ? " *" : "");
}

static void print_counts(const auto_search *a) {
  uint32_t i;
  printf("%" PRIu32 " combinations: %" PRIu32 " fit", a->decided, a->fits);
  if (a->open)
    printf(", %" PRIu32 " lie so near the budget that only a replay would tell", a->open);
  printf(", %" PRIu32 " do not\n", a->no);
  if (cmd_stopped())
    printf("stopped: others were not looked at, and some of these not replayed\n");
  if (a->unplayed)
    printf("%s%" PRIu32
           " of those were not played: with more ranks to share parameters with they do "
           "not fit%s\n",
           cmd_dim, a->unplayed, cmd_plain);
  for (i = 0; i < a->nreason; i++)
    printf("%s%" PRIu32 " not played: %s (%s)%s\n", cmd_dim, a->reason[i].count, a->reason[i].text,
           a->reason[i].spec, cmd_plain);
}

/* The smallest device of the list with so much memory; NULL: there is none. */
static const vram_gpu *gpu_with(uint64_t bytes) {
  const vram_gpu *g, *least = NULL;
  uint32_t i;
  for (i = 0; (g = vram_gpu_at(i)) != NULL; i++)
    if (g->bytes >= bytes && (!least || g->bytes < least->bytes))
      least = g;
  return least;
}

/* What the nearest takes, and how much of it there is not. */
static void print_missing(const auto_search *a) {
  const auto_line *x = a->line;
  const uint64_t *of = x->report.peak_category_bytes, need = x->report.device_bytes.expected;
  char said[VRAM_CATEGORY_COUNT] = "";
  const vram_gpu *gpu = gpu_with(need);
  int i, k, most;
  if (need == UINT64_MAX)
    return;
  printf("\nthe nearest needs %s more than there is", cmd_human(need - a->j->budget));
  if (gpu)
    printf(" (%s would do)", gpu->name);
  printf("; at its peak");
  for (k = 0; k < 4; k++) {
    for (most = -1, i = 0; i < VRAM_CATEGORY_COUNT; i++)
      if (!said[i] && of[i] && (most < 0 || of[i] > of[most]))
        most = i;
    if (most < 0)
      break;
    printf("%s %s %s", k ? "," : "", vram_category_name((vram_category)most), cmd_human(of[most]));
    said[most] = 1;
  }
  printf("\n");
}

void auto_print(const auto_search *a) {
  const job *j = a->j;
  const uint32_t n = auto_shown(a), fit = a->open + a->fits;
  char mode[256];
  uint32_t i;
  job_mode(j, mode, sizeof mode);
  printf("%s%s%s  %s  %" PRIu32 " device%s, global batch %" PRId64 ", budget %s%s%s\n\n", cmd_bold,
         j->model, cmd_plain, mode, a->devices, a->devices == 1 ? "" : "s", a->global_batch,
         cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  print_counts(a);
  if (!a->decided)
    return;
  printf("\n%s%s%-38s %5s %5s %-6s %10s %10s %7s %7s %6s%s\n", cmd_bold,
         fit ? "" : "nothing fits; the nearest\n", "--parallel", "batch", "times", "again",
         "device", "sent", "again", "bubble", "cost", cmd_plain);
  for (i = 0; i < n; i++)
    print_line(a->line + i, a->line->cost);
  if (n < fit)
    printf("and %" PRIu32 " more (--top)\n", fit - n);
  if (!fit)
    print_missing(a);
  printf("\ncost: operations of a rank with those that run again, over the time that the pipeline "
         "is not idle,\nand %" PRId64 " for each byte sent; the least is 1\n",
         j->flop_per_byte);
  if (fit)
    printf("*: nothing else that fits takes as little memory, sends as little and runs as little "
           "again\n");
}

static const char *verdict_text(const auto_line *x) {
  return x->verdict == AUTO_FITS ? "true" : x->verdict == AUTO_NO ? "false" : "null";
}

static void json_line(const auto_line *x) {
  const vram_report *r = &x->report;
  printf("{\"parallel\":");
  cmd_json_text(stdout, x->spec);
  printf(",\"rank\":%" PRIu32 ",\"batch\":%" PRId64 ",\"micro_batches\":%" PRIu32
         ",\"checkpoint_layers\":%s,\"pp\":%" PRIu32 ",\"tp\":%" PRIu32 ",\"cp\":%" PRIu32
         ",\"ep\":%" PRIu32 ",\"fits\":%s,\"replayed\":%s,\"pareto\":%s",
         x->rank, x->batch, x->micro_batches, x->checkpoint ? "true" : "false", x->pp, x->tp, x->cp,
         x->ep, verdict_text(x), r->replayed ? "true" : "false", x->pareto ? "true" : "false");
  printf(",\"device_bytes\":%" PRIu64 ",\"peak_requested_bytes\":%" PRIu64
         ",\"peak_allocated_bytes\":%" PRIu64 ",\"peak_reserved_bytes\":%" PRIu64
         ",\"local_params_bytes\":%" PRIu64 ",\"gradients_bytes\":%" PRIu64
         ",\"optimizer_state_bytes\":%" PRIu64 ",\"nccl_bytes\":%" PRIu64,
         r->device_bytes.expected, r->peak_requested_bytes, r->peak_allocated_bytes.expected,
         r->peak_reserved_bytes, r->params_bytes, r->gradients_bytes, r->optimizer_bytes,
         r->nccl_bytes.expected);
  printf(",\"communication_bytes\":%" PRIu64 ",\"flops\":%.0f,\"recomputed_flops\":%.0f"
         ",\"bubble\":%.6f,\"cost\":%.0f}",
         x->sent, x->flops, x->again, x->bubble, x->cost);
}

void auto_json(const auto_search *a) {
  const uint32_t n = auto_shown(a);
  const job *j = a->j;
  uint32_t i;
  printf("{\"model\":");
  cmd_json_text(stdout, j->model);
  printf(",\"gpu\":");
  if (j->gpu)
    cmd_json_text(stdout, j->gpu);
  else
    printf("null");
  printf(",\"devices\":%" PRIu32 ",\"global_batch\":%" PRId64 ",\"budget_bytes\":%" PRIu64
         ",\"flop_per_byte\":%" PRId64 ",\"played\":%" PRIu32 ",\"not_played\":%" PRIu32
         ",\"fit\":%" PRIu32 ",\"undecided\":%" PRIu32 ",\"refused\":%" PRIu32 ",\"reasons\":[",
         a->devices, a->global_batch, j->budget, j->flop_per_byte, a->decided - a->unplayed,
         a->unplayed, a->fits, a->open, a->refused);
  for (i = 0; i < a->nreason; i++) {
    printf("%s{\"combinations\":%" PRIu32 ",\"reason\":", i ? "," : "", a->reason[i].count);
    cmd_json_text(stdout, a->reason[i].text);
    printf(",\"parallel\":");
    cmd_json_text(stdout, a->reason[i].spec);
    printf("}");
  }
  printf("],\"lines\":[");
  for (i = 0; i < n; i++) {
    printf("%s\n", i ? "," : "");
    json_line(a->line + i);
  }
  printf("],\"stopped\":%s}", cmd_stopped() ? "true" : "false");
}

void auto_csv(const auto_search *a, int head) {
  const uint32_t n = auto_shown(a);
  uint32_t i;
  if (head)
    printf("%sparallel,rank,batch,micro_batches,checkpoint_layers,fits,device_bytes,"
           "peak_requested_bytes,communication_bytes,flops,recomputed_flops,bubble,cost,pareto\n",
           a->j->gpus ? "gpu," : "");
  for (i = 0; i < n; i++) {
    const auto_line *x = a->line + i;
    if (a->j->gpus)
      printf("%s,", a->j->gpu);
    printf("\"%s\",%" PRIu32 ",%" PRId64 ",%" PRIu32 ",%d,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64
           ",%.0f,%.0f,%.6f,%.0f,%d\n",
           x->spec, x->rank, x->batch, x->micro_batches, x->checkpoint, verdict_text(x),
           x->report.device_bytes.expected, x->report.peak_requested_bytes, x->sent, x->flops,
           x->again, x->bubble, x->cost, x->pareto);
  }
}
