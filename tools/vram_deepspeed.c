/* --deepspeed FILE: a ds_config.json as the words of --parallel and of other options (DeepSpeed
   0.19.8: runtime/config.py, runtime/zero/config.py, runtime/precision_config.py) */
#include "vram_job.h"
#include "vram_model.h"

#define ZERO "zero_optimization."

/* Keys that are words of --parallel, with their names there; NULL: what is behind the point. */
static const struct {
  const char *key, *word;
} words[] = {{"bf16.enabled", "bf16"},
             {"bfloat16.enabled", "bf16"},
             {"fp16.enabled", "fp16"},
             {"communication_data_type", "communication_data_type"},
             {ZERO "overlap_comm", NULL},
             {ZERO "contiguous_gradients", NULL},
             {ZERO "reduce_scatter", NULL},
             {ZERO "reduce_bucket_size", NULL},
             {ZERO "allgather_bucket_size", NULL},
             {ZERO "round_robin_gradients", NULL},
             {ZERO "offload_optimizer.device", "offload_optimizer"},
             {ZERO "offload_param.device", "offload_param"},
             {ZERO "sub_group_size", NULL},
             {ZERO "stage3_prefetch_bucket_size", NULL},
             {ZERO "prefetch_bucket_size", "stage3_prefetch_bucket_size"},
             {ZERO "stage3_param_persistence_threshold", NULL},
             {ZERO "param_persistence_threshold", "stage3_param_persistence_threshold"},
             {ZERO "stage3_max_live_parameters", NULL},
             {ZERO "max_live_parameters", "stage3_max_live_parameters"},
             {ZERO "stage3_max_reuse_distance", NULL},
             {ZERO "max_reuse_distance", "stage3_max_reuse_distance"}};

/* Keys with no bytes on the device, or that only another one's value has a use for. */
static const char no_bytes[] =
    "steps_per_print wall_clock_breakdown memory_breakdown dump_state prescale_gradients "
    "gradient_predivide_factor gradient_clipping zero_allow_untested_optimizer "
    "zero_force_ds_cpu_optimizer fp16.loss_scale fp16.initial_scale_power fp16.loss_scale_window "
    "fp16.hysteresis fp16.consecutive_hysteresis fp16.min_loss_scale bf16.immediate_grad_update "
    "data_types.param_dtype " ZERO "stage " ZERO "load_from_fp32_weights " ZERO
    "elastic_checkpoint " ZERO "ignore_unused_parameters " ZERO
    "stage3_gather_16bit_weights_on_model_save " ZERO
    "stage3_gather_fp16_weights_on_model_save " ZERO "gather_16bit_weights_on_model_save " ZERO
    "log_trace_cache_warnings " ZERO "override_module_apply " ZERO "allgather_partitions "
    "train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps";
static const char *const no_bytes_below[] = {
    "optimizer.",
    "scheduler.",
    "aio.",
    "checkpoint.",
    "flops_profiler.",
    "tensorboard.",
    "wandb.",
    "comet.",
    "csv_monitor.",
    "comms_logger.",
    "monitor_config.",
    "activation_checkpointing.", /* of deepspeed.checkpointing alone */
    "zero_optimization.offload_optimizer.",
    "zero_optimization.offload_param."};

/* What would take other bytes, and is not played: with the value that asks for nothing. */
static const struct {
  const char *key;
  uint64_t none;
} refused[] = {{ZERO "zero_hpz_partition_size", 1},
               {ZERO "zero_quantized_weights", 0},
               {ZERO "zero_quantized_nontrainable_weights", 0},
               {ZERO "zero_quantized_gradients", 0},
               {ZERO "parameter_alignment", 0},
               {ZERO "legacy_stage1", 0},
               {ZERO "memory_efficient_linear", 1},
               {ZERO "compute_grad_norm", 1},
               {ZERO "use_multi_rank_bucket_allreduce", 1},
               {ZERO "stage3_use_all_reduce_for_fetch_params", 0},
               {ZERO "stage3_allgather_sequential", 0},
               {ZERO "stage3_module_granularity_threshold", 0},
               {"fp16.auto_cast", 0},
               {"fp16.fp16_master_weights_and_grads", 0},
               {"bf16.bf16_master_weights_and_grads", 0},
               {"bf16.bf16_optimizer_states", 0},
               {"bf16.check_grad_overflow", 1},
               {"amp.enabled", 0},
               {"torch_autocast.enabled", 0},
               {"sparse_gradients", 0},
               {"compression_training.enabled", 0}};

typedef struct config {
  job *j;
  const char *path;
  const vram_file *f;
} config;

static const vram_file_value *value_of(const config *c, const char *key) {
  const vram_file_value *v = vram_file_get(c->f, key, (uint32_t)strlen(key));
  return v && v->kind != VRAM_VALUE_NULL ? v : NULL;
}

static int is_key(const vram_file_value *v, const char *key) {
  return v->name_len == strlen(key) && !memcmp(v->name, key, v->name_len);
}

static int is_text(const vram_file_value *v, const char *text) {
  return v && v->kind == VRAM_VALUE_TEXT && v->count == strlen(text) &&
         !memcmp(v->text, text, (size_t)v->count);
}

/* FILE: key: what */
static int bad(const config *c, const vram_file_value *v, const char *what) {
  cmd_say("%s: %.*s: %s", c->path, (int)v->name_len, v->name, what);
  return USAGE;
}

/* A whole number, also 5e8, or a truth value. */
static int number_of(const vram_file_value *v, uint64_t *n) {
  if (v->kind == VRAM_VALUE_UINT || v->kind == VRAM_VALUE_BOOL)
    *n = v->number.u;
  else if (v->kind == VRAM_VALUE_FLOAT && v->number.f >= 0 && v->number.f < 1e18)
    *n = (uint64_t)v->number.f;
  else
    return 0;
  return v->kind != VRAM_VALUE_FLOAT || (double)*n == v->number.f;
}

static int is_zero(const vram_file_value *v) {
  uint64_t n;
  return number_of(v, &n) && !n;
}

/* ---- what --parallel has words for */

static int word_add(const config *c, const vram_file_value *v, const char *word) {
  char *const to = c->j->made_spec;
  const size_t n = strlen(to), cap = sizeof c->j->made_spec;
  uint64_t number;
  int len;
  if (v->kind == VRAM_VALUE_NULL)
    return FITS;
  if (is_text(v, "auto"))
    return bad(c, v,
               "\"auto\" is what the Trainer of transformers fills in: put what it says there");
  if (v->kind == VRAM_VALUE_TEXT)
    len =
        snprintf(to + n, cap - n, ",%s=%.*s", word, (int)(v->count < 64 ? v->count : 64), v->text);
  else if (number_of(v, &number))
    len = snprintf(to + n, cap - n, ",%s=%" PRIu64, word, number);
  else
    return bad(c, v, "neither a whole number nor true or false");
  return len > 0 && (size_t)len < cap - n ? FITS : bad(c, v, "too many options");
}

static int key_read(const config *c, const vram_file_value *v, int stage) {
  char name[128];
  uint64_t n;
  size_t i;
  snprintf(name, sizeof name, "%.*s", (int)v->name_len, v->name);
  for (i = 0; i < sizeof words / sizeof *words; i++)
    if (is_key(v, words[i].key)) {
      const char *const word = words[i].word ? words[i].word : strrchr(name, '.') + 1;
      /* DeepSpeed has no use for these in other stages */
      const int of_third =
          !strncmp(word, "stage3_", 7) || cmd_in(word, "sub_group_size offload_param");
      return (of_third && stage != 3) || (stage == 3 && !strcmp(word, "round_robin_gradients"))
                 ? FITS
                 : word_add(c, v, word);
    }
  for (i = 0; i < sizeof refused / sizeof *refused; i++)
    if (is_key(v, refused[i].key))
      return v->kind == VRAM_VALUE_NULL || (number_of(v, &n) && n == refused[i].none)
                 ? FITS
                 : bad(c, v, "not played");
  if (v->name_len < sizeof name && cmd_in(name, no_bytes))
    return FITS;
  for (i = 0; i < sizeof no_bytes_below / sizeof *no_bytes_below; i++)
    if (!strncmp(name, no_bytes_below[i], strlen(no_bytes_below[i])))
      return FITS;
  return bad(c, v, "no key that is known here");
}

static int stage_read(const config *c, int *stage) {
  const vram_file_value *const v = value_of(c, ZERO "stage");
  uint64_t n;
  if (!v) {
    cmd_say("%s: no zero_optimization.stage (expected 1, 2 or 3)", c->path);
    return USAGE;
  }
  if (!number_of(v, &n) || !n || n > 3)
    return bad(c, v, "not played (expected 1, 2 or 3)");
  *stage = (int)n;
  snprintf(c->j->made_spec, sizeof c->j->made_spec, "ds%d=%" PRIu32, *stage, c->j->devices);
  return FITS;
}

/* Gradients are accumulated in the model's dtype, where nothing else is said. */
static int accumulation_dtype_read(const config *c) {
  const vram_file_value *const v = value_of(c, "data_types.grad_accum_dtype");
  const vram_dtype d = v ? vram_dtype_from_name_n(v->text, (uint32_t)v->count) : VRAM_DTYPE_NONE;
  const vram_parallel *const p = &c->j->parallel;
  return !v || d == (p->fp16   ? VRAM_F16
                     : p->bf16 ? VRAM_BF16
                               : VRAM_F32)
             ? FITS
             : bad(c, v, "another dtype than the model's is not played");
}

/* ---- what other options say */

/* A number that another option may have said: 0: none is here. */
static int count_read(const config *c, const char *key, uint64_t *n) {
  const vram_file_value *const v = value_of(c, key);
  *n = 0;
  return !v || is_text(v, "auto") || (number_of(v, n) && *n && *n <= 1048576)
             ? FITS
             : bad(c, v, "not a count");
}

static int batch_read(const config *c) {
  job *const j = c->j;
  uint64_t all, micro, times;
  uint32_t i;
  if (count_read(c, "train_batch_size", &all) ||
      count_read(c, "train_micro_batch_size_per_gpu", &micro) ||
      count_read(c, "gradient_accumulation_steps", &times))
    return USAGE;
  if (times && j->o.accumulate > 1 && times != j->o.accumulate)
    return bad(c, value_of(c, "gradient_accumulation_steps"), "--accumulate says another number");
  if (j->o.accumulate > 1)
    times = j->o.accumulate;
  if (all && micro && !times && all % (micro * j->devices) == 0)
    times = all / (micro * j->devices);
  times += !times;
  if (all && !micro && all % (times * j->devices) == 0)
    micro = all / (times * j->devices);
  if (all && micro * times * j->devices != all)
    return bad(c, value_of(c, "train_batch_size"),
               "not the micro-batch x gradient_accumulation_steps x devices");
  j->o.accumulate = (uint32_t)times;
  for (i = 0; i < j->ndims && j->dims[i].name; i++)
    ;
  if (i == j->ndims && micro) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, micro);
    return job_option(j, "--batch", text) ? FITS : USAGE;
  }
  return FITS;
}

/* _configure_basic_optimizer; one that --train names is the client's, which goes before. */
static int optimizer_read(const config *c) {
  static const struct {
    const char *type, *name;
  } known[] = {{"adam", "adamw"}, /* adam_w_mode is true where nothing else is said */
               {"adamw", "adamw"},
               {"adamax", "adamax"},
               {"nadam", "nadam"},
               {"radam", "radam"}};
  const vram_file_value *const type = value_of(c, "optimizer.type"),
                               *const momentum = value_of(c, "optimizer.params.momentum"),
                               *const own = value_of(c, "optimizer.params.torch_adam"),
                               *const more = value_of(c, "optimizer.params.amsgrad");
  job *const j = c->j;
  const char *name = NULL;
  char lower[24];
  size_t i;
  if (j->o.train)
    return FITS;
  if (!type) {
    cmd_say("%s: no optimizer.type (expected the optimizer with --train)", c->path);
    return USAGE;
  }
  for (i = 0; i + 1 < sizeof lower && type->kind == VRAM_VALUE_TEXT && i < type->count; i++)
    lower[i] =
        (char)(type->text[i] >= 'A' && type->text[i] <= 'Z' ? type->text[i] + 32 : type->text[i]);
  lower[i] = 0;
  for (i = 0; i < sizeof known / sizeof *known && !name; i++)
    name = !strcmp(lower, known[i].type) ? known[i].name : NULL;
  if (!strcmp(lower, "sgd"))
    name = !momentum || is_zero(momentum) ? "sgd" : "sgd_momentum";
  if (more && more->number.u)
    return bad(c, more, "not played");
  if (!name)
    return bad(c, type, "an optimizer that is not known (expected --train with one that is)");
  /* ops.adam.FusedAdam: its own counter is on the device, as that of a fused step is */
  if (!strcmp(name, "adamw") && !(own && own->number.u) && !j->o.optim_impl &&
      !job_option(j, "--optim-impl", "fused"))
    return USAGE;
  return job_option(j, "--train", name) ? FITS : USAGE;
}

/* An option that the file does not have, and that is another one by default here. */
static int default_add(const config *c, const char *option) {
  char *const to = c->j->made_spec;
  const size_t n = strlen(to), cap = sizeof c->j->made_spec;
  if (n + strlen(option) >= cap) {
    cmd_say("%s: too many options", c->path);
    return USAGE;
  }
  snprintf(to + n, cap - n, "%s", option);
  return FITS;
}

static int config_read(const config *c) {
  const vram_file_value *v, *pin[2];
  vram_error err;
  int stage = 0, status = stage_read(c, &stage);
  for (v = c->f->value_first; v && !status; v = v->next)
    if (!is_key(v, "data_types.grad_accum_dtype"))
      status = key_read(c, v, stage);
  if (status)
    return status;
  if (!value_of(c, "bf16.enabled") && !value_of(c, "bfloat16.enabled"))
    status = default_add(c, ",bf16=0");
  pin[0] = value_of(c, ZERO "offload_optimizer.pin_memory");
  pin[1] = value_of(c, ZERO "offload_param.pin_memory");
  if (!(pin[0] && pin[0]->number.u) && !(pin[1] && pin[1]->number.u) &&
      (value_of(c, ZERO "offload_optimizer.device") || value_of(c, ZERO "offload_param.device")))
    status |= default_add(c, ",pin_memory=0");
  if (status)
    return USAGE;
  if (vram_parallel_parse(c->j->made_spec, &c->j->parallel, &err)) {
    cmd_say("%s: %s", c->path, err.text);
    return USAGE;
  }
  c->j->spec = c->j->made_spec;
  c->j->training = "--deepspeed";
  if (accumulation_dtype_read(c) || batch_read(c))
    return USAGE;
  return optimizer_read(c);
}

int job_deepspeed(job *j) {
  config c;
  model_file m;
  int status;
  if (j->spec)
    return cmd_bad("--deepspeed excludes", "--parallel", NULL);
  if (!j->devices)
    return cmd_bad("no devices for", "--deepspeed", "--devices N");
  status = model_file_open(&m, j->deepspeed);
  c.j = j;
  c.path = j->deepspeed;
  c.f = &m.f;
  if (!status && m.f.format != VRAM_FILE_CONFIG) {
    cmd_say("%s: no JSON", j->deepspeed);
    status = USAGE;
  }
  if (!status)
    status = config_read(&c);
  model_file_close(&m);
  return status;
}
