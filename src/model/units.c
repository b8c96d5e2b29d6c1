/* >>model/units    modules of a model, for wrappers of torch.distributed: `unit`, `stage`, `tp` and
   `return` */
#include "model/model.h"

/* A name of a `unit` line, or of a `stage` line. */
VRAM__FN int vram__unit_add(vram_graph *g, vram__span name, int stage) {
  vram__unit_word **const first = stage ? &g->stage_first : &g->unit_first;
  vram__unit_word **const last = stage ? &g->stage_last : &g->unit_last;
  vram__unit_word *w = (vram__unit_word *)vram__graph_take(g, sizeof *w);
  if (!w)
    return 0;
  w->next = NULL;
  w->text = vram__graph_keep_text(g, name.text, name.len);
  w->len = name.len;
  if (!w->text)
    return 0;
  if (*last)
    (*last)->next = w;
  else
    *first = w;
  *last = w;
  return 1;
}

static vram_result vram__unit_names(vram_graph *g, const char *names, int stage) {
  const char *at = names;
  if (!names)
    vram__graph_fail(g, VRAM_ERR_VALUE, "names of modules that are NULL");
  while (!g->error.code && *at) {
    const char *const from = at;
    while (*at && *at != ' ')
      at++;
    if (at > from)
      vram__unit_add(g, vram__span_of(from, at), stage);
    at += *at == ' ';
  }
  return g->error.code;
}

VRAM_API vram_result vram_graph_units(vram_graph *g, const char *names) {
  return vram__unit_names(g, names, 0);
}

VRAM_API vram_result vram_graph_stages(vram_graph *g, const char *names) {
  return vram__unit_names(g, names, 1);
}

VRAM_API vram_result vram_graph_return(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  if (!g->error.code && (g->returned || !g->last || !n))
    vram__graph_fail(g, VRAM_ERR_SYNTAX,
                     g->returned ? "a module returns twice" : "a module that returns nothing");
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__graph_fail(g, VRAM_ERR_VALUE, "a value that is returned and NULL");
  if (g->error.code)
    return g->error.code;
  g->result = (vram_value **)vram__graph_take(g, n * (uint64_t)sizeof *g->result);
  if (!g->result)
    return g->error.code;
  for (i = 0; i < n; i++)
    g->result[i] = v[i];
  g->nresult = n;
  g->returned = g->last;
  return VRAM_OK;
}

/* ---- tp lines */

/* Names of styles, PyTorch's and those of a model of transformers (distributed/tensor_parallel.py),
   and the layouts that they have where nothing is said. */
static const struct {
  const char *name;
  uint8_t style;
  int8_t input, output;
} vram__tp_styles[] = {
    {"colwise", VRAM__TP_COLWISE, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"colwise_rep", VRAM__TP_COLWISE, VRAM__LAYOUT_REPLICATE, VRAM__LAYOUT_REPLICATE},
    {"rowwise", VRAM__TP_ROWWISE, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"rowwise_rep", VRAM__TP_ROWWISE, VRAM__LAYOUT_REPLICATE, VRAM__LAYOUT_REPLICATE},
    {"sequence", VRAM__TP_SEQUENCE, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"input", VRAM__TP_INPUT, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"output", VRAM__TP_OUTPUT, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"replicated_with_grad_allreduce", VRAM__TP_SUMMED, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"whole", VRAM__TP_WHOLE, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"usual", VRAM__TP_USUAL, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"packed_colwise", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"packed_rowwise", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"mla_kv_a_proj", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"all_reduce", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"moe_tp_experts", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"moe_identity_expert", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID},
    {"local_params", VRAM__TP_UNKNOWN, VRAM__LAYOUT_UNSAID, VRAM__LAYOUT_UNSAID}};

VRAM__FN const char *vram__tp_style_name(const vram__tp_word *w) {
  return vram__tp_styles[w->row].name;
}

/* An error about a word of a `tp` line; always 0. */
static int vram__tp_bad(vram_graph *g, const char *what, vram__span word, const char *expected) {
  vram__graph_fail(g, VRAM_ERR_VALUE, what);
  vram__error_more(g, " '");
  vram__error_more_n(g, word.text, word.len);
  vram__error_more(g, "' (expected ");
  vram__error_more(g, expected);
  vram__error_more(g, ")");
  return 0;
}

/* The word at *at, which goes behind it; empty: there is none. */
static vram__span vram__tp_next(const char **at, const char *end, char blank) {
  const char *from = *at;
  while (from < end && (*from == blank || *from == '\t'))
    from++;
  *at = from;
  while (*at < end && **at != blank && **at != '\t')
    ++*at;
  return vram__span_of(from, *at);
}

/* replicate, or the axis that is cut. */
static int vram__tp_layout(vram__span value, int8_t *to) {
  const int minus = value.len == 2 && *value.text == '-';
  char digit = '?';
  if (vram__text_is(value.text, value.len, "replicate")) {
    *to = VRAM__LAYOUT_REPLICATE;
    return 1;
  }
  if (value.len == (minus ? 2u : 1u))
    digit = value.text[minus];
  if (digit < '0' || digit > '0' + VRAM_MAX_AXES - !minus || (minus && digit == '0'))
    return 0;
  *to = (int8_t)(minus ? '0' - digit : digit - '0');
  return 1;
}

/* KEY=VALUE for all names of the line. */
static int vram__tp_key(vram_graph *g, vram__span word, vram__tp_word *w) {
  const char *equals = word.text, *const end = word.text + word.len;
  vram__span name, value;
  while (*equals != '=')
    equals++;
  name = vram__span_of(word.text, equals);
  value = vram__span_of(equals + 1, end);
  if (vram__text_is(name.text, name.len, "use_local_output")) {
    w->is_dtensor = value.len == 1 && *value.text == '0';
    return w->is_dtensor || (value.len == 1 && *value.text == '1') ||
           vram__tp_bad(g, "use_local_output", value, "0 or 1");
  }
  if (vram__text_is(name.text, name.len, "input_layouts") ||
      (w->style == VRAM__TP_SEQUENCE && vram__text_is(name.text, name.len, "sequence_dim")))
    return vram__tp_layout(value, &w->input) ||
           vram__tp_bad(g, "a layout", value, "replicate, or the axis that is cut");
  if (vram__text_is(name.text, name.len, "output_layouts"))
    return vram__tp_layout(value, &w->output) ||
           vram__tp_bad(g, "a layout", value, "replicate, or the axis that is cut");
  if ((w->style == VRAM__TP_INPUT && vram__text_is(name.text, name.len, "desired_input_layouts")) ||
      (w->style == VRAM__TP_OUTPUT && vram__text_is(name.text, name.len, "desired_output_layouts")))
    return vram__tp_layout(value, &w->desired) ||
           vram__tp_bad(g, "a layout", value, "replicate, or the axis that is cut");
  return vram__tp_bad(g, "an unknown key of a tp line", name,
                      "input_layouts, output_layouts, desired_input_layouts, "
                      "desired_output_layouts, sequence_dim, use_local_output");
}

static int vram__tp_is_name(vram__span s) {
  uint32_t i;
  for (i = 0; i < s.len; i++)
    if (!vram__name_char(s.text[i]) && s.text[i] != '*' && s.text[i] != '?')
      return 0;
  return s.len && s.len <= VRAM_MAX_NAME;
}

/* One name of a line that has w's style. */
static int vram__tp_name(vram_graph *g, vram__span name, const vram__tp_word *like) {
  vram__tp_word *w = (vram__tp_word *)vram__graph_take(g, sizeof *w);
  if (!w)
    return 0;
  *w = *like;
  w->next = NULL;
  w->text = name.len ? vram__graph_keep_text(g, name.text, name.len) : "";
  w->len = name.len;
  if (!w->text)
    return 0;
  if (g->tp_last)
    g->tp_last->next = w;
  else
    g->tp_first = w;
  g->tp_last = w;
  return 1;
}

/* The words behind `tp`: STYLE NAME ... KEY=VALUE ..., with `blank` between them. */
VRAM__FN int vram__tp_add(vram_graph *g, vram__span words, char blank) {
  const char *at = words.text, *const end = words.text + words.len, *names;
  vram__span word = vram__tp_next(&at, end, blank);
  const uint32_t rows = sizeof vram__tp_styles / sizeof *vram__tp_styles;
  vram__tp_word like;
  uint32_t row = 0, count = 0;
  while (row < rows && !vram__text_is(word.text, word.len, vram__tp_styles[row].name))
    row++;
  if (row == rows)
    return vram__tp_bad(g, "an unknown style of tensor parallelism", word,
                        "colwise, colwise_rep, rowwise, rowwise_rep, sequence, input, output, "
                        "whole, replicated_with_grad_allreduce, usual");
  vram__memory_zero(&like, sizeof like);
  like.row = (uint8_t)row;
  like.style = vram__tp_styles[row].style;
  like.input = vram__tp_styles[row].input;
  like.output = vram__tp_styles[row].output;
  like.desired = VRAM__LAYOUT_UNSAID;
  like.is_dtensor = like.style == VRAM__TP_SEQUENCE || like.style == VRAM__TP_INPUT;
  for (names = at; (word = vram__tp_next(&at, end, blank)).len;) /* keys first: they are of all */
    if (vram__text_holds(word.text, word.len, '=') && !vram__tp_key(g, word, &like))
      return 0;
  for (at = names; (word = vram__tp_next(&at, end, blank)).len;) {
    if (vram__text_holds(word.text, word.len, '='))
      continue;
    if (!vram__tp_is_name(word))
      return vram__tp_bad(g, "not a name", word, "names of modules, in which * and ? may stand");
    if (!vram__tp_name(g, word, &like))
      return 0;
    count++;
  }
  if (like.style == VRAM__TP_USUAL ? count : !count)
    return vram__tp_bad(g, "names behind", vram__span_all(vram__tp_styles[row].name),
                        count ? "none" : "at least one");
  return count || vram__tp_name(g, vram__span_of(at, at), &like);
}

VRAM_API vram_result vram_graph_tp(vram_graph *g, const char *words) {
  if (!g->error.code && !words)
    vram__graph_fail(g, VRAM_ERR_VALUE, "words of a tp line that are NULL");
  if (!g->error.code)
    vram__tp_add(g, vram__span_all(words), ' ');
  return g->error.code;
}
