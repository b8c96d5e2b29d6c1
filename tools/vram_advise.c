/* vram advise: what to change so that a step fits, or takes less; why there was no memory. */
#include "vram_advise.h"
#include "vram_model.h"
#include "vram_pipeline.h"

cmd_text help_advise = {
    "vram advise MODEL [--gpu NAME | --budget SIZE] [options]   what to change\n"
    "vram advise --message FILE|- [MODEL ...]                    why it did not fit\n"
    "\n"
    "Plays the step as it is, then with each change that applies, and where it does\n"
    "not fit, with two and three: the cheapest that fit come first. A change that\n"
    "gives the same numbers is cheaper than one that rounds, that is cheaper than\n"
    "another training, and that than smaller inputs; then count operations, and\n"
    "bytes sent (2000 operations each). * marks what nothing beats in all of it.\n"
    "What holds more than the budget in parameters, gradients and state alone is\n"
    "not played; what looks as if it fits is played first.\n"
    "Each command that is shown gives the same figures when it is typed.\n"
    "\n"
    "  --message FILE|-      a log with the message of PyTorch (since 1.0), JAX,\n"
    "                        TensorFlow or llama.cpp: what was asked, what there was,\n"
    "                        which of the causes it is, and what to do; with MODEL\n"
    "                        the device's memory in it is the budget\n"
    "  --devices N           the step may be divided among N devices, the batch, too\n"
    "  --top N|all           so many ways are shown, those that nothing beats and,\n"
    "                        where it does not fit, those of other options (default:\n"
    "                        8); all: every one, and why others do not apply\n"
    "  --tries N             steps that are played at most (default: 200).\n"
    "                        Environment: VRAM_THREADS, at a time\n"
    "\n",
    HELP_STEP, HELP_DEVICES,
    "output\n"
    "  --json                one JSON object on standard output, nothing else\n"
    "  --units iec|si|bytes  MiB (default), MB or plain numbers\n"
    "\n"
    "Not of this command: --generate, --last-batch, --eval-batch, --dry-run-batch,\n"
    "--deepspeed and --rank all.\n"
    "Ctrl-C ends it with the best so far (a second one ends it at once).\n"
    "Exit status 3: nothing that was tried fits.\n",
    NULL};

/* ---- arguments ---- */

/* What is of this command alone, or says nothing about the step. */
static int is_own(const char *a) {
  return cmd_in(a, "--message --devices --top --tries --json --units");
}

static int keep_word(advise_job *a, const char *word, const char *value) {
  if (a->nword == ADVISE_WORDS)
    return cmd_bad("too many options", NULL, NULL), 0;
  a->word[a->nword] = word;
  a->value[a->nword++] = value;
  return 1;
}

/* How many arguments it took; 0: error printed. */
static int advise_option(advise_job *a, const char *name, const char *value) {
  int n;
  if (cmd_in(name, "--message --tries") && (!value || !*value))
    return cmd_bad("no value behind", name, NULL), 0;
  if (!strcmp(name, "--message"))
    return a->message = value, 2;
  if (!strcmp(name, "--tries"))
    return cmd_parse_count(value, 1, 100000, &a->most)
               ? 2
               : (cmd_bad("not a number of steps", value, "1 to 100000"), 0);
  n = job_option(&a->j, name, value);
  if (n && !is_own(name) && !keep_word(a, name, n > 1 ? value : NULL))
    return 0;
  return n;
}

static int advise_check(advise_job *a) {
  job *j = &a->j;
  const uint32_t devices = j->devices;
  int status;
  if (!j->model)
    return cmd_bad("no model", NULL, "vram advise MODEL; vram advise -h");
  if (j->deepspeed)
    return cmd_bad("not an option of this command", "--deepspeed", "vram advise -h");
  if (j->gpus)
    return cmd_bad("one device is expected in --gpu, not", j->gpus, "one");
  if (j->last_batch || j->eval_batch || j->dry_run_batch)
    return cmd_bad("steps beside the usual one are not played here:",
                   j->last_batch   ? "--last-batch"
                   : j->eval_batch ? "--eval-batch"
                                   : "--dry-run-batch",
                   NULL);
  if (j->all_ranks)
    return cmd_bad("one rank is expected, not", "--rank all", "--rank R");
  if (devices > 1 && j->spec)
    return cmd_bad("--devices are to be tried, and there is", "--parallel", NULL);
  j->devices = 0;
  j->top_given = NULL;
  status = job_check(j);
  j->devices = devices;
  return status;
}

/* Not FITS: message printed. j.model NULL: help was, or there is but a message. */
static int advise_arguments(advise_job *a, int argc, char **argv) {
  int i;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      a->j.model = a->message = NULL;
      return cmd_help(help_advise, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      const int n = advise_option(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (a->j.model)
      return cmd_bad("a second model", argv[i], "one");
    else
      a->j.model = argv[i++];
  }
  if (!a->j.model && a->message) {
    const char *of_step = a->nword         ? a->word[0]
                          : a->j.devices   ? "--devices"
                          : a->j.top_given ? "--top"
                          : a->most        ? "--tries"
                                           : NULL;
    return of_step ? cmd_bad("an option of a step, and no model:", of_step, "MODEL") : FITS;
  }
  return advise_check(a);
}

/* ---- the message ---- */

/* What the device has for this process, beside others, becomes the budget where none is given.
   What the driver keeps is none of them. */
static int budget_of_message(advise_job *a, const vram_message *m) {
  const uint32_t both = 1u << VRAM_MESSAGE_TOTAL | 1u << VRAM_MESSAGE_ALLOWED;
  uint64_t bytes = m->bytes[VRAM_MESSAGE_TOTAL];
  job *j = &a->j;
  if (j->has_budget)
    return FITS;
  if (!(m->known & both))
    return cmd_bad("the message does not say how large the device is", NULL,
                   "--gpu NAME or --budget SIZE");
  if (m->known >> VRAM_MESSAGE_ALLOWED & 1u && (!bytes || m->bytes[VRAM_MESSAGE_ALLOWED] < bytes))
    bytes = m->bytes[VRAM_MESSAGE_ALLOWED];
  else if (m->known >> VRAM_MESSAGE_OTHERS & 1u && m->bytes[VRAM_MESSAGE_OTHERS] < bytes &&
           m->bytes[VRAM_MESSAGE_OTHERS] > bytes / 64 &&
           m->bytes[VRAM_MESSAGE_OTHERS] > UINT64_C(256) << 20)
    bytes -= m->bytes[VRAM_MESSAGE_OTHERS];
  snprintf(a->budget, sizeof a->budget, "%" PRIu64 "B", bytes);
  j->budget = j->o.budget_bytes = bytes;
  j->has_budget = 1;
  return keep_word(a, "--budget", a->budget) ? FITS : USAGE;
}

static int read_message(const advise_job *a, vram_message *m) {
  char *text = NULL;
  size_t len = 0;
  int status = cmd_read(a->message, &text, &len);
  if (status)
    return status;
  if (!vram_message_read(text, len, m)) {
    cmd_say("%s: no message of too little memory (expected PyTorch's, XLA's or llama.cpp's)",
            a->message);
    status = USAGE;
  }
  free(text);
  return status;
}

/* ---- the advice ---- */

static void options_of(const advise_job *a, vram_advise_options *o) {
  const job *j = &a->j;
  memset(o, 0, sizeof *o);
  o->step.budget_bytes = j->has_budget ? j->budget : 0;
  o->step.set = j->dims;
  o->step.nset = j->ndims;
  o->step.checkpoint_nodes = j->checkpoint;
  o->step.lora = j->lora;
  o->step.quant = j->quant;
  o->step.freeze = j->freeze;
  o->step.inplace = j->in_place;
  o->step.step = j->o;
  o->step.stop = cmd_stop;
  o->is_planned = j->automatic;
  o->batches = j->has_budget;
  o->devices = j->devices;
  o->most = (uint32_t)a->most;
  o->threads = threads_for(THREADS_MOST);
  o->run = threads_run;
}

static int advise_model(advise_job *a, const vram_message *m) {
  vram_advise_options o;
  vram_advice v;
  vram_error err;
  vram_result r;
  char *text = NULL;
  size_t len = 0;
  uint32_t i;
  int status = model_read(a->j.model, &a->j, &text, &len), fits;
  if (status)
    return status;
  options_of(a, &o);
  cmd_progress("vram advise: playing changes", 0);
  cmd_stoppable();
  r = vram_advise(text, len, &o, &model_allocator, &v, &err);
  cmd_progress_end();
  if (r) {
    free(text);
    return err.code == VRAM_ERR_MEMORY ? cmd_no_memory() : model_error(&a->j, &err);
  }
  status = job_model_dtype(&a->j, v.now.report.dtype);
  fits = !a->j.has_budget || v.now.fits;
  for (i = 0; i < v.nline && !fits; i++)
    fits = v.line[i].fits;
  if (!status && a->j.json) {
    printf("{");
    if (m) {
      message_json(m);
      printf(",");
    }
    advise_json(a, &v);
    printf("}\n");
  } else if (!status) {
    if (m) {
      message_print(a, m);
      printf("\n");
    }
    advise_print(a, &v);
  }
  if (!status)
    status = fits ? FITS : v.stopped ? OTHER : TOO_LARGE;
  vram_advice_free(&v, &model_allocator);
  free(text);
  return status;
}

int advise_command(int argc, char **argv) {
  advise_job a;
  vram_message m;
  int status;
  const char *model = model_argument(help_advise, argc, argv);
  if (model && pipeline_is(model))
    return cmd_bad("a pipeline of diffusers has several models:", model,
                   "one of its folders, as in DIR/unet, or the text form");
  if (model && model_sniff(model) == VRAM_FILE_GGUF)
    return kind_refuse_model(model, VRAM_FILE_GGUF, "a model in the text form");
  memset(&a, 0, sizeof a);
  a.j.command = "advise";
  a.j.o.replay = &a.j.pool;
  a.j.top = ADVISE_SHOWN;
  status = advise_arguments(&a, argc, argv);
  if (status || (!a.j.model && !a.message))
    return status;
  if (!a.message)
    return advise_model(&a, NULL);
  status = read_message(&a, &m);
  if (!status && a.j.model)
    status = budget_of_message(&a, &m);
  if (status)
    return status;
  if (a.j.model)
    return advise_model(&a, &m);
  if (a.j.json) {
    printf("{");
    message_json(&m);
    printf("}\n");
  } else
    message_print(&a, &m);
  return FITS;
}
