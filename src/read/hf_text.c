/* >>read/hf_text    config.json as a model in the text form: what a module's forward pass calls, in
   its order, and where Python lets go of values (`drop`). hf_lines.c and its kin have the lines. */
#include "read/read.h"

/* ---- what a file says ---- */

VRAM__FN void vram__hf_refuse(vram__hf_pen *w, const char *text, const char *name) {
  vram__hf_fail(&w->h, VRAM_ERR_UNSUPPORTED, text, name);
}

/* A key that decides what is computed, as a text; NULL: it is not there. */
VRAM__FN const vram_file_value *vram__hf_word(vram__hf_pen *w, const char *key) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (!v || v->kind == VRAM_VALUE_NULL)
    return NULL;
  if (v->kind != VRAM_VALUE_TEXT || v->count > VRAM__HF_PATH) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no text is the key ", key);
    return NULL;
  }
  return v;
}

VRAM__FN int vram__hf_is_word(const vram_file_value *v, const char *word) {
  return vram__text_is(v->text, (uint32_t)v->count, word);
}

static void vram__hf_activation(vram__hf_pen *w) {
  const vram_file_value *v = vram__hf_word(w, w->row->act_key);
  if (v && *vram__hf_flag_of(w, 'L') && vram__hf_is_word(v, "gelu"))
    v = NULL; /* GemmaConfig: a value of old files that means the default */
  w->activation = v ? vram__hf_activation_find(v->text, v->count)
                    : vram__hf_activation_find(w->row->act, vram__text_len(w->row->act));
  if (!w->activation)
    vram__hf_refuse(w, "an activation whose lines are not known: ", w->row->act_key);
}

/* Angles that are known before the tokens are: no more lines than without scaling. */
static void vram__hf_rope(vram__hf_pen *w) {
  static const char *const key[] = {
      "rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type",
      "rope_parameters.full_attention.rope_type", "rope_parameters.sliding_attention.rope_type"};
  static const char *const share[] = {"partial_rotary_factor",
                                      "rope_parameters.partial_rotary_factor",
                                      "rope_scaling.partial_rotary_factor"};
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_word(w, key[i]);
    if (v && !vram__hf_is_word(v, "default") && !vram__hf_is_word(v, "linear") &&
        !vram__hf_is_word(v, "llama3") && !vram__hf_is_word(v, "yarn"))
      vram__hf_refuse(w, "angles that change with the tokens: ", key[i]);
  }
  for (i = 0; i < sizeof share / sizeof *share; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, share[i]);
    if (v && v->kind != VRAM_VALUE_NULL && !(v->kind == VRAM_VALUE_UINT && v->number.u == 1) &&
        !(v->kind == VRAM_VALUE_FLOAT && v->number.f >= 1 && v->number.f <= 1))
      vram__hf_refuse(w, "only a part of a head is rotated: ", share[i]);
  }
}

/* What lines leave out must not be there. */
static void vram__hf_no_dropout(vram__hf_pen *w) {
  static const char *const key[] = {"attention_dropout", "resid_pdrop",      "embd_pdrop",
                                    "hidden_dropout",    "residual_dropout", "embedding_dropout"};
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, key[i]);
    if (v && v->kind != VRAM_VALUE_NULL && !(v->kind == VRAM_VALUE_UINT && !v->number.u) &&
        !(v->kind == VRAM_VALUE_FLOAT && v->number.f >= 0 && v->number.f <= 0))
      vram__hf_refuse(w, "dropout, whose lines are not known: ", key[i]);
  }
}

static void vram__hf_numbers(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  vram__hf *const h = &w->h;
  const int key = vram__hf_bias_key(h);
  const uint64_t used = vram__hf_number(h, "num_experts_per_tok", w->row->experts_used);
  const struct {
    char letter;
    uint64_t number;
  } row[] = {{'h', c->hidden},
             {'n', c->heads},
             {'k', c->kv_heads},
             {'d', c->head_dim},
             {'r', c->head_dim / 2},
             {'Q', c->heads * c->head_dim},
             {'K', c->kv_heads * c->head_dim},
             {'i', c->intermediate},
             {'v', c->vocab},
             {'g', c->kv_heads ? c->heads / c->kv_heads : 0},
             {'e', c->experts},
             {'m', c->expert_intermediate},
             {'2', 2 * c->expert_intermediate},
             {'t', used}};
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++)
    *vram__hf_number_of(w, row[i].letter) = row[i].number;
  *vram__hf_flag_of(w, 'T') = c->is_tied;
  *vram__hf_flag_of(w, 'b') =
      vram__hf_has(h, VRAM__HF_QKV_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_QKV) && key);
  *vram__hf_flag_of(w, 'o') =
      vram__hf_has(h, VRAM__HF_O_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_O) && key);
  *vram__hf_flag_of(w, 'u') =
      vram__hf_has(h, VRAM__HF_MLP_BIAS) ||
      (vram__hf_has(h, VRAM__HF_MLP_KEY) && vram__hf_bool(h, "mlp_bias", 0));
  *vram__hf_flag_of(w, 'g') = c->kv_heads != c->heads;
  *vram__hf_flag_of(w, 'K') =
      (uint8_t)vram__hf_bool(h, "norm_topk_prob", *vram__hf_flag_of(w, 'K'));
  if (!c->kv_heads || c->heads % c->kv_heads)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads of keys and values");
  if (!c->head_dim || c->head_dim % 2)
    vram__hf_fail(h, VRAM_ERR_VALUE, "a head that has no two halves: ", "head_dim");
  for (i = 0; i < c->layers && !vram__hf_is_moe(h, i); i++)
    continue;
  if (i < c->layers && (!used || used > c->experts))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "experts for a token");
  vram__hf_numbers_of_parts(w);
}

/* ---- the model ---- */

/* The path of a layer: %N and its number. */
static void vram__hf_path(vram__hf_pen *w, uint64_t layer) {
  uint32_t n = 0;
  *w->path = 0;
  vram__text_puts(w->path, sizeof w->path, &n, vram__hf_name_of(w, 'N'));
  vram__text_putu(w->path, sizeof w->path, &n, layer);
  vram__text_puts(w->path, sizeof w->path, &n, ".");
}

/* What comes before the layers. */
static void vram__hf_before(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  *vram__hf_flag_of(w, 'F') = !c->sliding_layers || c->full_layers || *vram__hf_flag_of(w, 'R');
  *vram__hf_flag_of(w, 'O') = c->sliding_layers != 0;
  *vram__hf_flag_of(w, 'W') = c->sliding_layers && c->window <= *vram__hf_number_of(w, 'S');
  vram__hf_say(w, NULL, w->row->before, "");
}

static void vram__hf_write_layer(vram__hf_pen *w, uint64_t i) {
  const int slides = vram__hf_slides(&w->h, i);
  vram__hf_path(w, i);
  vram__hf_set(w, 'A', "@self_attn.");
  *vram__hf_flag_of(w, 'P') =
      *vram__hf_flag_of(w, 'n') || (*vram__hf_flag_of(w, 'N') && !vram__hf_rotates(&w->h, i));
  if (*vram__hf_flag_of(w, 'G'))
    vram__hf_part_layer(w, slides);
  else {
    *vram__hf_flag_of(w, 'w') = slides && *vram__hf_flag_of(w, 'W');
    vram__hf_set(w, 'L', "S");
  }
  *vram__hf_flag_of(w, 'l') = i != 0;
  vram__hf_set(w, 'r', slides && *vram__hf_flag_of(w, 'R') ? "%Brotary_emb_local" : "%Brotary_emb");
  *vram__hf_flag_of(w, '9') = !vram__hf_has_attention(&w->h, i);
  *vram__hf_flag_of(w, '8') = (uint8_t)vram__hf_is_moe(&w->h, i);
  vram__hf_say(w, NULL, w->row->layer, "");
}

static uint64_t vram__hf_tokens(const vram_file *f) {
  static const char *const key[] = {"max_position_embeddings", "n_positions"};
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram_file_value *const v = vram__hf_at(f, "", key[i]);
    if (v && v->kind == VRAM_VALUE_UINT && v->number.u && v->number.u < 4096)
      return v->number.u;
  }
  return 4096;
}

static void vram__hf_open(vram__hf_pen *w, const vram_file *f, const vram_hf_sizes *sizes,
                          vram_error *e) {
  uint32_t i;
  vram__hf_read(&w->h, f, &w->c, e);
  if (!w->h.result)
    w->row = vram__hf_lines_find(w->c.family);
  if (!w->row) {
    vram__hf_refuse(w, "no lines of the text form are known of model_type ", w->c.family);
    return;
  }
  for (i = 0; w->row->flags[i]; i++)
    *vram__hf_flag_of(w, w->row->flags[i]) = 1;
  w->norm = vram__hf_part_find(w->row->norm, vram__text_len(w->row->norm));
  vram__hf_set(w, 'B', "model.");
  vram__hf_set(w, 'T', "model");
  vram__hf_set(w, 'N', "%Blayers.");
  vram__hf_activation(w);
  vram__hf_rope(w);
  vram__hf_no_dropout(w);
  w->size = *sizes;
  *vram__hf_number_of(w, 'N') = sizes->batch ? sizes->batch : sizes->cache ? 1 : 2;
  *vram__hf_number_of(w, 'S') = sizes->tokens ? sizes->tokens : vram__hf_tokens(f);
  w->size.tokens = *vram__hf_number_of(w, 'S');
  w->size.new_tokens += !w->size.new_tokens;
  vram__hf_numbers(w);
}

/* What no generation can be written of. */
static void vram__hf_no_generation(vram__hf_pen *w) {
  const uint64_t most = UINT64_C(1) << 40;
  if (!w->row->has_cache)
    vram__hf_refuse(w, "no lines of its caches are known of model_type ", w->c.family);
  else if (w->size.tokens > most || w->size.new_tokens > most || w->c.window > most)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "a generation, or its window, ", "is too long");
  else if (w->c.sliding_layers && w->c.window < 2)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no model has so short a ", "sliding_window");
}

/* A generation: its parts one behind the other. */
static void vram__hf_write_parts(vram__hf_pen *w) {
  const char *const dtype =
      vram_dtype_name(w->c.dtype == VRAM_BF16 || w->c.dtype == VRAM_F16 ? w->c.dtype : VRAM_F32);
  uint32_t part;
  uint64_t i;
  vram__hf_set(w, 'J', w->c.family);
  vram__hf_set(w, 'D', dtype);
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, generate(), greedy\n"
               "model %J dtype=%D\n",
               "");
  for (part = 0; part < VRAM__HF_PARTS && !w->h.result; part++) {
    if (!vram__hf_part_is(w, part))
      continue;
    vram__hf_part_begin(w, part);
    vram__hf_before(w);
    for (i = 0; i < w->c.layers && !w->h.result; i++)
      vram__hf_write_layer(w, i);
    vram__hf_say(w, NULL, w->row->after, "");
    vram__hf_part_end(w);
  }
}

VRAM_API vram_result vram_hf_write(const vram_file *f, const vram_hf_sizes *sizes, void *memory,
                                   uint64_t bytes, const vram_sink *sink, vram_error *e) {
  vram__hf_pen *const w = (vram__hf_pen *)memory;
  uint64_t i;
  vram__error_clear(e);
  if (bytes < sizeof *w)
    return vram__error_begin(e, VRAM_ERR_MEMORY, 0, "the caller's memory is too small");
  vram__memory_zero(w, sizeof *w);
  w->sink = sink;
  w->h.f = f;
  w->h.e = e;
  w->h.prefix = "";
  if (vram__diffusers_write(w, sizes))
    return w->h.result;
  if (sizes->height || sizes->width)
    vram__hf_refuse(w, "H and W are sizes of images: no model of images", "");
  if (!w->h.result)
    vram__hf_open(w, f, sizes, e);
  if (w->h.result)
    return w->h.result;
  if (sizes->cache) {
    vram__hf_no_generation(w);
    if (!w->h.result)
      vram__hf_write_parts(w);
    vram__hf_flush(w);
    return w->h.result;
  }
  vram__hf_set(w, 'e', w->c.family);
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, train mode\n"
               "model %e dtype=f32\n"
               "dim N=$N{!0 S=$S}\n",
               "");
  vram__hf_set(w, 'I', "input_ids");
  vram__hf_say(w, NULL, "<inputs>", "");
  vram__hf_before(w);
  for (i = 0; i < w->c.layers && !w->h.result; i++)
    vram__hf_write_layer(w, i);
  vram__hf_say(w, NULL, w->row->after, "");
  vram__hf_say(w, NULL, "<loss>", "");
  vram__hf_flush(w);
  return w->h.result;
}
