/* vram fit: the largest size that fits. */
#include "vram_auto.h"
#include "vram_generate.h"
#include "vram_job.h"
#include "vram_model.h"
#include "vram_pipeline.h"
#include "vram_serve.h"

cmd_text help_fit = {
    "vram fit MODEL --budget SIZE | --gpu NAME [options]   the largest size that fits\n"
    "\n"
    "  --solve batch|dim:NAME|lora|segments|prompt|new|ctx|slots|ngl|n-cpu-moe|side\n"
    "                        the first dim (default), any dim: sequence length,\n"
    "                        width, depth (the rounds of a loop); the rank of\n"
    "                        adapters; or the fewest segments of\n"
    "                        checkpoint_sequential.\n"
    "                        With --generate: the longest prompt, the most new\n"
    "                        tokens.\n"
    "                        Of GGUF files: the tokens of context (default), slots\n"
    "                        of --ctx tokens each, the most layers on the devices,\n"
    "                        or the fewest with experts on the host.\n"
    "                        Of a folder of diffusers: batch (default), or side: of\n"
    "                        square images.\n"
    "                        With --engine: max-model-len (default), max-num-seqs or\n"
    "                        tp, see vram estimate -h, \"serving engine\"\n"
    "\n"
    "  --parallel auto[,OPTION=VALUE...] --devices N\n"
    "                        every way to train on N devices, and what fits: pp, tp,\n"
    "                        cp, ep, ddp, zero1, fsdp2, hsdp, micro-batches,\n"
    "                        accumulation, checkpointed layers; the cheapest first;\n"
    "                        --gpu A,B: on each of these devices. Environment:\n"
    "                        VRAM_THREADS, at a time (default: processors, to 16)\n"
    "  --global-batch N      samples of a step of all devices (default: of each the\n"
    "                        model's batch)\n"
    "  --flop-per-byte N     what a sent byte costs (default: 2000 operations)\n"
    "  --top N|all           so many lines (default: 20)\n"
    "\n"
    "A size fits if a whole run (model to the device, three steps), replayed through\n"
    "the caching allocator, finds its memory in the budget less the CUDA context.\n"
    "The answer and the next size, which does not fit, were both played. Where the\n"
    "allocator has to give cached memory back for it, which takes time at each step,\n"
    "the largest size that goes without stands first, the answer behind it.\n"
    "A GGUF file fits if each device has its buffers of llama.cpp in the budget.\n"
    "\n",
    HELP_STEP,
    HELP_DEVICES,
    HELP_MODEL,
    "output\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Ctrl-C ends the search with the best so far (a second one ends it at once).\n"
    "Exit status 3: not even the smallest size fits; 1: nothing yet when stopped.\n",
    NULL};

/* ---- fit ---- */

/* "batch 96", "8 segments" */
static const char *solved(const job *j, int64_t value, char *to, size_t cap) {
  if (j->segments)
    snprintf(to, cap, "%" PRId64 " segment%s", value, value == 1 ? "" : "s");
  else
    snprintf(to, cap, "%s %" PRId64, j->rank ? "rank" : j->solve ? j->solve : "batch", value);
  return to;
}

static void print_trial(const job *j, const char *text, const vram_trial *t) {
  char value[MAX_NODE_NAME + 32];
  if (!t->value)
    return;
  printf("%-15s %-14s", text, solved(j, t->value, value, sizeof value));
  if (!t->report.device_bytes.expected) {
    printf(" more than 2^63-1 bytes\n");
    return;
  }
  printf(" device %9s", cmd_human(t->report.device_bytes.expected));
  printf(" %s(%s to %s)%s", cmd_dim, cmd_human(t->report.device_bytes.lower),
         cmd_human(t->report.device_bytes.upper), cmd_plain);
  printf(", allocated %s", cmd_human(t->report.peak_allocated_bytes.expected));
  if (t->report.fits && t->report.num_alloc_retries)
    printf("; cached memory goes back %" PRIu64 " time%s", t->report.num_alloc_retries,
           t->report.num_alloc_retries == 1 ? "" : "s");
  printf("\n");
}

/* The largest size: first the one for which no cached memory goes back, which takes time at every
   step. */
static void print_fits(const job *j, const char *text, const vram_solution *s) {
  const int tight = s->calm.value && s->calm.value < s->fits.value;
  print_trial(j, text, tight ? &s->calm : &s->fits);
  printf("%s", cmd_plain);
  if (tight)
    print_trial(j, *text ? "fits tightly" : "tightly", &s->fits);
}

/* What the smallest size that was tried is made of, the largest parts first: that limits. */
static void print_parts(const vram_trial *t) {
  const uint64_t *of = t->report.peak_category_bytes;
  char said[VRAM_CATEGORY_COUNT] = "";
  int i, k, most;
  if (!t->report.device_bytes.expected)
    return;
  for (k = 0; k < 4; k++) {
    for (most = -1, i = 0; i < VRAM_CATEGORY_COUNT; i++)
      if (!said[i] && of[i] && (most < 0 || of[i] > of[most]))
        most = i;
    if (most < 0)
      break;
    printf("%s %s %s", k ? "," : "at its peak    ", vram_category_name((vram_category)most),
           cmd_human(of[most]));
    said[most] = 1;
  }
  printf("\n");
}

static void print_solution(const job *j, const vram_solution *s) {
  char mode[256], value[MAX_NODE_NAME + 32];
  job_mode(j, mode, sizeof mode);
  printf("%s%s%s  %s  budget %s%s%s\n\n%s", cmd_bold, j->model, cmd_plain, mode,
         cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "", cmd_bold);
  if (s->fits.value)
    print_fits(j, "fits", s);
  else
    printf("nothing fits%s\n%s", s->stopped ? " of what was tried" : "", cmd_plain);
  if (s->next.value) {
    print_trial(j, "does not fit", &s->next);
    if (!s->fits.value)
      print_parts(&s->next);
  } else if (s->fits.value && !j->segments && !s->stopped)
    printf("%s\n", s->limit
                       ? "a larger one is beyond a limit of this program (vram.h: VRAM_MAX_...)"
                       : "no larger one was found that the model allows");
  print_trial(j, "multiple of 8", &s->eights);
  print_trial(j, "power of two", &s->power);
  if (s->fits.value)
    print_trial(j, "fewest bytes", &s->least);
  printf("\n%" PRIu32 " values tried; ", s->tried);
  if (s->stopped)
    printf("stopped: larger ones may fit\n");
  else if (j->segments)
    printf("every number of segments,\n"
           "because more of them keep more inputs and fewer recompute more at once\n");
  else if (s->larger)
    printf("not monotone: %s takes less than %" PRId64 " (kernels and copies that depend on the "
           "size)\n",
           solved(j, s->larger, value, sizeof value), s->smaller);
  else
    printf("monotone in them\n");
}

static void json_trial(const char *key, const vram_trial *t) {
  const vram_report *r = &t->report;
  printf(",\"%s\":", key);
  if (!t->value)
    printf("null");
  else
    printf("{\"value\":%" PRId64 ",\"peak_allocated_bytes\":%" PRIu64 ",\"device_bytes\":%" PRIu64
           "}",
           t->value, r->peak_allocated_bytes.expected, r->device_bytes.expected);
}

/* null: there is no such value */
static void json_value(const char *key, const vram_trial *t, uint64_t number) {
  printf(",\"%s\":", key);
  if (t->value)
    printf("%" PRIu64, number);
  else
    printf("null");
}

static void print_solution_json(const job *j, const vram_solution *s) {
  char mode[256];
  job_mode(j, mode, sizeof mode);
  printf("{\"model\":");
  cmd_json_text(stdout, j->model);
  printf(",\"mode\":");
  cmd_json_text(stdout, mode);
  printf(",\"rules\":\"%s\",\"solve\":", vram_rules_name(s->rules));
  if (j->solve)
    printf("\"dim:%s\"", j->solve);
  else
    cmd_json_text(stdout, j->segments ? "segments" : j->rank ? "lora" : "batch");
  printf(",\"budget_bytes\":%" PRIu64, j->budget);
  json_value("value", &s->fits, (uint64_t)s->fits.value);
  json_value("next", &s->next, (uint64_t)s->next.value);
  json_value("peak_allocated_bytes", &s->fits, s->fits.report.peak_allocated_bytes.expected);
  json_value("next_peak_allocated_bytes", &s->next, s->next.report.peak_allocated_bytes.expected);
  json_value("device_bytes", &s->fits, s->fits.report.device_bytes.expected);
  json_value("next_device_bytes", &s->next, s->next.report.device_bytes.expected);
  json_trial("without_retries", &s->calm);
  json_trial("multiple_of_8", &s->eights);
  json_trial("power_of_two", &s->power);
  json_trial("fewest_bytes", &s->least);
  printf(",\"monotone\":%s,\"tried\":%" PRIu32 ",\"stopped\":%s}\n",
         s->larger || j->segments ? "false" : "true", s->tried, s->stopped ? "true" : "false");
}

/* ---- what to change where nothing fits ---- */

/* A dim of the model: the k-th behind the first that no loop has for its depth. 0: there is none.
 */
static int dim_name(const char *text, int k, char *to, size_t cap) {
  const char *line, *word;
  for (line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    if (strncmp(line, "dim ", 4))
      continue;
    for (word = line + 4 + strspn(line + 4, " "); (word = strchr(word, ' ')) != NULL;) {
      char loop[MAX_NODE_NAME + 8];
      const size_t n = strcspn(word += strspn(word, " "), "=");
      if (!n || n >= MAX_NODE_NAME || word[n] != '=' || n >= strcspn(word, "\n"))
        return 0;
      snprintf(loop, sizeof loop, "\nloop %.*s", (int)n, word);
      if (strstr(text, loop) || k--)
        continue;
      snprintf(to, cap, "%.*s", (int)n, word);
      return 1;
    }
    return 0;
  }
  return 0;
}

/* One proposal: its line, if it fits. */
static int print_change(job *j, const char *text, size_t len, const vram_solve_options *o,
                        const char *options) {
  vram_solution s;
  vram_error err;
  vram_result r;
  cmd_progress("vram fit: looking for what would fit", 0);
  r = vram_solve(text, len, o, &model_allocator, &s, &err);
  cmd_progress_end();
  if (r != VRAM_OK || !s.fits.value)
    return 0;
  printf("  %s\n", options);
  j->solve = o->dim;
  print_fits(j, "", &s);
  j->solve = NULL;
  return 1;
}

/* As it is, with checkpointed layers, with adapters on weights in 4 bits: the batch, and of one
   sample the other dims. What fits is said, and the first change with which the batch fits is the
   last. */
static void print_changes(job *j, const char *text, size_t len, const vram_solve_options *options) {
  vram_solve_options o = *options;
  vram_dim set[VRAM_MAX_DIMS + 1];
  char said[64] = "", line[MAX_NODE_NAME + 128], name[MAX_NODE_NAME + 1];
  int step, k, found = 0, any = 0;
  if (j->segments || j->solve || j->rank)
    return;
  printf("\nwhat would fit:\n");
  memcpy(set, o.set, o.nset * sizeof *set);
  for (step = 0; step < 3 && !found && !cmd_stopped(); step++) {
    const char *more = "";
    if (step == 1 && o.step.train && !o.checkpoint_nodes && !o.step.checkpoint_segments) {
      o.checkpoint_nodes = "layers";
      more = " --checkpoint layers";
    } else if (step == 2 && o.step.train && !o.quant) {
      more = o.lora ? " --quant nf4" : " --lora r=16 --quant nf4";
      o.quant = "nf4";
      o.lora = o.lora ? o.lora : "r=16";
    }
    if (step && !*more)
      continue;
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s", more);
    o.dim = NULL;
    o.set = options->set;
    o.nset = options->nset;
    if (step)
      any |= found = print_change(j, text, len, &o, said + 1);
    set[o.nset].name = NULL;
    set[o.nset].value = 1;
    o.set = set;
    o.nset++;
    for (k = 0; !found && !cmd_stopped() && dim_name(text, k, name, sizeof name); k++) {
      o.dim = name;
      snprintf(line, sizeof line, "--batch 1 --solve dim:%s%s", name, said);
      any |= print_change(j, text, len, &o, line);
    }
  }
  if (cmd_stopped())
    printf("  stopped: larger ones and others may fit\n");
  else if (!any)
    printf("  nothing: neither one sample%s\n",
           o.step.train ? ", nor checkpointed layers, nor adapters on weights in 4 bits" : "");
}

/* ---- many devices ---- */

/* The rank that the next search is for: the fullest with `value` (0: of the model as it stands), if
   that does not fit. 0: all fit, or *status is not FITS. */
static int next_rank(const job *j, const char *text, size_t len, int64_t value, uint32_t *rank,
                     int *status) {
  job at = *j;
  rank_table t;
  int more;
  at.o.parallel = &at.parallel;
  if (value && at.ndims < VRAM_MAX_DIMS) {
    at.dims[at.ndims].name = j->solve;
    at.dims[at.ndims++].value = value;
  }
  *status = ranks_play(&at, text, len, &t);
  more = !*status && (!value || !t.row[t.fullest].fits);
  *rank = at.at_rank;
  ranks_end(&t);
  return more;
}

/* vram_solve for every rank: of the fullest, and again where another one is fuller with what fits
   it. r: what vram_solve says; not FITS: message printed. */
static int fit_ranks(job *j, const char *text, size_t len, vram_solve_options *o, vram_solution *s,
                     vram_error *err) {
  vram_solution found;
  int status, tries = 0;
  uint32_t rank;
  memset(err, 0, sizeof *err);
  memset(s, 0, sizeof *s);
  if (!next_rank(j, text, len, 0, &rank, &status))
    return status;
  do {
    j->parallel.rank = rank;
    if (vram_solve(text, len, o, &model_allocator, &found, err) != VRAM_OK)
      return FITS;
    if (!tries || found.fits.value < s->fits.value) {
      *s = found;
      j->at_rank = rank;
    }
    j->parallel.rank = j->at_rank;
  } while (++tries < 8 && !found.stopped && s->fits.value && !j->rank && !j->segments &&
           next_rank(j, text, len, s->fits.value, &rank, &status) && rank != j->at_rank);
  return status;
}

int fit_command(int argc, char **argv) {
  job j;
  vram_solve_options o;
  vram_solution s;
  vram_error err;
  char *text = NULL;
  size_t len = 0;
  int status, failed;
  const char *model = model_argument(help_fit, argc, argv);
  int i;
  for (i = 0; i < argc; i++)
    if (!strcmp(argv[i], "--engine"))
      return model && model_sniff(model) ? model_serve(model, argc, argv, 1)
                                         : serve_command(argc, argv, NULL, 1);
  if (model && model_sniff(model) == VRAM_FILE_GGUF)
    return model_fit(argc, argv);
  if (model && pipeline_is(model))
    return pipeline_fit(argc, argv);
  if (model && !model_sniff(model) && model_refuse(model, argc, argv))
    return USAGE;
  memset(&j, 0, sizeof j);
  j.o.replay = &j.pool;
  memset(&o, 0, sizeof o);
  j.command = "fit";
  j.top = AUTO_SHOWN;
  status = job_arguments(&j, argc, argv);
  if (status || !j.model)
    return status;
  if (j.csv && !j.every_way)
    return cmd_bad("an option of --parallel auto:", "--csv", NULL);
  if (!j.has_budget)
    return cmd_bad("no budget", NULL, "--budget SIZE or --gpu NAME");
  if (j.rank && !j.lora)
    return cmd_bad("no adapters to solve for", NULL, "--lora r=8");
  if (j.segments && !j.o.train)
    return cmd_bad("segments are for training", NULL, "--train OPT");
  if (j.segments && (j.o.checkpoint_segments || j.checkpoint))
    return cmd_bad("segments are what is solved for, not",
                   j.checkpoint ? "--checkpoint-nodes" : "--checkpoint", NULL);
  if (j.generate)
    return generate_fit(&j);
  status = model_read(j.model, &j, &text, &len);
  if (status)
    return status;
  if (j.every_way) {
    status = auto_command(&j, text, len);
    free(text);
    return status;
  }
  o.budget_bytes = j.budget;
  o.dim = j.solve;
  o.segments = j.segments;
  o.rank = j.rank;
  o.calm = 1;
  o.last_batch = j.last_batch;
  o.eval_batch = j.eval_batch;
  o.dry_run_batch = j.dry_run_batch;
  o.set = j.dims;
  o.nset = j.ndims;
  o.checkpoint_nodes = j.checkpoint;
  o.lora = j.lora;
  o.freeze = j.freeze;
  o.inplace = j.in_place;
  o.quant = j.quant;
  o.step = j.o;
  o.stop = cmd_stop;
  cmd_progress("vram fit: trying sizes", 0);
  cmd_stoppable();
  if (j.spec && (j.all_ranks || !j.rank_given)) {
    status = fit_ranks(&j, text, len, &o, &s, &err);
    failed = err.code != VRAM_OK;
  } else
    failed = vram_solve(text, len, &o, &model_allocator, &s, &err) != VRAM_OK;
  cmd_progress_end();
  if (status) {
    free(text);
    return status;
  }
  if (failed)
    status = err.code == VRAM_ERR_MEMORY ? cmd_no_memory() : model_error(&j, &err);
  else if ((status = job_model_dtype(&j, (s.fits.value ? s.fits : s.next).report.dtype)) == FITS) {
    if (j.json)
      print_solution_json(&j, &s);
    else
      print_solution(&j, &s);
    if (!j.json && !s.fits.value && !s.stopped)
      print_changes(&j, text, len, &o);
    status = s.fits.value ? FITS : s.stopped ? OTHER : TOO_LARGE;
  }
  free(text);
  return status;
}
