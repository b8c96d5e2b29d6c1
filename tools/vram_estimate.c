/* vram estimate: the bytes of one step. */
#include "vram_estimate.h"
#include "vram_model.h"
#include "vram_pipeline.h"
#include "vram_ranks.h"
#include "vram_serve.h"

cmd_text help_estimate = {
    "vram estimate MODEL [options]     bytes of one step\n"
    "\n",
    HELP_STEP,
    HELP_DEVICES,
    HELP_MODEL,
    HELP_PIPELINE,
    "output\n"
    "  --table, --no-table   a line for every layer (default: no)\n"
    "  --live                the largest tensors that live at the peak\n"
    "  --terms               every figure, and where it comes from\n"
    "  --explain             from the tensors to the device: each gap, its reason\n"
    "  --events FILE         every allocation and free in order, as CSV\n"
    "  --svg FILE            a picture: memory over the step, what lives at the peak\n"
    "  --html FILE           a page: both, the summary and the table\n"
    "  --snapshot FILE       the step as PyTorch's profiler would record it, for\n"
    "                        pytorch.org/memory_viz (a pickle; FILE.json: JSON)\n"
    "  --trace FILE          the same for ui.perfetto.dev\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --csv                 the layer table as CSV\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n",
    HELP_SERVE,
    "microcontroller\n"
    "  --embedded            MODEL, or a header of VRAM_NET_ lines, line by line:\n"
    "                        weights, operations, buffers, arena; takes --batch,\n"
    "                        --dim, --json, --csv, --svg (the arena) and these;\n"
    "                        of a .pte file what ExecuTorch planned, constants\n"
    "  --net NAME            which of the networks in the header\n"
    "  --flash SIZE          do the weights fit? (exit status 3: no)\n"
    "  --sram SIZE           do the arena and what stays fit?\n"
    "  --format f32|f16|i8|i8_per_tensor|i8_per_channel|i8w4|i16|i4\n"
    "                        of values and weights (default: the file's; F32)\n"
    "  --kernels none|plain|dsp|mve\n"
    "                        whose scratch counts: CMSIS-NN's for that extension\n"
    "  --align N             of every buffer (default: the header's, 16)\n"
    "  --bank [NAME=]SIZE    a memory; more than one: the fastest first, 0: no limit.\n"
    "                        What is read and written most lies in the fastest\n"
    "  --rom NAME=SIZE[:FROM]\n"
    "                        a memory of constants, likewise; FROM: RAM, into which\n"
    "                        they are copied from that later one at start\n"
    "  --tflm                of a .tflite file nothing but TensorFlow Lite Micro's\n"
    "                        arena, with its parts: tensor_arena[N]; --kernels:\n"
    "                        with those of CMSIS-NN\n"
    "  --kernels-for speed|size\n"
    "                        how those are built: OPTIMIZE_KERNELS_FOR\n"
    "  --tflm-version 2026-08|2024-11\n"
    "                        the same of that version (default: 2026-08)\n"
    "\n"
    "Sizes take B KB MB GB TB KiB MiB GiB TiB; a bare number is bytes.\n"
    "FILE - is standard output.\n",
    NULL};

typedef struct event_file {
  FILE *f;
  int streams; /* --parallel: with the stream of each */
} event_file;

static void event_line(void *user, const vram_event *e) {
  const event_file *to = (const event_file *)user;
  char name[MAX_NODE_NAME];
  if (e->action == VRAM_ACTION_BECOMES)
    return;
  vram_node_name(e->node, name, sizeof name);
  fprintf(to->f, "%s,%s,%" PRId64 ",%" PRIu64 ",%s,%s", vram_phase_name(e->phase),
          e->action == VRAM_ACTION_ALLOC ? "alloc" : "free", e->id, e->bytes,
          vram_category_name(e->category), name);
  if (to->streams)
    fprintf(to->f, ",%" PRIu64, (uint64_t)e->stream);
  putc('\n', to->f);
}

void estimate_nodes(const vram_range *r, char *to, size_t cap) {
  char first[MAX_NODE_NAME], last[MAX_NODE_NAME];
  const vram_node *n = r->first, *named = n;
  for (; n != r->last; n = n->next)
    if (n->next->op < VRAM_OP_COUNT)
      named = n->next;
  vram_node_name(r->first, first, sizeof first);
  vram_node_name(named, last, sizeof last);
  snprintf(to, cap, "%s..%s", first, last);
}

static void json_planned(const vram_planned_step *p) {
  char name[2 * MAX_NODE_NAME + 2];
  uint32_t i;
  printf(",\"checkpoint\":{\"feasible\":%s,\"smallest_budget_bytes\":%" PRIu64 ",\"cost\":%" PRIu64
         ",\"cost_plain\":%" PRIu64 ",\"plain_peak_allocated_bytes\":%" PRIu64 ",\"%s\":%" PRIu32
         ",\"ranges\":[",
         p->feasible ? "true" : "false", p->smallest_budget_bytes, p->cost, p->cost_plain,
         p->plain.peak_allocated_bytes.expected, p->nunit ? "units" : "stages",
         p->nunit ? p->nunit : p->chain.nstage);
  for (i = 0; i < p->nrange; i++) {
    estimate_nodes(p->range + i, name, sizeof name);
    printf("%s", i ? "," : "");
    cmd_json_text(stdout, name);
  }
  printf("]}");
}

static void print_planned(const vram_planned_step *p) {
  const double more =
      p->cost_plain ? 100.0 * (double)(p->cost - p->cost_plain) / (double)p->cost_plain : 0;
  char name[2 * MAX_NODE_NAME + 2];
  uint32_t i;
  printf("\n%s%" PRIu32 " call%s of checkpoint()%s on %" PRIu32
         " %s, %.1f %% more operations; without %s allocated\n",
         cmd_bold, p->nrange, p->nrange == 1 ? "" : "s", cmd_plain,
         p->nunit ? p->nunit : p->chain.nstage, p->nunit ? "units" : "stages", more,
         cmd_human(p->plain.peak_allocated_bytes.expected));
  if (!p->feasible)
    printf("no plan fits; the smallest budget that one fits is %s (%" PRIu64 " bytes): that one\n",
           cmd_human(p->smallest_budget_bytes), p->smallest_budget_bytes);
  for (i = 0; i < p->nrange; i++) {
    estimate_nodes(p->range + i, name, sizeof name);
    printf("%s%s", i ? "," : "--checkpoint-nodes '", name);
  }
  if (p->nrange)
    printf("'\n");
}

int job_last_phase(const job *j) {
  return !j->o.train       ? VRAM_PHASE_FORWARD
         : j->o.evaluation ? VRAM_PHASE_EVALUATION
                           : VRAM_PHASE_OPTIMIZER;
}

vram_phase job_phase(const job *j, int i) {
  if (!j->spec || j->parallel.pp < 2 || (i != VRAM_PHASE_FORWARD && i != VRAM_PHASE_BACKWARD))
    return (vram_phase)i;
  return i == VRAM_PHASE_FORWARD ? VRAM_PHASE_STEP : VRAM_PHASE_COUNT;
}

static void json_phase(const char *name, const vram_phase_report *p, int replayed) {
  printf("\"%s\":{\"requested_bytes\":%" PRIu64 ",\"requested_peak_bytes\":%" PRIu64
         ",\"allocated_bytes\":%" PRIu64 ",\"allocated_peak_bytes\":%" PRIu64,
         name, p->requested_bytes, p->requested_peak_bytes, p->allocated_bytes,
         p->allocated_peak_bytes);
  if (replayed)
    printf(",\"reserved_bytes\":%" PRIu64 ",\"reserved_peak_bytes\":%" PRIu64 "}",
           p->reserved_bytes, p->reserved_peak_bytes);
  else
    printf(",\"reserved_bytes\":null,\"reserved_peak_bytes\":null}");
}

static void json_phases(const job *j, const vram_report *r) {
  const int first = j->spec ? VRAM_PHASE_ZERO_GRAD : VRAM_PHASE_FORWARD;
  int i;
  printf(",\"phases\":{");
  for (i = first; i <= job_last_phase(j); i++) {
    const vram_phase phase = job_phase(j, i);
    if (phase == VRAM_PHASE_COUNT)
      continue;
    printf("%s", i > first ? "," : "");
    json_phase(vram_phase_name(phase), &r->phase[phase], r->replayed);
  }
  if (j->spec) {
    putchar(',');
    json_phase(vram_phase_name(VRAM_PHASE_END), &r->phase[VRAM_PHASE_END], r->replayed);
  }
  printf("}");
  for (i = 0; j->spec && i < VRAM_SETUP_COUNT; i++) {
    printf("%s", i ? "," : ",\"setup\":{");
    json_phase(vram_setup_name((vram_setup)i), &r->setup[i], r->replayed);
  }
  if (j->spec)
    putchar('}');
}

static void json_parameters(const vram_parameters *p) {
  printf(",\"parameters\":{");
#define NUMBER(key) "\"" #key "\":%" PRIu64 ","
  printf(NUMBER(trainable) NUMBER(frozen) NUMBER(quantised) NUMBER(trainable_bytes)
             NUMBER(frozen_bytes) "\"quantised_bytes\":%" PRIu64 "}",
         p->trainable, p->frozen, p->quantised, p->trainable_bytes, p->frozen_bytes,
         p->quantised_bytes);
#undef NUMBER
}

/* The counts, and which lines were made so. */
static void json_in_place(const job *j, const vram_graph *g) {
  char name[MAX_NODE_NAME];
  const vram_node *m;
  int i, n = 0;
  printf(",\"in_place\":{");
  for (i = 0; i < VRAM_IN_PLACE_COUNT; i++)
    printf("\"%s\":%" PRIu32 ",", vram_in_place_name((vram_in_place)i), j->in_places.count[i]);
  printf("\"names\":[");
  for (m = g->first; m; m = m->next)
    if (vram_node_was_made_inplace(m)) {
      printf("%s", n++ ? "," : "");
      vram_node_name(m, name, sizeof name);
      cmd_json_text(stdout, name);
    }
  printf("]}");
}

static void json_communication(const vram_report *r) {
  uint64_t sent = 0;
  int i, n = 0;
  printf(",\"communication\":{");
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++) {
    const vram_communication *c = r->communication + i;
    sent += c->sent;
    if (c->calls)
      printf("%s\"%s\":{\"calls\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"sent_bytes\":%" PRIu64 "}",
             n++ ? "," : "", vram_collective_name((vram_collective)i), c->calls, c->bytes, c->sent);
  }
  printf("},\"communication_bytes\":%" PRIu64 ",\"waiting_bytes\":%" PRIu64, sent,
         r->waiting_bytes);
}

void estimate_json(const job *j, const vram_graph *g, const vram_report *r,
                   const vram_parameters *p, const char *peak_node, int fits) {
  char name[MAX_NODE_NAME], mode[256];
  vram_term term;
  int i;
  snprintf(name, sizeof name, "%.*s", (int)g->name_len, g->name ? g->name : "");
  job_mode(j, mode, sizeof mode);
  printf("{\"model\":");
  cmd_json_text(stdout, name);
  printf(",\"mode\":");
  cmd_json_text(stdout, mode);
  printf(",\"rules\":\"%s\"", vram_rules_name(j->o.rules));
  if (j->spec)
    printf(",\"world\":%" PRIu64 ",\"rank\":%" PRIu32 ",\"local_params_bytes\":%" PRIu64
           ",\"optimizer_state_bytes\":%" PRIu64,
           vram_parallel_world(&j->parallel), j->at_rank, r->params_bytes, r->optimizer_bytes);
#define NUMBER(key) printf(",\"" #key "\":%" PRIu64, r->key)
  NUMBER(params_bytes);
  NUMBER(buffers_bytes);
  NUMBER(gradients_bytes);
  NUMBER(optimizer_bytes);
  NUMBER(saved_bytes);
  NUMBER(inputs_bytes);
  NUMBER(workspace_bytes);
  NUMBER(autocast_cache_bytes);
  NUMBER(kv_cache_bytes);
  NUMBER(pinned_bytes);
  NUMBER(peak_requested_bytes);
#undef NUMBER
#define BOUNDS(key)                                                                                \
  printf(",\"" #key "\":{\"lower\":%" PRIu64 ",\"expected\":%" PRIu64 ",\"upper\":%" PRIu64 "}",   \
         r->key.lower, r->key.expected, r->key.upper)
  json_parameters(p);
  if (j->in_place)
    json_in_place(j, g);
  BOUNDS(peak_allocated_bytes);
  printf(",\"peak_reserved_bytes\":%" PRIu64 ",\"replayed\":%s,\"num_alloc_retries\":%" PRIu64,
         r->peak_reserved_bytes, r->replayed ? "true" : "false", r->num_alloc_retries);
  BOUNDS(cudnn_bytes);
  BOUNDS(context_bytes);
  BOUNDS(nccl_bytes);
  BOUNDS(device_bytes);
#undef BOUNDS
  json_phases(j, r);
  if (j->spec)
    json_communication(r);
  printf(",\"peak_phase\":\"%s\",\"peak_node\":", vram_phase_name(r->peak_phase));
  cmd_json_text(stdout, peak_node);
  printf(",\"peak_categories\":{");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    printf("%s\"%s\":%" PRIu64, i ? "," : "", vram_category_name((vram_category)i),
           r->peak_category_bytes[i]);
  printf("},\"sources\":{");
  for (i = 0; vram_report_term(r, (uint32_t)i, &term); i++)
    printf("%s\"%s\":\"%s\"", i ? "," : "", term.name, vram_source_name(term.source));
  putchar('}');
  if (j->automatic)
    json_planned(&j->planned);
  printf(",\"fits\":%s,\"budget_bytes\":", j->has_budget ? fits ? "true" : "false" : "null");
  if (j->has_budget)
    printf("%" PRIu64, j->budget);
  else
    printf("null");
}

static void print_json(const job *j, const vram_graph *g, const vram_report *r, int fits) {
  char node[MAX_NODE_NAME];
  vram_parameters p;
  vram_node_name(r->peak_node, node, sizeof node);
  vram_step_parameters(g, &j->o, &p);
  estimate_json(j, g, r, &p, node, fits);
  printf("}\n");
}

void layer_shape(const vram_dims *d, char *to, size_t cap) {
  uint32_t i;
  size_t n = 1;
  snprintf(to, cap, "[");
  for (i = 0; i < d->ndim && n < cap; i++, n = strlen(to))
    snprintf(to + n, cap - n, "%s%" PRId64, i ? "," : "", d->v[i]);
  snprintf(to + n, cap - n, "]");
}

int layer_next(layer *l, const vram_node_report *rep) {
  const vram_node *m = l->next;
  while (m && (m->op >= VRAM_OP_COUNT || m->op == VRAM_OP_buffer))
    m = m->next;
  if (!m)
    return 0;
  l->node = l->last = m;
  l->sum = rep[m->index];
  /* an op that is written out is several nodes of one line */
  while (m->next && m->next->line == m->line && m->next->round == m->round) {
    m = m->next;
    if (m->op >= VRAM_OP_COUNT)
      continue;
    l->last = m;
    l->sum.params += rep[m->index].params;
    l->sum.trainable += rep[m->index].trainable;
    l->sum.saved_bytes += rep[m->index].saved_bytes;
    l->sum.output_bytes = rep[m->index].output_bytes;
    l->sum.live_bytes = rep[m->index].live_bytes;
    l->sum.dtype = rep[m->index].dtype;
  }
  l->next = m->next;
  return 1;
}

static void print_table(const job *j, const vram_graph *g, const vram_node_report *rep) {
  layer l;
  char name[MAX_NODE_NAME], shape[160];
  uint64_t params = 0, saved = 0;
  if (j->csv)
    printf("name,type,output_shape,dtype,params,output_bytes,saved_bytes,live_bytes,"
           "trainable_params\n");
  else
    printf("%s%-38s %-18s %-22s %12s %11s %11s %11s%s\n", cmd_bold, "layer", "type", "output",
           "params", "output", "saved", "live", cmd_plain);
  l.next = g->first;
  while (layer_next(&l, rep)) {
    const vram_node_report t = l.sum;
    vram_node_name(l.node, name, sizeof name);
    layer_shape(l.last->out[0].d, shape, sizeof shape);
    params += t.params;
    saved += t.saved_bytes;
    if (j->csv)
      printf("%s,%s,\"%s\",%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", name,
             vram_op_name(l.node->op), shape, vram_dtype_name((vram_dtype)t.dtype), t.params,
             t.output_bytes, t.saved_bytes, t.live_bytes, t.trainable);
    else
      printf("%-38.38s %-18.18s %-22s %12" PRIu64 " %11s %11s %11s%s\n", name,
             vram_op_name(l.node->op), shape, t.params, cmd_human(t.output_bytes),
             cmd_human(t.saved_bytes), cmd_human(t.live_bytes),
             j->o.train && l.node->block ? "  again" : "");
  }
  if (!j->csv)
    printf("%s%-38s %-18s %-22s %12" PRIu64 " %11s %11s%s\n\n", cmd_bold, "total", "", "", params,
           "", cmd_human(saved), cmd_plain);
}

/* The highest moment, and what it is made of. */
static void print_peak(const vram_report *r) {
  char name[MAX_NODE_NAME];
  int i, k;
  vram_node_name(r->peak_node, name, sizeof name);
  printf("%speak %s%s requested, in %s%s%s\n", cmd_bold, cmd_human(r->peak_requested_bytes),
         cmd_plain, vram_phase_name(r->peak_phase), *name ? " at " : "", name);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++) {
    uint64_t b = r->peak_category_bytes[i];
    if (!b)
      continue;
    printf("  %-12s %11s  %s", vram_category_name((vram_category)i), cmd_human(b), cmd_dim);
    for (k = 0; k < 40; k++)
      if ((uint64_t)k * (r->peak_requested_bytes / 40 + 1) < b)
        putchar('#');
    printf("%s\n", cmd_plain);
  }
}

/* What became of activations, and why where nothing did. */
static void print_in_place(const job *j) {
  uint32_t i, all = 0;
  for (i = 0; i < VRAM_IN_PLACE_COUNT; i++)
    all += j->in_places.count[i];
  printf("\nin place         %" PRIu32 " of %" PRIu32 " activations",
         j->in_places.count[VRAM_IN_PLACE_MADE], all);
  for (i = VRAM_IN_PLACE_MADE + 1u; i < VRAM_IN_PLACE_COUNT; i++)
    if (j->in_places.count[i])
      printf("; %" PRIu32 ": %s", j->in_places.count[i], vram_in_place_text((vram_in_place)i));
}

/* As peft's print_trainable_parameters, where not all of them are trained. */
static void print_parameters(const job *j, const vram_graph *g) {
  vram_parameters p;
  char trained[32], all[32];
  uint64_t sum;
  vram_step_parameters(g, &j->o, &p);
  sum = p.trainable + p.frozen + p.quantised;
  if (sum == p.trainable)
    return;
  printf("\ntrainable params: %s || all params: %s || trainable%%: %.4f",
         cmd_grouped(p.trainable, trained), cmd_grouped(sum, all),
         100.0 * (double)p.trainable / (double)sum);
  printf("\ntrainable %s, frozen %s", cmd_human(p.trainable_bytes), cmd_human(p.frozen_bytes));
  if (p.quantised)
    printf(", quantised %s", cmd_human(p.quantised_bytes));
}

uint64_t ranks_sent(const vram_report *r) {
  uint64_t sum = 0;
  int i;
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    sum += r->communication[i].sent;
  return sum;
}

void print_sent(const vram_report *r) {
  int i, n = 0;
  if (!ranks_sent(r))
    return;
  printf("communication, sent in a step: %s (", cmd_human(ranks_sent(r)));
  for (i = 0; i < VRAM_COLLECTIVE_COUNT; i++)
    if (r->communication[i].sent)
      printf("%s%" PRIu64 " %s %s", n++ ? ", " : "", r->communication[i].calls,
             vram_collective_name((vram_collective)i), cmd_human(r->communication[i].sent));
  printf(")\n");
}

/* What is there all the time, and what backward needs. */
static void print_held(const job *j, const vram_graph *g, const vram_report *r) {
  printf("\nparams %s, buffers %s, inputs %s", cmd_human(r->params_bytes),
         cmd_human(r->buffers_bytes), cmd_human(r->inputs_bytes));
  if (j->o.train) {
    printf("\ngradients %s, optimizer %s, saved for backward %s", cmd_human(r->gradients_bytes),
           cmd_human(r->optimizer_bytes), cmd_human(r->saved_bytes));
    if (r->autocast_cache_bytes)
      printf(" (of it autocast's weights %s)", cmd_human(r->autocast_cache_bytes));
    print_parameters(j, g);
  }
  if (j->in_place)
    print_in_place(j);
  if (r->pinned_bytes)
    printf("\npinned host memory %s", cmd_human(r->pinned_bytes));
  if (r->waiting_bytes)
    printf("\nfreed while another stream may use it, at most %s (in the upper bound of the device)",
           cmd_human(r->waiting_bytes));
  printf("\n");
}

/* What the text's checkpoint blocks run once more. */
typedef struct recomputed {
  uint64_t nodes;
  double flops, all; /* all: of the whole forward pass */
} recomputed;

static recomputed recomputed_of(const vram_graph *g) {
  recomputed r = {0, 0, 0};
  const vram_node *n;
  for (n = g->first; n; n = n->next) {
    const double flops = (double)vram_node_flops(n);
    if (n->op >= VRAM_OP_COUNT)
      continue;
    r.nodes += n->block != NULL;
    r.all += flops;
    r.flops += flops * vram_node_recomputed(n);
  }
  return r;
}

static void print_recomputed(const job *j, const vram_graph *g) {
  const recomputed r = recomputed_of(g);
  if (j->o.train && r.nodes)
    printf("computed again in backward: %" PRIu64 " nodes in %" PRIu32
           " checkpoint block%s of the text, %.1f %% of the forward pass\n",
           r.nodes, g->ncheckpoint, g->ncheckpoint > 1 ? "s" : "",
           r.all > 0 ? 100.0 * r.flops / r.all : 0.0);
}

void estimate_title(const job *j, const vram_graph *g) {
  char mode[256];
  uint32_t d;
  job_mode(j, mode, sizeof mode);
  if (g->name)
    printf("%s%.*s%s  %s", cmd_bold, (int)g->name_len, g->name, cmd_plain, mode);
  else
    printf("%s%s%s  %s", cmd_bold, strcmp(j->model, "-") ? j->model : "(model)", cmd_plain, mode);
  for (d = 0; d < g->ndim && d < 6; d++)
    printf("  %.*s=%" PRId64, (int)g->dim[d].len, g->dim[d].name, g->dim[d].value);
  printf("  %scc %" PRIu32 ".%" PRIu32 ", rules %s%s\n\n", cmd_dim, (j->o.cc ? j->o.cc : 90) / 10,
         (j->o.cc ? j->o.cc : 90) % 10, vram_rules_name(j->o.rules), cmd_plain);
}

static void print_summary(const job *j, const vram_graph *g, const vram_report *r, int fits) {
  int i;
  estimate_title(j, g);
  print_peak(r);
  printf("\nallocated    %11s  in blocks of the caching allocator (at most %s)\n",
         cmd_human(r->peak_allocated_bytes.expected), cmd_human(r->peak_allocated_bytes.upper));
  printf("reserved     %11s  in its segments%s\n", cmd_human(r->peak_reserved_bytes),
         r->replayed ? "" : ", at least");
  printf("device       %11s  with the CUDA context%s (%s to %s)\n\n",
         cmd_human(r->device_bytes.expected), j->spec ? " and NCCL" : "",
         cmd_human(r->device_bytes.lower), cmd_human(r->device_bytes.upper));
  printf("%s%-12s %11s %11s%s\n", cmd_bold, "phase", "end", "peak", cmd_plain);
  for (i = VRAM_PHASE_FORWARD; i <= job_last_phase(j); i++) {
    const vram_phase phase = job_phase(j, i);
    if (phase != VRAM_PHASE_COUNT)
      printf("%-12s %11s %11s\n", vram_phase_name(phase),
             cmd_human(r->phase[phase].requested_bytes),
             cmd_human(r->phase[phase].requested_peak_bytes));
  }
  print_held(j, g, r);
  print_sent(r);
  print_recomputed(j, g);
  if (j->has_budget)
    printf("\n%s%s%s a budget of %s%s%s\n", cmd_bold, fits ? "fits" : "DOES NOT FIT", cmd_plain,
           cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  if (j->has_budget && !fits)
    cmd_way(j->spec      ? "(vram fit --parallel auto --devices N: which way would fit)"
            : j->o.train ? "(vram advise, with the same words: what to change; vram fit: "
                           "the largest batch)"
                         : "(vram fit, with the same words: what would fit)");
  if (j->has_budget && fits && r->num_alloc_retries)
    printf("only just: in the run's first steps all that is cached goes back to the device %" PRIu64
           " time%s\n(slow; with more room it would reserve more)\n",
           r->num_alloc_retries, r->num_alloc_retries == 1 ? "" : "s");
  if (j->automatic)
    print_planned(&j->planned);
}

static void print_terms(const vram_report *r) {
  vram_term t;
  uint32_t i;
  printf("\n%s%-21s %11s  %-8s %s%s\n", cmd_bold, "term", "bytes", "source", "made of", cmd_plain);
  for (i = 0; vram_report_term(r, i, &t); i++) {
    printf("%-21s %11s  %-8s %s\n", t.name, cmd_human(t.bytes.expected), vram_source_name(t.source),
           t.from);
    if (t.bytes.lower != t.bytes.upper)
      printf("%-21s %11s  to %s\n", "", cmd_human(t.bytes.lower), cmd_human(t.bytes.upper));
  }
}

/* ---- explain: from the tensors to the device ---- */

static vram_bounds all_three(uint64_t bytes) {
  vram_bounds b;
  b.lower = b.expected = b.upper = bytes;
  return b;
}

static vram_bounds minus(vram_bounds a, vram_bounds b) {
  a.lower -= b.lower;
  a.expected -= b.expected;
  a.upper -= b.upper;
  return a;
}

/* A line of the chain. `bytes` is what has been reached by then or, with a `+`, what is added. */
static void explain_row(const char *sign, const char *name, vram_bounds bytes, const char *why) {
  const int sum = *sign == '=';
  printf("%s%s %-24s %15" PRIu64 " %15" PRIu64 " %15" PRIu64 "%s\n", sum ? cmd_bold : "", sign,
         name, bytes.lower, bytes.expected, bytes.upper, sum ? cmd_plain : "");
  if (why)
    printf("%s    %s%s\n", cmd_dim, why, cmd_plain);
}

/* A sum of the chain: a term of the report, and what shows it in a run. */
static void explain_sum(const vram_report *r, const char *name, vram_bounds bytes, const char *term,
                        const char *shown_by) {
  vram_term t;
  uint32_t i;
  char why[200];
  for (i = 0; vram_report_term(r, i, &t) && strcmp(t.name, term) != 0; i++)
    ;
  snprintf(why, sizeof why, "%s\n    %s: %s", shown_by, vram_source_name(t.source), t.from);
  explain_row("=", name, bytes, why);
}

static void print_explain(const job *j, const vram_report *r) {
  const vram_bounds requested = all_three(r->peak_requested_bytes),
                    blocks = all_three(r->peak_blocks_bytes),
                    reserved = minus(minus(r->device_bytes, r->context_bytes), r->nccl_bytes);
  vram_bounds allocated = r->peak_allocated_bytes;
  int i;
  printf("\n%sfrom the tensors to the device %10s %15s %15s%s  (bytes)\n", cmd_bold, "at least",
         "expected", "at most", cmd_plain);
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (r->peak_category_bytes[i])
      explain_row("+", vram_category_name((vram_category)i), all_three(r->peak_category_bytes[i]),
                  NULL);
  explain_sum(r, "requested", requested, "peak_requested_bytes",
              "memory_stats()[\"requested_bytes.all.peak\"]");
  explain_row("+", "rounding", minus(blocks, requested),
              "blocks are multiples of 512 bytes (kMinBlockSize)");
  if (allocated.lower < blocks.lower) {
    const vram_bounds less = {blocks.lower - allocated.lower, 0, 0};
    explain_row("-", "custom", less,
                "custom lines: when they take their workspace is not known; one number is fp32's, "
                "in 16 bits half");
    allocated.lower = blocks.lower;
  }
  explain_row(
      "+", "rests, workspaces", minus(allocated, blocks),
      "a block above 1 MiB keeps a rest of up to 1 MiB (should_split); what cuDNN asks for");
  explain_sum(r, "allocated", r->peak_allocated_bytes, "peak_allocated_bytes",
              "max_memory_allocated()");
  explain_row("+", "free in segments", minus(reserved, r->peak_allocated_bytes),
              "segments: 2 MiB for blocks up to 1 MiB, 20 MiB for those below 10 MiB,\n"
              "    else their size; they stay when blocks go, in pieces that fit or do not");
  explain_sum(r, "reserved", reserved, "peak_reserved_bytes", "max_memory_reserved()");
  explain_row(
      "+", "CUDA context", r->context_bytes,
      "the driver's state and all loaded kernels: PyTorch's, cuBLAS's, cuDNN's (--context)");
  if (j->spec)
    explain_row("+", "NCCL", r->nccl_bytes,
                "buffers of its communicators: 12 MiB a channel and neighbour; how many channels,\n"
                "    the machine decides");
  explain_sum(r, "device", r->device_bytes, "device_bytes", "nvidia-smi, for this process");
  printf("not in it: other processes; what libraries take without PyTorch's allocator\n"
         "(own kernels); private pools of CUDA graphs; segments that earlier steps\n"
         "of other sizes left\n");
}

static int by_bytes(const void *a, const void *b) {
  uint64_t x = ((const vram_live *)a)->bytes, y = ((const vram_live *)b)->bytes;
  return (x < y) - (x > y);
}

int estimate_live(const job *j, const loaded *l, const vram_report *r, vram_live **list,
                  uint32_t *count) {
  uint32_t room = 4 * l->g.nnode + 64; /* enough for most: the step is played once */
  for (;;) {
    *list = (vram_live *)malloc((size_t)room * sizeof **list);
    if (!*list)
      return cmd_no_memory();
    vram_step_live(&l->g, &j->o, l->scratch, l->bytes, r, *list, room, count);
    if (*count <= room)
      return FITS;
    free(*list);
    room = *count;
  }
}

static void print_live(vram_live *list, uint32_t n) {
  char name[MAX_NODE_NAME];
  uint32_t i;
  qsort(list, n, sizeof *list, by_bytes);
  printf("\n%slive at the peak: %" PRIu32 " tensors, the largest%s\n", cmd_bold, n, cmd_plain);
  for (i = 0; i < n && i < 20; i++) {
    vram_node_name(list[i].node, name, sizeof name);
    printf("  %11s  %-12s %s\n", cmd_human(list[i].bytes), vram_category_name(list[i].category),
           name);
  }
}

/* --events; not FITS: message printed. */
static int write_events(const job *j, const loaded *l) {
  vram_step_options o = j->o;
  vram_report again;
  cmd_output out;
  event_file to;
  const int status = cmd_output_open(&out, j->events);
  if (status)
    return status;
  to.f = out.file;
  to.streams = j->spec != NULL;
  fprintf(out.file, "phase,action,id,size,category,node%s\n", to.streams ? ",stream" : "");
  o.event = event_line;
  o.user = &to;
  o.replay = NULL;
  o.nodes = NULL;
  vram_step(&l->g, &o, l->scratch, l->bytes, &again, NULL);
  return cmd_output_commit(&out, 0);
}

/* What standard output is for; not FITS: error printed. *taken: by one thing alone. */
static int check_outputs(const job *j, int *taken) {
  const char *text_only = j->explain ? "--explain" : j->terms ? "--terms" : NULL;
  if (!text_only)
    text_only = j->live ? "--live" : j->table && !j->csv ? "--table" : NULL;
  *taken = j->json + j->csv + cmd_is_output(j->events) + cmd_is_output(j->svg) +
           cmd_is_output(j->html) + cmd_is_output(j->snapshot) + cmd_is_output(j->trace);
  if (*taken > 1)
    return cmd_bad("standard output takes one of --json, --csv and one FILE -", NULL, NULL);
  if (j->spec && j->parallel.is_pipeline && !j->all_ranks && (j->table || j->csv))
    return cmd_bad("a pipeline's step is put together of parts: no layers for",
                   j->csv ? "--csv" : "--table", NULL);
  if (*taken && text_only)
    return cmd_bad("standard output is taken by --json, --csv or a FILE -: no place for", text_only,
                   NULL);
  return FITS;
}

/* Every file that was asked for; not FITS: message printed. */
static int write_files(const job *j, const loaded *l, const vram_report *r, int fits,
                       const vram_live *live, uint32_t nlive) {
  int status = j->events ? write_events(j, l) : FITS;
  if (!status && (j->svg || j->html))
    status = scene_write_all(j, &l->g, l->scratch, l->bytes, r, fits, live, nlive);
  if (!status && (j->snapshot || j->trace))
    status = film_write_all(j, &l->g, l->scratch, l->bytes);
  return status;
}

/* Standard output. */
static int show(const job *j, const loaded *l, const vram_report *r, int fits, int taken,
                vram_live *live, uint32_t nlive) {
  if (j->json)
    print_json(j, &l->g, r, fits);
  else if (j->csv)
    print_table(j, &l->g, j->o.nodes);
  else if (!taken) {
    if (j->table)
      print_table(j, &l->g, j->o.nodes);
    print_summary(j, &l->g, r, fits);
    if (j->terms)
      print_terms(r);
    if (j->explain)
      print_explain(j, r);
    if (j->live)
      print_live(live, nlive);
  }
  return fits ? FITS : TOO_LARGE;
}

int estimate_command(int argc, char **argv) {
  job j;
  vram_report r;
  loaded l;
  int i, taken, fits, status;
  size_t len = 0;
  char *text = NULL;
  vram_live *live = NULL;
  uint32_t nlive = 0;
  const char *model = model_argument(help_estimate, argc, argv);
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "--embedded"))
      return net_command(argc, argv);
    else if (!strcmp(argv[i], "--engine"))
      return model && model_sniff(model) ? model_serve(model, argc, argv, 0)
                                         : serve_command(argc, argv, NULL, 0);
  if (model && pipeline_is(model))
    return pipeline_estimate(argc, argv);
  if (model) {
    const vram_file_format format = model_sniff(model);
    if (format && !model_is_graph(format) &&
        !(model_wants_step(argc, argv) && model_has_config(model)))
      return model_estimate(argc, argv);
    if (!format && model_refuse(model, argc, argv))
      return USAGE;
  }
  memset(&j, 0, sizeof j);
  j.command = "estimate";
  j.o.replay = &j.pool;
  status = job_arguments(&j, argc, argv);
  if (status || !j.model)
    return status;
  status = check_outputs(&j, &taken);
  if (!status)
    status = model_read(j.model, &j, &text, &len);
  if (status)
    return status;
  if (j.generate)
    return generate_command(&j, text, len);
  if (j.all_ranks)
    return ranks_command(&j, text, len);
  status = model_load(&l, &j, text, len);
  if (!status && (j.table || j.csv || j.html)) {
    j.o.nodes = (vram_node_report *)calloc(l.g.nnode + 1u, sizeof *j.o.nodes);
    status = j.o.nodes ? FITS : cmd_no_memory();
  }
  /* first without a listener, so that nothing is written of a step that fails */
  if (!status)
    status = model_step(&l, &j.o, &r);
  if (!status) {
    fits = !j.has_budget || r.fits;
    if (j.live || j.svg || j.html)
      status = estimate_live(&j, &l, &r, &live, &nlive);
    if (!status)
      status = write_files(&j, &l, &r, fits, live, nlive);
    if (!status)
      status = show(&j, &l, &r, fits, taken, live, nlive);
  }
  if (j.automatic)
    vram_step_plan_free(&j.planned, &model_allocator);
  free(live);
  free(j.o.nodes);
  model_unload(&l);
  return status;
}
