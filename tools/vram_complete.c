/* vram complete WORD...: what may stand for the last word, for the shells (tools/install/). A line
   each: the word, a tab, what it is. <file>: a file, rather one with a suffix of those behind the
   tab; <command>: a program. */
#include "vram_command.h"

enum { LINE = 256, TEXT = 1024 };

typedef struct unfinished { /* the last word: what stays as it is, and what is to be completed */
  const char *head, *start;
  size_t head_len;
} unfinished;

static void offer(const unfinished *u, const char *word, size_t len, const char *text) {
  const size_t n = strlen(u->start);
  if (n <= len && !memcmp(word, u->start, n))
    printf("%.*s%.*s\t%.*s\n", (int)u->head_len, u->head, (int)len, word, (int)strcspn(text, "\n"),
           text);
}

/* What is behind the last of these letters is to be completed. */
static unfinished behind(const unfinished *u, const char *letters) {
  unfinished part = *u;
  size_t n = strlen(u->start);
  while (n && !strchr(letters, u->start[n - 1]))
    n--;
  part.head_len += n;
  part.start += n;
  return part;
}

/* NAME, SIZE and N stand for something else; GPipe, 1F1B and NO_SHARD are what is to be written. */
static int stands_for(const char *word, size_t len) {
  return strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") >= len;
}

/* a|b|c, and dim: of dim:NAME */
static void offer_words(const unfinished *u, const char *words, size_t len) {
  const char *const end = words + len;
  for (; words < end; words++) {
    const size_t rest = (size_t)(end - words), bar = strcspn(words, "|");
    const size_t n = bar < rest ? bar : rest;
    const char *const colon = (const char *)memchr(words, ':', n);
    if (colon && stands_for(colon + 1, (size_t)(words + n - colon) - 1))
      offer(u, words, (size_t)(colon - words) + 1, "");
    else if (!stands_for(words, n))
      offer(u, words, n, "");
    words += n;
  }
}

/* Words that blanks divide. */
static void offer_each(const unfinished *u, const char *words) {
  while (*words) {
    const size_t n = strcspn(words, " ");
    offer(u, words, n, "");
    words += n + strspn(words + n, " ");
  }
}

/* The names that `vram list WHAT` shows, WHAT: the word at `what`. */
static void offer_list(const unfinished *u, const char *what) {
  vram_optimizer_info o;
  const char *name, *text;
  char list[16];
  uint32_t i;
  snprintf(list, sizeof list, "%.*s", (int)strspn(what, "abcdefghijklmnopqrstuvwxyz"), what);
  for (i = 0; (name = cmd_name_at(list, i)) != NULL; i++) {
    text = "";
    if (*what == 'm')
      text = *cmd_built_in(name) + 2; /* a comment */
    else if (*what == 'g')
      text = cmd_human(vram_gpu_at(i)->bytes);
    else if (*what == 'o' && vram_optimizer_get_info(i, &o))
      text = o.state;
    offer(u, name, strlen(name), text);
  }
}

static void offer_commands(const unfinished *u) {
  const char *s = *help_main;
  for (; *s; s += strcspn(s, "\n"), s += *s == '\n')
    if (!strncmp(s, "  vram ", 7) && s[7] >= 'a' && s[7] <= 'z') {
      const char *text = strstr(s + 7, "  ");
      offer(u, s + 7, strcspn(s + 7, " "), text + strspn(text, " "));
    }
}

static void offer_capabilities(const unfinished *u) {
  uint32_t i, k;
  for (i = 0; vram_gpu_at(i); i++) {
    const uint32_t cc = vram_gpu_at(i)->cc;
    char text[24];
    for (k = 0; vram_gpu_at(k)->cc != cc; k++)
      ;
    snprintf(text, sizeof text, "%" PRIu32 ".%" PRIu32, cc / 10, cc % 10);
    if (k == i)
      offer(u, text, strlen(text), "");
  }
}

/* ---- files ---- */

static const char *kinds_of(const char (*table)[2][64], const char *name, size_t len) {
  for (; *(*table)[0]; table++)
    if (!strncmp((*table)[0], name, len) && !(*table)[0][len])
      return (*table)[1];
  return (*table)[1];
}

/* of the option `name`; NULL: of the command's MODEL or FILE */
static void offer_files(const char *command, const char *name, size_t len) {
  static const char models[][2][64] = {
      {"fit", ".vram .gguf .json .onnx .tflite"},
      {"plan", ".vram .json .onnx .tflite .csv"},
      {"arena", ".csv .txt .vram .json .onnx .tflite"},
      {"emit", ".vram .tflite .onnx .json .h"},
      {"convert", ".onnx .tflite .json .vram"},
      {"replay", ".csv .pickle .json .log .txt .prof .gz"},
      {"diff", ".csv .pickle .json .log .txt .vram .onnx .tflite .prof .gz"},
      {"advise", ".vram .json .onnx .tflite"},
      {"", ".vram .gguf .safetensors .json .onnx .tflite .pte"}};
  static const char options[][2][64] = {{"--svg", ".svg"},       {"--html", ".html"},
                                        {"--events", ".csv"},    {"--snapshot", ".pickle .json"},
                                        {"--trace", ".json"},    {"--deepspeed", ".json"},
                                        {"--emit-header", ".h"}, {"--weights", ".h"},
                                        {"--metrics", ".prom"},  {"", ""}};
  const char *kinds =
      name ? kinds_of(options, name, len) : kinds_of(models, command, strlen(command));
  if (name && !strncmp(name, "-o", len))
    kinds = !strcmp(command, "emit") ? ".h" : ".vram";
  printf("<file>%s%s\n", *kinds ? "\t" : "", kinds);
}

/* ---- the dims of the model that stands in the line ---- */

/* dim N=1 S=1024: the names, and what comes behind each */
static void offer_dim(const unfinished *u, const char *line, const char *end) {
  if (strncmp(line, "dim ", 4) != 0)
    return;
  for (line += 4; *line > ' ' && *line != '#'; line += strspn(line, " ")) {
    char name[LINE];
    snprintf(name, sizeof name, "%.*s%s", (int)strcspn(line, "= \n"), line, end);
    offer(u, name, strlen(name), "");
    line += strcspn(line, " \n");
  }
}

static void offer_dims(const unfinished *u, int argc, char **argv, const char *end) {
  int i;
  for (i = 1; i + 1 < argc; i++) {
    const char *const *lines = cmd_built_in(argv[i]);
    const size_t n = strlen(argv[i]);
    char line[LINE];
    const int is_text = n > 5 && !strcmp(argv[i] + n - 5, ".vram") && cmd_is_regular(argv[i]);
    FILE *file = is_text ? fopen(argv[i], "r") : NULL;
    for (; lines && *lines; lines++)
      offer_dim(u, *lines, end);
    while (file && fgets(line, sizeof line, file))
      offer_dim(u, line, end);
    if (file)
      fclose(file);
  }
}

/* ---- --parallel: strategies and their options, as its help lists them ---- */

static const char *next_line(const char *s) {
  s += strcspn(s, "\n");
  return s + (*s == '\n');
}

/* Is the line at s one of NAME=RANKS, perhaps of several of them? */
static int is_of(const char *s, const char *name, size_t len) {
  const char *const end = s + (strlen(s) < 24 ? 0 : 24);
  if (strspn(s, " ") != 2)
    return 0;
  for (s += 2; s<end && * s> ' '; s += strcspn(s, " \n"), s += *s == ' ')
    if (!strncmp(s, name, len) && s[len] == '=')
      return 1;
  return 0;
}

/* What the line at s and those that go on say, in one line. */
static void said_of(const char *s, char *to) {
  size_t n = 0;
  for (s += 24; n + 100 < TEXT; s += 24) {
    const size_t len = strcspn(s, "\n");
    memcpy(to + n, s, len);
    n += len;
    if (n && to[n - 1] != '|')
      to[n++] = ' ';
    s = next_line(s);
    if (strspn(s, " ") != 24)
      break;
  }
  to[n] = 0;
}

/* "bucket_cap_mb=MB, sp, ...": each option, or the values of the one that is key. */
static void offer_options(const unfinished *u, const char *list, const char *key, size_t key_len,
                          const char *without) {
  while (*list) {
    char word[LINE];
    size_t n, name;
    list += strspn(list, " ,;");
    list += strncmp(list, "and ", 4) ? 0 : 4;
    n = strcspn(list, " ,;");
    name = strcspn(list, " =,;");
    if (n && n + 2 < sizeof word && (strchr(",;", list[n]) || !list[n + 1] || list[n + 1] == '(') &&
        strncmp(list, without, name) != 0) {
      snprintf(word, sizeof word, "%.*s=", (int)name, list);
      if (!key)
        offer(u, word, name + 1, "");
      else if (name == key_len && !strncmp(list, key, name)) {
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (n == name)
          offer_words(u, "0|1", 3);
        else if (!strcmp(word + name, "=DTYPE"))
          offer_words(u, "bf16|fp16|f32", 13);
        else
          offer_words(u, word + name + 1, n - name - 1);
      }
    }
    list += strcspn(list, ",;");
  }
}

static int is_item(const char *s) { /* NAME=RANKS: what it is */
  return strspn(s, " ") == 2 && s[2] != '-' && s[2 + strcspn(s + 2, " =\n")] == '=';
}

static void offer_options_of(const unfinished *u, const char *name, size_t len, const char *key,
                             size_t key_len) {
  char before[TEXT] = "", now[TEXT];
  const char *const *text, *s;
  if (len == 2 && !strncmp(name, "ep", len)) /* it adds a ddp, whose options it has */
    name = "ddp", len = 3;
  for (text = help_parallel; *text; text++)
    for (s = *text; *s; s = next_line(s)) {
      const char *list, *without;
      if (!is_item(s))
        continue;
      said_of(s, now);
      list = strchr(now, ':');
      if (list && is_of(s, name, len)) {
        without = strstr(list, "not ");
        if (strstr(list, "the same"))
          offer_options(u, before, key, key_len, without ? without + 4 : "");
        offer_options(u, list + 1, key, key_len, "");
        return;
      }
      if (list && !strstr(list, "the same"))
        snprintf(before, sizeof before, "%s", list + 1);
    }
}

static void offer_parallel(const unfinished *u, int automatic) {
  const unfinished part = behind(u, "+"), option = behind(&part, ",");
  const char *const *text, *s, *last = "";
  if (option.start > part.start) {
    const char *const equals = strchr(option.start, '=');
    const unfinished value = behind(&option, "=");
    offer_options_of(equals ? &value : &option, part.start, strcspn(part.start, "="),
                     equals ? option.start : NULL, equals ? (size_t)(equals - option.start) : 0);
    return;
  }
  for (text = help_parallel; *text; text++)
    for (s = *text; *s; s = next_line(s))
      if (is_item(s)) {
        const char *at = s + 2;
        for (; *at > ' '; at += strcspn(at, " \n"), at += *at == ' ') {
          const size_t n = strcspn(at, "=") + 1;
          if (strncmp(at, last, n) != 0) /* fsdp1=N, fsdp1=COPIESxSHARDS */
            offer(&part, at, n, "");
          last = at;
        }
      }
  if (automatic && part.start == u->start)
    offer(u, "auto", 4, "every way, and which fits");
}

/* ---- values of options ---- */

/* prompt=S,new=N[,cache=static]: prompt= new= cache=static */
static void offer_keys(const unfinished *u, const char *value, size_t len) {
  const unfinished key = behind(u, ",");
  const char *const end = value + len;
  while (value < end) {
    const size_t n = strcspn(value, ",[] \n"), name = strcspn(value, "=") + 1;
    if (name <= n)
      offer(&key, value, stands_for(value + name, n - name) ? name : n, "");
    value += n + 1;
  }
}

/* Keys that stand behind commas and in no help. */
static const char *keys_of(const char *name, size_t len) {
  static const char *const keys[][2] = {
      {"--lora", "r= targets= dropout= bias= save= dtype= dora=1 rslora=1"},
      {"--quant", "nf4 fp4 int8 fp8 double=0 dtype= compute= threshold= skip= prepare=0"},
      {"--alloc-conf",
       "expandable_segments:True max_split_size_mb: garbage_collection_threshold: "
       "roundup_power2_divisions: max_non_split_rounding_mb: large_segment_size_mb: "
       "per_process_memory_fraction: backend:native"},
      {"--alloc-conf bfc", "preallocate:True garbage_collection:True"}};
  size_t i;
  for (i = 0; i < sizeof keys / sizeof *keys; i++)
    if (strlen(keys[i][0]) == len && !strncmp(keys[i][0], name, len))
      return keys[i][1];
  return NULL;
}

static void offer_value(const unfinished *u, const cmd_option *o, int argc, char **argv) {
  const char *const end = strstr(o->text, "\n  --"), *what = strstr(o->text, "vram list ");
  const char *keys = keys_of(o->name, o->name_len);
  const unfinished part = behind(u, ","), name = behind(u, ":");
  const char *const *signal;
  int i;
  for (i = 1; keys && o->name_len == 12 && i < argc; i++) /* --alloc-conf of the other allocator */
    if (!strcmp(argv[i], "bfc") || !strcmp(argv[i], "--policy=bfc"))
      keys = keys_of("--alloc-conf bfc", 16);
  if (!strncmp(o->value, "FILE", o->value_len))
    offer_files(argv[0], o->name, o->name_len);
  else if (!strncmp(o->name, "--parallel", o->name_len))
    offer_parallel(u, !strcmp(argv[0], "fit"));
  else if (keys)
    offer_each(&part, keys);
  else if (!strncmp(o->name, "--generate", o->name_len))
    offer_keys(u, o->value, o->value_len);
  else if (!strncmp(o->name, "--dim", o->name_len))
    offer_dims(u, argc, argv, "=");
  else if (!strncmp(o->value, "9.0", o->value_len))
    offer_capabilities(u);
  else if (!strncmp(o->value, "TYPE", o->value_len))
    offer_list(u, "dtypes");
  else if (!strncmp(o->value, "SIGNAL", o->value_len))
    for (signal = run_signal_name; *signal; signal++)
      offer(u, *signal, strlen(*signal), "");
  else if (!strncmp(o->name, "--solve", o->name_len) && !strncmp(u->start, "dim:", 4))
    offer_dims(&name, argc, argv, "");
  else if (what && (!end || what < end) && !memchr(o->value, '|', o->value_len))
    offer_list(&part, what + 10);
  else
    offer_words(u, o->value, o->value_len);
}

/* Of every line of the help that has the option, as --checkpoint has three; 0: it takes no value.
 */
static int offer_values(const unfinished *u, const char *const *help, const char *option, int argc,
                        char **argv) {
  const size_t n = strcspn(option, "=");
  const char *at;
  cmd_option o;
  int found = 0;
  if (!strcmp(option, "-o"))
    return offer_files(argv[0], "-o", 2), 1;
  for (; *help; help++)
    for (at = *help; cmd_next_option(&at, &o);)
      if (o.value_len && n == o.name_len && !memcmp(option, o.name, n)) {
        offer_value(u, &o, argc, argv);
        found = 1;
        if (!strncmp(option, "--parallel",
                     n)) /* of a help that has both, auto and SPEC, all is told */
          return found;
      }
  return found;
}

static int complete_help(const unfinished *u, int argc) {
  if (argc == 2) {
    offer_commands(u);
    offer(u, "parallel", 8, "many devices: the words of --parallel");
  }
  return FITS;
}

/* Behind `run --` a program, then its files. */
static int complete_program(int argc, char **argv) {
  int i;
  for (i = 1; !strcmp(argv[0], "run") && i + 1 < argc; i++)
    if (!strcmp(argv[i], "--"))
      return puts(i + 2 == argc ? "<command>" : "<file>"), 1;
  return 0;
}

int complete_command(int argc, char **argv) {
  const cmd_entry *known = cmd_table;
  unfinished u = {"", "", 0}, value;
  const char *const *help, *usage, *at;
  cmd_option o;
  u.head = u.start = argc ? argv[argc - 1] : "";
  if (argc < 2)
    return offer_commands(&u), FITS;
  if (!strcmp(argv[0], "list")) {
    usage = *help_list + sizeof "vram list";
    return offer_words(&u, usage, strcspn(usage, " \n")), FITS;
  }
  if (!strcmp(argv[0], "help"))
    return complete_help(&u, argc);
  while (known->name && strcmp(argv[0], known->name))
    known++;
  if (!known->name || !*known->help || complete_program(argc, argv))
    return FITS;
  usage = *known->help;
  if (!strncmp(u.start, "--", 2) && strchr(u.start, '=')) { /* --gpu=h100 */
    value = u;
    value.head_len = strcspn(u.start, "=") + 1;
    value.start += value.head_len;
    return (void)offer_values(&value, known->help, u.start, argc, argv), FITS;
  }
  if (argc > 2 && offer_values(&u, known->help, argv[argc - 2], argc, argv))
    return FITS;
  for (help = known->help; *u.start == '-' && *help; help++)
    for (at = *help; cmd_next_option(&at, &o);)
      offer(&u, o.name, o.name_len, o.text);
  if (*u.start == '-')
    return FITS;
  if (strstr(usage, " MODEL"))
    offer_list(&u, "models");
  if (strstr(usage, " MODEL") || strstr(usage, " TRACE") || !strcmp(argv[0], "convert"))
    offer_files(argv[0], NULL, 0);
  return FITS;
}
