/* >>model/symbol    words, names and their hash table */
#include "model/model.h"

VRAM__FN int vram__name_char(char c) {
  return vram__name_start(c) || vram__digit(c) || c == '.' || c == '/';
}

/* The next word of the line; 0 at its end. */
VRAM__FN int vram__parse_token(vram__parse *q) {
  while (q->p < q->end && (*q->p == ' ' || *q->p == '\t'))
    q->p++;
  q->tok = q->p;
  while (!q->tabs && q->end - q->p >= 8) {
    const uint64_t w = vram__text_eight(q->p), blank = VRAM__HOLDS(w, ' ');
    if (blank) {
      q->p += vram__lowest_byte(blank);
      q->len = (uint32_t)(q->p - q->tok);
      return q->len != 0;
    }
    q->p += 8;
  }
  while (q->p < q->end && *q->p != ' ' && *q->p != '\t')
    q->p++;
  q->len = (uint32_t)(q->p - q->tok);
  return q->len != 0;
}

VRAM__FN int vram__is_name(const char *s, uint32_t n) {
  uint32_t i;
  if (!n || n > VRAM_MAX_NAME || !vram__name_start(s[0]))
    return 0;
  for (i = 1; i < n; i++)
    if (!vram__name_char(s[i]))
      return 0;
  return 1;
}

static vram__sym *vram__symbol_find_hashed(vram__parse *q, const char *s, uint32_t n, uint32_t h) {
  vram__sym *y = q->table ? q->table[h & q->mask] : NULL;
  for (; y; y = y->next) {
    if (y->hash != h || y->len != n)
      continue;
    if (vram__text_equal(y->name, s, n))
      return y;
  }
  return NULL;
}

VRAM__FN const char *vram__graph_keep_text(vram_graph *g, const char *s, uint32_t n) {
  char *t = (char *)vram__graph_take(g, n);
  if (t)
    vram__memory_copy(t, s, n);
  return t;
}

VRAM__FN vram__sym *vram__symbol_find(vram__parse *q, const char *s, uint32_t n) {
  return vram__symbol_find_hashed(q, s, n, vram__hash(s, n));
}

VRAM__FN int vram__symbol_define(vram__parse *q, const char *s, uint32_t n, vram_value *v,
                                 int carried) {
  const uint32_t h = vram__hash(s, n);
  vram__sym *old = vram__symbol_find_hashed(q, s, n, h), *y;
  if (old && !carried && old->depth == q->depth)
    return vram__parse_error(q, s, VRAM_ERR_NAME, "a name defined twice", s, n, "a new name");
  if (old && !carried)
    return vram__parse_error(q, s, VRAM_ERR_NAME, "a name defined outside the loop", s, n,
                             "a new name");
  y = (vram__sym *)vram__graph_take(q->g, sizeof *y);
  if (!y)
    return vram__parse_error(q, s, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  y->name = v->name_len == n && vram__text_equal(v->name, s, n) ? v->name
                                                                : vram__graph_keep_text(q->g, s, n);
  if (!y->name)
    return vram__parse_error(q, s, VRAM_ERR_MEMORY, "", NULL, 0, NULL);
  y->len = n;
  y->hash = h;
  y->depth = q->depth;
  y->value = v;
  y->below = q->top;
  q->top = y;
  y->next = q->table[h & q->mask];
  q->table[h & q->mask] = y;
  return 1;
}

/* Forgets the names defined after `mark`. Chains are last in, first out. */
VRAM__FN void vram__symbol_forget(vram__parse *q, vram__sym *mark) {
  while (q->top != mark) {
    vram__sym *y = q->top;
    q->table[y->hash & q->mask] = y->next;
    q->top = y->below;
  }
}
