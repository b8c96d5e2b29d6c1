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

VRAM_API vram_result vram_graph_ranges(const vram_graph *g, const char *text, vram_range *list,
                                       uint32_t cap, uint32_t *count, vram_error *err) {
  const vram_node *n;
  const char *p, *dots, *end;
  *count = 0;
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
