/* vram estimate of a folder of a diffusers pipeline: a table of its parts, and what has to be on
   the device with and without offloading to the host. */
#include "vram_pipeline.h"

static const char index_name[] = "/model_index.json";

/* ---- model_index.json ---- */

/* A copy of a text of the file, with what a terminal must not see shown as \xHH; cut at the room.
 */
static void word_of(char *to, const char *text, uint64_t n) {
  snprintf(to, PIPELINE_WORD, "%s", cmd_shown(text, (size_t)n));
}

/* Those that diffusers and transformers make without weights: by their classes' names. */
static int is_weightless(const char *kind) {
  static const char *const end[] = {"Scheduler", "Tokenizer",          "TokenizerFast",
                                    "Processor", "ImageProcessorFast", "FeatureExtractor"};
  const size_t n = strlen(kind);
  size_t i;
  for (i = 0; i < sizeof end / sizeof *end; i++)
    if (n >= strlen(end[i]) && !strcmp(kind + n - strlen(end[i]), end[i]))
      return 1;
  return 0;
}

/* A value of the index that names a part: ["diffusers", "UNet2DConditionModel"]. */
static int is_part(const vram_file_value *v) {
  const vram_file_text *const text = (const vram_file_text *)v->array;
  return v->kind == VRAM_VALUE_ARRAY && v->of == VRAM_VALUE_TEXT && v->count == 2 && text &&
         v->name_len && v->name[0] != '_';
}

static int part_add(pipeline *p, const vram_file_value *v) {
  const vram_file_text *const text = (const vram_file_text *)v->array;
  pipeline_part *part = p->part + p->nparts;
  if (!model_is_plain_name(v->name, v->name_len) || v->name_len >= PIPELINE_WORD / 2) {
    cmd_say("%s: a part in another folder:%s", p->model, cmd_found(v->name, v->name_len));
    return USAGE;
  }
  if (p->nparts == PIPELINE_PARTS) {
    cmd_say("%s: more than %d parts", p->model, (int)PIPELINE_PARTS);
    return USAGE;
  }
  memcpy(part->name, v->name, v->name_len);
  word_of(part->library, text[0].text, text[0].count);
  word_of(part->kind, text[1].text, text[1].count);
  p->nparts++;
  return FITS;
}

/* The parts that the index names, in its order. */
static int index_read(pipeline *p, const char *path) {
  const vram_file_value *v;
  model_file m;
  int status = model_file_open(&m, path);
  const vram_file_value *const kind = status ? NULL : vram_file_get(&m.f, "_class_name", 11);
  if (!status && (m.f.format != VRAM_FILE_CONFIG || !kind)) {
    cmd_say("%s: no model_index.json of diffusers (no _class_name)", path);
    status = USAGE;
  }
  if (kind && kind->kind == VRAM_VALUE_TEXT)
    word_of(p->kind, kind->text, kind->count);
  for (v = status ? NULL : m.f.value_first; v && !status; v = v->next)
    if (is_part(v))
      status = part_add(p, v);
  if (!status && !p->nparts) {
    cmd_say("%s: a pipeline without parts, expected \"unet\": [\"diffusers\", \"...\"]", path);
    status = USAGE;
  }
  model_file_close(&m);
  return status;
}

/* The index of a folder, or path itself where it is one; NULL: neither, or no memory. */
static char *index_path(const char *path) {
  const size_t n = strlen(path), most = sizeof index_name - 1;
  const int is_file = n >= most - 1 && !strcmp(path + n - (most - 1), index_name + 1) &&
                      (n == most - 1 || path[n - most] == '/');
  char *to = (char *)malloc(n + sizeof index_name);
  if (!to)
    return NULL;
  snprintf(to, n + sizeof index_name, "%s%s", path, is_file ? "" : index_name);
  if (model_sniff(to))
    return to;
  free(to);
  return NULL;
}

int pipeline_is(const char *path) {
  char *const at = index_path(path);
  const int is = at != NULL;
  free(at);
  return is;
}

/* ---- parts ---- */

char *pipeline_config_path(const pipeline *p, const pipeline_part *part) {
  const size_t cap = strlen(p->folder) + strlen(part->name) + sizeof "/config.json";
  char *const path = (char *)malloc(cap);
  if (path)
    snprintf(path, cap, "%s%s/config.json", p->folder, part->name);
  return path;
}

/* from_pretrained without a dtype: diffusers loads in f32, transformers as the files are. */
static int part_read(pipeline *p, pipeline_part *part) {
  char *const path = pipeline_config_path(p, part);
  int status;
  if (!path)
    return cmd_no_memory();
  part->is_model = model_sniff(path) == VRAM_FILE_CONFIG;
  part->loaded = p->j.o.dtype                            ? (vram_dtype)p->j.o.dtype
                 : strcmp(part->library, "transformers") ? VRAM_F32
                                                         : VRAM_DTYPE_NONE;
  status = is_weightless(part->kind) ? CMD_ABSENT : pipeline_weights(p, part);
  if (status == CMD_ABSENT && !part->is_model && !is_weightless(part->kind)) {
    cmd_say("%s: part '%s' (%s) has neither weights nor a config.json", p->model, part->name,
            part->kind);
    status = USAGE;
  }
  free(path);
  return status == CMD_ABSENT ? FITS : status;
}

/* Does it take room on the device that is not known? */
static int is_unknown(const pipeline_part *part) {
  return !part->has_weights && !part->has_step && !is_weightless(part->kind);
}

/* ---- the whole ---- */

/* Does it stay on the device where others are offloaded? model_cpu_offload_seq of the pipelines has
   encoders, denoiser and VAE: each of them goes when the next one comes. Others stay from their
   first call on (a ControlNet), the safety checker from the beginning (_exclude_from_cpu_offload).
 */
static int stays(const pipeline_part *part, int offload) {
  if (offload == OFFLOAD_SEQUENTIAL)
    return cmd_in(part->name, "safety_checker");
  return offload == OFFLOAD_NONE ||
         !cmd_in(part->name, "text_encoder text_encoder_2 text_encoder_3 image_encoder unet "
                             "transformer vae");
}

enum { WEIGHTS, AT_LEAST, AT_MOST };

/* What a part takes of the device while it runs, beside what stays. */
static uint64_t running_bytes(const pipeline *p, const pipeline_part *part, int offload, int what) {
  const uint64_t held = what ? pipeline_held(p, part, what == AT_MOST) : 0,
                 step = what ? part->step_bytes + (part->has_step ? held : 0) : 0,
                 own = part->loaded_bytes + (what ? part->beside_bytes : 0);
  if (stays(part, offload))
    return step;
  if (offload == OFFLOAD_SEQUENTIAL && what == AT_MOST)
    return step + part->largest_bytes;
  if (offload == OFFLOAD_SEQUENTIAL)
    return part->largest_bytes > step ? part->largest_bytes : step;
  return step + own;
}

/* What has to be on the device at once: weights alone, or with buffers and the largest call of a
   part. At least: of parts that are not known there is nothing in it. */
static uint64_t peak_of(const pipeline *p, int offload, int what) {
  uint64_t sum = 0, most = 0;
  uint32_t i;
  for (i = 0; i < p->nparts; i++) {
    const pipeline_part *const part = p->part + i;
    const uint64_t one = running_bytes(p, part, offload, what);
    if (stays(part, offload))
      sum += part->loaded_bytes + (what ? part->beside_bytes : 0);
    else if (offload == OFFLOAD_SEQUENTIAL && what)
      sum += part->buffers_bytes; /* accelerate's cpu_offload() leaves them */
    most = one > most ? one : most;
  }
  return sum + most;
}

/* Is there a bound from above? Of a pipeline whose __call__ is known, and of all parts of it. */
static int has_most(const pipeline *p) {
  uint32_t i;
  int is = p->call != NULL && p->image_bytes != 0;
  for (i = 0; i < p->nparts; i++)
    is = is && (p->part[i].has_step || is_weightless(p->part[i].kind));
  return is;
}

/* Sums that peak_of makes must fit. */
static int whole_check(const pipeline *p) {
  uint64_t sum = 0;
  uint32_t i;
  int k;
  for (i = 0; i < p->nparts; i++)
    for (k = 0; k < 3; k++) {
      const pipeline_part *const part = p->part + i;
      const uint64_t bytes = k == 0   ? part->loaded_bytes
                             : k == 1 ? part->buffers_bytes
                                      : part->step_bytes;
      if (bytes > (uint64_t)VRAM_MAX_BYTES - sum) {
        cmd_say("%s: more than 2^63-1 bytes of parts", p->model);
        return USAGE;
      }
      sum += bytes;
    }
  return FITS;
}

/* ---- output ---- */

static const char *const offload_name[OFFLOADS] = {"none", "model", "sequential"};

static void print_parts(const pipeline *p) {
  char params[32];
  uint32_t i;
  printf("%s%-18s %-28s %15s %-6s %10s %-6s %10s %10s%s\n", cmd_bold, "part", "class", "params",
         "stored", "bytes", "loaded", "bytes", "a call", cmd_plain);
  for (i = 0; i < p->nparts; i++) {
    const pipeline_part *const part = p->part + i;
    printf("%-18s %-28s ", part->name, part->kind);
    if (part->has_weights || part->has_step)
      printf("%15s %-6s %10s %-6s %10s %10s\n", cmd_grouped(part->params, params),
             part->has_weights ? vram_dtype_name(part->stored) : "-",
             part->has_weights ? cmd_human(part->stored_bytes) : "-", vram_dtype_name(part->loaded),
             cmd_human(part->loaded_bytes), part->has_step ? cmd_human(part->step_bytes) : "?");
    else
      printf("%15s\n", is_unknown(part) ? "?" : "-");
  }
}

static void print_text(const pipeline *p) {
  static const char *const what[OFFLOADS] = {"all parts on the device",
                                             "enable_model_cpu_offload(): the largest part",
                                             "enable_sequential_cpu_offload(): the largest module"};
  int k;
  uint32_t i;
  printf("%s%s%s  diffusers  %s", cmd_bold, p->model, cmd_plain, p->kind);
  if (p->height)
    printf("  batch %" PRId64 ", %" PRId64 " x %" PRId64 "%s", p->batch, p->height, p->width,
           p->guidance ? ", guidance" : "");
  printf("\n\n");
  print_parts(p);
  printf("\n%s%-12s %11s %11s %11s%s\n", cmd_bold, "offload", "weights", "peak", "at most",
         cmd_plain);
  for (k = 0; k < OFFLOADS; k++)
    printf("%-12s %11s %11s %11s  %s\n", offload_name[k], cmd_human(peak_of(p, k, WEIGHTS)),
           cmd_human(peak_of(p, k, AT_LEAST)),
           has_most(p) ? cmd_human(peak_of(p, k, AT_MOST)) : "?", what[k]);
  printf("note: requested bytes, of a call with two steps or more: peak is a lower bound%s; beside "
         "them are\ncuDNN's workspaces, the allocator's rests and the CUDA context\n",
         p->call ? ""
                 : ", without what\nthe pipeline itself holds (embeddings, latents, what the "
                   "scheduler keeps)");
  for (i = 0; i < p->nparts; i++)
    if (is_unknown(p->part + i))
      printf("note: %s: neither safetensors nor a class that is known; the sums are without it\n",
             p->part[i].name);
    else if (p->part[i].has_weights && !p->part[i].has_step)
      printf("note: %s: of %s a call is not known, only its weights\n", p->part[i].name,
             p->part[i].kind);
}

static void json_part(const pipeline_part *part) {
  printf("{\"name\":");
  cmd_json_text(stdout, part->name);
  printf(",\"library\":");
  cmd_json_text(stdout, part->library);
  printf(",\"class\":");
  cmd_json_text(stdout, part->kind);
  if (is_unknown(part))
    printf(",\"params\":null,\"params_bytes\":null");
  else
    printf(",\"params\":%" PRIu64 ",\"params_bytes\":%" PRIu64, part->params, part->loaded_bytes);
  if (part->has_weights)
    printf(",\"tensors\":%" PRIu64 ",\"stored_dtype\":\"%s\",\"stored_bytes\":%" PRIu64
           ",\"dtype\":\"%s\",\"largest_module_bytes\":%" PRIu64,
           part->tensors, vram_dtype_name(part->stored), part->stored_bytes,
           vram_dtype_name(part->loaded), part->largest_bytes);
  if (part->has_step)
    printf(",\"buffers_bytes\":%" PRIu64 ",\"step_bytes\":%" PRIu64, part->buffers_bytes,
           part->step_bytes);
  printf("}");
}

/* Does it fit for sure, as far as that is known? */
static int pipeline_fits(const pipeline *p) {
  return peak_of(p, p->offload, has_most(p) ? AT_MOST : AT_LEAST) <= p->j.budget;
}

static void print_json(const pipeline *p) {
  uint64_t params = 0;
  uint32_t i;
  int k;
  printf("{\"model\":");
  cmd_json_text(stdout, p->model);
  printf(",\"format\":\"diffusers\",\"class\":");
  cmd_json_text(stdout, p->kind);
  printf(",\"parts\":[");
  for (i = 0; i < p->nparts; i++) {
    printf("%s", i ? "," : "");
    json_part(p->part + i);
    params += p->part[i].params;
  }
  printf("],\"params\":%" PRIu64 ",\"params_bytes\":%" PRIu64 ",\"batch\":%" PRId64
         ",\"height\":%" PRId64 ",\"width\":%" PRId64 ",\"guidance\":%s",
         params, peak_of(p, OFFLOAD_NONE, 0), p->batch, p->height, p->width,
         p->guidance ? "true" : "false");
  for (i = 0; i < 2; i++) {
    printf(",\"%s\":{", i ? "peak_bytes" : "weights_on_device");
    for (k = 0; k < OFFLOADS; k++)
      printf("%s\"%s\":%" PRIu64, k ? "," : "", offload_name[k], peak_of(p, k, (int)i));
    printf("}");
  }
  printf(",\"upper_bytes\":{");
  for (k = 0; k < OFFLOADS; k++)
    if (has_most(p))
      printf("%s\"%s\":%" PRIu64, k ? "," : "", offload_name[k], peak_of(p, k, AT_MOST));
    else
      printf("%s\"%s\":null", k ? "," : "", offload_name[k]);
  printf("},\"offload\":\"%s\",\"fits\":%s,\"budget_bytes\":", offload_name[p->offload],
         !p->j.has_budget                                 ? "null"
         : peak_of(p, p->offload, AT_LEAST) > p->j.budget ? "false"
         : has_most(p) && pipeline_fits(p)                ? "true"
                                                          : "null");
  if (p->j.has_budget)
    printf("%" PRIu64 "}\n", p->j.budget);
  else
    printf("null}\n");
}

/* ---- arguments ---- */

/* --batch, --height, --width, --guidance, --max-sequence-length; as pipeline_option */
static int set_number(pipeline *p, const char *a, const char *v) {
  const int is_guidance = !strcmp(a, "--guidance"), is_batch = !strcmp(a, "--batch");
  char what[40];
  int64_t n;
  snprintf(what, sizeof what, "not a number for %s:", a);
  if (!cmd_parse_count(v, is_guidance ? 0 : 1, is_guidance ? 1 : 65536, &n))
    return cmd_bad(what, v, is_guidance ? "0 or 1" : "1 to 65536"), 0;
  if (is_guidance)
    p->guidance = (int)n;
  else
    *(is_batch                              ? &p->batch
      : !strcmp(a, "--height")              ? &p->height
      : !strcmp(a, "--max-sequence-length") ? &p->tokens
      : !strcmp(a, "--num-frames")          ? &p->frames
                                            : &p->width) = n;
  return 2;
}

/* One option; how many arguments it took, 0: error printed. */
static int pipeline_option(pipeline *p, const char *a, const char *v) {
  int k = 0;
  if (!strcmp(a, "--vae-slicing"))
    return p->vae_slicing = 1;
  if (!cmd_in(a, "--variant --offload --batch --height --width --guidance --max-sequence-length "
                 "--num-frames --solve"))
    return cmd_in(a, "--dtype --gpu --budget --cc --rules --json --units")
               ? job_option(&p->j, a, v)
               : (cmd_bad("not an option of a pipeline of diffusers:", a, "vram estimate -h"), 0);
  if (!v || !strncmp(v, "--", 2))
    return cmd_bad("no value behind", a, NULL), 0;
  if (!strcmp(a, "--solve")) {
    p->solves_side = !strcmp(v, "side");
    return !strcmp(p->j.command, "fit") && (p->solves_side || !strcmp(v, "batch"))
               ? 2
               : (cmd_bad("not what a pipeline of diffusers is solved for:", v, "batch or side"),
                  0);
  }
  if (!strcmp(a, "--variant")) {
    p->variant = v;
    return model_is_plain_name(v, strlen(v)) ? 2 : (cmd_bad("not a variant:", v, "fp16"), 0);
  }
  if (strcmp(a, "--offload") != 0)
    return set_number(p, a, v);
  while (k < OFFLOADS && strcmp(v, offload_name[k]) != 0)
    k++;
  p->offload = k;
  return k < OFFLOADS ? 2 : (cmd_bad("unknown --offload", v, "none, model or sequential"), 0);
}

/* Not FITS: message printed; p->model is NULL where help was. */
static int pipeline_arguments(pipeline *p, int argc, char **argv) {
  int i, n;
  for (i = 0; i < argc; i += n) {
    if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) {
      p->model = NULL;
      return cmd_help(!strcmp(p->j.command, "fit") ? help_fit : help_estimate, stdout), FITS;
    }
    n = 1;
    if (argv[i][0] == '-' && argv[i][1])
      n = pipeline_option(p, argv[i], i + 1 < argc ? argv[i + 1] : NULL);
    else if (p->model)
      return cmd_bad("a second model", argv[i], "one");
    else
      p->model = argv[i];
    if (!n)
      return USAGE;
  }
  return job_check(&p->j);
}

/* The folder of the index at `path`, with the slash. */
static int folder_of(pipeline *p, const char *path) {
  const size_t n = strlen(path) - (sizeof index_name - 2);
  p->folder = (char *)malloc(n + 1);
  if (!p->folder)
    return cmd_no_memory();
  memcpy(p->folder, path, n);
  p->folder[n] = 0;
  return FITS;
}

/* The folder with its weights, as the arguments say. Not FITS: message printed; p->model is NULL
   where help was. */
static int pipeline_open(pipeline *p, const char *command, int argc, char **argv) {
  char *path;
  uint32_t i;
  int status;
  memset(p, 0, sizeof *p);
  p->j.command = command;
  p->batch = p->guidance = 1;
  status = pipeline_arguments(p, argc, argv);
  if (status || !p->model)
    return status;
  path = index_path(p->model);
  status = path ? folder_of(p, path) : cmd_no_memory();
  if (!status)
    status = index_read(p, path);
  for (i = 0; i < p->nparts && !status; i++)
    status = part_read(p, p->part + i);
  free(path);
  return status;
}

/* What each part's call takes at the sizes of now. Not FITS: message printed. */
static int pipeline_calls(pipeline *p) {
  int status = pipeline_sizes(p);
  uint32_t i;
  for (i = 0; i < p->nparts && !status; i++)
    status = pipeline_step(p, p->part + i);
  return status ? status : whole_check(p);
}

int pipeline_estimate(int argc, char **argv) {
  static pipeline p;
  int status = pipeline_open(&p, "estimate", argc, argv), fits;
  if (!status && p.model)
    status = pipeline_calls(&p);
  free(p.folder);
  if (status || !p.model)
    return status;
  fits = !p.j.has_budget || peak_of(&p, p.offload, AT_LEAST) <= p.j.budget;
  if (p.j.json)
    print_json(&p);
  else
    print_text(&p);
  return fits ? FITS : TOO_LARGE;
}

/* ---- vram fit ---- */

/* The size that is looked for: images, or the side of a square one in steps of what both the VAE
   and the patches divide. */
static int64_t size_step(const pipeline *p) { return p->solves_side ? 8 * p->scale : 1; }

static void size_set(pipeline *p, int64_t n) {
  if (p->solves_side)
    p->height = p->width = n * size_step(p);
  else
    p->batch = n;
}

/* *fits of n steps; not FITS: message printed. */
static int size_try(pipeline *p, int64_t n, int *fits) {
  int status;
  size_set(p, n);
  status = pipeline_calls(p);
  *fits = !status && pipeline_fits(p);
  return status;
}

/* The most steps that fit, below a number that does not; 0: none. */
static int size_search(pipeline *p, int64_t *most) {
  int64_t low = 0, high = 1, middle;
  const int64_t end = p->solves_side ? 65536 / size_step(p) : 4096;
  int fits = 1, status = FITS;
  while (!status && fits && high <= end && (high == 1 || !cmd_stopped())) {
    status = size_try(p, high, &fits);
    low = fits ? high : low;
    high = fits ? 2 * high : high;
  }
  if (fits)
    high = low + 1;
  while (!status && high - low > 1 && !cmd_stopped()) {
    middle = low + (high - low) / 2;
    status = size_try(p, middle, &fits);
    low = fits ? middle : low;
    high = fits ? high : middle;
  }
  *most = low;
  return status;
}

/* Is there a part whose call is known? Otherwise any size would fit. */
static int knows_calls(const pipeline *p) {
  uint32_t i;
  for (i = 0; i < p->nparts; i++)
    if (p->part[i].has_step)
      return 1;
  cmd_say("%s: of no part a call is known, so that no size can be solved for", p->model);
  return 0;
}

static void print_fit(const pipeline *p, int64_t n) {
  const uint64_t least = peak_of(p, p->offload, AT_LEAST), most = peak_of(p, p->offload, AT_MOST);
  if (p->j.json) {
    printf("{\"model\":");
    cmd_json_text(stdout, p->model);
    printf(",\"format\":\"diffusers\",\"solve\":\"%s\",\"value\":%" PRId64 ",\"batch\":%" PRId64
           ",\"height\":%" PRId64 ",\"width\":%" PRId64
           ",\"offload\":\"%s\",\"peak_bytes\":%" PRIu64 ",\"budget_bytes\":%" PRIu64
           ",\"stopped\":%s}\n",
           p->solves_side ? "side" : "batch", n * size_step(p), p->batch, p->height, p->width,
           offload_name[p->offload], least, p->j.budget, cmd_stopped() ? "true" : "false");
    return;
  }
  printf("%s%s%s  diffusers  %s  budget %s, offload %s\n\n", cmd_bold, p->model, cmd_plain, p->kind,
         cmd_human(p->j.budget), offload_name[p->offload]);
  printf("%-14s %s %-10" PRId64 " batch %" PRId64 ", %" PRId64 " x %" PRId64 ": %s",
         n ? "fits" : "does not fit", p->solves_side ? "side" : "batch",
         n ? n * size_step(p) : size_step(p), p->batch, p->height, p->width, cmd_human(least));
  if (has_most(p))
    printf(" to %s", cmd_human(most));
  printf(" requested%s\n", has_most(p) ? "" : ", at least");
  if (cmd_stopped())
    printf("stopped: larger ones may fit\n");
}

int pipeline_fit(int argc, char **argv) {
  static pipeline p;
  int status = pipeline_open(&p, "fit", argc, argv), fits;
  int64_t n = 0;
  if (!status && p.model && !p.j.has_budget)
    status = cmd_bad("no budget", NULL, "--budget SIZE or --gpu NAME");
  if (!status && p.model)
    status = pipeline_sizes(&p);
  cmd_progress("vram fit: trying sizes", 0);
  cmd_stoppable();
  if (!status && p.model)
    status = size_search(&p, &n);
  if (!status && p.model && !knows_calls(&p))
    status = USAGE;
  if (!status && p.model)
    status = size_try(&p, n ? n : 1, &fits);
  cmd_progress_end();
  if (!status && p.model)
    print_fit(&p, n);
  free(p.folder);
  return status || !p.model ? status : n ? FITS : cmd_stopped() ? OTHER : TOO_LARGE;
}
