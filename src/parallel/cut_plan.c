/* >>parallel/cut_plan    which modules tensor parallelism cuts, and how */
#include "parallel/cut.h"

enum {                                       /* styles of the usual plan alone */
       VRAM__TP_HEAD = VRAM__TP_UNKNOWN + 1, /* ColwiseParallel of logits */
       VRAM__TP_FUSED                        /* several weights in one: cannot be cut */
};

/* The usual decoder: what torchtitan's plans and Hugging Face's tp_plan have, by the last part of a
   layer's name. */
static const struct {
  const char *name;
  uint8_t style;
} vram__rank_names[] = {{"wq", VRAM__TP_COLWISE},
                        {"wk", VRAM__TP_COLWISE},
                        {"wv", VRAM__TP_COLWISE},
                        {"wo", VRAM__TP_ROWWISE},
                        {"w1", VRAM__TP_COLWISE},
                        {"w3", VRAM__TP_COLWISE},
                        {"w2", VRAM__TP_ROWWISE},
                        {"q_proj", VRAM__TP_COLWISE},
                        {"k_proj", VRAM__TP_COLWISE},
                        {"v_proj", VRAM__TP_COLWISE},
                        {"o_proj", VRAM__TP_ROWWISE},
                        {"out_proj", VRAM__TP_ROWWISE},
                        {"gate_proj", VRAM__TP_COLWISE},
                        {"up_proj", VRAM__TP_COLWISE},
                        {"down_proj", VRAM__TP_ROWWISE},
                        {"fc1", VRAM__TP_COLWISE},
                        {"fc2", VRAM__TP_ROWWISE},
                        {"tok_embeddings", VRAM__TP_ROWWISE},
                        {"pos_embeddings", VRAM__TP_ROWWISE},
                        {"embed_tokens", VRAM__TP_ROWWISE},
                        {"output", VRAM__TP_HEAD},
                        {"lm_head", VRAM__TP_HEAD},
                        {"qkv_proj", VRAM__TP_FUSED},
                        {"gate_up_proj", VRAM__TP_FUSED},
                        {"query_key_value", VRAM__TP_FUSED},
                        {"c_attn", VRAM__TP_FUSED},
                        {"Wqkv", VRAM__TP_FUSED},
                        {"wqkv", VRAM__TP_FUSED},
                        {"in_proj", VRAM__TP_FUSED}};

/* One part of a name is this part of a pattern: * any letters, ? one (fnmatch). */
static int vram__plan_part(const char *w, const char *w_end, const char *s, const char *end) {
  const char *star = NULL, *back = s;
  while (s < end) {
    if (w < w_end && *w == '*') {
      star = w++;
      back = s;
    } else if (w < w_end && (*w == '?' || *w == *s)) {
      w++;
      s++;
    } else if (star) {
      w = star + 1;
      s = ++back;
    } else
      return 0;
  }
  while (w < w_end && *w == '*')
    w++;
  return w == w_end;
}

/* The end of the part that begins at s. */
static const char *vram__plan_part_end(const char *s, const char *end) {
  while (s < end && *s != '.')
    s++;
  return s;
}

/* Parts of a name from s on are those of the pattern: where they end, or NULL. */
static const char *vram__plan_match_at(const vram__tp_word *w, const char *s, const char *end) {
  const char *p = w->text, *const p_end = w->text + w->len;
  for (;;) {
    const char *const part = vram__plan_part_end(p, p_end), *const to = vram__plan_part_end(s, end);
    if (!vram__plan_part(p, part, s, to))
      return NULL;
    if (part == p_end)
      return to;
    if (to == end)
      return NULL;
    p = part + 1;
    s = to + 1;
  }
}

/* The module of a name that a word means: the name up to where the pattern ends; of no length:
   none. whole: the module is all of the name. */
static vram__span vram__plan_module(const vram__tp_word *w, vram__span name, int whole) {
  const char *s = name.text, *const end = name.text + name.len;
  for (; s < end; s = vram__plan_part_end(s, end) + 1) {
    const char *const to = vram__plan_match_at(w, s, end);
    if (to && (!whole || to == end))
      return vram__span_of(name.text, to);
    if (vram__plan_part_end(s, end) == end)
      break;
  }
  return vram__span_of(name.text, name.text);
}

/* The word that says something of a module around the node with this style; NULL: none. */
VRAM__FN const vram__tp_word *vram__plan_around(const vram__rank_cut *c, const vram_node *n,
                                                uint32_t style, vram__span *module) {
  const vram__tp_word *w;
  for (w = c->plan; w; w = w->next) {
    if (w->style != style)
      continue;
    *module = vram__plan_module(w, vram__node_label(n), 0);
    if (module->len)
      return w;
  }
  return NULL;
}

/* The name of the module that a layer is: a module of its own class that does more has the op's
   name behind its own. */
static vram__span vram__plan_layer(const vram_node *n) {
  const vram__span label = vram__node_label(n);
  const char *const op = vram__op_at(n->op)->name;
  const uint32_t len = vram__text_len(op);
  if (label.len > len + 1 && label.text[label.len - len - 1] == '.' &&
      vram__text_equal(label.text + label.len - len, op, len))
    return vram__span_of(label.text, label.text + label.len - len - 1);
  return label;
}

/* The usual plan for a layer. */
static void vram__plan_usual(const vram__rank_cut *c, vram__plan_role *role) {
  const vram__span label = role->module;
  uint32_t i, at = label.len;
  while (at && label.text[at - 1] != '.')
    at--;
  for (i = 0; i < sizeof vram__rank_names / sizeof *vram__rank_names; i++)
    if (vram__text_is(label.text + at, label.len - at, vram__rank_names[i].name))
      break;
  if (i == sizeof vram__rank_names / sizeof *vram__rank_names)
    return;
  role->style = vram__rank_names[i].style;
  role->is_usual = 1;
  if (role->style == VRAM__TP_HEAD) {
    role->style = VRAM__TP_COLWISE;
    role->is_late = 1;
    role->output = c->p->loss_parallel ? VRAM__LAYOUT_UNSAID : VRAM__LAYOUT_REPLICATE;
  } else if (role->style == VRAM__TP_FUSED) {
    role->style = VRAM__TP_UNKNOWN;
    role->why = "several weights in one, of which every rank would get a part of the first";
  }
}

/* What becomes of node n. */
VRAM__FN vram__plan_role vram__rank_role(const vram__rank_cut *c, const vram_node *n) {
  const int is_layer = n->op == VRAM_OP_linear || n->op == VRAM_OP_embedding;
  const vram__tp_word *w;
  vram__plan_role role;
  vram__memory_zero(&role, sizeof role);
  role.input = role.output = VRAM__LAYOUT_UNSAID;
  role.module = is_layer ? vram__plan_layer(n) : vram__node_label(n);
  for (w = c->plan; w; w = w->next) {
    if (w->style == VRAM__TP_SEQUENCE || w->style == VRAM__TP_INPUT ||
        w->style == VRAM__TP_OUTPUT || w->style == VRAM__TP_USUAL ||
        !vram__plan_module(w, role.module, is_layer).len)
      continue;
    role.style = w->style;
    role.input = w->input;
    role.output = w->output;
    role.is_dtensor = w->is_dtensor;
    role.is_late = 1; /* async_op=True of the style's own redistribution */
    if (w->style == VRAM__TP_UNKNOWN)
      role.why = vram__tp_style_name(w);
    return role;
  }
  if (c->is_usual && is_layer)
    vram__plan_usual(c, &role);
  return role;
}

/* A name that is none of a module is a mistake. */
static int vram__plan_used(vram__rank_cut *c) {
  const vram__tp_word *w;
  const vram_node *n;
  for (w = c->plan; w; w = w->next) {
    for (n = c->from->first; n && w->style != VRAM__TP_USUAL; n = n->next)
      if (n->op < VRAM_OP_COUNT && vram__plan_module(w, vram__node_label(n), 0).len)
        break;
    if (n || w->style == VRAM__TP_USUAL)
      continue;
    vram__graph_fail(c->g, VRAM_ERR_NAME,
                     "tensor parallelism: no module of this model has the name '");
    vram__error_more_n(c->g, w->text, w->len);
    vram__error_more(c->g, "'");
    return 0;
  }
  return 1;
}

/* The plan of a run: words of the option, then those of the text; without any the usual one. 0: an
   error. */
VRAM__FN int vram__plan_begin(vram__rank_cut *c) {
  const char *at = c->p->plan.text, *const end = at ? at + c->p->plan.len : at, *from;
  const vram__tp_word *w;
  while (at && at < end) {
    for (from = at; at < end && *at != '/';)
      at++;
    if (!vram__tp_add(c->g, vram__span_of(from, at), ':'))
      return 0;
    at++;
  }
  if (c->g->tp_last)
    c->g->tp_last->next = c->from->tp_first;
  c->plan = c->g->tp_first ? c->g->tp_first : c->from->tp_first;
  c->is_usual = !c->plan;
  for (w = c->plan; w; w = w->next)
    c->is_usual |= w->style == VRAM__TP_USUAL;
  return vram__plan_used(c);
}
