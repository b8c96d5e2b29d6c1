/* >>model/order    parameters in the order of the module, where the program uses them in another
 * one */
#include "model/model.h"

/* A parameter that comes behind `after`. */
typedef struct vram__moved {
  struct vram__moved *next;
  vram_param *param, *after;
} vram__moved;

static int vram__order_param(vram_graph *g, vram_param *p) {
  vram__moved *m;
  if (p->is_moved) {
    vram__graph_fail(g, VRAM_ERR_NAME, "an order line names these parameters already");
    return 0;
  }
  m = (vram__moved *)vram__graph_take(g, sizeof *m);
  if (!m)
    return 0;
  m->next = NULL;
  m->param = p;
  m->after = g->param_last;
  p->is_moved = 1;
  if (g->moved_last)
    g->moved_last->next = m;
  else
    g->moved_first = m;
  g->moved_last = m;
  return 1;
}

/* What the node of v owns comes behind all parameters that there are. 0: an error. */
VRAM__FN int vram__graph_order(vram_graph *g, const vram_value *v) {
  vram_node *n = v->node;
  uint32_t i, own = 0;
  for (i = 0; n && i < n->nparam; i++)
    if (n->param[i] && n->param[i]->node == n) {
      if (!vram__order_param(g, n->param[i]))
        return 0;
      own++;
    }
  if (!own)
    vram__graph_fail(g, VRAM_ERR_NAME, "an order line names what has no parameters of its own");
  return own != 0;
}

/* All lines were read: the list of parameters gets its order. */
VRAM__FN void vram__graph_reorder(vram_graph *g) {
  vram_param *p = g->param_first, *next, **end = &g->param_first;
  vram__moved *m = g->moved_first;
  if (!m)
    return;
  g->param_room = 0; /* the last one of the list is no longer the last in memory */
  for (; p; p = next) {
    next = p->next;
    if (!p->is_moved) {
      *end = g->param_last = p;
      end = &p->next;
    }
    for (; m && m->after == p; m = m->next) {
      *end = g->param_last = m->param;
      end = &m->param->next;
    }
  }
  *end = NULL;
  g->moved_first = g->moved_last = NULL;
}
