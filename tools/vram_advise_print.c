/* vram advise: the changes as text and as JSON, with the commands that play them. */
#include "vram_advise.h"

/* ---- commands ---- */

/* Does the list of words have this option? For dims: of the same name. */
static int has_option(const char *all, const char *name, const char *value) {
  char text[MAX_NODE_NAME + 16];
  if (!strcmp(name, "--dim"))
    snprintf(text, sizeof text, " --dim %.*s=", (int)strcspn(value, "="), value);
  else
    snprintf(text, sizeof text, " %s ", name);
  return strstr(all, text) != NULL;
}

/* A word of the original command that a change takes the place of. What allocators are told adds
   up. */
static int is_replaced(const vram_alternative *c, const char *name, const char *value) {
  char all[sizeof c->options + 2];
  snprintf(all, sizeof all, "%s ", c->options);
  return (c->without && !strcmp(name, c->without)) ||
         (strcmp(name, "--alloc-conf") != 0 && has_option(all, name, value ? value : ""));
}

/* A text that grows. */
typedef struct words {
  char *text;
  size_t n, cap;
} words;

static void put_bytes(words *w, const char *text, size_t n) {
  if (w->cap - w->n <= n) {
    const size_t cap = 2 * (w->n + n) + 256;
    w->text = (char *)realloc(w->text, cap);
    w->cap = cap;
    if (!w->text)
      exit(cmd_no_memory());
  }
  memcpy(w->text + w->n, text, n);
  w->n += n;
  w->text[w->n] = 0;
}

static void put(words *w, const char *text) { put_bytes(w, text, strlen(text)); }

/* As a shell takes it. */
static void put_word(words *w, const char *word) {
  const int plain =
      *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-./=,:+@%")];
  put(w, plain ? " " : " '");
  for (; *word; word++)
    put_bytes(w, *word == '\'' ? "'\\''" : word, *word == '\'' ? 4 : 1);
  put(w, plain ? "" : "'");
}

/* The words of a change, without --batch, of which the line itself knows what there is of it. */
static int put_options(words *w, const char *options) {
  const char *batch = strstr(options, " --batch "), *behind;
  if (!batch)
    return put(w, options), 0;
  behind = batch + 9 + strcspn(batch + 9, " ");
  put_bytes(w, options, (size_t)(batch - options));
  put(w, behind);
  return 1;
}

/* The command that gives the figures of a line. */
static void put_command(words *w, const advise_job *a, const vram_advice *v,
                        const vram_advice_line *x) {
  char number[48];
  uint32_t i, k;
  int batch = 0;
  put(w, "vram estimate");
  put_word(w, a->j.model);
  for (i = 0; i < a->nword; i++) {
    int gone = 0;
    for (k = 0; k < x->nchange && !gone; k++)
      gone = is_replaced(v->alternative + x->change[k], a->word[i], a->value[i]);
    if (gone)
      continue;
    put_word(w, a->word[i]);
    if (a->value[i])
      put_word(w, a->value[i]);
  }
  for (k = 0; k < x->nchange; k++)
    batch |= put_options(w, v->alternative[x->change[k]].options);
  if (batch) {
    snprintf(number, sizeof number, " --batch %" PRId64, x->batch);
    put(w, number);
  }
  if (x->rank && !a->j.spec) {
    snprintf(number, sizeof number, " --rank %" PRIu32, x->rank);
    put(w, number);
  }
}

/* ---- text ---- */

static void put_names(words *w, const vram_advice *v, const vram_advice_line *x) {
  uint32_t k;
  for (k = 0; k < x->nchange; k++) {
    put(w, k ? " + " : "");
    put(w, v->alternative[x->change[k]].name);
    if (v->alternative[x->change[k]].effect == VRAM_EFFECT_TASK)
      put(w, v->alternative[x->change[k]].options);
  }
}

/* Of the whole step: backward has twice the operations of forward. */
static double operations_of(const advise_job *a, const vram_advice_line *x) {
  return (double)(x->flops - x->again) * (a->j.o.train ? 3 : 1) + (double)x->again;
}

/* "the same computation with fewer bits; +33.0 % operations of the step; 1.2 GiB sent a step" */
static void put_cost(words *w, const advise_job *a, const vram_advice *v,
                     const vram_advice_line *x) {
  const vram_advice_line *const now = &v->now;
  char text[96];
  put(w, vram_effect_text(x->effect));
  if (now->flops && x->flops != now->flops) {
    const double all = operations_of(a, now), part = 100 * (operations_of(a, x) - all) / all;
    snprintf(text, sizeof text, "; %+.1f %% operations of the step", part);
    put(w, part < 0.05 && part > -0.05 ? "" : text);
  }
  if (x->sent > now->sent) {
    snprintf(text, sizeof text, "; %s sent a step", cmd_human(x->sent - now->sent));
    put(w, text);
  }
  if (x->report.pinned_bytes > now->report.pinned_bytes) {
    snprintf(text, sizeof text, "; %s of host memory",
             cmd_human(x->report.pinned_bytes - now->report.pinned_bytes));
    put(w, text);
  }
}

/* Lines of text, each behind so many blanks. */
static void print_lines(const char *text, const char *before) {
  while (*text) {
    const size_t n = strcspn(text, "\n");
    printf("%s%.*s\n", before, (int)n, text);
    text += n + (text[n] == '\n');
  }
}

static void print_saved(const vram_advice *v, const vram_advice_line *x) {
  const uint64_t now = v->now.report.peak_allocated_bytes.expected,
                 then = x->report.peak_allocated_bytes.expected;
  printf("    allocated %s, %s %s; device %s", cmd_human(then),
         cmd_human(now > then ? now - then : then - now), now >= then ? "saved" : "more",
         cmd_human(x->report.device_bytes.expected));
  if (x->fits && x->report.num_alloc_retries)
    printf("; cached memory goes back %" PRIu64 " time%s", x->report.num_alloc_retries,
           x->report.num_alloc_retries == 1 ? "" : "s");
  printf("\n");
  if (x->largest)
    printf("    largest batch %" PRId64 ", now %" PRId64 "\n", x->largest, v->now.largest);
}

static void print_line(const advise_job *a, const vram_advice *v, uint32_t number,
                       const vram_advice_line *x) {
  words w[3] = {{NULL, 0, 0}, {NULL, 0, 0}, {NULL, 0, 0}};
  uint32_t k;
  put_names(w, v, x);
  put_cost(w + 1, a, v, x);
  put_command(w + 2, a, v, x);
  printf("%s%2" PRIu32 "%s %s%s%s\n", cmd_bold, number, x->is_pareto ? "*" : " ", w[0].text,
         cmd_plain,
         !a->j.has_budget ? ""
         : x->fits        ? "  fits"
                          : "  does not fit");
  print_saved(v, x);
  printf("    %s\n", w[1].text);
  for (k = 0; k < x->nchange; k++)
    if (strcmp(v->alternative[x->change[k]].cost, "nothing") != 0)
      printf("    %s: %s\n", v->alternative[x->change[k]].name, v->alternative[x->change[k]].cost);
  printf("    $ %s\n", w[2].text);
  for (k = 0; k < x->nchange; k++)
    print_lines(v->alternative[x->change[k]].torch, "      ");
  for (k = 0; k < 3; k++)
    free(w[k].text);
}

/* Do changes of the same name and reason stand before it? */
static int is_said(const vram_advice *v, uint32_t i) {
  const vram_alternative *c = v->alternative + i;
  uint32_t k = 0;
  while (k < i && (strcmp(v->alternative[k].name, c->name) != 0 ||
                   strcmp(v->alternative[k].why_not, c->why_not) != 0))
    k++;
  return k < i && c->effect != VRAM_EFFECT_TASK;
}

/* With --top all each; else what cannot be played, and how many do not apply. */
static void print_others(const advise_job *a, const vram_advice *v) {
  uint32_t i, n = 0;
  for (i = 0; i < v->nalternative; i++) {
    const vram_alternative *c = v->alternative + i;
    const int shown =
        *c->why_not && (!a->j.top || !strncmp(c->why_not, "not played", 10)) && !is_said(v, i);
    if (shown)
      printf("  %-24s %s%s%s\n", c->name, c->effect == VRAM_EFFECT_TASK ? c->options + 1 : "",
             c->effect == VRAM_EFFECT_TASK ? ": " : "", c->why_not);
    n += *c->why_not && !shown && a->j.top;
  }
  if (n)
    printf("  %" PRIu32 " others do not apply here; --top all says why\n", n);
}

static void print_head(const advise_job *a, const vram_advice *v) {
  const job *j = &a->j;
  const vram_report *r = &v->now.report;
  char mode[512];
  job_mode(j, mode, sizeof mode);
  printf("%s%s%s  %s", cmd_bold, j->model, cmd_plain, mode);
  if (j->has_budget)
    printf("  budget %s%s%s", cmd_human(j->budget), j->gpu ? ", " : "", j->gpu ? j->gpu : "");
  printf("\n\n%sas it is%s  allocated %s, device %s%s\n\n", cmd_bold, cmd_plain,
         cmd_human(r->peak_allocated_bytes.expected), cmd_human(r->device_bytes.expected),
         !j->has_budget ? ""
         : v->now.fits  ? ": fits"
                        : ": does not fit");
}

/* Has x a change of the option that `options` begin with, however much of it? */
static int changes_option(const vram_advice *v, const vram_advice_line *x, const char *options) {
  const size_t n = 1 + strcspn(options + 1, " ");
  uint32_t k;
  for (k = 0; k < x->nchange; k++) {
    const char *own = v->alternative[x->change[k]].options;
    if (!strncmp(own, options, n) && (own[n] == ' ' || !own[n]))
      return 1;
  }
  return 0;
}

/* A way of its own: no line before it that fits needs but a part of its options. */
static int is_way(const vram_advice *v, uint32_t i) {
  uint32_t k, c;
  for (k = 0; k < i; k++) {
    const vram_advice_line *x = v->line + k;
    for (c = 0; c < x->nchange; c++)
      if (!changes_option(v, v->line + i, v->alternative[x->change[c]].options))
        break;
    if (x->fits && c == x->nchange)
      return 0;
  }
  return v->line[i].fits;
}

/* Without --top all what nothing beats; where something was searched for and fits, nothing that
   does not, and other ways, too. */
static int is_shown(const advise_job *a, const vram_advice *v, uint32_t i, uint32_t fits) {
  const vram_advice_line *x = v->line + i;
  if (!a->j.top)
    return 1;
  if (v->now.fits || !fits)
    return x->is_pareto;
  return x->fits && (x->is_pareto || is_way(v, i));
}

void advise_print(const advise_job *a, const vram_advice *v) {
  const job *j = &a->j;
  const int searched = j->has_budget && !v->now.fits;
  uint32_t i, n = 0, fits = 0, shown = 0, trifles = 0, most;
  for (i = 0; i < v->nline; i++)
    fits += v->line[i].fits != 0;
  for (i = 0; i < v->nline; i++) {
    shown += (uint32_t)is_shown(a, v, i, fits);
    trifles += v->line[i].is_trifle != 0;
  }
  most = j->top && shown > (uint32_t)j->top ? (uint32_t)j->top : shown;
  print_head(a, v);
  if (searched && !fits)
    printf("nothing %sfits%s\n", v->stopped || v->left || v->skipped ? "that was tried " : "",
           shown ? "; nearest:" : "");
  else if (searched) {
    printf("%" PRIu32 " way%s to fit%s, the cheapest first:\n", fits, fits == 1 ? "" : "s",
           v->stopped || v->left || v->skipped ? " found" : "");
  } else if (shown)
    printf("what saves, for its cost, the most first (* nothing beats it):\n");
  else
    printf("nothing saves %s\n", trifles ? "a hundredth" : "anything");
  for (i = 0; i < v->nline && n < most; i++)
    if (is_shown(a, v, i, fits))
      print_line(a, v, ++n, v->line + i);
  printf("\n%" PRIu32 " steps played", v->played);
  if (v->left)
    printf("; %" PRIu32 " not: --tries", v->left);
  if (v->now.largest)
    printf("; the largest batch as it is: %" PRId64, v->now.largest);
  if (v->skipped)
    printf("; %" PRIu32 " not%s", v->skipped,
           v->stopped ? "" : " that look far from the budget, or take long to plan");
  printf("%s\n", v->stopped              ? "; stopped: there may be better ones"
                 : v->left || v->skipped ? ": there may be better ones"
                                         : "");
  if (searched && most < fits)
    printf("  %" PRIu32 " of %" PRIu32 " ways are shown; --top all shows them all\n", most, fits);
  if (trifles && j->top)
    printf("  %" PRIu32 " save%s less than a hundredth; --top all shows them\n", trifles,
           trifles == 1 ? "s" : "");
  print_others(a, v);
}

/* ---- JSON ---- */

static void json_text(const char *key, const char *text) {
  printf(",\"%s\":", key);
  cmd_json_text(stdout, text);
}

static void json_step(const advise_job *a, const vram_advice_line *x) {
  const vram_report *r = &x->report;
  printf("\"fits\":%s", !a->j.has_budget ? "null" : x->fits ? "true" : "false");
  printf(",\"peak_requested_bytes\":%" PRIu64 ",\"peak_allocated_bytes\":%" PRIu64
         ",\"device_bytes\":%" PRIu64 ",\"num_alloc_retries\":%" PRIu64
         ",\"pinned_bytes\":%" PRIu64,
         r->peak_requested_bytes, r->peak_allocated_bytes.expected, r->device_bytes.expected,
         r->num_alloc_retries, r->pinned_bytes);
  printf(",\"forward_flops\":%" PRIu64 ",\"recomputed_flops\":%" PRIu64, x->flops, x->again);
  printf(",\"sent_bytes\":%" PRIu64 ",\"largest_batch\":", x->sent);
  if (x->largest)
    printf("%" PRId64, x->largest);
  else
    printf("null");
}

static void json_line(const advise_job *a, const vram_advice *v, const vram_advice_line *x) {
  words w = {NULL, 0, 0};
  uint32_t k;
  printf("{");
  json_step(a, x);
  printf(",\"effect\":\"%s\",\"pareto\":%s,\"trifle\":%s,\"changes\":[",
         vram_effect_name(x->effect), x->is_pareto ? "true" : "false",
         x->is_trifle ? "true" : "false");
  for (k = 0; k < x->nchange; k++) {
    const vram_alternative *c = v->alternative + x->change[k];
    printf("%s{\"name\":", k ? "," : "");
    cmd_json_text(stdout, c->name);
    json_text("cost", c->cost);
    json_text("options", c->options + (*c->options == ' '));
    if (c->without)
      json_text("without", c->without);
    json_text("torch", c->torch);
    printf("}");
  }
  put_command(&w, a, v, x);
  printf("]");
  json_text("command", w.text);
  printf("}");
  free(w.text);
}

void advise_json(const advise_job *a, const vram_advice *v) {
  const job *j = &a->j;
  char mode[512];
  uint32_t i, n = 0;
  job_mode(j, mode, sizeof mode);
  printf("\"model\":");
  cmd_json_text(stdout, j->model);
  json_text("mode", mode);
  printf(",\"budget_bytes\":");
  if (j->has_budget)
    printf("%" PRIu64, j->budget);
  else
    printf("null");
  printf(",\"now\":{");
  json_step(a, &v->now);
  printf("},\"lines\":[");
  for (i = 0; i < v->nline; i++) {
    printf("%s", i ? ",\n" : "");
    json_line(a, v, v->line + i);
  }
  printf("],\"others\":[");
  for (i = 0; i < v->nalternative; i++)
    if (*v->alternative[i].why_not) {
      printf("%s{\"name\":", n++ ? "," : "");
      cmd_json_text(stdout, v->alternative[i].name);
      if (*v->alternative[i].options)
        json_text("options", v->alternative[i].options + 1);
      json_text("why", v->alternative[i].why_not);
      printf("}");
    }
  printf("],\"played\":%" PRIu32 ",\"left\":%" PRIu32 ",\"skipped\":%" PRIu32 ",\"stopped\":%s",
         v->played, v->left, v->skipped, v->stopped ? "true" : "false");
}
