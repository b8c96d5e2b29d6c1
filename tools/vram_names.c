/* Names that a command line may hold: built-in models, optimizers, GPUs. */
#include "vram_command.h"

/* ---- built-in models: examples/models, made into lines of text when this is built ---- */

#include "models.h"

const char *const *cmd_built_in(const char *name) {
  size_t i;
  for (i = 0; i < sizeof model_table / sizeof *model_table; i++)
    if (!strcmp(model_table[i].name, name))
      return model_table[i].line;
  return NULL;
}

const char *cmd_name_at(const char *what, uint32_t i) {
  static vram_optimizer_info o;
  static vram_op_info op;
  if (!strcmp(what, "models"))
    return i < sizeof model_table / sizeof *model_table ? model_table[i].name : NULL;
  if (!strcmp(what, "commands"))
    return cmd_table[i].name;
  if (!strcmp(what, "gpus"))
    return vram_gpu_at(i) ? vram_gpu_at(i)->name : NULL;
  if (!strcmp(what, "rules"))
    return vram_rules_name((vram_rules)i);
  if (!strcmp(what, "optimizers"))
    return vram_optimizer_get_info(i, &o) ? o.name : NULL;
  if (!strcmp(what, "dtypes")) {
    const vram_dtype_info *d = vram_dtype_get_info((vram_dtype)(i + 1));
    return d ? d->name : NULL;
  }
  if (strcmp(what, "ops") != 0 || i >= VRAM_OP_COUNT)
    return NULL;
  vram_op_get_info((vram_op)i, &op);
  return op.name;
}

/* ---- what may have been meant ---- */

enum {
  WORD = 64,   /* letters that count */
  NEAREST = 4, /* names that are equally near and all said */
  LIST = 320,  /* of so many, and what is said beside them */
  SLIPPED = 8, /* a letter that was lost, doubled, or exchanged with the next one */
  CHANGED = 9  /* for another one: "gps" is gpus, not ops */
};

static size_t least_of(size_t a, size_t b) { return a < b ? a : b; }

/* a, of three letters or more, is a part of b: 1 + where it begins */
static size_t part_of(const char *a, const char *b) {
  size_t i, k;
  for (i = 0; b[i] && strlen(a) > 2; i++) {
    for (k = 0; a[k] && cmd_lower(a[k]) == cmd_lower(b[i + k]);)
      k++;
    if (!a[k])
      return i + 1;
  }
  return 0;
}

/* What it takes to make one word of the other, in whatever case; nothing if the word begins it
   (resnet), one letter if it is a part of it (50d). */
static size_t distance(const char *a, const char *b) {
  size_t row[3][WORD + 1], i, k; /* of the last letters of a, the newest at i % 3 */
  const size_t n = least_of(strlen(a), WORD), m = least_of(strlen(b), WORD);
  if (part_of(a, b))
    return part_of(a, b) > 1 ? SLIPPED : 0;
  for (k = 0; k <= m; k++)
    row[0][k] = k * SLIPPED;
  for (i = 1; i <= n; i++) {
    size_t *now = row[i % 3];
    const size_t *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];
    const char c = cmd_lower(a[i - 1]);
    now[0] = i * SLIPPED;
    for (k = 1; k <= m; k++) {
      const char d = cmd_lower(b[k - 1]);
      now[k] =
          least_of(least_of(now[k - 1], last[k]) + SLIPPED, last[k - 1] + (c != d ? CHANGED : 0));
      if (i > 1 && k > 1 && c == cmd_lower(b[k - 2]) && cmd_lower(a[i - 2]) == d)
        now[k] = least_of(now[k], before[k - 2] + SLIPPED);
    }
  }
  return row[n % 3][m];
}

/* From there on one word does not mean the other: a letter in three, and one that was lost of
 * three.
 */
static size_t too_far(const char *a) {
  return strlen(a) == 2 ? SLIPPED + 1 : strlen(a) / 3 * CHANGED + 1;
}

/* bert-base-uncased: bert_base, and what is said of it */
static int begins_with(const char *name, const char *known) {
  for (; *known && (*known == *name || (*known == '_' && *name == '-')); known++)
    name++;
  return !*known && !cmd_is_word(*name);
}

const char *cmd_nearest_name(const char *what, const char *name) {
  static char best[WORD];
  size_t least = too_far(name);
  const char *known;
  uint32_t i;
  *best = 0;
  for (i = 0; (known = cmd_name_at(what, i)) != NULL; i++)
    if (distance(name, known) < least) {
      least = distance(name, known);
      snprintf(best, sizeof best, "%s", known);
    }
  for (i = 0; !*best && (known = cmd_name_at(what, i)) != NULL; i++)
    if (begins_with(name, known))
      snprintf(best, sizeof best, "%s", known);
  return *best ? best : NULL;
}

const char *cmd_nearest_of(const char *list, const char *name) {
  static char best[WORD];
  size_t least = too_far(name);
  *best = 0;
  while (*list) {
    char known[WORD];
    const size_t n = strcspn(list, " ");
    snprintf(known, sizeof known, "%.*s", (int)n, list);
    if (distance(name, known) < least) {
      least = distance(name, known);
      memcpy(best, known, sizeof best);
    }
    list += n + strspn(list + n, " ");
  }
  return *best ? best : NULL;
}

const char *cmd_nearest(const char *what, const char *name) {
  static char text[LIST];
  const char *best = cmd_nearest_name(what, name), *known;
  const size_t least = best ? distance(name, best) : 0;
  size_t at = 0;
  uint32_t i, n = 0;
  *text = 0;
  for (i = 0; best && n <= NEAREST && (known = cmd_name_at(what, i)) != NULL; i++)
    if (distance(name, known) == least && ++n <= NEAREST)
      at += (size_t)snprintf(text + at, sizeof text - at, "%s%s", n > 1 ? ", " : "", known);
  if (n > NEAREST) /* rtx060: one of three; resnet: of more */
    snprintf(text, sizeof text, "%s", best);
  else if (!n)
    snprintf(text, sizeof text, "one of");
  at = strlen(text);
  snprintf(text + at, sizeof text - at, "%s vram list %s", best ? "?" : "", what);
  return text;
}

int cmd_next_option(const char **at, cmd_option *o) {
  const char *s = *at;
  while (*s && strncmp(s, "  --", 4) && strncmp(s, ", --", 4))
    s += strcspn(s, "\n"), s += *s == '\n';
  if (!*s)
    return 0;
  o->name = s + 2;
  o->name_len = strcspn(o->name, ", \n");
  s = o->name + o->name_len;
  *at = *s == ',' ? s : s + strcspn(s, "\n");
  o->value = s + (*s == ' ');
  o->value_len = strcspn(o->value, " \n");
  while (*s != '\n' && strncmp(s, "  ", 2))
    s++;
  o->text = s + strspn(s, " \n"); /* of a long option on the next line */
  o->text_len = strcspn(o->text, "\n");
  return 1;
}

int cmd_find_option(const char *const *help, const char *a, cmd_option *o) {
  const char *at;
  for (; *help; help++)
    for (at = *help; cmd_next_option(&at, o);)
      if (strlen(a) == o->name_len && !memcmp(a, o->name, o->name_len))
        return 1;
  return 0;
}

void cmd_help(const char *const *help, FILE *to) {
  while (*help)
    fputs(*help++, to);
}

/* What other programs call an option, and what it is here. */
static const char *called_elsewhere(const char *a) {
  static const char *const names[][2] = {
      {"--batch-size --batchsize --bs --train-batch-size --per-device-train-batch-size",
       "--batch N"},
      {"--optimizer --optim", "--train OPT"},
      {"--precision --mixed-precision --autocast", "--amp bf16"},
      {"-l -n -d -s --loop --loop-ms --delay --refresh --refresh-rate", "--interval S"},
      {"--query-gpu --query-compute-apps --format --csv", "--json"},
      {"--quantize --quantization --bnb", "--quant nf4"},
      {"--bf16", "--amp bf16"},
      {"--fp16 --half", "--amp fp16"},
      {"--memory --gpu-memory --vram --max-memory --limit", "--budget SIZE"},
      {"--seq --seq-len --seqlen --seq-length --sequence-length --max-seq-len", "--dim S=N"},
      {"--grad-accum --gradient-accumulation-steps --accum", "--accumulate N"},
      {"--gradient-checkpointing --activation-checkpointing --grad-checkpointing",
       "--checkpoint layers"},
      {"--load-in-4bit --qlora", "--quant nf4"},
      {"--ctx-size --context-length --n-ctx", "--ctx N"},
      {"--tp --tensor-parallel --tensor-parallel-size", "--parallel tp=N"},
      {"--pp --pipeline-parallel-size", "--parallel pp=N"},
      {"--ddp --data-parallel", "--parallel ddp=N"},
      {"--fsdp", "--parallel fsdp2=N"},
      {"--zero --zero-stage", "--parallel ds3=N"},
      {"--num-gpus --ngpus --n-gpu --gpu-count --world-size --nproc-per-node", "--devices N"}};
  size_t i;
  for (i = 0; i < sizeof names / sizeof *names; i++)
    if (cmd_in(a, names[i][0]))
      return names[i][1];
  return NULL;
}

/* What the options of a help begin with the word (--c), behind the list of `n` in `best`. */
static uint32_t options_with(const char *const *help, const char *word, const char *without,
                             uint32_t n, char best[LIST]) {
  for (; help && *help; help++) {
    const char *at = *help;
    cmd_option o;
    while (cmd_next_option(&at, &o)) {
      char known[WORD];
      const size_t len = strlen(best);
      snprintf(known, sizeof known, "%.*s", (int)o.name_len, o.name);
      if (strncmp(known, word, strlen(word)) != 0 || cmd_in(known, without) || strstr(best, known))
        continue;
      if (++n <= NEAREST + 1)
        snprintf(best + len, LIST - len, "%s%s", n > 1 ? ", " : "", n > NEAREST ? "..." : known);
    }
  }
  return n;
}

int cmd_unknown_option(const char *a, const char *name, const char *const *also,
                       const char *without) {
  const cmd_entry *c = cmd_table;
  char word[WORD], best[LIST] = "", expected[2 * LIST];
  const char *const *part;
  const char *elsewhere;
  size_t least;
  uint32_t n;
  int k;
  while (c->name && strcmp(c->name, name))
    c++;
  snprintf(word, sizeof word, "%.*s", (int)strcspn(a, "="), a); /* --batch=8 */
  for (k = 0; word[k]; k++)
    if (word[k] == '_') /* accelerate's --mixed_precision */
      word[k] = '-';
  least = strlen(word) > 3 ? too_far(word + 2) : 0; /* of --x nothing is meant */
  for (k = 0; k < 2; k++)
    for (part = k ? also : c->help; part && *part; part++) {
      const char *at = *part;
      cmd_option o;
      while (cmd_next_option(&at, &o)) {
        char known[WORD];
        snprintf(known, sizeof known, "%.*s", (int)o.name_len, o.name);
        if (distance(word + 2, known + 2) < least && !cmd_in(known, without)) {
          least = distance(word + 2, known + 2);
          snprintf(best, sizeof best, "%s", known);
        }
      }
    }
  elsewhere = called_elsewhere(word);
  if (elsewhere) {
    char meant[WORD];
    cmd_option o;
    snprintf(meant, sizeof meant, "%.*s", (int)strcspn(elsewhere, " "), elsewhere);
    if (!cmd_in(meant, without) &&
        (cmd_find_option(c->help, meant, &o) || (also && cmd_find_option(also, meant, &o))))
      snprintf(best, sizeof best, "%s", elsewhere);
  }
  if (!*best && strlen(word) > 2) {
    n = options_with(c->help, word, without, 0, best);
    options_with(also, word, without, n, best);
  }
  snprintf(expected, sizeof expected, "%s%svram %s -h", best, *best ? "? " : "", name);
  return cmd_bad("unknown option", a, expected), 0;
}

/* ---- GPUs ---- */

/* What makes a device of a name: letters and digits in small, without words that all have and the
   GB of its memory: "NVIDIA A100-SXM4-80GB" is a10080. */
static void gpu_word(const char *s, char to[WORD]) {
  size_t n = 0;
  while (*s) {
    char word[WORD];
    size_t k = 0;
    for (; cmd_is_word(*s); s++)
      if (k + 1 < sizeof word)
        word[k++] = cmd_lower(*s);
    word[k] = 0;
    if (k > 2 && !strcmp(word + k - 2, "gb") && strspn(word, "0123456789") == k - 2)
      word[k -= 2] = 0;
    if (cmd_in(word, "nvidia geforce tesla quadro gpu sxm sxm2 sxm4 sxm5 hbm2 hbm2e hbm3 hbm3e"))
      k = 0;
    if (n + k < WORD) {
      memcpy(to + n, word, k);
      n += k;
    }
    while (*s && !cmd_is_word(*s))
      s++;
  }
  to[n] = 0;
  if (n > 3 && !memcmp(to, "rtx", 3)) /* RTX A6000, 4090 */
    memmove(to, to + 3, n - 2);
}

/* Forms of a family: h100-80, h100-94 and h100-pcie of h100. The only one, or NULL: text names
   them, or is "". */
static const vram_gpu *gpu_of_family(const char *word, char *text, size_t cap) {
  const vram_gpu *g, *found = NULL;
  char family[WORD], known[WORD];
  uint32_t i, n = 0;
  size_t at = 0;
  *text = 0;
  for (i = 0; (g = vram_gpu_at(i)) != NULL; i++) {
    snprintf(family, sizeof family, "%.*s", (int)strcspn(g->name, "-"), g->name);
    gpu_word(family, known);
    if (strcmp(known, word) != 0)
      continue;
    found = n++ ? NULL : g;
    at += (size_t)snprintf(text + at, at < cap ? cap - at : 0, "%s%s", at ? ", " : "", g->name);
  }
  return found;
}

const vram_gpu *cmd_find_gpu(const char *name) {
  char word[WORD], known[WORD], forms[200];
  const vram_gpu *g;
  uint32_t i;
  gpu_word(name, word);
  for (i = 0; (g = vram_gpu_at(i)) != NULL; i++) {
    gpu_word(g->name, known);
    if (!strcmp(known, word))
      return g;
  }
  g = gpu_of_family(word, forms, sizeof forms);
  if (!g && *forms)
    cmd_bad("GPUs of several sizes have the name", name, forms);
  else if (!g)
    cmd_bad("unknown GPU", name, cmd_nearest("gpus", name));
  return g;
}
