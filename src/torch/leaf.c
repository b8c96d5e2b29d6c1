/* >>torch/leaf    tensors that become leaves while the program runs: requires_grad_() */
#include "torch/torch.h"

static inline vram__made *vram__made_at(const vram__step *s, uint32_t edge) {
  return s->leaf.made_of + (edge - s->leaf.made);
}

/* t wants a gradient from here on; if nothing that wants one made it, it is a leaf. */
VRAM__FN void vram__leaf_make(vram__step *s, vram__tensor t) {
  const uint32_t i = s->leaf.made_free, leaf = (s->leaf.made & ~VRAM__LEAF) + i;
  if (!t.st || (t.st & VRAM__LEAF) || vram__slot_at(s, t.st)->req)
    return;
  if (i == s->leaf.nmade) {
    s->failed = VRAM_ERR_MEMORY;
    return;
  }
  s->leaf.made_free = s->leaf.made_of[i].edges;
  s->leaf.made_of[i].slot = t.st;
  s->leaf.made_of[i].edges = 0;
  vram__leaf_set(s, leaf, t.d, t.dt);
  vram__leaf_spread(s, leaf);
  vram__slot_at(s, t.st)->fn = VRAM__LEAF | leaf;
  vram__slot_at(s, t.st)->req = 1;
}

/* One more record leads there. */
VRAM__COLD VRAM__FN void vram__leaf_hold(vram__step *s, uint32_t edge) {
  vram__made *m = vram__made_at(s, edge);
  if (!m->edges++)
    vram__slot_retain(s, m->slot);
}

/* One less; after backward the loss has taken over what they held. */
VRAM__COLD VRAM__FN void vram__leaf_let_go(vram__step *s, uint32_t edge) {
  vram__made *m = vram__made_at(s, edge);
  if (m->slot && m->edges && --m->edges == 0)
    vram__slot_release(s, m->slot);
}

/* The tensor goes, and its gradient before it. */
VRAM__COLD VRAM__FN void vram__leaf_gone(vram__step *s, uint32_t edge) {
  vram__leaf *l = s->leaf.at + (edge & ~VRAM__LEAF);
  const vram__tensor grad = l->grad;
  vram__made_at(s, edge)->slot = 0;
  vram__made_at(s, edge)->edges = s->leaf.made_free;
  s->leaf.made_free = edge - s->leaf.made;
  l->grad = vram__tensor_none();
  vram__tensor_release(s, grad);
}

/* Backward is through: what records still lead to lives as long as the graph, which the loss
   holds. The leaves that were made last are nearest to it. */
VRAM__FN void vram__leaves_settle(vram__step *s) {
  uint32_t i = s->leaf.nmade;
  while (i-- && !s->failed) {
    vram__made *m = s->leaf.made_of + i;
    vram__tensor t;
    if (!m->slot || !m->edges)
      continue;
    if (s->nheld == s->held_room) {
      s->failed = VRAM_ERR_MEMORY;
      return;
    }
    m->edges = 0;
    t.st = m->slot;
    t.d = vram__slot_at(s, m->slot)->d;
    t.dt = s->leaf.at[(s->leaf.made & ~VRAM__LEAF) + i].dt;
    s->held[s->nheld++] = t;
  }
}
