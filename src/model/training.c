/* >>model/training    what a training step does beside its forward pass: backward, zero_grad, step,
   weights that are frozen for a part of it */
#include "model/model.h"

/* v[0].backward(), or torch.autograd.backward(v) with gradients of their sizes */
VRAM__FN vram_node *vram__training_backward(vram_graph *g, vram_value **v, uint32_t nv, int how) {
  const int retain = (how & VRAM_BACKWARD_RETAIN) != 0, scale = (how & VRAM_BACKWARD_SCALE) != 0;
  vram_node *n;
  if (g->checkpoint_open)
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "backward inside a checkpoint block");
  if (g->error.code)
    return NULL;
  n = vram__node_drop(g, (uint32_t)(VRAM__OP_backward + retain + 2 * scale), v, nv);
  if (n)
    n->flags |= VRAM__DROPS;
  g->nbackward++;
  g->nscaled += scale != 0;
  return n;
}

/* A `zero_grad`, `step`, `freeze` or `unfreeze` line. What it names are modules or parameters,
   which need not be there yet: the node's inputs are values that nothing makes and that have only
   their names. */
VRAM__FN vram_node *vram__training_names_line(vram_graph *g, uint32_t op, const vram__span *name,
                                              uint32_t nname) {
  vram_value *in[64];
  vram_node *n;
  uint32_t i;
  if (g->checkpoint_open && op >= VRAM__OP_freeze)
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "weights are frozen inside a checkpoint block");
  if (nname > 64)
    vram__graph_fail(g, VRAM_ERR_LIMIT, "more than 64 names");
  for (i = 0; i < nname && !g->error.code; i++) {
    vram_value *v = (vram_value *)vram__graph_take(g, sizeof *v);
    if (!v)
      return NULL;
    vram__memory_zero(v, sizeof *v);
    v->name = vram__graph_keep_text(g, name[i].text, name[i].len);
    v->name_len = (uint8_t)name[i].len;
    v->last = UINT32_MAX;
    in[i] = v;
  }
  if (g->error.code)
    return NULL;
  n = vram__node_drop(g, op, in, nname);
  if (n)
    n->flags |= VRAM__DROPS;
  if (op == VRAM__OP_step)
    g->nstep++;
  else if (op == VRAM__OP_zero_grad)
    g->nzero_grad++;
  else
    g->nfrozen++;
  return n;
}

VRAM_API vram_result vram_graph_backward(vram_graph *g, vram_value *v, int how) {
  if (!v)
    vram__graph_fail(g, VRAM_ERR_VALUE, "backward of a value that is NULL");
  else
    vram__training_backward(g, &v, 1, how);
  return g->error.code;
}

/* GradScaler.update() */
VRAM__FN vram_node *vram__training_update(vram_graph *g) {
  vram_node *n;
  if (g->checkpoint_open)
    vram__graph_fail(g, VRAM_ERR_SYNTAX, "update inside a checkpoint block");
  if (g->error.code)
    return NULL;
  n = vram__node_drop(g, VRAM__OP_update, NULL, 0);
  if (n)
    n->flags |= VRAM__DROPS;
  g->nupdate++;
  return n;
}

VRAM_API vram_result vram_graph_update(vram_graph *g) {
  vram__training_update(g);
  return g->error.code;
}

/* The names of a call as a line of that op. */
static vram_result vram__training_names(vram_graph *g, uint32_t op, const char *names) {
  const char *at = names ? names : "";
  vram__span name[65];
  uint32_t n = 0;
  while (*at && !g->error.code) {
    const char *const from = at;
    while (*at && *at != ' ')
      at++;
    if (at > from && n < 65) {
      name[n] = vram__span_of(from, at);
      if (!vram__span_is_name(name[n++]))
        vram__graph_fail(g, VRAM_ERR_NAME, "not the name of a module or parameter");
    }
    at += *at == ' ';
  }
  if (!g->error.code)
    vram__training_names_line(g, op, name, n);
  return g->error.code;
}

VRAM_API vram_result vram_graph_zero_grad(vram_graph *g, const char *names) {
  return vram__training_names(g, VRAM__OP_zero_grad, names);
}

VRAM_API vram_result vram_graph_step(vram_graph *g, const char *names) {
  return vram__training_names(g, VRAM__OP_step, names);
}

VRAM_API vram_result vram_graph_freeze(vram_graph *g, const char *names) {
  return vram__training_names(g, VRAM__OP_freeze, names);
}

VRAM_API vram_result vram_graph_unfreeze(vram_graph *g, const char *names) {
  return vram__training_names(g, VRAM__OP_unfreeze, names);
}
