/* >>model/error    the error of a graph, and where in a text it is */
#include "model/model.h"

/* An error's text is put together from pieces; the first error of a graph stays. */
VRAM__FN void vram__graph_fail(vram_graph *g, vram_result code, const char *what) {
  uint32_t n = 0;
  if (g->error.code)
    return;
  g->error.code = code;
  vram__text_puts(g->error.text, sizeof g->error.text, &n, what);
}

VRAM__FN void vram__error_more(vram_graph *g, const char *z) {
  uint32_t n = vram__text_len(g->error.text);
  vram__text_puts(g->error.text, sizeof g->error.text, &n, z);
}

VRAM__FN void vram__error_more_n(vram_graph *g, const char *z, uint32_t len) {
  uint32_t n = vram__text_len(g->error.text), i;
  for (i = 0; i < len && i < 64; i++) {
    char c = '?';
    if (z[i] >= 32 && z[i] < 127)
      c = z[i];
    vram__text_put(g->error.text, sizeof g->error.text, &n, &c, 1);
  }
}

VRAM__FN void vram__error_no_dim(vram_graph *g, const char *name) {
  uint32_t i;
  vram__graph_fail(g, VRAM_ERR_NAME, "the model has no dim ");
  vram__error_more(g, name);
  for (i = 0; i < g->ndim; i++) {
    vram__error_more(g, i ? ", " : " (expected ");
    vram__error_more_n(g, g->dim[i].name, g->dim[i].len);
  }
  vram__error_more(g, g->ndim ? ")" : "");
}

VRAM__FN void vram__error_more_i(vram_graph *g, int64_t v) {
  uint32_t n = vram__text_len(g->error.text);
  vram__text_puti(g->error.text, sizeof g->error.text, &n, v);
}

VRAM__FN void vram__error_more_dims(vram_graph *g, const vram_dims *d) {
  uint32_t i;
  vram__error_more(g, "[");
  for (i = 0; i < d->ndim; i++) {
    if (i)
      vram__error_more(g, ",");
    vram__error_more_i(g, d->v[i]);
  }
  vram__error_more(g, "]");
}

/* The graph's error, which is set, is at this place of the text if it has no place yet. Gives 0. */
VRAM__FN int vram__parse_located(vram__parser *p, const char *at) {
  vram_error *e = &p->g->error;
  vram__graph_fail(p->g, VRAM_ERR_MEMORY, ""); /* what is set stays */
  if (!e->line) {
    e->line = p->line;
    e->column = at >= p->start && at <= p->text_end ? (uint32_t)(at - p->start) + 1 : 1;
  }
  return 0;
}

/* An error of the text with what was found (text NULL: nothing to show) and what was expected
   (NULL: nothing to say). Gives 0. */
VRAM__FN int vram__parse_error_in(vram__parser *p, const char *at, vram_result code,
                                  const char *what, vram__span found, const char *expected) {
  vram_graph *g = p->g;
  if (g->error.code)
    return vram__parse_located(p, at);
  vram__graph_fail(g, code, what);
  if (found.text) {
    vram__error_more(g, found.len ? " (found " : " (found nothing");
    vram__error_more_n(g, found.text, found.len);
  }
  if (expected) {
    vram__error_more(g, found.text ? ", expected " : " (expected ");
    vram__error_more(g, expected);
  }
  if (found.text || expected)
    vram__error_more(g, ")");
  return vram__parse_located(p, at);
}

/* The same where the error is what was found. */
VRAM__FN int vram__parse_error(vram__parser *p, vram_result code, const char *what,
                               vram__span found, const char *expected) {
  return vram__parse_error_in(p, found.text, code, what, found, expected);
}

/* The same where there is nothing to show. */
VRAM__FN int vram__parse_refuse(vram__parser *p, const char *at, vram_result code, const char *what,
                                const char *expected) {
  return vram__parse_error_in(p, at, code, what, vram__span_all(NULL), expected);
}
