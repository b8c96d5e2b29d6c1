/* >>llama/pattern    is a regular expression found in the name of a tensor?
   What std::regex reads as ECMAScript: letters, ., classes, groups, alternatives, * + ? {n,m}, lazy
   forms of these, ^ and $, \d \w \s \D \W \S; no look-ahead, no back references, no \b. A set of
   states for each letter, so that no pattern takes long. */
#include "llama/llama.h"

enum { VRAM__PATTERN_STATES = 1024, VRAM__PATTERN_DEPTH = 16, VRAM__PATTERN_REPEATS = 255 };

typedef enum vram__pattern_kind {
  VRAM__PATTERN_CLASS, /* a letter of a set, then `next` */
  VRAM__PATTERN_SPLIT, /* `next` or `other` */
  VRAM__PATTERN_BEGIN,
  VRAM__PATTERN_END,
  VRAM__PATTERN_FOUND
} vram__pattern_kind;

typedef struct vram__pattern_state {
  uint64_t set[4];
  uint16_t next, other;
  uint8_t kind;
} vram__pattern_state;

typedef struct vram__pattern {
  const char *at, *end;
  uint32_t n, depth;
  int is_wrong;
  vram__pattern_state state[VRAM__PATTERN_STATES];
} vram__pattern;

/* A piece of the machine: where it begins, and the state that goes on to what follows. */
typedef struct vram__pattern_piece {
  uint16_t first, last;
} vram__pattern_piece;

static uint16_t vram__pattern_state_new(vram__pattern *p, vram__pattern_kind kind) {
  if (p->n == VRAM__PATTERN_STATES) {
    p->is_wrong = 1;
    return 0;
  }
  vram__memory_zero(p->state + p->n, sizeof *p->state);
  p->state[p->n].kind = (uint8_t)kind;
  return (uint16_t)p->n++;
}

/* A state that goes on to one or to two others without a letter; to itself for none. */
static uint16_t vram__pattern_split(vram__pattern *p, uint16_t next, uint16_t other) {
  const uint16_t s = vram__pattern_state_new(p, VRAM__PATTERN_SPLIT);
  p->state[s].next = next;
  p->state[s].other = other;
  return s;
}

static uint16_t vram__pattern_join(vram__pattern *p) {
  const uint16_t s = vram__pattern_split(p, 0, 0);
  p->state[s].next = s;
  p->state[s].other = s;
  return s;
}

static void vram__pattern_link(vram__pattern *p, uint16_t from, uint16_t to) {
  p->state[from].next = to;
  if (p->state[from].kind == VRAM__PATTERN_SPLIT)
    p->state[from].other = to;
}

static void vram__pattern_range(uint64_t *set, uint32_t first, uint32_t last) {
  for (; first <= last; first++)
    set[first >> 6] |= UINT64_C(1) << (first & 63);
}

/* \d and its kin; 0: no class. */
static int vram__pattern_named(uint64_t *set, char c) {
  uint64_t s[4] = {0, 0, 0, 0};
  uint32_t i;
  switch (c) {
  case 'd':
  case 'D':
    vram__pattern_range(s, '0', '9');
    break;
  case 'w':
  case 'W':
    vram__pattern_range(s, '0', '9');
    vram__pattern_range(s, 'A', 'Z');
    vram__pattern_range(s, '_', '_');
    vram__pattern_range(s, 'a', 'z');
    break;
  case 's':
  case 'S':
    vram__pattern_range(s, '\t', '\r');
    vram__pattern_range(s, ' ', ' ');
    break;
  default:
    return 0;
  }
  for (i = 0; i < 4; i++)
    set[i] |= c < 'a' ? ~s[i] : s[i];
  return 1;
}

/* A letter behind a backslash, which stands for itself unless it is one of a word. */
static void vram__pattern_escape(vram__pattern *p, uint64_t *set) {
  const char c = (char)(p->at < p->end ? *p->at++ : 'a');
  if (vram__pattern_named(set, c))
    return;
  if (vram__name_start(c) || vram__digit(c))
    p->is_wrong = 1;
  vram__pattern_range(set, (uint8_t)c, (uint8_t)c);
}

/* [a-z_] and [^a-z_], behind the bracket. */
static void vram__pattern_class(vram__pattern *p, uint64_t *set) {
  const int is_not = p->at < p->end && *p->at == '^';
  uint32_t i;
  p->at += is_not;
  while (p->at < p->end && *p->at != ']') {
    const uint8_t first = (uint8_t)*p->at++;
    uint8_t last = first;
    if (first == '\\') {
      vram__pattern_escape(p, set);
      continue;
    }
    if (p->end - p->at >= 2 && p->at[0] == '-' && p->at[1] != ']') {
      last = (uint8_t)p->at[1];
      p->at += 2;
    }
    if (last < first || last == '\\' || (first == '[' && last == first))
      p->is_wrong = 1;
    else
      vram__pattern_range(set, first, last);
  }
  if (p->at == p->end)
    p->is_wrong = 1;
  else
    p->at++;
  for (i = 0; is_not && i < 4; i++)
    set[i] = ~set[i];
}

static vram__pattern_piece vram__pattern_alternatives(vram__pattern *p);

static vram__pattern_piece vram__pattern_group(vram__pattern *p) {
  vram__pattern_piece a = {0, 0};
  if (p->end - p->at >= 2 && p->at[0] == '?') {
    if (p->at[1] != ':')
      p->is_wrong = 1;
    p->at += 2;
  }
  if (p->depth == VRAM__PATTERN_DEPTH)
    p->is_wrong = 1;
  if (p->is_wrong)
    return a;
  p->depth++;
  a = vram__pattern_alternatives(p);
  p->depth--;
  if (p->at == p->end)
    p->is_wrong = 1;
  else
    p->at++;
  return a;
}

static vram__pattern_piece vram__pattern_atom(vram__pattern *p) {
  const char c = *p->at++;
  vram__pattern_piece a;
  uint64_t *set;
  if (c == '(')
    return vram__pattern_group(p);
  a.first = vram__pattern_state_new(p, c == '^'   ? VRAM__PATTERN_BEGIN
                                       : c == '$' ? VRAM__PATTERN_END
                                                  : VRAM__PATTERN_CLASS);
  a.last = a.first;
  set = p->state[a.first].set;
  if (c == '*' || c == '+' || c == '?' || c == '{' || c == '}' || c == ']')
    p->is_wrong = 1;
  else if (c == '.')
    vram__pattern_range(set, 0, 255);
  else if (c == '[')
    vram__pattern_class(p, set);
  else if (c == '\\')
    vram__pattern_escape(p, set);
  else
    vram__pattern_range(set, (uint8_t)c, (uint8_t)c);
  return a;
}

/* How often the atom before may be there. */
typedef struct vram__pattern_count {
  uint32_t least, most; /* most 0: without end */
  int is_there;
} vram__pattern_count;

static uint32_t vram__pattern_number(vram__pattern *p) {
  uint32_t n = 0;
  if (p->at == p->end || !vram__digit(*p->at))
    p->is_wrong = 1;
  for (; p->at < p->end && vram__digit(*p->at) && n <= VRAM__PATTERN_REPEATS; p->at++)
    n = 10 * n + (uint32_t)(*p->at - '0');
  if (n > VRAM__PATTERN_REPEATS)
    p->is_wrong = 1;
  return n;
}

static vram__pattern_count vram__pattern_quantifier(vram__pattern *p) {
  vram__pattern_count n = {1, 1, 0};
  const char c = (char)(p->at < p->end ? *p->at : 'a');
  if (c != '*' && c != '+' && c != '?' && c != '{')
    return n;
  p->at++;
  n.is_there = 1;
  n.least = c == '+';
  n.most = c == '?';
  if (c == '{') {
    n.least = vram__pattern_number(p);
    n.most = n.least;
    if (p->at < p->end && *p->at == ',') {
      p->at++;
      n.most = p->at < p->end && *p->at == '}' ? 0 : vram__pattern_number(p);
      if (n.most && n.most < n.least)
        p->is_wrong = 1;
    } else if (!n.least)
      p->is_wrong = 1; /* {0}: nothing at all */
    if (p->at == p->end || *p->at++ != '}')
      p->is_wrong = 1;
  }
  if (p->at < p->end && *p->at == '?')
    p->at++; /* lazy: the same names are found */
  return n;
}

/* The atom at `from` again and again, one copy of its states each time. */
static vram__pattern_piece vram__pattern_repeat(vram__pattern *p, const char *from,
                                                vram__pattern_count n) {
  const char *const after = p->at;
  const uint32_t copies = n.most ? n.most : n.least ? n.least : 1;
  vram__pattern_piece all;
  uint32_t i;
  all.first = all.last = vram__pattern_join(p);
  for (i = 0; i < copies && !p->is_wrong; i++) {
    const uint16_t join = vram__pattern_join(p);
    uint16_t first;
    vram__pattern_piece a;
    p->at = from;
    a = vram__pattern_atom(p);
    first = i < n.least ? a.first : vram__pattern_split(p, a.first, join);
    vram__pattern_link(p, all.last, first);
    if (!n.most && i + 1 == copies)
      vram__pattern_link(p, a.last, vram__pattern_split(p, a.first, join));
    else
      vram__pattern_link(p, a.last, join);
    all.last = join;
  }
  p->at = after;
  return all;
}

static vram__pattern_piece vram__pattern_sequence(vram__pattern *p) {
  vram__pattern_piece all;
  all.first = all.last = vram__pattern_join(p);
  while (p->at < p->end && *p->at != '|' && *p->at != ')' && !p->is_wrong) {
    const char *const from = p->at;
    vram__pattern_piece a = vram__pattern_atom(p);
    const vram__pattern_count n = vram__pattern_quantifier(p);
    if (n.is_there && !p->is_wrong)
      a = vram__pattern_repeat(p, from, n);
    vram__pattern_link(p, all.last, a.first);
    all.last = a.last;
  }
  return all;
}

static vram__pattern_piece vram__pattern_alternatives(vram__pattern *p) {
  vram__pattern_piece all = vram__pattern_sequence(p);
  while (p->at < p->end && *p->at == '|' && !p->is_wrong) {
    const uint16_t join = vram__pattern_join(p);
    vram__pattern_piece a;
    p->at++;
    a = vram__pattern_sequence(p);
    vram__pattern_link(p, all.last, join);
    vram__pattern_link(p, a.last, join);
    all.first = vram__pattern_split(p, all.first, a.first);
    all.last = join;
  }
  return all;
}

/* States that are active; `list` has them all, each once. */
typedef struct vram__pattern_set {
  uint16_t list[VRAM__PATTERN_STATES];
  uint32_t n;
  uint8_t has[VRAM__PATTERN_STATES];
} vram__pattern_set;

static void vram__pattern_add(vram__pattern_set *s, uint16_t state) {
  if (!s->has[state]) {
    s->has[state] = 1;
    s->list[s->n++] = state;
  }
}

/* Follows what needs no letter. 1: the pattern is found. */
static int vram__pattern_close(const vram__pattern *p, vram__pattern_set *s, int begin, int end) {
  uint32_t i;
  for (i = 0; i < s->n; i++) {
    const vram__pattern_state *const t = p->state + s->list[i];
    if (t->kind == VRAM__PATTERN_FOUND)
      return 1;
    if (t->kind == VRAM__PATTERN_SPLIT || (t->kind == VRAM__PATTERN_BEGIN && begin) ||
        (t->kind == VRAM__PATTERN_END && end))
      vram__pattern_add(s, t->next);
    if (t->kind == VRAM__PATTERN_SPLIT)
      vram__pattern_add(s, t->other);
  }
  return 0;
}

static int vram__pattern_search(const vram__pattern *p, uint16_t first, const char *name,
                                uint32_t len) {
  vram__pattern_set now, then;
  uint32_t i, k;
  vram__memory_zero(&now, sizeof now);
  for (i = 0;; i++) {
    vram__pattern_add(&now, first);
    if (vram__pattern_close(p, &now, i == 0, i == len))
      return 1;
    if (i == len)
      return 0;
    vram__memory_zero(&then, sizeof then);
    for (k = 0; k < now.n; k++) {
      const vram__pattern_state *const t = p->state + now.list[k];
      const uint8_t c = (uint8_t)name[i];
      if (t->kind == VRAM__PATTERN_CLASS && (t->set[c >> 6] >> (c & 63) & 1))
        vram__pattern_add(&then, t->next);
    }
    now = then;
  }
}

VRAM__FN vram_result vram__llama_pattern_find(const vram_llama_override *o, const char *name,
                                              uint32_t len, int *found) {
  vram__pattern p;
  vram__pattern_piece all;
  p.at = o->pattern;
  p.end = o->pattern + o->pattern_len;
  p.n = 0;
  p.depth = 0;
  p.is_wrong = 0;
  all = vram__pattern_alternatives(&p);
  if (p.at != p.end)
    p.is_wrong = 1;
  vram__pattern_link(&p, all.last, vram__pattern_state_new(&p, VRAM__PATTERN_FOUND));
  if (p.is_wrong)
    return VRAM_ERR_SYNTAX;
  *found = vram__pattern_search(&p, all.first, name, len);
  return VRAM_OK;
}
