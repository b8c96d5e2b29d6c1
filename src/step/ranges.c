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
   the outermost round, too. */
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
  while (at < label.len) {
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

/* Every run of nodes of one layer. */
static uint32_t vram__ranges_layers(const vram_graph *g, vram_range *list, uint32_t cap) {
  const vram_node *n, *first = NULL, *last = NULL;
  vram__layer layer = VRAM_ZERO_INIT, open = VRAM_ZERO_INIT;
  uint32_t count = 0;
  for (n = g->first;; n = vram__line_end_of(n)->next) {
    if (n && vram__node_is_lifetime(n))
      continue;
    if (n)
      layer = vram__layer_of(n);
    if (n && first && vram__layer_same(&layer, &open)) {
      last = n;
      continue;
    }
    if (first != last) {
      if (count < cap) {
        list[count].first = first;
        list[count].last = last;
      }
      count++;
    }
    if (!n)
      return count;
    first = last = layer.name.len || layer.round ? n : NULL;
    open = layer;
  }
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
