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

/* Angles that are known before the tokens are: no more lines than without scaling. J: all of a head
   is rotated; r: half of what is rotated, R. */
static void vram__hf_rope(vram__hf_pen *w) {
  static const char *const key[] = {
      "rope_scaling.rope_type", "rope_scaling.type", "rope_parameters.rope_type",
      "rope_parameters.full_attention.rope_type", "rope_parameters.sliding_attention.rope_type"};
  const double share = vram__hf_rotary_share(&w->h);
  uint32_t i;
  for (i = 0; i < sizeof key / sizeof *key; i++) {
    const vram_file_value *const v = vram__hf_word(w, key[i]);
    if (v && !vram__hf_is_word(v, "default") && !vram__hf_is_word(v, "linear") &&
        !vram__hf_is_word(v, "llama3") && !vram__hf_is_word(v, "yarn"))
      vram__hf_refuse(w, "angles that change with the tokens: ", key[i]);
  }
  *vram__hf_number_of(w, 'R') =
      share > 0 && share <= 1 ? (uint64_t)((double)w->c.head_dim * share) : 0;
  *vram__hf_flag_of(w, 'J') = *vram__hf_number_of(w, 'R') == w->c.head_dim;
  if (!*vram__hf_flag_of(w, 'J') && !*vram__hf_flag_of(w, '7'))
    vram__hf_refuse(w, "only a part of a head is rotated: ", "partial_rotary_factor");
  if (!*vram__hf_flag_of(w, 'n') && !vram__hf_has(&w->h, VRAM__HF_MLA) &&
      (!*vram__hf_number_of(w, 'R') || *vram__hf_number_of(w, 'R') % 2))
    vram__hf_fail(&w->h, VRAM_ERR_VALUE,
                  "what is rotated of a head has no two halves: ", "partial_rotary_factor");
}

#define VRAM__HF_BERT_DROPOUT                                                                      \
  "attention_probs_dropout_prob", "hidden_dropout_prob", "hidden_dropout_prob"
/* Where dropout is: the keys of attention (D), of what blocks give (C), of the embedding (S) and of
   a head (9), and what they are where they are missing; 9, where it is null, is C. Behind the last:
   others. */
static const struct {
  const char *type, *key[4];
  uint32_t attention, none, head; /* millionths; of a head: as `none` */
} vram__hf_dropouts[] = {
    {"opt", {"attention_dropout", "dropout", NULL, NULL}, 0, 100000, 0},
    {"phi", {"attention_dropout", "resid_pdrop", "embd_pdrop", NULL}, 0, 0, 0},
    {"starcoder2", {"attention_dropout", "residual_dropout", "embedding_dropout", NULL}, 0, 0, 0},
    {"stablelm", {"attention_dropout", "hidden_dropout", NULL, NULL}, 0, 0, 0},
    {"gpt_neox", {"attention_dropout", "hidden_dropout", "hidden_dropout", NULL}, 0, 0, 0},
    {"seed_oss", {"attention_dropout", "residual_dropout", NULL, NULL}, 100000, 100000, 0},
    {"gpt2", {"attn_pdrop", "resid_pdrop", "embd_pdrop", NULL}, 100000, 100000, 0},
    {"phi3", {"attention_dropout", "resid_pdrop", NULL, NULL}, 0, 0, 0},
    {"bert", {VRAM__HF_BERT_DROPOUT, "classifier_dropout"}, 100000, 100000, 0},
    {"roberta", {VRAM__HF_BERT_DROPOUT, "classifier_dropout"}, 100000, 100000, 0},
    {"xlm-roberta", {VRAM__HF_BERT_DROPOUT, "classifier_dropout"}, 100000, 100000, 0},
    {"camembert", {VRAM__HF_BERT_DROPOUT, "classifier_dropout"}, 100000, 100000, 0},
    {"electra", {VRAM__HF_BERT_DROPOUT, "classifier_dropout"}, 100000, 100000, 0},
    {"distilbert",
     {"attention_dropout", "dropout", "dropout", "seq_classif_dropout"},
     100000,
     100000,
     200000},
    {"", {"attention_dropout", NULL, NULL, NULL}, 0, 0, 0},
};

/* A probability as Python writes it: "0.1". */
static void vram__hf_probability(vram__hf_pen *w, char name, const char *key, uint64_t millionths) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  char *const to = vram__hf_name_of(w, name);
  uint32_t n = 0, digit = 100000;
  if (v && v->kind == VRAM_VALUE_FLOAT && v->number.f >= 0 && v->number.f <= 1)
    millionths = (uint64_t)(v->number.f * 1e6 + 0.5);
  else if (v && v->kind == VRAM_VALUE_UINT && v->number.u <= 1)
    millionths = v->number.u * 1000000;
  else if (v && v->kind != VRAM_VALUE_NULL)
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no probability is the key ", key);
  vram__text_putu(to, VRAM__HF_PATH, &n, millionths / 1000000);
  if (v && v->kind == VRAM_VALUE_UINT)
    return;
  vram__text_puts(to, VRAM__HF_PATH, &n, ".");
  millionths %= 1000000;
  do {
    vram__text_putu(to, VRAM__HF_PATH, &n, millionths / digit);
    millionths %= digit;
    digit /= 10;
  } while (millionths);
}

/* %D, %C, %S and %9 and their flags: of attention only where it is not 0. */
static void vram__hf_dropout_keys(vram__hf_pen *w) {
  static const char letter[] = "DCS9", zero[] = "_-+=";
  uint32_t i, k = 0;
  int is_zero;
  while (*vram__hf_dropouts[k].type &&
         !vram__text_is(w->c.family, vram__text_len(w->c.family), vram__hf_dropouts[k].type))
    k++;
  for (i = 0; i < 4; i++) {
    const char *key = vram__hf_dropouts[k].key[i];
    const char *const text = vram__hf_name_of(w, letter[i]);
    const vram_file_value *const v = key ? vram__hf_value(&w->h, key) : NULL;
    uint32_t none = i ? vram__hf_dropouts[k].none : vram__hf_dropouts[k].attention;
    if (!key)
      continue;
    if (i == 3 && vram__hf_dropouts[k].head)
      none = vram__hf_dropouts[k].head;
    else if (i == 3 && (!v || v->kind == VRAM_VALUE_NULL))
      key = vram__hf_dropouts[k].key[1];
    vram__hf_probability(w, letter[i], key, none);
    is_zero = vram__text_is(text, vram__text_len(text), "0.0") ||
              vram__text_is(text, vram__text_len(text), "0");
    *vram__hf_flag_of(w, letter[i]) = !w->size.cache && (i || !is_zero);
    *vram__hf_flag_of(w, zero[i]) = !w->size.cache && is_zero;
  }
}

/* What a row says may be there, and is unless its key is null: soft capping. */
static void vram__hf_optional(vram__hf_pen *w) {
  static const struct {
    char flag;
    const char *key;
  } row[] = {{'V', "final_logit_softcapping"}, {'Z', "attn_logit_softcapping"}};
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++) {
    const vram_file_value *const v = vram__hf_value(&w->h, row[i].key);
    if (v && v->kind == VRAM_VALUE_NULL)
      *vram__hf_flag_of(w, row[i].flag) = 0;
  }
}

/* Is attention written out in a generation? The caller says it, the file, or a family that has no
   other. */
static int vram__hf_attends_eagerly(vram__hf_pen *w) {
  const vram_file_value *const v = vram__hf_word(w, "attn_implementation");
  if (v && !vram__hf_is_word(v, "eager") && !vram__hf_is_word(v, "sdpa"))
    vram__hf_refuse(w, "a kind of attention whose lines are not known: ", "attn_implementation");
  return w->size.is_eager || *vram__hf_flag_of(w, 'e') || (v && vram__hf_is_word(v, "eager"));
}

/* Settings that decide what is computed, and of which only one is known. */
static void vram__hf_settings(vram__hf_pen *w) {
  static const struct {
    const char *type, *key;
    int known;
  } row[] = {{"opt", "do_layer_norm_before", 1},
             {"opt", "_remove_final_layer_norm", 0},
             {"opt", "layer_norm_elementwise_affine", 1},
             {"stablelm", "use_parallel_residual", 0},
             {"stablelm", "qk_layernorm", 0},
             {"gpt2", "reorder_and_upcast_attn", 0},
             {"gpt2", "add_cross_attention", 0},
             {"gemma2", "use_bidirectional_attention", 0},
             {"gemma3_text", "use_bidirectional_attention", 0},
             {"gemma3", "use_bidirectional_attention", 0}};
  const vram_file_value *clip;
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++)
    if (vram__text_is(w->c.family, vram__text_len(w->c.family), row[i].type) &&
        vram__hf_bool(&w->h, row[i].key, row[i].known) != row[i].known)
      vram__hf_refuse(w, "a setting whose lines are not known: ", row[i].key);
  clip = vram__hf_value(&w->h, "clip_qkv");
  if (clip && clip->kind != VRAM_VALUE_NULL)
    vram__hf_refuse(w, "a setting whose lines are not known: ", "clip_qkv");
  if (vram__hf_has(&w->h, VRAM__HF_OPT) && vram__hf_embedding_width(&w->h) != w->c.hidden)
    vram__hf_refuse(w, "a setting whose lines are not known: ", "word_embed_proj_dim");
  if (vram__text_is(w->c.family, vram__text_len(w->c.family), "gpt_neox"))
    *vram__hf_flag_of(w, 'Z') = (uint8_t)vram__hf_bool(&w->h, "use_parallel_residual", 1);
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
             {'r', *vram__hf_number_of(w, 'R') / 2},
             {'Q', c->heads * c->head_dim},
             {'K', c->kv_heads * c->head_dim},
             {'i', c->intermediate},
             {'v', c->vocab},
             {'g', c->kv_heads ? c->heads / c->kv_heads : 0},
             {'e', c->experts},
             {'m', c->expert_intermediate},
             {'2', 2 * c->expert_intermediate},
             {'3', 3 * c->hidden},
             {'9', 3 * c->head_dim},
             {'4', (c->heads + 2 * c->kv_heads) * c->head_dim},
             {'5', (c->heads + c->kv_heads) * c->head_dim},
             {'6', 2 * c->intermediate},
             {'p', vram__hf_positions(h)},
             {'y', vram__hf_number(h, "type_vocab_size", 2)},
             {'E', vram__hf_embedding_width(h)},
             {'7', vram__hf_labels(h)},
             {'t', used}};
  uint32_t i;
  for (i = 0; i < sizeof row / sizeof *row; i++)
    *vram__hf_number_of(w, row[i].letter) = row[i].number;
  *vram__hf_flag_of(w, 'T') = c->is_tied;
  *vram__hf_flag_of(w, 'b') =
      vram__hf_has(h, VRAM__HF_QKV_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_QKV) && key);
  *vram__hf_flag_of(w, 'o') = (uint8_t)vram__hf_o_bias(h);
  *vram__hf_flag_of(w, 'u') = (uint8_t)vram__hf_mlp_bias(h);
  *vram__hf_flag_of(w, 'g') = c->kv_heads != c->heads;
  *vram__hf_flag_of(w, '/') = c->kv_heads == 1;
  *vram__hf_flag_of(w, 'K') =
      (uint8_t)vram__hf_bool(h, "norm_topk_prob", *vram__hf_flag_of(w, 'K'));
  if (vram__hf_has(h, VRAM__HF_QK_HEADS | VRAM__HF_QK_KEY))
    *vram__hf_flag_of(w, '4') =
        (uint8_t)vram__hf_bool(h, vram__hf_name(h, "use_qk_norm", "qk_layernorm", NULL), 0);
  if (!c->kv_heads || c->heads % c->kv_heads)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads of keys and values");
  if (!*vram__hf_flag_of(w, 'n') && !vram__hf_has(h, VRAM__HF_MLA) &&
      (!c->head_dim || c->head_dim % 2))
    vram__hf_fail(h, VRAM_ERR_VALUE, "a head that has no two halves: ", "head_dim");
  if (!c->head_dim || (*vram__hf_flag_of(w, 'n') && c->hidden % c->heads))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads");
  i = 0;
  while (i < c->layers && !vram__hf_is_moe(h, i))
    i++;
  if (i < c->layers && (!used || used > c->experts))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "experts for a token");
  vram__hf_numbers_of_parts(w);
}

/* ---- the model ---- */

/* The path of a layer: %N and its number. */
VRAM__FN void vram__hf_path(vram__hf_pen *w, uint64_t layer) {
  uint32_t n = 0;
  *w->path = 0;
  vram__text_puts(w->path, sizeof w->path, &n, vram__hf_name_of(w, 'N'));
  vram__text_putu(w->path, sizeof w->path, &n, layer);
  vram__text_puts(w->path, sizeof w->path, &n, ".");
}

/* The names of all layers, in the order of their parameters. */
VRAM__FN void vram__hf_each_layer(vram__hf_pen *w) {
  uint64_t i;
  for (i = 0; i < w->c.layers; i++) {
    vram__hf_path(w, i);
    vram__hf_say(w, NULL, "<ordered_layer>", "");
  }
}

/* Masks and angles that the model makes, and which class of an encoder it is. */
static void vram__hf_kinds(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  const uint32_t kind = w->h.family->sliding;
  const int one = kind == VRAM__HF_ALL || kind == VRAM__HF_USED; /* all layers are of one kind */
  uint64_t window = c->window;
  if (*vram__hf_flag_of(w, '5') && !window)
    window = vram__hf_number(&w->h, "sliding_window", w->h.family->window);
  *vram__hf_flag_of(w, 'F') = !one || !c->sliding_layers;
  *vram__hf_flag_of(w, 'O') =
      c->sliding_layers || *vram__hf_flag_of(w, '5') || *vram__hf_mixer_flag(w, 'k');
  *vram__hf_flag_of(w, 'W') = *vram__hf_flag_of(w, 'O') && window <= *vram__hf_number_of(w, 'S');
  *vram__hf_flag_of(w, 'h') = c->full_layers != 0;
  *vram__hf_flag_of(w, 'i') = c->sliding_layers != 0;
  *vram__hf_flag_of(w, 'm') = w->h.head == VRAM__HF_MASKED;
  *vram__hf_flag_of(w, 't') = w->h.head == VRAM__HF_CLASSES;
  if (vram__hf_has(&w->h, VRAM__HF_ENCODER)) {
    vram__hf_set(w, 'B', "");
    *vram__hf_flag_of(w, 'v') = (uint8_t)vram__hf_pools(&w->h);
    *vram__hf_flag_of(w, 'b') = *vram__hf_number_of(w, 'E') != c->hidden;
  }
}

static void vram__hf_write_layer(vram__hf_pen *w, uint64_t i) {
  const int slides = vram__hf_slides(&w->h, i);
  vram__hf_path(w, i);
  w->layer = i;
  w->has_bias = *vram__hf_flag_of(w, 'b');
  vram__hf_set(w, 'A', "@self_attn.");
  *vram__hf_flag_of(w, 'P') = *vram__hf_flag_of(w, 'n') ||
                              (*vram__hf_flag_of(w, 'N') && !vram__hf_rotates(&w->h, i)) ||
                              (*vram__hf_flag_of(w, '^') && w->c.sliding_layers && !slides);
  if (*vram__hf_flag_of(w, 'G'))
    vram__hf_part_layer(w, slides);
  else {
    *vram__hf_flag_of(w, 'y') = (uint8_t)slides;
    *vram__hf_flag_of(w, 'w') = slides && *vram__hf_flag_of(w, 'W');
    vram__hf_set(w, 'L', "S");
  }
  *vram__hf_flag_of(w, 'l') = i != 0;
  *vram__hf_flag_of(w, 'o') = vram__hf_has(&w->h, VRAM__HF_ENCODER)
                                  ? i + 1 == w->c.layers && !*vram__hf_flag_of(w, 'v')
                                  : *vram__hf_flag_of(w, 'o');
  vram__hf_set(w, 'r', slides && *vram__hf_flag_of(w, 'R') ? "%Brotary_emb_local" : "%Brotary_emb");
  *vram__hf_mixer_flag(w, 'm') = !vram__hf_has_attention(&w->h, i);
  *vram__hf_flag_of(w, '8') = (uint8_t)vram__hf_is_moe(&w->h, i);
  vram__hf_say(w, NULL, w->row->layer, "");
  if (w->size.is_eager) /* what a layer's function has a name of until it ends */
    vram__hf_say(w, NULL, "drop %Aweights\n", "");
}

static uint64_t vram__hf_tokens(const vram__hf *h) {
  static const char *const key[] = {"max_position_embeddings", "n_positions"};
  uint32_t i;
  for (i = 0; i < 2; i++) {
    const vram_file_value *const v = vram__hf_value(h, key[i]);
    if (v && v->kind == VRAM_VALUE_UINT && v->number.u && v->number.u < 4096)
      return v->number.u;
  }
  return 4096;
}

static void vram__hf_open(vram__hf_pen *w, const vram_file *f, const vram_hf_sizes *sizes,
                          vram_error *e) {
  uint32_t i;
  int is_mixer = 0; /* behind ': flags of mixers */
  vram__hf_read(&w->h, f, &w->c, e);
  if (!w->h.result)
    w->row = vram__hf_lines_find(w->c.family);
  if (!w->row) {
    vram__hf_refuse(w, "no lines of the text form are known of model_type ", w->c.family);
    return;
  }
  for (i = 0; w->row->flags[i]; i++)
    if (w->row->flags[i] == '\'')
      is_mixer = 1;
    else
      *(is_mixer ? vram__hf_mixer_flag(w, w->row->flags[i])
                 : vram__hf_flag_of(w, w->row->flags[i])) = 1;
  w->norm = vram__hf_part_find(w->row->norm, vram__text_len(w->row->norm));
  vram__hf_set(w, 'B', "model.");
  vram__hf_set(w, 'T', "model");
  vram__hf_set(w, 'N', "%Blayers.");
  vram__hf_activation(w);
  vram__hf_rope(w);
  vram__hf_optional(w);
  vram__hf_settings(w);
  w->size = *sizes;
  w->size.is_eager = sizes->cache && vram__hf_attends_eagerly(w);
  vram__hf_dropout_keys(w);
  *vram__hf_number_of(w, 'N') = sizes->batch ? sizes->batch : sizes->cache ? 1 : 2;
  *vram__hf_number_of(w, 'S') = sizes->tokens ? sizes->tokens : vram__hf_tokens(&w->h);
  w->size.tokens = *vram__hf_number_of(w, 'S');
  w->size.new_tokens += !w->size.new_tokens;
  vram__hf_numbers(w);
}

/* Do its layers let go of keys and values where attention ends? */
static int vram__hf_keeps_names(const vram__hf_pen *w) {
  static const char *const part[] = {"<o_proj>",         "<rotary>",
                                     "<gone>",           "<olmo2_attention>",
                                     "<olmo_attention>", "<starcoder2_attention>",
                                     "<phi3_o_proj>"};
  uint32_t i, k;
  for (i = 0; i < sizeof part / sizeof *part; i++)
    for (k = 0; w->row->layer[k]; k++)
      if (vram__text_equal(w->row->layer + k, part[i], vram__text_len(part[i])))
        return 1;
  return 0;
}

/* What no generation can be written of. */
static void vram__hf_no_generation(vram__hf_pen *w) {
  const uint64_t most = UINT64_C(1) << 40;
  if (!w->row->has_cache)
    vram__hf_refuse(w, "no lines of its caches are known of model_type ", w->c.family);
  else if (w->size.cache == VRAM_HF_OFFLOADED && w->c.layers < 2)
    vram__hf_refuse(w, "an offloaded cache of fewer than two layers", "");
  else if (w->size.cache == VRAM_HF_OFFLOADED && !vram__hf_has(&w->h, VRAM__HF_MLA) &&
           !vram__hf_keeps_names(w))
    vram__hf_refuse(w, "no lines of an offloaded cache are known of model_type ", w->c.family);
  else if (w->size.is_eager && vram__hf_has(&w->h, VRAM__HF_MLA))
    vram__hf_refuse(w, "no lines of eager attention are known of model_type ", w->c.family);
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
  *vram__hf_flag_of(w, 'e') = w->size.is_eager;
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention {eeager}{!esdpa}, generate(), greedy\n"
               "model %J dtype=%D\n",
               "");
  for (part = 0; part < VRAM__HF_PARTS && !w->h.result; part++) {
    if (!vram__hf_part_is(w, part))
      continue;
    vram__hf_part_begin(w, part);
    vram__hf_kinds(w);
    vram__hf_say(w, NULL, w->row->before, "");
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
  if (vram__hf_has(&w->h, VRAM__HF_VISION))
    vram__hf_say(w, NULL, "# the decoder alone, without the vision tower and its projector\n", "");
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, train mode\n"
               "model %e dtype=f32\n"
               "dim N=$N{!'t S=$S}\n",
               "");
  vram__hf_kinds(w);
  vram__hf_set(w, 'I', "input_ids");
  vram__hf_say(w, NULL, vram__hf_has(&w->h, VRAM__HF_ENCODER) ? "<encoder_inputs>" : "<inputs>",
               "");
  vram__hf_say(w, NULL, w->row->before, "");
  for (i = 0; i < w->c.layers && !w->h.result; i++)
    vram__hf_write_layer(w, i);
  vram__hf_say(w, NULL, w->row->after, "");
  if (!vram__hf_has(&w->h, VRAM__HF_ENCODER))
    vram__hf_say(w, NULL, "<loss>", "");
  vram__hf_flush(w);
  return w->h.result;
}
