/* >>model/units    modules of a model, for wrappers of torch.distributed: `unit` and `return` */
#include "model/model.h"

/* A name of a `unit` line, or of a `stage` line. */
VRAM__FN int vram__unit_add(vram_graph *g, vram__span name, int stage) {
  vram__unit_word **const first = stage ? &g->stage_first : &g->unit_first;
  vram__unit_word **const last = stage ? &g->stage_last : &g->unit_last;
  vram__unit_word *w = (vram__unit_word *)vram__graph_take(g, sizeof *w);
  if (!w)
    return 0;
  w->next = NULL;
  w->text = vram__graph_keep_text(g, name.text, name.len);
  w->len = name.len;
  if (!w->text)
    return 0;
  if (*last)
    (*last)->next = w;
  else
    *first = w;
  *last = w;
  return 1;
}

static vram_result vram__unit_names(vram_graph *g, const char *names, int stage) {
  const char *at = names;
  if (!names)
    vram__graph_fail(g, VRAM_ERR_VALUE, "names of modules that are NULL");
  while (!g->error.code && *at) {
    const char *const from = at;
    while (*at && *at != ' ')
      at++;
    if (at > from)
      vram__unit_add(g, vram__span_of(from, at), stage);
    at += *at == ' ';
  }
  return g->error.code;
}

VRAM_API vram_result vram_graph_units(vram_graph *g, const char *names) {
  return vram__unit_names(g, names, 0);
}

VRAM_API vram_result vram_graph_stages(vram_graph *g, const char *names) {
  return vram__unit_names(g, names, 1);
}

VRAM_API vram_result vram_graph_return(vram_graph *g, vram_value *const *v, uint32_t n) {
  uint32_t i;
  if (!g->error.code && (g->returned || !g->last || !n))
    vram__graph_fail(g, VRAM_ERR_SYNTAX,
                     g->returned ? "a module returns twice" : "a module that returns nothing");
  for (i = 0; i < n; i++)
    if (!v[i])
      vram__graph_fail(g, VRAM_ERR_VALUE, "a value that is returned and NULL");
  if (g->error.code)
    return g->error.code;
  g->result = (vram_value **)vram__graph_take(g, n * (uint64_t)sizeof *g->result);
  if (!g->result)
    return g->error.code;
  for (i = 0; i < n; i++)
    g->result[i] = v[i];
  g->nresult = n;
  g->returned = g->last;
  return VRAM_OK;
}
