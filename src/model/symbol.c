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

static vram__symbol *vram__symbol_find_hashed(vram__parser *p, vram__span name, uint32_t hash) {
  vram__symbol *y = p->table ? p->table[hash & p->mask] : NULL;
  for (; y; y = y->next) {
    if (y->hash != hash || y->name.len != name.len)
      continue;
    if (vram__text_equal(y->name.text, name.text, name.len))
      return y;
  }
  return NULL;
}

VRAM__FN vram__symbol *vram__symbol_find(vram__parser *p, vram__span name) {
  return vram__symbol_find_hashed(p, name, vram__hash(name.text, name.len));
}

/* From here on the name is v's; a carried one has another value in each round. */
VRAM__FN int vram__symbol_define(vram__parser *p, vram__span name, vram_value *v, int carried) {
  const uint32_t hash = vram__hash(name.text, name.len);
  vram__symbol *y = carried ? NULL : vram__symbol_find_hashed(p, name, hash);
  if (y)
    return vram__parse_error(p, VRAM_ERR_NAME,
                             y->depth == p->depth ? "a name defined twice"
                                                  : "a name defined outside the loop",
                             name, "a new name");
  y = (vram__symbol *)vram__graph_take(p->g, sizeof *y);
  if (!y)
    return vram__parse_located(p, name.text);
  y->name.len = name.len;
  y->name.text = v->name; /* it mostly is the value's own */
  if (v->name_len != name.len || !vram__text_equal(v->name, name.text, name.len))
    y->name.text = vram__graph_keep_text(p->g, name.text, name.len);
  if (!y->name.text)
    return vram__parse_located(p, name.text);
  y->hash = hash;
  y->depth = p->depth;
  y->value = v;
  y->below = p->newest;
  p->newest = y;
  y->next = p->table[hash & p->mask];
  p->table[hash & p->mask] = y;
  return 1;
}

/* Forgets the names that were defined after this one. Chains are last in, first out. */
VRAM__FN void vram__symbol_forget(vram__parser *p, vram__symbol *outside) {
  while (p->newest != outside) {
    vram__symbol *y = p->newest;
    p->table[y->hash & p->mask] = y->next;
    p->newest = y->below;
  }
}
