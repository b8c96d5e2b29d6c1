/* >>model/adapt    linear lines of a text get adapters and quantised weights */
#include "model/model.h"

/* Words of the two options, and the keys of a linear line that they stand for. "": no key. */
enum {
  VRAM__ADAPT_TARGETS,
  VRAM__ADAPT_SAVE,
  VRAM__ADAPT_BIAS,
  VRAM__ADAPT_SKIP,
  VRAM__ADAPT_PREPARE,
  VRAM__ADAPT_KEY
};

/* What is said of prepare_model_for_kbit_training. */
enum { VRAM__PREPARE_UNSAID, VRAM__PREPARE, VRAM__PREPARE_NOT };

/* Which biases learn beside adapters (LoraConfig.bias). */
enum { VRAM__BIAS_NONE, VRAM__BIAS_LORA_ONLY, VRAM__BIAS_ALL };

typedef struct vram__adapt_word {
  const char *name, *key;
  uint8_t what;
} vram__adapt_word;

static const vram__adapt_word vram__lora_words[] = {{"r", "lora", VRAM__ADAPT_KEY},
                                                    {"targets", "", VRAM__ADAPT_TARGETS},
                                                    {"dropout", "lora_dropout", VRAM__ADAPT_KEY},
                                                    {"bias", "lora_bias", VRAM__ADAPT_BIAS},
                                                    {"save", "", VRAM__ADAPT_SAVE},
                                                    {"dtype", "lora_dtype", VRAM__ADAPT_KEY},
                                                    {"dora", "dora", VRAM__ADAPT_KEY},
                                                    {"rslora", "rslora", VRAM__ADAPT_KEY},
                                                    {NULL, NULL, 0}};
static const vram__adapt_word vram__quant_words[] = {
    {"kind", "quant", VRAM__ADAPT_KEY},          {"double", "double_quant", VRAM__ADAPT_KEY},
    {"dtype", "dtype", VRAM__ADAPT_KEY},         {"compute", "compute_dtype", VRAM__ADAPT_KEY},
    {"threshold", "threshold", VRAM__ADAPT_KEY}, {"skip", "", VRAM__ADAPT_SKIP},
    {"prepare", "", VRAM__ADAPT_PREPARE},        {NULL, NULL, 0}};

static void vram__adapt_fail(vram_graph *g, const char *what, vram__span found,
                             const char *expected) {
  vram__graph_fail(g, VRAM_ERR_VALUE, what);
  vram__error_more(g, " (found ");
  vram__error_more_n(g, found.text, found.len);
  vram__error_more(g, ", expected ");
  vram__error_more(g, expected);
  vram__error_more(g, ")");
}

/* The words that an option knows, for an error. */
static void vram__adapt_unknown(vram_graph *g, vram__span found, const vram__adapt_word *words) {
  vram__graph_fail(g, VRAM_ERR_VALUE, "an unknown word of this option (found ");
  vram__error_more_n(g, found.text, found.len);
  vram__error_more(g, ", expected ");
  for (; words->name; words++) {
    vram__error_more(g, words->name);
    vram__error_more(g, words[1].name ? ", " : ")");
  }
}

/* KEY=VALUE of a linear line. */
static int vram__adapt_key(vram__parser *p, const char *key, vram__span value, vram__keys *keys) {
  char line[64];
  uint32_t n = 0;
  vram__text_puts(line, sizeof line, &n, key);
  vram__text_puts(line, sizeof line, &n, "=");
  vram__text_put(line, sizeof line, &n, value.text, value.len);
  if (n + 1 >= sizeof line) { /* perhaps cut */
    vram__adapt_fail(p->g, "a value that is too long", value, "a number or a dtype");
    return 0;
  }
  p->start = p->at = line;
  p->end = line + n;
  if (!vram__key_read(p, VRAM_OP_linear, vram__span_of(line, p->end), keys))
    return 0;
  if (vram__text_is(value.text, value.len, "f32")) /* it is no text, whose f32 may be its model's */
    keys->words[keys->count - 1] = VRAM_F32;
  return 1;
}

/* One word of an option: NAME=VALUE, or of `quant` the kind alone. */
static int vram__adapt_word_read(vram__parser *p, vram__adapt *a, vram__span word,
                                 const vram__adapt_word *words, vram__keys *keys) {
  const char *equals = word.text, *const end = word.text + word.len;
  vram__span name, value;
  while (equals < end && *equals != '=')
    equals++;
  name = vram__span_of(word.text, equals);
  value = vram__span_of(equals < end ? equals + 1 : end, end);
  if (equals == end && words == vram__quant_words) {
    value = name;
    name = vram__span_all("kind");
  }
  while (words->name && !vram__text_is(name.text, name.len, words->name))
    words++;
  if (!words->name || !value.len) {
    vram__adapt_unknown(p->g, word, keys == a->quant_keys ? vram__quant_words : vram__lora_words);
    return 0;
  }
  switch (words->what) {
  case VRAM__ADAPT_TARGETS:
    a->targets = value;
    return 1;
  case VRAM__ADAPT_SKIP:
    a->skip = value;
    return 1;
  case VRAM__ADAPT_SAVE:
    a->save = value;
    return 1;
  case VRAM__ADAPT_BIAS:
    a->biases = vram__text_is(value.text, value.len, "all")         ? VRAM__BIAS_ALL
                : vram__text_is(value.text, value.len, "lora_only") ? VRAM__BIAS_LORA_ONLY
                                                                    : VRAM__BIAS_NONE;
    return a->biases || vram__text_is(value.text, value.len, "none") ||
           vram__adapt_key(p, words->key, value, keys);
  case VRAM__ADAPT_PREPARE:
    a->prepares = vram__text_is(value.text, value.len, "0")   ? VRAM__PREPARE_NOT
                  : vram__text_is(value.text, value.len, "1") ? VRAM__PREPARE
                                                              : VRAM__PREPARE_UNSAID;
    if (a->prepares)
      return 1;
    vram__adapt_fail(p->g, "not a boolean", value, "0 or 1");
    return 0;
  default:
    return vram__adapt_key(p, words->key, value, keys);
  }
}

/* An option: words with commas between. */
static int vram__adapt_option(vram__parser *p, vram__adapt *a, const char *text,
                              const vram__adapt_word *words, vram__keys *keys) {
  const char *at = text;
  for (;;) {
    const char *const begin = at;
    while (*at && *at != ',')
      at++;
    if (!vram__adapt_word_read(p, a, vram__span_of(begin, at), words, keys))
      return 0;
    if (!*at)
      return 1;
    at++;
  }
}

/* Other ways to store weights, and what is known of them (transformers/quantizers). */
static const struct {
  vram__key_word word;
  const char *known;
} vram__quantised_otherwise[] = {
    {VRAM__IS_mxfp4, "mxfp4 is of gpt_oss's experts, which transformers trains dequantised to "
                     "bf16: the model without quant="},
    {VRAM__IS_gptq, "gptq in groups of 128 takes 4.16 bits a value and 4 bytes an input; which "
                    "kernel is chosen, what it packs anew and needs beside is not known"},
    {VRAM__IS_awq, "awq in groups of 128 takes 4.16 bits a value; what its kernels need "
                   "beside is not known"}};

VRAM__FN int vram__quantised_known(vram_graph *g, int64_t kind) {
  uint32_t i;
  if (kind == VRAM__WORD(nf4) || kind == VRAM__WORD(fp4) || kind == VRAM__WORD(int8) ||
      kind == VRAM__WORD(fp8))
    return 1;
  vram__graph_fail(g, VRAM_ERR_VALUE, "an unknown quant= (expected nf4, fp4, int8 or fp8)");
  for (i = 0; i < sizeof vram__quantised_otherwise / sizeof *vram__quantised_otherwise; i++)
    if (kind == (int64_t)vram__quantised_otherwise[i].word) {
      vram__error_more(g, "; ");
      vram__error_more(g, vram__quantised_otherwise[i].known);
    }
  return 0;
}

static int vram__keys_hold(const vram__keys *keys, uint32_t key) {
  return vram__attr_find(keys->words, key, NULL) != NULL;
}

static int vram__adapt_is_fp8(const vram__keys *quant) {
  const int64_t *kind = vram__attr_find(quant->words, VRAM__KEY_quant, NULL);
  return kind && *kind == VRAM__WORD(fp8);
}

/* 4-bit weights compute in the dtype that they were loaded in. */
static void vram__adapt_compute(vram__keys *keys) {
  const int64_t *kind = vram__attr_find(keys->words, VRAM__KEY_quant, NULL);
  if (!kind || *kind == VRAM__WORD(int8) || vram__adapt_is_fp8(keys) ||
      vram__keys_hold(keys, VRAM__KEY_compute_dtype))
    return;
  keys->words[keys->count++] = VRAM__KEY_compute_dtype | 1 << 8;
  keys->words[keys->count++] = VRAM_DTYPE_MODEL;
  keys->words[keys->count] = 0;
}

/* The graph's own copy of an option, which must outlive the call. */
static const char *vram__adapt_keep(vram_graph *g, const char *text) {
  const uint32_t len = vram__text_len(text);
  char *copy = (char *)vram__graph_take(g, (uint64_t)len + 1);
  uint32_t n = 0;
  if (copy)
    vram__text_put(copy, len + 1, &n, text, len);
  return copy;
}

VRAM_API vram_result vram_graph_adapt(vram_graph *g, const char *lora, const char *quant) {
  const int64_t *kind;
  vram__adapt *a;
  vram__parser p;
  if (g->error.code || (!lora && !quant))
    return g->error.code;
  if (g->ninput || g->nnode || g->adapt)
    vram__graph_fail(g, VRAM_ERR_VALUE, "adapters behind inputs or nodes, or named twice");
  a = g->error.code ? NULL : (vram__adapt *)vram__graph_take(g, sizeof *a);
  if (!a)
    return g->error.code;
  vram__memory_zero(a, sizeof *a);
  vram__memory_zero(&p, sizeof p);
  p.g = g;
  a->lora_keys->words = a->lora_words;
  a->quant_keys->words = a->quant_words;
  a->lora_keys->room = a->quant_keys->room = VRAM__ADAPT_WORDS;
  lora = lora ? vram__adapt_keep(g, lora) : NULL;
  quant = quant ? vram__adapt_keep(g, quant) : NULL;
  if (g->error.code || (lora && !vram__adapt_option(&p, a, lora, vram__lora_words, a->lora_keys)) ||
      (quant && !vram__adapt_option(&p, a, quant, vram__quant_words, a->quant_keys)))
    return g->error.code;
  if (lora && !vram__keys_hold(a->lora_keys, VRAM__KEY_lora))
    vram__adapt_fail(g, "adapters without a rank", vram__span_all(lora), "r=16");
  kind = vram__attr_find(a->quant_keys->words, VRAM__KEY_quant, NULL);
  if (!g->error.code && quant && !kind)
    vram__adapt_fail(g, "no kind of quantised weights", vram__span_all(quant),
                     "nf4, fp4, int8 or fp8");
  if (g->error.code || (kind && !vram__quantised_known(g, *kind)))
    return g->error.code;
  vram__adapt_compute(a->quant_keys);
  g->adapt = a;
  return g->error.code;
}

/* The rank of all adapters becomes this one, 0: stays as it is; which it was. */
VRAM__FN int64_t vram__adapt_rank(vram_graph *g, int64_t rank) {
  vram__adapt *const a = g->adapt;
  const int64_t *const word =
      a ? vram__attr_find(a->lora_words, VRAM__KEY_lora, NULL) : (const int64_t *)NULL;
  const int64_t was = word ? *word : 0;
  if (word && rank)
    a->lora_words[word - a->lora_words] = rank;
  return was;
}

/* Is `name` one of those that | divides: all of it, or what stands behind its last points? */
static int vram__adapt_names(vram__span list, vram__span name) {
  const char *at = list.text, *const end = list.len ? list.text + list.len : list.text;
  while (at < end) {
    const char *const begin = at;
    uint32_t n;
    while (at < end && *at != '|')
      at++;
    n = (uint32_t)(at - begin);
    if (n && n <= name.len && vram__text_equal(name.text + name.len - n, begin, n) &&
        (n == name.len || name.text[name.len - n - 1] == '.'))
      return 1;
    at++;
  }
  return 0;
}

/* Does the line have weights=HEAD: is it that layer once more? */
static int vram__adapt_is_again(vram__span line, vram__span head) {
  static const char key[] = " weights=";
  const uint32_t n = (uint32_t)sizeof key - 1, all = n + head.len;
  uint32_t i;
  for (i = 0; head.len && all <= line.len && i <= line.len - all; i++)
    if (vram__text_equal(line.text + i, key, n) &&
        vram__text_equal(line.text + i + n, head.text, head.len) &&
        (i + all == line.len || line.text[i + all] == ' ' || line.text[i + all] == '\t'))
      return 1;
  return 0;
}

/* The name that the last linear line of the text has: a model's head. */
static vram__span vram__adapt_head(const char *text, uint64_t len) {
  const char *at = text, *const end = text + len;
  vram__span head = vram__span_of(text, text);
  while (at < end) {
    const char *line = at, *name;
    while (at < end && *at != '\n')
      at++;
    if (at - line > 7 && vram__text_equal(line, "linear ", 7)) {
      for (name = line += 7; line < at && *line != ' ' && *line != '\t';)
        line++;
      if (!vram__adapt_is_again(vram__span_of(line, at), head))
        head = vram__span_of(name, line);
    }
    at++;
  }
  return head;
}

VRAM__FN void vram__adapt_begin(vram_graph *g, const char *text, uint64_t len) {
  if (g->adapt)
    g->adapt->head = vram__adapt_head(text, len);
}

/* The keys of the option go behind those of the line, which may have some of them. */
static int vram__adapt_add(const vram__keys *from, vram__keys *to) {
  uint32_t i, k, n;
  for (i = 0; i < from->count; i += n) {
    n = 1 + ((uint32_t)(from->words[i] >> 8) & 0xffffu);
    if (vram__keys_hold(to, (uint32_t)(from->words[i] & 0xff)))
      continue;
    if (to->count + n >= to->room)
      return 0;
    for (k = 0; k < n; k++)
      to->words[to->count++] = from->words[i + k];
    to->words[to->count] = 0;
  }
  return 1;
}

/* The last part of a linear line's name becomes one of those that an error lists. */
static void vram__adapt_candidate(vram__adapt *a, vram__span name) {
  uint32_t n = 0, i;
  while (n < name.len && name.text[name.len - n - 1] != '.')
    n++;
  name = vram__span_of(name.text + name.len - n, name.text + name.len);
  for (i = 0; i < a->ncandidate; i++)
    if (a->candidate[i].len == n && vram__text_equal(a->candidate[i].text, name.text, n))
      return;
  if (i < sizeof a->candidate / sizeof *a->candidate)
    a->candidate[a->ncandidate++] = name;
}

/* get_output_embeddings(): a layer that is called so, or the last one where it gives a number for
   each row of the embedding. The head of anything else is a linear layer as the others are. */
static int vram__adapt_is_output_embedding(const vram__adapt *a, const vram__keys *keys,
                                           vram__span name, int last) {
  const int64_t *out = vram__attr_find(keys->words, VRAM__KEY_out_features, NULL);
  return vram__adapt_names(vram__span_all("lm_head"), name) ||
         (last && a->table && a->table->d->ndim && out && *out == a->table->d->v[0]);
}

/* A linear line of this name gets the keys that the options give it. 0: no room for them. */
VRAM__FN int vram__adapt_line(vram_graph *g, const vram__request *r, vram__span name) {
  vram__adapt *a = g->adapt;
  vram__keys *keys = (vram__keys *)(uintptr_t)r->keys;
  vram__span all;
  int head, last, good = 1;
  if (!a)
    return 1;
  a->saves = vram__adapt_names(a->save, name) != 0;
  a->names_bias = name.len >= 4 && vram__text_equal(name.text + name.len - 4, "bias", 4);
  if (r->op != VRAM_OP_linear || r->nin != 1 || vram__keys_hold(keys, VRAM__KEY_weights))
    return 1;
  all = vram__span_all("all-linear");
  last = name.len == a->head.len && vram__text_equal(name.text, a->head.text, name.len);
  head = vram__adapt_is_output_embedding(a, keys, name, last);
  vram__adapt_candidate(a, name);
  if (a->quant_keys->count && !head && !last && !vram__adapt_names(a->skip, name))
    good = vram__adapt_add(a->quant_keys, keys);
  if (!a->lora_keys->count || !good || a->saves)
    return good;
  if (!a->targets.len ||
              (a->targets.len == all.len && vram__text_equal(a->targets.text, all.text, all.len))
          ? head
          : !vram__adapt_names(a->targets, name))
    return 1;
  a->matched++;
  return vram__adapt_add(a->lora_keys, keys);
}

/* Where a module makes its result of more than the embedding, its lines have its name before their
   last point. */
static int vram__adapt_in_module(vram__span module, vram__span name) {
  return module.len && name.len > module.len && name.text[module.len] == '.' &&
         vram__text_equal(name.text, module.text, module.len);
}

/* enable_input_require_grads, which goes with checkpointing: nothing before the first adapter wants
   a gradient, so what the module of the first embedding gives is made to, whenever it is called.
   A line of this name comes next. 0: no room. */
VRAM__FN int vram__adapt_embedded(vram_graph *g, vram__span name) {
  vram__adapt *a = g->adapt;
  vram_value *out;
  vram_node *line;
  if (!a || !a->embedded || vram__adapt_in_module(a->module, name))
    return 1;
  out = a->embedded;
  a->embedded = NULL;
  line = vram__node_lifetime(g, VRAM__OP_requires_grad, &out, 1);
  if (!line)
    return 0;
  line->line = out->node->line;
  line->flags |= VRAM__CHECKPOINTED;
  return 1;
}

/* A line of this name gave n. */
VRAM__FN void vram__adapt_embedding(vram_graph *g, vram_node *n, vram__span name) {
  vram__adapt *a = g->adapt;
  const uint32_t own = 10; /* ".embedding", the function in a module that does more */
  if (!vram__adapt_freezes(g))
    return;
  if (n->op == VRAM_OP_embedding && n->nparam && (!a->table || n->param[0] == a->table)) {
    a->table = n->param[0];
    a->embedded = n->out;
    a->module = vram__span_of(name.text, name.text);
    if (name.len > own && vram__text_equal(name.text + name.len - own, ".embedding", own))
      a->module = vram__span_of(name.text, name.text + name.len - own);
  } else if (a->embedded && n->nout)
    a->embedded = n->out;
}

/* All lines were read: did an adapter find its place? */
VRAM__FN int vram__adapt_complete(vram_graph *g) {
  const vram__adapt *a = g->adapt;
  uint32_t i;
  if (!a || !a->lora_keys->count || a->matched)
    return 1;
  vram__graph_fail(g, VRAM_ERR_NAME, "no linear line has a name of targets (");
  vram__error_more(g, a->ncandidate ? "there are " : "there is no linear line");
  for (i = 0; i < a->ncandidate; i++) {
    vram__error_more(g, i ? ", " : "");
    vram__error_more_n(g, a->candidate[i].text, a->candidate[i].len);
  }
  vram__error_more(g, ")");
  return 0;
}

/* Adapters learn in place of everything else. */
VRAM__FN int vram__adapt_freezes(const vram_graph *g) {
  return g->adapt && g->adapt->lora_keys->count;
}

/* modules_to_save: the line's parameters learn, and the module that it was stays beside it. */
VRAM__FN int vram__adapt_saves(const vram_graph *g) {
  return vram__adapt_freezes(g) && g->adapt->saves;
}

/* Does a parameter of n with this role learn because it is a bias? */
VRAM__FN int vram__adapt_learns_bias(const vram_graph *g, const vram_node *n, const char *role) {
  const vram__adapt *a = g->adapt;
  const int bias = vram__text_is(role, vram__text_len(role), "bias") ||
                   (a && a->names_bias && (vram__op_traits(n) & VRAM__OP_PARAM) != 0);
  return vram__adapt_freezes(g) && bias &&
         (a->biases == VRAM__BIAS_ALL ||
          (a->biases == VRAM__BIAS_LORA_ONLY && vram__node_list(n, VRAM__KEY_lora, NULL)));
}

/* prepare_model_for_kbit_training: what is not quantised becomes fp32. It is for weights of
   bitsandbytes, and done to others where that is said. */
VRAM__FN int vram__adapt_prepares(const vram_graph *g) {
  const vram__adapt *a = g->adapt;
  return vram__adapt_freezes(g) && a->quant_keys->count &&
         (a->prepares ? a->prepares == VRAM__PREPARE : !vram__adapt_is_fp8(a->quant_keys));
}
