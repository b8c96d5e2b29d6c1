/* What a config.json of transformers says: parameters, and the cache of keys and values. */
#include "vram_model.h"

int model_config(const file_job *j, const model_file *m) {
  const uint64_t ctx = j->o.n_ctx ? j->o.n_ctx : 4096, slots = j->o.slots ? j->o.slots : 1;
  char params[32];
  vram_hf_config c;
  vram_error e;
  uint64_t cache;
  if (vram_hf_config_read(&m->f, &c, &e)) {
    cmd_say("%s: %s", m->path, e.text);
    return USAGE;
  }
  cache = vram_hf_kv_cache_bytes(&c, ctx, slots);
  if (cache == VRAM_OVERFLOW) {
    cmd_say("%s: the cache has more than 64 bits of bytes", m->path);
    return USAGE;
  }
  if (j->json) {
    printf("{\"model\":");
    cmd_json_text(stdout, m->path);
    printf(",\"format\":\"%s\",\"architecture\":\"%s\",\"dtype\":\"%s\",\"params\":%" PRIu64
           ",\"params_bytes\":%" PRIu64,
           vram_file_format_name(m->f.format), c.family, vram_dtype_name(c.dtype), c.params,
           c.params_bytes);
    printf(",\"n_ctx\":%" PRIu64 ",\"slots\":%" PRIu64 ",\"kv_cache_bytes\":%" PRIu64
           ",\"kv_bytes_per_token\":%" PRIu64 "}\n",
           ctx, slots, cache, c.kv_bytes_per_token);
    return FITS;
  }
  printf("%s%s%s  %s  %s, %s, %" PRIu64 " layers\n\n", cmd_bold, m->path, cmd_plain,
         vram_file_format_name(m->f.format), c.family, vram_dtype_name(c.dtype), c.layers);
  printf("params       %11s  %s of them\n", cmd_human(c.params_bytes),
         cmd_grouped(c.params, params));
  printf("cache        %11s  n_ctx %" PRIu64 ", slots %" PRIu64 "; %s a token\n", cmd_human(cache),
         ctx, slots, cmd_human(c.kv_bytes_per_token));
  if (c.quantised)
    printf("note: quantised by %.*s: the bytes of its parameters are in its shards\n",
           (int)c.quantised_len, c.quantised);
  return FITS;
}
