/* vram advise: the changes as text and as JSON, with the commands that play them. */
#include "vram_advise.h"

/* ---- commands ---- */

/* Does the list of words have this option? For dims: of the same name. */
static int has_option(const char *words, const char *name, const char *value) {
  char text[MAX_NODE_NAME + 16];
  if (!strcmp(name, "--dim"))
    snprintf(text, sizeof text, " --dim %.*s=", (int)strcspn(value, "="), value);
  else
    snprintf(text, sizeof text, " %s ", name);
  return strstr(words, text) != NULL;
}

/* A word of the original command that a change takes the place of. What allocators are told adds
   up. */
static int is_replaced(const vram_alternative *c, const char *name, const char *value) {
  char words[sizeof c->options + 2];
  snprintf(words, sizeof words, "%s ", c->options);
  return (c->without && !strcmp(name, c->without)) ||
         (strcmp(name, "--alloc-conf") != 0 && has_option(words, name, value ? value : ""));
}

static void put(char *to, size_t cap, const char *text) {
  const size_t n = strlen(to);
  snprintf(to + n, cap - n, "%s", text);
}

/* As a shell takes it. */
static void put_word(char *to, size_t cap, const char *word) {
  const int plain =
      *word && !word[strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789_-./=,:+@%")];
  put(to, cap, plain ? " " : " '");
  for (; *word; word++) {
    const char one[2] = {*word, 0};
    put(to, cap, *word == '\'' ? "'\\''" : one);
  }
  put(to, cap, plain ? "" : "'");
}

void advise_command_of(const advise_job *a, const vram_advice *v, const vram_advice_line *x,
                       char *to, size_t cap) {
  char rank[32];
  uint32_t i, k;
  *to = 0;
  put(to, cap, "vram estimate");
  put_word(to, cap, a->j.model);
  for (i = 0; i < a->nword; i++) {
    int gone = 0;
    for (k = 0; k < x->nchange && !gone; k++)
      gone = is_replaced(v->alternative + x->change[k], a->word[i], a->value[i]);
    if (gone)
      continue;
    put_word(to, cap, a->word[i]);
    if (a->value[i])
      put_word(to, cap, a->value[i]);
  }
  for (k = 0; k < x->nchange; k++)
    put(to, cap, v->alternative[x->change[k]].options);
  if (x->rank && !a->j.spec) {
    snprintf(rank, sizeof rank, " --rank %" PRIu32, x->rank);
    put(to, cap, rank);
  }
}

/* ---- text ---- */

static void names_of(const vram_advice *v, const vram_advice_line *x, char *to, size_t cap) {
  uint32_t k;
  *to = 0;
  for (k = 0; k < x->nchange; k++) {
    put(to, cap, k ? " + " : "");
    put(to, cap, v->alternative[x->change[k]].name);
    if (v->alternative[x->change[k]].effect == VRAM_EFFECT_TASK)
      put(to, cap, v->alternative[x->change[k]].options);
  }
}

/* "33 % more operations, 1.2 GiB sent; rounding" */
static void cost_of(const vram_advice *v, const vram_advice_line *x, char *to, size_t cap) {
  const vram_advice_line *const now = &v->now;
  char text[96];
  *to = 0;
  put(to, cap, vram_effect_text(x->effect));
  if (x->has_flops && now->has_flops && now->flops && x->flops != now->flops) {
    const double part = 100.0 * ((double)x->flops - (double)now->flops) / (double)now->flops;
    snprintf(text, sizeof text, "; %+.1f %% operations of the forward pass", part);
    put(to, cap, part < 0.05 && part > -0.05 ? "" : text);
  }
  if (x->sent > now->sent) {
    snprintf(text, sizeof text, "; %s sent a step", cmd_human(x->sent - now->sent));
    put(to, cap, text);
  }
  if (x->report.pinned_bytes > now->report.pinned_bytes) {
    snprintf(text, sizeof text, "; %s of host memory",
             cmd_human(x->report.pinned_bytes - now->report.pinned_bytes));
    put(to, cap, text);
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
  if (x->batch)
    printf("    largest batch %" PRId64 ", now %" PRId64 "\n", x->batch, v->now.batch);
}

static void print_line(const advise_job *a, const vram_advice *v, uint32_t number,
                       const vram_advice_line *x) {
  char text[1024];
  uint32_t k;
  names_of(v, x, text, sizeof text);
  printf("%s%2" PRIu32 "%s %s%s%s\n", cmd_bold, number, x->is_pareto ? "*" : " ", text, cmd_plain,
         !a->j.has_budget ? ""
         : x->fits        ? "  fits"
                          : "  does not fit");
  print_saved(v, x);
  cost_of(v, x, text, sizeof text);
  printf("    %s\n", text);
  for (k = 0; k < x->nchange; k++)
    if (strcmp(v->alternative[x->change[k]].cost, "nothing") != 0)
      printf("    %s: %s\n", v->alternative[x->change[k]].name, v->alternative[x->change[k]].cost);
  advise_command_of(a, v, x, text, sizeof text);
  printf("    $ %s\n", text);
  for (k = 0; k < x->nchange; k++)
    print_lines(v->alternative[x->change[k]].torch, "      ");
}

/* With --top all each; else what cannot be played, and how many do not apply. */
static void print_others(const advise_job *a, const vram_advice *v) {
  uint32_t i, n = 0;
  for (i = 0; i < v->nalternative; i++) {
    const vram_alternative *c = v->alternative + i;
    const int shown = *c->why_not && (!a->j.top || !strncmp(c->why_not, "not played", 10));
    if (shown)
      printf("  %-24s %s\n", c->name, c->why_not);
    n += *c->why_not && !shown;
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

/* Without --top all what nothing beats, and where something fits nothing that does not. */
void advise_print(const advise_job *a, const vram_advice *v) {
  const job *j = &a->j;
  const int searched = j->has_budget && !v->now.fits;
  uint32_t i, n = 0, fits = 0;
  for (i = 0; i < v->nline; i++)
    fits += v->line[i].fits != 0;
  print_head(a, v);
  if (searched && !fits)
    printf("nothing %sfits; nearest:\n", v->stopped || v->left ? "that was tried " : "");
  else if (searched)
    printf("%" PRIu32 " way%s to fit, the cheapest first:\n", fits, fits == 1 ? "" : "s");
  else
    printf("%s\n", !v->nline      ? "nothing saves anything"
                   : v->now.batch ? "what saves, and how far the batch then grows:"
                                  : "what saves, the cheapest first:");
  for (i = 0; i < v->nline; i++)
    if (!j->top ||
        (v->line[i].is_pareto && n < (uint32_t)j->top && (!searched || !fits || v->line[i].fits)))
      print_line(a, v, ++n, v->line + i);
  printf("\n%" PRIu32 " steps played", v->played);
  if (v->left)
    printf(", %" PRIu32 " combinations left (--tries)", v->left);
  if (v->now.batch)
    printf("; the largest batch as it is: %" PRId64, v->now.batch);
  printf("%s\n", v->stopped ? "; stopped: there may be better ones" : "");
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
  if (x->has_flops)
    printf(",\"forward_flops\":%" PRIu64 ",\"recomputed_flops\":%" PRIu64, x->flops, x->again);
  else
    printf(",\"forward_flops\":null,\"recomputed_flops\":null");
  printf(",\"sent_bytes\":%" PRIu64 ",\"largest_batch\":", x->sent);
  if (x->batch)
    printf("%" PRId64, x->batch);
  else
    printf("null");
}

static void json_line(const advise_job *a, const vram_advice *v, const vram_advice_line *x) {
  char text[1024];
  uint32_t k;
  printf("{");
  json_step(a, x);
  printf(",\"effect\":\"%s\",\"pareto\":%s,\"changes\":[", vram_effect_name(x->effect),
         x->is_pareto ? "true" : "false");
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
  advise_command_of(a, v, x, text, sizeof text);
  printf("]");
  json_text("command", text);
  printf("}");
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
      json_text("why", v->alternative[i].why_not);
      printf("}");
    }
  printf("],\"played\":%" PRIu32 ",\"left\":%" PRIu32 ",\"stopped\":%s", v->played, v->left,
         v->stopped ? "true" : "false");
}
