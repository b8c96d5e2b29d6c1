/* >>parallel/units    units of a model: runs of nodes that fully_shard is called for */
#include "parallel/parallel.h"

/* ---- the part of Python's re that names of units need: letters, `.`, `\d`, `\w`, `\` before a
   letter that is meant itself, [0-9a-z], each with `*`, `+` or `?` behind it; `|` between */

static int vram__pattern_in_set(const char *p, const char *end, char c) {
  int in = 0, not_in = p < end && *p == '^';
  for (p += not_in; p < end; p++) {
    if (p + 2 < end && p[1] == '-') {
      in |= c >= p[0] && c <= p[2];
      p += 2;
    } else
      in |= c == *p;
  }
  return in != not_in;
}

static int vram__pattern_is(const char *p, const char *end, char c) {
  if (*p == '[')
    return vram__pattern_in_set(p + 1, end - 1, c);
  if (*p == '\\' && end - p == 2)
    return p[1] == 'd'   ? vram__digit(c)
           : p[1] == 'w' ? vram__name_start(c) || vram__digit(c)
                         : c == p[1];
  return *p == '.' || *p == c;
}

/* How much of the name the alternative p..end takes; UINT32_MAX: it does not match. */
static uint32_t vram__pattern_take(const char *p, const char *end, const char *s, uint32_t n) {
  const char *atom;
  uint32_t least = 1, most = 1, k, rest;
  if (p == end)
    return 0;
  atom = vram__pattern_atom_end(p, end);
  if (atom < end && (*atom == '*' || *atom == '+' || *atom == '?')) {
    least = *atom == '+';
    most = *atom == '?' ? 1 : n;
  }
  for (k = 0; k < most && k < n && vram__pattern_is(p, atom, s[k]);)
    k++;
  for (p = atom + (least != 1 || most != 1 || (atom < end && *atom == '+')); k + 1 > least; k--) {
    rest = vram__pattern_take(p, end, s + k, n - k);
    if (rest != UINT32_MAX)
      return k + rest;
    if (!k)
      break;
  }
  return UINT32_MAX;
}

/* The same of all alternatives: the first that matches. */
static uint32_t vram__pattern_match(vram_words pattern, const char *s, uint32_t n) {
  const char *p = pattern.text, *const all = p + pattern.len, *end;
  uint32_t taken;
  for (;; p = end + 1) {
    for (end = p; end < all && *end != '|'; end = vram__pattern_atom_end(end, all))
      ;
    taken = vram__pattern_take(p, end, s, n);
    if (taken != UINT32_MAX || end >= all)
      return taken;
  }
}

/* ---- which unit a node belongs to */

/* "encoder.layers.3" of "encoder.layers.3.norm": up to the first number that is a part of its own,
   but not the first part. */
static uint32_t vram__unit_prefix(vram__span label) {
  uint32_t at = 0, begin;
  while (at < label.len) {
    if (label.text[at++] != '.')
      continue;
    for (begin = at; at < label.len && vram__digit(label.text[at]);)
      at++;
    if (at > begin && (at == label.len || label.text[at] == '.'))
      return at;
  }
  return 0;
}

/* The same of the names of `unit` lines. */
static uint32_t vram__unit_named(const vram_graph *g, vram__span label) {
  const vram__unit_word *w;
  for (w = g->unit_first; w; w = w->next)
    if (w->len <= label.len && vram__text_equal(w->text, label.text, w->len) &&
        (w->len == label.len || label.text[w->len] == '.'))
      return w->len;
  return 0;
}

/* Is it a pattern, not a word for a way to choose? */
static int vram__units_is_pattern(vram_words units) {
  return units.text && !vram__text_is(units.text, units.len, "auto") &&
         !vram__text_is(units.text, units.len, "root");
}

/* In a loop each of its rounds is a unit, whatever the names in it. */
static vram__unit_name vram__unit_name_of(const vram_graph *g, vram_words units,
                                          const vram_node *n) {
  const vram__span label = vram__node_label(vram__line_end_of(n));
  const vram__round *round = n->round;
  vram__unit_name name;
  uint32_t taken;
  name.span = vram__span_of(label.text, label.text);
  name.round = 0;
  if (vram__text_is(units.text, units.len, "root"))
    return name;
  if (vram__units_is_pattern(units)) {
    taken = vram__pattern_match(units, label.text, label.len);
    name.span.len = taken == UINT32_MAX ? 0 : taken;
    return name;
  }
  while (round && round->up)
    round = round->up;
  if (g->unit_first)
    name.span.len = vram__unit_named(g, label);
  else if (!round)
    name.span.len = vram__unit_prefix(label);
  if (round && (name.span.len || !g->unit_first))
    name.round = round->round + 1;
  return name;
}

static int vram__unit_is(const vram__unit_name *a, const vram__unit_name *b) {
  return a->round == b->round && a->span.len == b->span.len &&
         vram__text_equal(a->span.text, b->span.text, a->span.len);
}

/* Lines that make nothing belong to what is before them. */
static int vram__unit_goes_on(const vram_node *n) { return n->op >= VRAM_OP_COUNT; }

/* Does the name of n begin with the run's, which ends with a number? Then it is of the same unit:
   names are looked through from their begin up to that. */
static int vram__unit_begins(const vram__unit_run *run, const vram_node *n) {
  const vram__span label = vram__node_label(n), name = run->name.span;
  return name.len && label.len >= name.len && !n->round &&
         vram__text_equal(label.text, name.text, name.len) &&
         (label.len == name.len || label.text[name.len] == '.');
}

/* The run of nodes that begins with n, the first of a line: a unit, or what lies between units. */
VRAM__FN vram__unit_run vram__units_run(const vram_graph *g, vram_words units, const vram_node *n) {
  const int usual = !g->unit_first && (!units.text || vram__text_is(units.text, units.len, "auto"));
  vram__unit_run run;
  vram__unit_name name;
  const vram_node *end;
  run.first = n;
  run.name.span = vram__span_of("", "");
  run.name.round = 0;
  if (!vram__unit_goes_on(n))
    run.name = vram__unit_name_of(g, units, n);
  for (run.last = n = vram__line_end_of(n); n->next; run.last = n = end) {
    end = vram__line_end_of(n->next);
    if (vram__unit_goes_on(n->next) || (usual && !run.name.round && vram__unit_begins(&run, end)))
      continue;
    name = vram__unit_name_of(g, units, n->next);
    if (!vram__unit_is(&name, &run.name))
      break;
  }
  run.is_unit = run.name.span.len || run.name.round;
  return run;
}

/* 0: a pattern that no name begins with, or `unit` lines of which no module has a name. */
VRAM__FN int vram__units_known(const vram_graph *g, vram_words units) {
  const int named = g->unit_first && !vram__text_is(units.text, units.len, "root");
  const vram_node *n = named || vram__units_is_pattern(units) ? g->first : NULL;
  if (!n)
    return 1;
  for (; n; n = vram__line_end_of(n)->next)
    if (vram__unit_name_of(g, units, n).span.len)
      return 1;
  return 0;
}

/* Has it parameters or operations? Views whose names have a number are no module. */
static uint8_t vram__unit_does(const vram__unit_run *run) {
  const vram_node *n;
  for (n = run->first; n != run->last->next; n = n->next)
    if (n->nparam || vram_node_flops(n))
      return 1;
  return 0;
}

VRAM_API uint32_t vram_graph_unit_ranges(const vram_graph *g, vram_words units, vram_range *list,
                                         uint32_t cap) {
  const vram_node *n = g->first;
  uint32_t count = 0;
  while (n) {
    vram__unit_run run = vram__units_run(g, units, n);
    const vram_node *last = run.first;
    for (n = run.first; n != run.last->next; n = n->next)
      last = n->op < VRAM_OP_COUNT ? n : last;
    run.is_unit &= vram__unit_does(&run);
    if (run.is_unit && count < cap) {
      list[count].first = run.first;
      list[count].last = last;
    }
    count += run.is_unit;
  }
  return count;
}
