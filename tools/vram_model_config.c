/* vram estimate of a config.json of transformers: its parameters and its cache. */
#include "vram_model.h"

typedef struct config_cache {
  uint64_t tokens, slots, bytes;
} config_cache;

/* As in training, where the file says it. */
static uint64_t trained_tokens(const vram_file *f) {
  static const char *const key[] = {"max_position_embeddings", "n_positions",
                                    "text_config.max_position_embeddings"};
  size_t i;
  for (i = 0; i < 3; i++) {
    const vram_file_value *v = vram_file_get(f, key[i], (uint32_t)strlen(key[i]));
    if (v && v->kind == VRAM_VALUE_UINT)
      return v->number.u;
  }
  return 4096;
}

static void print_text(const char *path, const vram_hf_config *c, const config_cache *k) {
  char text[32];
  printf("%s%s%s  config.json  %s\n\n", cmd_bold, path, cmd_plain, c->family);
  printf("parameters   %11s  %s at %s, %" PRIu64 " tensors\n", cmd_human(c->params_bytes),
         cmd_grouped(c->params, text), vram_dtype_name(c->dtype), c->state_tensors);
  if (c->quantised)
    printf("note: a checkpoint quantised with %s; its shards have the bytes\n",
           cmd_shown(c->quantised, c->quantised_len));
  printf("layers       %11" PRIu64 "  %" PRIu64 " with full attention", c->layers, c->full_layers);
  if (c->sliding_layers)
    printf(", %" PRIu64 " slide over %" PRIu64, c->sliding_layers, c->window);
  if (c->state_layers)
    printf(", %" PRIu64 " without attention", c->state_layers);
  printf("\ncache        %11s  %" PRIu64 " x %" PRIu64 " tokens, %" PRIu64 " bytes a token\n",
         cmd_human(k->bytes), k->slots, k->tokens, c->kv_bytes_per_token);
  if (c->conv_elements || c->ssm_elements)
    printf("states       %" PRIu64 " elements of convolutions and %" PRIu64
           " of state spaces for each sequence\n",
           c->conv_elements, c->ssm_elements);
}

static void print_json(const char *path, const vram_hf_config *c, const config_cache *k) {
  printf("{\"model\":");
  cmd_json_text(stdout, path);
  printf(",\"format\":\"config.json\",\"architecture\":\"%s\",\"params\":%" PRIu64
         ",\"text_params\":%" PRIu64 ",\"params_bytes\":%" PRIu64 ",\"dtype\":\"%s\"",
         c->family, c->params, c->text_params, c->params_bytes, vram_dtype_name(c->dtype));
  printf(",\"tensors\":%" PRIu64 ",\"tied\":%s,\"layers\":%" PRIu64 ",\"full_layers\":%" PRIu64
         ",\"sliding_layers\":%" PRIu64 ",\"window\":%" PRIu64,
         c->state_tensors, c->is_tied ? "true" : "false", c->layers, c->full_layers,
         c->sliding_layers, c->window);
  printf(",\"n_ctx\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"kv_bytes_per_token\":%" PRIu64
         ",\"kv_cache_bytes\":%" PRIu64 ",\"state_elements\":{\"conv\":%" PRIu64 ",\"ssm\":%" PRIu64
         "}}\n",
         k->tokens, k->slots, c->kv_bytes_per_token, k->bytes, c->conv_elements, c->ssm_elements);
}

int model_config(const file_job *j, const model_file *m) {
  config_cache k;
  vram_hf_config c;
  vram_error e;
  if (j->csv || j->table)
    return cmd_bad("an option of files with tensors:", j->csv ? "--csv" : "--table", NULL);
  if (vram_hf_config_read(&m->f, &c, &e)) {
    cmd_say("%s: %s", m->path, e.text);
    return USAGE;
  }
  k.tokens = j->o.n_ctx ? j->o.n_ctx : trained_tokens(&m->f);
  k.slots = j->o.slots ? j->o.slots : 1;
  k.bytes = vram_hf_kv_cache_bytes(&c, k.tokens, k.slots);
  if (k.bytes > (uint64_t)VRAM_MAX_BYTES) {
    cmd_say("%s: a cache of more than 2^63-1 bytes", m->path);
    return USAGE;
  }
  if (j->json)
    print_json(m->path, &c, &k);
  else
    print_text(m->path, &c, &k);
  return FITS;
}
