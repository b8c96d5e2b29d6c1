/* vram fit of a GGUF file: the most context, sequences or layers with which each device fits. */
#include "vram_model.h"

enum {
  CTX_STEP = 256,  /* llama.cpp pads a context to this */
  MOST_SLOTS = 256 /* LLAMA_MAX_SEQ */
};

typedef enum solve_for { FOR_CTX, FOR_SLOTS, FOR_NGL, FOR_MOE } solve_for;
static const char *const option[] = {"--ctx", "--slots", "--ngl", "--n-cpu-moe"};

typedef struct trial {
  uint32_t step, value;
  uint64_t need; /* of the device that has the least left, or lacks the most */
  int64_t over;  /* what that device lacks; negative: has left */
  int is_known;  /* 0: more than 2^63-1 bytes, and no report */
  vram_llama_report r;
} trial;

typedef struct search {
  file_job j;
  const model_file *m;
  void *memory; /* of vram_llama */
  solve_for what;
  uint32_t most; /* the last step; each takes more of the devices than the one before */
  uint32_t tried;
  int has_fit;
  trial fits, next; /* next: one step more; where nothing fits, what needs least */
  vram_result code; /* why it cannot be said */
  vram_error why;
} search;

typedef struct change { /* that may help where nothing fits */
  char options[64];
  uint64_t need;
  int fits;
} change;

/* ---- steps ---- */

/* A count that the file holds as ARCHITECTURE.key; 0: there is none. */
static uint32_t file_count(const vram_file *f, const char *key) {
  const vram_file_value *v = vram_file_get(f, "general.architecture", 20);
  char name[128];
  int n;
  if (!v || v->kind != VRAM_VALUE_TEXT || v->count > 64)
    return 0;
  n = snprintf(name, sizeof name, "%.*s.%s", (int)v->count, v->text, key);
  v = vram_file_get(f, name, (uint32_t)n);
  return v && v->kind == VRAM_VALUE_UINT && v->number.u < INT32_MAX ? (uint32_t)v->number.u : 0;
}

/* Sequences with a context of their own. */
static uint32_t streams(const search *s) {
  const uint32_t n = s->j.o.unified ? 1 : s->j.o.slots;
  return n ? n : 1;
}

static uint32_t each_ctx(const search *s) {
  return s->j.o.n_ctx ? s->j.o.n_ctx : file_count(&s->m->f, "context_length");
}

static uint32_t value_at(const search *s, uint32_t step) {
  switch (s->what) {
  case FOR_CTX:
    return (step + 1) * CTX_STEP * streams(s);
  case FOR_SLOTS:
    return step + 1;
  case FOR_MOE:
    return s->most - step;
  default:
    return step;
  }
}

/* s->most: no sequence is longer than in training. 0: the question has no meaning for this file. */
static int begin(search *s, solve_for what) {
  const uint32_t layers = file_count(&s->m->f, "block_count");
  const uint32_t trained = file_count(&s->m->f, "context_length");
  const uint32_t highest = INT32_MAX - CTX_STEP + 1; /* of contexts: a multiple of the step */
  uint32_t steps;
  s->what = what;
  if (what == FOR_NGL || what == FOR_MOE) {
    s->most = layers + (what == FOR_NGL);
    return layers && (what == FOR_NGL || file_count(&s->m->f, "expert_count"));
  }
  if (what == FOR_CTX) {
    const uint32_t limit = highest / CTX_STEP / streams(s);
    steps = (trained + CTX_STEP - 1) / CTX_STEP;
    if (steps > limit)
      steps = limit;
  } else {
    const uint32_t each = each_ctx(s);
    steps = each ? highest / each : 0;
    if (steps > MOST_SLOTS)
      steps = MOST_SLOTS;
  }
  s->most = steps ? steps - 1 : 0;
  return steps > 0;
}

static void set_value(search *s, vram_llama_options *o, uint32_t value) {
  if (s->what == FOR_CTX)
    o->n_ctx = value;
  else if (s->what == FOR_SLOTS) {
    o->n_ctx = each_ctx(s) * value;
    o->slots = value;
  } else if (s->what == FOR_NGL) {
    o->layers = value;
    o->has_layers = 1;
  } else
    o->n_cpu_moe = value;
}

/* ---- search ---- */

/* 1: these options fit. 0: they do not, or s->code says why nobody knows. */
static int try_options(search *s, const vram_llama_options *o, trial *t) {
  vram_error e;
  const vram_result code = vram_llama(&s->m->f, o, s->memory, VRAM_LLAMA_MEMORY, &t->r, &e);
  uint32_t i;
  s->tried++;
  t->is_known = !code;
  t->need = code ? UINT64_MAX : 0;
  t->over = code ? INT64_MAX : INT64_MIN;
  for (i = 0; i < t->r.ndevice && !code; i++) {
    const int64_t over = (int64_t)t->r.device_bytes[i] - (int64_t)model_budget(&s->j, i);
    if (over > t->over) {
      t->over = over;
      t->need = t->r.device_bytes[i];
    }
  }
  if (code && code != VRAM_ERR_OVERFLOW && !s->code) {
    s->code = code;
    s->why = e;
  }
  return !code && model_fits(&s->j, &t->r, 1);
}

static int try_step_as(search *s, uint32_t step, int without_compute, trial *t) {
  vram_llama_options o = s->j.o;
  t->step = step;
  t->value = value_at(s, step);
  set_value(s, &o, t->value);
  o.without_compute = (uint8_t)without_compute;
  return try_options(s, &o, t);
}

static int try_step(search *s, uint32_t step, trial *t) { return try_step_as(s, step, 0, t); }

/* Weights and caches alone: it may fit, or need less than what needs least so far. */
static int could_be_less(search *s, uint32_t step) {
  trial t;
  try_step_as(s, step, 1, &t);
  return !t.is_known || t.over <= 0 || t.over < s->next.over;
}

/* Weights and caches alone would do, shared out evenly. They grow with each step, which compute
   buffers and the fullest device's share do not: no step behind one that could not fit fits. */
static int could_fit(const search *s, const trial *t) {
  uint64_t sum = 0, room = 0;
  uint32_t i;
  for (i = 0; i < t->r.ndevice; i++)
    room = room > UINT64_MAX - model_budget(&s->j, i) ? UINT64_MAX : room + model_budget(&s->j, i);
  for (i = 0; i < t->r.nbuffer; i++)
    if (t->r.buffer[i].device >= 0)
      sum += t->r.buffer[i].model_bytes + t->r.buffer[i].context_bytes;
  return t->is_known && sum <= room;
}

/* Each number of layers from the highest on that could fit. Where nothing does, s->next becomes
   what needs least. */
static void solve_layers(search *s) {
  uint32_t low = 0, high = s->most + 1, step;
  trial t;
  while (high - low > 1 && !s->code && !cmd_stopped()) {
    const uint32_t middle = low + (high - low) / 2;
    try_step_as(s, middle, 1, &t);
    if (could_fit(s, &t))
      low = middle;
    else
      high = middle;
  }
  for (step = low + 1; step-- && !s->has_fit && !s->code;) {
    if (step < low && cmd_stopped())
      step = 0; /* takes least */
    else if (step < low && !could_be_less(s, step))
      continue;
    s->has_fit = try_step(s, step, &s->fits);
    if (step == low || s->fits.over < s->next.over)
      s->next = s->fits;
  }
  if (s->has_fit)
    try_step(s, s->fits.step + 1, &s->next);
}

/* Contexts and sequences: each one adds rows to the same tensors. */
static void solve_rows(search *s) {
  uint32_t low = 0, high = s->most;
  trial t;
  s->has_fit = try_step(s, low, &s->fits);
  s->next = s->fits;
  if (!s->has_fit || s->code)
    return;
  while (high - low > 1 && !s->code && !cmd_stopped()) {
    const uint32_t middle = low + (high - low) / 2;
    if (try_step(s, middle, &t)) {
      s->fits = t;
      low = middle;
    } else
      high = middle;
  }
  try_step(s, high, &s->next);
}

static void solve(search *s) {
  s->has_fit = try_step(s, s->most, &s->fits);
  if (s->has_fit || s->code)
    return;
  if (s->what == FOR_NGL || s->what == FOR_MOE)
    solve_layers(s);
  else
    solve_rows(s);
}

static int has_next(const search *s) { return !s->has_fit || s->fits.step < s->most; }

/* ---- what to change where nothing fits ---- */

/* 1: it is one, for it takes less. */
static int add_change(const search *s, const char *options, const trial *t, int fits, change *to) {
  snprintf(to->options, sizeof to->options, "%s %" PRIu32 " %s", option[s->what], s->next.value,
           options);
  to->need = t->need;
  to->fits = fits;
  return t->over < s->next.over;
}

/* Another question at what needs least, and a cache of 8 bits; how many there are. */
static int find_changes(search *s, change to[4]) {
  static const solve_for others[] = {FOR_NGL, FOR_MOE, FOR_CTX};
  search least = *s, other;
  char text[48];
  trial t;
  int n = 0;
  size_t i;
  set_value(s, &least.j.o, s->next.value);
  for (i = 0; i < sizeof others / sizeof *others; i++) {
    const trial *found;
    other = least;
    if (others[i] == s->what || !begin(&other, others[i]))
      continue;
    solve(&other);
    found = other.has_fit ? &other.fits : &other.next;
    snprintf(text, sizeof text, "%s %" PRIu32, option[others[i]], found->value);
    if (!other.code && found->is_known)
      n += add_change(s, text, found, other.has_fit, to + n);
    s->tried = least.tried = other.tried;
  }
  if (cmd_in(vram_dtype_name(least.j.o.cache_k ? least.j.o.cache_k : VRAM_F16), "f16 bf16 f32")) {
    int fits;
    least.j.o.cache_k = least.j.o.cache_v = VRAM_Q8_0;
    fits = try_options(&least, &least.j.o, &t);
    if (!least.code && t.is_known)
      n += add_change(s, "--kv q8_0", &t, fits, to + n);
    s->tried = least.tried;
  }
  return n;
}

/* ---- output ---- */

static void print_trial(const search *s, const char *verdict, const trial *t) {
  char value[32];
  snprintf(value, sizeof value, "%s %" PRIu32, option[s->what] + 2, t->value);
  if (t->is_known)
    printf("%-14s %-18s a device %s\n", verdict, value, cmd_human(t->need));
  else
    printf("%-14s %-18s a device more than 2^63-1 bytes\n", verdict, value);
}

static void print_fit(search *s) {
  const trial *const shown = s->has_fit ? &s->fits : &s->next;
  change c[4];
  int i, n;
  printf("%s%s%s  budget %s\n\n%s", cmd_bold, s->m->path, cmd_plain, model_devices(&s->j),
         cmd_bold);
  if (s->has_fit)
    print_trial(s, s->fits.r.compute == VRAM_LLAMA_EXACT ? "fits" : "may fit", &s->fits);
  else
    printf("nothing fits%s\n", cmd_stopped() ? " of what was tried" : "");
  printf("%s", cmd_plain);
  if (has_next(s))
    print_trial(s,
                !s->has_fit                                            ? "needs least"
                : s->next.is_known && model_fits(&s->j, &s->next.r, 0) ? "may fit"
                                                                       : "does not fit",
                &s->next);
  else
    printf("no more: %s\n", s->what == FOR_CTX   ? "as long as in training"
                            : s->what == FOR_NGL ? "all layers, with the output"
                            : s->what == FOR_MOE ? "no experts on the host"
                                                 : "the most sequences that there may be");
  if (cmd_stopped())
    printf("stopped: larger ones may fit\n");
  if (shown->is_known)
    model_llama_print(&s->j, &shown->r);
  n = s->has_fit || cmd_stopped() ? 0 : find_changes(s, c);
  if (n)
    printf("\nwhat would take less:\n");
  for (i = 0; i < n; i++)
    printf("  %-32s a device %9s, %s\n", c[i].options, cmd_human(c[i].need),
           c[i].fits ? "fits" : "does not fit");
}

static void json_number(const char *key, int is_there, uint64_t number) {
  if (is_there)
    printf(",\"%s\":%" PRIu64, key, number);
  else
    printf(",\"%s\":null", key);
}

static void print_fit_json(search *s) {
  const trial *const shown = s->has_fit ? &s->fits : &s->next;
  change c[4];
  const int n = s->has_fit || cmd_stopped() ? 0 : find_changes(s, c);
  int i;
  model_summary_json(s->m, s->j.model);
  if (shown->is_known)
    model_llama_json(&s->j, &shown->r);
  printf(",\"solve\":\"%s\"", option[s->what] + 2);
  json_number("value", s->has_fit, s->fits.value);
  json_number("next", has_next(s), s->next.value);
  json_number("device_bytes", s->has_fit, s->fits.need);
  json_number("next_device_bytes", has_next(s) && s->next.is_known, s->next.need);
  printf(",\"changes\":[");
  for (i = 0; i < n; i++)
    printf("%s{\"options\":\"%s\",\"device_bytes\":%" PRIu64 ",\"fits\":%s}", i ? "," : "",
           c[i].options, c[i].need, c[i].fits ? "true" : "false");
  printf("],\"tried\":%" PRIu32 ",\"stopped\":%s}\n", s->tried, cmd_stopped() ? "true" : "false");
}

/* ---- the command ---- */

/* Not FITS: message printed. */
static int check(const file_job *j) {
  const int is_given[] = {j->o.n_ctx != 0, j->o.slots != 0, j->o.has_layers, j->o.n_cpu_moe != 0};
  if (!j->nbudget)
    return cmd_bad("no budget", NULL, "--budget SIZE or --gpu NAME");
  if (j->o.is_cpu)
    return cmd_bad("--device cpu leaves no device that something could fit", NULL, NULL);
  if (is_given[j->solve])
    return cmd_bad("what is solved for is given:", option[j->solve], NULL);
  return FITS;
}

static int run(search *s) {
  if (!begin(s, (solve_for)s->j.solve)) {
    cmd_say("%s: %s", s->m->path,
            s->j.solve == FOR_MOE   ? "no layers of experts, for --solve n-cpu-moe"
            : s->j.solve == FOR_NGL ? "no count of layers, for --solve ngl"
            : each_ctx(s)           ? "expected is a context of 1 to 2147483392 tokens, --ctx N"
                                    : "no length of context in training, expected --ctx N");
    return USAGE;
  }
  cmd_progress("vram fit: trying sizes", 0);
  cmd_stoppable();
  solve(s);
  cmd_progress_end();
  if (s->code) {
    cmd_say("%s: %s", s->m->path, s->why.text);
    return USAGE;
  }
  if (s->j.json)
    print_fit_json(s);
  else
    print_fit(s);
  return s->has_fit ? FITS : cmd_stopped() ? OTHER : TOO_LARGE;
}

int model_fit(int argc, char **argv) {
  model_file m;
  search s;
  int status;
  memset(&s, 0, sizeof s);
  status = model_arguments(&s.j, "fit", argc, argv);
  if (!status && s.j.model)
    status = check(&s.j);
  if (status || !s.j.model)
    return status;
  s.m = &m;
  s.memory = malloc((size_t)VRAM_LLAMA_MEMORY);
  if (!s.memory)
    return cmd_no_memory();
  status = model_file_open(&m, s.j.model);
  if (!status)
    status = run(&s);
  model_file_close(&m);
  free(s.memory);
  return status;
}
