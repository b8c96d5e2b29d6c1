/* vram fit --generate: the largest batch, prompt or number of new tokens that fits. */
#include "vram_generate.h"
#include "vram_model.h"

enum { ALL_STEPS = INT32_MAX, FIRST_STEPS = 64, MOST_NEW = 65536, MOST_PROMPT = 1 << 20 };

typedef struct fit_trial {
  int64_t value; /* 0: none */
  uint32_t steps;
  int knows_new;
  generated_peaks is, was; /* before the last step */
} fit_trial;

/* Plays so many steps of the generation with that value: 1 they fit, 0 they do not, -1 *status says
   what failed. */
static int fit_try(job *j, int64_t value, uint32_t steps, fit_trial *r, int *status) {
  const job before = *j;
  generated t;
  char *text = NULL;
  size_t len = 0;
  int fits = -1;
  if (j->of_generation == SOLVE_PROMPT)
    j->prompt = value;
  else if (j->of_generation == SOLVE_NEW)
    j->new_tokens = value;
  else if (j->ndims == VRAM_MAX_DIMS) {
    *status = cmd_bad("too many dims beside the batch:", j->model, NULL);
    return -1;
  } else {
    memset(&j->dims[j->ndims], 0, sizeof *j->dims);
    j->dims[j->ndims++].value = value;
  }
  *status = model_read(j->model, j, &text, &len);
  if (!*status) {
    *status = generate_play(&t, j, text, len, steps);
    if (!*status) {
      fits = t.fits;
      r->value = value;
      r->steps = t.gen.steps;
      r->knows_new = t.knows_new;
      generate_peaks(&t, &r->is);
      r->was = t.peaks;
    }
    generate_close(&t);
  }
  *j = before;
  return fits;
}

/* What a solution is said to be: "batch 12". */
static const char *fit_what(const job *j) {
  static const char *const name[] = {"batch", "prompt", "new"};
  return name[j->of_generation];
}

static void fit_row(const job *j, const char *text, const fit_trial *r) {
  char value[64];
  if (!r->value)
    return;
  snprintf(value, sizeof value, "%s %" PRId64, fit_what(j), r->value);
  printf("%-15s %-14s device %9s", text, value, cmd_human(r->is.device.expected));
  printf(" %s(%s to %s)%s", cmd_dim, cmd_human(r->is.device.lower), cmd_human(r->is.device.upper),
         cmd_plain);
  printf(", allocated %s, caches %s\n", cmd_human(r->is.allocated.expected),
         cmd_human(r->is.cache));
}

static void fit_json(const char *key, const fit_trial *r) {
  printf(",\"%s\":", key);
  if (r->value)
    printf("{\"value\":%" PRId64 ",\"device_bytes\":%" PRIu64 ",\"peak_allocated_bytes\":%" PRIu64
           ",\"peak_requested_bytes\":%" PRIu64 ",\"kv_cache_bytes\":%" PRIu64
           ",\"peak_step\":%" PRIu32 "}",
           r->value, r->is.device.expected, r->is.allocated.expected, r->is.requested, r->is.cache,
           r->is.peak_step);
  else
    printf("null");
}

static void fit_said(const job *j, const fit_trial *good, const fit_trial *bad, uint32_t tried) {
  if (j->json) {
    printf("{\"model\":");
    cmd_json_text(stdout, j->model);
    printf(",\"mode\":\"generate\",\"solve\":\"%s\",\"prompt\":%" PRId64 ",\"new\":%" PRId64
           ",\"budget_bytes\":%" PRIu64,
           fit_what(j), j->prompt, j->new_tokens, j->budget);
    fit_json("fits", good);
    fit_json("next", bad);
    printf(",\"value\":");
    if (good->value)
      printf("%" PRId64, good->value);
    else
      printf("null");
    printf(",\"tried\":%" PRIu32 ",\"stopped\":%s}\n", tried, cmd_stopped() ? "true" : "false");
    return;
  }
  printf("%s%s%s  generate", cmd_bold, j->model, cmd_plain);
  if (j->of_generation != SOLVE_PROMPT)
    printf(" prompt %" PRId64, j->prompt);
  if (j->of_generation != SOLVE_NEW)
    printf(" new %" PRId64, j->new_tokens);
  printf("  budget %s%s%s\n\n", cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  if (!good->value)
    printf("nothing fits%s\n", cmd_stopped() ? " of what was tried" : "");
  fit_row(j, "fits", good);
  fit_row(j, "does not fit", bad);
  if (!bad->value)
    printf("a larger one was not tried\n");
  printf("\n%" PRIu32 " values tried%s\n", tried,
         cmd_stopped() ? "; stopped: larger ones may fit" : "");
}

typedef struct fit_search {
  job *j;
  fit_trial good, bad; /* the largest that fits, the smallest that does not */
  uint32_t tried;
  int status;
} fit_search;

/* One value more. */
static int fit_next(fit_search *s, int64_t value, uint32_t steps) {
  fit_trial r;
  int fits;
  memset(&r, 0, sizeof r);
  fits = fit_try(s->j, value, steps, &r, &s->status);
  if (fits && cmd_stopped()) /* not all steps were played */
    return 0;
  s->tried++;
  if (!s->status)
    *(fits ? &s->good : &s->bad) = r;
  return !s->status && fits;
}

/* Between the largest that fits and the smallest that does not. */
static void fit_halve(fit_search *s, uint32_t steps) {
  while (!s->status && !cmd_stopped() && s->bad.value > s->good.value + 1)
    fit_next(s, s->good.value + (s->bad.value - s->good.value) / 2, steps);
}

/* Twice as large until it does not fit, then between the two. */
static void fit_between(fit_search *s, int64_t most, uint32_t steps) {
  int64_t value;
  for (value = 1; value <= most && fit_next(s, value, steps);)
    value *= 2;
  if (s->good.value)
    fit_halve(s, steps);
}

/* A cache that grows fills the budget in one run, whose steps before the last one fit. */
static void fit_growing(fit_search *s) {
  fit_trial r;
  memset(&r, 0, sizeof r);
  if (fit_try(s->j, MOST_NEW, ALL_STEPS, &r, &s->status) && !s->status) {
    s->good = r;
    s->good.value = r.steps; /* all, or those before Ctrl-C */
  } else
    s->bad = r;
  s->tried++;
  if (s->good.value || s->status)
    return;
  s->bad.value = s->bad.steps;
  memset(&s->good, 0, sizeof s->good);
  if (s->bad.value > 1) {
    s->good.value = s->bad.value - 1;
    s->good.is = s->bad.was;
  }
}

/* Of new tokens. Where sizes follow how many there will be, the first steps tell how many may fit;
   that is played to its end, and what it leaves is found in halves. */
static void fit_new(fit_search *s) {
  int64_t value;
  int knows;
  if (fit_next(s, MOST_NEW, 1), s->status)
    return;
  knows = (s->good.value ? &s->good : &s->bad)->knows_new;
  s->good.value = s->bad.value = 0;
  if (!knows) {
    fit_growing(s);
    return;
  }
  fit_between(s, MOST_NEW, FIRST_STEPS);
  value = s->good.value;
  s->good.value = 0;
  if (!value || s->status || fit_next(s, value, ALL_STEPS) || s->status)
    return;
  fit_halve(s, ALL_STEPS);
}

int generate_fit(job *j) {
  fit_search s;
  memset(&s, 0, sizeof s);
  s.j = j;
  cmd_progress("vram fit: trying sizes", 0);
  cmd_stoppable();
  if (j->of_generation == SOLVE_NEW)
    fit_new(&s);
  else
    fit_between(&s, j->of_generation == SOLVE_PROMPT ? MOST_PROMPT : INT64_C(1) << 24, ALL_STEPS);
  cmd_progress_end();
  if (s.status)
    return s.status;
  fit_said(j, &s.good, &s.bad, s.tried);
  return s.good.value ? FITS : cmd_stopped() ? OTHER : TOO_LARGE;
}
