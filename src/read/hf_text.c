/* >>read/hf_text    config.json as a model in the text form, of the lines in hf_lines.c */
#include "read/read.h"

enum { VRAM__HF_PATH = 96 };

typedef struct vram__hf_pen {
  vram__hf h;
  vram_hf_config c;
  const vram__hf_lines *row;
  const vram_sink *sink;
  uint64_t number[128];
  char name[128][VRAM__HF_PATH];
  char path[VRAM__HF_PATH];     /* of the layer */
  char drop[8 * VRAM__HF_PATH]; /* what goes with a norm's input */
  uint8_t flag[128];
  uint32_t used;
  char text[1024]; /* what the sink has not got yet */
} vram__hf_pen;

/* ---- letters ---- */

static void vram__hf_flush(vram__hf_pen *w) {
  if (w->used && !w->h.result && w->sink->write(w->sink->user, w->text, w->used))
    vram__hf_fail(&w->h, VRAM_ERR_WRITE, "the text could not be written", "");
  w->used = 0;
}

static void vram__hf_put(vram__hf_pen *w, const char *s, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    if (w->used == sizeof w->text)
      vram__hf_flush(w);
    w->text[w->used++] = s[i];
  }
}

/* A name of the lines: where the text goes, or into `to` of so many bytes. */
typedef struct vram__hf_target {
  char *to;
  uint32_t cap, n;
} vram__hf_target;

static void vram__hf_letters(vram__hf_pen *w, vram__hf_target *t, const char *s) {
  if (t)
    vram__text_puts(t->to, t->cap, &t->n, s);
  else
    vram__hf_put(w, s, vram__text_len(s));
}

/* Behind a bracket: what its flag says, and where its text begins. */
static const char *vram__hf_condition(const vram__hf_pen *w, const char *s) {
  const int is_not = *s == '!';
  uint32_t depth = 1;
  s += is_not;
  if ((w->flag[(uint8_t)*s & 127] != 0) != is_not)
    return s + 1;
  for (s++; *s && depth; s++)
    depth += (uint32_t)(*s == '{') - (uint32_t)(*s == '}');
  return s;
}

static const char *vram__hf_call(vram__hf_pen *w, const char *s);

/* The lines from s on up to one of the letters in `ends`, put in; where they end. */
static const char *vram__hf_say(vram__hf_pen *w, vram__hf_target *t, const char *s,
                                const char *ends) {
  char digits[24], plain[2] = {0, 0};
  uint32_t n = 0;
  while (*s && !vram__text_holds(ends, vram__text_len(ends), *s)) {
    const uint8_t next = (uint8_t)s[1] & 127;
    switch (*s) {
    case '{':
      s = vram__hf_condition(w, s + 1);
      continue;
    case '}':
      break;
    case '@':
      vram__hf_letters(w, t, w->path);
      break;
    case '%':
      vram__hf_letters(w, t, next == 'd' ? w->drop : w->name[next]);
      s++;
      break;
    case '$':
      n = 0;
      vram__text_putu(digits, sizeof digits, &n, w->number[next]);
      vram__hf_letters(w, t, digits);
      s++;
      break;
    case '&':
    case '^':
      s = vram__hf_call(w, s);
      continue;
    default:
      plain[0] = *s;
      vram__hf_letters(w, t, plain);
    }
    s++;
  }
  return s;
}

static void vram__hf_set(vram__hf_pen *w, char name, const char *lines) {
  vram__hf_target t;
  t.to = w->name[(uint8_t)name & 127];
  t.cap = VRAM__HF_PATH;
  t.n = 0;
  *t.to = 0;
  vram__hf_say(w, &t, lines, "");
}

/* ---- norms and activations ---- */

static const struct {
  const char *name, *lines, *output;
} vram__hf_activations[] = {
    {"silu", "silu %p.silu %i\n", "%p.silu"},
    {"swish", "silu %p.silu %i\n", "%p.silu"},
    {"gelu", "gelu %p.gelu %i\n", "%p.gelu"},
    {"gelu_pytorch_tanh", "gelu %p.gelu %i approximate=tanh\n", "%p.gelu"},
    {"relu", "relu %p.relu %i\n", "%p.relu"},
    {"relu2", "relu %p.relu %i\nsquare %p.square %p.relu\ndrop %i\n", "%p.square"},
};

/* One field of a call, up to a stroke or the end of the line; behind it. */
static const char *vram__hf_field(vram__hf_pen *w, const char *s, char *to, uint32_t cap) {
  vram__hf_target t;
  t.to = to;
  t.cap = cap;
  t.n = 0;
  *to = 0;
  s = vram__hf_say(w, &t, s, "|\n");
  return s + (*s != 0);
}

/* &path|input|c|size|drop, ^path|input|c */
static const char *vram__hf_call(vram__hf_pen *w, const char *s) {
  const int is_norm = *s == '&';
  const char *lines = w->row->norm, *output = NULL;
  char path[VRAM__HF_PATH], input[VRAM__HF_PATH], to[4], drop[sizeof w->drop];
  s = vram__hf_field(w, s + 1, path, sizeof path);
  s = vram__hf_field(w, s, input, sizeof input);
  s = vram__hf_field(w, s, to, sizeof to);
  if (is_norm) {
    char size[4];
    s = vram__hf_field(w, s, size, sizeof size);
    s = vram__hf_field(w, s, drop, sizeof drop);
    w->number['z'] = w->number[(uint8_t)*size & 127];
    w->flag['f'] = *drop == '+';
    w->flag['d'] = *drop && *drop != '+';
    vram__memory_copy(w->drop, drop + w->flag['f'], sizeof drop - 1);
    output = lines == vram__hf_lines_gemma ? "%p.type_as" : "%p.mul_1";
  } else {
    lines = vram__hf_activations[w->number['A']].lines;
    output = vram__hf_activations[w->number['A']].output;
  }
  vram__memory_copy(w->name['p'], path, sizeof path);
  vram__memory_copy(w->name['i'], input, sizeof input);
  vram__hf_say(w, NULL, lines, "");
  vram__hf_set(w, *to, output);
  return s;
}

/* ---- what a file says ---- */

static void vram__hf_refuse(vram__hf_pen *w, const char *text, const char *name) {
  vram__hf_fail(&w->h, VRAM_ERR_UNSUPPORTED, text, name);
}

/* A key that decides what is computed, as a text; NULL: it is not there. */
static const vram_file_value *vram__hf_word(vram__hf_pen *w, const char *key) {
  const vram_file_value *const v = vram__hf_value(&w->h, key);
  if (!v || v->kind == VRAM_VALUE_NULL)
    return NULL;
  if (v->kind != VRAM_VALUE_TEXT || v->count > VRAM__HF_PATH) {
    vram__hf_fail(&w->h, VRAM_ERR_VALUE, "no text is the key ", key);
    return NULL;
  }
  return v;
}

static int vram__hf_is_word(const vram_file_value *v, const char *word) {
  return vram__text_is(v->text, (uint32_t)v->count, word);
}

static void vram__hf_activation(vram__hf_pen *w) {
  const vram_file_value *v = vram__hf_word(w, w->row->act_key);
  uint32_t i;
  if (v && w->flag['L'] && vram__hf_is_word(v, "gelu"))
    v = NULL; /* GemmaConfig: a value of old files that means the default */
  for (i = 0; i < sizeof vram__hf_activations / sizeof *vram__hf_activations; i++)
    if (v ? vram__hf_is_word(v, vram__hf_activations[i].name)
          : vram__text_is(w->row->act, vram__text_len(w->row->act), vram__hf_activations[i].name)) {
      w->number['A'] = i;
      return;
    }
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
  static const char *const key[] = {"attention_dropout", "resid_pdrop", "embd_pdrop",
                                    "hidden_dropout"};
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
  uint64_t *const n = w->number;
  n['h'] = c->hidden, n['n'] = c->heads, n['k'] = c->kv_heads, n['d'] = c->head_dim;
  n['r'] = c->head_dim / 2, n['Q'] = c->heads * c->head_dim, n['K'] = c->kv_heads * c->head_dim;
  n['i'] = c->intermediate, n['v'] = c->vocab;
  n['g'] = c->kv_heads ? c->heads / c->kv_heads : 0;
  n['e'] = c->experts, n['m'] = c->expert_intermediate, n['2'] = 2 * c->expert_intermediate;
  n['t'] = vram__hf_number(h, "num_experts_per_tok", w->row->experts_used);
  w->flag['T'] = c->is_tied;
  w->flag['b'] = vram__hf_has(h, VRAM__HF_QKV_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_QKV) && key);
  w->flag['o'] = vram__hf_has(h, VRAM__HF_O_BIAS) || (vram__hf_has(h, VRAM__HF_KEY_O) && key);
  w->flag['u'] = vram__hf_has(h, VRAM__HF_MLP_BIAS) ||
                 (vram__hf_has(h, VRAM__HF_MLP_KEY) && vram__hf_bool(h, "mlp_bias", 0));
  w->flag['g'] = c->kv_heads != c->heads;
  w->flag['K'] = (uint8_t)vram__hf_bool(h, "norm_topk_prob", 0);
  if (!c->kv_heads || c->heads % c->kv_heads || c->head_dim % 2)
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "heads of keys and values");
  if (c->experts && (!n['t'] || n['t'] > c->experts))
    vram__hf_fail(h, VRAM_ERR_VALUE, "no model has so many ", "experts for a token");
}

/* ---- the model ---- */

static void vram__hf_path(vram__hf_pen *w, uint64_t layer) {
  uint32_t n = 0;
  *w->path = 0;
  vram__text_puts(w->path, sizeof w->path, &n, "model.layers.");
  vram__text_putu(w->path, sizeof w->path, &n, layer);
  vram__text_puts(w->path, sizeof w->path, &n, ".");
}

static void vram__hf_parts(vram__hf_pen *w, const char *const *part) {
  for (; *part; part++)
    vram__hf_say(w, NULL, *part, "");
}

/* Which masks there are (create_causal_mask and its kin make none where a window is no shorter than
   the sequence), and what says where tokens stand. */
static void vram__hf_before(vram__hf_pen *w) {
  const vram_hf_config *const c = &w->c;
  const int slides = c->sliding_layers && c->window <= w->number['S'],
            both = c->sliding_layers && (c->full_layers || w->flag['R']);
  vram__hf_say(w, NULL, vram__hf_lines_inputs, "");
  vram__hf_say(w, NULL, w->row->embedding, "");
  vram__hf_set(w, 'e',
               w->row->embedding == vram__hf_lines_embedding ? "model.embed_tokens"
                                                             : "model.embed_tokens.mul");
  vram__hf_set(w, 't',
               w->row->embedding == vram__hf_lines_embedding ? "model.embed_tokens"
                                                             : "model.embed_tokens.embedding");
  vram__hf_set(w, 'x', "%e");
  vram__hf_say(w, NULL, vram__hf_lines_positions, "");
  vram__hf_set(w, 'i', "model.unsqueeze");
  vram__hf_set(w, 'p', "model");
  if (both || !c->sliding_layers)
    vram__hf_say(w, NULL, vram__hf_lines_packed, "");
  vram__hf_set(w, 'p', "model.sliding");
  if (c->sliding_layers)
    vram__hf_say(w, NULL, vram__hf_lines_packed, "");
  if (slides)
    vram__hf_say(w, NULL, vram__hf_lines_mask, "");
  w->flag['W'] = (uint8_t)slides;
  vram__hf_set(w, 's', "model.sliding.mask");
  vram__hf_set(w, 'p', "model.rotary_emb");
  vram__hf_say(w, NULL, vram__hf_lines_rope, "");
  vram__hf_set(w, 'p', "model.rotary_emb_local");
  if (w->flag['R'])
    vram__hf_say(w, NULL, vram__hf_lines_rope, "");
}

static void vram__hf_write_layer(vram__hf_pen *w, uint64_t i) {
  const int slides = vram__hf_slides(&w->h, i);
  vram__hf_path(w, i);
  w->flag['w'] = slides && w->flag['W'];
  w->flag['l'] = i != 0;
  vram__hf_set(w, 'r', slides && w->flag['R'] ? "model.rotary_emb_local" : "model.rotary_emb");
  vram__hf_parts(w, vram__hf_is_moe(&w->h, i) ? w->row->moe : w->row->layer);
  vram__hf_set(w, 'x', "@add_1");
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
  for (i = 0; !w->h.result && i < sizeof vram__hf_line_rows / sizeof *vram__hf_line_rows; i++)
    if (vram__text_is(w->c.family, vram__text_len(w->c.family), vram__hf_line_rows[i].type))
      w->row = vram__hf_line_rows + i;
  if (!w->row) {
    vram__hf_refuse(w, "no lines of the text form are known of model_type ", w->c.family);
    return;
  }
  for (i = 0; w->row->flags[i]; i++)
    w->flag[(uint8_t)w->row->flags[i] & 127] = 1;
  vram__hf_activation(w);
  vram__hf_rope(w);
  vram__hf_no_dropout(w);
  w->number['N'] = sizes->batch ? sizes->batch : 2;
  w->number['S'] = sizes->tokens ? sizes->tokens : vram__hf_tokens(f);
  vram__hf_numbers(w);
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
  vram__hf_open(w, f, sizes, e);
  if (w->h.result)
    return w->h.result;
  vram__hf_set(w, 'e', w->c.family);
  vram__hf_say(w, NULL,
               "# config.json of transformers, attention sdpa, train mode\n"
               "model %e dtype=f32\n"
               "dim N=$N S=$S\n",
               "");
  vram__hf_before(w);
  for (i = 0; i < w->c.layers && !w->h.result; i++)
    vram__hf_write_layer(w, i);
  vram__hf_say(w, NULL, vram__hf_lines_norm, "");
  vram__hf_say(w, NULL, vram__hf_lines_loss, "");
  vram__hf_flush(w);
  return w->h.result;
}
