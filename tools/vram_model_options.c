/* The options for files of models. */
#include "vram_model.h"

int model_is_option(const char *a) {
  static const char *const help[] = {HELP_MODEL, NULL};
  cmd_option o;
  return cmd_find_option(help, a, &o);
}

int model_has_option(int argc, char **argv) {
  int i = 0;
  while (i < argc && !model_is_option(argv[i]))
    i++;
  return i < argc;
}

/* ---- options with a value: the value behind option a; 0: error printed ---- */

static int set_count(file_job *j, const char *a, const char *v) {
  const struct {
    const char *name;
    uint32_t *to;
    int64_t least, most;
  } count[] = {{"--ctx", &j->o.n_ctx, 0, INT32_MAX},
               {"--n-batch", &j->o.n_batch, 1, INT32_MAX},
               {"--n-ubatch", &j->o.n_ubatch, 1, INT32_MAX},
               {"--slots", &j->o.slots, 1, 256},
               {"--outputs", &j->o.outputs, 1, INT32_MAX},
               {"--ngl", &j->o.layers, 0, INT32_MAX},
               {"--devices", &j->o.devices, 1, VRAM_LLAMA_MAX_DEVICES},
               {"--main-gpu", &j->o.main_gpu, 0, VRAM_LLAMA_MAX_DEVICES - 1},
               {"--n-cpu-moe", &j->o.n_cpu_moe, 0, INT32_MAX}};
  char expected[64];
  int64_t n;
  size_t i = 0;
  while (strcmp(a, count[i].name) != 0)
    i++;
  snprintf(expected, sizeof expected, "%" PRId64 " to %" PRId64, count[i].least, count[i].most);
  if (!cmd_parse_count(v, count[i].least, count[i].most, &n)) {
    char what[40];
    snprintf(what, sizeof what, "not a count for %s:", a);
    return cmd_bad(what, v, expected), 0;
  }
  *count[i].to = (uint32_t)n;
  if (!strcmp(a, "--ngl"))
    j->o.has_layers = 1;
  return 1;
}

static int set_cache(file_job *j, const char *a, const char *v) {
  static const char list[] = "f16 bf16 f32 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl";
  const vram_dtype d = vram_dtype_from_name(v);
  if (!d || !cmd_in(vram_dtype_name(d), list))
    return cmd_bad("no type of a cache:", v, list), 0;
  if (strcmp(a, "--cache-v") != 0)
    j->o.cache_k = d;
  if (strcmp(a, "--cache-k") != 0)
    j->o.cache_v = d;
  return 1;
}

/* The place of v in a list of words that blanks divide, from 0 on; -1: error printed. */
static int word_of(const char *a, const char *v, const char *list) {
  char what[40];
  const char *at = list;
  int i = 0;
  for (; cmd_in(v, list); i++, at += strcspn(at, " "), at += *at == ' ')
    if (!strncmp(at, v, strlen(v)) && (!at[strlen(v)] || at[strlen(v)] == ' '))
      return i;
  snprintf(what, sizeof what, "unknown %s", a);
  cmd_bad(what, v, list);
  return -1;
}

static int set_word(file_job *j, const char *a, const char *v) {
  const int is_flash = !strcmp(a, "--flash-attn"), is_split = !strcmp(a, "--split-mode"),
            is_device = !strcmp(a, "--device"), is_pooling = !strcmp(a, "--pooling");
  const int i = word_of(a, v,
                        is_flash     ? "auto on off"
                        : is_split   ? "layer none row tensor"
                        : is_pooling ? "none mean cls last rank"
                        : is_device  ? "gpu cpu"
                                     : "0 1");
  if (i < 0)
    return 0;
  if (is_flash)
    j->o.flash_attention = i == 1 ? VRAM_LLAMA_ON : i ? VRAM_LLAMA_OFF : VRAM_LLAMA_AUTO;
  else if (is_split)
    j->o.split = i > 1 ? VRAM_LLAMA_SPLIT_ROW : i ? VRAM_LLAMA_SPLIT_NONE : VRAM_LLAMA_SPLIT_LAYER;
  else if (is_pooling)
    j->o.pooling = (vram_llama_pooling)(VRAM_LLAMA_POOLING_NONE + i);
  else if (is_device)
    j->o.is_cpu = i == 1;
  else if (!strcmp(a, "--unified"))
    j->o.unified = i == 1;
  else
    j->o.repack = i ? VRAM_LLAMA_ON : VRAM_LLAMA_OFF;
  return 1;
}

static int set_solve(file_job *j, const char *a, const char *v) {
  return (j->solve = word_of(a, v, "ctx slots ngl n-cpu-moe")) >= 0;
}

static int set_shares(file_job *j, const char *a, const char *v) {
  const char *s = v;
  double sum = 0;
  uint32_t n = 0;
  (void)a;
  while (*s && n < VRAM_LLAMA_MAX_DEVICES) {
    const size_t digits = strspn(s, "0123456789"),
                 more = s[digits] == '.' ? 1 + strspn(s + digits + 1, "0123456789") : 0;
    double unit = 1;
    size_t i;
    if (!digits || digits > 9 || more > 9 || (s[digits + more] && s[digits + more] != ','))
      break;
    for (j->share[n] = 0, i = 0; i < digits + more; i++)
      if (i != digits) {
        unit /= i > digits ? 10 : 1;
        j->share[n] =
            i < digits ? j->share[n] * 10 + (s[i] - '0') : j->share[n] + (s[i] - '0') * unit;
      }
    sum += j->share[n++];
    s += digits + more + (s[digits + more] == ',' && s[digits + more + 1]);
  }
  if (*s || !(sum > 0))
    return cmd_bad("not shares of devices:", v, "numbers as in 3,1, at most 16"), 0;
  j->o.tensor_split = j->share;
  j->o.ntensor_split = n;
  return 1;
}

static int set_override(file_job *j, const char *a, const char *v) {
  const char *is = strrchr(v, '=');
  vram_llama_override *o = j->override_tensor + j->o.noverride_tensor;
  int64_t device = -1;
  (void)a;
  if (j->o.noverride_tensor == MAX_OVERRIDES)
    return cmd_bad("more than 32 of --override-tensor", NULL, NULL), 0;
  if (!is || is == v ||
      (strcmp(is + 1, "CPU") != 0 &&
       (strncmp(is + 1, "CUDA", 4) != 0 ||
        !cmd_parse_count(is + 5, 0, VRAM_LLAMA_MAX_DEVICES - 1, &device))))
    return cmd_bad("not a pattern and where its tensors lie:", v, "PATTERN=CPU, PATTERN=CUDA0"), 0;
  o->pattern = v;
  o->pattern_len = (uint32_t)(is - v);
  o->device = (int32_t)device;
  j->o.override_tensor = j->override_tensor;
  j->o.noverride_tensor++;
  return 1;
}

/* Items of a list that commas divide, one for each device; 0: error printed. */
static int set_list(const char *a, const char *v, int (*take)(const char *item, uint64_t *bytes),
                    uint64_t bytes[VRAM_LLAMA_MAX_DEVICES], uint32_t *n) {
  char item[64], what[64];
  const char *s = v;
  for (*n = 0;; s++) {
    const size_t len = strcspn(s, ",");
    if (*n == VRAM_LLAMA_MAX_DEVICES) {
      snprintf(what, sizeof what, "more than %d devices in %s", VRAM_LLAMA_MAX_DEVICES, a);
      return cmd_bad(what, NULL, NULL), 0;
    }
    snprintf(item, sizeof item, "%.*s", (int)(len < sizeof item ? len : sizeof item - 1), s);
    if (!take(item, bytes + (*n)++))
      return 0;
    s += len;
    if (!*s)
      return 1;
  }
}

static int take_size(const char *item, uint64_t *bytes) {
  return cmd_take_size("--budget", item, bytes);
}

static int take_gpu(const char *item, uint64_t *bytes) {
  const vram_gpu *g = cmd_find_gpu(item);
  if (g)
    *bytes = g->bytes;
  return g != NULL;
}

/* What each device is; the highest compute capability is that of the most workspace. */
static void name_gpus(file_job *j, const char *v) {
  uint32_t i;
  char item[64];
  j->o.cc = 0;
  for (i = 0; i < j->ngpu; i++) {
    const size_t len = strcspn(v, ",");
    snprintf(item, sizeof item, "%.*s", (int)len, v);
    j->o.gpu[i] = cmd_find_gpu(item);
    if (j->o.gpu[i]->cc > j->o.cc)
      j->o.cc = j->o.gpu[i]->cc;
    v += len + 1;
  }
}

static int set_device(file_job *j, const char *a, const char *v) {
  if (!strcmp(a, "--cc"))
    return (j->o.cc = cmd_parse_cc(v)) != 0;
  if (!strcmp(a, "--budget"))
    return set_list(a, v, take_size, j->budget, &j->nbudget);
  if (!set_list(a, v, take_gpu, j->gpu_bytes, &j->ngpu))
    return 0;
  name_gpus(j, v);
  j->gpu = j->ngpu == 1 ? j->o.gpu[0]->name : v;
  return 1;
}

static int set_rules(file_job *j, const char *a, const char *v) {
  (void)j, (void)a;
  return !strcmp(v, "llama.cpp") || !strcmp(v, VRAM_LLAMA_RULES) ||
         (cmd_bad("unknown rules of a GGUF file:", v, "llama.cpp, which is " VRAM_LLAMA_RULES), 0);
}

static int set_units(file_job *j, const char *a, const char *v) {
  (void)j, (void)a;
  return cmd_set_units(v);
}

/* ---- arguments ---- */

static int file_flag(file_job *j, const char *a) {
  if (!strcmp(a, "--json"))
    return j->json = 1;
  if (!strcmp(a, "--csv"))
    return j->csv = 1;
  if (!strcmp(a, "--table"))
    return j->table = 1;
  if (!strcmp(a, "--no-table"))
    return j->table = 0, 1;
  if (!strcmp(a, "--no-kv-offload"))
    return j->o.no_kv_offload = 1;
  if (!strcmp(a, "--swa-full"))
    return j->o.swa_full = 1;
  if (!strcmp(a, "--embedding"))
    return j->o.embeddings = 1;
  return 0;
}

int model_wants_step(int argc, char **argv) {
  cmd_option o;
  int i;
  for (i = 0; i < argc; i++)
    if (!cmd_in(argv[i], "-h --help --json --csv --table --no-table --units --gpu --cc --budget") &&
        !model_is_option(argv[i]) && cmd_find_option(help_estimate, argv[i], &o))
      return 1;
  return 0;
}

static int is_fit(const file_job *j) { return !strcmp(j->command, "fit"); }

/* An option; how many arguments it took, 0: error printed. */
static int file_option(file_job *j, const char *a, const char *v) {
  static const struct {
    const char *names;
    int (*set)(file_job *j, const char *a, const char *v);
  } valued[] = {
      {"--ctx --n-batch --n-ubatch --slots --outputs --ngl --devices --main-gpu --n-cpu-moe",
       set_count},
      {"--kv --cache-k --cache-v", set_cache},
      {"--flash-attn --unified --repack --device --split-mode --pooling", set_word},
      {"--tensor-split", set_shares},
      {"--override-tensor", set_override},
      {"--gpu --cc --budget", set_device},
      {"--solve", set_solve},
      {"--rules", set_rules},
      {"--units", set_units}};
  cmd_option o;
  size_t i = 0;
  if (!cmd_in(a, "--json --csv --table --no-table --units"))
    j->runs = a;
  if (j->runs == a && !cmd_in(a, "--ctx --slots"))
    j->llama = a;
  if (cmd_in(a, is_fit(j) ? "--csv --table --no-table" : "--solve"))
    return cmd_unknown_option(a, j->command, NULL, "");
  if (file_flag(j, a))
    return 1;
  while (i < sizeof valued / sizeof *valued && !cmd_in(a, valued[i].names))
    i++;
  if (i < sizeof valued / sizeof *valued) {
    if (!v || !strncmp(v, "--", 2))
      return cmd_bad("no value behind", a, NULL), 0;
    return valued[i].set(j, a, v) ? 2 : 0;
  }
  if (cmd_find_option(is_fit(j) ? help_fit : help_estimate, a, &o))
    return cmd_bad("an option of models in the text form:", a,
                   "its config.json, or its text: vram-export -h"),
           0;
  return cmd_unknown_option(a, j->command, NULL, "");
}

/* As many devices as a list has; those of several sizes share the layers as llama.cpp does it: by
   the memory that is free, of which nobody knows more here than the size. */
static int check_devices(file_job *j) {
  const uint32_t listed = j->ngpu > j->nbudget ? j->ngpu : j->nbudget;
  uint32_t i;
  if (listed > 1 &&
      ((j->ngpu > 1 && j->ngpu != listed) || (j->nbudget > 1 && j->nbudget != listed)))
    return cmd_bad("as many devices in --gpu as in --budget are expected", NULL, NULL);
  if (listed > 1 && j->o.devices && j->o.devices != listed)
    return cmd_bad("--devices and a list of other length", j->ngpu > 1 ? "--gpu" : "--budget",
                   NULL);
  if (listed > 1)
    j->o.devices = listed;
  j->is_whole = j->ngpu && !j->nbudget;
  if (j->is_whole) {
    memcpy(j->budget, j->gpu_bytes, sizeof j->budget);
    j->nbudget = j->ngpu;
  }
  for (i = 1; i < j->nbudget && !j->o.ntensor_split; i++)
    j->is_shared |= j->budget[i] != j->budget[0] && j->o.split == VRAM_LLAMA_SPLIT_LAYER;
  if (j->is_shared) {
    for (i = 0; i < j->nbudget; i++)
      j->share[i] = (double)j->budget[i];
    j->o.tensor_split = j->share;
    j->o.ntensor_split = j->nbudget;
  }
  return FITS;
}

static int file_check(file_job *j) {
  if (j->json && j->csv)
    return cmd_bad("standard output takes one of --json, --csv and one FILE -", NULL, NULL);
  if (j->table && j->json)
    return cmd_bad("standard output is taken by --json, --csv or a FILE -: no place for", "--table",
                   NULL);
  if (j->o.is_cpu && (j->gpu || j->nbudget > 1 || j->o.devices || j->o.has_layers))
    return cmd_bad("--device cpu excludes",
                   j->gpu           ? "--gpu"
                   : j->nbudget > 1 ? "--budget of several devices"
                   : j->o.devices   ? "--devices"
                                    : "--ngl",
                   NULL);
  if (check_devices(j))
    return USAGE;
  if (j->o.ntensor_split > (j->o.devices ? j->o.devices : 1))
    return cmd_bad("more shares in --tensor-split than devices", NULL, "--devices");
  return FITS;
}

/* The same of an argument, which may be llama.cpp's own name of one. */
static int file_argument(file_job *j, const char *a, const char *v) {
  int is_flag = 0;
  const char *const own = model_own_word(a, &v, &is_flag);
  int n;
  if (!own)
    return file_option(j, a, v);
  if (!*own) /* the file, which stands behind it */
    return v ? 1 : (cmd_bad("no value behind", a, NULL), 0);
  n = file_option(j, own, v);
  return n && is_flag ? 1 : n;
}

int model_arguments(file_job *j, const char *command, int argc, char **argv) {
  int i;
  memset(j, 0, sizeof *j);
  j->command = command;
  for (i = 0; i < argc;) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      j->model = NULL;
      return cmd_help(is_fit(j) ? help_fit : help_estimate, stdout), FITS;
    }
    if (argv[i][0] == '-' && argv[i][1]) {
      const int n = file_argument(j, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
      if (!n)
        return USAGE;
      i += n;
    } else if (j->model)
      return cmd_bad("a second model", argv[i], "one");
    else
      j->model = argv[i++];
  }
  return file_check(j);
}
