/* vram estimate --generate: a prompt, then one token a step, on one device. */
#include "vram_generate.h"
#include "vram_estimate.h"
#include "vram_model.h"

/* What a generation sets: tokens of the step, before it, both, room of a static cache, the prompt,
   tokens that were generated before the step, that are asked for, and all with the prompt. */
static const char *const step_dim[STEP_DIMS] = {"S", "P", "T", "M", "Q", "G", "K", "L"};

static int grow(void **mem, uint64_t *have, uint64_t need) {
  if (need <= *have && *mem)
    return FITS;
  free(*mem);
  *mem = need <= (uint64_t)(size_t)-1 ? malloc((size_t)need) : NULL;
  *have = *mem ? need : 0;
  return *mem ? FITS : cmd_no_memory();
}

/* Has the text that dim, and has nobody set it? */
static int has_dim(const job *j, const vram_graph *g, const char *name) {
  uint32_t i;
  for (i = 0; i < j->ndims; i++)
    if (j->dims[i].name && !strcmp(j->dims[i].name, name))
      return 0;
  for (i = 0; i < g->ndim; i++)
    if (g->dim[i].len == strlen(name) && !memcmp(g->dim[i].name, name, g->dim[i].len))
      return 1;
  return 0;
}

static int part_parse(const job *j, part *p, const vram_dim *dims, uint32_t ndims) {
  vram_error err;
  const uint64_t need = vram_graph_parse_bytes(p->text, p->len, dims, ndims);
  if (!need)
    return cmd_bad("a model that is too large:", j->model, NULL);
  if (grow(&p->mem, &p->mem_bytes, need))
    return OTHER;
  vram_graph_init(&p->g, p->mem, p->mem_bytes);
  return vram_graph_parse(&p->g, p->text, p->len, dims, ndims, &err) ? model_error(j, &err) : FITS;
}

/* The part with the dims of that step; names: those of step_dims that it has. */
static int part_load(const generated *t, part *p, uint32_t step, const uint8_t *has) {
  const job *j = t->j;
  const int64_t past = step ? j->prompt + step - 1 : 0, tokens = step ? 1 : j->prompt;
  const int64_t all = j->prompt + j->new_tokens,
                value[STEP_DIMS] = {tokens,    past, past + tokens, all - 1,
                                    j->prompt, step, j->new_tokens, all};
  vram_dim dims[VRAM_MAX_DIMS + STEP_DIMS];
  uint32_t i, n = j->ndims;
  memcpy(dims, j->dims, n * sizeof *dims);
  for (i = 0; i < STEP_DIMS; i++)
    if (has[i]) {
      dims[n].name = step_dim[i];
      dims[n++].value = value[i];
    }
  return part_parse(j, p, dims, n);
}

/* Which of the dims that a generation sets the part has. */
static int part_dims(const generated *t, part *p, uint8_t *has) {
  const int status = part_parse(t->j, p, t->j->dims, t->j->ndims);
  int i;
  for (i = 0; !status && i < STEP_DIMS; i++)
    has[i] = (uint8_t)has_dim(t->j, &p->g, step_dim[i]);
  if (!status && !p->g.ncache)
    return cmd_bad("a text without cache lines cannot generate:", t->j->model,
                   "that of tools/export_torch.py --generate, or a config.json of transformers");
  if (!status && p == &t->part[0] && !has[0])
    return cmd_bad("a text that generates has no dim S, the tokens of a step:", t->j->model, NULL);
  return status;
}

static uint64_t all_of(const uint64_t *category) {
  uint64_t sum = 0;
  int i;
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    sum += category[i];
  return sum;
}

static int play_step(generated *t, part *p, uint32_t k) {
  vram_report r;
  vram_error err;
  step_figures *f = t->step + k;
  if (grow(&p->scratch, &p->scratch_bytes, vram_step_bytes(&p->g, &t->j->o)))
    return OTHER;
  if (vram_generation_step(&t->gen, &p->g, &t->j->o, p->scratch, p->scratch_bytes, &r, &err)) {
    cmd_bad(err.text, NULL, NULL);
    return err.code == VRAM_ERR_MEMORY ? OTHER : USAGE;
  }
  f->before = all_of(r.before_category_bytes);
  f->after = r.phase[VRAM_PHASE_FORWARD].requested_bytes;
  f->requested_peak = r.peak_requested_bytes;
  f->allocated_peak = r.peak_allocated_bytes.expected;
  f->reserved_peak = r.peak_reserved_bytes;
  f->cache = r.kv_cache_bytes;
  if (!k)
    t->first = r;
  t->last = r;
  if (r.device_bytes.lower > t->device.lower)
    t->device.lower = r.device_bytes.lower;
  if (r.device_bytes.expected > t->device.expected)
    t->device.expected = r.device_bytes.expected;
  if (r.device_bytes.upper > t->device.upper)
    t->device.upper = r.device_bytes.upper;
  return FITS;
}

/* Is the step one of that part, or of one behind it? */
static int begins(const part *p, int64_t prompt, uint32_t step) {
  return p->from <= (p->is_step ? 0 : prompt - 1) + (int64_t)step;
}

static int play(generated *t, uint32_t most) {
  const uint32_t count = (uint32_t)t->j->new_tokens;
  uint8_t has[MAX_PARTS][STEP_DIMS];
  uint32_t k, which = 0;
  uint64_t bytes;
  int status = FITS;
  for (k = 0; k < t->parts && !status; k++)
    status = part_dims(t, &t->part[k], has[k]);
  for (k = 0; k < t->parts && !status; k++)
    t->knows_new |= has[k][3] || has[k][6] || has[k][7];
  cmd_progress("vram: playing tokens", 0);
  for (k = 0; k < count && !status; k++) {
    part *p;
    while (k && which + 1 < t->parts && begins(&t->part[which + 1], t->j->prompt, k))
      which++;
    p = &t->part[which];
    status = part_load(t, p, k, has[which]);
    if (!status && !k) {
      t->j->o.rules = vram_step_rules(&p->g, &t->j->o);
      status = job_model_dtype(t->j, p->g.dtype);
      bytes = vram_generation_bytes(&p->g, &t->j->o);
      t->mem = bytes <= (uint64_t)(size_t)-1 ? malloc((size_t)bytes) : NULL;
      if (!status && !t->mem)
        status = cmd_no_memory();
      if (!status && vram_generation_begin(&t->gen, &p->g, &t->j->o, t->mem, bytes))
        status = cmd_no_memory();
    }
    generate_peaks(t, &t->peaks);
    if (!status)
      status = play_step(t, p, k);
    t->fits = !t->j->has_budget || (t->device.expected <= t->j->budget && !t->gen.num_ooms);
    if (most && (!t->fits || k + 1 == most || cmd_stopped()))
      break;
  }
  cmd_progress_end();
  return status;
}

#define NUMBER(key, value) printf(",\"" key "\":%" PRIu64, value)

static void json_bounds(const char *key, const vram_bounds *b) {
  printf(",\"%s\":{\"lower\":%" PRIu64 ",\"expected\":%" PRIu64 ",\"upper\":%" PRIu64 "}", key,
         b->lower, b->expected, b->upper);
}

static void generate_json(const generated *t, int fits) {
  const job *j = t->j;
  const vram_graph *g = &t->part[0].g;
  char name[MAX_NODE_NAME];
  int64_t k;
  int i;
  snprintf(name, sizeof name, "%.*s", (int)g->name_len, g->name ? g->name : "");
  printf("{\"model\":");
  cmd_json_text(stdout, name);
  printf(",\"mode\":\"generate\",\"rules\":\"%s\",\"prompt\":%" PRId64 ",\"new\":%" PRId64,
         vram_rules_name(j->o.rules), j->prompt, j->new_tokens);
  NUMBER("params_bytes", t->first.params_bytes);
  NUMBER("buffers_bytes", t->first.buffers_bytes);
  NUMBER("inputs_bytes", t->first.inputs_bytes);
  NUMBER("workspace_bytes", t->first.workspace_bytes);
  NUMBER("kv_cache_bytes", t->gen.cache_bytes);
  NUMBER("peak_requested_bytes", t->gen.peak_requested_bytes);
  json_bounds("peak_allocated_bytes", &t->gen.peak_allocated_bytes);
  NUMBER("peak_reserved_bytes", t->gen.peak_reserved_bytes);
  printf(",\"replayed\":%s,\"peak_step\":%" PRIu32, t->gen.replayed ? "true" : "false",
         t->gen.peak_step);
  json_bounds("context_bytes", &t->first.context_bytes);
  json_bounds("device_bytes", &t->device);
  printf(",\"peak_categories\":{");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    printf("%s\"%s\":%" PRIu64, i ? "," : "", vram_category_name((vram_category)i),
           t->gen.peak_category_bytes[i]);
  printf("},\"steps\":[");
  for (k = 0; k < j->new_tokens; k++) {
    const step_figures *f = t->step + k;
    printf("%s{\"before_bytes\":%" PRIu64 ",\"after_bytes\":%" PRIu64
           ",\"requested_peak_bytes\":%" PRIu64 ",\"allocated_peak_bytes\":%" PRIu64
           ",\"reserved_peak_bytes\":%" PRIu64 ",\"kv_cache_bytes\":%" PRIu64 "}",
           k ? "," : "", f->before, f->after, f->requested_peak, f->allocated_peak,
           f->reserved_peak, f->cache);
  }
  printf("],\"fits\":%s,\"budget_bytes\":", j->has_budget ? fits ? "true" : "false" : "null");
  if (j->has_budget)
    printf("%" PRIu64 "}\n", j->budget);
  else
    printf("null}\n");
}

static void generate_csv(const generated *t) {
  int64_t k;
  printf("step,before,after,requested_peak,allocated_peak,reserved_peak,kv_cache\n");
  for (k = 0; k < t->j->new_tokens; k++) {
    const step_figures *f = t->step + k;
    printf("%" PRId64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
           k, f->before, f->after, f->requested_peak, f->allocated_peak, f->reserved_peak,
           f->cache);
  }
}

static void print_row(const char *name, const step_figures *f) {
  printf("%-12s %11s %11s %11s\n", name, cmd_human(f->cache), cmd_human(f->after),
         cmd_human(f->requested_peak));
}

static void generate_summary(const generated *t, int fits) {
  const job *j = t->j;
  const vram_graph *g = &t->part[0].g;
  const step_figures *last = t->step + j->new_tokens - 1;
  uint32_t d;
  int i;
  printf("%s%.*s%s  generate prompt %" PRId64 " new %" PRId64, cmd_bold,
         g->name ? (int)g->name_len : 7, g->name ? g->name : "(model)", cmd_plain, j->prompt,
         j->new_tokens);
  for (d = 0; d < g->ndim && d < 1; d++)
    printf("  %.*s=%" PRId64, (int)g->dim[d].len, g->dim[d].name, g->dim[d].value);
  printf("  %scc %" PRIu32 ".%" PRIu32 ", rules %s%s\n\n", cmd_dim, (j->o.cc ? j->o.cc : 90) / 10,
         (j->o.cc ? j->o.cc : 90) % 10, vram_rules_name(j->o.rules), cmd_plain);
  printf("%speak %s%s requested, in step %" PRIu32 "%s\n", cmd_bold,
         cmd_human(t->gen.peak_requested_bytes), cmd_plain, t->gen.peak_step,
         t->gen.peak_step ? "" : ", the prompt");
  for (i = 0; i < VRAM_CATEGORY_COUNT; i++)
    if (t->gen.peak_category_bytes[i])
      printf("  %-12s %11s\n", vram_category_name((vram_category)i),
             cmd_human(t->gen.peak_category_bytes[i]));
  printf("\nallocated    %11s  in blocks of the caching allocator (at most %s)\n",
         cmd_human(t->gen.peak_allocated_bytes.expected),
         cmd_human(t->gen.peak_allocated_bytes.upper));
  printf("reserved     %11s  in its segments%s\n", cmd_human(t->gen.peak_reserved_bytes),
         t->gen.replayed ? "" : ", at least");
  printf("device       %11s  with the CUDA context (%s to %s)\n\n", cmd_human(t->device.expected),
         cmd_human(t->device.lower), cmd_human(t->device.upper));
  printf("%s%-12s %11s %11s %11s%s\n", cmd_bold, "step", "caches", "end", "peak", cmd_plain);
  print_row("prompt", t->step);
  if (j->new_tokens > 1)
    print_row("token 2", t->step + 1);
  if (j->new_tokens > 2)
    print_row("last token", last);
  printf("\nparams %s, buffers %s, inputs %s\n", cmd_human(t->first.params_bytes),
         cmd_human(t->first.buffers_bytes), cmd_human(t->first.inputs_bytes));
  if (j->has_budget)
    printf("\n%s%s%s a budget of %s%s%s\n", cmd_bold, fits ? "fits" : "DOES NOT FIT", cmd_plain,
           cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
}

/* The parts of the text; `decode P=N`: the part of steps with N tokens before them, and more;
   `decode G=N`: of those behind N others. */
static int split(generated *t, const char *text, size_t len) {
  uint64_t at = 0;
  int64_t from = 0;
  int is_step = 0;
  do {
    part *p = &t->part[t->parts];
    const char *line, *key;
    if (t->parts++ == MAX_PARTS)
      return cmd_bad("too many decode lines (at most 7):", t->j->model, NULL);
    p->text = text;
    p->len = len;
    p->from = from;
    p->is_step = is_step;
    at = vram_text_decode(text, len);
    text += at;
    len -= (size_t)at;
    for (line = text - (at != 0); at && line[-1] != '\n' && line[-1] != 'e';)
      line--;
    key = at ? strpbrk(line, "PG\n") : NULL;
    is_step = key && *key == 'G';
    from = key && key < text ? strtoll(key + 2, NULL, 10) : 0;
  } while (at);
  return FITS;
}

int generate_play(generated *t, job *j, char *text, size_t len, uint32_t most) {
  int status;
  memset(t, 0, sizeof *t);
  t->j = j;
  t->text = text;
  status = split(t, text, len);
  if (j->events || j->svg || j->html || j->snapshot || j->trace || j->table || j->live ||
      j->terms || j->explain || j->lora || j->quant || j->freeze || j->checkpoint)
    status =
        cmd_bad("--generate takes sizes, device, --dtype, --amp, --json and --csv", NULL, NULL);
  if (!status && (j->cache > VRAM_HF_DYNAMIC || j->is_padded || j->is_eager) &&
      !model_has_config(j->model))
    status = cmd_bad("cache=, padded= and attn= are for a config.json, not", j->model, NULL);
  t->step = (step_figures *)calloc((size_t)j->new_tokens, sizeof *t->step);
  if (!status && !t->step)
    status = cmd_no_memory();
  return status ? status : play(t, most);
}

void generate_peaks(const generated *t, generated_peaks *p) {
  p->device = t->device;
  p->allocated = t->gen.peak_allocated_bytes;
  p->requested = t->gen.peak_requested_bytes;
  p->cache = t->gen.cache_bytes;
  p->peak_step = t->gen.peak_step;
}

void generate_close(generated *t) {
  uint32_t k;
  for (k = 0; k < MAX_PARTS; k++) {
    free(t->part[k].mem);
    free(t->part[k].scratch);
  }
  free(t->mem);
  free(t->step);
  free(t->text);
}

int generate_command(job *j, char *text, size_t len) {
  generated t;
  int status = generate_play(&t, j, text, len, 0);
  if (!status && j->json)
    generate_json(&t, t.fits);
  else if (!status && j->csv)
    generate_csv(&t);
  else if (!status)
    generate_summary(&t, t.fits);
  if (!status && !t.fits)
    status = TOO_LARGE;
  generate_close(&t);
  return status;
}
