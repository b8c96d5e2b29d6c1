/* >>parallel/deepspeed3_module    ZeRO stage 3: modules whose parameters are `parameter` lines,
   which DeepSpeed gathers for as long as the whole module runs (deepspeed/runtime/zero/
   parameter_offload.py: hooks of every module's forward and backward) */
#include "parallel/deepspeed3.h"

/* The module's name with the point behind it: what is before the last one of a line's. */
static vram__span vram__ds3_module_name(const vram_node *line) {
  vram__span name = vram__node_label(line);
  while (name.len && name.text[name.len - 1] != '.')
    name.len--;
  return name;
}

/* Does n lie in a module of that line? */
static int vram__ds3_is_inside(const vram_node *n, const vram_node *line) {
  const vram__span name = vram__ds3_module_name(line), own = vram__node_label(n);
  const vram__round *r = n->round;
  while (r && r != line->round)
    r = r->up;
  return r == line->round && own.len > name.len && vram__text_equal(own.text, name.text, name.len);
}

/* A parameter's line belongs to a module that is there, or to a new one. */
static void vram__ds3_take_line(vram__ds3 *d, uint32_t *tail, uint32_t k) {
  const vram_node *line = d->ds.param[k].p->node;
  uint32_t i;
  for (i = 0; i < d->nmodule; i++) {
    const vram_node *first = d->module[i].line;
    if (first->round == line->round && vram__ds3_is_inside(line, first) &&
        vram__ds3_module_name(line).len == vram__ds3_module_name(first).len)
      break;
  }
  if (i == d->nmodule) {
    d->nmodule++;
    d->module[i].line = line;
    d->module[i].first = d->module[i].last = NULL;
    d->module[i].in_node = d->module[i].out_node = NULL;
    d->module[i].fn = d->module[i].in = d->module[i].before = 0;
    d->module[i].open = 0;
  } else
    d->at[tail[i]].next = k;
  tail[i] = k;
}

VRAM__FN void vram__ds3_take_modules(vram__step *s) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram_node *n;
  uint32_t k, i;
  d->nmodule = 0;
  for (n = s->g->first; n; n = n->next)
    for (i = 0; i < n->nparam; i++)
      if (n->param[i] && n->param[i]->kind != VRAM__BUFFER)
        d->at[d->by_index[n->param[i]->index]].user = n;
  for (k = 0; k < d->ds.nparam; k++) {
    d->at[k].next = VRAM__DS_NONE;
    if (d->ds.param[k].p->is_value)
      vram__ds3_take_line(d, d->list, k);
  }
  for (n = s->g->first; n && d->nmodule; n = n->next)
    for (i = 0; i < d->nmodule && n->nout && !vram__ds3_is_line(n); i++)
      if (vram__ds3_is_inside(n, d->module[i].line)) {
        if (!d->module[i].first)
          d->module[i].first = n;
        d->module[i].last = n;
      }
}

/* Before node n: modules that begin with it, the outermost first. */
VRAM__FN void vram__ds3_modules_begin(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t len, i, more = 1;
  for (len = 0; more; len++) { /* by the lengths of their names */
    more = 0;
    for (i = 0; i < d->nmodule; i++) {
      vram__ds3_module *m = d->module + i;
      const uint32_t own = m->first == n ? vram__ds3_module_name(m->line).len : 0;
      more |= m->first == n && own > len;
      if (m->first != n || own != len)
        continue;
      m->open = 1;
      m->before = s->tape.last;
      m->fn = m->in = 0;
      vram__ds3_fetch(s, m->line);
    }
  }
}

/* The first record inside is its input's. A call that is recomputed may stop before its end. */
static void vram__ds3_module_find_input(vram__step *s, vram__ds3_module *m) {
  uint32_t at = s->tape.last;
  if (!s->grad || (m->in && vram__grad_fn_at(s, m->in)->refs))
    return;
  for (; at > m->before; at = vram__grad_fn_at(s, at)->prev)
    if (vram__grad_fn_at(s, at)->refs)
      m->in = at;
  if (m->in) {
    vram__grad_fn_at(s, m->in)->hooked |= VRAM__DS3_HOOK_IN;
    m->in_node = vram__grad_fn_at(s, m->in)->node;
  }
}

static void vram__ds3_module_end_of(vram__step *s, vram__ds3_module *m) {
  m->open = 0;
  vram__ds3_end(s, m->line);
  if (s->grad && m->fn) {
    vram__grad_fn_at(s, m->fn)->hooked |= VRAM__DS3_HOOK_OUT;
    m->out_node = vram__grad_fn_at(s, m->fn)->node;
  }
}

/* Behind node n, or NULL: behind the root module, those that end with it, the innermost first. */
VRAM__FN void vram__ds3_modules_end(vram__step *s, const vram_node *n) {
  vram__ds3 *d = vram__ds3_of(s);
  const int known = n && n->nout && s->grad && s->name_of[n->out[0].index] != s->g->nvalue;
  uint32_t i;
  for (i = 0; i < d->nmodule; i++) {
    vram__ds3_module *m = d->module + i;
    if (m->open && known) {
      const uint32_t fn = vram__tensor_fn(s, s->variable[s->name_of[n->out[0].index]].t);
      if (vram__is_grad_fn(fn))
        m->fn = fn;
    }
    if (m->open)
      vram__ds3_module_find_input(s, m);
  }
  while (i--)
    if (d->module[i].open && (!n || d->module[i].last == n))
      vram__ds3_module_end_of(s, d->module + i);
}

/* pre_sub_module_backward_function, the outermost first */
VRAM__FN void vram__ds3_modules_record(vram__step *s, uint32_t fn) {
  vram__ds3 *d = vram__ds3_of(s);
  uint32_t i;
  for (i = 0; i < d->nmodule; i++)
    if (d->module[i].out_node == vram__grad_fn_at(s, fn)->node) {
      vram__ds3_fetch(s, d->module[i].line);
      vram__ds3_backward_began(s, d->module[i].line);
    }
}

/* post_sub_module_backward_function */
VRAM__FN void vram__ds3_modules_recorded(vram__step *s, uint32_t fn) {
  vram__ds3 *d = vram__ds3_of(s);
  const vram__grad_fn *f = vram__grad_fn_at(s, fn);
  const vram__edge *edge = (const vram__edge *)(const void *)(f + 1);
  uint32_t i = d->nmodule, k, others = 0;
  for (k = 0; k < f->nin; k++)
    others += vram__is_grad_fn(edge[k].fn) ? 1u : 0u;
  while (others && i--)
    if (d->module[i].in_node == f->node) {
      d->module[i].open = 0;
      vram__ds3_post_backward(s, d->module[i].line);
    }
}
