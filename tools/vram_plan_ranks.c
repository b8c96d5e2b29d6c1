/* vram plan --parallel: which calls of checkpoint() a rank needs to train within a budget. */
#include "vram_estimate.h"
#include "vram_ranks.h"

enum { RANKS = 8 }; /* classes of equal ones that are planned for, at most */

typedef struct rank_plan {
  job *j;
  loaded l;                     /* of the rank that is planned for, with its plan */
  loaded shown_l;               /* of a pipeline: of the rank whose figures are printed, */
  vram_planned_step shown_plan; /* and its plan */
  vram_report every;            /* with every layer checkpointed */
  int has_every;
  uint64_t every_cost;
  char *nodes;             /* as --checkpoint-nodes takes them */
  int one;                 /* --rank R: for this one alone */
  int fits;                /* what is planned for, with these calls: this one or every rank */
  uint32_t fuller;         /* the fullest rank that does not fit */
  uint64_t fuller_bytes;   /* what it takes */
  uint32_t of[RANKS], nof; /* the first rank of the fullest classes */
  uint32_t tried[RANKS + 1], ntried;
  uint32_t shown;           /* whose figures are printed, of a pipeline */
  vram_report shown_report; /* with what is planned for all stages */
  uint64_t smallest;        /* budget that has a plan for each of them; stopped: not known */
  uint32_t calls, units;    /* of checkpoint(), and what there is to choose from */
} rank_plan;

typedef struct stage_plan { /* of a pipeline: for one rank of a stage, or of several of one rank */
  uint32_t rank, calls, units, tries;
  uint64_t cost; /* of what runs again */
  char *nodes;
  int feasible;
} stage_plan;

static void loaded_end(loaded *l, vram_planned_step *plan) {
  if (plan->memory)
    vram_step_plan_free(plan, &model_allocator);
  memset(plan, 0, sizeof *plan);
  model_unload(l);
  memset(l, 0, sizeof *l);
}

static void rank_plan_end(rank_plan *p) {
  loaded_end(&p->l, &p->j->planned);
  free(p->nodes);
  p->nodes = NULL;
}

/* "A..B,C..D" of all ranges. */
static int nodes_list(rank_plan *p) {
  const vram_planned_step *q = &p->j->planned;
  const size_t each = 2 * (size_t)MAX_NODE_NAME + 4;
  size_t n = 0;
  uint32_t i;
  p->nodes = (char *)malloc(q->nrange * each + 1);
  if (!p->nodes)
    return cmd_no_memory();
  *p->nodes = 0;
  for (i = 0; i < q->nrange; i++) {
    if (i)
      p->nodes[n++] = ',';
    estimate_nodes(q->range + i, p->nodes + n, each);
    n += strlen(p->nodes + n);
  }
  return FITS;
}

/* The step with every layer checkpointed, if the model has any. */
static int every_layer(rank_plan *p) {
  const vram_graph *g = &p->l.g;
  vram_step_options o = p->j->o;
  const vram_words units = o.parallel->units;
  const int by_unit = p->units != 0;
  vram_range *list;
  vram_error err;
  void *scratch;
  uint64_t bytes;
  uint32_t n = 0, i;
  const vram_node *m;
  if (by_unit)
    n = vram_graph_unit_ranges(g, units, NULL, 0);
  else if (vram_graph_ranges(g, "layers", NULL, 0, &n, &err))
    return FITS;
  list = (vram_range *)malloc(((size_t)n + 1) * sizeof *list);
  if (!list)
    return cmd_no_memory();
  if (by_unit)
    vram_graph_unit_ranges(g, units, list, n);
  else
    vram_graph_ranges(g, "layers", list, n, &n, &err);
  o.checkpoint = list;
  o.ncheckpoint = n;
  bytes = vram_step_bytes(g, &o);
  scratch = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
  p->has_every = scratch && !vram_step(g, &o, scratch, bytes, &p->every, &err);
  p->every_cost = p->j->planned.cost_plain;
  for (i = 0; i < n; i++)
    for (m = list[i].first; m != list[i].last->next; m = m->next)
      p->every_cost += vram_node_flops(m);
  free(list);
  if (!scratch)
    return cmd_no_memory();
  free(scratch);
  return FITS;
}

/* A class among the fullest ones of t, the fullest first. */
static void class_insert(rank_plan *p, const rank_table *t, uint32_t row, uint32_t *order) {
  uint32_t k = p->nof < RANKS ? p->nof++ : RANKS - 1;
  if (k + 1 == RANKS && row >= RANKS &&
      t->row[order[k]].report.device_bytes.expected >= t->row[row].report.device_bytes.expected)
    return;
  for (; k > 0 && t->row[order[k - 1]].report.device_bytes.expected <
                      t->row[row].report.device_bytes.expected;
       k--)
    order[k] = order[k - 1];
  order[k] = row;
}

/* Do all ranks fit with these calls? */
static int other_ranks(rank_plan *p, const char *text, size_t len) {
  job at = *p->j;
  rank_table t;
  uint32_t order[RANKS], i;
  int status;
  at.automatic = 0;
  at.o.parallel = &at.parallel;
  at.checkpoint = *p->nodes ? p->nodes : NULL;
  at.o.checkpoint = NULL;
  at.o.ncheckpoint = 0;
  status = ranks_play(&at, text, len, &t);
  p->nof = 0;
  p->fits = p->j->planned.feasible;
  p->fuller_bytes = 0;
  for (i = 0; i < t.count && !status; i++) {
    const rank_row *row = t.row + i;
    class_insert(p, &t, i, order);
    p->fits &= row->report.fits;
    if (row->of.rank == p->shown)
      p->shown_report = row->report;
    if (!row->report.fits && row->report.device_bytes.expected > p->fuller_bytes) {
      p->fuller = row->of.rank;
      p->fuller_bytes = row->report.device_bytes.expected;
    }
  }
  for (i = 0; i < p->nof && !status; i++)
    p->of[i] = t.row[order[i]].of.rank;
  ranks_end(&t);
  return status;
}

/* A plan for this rank. */
static int plan_rank(rank_plan *p, const char *text, size_t len, uint32_t rank) {
  job *j = p->j;
  char *copy = (char *)malloc(len + 1);
  int status;
  if (!copy)
    return cmd_no_memory();
  memcpy(copy, text, len);
  copy[len] = 0;
  rank_plan_end(p);
  j->at_rank = j->parallel.rank = rank;
  j->o.checkpoint = NULL;
  j->o.ncheckpoint = 0;
  j->automatic = 1;
  status = model_load(&p->l, j, copy, len);
  if (!status && j->planned.smallest_budget_bytes > p->smallest)
    p->smallest = j->planned.smallest_budget_bytes;
  return status ? status : nodes_list(p);
}

static int was_tried(const rank_plan *p, uint32_t rank) {
  uint32_t i;
  for (i = 0; i < p->ntried && p->tried[i] != rank; i++)
    ;
  return i < p->ntried;
}

/* That of a rank whose plan is not needed: the smallest budget may be left open. */
static int plan_other(rank_plan *p, const char *text, size_t len, uint32_t rank) {
  const int before = cmd_hush(1), status = plan_rank(p, text, len, rank);
  cmd_hush(before);
  return cmd_stopped() ? FITS : status;
}

/* The smallest budget of those that were not planned for. */
static int smallest_of_others(rank_plan *p, const char *text, size_t len) {
  job at = *p->j;
  rank_plan other;
  uint32_t i;
  int status = FITS;
  memset(&other, 0, sizeof other);
  memset(&at.planned, 0, sizeof at.planned);
  at.o.parallel = &at.parallel;
  other.j = &at;
  other.smallest = p->smallest;
  for (i = 0; i < p->nof && !status && !cmd_stopped(); i++)
    if (!was_tried(p, p->of[i]))
      status = plan_other(&other, text, len, p->of[i]);
  p->smallest = other.smallest;
  rank_plan_end(&other);
  return status;
}

/* ---- pipelines: what a rank runs again lies in its own stages ---- */

static int plan_stage(rank_plan *p, const char *text, size_t len, uint32_t rank, stage_plan *to) {
  const vram_planned_step *q = &p->j->planned;
  const int status = plan_rank(p, text, len, rank);
  if (status)
    return status;
  free(to->nodes);
  to->nodes = p->nodes;
  p->nodes = NULL;
  to->rank = rank;
  to->calls = q->nrange;
  to->units = q->nunit;
  to->cost = q->cost - q->cost_plain;
  to->feasible = q->feasible;
  if (rank == p->shown) {
    loaded_end(&p->shown_l, &p->shown_plan);
    p->shown_l = p->l;
    p->shown_plan = p->j->planned;
    memset(&p->l, 0, sizeof p->l);
    memset(&p->j->planned, 0, sizeof p->j->planned);
  }
  return FITS;
}

/* The rank whose figures are shown is in place of the last one. */
static void shown_back(rank_plan *p) {
  rank_plan_end(p);
  p->l = p->shown_l;
  p->j->planned = p->shown_plan;
  p->j->o.checkpoint = p->shown_plan.range;
  p->j->o.ncheckpoint = p->shown_plan.nrange;
  p->j->at_rank = p->j->parallel.rank = p->shown;
  memset(&p->shown_l, 0, sizeof p->shown_l);
  memset(&p->shown_plan, 0, sizeof p->shown_plan);
}

/* What is planned for all stages is in place of what was planned for the last one. */
static int stages_join(rank_plan *p, const stage_plan *at, uint32_t n) {
  vram_planned_step *q = &p->j->planned;
  size_t bytes = 1, used = 0;
  uint32_t i;
  for (i = 0; i < n; i++)
    bytes += strlen(at[i].nodes) + 1;
  free(p->nodes);
  p->nodes = (char *)malloc(bytes);
  if (!p->nodes)
    return cmd_no_memory();
  *p->nodes = 0;
  p->calls = p->units = 0;
  q->cost = q->cost_plain;
  q->feasible = 1;
  for (i = 0; i < n; i++) {
    const size_t len = strlen(at[i].nodes);
    if (len && used)
      p->nodes[used++] = ',';
    memcpy(p->nodes + used, at[i].nodes, len + 1);
    used += len;
    p->calls += at[i].calls;
    p->units += at[i].units;
    q->cost += at[i].cost;
    q->feasible &= at[i].feasible;
  }
  return FITS;
}

/* A plan for a rank of each place; where another one of it does not fit with that, for that one. */
static int stages_plan(rank_plan *p, const char *text, size_t len, stage_plan *at) {
  const uint32_t n = p->j->parallel.pp;
  const uint32_t each = (uint32_t)(vram_parallel_world(&p->j->parallel) / n); /* outermost */
  uint32_t i;
  int status = ranks_fullest(p->j, text, len, &p->shown);
  for (i = 0; i < n && !status; i++)
    status = plan_stage(p, text, len, i == p->shown / each ? p->shown : i * each, at + i);
  for (p->fits = 0; !status && !p->fits;) {
    stage_plan *fuller;
    status = stages_join(p, at, n);
    if (!status)
      status = other_ranks(p, text, len);
    fuller = at + p->fuller / each;
    if (status || p->fits || cmd_stopped() || !p->j->planned.feasible || fuller->tries++ == RANKS ||
        fuller->rank == p->fuller)
      break;
    status = plan_stage(p, text, len, p->fuller, fuller);
  }
  for (i = 0; i < p->nof && !status && !cmd_stopped(); i++)
    if (at[p->of[i] / each].rank != p->of[i]) /* the smallest budget of those that are left */
      status = plan_other(p, text, len, p->of[i]);
  if (status)
    return status;
  shown_back(p);
  p->j->planned.report = p->shown_report; /* with the plans of all stages */
  return stages_join(p, at, n);
}

static int plan_pipeline(rank_plan *p, const char *text, size_t len) {
  const uint32_t n = p->j->parallel.pp;
  stage_plan *at = (stage_plan *)calloc(n, sizeof *at);
  uint32_t i;
  int status;
  if (!at)
    return cmd_no_memory();
  status = stages_plan(p, text, len, at);
  for (i = 0; i < n; i++)
    free(at[i].nodes);
  free(at);
  loaded_end(&p->shown_l, &p->shown_plan);
  return status;
}

/* For the fullest rank; where another one does not fit with what this one needs, for that one. */
static int plan_ranks(rank_plan *p, const char *text, size_t len) {
  int status;
  p->one = p->j->rank_given && !p->j->all_ranks;
  if (p->j->parallel.pp > 1 && !p->one) {
    status = plan_pipeline(p, text, len);
    return status || cmd_stopped() ? status : every_layer(p);
  }
  p->fuller = p->j->at_rank;
  status = p->one ? FITS : ranks_fullest(p->j, text, len, &p->fuller);
  do {
    p->tried[p->ntried++] = p->fuller;
    if (!status)
      status = plan_rank(p, text, len, p->fuller);
    p->fits = p->j->planned.feasible;
    if (!status && !p->one)
      status = other_ranks(p, text, len);
  } while (!status && p->j->planned.feasible && !p->fits && p->ntried < RANKS && !cmd_stopped() &&
           !was_tried(p, p->fuller));
  if (!status)
    status = smallest_of_others(p, text, len);
  p->calls = p->j->planned.nrange;
  p->units = p->j->planned.nunit;
  return status || cmd_stopped() ? status : every_layer(p);
}

/* ---- output ---- */

static void row(const rank_plan *p, const char *what, const vram_report *r, uint64_t cost) {
  const vram_planned_step *q = &p->j->planned;
  char flop[32];
  printf("%-25s %11s %6.1f %% %11s %11s %9s", what, cmd_human(r->peak_requested_bytes),
         100.0 * (double)r->peak_requested_bytes /
             (double)(q->plain.peak_requested_bytes ? q->plain.peak_requested_bytes : 1),
         cmd_human(r->peak_allocated_bytes.expected), cmd_human(r->device_bytes.expected),
         cmd_count_text(cost, flop, sizeof flop));
  if (cost > q->cost_plain)
    printf(" +%.1f %%",
           100.0 * (double)(cost - q->cost_plain) / (double)(q->cost_plain ? q->cost_plain : 1));
  printf("%s\n", r->fits ? "" : "  too much");
}

static void print_plan(const rank_plan *p) {
  const job *j = p->j;
  const vram_planned_step *q = &j->planned;
  estimate_title(j, &p->l.g);
  if (!q->feasible)
    printf("%sDOES NOT FIT%s: the smallest budget is %s (%" PRIu64 " bytes)\n\n", cmd_bold,
           cmd_plain, cmd_human(p->smallest), p->smallest);
  printf("%s%-25s %11s %8s %11s %11s %9s%s\n", cmd_bold, "", "requested", "of plain", "allocated",
         "device", "FLOP", cmd_plain);
  row(p, "plain", &q->plain, q->cost_plain);
  printf("%s", cmd_bold);
  row(p, q->feasible ? "planned" : "smallest", &q->report, q->cost);
  printf("%s", cmd_plain);
  if (p->has_every)
    row(p, p->units ? "every unit" : "every layer", &p->every, p->every_cost);
  printf("\n%" PRIu32 " call%s of checkpoint() on %" PRIu32 " %s; ", p->calls,
         p->calls == 1 ? "" : "s", p->units ? p->units : q->chain.nstage,
         p->units ? "units" : "stages");
  if (cmd_stopped())
    printf("stopped: a cheaper plan may be there\n");
  else
    printf("smallest budget %s (%" PRIu64 " bytes)\n", cmd_human(p->smallest), p->smallest);
  if (q->feasible && !p->fits)
    printf("rank %" PRIu32 " takes %s with them, and does not fit\n", p->fuller,
           cmd_human(p->fuller_bytes));
  else if (q->feasible)
    printf("with the CUDA context and NCCL, %s a device of %s%s%s\n",
           p->one ? "this rank fits" : "every rank fits", cmd_human(j->budget), j->gpu ? ", " : "",
           j->gpu ? j->gpu : "");
  if (*p->nodes)
    printf("\n--checkpoint-nodes '%s'\n", p->nodes);
}

static void json_step(const char *name, const vram_report *r) {
  printf("\"%s\":{\"peak_requested_bytes\":%" PRIu64 ",\"peak_allocated_bytes\":%" PRIu64
         ",\"device_bytes\":%" PRIu64 ",\"fits\":%s}",
         name, r->peak_requested_bytes, r->peak_allocated_bytes.expected, r->device_bytes.expected,
         r->fits ? "true" : "false");
}

static void print_plan_json(const rank_plan *p) {
  const job *j = p->j;
  const vram_planned_step *q = &j->planned;
  char mode[256];
  job_mode(j, mode, sizeof mode);
  printf("{\"model\":");
  cmd_json_text(stdout, j->model);
  printf(",\"mode\":");
  cmd_json_text(stdout, mode);
  printf(",\"world\":%" PRIu64 ",\"rank\":%" PRIu32 ",\"feasible\":%s,\"fits\":%s",
         vram_parallel_world(&j->parallel), j->at_rank, q->feasible ? "true" : "false",
         p->fits ? "true" : "false");
  printf(",\"budget_bytes\":%" PRIu64 ",\"smallest_budget_bytes\":%" PRIu64 ",\"cost\":%" PRIu64
         ",\"cost_plain\":%" PRIu64 ",\"%s\":%" PRIu32,
         j->budget, p->smallest, q->cost, q->cost_plain, p->units ? "units" : "stages",
         p->units ? p->units : q->chain.nstage);
  printf(",\"stopped\":%s,\"checkpoint_nodes\":", cmd_stopped() ? "true" : "false");
  cmd_json_text(stdout, p->nodes);
  printf(",\"torch\":{");
  json_step("plain", &q->plain);
  putchar(',');
  json_step("planned", &q->report);
  if (p->has_every) {
    putchar(',');
    json_step("every", &p->every);
  }
  printf("}}\n");
}

int plan_ranks_command(job *j, char *text, size_t len) {
  rank_plan p;
  int status = job_check(j);
  memset(&p, 0, sizeof p);
  p.j = j;
  cmd_progress("vram plan: planning", 0);
  cmd_stoppable();
  if (!status)
    status = plan_ranks(&p, text, len);
  cmd_progress_end();
  if (!status) {
    if (j->json)
      print_plan_json(&p);
    else
      print_plan(&p);
    status = p.fits ? FITS : TOO_LARGE;
  }
  rank_plan_end(&p);
  free(text);
  return status;
}
