/* vram estimate of a config.json of transformers: its parameters and its cache. */
#include "vram_model.h"
#include "vram_serve.h"

typedef struct config_cache {
  uint64_t tokens, slots, bytes;
} config_cache;

/* As in training, where the file says it. */
static uint64_t trained_tokens(const vram_file *f) {
  static const char *const key[] = {"max_position_embeddings", "n_positions",
                                    "text_config.max_position_embeddings", "max_target_positions"};
  size_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *v = vram_file_get(f, key[i], (uint32_t)strlen(key[i]));
    if (v && v->kind == VRAM_VALUE_UINT)
      return v->number.u;
  }
  return 4096;
}

static void print_caches(const vram_hf_config *c, const config_cache *k) {
  if (c->encoder_layers && c->encoder_layers == c->layers) {
    printf("layers       %11" PRIu64 "  of encoders, without a cache\n", c->layers);
    return;
  }
  printf("layers       %11" PRIu64 "  %" PRIu64 " with full attention", c->layers, c->full_layers);
  if (c->encoder_layers)
    printf(", %" PRIu64 " of the encoder", c->encoder_layers);
  if (c->sliding_layers)
    printf(", %" PRIu64 " slide over %" PRIu64, c->sliding_layers, c->window);
  if (c->state_layers)
    printf(", %" PRIu64 " without attention", c->state_layers);
  printf("\ncache        %11s  %" PRIu64 " x %" PRIu64 " tokens%s, %" PRIu64 " bytes a token\n",
         cmd_human(k->bytes), k->slots, k->tokens,
         c->cross_layers && !c->cross_tokens ? " and as many of the encoder" : "",
         c->kv_bytes_per_token);
  if (c->cross_tokens)
    printf("encoder's    %11s  %" PRIu64 " x %" PRIu64 " tokens, which the decoder keeps\n",
           cmd_human(k->slots * c->state_bytes), k->slots, c->cross_tokens);
  else if (c->state_bytes)
    printf("states       %11s  of %" PRIu64 " layers, for each sequence %" PRIu64
           " elements of convolutions and %" PRIu64 " of state spaces\n",
           cmd_human(k->slots * c->state_bytes), c->state.layers, c->conv_elements,
           c->ssm_elements);
}

static void print_text(const char *path, const vram_hf_config *c, const config_cache *k) {
  char text[32];
  printf("%s%s%s  config.json  %s\n\n", cmd_bold, path, cmd_plain, c->family);
  printf("parameters   %11s  %s at %s, %" PRIu64 " tensors\n", cmd_human(c->params_bytes),
         cmd_grouped(c->params, text), vram_dtype_name(c->dtype), c->state_tensors);
  if (c->quantised)
    printf("note: a checkpoint quantised with %s; its shards have the bytes\n",
           cmd_shown(c->quantised, c->quantised_len));
  print_caches(c, k);
}

/* Keys of a JSON object, with a comma before each. */
static void print_json(const vram_hf_config *c, const config_cache *k) {
  printf(",\"layers\":%" PRIu64 ",\"full_layers\":%" PRIu64 ",\"sliding_layers\":%" PRIu64
         ",\"window\":%" PRIu64,
         c->layers, c->full_layers, c->sliding_layers, c->window);
  if (c->encoder_layers)
    printf(",\"encoder_layers\":%" PRIu64 ",\"cross_layers\":%" PRIu64 ",\"cross_tokens\":%" PRIu64,
           c->encoder_layers, c->cross_layers,
           c->cross_layers && !c->cross_tokens ? k->tokens : c->cross_tokens);
  printf(",\"n_ctx\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"kv_bytes_per_token\":%" PRIu64
         ",\"kv_cache_bytes\":%" PRIu64 ",\"state_bytes\":%" PRIu64
         ",\"state_elements\":{\"conv\":%" PRIu64 ",\"ssm\":%" PRIu64 "}",
         k->tokens, k->slots, c->kv_bytes_per_token, k->bytes, k->slots * c->state_bytes,
         c->conv_elements, c->ssm_elements);
}

static int config_read(const file_job *j, const model_file *m, vram_hf_config *c, config_cache *k) {
  vram_error e;
  if (vram_hf_config_read(&m->f, c, &e)) {
    cmd_say("%s: %s", m->path, e.text);
    return USAGE;
  }
  k->tokens = j->o.n_ctx ? j->o.n_ctx : trained_tokens(&m->f);
  k->slots = j->o.slots ? j->o.slots : 1;
  k->bytes = vram_hf_kv_cache_bytes(c, k->tokens, k->slots);
  if (k->bytes > (uint64_t)VRAM_MAX_BYTES || c->state_bytes > (uint64_t)VRAM_MAX_BYTES / k->slots) {
    cmd_say("%s: a cache of more than 2^63-1 bytes", m->path);
    return USAGE;
  }
  return FITS;
}

int model_config(const file_job *j, const model_file *m) {
  config_cache k;
  vram_hf_config c;
  int status;
  if (j->csv || j->table)
    return cmd_bad("an option of files with tensors:", j->csv ? "--csv" : "--table", NULL);
  status = config_read(j, m, &c, &k);
  if (status)
    return status;
  if (j->json) {
    printf("{\"model\":");
    cmd_json_text(stdout, m->path);
    printf(",\"format\":\"config.json\",\"architecture\":\"%s\",\"params\":%" PRIu64
           ",\"text_params\":%" PRIu64 ",\"params_bytes\":%" PRIu64 ",\"dtype\":\"%s\"",
           c.family, c.params, c.text_params, c.params_bytes, vram_dtype_name(c.dtype));
    printf(",\"tensors\":%" PRIu64 ",\"tied\":%s", c.state_tensors, c.is_tied ? "true" : "false");
    print_json(&c, &k);
    printf("}\n");
  } else
    print_text(m->path, &c, &k);
  return FITS;
}

int model_folder_cache(const file_job *j, const char *path, int is_asked) {
  config_cache k;
  vram_hf_config c;
  vram_error e;
  model_file m;
  int status = model_config_open(&m, path);
  if (!status && !is_asked && vram_hf_config_read(&m.f, &c, &e))
    status = CMD_ABSENT; /* of a family that is not known the tensors will do */
  if (!status)
    status = config_read(j, &m, &c, &k);
  if (!status && j->json)
    print_json(&c, &k);
  else if (!status && !j->csv)
    print_caches(&c, &k);
  model_file_close(&m);
  return status;
}

/* ---- for a serving engine ---- */

static int text_is(const vram_file *f, const char *key, const char *begin) {
  const vram_file_value *v = vram_file_get(f, key, (uint32_t)strlen(key));
  const size_t n = strlen(begin);
  return v && v->kind == VRAM_VALUE_TEXT && v->count >= n && !strncmp(v->text, begin, n);
}

/* fp8 where the checkpoint says so: layers/attention/attention.py (kv_cache_scheme),
   utils/torch_utils.py (modelopt) of vLLM 0.33.0. */
static vram_dtype cache_dtype(const vram_file *f) {
  static const char key[] = "quantization_config.kv_cache_scheme.num_bits";
  const vram_file_value *bits = vram_file_get(f, key, (uint32_t)sizeof key - 1);
  const int is_fp8 = bits && bits->kind == VRAM_VALUE_UINT && bits->number.u == 8 &&
                     text_is(f, "quantization_config.kv_cache_scheme.type", "float");
  return is_fp8 || text_is(f, "quantization_config.kv_cache_quant_algo", "FP8") ||
                 text_is(f, "quantization_config.quantization.kv_cache_quant_algo", "FP8")
             ? VRAM_F8E4M3FN
             : VRAM_DTYPE_NONE;
}

/* A model in f32 is served in the first dtype of the platform: bf16 from compute capability 8.0 on
   (_resolve_auto_dtype in config/model.py of vLLM 0.33.0; older devices and pooling models: f16, of
   the same size). */
static int serve_fill(const model_file *m, vram_hf_config *c, serve_model *s) {
  vram_error e;
  if (vram_hf_config_read(&m->f, c, &e)) {
    cmd_say("%s: %s", m->path, e.text);
    return USAGE;
  }
  if (c->encoder_layers) {
    cmd_say("%s: an encoder or a model with one, which is not served by these rules: %s", m->path,
            c->family);
    return USAGE;
  }
  s->config = c;
  s->served = c->dtype == VRAM_F32 ? VRAM_BF16 : c->dtype;
  s->cache = cache_dtype(&m->f);
  s->weights_bytes = c->quantised ? 0 : c->params * vram_dtype_get_info(s->served)->block_bytes;
  s->max_model_len = trained_tokens(&m->f);
  s->hidden = (uint32_t)c->hidden;
  s->vocab = (uint32_t)c->vocab;
  s->experts_used = c->experts ? (uint32_t)c->experts_used : 0;
  s->intermediate = (uint32_t)c->intermediate;
  if (c->experts && c->experts_used * c->expert_intermediate > c->intermediate)
    s->intermediate = (uint32_t)(c->experts_used * c->expert_intermediate);
  return FITS;
}

int model_serve(const char *path, int argc, char **argv, int is_fit) {
  static serve_model s;
  static vram_hf_config c;
  model_file m;
  int i, has_weights = 0, status = model_config_open(&m, path);
  if (status == CMD_ABSENT && model_sniff(path) == VRAM_FILE_GGUF)
    status = cmd_bad("a GGUF file, of which vLLM 0.33 has no loader:", path,
                     "a config.json, or --kv full:32x8x128");
  else if (status == CMD_ABSENT)
    status = cmd_bad("no config.json of transformers:", path, "--kv full:32x8x128 without it");
  if (!status)
    status = serve_fill(&m, &c, &s);
  model_file_close(&m);
  if (status)
    return status;
  s.name = path;
  for (i = 0; i < argc; i++)
    has_weights |= !strcmp(argv[i], "--weights");
  if (model_sniff(path) != VRAM_FILE_CONFIG && !has_weights) {
    status = model_file_open(&m, path);
    s.weights_bytes = m.f.tensor_bytes;
    model_file_close(&m);
  } else if (!s.weights_bytes && !has_weights)
    status = cmd_bad("a quantised checkpoint, whose shards have the bytes:", path,
                     "the folder with them, or --weights SIZE");
  return status ? status : serve_command(argc, argv, &s, is_fit);
}
