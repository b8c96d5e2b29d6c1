/* >>model/symbol    words, names and their hash table */
#include "model/model.h"

VRAM__FN int vram__name_char(char c) {
  return vram__name_start(c) || vram__digit(c) || c == '.' || c == '/';
}

VRAM__FN int vram__span_is_name(vram__span s) {
  uint32_t i;
  if (!s.len || s.len > VRAM_MAX_NAME || !vram__name_start(s.text[0]))
    return 0;
  for (i = 1; i < s.len; i++)
    if (!vram__name_char(s.text[i]))
      return 0;
  return 1;
}

/* The next word of the line; 0 at its end. */
VRAM__FN int vram__parse_token(vram__parser *p) {
  const char *at = p->at, *const end = p->end;
  while (at < end && (*at == ' ' || *at == '\t'))
    at++;
  p->token.text = at;
  while (!p->tabs && end - at >= 8) {
    const uint64_t blank = VRAM__HOLDS(vram__text_eight(at), ' ');
    if (blank) {
      p->at = at + vram__lowest_byte(blank);
      p->token.len = (uint32_t)(p->at - p->token.text);
      return p->token.len != 0;
    }
    at += 8;
  }
  while (at < end && *at != ' ' && *at != '\t')
    at++;
  p->at = at;
  p->token.len = (uint32_t)(at - p->token.text);
  return p->token.len != 0;
}

VRAM__FN const char *vram__graph_keep_text(vram_graph *g, const char *s, uint32_t n) {
  char *kept = (char *)vram__graph_take(g, n);
  if (kept)
    vram__memory_copy(kept, s, n);
  return kept;
}

/* The number of the newest symbol of that name, 0: there is none. */
static uint32_t vram__symbol_number(const vram__parser *p, vram__span name, uint32_t hash) {
  uint32_t k = p->table ? p->table[hash & p->mask] : 0;
  while (k) {
    const vram__symbol *y = p->symbol - k;
    if (y->hash == hash && y->name.len == name.len &&
        vram__text_equal(y->name.text, name.text, name.len))
      break;
    k = y->next;
  }
  return k;
}

/* The value of that name; NULL: there is none. */
VRAM__FN vram_value *vram__symbol_find(const vram__parser *p, vram__span name) {
  const uint32_t k = vram__symbol_number(p, name, vram__hash(name.text, name.len));
  return k ? (p->symbol - k)->value : NULL;
}

/* So many bytes at the end of the graph's memory, which the graph gets back behind the text. */
VRAM__FN void *vram__parser_take(vram__parser *p, uint64_t n) {
  vram_graph *g = p->g;
  if (g->used > g->cap || n > g->cap - g->used) {
    vram__graph_fail(g, VRAM_ERR_MEMORY, "the memory given for the graph is too small");
    return NULL;
  }
  g->cap -= n;
  return g->mem + g->cap;
}

/* From here on the name is v's; a carried one has another value in each round. */
VRAM__FN int vram__symbol_define(vram__parser *p, vram__span name, vram_value *v, int carried) {
  const uint32_t hash = vram__hash(name.text, name.len);
  const uint32_t known = carried ? 0 : vram__symbol_number(p, name, hash);
  uint32_t *first = p->table + (hash & p->mask);
  vram__symbol *y;
  if (known) {
    const int outside = p->depth && known <= p->loop[p->depth - 1].outside;
    return vram__parse_error(p, VRAM_ERR_NAME,
                             outside ? "a name defined outside the loop" : "a name defined twice",
                             name, "a new name");
  }
  if (p->nsymbol == p->symbol_room) {
    if (!vram__parser_take(p, sizeof *y))
      return vram__parse_located(p, name.text);
    p->symbol_room++;
  }
  y = p->symbol - ++p->nsymbol;
  y->name = name;
  y->value = v;
  y->hash = hash;
  y->next = *first;
  *first = p->nsymbol;
  return 1;
}

/* Forgets the names that were defined behind the first `outside` ones. Chains are last in, first
   out. */
VRAM__FN void vram__symbol_forget(vram__parser *p, uint32_t outside) {
  for (; p->nsymbol > outside; p->nsymbol--) {
    const vram__symbol *y = p->symbol - p->nsymbol;
    p->table[y->hash & p->mask] = y->next;
  }
}

/* The graph's own copy of a name that is about to be defined. Where the next symbol will be there
   may still be one of the round before: mostly of the same name, and the copy serves both. */
VRAM__FN const char *vram__symbol_keep_name(vram__parser *p, vram__span name) {
  if (p->nsymbol < p->symbol_room) {
    const vram_value *before = (p->symbol - (p->nsymbol + 1))->value;
    if (before->name_len == name.len && vram__text_equal(before->name, name.text, name.len))
      return before->name;
  }
  return vram__graph_keep_text(p->g, name.text, name.len);
}
