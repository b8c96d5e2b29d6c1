/* >>step/ranges    ranges of nodes by their names */
#include "step/step.h"

/* Is n, the first node of its line, the one that name[..len] means? Rounds stand behind the name,
   the outermost first. */
static int vram__node_is_named(const vram_node *n, const char *name, uint32_t len) {
  const vram_node *end = vram__line_end_of(n), *m;
  const vram__round *q;
  uint32_t depth = 0, rounds = 0, i, k, bare = 0;
  while (bare < len && name[bare] != '[')
    bare++;
  for (m = n;; m = m->next) {
    for (i = 0; i < m->nout; i++) {
      const vram_value *v = &m->out[i];
      for (k = 0; v->name && k < bare && k < v->name_len && v->name[k] == name[k];)
        k++;
      if (v->name && k == bare && k == v->name_len)
        break;
    }
    if (i < m->nout)
      break;
    if (m == end)
      return 0;
  }
  for (q = n->round; q; q = q->up)
    depth++;
  for (k = bare; k < len; k++)
    rounds += name[k] == '[';
  if (!rounds)
    return 1;
  if (rounds != depth)
    return 0;
  for (q = n->round; q; q = q->up) { /* from the innermost */
    uint32_t value = 0, at, open = 0;
    for (at = bare; name[at] != '[' || ++open < rounds; at++)
      ;
    for (at++; at < len && name[at] >= '0' && name[at] <= '9' && value < 100000000; at++)
      value = value * 10 + (uint32_t)(name[at] - '0');
    if (value != q->round)
      return 0;
    rounds--;
  }
  return 1;
}

static vram_result vram__range_error(vram_error *err, vram_result code, const char *what,
                                     const char *name, const char *end) {
  uint32_t n = 0, len = (uint32_t)(end - name);
  if (err) {
    vram__memory_zero(err, sizeof *err);
    err->code = code;
    vram__text_puts(err->text, sizeof err->text, &n, what);
    vram__text_put(err->text, sizeof err->text, &n, name, len < 64 ? len : 64);
  }
  return code;
}

/* The end of the range at p; *dots: its two dots, or the end. */
static const char *vram__range_end(const char *p, const char **dots) {
  const char *end;
  for (*dots = p; **dots && **dots != ',' && !((*dots)[0] == '.' && (*dots)[1] == '.');)
    ++*dots;
  for (end = *dots; *end && *end != ',';)
    end++;
  return end;
}

/* The layer that a node belongs to: its name up to the first number ("model.layers.3"), in a loop
   the outermost round, whatever the names in it. */
typedef struct vram__layer {
  vram__span name; /* len 0: no number in it */
  const vram__round *round;
} vram__layer;

static vram__layer vram__layer_of(const vram_node *n) {
  vram__layer layer;
  const vram__span label = vram__node_label(n);
  uint32_t at = 0, begin;
  layer.name = vram__span_of(label.text, label.text);
  layer.round = n->round;
  while (layer.round && layer.round->up)
    layer.round = layer.round->up;
  while (at < label.len && !layer.round) {
    for (begin = at; at < label.len && label.text[at] >= '0' && label.text[at] <= '9';)
      at++;
    if (at > begin && (at == label.len || label.text[at] == '.')) {
      layer.name.len = at;
      return layer;
    }
    while (at < label.len && label.text[at] != '.')
      at++;
    at++;
  }
  return layer;
}

static int vram__layer_same(const vram__layer *a, const vram__layer *b) {
  return a->round == b->round && a->name.len == b->name.len &&
         vram__text_equal(a->name.text, b->name.text, a->name.len);
}

/* The next run of nodes of one layer, from the line at *at on, which becomes the one behind it. 0:
   there is none. */
static int vram__layer_next(const vram_node **at, vram_range *run) {
  const vram_node *n;
  vram__layer layer, open = VRAM_ZERO_INIT;
  run->first = run->last = NULL;
  for (n = *at; n; n = vram__line_end_of(n)->next) {
    if (vram__node_is_lifetime(n))
      continue;
    layer = vram__layer_of(n);
    if (run->first && vram__layer_same(&layer, &open)) {
      run->last = n;
      continue;
    }
    if (run->first != run->last)
      break;
    run->first = run->last = layer.name.len || layer.round ? n : NULL;
    open = layer;
  }
  *at = n;
  return run->first != run->last;
}

/* Every run of nodes of one layer. */
static uint32_t vram__ranges_layers(const vram_graph *g, vram_range *list, uint32_t cap) {
  const vram_node *at = g->first;
  vram_range run;
  uint32_t count = 0;
  for (; vram__layer_next(&at, &run); count++)
    if (count < cap)
      list[count] = run;
  return count;
}

VRAM_API vram_result vram_graph_ranges(const vram_graph *g, const char *text, vram_range *list,
                                       uint32_t cap, uint32_t *count, vram_error *err) {
  const vram_node *n;
  const char *p, *dots, *end;
  *count = 0;
  if (vram__text_is(text, vram__text_len(text), "layers")) {
    *count = vram__ranges_layers(g, list, cap);
    return *count ? VRAM_OK
                  : vram__range_error(err, VRAM_ERR_NAME,
                                      "no node has a layer's number in its name", text, text);
  }
  for (p = text;; p = end + 1) { /* every name is one */
    int found = 0;
    end = vram__range_end(p, &dots);
    if (dots == p || end < dots + 3)
      return vram__range_error(err, VRAM_ERR_SYNTAX, "a range is A..B, names of nodes, found: ", p,
                               end);
    for (n = g->first; n; n = vram__line_end_of(n)->next)
      found |= vram__node_is_named(n, p, (uint32_t)(dots - p)) |
               vram__node_is_named(n, dots + 2, (uint32_t)(end - dots - 2)) << 1;
    if (!(found & 1))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", p, dots);
    if (!(found & 2))
      return vram__range_error(err, VRAM_ERR_NAME, "no node has the name ", dots + 2, end);
    if (!*end)
      break;
  }
  for (n = g->first; n; n = vram__line_end_of(n)->next) {
    const vram_node *last = NULL; /* of those that begin here the outer ones first */
    const char *after = NULL;
    for (;;) {
      const vram_node *next = NULL;
      const char *which = NULL;
      for (p = text;; p = end + 1) {
        const vram_node *m;
        end = vram__range_end(p, &dots);
        if (vram__node_is_named(n, p, (uint32_t)(dots - p))) {
          for (m = n; m && !vram__node_is_named(m, dots + 2, (uint32_t)(end - dots - 2));) {
            m = vram__line_end_of(m)->next;
            if (m && vram__node_is_named(m, p, (uint32_t)(dots - p)))
              return vram__range_error(err, VRAM_ERR_VALUE,
                                       "a range begins once more before it ends: ", p, end);
          }
          if (!m)
            return vram__range_error(err, VRAM_ERR_VALUE,
                                     "a range whose end is not behind its beginning: ", p, end);
          if ((!last || m->index < last->index || (m == last && p > after)) &&
              (!next || m->index > next->index))
            next = m, which = p;
        }
        if (!*end)
          break;
      }
      if (!next)
        break;
      if (*count < cap)
        list[*count].first = n, list[*count].last = next;
      ++*count;
      last = next, after = which;
    }
  }
  if (err)
    vram__memory_zero(err, sizeof *err);
  return VRAM_OK;
}

/* ---- frozen weights ---- */

/* All of a node's own, and the parameters of the text that it reads. */
static void vram__node_freeze(const vram_node *n) {
  uint32_t i;
  for (i = 0; i < n->nparam && !(vram__op_traits(n) & VRAM__OP_PARAM); i++)
    if (n->param[i] && n->param[i]->kind == VRAM__PARAM)
      n->param[i]->kind = VRAM__FROZEN;
  for (i = 0; i < n->nin; i++) {
    const vram_node *from = n->in[i]->node;
    if (from && (vram__op_traits(from) & VRAM__OP_PARAM) && from->nparam &&
        from->param[0]->kind == VRAM__PARAM)
      from->param[0]->kind = VRAM__FROZEN;
  }
}

/* What lies before the end of the layer of that number, the first is 1. */
static vram_result vram__freeze_layers(const vram_graph *g, const char *what, const char *end,
                                       vram_error *err) {
  const vram_node *at = g->first, *n, *last;
  vram_range run;
  uint32_t left = 0;
  for (; what < end && left < 100000000; what++)
    left = left * 10 + (uint32_t)(*what - '0');
  if (!left)
    return vram__range_error(err, VRAM_ERR_VALUE, "no layer is to be frozen", end, end);
  while (vram__layer_next(&at, &run) && --left)
    ;
  if (left)
    return vram__range_error(err, VRAM_ERR_VALUE, "more layers are to be frozen than there are",
                             end, end);
  last = vram__line_end_of(run.last);
  for (n = g->first; n && n->index <= last->index; n = n->next)
    vram__node_freeze(n);
  return VRAM_OK;
}

/* Does `name` mean p: its module, one around that, or itself ("fc", "fc.weight")? */
static int vram__freeze_means(vram__span name, const vram_param *p) {
  const vram__span label = vram__node_label(p->node);
  const uint32_t role = vram__text_len(p->role);
  if (name.len == label.len + 1 + role)
    return vram__text_equal(name.text, label.text, label.len) && name.text[label.len] == '.' &&
           vram__text_equal(name.text + label.len + 1, p->role, role);
  return label.len >= name.len && vram__text_equal(label.text, name.text, name.len) &&
         (label.len == name.len || label.text[name.len] == '.' || label.text[name.len] == '/');
}

static vram_result vram__freeze_names(const vram_graph *g, const char *what, vram_error *err) {
  const char *at = what, *end;
  vram_param *p;
  for (;; at = end + 1) {
    int found = 0;
    for (end = at; *end && *end != '|' && *end != ',';)
      end++;
    for (p = g->param_first; p && end > at; p = p->next)
      if (p->kind != VRAM__BUFFER && vram__freeze_means(vram__span_of(at, end), p)) {
        p->kind = VRAM__FROZEN;
        found = 1;
      }
    if (!found)
      return vram__range_error(err, VRAM_ERR_NAME, "no parameter has the name ", at, end);
    if (!*end)
      return VRAM_OK;
  }
}

VRAM_API vram_result vram_graph_freeze_weights(vram_graph *g, const char *what, vram_error *err) {
  const char *end = what;
  vram_param *p;
  uint32_t left = 0;
  vram_result r;
  vram__error_clear(err);
  while (*end >= '0' && *end <= '9')
    end++;
  r = *what && !*end ? vram__freeze_layers(g, what, end, err) : vram__freeze_names(g, what, err);
  if (r || !g->owned)
    return r;
  vram__memory_zero(g->owned, sizeof *g->owned);
  for (p = g->param_first; p; p = p->next) {
    vram__owned_add(g->owned, p, vram__param_bytes(p, p->dtype));
    left += p->kind == VRAM__PARAM;
  }
  return left ? VRAM_OK
              : vram__range_error(err, VRAM_ERR_VALUE, "no weight is left that learns", end, end);
}
